/* test_lock.c - the commit lock: programs that save to one path at once, and holders that are killed, or stand still
 * and wake.
 *
 * Racers are processes (or threads) that begin together and meet once more when each has looked what is there: exactly
 * one commits, the others get DCP_E_EXISTS, and nothing is left of them. Then one that is killed, or stopped, before
 * and after each of its system calls, while another one saves: what a killed one leaves keeps nobody waiting; what a
 * stopped one held is taken over, and when it wakes it commits over nobody. Every interleaving of the calls of the
 * storage is in test_interleave.c. */
#ifdef _WIN32
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
TEST(racers) { SKIP("there is no fork on this system"); }
int main(void) {
    RUN(racers);
    return test_finish();
}
#else
/* ---- system calls, counted: the system's headers come first, so that only the library's calls are renamed -------- */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two steps a call: before it and after it, from when it is armed. At step `at` (0: never) the process gets `number`,
 * or, if set, `happens` is called. no_locks: what any lock says, 0: all is well;
 * no_ranges: a lock of a range is not known here. */
static struct {
    int64_t steps, at;
    int number, is_armed, no_locks, no_ranges, locks /* refused */;
    void (*happens)(void);
} calls;

static void step(void) {
    if (!calls.is_armed || ++calls.steps != calls.at) return;
    if (calls.happens) calls.happens();
    else (void)kill(getpid(), calls.number);
}
static int after_int(int result) { step(); return result; }
static long after_long(long result) { step(); return result; }
static ssize_t after_size(ssize_t result) { step(); return result; }
static int refused(int error) { errno = error; return -1; }
static int lock_call(int fd, int what, struct flock *range) {
    int result;
    step();
    if (calls.no_locks) calls.locks++;
    if (calls.no_locks) result = refused(calls.no_locks);
    else if (calls.no_ranges) result = refused(EINVAL);
    else result = fcntl(fd, what, range);
    step();
    return result;
}
static int flock_call(int fd, int what) {
    int result;
    step();
    result = calls.no_locks ? refused(calls.no_locks) : flock(fd, what);
    step();
    return result;
}
static int fcntl_call(int fd, int what, intptr_t argument) {
    if (what != F_SETFL) return lock_call(fd, what, (struct flock *)argument);
    return fcntl(fd, what, (int)argument);
}
#define fdatasync(fd) (step(), after_int(fdatasync(fd)))
#define pwrite(fd, data, size, offset) (step(), after_size(pwrite(fd, data, size, offset)))
#define pread(fd, data, size, offset) (step(), after_size(pread(fd, data, size, offset)))
#define renameat(from_dir, from, to_dir, to) (step(), after_int(renameat(from_dir, from, to_dir, to)))
#define unlinkat(dir, name, flags) (step(), after_int(unlinkat(dir, name, flags)))
#define fstatat(dir, name, st, flags) (step(), after_int(fstatat(dir, name, st, flags)))
#define openat(...) (step(), after_int(openat(__VA_ARGS__)))
#define syscall(...) (step(), after_long(syscall(__VA_ARGS__)))
#define fcntl(fd, what, argument) fcntl_call(fd, what, (intptr_t)(argument))
#define flock(fd, what) flock_call(fd, what)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#undef fdatasync
#undef pwrite
#undef pread
#undef renameat
#undef unlinkat
#undef fstatat
#undef openat
#undef syscall
#undef fcntl
#undef flock
#include "test.h"
#include "fault_storage.h"
#include "generations.h"

enum { SIZE = 500, MOST = 4, NONE = 0 };
static const char *const layout_names[] = { "sharded", "single", "manifest" };
static char place[300];                 /* for messages */
static void say(const char *test, const char *what, int64_t n) {
    (void)snprintf(place, sizeof place, "%s [%s %d]", test, what, (int)n);
    test_state.name = place;
}

/* ---- racers ------------------------------------------------------------------------------------------------------ */
typedef struct racer {
    dcp_storage *storage;
    dcp_layout layout;
    int generation, overwrite, timeout_ms;
    int ready, go;
    /* -1: it meets nobody */ uint32_t not_durable;
    dcp_error err;
} racer;
typedef struct meeting { const racer *r; int has_met; } meeting;

/* When it has looked what is there, and before it writes anything that is to stay. */
static void meet(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    meeting *m = (meeting *)user;
    char byte = 1;
    (void)call;
    if (kind != FAULT_BEGIN || is_done || m->has_met || strstr(key, ".intent.")) return;
    m->has_met = 1;
    if (m->r->ready < 0) { calls.is_armed = 1; return; }
    if (write(m->r->ready, &byte, 1) != 1 || read(m->r->go, &byte, 1) != 1) abort();
}
static dcp_status race(racer *r) {
    generation g;
    dcp_save_desc desc;
    dcp_save_report report;
    dcp_status status;
    fault_storage f;
    meeting m;
    char byte = 1;
    m.r = r;
    m.has_met = 0;
    fault_open(&f, r->storage);
    f.hook = meet;
    f.user = &m;
    generation_make(&g, SIZE, r->generation);
    desc = generation_desc(&g, &f.storage, r->layout, "p");
    desc.overwrite = r->overwrite;
    desc.io.timeout_ms = r->timeout_ms;
    desc.report = &report;
    memset(&report, 0, sizeof report);
    status = dcp_save(&desc, &r->err);
    r->not_durable = report.not_durable;
    if (r->ready >= 0 && !m.has_met && write(r->ready, &byte, 1) != 1) abort();
    generation_free(&g);
    fault_close(&f);
    return status;
}
static dcp_storage *local_at(const char *dir) {
    dcp_storage *storage;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    return storage;
}
static pid_t race_process(const char *dir, racer r) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child) return child;
    if (dcp_storage_local(dir, &r.storage, NULL)) _exit(99);
    _exit((int)race(&r));
}
static dcp_status status_of(pid_t child) {
    int state;
    CHECK_INT(waitpid(child, &state, 0), child);
    CHECK(WIFEXITED(state));
    return (dcp_status)WEXITSTATUS(state);
}
static void let_go(int ready, int go, int count) {
    char bytes[MOST];
    int i;
    memset(bytes, 0, sizeof bytes);
    for (i = 0; i < count; i++) CHECK_INT(read(ready, bytes, 1), 1);
    CHECK_INT(write(go, bytes, (size_t)count), count);
}
/* Exactly one has won, and its checkpoint is what is there, with nothing beside it. */
static void check_race(dcp_storage *storage, const racer *racers, const dcp_status *statuses, int count) {
    int i, winner = -1;
    for (i = 0; i < count; i++) {
        if (statuses[i] == DCP_OK) { CHECK_INT(winner, -1); winner = i; }
        else CHECK_STR(dcp_status_name(statuses[i]), "DCP_E_EXISTS");
    }
    CHECK(winner >= 0);
    CHECK_INT(generation_at(storage, "p"), racers[winner].generation);
    /* files of the pool stay while another manifest is being saved: whoever is the last to remove some leaves those to
     * sweep */
    for (i = 0; i < count; i++) if (racers[i].layout == DCP_LAYOUT_MANIFEST) CHECK_OK(generation_sweep(storage, NULL));
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
}
static void race_processes(const char *dir, dcp_storage *storage, racer *racers, int count) {
    int ready[2], go[2], i;
    pid_t children[MOST];
    dcp_status statuses[MOST];
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    for (i = 0; i < count; i++) {
        racers[i].ready = ready[1];
        racers[i].go = go[0];
        children[i] = race_process(dir, racers[i]);
    }
    let_go(ready[0], go[1], count);
    for (i = 0; i < count; i++) statuses[i] = status_of(children[i]);
    for (i = 0; i < 2; i++) CHECK(close(ready[i]) == 0 && close(go[i]) == 0);
    check_race(storage, racers, statuses, count);
}
static void empty(dcp_storage *storage) {
    generation_files files;
    int i;
    generation_files_find(&files, storage);
    for (i = 0; i < files.count; i++) CHECK_OK(dcp_storage_remove(storage, files.name[i], NULL, NULL));
    generation_files_free(&files);
}
static void seed(dcp_storage *storage, dcp_layout layout) {
    dcp_error err;
    CHECK_OK_MESSAGE(generation_save(storage, layout, "p", SIZE, 1, &err), err.message);
}
static void racers_set(racer *racers, int count, dcp_layout a, dcp_layout b, int overwrite) {
    int i;
    memset(racers, 0, (size_t)count * sizeof *racers);
    for (i = 0; i < count; i++) {
        racers[i].layout = i % 2 ? b : a;
        racers[i].generation = 10 + i;
        racers[i].overwrite = overwrite;
    }
}
TEST(processes_that_overwrite_one_path) {
    const char *test = test_state.name, *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    racer racers[MOST];
    int layout, round;
    for (layout = 0; layout < 3; layout++) {
        empty(storage);
        seed(storage, (dcp_layout)layout);
        for (round = 0; round < test_times(160); round++) {
            say(test, layout_names[layout], round);
            racers_set(racers, 2 + round % 3, (dcp_layout)layout, (dcp_layout)layout, 1);
            race_processes(dir, storage, racers, 2 + round % 3);
        }
    }
    dcp_storage_close(storage);
    test_state.name = test;
}
TEST(first_saves_of_processes_in_two_layouts) {
    static const struct { dcp_layout a, b; } pairs[] = { { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE },
                                                         { DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST },
                                                         { DCP_LAYOUT_MANIFEST, DCP_LAYOUT_SHARDED },
                                                         { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SHARDED } };
    const char *test = test_state.name, *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    racer racers[MOST];
    size_t pair;
    int round;
    for (pair = 0; pair < DCPI_COUNT(pairs); pair++)
        for (round = 0; round < test_times(160); round++) {
            say(test, layout_names[pairs[pair].a], round);
            empty(storage);
            racers_set(racers, 2, pairs[pair].a, pairs[pair].b, round % 2);
            race_processes(dir, storage, racers, 2);
        }
    dcp_storage_close(storage);
    test_state.name = test;
}
#if !DCP_NO_THREADS
typedef struct racing { racer *r; dcp_status status; dcpi_thread thread; } racing;
static void race_thread(void *racing_) {
    racing *r = (racing *)racing_;
    r->status = race(r->r);
}
static void race_threads(dcp_storage *storage, racer *racers, int count) {
    racing threads[MOST];
    dcp_status statuses[MOST];
    int ready[2], go[2], i;
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    for (i = 0; i < count; i++) {
        racers[i].storage = storage;
        racers[i].ready = ready[1];
        racers[i].go = go[0];
        threads[i].r = &racers[i];
        CHECK_INT(dcpi_thread_start(&threads[i].thread, race_thread, &threads[i]), 0);
    }
    let_go(ready[0], go[1], count);
    for (i = 0; i < count; i++) {
        dcpi_thread_join(&threads[i].thread);
        statuses[i] = threads[i].status;
    }
    for (i = 0; i < 2; i++) CHECK(close(ready[i]) == 0 && close(go[i]) == 0);
    check_race(storage, racers, statuses, count);
}
static void race_of_threads(dcp_storage *storage, const char *test, const char *what) {
    racer racers[MOST];
    int layout, round;
    for (layout = 0; layout < 3; layout++) {
        empty(storage);
        for (round = 0; round < test_times(100); round++) {
            say(test, what, layout * 1000 + round);
            if (round % 2) empty(storage);
            else if (round == 0 || generation_at(storage, "p") == 0) seed(storage, (dcp_layout)layout);
            racers_set(racers, 3, (dcp_layout)layout, (dcp_layout)(round % 2 ? (layout + 1) % 3 : layout),
                       round % 2 == 0);
            race_threads(storage, racers, 3);
            if (round % 2) empty(storage);
        }
    }
}
TEST(threads_that_save_to_one_path) {
    const char *test = test_state.name;
    dcp_storage *storage = local_at(test_ram_dir());
    race_of_threads(storage, test, "local");
    dcp_storage_close(storage);
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    race_of_threads(storage, test, "memory");
    dcp_storage_close(storage);
    test_state.name = test;
}
#else
TEST(threads_that_save_to_one_path) { SKIP("built without threads"); }
#endif

/* ---- one process, stopped or killed at each of its system calls, and another one that saves meanwhile ------------ */
typedef struct victim {
    const char *dir;
    racer r;
    int64_t at;
    int number;
    pid_t child;
    int has_ended;
    dcp_status status;
} victim;

static void victim_start(victim *v) {
    int state;
    v->has_ended = 0;
    v->child = fork();
    CHECK(v->child >= 0);
    if (v->child == 0) {
        if (dcp_storage_local(v->dir, &v->r.storage, NULL)) _exit(99);
        calls.is_armed = 0;
        calls.steps = 0;
        calls.at = v->at;
        calls.number = v->number;
        v->r.ready = -1;
        _exit((int)race(&v->r));
    }
    CHECK_INT(waitpid(v->child, &state, WUNTRACED), v->child);
    if (WIFSTOPPED(state)) return;
    v->has_ended = 1;
    v->status = WIFEXITED(state) ? (dcp_status)WEXITSTATUS(state) : DCP_E_UNKNOWN;
    if (!WIFEXITED(state)) CHECK_INT(WTERMSIG(state), SIGKILL);
}
static void victim_wake(victim *v) {
    CHECK_INT(kill(v->child, SIGCONT), 0);
    v->status = status_of(v->child);
    v->has_ended = 1;
}
static void sweep_clean(dcp_storage *storage, int generation) {
    dcp_error err;
    CHECK_OK_MESSAGE(generation_sweep(storage, &err), err.message);
    CHECK_INT(generation_at(storage, "p"), generation);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
}
enum { VICTIM = 20, SUCCESSOR = 30 };
static dcp_status successor_saves(dcp_storage *storage, dcp_layout layout, int timeout_ms, dcp_error *err) {
    racer r;
    dcp_status status;
    memset(&r, 0, sizeof r);
    r.storage = storage;
    r.layout = layout;
    r.generation = SUCCESSOR;
    r.overwrite = 1;
    r.timeout_ms = timeout_ms;
    r.ready = -1;
    status = race(&r);
    *err = r.err;
    return status;
}
/* 0: the victim has come to its end before that step. */
static int killed_at(const char *dir, dcp_layout layout, int is_first, int64_t at) {
    dcp_storage *storage = local_at(dir);
    const int64_t begun = dcpi_os_monotonic_ms();
    dcp_error err;
    victim v;
    memset(&v, 0, sizeof v);
    v.dir = dir;
    v.r.layout = layout;
    v.r.generation = VICTIM;
    v.r.overwrite = 1;
    v.at = at;
    v.number = SIGKILL;
    empty(storage);
    if (!is_first) seed(storage, layout);
    victim_start(&v);
    CHECK_OK_MESSAGE(successor_saves(storage, layout, 60000, &err), err.message);
    CHECK(dcpi_os_monotonic_ms() - begun < 30000);      /* nobody waits for the dead */
    CHECK_INT(generation_at(storage, "p"), SUCCESSOR);
    sweep_clean(storage, SUCCESSOR);
    dcp_storage_close(storage);
    return v.status != DCP_OK;
}
static int stopped_at(const char *dir, dcp_layout layout, int is_first, int64_t at) {
    dcp_storage *storage = local_at(dir);
    dcp_status status;
    dcp_error err;
    victim v;
    int before;
    memset(&v, 0, sizeof v);
    v.dir = dir;
    v.r.layout = layout;
    v.r.generation = VICTIM;
    v.r.overwrite = 1;
    v.at = at;
    v.number = SIGSTOP;
    empty(storage);
    if (!is_first) seed(storage, layout);
    victim_start(&v);
    if (v.has_ended) {
        CHECK_OK(v.status);
        dcp_storage_close(storage);
        return 0;
    }
    before = generation_at(storage, "p");
    status = successor_saves(storage, layout, 60, &err);
    victim_wake(&v);
    CHECK(status == DCP_OK || status == DCP_E_EXISTS);
    CHECK(v.status == DCP_OK || v.status == DCP_E_EXISTS);
    if (status) CHECK_OK(v.status);                     /* a holder that is not given up keeps what it has */
    else if (before != VICTIM) CHECK_STR(dcp_status_name(v.status), "DCP_E_EXISTS");    /* or one of two is lost */
    else CHECK_OK(v.status);                            /* it had committed before */
    CHECK_INT(generation_at(storage, "p"), status ? VICTIM : SUCCESSOR);
    sweep_clean(storage, status ? VICTIM : SUCCESSOR);
    dcp_storage_close(storage);
    return 1;
}
static void at_each_call(int (*happens_at)(const char *dir, dcp_layout layout, int is_first, int64_t at), int stride) {
    const char *test = test_state.name, *dir = test_ram_dir();
    char what[100];
    int layout, is_first;
    int64_t at;
    for (layout = 0; layout < 3; layout++)
        for (is_first = 0; is_first < 2; is_first++) {
            (void)snprintf(what, sizeof what, "%s, %s, step", layout_names[layout], is_first ? "first" : "overwrite");
            for (at = 1;; at += stride) {
                say(test, what, at);
                if (!happens_at(dir, (dcp_layout)layout, is_first, at)) break;
            }
            CHECK(at > 40);
        }
    test_state.name = test;
}
TEST(a_killed_holder_keeps_nobody_waiting) { at_each_call(killed_at, test_is_slow() || test_is_sanitized() ? 7 : 1); }
TEST(a_stopped_holder_is_taken_over_and_commits_over_nobody) {
    at_each_call(stopped_at, test_is_slow() || test_is_sanitized() ? 7 : 1);
}

/* ---- the local storage's lock itself ----------------------------------------------------------------------------- */
static const char lock_key[] = "p.commit.lock";
static dcp_status lock_of(dcp_storage *s, uint64_t *holder, char *note, void **lock) {
    dcp_error err;
    return dcpi_storage_lock(s, lock_key, holder, note, lock, &err);
}
static dcp_status note_in(dcp_storage *s, void *lock, const char *note) {
    dcp_error err;
    return dcpi_storage_lock_note(s, lock_key, lock, note, &err);
}
/* The lock of p, held in another process until that is told to end. */
static pid_t hold(const char *dir, const char *note, int done) {
    int ready[2];
    char byte = 1;
    pid_t child;
    CHECK_INT(pipe(ready), 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dcp_storage *storage;
        char last[DCP_LOCK_NOTE];
        uint64_t holder = 0;
        void *lock;
        if (dcp_storage_local(dir, &storage, NULL)) _exit(99);
        if (storage->lock(storage->context, "p.commit.lock", &holder, last, &lock, NULL)) _exit(98);
        if (storage->lock_note(storage->context, lock, note, NULL) || write(ready[1], &byte, 1) != 1) _exit(97);
        if (read(done, &byte, 1) != 1) _exit(96);
        storage->unlock(storage->context, lock);
        _exit(0);
    }
    CHECK_INT(close(ready[1]), 0);
    CHECK_INT(read(ready[0], &byte, 1), 1);
    CHECK_INT(close(ready[0]), 0);
    return child;
}
static struct { dcp_storage *storage; void *a, *c; dcp_status c_status; } between;
static void c_comes_when_a_has_gone(void) {
    char note[DCP_LOCK_NOTE];
    uint64_t holder = 0;
    if (between.a) dcpi_storage_unlock(between.storage, between.a);
    between.a = NULL;
    between.c_status = lock_of(between.storage, &holder, note, &between.c);
}
/* Whatever happens to the file between any two of B's calls, it has the lock of the file that has the name, or none. */
TEST(a_lock_file_that_goes_at_any_call_locks_nothing) {
    dcp_storage *storage = local_at(test_ram_dir());
    char note[DCP_LOCK_NOTE];
    int64_t at, last = 1;
    int starts_held;
    between.storage = storage;
    for (starts_held = 0; starts_held < 2; starts_held++)
        for (at = 1, last = at; at <= last; at++) {
            uint64_t holder = 0;
            void *b = NULL;
            dcp_status status;
            between.a = between.c = NULL;
            between.c_status = DCP_PENDING;
            if (starts_held) CHECK_OK(lock_of(storage, &holder, note, &between.a));
            holder = 0;
            memset(&calls, 0, sizeof calls);
            calls.at = at;
            calls.happens = c_comes_when_a_has_gone;
            calls.is_armed = 1;
            status = lock_of(storage, &holder, note, &b);
            calls.is_armed = 0;
            last = calls.steps;
            CHECK(status == DCP_OK || status == DCP_PENDING);
            CHECK(!(b && between.c));
            dcpi_storage_unlock(storage, b);
            if (between.a) dcpi_storage_unlock(storage, between.a);
            dcpi_storage_unlock(storage, between.c);
            memset(&calls, 0, sizeof calls);
            /* the file of a holder who lets go while the guard is held stays */
            CHECK_OK(generation_sweep(storage, NULL));
            if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
        }
    CHECK(last > 10);
    dcp_storage_close(storage);
}
TEST(a_lock_that_was_taken_is_not_its_old_holder_s) {
    dcp_storage *storage = local_at(test_ram_dir());
    char note[DCP_LOCK_NOTE];
    uint64_t holder = 0, watched;
    void *a, *b, *c;
    CHECK_OK(lock_of(storage, &holder, note, &a));
    CHECK_STR(note, "");
    CHECK_OK(note_in(storage, a, "what a is about to do"));
    CHECK_INT(lock_of(storage, &holder, note, &b), DCP_PENDING);
    CHECK_STR(note, "what a is about to do");
    watched = holder;
    CHECK_OK(note_in(storage, a, "and then"));          /* a lives */
    CHECK(watched != 0 && lock_of(storage, &holder, note, &b) == DCP_PENDING && holder != watched);
    CHECK_OK(lock_of(storage, &holder, note, &b));      /* a does not */
    CHECK_STR(note, "and then");
    CHECK_INT(note_in(storage, a, "still there"), DCP_E_EXISTS);
    holder = 0;
    CHECK_INT(lock_of(storage, &holder, note, &c), DCP_PENDING);
    CHECK_STR(note, "and then");                     /* until b has noted something, it is what is to be looked after */
    CHECK_OK(note_in(storage, b, "b"));
    dcpi_storage_unlock(storage, a);
    holder = 0;
    CHECK_INT(lock_of(storage, &holder, note, &c), DCP_PENDING);        /* a took nothing away */
    CHECK_STR(note, "b");
    dcpi_storage_unlock(storage, b);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    dcp_storage_close(storage);
}
TEST(a_note_stays_until_the_next_holder_sets_one) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    char note[DCP_LOCK_NOTE];
    uint64_t holder = 0;
    void *lock;
    int i, done[2];
    pid_t child;
    CHECK_INT(pipe(done), 0);
    child = hold(dir, "left behind", done[0]);
    CHECK_INT(kill(child, SIGKILL), 0);
    CHECK_INT(waitpid(child, NULL, 0), child);
    for (i = 0; i < 3; i++) {
        CHECK_OK(lock_of(storage, &holder, note, &lock));
        CHECK_STR(note, "left behind");
        dcpi_storage_unlock(storage, lock);             /* perhaps it could not do what that asks for */
    }
    CHECK_OK(lock_of(storage, &holder, note, &lock));
    CHECK_OK(note_in(storage, lock, ""));
    dcpi_storage_unlock(storage, lock);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    CHECK(close(done[0]) == 0 && close(done[1]) == 0);
    dcp_storage_close(storage);
}

/* ---- what is done with the lock ---------------------------------------------------------------------------------- */
static char order[4000];
static void note_order(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    const int is_commit = strncmp(key, "p.", 2) == 0 && dcpi_commit_kind_of(key) != NULL;
    (void)user; (void)call;
    if (is_done || strlen(order) + 40 > sizeof order) return;
    if (kind == FAULT_LOCK || kind == FAULT_LOCK_NOTE || kind == FAULT_UNLOCK || kind == FAULT_SYNC_DIRECTORY ||
        (is_commit && (kind == FAULT_COMMIT || kind == FAULT_STAT || kind == FAULT_REMOVE || kind == FAULT_OPEN)) ||
        (kind == FAULT_REMOVE && strstr(key, "_shard_0.bin")) || (kind == FAULT_BEGIN && strstr(key, "p.") == key)) {
        (void)snprintf(order + strlen(order), sizeof order - strlen(order), "%s ", fault_kind_name(kind));
    }
}
/* The calls that matter, from the document's begin on. */
static void check_order(dcp_storage *storage, int is_removal, const char *want) {
    fault_storage f;
    dcp_error err;
    const char *from;
    fault_open(&f, storage);
    f.hook = note_order;
    order[0] = '\0';
    if (is_removal) {
        dcp_remove_desc desc = DCP_ZERO;
        desc.path = "p";
        desc.io.storage = &f.storage;
        CHECK_OK_MESSAGE(dcp_remove(&desc, NULL, &err), err.message);
    } else CHECK_OK_MESSAGE(generation_save(&f.storage, DCP_LAYOUT_SHARDED, "p", SIZE, 3, &err), err.message);
    fault_close(&f);
    from = strstr(order, is_removal ? "lock" : "begin");
    CHECK(from != NULL);
    CHECK_STR(from, want);
}
TEST(the_lock_is_held_from_the_look_to_the_sync_and_what_follows_it) {
    dcp_storage *storage = local_at(test_ram_dir());
    /* the lock_note before the commit is of the save's own lock, and so is the last unlock */
    check_order(storage, 0, "begin lock lock_note stat stat stat stat lock_note commit sync_directory unlock unlock ");
    check_order(storage, 0, "begin lock lock_note stat stat stat stat open lock_note commit sync_directory lock_note "
                            "remove unlock unlock ");
    check_order(storage, 0,
                "begin lock lock_note stat stat stat stat open lock_note commit sync_directory unlock unlock ");
    check_order(storage, 1, "lock lock_note open sync_directory stat remove sync_directory unlock ");
    dcp_storage_close(storage);
}

/* Between its list and its look somebody saves to what it has chosen: that is the newest now. */
static void save_before_the_lock(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    dcp_error err;
    (void)call;
    if (kind == FAULT_LOCK && !is_done && strncmp(key, "a.", 2) == 0)
        CHECK_OK_MESSAGE(generation_save((dcp_storage *)user, DCP_LAYOUT_SHARDED, "a", SIZE, 9, &err), err.message);
}
TEST(a_prune_leaves_what_was_saved_since_it_listed) {
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_prune_desc desc = DCP_ZERO;
    dcp_removal removal = DCP_ZERO;
    dcp_error err;
    fault_storage f;
    CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "a", SIZE, 1, &err), err.message);
    CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SINGLE, "b", SIZE, 2, &err), err.message);
    CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "c", SIZE, 3, &err), err.message);
    fault_open(&f, storage);
    f.hook = save_before_the_lock;
    f.user = storage;
    desc.keep_last = 1;
    desc.io.storage = &f.storage;
    CHECK_OK_MESSAGE(dcp_prune(&desc, &removal, &err), err.message);
    CHECK_INT(removal.checkpoints, 1);
    CHECK_INT(generation_at(storage, "a"), 9);
    CHECK_INT(generation_at(storage, "b"), 0);
    CHECK_INT(generation_at(storage, "c"), 3);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    dcp_removal_free(&removal);
    fault_close(&f);
    dcp_storage_close(storage);
}

/* ---- a storage that may replace what it publishes ---------------------------------------------------------------- */
static dcp_status (*exclusive_commit)(void *context, void *object, const dcp_commit_request *request, dcp_error *err);
static dcp_status replacing_commit(void *context, void *object, const dcp_commit_request *request, dcp_error *err) {
    dcp_commit_request replacing = *request;
    replacing.replace = 1;
    return exclusive_commit(context, object, &replacing, err);
}
typedef struct rival { dcp_storage *storage; dcp_layout layout; int has_saved; dcp_status status; } rival;
static void rival_saves(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    rival *r = (rival *)user;
    dcp_error err;
    (void)call;
    if (kind != FAULT_BEGIN || is_done || r->has_saved || strncmp(key, "p.metadata", 10) == 0 ||
        strncmp(key, "p.manifest.json", 15) == 0 || strstr(key, ".intent.")) return;
    r->has_saved = 1;
    r->status = generation_save(r->storage, r->layout, "p", SIZE, 7, &err);
}
TEST(where_publishing_may_replace_no_name_is_used_twice) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_MANIFEST };
    int i, has_lock;
    for (i = 0; i < 2; i++)
        for (has_lock = 0; has_lock < 2; has_lock++) {
            dcp_storage *storage;
            fault_storage f;
            dcp_error err;
            rival r;
            CHECK_OK(dcp_storage_memory(&storage, NULL));
            exclusive_commit = storage->commit;
            storage->commit = replacing_commit;
            storage->flags &= ~(uint32_t)(DCP_STORAGE_EXCLUSIVE_PUBLISH | (has_lock ? 0 : DCP_STORAGE_COMMIT_LOCK));
            memset(&r, 0, sizeof r);
            r.storage = storage;
            r.layout = layouts[i];
            fault_open(&f, storage);
            f.hook = rival_saves;
            f.user = &r;
            CHECK_INT(generation_save(&f.storage, layouts[i], "p", SIZE, 3, &err), DCP_E_EXISTS);
            CHECK(r.has_saved);
            CHECK_OK(r.status);
            CHECK_INT(generation_at(storage, "p"), 7);
            CHECK_OK(generation_sweep(storage, NULL));
            if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
            fault_close(&f);
            dcp_storage_close(storage);
        }
}

/* ---- where locks are not as they should be ----------------------------------------------------------------------- */
static void save_and_remove(dcp_storage *storage, uint32_t not_durable) {
    dcp_remove_desc removal = DCP_ZERO;
    dcp_error err;
    racer r;
    int generation;
    memset(&r, 0, sizeof r);
    r.storage = storage;
    r.overwrite = 1;
    r.ready = -1;
    for (generation = 1; generation < 4; generation++) {
        r.generation = generation;
        CHECK_OK_MESSAGE(race(&r), r.err.message);
        CHECK_INT(r.not_durable, not_durable);
        CHECK_INT(generation_at(storage, "p"), generation);
        if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    }
    removal.path = "p";
    removal.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_remove(&removal, NULL, &err), err.message);
    CHECK_INT(generation_at(storage, "p"), 0);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
}
TEST(a_storage_without_locks_saves_and_says_so) {
    static const int refusals[] = { ENOLCK, ENOSYS, EOPNOTSUPP };
    const char *test = test_state.name;
    dcp_storage *storage = local_at(test_ram_dir());
    size_t i;
    for (i = 0; i < DCPI_COUNT(refusals); i++) {
        say(test, "errno", refusals[i]);
        calls.no_locks = refusals[i];
        calls.locks = 0;
        save_and_remove(storage, DCP_STORAGE_COMMIT_LOCK);
        CHECK(calls.locks > 0);
        calls.no_locks = 0;
    }
    test_state.name = test;
    save_and_remove(storage, 0);
    storage->flags &= ~(uint32_t)DCP_STORAGE_COMMIT_LOCK;       /* one of a program's own, of before there were locks */
    storage->lock = NULL;
    storage->lock_note = NULL;
    storage->unlock = NULL;
    save_and_remove(storage, DCP_STORAGE_COMMIT_LOCK);
    dcp_storage_close(storage);
}
TEST(where_only_whole_files_can_be_locked_one_wins_and_a_stopped_one_is_waited_for) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    racer racers[MOST];
    int round;
    calls.no_ranges = 1;
    save_and_remove(storage, 0);
    seed(storage, DCP_LAYOUT_SHARDED);
    for (round = 0; round < test_times(40); round++) {
        racers_set(racers, 3, DCP_LAYOUT_SHARDED, DCP_LAYOUT_SHARDED, 1);
        race_processes(dir, storage, racers, 3);
    }
    calls.no_ranges = 0;
    dcp_storage_close(storage);
}
TEST(who_removes_is_not_taken_over_and_who_waits_can_be_cancelled) {
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    dcp_cancel cancel = DCP_ZERO;
    dcp_save_desc desc;
    dcp_error err;
    generation g;
    int done[2];
    pid_t child;
    CHECK_INT(pipe(done), 0);
    seed(storage, DCP_LAYOUT_SHARDED);
    child = hold(dir, DCPI_LOCK_REMOVES, done[0]);
    CHECK_INT(successor_saves(storage, DCP_LAYOUT_SHARDED, 60, &err), DCP_E_EXISTS);
    CHECK(strstr(err.message, "another save is committing") && strstr(err.message, "NFS"));
    generation_make(&g, SIZE, SUCCESSOR);
    desc = generation_desc(&g, storage, DCP_LAYOUT_SHARDED, "p");
    desc.io.deadline_ms = 60;
    CHECK_INT(dcp_save(&desc, &err), DCP_E_TIMEOUT);
    desc.io.deadline_ms = 0;
    desc.io.cancel = &cancel;
    (void)alarm(0);
    dcp_cancel_request(&cancel);
    CHECK_INT(dcp_save(&desc, &err), DCP_E_CANCELLED);
    generation_free(&g);
    CHECK_INT(write(done[1], "x", 1), 1);
    CHECK_OK(status_of(child));
    CHECK_INT(generation_at(storage, "p"), 1);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    CHECK(close(done[0]) == 0 && close(done[1]) == 0);
    dcp_storage_close(storage);
}
/* A client of a server that has given its lock away: it may wake, so what it was about to commit goes first. */
static void put_lock(dcp_storage *storage, const char *note) {
    char text[DCPI_LOCK_TEXT + 1];
    const int used = snprintf(text, sizeof text, "%s7\n%s\n", dcpi_lock_words, note);
    memset(text + used, '\n', (size_t)(DCPI_LOCK_TEXT - used));
    CHECK_OK(dcp_storage_write_all(storage, "p.commit.lock", text, DCPI_LOCK_TEXT, NULL, NULL));
}
static int is_there(dcp_storage *storage, const char *path) {
    int exists;
    CHECK_OK(dcp_storage_exists(storage, path, &exists, NULL, NULL));
    return exists;
}
TEST(what_a_lock_that_was_lost_names_is_removed_and_nothing_else) {
    static const char *const foreign[] = { "p.metadata.json", "q.metadata.json.0123456789abcdef.tmp",
                                           "../p.metadata.json.0123456789abcdef.tmp", "p_shard_0.bin",
                                           "p.metadata.json.0123456789abcdef.bin", "notes.txt",
                                           "p.metadata.json.x.0123456789abcdef.tmp", "" };
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_error err;
    size_t i;
    seed(storage, DCP_LAYOUT_SHARDED);
    CHECK_OK(dcp_storage_write_all(storage, "p.metadata.json.0123456789abcdef.tmp", "x", 1, NULL, NULL));
    put_lock(storage, "p.metadata.json.0123456789abcdef.tmp");
    CHECK_OK_MESSAGE(successor_saves(storage, DCP_LAYOUT_SHARDED, 0, &err), err.message);
    CHECK(!is_there(storage, "p.metadata.json.0123456789abcdef.tmp"));
    for (i = 0; i < DCPI_COUNT(foreign); i++) {
        if (foreign[i][0] && foreign[i][0] != '.' && !is_there(storage, foreign[i]))
            CHECK_OK(dcp_storage_write_all(storage, foreign[i], "x", 1, NULL, NULL));
        put_lock(storage, foreign[i]);
        CHECK_OK_MESSAGE(successor_saves(storage, DCP_LAYOUT_SHARDED, 0, &err), err.message);
        CHECK(!is_there(storage, "p.commit.lock"));
        if (foreign[i][0] && foreign[i][0] != '.') CHECK(is_there(storage, foreign[i]));
    }
    CHECK_INT(generation_at(storage, "p"), SUCCESSOR);
    dcp_storage_close(storage);
}
TEST(a_sweep_takes_lock_files_that_nobody_holds) {
    static const char *const texts[] = { "", "", "dcp commit lock, turn 99999999999999999999999\nx\n" };
    const char *dir = test_ram_dir();
    dcp_storage *storage = local_at(dir);
    char text[DCPI_LOCK_TEXT];
    int done[2];
    pid_t child;
    size_t i;
    CHECK_INT(pipe(done), 0);
    seed(storage, DCP_LAYOUT_SHARDED);
    for (i = 0; i < DCPI_COUNT(texts); i++) {
        memset(text, 0, sizeof text);
        memcpy(text, texts[i], strlen(texts[i]));
        CHECK_OK(dcp_storage_write_all(storage, "p.commit.lock", text, i ? sizeof text : 0, NULL, NULL));
        CHECK_OK(dcp_storage_write_all(storage, "gone.commit.lock", text, i ? sizeof text : 0, NULL, NULL));
        CHECK_OK(dcp_storage_write_all(storage, "dcp-pool.commit.lock", text, i ? sizeof text : 0, NULL, NULL));
        sweep_clean(storage, 1);
    }
    CHECK_OK(dcp_storage_write_all(storage, "mine.commit.lock", "of another program", 18, NULL, NULL));
    child = hold(dir, "p.metadata.json.0123456789abcdef.tmp", done[0]);
    CHECK_OK(generation_sweep(storage, NULL));
    CHECK(is_there(storage, "p.commit.lock") && is_there(storage, "mine.commit.lock"));
    CHECK_INT(write(done[1], "x", 1), 1);
    CHECK_OK(status_of(child));
    CHECK(!is_there(storage, "p.commit.lock"));
    CHECK(close(done[0]) == 0 && close(done[1]) == 0);
    dcp_storage_close(storage);
}

/* ---- saves that live, and saves that are dead -------------------------------------------------------------------- */
#define DEAD_ID "0123456789abcdef"
static void put(dcp_storage *storage, const char *path) {
    CHECK_OK(dcp_storage_write_all(storage, path, "x", 1, NULL, NULL));
}
/* What a save of "step_1" that was killed may have left; `where`: what its note says of the machine and the device. */
static const char *const remains[] = { "step_1_shard_0.bin", "step_1_shard_1." DEAD_ID ".bin",
                                       "step_1.metadata.json." DEAD_ID "-1.tmp", "step_1_shard_2.bin." DEAD_ID ".tmp",
                                       "step_1.commit.lock", "step_1." DEAD_ID ".commit.lock" };
static const char *const others[] = { "best_shard_0.bin", "step_1_shard_1.ffffffffffffffff.bin",
                                      "step_1.metadata.json.ffffffffffffffff.tmp", "step_7_shard_0.bin",
                                      "best.metadata.json." DEAD_ID ".tmp", "notes.txt" };
static void put_dead(dcp_storage *storage, const char *where, const char *flags) {
    char text[DCPI_LOCK_TEXT + 1];
    int used;
    size_t i;
    for (i = 0; i < DCPI_COUNT(remains); i++) put(storage, remains[i]);
    for (i = 0; i < DCPI_COUNT(others); i++) put(storage, others[i]);
    used = snprintf(text, sizeof text, "%s1\n", dcpi_lock_words);
    memset(text + used, '\n', (size_t)(DCPI_LOCK_TEXT - used));
    CHECK_OK(dcp_storage_write_all(storage, "step_1.commit.lock", text, DCPI_LOCK_TEXT, NULL, NULL));
    used = snprintf(text, sizeof text, "%s1\n%s%s\n", dcpi_lock_words, where, flags);
    memset(text + used, '\n', (size_t)(DCPI_LOCK_TEXT - used));
    CHECK_OK(dcp_storage_write_all(storage, "step_1." DEAD_ID ".commit.lock", text, DCPI_LOCK_TEXT, NULL, NULL));
}
static void where_of(dcp_storage *storage, int boot, int device, char where[200]) {
    dcp_field *fields;
    size_t count, i;
    char text[40], *at = text, number[40] = "-";
    put(storage, "here");
    CHECK_OK(dcp_storage_additional_info(storage, "here", &fields, &count, NULL, NULL));
    for (i = 0; i < count; i++)
        if (strcmp(fields[i].key, "device") == 0) (void)snprintf(number, sizeof number, "%s", fields[i].value);
    dcp_free(fields);
    CHECK_OK(dcp_storage_remove(storage, "here", NULL, NULL));
    CHECK_INT(dcpi_os_boot(text), 0);
    if (!boot) at[0] = at[0] == 'a' ? 'b' : 'a';
    (void)snprintf(where, 200, "live %s %s%s ", text, number, device ? "" : "1");
}
static int count_of(dcp_storage *storage, const char *const *names, size_t count) {
    size_t i;
    int there = 0;
    for (i = 0; i < count; i++) there += is_there(storage, names[i]);
    return there;
}
static void remove_all(dcp_storage *storage) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(remains); i++) CHECK_OK(dcp_storage_remove(storage, remains[i], NULL, NULL));
    for (i = 0; i < DCPI_COUNT(others); i++) CHECK_OK(dcp_storage_remove(storage, others[i], NULL, NULL));
}
/* boot, device: this machine's; flags: of the note; left: of what the dead save left, after the next of the series. */
static void check_dead(dcp_storage *storage, int boot, int device, const char *flags, int left) {
    char where[200];
    dcp_error err;
    dcp_sweep_desc sweep = DCP_ZERO;
    int by_sweep;
    sweep.io.storage = storage;
    for (by_sweep = 0; by_sweep < 2; by_sweep++) {
        where_of(storage, boot, device, where);
        put_dead(storage, flags[0] ? where : "", flags);
        if (by_sweep) CHECK_OK_MESSAGE(dcp_sweep(&sweep, NULL, &err), err.message);
        else CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "step_2", SIZE, 2, &err), err.message);
        /* of a lock that nobody holds the age says nothing: a sweep takes it always */
        CHECK_INT(count_of(storage, remains, DCPI_COUNT(remains)), left - (by_sweep && left >= 5));
        CHECK_INT(count_of(storage, others, DCPI_COUNT(others)), DCPI_COUNT(others));
        CHECK_INT(generation_at(storage, "step_2"), 2);
        remove_all(storage);
    }
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
}
TEST(what_a_dead_save_left_goes_with_the_next_save_or_sweep) {
    const int all = (int)DCPI_COUNT(remains);
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_error err;
    CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "step_2", SIZE, 2, &err), err.message);
    check_dead(storage, 1, 1, "p ", 0);
    check_dead(storage, 1, 1, "- ", 1);                 /* the plain name may be another's */
    check_dead(storage, 1, 1, "", all - 2);             /* no note: its save may be about to begin, without a lock */
    check_dead(storage, 0, 1, "p ", all);               /* of another machine, or before it was started */
    check_dead(storage, 1, 0, "p ", all);               /* of a device whose locks need not show here */
    dcp_storage_close(storage);
}
/* More dead saves than files can be open: the saves that follow take some each, a sweep all. */
TEST(very_many_dead_saves_do_not_take_all_descriptors) {
    enum { DEAD = 300, FILES = 200 };
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_sweep_desc sweep = DCP_ZERO;
    struct rlimit before, few;
    char where[200], text[DCPI_LOCK_TEXT + 1], name[80];
    dcp_error err;
    int by_sweep, i, used, left;
    sweep.io.storage = storage;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
    where_of(storage, 1, 1, where);
    for (by_sweep = 0; by_sweep < 2; by_sweep++) {
        used = snprintf(text, sizeof text, "%s1\n%sp \n", dcpi_lock_words, where);
        memset(text + used, '\n', (size_t)(DCPI_LOCK_TEXT - used));
        for (i = 0; i < DEAD; i++) {
            (void)snprintf(name, sizeof name, "step_%d.%016x.commit.lock", i + 5, i);
            CHECK_OK(dcp_storage_write_all(storage, name, text, DCPI_LOCK_TEXT, NULL, NULL));
            (void)snprintf(name, sizeof name, "step_%d_shard_0.bin", i + 5);
            put(storage, name);
        }
        few = before;
        few.rlim_cur = FILES;
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
        if (by_sweep) CHECK_OK_MESSAGE(dcp_sweep(&sweep, NULL, &err), err.message);
        for (i = 0; i < 3 && !by_sweep; i++)
            CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "step_2", SIZE, 2, &err), err.message);
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (i = left = 0; i < DEAD; i++) {
            (void)snprintf(name, sizeof name, "step_%d_shard_0.bin", i + 5);
            left += is_there(storage, name);
        }
        CHECK_INT(left, 0);
    }
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    dcp_storage_close(storage);
}
TEST(what_documents_name_stays_though_a_lock_says_that_its_save_is_dead) {
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_save_report report;
    dcp_save_desc desc;
    dcp_error err;
    generation g;
    char where[200], text[DCPI_LOCK_TEXT + 1], name[80];
    int used, round;
    for (round = 0; round < 2; round++) {               /* plain names, then some with the save id */
        generation_make(&g, SIZE, 1);
        desc = generation_desc(&g, storage, DCP_LAYOUT_SHARDED, "step_1");
        desc.report = &report;
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        generation_free(&g);
        where_of(storage, 1, 1, where);
        used = snprintf(text, sizeof text, "%s1\n%sp %s\n", dcpi_lock_words, where, report.save_id);
        memset(text + used, '\n', (size_t)(DCPI_LOCK_TEXT - used));
        (void)snprintf(name, sizeof name, "step_1.%s.commit.lock", report.save_id);
        CHECK_OK(dcp_storage_write_all(storage, name, text, DCPI_LOCK_TEXT, NULL, NULL));
        CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "step_2", SIZE, 2, &err), err.message);
        CHECK(!is_there(storage, name));
        CHECK_INT(generation_at(storage, "step_1"), 1);
    }
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    dcp_storage_close(storage);
}
/* V1: beside a save that has looked, and has made no file yet, another one takes no plain names; V5: plain names are
 * one save's only if its ranks die together. */
static void save_in_between(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    dcp_storage *storage = (dcp_storage *)user;
    dcp_error err;
    (void)call;
    if (kind != FAULT_BEGIN || is_done || strncmp(key, "step_1_shard_0.bin", 18) != 0) return;
    CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "step_1", SIZE, 2, &err), err.message);
    CHECK(!is_there(storage, "step_1_shard_0.bin"));
}
static dcp_status no_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                          dcp_error *err) {
    (void)context; (void)to; (void)tag; (void)data; (void)size; (void)timeout_ms;
    return dcpi_fail(err, DCP_E_COMM, "nobody is there");
}
TEST(plain_names_belong_to_one_save_that_is_one_process) {
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_coordinator *ranks[2], process = DCP_ZERO;
    fault_storage f;
    dcp_error err;
    fault_open(&f, storage);
    f.hook = save_in_between;
    f.user = storage;
    CHECK_INT(generation_save(&f.storage, DCP_LAYOUT_SHARDED, "step_1", SIZE, 1, &err), DCP_E_EXISTS);
    fault_close(&f);
    CHECK_INT(generation_at(storage, "step_1"), 2);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    dcp_storage_close(storage);
    process.world_size = 2;
    process.send = no_send;
    CHECK(dcpi_coord_is_of_process(NULL) && !dcpi_coord_is_of_process(&process));
    if (DCP_NO_THREADS) return;
    CHECK_OK(dcp_thread_group_open(2, ranks, &err));
    CHECK(dcpi_coord_is_of_process(ranks[0]));
    dcp_coordinator_close(ranks[0]);
    dcp_coordinator_close(ranks[1]);
}
/* Where there are no locks, the age decides. */
TEST(without_locks_what_a_killed_save_left_stays_for_the_grace_time) {
    dcp_storage *storage = local_at(test_ram_dir());
    dcp_sweep_desc sweep = DCP_ZERO;
    fault_storage f;
    dcp_error err;
    char where[200];
    where_of(storage, 1, 1, where);
    put_dead(storage, where, "p ");
    fault_open(&f, storage);
    f.storage.flags &= ~(uint32_t)DCP_STORAGE_COMMIT_LOCK;
    sweep.io.storage = &f.storage;
    CHECK_OK_MESSAGE(generation_save(&f.storage, DCP_LAYOUT_SHARDED, "step_2", SIZE, 2, &err), err.message);
    CHECK_OK_MESSAGE(dcp_sweep(&sweep, NULL, &err), err.message);
    CHECK_INT(count_of(storage, remains, DCPI_COUNT(remains)), DCPI_COUNT(remains));
    CHECK_OK(generation_sweep(&f.storage, NULL));
    CHECK_INT(count_of(storage, remains, 4), 0);        /* all but the locks */
    fault_close(&f);
    dcp_storage_close(storage);
}

/* While a save stands still at one of its calls, another one saves to the same series, and a sweep runs: whether it
 * lives or is taken for dead (its lock was lost: what has the name is a copy that nobody holds). */
typedef struct standing {
    const char *dir;
    int64_t at, calls;
    int is_lost, was_lost, is_busy;
} standing;
static dcp_status lose_lock(void *user, const char *path, const dcp_object_info *info) {
    standing *s = (standing *)user;
    char from[TEST_PATH + 100], to[TEST_PATH + 100], text[DCPI_LOCK_TEXT];
    FILE *file;
    size_t size;
    (void)info;
    if (strncmp(path, "step_1.", 7) != 0 || !dcpi_live_prefix(path)) return DCP_OK;
    (void)snprintf(from, sizeof from, "%s/%s", s->dir, path);
    (void)snprintf(to, sizeof to, "%s/copy", s->dir);
    file = fopen(from, "rb");
    CHECK(file != NULL);
    size = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    file = fopen(to, "wb");
    CHECK(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
    CHECK_INT(rename(to, from), 0);
    s->was_lost = 1;
    return DCP_OK;
}
static void others_go_on(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    standing *s = (standing *)user;
    dcp_storage *storage;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_error err;
    (void)kind; (void)key; (void)call;
    if (is_done || s->is_busy || ++s->calls != s->at) return;
    s->is_busy = 1;
    storage = local_at(s->dir);
    if (s->is_lost) CHECK_OK(storage->list(storage->context, "", DCP_LIST_OBJECTS, lose_lock, s, NULL));
    CHECK_OK_MESSAGE(generation_save(storage, DCP_LAYOUT_SHARDED, "step_2", SIZE, 2, &err), err.message);
    sweep.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_sweep(&sweep, NULL, &err), err.message);
    dcp_storage_close(storage);
    s->is_busy = 0;
}
static int lost_and_failed;
static void remove_step(dcp_storage *storage, const char *path) {
    dcp_remove_desc desc = DCP_ZERO;
    dcp_error err;
    desc.path = path;
    desc.io.storage = storage;
    CHECK(dcp_remove(&desc, NULL, &err) == DCP_OK || err.status == DCP_E_NOT_FOUND);
}
static int stand_at(const char *dir, dcp_layout layout, int64_t at, int is_lost, int is_first) {
    dcp_storage *storage = local_at(dir);
    fault_storage f;
    standing s = { 0, 0, 0, 0, 0, 0 };
    dcp_error err;
    dcp_status status;
    int now;
    s.dir = dir;
    s.at = at;
    s.is_lost = is_lost;
    if (!is_first) CHECK_OK_MESSAGE(generation_save(storage, layout, "step_1", SIZE, 1, &err), err.message);
    fault_open(&f, storage);
    f.hook = others_go_on;
    f.user = &s;
    status = generation_save(&f.storage, layout, "step_1", SIZE, 3, &err);
    fault_close(&f);
    now = generation_at(storage, "step_1");
    if (!s.was_lost) CHECK_OK_MESSAGE(status, err.message);
    lost_and_failed += s.was_lost && status;
    CHECK(now == (status == DCP_OK ? 3 : is_first ? NONE : 1) || (status == DCP_E_UNKNOWN && now == 3));
    CHECK(s.calls < at || generation_at(storage, "step_2") == 2);
    CHECK_OK(generation_sweep(storage, NULL));
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    remove_step(storage, "step_1");
    remove_step(storage, "step_2");
    dcp_storage_close(storage);
    return s.calls >= at;
}
static void stand_at_each_call(int is_lost) {
    const char *name = test_state.name, *dir = test_ram_dir();
    int layout, is_first;
    int64_t at;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
        for (is_first = 0; is_first < 2; is_first++)
            for (at = 1; ; at++) {
                say(name, layout_names[layout], at);
                if (!stand_at(dir, (dcp_layout)layout, at, is_lost, is_first)) break;
            }
    test_state.name = name;
}
TEST(a_save_that_stands_still_at_any_call_loses_nothing_to_the_next) { stand_at_each_call(0); }
TEST(a_save_that_is_taken_for_dead_fails_or_loads) {
    lost_and_failed = 0;
    stand_at_each_call(1);
    CHECK(lost_and_failed > 20);
}

int main(void) {
    RUN(processes_that_overwrite_one_path);
    RUN(first_saves_of_processes_in_two_layouts);
    RUN(threads_that_save_to_one_path);
    RUN(a_killed_holder_keeps_nobody_waiting);
    RUN(a_stopped_holder_is_taken_over_and_commits_over_nobody);
    RUN(a_lock_file_that_goes_at_any_call_locks_nothing);
    RUN(a_lock_that_was_taken_is_not_its_old_holder_s);
    RUN(a_note_stays_until_the_next_holder_sets_one);
    RUN(the_lock_is_held_from_the_look_to_the_sync_and_what_follows_it);
    RUN(a_prune_leaves_what_was_saved_since_it_listed);
    RUN(where_publishing_may_replace_no_name_is_used_twice);
    RUN(a_storage_without_locks_saves_and_says_so);
    RUN(where_only_whole_files_can_be_locked_one_wins_and_a_stopped_one_is_waited_for);
    RUN(who_removes_is_not_taken_over_and_who_waits_can_be_cancelled);
    RUN(what_a_lock_that_was_lost_names_is_removed_and_nothing_else);
    RUN(a_sweep_takes_lock_files_that_nobody_holds);
    RUN(what_a_dead_save_left_goes_with_the_next_save_or_sweep);
    RUN(very_many_dead_saves_do_not_take_all_descriptors);
    RUN(what_documents_name_stays_though_a_lock_says_that_its_save_is_dead);
    RUN(plain_names_belong_to_one_save_that_is_one_process);
    RUN(without_locks_what_a_killed_save_left_stays_for_the_grace_time);
    RUN(a_save_that_stands_still_at_any_call_loses_nothing_to_the_next);
    RUN(a_save_that_is_taken_for_dead_fails_or_loads);
    return test_finish();
}
#endif
