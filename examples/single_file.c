/* single_file.c - a whole checkpoint in one file, and one tensor of it without reading the others.
 *
 * Shows DCP_LAYOUT_SINGLE (one file to copy, mail or put on a web server), dcp_open, which reads only the
 * document, and dcp_map, which hands out the verified bytes of one tensor as mapped pages: no copy, no
 * allocation, and the other tensors' bytes are never touched. Does not show tensors in several pieces:
 * dcp_map refuses those, and dcp_read_new assembles them.
 *
 * Build: cc -O2 single_file.c -I.. -o single_file -lm -pthread
 * Run:   ./single_file [directory]     (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 8192, WIDTH = 256, CLASSES = 10 };
static float embedding[WORDS][WIDTH];   /* 8 MiB */
static float head[WIDTH][CLASSES];
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

int main(int argc, char **argv) {
    const int64_t embedding_shape[] = {WORDS, WIDTH}, head_shape[] = {WIDTH, CLASSES};
    char path[512];

    for (int i = 0; i < WORDS * WIDTH; i++) embedding[i / WIDTH][i % WIDTH] = (float)(i % 1000) / 8;
    for (int i = 0; i < WIDTH * CLASSES; i++) head[i / CLASSES][i % CLASSES] = (float)i;
    snprintf(path, sizeof path, "%s/single_file", argc > 1 ? argv[1] : "checkpoints");

    dcp_tensor tensors[] = {dcp_array("embedding", DCP_FP32, embedding, 2, embedding_shape),
                            dcp_array("head", DCP_FP32, head, 2, head_shape)};
    dcp_save_desc save = DCP_ZERO;
    save.path = path;                   /* makes single_file.checkpoint and nothing else */
    save.io.log = dcp_log_stderr;
    save.tensors = tensors;
    save.tensor_count = 2;
    save.layout = DCP_LAYOUT_SINGLE;
    save.overwrite = 1;
    check(dcp_save(&save, &err), "save");

    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    open.path = path;
    open.io.log = dcp_log_stderr;
    check(dcp_open(&open, &checkpoint, &err), "open");
    for (size_t i = 0; i < dcp_checkpoint_tensor_count(checkpoint); i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(checkpoint, i);
        printf("%-10s %s %lld x %lld, %lld bytes\n", info->name, info->dtype_name, (long long)info->shape[0],
               (long long)info->shape[1], (long long)info->size);
    }

    const void *bytes;
    size_t size;
    check(dcp_map(checkpoint, "head", &bytes, &size, &err), "map");    /* verified, valid until dcp_close */
    const float *mapped = (const float *)bytes;
    int same = size == sizeof head;
    for (int i = 0; same && i < WIDTH * CLASSES; i++) same = mapped[i] == (float)i;
    dcp_close(checkpoint);
    if (!same) {
        fprintf(stderr, "the mapped bytes differ from what was saved\n");
        return 1;
    }
    printf("proved: %d bytes of one tensor mapped from a single file, verified, and correct\n", (int)size);
    return 0;
}
