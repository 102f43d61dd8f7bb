/* crash_loop.c - a program that is killed again and again, started again, and ends as if nothing had happened.
 *
 * Shows what a program does at its start so that a loop around it is all that is needed: load the newest checkpoint
 * that is intact, and go on; saves remove what killed ones left. Does not show several ranks.
 *
 * Build: cc -O2 crash_loop.c -I../.. -o crash_loop -lm -pthread
 * Run:   ./crash_loop [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELLS = 20000, STEPS = 1000, SAVE_EVERY = 20 };
typedef struct world { float cells[CELLS]; int64_t step; } world;
static world now, again;
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static void advance(world *w) {
    const int64_t i = w->step * 7919 % CELLS;
    w->cells[i] = 0.5f * w->cells[(i + 1) % CELLS] + (float)(w->step % 101);
    w->step++;
}
static void resume(const char *directory, dcp_tensor *tensors, size_t count) {
    dcp_load_latest_desc load = DCP_ZERO;
    load.directory = directory; load.tensors = tensors; load.tensor_count = count;
    load.io.log = dcp_log_stderr;       /* one that a disk has damaged is passed over, and this says so */
    if (dcp_load_latest(&load, &err) == DCP_E_NOT_FOUND) return;        /* nothing was committed yet: the first start */
    check(err.status, "load");
    printf("resumed at step %lld\n", (long long)now.step);
}

int main(int argc, char **argv) {
    const struct timespec pause = {0, 1000000};
    const int64_t cells = CELLS;
    char directory[400], path[512];
    dcp_tensor tensors[] = {dcp_array("cells", DCP_FP32, now.cells, 1, &cells),
                            dcp_scalar("step", DCP_INT64, &now.step)};
    snprintf(directory, sizeof directory, "%s/crash_loop", argc > 1 ? argv[1] : "checkpoints");
    resume(directory, tensors, 2);
    while (now.step < STEPS) {
        advance(&now);
        nanosleep(&pause, NULL);
        if (now.step % SAVE_EVERY != 0) continue;
        dcp_save_desc save = DCP_ZERO;
        snprintf(path, sizeof path, "%s/step_%06lld", directory, (long long)now.step);
        save.path = path; save.tensors = tensors; save.tensor_count = 2;
        save.step = now.step; save.keep_last = 2;
        save.io.log = dcp_log_stderr;
        check(dcp_save(&save, &err), "save");   /* removes what killed saves left, too */
    }
    while (again.step < STEPS) advance(&again);
    if (memcmp(&now, &again, sizeof now) != 0) return fprintf(stderr, "it differs from one long run\n"), 1;
    printf("proved: step %d is bit for bit that of a run that was never killed\n", STEPS);
    return 0;
}
