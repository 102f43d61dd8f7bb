/* game_save.c - a game that saves its world every minute and keeps the last three saves.
 *
 * Shows many small objects in ONE checkpoint: 3,000 entities, each with a name and a length of its own, are
 * one atomic save, so no reload ever sees half of a minute. The reader asks the checkpoint what is in it and
 * reads everything with one call; keep_last keeps three saves. Does not show the compact way: where all
 * objects are alike, one array for each field is smaller and faster.
 * Build: cc -O2 game_save.c -I.. -o game_save -lm -pthread
 * Run:   ./game_save [directory]       (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTITIES = 3000, MINUTES = 6, KEEP = 3, LONGEST = 12 };
typedef struct entity { char name[24]; int64_t count; int32_t body[LONGEST]; } entity; /* x, y, things */
static entity world[ENTITIES], reloaded[ENTITIES];
static dcp_tensor tensors[ENTITIES];
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

static void play_one_minute(void) {     /* entities wander about, and some pick things up */
    for (int i = 0; i < ENTITIES; i++) {
        world[i].body[0] += i % 7 - 3;
        world[i].body[1] += i % 5 - 2;
        if (i % 3 == 0 && world[i].count < LONGEST) world[i].body[world[i].count++] = 1000 + i;
    }
}

static void save_world(const char *directory, int minute) {
    dcp_save_desc save = DCP_ZERO;
    char path[512];
    for (int i = 0; i < ENTITIES; i++)
        tensors[i] = dcp_array(world[i].name, DCP_INT32, world[i].body, 1, &world[i].count);
    snprintf(path, sizeof path, "%s/minute_%03d", directory, minute);
    save.path = path; save.io.log = dcp_log_stderr;
    save.tensors = tensors;
    save.tensor_count = ENTITIES;
    save.step = minute;
    save.keep_last = KEEP;
    save.overwrite = 1;
    check(dcp_save(&save, &err), "save");
}

static void reload_world(const char *path) {
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    open.path = path; open.io.log = dcp_log_stderr;
    check(dcp_open(&open, &checkpoint, &err), "open");
    size_t all = dcp_checkpoint_tensor_count(checkpoint), count = all < ENTITIES ? all : (size_t)ENTITIES;
    for (size_t i = 0; i < count; i++) {                                /* sorted by name, as the world is */
        const dcp_tensor_info *info = dcp_checkpoint_tensor(checkpoint, i);
        reloaded[i].count = info->ndim == 1 && info->shape[0] <= LONGEST ? info->shape[0] : 0;
        snprintf(reloaded[i].name, sizeof reloaded[i].name, "%s", info->name);
        tensors[i] = dcp_array(reloaded[i].name, DCP_INT32, reloaded[i].body, 1, &reloaded[i].count);
    }
    check(dcp_read(checkpoint, tensors, count, &err), "read");
    dcp_close(checkpoint);
}

int main(int argc, char **argv) {
    char directory[400];
    dcp_list_desc list = DCP_ZERO;
    dcp_list_entry *entries;
    size_t saves;

    snprintf(directory, sizeof directory, "%s/game_saves", argc > 1 ? argv[1] : "checkpoints");
    for (int i = 0; i < ENTITIES; i++) snprintf(world[i].name, sizeof world[i].name, "entity/%05d", i);
    for (int i = 0; i < ENTITIES; i++) world[i].count = 2;
    for (int minute = 1; minute <= MINUTES; minute++) { play_one_minute(); save_world(directory, minute); }

    list.directory = directory; list.io.log = dcp_log_stderr;
    check(dcp_list(&list, &entries, &saves, &err), "list");
    reload_world(entries[0].path);                                      /* the newest comes first */
    dcp_free(entries);
    if (saves != KEEP || memcmp(world, reloaded, sizeof world) != 0) {
        fprintf(stderr, "the world differs from what was saved\n");
        return 1;
    }
    printf("proved: %d saves kept, and all %d entities of the newest came back\n", (int)saves, ENTITIES);
    return 0;
}
