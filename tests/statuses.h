/* statuses.h - checks that public functions return only statuses that their comments list, in every suite; included by
 * test.h.
 *
 * build/statuses.h, made from the headers' comments by statuses.awk, has the lists, and puts test_returned() around
 * each call that is written `dcp_f(...)`; calls through pointers and those inside dcp.h are not seen. A status that is
 * not listed fails the test that runs, whichever thread or forked child got it. Where DCP_TEST_STATUSES names a file,
 * all that was returned is appended to it in the end, as lines `dcp_f DCP_E_IO`: run.sh finds out what is listed and
 * never returned. */
#ifndef DCP_TEST_STATUSES_H
#define DCP_TEST_STATUSES_H

#ifndef _WIN32
#include <sys/mman.h>
#endif
#ifdef __has_include
#if !__has_include("../build/statuses.h")
#error "make build/statuses.h first"
#endif
#endif
#include "../build/statuses.h"

#define TEST_FUNCTIONS (sizeof test_listed / sizeof test_listed[0])
#define TEST_STATUSES (sizeof test_status_names / sizeof test_status_names[0])
#if defined(__GNUC__) && !defined(__TINYC__)
#define TEST_GET(flag) __atomic_load_n(flag, __ATOMIC_ACQUIRE)
#define TEST_SET(flag) __atomic_store_n(flag, 1, __ATOMIC_RELEASE)
#define TEST_TAKE(flag) (__atomic_exchange_n(flag, 1, __ATOMIC_ACQ_REL) == 0)
#else
#define TEST_GET(flag) (*(flag))
#define TEST_SET(flag) (*(flag) = 1)
#define TEST_TAKE(flag) (*(flag) ? 0 : (*(flag) = 1))
#endif

typedef struct test_returns {           /* in memory that forked children share, where there are such */
    unsigned char seen[TEST_FUNCTIONS][TEST_STATUSES];
    int is_taken, is_there;             /* the first one that is not listed: somebody writes it down; it can be read */
    int function, status;
    char test[200];
} test_returns;
static test_returns test_returns_own, *test_returns_of = &test_returns_own;

/* Before anything forks. */
static inline void test_returns_share(void) {
#if !defined(_WIN32) && defined(MAP_ANONYMOUS)
    void *memory;
    if (test_returns_of != &test_returns_own) return;
    memory = mmap(NULL, sizeof *test_returns_of, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    memcpy(memory, &test_returns_own, sizeof test_returns_own);
    test_returns_of = (test_returns *)memory;
#endif
}
static inline dcp_status test_returned(int function, dcp_status status) {
    test_returns *r = test_returns_of;
    const size_t number = (size_t)status;
    if (number < TEST_STATUSES) {
        TEST_SET(&r->seen[function][number]);
        if (test_listed[function].statuses >> number & 1) return status;
    }
    if (TEST_TAKE(&r->is_taken)) {
        r->function = function;
        r->status = (int)status;
        (void)snprintf(r->test, sizeof r->test, "%s", test_state.name ? test_state.name : "?");
        TEST_SET(&r->is_there);
    }
    return status;
}
/* Whether all that was returned since the last call is listed; if not, says so. */
static inline int test_returns_are_listed(void) {
    test_returns *r = test_returns_of;
    if (!TEST_GET(&r->is_there)) return 1;
    printf("FAILED %s: %s returned %s (%d), which its comment does not list\n", r->test, test_listed[r->function].name,
           (size_t)r->status < TEST_STATUSES ? test_status_names[r->status] : "no status", r->status);
    r->is_taken = r->is_there = 0;
    return 0;
}
static inline void test_returns_write(void) {
    const char *path = getenv("DCP_TEST_STATUSES");
    FILE *file = path && path[0] ? fopen(path, "a") : NULL;
    size_t i, j;
    if (!file) return;
    for (i = 0; i < TEST_FUNCTIONS; i++)
        for (j = 0; j < TEST_STATUSES; j++)
            if (TEST_GET(&test_returns_of->seen[i][j]))
                fprintf(file, "%s %s\n", test_listed[i].name, test_status_names[j]);
    (void)fclose(file);
}

#endif
