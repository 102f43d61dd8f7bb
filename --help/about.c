 *
 * >>about
 *
 * Do this:
 *     #define DCP_IMPLEMENTATION
 * before you include this file in *one* C or C++ file, as the first include there:
 *     #define DCP_IMPLEMENTATION
 *     #include "dcp.h"
 * Other files just include it; a program has one implementation, of the same version: two versions do not link
 * (>>config: DCP_NO_LINK_CHECK). Nothing else is needed but libc and its threads: cc program.c -pthread. C99, C11 and
 * C++11.
 *
 * Save and load, whole:
 *
 *     float weights[1000] = {0};
 *     int64_t shape[] = { 1000 };
 *     dcp_tensor tensors[] = { dcp_array("weights", DCP_FP32, weights, 1, shape) };
 *     dcp_error err;
 *
 *     dcp_save_desc save = DCP_ZERO;
 *     save.path = "run/step_1"; save.tensors = tensors; save.tensor_count = 1; save.io.log = dcp_log_stderr;
 *     if (dcp_save(&save, &err)) { fprintf(stderr, "%s\n", err.message); }
 *
 *     dcp_load_desc load = DCP_ZERO;
 *     load.path = "run/step_1"; load.tensors = tensors; load.tensor_count = 1; load.io.log = dcp_log_stderr;
 *     if (dcp_load(&load, &err)) { fprintf(stderr, "%s\n", err.message); }
 *
 * When dcp_save returns DCP_OK, the checkpoint is complete and durable; when it does not, or the power goes, the one
 * before it still loads. Every bit is covered by SHA-256 and checked when it is read. The metadata is JSON that a
 * person can read. For more, see README.md and examples/.
 *
 * Many ranks: give every rank's save and load its coordinator in `.io.coordinator` (dcp_mpi.h for MPI,
 * dcp_thread_group_open for threads, or two functions of your own, send and receive), and say with dcp_piece which box
 * of which tensor a rank has. Any number of ranks loads what any other number saved.
