/* dcp_mpi.h - the ranks of an MPI job as a coordinator for dcp.h - MIT or public domain, as dcp.h
 *
 * Do this:
 *     #define DCP_MPI
 * before you include dcp.h, everywhere, and DCP_IMPLEMENTATION too in *one* file, as its first include. Or include this
 * header beside dcp.h, and define DCP_MPI_IMPLEMENTATION in one file. Compile with mpicc or mpicxx. C99 and C++11, MPI
 * 3.0 or newer.
 *
 *     #define DCP_IMPLEMENTATION
 *     #define DCP_MPI
 *     #include "dcp.h"
 *     int main(int argc, char **argv) {
 *         dcp_coordinator *ranks;
 *         dcp_error err;
 *         MPI_Init(&argc, &argv);
 *         if (dcp_mpi_open(MPI_COMM_WORLD, &ranks, &err)) {
 *             fprintf(stderr, "%s\n", err.message);
 *             MPI_Abort(MPI_COMM_WORLD, 1);
 *         }
 *         // save.io.coordinator = ranks; dcp_save(&save, &err);
 *         // load.io.coordinator = ranks; dcp_load(&load, &err); ...
 *         if (dcp_barrier(ranks, NULL, &err)) {
 *             fprintf(stderr, "%s\n", err.message);
 *             MPI_Abort(MPI_COMM_WORLD, 1);
 *         }
 *         dcp_coordinator_close(ranks);                  // before MPI_Finalize
 *         return MPI_Finalize();
 *     }
 *
 * How it behaves
 *   - It has a communicator of its own, a duplicate of yours, on which errors return. Yours stays usable whatever
 *     happens.
 *   - Point-to-point messages only, never blocking: tested against a monotonic clock, with sleeps of up to 1 ms between
 *     tests. No collective after MPI_Comm_dup but MPI_Comm_free. So a rank that has died or stopped is a DCP_E_TIMEOUT
 *     in time, not a hang.
 *   - What cannot be completed in time stays alive with its buffer, and is completed or forgotten when the coordinator
 *     is closed. A send with timeout 0 (from dcp_save_poll) never waits: MPI gets all of it, and its buffer is freed by
 *     a later call.
 *   - Works with MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED (calls come from the thread that calls dcp.h; a save in the
 *     background goes on in dcp_save_poll); thread_safe is set with MPI_THREAD_MULTIPLE (a save in the background goes
 *     on by itself).
 *   - A broken coordinator, or one with messages that were never received, is closed without MPI_Comm_free, which is
 *     collective and could wait for a dead rank: its communicator is lost until the job ends. MPI_Finalize may then
 *     wait for that rank too; MPI_Abort doesn't.
 *   - A message is cut into MPI messages of DCP_MPI_CHUNK bytes (4 MiB; the same on all ranks) and copied by chunks: a
 *     send holds two.
 *   - Memory: DCP_MALLOC, DCP_REALLOC and DCP_FREE. If you define them for dcp.h, define them where this is implemented
 *     too. */
#ifndef DCP_MPI_H
#define DCP_MPI_H
#if defined(DCP_MPI_IMPLEMENTATION) && defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE                     /* the clock; must stand before any system header */
#endif
#include "dcp.h"
#include <mpi.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Collective over comm, an intracommunicator, which is duplicated and stays yours; *out: dcp_coordinator_close, before
 * MPI_Finalize. Waits only as MPI_Comm_dup does.
 * Status: DCP_E_INVALID MPI is not initialised, or finalised already, or comm is none | DCP_E_COMM MPI reported an
 * error | DCP_E_MEMORY then the others' coordinators run into their timeouts | DCP_E_UNSUPPORTED this MPI's tags are
 * too small. */
DCPDEF dcp_status dcp_mpi_open(MPI_Comm comm, dcp_coordinator **out, dcp_error *err);

#ifdef __cplusplus
}
#endif
#define DCPI_MPI_DECLARED
#endif /* DCP_MPI_H */

#if (defined(DCP_IMPLEMENTATION) || defined(DCP_MPI_IMPLEMENTATION)) && defined(DCPI_MPI_DECLARED) && \
    !defined(DCP_MPI_IMPLEMENTED)
#define DCP_MPI_IMPLEMENTED
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#elif !defined(CLOCK_MONOTONIC)
#error "include dcp_mpi.h first in the file that defines DCP_MPI_IMPLEMENTATION, or compile with -D_GNU_SOURCE"
#endif
#ifndef DCP_MALLOC
#define DCP_MALLOC(size) malloc(size)
#define DCP_REALLOC(memory, size) realloc(memory, size)
#define DCP_FREE(memory) free(memory)
#endif
#ifndef DCP_MPI_CHUNK
#define DCP_MPI_CHUNK (4 * 1024 * 1024) /* below 2^31 */
#endif
#if MPI_VERSION < 3
#error "dcp_mpi.h needs MPI 3.0 or newer (MPI_Improbe)"
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is under way ----------------------------------------------------------------------------------------------
 * A message is chunks of exactly DCP_MPI_CHUNK bytes and a last one that is shorter, so no header is needed. */
typedef struct dcpi_mpi_out { struct dcpi_mpi_out *next; MPI_Request request; /* then the bytes */ } dcpi_mpi_out;
typedef struct dcpi_mpi_in {            /* a message that has begun to come in */
    struct dcpi_mpi_in *next;
    int from, tag;
    int receiving, count;               /* whether request is a chunk of count bytes, to data + size */
    MPI_Request request;
    char *data; size_t size, capacity;
} dcpi_mpi_in;
typedef struct dcpi_mpi {
    dcp_coordinator *coordinator;
    MPI_Comm comm;
    int most_tag, failed;
    dcpi_mpi_out *out;                  /* sends that were not done in time; with their buffers */
    dcpi_mpi_in *in;
    volatile int lock;                  /* of the two lists */
} dcpi_mpi;

static dcp_status dcpi_mpi_fail(dcp_error *err, dcp_status status, int rank, const char *format, ...) {
    va_list arguments;
    if (!err) return status;
    memset(err, 0, sizeof *err);
    err->status = status;
    err->rank = rank;
    va_start(arguments, format);
    (void)vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return status;
}
static dcp_status dcpi_mpi_error(dcp_error *err, int rank, const char *call, int code) {
    char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
    text[length] = '\0';
    return dcpi_mpi_fail(err, DCP_E_COMM, rank, "%s: %.300s (MPI error %d)", call, text, code);
}
static dcp_status dcpi_mpi_no_memory(dcp_error *err, int rank, size_t size) {
    return dcpi_mpi_fail(err, DCP_E_MEMORY, rank, "out of memory: could not allocate %.0f bytes", (double)size);
}

/* ---- time: a deadline, and sleeps between tests that grow from none to 1 ms */
typedef struct dcpi_mpi_wait { double until; int tests; } dcpi_mpi_wait;

static double dcpi_mpi_now(void) {      /* seconds that never go back; MPI_Wtime may */
#ifdef _WIN32
    return (double)GetTickCount64() / 1000.0;
#else
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
#endif
}
static void dcpi_mpi_sleep(int microseconds) {
#ifdef _WIN32
    Sleep((DWORD)(microseconds + 999) / 1000);
#else
    struct timespec span;
    span.tv_sec = 0;
    span.tv_nsec = microseconds * 1000L;
    (void)nanosleep(&span, NULL);
#endif
}
static dcpi_mpi_wait dcpi_mpi_wait_begin(int timeout_ms) {
    dcpi_mpi_wait wait;
    wait.until = timeout_ms > 0 ? dcpi_mpi_now() + timeout_ms / 1000.0 : 0.0;
    wait.tests = 0;
    return wait;
}
/* 0: the time is over. Without a timeout some tests in a row: one alone may find MPI's own progress half done. */
static int dcpi_mpi_wait_more(dcpi_mpi_wait *wait) {
    const int tests = ++wait->tests;
    if (wait->until <= 0.0) return tests < 4;
    if (dcpi_mpi_now() >= wait->until) return 0;
    if (tests >= 100) dcpi_mpi_sleep(tests < 200 ? 20 : tests < 300 ? 100 : 1000);
    else if (tests % 10 == 0) dcpi_mpi_sleep(1);        /* lets another rank on this processor run */
    return 1;
}

/* ---- the lists, which several threads use with MPI_THREAD_MULTIPLE; held for a few instructions */
#if defined(__GNUC__) || defined(__clang__)
#define DCPI_MPI_HAS_LOCK 1
static void dcpi_mpi_lock(dcpi_mpi *m) { while (__atomic_exchange_n(&m->lock, 1, __ATOMIC_ACQUIRE)) dcpi_mpi_sleep(1); }
static void dcpi_mpi_unlock(dcpi_mpi *m) { __atomic_store_n(&m->lock, 0, __ATOMIC_RELEASE); }
#else
#define DCPI_MPI_HAS_LOCK 0             /* then thread_safe is never set */
static void dcpi_mpi_lock(dcpi_mpi *m) { m->lock = 1; }
static void dcpi_mpi_unlock(dcpi_mpi *m) { m->lock = 0; }
#endif
static void dcpi_mpi_set_failed(dcpi_mpi *m) {
    dcpi_mpi_lock(m);
    m->failed = 1;
    dcpi_mpi_unlock(m);
}
static void dcpi_mpi_keep_out(dcpi_mpi *m, dcpi_mpi_out *out) {
    if (!out) return;
    dcpi_mpi_lock(m);
    out->next = m->out;
    m->out = out;
    dcpi_mpi_unlock(m);
}
static void dcpi_mpi_keep_in(dcpi_mpi *m, dcpi_mpi_in *in) {
    dcpi_mpi_lock(m);
    in->next = m->in;
    m->in = in;
    dcpi_mpi_unlock(m);
}
static dcpi_mpi_in *dcpi_mpi_take_in(dcpi_mpi *m, int from, int tag) {
    dcpi_mpi_in **link, *in;
    dcpi_mpi_lock(m);
    for (link = &m->in; *link && ((*link)->tag != tag || (from != DCP_ANY_RANK && (*link)->from != from));
         link = &(*link)->next) {}
    in = *link;
    if (in) *link = in->next;
    dcpi_mpi_unlock(m);
    return in;
}
/* Frees what has been sent at last. 0: something is still under way. */
static int dcpi_mpi_reap(dcpi_mpi *m) {
    dcpi_mpi_out *list, *out;
    int done, is_empty = 1;
    dcpi_mpi_lock(m);
    list = m->out;
    m->out = NULL;
    dcpi_mpi_unlock(m);
    while ((out = list) != NULL) {
        list = out->next;
        done = 0;
        if (MPI_Test(&out->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) {
            dcpi_mpi_keep_out(m, out);
            is_empty = 0;
        } else DCP_FREE(out);
    }
    return is_empty;
}

/* ---- send */
static dcp_status dcpi_mpi_begin_chunk(dcpi_mpi *m, int to, int tag, const char *data, size_t size, dcpi_mpi_out **out,
                                       dcp_error *err) {
    int code;
    *out = (dcpi_mpi_out *)DCP_MALLOC(sizeof **out + size);
    if (!*out) return dcpi_mpi_no_memory(err, m->coordinator->rank, size);
    if (size) memcpy(*out + 1, data, size);
    code = MPI_Isend(*out + 1, (int)size, MPI_BYTE, to, tag, m->comm, &(*out)->request);
    if (code == MPI_SUCCESS) return DCP_OK;
    DCP_FREE(*out);
    *out = NULL;
    return dcpi_mpi_error(err, to, "MPI_Isend", code);
}
/* Frees the chunk when it has been sent; otherwise it is kept, for MPI may still read its buffer. NULL is done. */
static dcp_status dcpi_mpi_end_chunk(dcpi_mpi *m, int to, dcpi_mpi_out *out, dcpi_mpi_wait *wait, dcp_error *err) {
    int done = 0, code;
    if (!out) return DCP_OK;
    wait->tests = 0;
    do code = MPI_Test(&out->request, &done, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && !done && dcpi_mpi_wait_more(wait));
    if (code == MPI_SUCCESS && done) {
        DCP_FREE(out);
        return DCP_OK;
    }
    dcpi_mpi_keep_out(m, out);
    if (code != MPI_SUCCESS) return dcpi_mpi_error(err, to, "MPI_Test of a send", code);
    return dcpi_mpi_fail(err, DCP_E_TIMEOUT, to, "rank %d did not take a message in time", to);
}
/* Two chunks are under way at a time. After a failure both have been freed or kept. */
static dcp_status dcpi_mpi_send_chunks(dcpi_mpi *m, int to, int tag, const char *data, size_t size, dcpi_mpi_wait *wait,
                                       dcp_error *err) {
    dcpi_mpi_out *before = NULL, *now = NULL;
    size_t at = 0, chunk;
    dcp_status status;
    do {
        chunk = size - at < (size_t)DCP_MPI_CHUNK ? size - at : (size_t)DCP_MPI_CHUNK;
        status = dcpi_mpi_begin_chunk(m, to, tag, data + at, chunk, &now, err);
        if (status) { dcpi_mpi_keep_out(m, before); return status; }
        status = dcpi_mpi_end_chunk(m, to, before, wait, err);
        if (status) { dcpi_mpi_keep_out(m, now); return status; }
        before = now;
        at += chunk;
    } while (chunk == (size_t)DCP_MPI_CHUNK);           /* a whole last chunk is followed by an empty one */
    return dcpi_mpi_end_chunk(m, to, before, wait, err);
}
/* All chunks at once, without waiting: MPI takes them, and a later call frees them. */
static dcp_status dcpi_mpi_post(dcpi_mpi *m, int to, int tag, const char *data, size_t size, dcp_error *err) {
    size_t at = 0, chunk;
    do {
        dcpi_mpi_out *out;
        dcp_status status;
        chunk = size - at < (size_t)DCP_MPI_CHUNK ? size - at : (size_t)DCP_MPI_CHUNK;
        status = dcpi_mpi_begin_chunk(m, to, tag, data + at, chunk, &out, err);
        /* its first chunks are under way: without memory for the others this coordinator is at its end */
        if (status == DCP_E_MEMORY && at > 0)
            status = dcpi_mpi_fail(err, DCP_E_COMM, to, "no memory for the rest of a message to rank %d", to);
        if (status) return status;
        dcpi_mpi_keep_out(m, out);
        at += chunk;
    } while (chunk == (size_t)DCP_MPI_CHUNK);
    (void)dcpi_mpi_reap(m);
    return DCP_OK;
}
static dcp_status dcpi_mpi_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                                dcp_error *err) {
    dcpi_mpi *m = (dcpi_mpi *)context;
    dcpi_mpi_wait wait = dcpi_mpi_wait_begin(timeout_ms);
    dcp_status status;
    if (tag > m->most_tag)
        return dcpi_mpi_fail(err, DCP_E_INVALID, to, "tag %d is beyond this MPI's greatest, %d", tag, m->most_tag);
    if (timeout_ms <= 0) status = dcpi_mpi_post(m, to, tag, size ? (const char *)data : "", size, err);
    else status = dcpi_mpi_send_chunks(m, to, tag, size ? (const char *)data : "", size, &wait, err);
    if (status) dcpi_mpi_set_failed(m);
    return status;
}

/* ---- receive */
static void dcpi_mpi_free_in(dcpi_mpi_in *in) {
    if (in->data) DCP_FREE(in->data);
    DCP_FREE(in);
}
static dcp_status dcpi_mpi_room(dcpi_mpi *m, dcpi_mpi_in *in, size_t more, dcp_error *err) {
    size_t wanted = in->size + more;
    char *data;
    if (wanted < more) return dcpi_mpi_no_memory(err, m->coordinator->rank, more);
    if (wanted <= in->capacity) return DCP_OK;
    if (in->capacity) wanted += wanted / 2;      /* not its first chunk: grow by half, so that all copying is O(size) */
    data = (char *)(in->data ? DCP_REALLOC(in->data, wanted) : DCP_MALLOC(wanted));
    if (!data) return dcpi_mpi_no_memory(err, m->coordinator->rank, wanted);
    in->data = data;
    in->capacity = wanted;
    return DCP_OK;
}
/* A matched chunk must be received, or it is lost: without memory for it this coordinator is at its end. */
static dcp_status dcpi_mpi_receive_chunk(dcpi_mpi *m, dcpi_mpi_in *in, MPI_Message *message, const MPI_Status *found,
                                         dcp_error *err) {
    dcp_status status;
    int code = MPI_Get_count(found, MPI_BYTE, &in->count);
    if (code != MPI_SUCCESS) return dcpi_mpi_error(err, in->from, "MPI_Get_count", code);
    status = dcpi_mpi_room(m, in, (size_t)in->count, err);
    if (status) return dcpi_mpi_fail(err, DCP_E_COMM, in->from, "no memory for a message of rank %d", in->from);
    code = MPI_Imrecv(in->data ? in->data + in->size : NULL, in->count, MPI_BYTE, message, &in->request);
    if (code != MPI_SUCCESS) return dcpi_mpi_error(err, in->from, "MPI_Imrecv", code);
    in->receiving = 1;
    return DCP_OK;
}
/* Looks for a message, or for the next chunk of *in. DCP_PENDING: there is none. */
static dcp_status dcpi_mpi_look(dcpi_mpi *m, int from, int tag, dcpi_mpi_in **in, dcp_error *err) {
    MPI_Message message;
    MPI_Status found;
    dcp_status status;
    int there = 0, code = MPI_Improbe(*in ? (*in)->from : from == DCP_ANY_RANK ? MPI_ANY_SOURCE : from, tag, m->comm,
                                      &there, &message, &found);
    if (code != MPI_SUCCESS)
        return dcpi_mpi_error(err, from == DCP_ANY_RANK ? m->coordinator->rank : from, "MPI_Improbe", code);
    if (!there) return DCP_PENDING;
    if (!*in) {
        *in = (dcpi_mpi_in *)DCP_MALLOC(sizeof **in);
        if (!*in)
            return dcpi_mpi_fail(err, DCP_E_COMM, found.MPI_SOURCE, "no memory for a message of rank %d",
                                 found.MPI_SOURCE);
        memset(*in, 0, sizeof **in);
        (*in)->from = found.MPI_SOURCE;
        (*in)->tag = tag;
    }
    status = dcpi_mpi_receive_chunk(m, *in, &message, &found, err);
    return status;
}
/* One step. DCP_OK: the message is whole. DCP_PENDING: not yet. */
static dcp_status dcpi_mpi_step(dcpi_mpi *m, int from, int tag, dcpi_mpi_in **in, dcp_error *err) {
    int done = 0, code;
    if (!*in || !(*in)->receiving) {
        const dcp_status status = dcpi_mpi_look(m, from, tag, in, err);
        if (status) return status;
    }
    code = MPI_Test(&(*in)->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return dcpi_mpi_error(err, (*in)->from, "MPI_Test of a receive", code);
    if (!done) return DCP_PENDING;
    (*in)->receiving = 0;
    (*in)->size += (size_t)(*in)->count;
    return (*in)->count < DCP_MPI_CHUNK ? DCP_OK : DCP_PENDING;
}
static dcp_status dcpi_mpi_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                   dcp_error *err) {
    dcpi_mpi *m = (dcpi_mpi *)context;
    dcpi_mpi_wait wait = dcpi_mpi_wait_begin(timeout_ms);
    dcpi_mpi_in *in;
    dcp_status status;
    if (tag > m->most_tag)
        return dcpi_mpi_fail(err, DCP_E_INVALID, *from, "tag %d is beyond this MPI's greatest, %d", tag, m->most_tag);
    in = dcpi_mpi_take_in(m, *from, tag);
    do {
        const size_t had = in ? in->size : 0;
        status = dcpi_mpi_step(m, *from, tag, &in, err);
        if (in && in->size != had) wait.tests = 0;      /* it is coming: look again at once */
    } while (status == DCP_PENDING && dcpi_mpi_wait_more(&wait));
    if (status == DCP_OK) {
        *from = in->from;
        *data = in->size ? in->data : NULL;
        *size = in->size;
        if (in->size) in->data = NULL;
        dcpi_mpi_free_in(in);
        return DCP_OK;
    }
    if (in) dcpi_mpi_keep_in(m, in);                   /* goes on with the next receive; or MPI may still write to it */
    if (status != DCP_PENDING) dcpi_mpi_set_failed(m);
    return status;
}

/* ---- opening and closing */
static void dcpi_mpi_destroy(void *context) {
    dcpi_mpi *m = (dcpi_mpi *)context;
    int finalized = 1, under_way;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS) finalized = 1;
    if (finalized) { DCP_FREE(m->coordinator); return; }     /* too late for MPI: the memory that it may know is left */
    under_way = !dcpi_mpi_reap(m);
    while (m->in) {
        dcpi_mpi_in *in = m->in;
        int done = !in->receiving;
        m->in = in->next;
        if (!done && MPI_Test(&in->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 0;
        if (done) dcpi_mpi_free_in(in);
        under_way |= !done;
    }
    if (!under_way && !m->failed && !dcp_coordinator_is_broken(m->coordinator)) (void)MPI_Comm_free(&m->comm);
    DCP_FREE(m->coordinator);
    if (!under_way) DCP_FREE(m);
}
static dcp_status dcpi_mpi_check(MPI_Comm comm, dcp_error *err) {
    int yes = 0;
    if (MPI_Initialized(&yes) != MPI_SUCCESS || !yes)
        return dcpi_mpi_fail(err, DCP_E_INVALID, 0,
                             "dcp_mpi_open: MPI is not initialised; call MPI_Init or MPI_Init_thread first");
    if (MPI_Finalized(&yes) != MPI_SUCCESS || yes)
        return dcpi_mpi_fail(err, DCP_E_INVALID, 0, "dcp_mpi_open: MPI has been finalised already");
    if (comm == MPI_COMM_NULL) return dcpi_mpi_fail(err, DCP_E_INVALID, 0, "dcp_mpi_open: comm is MPI_COMM_NULL");
    if (MPI_Comm_test_inter(comm, &yes) != MPI_SUCCESS || yes)
        return dcpi_mpi_fail(err, DCP_E_INVALID, 0,
                             "dcp_mpi_open: comm is an intercommunicator; MPI_Intercomm_merge makes one that will do");
    return DCP_OK;
}
static dcp_status dcpi_mpi_set_up(dcpi_mpi *m, dcp_coordinator *c, dcp_error *err) {
    int *most_tag = NULL, has_it = 0, level = MPI_THREAD_SINGLE;
    int code = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(m->comm, &c->rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(m->comm, &c->world_size);
    if (code == MPI_SUCCESS) code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most_tag, &has_it);
    if (code == MPI_SUCCESS) code = MPI_Query_thread(&level);
    if (code != MPI_SUCCESS) return dcpi_mpi_error(err, 0, "dcp_mpi_open", code);
    m->coordinator = c;
    m->most_tag = has_it ? *most_tag : 32767;           /* what the standard promises */
    if (m->most_tag < 0x0DC00FF)
        return dcpi_mpi_fail(err, DCP_E_UNSUPPORTED, c->rank, "dcp_mpi_open: this MPI's tags end at %d; %d is needed",
                             m->most_tag, 0x0DC00FF);
    c->context = m;
    c->thread_safe = DCPI_MPI_HAS_LOCK && level == MPI_THREAD_MULTIPLE;
    c->send = dcpi_mpi_send;
    c->receive = dcpi_mpi_receive;
    c->destroy = dcpi_mpi_destroy;
    return DCP_OK;
}
DCPDEF dcp_status dcp_mpi_open(MPI_Comm comm, dcp_coordinator **out, dcp_error *err) {
    dcp_status status;
    dcpi_mpi *m;
    dcp_coordinator *c;
    int code;
    if (!out) return dcpi_mpi_fail(err, DCP_E_INVALID, 0, "dcp_mpi_open: out is NULL");
    *out = NULL;
    status = dcpi_mpi_check(comm, err);
    if (status) return status;
    m = (dcpi_mpi *)DCP_MALLOC(sizeof *m);
    c = (dcp_coordinator *)DCP_MALLOC(sizeof *c);
    if (m) memset(m, 0, sizeof *m);
    if (c) memset(c, 0, sizeof *c);
    {
        MPI_Comm mine = MPI_COMM_NULL;
        code = MPI_Comm_dup(comm, &mine);               /* without memory too: the others wait in it */
        if (m) m->comm = mine;
    }
    if (code != MPI_SUCCESS) status = dcpi_mpi_error(err, 0, "MPI_Comm_dup", code);
    else if (!m || !c) status = dcpi_mpi_no_memory(err, 0, sizeof *m + sizeof *c);
    else status = dcpi_mpi_set_up(m, c, err);
    if (status) {               /* the duplicate is lost: freeing it is collective, and the others may have succeeded */
        if (m) DCP_FREE(m);
        if (c) DCP_FREE(c);
        return status;
    }
    *out = c;
    if (err) memset(err, 0, sizeof *err);
    return DCP_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* DCP_MPI_IMPLEMENTED */
