/* test.h - a small test harness. C99 that is also C++11; libc only.
 *
 *     #include "test.h"                              // after dcp.h, before system headers
 *
 *     TEST(adds) {
 *         CHECK(1 + 1 == 2);
 *         CHECK_INT(strlen("abc"), 3);
 *         CHECK_STR("a", "a");
 *         CHECK_OK(dcp_something(&err));             // a status: 0 is fine
 *         CHECK_OK_MESSAGE(dcp_something(&err), err.message);
 *     }
 *     int main(void) {
 *         RUN(adds);
 *         return test_finish();
 *     }
 *
 * One line per test: `ok adds`, `skipped adds: reason` or `FAILED adds tests/test_x.c:12: expression (got 1, want 2)`;
 * the last line is `N passed, N failed, N skipped`; the exit status is 1 if any failed.
 *
 * A check that fails and a SKIP end the test at once, by longjmp: memory it holds is lost, and neither may be used in
 * another thread or in a forked child. A test that takes more than 120 s (DCP_TEST_TIMEOUT, test_timeout(); 0: no
 * limit) is a failure and ends the program; there is no such watchdog on Windows.
 *
 *     SKIP("reason")                                 this test makes no sense here
 *     SKIP_MISSING("mpi", "install libopenmpi-dev")  something is not there: a skip, but a failure if DCP_REQUIRE has
 *                                                    the word mpi
 *     test_random(), test_random_below(n)            the same numbers in each run with the same DCP_TEST_SEED,
 *                                                    whatever the filter
 *     test_dir()                                     a new empty directory, removed when the test ends (kept if
 *                                                    DCP_TEST_KEEP is set)
 *     test_ram_dir()                                 the same in memory, where there is such a directory
 *     test_times(n)                                  n, or a tenth of it where DCP_TEST_SLOW is set (under an emulator
 *                                                    or valgrind) or DCP_TEST_FEWER (not plain)
 *     test_is_sampled()                              whether test_times does it less often: a third of a list will do
 *     test_is_slow(), test_is_sanitized()            whether it is, and whether a sanitizer is compiled in
 *     test_is_whole()                                whether it is `make test-all`, which leaves nothing out
 *     test_rm_rf(path)                               removes a file or a directory with all that is in it; follows no
 *                                                    links
 *
 * Every call that a suite writes `dcp_f(...)` is checked against the list of statuses in the comment at dcp_f: see
 * statuses.h.
 *
 * Environment: DCP_TEST_FILTER=text runs only tests whose name contains it; DCP_TEST_SEED, DCP_TEST_TIMEOUT,
 * DCP_TEST_KEEP, DCP_TEST_SLOW, DCP_TEST_FEWER, DCP_REQUIRE. */
#ifndef DCP_TEST_H
#define DCP_TEST_H

#if !defined(_WIN32) && !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700               /* too late if a system header came first; dcp.h then has set what is needed */
#endif
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <direct.h>
#include <io.h>
#include <process.h>
#else
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#define TEST(name) static void name(void)
#define RUN(name) test_run(#name, name)

#define CHECK(condition) do { if (!(condition)) test_fail(__FILE__, __LINE__, #condition, ""); } while (0)
#define CHECK_INT(got, want) test_check_int((long long)(got), (long long)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) test_check_str(got, want, __FILE__, __LINE__, #got)
#define CHECK_OK(status) test_check_ok((int)(status), "", __FILE__, __LINE__, #status)
#define CHECK_OK_MESSAGE(status, message) do { \
        int test_status = (int)(status); test_check_ok(test_status, message, __FILE__, __LINE__, #status); } while (0)
#define SKIP(reason) test_skip(reason)
#define SKIP_MISSING(feature, package) test_skip_missing(feature, package, __FILE__, __LINE__)

#define TEST_DIRS 16                    /* test_dir() calls in one test */
#define TEST_PATH 1024

#if defined(__GNUC__) && !defined(__TINYC__)
#define TEST_NORETURN __attribute__((noreturn))
#elif defined(_MSC_VER)
#define TEST_NORETURN __declspec(noreturn)
#else
#define TEST_NORETURN
#endif

static struct {
    const char *name;                   /* of the test that runs */
    int passed, failed, skipped;
    jmp_buf leave;                      /* with 1: failed, 2: skipped */
    int uses_random;
    uint64_t seed, random;
    char dir[TEST_DIRS][TEST_PATH];
    int dirs;
} test_state;

#include "statuses.h"                   /* needs test_state */

/* ---- results ----------------------------------------------------------------------------------------------------- */
TEST_NORETURN static inline void test_fail(const char *file, int line, const char *expression, const char *detail) {
    printf("FAILED %s %s:%d: %s%s", test_state.name, file, line, expression, detail);
    if (test_state.uses_random) printf(" [DCP_TEST_SEED=%llu]", (unsigned long long)test_state.seed);
    printf("\n");
    longjmp(test_state.leave, 1);
}
static inline void test_check_int(long long got, long long want, const char *file, int line, const char *expression) {
    char detail[80];
    if (got == want) return;
    (void)snprintf(detail, sizeof detail, " (got %lld, want %lld)", got, want);
    test_fail(file, line, expression, detail);
}
static inline void test_check_str(const char *got, const char *want, const char *file, int line,
                                  const char *expression) {
    char detail[2000];
    if (got == want || (got && want && strcmp(got, want) == 0)) return;
    (void)snprintf(detail, sizeof detail, " (got \"%.900s\", want \"%.900s\")", got ? got : "(null)",
                   want ? want : "(null)");
    test_fail(file, line, expression, detail);
}
static inline void test_check_ok(int status, const char *message, const char *file, int line, const char *expression) {
    char detail[1200];
    if (status == 0) return;
    (void)snprintf(detail, sizeof detail, " (status %d%s%.1000s)", status, message[0] ? ": " : "", message);
    test_fail(file, line, expression, detail);
}
TEST_NORETURN static inline void test_skip(const char *reason) {
    printf("skipped %s: %s\n", test_state.name, reason);
    longjmp(test_state.leave, 2);
}
/* Whether DCP_REQUIRE, words with spaces or commas between them, has this word. */
static inline int test_required(const char *feature) {
    const char *words = getenv("DCP_REQUIRE");
    size_t n = strlen(feature);
    while (words && *words) {
        size_t length = strcspn(words, " ,");
        if (length == n && memcmp(words, feature, n) == 0) return 1;
        words += length + strspn(words + length, " ,");
    }
    return 0;
}
#ifndef __has_feature
#define TEST_HAS(feature) 0
#else
#define TEST_HAS(feature) __has_feature(feature)
#endif
/* Whether a sanitizer is compiled in: it takes memory of its own, and several times as long. */
static inline int test_is_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    TEST_HAS(address_sanitizer) || TEST_HAS(thread_sanitizer) || TEST_HAS(memory_sanitizer)
    return 1;
#else
    return 0;
#endif
}
/* Under an emulator or valgrind: what only repeats something may do it less often. The checks stay the same. */
static inline int test_is_slow(void) { return getenv("DCP_TEST_SLOW") != NULL; }
static inline int test_is_whole(void) { return getenv("WHOLE") != NULL; }
/* Whether a sample will do: all of it runs in the plain variant, and in more of them in `make test-all`. */
static inline int test_is_sampled(void) { return test_is_slow() || getenv("DCP_TEST_FEWER") != NULL; }
static inline int test_times(int times) { return test_is_sampled() && times > 10 ? times / 10 : times; }
TEST_NORETURN static inline void test_skip_missing(const char *feature, const char *package, const char *file,
                                                   int line) {
    char text[400];
    (void)snprintf(text, sizeof text, "%.100s is missing: %.250s", feature, package);
    if (test_required(feature)) test_fail(file, line, text, " (DCP_REQUIRE asks for it)");
    test_skip(text);
}

/* ---- watchdog ---------------------------------------------------------------------------------------------------- */
#ifdef _WIN32
static inline void test_timeout(unsigned seconds) { (void)seconds; }
#else
static inline void test_on_alarm(int signal_number) {   /* the test may hang anywhere, so nothing but leaving is safe */
    char text[400];
    int length = snprintf(text, sizeof text, "FAILED %.200s: timeout\n%d passed, %d failed, %d skipped\n",
                          test_state.name, test_state.passed, test_state.failed + 1, test_state.skipped);
    (void)signal_number;
    if (length > 0 && write(1, text, (size_t)length) < 0) _exit(2);
    _exit(1);
}
static inline void test_timeout(unsigned seconds) {     /* from now on, for this test */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = test_on_alarm;
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(seconds);
}
#endif

/* Windows takes names in UTF-16: every call on a file there needs memory, also those after the rename that commits. */
#ifdef _WIN32
#define PATHS_NEED_MEMORY 1
#else
#define PATHS_NEED_MEMORY 0
#endif

/* ---- random numbers: splitmix64 ---------------------------------------------------------------------------------- */
static inline uint64_t test_random(void) {
    uint64_t z;
    test_state.uses_random = 1;
    z = test_state.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline size_t test_random_below(size_t n) { return n ? (size_t)(test_random() % n) : 0; }

/* ---- files ------------------------------------------------------------------------------------------------------- */
#ifdef _WIN32
static inline void test_rm_rf(const char *path) {
    char pattern[TEST_PATH + 8], child[TEST_PATH];
    struct _finddata_t entry;
    intptr_t find;
    if (remove(path) == 0) return;
    (void)snprintf(pattern, sizeof pattern, "%s\\*", path);
    find = _findfirst(pattern, &entry);
    if (find == -1) return;
    do {
        if (strcmp(entry.name, ".") == 0 || strcmp(entry.name, "..") == 0) continue;
        if ((size_t)snprintf(child, sizeof child, "%s\\%s", path, entry.name) < sizeof child) test_rm_rf(child);
    } while (_findnext(find, &entry) == 0);
    _findclose(find);
    (void)_rmdir(path);
}
static inline int test_make_dir(char path[TEST_PATH]) {
    static int count;
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : getenv("TEMP");
    int tries;                                          /* a process that was killed may have left the name */
    for (tries = 0; tries < 1000; tries++) {
        (void)snprintf(path, TEST_PATH, "%s\\dcp_test_%d_%d", base ? base : ".", _getpid(), ++count);
        if (_mkdir(path) == 0) return 1;
    }
    return 0;
}
#else
static inline void test_rm_rf(const char *path) {
    struct stat info;
    DIR *dir;
    struct dirent *entry;
    if (lstat(path, &info) != 0) return;
    if (!S_ISDIR(info.st_mode)) { (void)unlink(path); return; }
    (void)chmod(path, 0700);                            /* a test may have taken the permission away */
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL) {
        char child[TEST_PATH];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if ((size_t)snprintf(child, sizeof child, "%s/%s", path, entry->d_name) < sizeof child) test_rm_rf(child);
    }
    if (dir) (void)closedir(dir);
    (void)rmdir(path);
}
static inline int test_make_dir(char path[TEST_PATH]) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, TEST_PATH, "%s/dcp_test_XXXXXX", base && base[0] ? base : "/tmp");
    return mkdtemp(path) != NULL;
}
#endif
static inline const char *test_dir(void) {
    char *path;
    if (test_state.dirs == TEST_DIRS)
        test_fail(__FILE__, __LINE__, "TEST_DIRS", " (too many calls of test_dir in one test)");
    path = test_state.dir[test_state.dirs];
    if (!test_make_dir(path)) test_fail(__FILE__, __LINE__, path, " (could not make a temporary directory)");
    test_state.dirs++;
    return path;
}
/* In memory where there is such a directory: quicker, and no less of a directory. */
static inline const char *test_ram_dir(void) {
#ifdef __linux__
    const char *old = getenv("TMPDIR"), *dir;
    char kept[TEST_PATH] = "";
    if (access("/dev/shm", W_OK) != 0) return test_dir();
    if (old) (void)snprintf(kept, sizeof kept, "%s", old);
    (void)setenv("TMPDIR", "/dev/shm", 1);
    dir = test_dir();
    if (old) (void)setenv("TMPDIR", kept, 1);
    else (void)unsetenv("TMPDIR");
    return dir;
#else
    return test_dir();
#endif
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static inline void test_begin(const char *name) {
    const char *seed = getenv("DCP_TEST_SEED"), *timeout = getenv("DCP_TEST_TIMEOUT");
    test_state.name = name;
    test_state.dirs = 0;
    test_state.uses_random = 0;
    if (test_state.seed == 0)
        test_state.seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)clock() % 1000;
    test_state.random = test_state.seed;
    test_returns_share();
    test_timeout(timeout ? (unsigned)strtoul(timeout, NULL, 10) : 120);
}
static inline void test_run(const char *name, void (*test)(void)) {
    const char *filter = getenv("DCP_TEST_FILTER");
    if (filter && !strstr(name, filter)) return;
    test_begin(name);
    switch (setjmp(test_state.leave)) {
        case 0:
            test();
            if (!test_returns_are_listed()) { test_state.failed++; break; }
            test_state.passed++;
            printf("ok %s\n", test_state.name);
            break;
        case 1: test_state.failed++; (void)test_returns_are_listed(); break;
        default: test_state.skipped++; break;
    }
    test_timeout(0);
    while (test_state.dirs > 0) {
        test_state.dirs--;
        if (!getenv("DCP_TEST_KEEP")) test_rm_rf(test_state.dir[test_state.dirs]);
    }
    (void)fflush(stdout);                               /* so that the lines of a test that crashes later are seen */
}
static inline int test_finish(void) {
    if (!test_returns_are_listed()) test_state.failed++;        /* by what no test waited for */
    test_returns_write();
    printf("%d passed, %d failed, %d skipped\n", test_state.passed, test_state.failed, test_state.skipped);
    return test_state.failed ? 1 : 0;
}

#endif
