/* test_slices.c - pieces, boxes, strides and maps: what goes in comes out byte for byte, however it is cut, placed and
 * wanted, and no more is read and checked than that takes; damage is found where it is touched. */
#include "engine.h"
#include "watching_storage.h"
#include "written_ranks.h"
#ifndef _WIN32
#include <pthread.h>
#include <sys/resource.h>
#endif

/* ==== several pieces of one tensor in one rank's list ============================================================= */
static void pieces_case(const char *name, const int64_t (*boxes)[4], size_t count) {
    static float data[16][ROWS * COLUMNS];
    static dcp_tensor t[16];
    dcp_checkpoint *c;
    dcp_save_desc desc = saving(name, t, count);
    matrix_pieces(t, data, boxes, count);
    save(&desc);
    check_whole_matrix(name);
    desc.layout = DCP_LAYOUT_SINGLE;
    desc.path = at("single");
    desc.overwrite = 1;
    save(&desc);
    check_whole_matrix("single");
    c = open_at(name);
    CHECK_INT(dcp_checkpoint_tensor_count(c), 1);
    CHECK_INT(dcp_checkpoint_tensor(c, 0)->piece_count, count);
    CHECK_INT(dcp_checkpoint_tensor(c, 0)->placement, DCP_PLACE_SHARDED);
    dcp_close(c);
}
static const int64_t grid_boxes[6][4] = {
    { 0, 0, 5, 3 }, { 0, 3, 5, 8 }, { 5, 0, 7, 3 }, { 5, 3, 7, 8 }, { 12, 3, 1, 8 }, { 12, 0, 1, 3 }
};
static const int64_t empty_boxes[4][4] = { { 0, 0, 0, 11 }, { 13, 0, 0, 11 }, { 0, 11, 13, 0 }, { 0, 0, 13, 11 } };
static void pieces_body(void) {
    pieces_case("rows", row_boxes, 3);
    pieces_case("columns", column_boxes, 3);
    pieces_case("grid", grid_boxes, 6);
    pieces_case("pinwheel", pinwheel_boxes, 5);
    pieces_case("empty", empty_boxes + 1, 3);           /* beside one that is the whole */
    pieces_case("whole", &whole_matrix, 1);
}
TEST(pieces_of_one_tensor_in_one_list) { on_local_and_memory(pieces_body); }

static dcp_status save_pieces(const int64_t (*boxes)[4], size_t count, int allow_holes) {
    static float data[16][ROWS * COLUMNS];
    static dcp_tensor t[16];
    dcp_save_desc desc = saving("x", t, count);
    matrix_pieces(t, data, boxes, count);
    desc.allow_holes = allow_holes;
    return dcp_save(&desc, &err);
}
TEST(pieces_that_overlap_are_refused) {
    static const int64_t corner[2][4] = { { 0, 0, 7, 11 }, { 6, 10, 7, 1 } },
                                        inside[2][4] = { { 0, 0, 13, 11 }, { 3, 3, 1, 1 } };
    static const int64_t far_apart[3][4] = { { 0, 0, 13, 4 }, { 0, 4, 13, 7 }, { 12, 3, 1, 2 } };
    use_memory();
    CHECK_FAILS(save_pieces(corner, 2, 1), DCP_E_MISMATCH, "[0:7, 0:11] (rank 0) and [6:13, 10:11] (rank 0) overlap");
    CHECK_FAILS(save_pieces(inside, 2, 0), DCP_E_MISMATCH, "overlap");
    CHECK_FAILS(save_pieces(far_apart, 3, 0), DCP_E_MISMATCH, "save what each rank owns, without its halo");
    CHECK_INT(count_files(""), 0);
    done();
}
TEST(the_same_piece_twice_is_refused) {
    static const int64_t twice[3][4] = { { 0, 0, 7, 11 }, { 7, 0, 6, 11 }, { 0, 0, 7, 11 } };
    static const int64_t other[2][4] = { { 0, 0, 13, 11 }, { 0, 0, 13, 0 } };
    float x = 1;
    dcp_tensor t[2];
    dcp_save_desc desc;
    use_memory();
    CHECK_FAILS(save_pieces(twice, 3, 0), DCP_E_INVALID, "twice");
    CHECK_FAILS(save_pieces(other, 2, 0), DCP_E_INVALID, "twice");      /* the offset alone is the name of a piece */
    t[0] = t[1] = dcp_scalar("s", DCP_FP32, &x);
    desc = saving("x", t, 2);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "\"s\"");
    CHECK_INT(count_files(""), 0);
    done();
}
TEST(pieces_that_disagree_are_refused) {
    float data[64] = {0};
    static const int64_t upper[4] = { 0, 0, 1, 4 }, lower[4] = { 1, 0, 1, 4 };
    dcp_tensor t[2];
    dcp_save_desc desc;
    use_memory();
    t[0] = block("m", data, upper, 2, 4);
    t[1] = block("m", data, lower, 2, 4);
    desc = saving("x", t, 2);
    t[1].dtype = DCP_INT32;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_MISMATCH, "data types");
    t[1] = block("m", data, lower, 3, 4);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_MISMATCH, "global shapes");
    t[1] = block("m", data, lower, 2, 4);
    t[1].ndim = 1;
    t[1].shape[1] = t[1].global_shape[1] = 0;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_MISMATCH, "dimensions");
    t[1] = block("m", data, lower, 2, 4);
    t[1].placement = DCP_PLACE_REPLICATED;
    CHECK(dcp_save(&desc, &err) != DCP_OK);             /* one tensor has one placement */
    CHECK_INT(count_files(""), 0);
    done();
}
TEST(holes_need_permission) {
    static const int64_t hole[2][4] = { { 0, 0, 6, 11 }, { 7, 0, 6, 11 } }, only[1][4] = { { 3, 4, 2, 2 } };
    use_memory();
    CHECK_FAILS(save_pieces(hole, 2, 0), DCP_E_INCOMPLETE, "[6:7, 0:11]");
    CHECK_FAILS(save_pieces(only, 1, 0), DCP_E_INCOMPLETE, "allow_holes");
    CHECK(strncmp(err.message, "no coordinator was set", 22) == 0);     /* the likely reason comes first */
    CHECK_INT(count_files(""), 0);
    CHECK_OK_MESSAGE(save_pieces(hole, 2, 1), err.message);
    done();
}
static void missing_part_body(void) {
    static const int64_t hole[2][4] = { { 0, 0, 6, 11 }, { 7, 0, 6, 11 } };
    static const int64_t upper[4] = { 0, 0, 6, 11 }, lower[4] = { 8, 2, 3, 9 }, across[4] = { 5, 3, 3, 2 },
                                    inside[4] = { 6, 10, 1, 1 };
    float data[ROWS * COLUMNS];
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t;
    CHECK_OK_MESSAGE(save_pieces(hole, 2, 1), err.message);
    t = dcp_array("m", DCP_FP32, data, 2, shape);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "tensor \"m\": no rank stored [6:7, 0:11]");
    t = block("m", data, across, ROWS, COLUMNS);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "[6:7, 3:5]");
    t = block("m", data, inside, ROWS, COLUMNS);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "[6:7, 10:11]");
    t = block("m", data, upper, ROWS, COLUMNS);
    load_from("x", &t, 1);
    CHECK(is_matrix(data, upper));
    t = block("m", data, lower, ROWS, COLUMNS);
    load_from("x", &t, 1);
    CHECK(is_matrix(data, lower));
    verify_at("x");
}
TEST(a_missing_part_is_incomplete) { on_local_and_memory(missing_part_body); }

/* The one piece of a replicated tensor may be a box too: what it does not hold is a hole, not silence. */
TEST(a_replicated_box_has_holes_too) {
    float two[2] = { 1, 2 }, four[4] = { 9, 9, 9, 9 };
    int64_t whole = 4, offset = 2;
    dcp_tensor t = vector("w", DCP_FP32, two, 2);
    dcp_save_desc desc;
    use_memory();
    dcp_piece(&t, &whole, &offset);
    t.placement = DCP_PLACE_REPLICATED;
    desc = saving("x", &t, 1);
    desc.allow_holes = 1;
    if (dcp_save(&desc, &err) == DCP_OK) {
        t = vector("w", DCP_FP32, four, 4);
        CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "[0:2]");
    } else {
        CHECK_INT(err.status, DCP_E_INVALID);           /* refusing to save it is as good */
    }
    done();
}
/* Two elements to a byte: a save takes only pieces that begin and end with a byte, or nobody could put them together
 * again. */
TEST(pieces_do_not_cut_bytes) {
    uint8_t bytes[2][2] = { { 0x21, 0x03 }, { 0x54, 0x06 } }, got[3] = {0};
    int64_t shape[2] = { 1, 3 }, whole[2] = { 2, 3 }, offset[2] = { 0, 0 };
    dcp_tensor t[2];
    dcp_save_desc desc;
    use_memory();
    t[0] = dcp_array("q", DCP_INT4, bytes[0], 2, shape);
    dcp_piece(&t[0], whole, offset);
    t[1] = dcp_array("q", DCP_INT4, bytes[1], 2, shape);
    offset[0] = 1;
    dcp_piece(&t[1], whole, offset);
    desc = saving("x", t, 2);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "byte");
    shape[1] = whole[1] = 2;
    t[0] = dcp_array("q", DCP_INT4, bytes[0], 2, shape);
    offset[0] = 0;
    dcp_piece(&t[0], whole, offset);
    t[1] = dcp_array("q", DCP_INT4, bytes[1], 2, shape);
    offset[0] = 1;
    dcp_piece(&t[1], whole, offset);
    save(&desc);
    t[0] = dcp_array("q", DCP_INT4, got, 2, whole);
    load_from("x", t, 1);
    CHECK(got[0] == 0x21 && got[1] == 0x54 && got[2] == 0);
    done();
}
TEST(a_box_that_cuts_a_byte_is_refused) {
    uint8_t bytes[8] = { 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe }, got[8] = {0};
    int64_t whole[2] = { 4, 4 }, shape[2] = { 2, 2 }, offset[2] = { 1, 1 };
    dcp_tensor t;
    use_memory();
    t = dcp_array("q", DCP_UINT4, bytes, 2, whole);
    save_as("x", &t, 1);
    t = dcp_array("q", DCP_UINT4, got, 2, shape);
    dcp_piece(&t, whole, offset);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INVALID, "two elements");
    offset[1] = 2;
    dcp_piece(&t, whole, offset);
    load_from("x", &t, 1);
    CHECK(got[0] == 0x76 && got[1] == 0xba && got[2] == 0);
    done();
}

/* ==== any box of any tensor ==========================================================================================
 * A tensor of random shape, cut into random pieces, saved from randomly strided memory, perhaps with pieces left out;
 * random boxes of it are loaded into randomly strided memory. Every byte is compared, also those around and between the
 * elements. The model here knows nothing but loops over single elements. A type of 4 bits is a tensor of bytes whose
 * last dimension counts in pairs. */
#define MAX_PARTS 64                    /* six cuts in halves */
typedef struct part { int64_t offset[DCP_MAX_DIMS], shape[DCP_MAX_DIMS]; int is_kept; } part;      /* in units */
typedef struct subject {
    dcp_dtype dtype;
    int ndim;
    int64_t shape[DCP_MAX_DIMS], width, pair;  /* in units; bytes of a unit; elements in a unit of the last dimension */
    uint64_t seed;
    part parts[MAX_PARTS];
    int part_count, has_holes;
} subject;

static int64_t product(int ndim, const int64_t *shape) {
    int64_t n = 1;
    int d;
    for (d = 0; d < ndim; d++) n *= shape[d];
    return n;
}
static int next_index(int ndim, const int64_t *shape, int64_t *index) {                 /* 0 after the last one */
    int d;
    for (d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d]) return 1;
        index[d] = 0;
    }
    return 0;
}
/* Writes the box of the subject to strided memory, element by element. */
static void put_box(const subject *s, const int64_t *offset, const int64_t *shape, const int64_t *stride,
                    uint8_t *memory) {
    int64_t index[DCP_MAX_DIMS] = {0}, b;
    if (product(s->ndim, shape) == 0) return;
    do {
        int64_t position = 0, place = 0;
        int d;
        for (d = 0; d < s->ndim; d++) {
            position = position * s->shape[d] + offset[d] + index[d];
            place += index[d] * stride[d];
        }
        for (b = 0; b < s->width; b++)
            memory[place * s->width + b] = pattern(s->seed, (uint64_t)(position * s->width + b));
    } while (next_index(s->ndim, shape, index));
}
static void dense_stride(int ndim, const int64_t *shape, int64_t *stride) {
    int64_t step = 1;
    int d;
    for (d = ndim - 1; d >= 0; d--) { stride[d] = step; step *= shape[d]; }
}
/* Dimensions in any order, with gaps. Returns the units that the memory must have. */
static int64_t random_stride(int ndim, const int64_t *shape, int64_t *stride) {
    int order[DCP_MAX_DIMS], d;
    int64_t span = 1;
    for (d = 0; d < ndim; d++) {
        int other = (int)test_random_below((size_t)d + 1);
        order[d] = order[other];
        order[other] = d;
    }
    for (d = 0; d < ndim; d++) {
        stride[order[d]] = span + (int64_t)test_random_below(3);
        span += (dcpi_max(shape[order[d]], 1) - 1) * stride[order[d]];
    }
    return span;
}
static void random_shape(subject *s) {
    int64_t most = test_random_below(25) == 0 ? 150000 : 1 + (int64_t)test_random_below(2500);
    int d, tries;
    for (d = 0; d < s->ndim; d++) s->shape[d] = 1;
    for (tries = 0; s->ndim > 0 && tries < 30; tries++) {
        d = (int)test_random_below((size_t)s->ndim);
        s->shape[d] += (int64_t)test_random_below(test_random_below(4) == 0 ? 400 : 5);
        while (product(s->ndim, s->shape) > most) s->shape[d] -= (s->shape[d] + 2) / 3;
    }
    if (s->ndim > 0 && test_random_below(40) == 0) s->shape[test_random_below((size_t)s->ndim)] = 0;
}
static void random_cut(subject *s, const part *whole, int depth) {
    int d = s->ndim ? (int)test_random_below((size_t)s->ndim) : 0;
    if (s->ndim > 0 && depth > 0 && whole->shape[d] > 1 && test_random_below(5) > 0) {
        part low = *whole, high = *whole;
        low.shape[d] = 1 + (int64_t)test_random_below((size_t)whole->shape[d] - 1);
        high.offset[d] += low.shape[d];
        high.shape[d] -= low.shape[d];
        random_cut(s, &low, depth - 1);
        random_cut(s, &high, depth - 1);
    } else {
        s->parts[s->part_count++] = *whole;
    }
}
static void random_holes(subject *s) {
    int i;
    for (i = 0; i < s->part_count; i++) s->parts[i].is_kept = 1;
    if (s->part_count < 2 || test_random_below(4) > 0) return;
    s->parts[test_random_below((size_t)s->part_count)].is_kept = 0;
    s->has_holes = 1;
}
static void random_subject(subject *s) {
    part whole;
    memset(s, 0, sizeof *s);
    memset(&whole, 0, sizeof whole);
    s->seed = test_random();
    s->dtype = (dcp_dtype)(1 + test_random_below(DCP_UINT4));
    s->ndim = (int)test_random_below(9);
    s->pair = dcp_dtype_bits(s->dtype) < 8 && s->ndim > 0 ? 2 : 1;
    s->width = (dcp_dtype_bits(s->dtype) + 7) / 8;
    random_shape(s);
    memcpy(whole.shape, s->shape, sizeof whole.shape);
    random_cut(s, &whole, 1 + (int)test_random_below(6));
    random_holes(s);
}
static void in_elements(const subject *s, const int64_t *units, int64_t *elements) {
    memcpy(elements, units, sizeof s->shape);
    if (s->ndim > 0) elements[s->ndim - 1] *= s->pair;
}
/* The tensor for a box, with fresh memory: `bytes` of it, from 61 bytes before its data on. */
static dcp_tensor box_tensor(const subject *s, const int64_t *offset, const int64_t *shape, int64_t *stride,
                             uint8_t **memory, size_t *bytes) {
    int64_t global[DCP_MAX_DIMS], place[DCP_MAX_DIMS], local[DCP_MAX_DIMS], span = product(s->ndim, shape);
    dcp_tensor t;
    in_elements(s, s->shape, global);
    in_elements(s, offset, place);
    in_elements(s, shape, local);
    dense_stride(s->ndim, shape, stride);
    t = dcp_array("x", s->dtype, NULL, s->ndim, local);
    if (memcmp(shape, s->shape, sizeof s->shape) != 0 || test_random_below(2) == 0) dcp_piece(&t, global, place);
    if (s->pair == 1 && s->width == dcp_dtype_bits(s->dtype) / 8 && span > 0 && test_random_below(2) == 0) {
        span = random_stride(s->ndim, shape, stride);
        memcpy(t.stride, stride, sizeof t.stride);
    }
    *bytes = (size_t)(span * s->width) + 61 + 67;
    *memory = allocated(*bytes);
    memset(*memory, 0xEE, *bytes);
    t.data = *memory + 61;
    return t;
}
static size_t subject_tensors(const subject *s, dcp_tensor *t, uint8_t **memory) {
    int64_t stride[DCP_MAX_DIMS] = {0};
    size_t n = 0, bytes;
    int i;
    for (i = 0; i < s->part_count; i++) {
        if (!s->parts[i].is_kept) continue;
        t[n] = box_tensor(s, s->parts[i].offset, s->parts[i].shape, stride, &memory[n], &bytes);
        put_box(s, s->parts[i].offset, s->parts[i].shape, stride, (uint8_t *)t[n].data);
        n++;
    }
    return n;
}
static void shuffle(dcp_tensor *t, size_t n) {
    size_t i;
    for (i = 1; i < n; i++) {
        size_t other = test_random_below(i + 1);
        dcp_tensor swapped = t[i];
        t[i] = t[other];
        t[other] = swapped;
    }
}
static void save_subject(const subject *s, dcp_tensor *t, size_t n) {
    dcp_save_desc desc = saving("x", t, n);
    desc.layout = test_random_below(2) ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
    desc.checksum = test_random_below(4) ? DCP_CHECKSUM_TREE : DCP_CHECKSUM_FLAT;
    desc.alignment = (size_t)64 << test_random_below(8);
    desc.block_size = 256 * 1024;
    desc.allow_holes = s->has_holes;
    desc.io.threads = (int)test_random_below(4);
    save(&desc);
}
/* Row-major copies of the pieces, dealt to ranks. */
static void save_subject_of_ranks(const subject *s, dcp_tensor *t, size_t n) {
    world w;
    size_t i;
    world_begin(&w, 1 + (int)test_random_below(MAX_RANKS));
    for (i = 0; i < n; i++) {
        int64_t zero[DCP_MAX_DIMS] = {0}, bytes = dcpi_tensor_bytes(&t[i]);
        uint8_t *dense = allocated((size_t)bytes);
        dcp_tensor copied = t[i];
        CHECK_OK(dcpi_tensor_fetch(NULL, 0, &t[i], 0, dense, (size_t)bytes, &err));
        copied.data = dense;
        memcpy(copied.stride, zero, sizeof zero);
        world_add(&w, (int)test_random_below((size_t)w.count), &copied, "sharded");
        free(dense);
    }
    if (s->seed & 1) world_write(&w, "x"); else world_write_single(&w, "x");
    world_end(&w);
}
static void random_box(const subject *s, part *box) {
    int d;
    memset(box, 0, sizeof *box);
    memcpy(box->shape, s->shape, sizeof box->shape);
    if (test_random_below(6) == 0) return;              /* the whole */
    for (d = 0; d < s->ndim; d++) {
        if (s->shape[d] == 0) continue;
        box->offset[d] = (int64_t)test_random_below((size_t)s->shape[d]);
        box->shape[d] = 1 + (int64_t)test_random_below((size_t)(s->shape[d] - box->offset[d]));
        if (test_random_below(60) == 0) box->shape[d] = 0;
    }
}
static int meets(const subject *s, const part *a, const part *b) {
    int64_t offset[DCP_MAX_DIMS], shape[DCP_MAX_DIMS];
    return product(s->ndim, a->shape) > 0 && product(s->ndim, b->shape) > 0 &&
           dcpi_box_meet(s->ndim, a->offset, a->shape, b->offset, b->shape, offset, shape);
}
static int is_whole_there(const subject *s, const part *box) {
    int i;
    for (i = 0; i < s->part_count; i++) if (!s->parts[i].is_kept && meets(s, box, &s->parts[i])) return 0;
    return 1;
}
static void check_box(const subject *s, dcp_checkpoint *c, const part *box) {
    int64_t stride[DCP_MAX_DIMS] = {0};
    uint8_t *memory, *expected;
    size_t bytes;
    dcp_tensor t = box_tensor(s, box->offset, box->shape, stride, &memory, &bytes);
    expected = allocated(bytes);
    memset(expected, 0xEE, bytes);
    if (is_whole_there(s, box)) {
        put_box(s, box->offset, box->shape, stride, expected + 61);
        CHECK_OK_MESSAGE(dcp_read(c, &t, 1, &err), err.message);
    } else {
        CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_INCOMPLETE, "no rank stored");
    }
    CHECK(memcmp(memory, expected, bytes) == 0);       /* also that nothing is written when a hole is seen beforehand */
    free(memory);
    free(expected);
}
static void check_subject(const subject *s) {
    dcp_checkpoint *c;
    part box;
    dcp_open_desc desc = opening("x");
    int i;
    desc.verify = (dcp_verify_policy)test_random_below(3);
    desc.io.memory_budget = test_random_below(3) ? 0 : 1 << 20;
    c = open_with(&desc);
    CHECK_INT(dcp_checkpoint_tensor_count(c), 1);
    for (i = 0; i < 4; i++) {
        random_box(s, &box);
        check_box(s, c, &box);
    }
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_close(c);
}
static void box_case(int number) {
    static subject s;
    static dcp_tensor t[MAX_PARTS];
    uint8_t *memory[MAX_PARTS];
    size_t n, i;
    random_subject(&s);
    n = subject_tensors(&s, t, memory);
    shuffle(t, n);
    if (number % 40 == 0) use_local(); else use_memory();
    if (s.ndim == 0 || number % 2) save_subject(&s, t, n); else save_subject_of_ranks(&s, t, n);
    for (i = 0; i < n; i++) free(memory[i]);
    check_subject(&s);
    done();
    if (number % 40 == 0) test_rm_rf(test_state.dir[--test_state.dirs]);
}
TEST(any_box_of_any_tensor) {
    int number;
    int cases = test_times(test_is_sanitized() ? 300 : 1500);
    for (number = 0; number < cases; number++) box_case(number);
}

/* ==== strides ===================================================================================================== */
/* A matrix inside a larger one, and its transpose: both ways, with the elements between left alone. */
static void strided_body(void) {
    float out[6 * 10] = {0}, in[6 * 10], turned[4 * 3];
    int64_t shape[2] = { 3, 4 }, r, c;
    dcp_tensor t = dcp_array("m", DCP_FP32, out + 12, 2, shape);
    for (r = 0; r < 60; r++) { out[r] = (float)r; in[r] = -1; }
    t.stride[0] = 10;
    t.stride[1] = 2;
    save_as("x", &t, 1);
    t.data = in + 12;
    load_from("x", &t, 1);
    for (r = 0; r < 60; r++) {
        int64_t row = (r - 12) / 10, column = (r - 12) % 10;
        int is_element = r >= 12 && row < 3 && column % 2 == 0 && column / 2 < 4;
        CHECK(in[r] == (is_element ? out[r] : -1));
    }
    t = dcp_array("m", DCP_FP32, turned, 2, shape);
    t.stride[0] = 1;
    t.stride[1] = 3;
    load_from("x", &t, 1);
    for (r = 0; r < 3; r++) for (c = 0; c < 4; c++) CHECK(turned[c * 3 + r] == out[12 + 10 * r + 2 * c]);
}
TEST(strided_memory_both_ways) { on_local_and_memory(strided_body); }

/* Large enough for many buffers and workers: every other column. */
TEST(large_strided_memory) {
    const int64_t rows = 700, columns = 1500, size = rows * columns * 2;
    int64_t shape[2], i;
    double *out = (double *)(void *)allocated((size_t)size * 8), *in = (double *)(void *)allocated((size_t)size * 8);
    dcp_tensor t;
    use_local();
    for (i = 0; i < size; i++) { out[i] = (double)i; in[i] = -1; }
    shape[0] = rows;
    shape[1] = columns;
    t = dcp_array("m", DCP_FP64, out, 2, shape);
    t.stride[0] = 2 * columns;
    t.stride[1] = 2;
    save_as("x", &t, 1);
    t.data = in;
    load_from("x", &t, 1);
    for (i = 0; i < size; i++) CHECK(in[i] == (i % 2 ? -1 : (double)i));
    done();
    free(out);
    free(in);
}
TEST(strides_that_share_memory_are_refused) {
    static const int64_t bad[8][3] = {
        { -1, 1, 1 }, { 12, 0, 1 }, { 12, 4, 2 }, { 12, 3, 1 }, { 1, 1, 1 }, { 0, 4, 1 }, { 6, 4, 1 }, { 12, 4, -4 }
    };
    static const int64_t good[4][3] = { { 12, 4, 1 }, { 1, 2, 6 }, { 100, 1, 30 }, { 4, 8, 1 } };
    float data[300] = {0};
    int64_t shape[3] = { 2, 3, 4 };
    dcp_tensor t = dcp_array("m", DCP_FP32, data, 3, shape);
    dcp_save_desc desc;
    int i;
    use_memory();
    save_as("x", &t, 1);
    for (i = 0; i < 8; i++) {
        memcpy(t.stride, bad[i], sizeof bad[i]);
        desc = saving("y", &t, 1);
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "stride");
        CHECK_FAILS(try_load("x", &t, 1), DCP_E_INVALID, "stride");
    }
    for (i = 0; i < 4; i++) {
        memcpy(t.stride, good[i], sizeof good[i]);
        load_from("x", &t, 1);
    }
    t = vector("q", DCP_INT4, data, 8);
    t.stride[0] = 2;
    desc = saving("y", &t, 1);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "cannot be strided");
    t.stride[0] = INT64_MAX / 4;
    t.dtype = DCP_FP32;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "stride");
    CHECK_INT(count_files(""), 2);
    done();
}
/* A dimension of 1 has no step, one of 0 no elements: any stride will do there. */
TEST(strides_of_dimensions_that_do_not_move) {
    float data[3] = { 1, 2, 3 }, in[3] = {0};
    int64_t shape[3] = { 1, 3, 1 }, none[2] = { 0, 3 };
    dcp_tensor t = dcp_array("m", DCP_FP32, data, 3, shape);
    use_memory();
    t.stride[0] = 1;
    t.stride[1] = 1;
    t.stride[2] = 1;
    save_as("x", &t, 1);
    t.data = in;
    t.stride[0] = 1000;
    load_from("x", &t, 1);
    CHECK(memcmp(data, in, sizeof in) == 0);
    t = dcp_array("m", DCP_FP32, data, 2, none);
    t.stride[0] = 1;
    t.stride[1] = 1;
    save_as("y", &t, 1);
    load_from("y", &t, 1);
    done();
}

/* ==== slices: only the blocks touched are read and checked ======================================================== */
static void save_big(const char *name, dcp_layout layout, dcp_checksum checksum) {
    float *data = big_matrix();
    int64_t shape[2] = { BIG_ROWS, BIG_COLUMNS };
    dcp_tensor t = dcp_array("big", DCP_FP32, data, 2, shape);
    dcp_save_desc desc = saving(name, &t, 1);
    desc.layout = layout;
    desc.checksum = checksum;
    desc.block_size = 1 << 20;
    save(&desc);
    free(data);
}
/* Reads the box and returns how many bytes of data files that took. */
static int64_t read_big(dcp_checkpoint *c, const int64_t box[4]) {
    float *data = (float *)(void *)allocated((size_t)(box[2] * box[3]) * sizeof *data);
    dcp_tensor t = block("big", data, box, BIG_ROWS, BIG_COLUMNS);
    int64_t r, i;
    forget_counts();
    CHECK_OK_MESSAGE(dcp_read(c, &t, 1, &err), err.message);
    for (r = 0; r < box[2]; r++)
        for (i = 0; i < box[3]; i++) CHECK(data[r * box[3] + i] == (float)((box[0] + r) * 100 + (box[1] + i) % 97));
    free(data);
    return eye.bytes_read;
}
static const int64_t first_row[4] = { 0, 0, 1, BIG_COLUMNS }, two_rows[4] = { 3, 0, 2, BIG_COLUMNS },
                                    one_element[4] = { 21, 777, 1, 1 };
static const int64_t a_column[4] = { 0, 5, BIG_ROWS, 1 }, last_corner[4] = { 39, 65500, 1, 36 },
                                   last_rows[4] = { 37, 1, 3, 65535 };
static void touched_case(dcp_layout layout) {
    dcp_checkpoint *c;
    save_big("x", layout, DCP_CHECKSUM_TREE);
    c = open_at("x");
    CHECK_INT(read_big(c, first_row), MIB);
    CHECK_INT(read_big(c, two_rows), 2 * MIB);
    CHECK_INT(read_big(c, one_element), MIB);
    CHECK_INT(read_big(c, last_corner), MIB);
    CHECK_INT(read_big(c, last_rows), MIB);
    CHECK_INT(read_big(c, a_column), 10 * MIB);
    dcp_close(c);
}
TEST(a_slice_reads_only_the_blocks_it_touches) {
    use_memory();
    use_watch();
    touched_case(DCP_LAYOUT_SHARDED);
    done();
    use_local();
    use_watch();
    touched_case(DCP_LAYOUT_SINGLE);
    done();
}
TEST(without_verification_a_slice_reads_only_its_bytes) {
    dcp_open_desc desc;
    dcp_checkpoint *c;
    use_memory();
    use_watch();
    save_big("x", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    desc = opening("x");
    desc.verify = DCP_VERIFY_NONE;
    c = open_with(&desc);
    CHECK_INT(read_big(c, first_row), BIG_COLUMNS * 4);
    CHECK_INT(read_big(c, one_element), 4);
    CHECK_INT(read_big(c, last_corner), 36 * 4);
    CHECK(read_big(c, a_column) <= 10 * MIB);
    dcp_close(c);
    done();
}
TEST(opening_reads_no_tensor_bytes) {
    dcp_checkpoint *c;
    use_memory();
    use_watch();
    save_big("x", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    forget_counts();
    c = open_at("x");
    CHECK_INT(eye.bytes_read, 0);
    CHECK_INT(eye.opens, 1);                            /* the document */
    dcp_close(c);
    done();
}
/* With a flat checksum the first touch reads the file once; after that, what is needed. */
TEST(a_flat_file_is_checked_once_an_open) {
    dcp_checkpoint *c;
    use_memory();
    use_watch();
    save_big("x", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    c = open_at("x");
    CHECK_INT(read_big(c, one_element), 10 * MIB + 4);
    CHECK_INT(read_big(c, one_element), 4);
    CHECK_INT(read_big(c, first_row), BIG_COLUMNS * 4);
    dcp_close(c);
    done();
}
static dcp_status read_box(const char *name, const int64_t box[4], dcp_verify_policy verify) {
    float *data = (float *)(void *)allocated((size_t)(box[2] * box[3]) * sizeof *data);
    dcp_tensor t = block("big", data, box, BIG_ROWS, BIG_COLUMNS);
    dcp_load_desc desc = loading(name, &t, 1);
    dcp_status status;
    desc.verify = verify;
    status = dcp_load(&desc, &err);
    free(data);
    return status;
}
static void damage_body(void) {
    save_big("x", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    flip("x_shard_0.bin", 5 * MIB + 17);                /* block 5: rows 20 to 23 */
    CHECK_OK_MESSAGE(read_box("x", first_row, DCP_VERIFY_TOUCHED), err.message);
    CHECK_OK_MESSAGE(read_box("x", last_rows, DCP_VERIFY_TOUCHED), err.message);
    CHECK_FAILS(read_box("x", one_element, DCP_VERIFY_TOUCHED), DCP_E_CHECKSUM,
                "x_shard_0.bin (shard 0), tensor \"big\": bytes 5242880 to 6291456");
    CHECK_FAILS(read_box("x", a_column, DCP_VERIFY_TOUCHED), DCP_E_CHECKSUM, "tensor \"big\"");
    CHECK_FAILS(read_box("x", first_row, DCP_VERIFY_ALL), DCP_E_CHECKSUM, "x_shard_0.bin");
    CHECK_OK_MESSAGE(read_box("x", one_element, DCP_VERIFY_NONE), err.message);
    save_big("y", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    flip("y_shard_0.bin", 5 * MIB + 17);
    CHECK_FAILS(read_box("y", first_row, DCP_VERIFY_TOUCHED), DCP_E_CHECKSUM, "y_shard_0.bin (shard 0)");
    CHECK_FAILS(read_box("y", first_row, DCP_VERIFY_ALL), DCP_E_CHECKSUM, "y_shard_0.bin");
    CHECK_OK_MESSAGE(read_box("y", one_element, DCP_VERIFY_NONE), err.message);
}
TEST(damage_is_found_where_it_is_touched) { on_local_and_memory(damage_body); }

TEST(verify_all_checks_before_anything_is_used) {
    dcp_open_desc desc;
    dcp_checkpoint *c = NULL;
    use_memory();
    save_big("x", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE);
    desc = opening("x");
    desc.verify = DCP_VERIFY_ALL;
    c = open_with(&desc);
    dcp_close(c);
    flip("x.checkpoint", size_of("x.checkpoint") - 1);
    CHECK_FAILS(dcp_open(&desc, &c, &err), DCP_E_CHECKSUM, "x.checkpoint");
    CHECK(c == NULL);
    desc.verify = (dcp_verify_policy)impossible(3);
    CHECK_FAILS(dcp_open(&desc, &c, &err), DCP_E_INVALID, "verify");
    done();
}

/* ---- damage of every kind: a small checkpoint, each byte of each of its files ------------------------------------ */
static void save_small(const char *name, dcp_layout layout, dcp_checksum checksum) {
    uint8_t bytes[96];
    dcp_tensor t[2] = DCP_ZERO;
    dcp_save_desc desc = saving(name, t, 2);
    dcp_training training = DCP_ZERO;
    fill(bytes, sizeof bytes, 8);
    t[0] = dcp_bytes("a", bytes, 33);
    t[1] = dcp_bytes("b", bytes, 96);
    training.step = 7;
    desc.training = &training;
    desc.layout = layout;
    desc.checksum = checksum;
    save(&desc);
}
static void check_damage(const char *name, const char *file) {
    size_t size, i;
    uint8_t *data = get(file, &size), *more = allocated(size + 1);
    for (i = 0; i < size; i++) {
        data[i] ^= (uint8_t)(1 << (i % 8));
        put(file, data, size);
        CHECK(verify_now(name) != DCP_OK);
        CHECK(err.message[0] != '\0');
        data[i] ^= (uint8_t)(1 << (i % 8));
    }
    for (i = 0; i < size; i += i < 200 || i + 200 > size ? 1 : 37) {
        put(file, data, i);
        CHECK(verify_now(name) != DCP_OK);
    }
    memcpy(more, data, size);
    more[size] = 0;
    put(file, more, size + 1);
    CHECK(verify_now(name) != DCP_OK);
    put(file, data, size);
    CHECK_OK_MESSAGE(verify_now(name), err.message);
    dcp_free(data);
    free(more);
}
TEST(every_flipped_bit_is_found) {
    use_memory();
    save_small("tree", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    save_small("flat", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    save_small("one", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE);
    save_small("one flat", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT);
    check_damage("tree", "tree.metadata.json");
    check_damage("tree", "tree_shard_0.bin");
    check_damage("flat", "flat.metadata.json");
    check_damage("flat", "flat_shard_0.bin");
    check_damage("one", "one.checkpoint");
    check_damage("one flat", "one flat.checkpoint");
    done();
}
static void files_that_changed_body(void) {
    uint8_t bytes[1000] = {0};
    dcp_tensor t = dcp_bytes("a", bytes, 33);
    save_small("x", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    save_small("y", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    memset(bytes, 1, sizeof bytes);
    CHECK(size_of("y_shard_0.bin") <= (int64_t)sizeof bytes);
    put("y_shard_0.bin", bytes, (size_t)size_of("y_shard_0.bin"));      /* another checkpoint's, of the same size */
    copy("y_shard_0.bin", "x_shard_0.bin");
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_CHECKSUM, "x_shard_0.bin");
    put("x_shard_0.bin", bytes, 100);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "100 bytes");
    drop("x_shard_0.bin");
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "names \"x_shard_0.bin\" (shard 0), which is not there");
    CHECK_FAILS(verify_now("x"), DCP_E_INCOMPLETE, "x_shard_0.bin");
}
TEST(files_that_were_exchanged_cut_or_lost) { on_local_and_memory(files_that_changed_body); }

/* Equal files stand for each other; a document that is of another checkpoint does not. */
TEST(a_stale_document_does_not_fit_newer_data) {
    uint8_t bytes[64] = {0}, in[64];
    dcp_tensor t = dcp_bytes("a", bytes, 64);
    dcp_save_desc desc;
    use_memory();
    save_as("x", &t, 1);
    copy("x.metadata.json", "stale");
    bytes[3] = 1;
    desc = saving("x", &t, 1);
    desc.overwrite = 1;
    save(&desc);
    copy("stale", "x.metadata.json");
    t.data = in;
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "x_shard_0.bin");
    done();
}

/* ==== map ========================================================================================================= */
static void save_for_map(dcp_layout layout, dcp_checksum checksum) {
    uint8_t *data = filled(3 * 1024 * 1024 + 5, 2);
    int64_t empty = 0;
    dcp_tensor t[4] = DCP_ZERO;
    dcp_save_desc desc = saving("x", t, 4);
    t[0] = dcp_bytes("small", data, 100);
    t[1] = dcp_bytes("large", data, 3 * 1024 * 1024 + 5);
    t[2] = dcp_array("empty", DCP_FP32, NULL, 1, &empty);
    t[3] = dcp_scalar("scalar", DCP_FP64, data);
    desc.layout = layout;
    desc.checksum = checksum;
    desc.alignment = 4096;
    desc.block_size = 256 * 1024;
    desc.overwrite = 1;
    save(&desc);
    free(data);
}
static void check_map(dcp_checkpoint *c, const char *name, size_t size) {
    const void *data, *again;
    size_t got;
    CHECK_OK_MESSAGE(dcp_map(c, name, &data, &got, &err), err.message);
    CHECK_INT(got, size);
    CHECK(is_filled(data, got, 2));
    CHECK_OK_MESSAGE(dcp_map(c, name, &again, &got, &err), err.message);
    CHECK(again == data);                               /* no copy is made, or only one */
}
static void check_maps(void) {
    const void *data = &err;
    size_t size = 9;
    dcp_checkpoint *c = open_at("x");
    check_map(c, "large", 3 * 1024 * 1024 + 5);
    check_map(c, "small", 100);
    check_map(c, "scalar", 8);
    CHECK_OK_MESSAGE(dcp_map(c, "empty", &data, &size, &err), err.message);
    CHECK(size == 0);
    dcp_close(c);
}
static void map_body(void) {
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    check_maps();
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    check_maps();
    drop("x.metadata.json");
    save_for_map(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE);
    check_maps();
    save_for_map(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT);
    check_maps();
}
TEST(map_gives_the_bytes) { on_local_and_memory(map_body); }

TEST(map_of_a_file_is_no_copy) {
    dcp_checkpoint *c;
    const void *data;
    size_t size;
    if (DCPI_BIG_ENDIAN) SKIP("files are little-endian: here each map is a copy");
    use_local();
    use_watch();
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    c = open_at("x");
    forget_counts();
    hungry.peak = hungry.bytes;
    check_map(c, "large", 3 * 1024 * 1024 + 5);
    CHECK_INT(eye.bytes_read, 0);
    CHECK(eye.maps > 0);
    CHECK(hungry.peak - hungry.bytes < MIB);
    CHECK_OK(dcp_map(c, "large", &data, &size, &err));
    CHECK_INT((int64_t)((uintptr_t)data % 4096), 0);    /* as aligned as it is in its file */
    dcp_close(c);
    done();
}
/* No addresses are left for the whole file: the tensor is read. */
#if defined(__linux__) && !defined(__s390x__) && !defined(__aarch64__)        /* an emulator has addresses of its own */
static rlim_t addresses_in_use(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld", &pages) != 1) pages = 0;
    if (file) (void)fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}
static void map_with_few_addresses(dcp_layout layout) {
    const size_t size = 48 * (size_t)MIB;
    uint8_t *data = allocated(size);
    size_t got;
    struct rlimit limit, less;
    dcp_open_desc desc;
    dcp_checkpoint *c;
    dcp_status status;
    const void *mapped;
    dcp_tensor t[2];
    dcp_save_desc save_it;
    use_local();
    fill(data, 256, 2);
    memset(data + 256, 0, size - 256);
    t[0] = dcp_bytes("small", data, 256);
    t[1] = dcp_bytes("zeros", data + 256, size - 256);
    save_it = saving("x", t, 2);
    save_it.layout = layout;
    save(&save_it);
    free(data);
    desc = opening("x");
    desc.io.memory_budget = MIB;
    desc.io.threads = 1;
    c = open_with(&desc);
    CHECK_INT(getrlimit(RLIMIT_AS, &limit), 0);
    less = limit;
    less.rlim_cur = addresses_in_use() + 24 * (rlim_t)MIB;
    CHECK_INT(setrlimit(RLIMIT_AS, &less), 0);
    status = dcp_map(c, "small", &mapped, &got, &err);
    CHECK_INT(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK_OK_MESSAGE(status, err.message);
    CHECK(got == 256 && is_filled(mapped, 256, 2));
    dcp_close(c);
    done();
}
TEST(map_without_addresses_for_the_whole_file_reads) {
    if (test_is_sanitized()) SKIP("a sanitizer takes most addresses itself");
    map_with_few_addresses(DCP_LAYOUT_SHARDED);
    map_with_few_addresses(DCP_LAYOUT_SINGLE);
}
#else
TEST(map_without_addresses_for_the_whole_file_reads) { SKIP("no limit on addresses here"); }
#endif
/* With 32 bits a small part of a large file is read, so that the program keeps its addresses. */
TEST(map_takes_no_eighth_of_all_addresses_for_little) {
    const uint64_t all = UINT32_MAX;
    const int64_t eighth = (int64_t)(all / 8);
    CHECK(dcpi_map_pays(eighth, 256, all) && !dcpi_map_pays(eighth + 1, 256, all));
    CHECK(dcpi_map_pays(eighth + 100, eighth, all) && !dcpi_map_pays(4 * eighth, eighth, all));
    CHECK(dcpi_map_pays((int64_t)1 << 50, 256, UINT64_MAX));
}
TEST(map_from_a_storage_without_map_is_a_copy) {
    dcp_checkpoint *c;
    use_memory();
    use_watch();
    store->map = NULL;
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    c = open_at("x");
    forget_counts();
    check_map(c, "large", 3 * 1024 * 1024 + 5);
    CHECK_INT(eye.bytes_read, 3 * 1024 * 1024 + 5);     /* once */
    flip("x_shard_0.bin", 50);
    check_map(c, "large", 3 * 1024 * 1024 + 5);
    dcp_close(c);
    done();
}
static void map_damage_body(void) {
    dcp_open_desc desc;
    dcp_checkpoint *c;
    const void *data;
    size_t size;
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    flip("x_shard_0.bin", 4096 + 2 * MIB);
    c = open_at("x");
    CHECK_FAILS(dcp_map(c, "large", &data, &size, &err), DCP_E_CHECKSUM, "tensor \"large\"");
    CHECK(data == NULL && size == 0);
    check_map(c, "small", 100);
    dcp_close(c);
    desc = opening("x");
    desc.verify = DCP_VERIFY_NONE;
    c = open_with(&desc);
    CHECK_OK_MESSAGE(dcp_map(c, "large", &data, &size, &err), err.message);
    dcp_close(c);
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    c = open_at("x");
    flip(dcp_checkpoint_metadata(c)->shards[0].file_path, 4096 + 2 * MIB);
    CHECK_FAILS(dcp_map(c, "small", &data, &size, &err), DCP_E_CHECKSUM, "SHA-256");
    dcp_close(c);
}
TEST(map_verifies) { on_local_and_memory(map_damage_body); }

TEST(map_of_several_pieces_is_unsupported) {
    static const int64_t part_box[1][4] = { { 3, 0, 2, 11 } };
    dcp_checkpoint *c;
    const void *data;
    size_t size;
    use_memory();
    CHECK_OK(save_pieces(grid_boxes, 6, 0));
    c = open_at("x");
    CHECK_FAILS(dcp_map(c, "m", &data, &size, &err), DCP_E_UNSUPPORTED, "dcp_read_new");
    dcp_close(c);
    drop("x.metadata.json");
    CHECK_OK(save_pieces(part_box, 1, 1));
    c = open_at("x");
    CHECK_FAILS(dcp_map(c, "m", &data, &size, &err), DCP_E_INCOMPLETE, "not the whole");
    dcp_close(c);
    done();
}
/* Each call has its own deadline, not what is left of that of dcp_open. */
TEST(map_has_its_own_deadline) {
    dcp_open_desc desc;
    dcp_checkpoint *c;
    use_memory();
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    desc = opening("x");
    desc.io.deadline_ms = 500;
    c = open_with(&desc);
    dcpi_os_sleep_ms(600);
    check_map(c, "small", 100);
    dcp_close(c);
    done();
}
#define MAPPERS 4
typedef struct mapper { dcp_checkpoint *c; int ok, times; const void *last; } mapper;
static void map_often(void *argument) {
    static const char *const all[] = { "small", "large", "scalar" };
    static const size_t sizes[] = { 100, 3 * 1024 * 1024 + 5, 8 };
    mapper *m = (mapper *)argument;
    int i;
    m->ok = 1;
    for (i = 0; i < m->times; i++) {
        const void *data;
        size_t size;
        dcp_error error;
        if (dcp_map(m->c, all[i % 3], &data, &size, &error) || size != sizes[i % 3] || !is_filled(data, size, 2))
            m->ok = 0;
        if (dcp_checkpoint_find(m->c, all[i % 3]) == NULL) m->ok = 0;
        if (i % 3 == 1) m->last = data;
    }
}
static void map_from_threads(void) {
    dcpi_thread threads[MAPPERS];
    mapper mappers[MAPPERS];
    dcp_checkpoint *c = open_at("x");
    int i, started = 0;
    for (i = 0; i < MAPPERS; i++) {
        mappers[i].c = c;
        mappers[i].ok = 1;
        mappers[i].times = test_is_sanitized() ? 9 : 30;
        if (dcpi_thread_start(&threads[started], map_often, &mappers[i]) == 0) started++;
    }
    for (i = 0; i < started; i++) dcpi_thread_join(&threads[i]);
    for (i = 0; i < MAPPERS; i++) CHECK(mappers[i].ok);
    CHECK(started == 0 || started == MAPPERS);
    dcp_close(c);
}
TEST(map_from_four_threads_at_once) {
    use_local();
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    map_from_threads();
    done();
    use_local();
    save_for_map(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT);
    map_from_threads();
    done();
    use_memory();
    use_watch();
    store->map = NULL;
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    map_from_threads();
    done();
}
/* dcp_map from another thread while this one reads: what the interface allows. */
static void map_meanwhile(void *argument) { map_often(argument); }
TEST(map_beside_a_read) {
    dcpi_thread thread;
    mapper m;
    uint8_t *in = allocated(3 * 1024 * 1024 + 5);
    dcp_tensor t = dcp_bytes("large", in, 3 * 1024 * 1024 + 5);
    int i, is_running;
    use_local();
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    m.c = open_at("x");
    m.ok = 1;
    m.times = test_is_sanitized() ? 9 : 30;
    is_running = dcpi_thread_start(&thread, map_meanwhile, &m) == 0;
    for (i = 0; i < 10; i++) CHECK_OK_MESSAGE(dcp_read(m.c, &t, 1, &err), err.message);
    if (is_running) dcpi_thread_join(&thread);
    CHECK(m.ok && is_filled(in, 3 * 1024 * 1024 + 5, 2));
    dcp_close(m.c);
    done();
    free(in);
}

/* ==== read_new, read_rank, types that nobody knows ================================================================ */
static void read_new_body(void) {
    dcp_tensor t;
    dcp_checkpoint *c;
    CHECK_OK(save_pieces(pinwheel_boxes, 5, 0));
    c = open_at("x");
    CHECK_OK_MESSAGE(dcp_read_new(c, "m", &t, &err), err.message);
    CHECK_STR(t.name, "m");
    CHECK(t.dtype == DCP_FP32 && t.ndim == 2 && t.shape[0] == ROWS && t.shape[1] == COLUMNS && t.status == DCP_OK);
    CHECK(is_matrix((const float *)t.data, whole_matrix));
    dcp_free(t.data);
    dcp_close(c);
    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    c = open_at("x");
    CHECK_OK_MESSAGE(dcp_read_new(c, "empty", &t, &err), err.message);
    CHECK(t.ndim == 1 && t.shape[0] == 0);
    dcp_free(t.data);
    CHECK_OK_MESSAGE(dcp_read_new(c, "scalar", &t, &err), err.message);
    CHECK(t.ndim == 0 && is_filled(t.data, 8, 2));
    dcp_free(t.data);
    dcp_close(c);
}
TEST(read_new_allocates) { on_local_and_memory(read_new_body); }

/* What allocates as a program does, and notes for what. */
typedef struct grown { uint8_t *data; int64_t size, shape[DCP_MAX_DIMS]; int ndim, calls, refuses; } grown;
static void *grow(void *user, const dcp_tensor_info *info) {
    grown *g = (grown *)user;
    g->calls++;
    if (g->refuses) return NULL;
    g->ndim = info->ndim;
    memcpy(g->shape, info->shape, sizeof g->shape);
    g->size = info->size;
    free(g->data);
    g->data = allocated((size_t)info->size);
    return info->size ? g->data : NULL;
}
static void unsized_body(void) {
    grown whole = DCP_ZERO, large = DCP_ZERO, empty = DCP_ZERO, scalar = DCP_ZERO, none = DCP_ZERO;
    dcp_tensor t[4];
    dcp_checkpoint *c;
    CHECK_OK(save_pieces(pinwheel_boxes, 5, 0));
    t[0] = dcp_unsized("m", DCP_FP32, grow, &whole);
    load_from("x", t, 1);
    CHECK(whole.calls == 1 && whole.size == ROWS * COLUMNS * 4 && whole.ndim == 2 && whole.shape[1] == COLUMNS);
    CHECK(t[0].ndim == 2 && t[0].shape[0] == ROWS && t[0].data == whole.data);
    CHECK(is_matrix((const float *)t[0].data, whole_matrix));
    load_from("x", t, 1);
    CHECK(whole.calls == 2 && is_matrix((const float *)whole.data, whole_matrix));
    t[0].dtype = DCP_FP64;
    CHECK_FAILS(try_load("x", t, 1), DCP_E_MISMATCH, "fp64");
    t[0].dtype = DCP_FP32;
    t[0].stride[0] = 12;
    CHECK_FAILS(try_load("x", t, 1), DCP_E_INVALID, "allocate");
    CHECK(whole.calls == 2);
    free(whole.data);

    save_for_map(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    t[0] = dcp_unsized("renamed", DCP_UINT8, grow, &large);
    t[0].stored_name = "large";
    t[1] = dcp_unsized("empty", DCP_FP32, grow, &empty);
    t[2] = dcp_unsized("scalar", DCP_FP64, grow, &scalar);
    t[3] = dcp_unsized("none", DCP_FP64, grow, &none);
    t[3].optional = 1;
    c = open_at("x");
    t[1].dtype = dcp_checkpoint_find(c, "empty")->dtype;
    t[2].dtype = dcp_checkpoint_find(c, "scalar")->dtype;
    CHECK_OK_MESSAGE(dcp_read(c, t, 4, &err), err.message);
    CHECK(large.size == 3 * 1024 * 1024 + 5 && is_filled(large.data, (size_t)large.size, 2));
    CHECK(empty.calls == 1 && empty.size == 0 && t[1].ndim == 1 && t[1].data == NULL);
    CHECK(scalar.ndim == 0 && is_filled(scalar.data, 8, 2));
    CHECK(none.calls == 0 && t[3].status == DCP_E_NOT_FOUND);
    scalar.refuses = 1;
    CHECK_FAILS(dcp_read(c, t, 4, &err), DCP_E_MEMORY, "\"scalar\": no memory for its 8 bytes");
    put(dcp_checkpoint_metadata(c)->shards[0].file_path, "short", 5);
    dcp_close(c);
    large.calls = 0;                                    /* nothing is asked for what is not there */
    CHECK_FAILS(try_load("x", t, 1), DCP_E_INCOMPLETE, "x_shard_0.");
    CHECK(large.calls == 0);
    free(large.data);
    free(empty.data);
    free(scalar.data);
}
TEST(what_only_the_checkpoint_knows_the_size_of) { on_local_and_memory(unsized_body); }

/* Three ranks: "same" is equal everywhere, "own" differs, "only" is rank 1's alone, "shape" has another shape and type
 * on each. */
static void write_private(int is_single) {
    float same[3] = { 1, 2, 3 }, own[3];
    int64_t bytes[3] = { 5, 6, 7 };
    world w;
    int r;
    world_begin(&w, 3);
    for (r = 0; r < 3; r++) {
        dcp_tensor t = vector("same", DCP_FP32, same, 3);
        world_add(&w, r, &t, "private");
        own[0] = (float)r;
        own[1] = own[2] = 9;
        t = vector("own", DCP_FP32, own, 3);
        world_add(&w, r, &t, "private");
        t = vector("only", DCP_FP32, own, 2);
        if (r == 1) world_add(&w, r, &t, "private");
        t = vector("shape", r == 0 ? DCP_INT64 : DCP_UINT64, bytes, r + 1);
        world_add(&w, r, &t, "private");
        t = vector("all", DCP_FP32, same, 3);
        if (r == 2) world_add(&w, r, &t, "replicated");
    }
    if (is_single) world_write_single(&w, "x"); else world_write(&w, "x");
    world_end(&w);
}
static void check_private(void) {
    float got[3] = {0};
    int64_t bytes[3] = {0};
    dcp_checkpoint *c = open_at("x");
    dcp_tensor t = vector("same", DCP_FP32, got, 3);
    CHECK_INT(dcp_checkpoint_find(c, "own")->placement, DCP_PLACE_PRIVATE);
    CHECK_INT(dcp_checkpoint_find(c, "own")->size, 12);
    CHECK_INT(dcp_checkpoint_find(c, "all")->placement, DCP_PLACE_REPLICATED);
    CHECK_OK_MESSAGE(dcp_read(c, &t, 1, &err), err.message);
    CHECK(got[0] == 1 && got[2] == 3);
    t = vector("own", DCP_FP32, got, 3);
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "dcp_read_rank");
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "REPLICATED");
    CHECK_OK_MESSAGE(dcp_read_rank(c, 2, &t, 1, &err), err.message);
    CHECK(got[0] == 2 && got[1] == 9);
    CHECK_OK_MESSAGE(dcp_read_rank(c, 0, &t, 1, &err), err.message);
    CHECK(got[0] == 0);
    t = vector("only", DCP_FP32, got, 2);
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "private");
    CHECK_FAILS(dcp_read_rank(c, 0, &t, 1, &err), DCP_E_MISMATCH, "rank 0 stored none");
    CHECK_OK_MESSAGE(dcp_read_rank(c, 1, &t, 1, &err), err.message);
    CHECK(got[0] == 1);
    t = vector("shape", DCP_UINT64, bytes, 3);
    CHECK_OK_MESSAGE(dcp_read_rank(c, 2, &t, 1, &err), err.message);
    CHECK(bytes[0] == 5 && bytes[2] == 7);
    CHECK_FAILS(dcp_read_rank(c, 1, &t, 1, &err), DCP_E_MISMATCH, "[2]");
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "");
    t = vector("shape", DCP_INT64, bytes, 1);
    CHECK_OK_MESSAGE(dcp_read_rank(c, 0, &t, 1, &err), err.message);
    t = vector("all", DCP_FP32, got, 3);
    CHECK_OK_MESSAGE(dcp_read_rank(c, 0, &t, 1, &err), err.message);    /* everybody's */
    CHECK(got[0] == 1 && got[2] == 3);
    CHECK_FAILS(dcp_read_rank(c, 3, &t, 1, &err), DCP_E_INVALID, "3 ranks");
    dcp_close(c);
}
/* Of an unknown type too, where nothing but the document says how large it is. */
static void private_size_body(void) {
    static float out[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    grown g = DCP_ZERO;
    dcp_tensor t;
    dcp_checkpoint *c;
    dcp_metadata *m;
    world w;
    int r;
    world_begin(&w, 3);
    for (r = 0; r < 3; r++) {
        t = vector("own", DCP_FP32, out, 2 + 2 * r);
        world_add(&w, r, &t, "private");
    }
    world_write(&w, "x");
    world_end(&w);
    t = dcp_unsized("own", DCP_FP32, grow, &g);
    c = open_at("x");
    for (r = 0; r < 3; r++) {
        CHECK_OK_MESSAGE(dcp_read_rank(c, r, &t, 1, &err), err.message);
        CHECK(g.size == 8 + 8 * r && t.shape[0] == 2 + 2 * r && memcmp(g.data, out, (size_t)g.size) == 0);
    }
    dcp_close(c);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, "x.metadata.json", NULL, NULL, &m, &err), err.message);
    for (r = 0; r < 3; r++) m->shards[r].tensors[0].data_type = "fp6_e3m2";
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
    c = open_at("x");
    t.dtype = DCP_OPAQUE;
    for (r = 0; r < 3; r++) {
        CHECK_OK_MESSAGE(dcp_read_rank(c, r, &t, 1, &err), err.message);
        CHECK_INT(g.size, 8 + 8 * r);
    }
    dcp_close(c);
    free(g.data);
}
TEST(a_private_tensor_has_the_size_that_its_rank_gave_it) { on_local_and_memory(private_size_body); }
static void private_body(void) {
    write_private(0);
    check_private();
    drop("x.metadata.json");
    write_private(1);
    check_private();
    verify_at("x");
}
TEST(private_tensors_of_several_ranks) { on_local_and_memory(private_body); }

TEST(a_private_tensor_comes_back_to_the_one_rank_that_there_is) {
    float out[2] = { 1, 2 }, in[2] = {0};
    dcp_tensor t = vector("p", DCP_FP32, out, 2);
    dcp_checkpoint *c;
    use_memory();
    t.placement = DCP_PLACE_PRIVATE;
    save_as("x", &t, 1);
    t.data = in;
    load_from("x", &t, 1);
    CHECK(in[0] == 1 && in[1] == 2);
    c = open_at("x");
    CHECK_INT(dcp_checkpoint_find(c, "p")->placement, DCP_PLACE_PRIVATE);
    CHECK_OK_MESSAGE(dcp_read_rank(c, 0, &t, 1, &err), err.message);
    dcp_close(c);
    done();
}
TEST(shards_are_dealt_round_robin) {
    CHECK_INT(dcp_shard_owner(0, 3), 0);
    CHECK_INT(dcp_shard_owner(5, 3), 2);
    CHECK_INT(dcp_shard_owner(5, 1), 0);
    CHECK_INT(dcp_shard_owner(2, 8), 2);
}

/* Each shard, whole: what lies in its file, or in its region of the single file. */
static void check_shards(const char *name, dcp_status wanted) {
    dcp_checkpoint *c = open_at(name);
    const dcp_metadata *m = dcp_checkpoint_metadata(c);
    void *data;
    size_t i, size, file_size;
    for (i = 0; i < m->shard_count; i++) {
        const dcp_shard_metadata *shard = &m->shards[i];
        uint8_t *file;
        const dcp_status status = dcp_read_shard(c, i, &data, &size, &err);
        CHECK_INT(status, wanted);
        CHECK((data == NULL) == (status != DCP_OK));
        if (status) { CHECK_INT(size, 0); continue; }
        CHECK_INT(size, shard->file_size);
        file = get(shard->file_path, &file_size);
        CHECK(memcmp(data, file + shard->data_offset, size) == 0);
        dcp_free(file);
        dcp_free(data);
    }
    CHECK_FAILS(dcp_read_shard(c, m->shard_count, &data, &size, &err), DCP_E_INVALID, "no shard");
    dcp_close(c);
}
static void whole_shards_body(void) {
    enum { SMALL = 77, LARGE = 9 * MIB + 5 };
    static const struct { const char *name, *file; dcp_layout layout; dcp_checksum checksum; } kinds[] = {
        { "t", "t_shard_0.bin", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE },
        { "f", "f_shard_0.bin", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT },
        { "s", "s.checkpoint", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE },
        { "m", "dense/b_0_of_1.bin", DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE },
    };
    dcp_tensor t[4];
    size_t i;
    t[0] = vector("a", DCP_UINT8, filled(SMALL, 1), SMALL);
    t[1] = vector("b", DCP_INT16, filled(2 * SMALL, 2), SMALL);
    t[2] = vector("c", DCP_UINT8, filled(LARGE, 3), LARGE);
    t[3] = vector("empty", DCP_FP32, NULL, 0);
    for (i = 0; i < DCPI_COUNT(kinds); i++) {
        dcp_save_desc desc = saving(kinds[i].name, t, 4);
        desc.layout = kinds[i].layout;
        desc.checksum = kinds[i].checksum;
        save(&desc);
        check_shards(kinds[i].name, DCP_OK);
        if (kinds[i].layout == DCP_LAYOUT_MANIFEST) continue;
        flip(kinds[i].file, size_of(kinds[i].file) - 7);        /* in "c" */
        check_shards(kinds[i].name, DCP_E_CHECKSUM);
        flip(kinds[i].file, size_of(kinds[i].file) - 7);
        check_shards(kinds[i].name, DCP_OK);
    }
    flip("t_shard_0.bin", SMALL + 10);                  /* between "a" and "b" */
    check_shards("t", DCP_E_CHECKSUM);
    put("f_shard_0.bin", "short", 5);
    check_shards("f", DCP_E_INCOMPLETE);
    for (i = 0; i < 3; i++) free(t[i].data);
}
TEST(whole_shards_as_bytes) { on_local_and_memory(whole_shards_body); }

/* Seed 002: a checkpoint to bytes in memory, and back, in another storage. */
TEST(a_single_file_is_bytes_in_memory) {
    float out[3] = { 1, 2, 3 }, in[3] = {0};
    dcp_tensor t = vector("w", DCP_FP32, out, 3);
    dcp_save_desc desc;
    uint8_t *bytes;
    size_t size;
    use_memory();
    desc = saving("x", &t, 1);
    desc.layout = DCP_LAYOUT_SINGLE;
    save(&desc);
    bytes = get("x.checkpoint", &size);
    done();
    use_memory();
    put("x.checkpoint", bytes, size);
    t.data = in;
    load_from("x", &t, 1);
    CHECK(memcmp(in, out, sizeof in) == 0);
    dcp_free(bytes);
    done();
}

/* A document edited so that one tensor has a type which this version does not know. */
static void save_unknown_type(void) {
    float a[4] = { 1, 2, 3, 4 };
    int64_t shape[2] = { 2, 2 };
    dcp_tensor t[2];
    dcp_metadata *m;
    t[0] = dcp_array("a", DCP_FP32, a, 2, shape);
    t[1] = dcp_array("q", DCP_FP32, a, 2, shape);
    save_as("x", t, 2);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, "x.metadata.json", NULL, NULL, &m, &err), err.message);
    m->shards[0].tensors[1].data_type = "fp6_e3m2";
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
}
static void opaque_body(void) {
    const float numbers[4] = { 1, 2, 3, 4 };
    uint8_t bytes[17], a[16];                          /* as they are in the file */
    int64_t shape[2] = { 2, 2 };
    const void *data;
    size_t size;
    dcp_tensor t, fresh;
    dcp_checkpoint *c;
    memcpy(a, numbers, sizeof a);
    dcpi_swap_bytes(a, 16, 4);
    save_unknown_type();
    verify_at("x");
    c = open_at("x");
    CHECK_INT(dcp_checkpoint_find(c, "q")->dtype, DCP_OPAQUE);
    CHECK_STR(dcp_checkpoint_find(c, "q")->dtype_name, "fp6_e3m2");
    CHECK_INT(dcp_checkpoint_find(c, "q")->size, 16);
    memset(bytes, 0xEE, sizeof bytes);
    t = dcp_array("q", DCP_OPAQUE, bytes, 2, shape);
    CHECK_OK_MESSAGE(dcp_read(c, &t, 1, &err), err.message);
    CHECK(memcmp(bytes, a, 16) == 0 && bytes[16] == 0xEE);
    CHECK_OK_MESSAGE(dcp_read_new(c, "q", &fresh, &err), err.message);
    CHECK(fresh.dtype == DCP_OPAQUE && fresh.ndim == 2 && memcmp(fresh.data, a, 16) == 0);
    dcp_free(fresh.data);
    CHECK_OK_MESSAGE(dcp_map(c, "q", &data, &size, &err), err.message);
    CHECK(size == 16 && memcmp(data, a, 16) == 0);
    t = dcp_array("q", DCP_FP32, bytes, 2, shape);
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "fp6_e3m2");
    t = dcp_array("a", DCP_OPAQUE, bytes, 2, shape);
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "stored as fp32, but wanted as opaque");
    dcp_close(c);
}
TEST(an_unknown_type_reads_whole_as_bytes) { on_local_and_memory(opaque_body); }

/* Whole, and nothing but whole: a box of it would be written beyond the memory that the caller made for the box. */
TEST(a_box_of_an_unknown_type_is_refused) {
    uint8_t bytes[16];
    int64_t box[2] = { 1, 1 }, whole[2] = { 2, 2 }, offset[2] = { 0, 0 };
    dcp_tensor t;
    dcp_status status;
    use_memory();
    save_unknown_type();
    memset(bytes, 0xEE, sizeof bytes);
    t = dcp_array("q", DCP_OPAQUE, bytes, 2, box);
    dcp_piece(&t, whole, offset);
    status = try_load("x", &t, 1);
    CHECK(status == DCP_E_UNSUPPORTED || status == DCP_E_MISMATCH || status == DCP_E_INVALID);
    CHECK(is_all(bytes, sizeof bytes, 0xEE));
    done();
}

int main(void) {
    RUN(pieces_of_one_tensor_in_one_list);
    RUN(pieces_that_overlap_are_refused);
    RUN(the_same_piece_twice_is_refused);
    RUN(pieces_that_disagree_are_refused);
    RUN(holes_need_permission);
    RUN(a_missing_part_is_incomplete);
    RUN(a_replicated_box_has_holes_too);
    RUN(pieces_do_not_cut_bytes);
    RUN(a_box_that_cuts_a_byte_is_refused);
    RUN(any_box_of_any_tensor);
    RUN(strided_memory_both_ways);
    RUN(large_strided_memory);
    RUN(strides_that_share_memory_are_refused);
    RUN(strides_of_dimensions_that_do_not_move);
    RUN(a_slice_reads_only_the_blocks_it_touches);
    RUN(without_verification_a_slice_reads_only_its_bytes);
    RUN(opening_reads_no_tensor_bytes);
    RUN(a_flat_file_is_checked_once_an_open);
    RUN(damage_is_found_where_it_is_touched);
    RUN(verify_all_checks_before_anything_is_used);
    RUN(every_flipped_bit_is_found);
    RUN(files_that_were_exchanged_cut_or_lost);
    RUN(a_stale_document_does_not_fit_newer_data);
    RUN(map_gives_the_bytes);
    RUN(map_of_a_file_is_no_copy);
    RUN(map_without_addresses_for_the_whole_file_reads);
    RUN(map_takes_no_eighth_of_all_addresses_for_little);
    RUN(map_from_a_storage_without_map_is_a_copy);
    RUN(map_verifies);
    RUN(map_of_several_pieces_is_unsupported);
    RUN(map_has_its_own_deadline);
    RUN(map_from_four_threads_at_once);
    RUN(map_beside_a_read);
    RUN(read_new_allocates);
    RUN(what_only_the_checkpoint_knows_the_size_of);
    RUN(a_private_tensor_has_the_size_that_its_rank_gave_it);
    RUN(private_tensors_of_several_ranks);
    RUN(a_private_tensor_comes_back_to_the_one_rank_that_there_is);
    RUN(shards_are_dealt_round_robin);
    RUN(whole_shards_as_bytes);
    RUN(a_single_file_is_bytes_in_memory);
    RUN(an_unknown_type_reads_whole_as_bytes);
    RUN(a_box_of_an_unknown_type_is_refused);
    return test_finish();
}
