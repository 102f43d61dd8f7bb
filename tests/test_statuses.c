/* test_statuses.c: what the public calls return, whatever the program's own callbacks return. Storages, coordinators,
 * devices, signers and verifiers fail in each of their calls with each number, also with such as are no status: each
 * public call must return one of the statuses that its comment lists, which test.h checks, and the error must say the
 * same. What else is listed, and other suites do not come by, is here too. */
#define DCP_LIMIT_DOCUMENT 300000
#define DCP_LIMIT_TENSORS 500
#define DCP_LIMIT_SHARDS 30
#define DCP_LIMIT_FIELDS 30
#include "failing_allocator.h"
#include "doing.h"
#include "fault_storage.h"
#include "fault_coordinator.h"
#include "within.h"

enum { FLOATS = 6, STEPS = 3 };
static const int numbers[] = { DCP_PENDING, DCP_E_INVALID, DCP_E_MEMORY, DCP_E_IO, DCP_E_SPACE, DCP_E_NOT_FOUND,
                               DCP_E_EXISTS, DCP_E_FORMAT, DCP_E_VERSION, DCP_E_CHECKSUM, DCP_E_SIGNATURE,
                               DCP_E_MISMATCH, DCP_E_INCOMPLETE, DCP_E_LIMIT, DCP_E_TIMEOUT, DCP_E_CANCELLED,
                               DCP_E_COMM, DCP_E_DEVICE, DCP_E_UNSUPPORTED, DCP_E_UNKNOWN, DCP_E_DENIED, 99, -1 };
enum { NUMBERS = (int)(sizeof numbers / sizeof numbers[0]) };

/* ---- a directory of checkpoints in memory, below a storage that fails ------------------------------------------- */
typedef struct world {
    dcp_storage *memory;
    fault_storage f;
    dcp_layout layout;
    dcp_coordinator *coordinator;       /* of this rank, NULL: one */
    int64_t nth, times; int number;     /* what is to fail when the call that is tested begins; nth 0: nothing */
    /* the same of this rank's coordinator, if it is the one; deaf_after: all it receives after so many sends */
    fault_plan *plan; int fail_at, deaf_after;
    int slow;                           /* each call of the storage then takes milliseconds */
    dcp_io io;
    float values[FLOATS];
    dcp_tensor tensor;
    dcp_error err;
} world;

static void set_io(world *w) {
    memset(&w->io, 0, sizeof w->io);
    w->io.storage = &w->f.storage;
    w->io.coordinator = w->coordinator;
    w->io.retry.attempts = 1;
    w->io.threads = 1;
    w->io.timeout_ms = 60;              /* of a lock that somebody else has */
}
static void set_tensor(world *w) {
    int64_t shape[1] = { FLOATS };
    w->tensor = dcp_array("t", DCP_FP32, w->values, 1, shape);
    w->tensor.placement = DCP_PLACE_REPLICATED;
}
static dcp_save_desc save_desc(world *w, const char *path) {
    dcp_save_desc d = DCP_ZERO;
    d.path = path;
    d.tensors = &w->tensor;
    d.tensor_count = 1;
    d.layout = w->layout;
    d.overwrite = 1;
    d.io = w->io;
    return d;
}
static void begin_world(world *w, dcp_layout layout) {
    static const char *const paths[STEPS] = { "runs/1", "runs/2", "runs/3" };
    dcp_save_desc d;
    int i;
    memset(w, 0, sizeof *w);
    CHECK_OK(dcp_storage_memory(&w->memory, NULL));
    fault_open(&w->f, w->memory);
    w->layout = layout;
    set_io(w);
    set_tensor(w);
    for (i = 0; i < FLOATS; i++) w->values[i] = (float)i;
    for (i = 0; i < STEPS; i++) {
        w->values[0] = (float)i;
        d = save_desc(w, paths[i]);
        CHECK_OK_MESSAGE(dcp_save(&d, &w->err), w->err.message);
    }
}
static void end_world(world *w) {
    fault_close(&w->f);
    dcp_storage_close(w->memory);
}
static void slow_call(void *user, fault_kind kind, const char *path, int64_t call, int is_done) {
    (void)user; (void)kind; (void)path; (void)call;
    if (!is_done) dcpi_os_sleep_ms(3);
}
/* The call that is tested follows. */
static void arm(world *w) {
    if (w->plan) {
        w->plan->calls = w->plan->sends = 0;
        w->plan->fail_at = w->fail_at;
        w->plan->deaf_after = w->deaf_after;
    }
    if (w->nth == 0) fault_reset(&w->f);
    if (w->slow) w->f.hook = slow_call;
    if (w->nth == 0) return;
    fault_set(&w->f, FAULT_ANY, w->nth, w->times, EACCES);      /* nothing that another attempt would help against */
    w->f.says_status = 1;
    w->f.status = (dcp_status)w->number;
}
static void disarm(world *w) {
    w->f.nth = 0;
    if (w->plan) w->plan->fail_at = w->plan->deaf_after = 0;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
typedef dcp_status (*operation)(world *w);

static dcp_status op_save(world *w) {
    dcp_save_desc d = save_desc(w, "runs/new");
    arm(w);
    return dcp_save(&d, &w->err);
}
static dcp_status op_overwrite(world *w) {
    dcp_save_desc d = save_desc(w, "runs/2");
    arm(w);
    return dcp_save(&d, &w->err);
}
static dcp_status op_background(world *w) {
    dcp_save_desc d = save_desc(w, "runs/new");
    dcp_saver *saver;
    dcp_status status;
    CHECK_OK(dcp_saver_open(NULL, &saver, NULL));
    arm(w);
    status = dcp_save_begin(saver, &d, &w->err);
    if (!status) status = dcp_save_wait(saver, -1, &w->err);
    (void)dcp_saver_close(saver, NULL);
    return status;
}
static dcp_status op_poll(world *w) {
    dcp_save_desc d = save_desc(w, "runs/new");
    dcp_saver *saver;
    dcp_status status;
    if (dcp_saver_open(NULL, &saver, NULL)) abort();
    arm(w);
    status = dcp_save_begin(saver, &d, &w->err);
    while (!status && (status = dcp_save_poll(saver, &w->err)) == DCP_PENDING) { dcpi_os_sleep_ms(1); status = DCP_OK; }
    (void)dcp_saver_close(saver, NULL);
    return status;
}
/* The verdict that nobody fetched: of the next begin, or of close. */
static dcp_status op_begin_again(world *w) {
    dcp_save_desc d = save_desc(w, "runs/new");
    dcp_saver *saver;
    dcp_status status;
    CHECK_OK(dcp_saver_open(NULL, &saver, NULL));
    arm(w);
    status = dcp_save_begin(saver, &d, &w->err);
    if (!status) status = dcp_save_begin(saver, &d, &w->err);
    (void)dcp_saver_close(saver, NULL);
    return status;
}
static dcp_status op_begin_and_close(world *w) {
    dcp_save_desc d = save_desc(w, "runs/new");
    dcp_saver *saver;
    dcp_error err;
    dcp_status status;
    CHECK_OK(dcp_saver_open(NULL, &saver, NULL));
    arm(w);
    status = dcp_save_begin(saver, &d, &w->err);
    if (status) { (void)dcp_saver_close(saver, &err); return status; }
    return dcp_saver_close(saver, &w->err);
}
static dcp_status op_load(world *w) {
    dcp_load_desc d = DCP_ZERO;
    d.path = "runs/2";
    d.tensors = &w->tensor;
    d.tensor_count = 1;
    d.io = w->io;
    arm(w);
    return dcp_load(&d, &w->err);
}
static dcp_status op_load_all(world *w) {
    dcp_load_desc d = DCP_ZERO;
    d.path = "runs/2";
    d.tensors = &w->tensor;
    d.tensor_count = 1;
    d.verify = DCP_VERIFY_ALL;
    d.io = w->io;
    arm(w);
    return dcp_load(&d, &w->err);
}
static dcp_status op_load_latest(world *w) {
    dcp_load_latest_desc d = DCP_ZERO;
    d.directory = "runs";
    d.tensors = &w->tensor;
    d.tensor_count = 1;
    d.io = w->io;
    arm(w);
    return dcp_load_latest(&d, &w->err);
}
static dcp_status opened(world *w, dcp_checkpoint **c) {
    dcp_open_desc d = DCP_ZERO;
    d.path = "runs/2";
    d.io = w->io;
    return dcp_open(&d, c, &w->err);
}
static dcp_status op_open(world *w) {
    dcp_checkpoint *c;
    dcp_status status;
    arm(w);
    status = opened(w, &c);
    dcp_close(c);
    return status;
}
static dcp_status open_unharmed(world *w, dcp_checkpoint **c) {
    /* a storage's failures begin after it, a coordinator's may hit it */
    dcp_status status;
    disarm(w);
    status = opened(w, c);
    arm(w);
    return status;
}
static dcp_status op_read(world *w) {
    dcp_checkpoint *c;
    dcp_status status = open_unharmed(w, &c);
    if (!status) status = dcp_read(c, &w->tensor, 1, &w->err);
    dcp_close(c);
    return status;
}
static dcp_status op_read_rank(world *w) {
    dcp_checkpoint *c;
    dcp_status status = open_unharmed(w, &c);
    if (!status) status = dcp_read_rank(c, 0, &w->tensor, 1, &w->err);
    dcp_close(c);
    return status;
}
static dcp_status op_read_new(world *w) {
    dcp_checkpoint *c;
    dcp_tensor t;
    dcp_status status = open_unharmed(w, &c);
    memset(&t, 0, sizeof t);
    if (!status) status = dcp_read_new(c, "t", &t, &w->err);
    dcp_free(t.data);
    dcp_close(c);
    return status;
}
static dcp_status op_read_shard(world *w) {
    dcp_checkpoint *c;
    void *data = NULL;
    size_t size;
    dcp_status status = open_unharmed(w, &c);
    if (!status) status = dcp_read_shard(c, 0, &data, &size, &w->err);
    dcp_free(data);
    dcp_close(c);
    return status;
}
static dcp_status op_map(world *w) {
    dcp_checkpoint *c;
    const void *data;
    size_t size;
    dcp_status status = open_unharmed(w, &c);
    if (!status) status = dcp_map(c, "t", &data, &size, &w->err);
    dcp_close(c);
    return status;
}
static dcp_status op_prefetch(world *w) {
    dcp_checkpoint *c;
    dcp_status status = open_unharmed(w, &c);
    if (!status) status = dcp_prefetch(c, NULL, 0, &w->err);
    if (!status) status = dcp_prefetch_wait(c, 0, &w->err);
    dcp_close(c);
    return status;
}
static dcp_status op_verify(world *w) {
    dcp_checkpoint *c;
    dcp_status status = open_unharmed(w, &c);
    if (!status) status = dcp_verify(c, &w->err);
    dcp_close(c);
    return status;
}
static dcp_status op_latest(world *w) {
    dcp_latest_desc d = DCP_ZERO;
    char *path;
    dcp_status status;
    d.directory = "runs";
    d.io = w->io;
    arm(w);
    status = dcp_latest(&d, &path, &w->err);
    dcp_free(path);
    return status;
}
static dcp_status op_list(world *w) {
    dcp_list_desc d = DCP_ZERO;
    dcp_list_entry *entries;
    size_t count;
    dcp_status status;
    d.directory = "runs";
    d.io = w->io;
    arm(w);
    status = dcp_list(&d, &entries, &count, &w->err);
    dcp_free(entries);
    return status;
}
static dcp_status op_prune(world *w) {
    dcp_prune_desc d = DCP_ZERO;
    d.directory = "runs";
    d.io = w->io;
    arm(w);
    return dcp_prune(&d, NULL, &w->err);
}
static dcp_status op_sweep(world *w) {
    dcp_sweep_desc d = DCP_ZERO;
    d.directory = "runs";
    d.grace_seconds = -1;
    d.plain_names = 1;
    d.io = w->io;
    arm(w);
    return dcp_sweep(&d, NULL, &w->err);
}
static dcp_status op_remove(world *w) {
    dcp_remove_desc d = DCP_ZERO;
    d.path = "runs/2";
    d.io = w->io;
    arm(w);
    return dcp_remove(&d, NULL, &w->err);
}
static dcp_status sync_with(world *w, dcp_storage *source, dcp_storage *target) {
    dcp_sync_desc d = DCP_ZERO;
    d.source = source;
    d.path = "runs/2";
    d.target = target;
    d.directory = "copy";
    d.io = w->io;
    d.io.storage = NULL;
    arm(w);
    return dcp_sync(&d, &w->err);
}
static dcp_status op_sync_from(world *w) { return sync_with(w, &w->f.storage, w->memory); }
static dcp_status op_sync_to(world *w) { return sync_with(w, w->memory, &w->f.storage); }

static dcp_status repair_from(world *w, dcp_storage *copy) {
    dcp_source source = DCP_ZERO;
    dcp_repair_desc d = DCP_ZERO;
    source.storage = copy;
    source.directory = "runs";
    d.path = "runs/2";
    d.sources = &source;
    d.source_count = copy != NULL;
    d.io = w->io;
    arm(w);
    return dcp_repair(&d, &w->err);
}
static const char *document_name(const world *w) {
    static const char *const names[] = { "runs/2.metadata.json", "runs/2.checkpoint", "runs/2.manifest.json" };
    return names[w->layout];
}
static dcp_status op_read_document(world *w) {
    dcp_metadata *metadata = NULL;
    dcp_manifest *manifest = NULL;
    dcp_status status;
    arm(w);
    if (w->layout == DCP_LAYOUT_MANIFEST)
        status = dcp_manifest_read_file(&w->f.storage, document_name(w), NULL, &w->io, &manifest, &w->err);
    else status = dcp_metadata_read_file(&w->f.storage, document_name(w), NULL, &w->io, &metadata, &w->err);
    dcp_manifest_free(manifest);
    dcp_metadata_free(metadata);
    return status;
}
/* From a copy that has the document; what it names is right here. */
static dcp_status op_repair(world *w) {
    dcp_storage *copy;
    void *data;
    size_t size;
    dcp_status status;
    CHECK_OK(dcp_storage_memory(&copy, NULL));
    CHECK_OK(dcp_storage_read_all(w->memory, document_name(w), &data, &size, NULL, NULL));
    CHECK_OK(dcp_storage_write_all(copy, document_name(w), data, size, NULL, NULL));
    ((char *)data)[size - 3] ^= 1;
    CHECK_OK(dcp_storage_write_all(w->memory, document_name(w), data, size, NULL, NULL));
    dcp_free(data);
    status = repair_from(w, copy);
    dcp_storage_close(copy);
    return status;
}
static dcp_status op_repair_alone(world *w) { return repair_from(w, NULL); }
static dcp_status op_write_document(world *w) {
    dcp_metadata *metadata = NULL;
    dcp_manifest *manifest = NULL;
    dcp_status status;
    disarm(w);
    if (w->layout == DCP_LAYOUT_MANIFEST) {
        CHECK_OK(dcp_manifest_read_file(w->memory, document_name(w), NULL, NULL, &manifest, NULL));
        arm(w);
        status = dcp_manifest_write_file(&w->f.storage, "a/b/x.manifest.yaml", manifest, NULL, &w->io, &w->err);
    } else {
        CHECK_OK(dcp_metadata_read_file(w->memory, document_name(w), NULL, NULL, &metadata, NULL));
        arm(w);
        status = dcp_metadata_write_file(&w->f.storage, "a/b/x.metadata.json", metadata, NULL, &w->io, &w->err);
    }
    dcp_manifest_free(manifest);
    dcp_metadata_free(metadata);
    return status;
}
static dcp_status op_write_all(world *w) {
    arm(w);
    return dcp_storage_write_all(&w->f.storage, "a/b", "text", 4, NULL, &w->err);
}
static dcp_status op_write_all_io(world *w) {
    arm(w);
    return dcp_storage_write_all(&w->f.storage, "a/b", "text", 4, &w->io, &w->err);
}
static dcp_status op_read_all(world *w) {
    void *data;
    size_t size;
    dcp_status status;
    arm(w);
    status = dcp_storage_read_all(&w->f.storage, document_name(w), &data, &size, NULL, &w->err);
    dcp_free(data);
    return status;
}
static dcp_status op_read_all_io(world *w) {
    void *data;
    size_t size;
    dcp_status status;
    arm(w);
    status = dcp_storage_read_all(&w->f.storage, document_name(w), &data, &size, &w->io, &w->err);
    dcp_free(data);
    return status;
}
static dcp_status op_exists(world *w) {
    int exists;
    arm(w);
    return dcp_storage_exists(&w->f.storage, document_name(w), &exists, &w->io, &w->err);
}
static dcp_status op_info(world *w) {
    dcp_object_info info;
    arm(w);
    return dcp_storage_info(&w->f.storage, document_name(w), &info, &w->io, &w->err);
}
static dcp_status op_additional_info(world *w) {
    dcp_field *fields;
    size_t count;
    dcp_status status;
    arm(w);
    status = dcp_storage_additional_info(&w->f.storage, document_name(w), &fields, &count, &w->io, &w->err);
    dcp_free(fields);
    return status;
}
static dcp_status op_delete(world *w) {
    arm(w);
    return dcp_storage_remove(&w->f.storage, document_name(w), &w->io, &w->err);
}

enum { COLLECTIVE = 1, ANY_LAYOUT = 2, MANIFEST_ONLY = 4, HAS_IO = 8 };
static const struct { const char *name; operation run; int flags; } operations[] = {
    { "dcp_save", op_save, COLLECTIVE | HAS_IO }, { "dcp_save to a path in use", op_overwrite, COLLECTIVE | HAS_IO },
    { "dcp_save_begin", op_background, COLLECTIVE | HAS_IO }, { "dcp_save_poll", op_poll, COLLECTIVE | HAS_IO },
    { "dcp_save_begin after one", op_begin_again, HAS_IO }, { "dcp_saver_close", op_begin_and_close,
        COLLECTIVE | HAS_IO },
                                                              { "dcp_load", op_load, COLLECTIVE | HAS_IO },
                                                              { "dcp_load of all bytes", op_load_all, HAS_IO },
    { "dcp_open", op_open, COLLECTIVE | HAS_IO }, { "dcp_read", op_read, COLLECTIVE },
    { "dcp_read_rank", op_read_rank, COLLECTIVE },
    { "dcp_read_shard", op_read_shard, 0 },
    { "dcp_read_new", op_read_new, 0 }, { "dcp_map", op_map, 0 }, { "dcp_prefetch", op_prefetch, 0 },
    { "dcp_verify", op_verify, COLLECTIVE },
    { "dcp_load_latest", op_load_latest, COLLECTIVE | HAS_IO },
    { "dcp_latest", op_latest, COLLECTIVE | HAS_IO }, { "dcp_list", op_list, HAS_IO },
    { "dcp_prune", op_prune, COLLECTIVE | HAS_IO },
    { "dcp_sweep", op_sweep, COLLECTIVE | HAS_IO }, { "dcp_remove", op_remove, COLLECTIVE | HAS_IO },
    { "dcp_sync from", op_sync_from, MANIFEST_ONLY | HAS_IO }, { "dcp_sync to", op_sync_to, MANIFEST_ONLY | HAS_IO },
    { "dcp_repair", op_repair, HAS_IO }, { "dcp_repair without a copy", op_repair_alone, HAS_IO },
    { "reading a document", op_read_document, HAS_IO }, { "writing a document", op_write_document, HAS_IO },
    { "dcp_storage_write_all", op_write_all, ANY_LAYOUT },
    { "dcp_storage_write_all with io", op_write_all_io, ANY_LAYOUT | HAS_IO },
    { "dcp_storage_read_all", op_read_all, ANY_LAYOUT },
    { "dcp_storage_read_all with io", op_read_all_io, ANY_LAYOUT | HAS_IO },
    { "dcp_storage_exists", op_exists, ANY_LAYOUT | HAS_IO }, { "dcp_storage_info", op_info, ANY_LAYOUT | HAS_IO },
    { "dcp_storage_additional_info", op_additional_info, ANY_LAYOUT | HAS_IO },
    { "dcp_storage_remove", op_delete, ANY_LAYOUT | HAS_IO },
};
enum { OPERATIONS = (int)(sizeof operations / sizeof operations[0]) };

static int is_for(int o, int layout) {
    if (operations[o].flags & ANY_LAYOUT) return layout == DCP_LAYOUT_SHARDED;
    return !(operations[o].flags & MANIFEST_ONLY) || layout == DCP_LAYOUT_MANIFEST;
}
static const char *status_text(int status) {
    static char text[40];
    (void)snprintf(text, sizeof text, "%s (%d)", dcp_status_name((dcp_status)status), status);
    return text;
}
/* What was returned is what the error says, and it says something. */
static void check_error(dcp_status status, const dcp_error *err) {
    CHECK_INT(err->status, status);
    CHECK((status == DCP_OK || status == DCP_PENDING) == (err->message[0] == '\0'));
}

/* Where repetitions are fewer, each call fails with every third number, the next one with others. */
static int is_tried(int64_t nth, int i) { return getenv("DCP_TEST_FEWER") == NULL || (nth + i) % 3 == 0; }

/* ---- storages ---------------------------------------------------------------------------------------------------- */
static int64_t fail_once(int o, int layout, int64_t nth, int64_t times, int number) {
    world w;
    int64_t failed;
    dcp_status status;
    begin_world(&w, (dcp_layout)layout);
    w.nth = nth;
    w.times = times;
    w.number = number;
    doing("%s, layout %d, call %d of the storage returns %s", operations[o].name, layout, (int)nth,
          status_text(number));
    status = operations[o].run(&w);
    failed = w.f.failed;
    check_error(status, &w.err);
    end_world(&w);
    done_doing();
    return failed;
}
TEST(whatever_a_storage_returns) {
    int o, layout, i;
    int64_t nth, failed;
    for (o = 0; o < OPERATIONS; o++)
        for (layout = 0; layout < 3; layout++)
            for (nth = 1, failed = 1; failed > 0 && is_for(o, layout); nth++)
                for (i = 0; i < NUMBERS && failed > 0; i++)
                    if (is_tried(nth, i)) failed = fail_once(o, layout, nth, 1, numbers[i]);
}
TEST(whatever_a_storage_returns_from_then_on) {
    int o, layout, i;
    int64_t nth, failed;
    for (o = 0; o < OPERATIONS; o++)
        for (layout = 0; layout < 3; layout++)
            for (nth = 1, failed = 1; failed > 0 && is_for(o, layout); nth++)
                for (i = 0; i < NUMBERS && failed > 0; i++)
                    if (is_tried(nth, i)) failed = fail_once(o, layout, nth, 1000000, numbers[i]);
}

/* ---- coordinators ------------------------------------------------------------------------------------------------ */
#if !DCP_NO_THREADS
enum { RANKS = 2, CALLS = 4, TIMEOUT_MS = 60 };
typedef struct rank_of { world w; operation run; fault_plan plan; dcp_status status; dcpi_thread thread; } rank_of;

static void add_up(void *inout, const void *in, size_t size, void *user) {
    (void)size; (void)user;
    *(int *)inout += *(const int *)in;
}
static dcp_status op_barrier(world *w) { return dcp_barrier(w->coordinator, WITHIN(TIMEOUT_MS), &w->err); }
static dcp_status op_broadcast(world *w) {
    return dcp_broadcast(w->coordinator, w->values, sizeof w->values, 0, WITHIN(TIMEOUT_MS), &w->err);
}
static dcp_status op_gather(world *w) {
    void **parts;
    size_t *sizes;
    const dcp_status status = dcp_gather(w->coordinator, w->values, sizeof w->values, &parts, &sizes, 0,
                                         WITHIN(TIMEOUT_MS), &w->err);
    dcp_free(parts);
    dcp_free(sizes);
    return status;
}
static dcp_status op_allreduce(world *w) {
    return dcp_allreduce(w->coordinator, &w->number, sizeof w->number, add_up, NULL, WITHIN(TIMEOUT_MS), &w->err);
}
static const struct { const char *name; operation run; } of_coordinators[] = {
    { "dcp_barrier", op_barrier }, { "dcp_broadcast", op_broadcast }, { "dcp_gather", op_gather },
        { "dcp_allreduce", op_allreduce }
};
static void rank_main(void *argument) {
    rank_of *rank = (rank_of *)argument;
    rank->status = rank->run(&rank->w);
}
/* Call `nth` of rank `who`'s coordinator fails, or all that it receives after send `nth`. How many calls it had. */
static int fail_rank(const char *name, operation run, int who, int nth, int is_deaf, int number) {
    dcp_coordinator *inner[RANKS];
    rank_of ranks[RANKS];
    world w;
    int r, calls;
    doing("%s, rank %d, %s %d of its coordinator returns %s", name, who, is_deaf ? "what follows send" : "call", nth,
          status_text(number));
    begin_world(&w, DCP_LAYOUT_SHARDED);
    memset(ranks, 0, sizeof ranks);
    CHECK_OK(dcp_thread_group_open(RANKS, inner, NULL));
    for (r = 0; r < RANKS; r++) {
        rank_of *rank = &ranks[r];
        rank->w = w;
        if (r == who) {
            rank->w.plan = &rank->plan;
            rank->w.fail_at = rank->plan.fail_at = is_deaf ? 0 : nth;
            rank->w.deaf_after = rank->plan.deaf_after = is_deaf ? nth : 0;
            rank->plan.failure = (dcp_status)number;
        }
        rank->w.f.storage.context = &w.f;
        rank->w.coordinator = fault_wrap(inner[r], &rank->plan);
        rank->run = run;
        set_io(&rank->w);
        rank->w.io.storage = &w.f.storage;
        rank->w.io.timeout_ms = TIMEOUT_MS;
        set_tensor(&rank->w);
        CHECK_INT(dcpi_thread_start(&rank->thread, rank_main, rank), 0);
    }
    for (r = 0; r < RANKS; r++) dcpi_thread_join(&ranks[r].thread);
    for (r = 0; r < RANKS; r++) {
        check_error(ranks[r].status, &ranks[r].w.err);
        dcp_coordinator_close(ranks[r].w.coordinator);
    }
    calls = ranks[who].plan.calls;
    end_world(&w);
    done_doing();
    return calls;
}
/* One that has failed is looked at with all numbers only in its first calls: later ones go through the same
 * wrappers. */
static void fail_ranks(const char *name, operation run) {
    int who, nth, i, calls = 1;
    for (who = 0; who < RANKS; who++)
        for (nth = 1, calls = 1; nth <= CALLS && nth <= calls; nth++)
            for (i = nth > 2 ? NUMBERS - 1 : 0; i < NUMBERS; i++) calls = fail_rank(name, run, who, nth, 0, numbers[i]);
}
/* Its last word is one of the first few, and then it cannot know the verdict. */
TEST(ranks_that_hear_nothing_more) {
    size_t i;
    int send;
    for (i = 0; i < (size_t)OPERATIONS; i++)
        for (send = 1; (operations[i].flags & COLLECTIVE) && send <= 4; send++)
            (void)fail_rank(operations[i].name, operations[i].run, 1, send, 1, DCP_E_COMM);
}
TEST(whatever_a_coordinator_returns) {
    size_t i;
    for (i = 0; i < sizeof of_coordinators / sizeof of_coordinators[0]; i++)
        fail_ranks(of_coordinators[i].name, of_coordinators[i].run);
    for (i = 0; i < (size_t)OPERATIONS; i++)
        if (operations[i].flags & COLLECTIVE) fail_ranks(operations[i].name, operations[i].run);
}
/* Rank 0 makes one call, rank 1 the next one of the list. */
static void run_different(int first, int second) {
    dcp_coordinator *inner[RANKS];
    rank_of ranks[RANKS];
    world w;
    int r;
    doing("%s beside %s", operations[first].name, operations[second].name);
    begin_world(&w, DCP_LAYOUT_SHARDED);
    memset(ranks, 0, sizeof ranks);
    CHECK_OK(dcp_thread_group_open(RANKS, inner, NULL));
    for (r = 0; r < RANKS; r++) {
        rank_of *rank = &ranks[r];
        rank->w = w;
        rank->w.coordinator = inner[r];
        rank->run = operations[r ? second : first].run;
        set_io(&rank->w);
        rank->w.io.storage = &w.f.storage;
        rank->w.io.timeout_ms = 2000;
        set_tensor(&rank->w);
        CHECK_INT(dcpi_thread_start(&rank->thread, rank_main, rank), 0);
    }
    for (r = 0; r < RANKS; r++) dcpi_thread_join(&ranks[r].thread);
    for (r = 0; r < RANKS; r++) {
        check_error(ranks[r].status, &ranks[r].w.err);
        CHECK_STR(dcp_status_name(ranks[r].status), "DCP_E_MISMATCH");
        dcp_coordinator_close(inner[r]);
    }
    end_world(&w);
    done_doing();
}
TEST(ranks_that_make_different_calls) {
    static const operation different[] = { op_save, op_load, op_load_latest, op_open, op_latest, op_prune, op_sweep,
                                           op_remove };
    static const operation of_open_ones[] = { op_read, op_verify, op_read_rank };
    int o, i, at[8], count = 0;
    for (i = 0; i < 7; i++) for (o = 0; o < OPERATIONS; o++) if (operations[o].run == different[i]) at[count++] = o;
    for (i = 0; i < count; i++) run_different(at[i], at[(i + 1) % count]);
    for (o = 0; operations[o].run != op_background; o++) {}
    run_different(o, at[1]);
    for (count = 0, i = 0; i < 3; i++)
        for (o = 0; o < OPERATIONS; o++) if (operations[o].run == of_open_ones[i]) at[count++] = o;
    run_different(at[0], at[1]);
    run_different(at[1], at[2]);
}
#endif

/* ---- devices, signers, verifiers, providers ---------------------------------------------------------------------- */
/* host memory; call `fails` returns the number */
typedef struct odd_device { dcp_device device; int fails, number; } odd_device;
enum { NO_CALL, CALL_BEGIN, CALL_OUT, CALL_IN, CALL_WAIT, CALL_HOST, CALL_OWN, CALL_COPY_OWN, DEVICE_CALLS };

static dcp_status odd_call(void *context, int call) {
    const odd_device *d = (const odd_device *)context;
    return d->fails == call ? (dcp_status)d->number : DCP_OK;
}
static dcp_status odd_begin(void *context, dcp_error *err) { (void)err; return odd_call(context, CALL_BEGIN); }
static dcp_status odd_allocate(void *context, size_t size, void **memory, dcp_error *err) {
    const dcp_status status = odd_call(context, CALL_HOST);
    (void)err;
    *memory = status ? NULL : malloc(size);
    return status;
}
static dcp_status odd_allocate_own(void *context, size_t size, void **memory, dcp_error *err) {
    const dcp_status status = odd_call(context, CALL_OWN);
    (void)err;
    *memory = status ? NULL : malloc(size);
    return status;
}
static void odd_free(void *context, void *memory) { (void)context; free(memory); }
static dcp_status odd_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                          uint64_t *ticket, dcp_error *err) {
    (void)err;
    *ticket = 0;
    memcpy(host, (const char *)tensor->data + offset, size);
    return odd_call(context, CALL_OUT);
}
static dcp_status odd_in(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size,
                         uint64_t *ticket, dcp_error *err) {
    (void)err;
    *ticket = 0;
    memcpy((char *)tensor->data + offset, host, size);
    return odd_call(context, CALL_IN);
}
static dcp_status odd_copy_own(void *context, void *own, const dcp_tensor *tensor, size_t size, uint64_t *ticket,
                               dcp_error *err) {
    (void)err;
    *ticket = 0;
    memcpy(own, tensor->data, size);
    return odd_call(context, CALL_COPY_OWN);
}
static dcp_status odd_wait(void *context, uint64_t ticket, dcp_error *err) {
    (void)ticket;
    (void)err;
    return odd_call(context, CALL_WAIT);
}

static void set_device(odd_device *d, int fails, int number) {
    memset(d, 0, sizeof *d);
    d->fails = fails;
    d->number = number;
    d->device.context = d;
    d->device.begin = odd_begin;
    d->device.allocate_host = odd_allocate; d->device.free_host = odd_free;
    d->device.copy_out = odd_out; d->device.copy_in = odd_in; d->device.wait = odd_wait;
    if (fails == CALL_OWN || fails == CALL_COPY_OWN) {
        d->device.own_bytes = 1000000;
        d->device.allocate_own = odd_allocate_own; d->device.free_own = odd_free; d->device.copy_own = odd_copy_own;
    }
}
TEST(whatever_a_device_returns) {
    static const operation tensors[] = { op_save, op_background, op_poll, op_load, op_read, op_read_rank };
    size_t o;
    int call, i;
    for (o = 0; o < sizeof tensors / sizeof tensors[0]; o++)
        for (call = 1; call < DEVICE_CALLS; call++)
            for (i = 0; i < NUMBERS; i++) {
                odd_device device;
                world w;
                begin_world(&w, DCP_LAYOUT_SHARDED);
                set_device(&device, call, numbers[i]);
                w.tensor.device = &device.device;
                doing("operation %d, call %d of the device returns %s", (int)o, call, status_text(numbers[i]));
                check_error(tensors[o](&w), &w.err);
                end_world(&w);
                done_doing();
            }
}
typedef struct odd_key { int number; const char *words; } odd_key;
static dcp_status odd_sign(void *context, const void *message, size_t size, uint8_t *signature, dcp_error *err) {
    const odd_key *k = (const odd_key *)context;
    (void)message; (void)size;
    memset(signature, 7, 8);
    return k->words ? dcpi_fail(err, (dcp_status)k->number, "%s", k->words) : (dcp_status)k->number;
}
static dcp_status odd_verify(void *context, const char *key_id, const void *message, size_t size,
                             const uint8_t *signature, dcp_error *err) {
    const odd_key *k = (const odd_key *)context;
    (void)key_id; (void)message; (void)size; (void)signature;
    return k->words ? dcpi_fail(err, (dcp_status)k->number, "%s", k->words) : (dcp_status)k->number;
}
static void sign_with(const odd_key *k) {
    world w;
    dcp_signer signer = DCP_ZERO;
    dcp_saver *saver;
    dcp_save_desc d;
    dcp_metadata *metadata;
    dcp_manifest *manifest;
    dcp_status status;
    char *text;
    size_t size;
    begin_world(&w, DCP_LAYOUT_MANIFEST);
    signer.context = (void *)(uintptr_t)k;
    signer.algorithm = "odd";
    signer.key_id = "k";
    signer.size = 8;
    signer.sign = odd_sign;
    d = save_desc(&w, "runs/new");
    d.signer = &signer;
    check_error(dcp_save(&d, &w.err), &w.err);
    CHECK_OK(dcp_saver_open(NULL, &saver, NULL));
    status = dcp_save_begin(saver, &d, &w.err);
    check_error(status ? status : dcp_save_wait(saver, -1, &w.err), &w.err);
    status = dcp_save_begin(saver, &d, &w.err);
    while (!status && (status = dcp_save_poll(saver, &w.err)) == DCP_PENDING) status = DCP_OK;
    check_error(status, &w.err);
    (void)dcp_save_begin(saver, &d, NULL);              /* nobody fetches its verdict: the next begin returns it, */
    (void)dcp_save_begin(saver, &d, NULL);
    (void)dcp_save_begin(saver, &d, NULL);
    check_error(dcp_saver_close(saver, &w.err), &w.err);                /* or close does */
    CHECK_OK(dcp_manifest_read_file(w.memory, "runs/1.manifest.json", NULL, NULL, &manifest, NULL));
    check_error(dcp_manifest_write(manifest, 0, &signer, &text, &size, &w.err), &w.err);
    dcp_free(text);
    check_error(dcp_manifest_write_file(w.memory, "x.manifest.json", manifest, &signer, NULL, &w.err), &w.err);
    dcp_manifest_free(manifest);
    w.layout = DCP_LAYOUT_SHARDED;
    d = save_desc(&w, "other/1");
    CHECK_OK(dcp_save(&d, NULL));
    CHECK_OK(dcp_metadata_read_file(w.memory, "other/1.metadata.json", NULL, NULL, &metadata, NULL));
    check_error(dcp_metadata_write(metadata, &signer, &text, &size, &w.err), &w.err);
    dcp_free(text);
    check_error(dcp_metadata_write_file(w.memory, "x.metadata.json", metadata, &signer, NULL, &w.err), &w.err);
    dcp_metadata_free(metadata);
    end_world(&w);
}
TEST(whatever_a_signer_returns) {
    odd_key k;
    int i;
    for (i = 0; i < 2 * NUMBERS; i++) {
        k.number = numbers[i / 2];
        k.words = i % 2 ? "words of the signer" : NULL;
        doing("the signer returns %s", status_text(k.number));
        sign_with(&k);
        done_doing();
    }
}
/* Every call that takes a verifier. */
static void verify_with(world *w, const dcp_verifier *verifier) {
    dcp_load_desc load = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_list_desc list = DCP_ZERO;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_sync_desc sync = DCP_ZERO;
    dcp_repair_desc repair = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_list_entry *entries;
    size_t count;
    char *path;
    load.path = open.path = repair.path = "runs/2";
    load.tensors = &w->tensor;
    load.tensor_count = 1;
    repair.verifier = verifier;
    load.verifier = open.verifier = latest.verifier = list.verifier = prune.verifier = sweep.verifier = sync.verifier =
        verifier;
    load.io = open.io = latest.io = list.io = prune.io = sweep.io = repair.io = w->io;
    latest.directory = list.directory = prune.directory = sweep.directory = "runs";
    check_error(dcp_load(&load, &w->err), &w->err);
    check_error(dcp_open(&open, &c, &w->err), &w->err);
    dcp_close(c);
    check_error(dcp_repair(&repair, &w->err), &w->err);
    check_error(dcp_latest(&latest, &path, &w->err), &w->err);
    dcp_free(path);
    check_error(dcp_list(&list, &entries, &count, &w->err), &w->err);
    dcp_free(entries);
    check_error(dcp_sweep(&sweep, NULL, &w->err), &w->err);
    check_error(dcp_prune(&prune, NULL, &w->err), &w->err);
    if (w->layout == DCP_LAYOUT_MANIFEST) {
        dcp_manifest *manifest;
        sync.source = w->memory;
        sync.target = w->memory;
        sync.path = "runs/3";
        sync.directory = "copy";
        check_error(dcp_sync(&sync, &w->err), &w->err);
        check_error(dcp_manifest_read_file(w->memory, "runs/3.manifest.json", verifier, NULL, &manifest, &w->err),
                    &w->err);
        dcp_manifest_free(manifest);
    } else {
        dcp_metadata *metadata;
        check_error(dcp_metadata_read_file(w->memory, "runs/3.metadata.json", verifier, NULL, &metadata, &w->err),
                    &w->err);
        dcp_metadata_free(metadata);
    }
}
TEST(whatever_a_verifier_returns) {
    int i;
    for (i = 0; i < 4 * NUMBERS; i++) {
        dcp_signer signer = DCP_ZERO;
        dcp_verifier verifier = DCP_ZERO;
        dcp_save_desc d;
        odd_key good, k;
        world w;
        good.number = DCP_OK;
        good.words = NULL;
        k.number = numbers[i / 4];
        k.words = i % 2 ? "words of the verifier" : NULL;
        begin_world(&w, i / 2 % 2 ? DCP_LAYOUT_MANIFEST : DCP_LAYOUT_SHARDED);
        signer.context = &good;
        signer.algorithm = verifier.algorithm = "odd";
        signer.key_id = "k";
        signer.size = verifier.size = 8;
        signer.sign = odd_sign;
        verifier.verify = odd_verify;
        verifier.context = &k;
        d = save_desc(&w, "runs/2");
        d.signer = &signer;
        CHECK_OK_MESSAGE(dcp_save(&d, &w.err), w.err.message);
        d = save_desc(&w, "runs/3");
        d.signer = &signer;
        CHECK_OK_MESSAGE(dcp_save(&d, &w.err), w.err.message);
        doing("the verifier returns %s", status_text(k.number));
        verify_with(&w, &verifier);
        done_doing();
        end_world(&w);
    }
}
static int provider_says;
static dcp_status provider_open(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    (void)options; (void)err;
    *out = NULL;
    return (dcp_status)provider_says;
}
TEST(whatever_a_provider_returns) {
    dcp_storage_options options = DCP_ZERO;
    dcp_storage *storage;
    dcp_error err;
    int i;
    options.provider = "odd";
    CHECK_OK_MESSAGE(dcp_storage_register("odd", provider_open, &err), err.message);
    for (i = 0; i < NUMBERS; i++) {
        provider_says = numbers[i];
        doing("the provider returns %s", status_text(numbers[i]));
        check_error(dcp_storage_open(&options, &storage, &err), &err);
        CHECK(storage == NULL);
        done_doing();
    }
}

/* ---- what every call with an io can return ----------------------------------------------------------------------- */
enum { CANCELLED, DEADLINE, BAD_IO, WAYS };
static void run_one_way(int o, int layout, int way) {
    world w;
    dcp_cancel cancel = DCP_ZERO;
    dcp_status status;
    static const dcp_status wanted[] = { DCP_E_CANCELLED, DCP_E_TIMEOUT, DCP_E_INVALID };
    begin_world(&w, (dcp_layout)layout);
    doing("%s, layout %d, way %d", operations[o].name, layout, way);
    if (way == CANCELLED) { w.io.cancel = &cancel; dcp_cancel_request(&cancel); }
    if (way == DEADLINE) w.io.deadline_ms = 1;
    if (way == BAD_IO) w.io.threads = -1;
    w.slow = way == DEADLINE;
    status = operations[o].run(&w);
    check_error(status, &w.err);
    /* its last call may end late */
    if (way != DEADLINE || status != DCP_OK) CHECK_STR(dcp_status_name(status), dcp_status_name(wanted[way]));
    end_world(&w);
    done_doing();
}
TEST(a_cancel_a_deadline_and_a_wrong_io) {
    int o, layout, way;
    for (o = 0; o < OPERATIONS; o++)
        for (layout = 0; layout < 3; layout++)
            for (way = 0; way < WAYS && (operations[o].flags & HAS_IO) && is_for(o, layout); way++)
                run_one_way(o, layout, way);
}

/* ---- documents that are not as they should be -------------------------------------------------------------------- */
enum { NO_JSON, NEWER, CHANGED, TOO_LONG, DAMAGES };
static const dcp_status of_damage[] = { DCP_E_FORMAT, DCP_E_VERSION, DCP_E_CHECKSUM, DCP_E_LIMIT };

static char *damaged(const world *w, int damage, size_t *size) {
    static const char *const newer[] = { "{ \"version\": \"9.0.0\" }", "", "{ \"min_reader_version\": 99 }" };
    char *text = (char *)malloc(DCP_LIMIT_DOCUMENT + 1), *old;
    void *data;
    if (!text) abort();
    if (damage == TOO_LONG) { memset(text, ' ', *size = DCP_LIMIT_DOCUMENT + 1); return text; }
    if (damage == NO_JSON || damage == NEWER) {
        *size = strlen(strcpy(text, damage == NO_JSON ? "{ \"version\": " : newer[w->layout]));
        return text;
    }
    CHECK_OK(dcp_storage_read_all(w->memory, document_name(w), &data, size, NULL, NULL));
    memcpy(text, data, *size + 1);
    dcp_free(data);
    old = strstr(text, "\"shape\"");
    CHECK(old != NULL);
    old[7] = ' ';                                       /* "shape": becomes "shape"  */
    return text;
}
TEST(documents_that_are_not_as_they_should_be) {
    static const operation readers[] = { op_load, op_open, op_sync_from, op_read_document, op_repair_alone };
    int layout, damage, o;
    for (layout = 0; layout < 3; layout += 2)
        for (damage = 0; damage < DAMAGES; damage++)
            for (o = 0; o < 5; o++) {
                dcp_metadata *metadata;
                dcp_manifest *manifest;
                world w;
                char *text;
                size_t size;
                dcp_status status;
                if (readers[o] == op_sync_from && layout != DCP_LAYOUT_MANIFEST) continue;
                begin_world(&w, (dcp_layout)layout);
                text = damaged(&w, damage, &size);
                CHECK_OK(dcp_storage_write_all(w.memory, document_name(&w), text, size, NULL, NULL));
                doing("reader %d, layout %d, damage %d", o, layout, damage);
                status = readers[o](&w);
                check_error(status, &w.err);
                CHECK_STR(dcp_status_name(status), dcp_status_name(of_damage[damage]));
                done_doing();
                if (layout == DCP_LAYOUT_MANIFEST)
                    CHECK_INT(dcp_manifest_parse(text, size, &manifest, NULL), of_damage[damage]);
                else CHECK_INT(dcp_metadata_parse(text, size, &metadata, NULL), of_damage[damage]);
                free(text);
                end_world(&w);
            }
}
TEST(the_newest_ones_error_of_a_directory) {
    int damage;
    for (damage = 0; damage < DAMAGES; damage++) {
        world w;
        char *text, name[40];
        size_t size;
        int i;
        dcp_status status;
        begin_world(&w, DCP_LAYOUT_MANIFEST);
        text = damaged(&w, damage, &size);
        for (i = 1; i <= STEPS; i++) {
            (void)snprintf(name, sizeof name, "runs/%d.manifest.json", i);
            CHECK_OK(dcp_storage_write_all(w.memory, name, text, size, NULL, NULL));
        }
        free(text);
        status = op_latest(&w);
        check_error(status, &w.err);
        CHECK_STR(dcp_status_name(status), dcp_status_name(of_damage[damage]));
        status = op_load_latest(&w);
        check_error(status, &w.err);
        CHECK_STR(dcp_status_name(status), dcp_status_name(of_damage[damage]));
        end_world(&w);
    }
}
/* Somebody's document, of one file; the pieces are of one tensor of int8. */
typedef struct box { int64_t row, column, rows, columns; } box;
static void write_pieces(dcp_storage *storage, const box *boxes, size_t count, int64_t edge) {
    dcp_metadata *m;
    dcp_sharding sharding = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata *pieces = (dcp_tensor_metadata *)calloc(count, sizeof *pieces);
    dcp_error err;
    char *zeros;
    size_t i;
    CHECK(pieces != NULL);
    for (i = 0; i < count; i++) {
        dcp_tensor_metadata *p = &pieces[i];
        p->name = "t";
        p->data_type = "int8";
        p->placement = "sharded";
        p->ndim = 2;
        p->shape[0] = boxes[i].rows;
        p->shape[1] = boxes[i].columns;
        p->global_shape[0] = p->global_shape[1] = edge;
        p->global_offset[0] = boxes[i].row;
        p->global_offset[1] = boxes[i].column;
        p->size = boxes[i].rows * boxes[i].columns;
        p->offset = shard.file_size;
        shard.file_size = (shard.file_size + p->size + 63) / 64 * 64;
    }
    shard.file_size = pieces[count - 1].offset + pieces[count - 1].size;
    shard.file_path = "x_shard_0.bin";
    shard.tensors = pieces;
    shard.tensor_count = count;
    sharding.strategy = "fsdp";
    sharding.shard_count = 1;
    sharding.precision = "int8";
    CHECK_OK(dcp_metadata_new(&m, &err));
    m->world_size = 1;
    CHECK_OK_MESSAGE(dcp_metadata_set_sharding(m, &sharding, &err), err.message);
    CHECK_OK_MESSAGE(dcp_metadata_add_shard(m, &shard, &err), err.message);
    CHECK_OK_MESSAGE(dcp_metadata_write_file(storage, "x.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
    zeros = (char *)calloc(1, (size_t)shard.file_size);
    CHECK(zeros != NULL);
    CHECK_OK(dcp_storage_write_all(storage, "x_shard_0.bin", zeros, (size_t)shard.file_size, NULL, NULL));
    free(zeros);
    free(pieces);
}
static void check_reads(dcp_storage *storage, int64_t edge, dcp_status wanted) {
    dcp_open_desc open = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    dcp_tensor t, made;
    int64_t shape[2];
    int8_t *data = (int8_t *)calloc((size_t)edge, (size_t)edge);
    CHECK(data != NULL);
    shape[0] = shape[1] = edge;
    t = dcp_array("t", DCP_INT8, data, 2, shape);
    open.path = load.path = "x";
    open.io.storage = load.io.storage = storage;
    load.tensors = &t;
    load.tensor_count = 1;
    CHECK_INT(dcp_load(&load, &err), wanted);
    CHECK_OK_MESSAGE(dcp_open(&open, &c, &err), err.message);
    CHECK_INT(dcp_read(c, &t, 1, &err), wanted);
    CHECK_INT(dcp_read_new(c, "t", &made, &err), wanted);
    dcp_close(c);
    free(data);
}
/* Frames of four boxes, each in the frame before, like the vanes of a wheel: no straight cut leaves all boxes whole. */
static size_t wheels(box *boxes, int64_t edge) {
    size_t n = 0;
    int64_t at;
    for (at = 0; edge - 2 * at > 2; at++) {
        const int64_t w = edge - 2 * at - 1;
        const box frame[4] = { { at, at, w, 1 }, { at + w, at, 1, w }, { at + 1, at + w, w, 1 }, { at, at + 1, 1, w } };
        memcpy(boxes + n, frame, sizeof frame);
        n += 4;
    }
    boxes[n].row = boxes[n].column = at;
    boxes[n].rows = boxes[n].columns = edge - 2 * at;
    return n + 1;
}
TEST(stored_pieces_that_overlap_or_cannot_be_checked) {
    static const box two[2] = { { 0, 0, 2, 3 }, { 1, 0, 2, 3 } };
    static box many[500];
    enum { EDGE = 201 };
    dcp_storage *storage;
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    write_pieces(storage, two, 2, 3);
    check_reads(storage, 3, DCP_E_FORMAT);
    write_pieces(storage, many, wheels(many, EDGE), EDGE);
    check_reads(storage, EDGE, DCP_E_LIMIT);
    dcp_storage_close(storage);
}

/* ---- one by one -------------------------------------------------------------------------------------------------- */
TEST(what_a_selection_can_get) {
    static const char *const no_tiers[] = { "none" };
    dcp_select select = DCP_ZERO;
    const dcp_tensor_info **tensors;
    dcp_checkpoint *c;
    world w;
    size_t count;
    int layout;
    select.tiers = no_tiers;
    select.tier_count = 1;
    for (layout = 0; layout < 3; layout += 2) {
        const dcp_status wanted = layout ? DCP_E_MISMATCH : DCP_E_UNSUPPORTED;
        begin_world(&w, (dcp_layout)layout);
        CHECK_OK(opened(&w, &c));
        CHECK_INT(dcp_checkpoint_select(c, &select, &tensors, &count, &w.err), wanted);
        CHECK_INT(dcp_prefetch(c, &select, 0, &w.err), wanted);
        CHECK_INT(dcp_checkpoint_select(NULL, NULL, &tensors, &count, &w.err), DCP_E_INVALID);
        hungry_fail(1, 1);
        CHECK_INT(dcp_checkpoint_select(c, NULL, &tensors, &count, &w.err), DCP_E_MEMORY);
        hungry_fail(1, 1);
        CHECK_INT(dcp_prefetch(c, NULL, 0, &w.err), DCP_E_MEMORY);
        hungry_fail(0, 0);
        dcp_close(c);
        end_world(&w);
    }
}
TEST(what_a_checkpoint_that_is_open_can_get) {
    dcp_checkpoint *c;
    dcp_cancel cancel = DCP_ZERO;
    dcp_tensor t;
    const void *data;
    void *shard;
    size_t size;
    world w;
    begin_world(&w, DCP_LAYOUT_SHARDED);
    w.io.cancel = &cancel;
    CHECK_OK(opened(&w, &c));
    CHECK_INT(dcp_read_new(c, "no such tensor", &t, &w.err), DCP_E_MISMATCH);
    CHECK_INT(dcp_map(c, "no such tensor", &data, &size, &w.err), DCP_E_MISMATCH);
    w.f.storage.map = NULL;                             /* what is mapped is there at once */
    dcp_cancel_request(&cancel);
    CHECK_INT(dcp_read(c, &w.tensor, 1, &w.err), DCP_E_CANCELLED);
    CHECK_INT(dcp_read_rank(c, 0, &w.tensor, 1, &w.err), DCP_E_CANCELLED);
    CHECK_INT(dcp_read_new(c, "t", &t, &w.err), DCP_E_CANCELLED);
    CHECK_INT(dcp_read_shard(c, 0, &shard, &size, &w.err), DCP_E_CANCELLED);
    CHECK_INT(dcp_map(c, "t", &data, &size, &w.err), DCP_E_CANCELLED);
    CHECK_OK(dcp_prefetch(c, NULL, 0, &w.err));
    CHECK_INT(dcp_prefetch_wait(c, 0, &w.err), DCP_E_CANCELLED);
    CHECK_INT(dcp_verify(c, &w.err), DCP_E_CANCELLED);
    dcp_close(c);
    end_world(&w);
}
/* The deadline is that of each call; the storage is slow only once the checkpoint is open. */
static void slower(void *user, fault_kind kind, const char *path, int64_t call, int is_done) {
    (void)user; (void)kind; (void)path; (void)call;
    if (!is_done) dcpi_os_sleep_ms(450);
}
TEST(what_a_checkpoint_that_is_open_can_get_late) {
    enum { BIG = 9 << 20 };                             /* more than is read at once */
    static uint8_t bytes[BIG];
    int64_t shape[1] = { BIG };
    dcp_checkpoint *c = NULL;
    dcp_save_desc d;
    dcp_tensor t;
    const void *data;
    void *shard;
    size_t size;
    world w;
    int i, call;
    begin_world(&w, DCP_LAYOUT_SHARDED);
    w.tensor = dcp_array("t", DCP_UINT8, bytes, 1, shape);
    d = save_desc(&w, "runs/2");
    CHECK_OK_MESSAGE(dcp_save(&d, &w.err), w.err.message);
    w.io.memory_budget = 1 << 20;
    w.io.deadline_ms = 400;
    w.f.storage.map = NULL;
    for (call = 0; call < 4; call++) {
        w.f.hook = NULL;
        for (i = 0; i < 50 && opened(&w, &c); i++) {}   /* on a machine that is busy */
        CHECK(c != NULL);
        w.f.hook = slower;
        if (call == 0) CHECK_INT(dcp_read_new(c, "t", &t, &w.err), DCP_E_TIMEOUT);
        if (call == 1) CHECK_INT(dcp_map(c, "t", &data, &size, &w.err), DCP_E_TIMEOUT);
        if (call == 2) {
            CHECK_OK(dcp_prefetch(c, NULL, BIG, &w.err));
            CHECK_INT(dcp_prefetch_wait(c, 0, &w.err), DCP_E_TIMEOUT);
        }
        if (call == 3) CHECK_INT(dcp_read_shard(c, 0, &shard, &size, &w.err), DCP_E_TIMEOUT);
        dcp_close(c);
    }
    end_world(&w);
}
TEST(what_begin_finds) {
    static const int64_t shape[1] = { 2 }, global[1] = { 5 }, here[1] = { 0 }, there[1] = { 1 };
    dcp_tensor many[DCP_LIMIT_TENSORS + 1], pieces[2];
    char names[DCP_LIMIT_TENSORS + 1][8];
    float values[2] = { 1, 2 };
    dcp_saver_desc wrong = DCP_ZERO;
    dcp_saver *saver;
    dcp_save_desc d;
    world w;
    int i;
    begin_world(&w, DCP_LAYOUT_SHARDED);
    wrong.when_busy = (dcp_when_busy)9;
    CHECK_INT(dcp_saver_open(&wrong, &saver, &w.err), DCP_E_INVALID);
    CHECK_OK(dcp_saver_open(NULL, &saver, &w.err));
    d = save_desc(&w, "runs/1");
    d.overwrite = 0;
    CHECK_INT(dcp_save_begin(saver, &d, &w.err), DCP_E_EXISTS);
    pieces[0] = dcp_array("t", DCP_FP32, values, 1, shape);
    dcp_piece(&pieces[0], global, here);
    d = save_desc(&w, "runs/new");
    d.tensors = pieces;
    CHECK_INT(dcp_save_begin(saver, &d, &w.err), DCP_E_INCOMPLETE);
    pieces[1] = pieces[0];
    dcp_piece(&pieces[1], global, there);
    d.tensor_count = 2;
    CHECK_INT(dcp_save_begin(saver, &d, &w.err), DCP_E_MISMATCH);
    for (i = 0; i <= DCP_LIMIT_TENSORS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%d", i);
        many[i] = dcp_scalar(names[i], DCP_FP32, values);
    }
    d.tensors = many;
    d.tensor_count = DCP_LIMIT_TENSORS + 1;
    CHECK_INT(dcp_save_begin(saver, &d, &w.err), DCP_E_LIMIT);
    CHECK_OK(dcp_saver_close(saver, &w.err));
    end_world(&w);
}
TEST(documents_beyond_their_limits) {
    dcp_manifest_shard shard = DCP_ZERO;
    dcp_tier tier = DCP_ZERO;
    dcp_manifest *m;
    dcp_error err;
    dcp_status status;
    int i;
    shard.path = "x.bin";
    tier.name = "t";
    CHECK_OK(dcp_manifest_new(&m, &err));
    for (status = DCP_OK, i = 0; i <= DCP_LIMIT_TENSORS && !status; i++)
        status = dcp_manifest_add_shard(m, &shard, &err);
    CHECK_INT(status, DCP_E_LIMIT);
    for (status = DCP_OK, i = 0; i <= DCP_LIMIT_TENSORS && !status; i++)
        status = dcp_manifest_add_optimizer_shard(m, &shard, &err);
    CHECK_INT(status, DCP_E_LIMIT);
    for (status = DCP_OK, i = 0; i <= DCP_LIMIT_FIELDS && !status; i++) status = dcp_manifest_add_tier(m, &tier, &err);
    CHECK_INT(status, DCP_E_LIMIT);
    for (status = DCP_OK, i = 0; i <= DCP_LIMIT_SHARDS && !status; i++)
        status = dcp_manifest_add_router(m, i, NULL, &shard, &err);
    CHECK_INT(status, DCP_E_LIMIT);
    dcp_manifest_free(m);
}
#ifdef __linux__
static int mkdir_fails;                 /* errno */
int mkdirat(int dir, const char *path, mode_t mode) {
    if (mkdir_fails) { errno = mkdir_fails; return -1; }
    return (int)syscall(SYS_mkdirat, dir, path, mode);
}
TEST(a_directory_that_cannot_be_made) {
    static const struct { int sys; dcp_status wanted; } ways[] = {
        { ENOSPC, DCP_E_SPACE }, { EDQUOT, DCP_E_SPACE }, { EIO, DCP_E_IO }, { EROFS, DCP_E_DENIED },
            { ENOSYS, DCP_E_UNSUPPORTED }, { ENOENT, DCP_E_IO },
        { ENOTDIR, DCP_E_INVALID }, { ENOMEM, DCP_E_MEMORY }, { EINVAL, DCP_E_INVALID }
    };
    dcp_storage_options options = DCP_ZERO;
    dcp_field base;
    dcp_storage *storage;
    char path[TEST_PATH + 8];
    dcp_error err;
    size_t i;
    (void)snprintf(path, sizeof path, "%s/a/b", test_dir());
    base.key = "basePath";
    base.value = path;
    options.provider = "local";
    options.settings = &base;
    options.setting_count = 1;
    for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        mkdir_fails = ways[i].sys;
        doing("mkdir fails with %d", ways[i].sys);
        CHECK_INT(dcp_storage_local(path, &storage, &err), ways[i].wanted);
        check_error(ways[i].wanted, &err);
        CHECK_INT(dcp_storage_open(&options, &storage, &err), ways[i].wanted);
        check_error(ways[i].wanted, &err);
        done_doing();
    }
    mkdir_fails = 0;
    CHECK_OK_MESSAGE(dcp_storage_local(path, &storage, &err), err.message);
    dcp_storage_close(storage);
}
#endif
TEST(storages_without_memory_and_groups_without_threads) {
    dcp_coordinator *ranks[2];
    dcp_storage *storage;
    dcp_error err;
    hungry_fail(1, 1);
    CHECK_INT(dcp_storage_memory(&storage, &err), DCP_E_MEMORY);
    hungry_fail(0, 0);
    CHECK_INT(dcp_thread_group_open(2, ranks, &err), DCP_NO_THREADS ? DCP_E_UNSUPPORTED : DCP_OK);
    dcp_coordinator_close(ranks[0]);
    dcp_coordinator_close(ranks[1]);
}

int main(void) {
    if (!DCP_NO_THREADS || test_is_whole()) {          /* of what threads do not change, only in `make test-all` */
        RUN(whatever_a_storage_returns);
        RUN(whatever_a_storage_returns_from_then_on);
    }
#if !DCP_NO_THREADS
    RUN(whatever_a_coordinator_returns);
    RUN(ranks_that_hear_nothing_more);
    RUN(ranks_that_make_different_calls);
#endif
    RUN(whatever_a_device_returns);
    RUN(whatever_a_signer_returns);
    RUN(whatever_a_verifier_returns);
    RUN(whatever_a_provider_returns);
    RUN(a_cancel_a_deadline_and_a_wrong_io);
    RUN(documents_that_are_not_as_they_should_be);
    RUN(the_newest_ones_error_of_a_directory);
    RUN(stored_pieces_that_overlap_or_cannot_be_checked);
    RUN(what_a_selection_can_get);
    RUN(what_a_checkpoint_that_is_open_can_get);
    RUN(what_a_checkpoint_that_is_open_can_get_late);
    RUN(what_begin_finds);
    RUN(documents_beyond_their_limits);
#ifdef __linux__
    RUN(a_directory_that_cannot_be_made);
#endif
    RUN(storages_without_memory_and_groups_without_threads);
    return test_finish();
}
