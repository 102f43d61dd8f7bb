/* crash_loop.c - a program that is killed again and again, started again, and ends as if nothing had happened.
 *
 * Shows what a program does at its start so that a loop around it is all that is needed: remove what killed saves left,
 * load the newest checkpoint that is intact, go on. Does not show several ranks, or a state that itself is the cause.
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
    char *newest;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    sweep.directory = latest.directory = directory;
    sweep.grace_seconds = -1;           /* at once, since no other program saves here; else leave the default, a day */
    sweep.io.log = latest.io.log = load.io.log = dcp_log_stderr;
    dcp_status status = dcp_sweep(&sweep, NULL, &err);
    if (status == DCP_E_NOT_FOUND) return;                              /* no directory: the first start */
    check(status, "sweep");
    latest.verify = DCP_VERIFY_ALL;     /* one that a disk has damaged is passed over, and the log says so */
    status = dcp_latest(&latest, &newest, &err);
    if (status == DCP_E_NOT_FOUND) return;                              /* killed before the first save was committed */
    check(status, "latest");
    load.path = newest; load.tensors = tensors; load.tensor_count = count;
    check(dcp_load(&load, &err), "load");
    dcp_free(newest);
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
        dcp_training training = DCP_ZERO;
        dcp_save_desc save = DCP_ZERO;
        dcp_prune_desc prune = DCP_ZERO;
        snprintf(path, sizeof path, "%s/step_%06lld", directory, (long long)now.step);
        training.step = now.step;
        save.path = path; save.tensors = tensors; save.tensor_count = 2; save.training = &training;
        prune.directory = directory; prune.keep_last = 2;
        save.io.log = prune.io.log = dcp_log_stderr;
        check(dcp_save(&save, &err), "save");
        check(dcp_prune(&prune, NULL, &err), "prune");
    }
    while (again.step < STEPS) advance(&again);
    if (memcmp(&now, &again, sizeof now) != 0) return fprintf(stderr, "it differs from one long run\n"), 1;
    printf("proved: step %d is bit for bit that of a run that was never killed\n", STEPS);
    return 0;
}
