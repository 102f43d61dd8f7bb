/* test_engine.c - saving, loading, slices and layouts: what goes in comes out byte for byte, however it is cut,
 * strided, placed and wanted, and what cannot be done is refused with words that help.
 *
 * Tests run on local files, on a memory storage, or on both. `files` is the same place as a storage, to look at and to
 * damage what a save left. White-box in a few places: documents of several ranks are built here, for this version saves
 * from one. */
#include <stddef.h>                     /* not yet <stdlib.h>: dcp.h comes first */

/* Every allocation is counted, filled with a byte of the test's choice, and can be made to fail. */
static void *hook_realloc(void *memory, size_t size);
static void hook_free(void *memory);
#define DCP_MALLOC(size) hook_realloc(NULL, size)
#define DCP_REALLOC(memory, size) hook_realloc(memory, size)
#define DCP_FREE(memory) hook_free(memory)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "windows_errors.h"
#ifndef _WIN32
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#endif

#define KIB ((int64_t)1024)
#define MIB ((int64_t)1024 * 1024)

/* ---- the allocator ----------------------------------------------------------------------------------------------- */
static dcpi_mutex hook_lock = DCPI_MUTEX_INITIALIZER;
static long hook_countdown = -1;        /* so many allocations succeed, then one fails; negative: none fails */
static long hook_count;                 /* allocations so far */
static int64_t hook_live, hook_peak;    /* bytes now, and at most since it was last set */
static int hook_poison = 0xA5;          /* what fresh memory is full of */

static int hook_fails(void) {           /* under the lock */
    hook_count++;
    if (hook_countdown == 0) { hook_countdown = -1; return 1; }
    if (hook_countdown > 0) hook_countdown--;
    return 0;
}
static void hook_note(int64_t change) { /* under the lock */
    hook_live += change;
    if (hook_live > hook_peak) hook_peak = hook_live;
}
static void *hook_realloc(void *memory, size_t size) {
    size_t *block = memory ? (size_t *)memory - 2 : NULL, old = block ? block[0] : 0;
    dcpi_mutex_lock(&hook_lock);
    block = hook_fails() ? NULL : (size_t *)realloc(block, size + 2 * sizeof *block);
    if (block) hook_note((int64_t)size - (int64_t)old);
    dcpi_mutex_unlock(&hook_lock);
    if (!block) return NULL;
    block[0] = size;
    if (size > old) memset((char *)(block + 2) + old, hook_poison, size - old);
    return block + 2;
}
static void hook_free(void *memory) {
    if (!memory) return;
    dcpi_mutex_lock(&hook_lock);
    hook_note(-(int64_t)((size_t *)memory)[-2]);
    free((size_t *)memory - 2);
    dcpi_mutex_unlock(&hook_lock);
}

/* ---- where a test works ------------------------------------------------------------------------------------------ */
static dcp_error err;
static dcp_storage *store;              /* what is saved to: NULL for local files */
static dcp_storage *files;              /* the same place as a storage: `store`, or a local one at `dir` */
static const char *dir;

static void use_local(void) {
    dir = test_dir();
    store = NULL;
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &files, &err), err.message);
}
static void use_memory(void) {
    CHECK_OK_MESSAGE(dcp_storage_memory(&store, &err), err.message);
    files = store;
}
static void done(void) {
    dcp_storage_close(files);
    files = store = NULL;
}
static void on_local_and_memory(void (*body)(void)) {
    use_local();
    body();
    done();
    use_memory();
    body();
    done();
}
/* A path for dcp_save and the others; it stays valid for fifteen more calls. */
static const char *at(const char *name) {
    static char text[16][TEST_PATH + 1200];
    static int turn;
    char *path = text[turn = (turn + 1) % 16];
    (void)snprintf(path, sizeof text[0], "%s%s%s", store ? "" : dir, store ? "" : "/", name);
    return path;
}
static int64_t size_of(const char *name) {              /* -1: it is not there */
    dcp_object_info info;
    dcp_status status = dcp_storage_info(files, name, &info, &err);
    if (status == DCP_E_NOT_FOUND) return -1;
    CHECK_OK_MESSAGE(status, err.message);
    return info.size;
}
static int is_there(const char *name) { return size_of(name) >= 0; }

static uint8_t *get(const char *name, size_t *size) {   /* dcp_free */
    void *data;
    CHECK_OK_MESSAGE(dcp_storage_read_all(files, name, &data, size, &err), err.message);
    return (uint8_t *)data;
}
static void put(const char *name, const void *data, size_t size) {
    CHECK_OK_MESSAGE(dcp_storage_write_all(files, name, data, size, &err), err.message);
}
static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }
static void flip(const char *name, int64_t byte) {
    size_t size;
    uint8_t *data = get(name, &size);
    CHECK(byte < (int64_t)size);
    data[byte] ^= 0x10;
    put(name, data, size);
    dcp_free(data);
}
static void copy(const char *from, const char *to) {
    size_t size;
    uint8_t *data = get(from, &size);
    put(to, data, size);
    dcp_free(data);
}
static void drop(const char *name) { CHECK_OK_MESSAGE(dcp_storage_delete(files, name, &err), err.message); }

typedef struct names { int count; char all[4000]; } names;      /* with a space after each, in no order */
static dcp_status names_one(void *user, const char *path, const dcp_object_info *info) {
    names *n = (names *)user;
    size_t used = strlen(n->all);
    (void)info;
    (void)snprintf(n->all + used, sizeof n->all - used, "%s ", path);
    n->count++;
    return DCP_OK;
}
static int count_files(const char *directory) {
    names n;
    memset(&n, 0, sizeof n);
    CHECK_OK_MESSAGE(files->list(files->context, directory, names_one, &n, &err), err.message);
    return n.count;
}

/* ---- saving and loading ------------------------------------------------------------------------------------------ */
static dcp_save_desc saving(const char *name, const dcp_tensor *tensors, size_t count) {
    dcp_save_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.tensors = tensors;
    desc.tensor_count = count;
    desc.io.storage = store;
    return desc;
}
static dcp_load_desc loading(const char *name, dcp_tensor *tensors, size_t count) {
    dcp_load_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.tensors = tensors;
    desc.tensor_count = count;
    desc.io.storage = store;
    return desc;
}
static dcp_open_desc opening(const char *name) {
    dcp_open_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.io.storage = store;
    return desc;
}
static void save(const dcp_save_desc *desc) { CHECK_OK_MESSAGE(dcp_save(desc, &err), err.message); }
static void save_as(const char *name, const dcp_tensor *tensors, size_t count) {
    dcp_save_desc desc = saving(name, tensors, count);
    save(&desc);
}
static void load_from(const char *name, dcp_tensor *tensors, size_t count) {
    dcp_load_desc desc = loading(name, tensors, count);
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
}
static dcp_status try_load(const char *name, dcp_tensor *tensors, size_t count) {
    dcp_load_desc desc = loading(name, tensors, count);
    return dcp_load(&desc, &err);
}
static dcp_checkpoint *open_with(const dcp_open_desc *desc) {
    dcp_checkpoint *c;
    CHECK_OK_MESSAGE(dcp_open(desc, &c, &err), err.message);
    return c;
}
static dcp_checkpoint *open_at(const char *name) {
    dcp_open_desc desc = opening(name);
    return open_with(&desc);
}
static void verify_at(const char *name) {
    dcp_checkpoint *c = open_at(name);
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_close(c);
}

/* That a call with `err` as its last argument failed with this status and with these words in its message. */
#define CHECK_FAILS(call, want, words) check_fails(call, want, words, __LINE__, #call)
static void check_fails(dcp_status got, dcp_status want, const char *words, int line, const char *call) {
    char detail[900];
    if (got == want && err.status == want && strstr(err.message, words)) return;
    (void)snprintf(detail, sizeof detail, " (got %s \"%s\", want %s with \"%s\")", dcp_status_name(got),
                   got ? err.message : "", dcp_status_name(want), words);
    test_fail(__FILE__, line, call, detail);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */
static uint8_t pattern(uint64_t seed, uint64_t position) {
    uint64_t z = (position + seed * 0x632be59bd9b4e019u + 1) * 0x9e3779b97f4a7c15u;
    return (uint8_t)((z ^ (z >> 29)) >> 24);
}
static void fill(void *data, size_t size, uint64_t seed) {
    uint8_t *bytes = (uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = pattern(seed, i);
}
static int is_filled(const void *data, size_t size, uint64_t seed) {
    const uint8_t *bytes = (const uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) if (bytes[i] != pattern(seed, i)) return 0;
    return 1;
}
static int is_all(const void *data, size_t size, uint8_t value) {
    const uint8_t *bytes = (const uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) if (bytes[i] != value) return 0;
    return 1;
}
static uint8_t *allocated(size_t size) {
    uint8_t *data = (uint8_t *)calloc(size ? size : 1, 1);
    CHECK(data != NULL);
    return data;
}
static uint8_t *filled(size_t size, uint64_t seed) {
    uint8_t *data = allocated(size);
    fill(data, size, seed);
    return data;
}
/* A tensor of one dimension. */
static dcp_tensor vector(const char *name, dcp_dtype dtype, void *data, int64_t length) {
    return dcp_array(name, dtype, data, 1, &length);
}

/* A piece of a matrix: box is row, column, rows, columns. */
static dcp_tensor block(const char *name, float *data, const int64_t box[4], int64_t rows, int64_t columns) {
    int64_t shape[2], whole[2], offset[2];
    dcp_tensor t;
    offset[0] = box[0]; offset[1] = box[1];
    shape[0] = box[2]; shape[1] = box[3];
    whole[0] = rows; whole[1] = columns;
    t = dcp_array(name, DCP_FP32, data, 2, shape);
    dcp_piece(&t, whole, offset);
    return t;
}

/* ==== round trips ================================================================================================= */
#define TYPE_COUNTS 6
static const int64_t type_counts[TYPE_COUNTS] = { 1, 2, 3, 7, 64, 1001 };
static int64_t bytes_of(dcp_dtype dtype, int64_t elements) { return (elements * dcp_dtype_bits(dtype) + 7) / 8; }

static size_t make_types(dcp_tensor *tensors, char (*labels)[40], int is_filled_with_pattern) {
    size_t n = 0;
    int type, i;
    for (type = DCP_FP32; type <= DCP_UINT4; type++) {
        for (i = 0; i < TYPE_COUNTS; i++, n++) {
            size_t size = (size_t)bytes_of((dcp_dtype)type, type_counts[i]);
            uint8_t *data = filled(size, n);
            if (!is_filled_with_pattern) memset(data, 0, size);
            (void)snprintf(labels[n], sizeof labels[n], "%s x %d", dcp_dtype_name((dcp_dtype)type),
                           (int)type_counts[i]);
            tensors[n] = vector(labels[n], (dcp_dtype)type, data, type_counts[i]);
        }
    }
    return n;
}
static void round_trip_types(dcp_layout layout, dcp_checksum checksum) {
    static dcp_tensor out[128], in[128];
    static char out_names[128][40], in_names[128][40];
    size_t n = make_types(out, out_names, 1), i;
    dcp_save_desc desc = saving(layout == DCP_LAYOUT_SINGLE ? "one" : "many", out, n);
    desc.layout = layout;
    desc.checksum = checksum;
    desc.overwrite = 1;
    save(&desc);
    (void)make_types(in, in_names, 0);
    load_from(layout == DCP_LAYOUT_SINGLE ? "one" : "many", in, n);
    for (i = 0; i < n; i++) {
        CHECK(memcmp(in[i].data, out[i].data, (size_t)bytes_of(in[i].dtype, in[i].shape[0])) == 0);
        CHECK_INT(in[i].status, DCP_OK);
        free(in[i].data);
        free(out[i].data);
    }
}
static void every_data_type_body(void) {
    round_trip_types(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE);
    round_trip_types(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT);
    round_trip_types(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE);
    round_trip_types(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT);
    verify_at("many");
    verify_at("one");
}
TEST(every_data_type_round_trips) { on_local_and_memory(every_data_type_body); }

TEST(what_is_stored_is_described) {
    dcp_tensor t[3];
    uint8_t data[64] = {0};
    int64_t shape[3] = { 2, 3, 4 }, odd[1] = { 5 };
    dcp_checkpoint *c;
    const dcp_tensor_info *info;
    use_memory();
    t[0] = dcp_array("z", DCP_BF16, data, 3, shape);
    t[1] = dcp_array("a", DCP_INT4, data, 1, odd);
    t[2] = dcp_scalar("m", DCP_COMPLEX128, data);
    save_as("x", t, 3);
    c = open_at("x");
    CHECK_INT(dcp_tensor_count(c), 3);
    CHECK_STR(dcp_tensor_at(c, 0)->name, "a");          /* sorted by name */
    CHECK_STR(dcp_tensor_at(c, 1)->name, "m");
    CHECK_STR(dcp_tensor_at(c, 2)->name, "z");
    CHECK(dcp_tensor_at(c, 3) == NULL);
    CHECK(dcp_tensor_find(c, "none") == NULL);
    info = dcp_tensor_find(c, "z");
    CHECK(info->dtype == DCP_BF16 && info->ndim == 3 && memcmp(info->shape, shape, sizeof shape) == 0 &&
          info->shape[3] == 0);
    CHECK_STR(info->dtype_name, "bf16");
    CHECK_INT(info->size, 48);
    CHECK_INT(info->piece_count, 1);
    CHECK_INT(info->placement, DCP_PLACE_REPLICATED);
    CHECK_INT(dcp_tensor_find(c, "a")->size, 3);
    CHECK_INT(dcp_tensor_find(c, "m")->ndim, 0);
    CHECK_INT(dcp_tensor_find(c, "m")->size, 16);
    CHECK_STR(dcp_path_of(c), "x.metadata.json");
    CHECK_INT(dcp_layout_of(c), DCP_LAYOUT_SHARDED);
    dcp_close(c);
    done();
}
static void empty_body(void) {
    double out = 2.5, in = 0;
    float none[2] = { 1, 2 };
    int64_t shapes[4][3] = { { 0, 0, 0 }, { 3, 0, 2 }, { 0, 7, 1 }, { 1, 1, 0 } };
    dcp_tensor t[6];
    int layout;
    for (layout = 0; layout < 2; layout++) {
        dcp_save_desc desc;
        t[0] = dcp_array("empty 1", DCP_FP32, NULL, 1, shapes[0]);
        t[1] = dcp_array("empty 2", DCP_FP32, none, 3, shapes[1]);
        t[2] = dcp_scalar("scalar", DCP_FP64, &out);
        t[3] = dcp_array("empty 3", DCP_INT4, NULL, 2, shapes[2]);
        t[4] = dcp_bytes("empty 4", NULL, 0);
        t[5] = dcp_array("empty 5", DCP_COMPLEX64, NULL, 3, shapes[3]);
        desc = saving(layout ? "one" : "many", t, 6);
        desc.layout = layout ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        save(&desc);
        t[2].data = &in;
        in = 0;
        load_from(layout ? "one" : "many", t, 6);
        CHECK(in == 2.5 && none[0] == 1 && none[1] == 2);
        verify_at(layout ? "one" : "many");
    }
}
TEST(scalars_and_empty_tensors_round_trip) { on_local_and_memory(empty_body); }

/* A wanted tensor without bytes is still matched: its shape counts. */
TEST(empty_tensors_are_matched_too) {
    int64_t empty[2] = { 3, 0 }, other[2] = { 4, 0 };
    dcp_tensor t = dcp_array("e", DCP_FP32, NULL, 2, empty);
    use_memory();
    save_as("x", &t, 1);
    t = dcp_array("e", DCP_FP32, NULL, 2, other);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "[4, 0]");
    t = dcp_array("f", DCP_FP32, NULL, 2, empty);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "\"f\"");
    done();
}
static void nothing_body(void) {
    int layout;
    for (layout = 0; layout < 2; layout++) {
        dcp_save_desc desc = saving(layout ? "one" : "many", NULL, 0);
        dcp_checkpoint *c;
        desc.layout = layout ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        save(&desc);
        c = open_at(layout ? "one" : "many");
        CHECK_INT(dcp_tensor_count(c), 0);
        CHECK_OK_MESSAGE(dcp_read(c, NULL, 0, &err), err.message);
        CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
        dcp_close(c);
        load_from(layout ? "one" : "many", NULL, 0);
    }
    CHECK_INT(size_of("many_shard_0.bin"), 0);
}
TEST(a_checkpoint_of_no_tensors) { on_local_and_memory(nothing_body); }

/* Tensors are set, but not counted: a good checkpoint is not replaced by an empty one, and a load that would read
 * nothing says so. */
static void uncounted_body(void) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    size_t k;
    for (k = 0; k < DCPI_COUNT(layouts); k++) {
        float data[4] = { 1, 2, 3, 4 }, back[4] = { 0, 0, 0, 0 };
        int64_t shape[] = { 4 };
        dcp_tensor t = dcp_array("data", DCP_FP32, data, 1, shape);
        dcp_tensor wanted = dcp_array("data", DCP_FP32, back, 1, shape);
        char name[20];
        dcp_metadata *metadata;
        dcp_load_desc load;
        dcp_save_desc desc;
        dcp_saver *saver;
        int before;
        (void)snprintf(name, sizeof name, "p%d", (int)k);
        desc = saving(name, &t, 1);
        desc.layout = layouts[k];
        desc.overwrite = 1;
        save(&desc);
        before = count_files("");
        desc.tensor_count = 0;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "tensor_count");
        CHECK_OK_MESSAGE(dcp_saver_open(NULL, &saver, &err), err.message);
        CHECK_FAILS(dcp_save_begin(saver, &desc, &err), DCP_E_INVALID, "tensor_count");
        CHECK_OK_MESSAGE(dcp_saver_close(saver, &err), err.message);
        CHECK_INT(count_files(""), before);
        CHECK_FAILS(try_load(name, &wanted, 0), DCP_E_INVALID, "tensor_count");
        CHECK_FAILS(try_load("nothing", &wanted, 0), DCP_E_INVALID, "tensor_count");
        load_from(name, &wanted, 1);
        CHECK(memcmp(data, back, sizeof data) == 0);
        load = loading(name, NULL, 0);                  /* only the metadata is wanted */
        load.metadata = &metadata;
        CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
        CHECK(metadata != NULL);
        dcp_metadata_free(metadata);
        desc.tensors = NULL;                            /* an empty one is meant */
        save(&desc);
        load_from(name, NULL, 0);
        drop(k == 0 ? "p0.metadata.json" : k == 1 ? "p1.checkpoint" : "p2.manifest.json");
    }
}
TEST(a_forgotten_tensor_count_is_found) { on_local_and_memory(uncounted_body); }

static void zero_bytes_body(void) {
    int64_t shape[2] = { 0, 5 };
    dcp_tensor t = dcp_array("e", DCP_FP32, NULL, 2, shape);
    dcp_save_desc desc = saving("one", &t, 1);
    save_as("many", &t, 1);
    desc.layout = DCP_LAYOUT_SINGLE;
    save(&desc);
    CHECK_INT(size_of("many_shard_0.bin"), 0);
    load_from("many", &t, 1);
    load_from("one", &t, 1);
    verify_at("many");
    verify_at("one");
}
TEST(a_checkpoint_of_zero_bytes) { on_local_and_memory(zero_bytes_body); }

static void names_body(void) {
    static char longest[1025];
    const char *all[8];
    char longest_wide[1025] = "";
    float out[8], in[8];
    dcp_tensor t[8];
    int i;
    memset(longest, 'n', 1024);
    for (i = 0; i < 341; i++) memcpy(longest_wide + 3 * i, "\xe6\x9d\xb1", 3);
    longest_wide[1023] = 'x';
    all[0] = longest; all[1] = longest_wide; all[2] = "model/layers.0/attention.wq"; all[3] = "two words ";
    all[4] = "gew\xc3\xb6lbe \xf0\x9f\x8c\xb3"; all[5] = "quote\" back\\slash {}[],: <tag>&";
    all[6] = "../../etc/passwd"; all[7] = ".";
    for (i = 0; i < 8; i++) {
        out[i] = (float)i;
        in[i] = -1;
        t[i] = dcp_scalar(all[i], DCP_FP32, &out[i]);
    }
    save_as("x", t, 8);
    for (i = 0; i < 8; i++) t[i].data = &in[i];
    load_from("x", t, 8);
    CHECK(memcmp(in, out, sizeof in) == 0);
    verify_at("x");
}
TEST(names_of_every_kind_round_trip) { on_local_and_memory(names_body); }

/* Names that some system cannot have, or that are shown as others: refused when saving, whatever this system can do. */
static const char *const turning[] = {
    "\xe2\x80\xaa" "a", "a\xe2\x80\xaetxt", "a\xe2\x80\xac", "\xe2\x81\xa6" "a", "a\xe2\x81\xa9", "\xe2\x80\x8e" "a",
        "a\xe2\x80\x8f", "a\xd8\x9c",
    "a\xe2\x80\xa8" "b"
};
static const char *const unportable[] = {
    "NUL", "nul", "con.txt", "Aux.a.b", "COM1", "lpt9.bin", "CONIN$", "x.", "x ", "x...", "a?b", "a*", "<a", "a>",
        "a|b", "a\"b"
};
static void unportable_body(void) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    static const char *const fine[] = { "null", "con1", "comet", "com10", "a.con", "x.y", "a b",
                                        "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", ".x" };
    float x = 1;
    dcp_tensor t = dcp_scalar("s", DCP_FP32, &x);
    dcp_tier tier = { 1, "hot\xe2\x80\xae", "1GB", NULL };
    dcp_save_desc desc;
    char key[100];
    size_t i, k;
    for (i = 0; i < DCPI_COUNT(layouts); i++) {
        for (k = 0; k < DCPI_COUNT(unportable) + DCPI_COUNT(turning); k++) {
            const int turns = k >= DCPI_COUNT(unportable);
            const char *name = turns ? turning[k - DCPI_COUNT(unportable)] : unportable[k];
            desc = saving(name, &t, 1);
            desc.layout = layouts[i];
            CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "no name for a checkpoint");
            if (store) {                                /* there, directories are part of what is saved */
                (void)snprintf(key, sizeof key, "%s/x", name);
                desc.path = at(key);
                CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "no name for a checkpoint");
            }
            if (!turns) continue;
            t.name = name;
            desc.path = at("x");
            CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "turns the direction");
            t.name = "s";
        }
    }
    desc = saving("x", &t, 1);
    desc.layout = DCP_LAYOUT_MANIFEST;
    desc.tiers = &tier;
    desc.tier_count = 1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "tiers[0].name");
    CHECK_INT(count_files(""), 0);
    for (k = 0; k < DCPI_COUNT(fine); k++) {            /* a tensor may be called as it likes but for the direction */
        t.name = k < DCPI_COUNT(unportable) ? unportable[k] : "s";
        desc = saving(fine[k], &t, 1);
        desc.layout = layouts[k % DCPI_COUNT(layouts)];
        save(&desc);
        load_from(fine[k], &t, 1);
    }
}
TEST(names_that_some_system_cannot_have) { on_local_and_memory(unportable_body); }
TEST(bad_names_are_refused) {
    static char too_long[1026];
    static const char *const bad[] = { "", "a\nb", "tab\t", "\x7f", "\xff", "cut \xe6\x9d", "\xc2\x85",
                                       "\xed\xa0\x80" };
    float x = 1;
    dcp_tensor t;
    dcp_save_desc desc;
    size_t i;
    use_memory();
    memset(too_long, 'n', 1025);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        t = dcp_scalar(bad[i], DCP_FP32, &x);
        desc = saving("x", &t, 1);
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "name");
        CHECK_FAILS(try_load("x", &t, 1), DCP_E_NOT_FOUND, "");
    }
    t = dcp_scalar(too_long, DCP_FP32, &x);
    desc = saving("x", &t, 1);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "1024");
    t = dcp_scalar(NULL, DCP_FP32, &x);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "name");
    CHECK_INT(count_files(""), 0);
    done();
}

/* Two tensors around a large one, so that blocks and buffers do not begin where tensors do. */
static void large_case(dcp_layout layout, dcp_checksum checksum, size_t block_size, size_t budget, int64_t size) {
    static dcp_tensor t[3];
    uint8_t small_out[1000], small_in[1000], *out = filled((size_t)size, 3), *in = allocated((size_t)size);
    dcp_save_desc desc = saving("large", t, 3);
    dcp_load_desc load = loading("large", t, 3);
    fill(small_out, sizeof small_out, 1);
    t[0] = dcp_bytes("a", small_out, 37);
    t[1] = dcp_bytes("b", out, (size_t)size);
    t[2] = dcp_bytes("c", small_out, 1000);
    desc.layout = layout;
    desc.checksum = checksum;
    desc.block_size = block_size;
    desc.io.memory_budget = load.io.memory_budget = budget;
    desc.overwrite = 1;
    save(&desc);
    memset(small_in, 0, sizeof small_in);
    memset(in, 0, (size_t)size);
    t[0] = dcp_bytes("b", in, (size_t)size);            /* in another order, and "c" not at all */
    t[1] = dcp_bytes("a", small_in + 963, 37);
    load.tensor_count = 2;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    CHECK(memcmp(small_in + 963, small_out, 37) == 0 && is_all(small_in, 963, 0));
    CHECK(is_filled(in, (size_t)size, 3));
    free(out);
    free(in);
}
static void large_body(void) {
    const int64_t size = 22 * MIB + 12345;
    large_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, 0, 0, size);
    large_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, 0, 1 << 20, size);
    large_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, 256 * 1024, 1 << 20, size);
    verify_at("large");
    large_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, 64 << 20, 2 << 20, size);
    verify_at("large");
    CHECK_OK(dcp_storage_delete(files, "large.metadata.json", &err));
    large_case(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, 0, 1 << 20, size);
    large_case(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT, 0, 0, size);
    verify_at("large");
}
TEST(tensors_larger_than_every_buffer) { on_local_and_memory(large_body); }

static void block_sizes_body(void) {
    static const int64_t sizes[] = { 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 512 * 1024, 1024 * 1024 + 777,
                                     4 * 1024 * 1024 + 1 };
    size_t block, i;
    for (block = 256 * 1024; block <= 4 << 20; block *= 2)
        for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            large_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, block, 0, sizes[i]);
}
TEST(block_sizes) {
    use_memory();
    block_sizes_body();
    done();
}

/* The digests in the document, computed here again from DESIGN 2.1. */
static void digest_block(const uint8_t *data, int64_t size, uint8_t digest[32]) {
    uint8_t leaves[64][32];
    size_t count = 0;
    int64_t from;
    if (size <= 256 * KIB) { dcp_sha256(data, (size_t)size, digest); return; }
    for (from = 0; from < size; from += 256 * KIB)
        dcp_sha256(data + from, (size_t)dcpi_min(size - from, 256 * KIB), leaves[count++]);
    dcp_sha256(leaves, count * 32, digest);
}
TEST(digests_are_those_of_the_format) {
    const int64_t size = 5 * MIB + 3;
    uint8_t *data = filled((size_t)size, 9), digest[32], all[96][32];
    char text[80];
    dcp_tensor t[2];
    dcp_save_desc desc;
    const dcp_tensor_metadata *m;
    const dcp_metadata *document;
    dcp_checkpoint *c;
    size_t i;
    use_memory();
    t[0] = dcp_bytes("big", data, (size_t)size);
    t[1] = dcp_bytes("small", data, 100);
    desc = saving("x", t, 2);
    desc.block_size = 1 << 20;
    save(&desc);
    c = open_at("x");
    document = dcp_metadata_of(c);
    m = &document->shards[0].tensors[0];
    CHECK_INT(m->block_count, 6);
    CHECK_INT(m->block_size, MIB);
    for (i = 0; i < 6; i++) {
        digest_block(data + (int64_t)i * MIB, dcpi_min(MIB, size - (int64_t)i * MIB), all[i]);
        CHECK(memcmp(m->block_checksums + 32 * i, all[i], 32) == 0);
    }
    dcp_sha256(data, 100, all[6]);
    CHECK(memcmp(document->shards[0].tensors[1].block_checksums, all[6], 32) == 0);
    dcp_sha256(all, 7 * 32, digest);
    memcpy(text, "sha256-tree:", 12);
    dcpi_hex_encode(digest, 32, text + 12);
    text[76] = '\0';
    CHECK_STR(document->shards[0].checksum, text);
    dcp_close(c);
    done();
    free(data);
}
TEST(flat_checksum_is_what_sha256sum_prints) {
    uint8_t *data = filled(700000, 4), *file, digest[32];
    char text[65];
    size_t size;
    dcp_tensor t[2];
    dcp_save_desc desc;
    dcp_checkpoint *c;
    use_memory();
    t[0] = dcp_bytes("a", data, 699999);
    t[1] = dcp_bytes("b", data, 33);
    desc = saving("x", t, 2);
    desc.checksum = DCP_CHECKSUM_FLAT;
    save(&desc);
    file = get("x_shard_0.bin", &size);
    dcp_sha256(file, size, digest);
    dcpi_hex_encode(digest, 32, text);
    text[64] = '\0';
    c = open_at("x");
    CHECK_STR(dcp_metadata_of(c)->shards[0].checksum, text);
    CHECK_INT(dcp_metadata_of(c)->shards[0].tensors[0].block_count, 0);
    dcp_close(c);
    dcp_free(file);
    done();
    free(data);
}

#define TINY 50000                      /* a fifth or a tenth of it where that takes long */
static void tiny_case(dcp_layout layout, int32_t *data, dcp_tensor *t, char (*labels)[16]) {
    const size_t count = (size_t)test_times(test_is_sanitized() ? TINY / 5 : TINY);
    size_t i;
    dcp_save_desc desc = saving("tiny", t, count);
    for (i = 0; i < count; i++) {
        data[i] = (int32_t)i * 7;
        (void)snprintf(labels[i], sizeof labels[i], "t.%u", (unsigned)((i * 7919) % count));         /* in no order */
        t[i] = dcp_scalar(labels[i], DCP_INT32, &data[i]);
    }
    desc.layout = layout;
    save(&desc);
    memset(data, 0, count * sizeof *data);
    load_from("tiny", t, count);
    for (i = 0; i < count; i++) CHECK_INT(data[i], (int32_t)i * 7);
    verify_at("tiny");
    CHECK_OK(dcp_storage_delete(files, layout ? "tiny.checkpoint" : "tiny.metadata.json", &err));
}
static void tiny_body(void) {
    int32_t *data = (int32_t *)(void *)allocated(TINY * sizeof *data);
    dcp_tensor *t = (dcp_tensor *)(void *)allocated(TINY * sizeof *t);
    char (*labels)[16] = (char (*)[16])(void *)allocated(TINY * 16);
    tiny_case(DCP_LAYOUT_SHARDED, data, t, labels);
    tiny_case(DCP_LAYOUT_SINGLE, data, t, labels);
    free(data);
    free(t);
    free(labels);
}
TEST(fifty_thousand_tiny_tensors) { on_local_and_memory(tiny_body); }

/* ==== where tensors stand in their file =========================================================================== */
#define ALIGNED 6
static const int64_t aligned_sizes[ALIGNED] = { 1, 100, 0, 4096, 300001, 5 };

/* Each tensor at a multiple of the alignment, the next one that there is; zeros between; the file ends with its last
 * tensor. */
static void check_places(const dcp_metadata *m, const uint8_t *file, size_t size, int64_t alignment) {
    const dcp_shard_metadata *shard = &m->shards[0];
    int64_t end = shard->data_offset;
    size_t i;
    for (i = 0; i < shard->tensor_count; i++) {
        const dcp_tensor_metadata *t = &shard->tensors[i];
        CHECK_INT(t->offset % alignment, 0);
        CHECK(t->offset >= end && t->offset - end < alignment);
        CHECK(is_all(file + end, t->size > 0 ? (size_t)(t->offset - end) : 0, 0));
        CHECK(t->size == 0 || is_filled(file + t->offset, (size_t)t->size, i));
        if (t->size > 0) end = t->offset + t->size;
    }
    CHECK_INT(size, end);
    CHECK_INT(shard->data_offset + shard->file_size, end);
}
static void alignment_case(size_t alignment, dcp_layout layout, const dcp_tensor *t) {
    const char *commit = layout ? "x.checkpoint" : "x.metadata.json";
    dcp_save_desc desc = saving("x", t, ALIGNED);
    int64_t region;
    dcp_checkpoint *c;
    uint8_t *file;
    size_t size;
    desc.alignment = alignment;
    desc.layout = layout;
    desc.block_size = 256 * 1024;
    save(&desc);
    verify_at("x");
    c = open_at("x");
    region = dcp_metadata_of(c)->shards[0].data_offset;
    CHECK(layout ? region > 0 && region % dcpi_max((int64_t)alignment, 4096) == 0 : region == 0);
    file = get(layout ? commit : "x_shard_0.bin", &size);
    check_places(dcp_metadata_of(c), file, size, alignment ? (int64_t)alignment : 64);
    dcp_free(file);
    dcp_close(c);
    drop(commit);
    if (!layout) drop("x_shard_0.bin");
}
TEST(alignment_and_gaps) {
    static const char *const labels[ALIGNED] = { "a", "b", "c", "d", "e", "f" };
    dcp_tensor t[ALIGNED];
    size_t alignment;
    int i;
    for (i = 0; i < ALIGNED; i++)
        t[i] = dcp_bytes(labels[i], filled((size_t)aligned_sizes[i], (uint64_t)i), (size_t)aligned_sizes[i]);
    use_memory();
    alignment_case(0, DCP_LAYOUT_SHARDED, t);
    alignment_case(0, DCP_LAYOUT_SINGLE, t);
    for (alignment = 64; alignment <= 2 << 20; alignment *= 2) {
        alignment_case(alignment, DCP_LAYOUT_SHARDED, t);
        alignment_case(alignment, DCP_LAYOUT_SINGLE, t);
    }
    done();
    use_local();
    alignment_case(4096, DCP_LAYOUT_SHARDED, t);
    alignment_case(2 << 20, DCP_LAYOUT_SHARDED, t);
    alignment_case(2 << 20, DCP_LAYOUT_SINGLE, t);
    done();
    for (i = 0; i < ALIGNED; i++) free(t[i].data);
}
/* A gap is no tensor's: a load does not look at it, verify and DCP_VERIFY_ALL do. */
TEST(a_byte_in_a_gap_is_found_by_verify) {
    uint8_t bytes[200] = {0};
    dcp_tensor t[2];
    dcp_save_desc desc;
    dcp_load_desc load;
    dcp_checkpoint *c;
    use_local();
    t[0] = dcp_bytes("a", bytes, 100);
    t[1] = dcp_bytes("b", bytes + 100, 100);
    desc = saving("x", t, 2);
    desc.alignment = 4096;
    save(&desc);
    flip("x_shard_0.bin", 2000);
    load_from("x", t, 2);
    c = open_at("x");
    CHECK_FAILS(dcp_verify(c, &err), DCP_E_CHECKSUM, "not zero");
    dcp_close(c);
    load = loading("x", t, 2);
    load.verify = DCP_VERIFY_ALL;
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_CHECKSUM, "x_shard_0.bin");
    done();
}

static int impossible(int value) { return value; }       /* C++ compilers warn of constants that no enumeration has */
static dcp_status count_object(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(int *)user;
    return DCP_OK;
}
/* The report's path is whole, and loads; one that would not fit is refused before anything is made. */
TEST(long_paths_are_whole_in_the_report_or_refused) {
    static const char *const suffixes[] = { ".metadata.json", ".checkpoint", ".manifest.json" };
    size_t layout, extra;
    for (layout = 0; layout < DCPI_COUNT(suffixes); layout++)
        for (extra = 0; extra < 2; extra++) {
            static dcp_save_report report;
            char path[DCP_LIMIT_PATH + 64];
            size_t length = DCP_LIMIT_PATH - strlen(suffixes[layout]) + extra, i;
            float data[4] = { 1, 2, 3, 4 }, back[4] = { 0, 0, 0, 0 };
            int64_t shape[] = { 4 };
            dcp_tensor t = dcp_array("data", DCP_FP32, data, 1, shape);
            dcp_storage *storage;
            dcp_save_desc save = DCP_ZERO;
            dcp_load_desc load = DCP_ZERO;
            CHECK_OK(dcp_storage_memory(&storage, &err));
            for (i = 0; i < length; i++) path[i] = i % 100 == 99 ? '/' : 'p';
            path[length - 1] = 'e';
            path[length] = '\0';
            save.path = path;
            save.tensors = &t;
            save.tensor_count = 1;
            save.layout = (dcp_layout)layout;
            save.report = &report;
            save.io.storage = load.io.storage = storage;
            CHECK_INT(dcp_save(&save, &err), extra ? DCP_E_LIMIT : DCP_OK);
            if (extra) {
                int files = 0;
                CHECK(strstr(err.message, "4097") != NULL && strstr(err.message, "4096") != NULL);
                CHECK_OK(storage->list(storage->context, "", count_object, &files, &err));
                CHECK_INT(files, 0);
            } else {
                CHECK_INT(strlen(report.path), DCP_LIMIT_PATH);
                t.data = back;
                load.path = report.path;
                load.tensors = &t;
                load.tensor_count = 1;
                CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
                CHECK(memcmp(data, back, sizeof data) == 0);
                memset(path, 'p', sizeof path);
                path[DCP_LIMIT_PATH + 1] = '\0';
                load.path = path;
                CHECK_INT(dcp_load(&load, &err), DCP_E_LIMIT);
                CHECK(strstr(err.message, "4097") != NULL);
            }
            dcp_storage_close(storage);
        }
}
TEST(options_out_of_range_are_refused) {
    static const size_t alignments[6] = { 1, 32, 63, 65, 96, 4 << 20 };
    static const size_t blocks[6] = { 1, 1000, 128 << 10, (256 << 10) + 1, 3 << 20, (size_t)2 << 30 };
    dcp_save_desc desc;
    dcp_sharding sharding = DCP_ZERO;
    float x = 1;
    dcp_tensor t = dcp_scalar("x", DCP_FP32, &x);
    size_t i;
    use_memory();
    for (i = 0; i < 6; i++) {
        desc = saving("x", &t, 1);
        desc.alignment = alignments[i];
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "alignment");
        desc = saving("x", &t, 1);
        desc.block_size = blocks[i];
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "block_size");
    }
    desc = saving("x", &t, 1);
    desc.layout = (dcp_layout)impossible(7);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "layout");
    desc = saving("x", &t, 1);
    desc.checksum = (dcp_checksum)impossible(2);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "checksum");
    desc = saving("x", NULL, 1);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "tensors");
    desc = saving("x", &t, 1);
    desc.sharding = &sharding;
    sharding.shard_count = 2;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "shard_count");
    desc = saving("x", &t, 1);
    desc.path = NULL;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "path");
    CHECK_FAILS(dcp_save(NULL, &err), DCP_E_INVALID, "");
    CHECK_INT(count_files(""), 0);
    done();
}
TEST(io_options_out_of_range_are_refused) {
    dcp_save_desc desc;
    float x = 1;
    dcp_tensor t = dcp_scalar("x", DCP_FP32, &x);
    use_memory();
    desc = saving("x", &t, 1);
    desc.io.timeout_ms = -1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "timeout_ms");
    desc = saving("x", &t, 1);
    desc.io.deadline_ms = -1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "deadline_ms");
    desc = saving("x", &t, 1);
    desc.io.threads = -1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "threads");
    desc = saving("x", &t, 1);
    desc.io.retry.attempts = -1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "retry");
    desc = saving("x", &t, 1);
    desc.io.memory_budget = (1 << 20) - 1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "memory_budget");
    CHECK_INT(count_files(""), 0);
    done();
}
TEST(tensors_that_cannot_be_are_refused) {
    float x[4] = { 1 };
    int64_t shape[2] = { 2, 2 };
    dcp_tensor good = dcp_array("x", DCP_FP32, x, 2, shape), t = good;
    dcp_save_desc desc;
    use_memory();
    desc = saving("x", &t, 1);
    t = good; t.dtype = (dcp_dtype)impossible(0);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "dtype");
    t = good; t.dtype = DCP_OPAQUE;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "dtype");
    t = good; t.ndim = 9;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "ndim");
    t = good; t.ndim = -1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "ndim");
    t = good; t.shape[1] = -2;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "negative");
    t = good; t.shape[0] = t.shape[1] = (int64_t)1 << 40;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "exceed");
    t = good; t.data = NULL;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "data is NULL");
    t = good; t.placement = (dcp_placement)impossible(9);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "placement");
    t = good; t.placement = DCP_PLACE_SHARDED;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "global_shape");
    t = good; t.global_shape[0] = 1; t.global_shape[1] = 2;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "beyond global_shape");
    t = good; t.global_offset[0] = 1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "global_shape is not");
    t = good; dcp_piece(&t, shape, x[0] > 0 ? t.global_offset : NULL); t.placement = DCP_PLACE_PRIVATE;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "private");
    CHECK_INT(count_files(""), 0);
    done();
}
/* What is left out of `ndim` is found by the rest of the arrays. */
TEST(a_forgotten_ndim_is_found) {
    float x[6] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t, good = dcp_array("x", DCP_FP32, x, 2, shape);
    dcp_save_desc desc;
    int array;
    use_memory();
    save_as("x", &good, 1);
    for (array = 0; array < 4; array++) {
        int64_t *entry;
        t = good;
        entry = array == 0 ? t.shape : array == 1 ? t.global_shape : array == 2 ? t.global_offset : t.stride;
        entry[array == 0 ? 7 : 2] = 1;
        desc = saving("y", &t, 1);
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "is ndim right?");
        CHECK_FAILS(try_load("x", &t, 1), DCP_E_INVALID, "is ndim right?");
    }
    t = good;
    t.ndim = 0;
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INVALID, "ndim is 0");
    done();
}

/* ==== several pieces of one tensor in one rank's list ============================================================= */
#define ROWS 13
#define COLUMNS 11
static float element(int64_t row, int64_t column) { return (float)(row * 1000 + column); }   /* each says where it is */
static void fill_matrix(float *data, const int64_t box[4]) {
    int64_t r, c;
    for (r = 0; r < box[2]; r++) for (c = 0; c < box[3]; c++) *data++ = element(box[0] + r, box[1] + c);
}
static int is_matrix(const float *data, const int64_t box[4]) {
    int64_t r, c;
    for (r = 0; r < box[2]; r++) for (c = 0; c < box[3]; c++) if (*data++ != element(box[0] + r, box[1] + c)) return 0;
    return 1;
}
static const int64_t whole_matrix[4] = { 0, 0, ROWS, COLUMNS };
static void check_whole_matrix(const char *name) {
    float data[ROWS * COLUMNS] = {0};
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t = dcp_array("m", DCP_FP32, data, 2, shape);
    load_from(name, &t, 1);
    CHECK(is_matrix(data, whole_matrix));
}
static void matrix_pieces(dcp_tensor *t, float (*data)[ROWS * COLUMNS], const int64_t (*boxes)[4], size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        fill_matrix(data[i], boxes[i]);
        t[i] = block("m", data[i], boxes[i], ROWS, COLUMNS);
    }
}
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
    CHECK_INT(dcp_tensor_count(c), 1);
    CHECK_INT(dcp_tensor_at(c, 0)->piece_count, count);
    CHECK_INT(dcp_tensor_at(c, 0)->placement, DCP_PLACE_SHARDED);
    dcp_close(c);
}
static const int64_t row_boxes[3][4] = { { 9, 0, 4, 11 }, { 0, 0, 2, 11 }, { 2, 0, 7, 11 } };
static const int64_t column_boxes[3][4] = { { 0, 0, 13, 1 }, { 0, 1, 13, 9 }, { 0, 10, 13, 1 } };
static const int64_t grid_boxes[6][4] = {
    { 0, 0, 5, 3 }, { 0, 3, 5, 8 }, { 5, 0, 7, 3 }, { 5, 3, 7, 8 }, { 12, 3, 1, 8 }, { 12, 0, 1, 3 }
};
static const int64_t pinwheel_boxes[5][4] = { { 0, 0, 4, 7 }, { 0, 7, 9, 4 }, { 9, 4, 4, 7 }, { 4, 0, 9, 4 },
                                              { 4, 4, 5, 3 } };
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
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "tensor \"m\": nobody stored [6:7, 0:11]");
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

/* ==== checkpoints of several ranks, written here ================================================================== */
#define MAX_RANKS 4
typedef struct world_rank {
    uint8_t *bytes; int64_t size, capacity;
    dcp_tensor_metadata *tensors; size_t count;
    char checksum[80];
} world_rank;
typedef struct world { int count; world_rank ranks[MAX_RANKS]; int64_t block_size, step; } world;

static void world_begin(world *w, int count) {
    int r;
    memset(w, 0, sizeof *w);
    w->count = count;
    for (r = 0; r < count; r++) w->ranks[r].bytes = allocated(0);
    w->block_size = 256 * KIB;
    w->step = -1;
}
static void world_end(world *w) {
    int r;
    size_t i;
    for (r = 0; r < w->count; r++) {
        for (i = 0; i < w->ranks[r].count; i++) {
            free((void *)w->ranks[r].tensors[i].name);
            free((void *)w->ranks[r].tensors[i].block_checksums);
        }
        free(w->ranks[r].tensors);
        free(w->ranks[r].bytes);
    }
}
static uint8_t *world_room(world_rank *r, int64_t size) {   /* for a tensor at the next multiple of 64; gaps are zero */
    int64_t offset = (r->size + 63) / 64 * 64;
    if (offset + size > r->capacity) {
        r->capacity = 2 * (offset + size) + 1024;
        r->bytes = (uint8_t *)realloc(r->bytes, (size_t)r->capacity);
        CHECK(r->bytes != NULL);
    }
    memset(r->bytes + r->size, 0, (size_t)(offset - r->size));
    r->size = offset + size;
    return r->bytes + offset;
}
static uint8_t *block_digests(const uint8_t *data, int64_t size, int64_t block_size, size_t *count) {
    uint8_t *digests = allocated((size_t)(size / block_size + 1) * 32);
    int64_t from;
    *count = 0;
    for (from = 0; from < size; from += block_size)
        digest_block(data + from, dcpi_min(block_size, size - from), digests + 32 * (*count)++);
    return digests;
}
/* One more piece: t->data is row-major. A tensor without bytes stands at the next aligned place, but does not move the
 * file's end. */
static void world_add(world *w, int rank, const dcp_tensor *t, const char *placement) {
    world_rank *r = &w->ranks[rank];
    int64_t size = dcpi_tensor_bytes(t), end = r->size;
    uint8_t *to = world_room(r, size);
    dcp_tensor_metadata *m;
    char *name = (char *)allocated(strlen(t->name) + 1);
    if (size) memcpy(to, t->data, (size_t)size);
    dcpi_swap_bytes(to, size, dcpi_dtype_width(t->dtype));
    r->tensors = (dcp_tensor_metadata *)realloc(r->tensors, (r->count + 1) * sizeof *m);
    CHECK(r->tensors != NULL);
    m = &r->tensors[r->count++];
    memset(m, 0, sizeof *m);
    memcpy(name, t->name, strlen(t->name) + 1);
    m->name = name;
    m->data_type = dcp_dtype_name(t->dtype);
    m->ndim = t->ndim;
    memcpy(m->shape, t->shape, sizeof m->shape);
    memcpy(m->global_shape, dcpi_global_shape(t), sizeof m->global_shape);
    memcpy(m->global_offset, t->global_offset, sizeof m->global_offset);
    m->placement = placement;
    m->offset = to - r->bytes;
    m->size = size;
    m->block_size = w->block_size;
    m->block_checksums = block_digests(to, size, w->block_size, &m->block_count);
    if (size == 0) r->size = end;
}
static void world_checksum(world_rank *r) {
    uint8_t digest[32];
    dcpi_sha sha;
    size_t i;
    dcpi_sha_init(&sha);
    for (i = 0; i < r->count; i++) dcpi_sha_update(&sha, r->tensors[i].block_checksums, 32 * r->tensors[i].block_count);
    dcpi_sha_final(&sha, digest);
    memcpy(r->checksum, "sha256-tree:", 12);
    dcpi_hex_encode(digest, 32, r->checksum + 12);
    r->checksum[76] = '\0';
}
/* The document; with `single` all shards are regions of that file, the first at `region`. */
static dcp_metadata *world_document(world *w, const char *name, const char *single, int64_t region) {
    dcp_sharding sharding = DCP_ZERO;
    dcp_training training = DCP_ZERO;
    dcp_metadata *m;
    int r;
    size_t i;
    CHECK_OK_MESSAGE(dcp_metadata_new(&m, &err), err.message);
    m->world_size = w->count;
    m->save_id = "0123456789abcdef";
    m->sequence = 1;
    sharding.strategy = "fsdp";
    sharding.precision = "fp32";
    sharding.shard_count = w->count;
    CHECK_OK(dcp_metadata_set_sharding(m, &sharding, &err));
    training.step = w->step;
    if (w->step >= 0) CHECK_OK(dcp_metadata_set_training(m, &training, &err));
    for (r = 0; r < w->count; r++) {
        dcp_shard_metadata shard = DCP_ZERO;
        char file[300];
        CHECK_OK(dcp_shard_name(name, r, NULL, file, sizeof file, &err));
        world_checksum(&w->ranks[r]);
        shard.rank = r;
        shard.file_path = single ? single : file;
        shard.file_size = w->ranks[r].size;
        shard.checksum = w->ranks[r].checksum;
        shard.data_offset = region;
        CHECK_OK_MESSAGE(dcp_metadata_add_shard(m, &shard, &err), err.message);
        for (i = 0; i < w->ranks[r].count; i++) {
            dcp_tensor_metadata t = w->ranks[r].tensors[i];
            t.offset += region;
            CHECK_OK_MESSAGE(dcp_metadata_add_tensor(m, (size_t)r, &t, &err), err.message);
        }
        if (region) region = (region + shard.file_size + 4095) / 4096 * 4096;
    }
    return m;
}
static void world_write(world *w, const char *name) {                   /* P.metadata.json and its shards */
    dcp_metadata *m = world_document(w, name, NULL, 0);
    char file[300];
    int r;
    for (r = 0; r < w->count; r++) {
        CHECK_OK(dcp_shard_name(name, r, NULL, file, sizeof file, &err));
        put(file, w->ranks[r].bytes, (size_t)w->ranks[r].size);
    }
    (void)snprintf(file, sizeof file, "%s.metadata.json", name);
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, file, m, NULL, &err), err.message);
    dcp_metadata_free(m);
}
static dcp_status to_buffer(void *user, const void *data, size_t size, dcp_error *error) {
    (void)error;
    dcpi_buffer_add((dcpi_buffer *)user, data, size);
    return DCP_OK;
}
static dcp_status to_nowhere(void *user, const void *data, size_t size, dcp_error *error) {
    (void)user; (void)data; (void)size; (void)error;
    return DCP_OK;
}
static void world_write_single(world *w, const char *name) {            /* P.checkpoint with a region for each rank */
    const int64_t region = MIB;
    dcpi_buffer file = { NULL, 0, 0, 0 };
    dcpi_meta_source source;
    dcp_metadata *m;
    char commit[300];
    int64_t json_size;
    int r;
    (void)snprintf(commit, sizeof commit, "%s.checkpoint", name);
    m = world_document(w, name, commit, region);
    dcpi_meta_source_of(m, &source);
    CHECK_OK_MESSAGE(dcpi_meta_emit(&source, "checkpoint/json", NULL, to_nowhere, NULL, &json_size, &err), err.message);
    CHECK_OK_MESSAGE(dcpi_file_emit(&source, json_size, region, NULL, to_buffer, &file, &err), err.message);
    CHECK_INT(file.size, region);
    for (r = 0; r < w->count; r++) {
        static const char zeros[4096] = {0};
        dcpi_buffer_add(&file, zeros, (size_t)(m->shards[r].data_offset - (int64_t)file.size));
        dcpi_buffer_add(&file, w->ranks[r].bytes, (size_t)w->ranks[r].size);
    }
    CHECK(!file.failed);
    put(commit, file.data, file.size);
    dcpi_buffer_free(&file);
    dcp_metadata_free(m);
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
        CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_INCOMPLETE, "nobody stored");
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
    CHECK_INT(dcp_tensor_count(c), 1);
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

/* ==== a storage that watches ====================================================================================== */
typedef struct eye_object { void *inner; int is_data; char path[300]; } eye_object;
static struct {
    dcp_storage *inner;
    dcpi_mutex lock;
    int reads, writes, opens, maps, syncs;
    int64_t bytes_read, bytes_written;                  /* of *.bin and *.checkpoint */
    int64_t longest_read, longest_write;
    int failing_writes, failing_reads;                  /* so many fail, with EIO; a negative number: all */
    int sys;                                            /* the number that they fail with */
    dcp_cancel *cancel; int cancel_after;               /* requested when so many reads and writes have been done */
    int delay_ms;                                       /* of each read and write */
    void (*on_open)(const char *path), (*on_commit)(const char *path);
    const char *taken_name;                       /* somebody makes this object when it is about to be committed here */
} eye;

static int is_data_name(const char *path) {
    return dcpi_ends_with(path, ".bin") || dcpi_ends_with(path, ".checkpoint");
}
static dcp_status eye_wrap(void *inner, const char *path, void **out) {
    eye_object *object = (eye_object *)malloc(sizeof *object);
    if (!object) abort();
    object->inner = inner;
    object->is_data = is_data_name(path);
    (void)snprintf(object->path, sizeof object->path, "%s", path);
    *out = object;
    return DCP_OK;
}
static void *eye_unwrap(void *object_) {
    eye_object *object = (eye_object *)object_;
    void *inner = object->inner;
    free(object);
    return inner;
}
/* What happens to each request, before it is done: 0, or the status it fails with. */
static dcp_status eye_look(int *calls, int *failing, int64_t size, int is_data, int64_t *bytes, int64_t *longest,
                           dcp_error *error) {
    dcp_status status = DCP_OK;
    dcpi_mutex_lock(&eye.lock);
    ++*calls;
    if (is_data) *bytes += size;
    if (size > *longest) *longest = size;
    if (eye.cancel && eye.cancel_after-- <= 0) dcp_cancel_request(eye.cancel);
    if (is_data && *failing != 0) { --*failing; status = DCP_E_IO; }
    dcpi_mutex_unlock(&eye.lock);
    if (eye.delay_ms) dcpi_os_sleep_ms(eye.delay_ms);
    return status ? dcpi_fail_sys(error, status, eye.sys, "the test says no") : DCP_OK;
}
static dcp_status eye_begin(void *c, const char *path, const char *temporary, int64_t hint, void **object,
                            dcp_error *error) {
    void *inner = NULL;
    dcp_status status = eye.inner->begin(eye.inner->context, path, temporary, hint, &inner, error);
    (void)c;
    return status ? status : eye_wrap(inner, path, object);
}
static dcp_status eye_write(void *c, void *object, int64_t offset, const void *data, size_t size, dcp_error *error) {
    eye_object *o = (eye_object *)object;
    dcp_status status = eye_look(&eye.writes, &eye.failing_writes, (int64_t)size, o->is_data, &eye.bytes_written,
                                 &eye.longest_write, error);
    (void)c;
    return status ? status : eye.inner->write(eye.inner->context, o->inner, offset, data, size, error);
}
static dcp_status eye_commit(void *c, void *object, int replace, dcp_error *error) {
    const char *path = ((const eye_object *)object)->path;
    (void)c;
    if (eye.on_commit) eye.on_commit(path);
    if (eye.taken_name && strcmp(path, eye.taken_name) == 0) {
        eye.taken_name = NULL;
        (void)dcp_storage_write_all(eye.inner, path, "taken", 5, NULL);
    }
    return eye.inner->commit(eye.inner->context, eye_unwrap(object), replace, error);
}
static void eye_abort(void *c, void *object) { (void)c; eye.inner->abort(eye.inner->context, eye_unwrap(object)); }
static dcp_status eye_open(void *c, const char *path, void **object, dcp_object_info *info, dcp_error *error) {
    void *inner = NULL;
    dcp_status status;
    (void)c;
    eye.opens++;
    if (eye.on_open) eye.on_open(path);
    status = eye.inner->open(eye.inner->context, path, &inner, info, error);
    return status ? status : eye_wrap(inner, path, object);
}
static dcp_status eye_read(void *c, void *object, int64_t offset, void *data, size_t size, dcp_error *error) {
    eye_object *o = (eye_object *)object;
    dcp_status status = eye_look(&eye.reads, &eye.failing_reads, (int64_t)size, o->is_data, &eye.bytes_read,
                                 &eye.longest_read, error);
    (void)c;
    return status ? status : eye.inner->read(eye.inner->context, o->inner, offset, data, size, error);
}
static dcp_status eye_map(void *c, void *object, const void **data, dcp_error *error) {
    (void)c;
    eye.maps++;
    return eye.inner->map(eye.inner->context, ((eye_object *)object)->inner, data, error);
}
static void eye_close(void *c, void *object) { (void)c; eye.inner->close(eye.inner->context, eye_unwrap(object)); }
static dcp_status eye_stat(void *c, const char *path, dcp_object_info *info, dcp_error *error) {
    (void)c;
    return eye.inner->stat(eye.inner->context, path, info, error);
}
static dcp_status eye_list(void *c, const char *directory, dcpi_storage_each each, void *user, dcp_error *error) {
    (void)c;
    return eye.inner->list(eye.inner->context, directory, each, user, error);
}
static dcp_status eye_remove(void *c, const char *path, dcp_error *error) {
    (void)c;
    return eye.inner->remove(eye.inner->context, path, error);
}
static dcp_status eye_sync(void *c, const char *directory, dcp_error *error) {
    (void)c;
    eye.syncs++;
    return eye.inner->sync_directory ? eye.inner->sync_directory(eye.inner->context, directory, error) : DCP_OK;
}
static void eye_destroy(void *c) {
    (void)c;
    dcp_storage_close(eye.inner);
    dcpi_mutex_destroy(&eye.lock);
}
/* From now on what the test uses is watched; done() ends that too. */
static void use_watch(void) {
    dcp_storage *s = (dcp_storage *)dcpi_alloc_array(1, sizeof *s, NULL);
    CHECK(s != NULL);
    memset(&eye, 0, sizeof eye);
    eye.sys = EIO;
    CHECK_INT(dcpi_mutex_init(&eye.lock), 0);
    eye.inner = files;
    s->flags = files->flags;
    s->begin = eye_begin; s->write = eye_write; s->commit = eye_commit; s->abort = eye_abort;
    s->open = eye_open; s->read = eye_read; s->map = eye_map; s->close = eye_close;
    s->stat = eye_stat; s->list = eye_list; s->remove = eye_remove; s->sync_directory = eye_sync;
    s->destroy = eye_destroy;
    store = files = s;
}
static void forget_counts(void) {
    eye.reads = eye.writes = eye.opens = eye.maps = eye.syncs = 0;
    eye.bytes_read = eye.bytes_written = eye.longest_read = eye.longest_write = 0;
}

/* ==== slices: only the blocks touched are read and checked ======================================================== */
#define BIG_ROWS 40
#define BIG_COLUMNS 65536               /* a row is 256 KiB, four rows a block */
static float *big_matrix(void) {
    float *data = (float *)(void *)allocated(BIG_ROWS * BIG_COLUMNS * sizeof *data);
    int64_t r, c;
    for (r = 0; r < BIG_ROWS; r++)
        for (c = 0; c < BIG_COLUMNS; c++) data[r * BIG_COLUMNS + c] = (float)(r * 100 + c % 97);
    return data;
}
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
static dcp_status verify_now(const char *name) {
    dcp_open_desc desc = opening(name);
    dcp_checkpoint *c;
    dcp_status status = dcp_open(&desc, &c, &err);
    if (!status) status = dcp_verify(c, &err);
    dcp_close(c);
    return status;
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

/* ==== what is wanted and what is there ============================================================================ */
static void save_two(const char *name) {                /* "a": 6 of fp32, [2, 3]; "b": 4 of int64 */
    float a[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t b[4] = { 10, 20, 30, 40 }, shape[2] = { 2, 3 };
    dcp_tensor t[2];
    t[0] = dcp_array("a", DCP_FP32, a, 2, shape);
    t[1] = vector("b", DCP_INT64, b, 4);
    save_as(name, t, 2);
}
static void optional_body(void) {
    float a[6] = {0}, absent[2] = { 7, 7 };
    int64_t shape[2] = { 2, 3 }, other[2] = { 3, 2 };
    dcp_tensor t[2];
    save_two("x");
    t[0] = vector("none", DCP_FP32, absent, 2);
    t[1] = dcp_array("a", DCP_FP32, a, 2, shape);
    CHECK_FAILS(try_load("x", t, 2), DCP_E_MISMATCH, "\"none\"");
    t[0].optional = t[1].optional = 1;
    load_from("x", t, 2);
    CHECK_INT(t[0].status, DCP_E_NOT_FOUND);
    CHECK_INT(t[1].status, DCP_OK);
    CHECK(absent[0] == 7 && absent[1] == 7 && a[5] == 6);
    t[1] = dcp_array("a", DCP_FP32, a, 2, other);       /* there, but not as wanted: optional or not */
    t[1].optional = 1;
    CHECK_FAILS(try_load("x", t, 2), DCP_E_MISMATCH, "[3, 2]");
}
TEST(optional_and_missing_tensors) { on_local_and_memory(optional_body); }

static void exact_body(void) {
    float a[6] = {0};
    int64_t b[4] = {0}, shape[2] = { 2, 3 };
    dcp_tensor t[2];
    dcp_load_desc desc;
    save_two("x");
    t[0] = vector("b", DCP_INT64, b, 4);
    t[1] = dcp_array("a", DCP_FP32, a, 2, shape);
    desc = loading("x", t, 2);
    desc.exact = 1;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    desc.tensor_count = 1;
    CHECK_FAILS(dcp_load(&desc, &err), DCP_E_MISMATCH, "\"a\", which is not wanted");
    desc.exact = 0;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
}
TEST(exact_finds_what_nobody_wants) { on_local_and_memory(exact_body); }

TEST(a_mismatch_says_what_is_stored_and_what_is_wanted) {
    float a[8] = {0};
    int64_t shape[3] = { 2, 4, 1 }, stored[2] = { 2, 3 }, global[2] = { 4, 3 }, offset[2] = { 0, 0 };
    dcp_tensor t;
    use_memory();
    save_two("x");
    t = dcp_array("a", DCP_BF16, a, 2, stored);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "\"a\" is stored as fp32, but wanted as bf16");
    t = dcp_array("a", DCP_FP32, a, 2, shape);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "\"a\" is stored with shape [2, 3], but wanted with [2, 4]");
    t = dcp_array("a", DCP_FP32, a, 3, shape);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "[2, 4, 1]");
    t = dcp_scalar("a", DCP_FP32, a);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "wanted with []");
    t = dcp_array("a", DCP_FP32, a, 2, stored);
    dcp_piece(&t, global, offset);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "[4, 3]");
    done();
}
static void not_found_body(void) {
    float a[1] = {0};
    dcp_tensor t = dcp_scalar("a", DCP_FP32, a);
    CHECK_FAILS(try_load("none", &t, 1), DCP_E_NOT_FOUND, "none");
    CHECK_FAILS(try_load("none.metadata.json", &t, 1), DCP_E_NOT_FOUND, "none.metadata.json");
    CHECK_FAILS(try_load("no directory/none", &t, 1), DCP_E_NOT_FOUND, "none");
    put_text("x_shard_0.bin", "data without a document is no checkpoint");
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_NOT_FOUND, "x.metadata.json");
    put_text("x.metadata.json", "");
    CHECK(try_load("x", &t, 1) != DCP_OK && err.status != DCP_E_NOT_FOUND);
    put_text("y.checkpoint", "PCLM");
    CHECK(try_load("y", &t, 1) != DCP_OK && err.status != DCP_E_NOT_FOUND);
    save_two("z");
    CHECK_FAILS(try_load("z", &t, 1), DCP_E_MISMATCH, "\"a\"");
    drop("z_shard_0.bin");
    t = vector("b", DCP_INT64, a, 4);
    CHECK_FAILS(try_load("z", &t, 1), DCP_E_INCOMPLETE, "z_shard_0.bin");
}
TEST(not_found_means_that_there_is_no_checkpoint) { on_local_and_memory(not_found_body); }

/* A file on the way: no checkpoint is there, and none can come to be, so it is no first start either. */
static void through_a_file(const char *directory) {
    char prefix[TEST_PATH + 40];
    float a[1] = {0};
    dcp_tensor t = dcp_scalar("a", DCP_FP32, a);
    dcp_latest_desc latest = DCP_ZERO;
    dcp_list_desc list = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_remove_desc removal = DCP_ZERO;
    dcp_sync_desc sync = DCP_ZERO;
    dcp_save_desc save_desc;
    dcp_status status;
    char *path;
    size_t count;
    (void)snprintf(prefix, sizeof prefix, "%s/x", directory);
    CHECK_FAILS(try_load(prefix, &t, 1), DCP_E_INVALID, directory);
    (void)snprintf(prefix, sizeof prefix, "%s/x.metadata.json", directory);
    CHECK_FAILS(try_load(prefix, &t, 1), DCP_E_INVALID, directory);
    removal.path = at(prefix);
    removal.io.storage = sync.source = sync.target = store;
    sync.directory = at("copy");
    CHECK_FAILS(dcp_remove(&removal, NULL, &err), DCP_E_INVALID, directory);
    (void)snprintf(prefix, sizeof prefix, "%s/x", directory);
    removal.path = sync.path = at(prefix);
    CHECK_FAILS(dcp_sync(&sync, &err), DCP_E_INVALID, directory);
    CHECK_FAILS(dcp_remove(&removal, NULL, &err), DCP_E_INVALID, directory);
    save_desc = saving(prefix, &t, 1);
    status = dcp_save(&save_desc, &err);
    CHECK(status != DCP_OK && status != DCP_E_NOT_FOUND);
    latest.directory = list.directory = prune.directory = sweep.directory = at(directory);
    latest.io.storage = list.io.storage = prune.io.storage = sweep.io.storage = store;
    CHECK_FAILS(dcp_latest(&latest, &path, &err), DCP_E_INVALID, directory);
    CHECK_FAILS(dcp_list(&list, &entries, &count, &err), DCP_E_INVALID, directory);
    CHECK_FAILS(dcp_prune(&prune, NULL, &err), DCP_E_INVALID, directory);
    status = dcp_sweep(&sweep, NULL, &err);
    CHECK(status != DCP_OK && status != DCP_E_NOT_FOUND);
}
TEST(a_path_through_a_file_is_no_first_start) {
    dcp_latest_desc latest = DCP_ZERO;
    char *path;
    use_local();
    put_text("file", "not a directory");
    through_a_file("file");
    through_a_file("file/below");
    store = files;                                      /* the same through a storage */
    dir = "";
    CHECK_FAILS(try_load("file/x", NULL, 0), DCP_E_INVALID, "file");
    through_a_file("file");
    store = NULL;
    done();
#ifndef _WIN32
    latest.directory = "/dev/full";
    CHECK_FAILS(dcp_latest(&latest, &path, &err), DCP_E_INVALID, "/dev/full");
#else
    (void)latest; (void)path;
#endif
}
TEST(errors_and_outputs_are_always_written) {
    dcp_checkpoint *c = (dcp_checkpoint *)(void *)&err;
    dcp_metadata *m = (dcp_metadata *)(void *)&err;
    const void *data = &err;
    size_t size = 9;
    dcp_tensor t;
    dcp_open_desc open;
    dcp_load_desc load;
    float a[6] = {0};
    use_memory();
    memset(&err, 0x7F, sizeof err);                     /* needs no initialisation */
    save_two("x");
    CHECK(err.status == DCP_OK && err.message[0] == '\0' && err.sys == 0);
    open = opening("none");
    CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_NOT_FOUND, "none");
    CHECK(c == NULL);
    CHECK_INT(dcp_open(&open, &c, NULL), DCP_E_NOT_FOUND);              /* NULL is fine everywhere */
    load = loading("none", NULL, 0);
    load.metadata = &m;
    CHECK_INT(dcp_load(&load, NULL), DCP_E_NOT_FOUND);
    CHECK(m == NULL);
    c = open_at("x");
    CHECK_FAILS(dcp_map(c, "none", &data, &size, &err), DCP_E_MISMATCH, "\"none\"");
    CHECK(data == NULL && size == 0);
    memset(&t, 1, sizeof t);
    CHECK_FAILS(dcp_read_new(c, "none", &t, &err), DCP_E_MISMATCH, "\"none\"");
    CHECK(t.data == NULL && t.name == NULL);
    t = vector("a", DCP_FP32, a, 6);
    CHECK_INT(dcp_read(c, &t, 1, NULL), DCP_E_MISMATCH);
    CHECK_INT(dcp_read(NULL, &t, 1, NULL), DCP_E_INVALID);
    CHECK_INT(dcp_verify(NULL, NULL), DCP_E_INVALID);
    CHECK_INT(dcp_read_rank(NULL, 0, &t, 1, NULL), DCP_E_INVALID);
    CHECK_FAILS(dcp_read_rank(c, 1, &t, 1, &err), DCP_E_INVALID, "rank");
    CHECK_FAILS(dcp_read_rank(c, -1, &t, 1, &err), DCP_E_INVALID, "rank");
    CHECK_FAILS(dcp_read(c, NULL, 1, &err), DCP_E_INVALID, "NULL");
    dcp_close(c);
    dcp_close(NULL);
    dcp_metadata_free(NULL);
    dcp_free(NULL);
    dcp_storage_close(NULL);
    dcp_device_close(NULL);
    dcp_removal_free(NULL);
    done();
}
TEST(what_only_manifests_have_cannot_be_selected_elsewhere) {
    static const char *const tiers[] = { "hot" };
    dcp_open_desc open;
    dcp_select select = DCP_ZERO;
    dcp_checkpoint *c;
    use_memory();
    put_text("x.manifest.json", "{}");
    open = opening("x");
    CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_FORMAT, "metadata_version");
    save_two("y");
    open = opening("y");
    open.select = &select;
    select.tiers = tiers;
    select.tier_count = 1;
    CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_UNSUPPORTED, "tiers");
    done();
}
/* The document that dcp_load hands over outlives the checkpoint. */
TEST(load_hands_over_the_document) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_metadata *m;
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_load_desc desc;
    use_local();
    save_two("x");
    desc = loading("x", &t, 1);
    desc.metadata = &m;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    CHECK_INT(m->world_size, 1);
    CHECK_STR(m->shards[0].tensors[1].name, "b");
    dcp_metadata_free(m);
    t.dtype = DCP_INT32;
    CHECK_FAILS(dcp_load(&desc, &err), DCP_E_MISMATCH, "int32");
    CHECK(m == NULL);
    done();
}

/* ==== memory and threads ========================================================================================== */
TEST(a_budget_of_less_than_a_mebibyte_is_refused) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_load_desc load;
    dcp_open_desc open;
    dcp_checkpoint *c;
    use_memory();
    save_two("x");
    load = loading("x", &t, 1);
    load.io.memory_budget = (1 << 20) - 1;
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_INVALID, "1 MiB");
    open = opening("x");
    open.io.memory_budget = 1;
    CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_INVALID, "1 MiB");
    done();
}
/* What says "no bound" must not become a negative number on the way. */
TEST(a_budget_of_any_size_is_fine) {
    static const size_t budgets[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4 * 3 };
    const int64_t shape[1] = { 3 * 1024 * 1024 };
    uint8_t *bytes = (uint8_t *)malloc((size_t)shape[0]), *back = (uint8_t *)malloc((size_t)shape[0]);
    size_t i;
    CHECK(bytes && back);
    fill(bytes, (size_t)shape[0], 21);
    for (i = 0; i < DCPI_COUNT(budgets); i++) {
        dcp_layout layout;
        for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout = (dcp_layout)(layout + 1)) {
            dcp_tensor t = dcp_array("a", DCP_UINT8, bytes, 1, shape), u = dcp_array("a", DCP_UINT8, back, 1, shape), v;
            dcp_save_desc s;
            dcp_load_desc l;
            dcp_open_desc o;
            dcp_sync_desc y = DCP_ZERO;
            dcp_checkpoint *c;
            int threads;
            use_local();
            s = saving("x", &t, 1);
            l = loading("x", &u, 1);
            o = opening("x");
            s.layout = layout;
            s.checksum = i % 2 ? DCP_CHECKSUM_FLAT : DCP_CHECKSUM_TREE;
            s.io.memory_budget = l.io.memory_budget = o.io.memory_budget = y.io.memory_budget = budgets[i];
            save(&s);
            for (threads = 0; threads <= 8; threads += 4) {
                memset(back, 0, (size_t)shape[0]);
                l.io.threads = threads;
                CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
                CHECK_INT(memcmp(back, bytes, (size_t)shape[0]), 0);
            }
            c = open_with(&o);
            CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
            CHECK_OK_MESSAGE(dcp_prefetch(c, NULL, 0, &err), err.message);
            CHECK_OK_MESSAGE(dcp_prefetch_wait(c, 0, &err), err.message);
            CHECK_OK_MESSAGE(dcp_read_new(c, "a", &v, &err), err.message);
            dcp_free(v.data);
            dcp_close(c);
            y.path = at("x");
            y.directory = at("copy");
            if (layout == DCP_LAYOUT_MANIFEST) CHECK_OK_MESSAGE(dcp_sync(&y, &err), err.message);
            done();
        }
    }
    free(bytes);
    free(back);
}
/* A storage that gives sizes which cannot be is wrong, and nothing is read by them. */
static int wrong_opens, wrong_stats;    /* which answers have a size of -1 */
static dcp_status wrong_open(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    const dcp_status status = inner->open(inner->context, path, object, info, e);
    if (wrong_opens) info->size = wrong_opens < 0 ? INT64_MIN : -1;
    return status;
}
static dcp_status wrong_stat(void *context, const char *path, dcp_object_info *info, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    const dcp_status status = inner->stat(inner->context, path, info, e);
    if (wrong_stats) info->size = -1;
    return status;
}
static dcp_status wrong_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    if (size > 64u << 20) abort();                      /* nobody asked for so much that is in his right mind */
    return inner->read(inner->context, object, offset, data, size, e);
}
static void wrong_close(void *context, void *object) {
    dcp_storage *inner = (dcp_storage *)context;
    inner->close(inner->context, object);
}
static dcp_status wrong_list(void *context, const char *directory,
                             dcp_status (*each)(void *, const char *, const dcp_object_info *),
                             void *user, dcp_error *e) {
    dcp_storage *inner = (dcp_storage *)context;
    return inner->list(inner->context, directory, each, user, e);
}
TEST(a_storage_that_gives_a_negative_size_is_an_io_error) {
    static const char *const names[] = { "sharded", "single", "manifest" };
    dcp_storage wrong;
    int i;
    float a[6] = {0};
    dcp_tensor t = vector("a", DCP_FP32, a, 6);
    use_memory();
    for (i = 0; i < 3; i++) {
        dcp_save_desc s = saving(names[i], &t, 1);
        s.layout = (dcp_layout)i;
        save(&s);
    }
    memset(&wrong, 0, sizeof wrong);
    wrong.context = files;
    wrong.open = wrong_open; wrong.read = wrong_read; wrong.close = wrong_close; wrong.stat = wrong_stat;
        wrong.list = wrong_list;
    store = &wrong;
    for (i = 0; i < 9; i++) {
        dcp_latest_desc latest = DCP_ZERO;
        dcp_list_desc list = DCP_ZERO;
        dcp_list_entry *entries;
        dcp_object_info info;
        size_t count, size;
        char *path;
        void *data;
        wrong_opens = i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0;
        wrong_stats = i % 3 == 2;
        latest.io.storage = list.io.storage = store;
        CHECK_FAILS(try_load(names[i / 3], &t, 1), DCP_E_IO, "bytes, which cannot be");
        if (!wrong_stats) CHECK_FAILS(dcp_latest(&latest, &path, &err), DCP_E_IO, "bytes, which cannot be");
        if (!wrong_stats) CHECK_FAILS(dcp_storage_read_all(store, "single.checkpoint", &data, &size, &err), DCP_E_IO,
                                      "bytes, which cannot be");
        if (!wrong_stats) continue;
        CHECK_FAILS(dcp_storage_info(store, "single.checkpoint", &info, &err), DCP_E_IO, "bytes, which cannot be");
        CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
        CHECK_INT(count, 3);
        dcp_free(entries);
    }
    wrong_opens = wrong_stats = 0;
    store = files;
    done();
}
#ifndef _WIN32
/* 512 MiB through a small budget, in a child whose peak of resident memory is measured. The source is one buffer that
 * all tensors share. The big buffers come from dcpi_os_pages, so the allocator's count would not see them. */
#define SHARED_TENSORS 128
#define SHARED_SIZE (4 * MIB)
static int64_t peak_resident(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * KIB : -1;
}
static void shared_tensors(dcp_tensor *t, char (*labels)[16], void *data) {
    int i;
    for (i = 0; i < SHARED_TENSORS; i++) {
        (void)snprintf(labels[i], sizeof labels[i], "t%d", i);
        t[i] = dcp_bytes(labels[i], data, (size_t)SHARED_SIZE);
    }
}
static int64_t growth_of(size_t budget, int is_load, dcp_layout layout) {              /* in the child; -1: it failed */
    static dcp_tensor t[SHARED_TENSORS];
    static char labels[SHARED_TENSORS][16];
    uint8_t *data = filled((size_t)SHARED_SIZE, 1);
    dcp_save_desc s = saving("x", t, SHARED_TENSORS);
    dcp_load_desc l = loading("x", t, SHARED_TENSORS);
    dcp_status status;
    int64_t before = peak_resident();
    shared_tensors(t, labels, data);
    s.io.memory_budget = l.io.memory_budget = budget;
    s.layout = layout;
    status = is_load ? dcp_load(&l, &err) : dcp_save(&s, &err);
    if (status) printf("%s\n", err.message);
    if (is_load && !is_filled(data, (size_t)SHARED_SIZE, 1)) status = DCP_E_CHECKSUM;
    free(data);
    return status ? -1 : peak_resident() - before;
}
static int64_t growth_in_child(size_t budget, int is_load, dcp_layout layout) {
    int64_t growth = -1;
    int ends[2], status = 0;
    pid_t child;
    CHECK_INT(pipe(ends), 0);
    (void)fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        growth = growth_of(budget, is_load, layout);
        _exit(write(ends[1], &growth, sizeof growth) == (ssize_t)sizeof growth ? 0 : 1);
    }
    (void)close(ends[1]);
    CHECK_INT(read(ends[0], &growth, sizeof growth), sizeof growth);
    (void)close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return growth;
}
static void budget_case(size_t budget, dcp_layout layout) {
    int64_t most = (int64_t)budget + 8 * MIB, save_growth, load_growth;
    use_local();
    save_growth = growth_in_child(budget, 0, layout);
    load_growth = growth_in_child(budget, 1, layout);
    done();
    CHECK(save_growth >= 0 && save_growth <= most);
    CHECK(load_growth >= 0 && load_growth <= most);
}
TEST(the_memory_budget_is_honoured) {
    if (test_is_sanitized() || test_is_slow()) SKIP("the memory of a sanitizer or an emulator would be measured");
    budget_case(1 << 20, DCP_LAYOUT_SHARDED);
    budget_case(64 << 20, DCP_LAYOUT_SINGLE);
}
#endif

/* What the allocator hands out stays small too, and nothing of it is kept. */
TEST(allocations_do_not_grow_with_the_data) {
    int64_t before, shape[2] = { BIG_ROWS, BIG_COLUMNS };
    float *data = big_matrix();
    dcp_tensor t = dcp_array("big", DCP_FP32, data, 2, shape);
    use_local();
    before = hook_peak = hook_live;
    save_as("x", &t, 1);
    load_from("x", &t, 1);
    verify_at("x");
    CHECK_INT(hook_live, before);
    CHECK(hook_peak - before < 2 * MIB);
    done();
    free(data);
}

/* ---- determinism (G11) ------------------------------------------------------------------------------------------- */
/* Blanks what differs between two saves of one state: the value of that member, up to its quote or comma, everywhere in
 * the bytes. */
static void blank(uint8_t *bytes, size_t size, const char *member) {
    size_t n = strlen(member), i;
    for (i = 0; i + n < size; i++) {
        if (memcmp(bytes + i, member, n) != 0) continue;
        for (i += n; i < size && bytes[i] != '"' && bytes[i] != ','; i++) bytes[i] = '#';
    }
}
static uint8_t *get_blanked(const char *name, size_t *size) {
    uint8_t *bytes = get(name, size);
    blank(bytes, *size, "\"timestamp\": \"");
    blank(bytes, *size, "\"saveId\": \"");
    blank(bytes, *size, "\"sequence\": ");
    blank(bytes, *size, "\"integrity\": { \"algorithm\": \"sha256\", \"value\": \"");
    return bytes;
}
typedef struct way { int threads, poison; size_t budget; } way;                         /* of saving one state */
static void save_this_way(const way *w, dcp_layout layout, dcp_checksum checksum, const dcp_tensor *t, size_t n) {
    dcp_save_desc desc = saving("x", t, n);
    dcp_field field = { "who", "me" };
    hook_poison = w->poison;
    desc.layout = layout;
    desc.checksum = checksum;
    desc.alignment = 4096;
    desc.block_size = 512 * 1024;
    desc.fields = &field;
    desc.field_count = 1;
    desc.io.threads = w->threads;
    desc.io.memory_budget = w->budget;
    save(&desc);
    hook_poison = 0xA5;
}
static void same_bytes_case(dcp_layout layout, dcp_checksum checksum, const dcp_tensor *t, size_t n, const char *file) {
    static const way ways[] = { { 1, 0xA5, 0 }, { 1, 0, 1 << 20 }, { 2, 0x5A, 0 }, { 3, 0xFF, 3 << 20 }, { 5, 1, 0 },
                                { 8, 2, 1 << 20 } };
    uint8_t *first = NULL, *other;
    size_t first_size = 0, size, i;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (i % 3 == 2) use_local(); else use_memory();
        save_this_way(&ways[i], layout, checksum, t, n);
        other = get_blanked(file, &size);
        verify_at("x");
        done();
        if (i == 0) { first = other; first_size = size; continue; }
        CHECK_INT(size, first_size);
        CHECK(memcmp(first, other, size) == 0);
        dcp_free(other);
    }
    dcp_free(first);
}
TEST(one_state_gives_one_sequence_of_bytes) {
    const int64_t size = (test_is_sanitized() ? 3 : 9) * MIB + 77;         /* more than the budgets */
    uint8_t *data = filled((size_t)size, 6);
    int64_t shape[2] = { 300, 5 };
    dcp_tensor t[4];
    t[0] = dcp_bytes("a", data, 3);
    t[1] = dcp_bytes("b", data, (size_t)size);
    t[2] = dcp_array("c", DCP_FP64, data, 2, shape);
    t[2].stride[0] = 11;
    t[2].stride[1] = 2;
    t[3] = dcp_bytes("d", data, 4097);
    same_bytes_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, t, 4, "x_shard_0.bin");
    same_bytes_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, t, 4, "x.metadata.json");
    same_bytes_case(DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, t, 4, "x.metadata.json");
    same_bytes_case(DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, t, 4, "x.checkpoint");
    free(data);
}
TEST(any_number_of_threads_loads_the_same) {
    const int64_t size = 13 * MIB + 5;
    uint8_t *data = filled((size_t)size, 6), *in = allocated((size_t)size);
    dcp_tensor t = dcp_bytes("a", data, (size_t)size);
    dcp_load_desc desc;
    int threads;
    use_local();
    save_as("x", &t, 1);
    t.data = in;
    for (threads = 1; threads <= 8; threads++) {
        memset(in, 0, (size_t)size);
        desc = loading("x", &t, 1);
        desc.io.threads = threads;
        desc.io.memory_budget = threads % 2 ? 0 : 1 << 20;
        CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
        CHECK(is_filled(in, (size_t)size, 6));
    }
    desc.io.threads = 1000;                             /* more than there are is no error */
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    done();
    free(data);
    free(in);
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
static dcp_layout failing_layout;
static dcp_status save_once(void) {
    float a[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_save_desc s = saving("x", &t, 1);
    s.layout = failing_layout;
    s.overwrite = 1;
    return dcp_save(&s, &err);
}
static dcp_status load_once(void) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    const void *data;
    size_t size;
    dcp_metadata *m = NULL;
    dcp_checkpoint *c = NULL;
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape), fresh;
    dcp_load_desc l = loading("x", &t, 1);
    dcp_open_desc o = opening("x");
    dcp_status status;
    l.metadata = &m;
    l.exact = 1;
    status = dcp_load(&l, &err);
    dcp_metadata_free(m);
    if (!status) status = dcp_open(&o, &c, &err);
    if (!status) status = dcp_verify(c, &err);
    if (!status) status = dcp_map(c, "a", &data, &size, &err);
    if (!status) status = dcp_read_new(c, "a", &fresh, &err);
    if (!status) dcp_free(fresh.data);
    dcp_close(c);
    return status;
}
/* Each time: success or a clean error, and no memory kept. Returns how many allocations there are. */
static int fail_each(dcp_status (*call)(void), void (*check)(dcp_status status)) {
    int n;
    for (n = 0; n < 2000; n++) {
        int64_t before = hook_live;
        dcp_status status;
        int was_reached;
        hook_countdown = n;
        status = call();
        was_reached = hook_countdown < 0;
        hook_countdown = -1;
        CHECK(status == DCP_OK || ((status == DCP_E_MEMORY || (status == DCP_E_UNKNOWN && PATHS_NEED_MEMORY)) &&
                                   was_reached));
        CHECK(status == DCP_OK || err.message[0] != '\0');
        if (store == NULL) CHECK_INT(hook_live, before);
        check(status);
        if (!was_reached) return n;
    }
    return n;
}
static void check_nothing(dcp_status status) { (void)status; }
static void check_first_save(dcp_status status) {       /* nothing is left of one that failed */
    if (status && status != DCP_E_UNKNOWN) { CHECK_INT(count_files(""), 0); return; }
    CHECK_OK_MESSAGE(verify_now("x"), err.message);
    drop(failing_layout == DCP_LAYOUT_SINGLE ? "x.checkpoint" : "x.metadata.json");
    if (failing_layout == DCP_LAYOUT_SHARDED) drop("x_shard_0.bin");
    CHECK_INT(count_files(""), 0);
}
static void check_later_save(dcp_status status) {       /* what was there before, or what is there now, loads */
    int least = failing_layout == DCP_LAYOUT_SINGLE ? 1 : 2, count = count_files("");
    CHECK_OK_MESSAGE(verify_now("x"), err.message);
    /* cleaning up after an overwrite may fail: then sweep does it */
    CHECK(count == least || ((status == DCP_OK || status == DCP_E_UNKNOWN) && count == least + 1));
    if (count == least) return;
    done();
    use_memory();
    CHECK_OK_MESSAGE(save_once(), err.message);
}
static void fail_each_in(dcp_layout layout) {
    failing_layout = layout;
    use_local();
    CHECK(fail_each(save_once, check_first_save) > 20);
    CHECK_OK_MESSAGE(save_once(), err.message);
    CHECK(fail_each(load_once, check_nothing) > 40);
    done();
    use_memory();
    CHECK(fail_each(save_once, check_first_save) > 20);
    CHECK_OK_MESSAGE(save_once(), err.message);
    CHECK(fail_each(load_once, check_nothing) > 40);
    CHECK(fail_each(save_once, check_later_save) > 40);
    done();
}
TEST(every_allocation_can_fail) {
    fail_each_in(DCP_LAYOUT_SHARDED);
    fail_each_in(DCP_LAYOUT_SINGLE);
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
    hook_peak = hook_live;
    check_map(c, "large", 3 * 1024 * 1024 + 5);
    CHECK_INT(eye.bytes_read, 0);
    CHECK(eye.maps > 0);
    CHECK(hook_peak - hook_live < MIB);
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
    flip(dcp_metadata_of(c)->shards[0].file_path, 4096 + 2 * MIB);
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
        if (dcp_tensor_find(m->c, all[i % 3]) == NULL) m->ok = 0;
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
    CHECK_INT(dcp_tensor_find(c, "own")->placement, DCP_PLACE_PRIVATE);
    CHECK_INT(dcp_tensor_find(c, "own")->size, 12);
    CHECK_INT(dcp_tensor_find(c, "all")->placement, DCP_PLACE_REPLICATED);
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
    CHECK_INT(dcp_tensor_find(c, "p")->placement, DCP_PLACE_PRIVATE);
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

/* A document edited so that one tensor has a type which this version does not know. */
static void save_unknown_type(void) {
    float a[4] = { 1, 2, 3, 4 };
    int64_t shape[2] = { 2, 2 };
    dcp_tensor t[2];
    dcp_metadata *m;
    t[0] = dcp_array("a", DCP_FP32, a, 2, shape);
    t[1] = dcp_array("q", DCP_FP32, a, 2, shape);
    save_as("x", t, 2);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, "x.metadata.json", NULL, &m, &err), err.message);
    m->shards[0].tensors[1].data_type = "fp6_e3m2";
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, &err), err.message);
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
    CHECK_INT(dcp_tensor_find(c, "q")->dtype, DCP_OPAQUE);
    CHECK_STR(dcp_tensor_find(c, "q")->dtype_name, "fp6_e3m2");
    CHECK_INT(dcp_tensor_find(c, "q")->size, 16);
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

/* ==== devices ===================================================================================================== */
/* Its memory holds every byte inverted. Copies happen when they are waited for, and each must be waited for once, in
 * order. */
typedef struct fake_copy {
    uint8_t *host;
    const dcp_tensor *tensor;
    int64_t offset;
    size_t size;
    int is_out;
} fake_copy;
static struct {
    fake_copy copies[64];
    uint64_t next, waited, most;                        /* begun, waited for, most under way at once */
    int failing_outs, failing_ins, failing_waits, failing_hosts, is_out_of_bounds, is_outside_hosts;
    uint8_t *hosts[8]; size_t host_sizes[8]; int host_count, hosts_made;
} fake;

static dcp_status fake_copy_later(void *host, const dcp_tensor *tensor, int64_t offset, size_t size, int is_out,
                                  uint64_t *ticket) {
    fake_copy *copy = &fake.copies[fake.next % 64];
    copy->host = (uint8_t *)host;
    copy->tensor = tensor;
    copy->offset = offset;
    copy->size = size;
    copy->is_out = is_out;
    if (offset < 0 || offset + (int64_t)size > dcpi_tensor_bytes(tensor)) fake.is_out_of_bounds = 1;
    *ticket = fake.next++;
    if (fake.next - fake.waited > fake.most) fake.most = fake.next - fake.waited;
    return DCP_OK;
}
static dcp_status fake_allocate(void *context, size_t size, void **memory, dcp_error *error) {
    (void)context;
    if (fake.failing_hosts && --fake.failing_hosts == 0)
        return dcpi_fail(error, DCP_E_DEVICE, "no pages can be pinned");
    *memory = fake.hosts[fake.host_count] = allocated(size);
    fake.host_sizes[fake.host_count++] = size;
    fake.hosts_made++;
    return DCP_OK;
}
static void fake_free(void *context, void *memory) {
    int i;
    (void)context;
    for (i = 0; i < fake.host_count && fake.hosts[i] != memory; i++) {}
    /* freed under a copy, or never made */
    if (fake.next != fake.waited || i == fake.host_count) fake.is_outside_hosts = 1;
    fake.host_count--;
    fake.hosts[i] = fake.hosts[fake.host_count];
    fake.host_sizes[i] = fake.host_sizes[fake.host_count];
    free(memory);
}
/* Whether a copy's host memory is staging memory that is still there. */
static int fake_is_staged(const fake_copy *copy) {
    int i;
    for (i = 0; i < fake.host_count; i++)
        if (copy->host >= fake.hosts[i] && copy->host + copy->size <= fake.hosts[i] + fake.host_sizes[i]) return 1;
    return 0;
}
static dcp_status fake_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                           uint64_t *ticket, dcp_error *error) {
    (void)context;
    if (fake.failing_outs && --fake.failing_outs == 0) return dcpi_fail(error, DCP_E_DEVICE, "the device is on fire");
    return fake_copy_later(host, tensor, offset, size, 1, ticket);
}
static dcp_status fake_in(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size,
                          uint64_t *ticket, dcp_error *error) {
    (void)context;
    if (fake.failing_ins && --fake.failing_ins == 0) return dcpi_fail(error, DCP_E_DEVICE, "the device is on fire");
    return fake_copy_later((void *)host, tensor, offset, size, 0, ticket);
}
/* Where byte `at` of the piece, row-major, is in the tensor's memory: the device knows the strides. */
static uint8_t *fake_byte(const dcp_tensor *t, int64_t at) {
    int64_t width = dcp_dtype_bits(t->dtype) / 8, element_at = at / width, place = 0, stride[DCP_MAX_DIMS];
    int d;
    dcpi_effective_stride(t, stride);
    for (d = t->ndim - 1; d >= 0; d--) {
        place += element_at % t->shape[d] * stride[d];
        element_at /= t->shape[d];
    }
    return (uint8_t *)t->data + place * width + at % width;
}
static dcp_status fake_wait(void *context, uint64_t ticket, dcp_error *error) {
    const fake_copy *copy = &fake.copies[ticket % 64];
    int64_t i;
    (void)context;
    if (ticket != fake.waited++) return dcpi_fail(error, DCP_E_DEVICE, "another ticket was to be waited for");
    if (fake.hosts_made && !fake_is_staged(copy)) fake.is_outside_hosts = 1;
    if (fake.failing_waits && --fake.failing_waits == 0) return dcpi_fail(error, DCP_E_DEVICE, "the device has melted");
    for (i = 0; i < (int64_t)copy->size && !fake.is_out_of_bounds; i++) {
        uint8_t *byte = fake_byte(copy->tensor, copy->offset + i);
        if (copy->is_out) copy->host[i] = (uint8_t)~*byte;
        else *byte = (uint8_t)~copy->host[i];
    }
    return DCP_OK;
}
static dcp_device *fake_device(void) {
    static dcp_device device;
    memset(&fake, 0, sizeof fake);
    memset(&device, 0, sizeof device);
    device.copy_out = fake_out;
    device.copy_in = fake_in;
    device.wait = fake_wait;
    return &device;
}
static void invert(void *data, size_t size) {
    uint8_t *bytes = (uint8_t *)data;
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = (uint8_t)~bytes[i];
}
static void check_fake(void) { CHECK(fake.next == fake.waited && fake.next > 0 && !fake.is_out_of_bounds); }

/* io.threads workers need as many buffers, or they wait for each other: how far a save reads ahead of a write that
 * takes long tells. */
static volatile int64_t ahead_bytes, ahead_seen;
static dcp_status ahead_out(void *context, void *host, const dcp_tensor *t, int64_t offset, size_t size,
                            uint64_t *ticket, dcp_error *error) {
    (void)context; (void)t; (void)ticket; (void)error;
    memset(host, 5, size);
    ahead_bytes = offset + (int64_t)size;
    return DCP_OK;
}
static dcp_status ahead_in(void *context, const dcp_tensor *t, int64_t offset, const void *host, size_t size,
                           uint64_t *ticket, dcp_error *error) {
    (void)context; (void)t; (void)offset; (void)host; (void)size; (void)ticket; (void)error;
    return DCP_OK;
}
static dcp_status ahead_wait(void *context, uint64_t ticket, dcp_error *error) {
    (void)context; (void)ticket; (void)error;
    return DCP_OK;
}
static dcp_status (*ahead_inner)(void *context, void *object, int64_t offset, const void *data, size_t size,
                                 dcp_error *err);
static dcp_status ahead_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                              dcp_error *error) {
    if (offset == 0 && size > 1 << 19) {                /* the first write of the tensor: until nothing more is read */
        int64_t before;
        int still;
        for (before = -1, still = 0; still < 15; still = before == ahead_bytes ? still + 1 : 0) {
            before = ahead_bytes;
            dcpi_os_sleep_ms(20);
        }
        ahead_seen = ahead_bytes;
    }
    return ahead_inner(context, object, offset, data, size, error);
}
static int64_t read_ahead(int threads, size_t budget) {
    const int64_t shape[1] = { 64 * MIB };
    uint8_t nothing[1] = {0};
    dcp_tensor t = dcp_array("a", DCP_UINT8, nothing, 1, shape);
    dcp_device device;
    dcp_save_desc s;
    use_memory();
    memset(&device, 0, sizeof device);
    device.copy_out = ahead_out;
    device.copy_in = ahead_in;
    device.wait = ahead_wait;
    t.device = &device;
    ahead_inner = store->write;
    store->write = ahead_write;
    ahead_bytes = ahead_seen = 0;
    s = saving("x", &t, 1);
    s.io.threads = threads;
    s.io.memory_budget = budget;
    save(&s);
    store->write = ahead_inner;
    done();
    return ahead_seen;
}
TEST(as_many_threads_as_asked_for_have_something_to_do) {
#if DCP_NO_THREADS
    SKIP("built without threads");
#endif
    CHECK(read_ahead(0, 0) <= 5 * 4 * MIB);
    CHECK(read_ahead(8, 0) >= 8 * 4 * MIB);
    CHECK(read_ahead(8, (size_t)(16 * MIB)) >= 8 * MIB);                /* smaller ones */
    CHECK(read_ahead(16, (size_t)(64 * MIB)) >= 40 * MIB);
    CHECK(read_ahead(16, (size_t)(1 * MIB)) <= 1 * MIB);
}
TEST(the_buffers_of_a_save_stay_within_the_budget) {
    static const int64_t sizes[] = { 1, 300 * 1024, 1 << 20, 5 << 20, 100 << 20 };
    dcpi_stream *t = (dcpi_stream *)malloc(sizeof *t);
    dcpi_op op;
    dcp_io io = DCP_ZERO;
    int threads, mib;
    size_t i;
    CHECK(t != NULL);
    for (threads = 1; threads <= DCPI_MAX_WORKERS; threads++)
        for (mib = 1; mib <= 80; mib += mib < 20 ? 1 : 15)
            for (i = 0; i < DCPI_COUNT(sizes); i++) {
                io.memory_budget = (size_t)mib << 20;
                CHECK_OK(dcpi_op_begin(&op, &io, &err));
                memset(t, 0, sizeof *t);
                t->op = &op;
                t->end = sizes[i];
                CHECK_OK_MESSAGE(dcpi_stream_allocate(t, threads, &err), err.message);
                CHECK(t->staging.size <= io.memory_budget);
                CHECK(t->buffer_count >= 1 && t->buffer_count <= DCPI_STREAM_MOST);
                /* none for nothing */
                CHECK((int64_t)(t->capacity - DCPI_OS_DIRECT_ALIGN) * (t->buffer_count - 1) < sizes[i]);
                dcpi_stream_free(t);
            }
    free(t);
}
/* A device has no checkpoints to miss, and what is no status is none of ours to hand on. */
static dcp_status odd_status;
static dcp_status odd_out(void *context, void *host, const dcp_tensor *t, int64_t offset, size_t size, uint64_t *ticket,
                          dcp_error *error) {
    (void)context; (void)host; (void)t; (void)offset; (void)size; (void)ticket; (void)error;
    return odd_status;
}
static dcp_status odd_in(void *context, const dcp_tensor *t, int64_t offset, const void *host, size_t size,
                         uint64_t *ticket, dcp_error *error) {
    (void)context; (void)host; (void)t; (void)offset; (void)size; (void)ticket; (void)error;
    return odd_status;
}
TEST(a_device_that_answers_oddly_is_a_device_error) {
    static const int odd[] = { DCP_E_NOT_FOUND, DCP_E_UNKNOWN, DCP_PENDING, 99, -1 };
    float a[6] = {0};
    dcp_tensor t = vector("a", DCP_FP32, a, 6);
    dcp_device device;
    size_t i;
    use_memory();
    save_as("x", &t, 1);
    memset(&device, 0, sizeof device);
    device.copy_out = odd_out;
    device.copy_in = odd_in;
    device.wait = fake_wait;
    t.device = &device;
    for (i = 0; i < DCPI_COUNT(odd); i++) {
        dcp_save_desc s = saving("y", &t, 1);
        odd_status = (dcp_status)odd[i];
        CHECK_FAILS(try_load("x", &t, 1), DCP_E_DEVICE, "\"a\"");
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "\"a\"");
    }
    done();
}
/* Each operation tells a device that it begins: once, before the first copy, however many tensors are there. */
static int begun;
static dcp_status count_begin(void *context, dcp_error *error) {
    begun++;
    if (fake.next != fake.waited || !context) return dcpi_fail(error, DCP_E_DEVICE, "copies are under way");
    return odd_status == DCP_E_DEVICE ? dcpi_fail(error, DCP_E_DEVICE, "the device is asleep") : odd_status;
}
TEST(a_device_is_told_that_an_operation_begins) {
    static const int odd[] = { DCP_E_NOT_FOUND, DCP_E_UNKNOWN, DCP_PENDING, 99 };
    float a[6] = {0}, b[6] = {0}, c[6] = {0};
    dcp_tensor t[3];
    dcp_device *device = fake_device();
    dcp_save_desc s;
    dcp_checkpoint *opened_x;
    size_t i;
    use_memory();
    s = saving("x", t, 3);
    device->context = &begun;
    device->begin = count_begin;
    t[0] = vector("a", DCP_FP32, a, 6);
    t[1] = vector("b", DCP_FP32, b, 6);
    t[2] = vector("c", DCP_FP32, c, 6);
    t[0].device = t[2].device = device;
    odd_status = DCP_OK;
    begun = 0;
    save(&s);
    CHECK_INT(begun, 1);
    load_from("x", t, 3);
    CHECK_INT(begun, 2);
    opened_x = open_at("x");
    CHECK_INT(begun, 2);
    CHECK_OK_MESSAGE(dcp_read(opened_x, t + 1, 1, &err), err.message);
    CHECK_INT(begun, 2);
    CHECK_OK_MESSAGE(dcp_read(opened_x, t, 3, &err), err.message);
    CHECK_INT(begun, 3);
    dcp_close(opened_x);
    odd_status = DCP_E_DEVICE;
    s.path = at("y");
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "\"a\": the device is asleep");
    CHECK_FAILS(try_load("x", t, 3), DCP_E_DEVICE, "\"a\": the device is asleep");
    for (i = 0; i < DCPI_COUNT(odd); i++) {
        odd_status = (dcp_status)odd[i];
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "gave no reason");
        CHECK_FAILS(try_load("x", t, 3), DCP_E_DEVICE, "gave no reason");
    }
    CHECK_INT(count_files(""), 2);
    done();
}
/* From the device to the host, back to the device, whole and in boxes. io.threads = 1: this device is not for several
 * threads. */
static void device_body(void) {
    float out[ROWS * COLUMNS] = {0}, in[ROWS * COLUMNS] = {0};
    static const int64_t box[4] = { 2, 3, 5, 6 };
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t = dcp_array("m", DCP_FP32, out, 2, shape);
    fill_matrix(out, whole_matrix);
    invert(out, sizeof out);
    t.device = fake_device();
    save_as("x", &t, 1);
    check_fake();
    check_whole_matrix("x");
    t.data = in;
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    CHECK(memcmp(in, out, sizeof in) == 0);
    memset(in, 0, sizeof in);
    t = block("m", in, box, ROWS, COLUMNS);
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    invert(in, 5 * 6 * sizeof *in);
    CHECK(is_matrix(in, box));
}
TEST(a_device_is_copied_from_and_to) { on_local_and_memory(device_body); }

/* Offsets count the piece's bytes in row-major order, whatever its strides are in the device's memory. */
TEST(a_strided_device_tensor) {
    float out[ROWS * COLUMNS * 3] = {0}, in[ROWS * COLUMNS * 3] = {0}, plain[ROWS * COLUMNS];
    static const int64_t box[4] = { 4, 1, 6, 5 };
    int64_t shape[2] = { ROWS, COLUMNS }, r, c;
    dcp_tensor t = dcp_array("m", DCP_FP32, out, 2, shape);
    fill_matrix(plain, whole_matrix);
    invert(plain, sizeof plain);
    for (r = 0; r < ROWS; r++) for (c = 0; c < COLUMNS; c++) out[r * 2 + c * 2 * ROWS] = plain[r * COLUMNS + c];
    t.stride[0] = 2;
    t.stride[1] = 2 * ROWS;
    t.device = fake_device();
    use_memory();
    save_as("x", &t, 1);
    check_fake();
    check_whole_matrix("x");
    t.data = in;
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    CHECK(memcmp(in, out, sizeof in) == 0);
    t = block("m", in, box, ROWS, COLUMNS);
    t.stride[0] = 1;
    t.stride[1] = 7;
    t.device = fake_device();
    load_from("x", &t, 1);
    check_fake();
    for (r = 0; r < 6; r++) for (c = 0; c < 5; c++) CHECK(in[r + 7 * c] == plain[(4 + r) * COLUMNS + 1 + c]);
    done();
}
TEST(a_large_device_tensor_in_pieces) {
    const int64_t size = 11 * MIB + 3;
    uint8_t *data = filled((size_t)size, 5), *in = allocated((size_t)size);
    dcp_tensor t = dcp_bytes("a", data, (size_t)size);
    dcp_load_desc desc;
    dcp_save_desc s;
    use_memory();
    invert(data, (size_t)size);
    t.device = fake_device();
    s = saving("x", &t, 1);
    s.io.memory_budget = 1 << 20;
    save(&s);
    check_fake();
    CHECK_INT(fake.most, 2);                /* one copy a buffer: the next one is begun before this one is waited for */
    t.data = in;
    t.device = fake_device();
    desc = loading("x", &t, 1);
    desc.io.threads = 1;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    check_fake();
    CHECK_INT(fake.most, 2);
    CHECK(memcmp(in, data, (size_t)size) == 0);
    t.device = NULL;
    load_from("x", &t, 1);
    CHECK(is_filled(in, (size_t)size, 5));
    done();
    free(data);
    free(in);
}
TEST(a_device_that_fails) {
    float data[ROWS * COLUMNS] = {0};
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t = dcp_array("m", DCP_FP32, data, 2, shape);
    dcp_device lame;
    dcp_save_desc desc;
    use_memory();
    save_as("x", &t, 1);
    t.device = fake_device();
    fake.failing_outs = 1;
    desc = saving("y", &t, 1);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_DEVICE, "on fire");
    CHECK_INT(count_files(""), 2);
    fake.failing_ins = 1;
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_DEVICE, "on fire");
    memset(&lame, 0, sizeof lame);
    t.device = &lame;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "copy_out");
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INVALID, "copy_in");
    lame.copy_out = fake_out;
    lame.copy_in = fake_in;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "wait");
    done();
}

/* A device with staging memory: while one buffer is hashed and written, or read, another is copied. */
static const dcp_device *staging_device(void) {
    dcp_device *device = fake_device();
    device->allocate_host = fake_allocate;
    device->free_host = fake_free;
    return device;
}
static void check_staged(int is_staged) {
    check_fake();
    CHECK(fake.most >= 2 && fake.most <= DCPI_COPIES);
    CHECK(!fake.is_outside_hosts && fake.host_count == 0);
    CHECK_INT(fake.hosts_made > 0, is_staged);
}
static char staging_log[600];
static void staging_logged(void *user, dcp_log_level level, const char *message) {
    (void)user;
    if (level == DCP_LOG_WARNING) (void)snprintf(staging_log, sizeof staging_log, "%s", message);
}
/* Tensors of device and host in turns, odd sizes, so that buffers end inside them and carry bytes over. */
static void staged_body(size_t budget, size_t size, int is_refused) {
    enum { COUNT = 5 };
    uint8_t *data[COUNT], *in[COUNT];
    char names[COUNT][8];
    dcp_tensor t[COUNT];
    dcp_save_desc s;
    dcp_load_desc l;
    int i;
    staging_log[0] = '\0';
    for (i = 0; i < COUNT; i++) {
        const size_t n = size / (size_t)(i + 1) + (size_t)i;
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        data[i] = filled(n, (uint64_t)i);
        in[i] = allocated(n);
        t[i] = dcp_bytes(names[i], data[i], n);
        if (i % 2 == 0) { invert(data[i], n); t[i].device = staging_device(); }
    }
    fake.failing_hosts = is_refused;
    s = saving("x", t, COUNT);
    s.overwrite = 1;
    s.io.memory_budget = budget;
    s.io.log = staging_logged;
    save(&s);
    check_staged(!is_refused);
    if (is_refused) CHECK(strstr(staging_log, "no pages can be pinned"));
    for (i = 0; i < COUNT; i++) { t[i].data = in[i]; if (t[i].device) t[i].device = staging_device(); }
    fake.failing_hosts = is_refused;
    l = loading("x", t, COUNT);
    l.io.memory_budget = budget;
    l.io.threads = 1;
    l.io.log = staging_logged;
    CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
    check_staged(!is_refused);
    for (i = 0; i < COUNT; i++) {
        const size_t n = size / (size_t)(i + 1) + (size_t)i;
        if (t[i].device) invert(in[i], n);
        CHECK(is_filled(in[i], n, (uint64_t)i));
        free(data[i]);
        free(in[i]);
    }
}
TEST(copies_of_a_device_overlap_the_rest) {
    use_memory();
    staged_body(0, 9 * MIB + 5, 0);
    staged_body(1 << 20, 3 * MIB + 77, 0);
    staged_body(0, 300, 0);
    staged_body(0, 2 * MIB + 1, 1);
    done();
}
/* One tensor fills many buffers; whichever wait fails, no copy is left when its memory goes, and what the save made
 * goes too. */
TEST(a_wait_that_fails_leaves_no_copy_behind) {
    const size_t size = 6 * MIB + 9;
    uint8_t *data = filled(size, 1), *in = allocated(size);
    dcp_tensor t = dcp_bytes("a", data, size);
    dcp_save_desc s = saving("x", &t, 1);
    dcp_load_desc l;
    int n;
    use_memory();
    s = saving("x", &t, 1);
    save(&s);
    for (n = 1; n <= 6; n++) {
        t.data = data;
        t.device = staging_device();
        fake.failing_waits = n;
        s = saving("y", &t, 1);
        s.io.memory_budget = 1 << 20;
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_DEVICE, "tensor \"a\": the device has melted");
        CHECK(fake.next == fake.waited && fake.host_count == 0 && !fake.is_outside_hosts && fake.hosts_made > 0);
        CHECK_INT(count_files(""), 2);
        t.data = in;
        t.device = staging_device();
        fake.failing_waits = n;
        l = loading("x", &t, 1);
        l.io.memory_budget = 1 << 20;
        l.io.threads = 1;
        CHECK_FAILS(dcp_load(&l, &err), DCP_E_DEVICE, "tensor \"a\": the device has melted");
        CHECK(fake.next == fake.waited && fake.host_count == 0 && !fake.is_outside_hosts && fake.hosts_made > 0);
    }
    done();
    free(data);
    free(in);
}
/* What does not have its digest is never copied to a device. */
TEST(damaged_bytes_do_not_reach_a_device) {
    const size_t size = 3 * MIB;
    uint8_t *data = filled(size, 1), *in = allocated(size);
    dcp_tensor t = dcp_bytes("a", data, size);
    use_memory();
    save_as("x", &t, 1);
    flip("x_shard_0.bin", 2 * MIB + 7);
    memset(in, 0xEE, size);
    t.data = in;
    t.device = staging_device();
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_CHECKSUM, "tensor \"a\"");
    CHECK(fake.next == 0 && is_all(in, size, 0xEE));
    done();
    free(data);
    free(in);
}

/* ==== progress, cancel, deadline, log, retry ====================================================================== */
typedef struct watching {
    int calls, is_wrong;                      /* wrong: backwards, beyond the total, an earlier phase, another thread */
    dcp_progress last;
    int64_t write_done, write_total, read_done, read_total, verify_done;
    dcp_cancel *cancel; int cancel_at;                  /* requested in so many calls */
#ifndef _WIN32
    pthread_t thread;
#endif
} watching;
static void watch_progress(void *user, const dcp_progress *p) {
    watching *w = (watching *)user;
    if (w->calls > 0 && p->phase < w->last.phase) w->is_wrong = 1;
    if (w->calls > 0 && p->phase == w->last.phase && p->bytes_done < w->last.bytes_done) w->is_wrong = 1;
    if (p->bytes_done < 0 || p->bytes_done > p->bytes_total || !(p->bytes_per_second >= 0)) w->is_wrong = 1;
#ifndef _WIN32
    if (!pthread_equal(w->thread, pthread_self())) w->is_wrong = 1;
#endif
    w->last = *p;
    w->calls++;
    if (p->phase == DCP_PHASE_WRITE) { w->write_done = p->bytes_done; w->write_total = p->bytes_total; }
    if (p->phase == DCP_PHASE_READ) { w->read_done = p->bytes_done; w->read_total = p->bytes_total; }
    if (p->phase == DCP_PHASE_VERIFY) w->verify_done = p->bytes_done;
    if (w->cancel && w->calls >= w->cancel_at) dcp_cancel_request(w->cancel);
}
static watching watching_begin(dcp_io *io, watching *w) {
    memset(w, 0, sizeof *w);
#ifndef _WIN32
    w->thread = pthread_self();
#endif
    io->progress = watch_progress;
    io->progress_user = w;
    return *w;
}
#define SLOW_SIZE (8 * 1024 * 1024)
/* A save or load in requests of 256 KiB, each of which takes some milliseconds. */
static dcp_save_desc slow_save(const char *name, dcp_tensor *t, int delay_ms) {
    dcp_save_desc desc = saving(name, t, 1);
    desc.io.memory_budget = 1 << 20;
    desc.block_size = 256 * 1024;
    eye.delay_ms = delay_ms;
    return desc;
}
TEST(progress_is_told) {
    uint8_t *data = filled(SLOW_SIZE, 1);
    dcp_tensor t = dcp_bytes("a", data, SLOW_SIZE);
    watching w;
    dcp_save_desc s;
    dcp_load_desc l;
    int64_t start;
    use_memory();
    use_watch();
    s = slow_save("x", &t, 20);
    (void)watching_begin(&s.io, &w);
    start = dcpi_os_monotonic_ms();
    save(&s);
    start = dcpi_os_monotonic_ms() - start;
    CHECK(!w.is_wrong);
    CHECK(w.calls >= 3 && w.calls <= start / 100 + 5);  /* ten times a second, and the ends of phases */
    CHECK_INT(w.write_total, SLOW_SIZE);
    CHECK_INT(w.write_done, SLOW_SIZE);
    CHECK_INT(w.last.phase, DCP_PHASE_FINISH);
    l = loading("x", &t, 1);
    l.io.memory_budget = 1 << 20;
    (void)watching_begin(&l.io, &w);
    start = dcpi_os_monotonic_ms();
    CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
    start = dcpi_os_monotonic_ms() - start;
    CHECK(!w.is_wrong);
    CHECK(w.calls >= 2 && w.calls <= start / 100 + 5);
    CHECK_INT(w.read_total, SLOW_SIZE);
    CHECK_INT(w.read_done, SLOW_SIZE);
    CHECK(w.last.phase == DCP_PHASE_READ && w.last.bytes_done == w.last.bytes_total);
    eye.delay_ms = 0;
    done();
    free(data);
}
TEST(verify_tells_its_progress) {
    uint8_t *data = filled(SLOW_SIZE, 1);
    dcp_tensor t = dcp_bytes("a", data, SLOW_SIZE);
    watching w;
    dcp_open_desc desc;
    dcp_checkpoint *c;
    use_memory();
    save_as("x", &t, 1);
    desc = opening("x");
    (void)watching_begin(&desc.io, &w);
    c = open_with(&desc);
    (void)watching_begin(&desc.io, &w);
    CHECK_OK(dcp_verify(c, &err));
    CHECK(!w.is_wrong && w.calls > 0);
    CHECK_INT(w.verify_done, SLOW_SIZE);
    dcp_close(c);
    done();
    free(data);
}
static void cancel_body(void) {
    float a[6] = { 1, 2, 3, 4, 5, 6 };
    int64_t shape[2] = { 2, 3 };
    dcp_cancel cancel = DCP_ZERO;
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_save_desc s = saving("deep/er/x", &t, 1);
    dcp_load_desc l;
    dcp_checkpoint *c;
    dcp_open_desc o;
    s.io.cancel = &cancel;
    dcp_cancel_request(&cancel);
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_CANCELLED, "cancelled");
    CHECK_INT(count_files(""), 0);
    CHECK_FAILS(try_load("deep/er/x", &t, 1), DCP_E_NOT_FOUND, "");
    save_two("x");
    l = loading("x", &t, 1);
    l.io.cancel = &cancel;
    CHECK_FAILS(dcp_load(&l, &err), DCP_E_CANCELLED, "cancelled");
    o = opening("x");
    o.io.cancel = &cancel;
    CHECK_FAILS(dcp_open(&o, &c, &err), DCP_E_CANCELLED, "cancelled");
    CHECK(c == NULL);
    cancel.requested = 0;
    c = open_with(&o);
    dcp_cancel_request(&cancel);
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_CANCELLED, "cancelled");
    CHECK_FAILS(dcp_verify(c, &err), DCP_E_CANCELLED, "cancelled");
    dcp_close(c);
    dcp_cancel_request(NULL);
}
TEST(cancelled_before_it_starts) { on_local_and_memory(cancel_body); }

static void cancel_between_body(void) {
    uint8_t *data = filled(SLOW_SIZE, 1), *old = filled(100, 7), in[100];
    dcp_tensor t = dcp_bytes("a", data, SLOW_SIZE), small = dcp_bytes("a", old, 100);
    dcp_cancel cancel = DCP_ZERO;
    dcp_save_desc s;
    dcp_load_desc l;
    int after;
    save_as("x", &small, 1);
    use_watch();
    eye.cancel = &cancel;
    for (after = 0; after < 30; after += 4) {
        s = slow_save("x", &t, 0);
        s.overwrite = 1;
        s.io.cancel = &cancel;
        cancel.requested = 0;
        eye.cancel_after = after;
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_CANCELLED, "cancelled in phase");
        CHECK_INT(count_files(""), 2);                  /* nothing of the new one, all of the old one */
    }
    eye.cancel = NULL;
    small.data = in;
    load_from("x", &small, 1);
    CHECK(is_filled(in, 100, 7));
    s.io.cancel = NULL;
    save(&s);
    eye.delay_ms = 20;                                 /* workers read on until this thread looks, ten times a second */
    for (after = 3; after < 15; after += 5) {
        l = loading("x", &t, 1);
        l.io.memory_budget = 1 << 20;
        l.io.cancel = &cancel;
        cancel.requested = 0;
        eye.cancel = &cancel;
        eye.cancel_after = after;
        CHECK_FAILS(dcp_load(&l, &err), DCP_E_CANCELLED, "cancelled in phase read");
        CHECK(eye.longest_read <= 4 * MIB);
    }
    eye.cancel = NULL;
    eye.delay_ms = 0;
    free(data);
    free(old);
}
TEST(cancelled_between_chunks) { on_local_and_memory(cancel_between_body); }

TEST(cancelled_from_the_progress_callback) {
    uint8_t *data = filled(SLOW_SIZE, 1);
    dcp_tensor t = dcp_bytes("a", data, SLOW_SIZE);
    dcp_cancel cancel = DCP_ZERO;
    watching w;
    dcp_save_desc s;
    use_memory();
    use_watch();
    s = slow_save("x", &t, 20);
    (void)watching_begin(&s.io, &w);
    w.cancel = s.io.cancel = &cancel;
    w.cancel_at = 2;
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_CANCELLED, "phase write");
    CHECK_INT(count_files(""), 0);
    eye.delay_ms = 0;
    done();
    free(data);
}
static void deadline_body(void) {
    uint8_t *data = filled(SLOW_SIZE, 1);
    dcp_tensor t = dcp_bytes("a", data, SLOW_SIZE);
    dcp_save_desc s;
    dcp_load_desc l;
    int64_t start;
    use_watch();
    s = slow_save("x", &t, 50);
    s.io.deadline_ms = 150;
    start = dcpi_os_monotonic_ms();
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_TIMEOUT, "deadline of 150 ms");
    CHECK(dcpi_os_monotonic_ms() - start < 2000);
    CHECK_INT(count_files(""), 0);
    eye.delay_ms = 0;
    s.io.deadline_ms = 60000;
    save(&s);
    eye.delay_ms = 50;
    l = loading("x", &t, 1);
    l.io.memory_budget = 1 << 20;
    l.io.deadline_ms = 150;
    start = dcpi_os_monotonic_ms();
    CHECK_FAILS(dcp_load(&l, &err), DCP_E_TIMEOUT, "deadline of 150 ms");
    CHECK(dcpi_os_monotonic_ms() - start < 2000);
    eye.delay_ms = 0;
    l.io.deadline_ms = 60000;
    CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
    free(data);
}
TEST(a_deadline_ends_an_operation) { on_local_and_memory(deadline_body); }

/* A checkpoint that was opened long ago: each read has its own time. */
TEST(a_deadline_is_that_of_the_call) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_open_desc desc;
    dcp_checkpoint *c;
    use_memory();
    save_two("x");
    desc = opening("x");
    desc.io.deadline_ms = 500;
    c = open_with(&desc);
    dcpi_os_sleep_ms(550);
    CHECK_OK_MESSAGE(dcp_read(c, &t, 1, &err), err.message);
    dcpi_os_sleep_ms(550);
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_close(c);
    done();
}

typedef struct heard { int count, warnings; char text[4000]; } heard;
static void hear(void *user, dcp_log_level level, const char *message) {
    heard *h = (heard *)user;
    size_t used = strlen(h->text);
    h->count++;
    if (level <= DCP_LOG_WARNING) h->warnings++;
    (void)snprintf(h->text + used, sizeof h->text - used, "%s\n", message);
}
static heard *hearing(dcp_io *io) {
    static heard h;
    memset(&h, 0, sizeof h);
    io->log = hear;
    io->log_user = &h;
    return &h;
}
TEST(a_healthy_operation_warns_of_nothing) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t = dcp_array("a", DCP_FP32, a, 2, shape);
    dcp_save_desc s;
    dcp_load_desc l;
    heard *h;
    use_local();
    s = saving("x", &t, 1);
    s.overwrite = 1;
    h = hearing(&s.io);
    save(&s);
    save(&s);
    save(&s);
    CHECK_STR(h->text, "");
    l = loading("x", &t, 1);
    h = hearing(&l.io);
    CHECK_OK(dcp_load(&l, &err));
    CHECK_STR(h->text, "");
    done();
}
static void retry_case(dcp_layout layout) {
    uint8_t data[1000] = {0};
    dcp_tensor t = dcp_bytes("a", data, 1000);
    dcp_save_desc s = saving("x", &t, 1);
    heard *h = hearing(&s.io);
    fill(data, sizeof data, 3);
    s.layout = layout;
    s.io.retry.first_ms = 1;
    s.io.retry.max_ms = 3;
    eye.failing_writes = 2;                             /* the third attempt succeeds */
    save(&s);
    CHECK_INT(h->warnings, 2);
    CHECK(strstr(h->text, "attempt 1 of 3") && strstr(h->text, "attempt 2 of 3") &&
          strstr(h->text, "the test says no"));
    CHECK_INT(count_files(""), layout == DCP_LAYOUT_SINGLE ? 1 : 2);
    memset(data, 0, sizeof data);
    load_from("x", &t, 1);
    CHECK(is_filled(data, sizeof data, 3));
    s.overwrite = 1;
    eye.failing_writes = -1;
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_IO, "the test says no");
    CHECK_INT(err.sys, EIO);
    eye.failing_writes = 1;
    s.io.retry.attempts = 1;
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_IO, "the test says no");
    s.io.retry.attempts = 5;
    eye.sys = ENOSPC;                                   /* will not get better */
    eye.failing_writes = 1;
    CHECK_FAILS(dcp_save(&s, &err), DCP_E_IO, "the test says no");
    eye.sys = EIO;
    CHECK_INT(eye.failing_writes, 0);
    CHECK_INT(count_files(""), layout == DCP_LAYOUT_SINGLE ? 1 : 2);
    load_from("x", &t, 1);
}
TEST(transient_errors_are_retried_into_a_new_file) {
    use_memory();
    use_watch();
    retry_case(DCP_LAYOUT_SHARDED);
    done();
    use_local();
    use_watch();
    retry_case(DCP_LAYOUT_SINGLE);
    done();
}
TEST(a_read_that_fails_says_where) {
    uint8_t data[1000] = {0};
    dcp_tensor t = dcp_bytes("bytes", data, 1000);
    dcp_load_desc l;
    fill(data, sizeof data, 3);
    use_memory();
    use_watch();
    save_as("x", &t, 1);
    l = loading("x", &t, 1);
    l.io.retry.attempts = 1;
    eye.failing_reads = -1;
    CHECK_FAILS(dcp_load(&l, &err), DCP_E_IO, "shard 0, tensor \"bytes\": the test says no");
    CHECK_INT(err.sys, EIO);
    done();
}

/* ==== minimum step, signatures ==================================================================================== */
static const char secret[] = "sixteen bytes or more", other_secret[] = "another secret of mine";

static void save_step(const char *name, int64_t step, dcp_layout layout, const dcp_signer *signer) {
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
static dcp_status load_checked(const char *name, int64_t minimum, const dcp_verifier *verifier) {
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
/* ---- what callbacks return: whatever it is, the caller gets a status that means what its name says ---- */
static dcp_status odd_status;
static const char *odd_words;           /* "": it gives no reason */
static dcp_status odd_result(dcp_error *e) {
    return odd_words[0] && e ? dcpi_fail(e, odd_status, "%s", odd_words) : odd_status;
}
static dcp_status odd_sign(void *context, const void *message, size_t size, uint8_t *signature, dcp_error *e) {
    (void)context; (void)message; (void)size; (void)signature;
    return odd_result(e);
}
static dcp_status odd_verify(void *context, const char *key, const void *message, size_t size,
                             const uint8_t *signature, dcp_error *e) {
    (void)context; (void)key; (void)message; (void)size; (void)signature;
    return odd_result(e);
}
static dcp_status odd_write(void *context, void *object, int64_t offset, const void *data, size_t size, dcp_error *e) {
    (void)context; (void)object; (void)offset; (void)data; (void)size;
    return odd_result(e);
}
static dcp_status odd_copy(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                           uint64_t *ticket, dcp_error *e) {
    (void)context; (void)host; (void)tensor; (void)offset; (void)size;
    *ticket = 0;
    return odd_result(e);
}
static dcp_status odd_wait(void *context, uint64_t ticket, dcp_error *e) {
    (void)context; (void)ticket;
    return odd_result(e);
}
static dcp_status odd_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                           dcp_error *e) {
    (void)context; (void)to; (void)tag; (void)data; (void)size; (void)timeout_ms;
    return odd_result(e);
}
static dcp_status odd_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                              dcp_error *e) {
    (void)context; (void)from; (void)tag; (void)timeout_ms;
    *data = NULL;
    *size = 0;
    return odd_result(e);
}
typedef enum odd_kind { ODD_SIGNER, ODD_VERIFIER, ODD_STORAGE, ODD_DEVICE, ODD_COORDINATOR, ODD_KINDS } odd_kind;

/* An operation whose callback of that kind returns `status`. */
static dcp_status with_odd(odd_kind kind, dcp_status status) {
    float a[2] = { 1, 2 };
    dcp_tensor t = vector("a", DCP_FP32, a, 2);
    dcp_save_desc desc = saving("odd", &t, 1);
    dcp_signer signer = DCP_ZERO;
    dcp_verifier verifier = DCP_ZERO;
    dcp_storage storage = *store;
    dcp_device device = DCP_ZERO;
    dcp_coordinator coordinator = DCP_ZERO;
    odd_status = status;
    signer.algorithm = verifier.algorithm = "odd";
    signer.size = verifier.size = 8;
    signer.sign = odd_sign;
    verifier.verify = odd_verify;
    storage.write = odd_write;
    device.copy_out = odd_copy;
    device.wait = odd_wait;
    coordinator.world_size = 2;
    coordinator.send = odd_send;
    coordinator.receive = odd_receive;
    if (kind == ODD_VERIFIER) return load_checked("sealed", 0, &verifier);
    if (kind == ODD_SIGNER) desc.signer = &signer;
    if (kind == ODD_STORAGE) desc.io.storage = &storage;
    if (kind == ODD_DEVICE) t.device = &device;
    if (kind == ODD_COORDINATOR) desc.io.coordinator = &coordinator;
    desc.io.timeout_ms = 1000;
    desc.io.retry.attempts = 1;
    return dcp_save(&desc, &err);
}
TEST(what_a_callback_returns_is_judged) {
    static const dcp_status instead[ODD_KINDS] = { DCP_E_SIGNATURE, DCP_E_SIGNATURE, DCP_E_IO, DCP_E_DEVICE,
                                                   DCP_E_COMM };
    static const int wrong[] = { -1, 99, 1 << 30, DCP_E_UNKNOWN };
    static const int told[] = { DCP_E_IO, DCP_E_MEMORY, DCP_E_TIMEOUT, DCP_E_CANCELLED };
    dcp_signer signer = DCP_ZERO;
    int kind, i;
    use_memory();
    odd_words = "";
    odd_status = DCP_OK;
    signer.algorithm = "odd";
    signer.size = 8;
    signer.sign = odd_sign;
    save_step("sealed", 1, DCP_LAYOUT_SHARDED, &signer);
    for (kind = 0; kind < ODD_KINDS; kind++) {
        for (i = 0; i < (int)DCPI_COUNT(wrong); i++) {
            odd_words = "";
            CHECK_FAILS(with_odd((odd_kind)kind, (dcp_status)wrong[i]), instead[kind],
                        kind == ODD_VERIFIER ? "does not match" : "no reason");
            odd_words = "words of its own";
            CHECK_FAILS(with_odd((odd_kind)kind, (dcp_status)wrong[i]), instead[kind],
                        kind == ODD_VERIFIER ? "" : "words of its own");
        }
        for (i = 0; i < (int)DCPI_COUNT(told); i++) {
            /* deadlines and cancels are the library's: a storage that gave up waiting has met an error */
            const int is_of_wait = told[i] == DCP_E_TIMEOUT || told[i] == DCP_E_CANCELLED;
            const dcp_status wanted = kind == ODD_STORAGE && is_of_wait ? DCP_E_IO : (dcp_status)told[i];
            odd_words = "";
            CHECK_FAILS(with_odd((odd_kind)kind, (dcp_status)told[i]), wanted,
                        told[i] == DCP_E_TIMEOUT ? "" : "no reason");
            odd_words = "words of its own";
            CHECK_FAILS(with_odd((odd_kind)kind, (dcp_status)told[i]), wanted, "words of its own");
        }
        /* "there is no checkpoint" is nobody's to say but a storage's, which is asked for it */
        odd_words = "no such key";
        if (kind != ODD_STORAGE) CHECK_FAILS(with_odd((odd_kind)kind, DCP_E_NOT_FOUND), instead[kind], "");
        if (kind != ODD_COORDINATOR) CHECK_FAILS(with_odd((odd_kind)kind, DCP_PENDING), instead[kind], "");
    }
    CHECK_INT(count_files(""), 2);
    done();
}
TEST(an_older_checkpoint_than_wanted_is_refused) {
    dcp_signer signer = dcp_hmac_signer(secret, sizeof secret, "k");
    dcp_verifier verifier = dcp_hmac_verifier(secret, sizeof secret);
    use_memory();
    save_step("x", 7, DCP_LAYOUT_SHARDED, &signer);
    CHECK_OK_MESSAGE(load_checked("x", 0, NULL), err.message);
    CHECK_OK_MESSAGE(load_checked("x", 7, NULL), err.message);
    CHECK_FAILS(load_checked("x", 8, NULL), DCP_E_MISMATCH, "step 7");
    CHECK_OK_MESSAGE(load_checked("x", 7, &verifier), err.message);
    CHECK_FAILS(load_checked("x", 8, &verifier), DCP_E_SIGNATURE, "minimum_step is 8");
    save_step("y", -1, DCP_LAYOUT_SHARDED, NULL);
    CHECK_OK_MESSAGE(load_checked("y", 0, NULL), err.message);
    CHECK_FAILS(load_checked("y", 1, NULL), DCP_E_MISMATCH, "minimum_step");
    done();
}
static void signature_case(dcp_layout layout, const char *commit) {
    dcp_signer signer = dcp_hmac_signer(secret, sizeof secret, "key-1");
    dcp_verifier verifier = dcp_hmac_verifier(secret, sizeof secret),
                            wrong = dcp_hmac_verifier(other_secret, sizeof other_secret);
    dcp_open_desc desc = opening("signed");
    dcp_checkpoint *c;
    size_t size, i;
    uint8_t *data;
    save_step("signed", 1, layout, &signer);
    save_step("unsigned", 1, layout, NULL);
    CHECK_OK_MESSAGE(load_checked("signed", 0, &verifier), err.message);
    CHECK_OK_MESSAGE(load_checked("signed", 0, NULL), err.message);     /* who has no key still can */
    CHECK_FAILS(load_checked("signed", 0, &wrong), DCP_E_SIGNATURE, "");
    CHECK_FAILS(load_checked("unsigned", 0, &verifier), DCP_E_SIGNATURE, "");
    c = open_at("signed");
    CHECK_STR(dcp_metadata_of(c)->signature_algorithm, "hmac-sha256");
    CHECK_STR(dcp_metadata_of(c)->signature_key, "key-1");
    dcp_close(c);
    desc.verifier = &verifier;
    desc.verify = DCP_VERIFY_NONE;
    CHECK_FAILS(dcp_open(&desc, &c, &err), DCP_E_INVALID, "DCP_VERIFY_NONE");
    data = get(commit, &size);
    for (i = 0; i + 5 < size; i++) if (memcmp(data + i, "\"step\"", 6) == 0) break;
    CHECK(i + 8 < size);
    data[i + 8] = '9';                                  /* "step": 1 becomes 9 */
    put(commit, data, size);
    dcp_free(data);
    CHECK_FAILS(load_checked("signed", 0, &verifier), DCP_E_SIGNATURE, "");
    CHECK_FAILS(load_checked("signed", 0, NULL), DCP_E_CHECKSUM, "");
}
TEST(a_signature_covers_the_document) {
    use_memory();
    signature_case(DCP_LAYOUT_SHARDED, "signed.metadata.json");
    done();
    use_local();
    signature_case(DCP_LAYOUT_SINGLE, "signed.checkpoint");
    done();
}
/* The data is under the signature too, through its digests. */
TEST(data_that_does_not_fit_a_signed_document) {
    dcp_signer signer = dcp_hmac_signer(secret, sizeof secret, "key-1");
    dcp_verifier verifier = dcp_hmac_verifier(secret, sizeof secret);
    use_memory();
    save_step("x", 1, DCP_LAYOUT_SHARDED, &signer);
    flip("x_shard_0.bin", 5);
    CHECK_FAILS(load_checked("x", 0, &verifier), DCP_E_CHECKSUM, "x_shard_0.bin");
    done();
}
static dcp_status refuse_to_sign(void *context, const void *message, size_t size, uint8_t *signature,
                                 dcp_error *error) {
    (void)context; (void)message; (void)size; (void)signature;
    return dcpi_fail(error, DCP_E_IO, "the token was pulled out");
}
TEST(a_signer_that_fails_leaves_nothing) {
    float a[2] = { 1, 2 };
    dcp_tensor t = vector("a", DCP_FP32, a, 2);
    dcp_signer signer = DCP_ZERO, weak = dcp_hmac_signer("short", 5, "k");
    dcp_save_desc desc;
    int layout;
    use_memory();
    signer.algorithm = "token";
    signer.key_id = "k";
    signer.size = 64;
    signer.sign = refuse_to_sign;
    for (layout = 0; layout < 2; layout++) {
        desc = saving("x", &t, 1);
        desc.layout = layout ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        desc.io.retry.attempts = 1;
        desc.signer = &signer;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_IO, "pulled out");
        desc.signer = &weak;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "at least 16");
        CHECK_INT(count_files(""), 0);
    }
    done();
}

/* ==== the document ================================================================================================ */
TEST(training_sharding_and_fields_come_back) {
    float a[2] = { 1, 2 };
    dcp_tensor t = vector("a", DCP_BF16, a, 4);
    dcp_training training = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_field fields[3];
    dcp_save_desc desc;
    dcp_checkpoint *c;
    const dcp_metadata *m;
    int layout;
    use_memory();
    training.epoch = 5;
    training.step = INT64_C(9007199254740993);          /* more than a double holds */
    training.learning_rate = 0.00030000000000000003;
    training.optimizer_type = "adamw \"fused\"";
    training.optimizer_state = "{ \"beta1\": 0.9, \"list\": [1, 2, {}] }";
    training.extra = "\"warmup\": 100";
    sharding.strategy = "tensor_parallel";
    sharding.shard_count = 1;
    sharding.precision = "mixed";
    sharding.info = "{ \"mesh\": [8, 4] }";
    fields[0].key = "git";                 fields[0].value = "abc123";
    fields[1].key = "";                    fields[1].value = "";
    fields[2].key = "\xc3\xbc\"\n\\key";   fields[2].value = "\xf0\x9f\x8c\xb3 / \t \x01";
    for (layout = 0; layout < 2; layout++) {
        desc = saving(layout ? "one" : "many", &t, 1);
        desc.layout = layout ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        desc.training = &training;
        desc.sharding = &sharding;
        desc.fields = fields;
        desc.field_count = 3;
        save(&desc);
        c = open_at(layout ? "one" : "many");
        m = dcp_metadata_of(c);
        CHECK(dcp_training_of(c) == &m->training);
        CHECK(m->training.epoch == 5 && m->training.step == training.step &&
              m->training.learning_rate == training.learning_rate);
        CHECK_STR(m->training.optimizer_type, training.optimizer_type);
        CHECK(strstr(m->training.optimizer_state, "\"beta1\": 0.9") != NULL);
        CHECK(strstr(m->training.extra, "\"warmup\": 100") != NULL);
        CHECK_STR(m->sharding.strategy, "tensor_parallel");
        CHECK_STR(m->sharding.precision, "mixed");
        CHECK(strstr(m->sharding.info, "mesh") != NULL);
        CHECK_INT(m->sharding.shard_count, 1);
        CHECK_INT(m->field_count, 3);
        CHECK_STR(dcp_field_find(m, "git"), "abc123");
        CHECK_STR(dcp_field_find(m, ""), "");
        CHECK_STR(dcp_field_find(m, fields[2].key), fields[2].value);
        CHECK(dcp_field_find(m, "none") == NULL);
        dcp_close(c);
    }
    done();
}
TEST(what_is_not_given_is_derived) {
    float a[2] = { 1, 2 };
    int64_t whole = 8, offset = 0;
    dcp_tensor t[3];
    dcp_checkpoint *c;
    use_memory();
    t[0] = vector("a", DCP_FP32, a, 1);
    t[1] = vector("b", DCP_BF16, a, 4);
    t[2] = vector("c", DCP_INT8, a, 3);
    save_as("x", t, 3);
    c = open_at("x");
    CHECK(dcp_training_of(c) == NULL);
    CHECK_STR(dcp_metadata_of(c)->sharding.strategy, "none");
    CHECK_STR(dcp_metadata_of(c)->sharding.precision, "bf16");          /* the type that most bytes have */
    CHECK_INT(dcp_metadata_of(c)->world_size, 1);
    CHECK_INT(dcp_metadata_of(c)->ddp_rank, 0);
    CHECK_STR(dcp_metadata_of(c)->version, DCP_FORMAT_VERSION);
    CHECK_INT(dcp_metadata_of(c)->is_foreign, 0);
    dcp_close(c);
    whole = 4;
    dcp_piece(&t[1], &whole, &offset);
    save_as("y", t, 3);
    c = open_at("y");
    CHECK_STR(dcp_metadata_of(c)->sharding.strategy, "sharded");
    CHECK_INT(dcp_tensor_find(c, "b")->placement, DCP_PLACE_SHARDED);
    dcp_close(c);
    done();
}
static dcp_status save_described(const dcp_training *training, const dcp_sharding *sharding, const dcp_field *fields,
                                 size_t count) {
    dcp_save_desc desc = saving("x", NULL, 0);
    desc.training = training;
    desc.sharding = sharding;
    desc.fields = fields;
    desc.field_count = count;
    return dcp_save(&desc, &err);
}
TEST(what_no_document_can_say_is_refused) {
    dcp_training training = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_field fields[2] = { { "k", "1" }, { "k", "2" } };
    double zero = 0;
    use_memory();
    CHECK_FAILS(save_described(NULL, NULL, fields, 2), DCP_E_INVALID, "\"k\"");
    fields[1].key = NULL;
    CHECK_FAILS(save_described(NULL, NULL, fields, 2), DCP_E_INVALID, "fields[1]");
    fields[1].key = "\xff";
    CHECK_FAILS(save_described(NULL, NULL, fields, 2), DCP_E_INVALID, "UTF-8");
    CHECK_FAILS(save_described(NULL, NULL, NULL, 1), DCP_E_INVALID, "fields");
    training.learning_rate = zero / zero;
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "learningRate");
    training.learning_rate = 0;
    training.optimizer_state = "{ \"a\": 1, \"a\": 2 }";
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "optimizerState");
    training.optimizer_state = "[]";
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "optimizerState");
    training.optimizer_state = "{ \"a\": [1e400] }";     /* dcp_json_parse would refuse it */
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "beyond the doubles");
    training.optimizer_state = NULL;
    training.extra = "\"a\": -1e400";
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "beyond the doubles");
    sharding.info = "{";
    CHECK_FAILS(save_described(NULL, &sharding, NULL, 0), DCP_E_INVALID, "strategySpecificInfo");
    sharding.info = "{\"a\":1e400}";
    CHECK_FAILS(save_described(NULL, &sharding, NULL, 0), DCP_E_INVALID, "beyond the doubles");
    CHECK_INT(count_files(""), 0);
    done();
}

/* ==== the report, names, overwriting ============================================================================== */
static void report_body(void) {
    uint8_t data[1000] = {0};
    dcp_tensor t = dcp_bytes("a", data, 1000);
    dcp_save_report report;
    dcp_save_desc desc = saving("x", &t, 1);
    dcp_checkpoint *c;
    int i;
    memset(&report, 0x7F, sizeof report);
    desc.report = &report;
    save(&desc);
    CHECK(dcpi_is_save_id(report.save_id));
    CHECK_INT(report.sequence, 1);
    CHECK_STR(report.path, at("x.metadata.json"));
    CHECK_INT(report.bytes_written, size_of("x.metadata.json") + size_of("x_shard_0.bin"));
    CHECK(report.bytes_reused == 0 && report.bytes_in_begin == 0 && report.seconds >= 0);
    CHECK_INT(report.not_durable, store ? DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY : 0);
    c = open_at("x");
    CHECK_STR(dcp_metadata_of(c)->save_id, report.save_id);
    CHECK_STR(dcp_path_of(c), report.path);
    dcp_close(c);
    for (i = 2; i < 5; i++) {                        /* 1 + the highest that is there, whatever the checkpoint's name */
        char name[20];
        (void)snprintf(name, sizeof name, "other %d", i);
        desc.path = at(name);
        desc.layout = i == 3 ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        save(&desc);
        CHECK_INT(report.sequence, i);
    }
    memset(&report, 0x7F, sizeof report);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_EXISTS, "other 4");
    CHECK(dcpi_is_save_id(report.save_id));             /* as far as it came */
}
TEST(the_report_tells_what_was_done) { on_local_and_memory(report_body); }

static void check_content(const char *name, uint8_t value) {
    uint8_t data[50] = {0};
    dcp_tensor t = dcp_bytes("a", data, 50);
    load_from(name, &t, 1);
    CHECK(is_all(data, 50, value));
}
/* Saves 50 bytes of that value. */
static dcp_save_report save_value(const char *name, uint8_t value, int overwrite, int unique, dcp_layout layout) {
    uint8_t data[50] = {0};
    dcp_tensor t = dcp_bytes("a", data, 50);
    dcp_save_report report;
    dcp_save_desc desc = saving(name, &t, 1);
    memset(data, value, sizeof data);
    desc.overwrite = overwrite;
    desc.unique_names = unique;
    desc.layout = layout;
    desc.report = &report;
    save(&desc);
    check_content(name, value);
    return report;
}
static dcp_status try_save(const char *name, int overwrite, dcp_layout layout) {
    uint8_t data[50] = {0};
    dcp_tensor t = dcp_bytes("a", data, 50);
    dcp_save_desc desc = saving(name, &t, 1);
    desc.overwrite = overwrite;
    desc.layout = layout;
    return dcp_save(&desc, &err);
}
static const char *unique_name(const dcp_save_report *report) {
    static char name[100];
    (void)snprintf(name, sizeof name, "x_shard_0.%s.bin", report->save_id);
    return name;
}
static void overwrite_body(void) {
    dcp_save_report first, second, third;
    first = save_value("x", 1, 1, 0, DCP_LAYOUT_SHARDED);              /* nothing there to replace: fine */
    CHECK(is_there("x_shard_0.bin"));
    CHECK_FAILS(try_save("x", 0, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "overwrite");
    check_content("x", 1);
    second = save_value("x", 2, 1, 0, DCP_LAYOUT_SHARDED);
    CHECK_INT(second.sequence, first.sequence + 1);
    CHECK(strcmp(first.save_id, second.save_id) != 0);
    CHECK(!is_there("x_shard_0.bin") && is_there(unique_name(&second)));
    CHECK_INT(count_files(""), 2);
    third = save_value("x", 3, 1, 0, DCP_LAYOUT_SHARDED);
    CHECK_INT(third.sequence, second.sequence + 1);
    CHECK(!is_there(unique_name(&second)) && is_there(unique_name(&third)));
    CHECK_INT(count_files(""), 2);
    verify_at("x");
}
TEST(overwriting_replaces_names_and_counts_on) { on_local_and_memory(overwrite_body); }

static void overwrite_single_body(void) {
    dcp_save_report first = save_value("x", 1, 0, 0, DCP_LAYOUT_SINGLE), second;
    CHECK_FAILS(try_save("x", 0, DCP_LAYOUT_SINGLE), DCP_E_EXISTS, "x.checkpoint");
    check_content("x", 1);
    second = save_value("x", 2, 1, 0, DCP_LAYOUT_SINGLE);
    CHECK_INT(second.sequence, first.sequence + 1);
    CHECK_INT(count_files(""), 1);
}
TEST(overwriting_a_single_file) { on_local_and_memory(overwrite_single_body); }

static void names_of_shards_body(void) {
    dcp_save_report report = save_value("x", 1, 0, 1, DCP_LAYOUT_SHARDED);
    CHECK(is_there(unique_name(&report)) && !is_there("x_shard_0.bin"));
    drop("x.metadata.json");
    report = save_value("x", 2, 0, 0, DCP_LAYOUT_SHARDED);              /* a leftover of that prefix: no plain name */
    CHECK(is_there(unique_name(&report)) && !is_there("x_shard_0.bin"));
    put_text("y_shard_7.txt", "whatever it is");
    report = save_value("y", 3, 0, 0, DCP_LAYOUT_SHARDED);
    CHECK(!is_there("y_shard_0.bin"));
    put_text("zz_shard_0.bin", "another prefix");
    report = save_value("z", 4, 0, 0, DCP_LAYOUT_SHARDED);
    CHECK(is_there("z_shard_0.bin"));
    CHECK(is_there("y_shard_7.txt") && is_there("zz_shard_0.bin"));
}
TEST(plain_names_only_where_nothing_was) { on_local_and_memory(names_of_shards_body); }

static void other_layout_body(void) {
    (void)save_value("x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    CHECK_FAILS(try_save("x", 0, DCP_LAYOUT_SINGLE), DCP_E_EXISTS, "x.metadata.json");
    CHECK_FAILS(try_save("x", 1, DCP_LAYOUT_SINGLE), DCP_E_EXISTS, "another layout");
    check_content("x", 1);
    (void)save_value("y", 2, 0, 0, DCP_LAYOUT_SINGLE);
    CHECK_FAILS(try_save("y", 1, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "y.checkpoint");
    check_content("y", 2);
    put_text("z.manifest.yaml", "a: 1\n");
    CHECK_FAILS(try_save("z", 1, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "z.manifest.yaml");
    CHECK_INT(count_files(""), 4);
}
TEST(another_layout_there_is_in_the_way) { on_local_and_memory(other_layout_body); }

static void two_commits_body(void) {
    size_t size;
    uint8_t *single;
    (void)save_value("x", 1, 0, 0, DCP_LAYOUT_SINGLE);
    single = get("x.checkpoint", &size);
    drop("x.checkpoint");
    (void)save_value("x", 2, 0, 0, DCP_LAYOUT_SHARDED);
    put("x.checkpoint", single, size);
    dcp_free(single);
    CHECK_FAILS(try_load("x", NULL, 0), DCP_E_INVALID, "x.metadata.json");
    CHECK_FAILS(try_load("x", NULL, 0), DCP_E_INVALID, "x.checkpoint");
    check_content("x.checkpoint", 1);                   /* the path of a commit file says which */
    check_content("x.metadata.json", 2);
    CHECK_FAILS(try_save("x", 1, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "x");
}
TEST(two_commit_files_of_one_prefix) { on_local_and_memory(two_commits_body); }

static void suffix_body(void) {
    static const char *const suffixes[] = { ".metadata.json", ".checkpoint", ".manifest.json", ".manifest.yaml" };
    char name[100];
    size_t i;
    for (i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "a%d%s", (int)i, suffixes[i]);
        CHECK_OK_MESSAGE(try_save(name, 0, DCP_LAYOUT_SHARDED), err.message);
        (void)snprintf(name, sizeof name, "a%d.metadata.json", (int)i);
        CHECK(is_there(name));
        (void)snprintf(name, sizeof name, "b%d%s", (int)i, suffixes[i]);
        CHECK_OK_MESSAGE(try_save(name, 0, DCP_LAYOUT_SINGLE), err.message);
        (void)snprintf(name, sizeof name, "b%d.checkpoint", (int)i);
        CHECK(is_there(name));
        verify_at(name);
    }
    CHECK_FAILS(try_save("x.checkpoint.metadata.json", 0, DCP_LAYOUT_SHARDED), DCP_E_INVALID, "suffix");
}
TEST(a_suffix_is_stripped) { on_local_and_memory(suffix_body); }

static void prefix_length_body(void) {
    char name[300] = "";
    memset(name, 'p', 180);
    CHECK_OK_MESSAGE(try_save(name, 0, DCP_LAYOUT_SHARDED), err.message);
    verify_at(name);
    CHECK_OK_MESSAGE(try_save(name, 1, DCP_LAYOUT_SHARDED), err.message);
    memcpy(name + 180, ".checkpoint", 12);
    memcpy(name, "q", 1);
    CHECK_OK_MESSAGE(try_save(name, 0, DCP_LAYOUT_SINGLE), err.message);
    verify_at(name);
    memset(name, 'p', 181);
    name[181] = '\0';
    CHECK_FAILS(try_save(name, 0, DCP_LAYOUT_SHARDED), DCP_E_INVALID, "180");
    memset(name, 'p', 250);
    name[250] = '\0';
    CHECK_FAILS(try_save(name, 0, DCP_LAYOUT_SINGLE), DCP_E_INVALID, "180");
}
TEST(a_prefix_has_at_most_180_bytes) { on_local_and_memory(prefix_length_body); }

static void bad_path_body(void) {
    static const char *const bad[] = {
        "", "x/", ".", "..", "x/..", "tab\t", "\xff", "a:b", "aa:b", "x/a:b",
#ifndef _WIN32                              /* where it separates */
        "a\\b",
#endif
    };
    size_t i;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dcp_save_desc s = saving(bad[i], NULL, 0);
        dcp_load_desc l = loading(bad[i], NULL, 0);
        CHECK_FAILS(dcp_save(&s, &err), DCP_E_INVALID, "");
        CHECK(dcp_load(&l, &err) == DCP_E_INVALID);
    }
    CHECK_INT(count_files(""), 0);
}
TEST(bad_paths_are_refused) { on_local_and_memory(bad_path_body); }

TEST(keys_of_a_storage_stay_inside) {
    static const char *const bad[] = { "/x", "../x", "a/../x", "a//x", "./x", "a/./x" };
    size_t i;
    use_memory();
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_FAILS(try_save(bad[i], 0, DCP_LAYOUT_SHARDED), DCP_E_INVALID, "");
        CHECK_FAILS(try_load(bad[i], NULL, 0), DCP_E_INVALID, "");
    }
    CHECK_INT(count_files(""), 0);
    done();
}
static void directories_body(void) {
    (void)save_value("runs/a/b c/x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    (void)save_value("runs/a/b c/y", 2, 0, 0, DCP_LAYOUT_SINGLE);
    (void)save_value("runs/x", 3, 0, 0, DCP_LAYOUT_SHARDED);
    check_content("runs/a/b c/x.metadata.json", 1);
    CHECK_INT(count_files("runs/a/b c"), 3);
    CHECK_INT(count_files("runs"), 2);
    CHECK_INT(count_files(""), 0);
}
TEST(directories_are_made) { on_local_and_memory(directories_body); }

#ifndef _WIN32
TEST(a_relative_path_and_one_without_a_directory) {
    char before[TEST_PATH];
    float x = 1;
    dcp_tensor t = dcp_scalar("x", DCP_FP32, &x);
    dcp_save_desc s;
    dcp_load_desc l;
    dcp_status results[4];
    use_local();
    CHECK(getcwd(before, sizeof before) != NULL);
    CHECK_INT(chdir(dir), 0);
    s = saving("", &t, 1);
    l = loading("", &t, 1);
    s.path = l.path = "plain";
    results[0] = dcp_save(&s, &err);
    results[1] = dcp_load(&l, &err);
    s.path = "./sub/./plain";
    l.path = "sub//plain.metadata.json";
    results[2] = dcp_save(&s, &err);
    results[3] = dcp_load(&l, &err);
    CHECK_INT(chdir(before), 0);
    CHECK(results[0] == DCP_OK && results[1] == DCP_OK && results[2] == DCP_OK && results[3] == DCP_OK);
    CHECK(is_there("plain.metadata.json") && is_there("sub/plain.metadata.json"));
    done();
}
/* The caller's own path may pass through symbolic links; what a document names may not. */
TEST(symbolic_links) {
    char link[TEST_PATH + 20], target[TEST_PATH + 20];
    use_local();
    (void)save_value("real/x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    (void)snprintf(link, sizeof link, "%s/link", dir);
    CHECK_INT(symlink("real", link), 0);
    check_content("link/x", 1);
    (void)save_value("link/y", 2, 0, 0, DCP_LAYOUT_SHARDED);
    check_content("real/y", 2);
    (void)snprintf(link, sizeof link, "%s/real/x_shard_0.bin", dir);
    (void)snprintf(target, sizeof target, "%s/real/elsewhere", dir);
    CHECK_INT(rename(link, target), 0);
    CHECK_INT(symlink("elsewhere", link), 0);
    CHECK(try_save("real/z", 0, DCP_LAYOUT_SHARDED) == DCP_OK);
    {
        uint8_t data[50] = {0};
        dcp_tensor t = dcp_bytes("a", data, 50);
        CHECK(try_load("real/x", &t, 1) != DCP_OK);
    }
    done();
}
#endif
/* G10: a directory of checkpoints can be moved, renamed, or copied into another storage. */
TEST(a_directory_can_be_moved) {
    char from[TEST_PATH + 20], to[TEST_PATH + 20];
    static const char *const all[] = { "x.metadata.json", "x_shard_0.bin", "y.checkpoint" };
    uint8_t *bytes[3];
    size_t sizes[3];
    int i;
    use_local();
    (void)save_value("old/x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    (void)save_value("old/y", 2, 0, 0, DCP_LAYOUT_SINGLE);
    (void)snprintf(from, sizeof from, "%s/old", dir);
    (void)snprintf(to, sizeof to, "%s/new name", dir);
    CHECK_INT(rename(from, to), 0);
    check_content("new name/x", 1);
    check_content("new name/y", 2);
    verify_at("new name/x");
    for (i = 0; i < 3; i++) {
        char name[100];
        (void)snprintf(name, sizeof name, "new name/%s", all[i]);
        bytes[i] = get(name, &sizes[i]);
    }
    done();
    use_memory();
    for (i = 0; i < 3; i++) {
        char name[100];
        (void)snprintf(name, sizeof name, "deep/er/%s", all[i]);
        put(name, bytes[i], sizes[i]);
        dcp_free(bytes[i]);
    }
    check_content("deep/er/x", 1);
    check_content("deep/er/y", 2);
    done();
}

/* ---- two programs at one path: each of these happens in the middle of a save or load ----------------------------- */
static int meanwhile_left;              /* so many opens of that name until it happens */
static const char *meanwhile_name;
static void meanwhile_save(uint8_t value) {
    static uint8_t data[50];
    dcp_error error;
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor t;
    memset(data, value, sizeof data);
    t = dcp_bytes("a", data, 50);
    desc.path = "x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.overwrite = 1;
    desc.io.storage = eye.inner;
    if (dcp_save(&desc, &error)) printf("meanwhile: %s\n", error.message);
}
static void meanwhile(const char *path) {
    if (strcmp(path, meanwhile_name) != 0 || --meanwhile_left != 0) return;
    meanwhile_save(99);
}
static void happens_at_open(const char *name, int number) {
    meanwhile_name = name;
    meanwhile_left = number;
    eye.on_open = meanwhile;
}
TEST(a_checkpoint_replaced_while_it_is_read_is_read_again) {
    use_memory();
    (void)save_value("x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    use_watch();
    happens_at_open("x_shard_0.bin", 1);                /* between the document and the data */
    check_content("x", 99);
    CHECK(meanwhile_left <= 0);
    done();
}
/* It is opened again at most three times. */
static int replaced_count;
static void replace_each_time(const char *path) {
    if (!strstr(path, "_shard_")) return;
    replaced_count++;
    meanwhile_save((uint8_t)replaced_count);
}
TEST(a_checkpoint_replaced_again_and_again) {
    uint8_t data[50] = {0};
    dcp_tensor t = dcp_bytes("a", data, 50);
    dcp_status status;
    use_memory();
    (void)save_value("x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    use_watch();
    replaced_count = 0;
    eye.on_open = replace_each_time;
    status = try_load("x", &t, 1);
    CHECK(status == DCP_E_INCOMPLETE && replaced_count >= 4 && replaced_count < 50);
    eye.on_open = NULL;
    check_content("x", (uint8_t)replaced_count);
    done();
}
TEST(overwriting_what_somebody_else_has_just_overwritten) {
    dcp_sweep_desc sweep = DCP_ZERO;
    use_memory();
    (void)save_value("x", 1, 0, 0, DCP_LAYOUT_SHARDED);
    use_watch();
    happens_at_open("x.metadata.json", 3);  /* the displaced document, its sequence, then once more before the commit */
    CHECK_FAILS(try_save("x", 1, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "somebody else");
    CHECK_INT(meanwhile_left, 0);
    check_content("x", 99);
    CHECK_INT(count_files(""), 2);            /* the other one has removed the plain name, with the lock of that path */
    sweep.directory = "";
    sweep.grace_seconds = -1;
    sweep.plain_names = 1;
    sweep.io.storage = eye.inner;
    CHECK_OK(dcp_sweep(&sweep, NULL, NULL));
    check_content("x", 99);
    CHECK_INT(count_files(""), 2);
    done();
}
static void save_at_commit(const char *path) {
    if (strcmp(path, meanwhile_name) != 0 || --meanwhile_left != 0) return;
    meanwhile_save(77);
}
static void happens_at_commit(const char *name) {
    meanwhile_name = name;
    meanwhile_left = 1;
    eye.on_commit = save_at_commit;
}
TEST(two_saves_to_one_path_at_the_same_time) {
    use_memory();
    use_watch();
    happens_at_commit("x.metadata.json");               /* the other one publishes just before this one would */
    CHECK_FAILS(try_save("x", 0, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "meanwhile");
    CHECK_INT(meanwhile_left, 0);
    eye.on_commit = NULL;
    check_content("x", 77);
    CHECK_INT(count_files(""), 2);
    done();
    use_memory();
    use_watch();
    happens_at_commit("x_shard_0.bin");                 /* and here it has taken the plain name of the shard */
    CHECK_FAILS(try_save("x", 0, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "");
    eye.on_commit = NULL;
    check_content("x", 77);
    verify_at("x");
    CHECK_INT(count_files(""), 2);
    done();
}
TEST(a_plain_name_that_is_taken_meanwhile_is_not_replaced) {
    size_t size;
    uint8_t *got;
    use_memory();
    use_watch();
    eye.on_commit = NULL;
    eye.taken_name = "x_shard_0.bin";                   /* made by somebody just before the commit of this key */
    (void)save_value("x", 5, 0, 0, DCP_LAYOUT_SHARDED);
    got = get("x_shard_0.bin", &size);
    CHECK(size == 5 && memcmp(got, "taken", 5) == 0);
    dcp_free(got);
    CHECK_INT(count_files(""), 3);
    done();
}

/* ==== documents of the seed, written by hand ====================================================================== */
typedef struct seed { char text[8000]; } seed;
static void seed_add(seed *s, const char *format, ...) DCPI_PRINTF(2, 3);
static void seed_add(seed *s, const char *format, ...) {
    size_t used = strlen(s->text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->text + used, sizeof s->text - used, format, arguments);
    va_end(arguments);
}
static void seed_begin(seed *s, int shards) {
    s->text[0] = '\0';
    seed_add(s, "{\n  \"version\": \"1.0.0\",\n  \"timestamp\": \"2024-05-06T07:08:09.1234567+02:00\",\n");
    seed_add(s, "  \"worldSize\": %d,\n  \"ddpRank\": 0,\n", shards);
    seed_add(s, "  \"sharding\": { \"strategy\": \"fsdp\", \"shardCount\": %d, \"precision\": \"fp32\", ", shards);
    seed_add(s, "\"strategySpecificInfo\": null },\n  \"shards\": [\n");
}
/* A shard with one tensor: `count` floats, all `value`, which go into `bytes`. checksum: 1 right, in upper case; 0
 * null. */
static void seed_shard(seed *s, int rank, const char *path, const char *tensor, int count, float value, int checksum,
                       float *bytes) {
    uint8_t digest[32];
    char hex[65] = "";
    int i;
    for (i = 0; i < count; i++) bytes[i] = value;
    dcp_sha256(bytes, (size_t)count * 4, digest);
    for (i = 0; i < 32; i++) (void)snprintf(hex + 2 * i, 3, "%02X", digest[i]);
    seed_add(s, "%s    { \"rank\": %d, \"filePath\": \"%s\", \"fileSize\": %d,\n", rank ? ",\n" : "", rank, path,
             count * 4);
    seed_add(s, "      \"tensors\": [ { \"name\": \"%s\", \"shape\": [%d], \"dataType\": \"Float32\", ", tensor, count);
    seed_add(s, "\"offset\": 0, \"size\": %d } ],\n", count * 4);
    if (checksum) seed_add(s, "      \"checksum\": \"%s\" }", hex);
    else seed_add(s, "      \"checksum\": null }");
}
static void seed_end(seed *s) {
    seed_add(s, "\n  ],\n  \"training\": { \"epoch\": 1, \"step\": 20, \"learningRate\": 0.001, ");
    seed_add(s,
             "\"optimizerType\": null, \"optimizerState\": null },\n  \"customFields\": { \"by\": \"the seed\" }\n}\n");
}
static void check_floats(const char *path, const char *name, int count, float value) {
    float got[64] = {0};
    dcp_tensor t = vector(name, DCP_FP32, got, count);
    int i;
    load_from(path, &t, 1);
    for (i = 0; i < count; i++) CHECK(got[i] == value);
}
static void seed_body(void) {
    seed s;
    float bytes[64] = {0};
    dcp_checkpoint *c;
    dcp_tensor t = vector("w1", DCP_FP32, bytes, 7);
    seed_begin(&s, 2);
    seed_shard(&s, 0, "x_shard_0.bin", "w0", 5, 1.5f, 1, bytes);
    put("x_shard_0.bin", bytes, 20);
    seed_shard(&s, 1, "x_shard_1.bin", "w1", 7, 2.5f, 1, bytes);
    put("x_shard_1.bin", bytes, 28);
    seed_end(&s);
    put_text("x.metadata.json", s.text);
    check_floats("x", "w0", 5, 1.5f);
    check_floats("x", "w1", 7, 2.5f);
    verify_at("x");
    c = open_at("x");
    CHECK_INT(dcp_metadata_of(c)->is_foreign, 1);
    CHECK_INT(dcp_tensor_find(c, "w1")->dtype, DCP_FP32);
    CHECK_INT(dcp_training_of(c)->step, 20);
    CHECK_STR(dcp_field_find(dcp_metadata_of(c), "by"), "the seed");
    dcp_close(c);
    flip("x_shard_1.bin", 3);
    check_floats("x", "w0", 5, 1.5f);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_CHECKSUM, "x_shard_1.bin (shard 1)");
    drop("x_shard_1.bin");
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_INCOMPLETE, "x_shard_1.bin");
}
TEST(seed_document_with_several_shards) { on_local_and_memory(seed_body); }

static void seed_paths_body(void) {
    seed s;
    float bytes[64] = {0};
    seed_begin(&s, 3);
    /* relative to the storage's base, as the seed writes it */
    seed_shard(&s, 0, "run/x_shard_0.bin", "w0", 5, 1, 1, bytes);
    put("run/x_shard_0.bin", bytes, 20);
    seed_shard(&s, 1, "x_shard_1.bin", "w1", 6, 2, 1, bytes);           /* beside the document */
    put("run/x_shard_1.bin", bytes, 24);
    seed_shard(&s, 2, "far/away/x_shard_2.bin", "w2", 7, 3, 0, bytes);  /* the standard name */
    put("run/x_shard_2.bin", bytes, 28);
    seed_end(&s);
    put_text("run/x.metadata.json", s.text);
    check_floats("run/x", "w0", 5, 1);
    check_floats("run/x", "w1", 6, 2);
    check_floats("run/x", "w2", 7, 3);
    verify_at("run/x");
    put("far", "not a directory", 15);
    put("x_shard_1.bin", "a decoy of the same name", 24);
    check_floats("run/x", "w1", 6, 2);
}
TEST(seed_file_paths_are_found_in_three_places) { on_local_and_memory(seed_paths_body); }

/* What is odd about a foreign document goes to the log of the one who opens it. */
TEST(seed_document_loads_with_warnings) {
    seed s;
    float bytes[64] = {0}, got[5];
    dcp_tensor t = vector("w0", DCP_FP32, got, 5);
    dcp_load_desc l;
    heard *h;
    use_local();
    l = loading("x", &t, 1);
    h = hearing(&l.io);
    seed_begin(&s, 1);
    seed_shard(&s, 0, "x_shard_0.bin", "w0", 5, 1.5f, 0, bytes);
    put("x_shard_0.bin", bytes, 20);
    seed_end(&s);
    put_text("x.metadata.json", s.text);
    CHECK_OK_MESSAGE(dcp_load(&l, &err), err.message);
    CHECK(h->warnings > 0);
    CHECK(strstr(h->text, "x.metadata.json") && strstr(h->text, "shard 0 is missing its checksum"));
    done();
}
TEST(seed_document_without_checksums) {
    seed s;
    float bytes[64] = {0};
    dcp_open_desc desc;
    dcp_checkpoint *c;
    heard *h;
    use_memory();
    seed_begin(&s, 1);
    seed_shard(&s, 0, "x_shard_0.bin", "w", 4, 1, 0, bytes);
    seed_end(&s);
    put("x_shard_0.bin", bytes, 16);
    put_text("x.metadata.json", s.text);
    check_floats("x", "w", 4, 1);
    desc = opening("x");
    h = hearing(&desc.io);
    c = open_with(&desc);
    CHECK_OK(dcp_verify(c, &err));
    CHECK(strstr(h->text, "no checksum") != NULL);
    dcp_close(c);
    put("x_shard_0.bin", bytes, 15);
    CHECK_FAILS(verify_now("x"), DCP_E_INCOMPLETE, "15 bytes");
    done();
}
/* In a document of the seed every rank wrote its own: one name on two ranks is private to each. */
static dcp_status gather_text(void *user, const void *data, size_t size, dcp_error *e) {
    char *text = (char *)user;
    size_t used = strlen(text);
    (void)e;
    memcpy(text + used, data, size);
    text[used + size] = '\0';
    return DCP_OK;
}
/* A signature vouches for every byte: a document that was signed without digests is not loaded with a verifier, before
 * and after its bytes are changed. */
static void signed_body(void) {
    static const dcp_verify_policy policies[] = { DCP_VERIFY_TOUCHED, DCP_VERIFY_ALL };
    const dcp_signer signer = dcp_hmac_signer("0123456789abcdef", 16, "k");
    const dcp_verifier verifier = dcp_hmac_verifier("0123456789abcdef", 16);
    static char document[sizeof(seed) + 1000];
    float bytes[64] = {0}, got[4];
    dcp_tensor t = vector("w", DCP_FP32, got, 4);
    dcp_latest_desc latest = DCP_ZERO;
    dcpi_integrity stream;
    char *end, *path;
    size_t i;
    int checksum;
    seed s;
    for (checksum = 0; checksum < 2; checksum++) {
        seed_begin(&s, 1);
        seed_shard(&s, 0, "x_shard_0.bin", "w", 4, 1, checksum, bytes);
        seed_end(&s);
        for (end = s.text + strlen(s.text); *--end != '}';) {}
        *end = '\0';
        document[0] = '\0';
        CHECK_OK(dcpi_integrity_begin(&stream, DCPI_TYPE_METADATA, &signer, gather_text, document, &err));
        CHECK_OK(dcpi_integrity_write(&stream, s.text, strlen(s.text), &err));
        CHECK_OK(dcpi_integrity_end(&stream, &err));
        put("d/x_shard_0.bin", bytes, 16);
        put_text("d/x.metadata.json", document);
        /* who asks for no signature gets what is there */
        CHECK_OK_MESSAGE(try_load("d/x", &t, 1), err.message);
        for (i = 0; i < DCPI_COUNT(policies); i++) {
            dcp_load_desc desc = loading("d/x", &t, 1);
            desc.verifier = &verifier;
            desc.verify = policies[i];
            if (checksum) CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
            else CHECK_FAILS(dcp_load(&desc, &err), DCP_E_SIGNATURE, "shards[0].checksum");
        }
        latest.directory = at("d");
        latest.verifier = &verifier;
        latest.io.storage = store;
        CHECK_INT(dcp_latest(&latest, &path, &err), checksum ? DCP_OK : DCP_E_SIGNATURE);
        dcp_free(path);
    }
}
#ifndef _WIN32
/* What is committed stays loadable, with a warning: a document of other writers, or of a version that did not look. */
static void committed_names_body(void) {
    static const char *const paths[] = { "con.bin", "d./x.bin", "d /x.bin", "a\xe2\x80\xaenib.txt", "NUL", "a?b" };
    size_t i;
    seed s;
    float bytes[64];
    for (i = 0; i < DCPI_COUNT(paths); i++) {
        const char *tensor = i % 2 ? "w" : "w\xe2\x81\xa6";
        dcp_open_desc desc = opening("x");
        dcp_report report;
        dcp_checkpoint *c;
        seed_begin(&s, 1);
        seed_shard(&s, 0, paths[i], tensor, 4, 3, 1, bytes);
        seed_end(&s);
        put(paths[i], bytes, 16);
        put_text("x.metadata.json", s.text);
        check_floats("x", tensor, 4, 3);
        desc.report = &report;
        c = open_with(&desc);
        CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
        CHECK(report.warning_count >= (i % 2 ? 1 : 2));
        CHECK(strstr(report.warning, i % 2 ? "every system" : "turns the direction") != NULL);
        dcp_close(c);
    }
    put_text("aux.metadata.json", s.text);              /* the name of the commit file itself */
    check_floats("aux", "w", 4, 3);
}
TEST(committed_names_stay_loadable) { on_local_and_memory(committed_names_body); }
#endif
/* "w" in two parts, of which nothing says how they fit together, and "v" in one. */
static void check_parts(const char *commit, const char *text) {
    float got[4], parts[2][4] = { { 1, 1, 1, 1 }, { 2, 2, 2, 2 } };
    dcp_tensor t = vector("w", DCP_FP32, got, 4), v = vector("v", DCP_FP32, got, 4), fresh;
    dcp_checkpoint *c;
    int i;
    put("x_shard_0.bin", parts[0], 16);
    put("x_shard_1.bin", parts[1], 16);
    put_text(commit, text);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "2 parts of it, and does not say how they fit together");
    CHECK(strstr(err.message, "dcp_read_rank, as of rank 0 to 1") != NULL);
    c = open_at("x");
    CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_MISMATCH, "2 parts");
    CHECK_FAILS(dcp_read_new(c, "w", &fresh, &err), DCP_E_MISMATCH, "2 parts");
    CHECK_INT(dcp_tensor_find(c, "w")->piece_count, 2);
    for (i = 0; i < 2; i++) {
        memset(got, 0, sizeof got);
        CHECK_OK_MESSAGE(dcp_read_rank(c, i, &t, 1, &err), err.message);
        CHECK(memcmp(got, parts[i], sizeof got) == 0);
    }
    CHECK_FAILS(dcp_read_rank(c, 7, &t, 1, &err), DCP_E_INVALID, "7 is no rank");
    CHECK_OK_MESSAGE(dcp_read(c, &v, 1, &err), err.message);            /* of one part: it is the tensor */
    CHECK(memcmp(got, parts[1], sizeof got) == 0);
    dcp_close(c);
    verify_at("x");
    drop(commit);
}
static void parts_body(void) {
    static const char json[] =
        "{ \"model_id\": \"m\", \"epoch\": 0, \"step\": 1, \"shards\": [\n"
        "{ \"path\": \"x_shard_0.bin\", \"type\": \"dense\", \"tensor_name\": \"w\", \"shape\": [4], \"dtype\": "
        "\"fp32\" },\n"
        "{ \"path\": \"x_shard_1.bin\", \"type\": \"dense\", \"tensor_name\": \"v\", \"shape\": [4], \"dtype\": "
        "\"fp32\" },\n"
        "{ \"path\": \"x_shard_1.bin\", \"type\": \"dense\", \"tensor_name\": \"w\", \"shape\": [4], \"dtype\": "
        "\"fp32\" }\n"
        "], \"metadata_version\": 1 }\n";
    static const char yaml[] =
        "model_id: m\nepoch: 0\nstep: 1\nshards:\n"
        "  - { path: x_shard_0.bin, type: dense, tensor_name: w, shape: [4], dtype: fp32 }\n"
        "  - { path: x_shard_1.bin, type: dense, tensor_name: w, shape: [4], dtype: fp32 }\n"
        "  - { path: x_shard_1.bin, type: dense, tensor_name: v, shape: [4], dtype: fp32 }\n"
        "metadata_version: 1\n";
#define SHARD(rank, path, name) \
        "{ \"rank\": " rank ", \"filePath\": \"" path "\", \"fileSize\": 16, \"tensors\": [ { \"name\": \"" name "\", " \
        "\"shape\": [4], \"dataType\": \"fp32\", \"offset\": 0, \"size\": 16 } ] }"
    static const char metadata[] =                      /* of one rank, which cannot have had them both */
        "{ \"version\": \"1.0.0\", \"timestamp\": \"2024-01-02T03:04:05Z\", \"worldSize\": 1, \"ddpRank\": 0,\n"
        "\"sharding\": { \"strategy\": \"fsdp\", \"shardCount\": 3, \"precision\": \"fp32\" }, \"shards\": [\n"
        SHARD("0", "x_shard_0.bin", "w") ", " SHARD("1", "x_shard_1.bin", "w") ", "
        SHARD("2", "x_shard_1.bin", "v") "] }\n";
    check_parts("x.manifest.json", json);
    check_parts("x.manifest.yaml", yaml);
    check_parts("x.metadata.json", metadata);
}
TEST(parts_of_which_nothing_says_how_they_fit) { on_local_and_memory(parts_body); }
TEST(a_signed_document_without_digests) { on_local_and_memory(signed_body); }
TEST(seed_document_with_one_name_on_two_ranks) {
    seed s;
    float bytes[64], got[4] = {0};
    dcp_tensor t = vector("w", DCP_FP32, got, 4);
    dcp_checkpoint *c;
    use_memory();
    seed_begin(&s, 2);
    seed_shard(&s, 0, "x_shard_0.bin", "w", 4, 1, 1, bytes);
    put("x_shard_0.bin", bytes, 16);
    seed_shard(&s, 1, "x_shard_1.bin", "w", 4, 2, 1, bytes);
    put("x_shard_1.bin", bytes, 16);
    seed_end(&s);
    put_text("x.metadata.json", s.text);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "dcp_read_rank");
    c = open_at("x");
    CHECK_OK_MESSAGE(dcp_read_rank(c, 1, &t, 1, &err), err.message);
    CHECK(got[0] == 2 && got[3] == 2);
    dcp_close(c);
    done();
}
/* As SingleFileCheckpointFormat of seed 002 writes it: header and records, no data. */
static void put_string(dcpi_buffer *b, const char *text, int is_varint) {
    uint8_t length[4];
    dcpi_store32(length, (uint32_t)strlen(text));       /* shorter than 128, so a varint is the first byte */
    dcpi_buffer_add(b, length, is_varint ? 1 : 4);
    dcpi_buffer_text(b, text);
}
static void put_number(dcpi_buffer *b, int64_t value, size_t width) {
    uint8_t bytes[8];
    dcpi_store64(bytes, (uint64_t)value);
    dcpi_buffer_add(b, bytes, width);
}
static void write_seed_single(const char *name, const char *json, const char *tensor, int count) {
    dcpi_buffer b = { NULL, 0, 0, 0 };
    put_number(&b, 0x4D4C4350, 4);
    put_string(&b, "1.0.0", 1);
    put_string(&b, json, 0);
    put_number(&b, 1, 4);                               /* one shard of one tensor */
    put_string(&b, tensor, 0);
    put_string(&b, "Float32", 1);
    put_number(&b, 1, 4);
    put_number(&b, count, 8);
    put_number(&b, count * 4, 8);
    CHECK(!b.failed);
    put(name, b.data, b.size);
    dcpi_buffer_free(&b);
}
static void seed_single_body(void) {
    seed s;
    float bytes[64], got[5] = { 7, 7, 7, 7, 7 };
    dcp_tensor t = vector("w", DCP_FP32, got, 5);
    const void *data;
    size_t size;
    dcp_checkpoint *c;
    int checksum;
    for (checksum = 0; checksum < 2; checksum++) {
        seed_begin(&s, 1);
        seed_shard(&s, 0, "x_shard_0.bin", "w", 5, 1, checksum, bytes);
        seed_end(&s);
        write_seed_single("x.checkpoint", s.text, "w", 5);
        c = open_at("x");
        CHECK_INT(dcp_layout_of(c), DCP_LAYOUT_SINGLE);
        CHECK_INT(dcp_tensor_find(c, "w")->size, 20);
        CHECK_FAILS(dcp_read(c, &t, 1, &err), DCP_E_INCOMPLETE, "");
        CHECK_FAILS(dcp_map(c, "w", &data, &size, &err), DCP_E_INCOMPLETE, "");
        CHECK_FAILS(dcp_verify(c, &err), DCP_E_INCOMPLETE, "");
        CHECK(got[0] == 7 && got[4] == 7);              /* above all not the header's bytes */
        dcp_close(c);
    }
}
TEST(seed_single_file_without_data) { on_local_and_memory(seed_single_body); }

/* ==== the single file ============================================================================================= */
/* Reads a single file as seed 002's .NET code does: BinaryReader, and nothing of ours. */
typedef struct reader { const uint8_t *at, *end; } reader;
static int64_t read_number(reader *r, int width) {
    int64_t value = 0;
    int i;
    CHECK(r->end - r->at >= width);
    for (i = 0; i < width; i++) value |= (int64_t)r->at[i] << (8 * i);
    r->at += width;
    return value;
}
static char *read_text(reader *r, int is_varint) {
    static char text[4][200000];
    static int turn;
    char *to = text[turn = (turn + 1) % 4];
    int64_t length = 0;
    int shift = 0;
    if (is_varint) {
        uint8_t byte;
        do {
            byte = (uint8_t)read_number(r, 1);
            length |= (int64_t)(byte & 0x7F) << shift;
            shift += 7;
        } while (byte & 0x80);
    } else {
        length = read_number(r, 4);
    }
    CHECK(length >= 0 && length < (int64_t)sizeof text[0] && r->end - r->at >= length);
    memcpy(to, r->at, (size_t)length);
    to[length] = '\0';
    r->at += length;
    return to;
}
static void check_tensor_record(reader *r, const dcp_tensor_metadata *t) {
    int d;
    CHECK_STR(read_text(r, 0), t->name);
    CHECK_STR(read_text(r, 1), t->data_type);
    CHECK_INT(read_number(r, 4), t->ndim);
    for (d = 0; d < t->ndim; d++) CHECK_INT(read_number(r, 8), t->shape[d]);
    CHECK_INT(read_number(r, 8), t->size);
}
static void check_as_the_seed_reads(const char *name) {
    size_t size, i, s;
    uint8_t *file = get(name, &size);
    reader r;
    dcp_metadata *m;
    char *json;
    r.at = file;
    r.end = file + size;
    CHECK_INT(read_number(&r, 4), 0x4D4C4350);
    CHECK(memcmp(file, "\x50\x43\x4C\x4D", 4) == 0);
    CHECK_STR(read_text(&r, 1), "1.0.0");
    json = read_text(&r, 0);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, name, NULL, &m, &err), err.message);
    CHECK(strstr(json, "\"version\": \"1.0.0\"") != NULL);
    for (s = 0; s < m->shard_count; s++) {
        CHECK_INT(read_number(&r, 4), m->shards[s].tensor_count);
        for (i = 0; i < m->shards[s].tensor_count; i++) check_tensor_record(&r, &m->shards[s].tensors[i]);
        CHECK_STR(m->shards[s].file_path, name);
        CHECK_INT(m->shards[s].data_offset % 4096, 0);
    }
    CHECK(is_all(r.at, (size_t)(file + m->shards[0].data_offset - r.at), 0));
    CHECK_INT(m->shards[s - 1].data_offset + m->shards[s - 1].file_size, size);
    dcp_metadata_free(m);
    dcp_free(file);
}
TEST(single_file_roundtrip_as_the_seed_reads_it) {
    static char long_name[301];
    uint8_t data[600];
    int64_t shapes[4][3] = { { 2, 3, 4 }, { 7, 1, 0 }, { 5, 5, 2 }, { 1, 1, 1 } };
    dcp_tensor t[5];
    dcp_save_desc desc;
    use_local();
    fill(data, sizeof data, 1);
    memset(long_name, 'w', 300);
    t[0] = dcp_array("f", DCP_FP32, data, 3, shapes[0]);
    t[1] = dcp_array(long_name, DCP_INT64, data, 3, shapes[1]);
    t[2] = dcp_array("h", DCP_BF16, data, 3, shapes[2]);
    t[3] = dcp_scalar("scalar", DCP_COMPLEX128, data);
    t[4] = dcp_array("q", DCP_UINT4, data, 1, shapes[2]);
    desc = saving("x", t, 5);
    desc.layout = DCP_LAYOUT_SINGLE;
    save(&desc);
    check_as_the_seed_reads("x.checkpoint");
    memset(data, 0, sizeof data);
    load_from("x", t, 1);
    CHECK(is_filled(data, 96, 1));
    done();
}
/* Four ranks: row blocks of one tensor, one tensor of each rank's own, one without bytes. */
static void write_four(world *w) {
    static float rows[4][ROWS * COLUMNS];
    static const int64_t boxes[4][4] = { { 0, 0, 3, 11 }, { 3, 0, 1, 11 }, { 4, 0, 9, 11 }, { 13, 0, 0, 11 } };
    static const char *const own[4] = { "own 0", "own 1", "own 2", "own 3" };
    static const int64_t none[2] = { 0, 4 };
    int r;
    world_begin(w, 4);
    for (r = 0; r < 4; r++) {
        float value = (float)r;
        dcp_tensor t = block("m", rows[r], boxes[r], ROWS, COLUMNS);
        fill_matrix(rows[r], boxes[r]);
        world_add(w, r, &t, "sharded");
        t = dcp_scalar(own[r], DCP_FP32, &value);
        world_add(w, r, &t, "replicated");
        t = dcp_array("none", DCP_FP32, NULL, 2, none);
        world_add(w, r, &t, "private");
    }
}
static void check_four(void) {
    static const int64_t box[4] = { 1, 2, 6, 4 };
    float data[ROWS * COLUMNS], value = -1;
    const void *mapped;
    size_t size;
    dcp_tensor t = block("m", data, box, ROWS, COLUMNS);
    dcp_checkpoint *c;
    check_whole_matrix("x");
    load_from("x", &t, 1);
    CHECK(is_matrix(data, box));
    t = dcp_scalar("own 2", DCP_FP32, &value);
    load_from("x", &t, 1);
    CHECK(value == 2);
    verify_at("x");
    c = open_at("x");
    CHECK_OK_MESSAGE(dcp_map(c, "own 3", &mapped, &size, &err), err.message);
    CHECK(size == 4 && *(const float *)mapped == 3);
    CHECK_FAILS(dcp_map(c, "m", &mapped, &size, &err), DCP_E_UNSUPPORTED, "4 pieces");
    CHECK_INT(dcp_metadata_of(c)->world_size, 4);
    dcp_close(c);
}
static void single_of_four_body(void) {
    world w;
    dcp_metadata *m;
    dcp_tensor t;
    float value;
    write_four(&w);
    world_write_single(&w, "x");
    world_end(&w);
    check_as_the_seed_reads("x.checkpoint");
    check_four();
    CHECK_OK(dcp_metadata_read_file(files, "x.checkpoint", NULL, &m, &err));
    flip("x.checkpoint", m->shards[2].tensors[1].offset + 1);
    t = dcp_scalar("own 2", DCP_FP32, &value);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_CHECKSUM, "(shard 2), tensor \"own 2\"");
    t = dcp_scalar("own 1", DCP_FP32, &value);
    load_from("x", &t, 1);
    flip("x.checkpoint", m->shards[2].tensors[1].offset + 1);
    flip("x.checkpoint", m->shards[1].data_offset - 1);                 /* between two regions */
    check_whole_matrix("x");
    CHECK_FAILS(verify_now("x"), DCP_E_CHECKSUM, "x.checkpoint");
    dcp_metadata_free(m);
}
TEST(single_file_with_several_shards) { on_local_and_memory(single_of_four_body); }

TEST(single_file_corruption_is_told_clearly) {
    size_t size;
    uint8_t *data;
    use_memory();
    (void)save_value("x", 1, 0, 0, DCP_LAYOUT_SINGLE);
    data = get("x.checkpoint", &size);
    put("y.checkpoint", data, size);
    flip("y.checkpoint", 0);
    CHECK_FAILS(try_load("y", NULL, 0), DCP_E_FORMAT, "magic number mismatch");
    CHECK_FAILS(try_load("y", NULL, 0), DCP_E_FORMAT, "y.checkpoint");
    put("y.checkpoint", data, 2);
    CHECK_FAILS(try_load("y", NULL, 0), DCP_E_FORMAT, "magic number mismatch");
    put("y.checkpoint", data, 300);
    CHECK_FAILS(try_load("y", NULL, 0), DCP_E_FORMAT, "corrupted checkpoint file");
    put("y.checkpoint", data, size - 1);
    CHECK_FAILS(try_load("y", NULL, 0), DCP_E_INCOMPLETE, "cut short");
    data[4 + 1] = '9';                                  /* version 9.0.0 */
    put("y.checkpoint", data, size);
    CHECK_FAILS(try_load("y", NULL, 0), DCP_E_VERSION, "9.0.0");
    dcp_free(data);
    done();
}

/* ==== documents of several ranks ================================================================================== */
static void sharded_of_four_body(void) {
    world w;
    write_four(&w);
    world_write(&w, "x");
    world_end(&w);
    check_four();
    CHECK_INT(count_files(""), 5);
    flip("x_shard_2.bin", 9);
    CHECK_FAILS(verify_now("x"), DCP_E_CHECKSUM, "x_shard_2.bin (shard 2)");
    drop("x_shard_3.bin");
    CHECK_FAILS(verify_now("x"), DCP_E_INCOMPLETE, "(shard 3)");
}
TEST(a_sharded_checkpoint_of_four_ranks) { on_local_and_memory(sharded_of_four_body); }

/* Rank r holds boxes[r]; any part of the whole comes from whoever has it. */
static void world_of_boxes(const int64_t (*boxes)[4], int ranks) {
    float data[ROWS * COLUMNS];
    world w;
    int r, i;
    world_begin(&w, ranks);
    for (r = 0; r < ranks; r++) {
        dcp_tensor t = block("m", data, boxes[r], ROWS, COLUMNS);
        fill_matrix(data, boxes[r]);
        world_add(&w, r, &t, "sharded");
    }
    world_write(&w, "x");
    world_end(&w);
    check_whole_matrix("x");
    for (i = 0; i < 100; i++) {
        int64_t box[4];
        dcp_tensor t;
        box[0] = (int64_t)test_random_below(ROWS);
        box[1] = (int64_t)test_random_below(COLUMNS);
        box[2] = 1 + (int64_t)test_random_below((size_t)(ROWS - box[0]));
        box[3] = 1 + (int64_t)test_random_below((size_t)(COLUMNS - box[1]));
        t = block("m", data, box, ROWS, COLUMNS);
        load_from("x", &t, 1);
        CHECK(is_matrix(data, box));
    }
    verify_at("x");
}
TEST(boxes_across_ranks) {
    static const int64_t four[4][4] = { { 0, 0, 6, 5 }, { 0, 5, 6, 6 }, { 6, 0, 7, 5 }, { 6, 5, 7, 6 } };
    use_memory();
    world_of_boxes(row_boxes, 3);
    world_of_boxes(column_boxes, 3);
    world_of_boxes(four, 4);
    done();
}
/* Somebody's document in which pieces overlap: refused where it is touched, never two truths in one tensor. */
TEST(stored_pieces_that_overlap_are_refused) {
    static const int64_t boxes[2][4] = { { 0, 0, 8, 11 }, { 7, 0, 6, 11 } };
    static const int64_t upper[4] = { 0, 0, 5, 11 };
    float data[ROWS * COLUMNS];
    int64_t shape[2] = { ROWS, COLUMNS };
    dcp_tensor t;
    world w;
    int r;
    use_memory();
    world_begin(&w, 2);
    for (r = 0; r < 2; r++) {
        t = block("m", data, boxes[r], ROWS, COLUMNS);
        fill_matrix(data, boxes[r]);
        world_add(&w, r, &t, "sharded");
    }
    world_write(&w, "x");
    world_end(&w);
    t = dcp_array("m", DCP_FP32, data, 2, shape);
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_FORMAT, "overlap");
    t = block("m", data, upper, ROWS, COLUMNS);
    load_from("x", &t, 1);
    done();
}
/* A hand-made document whose private or replicated tensor is only a box of something larger must not load as if it were
 * whole. */
TEST(a_box_that_is_not_sharded_is_no_whole) {
    static const char *const placements[2] = { "private", "replicated" };
    float two[2] = { 1, 2 }, four[4] = { 9, 9, 9, 9 };
    int64_t whole = 4, offset = 2;
    int i;
    use_memory();
    for (i = 0; i < 2; i++) {
        dcp_tensor t = vector("w", DCP_FP32, two, 2);
        world w;
        dcp_piece(&t, &whole, &offset);
        world_begin(&w, 1);
        world_add(&w, 0, &t, placements[i]);
        world_write(&w, "x");
        world_end(&w);
        t = vector("w", DCP_FP32, four, 4);
        CHECK(try_load("x", &t, 1) != DCP_OK);
        memset(four, 0, sizeof four);
        t = vector("w", DCP_FP32, four, 2);
        if (try_load("x", &t, 1) == DCP_OK) CHECK(four[0] == 1 && four[1] == 2);
    }
    done();
}
/* One shard's file may stand for several ranks where the bytes are equal. */
TEST(one_file_for_two_ranks) {
    float x[2] = { 1, 2 }, got[2] = {0};
    dcp_tensor t = vector("w", DCP_FP32, x, 2);
    dcp_metadata *m;
    world w;
    int r;
    use_memory();
    world_begin(&w, 2);
    for (r = 0; r < 2; r++) world_add(&w, r, &t, "private");
    world_write(&w, "x");
    world_end(&w);
    CHECK_OK(dcp_metadata_read_file(files, "x.metadata.json", NULL, &m, &err));
    m->shards[1].file_path = "x_shard_0.bin";
    CHECK_OK(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, &err));
    dcp_metadata_free(m);
    drop("x_shard_1.bin");
    t.data = got;
    load_from("x", &t, 1);
    CHECK(got[0] == 1 && got[1] == 2);
    verify_at("x");
    done();
}
/* G12: unknown members survive a load and a rewrite; a newer version is refused. */
static void remove_at(const char *name) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.io.storage = store;
    CHECK_OK_MESSAGE(dcp_remove(&desc, NULL, &err), err.message);
}
/* Members that a program carries over from another document: in each layout where they belong, in the background too,
 * where the texts are the caller's again at once. */
static void extras_case(dcp_layout layout, int yaml, int is_begun) {
    char root[] = "\"x\": {\"y\": [1, 2]}", piece[] = "\"codec\": 1e0", tier_text[] = "\"media\": \"tape\"",
        seed_text[] = "\"noise\": 0.50";
    char optim[] = "\"kind\": \"adam\"", router[] = "\"top_k\": 2";
    const char *tier_extras[2], *seed_extras[1];
    const dcp_tier tiers[2] = { { 1, "hot", NULL, NULL }, { 2, "cold", NULL, NULL } };
    const dcp_router_seed seeds[1] = { { 4, 9 } };
    float values[2] = { 1, 2 };
    dcp_tensor t[2];
    dcp_save_desc desc;
    dcp_checkpoint *c;
    const dcp_manifest *m;
    dcp_saver *saver;
    t[0] = dcp_scalar("a", DCP_FP32, &values[0]);
    t[0].extra = piece;
    t[1] = dcp_scalar("b", DCP_FP32, &values[1]);
    t[1].role = DCP_ROLE_OPTIMIZER;
    desc = saving("x", t, 2);
    desc.layout = layout;
    desc.yaml = yaml;
    desc.overwrite = 1;
    desc.extra = root;
    desc.optim_extra = optim;
    desc.router_extra = router;
    tier_extras[0] = NULL;
    tier_extras[1] = tier_text;
    seed_extras[0] = seed_text;
    if (layout == DCP_LAYOUT_MANIFEST) {
        desc.tiers = tiers;
        desc.tier_count = 2;
        desc.tier_extras = tier_extras;
        desc.router_seeds = seeds;
        desc.router_seed_count = 1;
        desc.router_seed_extras = seed_extras;
    }
    if (is_begun) {
        CHECK_OK_MESSAGE(dcp_saver_open(NULL, &saver, &err), err.message);
        CHECK_OK_MESSAGE(dcp_save_begin(saver, &desc, &err), err.message);
        memset(root, '?', sizeof root - 1);
        memset(piece, '?', sizeof piece - 1);
        memset(tier_text, '?', sizeof tier_text - 1);
        memset(seed_text, '?', sizeof seed_text - 1);
        memset(optim, '?', sizeof optim - 1);
        memset(router, '?', sizeof router - 1);
        tier_extras[1] = seed_extras[0] = NULL;
        CHECK_OK_MESSAGE(dcp_save_wait(saver, 60000, &err), err.message);
        CHECK_OK_MESSAGE(dcp_saver_close(saver, &err), err.message);
    } else {
        save(&desc);
    }
    load_from("x", t, 2);
    c = open_at("x");
    m = dcp_manifest_of(c);
    if (m) {
        CHECK_STR(m->extra, yaml ? "\"x\": { \"y\": [1, 2] }" : "\"x\": {\"y\": [1, 2]}");
        CHECK(strstr(m->shards[0].extra, "\"codec\"") && strstr(m->tiers[1].extra, "tape") && !m->tiers[0].extra);
        CHECK(strstr(m->optim_state.extra, "adam") && strstr(m->router_state.extra, "top_k") &&
              strstr(m->router_state.layers[0].extra, "0.50"));
    } else {
        CHECK_STR(dcp_metadata_of(c)->extra, "\"x\": {\"y\": [1, 2]}");
        CHECK_STR(dcp_metadata_of(c)->shards[0].tensors[0].extra, "\"codec\": 1e0");
        CHECK(dcp_metadata_of(c)->shards[0].tensors[1].extra == NULL);
    }
    dcp_close(c);
    t[0].extra = layout == DCP_LAYOUT_MANIFEST ? "\"path\": 1" : "\"blockSize\": 1";
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "is a field of its own");
    t[0].extra = "\"a\": 1, \"a\": 2";
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "tensors[0]: tensor \"a\": extra");
    t[0].extra = NULL;
    desc.tier_extras = desc.router_seed_extras = NULL;
    desc.optim_extra = desc.router_extra = NULL;
    desc.extra = "\"integrity\": 1";
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "is a field of its own");
    desc.extra = "";
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "extra");
    remove_at("x");
}
static void extras_body(void) {
    int is_begun;
    for (is_begun = 0; is_begun < 2; is_begun++) {
        extras_case(DCP_LAYOUT_SHARDED, 0, is_begun);
        extras_case(DCP_LAYOUT_SINGLE, 0, is_begun);
        extras_case(DCP_LAYOUT_MANIFEST, 0, is_begun);
        extras_case(DCP_LAYOUT_MANIFEST, 1, is_begun);
    }
}
TEST(members_that_a_program_carries_over) { on_local_and_memory(extras_body); }
TEST(unknown_members_are_ignored_and_kept) {
    dcp_metadata *m;
    use_memory();
    save_step("x", 3, DCP_LAYOUT_SHARDED, NULL);
    CHECK_OK(dcp_metadata_read_file(files, "x.metadata.json", NULL, &m, &err));
    m->extra = "\"future\": { \"a\": [1, 2] }";
    m->shards[0].tensors[0].extra = "\"codec\": \"none\"";
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, &err), err.message);
    dcp_metadata_free(m);
    CHECK_OK_MESSAGE(load_checked("x", 3, NULL), err.message);
    CHECK_OK(dcp_metadata_read_file(files, "x.metadata.json", NULL, &m, &err));
    CHECK(strstr(m->extra, "future") && strstr(m->shards[0].tensors[0].extra, "codec"));
    m->version = "1.7.0";
    CHECK_OK(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, &err));
    CHECK_OK_MESSAGE(load_checked("x", 3, NULL), err.message);
    m->version = "2.0.0";
    CHECK(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, &err) == DCP_E_INVALID ||
          load_checked("x", 3, NULL) == DCP_E_VERSION);
    dcp_metadata_free(m);
    done();
}

int main(void) {
    RUN(every_data_type_round_trips);
    RUN(what_is_stored_is_described);
    RUN(scalars_and_empty_tensors_round_trip);
    RUN(empty_tensors_are_matched_too);
    RUN(a_checkpoint_of_no_tensors);
    RUN(a_forgotten_tensor_count_is_found);
    RUN(a_checkpoint_of_zero_bytes);
    RUN(names_of_every_kind_round_trip);
    RUN(names_that_some_system_cannot_have);
    RUN(bad_names_are_refused);
    RUN(tensors_larger_than_every_buffer);
    RUN(block_sizes);
    RUN(digests_are_those_of_the_format);
    RUN(flat_checksum_is_what_sha256sum_prints);
    RUN(fifty_thousand_tiny_tensors);
    RUN(alignment_and_gaps);
    RUN(a_byte_in_a_gap_is_found_by_verify);
    RUN(long_paths_are_whole_in_the_report_or_refused);
    RUN(options_out_of_range_are_refused);
    RUN(io_options_out_of_range_are_refused);
    RUN(tensors_that_cannot_be_are_refused);
    RUN(a_forgotten_ndim_is_found);
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
    RUN(optional_and_missing_tensors);
    RUN(exact_finds_what_nobody_wants);
    RUN(a_mismatch_says_what_is_stored_and_what_is_wanted);
    RUN(not_found_means_that_there_is_no_checkpoint);
    RUN(a_path_through_a_file_is_no_first_start);
    RUN(errors_and_outputs_are_always_written);
    RUN(what_only_manifests_have_cannot_be_selected_elsewhere);
    RUN(load_hands_over_the_document);
    RUN(a_budget_of_less_than_a_mebibyte_is_refused);
    RUN(a_budget_of_any_size_is_fine);
    RUN(a_storage_that_gives_a_negative_size_is_an_io_error);
#ifndef _WIN32
    RUN(the_memory_budget_is_honoured);
#endif
    RUN(allocations_do_not_grow_with_the_data);
    RUN(one_state_gives_one_sequence_of_bytes);
    RUN(any_number_of_threads_loads_the_same);
    RUN(every_allocation_can_fail);
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
    RUN(private_tensors_of_several_ranks);
    RUN(a_private_tensor_comes_back_to_the_one_rank_that_there_is);
    RUN(shards_are_dealt_round_robin);
    RUN(an_unknown_type_reads_whole_as_bytes);
    RUN(a_box_of_an_unknown_type_is_refused);
    RUN(as_many_threads_as_asked_for_have_something_to_do);
    RUN(the_buffers_of_a_save_stay_within_the_budget);
    RUN(a_device_that_answers_oddly_is_a_device_error);
    RUN(a_device_is_told_that_an_operation_begins);
    RUN(a_device_is_copied_from_and_to);
    RUN(a_strided_device_tensor);
    RUN(a_large_device_tensor_in_pieces);
    RUN(a_device_that_fails);
    RUN(copies_of_a_device_overlap_the_rest);
    RUN(a_wait_that_fails_leaves_no_copy_behind);
    RUN(damaged_bytes_do_not_reach_a_device);
    RUN(progress_is_told);
    RUN(verify_tells_its_progress);
    RUN(cancelled_before_it_starts);
    RUN(cancelled_between_chunks);
    RUN(cancelled_from_the_progress_callback);
    RUN(a_deadline_ends_an_operation);
    RUN(a_deadline_is_that_of_the_call);
    RUN(a_healthy_operation_warns_of_nothing);
    RUN(transient_errors_are_retried_into_a_new_file);
    RUN(a_read_that_fails_says_where);
    RUN(what_a_callback_returns_is_judged);
    RUN(an_older_checkpoint_than_wanted_is_refused);
    RUN(a_signature_covers_the_document);
    RUN(data_that_does_not_fit_a_signed_document);
    RUN(a_signer_that_fails_leaves_nothing);
    RUN(training_sharding_and_fields_come_back);
    RUN(what_is_not_given_is_derived);
    RUN(what_no_document_can_say_is_refused);
    RUN(the_report_tells_what_was_done);
    RUN(overwriting_replaces_names_and_counts_on);
    RUN(overwriting_a_single_file);
    RUN(plain_names_only_where_nothing_was);
    RUN(another_layout_there_is_in_the_way);
    RUN(two_commit_files_of_one_prefix);
    RUN(a_suffix_is_stripped);
    RUN(a_prefix_has_at_most_180_bytes);
    RUN(bad_paths_are_refused);
    RUN(keys_of_a_storage_stay_inside);
    RUN(directories_are_made);
#ifndef _WIN32
    RUN(a_relative_path_and_one_without_a_directory);
    RUN(symbolic_links);
#endif
    RUN(a_directory_can_be_moved);
    RUN(a_checkpoint_replaced_while_it_is_read_is_read_again);
    RUN(a_checkpoint_replaced_again_and_again);
    RUN(overwriting_what_somebody_else_has_just_overwritten);
    RUN(two_saves_to_one_path_at_the_same_time);
    RUN(a_plain_name_that_is_taken_meanwhile_is_not_replaced);
    RUN(seed_document_with_several_shards);
    RUN(seed_file_paths_are_found_in_three_places);
    RUN(seed_document_loads_with_warnings);
    RUN(seed_document_without_checksums);
#ifndef _WIN32
    RUN(committed_names_stay_loadable);
#endif
    RUN(parts_of_which_nothing_says_how_they_fit);
    RUN(a_signed_document_without_digests);
    RUN(seed_document_with_one_name_on_two_ranks);
    RUN(seed_single_file_without_data);
    RUN(single_file_roundtrip_as_the_seed_reads_it);
    RUN(single_file_with_several_shards);
    RUN(single_file_corruption_is_told_clearly);
    RUN(a_sharded_checkpoint_of_four_ranks);
    RUN(boxes_across_ranks);
    RUN(stored_pieces_that_overlap_are_refused);
    RUN(a_box_that_is_not_sharded_is_no_whole);
    RUN(one_file_for_two_ranks);
    RUN(members_that_a_program_carries_over);
    RUN(unknown_members_are_ignored_and_kept);
    return test_finish();
}
