/* mpi_coord.c - one rank of the tests that test_mpi.sh runs under mpirun: mpi_coord all|stop|threads|outside [ranks].
 *
 * Prints `fine RANK` last, or `wrong RANK: line N: ...` and ends the job. C99 that is also C++11. */
#include <stddef.h>
static int fewer_calls;                 /* the allocation after so many fails; 0: none */
static void *scarce(void *memory, size_t size);
#define DCP_MALLOC(size) scarce(NULL, size)
#define DCP_REALLOC(memory, size) scarce(memory, size)
#define DCP_FREE(memory) free(memory)
#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp.h"
#include "within.h"
#include "test.h"                       /* only for what it says of statuses */
static void *scarce(void *memory, size_t size) {
    return fewer_calls && --fewer_calls == 0 ? NULL : realloc(memory, size);
}

static int rank, ranks;
static dcp_error err;

#define EXPECT(condition) do { if (!(condition)) wrong(__LINE__, #condition); } while (0)

static void wrong(int line, const char *what) {
    printf("wrong %d: line %d: %s; %s: %s\n", rank, line, what, dcp_status_name(err.status), err.message);
    (void)fflush(stdout);
    _exit(3);
}
static double now(void) { return dcpi_mpi_now(); }

/* ---- all: what works --------------------------------------------------------------------------------------------- */
static void join(void *inout, const void *in, size_t size, void *user) {
    (void)user;
    (void)size;
    (void)strcat((char *)inout, (const char *)in);
}
static void four(dcp_coordinator *c, int root) {
    char text[20] = "", want[20] = "";
    void **parts;
    size_t *sizes, i;
    const size_t size = (size_t)(rank % 3) * 7001;
    unsigned char *data = (unsigned char *)malloc(size + 30000);
    int r;
    EXPECT(dcp_barrier(c, WITHIN(20000), &err) == DCP_OK);
    memset(data, rank + 1, size + 30000);
    EXPECT(dcp_gather(c, data, size, &parts, &sizes, root, WITHIN(20000), &err) == DCP_OK);
    for (r = 0; rank == root && r < ranks; r++) {
        EXPECT(sizes[r] == (size_t)(r % 3) * 7001);
        for (i = 0; i < sizes[r]; i++) EXPECT(((unsigned char *)parts[r])[i] == r + 1);
    }
    dcp_free(parts);
    dcp_free(sizes);
    EXPECT(dcp_broadcast(c, data, 30000, root, WITHIN(20000), &err) == DCP_OK);
    for (i = 0; i < 30000; i++) EXPECT(data[i] == root + 1);
    text[0] = (char)('a' + rank);
    for (r = 0; r < ranks; r++) want[r] = (char)('a' + r);
    EXPECT(dcp_allreduce(c, text, sizeof text, join, NULL, WITHIN(20000), &err) == DCP_OK);
    EXPECT(strcmp(text, want) == 0);
    free(data);
}
/* Every rank sends to rank 0: sizes around that of a chunk, two tags; they come in order, by rank and from any. */
static size_t order_size(int i) {
    return (size_t)(i % 5 == 4 ? 3 * DCP_MPI_CHUNK : i % 5 == 3 ? DCP_MPI_CHUNK : i % 5 == 2 ? DCP_MPI_CHUNK -
                    1 : i % 5);
}

static void order_send(dcp_coordinator *c, char *data, int count) {
    int i;
    for (i = 0; i < count; i++) {
        const size_t size = order_size(i);
        if (size) data[0] = data[size - 1] = (char)i;
        EXPECT(dcpi_coord_send(c, 0, 10 + i % 2, data, size, 20000, &err) == DCP_OK);
    }
}
static void order_receive(dcp_coordinator *c, int from, int tag, int *next) {
    void *got;
    size_t size;
    int who = from;
    dcp_status status;
    do status = dcpi_coord_receive(c, &who, tag, &got, &size, 100, &err); while (status == DCP_PENDING);
    EXPECT(status == DCP_OK);
    EXPECT(size == order_size(next[who]));
    EXPECT((got == NULL) == (size == 0));
    if (size) EXPECT(((char *)got)[0] == (char)next[who] && ((char *)got)[size - 1] == (char)next[who]);
    next[who] += 2;
    dcp_free(got);
}
static void order(dcp_coordinator *c) {
    char *data = (char *)calloc(1, 3 * (size_t)DCP_MPI_CHUNK + 1);
    int even[16] = {0}, odd[16], i, r;
    for (r = 0; r < 16; r++) odd[r] = 1;
    if (rank) order_send(c, data, 40);
    else {                                              /* a rank's sends are taken alternately, as it makes them */
        for (r = 1; r < ranks; r++)
            for (i = 0; r % 2 && i < 40; i++) order_receive(c, r, 10 + i % 2, i % 2 ? odd : even);
        for (r = 2; r < ranks; r += 2)
            for (i = 0; i < 40; i++) order_receive(c, ranks == 3 ? DCP_ANY_RANK : r, 10 + i % 2, i % 2 ? odd : even);
        for (r = 1; r < ranks; r++) EXPECT(even[r] == 40 && odd[r] == 41);
    }
    free(data);
}
static void large(dcp_coordinator *c, size_t size) {
    char *data = (char *)calloc(1, size);
    double begun;
    EXPECT(data != NULL);
    if (rank == 0) data[size - 1] = 7;
    EXPECT(dcp_barrier(c, WITHIN(60000), &err) == DCP_OK);
    begun = now();
    if (rank == 0) EXPECT(dcpi_coord_send(c, 1, 3, data, size, 300000, &err) == DCP_OK);
    if (rank == 1) {
        void *got;
        size_t bytes;
        int from = 0;
        EXPECT(dcpi_coord_receive(c, &from, 3, &got, &bytes, 300000, &err) == DCP_OK);
        EXPECT(bytes == size && ((char *)got)[size - 1] == 7 && ((char *)got)[0] == 0);
        dcp_free(got);
        printf("a message of %.0f MiB took %.2f s\n", (double)size / 1048576, now() - begun);
    }
    EXPECT(dcp_barrier(c, WITHIN(300000), &err) == DCP_OK);
    free(data);
}
static void speed(dcp_coordinator *c) {
    const double begun = now();
    int i;
    for (i = 0; i < 200; i++) EXPECT(dcp_barrier(c, WITHIN(20000), &err) == DCP_OK);
    if (rank == 0) printf("a barrier of %d ranks takes %.3f ms\n", ranks, (now() - begun) * 1000 / 200);
}
/* Communicators that were made of others have not all attributes of MPI_COMM_WORLD. */
static void made_communicators(void) {
    int periods[1] = { 0 }, kind;
    for (kind = 0; kind < 2; kind++) {
        MPI_Comm comm;
        dcp_coordinator *c;
        if (kind == 0) EXPECT(MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, periods, 0, &comm) == MPI_SUCCESS);
        else EXPECT(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm) == MPI_SUCCESS);
        EXPECT(dcp_mpi_open(comm, &c, &err) == DCP_OK);
        EXPECT(c->world_size == (kind == 0 ? ranks : (ranks + 1 - rank % 2) / 2));
        EXPECT(dcp_barrier(c, WITHIN(20000), &err) == DCP_OK);
        dcp_coordinator_close(c);
        EXPECT(MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
}
static void run_all(void) {
    dcp_coordinator *c, *second;
    int root, sum = 0;
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &c, &err) == DCP_OK);
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &second, &err) == DCP_OK);
    EXPECT(c->rank == rank && c->world_size == ranks && c->thread_safe == 0);
    for (root = 0; root < ranks; root++) {
        four(c, root);
        four(second, (root + 1) % ranks);
    }
    if (ranks > 1) order(c);
    if (ranks > 1) large(c, (size_t)(getenv("DCP_TEST_LARGE") ? 2100 : 50) << 20);
    speed(c);
    dcp_coordinator_close(c);
    four(second, 0);                                    /* closing one leaves the other alone */
    dcp_coordinator_close(second);
    made_communicators();
    EXPECT(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    EXPECT(sum == ranks * (ranks - 1) / 2);
}

/* ---- stop: one rank stops; the others have a verdict in time, and their own communicators still work ------------- */
static void living_talk(MPI_Comm living, int stopped) {
    int sum = 0, want = ranks * (ranks - 1) / 2 - stopped, before = (rank + ranks - 1) % ranks,
              after = (rank + 1) % ranks, got = -1;
    EXPECT(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, living) == MPI_SUCCESS);
    EXPECT(sum == want);
    if (before == stopped) before = (before + ranks - 1) % ranks;
    if (after == stopped) after = (after + 1) % ranks;
    EXPECT(MPI_Sendrecv(&rank, 1, MPI_INT, after, 5, &got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS);
    EXPECT(got == before);
}
/* A message that is too large to be taken without its receiver: the send must end in time and the caller's buffer be
 * free. */
static void send_to_stopped(dcp_coordinator *c, int stopped) {
    const size_t size = (size_t)20 << 20;
    char *data = (char *)malloc(size);
    const double begun = now();
    memset(data, 1, size);
    EXPECT(dcpi_coord_send(c, stopped, 77, data, size, 500, &err) == DCP_E_TIMEOUT);
    EXPECT(now() - begun < 0.8 && err.rank == stopped);
    memset(data, 2, size);
    free(data);
}
static void run_stop(int stopped) {
    dcp_coordinator *c, *other;
    MPI_Comm living;
    long pid = (long)getpid();
    double begun;
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &c, &err) == DCP_OK);
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &other, &err) == DCP_OK);
    EXPECT(MPI_Comm_split(MPI_COMM_WORLD, rank == stopped, rank, &living) == MPI_SUCCESS);
    EXPECT(MPI_Bcast(&pid, 1, MPI_LONG, stopped, MPI_COMM_WORLD) == MPI_SUCCESS);
    EXPECT(dcp_barrier(c, WITHIN(20000), &err) == DCP_OK);
    EXPECT(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == stopped) {
        EXPECT(raise(SIGSTOP) == 0);
        begun = now();                                  /* all it needs may lie there; then the next call tells */
        EXPECT(dcp_barrier(c, WITHIN(10000), &err) == DCP_E_TIMEOUT ||
               (err.status == DCP_OK && dcp_barrier(c, WITHIN(10000), &err) == DCP_E_TIMEOUT));
        EXPECT(now() - begun < 8.0);
    } else {
        dcpi_mpi_sleep(300000);
        begun = now();
        EXPECT(dcp_barrier(c, WITHIN(1000), &err) == DCP_E_TIMEOUT);
        EXPECT(now() - begun < 1.3);
        EXPECT(err.rank == stopped && dcpi_coord_status(c) == DCP_E_TIMEOUT);
        if (rank == (stopped + 1) % ranks) printf("rank %d: %s\n", rank, err.message);
        EXPECT(dcp_barrier(c, WITHIN(60000), &err) == DCP_E_TIMEOUT);
        if (rank == (stopped + 1) % ranks) send_to_stopped(other, stopped);
        dcp_coordinator_close(c);
        living_talk(living, stopped);
        EXPECT(MPI_Barrier(living) == MPI_SUCCESS);
        if (rank == (stopped + 1) % ranks) EXPECT(kill((pid_t)pid, SIGCONT) == 0);
    }
    EXPECT(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);   /* all live again: the user's communicator has not suffered */
    if (rank == stopped) {
        dcp_coordinator_close(c);
        {                                               /* what was under way to it comes in after all, whole or cut */
            void *data;
            size_t size;
            int from = (stopped + 1) % ranks;
            EXPECT(dcpi_coord_receive(other, &from, 77, &data, &size, 500, &err) == DCP_PENDING);
        }
    }
    EXPECT(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    dcp_coordinator_close(other);
    EXPECT(MPI_Comm_free(&living) == MPI_SUCCESS);
}

/* ---- threads: two on each rank, with MPI_THREAD_MULTIPLE --------------------------------------------------------- */
static dcp_coordinator *shared;
static void exchange(void *argument) {
    const int tag = *(const int *)argument;
    int i, to = (rank + 1) % ranks, from;
    for (i = 0; i < 100; i++) {
        void *got;
        size_t size;
        from = (rank + ranks - 1) % ranks;
        if (dcpi_coord_send(shared, to, tag, &i, sizeof i, 20000, NULL)) wrong(__LINE__, "send");
        if (dcpi_coord_receive(shared, &from, tag, &got, &size, 20000, NULL)) wrong(__LINE__, "receive");
        if (size != sizeof i || memcmp(got, &i, sizeof i) != 0) wrong(__LINE__, "bytes");
        dcp_free(got);
    }
}
static void run_threads(int provided) {
    int tags[2] = { 100, 101 };
    dcpi_thread thread;
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &shared, &err) == DCP_OK);
    EXPECT(shared->thread_safe == (provided == MPI_THREAD_MULTIPLE));
    if (provided == MPI_THREAD_MULTIPLE) {
        EXPECT(dcpi_thread_start(&thread, exchange, &tags[0]) == 0);
        exchange(&tags[1]);
        dcpi_thread_join(&thread);
    } else if (rank == 0) printf("no MPI_THREAD_MULTIPLE here\n");
    EXPECT(dcp_barrier(shared, WITHIN(20000), &err) == DCP_OK);
    dcp_coordinator_close(shared);
}

/* ---- outside: before MPI_Init, after MPI_Finalize, arguments ----------------------------------------------------- */
static void expect_invalid(MPI_Comm comm, const char *words) {
    dcp_coordinator *c = (dcp_coordinator *)(void *)&rank;
    EXPECT(dcp_mpi_open(comm, &c, &err) == DCP_E_INVALID);
    EXPECT(c == NULL && err.status == DCP_E_INVALID && strstr(err.message, words) != NULL);
}
/* MPI's own calls, which fail where asked to (through MPI's profiling interface) and are as few as they must be for
 * dcp_mpi_open. */
static int dup_fails, tags_are_few;
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) { return dup_fails ? MPI_ERR_OTHER : PMPI_Comm_dup(comm, out); }
int MPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *flag) {
    static int few = 32767;
    const int code = PMPI_Comm_get_attr(comm, key, value, flag);
    if (tags_are_few && key == MPI_TAG_UB) { *(int **)value = &few; *flag = 1; }
    return code;
}
static void expect_failure(dcp_status wanted) {
    dcp_coordinator *c = (dcp_coordinator *)(void *)&rank;
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &c, &err) == wanted);
    EXPECT(c == NULL && err.status == wanted && err.message[0] != '\0');
}
static void run_failures(void) {
    dup_fails = 1;
    expect_failure(DCP_E_COMM);
    dup_fails = 0;
    tags_are_few = 1;
    expect_failure(DCP_E_UNSUPPORTED);
    tags_are_few = 0;
    fewer_calls = 1;
    expect_failure(DCP_E_MEMORY);
    fewer_calls = 2;
    expect_failure(DCP_E_MEMORY);
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    int provided = MPI_THREAD_SINGLE;
    (void)alarm(120);
    if (strcmp(what, "outside") == 0) expect_invalid(MPI_COMM_WORLD, "not initialised");
    if (strcmp(what, "threads") == 0)
        EXPECT(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    else EXPECT(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    EXPECT(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS);
    if (strcmp(what, "all") == 0) run_all();
    if (strcmp(what, "stop") == 0) run_stop(argc > 2 ? atoi(argv[2]) : ranks - 1);
    if (strcmp(what, "threads") == 0) run_threads(provided);
    if (strcmp(what, "outside") == 0) {
        EXPECT(dcp_mpi_open(MPI_COMM_WORLD, NULL, &err) == DCP_E_INVALID);
        expect_invalid(MPI_COMM_NULL, "MPI_COMM_NULL");
        run_failures();
    }
    EXPECT(MPI_Finalize() == MPI_SUCCESS);
    if (strcmp(what, "outside") == 0) expect_invalid(MPI_COMM_WORLD, "finalised");
    EXPECT(test_returns_are_listed());
    test_returns_write();
    printf("fine %d\n", rank);
    return 0;
}
