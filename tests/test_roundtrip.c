/* test_roundtrip.c - what is saved comes back: every type, name and size, where tensors stand in their file, and what
 * the document says of them; what cannot be saved is refused with words that help. */
#include "engine.h"

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
    CHECK_INT(dcp_checkpoint_tensor_count(c), 3);
    CHECK_STR(dcp_checkpoint_tensor(c, 0)->name, "a");          /* sorted by name */
    CHECK_STR(dcp_checkpoint_tensor(c, 1)->name, "m");
    CHECK_STR(dcp_checkpoint_tensor(c, 2)->name, "z");
    CHECK(dcp_checkpoint_tensor(c, 3) == NULL);
    CHECK(dcp_checkpoint_find(c, "none") == NULL);
    info = dcp_checkpoint_find(c, "z");
    CHECK(info->dtype == DCP_BF16 && info->ndim == 3 && memcmp(info->shape, shape, sizeof shape) == 0 &&
          info->shape[3] == 0);
    CHECK_STR(info->dtype_name, "bf16");
    CHECK_INT(info->size, 48);
    CHECK_INT(info->piece_count, 1);
    CHECK_INT(info->placement, DCP_PLACE_REPLICATED);
    CHECK_INT(dcp_checkpoint_find(c, "a")->size, 3);
    CHECK_INT(dcp_checkpoint_find(c, "m")->ndim, 0);
    CHECK_INT(dcp_checkpoint_find(c, "m")->size, 16);
    CHECK_STR(dcp_checkpoint_path(c), "x.metadata.json");
    CHECK_INT(dcp_checkpoint_layout(c), DCP_LAYOUT_SHARDED);
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
        CHECK_INT(dcp_checkpoint_tensor_count(c), 0);
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
            CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "cannot be the name of a checkpoint");
            if (store) {                                /* there, directories are part of what is saved */
                (void)snprintf(key, sizeof key, "%s/x", name);
                desc.path = at(key);
                CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "cannot be the name of a checkpoint");
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
/* Names from a loop: each its own, whatever its length, until they are freed; a save in the background copies them. */
static void printed_names_body(void) {
    enum { COUNT = 300 };
    static dcp_tensor t[COUNT];
    static float out[COUNT], in[COUNT];
    dcp_names names = DCP_ZERO;
    dcp_saver *saver;
    dcp_save_desc desc = saving("x", t, COUNT);
    dcp_checkpoint *c;
    int i, turn;
    for (turn = 0; turn < 2; turn++) {
        for (i = 0; i < COUNT; i++) {
            out[i] = (float)(i + 1);
            t[i] = dcp_vector(dcp_name(&names, "layers.%d.%0*d", i, i, 7), DCP_FP32, turn ? in + i : out + i, 1);
        }
        if (turn) load_from("x", t, COUNT);
        else {
            CHECK_OK(dcp_saver_open(NULL, &saver, &err));
            CHECK_OK_MESSAGE(dcp_save_begin(saver, &desc, &err), err.message);
            for (i = 0; i < COUNT; i++) memset((void *)(uintptr_t)t[i].name, 'x', strlen(t[i].name));
            dcp_names_free(&names);
            CHECK(names.internal == NULL);
            CHECK_OK_MESSAGE(dcp_saver_close(saver, &err), err.message);
        }
    }
    dcp_names_free(&names);
    dcp_names_free(&names);
    dcp_names_free(NULL);
    CHECK(memcmp(out, in, sizeof out) == 0);
    c = open_at("x");
    CHECK(dcp_checkpoint_find(c, "layers.11.00000000007") != NULL);
    dcp_close(c);
}
TEST(names_from_a_loop_are_each_its_own) { on_local_and_memory(printed_names_body); }
TEST(a_name_without_memory_is_no_name) {
    dcp_names names = DCP_ZERO;
    float x = 1;
    dcp_tensor t;
    dcp_save_desc desc;
    use_memory();
    CHECK_STR(dcp_name(&names, "%s", ""), "");
    hungry_fail(1, 1);
    CHECK(dcp_name(&names, "%*d", 8000, 1) == NULL);
    hungry_fail(0, 0);
    t = dcp_vector(dcp_name(&names, "%*d", (int)DCP_LIMIT_NAME + 1, 1), DCP_FP32, &x, 1);
    desc = saving("x", &t, 1);
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "name");
    dcp_names_free(&names);
    done();
}
TEST(a_vector_has_one_dimension) {
    const float x[3] = { 1, 2, 3 };
    const dcp_tensor t = dcp_vector("v", DCP_FP32, x, 3), b = dcp_bytes("b", x, sizeof x);
    dcp_tensor none = dcp_vector("v", DCP_FP32, NULL, 0), huge = dcp_vector("v", DCP_FP32, x, SIZE_MAX);
    dcp_save_desc desc;
    const int64_t shape[] = { 3 };
    dcp_tensor same = dcp_array("v", DCP_FP32, x, 1, shape);
    CHECK(memcmp(&t, &same, sizeof t) == 0);
    CHECK(b.ndim == 1 && b.shape[0] == 12 && b.dtype == DCP_UINT8);
    use_memory();
    save_as("none", &none, 1);
    load_from("none", &none, 1);
    desc = saving("x", &huge, 1);
    if (sizeof(size_t) == 8) CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "negative");
    done();
}
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
    CHECK_OK(dcp_storage_remove(files, "large.metadata.json", NULL, &err));
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
    document = dcp_checkpoint_metadata(c);
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
    CHECK_STR(dcp_checkpoint_metadata(c)->shards[0].checksum, text);
    CHECK_INT(dcp_checkpoint_metadata(c)->shards[0].tensors[0].block_count, 0);
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
    CHECK_OK(dcp_storage_remove(files, layout ? "tiny.checkpoint" : "tiny.metadata.json", NULL, &err));
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
    region = dcp_checkpoint_metadata(c)->shards[0].data_offset;
    CHECK(layout ? region > 0 && region % dcpi_max((int64_t)alignment, 4096) == 0 : region == 0);
    file = get(layout ? commit : "x_shard_0.bin", &size);
    check_places(dcp_checkpoint_metadata(c), file, size, alignment ? (int64_t)alignment : 64);
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
                CHECK_OK(storage->list(storage->context, "", DCP_LIST_OBJECTS, count_object, &files, &err));
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
        m = dcp_checkpoint_metadata(c);
        CHECK(dcp_checkpoint_training(c) == &m->training);
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
        CHECK_STR(dcp_metadata_field(m, "git"), "abc123");
        CHECK_STR(dcp_metadata_field(m, ""), "");
        CHECK_STR(dcp_metadata_field(m, fields[2].key), fields[2].value);
        CHECK(dcp_metadata_field(m, "none") == NULL);
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
    CHECK(dcp_checkpoint_training(c) == NULL);
    CHECK_STR(dcp_checkpoint_metadata(c)->sharding.strategy, "none");
    CHECK_STR(dcp_checkpoint_metadata(c)->sharding.precision, "bf16");          /* the type that most bytes have */
    CHECK_INT(dcp_checkpoint_metadata(c)->world_size, 1);
    CHECK_INT(dcp_checkpoint_metadata(c)->ddp_rank, 0);
    CHECK_STR(dcp_checkpoint_metadata(c)->version, DCP_FORMAT_VERSION);
    CHECK_INT(dcp_checkpoint_metadata(c)->is_foreign, 0);
    dcp_close(c);
    whole = 4;
    dcp_piece(&t[1], &whole, &offset);
    save_as("y", t, 3);
    c = open_at("y");
    CHECK_STR(dcp_checkpoint_metadata(c)->sharding.strategy, "sharded");
    CHECK_INT(dcp_checkpoint_find(c, "b")->placement, DCP_PLACE_SHARDED);
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
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "out of range for a double");
    training.optimizer_state = NULL;
    training.extra = "\"a\": -1e400";
    CHECK_FAILS(save_described(&training, NULL, NULL, 0), DCP_E_INVALID, "out of range for a double");
    sharding.info = "{";
    CHECK_FAILS(save_described(NULL, &sharding, NULL, 0), DCP_E_INVALID, "strategySpecificInfo");
    sharding.info = "{\"a\":1e400}";
    CHECK_FAILS(save_described(NULL, &sharding, NULL, 0), DCP_E_INVALID, "out of range for a double");
    CHECK_INT(count_files(""), 0);
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
    RUN(names_from_a_loop_are_each_its_own);
    RUN(a_name_without_memory_is_no_name);
    RUN(a_vector_has_one_dimension);
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
    RUN(training_sharding_and_fields_come_back);
    RUN(what_is_not_given_is_derived);
    RUN(what_no_document_can_say_is_refused);
    return test_finish();
}
