/* resume_loop.c - a training loop that can be stopped at any time and resumes where it was.
 *
 * Shows the pattern: dcp_load_latest loads the newest checkpoint that is not damaged; DCP_E_NOT_FOUND, and nothing
 * else, means a fresh start; every other status is an error to look at, never a reason to start over. The name of a
 * save has the step for people, `step` has it for programs, and keep_last removes older ones after each save. Each run
 * does 30 more steps, so run it twice. Does not show a real model: see demo_charlm.c.
 * Build: cc -O2 resume_loop.c -I.. -o resume_loop -lm -pthread
 * Run:   ./resume_loop [directory]     (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model { double weight, bias, velocity[2]; int64_t step; } model; /* all that matters */
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

static void train_one_step(model *m) {  /* fits y = 3x - 1 by gradient descent with momentum */
    double x = (double)(m->step * 7 % 11) / 11, error = m->weight * x + m->bias - (3 * x - 1);
    m->velocity[0] = 0.9 * m->velocity[0] - 0.05 * error * x;
    m->velocity[1] = 0.9 * m->velocity[1] - 0.05 * error;
    m->weight += m->velocity[0];
    m->bias += m->velocity[1];
    m->step++;
}

int main(int argc, char **argv) {
    char directory[400], path[512];
    model m = DCP_ZERO, never_stopped = DCP_ZERO;
    const int64_t two = 2;
    dcp_tensor tensors[] = {dcp_scalar("weight", DCP_FP64, &m.weight), dcp_scalar("bias", DCP_FP64, &m.bias),
                            dcp_array("velocity", DCP_FP64, m.velocity, 1, &two),
                            dcp_scalar("step", DCP_INT64, &m.step)};    /* the same list saves and loads */
    snprintf(directory, sizeof directory, "%s/resume_loop", argc > 1 ? argv[1] : "checkpoints");

    dcp_load_latest_desc load = DCP_ZERO;
    load.directory = directory;
    load.io.log = dcp_log_stderr;       /* says which newer ones are damaged, if any */
    load.tensors = tensors;
    load.tensor_count = 4;
    dcp_status status = dcp_load_latest(&load, &err);
    if (status != DCP_E_NOT_FOUND) check(status, "load");
    if (status == DCP_OK) printf("resumed at step %lld\n", (long long)m.step);
    else printf("fresh start\n");

    for (int64_t last = m.step + 30; m.step < last;) {
        train_one_step(&m);
        if (m.step % 10 != 0) continue;
        dcp_training training = DCP_ZERO;
        training.learning_rate = 0.05;
        training.optimizer_type = "sgd";
        snprintf(path, sizeof path, "%s/step_%06lld", directory, (long long)m.step);
        dcp_save_desc save = DCP_ZERO;
        save.path = path;
        save.io.log = dcp_log_stderr;
        save.tensors = tensors;
        save.tensor_count = 4;
        save.step = m.step;
        save.training = &training;
        save.keep_last = 2;             /* with this one; never the one that this run has loaded, until there are two */
        save.overwrite = 1;             /* after a damaged one of this step */
        check(dcp_save(&save, &err), "save");
    }

    while (never_stopped.step < m.step) train_one_step(&never_stopped);
    if (memcmp(&m, &never_stopped, sizeof m) != 0) {
        fprintf(stderr, "the model differs from one long run\n");
        return 1;
    }
    printf("proved: at step %lld everything is bit for bit as in a run that never stopped\n", (long long)m.step);
    return 0;
}
