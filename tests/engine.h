/* engine.h - what the suites of saving and loading share: an allocator that counts, a place to save to, descriptions of
 * saves, loads and opens with that place in them, and tensors whose bytes tell where they belong. The first include of
 * a suite. */
#ifndef DCP_TEST_ENGINE_H
#define DCP_TEST_ENGINE_H
#define HUNGRY_POISON 0xA5              /* what fresh memory is full of */
#include "failing_allocator.h"
#include "place.h"
#include "windows_errors.h"

#define KIB ((int64_t)1024)
#define MIB ((int64_t)1024 * 1024)

/* ---- saving and loading ------------------------------------------------------------------------------------------ */
static inline dcp_save_desc saving(const char *name, const dcp_tensor *tensors, size_t count) {
    dcp_save_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.tensors = tensors;
    desc.tensor_count = count;
    desc.io.storage = store;
    return desc;
}
static inline dcp_load_desc loading(const char *name, dcp_tensor *tensors, size_t count) {
    dcp_load_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.tensors = tensors;
    desc.tensor_count = count;
    desc.io.storage = store;
    return desc;
}
static inline dcp_open_desc opening(const char *name) {
    dcp_open_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.io.storage = store;
    return desc;
}
static inline void save(const dcp_save_desc *desc) { CHECK_OK_MESSAGE(dcp_save(desc, &err), err.message); }
static inline void save_as(const char *name, const dcp_tensor *tensors, size_t count) {
    dcp_save_desc desc = saving(name, tensors, count);
    save(&desc);
}
static inline void load_from(const char *name, dcp_tensor *tensors, size_t count) {
    dcp_load_desc desc = loading(name, tensors, count);
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
}
static inline dcp_status try_load(const char *name, dcp_tensor *tensors, size_t count) {
    dcp_load_desc desc = loading(name, tensors, count);
    return dcp_load(&desc, &err);
}
static inline dcp_checkpoint *open_with(const dcp_open_desc *desc) {
    dcp_checkpoint *c;
    CHECK_OK_MESSAGE(dcp_open(desc, &c, &err), err.message);
    return c;
}
static inline dcp_checkpoint *open_at(const char *name) {
    dcp_open_desc desc = opening(name);
    return open_with(&desc);
}
static inline void verify_at(const char *name) {
    dcp_checkpoint *c = open_at(name);
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_close(c);
}
static inline dcp_status verify_now(const char *name) {
    dcp_open_desc desc = opening(name);
    dcp_checkpoint *c;
    dcp_status status = dcp_open(&desc, &c, &err);
    if (!status) status = dcp_verify(c, &err);
    dcp_close(c);
    return status;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */
static inline uint8_t pattern(uint64_t seed, uint64_t position) {
    uint64_t z = (position + seed * 0x632be59bd9b4e019u + 1) * 0x9e3779b97f4a7c15u;
    return (uint8_t)((z ^ (z >> 29)) >> 24);
}
static inline void fill(void *data, size_t size, uint64_t seed) {
    uint8_t *bytes = (uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = pattern(seed, i);
}
static inline int is_filled(const void *data, size_t size, uint64_t seed) {
    const uint8_t *bytes = (const uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) if (bytes[i] != pattern(seed, i)) return 0;
    return 1;
}
static inline int is_all(const void *data, size_t size, uint8_t value) {
    const uint8_t *bytes = (const uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) if (bytes[i] != value) return 0;
    return 1;
}
static inline uint8_t *allocated(size_t size) {
    uint8_t *data = (uint8_t *)calloc(size ? size : 1, 1);
    CHECK(data != NULL);
    return data;
}
static inline uint8_t *filled(size_t size, uint64_t seed) {
    uint8_t *data = allocated(size);
    fill(data, size, seed);
    return data;
}
/* A tensor of one dimension. */
static inline dcp_tensor vector(const char *name, dcp_dtype dtype, void *data, int64_t length) {
    return dcp_array(name, dtype, data, 1, &length);
}

/* A piece of a matrix: box is row, column, rows, columns. */
static inline dcp_tensor block(const char *name, float *data, const int64_t box[4], int64_t rows, int64_t columns) {
    int64_t shape[2], whole[2], offset[2];
    dcp_tensor t;
    offset[0] = box[0]; offset[1] = box[1];
    shape[0] = box[2]; shape[1] = box[3];
    whole[0] = rows; whole[1] = columns;
    t = dcp_array(name, DCP_FP32, data, 2, shape);
    dcp_piece(&t, whole, offset);
    return t;
}
/* The digests in the document, computed here again from DESIGN 2.1. */
static inline void digest_block(const uint8_t *data, int64_t size, uint8_t digest[32]) {
    uint8_t leaves[64][32];
    size_t count = 0;
    int64_t from;
    if (size <= 256 * KIB) { dcp_sha256(data, (size_t)size, digest); return; }
    for (from = 0; from < size; from += 256 * KIB)
        dcp_sha256(data + from, (size_t)dcpi_min(size - from, 256 * KIB), leaves[count++]);
    dcp_sha256(leaves, count * 32, digest);
}

/* C++ compilers warn of constants that no enumeration has. */
static inline int impossible(int value) { return value; }

/* ---- a matrix, each element of which says where it is ------------------------------------------------------------ */
#define ROWS 13
#define COLUMNS 11
/* each says where it is */
static inline float element(int64_t row, int64_t column) { return (float)(row * 1000 + column); }
static inline void fill_matrix(float *data, const int64_t box[4]) {
    int64_t r, c;
    for (r = 0; r < box[2]; r++) for (c = 0; c < box[3]; c++) *data++ = element(box[0] + r, box[1] + c);
}
static inline int is_matrix(const float *data, const int64_t box[4]) {
    int64_t r, c;
    for (r = 0; r < box[2]; r++) for (c = 0; c < box[3]; c++) if (*data++ != element(box[0] + r, box[1] + c)) return 0;
    return 1;
}
static const int64_t whole_matrix[4] = { 0, 0, ROWS, COLUMNS };
static inline void check_whole_matrix(const char *name) {
    float data[ROWS * COLUMNS] = {0};
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t = dcp_array("m", DCP_FP32, data, 2, shape);
    load_from(name, &t, 1);
    CHECK(is_matrix(data, whole_matrix));
}
static inline void matrix_pieces(dcp_tensor *t, float (*data)[ROWS * COLUMNS], const int64_t (*boxes)[4],
                                 size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        fill_matrix(data[i], boxes[i]);
        t[i] = block("m", data[i], boxes[i], ROWS, COLUMNS);
    }
}
static const int64_t row_boxes[3][4] = { { 9, 0, 4, 11 }, { 0, 0, 2, 11 }, { 2, 0, 7, 11 } };
static const int64_t column_boxes[3][4] = { { 0, 0, 13, 1 }, { 0, 1, 13, 9 }, { 0, 10, 13, 1 } };
static const int64_t pinwheel_boxes[5][4] = { { 0, 0, 4, 7 }, { 0, 7, 9, 4 }, { 9, 4, 4, 7 }, { 4, 0, 9, 4 },
                                              { 4, 4, 5, 3 } };
#define BIG_ROWS 40
#define BIG_COLUMNS 65536               /* a row is 256 KiB, four rows a block */
static inline float *big_matrix(void) {
    float *data = (float *)(void *)allocated(BIG_ROWS * BIG_COLUMNS * sizeof *data);
    int64_t r, c;
    for (r = 0; r < BIG_ROWS; r++)
        for (c = 0; c < BIG_COLUMNS; c++) data[r * BIG_COLUMNS + c] = (float)(r * 100 + c % 97);
    return data;
}

/* ---- small checkpoints ------------------------------------------------------------------------------------------- */
static inline void save_two(const char *name) {                /* "a": 6 of fp32, [2, 3]; "b": 4 of int64 */
    float a[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t b[4] = { 10, 20, 30, 40 }, shape[2] = { 2, 3 };
    dcp_tensor t[2];
    t[0] = dcp_array("a", DCP_FP32, a, 2, shape);
    t[1] = vector("b", DCP_INT64, b, 4);
    save_as(name, t, 2);
}
static const char secret[] = "sixteen bytes or more", other_secret[] = "another secret of mine";
static inline void save_step(const char *name, int64_t step, dcp_layout layout, const dcp_signer *signer) {
    float a[2] = { 1, 2 };
    dcp_tensor t = vector("a", DCP_FP32, a, 2);
    dcp_training training = DCP_ZERO;
    dcp_save_desc desc = saving(name, &t, 1);
    training.step = step;
    if (step >= 0) desc.training = &training;
    desc.layout = layout;
    desc.signer = signer;
    save(&desc);
}
static inline dcp_status load_checked(const char *name, int64_t minimum, const dcp_verifier *verifier) {
    float a[2] = {0};
    dcp_tensor t = vector("a", DCP_FP32, a, 2);
    dcp_load_desc desc = loading(name, &t, 1);
    dcp_status status;
    desc.minimum_step = minimum;
    desc.verifier = verifier;
    status = dcp_load(&desc, &err);
    if (!status) CHECK(a[0] == 1 && a[1] == 2);
    return status;
}

/* ---- what was logged --------------------------------------------------------------------------------------------- */
typedef struct heard { int count, warnings; char text[4000]; } heard;
static inline void hear(void *user, dcp_log_level level, const char *message) {
    heard *h = (heard *)user;
    size_t used = strlen(h->text);
    h->count++;
    if (level <= DCP_LOG_WARNING) h->warnings++;
    (void)snprintf(h->text + used, sizeof h->text - used, "%s\n", message);
}
static inline heard *hearing(dcp_io *io) {
    static heard h;
    memset(&h, 0, sizeof h);
    io->log = hear;
    io->log_user = &h;
    return &h;
}

#endif
