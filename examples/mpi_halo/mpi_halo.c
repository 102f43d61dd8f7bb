/* mpi_halo.c - ranks whose parts share nodes: save what you own, load the full box.
 *
 * Shows a mesh of elements, cut between elements, so that the nodes on a cut are on two ranks, as in finite-element
 * codes. Saved pieces must not overlap: a rank saves the nodes that it owns, all but the last plane, which is its
 * neighbour's first. Loaded boxes may: a rank loads all its nodes, shared ones too, so that no exchange has to follow.
 *
 * Build: mpicc -O2 mpi_halo.c -I../.. -o mpi_halo -lm -pthread
 * Run:   mpirun -n 4 ./mpi_halo save checkpoints/halo     then, say, mpirun -n 3 ./mpi_halo load checkpoints/halo
 */
#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 60, WIDTH = 20 };     /* planes of elements; nodes in a plane, of which there is one more */
static dcp_coordinator *ranks;
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
static double value_at(int64_t plane, int64_t i) { return 1000.0 * (double)plane + (double)i; }

int main(int argc, char **argv) {
    const int64_t whole[] = {ELEMENTS + 1, WIDTH};
    MPI_Init(&argc, &argv);
    if (argc < 3) { fprintf(stderr, "mpi_halo save|load PATH\n"); MPI_Abort(MPI_COMM_WORLD, 2); }
    check(dcp_mpi_open(MPI_COMM_WORLD, &ranks, &err), "open");

    const int rank = ranks->rank, count = ranks->world_size;
    const int64_t first = ELEMENTS * (int64_t)rank / count, end = ELEMENTS * (int64_t)(rank + 1) / count;
    const int64_t planes = end - first + 1;                 /* of nodes: the last one is the next rank's first */
    double *nodes = (double *)calloc((size_t)(planes * WIDTH), sizeof *nodes);
    if (!nodes) MPI_Abort(MPI_COMM_WORLD, 1);

    const int64_t where[] = {first, 0}, all[] = {planes, WIDTH};
    const int64_t owned[] = {rank == count - 1 ? planes : planes - 1, WIDTH};
    if (strcmp(argv[1], "save") == 0) {
        for (int64_t i = 0; i < planes * WIDTH; i++) nodes[i] = value_at(first + i / WIDTH, i % WIDTH);
        dcp_tensor mine = dcp_array("displacement", DCP_FP64, nodes, 2, owned);     /* what is beyond is not read */
        dcp_save_desc save = DCP_ZERO;
        dcp_piece(&mine, whole, where);
        save.path = argv[2]; save.tensors = &mine; save.tensor_count = 1; save.overwrite = 1;
        save.io.coordinator = ranks; save.io.log = dcp_log_stderr;
        check(dcp_save(&save, &err), "save");
        if (rank == 0) printf("saved by %d ranks\n", count);
    } else {
        dcp_tensor box = dcp_array("displacement", DCP_FP64, nodes, 2, all);
        dcp_load_desc load = DCP_ZERO;
        dcp_piece(&box, whole, where);
        load.path = argv[2]; load.tensors = &box; load.tensor_count = 1;
        load.share_reads = 1;                               /* what two ranks need is read once */
        load.io.coordinator = ranks; load.io.log = dcp_log_stderr;
        check(dcp_load(&load, &err), "load");
        int wrong = 0, all_wrong = 0;
        for (int64_t i = 0; i < planes * WIDTH; i++) wrong |= nodes[i] != value_at(first + i / WIDTH, i % WIDTH);
        MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (all_wrong) MPI_Abort(MPI_COMM_WORLD, 1);
        if (rank == 0) printf("proved: %d ranks have all their nodes, shared ones too\n", count);
    }
    free(nodes);
    dcp_coordinator_close(ranks);
    return MPI_Finalize();
}
