/* test_directory.c - a directory of checkpoints: which is the newest, what is there, and what may be removed. Whatever
 * removes something must never take a file that a commit file names (G2). */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "place.h"
#ifndef _WIN32
#include <sys/wait.h>
#include <utime.h>
#endif

#define SIZE 1000                       /* bytes of a checkpoint's tensor */
#define ID "0123456789abcdef"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct heard { char text[8000]; } heard;        /* what was logged */
static heard log_text;
static void hear(void *user, dcp_log_level level, const char *message) {
    size_t used = strlen(log_text.text);
    (void)user; (void)level;
    (void)snprintf(log_text.text + used, sizeof log_text.text - used, "%s\n", message);
}
static dcp_io the_io(void) {
    dcp_io io = DCP_ZERO;
    log_text.text[0] = '\0';
    io.storage = store;
    io.log = hear;
    return io;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */
static dcp_save_report save_as(const char *name, int64_t step, dcp_layout layout, int overwrite,
                               const dcp_signer *signer) {
    static uint8_t data[SIZE];
    dcp_tensor t;
    dcp_training training = DCP_ZERO;
    dcp_save_report report;
    dcp_save_desc desc = DCP_ZERO;
    memset(data, (int)step, sizeof data);
    t = dcp_bytes("data", data, SIZE);
    training.step = step;
    training.epoch = step / 10;
    desc.path = at(name);
    desc.tensors = &t;
    desc.tensor_count = 1;
    if (step >= 0) desc.training = &training;
    desc.layout = layout;
    desc.overwrite = overwrite;
    desc.signer = signer;
    desc.report = &report;
    desc.io.storage = store;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    return report;
}
static void save(const char *name, int64_t step) { (void)save_as(name, step, DCP_LAYOUT_SHARDED, 0, NULL); }
static void save_single(const char *name, int64_t step) { (void)save_as(name, step, DCP_LAYOUT_SINGLE, 0, NULL); }
static dcp_status try_load(const char *path, int64_t step) {            /* an OS path or key */
    static uint8_t data[SIZE];
    dcp_tensor t;
    dcp_load_desc desc = DCP_ZERO;
    dcp_status status;
    size_t i;
    memset(data, 0xEE, sizeof data);
    t = dcp_bytes("data", data, SIZE);
    desc.path = path;
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = store;
    status = dcp_load(&desc, &err);
    for (i = 0; i < SIZE && !status; i++) CHECK_INT(data[i], (uint8_t)step);
    return status;
}
static void check_loads(const char *name, int64_t step) { CHECK_OK_MESSAGE(try_load(at(name), step), err.message); }
/* Rewrites a sharded checkpoint's document with other numbers (-1: as they are). */
static void rewrite(const char *name, int64_t sequence, int64_t step, const char *timestamp) {
    dcp_metadata *m;
    char key[300];
    (void)snprintf(key, sizeof key, "%s%s.metadata.json", sub, name);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, key, NULL, NULL, &m, &err), err.message);
    if (sequence >= 0) m->sequence = sequence;
    if (step >= 0) m->training.step = step;
    if (timestamp) m->timestamp = timestamp;
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, key, m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
}
/* A document without its tail gets one: its integrity is right, whatever it says. */
static dcp_status seal_more(void *user, const void *data, size_t size, dcp_error *error) {
    dcpi_buffer_add((dcpi_buffer *)user, data, size);
    return dcpi_succeed(error);
}
static void put_sealed(const char *name, const char *text) {
    dcpi_buffer out;
    dcpi_integrity stream;
    memset(&out, 0, sizeof out);
    CHECK_OK(dcpi_integrity_begin(&stream, DCPI_TYPE_METADATA, NULL, seal_more, &out, &err));
    CHECK_OK(dcpi_integrity_write(&stream, text, strlen(text), &err));
    CHECK_OK(dcpi_integrity_end(&stream, &err));
    CHECK_OK_MESSAGE(dcp_storage_write_all(files, key_of(name), out.data, out.size, NULL, &err), err.message);
    dcpi_buffer_free(&out);
}
/* A commit file of another format version, intact otherwise. */
static void write_newer(const char *name, int sequence) {
    char text[600];
    (void)snprintf(text, sizeof text,
                   "{\n  \"version\": \"2.0.0\",\n  \"timestamp\": \"2026-11-20T12:00:00.000000Z\",\n"
                   "  \"worldSize\": 1,\n  \"ddpRank\": 0,\n  \"saveId\": \"" ID "\",\n  \"sequence\": %d,\n"
                   "  \"shards\": []", sequence);
    put_sealed(name, text);
}
static dcp_latest_desc looking(void) {
    dcp_latest_desc desc = DCP_ZERO;
    desc.directory = here();
    desc.io = the_io();
    return desc;
}
static char *latest_with(const dcp_latest_desc *desc) {
    static char text[TEST_PATH + 600];
    char *path;
    CHECK_OK_MESSAGE(dcp_latest(desc, &path, &err), err.message);
    CHECK(strlen(path) < sizeof text);
    (void)snprintf(text, sizeof text, "%s", path);
    dcp_free(path);
    return text;
}
static const char *name_in(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }
static const char *latest(void) {
    dcp_latest_desc desc = looking();
    return name_in(latest_with(&desc));
}
static dcp_status try_latest(void) {
    dcp_latest_desc desc = looking();
    char *path = (char *)(uintptr_t)"not set";
    dcp_status status = dcp_latest(&desc, &path, &err);
    CHECK(status != DCP_OK && path == NULL);
    return status;
}

/* ==== sequence numbers ============================================================================================ */
static void sequence_body(void) {
    CHECK_INT(save_as("a", 1, DCP_LAYOUT_SHARDED, 0, NULL).sequence, 1);
    CHECK_INT(save_as("b", 1, DCP_LAYOUT_SINGLE, 0, NULL).sequence, 2);
    CHECK_INT(save_as("a", 1, DCP_LAYOUT_SHARDED, 1, NULL).sequence, 3);
    CHECK_INT(save_as("other/c", 1, DCP_LAYOUT_SHARDED, 0, NULL).sequence, 1);    /* each directory counts for itself */
    CHECK_INT(save_as("c", 1, DCP_LAYOUT_SHARDED, 0, NULL).sequence, 4);
    flip("c.metadata.json", 600);                       /* damaged: nobody knows what it said */
    CHECK_INT(save_as("d", 1, DCP_LAYOUT_SINGLE, 0, NULL).sequence, 4);
    rewrite("a", 1000000000000, -1, NULL);
    CHECK(save_as("e", 1, DCP_LAYOUT_SHARDED, 0, NULL).sequence == 1000000000001);
    put_text("f.metadata.json", "{\n  \"sequence\": 99999999999999999999999999\n}");
    CHECK(save_as("g", 1, DCP_LAYOUT_SHARDED, 0, NULL).sequence == 1000000000002);
}
TEST(sequence_numbers_count_up) { on_each(sequence_body); }

/* The same document as another program would write it: other white space, other members first, sealed again. */
static void put_otherwise(const char *name, int64_t sequence, const char *first, const char *colon) {
    char text[8000], key[300];
    void *data;
    size_t size;
    char *at, *end;
    (void)snprintf(key, sizeof key, "%s.metadata.json", name);
    CHECK_OK_MESSAGE(dcp_storage_read_all(files, key_of(key), &data, &size, NULL, &err), err.message);
    at = (char *)calloc(size + 1, 1);
    CHECK(at != NULL);
    memcpy(at, data, size);
    dcp_free(data);
    end = strstr(at, ",\n  \"integrity\"");
    CHECK(end != NULL);
    *end = '\0';
    end = strstr(at, "\n  \"sharding\"");               /* the number is just before it */
    CHECK(end != NULL && strlen(at) + strlen(first) < sizeof text - 100);
    *strstr(at, "\n  \"sequence\"") = '\0';
    (void)snprintf(text, sizeof text, "{%s%s\n\t\"sequence\"%s%" PRId64 ",%s", first, at + 1, colon, sequence, end);
    free(at);
    put_sealed(key, text);
}
static const char *first_listed(void) {                 /* by dcp_list */
    static char name[100];
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *e;
    size_t count;
    desc.directory = here();
    desc.io = the_io();
    CHECK_OK_MESSAGE(dcp_list(&desc, &e, &count, &err), err.message);
    CHECK(count > 0 && e[0].status == DCP_OK);
    (void)snprintf(name, sizeof name, "%s", name_in(e[0].path));
    dcp_free(e);
    return name;
}
/* Whoever wrote a document, and however long what comes before it is, its number is the one that it has. */
static void order_of_others_body(void) {
    static const char *const colons[] = { " :\t", ":\n\n", ":", ": " };
    static char wide[4800];
    size_t i;
    char name[8] = "s0";
    (void)snprintf(wide, sizeof wide, "\n  \"by\": \"%04500d\",", 0);
    save("a", 1);
    save("b", 2);
    for (i = 0; i < COUNT(colons); i++) {
        if (i > 0) (void)save_as("a", 1, DCP_LAYOUT_SHARDED, 1, NULL);
        put_otherwise("a", 50 + 10 * (int64_t)i, i % 2 ? wide :
                      "\n  \"nested\": { \"sequence\": 7, \"text\": \"\\n  \\\"sequence\\\": 99\" },",
                      colons[i]);
        check_loads("a", 1);
        CHECK_STR(latest(), "a.metadata.json");
        CHECK_STR(first_listed(), "a.metadata.json");
        name[1] = (char)('0' + i);
        CHECK_INT(save_as(name, 3, DCP_LAYOUT_SHARDED, 0, NULL).sequence, 51 + 10 * (int64_t)i);
    }
    put_otherwise("s1", 5, wide, ": ");                 /* what has to be read for its number need not be the newest */
    CHECK_STR(latest(), "s3.metadata.json");
    CHECK_STR(first_listed(), "s3.metadata.json");
    CHECK_INT(save_as("last", 3, DCP_LAYOUT_SHARDED, 0, NULL).sequence, 82);
}
TEST(the_order_does_not_depend_on_who_wrote_a_document) { on_each(order_of_others_body); }

/* What is not intact has no number: not the highest one, and not in the way of others. */
static void claims_of_a_number_body(void) {
    static const char *const texts[] = {
        "{\n  \"sequence\": 9007199254740993\n}", "{\n  \"sequence\": 9223372036854775807,",
        "\n  \"sequence\": 9007199254740992 ",
        "{\n  \"sequence\": 12\n}\n", "PCLM\n  \"sequence\": 123456"
    };
    static const char *const names[] = { "x.metadata.json", "x.checkpoint", "x.manifest.json", "x.manifest.yaml" };
    size_t i, k;
    save("a", 1);
    for (i = 0; i < COUNT(texts); i++) {
        for (k = 0; k < COUNT(names); k++) {
            put_text(names[k], texts[i]);
            CHECK_INT(save_as("b", 2, k % 2 ? DCP_LAYOUT_MANIFEST : DCP_LAYOUT_SHARDED, 0, NULL).sequence, 2);
            CHECK_STR(latest(), k % 2 ? "b.manifest.json" : "b.metadata.json");
            CHECK_STR(first_listed(), k % 2 ? "b.manifest.json" : "b.metadata.json");
            drop(names[k]);
            drop(k % 2 ? "b.manifest.json" : "b.metadata.json");
        }
    }
    /* sealed, but no document */
    put_sealed("x.metadata.json", "{\n  \"version\": \"1.0.0\",\n  \"sequence\": 9007199254740993");
    CHECK_INT(save_as("c", 3, DCP_LAYOUT_SHARDED, 0, NULL).sequence, 2);
    CHECK_STR(latest(), "c.metadata.json");
}
TEST(what_is_not_intact_has_no_sequence_number) { on_each(claims_of_a_number_body); }

/* Beyond 2^53 numbers go on; and where they end, a save says so. */
static void last_number_body(void) {
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor t = dcp_bytes("data", "x", 1);
    save("a", 1);
    rewrite("a", (INT64_C(1) << 53) + 1, -1, NULL);
    CHECK(save_as("b", 2, DCP_LAYOUT_SHARDED, 0, NULL).sequence == (INT64_C(1) << 53) + 2);
    CHECK_STR(latest(), "b.metadata.json");
    rewrite("a", INT64_MAX - 1, -1, NULL);
    CHECK(save_as("c", 3, DCP_LAYOUT_SHARDED, 0, NULL).sequence == INT64_MAX);
    CHECK_STR(latest(), "c.metadata.json");
    CHECK_STR(first_listed(), "c.metadata.json");
    desc.path = at("d");
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = store;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_LIMIT, "sequence");
    CHECK(!is_there("d.metadata.json") && !is_there("d_shard_0.bin"));
    drop("c.metadata.json");
    desc.path = at("a");
    desc.overwrite = 1;                                 /* the highest is what it replaces */
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK_STR(latest(), "a.metadata.json");
}
TEST(numbers_that_end_are_refused) { on_each(last_number_body); }

/* A model's name may be as long as it likes. */
TEST(the_number_of_a_manifest_with_a_long_name) {
    static char name[6000];
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor t = dcp_bytes("data", "x", 1);
    dcp_save_report report;
    int yaml, i;
    memset(name, 'm', sizeof name - 1);
    for (yaml = 0; yaml < 2; yaml++) {
        use_memory();
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.layout = DCP_LAYOUT_MANIFEST;
        desc.model_id = name;
        desc.yaml = yaml;
        desc.report = &report;
        desc.io.storage = store;
        for (i = 1; i <= 12; i++) {
            char path[20];
            (void)snprintf(path, sizeof path, "s%d", i);
            desc.path = path;
            CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
            CHECK_INT(report.sequence, i);
        }
        CHECK(strncmp(latest(), "s12.", 4) == 0 && strncmp(first_listed(), "s12.", 4) == 0);
        done();
    }
}
/* With a verifier only what it accepts is in the order at all. */
TEST(a_high_number_that_nobody_signed) {
    static const char key[] = "another sixteen bytes";
    dcp_signer signer = dcp_hmac_signer(key, sizeof key, "k");
    dcp_verifier verifier = dcp_hmac_verifier(key, sizeof key);
    dcp_latest_desc desc;
    dcp_prune_desc pruning = DCP_ZERO;
    use_memory();
    (void)save_as("a", 1, DCP_LAYOUT_SHARDED, 0, &signer);
    save("x", 9);
    rewrite("x", INT64_C(1) << 60, -1, NULL);
    CHECK(save_as("b", 2, DCP_LAYOUT_SHARDED, 0, &signer).sequence == (INT64_C(1) << 60) + 1);
    drop("x.metadata.json");
    put_text("y.metadata.json", "{\"sequence\": 9007199254740993}");
    (void)save_as("c", 3, DCP_LAYOUT_SHARDED, 0, &signer);
    desc = looking();
    desc.verifier = &verifier;
    CHECK_STR(latest_with(&desc), "c.metadata.json");
    drop("y.metadata.json");
    pruning.keep_last = 1;
    pruning.verifier = &verifier;
    pruning.io = the_io();
    CHECK_OK_MESSAGE(dcp_prune(&pruning, NULL, &err), err.message);
    check_loads("c", 3);
    CHECK(!is_there("a.metadata.json") && !is_there("b.metadata.json"));
    done();
}

/* ==== latest ====================================================================================================== */
static void latest_body(void) {
    CHECK_FAILS(try_latest(), DCP_E_NOT_FOUND, "no checkpoint");        /* for a subdirectory: not even the directory */
    save("b", 10);
    CHECK_STR(latest(), "b.metadata.json");
    save_single("a", 5);
    CHECK_STR(latest(), "a.checkpoint");                /* saved later, though its step is lower */
    save("c", 7);
    CHECK_STR(latest(), "c.metadata.json");
    save("deeper/d", 8);                                /* only what is directly there counts */
    put_text("x.metadata.json." ID ".tmp", "{}");
    put_text("notes.txt", "x");
    CHECK_STR(latest(), "c.metadata.json");
    drop("c.metadata.json");
    CHECK_STR(latest(), "a.checkpoint");
    CHECK_STR(log_text.text, "");
}
TEST(latest_is_the_one_saved_last) { on_each(latest_body); }

static void path_body(void) {
    char slash[TEST_PATH + 100];
    dcp_latest_desc desc = looking();
    save("a", 3);
    CHECK_STR(latest_with(&desc), at("a.metadata.json"));
    CHECK_OK_MESSAGE(try_load(latest_with(&desc), 3), err.message);     /* the path goes into dcp_load as it is */
    if (store && sub[0] == '\0') return;
    (void)snprintf(slash, sizeof slash, "%s/", here()); /* a slash at the end does no harm */
    desc.directory = slash;
    CHECK_OK_MESSAGE(try_load(latest_with(&desc), 3), err.message);
}
TEST(latest_gives_a_path_to_load) { on_each(path_body); }

static void order_body(void) {
    save("a", 1);
    save("b", 2);
    save("c", 3);
    save("d", 4);
    rewrite("a", 7, 5, "2026-01-01T00:00:00.000000Z");
    rewrite("b", 7, 5, "2026-01-01T00:00:00.000000Z");
    rewrite("c", 7, 5, "2026-01-01T00:00:00.000001Z");
    rewrite("d", 7, 4, "2027-01-01T00:00:00Z");
    CHECK_STR(latest(), "c.metadata.json");             /* the sequences are equal, then the steps; the time decides */
    drop("c.metadata.json");
    CHECK_STR(latest(), "b.metadata.json");             /* all is equal but the name */
    rewrite("a", 7, 6, NULL);
    CHECK_STR(latest(), "a.metadata.json");             /* the step goes before the time and the name */
    rewrite("d", 8, 1, "2001-01-01T00:00:00Z");
    CHECK_STR(latest(), "d.metadata.json");             /* the sequence goes before all */
}
TEST(latest_goes_by_sequence_step_timestamp_name) { on_each(order_body); }

/* A time is a time, in whatever zone it is written. */
TEST(latest_compares_times_not_texts) {
    use_memory();
    save("a", 1);
    save("b", 1);
    rewrite("a", 1, 1, "2026-01-01T07:30:00+02:00");    /* 05:30 UTC */
    rewrite("b", 1, 1, "2026-01-01T06:00:00Z");
    CHECK_STR(latest(), "b.metadata.json");
    rewrite("a", 1, 1, "2026-01-01T05:00:00.5-02:00");  /* 07:00:00.5 UTC */
    CHECK_STR(latest(), "a.metadata.json");
    rewrite("b", 1, 1, "2026-01-01T07:00:00.6Z");
    CHECK_STR(latest(), "b.metadata.json");
    done();
}
/* File times say nothing: the older file is the newer checkpoint. */
TEST(latest_does_not_go_by_file_time) {
#ifdef _WIN32
    SKIP("needs utime");
#else
    struct utimbuf times;
    use_local();
    save("a", 1);
    save("b", 2);
    times.actime = times.modtime = time(NULL) - 100000;
    CHECK_INT(utime(at("b.metadata.json"), &times), 0);
    CHECK_STR(latest(), "b.metadata.json");
    done();
#endif
}
static void skipping_body(void) {
    save("a", 1);
    save("b", 2);
    save_single("c", 3);
    save("d", 4);
    save("e", 5);
    flip("e.metadata.json", 700);                       /* corrupt */
    drop("d_shard_0.bin");                              /* incomplete */
    put_text("c.checkpoint", "PCLM");
    CHECK_STR(latest(), "b.metadata.json");
    CHECK(strstr(log_text.text, "skipped") && strstr(log_text.text, "e.metadata.json"));
    CHECK(strstr(log_text.text, "d_shard_0.bin") != NULL);
    put_text("b_shard_0.bin", "short");
    CHECK_STR(latest(), "a.metadata.json");
    drop("a_shard_0.bin");
    CHECK_FAILS(try_latest(), DCP_E_CHECKSUM, "e.metadata.json");       /* none is valid: the newest one's error */
    drop("e.metadata.json");
    CHECK_FAILS(try_latest(), DCP_E_INCOMPLETE, "d_shard_0.bin");
}
TEST(latest_skips_what_is_not_valid) { on_each(skipping_body); }

TEST(latest_checks_every_byte_if_asked) {
    dcp_latest_desc desc;
    use_memory();
    save("a", 1);
    save("b", 2);
    flip("b_shard_0.bin", 500);
    CHECK_STR(latest(), "b.metadata.json");
    desc = looking();
    desc.verify = DCP_VERIFY_ALL;
    CHECK_STR(latest_with(&desc), "a.metadata.json");
    CHECK(strstr(log_text.text, "b_shard_0.bin") != NULL);
    done();
}
static void newer_body(void) {
    save("a", 1);
    write_newer("b.metadata.json", 5);
    CHECK_FAILS(try_latest(), DCP_E_VERSION, "2.0.0");  /* returned, never skipped */
    save("c", 1);
    CHECK_STR(latest(), "c.metadata.json");             /* behind the newest valid one nobody looks */
}
TEST(latest_returns_a_newer_format) { on_each(newer_body); }

TEST(latest_returns_a_manifest_that_it_must_not_read) {
    use_memory();
    put_text("a.manifest.json", "{\"min_reader_version\": 9, \"metadata_version\": 9}");
    CHECK_FAILS(try_latest(), DCP_E_VERSION, "9");
    done();
}
static dcp_status (*real_open)(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *error);
static const char *unreadable = "b.metadata.json";
static dcp_status failing_open(void *context, const char *path, void **object, dcp_object_info *info,
                               dcp_error *error) {
    if (strcmp(path, unreadable) == 0) return dcpi_fail_sys(error, DCP_E_IO, EIO, "the disk does not answer");
    return real_open(context, path, object, info, error);
}
TEST(latest_returns_an_io_error) {
    use_memory();
    save("a", 1);
    save("b", 2);
    real_open = store->open;
    store->open = failing_open;
    CHECK_FAILS(try_latest(), DCP_E_IO, "does not answer");
    unreadable = "b_shard_0.bin";
    CHECK_FAILS(try_latest(), DCP_E_IO, "does not answer");
    unreadable = "b.metadata.json";
    done();
}
/* A document that this user may not read is in nobody's way who saves; but it might be the newest, so latest fails. */
static int denied_calls;
static dcp_status denied_open(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *error) {
    if (strstr(path, "foreign")) {
        denied_calls++;
        return dcpi_fail_sys(error, DCP_E_DENIED, EACCES, "not for you");
    }
    return real_open(context, path, object, info, error);
}
static dcp_status denied_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *error) {
    (void)context; (void)object; (void)offset; (void)data; (void)size;
    return dcpi_fail_sys(error, DCP_E_DENIED, EPERM, "not for you");
}
static void save_beside_denied(void) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    dcp_tensor t = dcp_bytes("data", "x", 1);
    dcp_save_desc desc = DCP_ZERO;
    dcp_save_report report;
    char name[8] = "s0";
    int64_t last = 0;
    int i;
    for (i = 0; i < 6; i++) {
        name[1] = (char)('0' + i % 3);
        desc.path = at(name);
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.layout = layouts[i % 3];
        desc.overwrite = i >= 3;
        desc.report = &report;
        desc.io = the_io();
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK(report.sequence > last && report.sequence > 3);           /* higher than what it cannot see, too */
        last = report.sequence;
        CHECK(strstr(log_text.text, "foreign.metadata.json") != NULL);
    }
    CHECK_INT(try_latest(), DCP_E_DENIED);
}
TEST(a_document_that_may_not_be_read_stops_no_save) {
    use_memory();
    save("a", 1);
    save("b", 2);
    save("foreign", 9);
    real_open = store->open;
    store->open = denied_open;
    denied_calls = 0;
    save_beside_denied();
    CHECK(denied_calls > 0);
    store->open = real_open;
    drop("foreign.metadata.json");
    CHECK_STR(latest(), "s2.manifest.json");
    store->read = denied_read;                          /* where that is found out when it is read */
    CHECK(try_latest() == DCP_E_DENIED);
    done();
}
TEST(a_document_of_another_user_stops_no_save) {
#ifdef _WIN32
    SKIP("needs users");
#else
    pid_t child;
    int status = -1;
    use_local();
    save("a", 1);
    save("b", 2);
    save("foreign", 9);
    CHECK_INT(chmod(at("foreign.metadata.json"), 0), 0);
    CHECK_INT(chmod(dir, 0777), 0);
    if (geteuid() != 0) { save_beside_denied(); done(); return; }
    CHECK(chmod(at("a.metadata.json"), 0644) == 0 && chmod(at("b.metadata.json"), 0644) == 0);
    CHECK(chmod(at("a_shard_0.bin"), 0644) == 0 && chmod(at("b_shard_0.bin"), 0644) == 0);
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        dcp_tensor t = dcp_bytes("data", "x", 1);
        dcp_save_desc desc = DCP_ZERO;
        dcp_save_report report;
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(3);
        desc.path = at("s");
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.report = &report;
        _exit(dcp_save(&desc, &err) == DCP_OK && report.sequence > 3 ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) SKIP("this user cannot become another one");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    done();
#endif
}
TEST(latest_of_a_directory_that_is_not_there) {
    dcp_latest_desc desc = DCP_ZERO;
    char *path;
    use_local();
    desc.directory = at("none");
    CHECK_FAILS(dcp_latest(&desc, &path, &err), DCP_E_NOT_FOUND, "no such directory");
    CHECK(path == NULL);
    desc.directory = dir;
    CHECK_FAILS(dcp_latest(&desc, &path, &err), DCP_E_NOT_FOUND, "no checkpoint");
    CHECK_FAILS(dcp_latest(NULL, &path, &err), DCP_E_INVALID, "NULL");
    CHECK(path == NULL);
    done();
    use_memory();
    desc.io.storage = store;
    desc.directory = NULL;                              /* the storage's base */
    CHECK_FAILS(dcp_latest(&desc, &path, &err), DCP_E_NOT_FOUND, "no checkpoint");
    save("a", 1);
    CHECK_STR(latest_with(&desc), "a.metadata.json");
    desc.directory = "../x";
    CHECK_FAILS(dcp_latest(&desc, &path, &err), DCP_E_INVALID, "../x");
    done();
}
static const char secret[] = "sixteen bytes or more";
TEST(latest_with_a_verifier_and_a_minimum_step) {
    dcp_signer signer = dcp_hmac_signer(secret, sizeof secret, "k");
    dcp_verifier verifier = dcp_hmac_verifier(secret, sizeof secret);
    dcp_latest_desc desc;
    char *path;
    use_memory();
    (void)save_as("a", 1, DCP_LAYOUT_SHARDED, 0, &signer);
    (void)save_as("b", 2, DCP_LAYOUT_SINGLE, 0, &signer);
    save("c", 3);
    desc = looking();
    desc.verifier = &verifier;
    CHECK_STR(latest_with(&desc), "b.checkpoint");
    CHECK(strstr(log_text.text, "c.metadata.json") != NULL);
    desc.minimum_step = 2;
    CHECK_STR(latest_with(&desc), "b.checkpoint");
    desc.minimum_step = 3;
    CHECK_FAILS(dcp_latest(&desc, &path, &err), DCP_E_SIGNATURE, "c.metadata.json");
    desc.verifier = NULL;
    CHECK_STR(latest_with(&desc), "c.metadata.json");
    desc.minimum_step = 4;
    CHECK_FAILS(dcp_latest(&desc, &path, &err), DCP_E_MISMATCH, "minimum_step");
    done();
}
/* Two commit files of one prefix are two candidates: each has a path of its own. */
TEST(latest_where_a_prefix_has_two_commit_files) {
    dcp_latest_desc desc;
    use_memory();
    save_single("x", 1);
    copy("x.checkpoint", "saved");
    drop("x.checkpoint");
    save("x", 2);
    copy("saved", "x.checkpoint");
    rewrite("x", 9, 2, NULL);
    desc = looking();
    CHECK_OK_MESSAGE(try_load(latest_with(&desc), 2), err.message);
    rewrite("x", 0, 2, NULL);
    CHECK_OK_MESSAGE(try_load(latest_with(&desc), 1), err.message);
    done();
}

/* ==== list ======================================================================================================== */
static size_t list(dcp_verify_policy verify, dcp_list_entry **entries) {
    dcp_list_desc desc = DCP_ZERO;
    size_t count;
    desc.directory = here();
    desc.verify = verify;
    desc.io = the_io();
    CHECK_OK_MESSAGE(dcp_list(&desc, entries, &count, &err), err.message);
    return count;
}
static void list_body(void) {
    dcp_list_entry *e;
    dcp_save_report report;
    size_t count;
    save("a", 10);
    save_single("b", 20);
    report = save_as("c", -1, DCP_LAYOUT_SHARDED, 0, NULL);
    save("d", 40);
    save("e", 50);
    flip("d.metadata.json", 700);
    put_text("e_shard_0.bin", "short");
    put_text("f.manifest.json", "{}");
    put_text("g.txt", "x");
    put_text(".metadata.json", "no name");
    put_text(".checkpoint", "no name");
    count = list(DCP_VERIFY_TOUCHED, &e);
    CHECK_INT(count, 6);
    CHECK_STR(name_in(e[0].path), "e.metadata.json");
    CHECK_INT(e[0].status, DCP_E_INCOMPLETE);
    CHECK(strstr(e[0].message, "e_shard_0.bin") && e[0].sequence == 5 && e[0].step == 50 && e[0].epoch == 5);
    CHECK_STR(name_in(e[1].path), "c.metadata.json");
    CHECK(e[1].status == DCP_OK && e[1].message[0] == '\0');
    CHECK(e[1].sequence == 3 && e[1].step == -1 && e[1].epoch == -1 && e[1].tensors == 1 && e[1].world_size == 1);
    CHECK_STR(e[1].save_id, report.save_id);
    CHECK_INT(e[1].bytes, report.bytes_written);        /* document and data */
    CHECK_INT(strlen(e[1].timestamp), 27);
    CHECK_STR(name_in(e[2].path), "b.checkpoint");
    CHECK_INT(e[2].layout, DCP_LAYOUT_SINGLE);
    CHECK(e[2].status == DCP_OK && e[2].step == 20 && e[2].bytes > SIZE);
    CHECK_STR(name_in(e[3].path), "a.metadata.json");
    CHECK_OK_MESSAGE(try_load(e[3].path, 10), err.message);             /* the path as dcp_open takes it */
    CHECK(strcmp(name_in(e[4].path), "f.manifest.json") == 0 || strcmp(name_in(e[5].path), "f.manifest.json") == 0);
    CHECK(e[4].status != DCP_OK && e[5].status != DCP_OK && e[4].message[0] && e[5].message[0]);
    CHECK(e[4].save_id && e[4].timestamp && e[5].save_id && e[5].timestamp);        /* "" when not known */
    dcp_free(e);
}
TEST(list_of_all_layouts_newest_first) { on_each(list_body); }

TEST(list_of_nothing) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *e;
    size_t count = 9;
    use_local();
    CHECK_INT(list(DCP_VERIFY_TOUCHED, &e), 0);
    dcp_free(e);
    desc.directory = at("none");
    CHECK_FAILS(dcp_list(&desc, &e, &count, &err), DCP_E_NOT_FOUND, "none");
    CHECK(e == NULL && count == 0);
    CHECK_FAILS(dcp_list(NULL, &e, &count, &err), DCP_E_INVALID, "NULL");
    done();
}
TEST(list_checks_every_byte_if_asked) {
    dcp_list_entry *e;
    use_memory();
    save("a", 1);
    save("b", 2);
    flip("b_shard_0.bin", 500);
    CHECK_INT(list(DCP_VERIFY_TOUCHED, &e), 2);
    CHECK(e[0].status == DCP_OK && e[1].status == DCP_OK);
    dcp_free(e);
    CHECK_INT(list(DCP_VERIFY_ALL, &e), 2);
    CHECK(e[0].status == DCP_E_CHECKSUM && e[1].status == DCP_OK);
    dcp_free(e);
    done();
}

/* ==== prune ======================================================================================================= */
static dcp_prune_desc pruning(int keep_last, int64_t keep_every) {
    dcp_prune_desc desc = DCP_ZERO;
    desc.directory = here();
    desc.keep_last = keep_last;
    desc.keep_every = keep_every;
    desc.io = the_io();
    return desc;
}
static int has_path(const dcp_removal *r, const char *name) {
    size_t i;
    int found = 0;
    for (i = 0; i < r->path_count; i++) if (strcmp(r->paths[i], at(name)) == 0) found++;
    return found;
}
static dcp_removal prune_with(const dcp_prune_desc *desc) {
    dcp_removal removal;
    memset(&removal, 0x7F, sizeof removal);             /* needs no initialisation */
    CHECK_OK_MESSAGE(dcp_prune(desc, &removal, &err), err.message);
    return removal;
}
static void prune(int keep_last, int64_t keep_every, size_t checkpoints) {
    dcp_prune_desc desc = pruning(keep_last, keep_every);
    dcp_removal removal = prune_with(&desc);
    CHECK_INT(removal.checkpoints, checkpoints);
    dcp_removal_free(&removal);
    CHECK(removal.paths == NULL && removal.path_count == 0);
}
/* The names of the checkpoints that load, in order of "abcdefgh". */
static const char *loading(void) {
    static char text[20];
    char name[2] = "a";
    text[0] = '\0';
    for (name[0] = 'a'; name[0] <= 'h'; name[0]++)
        if (try_load(at(name), 10 * (name[0] - 'a' + 1)) == DCP_OK) strcat(text, name);
    return text;
}
static void save_six(void) {                            /* steps 10 to 60; "c" and "e" are single files */
    save("a", 10);
    save("b", 20);
    save_single("c", 30);
    save("d", 40);
    save_single("e", 50);
    save("f", 60);
}
static void prune_body(void) {
    dcp_removal removal;
    dcp_prune_desc desc;
    save_six();
    CHECK_STR(loading(), "abcdef");
    prune(6, 0, 0);
    prune(100, 0, 0);
    desc = pruning(4, 0);
    removal = prune_with(&desc);
    CHECK(has_path(&removal, "a.metadata.json") && has_path(&removal, "a_shard_0.bin"));
    CHECK(has_path(&removal, "b.metadata.json") && has_path(&removal, "b_shard_0.bin"));
    CHECK(removal.checkpoints == 2 && removal.path_count == 4 && removal.bytes > 2 * SIZE);
    dcp_removal_free(&removal);
    CHECK(!is_there("a.metadata.json") && !is_there("a_shard_0.bin") && !is_there("b.metadata.json") &&
          !is_there("b_shard_0.bin"));
    CHECK_STR(loading(), "cdef");
    prune(2, 0, 2);
    CHECK_STR(loading(), "ef");
    prune(0, 0, 1);                                     /* 0 is 1: the newest is never removed */
    CHECK_STR(loading(), "f");
    prune(1, 0, 0);
    CHECK_STR(loading(), "f");
}
TEST(prune_keeps_the_last) { on_each(prune_body); }

static void prune_every_body(void) {
    save_six();
    save("g", -1);                                      /* no step: no multiple of anything */
    save("h", 80);
    prune(1, 20, 4);
    CHECK_STR(loading(), "bdfh");
    prune(1, 40, 2);
    CHECK_STR(loading(), "dh");
    save("zero", 0);
    save("last", 90);
    prune(1, 1000000, 2);
    CHECK(is_there("zero.metadata.json") && is_there("last.metadata.json"));        /* 0 is a multiple of all */
    CHECK_STR(loading(), "");
}
TEST(prune_keeps_every_nth_step) { on_each(prune_every_body); }

/* What is damaged is left for a person to look at, and does not count as kept. */
static void prune_corrupt_body(void) {
    save_six();
    flip("f.metadata.json", 700);
    drop("d_shard_0.bin");
    flip("a.metadata.json", 700);
    prune(1, 0, 2);                                     /* b and c; e is the newest valid one */
    CHECK_STR(loading(), "e");
    CHECK(is_there("f.metadata.json") && is_there("f_shard_0.bin") && is_there("d.metadata.json"));
    CHECK(is_there("a.metadata.json") && is_there("a_shard_0.bin"));
    CHECK(!is_there("b.metadata.json") && !is_there("c.checkpoint"));
}
TEST(prune_leaves_what_is_damaged) { on_each(prune_corrupt_body); }

/* A commit file that cannot be read may name anything, so no data goes while there is one; the checkpoint is gone all
 * the same. */
TEST(prune_takes_no_data_while_a_document_is_unreadable) {
    use_memory();
    save_six();
    flip("a.metadata.json", 700);
    prune(1, 0, 4);
    CHECK_STR(loading(), "f");
    CHECK(!is_there("b.metadata.json") && is_there("b_shard_0.bin") && !is_there("c.checkpoint") &&
          is_there("d_shard_0.bin"));
    CHECK(strstr(log_text.text, "could not be read") != NULL);
    done();
}
TEST(prune_proves_by_every_byte_if_asked) {
    dcp_prune_desc desc;
    dcp_removal removal;
    use_memory();
    save_six();
    flip("f_shard_0.bin", 500);
    desc = pruning(1, 0);
    desc.verify = DCP_VERIFY_ALL;
    removal = prune_with(&desc);
    CHECK_INT(removal.checkpoints, 4);
    CHECK_STR(loading(), "e");
    CHECK(is_there("f.metadata.json") && is_there("f_shard_0.bin"));
    dcp_removal_free(&removal);
    done();
}
static dcp_status try_remove(const char *name, dcp_removal *removal);

/* As if another process had saved what is there. */
static void forget(void) {
    dcpi_mutex_lock(&dcpi_life.lock);
    dcpi_life.proven.count = 0;
    dcpi_mutex_unlock(&dcpi_life.lock);
}
/* The newest may be damaged: then it does not stand in for the one that loads. */
static void prune_damaged_body(void) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    static const char *const commits[] = { "c.metadata.json", "c.checkpoint", "c.manifest.json" };
    static const char *const data[] = { "c_shard_0.bin", "c.checkpoint", "dense/data_0_of_1.v2.bin" };
    dcp_prune_desc desc;
    int k;
    for (k = 0; k < 3; k++) {
        (void)save_as("a", 10, layouts[k], 0, NULL);
        (void)save_as("b", 20, layouts[k], 0, NULL);
        (void)save_as("c", 30, layouts[k], 0, NULL);
        flip(data[k], k == 1 ? 4096 + 500 : 500);
        forget();
        CHECK_STR(loading(), "ab");
        prune(1, 0, 1);
        CHECK_STR(loading(), "b");
        CHECK(is_there(commits[k]) && is_there(data[k]));
        CHECK(strstr(log_text.text, commits[k]) != NULL);
        prune(1, 0, 0);
        desc = pruning(1, 0);
        desc.verify = DCP_VERIFY_NONE;                  /* a user wants it otherwise */
        CHECK_OK_MESSAGE(dcp_prune(&desc, NULL, &err), err.message);
        CHECK_STR(loading(), "");
        CHECK(is_there(commits[k]));
        CHECK_OK_MESSAGE(dcp_storage_remove(files, key_of(commits[k]), NULL, &err), err.message);
        drop(data[k]);
    }
}
TEST(prune_never_takes_the_only_one_that_loads) { on_each(prune_damaged_body); }

/* What this process wrote, or has verified, is not read again; another checkpoint at that path, and a copy elsewhere,
 * is. */
static int64_t data_read;
static dcp_status (*real_read)(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *error);
static dcp_status counting_read(void *context, void *object, int64_t offset, void *data, size_t size,
                                dcp_error *error) {
    const dcp_status status = real_read(context, object, offset, data, size, error);
    const uint8_t *bytes = (const uint8_t *)data;
    /* no document */
    if (!status && size == SIZE && bytes[0] == bytes[1] && bytes[0] == bytes[SIZE - 1]) data_read++;
    return status;
}
static void prune_reads(int64_t reads, size_t goes, int line) {
    dcp_prune_desc desc = pruning(1, 0);
    dcp_removal removal;
    data_read = 0;
    removal = prune_with(&desc);
    if (data_read != reads || removal.checkpoints != goes) printf("# line %d: %d reads\n", line, (int)data_read);
    CHECK_INT(data_read, reads);
    CHECK_INT(removal.checkpoints, goes);
    dcp_removal_free(&removal);
}
#define PRUNE_READS(reads, goes) prune_reads(reads, goes, __LINE__)
TEST(prune_reads_once_what_it_did_not_see_written) {
    dcp_layout layout = DCP_LAYOUT_SHARDED;
    int round;
    use_memory();
    real_read = store->read;
    store->read = counting_read;
    for (round = 0; round < 2; round++, layout = DCP_LAYOUT_MANIFEST) {
        (void)save_as("a", 10, layout, 0, NULL);
        (void)save_as("b", 20, layout, 0, NULL);
        PRUNE_READS(0, 1);                              /* written here */
        (void)save_as("c", 30, layout, 0, NULL);
        forget();
        PRUNE_READS(1, 1);
        (void)save_as("d", 30, layout, 0, NULL);        /* a manifest keeps the file of one that was verified */
        PRUNE_READS(0, 1);
        (void)save_as("e", 40, layout, 0, NULL);
        forget();
        (void)save_as("f", 40, layout, 0, NULL);        /* a manifest keeps the file of one that nobody has looked at */
        PRUNE_READS(round, 2);
        (void)save_as("g", 50, layout, 0, NULL);
        PRUNE_READS(0, 1);
        (void)save_as("h", 60, layout, 0, NULL);
        forget();
        (void)save_as("g", 70, layout, 1, NULL);        /* the newest now, and not the one before */
        PRUNE_READS(round, 1);
        CHECK_OK_MESSAGE(try_remove("g", NULL), err.message);
    }
    (void)save_as("run/a", 10, DCP_LAYOUT_SHARDED, 0, NULL);
    (void)save_as("run/b", 20, DCP_LAYOUT_SHARDED, 0, NULL);
    copy("run/a.metadata.json", "a.metadata.json");     /* a copy of both, one of which suffers */
    copy("run/b.metadata.json", "b.metadata.json");
    copy("run/a_shard_0.bin", "a_shard_0.bin");
    copy("run/b_shard_0.bin", "b_shard_0.bin");
    flip("b_shard_0.bin", 500);
    PRUNE_READS(2, 0);
    CHECK_STR(loading(), "a");
    store->read = real_read;
    done();
}
/* G2: a copied commit file names the same shards. They stay as long as one of the two does. */
static void prune_shared_body(void) {
    save("a", 10);
    copy("a.metadata.json", "h.metadata.json");
    save("b", 20);
    prune(2, 0, 1);                                     /* b and the later name of the two equal ones stay */
    CHECK(!is_there("a.metadata.json") && is_there("h.metadata.json") && is_there("a_shard_0.bin"));
    CHECK_OK_MESSAGE(try_load(at("h"), 10), err.message);
    prune(1, 0, 1);
    CHECK(!is_there("h.metadata.json") && is_there("a_shard_0.bin"));   /* not a name of h's: sweep's, on request */
    CHECK_STR(loading(), "b");
}
TEST(prune_keeps_shared_files) { on_each(prune_shared_body); }

static void dry_run_body(void) {
    dcp_prune_desc desc;
    dcp_removal dry, real;
    size_t i, j;
    save_six();
    copy("a.metadata.json", "a2.metadata.json");
    desc = pruning(3, 0);
    desc.keep_every = 20;
    desc.dry_run = 1;
    dry = prune_with(&desc);
    CHECK_STR(loading(), "abcdef");
    CHECK(is_there("a2.metadata.json"));
    desc.dry_run = 0;
    real = prune_with(&desc);
    CHECK_INT(dry.checkpoints, real.checkpoints);
    CHECK_INT(dry.path_count, real.path_count);
    CHECK_INT(dry.bytes, real.bytes);
    for (i = 0; i < dry.path_count; i++) {
        for (j = 0; j < real.path_count; j++) if (strcmp(dry.paths[i], real.paths[j]) == 0) break;
        CHECK(j < real.path_count);
    }
    CHECK_INT(real.checkpoints, 3);                     /* c, a and a2, and the shard of these two */
    CHECK_INT(real.path_count, 4);
    dcp_removal_free(&dry);
    dcp_removal_free(&real);
}
TEST(prune_dry_run_tells_what_a_real_one_does) { on_each(dry_run_body); }

/* Only one of the two that share a shard would go: then the shard would stay. */
TEST(prune_dry_run_knows_shared_files) {
    dcp_prune_desc desc;
    dcp_removal removal;
    use_memory();
    save("a", 10);
    copy("a.metadata.json", "h.metadata.json");
    save("b", 20);
    desc = pruning(2, 0);
    desc.dry_run = 1;
    removal = prune_with(&desc);
    CHECK_INT(removal.checkpoints, 1);
    CHECK_INT(removal.path_count, 1);
    CHECK(has_path(&removal, "a.metadata.json"));
    dcp_removal_free(&removal);
    done();
}
TEST(prune_arguments) {
    dcp_prune_desc desc;
    dcp_removal removal;
    dcp_cancel cancel = DCP_ZERO;
    use_memory();
    save_six();
    desc = pruning(-1, 0);
    CHECK_FAILS(dcp_prune(&desc, &removal, &err), DCP_E_INVALID, "keep_last");
    CHECK(removal.paths == NULL && removal.path_count == 0 && removal.checkpoints == 0);
    desc = pruning(1, -1);
    CHECK_FAILS(dcp_prune(&desc, NULL, &err), DCP_E_INVALID, "keep_every");
    CHECK_FAILS(dcp_prune(NULL, &removal, &err), DCP_E_INVALID, "NULL");
    desc = pruning(1, 0);
    desc.io.cancel = &cancel;
    dcp_cancel_request(&cancel);
    CHECK_FAILS(dcp_prune(&desc, &removal, &err), DCP_E_CANCELLED, "cancelled");
    desc = pruning(1, 0);
    desc.directory = "none";
    /* in memory there are no directories, so none is missing */
    CHECK_OK_MESSAGE(dcp_prune(&desc, NULL, &err), err.message);
    CHECK_STR(loading(), "abcdef");
    desc = pruning(5, 0);
    CHECK_OK(dcp_prune(&desc, NULL, &err));             /* the list may be NULL */
    CHECK_STR(loading(), "bcdef");
    done();
}
/* An overwrite, too, removes only what no document names: a copy of the displaced one keeps its shard. */
static void overwrite_shared_body(void) {
    save("x", 1);
    copy("x.metadata.json", "copy.metadata.json");
    (void)save_as("x", 2, DCP_LAYOUT_SHARDED, 1, NULL);
    check_loads("x", 2);
    check_loads("copy", 1);
    CHECK(is_there("x_shard_0.bin"));
    drop("copy.metadata.json");
    (void)save_as("x", 3, DCP_LAYOUT_SHARDED, 1, NULL);
    CHECK(is_there("x_shard_0.bin"));                   /* nobody's now, and not this save's to remove: sweep's */
}
TEST(overwriting_keeps_shared_files) { on_each(overwrite_shared_body); }

/* A damaged checkpoint can be replaced; what it may have named is left to sweep, and said so. */
static void overwrite_damaged_body(void) {
    save("x", 1);
    flip("x.metadata.json", 700);
    (void)save_as("x", 2, DCP_LAYOUT_SHARDED, 1, NULL);
    check_loads("x", 2);
    CHECK(is_there("x_shard_0.bin"));
}
TEST(overwriting_what_is_damaged) { on_each(overwrite_damaged_body); }

/* ==== remove ====================================================================================================== */
static dcp_status try_remove(const char *name, dcp_removal *removal) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.io = the_io();
    return dcp_remove(&desc, removal, &err);
}
static void remove_body(void) {
    dcp_removal removal;
    save_six();
    memset(&removal, 0x7F, sizeof removal);
    CHECK_OK_MESSAGE(try_remove("b", &removal), err.message);
    CHECK(removal.checkpoints == 1 && removal.path_count == 2 && removal.bytes > SIZE);
    CHECK(has_path(&removal, "b.metadata.json") && has_path(&removal, "b_shard_0.bin"));
    dcp_removal_free(&removal);
    CHECK(!is_there("b.metadata.json") && !is_there("b_shard_0.bin"));
    CHECK_STR(loading(), "acdef");
    CHECK_OK_MESSAGE(try_remove("c", NULL), err.message);
    CHECK(!is_there("c.checkpoint"));
    CHECK_OK_MESSAGE(try_remove("d.metadata.json", NULL), err.message);
    CHECK_STR(loading(), "aef");
    CHECK_FAILS(try_remove("b", &removal), DCP_E_NOT_FOUND, "b");
    CHECK(removal.paths == NULL && removal.path_count == 0);
    CHECK_FAILS(try_remove("b.metadata.json", NULL), DCP_E_NOT_FOUND, "b.metadata.json");
    CHECK_FAILS(try_remove("", NULL), DCP_E_INVALID, "");
    save("b", 20);                                      /* the name is free again, for a plain shard too */
    CHECK(is_there("b_shard_0.bin"));
}
TEST(remove_takes_one_checkpoint) { on_each(remove_body); }

static void remove_shared_body(void) {
    save("a", 10);
    copy("a.metadata.json", "b.metadata.json");
    CHECK_OK_MESSAGE(try_remove("a", NULL), err.message);
    CHECK(!is_there("a.metadata.json") && is_there("a_shard_0.bin"));
    CHECK_OK_MESSAGE(try_load(at("b"), 10), err.message);
    CHECK_OK_MESSAGE(try_remove("b", NULL), err.message);
    CHECK(!is_there("b.metadata.json") && is_there("a_shard_0.bin"));   /* not a name of b's: sweep's, on request */
}
TEST(remove_keeps_shared_files) { on_each(remove_shared_body); }

TEST(remove_of_what_is_damaged) {
    use_memory();
    save("a", 10);
    flip("a.metadata.json", 700);
    CHECK_OK_MESSAGE(try_remove("a", NULL), err.message);
    CHECK(!is_there("a.metadata.json") && is_there("a_shard_0.bin"));   /* whose data is not known: sweep's */
    CHECK(strstr(log_text.text, "cannot tell") != NULL);
    save("b", 20);
    drop("b_shard_0.bin");
    CHECK_OK_MESSAGE(try_remove("b", NULL), err.message);               /* its data is gone already */
    CHECK(!is_there("b.metadata.json"));
    write_newer("n.metadata.json", 3);
    CHECK_OK_MESSAGE(try_remove("n", NULL), err.message);
    CHECK(!is_there("n.metadata.json"));
    done();
}

/* ==== whose a file is ============================================================================================= */
/* What a document may name and must not take along: other programs' files, other checkpoints', and what looks like
 * its own. */
static const char *const not_its_own[] = {
    "thesis.tex", ".bashrc", "src/main.c", "sub/x_shard_0.bin", "y_shard_0.bin", "y_shard_0." ID ".bin",
    "x_shard_0_shard_0.bin", "x_shard_0.bin.bak", "X_shard_0.bin", "x_shard_a.bin", "xx_shard_0.bin", "x_shard_0",
    "dense/w_0_of_1.bin", "x.bin"
};
/* The document of "x" lays claim to another file, and is well sealed. */
static void lay_claim(const char *path) {
    dcp_metadata *m;
    char key[300];
    (void)snprintf(key, sizeof key, "%sx.metadata.json", sub);
    save("x", 10);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(files, key, NULL, NULL, &m, &err), err.message);
    m->shards[0].file_path = path;
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, key, m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
    drop("x_shard_0.bin");
    copy("kept_shard_0.bin", path);                     /* of the size that the document says */
}
static void claims_body(void) {
    size_t i;
    int how;
    save("kept", 10);
    for (i = 0; i < COUNT(not_its_own); i++) {
        for (how = 0; how < 3; how++) {
            lay_claim(not_its_own[i]);
            if (how == 0) CHECK_OK_MESSAGE(try_remove("x", NULL), err.message);
            if (how == 1) (void)save_as("x", 20, DCP_LAYOUT_SHARDED, 1, NULL);
            if (how == 2) { save("z", 90); prune(1, 0, 2); }
            if (!is_there(not_its_own[i])) printf("# %s, %d\n", not_its_own[i], how);
            CHECK(is_there(not_its_own[i]));
            if (how == 1) CHECK_OK_MESSAGE(try_remove("x", NULL), err.message);
            if (how == 2) CHECK_OK_MESSAGE(try_remove("z", NULL), err.message);
            if (how == 2) save("kept", 10);
            drop(not_its_own[i]);
        }
    }
}
TEST(nothing_goes_because_a_document_lays_claim_to_it) { on_each(claims_body); }

/* ==== sweep ======================================================================================================= */
static dcp_sweep_desc sweeping(int64_t grace, int plain) {
    dcp_sweep_desc desc = DCP_ZERO;
    desc.directory = here();
    desc.grace_seconds = grace;
    desc.plain_names = plain;
    desc.io = the_io();
    return desc;
}
static dcp_removal sweep_with(const dcp_sweep_desc *desc) {
    dcp_removal removal;
    memset(&removal, 0x7F, sizeof removal);
    CHECK_OK_MESSAGE(dcp_sweep(desc, &removal, &err), err.message);
    CHECK_INT(removal.checkpoints, 0);
    return removal;
}
static size_t sweep(int64_t grace, int plain) {
    dcp_sweep_desc desc = sweeping(grace, plain);
    dcp_removal removal = sweep_with(&desc);
    size_t count = removal.path_count;
    dcp_removal_free(&removal);
    return count;
}
/* What a killed save leaves, and what only looks like it. */
static const char *const leftovers[] = {
    "x.metadata.json." ID ".tmp", "x.metadata.json." ID "-2.tmp", "x_shard_0.bin." ID ".tmp", "x.checkpoint."
        ID "-13.tmp",
    "x_shard_0." ID ".bin." ID ".tmp"
};
static const char *const lost_shards[] = { "x_shard_0." ID ".bin", "x_shard_17." ID ".bin", "a b_shard_0." ID ".bin" };
static const char *const plain_shards[] = { "x_shard_0.bin", "x_shard_123.bin" };
static const char *const strangers[] = {
    "notes.txt", "x.tmp", "x." ID, ID ".tmp", "v.0123456789ABCDEF.tmp", "x.0123456789abcde.tmp", "x." ID "-.tmp",
        "x." ID "-a.tmp",
    "x." ID ".tmp.gz", "x_shard_.bin", "v_shard_0.0123456789ABCDEF.bin", "x_shard_0." ID ".bin.bak",
    "_shard_0." ID ".bin",
    "x_shard_0x." ID ".bin", "x_shard_-1.bin", "x_shard_0.txt", "xshard_0.bin", "x_shard_12345678901.bin",
    "weights.bin", ".hidden"
};
static void put_all(const char *const *names, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) put_text(names[i], "left");
}
static int count_there(const char *const *names, size_t count) {
    int there = 0;
    size_t i;
    for (i = 0; i < count; i++) there += is_there(names[i]);
    return there;
}
static void put_zoo(void) {
    put_all(leftovers, COUNT(leftovers));
    put_all(lost_shards, COUNT(lost_shards));
    put_all(plain_shards, COUNT(plain_shards));
    put_all(strangers, COUNT(strangers));
}
static void sweep_body(void) {
    dcp_sweep_desc desc;
    dcp_removal removal;
    save("p", 1);
    (void)save_as("q", 2, DCP_LAYOUT_SHARDED, 0, NULL);
    (void)save_as("q", 3, DCP_LAYOUT_SHARDED, 1, NULL);                 /* its shard has an id in its name */
    put_zoo();
    put_text("below/x.metadata.json." ID ".tmp", "left");
    CHECK_INT(sweep(0, 1), 0);                          /* all of it is younger than a day */
    CHECK_INT(sweep(3600, 1), 0);
    desc = sweeping(-1, 0);
    removal = sweep_with(&desc);
    CHECK_INT(removal.path_count, COUNT(leftovers) + COUNT(lost_shards));
    CHECK_INT(removal.bytes, 4 * (COUNT(leftovers) + COUNT(lost_shards)));
    CHECK_INT(has_path(&removal, leftovers[0]), 1);
    dcp_removal_free(&removal);
    CHECK_INT(count_there(leftovers, COUNT(leftovers)) + count_there(lost_shards, COUNT(lost_shards)), 0);
    CHECK_INT(count_there(plain_shards, COUNT(plain_shards)), COUNT(plain_shards));
    CHECK_INT(count_there(strangers, COUNT(strangers)), COUNT(strangers));
    CHECK_INT(sweep(-1, 0), 0);
    CHECK_INT(sweep(-1, 1), COUNT(plain_shards));       /* plain names only on request */
    CHECK_INT(count_there(strangers, COUNT(strangers)), COUNT(strangers));
    CHECK(is_there("below/x.metadata.json." ID ".tmp"));
    check_loads("p", 1);
    check_loads("q", 3);
}
TEST(sweep_takes_what_killed_saves_left) { on_each(sweep_body); }

/* G2: what a commit file names stays, whatever it is called. */
static void sweep_named_body(void) {
    save("p", 1);
    (void)save_as("p", 2, DCP_LAYOUT_SHARDED, 1, NULL);
    copy("p.metadata.json", "copy.metadata.json");
    drop("p.metadata.json");
    CHECK_INT(sweep(-1, 1), 0);
    check_loads("copy", 2);
    drop("copy.metadata.json");
    CHECK_INT(sweep(-1, 1), 1);                         /* nobody names it any more */
    CHECK_INT(sweep(-1, 1), 0);
}
TEST(sweep_keeps_what_a_document_names) { on_each(sweep_named_body); }

/* A directory of checkpoints that is called like a folder of manifests is no such folder, and neither is what lies
 * below it. */
static const char *const folders[] = { "dense", "experts", "optim", "router", "dense/layers",
                                      "experts/tier_0/group_0", "optim/a/b/c" };
static void put_in(const char *folder, const char *name) {
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    put_text(path, "left");
}
static void save_in(const char *folder, const char *name, int64_t step, dcp_layout layout, int overwrite) {
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)save_as(path, step, layout, overwrite, NULL);
}
static void check_in(const char *folder, const char *name, int64_t step) {
    char path[200];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    check_loads(path, step);
}
static void inner_body(void) {
    size_t i;
    int round;
    for (i = 0; i < COUNT(folders); i++) {
        for (round = 1; round <= 2; round++) {          /* the second time the names have ids and versions */
            save_in(folders[i], "a", round, DCP_LAYOUT_SHARDED, round > 1);
            save_in(folders[i], "b", round, DCP_LAYOUT_SINGLE, round > 1);
            save_in(folders[i], "c", round, DCP_LAYOUT_MANIFEST, round > 1);
        }
        put_in(folders[i], "x_shard_0." ID ".bin");
        put_in(folders[i], "x.metadata.json." ID ".tmp");
        put_in(folders[i], "dense/old_0_of_1.v3." ID ".bin");
    }
    put_text("dense_0/a_0_of_1.v3." ID ".bin", "not ours");
    CHECK_INT(sweep(-1, 0), 0);
    CHECK_INT(sweep(-1, 1), 0);
    for (i = 0; i < COUNT(folders); i++) {
        check_in(folders[i], "a", 2);
        check_in(folders[i], "b", 2);
        check_in(folders[i], "c", 2);
    }
    save("top", 1);
    /* its files lie in such a folder, and stay there */
    (void)save_as("top2", 2, DCP_LAYOUT_MANIFEST, 0, NULL);
    CHECK_INT(sweep(-1, 1), 0);
    check_loads("top2", 2);
    CHECK_OK_MESSAGE(try_remove("top2", NULL), err.message);
    CHECK(strstr(log_text.text, "dense") != NULL);
    check_in("dense", "c", 2);
}
TEST(sweep_leaves_directories_of_checkpoints_alone) { on_each(inner_body); }

/* Not even a first one is disturbed, whose commit file is not there yet. */
static void inner_first_body(void) {
    static const char *const begun[] = {
        "a_shard_0.bin", "a_shard_0." ID ".bin", "a_shard_1.bin." ID ".tmp", "a.manifest." ID ".intent.tmp",
        "a.metadata.json." ID ".tmp", "a.commit.lock", "a.checkpoint." ID "-3.tmp"
    };
    char path[100];
    size_t i;
    for (i = 0; i < COUNT(begun); i++) {
        put_in("dense", begun[i]);
        put_text("dense/experts/tier_0/group_0/expert_1.bin", "left");
        put_text("dense/w_0_of_1.bin." ID ".tmp", "left");
        CHECK_INT(sweep(-1, 1), 0);
        (void)snprintf(path, sizeof path, "dense/%s", begun[i]);
        drop(path);
        drop("dense/w_0_of_1.bin." ID ".tmp");
        CHECK_INT(sweep(-1, 1), 1);                     /* now it is a folder of a pool, and nobody names its file */
    }
}
TEST(sweep_leaves_a_first_save_in_a_folder_alone) { on_each(inner_first_body); }

/* If any commit file is unreadable, unverifiable or newer, it may name anything: only temporary files go. */
static void check_only_temporary(const char *why) {
    size_t before = COUNT(lost_shards);
    put_all(leftovers, COUNT(leftovers));
    put_all(lost_shards, COUNT(lost_shards));
    CHECK_INT(sweep(-1, 1), COUNT(leftovers));
    CHECK_INT(count_there(lost_shards, COUNT(lost_shards)), before);
    CHECK(strstr(log_text.text, "only temporary files") != NULL);
    CHECK(strstr(log_text.text, why) != NULL);
}
static void sweep_unread_body(void) {
    save("p", 1);
    save("q", 2);
    flip("q.metadata.json", 700);
    check_only_temporary("q.metadata.json");
    drop("q.metadata.json");
    write_newer("n.metadata.json", 1);
    check_only_temporary("n.metadata.json");
    drop("n.metadata.json");
    put_text("m.manifest.yaml", "a: 1\n");
    check_only_temporary("m.manifest.yaml");
    drop("m.manifest.yaml");
    put_text("c.checkpoint", "");
    check_only_temporary("c.checkpoint");
    drop("c.checkpoint");
    CHECK_INT(sweep(-1, 0), COUNT(lost_shards));
    check_loads("p", 1);
}
TEST(sweep_is_careful_beside_what_it_cannot_read) { on_each(sweep_unread_body); }

TEST(sweep_with_a_verifier) {
    dcp_signer signer = dcp_hmac_signer(secret, sizeof secret, "k");
    dcp_verifier verifier = dcp_hmac_verifier(secret, sizeof secret);
    dcp_sweep_desc desc;
    dcp_removal removal;
    use_memory();
    (void)save_as("p", 1, DCP_LAYOUT_SHARDED, 0, &signer);
    save("q", 2);                                       /* unsigned: somebody may have put it there */
    put_all(lost_shards, COUNT(lost_shards));
    desc = sweeping(-1, 0);
    desc.verifier = &verifier;
    removal = sweep_with(&desc);
    CHECK_INT(removal.path_count, 0);
    dcp_removal_free(&removal);
    drop("q.metadata.json");
    removal = sweep_with(&desc);
    CHECK_INT(removal.path_count, COUNT(lost_shards));
    dcp_removal_free(&removal);
    done();
}
static void sweep_dry_body(void) {
    dcp_sweep_desc desc;
    dcp_removal removal;
    save("p", 1);
    put_zoo();
    desc = sweeping(-1, 1);
    desc.dry_run = 1;
    removal = sweep_with(&desc);
    CHECK_INT(removal.path_count, COUNT(leftovers) + COUNT(lost_shards) + COUNT(plain_shards));
    CHECK_INT(count_there(leftovers, COUNT(leftovers)), COUNT(leftovers));
    CHECK_INT(count_there(lost_shards, COUNT(lost_shards)), COUNT(lost_shards));
    CHECK_INT(count_there(plain_shards, COUNT(plain_shards)), COUNT(plain_shards));
    dcp_removal_free(&removal);
}
TEST(sweep_dry_run_removes_nothing) { on_each(sweep_dry_body); }

#ifndef _WIN32
static void age(const char *name, int hours) {
    struct utimbuf times;
    times.actime = times.modtime = time(NULL) - hours * 3600;
    CHECK_INT(utime(at(name), &times), 0);
}
#endif
/* Age is measured against a file that sweep has just made there, not against this machine's clock. */
/* Nobody has saved there yet. */
static void sweep_nowhere_body(void) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removed;
    desc.directory = "runs/none";
    desc.io.storage = files;
    CHECK_OK_MESSAGE(dcp_sweep(&desc, &removed, &err), err.message);
    CHECK_INT(removed.path_count, 0);
    dcp_removal_free(&removed);
}
TEST(sweep_of_a_directory_that_is_not_there) { on_local_and_memory(sweep_nowhere_body); }
TEST(sweep_goes_by_age) {
#ifdef _WIN32
    SKIP("needs utime");
#else
    use_local();
    put_all(lost_shards, COUNT(lost_shards));
    put_all(leftovers, COUNT(leftovers));
    age(lost_shards[0], 25);
    age(lost_shards[1], 23);
    age(leftovers[0], 25);
    age(leftovers[1], 2);
    CHECK_INT(sweep(0, 0), 2);
    CHECK(!is_there(lost_shards[0]) && is_there(lost_shards[1]) && !is_there(leftovers[0]) && is_there(leftovers[1]));
    CHECK_INT(sweep(3600, 0), 2);
    CHECK(!is_there(lost_shards[1]) && is_there(lost_shards[2]) && !is_there(leftovers[1]) && is_there(leftovers[2]));
    CHECK_INT(sweep(INT64_MAX, 0), 0);
    done();
#endif
}
/* Directories and links are nobody's leftovers. */
TEST(sweep_takes_only_regular_files) {
#ifdef _WIN32
    SKIP("needs symbolic links");
#else
    struct stat info;
    use_local();
    put_text("target", "text");
    CHECK_INT(symlink("target", at(leftovers[0])), 0);
    CHECK_INT(mkdir(at(leftovers[1]), 0700), 0);
    CHECK_INT(mkfifo(at(leftovers[2]), 0600), 0);
    CHECK_INT(sweep(-1, 1), 0);
    CHECK(lstat(at(leftovers[0]), &info) == 0 && lstat(at(leftovers[1]), &info) == 0 &&
          lstat(at(leftovers[2]), &info) == 0);
    CHECK(is_there("target"));
    done();
#endif
}
/* A commit file that was moved elsewhere and left a link: no listing shows it, but it may name the data files. */
TEST(sweep_is_careful_beside_a_linked_commit_file) {
#ifdef _WIN32
    SKIP("needs symbolic links");
#else
    use_local();
    put_all(lost_shards, COUNT(lost_shards));
    put_all(leftovers, COUNT(leftovers));
    save("q", 1);
    CHECK(strncmp(lost_shards[0], "x_shard_", 8) == 0);
    CHECK_INT(symlink("elsewhere", at("x.metadata.json")), 0);
    CHECK_INT(sweep(-1, 1), COUNT(leftovers));
    CHECK(strstr(log_text.text, "only temporary files") != NULL);
    drop("x.metadata.json");
    CHECK_INT(sweep(-1, 1), COUNT(lost_shards));
    check_loads("q", 1);
    done();
#endif
}
TEST(sweep_arguments) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_cancel cancel = DCP_ZERO;
    use_local();
    desc.directory = at("none");
    CHECK_FAILS(dcp_sweep(&desc, &removal, &err), DCP_E_NOT_FOUND, "none");
    CHECK(removal.paths == NULL && removal.path_count == 0);
    CHECK_FAILS(dcp_sweep(NULL, &removal, &err), DCP_E_INVALID, "NULL");
    put_all(leftovers, COUNT(leftovers));
    desc.directory = dir;
    desc.grace_seconds = -1;
    desc.io.cancel = &cancel;
    dcp_cancel_request(&cancel);
    CHECK_FAILS(dcp_sweep(&desc, &removal, &err), DCP_E_CANCELLED, "cancelled");
    CHECK_INT(count_there(leftovers, COUNT(leftovers)), COUNT(leftovers));
    desc.io.cancel = NULL;
    CHECK_OK_MESSAGE(dcp_sweep(&desc, NULL, &err), err.message);        /* the list may be NULL */
    CHECK_INT(count_there(leftovers, COUNT(leftovers)), 0);
    done();
}
/* A save that is running has files there that look like leftovers: with the usual grace time sweep lets it finish. */
static int64_t swept;
static dcp_status (*real_commit)(void *context, void *object, const dcp_commit_request *request, dcp_error *error);
static dcp_status sweep_then_commit(void *context, void *object, const dcp_commit_request *request, dcp_error *error) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_storage plain = *store;
    plain.commit = real_commit;
    desc.io.storage = &plain;
    desc.plain_names = 1;
    if (dcp_sweep(&desc, &removal, NULL) == DCP_OK) swept += (int64_t)removal.path_count + 1000;
    dcp_removal_free(&removal);
    return real_commit(context, object, request, error);
}
TEST(sweep_beside_a_running_save) {
    use_memory();
    real_commit = store->commit;
    store->commit = sweep_then_commit;
    swept = 0;
    save("p", 1);
    CHECK_INT(swept, 2000);                             /* two sweeps, and nothing taken */
    store->commit = real_commit;
    check_loads("p", 1);
    done();
}
/* Every call on a directory and on a checkpoint counts what it warns of, and keeps the first text, with no log set. */
static void check_report(dcp_report *report, int64_t count, const char *words, int line) {
    char text[700];
    (void)snprintf(text, sizeof text, "%d warnings: %.500s", (int)report->warning_count, report->warning);
    if (report->warning_count != count || !strstr(report->warning, words)) test_fail(__FILE__, line, text, "");
    memset(report, 0x5A, sizeof *report);               /* written on every return */
}
#define REPORT(count, words) check_report(&report, count, words, __LINE__)
static void report_body(void) {
    static uint8_t data[SIZE];
    dcp_report report;
    dcp_removal removal;
    dcp_tensor t = dcp_bytes("data", data, SIZE);
    dcp_latest_desc latest_desc = DCP_ZERO;
    dcp_list_desc list_desc = DCP_ZERO;
    dcp_prune_desc prune_desc = DCP_ZERO;
    dcp_sweep_desc sweep_desc = DCP_ZERO;
    dcp_remove_desc remove_desc = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_list_entry *entries;
    char *path;
    size_t count;
    latest_desc.io.storage = list_desc.io.storage = prune_desc.io.storage = store;
    sweep_desc.io.storage = remove_desc.io.storage = load.io.storage = store;
    latest_desc.report = list_desc.report = prune_desc.report = &report;
    sweep_desc.report = remove_desc.report = load.report = &report;
    latest_desc.directory = list_desc.directory = prune_desc.directory = sweep_desc.directory = here();
    save("a", 1);
    CHECK_OK_MESSAGE(dcp_latest(&latest_desc, &path, &err), err.message);
    dcp_free(path);
    REPORT(0, "");
    save("b", 2);
    save("c", 3);
    save("d", 4);
    flip("d.metadata.json", 700);
    drop("c_shard_0.bin");
    CHECK_OK_MESSAGE(dcp_latest(&latest_desc, &path, &err), err.message);
    dcp_free(path);
    REPORT(2, "d.metadata.json");
    CHECK_OK_MESSAGE(dcp_list(&list_desc, &entries, &count, &err), err.message);
    dcp_free(entries);
    REPORT(0, "");
    prune_desc.keep_last = 1;
    CHECK_OK_MESSAGE(dcp_prune(&prune_desc, &removal, &err), err.message);
    dcp_removal_free(&removal);
    REPORT(2, "d.metadata.json");
    CHECK_OK_MESSAGE(dcp_sweep(&sweep_desc, NULL, &err), err.message);
    REPORT(2, "d.metadata.json");
    remove_desc.path = at("b");
    CHECK_OK_MESSAGE(dcp_remove(&remove_desc, NULL, &err), err.message);
    REPORT(2, "d.metadata.json");
    load.path = at("b");
    load.tensors = &t;
    load.tensor_count = 1;
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_NOT_FOUND, "b");
    REPORT(0, "");
    drop("d.metadata.json");
    drop("c.metadata.json");
    CHECK_FAILS(dcp_latest(&latest_desc, &path, &err), DCP_E_NOT_FOUND, "");
    REPORT(0, "");
}
TEST(what_is_warned_of_is_in_the_report) { on_each(report_body); }

/* A file that is fetched from elsewhere: load and open say so, and each later call on the checkpoint adds to it. */
TEST(a_loads_warnings_are_in_the_report) {
    static uint8_t data[SIZE];
    dcp_report report;
    dcp_tensor t = dcp_bytes("data", data, SIZE), mine = DCP_ZERO;
    dcp_source source = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *c;
    use_memory();
    save("a", 1);
    sub = "copy/";
    save("a", 1);
    sub = "";
    source.storage = store;
    source.directory = "copy";
    load.path = open.path = "a";
    load.io.storage = open.io.storage = store;
    load.tensors = &t;
    load.tensor_count = 1;
    load.sources = open.sources = &source;
    load.source_count = open.source_count = 1;
    load.report = open.report = &report;
    memset(&report, 0x5A, sizeof report);
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    REPORT(0, "");
    drop("a_shard_0.bin");
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    REPORT(1, "fetched from");
    CHECK_OK_MESSAGE(dcp_open(&open, &c, &err), err.message);
    REPORT(0, "");
    CHECK_OK_MESSAGE(dcp_read_new(c, "data", &mine, &err), err.message);
    dcp_free(mine.data);
    dcp_checkpoint_warnings(c, &report);
    REPORT(1, "fetched from");
    dcp_close(c);
    open.verify = DCP_VERIFY_ALL;
    CHECK_OK_MESSAGE(dcp_open(&open, &c, &err), err.message);
    REPORT(1, "fetched from");
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_checkpoint_warnings(c, &report);
    REPORT(1, "fetched from");                          /* the file has been found by then */
    dcp_close(c);
    open.verify = DCP_VERIFY_TOUCHED;
    CHECK_OK_MESSAGE(dcp_open(&open, &c, &err), err.message);
    {
        const void *bytes;
        size_t size;
        CHECK_OK_MESSAGE(dcp_map(c, "data", &bytes, &size, &err), err.message);
    }
    dcp_checkpoint_warnings(c, &report);
    REPORT(1, "fetched from");
    dcp_close(c);
    dcp_checkpoint_warnings(NULL, &report);
    REPORT(0, "");
    done();
}
/* Ready made: one line for each message, with its level. */
TEST(dcp_log_stderr_writes_lines) {
#ifdef _WIN32
    SKIP("needs dup");
#else
    char text[400] = "";
    FILE *file = tmpfile();
    const int kept = dup(2);
    size_t size;
    CHECK(file != NULL && kept >= 0);
    (void)fflush(stderr);
    CHECK(dup2(fileno(file), 2) == 2);
    dcp_log_stderr(NULL, DCP_LOG_WARNING, "one");
    dcp_log_stderr(NULL, DCP_LOG_ERROR, "two");
    dcp_log_stderr(&err, (dcp_log_level)9, NULL);
    (void)fflush(stderr);
    (void)dup2(kept, 2);
    (void)close(kept);
    rewind(file);
    size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[size] = '\0';
    CHECK_STR(text, "dcp: warning: one\ndcp: error: two\ndcp: ?: \n");
#endif
}


/* ==== large documents: read in pieces ============================================================================= */
TEST(a_document_of_megabytes) {
    static const char *const names[] = { "x.metadata.json", "x.checkpoint", "x.manifest.json", "x.manifest.yaml" };
    static const size_t sizes[] = { 1000 * 1024, 2 * 1024 * 1024 + 17 };
    dcp_signer signer = dcp_hmac_signer("sixteen bytes or more", 16, "k");
    dcp_verifier verifier = dcp_hmac_verifier("sixteen bytes or more", 16);
    dcp_tensor t = dcp_bytes("data", "x", 1);
    size_t i, k, n;
    for (i = 0; i < COUNT(names); i++) {
        for (k = 0; k < COUNT(sizes); k++) {
            dcp_save_desc desc = DCP_ZERO;
            dcp_open_desc open = DCP_ZERO;
            dcp_checkpoint *c;
            dcp_field field;
            char *text = (char *)malloc(sizes[k] + 1);
            CHECK(text != NULL);
            for (n = 0; n < sizes[k]; n++) text[n] = "abc \"\\\n\t{}[],:0"[n % 15];
            text[sizes[k]] = '\0';
            use_memory();
            field.key = "text";
            field.value = text;
            desc.path = "x";
            desc.tensors = &t;
            desc.tensor_count = 1;
            desc.layout = i == 0 ? DCP_LAYOUT_SHARDED : i == 1 ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_MANIFEST;
            desc.yaml = i == 3;
            desc.fields = &field;
            desc.field_count = 1;
            desc.signer = &signer;
            desc.io.storage = store;
            CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
            open.path = "x";
            open.verifier = &verifier;
            open.io.storage = store;
            CHECK_OK_MESSAGE(dcp_open(&open, &c, &err), err.message);
            CHECK(dcp_checkpoint_metadata(c)->field_count == 1 &&
                  strcmp(dcp_checkpoint_metadata(c)->fields[0].value, text) == 0);
            dcp_close(c);
            free(text);
            poke(names[i], sizes[k] / 2, '\0');
            CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_SIGNATURE, names[i]);
            open.verifier = NULL;
            CHECK_FAILS(dcp_open(&open, &c, &err), DCP_E_CHECKSUM, names[i]);
            desc.overwrite = 1;
            desc.fields = NULL;
            desc.field_count = 0;
            CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);       /* what is damaged can be replaced */
            CHECK_STR(latest(), names[i]);
            done();
        }
    }
}

/* ==== many ======================================================================================================== */
TEST(a_hundred_checkpoints) {
    char name[20];
    dcp_list_entry *e;
    int i;
    use_memory();
    for (i = 1; i <= 100; i++) {
        (void)snprintf(name, sizeof name, "step_%d", i);
        if (i % 2) save(name, i); else save_single(name, i);
    }
    CHECK_STR(latest(), "step_100.checkpoint");
    CHECK_INT(list(DCP_VERIFY_TOUCHED, &e), 100);
    for (i = 0; i < 100; i++) CHECK_INT(e[i].step, 100 - i);
    dcp_free(e);
    prune(10, 25, 87);                                  /* the last ten, and 25, 50, 75 */
    CHECK_INT(list(DCP_VERIFY_ALL, &e), 13);
    CHECK(e[0].step == 100 && e[9].step == 91 && e[10].step == 75 && e[12].step == 25);
    dcp_free(e);
    CHECK_INT(sweep(-1, 1), 0);
    done();
}

int main(void) {
    RUN(sequence_numbers_count_up);
    RUN(the_order_does_not_depend_on_who_wrote_a_document);
    RUN(what_is_not_intact_has_no_sequence_number);
    RUN(numbers_that_end_are_refused);
    RUN(the_number_of_a_manifest_with_a_long_name);
    RUN(a_high_number_that_nobody_signed);
    RUN(latest_is_the_one_saved_last);
    RUN(latest_gives_a_path_to_load);
    RUN(latest_goes_by_sequence_step_timestamp_name);
    RUN(latest_compares_times_not_texts);
    RUN(latest_does_not_go_by_file_time);
    RUN(latest_skips_what_is_not_valid);
    RUN(latest_checks_every_byte_if_asked);
    RUN(latest_returns_a_newer_format);
    RUN(latest_returns_a_manifest_that_it_must_not_read);
    RUN(latest_returns_an_io_error);
    RUN(a_document_that_may_not_be_read_stops_no_save);
    RUN(a_document_of_another_user_stops_no_save);
    RUN(latest_of_a_directory_that_is_not_there);
    RUN(latest_with_a_verifier_and_a_minimum_step);
    RUN(latest_where_a_prefix_has_two_commit_files);
    RUN(list_of_all_layouts_newest_first);
    RUN(list_of_nothing);
    RUN(list_checks_every_byte_if_asked);
    RUN(prune_keeps_the_last);
    RUN(prune_keeps_every_nth_step);
    RUN(prune_leaves_what_is_damaged);
    RUN(prune_takes_no_data_while_a_document_is_unreadable);
    RUN(prune_proves_by_every_byte_if_asked);
    RUN(prune_never_takes_the_only_one_that_loads);
    RUN(prune_reads_once_what_it_did_not_see_written);
    RUN(prune_keeps_shared_files);
    RUN(prune_dry_run_tells_what_a_real_one_does);
    RUN(prune_dry_run_knows_shared_files);
    RUN(prune_arguments);
    RUN(overwriting_keeps_shared_files);
    RUN(overwriting_what_is_damaged);
    RUN(remove_takes_one_checkpoint);
    RUN(remove_keeps_shared_files);
    RUN(remove_of_what_is_damaged);
    RUN(nothing_goes_because_a_document_lays_claim_to_it);
    RUN(sweep_takes_what_killed_saves_left);
    RUN(sweep_keeps_what_a_document_names);
    RUN(sweep_leaves_directories_of_checkpoints_alone);
    RUN(sweep_leaves_a_first_save_in_a_folder_alone);
    RUN(sweep_is_careful_beside_what_it_cannot_read);
    RUN(sweep_with_a_verifier);
    RUN(sweep_dry_run_removes_nothing);
    RUN(sweep_of_a_directory_that_is_not_there);
    RUN(sweep_goes_by_age);
    RUN(sweep_takes_only_regular_files);
    RUN(sweep_is_careful_beside_a_linked_commit_file);
    RUN(sweep_arguments);
    RUN(sweep_beside_a_running_save);
    RUN(what_is_warned_of_is_in_the_report);
    RUN(a_loads_warnings_are_in_the_report);
    RUN(dcp_log_stderr_writes_lines);
    RUN(a_document_of_megabytes);
    RUN(a_hundred_checkpoints);
    return test_finish();
}
