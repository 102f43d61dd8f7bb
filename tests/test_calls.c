/* test_calls.c - what a call is asked for: tensors that are there or not, exactness, a least step, a signature;
 * progress, a cancel, a deadline, a log, retries; and what it makes of whatever a callback returns. */
#include "engine.h"
#include "watching_storage.h"
#include "written_ranks.h"
#ifndef _WIN32
#include <pthread.h>
#endif

/* ==== what is wanted and what is there ============================================================================ */
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
    CHECK_FAILS(dcp_load(&desc, &err), DCP_E_MISMATCH, "1 of the tensors in ");
    CHECK(strstr(err.message, " is not wanted: \"a\" (and exact is set)") != NULL);
    desc.exact = 0;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
}
TEST(exact_finds_what_nobody_wants) { on_local_and_memory(exact_body); }

/* One message for all of it, of bounded length; what is optional is a warning of the same words. */
static void differences_body(void) {
    static char labels[60][40];
    float a[6] = {0}, many[60] = {0};
    int64_t shape[2] = { 2, 3 };
    dcp_tensor t[60];
    dcp_load_desc desc;
    dcp_report report;
    size_t i;
    save_two("x");                                      /* has "a" and "b" */
    t[0] = dcp_array("a", DCP_BF16, a, 2, shape);       /* what is missing goes before what is of another type */
    t[1] = vector("c", DCP_FP32, a, 4);
    CHECK_FAILS(try_load("x", t, 2), DCP_E_MISMATCH, "tensor \"c\" is not in ");
    CHECK(strstr(err.message, "x.metadata.json; 1 of those there is not wanted: \"b\" (optional: may") != NULL);
    t[2] = vector("d", DCP_FP32, a, 4);
    t[2].stored_name = "e";
    CHECK_FAILS(try_load("x", t, 3), DCP_E_MISMATCH, "2 tensors are not in ");
    CHECK(strstr(err.message, ": \"c\", \"e\"; 1 of those there is not wanted: \"b\" (") != NULL);
    t[0].dtype = DCP_FP32;
    t[1].optional = t[2].optional = 1;
    desc = loading("x", t, 3);
    desc.report = &report;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    CHECK_INT(report.warning_count, 1);
    CHECK(strstr(report.warning, "optional: 2 tensors are not in ") == report.warning);
    CHECK(strstr(report.warning, ": \"c\", \"e\"; 1 of those there is not wanted: \"b\"") != NULL);
    desc.tensor_count = 1;                              /* what is there and not wanted is nothing to warn of */
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    CHECK_INT(report.warning_count, 0);
    for (i = 0; i < 60; i++) {
        (void)snprintf(labels[i], sizeof labels[i], "a name of some length, number %d", (int)i);
        t[i] = vector(labels[i], DCP_FP32, many + i, 1);
    }
    save_as("y", t, 60);
    for (i = 0; i < 60; i++) labels[i][0] = '\xe4';     /* no UTF-8: an argument is wrong, nothing is missing */
    CHECK_FAILS(try_load("y", t, 60), DCP_E_INVALID, "UTF-8");
    for (i = 0; i < 60; i++) labels[i][0] = 'o';
    CHECK_FAILS(try_load("y", t, 60), DCP_E_MISMATCH, "60 tensors are not in ");
    CHECK(strstr(err.message, ", ...; 60 of those there are not wanted: \"a name") != NULL);
    CHECK(strstr(err.message, "stored_name: it was renamed)") != NULL);
}
TEST(one_message_lists_what_is_missing_and_what_is_there) { on_local_and_memory(differences_body); }

static void renamed_body(void) {
    float a[6] = {0};
    int64_t shape[2] = { 2, 3 }, b[4] = {0};
    dcp_tensor t[2];
    dcp_load_desc desc;
    dcp_checkpoint *c;
    save_two("x");
    t[0] = dcp_array("weights", DCP_FP32, a, 2, shape);
    t[0].stored_name = "a";
    t[1] = vector("a", DCP_INT64, b, 4);                /* the names of two may be exchanged */
    t[1].stored_name = "b";
    desc = loading("x", t, 2);
    desc.exact = 1;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    CHECK(a[5] == 6 && t[0].status == DCP_OK);
    memset(a, 0, sizeof a);
    c = open_at("x");
    CHECK_OK_MESSAGE(dcp_read(c, t, 1, &err), err.message);
    CHECK(a[5] == 6);
    t[0].dtype = DCP_INT32;
    CHECK_FAILS(dcp_read(c, t, 1, &err), DCP_E_MISMATCH, "wanted as \"weights\": tensor \"a\" is stored as fp32");
    t[0].stored_name = "";
    CHECK_FAILS(dcp_read(c, t, 1, &err), DCP_E_INVALID, "stored_name");
    t[0].stored_name = "\x01";
    CHECK_FAILS(dcp_read(c, t, 1, &err), DCP_E_INVALID, "stored_name");
    dcp_close(c);
}
TEST(a_renamed_tensor_is_found_by_its_stored_name) { on_local_and_memory(renamed_body); }

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
/* ---- what callbacks return: whatever it is, the caller gets a status that means what its name says --------------- */
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
    CHECK_STR(dcp_checkpoint_metadata(c)->signature_algorithm, "hmac-sha256");
    CHECK_STR(dcp_checkpoint_metadata(c)->signature_key, "key-1");
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

int main(void) {
    RUN(optional_and_missing_tensors);
    RUN(exact_finds_what_nobody_wants);
    RUN(one_message_lists_what_is_missing_and_what_is_there);
    RUN(a_renamed_tensor_is_found_by_its_stored_name);
    RUN(a_mismatch_says_what_is_stored_and_what_is_wanted);
    RUN(not_found_means_that_there_is_no_checkpoint);
    RUN(a_path_through_a_file_is_no_first_start);
    RUN(errors_and_outputs_are_always_written);
    RUN(what_only_manifests_have_cannot_be_selected_elsewhere);
    RUN(load_hands_over_the_document);
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
    return test_finish();
}
