/* test_documents.c - names, overwriting, and documents of others: of the seed, of several ranks, with members that this
 * version does not know; two programs at one path. */
#include "engine.h"
#include "watching_storage.h"
#include "written_ranks.h"

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
    CHECK_STR(dcp_checkpoint_metadata(c)->save_id, report.save_id);
    CHECK_STR(dcp_checkpoint_path(c), report.path);
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
    CHECK_FAILS(try_save("x", 1, DCP_LAYOUT_SHARDED), DCP_E_EXISTS, "another program");
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
    CHECK_INT(dcp_checkpoint_metadata(c)->is_foreign, 1);
    CHECK_INT(dcp_checkpoint_find(c, "w1")->dtype, DCP_FP32);
    CHECK_INT(dcp_checkpoint_training(c)->step, 20);
    CHECK_STR(dcp_metadata_field(dcp_checkpoint_metadata(c), "by"), "the seed");
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
    float bytes[64] = {0}, got[5] = {0};
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
    float got[4] = {0}, parts[2][4] = { { 1, 1, 1, 1 }, { 2, 2, 2, 2 } };
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
    CHECK_INT(dcp_checkpoint_find(c, "w")->piece_count, 2);
    for (i = 0; i < 2; i++) {
        memset(got, 0, sizeof got);
        CHECK_OK_MESSAGE(dcp_read_rank(c, i, &t, 1, &err), err.message);
        CHECK(memcmp(got, parts[i], sizeof got) == 0);
    }
    CHECK_FAILS(dcp_read_rank(c, 7, &t, 1, &err), DCP_E_INVALID, "rank 7 is out of range");
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
        "{ \"rank\": " rank ", \"filePath\": \"" path "\", \"fileSize\": 16, " \
        "\"tensors\": [ { \"name\": \"" name "\", " \
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
        CHECK_INT(dcp_checkpoint_layout(c), DCP_LAYOUT_SINGLE);
        CHECK_INT(dcp_checkpoint_find(c, "w")->size, 20);
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
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, name, NULL, NULL, &m, &err), err.message);
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
    CHECK_INT(dcp_checkpoint_metadata(c)->world_size, 4);
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
    CHECK_OK(dcp_metadata_read_file(files, "x.checkpoint", NULL, NULL, &m, &err));
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
    CHECK_OK(dcp_metadata_read_file(files, "x.metadata.json", NULL, NULL, &m, &err));
    m->shards[1].file_path = "x_shard_0.bin";
    CHECK_OK(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, NULL, &err));
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
    m = dcp_checkpoint_manifest(c);
    if (m) {
        CHECK_STR(m->extra, yaml ? "\"x\": { \"y\": [1, 2] }" : "\"x\": {\"y\": [1, 2]}");
        CHECK(strstr(m->shards[0].extra, "\"codec\"") && strstr(m->tiers[1].extra, "tape") && !m->tiers[0].extra);
        CHECK(strstr(m->optim_state.extra, "adam") && strstr(m->router_state.extra, "top_k") &&
              strstr(m->router_state.layers[0].extra, "0.50"));
    } else {
        CHECK_STR(dcp_checkpoint_metadata(c)->extra, "\"x\": {\"y\": [1, 2]}");
        CHECK_STR(dcp_checkpoint_metadata(c)->shards[0].tensors[0].extra, "\"codec\": 1e0");
        CHECK(dcp_checkpoint_metadata(c)->shards[0].tensors[1].extra == NULL);
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
    CHECK_OK(dcp_metadata_read_file(files, "x.metadata.json", NULL, NULL, &m, &err));
    m->extra = "\"future\": { \"a\": [1, 2] }";
    m->shards[0].tensors[0].extra = "\"codec\": \"none\"";
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
    CHECK_OK_MESSAGE(load_checked("x", 3, NULL), err.message);
    CHECK_OK(dcp_metadata_read_file(files, "x.metadata.json", NULL, NULL, &m, &err));
    CHECK(strstr(m->extra, "future") && strstr(m->shards[0].tensors[0].extra, "codec"));
    m->version = "1.7.0";
    CHECK_OK(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, NULL, &err));
    CHECK_OK_MESSAGE(load_checked("x", 3, NULL), err.message);
    m->version = "2.0.0";
    CHECK(dcp_metadata_write_file(files, "x.metadata.json", m, NULL, NULL, &err) == DCP_E_INVALID ||
          load_checked("x", 3, NULL) == DCP_E_VERSION);
    dcp_metadata_free(m);
    done();
}

int main(void) {
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
