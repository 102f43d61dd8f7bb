/* test_rank_faults.c: saves and loads over many ranks when something goes wrong on some of them.
 *
 * One rank fails, disagrees, dies, stops, is slow, has no memory; messages are late or lost; others save, sweep and
 * read meanwhile. Each time: every rank that lives returns in time, never DCP_OK beside a failure (G5, G6); the old
 * checkpoint or the new one loads wholly (G1, G2); the next save works, and nothing is left that dcp_sweep does not
 * remove (G9). Ranks are threads, or processes that are killed and stopped. */
#if !defined(_WIN32)
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE                     /* as dcp.h does, which is too late for it here */
#endif
#include <pthread.h>
static int hungry_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
#define pthread_create(id, attributes, run, argument) hungry_create(id, attributes, run, argument)
#endif
#include <stddef.h>
static void *hungry_malloc(size_t size);
static void *hungry_realloc(void *memory, size_t size);
static void hungry_free(void *memory);
#define DCP_MALLOC(size) hungry_malloc(size)
#define DCP_REALLOC(memory, size) hungry_realloc(memory, size)
#define DCP_FREE(memory) hungry_free(memory)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "doing.h"

#if DCP_NO_THREADS || defined(_WIN32)
static void *hungry_malloc(size_t size) { return malloc(size); }
static void *hungry_realloc(void *memory, size_t size) { return realloc(memory, size); }
static void hungry_free(void *memory) { free(memory); }
int main(void) {
    puts("skipped test_rank_faults: needs threads and processes that can be stopped\n0 passed, 0 failed, 1 skipped");
    return 0;
}
#else
#include "fault_storage.h"
#include "fault_coordinator.h"
#include "process_group.h"
#include "rank_threads.h"

/* ---- memory: counts what lives, and fails for one rank when told ------------------------------------------------- */
typedef struct hunger { int who; int64_t calls, fail_at; int tripped; } hunger;
static pthread_mutex_t hungry_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t hungry_live;             /* blocks */
static hunger *hungry_one;              /* NULL: nobody is */
/* from this request on the whole process gets nothing any more; 0: it does */
static int64_t starving_from, starving_calls;

/* The thread of the hungry rank, and what that starts. */
static __thread int hungry_here;
typedef struct hungry_start { void *(*run)(void *); void *argument; int is_hungry; } hungry_start;
static void *hungry_main(void *start) {
    hungry_start s = *(hungry_start *)start;
    free(start);
    hungry_here = s.is_hungry;
    return s.run(s.argument);
}
#undef pthread_create
static int hungry_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    hungry_start *s = (hungry_start *)malloc(sizeof *s);
    int error;
    if (!s) return ENOMEM;
    s->run = run;
    s->argument = argument;
    s->is_hungry = hungry_here;
    error = pthread_create(id, attributes, hungry_main, s);
    if (error) free(s);
    return error;
}

static int hungry_refuses(void) {       /* under the lock */
    hunger *h = hungry_one;
    if (starving_from && ++starving_calls >= starving_from) return 1;
    if (!h || h->fail_at == 0 || !hungry_here) return 0;
    if (++h->calls != h->fail_at) return 0;
    return h->tripped = 1;
}
static void *hungry_realloc(void *memory, size_t size) {
    void *block = NULL;
    (void)pthread_mutex_lock(&hungry_lock);
    if (!hungry_refuses()) block = realloc(memory, size);
    if (block && !memory) hungry_live++;
    (void)pthread_mutex_unlock(&hungry_lock);
    return block;
}
static void *hungry_malloc(size_t size) { return hungry_realloc(NULL, size ? size : 1); }
static void hungry_free(void *memory) {
    if (!memory) return;
    (void)pthread_mutex_lock(&hungry_lock);
    hungry_live--;
    (void)pthread_mutex_unlock(&hungry_lock);
    free(memory);
}
static int64_t hungry_count(void) {
    int64_t live;
    (void)pthread_mutex_lock(&hungry_lock);
    live = hungry_live;
    (void)pthread_mutex_unlock(&hungry_lock);
    return live;
}

/* ---- what is saved: a generation fills all tensors of all ranks with values that only it has --------------------- */
enum { RANKS = 8, BIG = 16384, SMALL = 300 };           /* elements of a rank's part of "w"; of "b" and "p" */
static const char *const P = "run/x";

static uint32_t value_w(uint32_t gen, int64_t i) { return gen * 1000003u + (uint32_t)i; }
static uint32_t value_b(uint32_t gen, int64_t i) { return gen * 7919u + (uint32_t)i * 3u; }
static uint32_t value_p(uint32_t gen, int rank, int64_t i) {
    return gen * 104729u + (uint32_t)rank * 1000u + (uint32_t)i;
}

typedef struct state { uint32_t w[BIG], b[SMALL], p[SMALL]; dcp_tensor tensors[4]; } state;
static state *state_make(uint32_t gen, int rank, int ranks) {
    state *s = (state *)must(calloc(1, sizeof *s));
    int64_t part = BIG, small = SMALL, whole = (int64_t)BIG * ranks, at = (int64_t)BIG * rank;
    int i;
    for (i = 0; i < BIG; i++) s->w[i] = value_w(gen, at + i);
    for (i = 0; i < SMALL; i++) { s->b[i] = value_b(gen, i); s->p[i] = value_p(gen, rank, i); }
    s->tensors[0] = dcp_array("w", DCP_UINT32, s->w, 1, &part);
    dcp_piece(&s->tensors[0], &whole, &at);
    s->tensors[1] = dcp_array("b", DCP_UINT32, s->b, 1, &small);
    s->tensors[1].placement = DCP_PLACE_REPLICATED;
    s->tensors[2] = dcp_array("p", DCP_UINT32, s->p, 1, &small);
    s->tensors[2].placement = DCP_PLACE_PRIVATE;
    return s;
}

/* ---- a job: n ranks, each a thread, that run one function -------------------------------------------------------- */
typedef struct job job;
typedef void (*rank_fn)(job *j, int rank);
struct job {
    int ranks, keeps;                                   /* keeps: the coordinators stay open for the next job_run */
    rank_fn fn;
    void *user;
    dcp_storage *storage[RANKS];                        /* one for each rank: they may fail in different ways */
    dcp_coordinator *coordinators[RANKS];
    dcp_status status[RANKS];
    dcp_error err[RANKS];
    int64_t took_ms[RANKS];
    dcp_save_desc desc;                                 /* of saves: what all ranks have in common */
    uint32_t gen;                                       /* to save */
    void (*twist)(job *j, int rank, dcp_save_desc *desc, state *s);         /* what a rank does otherwise */
};
static void job_rank(void *user, int rank) {
    job *j = (job *)user;
    const int64_t began = dcpi_os_monotonic_ms();
    j->fn(j, rank);
    j->took_ms[rank] = dcpi_os_monotonic_ms() - began;
}
static void job_open(job *j, int ranks) {
    dcp_error err;
    j->ranks = ranks;
    CHECK_OK_MESSAGE(dcp_thread_group_open(ranks, j->coordinators, &err), err.message);
}
static void job_close(job *j) {
    int r;
    for (r = 0; r < j->ranks; r++) {
        dcp_coordinator_close(j->coordinators[r]);
        j->coordinators[r] = NULL;
    }
}
static void job_run(job *j, rank_fn fn) {
    j->fn = fn;
    run_ranks(j->ranks, job_rank, j);
}
static void job_storage(job *j, dcp_storage *storage) {
    int r;
    for (r = 0; r < RANKS; r++) j->storage[r] = storage;
}
static dcp_status rank_save(const dcp_save_desc *common, dcp_storage *storage, dcp_coordinator *c, uint32_t gen, job *j,
                            dcp_error *err) {
    dcp_save_desc desc = *common;
    const int rank = c ? c->rank : 0, ranks = c ? c->world_size : 1;
    state *s = state_make(gen, rank, ranks);
    dcp_status status;
    if (!desc.path) desc.path = P;
    if (!desc.io.timeout_ms) desc.io.timeout_ms = 20000;
    if (!desc.io.retry.first_ms) desc.io.retry.first_ms = 1;
    desc.tensors = s->tensors;
    desc.tensor_count = 3;
    desc.io.storage = storage;
    desc.io.coordinator = c;
    if (j && j->twist) j->twist(j, rank, &desc, s);
    status = dcp_save(&desc, err);
    free(s);
    return status;
}
static void job_save(job *j, int rank) {
    j->status[rank] = rank_save(&j->desc, j->storage[rank], j->coordinators[rank], j->gen, j, &j->err[rank]);
}
static void check_quick_at(const job *j, int64_t most_ms, int line) {
    char text[200];
    int r;
    for (r = 0; r < j->ranks; r++) {
        if (j->took_ms[r] <= most_ms) continue;
        (void)snprintf(text, sizeof text, "rank %d took %lld ms, at most %lld are allowed", r, (long long)j->took_ms[r],
                       (long long)most_ms);
        test_fail(__FILE__, line, text, "");
    }
}
static int slowness(void) { return test_is_sanitized() ? 4 : 1; }
#define check_quick(j, most_ms) check_quick_at(j, (int64_t)(most_ms) * slowness(), __LINE__)

/* ---- what is there ----------------------------------------------------------------------------------------------- */
/* One rank reads all of the checkpoint: which generation it is, 0 if the bytes are of more than one, or wrong. */
static dcp_status load_gen(dcp_storage *storage, const char *path, dcp_verify_policy verify, uint32_t *gen,
                           dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_tensor w = DCP_ZERO, b = DCP_ZERO, p = DCP_ZERO;
    dcp_status status;
    int64_t i, n = 0, ranks = 0, r;
    int wrong = 0;
    *gen = 0;
    desc.path = path;
    desc.verify = verify;
    desc.io.storage = storage;
    status = dcp_open(&desc, &c, err);
    if (status) return status;
    status = dcp_read_new(c, "w", &w, err);
    if (!status) status = dcp_read_new(c, "b", &b, err);
    if (!status) {
        const uint32_t *bytes = (const uint32_t *)b.data, *words = (const uint32_t *)w.data;
        for (*gen = 1; *gen < 100000 && bytes[0] != value_b(*gen, 0); ++*gen) {}
        n = w.shape[0];
        ranks = n / BIG;
        for (i = 0; i < n; i++) wrong |= words[i] != value_w(*gen, i);
        for (i = 0; i < SMALL; i++) wrong |= bytes[i] != value_b(*gen, i);
    }
    for (r = 0; r < ranks && !status; r++) {
        uint32_t private_one[SMALL];
        n = SMALL;
        p = dcp_array("p", DCP_UINT32, private_one, 1, &n);
        p.placement = DCP_PLACE_PRIVATE;
        status = dcp_read_rank(c, (int)r, &p, 1, err);
        for (i = 0; i < SMALL && !status; i++) wrong |= private_one[i] != value_p(*gen, (int)r, i);
    }
    if (wrong) *gen = 0;
    dcp_free(w.data);
    dcp_free(b.data);
    dcp_close(c);
    return status;
}
static uint32_t must_load_at(dcp_storage *storage, int line) {
    dcp_error err;
    uint32_t gen;
    dcp_status status = load_gen(storage, P, DCP_VERIFY_ALL, &gen, &err);
    if (status) test_fail(__FILE__, line, "the checkpoint does not load: ", err.message);
    if (gen == 0) test_fail(__FILE__, line, "the checkpoint holds bytes of several saves", "");
    return gen;
}
#define must_load(storage) must_load_at(storage, __LINE__)

typedef struct listing { int count; char names[64][120]; } listing;
static dcp_status listing_add(void *user, const char *path, const dcp_object_info *info) {
    listing *l = (listing *)user;
    (void)info;
    if (l->count < 64) (void)snprintf(l->names[l->count++], sizeof l->names[0], "%s", path);
    return DCP_OK;
}
static listing list_files(dcp_storage *storage) {
    listing l;
    dcp_error err;
    memset(&l, 0, sizeof l);
    (void)storage->list(storage->context, "run", DCP_LIST_OBJECTS, listing_add, &l, &err);
    return l;
}
/* There is one checkpoint, and no file that it does not name. */
static void check_clean_at(dcp_storage *storage, int ranks, dcp_layout layout, int line) {
    const listing l = list_files(storage);
    const int wanted = layout == DCP_LAYOUT_SINGLE ? 1 : ranks + 1;
    char text[1500] = "left behind, or lost:";
    int i;
    if (l.count == wanted) return;
    for (i = 0; i < l.count; i++) (void)snprintf(text + strlen(text), sizeof text - strlen(text), " %s", l.names[i]);
    test_fail(__FILE__, line, text, "");
}
#define check_clean(storage, ranks, layout) check_clean_at(storage, ranks, layout, __LINE__)
/* All that no checkpoint names, however young; how many files that were. */
static size_t sweep_all(dcp_storage *storage) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removed;
    dcp_error err;
    size_t files;
    desc.directory = "run";
    desc.grace_seconds = -1;
    desc.plain_names = 1;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_sweep(&desc, &removed, &err), err.message);
    files = removed.path_count;
    dcp_removal_free(&removed);
    return files;
}
static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE };
static const char *layout_name(dcp_layout layout) { return layout == DCP_LAYOUT_SINGLE ? "single file" : "sharded"; }
/* A job over memory, or over the test's directory if it has one, with one checkpoint, of generation 1. */
/* j->desc may have options */
static void job_begin_as(job *j, int ranks, dcp_layout layout, dcp_storage **storage) {
    dcp_error err;
    if (test_state.dirs) CHECK_OK_MESSAGE(dcp_storage_local(test_state.dir[0], storage, &err), err.message);
    else CHECK_OK_MESSAGE(dcp_storage_memory(storage, &err), err.message);
    job_storage(j, *storage);
    j->desc.layout = layout;
    j->desc.overwrite = 1;
    j->gen = 1;
    job_open(j, ranks);
    job_run(j, job_save);
    check_all(j, DCP_OK, "");
    CHECK_INT(must_load(*storage), 1);
}
static void job_begin(job *j, int ranks, dcp_layout layout, dcp_storage **storage) {
    memset(j, 0, sizeof *j);
    job_begin_as(j, ranks, layout, storage);
}
/* The next save, with the same coordinators, works and leaves nothing but itself. */
static void job_goes_on(job *j, dcp_storage *storage, uint32_t gen) {
    job_storage(j, storage);
    j->twist = NULL;
    j->gen = gen;
    job_run(j, job_save);
    check_all(j, DCP_OK, "");
    CHECK_INT(must_load(storage), gen);
    check_clean(storage, j->ranks, j->desc.layout);
}

/* ---- one rank alone fails ---------------------------------------------------------------------------------------- */
typedef enum ill {
    ILL_TENSOR, ILL_OPTION, ILL_SPACE, ILL_ACCESS, ILL_READ_ONLY, ILL_IO, ILL_COMMIT, ILL_CANCELLED, ILL_CANCELLED_LATE,
        ILL_LATE, ILLS
} ill;
typedef struct illness { ill what; int who; dcp_cancel cancel; } illness;
static const char *const ill_names[] = { "a bad tensor", "a bad option", "no space", "no access", "read-only",
                                         "I/O errors", "no commit", "cancelled", "cancelled while writing",
                                         "a missed deadline" };
static const int ill_errno[] = { 0, 0, ENOSPC, EACCES, EROFS, EIO, EIO, 0, 0, 0 };
static void ill_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    illness *i = (illness *)user;
    (void)key; (void)call;
    if (kind != FAULT_WRITE || is_done) return;
    if (i->what == ILL_CANCELLED_LATE) dcp_cancel_request(&i->cancel);
    if (i->what == ILL_LATE) dcpi_os_sleep_ms(400 * slowness());
}
static void ill_twist(job *j, int rank, dcp_save_desc *desc, state *s) {
    illness *i = (illness *)j->user;
    if (rank != i->who) return;
    if (i->what == ILL_TENSOR) s->tensors[1].ndim = 9;
    if (i->what == ILL_OPTION) desc->alignment = 65;
    if (i->what == ILL_CANCELLED || i->what == ILL_CANCELLED_LATE) desc->io.cancel = &i->cancel;
    if (i->what == ILL_LATE) desc->io.deadline_ms = 200 * slowness();
}
static dcp_status ill_status(ill what) {
    switch (what) {
        case ILL_TENSOR: case ILL_OPTION: return DCP_E_INVALID;
        case ILL_CANCELLED: case ILL_CANCELLED_LATE: return DCP_E_CANCELLED;
        case ILL_LATE: return DCP_E_TIMEOUT;
        default: return dcpi_os_status(ill_errno[what]);
    }
}
static void ill_case(dcp_layout layout, ill what, int who) {
    dcp_storage *storage;
    fault_storage faulty;
    illness i = { ILL_TENSOR, 0, { 0 } };
    char word[20];
    job j;
    int r;
    doing("%s, %s on rank %d", layout_name(layout), ill_names[what], who);
    job_begin(&j, 4, layout, &storage);
    i.what = what;
    i.who = who;
    if (what == ILL_CANCELLED) dcp_cancel_request(&i.cancel);
    fault_open(&faulty, storage);
    if (ill_errno[what])
        fault_set(&faulty, what == ILL_COMMIT ? FAULT_COMMIT : what == ILL_ACCESS ? FAULT_BEGIN : FAULT_WRITE, 1,
                  1000000, ill_errno[what]);
    faulty.hook = ill_hook;
    faulty.user = &i;
    j.storage[who] = &faulty.storage;
    j.user = &i;
    j.twist = ill_twist;
    j.gen = 2;
    job_run(&j, job_save);
    (void)snprintf(word, sizeof word, "rank %d", who);
    check_all(&j, ill_status(what), what == ILL_COMMIT && who == 0 ? "run/x" : word);
    for (r = 0; r < j.ranks; r++) CHECK_INT(j.err[r].rank, who);
    check_quick(&j, 1500);
    CHECK_INT(must_load(storage), 1);
    check_clean(storage, 4, layout);
    job_goes_on(&j, storage, 3);
    job_close(&j);
    fault_close(&faulty);
    dcp_storage_close(storage);
}
TEST(one_rank_that_fails_is_everyones_failure) {
    size_t l;
    int what, who;
    for (l = 0; l < DCPI_COUNT(layouts); l++)
        for (what = 0; what < ILLS; what++)
            for (who = 0; who < 4; who += who ? 2 : 1) {
                if (layouts[l] == DCP_LAYOUT_SINGLE && who > 0 && (ill_errno[what] || what == ILL_LATE ||
                                                                   what == ILL_CANCELLED_LATE)) continue;
                ill_case(layouts[l], (ill)what, who);
            }
    done_doing();
}

/* A rank may fail after its part of a round, while rank 0 is still at work with what the rank has sent: here it is
 * cancelled at each call of rank 0's storage. */
typedef struct late_cancel { dcp_cancel cancel; int at, calls, rank; } late_cancel;
static void late_cancel_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    late_cancel *c = (late_cancel *)user;
    (void)kind; (void)key; (void)call;
    if (is_done || ++c->calls != c->at) return;
    dcp_cancel_request(&c->cancel);
    dcpi_os_sleep_ms(3 * DCPI_TEAM_SLICE_MS * slowness());
}
static void late_cancel_twist(job *j, int rank, dcp_save_desc *desc, state *s) {
    late_cancel *c = (late_cancel *)j->user;
    (void)s;
    if (rank == c->rank) desc->io.cancel = &c->cancel;
}
/* Whether the save got as far as that call. */
static int late_cancel_case(dcp_layout layout, int at, int *cancelled) {
    dcp_storage *storage;
    fault_storage slow;
    late_cancel c;
    job j;
    memset(&c, 0, sizeof c);
    c.at = at;
    c.rank = 1 + at % 2;
    doing("layout %d, rank %d is cancelled in call %d of rank 0's storage", (int)layout, c.rank, at);
    job_begin(&j, 3, layout, &storage);
    fault_open(&slow, storage);
    slow.hook = late_cancel_hook;
    slow.user = &c;
    j.storage[0] = &slow.storage;
    j.user = &c;
    j.twist = late_cancel_twist;
    j.gen = 2;
    job_run(&j, job_save);
    if (j.status[0] != DCP_OK) {
        char word[40];
        (void)snprintf(word, sizeof word, "rank %d: cancelled", c.rank);
        check_all(&j, DCP_E_CANCELLED, word);
        CHECK_INT(must_load(storage), 1);
        ++*cancelled;
    } else {
        check_all(&j, DCP_OK, "");
        CHECK_INT(must_load(storage), 2);
    }
    CHECK_INT((int64_t)sweep_all(storage), 0);
    job_close(&j);
    fault_close(&slow);
    dcp_storage_close(storage);
    return c.calls >= at;
}
TEST(a_rank_that_fails_after_its_part_of_a_round_is_heard) {
    int layout, at, cancelled;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        for (at = 1, cancelled = 0; late_cancel_case((dcp_layout)layout, at, &cancelled); at++) {}
        CHECK(cancelled > 3 && cancelled < at - 1);
    }
    done_doing();
}

/* ---- ranks that disagree ----------------------------------------------------------------------------------------- */
typedef enum other {
    OTHER_PATH, OTHER_LAYOUT, OTHER_CHECKSUM, OTHER_ALIGNMENT, OTHER_OVERWRITE, OTHER_HOLES, OTHERS
} other;
static void other_twist(job *j, int rank, dcp_save_desc *desc, state *s) {
    const int *what = (const int *)j->user;             /* what, who */
    (void)s;
    if (rank != what[1]) return;
    switch (what[0]) {
        case OTHER_PATH: desc->path = "run/y"; break;
        case OTHER_LAYOUT:
            desc->layout = desc->layout == DCP_LAYOUT_SINGLE ? DCP_LAYOUT_SHARDED : DCP_LAYOUT_SINGLE; break;
        case OTHER_CHECKSUM: desc->checksum = DCP_CHECKSUM_FLAT; break;
        case OTHER_ALIGNMENT: desc->alignment = 4096; break;
        case OTHER_OVERWRITE: desc->overwrite = 0; break;
        default: desc->allow_holes = 1; break;
    }
}
TEST(ranks_that_save_something_else_are_a_mismatch) {
    int what[2], l;
    for (l = 0; l < 2; l++)
        for (what[0] = 0; what[0] < OTHERS; what[0]++)
            for (what[1] = 0; what[1] < 3; what[1]++) {
                dcp_storage *storage;
                job j;
                doing("%s, option %d on rank %d", layout_name(layouts[l]), what[0], what[1]);
                job_begin(&j, 3, layouts[l], &storage);
                j.user = what;
                j.twist = other_twist;
                j.gen = 2;
                job_run(&j, job_save);
                check_all(&j, DCP_E_MISMATCH, what[1] == 2 ? "ranks 0 and 2" : "ranks 0 and 1");
                check_quick(&j, 1000);
                CHECK_INT(must_load(storage), 1);
                check_clean(storage, 3, layouts[l]);
                job_goes_on(&j, storage, 3);
                job_close(&j);
                dcp_storage_close(storage);
            }
    done_doing();
}

/* Ranks that set tensors and count none: fine where another rank gives some, DCP_E_INVALID on all where nobody does. */
static void uncounted_twist(job *j, int rank, dcp_save_desc *desc, state *s) {
    const int *what = (const int *)j->user;             /* who sets its list, who counts it; bits */
    (void)s;
    desc->allow_holes = 1;
    if (!(what[0] >> rank & 1)) desc->tensors = NULL;
    if (!(what[1] >> rank & 1)) desc->tensor_count = 0;
}
static void uncounted_load(job *j, int rank) {
    const int *what = (const int *)j->user;
    dcp_load_desc load = DCP_ZERO;
    dcp_tensor t = DCP_ZERO;
    uint32_t b[SMALL] = {0};
    int64_t shape[] = { SMALL };
    t = dcp_array("b", DCP_UINT32, b, 1, shape);
    load.path = P;
    load.tensors = what[0] >> rank & 1 ? &t : NULL;
    load.tensor_count = what[1] >> rank & 1;
    load.io.storage = j->storage[rank];
    load.io.coordinator = j->coordinators[rank];
    j->status[rank] = dcp_load(&load, &j->err[rank]);
}
TEST(tensors_that_no_rank_counts_are_found) {
    static const int sets[][2] = { { 7, 0 }, { 1, 0 }, { 4, 0 }, { 0, 0 }, { 7, 1 }, { 7, 4 }, { 6, 2 } };
    int layout;
    size_t k;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
        for (k = 0; k < DCPI_COUNT(sets); k++) {
            const int is_invalid = sets[k][0] != 0 && sets[k][1] == 0;
            int what[2];
            dcp_storage *storage;
            job j;
            doing("layout %d, sets %d, counts %d", layout, sets[k][0], sets[k][1]);
            what[0] = sets[k][0];
            what[1] = sets[k][1];
            job_begin(&j, 3, (dcp_layout)layout, &storage);
            j.user = what;
            job_run(&j, uncounted_load);
            check_all(&j, is_invalid ? DCP_E_INVALID : DCP_OK, is_invalid ? "tensor_count" : "");
            j.twist = uncounted_twist;
            j.gen = 2;
            job_run(&j, job_save);
            check_all(&j, is_invalid ? DCP_E_INVALID : DCP_OK, is_invalid ? "tensor_count" : "");
            if (is_invalid) CHECK_INT(must_load(storage), 1);
            job_close(&j);
            dcp_storage_close(storage);
        }
    done_doing();
}

/* Calls that ranks may mix up. */
typedef enum call { CALL_SAVE, CALL_LOAD, CALL_LOAD_OTHER, CALL_OPEN, CALL_LATEST, CALL_LATEST_OTHER, CALL_SWEEP,
                    CALL_SWEEP_DRY, CALL_PRUNE, CALL_REMOVE, CALL_REMOVE_OTHER, CALLS } call;
static const char *const call_names[] = { "save", "load", "load another", "open", "latest", "latest elsewhere", "sweep",
                                          "sweep dry", "prune", "remove", "remove another" };
static dcp_status call_load(const dcp_io *io, const char *path, dcp_error *err) {
    dcp_load_desc desc = DCP_ZERO;
    desc.path = path;
    desc.io = *io;
    return dcp_load(&desc, err);
}
static dcp_status call_open(const dcp_io *io, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_status status;
    desc.path = P;
    desc.io = *io;
    status = dcp_open(&desc, &c, err);
    dcp_close(c);
    return status;
}
static dcp_status call_latest(const dcp_io *io, const char *directory, dcp_error *err) {
    dcp_latest_desc desc = DCP_ZERO;
    char *path;
    dcp_status status;
    desc.directory = directory;
    desc.io = *io;
    status = dcp_latest(&desc, &path, err);
    dcp_free(path);
    return status;
}
static dcp_status call_sweep(const dcp_io *io, int dry_run, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    desc.directory = "run";
    desc.dry_run = dry_run;
    desc.io = *io;
    return dcp_sweep(&desc, NULL, err);
}
static dcp_status call_prune(const dcp_io *io, dcp_error *err) {
    dcp_prune_desc desc = DCP_ZERO;
    desc.directory = "run";
    desc.io = *io;
    return dcp_prune(&desc, NULL, err);
}
static dcp_status call_remove(const dcp_io *io, const char *path, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = path;
    desc.io = *io;
    return dcp_remove(&desc, NULL, err);
}
static void mixed_call(job *j, int rank) {
    const int *what = (const int *)j->user;             /* the call of all but rank what[2], and its call */
    dcp_io io = DCP_ZERO;
    dcp_error *err = &j->err[rank];
    dcp_status *status = &j->status[rank];
    io.storage = j->storage[rank];
    io.coordinator = j->coordinators[rank];
    io.timeout_ms = 20000;
    switch (rank == what[2] ? what[1] : what[0]) {
        case CALL_SAVE: job_save(j, rank); break;
        case CALL_LOAD: *status = call_load(&io, P, err); break;
        case CALL_LOAD_OTHER: *status = call_load(&io, "run/y", err); break;
        case CALL_OPEN: *status = call_open(&io, err); break;
        case CALL_LATEST: *status = call_latest(&io, "run", err); break;
        case CALL_LATEST_OTHER: *status = call_latest(&io, "elsewhere", err); break;
        case CALL_SWEEP: *status = call_sweep(&io, 0, err); break;
        case CALL_SWEEP_DRY: *status = call_sweep(&io, 1, err); break;
        case CALL_PRUNE: *status = call_prune(&io, err); break;
        case CALL_REMOVE: *status = call_remove(&io, P, err); break;
        default: *status = call_remove(&io, "run/y", err); break;
    }
}
/* The calls on a checkpoint: the others do the first, one rank the second. */
static void mixed_read(job *j, int rank) {
    const int *what = (const int *)j->user;
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    desc.path = P;
    desc.io.storage = j->storage[rank];
    desc.io.coordinator = j->coordinators[rank];
    desc.io.timeout_ms = 20000;
    j->status[rank] = dcp_open(&desc, &c, &j->err[rank]);
    if (j->status[rank]) return;
    switch (rank == what[2] ? what[1] : what[0]) {
        case 0: j->status[rank] = dcp_read(c, NULL, 0, &j->err[rank]); break;
        case 1: j->status[rank] = dcp_read_rank(c, 1, NULL, 0, &j->err[rank]); break;
        case 2: j->status[rank] = dcp_read_rank(c, 7, NULL, 0, &j->err[rank]); break;
        case 3: j->status[rank] = dcp_read_rank(c, -1, NULL, 0, &j->err[rank]); break;
        case 4: j->status[rank] = dcp_verify(c, &j->err[rank]); break;
        default: job_save(j, rank); break;
    }
    dcp_close(c);
}
TEST(ranks_in_different_reads_are_a_mismatch) {
    int what[3];
    dcp_storage *storage;
    job j;
    job_begin(&j, 3, DCP_LAYOUT_SHARDED, &storage);
    j.user = what;
    j.gen = 2;
    for (what[0] = 0; what[0] < 6; what[0]++)
        for (what[1] = 0; what[1] < 6; what[1]++)
            for (what[2] = 0; what[2] < 3 && what[0] != what[1]; what[2]++) {
                /* of any rank's tensors */
                const int both_read = (what[0] == 0 || what[0] == 1) && (what[1] == 0 || what[1] == 1);
                const int bad = what[0] == 2 || what[0] == 3 || what[1] == 2 || what[1] == 3;
                doing("calls %d, and %d of rank %d", what[0], what[1], what[2]);
                job_run(&j, mixed_read);
                check_all(&j, both_read ? DCP_OK : bad ? j.status[0] : DCP_E_MISMATCH, bad || both_read ? "" : "rank");
                CHECK(both_read || j.status[0] == DCP_E_INVALID || j.status[0] == DCP_E_MISMATCH);
                check_quick(&j, 1000);
            }
    done_doing();
    CHECK_INT(must_load(storage), 1);
    job_goes_on(&j, storage, 3);
    job_close(&j);
    dcp_storage_close(storage);
}
TEST(ranks_in_different_calls_are_a_mismatch) {
    int what[3];
    for (what[0] = 0; what[0] < CALLS; what[0]++)
        for (what[1] = what[0] + 1; what[1] < CALLS; what[1]++)
            for (what[2] = (what[0] + what[1]) % 2 * 2; what[2] < 3; what[2] += 3) {        /* the first or the last */
                dcp_storage *storage;
                job j;
                doing("%s, and rank %d %s", call_names[what[0]], what[2], call_names[what[1]]);
                job_begin(&j, 3, DCP_LAYOUT_SHARDED, &storage);
                j.user = what;
                j.gen = 2;
                job_run(&j, mixed_call);
                check_all(&j, DCP_E_MISMATCH, "rank");
                check_quick(&j, 1000);
                CHECK_INT(must_load(storage), 1);
                check_clean(storage, 3, DCP_LAYOUT_SHARDED);
                job_goes_on(&j, storage, 3);
                job_close(&j);
                dcp_storage_close(storage);
            }
    done_doing();
}

/* ---- tensors that do not fit together ---------------------------------------------------------------------------- */
typedef enum unfit {
    UNFIT_TYPE, UNFIT_SHAPE, UNFIT_DIMS, UNFIT_REPLICA_SHAPE, UNFIT_PLACEMENT, UNFIT_OVERLAP, UNFIT_HOLE, UNFIT_TWICE,
        UNFITS
} unfit;
static const struct { dcp_status status; const char *tensor, *words; } unfit_results[] = {
    { DCP_E_MISMATCH, "\"w\"", "data types" }, { DCP_E_MISMATCH, "\"w\"", "global shapes" },
        { DCP_E_MISMATCH, "\"w\"", "numbers of dimensions" },
    { DCP_E_MISMATCH, "\"b\"", "shapes" }, { DCP_E_MISMATCH, "\"p\"", "placements" },
    { DCP_E_MISMATCH, "\"w\"", "overlap" },
    { DCP_E_INCOMPLETE, "\"w\"", "no piece holds" }, { DCP_E_INVALID, "\"w\"", "twice" } };
static void unfit_twist(job *j, int rank, dcp_save_desc *desc, state *s) {
    const int *what = (const int *)j->user;             /* what, who */
    dcp_tensor *w = &s->tensors[0];
    if (rank != what[1]) return;
    switch (what[0]) {
        case UNFIT_TYPE: w->dtype = DCP_FP32; break;
        case UNFIT_SHAPE: w->global_shape[0] += 5; break;
        case UNFIT_DIMS: w->ndim = 2; w->shape[1] = w->global_shape[1] = 1; break;
        case UNFIT_REPLICA_SHAPE: s->tensors[1].shape[0]--; break;
        case UNFIT_PLACEMENT: s->tensors[2].placement = DCP_PLACE_REPLICATED; break;
        case UNFIT_OVERLAP: w->global_offset[0] += rank ? -1 : 1; break;
        case UNFIT_HOLE: desc->tensors = s->tensors + 1; desc->tensor_count = 2; break;
        default: s->tensors[3] = *w; desc->tensor_count = 4; break;
    }
}
TEST(tensors_that_do_not_fit_together_are_named_with_their_ranks) {
    int what[2], l;
    for (l = 0; l < 2; l++)
        for (what[0] = 0; what[0] < UNFITS; what[0]++)
            for (what[1] = 0; what[1] < 4; what[1] += what[1] ? 2 : 1) {
                dcp_storage *storage;
                char word[20];
                job j;
                doing("%s, %s on rank %d", layout_name(layouts[l]), unfit_results[what[0]].words, what[1]);
                job_begin(&j, 4, layouts[l], &storage);
                j.user = what;
                j.twist = unfit_twist;
                j.gen = 2;
                job_run(&j, job_save);
                check_all(&j, unfit_results[what[0]].status, unfit_results[what[0]].words);
                check_all(&j, unfit_results[what[0]].status, unfit_results[what[0]].tensor);
                (void)snprintf(word, sizeof word, "rank %d", what[1]);
                if (what[0] != UNFIT_HOLE) check_all(&j, unfit_results[what[0]].status, word);
                CHECK(!strstr(j.err[0].message, "no coordinator"));
                check_quick(&j, 1000);
                CHECK_INT(must_load(storage), 1);
                check_clean(storage, 4, layouts[l]);
                job_goes_on(&j, storage, 3);
                job_close(&j);
                dcp_storage_close(storage);
            }
    done_doing();
}

/* ThreadSanitizer does not know threads of a forked process. */
#if defined(__SANITIZE_THREAD__) || TEST_HAS(thread_sanitizer)
#define NEEDS_FORK() SKIP("ranks that are processes are not for ThreadSanitizer")
#else
#define NEEDS_FORK() ((void)0)
#endif
/* ---- ranks that are processes: one signals itself at a chosen point ---------------------------------------------- */
typedef enum blow_at { AT_CALL, AT_CALL_END, AT_SEND, AT_SEND_END } blow_at;
typedef struct blow {
    int who, number;                    /* 0: not at all */
    blow_at at; int at_number;          /* the n-th call of the storage, or the n-th message sent; 0: none */
    fault_kind kind; const char *key;   /* instead: the first such call of the storage whose key has this in it */
    const char *dir;
    dcp_layout layout;
    int timeout_ms;
    uint32_t gen;
    int64_t slow_ms; fault_kind slow_kind; int slow_who;    /* calls of this kind take so long on that rank */
} blow;
static struct { const blow *b; int rank, calls, sends, struck;
    /* of a child */
    dcp_status (*send)(void *context, int to, int tag, const void *data, size_t size, int timeout_ms, dcp_error *err);
    } here;

static void strike(int happens) {
    if (!happens || here.struck) return;
    here.struck = 1;
    (void)kill(getpid(), here.b->number);
    dcpi_os_sleep_ms(50);                        /* a stop that one thread asks for reaches the others a little later */
}
static void blow_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    const blow *b = here.b;
    (void)user; (void)call;
    if (b->slow_ms && kind == b->slow_kind && here.rank == b->slow_who && !is_done) dcpi_os_sleep_ms((int)b->slow_ms);
    if (!b->number || here.rank != b->who) return;
    if (!is_done) here.calls++;
    if (b->key) strike(b->kind == kind && strstr(key, b->key) && (b->at == AT_CALL_END) == is_done);
    else if (b->at == AT_CALL || b->at == AT_CALL_END)
        strike(here.calls == b->at_number && (b->at == AT_CALL_END) == is_done);
}
static dcp_status blow_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                            dcp_error *err) {
    const blow *b = here.b;
    const int mine = b->number && here.rank == b->who && size >= DCPI_MESSAGE_HEADER &&
                     dcpi_load32((const uint8_t *)data + 4) != DCPI_MESSAGE_ALIVE;
    dcp_status status;
    here.sends += mine;
    strike(mine && b->at == AT_SEND && here.sends == b->at_number);
    status = here.send(context, to, tag, data, size, timeout_ms, err);
    strike(mine && b->at == AT_SEND_END && here.sends == b->at_number);
    return status;
}
static void blow_rank(dcp_coordinator *c, process_record *out, void *user) {
    const blow *b = (const blow *)user;
    fault_storage faulty;
    dcp_storage *storage;
    dcp_save_desc desc = DCP_ZERO;
    const int64_t began = dcpi_os_monotonic_ms();
    here.b = b;
    here.rank = c->rank;
    here.send = c->send;
    c->send = blow_send;
    out->status = dcp_storage_local(b->dir, &storage, &out->err);
    if (out->status) return;
    fault_open(&faulty, storage);
    faulty.hook = blow_hook;
    desc.layout = b->layout;
    desc.overwrite = 1;
    desc.io.timeout_ms = b->timeout_ms;
    out->status = rank_save(&desc, &faulty.storage, c, b->gen, NULL, &out->err);
    out->took_ms = dcpi_os_monotonic_ms() - began;
    out->number[0] = here.struck;
    process_stage(out, 100);
    dcp_storage_close(storage);
}
/* Nobody says DCP_OK beside a failure; a failure means that nothing was committed, DCP_OK that it was. */
static void check_verdicts_at(const process_group *g, unsigned except, int is_committed, int line) {
    char text[900] = "";
    int r, fine = 1;
    for (r = 0; r < g->n; r++) {
        const dcp_status status = g->shared->record[r].status;
        if (except >> r & 1) continue;
        if (status != DCP_E_UNKNOWN && (status == DCP_OK) != is_committed) fine = 0;
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "rank %d: %s %.150s; ", r,
                       dcp_status_name(status), g->shared->record[r].err.message);
    }
    if (!fine) test_fail(__FILE__, line, is_committed ? "committed, but " : "not committed, but ", text);
}
#define check_verdicts(g, except, is_committed) check_verdicts_at(g, except, is_committed, __LINE__)
/* A new job saves; then everything that it does not need can be swept. */
static void check_next_save(dcp_storage *storage, dcp_layout layout, int ranks, uint32_t gen) {
    job j;
    memset(&j, 0, sizeof j);
    job_storage(&j, storage);
    j.desc.layout = layout;
    j.desc.overwrite = 1;
    j.gen = gen;
    job_open(&j, ranks);
    job_run(&j, job_save);
    job_close(&j);
    check_all(&j, DCP_OK, "");
    CHECK_INT(must_load(storage), gen);
}
static int is_there(dcp_storage *storage, dcp_layout layout) {
    int there = 0;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_exists(storage, layout == DCP_LAYOUT_SINGLE ? "run/x.checkpoint"
                                        : "run/x.metadata.json", &there, NULL, &err), err.message);
    return there;
}
/* Whether the point was reached. */
static int kill_case(dcp_layout layout, int has_old, int who, blow_at at, int at_number) {
    static const char *const at_names[] = { "before call", "after call", "before message", "after message" };
    blow b;
    process_group g;
    dcp_storage *storage;
    dcp_error err;
    uint32_t gen = 0;
    int reached;
    const char *dir = test_state.dir[0];
    test_rm_rf(dir);
    doing("%s, %s, rank %d killed %s %d", layout_name(layout), has_old ? "overwrite" : "first save", who, at_names[at],
          at_number);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    if (has_old) check_next_save(storage, layout, 2, 1);
    memset(&b, 0, sizeof b);
    b.who = who;
    b.number = SIGKILL;
    b.at = at;
    b.at_number = at_number;
    b.dir = dir;
    b.layout = layout;
    b.timeout_ms = 4000;
    b.gen = 2;
    process_group_start(&g, 3, blow_rank, &b);
    CHECK(process_await_end(&g, 0, 10000));             /* a death is seen at once: nobody waits for the timeout */
    reached = g.shared->record[who].stage != 100;
    if (reached) CHECK(WIFSIGNALED(g.exit_status[who]));
    if (is_there(storage, layout)) gen = must_load(storage);
    CHECK(gen == 2 || gen == (has_old ? 1u : 0u));
    check_verdicts(&g, reached ? 1u << who : 0, gen == 2);
    if (!reached) CHECK_INT(gen, 2);
    { int r; for (r = 0; r < 3; r++) if (!reached || r != who) CHECK(g.shared->record[r].took_ms < 2000 * slowness()); }
    process_group_end(&g);
    check_next_save(storage, layout, 2, 3);
    (void)sweep_all(storage);
    check_clean(storage, 2, layout);
    CHECK_INT(must_load(storage), 3);
    dcp_storage_close(storage);
    return reached;
}
TEST(a_rank_is_killed_at_every_point_of_a_save) {
    int l, at, who, n, cases = 0;
    (void)test_dir();
    NEEDS_FORK();
    for (l = 0; l < 2; l++)
        for (who = 0; who < 3; who++)
            for (at = AT_CALL; at <= AT_SEND_END; at++)
                for (n = 1; kill_case(layouts[l], (n + who) % 3 != 0, who, (blow_at)at, n);
                     n += test_is_slow() ? 5 : 1 + l) cases++;
    done_doing();
    CHECK(cases > (test_is_slow() ? 15 : 60));
}

/* ---- stopped ranks, and their return ----------------------------------------------------------------------------- */
enum { STOP_MS = 400 };                 /* io.timeout_ms of these jobs */
/* What a machine that is busy may take longer. */
static int64_t allowance(void) { return 400 * slowness(); }
static void await_stop(process_group *g, int who) {
    const int64_t until = dcpi_os_monotonic_ms() + 20000;
    pid_t got = 0;
    while (got == 0 && dcpi_os_monotonic_ms() < until) {
        got = waitpid(g->pid[who], &g->exit_status[who], WUNTRACED | WNOHANG);
        if (got == 0) dcpi_os_sleep_ms(1);
    }
    CHECK(got == g->pid[who]);
    if (!WIFSTOPPED(g->exit_status[who])) g->pid[who] = 0;
    CHECK(WIFSTOPPED(g->exit_status[who]));
}
typedef struct stop {
    const char *label;
    int who;
    blow_at at;
    int at_number;
    fault_kind kind;
    const char *key;
    dcp_status others;
} stop;
static const stop stops[] = {
    { "before its arguments are checked", 1, AT_SEND, 1, FAULT_ANY, NULL, DCP_E_TIMEOUT },
    { "before its list", 2, AT_SEND, 2, FAULT_ANY, NULL, DCP_E_TIMEOUT },
    { "while it writes", 1, AT_CALL, 0, FAULT_WRITE, "_shard_", DCP_E_TIMEOUT },
    { "when its shard is published", 2, AT_CALL_END, 0, FAULT_COMMIT, "_shard_", DCP_E_TIMEOUT },
    { "before its acknowledgement", 1, AT_SEND, 3, FAULT_ANY, NULL, DCP_E_TIMEOUT },
    { "after its acknowledgement", 2, AT_SEND_END, 3, FAULT_ANY, NULL, DCP_OK },
    { "in prepare", 0, AT_CALL, 0, FAULT_LIST, "", DCP_E_TIMEOUT },
    { "while it tells the plan", 0, AT_SEND, 3, FAULT_ANY, NULL, DCP_E_TIMEOUT },
    { "before it writes the document", 0, AT_CALL, 0, FAULT_BEGIN, "metadata.json", DCP_E_UNKNOWN },
    { "before it renames", 0, AT_CALL, 0, FAULT_COMMIT, "metadata.json", DCP_E_UNKNOWN },
    { "after it has renamed", 0, AT_CALL_END, 0, FAULT_COMMIT, "metadata.json", DCP_E_UNKNOWN },
};
static void stop_begin(process_group *g, blow *b, const stop *how, dcp_storage **storage) {
    dcp_error err;
    const char *dir = test_state.dir[0];
    test_rm_rf(dir);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, storage, &err), err.message);
    check_next_save(*storage, DCP_LAYOUT_SHARDED, 3, 1);
    memset(b, 0, sizeof *b);
    b->who = how->who;
    b->number = SIGSTOP;
    b->at = how->at;
    b->at_number = how->at_number;
    b->kind = how->kind;
    b->key = how->key;
    b->dir = dir;
    b->timeout_ms = STOP_MS * slowness();
    b->gen = 2;
    process_group_start(g, 3, blow_rank, b);
    await_stop(g, how->who);
}
/* The others have their verdict in time, by a clock that starts when the rank stops. */
static void stop_verdicts(const process_group *g, const stop *how, int64_t waited_ms) {
    char word[20];
    int r;
    (void)snprintf(word, sizeof word, "rank %d", how->who);
    CHECK(waited_ms <= STOP_MS * slowness() * 6 / 5 + allowance());
    for (r = 0; r < 3; r++) {
        const process_record *record = &g->shared->record[r];
        if (r == how->who) continue;
        if (record->status != how->others)
            test_fail(__FILE__, __LINE__, record->err.message, dcp_status_name(record->status));
        if (how->others == DCP_OK) continue;
        if (!strstr(record->err.message, word))
            test_fail(__FILE__, __LINE__, record->err.message, " (does not name the rank)");
        CHECK_INT(record->err.rank, how->who);
    }
}
static void zombie_case(const stop *how, int retry_ranks) {
    blow b;
    process_group g;
    dcp_storage *storage;
    listing before, after;
    int64_t began;
    uint32_t gen;
    int is_renamed = how->who == 0 && how->kind == FAULT_COMMIT && how->at == AT_CALL_END, committed, r;
    doing("rank %d stops %s; %d ranks try again", how->who, how->label, retry_ranks);
    stop_begin(&g, &b, how, &storage);
    began = dcpi_os_monotonic_ms();
    before = list_files(storage);
    CHECK(process_await_end(&g, 1u << how->who, 20000));
    stop_verdicts(&g, how, dcpi_os_monotonic_ms() - began);
    after = list_files(storage);
    committed = how->others == DCP_OK || is_renamed;
    gen = must_load(storage);
    CHECK_INT(gen, committed ? 2 : 1);
    if (how->others == DCP_E_UNKNOWN) CHECK_INT(after.count, before.count);              /* nothing was removed */
    check_next_save(storage, DCP_LAYOUT_SHARDED, retry_ranks, 3);
    process_signal(&g, how->who, SIGCONT);
    CHECK(process_await_end(&g, 0, 20000));
    gen = must_load(storage);
    /* A rename that was under way takes place when its process wakes: the checkpoint is then that one, wholly. */
    if (how->who == 0 && how->kind == FAULT_COMMIT && how->at == AT_CALL) CHECK(gen == 2 || gen == 3);
    else CHECK_INT(gen, 3);
    if (g.shared->record[how->who].status == DCP_OK) CHECK(committed || gen == 2);
    for (r = 0; r < 3; r++) CHECK(g.shared->record[r].stage == 100);
    process_group_end(&g);
    check_next_save(storage, DCP_LAYOUT_SHARDED, 3, 4);
    (void)sweep_all(storage);
    check_clean(storage, 3, DCP_LAYOUT_SHARDED);
    CHECK_INT(must_load(storage), 4);
    dcp_storage_close(storage);
}
TEST(a_stopped_rank_is_a_timeout_and_harms_nothing_when_it_wakes) {
    size_t i;
    (void)test_dir();
    NEEDS_FORK();
    for (i = 0; i < DCPI_COUNT(stops); i++) zombie_case(&stops[i], i % 2 ? 3 : 2);
    done_doing();
}
TEST(a_rank_that_goes_on_before_the_deadline_does_no_harm) {
    size_t i;
    (void)test_dir();
    NEEDS_FORK();
    for (i = 0; i < DCPI_COUNT(stops); i += 2) {
        blow b;
        process_group g;
        dcp_storage *storage;
        int r;
        doing("rank %d stops %s", stops[i].who, stops[i].label);
        stop_begin(&g, &b, &stops[i], &storage);
        dcpi_os_sleep_ms(STOP_MS * slowness() / 3);
        process_signal(&g, stops[i].who, SIGCONT);
        CHECK(process_await_end(&g, 0, 20000));
        for (r = 0; r < 3; r++) CHECK_OK_MESSAGE(g.shared->record[r].status, g.shared->record[r].err.message);
        process_group_end(&g);
        CHECK_INT(must_load(storage), 2);
        check_clean(storage, 3, DCP_LAYOUT_SHARDED);
        dcp_storage_close(storage);
    }
    done_doing();
}

/* A first save, whose files have plain names: one rank dies or stops while the others have done their part, and these
 * take back what they made (G9). */
static int left_by_the_living(dcp_storage *storage, int who) {
    static const char *const folders[] = { "run", "run/dense" };
    char shard[40], part[40];
    int count = 0, i;
    size_t k;
    (void)snprintf(shard, sizeof shard, "_shard_%d.bin", who);
    (void)snprintf(part, sizeof part, "_%d_of_3.bin", who);
    for (k = 0; k < DCPI_COUNT(folders); k++) {
        listing l;
        dcp_error err;
        memset(&l, 0, sizeof l);
        (void)storage->list(storage->context, folders[k], DCP_LIST_OBJECTS, listing_add, &l, &err);
        for (i = 0; i < l.count; i++) {
            if (strstr(l.names[i], shard) || strstr(l.names[i], part) || strstr(l.names[i], "b_0_of_1")) continue;
            printf("    left: %s\n", l.names[i]);
            count++;
        }
    }
    return count;
}
static void take_back_case(dcp_layout layout, int number, int who, const char *label, blow_at at, int at_number,
                           fault_kind kind, const char *key) {
    blow b;
    process_group g;
    dcp_storage *storage;
    dcp_error err;
    const char *dir = test_state.dir[0];
    int r;
    test_rm_rf(dir);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    doing("layout %d, rank %d %s %s", (int)layout, who, number == SIGKILL ? "dies" : "stops", label);
    memset(&b, 0, sizeof b);
    b.who = who;
    b.number = number;
    b.at = at;
    b.at_number = at_number;
    b.kind = kind;
    b.key = key;
    b.dir = dir;
    b.layout = layout;
    b.timeout_ms = STOP_MS * slowness();
    b.gen = 1;
    process_group_start(&g, 3, blow_rank, &b);
    if (number == SIGSTOP) await_stop(&g, who);
    CHECK(process_await_end(&g, 1u << who, 20000));
    for (r = 0; r < 3; r++) {
        const dcp_status status = g.shared->record[r].status;
        if (r == who) continue;
        if (status != DCP_E_TIMEOUT && status != DCP_E_COMM)
            test_fail(__FILE__, __LINE__, dcp_status_name(status), g.shared->record[r].err.message);
    }
    process_group_end(&g);
    CHECK_INT(left_by_the_living(storage, who), 0);
    dcp_storage_close(storage);
}
TEST(who_lives_takes_back_plain_names) {
    static const int numbers[] = { SIGSTOP, SIGKILL };
    int layout, i, who;
    (void)test_dir();
    NEEDS_FORK();
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout += DCP_LAYOUT_MANIFEST - DCP_LAYOUT_SHARDED)
        for (i = 0; i < 2; i++)
            for (who = 1; who < 3; who++) {
                take_back_case((dcp_layout)layout, numbers[i], who, "before it publishes", AT_CALL, 0, FAULT_COMMIT,
                               layout ? "dense" : "_shard_");
                take_back_case((dcp_layout)layout, numbers[i], who, "before its acknowledgement", AT_SEND, 3,
                               FAULT_ANY, NULL);
            }
    done_doing();
}

/* ---- slow, but alive --------------------------------------------------------------------------------------------- */
static const struct { const char *label; dcp_layout layout; int who; fault_kind kind; int nth; } slows[] = {
    { "a rank writes", DCP_LAYOUT_SHARDED, 1, FAULT_WRITE, 1 }, { "a rank publishes", DCP_LAYOUT_SHARDED, 2,
        FAULT_COMMIT, 1 },
    { "rank 0 writes", DCP_LAYOUT_SHARDED, 0, FAULT_WRITE, 1 }, { "rank 0 commits", DCP_LAYOUT_SHARDED, 0, FAULT_COMMIT,
        1 },
    { "rank 0 prepares", DCP_LAYOUT_SHARDED, 0, FAULT_LIST, 1 },
    { "rank 0 syncs", DCP_LAYOUT_SHARDED, 0, FAULT_SYNC_DIRECTORY, 1 },
    { "rank 0 writes", DCP_LAYOUT_SINGLE, 0, FAULT_WRITE, 3 }, { "rank 0 commits", DCP_LAYOUT_SINGLE, 0, FAULT_COMMIT,
        1 },
    { "a rank begins", DCP_LAYOUT_SHARDED, 2, FAULT_BEGIN, 1 }, { "rank 0 begins", DCP_LAYOUT_SINGLE, 0, FAULT_BEGIN,
        1 },
    { "rank 0 removes", DCP_LAYOUT_SHARDED, 0, FAULT_REMOVE, 1 }, { "rank 0 counts the free space", DCP_LAYOUT_SHARDED,
                                                                    0, FAULT_SPACE, 1 } };
typedef struct slow_plan { size_t which; int timeout_ms, calls; } slow_plan;
enum { SLOW_TIMEOUT_MS = 100 };
static void slow_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    slow_plan *p = (slow_plan *)user;
    (void)key; (void)call;
    if (is_done || kind != slows[p->which].kind || ++p->calls != slows[p->which].nth) return;
    dcpi_os_sleep_ms(p->timeout_ms * 7 / 2);
}
static int slow_case(size_t which, int timeout_ms) {
    slow_plan p;
    fault_storage slow;
    dcp_storage *storage;
    job j;
    int r, fine = 1;
    doing("%s, slowly, %s, timeout %d ms", slows[which].label, layout_name(slows[which].layout), timeout_ms);
    test_rm_rf(test_state.dir[0]);
    job_begin(&j, 3, slows[which].layout, &storage);
    p.which = which;
    p.timeout_ms = timeout_ms;
    p.calls = 0;
    fault_open(&slow, storage);
    slow.hook = slow_hook;
    slow.user = &p;
    j.storage[slows[which].who] = &slow.storage;
    j.desc.io.timeout_ms = timeout_ms;
    j.gen = 2;
    job_run(&j, job_save);
    for (r = 0; r < 3; r++) fine &= j.status[r] == DCP_OK;
    if (timeout_ms >= 1600) check_all(&j, DCP_OK, "");
    if (fine) {
        CHECK(p.calls >= slows[which].nth);
        CHECK_INT(must_load(storage), 2);
        j.desc.io.timeout_ms = 20000;
        job_goes_on(&j, storage, 3);
    }
    job_close(&j);
    fault_close(&slow);
    dcp_storage_close(storage);
    return fine;
}
TEST(slow_ranks_that_live_succeed) {
    size_t i;
    (void)test_dir();
    for (i = 0; i < DCPI_COUNT(slows); i++) {
        /* a machine that is busy stops threads for a while too: then with more time */
        int timeout_ms = SLOW_TIMEOUT_MS * slowness();
        while (!slow_case(i, timeout_ms)) timeout_ms *= 2;
    }
    done_doing();
}

/* ---- slow, but alive: loads, and what reads besides -------------------------------------------------------------- */
typedef struct slow_load { const char *label; dcp_layout layout; dcp_checksum checksum; int what, share, who;
                          fault_kind kind; int nth; } slow_load;
enum { LOADS, VERIFIES, OPENS_AND_READS, FINDS, SWEEPS };
static const slow_load slow_loads[] = {
    { "a rank reads", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LOADS, 0, 1, FAULT_READ, 1 },
    { "rank 0 reads", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LOADS, 0, 0, FAULT_READ, 2 },
    { "rank 0 reads the document", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LOADS, 0, 0, FAULT_READ, 1 },
    { "a rank opens", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LOADS, 0, 2, FAULT_OPEN, 1 },
    { "a rank reads the header", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, LOADS, 0, 1, FAULT_READ, 1 },
    { "a rank opens the file", DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, LOADS, 0, 2, FAULT_OPEN, 1 },
    { "a rank reads", DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, LOADS, 0, 1, FAULT_READ, 1 },
    { "a rank hashes a file", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, LOADS, 0, 1, FAULT_READ, 1 },
    { "a rank opens a file to hash it", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, LOADS, 0, 1, FAULT_OPEN, 1 },
    { "a rank hashes a file", DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_FLAT, LOADS, 0, 2, FAULT_READ, 1 },
    { "who reads for all", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LOADS, 1, -1, FAULT_READ, 1 },
    { "who opens for all", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LOADS, 1, -1, FAULT_OPEN, 1 },
    { "who hashes for all", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, LOADS, 1, -1, FAULT_READ, 1 },
    { "a rank opens", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, VERIFIES, 0, 1, FAULT_OPEN, 1 },
    { "a rank hashes", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, VERIFIES, 0, 2, FAULT_READ, 1 },
    { "a rank reads", DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, VERIFIES, 0, 1, FAULT_READ, 1 },
    { "a rank reads", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, OPENS_AND_READS, 0, 1, FAULT_READ, 1 },
    { "rank 0 looks", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, OPENS_AND_READS, 0, 0, FAULT_STAT, 1 },
    { "rank 0 opens", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, FINDS, 0, 0, FAULT_OPEN, 2 },
    { "rank 0 lists", DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, FINDS, 0, 0, FAULT_LIST, 1 },
    { "rank 0 reads", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, SWEEPS, 0, 0, FAULT_READ, 1 },
    { "rank 0 syncs", DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, SWEEPS, 0, 0, FAULT_SYNC_DIRECTORY, 1 } };
typedef struct load_plan { const slow_load *how; dcp_io io; } load_plan;

/* All ranks load "b", which all of them want, and their part of "w". */
static void job_read_somehow(job *j, int rank) {
    const load_plan *p = (const load_plan *)j->user;
    dcp_error *err = &j->err[rank];
    dcp_status *status = &j->status[rank];
    dcp_io io = p->io;
    uint32_t *w = (uint32_t *)must(calloc(BIG, sizeof *w)), b[SMALL] = {0};
    int64_t n = BIG, whole = n * j->ranks, at = n * rank, small = SMALL, i;
    dcp_tensor t[2];
    t[0] = dcp_array("w", DCP_UINT32, w, 1, &n);
    dcp_piece(&t[0], &whole, &at);
    t[1] = dcp_array("b", DCP_UINT32, b, 1, &small);
    io.storage = j->storage[rank];
    io.coordinator = j->coordinators[rank];
    if (p->how->what == FINDS) {
        dcp_latest_desc desc = DCP_ZERO;
        char *path;
        desc.directory = "run";
        desc.io = io;
        *status = dcp_latest(&desc, &path, err);
        dcp_free(path);
    } else if (p->how->what == SWEEPS) {
        dcp_sweep_desc desc = DCP_ZERO;
        desc.directory = "run";
        desc.io = io;
        *status = dcp_sweep(&desc, NULL, err);
    } else if (p->how->what == LOADS) {
        dcp_load_desc desc = DCP_ZERO;
        desc.path = P;
        desc.tensors = t;
        desc.tensor_count = 2;
        desc.share_reads = p->how->share;
        desc.io = io;
        *status = dcp_load(&desc, err);
    } else {
        dcp_open_desc desc = DCP_ZERO;
        dcp_checkpoint *c;
        desc.path = P;
        desc.io = io;
        *status = dcp_open(&desc, &c, err);
        if (!*status) *status = p->how->what == VERIFIES ? dcp_verify(c, err) : dcp_read(c, t, 2, err);
        dcp_close(c);
    }
    for (i = 0; i < SMALL && !*status && (p->how->what == LOADS || p->how->what == OPENS_AND_READS); i++)
        if (b[i] != value_b(j->gen, i) || w[i] != value_w(j->gen, at + i))
            *status = dcpi_fail(err, DCP_E_CHECKSUM, "test: wrong bytes");
    free(w);
}
typedef struct slow_read { const slow_load *how; int timeout_ms, calls, failure; } slow_read;
static void slow_read_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    slow_read *p = (slow_read *)user;
    (void)key; (void)call;
    if (is_done || kind != p->how->kind || ++p->calls != p->how->nth) return;
    dcpi_os_sleep_ms(p->timeout_ms * 7 / 2);
}
/* fails: the call does not take long but fails once, and the pause after that is long. */
static int slow_load_case(const slow_load *how, int fails, int timeout_ms) {
    slow_read reads[3];
    fault_storage slow[3];
    load_plan plan;
    dcp_storage *storage;
    job j;
    int r, fine = 1, calls = 0;
    doing("%s, %s, call %d, layout %d, checksum %d, timeout %d ms", how->label, fails ? "in vain once"
          : "slowly", how->what, (int)how->layout,
          (int)how->checksum, timeout_ms);
    test_rm_rf(test_state.dir[0]);
    memset(&j, 0, sizeof j);
    j.desc.checksum = how->checksum;
    job_begin_as(&j, 3, how->layout, &storage);
    for (r = 0; r < 3; r++) {
        reads[r].how = how;
        reads[r].timeout_ms = timeout_ms;
        reads[r].calls = 0;
        fault_open(&slow[r], storage);
        if (how->who >= 0 && how->who != r) continue;
        if (fails) fault_set(&slow[r], how->kind, how->nth, 1, EIO);
        else slow[r].hook = slow_read_hook;
        slow[r].user = &reads[r];
        j.storage[r] = &slow[r].storage;
    }
    memset(&plan, 0, sizeof plan);
    plan.how = how;
    plan.io.timeout_ms = timeout_ms;
    plan.io.retry.first_ms = plan.io.retry.max_ms = fails ? 5 * timeout_ms : 1;
    j.user = &plan;
    job_run(&j, job_read_somehow);
    for (r = 0; r < 3; r++) {
        fine &= j.status[r] == DCP_OK;
        calls += fails ? (int)slow[r].failed : reads[r].calls >= how->nth;
    }
    if (timeout_ms >= 1600) check_all(&j, DCP_OK, "");
    if (fine) CHECK(calls > 0);
    job_close(&j);
    for (r = 0; r < 3; r++) fault_close(&slow[r]);
    dcp_storage_close(storage);
    return fine;
}
TEST(slow_ranks_that_live_succeed_in_loads) {
    size_t i;
    (void)test_dir();
    for (i = 0; i < DCPI_COUNT(slow_loads); i++) {
        int timeout_ms = SLOW_TIMEOUT_MS * slowness();
        while (!slow_load_case(&slow_loads[i], 0, timeout_ms)) timeout_ms *= 2;
    }
    done_doing();
}
TEST(pauses_between_attempts_show_life_in_loads) {
    size_t i;
    (void)test_dir();
    for (i = 0; i < DCPI_COUNT(slow_loads); i++) {
        int timeout_ms = SLOW_TIMEOUT_MS * slowness();
        /* these are not tried again */
        if (slow_loads[i].kind == FAULT_LIST || slow_loads[i].kind == FAULT_SYNC_DIRECTORY) continue;
        while (!slow_load_case(&slow_loads[i], 1, timeout_ms)) timeout_ms *= 2;
    }
    done_doing();
}
/* What ends an operation is noticed in the pause between two attempts, and not after it. */
typedef struct canceller { dcp_cancel *cancel; dcpi_thread thread; } canceller;
static void cancel_main(void *argument) {
    dcpi_os_sleep_ms(150);
    dcp_cancel_request(((canceller *)argument)->cancel);
}
static void pause_case(const slow_load *how, int ranks, int by_deadline) {
    const dcp_status want = by_deadline ? DCP_E_TIMEOUT : DCP_E_CANCELLED;
    dcp_cancel cancel = { 0 };
    canceller t;
    fault_storage faulty;
    load_plan plan;
    dcp_storage *storage;
    job j;
    int r;
    doing("%s, %d ranks, ended by %s", how->label, ranks, by_deadline ? "a deadline" : "a cancel");
    test_rm_rf(test_state.dir[0]);
    memset(&j, 0, sizeof j);
    j.desc.checksum = how->checksum;
    job_begin_as(&j, ranks, how->layout, &storage);
    fault_open(&faulty, storage);
    fault_set(&faulty, how->kind, how->nth, 1000000, EIO);
    for (r = 0; r < ranks; r++) j.storage[r] = &faulty.storage;
    memset(&plan, 0, sizeof plan);
    plan.how = how;
    plan.io.timeout_ms = 20000;
    plan.io.retry.first_ms = plan.io.retry.max_ms = 1000000;
    plan.io.cancel = by_deadline ? NULL : &cancel;
    plan.io.deadline_ms = by_deadline ? 150 : 0;
    j.user = &plan;
    t.cancel = &cancel;
    if (dcpi_thread_start(&t.thread, cancel_main, &t)) abort();
    job_run(&j, job_read_somehow);
    dcpi_thread_join(&t.thread);
    check_all(&j, want, "");
    check_quick(&j, 2000);
    job_close(&j);
    fault_close(&faulty);
    dcp_storage_close(storage);
}
TEST(a_pause_between_attempts_ends_with_the_operation) {
    size_t i;
    int ranks, by_deadline;
    (void)test_dir();
    for (i = 0; i < DCPI_COUNT(slow_loads); i++)
        for (ranks = 1; ranks <= 3; ranks += 2)
            for (by_deadline = 0; by_deadline < 2; by_deadline++) {
                if (slow_loads[i].kind == FAULT_LIST || slow_loads[i].kind == FAULT_SYNC_DIRECTORY ||
                    slow_loads[i].what == SWEEPS) continue;
                pause_case(&slow_loads[i], ranks, by_deadline);
            }
    done_doing();
}

/* ---- messages that are late or lost ------------------------------------------------------------------------------ */
enum { LATE_JOBS = 25, LATE_TIMEOUT_MS = 60 };
typedef struct late {
    uint64_t seed;
    int runs, done;
    int outcomes[DCP_E_DENIED + 1];
    char failure[900];
    dcpi_thread thread;
} late;
static int late_says(late *t, uint64_t seed, const job *j, const char *what) {
    int r;
    (void)snprintf(t->failure, sizeof t->failure, "schedule %llu: %s;", (unsigned long long)seed, what);
    for (r = 0; r < j->ranks; r++)
        (void)snprintf(t->failure + strlen(t->failure), sizeof t->failure - strlen(t->failure), " rank %d: %s %.200s",
                       r, dcp_status_name(j->status[r]), j->err[r].message);
    return 0;
}
static int late_judge(late *t, uint64_t seed, const job *j, uint32_t gen) {
    int r;
    for (r = 0; r < j->ranks; r++) {
        t->outcomes[j->status[r]]++;
        if (j->took_ms[r] > 8000 * slowness()) return late_says(t, seed, j, "took too long");
        if (j->status[r] != DCP_E_UNKNOWN && (j->status[r] == DCP_OK) != (gen == 2))
            return late_says(t, seed, j, gen == 2 ? "committed" : "not committed");
    }
    return 1;
}
/* A save by three ranks whose messages are late, about as late as they may be, and perhaps lost; then one without
 * faults; then loads likewise. */
static void job_load_late(job *j, int rank);
static int late_run(late *t, uint64_t seed) {
    fault_plan plans[3];
    dcp_storage *storage;
    uint64_t state = seed;
    uint32_t gen = 0;
    job j;
    int r, l = (int)(seed % 2), ok = 1;
    memset(&j, 0, sizeof j);
    memset(plans, 0, sizeof plans);
    if (dcp_storage_memory(&storage, NULL)) abort();
    job_storage(&j, storage);
    j.desc.layout = layouts[l];
    j.desc.overwrite = 1;
    j.ranks = 3;
    for (j.gen = 1; j.gen <= 3 && ok; j.gen++) {
        if (dcp_thread_group_open(3, j.coordinators, NULL)) abort();
        j.desc.io.timeout_ms = j.gen == 2 ? LATE_TIMEOUT_MS * slowness() : 0;
        for (r = 0; r < 3 && j.gen == 2; r++) {
            plans[r].seed = state = state * 6364136223846793005u + 1442695040888963407u;
            plans[r].delay_percent = 2 + (int)(seed / 2 % 10);
            plans[r].delay_ms = LATE_TIMEOUT_MS * 3 / 2 * slowness();
            /* the gathered single file's bytes are not expected to get lost */
            plans[r].drop_percent = l == 0 ? (int)(seed / 4 % 3) * 2 : 0;
            j.coordinators[r] = fault_wrap(j.coordinators[r], &plans[r]);
        }
        job_run(&j, job_save);
        if (load_gen(storage, P, DCP_VERIFY_ALL, &gen, NULL) || gen == 0) ok = late_says(t, seed, &j, "does not load");
        else if (j.gen == 2) ok = late_judge(t, seed, &j, gen);
        else if (gen != j.gen || j.status[0] || j.status[1] || j.status[2])
            ok = late_says(t, seed, &j, "a save without faults failed");
        if (j.gen == 2 && ok) {
            job_run(&j, job_load_late);
            for (r = 0; r < 3 && ok; r++) if (j.status[r] && j.status[r] != DCP_E_UNKNOWN)
                for (r = 0; r < 3 && ok; r++)
                    if (j.status[r] == DCP_OK) ok = late_says(t, seed, &j, "a load that succeeded on some ranks");
        }
        job_close(&j);
    }
    dcp_storage_close(storage);
    return ok;
}
static void job_load_late(job *j, int rank) {
    dcp_load_desc desc = DCP_ZERO;
    uint32_t words[SMALL] = {0};
    int64_t n = SMALL;
    dcp_tensor b = dcp_array("b", DCP_UINT32, words, 1, &n);
    desc.path = P;
    desc.tensors = &b;
    desc.tensor_count = 1;
    desc.io.timeout_ms = LATE_TIMEOUT_MS * slowness();
    desc.io.storage = j->storage[rank];
    desc.io.coordinator = j->coordinators[rank];
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
}
static void late_main(void *argument) {
    late *t = (late *)argument;
    for (; t->done < t->runs && late_run(t, t->seed + (uint64_t)t->done); t->done++) {}
}
TEST(late_and_lost_messages_never_split_the_verdict) {
    late *all = (late *)must(calloc(LATE_JOBS, sizeof *all));
    const int runs = test_times(test_is_sanitized() ? 100 : 500) / LATE_JOBS;
    const uint64_t seed = test_random() >> 1;
    int i, k, outcomes[DCP_E_DENIED + 1] = {0};
    char text[900] = "";
    for (i = 0; i < LATE_JOBS; i++) {
        all[i].seed = seed + (uint64_t)i * 1000;
        all[i].runs = runs;
        if (dcpi_thread_start(&all[i].thread, late_main, &all[i])) abort();
    }
    for (i = 0; i < LATE_JOBS; i++) {
        dcpi_thread_join(&all[i].thread);
        if (all[i].failure[0]) (void)snprintf(text, sizeof text, "%s", all[i].failure);
        for (k = 0; k <= DCP_E_DENIED; k++) outcomes[k] += all[i].outcomes[k];
    }
    free(all);
    if (text[0]) test_fail(__FILE__, __LINE__, text, "");
    if (getenv("DCP_TEST_VERBOSE"))
        for (k = 0; k <= DCP_E_DENIED; k++)
            if (outcomes[k]) printf("%s %d\n", dcp_status_name((dcp_status)k), outcomes[k]);
    CHECK(outcomes[DCP_OK] > 0 && outcomes[DCP_E_TIMEOUT] > 0);         /* the delays lie around the deadline */
}

/* ---- several savers of one path, and readers --------------------------------------------------------------------- */
enum { SAVER_RANKS = 2 };
typedef struct reader { int ranks,
                        rest_ms; dcp_verify_policy verify; dcp_storage *storage; volatile int *stop; int loads, retries;
                        uint32_t gens[RANKS], seen; char failure[700];
    dcpi_thread thread; job j; } reader;
/* One rank's load of its part of "w" (of SAVER_RANKS parts) and of "b": they are of one generation. */
static void reader_rank(job *j, int rank) {
    reader *t = (reader *)j->user;
    dcp_load_desc desc = DCP_ZERO;
    dcp_tensor tensors[2];
    int64_t whole = (int64_t)BIG * SAVER_RANKS, at = whole * rank / j->ranks, n = whole * (rank + 1) / j->ranks - at,
                    small = SMALL, i;
    uint32_t *w = (uint32_t *)must(calloc((size_t)n, sizeof *w)), b[SMALL], gen;
    memset(b, 0, sizeof b);
    tensors[0] = dcp_array("w", DCP_UINT32, w, 1, &n);
    dcp_piece(&tensors[0], &whole, &at);
    tensors[1] = dcp_array("b", DCP_UINT32, b, 1, &small);
    desc.path = P;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.verify = t->verify;
    desc.io.storage = j->storage[rank];
    desc.io.coordinator = j->coordinators[rank];
    desc.io.timeout_ms = 20000;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
    for (gen = 1; gen < 100000 && b[0] != value_b(gen, 0); ++gen) {}
    for (i = 0; i < SMALL; i++) if (b[i] != value_b(gen, i)) gen = 0;
    for (i = 0; i < n; i++) if (w[i] != value_w(gen, at + i)) gen = 0;
    t->gens[rank] = gen;
    free(w);
}
static void reader_main(void *argument) {
    reader *t = (reader *)argument;
    int r;
    t->j.ranks = t->ranks;
    t->j.user = t;
    job_storage(&t->j, t->storage);
    if (dcp_thread_group_open(t->ranks, t->j.coordinators, NULL)) abort();
    while (!dcpi_flag_get(t->stop) && !t->failure[0]) {
        job_run(&t->j, reader_rank);
        t->loads++;
        if (t->rest_ms) dcpi_os_sleep_ms(t->rest_ms);
        for (r = 0; r < t->ranks; r++) {
            if (t->j.status[r] != t->j.status[0])
                (void)snprintf(t->failure, sizeof t->failure, "ranks disagree: %.300s, %.300s", t->j.err[0].message,
                               t->j.err[r].message);
            else if (t->j.status[r] == DCP_OK && (t->gens[r] == 0 || t->gens[r] != t->gens[0]))
                (void)snprintf(t->failure, sizeof t->failure, "rank %d of %d read generation %u, rank 0 %u", r,
                               t->ranks, t->gens[r], t->gens[0]);
            /* replaced more often than a load begins anew */
            else if (t->j.status[r] && t->j.status[r] != DCP_E_INCOMPLETE && t->j.status[r] != DCP_E_CHECKSUM)
                (void)snprintf(t->failure, sizeof t->failure, "%s %.500s", dcp_status_name(t->j.status[r]),
                               t->j.err[r].message);
        }
        t->retries += t->j.status[0] != DCP_OK;
        if (t->j.status[0] == DCP_OK && t->gens[0] < t->seen && t->seen < 100000)
            (void)snprintf(t->failure, sizeof t->failure, "went back from %u to %u", t->seen, t->gens[0]);
        if (t->j.status[0] == DCP_OK) t->seen = t->gens[0];
    }
    job_close(&t->j);
}
/* Readers that rest leave the processors to the savers: on a disk an overwrite takes many times as long as a load. */
static void overwrite_and_read(dcp_layout layout, int times, int rest_ms) {
    reader readers[4];
    dcp_storage *storage;
    volatile int stop = 0;
    job j;
    size_t i;
    int n;
    char text[700] = "";
    job_begin(&j, SAVER_RANKS, layout, &storage);
    memset(readers, 0, sizeof readers);
    for (i = 0; i < DCPI_COUNT(readers); i++) {
        readers[i].ranks = i % 2 ? 3 : 1;
        readers[i].verify = i / 2 ? DCP_VERIFY_NONE : DCP_VERIFY_TOUCHED;
        readers[i].rest_ms = (int)(i + 1) * rest_ms;
        readers[i].storage = storage;
        readers[i].stop = &stop;
        if (dcpi_thread_start(&readers[i].thread, reader_main, &readers[i])) abort();
    }
    for (n = 0; n < times; n++) {
        j.gen = (uint32_t)n + 2;
        job_run(&j, job_save);
        if (j.status[0] || j.status[1]) {
            (void)snprintf(text, sizeof text, "save %d: %.500s", n, j.err[0].message);
            break;
        }
    }
    dcpi_flag_set(&stop, 1);
    for (i = 0; i < DCPI_COUNT(readers); i++) {
        dcpi_thread_join(&readers[i].thread);
        if (readers[i].failure[0])
            (void)snprintf(text, sizeof text, "%d ranks, verify %d: %.600s", readers[i].ranks, (int)readers[i].verify,
                           readers[i].failure);
        if (getenv("DCP_TEST_VERBOSE"))
            printf("%d ranks: %d loads, %d given up\n", readers[i].ranks, readers[i].loads, readers[i].retries);
    }
    if (text[0]) test_fail(__FILE__, __LINE__, text, "");
    for (i = 0; i < DCPI_COUNT(readers); i++) CHECK(readers[i].loads > readers[i].retries);
    CHECK_INT(must_load(storage), (uint32_t)times + 1);
    check_clean(storage, SAVER_RANKS, layout);
    job_close(&j);
    dcp_storage_close(storage);
}
TEST(readers_never_see_a_mixture_while_ranks_overwrite) {
    int l;
    for (l = 0; l < 2; l++) {
        doing("%s, memory", layout_name(layouts[l]));
        overwrite_and_read(layouts[l], test_times(test_is_sanitized() ? 60 : 350), 0);
    }
    (void)test_dir();
    for (l = 0; l < 2; l++) {
        doing("%s, files", layout_name(layouts[l]));
        test_rm_rf(test_state.dir[0]);
        overwrite_and_read(layouts[l], test_times(test_is_sanitized() ? 20 : 150), 2);
    }
    done_doing();
}

/* Three jobs overwrite one path at once; one of them may be cancelled; a storage that takes its time mixes their steps
 * anew each time. */
typedef struct saver {
    job j;
    fault_storage slow;
    uint64_t random;
    dcp_cancel cancel;
    int cancel_at, calls;
    dcpi_thread thread;
} saver;
static void saver_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    saver *t = (saver *)user;
    (void)kind; (void)key; (void)call;
    if (++t->calls == t->cancel_at) dcp_cancel_request(&t->cancel);
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    if (!is_done && t->random >> 61 == 0) dcpi_os_sleep_ms((int)(t->random >> 40 & 3));
}
static void saver_main(void *argument) {
    saver *t = (saver *)argument;
    job_run(&t->j, job_save);
}
static void check_saver(const saver *t, int line) {
    const dcp_status status = t->j.status[0];
    int r;
    for (r = 1; r < t->j.ranks; r++)
        if (t->j.status[r] != status) test_fail(__FILE__, line, t->j.err[0].message, t->j.err[r].message);
    if (status && status != DCP_E_EXISTS && status != DCP_E_CANCELLED && status != DCP_E_NOT_FOUND)
        test_fail(__FILE__, line, t->j.err[0].message, dcp_status_name(status));
}
static void savers_race(dcp_layout layout, int steps) {
    saver *savers = (saver *)must(calloc(3, sizeof *savers));
    dcp_storage *storage;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_error err;
    uint32_t gen = 1, before;
    job first;
    int step, i, wins = 0, losses = 0, aborted = 0;
    job_begin(&first, SAVER_RANKS, layout, &storage);
    job_close(&first);
    for (i = 0; i < 3; i++) {
        fault_open(&savers[i].slow, storage);
        job_storage(&savers[i].j, &savers[i].slow.storage);
        savers[i].j.desc.layout = layout;
        savers[i].j.desc.overwrite = 1;
        savers[i].j.desc.io.cancel = &savers[i].cancel;
        savers[i].random = test_random();
        savers[i].slow.hook = saver_hook;
        savers[i].slow.user = &savers[i];
        job_open(&savers[i].j, SAVER_RANKS);
    }
    sweep.directory = "run";
    sweep.grace_seconds = 2;
    sweep.plain_names = 1;
    sweep.io.storage = storage;
    for (step = 0; step < steps; step++) {
        int won = 0;
        before = gen;
        for (i = 0; i < 3; i++) {
            savers[i].j.gen = (uint32_t)(10 + step * 3 + i);
            savers[i].calls = 0;
            savers[i].cancel.requested = 0;
            savers[i].cancel_at = i == 0 && step % 2 ? 1 + (int)test_random_below(60) : 0;
            if (dcpi_thread_start(&savers[i].thread, saver_main, &savers[i])) abort();
        }
        if (dcp_sweep(&sweep, NULL, &err)) err.rank = -7;
        for (i = 0; i < 3; i++) dcpi_thread_join(&savers[i].thread);
        if (err.rank == -7) test_fail(__FILE__, __LINE__, err.message, " (sweep)");
        gen = must_load(storage);
        for (i = 0; i < 3; i++) {
            check_saver(&savers[i], __LINE__);
            wins += savers[i].j.status[0] == DCP_OK;
            losses += savers[i].j.status[0] == DCP_E_EXISTS;
            aborted += savers[i].j.status[0] == DCP_E_CANCELLED;
            won += savers[i].j.status[0] == DCP_OK;
            if (savers[i].j.gen == gen) CHECK_INT(savers[i].j.status[0], DCP_OK);
        }
        if (won == 0) CHECK_INT(gen, before);
        else CHECK(gen != before);
    }
    if (getenv("DCP_TEST_VERBOSE")) printf("%d won, %d lost, %d aborted\n", wins, losses, aborted);
    CHECK(wins > 0 && losses > 0 && aborted > 0);
    for (i = 0; i < 3; i++) { job_close(&savers[i].j); fault_close(&savers[i].slow); }
    (void)sweep_all(storage);
    check_clean(storage, SAVER_RANKS, layout);
    CHECK_INT(must_load(storage), gen);
    free(savers);
    dcp_storage_close(storage);
}
TEST(three_savers_of_one_path_lose_no_file) {
    int l;
    for (l = 0; l < 2; l++) {
        doing("%s, seed %llu", layout_name(layouts[l]), (unsigned long long)test_state.seed);
        savers_race(layouts[l], test_times(test_is_sanitized() ? 20 : 40));
    }
    done_doing();
}

/* ---- loads of several ranks -------------------------------------------------------------------------------------- */
/* Each of three ranks wants the part of "w" that the rank of its number saved, and nothing else. */
static void load_part(job *j, int rank) {
    dcp_load_desc desc = DCP_ZERO;
    int64_t n = BIG, whole = (int64_t)BIG * j->ranks, at = n * rank, i;
    uint32_t *w = (uint32_t *)must(calloc(BIG, sizeof *w));
    dcp_tensor t = dcp_array("w", DCP_UINT32, w, 1, &n);
    const int *what = (const int *)j->user;             /* NULL, or: who wants something that cannot be, what */
    dcp_piece(&t, &whole, &at);
    if (what && rank == what[0]) {
        if (what[1] == 0) t.name = "nothing";
        if (what[1] == 1) t.dtype = DCP_FP32;
        if (what[1] == 2) t.global_shape[0]++;
        if (what[1] == 3) t.ndim = 9;
        if (what[1] == 4) t.data = NULL;
        if (what[1] == 5) { t.placement = DCP_PLACE_PRIVATE; t.name = "p"; }
    }
    desc.path = P;
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = j->storage[rank];
    desc.io.coordinator = j->coordinators[rank];
    desc.io.timeout_ms = 20000;
    if (j->desc.io.cancel && what && rank == what[0]) desc.io.cancel = j->desc.io.cancel;
    desc.io.retry.first_ms = 1;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
    for (i = 0; i < n && !j->status[rank]; i++)
        if (w[i] != value_w(j->gen, at + i))
            j->status[rank] = dcpi_fail(&j->err[rank], DCP_E_CHECKSUM, "test: wrong bytes");
    free(w);
}
/* One bit in the middle of the part of "w" that this rank saved. */
static void flip_bit(dcp_storage *storage, int rank) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    const dcp_shard_metadata *shard;
    char path[100];
    void *data;
    size_t size, i;
    int64_t offset = -1;
    dcp_error err;
    desc.path = P;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    shard = &dcp_checkpoint_metadata(c)->shards[rank];
    for (i = 0; i < shard->tensor_count; i++)
        if (strcmp(shard->tensors[i].name, "w") == 0) offset = shard->tensors[i].offset;
    (void)snprintf(path, sizeof path, "run/%s", shard->file_path);
    dcp_close(c);
    CHECK_OK_MESSAGE(dcp_storage_read_all(storage, path, &data, &size, NULL, &err), err.message);
    CHECK(offset >= 0 && offset + BIG * 2 < (int64_t)size);
    ((uint8_t *)data)[offset + BIG * 2] ^= 4;
    CHECK_OK_MESSAGE(dcp_storage_write_all(storage, path, data, size, NULL, &err), err.message);
    dcp_free(data);
}
TEST(damage_that_one_loading_rank_sees_is_everyones) {
    int l, who;
    for (l = 0; l < 2; l++)
        for (who = 0; who < 3; who++) {
            char word[40];
            dcp_storage *storage;
            job j;
            doing("%s, shard %d", layout_name(layouts[l]), who);
            job_begin(&j, 3, layouts[l], &storage);
            job_run(&j, load_part);
            check_all(&j, DCP_OK, "");
            flip_bit(storage, who);
            job_run(&j, load_part);
            check_all(&j, DCP_E_CHECKSUM, "\"w\"");
            (void)snprintf(word, sizeof word, "shard %d", who);
            check_all(&j, DCP_E_CHECKSUM, word);
            CHECK_INT(j.err[1].rank, who);
            check_quick(&j, 1000);
            job_goes_on(&j, storage, 2);
            job_run(&j, load_part);
            check_all(&j, DCP_OK, "");
            job_close(&j);
            dcp_storage_close(storage);
        }
    done_doing();
}
TEST(one_loading_rank_that_fails_is_everyones_failure) {
    static const dcp_status results[] = { DCP_E_MISMATCH, DCP_E_MISMATCH, DCP_E_MISMATCH, DCP_E_INVALID, DCP_E_INVALID,
                                          DCP_E_INVALID };
    int what[2], k;
    dcp_storage *storage;
    fault_storage faulty;
    dcp_cancel cancel = { 1 };
    dcp_error err;
    char word[20];
    job j;
    job_begin(&j, 3, DCP_LAYOUT_SHARDED, &storage);
    for (what[0] = 0; what[0] < 3; what[0]++) {
        (void)snprintf(word, sizeof word, "rank %d", what[0]);
        for (what[1] = 0; what[1] < (int)DCPI_COUNT(results); what[1]++) {
            doing("rank %d wants %d", what[0], what[1]);
            j.user = what;
            job_run(&j, load_part);
            check_all(&j, what[1] == 5 ? j.status[0] : results[what[1]], word);
            CHECK(j.status[0] == DCP_E_INVALID || j.status[0] == DCP_E_MISMATCH);
            for (k = 0; k < 3; k++) CHECK_INT(j.err[k].rank, what[0]);
            check_quick(&j, 1000);
        }
        doing("rank %d cancels", what[0]);
        j.desc.io.cancel = &cancel;
        job_run(&j, load_part);
        j.desc.io.cancel = NULL;
        check_all(&j, DCP_E_CANCELLED, word);
        doing("rank %d cannot read", what[0]);
        fault_open(&faulty, storage);
        fault_set(&faulty, FAULT_READ, 1, 1000000, EIO);
        j.user = NULL;
        j.storage[what[0]] = &faulty.storage;
        job_run(&j, load_part);
        check_all(&j, DCP_E_IO, what[0] ? word : "");
        check_quick(&j, 1000);
        job_storage(&j, storage);
        fault_close(&faulty);
        job_run(&j, load_part);
        check_all(&j, DCP_OK, "");
    }
    for (k = 0; k < 3; k++) {
        char path[40];
        doing("shard %d is gone", k);
        (void)snprintf(path, sizeof path, "run/x_shard_%d.bin", k);
        CHECK_OK_MESSAGE(dcp_storage_remove(storage, path, NULL, &err), err.message);
        job_run(&j, load_part);
        check_all(&j, DCP_E_INCOMPLETE, path + 4);
        check_quick(&j, 1000);
        job_close(&j);
        dcp_storage_close(storage);
        job_begin(&j, 3, DCP_LAYOUT_SHARDED, &storage);
    }
    done_doing();
    job_close(&j);
    dcp_storage_close(storage);
}
/* "Not found" is for all ranks alike: one that alone does not see what rank 0 has found is on another storage, which is
 * trouble. */
TEST(a_rank_that_does_not_see_the_checkpoint_is_no_first_start) {
    int layout, who;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
        for (who = 0; who < 3; who++) {
            dcp_storage *storage, *empty;
            dcp_error err;
            job j;
            doing("layout %d, rank %d sees nothing", layout, who);
            job_begin(&j, 3, (dcp_layout)layout, &storage);
            CHECK_OK_MESSAGE(dcp_storage_memory(&empty, &err), err.message);
            j.storage[who] = empty;
            job_run(&j, load_part);
            if (who == 0) check_all(&j, DCP_E_NOT_FOUND, "there is no checkpoint");
            else check_all(&j, DCP_E_INCOMPLETE, "rank");
            check_quick(&j, 1000);
            if (who > 0 && layout == DCP_LAYOUT_SINGLE) check_all(&j, DCP_E_INCOMPLETE, "all ranks see");
            job_close(&j);
            dcp_storage_close(storage);
            dcp_storage_close(empty);
        }
    done_doing();
}
/* The same with a directory of the system, which the others have and it has not. */
static void elsewhere_rank(dcp_coordinator *c, process_record *out, void *user) {
    dcp_load_desc desc = DCP_ZERO;
    if (chdir((const char *)user) || (c->rank == 1 && chdir("elsewhere"))) return;
    desc.path = P;
    desc.io.coordinator = c;
    desc.io.timeout_ms = 20000;
    out->status = dcp_load(&desc, &out->err);
}
/* Each host has a disk of its own, and the path names it on all of them. */
TEST(a_storage_that_not_all_ranks_see_is_found_out_before_anything_is_written) {
    static const dcp_layout all[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_MANIFEST, DCP_LAYOUT_SINGLE };
    size_t l;
    for (l = 0; l < DCPI_COUNT(all); l++) {
        dcp_storage *shared, *apart;
        dcp_error err;
        job j;
        int before;
        doing("layout %d", (int)all[l]);
        job_begin(&j, 3, all[l], &shared);
        before = list_files(shared).count;
        CHECK_OK_MESSAGE(dcp_storage_memory(&apart, &err), err.message);
        j.storage[1] = apart;
        j.desc.overwrite = 0;
        j.desc.path = "run/other";
        j.gen = 2;
        job_run(&j, job_save);
        if (all[l] == DCP_LAYOUT_SINGLE) check_all(&j, DCP_OK, NULL);   /* rank 1's bytes go through rank 0 */
        else {
            check_all(&j, DCP_E_MISMATCH, "path must be on a storage that all ranks see");
            CHECK(j.err[0].rank == 1 && j.err[2].rank == 1);
            CHECK_INT(list_files(apart).count, 0);
            CHECK_INT(list_files(shared).count, before);
        }
        job_close(&j);
        dcp_storage_close(apart);
        dcp_storage_close(shared);
    }
    done_doing();
}
TEST(a_rank_in_another_directory_is_no_first_start) {
    char elsewhere[TEST_PATH + 20];
    const char *dir = test_dir();
    process_group g;
    dcp_storage *storage;
    dcp_error err;
    int r;
    NEEDS_FORK();
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    check_next_save(storage, DCP_LAYOUT_SHARDED, 3, 1);
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", dir);
    CHECK_INT(mkdir(elsewhere, 0777), 0);
    process_group_start(&g, 3, elsewhere_rank, (void *)(uintptr_t)dir);
    CHECK(process_await_end(&g, 0, 20000));
    for (r = 0; r < 3; r++) {
        CHECK_INT(g.shared->record[r].status, DCP_E_INCOMPLETE);
        CHECK(strstr(g.shared->record[r].err.message, "all ranks see") && g.shared->record[r].err.rank == 1);
    }
    process_group_end(&g);
    dcp_storage_close(storage);
}
/* ---- sends that report a failure and did arrive ------------------------------------------------------------------ */
/* Who cannot know how the call ended on the others says so, and nobody else does; a call that writes nothing does not
 * talk of what was written or removed. */
static const char *const lie_calls[] = { "load", "verify", "open and read", "latest", "sweep", "save" };
enum { LIE_SAVE = 5 };
static void job_call_somehow(job *j, int rank) {
    if (((const load_plan *)j->user)->how->what == LIE_SAVE) job_save(j, rank);
    else job_read_somehow(j, rank);
}
static int lie_case(int what, dcp_layout layout, int who, int nth, dcp_status failure, int unknowns[3]) {
    slow_load how;
    load_plan plan;
    fault_plan faults;
    dcp_storage *storage;
    job j;
    int r, fine = 0, failed = 0;
    doing("%s, layout %d: send %d of rank %d arrives, but fails with %s", lie_calls[what], (int)layout, nth, who,
          dcp_status_name(failure));
    job_begin(&j, 3, layout, &storage);
    memset(&how, 0, sizeof how);
    memset(&plan, 0, sizeof plan);
    memset(&faults, 0, sizeof faults);
    how.what = what;
    plan.how = &how;
    plan.io.timeout_ms = j.desc.io.timeout_ms = 200 * slowness();
    faults.lies_at = nth;
    faults.failure = failure;
    faults.only_tag = DCPI_TAG_OPERATION;
    j.user = &plan;
    j.gen = what == LIE_SAVE ? 2 : 1;
    j.coordinators[who] = fault_wrap(j.coordinators[who], &faults);
    job_run(&j, job_call_somehow);
    for (r = 0; r < 3; r++) {
        const char *text = j.err[r].message;
        fine += j.status[r] == DCP_OK;
        failed += j.status[r] != DCP_OK && j.status[r] != DCP_E_UNKNOWN;
        CHECK(j.status[r] != DCP_E_NOT_FOUND);
        if (j.status[r] != DCP_E_UNKNOWN) continue;
        unknowns[r == who ? 0 : r == 0 ? 1 : 2]++;
        CHECK(strstr(text, "is not known") || what == LIE_SAVE);
        if (what < 4) CHECK(strstr(text, "nothing was written") && !strstr(text, "commit") && !strstr(text, "removed"));
        if (what == 4) CHECK(strstr(text, "may have removed"));
    }
    if (fine && failed) check_all(&j, DCP_OK, "");                      /* fails, and shows them */
    if (what == LIE_SAVE && fine) CHECK_INT(must_load(storage), 2);
    check_quick(&j, 2000);
    job_close(&j);
    dcp_storage_close(storage);
    return faults.failed;
}
TEST(a_send_that_fails_and_arrives_never_splits_the_verdict) {
    static const dcp_status failures[] = { DCP_E_COMM, DCP_E_TIMEOUT, DCP_E_NOT_FOUND };
    int what, layout, who, nth, turn = 0;
    for (what = 0; what <= LIE_SAVE; what++) {
        int unknowns[3] = { 0, 0, 0 };
        for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
            for (who = 0; who < 3; who++)
                for (nth = 1; lie_case(what, (dcp_layout)layout, who, nth, failures[turn++ % 3], unknowns); nth++) {}
        /* its last word: in each layout, but where the verdict was faster than the failure */
        CHECK(unknowns[0] > 0);
    }
    done_doing();
}
/* Before its last word a rank knows: without it nobody can have succeeded. */
TEST(what_fails_before_the_last_word_is_known_to_have_failed) {
    int who, unknowns[3] = { 0, 0, 0 };
    for (who = 1; who < 3; who++) {
        CHECK_INT(lie_case(0, DCP_LAYOUT_SHARDED, who, 1, DCP_E_COMM, unknowns), 1);
        CHECK_INT(unknowns[0], 0);
    }
    done_doing();
}
/* ---- a rank whose coordinator tells another number of ranks ------------------------------------------------------ */
TEST(another_world_size_is_a_mismatch) {
    int what, who, wrong, r;
    for (what = 0; what <= LIE_SAVE; what++)
        for (who = 0; who < 3; who++)
            for (wrong = 2; wrong <= 4; wrong += 2) {
                slow_load how;
                load_plan plan;
                dcp_storage *storage;
                int mismatches = 0;
                job j;
                if (who >= wrong) continue;             /* no rank of that world */
                doing("%s: rank %d counts %d of 3 ranks", lie_calls[what], who, wrong);
                job_begin(&j, 3, DCP_LAYOUT_SHARDED, &storage);
                memset(&how, 0, sizeof how);
                memset(&plan, 0, sizeof plan);
                how.what = what;
                plan.how = &how;
                plan.io.timeout_ms = j.desc.io.timeout_ms = 400 * slowness();
                j.user = &plan;
                j.gen = what == LIE_SAVE ? 2 : 1;
                j.coordinators[who]->world_size = wrong;
                job_run(&j, job_call_somehow);
                for (r = 0; r < 3; r++) {
                    CHECK(j.status[r] == DCP_E_MISMATCH || j.status[r] == DCP_E_TIMEOUT ||
                          j.status[r] == DCP_E_UNKNOWN);
                    if (j.status[r] != DCP_E_MISMATCH) continue;
                    mismatches++;
                    CHECK(strstr(j.err[r].message, "world size"));
                }
                /* then it does not know the one that it cannot tell */
                CHECK(mismatches >= (who == 0 && wrong == 2 ? 1 : 3));
                j.coordinators[who]->world_size = 3;
                CHECK_INT(must_load(storage), 1);
                job_close(&j);
                dcp_storage_close(storage);
            }
    done_doing();
}
/* A rank that is stopped while the others load. */
static void load_rank(dcp_coordinator *c, process_record *out, void *user) {
    const blow *b = (const blow *)user;
    fault_storage faulty;
    dcp_storage *storage;
    job j;
    here.b = b;
    here.rank = c->rank;
    here.send = c->send;
    c->send = blow_send;
    if (dcp_storage_local(b->dir, &storage, &out->err)) return;
    fault_open(&faulty, storage);
    faulty.hook = blow_hook;
    memset(&j, 0, sizeof j);
    j.ranks = 3;
    j.coordinators[c->rank] = c;
    {
        dcp_load_desc desc = DCP_ZERO;
        int64_t n = BIG, whole = (int64_t)BIG * 3, at = n * c->rank;
        static uint32_t w[BIG];
        dcp_tensor t = dcp_array("w", DCP_UINT32, w, 1, &n);
        dcp_piece(&t, &whole, &at);
        desc.path = P;
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.io.storage = &faulty.storage;
        desc.io.coordinator = c;
        desc.io.timeout_ms = b->timeout_ms;
        out->status = dcp_load(&desc, &out->err);
    }
    process_stage(out, 100);
    dcp_storage_close(storage);
}
TEST(a_load_beside_a_rank_that_stops_or_dies) {
    static const stop points[] = {
        { "before it asks", 1, AT_SEND, 1, FAULT_ANY, NULL, DCP_E_TIMEOUT },
            { "while it reads", 2, AT_CALL, 0, FAULT_READ, "_shard_", DCP_E_TIMEOUT },
        { "while it finds the document", 0, AT_CALL, 0, FAULT_READ, "metadata", DCP_E_TIMEOUT },
        { "while it tells the others", 0, AT_SEND, 3, FAULT_ANY, NULL, DCP_E_UNKNOWN } };
    size_t i;
    int kills, r;
    dcp_storage *storage;
    dcp_error err;
    const char *dir = test_dir();
    NEEDS_FORK();
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    check_next_save(storage, DCP_LAYOUT_SHARDED, 3, 1);
    for (kills = 0; kills < 2; kills++)
        for (i = 0; i < DCPI_COUNT(points); i++) {
            const stop *how = &points[i];
            blow b;
            process_group g;
            int64_t began = dcpi_os_monotonic_ms();
            doing("rank %d %s %s", how->who, kills ? "dies" : "stops", how->label);
            memset(&b, 0, sizeof b);
            b.who = how->who;
            b.number = kills ? SIGKILL : SIGSTOP;
            b.at = how->at;
            b.at_number = how->at_number;
            b.kind = how->kind;
            b.key = how->key;
            b.dir = dir;
            b.timeout_ms = STOP_MS * slowness();
            process_group_start(&g, 3, load_rank, &b);
            if (!kills) await_stop(&g, how->who);
            CHECK(process_await_end(&g, kills ? 0 : 1u << how->who, 20000));
            CHECK(dcpi_os_monotonic_ms() - began <= (kills ? 300 : STOP_MS * 6 / 5) * slowness() + allowance());
            for (r = 0; r < 3; r++) {
                const dcp_status status = g.shared->record[r].status;
                if (r == how->who) continue;
                if (status != (kills && how->others == DCP_E_TIMEOUT ? DCP_E_COMM : how->others))
                    test_fail(__FILE__, __LINE__, g.shared->record[r].err.message, dcp_status_name(status));
                CHECK_INT(g.shared->record[r].err.rank, how->who);
            }
            if (!kills) {
                process_signal(&g, how->who, SIGCONT);
                CHECK(process_await_end(&g, 0, 20000));
                if (how->others == DCP_E_TIMEOUT) CHECK(g.shared->record[how->who].status != DCP_OK);
            }
            process_group_end(&g);
        }
    done_doing();
    CHECK_INT(must_load(storage), 1);
    dcp_storage_close(storage);
}
/* Rank 0 has given the others up, has said so and is gone when they send their first message: it does not arrive, and
 * they find rank 0's word in the mail. */
static struct {
    dcp_status (*send)(void *, int, int, const void *, size_t, int, dcp_error *);
    process_record *own;
} hesitant;
static dcp_status hesitant_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                                dcp_error *err) {
    while (!dcpi_flag_get(&hesitant.own->stage)) dcpi_os_sleep_ms(1);
    return hesitant.send(context, to, tag, data, size, timeout_ms, err);
}
static void hesitant_rank(dcp_coordinator *c, process_record *out, void *user) {
    dcp_load_desc desc = DCP_ZERO;
    dcp_storage *storage;
    if (dcp_storage_local((const char *)user, &storage, &out->err)) return;
    hesitant.send = c->send;
    hesitant.own = out;
    if (c->rank != 0) c->send = hesitant_send;
    desc.path = P;
    desc.io.storage = storage;
    desc.io.coordinator = c;
    desc.io.timeout_ms = 300;
    out->status = dcp_load(&desc, &out->err);
    dcp_storage_close(storage);
}
TEST(the_word_of_a_rank_0_that_has_left_is_heard) {
    const char *dir = test_dir();
    process_group g;
    int r;
    NEEDS_FORK();
    process_group_start(&g, 3, hesitant_rank, (void *)(uintptr_t)dir);
    CHECK(process_await_end(&g, 6, 20000));
    for (r = 1; r < 3; r++) process_stage(&g.shared->record[r], 1);
    CHECK(process_await_end(&g, 0, 20000));
    for (r = 0; r < 3; r++) {
        const dcp_error *err = &g.shared->record[r].err;
        CHECK_STR(dcp_status_name(g.shared->record[r].status), "DCP_E_TIMEOUT");
        CHECK_INT(err->rank, 1);
        CHECK(strstr(err->message, "no heartbeat from ranks 1 and 2") != NULL);
    }
    process_group_end(&g);
}

/* ---- no memory on one of two ranks ------------------------------------------------------------------------------- */
static void hungry_save(job *j, int rank) {
    hunger *h = (hunger *)j->user;
    hungry_here = rank == h->who;
    if (hungry_here) {
        (void)pthread_mutex_lock(&hungry_lock);
        hungry_one = h;
        (void)pthread_mutex_unlock(&hungry_lock);
    }
    if (j->gen) job_save(j, rank);
    else {
        dcp_load_desc desc = DCP_ZERO;
        uint32_t words[SMALL];
        int64_t n = SMALL;
        dcp_tensor b = dcp_array("b", DCP_UINT32, words, 1, &n);
        desc.path = P;
        desc.tensors = &b;
        desc.tensor_count = 1;
        desc.io.storage = j->storage[rank];
        desc.io.coordinator = j->coordinators[rank];
        desc.io.timeout_ms = 20000;
        j->status[rank] = dcp_load(&desc, &j->err[rank]);
    }
}
static int hungry_case(dcp_storage *storage, dcp_layout layout, int is_load, int who, int fail_at, uint32_t *gen) {
    hunger h;
    job j;
    uint32_t now;
    int64_t live;
    memset(&j, 0, sizeof j);
    memset(&h, 0, sizeof h);
    doing("%s, %s, allocation %d of rank %d", layout_name(layout), is_load ? "load" : "save", fail_at, who);
    job_storage(&j, storage);
    job_open(&j, 2);
    live = hungry_count();
    h.fail_at = fail_at;
    h.who = who;
    j.user = &h;
    j.desc.layout = layout;
    j.desc.overwrite = 1;
    j.gen = is_load ? 0 : *gen + 1;
    job_run(&j, hungry_save);
    hungry_one = NULL;
    check_quick(&j, 1500);
    if (h.tripped && j.status[0] != DCP_OK && j.status[1] != DCP_OK)
        CHECK(j.status[0] == DCP_E_MEMORY || j.status[0] == DCP_E_UNKNOWN);
    if (!h.tripped) check_all(&j, DCP_OK, "");
    if (j.status[0] != j.status[1])
        test_fail(__FILE__, __LINE__, j.err[0].message[0] ? j.err[0].message : j.err[1].message,
                  " (the other rank differs)");
    now = must_load(storage);
    if (!is_load) CHECK_INT(now, j.status[0] == DCP_OK ? *gen + 1 : *gen);
    *gen = now;
    job_close(&j);
    if (is_load) CHECK(hungry_count() <= live);         /* the memory storage holds what was saved */
    return h.tripped;
}
TEST(no_memory_on_one_rank) {
    int l, who, n, cases = 0;
    int64_t live = hungry_count();
    for (l = 0; l < 2; l++) {
        dcp_storage *storage;
        uint32_t gen = 1;
        job j;
        job_begin(&j, 2, layouts[l], &storage);
        job_close(&j);
        for (who = 0; who < 2; who++) {
            for (n = 1; hungry_case(storage, layouts[l], 0, who, n, &gen); n += 1 + l) cases++;
            for (n = 1; hungry_case(storage, layouts[l], 1, who, n, &gen); n += 1 + l) cases++;
        }
        sweep_all(storage);
        check_clean(storage, 2, layouts[l]);
        dcp_storage_close(storage);
    }
    done_doing();
    CHECK(cases > 150);
    CHECK_INT(hungry_count(), live);
}
/* Memory that fails from then on, in one process or in one of many: a save that fails takes back what it has published.
 * Only where rank 0 does not know the outcome may a rank leave it (G5). */
enum { STARVING_MS = 4000 };            /* io.timeout_ms: who stands still for so long leaves what has a plain name */
static int left_without_memory(dcp_storage *storage) {
    static const char *const folders[] = { "run", "run/dense" };
    int count = 0, i;
    size_t k;
    for (k = 0; k < DCPI_COUNT(folders); k++) {
        listing l;
        dcp_error err;
        memset(&l, 0, sizeof l);
        (void)storage->list(storage->context, folders[k], DCP_LIST_OBJECTS, listing_add, &l, &err);
        for (i = 0; i < l.count; i++) {
            if (strstr(l.names[i], ".commit.lock")) continue;
            printf("    left: %s\n", l.names[i]);
            count++;
        }
    }
    return count;
}
static void starving_save(job *j, int rank) {
    dcp_save_desc desc = j->desc;
    desc.path = P;
    desc.tensors = ((state **)j->user)[rank]->tensors;
    desc.tensor_count = 3;
    desc.io.storage = j->storage[rank];
    desc.io.coordinator = j->coordinators[rank];
    desc.io.timeout_ms = STARVING_MS * slowness();
    desc.io.retry.first_ms = 1;
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
}
/* Ranks that are threads: nobody gets memory. Whether the requests were so many. */
static int starving_threads(dcp_layout layout, int64_t from) {
    state *states[2];
    dcp_storage *storage;
    dcp_error err;
    job j;
    int r, tripped, is_slow;
    doing("layout %d, no memory from request %d on", (int)layout, (int)from);
    memset(&j, 0, sizeof j);
    CHECK_OK_MESSAGE(dcp_storage_memory(&storage, &err), err.message);
    job_storage(&j, storage);
    job_open(&j, 2);
    for (r = 0; r < 2; r++) states[r] = state_make(1, r, 2);
    j.user = states;
    j.desc.layout = layout;
    starving_calls = 0;
    starving_from = from;
    job_run(&j, starving_save);
    tripped = starving_calls >= from;
    starving_from = 0;
    is_slow = j.took_ms[0] > STARVING_MS || j.took_ms[1] > STARVING_MS;
    for (r = 0; r < 2; r++) free(states[r]);
    if (!tripped) check_all(&j, DCP_OK, "");
    for (r = 0; r < 2 && !is_slow; r++)                 /* who has lost no message knows */
        if (j.status[0] != DCP_E_UNKNOWN && j.status[r] == DCP_E_UNKNOWN) test_fail(__FILE__, __LINE__,
                j.err[0].message, j.err[r].message);
    if (j.status[0] != DCP_OK && j.status[0] != DCP_E_UNKNOWN && !is_slow) CHECK_INT(left_without_memory(storage), 0);
    job_close(&j);
    dcp_storage_close(storage);
    return tripped;
}
typedef struct starving { const char *dir; dcp_layout layout; int who; int64_t from; } starving;
static void starving_rank(dcp_coordinator *c, process_record *out, void *user) {
    const starving *v = (const starving *)user;
    state *own = state_make(1, c->rank, c->world_size), *states[2];
    dcp_storage *storage;
    int64_t began;
    job j;
    memset(&j, 0, sizeof j);
    states[0] = states[1] = own;
    out->status = dcp_storage_local(v->dir, &storage, &out->err);
    if (out->status) return;
    job_storage(&j, storage);
    j.coordinators[c->rank] = c;
    j.user = states;
    j.desc.layout = v->layout;
    starving_from = v->who == c->rank || v->who == 2 ? v->from : 0;
    began = dcpi_os_monotonic_ms();
    starving_save(&j, c->rank);
    out->took_ms = dcpi_os_monotonic_ms() - began;
    out->number[0] = starving_from && starving_calls >= starving_from;
    starving_from = 0;
    out->status = j.status[c->rank];
    out->err = j.err[c->rank];
    process_stage(out, 100);
    dcp_storage_close(storage);
    free(own);
}
/* Ranks that are processes: one gets none, or (who 2) both. */
static int starving_processes(dcp_layout layout, int who, int64_t from) {
    starving v;
    process_group g;
    dcp_storage *storage;
    dcp_error err;
    int r, tripped = 0, is_known = 1;
    v.dir = test_state.dir[0];
    v.layout = layout;
    v.who = who;
    v.from = from;
    test_rm_rf(v.dir);
    doing("layout %d, rank %d gets no memory from request %d on", (int)layout, who, (int)from);
    CHECK_OK_MESSAGE(dcp_storage_local(v.dir, &storage, &err), err.message);
    process_group_start(&g, 2, starving_rank, &v);
    CHECK(process_await_end(&g, 0, 30000));
    for (r = 0; r < 2; r++) {
        const process_record *record = &g.shared->record[r];
        CHECK_INT(record->stage, 100);
        tripped |= record->number[0] != 0;
        is_known &= record->status != DCP_E_UNKNOWN && record->took_ms <= STARVING_MS;
    }
    if (!tripped) CHECK_INT(g.shared->record[0].status, DCP_OK);
    if (g.shared->record[0].status != DCP_OK && is_known) CHECK_INT(left_without_memory(storage), 0);
    process_group_end(&g);
    dcp_storage_close(storage);
    return tripped;
}
TEST(no_memory_from_then_on) {
    const int step = test_is_sampled() || test_is_sanitized() ? 11 : 3;
    int layout, who, cases = 0;
    int64_t from;
    (void)test_ram_dir();
    NEEDS_FORK();
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        for (from = 1; starving_threads((dcp_layout)layout, from); from += step) cases++;
        for (who = 0; who < 3; who++)
            for (from = 1; starving_processes((dcp_layout)layout, who, from); from += step) cases++;
    }
    done_doing();
    CHECK(cases > 1000 / step);
}

/* ---- the other collective calls: all ranks get the same ---------------------------------------------------------- */
typedef struct together { char path[RANKS][200]; dcp_removal removed[RANKS]; int call; } together;
static void together_call(job *j, int rank) {
    together *t = (together *)j->user;
    dcp_io io = DCP_ZERO;
    dcp_error *err = &j->err[rank];
    dcp_status *status = &j->status[rank];
    io.storage = j->storage[rank];
    io.coordinator = j->ranks > 1 ? j->coordinators[rank] : NULL;
    io.timeout_ms = 20000;
    t->path[rank][0] = '\0';
    memset(&t->removed[rank], 0, sizeof t->removed[rank]);
    if (t->call == 0) {
        dcp_latest_desc desc = DCP_ZERO;
        char *path;
        desc.directory = "run";
        desc.verify = DCP_VERIFY_ALL;
        desc.io = io;
        *status = dcp_latest(&desc, &path, err);
        if (path) (void)snprintf(t->path[rank], sizeof t->path[rank], "%s", path);
        dcp_free(path);
    } else if (t->call == 1) {
        dcp_prune_desc desc = DCP_ZERO;
        desc.directory = "run";
        desc.keep_last = 2;
        desc.io = io;
        *status = dcp_prune(&desc, &t->removed[rank], err);
    } else if (t->call == 2) {
        dcp_sweep_desc desc = DCP_ZERO;
        desc.directory = "run";
        desc.grace_seconds = -1;
        desc.io = io;
        *status = dcp_sweep(&desc, &t->removed[rank], err);
    } else if (t->call == 3) {
        dcp_remove_desc desc = DCP_ZERO;
        desc.path = "run/c3";
        desc.io = io;
        *status = dcp_remove(&desc, &t->removed[rank], err);
    } else {
        dcp_open_desc desc = DCP_ZERO;
        dcp_checkpoint *c;
        uint32_t p[SMALL], b[SMALL];
        int64_t n = SMALL, i;
        dcp_tensor wanted = dcp_array("p", DCP_UINT32, p, 1, &n), other = dcp_array("b", DCP_UINT32, b, 1, &n);
        wanted.placement = DCP_PLACE_PRIVATE;
        desc.path = "run/c2";
        desc.io = io;
        *status = dcp_open(&desc, &c, err);
        if (!*status) *status = dcp_read_rank(c, 1, &wanted, 1, err);
        if (!*status) *status = dcp_read(c, &other, 1, err);
        if (!*status) *status = dcp_verify(c, err);
        for (i = 0; i < SMALL && !*status; i++)
            if (p[i] != value_p(2, 1, i) || b[i] != value_b(2, i))
                *status = dcpi_fail(err, DCP_E_CHECKSUM, "test: wrong bytes");
        dcp_close(c);
    }
}
static void together_run(job *j, together *t, int call, dcp_status expected, size_t removed) {
    int r;
    size_t i;
    t->call = call;
    doing("%d ranks, call %d", j->ranks, call);
    job_run(j, together_call);
    check_all(j, expected, "");
    for (r = 0; r < j->ranks; r++) {
        CHECK_STR(t->path[r], t->path[0]);
        CHECK_STR(j->err[r].message, j->err[0].message);
        CHECK_INT(t->removed[r].path_count, removed);
        CHECK(t->removed[r].bytes == t->removed[0].bytes && t->removed[r].checkpoints == t->removed[0].checkpoints);
        for (i = 0; i < removed; i++) CHECK_STR(t->removed[r].paths[i], t->removed[0].paths[i]);
    }
    for (r = 0; r < j->ranks; r++) dcp_removal_free(&t->removed[r]);
}
static void together_name(job *j, int rank, dcp_save_desc *desc, state *s) {
    static const char *const paths[] = { "run/c0", "run/c1", "run/c2", "run/c3" };
    (void)rank; (void)s;
    desc->path = paths[j->gen];
}
TEST(all_ranks_get_the_same_from_every_call) {
    static const int worlds[] = { 1, 3, 5 };
    size_t i;
    for (i = 0; i < DCPI_COUNT(worlds); i++) {
        together t;
        dcp_storage *storage;
        dcp_error err;
        job j;
        memset(&t, 0, sizeof t);
        memset(&j, 0, sizeof j);
        CHECK_OK_MESSAGE(dcp_storage_memory(&storage, &err), err.message);
        job_storage(&j, storage);
        job_open(&j, 2);
        j.twist = together_name;
        for (j.gen = 0; j.gen < 4; j.gen++) { job_run(&j, job_save); check_all(&j, DCP_OK, ""); }
        job_close(&j);
        job_open(&j, worlds[i]);
        j.user = &t;
        together_run(&j, &t, 0, DCP_OK, 0);
        CHECK_STR(t.path[0], "run/c3.metadata.json");
        together_run(&j, &t, 1, DCP_OK, 6);
        CHECK_OK_MESSAGE(dcp_storage_write_all(storage, "run/c9_shard_0.0123456789abcdef.bin", "x", 1, NULL, &err),
                         err.message);
        together_run(&j, &t, 2, DCP_OK, 1);
        together_run(&j, &t, 3, DCP_OK, 3);
        together_run(&j, &t, 3, DCP_E_NOT_FOUND, 0);
        together_run(&j, &t, 0, DCP_OK, 0);
        CHECK_STR(t.path[worlds[i] - 1], "run/c2.metadata.json");
        together_run(&j, &t, 4, DCP_OK, 0);
        CHECK_OK_MESSAGE(dcp_storage_remove(storage, "run/c2_shard_1.bin", NULL, &err), err.message);
        together_run(&j, &t, 4, DCP_E_INCOMPLETE, 0);
        together_run(&j, &t, 0, DCP_E_INCOMPLETE, 0);
        job_close(&j);
        dcp_storage_close(storage);
    }
    done_doing();
}

int main(void) {
    RUN(one_rank_that_fails_is_everyones_failure);
    RUN(a_rank_that_fails_after_its_part_of_a_round_is_heard);
    RUN(ranks_that_save_something_else_are_a_mismatch);
    RUN(tensors_that_no_rank_counts_are_found);
    RUN(ranks_in_different_calls_are_a_mismatch);
    RUN(ranks_in_different_reads_are_a_mismatch);
    RUN(tensors_that_do_not_fit_together_are_named_with_their_ranks);
    RUN(a_rank_is_killed_at_every_point_of_a_save);
    RUN(a_stopped_rank_is_a_timeout_and_harms_nothing_when_it_wakes);
    RUN(a_rank_that_goes_on_before_the_deadline_does_no_harm);
    RUN(who_lives_takes_back_plain_names);
    RUN(slow_ranks_that_live_succeed);
    RUN(slow_ranks_that_live_succeed_in_loads);
    RUN(pauses_between_attempts_show_life_in_loads);
    RUN(a_pause_between_attempts_ends_with_the_operation);
    RUN(late_and_lost_messages_never_split_the_verdict);
    RUN(readers_never_see_a_mixture_while_ranks_overwrite);
    RUN(three_savers_of_one_path_lose_no_file);
    RUN(damage_that_one_loading_rank_sees_is_everyones);
    RUN(one_loading_rank_that_fails_is_everyones_failure);
    RUN(a_rank_that_does_not_see_the_checkpoint_is_no_first_start);
    RUN(a_storage_that_not_all_ranks_see_is_found_out_before_anything_is_written);
    RUN(a_rank_in_another_directory_is_no_first_start);
    RUN(a_load_beside_a_rank_that_stops_or_dies);
    RUN(a_send_that_fails_and_arrives_never_splits_the_verdict);
    RUN(what_fails_before_the_last_word_is_known_to_have_failed);
    RUN(another_world_size_is_a_mismatch);
    RUN(the_word_of_a_rank_0_that_has_left_is_heard);
    RUN(no_memory_on_one_rank);
    RUN(no_memory_from_then_on);
    RUN(all_ranks_get_the_same_from_every_call);
    return test_finish();
}
#endif
