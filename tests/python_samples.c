/* python_samples.c - saves the checkpoints that test_python.sh has Python programs look at, which know nothing of
 * dcp.h.
 *
 *     python_samples DIR
 *
 * In DIR, which must exist:
 *   tree         sharded, blocks of two leaves: `words`, three blocks, the last one cut short; `bytes`, one byte more
 *                than eight blocks; a scalar; an empty tensor
 *   tree_2       the same with other values in `words`, so that its shard must not pass for that of `tree`, and in
 *                blocks of 16 leaves, the default
 *   signed       a small one, signed with the HMAC key in key.bin; wrong.bin is another key
 *   flat         with DCP_CHECKSUM_FLAT
 *   types        in a single file: a tensor of every data type that Python's struct can unpack, and some more;
 *                training, custom fields
 * The values of `types` stand in test_python.sh too. */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 524288                    /* two leaves of 256 KiB */
static const char *directory;

static void save(const char *name, dcp_save_desc *desc, const dcp_tensor *tensors, size_t count) {
    char path[1024];
    dcp_error err;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    desc->path = path;
    desc->tensors = tensors;
    desc->tensor_count = count;
    if (dcp_save(desc, &err) == DCP_OK) return;
    fprintf(stderr, "python_samples: %s: %s\n", name, err.message);
    exit(1);
}
static void write_key(const char *name, const char *key) {
    char path[1024];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "wb");
    if (file && fwrite(key, 1, strlen(key), file) == strlen(key) && fclose(file) == 0) return;
    fprintf(stderr, "python_samples: cannot write %s\n", path);
    exit(1);
}

static void save_tree(const char *name, uint32_t seed, size_t block_size) {
    static uint32_t words[(2 * BLOCK + 300000) / 4];
    static uint8_t bytes[8 * BLOCK + 1];
    static const float scalar = 2.5f;
    const int64_t words_shape[] = { (2 * BLOCK + 300000) / 4 }, bytes_shape[] = { sizeof bytes },
                                  empty_shape[] = { 4, 0 };
    dcp_tensor tensors[4];
    dcp_save_desc desc = DCP_ZERO;
    size_t i;
    for (i = 0; i < sizeof words / 4; i++) words[i] = seed = seed * 1664525u + 1013904223u;
    for (i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 ^ i >> 11);
    tensors[0] = dcp_array("words", DCP_UINT32, words, 1, words_shape);
    tensors[1] = dcp_scalar("scalar", DCP_FP32, &scalar);
    tensors[2] = dcp_array("empty", DCP_FP64, NULL, 2, empty_shape);
    tensors[3] = dcp_array("bytes", DCP_UINT8, bytes, 1, bytes_shape);
    desc.block_size = block_size;
    save(name, &desc, tensors, 4);
}
static void save_signed(void) {
    static const char key[] = "sixteen bytes or more make a key";
    dcp_signer signer = dcp_hmac_signer(key, strlen(key), "key-1");
    dcp_tensor tensor = dcp_bytes("bytes", "signed, sealed, delivered", 25);
    dcp_save_desc desc = DCP_ZERO;
    desc.signer = &signer;
    save("signed", &desc, &tensor, 1);
    write_key("key.bin", key);
    write_key("wrong.bin", "this is not the key it was signed with");
}
static void save_flat(void) {
    static const float w[100] = { 1, 2, 3 };
    const int64_t shape[] = { 10, 10 };
    dcp_tensor tensors[2];
    dcp_save_desc desc = DCP_ZERO;
    tensors[0] = dcp_array("w", DCP_FP32, w, 2, shape);
    tensors[1] = dcp_bytes("odd", "abcde", 5);
    desc.checksum = DCP_CHECKSUM_FLAT;
    save("flat", &desc, tensors, 2);
}

/* What is saved must be in the machine's own byte order, so the values are of the types themselves, or single bytes. */
static void save_types(void) {
    static const double fp64[] = { 0.5, -1e300, 3.141592653589793 };
    static const float fp32[] = { 1.5f, -2.25f, 16777216.0f }, complex64[] = { 1, -2, 0.5f, 0.25f };
    static const uint16_t fp16[] = { 0x3C00, 0xC100, 0x7BFF }, bf16[] = { 0x3F80, 0xC010, 0x4049 };
    static const int64_t int64[] = { INT64_MIN, -1, INT64_MAX };
    static const int32_t int32[] = { INT32_MIN, 7, INT32_MAX }, scalar = 42;
    static const int16_t int16[] = { -32768, 0, 32767 };
    static const int8_t int8[] = { -128, 0, 127 };
    static const uint64_t uint64[] = { 0, UINT64_MAX };
    static const uint32_t uint32[] = { 0, UINT32_MAX };
    static const uint16_t uint16[] = { 1, 65535 };
    static const uint8_t uint8[] = { 0, 128, 255 }, boolean[] = { 1, 0, 1, 1 }, nibbles[] = { 0x21, 0xF8, 0x03 };
    static const double complex128[] = { 1e-300, -0.5 };
    static const dcp_field fields[] = {{ "git", "abc123" }, { "note", "Gr\xc3\xbc\xc3\x9f" "e" }};
    const int64_t one[] = { 1 }, two[] = { 2 }, three[] = { 3 }, four[] = { 4 }, five[] = { 5 }, square[] = { 2, 1 },
                          empty[] = { 0, 3 };
    dcp_tensor tensors[24];
    dcp_training training = DCP_ZERO;
    dcp_save_desc desc = DCP_ZERO;
    size_t n = 0;
    tensors[n++] = dcp_array("fp64", DCP_FP64, fp64, 1, three);
    tensors[n++] = dcp_array("fp32", DCP_FP32, fp32, 1, three);
    tensors[n++] = dcp_array("fp16", DCP_FP16, fp16, 1, three);
    tensors[n++] = dcp_array("bf16", DCP_BF16, bf16, 1, three);
    tensors[n++] = dcp_array("int64", DCP_INT64, int64, 1, three);
    tensors[n++] = dcp_array("int32", DCP_INT32, int32, 1, three);
    tensors[n++] = dcp_array("int16", DCP_INT16, int16, 1, three);
    tensors[n++] = dcp_array("int8", DCP_INT8, int8, 1, three);
    tensors[n++] = dcp_array("uint64", DCP_UINT64, uint64, 1, two);
    tensors[n++] = dcp_array("uint32", DCP_UINT32, uint32, 2, square);
    tensors[n++] = dcp_array("uint16", DCP_UINT16, uint16, 1, two);
    tensors[n++] = dcp_array("uint8", DCP_UINT8, uint8, 1, three);
    tensors[n++] = dcp_array("bool", DCP_BOOL, boolean, 1, four);
    tensors[n++] = dcp_array("complex64", DCP_COMPLEX64, complex64, 1, two);
    tensors[n++] = dcp_array("complex128", DCP_COMPLEX128, complex128, 1, one);
    tensors[n++] = dcp_array("int4", DCP_INT4, nibbles, 1, five);
    tensors[n++] = dcp_array("uint4", DCP_UINT4, nibbles, 1, five);
    tensors[n++] = dcp_array("fp8", DCP_FP8_E4M3, uint8, 1, three);
    tensors[n++] = dcp_scalar("scalar", DCP_INT32, &scalar);
    tensors[n++] = dcp_array("empty", DCP_FP32, NULL, 2, empty);
    tensors[n++] = dcp_array("nam\xc3\xa9/../x", DCP_INT8, int8, 1, one);
    training.epoch = 5;
    training.step = 100;
    training.learning_rate = 0.0003;
    training.optimizer_type = "adamw";
    training.optimizer_state = "{\"beta1\": 0.9}";
    desc.layout = DCP_LAYOUT_SINGLE;
    desc.training = &training;
    desc.fields = fields;
    desc.field_count = 2;
    save("types", &desc, tensors, n);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: python_samples DIR\n");
        return 2;
    }
    directory = argv[1];
    save_tree("tree", 1, BLOCK);
    save_tree("tree_2", 2, 0);
    save_signed();
    save_flat();
    save_types();
    return 0;
}
