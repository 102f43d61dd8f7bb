/* own_coordinator.c - a job that has no MPI: processes that talk through pipes save and load together.
 *
 * Shows all that a coordinator must have, send and receive, on any reliable streams: a message is a header and its
 * bytes; what arrives goes to a queue, where receive looks for its tag and sender; a rank that is gone is
 * DCP_E_COMM. Does not show how ranks find each other, or sends that receive while they wait.
 * Build: cc -O2 own_coordinator.c -I.. -o own_coordinator -lm -pthread
 * Run:   ./own_coordinator [directory]   (default: checkpoints)   Needs POSIX.
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { MOST = 8, PATIENCE_MS = 10000, SIZE = 1000000 };
typedef struct head { int64_t tag, size; } head;
typedef struct message { struct message *next; int from; head h; void *data; } message;
typedef struct job { int in[MOST], out[MOST], rank, count; message *queue; } job;    /* in -1: closed; oldest first */
static int64_t now_ms(void) {
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t), (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static dcp_status fail(dcp_error *err, dcp_status status, int rank, const char *what) {
    if (err) snprintf(err->message, sizeof err->message, "%s rank %d", what, rank), err->sys = 0, err->rank = rank;
    return err ? err->status = status : status;
}
static int left_until(int64_t end) { return end > now_ms() ? (int)(end - now_ms()) : 0; }
static dcp_status transfer(int fd, void *data, size_t size, int is_out, int64_t end) {      /* all of it, in time */
    for (size_t done = 0; done < size;) {
        struct pollfd ready = {fd, (short)(is_out ? POLLOUT : POLLIN), 0};
        if (poll(&ready, 1, left_until(end)) == 0) return DCP_E_TIMEOUT;
        if (!ready.revents) continue;                                   /* interrupted by a signal */
        size_t room = size - done < PIPE_BUF || !is_out ? size - done : PIPE_BUF;      /* so that write does not wait */
        ssize_t n = is_out ? write(fd, (char *)data + done, room) : read(fd, (char *)data + done, room);
        if (n > 0) done += (size_t)n; else return DCP_E_COMM;
    }
    return DCP_OK;
}
static dcp_status send_to(void *c, int to, int tag, const void *data, size_t size, int timeout_ms, dcp_error *err) {
    int fd = ((job *)c)->out[to];
    int64_t end = now_ms() + timeout_ms;
    head h = {tag, (int64_t)size};
    dcp_status status = transfer(fd, &h, sizeof h, 1, end);
    if (status == DCP_OK) status = transfer(fd, (void *)data, size, 1, end);
    return status == DCP_OK ? DCP_OK : fail(err, status, to, "cannot send to");
}
static dcp_status take(job *j, int from) {              /* its next message goes to the end of the queue */
    message *m = (message *)calloc(1, sizeof *m), **last = &j->queue;
    int64_t end = now_ms() + PATIENCE_MS;
    dcp_status status = m ? transfer(j->in[from], &m->h, sizeof m->h, 0, end) : DCP_E_MEMORY;
    if (status == DCP_E_COMM) return close(j->in[from]), j->in[from] = -1, free(m), DCP_OK;
    if (status == DCP_OK && m->h.size > 0 && !(m->data = malloc((size_t)m->h.size))) status = DCP_E_MEMORY;
    if (status == DCP_OK) status = transfer(j->in[from], m->data, (size_t)m->h.size, 0, end);
    m->from = from;
    while (*last) last = &(*last)->next;
    return *last = m, status;
}
static dcp_status receive(void *c, int *from, int tag, void **data, size_t *size, int timeout_ms, dcp_error *err) {
    job *j = (job *)c;
    int64_t end = now_ms() + timeout_ms;
    dcp_status status;
    for (int here = 0;; here = 0) {
        struct pollfd in[MOST] = {{0, 0, 0}};
        for (message **at = &j->queue, *m; (m = *at) != NULL; at = &m->next) {
            if (m->h.tag != tag || (*from != DCP_ANY_RANK && *from != m->from)) continue;
            *at = m->next, *from = m->from, *data = m->data, *size = (size_t)m->h.size;       /* the library frees it */
            return free(m), DCP_OK;
        }
        for (int i = 0; i < j->count; i++) in[i].fd = j->in[i], in[i].events = POLLIN, here += in[i].fd >= 0;
        if (here == 0 || (*from >= 0 && j->in[*from] < 0))
            return fail(err, DCP_E_COMM, *from, "nothing more comes from");
        if (poll(in, (nfds_t)j->count, left_until(end)) == 0) return *data = NULL, *size = 0, DCP_PENDING;
        for (int i = 0; i < j->count; i++)
            if (in[i].revents && (status = take(j, i)) != DCP_OK) return fail(err, status, i, "cannot receive from");
    }
}
static void leave(void *c) {
    for (int i = 0; i < ((job *)c)->count; i++) close(((job *)c)->in[i]), close(((job *)c)->out[i]);
}
static int run(job *j, const char *path, int is_save) {              /* a rank: its part of a vector, saved or loaded */
    static float part[SIZE];
    const int64_t whole[] = {SIZE}, at[] = {SIZE * j->rank / j->count};
    const int64_t count[] = {SIZE * (j->rank + 1) / j->count - at[0]};
    dcp_coordinator c = DCP_ZERO;                                       /* all other members are the library's */
    dcp_tensor t = dcp_array("vector", DCP_FP32, part, 1, count);
    dcp_save_desc save = DCP_ZERO; dcp_load_desc load = DCP_ZERO;
    dcp_error err; int wrong = 0;
    c.context = j, c.rank = j->rank, c.world_size = j->count, c.send = send_to, c.receive = receive, c.destroy = leave;
    dcp_piece(&t, whole, at);
    for (int64_t i = 0; i < count[0] && is_save; i++) part[i] = (float)(at[0] + i);
    save.path = load.path = path, save.tensors = load.tensors = &t, save.tensor_count = load.tensor_count = 1;
    save.io.log = load.io.log = dcp_log_stderr;
    save.overwrite = 1, save.io.coordinator = load.io.coordinator = &c;
    if ((is_save ? dcp_save(&save, &err) : dcp_load(&load, &err)) != DCP_OK)
        wrong = fprintf(stderr, "%s\n", err.message);
    for (int64_t i = 0; i < count[0]; i++) wrong |= part[i] != (float)(at[0] + i);
    return dcp_coordinator_close(&c), wrong != 0;                       /* calls leave */
}
static int run_job(int count, const char *path, int is_save) {          /* so many processes; how many failed */
    int ends[MOST][MOST][2], failed = 0, how, a, b, r;                  /* ends[a][b]: of the pipe from a to b */
    for (a = 0; a < count; a++) for (b = 0; b < count; b++) if (pipe(ends[a][b]) != 0) return 1;
    for (r = 0; r < count; r++) {
        job j = {{0}, {0}, r, count, NULL};
        if (fork() != 0) continue;
        for (a = 0; a < count; a++) for (b = 0; b < count; b++) {
            if (b == r && a != r) j.in[a] = ends[a][b][0]; else close(ends[a][b][0]);
            if (a == r && b != r) j.out[b] = ends[a][b][1]; else close(ends[a][b][1]);
        }
        j.in[r] = j.out[r] = -1, _exit(run(&j, path, is_save));
    }
    for (a = 0; a < count; a++) for (b = 0; b < count; b++) close(ends[a][b][0]), close(ends[a][b][1]);
    while (wait(&how) > 0) failed += how != 0;
    return failed;
}
int main(int argc, char **argv) {
    char path[512];
    signal(SIGPIPE, SIG_IGN);                                           /* writing to a rank that is gone: an error */
    snprintf(path, sizeof path, "%s/own_coordinator", argc > 1 ? argv[1] : "checkpoints");
    if (run_job(4, path, 1) != 0 || run_job(3, path, 0) != 0) return 1;
    return printf("proved: 4 processes saved one checkpoint through pipes, and 3 loaded it\n") < 0;
}
