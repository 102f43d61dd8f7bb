/* slurm.c - a job of several ranks that ends before Slurm ends it, and goes on when it is started again.
 *
 * Shows what README.md beside it says: SIGTERM only sets a flag; after each step the ranks agree whether one of them
 * has seen it, so that all save the same step, with a deadline, and exit with 75. Any number of ranks may go on.
 *
 * Build: mpicc -O2 slurm.c -I../.. -o slurm -lm -pthread
 * Run:   sbatch train.sbatch, which says: srun ./slurm checkpoints/slurm 1000
 */
#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 1200, SAVE_EVERY = 250, UNFINISHED = 75 };
static float field[ROWS];               /* this rank's rows, from `first` on */
static int64_t first, rows, step;
static volatile sig_atomic_t leaving;
static dcp_coordinator *ranks;
static dcp_error err;

static void on_term(int number) { (void)number; leaving = 1; }
static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
static float next(float value, int64_t row, int64_t at) { return 0.9f * value + (float)((row * 31 + at) % 17); }
static void compute_one_step(void) {
    const struct timespec pause = {0, 1000000};
    for (int64_t i = 0; i < rows; i++) field[i] = next(field[i], first + i, step);
    step++;
    nanosleep(&pause, NULL);            /* a real step takes longer */
}
static int one_of_us_is_leaving(void) { /* the same on all ranks, in the same step */
    int mine = leaving, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}
static void list(dcp_tensor tensors[2]) {
    const int64_t whole = ROWS;
    tensors[0] = dcp_array("field", DCP_FP32, field, 1, &rows);
    dcp_piece(&tensors[0], &whole, &first);
    tensors[1] = dcp_scalar("step", DCP_INT64, &step);
    tensors[1].placement = DCP_PLACE_REPLICATED;
}
static void save(const char *directory, int64_t deadline_ms) {
    char path[512];
    dcp_tensor tensors[2];
    dcp_save_desc desc = DCP_ZERO;
    list(tensors);
    snprintf(path, sizeof path, "%s/step_%lld", directory, (long long)step);
    desc.path = path; desc.tensors = tensors; desc.tensor_count = 2;
    desc.step = step; desc.keep_last = 2;
    desc.overwrite = 1;                 /* this step may have been saved just before the signal */
    desc.io.coordinator = ranks; desc.io.log = dcp_log_stderr; desc.io.deadline_ms = deadline_ms;
    check(dcp_save(&desc, &err), "save");
}
static void resume(const char *directory) {
    dcp_tensor tensors[2];
    dcp_load_latest_desc load = DCP_ZERO;
    list(tensors);
    load.directory = directory; load.tensors = tensors; load.tensor_count = 2;
    load.io.coordinator = ranks; load.io.log = dcp_log_stderr;
    if (dcp_load_latest(&load, &err) == DCP_E_NOT_FOUND) return;        /* the first start */
    check(err.status, "load");
    if (ranks->rank == 0) printf("resumed at step %lld\n", (long long)step);
}

int main(int argc, char **argv) {
    int count, rank, wrong = 0, all_wrong = 0;
    MPI_Init(&argc, &argv);
    const char *directory = argc > 1 ? argv[1] : "checkpoints/slurm";
    const int64_t last = argc > 2 ? atoll(argv[2]) : 1000;
    signal(SIGTERM, on_term);           /* after MPI_Init, which may have handlers of its own */
    check(dcp_mpi_open(MPI_COMM_WORLD, &ranks, &err), "open");
    count = ranks->world_size; rank = ranks->rank;
    first = ROWS * (int64_t)rank / count; rows = ROWS * (int64_t)(rank + 1) / count - first;

    resume(directory);
    while (step < last) {
        compute_one_step();
        if (one_of_us_is_leaving()) {
            save(directory, 240000);    /* of the 300 s that --signal=TERM@300 leaves */
            if (rank == 0) printf("SIGTERM: saved step %lld\n", (long long)step), fflush(stdout);
            dcp_coordinator_close(ranks);
            MPI_Finalize();
            return UNFINISHED;
        }
        if (step % SAVE_EVERY == 0 || step == last) save(directory, 0);
    }

    for (int64_t i = 0; i < rows; i++) {
        float value = 0;
        for (int64_t at = 0; at < step; at++) value = next(value, first + i, at);
        wrong |= memcmp(&value, &field[i], sizeof value) != 0;
    }
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && !all_wrong) printf("proved: step %lld is as in a run that never stopped\n", (long long)step);
    dcp_coordinator_close(ranks);
    MPI_Finalize();
    return all_wrong;
}
