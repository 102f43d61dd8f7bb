/* test_disasters.c - the real thing going wrong: power cuts of real file systems, system calls that fail, machines that
 * are too small, and processes that are killed by the thousand. After each: what loads is one whole generation, the old
 * or the new one, and after DCP_OK the new one; a sweep leaves nothing else behind; the next save works.
 *
 * Power cuts: an image of ext4 or xfs is mounted, and shut down by the ioctl that file system developers test recovery
 * with; then it is mounted again and its journal replayed. The mounts are of a mount namespace of our own and the loop
 * devices clear themselves: nothing of either outlives this process, however it ends.
 * System calls: this program runs itself below strace, which makes the n-th call of a kind fail. test_kill.c has the
 * kills around calls, test_faults.c the faults of storages, test_crash.c every disk that a cut may leave in theory.
 *
 * DCP_TEST_POWER_CUTS: cuts at random times on each file system (default 12; from 100 on, each phase of each save is
 * cut too). DCP_TEST_CYCLES: cycles of save, kill and restore (default 150). DCP_TEST_WHOLE: every system call fails in
 * every way, not a sample. `make soak` sets them all. */
#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/loop.h>)
#define IS_LINUX 1
#endif
#endif
#ifndef IS_LINUX
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
TEST(disasters) { SKIP("what breaks here is Linux; its headers are needed too"); }
int main(void) {
    RUN(disasters);
    return test_finish();
}
#else
/* ---- system calls that can be tampered with: the system's headers come first, so that only the library's calls are
 * renamed ---------------- */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    int drops_files, drops_directories; /* fdatasync says that it is done, and does nothing */
    /* the n-th fdatasync of a file fails, loses what was written, and would succeed if it were called again */
    int lies_at, syncs;
    int is_short;                       /* reads and writes end in the middle */
    int lost_at, moves, lost_error;     /* the n-th file that gets its name has it, and the answer says this error */
    /* the wall clock is so far off; and, with jumps, at every other look as far on the other side */
    int clock_jumps; int64_t clock_s;
} tamper;

static int tampered_fdatasync(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) return -1;
    if (S_ISDIR(st.st_mode) ? tamper.drops_directories : tamper.drops_files) return 0;
    if (S_ISREG(st.st_mode) && ++tamper.syncs == tamper.lies_at) {
        if (ftruncate(fd, 0) != 0 || ftruncate(fd, st.st_size) != 0) abort();
        errno = EIO;
        return -1;
    }
    return fdatasync(fd);
}
static long tampered_move(int is_move, long result) {
    if (!is_move || result != 0 || ++tamper.moves != tamper.lost_at) return result;
    errno = tamper.lost_error;
    return -1;
}
static size_t tampered_size(size_t size) { return tamper.is_short && size > 1 ? size - size / 3 : size; }
static int tampered_clock(clockid_t id, struct timespec *now) {
    const int result = clock_gettime(id, now);
    if (id != CLOCK_REALTIME) return result;
    now->tv_sec += (time_t)tamper.clock_s;
    if (tamper.clock_jumps) tamper.clock_s = -tamper.clock_s;
    return result;
}
#define fdatasync(fd) tampered_fdatasync(fd)
#define pwrite(fd, data, size, offset) pwrite(fd, data, tampered_size(size), offset)
#define pread(fd, data, size, offset) pread(fd, data, tampered_size(size), offset)
#define clock_gettime(id, now) tampered_clock(id, now)
#define renameat(from_dir, from, to_dir, to) (int)tampered_move(1, renameat(from_dir, from, to_dir, to))
#define linkat(from_dir, from, to_dir, to, flags) (int)tampered_move(1, linkat(from_dir, from, to_dir, to, flags))
#define syscall(number, ...) tampered_move(number == SYS_renameat2, syscall(number, __VA_ARGS__))
#define DCP_IMPLEMENTATION
#include "dcp.h"
#undef fdatasync
#undef pwrite
#undef pread
#undef clock_gettime
#undef renameat
#undef linkat
#undef syscall
#include "test.h"
#include "doing.h"
#include "fault_storage.h"
#include "generations.h"

#define SHARDED DCP_LAYOUT_SHARDED
#define SINGLE DCP_LAYOUT_SINGLE
#define MANIFEST DCP_LAYOUT_MANIFEST

/* What a child tells: it may die at any moment. */
typedef struct shared_state {
    /* generations: the last one that was told DCP_OK, and the last one that was tried */
    volatile int acknowledged, attempted;
    volatile int last_place;                            /* of the acknowledged one: layout and path */
    volatile int64_t steps;                             /* storage calls, before and after each */
    volatile dcp_status status;
    int64_t number[4];
    char text[1200];
} shared_state;
static shared_state *shared;

static long from_environment(const char *name, long otherwise) {
    return getenv(name) ? strtol(getenv(name), NULL, 10) : otherwise;
}
static int is_whole(void) { return getenv("DCP_TEST_WHOLE") != NULL; }
static int64_t now_us(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
static void sleep_us(int64_t us) {
    struct timespec span;
    span.tv_sec = (time_t)(us / 1000000);
    span.tv_nsec = (long)(us % 1000000) * 1000;
    (void)nanosleep(&span, NULL);
}

/* ---- a file system in a file, and its power switch --------------------------------------------------------------- */
#define GOING_DOWN _IOR('X', 125, uint32_t)             /* FS_IOC_GOINGDOWN, which old headers lack */
enum { JOURNAL_FLUSHED = 1, JOURNAL_LOST = 2 };
typedef struct disk {
    const char *type;
    char root[TEST_PATH];
    int loop, fd;                       /* the device; the mounted root, for the switch; -1: none */
    char device[40];
    int cuts;
} disk;

/* Mounts are seen by this process and its children alone, and end with them. */
static int has_own_mounts(void) {
    static int has;
    if (!has) has = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 1 : -1;
    return has > 0;
}
/* A loop device on the image; it is given back when its last user has closed it. */
static int disk_attach(disk *d, const char *image) {
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), file = open(image, O_RDWR | O_CLOEXEC), tries,
                  is_attached = 0;
    struct loop_info64 info;
    memset(&info, 0, sizeof info);
    info.lo_flags = LO_FLAGS_AUTOCLEAR;
    for (tries = 0; tries < 20 && !is_attached && control >= 0 && file >= 0; tries++) {
        /* others may take the free one first */
        (void)snprintf(d->device, sizeof d->device, "/dev/loop%d", ioctl(control, LOOP_CTL_GET_FREE));
        d->loop = open(d->device, O_RDWR | O_CLOEXEC);
        if (d->loop < 0) break;
        is_attached = ioctl(d->loop, LOOP_SET_FD, file) == 0;
        if (is_attached) is_attached = ioctl(d->loop, LOOP_SET_STATUS64, &info) == 0;
        if (is_attached) break;
        (void)close(d->loop);
        d->loop = -1;
    }
    if (control >= 0) (void)close(control);
    if (file >= 0) (void)close(file);
    return is_attached;
}
static int disk_mount(disk *d) {
    if (mount(d->device, d->root, d->type, 0, NULL) != 0) return 0;
    d->fd = open(d->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->fd >= 0;
}
static void disk_close(disk *d) {
    if (d->fd >= 0) (void)close(d->fd);
    (void)umount2(d->root, MNT_DETACH);
    if (d->loop >= 0) (void)close(d->loop);
    d->fd = d->loop = -1;
}
static void disk_cut(const disk *d, uint32_t flags) { (void)ioctl(d->fd, GOING_DOWN, &flags); }
/* The machine starts again: whatever was not on the disk is gone. */
static int disk_back(disk *d) {
    int tries;
    (void)close(d->fd);
    d->fd = -1;
    for (tries = 0; umount2(d->root, 0) != 0; tries++) {
        if (errno != EBUSY || tries == 1000) return 0;
        sleep_us(2000);                                 /* the child's last descriptors are being closed */
    }
    return disk_mount(d);
}
/* Skips where this is not possible: it needs root, and a machine that lets root mount. */
static void disk_open(disk *d, const char *type, int64_t megabytes) {
    const char *dir = test_ram_dir();
    const uint32_t nothing = 99;
    char image[TEST_PATH], command[TEST_PATH + 100];
    int fd;
    memset(d, 0, sizeof *d);
    d->type = type;
    d->loop = d->fd = -1;
    (void)snprintf(image, sizeof image, "%.900s/image", dir);
    (void)snprintf(d->root, sizeof d->root, "%.900s/root", dir);
    (void)snprintf(command, sizeof command, "PATH=$PATH:/sbin:/usr/sbin mkfs.%s -q %s '%.900s' >/dev/null 2>&1", type,
                   strcmp(type, "ext4") == 0 ? "-F -m 0" : "-f", image);
    fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)megabytes << 20) == 0 && mkdir(d->root, 0700) == 0);
    (void)close(fd);
    if (!has_own_mounts()) SKIP_MISSING("power", "mounting is not permitted here; run as root");
    if (system(command) != 0)
        SKIP_MISSING("power", strcmp(type, "ext4") == 0 ? "install e2fsprogs" : "install xfsprogs");
    if (!disk_attach(d, image)) SKIP_MISSING("power", "there is no loop device to be had here");
    if (!disk_mount(d)) { disk_close(d); SKIP_MISSING("power", "the kernel does not mount this file system here"); }
    if (ioctl(d->fd, GOING_DOWN, &nothing) == 0 || errno == ENOTTY) {
        disk_close(d);
        SKIP_MISSING("power", "this file system cannot be shut down");
    }
}

/* ---- a save, cut ------------------------------------------------------------------------------------------------- */
enum { OLD = 1, NEW = 2, NEXT = 3, AFTER_ALL = 1 << 30 };     /* generations; the step behind the last one */
typedef struct workload { const char *name; dcp_layout layout; int has_old; const char *path; size_t size; } workload;
static const workload workloads[] = {
    { "first save", SHARDED, 0, "p", 60000 },
    { "overwrite", SHARDED, 1, "p", 60000 },
    { "single file", SINGLE, 1, "p", 60000 },
    { "manifest that keeps a file", MANIFEST, 1, "q", 60000 },
    { "overwritten manifest", MANIFEST, 1, "p", 60000 },
    { "first single file, direct writes", SINGLE, 0, "p", (size_t)9 << 20 },
};
/* step 0: after us microseconds. acknowledged: before the cut began; what a process is told later nobody hears in a
 * real one, and xfs then says of a sync that it succeeded. */
typedef struct cut {
    disk *d;
    const workload *w;
    uint32_t flags;
    int64_t step, us;
    int acknowledged;
    char dir[TEST_PATH];
} cut;

static void cut_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    const cut *c = (const cut *)user;
    (void)kind; (void)key; (void)call; (void)is_done;
    if (++shared->steps != c->step) return;
    disk_cut(c->d, c->flags);
    (void)kill(getpid(), SIGKILL);
}
/* Never returns: at the latest the cut comes when the save has said how it ended. */
static void cut_child(cut *c) {
    static fault_storage f;
    dcp_storage *storage;
    dcp_error err;
    if (dcp_storage_local(c->dir, &storage, &err) == DCP_OK) {
        fault_open(&f, storage);
        f.hook = cut_hook;
        f.user = c;
        shared->status = generation_save(&f.storage, c->w->layout, c->w->path, c->w->size, NEW, &err);
        if (shared->status == DCP_OK) shared->acknowledged = NEW;
    }
    if (c->step > 0) disk_cut(c->d, c->flags);
    _exit(0);
}
static int cut_save(cut *c) {           /* false: the test itself does not work */
    dcp_storage *storage = NULL;
    dcp_error err;
    pid_t pid;
    memset(shared, 0, sizeof *shared);
    (void)snprintf(c->dir, sizeof c->dir, "%.900s/run_%d", c->d->root, ++c->d->cuts);
    if (c->w->has_old) {
        dcp_status status = dcp_storage_local(c->dir, &storage, &err);
        if (!status) status = generation_save(storage, c->w->layout, "p", c->w->size, OLD, &err);
        dcp_storage_close(storage);
        if (status) { (void)generation_wrong(c->dir, "cannot be set up", err.message); return 0; }
    }
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) cut_child(c);
    if (pid > 0 && c->step == 0) {
        sleep_us(c->us);
        c->acknowledged = shared->acknowledged;
        disk_cut(c->d, c->flags);
        (void)kill(pid, SIGKILL);
    }
    if (pid > 0 && waitpid(pid, NULL, 0) == pid && disk_back(c->d)) {
        if (c->step > 0) c->acknowledged = shared->acknowledged;        /* it cut by itself */
        return 1;
    }
    (void)generation_wrong(c->dir, "cannot be cut", strerror(errno));
    return 0;
}
/* The generation at a path after the cut is one that may be there. */
static int check_generation(const cut *c, dcp_storage *storage, const char *path, int *found) {
    const int is_new = strcmp(path, c->w->path) == 0;
    char text[100];
    *found = generation_at(storage, path);
    if (*found < 0) return 0;
    if (!is_new && *found == (c->w->has_old && strcmp(path, "p") == 0 ? OLD : 0)) return 1;
    if (is_new && *found == NEW) return 1;
    if (is_new && !c->acknowledged && *found == (c->w->has_old && strcmp(path, "p") == 0 ? OLD : 0)) return 1;
    (void)snprintf(text, sizeof text, "generation %d, the new one was%s acknowledged", *found,
                   c->acknowledged ? "" : " not");
    (void)generation_wrong(path, "is lost", text);
    return 0;
}
static int check_after_cut(const cut *c, dcp_storage *storage, int *is_new) {
    dcp_error err;
    int p, q, again, latest;
    if (!check_generation(c, storage, "p", &p) || !check_generation(c, storage, "q", &q)) return 0;
    *is_new = p == NEW || q == NEW;
    latest = generation_latest(storage);
    if (latest < 0) return 0;
    if (latest != (p > q ? p : q)) return generation_wrong("dcp_latest", "finds another one", "") > 0;
    if (generation_sweep(storage, &err)) return generation_wrong("the sweep", "fails", err.message) > 0;
    if (!check_generation(c, storage, "p", &again) || again != p || !check_generation(c, storage, "q", &again) ||
        again != q) return 0;
    if (!nothing_else_is_there(storage)) return 0;
    if (generation_save(storage, c->w->layout, c->w->path, c->w->size, NEXT, &err))
        return generation_wrong("the next save", "fails", err.message) > 0;
    return generation_at(storage, c->w->path) == NEXT && generation_latest(storage) == NEXT &&
           nothing_else_is_there(storage);
}
static int cut_and_check(cut *c, int *is_new) {
    dcp_storage *storage = NULL;
    dcp_error err;
    int is_good;
    generation_why[0] = '\0';
    if (!cut_save(c)) return 0;
    if (dcp_storage_local(c->dir, &storage, &err)) return generation_wrong(c->dir, "does not open", err.message) > 0;
    is_good = check_after_cut(c, storage, is_new);
    dcp_storage_close(storage);
    test_rm_rf(c->dir);
    return is_good;
}

/* ---- power cuts -------------------------------------------------------------------------------------------------- */
typedef struct cut_search { disk d; long in_phases, at_random, old, made; int is_good; char where[200]; } cut_search;

static void search_cut(cut_search *s, cut *c) {
    int is_new = 0;
    if (!s->is_good) return;
    s->is_good = cut_and_check(c, &is_new);
    (void)snprintf(s->where, sizeof s->where, "%s, %s, journal %s, %s %ld", s->d.type, c->w->name,
                   c->flags == JOURNAL_LOST ? "lost" : "flushed", c->step == 0 ? "microseconds" : c->step == AFTER_ALL
                   ? "after all of" : "step",
                   (long)(c->step == 0 ? c->us : c->step == AFTER_ALL ? shared->steps : c->step));
    s->old += !is_new;
    s->made += is_new;
}
/* Of each save: how many steps it has and how long it takes; cut in each step'th of them, and after the last. */
static void search_workload(cut_search *s, const workload *w, int64_t step, long random_cuts) {
    cut c;
    int64_t steps, took = now_us(), i;
    memset(&c, 0, sizeof c);
    c.d = &s->d;
    c.w = w;
    c.flags = JOURNAL_LOST;
    c.step = AFTER_ALL;
    search_cut(s, &c);
    took = now_us() - took;
    steps = shared->steps;
    for (i = 1 + (int64_t)test_random_below((size_t)step); i <= steps + 1; i += step) {
        c.step = i;
        c.flags = i / step % 2 ? JOURNAL_LOST : JOURNAL_FLUSHED;
        search_cut(s, &c);
        if (step > 1) continue;
        c.flags = c.flags == JOURNAL_LOST ? JOURNAL_FLUSHED : JOURNAL_LOST;
        search_cut(s, &c);
    }
    s->in_phases = s->old + s->made - s->at_random;
    c.step = 0;
    for (i = 0; i < random_cuts; i++) {
        c.us = (int64_t)test_random_below((size_t)took);
        c.flags = i % 2 ? JOURNAL_LOST : JOURNAL_FLUSHED;
        s->at_random++;
        search_cut(s, &c);
    }
}
static void power_cuts(const char *type, int64_t megabytes) {
    static cut_search s;
    const long random_cuts = from_environment("DCP_TEST_POWER_CUTS", 12), count = (long)DCPI_COUNT(workloads);
    const int64_t started = now_us();
    long i;
    memset(&s, 0, sizeof s);
    disk_open(&s.d, type, megabytes);
    s.is_good = 1;
    for (i = 0; i < count; i++)
        search_workload(&s, &workloads[i], random_cuts < 100 ? 23 : 1, random_cuts / count + (i < random_cuts % count));
    disk_close(&s.d);
    printf("    %s: %ld power cuts in phases, %ld at random times; the old state was there %ld times, the new one %ld "
           "times; %.1f s\n", type, s.in_phases, s.at_random, s.old, s.made, (double)(now_us() - started) / 1e6);
    if (s.is_good) { CHECK(s.old > 0 && s.made > 0); return; }
    doing("%s", s.where);
    CHECK_STR(generation_why, "");
}
TEST(power_cuts_on_ext4) { power_cuts("ext4", 64); }
TEST(power_cuts_on_xfs) { power_cuts("xfs", 300); }     /* smaller ones are refused */

/* The test of the test: the same library whose syncs do nothing, cut right after DCP_OK, must be found out. */
static void search_losses(cut_search *s, int *of_files, int *of_directories) {
    cut c;
    int i, is_new;
    memset(&c, 0, sizeof c);
    c.d = &s->d;
    c.step = AFTER_ALL;
    for (i = 0; i < 8; i++) {
        c.w = &workloads[i / 2 % 2];
        c.flags = i % 2 ? JOURNAL_LOST : JOURNAL_FLUSHED;
        tamper.drops_files = i < 4;
        tamper.drops_directories = i >= 4;
        if (!cut_and_check(&c, &is_new)) {
            ++*(i < 4 ? of_files : of_directories);
            printf("    %s, %s, journal %s, without the sync of %s: %s\n", s->d.type, c.w->name,
                   i % 2 ? "lost" : "flushed", i < 4 ? "files" : "directories", generation_why);
        }
    }
    memset(&tamper, 0, sizeof tamper);
}
static void losses(const char *type, int64_t megabytes) {
    static cut_search s;
    int of_files = 0, of_directories = 0;
    memset(&s, 0, sizeof s);
    disk_open(&s.d, type, megabytes);
    search_losses(&s, &of_files, &of_directories);
    disk_close(&s.d);
    CHECK(of_files > 0);
    CHECK(of_directories > 0);
}
TEST(without_syncs_it_is_lost_on_ext4) { losses("ext4", 64); }
TEST(without_syncs_it_is_lost_on_xfs) { losses("xfs", 300); }

/* ---- system calls that fail: this program runs itself below strace ----------------------------------------------- */
typedef enum deed { FIRST, OVERWRITE, LOAD, LATEST, SWEEP, DEEDS } deed;
static const char *const deed_names[] = { "first save", "overwrite", "load", "latest", "sweep" };
static const char *const layout_names[] = { "sharded", "single", "manifest" };
enum { DEED_SIZE = 3000, NOT_WHOLE = 100 };

/* In the program below strace: `do DEED LAYOUT BASE OUT`. Two calls of getppid enclose what counts. The exit status is
 * the dcp_status; OUT gets the message. */
static dcp_status deed_do(deed what, dcp_layout layout, const char *base, dcp_error *err) {
    dcp_storage *storage;
    dcp_status status = dcp_storage_local(base, &storage, err);
    if (!status && (what == FIRST || what == OVERWRITE))
        status = generation_save(storage, layout, "p", DEED_SIZE, NEW, err);
    if (!status && what == SWEEP) status = generation_sweep(storage, err);
    if (!status && (what == LOAD || what == LATEST)) {
        const int number = what == LOAD ? generation_at(storage, "p") : generation_latest(storage);
        if (number != OLD) status = (dcp_status)NOT_WHOLE;
        (void)snprintf(err->message, sizeof err->message, "%.500s", generation_why);
    }
    dcp_storage_close(storage);
    return status;
}
static int deed_main(char **argument) {
    dcp_error err;
    dcp_status status;
    FILE *out = fopen(argument[5], "w");                /* before anything fails */
    err.message[0] = '\0';
    (void)syscall(SYS_getppid);
    status = deed_do((deed)atoi(argument[2]), (dcp_layout)atoi(argument[3]), argument[4], &err);
    (void)syscall(SYS_getppid);
    if (!out || fputs(err.message, out) < 0 || fflush(out) != 0) return 99;
    return (int)status;
}

/* The calls that a deed makes between the two marks, and how many of each came before the first. */
enum { CALLS = 40 };
typedef struct call_count { char name[32]; int before, during; } call_count;
typedef struct deed_scene {
    deed what; dcp_layout layout;
    char top[TEST_PATH], base[TEST_PATH], out[TEST_PATH], log[TEST_PATH], program[TEST_PATH], message[700];
    call_count calls[CALLS]; int count;
    int is_without_rename;              /* each exclusive rename fails, as where the file system has none */
    long runs, reported, killed;
} deed_scene;

/* Runs the deed with strace's options; its exit status, or -1: it was killed. */
static int deed_trace(deed_scene *s, const char *trace, const char *inject) {
    char what[20], layout[20], traced[620];             /* what is not traced cannot be made to fail */
    int status = 0;
    FILE *out;
    pid_t pid;
    (void)snprintf(what, sizeof what, "%d", (int)s->what);
    (void)snprintf(layout, sizeof layout, "%d", (int)s->layout);
    (void)snprintf(traced, sizeof traced, "%s%s", trace, s->is_without_rename ? ",renameat2" : "");
    (void)remove(s->out);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        const char *const arguments[] = { "strace", "-f", "-qq", "-o", s->log, "-e", traced, "-e",
                                          inject ? inject : "signal=none", "-e", s->is_without_rename
                                          ? "inject=renameat2:error=EINVAL" : "signal=none",
                                          s->program, "do", what, layout, s->base, s->out, NULL };
        (void)execvp("strace", (char *const *)(uintptr_t)arguments);
        _exit(98);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    s->message[0] = '\0';
    out = fopen(s->out, "r");
    if (out) {
        const size_t n = fread(s->message, 1, sizeof s->message - 1, out);
        s->message[n] = '\0';
        (void)fclose(out);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static call_count *deed_call(deed_scene *s, const char *name, size_t length) {
    int i;
    for (i = 0; i < s->count; i++)
        if (strlen(s->calls[i].name) == length && memcmp(s->calls[i].name, name, length) == 0) return &s->calls[i];
    CHECK(s->count < CALLS && length < sizeof s->calls[0].name);
    memset(&s->calls[s->count], 0, sizeof s->calls[0]);
    memcpy(s->calls[s->count].name, name, length);
    return &s->calls[s->count++];
}
static void deed_count(deed_scene *s, const char *calls) {
    char line[2000], trace[600];
    int marks = 0, pid = 0, other;
    FILE *log;
    (void)snprintf(trace, sizeof trace, "trace=getppid,%s", calls);
    s->count = 0;
    CHECK_INT(deed_trace(s, trace, NULL), DCP_OK);
    log = fopen(s->log, "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof line, log)) {
        const char *name = line + strspn(line, "0123456789 ");
        const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
        /* strace counts the calls of each thread by themselves */
        CHECK(sscanf(line, "%d", &other) == 1 && (pid == 0 || other == pid));
        pid = other;
        if (name[length] != '(' || (s->is_without_rename && length == 9 && memcmp(name, "renameat2", 9) == 0)) continue;
        if (length == 7 && memcmp(name, "getppid", 7) == 0) marks++;
        else if (marks == 0) deed_call(s, name, length)->before++;
        else if (marks == 1) deed_call(s, name, length)->during++;
    }
    (void)fclose(log);
    CHECK_INT(marks, 2);
}
static dcp_storage *deed_storage(const deed_scene *s) {
    dcp_storage *storage;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_local(s->base, &storage, &err), err.message);
    return storage;
}
/* What a killed save leaves. */
static void deed_litter(dcp_storage *storage) {
    static const char *const names[] = { "p_shard_0.0123456789abcdef.bin", "p_shard_3.bin",
                                         "p.metadata.json.0123456789abcdef.tmp", "o_shard_1.fedcba9876543210.bin" };
    size_t i;
    for (i = 0; i < DCPI_COUNT(names); i++) CHECK_OK(dcp_storage_write_all(storage, names[i], "litter", 6, NULL, NULL));
}
static void deed_set(deed_scene *s) {
    dcp_storage *storage;
    dcp_error err;
    test_rm_rf(s->top);
    if (s->what == FIRST) return;
    storage = deed_storage(s);
    CHECK_OK_MESSAGE(generation_save(storage, s->layout, "p", DEED_SIZE, OLD, &err), err.message);
    if (s->what == SWEEP) deed_litter(storage);
    dcp_storage_close(storage);
}
static void deed_open(deed_scene *s, deed what, dcp_layout layout) {
    const char *dir = test_ram_dir();
    ssize_t n;
    memset(s, 0, sizeof *s);
    s->what = what;
    s->layout = layout;
    (void)snprintf(s->top, sizeof s->top, "%.900s/some", dir);
    (void)snprintf(s->base, sizeof s->base, "%.900s/where", s->top);
    (void)snprintf(s->out, sizeof s->out, "%.900s/out", dir);
    (void)snprintf(s->log, sizeof s->log, "%.900s/log", dir);
    n = readlink("/proc/self/exe", s->program, sizeof s->program - 1);
    CHECK(n > 0);
    deed_set(s);
}

/* What is there after the deed, whatever it said. A save that knows that it failed, and can remove files, has left none
 * (G9). */
static void deed_check(deed_scene *s, int status, int fails_once) {
    const int is_save = s->what == FIRST || s->what == OVERWRITE, old = s->what == FIRST ? 0 : OLD;
    dcp_storage *storage = deed_storage(s);
    const int there = generation_at(storage, "p");
    dcp_error err;
    if (there < 0) CHECK_STR(generation_why, "");
    if (is_save && status == DCP_OK) CHECK_INT(there, NEW);
    else if (is_save && (status == -1 || status == DCP_E_UNKNOWN)) CHECK(there == NEW || there == old);
    else CHECK_INT(there, old);
    if (is_save && fails_once && status > 0 && status != DCP_E_UNKNOWN && !nothing_else_is_there(storage))
        CHECK_STR(generation_why, "");
    CHECK_OK_MESSAGE(generation_sweep(storage, &err), err.message);
    CHECK_INT(generation_at(storage, "p"), there);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    CHECK_OK_MESSAGE(generation_save(storage, s->layout, "p", DEED_SIZE, NEXT, &err), err.message);
    CHECK_INT(generation_latest(storage), NEXT);
    dcp_storage_close(storage);
}
/* An error names the file or the directory that it is about, and what could not be done. */
static int names_the_place(const char *message) {
    return strstr(message, "p.") || strstr(message, "p_") || strstr(message, "dense/") ||
           strstr(message, "directory \"/");
}
static int names_the_operation(const char *message) {
    return strstr(message, "cannot ") || strstr(message, "could not ");
}
static void deed_inject(deed_scene *s, const call_count *call, int nth, const char *how) {
    const int is_lie = strncmp(how, "retval", 6) == 0;
    char trace[100], inject[200];
    int status;
    doing("%s, %s: %s number %d of %d, %s", deed_names[s->what], layout_names[s->layout], call->name, nth, call->during,
          how);
    (void)snprintf(trace, sizeof trace, "trace=%s", call->name);
    (void)snprintf(inject, sizeof inject, "inject=%s:%.*s:when=%d%s", call->name, (int)strcspn(how, "+"), how,
                   call->before + nth, strchr(how, '+') ? "+" : "");
    status = deed_trace(s, trace, inject);
    s->runs++;
    s->killed += status == -1;
    s->reported += status > 0;
    CHECK(status != 98 && status != 99);
    if (strcmp(how, "error=EINTR") == 0) CHECK_OK_MESSAGE(status, s->message);
    if (strcmp(how, "signal=KILL") == 0) CHECK_INT(status, -1);
    else if (status != DCP_OK && !is_lie)
        CHECK_STR(names_the_place(s->message) && names_the_operation(s->message) ? "" : s->message, "");
    if (getenv("DCP_TEST_SHOW")) printf("%s: %d %s\n", doing_text, status, s->message);
    deed_check(s, status, strchr(how, '+') == NULL);
    deed_set(s);
}
/* In a sample: the first and the last call of each kind. */
static void deed_inject_call(deed_scene *s, const call_count *call, const char *how) {
    int nth;
    for (nth = 1; nth <= call->during; nth++)
        if (is_whole() || nth == 1 || nth == call->during) deed_inject(s, call, nth, how);
}
static void deed_inject_all(deed_scene *s, const char *calls, const char *const *how, size_t count) {
    int i;
    size_t h;
    deed_count(s, calls);
    deed_set(s);
    for (i = 0; i < s->count; i++) for (h = 0; h < count; h++) deed_inject_call(s, &s->calls[i], how[h]);
    done_doing();
    printf("    %s, %s: %ld calls failed: %ld reported, %ld coped with, %ld kills\n", deed_names[s->what],
           layout_names[s->layout], s->runs, s->reported, s->runs - s->reported - s->killed, s->killed);
}
static void need_strace(void) {
    if (system("strace -o /dev/null -f -e trace=none true 2>/dev/null") != 0)
        SKIP_MISSING("strace", "install strace, and allow ptrace");
}
static void deeds(deed from, deed to, dcp_layout first, const char *calls, const char *const *how, size_t count) {
    deed_scene s;
    int what, layout;
    need_strace();
    for (what = from; what <= (int)to; what++)
        for (layout = (int)first; layout <= DCP_LAYOUT_MANIFEST; layout++) {
            deed_open(&s, (deed)what, (dcp_layout)layout);
            deed_inject_all(&s, calls, how, count);
        }
}
#define WRITING "?write,pwrite64,fsync,fdatasync,?rename,?renameat,?renameat2,?link,linkat,?open,openat,openat2," \
                "close,?unlink,unlinkat,?mkdir,mkdirat,ftruncate,fallocate"
TEST(system_calls_fail_in_saves) {
    static const char *const how[] = { "error=EIO", "error=EIO+", "error=ENOSPC", "error=EDQUOT", "error=EINTR",
                                       "error=EROFS" };
    deeds(FIRST, OVERWRITE, SHARDED, WRITING, how, DCPI_COUNT(how));
}
/* Where rename cannot refuse an existing target, names are made by link. */
TEST(links_fail_where_there_is_no_exclusive_rename) {
    static const char *const how[] = { "error=EIO", "error=EIO+", "error=ENOSPC", "error=EINTR", "error=EEXIST",
                                       "signal=KILL" };
    int what, layout;
    need_strace();
    for (what = FIRST; what <= OVERWRITE; what++)
        for (layout = SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
            deed_scene s;
            deed_open(&s, (deed)what, (dcp_layout)layout);
            s.is_without_rename = 1;
            deed_inject_all(&s, "linkat", how, DCPI_COUNT(how));
            CHECK(s.count == 1 || (what == OVERWRITE && layout == DCP_LAYOUT_SINGLE));
            if (what != FIRST) continue;
            /* of the commit file: it may have been there, and been removed */
            deed_inject(&s, &s.calls[0], s.calls[0].during, "error=EIO");
            CHECK(strstr(s.message, "is not known") != NULL);
        }
}
/* Beside the calls at which test_kill.c kills. */
TEST(killed_in_the_other_system_calls) {
    static const char *const how[] = { "signal=KILL" };
    deeds(FIRST, OVERWRITE, SHARDED, "close,?mkdir,mkdirat,linkat,ftruncate,fallocate,fchmod,fcntl,getdents64", how,
          DCPI_COUNT(how));
}
TEST(system_calls_fail_in_loads) {
    static const char *const how[] = { "error=EIO", "error=EIO+", "error=EINTR", "error=ESTALE" };
    static const char *const lies[] = { "retval=16" }, *const none[] = { "error=ENOMEM" };
    deeds(LOAD, LATEST, SHARDED, "?open,openat,openat2,?read,pread64,?fstat,newfstatat,getdents64", how,
          DCPI_COUNT(how));
    deeds(LOAD, LOAD, SHARDED, "pread64", lies, DCPI_COUNT(lies));  /* bytes that were never read: the digests say so */
    deeds(LOAD, LOAD, SHARDED, "mmap", none, DCPI_COUNT(none));
}
TEST(system_calls_fail_in_sweeps) {
    static const char *const how[] = { "error=EIO", "error=EIO+", "error=EINTR", "error=EROFS", "signal=KILL" };
    deeds(SWEEP, SWEEP, is_whole() ? SHARDED : MANIFEST, WRITING ",pread64,newfstatat,getdents64", how,
          DCPI_COUNT(how));
}

/* ---- machines that are too small, disks that lie, clocks that are wrong ------------------------------------------ */
/* Runs fn in a child, so that its limits end with it; what it says is in generation_why, and shared->number. */
static void in_child(int (*fn)(void *user), void *user) {
    int status = 0;
    pid_t pid;
    memset(shared, 0, sizeof *shared);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        status = fn(user);
        (void)snprintf(shared->text, sizeof shared->text, "%s", generation_why);
        _exit(status ? 0 : 1);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status)) CHECK_INT(WTERMSIG(status), 0);
    if (WEXITSTATUS(status) != 0) CHECK_STR(shared->text, "");
    CHECK_INT(WEXITSTATUS(status), 0);
}
static int says(const char *what, const dcp_error *err) {
    (void)generation_wrong("", what, err ? err->message : "");
    return 0;
}
typedef struct limited {
    dcp_storage *storage; dcp_layout layout;
    int resource; rlim_t limit;
    int in_background;
} limited;
static int limit_set(const limited *l, rlim_t soft) {
    struct rlimit limit;
    if (getrlimit(l->resource, &limit) != 0) return 0;
    limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
    return setrlimit(l->resource, &limit) == 0;
}
/* A save over the old one that had little room: DCP_OK and the new one is there, or `otherwise` and nothing has
 * changed, without a sweep. */
static int check_little_room(dcp_storage *storage, dcp_status status, const dcp_error *err, dcp_status otherwise,
                             int old) {
    const int there = generation_at(storage, "p");
    shared->status = status;
    if (status != DCP_OK && status != otherwise) return says("ends otherwise", err);
    if (status != DCP_OK && !names_the_place(err->message)) return says("does not say where", err);
    if (there != (status ? old : NEW)) return there < 0 ? 0 : says("left another one", err);
    return nothing_else_is_there(storage);
}
static dcp_status generation_save_beside(dcp_storage *storage, dcp_layout layout, const char *path, size_t size,
                                         int which, dcp_error *err) {
    generation g;
    dcp_save_desc desc;
    dcp_saver *saver = NULL;
    dcp_status status = dcp_saver_open(NULL, &saver, err);
    generation_make(&g, size, which);
    desc = generation_desc(&g, storage, layout, path);
    desc.overwrite = 1;
    if (!status) status = dcp_save_begin(saver, &desc, err);
    if (status) (void)dcp_saver_close(saver, NULL);
    else status = dcp_saver_close(saver, err);
    generation_free(&g);
    return status;
}
static int child_saves(void *user) {
    const limited *l = (const limited *)user;
    dcp_error err;
    dcp_status status;
    sigset_t pending;
    (void)signal(SIGXFSZ, SIG_DFL);                     /* which ends the process: the library keeps it from itself */
    if (!limit_set(l, l->limit)) return says("setrlimit", NULL);
    status = l->in_background ? generation_save_beside(l->storage, l->layout, "p", 30000, NEW, &err)
                              : generation_save(l->storage, l->layout, "p", 30000, NEW, &err);
    if (sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ)) return says("left a signal", NULL);
    if (!limit_set(l, RLIM_INFINITY)) return says("setrlimit", NULL);
    return check_little_room(l->storage, status, &err, l->resource == RLIMIT_FSIZE ? DCP_E_SPACE : DCP_E_IO, OLD);
}
static void saves_within_limits(int resource, rlim_t least, rlim_t most, rlim_t step, rlim_t enough) {
    limited l;
    dcp_error err;
    int layout, full = 0;
    l.resource = resource;
    l.in_background = 0;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &l.storage, &err), err.message);
        l.layout = (dcp_layout)layout;
        for (l.limit = least; l.limit <= most; l.limit += step) {
            doing("%s, limit %ld", layout_names[layout], (long)l.limit);
            CHECK_OK_MESSAGE(generation_save(l.storage, l.layout, "p", 30000, OLD, &err), err.message);
            l.in_background = !l.in_background;
            in_child(child_saves, &l);
            if (l.limit >= enough) CHECK_INT(shared->status, DCP_OK);
            full += shared->status != DCP_OK;
        }
        dcp_storage_close(l.storage);
    }
    done_doing();
    CHECK(full > 0);
}
/* Real short writes: those across the limit end there, and the next one fails. */
TEST(files_that_may_not_grow) { saves_within_limits(RLIMIT_FSIZE, 0, 36000, is_whole() ? 250 : 3000, 36000); }
TEST(few_descriptors) { saves_within_limits(RLIMIT_NOFILE, 4, 17, 1, 16); }

TEST(full_file_systems) {
    int layout, size, overwrites, full = 0;
    if (!has_own_mounts()) SKIP_MISSING("power", "mounting is not permitted here; run as root");
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
        for (overwrites = 0; overwrites <= 1; overwrites++)
            for (size = overwrites ? 72 : 4; size <= 160; size += is_whole() ? 4 : 20) {
                const char *root = test_dir();
                dcp_storage *storage;
                dcp_error err;
                dcp_status status;
                char options[40];
                doing("%s%s, tmpfs of %d KiB", layout_names[layout], overwrites ? " again" : "", size);
                (void)snprintf(options, sizeof options, "size=%dk", size);
                CHECK(mount("dcp_test", root, "tmpfs", 0, options) == 0);
                CHECK_OK_MESSAGE(dcp_storage_local(root, &storage, &err), err.message);
                /* it lives on below the storage, and is gone when that is closed or we die */
                CHECK_INT(umount2(root, MNT_DETACH), 0);
                (void)rmdir(root);
                test_state.dirs--;
                if (overwrites)
                    CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "p", 30000, OLD, &err), err.message);
                status = generation_save(storage, (dcp_layout)layout, "p", 30000, NEW, &err);
                if (!check_little_room(storage, status, &err, DCP_E_SPACE, overwrites ? OLD : 0))
                    CHECK_STR(generation_why, "");
                full += shared->status != DCP_OK;
                dcp_storage_close(storage);
            }
    done_doing();
    CHECK(full > 0);
}

/* All but so much of a disk is in use. */
static int fill(const char *path, int64_t leave) {
    struct statvfs st;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int is_known = fd >= 0 && fstatvfs(fd, &st) == 0;
    int64_t size = is_known ? (int64_t)st.f_bavail * (int64_t)st.f_frsize - leave : 0;
    /* the file system needs some of it for itself */
    while (size > 0 && posix_fallocate(fd, 0, (off_t)size) != 0) size -= 4096;
    if (fd >= 0) (void)close(fd);
    return is_known;
}
static int save_on_full_disk(const disk *d, dcp_layout layout, int64_t leave, int *full) {
    char filler[TEST_PATH + 20], dir[TEST_PATH + 20];
    dcp_storage *storage = NULL;
    dcp_error err;
    dcp_status status;
    int is_good;
    (void)snprintf(filler, sizeof filler, "%s/filler", d->root);
    (void)snprintf(dir, sizeof dir, "%s/%s", d->root, layout_names[layout]);
    if (dcp_storage_local(dir, &storage, &err)) return says("does not open", &err);
    is_good = generation_save(storage, layout, "p", 100000, OLD, &err) == DCP_OK && fill(filler, leave);
    if (!is_good) (void)says("cannot be set up", &err);
    if (is_good) {
        status = generation_save(storage, layout, "p", 100000, NEW, &err);
        is_good = check_little_room(storage, status, &err, DCP_E_SPACE, OLD);
        *full += status != DCP_OK;
    }
    (void)unlink(filler);
    dcp_storage_close(storage);
    return is_good;
}
TEST(full_disks) {
    disk d;
    int layout, full = 0, is_good = 1, steps = 0;
    int64_t leave = 0;
    disk_open(&d, "ext4", 8);
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST && is_good; layout++)
        for (leave = 0; leave <= 160 << 10 && is_good; leave += (is_whole() ? 2 : 20) << 10, steps++)
            is_good = save_on_full_disk(&d, (dcp_layout)layout, leave, &full);
    disk_close(&d);
    if (!is_good) doing("%s, %ld bytes left", layout_names[layout - 1], (long)leave);
    if (!is_good) CHECK_STR(generation_why, "");
    CHECK(full > 0 && full < steps);
}

/* A disk that drops what it could not write and calls the file clean afterwards: only another file may be tried (G3).
 * The document is tried once, data files again. Whether the n-th sync was reached; *status is the save's. */
static int save_with_a_lie(dcp_storage *storage, dcp_layout layout, int n, int attempts, dcp_status *status) {
    dcp_error err;
    generation g;
    dcp_save_desc desc;
    int was_reached;
    CHECK_OK_MESSAGE(generation_save(storage, layout, "p", 30000, OLD, &err), err.message);
    generation_make(&g, 30000, NEW);
    desc = generation_desc(&g, storage, layout, "p");
    desc.io.retry.attempts = attempts;
    tamper.syncs = 0;
    tamper.lies_at = n;
    *status = dcp_save(&desc, &err);
    was_reached = tamper.syncs >= n;
    tamper.lies_at = 0;
    generation_free(&g);
    if (*status) CHECK_INT(*status, DCP_E_IO);
    if (generation_at(storage, "p") != (*status ? OLD : NEW)) CHECK_STR(generation_why, "another generation");
    /* the old one's files may be left, where what failed was their removal */
    if (!*status) CHECK_OK_MESSAGE(generation_sweep(storage, &err), err.message);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    return was_reached;
}
TEST(a_sync_that_loses_the_data) {
    int layout, n, attempts, reported[2] = { 0, 0 };
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        dcp_storage *storage;
        dcp_error err;
        dcp_status status;
        CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &storage, &err), err.message);
        for (attempts = 1; attempts <= 3; attempts += 2) {
            for (n = 1; save_with_a_lie(storage, (dcp_layout)layout, n, attempts, &status); n++) {
                doing("%s, sync %d, %d attempts", layout_names[layout], n, attempts);
                reported[attempts > 1] += status != DCP_OK;
            }
        }
        dcp_storage_close(storage);
    }
    done_doing();
    CHECK(reported[1] > 0 && reported[1] < reported[0]);
}
/* A server repeats a request whose answer was lost, and says that there is nothing to move (ENOENT), or what else: the
 * file has its name, and that is success, for shards, for a manifest's files and for the commit file alike. */
TEST(a_rename_whose_answer_is_lost_has_happened) {
    static const int errors[] = { ENOENT, EIO, EINTR, EEXIST };
    int layout, overwrites, n, lost = 0;
    size_t k;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
        for (overwrites = 0; overwrites < 2; overwrites++)
            for (k = 0; k < DCPI_COUNT(errors); k++)
                for (n = 1; n < 30; n++) {
                    dcp_storage *storage;
                    dcp_error err;
                    const char *dir = test_state.dirs ? test_state.dir[0] : test_ram_dir();
                    doing("%s, %s, move %d says %d", layout_names[layout], overwrites ? "over" : "first", n, errors[k]);
                    test_rm_rf(dir);
                    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
                    if (overwrites)
                        CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "p", 30000, OLD, &err),
                                         err.message);
                    tamper.moves = 0;
                    tamper.lost_error = errors[k];
                    tamper.lost_at = n;
                    CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "p", 30000, NEW, &err), err.message);
                    tamper.lost_at = 0;
                    if (generation_at(storage, "p") != NEW) CHECK_STR(generation_why, "another generation");
                    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
                    dcp_storage_close(storage);
                    if (tamper.moves < n) break;
                    lost++;
                }
    done_doing();
    CHECK(lost >= 4 * 2 * 3);
}
TEST(reads_and_writes_end_in_the_middle) {
    int layout;
    tamper.is_short = 1;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        dcp_storage *storage;
        dcp_error err;
        CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &storage, &err), err.message);
        CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "p", 100000, NEW, &err), err.message);
        if (generation_at(storage, "p") != NEW) CHECK_STR(generation_why, "");
        dcp_storage_close(storage);
    }
    tamper.is_short = 0;
}

/* Tensors that no memory holds: a device makes their bytes when they are saved, and checks them when they are
 * loaded. */
static unsigned char byte_at(int64_t i) { return (unsigned char)(i >> 12); }
static dcp_status producer_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                               uint64_t *ticket, dcp_error *err) {
    int64_t at = offset, end = offset + (int64_t)size;
    (void)context; (void)tensor; (void)ticket; (void)err;
    for (; at < end; at = (at | 4095) + 1)
        memset((char *)host + (at - offset), byte_at(at), (size_t)dcpi_min((at | 4095) + 1 - at, end - at));
    return DCP_OK;
}
static dcp_status consumer_in(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size,
                              uint64_t *ticket, dcp_error *err) {
    const unsigned char *bytes = (const unsigned char *)host;
    size_t i;
    (void)context; (void)tensor; (void)ticket;
    for (i = 0; i < size; i += 509)
        if (bytes[i] != byte_at(offset + (int64_t)i))
            return dcpi_fail(err, DCP_E_DEVICE, "byte %ld is another one", (long)(offset + (int64_t)i));
    shared->number[0] += (int64_t)size;
    return DCP_OK;
}
static dcp_status copy_is_done(void *context, uint64_t ticket, dcp_error *err) {
    (void)context; (void)ticket; (void)err;
    return DCP_OK;
}
static int child_saves_much(void *user) {
    const limited *l = (const limited *)user;
    const int64_t shape = is_whole() ? (int64_t)400 << 20 : (int64_t)100 << 20;
    dcp_device device = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_tensor tensor = dcp_array("much", DCP_UINT8, &device, 1, &shape);
    dcp_error err;
    if (!limit_set(l, l->limit)) return says("setrlimit", NULL);
    device.copy_out = producer_out;
    device.copy_in = consumer_in;
    device.wait = copy_is_done;
    tensor.device = &device;
    save.path = load.path = "p";
    save.tensors = load.tensors = &tensor;
    save.tensor_count = load.tensor_count = 1;
    save.layout = l->layout;
    save.io.storage = load.io.storage = l->storage;
    load.io.threads = 1;                                /* consumer_in counts */
    if (dcp_save(&save, &err)) return says("cannot save", &err);
    if (dcp_load(&load, &err)) return says("cannot load", &err);
    return shared->number[0] == shape ? 1 : says("too little was loaded", NULL);
}
/* 256 MiB of addresses hold the program, the stacks of its threads and the C library's arenas as well. */
TEST(more_tensors_than_memory) {
    limited l;
    dcp_error err;
    if (test_is_sanitized()) SKIP("the sanitizer wants all addresses");
    l.resource = RLIMIT_AS;
    l.limit = (rlim_t)(is_whole() ? 256 : 96) << 20;
    l.layout = SHARDED;
    CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &l.storage, &err), err.message);
    in_child(child_saves_much, &l);
    dcp_storage_close(l.storage);
}

/* All that a training program calls, on a thread with a small stack. */
static int calls_work(const limited *l) {
    dcp_error err;
    dcp_saver *saver = NULL;
    dcp_status status;
    generation g;
    dcp_save_desc desc;
    if (generation_save(l->storage, l->layout, "p", 30000, OLD, &err)) return says("save", &err);
    generation_make(&g, 30000, NEXT);
    desc = generation_desc(&g, l->storage, l->layout, "q");
    desc.io.threads = 4;
    status = dcp_saver_open(NULL, &saver, &err);
    if (!status) status = dcp_save_begin(saver, &desc, &err);
    if (!status) status = dcp_save_wait(saver, -1, &err);
    (void)dcp_saver_close(saver, NULL);                 /* wait has said it, or nothing began */
    generation_free(&g);
    if (status) return says("save in the background", &err);
    if (generation_save(l->storage, l->layout, "p", 30000, NEW, &err)) return says("overwrite", &err);
    if (generation_at(l->storage, "p") != NEW || generation_latest(l->storage) != NEW) return 0;
    return generation_sweep(l->storage, &err) ? says("sweep", &err) : 1;
}
static void *calls_on_this_thread(void *user) { return calls_work((const limited *)user) ? user : NULL; }
static int child_calls_on_small_stack(void *user) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = NULL;
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, 65536) != 0)
        return says("no such stack", NULL);
    if (pthread_create(&thread, &attributes, calls_on_this_thread, user) != 0 || pthread_join(thread, &result) != 0)
        return says("no such thread", NULL);
    return result != NULL;
}
TEST(stacks_of_64_kib) {
    limited l;
    dcp_error err;
    int layout;
    if (test_is_sanitized()) SKIP("the sanitizer wants larger stacks");
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &l.storage, &err), err.message);
        l.layout = (dcp_layout)layout;
        in_child(child_calls_on_small_stack, &l);
        dcp_storage_close(l.storage);
    }
}

/* Somebody sets the clock, a machine starts in 1970: what is newest, and how old a leftover is, must not depend on
 * it. */
static void clock_off(int layout, int64_t seconds, int jumps) {
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_removal removal;
    dcp_storage *storage;
    dcp_error err;
    doing("%s, %ld s%s", layout_names[layout], (long)seconds, jumps ? " and back" : "");
    memset(&tamper, 0, sizeof tamper);
    CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &storage, &err), err.message);
    CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "p", 3000, OLD, &err), err.message);
    tamper.clock_s = seconds;
    tamper.clock_jumps = jumps;
    CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "q", 3000, NEW, &err), err.message);
    CHECK_INT(generation_latest(storage), NEW);
    deed_litter(storage);
    sweep.plain_names = 1;
    sweep.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_sweep(&sweep, &removal, &err), err.message);
    CHECK_INT(removal.path_count, 0);                   /* all of it is young */
    dcp_removal_free(&removal);
    CHECK_OK_MESSAGE(generation_save(storage, (dcp_layout)layout, "p", 3000, NEXT, &err), err.message);
    memset(&tamper, 0, sizeof tamper);
    CHECK_INT(generation_latest(storage), NEXT);
    CHECK_INT(generation_at(storage, "q"), NEW);
    CHECK_OK_MESSAGE(generation_sweep(storage, &err), err.message);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    dcp_storage_close(storage);
}
TEST(clocks_that_are_wrong) {
    const int64_t year = (int64_t)365 * 86400;
    int layout;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
        clock_off(layout, -year, 0);
        clock_off(layout, 10 * year, 0);
        clock_off(layout, -(int64_t)time(NULL), 0);     /* 1970 */
        clock_off(layout, year, 1);
    }
    done_doing();
}

/* A checkpoint whose sequence number cannot be read might be the newest, whatever the storage says is the reason: a
 * save that took it for nothing would get a lower number, and dcp_latest would go on finding the older one. */
TEST(a_document_that_cannot_be_read_might_be_the_newest) {
    static const int errors[] = { EIO, ENOSPC, EDQUOT, ENOMEM, EACCES };
    static const fault_kind kinds[] = { FAULT_OPEN, FAULT_READ };
    fault_storage f;
    dcp_storage *storage;
    dcp_error err;
    size_t e, k;
    int nth, number = 0, saved = 0;
    CHECK_OK_MESSAGE(dcp_storage_local(test_ram_dir(), &storage, &err), err.message);
    fault_open(&f, storage);
    for (e = 0; e < DCPI_COUNT(errors); e++)
        for (k = 0; k < DCPI_COUNT(kinds); k++)
            for (nth = 1; nth <= 4; nth++) {
                const char *path = nth % 2 ? "p" : "q";
                doing("%s %d, error %d", fault_kind_name(kinds[k]), nth, errors[e]);
                CHECK_OK_MESSAGE(generation_save(storage, SHARDED, "o", 100, ++number, &err), err.message);
                fault_set(&f, kinds[k], nth, 1, errors[e]);
                if (generation_save(&f.storage, SHARDED, path, 100, ++number, &err) != DCP_OK) continue;
                saved++;
                CHECK_INT(generation_latest(storage), number);
            }
    done_doing();
    CHECK(saved > 0);
    fault_close(&f);
    dcp_storage_close(storage);
}

/* ---- thousands of cycles of save, kill and restore --------------------------------------------------------------- */
enum { CYCLE_PATHS = 3, CYCLE_KEPT = 4, CYCLE_FILES = 300 };
typedef struct cycler { dcp_storage *storage; fault_storage *faulty; dcp_saver *saver; int64_t kill_at; } cycler;

static void cycle_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    const cycler *c = (const cycler *)user;
    (void)kind; (void)key; (void)call; (void)is_done;
    if (++shared->steps == c->kill_at) (void)kill(getpid(), SIGKILL);
}
/* Two saves of three have no fault; the others one somewhere, that lasts for one call or for some. */
static void cycle_fault(cycler *c) {
    static const int errors[] = { EIO, EAGAIN, ENOSPC, EDQUOT, EROFS, EACCES, ESTALE, ENOMEM };
    fault_reset(c->faulty);
    if (test_random_below(3) == 0) {
        const int sys = errors[test_random_below(DCPI_COUNT(errors))];
        fault_set(c->faulty, FAULT_ANY, 1 + (int64_t)test_random_below(40), 1 + (int64_t)test_random_below(4), sys);
        c->faulty->how = (fault_how)test_random_below(3);
    }
    c->faulty->hook = c->kill_at > 0 ? cycle_hook : NULL;
    c->faulty->user = c;
}
static dcp_status cycle_background(cycler *c, const dcp_save_desc *desc, dcp_error *err) {
    dcp_status status = dcp_save_begin(c->saver, desc, err);
    if (status) return status;
    if (test_random_below(5) == 0) dcp_save_cancel(c->saver);
    while ((status = dcp_save_poll(c->saver, err)) == DCP_PENDING && test_random_below(100)) continue;
    return status == DCP_PENDING ? dcp_save_wait(c->saver, -1, err) : status;
}
/* The next generation, somewhere, somehow. False: an answer that nothing here can explain. */
static int cycle_save(cycler *c) {
    /* the newest is replaced as often as not */
    const size_t place = test_random_below(2) ? (size_t)shared->last_place : test_random_below(3 * CYCLE_PATHS);
    const dcp_layout layout = (dcp_layout)(place / CYCLE_PATHS);
    char path[40];
    dcp_status status;
    dcp_error err;
    dcp_save_desc desc;
    generation g;
    const int number = ++shared->attempted;
    generation_make(&g, test_random_below(4) ? test_random_below(5000) : 60000 + test_random_below(60000), number);
    (void)snprintf(path, sizeof path, "%s_%d", layout_names[layout], (int)(place % CYCLE_PATHS));
    desc = generation_desc(&g, &c->faulty->storage, layout, path);
    desc.unique_names = test_random_below(2) != 0;
    cycle_fault(c);
    status = test_random_below(2) ? dcp_save(&desc, &err) : cycle_background(c, &desc, &err);
    generation_free(&g);
    if (status == DCP_OK) {
        shared->acknowledged = number;
        shared->last_place = (int)place;
        shared->number[0]++;
        return 1;
    }
    shared->number[1]++;
    if (status == DCP_E_CANCELLED || status == DCP_E_UNKNOWN || c->faulty->failed > 0) return 1;
    return says("fails without a reason", &err);
}
/* What is there is the last one that was acknowledged, or a later one that was tried. */
static int cycle_restore(cycler *c) {
    const int number = generation_latest(c->storage);
    char text[100];
    if (number < 0) return 0;
    if (number >= shared->acknowledged && number <= shared->attempted) { shared->number[2]++; return 1; }
    (void)snprintf(text, sizeof text, "%d is there, %d was acknowledged, %d was tried", number, shared->acknowledged,
                   shared->attempted);
    (void)generation_wrong("restore", text, "");
    return 0;
}
static int cycle_tidy(cycler *c) {
    dcp_prune_desc prune = DCP_ZERO;
    dcp_error err;
    prune.keep_last = CYCLE_KEPT;
    prune.io.storage = c->storage;
    if (test_random_below(2) && dcp_prune(&prune, NULL, &err)) return says("cannot prune", &err);
    if (test_random_below(3) == 0 && generation_sweep(c->storage, &err)) return says("cannot sweep", &err);
    return 1;
}
static int cycle_open(cycler *c, const char *dir) {
    static fault_storage faulty;
    dcp_error err;
    c->faulty = &faulty;
    if (dcp_storage_local(dir, &c->storage, &err) || dcp_saver_open(NULL, &c->saver, &err))
        return says("cannot open", &err);
    fault_open(c->faulty, c->storage);
    return 1;
}
/* A training program's life: load the newest, tidy up, save some times. It exits with 0 unless something is wrong. */
static void cycle_child(const char *dir, uint64_t seed, int64_t kill_at) {
    cycler c;
    int saves, is_good;
    memset(&c, 0, sizeof c);
    test_state.random = seed;
    c.kill_at = kill_at;
    is_good = cycle_open(&c, dir) && cycle_restore(&c) && cycle_tidy(&c);
    for (saves = 1 + (int)test_random_below(4); saves > 0 && is_good; saves--) is_good = cycle_save(&c);
    if (is_good) is_good = cycle_restore(&c);
    (void)snprintf(shared->text, sizeof shared->text, "%s", generation_why);
    _exit(is_good ? 0 : 1);
}
static void cycle_run(const char *dir, int64_t *kills) {
    const uint64_t seed = test_random();
    const size_t how = test_random_below(3);            /* it comes through; is killed at a time; at a call */
    const int64_t us = (int64_t)test_random_below(6000), call = 1 + (int64_t)test_random_below(250);
    int status = 0;
    pid_t pid;
    shared->steps = 0;
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) cycle_child(dir, seed, how == 2 ? call : 0);
    CHECK(pid > 0);
    if (how == 1) {
        sleep_us(us);
        (void)kill(pid, SIGKILL);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) { CHECK_INT(WTERMSIG(status), SIGKILL); ++*kills; }
    else if (WEXITSTATUS(status) != 0) CHECK_STR(shared->text, "");
}
static void count_files(dcp_storage *storage, int *most, int64_t *most_bytes) {
    static generation_files files;
    generation_files_find(&files, storage);
    CHECK_OK(files.status);
    if (files.count > *most) *most = files.count;
    if (files.bytes > *most_bytes) *most_bytes = files.bytes;
    generation_files_free(&files);
}
TEST(cycles_of_save_kill_and_restore) {
    const long cycles = from_environment("DCP_TEST_CYCLES", 150);
    const char *dir = test_ram_dir();
    const int64_t started = now_us();
    int64_t kills = 0, most_bytes = 0;
    int most_files = 0, last;
    dcp_storage *storage;
    dcp_error err;
    long i;
    memset(shared, 0, sizeof *shared);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    for (i = 1; i <= cycles; i++) {
        doing("cycle %ld", i);
        cycle_run(dir, &kills);
        count_files(storage, &most_files, &most_bytes);
    }
    doing("after %ld cycles", cycles);
    last = generation_latest(storage);
    if (last < 0) CHECK_STR(generation_why, "");
    CHECK(last >= shared->acknowledged && last <= shared->attempted);
    CHECK_OK_MESSAGE(generation_sweep(storage, &err), err.message);
    if (!nothing_else_is_there(storage)) CHECK_STR(generation_why, "");
    CHECK(kills > cycles / 4);
    CHECK(most_files <= CYCLE_FILES);
    dcp_storage_close(storage);
    done_doing();
    printf("    %ld cycles: %ld kills, %ld saves acknowledged, %ld failed, %ld restores; at most %d files, %ld KiB; "
           "%.1f s [DCP_TEST_SEED=%llu]\n", cycles, (long)kills, (long)shared->number[0], (long)shared->number[1],
           (long)shared->number[2], most_files, (long)(most_bytes / 1024),
           (double)(now_us() - started) / 1e6, (unsigned long long)test_state.seed);
}

/* One process that never ends: what it holds after the first tenth is what it holds at the end. */
typedef struct usage { long resident_kib; int descriptors, threads; } usage;
static int entries_of(const char *directory) {
    DIR *stream = opendir(directory);
    int count = 0;
    CHECK(stream != NULL);
    while (readdir(stream)) count++;
    (void)closedir(stream);
    return count - 3;                                   /* `.`, `..`, and in fd the one that lists them */
}
static usage usage_now(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    usage u;
    CHECK(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
    (void)fclose(file);
    u.resident_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    u.descriptors = entries_of("/proc/self/fd");
    u.threads = entries_of("/proc/self/task") + 1;
    return u;
}
static void cycle_once(cycler *c) {
    dcp_error err;
    if (test_random_below(10) == 0) {
        CHECK_OK_MESSAGE(dcp_saver_close(c->saver, &err), err.message);
        CHECK_OK_MESSAGE(dcp_saver_open(NULL, &c->saver, &err), err.message);
    }
    if (!cycle_save(c) || !cycle_restore(c) || !cycle_tidy(c)) CHECK_STR(generation_why, "");
}
TEST(cycles_in_one_process) {
    const long cycles = from_environment("DCP_TEST_CYCLES", 150);
    const int64_t started = now_us();
    usage early, late = { 0, 0, 0 };
    dcp_error err;
    cycler c;
    long i;
    memset(shared, 0, sizeof *shared);
    memset(&c, 0, sizeof c);
    memset(&early, 0, sizeof early);
    CHECK(cycle_open(&c, test_ram_dir()));
    for (i = 1; i <= cycles; i++) {
        doing("cycle %ld", i);
        cycle_once(&c);
        if (i != cycles / 10 && i != cycles) continue;
        CHECK_OK_MESSAGE(dcp_saver_close(c.saver, &err), err.message);
        late = usage_now();
        CHECK_OK_MESSAGE(dcp_saver_open(NULL, &c.saver, &err), err.message);
        if (i == cycles / 10) early = late;
    }
    CHECK_OK_MESSAGE(dcp_saver_close(c.saver, &err), err.message);
    dcp_storage_close(c.storage);
    done_doing();
    printf("    %ld cycles in one process: %ld saves, %ld failed, %ld loads; after a tenth %ld KiB, %d descriptors, %d "
           "threads, at the end %ld KiB, %d, %d; " "%.1f s\n", cycles, (long)shared->number[0], (long)shared->number[1],
           (long)shared->number[2], early.resident_kib, early.descriptors, early.threads,
           late.resident_kib, late.descriptors, late.threads, (double)(now_us() - started) / 1e6);
    CHECK_INT(late.descriptors, early.descriptors);
    CHECK_INT(late.threads, early.threads);
    if (!test_is_sanitized()) CHECK(late.resident_kib <= early.resident_kib + 2048);
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "do") == 0) return deed_main(argv);
    shared = (shared_state *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == (shared_state *)MAP_FAILED) return 1;
    RUN(power_cuts_on_ext4);
    RUN(power_cuts_on_xfs);
    RUN(without_syncs_it_is_lost_on_ext4);
    RUN(without_syncs_it_is_lost_on_xfs);
    RUN(system_calls_fail_in_saves);
    RUN(links_fail_where_there_is_no_exclusive_rename);
    RUN(killed_in_the_other_system_calls);
    RUN(system_calls_fail_in_loads);
    RUN(system_calls_fail_in_sweeps);
    RUN(files_that_may_not_grow);
    RUN(few_descriptors);
    RUN(full_file_systems);
    RUN(full_disks);
    RUN(a_sync_that_loses_the_data);
    RUN(a_rename_whose_answer_is_lost_has_happened);
    RUN(reads_and_writes_end_in_the_middle);
    RUN(more_tensors_than_memory);
    RUN(stacks_of_64_kib);
    RUN(clocks_that_are_wrong);
    RUN(a_document_that_cannot_be_read_might_be_the_newest);
    RUN(cycles_of_save_kill_and_restore);
    RUN(cycles_in_one_process);
    return test_finish();
}
#endif
