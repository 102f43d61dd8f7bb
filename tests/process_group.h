/* process_group.h - ranks that are processes, so that a test can kill and stop them: a coordinator over socket pairs,
 * and what forks them.
 *
 *     #include "dcp.h"                               // with DCP_IMPLEMENTATION
 *     #include "test.h"
 *     #include "process_group.h"
 *
 *     static void rank_main(dcp_coordinator *c, process_record *out, void *user) {
 *         process_stage(out, 1);                     // the test can wait for this moment
 *         out->status = dcp_barrier(c, WITHIN(1000), &out->err);
 *     }
 *     process_group g;
 *     process_group_start(&g, 4, rank_main, NULL);   // forks 4 ranks; no other thread may run
 *     process_await_stage(&g, 2, 1);
 *     process_signal(&g, 2, SIGSTOP);                // or SIGKILL, SIGCONT
 *     CHECK(process_await_end(&g, 1u << 2, 5000));  // all but rank 2 have ended within 5 s
 *     CHECK_INT(g.shared->record[0].status, DCP_E_TIMEOUT);
 *     process_group_end(&g);                         // kills what still runs
 *
 * Messages are frames {from, tag, size} and bytes in a stream socket for each pair of ranks, never blocking; whoever
 * waits, to send or to receive, takes in what has come meanwhile, so two ranks that send much to each other don't
 * block. A rank that ends without closing its coordinator is DCP_E_COMM at once for all that wait for it or for any
 * rank; a closed one for those that wait for it. A stopped one is silent. A send that timed out in the middle of a
 * frame leaves that stream unusable; one that may not wait keeps the rest of its frame. Not thread-safe. Not on
 * Windows. */
#ifndef DCP_PROCESS_GROUP_H
#define DCP_PROCESS_GROUP_H

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define PROCESS_MOST 16
#define PROCESS_BYE 0xFFFFFFFFu         /* the tag of the frame that says: closed in good order */

typedef struct process_record {         /* of one rank, in shared memory */
    dcp_status status; dcp_error err;
    int64_t took_ms;
    long long number[8]; char text[512];
    volatile int stage;
} process_record;
typedef struct process_shared { process_record record[PROCESS_MOST]; } process_shared;
typedef void (*process_main)(dcp_coordinator *c, process_record *out, void *user);
typedef struct process_group {
    int n;
    pid_t pid[PROCESS_MOST];            /* 0: has ended */
    int exit_status[PROCESS_MOST];      /* as waitpid gives it */
    process_shared *shared;
} process_group;

/* ---- the coordinator --------------------------------------------------------------------------------------------- */
typedef struct process_letter { struct process_letter *next; uint32_t tag; size_t size; void *data; } process_letter;
typedef struct process_peer {
    int fd;                             /* -1: this rank itself, or the stream has ended */
    int closed, torn;                   /* it said goodbye; a frame to it was cut */
    unsigned char head[16]; size_t head_at;
    process_letter *coming; size_t coming_at;               /* the frame that is coming in */
    process_letter *first, *last;
    char *rest; size_t rest_size, rest_at;                  /* of a frame that was sent without waiting */
} process_peer;
typedef struct process_context {
    dcp_coordinator *self;
    int rank, n, turn;
    process_peer peer[PROCESS_MOST];
} process_context;

static dcp_status process_error(dcp_error *err, dcp_status status, int sys, int rank, const char *text) {
    (void)dcpi_fail_sys(err, status, sys, "process group: rank %d: %s", rank, text);
    if (err) err->rank = rank;
    return status;
}
static void process_peer_end(process_peer *p) {
    if (p->fd >= 0) (void)close(p->fd);
    p->fd = -1;
}
/* A frame is whole: into the queue. */
static void process_peer_push(process_peer *p) {
    process_letter *letter = p->coming;
    p->coming = NULL;
    p->head_at = p->coming_at = 0;
    if (letter->tag == PROCESS_BYE) { p->closed = 1; free(letter); return; }
    if (p->last) p->last->next = letter;
    else p->first = letter;
    p->last = letter;
}
static int process_peer_begin(process_peer *p) {            /* the head is whole; 0: no memory */
    process_letter *letter = (process_letter *)calloc(1, sizeof *letter);
    uint64_t size;
    if (!letter) return 0;
    memcpy(&letter->tag, p->head + 4, 4);
    memcpy(&size, p->head + 8, 8);
    letter->size = (size_t)size;
    letter->data = size ? DCP_MALLOC((size_t)size) : NULL;
    if (size && !letter->data) { free(letter); return 0; }
    p->coming = letter;
    return 1;
}
/* Takes in what is there, without waiting. */
static void process_peer_read(process_peer *p) {
    while (p->fd >= 0) {
        ssize_t n;
        if (!p->coming) n = recv(p->fd, p->head + p->head_at, sizeof p->head - p->head_at, MSG_DONTWAIT);
        else n = recv(p->fd, (char *)p->coming->data + p->coming_at, p->coming->size - p->coming_at, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) { process_peer_end(p); return; }
        if (p->coming) p->coming_at += (size_t)n;
        else p->head_at += (size_t)n;
        if (!p->coming && p->head_at == sizeof p->head && !process_peer_begin(p)) { process_peer_end(p); return; }
        if (p->coming && p->coming_at == p->coming->size) process_peer_push(p);
    }
}
/* Waits until something has come in, `to` (or -1) can be written to, or the time is over; takes in what has come. */
static void process_wait(process_context *g, int to, int64_t until) {
    struct pollfd polls[PROCESS_MOST];
    int rank_of[PROCESS_MOST], count = 0, i;
    const int64_t left = until - dcpi_os_monotonic_ms();
    for (i = 0; i < g->n; i++) {
        if (g->peer[i].fd < 0) continue;
        polls[count].fd = g->peer[i].fd;
        polls[count].events = (short)(i == to ? POLLIN | POLLOUT : POLLIN);
        polls[count].revents = 0;
        rank_of[count++] = i;
    }
    if (poll(polls, (nfds_t)count, left > 0 ? (int)left : 0) <= 0) return;
    for (i = 0; i < count; i++)
        if (polls[i].revents & (POLLIN | POLLHUP | POLLERR)) process_peer_read(&g->peer[rank_of[i]]);
}
/* The rest of what was sent without waiting, as far as it goes. 0: there is more. */
static int process_peer_flush(process_peer *p) {
    while (p->rest && p->fd >= 0 && p->rest_at < p->rest_size) {
        const ssize_t n = send(p->fd, p->rest + p->rest_at, p->rest_size - p->rest_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) { p->rest_at += (size_t)n; continue; }
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        break;                                              /* whoever sends or receives next sees that it has ended */
    }
    free(p->rest);
    p->rest = NULL;
    return 1;
}
static dcp_status process_keep_rest(process_peer *p, const unsigned char *head, size_t head_size, const void *data,
                                    size_t size, size_t at) {
    p->rest_size = head_size + size;
    p->rest_at = at;
    p->rest = (char *)malloc(p->rest_size);
    if (!p->rest) _exit(70);
    memcpy(p->rest, head, head_size);
    if (size) memcpy(p->rest + head_size, data, size);
    return DCP_OK;
}
static dcp_status process_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                               dcp_error *err) {
    process_context *g = (process_context *)context;
    process_peer *p = &g->peer[to];
    const int64_t until = dcpi_os_monotonic_ms() + timeout_ms;
    unsigned char head[16];
    const uint32_t from = (uint32_t)g->rank, mark = (uint32_t)tag;
    const uint64_t bytes = size;
    size_t at = 0;
    memcpy(head, &from, 4);
    memcpy(head + 4, &mark, 4);
    memcpy(head + 8, &bytes, 8);
    if (p->torn) return process_error(err, DCP_E_COMM, 0, to, "an earlier message to it was cut");
    while (!process_peer_flush(p)) {
        if (timeout_ms == 0) return DCP_PENDING;
        if (dcpi_os_monotonic_ms() >= until) return process_error(err, DCP_E_TIMEOUT, 0, to, "takes no message");
        process_wait(g, to, until);
    }
    while (at < sizeof head + size) {
        ssize_t n;
        if (p->fd < 0 || p->closed)
            return process_error(err, DCP_E_COMM, EPIPE, to, p->closed ? "has closed" : "has ended");
        if (at < sizeof head) n = send(p->fd, head + at, sizeof head - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
            n = send(p->fd, (const char *)data + (at - sizeof head), sizeof head + size - at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) { at += (size_t)n; continue; }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {      /* what it sent before it died is still to be read */
            process_peer_read(p);
            process_peer_end(p);
            continue;
        }
        if (timeout_ms == 0) return at ? process_keep_rest(p, head, sizeof head, data, size, at) : DCP_PENDING;
        if (dcpi_os_monotonic_ms() >= until) {
            p->torn = at > 0;
            return process_error(err, DCP_E_TIMEOUT, 0, to, "takes no message");
        }
        process_wait(g, to, until);
    }
    return DCP_OK;
}
static int process_take(process_peer *p, uint32_t tag, void **data, size_t *size) {
    process_letter *before = NULL, *letter = p->first;
    while (letter && letter->tag != tag) { before = letter; letter = letter->next; }
    if (!letter) return 0;
    if (before) before->next = letter->next;
    else p->first = letter->next;
    if (p->last == letter) p->last = before;
    *data = letter->data;
    *size = letter->size;
    free(letter);
    return 1;
}
/* The rank whose end means that nothing more is to be waited for, or -1. */
static int process_gone(const process_context *g, int from) {
    int i, open = 0;
    if (from != DCP_ANY_RANK) return g->peer[from].fd < 0 || g->peer[from].closed ? from : -1;
    for (i = 0; i < g->n; i++) {
        if (i == g->rank) continue;
        if (g->peer[i].fd < 0 && !g->peer[i].closed) return i;
        open += !g->peer[i].closed;
    }
    return open ? -1 : (g->rank + 1) % g->n;
}
static dcp_status process_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                  dcp_error *err) {
    process_context *g = (process_context *)context;
    const int64_t until = dcpi_os_monotonic_ms() + timeout_ms;
    int late = 0, i, gone;
    for (i = 0; i < g->n; i++) (void)process_peer_flush(&g->peer[i]);
    for (;;) {
        process_wait(g, -1, 0);                    /* all that is there already, so that an end is not seen before it */
        for (i = 0; i < g->n; i++) {
            const int who = *from == DCP_ANY_RANK ? (g->turn + i) % g->n : *from;
            if (!process_take(&g->peer[who], (uint32_t)tag, data, size)) continue;
            if (*from == DCP_ANY_RANK) g->turn = (who + 1) % g->n;          /* nobody starves */
            *from = who;
            return DCP_OK;
        }
        gone = process_gone(g, *from);
        if (gone >= 0)
            return process_error(err, DCP_E_COMM, EPIPE, gone, g->peer[gone].closed ? "has closed" : "has ended");
        if (late) return DCP_PENDING;
        process_wait(g, -1, until);
        late = dcpi_os_monotonic_ms() >= until;
    }
}
static void process_destroy(void *context) {
    process_context *g = (process_context *)context;
    unsigned char bye[16];
    const uint32_t from = (uint32_t)g->rank, mark = PROCESS_BYE;
    void *data;
    size_t size;
    int i;
    memset(bye, 0, sizeof bye);
    memcpy(bye, &from, 4);
    memcpy(bye + 4, &mark, 4);
    for (i = 0; i < g->n; i++) {
        process_peer *p = &g->peer[i];
        const int64_t until = dcpi_os_monotonic_ms() + 2000;
        while (!process_peer_flush(p) && dcpi_os_monotonic_ms() < until) process_wait(g, i, until);
        p->torn |= p->rest != NULL;
        free(p->rest);
        if (p->fd >= 0 && !p->torn && send(p->fd, bye, sizeof bye, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) p->torn = 1;
        process_peer_end(p);
        while (p->first) if (process_take(p, p->first->tag, &data, &size)) dcp_free(data);
        if (p->coming) { dcp_free(p->coming->data); free(p->coming); }
    }
    dcp_free(g->self);
    free(g);
}
/* `fds`: the sockets to the others, which it takes over; -1 for itself. */
static dcp_coordinator *process_coordinator(int rank, int n, const int *fds) {
    process_context *g = (process_context *)calloc(1, sizeof *g);
    dcp_coordinator *c = (dcp_coordinator *)DCP_MALLOC(sizeof *c);
    int i;
    if (!g || !c) _exit(70);
    memset(c, 0, sizeof *c);
    g->rank = rank;
    g->n = n;
    for (i = 0; i < n; i++) g->peer[i].fd = fds[i];
    g->self = c;
    c->context = g;
    c->rank = rank;
    c->world_size = n;
    c->send = process_send;
    c->receive = process_receive;
    c->destroy = process_destroy;
    return c;
}

/* ---- forking, signals, reaping ----------------------------------------------------------------------------------- */
static inline void process_stage(process_record *out, int stage) { dcpi_flag_set(&out->stage, stage); }

static void process_child(process_group *g, int rank, int sockets[PROCESS_MOST][PROCESS_MOST], process_main run,
                          void *user) {
    dcp_coordinator *c;
    int i, j;
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);                 /* a test that fails leaves no stopped process behind */
#endif
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(100);
    for (i = 0; i < g->n; i++)
        for (j = 0; j < g->n; j++) if (i != rank && sockets[i][j] >= 0) (void)close(sockets[i][j]);
    c = process_coordinator(rank, g->n, sockets[rank]);
    run(c, &g->shared->record[rank], user);
    dcp_coordinator_close(c);
    _exit(0);
}
static inline void process_group_start(process_group *g, int n, process_main run, void *user) {
    int sockets[PROCESS_MOST][PROCESS_MOST], i, j;
    void *memory = mmap(NULL, sizeof *g->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && n <= PROCESS_MOST);
    memset(g, 0, sizeof *g);
    g->n = n;
    g->shared = (process_shared *)memory;
    for (i = 0; i < n; i++) {
        sockets[i][i] = -1;
        for (j = 0; j < i; j++) {
            int pair[2];
            CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            sockets[i][j] = pair[0];
            sockets[j][i] = pair[1];
        }
    }
    (void)fflush(stdout);
    for (i = 0; i < n; i++) {
        g->pid[i] = fork();
        if (g->pid[i] == 0) process_child(g, i, sockets, run, user);
        CHECK(g->pid[i] > 0);
    }
    for (i = 0; i < n; i++) for (j = 0; j < n; j++) if (sockets[i][j] >= 0) (void)close(sockets[i][j]);
}
static inline void process_await_stage(process_group *g, int rank, int stage) {
    const int64_t until = dcpi_os_monotonic_ms() + 20000;
    while (dcpi_flag_get(&g->shared->record[rank].stage) < stage && dcpi_os_monotonic_ms() < until) dcpi_os_sleep_ms(1);
    CHECK(dcpi_flag_get(&g->shared->record[rank].stage) >= stage);
}
/* With SIGSTOP it returns when the rank has stopped, with SIGKILL when it has gone. */
static inline void process_signal(process_group *g, int rank, int number) {
    CHECK(g->pid[rank] > 0);
    CHECK_INT(kill(g->pid[rank], number), 0);
    if (number == SIGSTOP) CHECK(waitpid(g->pid[rank], &g->exit_status[rank], WUNTRACED) == g->pid[rank]);
    if (number != SIGKILL) return;
    CHECK(waitpid(g->pid[rank], &g->exit_status[rank], 0) == g->pid[rank]);
    g->pid[rank] = 0;
}
/* Whether all ranks but those in `except` (bits) have ended within the time. */
static inline int process_await_end(process_group *g, unsigned except, int timeout_ms) {
    const int64_t until = dcpi_os_monotonic_ms() + timeout_ms;
    for (;;) {
        int i, running = 0;
        for (i = 0; i < g->n; i++) {
            if (g->pid[i] == 0 || (except >> i & 1)) continue;
            if (waitpid(g->pid[i], &g->exit_status[i], WNOHANG) == g->pid[i]) g->pid[i] = 0;
            else running++;
        }
        if (running == 0) return 1;
        if (dcpi_os_monotonic_ms() >= until) return 0;
        dcpi_os_sleep_ms(2);
    }
}
static inline void process_group_end(process_group *g) {
    int i;
    for (i = 0; i < g->n; i++) if (g->pid[i] > 0) (void)kill(g->pid[i], SIGKILL);
    for (i = 0; i < g->n; i++) if (g->pid[i] > 0) (void)waitpid(g->pid[i], &g->exit_status[i], 0);
    (void)munmap(g->shared, sizeof *g->shared);
}

#endif
