/* preempt.c - SIGTERM says that this machine will be gone soon: one more save, with a deadline.
 *
 * The handler only cancels the save in the background that may be running (dcp_cancel_request may be called from a
 * handler); the loop sees that after its step, and saves once more with io.deadline_ms: the save is durable by then, or
 * is abandoned, says how far it got, and leaves the previous checkpoint as it was. This program sends itself the
 * signal, first with enough time, then with none. Does not show several ranks, which would all get the signal.
 * Build: cc -O2 preempt.c -I.. -o preempt -lm -pthread
 * Run:   ./preempt [directory]         (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 4 * 1024 * 1024 };
static double cells[CELLS];             /* 32 MiB: the state of a simulation */
static int64_t step;
static dcp_cancel leaving;              /* not zero: SIGTERM has come */
static dcp_error err;

static void on_term(int number) {
    (void)number;
    dcp_cancel_request(&leaving);
}
static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static void simulate_one_step(void) {
    step++;
    for (int i = 0; i < CELLS; i++) cells[i] = (double)step * 1000 + i % 997;
}
static const int64_t shape = CELLS;
static dcp_status save_or_load(const char *path, dcp_saver *saver, int64_t deadline_ms, int is_load) {
    dcp_tensor tensors[] = {dcp_array("cells", DCP_FP64, cells, 1, &shape), dcp_scalar("step", DCP_INT64, &step)};
    dcp_save_desc save = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    save.path = load.path = path;
    save.io.log = load.io.log = dcp_log_stderr;
    save.tensors = load.tensors = tensors;
    save.tensor_count = load.tensor_count = 2;
    save.step = step, save.overwrite = 1;
    save.io.deadline_ms = deadline_ms;
    if (saver) save.io.cancel = &leaving;
    if (is_load) return dcp_load(&load, &err);
    return saver ? dcp_save_begin(saver, &save, &err) : dcp_save(&save, &err);
}
/* Runs until SIGTERM comes, after `steps` steps; returns the status of the last save. */
static dcp_status run(const char *path, dcp_saver *saver, int steps, int64_t deadline_ms) {
    leaving.requested = 0;
    while (!leaving.requested) {
        simulate_one_step();
        if (dcp_save_poll(saver, &err) != DCP_PENDING) {
            check(err.status, "save in the background");
            check(save_or_load(path, saver, 0, 0), "begin");
        }
        if (--steps == 0) raise(SIGTERM);
    }
    dcp_status status = dcp_save_wait(saver, -1, &err); /* not long: it was cancelled, or is done */
    if (status != DCP_E_CANCELLED) check(status, "save in the background");
    return save_or_load(path, NULL, deadline_ms, 0);
}

int main(int argc, char **argv) {
    char path[500];
    dcp_saver *saver;
    snprintf(path, sizeof path, "%s/preempt/state", argc > 1 ? argv[1] : "checkpoints");
    signal(SIGTERM, on_term);
    check(dcp_saver_open(NULL, &saver, &err), "open");

    check(run(path, saver, 5, 120000), "the last save");
    printf("SIGTERM in step %lld: saved in time\n", (long long)step);
    if (run(path, saver, 1, 1) != DCP_E_TIMEOUT) {
        fprintf(stderr, "one millisecond was enough? %s\n", err.message);
        return 1;
    }
    printf("SIGTERM in step %lld: no time left; the save was abandoned\n", (long long)step);
    check(dcp_saver_close(saver, &err), "close");

    check(save_or_load(path, NULL, 0, 1), "load");
    for (int i = 0; i < CELLS; i++)
        if (step < 5 || cells[i] != (double)step * 1000 + i % 997) {
            fprintf(stderr, "cell %d is wrong\n", i);
            return 1;
        }
    printf("proved: after a save that ran out of time, the previous checkpoint loads, intact\n");
    return 0;
}
