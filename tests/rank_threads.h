/* rank_threads.h - ranks of a job that are threads of this process, and what must hold of all of their results. After
 * dcp.h, with DCP_IMPLEMENTATION, and test.h.
 *
 *     static void save(void *user, int rank) { job *j = (job *)user; j->status[rank] = dcp_save(...); }
 *     run_ranks(4, save, &job);                       // in four threads; returns when all have
 *     check_all(&job, DCP_OK, "");                    // a job has at least: ranks, status[], err[]
 *
 * Rank threads must not longjmp: no CHECK in them; what cannot fail there goes through must(). */
#ifndef DCP_TEST_RANK_THREADS_H
#define DCP_TEST_RANK_THREADS_H

enum { MOST_RANK_THREADS = 17 };
typedef struct rank_thread { void (*fn)(void *user, int rank); void *user; int rank; dcpi_thread thread; } rank_thread;

static inline void *must(void *memory) {
    if (!memory) abort();
    return memory;
}
static inline void rank_main(void *argument) {
    rank_thread *t = (rank_thread *)argument;
    t->fn(t->user, t->rank);
}
static inline void run_ranks(int ranks, void (*fn)(void *user, int rank), void *user) {
    rank_thread threads[MOST_RANK_THREADS];
    int r;
    memset(threads, 0, sizeof threads);
    for (r = 0; r < ranks; r++) {
        threads[r].fn = fn;
        threads[r].user = user;
        threads[r].rank = r;
        if (dcpi_thread_start(&threads[r].thread, rank_main, &threads[r])) abort();
    }
    for (r = 0; r < ranks; r++) dcpi_thread_join(&threads[r].thread);
}
#define check_all(j, expected, words) check_ranks((j)->ranks, (j)->status, (j)->err, expected, words, __LINE__)
static inline void check_ranks(int ranks, const dcp_status *status, const dcp_error *err, dcp_status expected,
                               const char *words, int line) {
    char text[1500];
    int r;
    for (r = 0; r < ranks; r++) {
        if (status[r] == expected && (!words || strstr(err[r].message, words))) continue;
        (void)snprintf(text, sizeof text, "rank %d of %d: got %s \"%s\", want %s with \"%s\"", r, ranks,
                       dcp_status_name(status[r]), err[r].message, dcp_status_name(expected), words ? words : "");
        test_fail(__FILE__, line, text, "");
    }
}

#endif
