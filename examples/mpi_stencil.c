/* mpi_stencil.c - a 2-D heat equation over MPI that resumes from its checkpoint on another process grid.
 *
 * Shows a strided piece: a rank's block has a halo, and its interior is saved and loaded in place, without a
 * copy; the checkpoint holds the global field, so that any grid loads it. Every cell is computed alike on any
 * grid: with COMPARE, the directory of another run, both fields must be equal bit for bit.
 * Build: mpicc -O2 mpi_stencil.c -I.. -o mpi_stencil -lm -pthread
 * Run:   mpirun -n 4 ./mpi_stencil checkpoints 2x2 STEPS [COMPARE]    then, say, on a grid of 1x3
 */
#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 120, COLUMNS = 90, SAVE_EVERY = 50 };
typedef struct block {                      /* pitch: elements from row to row, the interior and a halo on both sides */
    int64_t shape[2], offset[2], step, pitch;               /* the interior, and where it is in the field */
    double *now, *next;
} block;
static const int64_t field_shape[] = {ROWS, COLUMNS};
static MPI_Comm grid;
static dcp_coordinator *ranks;
static dcp_error err;
static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message), MPI_Abort(MPI_COMM_WORLD, 1);
}
/* What a checkpoint holds: the interior inside its halo, and the step, which all ranks share. */
static void list(block *b, dcp_tensor tensors[2]) {
    tensors[0] = dcp_array("temperature", DCP_FP64, b->now + b->pitch + 1, 2, b->shape);
    tensors[0].stride[0] = b->pitch, tensors[0].stride[1] = 1;
    dcp_piece(&tensors[0], field_shape, b->offset);
    tensors[1] = dcp_scalar("step", DCP_INT64, &b->step);
    tensors[1].placement = DCP_PLACE_REPLICATED;
}
static void save(block *b, const char *directory) {
    dcp_tensor tensors[2];
    dcp_save_desc save = DCP_ZERO;
    char path[512];
    list(b, tensors);
    snprintf(path, sizeof path, "%s/step_%lld", directory, (long long)b->step);
    save.path = path, save.tensors = tensors, save.tensor_count = 2, save.io.coordinator = ranks;
    save.io.log = dcp_log_stderr, save.step = b->step;
    check(dcp_save(&save, &err), "save");
}
static int load_latest(block *b, const char *directory) {
    dcp_tensor tensors[2];
    dcp_load_latest_desc load = DCP_ZERO;
    list(b, tensors);
    load.directory = directory, load.tensors = tensors, load.tensor_count = 2;
    load.io.coordinator = ranks, load.io.log = dcp_log_stderr;
    dcp_status status = dcp_load_latest(&load, &err);
    if (status == DCP_E_NOT_FOUND) return 0;
    check(status, "load");
    return 1;
}
static void one_step(block *b) {
    int m = (int)b->shape[0], n = (int)b->shape[1], p = (int)b->pitch, before, after;
    double *u = b->now, *v = b->next;
    MPI_Datatype column;
    MPI_Type_vector(m, 1, p, MPI_DOUBLE, &column), MPI_Type_commit(&column);
    MPI_Cart_shift(grid, 0, 1, &before, &after);         /* at the edges: MPI_PROC_NULL, the halo stays */
    MPI_Sendrecv(u + p + 1, n, MPI_DOUBLE, before, 0, u + (m + 1) * p + 1, n, MPI_DOUBLE, after, 0, grid,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(u + m * p + 1, n, MPI_DOUBLE, after, 1, u + 1, n, MPI_DOUBLE, before, 1, grid, MPI_STATUS_IGNORE);
    MPI_Cart_shift(grid, 1, 1, &before, &after);
    MPI_Sendrecv(u + p + 1, 1, column, before, 2, u + p + n + 1, 1, column, after, 2, grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(u + p + n, 1, column, after, 3, u + p, 1, column, before, 3, grid, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
    for (int i = p + 1, r = 0; r < m; r++, i += p - n)
        for (int c = 0; c < n; c++, i++) v[i] = u[i] + 0.2 * (u[i - p] + u[i + p] + u[i - 1] + u[i + 1] - 4 * u[i]);
    for (int i = 0; i < p; i++) v[i] = u[i];                /* the halo of the first row: the hot edge */
    b->now = v, b->next = u, b->step++;
}
static block make_block(const int size[2]) {
    block b = DCP_ZERO;
    int at[2];
    MPI_Cart_coords(grid, ranks->rank, 2, at);
    for (int d = 0; d < 2; d++) {
        b.offset[d] = field_shape[d] * at[d] / size[d];
        b.shape[d] = field_shape[d] * (at[d] + 1) / size[d] - b.offset[d];
    }
    b.pitch = b.shape[1] + 2;
    b.now = (double *)calloc(2 * (size_t)((b.shape[0] + 2) * b.pitch), sizeof(double));
    if (!b.now) MPI_Abort(MPI_COMM_WORLD, 1);
    b.next = b.now + (b.shape[0] + 2) * b.pitch;
    for (int i = 0; at[0] == 0 && i < b.pitch; i++) b.now[i] = 100;
    return b;
}
int main(int argc, char **argv) {
    int size[2], periods[2] = {0, 0}, world, wrong = 0;
    MPI_Init(&argc, &argv), MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (argc < 4 || sscanf(argv[2], "%dx%d", &size[0], &size[1]) != 2 || size[0] * size[1] != world) {
        fprintf(stderr, "usage: mpirun -n (A*B) mpi_stencil DIRECTORY AxB STEPS [COMPARE]\n");
        return MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Cart_create(MPI_COMM_WORLD, 2, size, periods, 0, &grid);
    check(dcp_mpi_open(grid, &ranks, &err), "coordinator");
    block b = make_block(size), other = make_block(size);
    if (load_latest(&b, argv[1]) && ranks->rank == 0) printf("resumed at step %d\n", (int)b.step);
    while (b.step < atoi(argv[3])) {
        one_step(&b);
        if (b.step % SAVE_EVERY == 0) save(&b, argv[1]);
    }
    if (argc > 4) {
        wrong = !load_latest(&other, argv[4]) || other.step != b.step;
        for (int64_t i = b.pitch + 1; i < (b.shape[0] + 1) * b.pitch; i += b.pitch)
            wrong |= memcmp(b.now + i, other.now + i, (size_t)b.shape[1] * sizeof(double)) != 0;
        MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, grid);
    }
    const char *result = wrong ? "not the field of COMPARE: step" : argc > 4 ? "proved: the same bits at step" : "step";
    if (ranks->rank == 0) printf("%s %d\n", result, (int)b.step);
    dcp_coordinator_close(ranks), MPI_Comm_free(&grid);
    return MPI_Finalize() != 0 || wrong;
}
