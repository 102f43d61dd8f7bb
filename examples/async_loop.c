/* async_loop.c - a training loop that never waits for the disk.
 *
 * The same loop twice: with dcp_save, and with a dcp_saver, whose dcp_save_begin copies the tensors and leaves
 * the writing to a thread of its own. The loop changes its model right after begin, as a training step does; what
 * is stored is the model as it was. If a save is still running when the next is due, begin waits for it (DCP_BUSY_WAIT;
 * with DCP_BUSY_REFUSE the next is skipped). Prints how long a save holds up its step. Does not show many ranks, where
 * poll drives the save if the coordinator is not thread-safe (see >>api_save in dcp.h), or tensors of a GPU.
 *
 * Build: cc -O2 async_loop.c -I.. -o async_loop -lm -pthread
 * Run:   ./async_loop [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WEIGHTS = 8 * 1024 * 1024, STEPS = 12, EVERY = 4 };      /* 32 MiB */
static float weights[WEIGHTS];
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static double now_ms(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
static void train_one_step(int step) {
    for (int i = 0; i < WEIGHTS; i++) weights[i] = (float)step + (float)(i % 1000) / 1024;
}
/* Returns how long a save holds up its step, on average. saver NULL: dcp_save. */
static double run(const char *directory, dcp_saver *saver) {
    const int64_t shape = WEIGHTS;
    dcp_tensor tensor = dcp_array("weights", DCP_FP32, weights, 1, &shape);
    double lost = 0;
    for (int step = 1; step <= STEPS; step++) {
        train_one_step(step);
        if (saver && dcp_save_poll(saver, &err) != DCP_PENDING) check(err.status, "save in the background");
        if (step % EVERY != 0) continue;
        char path[512];
        snprintf(path, sizeof path, "%s/%s/step_%d", directory, saver ? "async" : "sync", step);
        dcp_save_desc save = DCP_ZERO;
        save.path = path;
        save.io.log = dcp_log_stderr;
        save.tensors = &tensor;
        save.tensor_count = 1;
        save.step = step, save.overwrite = 1;
        double began = now_ms();
        if (saver) check(dcp_save_begin(saver, &save, &err), "begin");
        else check(dcp_save(&save, &err), "save");
        lost += now_ms() - began;
    }
    if (saver) check(dcp_save_wait(saver, -1, &err), "the last save");
    return lost / (STEPS / EVERY);
}

int main(int argc, char **argv) {
    const char *base = argc > 1 ? argv[1] : "checkpoints";
    char directory[400], path[512];
    const int64_t shape = WEIGHTS;
    dcp_saver *saver;
    snprintf(directory, sizeof directory, "%s/async_loop", base);
    check(dcp_saver_open(NULL, &saver, &err), "open");
    double sync_ms = run(directory, NULL), async_ms = run(directory, saver);
    check(dcp_saver_close(saver, &err), "close");
    printf("a save of 32 MiB holds up its step for %.1f ms with dcp_save, %.1f ms with dcp_save_begin\n", sync_ms,
           async_ms);

    for (int step = EVERY; step <= STEPS; step += EVERY) {      /* each as it was when it was saved */
        snprintf(path, sizeof path, "%s/async/step_%d", directory, step);
        dcp_tensor tensor = dcp_array("weights", DCP_FP32, weights, 1, &shape);
        dcp_load_desc load = DCP_ZERO;
        load.path = path;
        load.io.log = dcp_log_stderr;
        load.tensors = &tensor;
        load.tensor_count = 1;
        check(dcp_load(&load, &err), "load");
        for (int i = 0; i < WEIGHTS; i++)
            if (weights[i] != (float)step + (float)(i % 1000) / 1024) {
                fprintf(stderr, "step %d, weight %d is wrong\n", step, i);
                return 1;
            }
    }
    printf("proved: %d checkpoints hold their own step, though the loop did not wait\n", STEPS / EVERY);
    return 0;
}
