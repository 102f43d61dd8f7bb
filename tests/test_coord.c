/* test_coord.c - coordinators: the contract, the wrappers, the four collectives, the thread group, and real processes
 * that die or stop.
 *
 * White-box: pieces are small, so that a few kilobytes already travel in many messages. */
#include <stddef.h>
static size_t piece = 1000;
#define DCPI_COORD_PIECE piece
static void *test_malloc(size_t size);
static void *test_realloc(void *memory, size_t size);
static void test_free(void *memory);
#define DCP_MALLOC(size) test_malloc(size)
#define DCP_REALLOC(memory, size) test_realloc(memory, size)
#define DCP_FREE(memory) test_free(memory)
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "within.h"
#include "fault_coordinator.h"
#ifndef _WIN32
#include "process_group.h"
#endif

#define MOST 17
#define MOST_THREADS 200
#define SHORT_MS 1000                   /* the timeout of tests in which one passes; they run side by side */

/* ---- an allocator that fails once -------------------------------------------------------------------------------- */
static volatile int fail_countdown;     /* 1: the next allocation fails; tests that set it have one thread */
static int fail_now(void) { return fail_countdown > 0 && --fail_countdown == 0; }
static void *test_malloc(size_t size) { return fail_now() ? NULL : malloc(size); }
static void *test_realloc(void *memory, size_t size) { return fail_now() ? NULL : realloc(memory, size); }
static void test_free(void *memory) { free(memory); }

/* ---- a thread for each rank of a thread group -------------------------------------------------------------------- */
typedef struct member {
    dcp_coordinator *c;
    void (*run)(struct member *m);
    int n, root, kind, absent;          /* of the test */
    dcp_status status; dcp_error err;   /* of what it called last */
    int wrong;                          /* the first line with something wrong, or 0 */
    int64_t took_ms;
} member;

#define EXPECT(condition) do { if (!(condition) && m->wrong == 0) m->wrong = __LINE__; } while (0)

static void member_main(void *memory) {
    member *m = (member *)memory;
    const int64_t begun = dcpi_os_monotonic_ms();
    m->run(m);
    m->took_ms = dcpi_os_monotonic_ms() - begun;
}
static void run_members(member *members, int n) {
    static dcpi_thread threads[MOST_THREADS];
    int i;
    for (i = 0; i < n; i++) CHECK_INT(dcpi_thread_start(&threads[i], member_main, &members[i]), 0);
    for (i = 0; i < n; i++) dcpi_thread_join(&threads[i]);
}
static void open_members(member *members, int n, void (*run)(member *m)) {
    dcp_coordinator *ranks[MOST];
    dcp_error err;
    int i;
    CHECK_OK_MESSAGE(dcp_thread_group_open(n, ranks, &err), err.message);
    memset(members, 0, (size_t)n * sizeof *members);
    for (i = 0; i < n; i++) {
        members[i].c = ranks[i];
        members[i].n = n;
        members[i].run = run;
        CHECK_INT(ranks[i]->rank, i);
        CHECK_INT(ranks[i]->world_size, n);
        CHECK_INT(ranks[i]->thread_safe, 1);
    }
}
static void close_members(member *members, int n) {
    int i;
    for (i = 0; i < n; i++) dcp_coordinator_close(members[i].c);
}
static void check_members(const member *members, int n) {
    int i;
    for (i = 0; i < n; i++) {
        CHECK_OK_MESSAGE(members[i].status, members[i].err.message);
        CHECK_INT(members[i].wrong, 0);
    }
}

/* ---- the four, for one root; each rank's part has another size, some none ---------------------------------------- */
static size_t part_size(int rank, int n) { return rank % 3 == 1 ? 0 : (size_t)(rank * 997 + n); }
static unsigned char part_byte(int rank, size_t at) { return (unsigned char)((size_t)rank * 31 + at * 7 + 1); }

static void fill_part(unsigned char *data, int rank, size_t size) {
    size_t i;
    for (i = 0; i < size; i++) data[i] = part_byte(rank, i);
}
static int is_part(const unsigned char *data, int rank, size_t size) {
    size_t i;
    for (i = 0; i < size; i++) if (data[i] != part_byte(rank, i)) return 0;
    return 1;
}
/* Not commutative: the ranks' letters, joined in order. Each value is a length and its letters. */
static void join_letters(void *inout, const void *in, size_t size, void *user) {
    char *a = (char *)inout;
    const char *b = (const char *)in;
    const size_t have = strlen(a), more = strlen(b);
    (*(int *)user)++;
    if (have + more < size) memcpy(a + have, b, more + 1);
}
static void sum_doubles(void *inout, const void *in, size_t size, void *user) {
    double *a = (double *)inout;
    const double *b = (const double *)in;
    size_t i;
    (void)user;
    for (i = 0; i < size / sizeof *a; i++) a[i] += b[i];
}
static dcp_status four_gather(member *m) {
    static const unsigned char none = 0;
    const int rank = m->c->rank;
    const size_t size = part_size(rank, m->n);
    unsigned char *data = (unsigned char *)malloc(size + 1);
    void **parts = (void **)(void *)m;           /* not NULL: it must be set on every return */
    size_t *sizes = (size_t *)(void *)m;
    dcp_status status;
    int i;
    fill_part(data, rank, size);
    status = dcp_gather(m->c, size ? data : rank % 2 ? NULL : &none, size, &parts, &sizes, m->root, WITHIN(20000),
                        &m->err);
    free(data);
    if (status || rank != m->root) {
        EXPECT(!parts && !sizes);
        return status;
    }
    for (i = 0; i < m->n; i++) {
        EXPECT(sizes[i] == part_size(i, m->n));
        EXPECT((parts[i] == NULL) == (sizes[i] == 0));
        EXPECT(((uintptr_t)parts[i] & 15) == 0);
        EXPECT(is_part((const unsigned char *)parts[i], i, sizes[i]));
    }
    dcp_free(parts);
    dcp_free(sizes);
    return status;
}
static dcp_status four_broadcast(member *m, size_t size) {
    unsigned char *data = (unsigned char *)calloc(1, size + 1);
    dcp_status status;
    if (m->c->rank == m->root) fill_part(data, 5, size);
    status = dcp_broadcast(m->c, size ? data : NULL, size, m->root, WITHIN(20000), &m->err);
    EXPECT(status || is_part(data, 5, size));
    EXPECT(data[size] == 0);
    free(data);
    return status;
}
static dcp_status four_reduce(member *m) {
    char text[MOST + 1] = {0}, want[MOST + 1] = {0};
    double sum[200];
    int i, calls = 0;
    dcp_status status;
    text[0] = (char)('a' + m->c->rank);
    for (i = 0; i < m->n; i++) want[i] = (char)('a' + i);
    status = dcp_allreduce(m->c, text, sizeof text, join_letters, &calls, WITHIN(20000), &m->err);
    if (status) return status;
    EXPECT(strcmp(text, want) == 0);
    for (i = 0; i < 200; i++) sum[i] = m->c->rank + i;
    status = dcp_allreduce(m->c, sum, sizeof sum, sum_doubles, NULL, WITHIN(20000), &m->err);
    for (i = 0; i < 200; i++) EXPECT(status || sum[i] == (double)(m->n * (m->n - 1) / 2 + m->n * i));
    return status;
}
static void all_four(member *m) {
    for (m->root = 0; m->root < m->n && m->status == DCP_OK; m->root++) {
        m->status = dcp_barrier(m->c, WITHIN(20000), &m->err);
        if (m->status == DCP_OK) m->status = four_gather(m);
        if (m->status == DCP_OK) m->status = four_broadcast(m, (size_t)(m->root * 700));
        if (m->status == DCP_OK) m->status = four_reduce(m);
        EXPECT(m->status || (m->err.status == DCP_OK && m->err.message[0] == '\0'));
    }
}
TEST(trees_are_right_for_all_world_sizes_and_roots) {
    member members[MOST];
    int n;
    for (n = 1; n <= (DCPI_THREADS ? MOST : 1); n++) {
        open_members(members, n, all_four);
        run_members(members, n);
        check_members(members, n);
        CHECK_INT(members[0].c->internal.collectives, n == 1 ? 0 : 5 * n);
        CHECK_OK(dcpi_coord_status(members[0].c));
        close_members(members, n);
    }
}
#if DCPI_THREADS
#define NEED_THREADS()
#else
#define NEED_THREADS() SKIP("a build without threads")
#endif

/* ---- arguments --------------------------------------------------------------------------------------------------- */
TEST(one_rank_or_none_is_trivial) {
    dcp_coordinator *one;
    dcp_error err;
    char data[4] = "abc";
    void **parts;
    size_t *sizes;
    int calls = 0, i;
    CHECK_OK(dcp_thread_group_open(1, &one, &err));
    for (i = 0; i < 2; i++) {
        dcp_coordinator *c = i ? one : NULL;
        CHECK_OK(dcp_barrier(c, NULL, &err));
        CHECK_OK(dcp_broadcast(c, data, 4, 0, WITHIN(10), NULL));
        CHECK_OK(dcp_allreduce(c, data, 4, join_letters, &calls, NULL, &err));
        CHECK_OK(dcp_gather(c, data, 4, &parts, &sizes, 0, NULL, &err));
        CHECK_STR((const char *)parts[0], "abc");
        CHECK_INT(sizes[0], 4);
        dcp_free(parts);
        dcp_free(sizes);
        CHECK_OK(dcp_gather(c, NULL, 0, &parts, &sizes, 0, NULL, &err));
        CHECK(parts[0] == NULL && sizes[0] == 0);
        dcp_free(parts);
        dcp_free(sizes);
    }
    CHECK_INT(calls, 0);
    dcp_coordinator_close(one);
    dcp_coordinator_close(NULL);
}
static dcp_status never_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                             dcp_error *err) {
    (void)to; (void)tag; (void)data; (void)size; (void)timeout_ms; (void)err;
    (*(int *)context)++;
    return DCP_E_IO;
}
static dcp_status never_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                dcp_error *err) {
    (void)from; (void)tag; (void)data; (void)size; (void)timeout_ms; (void)err;
    (*(int *)context)++;
    return DCP_E_IO;
}
TEST(wrong_arguments_are_found_before_anything_is_sent) {
    dcp_coordinator c;
    dcp_error err;
    char data[4];
    void **parts;
    size_t *sizes;
    dcp_coordinator *ranks[1];
    int calls = 0;
    memset(&c, 0, sizeof c);
    c.context = &calls; c.rank = 1; c.world_size = 3; c.send = never_send; c.receive = never_receive;
    CHECK_INT(dcp_barrier(&c, WITHIN(-1), &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "timeout_ms"));
    CHECK_INT(dcp_broadcast(&c, data, 4, 3, NULL, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "root is 3"));
    CHECK_INT(dcp_broadcast(&c, data, 4, -1, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_broadcast(&c, NULL, 4, 0, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_broadcast(NULL, data, 4, 1, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_allreduce(&c, data, 4, NULL, NULL, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_allreduce(&c, NULL, 4, sum_doubles, NULL, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_gather(&c, NULL, 4, &parts, &sizes, 0, NULL, &err), DCP_E_INVALID);
    CHECK(!parts && !sizes);
    CHECK_INT(dcp_gather(&c, data, 4, NULL, NULL, 1, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_gather(NULL, data, 4, NULL, NULL, 0, NULL, &err), DCP_E_INVALID);
    c.rank = 3;
    CHECK_INT(dcp_barrier(&c, NULL, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "rank is 3"));
    c.rank = -1;
    CHECK_INT(dcp_barrier(&c, NULL, &err), DCP_E_INVALID);
    c.rank = 1; c.world_size = 0;
    CHECK_INT(dcp_barrier(&c, NULL, &err), DCP_E_INVALID);
    c.world_size = 3; c.receive = NULL;
    CHECK_INT(dcp_barrier(&c, NULL, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "receive"));
    CHECK_INT(calls, 0);
    CHECK_INT(c.internal.collectives, 0);
    CHECK_INT(dcp_thread_group_open(0, ranks, &err), DCP_E_INVALID);
    CHECK_INT(dcp_thread_group_open(2, NULL, &err), DCP_E_INVALID);
}

/* ---- the wrappers ------------------------------------------------------------------------------------------------ */
typedef struct odd { int calls, from; dcp_status status; size_t size; void *data; } odd;

static dcp_status odd_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                           dcp_error *err) {
    odd *o = (odd *)context;
    (void)to; (void)tag; (void)data; (void)size; (void)timeout_ms; (void)err;
    o->calls++;
    return o->status;
}
static dcp_status odd_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                              dcp_error *err) {
    odd *o = (odd *)context;
    (void)tag; (void)timeout_ms; (void)err;
    o->calls++;
    *from = o->from;
    *data = o->data;
    *size = o->size;
    return o->status;
}
static dcp_coordinator odd_coordinator(odd *o) {
    dcp_coordinator c;
    memset(&c, 0, sizeof c);
    memset(o, 0, sizeof *o);
    c.context = o; c.rank = 1; c.world_size = 8; c.send = odd_send; c.receive = odd_receive;
    return c;
}
TEST(a_failure_breaks_the_coordinator_and_it_is_not_touched_again) {
    static const dcp_status failures[] = { DCP_E_TIMEOUT, DCP_E_COMM, DCP_E_IO, DCP_E_UNSUPPORTED, DCP_PENDING };
    size_t i;
    for (i = 0; i < DCPI_COUNT(failures); i++) {
        odd o;
        dcp_coordinator c = odd_coordinator(&o);
        dcp_error err;
        void *data = &o;
        size_t size = 1;
        int from = 5;
        dcp_status want = failures[i] == DCP_PENDING ? DCP_E_TIMEOUT : failures[i];
        o.status = failures[i];
        CHECK_INT(dcpi_coord_send(&c, 6, 0x77, "x", 1, 10, &err), want);
        CHECK(err.status == want && err.rank == 6);
        CHECK(strstr(err.message, "rank 1 could not send to rank 6 (tag 0x77)"));
        CHECK_INT(dcpi_coord_status(&c), want);
        CHECK_INT(o.calls, 1);
        o.status = DCP_OK;
        CHECK_INT(dcpi_coord_send(&c, 6, 0x77, "x", 1, 10, &err), want);
        CHECK(strstr(err.message, "broke earlier") && strstr(err.message, "open a new one"));
        CHECK_INT(dcpi_coord_receive(&c, &from, 0x77, &data, &size, 10, &err), want);
        CHECK(data == NULL && size == 0);
        CHECK_INT(dcp_barrier(&c, NULL, &err), want);
        CHECK_INT(o.calls, 1);
        CHECK(dcp_coordinator_is_broken(&c));
        dcp_coordinator_close(&c);                      /* the struct is ours */
    }
}
TEST(want_of_memory_and_wrong_arguments_do_not_break_it) {
    odd o;
    dcp_coordinator c = odd_coordinator(&o);
    dcp_error err;
    o.status = DCP_E_MEMORY;
    CHECK_INT(dcpi_coord_send(&c, 6, 1, "x", 1, 10, &err), DCP_E_MEMORY);
    o.status = DCP_E_INVALID;
    CHECK_INT(dcpi_coord_send(&c, 6, 1, "x", 1, 10, NULL), DCP_E_INVALID);
    o.status = DCP_OK;
    CHECK_OK(dcpi_coord_send(&c, 6, 1, "x", 1, -5, &err));
    CHECK_INT(o.calls, 3);
    CHECK_INT(dcpi_coord_send(&c, 1, 1, "x", 1, 10, &err), DCP_E_INVALID);      /* to itself */
    CHECK_INT(dcpi_coord_send(&c, 8, 1, "x", 1, 10, &err), DCP_E_INVALID);
    CHECK_INT(dcpi_coord_send(&c, 6, 1 << 28, "x", 1, 10, &err), DCP_E_INVALID);
    CHECK_INT(dcpi_coord_send(&c, 6, -1, "x", 1, 10, &err), DCP_E_INVALID);
    CHECK_INT(o.calls, 3);
    CHECK_OK(dcpi_coord_status(&c));
}
TEST(nothing_there_is_no_error_and_a_receive_against_its_contract_is_one) {
    odd o;
    dcp_coordinator c = odd_coordinator(&o);
    dcp_error err;
    void *data = &o;
    size_t size = 9;
    int from = 4;
    o.status = DCP_PENDING; o.data = &err; o.size = 3; o.from = 2;
    CHECK_INT(dcpi_coord_receive(&c, &from, 1, &data, &size, 0, &err), DCP_PENDING);
    CHECK(data == NULL && size == 0 && from == 4 && err.message[0] == '\0');
    CHECK_OK(dcpi_coord_status(&c));
    o.status = DCP_OK; o.data = NULL; o.size = 0; o.from = 4;
    CHECK_OK(dcpi_coord_receive(&c, &from, 1, &data, &size, 0, &err));
    o.from = 3;                                             /* not who was asked for */
    CHECK_INT(dcpi_coord_receive(&c, &from, 1, &data, &size, 0, &err), DCP_E_COMM);
    CHECK(from == 4 && strstr(err.message, "against its contract"));
    dcp_coordinator_close(&c);
    c = odd_coordinator(&o);
    o.from = 2; o.size = 7;                                 /* bytes at NULL */
    from = DCP_ANY_RANK;
    CHECK_INT(dcpi_coord_receive(&c, &from, 1, &data, &size, 0, &err), DCP_E_COMM);
    CHECK_INT(from, DCP_ANY_RANK);
    CHECK_INT(size, 0);
    dcp_coordinator_close(&c);
    c = odd_coordinator(&o);
    o.from = 8;                                             /* no rank at all */
    CHECK_INT(dcpi_coord_receive(&c, &from, 1, &data, &size, 0, &err), DCP_E_COMM);
    dcp_coordinator_close(&c);
}

/* ---- a rank that does not come ----------------------------------------------------------------------------------- */
enum { CALL_BARRIER, CALL_BROADCAST, CALL_GATHER, CALL_REDUCE, CALL_KINDS };

static dcp_status call_kind(member *m, int kind, const dcp_io *io) {
    char text[MOST + 1] = "x";
    void **parts;
    size_t *sizes;
    int calls = 0;
    dcp_status status;
    if (kind == CALL_BARRIER) return dcp_barrier(m->c, io, &m->err);
    if (kind == CALL_BROADCAST) return dcp_broadcast(m->c, text, sizeof text, m->root, io, &m->err);
    if (kind == CALL_REDUCE) return dcp_allreduce(m->c, text, sizeof text, join_letters, &calls, io, &m->err);
    status = dcp_gather(m->c, text, 1, &parts, &sizes, m->root, io, &m->err);
    dcp_free(parts);
    dcp_free(sizes);
    return status;
}
static void call_once(member *m) {
    if (m->c->rank != m->absent) m->status = call_kind(m, m->kind, WITHIN(SHORT_MS));
}
static int is_parent(int parent, int child, int root, int n) {
    const int place = (child - root + n) % n;
    return place && parent == ((place & (place - 1)) + root) % n;
}
/* All living ranks must have ended in time; who waited for the absent one itself, and all whom the news can reach, name
 * it. */
static void check_absence(const member *m, int n, int absent, int kind, int root) {
    int i, named = 0;
    for (i = 0; i < n; i++) {
        char name[20];
        (void)snprintf(name, sizeof name, "rank %d", absent);
        if (i == absent) continue;
        CHECK(m[i].took_ms <= SHORT_MS * 12 / 10 + 100);    /* 100 ms for a machine that is busy */
        if (m[i].status == DCP_OK)
            CHECK(kind == CALL_GATHER || (kind == CALL_BROADCAST && !is_parent(absent, i, root, n)));
        if (m[i].status == DCP_OK) continue;
        CHECK_INT(m[i].status, DCP_E_TIMEOUT);
        CHECK(m[i].took_ms >= SHORT_MS / 2);              /* or a rank that began earlier has told it */
        CHECK_INT(dcpi_coord_status(m[i].c), DCP_E_TIMEOUT);
        CHECK_INT(m[i].err.status, DCP_E_TIMEOUT);
        if (m[i].err.rank == absent) CHECK(strstr(m[i].err.message, name));
        named += m[i].err.rank == absent;
        if (is_parent(i, absent, root, n)) CHECK_INT(m[i].err.rank, absent);
        if (kind == CALL_BARRIER || kind == CALL_REDUCE) CHECK_INT(m[i].err.rank, absent);
    }
    CHECK(named > 0 || (kind == CALL_GATHER && absent == root));          /* then all have sent what they had to send */
}
TEST(a_missing_rank_is_named_in_time) {
    enum { N = 7 };
    static member members[CALL_KINDS][N][N], all[CALL_KINDS * N * N];
    int kind, absent, i, count = 0;
    NEED_THREADS();
    for (kind = 0; kind < CALL_KINDS; kind++)
        for (absent = 0; absent < N; absent++) {
            open_members(members[kind][absent], N, call_once);
            for (i = 0; i < N; i++) {
                members[kind][absent][i].kind = kind;
                members[kind][absent][i].absent = absent;
                members[kind][absent][i].root = kind == CALL_BROADCAST ? 2 : 0;
                all[count++] = members[kind][absent][i];
            }
        }
    run_members(all, count);
    for (i = 0; i < count; i += N) check_absence(all + i, N, all[i].absent, all[i].kind, all[i].root);
    for (i = 0; i < count; i++) if (i % N != all[i].absent && all[i].status == DCP_E_TIMEOUT) {
        const int64_t begun = dcpi_os_monotonic_ms();
        CHECK_INT(call_kind(&all[i], CALL_BARRIER, WITHIN(60000)), DCP_E_TIMEOUT);
        CHECK(strstr(all[i].err.message, "broke earlier"));
        CHECK(dcpi_os_monotonic_ms() - begun < 1000);
    }
    close_members(all, count);
}
TEST(the_message_lists_all_that_are_missing) {
    member members[12];
    int i;
    NEED_THREADS();
    open_members(members, 12, call_once);
    for (i = 0; i < 12; i++) {
        members[i].kind = CALL_BARRIER;
        members[i].absent = i == 2 || i == 8 || i == 4 ? i : -1;
    }
    run_members(members, 12);
    for (i = 0; i < 12; i++) if (members[i].absent != i) CHECK_INT(members[i].status, DCP_E_TIMEOUT);
    for (i = 0; i < 12; i++) {
        if (members[i].absent == i) continue;
        CHECK_STR(members[i].err.message,
                  "dcp_barrier: rank 0 has waited 1025 ms for ranks 2, 4 and 8: does it run, and make the same "
                  "call? The coordinator is broken now: close it and open a new one, on all ranks");
        CHECK_INT(members[i].err.rank, 2);
    }
    close_members(members, 12);
}
/* Rank 2 gives up, by itself or asked from outside, while rank 5 has not called. Who needs nothing of rank 2 any more
 * finds out in its next call. */
enum { GIVES_UP_BY_CANCEL, GIVES_UP_BY_DEADLINE, GIVES_UP_BEFORE, GIVES_UP_WAYS };
static dcp_cancel cancels[GIVES_UP_WAYS * CALL_KINDS];
static void call_and_give_up(member *m) {
    dcp_io io = DCP_ZERO;
    io.timeout_ms = 60000;
    if (m->c->rank == 2 && m->absent == GIVES_UP_BY_DEADLINE) io.deadline_ms = 200;
    else if (m->c->rank == 2) io.cancel = &cancels[m->absent * CALL_KINDS + m->kind];
    if (m->c->rank == 5) dcpi_os_sleep_ms(400);
    m->status = call_kind(m, m->kind, &io);
    if (!m->status && m->absent != GIVES_UP_BEFORE && m->c->rank != 2) m->status = call_kind(m, m->kind, &io);
}
static void request_cancels(void *unused) {
    int i;
    (void)unused;
    dcpi_os_sleep_ms(200);
    for (i = 0; i < CALL_KINDS; i++) dcp_cancel_request(&cancels[GIVES_UP_BY_CANCEL * CALL_KINDS + i]);
}
TEST(a_cancel_or_a_deadline_of_one_rank_ends_a_collective) {
    enum { N = 6 };
    static member group[N], all[GIVES_UP_WAYS * CALL_KINDS * N];
    dcpi_thread outside;
    int way, kind, i, count = 0;
    NEED_THREADS();
    for (way = 0; way < GIVES_UP_WAYS; way++)
        for (kind = 0; kind < CALL_KINDS; kind++) {
            if (way == GIVES_UP_BEFORE) dcp_cancel_request(&cancels[way * CALL_KINDS + kind]);
            open_members(group, N, call_and_give_up);
            for (i = 0; i < N; i++) {
                group[i].kind = kind;
                group[i].absent = way;
                all[count++] = group[i];
            }
        }
    CHECK_INT(dcpi_thread_start(&outside, request_cancels, NULL), 0);
    run_members(all, count);
    dcpi_thread_join(&outside);
    for (i = 0; i < count; i++) {
        const int by_deadline = all[i].absent == GIVES_UP_BY_DEADLINE;
        CHECK(all[i].took_ms < 10000);
        CHECK_INT(all[i].status, by_deadline ? DCP_E_TIMEOUT : DCP_E_CANCELLED);
        CHECK_INT(all[i].err.rank, 2);
        CHECK(strstr(all[i].err.message, by_deadline ? "rank 2: the deadline of 200 ms" : "rank 2: cancelled"));
        CHECK_INT(dcpi_coord_status(all[i].c), all[i].status);
    }
    close_members(all, count);
}
/* Rank 2, between them, is late but there: it waits for rank 3 for less than rank 0 waits for it. */
static void call_between(member *m) {
    if (m->c->rank == 2) dcpi_os_sleep_ms(SHORT_MS * 6 / 10);
    call_once(m);
}
TEST(ranks_1_and_3_are_missing_and_nobody_else) {
    static const int sizes[] = { 4, 6, 8, 12 };
    size_t k;
    NEED_THREADS();
    for (k = 0; k < 2 * DCPI_COUNT(sizes); k++) {
        const int n = sizes[k / 2];
        member members[12];
        int i;
        open_members(members, n, k % 2 ? call_between : call_once);
        for (i = 0; i < n; i++) {
            members[i].kind = CALL_BARRIER;
            members[i].absent = i == 1 || i == 3 ? i : -1;
        }
        run_members(members, n);
        for (i = 0; i < n; i++) {
            if (i == 1 || i == 3) continue;
            CHECK_INT(members[i].status, DCP_E_TIMEOUT);
            CHECK_INT(members[i].err.rank, 1);
            CHECK(strstr(members[i].err.message, "rank 0 has waited") &&
                  strstr(members[i].err.message, "for ranks 1 and 3:"));
        }
        close_members(members, n);
    }
}

/* Who waits for long tells rank 0 that it is here. If the call succeeds after all, that is in nobody's way. */
static void call_late(member *m) {
    int i;
    if (m->c->rank == m->absent) dcpi_os_sleep_ms(SHORT_MS * 7 / 10);
    m->status = call_kind(m, m->kind, WITHIN(SHORT_MS));
    for (i = 0; i < 2 * CALL_KINDS && m->status == DCP_OK; i++)
        m->status = call_kind(m, i % CALL_KINDS, WITHIN(20000));
}
TEST(a_rank_that_is_late_but_comes_is_in_no_later_calls_way) {
    enum { N = 6 };
    static member members[CALL_KINDS][N][N], all[CALL_KINDS * N * N];
    int kind, late, i, count = 0;
    NEED_THREADS();
    for (kind = 0; kind < CALL_KINDS; kind++)
        for (late = 0; late < N; late++) {
            open_members(members[kind][late], N, call_late);
            for (i = 0; i < N; i++) {
                members[kind][late][i].kind = kind;
                members[kind][late][i].absent = late;
                members[kind][late][i].root = kind == CALL_BROADCAST ? 3 : kind == CALL_GATHER ? 1 : 0;
                all[count++] = members[kind][late][i];
            }
        }
    run_members(all, count);
    for (i = 0; i < count; i++) {
        int from = DCP_ANY_RANK;
        void *data;
        size_t size;
        CHECK_OK_MESSAGE(all[i].status, all[i].err.message);
        if (i % N == 0) CHECK_INT(dcpi_coord_receive(all[i].c, &from, DCPI_TAG_HERE, &data, &size, 0, NULL),
                                  DCP_PENDING);
    }
    close_members(all, count);
}

/* ---- ranks that make different calls ----------------------------------------------------------------------------- */
static void call_other(member *m) {
    const int odd_one = m->c->rank == m->absent;
    char text[8] = "x";
    m->status = dcp_barrier(m->c, WITHIN(20000), &m->err);
    if (m->status) return;
    switch (m->kind) {
    case 0:
        m->status = odd_one ? dcp_broadcast(m->c, text, 8, 0, WITHIN(3000), &m->err)
                            : dcp_barrier(m->c, WITHIN(3000), &m->err);
        break;
    case 1: m->status = dcp_broadcast(m->c, text, odd_one ? 7 : 8, 0, WITHIN(3000), &m->err); break;
    case 2: m->status = call_kind(m, odd_one ? CALL_GATHER : CALL_REDUCE, WITHIN(3000)); break;
    case 3:
        if (odd_one) m->c->internal.collectives++;                   /* as if it had made a call of its own */
        m->status = dcp_barrier(m->c, WITHIN(3000), &m->err);
        break;
    case 4: m->status = dcp_broadcast(m->c, text, 8, odd_one ? 1 : 0, WITHIN(3000), &m->err); break;
    case 5:
        m->status = odd_one ? dcp_broadcast(m->c, text, 8, 1, WITHIN(3000), &m->err)
                            : dcp_barrier(m->c, WITHIN(3000), &m->err);
        break;
    case 6: {                                               /* each another one */
        void **parts;
        size_t *sizes;
        m->status = dcp_gather(m->c, text, 8, &parts, &sizes, m->c->rank, WITHIN(3000), &m->err);
        dcp_free(parts);
        dcp_free(sizes);
        break;
    }
    case 7: m->status = dcp_broadcast(m->c, text, 8, odd_one ? 5 : 3, WITHIN(3000), &m->err); break;
    default:                                                /* one rank counts others */
        if (odd_one) m->c->world_size = 5;
        m->status = dcp_barrier(m->c, WITHIN(3000), &m->err);
        m->c->world_size = 6;
        break;
    }
}
TEST(different_calls_are_a_mismatch_that_names_both) {
    static const char *const words[9][2] = { { "dcp_barrier", "dcp_broadcast" }, { "8 bytes", "7 bytes" },
                                            { "dcp_gather", "dcp_allreduce" },
                                             { "call 1)", "call 2)" }, { "root 0", "root 1" },
                                                 { "dcp_barrier (root 0", "dcp_broadcast (root 1" },
                                             { "root ", "dcp_gather" }, { "root 3", "root " },
                                                 { "world sizes are", "5" } };
    member members[6];
    int kind, i, mismatches;
    NEED_THREADS();
    for (kind = 0; kind < 9; kind++) {
        open_members(members, 6, call_other);
        for (i = 0; i < 6; i++) {
            members[i].kind = kind;
            members[i].absent = kind == 4 || kind == 7 ? 0 : kind == 8 ? 2 : 5;
        }
        run_members(members, 6);
        for (i = mismatches = 0; i < 6; i++) {
            if (members[i].status != DCP_E_MISMATCH) continue;
            mismatches++;
            CHECK(strstr(members[i].err.message, words[kind][0]) && strstr(members[i].err.message, words[kind][1]));
            CHECK_INT(dcpi_coord_status(members[i].c), DCP_E_MISMATCH);
            CHECK(members[i].took_ms < 2000);
        }
        for (i = 0; i < 6; i++) if (members[i].status != DCP_E_MISMATCH) CHECK_STR(members[i].err.message, "");
        CHECK_INT(mismatches, 6);
        close_members(members, 6);
    }
}
TEST(another_version_is_found) {
    static const int tags[] = { DCPI_TAG_COLLECTIVE, DCPI_TAG_OPERATION };
    size_t i;
    NEED_THREADS();
    for (i = 0; i < 2; i++) {
        dcp_coordinator *ranks[2];
        dcp_error err;
        dcp_save_desc save = DCP_ZERO;
        uint8_t message[DCPI_MESSAGE_HEADER];
        dcpi_head head;
        CHECK_OK(dcp_thread_group_open(2, ranks, &err));
        head = dcpi_head_of(ranks[1], i ? "save" : "dcp_barrier", i ? -1 : 0);
        head.number = i ? 1 : 0;
        dcpi_head_put(&head, DCPI_MESSAGE_BYTES, message);
        message[3]++;                                       /* the last digit of the version */
        CHECK_OK(dcpi_coord_send(ranks[1], 0, tags[i], message, sizeof message, 0, &err));
        save.path = "nowhere/x";
        save.io.coordinator = ranks[0];
        CHECK_INT(i ? dcp_save(&save, &err) : dcp_barrier(ranks[0], WITHIN(1000), &err), DCP_E_MISMATCH);
        CHECK(strstr(err.message, "rank 1 runs another version of dcp.h") && err.rank == 1);
        dcp_coordinator_close(ranks[0]);
        dcp_coordinator_close(ranks[1]);
    }
}
/* Rank 0 may still be reading what the rank has sent. */
TEST(a_failure_leaves_what_a_rank_has_sent) {
    dcp_coordinator *ranks[2];
    dcpi_op op[2];
    dcpi_buffer part;
    dcp_error err;
    const dcpi_peer *peer;
    int r;
    NEED_THREADS();
    CHECK_OK(dcp_thread_group_open(2, ranks, &err));
    for (r = 0; r < 2; r++) {
        dcp_io io = DCP_ZERO;
        io.coordinator = ranks[r];
        CHECK_OK(dcpi_op_begin(&op[r], &io, &err));
        CHECK_OK(dcpi_team_begin(&op[r], "save", &err));
    }
    memset(&part, 0, sizeof part);
    dcpi_message_start(&part);
    dcpi_put_text(&part, "what it has");
    CHECK_OK(dcpi_team_up(&op[1], DCP_OK, &part, &err));
    (void)dcpi_fail_of(&err, 1, DCP_E_IO, "a full disk");
    dcpi_team_send_error(&op[1], 0, DCPI_MESSAGE_FAILED, &err, 0);
    dcpi_team_read_mail(&op[0]);
    peer = &op[0].team.peers[1];
    CHECK(peer->size == part.size && memcmp(peer->message, part.data, part.size) == 0);
    CHECK_INT(dcpi_team_lowest(&op[0].team, &err), DCP_E_IO);
    CHECK_STR(err.message, "rank 1: a full disk");
    dcpi_buffer_free(&part);
    for (r = 0; r < 2; r++) {
        dcpi_team_end(&op[r]);
        dcp_coordinator_close(ranks[r]);
    }
}
TEST(a_stranger_on_the_tag_is_found) {
    dcp_coordinator *ranks[2];
    dcp_error err;
    NEED_THREADS();
    CHECK_OK(dcp_thread_group_open(2, ranks, &err));
    CHECK_OK(dcpi_coord_send(ranks[1], 0, DCPI_TAG_COLLECTIVE, "what is this?", 13, 0, &err));
    CHECK_INT(dcp_barrier(ranks[0], WITHIN(1000), &err), DCP_E_COMM);
    CHECK(strstr(err.message, "13 bytes from rank 1") && err.rank == 1);
    CHECK_INT(dcp_barrier(ranks[1], WITHIN(1000), &err), DCP_E_COMM);   /* it has been told */
    dcp_coordinator_close(ranks[0]);
    dcp_coordinator_close(ranks[1]);
}

/* ---- the thread group -------------------------------------------------------------------------------------------- */
static void put_number(dcp_coordinator *c, int to, int tag, int number) {
    dcp_error err;
    CHECK_OK_MESSAGE(dcpi_coord_send(c, to, tag, &number, sizeof number, 0, &err), err.message);
}
static int get_number(dcp_coordinator *c, int *from, int tag) {     /* -1: nothing there */
    void *data;
    size_t size;
    int number;
    dcp_error err;
    dcp_status status = dcpi_coord_receive(c, from, tag, &data, &size, 0, &err);
    if (status == DCP_PENDING) return -1;
    CHECK_OK_MESSAGE(status, err.message);
    CHECK_INT(size, sizeof number);
    memcpy(&number, data, sizeof number);
    dcp_free(data);
    return number;
}
TEST(messages_keep_their_order_by_sender_and_tag) {
    dcp_coordinator *ranks[3];
    dcp_error err;
    int i, from, next[3] = { 0, 0, 0 };
    NEED_THREADS();
    CHECK_OK(dcp_thread_group_open(3, ranks, &err));
    for (i = 0; i < 300; i++) put_number(ranks[1 + i % 2], 0, 7 + i % 3, i);
    for (from = DCP_ANY_RANK; (i = get_number(ranks[0], &from, 8)) >= 0; from = DCP_ANY_RANK) {
        CHECK_INT(i, 1 + 3 * next[0]);                      /* from anybody: as they came */
        CHECK_INT(from, 1 + i % 2);
        next[0]++;
    }
    CHECK_INT(next[0], 100);
    for (from = 2; (i = get_number(ranks[0], &from, 7)) >= 0; next[1]++) CHECK_INT(i, 3 + 6 * next[1]);
    CHECK_INT(next[1], 50);
    from = DCP_ANY_RANK;
    CHECK_INT(get_number(ranks[0], &from, 7), 0);           /* the other sender's are still there */
    CHECK_INT(from, 1);
    from = 1;
    CHECK_INT(get_number(ranks[0], &from, 10), -1);
    for (i = 0; i < 3; i++) dcp_coordinator_close(ranks[i]);    /* frees what nobody took */
}
TEST(ten_thousand_queued_messages_are_fast) {
    enum { COUNT = 10000 };
    dcp_coordinator *ranks[2];
    dcp_error err;
    int i, from = 1;
    const int64_t begun = dcpi_os_monotonic_ms();
    NEED_THREADS();
    CHECK_OK(dcp_thread_group_open(2, ranks, &err));
    for (i = 0; i < COUNT; i++) put_number(ranks[1], 0, i, i);      /* each with a tag of its own, taken from the end */
    for (i = COUNT - 1; i >= 0; i--) CHECK_INT(get_number(ranks[0], &from, i), i);
    for (i = 0; i < COUNT; i++) put_number(ranks[1], 0, i == COUNT - 1, i); /* one behind all others */
    CHECK_INT(get_number(ranks[0], &from, 1), COUNT - 1);
    for (i = 0; i < COUNT - 1; i++) CHECK_INT(get_number(ranks[0], &from, 0), i);
    CHECK_INT(get_number(ranks[0], &from, 0), -1);
    dcp_coordinator_close(ranks[0]);
    dcp_coordinator_close(ranks[1]);
    CHECK(dcpi_os_monotonic_ms() - begun < 1000);
}
TEST(a_closed_rank_is_named_after_its_last_message) {
    dcp_coordinator *ranks[4];
    dcp_error err;
    void *data;
    size_t size;
    int from = 2, i;
    NEED_THREADS();
    CHECK_OK(dcp_thread_group_open(4, ranks, &err));
    put_number(ranks[2], 0, 5, 42);
    dcp_coordinator_close(ranks[2]);
    CHECK_INT(get_number(ranks[0], &from, 5), 42);
    from = DCP_ANY_RANK;
    CHECK_INT(get_number(ranks[0], &from, 5), -1);          /* others may still send */
    from = 2;
    CHECK_INT(dcpi_coord_receive(ranks[0], &from, 5, &data, &size, 60000, &err), DCP_E_COMM);
    CHECK(strstr(err.message, "rank 2 of the thread group has been closed") && err.rank == 2);
    CHECK_INT(dcpi_coord_send(ranks[1], 2, 5, "x", 1, 60000, &err), DCP_E_COMM);
    CHECK(strstr(err.message, "rank 2 of the thread group has been closed") && err.rank == 2);
    dcp_coordinator_close(ranks[0]);
    dcp_coordinator_close(ranks[1]);
    from = DCP_ANY_RANK;
    CHECK_INT(dcpi_coord_receive(ranks[3], &from, 5, &data, &size, 60000, &err), DCP_E_COMM);
    CHECK(strstr(err.message, "all other ranks"));
    dcp_coordinator_close(ranks[3]);
    for (i = 0; i < 24; i++) {                              /* every order of closing four */
        int left[4] = { 0, 1, 2, 3 }, count = 4, code = i;
        CHECK_OK(dcp_thread_group_open(4, ranks, &err));
        put_number(ranks[i % 4], (i + 1) % 4, 0, i);
        for (; count > 0; count--) {
            const int pick = code % count;
            code /= count;
            dcp_coordinator_close(ranks[left[pick]]);
            left[pick] = left[count - 1];
        }
    }
}
/* The one that waits longest sees the others close: while it waits, not only before. */
static void close_or_wait(member *m) {
    void *data;
    size_t size;
    int from = m->kind;
    if (m->c->rank == 0) m->status = dcpi_coord_receive(m->c, &from, 1, &data, &size, 20000, &m->err);
    else {
        dcpi_os_sleep_ms(50 * m->c->rank);
        dcp_coordinator_close(m->c);
        m->c = NULL;
    }
}
TEST(a_rank_that_closes_wakes_who_waits_for_it) {
    member members[3];
    int round;
    NEED_THREADS();
    for (round = 0; round < 2; round++) {
        open_members(members, 3, close_or_wait);
        members[0].kind = round == 0 ? 1 : DCP_ANY_RANK;
        run_members(members, 3);
        CHECK_INT(members[0].status, DCP_E_COMM);
        CHECK(members[0].took_ms < 2000);
        CHECK(members[0].took_ms >= (round == 0 ? 40 : 90));
        close_members(members, 3);
    }
}
/* Four threads on each of two ranks, each pair with a tag of its own. */
static void ping_pong(member *m) {
    int i, from = 1 - m->c->rank;
    for (i = 0; i < 300 && m->status == DCP_OK; i++) {
        void *data;
        size_t size;
        if (m->c->rank == i % 2) {
            m->status = dcpi_coord_send(m->c, from, m->kind, &i, sizeof i, 1000, &m->err);
            continue;
        }
        m->status = dcpi_coord_receive(m->c, &from, m->kind, &data, &size, 20000, &m->err);
        EXPECT(m->status || memcmp(data, &i, sizeof i) == 0);
        dcp_free(data);
    }
}
TEST(several_threads_may_use_one_rank) {
    member pair[2], members[8];
    int i;
    NEED_THREADS();
    open_members(pair, 2, ping_pong);
    for (i = 0; i < 8; i++) {
        members[i] = pair[i % 2];
        members[i].kind = i / 2;
    }
    run_members(members, 8);
    check_members(members, 8);
    close_members(pair, 2);
}
static void late_sender(member *m) {
    void *data;
    size_t size;
    int from = 1;
    if (m->c->rank == 1) {                              /* when it is asked, and then late */
        from = 0;
        m->status = dcpi_coord_receive(m->c, &from, 4, &data, &size, 20000, &m->err);
        if (m->status == DCP_OK) dcp_free(data);
        dcpi_os_sleep_ms(60);
        if (m->status == DCP_OK) m->status = dcpi_coord_send(m->c, 0, 3, "late", 4, 0, &m->err);
        return;
    }
    EXPECT(dcpi_coord_receive(m->c, &from, 3, &data, &size, 0, &m->err) == DCP_PENDING);
    EXPECT(dcpi_coord_receive(m->c, &from, 3, &data, &size, 10, &m->err) == DCP_PENDING);
    m->status = dcpi_coord_send(m->c, 1, 4, "go", 2, 0, &m->err);
    if (m->status == DCP_OK) m->status = dcpi_coord_receive(m->c, &from, 3, &data, &size, 20000, &m->err);
    EXPECT(m->status || (size == 4 && memcmp(data, "late", 4) == 0));
    dcp_free(data);
}
TEST(a_receive_waits_as_long_as_it_may_and_no_longer) {
    member members[2];
    NEED_THREADS();
    open_members(members, 2, late_sender);
    run_members(members, 2);
    check_members(members, 2);
    CHECK(members[0].took_ms >= 40 && members[0].took_ms < 15000);
    close_members(members, 2);
}

/* ---- want of memory, big messages -------------------------------------------------------------------------------- */
static dcp_status open_send_receive(dcp_error *err) {       /* all that one thread can do with a group of two */
    dcp_coordinator *ranks[2] = { NULL, NULL };
    void *data = NULL;
    size_t size;
    int from = 0;
    dcp_status status = dcp_thread_group_open(2, ranks, err);
    if (status) { CHECK(!ranks[0] && !ranks[1]); return status; }
    status = dcpi_coord_send(ranks[0], 1, 9, "twelve bytes", 12, 0, err);
    if (status == DCP_OK) status = dcpi_coord_receive(ranks[1], &from, 9, &data, &size, 0, err);
    else CHECK_INT(dcpi_coord_receive(ranks[1], &from, 9, &data, &size, 0, NULL), DCP_PENDING);
    dcp_free(data);
    dcp_coordinator_close(ranks[0]);
    dcp_coordinator_close(ranks[1]);
    return status;
}
TEST(each_allocation_may_fail) {
    dcp_error err;
    int n, failures = 0;
    NEED_THREADS();
    for (n = 1; n < 100; n++) {
        dcp_status status;
        fail_countdown = n;
        status = open_send_receive(&err);
        if (fail_countdown > 0) break;                      /* it did with fewer */
        CHECK_INT(status, DCP_E_MEMORY);
        CHECK_INT(err.status, DCP_E_MEMORY);
        failures++;
    }
    fail_countdown = 0;
    CHECK(failures >= 10 && n < 100);
}
static void big_gather(member *m) {                         /* the middle rank of three has the most; 1 is the root */
    const size_t size = m->c->rank == 2 ? (size_t)37 << 20 : 1000;
    unsigned char *data = (unsigned char *)calloc(1, size);
    void **parts;
    size_t *sizes;
    data[size - 1] = (unsigned char)(m->c->rank + 1);
    m->status = dcp_gather(m->c, data, size, &parts, &sizes, 1, WITHIN(60000), &m->err);
    if (m->status == DCP_OK && m->c->rank == 1) {
        EXPECT(sizes[2] == size || sizes[2] == (size_t)37 << 20);
        EXPECT(((unsigned char *)parts[2])[sizes[2] - 1] == 3 && ((unsigned char *)parts[0])[999] == 1);
    }
    dcp_free(parts);
    dcp_free(sizes);
    if (m->status == DCP_OK) m->status = dcp_broadcast(m->c, data, 1000, 2, WITHIN(60000), &m->err);
    free(data);
}
TEST(many_pieces_arrive) {
    member members[3];
    NEED_THREADS();
    piece = DCPI_MIB;
    open_members(members, 3, big_gather);
    run_members(members, 3);
    piece = 1000;
    check_members(members, 3);
    close_members(members, 3);
}

static void broadcast_bytes(member *m) {
    const size_t size = ((size_t)1 << 31) + 77;
    unsigned char *data = (unsigned char *)calloc(1, size);
    if (!data) { m->status = DCP_E_MEMORY; return; }
    if (m->c->rank == 0) data[size - 1] = 9;
    m->status = dcp_broadcast(m->c, data, size, 0, WITHIN(100000), &m->err);
    EXPECT(data[size - 1] == 9 && data[0] == 0);
    free(data);
}
/* More than 2^31 bytes: in one message, and as a broadcast. Takes up to 5 GiB, so only where that is asked for. */
TEST(more_than_two_gib) {
    const size_t size = ((size_t)1 << 31) + 5;
    member members[2];
    dcp_error err;
    void *data, *got;
    size_t bytes;
    int from = 0;
    NEED_THREADS();
    if (!getenv("DCP_TEST_LARGE")) SKIP("needs 5 GiB of memory: DCP_TEST_LARGE=1 runs it");
    open_members(members, 2, broadcast_bytes);
    data = calloc(1, size);
    CHECK(data != NULL);
    ((char *)data)[size - 1] = 3;
    CHECK_OK_MESSAGE(dcpi_coord_send(members[0].c, 1, 4, data, size, 0, &err), err.message);
    free(data);
    CHECK_OK_MESSAGE(dcpi_coord_receive(members[1].c, &from, 4, &got, &bytes, 0, &err), err.message);
    CHECK(bytes == size && ((char *)got)[size - 1] == 3);
    dcp_free(got);
    piece = DCPI_MIB;
    run_members(members, 2);
    piece = 1000;
    check_members(members, 2);
    close_members(members, 2);
}

/* ---- faults by a seeded schedule --------------------------------------------------------------------------------- */
typedef struct fault_run { member members[5]; fault_plan plans[5]; } fault_run;

static void faulty_rank(member *m) {
    for (m->root = 0; m->root < m->n && m->status == DCP_OK; m->root++) {
        int kind;
        for (kind = 0; kind < CALL_KINDS && m->status == DCP_OK; kind++)
            m->status = call_kind(m, kind, WITHIN(m->kind));
    }
    EXPECT(m->status == dcpi_coord_status(m->c));
    EXPECT(m->status == m->err.status);
    EXPECT((m->status == DCP_OK) == (m->err.message[0] == '\0'));
    EXPECT(m->status == DCP_OK || dcp_barrier(m->c, WITHIN(20000), NULL) == m->status);
}
static void open_faulty(fault_run *run, int n, uint64_t seed, int timeout_ms) {
    int i;
    open_members(run->members, n, faulty_rank);
    memset(run->plans, 0, sizeof run->plans);
    for (i = 0; i < n; i++) {
        run->members[i].kind = timeout_ms;
        run->plans[i].seed = seed;
        run->plans[i].delay_percent = 20;
        run->plans[i].delay_ms = 3;
        run->members[i].c = fault_wrap(run->members[i].c, &run->plans[i]);
    }
}
TEST(delays_change_nothing) {
    fault_run run;
    NEED_THREADS();
    open_faulty(&run, 5, test_random(), 20000);
    run_members(run.members, 5);
    check_members(run.members, 5);
    CHECK(run.plans[0].delayed > 0);
    close_members(run.members, 5);
}
/* 40 groups at once, each with one thing that goes wrong somewhere: nobody hangs, nobody goes on, nothing is touched
 * afterwards. */
TEST(seeded_faults_end_in_time) {
    enum { RUNS = 38, N = 5, TIMEOUT = 700 };
    static fault_run runs[RUNS];
    static member all[RUNS * N];
    int i, k, failures;
    NEED_THREADS();
    for (i = 0; i < RUNS; i++) {
        const size_t who = test_random_below(N);
        open_faulty(&runs[i], N, test_random(), TIMEOUT);
        if (i % 2) runs[i].plans[who].drop_at = 1 + (int)test_random_below(20);
        else runs[i].plans[who].fail_at = 1 + (int)test_random_below(40);
        for (k = 0; k < N; k++) all[i * N + k] = runs[i].members[k];
    }
    run_members(all, RUNS * N);
    for (i = 0; i < RUNS; i++) {
        for (k = failures = 0; k < N; k++) {
            const member *m = &all[i * N + k];
            CHECK_INT(m->wrong, 0);
            CHECK(m->status == DCP_OK || m->status == DCP_E_TIMEOUT || m->status == DCP_E_COMM ||
                  m->status == DCP_E_MISMATCH);
            CHECK_INT(runs[i].plans[k].after_failure, 0);
            failures += m->status != DCP_OK;
        }
        CHECK(failures > 0 || runs[i].plans[0].failed + runs[i].plans[1].failed + runs[i].plans[2].failed +
              runs[i].plans[3].failed + runs[i].plans[4].failed == 0);
    }
    close_members(all, RUNS * N);
}

#ifndef _WIN32
/* ---- processes: real ranks, which die and stop ------------------------------------------------------------------- */
static void process_four(dcp_coordinator *c, process_record *out, void *user) {
    member m;
    (void)user;
    memset(&m, 0, sizeof m);
    m.c = c;
    m.n = c->world_size;
    all_four(&m);
    out->status = m.status;
    out->err = m.err;
    out->number[0] = m.wrong;
    (void)dcp_barrier(c, WITHIN(20000), NULL);
}
TEST(trees_are_right_between_processes) {
    static const int sizes[] = { 1, 2, 3, 8, 16 };
    size_t i;
    for (i = 0; i < DCPI_COUNT(sizes); i++) {
        process_group g;
        int k;
        process_group_start(&g, sizes[i], process_four, NULL);
        CHECK(process_await_end(&g, 0, 30000));
        for (k = 0; k < sizes[i]; k++) {
            CHECK_INT(g.exit_status[k], 0);
            CHECK_OK_MESSAGE(g.shared->record[k].status, g.shared->record[k].err.message);
            CHECK_INT(g.shared->record[k].number[0], 0);
        }
        process_group_end(&g);
    }
}
/* One barrier together, then a second one before which the ranks in `user` (bits) hang. */
static void process_barriers(dcp_coordinator *c, process_record *out, void *user) {
    int64_t begun;
    dcp_status status = dcp_barrier(c, WITHIN(20000), &out->err);
    process_stage(out, 1);
    if (*(const unsigned *)user >> c->rank & 1) dcpi_os_sleep_ms(60000);
    while (dcpi_flag_get(&out->stage) < 2) dcpi_os_sleep_ms(1);             /* until the test has done its deed */
    begun = dcpi_os_monotonic_ms();
    if (status == DCP_OK) status = dcp_barrier(c, WITHIN(SHORT_MS), &out->err);
    out->took_ms = dcpi_os_monotonic_ms() - begun;
    out->number[0] = dcp_barrier(c, WITHIN(60000), NULL);
    out->status = status;
    if (status) dcpi_os_sleep_ms(SHORT_MS / 2);             /* so that the others' news is not that this one has gone */
}
TEST(a_killed_rank_is_known_at_once_and_a_stopped_one_in_time) {
    enum { N = 6 };
    process_group g[2 * N];
    unsigned hangs[N];
    int i, k;
    for (k = 0; k < N; k++) hangs[k] = 1u << k;
    for (i = 0; i < 2 * N; i++) process_group_start(&g[i], N, process_barriers, &hangs[i / 2]);
    for (i = 0; i < 2 * N; i++) {
        process_await_stage(&g[i], i / 2, 1);
        process_signal(&g[i], i / 2, i % 2 ? SIGSTOP : SIGKILL);
    }
    for (i = 0; i < 2 * N; i++)
        for (k = 0; k < N; k++) {
            if (k != i / 2) process_await_stage(&g[i], k, 1);
            process_stage(&g[i].shared->record[k], 2);
        }
    for (i = 0; i < 2 * N; i++) {
        const int gone = i / 2;
        CHECK(process_await_end(&g[i], 1u << gone, 10000));
        for (k = 0; k < N; k++) {
            const process_record *r = &g[i].shared->record[k];
            if (k == gone) continue;
            CHECK(r->status == DCP_E_TIMEOUT || (r->status == DCP_E_COMM && i % 2 == 0));
            CHECK_INT(r->number[0], r->status);
            CHECK(r->took_ms <= SHORT_MS * 12 / 10 + 100);
            if (i % 2) CHECK_INT(r->err.rank, gone);
            if (i % 2 == 0 && (is_parent(gone, k, 0, N) || is_parent(k, gone, 0, N))) {
                CHECK_INT(r->status, DCP_E_COMM);
                CHECK_INT(r->err.rank, gone);
                CHECK(r->took_ms < SHORT_MS / 2);
            }
        }
    }
    for (i = 0; i < 2 * N; i++) process_group_end(&g[i]);
}
static void process_slow(dcp_coordinator *c, process_record *out, void *user) {
    (void)user;
    process_stage(out, 1);
    while (c->rank != 2 && dcpi_flag_get(&out->stage) < 2) dcpi_os_sleep_ms(1);
    out->status = dcp_barrier(c, WITHIN(10000), &out->err);
    if (out->status == DCP_OK) out->status = dcp_barrier(c, WITHIN(10000), &out->err);
}
TEST(a_rank_that_is_stopped_for_a_while_is_no_failure) {
    process_group g;
    int k;
    process_group_start(&g, 4, process_slow, NULL);
    process_await_stage(&g, 2, 1);
    process_signal(&g, 2, SIGSTOP);
    for (k = 0; k < 4; k++) if (k != 2) process_await_stage(&g, k, 1);
    for (k = 0; k < 4; k++) process_stage(&g.shared->record[k], 2);
    dcpi_os_sleep_ms(200);
    process_signal(&g, 2, SIGCONT);
    CHECK(process_await_end(&g, 0, 10000));
    for (k = 0; k < 4; k++) CHECK_OK_MESSAGE(g.shared->record[k].status, g.shared->record[k].err.message);
    process_group_end(&g);
}
/* Both send much at the same time, then one sends to a rank that never takes it. */
static void process_large(dcp_coordinator *c, process_record *out, void *user) {
    const size_t size = (size_t)20 << 20;
    char *data = (char *)calloc(1, size);
    void *got = NULL;
    size_t bytes = 0;
    int from = 1 - c->rank;
    (void)user;
    data[size - 1] = (char)(c->rank + 5);
    out->status = dcpi_coord_send(c, from, 1, data, size, 20000, &out->err);
    if (out->status == DCP_OK) out->status = dcpi_coord_receive(c, &from, 1, &got, &bytes, 20000, &out->err);
    out->number[0] = bytes == size && ((char *)got)[size - 1] == from + 5;
    dcp_free(got);
    process_stage(out, 1);
    if (c->rank == 1) dcpi_os_sleep_ms(60000);
    while (dcpi_flag_get(&out->stage) < 2) dcpi_os_sleep_ms(1);             /* until the other takes in nothing more */
    if (out->status == DCP_OK) out->number[1] = dcpi_coord_send(c, 1, 1, data, size, 300, &out->err);
    dcpi_coord_break(c, DCP_OK);                          /* what the coordinator itself says of a stream that is cut */
    out->number[2] = dcpi_coord_send(c, 1, 1, data, 1, 300, NULL);
    free(data);
}
TEST(large_messages_pass_and_a_cut_one_ends_the_stream) {
    process_group g;
    process_group_start(&g, 2, process_large, NULL);
    process_await_stage(&g, 0, 1);
    process_await_stage(&g, 1, 1);
    process_stage(&g.shared->record[0], 2);
    CHECK(process_await_end(&g, 1u << 1, 20000));
    CHECK_INT(g.shared->record[0].status, DCP_OK);
    CHECK_INT(g.shared->record[1].status, DCP_OK);
    CHECK(g.shared->record[0].number[0] && g.shared->record[1].number[0]);
    CHECK_INT(g.shared->record[0].number[1], DCP_E_TIMEOUT);
    CHECK_INT(g.shared->record[0].number[2], DCP_E_COMM);
    process_group_end(&g);
}
/* What a rank sent before it died is handed over first; who waits for any rank hears of a death, but not of a rank that
 * has closed. */
static void process_last_words(dcp_coordinator *c, process_record *out, void *user) {
    void *data;
    size_t size;
    int from = DCP_ANY_RANK;
    if (c->rank == 2) return;                               /* closes */
    if (c->rank == 1) {
        (void)dcpi_coord_send(c, 0, 1, "last words", 11, 1000, NULL);
        if (*(const unsigned *)user) (void)raise(SIGKILL);
        dcpi_os_sleep_ms(60000);
    }
    dcpi_os_sleep_ms(100);
    out->status = dcpi_coord_receive(c, &from, 1, &data, &size, 5000, &out->err);
    if (out->status == DCP_OK) memcpy(out->text, data, size);
    dcp_free(data);
    from = DCP_ANY_RANK;
    out->number[0] = dcpi_coord_receive(c, &from, 1, &data, &size, 100, &out->err);
    from = 2;
    out->number[1] = dcpi_coord_status(c) ? DCP_E_COMM : dcpi_coord_receive(c, &from, 1, &data, &size, 5000, NULL);
}
TEST(last_words_come_before_the_end) {
    unsigned kill;
    for (kill = 0; kill < 2; kill++) {
        process_group g;
        process_group_start(&g, 3, process_last_words, &kill);
        CHECK(process_await_end(&g, 1u << 1, 10000));
        CHECK_OK(g.shared->record[0].status);
        CHECK_STR(g.shared->record[0].text, "last words");
        CHECK_INT(g.shared->record[0].number[0], kill ? DCP_E_COMM : DCP_PENDING);
        if (kill) CHECK_INT(g.shared->record[0].err.rank, 1);
        CHECK_INT(g.shared->record[0].number[1], DCP_E_COMM);
        process_group_end(&g);
    }
}
#endif

int main(void) {
    RUN(trees_are_right_for_all_world_sizes_and_roots);
    RUN(one_rank_or_none_is_trivial);
    RUN(wrong_arguments_are_found_before_anything_is_sent);
    RUN(a_failure_breaks_the_coordinator_and_it_is_not_touched_again);
    RUN(want_of_memory_and_wrong_arguments_do_not_break_it);
    RUN(nothing_there_is_no_error_and_a_receive_against_its_contract_is_one);
    RUN(a_missing_rank_is_named_in_time);
    RUN(the_message_lists_all_that_are_missing);
    RUN(a_cancel_or_a_deadline_of_one_rank_ends_a_collective);
    RUN(ranks_1_and_3_are_missing_and_nobody_else);
    RUN(a_rank_that_is_late_but_comes_is_in_no_later_calls_way);
    RUN(different_calls_are_a_mismatch_that_names_both);
    RUN(another_version_is_found);
    RUN(a_failure_leaves_what_a_rank_has_sent);
    RUN(a_stranger_on_the_tag_is_found);
    RUN(messages_keep_their_order_by_sender_and_tag);
    RUN(ten_thousand_queued_messages_are_fast);
    RUN(a_closed_rank_is_named_after_its_last_message);
    RUN(a_rank_that_closes_wakes_who_waits_for_it);
    RUN(several_threads_may_use_one_rank);
    RUN(a_receive_waits_as_long_as_it_may_and_no_longer);
    RUN(each_allocation_may_fail);
    RUN(many_pieces_arrive);
    RUN(more_than_two_gib);
    RUN(delays_change_nothing);
    RUN(seeded_faults_end_in_time);
#ifndef _WIN32
    RUN(trees_are_right_between_processes);
    RUN(a_killed_rank_is_known_at_once_and_a_stopped_one_in_time);
    RUN(a_rank_that_is_stopped_for_a_while_is_no_failure);
    RUN(large_messages_pass_and_a_cut_one_ends_the_stream);
    RUN(last_words_come_before_the_end);
#endif
    return test_finish();
}
