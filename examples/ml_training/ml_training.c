/* ml_training.c - all that a training run must save to resume exactly, the best model beside it, and an evaluation that
 * loads the weights alone.
 *
 * Shows weights, both moments of Adam, the random numbers' state and the place in the data as one checkpoint; steps,
 * which are pruned; `best`, which is not; what a run was made with, in fields. For ranks see ../demo_charlm.c.
 *
 * Build: cc -O2 ml_training.c -I../.. -o ml_training -lm -pthread
 * Run:   ./ml_training train|evaluate [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 16, SAVE_EVERY = 50, STEPS_A_RUN = 200 };
typedef struct run {
    double weights[INPUTS], m[INPUTS], v[INPUTS], best_loss;
    uint64_t random;                    /* the state of the generator: shuffling, dropout, ... */
    int64_t step, sample;               /* sample: how far the data has been read */
} run;
static run now;
static char directory[400];
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}
static double input(int64_t sample, int i) { return (double)((sample * 31 + i * i * 17) % 64) / 64; }
static double error_of(const double *weights, int64_t sample, double noise) {
    double sum = 0, target = noise;
    for (int i = 0; i < INPUTS; i++) sum += weights[i] * input(sample, i), target += (i - 5) * 0.25 * input(sample, i);
    return sum - target;
}
static double validation_loss(const double *weights) {
    double loss = 0;
    for (int64_t i = 0; i < 200; i++) loss += pow(error_of(weights, 1000000 + i, 0), 2) / 200;
    return loss;
}
static void train_one_step(run *r) {
    const double error = error_of(r->weights, r->sample++, 0.01 * (uniform(&r->random) - 0.5));
    const double step = (double)++r->step;
    for (int i = 0; i < INPUTS; i++) {
        const double gradient = error * input(r->sample - 1, i);
        r->m[i] = 0.9 * r->m[i] + 0.1 * gradient;
        r->v[i] = 0.99 * r->v[i] + 0.01 * gradient * gradient;
        r->weights[i] -= 0.02 * (r->m[i] / (1 - pow(0.9, step))) / (sqrt(r->v[i] / (1 - pow(0.99, step))) + 1e-8);
    }
}
static const int64_t inputs = INPUTS;
static size_t list(dcp_tensor *tensors) {
    tensors[0] = dcp_array("model/weights", DCP_FP64, now.weights, 1, &inputs);
    tensors[1] = dcp_array("adam/m", DCP_FP64, now.m, 1, &inputs);
    tensors[2] = dcp_array("adam/v", DCP_FP64, now.v, 1, &inputs);
    tensors[3] = dcp_scalar("best_loss", DCP_FP64, &now.best_loss);
    tensors[4] = dcp_scalar("random", DCP_UINT64, &now.random);
    tensors[5] = dcp_scalar("step", DCP_INT64, &now.step);
    tensors[6] = dcp_scalar("sample", DCP_INT64, &now.sample);
    return 7;
}
static void save(const char *name, size_t tensor_count) {
    char path[512];
    dcp_tensor tensors[7];
    dcp_training training = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    const dcp_field fields[] = {{"gitCommit", "abc123"}, {"dataset", "toy-1"}};
    (void)list(tensors);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    training.step = now.step; training.learning_rate = 0.02; training.optimizer_type = "adam";
    save.keep_last = 2; save.keep_every = 200;      /* of the series of this name: `best` is one of its own */
    save.path = path; save.tensors = tensors; save.tensor_count = tensor_count;
    save.training = &training; save.fields = fields; save.field_count = 2;
    save.overwrite = 1; save.io.log = dcp_log_stderr;
    check(dcp_save(&save, &err), "save");
}
static void load(const char *path, size_t tensor_count) {
    dcp_tensor tensors[7];
    dcp_load_desc load = DCP_ZERO;
    (void)list(tensors);
    load.path = path; load.tensors = tensors; load.tensor_count = tensor_count;
    load.io.log = dcp_log_stderr;
    check(dcp_load(&load, &err), "load");
}

static int train(void) {
    char name[64];
    dcp_tensor tensors[7];
    dcp_load_latest_desc latest = DCP_ZERO;
    latest.directory = directory; latest.series = "step_";              /* not `best` */
    latest.tensors = tensors; latest.tensor_count = list(tensors);
    latest.io.log = dcp_log_stderr;
    now.best_loss = INFINITY; now.random = 1;
    if (dcp_load_latest(&latest, &err) != DCP_E_NOT_FOUND) {
        check(err.status, "load");
        printf("resumed at step %lld\n", (long long)now.step);
    }
    for (const int64_t last = now.step + STEPS_A_RUN; now.step < last;) {
        train_one_step(&now);
        if (now.step % SAVE_EVERY != 0) continue;
        const double loss = validation_loss(now.weights);
        if (loss < now.best_loss) now.best_loss = loss, save("best", 1);         /* the weights alone */
        snprintf(name, sizeof name, "step_%06lld", (long long)now.step);
        save(name, 7);
    }
    run again = DCP_ZERO;
    again.random = 1;
    while (again.step < now.step) train_one_step(&again);
    again.best_loss = now.best_loss;
    if (memcmp(&again, &now, sizeof now) != 0) return fprintf(stderr, "it differs from one long run\n"), 1;
    printf("proved: step %lld is bit for bit that of a run that never stopped\n", (long long)now.step);
    return 0;
}
static int evaluate(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/best", directory);
    load(path, 1);
    const double loss = validation_loss(now.weights);
    printf("the best model's loss is %s\n", loss < 0.2 ? "below 0.2" : "too high");
    return loss >= 0.2;
}
int main(int argc, char **argv) {
    snprintf(directory, sizeof directory, "%s/ml_training", argc > 2 ? argv[2] : "checkpoints");
    if (argc > 1 && strcmp(argv[1], "evaluate") == 0) return evaluate();
    return train();
}
