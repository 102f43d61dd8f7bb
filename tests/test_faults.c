/* test_faults.c - what dcp.h does when memory, storages, files and other programs fail it.
 *
 * Each test breaks one thing at every point where it can break, and then asks for the guarantees: the checkpoint that
 * was there still loads, byte for byte; the result is DCP_OK, and then the new one loads, or an error that says
 * something; and nothing is left behind. Killed processes are in test_kill.c. */
#ifndef _WIN32
#define nanosleep no_sleep     /* <time.h> declares it so: pauses between attempts cost thousands of tests their time */
#else
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#define Sleep(ms) ((void)(ms))
#endif
#define DCP_LIMIT_DOCUMENT ((int64_t)64 << 20)          /* so that a sparse file of a terabyte is beyond it */
#include "failing_allocator.h"
#include "doing.h"
#include "fault_storage.h"
#include "windows_errors.h"
#ifndef _WIN32
#include <sys/select.h>
#include <sys/wait.h>
#endif

static int64_t pauses_ns;               /* that the library wanted to make, in one thread */
#ifndef _WIN32
int no_sleep(const struct timespec *wanted, struct timespec *left) {
    (void)left;
    pauses_ns += (int64_t)wanted->tv_sec * 1000000000 + (int64_t)wanted->tv_nsec;
    return 0;
}
static void pause_ms(int ms) {
    struct timeval span;
    span.tv_sec = ms / 1000;
    span.tv_usec = (ms % 1000) * 1000;
    (void)select(0, NULL, NULL, NULL, &span);
}
#else
#undef Sleep
static void pause_ms(int ms) { Sleep((DWORD)ms); }
#endif

static dcp_cancel *the_cancel;          /* of all operations, where a test sets them */
static int64_t the_deadline_ms;

static void done(void) {
    the_cancel = NULL;
    the_deadline_ms = 0;
    done_doing();
}

/* ---- a state: a few tensors whose bytes tell its generation ------------------------------------------------------ */
#define TENSORS 6
#define LARGEST 320                     /* bytes of a tensor */
#define GENERATIONS 8                   /* numbered from 1 */
typedef struct state { unsigned char bytes[TENSORS][LARGEST]; } state;

static const struct {
    const char *name;
    dcp_dtype dtype;
    int ndim;
    int64_t shape[2];
    size_t size;
} tensors_of[TENSORS] = {
    { "layer.0/weight", DCP_FP32, 2, { 8, 9 }, 288 },
    { "odd", DCP_UINT8, 1, { 77, 0 }, 77 },
    { "steps", DCP_INT64, 0, { 0, 0 }, 8 },
    { "layer.0/bias", DCP_FP64, 1, { 3, 0 }, 24 },
    { "nothing", DCP_FP16, 2, { 0, 5 }, 0 },
    { "table", DCP_INT16, 2, { 6, 4 }, 48 }
};
static unsigned char byte_of(int generation, int tensor, size_t i) {
    uint64_t x = ((uint64_t)generation * 1000003u + (uint64_t)tensor) * 0x9e3779b97f4a7c15u + i;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(x >> 32);
}
static void state_make(state *s, int generation) {
    int t;
    size_t i;
    memset(s, 0, sizeof *s);
    for (t = 0; t < TENSORS; t++) for (i = 0; i < tensors_of[t].size; i++) s->bytes[t][i] = byte_of(generation, t, i);
}
/* The generation that the first `count` tensors hold, or 0: none, or a mixture. */
static int state_generation(const state *s, int count) {
    int generation, t;
    size_t i;
    for (generation = 1; generation <= GENERATIONS; generation++) {
        int same = 1;
        for (t = 0; t < count && same; t++)
            for (i = 0; i < tensors_of[t].size && same; i++) same = s->bytes[t][i] == byte_of(generation, t, i);
        if (same) return generation;
    }
    return 0;
}
static void state_tensors(state *s, dcp_tensor *list, int count) {
    int t;
    for (t = 0; t < count; t++)
        list[t] = dcp_array(tensors_of[t].name, tensors_of[t].dtype, s->bytes[t], tensors_of[t].ndim,
                            tensors_of[t].shape);
}
/* For a save: "table", the last one, as two pieces. Returns the number of list entries. */
static size_t state_pieces(state *s, dcp_tensor *list, int count) {
    const int64_t offset[2] = { 2, 0 };
    state_tensors(s, list, count);
    if (count < TENSORS) return (size_t)count;
    list[count] = list[count - 1];
    list[count - 1].shape[0] = 2;
    list[count].shape[0] = 4;
    list[count].data = s->bytes[TENSORS - 1] + 16;
    dcp_piece(&list[count - 1], tensors_of[TENSORS - 1].shape, list[count - 1].global_offset);
    dcp_piece(&list[count], tensors_of[TENSORS - 1].shape, offset);
    return (size_t)count + 1;
}

/* ---- saving and loading states in every form --------------------------------------------------------------------- */
typedef struct form { const char *name; dcp_layout layout; dcp_checksum checksum; int is_signed; } form;
static const form forms[] = {
    { "sharded", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, 0 }, { "single", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, 0 },
    { "sharded flat", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, 0 }, { "single flat", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT,
        0 },
    { "sharded signed", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, 1 },
    { "single signed", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, 1 }
};
#define FORMS ((int)DCPI_COUNT(forms))
static const char *suffix_of(const form *f) {
    return f->layout == DCP_LAYOUT_SINGLE ? ".checkpoint" : ".metadata.json";
}
static const char hmac_key[] = "0123456789abcdef0123456789abcdef";

typedef struct saving {
    dcp_save_desc desc;
    dcp_tensor list[TENSORS + 1];
    state s;
    dcp_signer signer;
    dcp_training training;
    dcp_field field;
} saving;

static void io_make(dcp_io *io, dcp_storage *storage) { /* retries, but without long pauses */
    io->storage = storage;
    io->cancel = the_cancel;
    io->deadline_ms = the_deadline_ms;
    io->retry.first_ms = io->retry.max_ms = 1;
}
static void saving_make(saving *v, const form *f, dcp_storage *storage, const char *path, int generation, int count) {
    memset(v, 0, sizeof *v);
    state_make(&v->s, generation);
    v->desc.path = path;
    v->desc.tensors = v->list;
    v->desc.tensor_count = state_pieces(&v->s, v->list, count);
    v->desc.layout = f->layout;
    v->desc.checksum = f->checksum;
    v->signer = dcp_hmac_signer(hmac_key, sizeof hmac_key - 1, "key-1");
    if (f->is_signed) v->desc.signer = &v->signer;
    v->training.step = generation;
    v->training.optimizer_state = "{\"a\": [1, 2.5, \"x\"]}";
    v->desc.training = &v->training;
    v->field.key = "git";
    v->field.value = "abc123";
    v->desc.fields = &v->field;
    v->desc.field_count = 1;
    io_make(&v->desc.io, storage);
}
static dcp_status save(dcp_storage *storage, const form *f, const char *path, int generation, int overwrite,
                       dcp_error *err) {
    saving v;
    saving_make(&v, f, storage, path, generation, TENSORS);
    v.desc.overwrite = overwrite;
    return dcp_save(&v.desc, err);
}
static dcp_status load_some(dcp_storage *storage, const form *f, const char *path, dcp_verify_policy verify, int count,
                            int *generation, dcp_error *err) {
    dcp_verifier verifier = dcp_hmac_verifier(hmac_key, sizeof hmac_key - 1);
    dcp_load_desc desc = DCP_ZERO;
    dcp_tensor list[TENSORS];
    state s;
    dcp_status status;
    memset(&s, 0xA5, sizeof s);
    state_tensors(&s, list, count);
    desc.path = path;
    desc.tensors = list;
    desc.tensor_count = (size_t)count;
    desc.verify = verify;
    if (f->is_signed) desc.verifier = &verifier;
    io_make(&desc.io, storage);
    status = dcp_load(&desc, err);
    *generation = status ? 0 : state_generation(&s, count);
    return status;
}
static dcp_status load(dcp_storage *storage, const form *f, const char *path, int *generation, dcp_error *err) {
    return load_some(storage, f, path, DCP_VERIFY_TOUCHED, TENSORS, generation, err);
}
/* The generation that loads there; 0: a mixture; the status, negative, if it does not load. */
static int generation_at(dcp_storage *storage, const form *f, const char *path) {
    int generation = 0;
    dcp_status status = load(storage, f, path, &generation, NULL);
    return status ? -(int)status : generation;
}
static void must_save(dcp_storage *storage, const form *f, const char *path, int generation, int overwrite) {
    dcp_error err;
    CHECK_OK_MESSAGE(save(storage, f, path, generation, overwrite, &err), err.message);
}

/* ---- what a storage holds: names, sizes and digests, sorted, as text --------------------------------------------- */
#define SNAPSHOT_FILES 64
typedef struct snapshot { int count; char line[SNAPSHOT_FILES][320]; char text[SNAPSHOT_FILES * 100]; } snapshot;

static dcp_status snapshot_one(void *user, const char *path, const dcp_object_info *info) {
    snapshot *s = (snapshot *)user;
    (void)info;
    if (s->count < SNAPSHOT_FILES) (void)snprintf(s->line[s->count++], sizeof s->line[0], "%s", path);
    return DCP_OK;
}
static int snapshot_compare(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }
static void snapshot_take(dcp_storage *storage, snapshot *s) {
    int i;
    memset(s, 0, sizeof *s);
    CHECK_OK(storage->list(storage->context, "", DCP_LIST_OBJECTS, snapshot_one, s, NULL));
    CHECK(s->count < SNAPSHOT_FILES);
    qsort(s->line, (size_t)s->count, sizeof s->line[0], snapshot_compare);
    for (i = 0; i < s->count; i++) {
        void *data;
        size_t size, n = strlen(s->line[i]);
        uint8_t digest[32];
        CHECK_OK(dcp_storage_read_all(storage, s->line[i], &data, &size, NULL, NULL));
        dcp_sha256(data, size, digest);
        dcp_free(data);
        (void)snprintf(s->line[i] + n, sizeof s->line[0] - n, " %u %02x%02x%02x%02x\n", (unsigned)size, digest[0],
                       digest[1], digest[2], digest[3]);
        (void)snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text), "%s", s->line[i]);
    }
}
static void check_unchanged(dcp_storage *storage, const snapshot *before) {
    snapshot now;
    snapshot_take(storage, &now);
    CHECK_STR(now.text, before->text);
}
/* How many files are new, or other than they were; `but`, if it is one of them, is not counted. */
static int new_files(dcp_storage *storage, const snapshot *before, const char *but) {
    snapshot now;
    int i, count = 0;
    snapshot_take(storage, &now);
    for (i = 0; i < now.count; i++)
        if (!strstr(before->text, now.line[i]) && strncmp(now.line[i], but, strlen(but)) != 0) count++;
    return count;
}
/* All that was there still is, unchanged; there may be more. */
static void check_kept_but(dcp_storage *storage, const snapshot *before, const char *but) {
    snapshot now;
    int i;
    snapshot_take(storage, &now);
    for (i = 0; i < before->count; i++)
        if (!strstr(now.text, before->line[i]) && strncmp(before->line[i], but, strlen(but)) != 0)
            CHECK_STR(now.text, before->text);
}
static void check_kept(dcp_storage *storage, const snapshot *before) { check_kept_but(storage, before, "-"); }
static dcp_status empty_one(void *user, const char *path, const dcp_object_info *info) {
    snapshot *s = (snapshot *)user;
    return snapshot_one(s, path, info);
}
static void empty(dcp_storage *storage) {
    snapshot s;
    int i;
    memset(&s, 0, sizeof s);
    CHECK_OK(storage->list(storage->context, "", DCP_LIST_OBJECTS, empty_one, &s, NULL));
    for (i = 0; i < s.count; i++) CHECK_OK(storage->remove(storage->context, s.line[i], NULL, NULL));
}
static dcp_status sweep_all(dcp_storage *storage, const dcp_verifier *verifier, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    desc.grace_seconds = -1;
    desc.plain_names = 1;
    desc.verifier = verifier;
    io_make(&desc.io, storage);
    return dcp_sweep(&desc, NULL, err);
}
/* After a sweep there is exactly what the valid checkpoints need, `checkpoints` of them: a commit file each, and a
 * shard if it is sharded. */
static void check_clean_after_sweep(dcp_storage *storage, size_t checkpoints) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t count, i, files = 0;
    snapshot now;
    CHECK_OK_MESSAGE(sweep_all(storage, NULL, &err), err.message);
    io_make(&desc.io, storage);
    CHECK_OK_MESSAGE(dcp_list(&desc, &entries, &count, &err), err.message);
    for (i = 0; i < count; i++) {
        CHECK_OK_MESSAGE(entries[i].status, entries[i].message);
        files += entries[i].layout == DCP_LAYOUT_SINGLE ? 1 : 2;
    }
    dcp_free(entries);
    CHECK_INT(count, checkpoints);
    snapshot_take(storage, &now);
    CHECK_INT(now.count, files);
}
/* An error says something, and says the same twice. */
static void check_error(dcp_status status, const dcp_error *err) {
    CHECK_INT(err->status, status);
    if (status) CHECK(err->message[0] != '\0');
    else CHECK_STR(err->message, "");
}

/* ---- where to save: a directory in memory where there is one (quick), or on the disk ----------------------------- */
static dcp_storage *local_at(const char *dir) {
    dcp_storage *storage = NULL;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    return storage;
}
static dcp_storage *in_memory(void) {
    dcp_storage *storage = NULL;
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    return storage;
}

/* =====================================================================================================================
 * 1. Memory: the n-th allocation fails, once or from then on, for every n and each call of the API.
 * ================================================================================================================== */
typedef struct world {
    dcp_storage *storage;               /* to prepare and to look */
    dcp_storage *use;                   /* for the work; NULL: OS paths */
    const form *f;
    /* of a checkpoint that is there (generation 1), and of one that is not */
    char dir[TEST_PATH], old[TEST_PATH + 8], fresh[TEST_PATH + 8];
    char *text; size_t size;            /* of old's document */
    dcp_metadata *metadata;
    dcp_checkpoint *open;
    int in_memory;
} world;
typedef dcp_status (*world_work)(world *w, dcp_error *err);
typedef void (*world_judge)(world *w, dcp_status status, const snapshot *before);

static void world_reset(world *w) {
    empty(w->storage);
    must_save(w->storage, w->f, "old", 1, 0);
}
static void world_paths(world *w, const char *dir) {
    (void)snprintf(w->dir, sizeof w->dir, "%s", dir);
    (void)snprintf(w->old, sizeof w->old, "%s%sold", dir, dir[0] ? "/" : "");
    (void)snprintf(w->fresh, sizeof w->fresh, "%s%sfresh", dir, dir[0] ? "/" : "");
}
/* On a directory with OS paths, or in memory. */
static void world_make(world *w, const form *f, int is_in_memory) {
    hungry_fail(0, 0);
    memset(w, 0, sizeof *w);
    w->f = f;
    w->in_memory = is_in_memory;
    world_paths(w, is_in_memory ? "" : test_ram_dir());
    w->storage = is_in_memory ? in_memory() : local_at(w->dir);
    w->use = is_in_memory ? w->storage : NULL;
    world_reset(w);
}
static void world_end(world *w) {
    dcp_close(w->open);
    dcp_metadata_free(w->metadata);
    dcp_free(w->text);
    dcp_storage_close(w->storage);
    done();
}
/* In a world of each of the first forms, on disk and in memory; what was allocated there is freed. */
static void in_each_world(int count, void (*body)(world *w)) {
    int i, where;
    for (where = 0; where <= 1; where++) {
        for (i = 0; i < count; i++) {
            int64_t live = hungry.live;
            world w;
            world_make(&w, &forms[i], where);
            body(&w);
            world_end(&w);
            CHECK_INT(hungry.live, live);
        }
    }
}
static void world_keeps_old(world *w, int generation) { CHECK_INT(generation_at(w->storage, w->f, "old"), generation); }

/* One round: the work with the n-th allocation failing. Returns 0 when n was beyond the last one. */
static int starve_once(world *w, world_work work, world_judge judge, int64_t n, int for_ever) {
    snapshot before;
    dcp_error err;
    dcp_status status;
    int64_t live;
    int tripped;
    snapshot_take(w->storage, &before);
    memset(&err, 0x5A, sizeof err);                     /* always written, never read */
    live = hungry.live;
    hungry_fail(n, for_ever);
    status = work(w, &err);
    tripped = hungry.tripped;
    hungry_fail(0, 0);
    check_error(status, &err);
    if (!tripped) CHECK_OK_MESSAGE(status, err.message);
    if (status == DCP_E_UNKNOWN && ((w->in_memory && for_ever) || PATHS_NEED_MEMORY)) {
        /* none to look with whether the commit went through: nobody can know */
        int generation = generation_at(w->storage, w->f, "old");
        CHECK(generation == 1 || generation == 2);
        world_reset(w);
        return 1;
    }
    if (w->in_memory == 0 || (w->in_memory == 1 && status)) CHECK_INT(hungry.live, live);
    CHECK_INT(status, status ? DCP_E_MEMORY : DCP_OK);
    judge(w, status, &before);
    return tripped;
}
static void starve(world *w, const char *name, world_work work, world_judge judge) {
    int64_t n;
    int for_ever, tripped;
    for (for_ever = 0; for_ever <= 1; for_ever++) {
        for (n = 1, tripped = 1; tripped; n++) {
            doing("%s, %s, %s: allocation %d %s", name, w->f->name, w->in_memory ? "memory" : "local", (int)n,
                  for_ever ? "and all after it" : "once");
            tripped = starve_once(w, work, judge, n, for_ever);
        }
        CHECK(n > 2);                                   /* there was something to fail */
    }
    done();
}

/* ---- judges ------------------------------------------------------------------------------------------------------ */
static void judge_read(world *w, dcp_status status, const snapshot *before) {
    (void)status;
    check_unchanged(w->storage, before);
}
static void judge_new(world *w, dcp_status status, const snapshot *before) {
    world_keeps_old(w, 1);
    if (status) { check_unchanged(w->storage, before); return; }
    CHECK_INT(generation_at(w->storage, w->f, "fresh"), 2);
    check_kept(w->storage, before);
    check_clean_after_sweep(w->storage, 2);
    world_reset(w);
}
static void judge_overwrite(world *w, dcp_status status, const snapshot *before) {
    if (status) { world_keeps_old(w, 1); check_unchanged(w->storage, before); return; }
    world_keeps_old(w, 2);
    check_clean_after_sweep(w->storage, 1);     /* the displaced shard may still be there: its removal is only logged */
    world_reset(w);
}
static void judge_file(world *w, dcp_status status, const snapshot *before) {    /* write_file: "fresh.metadata.json" */
    if (status) { check_unchanged(w->storage, before); return; }
    check_kept(w->storage, before);
    CHECK_OK(w->storage->remove(w->storage->context, "fresh.metadata.json", NULL, NULL));
    check_unchanged(w->storage, before);
}

/* ---- saving and loading ------------------------------------------------------------------------------------------ */
static dcp_status work_save_new(world *w, dcp_error *err) { return save(w->use, w->f, w->fresh, 2, 0, err); }
static dcp_status work_overwrite(world *w, dcp_error *err) { return save(w->use, w->f, w->old, 2, 1, err); }
static dcp_status work_load(world *w, dcp_error *err) {
    int generation;
    dcp_status status = load(w->use, w->f, w->old, &generation, err);
    if (!status) CHECK_INT(generation, 1);
    return status;
}
static dcp_status work_load_all(world *w, dcp_error *err) {
    /* verify everything, exactly, and hand over the document */
    dcp_verifier verifier = dcp_hmac_verifier(hmac_key, sizeof hmac_key - 1);
    dcp_load_desc desc = DCP_ZERO;
    dcp_tensor list[TENSORS];
    dcp_metadata *metadata;
    state s;
    dcp_status status;
    state_make(&s, 3);
    state_tensors(&s, list, TENSORS);
    desc.path = w->old;
    desc.tensors = list;
    desc.tensor_count = TENSORS;
    desc.exact = 1;
    desc.verify = DCP_VERIFY_ALL;
    if (w->f->is_signed) desc.verifier = &verifier;
    desc.metadata = &metadata;
    io_make(&desc.io, w->use);
    status = dcp_load(&desc, err);
    CHECK((metadata == NULL) == (status != DCP_OK));
    if (!status) CHECK_INT(state_generation(&s, TENSORS), 1);
    if (!status) CHECK_STR(dcp_metadata_field(metadata, "git"), "abc123");
    dcp_metadata_free(metadata);
    return status;
}
static dcp_status world_open(world *w, dcp_checkpoint **out, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_status status;
    desc.path = w->old;
    io_make(&desc.io, w->use);
    status = dcp_open(&desc, out, err);
    CHECK((*out == NULL) == (status != DCP_OK));
    return status;
}
/* A box of "table" that both of its pieces hold a part of: rows 1 to 3. */
static dcp_status read_slice(dcp_checkpoint *c, dcp_error *err) {
    const int64_t whole[2] = { 6, 4 }, offset[2] = { 1, 0 }, shape[2] = { 3, 4 };
    unsigned char got[24] = {0};
    dcp_tensor t = dcp_array("table", DCP_INT16, got, 2, shape);
    dcp_status status;
    size_t i;
    dcp_piece(&t, whole, offset);
    status = dcp_read(c, &t, 1, err);
    for (i = 0; i < sizeof got && !status; i++) CHECK_INT(got[i], byte_of(1, 5, 8 + i));
    return status;
}
static dcp_status work_open_read(world *w, dcp_error *err) {
    dcp_checkpoint *c;
    dcp_tensor list[TENSORS];
    state s;
    dcp_status status = world_open(w, &c, err);
    if (status) return status;
    state_make(&s, 3);
    state_tensors(&s, list, TENSORS);
    CHECK_INT(dcp_checkpoint_tensor_count(c), TENSORS);
    status = dcp_read(c, list, TENSORS, err);
    if (!status) CHECK_INT(state_generation(&s, TENSORS), 1);
    if (!status) status = read_slice(c, err);
    if (!status) status = dcp_read_rank(c, 0, list, 4, err);
    dcp_close(c);
    return status;
}
static dcp_status work_read_new(world *w, dcp_error *err) {
    dcp_checkpoint *c;
    dcp_tensor got;
    dcp_status status = world_open(w, &c, err);
    if (status) return status;
    status = dcp_read_new(c, "table", &got, err);
    CHECK((got.data == NULL) == (status != DCP_OK));
    if (!status) CHECK_INT(((unsigned char *)got.data)[47], byte_of(1, 5, 47));
    dcp_free(got.data);
    dcp_close(c);
    return status;
}
static dcp_status work_map(world *w, dcp_error *err) {
    dcp_checkpoint *c;
    const void *data;
    size_t size;
    dcp_status status = world_open(w, &c, err);
    if (status) return status;
    status = dcp_map(c, "odd", &data, &size, err);
    CHECK((data == NULL) == (status != DCP_OK));
    if (!status) CHECK_INT(size, 77);
    if (!status) CHECK_INT(((const unsigned char *)data)[76], byte_of(1, 1, 76));
    dcp_close(c);
    return status;
}
static dcp_status work_verify(world *w, dcp_error *err) {
    dcp_checkpoint *c;
    dcp_status status = world_open(w, &c, err);
    if (status) return status;
    status = dcp_verify(c, err);
    dcp_close(c);
    return status;
}

static void memory_fails_in_saves_body(world *w) {
    starve(w, "save", work_save_new, judge_new);
    starve(w, "overwrite", work_overwrite, judge_overwrite);
}
TEST(memory_fails_in_saves) { in_each_world(FORMS, memory_fails_in_saves_body); }
static void memory_fails_in_loads_body(world *w) {
    starve(w, "load", work_load, judge_read);
    starve(w, "load everything", work_load_all, judge_read);
    starve(w, "open, read, slices", work_open_read, judge_read);
    starve(w, "read_new", work_read_new, judge_read);
    starve(w, "map", work_map, judge_read);
    starve(w, "verify", work_verify, judge_read);
}
TEST(memory_fails_in_loads) { in_each_world(FORMS, memory_fails_in_loads_body); }

/* ---- a directory of checkpoints ---------------------------------------------------------------------------------- */
static dcp_status work_list(world *w, dcp_error *err) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    size_t count;
    dcp_status status;
    desc.directory = w->dir;
    io_make(&desc.io, w->use);
    status = dcp_list(&desc, &entries, &count, err);
    CHECK((entries == NULL) == (status != DCP_OK));
    if (!status) CHECK_INT(count, 3);
    if (!status && entries[0].status != DCP_E_IO && entries[0].status != DCP_E_DENIED)
        CHECK_OK_MESSAGE(entries[0].status, entries[0].message);
    dcp_free(entries);
    return status;
}
static dcp_status work_latest(world *w, dcp_error *err) {
    dcp_latest_desc desc = DCP_ZERO;
    char *path, want[TEST_PATH + 40];
    dcp_status status;
    desc.directory = w->dir;
    io_make(&desc.io, w->use);
    status = dcp_latest(&desc, &path, err);
    CHECK((path == NULL) == (status != DCP_OK));
    (void)snprintf(want, sizeof want, "%s%sc%s", w->dir, w->dir[0] ? "/" : "", suffix_of(w->f));
    if (!status) CHECK_STR(path, want);
    dcp_free(path);
    return status;
}
static dcp_status work_prune(world *w, dcp_error *err) {
    dcp_prune_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_status status;
    desc.directory = w->dir;
    io_make(&desc.io, w->use);
    status = dcp_prune(&desc, &removal, err);
    dcp_removal_free(&removal);
    return status;
}
static dcp_status work_remove(world *w, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_status status;
    desc.path = w->fresh;                               /* "c" or one that an earlier round has removed already */
    io_make(&desc.io, w->use);
    status = dcp_remove(&desc, &removal, err);
    dcp_removal_free(&removal);
    return status;
}
static dcp_status work_sweep(world *w, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_status status;
    desc.directory = w->dir;
    desc.grace_seconds = -1;
    io_make(&desc.io, w->use);
    status = dcp_sweep(&desc, &removal, err);
    dcp_removal_free(&removal);
    return status;
}
/* Three checkpoints, a (1), b (2) and c (3), and two files that a killed save may have left. */
static void world_fill(world *w) {
    empty(w->storage);
    must_save(w->storage, w->f, "a", 1, 0);
    must_save(w->storage, w->f, "b", 2, 0);
    must_save(w->storage, w->f, "c", 3, 0);
    CHECK_OK(dcp_storage_write_all(w->storage, "c_shard_0.0123456789abcdef.bin", "x", 1, NULL, NULL));
    CHECK_OK(dcp_storage_write_all(w->storage, "c.metadata.json.0123456789abcdef-2.tmp", "x", 1, NULL, NULL));
    (void)snprintf(w->fresh, sizeof w->fresh, "%s%sc", w->dir, w->dir[0] ? "/" : "");
}
/* After part of a removal: each loads, or is gone; what is not named any more is only waiting for a sweep. */
static void check_loads_or_is_gone(world *w, const char *path, int generation, int may_be_gone) {
    int now = generation_at(w->storage, w->f, path);
    if (now != -(int)DCP_E_NOT_FOUND || !may_be_gone) CHECK_INT(now, generation);
}
static void check_between(world *w, int gone_a, int gone_b, int gone_c) {
    check_loads_or_is_gone(w, "a", 1, gone_a);
    check_loads_or_is_gone(w, "b", 2, gone_b);
    check_loads_or_is_gone(w, "c", 3, gone_c);
}
static void judge_prune(world *w, dcp_status status, const snapshot *before) {
    (void)before;
    check_between(w, 1, 1, 0);
    if (status) CHECK_OK(work_prune(w, NULL));
    check_clean_after_sweep(w->storage, 1);
    CHECK_INT(generation_at(w->storage, w->f, "c"), 3);
    world_fill(w);
}
static void judge_remove(world *w, dcp_status status, const snapshot *before) {
    (void)before;
    check_between(w, 0, 0, 1);
    if (status && generation_at(w->storage, w->f, "c") == 3) CHECK_OK(work_remove(w, NULL));
    check_clean_after_sweep(w->storage, 2);
    world_fill(w);
}
static void judge_sweep(world *w, dcp_status status, const snapshot *before) {
    snapshot now;
    snapshot_take(w->storage, &now);
    if (!status) CHECK_INT(now.count, before->count - 2);
    check_between(w, 0, 0, 0);
    check_clean_after_sweep(w->storage, 3);
    world_fill(w);
}
static void memory_fails_in_directories_body(world *w) {
    /* directories on disk are the same in both layouts */
    if (!w->in_memory && w->f == &forms[1] && !test_is_whole()) return;
    world_fill(w);
    starve(w, "list", work_list, judge_read);
    starve(w, "latest", work_latest, judge_read);
    w->in_memory = 2;                            /* what is removed was alive */
    starve(w, "prune", work_prune, judge_prune);
    starve(w, "remove", work_remove, judge_remove);
    starve(w, "sweep", work_sweep, judge_sweep);
}
TEST(memory_fails_in_directories) { in_each_world(2, memory_fails_in_directories_body); }

/* So many entries that their texts need a second block of memory, which a text between a path and its end asks for. */
#define MANY 44
static dcp_status work_long_list(world *w, dcp_error *err) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    size_t count;
    dcp_status status;
    io_make(&desc.io, w->use);
    status = dcp_list(&desc, &entries, &count, err);
    if (!status) CHECK_INT(count, MANY);
    dcp_free(entries);
    return status;
}
TEST(memory_fails_in_a_long_list) {
    const char *name = "abcdefghijklmnopqrstuvwxyz";
    world w;
    int64_t n, total;
    int i;
    world_make(&w, &forms[1], 1);
    empty(w.storage);
    for (i = 0; i < MANY; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "%s%03d", name, i);
        must_save(w.storage, w.f, path, 1, 0);
    }
    hungry_fail(0, 0);
    CHECK_OK(work_long_list(&w, NULL));
    total = hungry.calls;
    for (n = total - 250; n <= total; n++) {
        doing("allocation %d of %d", (int)n, (int)total);
        CHECK(starve_once(&w, work_long_list, judge_read, n, 0));
    }
    world_end(&w);
}

/* ---- documents --------------------------------------------------------------------------------------------------- */
/* For calls that have no dcp_error to say it with. */
static dcp_status said(dcp_status status, dcp_error *err) {
    return status ? dcpi_fail(err, status, "said by the test") : dcpi_succeed(err);
}

static dcp_status work_parse(world *w, dcp_error *err) {
    dcp_metadata *m;
    dcp_status status = dcp_metadata_parse(w->text, w->size, &m, err);
    CHECK((m == NULL) == (status != DCP_OK));
    if (!status) CHECK_STR(dcp_metadata_field(m, "git"), "abc123");
    dcp_metadata_free(m);
    return status;
}
static dcp_status work_write(world *w, dcp_error *err) {
    dcp_signer signer = dcp_hmac_signer(hmac_key, sizeof hmac_key - 1, "key-1");
    char *text;
    size_t size;
    dcp_status status = dcp_metadata_write(w->metadata, NULL, &text, &size, err);
    CHECK((text == NULL) == (status != DCP_OK));
    dcp_free(text);
    if (status) return status;
    status = dcp_metadata_write(w->metadata, &signer, &text, &size, err);
    CHECK((text == NULL) == (status != DCP_OK));
    dcp_free(text);
    return status;
}
static dcp_status work_validate(world *w, dcp_error *err) {    /* one good document, and one with errors and warnings */
    dcp_validation v;
    dcp_status status = dcp_metadata_validate(w->metadata, &v);
    dcp_validation_free(&v);
    if (status) return said(status, err);
    w->metadata->world_size = 3;
    w->metadata->timestamp = "yesterday";
    status = dcp_metadata_validate(w->metadata, &v);
    if (status == DCP_E_FORMAT) status = v.error_count > 0 ? DCP_OK : DCP_E_IO;
    if (!status) status = dcp_validation_error(&v, "mine");
    if (!status) status = dcp_validation_warning(&v, "mine");
    dcp_validation_free(&v);
    w->metadata->world_size = 1;
    w->metadata->timestamp = "2026-01-02T03:04:05.000006Z";
    return said(status, err);
}
static dcp_status build_shards(dcp_metadata *m, dcp_error *err) {
    dcp_tensor_metadata tensors[2];
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_status status;
    memset(tensors, 0, sizeof tensors);
    tensors[0].name = "a";
    tensors[0].ndim = 1;
    tensors[0].shape[0] = 16;
    tensors[0].data_type = "fp32";
    tensors[0].size = 64;
    tensors[1] = tensors[0];
    tensors[1].name = "b";
    tensors[1].offset = 64;
    shard.file_path = "built_shard_0.bin";
    shard.file_size = 128;
    shard.tensors = tensors;
    shard.tensor_count = 1;
    status = dcp_metadata_add_shard(m, &shard, err);
    return status ? status : dcp_metadata_add_tensor(m, 0, &tensors[1], err);
}
static dcp_status work_build(world *w, dcp_error *err) {
    dcp_sharding sharding = DCP_ZERO;
    dcp_training training = DCP_ZERO;
    dcp_metadata *m;
    char *text = NULL;
    size_t size;
    dcp_status status = dcp_metadata_new(&m, err);
    (void)w;
    CHECK((m == NULL) == (status != DCP_OK));
    sharding.strategy = "fsdp";
    training.step = 7;
    training.optimizer_type = "adamw";
    if (!status) status = dcp_metadata_set_sharding(m, &sharding, err);
    if (!status) status = dcp_metadata_set_training(m, &training, err);
    if (!status) status = dcp_metadata_set_field(m, "key", "value", err);
    if (!status) status = dcp_metadata_set_field(m, "key", "another", err);
    if (!status) status = dcp_metadata_set_field(m, "second", "x", err);
    if (!status) status = dcp_metadata_set_field(m, "key", NULL, err);
    if (!status) status = build_shards(m, err);
    if (!status) status = dcp_metadata_write(m, NULL, &text, &size, err);
    if (!status) CHECK(strstr(text, "built_shard_0.bin") && strstr(text, "\"second\"") && !strstr(text, "another"));
    dcp_free(text);
    dcp_metadata_free(m);
    return status;
}
static dcp_status work_read_file(world *w, dcp_error *err) {
    char path[TEST_PATH + 40];
    dcp_metadata *m;
    dcp_status status;
    (void)snprintf(path, sizeof path, "%s.metadata.json", w->old);
    status = dcp_metadata_read_file(w->use, path, NULL, NULL, &m, err);
    CHECK((m == NULL) == (status != DCP_OK));
    dcp_metadata_free(m);
    return status;
}
static dcp_status work_write_file(world *w, dcp_error *err) {
    char path[TEST_PATH + 40];
    (void)snprintf(path, sizeof path, "%s.metadata.json", w->fresh);
    return dcp_metadata_write_file(w->use, path, w->metadata, NULL, NULL, err);
}
static dcp_status work_json_parse(world *w, dcp_error *err) {
    dcp_json *tree;
    char *text;
    size_t size;
    dcp_status status = dcp_json_parse(w->text, w->size, &tree, err);
    CHECK((tree == NULL) == (status != DCP_OK));
    if (status) return status;
    CHECK_STR(dcp_json_string(dcp_json_get(dcp_json_get(tree, "customFields"), "git"), NULL), "abc123");
    status = dcp_json_write(tree, 2, &text, &size, err);
    CHECK((text == NULL) == (status != DCP_OK));
    dcp_free(text);
    dcp_json_free(tree);
    return status;
}
static int json_build(dcp_json *root) {     /* 0: a call said no; the tree is still one that can be freed and written */
    dcp_json *list = dcp_json_add_array(root, "list"), *object = dcp_json_add_object(root, "object");
    int i, all = list && object;
    for (i = 0; i < 40 && all; i++) all = dcp_json_add_int(list, NULL, i) != NULL;
    all = all && dcp_json_add_string(object, "a long enough key",
                                     "and a text that is long enough to need memory of its own");
    all = all && dcp_json_add_double(object, "d", 0.1) && dcp_json_add_bool(object, "b", 1) &&
          dcp_json_add_null(object, "n");
    return all;
}
static dcp_status work_json_build(world *w, dcp_error *err) {
    dcp_json *root = dcp_json_new_object(err);
    char *text = NULL;
    size_t size;
    dcp_status status = DCP_E_MEMORY;
    (void)w;
    if (!root) return status;
    if (json_build(root)) status = dcp_json_write(root, 0, &text, &size, err);
    else (void)dcpi_fail(err, status, "said by the test");
    dcp_free(text);
    dcp_json_free(root);
    return status;
}
/* The document of "old", as text and parsed. */
static void world_document(world *w) {
    void *data;
    CHECK_OK(dcp_storage_read_all(w->storage, "old.metadata.json", &data, &w->size, NULL, NULL));
    w->text = (char *)data;
    CHECK_OK(dcp_metadata_parse(w->text, w->size, &w->metadata, NULL));
    w->metadata->timestamp = "2026-01-02T03:04:05.000006Z";
}
static void memory_fails_in_documents_body(world *w) {
    world_document(w);
    starve(w, "parse", work_parse, judge_read);
    starve(w, "write", work_write, judge_read);
    starve(w, "validate", work_validate, judge_read);
    starve(w, "build", work_build, judge_read);
    starve(w, "read_file", work_read_file, judge_read);
    starve(w, "write_file", work_write_file, judge_file);
    starve(w, "json parse and write", work_json_parse, judge_read);
    starve(w, "json build", work_json_build, judge_read);
}
TEST(memory_fails_in_documents) { in_each_world(1, memory_fails_in_documents_body); }

/* ---- storages ---------------------------------------------------------------------------------------------------- */
static dcp_status storage_tour(dcp_storage *s, dcp_error *err) {
    dcp_object_info info;
    dcp_field *fields = NULL;
    void *data = NULL;
    size_t size, count;
    int exists;
    dcp_status status = dcp_storage_write_all(s, "dir/one", "hello", 5, NULL, err);
    if (!status) status = dcp_storage_write_all(s, "dir/one", "other", 5, NULL, err);
    if (!status) status = dcp_storage_read_all(s, "dir/one", &data, &size, NULL, err);
    if (!status) CHECK(size == 5 && memcmp(data, "other", 6) == 0);
    dcp_free(data);
    if (!status) status = dcp_storage_exists(s, "dir/one", &exists, NULL, err);
    if (!status) status = dcp_storage_info(s, "dir/one", &info, NULL, err);
    if (!status) status = dcp_storage_additional_info(s, "dir/one", &fields, &count, NULL, err);
    dcp_free(fields);
    if (!status) status = dcp_storage_remove(s, "dir/one", NULL, err);
    return status;
}
static dcp_status work_storage(world *w, dcp_error *err) {
    dcp_field setting;
    dcp_storage_options options;
    dcp_storage *s;
    dcp_status status;
    memset(&options, 0, sizeof options);
    setting.key = "basePath";
    setting.value = w->dir;
    options.provider = w->in_memory ? "Memory" : "LOCAL";
    options.settings = &setting;
    options.setting_count = w->in_memory ? 0 : 1;
    status = dcp_storage_open(&options, &s, err);
    CHECK((s == NULL) == (status != DCP_OK));
    if (status) return status;
    status = storage_tour(s, err);
    if (status) { hungry_fail(0, 0); hungry.tripped = 1; CHECK_OK(dcp_storage_remove(s, "dir/one", NULL, NULL)); }
    dcp_storage_close(s);
    return status;
}
static dcp_status provider_never(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    (void)options;
    *out = NULL;
    return dcpi_fail(err, DCP_E_UNSUPPORTED, "said by the test");
}
static void memory_fails_in_storages_body(world *w) { starve(w, "storage calls", work_storage, judge_read); }
TEST(memory_fails_in_storages) {
    int64_t live = hungry.live;
    dcp_error err;
    in_each_world(1, memory_fails_in_storages_body);
    hungry_fail(1, 1);
    CHECK_INT(dcp_storage_register("hungry-test", provider_never, &err), DCP_E_MEMORY);
    hungry_fail(0, 0);
    check_error(DCP_E_MEMORY, &err);
    CHECK_INT(hungry.live, live);
    CHECK_OK_MESSAGE(dcp_storage_register("hungry-test", provider_never, &err), err.message);
}

/* ---- with workers: large enough for threads ---------------------------------------------------------------------- */
#define LARGE ((size_t)9 << 20)
static dcp_status large_run(dcp_storage *storage, unsigned char *bytes, int is_save, dcp_error *err) {
    const int64_t shape[1] = { (int64_t)LARGE };
    dcp_tensor t = dcp_array("large", DCP_UINT8, bytes, 1, shape);
    dcp_save_desc out = DCP_ZERO;
    dcp_load_desc in = DCP_ZERO;
    out.path = in.path = "large";
    out.tensors = in.tensors = &t;
    out.tensor_count = in.tensor_count = 1;
    out.overwrite = 1;
    out.io.storage = storage;
    out.io.threads = 2;
    out.io.memory_budget = 1 << 20;
    in.io = out.io;
    return is_save ? dcp_save(&out, err) : dcp_load(&in, err);
}
TEST(memory_fails_beside_workers) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    unsigned char *bytes = (unsigned char *)malloc(LARGE);
    dcp_error err;
    int is_save, n, tripped;
    CHECK(bytes != NULL);
    memset(bytes, 7, LARGE);
    CHECK_OK_MESSAGE(large_run(storage, bytes, 1, &err), err.message);
    for (is_save = 0; is_save <= 1; is_save++) {
        for (n = 1, tripped = 1; tripped; n += 1 + is_save * 2) {
            /* a save costs more, and most of it is the same as that of a small one */
            int64_t live = hungry.live;
            dcp_status status;
            doing("%s, allocation %d", is_save ? "save" : "load", n);
            hungry_fail(n, n % 2);
            status = large_run(storage, bytes, is_save, &err);
            tripped = hungry.tripped;
            hungry_fail(0, 0);
            check_error(status, &err);
            CHECK(status == DCP_E_MEMORY || status == DCP_OK);
            if (!tripped) CHECK_OK(status);
            CHECK_INT(hungry.live, live);
        }
        CHECK(n > 20);
        check_clean_after_sweep(storage, 1);
    }
    done();
    CHECK_OK_MESSAGE(large_run(storage, bytes, 0, &err), err.message);
    dcp_storage_close(storage);
    free(bytes);
}
/* =====================================================================================================================
 * 2. Storage: the n-th call of each kind fails, in several ways, for every n.
 * ================================================================================================================== */
typedef struct fault_way { const char *name; int sys; fault_how how; int64_t times; } fault_way;
#define FOR_EVER INT64_MAX
static const fault_way ways[] = {
    { "EIO once", EIO, FAULT_BEFORE, 1 },         { "EIO once, after doing it", EIO, FAULT_AFTER, 1 },
        { "EIO for ever", EIO, FAULT_BEFORE, FOR_EVER },
    { "ENOSPC once", ENOSPC, FAULT_BEFORE, 1 },   { "ENOSPC for ever", ENOSPC, FAULT_BEFORE, FOR_EVER },
    { "ENOSPC, after doing it", ENOSPC, FAULT_AFTER, 1 },
    { "EROFS once", EROFS, FAULT_BEFORE, 1 },     { "EINTR twice", EINTR, FAULT_BEFORE, 2 },
    { "EIO once, and litter", EIO, FAULT_LITTERS, 1 }
};
static fault_storage faulty;            /* around the world's storage */

static void world_make_faulty(world *w, const form *f, int is_in_memory) {
    world_make(w, f, is_in_memory);
    world_paths(w, "");
    fault_open(&faulty, w->storage);
    w->use = &faulty.storage;
}
static void world_end_faulty(world *w) {
    fault_close(&faulty);
    world_end(w);
}
static void in_each_faulty_world(int count, void (*body)(world *w)) {
    int i, where;
    for (where = 0; where <= 1; where++) {
        for (i = 0; i < count; i++) {
            world w;
            world_make_faulty(&w, &forms[i], where);
            body(&w);
            world_end_faulty(&w);
        }
    }
}

typedef struct attempt {
    world *w;
    const fault_way *way;
    fault_kind kind;
    int64_t n, begins, syncs;
    dcp_status status;
    dcp_error err;
    snapshot before;
} attempt;
typedef void (*round_judge)(attempt *r);

/* Returns 0 when n was beyond the last call of that kind. */
static int round_run(attempt *r, world_work work, round_judge judge) {
    world *w = r->w;
    int64_t failed;
    int reused;
    snapshot_take(w->storage, &r->before);
    memset(&r->err, 0x5A, sizeof r->err);
    fault_set(&faulty, r->kind, r->n, r->way->times, r->way->sys);
    faulty.how = r->way->how;
    r->status = work(w, &r->err);
    failed = faulty.failed;
    reused = faulty.reused;
    r->begins = faulty.calls[FAULT_BEGIN];
    r->syncs = faulty.calls[FAULT_SYNC_DIRECTORY];
    fault_reset(&faulty);
    check_error(r->status, &r->err);
    CHECK_INT(reused, 0);                               /* a file whose writing failed is never used again */
    if (failed == 0) CHECK_OK_MESSAGE(r->status, r->err.message);
    judge(r);
    return failed > 0;
}
static int is_likely(fault_kind kind, int sys) {        /* nothing that reads runs out of space */
    if (kind == FAULT_ABORT || kind == FAULT_CLOSE) return 0;
    return sys != ENOSPC || kind == FAULT_BEGIN || kind == FAULT_WRITE || kind == FAULT_COMMIT ||
           kind == FAULT_SYNC_DIRECTORY;
}
static void rounds(world *w, const char *name, world_work work, round_judge judge) {
    static attempt r;                                      /* large */
    int kind, way;
    for (way = 0; way < (int)DCPI_COUNT(ways); way++) {
        for (kind = 0; kind <= FAULT_ANY; kind++) {
            int fails = 1;
            if (!is_likely((fault_kind)kind, ways[way].sys)) continue;
            /* any call is each of these too */
            if (kind != FAULT_ANY && (test_is_slow() || test_is_sanitized() || (!w->in_memory && !test_is_whole())))
                continue;
            for (r.n = 1; fails; r.n++) {
                doing("%s, %s, %s: %s %d, %s", name, w->f->name, w->in_memory ? "memory" : "local",
                      fault_kind_name((fault_kind)kind), (int)r.n, ways[way].name);
                r.w = w;
                r.way = &ways[way];
                r.kind = (fault_kind)kind;
                fails = round_run(&r, work, judge);
            }
        }
    }
    done();
}

/* ---- saves ------------------------------------------------------------------------------------------------------- */
static char *newest(dcp_storage *storage) {
    dcp_latest_desc desc = DCP_ZERO;
    char *path;
    dcp_error err;
    io_make(&desc.io, storage);
    CHECK_OK_MESSAGE(dcp_latest(&desc, &path, &err), err.message);
    return path;
}
/* A lost answer when a shard was published under its plain name: the library cannot know whose file is there, and
 * leaves it. */
static int is_lost_answer(const attempt *r) {
    return r->way->how == FAULT_AFTER && (r->kind == FAULT_COMMIT || r->kind == FAULT_ANY);
}

/* Failures that leave something that a sweep knows: removing failed as well. */
static int may_litter(const attempt *r) {
    return r->kind == FAULT_REMOVE || r->way->times > (r->kind == FAULT_ANY ? 1 : 2) ||
           (r->way->how == FAULT_LITTERS && (r->kind == FAULT_COMMIT || r->kind == FAULT_ANY));
}
static void check_new_files(const attempt *r, int wanted) {
    int count = new_files(r->w->storage, &r->before, "-");
    if (is_lost_answer(r) && count == wanted + 1) count = new_files(r->w->storage, &r->before, "fresh_shard_0.bin");
    if (!may_litter(r)) CHECK_INT(count, wanted);
}
/* It went through: the new one loads and is the newest, nothing else has changed, and a sweep finds little. */
static void judge_saved(attempt *r, const char *path, size_t checkpoints) {
    world *w = r->w;
    char *found = newest(w->storage);
    CHECK_INT(generation_at(w->storage, w->f, path), 2);
    check_new_files(r, w->f->layout == DCP_LAYOUT_SINGLE ? 1 : 2);
    CHECK(strncmp(found, path, strlen(path)) == 0);
    dcp_free(found);
    if (checkpoints == 2) check_kept(w->storage, &r->before);
    check_clean_after_sweep(w->storage, checkpoints);
    world_reset(w);
}
/* Nobody knows: nothing was removed, and opening it tells. */
static void judge_unknown(attempt *r, const char *path, int before) {
    world *w = r->w;
    int now = generation_at(w->storage, w->f, path);
    char commit_file[64];
    (void)snprintf(commit_file, sizeof commit_file, "%s%s", path, suffix_of(w->f));
    CHECK(r->way->times > 1 || r->kind == FAULT_COMMIT || r->kind == FAULT_SYNC_DIRECTORY || r->kind == FAULT_ANY);
    check_kept_but(w->storage, &r->before, now == 2 ? commit_file : "-");
    CHECK(now == before || now == 2);
    CHECK(strstr(r->err.message, path) != NULL);
    check_clean_after_sweep(w->storage, before != 1 && now == 2 ? 2 : 1);
    world_reset(w);
}
/* It failed: everything is as it was, but for what a sweep knows where something may lie about. */
static void judge_failed(attempt *r) {
    world *w = r->w;
    check_new_files(r, 0);
    check_kept(w->storage, &r->before);
    CHECK_OK(sweep_all(w->storage, NULL, NULL));
    check_unchanged(w->storage, &r->before);
    world_keeps_old(w, 1);
    if (r->way->how != FAULT_LITTERS) CHECK_INT(r->err.sys, r->way->sys);
    CHECK_INT(r->status, dcpi_os_status(r->way->sys));
}
static void judge_save(attempt *r, const char *path, int before, size_t checkpoints) {
    if (r->status == DCP_OK) judge_saved(r, path, checkpoints);
    else if (r->status == DCP_E_UNKNOWN) judge_unknown(r, path, before);
    else judge_failed(r);
}
static void judge_save_new(attempt *r) { judge_save(r, "fresh", -(int)DCP_E_NOT_FOUND, 2); }
static void judge_save_over(attempt *r) { judge_save(r, "old", 1, 1); }

static void storage_fails_in_saves_body(world *w) {
    rounds(w, "save", work_save_new, judge_save_new);
    rounds(w, "overwrite", work_overwrite, judge_save_over);
}
TEST(storage_fails_in_saves) { in_each_faulty_world(4, storage_fails_in_saves_body); }

/* ---- with workers ------------------------------------------------------------------------------------------------ */
static dcp_status large_faulty(world *w, unsigned char *bytes, int is_save, fault_kind kind, int64_t n, int sys,
                               dcp_error *err) {
    dcp_status status;
    fault_set(&faulty, kind, n, 1, sys);
    status = large_run(w->use, bytes, is_save, err);
    check_error(status, err);
    return status;
}
TEST(storage_fails_beside_workers) {
    static const int64_t points[] = { 1, 2, 5, 9, 17, 30 };
    unsigned char *bytes = (unsigned char *)malloc(LARGE);
    dcp_error err;
    snapshot before;
    world w;
    size_t i;
    world_make_faulty(&w, &forms[0], 0);
    CHECK(bytes != NULL);
    memset(bytes, 7, LARGE);
    CHECK_OK_MESSAGE(large_run(w.storage, bytes, 1, &err), err.message);
    for (i = 0; i < DCPI_COUNT(points); i++) {
        doing("call %d", (int)points[i]);
        snapshot_take(w.storage, &before);
        CHECK_INT(large_faulty(&w, bytes, 1, FAULT_WRITE, points[i], ENOSPC, &err), DCP_E_SPACE);
        check_unchanged(w.storage, &before);
        CHECK_OK_MESSAGE(large_faulty(&w, bytes, 1, FAULT_WRITE, points[i], EIO, &err), err.message);
        CHECK_INT(faulty.reused, 0);
        memset(bytes, 0, LARGE);
        if (large_faulty(&w, bytes, 0, FAULT_READ, points[i], EROFS, &err) != DCP_E_DENIED) CHECK(faulty.failed == 0);
        CHECK_OK_MESSAGE(large_run(w.storage, bytes, 0, &err), err.message);
        CHECK(bytes[0] == 7 && memcmp(bytes, bytes + 1, LARGE - 1) == 0);
    }
    world_end_faulty(&w);
    free(bytes);
}

/* A server that says once that something is not there, by mistake: no checkpoint is swept for that. */
TEST(what_is_missed_once_is_not_swept) {
    int form, fails;
    int64_t n;
    for (form = 0; form < 4; form++) {
        world w;
        world_make_faulty(&w, &forms[form], 0);
        for (n = 1, fails = 1; fails; n++) {
            dcp_error err;
            dcp_status status;
            doing("%s, call %d", w.f->name, (int)n);
            world_fill(&w);
            fault_set(&faulty, FAULT_ANY, n, 1, ENOENT);
            status = sweep_all(w.use, NULL, &err);
            fails = faulty.failed > 0;
            fault_reset(&faulty);
            if (status != DCP_OK && status != DCP_E_IO && status != DCP_E_NOT_FOUND)
                CHECK_OK_MESSAGE(status, err.message);
            check_clean_after_sweep(w.storage, 3);
        }
        CHECK(n > 10);
        world_end_faulty(&w);
    }
    done();
}

/* ---- what exactly is retried, and what is not -------------------------------------------------------------------- */
/* One save of "fresh" with a fault, and what it came to. */
static dcp_status faulty_save(world *w, fault_kind kind, int64_t n, int64_t times, int sys, fault_how how,
                              dcp_error *err) {
    fault_set(&faulty, kind, n, times, sys);
    faulty.how = how;
    return work_save_new(w, err);
}
TEST(transient_errors_are_retried_into_new_files) {
    static const fault_kind kinds[] = { FAULT_BEGIN, FAULT_WRITE, FAULT_COMMIT };
    static const int errors[] = { EIO, EAGAIN, ETIMEDOUT, EINTR };
    dcp_error err;
    world w;
    size_t k, e;
    world_make_faulty(&w, &forms[0], 0);
    for (k = 0; k < DCPI_COUNT(kinds); k++) {
        for (e = 0; e < DCPI_COUNT(errors); e++) {
            doing("%s, error %d", fault_kind_name(kinds[k]), errors[e]);
            CHECK_OK_MESSAGE(faulty_save(&w, kinds[k], 1, 2, errors[e], FAULT_BEFORE, &err), err.message);
            CHECK_INT(faulty.calls[FAULT_BEGIN], 4);    /* the shard in the third file, and the document */
            CHECK_INT(faulty.names, 4);
            CHECK_INT(faulty.reused, 0);
            world_reset(&w);
            CHECK_INT(faulty_save(&w, kinds[k], 1, 3, errors[e], FAULT_BEFORE, &err), DCP_E_IO);
            CHECK_INT(err.sys, errors[e]);
            CHECK(strstr(err.message, "injected") != NULL);
            CHECK_INT(faulty.reused, 0);
            fault_reset(&faulty);
        }
    }
    world_end_faulty(&w);
}
TEST(other_errors_are_not_retried) {
    static const int errors[] = { ENOSPC, EDQUOT, EROFS, EACCES };
    dcp_error err;
    world w;
    snapshot before;
    int i, k;
    world_make_faulty(&w, &forms[0], 0);
    snapshot_take(w.storage, &before);
    for (i = 0; i < (int)DCPI_COUNT(errors); i++) {
        for (k = FAULT_BEGIN; k <= FAULT_COMMIT; k++) {
            doing("%s, error %d", fault_kind_name((fault_kind)k), errors[i]);
            CHECK_INT(faulty_save(&w, (fault_kind)k, 1, 1, errors[i], FAULT_BEFORE, &err),
                      errors[i] == ENOSPC || errors[i] == EDQUOT ? DCP_E_SPACE : DCP_E_DENIED);
            CHECK_INT(faulty.calls[FAULT_BEGIN], 1);
            CHECK_INT(err.sys, errors[i]);
            check_unchanged(w.storage, &before);
        }
    }
    world_end_faulty(&w);
}
TEST(retries_can_be_switched_off) {
    saving v;
    dcp_error err;
    world w;
    world_make_faulty(&w, &forms[0], 0);
    saving_make(&v, w.f, w.use, "fresh", 2, TENSORS);
    v.desc.io.retry.attempts = 1;
    fault_set(&faulty, FAULT_WRITE, 1, 1, EIO);
    CHECK_INT(dcp_save(&v.desc, &err), DCP_E_IO);
    CHECK_INT(faulty.calls[FAULT_BEGIN], 1);
    world_end_faulty(&w);
}
/* Just before the commit the shards are looked at: one is gone, or of another size. */
TEST(a_shard_that_is_not_as_it_was_written_is_not_committed) {
    static const char *const texts[] = { NULL, "cut short" },
                                       *const words[] = { "fresh_shard_0.bin", "has 9 bytes, not the" };
    size_t i;
    for (i = 0; i < DCPI_COUNT(texts); i++) {
        fault_spoiling s = { NULL, "fresh_shard_0", NULL };
        dcp_error err;
        world w;
        world_make_faulty(&w, &forms[0], 1);
        s.storage = w.storage;
        s.text = texts[i];
        faulty.hook = fault_spoil;
        faulty.user = &s;
        CHECK_INT(work_save_new(&w, &err), DCP_E_INCOMPLETE);
        CHECK_INT(err.rank, 0);
        CHECK_STR(strstr(err.message, words[i]) ? "" : err.message, "");
        CHECK_INT(generation_at(w.storage, w.f, "fresh"), -(int)DCP_E_NOT_FOUND);
        world_end_faulty(&w);
    }
}
/* How many calls of a kind a save without faults makes. */
static int64_t calls_of(world *w, world_work work, fault_kind kind) {
    dcp_error err;
    int64_t calls;
    fault_reset(&faulty);
    CHECK_OK_MESSAGE(work(w, &err), err.message);
    calls = faulty.calls[kind];
    world_reset(w);
    return calls;
}
TEST(a_rename_that_happened_counts) {
    static const int errors[] = { EIO, ENOSPC, EROFS, ESTALE };
    dcp_error err;
    size_t e;
    int i, where;
    for (where = 0; where <= 1; where++) {
        for (i = 0; i < FORMS; i++) {
            world w;
            int64_t last;
            world_make_faulty(&w, &forms[i], where);
            last = calls_of(&w, work_overwrite, FAULT_COMMIT);
            for (e = 0; e < DCPI_COUNT(errors); e++) {
                doing("%s, where %d, error %d", forms[i].name, where, errors[e]);
                fault_set(&faulty, FAULT_COMMIT, last, 1, errors[e]);
                faulty.how = FAULT_AFTER;
                CHECK_OK_MESSAGE(work_overwrite(&w, &err), err.message);
                CHECK_STR(err.message, "");
                CHECK_INT(faulty.failed, 1);
                CHECK_INT(generation_at(w.storage, w.f, "old"), 2);
                world_reset(&w);
                fault_reset(&faulty);
            }
            world_end_faulty(&w);
        }
    }
}
#ifndef _WIN32
/* Just before the commit file's rename: it happens, somebody removes that checkpoint, and another first save has
 * written its shard, under the same name. */
static void lose_the_answer(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    world *w = (world *)user;
    char from[TEST_PATH + 100], to[TEST_PATH + 100];
    dcp_remove_desc desc = DCP_ZERO;
    dcp_error err;
    (void)call;
    if (kind != FAULT_COMMIT || is_done || strcmp(key, "fresh.metadata.json") != 0) return;
    (void)snprintf(from, sizeof from, "%s/%s", ((dcpi_local *)w->storage->context)->path,
                   faulty.name[faulty.names - 1]);
    (void)snprintf(to, sizeof to, "%s/%s", ((dcpi_local *)w->storage->context)->path, key);
    CHECK_INT(rename(from, to), 0);
    desc.path = "fresh";
    io_make(&desc.io, w->storage);
    desc.io.timeout_ms = 20;                            /* the saver stands still: its lock is taken */
    CHECK_OK_MESSAGE(dcp_remove(&desc, NULL, &err), err.message);
    CHECK_OK_MESSAGE(dcp_storage_write_all(w->storage, "fresh_shard_0.bin", "another's", 9, NULL, &err), err.message);
}
#endif
TEST(a_first_save_that_may_have_happened_leaves_the_plain_names_alone) {
#ifdef _WIN32
    SKIP("an open file keeps its name here");
#else
    dcp_object_info info;
    dcp_error err;
    world w;
    int has_lock;
    for (has_lock = 0; has_lock < 2; has_lock++) {      /* with it, it is known that somebody else had a hand in it */
        world_make_faulty(&w, &forms[0], 0);
        faulty.hook = lose_the_answer;
        faulty.user = &w;
        if (!has_lock) faulty.storage.lock = NULL;
        CHECK_INT(work_save_new(&w, &err), has_lock ? DCP_E_EXISTS : DCP_E_UNKNOWN);
        CHECK_STR(strstr(err.message, has_lock ? "took over" : "not known") ? "" : err.message, "");
        CHECK_OK_MESSAGE(dcpi_storage_stat(w.storage, "fresh_shard_0.bin", &info, &err), err.message);
        CHECK_INT(info.size, 9);
        world_end_faulty(&w);
    }
#endif
}
/* After the rename nothing may be taken back: the new one is there, the old one's files too, and the caller is told to
 * look. */
TEST(a_failed_directory_sync_after_the_rename_is_unknown) {
    dcp_error err;
    int i;
    for (i = 0; i < FORMS; i++) {
        dcp_save_report report;
        snapshot before;
        saving v;
        world w;
        int64_t last;
        world_make_faulty(&w, &forms[i], 0);
        doing("%s", forms[i].name);
        last = calls_of(&w, work_overwrite, FAULT_SYNC_DIRECTORY);
        snapshot_take(w.storage, &before);
        saving_make(&v, w.f, w.use, "old", 2, TENSORS);
        v.desc.overwrite = 1;
        v.desc.report = &report;
        fault_set(&faulty, FAULT_SYNC_DIRECTORY, last, 1, EIO);
        CHECK_INT(dcp_save(&v.desc, &err), DCP_E_UNKNOWN);
        CHECK_INT(faulty.calls[FAULT_REMOVE], 0);
        CHECK_INT(err.sys, EIO);
        CHECK_INT(strlen(report.save_id), 16);
        CHECK(strstr(err.message, report.path) != NULL);
        CHECK_INT(generation_at(w.storage, w.f, "old"), 2);
        check_kept_but(w.storage, &before, w.f->layout == DCP_LAYOUT_SINGLE ? "old.checkpoint" : "old.metadata.json");
        world_end_faulty(&w);
    }
}
/* Exponential, with jitter, and never longer than max_ms. The pauses are not made here, only added up. */
#ifndef _WIN32
TEST(pauses_between_attempts_are_bounded) {
    saving v;
    dcp_error err;
    world w;
    world_make_faulty(&w, &forms[0], 0);
    saving_make(&v, w.f, w.use, "fresh", 2, TENSORS);
    v.desc.io.retry.attempts = 6;
    v.desc.io.retry.first_ms = 10;
    v.desc.io.retry.max_ms = 40;
    pauses_ns = 0;
    fault_set(&faulty, FAULT_BEGIN, 1, FOR_EVER, EIO);
    CHECK_INT(dcp_save(&v.desc, &err), DCP_E_IO);
    CHECK_INT(faulty.calls[FAULT_BEGIN], 6);
    CHECK(pauses_ns > 0 && pauses_ns <= (int64_t)(10 + 20 + 40 + 40 + 40 + 5) * 1000000);
    world_end_faulty(&w);
}
/* The same in loads: full jitter means anything up to the bound, and not the bound each time. */
TEST(pauses_between_attempts_of_a_load_are_drawn) {
    static const fault_kind kinds[] = { FAULT_READ, FAULT_OPEN, FAULT_STAT };
    const int64_t bound = (int64_t)(1000 + 2000 + 4000 + 3) * 1000000;
    world w;
    dcp_load_desc desc = DCP_ZERO;
    dcp_error err;
    size_t k;
    int i, different;
    world_make_faulty(&w, &forms[0], 0);
    for (k = 0; k < DCPI_COUNT(kinds); k++) {
        int64_t first = 0;
        for (i = different = 0; i < 8; i++) {
            desc.path = "old";
            io_make(&desc.io, w.use);
            desc.io.retry.attempts = 4;
            desc.io.retry.first_ms = 1000;
            desc.io.retry.max_ms = 8000;
            pauses_ns = 0;
            fault_set(&faulty, kinds[k], 1, FOR_EVER, EIO);
            CHECK_INT(dcp_load(&desc, &err), DCP_E_IO);
            CHECK_INT(faulty.calls[kinds[k]], 4);
            fault_reset(&faulty);
            CHECK(pauses_ns > 0 && pauses_ns <= bound);
            if (i == 0) first = pauses_ns;
            different |= pauses_ns != first;
        }
        CHECK(different);
    }
    world_end_faulty(&w);
}
#endif
/* What is read ends too early, once: no crash, no wrong bytes, and an error that says what kind of trouble it is. */
static void read_short(world *w, const char *name, world_work work) {
    static const fault_kind kinds[] = { FAULT_OPEN, FAULT_READ, FAULT_STAT };
    size_t k;
    int64_t n;
    for (k = 0; k < DCPI_COUNT(kinds); k++) {
        for (n = 1; n < 100; n++) {
            snapshot before;
            dcp_error err;
            dcp_status status;
            doing("%s, %s: %s %d comes out short", name, w->f->name, fault_kind_name(kinds[k]), (int)n);
            snapshot_take(w->storage, &before);
            fault_set(&faulty, kinds[k], n, 1, FAULT_SHORT);
            status = work(w, &err);                     /* it compares what it loaded */
            check_error(status, &err);
            if (status)
                CHECK(status == DCP_E_INCOMPLETE || status == DCP_E_CHECKSUM || status == DCP_E_FORMAT ||
                      status == DCP_E_SIGNATURE);
            check_unchanged(w->storage, &before);
            if (faulty.failed == 0) break;
        }
        CHECK(n < 100);
    }
    fault_reset(&faulty);
    done();
}
TEST(reads_that_come_out_short_are_noticed) {
    int i;
    for (i = 0; i < FORMS; i++) {
        world w;
        world_make_faulty(&w, &forms[i], i % 2);
        read_short(&w, "load", work_load);
        read_short(&w, "load everything", work_load_all);
        read_short(&w, "verify", work_verify);
        read_short(&w, "read_new", work_read_new);
        world_end_faulty(&w);
    }
}
/* A storage that loses bytes and says nothing: the shard's size is looked at before the commit. */
TEST(a_shard_that_came_out_short_is_noticed) {
    dcp_error err;
    snapshot before;
    world w;
    world_make_faulty(&w, &forms[0], 0);
    snapshot_take(w.storage, &before);
    CHECK_INT(faulty_save(&w, FAULT_WRITE, 1, 1, FAULT_SHORT, FAULT_BEFORE, &err), DCP_E_INCOMPLETE);
    CHECK(strstr(err.message, "fresh_shard_0.bin") != NULL);
    check_unchanged(w.storage, &before);
    world_end_faulty(&w);
}

/* ---- reading and cleaning ---------------------------------------------------------------------------------------- */
static void judge_reading(attempt *r) {             /* never "not found", which would say that there is no checkpoint */
    check_unchanged(r->w->storage, &r->before);
    if (r->status) CHECK_INT(r->status, dcpi_os_status(r->way->sys));
    if (r->status) CHECK_INT(r->err.sys, r->way->sys);
}
static void judge_latest(attempt *r) {                  /* an entry of the list has no errno to hand on */
    check_unchanged(r->w->storage, &r->before);
    if (r->status) CHECK_INT(r->status, dcpi_os_status(r->way->sys));
}
static void judge_pruning(attempt *r) {
    if (r->status) CHECK_INT(r->status, dcpi_os_status(r->way->sys));
    /* what could not be read may have been left, so prune again in any case */
    judge_prune(r->w, DCP_E_IO, &r->before);
}
static void judge_removing(attempt *r) {
    if (r->status) CHECK_INT(r->status, dcpi_os_status(r->way->sys));
    judge_remove(r->w, DCP_E_IO, &r->before);
}
static void judge_sweeping(attempt *r) {
    if (r->status) CHECK_INT(r->status, dcpi_os_status(r->way->sys));
    judge_sweep(r->w, DCP_E_IO, &r->before);
}
static void storage_fails_in_loads_body(world *w) {
    rounds(w, "load", work_load, judge_reading);
    rounds(w, "load everything", work_load_all, judge_reading);
    rounds(w, "open, read, slices", work_open_read, judge_reading);
    rounds(w, "read_new", work_read_new, judge_reading);
    rounds(w, "map", work_map, judge_reading);
    rounds(w, "verify", work_verify, judge_reading);
}
TEST(storage_fails_in_loads) { in_each_faulty_world(4, storage_fails_in_loads_body); }
/* "Not there", said of anything but the checkpoint itself, is some other trouble: DCP_E_NOT_FOUND means a first start,
 * and nothing else. */
/* the calls that may truly find that there is no checkpoint */
enum { ASKS = 1 << FAULT_OPEN | 1 << FAULT_STAT | 1 << FAULT_LIST };
/* but: kinds of calls that may be believed; of what removes, only before it has removed anything. */
static void never_absent(world *w, const char *name, world_work work, int but, int removes) {
    static const int errors[] = { ENOENT, ENOTDIR };
    size_t e;
    int kind;
    for (e = 0; e < DCPI_COUNT(errors); e++)
        for (kind = 0; kind < FAULT_ANY; kind++) {
            int64_t n, failed = 1;
            const int may_be_absent = but >> kind & 1;
            if (kind == FAULT_ABORT || kind == FAULT_CLOSE || (may_be_absent && !removes)) continue;
            for (n = 1; failed; n++) {
                dcp_error err;
                dcp_status status;
                snapshot before;
                doing("%s, %s: %s %d says %s", name, w->f->name, fault_kind_name((fault_kind)kind), (int)n, e
                      ? "ENOTDIR" : "ENOENT");
                empty(w->storage);
                must_save(w->storage, w->f, "old", 1, 0);
                must_save(w->storage, w->f, "b", 1, 0);
                must_save(w->storage, w->f, "c", 2, 0);
                snapshot_take(w->storage, &before);
                fault_set(&faulty, (fault_kind)kind, n, 1, errors[e]);
                status = work(w, &err);
                failed = faulty.failed;
                fault_reset(&faulty);
                check_error(status, &err);
                if (status != DCP_E_NOT_FOUND) continue;
                CHECK(may_be_absent);
                check_unchanged(w->storage, &before);
            }
        }
    done();
}
TEST(what_a_storage_does_not_find_is_no_first_start) {
    int i;
    for (i = 0; i < 4; i++) {
        world w;
        world_make_faulty(&w, &forms[i], 1);
        never_absent(&w, "save", work_save_new, 0, 0);
        never_absent(&w, "overwrite", work_overwrite, 0, 0);
        never_absent(&w, "load", work_load, ASKS, 0);
        never_absent(&w, "load everything", work_load_all, ASKS, 0);
        never_absent(&w, "map", work_map, ASKS, 0);
        never_absent(&w, "verify", work_verify, ASKS, 0);
        never_absent(&w, "latest", work_latest, ASKS, 0);
        never_absent(&w, "list", work_list, ASKS, 0);
        never_absent(&w, "prune", work_prune, ASKS, 1);
        never_absent(&w, "sweep", work_sweep, ASKS, 1);
        (void)snprintf(w.fresh, sizeof w.fresh, "%s%sc", w.dir, w.dir[0] ? "/" : "");
        never_absent(&w, "remove", work_remove, ASKS, 1);
        world_end_faulty(&w);
    }
}
static void storage_fails_in_directories_body(world *w) {
    world_fill(w);
    rounds(w, "list", work_list, judge_reading);
    rounds(w, "latest", work_latest, judge_latest);
    rounds(w, "prune", work_prune, judge_pruning);
    rounds(w, "remove", work_remove, judge_removing);
    rounds(w, "sweep", work_sweep, judge_sweeping);
}
TEST(storage_fails_in_directories) { in_each_faulty_world(2, storage_fails_in_directories_body); }

/* ---- every instant ----------------------------------------------------------------------------------------------- */
typedef struct instants { world *w; const char *path; int one, other; char wrong[300]; char trace[8192]; } instants;

/* Before and after every call on the storage, `path` holds the one generation or the other: G1, G2. */
static void look_around(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    instants *i = (instants *)user;
    size_t used = strlen(i->trace);
    int generation = generation_at(i->w->storage, i->w->f, i->path);
    if (is_done && (kind == FAULT_COMMIT || kind == FAULT_REMOVE || kind == FAULT_SYNC_DIRECTORY))
        (void)snprintf(i->trace + used, sizeof i->trace - used, "%s:%s ", fault_kind_name(kind), key);
    if (generation == i->one || generation == i->other || i->wrong[0]) return;
    (void)snprintf(i->wrong, sizeof i->wrong, "%s %s call %d (%s): generation %d", is_done ? "after" : "before",
                   fault_kind_name(kind), (int)call, key, generation);
}
static void watch(instants *i, world *w, world_work work, const char *path, int one, int other) {
    dcp_error err;
    memset(i, 0, sizeof *i);
    i->w = w;
    i->path = path;
    i->one = one;
    i->other = other;
    fault_reset(&faulty);
    faulty.hook = look_around;
    faulty.user = i;
    CHECK_OK_MESSAGE(work(w, &err), err.message);
    fault_reset(&faulty);
    CHECK_STR(i->wrong, "");
}
/* That between `first` and `last` a directory was synced. Words may end in the middle of a name. */
static void check_synced_between(const instants *i, const char *first, const char *last) {
    const char *a = strstr(i->trace, first), *b = a ? strstr(a, last) : NULL, *sync = a
                    ? strstr(a, "sync_directory: ") : NULL;
    if (!a || !b || !sync || sync > b) CHECK_STR(i->trace, first);
}
TEST(every_instant_has_the_old_or_the_new_one) {
    const int none = -(int)DCP_E_NOT_FOUND;
    static instants i;
    int f, where;
    for (where = 0; where <= 1; where++) {
        for (f = 0; f < FORMS; f++) {
            world w;
            world_make_faulty(&w, &forms[f], where);
            doing("%s, where %d", forms[f].name, where);
            watch(&i, &w, work_overwrite, "old", 1, 2);
            world_reset(&w);
            watch(&i, &w, work_save_new, "fresh", none, 2);
            world_reset(&w);
            watch(&i, &w, work_save_new, "old", 1, 1);
            world_fill(&w);
            watch(&i, &w, work_sweep, "a", 1, 1);
            watch(&i, &w, work_remove, "c", 3, none);
            watch(&i, &w, work_prune, "a", 1, none);
            world_end_faulty(&w);
        }
    }
}
/* Names are made durable before anything that relies on them: the shard's before the commit, the commit's before the
 * old data goes. */
TEST(directories_are_synced_before_the_next_step) {
    static instants i;
    world w;
    world_make_faulty(&w, &forms[0], 0);
    watch(&i, &w, work_overwrite, "old", 1, 2);
    check_synced_between(&i, "commit:old_shard_0.", "commit:old.metadata.json");
    check_synced_between(&i, "commit:old.metadata.json", "remove:old_shard_0.bin");
    world_fill(&w);
    watch(&i, &w, work_remove, "c", 3, -(int)DCP_E_NOT_FOUND);
    check_synced_between(&i, "remove:c.metadata.json", "remove:c_shard_0.bin");
    watch(&i, &w, work_prune, "b", 2, 2);
    check_synced_between(&i, "remove:a.metadata.json", "remove:a_shard_0.bin");
    world_end_faulty(&w);
}

/* ---- cancelled, and too late ------------------------------------------------------------------------------------- */
typedef struct interruption { int64_t at, first_write; int pause_each_ms; dcp_cancel cancel; } interruption;

static void interrupt_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    interruption *i = (interruption *)user;
    (void)key;
    if (is_done) return;
    if (kind == FAULT_WRITE && i->first_write == 0) i->first_write = call;
    if (call == i->at) dcp_cancel_request(&i->cancel);
    if (i->pause_each_ms) pause_ms(i->pause_each_ms);
}
/* The work, cancelled in the at-th call. Sets *calls to how many there were. */
static dcp_status cancelled_work(world *w, world_work work, interruption *i, int64_t at, int64_t *calls,
                                 dcp_error *err) {
    dcp_status status;
    memset(i, 0, sizeof *i);
    i->at = at;
    fault_reset(&faulty);
    faulty.hook = interrupt_hook;
    faulty.user = i;
    the_cancel = &i->cancel;
    status = work(w, err);
    the_cancel = NULL;
    *calls = faulty.total;
    fault_reset(&faulty);
    check_error(status, err);
    return status;
}
static void cancel_save(world *w, const char *name, world_work work, const char *path, size_t checkpoints) {
    int64_t at, calls = 1;
    for (at = 1; at <= calls; at++) {
        interruption i;
        snapshot before;
        dcp_error err;
        dcp_status status;
        doing("%s, %s, where %d: cancelled in call %d", name, w->f->name, w->in_memory, (int)at);
        snapshot_take(w->storage, &before);
        status = cancelled_work(w, work, &i, at, &calls, &err);
        if (status == DCP_OK) CHECK(i.first_write > 0 && at > i.first_write);     /* before that it was heard in time */
        else CHECK_INT(status, DCP_E_CANCELLED);
        if (status) { check_unchanged(w->storage, &before); continue; }
        CHECK_INT(generation_at(w->storage, w->f, path), 2);
        check_clean_after_sweep(w->storage, checkpoints);
        world_reset(w);
    }
    done();
}
static void cancel_other(world *w, const char *name, world_work work) {
    int64_t at, calls = 1;
    for (at = 1; at <= calls; at++) {
        interruption i;
        dcp_error err;
        dcp_status status;
        doing("%s, %s: cancelled in call %d", name, w->f->name, (int)at);
        status = cancelled_work(w, work, &i, at, &calls, &err);
        if (at == 1 || status) CHECK_INT(status, DCP_E_CANCELLED);
        check_between(w, 1, 1, 1);
        CHECK_OK(sweep_all(w->storage, NULL, NULL));
        check_between(w, 1, 1, 1);
        world_fill(w);
    }
    done();
}
static void cancelled_in_every_call_of_a_save_body(world *w) {
    cancel_save(w, "save", work_save_new, "fresh", 2);
    cancel_save(w, "overwrite", work_overwrite, "old", 1);
}
TEST(cancelled_in_every_call_of_a_save) { in_each_faulty_world(4, cancelled_in_every_call_of_a_save_body); }
static dcp_status work_load_c(world *w, dcp_error *err) {
    int generation;
    dcp_status status = load(w->use, w->f, "c", &generation, err);
    if (!status) CHECK_INT(generation, 3);
    return status;
}
TEST(cancelled_in_every_call_of_the_rest) {
    int f;
    for (f = 0; f < 2; f++) {
        world w;
        world_make_faulty(&w, &forms[f], 0);
        world_fill(&w);
        cancel_other(&w, "load", work_load_c);
        cancel_other(&w, "list", work_list);
        cancel_other(&w, "latest", work_latest);
        cancel_other(&w, "prune", work_prune);
        cancel_other(&w, "remove", work_remove);
        cancel_other(&w, "sweep", work_sweep);
        world_end_faulty(&w);
    }
}

/* Slow enough that progress is reported often. */
typedef struct reporting { int calls, cancel_at; dcp_cancel cancel; } reporting;
static void on_progress(void *user, const dcp_progress *progress) {
    reporting *r = (reporting *)user;
    (void)progress;
    if (++r->calls == r->cancel_at) dcp_cancel_request(&r->cancel);
}
static dcp_status slow_save(world *w, reporting *r, int layout, unsigned char *bytes, dcp_error *err) {
    const int64_t shape[1] = { (int64_t)LARGE / 3 };
    dcp_tensor t = dcp_array("large", DCP_UINT8, bytes, 1, shape);
    dcp_save_desc desc = DCP_ZERO;
    interruption slow;
    dcp_status status;
    memset(&slow, 0, sizeof slow);
    slow.pause_each_ms = 25;
    fault_reset(&faulty);
    faulty.hook = interrupt_hook;
    faulty.user = &slow;
    desc.path = "large";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.layout = (dcp_layout)layout;
    io_make(&desc.io, w->use);
    desc.io.memory_budget = 1 << 20;
    desc.io.threads = 2;
    desc.io.cancel = &r->cancel;
    desc.io.progress = on_progress;
    desc.io.progress_user = r;
    status = dcp_save(&desc, err);
    fault_reset(&faulty);
    return status;
}
TEST(cancelled_by_the_progress_callback) {
    unsigned char *bytes = (unsigned char *)calloc(1, LARGE);
    int layout, at;
    CHECK(bytes != NULL);
    for (layout = 0; layout <= 1; layout++) {
        reporting r;
        world w;
        world_make_faulty(&w, &forms[layout], 0);
        for (at = 1, memset(&r, 0, sizeof r); at == 1 || r.calls >= r.cancel_at; at++) {
            snapshot before;
            dcp_error err;
            dcp_status status;
            doing("layout %d, report %d", layout, at);
            snapshot_take(w.storage, &before);
            memset(&r, 0, sizeof r);
            r.cancel_at = at;
            status = slow_save(&w, &r, layout, bytes, &err);
            check_error(status, &err);
            if (status) CHECK_INT(status, DCP_E_CANCELLED);
            if (status) check_unchanged(w.storage, &before);
            else
                CHECK_OK_MESSAGE(dcp_storage_remove(w.storage, layout ? "large.checkpoint" : "large.metadata.json",
                                                    NULL, &err), err.message);
            if (!status) CHECK_OK(sweep_all(w.storage, NULL, NULL));
            if (!status) check_unchanged(w.storage, &before);
        }
        CHECK(at > 3);
        world_end_faulty(&w);
    }
    free(bytes);
}
/* A cancel is heard between chunks, not only at the end: of 36 writes few are still made. */
TEST(a_cancelled_save_stops_soon) {
    const int64_t shape[1] = { (int64_t)LARGE };
    unsigned char *bytes = (unsigned char *)calloc(1, LARGE);
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor t;
    int threads;
    CHECK(bytes != NULL);
    t = dcp_array("large", DCP_UINT8, bytes, 1, shape);
    for (threads = 0; threads <= 2; threads += 2) {
        interruption i;
        dcp_error err;
        world w;
        world_make_faulty(&w, &forms[0], 0);
        memset(&i, 0, sizeof i);
        doing("%d threads", threads);
        faulty.hook = interrupt_hook;
        faulty.user = &i;
        memset(&desc, 0, sizeof desc);
        desc.path = "large";
        desc.tensors = &t;
        desc.tensor_count = 1;
        io_make(&desc.io, w.use);
        desc.io.memory_budget = 1 << 20;
        desc.io.threads = threads;
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK(faulty.calls[FAULT_WRITE] > 20);
        i.at = i.first_write;                           /* of the same calls once more */
        world_reset(&w);
        fault_reset(&faulty);
        faulty.hook = interrupt_hook;
        desc.io.cancel = &i.cancel;
        i.cancel.requested = 0;
        CHECK_INT(dcp_save(&desc, &err), DCP_E_CANCELLED);
        CHECK(faulty.calls[FAULT_WRITE] <= 8);
        world_end_faulty(&w);
    }
    free(bytes);
}
static int timed_save(world *w, int64_t deadline_ms) {  /* 1: in time */
    interruption slow;
    snapshot before;
    dcp_error err;
    dcp_status status;
    snapshot_take(w->storage, &before);
    memset(&slow, 0, sizeof slow);
    slow.pause_each_ms = 10;
    fault_reset(&faulty);
    faulty.hook = interrupt_hook;
    faulty.user = &slow;
    the_deadline_ms = deadline_ms;
    status = work_overwrite(w, &err);
    the_deadline_ms = 0;
    fault_reset(&faulty);
    check_error(status, &err);
    if (status) CHECK_INT(status, DCP_E_TIMEOUT);
    if (status) check_unchanged(w->storage, &before);
    world_keeps_old(w, status ? 1 : 2);
    if (!status) world_reset(w);
    return !status;
}
TEST(a_deadline_ends_a_save_on_a_slow_storage) {
    int f, late;
    for (f = 0; f < 2; f++) {
        world w;
        world_make_faulty(&w, &forms[f], 0);
        for (late = 1; late <= 400; late = late * 3 + 5) {              /* 1, 8, 29, 92, 281: some 30 calls of 10 ms */
            doing("%s, deadline %d ms", forms[f].name, late);
            CHECK(!timed_save(&w, late) || late > 90);
        }
        CHECK(timed_save(&w, 600000));
        world_end_faulty(&w);
    }
}
TEST(a_deadline_ends_a_load_on_a_slow_storage) {
    interruption slow;
    dcp_error err;
    world w;
    int generation;
    memset(&slow, 0, sizeof slow);
    slow.pause_each_ms = 10;
    world_make_faulty(&w, &forms[0], 0);
    doing("load");
    faulty.hook = interrupt_hook;
    faulty.user = &slow;
    the_deadline_ms = 15;
    CHECK_INT(load(w.use, w.f, "old", &generation, &err), DCP_E_TIMEOUT);
    CHECK(err.message[0] != '\0');
    the_deadline_ms = 600000;
    CHECK_OK(load(w.use, w.f, "old", &generation, &err));
    CHECK_INT(generation, 1);
    the_deadline_ms = 0;
    world_end_faulty(&w);
}

/* =====================================================================================================================
 * 3. Damage: one bit anywhere, a file cut or extended at any length, files exchanged. G4: verify and a load of all
 *    tensors notice.
 * ================================================================================================================== */
#define FEW 3                           /* tensors: enough for gaps between them */

static dcp_status verify_at(dcp_storage *storage, const form *f, const char *path, dcp_error *err) {
    dcp_verifier verifier = dcp_hmac_verifier(hmac_key, sizeof hmac_key - 1);
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_status status;
    desc.path = path;
    if (f->is_signed) desc.verifier = &verifier;
    io_make(&desc.io, storage);
    status = dcp_open(&desc, &c, err);
    if (!status) status = dcp_verify(c, err);
    dcp_close(c);
    return status;
}
/* Damaged checkpoints are refused with these, and with nothing that sounds as if something else were wrong. */
static void check_refused(dcp_status status, const dcp_error *err) {
    check_error(status, err);
    CHECK(status == DCP_E_CHECKSUM || status == DCP_E_SIGNATURE || status == DCP_E_FORMAT ||
          status == DCP_E_INCOMPLETE || status == DCP_E_VERSION || status == DCP_E_LIMIT || status == DCP_E_MISMATCH);
}
/* `in_gap_at_most`: whether a load that checks what it touches may succeed, with the right bytes. */
static void check_damage(dcp_storage *storage, const form *f, const char *path, int generation, int in_gap_at_most) {
    dcp_error err;
    int got;
    dcp_status status = verify_at(storage, f, path, &err);
    check_refused(status, &err);
    status = load_some(storage, f, path, DCP_VERIFY_ALL, FEW, &got, &err);
    check_refused(status, &err);
    status = load_some(storage, f, path, DCP_VERIFY_TOUCHED, FEW, &got, &err);
    if (status) check_refused(status, &err);
    else CHECK(in_gap_at_most && got == generation);
}
static void check_sound(dcp_storage *storage, const form *f, const char *path, int generation) {
    dcp_error err;
    int got;
    CHECK_OK_MESSAGE(verify_at(storage, f, path, &err), err.message);
    CHECK_OK_MESSAGE(load_some(storage, f, path, DCP_VERIFY_ALL, FEW, &got, &err), err.message);
    CHECK_INT(got, generation);
}
static void save_few(dcp_storage *storage, const form *f, const char *path, int generation, size_t alignment,
                     int overwrite) {
    saving v;
    dcp_error err;
    saving_make(&v, f, storage, path, generation, FEW);
    v.desc.alignment = alignment;
    v.desc.overwrite = overwrite;
    CHECK_OK_MESSAGE(dcp_save(&v.desc, &err), err.message);
}
/* The bytes of an object in a memory storage, where they are. */
static unsigned char *bytes_of(dcp_storage *storage, const char *key, size_t *size) {
    dcpi_memory_entry *entry = *dcpi_memory_find((dcpi_memory *)storage->context, key);
    CHECK(entry != NULL);
    *size = entry->blob->size;
    return (unsigned char *)entry->blob->data;
}
/* Flips each stride-th bit of a file, one at a time. From byte `data` on there are tensors and gaps. */
static void flip_bits(dcp_storage *storage, const form *f, const char *key, size_t data, size_t stride) {
    size_t size, bit;
    unsigned char *bytes = bytes_of(storage, key, &size);
    for (bit = 0; bit < size * 8; bit += stride) {
        doing("%s, %s: byte %u bit %u", f->name, key, (unsigned)(bit / 8), (unsigned)(bit % 8));
        bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ (1u << bit % 8));
        check_damage(storage, f, "p", 1, bit / 8 >= data);
        bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ (1u << bit % 8));
    }
    check_sound(storage, f, "p", 1);
}
static void flip_checkpoint(const form *f, size_t alignment, size_t stride) {
    dcp_storage *storage = in_memory();
    save_few(storage, f, "p", 1, alignment, 0);
    if (f->layout == DCP_LAYOUT_SINGLE) {
        flip_bits(storage, f, "p.checkpoint", 4096, stride);
    } else {
        flip_bits(storage, f, "p.metadata.json", SIZE_MAX, stride);
        flip_bits(storage, f, "p_shard_0.bin", 0, stride);
    }
    dcp_storage_close(storage);
    done();
}
TEST(every_bit_is_covered) {
    int i;
    size_t sparse = test_is_slow() ? 101 : test_is_sanitized() ? 11 : 1;      /* the plain build flips all */
    for (i = 0; i < FORMS; i++) flip_checkpoint(&forms[i], 0, i < 2 ? sparse : 3 * sparse);
}
TEST(bits_of_wide_gaps_are_covered) {
    int i;
    size_t sparse = test_is_slow() ? 10 : test_is_sanitized() ? 5 : 1;
    for (i = 0; i < 4; i++) flip_checkpoint(&forms[i], 4096, 37 * sparse);
}
/* The same through files: what memory storages read is not all there is. */
static void flip_file(dcp_storage *storage, const form *f, const char *path, long from, int in_gap_at_most) {
    FILE *file = fopen(path, "r+b");
    long at;
    int c;
    CHECK(file != NULL);
    for (at = from; fseek(file, at, SEEK_SET) == 0 && (c = fgetc(file)) != EOF; at += 13) {
        doing("%s: byte %ld", path, at);
        CHECK(fseek(file, at, SEEK_SET) == 0 && fputc(c ^ 1 << at % 8, file) != EOF && fflush(file) == 0);
        check_damage(storage, f, "p", 1, in_gap_at_most);
        CHECK(fseek(file, at, SEEK_SET) == 0 && fputc(c, file) != EOF && fflush(file) == 0);
    }
    CHECK(at > from + 100);
    CHECK_INT(fclose(file), 0);
}
TEST(bits_in_files_are_covered) {
    int i;
    for (i = 0; i < 4; i++) {
        const char *dir = test_ram_dir();
        const int is_single = forms[i].layout == DCP_LAYOUT_SINGLE;
        dcp_storage *storage = local_at(dir);
        char document[TEST_PATH + 40], data[TEST_PATH + 40];
        (void)snprintf(document, sizeof document, "%s/p%s", dir, suffix_of(&forms[i]));
        (void)snprintf(data, sizeof data, "%s/%s", dir, is_single ? "p.checkpoint" : "p_shard_0.bin");
        save_few(storage, &forms[i], "p", 1, 0, 0);
        if (!is_single) flip_file(storage, &forms[i], document, 0, 0);
        flip_file(storage, &forms[i], data, is_single ? 4096 : 0, 1);
        check_sound(storage, &forms[i], "p", 1);
        dcp_storage_close(storage);
        done();
    }
}

/* ---- lengths, and files that belong elsewhere -------------------------------------------------------------------- */
static void put(dcp_storage *storage, const char *key, const void *data, size_t size) {
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_write_all(storage, key, data, size, NULL, &err), err.message);
}
static char *get(dcp_storage *storage, const char *key, size_t *size) {
    void *data;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_read_all(storage, key, &data, size, NULL, &err), err.message);
    return (char *)data;
}
static void resize(dcp_storage *storage, const form *f, const char *key) {
    size_t size, n;
    char *data = get(storage, key, &size), *longer = (char *)calloc(1, size + 4096);
    CHECK(longer != NULL);
    memcpy(longer, data, size);
    for (n = 0; n <= size + 4096; n += n > size ? 4095 : 1) {        /* every shorter one, and 1 and 4,096 bytes more */
        if (n == size) continue;
        doing("%s, %s: %u of %u bytes", f->name, key, (unsigned)n, (unsigned)size);
        put(storage, key, longer, n);
        check_damage(storage, f, "p", 1, 0);
    }
    put(storage, key, data, size);
    check_sound(storage, f, "p", 1);
    dcp_free(data);
    free(longer);
}
TEST(every_length_is_checked) {
    int i;
    for (i = 0; i < FORMS; i++) {
        dcp_storage *storage = in_memory();
        save_few(storage, &forms[i], "p", 1, 0, 0);
        if (forms[i].layout == DCP_LAYOUT_SHARDED) resize(storage, &forms[i], "p_shard_0.bin");
        resize(storage, &forms[i], forms[i].layout == DCP_LAYOUT_SINGLE ? "p.checkpoint" : "p.metadata.json");
        dcp_storage_close(storage);
        done();
    }
}
static void swap_objects(dcp_storage *storage, const char *a, const char *b) {
    size_t a_size, b_size;
    char *a_data = get(storage, a, &a_size), *b_data = get(storage, b, &b_size);
    CHECK_INT(a_size, b_size);                          /* or the size alone would tell */
    put(storage, a, b_data, b_size);
    put(storage, b, a_data, a_size);
    dcp_free(a_data);
    dcp_free(b_data);
}
TEST(exchanged_shards_are_noticed) {
    int i;
    for (i = 0; i < FORMS; i += 2) {                    /* the sharded ones */
        dcp_storage *storage = in_memory();
        doing("%s", forms[i].name);
        save_few(storage, &forms[i], "p", 1, 0, 0);
        save_few(storage, &forms[i], "q", 2, 0, 0);
        swap_objects(storage, "p_shard_0.bin", "q_shard_0.bin");
        check_damage(storage, &forms[i], "p", 1, 0);
        check_damage(storage, &forms[i], "q", 2, 0);
        swap_objects(storage, "p_shard_0.bin", "q_shard_0.bin");
        check_sound(storage, &forms[i], "p", 1);
        check_sound(storage, &forms[i], "q", 2);
        dcp_storage_close(storage);
        done();
    }
}
TEST(a_stale_shard_is_noticed) {
    int i;
    for (i = 0; i < FORMS; i += 2) {
        dcp_storage *storage = in_memory();
        dcp_metadata *m;
        char *stale;
        size_t size;
        doing("%s", forms[i].name);
        save_few(storage, &forms[i], "p", 1, 0, 0);
        stale = get(storage, "p_shard_0.bin", &size);
        save_few(storage, &forms[i], "p", 2, 0, 1);
        CHECK_OK(dcp_metadata_read_file(storage, "p.metadata.json", NULL, NULL, &m, NULL));
        CHECK_INT(m->shards[0].file_size, size);
        put(storage, m->shards[0].file_path, stale, size);
        check_damage(storage, &forms[i], "p", 2, 0);
        dcp_metadata_free(m);
        dcp_free(stale);
        dcp_storage_close(storage);
        done();
    }
}

/* ---- two shards in one document, as two ranks would have saved them ---------------------------------------------- */
#define ROW 64
/* A shard's checksum, from the digests of all its blocks. */
static void tree_checksum(uint8_t (*digests)[32], size_t count, char text[80]) {
    static const char hex[] = "0123456789abcdef";
    uint8_t all[32];
    int i;
    dcp_sha256(digests, count * 32, all);
    (void)snprintf(text, 80, "sha256-tree:");
    for (i = 0; i < 64; i++) text[12 + i] = hex[all[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[76] = '\0';
}
static void add_row(dcp_metadata *m, int rank, const unsigned char *row) {
    dcp_tensor_metadata tensor = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    uint8_t block[1][32];
    char name[40], checksum[80];
    dcp_sha256(row, ROW, block[0]);
    tree_checksum(block, 1, checksum);
    tensor.name = "x";
    tensor.ndim = 2;
    tensor.shape[0] = 1; tensor.global_shape[0] = 2; tensor.global_offset[0] = rank;
    tensor.shape[1] = tensor.global_shape[1] = tensor.size = ROW;
    tensor.data_type = "uint8";
    tensor.placement = "sharded";
    tensor.block_size = 1 << 20;
    tensor.block_checksums = block[0];
    tensor.block_count = 1;
    CHECK_OK(dcp_shard_name("p", rank, NULL, name, sizeof name, NULL));
    shard.rank = rank;
    shard.file_path = name;
    shard.file_size = ROW;
    shard.tensors = &tensor;
    shard.tensor_count = 1;
    shard.checksum = checksum;
    CHECK_OK(dcp_metadata_add_shard(m, &shard, NULL));
}
static void put_two_shards(dcp_storage *storage, unsigned char rows[2][ROW]) {
    dcp_sharding sharding = DCP_ZERO;
    dcp_metadata *m;
    dcp_error err;
    int rank;
    CHECK_OK(dcp_metadata_new(&m, NULL));
    sharding.strategy = "fsdp";
    sharding.shard_count = 2;
    CHECK_OK(dcp_metadata_set_sharding(m, &sharding, NULL));
    m->world_size = 2;
    for (rank = 0; rank < 2; rank++) {
        char name[40];
        CHECK_OK(dcp_shard_name("p", rank, NULL, name, sizeof name, NULL));
        put(storage, name, rows[rank], ROW);
        add_row(m, rank, rows[rank]);
    }
    CHECK_OK_MESSAGE(dcp_metadata_write_file(storage, "p.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
}
static dcp_status load_two_rows(dcp_storage *storage, unsigned char *got, dcp_error *err) {
    const int64_t shape[2] = { 2, ROW };
    dcp_tensor t = dcp_array("x", DCP_UINT8, got, 2, shape);
    dcp_load_desc desc = DCP_ZERO;
    desc.path = "p";
    desc.tensors = &t;
    desc.tensor_count = 1;
    io_make(&desc.io, storage);
    return dcp_load(&desc, err);
}
TEST(two_exchanged_shards_of_one_document_are_noticed) {
    dcp_storage *storage = in_memory();
    unsigned char rows[2][ROW], got[2 * ROW];
    dcp_error err;
    int i;
    for (i = 0; i < 2 * ROW; i++) rows[i / ROW][i % ROW] = (unsigned char)(i * 7);
    put_two_shards(storage, rows);
    CHECK_OK_MESSAGE(load_two_rows(storage, got, &err), err.message);
    CHECK(memcmp(got, rows, sizeof got) == 0);
    CHECK_OK_MESSAGE(verify_at(storage, &forms[0], "p", &err), err.message);
    swap_objects(storage, "p_shard_0.bin", "p_shard_1.bin");
    CHECK_INT(load_two_rows(storage, got, &err), DCP_E_CHECKSUM);
    CHECK(strstr(err.message, "\"x\"") != NULL);
    CHECK_INT(verify_at(storage, &forms[0], "p", &err), DCP_E_CHECKSUM);
    swap_objects(storage, "p_shard_0.bin", "p_shard_1.bin");
    CHECK_OK(dcp_storage_remove(storage, "p_shard_1.bin", NULL, NULL));
    CHECK_INT(load_two_rows(storage, got, &err), DCP_E_INCOMPLETE);
    CHECK(strstr(err.message, "p_shard_1.bin") != NULL);
    dcp_storage_close(storage);
}

/* ---- a document of ours stays one: without a valid tail it is refused, whichever of our members is left ---------- */
static const char *const our_members[] = { "saveId", "sequence", "globalShape", "globalOffset", "placement",
                                           "blockSize", "blockChecksums", "integrity", "signature" };
#define OUR_MEMBERS ((int)DCPI_COUNT(our_members))

static void rename_member(char *text, const char *member) {             /* to one that nobody knows */
    char quoted[40], *at = text;
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", member);
    while ((at = strstr(at, quoted)) != NULL) *++at = 'Z';
}
static dcp_status parse_text(const char *text, size_t size, int *is_foreign, dcp_error *err) {
    dcp_metadata *m;
    dcp_status status = dcp_metadata_parse(text, size, &m, err);
    *is_foreign = m ? m->is_foreign : 0;
    dcp_metadata_free(m);
    return status;
}
TEST(a_document_of_ours_without_its_tail_is_refused) {
    dcp_storage *storage = in_memory();
    dcp_error err;
    char *text, *copy;
    size_t size;
    int kept, i, is_foreign;
    save_few(storage, &forms[4], "p", 1, 0, 0);
    text = get(storage, "p.metadata.json", &size);
    copy = (char *)malloc(size + 1);
    CHECK(copy != NULL);
    CHECK_OK_MESSAGE(parse_text(text, size, &is_foreign, &err), err.message);
    for (kept = 0; kept <= OUR_MEMBERS; kept++) {       /* all of ours renamed but one; in the last round all */
        memcpy(copy, text, size + 1);
        doing("left: %s", kept < OUR_MEMBERS ? our_members[kept] : "none");
        for (i = 0; i < OUR_MEMBERS; i++) if (i != kept) rename_member(copy, our_members[i]);
        if (kept < OUR_MEMBERS) CHECK_INT(parse_text(copy, size, &is_foreign, &err), DCP_E_CHECKSUM);
        else CHECK_OK_MESSAGE(parse_text(copy, size, &is_foreign, &err), err.message);
        if (kept == OUR_MEMBERS) CHECK(is_foreign);
        memcpy(copy, text, size + 1);
        if (kept < OUR_MEMBERS) rename_member(copy, our_members[kept]);
        if (kept < OUR_MEMBERS) CHECK_INT(parse_text(copy, size, &is_foreign, &err), DCP_E_CHECKSUM);
    }
    done();
    free(copy);
    dcp_free(text);
    dcp_storage_close(storage);
}
/* Cut off properly, so that what is left is good JSON. */
TEST(a_stripped_tail_is_noticed) {
    dcp_verifier verifier = dcp_hmac_verifier(hmac_key, sizeof hmac_key - 1);
    dcp_storage *storage = in_memory();
    dcp_metadata *m;
    dcp_error err;
    char *text, *tail;
    size_t size;
    int is_foreign;
    save_few(storage, &forms[4], "p", 1, 0, 0);
    text = get(storage, "p.metadata.json", &size);
    tail = strstr(text, ",\n  \"integrity\"");
    CHECK(tail != NULL);
    memcpy(tail, "\n}\n", 4);
    CHECK_INT(parse_text(text, strlen(text), &is_foreign, &err), DCP_E_CHECKSUM);
    put(storage, "p.metadata.json", text, strlen(text));
    CHECK_INT(dcp_metadata_read_file(storage, "p.metadata.json", &verifier, NULL, &m, &err), DCP_E_SIGNATURE);
    check_damage(storage, &forms[4], "p", 1, 0);
    check_damage(storage, &forms[0], "p", 1, 0);        /* and by a reader without the key */
    dcp_free(text);
    dcp_storage_close(storage);
}

/* =====================================================================================================================
 * 4. Sizes: around sectors, pages and direct I/O, on the disk and in memory.
 * ================================================================================================================== */
/* A short tensor first, so that the second does not start where a page does, and what is left of it is carried from
 * buffer to buffer. */
static void fill_bytes(unsigned char *bytes, size_t size, uint64_t seed) {
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = (unsigned char)((seed + i) * 2654435761u >> 11 ^ i >> 20);
}
static void round_trip(dcp_storage *storage, const form *f, size_t size, unsigned char *out, unsigned char *in,
                       dcp_save_report *report) {
    unsigned char small[2][100];
    const int64_t small_shape[1] = { 100 };
    const int64_t shape[1] = { (int64_t)size };
    dcp_tensor list[2];
    dcp_save_desc saved = DCP_ZERO;
    dcp_load_desc loaded = DCP_ZERO;
    dcp_error err;
    fill_bytes(small[0], sizeof small[0], 1);
    fill_bytes(out, size, size);
    list[0] = dcp_array("small", DCP_UINT8, small[0], 1, small_shape);
    list[1] = dcp_array("tail", DCP_UINT8, out, 1, shape);
    saved.path = loaded.path = "t";
    saved.tensors = list;
    saved.tensor_count = loaded.tensor_count = 2;
    saved.layout = f->layout;
    saved.checksum = f->checksum;
    saved.overwrite = 1;
    saved.report = report;
    io_make(&saved.io, storage);
    CHECK_OK_MESSAGE(dcp_save(&saved, &err), err.message);
    memset(in, 0xEE, size);
    list[0].data = small[1];
    list[1].data = in;
    loaded.tensors = list;
    io_make(&loaded.io, storage);
    CHECK_OK_MESSAGE(dcp_load(&loaded, &err), err.message);
    CHECK(memcmp(small[0], small[1], sizeof small[0]) == 0);
    CHECK(memcmp(out, in, size) == 0);
}
static void tails_in(const char *dir) {
    static const size_t tails[] = { 0, 1, 511, 512, 4095, 4096, 4097 };
    const size_t base = (size_t)8 << 20;
    unsigned char *out = (unsigned char *)malloc(base + 8192), *in = (unsigned char *)malloc(base + 8192);
    dcp_storage *storage = local_at(dir);
    size_t t;
    int i, large;
    CHECK(out && in);
    for (i = 0; i < 4; i++) {
        dcp_save_report report;
        for (t = 0; t < DCPI_COUNT(tails); t++) {
            for (large = 0; large <= (i < 2); large++) {
                /* flat ones are hashed in one thread: the small sizes will do */
                doing("%s in %s: %s%u", forms[i].name, dir, large ? "8 MiB + " : "", (unsigned)tails[t]);
                round_trip(storage, &forms[i], tails[t] + (large ? base : 0), out, in, &report);
            }
        }
        CHECK_INT(report.not_durable, 0);
        check_clean_after_sweep(storage, 1);
        empty(storage);
    }
    done();
    dcp_storage_close(storage);
    free(out);
    free(in);
}
TEST(tails_on_the_disk) { tails_in(test_dir()); }
TEST(tails_in_memory) { tails_in(test_ram_dir()); }

/* =====================================================================================================================
 * 5. Others at work at the same time: threads and processes. No CHECK beside the main thread.
 * ================================================================================================================== */
#define ROUNDS 50
typedef struct rival {
    dcp_storage *storage;
    const form *f;
    int generation, overwrite;
    volatile int *start;
    dcp_status status;
    dcp_error err;
} rival;

static void rival_save(void *user) {
    rival *r = (rival *)user;
    if (r->start) while (!dcpi_flag_get(r->start)) { }  /* no sleep: both are to begin in the same moment */
    r->status = save(r->storage, r->f, "p", r->generation, r->overwrite, &r->err);
}
static void rival_make(rival *r, dcp_storage *storage, const form *f, int generation, int overwrite) {
    memset(r, 0, sizeof *r);
    r->storage = storage;
    r->f = f;
    r->generation = generation;
    r->overwrite = overwrite;
}
/* The thread runs; in some rounds it gets a head start, so that each step meets each. */
static void begin_together(volatile int *start, int round_number) {
    volatile int i;
    pause_ms(1);
    dcpi_flag_set(start, 1);
    for (i = 0; i < round_number * 2000; i++) { }
}
/* Exactly one has won, the other was told so; what is there is the winner's, whole, and nothing else is. */
static void check_one_winner(dcp_storage *storage, const rival *a, const rival *b) {
    const rival *winner = a->status == DCP_OK ? a : b, *loser = a->status == DCP_OK ? b : a;
    dcp_error err;
    CHECK_OK_MESSAGE(winner->status, winner->err.message);
    if (loser->status != DCP_E_EXISTS) CHECK_STR(loser->err.message, "(DCP_E_EXISTS)");
    CHECK_INT(generation_at(storage, winner->f, "p"), winner->generation);
    CHECK_OK_MESSAGE(verify_at(storage, winner->f, "p", &err), err.message);
}
static void on_each_storage(void (*body)(dcp_storage *storage, int f)) {
    int where, f;
    for (where = 0; where <= 1; where++) {
        for (f = 0; f < 2; f++) {
            dcp_storage *storage = where ? in_memory() : local_at(test_ram_dir());
            doing("%s, where %d", forms[f].name, where);
            body(storage, f);
            dcp_storage_close(storage);
            done();
        }
    }
}
TEST(two_threads_save_one_path) {
    int f, round_number, where;
    for (where = 0; where <= 1; where++) {
        for (f = 0; f < 2; f++) {
            dcp_storage *storage = where ? in_memory() : local_at(test_ram_dir());
            for (round_number = 0; round_number < ROUNDS; round_number++) {
                rival a, b;
                volatile int start = 0;
                dcpi_thread thread;
                snapshot now;
                doing("%s, where %d, round %d", forms[f].name, where, round_number);
                rival_make(&a, storage, &forms[f], 1, 0);
                rival_make(&b, storage, &forms[f], 2, 0);
                a.start = &start;
                CHECK_INT(dcpi_thread_start(&thread, rival_save, &a), 0);
                begin_together(&start, round_number);
                rival_save(&b);
                dcpi_thread_join(&thread);
                check_one_winner(storage, &a, &b);
                snapshot_take(storage, &now);
                CHECK_INT(now.count, f == 0 ? 2 : 1);
                empty(storage);
            }
            dcp_storage_close(storage);
            done();
        }
    }
}
#ifndef _WIN32
/* The other process opens the storage, waits for a byte, and says through its exit status what happened. */
static pid_t child_save(const char *dir, const form *f, int generation, int start) {
    rival r;
    dcp_storage *storage;
    char byte;
    pid_t pid = fork();
    if (pid != 0) return pid;
    if (dcp_storage_local(dir, &storage, NULL) != DCP_OK || read(start, &byte, 1) != 1) _exit(100);
    rival_make(&r, storage, f, generation, 0);
    rival_save(&r);
    dcp_storage_close(storage);
    _exit((int)r.status);
}
TEST(two_processes_save_one_path) {
    const char *dir = test_ram_dir();
    int f, round_number;
    for (f = 0; f < 2; f++) {
        for (round_number = 0; round_number < ROUNDS; round_number++) {
            dcp_storage *storage = local_at(dir);
            snapshot now;
            rival a, b;
            int status = 0, ends[2];
            volatile int delay;
            pid_t pid;
            doing("%s, round %d", forms[f].name, round_number);
            (void)fflush(stdout);
            CHECK_INT(pipe(ends), 0);
            rival_make(&a, storage, &forms[f], 1, 0);
            rival_make(&b, storage, &forms[f], 2, 0);
            pid = child_save(dir, &forms[f], 1, ends[0]);
            CHECK(pid > 0);
            pause_ms(1);
            CHECK_INT(write(ends[1], "x", 1), 1);
            for (delay = 0; delay < round_number * 20000; delay++) { }
            rival_save(&b);
            CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
            CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
            a.status = (dcp_status)WEXITSTATUS(status);
            (void)snprintf(a.err.message, sizeof a.err.message, "%s", dcp_status_name(a.status));
            check_one_winner(storage, &a, &b);
            snapshot_take(storage, &now);
            CHECK_INT(now.count, f == 0 ? 2 : 1);
            empty(storage);
            dcp_storage_close(storage);
        }
    }
    done();
}
#endif

/* With overwrite each of two may win, or lose to the other with DCP_E_EXISTS; never a mixture, and the last word is
 * whole. */
TEST(two_threads_overwrite_one_path) {
    int f, i;
    for (f = 0; f < 2; f++) {
        dcp_storage *storage = local_at(test_ram_dir());
        must_save(storage, &forms[f], "p", 3, 0);
        for (i = 0; i < ROUNDS; i++) {
            rival a, b;
            volatile int start = 0;
            dcpi_thread thread;
            int generation;
            doing("%s, round %d", forms[f].name, i);
            rival_make(&a, storage, &forms[f], 1, 1);
            rival_make(&b, storage, &forms[f], 2, 1);
            a.start = &start;
            CHECK_INT(dcpi_thread_start(&thread, rival_save, &a), 0);
            begin_together(&start, i);
            rival_save(&b);
            dcpi_thread_join(&thread);
            CHECK(a.status == DCP_OK || b.status == DCP_OK);
            if (a.status && a.status != DCP_E_EXISTS) CHECK_STR(a.err.message, "(DCP_E_EXISTS)");
            if (b.status && b.status != DCP_E_EXISTS) CHECK_STR(b.err.message, "(DCP_E_EXISTS)");
            generation = generation_at(storage, &forms[f], "p");
            CHECK((generation == 1 && a.status == DCP_OK) || (generation == 2 && b.status == DCP_OK));
        }
        check_clean_after_sweep(storage, 1);
        dcp_storage_close(storage);
        done();
    }
}

/* ---- several programs in one directory --------------------------------------------------------------------------- */
#define OFTEN 100
typedef struct worker {
    dcp_storage *storage;
    const form *f;
    const char *path;
    int steps;
    dcp_status status;
    dcp_error err;
    volatile int finished;
} worker;
/* Overwrites its path, or saves step after step beside it. */
static void work_often(void *user) {
    worker *w = (worker *)user;
    int i;
    for (i = 0; i < OFTEN && w->status == DCP_OK; i++) {
        char path[40];
        (void)snprintf(path, sizeof path, w->steps ? "%s%03d" : "%s", w->path, i);
        w->status = save(w->storage, w->f, path, 1 + i % GENERATIONS, 1, &w->err);
        /* others look again a few times only: they must be able to end */
        if (test_is_sanitized() || test_is_slow()) pause_ms(3);
    }
    dcpi_flag_set(&w->finished, 1);
}
static void worker_make(worker *w, dcp_storage *storage, const form *f, const char *path, int steps) {
    memset(w, 0, sizeof *w);
    w->storage = storage;
    w->f = f;
    w->path = path;
    w->steps = steps;
}
static void two_paths_body(dcp_storage *storage, int f) {
    worker a, b;
    dcpi_thread thread;
    snapshot now;
    worker_make(&a, storage, &forms[f], "a", 0);
    worker_make(&b, storage, &forms[f], "b", 0);
    CHECK_INT(dcpi_thread_start(&thread, work_often, &a), 0);
    work_often(&b);
    dcpi_thread_join(&thread);
    CHECK_OK_MESSAGE(a.status, a.err.message);
    CHECK_OK_MESSAGE(b.status, b.err.message);
    CHECK_INT(generation_at(storage, &forms[f], "a"), 1 + (OFTEN - 1) % GENERATIONS);
    CHECK_INT(generation_at(storage, &forms[f], "b"), 1 + (OFTEN - 1) % GENERATIONS);
    snapshot_take(storage, &now);
    CHECK_INT(now.count, f == 0 ? 4 : 2);       /* each cleaned up after itself, and not after the other */
}
TEST(two_paths_of_one_directory_do_not_disturb_each_other) { on_each_storage(two_paths_body); }
static void sweep_and_prune_beside_saves_body(dcp_storage *storage, int f) {
    worker w;
    dcpi_thread thread;
    dcp_error err;
    dcp_status status = DCP_OK;
    worker_make(&w, storage, &forms[f], "s", 1);
    CHECK_INT(dcpi_thread_start(&thread, work_often, &w), 0);
    while (!dcpi_flag_get(&w.finished) && status == DCP_OK) {
        dcp_sweep_desc sweep_desc = DCP_ZERO;
        dcp_prune_desc prune_desc = DCP_ZERO;
        io_make(&sweep_desc.io, storage);
        io_make(&prune_desc.io, storage);
        status = dcp_sweep(&sweep_desc, NULL, &err);
        if (!status) status = dcp_prune(&prune_desc, NULL, &err);
    }
    dcpi_thread_join(&thread);
    CHECK_OK_MESSAGE(w.status, w.err.message);
    CHECK_OK_MESSAGE(status, err.message);
    CHECK_INT(generation_at(storage, &forms[f], "s099"), 1 + 99 % GENERATIONS);
}
TEST(sweep_and_prune_beside_saves) { on_each_storage(sweep_and_prune_beside_saves_body); }
/* There is a checkpoint at every instant, so it is found at every instant. */
static void replaced_body(dcp_storage *storage, int f) {
    worker w;
    dcpi_thread thread;
    dcp_error err;
    dcp_status status = DCP_OK;
    must_save(storage, &forms[f], "p", 1, 0);
    worker_make(&w, storage, &forms[f], "p", 0);
    CHECK_INT(dcpi_thread_start(&thread, work_often, &w), 0);
    while (!dcpi_flag_get(&w.finished) && status == DCP_OK) {
        dcp_latest_desc latest = DCP_ZERO;
        dcp_list_desc list = DCP_ZERO;
        dcp_list_entry *entries;
        size_t count;
        char *path;
        io_make(&latest.io, storage);
        io_make(&list.io, storage);
        status = dcp_latest(&latest, &path, &err);
        dcp_free(path);
        if (!status) status = dcp_list(&list, &entries, &count, &err);
        if (!status && count != 1)
            status = dcpi_fail(&err, DCP_E_NOT_FOUND, "the list has %d entries", (int)count);
        if (!status && entries[0].status)
            status = dcpi_fail(&err, entries[0].status, "list: %s", entries[0].message);
        if (!status) dcp_free(entries);
    }
    dcpi_thread_join(&thread);
    CHECK_OK_MESSAGE(w.status, w.err.message);
    CHECK_OK_MESSAGE(status, err.message);
}
TEST(latest_and_list_while_the_checkpoint_is_replaced) { on_each_storage(replaced_body); }

/* ---- a tensor that changes while it is saved --------------------------------------------------------------------- */
typedef struct scribbler { volatile unsigned char *bytes; size_t size; volatile int stop; } scribbler;
static void scribble(void *user) {
    scribbler *s = (scribbler *)user;
    size_t i = 0;
    unsigned char value = 0;
    while (!dcpi_flag_get(&s->stop)) {
        for (i = 0; i < s->size; i += 509) s->bytes[i] = value;
        value++;
    }
}
#if defined(__SANITIZE_THREAD__)
#define SCRIBBLING_IS_A_RACE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SCRIBBLING_IS_A_RACE 1
#endif
#endif
TEST(a_tensor_that_changes_during_its_save_still_verifies) {
#ifdef SCRIBBLING_IS_A_RACE
    SKIP("it is a data race by intent");
#else
    dcp_storage *storage = local_at(test_ram_dir());
    unsigned char *bytes = (unsigned char *)calloc(1, LARGE);
    scribbler s;
    dcpi_thread thread;
    dcp_error err;
    int i;
    CHECK(bytes != NULL);
    s.bytes = bytes;
    s.size = LARGE;
    s.stop = 0;
    CHECK_INT(dcpi_thread_start(&thread, scribble, &s), 0);
    (void)dcpi_succeed(&err);
    for (i = 0; i < 6 && err.status == DCP_OK; i++) {                   /* no CHECK while the thread runs */
        const int64_t shape[1] = { (int64_t)LARGE };
        dcp_tensor t = dcp_array("x", DCP_UINT8, bytes, 1, shape);
        dcp_save_desc desc = DCP_ZERO;
        desc.path = "p";
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.layout = forms[i % 4].layout;
        desc.checksum = forms[i % 4].checksum;
        io_make(&desc.io, storage);
        if (dcp_save(&desc, &err) == DCP_OK) (void)verify_at(storage, &forms[i % 4], "p", &err);
        if (err.status == DCP_OK)
            (void)dcp_storage_remove(storage, desc.layout ? "p.checkpoint" : "p.metadata.json", NULL, NULL);
    }
    dcpi_flag_set(&s.stop, 1);
    dcpi_thread_join(&thread);
    CHECK_OK_MESSAGE(err.status, err.message);
    CHECK_INT(i, 6);
    free(bytes);
    dcp_storage_close(storage);
#endif
}

/* ---- a reader while the checkpoint is replaced again and again --------------------------------------------------- */
#define OVERWRITES 300
typedef struct writer {
    dcp_storage *storage;
    const form *f;
    dcp_status status;
    dcp_error err;
    volatile int finished;
} writer;
static void overwrite_often(void *user) {
    writer *w = (writer *)user;
    int i;
    for (i = 0; i < OVERWRITES && w->status == DCP_OK; i++) {
        w->status = save(w->storage, w->f, "p", 1 + i % GENERATIONS, 1, &w->err);
    }
    dcpi_flag_set(&w->finished, 1);
}
/* A load starts anew three times at most, so a writer that never rests can wear it out: then it says just that. */
static int was_worn_out(dcp_status status, const dcp_error *err) {
    return status && strstr(err->message, "was replaced 4 times") != NULL;
}
TEST(a_reader_never_sees_a_mixture) {
    int f, where;
    for (where = 0; where <= 1; where++) {
        for (f = 0; f < 4; f++) {
            writer w;
            dcpi_thread thread;
            dcp_error err;
            int loads = 0, generation = 1;
            dcp_status status = DCP_OK;
            doing("%s, where %d", forms[f].name, where);
            memset(&w, 0, sizeof w);
            w.storage = where ? in_memory() : local_at(test_ram_dir());
            w.f = &forms[f];
            must_save(w.storage, &forms[f], "p", GENERATIONS, 0);
            CHECK_INT(dcpi_thread_start(&thread, overwrite_often, &w), 0);
            while (!dcpi_flag_get(&w.finished) && status == DCP_OK && generation > 0) {
                status = load(w.storage, &forms[f], "p", &generation, &err);
                /* nothing was read, so nothing is mixed */
                if (was_worn_out(status, &err)) { status = DCP_OK; generation = 1; }
                else loads++;
            }
            dcpi_thread_join(&thread);
            CHECK_OK_MESSAGE(w.status, w.err.message);
            CHECK_OK_MESSAGE(status, err.message);
            CHECK(generation > 0);
            CHECK(loads > (test_is_sanitized() || test_is_slow() ? 0 : 10));
            CHECK_INT(generation_at(w.storage, &forms[f], "p"), 1 + (OVERWRITES - 1) % GENERATIONS);
            check_clean_after_sweep(w.storage, 1);
            dcp_storage_close(w.storage);
            done();
        }
    }
}

/* =====================================================================================================================
 * 6. Sweep takes what killed saves of ours left, and nothing else. Files that are no files are not followed, waited for
 *    or removed.
 * ================================================================================================================== */
#define ID "0123456789abcdef"
static const char *const ours[] = {
    "a.metadata.json." ID ".tmp", "a.metadata.json." ID "-3.tmp", "a.checkpoint." ID ".tmp", "a_shard_0.bin." ID ".tmp",
        "a_shard_7." ID ".bin", "a_shard_12." ID ".bin",
    "a_shard_0." ID ".bin." ID "-1.tmp", "notes.txt." ID ".tmp"
};
static const char *const others[] = {
    "x_shard_0.bin", "notes.tmp", "a." ID ".tmp.bak", "a.0123456789ABCDEF.tmp", "a.0123456789abcde.tmp",
        "a.00123456789abcdef.tmp", "." ID ".tmp", "a." ID "-.tmp",
    "a." ID "-x.tmp", "a." ID "-1-2.tmp", "a" ID ".tmp", "a_shard_." ID ".bin", "a_shard_x." ID ".bin",
    "a_shard_0." ID ".bin.bak", "a_shard_0.0123456789abcdeF.bin",
    "a-shard-0." ID ".bin", "_shard_0." ID ".bin", "a_shard_12345678901." ID ".bin", "a_shard_0." ID ".Bin",
    "a_shard_-1." ID ".bin", "foo.bin", "foo.json", "a.metadata.json.bak"
};
static void put_all(dcp_storage *storage, const char *const *names, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) put(storage, names[i], names[i], strlen(names[i]));
}
static size_t length_of(const char *const *names, size_t count) {
    size_t i, sum = 0;
    for (i = 0; i < count; i++) sum += strlen(names[i]);
    return sum;
}
static int is_there(dcp_storage *storage, const char *key) {
    int exists = -1;
    CHECK_OK(dcp_storage_exists(storage, key, &exists, NULL, NULL));
    return exists;
}
static void check_there(dcp_storage *storage, const char *const *names, size_t count, int wanted) {
    size_t i;
    for (i = 0; i < count; i++) {
        doing("%s", names[i]);
        CHECK_INT(is_there(storage, names[i]), wanted);
    }
    done();
}
typedef struct sweeping { dcp_sweep_desc desc; dcp_removal removal; } sweeping;

TEST(sweep_knows_its_own_names) {
    int where;
    for (where = 0; where <= 1; where++) {
        dcp_storage *storage = where ? in_memory() : local_at(test_ram_dir());
        sweeping v;
        dcp_error err;
        memset(&v, 0, sizeof v);
        v.desc.grace_seconds = -1;
        save_few(storage, &forms[0], "keep", 1, 0, 0);
        save_few(storage, &forms[0], "keep", 2, 0, 1);  /* its shard has the save id in its name */
        save_few(storage, &forms[1], "one", 3, 0, 0);
        put_all(storage, ours, DCPI_COUNT(ours));
        put_all(storage, others, DCPI_COUNT(others));
        v.desc.dry_run = 1;
        io_make(&v.desc.io, storage);
        CHECK_OK_MESSAGE(dcp_sweep(&v.desc, &v.removal, &err), err.message);
        CHECK_INT(v.removal.path_count, DCPI_COUNT(ours));
        CHECK_INT(v.removal.checkpoints, 0);
        dcp_removal_free(&v.removal);
        check_there(storage, ours, DCPI_COUNT(ours), 1);
        v.desc.dry_run = 0;
        CHECK_OK_MESSAGE(dcp_sweep(&v.desc, &v.removal, &err), err.message);
        CHECK_INT(v.removal.path_count, DCPI_COUNT(ours));
        CHECK_INT(v.removal.bytes, length_of(ours, DCPI_COUNT(ours)));
        dcp_removal_free(&v.removal);
        check_there(storage, ours, DCPI_COUNT(ours), 0);
        check_there(storage, others, DCPI_COUNT(others), 1);
        check_sound(storage, &forms[0], "keep", 2);
        check_sound(storage, &forms[1], "one", 3);
        v.desc.plain_names = 1;                         /* on request only */
        CHECK_OK_MESSAGE(dcp_sweep(&v.desc, &v.removal, &err), err.message);
        CHECK_INT(v.removal.path_count, 1);
        CHECK_INT(is_there(storage, "x_shard_0.bin"), 0);
        dcp_removal_free(&v.removal);
        check_sound(storage, &forms[0], "keep", 2);
        dcp_storage_close(storage);
    }
}
/* What a commit file that nobody can read names is not known, so only temporary files go. */
static void sweep_beside(const char *what, const char *key, const void *data, size_t size,
                         const dcp_verifier *verifier) {
    dcp_storage *storage = in_memory();
    dcp_error err;
    doing("%s", what);
    save_few(storage, &forms[0], "p", 1, 0, 0);
    put(storage, key, data, size);
    put(storage, ours[0], "x", 1);
    put(storage, ours[4], "x", 1);
    put(storage, "x_shard_0.bin", "x", 1);
    CHECK_OK_MESSAGE(sweep_all(storage, verifier, &err), err.message);
    CHECK_INT(is_there(storage, ours[0]), 0);
    CHECK_INT(is_there(storage, ours[4]), 1);
    CHECK_INT(is_there(storage, "x_shard_0.bin"), 1);
    CHECK_INT(is_there(storage, key), 1);
    check_sound(storage, &forms[0], "p", 1);
    dcp_storage_close(storage);
    done();
}
TEST(sweep_beside_an_unreadable_commit_file_takes_only_temporary_ones) {
    dcp_verifier verifier = dcp_hmac_verifier(hmac_key, sizeof hmac_key - 1);
    dcp_storage *storage = in_memory();
    char *text;
    size_t size;
    sweep_beside("empty", "q.metadata.json", "", 0, NULL);
    sweep_beside("no JSON", "q.metadata.json", "{", 1, NULL);
    sweep_beside("no single file", "q.checkpoint", "PCLM", 4, NULL);
    sweep_beside("a manifest", "q.manifest.json", "{}", 2, NULL);
    sweep_beside("a newer format", "q.metadata.json", "{\"version\": \"2.0.0\"}", 20, NULL);
    save_few(storage, &forms[0], "q", 1, 0, 0);
    text = get(storage, "q.metadata.json", &size);
    sweep_beside("not signed", "q.metadata.json", text, size, &verifier);
    text[size / 2] ^= 1;
    sweep_beside("damaged", "q.metadata.json", text, size, NULL);
    dcp_free(text);
    dcp_storage_close(storage);
}
#ifndef _WIN32
static void set_age(const char *dir, const char *name, long seconds) {  /* negative: in the future */
    char path[TEST_PATH + 80];
    struct timespec times[2];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    times[0].tv_sec = times[1].tv_sec = time(NULL) - seconds;
    times[0].tv_nsec = times[1].tv_nsec = 0;
    CHECK_INT(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}
static void sweep_with_grace(dcp_storage *storage, int64_t grace, size_t removed) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_error err;
    desc.grace_seconds = grace;
    io_make(&desc.io, storage);
    CHECK_OK_MESSAGE(dcp_sweep(&desc, &removal, &err), err.message);
    CHECK_INT(removal.path_count, removed);
    dcp_removal_free(&removal);
}
TEST(sweep_leaves_young_files_alone) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    put_all(storage, ours, 6);
    set_age(dir, ours[0], 86400 + 60);
    set_age(dir, ours[4], 86400 + 60);
    set_age(dir, ours[1], 86400 - 60);
    set_age(dir, ours[2], 600);
    set_age(dir, ours[3], -86400);
    sweep_with_grace(storage, 0, 2);                    /* the default is a day */
    CHECK(!is_there(storage, ours[0]) && !is_there(storage, ours[4]) && is_there(storage, ours[1]));
    sweep_with_grace(storage, INT64_MAX, 0);
    sweep_with_grace(storage, 700, 1);
    CHECK(!is_there(storage, ours[1]) && is_there(storage, ours[2]));
    sweep_with_grace(storage, 500, 1);
    CHECK(!is_there(storage, ours[2]) && is_there(storage, ours[3]) && is_there(storage, ours[5]));
    dcp_storage_close(storage);
}

/* ---- links, FIFOs, directories, sockets, devices ----------------------------------------------------------------- */
typedef enum oddity { LINK_TO_FILE, LINK_TO_NOTHING, LINK_TO_DEVICE, FIFO, DIRECTORY, DEVICE, ODDITIES } oddity;
static const char *const oddity_names[] = { "a link to a file", "a link to nothing", "a link to /dev/zero", "a FIFO",
                                            "a directory", "a device" };

/* 0: it cannot be made here. `target` is a file of another directory that must stay as it is. */
static int make_oddity(oddity kind, const char *path, const char *target) {
    switch (kind) {
        case LINK_TO_FILE: return symlink(target, path) == 0;
        case LINK_TO_NOTHING: return symlink("/nowhere/at/all", path) == 0;
        case LINK_TO_DEVICE: return symlink("/dev/zero", path) == 0;
        case FIFO: return mkfifo(path, 0600) == 0;
        case DIRECTORY: return mkdir(path, 0700) == 0;
        default:
#ifdef __linux__
            return mknod(path, S_IFCHR | 0600, (dev_t)0x105) == 0;      /* /dev/zero; needs root */
#else
            return 0;
#endif
    }
}
static void check_oddity(const char *path, const struct stat *before) {    /* still what it was */
    struct stat now;
    CHECK_INT(lstat(path, &now), 0);
    CHECK(now.st_ino == before->st_ino && now.st_mode == before->st_mode);
}
TEST(sweep_never_touches_what_is_no_file) {
    const char *dir = test_ram_dir(), *elsewhere = test_ram_dir();
    dcp_storage *storage = local_at(dir), *outside = local_at(elsewhere);
    char target[TEST_PATH + 20], path[TEST_PATH + 80];
    struct stat before[ODDITIES];
    dcp_error err;
    size_t size;
    char *text;
    int kind, made[ODDITIES];
    put(outside, "precious", "precious", 8);
    (void)snprintf(target, sizeof target, "%s/precious", elsewhere);
    for (kind = 0; kind < ODDITIES; kind++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, ours[kind]);
        made[kind] = make_oddity((oddity)kind, path, target);
        if (made[kind]) CHECK_INT(lstat(path, &before[kind]), 0);
    }
    CHECK_OK_MESSAGE(sweep_all(storage, NULL, &err), err.message);
    for (kind = 0; kind < ODDITIES; kind++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, ours[kind]);
        doing("%s", oddity_names[kind]);
        if (made[kind]) check_oddity(path, &before[kind]);
    }
    done();
    text = get(outside, "precious", &size);
    CHECK_STR(text, "precious");
    dcp_free(text);
    dcp_storage_close(outside);
    dcp_storage_close(storage);
}
/* An oddity where a file of a checkpoint should be: the call says so, at once. Never "there is no checkpoint", never
 * success. */
static void check_said(dcp_status status, const dcp_error *err) {
    check_error(status, err);
    CHECK(status != DCP_OK && status != DCP_E_NOT_FOUND && status != DCP_E_UNKNOWN && status != DCP_E_CHECKSUM);
}
static void use_odd_commit_file(dcp_storage *storage, const form *f) {
    dcp_remove_desc remove_desc = DCP_ZERO;
    dcp_list_desc list = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_error err;
    size_t count;
    char *found;
    int generation;
    check_said(load(storage, f, "p", &generation, &err), &err);
    check_said(save(storage, f, "p", 2, 0, &err), &err);
    check_said(save(storage, f, "p", 2, 1, &err), &err);
    remove_desc.path = "p";
    io_make(&remove_desc.io, storage);
    check_said(dcp_remove(&remove_desc, NULL, &err), &err);
    io_make(&list.io, storage);
    CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
    CHECK_INT(count, 1);
    dcp_free(entries);
    found = newest(storage);
    CHECK(strncmp(found, "q.", 2) == 0);
    dcp_free(found);
    io_make(&prune.io, storage);
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK_OK_MESSAGE(sweep_all(storage, NULL, &err), err.message);
}
/* A whole checkpoint elsewhere, so that a link that is followed would load. */
static void odd_commit_file(oddity kind, const form *f) {
    const char *dir = test_ram_dir(), *elsewhere = test_ram_dir();
    dcp_storage *storage = local_at(dir), *outside = local_at(elsewhere);
    char path[TEST_PATH + 40], target[TEST_PATH + 40];
    struct stat before;
    snapshot precious;
    doing("%s, %s", oddity_names[kind], f->name);
    must_save(outside, f, "p", 1, 0);
    must_save(storage, f, "q", 3, 0);
    snapshot_take(outside, &precious);
    (void)snprintf(path, sizeof path, "%s/p%s", dir, suffix_of(f));
    (void)snprintf(target, sizeof target, "%s/p%s", elsewhere, suffix_of(f));
    if (make_oddity(kind, path, target)) {
        CHECK_INT(lstat(path, &before), 0);
        use_odd_commit_file(storage, f);
        check_oddity(path, &before);
        check_unchanged(outside, &precious);
        CHECK_INT(generation_at(storage, f, "q"), 3);
        check_clean_after_sweep(storage, 1);
    }
    dcp_storage_close(outside);
    dcp_storage_close(storage);
    done();
}
TEST(commit_files_that_are_no_files_are_refused) {
    int kind;
    for (kind = 0; kind < ODDITIES; kind++) odd_commit_file((oddity)kind, &forms[kind % 2]);
}
TEST(commit_files_that_are_no_files_are_refused_in_the_other_layout) {
    int kind;
    for (kind = 0; kind < ODDITIES; kind++) odd_commit_file((oddity)kind, &forms[1 - kind % 2]);
}
static void odd_shard(oddity kind) {
    const char *dir = test_ram_dir(), *elsewhere = test_ram_dir();
    dcp_storage *storage = local_at(dir), *outside = local_at(elsewhere);
    char path[TEST_PATH + 40], target[TEST_PATH + 40];
    snapshot precious;
    dcp_error err;
    int generation;
    doing("%s", oddity_names[kind]);
    must_save(outside, &forms[0], "p", 1, 0);
    must_save(storage, &forms[0], "p", 1, 0);
    snapshot_take(outside, &precious);
    (void)snprintf(path, sizeof path, "%s/p_shard_0.bin", dir);
    (void)snprintf(target, sizeof target, "%s/p_shard_0.bin", elsewhere);
    CHECK_INT(unlink(path), 0);
    if (make_oddity(kind, path, target)) {
        check_said(load(storage, &forms[0], "p", &generation, &err), &err);
        CHECK(strstr(err.message, "p_shard_0.bin") != NULL);
        check_said(verify_at(storage, &forms[0], "p", &err), &err);
        must_save(storage, &forms[0], "p", 2, 1);     /* an overwrite heals it, and follows no link when it cleans up */
        CHECK_INT(generation_at(storage, &forms[0], "p"), 2);
        check_unchanged(outside, &precious);
    }
    dcp_storage_close(outside);
    dcp_storage_close(storage);
    done();
}
TEST(shards_that_are_no_files_are_refused) {
    int kind;
    for (kind = 0; kind < ODDITIES; kind++) odd_shard((oddity)kind);
}
/* A document may name a file in a directory below; through a link that directory would be anywhere. */
TEST(a_directory_on_the_way_that_is_a_link_is_not_followed) {
    const char *dir = test_ram_dir(), *elsewhere = test_ram_dir();
    dcp_storage *storage = local_at(dir), *outside = local_at(elsewhere);
    unsigned char rows[2][ROW], got[2 * ROW];
    char path[TEST_PATH + 40];
    dcp_metadata *m;
    dcp_error err;
    memset(rows, 5, sizeof rows);
    put_two_shards(storage, rows);
    CHECK_OK(dcp_metadata_read_file(storage, "p.metadata.json", NULL, NULL, &m, NULL));
    m->shards[0].file_path = "sub/a.bin";
    m->shards[1].file_path = "sub/b.bin";
    CHECK_OK_MESSAGE(dcp_metadata_write_file(storage, "p.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
    put(storage, "sub/a.bin", rows[0], ROW);
    put(storage, "sub/b.bin", rows[1], ROW);
    CHECK_OK_MESSAGE(load_two_rows(storage, got, &err), err.message);   /* a real one is fine */
    put(outside, "a.bin", rows[0], ROW);
    put(outside, "b.bin", rows[1], ROW);
    (void)snprintf(path, sizeof path, "%s/sub", dir);
    test_rm_rf(path);
    CHECK_INT(symlink(elsewhere, path), 0);
    check_said(load_two_rows(storage, got, &err), &err);
    dcp_storage_close(outside);
    dcp_storage_close(storage);
}
#endif

/* =====================================================================================================================
 * 8. Files and directories that want to hurt: terabytes that are not there, counts that no memory holds, names that are
 *    none.
 * ================================================================================================================== */
#define KIB ((int64_t)1024)
#define MIB (KIB * 1024)
#define TIB (MIB * MIB)

/* What an operation held at most, beyond what was there before, and beyond `documents`. */
static int64_t watch_from;
static void memory_watch(void) {
    watch_from = hungry.bytes;
    hungry_watch();
}
static void check_memory(int64_t at_most) {
    if (hungry.peak - watch_from > at_most) CHECK_INT(hungry.peak - watch_from, at_most);
    if (hungry.largest > at_most) CHECK_INT(hungry.largest, at_most);
}
static void use_everything(dcp_storage *storage, const form *f, dcp_status wanted, int64_t memory) {
    dcp_list_desc list = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t count;
    char *path;
    int generation;
    memory_watch();
    CHECK_INT(load(storage, f, "p", &generation, &err), wanted);
    check_error(wanted, &err);
    CHECK_INT(verify_at(storage, f, "p", &err), wanted);
    io_make(&list.io, storage);
    CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
    CHECK_INT(count, 1);
    CHECK_INT(entries[0].status, wanted);
    dcp_free(entries);
    io_make(&latest.io, storage);
    CHECK_INT(dcp_latest(&latest, &path, &err), wanted);
    io_make(&prune.io, storage);
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK_OK_MESSAGE(sweep_all(storage, NULL, &err), err.message);
    check_memory(memory);
}
TEST(empty_documents_are_refused_and_replaced) {
    int f;
    for (f = 0; f < 2; f++) {
        dcp_storage *storage = in_memory();
        char key[32];
        dcp_error err;
        (void)snprintf(key, sizeof key, "p%s", suffix_of(&forms[f]));
        doing("%s", key);
        put(storage, key, "", 0);
        use_everything(storage, &forms[f], DCP_E_FORMAT, 64 * KIB);
        CHECK_INT(save(storage, &forms[f], "p", 1, 0, &err), DCP_E_EXISTS);
        must_save(storage, &forms[f], "p", 2, 1);
        CHECK_INT(generation_at(storage, &forms[f], "p"), 2);
        check_clean_after_sweep(storage, 1);
        dcp_storage_close(storage);
        done();
    }
}
#ifndef _WIN32
/* Makes a file of `size` bytes that takes no space; 0: this file system cannot. */
static int make_sparse(const char *dir, const char *name, const void *head, size_t head_size, int64_t size) {
    char path[TEST_PATH + 80];
    int fd, made;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    made = ftruncate(fd, (off_t)size) == 0 && pwrite(fd, head, head_size, 0) == (ssize_t)head_size;
    CHECK_INT(close(fd), 0);
    return made;
}
TEST(a_terabyte_document_takes_no_memory) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    if (!make_sparse(dir, "p.metadata.json", "{", 1, TIB)) SKIP("no sparse files here");
    use_everything(storage, &forms[0], DCP_E_LIMIT, 64 * KIB);
    dcp_storage_close(storage);
}
/* Magic, version "1.0.0", and a length of the document; the rest is a hole. */
static void terabyte_single(uint32_t json_size, dcp_status wanted, int64_t memory) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    unsigned char head[14] = { 0x50, 0x43, 0x4C, 0x4D, 5, '1', '.', '0', '.', '0', 0, 0, 0, 0 };
    int i;
    for (i = 0; i < 4; i++) head[10 + i] = (unsigned char)(json_size >> 8 * i);
    doing("a document of %u bytes", json_size);
    if (!make_sparse(dir, "p.checkpoint", head, sizeof head, TIB)) SKIP("no sparse files here");
    use_everything(storage, &forms[1], wanted, memory);
    dcp_storage_close(storage);
    done();
}
TEST(a_terabyte_single_file_takes_no_memory) {
    terabyte_single(0, DCP_E_FORMAT, 64 * KIB);
    terabyte_single(100, DCP_E_FORMAT, 64 * KIB);
    terabyte_single(INT32_MAX, DCP_E_LIMIT, 64 * KIB);
    terabyte_single((uint32_t)INT32_MAX + 1, DCP_E_FORMAT, 64 * KIB);
    terabyte_single(UINT32_MAX, DCP_E_FORMAT, 64 * KIB);
    terabyte_single(1 << 20, DCP_E_FORMAT, 1 * MIB + 64 * KIB);         /* these bytes are there, so they are read */
    /* and of these as many as look like a document */
    terabyte_single(60 << 20, DCP_E_FORMAT, 1 * MIB + 64 * KIB);
}
/* Large files that are no documents, with holes and without: no more memory than for what looks like one. */
enum { GARBAGE = 40 };                                  /* MiB */
static dcp_status open_garbage(dcp_storage *storage, const char *name, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    desc.path = name;
    io_make(&desc.io, storage);
    return dcp_open(&desc, &c, err);
}
static void check_garbage(const char *name, const char *head, char fill, const char *tail, dcp_status wanted) {
    const char *dir = test_ram_dir();
    const int64_t size = GARBAGE * MIB;
    dcp_storage *storage = local_at(dir);
    dcp_manifest *m;
    dcp_error err;
    char path[TEST_PATH + 80];
    static char piece[65536];
    int64_t at;
    FILE *file;
    doing("%s: %.20s, byte %d, %.20s", name, head, fill, tail);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!make_sparse(dir, name, head, strlen(head), size)) SKIP("no sparse files here");
    file = fopen(path, "r+b");
    CHECK(file != NULL);
    memset(piece, fill, sizeof piece);
    for (at = (int64_t)strlen(head); fill && at < size; at += (int64_t)sizeof piece)
        CHECK(fseek(file, (long)at, SEEK_SET) == 0 && fwrite(piece, sizeof piece, 1, file) == 1);
    CHECK(fseek(file, (long)(size - (int64_t)strlen(tail)), SEEK_SET) == 0 && fputs(tail, file) >= 0
          && fclose(file) == 0);
    memory_watch();
    CHECK_INT(open_garbage(storage, name, &err), wanted);
    CHECK(strstr(err.message, name) != NULL);
    if (strstr(name, ".metadata")) use_everything(storage, &forms[0], wanted, 1 * MIB + 64 * KIB);
    if (strstr(name, ".manifest")) CHECK_INT(dcp_manifest_read_file(storage, name, NULL, NULL, &m, &err), wanted);
    check_memory(1 * MIB + 64 * KIB);
    must_save(storage, &forms[0], "other", 1, 0);       /* beside it */
    check_memory(8 * MIB);
    if (strstr(name, ".metadata")) must_save(storage, &forms[0], "p", 2, 1);        /* over it */
    check_memory(8 * MIB);
    dcp_storage_close(storage);
    done();
}
static void large_garbage(const char *name) {
    check_garbage(name, "{", '\0', "}", DCP_E_FORMAT);
    check_garbage(name, "", '\0', "", DCP_E_FORMAT);
    check_garbage(name, "", '\x80', "", DCP_E_FORMAT);
    check_garbage(name, "{", 'a', "}", DCP_E_FORMAT);
    check_garbage(name, "{\"a\":", '1', "}", DCP_E_FORMAT);
    check_garbage(name, "{\"a\": \"", '\n', "\"}", DCP_E_FORMAT);
}
TEST(large_files_that_are_no_metadata_take_no_memory) {
    static const char sealed[] = "\n  \"a\": 1,\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \""
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }\n}\n";
    large_garbage("p.metadata.json");
    /* it was one, and has lost what was in it */
    check_garbage("p.metadata.json", "{", '\0', sealed, DCP_E_CHECKSUM);
}
TEST(large_files_that_are_no_manifests_take_no_memory) { large_garbage("p.manifest.json"); }
TEST(large_files_that_are_no_yaml_take_no_memory) {
    large_garbage("p.manifest.yaml");
    check_garbage("p.manifest.yaml", "a: 1\n", '\0', "", DCP_E_FORMAT);
    check_garbage("p.manifest.yaml", "", 'a', "", DCP_E_FORMAT);
}
TEST(a_terabyte_shard_takes_no_memory) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    must_save(storage, &forms[0], "p", 1, 0);
    if (!make_sparse(dir, "p_shard_0.bin", "x", 1, TIB)) SKIP("no sparse files here");
    use_everything(storage, &forms[0], DCP_E_INCOMPLETE, 64 * KIB);
    dcp_storage_close(storage);
}
/* One that its document promises: it can only be wrong, but finding out takes hours; a deadline ends that, in bounded
 * memory. */
static void promise_terabyte(dcp_storage *storage) {
    static uint8_t digests[1024][32];
    char checksum[80];
    dcp_tensor_metadata tensor = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_metadata *m;
    dcp_error err;
    tensor.name = "x";
    tensor.ndim = 1;
    tensor.shape[0] = tensor.global_shape[0] = tensor.size = TIB;
    tensor.data_type = "uint8";
    tensor.placement = "replicated";
    tensor.block_size = 1024 * MIB;
    tensor.block_checksums = digests[0];
    tensor.block_count = 1024;
    shard.file_path = "p_shard_0.bin";
    shard.file_size = TIB;
    shard.tensors = &tensor;
    shard.tensor_count = 1;
    tree_checksum(digests, 1024, checksum);
    shard.checksum = checksum;
    sharding.strategy = "none";
    sharding.shard_count = 1;
    CHECK_OK(dcp_metadata_new(&m, NULL));
    m->world_size = 1;
    CHECK_OK(dcp_metadata_set_sharding(m, &sharding, NULL));
    CHECK_OK_MESSAGE(dcp_metadata_add_shard(m, &shard, &err), err.message);
    CHECK_OK_MESSAGE(dcp_metadata_write_file(storage, "p.metadata.json", m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
}
TEST(a_promised_terabyte_ends_at_the_deadline) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    dcp_checkpoint *c;
    dcp_open_desc desc = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int64_t started = dcpi_os_monotonic_ms();
    if (!make_sparse(dir, "p_shard_0.bin", "x", 1, TIB)) SKIP("no sparse files here");
    promise_terabyte(storage);
    memory_watch();
    desc.path = "p";
    io_make(&desc.io, storage);
    desc.io.deadline_ms = 100;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    status = dcp_verify(c, &err);
    CHECK(status == DCP_E_TIMEOUT || status == DCP_E_CHECKSUM);  /* the first block of a gigabyte may have come first */
    CHECK(dcpi_os_monotonic_ms() - started < 30000);
    check_memory(16 * MIB);
    dcp_close(c);
    dcp_storage_close(storage);
}
#endif

/* ---- counts ------------------------------------------------------------------------------------------------------ */
static const char *const monsters[] = {
    "{\"version\":\"1.0.0\",\"worldSize\":2147483647,\"sharding\":{\"strategy\":\"fsdp\",\"shardCount\":2147483647},"
    "\"shards\":[]}",
    "{\"version\":\"1.0.0\",\"worldSize\":9223372036854775807,\"sharding\":{\"strategy\":\"fsdp\","
    "\"shardCount\":9223372036854775807},\"shards\":[]}",
    "{\"version\":\"1.0.0\",\"worldSize\":1,\"sharding\":{\"strategy\":\"x\",\"shardCount\":1},\"shards\":["
    "{\"rank\":2147483647,\"filePath\":\"p_shard_0.bin\","
        "\"fileSize\":9223372036854775807,\"tensors\":[]}]}",
    "{\"version\":\"1.0.0\",\"worldSize\":1,\"sharding\":{\"strategy\":\"x\",\"shardCount\":1},\"shards\":[{\"rank\":0,"
    "\"filePath\":\"p_shard_0.bin\",\"fileSize\":8,"
        "\"tensors\":[{\"name\":\"a\",\"shape\":[9223372036854775807,9223372036854775807],\"dataType\":\"fp64\","
        "\"offset\":0,\"size\":8}]}]}",
    "{\"version\":\"1.0.0\",\"worldSize\":1,\"sharding\":{\"strategy\":\"x\",\"shardCount\":1},\"shards\":[{\"rank\":0,"
    "\"filePath\":\"p_shard_0.bin\","
        "\"fileSize\":9223372036854775807,\"tensors\":[{\"name\":\"a\",\"shape\":[9223372036854775807],"
        "\"dataType\":\"uint8\",\"offset\":9223372036854775807,"
        "\"size\":9223372036854775807}]}]}",
    "{\"version\":\"1.0.0\",\"worldSize\":1,\"sharding\":{\"strategy\":\"x\",\"shardCount\":1},\"shards\":[{\"rank\":0,"
    "\"filePath\":\"p_shard_0.bin\","
        "\"fileSize\":1152921504606846976,\"tensors\":[{\"name\":\"a\",\"shape\":[1152921504606846976],"
        "\"dataType\":\"uint8\",\"offset\":0,"
        "\"size\":1152921504606846976,\"blockSize\":262144,\"blockChecksums\":[]}]}]}",
    "{\"version\":\"1.0.0\",\"worldSize\":1,\"sharding\":{\"strategy\":\"x\",\"shardCount\":1},\"shards\":[{\"rank\":0,"
    "\"filePath\":\"p_shard_0.bin\",\"fileSize\":8,"
        "\"tensors\":[{\"name\":\"a\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
        "\"dataType\":\"fp64\",\"offset\":0,\"size\":8}]}]}",
    "{\"version\":\"99999999999999999999.0.0\"}",
    "{\"version\":\"1.0.0\",\"worldSize\":1e308,\"shards\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
    "[[[[[[[[[[[[[["
};
TEST(monstrous_counts_take_no_memory) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(monsters); i++) {
        dcp_storage *storage = in_memory();
        dcp_error err;
        dcp_status status;
        int generation;
        doing("%.200s", monsters[i]);
        put(storage, "p.metadata.json", monsters[i], strlen(monsters[i]));
        put(storage, "p_shard_0.bin", "12345678", 8);
        memory_watch();
        status = verify_at(storage, &forms[0], "p", &err);
        check_error(status, &err);
        CHECK(status != DCP_OK && status != DCP_E_MEMORY);
        status = load(storage, &forms[0], "p", &generation, &err);
        CHECK(status != DCP_OK && status != DCP_E_MEMORY);
        CHECK_OK_MESSAGE(sweep_all(storage, NULL, &err), err.message);
        check_memory(64 * KIB);
        dcp_storage_close(storage);
        done();
    }
}
#ifndef _WIN32
/* Names that no key can be, and names that are only a suffix: passed over, not tripped over. */
TEST(hostile_names_in_a_directory) {
    static const char *const names[] = {
        "\n.metadata.json", "\xff\xfe.metadata.json", "a\\b.checkpoint", "c:.metadata.json", ".metadata.json",
            ".checkpoint", "..metadata.json", "\x7f_shard_0." ID ".bin",
        "p_shard_0.\n.bin", " .checkpoint", "%s%n%s%n.metadata.json"
    };
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    dcp_list_desc list = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t i, count;
    char path[TEST_PATH + 300], longest[256], *found;
    must_save(storage, &forms[0], "q", 3, 0);
    memset(longest, 'x', 255);
    memcpy(longest + 255 - 14, ".metadata.json", 15);
    for (i = 0; i <= DCPI_COUNT(names); i++) {
        FILE *file;
        (void)snprintf(path, sizeof path, "%s/%s", dir, i < DCPI_COUNT(names) ? names[i] : longest);
        file = fopen(path, "wb");
        CHECK(file != NULL && fputs("hostile", file) >= 0 && fclose(file) == 0);
    }
    io_make(&list.io, storage);
    CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
    CHECK(count >= 2);
    for (i = 0; i < count; i++)
        CHECK((entries[i].status == DCP_OK) == (strcmp(entries[i].path, "q.metadata.json") == 0));
    dcp_free(entries);
    found = newest(storage);
    CHECK_STR(found, "q.metadata.json");
    dcp_free(found);
    CHECK_OK_MESSAGE(sweep_all(storage, NULL, &err), err.message);
    CHECK_INT(generation_at(storage, &forms[0], "q"), 3);
    must_save(storage, &forms[0], "q", 4, 1);
    CHECK_INT(generation_at(storage, &forms[0], "q"), 4);
    dcp_storage_close(storage);
}
#endif
int main(void) {
    RUN(memory_fails_in_saves);
    RUN(memory_fails_in_loads);
    RUN(memory_fails_in_directories);
    RUN(memory_fails_in_a_long_list);
    RUN(memory_fails_in_documents);
    RUN(memory_fails_in_storages);
    RUN(memory_fails_beside_workers);
    RUN(storage_fails_in_saves);
    RUN(storage_fails_beside_workers);
    RUN(what_is_missed_once_is_not_swept);
    RUN(transient_errors_are_retried_into_new_files);
    RUN(other_errors_are_not_retried);
    RUN(retries_can_be_switched_off);
#ifndef _WIN32
    RUN(pauses_between_attempts_are_bounded);
    RUN(pauses_between_attempts_of_a_load_are_drawn);
#endif
    RUN(a_shard_that_is_not_as_it_was_written_is_not_committed);
    RUN(a_rename_that_happened_counts);
    RUN(a_first_save_that_may_have_happened_leaves_the_plain_names_alone);
    RUN(a_failed_directory_sync_after_the_rename_is_unknown);
    RUN(a_shard_that_came_out_short_is_noticed);
    RUN(reads_that_come_out_short_are_noticed);
    RUN(storage_fails_in_loads);
    RUN(storage_fails_in_directories);
    RUN(what_a_storage_does_not_find_is_no_first_start);
    RUN(every_instant_has_the_old_or_the_new_one);
    RUN(directories_are_synced_before_the_next_step);
    RUN(cancelled_in_every_call_of_a_save);
    RUN(cancelled_in_every_call_of_the_rest);
    RUN(cancelled_by_the_progress_callback);
    RUN(a_cancelled_save_stops_soon);
    RUN(a_deadline_ends_a_save_on_a_slow_storage);
    RUN(a_deadline_ends_a_load_on_a_slow_storage);
    RUN(every_bit_is_covered);
    RUN(bits_of_wide_gaps_are_covered);
    RUN(bits_in_files_are_covered);
    RUN(every_length_is_checked);
    RUN(exchanged_shards_are_noticed);
    RUN(a_stale_shard_is_noticed);
    RUN(two_exchanged_shards_of_one_document_are_noticed);
    RUN(a_document_of_ours_without_its_tail_is_refused);
    RUN(a_stripped_tail_is_noticed);
    RUN(tails_on_the_disk);
    RUN(tails_in_memory);
    RUN(two_threads_save_one_path);
#ifndef _WIN32
    RUN(two_processes_save_one_path);
#endif
    RUN(two_threads_overwrite_one_path);
    RUN(two_paths_of_one_directory_do_not_disturb_each_other);
    RUN(sweep_and_prune_beside_saves);
    RUN(latest_and_list_while_the_checkpoint_is_replaced);
    RUN(a_tensor_that_changes_during_its_save_still_verifies);
    RUN(a_reader_never_sees_a_mixture);
    RUN(sweep_knows_its_own_names);
    RUN(sweep_beside_an_unreadable_commit_file_takes_only_temporary_ones);
#ifndef _WIN32
    RUN(sweep_leaves_young_files_alone);
    RUN(sweep_never_touches_what_is_no_file);
    RUN(commit_files_that_are_no_files_are_refused);
    RUN(commit_files_that_are_no_files_are_refused_in_the_other_layout);
    RUN(shards_that_are_no_files_are_refused);
    RUN(a_directory_on_the_way_that_is_a_link_is_not_followed);
#endif
    RUN(empty_documents_are_refused_and_replaced);
#ifndef _WIN32
    RUN(a_terabyte_document_takes_no_memory);
    RUN(a_terabyte_single_file_takes_no_memory);
    RUN(large_files_that_are_no_metadata_take_no_memory);
    RUN(large_files_that_are_no_manifests_take_no_memory);
    RUN(large_files_that_are_no_yaml_take_no_memory);
    RUN(a_terabyte_shard_takes_no_memory);
    RUN(a_promised_terabyte_ends_at_the_deadline);
    RUN(hostile_names_in_a_directory);
#endif
    RUN(monstrous_counts_take_no_memory);
    return test_finish();
}
