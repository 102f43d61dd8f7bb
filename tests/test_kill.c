/* test_kill.c - processes that are killed in the middle of a save or of a sync.
 *
 * A child saves, removes or syncs; SIGKILL takes it at a chosen point: before or after the n-th call on its storage,
 * before or after the n-th system call that changes something, or after some microseconds. Then the guarantees, in the
 * parent: the old or the new checkpoint loads, byte for byte; what lies about disturbs no save; and a sweep leaves
 * exactly the files of the checkpoints that live. The other faults are in test_faults.c. */
#ifdef _WIN32
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
TEST(killed) { SKIP("there is no SIGKILL on this system"); }
int main(void) {
    RUN(killed);
    return test_finish();
}
#else
/* ---- system calls, counted: the system's headers come first, so that only the library's calls are renamed -------- */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { int64_t steps, die_at; } system_calls;  /* two steps a call: before it and after it; die_at 0: never */

static void system_step(void) {
    if (++system_calls.steps == system_calls.die_at) (void)kill(getpid(), SIGKILL);
}
static int after_int(int result) { system_step(); return result; }
static long after_long(long result) { system_step(); return result; }
static ssize_t after_size(ssize_t result) { system_step(); return result; }
/* a write may end in the middle at any time */
static size_t part_of(size_t size) { return size > 256 ? size / 2 : size; }

#define fdatasync(fd) (system_step(), after_int(fdatasync(fd)))
#define fsync(fd) (system_step(), after_int(fsync(fd)))
#define pwrite(fd, data, size, offset) (system_step(), after_size(pwrite(fd, data, part_of(size), offset)))
#define renameat(from_dir, from, to_dir, to) (system_step(), after_int(renameat(from_dir, from, to_dir, to)))
#define unlinkat(dir, name, flags) (system_step(), after_int(unlinkat(dir, name, flags)))
#define openat(...) (system_step(), after_int(openat(__VA_ARGS__)))
#define syscall(...) (system_step(), after_long(syscall(__VA_ARGS__)))
#define DCP_IMPLEMENTATION
#include "dcp.h"
#undef fdatasync
#undef fsync
#undef pwrite
#undef renameat
#undef unlinkat
#undef openat
#undef syscall
#include "test.h"
#include "fault_storage.h"
#include "generations.h"

enum { SIZE = 3000, NONE = 0 };
static dcp_status save(dcp_storage *storage, dcp_layout layout, const char *path, int number, dcp_error *err) {
    return generation_save(storage, layout, path, SIZE, number, err);
}

/* ---- a scene: what the child does, and what may be there afterwards ---------------------------------------------- */
typedef enum deed { OVERWRITE, NEXT_STEP, PRUNE, REMOVE, SYNC, DEEDS } deed;
static const char *const deed_names[] = { "overwrite", "next step", "prune", "remove", "sync" };
static const char *const layout_names[] = { "sharded", "single", "manifest" };
static const char *const suffixes[] = { ".metadata.json", ".checkpoint", ".manifest.json" };

typedef struct scene { deed what; dcp_layout layout; char dir[TEST_PATH]; dcp_storage *storage, *source; } scene;
static char place[200];                 /* for messages */
static const char *test_name;
static int kills, sync_kills, manifest_kills;

static void say(const scene *s, const char *how, int64_t point) {
    if (test_state.name != place) test_name = test_state.name;
    (void)snprintf(place, sizeof place, "%s [%s, %s: %s %d]", test_name, deed_names[s->what], layout_names[s->layout],
                   how, (int)point);
    test_state.name = place;
}
static void said(void) { if (test_state.name == place) test_state.name = test_name; }

static dcp_status scene_run(const scene *s, dcp_storage *storage, dcp_error *err) {
    if (s->what == PRUNE) {
        dcp_prune_desc desc = DCP_ZERO;
        desc.io.storage = storage;
        return dcp_prune(&desc, NULL, err);
    }
    if (s->what == REMOVE) {
        dcp_remove_desc desc = DCP_ZERO;
        desc.path = "p";
        desc.io.storage = storage;
        return dcp_remove(&desc, NULL, err);
    }
    if (s->what == SYNC) {
        dcp_sync_desc desc = DCP_ZERO;
        desc.source = s->source;
        desc.path = "p";
        desc.target = storage;
        return dcp_sync(&desc, err);
    }
    return save(storage, s->layout, s->what == OVERWRITE ? "p" : "q", 2, err);
}
/* "p" of generation 1, overwritten once so that names with save ids are there; what removes finds "q", generation 2,
 * too. */
static void scene_set(scene *s) {
    dcp_error err;
    CHECK_OK_MESSAGE(save(s->storage, s->layout, "p", 3, &err), err.message);
    CHECK_OK_MESSAGE(save(s->storage, s->layout, "p", 1, &err), err.message);
    if (s->what == PRUNE || s->what == REMOVE) CHECK_OK_MESSAGE(save(s->storage, s->layout, "q", 2, &err), err.message);
}
static void scene_open(scene *s, deed what, dcp_layout layout, const char *dir) {
    dcp_error err;
    memset(s, 0, sizeof *s);
    s->what = what;
    s->layout = layout;
    (void)snprintf(s->dir, sizeof s->dir, "%s", dir);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &s->storage, &err), err.message);
    scene_set(s);
    if (what != SYNC) return;
    CHECK_OK(dcp_storage_memory(&s->source, NULL));     /* as it is here, and then one save more */
    CHECK_OK_MESSAGE(save(s->source, layout, "p", 3, &err), err.message);
    CHECK_OK_MESSAGE(save(s->source, layout, "p", 1, &err), err.message);
    CHECK_OK_MESSAGE(save(s->source, layout, "p", 2, &err), err.message);
}
static void scene_close(scene *s) {
    dcp_storage_close(s->storage);
    dcp_storage_close(s->source);
    said();
}

/* ---- afterwards -------------------------------------------------------------------------------------------------- */
static void check_clean(const scene *s) {
    if (!nothing_else_is_there(s->storage)) CHECK_STR(generation_why, "");
}
static void sweep(const scene *s) {
    dcp_error err;
    CHECK_OK_MESSAGE(generation_sweep(s->storage, &err), err.message);
}
/* The newest valid one is the newest that there is. */
static void check_latest(const scene *s, int p, int q) {
    dcp_latest_desc desc = DCP_ZERO;
    dcp_error err;
    char *path;
    desc.io.storage = s->storage;
    CHECK_OK_MESSAGE(dcp_latest(&desc, &path, &err), err.message);
    CHECK(strncmp(path, q > 0 ? "q." : "p.", 2) == 0);
    CHECK_INT(generation_at(s->storage, path), q > 0 ? q : p);
    dcp_free(path);
}
static void check_survivors(const scene *s) {
    const int p = generation_at(s->storage, "p"), q = generation_at(s->storage, "q");
    CHECK(p == 1 || ((s->what == OVERWRITE || s->what == SYNC) && p == 2) ||
          ((s->what == PRUNE || s->what == REMOVE) && p == NONE));
    CHECK(q == (s->what == OVERWRITE || s->what == SYNC ? NONE : 2) || (s->what == NEXT_STEP && q == NONE));
    check_latest(s, p, q);
}
/* The killed one's remains disturb neither a save before a sweep nor one after it. What a save leaves goes with the
 * next one of its series, without a sweep. */
static void check_scene(scene *s) {
    static int turn;
    const int sweeps_first = turn++ % 2;
    dcp_error err;
    char commit[40];
    check_survivors(s);
    if (sweeps_first) {
        sweep(s);
        check_survivors(s);
        check_clean(s);
    }
    CHECK_OK_MESSAGE(save(s->storage, s->layout, "p", 4, &err), err.message);
    CHECK_OK_MESSAGE(save(s->storage, s->layout, "q", 5, &err), err.message);
    CHECK_INT(generation_at(s->storage, "p"), 4);
    CHECK_INT(generation_at(s->storage, "q"), 5);
    if (!sweeps_first && (s->what == OVERWRITE || s->what == NEXT_STEP)) check_clean(s);
    sweep(s);
    check_clean(s);
    (void)snprintf(commit, sizeof commit, "q%s", suffixes[s->layout]);
    CHECK(s->storage->remove(s->storage->context, commit, NULL, NULL) == DCP_OK);
    sweep(s);
    scene_set(s);
}

/* ---- the child --------------------------------------------------------------------------------------------------- */
typedef struct killer { int64_t die_at, points; } killer;
static void kill_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    killer *k = (killer *)user;
    (void)kind; (void)key; (void)call; (void)is_done;
    if (++k->points == k->die_at) (void)kill(getpid(), SIGKILL);
}
/* Never returns. Its own storage, as another program would have. */
static void child(const scene *s, int64_t die_in_call, int64_t die_in_system_call) {
    static fault_storage f;
    killer k = { 0, 0 };
    dcp_storage *storage;
    dcp_status status = dcp_storage_local(s->dir, &storage, NULL);
    if (status) _exit(100);
    fault_open(&f, storage);
    f.hook = kill_hook;
    f.user = &k;
    k.die_at = die_in_call;
    system_calls.steps = 0;
    system_calls.die_at = die_in_system_call;
    status = scene_run(s, &f.storage, NULL);
    _exit((int)status);
}
/* 1: it was killed; 0: it came through, which must have been a success. */
static int was_killed(pid_t pid) {
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) {
        kills++;
        CHECK_INT(WTERMSIG(status), SIGKILL);
        return 1;
    }
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    return 0;
}
static pid_t start_child(const scene *s, int64_t die_in_call, int64_t die_in_system_call) {
    pid_t pid;
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) child(s, die_in_call, die_in_system_call);
    CHECK(pid > 0);
    return pid;
}
/* ---- the points -------------------------------------------------------------------------------------------------- */
static void kill_in_calls(deed what, dcp_layout layout, const char *dir, int in_system_calls) {
    scene s;
    int64_t point, step = layout == DCP_LAYOUT_MANIFEST && what != SYNC && !test_is_whole() ? 2 : 1;
    int killed = 1, before = kills;
    scene_open(&s, what, layout, dir);
    for (point = 1 + (int64_t)test_random_below((size_t)step); killed; point += step) {
        say(&s, in_system_calls ? "system call step" : "storage call step", point);
        killed = was_killed(start_child(&s, in_system_calls ? 0 : point, in_system_calls ? point : 0));
        check_scene(&s);
    }
    CHECK(point > 10);
    if (what == SYNC) sync_kills += kills - before;
    if (layout == DCP_LAYOUT_MANIFEST && (what == OVERWRITE || what == NEXT_STEP)) manifest_kills += kills - before;
    scene_close(&s);
}
static int makes_sense(int what, int layout) { return what != SYNC || layout == DCP_LAYOUT_MANIFEST; }

TEST(killed_around_each_storage_call) {
    int what, layout;
    for (what = 0; what < DEEDS; what++)
        for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
            if (makes_sense(what, layout)) kill_in_calls((deed)what, (dcp_layout)layout, test_ram_dir(), 0);
}
TEST(killed_around_each_system_call) {
    int what, layout;
    for (what = 0; what < DEEDS; what++)
        for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
            if (makes_sense(what, layout)) kill_in_calls((deed)what, (dcp_layout)layout, test_ram_dir(), 1);
}
static int64_t now_us(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
static void kill_in_time(deed what, dcp_layout layout, const char *dir) {
    scene s;
    int64_t took, started;
    int i;
    scene_open(&s, what, layout, dir);
    say(&s, "undisturbed", 0);
    started = now_us();
    CHECK(!was_killed(start_child(&s, 0, 0)));
    took = now_us() - started;
    check_scene(&s);
    for (i = 0; i < 20; i++) {
        struct timeval span;
        int64_t us = (int64_t)test_random_below((size_t)took + 1);
        pid_t pid;
        say(&s, "microseconds", us);
        span.tv_sec = (time_t)(us / 1000000);
        span.tv_usec = (suseconds_t)(us % 1000000);
        pid = start_child(&s, 0, 0);
        (void)select(0, NULL, NULL, NULL, &span);
        (void)kill(pid, SIGKILL);
        (void)was_killed(pid);
        check_scene(&s);
    }
    scene_close(&s);
}
TEST(killed_at_any_time) {
    int what, layout;
    for (what = 0; what < DEEDS; what++)
        for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
            if (what != PRUNE && what != REMOVE && makes_sense(what, layout))
                kill_in_time((deed)what, (dcp_layout)layout, test_dir());
}
/* A program that is killed in each of its saves, and started again. */
TEST(a_crash_loop_leaves_nothing_after_the_next_save) {
    const int before = kills;
    int layout, i;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        scene s;
        dcp_error err;
        scene_open(&s, NEXT_STEP, (dcp_layout)layout, test_ram_dir());
        for (i = 0; i < 30; i++) (void)was_killed(start_child(&s, 0, 20 + (int64_t)test_random_below(60)));
        say(&s, "30 kills", 30);
        CHECK_OK_MESSAGE(save(s.storage, s.layout, "q", 5, &err), err.message);
        check_clean(&s);
        scene_close(&s);
    }
    CHECK(kills - before > 60);
}
TEST(killed_often_enough) {
    const char *filter = getenv("DCP_TEST_FILTER");
    if (filter && filter[0]) SKIP("only some tests ran");
    CHECK(kills >= 200);
    printf("# %d kills: %d in saves of manifests, %d in syncs\n", kills, manifest_kills, sync_kills);
}

int main(void) {
    RUN(killed_around_each_storage_call);
    RUN(killed_around_each_system_call);
    RUN(killed_at_any_time);
    RUN(a_crash_loop_leaves_nothing_after_the_next_save);
    RUN(killed_often_enough);
    return test_finish();
}
#endif
