/* bridge_samples.c - checkpoints for programs in other languages to read: every type, every layout, pieces, names.
 *
 *     bridge_samples DIR
 *
 * Writes DIR/<layout>-<checksum>: the layouts are sharded, single, manifest and yaml, the checksums tree and flat. What
 * the bytes are follows from the tensor's name: byte i of the whole tensor, row-major, is pattern() below (of bool the
 * lowest bit; of a tensor whose bits do not fill its last byte, the rest is zero). bridge_check.py has the same rule.
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t pattern(const char *name, size_t i) {
    return (uint8_t)(i * 131 + (i >> 8) * 7 + (i >> 16) * 5 + strlen(name) * 17 + (uint8_t)name[0]);
}
static uint8_t *bytes_of(const char *name, dcp_dtype dtype, size_t count) {
    const size_t size = (count * (size_t)dcp_dtype_bits(dtype) + 7) / 8;
    uint8_t *bytes = (uint8_t *)malloc(size + 1);
    size_t i;
    if (!bytes) exit(1);
    for (i = 0; i < size; i++) bytes[i] = dtype == DCP_BOOL ? pattern(name, i) & 1 : pattern(name, i);
    if (dcp_dtype_bits(dtype) == 4 && count % 2) bytes[size - 1] &= 15;
    return bytes;
}

enum { MOST = 64 };
typedef struct samples { dcp_tensor tensors[MOST]; void *owned[MOST]; size_t count, owned_count; } samples;

static uint8_t *own(samples *s, uint8_t *bytes) { return (uint8_t *)(s->owned[s->owned_count++] = bytes); }
static void add_whole(samples *s, const char *name, dcp_dtype dtype, int ndim, const int64_t *shape) {
    size_t count = 1;
    int d;
    for (d = 0; d < ndim; d++) count *= (size_t)shape[d];
    s->tensors[s->count++] = dcp_array(name, dtype, own(s, bytes_of(name, dtype, count)), ndim, shape);
}
/* rows x columns, in four pieces that meet at (row, column) */
static void add_grid(samples *s, const char *name, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    const int64_t shape[2] = {rows, columns};
    uint8_t *bytes = own(s, bytes_of(name, DCP_INT32, (size_t)(rows * columns)));
    int k;
    for (k = 0; k < 4; k++) {
        const int64_t offset[2] = {k / 2 ? row : 0, k % 2 ? column : 0};
        const int64_t part[2] = {k / 2 ? rows - row : row, k % 2 ? columns - column : column};
        dcp_tensor t = dcp_array(name, DCP_INT32, bytes + (offset[0] * columns + offset[1]) * 4, 2, part);
        dcp_piece(&t, shape, offset);
        t.stride[0] = columns;
        t.stride[1] = 1;
        s->tensors[s->count++] = t;
    }
}
static void add_types(samples *s) {
    static char names[DCP_UINT4 + 1][32];
    int type;
    for (type = DCP_FP32; type <= DCP_UINT4; type++) {
        const int64_t shape[2] = {3, 4};
        const int64_t odd[1] = {13};
        const int is_small = dcp_dtype_bits((dcp_dtype)type) == 4;
        (void)snprintf(names[type], sizeof names[type], "types/%s", dcp_dtype_name((dcp_dtype)type));
        add_whole(s, names[type], (dcp_dtype)type, is_small ? 1 : 2, is_small ? odd : shape);
    }
}
static void add_shapes(samples *s) {
    const int64_t big[2] = {1500, 1024}, empty[2] = {0, 3}, one[1] = {1}, many[4] = {3, 5, 7, 11};
    add_whole(s, "big", DCP_UINT8, 2, big);
    add_whole(s, "empty", DCP_FP32, 2, empty);
    add_whole(s, "scalar", DCP_INT64, 0, NULL);
    add_whole(s, "one", DCP_FP64, 1, one);
    add_whole(s, "many", DCP_INT16, 4, many);
    add_whole(s, "layers.0/na\xc3\xafve \"name\": #1", DCP_FP32, 1, one);
    add_whole(s, "true", DCP_FP32, 1, one);
    add_grid(s, "grid", 700, 300, 123, 77);
}
static void save(const samples *s, const char *directory, const char *layout, int is_flat, const dcp_signer *signer) {
    static const dcp_field fields[] = {{"git", "abc123"}, {"note", "Gr\xc3\xbc\xc3\x9f" "e: #1"}};
    dcp_training training = DCP_ZERO;
    dcp_save_desc desc = DCP_ZERO;
    dcp_error err;
    char path[1000];
    (void)snprintf(path, sizeof path, "%s/%s/%s", directory, layout, signer ? "signed" : is_flat ? "flat" : "tree");
    desc.path = path;
    desc.tensors = s->tensors;
    desc.tensor_count = s->count;
    desc.layout = strcmp(layout, "single") == 0 ? DCP_LAYOUT_SINGLE
                : strcmp(layout, "sharded") == 0 ? DCP_LAYOUT_SHARDED : DCP_LAYOUT_MANIFEST;
    desc.yaml = strcmp(layout, "yaml") == 0;
    desc.checksum = is_flat ? DCP_CHECKSUM_FLAT : DCP_CHECKSUM_TREE;
    desc.block_size = is_flat ? 0 : 262144;
    training.epoch = 3;
    training.step = 1000;
    training.learning_rate = 0.0003;
    desc.training = &training;
    desc.fields = fields;
    desc.field_count = 2;
    desc.signer = signer;
    if (!dcp_save(&desc, &err)) return;
    fprintf(stderr, "bridge_samples: %s: %s\n", path, err.message);
    exit(1);
}
int main(int argc, char **argv) {
    static const char *const layouts[] = {"sharded", "single", "manifest", "yaml"};
    static samples s;
    const dcp_signer signer = dcp_hmac_signer("a key of thirty-two bytes, or so.", 32, "key-1");
    size_t i;
    if (argc != 2) return 2;
    add_types(&s);
    add_shapes(&s);
    for (i = 0; i < 4; i++) {
        save(&s, argv[1], layouts[i], 0, NULL);
        save(&s, argv[1], layouts[i], 1, NULL);
        save(&s, argv[1], layouts[i], 0, &signer);
    }
    for (i = 0; i < s.owned_count; i++) free(s.owned[i]);
    return 0;
}
