/* bench.c: what dcp.h costs, beside what the machine could do at best and what others do, in one run (`make bench`).
 *
 *   build/bench [--quick] [--rounds N] [--size MIB] [--disk DIR] [--tmpfs DIR|none] [--only LIST] [--json FILE]
 *
 *   --quick    2 rounds, 256 MiB: a smoke test, its figures mean little       --rounds  default 5, at most 100
 *   --size     of the data set, default 2048                                  --disk    default $TMPDIR, else build/
 *   --tmpfs    default /dev/shm                                               --only    of
 *              memory,sha,json,manifest,commit,save,async,ranks,load
 *   --json     the figures and ratios, for programs
 *
 * Rules (design/PERFORMANCE.md, 0 and 8): all that is compared runs interleaved in one process on buffers that were
 * touched before; figures are medians, and a ratio is one of medians (in brackets: the least and the greatest of any
 * round). Fresh memory is the loudest thing on a virtual machine, so figures of different runs say little; ratios
 * within a run say more. Exit code: 0, also when a target is missed; 1 when something failed (wrong bytes are a
 * failure); 2 wrong usage. Build: -O2 -pthread; optional -DHAVE_OPENSSL -lcrypto, -DHAVE_CJSON -lcjson, -DHAVE_YYJSON
 * -lyyjson.
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef HAVE_OPENSSL
#include <openssl/evp.h>
#endif
#ifdef HAVE_CJSON
#include <cjson/cJSON.h>
#endif
#ifdef HAVE_YYJSON
#include <yyjson.h>
#endif

#define KIB ((int64_t)1024)
#define MIB (1024 * KIB)
#define CHUNK (4 * MIB)                 /* of every raw read and write */
#define LEAF (256 * KIB)
#define PAGE ((int64_t)4096)

static struct {
    int quick, rounds, commits;
    int64_t size;                       /* bytes of the data set */
    char disk[400], tmpfs[400];         /* directories of this run, made by it and removed by it; tmpfs "": none */
    const char *only, *json;
} opt;

/* ---- rows: figures by section and name, in memory that forked children share ------------------------------------- */
enum { MOST_ROWS = 200, MOST_SAMPLES = 256, MOST_RATIOS = 60, MOST_REMARKS = 40 };
typedef struct row { char section[24], name[72], unit[8]; int n; double v[MOST_SAMPLES]; } row;
typedef struct ratio { char what[112], note[64]; double value, low, high, hold, aim; int is_ceiling; } ratio;
typedef struct results {
    row rows[MOST_ROWS]; int row_count;
    ratio ratios[MOST_RATIOS]; int ratio_count;
    char remark[MOST_REMARKS][200]; int remarks;
} results;
static results *all;
static volatile sig_atomic_t interrupted;
static dcp_cancel cancel;

static void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)fflush(stdout);
    (void)fputs("bench: ", stderr);
    (void)vfprintf(stderr, format, list);
    (void)fputc('\n', stderr);
    va_end(list);
    exit(1);
}
static void remark(const char *format, ...) {
    va_list list;
    if (all->remarks == MOST_REMARKS) return;
    va_start(list, format);
    (void)vsnprintf(all->remark[all->remarks++], sizeof all->remark[0], format, list);
    va_end(list);
}
static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static row *row_find(const char *section, const char *name) {
    int i;
    for (i = 0; i < all->row_count; i++)
        if (strcmp(all->rows[i].section, section) == 0 && strcmp(all->rows[i].name, name) == 0) return &all->rows[i];
    return NULL;
}
static void row_add(const char *section, const char *name, const char *unit, double value) {
    row *r = row_find(section, name);
    if (!r) {
        if (all->row_count == MOST_ROWS) fail("more than %d rows", MOST_ROWS);
        r = &all->rows[all->row_count++];
        (void)snprintf(r->section, sizeof r->section, "%s", section);
        (void)snprintf(r->name, sizeof r->name, "%s", name);
        (void)snprintf(r->unit, sizeof r->unit, "%s", unit);
    }
    if (r->n < MOST_SAMPLES) r->v[r->n++] = value;
}
static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double row_quantile(const row *r, double q) {    /* 0 least, 0.5 median, 1 greatest */
    double v[MOST_SAMPLES], at = q * (double)(r->n - 1);
    int low = (int)at, high = low + 1 < r->n ? low + 1 : low;
    memcpy(v, r->v, (size_t)r->n * sizeof *v);
    qsort(v, (size_t)r->n, sizeof *v, compare_doubles);
    return v[low] + (v[high] - v[low]) * (at - (double)low);
}
static double row_median(const row *r) { return row_quantile(r, 0.5); }

/* ours against one limit, or against the lesser of two. is_ceiling: small is good. A row that is not there: no
 * ratio. */
static void ratio_add(const char *what, const row *ours, const row *a, const row *b, double hold, double aim,
                      int is_ceiling) {
    ratio *r;
    int i;
    double limit;
    if (!ours || !a || all->ratio_count == MOST_RATIOS) return;
    r = &all->ratios[all->ratio_count++];
    (void)snprintf(r->what, sizeof r->what, "%s", what);
    limit = row_median(a);
    if (b && row_median(b) < limit) limit = row_median(b);
    r->value = r->low = r->high = row_median(ours) / limit;
    r->hold = hold;
    r->aim = aim;
    r->is_ceiling = is_ceiling;
    for (i = 0; i < ours->n && i < a->n && (!b || i < b->n); i++) {
        double least = b && b->v[i] < a->v[i] ? b->v[i] : a->v[i], v = ours->v[i] / least;
        if (v < r->low) r->low = v;
        if (v > r->high) r->high = v;
    }
}

static void ratio_scale(double by) {   /* the last one is against a stand-in: the real limit is so many times as fast */
    ratio *r = &all->ratios[all->ratio_count - 1];
    r->value /= by;
    r->low /= by;
    r->high /= by;
}

/* ---- the data set: 300 tensors in one run of memory, laid out as a shard file is --------------------------------- */
enum { TENSORS = 300 };
static struct {
    uint8_t *from, *to;                 /* what is saved, and where it is loaded to: `room` bytes each, touched */
    int64_t bytes, room;                /* bytes: of the tensors; room: with gaps, up to the next chunk */
    dcp_tensor saved[TENSORS], wanted[TENSORS];
    int64_t offset[TENSORS], size[TENSORS];
    char name[TENSORS][32];
    dcpi_sha_job *leaves; uint8_t (*digests)[32]; size_t leaf_count;
} set;

static void *pages(int64_t size) {
    void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("no memory for %lld bytes", (long long)size);
    return p;
}
static uint64_t scramble(uint64_t *state) {             /* xorshift64* */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}
/* One tensor of 224 MiB in 2 GiB (11 %), the others from 64 KiB to 20 MiB, many small ones; then scaled to the
 * total. */
static void set_sizes(void) {
    uint64_t seed = 88172645463325252u;
    double weight[TENSORS], sum = 0;
    int64_t big = opt.size / 64 * 7, at = 0;
    int i;
    for (i = 1; i < TENSORS; i++) {
        double u = (double)(scramble(&seed) >> 11) / 9007199254740992.0;
        weight[i] = 64 + 20416 * u * u;
        sum += weight[i];
    }
    for (i = 0; i < TENSORS; i++) {
        double want = i == 0 ? (double)big : weight[i] / sum * (double)(opt.size - big);
        int64_t size = (int64_t)want / 4 * 4, most = i == 0 ? opt.size : 20 * MIB;
        int spot = i == 0 ? TENSORS / 3 : i <= TENSORS / 3 ? i - 1 : i;         /* the big one stands in the middle */
        set.size[spot] = size < 64 * KIB ? 64 * KIB : size > most ? most : size;
    }
    for (i = 0; i < TENSORS; i++) {
        set.offset[i] = at;
        at = (at + set.size[i] + 63) / 64 * 64;
        set.bytes += set.size[i];
        set.leaf_count += (size_t)((set.size[i] + LEAF - 1) / LEAF);
    }
    set.room = (at + CHUNK) / CHUNK * CHUNK;
}
static void set_leaves(void) {
    size_t n = 0;
    int64_t at;
    int i;
    set.leaves = (dcpi_sha_job *)calloc(set.leaf_count, sizeof *set.leaves);
    set.digests = (uint8_t (*)[32])calloc(set.leaf_count, 32);
    if (!set.leaves || !set.digests) fail("no memory");
    for (i = 0; i < TENSORS; i++) {
        for (at = 0; at < set.size[i]; at += LEAF, n++) {
            set.leaves[n].data = set.from + set.offset[i] + at;
            set.leaves[n].size = (size_t)(set.size[i] - at < LEAF ? set.size[i] - at : LEAF);
            set.leaves[n].digest = set.digests[n];
        }
    }
}
static void set_make(void) {
    uint64_t seed = 42;
    int64_t i, shape;
    if (set.from) return;
    set_sizes();
    set.from = (uint8_t *)pages(set.room);
    set.to = (uint8_t *)pages(set.room);
    memset(set.to, 0x55, (size_t)set.room);
    for (i = 0; i < TENSORS; i++) {
        uint64_t *words = (uint64_t *)(void *)(set.from + set.offset[i]);
        int64_t n;
        for (n = 0; n < set.size[i] / 8; n++) words[n] = scramble(&seed);
        shape = set.size[i] / 4;
        (void)snprintf(set.name[i], sizeof set.name[i], "layers.%03d.weight", (int)i);
        set.saved[i] = dcp_array(set.name[i], DCP_FP32, set.from + set.offset[i], 1, &shape);
        set.wanted[i] = dcp_array(set.name[i], DCP_FP32, set.to + set.offset[i], 1, &shape);
    }
    set_leaves();
}
/* Wrong bytes are the one thing that no figure makes good. Leaves a pattern behind, so that the next load cannot pass
 * by doing nothing. */
static void set_check(const char *who) {
    int i;
    for (i = 0; i < TENSORS; i++)
        if (memcmp(set.from + set.offset[i], set.to + set.offset[i], (size_t)set.size[i]) != 0)
            fail("%s: tensor %s has wrong bytes", who, set.name[i]);
    memset(set.to, 0x55, (size_t)set.room);
}

/* ---- threads and raw I/O: the limits of the machine -------------------------------------------------------------- */
typedef struct worker { pthread_t id; int number, count, fd, error; int64_t size; uint8_t *data; void *user; } worker;

static void workers_run(int count, void *(*fn)(void *), const worker *shared, const char *what) {
    worker w[64];
    int i;
    if (count > 64) count = 64;
    for (i = 0; i < count; i++) {
        w[i] = *shared;
        w[i].number = i;
        w[i].count = count;
        w[i].error = 0;
        if (i > 0 && pthread_create(&w[i].id, NULL, fn, &w[i]) != 0) fail("%s: no thread", what);
    }
    (void)fn(&w[0]);
    for (i = 0; i < count; i++) {
        if (i > 0) (void)pthread_join(w[i].id, NULL);
        if (w[i].error) fail("%s: %s", what, strerror(w[i].error));
    }
}
static int transfer(int fd, int is_write, uint8_t *data, int64_t at, int64_t size) {    /* errno or 0 */
    while (size > 0) {
        ssize_t n = is_write ? pwrite(fd, data + at, (size_t)size,
                                      (off_t)at) : pread(fd, data + at, (size_t)size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n == 0 ? EIO : errno;
        at += n;
        size -= n;
    }
    return 0;
}
static void *stripes(worker *w, int is_write) {         /* every count-th chunk */
    int64_t at;
    for (at = w->number * CHUNK; at < w->size && !w->error; at += w->count * CHUNK)
        w->error = transfer(w->fd, is_write, w->data, at, w->size - at < CHUNK ? w->size - at : CHUNK);
    return NULL;
}
static void *write_stripes(void *w) { return stripes((worker *)w, 1); }
static void *read_stripes(void *w) { return stripes((worker *)w, 0); }
static void *hash_stripes(void *argument) {            /* each thread its share of the leaves, 256 (64 MiB) at a time */
    worker *w = (worker *)argument;
    size_t at, step = 256;
    for (at = (size_t)w->number * step; at < set.leaf_count; at += (size_t)w->count * step)
        dcpi_sha_many(set.leaves + at, set.leaf_count - at < step ? set.leaf_count - at : step);
    return NULL;
}
static int64_t set_file_size(void) { return set.offset[TENSORS - 1] + set.size[TENSORS - 1]; }

static int cores(void) { return dcpi_os_processors(); }

/* ---- files ------------------------------------------------------------------------------------------------------- */
static const char *path_of(const char *directory, const char *name) {    /* valid until the second next call */
    static char path[2][600];
    static int turn;
    turn = !turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
    return path[turn];
}
static int create(const char *directory, const char *name, int flags) {
    int fd = open(path_of(directory, name), O_WRONLY | O_CREAT | O_TRUNC | flags, 0666);
    if (fd < 0 && flags == 0) fail("%s/%s: %s", directory, name, strerror(errno));
    return fd;
}
static void finish_file(int fd, const char *directory, const char *name, int data_only) {
    if ((data_only ? fdatasync(fd) : fsync(fd)) != 0 || close(fd) != 0)
        fail("%s/%s: %s", directory, name, strerror(errno));
}
static void empty_directory(const char *directory) {
    DIR *d = opendir(directory);
    struct dirent *entry;
    if (!d) return;
    while ((entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(d), entry->d_name, 0);
    }
    (void)closedir(d);
}
/* Between two timed runs: what the last one left is gone, and nothing is still on its way to the disk. */
static void settle(const char *directory) {
    if (directory) empty_directory(directory);
    sync();
    if (interrupted) fail("interrupted");
}
static void must(dcp_status status, const dcp_error *err, const char *what) {
    if (status) fail("%s: %s: %s", what, dcp_status_name(status), err->message);
}

/* ---- SAVE -------------------------------------------------------------------------------------------------------- */
/* directory, names of its sections */
typedef struct place { const char *directory; char save[24], hot[24], cold[24]; } place;
typedef double (*contender_fn)(const place *p);         /* seconds; negative: not possible here */
/* fills: set.to is to be checked */
typedef struct contender { const char *name; contender_fn run; int fills; } contender;

static double save_raw_buffered(const place *p) {
    double t = now();
    int fd = create(p->directory, "raw", 0), error = 0;
    int64_t at, size = set_file_size();
    for (at = 0; at < size && !error; at += CHUNK)
        error = transfer(fd, 1, set.from, at, size - at < CHUNK ? size - at : CHUNK);
    if (error) fail("raw write: %s", strerror(error));
    finish_file(fd, p->directory, "raw", 1);
    return now() - t;
}
static double save_raw_direct(const place *p) {
#if defined(O_DIRECT) && defined(__linux__)
    worker w;
    double t = now();
    int fd = create(p->directory, "raw", O_DIRECT);
    if (fd < 0) return -1;
    memset(&w, 0, sizeof w);
    w.fd = fd;
    w.data = set.from;
    w.size = set.room / PAGE * PAGE;
    (void)fallocate(fd, 0, 0, (off_t)w.size);
    workers_run(2, write_stripes, &w, "raw direct write");
    finish_file(fd, p->directory, "raw", 1);
    return now() - t;
#else
    (void)p;
    return -1;
#endif
}
static double save_naive(const place *p) {              /* what a program does first: hash, then write, then sync */
    double t = now();
    int fd = create(p->directory, "naive", 0), i, error;
    uint8_t digest[32];
    for (i = 0; i < TENSORS; i++) {
        dcp_sha256(set.from + set.offset[i], (size_t)set.size[i], digest);
        error = transfer(fd, 1, set.from, set.offset[i], set.size[i]);
        if (error) fail("naive write: %s", strerror(error));
    }
    finish_file(fd, p->directory, "naive", 0);
    return now() - t;
}
static double save_fwrite(const place *p) {
    double t = now();
    FILE *file = fopen(path_of(p->directory, "fwrite"), "wb");
    int i;
    if (!file) fail("fwrite: %s", strerror(errno));
    for (i = 0; i < TENSORS; i++)
        if (fwrite(set.from + set.offset[i], 1, (size_t)set.size[i], file) != (size_t)set.size[i])
            fail("fwrite: %s", strerror(errno));
    if (fflush(file) != 0 || fsync(fileno(file)) != 0 || fclose(file) != 0) fail("fwrite: %s", strerror(errno));
    return now() - t;
}
static void save_ours(const place *p, dcp_layout layout, dcp_checksum checksum, const char *name) {
    dcp_save_desc desc = DCP_ZERO;
    dcp_error err;
    desc.path = path_of(p->directory, name);
    desc.tensors = set.saved;
    desc.tensor_count = TENSORS;
    desc.layout = layout;
    desc.checksum = checksum;
    desc.io.cancel = &cancel;
    must(dcp_save(&desc, &err), &err, "dcp_save");
}
static double save_sharded(const place *p) {
    double t = now();
    save_ours(p, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, "ours");
    return now() - t;
}
static double save_single(const place *p) {
    double t = now();
    save_ours(p, DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, "ours");
    return now() - t;
}
static double save_flat(const place *p) {
    double t = now();
    save_ours(p, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, "ours");
    return now() - t;
}
static double hash_by(int threads) {
    worker w;
    double t = now();
    memset(&w, 0, sizeof w);
    workers_run(threads, hash_stripes, &w, "hash");
    return now() - t;
}
static double hash_all_cores(const place *p) { (void)p; return hash_by(cores()); }
static double hash_one_core(const place *p) { (void)p; return hash_by(1); }

static const char raw_buffered[] = "raw buffered write, 4 MiB, fdatasync",
                                   raw_direct[] = "raw direct write, 4 MiB x 2 threads, fdatasync",
                                                  sha_limit[] = "SHA limit: leaves, all cores, in memory",
                                                  sha_one[] = "leaves, one core, in memory",
    naive[] = "naive: hash, then write, then fsync", plain_fwrite[] = "fwrite + fsync, no checksum",
    ours_sharded[] = "dcp_save, sharded", ours_single[] = "dcp_save, single file",
                     ours_flat[] = "dcp_save, sharded, flat checksum",
    save_budget[] = "CPU budget: cores / (1/raw + 1/hash)", save_budget_gain[] =
        "CPU budget: (SHA limit / hash) / (1/raw + 1/hash)";

static void save_rounds(const place *p) {
    static const contender c[] = {
        { raw_buffered, save_raw_buffered, 0 }, { raw_direct, save_raw_direct, 0 }, { sha_limit, hash_all_cores, 0 },
        { sha_one, hash_one_core, 0 }, { naive, save_naive, 0 }, { plain_fwrite, save_fwrite, 0 },
        { ours_sharded, save_sharded, 0 }, { ours_single, save_single, 0 }, { ours_flat, save_flat, 0 }
    };
    const int count = (int)(sizeof c / sizeof c[0]);
    int round, i;
    settle(p->directory);
    for (round = 0; round < opt.rounds; round++) {
        for (i = 0; i < count; i++) {
            /* rotated: nobody always runs in the same neighbour's wake */
            const contender *who = &c[(i + round) % count];
            double seconds = who->run(p);
            if (seconds > 0) row_add(p->save, who->name, "GB/s", (double)set.bytes / seconds / 1e9);
            settle(p->directory);
        }
    }
}
/* On a storage without a disk the processors do it all: writing and hashing share them. Processors that share a core or
 * its memory are worth less than their number: `gain` is by how much hashing alone is faster on all of them. */
static void save_cpu_budget(const place *p) {
    const row *raw = row_find(p->save, raw_buffered), *one = row_find(p->save, sha_one),
                     *many = row_find(p->save, sha_limit);
    int i;
    for (i = 0; raw && one && many && i < raw->n && i < one->n && i < many->n; i++) {
        double each = 1 / (1 / raw->v[i] + 1 / one->v[i]), gain = many->v[i] / one->v[i];
        row_add(p->save, save_budget, "GB/s", cores() * each);
        row_add(p->save, save_budget_gain, "GB/s", (gain > 1 ? gain : 1) * each);
    }
}
static void save_ratios(const place *p, int is_disk) {
    const row *ours = row_find(p->save, ours_sharded), *single = row_find(p->save, ours_single);
    const row *direct = row_find(p->save, raw_direct), *sha = row_find(p->save, sha_limit);
    if (!is_disk) {
        const row *budget = row_find(p->save, save_budget), *gain = row_find(p->save, save_budget_gain);
        ratio_add("save, sharded, tmpfs / CPU budget of the cores", ours, budget, NULL, 0.75, 0.95, 0);
        ratio_add("save, sharded, tmpfs / CPU budget, cores by how hashing gains", ours, gain, NULL, 0.75, 0.95, 0);
        ratio_add("save, single file, tmpfs / CPU budget, cores by how hashing gains", single, gain, NULL, 0.75, 0.95,
                  0);
        return;
    }
    if (!direct) direct = row_find(p->save, raw_buffered);
    ratio_add("save, sharded, disk / min(raw direct write, SHA limit)", ours, direct, sha, 0.85, 1.0, 0);
    ratio_add("save, single file, disk / min(raw direct write, SHA limit)", single, direct, sha, 0.85, 1.0, 0);
    ratio_add("save, sharded, disk / fwrite + fsync without checksum", ours, row_find(p->save, plain_fwrite), NULL, 1.3,
              1.8, 0);
    ratio_add("save, single file, disk / fwrite + fsync without checksum", single, row_find(p->save, plain_fwrite),
              NULL, 1.3, 1.8, 0);
    ratio_add("save, sharded, disk / naive hash, write, fsync", ours, row_find(p->save, naive), NULL, 2.5, 5.0, 0);
}
static void save_section(const place *p, int is_disk) {
    set_make();
    save_rounds(p);
    if (!is_disk) save_cpu_budget(p);
    save_ratios(p, is_disk);
}

/* ---- RANKS: four threads save one checkpoint together, a quarter of each tensor each ----------------------------- */
enum { RANKS = 4 };
static const char ranks_sharded[] = "dcp_save, sharded, 4 ranks (threads)",
                                    ranks_single[] = "dcp_save, single file, 4 ranks (threads)";
typedef struct rank_save {
    pthread_t id;
    int rank;
    dcp_coordinator *coordinator;
    const char *path;
    dcp_layout layout;
    dcp_status status;
    dcp_error err;
} rank_save;

static void *save_as_rank(void *argument) {
    rank_save *r = (rank_save *)argument;
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor pieces[TENSORS];
    int i;
    for (i = 0; i < TENSORS; i++) {
        int64_t whole = set.size[i] / 4, first = whole * r->rank / RANKS, shape = whole * (r->rank + 1) / RANKS - first;
        pieces[i] = dcp_array(set.name[i], DCP_FP32, set.from + set.offset[i] + 4 * first, 1, &shape);
        dcp_piece(&pieces[i], &whole, &first);
    }
    desc.path = r->path;
    desc.tensors = pieces;
    desc.tensor_count = TENSORS;
    desc.layout = r->layout;
    desc.io.coordinator = r->coordinator;
    desc.io.cancel = &cancel;
    r->status = dcp_save(&desc, &r->err);
    return NULL;
}
static double save_by_ranks(const place *p, dcp_layout layout) {
    dcp_coordinator *group[RANKS];
    rank_save r[RANKS];
    dcp_error err;
    const double t = now();
    int i;
    must(dcp_thread_group_open(RANKS, group, &err), &err, "dcp_thread_group_open");
    memset(r, 0, sizeof r);
    for (i = 0; i < RANKS; i++) {
        r[i].rank = i;
        r[i].coordinator = group[i];
        r[i].path = path_of(p->directory, "ranks");
        r[i].layout = layout;
        if (pthread_create(&r[i].id, NULL, save_as_rank, &r[i]) != 0) fail("ranks: no thread");
    }
    for (i = 0; i < RANKS; i++) (void)pthread_join(r[i].id, NULL);
    for (i = 0; i < RANKS; i++) {
        must(r[i].status, &r[i].err, "dcp_save of 4 ranks");
        dcp_coordinator_close(group[i]);
    }
    return now() - t;
}
static double save_ranks_sharded(const place *p) { return save_by_ranks(p, DCP_LAYOUT_SHARDED); }
static double save_ranks_single(const place *p) { return save_by_ranks(p, DCP_LAYOUT_SINGLE); }
static void ranks_check(const place *p) {               /* as one process loads it; a later round than the timed ones */
    dcp_load_desc desc = DCP_ZERO;
    dcp_error err;
    (void)save_ranks_sharded(p);
    desc.path = path_of(p->directory, "ranks");
    desc.tensors = set.wanted;
    desc.tensor_count = TENSORS;
    must(dcp_load(&desc, &err), &err, "dcp_load of what 4 ranks saved");
    set_check("4 ranks");
    settle(p->directory);
}
static void ranks_section(const place *p) {
    static const contender c[] = { { ranks_sharded, save_ranks_sharded, 0 }, { ours_sharded, save_sharded, 0 },
                                   { ranks_single, save_ranks_single, 0 }, { ours_single, save_single, 0 } };
    const char *const section = "ranks disk";
    int round, i;
    set_make();
    settle(p->directory);
    for (round = 0; round < opt.rounds; round++) {
        for (i = 0; i < 4; i++) {         /* the two that are compared run side by side, now this one first, now that */
            const contender *who = &c[i ^ (round & 1)];
            row_add(section, who->name, "GB/s", (double)set.bytes / who->run(p) / 1e9);
            settle(p->directory);
        }
    }
    ranks_check(p);
    ratio_add("save, sharded, disk: 4 ranks (threads) / one process", row_find(section, ranks_sharded),
              row_find(section, ours_sharded), NULL, 0.9, 1.0, 0);
    ratio_add("save, single file, disk: 4 ranks (threads) / one process", row_find(section, ranks_single),
              row_find(section, ours_single), NULL, 0.9, 1.0, 0);
}

/* ---- LOAD -------------------------------------------------------------------------------------------------------- */
static const char *load_path;           /* of the checkpoint, "DIR/data" */
static char load_file[600];             /* of its shard file */

static double load_raw(int threads) {
    worker w;
    double t = now();
    int fd = open(load_file, O_RDONLY);
    if (fd < 0) fail("%s: %s", load_file, strerror(errno));
    memset(&w, 0, sizeof w);
    w.fd = fd;
    w.data = set.to;
    w.size = set_file_size();
    workers_run(threads, read_stripes, &w, "raw read");
    (void)close(fd);
    return now() - t;
}
static double load_raw_two(const place *p) { (void)p; return load_raw(2); }
static double load_raw_four(const place *p) { (void)p; return load_raw(4); }

static double load_ours(dcp_verify_policy verify) {
    dcp_load_desc desc = DCP_ZERO;
    dcp_error err;
    double t = now();
    desc.path = load_path;
    desc.tensors = set.wanted;
    desc.tensor_count = TENSORS;
    desc.verify = verify;
    desc.io.cancel = &cancel;
    must(dcp_load(&desc, &err), &err, "dcp_load");
    return now() - t;
}
static double load_verified(const place *p) { (void)p; return load_ours(DCP_VERIFY_TOUCHED); }
static double load_unverified(const place *p) { (void)p; return load_ours(DCP_VERIFY_NONE); }

static dcp_checkpoint *load_open(void) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    dcp_error err;
    desc.path = load_path;
    desc.io.cancel = &cancel;
    must(dcp_open(&desc, &checkpoint, &err), &err, "dcp_open");
    return checkpoint;
}
static const void *mapped[TENSORS];
static void *map_tensors(void *argument) {
    worker *w = (worker *)argument;
    dcp_error err;
    int i;
    for (i = w->number; i < TENSORS; i += w->count) {
        size_t size;
        must(dcp_map((dcp_checkpoint *)w->user, set.name[i], &mapped[i], &size, &err), &err, "dcp_map");
        if (size != (size_t)set.size[i]) fail("dcp_map: tensor %s has a wrong size", set.name[i]);
    }
    return NULL;
}
static double load_map(int threads) {
    worker w;
    double t = now();
    int i;
    memset(&w, 0, sizeof w);
    w.user = load_open();
    workers_run(threads, map_tensors, &w, "dcp_map");
    t = now() - t;
    for (i = 0; i < TENSORS; i++)
        if (memcmp(mapped[i], set.from + set.offset[i], (size_t)set.size[i]) != 0)
            fail("dcp_map: tensor %s has wrong bytes", set.name[i]);
    dcp_close((dcp_checkpoint *)w.user);
    return t;
}
static double load_map_one(const place *p) { (void)p; return load_map(1); }
static double load_map_cores(const place *p) { (void)p; return load_map(cores()); }
static double load_check(const place *p) {
    dcp_error err;
    double t = now();
    dcp_checkpoint *checkpoint = load_open();
    (void)p;
    must(dcp_verify(checkpoint, &err), &err, "dcp_verify");
    t = now() - t;
    dcp_close(checkpoint);
    return t;
}

static const char raw_two[] = "raw pread, 4 MiB x 2 threads, warm memory",
                              raw_four[] = "raw pread, 4 MiB x 4 threads, warm memory",
                                           ours_load[] = "dcp_load, verified",
                                                         ours_trusting[] = "dcp_load, DCP_VERIFY_NONE",
                                                         ours_map[] = "dcp_map of each tensor, verified",
    ours_map_cores[] = "the same from as many threads as cores", ours_verify[] = "dcp_verify",
    load_budget[] = "CPU budget: 1 / (1/raw + 1/SHA limit)";

/* Out of this system's page cache; below a virtual machine the host may still have it. 0: not possible. */
static int make_cold(void) {
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY), done = 0;
    sync();
    if (fd >= 0) {
        done = write(fd, "1", 1) == 1;
        (void)close(fd);
    }
#ifdef POSIX_FADV_DONTNEED
    if (!done && (fd = open(load_file, O_RDONLY)) >= 0) {
        done = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
        (void)close(fd);
    }
#endif
    return done;
}
static void load_rounds(const place *p, const char *section, int cold) {
    static const contender c[] = {
        { raw_two, load_raw_two, 0 }, { raw_four, load_raw_four, 0 }, { ours_load, load_verified, 1 },
        { ours_trusting, load_unverified, 1 }, { ours_map, load_map_one, 0 }, { ours_map_cores, load_map_cores, 0 },
        { ours_verify, load_check, 0 }
    };
    const int count = (int)(sizeof c / sizeof c[0]);
    int round, i;
    if (!cold) (void)load_raw(2);                       /* into the page cache */
    memset(set.to, 0x55, (size_t)set.room);
    for (round = 0; round < opt.rounds; round++) {
        for (i = 0; i < count; i++) {
            const contender *who = &c[(i + round) % count];
            double seconds;
            if (cold && !make_cold()) { remark("%s: not possible here", section); return; }
            seconds = who->run(p);
            row_add(section, who->name, "GB/s", (double)set.bytes / seconds / 1e9);
            if (who->fills) set_check(who->name);
            if (interrupted) fail("interrupted");
        }
    }
}
/* Where nothing waits for a disk, the processors read and hash in turn. */
static void load_cpu_budget(const char *section, const row *raw, const row *sha) {
    int i;
    for (i = 0; i < raw->n && i < sha->n; i++)
        row_add(section, load_budget, "GB/s", 1 / (1 / raw->v[i] + 1 / sha->v[i]));
    raw = row_find(section, load_budget);
    ratio_add("load, verified, tmpfs / CPU budget of the cores", row_find(section, ours_load), raw, NULL, 0.75, 0.95,
              0);
    ratio_add("dcp_verify, tmpfs / CPU budget of the cores", row_find(section, ours_verify), raw, NULL, 0.75, 0.95, 0);
    ratio_add("map, verified, all cores, tmpfs / SHA limit", row_find(section, ours_map_cores), sha, NULL, 0.75, 0.95,
              0);
}
static void load_ratios(const place *p, const char *where, const char *section, double hold_map) {
    const row *sha = row_find(p->save, sha_limit), *raw = row_find(section, raw_two);
    char what[112];
    if (!sha) sha = row_find("sha limit", sha_limit);
    if (!raw || !sha) return;
    if (!where) { load_cpu_budget(section, raw, sha); return; }
    (void)snprintf(what, sizeof what, "load, verified, %s / min(raw read, SHA limit)", where);
    ratio_add(what, row_find(section, ours_load), raw, sha, 0.75, 0.95, 0);
    (void)snprintf(what, sizeof what, "map, verified, one thread, %s / min(raw read, SHA limit)", where);
    ratio_add(what, row_find(section, ours_map), raw, sha, hold_map, 0.95, 0);
    (void)snprintf(what, sizeof what, "map, verified, all cores, %s / min(raw read, SHA limit)", where);
    ratio_add(what, row_find(section, ours_map_cores), raw, sha, hold_map, 0.95, 0);
    (void)snprintf(what, sizeof what, "dcp_verify, %s / min(raw read, SHA limit)", where);
    ratio_add(what, row_find(section, ours_verify), raw, sha, 0.75, 0.95, 0);
}
static void load_section(const place *p, int is_disk) {
    static char path[600];
    struct stat st;
    int i;
    set_make();
    settle(p->directory);
    (void)snprintf(path, sizeof path, "%s/data", p->directory);
    (void)snprintf(load_file, sizeof load_file, "%s/data_shard_0.bin", p->directory);
    load_path = path;
    save_ours(p, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, "data");
    if (stat(load_file, &st) != 0) fail("%s: %s", load_file, strerror(errno));
    if (st.st_size != (off_t)set_file_size())
        fail("%s has %lld bytes, not %lld", load_file, (long long)st.st_size, (long long)set_file_size());
    if (!row_find(p->save, sha_limit))
        for (i = 0; i < opt.rounds; i++)
            row_add("sha limit", sha_limit, "GB/s", (double)set.bytes / hash_by(cores()) / 1e9);
    load_rounds(p, p->hot, 0);
    load_ratios(p, is_disk ? "cached" : NULL, p->hot, 0.90);
    if (is_disk) {
        load_rounds(p, p->cold, 1);
        load_ratios(p, "cold", p->cold, 0.75);
    }
    settle(p->directory);
}

/* ---- SHA-256 ----------------------------------------------------------------------------------------------------- */
static const char sha_ours[] = "dcp_sha256, one stream of 64 MiB", sha_many[] = "dcpi_sha_many, 16 leaves at a time",
    sha_evp[] = "OpenSSL EVP, the same 64 MiB", sha_portable[] = "portable C, one stream",
                sha_evp_plain[] = "OpenSSL EVP without SHA-NI";
static const int64_t sha_size = 64 * MIB;

#ifdef HAVE_OPENSSL
static double evp_rate(const uint8_t *data, int64_t size, uint8_t digest[32]) {
    double t = now();
    unsigned n = 32;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL) || !EVP_DigestUpdate(context, data, (size_t)size) ||
        !EVP_DigestFinal_ex(context, digest, &n))
        fail("OpenSSL failed");
    EVP_MD_CTX_free(context);
    return (double)size / (now() - t) / 1e9;
}
#endif
/* OpenSSL asks the processor once, when it is loaded: so another process, told not to see the SHA extensions (bit 29 of
 * leaf 7, EBX). */
static int evp_child(void) {
#ifdef HAVE_OPENSSL
    uint8_t *data = (uint8_t *)pages(sha_size / 4), digest[32];
    memset(data, 7, (size_t)(sha_size / 4));
    (void)evp_rate(data, sha_size / 4, digest);
    (void)printf("%.6f\n", evp_rate(data, sha_size / 4, digest));
#endif
    return 0;
}
static void sha_without_ni(const char *program) {
#if defined(HAVE_OPENSSL) && (defined(__x86_64__) || defined(__i386__))
    char command[700];
    double rate = 0;
    FILE *pipe;
    (void)snprintf(command, sizeof command, "OPENSSL_ia32cap=:~0x20000000 '%s' --evp-child", program);
    pipe = popen(command, "r");
    if (pipe && fscanf(pipe, "%lf", &rate) == 1 && rate > 0) row_add("sha256", sha_evp_plain, "GB/s", rate);
    if (pipe) (void)pclose(pipe);
#else
    (void)program;
#endif
}
static double many_rate(enum dcpi_sha_kernel kernel, const uint8_t *data, int64_t size, int per_call) {
    static dcpi_sha_job jobs[256];
    static uint8_t digests[256][32];
    int64_t n = size / LEAF, i;
    double t;
    for (i = 0; i < n; i++) {
        jobs[i].data = data + i * LEAF;
        jobs[i].size = (size_t)LEAF;
        jobs[i].digest = digests[i];
    }
    t = now();
    for (i = 0; i < n; i += per_call)
        dcpi_sha_many_with(kernel, jobs + i, (size_t)(n - i < per_call ? n - i : per_call));
    return (double)size / (now() - t) / 1e9;
}
static void sha_kernels(const uint8_t *data) {
    static const struct { enum dcpi_sha_kernel kernel; const char *name; } k[] = {
        { DCPI_SHA_PORTABLE, "leaves, portable kernel" }, { DCPI_SHA_NI, "leaves, SHA-NI" },
        { DCPI_SHA_NI2, "leaves, SHA-NI, 2 interleaved" }, { DCPI_SHA_AVX2, "leaves, AVX2, 8 lanes" },
        { DCPI_SHA_AVX512, "leaves, AVX-512, 16 lanes" }, { DCPI_SHA_ARMV8, "leaves, ARMv8" }
    };
    size_t i;
    for (i = 0; i < sizeof k / sizeof k[0]; i++)
        if (dcpi_sha_kernel_usable(k[i].kernel))
            row_add("sha256", k[i].name, "GB/s", many_rate(k[i].kernel, data, i == 0 ? sha_size / 4 : sha_size, 16));
}
static void sha_ratios(void) {
    const row *one = row_find("sha256", sha_ours), *many = row_find("sha256", sha_many),
                     *portable = row_find("sha256", sha_portable);
    ratio_add("SHA-256, one stream / OpenSSL EVP", one, row_find("sha256", sha_evp), NULL, 0.95, 1.0, 0);
    if (dcpi_sha_kernel_usable(DCPI_SHA_AVX512))
        ratio_add("leaves kernel / one stream (AVX-512)", many, one, NULL, 1.8, 2.0, 0);
    ratio_add("portable C / OpenSSL without SHA-NI", portable, row_find("sha256", sha_evp_plain), NULL, 0.5, 0.6, 0);
}
static void sha_section(const char *program) {
    uint8_t *data = (uint8_t *)pages(sha_size), ours[32];
    uint64_t seed = 7;
    int64_t i;
    int round;
    for (i = 0; i < sha_size / 8; i++) ((uint64_t *)(void *)data)[i] = scramble(&seed);
    for (round = 0; round < opt.rounds; round++) {
        double t = now();
        dcp_sha256(data, (size_t)sha_size, ours);
        row_add("sha256", sha_ours, "GB/s", (double)sha_size / (now() - t) / 1e9);
#ifdef HAVE_OPENSSL
        uint8_t theirs[32];
        row_add("sha256", sha_evp, "GB/s", evp_rate(data, sha_size, theirs));
        if (memcmp(ours, theirs, 32) != 0) fail("dcp_sha256 and OpenSSL disagree");
#endif
        row_add("sha256", sha_many, "GB/s", many_rate(DCPI_SHA_AUTO, data, sha_size, 16));
        t = now();
        {
            uint32_t state[8] = {0};
            dcpi_sha_compress_with(DCPI_SHA_PORTABLE, state, data, (size_t)(sha_size / 4 / 64));
        }
        row_add("sha256", sha_portable, "GB/s", (double)(sha_size / 4) / (now() - t) / 1e9);
        sha_kernels(data);
        sha_without_ni(program);
    }
    (void)munmap(data, (size_t)sha_size);
    sha_ratios();
}

/* ---- children: a part that must not leave its memory behind, or whose memory is what is measured ----------------- */
static void in_child(void (*fn)(void *argument), void *argument) {
    int status = 0;
    pid_t id;
    (void)fflush(stdout);
    id = fork();
    if (id < 0) fail("fork: %s", strerror(errno));
    if (id == 0) {
        fn(argument);
        exit(0);
    }
    while (waitpid(id, &status, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("a child process failed (status %d)", status);
}
static int64_t status_bytes(const char *key) {          /* "VmHWM:", "VmRSS:"; -1: not known */
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lld", &kib) == 1) break;
    if (file) (void)fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}
/* The process's greatest size so far. Call it before and after: in a fresh child the difference is what was taken in
 * between. */
static int64_t peak_bytes(void) {
    struct rusage usage;
    int64_t peak = status_bytes("VmHWM:");
    if (peak >= 0) return peak;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#ifdef __APPLE__
    return (int64_t)usage.ru_maxrss;
#else
    return (int64_t)usage.ru_maxrss * 1024;
#endif
}
static int64_t peak_reset(void) {                       /* to what the process has now, where the system can do that */
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        (void)fputs("5", file);
        (void)fclose(file);
    }
    return peak_bytes();
}
/* glibc hands big blocks back to the system and takes fresh ones, which cost more than all the rest: keep them. */
static void recycle_memory(void) {
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, -1);
    (void)mallopt(M_TOP_PAD, 64 * 1024 * 1024);
#endif
}

/* ---- MEMORY: what save and load take beyond the tensors and the document ----------------------------------------- */
typedef struct memory_plan {
    const char *directory, *name;
    int64_t block;
    int count, is_load;
    dcp_layout layout;
} memory_plan;

static void memory_child(void *argument) {
    const memory_plan *m = (const memory_plan *)argument;
    dcp_tensor *tensors = (dcp_tensor *)calloc((size_t)m->count, sizeof *tensors);
    char (*names)[24] = (char (*)[24])calloc((size_t)m->count, sizeof *names), path[600];
    uint8_t *data = (uint8_t *)pages(m->block);
    dcp_save_desc save = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_error err;
    int64_t before, shape = m->block;
    int i;
    if (!tensors || !names) fail("no memory");
    memset(data, m->is_load ? 0 : 9, (size_t)m->block);
    for (i = 0; i < m->count; i++) {
        /* all tensors are the same memory, so that the caller's part is small and known */
        (void)snprintf(names[i], sizeof names[i], "t%05d", i);
        tensors[i] = dcp_array(names[i], DCP_UINT8, data, 1, &shape);
    }
    (void)snprintf(path, sizeof path, "%s/memory", m->directory);
    save.path = load.path = path;
    save.tensors = load.tensors = tensors;
    save.tensor_count = load.tensor_count = (size_t)m->count;
    save.layout = m->layout;
    save.overwrite = 1;
    before = peak_bytes();
    if (m->is_load) must(dcp_load(&load, &err), &err, "dcp_load");
    else must(dcp_save(&save, &err), &err, "dcp_save");
    row_add("memory", m->name, "MiB", (double)(peak_bytes() - before) / (double)MIB);
    for (i = 0; i < m->block && m->is_load; i++) if (data[i] != 9) fail("memory: loaded byte %d is wrong", i);
}
static void memory_section(const char *directory) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE };
    static const char *const names[] = { "dcp_save, sharded", "dcp_load, sharded", "dcp_save, single file",
                                         "dcp_load, single file" };
    memory_plan m;
    double gib;
    row unit;
    int i;
    m.directory = directory;
    m.block = 8 * MIB + 12;                             /* not a multiple of anything */
    m.count = (int)(2 * opt.size / m.block);            /* twice the data set: 4 GiB by default */
    for (i = 0; i < 4; i++) {
        m.layout = layouts[i / 2];
        m.is_load = i % 2;
        m.name = names[i];
        in_child(memory_child, &m);
        if (i % 2) settle(directory);
    }
    memset(&unit, 0, sizeof unit);
    unit.n = 1;
    unit.v[0] = 1;
    gib = (double)m.block * m.count / (1024.0 * (double)MIB);
    for (i = 0; i < 4; i++) {
        char what[112];
        (void)snprintf(what, sizeof what, "extra memory of %s, %.1f GiB, MiB", names[i], gib);
        ratio_add(what, row_find("memory", names[i]), &unit, NULL, 32, 12, 1);
    }
}

/* ---- ASYNC: what a program loses to a save in the background ----------------------------------------------------- */
static const char async_copy[] = "memcpy of the tensors into warm memory", async_begin[] = "dcp_save_begin",
                                 async_sync[] = "dcp_save", async_free[] = "6 steps, no save",
                                                async_loop[] = "6 steps, every second one saved in the background",
    async_waiting[] = "6 steps, every second one saved with dcp_save", async_slower[] = "slower by, background",
                      async_stalled[] = "slower by, dcp_save",
    async_cpu[] = "CPU time of copying, hashing and writing";

static double cpu_seconds(void) {                       /* of all threads of this process */
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) *
           1e-6;
}
/* rounds of arithmetic in a step, of each thread: in registers, so that only time is shared */
static int64_t async_work;
static void *compute(void *argument) {
    uint64_t state = 1 + (uint64_t)((worker *)argument)->number;
    int64_t i;
    for (i = 0; i < async_work; i++) (void)scramble(&state);
    ((worker *)argument)->error = state == 0;
    return NULL;
}
static double compute_step(void) {
    worker shared;
    double t = now();
    memset(&shared, 0, sizeof shared);
    workers_run(cores(), compute, &shared, "compute");
    return now() - t;
}
static void async_desc(dcp_save_desc *desc, const char *directory) {
    static char path[600];
    memset(desc, 0, sizeof *desc);
    (void)snprintf(path, sizeof path, "%s/async", directory);
    desc->path = path;
    desc->tensors = set.saved;
    desc->tensor_count = TENSORS;
    desc->overwrite = 1;
    desc->io.cancel = &cancel;
}
static double async_save(const char *directory, dcp_saver *saver) {     /* seconds that the program waits */
    dcp_save_desc desc;
    dcp_error err;
    double t = now();
    async_desc(&desc, directory);
    if (saver) must(dcp_save_begin(saver, &desc, &err), &err, "dcp_save_begin");
    else must(dcp_save(&desc, &err), &err, "dcp_save");
    return now() - t;
}
/* The last save has the last step to run beside; what is left of it then is waited for. */
static double async_steps(const char *directory, dcp_saver *saver, int saves) {
    dcp_error err;
    double t = now();
    int step;
    for (step = 0; step < 6; step++) {
        (void)compute_step();
        if (saver && dcp_save_poll(saver, &err) != DCP_PENDING) must(err.status, &err, "a save in the background");
        if (saves && step % 2 == 0) (void)async_save(directory, saver);
    }
    if (saver) must(dcp_save_wait(saver, -1, &err), &err, "the last save");
    return now() - t;
}
static void async_stall(const char *directory, dcp_saver *saver) {
    dcp_error err;
    double t;
    int i, round;
    for (round = 0; round <= opt.rounds; round++) {     /* the first makes the saver's memory, and does not count */
        t = now();
        for (i = 0; i < TENSORS; i++) memcpy(set.to + set.offset[i], set.from + set.offset[i], (size_t)set.size[i]);
        t = now() - t;
        if (round) row_add("async", async_copy, "ms", 1e3 * t);
        t = async_save(directory, saver);
        must(dcp_save_wait(saver, -1, &err), &err, "dcp_save_wait");
        if (round) row_add("async", async_begin, "ms", 1e3 * t);
        t = async_save(directory, NULL);
        if (round) row_add("async", async_sync, "ms", 1e3 * t);
        settle(directory);
    }
    memset(set.to, 0x55, (size_t)set.room);
}
static void async_section(const char *directory) {
    dcp_saver *saver;
    dcp_error err;
    double free_seconds, seconds, cpu, alone;
    int round;
    set_make();
    must(dcp_saver_open(NULL, &saver, &err), &err, "dcp_saver_open");
    async_stall(directory, saver);
    async_work = 1000000;
    alone = compute_step();
    /* a step is as long as a save */
    async_work = (int64_t)((double)async_work * row_median(row_find("async", async_sync)) / 1e3 / alone);
    for (round = 0; round < opt.rounds; round++) {
        alone = cpu_seconds();
        free_seconds = async_steps(directory, NULL, 0);
        alone = cpu_seconds() - alone;
        row_add("async", async_free, "s", free_seconds);
        cpu = cpu_seconds();
        seconds = async_steps(directory, saver, 1);
        cpu = cpu_seconds() - cpu;
        row_add("async", async_loop, "s", seconds);
        row_add("async", async_slower, "s", seconds - free_seconds);
        row_add("async", async_cpu, "s", cpu - alone);
        settle(directory);
        seconds = async_steps(directory, NULL, 1);
        row_add("async", async_waiting, "s", seconds);
        row_add("async", async_stalled, "s", seconds - free_seconds);
        settle(directory);
    }
    must(dcp_saver_close(saver, &err), &err, "close");
    ratio_add("stall of dcp_save_begin / memcpy into warm memory", row_find("async", async_begin),
              row_find("async", async_copy), NULL, 1.15, 1.05, 1);
    ratio_add("stall of dcp_save_begin / dcp_save", row_find("async", async_begin), row_find("async", async_sync), NULL,
              0.5, 0.3, 1);
    ratio_add("loop slowed down by saves in the background / their CPU time", row_find("async", async_slower),
              row_find("async", async_cpu), NULL, 1.0, 0.8, 1);
    ratio_add("loop slowed down by saves in the background / by dcp_save", row_find("async", async_slower),
              row_find("async", async_stalled), NULL, 0.9, 0.6, 1);
}

/* ---- COMMIT: what a tiny checkpoint costs, against one file written by hand -------------------------------------- */
static double commit_by_hand(const char *directory, const uint8_t *data, size_t size) {
    char from[600], to[600];
    double t = now();
    int fd, dir;
    (void)snprintf(from, sizeof from, "%s/hand.tmp", directory);
    (void)snprintf(to, sizeof to, "%s/hand", directory);
    fd = open(from, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || fsync(fd) != 0 || close(fd) != 0 || rename(from, to) != 0)
        fail("by hand: %s", strerror(errno));
    dir = open(directory, O_RDONLY);
    if (dir < 0 || fsync(dir) != 0 || close(dir) != 0) fail("by hand: %s", strerror(errno));
    return now() - t;
}
static double commit_ours(const char *directory, const dcp_tensor *tensor, dcp_layout layout, int overwrite) {
    dcp_save_desc desc = DCP_ZERO;
    dcp_remove_desc gone = DCP_ZERO;
    dcp_error err;
    char path[600];
    double t;
    (void)snprintf(path, sizeof path, "%s/%s_%d", directory, overwrite ? "again" : "new", (int)layout);
    desc.path = gone.path = path;
    desc.tensors = tensor;
    desc.tensor_count = 1;
    desc.layout = layout;
    desc.overwrite = overwrite;
    t = now();
    must(dcp_save(&desc, &err), &err, "dcp_save of a small checkpoint");
    t = now() - t;
    if (!overwrite) must(dcp_remove(&gone, NULL, &err), &err, "dcp_remove");
    return t;
}
static void commit_section(const place *p, const char *section, const char *where) {
    static const char hand[] = "by hand: write, fsync, rename, fsync";
    static const char *const ours[] = { "dcp_save, sharded, new", "dcp_save, single file, new",
        "dcp_save, sharded, overwrite", "dcp_save, single file, overwrite" };
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE };
    static uint8_t data[4096];
    const dcp_tensor tensor = dcp_bytes("state", data, sizeof data);
    char what[112];
    int i, k;
    memset(data, 3, sizeof data);
    for (i = 0; i < opt.commits; i++) {
        row_add(section, hand, "ms", 1e3 * commit_by_hand(p->directory, data, sizeof data));
        for (k = 0; k < 4; k++)
            row_add(section, ours[k], "ms", 1e3 * commit_ours(p->directory, &tensor, layouts[k % 2], k / 2));
        if (interrupted) fail("interrupted");
    }
    settle(p->directory);
    if (strcmp(where, "disk") != 0) return;             /* without syncs there is nothing to compare with */
    for (k = 0; k < 4; k++) {
        (void)snprintf(what, sizeof what, "commit of 4 KiB, %s / one file by hand", ours[k] + sizeof "dcp_save," );
        ratio_add(what, row_find(section, ours[k]), row_find(section, hand), NULL, 3.6, 3.0, 1);
    }
}

/* ---- JSON: the document of many tensors -------------------------------------------------------------------------- */
typedef struct json_plan { char path[600], section[24]; int64_t tensors; int who; } json_plan;
enum { JSON_OURS, JSON_CJSON, JSON_YYJSON };
static const char json_parse[] = "dcp_metadata_parse", json_both[] = "dcp_metadata_parse + validate",
                                 json_write[] = "dcp_metadata_write", cjson_parse[] = "cJSON parse",
                                                cjson_write[] = "cJSON print";
#ifdef HAVE_YYJSON
#define YYJSON_HERE 1
#else
#define YYJSON_HERE 0
#endif
static const char json_sha[] = "SHA-256 of the document, which parse and write include",
    yy_parse[] = "yyjson read + copy into structs", yy_write[] = "yyjson write";

static char *json_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    long end = 0;
    char *text;
    if (!file || fseek(file, 0, SEEK_END) != 0 || (end = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0)
        fail("%s: %s", path, strerror(errno));
    *size = (size_t)end;
    text = (char *)malloc(*size + 8);
    if (!text || fread(text, 1, *size, file) != *size) fail("%s: cannot be read", path);
    memset(text + *size, 0, 8);
    (void)fclose(file);
    return text;
}
/* As dcp_save writes it: 25 tensors a layer, 4 MiB or less each, so one digest. */
static void json_make(void *argument) {
    const json_plan *j = (const json_plan *)argument;
    dcp_metadata m = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata *t = (dcp_tensor_metadata *)calloc((size_t)j->tensors, sizeof *t);
    char (*names)[40] = (char (*)[40])malloc((size_t)j->tensors * sizeof *names), checksum[80] = "sha256-tree:", *text;
    uint8_t (*digests)[32] = (uint8_t (*)[32])malloc((size_t)j->tensors * 32), tree[32];
    int64_t i, at = 0;
    uint64_t seed = 5;
    size_t size;
    dcp_error err;
    FILE *file;
    if (!t || !names || !digests) fail("no memory");
    for (i = 0; i < j->tensors * 4; i++) { uint64_t r = scramble(&seed); memcpy((uint8_t *)digests + 8 * i, &r, 8); }
    for (i = 0; i < j->tensors; i++) {
        (void)snprintf(names[i], sizeof names[i], "layers.%d.attn.w%c%d", (int)(i / 25), (int)('a' + i % 25),
                       (int)(i % 7));
        t[i].name = names[i];
        t[i].ndim = 2;
        t[i].shape[0] = t[i].global_shape[0] = 1 + (i * 7919) % 1024;
        t[i].shape[1] = t[i].global_shape[1] = 2048;
        t[i].data_type = "bf16";
        t[i].placement = "replicated";
        t[i].offset = at;
        t[i].size = t[i].shape[0] * t[i].shape[1] * 2;
        t[i].block_size = 4 * MIB;
        t[i].block_checksums = digests[i];
        t[i].block_count = 1;
        at += (t[i].size + 63) / 64 * 64;
    }
    shard.file_path = "step_shard_0.bin";
    shard.file_size = t[j->tensors - 1].offset + t[j->tensors - 1].size;
    shard.tensors = t;
    shard.tensor_count = (size_t)j->tensors;
    dcp_sha256(digests, (size_t)j->tensors * 32, tree);
    dcpi_hex_encode(tree, sizeof tree, checksum + strlen(checksum));
    shard.checksum = checksum;
    m.save_id = "0123456789abcdef";
    m.sequence = 1;
    m.world_size = 1;
    m.sharding.strategy = "none";
    m.sharding.shard_count = 1;
    m.sharding.precision = "bf16";
    m.shards = &shard;
    m.shard_count = 1;
    must(dcp_metadata_write(&m, NULL, &text, &size, &err), &err, "dcp_metadata_write");
    file = fopen(j->path, "wb");
    if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0) fail("%s: %s", j->path, strerror(errno));
    row_add(j->section, "size of the document", "MB", (double)size / 1e6);
}

#ifdef HAVE_YYJSON
/* What a program does with the tree: the strings and numbers of each tensor into a struct of its own. */
typedef struct yy_tensor {
    const char *name, *type, *placement;
    int ndim;
    int64_t shape[DCP_MAX_DIMS], offset, size, block_size;
    uint8_t (*digests)[32];
} yy_tensor;
static int yy_copy_one(yy_tensor *to, yyjson_val *from, char **arena) {
    static const char *const keys[] = { "name", "dataType", "placement" };
    const char **texts[3];
    yyjson_val *array, *item;
    size_t i, n, k;
    int64_t *numbers[3];
    static const char *const number_keys[] = { "offset", "size", "blockSize" };
    texts[0] = &to->name; texts[1] = &to->type; texts[2] = &to->placement;
    numbers[0] = &to->offset; numbers[1] = &to->size; numbers[2] = &to->block_size;
    for (k = 0; k < 3; k++) {
        yyjson_val *v = yyjson_obj_get(from, keys[k]);
        if (!v) continue;
        n = yyjson_get_len(v);
        memcpy(*arena, yyjson_get_str(v), n + 1);
        *texts[k] = *arena;
        *arena += n + 1;
    }
    for (k = 0; k < 3; k++) *numbers[k] = yyjson_get_sint(yyjson_obj_get(from, number_keys[k]));
    array = yyjson_obj_get(from, "shape");
    yyjson_arr_foreach(array, i, n, item) if (i < DCP_MAX_DIMS) to->shape[i] = yyjson_get_sint(item);
    to->ndim = (int)yyjson_arr_size(array);
    array = yyjson_obj_get(from, "blockChecksums");
    to->digests = (uint8_t (*)[32])(void *)*arena;
    yyjson_arr_foreach(array, i, n, item) {
        if (yyjson_get_len(item) != 64 || !dcpi_hex_decode(yyjson_get_str(item), 64, (uint8_t *)*arena)) return 0;
        *arena += 32;
    }
    return 1;
}
static double yy_read(const char *text, size_t size, yyjson_doc **doc) {
    double t = now();
    yyjson_val *tensors, *item;
    yy_tensor *out;
    char *arena, *at;
    size_t i, n;
    *doc = yyjson_read(text, size, 0);
    tensors = yyjson_obj_get(yyjson_arr_get(yyjson_obj_get(yyjson_doc_get_root(*doc), "shards"), 0), "tensors");
    out = (yy_tensor *)calloc(yyjson_arr_size(tensors), sizeof *out);
    at = arena = (char *)malloc(size);
    if (!out || !arena || yyjson_arr_size(tensors) == 0) fail("yyjson failed");
    yyjson_arr_foreach(tensors, i, n, item) if (!yy_copy_one(&out[i], item, &at)) fail("yyjson: an invalid digest");
    free(arena);
    free(out);
    return now() - t;
}
static void yy_round(const json_plan *j, const char *text, size_t size) {
    yyjson_doc *doc;
    double t = yy_read(text, size, &doc);
    char *written;
    size_t n;
    row_add(j->section, yy_parse, "MB/s", (double)size / t / 1e6);
    t = now();
    written = yyjson_write(doc, 0, &n);
    row_add(j->section, yy_write, "MB/s", (double)n / (now() - t) / 1e6);
    free(written);
    yyjson_doc_free(doc);
}
#endif
#ifdef HAVE_CJSON
static void cjson_round(const json_plan *j, const char *text, size_t size) {
    double t = now();
    cJSON *root = cJSON_ParseWithLength(text, size);
    char *written;
    if (!root) fail("cJSON cannot read the document");
    row_add(j->section, cjson_parse, "MB/s", (double)size / (now() - t) / 1e6);
    t = now();
    written = cJSON_PrintUnformatted(root);
    if (!written) fail("cJSON cannot write the document");
    row_add(j->section, cjson_write, "MB/s", (double)strlen(written) / (now() - t) / 1e6);
    cJSON_free(written);
    cJSON_Delete(root);
}
#endif
static void json_ours_round(const json_plan *j, const char *text, size_t size) {
    dcp_metadata *m;
    dcp_validation v;
    dcp_error err;
    char *written;
    uint8_t digest[32];
    size_t n;
    double parse, both, t = now();
    must(dcp_metadata_parse(text, size, &m, &err), &err, "dcp_metadata_parse");
    parse = now() - t;
    if (dcp_metadata_validate(m, &v)) fail("dcp_metadata_validate: %s", v.error_count ? v.errors[0] : "no memory");
    dcp_validation_free(&v);
    both = now() - t;
    row_add(j->section, json_parse, "MB/s", (double)size / parse / 1e6);
    row_add(j->section, json_both, "MB/s", (double)size / both / 1e6);
    t = now();
    must(dcp_metadata_write(m, NULL, &written, &n, &err), &err, "dcp_metadata_write");
    row_add(j->section, json_write, "MB/s", (double)n / (now() - t) / 1e6);
    if (n != size || memcmp(text, written, n) != 0) fail("a document that was parsed and written is not the same");
    dcp_free(written);
    dcp_metadata_free(m);
    t = now();
    dcp_sha256(text, size, digest);
    row_add(j->section, json_sha, "MB/s", (double)size / (now() - t) / 1e6);
}
/* A million freed pieces are joined by the next big allocation: not at the cost of whoever comes next. */
static void tidy_heap(void) {
    void *volatile memory = malloc((size_t)(4 * MIB));  /* volatile: a compiler may drop a pair of malloc and free */
    free(memory);
}
static void json_speed(void *argument) {
    const json_plan *j = (const json_plan *)argument;
    size_t size;
    char *text;
    int round;
    recycle_memory();
    text = json_read(j->path, &size);
    for (round = 0; round <= opt.rounds; round++) {     /* the first one touches the memory: its figures go */
        int rows = all->row_count, i;
        json_ours_round(j, text, size);
#ifdef HAVE_YYJSON
        yy_round(j, text, size);
#endif
#ifdef HAVE_CJSON
        if (round < 3 || j->tensors <= 100000) cjson_round(j, text, size);
#endif
        tidy_heap();
        for (i = 0; i < all->row_count && round == 0; i++)
            if (strcmp(all->rows[i].section, j->section) == 0 && strcmp(all->rows[i].unit, "MB/s") == 0)
                all->rows[i].n = 0;
        if (round == 0 && rows > all->row_count) fail("rows were lost");
        if (interrupted) fail("interrupted");
    }
    free(text);
}
/* How much more memory than before, in documents: what parsing left and needed; written text counts, it is the
 * result. */
static void json_memory(void *argument) {
    const json_plan *j = (const json_plan *)argument;
    const char *section = j->section;
    size_t size, n = 0;
    char *text = json_read(j->path, &size), *written;
    int64_t before = peak_bytes();
    dcp_metadata *m;
    dcp_error err;
    if (j->who == JSON_OURS) {
        must(dcp_metadata_parse(text, size, &m, &err), &err, "dcp_metadata_parse");
        row_add(section, "extra memory of dcp_metadata_parse / document", "x",
                (double)(peak_bytes() - before) / (double)size);
        before = peak_reset();
        must(dcp_metadata_write(m, NULL, &written, &n, &err), &err, "dcp_metadata_write");
        row_add(section, "extra memory of dcp_metadata_write, text included / document", "x",
                (double)(peak_bytes() - before) / (double)n);
    }
#ifdef HAVE_CJSON
    if (j->who == JSON_CJSON) {
        cJSON *root = cJSON_ParseWithLength(text, size);
        row_add(section, "extra memory of cJSON parse / document", "x", (double)(peak_bytes() - before) / (double)size);
        if (!root) fail("cJSON cannot read the document");
    }
#endif
#ifdef HAVE_YYJSON
    if (j->who == JSON_YYJSON) {
        yyjson_doc *doc;
        (void)yy_read(text, size, &doc);
        row_add(section, "extra memory of yyjson read + copy / document", "x",
                (double)(peak_bytes() - before) / (double)size);
    }
#endif
}
static void json_python(const json_plan *j) {
    static const char script[] = "import json, sys, time\n"
        "text = open(sys.argv[1], 'rb').read().decode()\n"
        "for i in range(int(sys.argv[2])):\n"
        "    a = time.perf_counter(); d = json.loads(text); b = time.perf_counter(); w = json.dumps(d); c = "
        "time.perf_counter()\n"
        "    print(len(text) / (b - a) / 1e6, len(w) / (c - b) / 1e6)\n";
    char command[2400];
    double parse, print;
    int rounds = j->tensors > 100000 ? 1 : opt.rounds < 3 ? opt.rounds : 3;
    FILE *pipe;
    (void)snprintf(command, sizeof command,
                   "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8589934592 python3 -c \"%s\" '%s' %d 2>/dev/null", script,
                   j->path, rounds);
    pipe = popen(command, "r");
    while (pipe && fscanf(pipe, "%lf %lf", &parse, &print) == 2) {
        row_add(j->section, "python3 json.loads", "MB/s", parse);
        row_add(j->section, "python3 json.dumps", "MB/s", print);
    }
    if (pipe) (void)pclose(pipe);
}
/* A row for "the peer, and then SHA-256 over the same bytes": our documents carry their own hash, checked before
 * anything is parsed. */
static const row *json_and_sha(const json_plan *j, const row *peer, double scale) {
    const row *sha = row_find(j->section, json_sha);
    char name[72];
    int i;
    if (!peer || !sha) return NULL;
    if (scale > 1) (void)snprintf(name, sizeof name, "%.50s x %.1f, and SHA-256", peer->name, scale);
    else (void)snprintf(name, sizeof name, "%.50s, and SHA-256", peer->name);
    for (i = 0; i < peer->n && i < sha->n; i++)
        row_add(j->section, name, "MB/s", 1 / (1 / (peer->v[i] * scale) + 1 / sha->v[i]));
    return row_find(j->section, name);
}
/* The targets are against yyjson. Where it is missing, cJSON stands in: with this document yyjson 0.12 read and copied
 * 2.1 times as fast as cJSON 1.7.15 parsed, and wrote 28 times as fast as it printed (one machine, recycled memory). */
static void json_ratios(const json_plan *j, const char *many) {
    const row *both = row_find(j->section, json_both), *write = row_find(j->section, json_write);
    const row *peer = row_find(j->section, YYJSON_HERE ? yy_parse : cjson_parse);
    const row *peer_write = row_find(j->section, YYJSON_HERE ? yy_write : cjson_write);
    const row *extra = row_find(j->section, "extra memory of dcp_metadata_parse / document");
    const double parse_scale = YYJSON_HERE ? 1 : 2.1, write_scale = YYJSON_HERE ? 1 : 28;
    const char *parser = YYJSON_HERE ? "yyjson" : "2.1 x cJSON (for yyjson)", *writer = YYJSON_HERE ? "yyjson"
                         : "28 x cJSON (for yyjson)";
    row unit;
    char what[112];
    (void)snprintf(what, sizeof what, "parse + validate, %s tensors / %s", many, parser);
    ratio_add(what, both, peer, NULL, 0.8, 1.4, 0);
    if (peer) ratio_scale(parse_scale);
    (void)snprintf(what, sizeof what, "the same / %s and SHA-256", parser);
    ratio_add(what, both, json_and_sha(j, peer, parse_scale), NULL, 0.8, 1.4, 0);
    (void)snprintf(what, sizeof what, "write with its SHA-256, %s tensors / %s", many, writer);
    ratio_add(what, write, peer_write, NULL, 0.7, 1.0, 0);
    if (peer_write) ratio_scale(write_scale);
    (void)snprintf(what, sizeof what, "the same / %s and SHA-256", writer);
    ratio_add(what, write, json_and_sha(j, peer_write, write_scale), NULL, 0.7, 1.0, 0);
    memset(&unit, 0, sizeof unit);
    unit.n = 1;
    unit.v[0] = 1;
    (void)snprintf(what, sizeof what, "parse, %s tensors: extra memory / document", many);
    ratio_add(what, extra, &unit, NULL, 2.0, 1.0, 1);
}
static void json_section(const char *directory, int64_t tensors, const char *section, const char *many) {
    json_plan j;
    memset(&j, 0, sizeof j);
    (void)snprintf(j.path, sizeof j.path, "%s/document", directory);
    (void)snprintf(j.section, sizeof j.section, "%s", section);
    j.tensors = tensors;
    in_child(json_make, &j);
    in_child(json_speed, &j);
    json_python(&j);
    for (j.who = JSON_OURS; j.who <= JSON_YYJSON; j.who++) in_child(json_memory, &j);
    json_ratios(&j, many);
    settle(directory);
}

/* ---- the manifest: one of many shards, in JSON and in YAML ------------------------------------------------------- */
typedef struct manifest_plan { char section[24]; size_t shards; } manifest_plan;
typedef struct manifest_digests { size_t count; uint8_t (*block)[32]; char (*checksum)[80]; } manifest_digests;
static const char *const manifest_parse_rows[2] = { "JSON: dcp_manifest_parse", "YAML: dcp_manifest_parse" };
static const char manifest_validate_row[] = "dcp_manifest_validate", manifest_sha_row[] =
    "SHA-256 of the JSON document, which parse and write include";

/* As a save streams them: nothing is held. */
static dcp_status manifest_shard(void *user, const dcpi_record *list, size_t outer, size_t i, void *item,
                                 dcp_error *err) {
    const manifest_digests *d = (const manifest_digests *)user;
    dcp_manifest_shard *out = (dcp_manifest_shard *)item;
    static char path[96], name[64];
    (void)list;
    (void)outer;
    (void)snprintf(name, sizeof name, "layers.%u.attn.wq", (unsigned)i);
    (void)snprintf(path, sizeof path, "dense/%s_0_of_1.bin", name);
    out->path = path;
    out->type = "dense";
    out->tensor_name = name;
    out->ndim = 2;
    out->shape[0] = out->global_shape[0] = 1 + (int64_t)(i * 7919 % 1024);
    out->shape[1] = out->global_shape[1] = 1024;
    out->dtype = "bf16";
    out->tier_hint = i % 2 ? "hot" : "warm";
    out->checksum = d->checksum[i % d->count];
    out->version = (int64_t)(i % 5);
    out->size = out->shape[0] * 2048;
    out->placement = "sharded";
    out->rank = (int)(i % 64);
    out->block_size = 4 * MIB;
    out->block_checksums = d->block[i % d->count];
    out->block_count = 1;
    return dcpi_succeed(err);
}
static void manifest_make_digests(manifest_digests *d) {
    uint64_t seed = 7;
    uint8_t tree[32];
    size_t i, k;
    d->count = 4096;
    d->block = (uint8_t (*)[32])malloc(d->count * 32);
    d->checksum = (char (*)[80])malloc(d->count * 80);
    if (!d->block || !d->checksum) fail("no memory");
    for (i = 0; i < d->count; i++) {
        for (k = 0; k < 4; k++) { uint64_t r = scramble(&seed); memcpy(d->block[i] + 8 * k, &r, 8); }
        dcp_sha256(d->block[i], 32, tree);
        memset(d->checksum[i], 0, 80);
        memcpy(d->checksum[i], "sha256-tree:", 12);
        dcpi_hex_encode(tree, 32, d->checksum[i] + 12);
    }
}
static void manifest_make(const manifest_plan *p, int yaml, dcpi_buffer *out) {
    dcp_manifest head = DCP_ZERO;
    dcp_manifest_tier tiers[2];
    dcpi_content source;
    manifest_digests digests;
    dcp_error err;
    manifest_make_digests(&digests);
    memset(tiers, 0, sizeof tiers);
    tiers[0].tier.name = "hot";
    tiers[1].tier.tier_id = 1;
    tiers[1].tier.name = "warm";
    head.model_id = "model";
    head.save_id = "0123456789abcdef";
    head.world_size = 64;
    head.tiers = tiers;
    head.tier_count = 2;
    head.shard_count = p->shards;
    source = dcpi_content_of(NULL, &head);
    source.user = &digests;
    source.item = manifest_shard;
    must(dcpi_manifest_emit(&source, yaml, NULL, dcpi_buffer_sink, out, NULL, &err), &err, "dcpi_manifest_emit");
    row_add(p->section, yaml ? "size of the YAML document" : "size of the JSON document", "MB",
            (double)out->size / 1e6);
    free(digests.block);
    free(digests.checksum);
}
static void manifest_round(const manifest_plan *p, int yaml, const dcpi_buffer *text) {
    dcp_manifest *m;
    dcp_validation v;
    dcp_error err;
    char *written;
    size_t n;
    double t = now();
    must(dcp_manifest_parse(text->data, text->size, &m, &err), &err, "dcp_manifest_parse");
    row_add(p->section, manifest_parse_rows[yaml], "s", now() - t);
    t = now();
    if (dcp_manifest_validate(m, &v)) fail("dcp_manifest_validate: %s", v.error_count ? v.errors[0] : "no memory");
    row_add(p->section, manifest_validate_row, "s", now() - t);
    dcp_validation_free(&v);
    t = now();
    must(dcp_manifest_write(m, yaml, NULL, &written, &n, &err), &err, "dcp_manifest_write");
    row_add(p->section, yaml ? "YAML: dcp_manifest_write" : "JSON: dcp_manifest_write", "s", now() - t);
    if (n != text->size || memcmp(written, text->data, n) != 0)
        fail("a manifest that was parsed and written is not the same");
    dcp_free(written);
    dcp_manifest_free(m);
}
static void manifest_speed(void *argument) {
    const manifest_plan *p = (const manifest_plan *)argument;
    dcpi_buffer text[2];
    uint8_t digest[32];
    int round, yaml, i;
    recycle_memory();
    memset(text, 0, sizeof text);
    for (yaml = 0; yaml < 2; yaml++) manifest_make(p, yaml, &text[yaml]);
    for (round = 0; round <= opt.rounds; round++) {     /* the first one touches the memory: its figures go */
        double t = now();
        dcp_sha256(text[0].data, text[0].size, digest);
        row_add(p->section, manifest_sha_row, "s", now() - t);
        for (yaml = 0; yaml < 2; yaml++) manifest_round(p, yaml, &text[yaml]);
        tidy_heap();
        for (i = 0; i < all->row_count && round == 0; i++)
            if (strcmp(all->rows[i].section, p->section) == 0 && strcmp(all->rows[i].unit, "s") == 0)
                all->rows[i].n = 0;
        if (interrupted) fail("interrupted");
    }
}
static void manifest_section(size_t shards) {
    const row *json, *sha;
    manifest_plan p;
    row unit;
    char what[112];
    (void)snprintf(p.section, sizeof p.section, "manifest %u,000", (unsigned)(shards / 1000));
    p.shards = shards;
    in_child(manifest_speed, &p);
    json = row_find(p.section, manifest_parse_rows[0]);
    sha = row_find(p.section, manifest_sha_row);
    (void)snprintf(what, sizeof what, "manifest of %u shards: YAML parse / JSON parse, seconds", (unsigned)shards);
    ratio_add(what, row_find(p.section, manifest_parse_rows[1]), json, NULL, 3.0, 2.0, 1);
    (void)snprintf(what, sizeof what, "manifest of %u shards: JSON parse / SHA-256 alone, seconds", (unsigned)shards);
    ratio_add(what, json, sha, NULL, 4.0, 2.0, 1);
    memset(&unit, 0, sizeof unit);
    unit.n = 1;
    unit.v[0] = 1;
    (void)snprintf(what, sizeof what, "manifest of %u shards: validate, seconds", (unsigned)shards);
    ratio_add(what, row_find(p.section, manifest_validate_row), &unit, NULL, 2.0, 1.0, 1);
}

/* ---- the report -------------------------------------------------------------------------------------------------- */
static void print_rows(void) {
    int i;
    for (i = 0; i < all->row_count; i++) {
        const row *r = &all->rows[i];
        if (r->n == 0) continue;
        if (i == 0 || strcmp(r->section, all->rows[i - 1].section) != 0)
            (void)printf("\n%-62s %9s %9s %9s\n", r->section, "median", "min", "max");
        (void)printf("  %-60s %9.3f %9.3f %9.3f %s\n", r->name, row_median(r), row_quantile(r, 0), row_quantile(r, 1),
                     r->unit);
    }
}
static int ratio_is_held(const ratio *r) { return r->is_ceiling ? r->value <= r->hold : r->value >= r->hold; }
static int ratio_is_reached(const ratio *r) { return r->is_ceiling ? r->value <= r->aim : r->value >= r->aim; }
static void print_ratios(void) {
    int i, missed = 0;
    (void)printf("\n%-74s %8s  %-15s %6s %6s\n", "RATIOS (targets: design/PERFORMANCE.md, 8)", "median", "(rounds)",
                 "hold", "aim");
    for (i = 0; i < all->ratio_count; i++) {
        const ratio *r = &all->ratios[i];
        char span[32];
        (void)snprintf(span, sizeof span, "(%.2f-%.2f)", r->low, r->high);
        (void)printf("  %-72s %8.2f  %-15s %s%5.2f %6.2f  %s\n", r->what, r->value, span, r->is_ceiling ? "<" : " ",
                     r->hold, r->aim, !ratio_is_held(r) ? "MISSED" : ratio_is_reached(r) ? "held, aim reached"
                     : "held");
        missed += !ratio_is_held(r);
    }
    for (i = 0; i < all->remarks; i++) (void)printf("note: %s\n", all->remark[i]);
    (void)printf("%d of %d targets held\n", all->ratio_count - missed, all->ratio_count);
}
static void write_json(const char *path) {              /* names are ours: nothing in them needs an escape */
    FILE *file = fopen(path, "w");
    const char *comma = "";
    int i;
    if (!file) fail("%s: %s", path, strerror(errno));
    (void)fprintf(file, "{\n  \"size\": %lld, \"rounds\": %d, \"cores\": %d,\n  \"rows\": [\n", (long long)opt.size,
                  opt.rounds, cores());
    for (i = 0; i < all->row_count; i++) {
        const row *r = &all->rows[i];
        if (r->n == 0) continue;
        (void)fprintf(file, "%s    { \"section\": \"%s\", \"name\": \"%s\", \"unit\": \"%s\", ", comma, r->section,
                      r->name, r->unit);
        (void)fprintf(file, "\"n\": %d, \"median\": %.6g, \"min\": %.6g, \"max\": %.6g }", r->n, row_median(r),
                      row_quantile(r, 0), row_quantile(r, 1));
        comma = ",\n";
    }
    (void)fprintf(file, "\n  ],\n  \"ratios\": [\n");
    for (i = 0; i < all->ratio_count; i++) {
        const ratio *r = &all->ratios[i];
        (void)fprintf(file, "    { \"what\": \"%s\", \"value\": %.4g, \"low\": %.4g, \"high\": %.4g, ", r->what,
                      r->value, r->low, r->high);
        (void)fprintf(file, "\"hold\": %.4g, \"aim\": %.4g, \"held\": %s }%s\n", r->hold, r->aim,
                      ratio_is_held(r) ? "true" : "false", i + 1 < all->ratio_count ? "," : "");
    }
    (void)fprintf(file, "  ]\n}\n");
    if (fclose(file) != 0) fail("%s: %s", path, strerror(errno));
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */
static int wanted(const char *part) {
    const char *at = opt.only ? strstr(opt.only, part) : part;
    size_t n = strlen(part);
    while (at && opt.only && ((at != opt.only && at[-1] != ',') || (at[n] != '\0' && at[n] != ',')))
        at = strstr(at + 1, part);
    return at != NULL;
}
static void announce(const char *part) {
    (void)printf("... %s\n", part);
    (void)fflush(stdout);
}
static void print_machine(void) {
    static const char *const kernels[] = { "auto", "portable", "SHA-NI", "SHA-NI x2", "AVX2", "AVX-512", "ARMv8" };
    struct utsname system;
    char line[256] = "", *colon = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !colon && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) colon = strchr(line, ':');
    if (file) (void)fclose(file);
    if (colon) colon[strcspn(colon, "\n")] = '\0';
    if (uname(&system) != 0) memset(&system, 0, sizeof system);
    (void)printf("dcp.h %s, %s %s %s, %d cores%s%s, leaves kernel %s\n", dcp_version(), system.sysname, system.release,
                 system.machine, cores(), colon ? "," : "", colon ? colon + 1 : "", kernels[dcpi_sha_best()]);
    (void)printf("data set %lld MiB in %d tensors, %d rounds; disk %s, tmpfs %s\n", (long long)(opt.size / MIB),
                 TENSORS, opt.rounds, opt.disk, opt.tmpfs[0] ? opt.tmpfs : "none");
}
static void remarks_known(void) {
    remark("save with checksums / save without: checksums cannot be switched off, so there is no such row");
#ifndef HAVE_OPENSSL
    remark("no OpenSSL in this build (libssl-dev): no SHA-256 peers");
#endif
#ifndef HAVE_CJSON
    remark("no cJSON in this build (libcjson-dev): no JSON peer but Python");
#endif
    if (!opt.tmpfs[0]) remark("no tmpfs: its rows are missing");
}
static void remark_load(void) {                 /* figures of a machine that does other things too are not worth much */
    double load = 0;
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%lf", &load) == 1 && load > cores() * 0.75)
        remark("load average %.1f at the start: other programs run on these %d cores; figures are too low, "
               "spreads wide", load, cores());
    if (file) (void)fclose(file);
}
static void run_all(const char *program) {
    place disk = { opt.disk, "save disk", "load disk, cached", "load disk, cold" },
                 tmpfs = { opt.tmpfs, "save tmpfs", "load tmpfs", "" };
    print_machine();
    remarks_known();
    remark_load();
    if (wanted("memory")) { announce("memory"); memory_section(opt.disk); }
    if (wanted("json")) {
        announce("json");
        json_section(opt.disk, 100000, "json 100,000", "100,000");
        if (!opt.quick) json_section(opt.disk, 1000000, "json 1,000,000", "1,000,000");
    }
    if (wanted("manifest")) { announce("manifest"); manifest_section(opt.quick ? 100000 : 1000000); }
    if (wanted("sha")) { announce("sha256"); sha_section(program); }
    if (wanted("commit")) {
        announce("commit");
        commit_section(&disk, "commit disk", "disk");
        if (opt.tmpfs[0]) commit_section(&tmpfs, "commit tmpfs", "tmpfs");
    }
    if (wanted("save")) {
        announce("save");
        save_section(&disk, 1);
        if (opt.tmpfs[0]) save_section(&tmpfs, 0);
    }
    if (wanted("async")) { announce("async"); async_section(opt.disk); }
    if (wanted("ranks")) { announce("ranks"); ranks_section(&disk); }
    if (wanted("load")) {
        announce("load");
        load_section(&disk, 1);
        if (opt.tmpfs[0]) load_section(&tmpfs, 0);
    }
    print_rows();
    print_ratios();
    if (opt.json) write_json(opt.json);
}

/* ---- options, directories, and the parent that cleans up whatever happens to the child that measures ------------- */
static int usage(const char *problem, const char *what) {
    (void)fprintf(stderr, "bench: %s %s\nusage: bench [--quick] [--rounds N] [--size MIB] [--disk DIR] [--tmpfs "
                          "DIR|none] [--json FILE]\n"
                          "             [--only memory,sha,json,manifest,commit,save,async,ranks,load]\n", problem,
                          what);
    return 2;
}
static int read_number(const char *text, int least, int most, int64_t *out) {
    char *end;
    long n = strtol(text, &end, 10);
    *out = (int64_t)n;
    return *text != '\0' && *end == '\0' && n >= least && n <= most;
}
static int read_options(int count, char **args, const char **disk, const char **tmpfs) {
    int64_t rounds = 0, size = 0;
    int i;
    for (i = 1; i < count; i++) {
        const char *name = args[i], *value = i + 1 < count ? args[i + 1] : NULL;
        if (strcmp(name, "--quick") == 0) { opt.quick = 1; continue; }
        if (strcmp(name, "--rounds") != 0 && strcmp(name, "--size") != 0 && strcmp(name, "--disk") != 0 &&
            strcmp(name, "--tmpfs") != 0 && strcmp(name, "--only") != 0 &&
            strcmp(name, "--json") != 0) return usage("unknown argument", name);
        if (!value) return usage("no value after", name);
        if (strcmp(name, "--rounds") == 0 && !read_number(value, 1, 100, &rounds))
            return usage("1 to 100 rounds, not", value);
        if (strcmp(name, "--size") == 0 && !read_number(value, 64, 1 << 20, &size))
            return usage("a size in MiB, 64 or more, not", value);
        if (strcmp(name, "--disk") == 0) *disk = value;
        if (strcmp(name, "--tmpfs") == 0) *tmpfs = value;
        if (strcmp(name, "--only") == 0) opt.only = value;
        if (strcmp(name, "--json") == 0) opt.json = value;
        i++;
    }
    opt.rounds = rounds ? (int)rounds : opt.quick ? 2 : 5;
    opt.size = (size ? size : opt.quick ? 256 : 2048) * MIB;
    opt.commits = opt.quick ? 50 : 200;
    return 0;
}
static int64_t space(const char *directory) {
    struct statvfs st;
    return statvfs(directory, &st) == 0 ? (int64_t)st.f_bavail * (int64_t)st.f_frsize : -1;
}
static int make_directories(const char *disk, const char *tmpfs) {
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    (void)snprintf(opt.disk, sizeof opt.disk, "%s/dcp_bench.%ld", disk, (long)getpid());
    (void)mkdir(disk, 0777);
    while (opt.size > 64 * MIB && (space(disk) < 2 * opt.size + 512 * MIB || memory < 3 * opt.size)) {
        opt.size /= 2;
        (void)printf("too little disk space or memory: the data set shrinks to %lld MiB\n",
                     (long long)(opt.size / MIB));
    }
    if (mkdir(opt.disk, 0777) != 0) { (void)fprintf(stderr, "bench: %s: %s\n", opt.disk, strerror(errno)); return 0; }
    if (strcmp(tmpfs, "none") == 0 || space(tmpfs) < opt.size / 4 * 5 || memory < 6 * opt.size) return 1;
    (void)snprintf(opt.tmpfs, sizeof opt.tmpfs, "%s/dcp_bench.%ld", tmpfs, (long)getpid());
    if (mkdir(opt.tmpfs, 0777) != 0) opt.tmpfs[0] = '\0';
    return 1;
}
static void remove_directories(void) {
    empty_directory(opt.disk);
    (void)rmdir(opt.disk);
    if (!opt.tmpfs[0]) return;
    empty_directory(opt.tmpfs);
    (void)rmdir(opt.tmpfs);
}
static volatile pid_t measuring;
static void on_signal(int number) {                  /* in both processes: a terminal sends it to both, `kill` to one */
    (void)number;
    interrupted = 1;
    dcp_cancel_request(&cancel);
    if (measuring > 0) (void)kill(measuring, SIGTERM);
}
int main(int count, char **args) {
    static char program[600];
    const char *disk = getenv("TMPDIR"), *tmpfs = "/dev/shm";
    struct sigaction action;
    ssize_t n;
    int status = 0, bad;
    if (count == 2 && strcmp(args[1], "--evp-child") == 0) return evp_child();
    if (!disk || !*disk) disk = "build";
    bad = read_options(count, args, &disk, &tmpfs);
    if (bad) return bad;
    n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) (void)snprintf(program, sizeof program, "%s", args[0]);
    all = (results *)mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || !make_directories(disk, tmpfs)) return 1;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)fflush(stdout);
    measuring = fork();
    if (measuring == 0) {
        run_all(program);
        exit(0);
    }
    while (measuring > 0 && waitpid(measuring, &status, 0) < 0 && errno == EINTR) {}
    remove_directories();
    return measuring > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
