/* game_slots.c - a game's slots: saved over and over, listed in a menu, one of them damaged.
 *
 * Shows a file for each slot (DCP_LAYOUT_SINGLE, overwrite), what a menu shows without loading (dcp_list, fields), two
 * autosaves that take turns, and what to do with a slot that a disk has damaged. Does not show cloud storage.
 *
 * Build: cc -O2 game_slots.c -I../.. -o game_slots -lm -pthread
 * Run:   ./game_slots [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THINGS = 5000 };
typedef struct game { float place[THINGS][3]; int32_t health[THINGS]; int64_t turn; } game;
static game now;
static char directory[400];
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static void play(int turns) {
    for (; turns > 0; turns--, now.turn++) {
        for (int i = 0; i < THINGS; i++) now.place[i][i % 3] += (float)(i % 7), now.health[i]++;
    }
}
static size_t list(dcp_tensor tensors[3]) {
    const int64_t places[] = {THINGS, 3};
    tensors[0] = dcp_array("place", DCP_FP32, now.place, 2, places);
    tensors[1] = dcp_array("health", DCP_INT32, now.health, 1, places);
    tensors[2] = dcp_scalar("turn", DCP_INT64, &now.turn);
    return 3;
}
/* The old content of the slot loads until the new one is on disk. */
static dcp_status save_slot(const char *slot, const char *chapter) {
    char path[512];
    dcp_tensor tensors[3];
    dcp_training training = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    const dcp_field fields[] = {{"chapter", chapter}, {"gameVersion", "1.4"}};
    snprintf(path, sizeof path, "%s/%s", directory, slot);
    training.step = now.turn;
    save.path = path; save.tensors = tensors; save.tensor_count = list(tensors); save.training = &training;
    save.fields = fields; save.field_count = 2;
    save.layout = DCP_LAYOUT_SINGLE; save.overwrite = 1;
    return dcp_save(&save, &err);
}
static dcp_status load_slot(const char *path) {
    dcp_tensor tensors[3];
    dcp_load_desc load = DCP_ZERO;
    load.path = path; load.tensors = tensors; load.tensor_count = list(tensors);
    return dcp_load(&load, &err);
}
static void show(const dcp_list_entry *entry) {         /* a line of the menu; reads the document, not the data */
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *slot;
    desc.path = entry->path;
    if (entry->status == DCP_OK && dcp_open(&desc, &slot, &err) == DCP_OK) {
        const char *chapter = dcp_metadata_field(dcp_checkpoint_metadata(slot), "chapter");
        printf("%s  turn %lld  %s\n", strrchr(entry->path, '/') + 1, (long long)entry->step, chapter ? chapter : "");
        dcp_close(slot);
    } else {
        printf("%s  damaged\n", strrchr(entry->path, '/') + 1);
    }
}
/* The menu, newest first, with every byte checked; returns the path of the newest slot that is whole: dcp_free it. */
static char *menu(void) {
    char *newest = NULL;
    size_t count;
    dcp_list_entry *entries;
    dcp_list_desc desc = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    desc.directory = latest.directory = directory;
    desc.verify = latest.verify = DCP_VERIFY_ALL;
    check(dcp_list(&desc, &entries, &count, &err), "list");
    for (size_t i = 0; i < count; i++) show(&entries[i]);
    dcp_free(entries);
    check(dcp_latest(&latest, &newest, &err), "latest");
    return newest;
}
static void damage(const char *slot) {                  /* what a bad disk does: one bit */
    char path[512];
    snprintf(path, sizeof path, "%s/%s.checkpoint", directory, slot);
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, -5, SEEK_END)) exit(1);
    const int byte = fgetc(file);
    if (fseek(file, -5, SEEK_END) || fputc(byte ^ 1, file) == EOF || fclose(file)) exit(1);
}

int main(int argc, char **argv) {
    snprintf(directory, sizeof directory, "%s/game_slots", argc > 1 ? argv[1] : "checkpoints");
    play(10);
    check(save_slot("slot_1", "The harbour"), "save");
    play(10);
    check(save_slot("autosave_a", "The bridge"), "save");
    play(10);
    check(save_slot("autosave_b", "The bridge"), "save");  /* by turns: one of them is always whole */
    play(10);
    check(save_slot("slot_2", "The tower"), "save");

    damage("slot_2");
    char *newest = menu();
    memset(&now, 0, sizeof now);
    check(load_slot(newest), "load");
    dcp_free(newest);
    if (now.turn != 30 || now.health[7] != 30) return fprintf(stderr, "turn %lld?\n", (long long)now.turn), 1;
    printf("proved: slot_2 was damaged and refused; the newest that is whole, turn 30, was loaded\n");
    return 0;
}
