/* quickstart.c - save two arrays as one checkpoint, and load them back.
 *
 * Shows the shortest complete program: name the arrays, save, load, look at the status of both. The save is
 * atomic: whatever happens meanwhile (a crash, a full disk), the checkpoint that was there before stays
 * loadable until the new one is durable. Does not show steps and resuming (resume_loop.c), parts of arrays
 * (slices.c), or everything in one file (single_file.c).
 *
 * Build: cc -O2 quickstart.c -I.. -o quickstart -lm -pthread
 * Run:   ./quickstart [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    float weights[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}, weights_back[3][4];
    double bias[4] = {0.25, -1, 1e300, 0}, bias_back[4];
    const int64_t weights_shape[] = {3, 4}, bias_shape[] = {4};
    char path[512];
    dcp_error err;

    snprintf(path, sizeof path, "%s/quickstart", argc > 1 ? argv[1] : "checkpoints");

    dcp_tensor mine[] = {dcp_array("weights", DCP_FP32, weights, 2, weights_shape),
                         dcp_array("bias", DCP_FP64, bias, 1, bias_shape)};
    dcp_save_desc save = DCP_ZERO;      /* zero is the default of every member */
    save.path = path;                   /* makes quickstart.metadata.json, and a shard file for the bytes */
    save.io.log = dcp_log_stderr;
    save.tensors = mine;
    save.tensor_count = 2;
    save.step = 1;                      /* of training, simulation, ...: keep_every and minimum_step go by it */
    save.overwrite = 1;                 /* so that this program can run twice */
    if (dcp_save(&save, &err) != DCP_OK) {
        fprintf(stderr, "save: %s\n", err.message);
        return 1;
    }

    dcp_tensor wanted[] = {dcp_array("weights", DCP_FP32, weights_back, 2, weights_shape),
                           dcp_array("bias", DCP_FP64, bias_back, 1, bias_shape)};
    dcp_load_desc load = DCP_ZERO;
    load.path = path;
    load.io.log = dcp_log_stderr;
    load.tensors = wanted;
    load.tensor_count = 2;
    if (dcp_load(&load, &err) != DCP_OK) {
        fprintf(stderr, "load: %s\n", err.message);
        return 1;
    }

    if (memcmp(weights, weights_back, sizeof weights) != 0 || memcmp(bias, bias_back, sizeof bias) != 0) {
        fprintf(stderr, "what was loaded differs from what was saved\n");
        return 1;
    }
    printf("proved: both arrays came back bit for bit\n");
    return 0;
}
