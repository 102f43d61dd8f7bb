/* =====================================================================================================================
 * >>coord       One operation: its defaults, clock, cancel and progress; the crew of threads that does its work; its
 *               ranks.
 * ================================================================================================================== */
#define DCPI_MAX_WORKERS 16

typedef struct dcpi_peer {
    int64_t heard_ms;                                   /* its last sign of life */
    uint8_t *message; size_t size;                      /* what it has said in this round, NULL: nothing yet */
    /* why it failed: it may say so after its part of the round; NULL: it did not */
    uint8_t *failure; size_t failure_size;
    int posted; uint32_t stuck_at;               /* messages to it in the outbox; the last flush that it took none in */
} dcpi_peer;
typedef struct dcpi_posted {
    struct dcpi_posted *next;
    int to;
    int64_t since_ms;
    size_t size;
    /* then the message */
} dcpi_posted;
typedef struct dcpi_team {                              /* the ranks of one operation, as one of them sees them */
    dcp_coordinator *coordinator;                       /* NULL: one rank */
    int rank, world_size;
    uint32_t operation, step;         /* of this coordinator; of this operation: what has been sent up or down so far */
    uint32_t call;                               /* stands for what the ranks must have in common: see dcpi_team_same */
    dcpi_peer *peers; int peer_count;                   /* rank 0: all ranks; others: rank 0, */
    dcpi_peer lead;                                     /* in here, so that a rank without memory can say so */
    int64_t spoke_ms, listened_ms, first_failure_ms;
    int is_promised;                     /* this rank has done its part: from here on rank 0's word alone counts (G5) */
    int has_said_all;                                   /* its last word is on its way: others may have DCP_OK by now */
    const char *name;                                   /* of the call */
    int is_over;                                        /* nothing is sent or awaited any more */
    int is_following;                            /* awaits rank 0's word, and leaves in the mail what comes after it; */
    /* may still fail by itself; that word is the verdict; this rank's own status */
    int may_fail, is_last; dcp_status own;
    int is_polled;                                      /* driven by steps that wait for nobody (>>async): */
    dcpi_posted *outbox, **outbox_end; uint32_t flushes;        /* what the coordinator did not take at once */
    int is_broken, is_again;                            /* see DCPI_OVER_ */
    int has_errand;                                 /* a thread of ours works on the operation beside the calling one */
    dcp_error failure;                                  /* what ended the operation, as far as this rank knows */
} dcpi_team;

typedef struct dcpi_op {
    dcp_io io;                                          /* with the defaults filled in */
    int64_t started_ms, phase_ms, reported_ms;
    int64_t checked_ms, longest_gap_ms;       /* between two looks at the clock: a process that was stopped finds out */
    /* the same for other threads: a gap beyond the timeout; the last look, since the start */
    volatile int stood_still, looked_ms;
    const dcp_cancel *cancel_too;                       /* beside io.cancel; may be NULL */
    int is_committed;                                   /* what is left to do is tidying up: no cancel, no deadline */
    int is_beside;                               /* works on another thread than the one that speaks for it (>>async) */
    volatile int is_hopeless;                           /* set by that one: the operation has failed elsewhere */
    dcp_progress progress;
    dcp_report warnings;                                /* under dcpi_warnings_lock */
    dcpi_team team;
} dcpi_op;
static dcp_status dcpi_team_tick(dcpi_op *op, dcp_error *err);

static dcp_status dcpi_op_check_io(const dcp_io *io, dcp_error *err) {
    if (io->timeout_ms < 0)
        return dcpi_fail(err, DCP_E_INVALID, "io.timeout_ms is negative (0 is the default of 300,000)");
    if (io->deadline_ms < 0) return dcpi_fail(err, DCP_E_INVALID, "io.deadline_ms is negative (0 is no deadline)");
    if (io->threads < 0) return dcpi_fail(err, DCP_E_INVALID, "io.threads is negative (0 chooses)");
    if (io->retry.attempts < 0 || io->retry.first_ms < 0 || io->retry.max_ms < 0)
        return dcpi_fail(err, DCP_E_INVALID, "io.retry has a negative member");
    if (io->memory_budget != 0 && io->memory_budget < DCPI_MIB)
        return dcpi_fail(err, DCP_E_INVALID,
                         "io.memory_budget is %" PRIu64 " bytes; at least 1 MiB is needed (0 is the default of 64 MiB)",
                (uint64_t)io->memory_budget);
    return DCP_OK;
}
/* Usable even after a failure: then with the defaults in place of what was wrong. */
static dcp_status dcpi_op_begin(dcpi_op *op, const dcp_io *io, dcp_error *err) {
    memset(op, 0, sizeof *op);
    op->io = *io;
    op->team.world_size = 1;
    op->started_ms = op->phase_ms = op->checked_ms = dcpi_os_monotonic_ms();
    op->reported_ms = op->started_ms - 1000;
    if (op->io.memory_budget == 0) op->io.memory_budget = 64 * DCPI_MIB;
    /* no bound: sums stay in range */
    if (op->io.memory_budget > SIZE_MAX / 4) op->io.memory_budget = SIZE_MAX / 4;
    if (op->io.timeout_ms <= 0) op->io.timeout_ms = 300000;
    if (op->io.retry.attempts <= 0) op->io.retry.attempts = 3;
    if (op->io.retry.first_ms <= 0) op->io.retry.first_ms = 50;
    if (op->io.retry.max_ms <= 0) op->io.retry.max_ms = 2000;
    return dcpi_op_check_io(io, err);
}
static dcp_status dcpi_op_check_cancel(const dcpi_op *op, dcp_error *err) {     /* any thread */
    if (op->is_committed || (!(op->io.cancel && dcpi_flag_get(&op->io.cancel->requested)) &&
                             !(op->cancel_too && dcpi_flag_get(&op->cancel_too->requested)))) return DCP_OK;
    return dcpi_fail(err, DCP_E_CANCELLED, "cancelled in phase %s", dcp_phase_name(op->progress.phase));
}
static void dcpi_op_note_time(dcpi_op *op) {            /* calling thread */
    int64_t now = dcpi_os_monotonic_ms();
    op->longest_gap_ms = dcpi_max(op->longest_gap_ms, now - op->checked_ms);
    if (now - op->checked_ms > op->io.timeout_ms) dcpi_flag_set(&op->stood_still, 1);
    op->checked_ms = now;
    dcpi_flag_set(&op->looked_ms, (int)(now - op->started_ms));
}
/* Any thread: whether the calling thread has stood still for so long that the other ranks have given up by now. */
static dcp_status dcpi_op_check_awake(const dcpi_op *op, dcp_error *err) {
    const int64_t gap = dcpi_os_monotonic_ms() - op->started_ms - dcpi_flag_get(&op->looked_ms);
    if (op->team.world_size == 1 || (gap <= op->io.timeout_ms && !dcpi_flag_get(&op->stood_still))) return DCP_OK;
    return dcpi_fail(err, DCP_E_TIMEOUT, "this rank stood still for more than %d ms: the others have given up by now",
                     op->io.timeout_ms);
}
/* Calling thread: whether the operation should end now. With several ranks it must be called often, since it shows that
 * this one lives. */
static dcp_status dcpi_op_check(dcpi_op *op, dcp_error *err) {
    dcp_status status = dcpi_op_check_cancel(op, err);
    const int is_silent = op->team.has_errand || op->is_beside;         /* another thread speaks for it */
    if (status) return status;
    if (op->is_beside && dcpi_flag_get(&op->is_hopeless))
        return dcpi_fail(err, DCP_E_CANCELLED, "the save has failed on another rank");
    if (op->io.deadline_ms > 0 && !op->is_committed && dcpi_os_monotonic_ms() - op->started_ms > op->io.deadline_ms)
        return dcpi_fail(err, DCP_E_TIMEOUT, "the deadline of %" PRId64 " ms passed in phase %s, after %" PRId64 " of %"
                         PRId64 " bytes", op->io.deadline_ms,
                         dcp_phase_name(op->progress.phase), op->progress.bytes_done, op->progress.bytes_total);
    return is_silent ? DCP_OK : dcpi_team_tick(op, err);
}
/* Calling thread, while it waits for what cannot be broken off: this rank lives, whatever has become of the
 * operation. */
static void dcpi_op_show_life(dcpi_op *op) {
    dcp_error ignored;
    if (op->team.has_errand || op->is_beside) return;
    dcpi_op_note_time(op);
    (void)dcpi_team_tick(op, &ignored);
}
static void dcpi_op_report(dcpi_op *op, int64_t done, int force) {       /* calling thread */
    int64_t now = dcpi_os_monotonic_ms();
    op->progress.bytes_done = done;
    if (!op->io.progress || op->team.has_errand || (!force && now - op->reported_ms < 100)) return;
    op->reported_ms = now;
    op->progress.bytes_per_second = now > op->phase_ms ? (double)done * 1000.0 / (double)(now - op->phase_ms) : 0.0;
    op->io.progress(op->io.progress_user, &op->progress);
}
static void dcpi_op_phase(dcpi_op *op, dcp_phase phase, int64_t total) {
    op->progress.phase = phase;
    op->progress.bytes_done = 0;
    op->progress.bytes_total = total;
    op->phase_ms = dcpi_os_monotonic_ms();
}
/* Warnings are counted here and nowhere else; an operation may have several threads. */
static dcpi_mutex dcpi_warnings_lock = DCPI_MUTEX_INITIALIZER;
static void dcpi_warnings_add(dcp_report *to, int64_t count, const char *first) {
    if (count == 0) return;
    if (to->warning_count == 0) (void)snprintf(to->warning, sizeof to->warning, "%.511s", first);
    to->warning_count += count;
}
static void dcpi_report_clear(dcp_report *report) { if (report) memset(report, 0, sizeof *report); }
/* Adds what the operation has warned of to a report, which may be NULL. */
static void dcpi_op_tell_warnings(const dcpi_op *op, dcp_report *report) {
    if (!report) return;
    dcpi_mutex_lock(&dcpi_warnings_lock);
    dcpi_warnings_add(report, op->warnings.warning_count, op->warnings.warning);
    dcpi_mutex_unlock(&dcpi_warnings_lock);
}
static void dcpi_op_log(dcpi_op *op, dcp_log_level level, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_op_log(dcpi_op *op, dcp_log_level level, const char *format, ...) {
    char message[700];
    va_list arguments;
    if (!op->io.log && level != DCP_LOG_WARNING) return;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    message[sizeof message - 1] = '\0';
    dcpi_message_clean(message, sizeof message);
    if (level == DCP_LOG_WARNING) {
        dcpi_mutex_lock(&dcpi_warnings_lock);
        dcpi_warnings_add(&op->warnings, 1, message);
        dcpi_mutex_unlock(&dcpi_warnings_lock);
    }
    if (op->io.log) op->io.log(op->io.log_user, level, message);
}
DCPDEF void dcp_log_stderr(void *user, dcp_log_level level, const char *message) {
    static const char *const names[] = { "error", "warning", "info", "debug" };
    (void)user;
    (void)fprintf(stderr, "dcp: %s: %s\n", (unsigned)level < DCPI_COUNT(names) ? names[level] : "?",
                  message ? message : "");
}
/* Workers: what the caller asked for, else two for each processor (one computes while the other waits for the storage),
 * but no more than pay. */
static int dcpi_op_threads(const dcpi_op *op, int worthwhile) {
    int wanted = op->io.threads ? op->io.threads : (int)dcpi_min(2 * (int64_t)dcpi_os_processors(), worthwhile);
    return (int)dcpi_min(wanted, DCPI_MAX_WORKERS);
}

/* ---- crew: threads that run one function until the work is done, while the calling thread watches ---------------- */
typedef struct dcpi_crew {
    dcpi_mutex lock; dcpi_cond changed;     /* `changed` wakes everybody: any state below, or the owner's own, is new */
    dcpi_thread threads[DCPI_MAX_WORKERS]; int count;   /* calling thread only */
    int running;                                        /* workers that have not returned */
    int stop;                                          /* set with the first error: finish what is in hand and return */
    dcp_error error;
} dcpi_crew;

static dcp_status dcpi_crew_open(dcpi_crew *crew, dcp_error *err) {
    memset(crew, 0, sizeof *crew);
    if (dcpi_mutex_init(&crew->lock)) return dcpi_no_memory(err, sizeof crew->lock);
    if (dcpi_cond_init(&crew->changed)) {
        dcpi_mutex_destroy(&crew->lock);
        return dcpi_no_memory(err, sizeof crew->changed);
    }
    return DCP_OK;
}
/* Starts up to `wanted` workers; crew->count tells how many there are: 0 means that the calling thread does the work
 * itself. */
static void dcpi_crew_start(dcpi_crew *crew, int wanted, dcpi_thread_fn fn, void *argument) {
    dcpi_mutex_lock(&crew->lock);
    while (DCPI_THREADS && crew->count < wanted && dcpi_thread_start(&crew->threads[crew->count], fn, argument) == 0) {
        crew->count++;
        crew->running++;
    }
    dcpi_mutex_unlock(&crew->lock);
}
static void dcpi_crew_fail(dcpi_crew *crew, const dcp_error *err) {     /* under the lock; the first error stays */
    if (!crew->stop) crew->error = *err;
    crew->stop = 1;
    dcpi_cond_wake_all(&crew->changed);
}
static int dcpi_crew_is_stopped(dcpi_crew *crew) {                      /* any thread, not under the lock */
    int stop;
    dcpi_mutex_lock(&crew->lock);
    stop = crew->stop;
    dcpi_mutex_unlock(&crew->lock);
    return stop;
}
static void dcpi_crew_leave(dcpi_crew *crew) {                          /* a worker's last act, under the lock */
    crew->running--;
    dcpi_cond_wake_all(&crew->changed);
}
static dcp_status dcpi_crew_close(dcpi_crew *crew, dcp_error *err) {
    int i;
    for (i = 0; i < crew->count; i++) dcpi_thread_join(&crew->threads[i]);
    dcpi_cond_destroy(&crew->changed);
    dcpi_mutex_destroy(&crew->lock);
    if (!crew->stop) return DCP_OK;
    if (err) *err = crew->error;
    return crew->error.status;
}

/* ---- trying again: the one way for whatever a storage refused ---------------------------------------------------- */
#define DCPI_PAUSE_SLICE_MS 20                          /* between two looks at cancel, deadline and the other ranks */

/* After `attempt` failed attempts: exponential, full jitter. */
static int64_t dcpi_retry_pause(const dcp_retry *retry, int attempt) {
    int64_t limit = retry->first_ms;
    uint32_t random = 0;
    int i;
    for (i = 1; i < attempt && limit < retry->max_ms; i++) limit *= 2;
    limit = dcpi_min(limit, retry->max_ms);
    (void)dcpi_os_random(&random, sizeof random);
    return 1 + (int64_t)(random % (uint32_t)(limit + 1));
}
/* Sleeps, awake to what ends the operation, which is then in *err. crew: on a worker of it; NULL: on the thread that
 * speaks for the operation, which goes on showing life. */
static dcp_status dcpi_op_pause(dcpi_op *op, dcpi_crew *crew, int64_t ms, dcp_error *err) {
    int64_t slept;
    for (slept = 0; slept < ms; slept += DCPI_PAUSE_SLICE_MS) {
        dcp_status status = crew ? dcpi_op_check_cancel(op, err) : dcpi_op_check(op, err);
        if (!status && crew && dcpi_crew_is_stopped(crew))
            status = dcpi_fail(err, DCP_E_CANCELLED, "stopped after another failure");
        if (status) return status;
        dcpi_os_sleep_ms((int)dcpi_min(DCPI_PAUSE_SLICE_MS, ms - slept));
    }
    return DCP_OK;
}
/* Whether to try again after `attempt` attempts, the last of which ended in *err; if so, after a pause. If the
 * operation ends in the pause, *err says why: the caller's status is err->status then. what: for the log; NULL: the
 * caller logs. */
static int dcpi_op_retry(dcpi_op *op, dcpi_crew *crew, int may_help, int attempt, const char *what, dcp_error *err) {
    dcp_error ended;
    int64_t pause;
    if (!may_help || attempt >= op->io.retry.attempts) return 0;
    pause = dcpi_retry_pause(&op->io.retry, attempt);
    if (what)
        dcpi_op_log(op, DCP_LOG_WARNING, "%s failed, attempt %d of %d; again in %" PRId64 " ms: %s", what, attempt,
                    op->io.retry.attempts, pause,
                    err->message);
    if (dcpi_op_pause(op, crew, pause, &ended) == DCP_OK) return 1;
    *err = ended;
    return 0;
}
/* only transient errors */
static int dcpi_op_again(dcpi_op *op, int attempt, const char *what, dcp_error *err) {
    return dcpi_op_retry(op, NULL, dcpi_storage_is_transient(err), attempt, what, err);
}
/* ---- ranks: everything that the library sends and receives goes through two wrappers, which know a broken coordinator
 * ------------------- */
#define DCPI_TAG_COLLECTIVE 0x0DC0001                   /* barrier, broadcast, gather, allreduce */
#define DCPI_TAG_OPERATION  0x0DC0002                   /* saves and loads */
#define DCPI_TAG_DATA       0x0DC0003                   /* tensor bytes */
#define DCPI_TAG_SAVER      0x0DC0004                   /* whether a saver is busy */
#define DCPI_TAG_HERE       0x0DC0005                   /* to rank 0: this rank waits in a collective call */
#define DCPI_TAG_END        (1 << 28)

typedef char dcpi_status_is_an_int[sizeof(dcp_status) == sizeof(int) ? 1 : -1];

/* Several threads may use a thread-safe coordinator, so what broke it is read and set as a flag. */
static dcp_status dcpi_coord_broken(const dcp_coordinator *c) {
    const int broken = dcpi_flag_get((const volatile int *)(const volatile void *)&c->broken);
    return (dcp_status)broken;
}
static void dcpi_coord_break(dcp_coordinator *c, dcp_status status) {
    dcpi_flag_set((volatile int *)(volatile void *)&c->broken, (int)status);
}
static dcp_status dcpi_coord_check(const dcp_coordinator *c, dcp_error *err) {
    if (c->world_size < 1)
        return dcpi_fail(err, DCP_E_INVALID, "the coordinator's world_size is %d; at least 1 is needed", c->world_size);
    if (c->rank < 0 || c->rank >= c->world_size)
        return dcpi_fail(err, DCP_E_INVALID, "the coordinator's rank is %d; with a world_size of %d it is 0 to %d",
                         c->rank, c->world_size, c->world_size - 1);
    if (c->world_size > 1 && (!c->send || !c->receive))
        return dcpi_fail(err, DCP_E_INVALID,
                         "the coordinator has no %s; both send and receive are needed with %d ranks", c->send
                         ? "receive" : "send", c->world_size);
    return DCP_OK;
}
static dcp_status dcpi_coord_check_broken(const dcp_coordinator *c, dcp_error *err) {
    dcp_status broken = dcpi_coord_broken(c);
    if (broken == DCP_OK) return DCP_OK;
    (void)dcpi_fail(err, broken, "the coordinator broke earlier (%s) and cannot be used any more: close it and open a "
                                 "new one, on all ranks", dcp_status_name(broken));
    if (err) err->rank = c->rank;
    return broken;
}
/* What a callback's failure means: who and where come before its message, and after most failures nothing of it is
 * touched again. */
static dcp_status dcpi_coord_failed(dcp_coordinator *c, dcp_status status, const char *what, int peer, int tag,
                                    dcp_error *err) {
    if (status != DCP_E_MEMORY && status != DCP_E_INVALID) dcpi_coord_break(c, status);
    if (!err) return status;
    if (peer == DCP_ANY_RANK)
        dcpi_fail_context(err, "rank %d could not %s any rank (tag 0x%X): ", c->rank, what, (unsigned)tag);
    else dcpi_fail_context(err, "rank %d could not %s rank %d (tag 0x%X): ", c->rank, what, peer, (unsigned)tag);
    if (peer != DCP_ANY_RANK) err->rank = peer;
    else if (err->rank <= 0) err->rank = c->rank;       /* else the coordinator knows which one it was */
    return status;
}
static dcp_status dcpi_coord_check_call(const dcp_coordinator *c, int peer, int tag, dcp_error *err) {
    if (peer < 0 || peer >= c->world_size || peer == c->rank || tag < 0 || tag >= DCPI_TAG_END)
        return dcpi_fail(err, DCP_E_INVALID, "rank %d of %d exchanges no message with rank %d, tag %d", c->rank,
                         c->world_size, peer, tag);
    return DCP_OK;
}
/* The callbacks themselves; DCP_PENDING is what their contract says. */
static dcp_status dcpi_coord_call_send(dcp_coordinator *c, int to, int tag, const void *data, size_t size,
                                       int timeout_ms, dcp_error *err) {
    dcp_status status;
    (void)dcpi_succeed(err);
    status = c->send(c->context, to, tag, data, size, timeout_ms, err);
    if (status == DCP_PENDING) return status;
    if (status == DCP_E_TIMEOUT && err && err->message[0] == '\0')
        return dcpi_fail(err, status, "not taken within %d ms", timeout_ms);
    return dcpi_callback_status(&dcpi_by_coordinator, status, err, "could not send");
}
static dcp_status dcpi_coord_call_receive(dcp_coordinator *c, int *from, int tag, void **data, size_t *size,
                                          int timeout_ms, dcp_error *err) {
    dcp_status status;
    (void)dcpi_succeed(err);
    status = c->receive(c->context, from, tag, data, size, timeout_ms, err);
    if (status == DCP_PENDING) return status;
    return dcpi_callback_status(&dcpi_by_coordinator, status, err, "could not receive");
}
/* timeout_ms: 0 (or less) is what can be done without waiting. */
static dcp_status dcpi_coord_send(dcp_coordinator *c, int to, int tag, const void *data, size_t size, int timeout_ms,
                                  dcp_error *err) {
    dcp_status status = dcpi_coord_check_broken(c, err);
    if (status) return status;
    status = dcpi_coord_check_call(c, to, tag, err);
    if (status) return status;
    status = dcpi_coord_call_send(c, to, tag, data, size, timeout_ms > 0 ? timeout_ms : 0, err);
    if (status == DCP_OK) return DCP_OK;
    if (status == DCP_PENDING)
        status = dcpi_fail(err, DCP_E_TIMEOUT, "not taken within %d ms", timeout_ms > 0 ? timeout_ms : 0);
    return dcpi_coord_failed(c, status, "send to", to, tag, err);
}
/* *from: a rank or DCP_ANY_RANK, then who it was. *data: dcpi_free it. DCP_PENDING: nothing came within timeout_ms; no
 * error, no message. */
static dcp_status dcpi_coord_receive(dcp_coordinator *c, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                     dcp_error *err) {
    const int asked = *from;
    dcp_status status = dcpi_coord_check_broken(c, err);
    *data = NULL;
    *size = 0;
    if (status) return status;
    status = dcpi_coord_check_call(c, asked == DCP_ANY_RANK ? (c->rank + 1) % c->world_size : asked, tag, err);
    if (status) return status;
    status = dcpi_coord_call_receive(c, from, tag, data, size, timeout_ms > 0 ? timeout_ms : 0, err);
    if (status == DCP_OK && *from >= 0 && *from < c->world_size && *from != c->rank &&
        (asked == DCP_ANY_RANK || *from == asked) && (*data || *size == 0)) return dcpi_succeed(err);
    if (status == DCP_OK) {
        if (*data) dcpi_free(*data);
        status = dcpi_fail(err, DCP_E_COMM, "its receive returned rank %d and %" PRIu64
                           " bytes%s, against its contract", *from, (uint64_t)*size, *data ? "" : " at NULL");
    }
    *from = asked;
    *data = NULL;
    *size = 0;
    if (status != DCP_PENDING) return dcpi_coord_failed(c, status, "receive from", asked, tag, err);
    (void)dcpi_succeed(err);
    if (err) err->status = DCP_PENDING;
    return DCP_PENDING;
}

/* ---- collectives: trees of messages (declared in >>api_plug) -------------------------------------------------------
 * Each rank has a place in a tree: (rank - base) mod world size, so the base has place 0. The parent of a place is the
 * place without its lowest set bit; its children are the place + 1, + 2, + 4, ... below that bit, and the child at
 * place + 2^k has the places up to place + 2^(k+1) - 1 behind it. So a subtree is a run of ranks, which keeps
 * reductions in rank order.
 *
 * First the ranks agree, in the tree of rank 0, whatever the call and its root are: so who makes another call, or has
 * another root, is found out at once, and no data moves before all have called. Then the data go through the tree of
 * the root.
 *
 *   all          up:   what is called, once all children have     down: go on
 *   allreduce    the same, with the subtree's reduction going up and the result coming down
 *   broadcast                                                      down: the data
 *   gather       up:   the sizes of the subtree, then its data, part by part as it arrives
 *
 * A stream of bytes is cut into messages of a header and at most DCPI_COORD_PIECE bytes. A rank that gives up tells its
 * parent and children why (a message of kind FAILURE), and these theirs. A rank that has waited for half of the timeout
 * tells rank 0 that it is here (with a tag of its own, since rank 0 need not look); rank 0, which is the first to give
 * up, then knows who is missing, and tells everybody. */
#ifndef DCPI_COORD_PIECE
#define DCPI_COORD_PIECE DCPI_MIB
#endif
#define DCPI_COORD_TIMEOUT 300000
#define DCPI_WAVE_MAGIC 0x57504344u                     /* "DCPW" */
#define DCPI_WAVE_HEADER 32

enum { DCPI_WAVE_BARRIER = 1, DCPI_WAVE_BROADCAST, DCPI_WAVE_GATHER, DCPI_WAVE_ALLREDUCE, DCPI_WAVE_FAILURE };
typedef struct dcpi_wave {
    dcp_coordinator *c;
    int kind, root;
    int base, place;                                    /* of the tree that is used just now */
    /* is_here: rank 0 knows; here: on rank 0, NULL or who has said so */
    int is_agreeing, is_here; uint8_t *here;
    int is_told;                                        /* everybody knows why this has ended */
    int timeout_ms; int64_t started_ms;
    uint32_t sequence; uint64_t size;                   /* size: what all ranks must agree on; 0 for a gather */
    int looking;                                        /* only for a better reason, after a wait has ended */
    /* the rank whose FAILURE ended this, or -1; bit k: child k has sent what it begins with */
    int heard_from; uint32_t arrived;
    dcp_error *err, own;                       /* err: the caller's, or own if that is NULL: a FAILURE needs the text */
} dcpi_wave;
/* The header of each message: magic, kind, sequence, root, size (8 bytes), then of a FAILURE its status and rank; the
 * text follows. */
typedef struct dcpi_wave_head {
    uint32_t kind, sequence;
    int root;
    uint64_t size;
    dcp_status status;
    int rank;
} dcpi_wave_head;

static const char *dcpi_wave_name(uint32_t kind) {
    static const char *const names[] = { "?", "dcp_barrier", "dcp_broadcast", "dcp_gather", "dcp_allreduce", "?" };
    return names[kind <= DCPI_WAVE_FAILURE ? kind : 0];
}
static void dcpi_wave_write_head(const dcpi_wave *w, uint8_t head[DCPI_WAVE_HEADER]) {
    memset(head, 0, DCPI_WAVE_HEADER);
    dcpi_store32(head, DCPI_WAVE_MAGIC);
    dcpi_store32(head + 4, (uint32_t)w->kind);
    dcpi_store32(head + 8, w->sequence);
    dcpi_store32(head + 12, (uint32_t)w->root);
    dcpi_store64(head + 16, w->size);
    dcpi_store32(head + 28, (uint32_t)w->c->world_size); /* of a FAILURE: its rank */
}
static int dcpi_wave_read_head(const uint8_t *data, size_t size, dcpi_wave_head *head) {        /* 0: it is none */
    uint32_t status;
    if (size < DCPI_WAVE_HEADER || dcpi_load32(data) != DCPI_WAVE_MAGIC) return 0;
    head->kind = dcpi_load32(data + 4);
    head->sequence = dcpi_load32(data + 8);
    head->root = (int)dcpi_load32(data + 12);
    head->size = dcpi_load64(data + 16);
    status = dcpi_load32(data + 24);
    head->status = status <= DCP_E_UNKNOWN ? (dcp_status)status : DCP_E_COMM;
    head->rank = (int)dcpi_load32(data + 28);
    return 1;
}

/* ---- the tree */
static int dcpi_wave_rank(const dcpi_wave *w, int place) {
    return (int)(((int64_t)place + w->base) % w->c->world_size);
}
static int dcpi_wave_parent(const dcpi_wave *w) { return dcpi_wave_rank(w, w->place & (w->place - 1)); }
/* The distance to child k (0, 1, ...), or 0 if there is none. */
static int dcpi_wave_child(const dcpi_wave *w, int k) {
    const int lowest = w->place & -w->place;
    if (k >= 30 || (w->place != 0 && 1 << k >= lowest)) return 0;
    return 1 << k < w->c->world_size - w->place ? 1 << k : 0;
}
static int dcpi_wave_subtree(const dcpi_wave *w, int distance) {    /* ranks at and behind the child at that distance */
    return (int)dcpi_min(distance, w->c->world_size - w->place - distance);
}
static int dcpi_wave_levels(int ranks) {                                /* of a tree of so many ranks; 0 for one */
    int levels = 0;
    while (levels < 30 && 1 << levels < ranks) levels++;
    return levels;
}

/* ---- time: who is nearest to a missing rank gives up first and tells; the others wait a little longer for that
 * news */
static int64_t dcpi_wave_limit_up(const dcpi_wave *w, int distance) {
    /* of a wait for a child: up to 10 % for the levels behind it */
    const int behind = dcpi_wave_levels(dcpi_wave_subtree(w, distance)), all = dcpi_wave_levels(w->c->world_size);
    return w->timeout_ms + (int64_t)w->timeout_ms * behind / (10 * (int64_t)all);
}
static int64_t dcpi_wave_limit_down(const dcpi_wave *w) {
    /* of a wait for the parent: 10 to 15 %, by its levels to the root */
    const int all = dcpi_wave_levels(w->c->world_size);
    int above = 0, place;
    for (place = w->place; place; place &= place - 1) above++;
    return w->timeout_ms + (int64_t)w->timeout_ms * (2 * all + above) / (20 * (int64_t)all);
}
static int64_t dcpi_wave_limit_data(const dcpi_wave *w) { return w->timeout_ms + (int64_t)w->timeout_ms * 15 / 100; }
static int dcpi_wave_left(const dcpi_wave *w, int64_t limit) {
    const int64_t left = limit - (dcpi_os_monotonic_ms() - w->started_ms);
    return (int)dcpi_max(0, dcpi_min(left, INT_MAX));
}

/* ---- giving up: what went wrong is in w->err */
/* Who sent the reason knows it. After a failed send the coordinator is broken, and the rest do nothing. */
static void dcpi_wave_tell(dcpi_wave *w, int to, const uint8_t *message, size_t size) {
    if (to == w->heard_from || to == w->c->rank) return;
    (void)dcpi_coord_send(w->c, to, DCPI_TAG_COLLECTIVE, message, size, 0, NULL);
}
static void dcpi_wave_tell_one(dcpi_wave *w, int to, const dcp_error *why) {
    uint8_t message[DCPI_WAVE_HEADER + sizeof why->message];
    const size_t size = DCPI_WAVE_HEADER + strlen(why->message);
    dcpi_wave_write_head(w, message);
    dcpi_store32(message + 4, DCPI_WAVE_FAILURE);
    dcpi_store32(message + 24, (uint32_t)why->status);
    dcpi_store32(message + 28, (uint32_t)why->rank);
    memcpy(message + DCPI_WAVE_HEADER, why->message, size - DCPI_WAVE_HEADER);
    dcpi_wave_tell(w, to, message, size);
}
static void dcpi_wave_tell_all(dcpi_wave *w, const dcp_error *why) {
    int k, distance;
    if (w->place && dcpi_wave_parent(w) != why->rank) dcpi_wave_tell_one(w, dcpi_wave_parent(w), why);
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        if (dcpi_wave_rank(w, w->place + distance) != why->rank)
            dcpi_wave_tell_one(w, dcpi_wave_rank(w, w->place + distance), why);
    if (why->rank != w->c->rank) dcpi_wave_tell_one(w, why->rank, why);         /* it may be gone, or come back */
}
static dcp_status dcpi_wave_end(dcpi_wave *w, dcp_status status) {
    dcpi_free(w->here);
    w->here = NULL;
    if (status == DCP_OK) return dcpi_succeed(w->err);
    /* else the coordinator itself failed, and is not touched again */
    if (!dcpi_coord_broken(w->c) && !w->is_told) {
        if (status == DCP_E_MEMORY) w->err->rank = w->c->rank;
        dcpi_wave_tell_all(w, w->err);
    }
    dcpi_coord_break(w->c, status);
    return status;
}

/* ---- one message */
static dcp_status dcpi_wave_adopt(dcpi_wave *w, int from, const dcpi_wave_head *head, const uint8_t *text,
                                  size_t size) {
    const dcp_status status = head->status > DCP_PENDING ? head->status : DCP_E_COMM;
    w->heard_from = from;
    (void)dcpi_fail(w->err, status, "%.*s", (int)dcpi_min((int64_t)size, (int64_t)sizeof w->err->message),
                    (const char *)text);
    w->err->rank = head->rank;
    return status;
}
static dcp_status dcpi_wave_look_around(dcpi_wave *w);

/* Whether another rank makes this very call. */
static dcp_status dcpi_wave_compare(dcpi_wave *w, int from, const dcpi_wave_head *head) {
    char worlds[80] = "";
    if (head->kind == (uint32_t)w->kind && head->sequence == w->sequence && head->root == w->root &&
        head->size == w->size && head->rank == w->c->world_size) return DCP_OK;
    if (head->rank != w->c->world_size)
        (void)snprintf(worlds, sizeof worlds, ", and their world sizes are %d and %d", w->c->world_size, head->rank);
    (void)dcpi_fail(w->err, DCP_E_MISMATCH, "rank %d calls %s (root %d, %" PRIu64 " bytes, its collective call %" PRIu32
                    "), but rank %d %s (root %d, %" PRIu64 " bytes, its call %" PRIu32 ")%s: all ranks must make the "
                    "same calls in the same order", w->c->rank, dcpi_wave_name((uint32_t)w->kind), w->root, w->size,
                    w->sequence, from, dcpi_wave_name(head->kind), head->root, head->size, head->sequence, worlds);
    w->err->rank = from;
    return DCP_E_MISMATCH;
}
/* Whether a message belongs to this very call. */
static dcp_status dcpi_wave_check(dcpi_wave *w, int from, const uint8_t *data, size_t size) {
    dcpi_wave_head head;
    dcp_status status;
    if (!dcpi_wave_read_head(data, size, &head)) {
        status = dcpi_fail(w->err, DCP_E_COMM, "%s: rank %d got %" PRIu64
                           " bytes from rank %d that are no message of a collective: tag 0x%X "
                           "belongs to the library", dcpi_wave_name((uint32_t)w->kind), w->c->rank, (uint64_t)size,
                           from,
                           (unsigned)DCPI_TAG_COLLECTIVE);
        w->err->rank = from;
        return status;
    }
    if (head.kind == DCPI_WAVE_FAILURE && head.rank == w->c->rank && head.status == DCP_E_TIMEOUT) {
        if (w->looking) return DCP_OK;
        status = dcpi_wave_look_around(w);      /* this rank is missed, but here: perhaps since it makes another call */
        if (status) return status;
    }
    if (head.kind == DCPI_WAVE_FAILURE)
        return dcpi_wave_adopt(w, from, &head, data + DCPI_WAVE_HEADER, size - DCPI_WAVE_HEADER);
    return dcpi_wave_compare(w, from, &head);
}
static dcp_status dcpi_wave_receive_one(dcpi_wave *w, int *from, int64_t limit, void **memory, size_t *size) {
    dcp_status status = dcpi_coord_receive(w->c, from, DCPI_TAG_COLLECTIVE, memory, size, dcpi_wave_left(w, limit),
                                           w->err);
    if (status != DCP_OK && status != DCP_PENDING) dcpi_fail_context(w->err, "%s: ", dcpi_wave_name((uint32_t)w->kind));
    return status;
}
/* While the ranks agree, on another rank than 0: after half of the timeout it tells rank 0 that it is here; after all
 * of it rank 0's word may come instead, from itself. */
#define DCPI_WAVE_SLICE_MS 20
static dcp_status dcpi_wave_await(dcpi_wave *w, int *from, int64_t limit, void **memory, size_t *size) {
    const int asked = *from;
    uint8_t head[DCPI_WAVE_HEADER];
    int64_t until = dcpi_min(w->is_here ? w->timeout_ms : w->timeout_ms / 2, limit);
    dcp_status status = dcpi_wave_receive_one(w, from, until, memory, size);
    if (status != DCP_PENDING || w->looking) return status;
    if (!w->is_here) {
        dcpi_wave_write_head(w, head);
        w->is_here = 1;
        status = dcpi_coord_send(w->c, 0, DCPI_TAG_HERE, head, sizeof head, dcpi_wave_left(w, limit), w->err);
        if (status) return status;
        status = dcpi_wave_receive_one(w, from, dcpi_min(w->timeout_ms, limit), memory, size);
    }
    while (status == DCP_PENDING && dcpi_wave_left(w, limit) > 0) {
        until = dcpi_min(limit, dcpi_os_monotonic_ms() - w->started_ms + DCPI_WAVE_SLICE_MS);
        *from = asked;
        status = dcpi_wave_receive_one(w, from, asked == 0 ? limit : until, memory, size);
        if (status != DCP_PENDING || asked == 0) break;
        *from = 0;
        status = dcpi_wave_receive_one(w, from, 0, memory, size);
    }
    return status;
}
/* DCP_PENDING: nothing within `limit` ms of the call's begin. *data: header and bytes, dcpi_free. */
static dcp_status dcpi_wave_take(dcpi_wave *w, int *from, int64_t limit, uint8_t **data, size_t *size) {
    void *memory;
    dcp_status status;
    if (w->is_agreeing && w->c->rank != 0) status = dcpi_wave_await(w, from, limit, &memory, size);
    else status = dcpi_wave_receive_one(w, from, limit, &memory, size);
    *data = NULL;
    if (status == DCP_OK) status = dcpi_wave_check(w, *from, (const uint8_t *)memory, *size);
    if (status) dcpi_free(memory);
    else *data = (uint8_t *)memory;
    return status;
}

/* ---- who is missing */
static dcp_status dcpi_wave_late(dcpi_wave *w, int rank, int64_t limit, const char *whom) {
    const dcp_status status = dcpi_fail(w->err, DCP_E_TIMEOUT,
                                        "%s: rank %d has waited %" PRId64 " ms for %s: does it run, and make the same "
                                        "call? The coordinator is broken now: close it and open a new one, on all "
                                        "ranks", dcpi_wave_name((uint32_t)w->kind), w->c->rank, limit, whom);
    w->err->rank = rank;
    return status;
}
/* A wait has ended in vain. Marks the children whose message has come meanwhile; a message of a rank that made another
 * call, or that gave up, is the better reason. */
static dcp_status dcpi_wave_look_around(dcpi_wave *w) {
    int looks;
    w->looking = 1;
    for (looks = 0; looks < w->c->world_size; looks++) {
        int from = DCP_ANY_RANK, k, distance;
        uint8_t *data;
        size_t size;
        dcp_status status = dcpi_wave_take(w, &from, 0, &data, &size);
        if (status == DCP_PENDING) break;
        if (status) return status;
        dcpi_free(data);
        for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
            if (from == dcpi_wave_rank(w, w->place + distance)) w->arrived |= (uint32_t)1 << k;
    }
    return DCP_OK;
}
static dcp_status dcpi_wave_late_parent(dcpi_wave *w, int64_t limit) {
    char whom[80];
    const dcp_status status = dcpi_wave_look_around(w);
    if (status) return status;
    (void)snprintf(whom, sizeof whom, "rank %d (or one that it waits for)", dcpi_wave_parent(w));
    return dcpi_wave_late(w, dcpi_wave_parent(w), limit, whom);
}
static void dcpi_wave_name_child(const dcpi_wave *w, int distance, char *text, size_t capacity) {
    const int first = dcpi_wave_rank(w, w->place + distance), count = dcpi_wave_subtree(w, distance);
    const int second = (first + 1) % w->c->world_size, last = dcpi_wave_rank(w, w->place + distance + count - 1);
    if (count == 1) (void)snprintf(text, capacity, "rank %d", first);
    else if (count == 2) (void)snprintf(text, capacity, "rank %d (or rank %d behind it)", first, second);
    else
        (void)snprintf(text, capacity, "rank %d (or one of %d to %d behind it%s)", first, second, last,
                       last < second ? ", counted round" : "");
}
static dcp_status dcpi_wave_late_children(dcpi_wave *w, int64_t limit) {
    const dcp_status status = dcpi_wave_look_around(w);
    char whom[320];
    size_t used = 0;
    int k, distance, missing = -1;
    if (status) return status;
    whom[0] = '\0';
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++) {
        if (w->arrived >> k & 1) continue;
        if (missing >= 0) used += (size_t)snprintf(whom + used, sizeof whom - used, ", ");
        else missing = dcpi_wave_rank(w, w->place + distance);
        dcpi_wave_name_child(w, distance, whom + used, sizeof whom - used);
        used += strlen(whom + used);
        if (used + 70 > sizeof whom) break;
    }
    return dcpi_wave_late(w, missing, limit, missing >= 0 ? whom : "a message of a rank behind it");
}

/* Rank 0: who has said that it is here, in this call; what earlier calls left is dropped. */
static dcp_status dcpi_wave_read_here(dcpi_wave *w) {
    for (;;) {
        int from = DCP_ANY_RANK;
        dcpi_wave_head head;
        void *memory;
        size_t size;
        int is_now;
        dcp_status status = dcpi_coord_receive(w->c, &from, DCPI_TAG_HERE, &memory, &size, 0, w->err);
        if (status == DCP_PENDING) return dcpi_succeed(w->err);
        if (status) return status;
        is_now = dcpi_wave_read_head((const uint8_t *)memory, size, &head) &&
            (int32_t)(head.sequence - w->sequence) >= 0;
        dcpi_free(memory);
        if (!is_now) continue;
        status = dcpi_wave_compare(w, from, &head);
        if (status) return status;
        if (!w->here) w->here = (uint8_t *)dcpi_alloc_array((size_t)w->c->world_size, 1, w->err);
        if (!w->here) return DCP_E_MEMORY;
        w->here[from] = 1;
    }
}
/* Those whose subtree has arrived are here as well. */
static void dcpi_wave_add_arrived(const dcpi_wave *w, uint8_t *here) {
    int k, distance, i;
    here[w->c->rank] = 1;
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        for (i = 0; (w->arrived >> k & 1) && i < dcpi_wave_subtree(w, distance); i++)
            here[dcpi_wave_rank(w, w->place + distance + i)] = 1;
}
/* "rank 3", "ranks 1 and 3", "ranks 1, 3 to 7 and 9"; the number of ranks that are missing, and the first. */
static int dcpi_wave_list_missing(const uint8_t *here, int ranks, int *first, char *text, size_t capacity) {
    int r, end, missing = 0, runs = 0, last = -1;
    size_t used;
    for (r = 0; r < ranks; r++) if (!here[r]) { missing++; if (r == 0 || here[r - 1]) last = r; }
    used = (size_t)snprintf(text, capacity, missing == 1 ? "rank" : "ranks");
    for (r = 0; r < ranks; r = end) {
        for (end = r + 1; end < ranks && here[end] == here[r];) end++;
        if (here[r]) continue;
        if (runs++ == 0) *first = r;
        if (used + 64 > capacity) { (void)snprintf(text + used, capacity - used, " and more"); break; }
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", runs == 1 ? " " : r == last ? " and " : ", ", r);
        if (end > r + 1) used += (size_t)snprintf(text + used, capacity - used, end > r + 2 ? " to %d"
                                                  : " and %d", end - 1);
    }
    return missing;
}
static void dcpi_wave_tell_everybody(dcpi_wave *w, const dcp_error *why) {
    int r, is_here;
    for (is_here = 1; is_here >= 0; is_here--)          /* who is missing, last: it may be gone, or come back */
        for (r = 1; r < w->c->world_size; r++)
            if (w->here[r] == is_here) dcpi_wave_tell_one(w, r, why);
}
/* Rank 0 has waited for a child in vain. */
static dcp_status dcpi_wave_late_ranks(dcpi_wave *w, int64_t limit) {
    char whom[300];
    int first = 0;
    dcp_status status = dcpi_wave_look_around(w);
    if (!status) status = dcpi_wave_read_here(w);
    if (!status && !w->here) w->here = (uint8_t *)dcpi_alloc_array((size_t)w->c->world_size, 1, w->err);
    if (status || !w->here) return status ? status : DCP_E_MEMORY;
    dcpi_wave_add_arrived(w, w->here);
    if (dcpi_wave_list_missing(w->here, w->c->world_size, &first, whom, sizeof whom) == 0)
        return dcpi_wave_late(w, dcpi_wave_rank(w, w->place + 1), limit, "messages on their way");
    status = dcpi_wave_late(w, first, limit, whom);
    dcpi_wave_tell_everybody(w, w->err);
    w->is_told = 1;
    return status;
}

/* ---- streams: `size` bytes that both sides know, in as many messages as it takes, at least one */
static dcp_status dcpi_wave_send(dcpi_wave *w, int to, const void *data, size_t size) {
    const size_t most = size < DCPI_COORD_PIECE ? size : DCPI_COORD_PIECE;
    uint8_t *message = (uint8_t *)dcpi_alloc(DCPI_WAVE_HEADER + most, w->err);
    size_t at = 0;
    dcp_status status;
    if (!message) return DCP_E_MEMORY;
    dcpi_wave_write_head(w, message);
    do {
        const size_t piece = size - at < most ? size - at : most;
        if (piece) memcpy(message + DCPI_WAVE_HEADER, (const uint8_t *)data + at, piece);
        status = dcpi_coord_send(w->c, to, DCPI_TAG_COLLECTIVE, message, DCPI_WAVE_HEADER + piece,
                                 dcpi_wave_left(w, dcpi_wave_limit_data(w)), w->err);
        at += piece;
    } while (status == DCP_OK && at < size);
    dcpi_free(message);
    if (status) dcpi_fail_context(w->err, "%s: ", dcpi_wave_name((uint32_t)w->kind));
    return status;
}
static dcp_status dcpi_wave_check_due(dcpi_wave *w, int from, uint64_t bytes, uint64_t due) {
    dcp_status status;
    if (bytes <= due && (bytes > 0 || due == 0)) return DCP_OK;
    status = dcpi_fail(w->err, DCP_E_COMM, "%s: rank %d got %" PRIu64 " bytes from rank %d where %" PRIu64 " are due",
                       dcpi_wave_name((uint32_t)w->kind), w->c->rank, bytes, from, due);
    w->err->rank = from;
    return status;
}
/* DCP_PENDING: not all within `limit` ms of the call's begin. */
static dcp_status dcpi_wave_receive(dcpi_wave *w, int from, int64_t limit, void *data, size_t size) {
    size_t at = 0;
    do {
        uint8_t *message;
        size_t bytes;
        dcp_status status = dcpi_wave_take(w, &from, limit, &message, &bytes);
        if (status) return status;
        bytes -= DCPI_WAVE_HEADER;
        status = dcpi_wave_check_due(w, from, bytes, size - at);
        if (status == DCP_OK && bytes) memcpy((uint8_t *)data + at, message + DCPI_WAVE_HEADER, bytes);
        dcpi_free(message);
        if (status) return status;
        at += bytes;
    } while (at < size);
    return DCP_OK;
}
static dcp_status dcpi_wave_from_parent(dcpi_wave *w, void *data, size_t size) {
    const int64_t limit = dcpi_wave_limit_down(w);
    const dcp_status status = dcpi_wave_receive(w, dcpi_wave_parent(w), limit, data, size);
    return status == DCP_PENDING ? dcpi_wave_late_parent(w, limit) : status;
}
static dcp_status dcpi_wave_from_child(dcpi_wave *w, int k, void *data, size_t size) {
    const int distance = dcpi_wave_child(w, k);
    const int is_lead = w->c->rank == 0 && w->is_agreeing;
    /* another rank than 0 waits for rank 0's word, though it knows whom it misses */
    const int64_t limit = !w->is_agreeing || is_lead ? dcpi_wave_limit_up(w, distance) : dcpi_wave_limit_down(w);
    const dcp_status status = dcpi_wave_receive(w, dcpi_wave_rank(w, w->place + distance), limit, data, size);
    if (status == DCP_PENDING) return is_lead ? dcpi_wave_late_ranks(w, limit) : dcpi_wave_late_children(w, limit);
    w->arrived |= (uint32_t)1 << k;
    return status;
}

/* ---- the four */
/* w->c is NULL on success if there is nobody to exchange anything with. */
static dcp_status dcpi_wave_begin(dcpi_wave *w, dcp_coordinator *c, int kind, int root, size_t size, int timeout_ms,
                                  dcp_error *err) {
    const int ranks = c ? c->world_size : 1;
    dcp_status status;
    memset(w, 0, sizeof *w);
    w->err = err ? err : &w->own;
    if (timeout_ms < 0)
        return dcpi_fail(err, DCP_E_INVALID, "%s: timeout_ms is negative (0 is the default of %d)",
                         dcpi_wave_name((uint32_t)kind), DCPI_COORD_TIMEOUT);
    status = c ? dcpi_coord_check(c, err) : DCP_OK;
    if (status) return status;
    if (root < 0 || root >= ranks)
        return dcpi_fail(err, DCP_E_INVALID, "%s: root is %d; with %d ranks it is 0 to %d",
                         dcpi_wave_name((uint32_t)kind), root, ranks, ranks - 1);
    if (ranks == 1) return dcpi_succeed(err);
    status = dcpi_coord_check_broken(c, err);
    if (status) return status;
    w->c = c;
    w->kind = kind;
    w->root = root;
    w->place = c->rank;                                 /* in the tree of rank 0 at first */
    w->is_agreeing = 1;
    w->timeout_ms = timeout_ms ? timeout_ms : DCPI_COORD_TIMEOUT;
    w->started_ms = dcpi_os_monotonic_ms();
    w->sequence = c->collectives++;
    w->size = size;
    w->heard_from = -1;
    return dcpi_succeed(err);
}
typedef void (*dcpi_reduce_fn)(void *inout, const void *in, size_t size, void *user);

static dcp_status dcpi_wave_reduce(dcpi_wave *w, void *data, size_t size, dcpi_reduce_fn reduce, void *user) {
    void *in = size && dcpi_wave_child(w, 0) ? dcpi_alloc(size, w->err) : NULL;
    dcp_status status = size && dcpi_wave_child(w, 0) && !in ? DCP_E_MEMORY : DCP_OK;
    int k;
    if (status == DCP_OK && w->c->rank == 0) status = dcpi_wave_read_here(w);
    for (k = 0; status == DCP_OK && dcpi_wave_child(w, k); k++) {
        status = dcpi_wave_from_child(w, k, in, size);
        if (status == DCP_OK && reduce) reduce(data, in, size, user);
    }
    dcpi_free(in);
    return status;
}
/* A barrier is a reduction of nothing. */
static dcp_status dcpi_wave_reduce_all(dcpi_wave *w, void *data, size_t size, dcpi_reduce_fn reduce, void *user) {
    dcp_status status = dcpi_wave_reduce(w, data, size, reduce, user);
    int k;
    if (status == DCP_OK && w->place) status = dcpi_wave_send(w, dcpi_wave_parent(w), data, size);
    if (status == DCP_OK && w->place) status = dcpi_wave_from_parent(w, data, size);
    for (k = 29; status == DCP_OK && k >= 0; k--)       /* the greatest subtree first: it has the longest way */
        if (dcpi_wave_child(w, k))
            status = dcpi_wave_send(w, dcpi_wave_rank(w, w->place + dcpi_wave_child(w, k)), data, size);
    return status;
}
/* All have called, and the same: now through the tree of the root. */
static dcp_status dcpi_wave_agree(dcpi_wave *w) {
    const dcp_status status = dcpi_wave_reduce_all(w, NULL, 0, NULL, NULL);
    if (status) return status;
    w->is_agreeing = 0;
    w->arrived = 0;
    w->base = w->root;
    w->place = (int)(((int64_t)w->c->rank - w->root + w->c->world_size) % w->c->world_size);
    return DCP_OK;
}
DCPDEF dcp_status dcp_barrier(dcp_coordinator *coordinator, int timeout_ms, dcp_error *err) {
    dcpi_wave w;
    dcp_status status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_BARRIER, 0, 0, timeout_ms, err);
    if (status || !w.c) return status;
    return dcpi_wave_end(&w, dcpi_wave_reduce_all(&w, NULL, 0, NULL, NULL));
}
DCPDEF dcp_status dcp_allreduce(dcp_coordinator *coordinator, void *data, size_t size,
                                void (*reduce)(void *inout, const void *in, size_t size, void *user), void *user,
                                int timeout_ms,
                                dcp_error *err) {
    dcpi_wave w;
    dcp_status status;
    if (!reduce) return dcpi_fail(err, DCP_E_INVALID, "dcp_allreduce: reduce is NULL");
    if (!data && size) return dcpi_fail(err, DCP_E_INVALID, "dcp_allreduce: data is NULL");
    status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_ALLREDUCE, 0, size, timeout_ms, err);
    if (status || !w.c) return status;
    return dcpi_wave_end(&w, dcpi_wave_reduce_all(&w, data, size, reduce, user));
}
static dcp_status dcpi_wave_broadcast(dcpi_wave *w, void *data, size_t size) {
    dcp_status status = dcpi_wave_agree(w);
    int k;
    if (status == DCP_OK && w->place) status = dcpi_wave_from_parent(w, data, size);
    for (k = 29; status == DCP_OK && k >= 0; k--)
        if (dcpi_wave_child(w, k)) status = dcpi_wave_send(w, dcpi_wave_rank(w, w->place + dcpi_wave_child(w, k)), data,
                                                           size);
    return status;
}
DCPDEF dcp_status dcp_broadcast(dcp_coordinator *coordinator, void *data, size_t size, int root, int timeout_ms,
                                dcp_error *err) {
    dcpi_wave w;
    dcp_status status;
    if (!data && size) return dcpi_fail(err, DCP_E_INVALID, "dcp_broadcast: data is NULL");
    status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_BROADCAST, root, size, timeout_ms, err);
    if (status || !w.c) return status;
    return dcpi_wave_end(&w, dcpi_wave_broadcast(&w, data, size));
}
/* ---- gather. list: the size of each rank's part in this subtree, 8 bytes each, this rank first */
static dcp_status dcpi_wave_gather_sizes(dcpi_wave *w, uint8_t *list) {
    dcp_status status = DCP_OK;
    int k, distance;
    for (k = 0; status == DCP_OK && (distance = dcpi_wave_child(w, k)) != 0; k++)
        status = dcpi_wave_from_child(w, k, list + 8 * (size_t)distance, 8 * (size_t)dcpi_wave_subtree(w, distance));
    return status;
}
static dcp_status dcpi_wave_late_part(dcpi_wave *w, int from) {
    char whom[80];
    (void)snprintf(whom, sizeof whom, "the rest of the data from rank %d", from);
    return dcpi_wave_late(w, from, dcpi_wave_limit_data(w), whom);
}
/* Passes a part on, message by message, so that no rank but the root holds more than its own data. */
static dcp_status dcpi_wave_forward(dcpi_wave *w, int from, uint64_t left) {
    while (left > 0) {
        uint8_t *message;
        size_t bytes;
        dcp_status status = dcpi_wave_take(w, &from, dcpi_wave_limit_data(w), &message, &bytes);
        if (status == DCP_PENDING) return dcpi_wave_late_part(w, from);
        if (status) return status;
        status = dcpi_wave_check_due(w, from, bytes - DCPI_WAVE_HEADER, left);
        if (status == DCP_OK)
            status = dcpi_coord_send(w->c, dcpi_wave_parent(w), DCPI_TAG_COLLECTIVE, message, bytes,
                                     dcpi_wave_left(w, dcpi_wave_limit_data(w)), w->err);
        dcpi_free(message);
        if (status) return status;
        left -= bytes - DCPI_WAVE_HEADER;
    }
    return DCP_OK;
}
static dcp_status dcpi_wave_gather_up(dcpi_wave *w, const uint8_t *list, int count, const void *data, size_t size) {
    dcp_status status = dcpi_wave_send(w, dcpi_wave_parent(w), list, 8 * (size_t)count);
    int k, distance, i;
    if (status == DCP_OK && size) status = dcpi_wave_send(w, dcpi_wave_parent(w), data, size);
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        for (i = distance; status == DCP_OK && i < distance + dcpi_wave_subtree(w, distance); i++)
            status = dcpi_wave_forward(w, dcpi_wave_rank(w, w->place + distance), dcpi_load64(list + 8 * (size_t)i));
    return status;
}
/* On the root: one allocation with the pointers and room for each part, and the sizes. list is in the order of
 * places. */
static dcp_status dcpi_gather_room(int ranks, int root, const uint8_t *list, void ***parts, size_t **sizes,
                                   dcp_error *err) {
    int64_t total, at, size;
    int place;
    if (!dcpi_align_up((int64_t)((uint64_t)ranks * sizeof(void *)), 16, &total)) return dcpi_no_memory(err, SIZE_MAX);
    at = total;
    for (place = 0; place < ranks; place++)
        if (dcpi_load64(list + 8 * (size_t)place) > (uint64_t)INT64_MAX ||
            !dcpi_align_up((int64_t)dcpi_load64(list + 8 * (size_t)place), 16, &size) ||
            !dcpi_add(total, size, &total) ||
            (int64_t)(size_t)total != total) return dcpi_no_memory(err, SIZE_MAX);
    *sizes = (size_t *)dcpi_alloc_array((size_t)ranks, sizeof **sizes, err);
    *parts = *sizes ? (void **)dcpi_alloc((size_t)total, err) : NULL;
    if (!*parts) return DCP_E_MEMORY;
    for (place = 0; place < ranks; place++) {
        const int rank = (int)(((int64_t)place + root) % ranks);
        (*sizes)[rank] = (size_t)dcpi_load64(list + 8 * (size_t)place);
        (*parts)[rank] = (*sizes)[rank] ? (char *)*parts + (size_t)at : NULL;
        at += (int64_t)(((*sizes)[rank] + 15) & ~(size_t)15);
    }
    return DCP_OK;
}
static dcp_status dcpi_wave_gather_in(dcpi_wave *w, const uint8_t *list, const void *data, void ***parts,
                                      size_t **sizes) {
    dcp_status status = dcpi_gather_room(w->c->world_size, w->root, list, parts, sizes, w->err);
    int k, distance, place;
    if (status) return status;
    if ((*sizes)[w->root]) memcpy((*parts)[w->root], data, (*sizes)[w->root]);
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        for (place = distance; status == DCP_OK && place < distance + dcpi_wave_subtree(w, distance); place++) {
            const int rank = dcpi_wave_rank(w, place), from = dcpi_wave_rank(w, distance);
            if (!(*sizes)[rank]) continue;
            status = dcpi_wave_receive(w, from, dcpi_wave_limit_data(w), (*parts)[rank], (*sizes)[rank]);
            if (status == DCP_PENDING) status = dcpi_wave_late_part(w, from);
        }
    return status;
}
static dcp_status dcpi_wave_gather(dcpi_wave *w, const void *data, size_t size, void ***parts, size_t **sizes) {
    uint8_t *list;
    int lowest, behind, count;
    dcp_status status = dcpi_wave_agree(w);
    if (status) return status;
    lowest = w->place & -w->place;
    behind = w->c->world_size - w->place;
    count = w->place && lowest < behind ? lowest : behind;
    list = (uint8_t *)dcpi_alloc_array((size_t)count, 8, w->err);
    if (!list) return DCP_E_MEMORY;
    dcpi_store64(list, size);
    status = dcpi_wave_gather_sizes(w, list);
    if (status == DCP_OK && w->place) status = dcpi_wave_gather_up(w, list, count, data, size);
    else if (status == DCP_OK) status = dcpi_wave_gather_in(w, list, data, parts, sizes);
    dcpi_free(list);
    return status;
}
static dcp_status dcpi_gather_alone(const void *data, size_t size, void ***parts, size_t **sizes, dcp_error *err) {
    uint8_t list[8];
    dcp_status status;
    dcpi_store64(list, size);
    status = dcpi_gather_room(1, 0, list, parts, sizes, err);
    if (status == DCP_OK && size) memcpy((*parts)[0], data, size);
    return status;
}
DCPDEF dcp_status dcp_gather(dcp_coordinator *coordinator, const void *data, size_t size, void ***parts, size_t **sizes,
                             int root, int timeout_ms, dcp_error *err) {
    dcpi_wave w;
    dcp_status status;
    if (parts) *parts = NULL;
    if (sizes) *sizes = NULL;
    if (!data && size) return dcpi_fail(err, DCP_E_INVALID, "dcp_gather: data is NULL");
    if ((!parts || !sizes) && (!coordinator || coordinator->rank == root))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_gather: parts and sizes must not be NULL on the root");
    status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_GATHER, root, 0, timeout_ms, err);
    if (status) return status;
    if (w.c) status = dcpi_wave_end(&w, dcpi_wave_gather(&w, data, size, parts, sizes));
    else status = dcpi_gather_alone(data, size, parts, sizes, err);
    if (status == DCP_OK) return DCP_OK;
    if (parts) { dcpi_free(*parts); *parts = NULL; }
    if (sizes) { dcpi_free(*sizes); *sizes = NULL; }
    return status;
}

/* ---- thread group: n ranks in one process (declared in >>api_plug) --------------------------------------------------
 * Each rank has a mailbox with a lock of its own. A letter stands in two queues of it: of those with its tag from its
 * sender, and of those with its tag from anybody; a table finds a queue by both, so that taking one costs the same
 * however many wait. A queue is there as long as it has letters. A sender wakes the receivers of a mailbox only if one
 * of them waits for just this. */
typedef struct dcpi_letter dcpi_letter;
/* from: or DCP_ANY_RANK */
typedef struct dcpi_queue { struct dcpi_queue *next; int from, tag; dcpi_letter *first, *last; } dcpi_queue;
struct dcpi_letter {
    dcpi_letter *next[2], *previous[2];                 /* in the queue of its sender, and in that of anybody */
    dcpi_queue *queue[2];
    int from; void *data; size_t size;
};
typedef struct dcpi_waiter { struct dcpi_waiter *next; int from, tag; } dcpi_waiter;
/* Without memory a verdict arrives all the same, so that nobody has to leave what it made: each mailbox has room set
 * aside for one message, of DCPI_SPARE_MOST bytes at most. Signs of life, which are shorter than all else, do not get
 * it. */
#define DCPI_SPARE_LEAST 17
#define DCPI_SPARE_MOST 1024
typedef struct dcpi_spare { dcpi_letter *letter; void *data; dcpi_queue *queues[2]; } dcpi_spare;
typedef struct dcpi_mailbox {
    dcpi_mutex lock; dcpi_cond arrived;
    dcpi_queue **table; size_t buckets, queues;         /* buckets: a power of two, or 0 at first */
    dcpi_waiter *waiters;
    dcpi_spare spare;
    volatile int closed;                                /* set under the lock, looked at by all */
} dcpi_mailbox;
/* lock: of `open` */
typedef struct dcpi_group { int ranks, ready, open; dcpi_mutex lock; dcpi_mailbox *mailboxes; } dcpi_group;
typedef struct dcpi_seat { dcpi_group *group; int rank; } dcpi_seat;

/* ---- queues; under the mailbox's lock */
static size_t dcpi_queue_bucket(size_t buckets, int from, int tag) {
    const uint32_t mixed = ((uint32_t)from * 0x9E3779B1u) ^ ((uint32_t)tag * 0x85EBCA6Bu);
    return (size_t)(mixed ^ mixed >> 15) & (buckets - 1);
}
static dcpi_queue *dcpi_queue_find(const dcpi_mailbox *m, int from, int tag) {
    dcpi_queue *queue = m->buckets ? m->table[dcpi_queue_bucket(m->buckets, from, tag)] : NULL;
    while (queue && (queue->from != from || queue->tag != tag)) queue = queue->next;
    return queue;
}
static dcp_status dcpi_queue_room(dcpi_mailbox *m, dcp_error *err) {
    const size_t buckets = m->buckets ? 2 * m->buckets : 16;
    dcpi_queue **table;
    size_t i;
    if (m->queues < m->buckets) return DCP_OK;
    table = (dcpi_queue **)dcpi_alloc_array(buckets, sizeof *table, err);
    if (!table) return m->buckets ? dcpi_succeed(err) : DCP_E_MEMORY;           /* longer chains do as well */
    for (i = 0; i < m->buckets; i++)
        while (m->table[i]) {
            dcpi_queue *queue = m->table[i];
            const size_t to = dcpi_queue_bucket(buckets, queue->from, queue->tag);
            m->table[i] = queue->next;
            queue->next = table[to];
            table[to] = queue;
        }
    dcpi_free(m->table);
    m->table = table;
    m->buckets = buckets;
    return DCP_OK;
}
/* Made if need be, of *spare where there is no memory; spare may be NULL. NULL sets err. */
static dcpi_queue *dcpi_queue_get(dcpi_mailbox *m, int from, int tag, dcpi_queue **spare, dcp_error *err) {
    dcpi_queue *queue = dcpi_queue_find(m, from, tag);
    size_t bucket;
    if (queue) return queue;
    if (dcpi_queue_room(m, err)) return NULL;
    queue = (dcpi_queue *)dcpi_alloc_array(1, sizeof *queue, err);
    if (!queue && spare && *spare) {
        queue = *spare;
        *spare = NULL;
    }
    if (!queue) return NULL;
    queue->from = from;
    queue->tag = tag;
    bucket = dcpi_queue_bucket(m->buckets, from, tag);
    queue->next = m->table[bucket];
    m->table[bucket] = queue;
    m->queues++;
    return queue;
}
static void dcpi_queue_drop_empty(dcpi_mailbox *m, dcpi_queue *queue) {
    dcpi_queue **link;
    if (queue->first) return;
    link = &m->table[dcpi_queue_bucket(m->buckets, queue->from, queue->tag)];
    while (*link != queue) link = &(*link)->next;
    *link = queue->next;
    m->queues--;
    dcpi_free(queue);
}
static void dcpi_letter_append(dcpi_letter *letter, dcpi_queue *queue, int which) {
    letter->queue[which] = queue;
    letter->previous[which] = queue->last;
    if (queue->last) queue->last->next[which] = letter;
    else queue->first = letter;
    queue->last = letter;
}
static void dcpi_letter_take(dcpi_mailbox *m, dcpi_letter *letter, int which) {
    dcpi_queue *queue = letter->queue[which];
    dcpi_letter *next = letter->next[which], *previous = letter->previous[which];
    if (next) next->previous[which] = previous;
    else queue->last = previous;
    if (previous) previous->next[which] = next;
    else queue->first = next;
    dcpi_queue_drop_empty(m, queue);
}
static dcp_status dcpi_letter_put(dcpi_mailbox *m, dcpi_letter *letter, int tag, int may_use_spare, dcp_error *err) {
    dcpi_queue **spare = m->spare.queues, *own, *any;
    own = dcpi_queue_get(m, letter->from, tag, may_use_spare ? &spare[0] : NULL, err);
    any = own ? dcpi_queue_get(m, DCP_ANY_RANK, tag, may_use_spare ? &spare[1] : NULL, err) : NULL;
    if (!any) {
        if (own) dcpi_queue_drop_empty(m, own);
        return DCP_E_MEMORY;
    }
    dcpi_letter_append(letter, own, 0);
    dcpi_letter_append(letter, any, 1);
    return DCP_OK;
}

/* ---- what is set aside; under the mailbox's lock */
static int dcpi_spare_fill(dcpi_spare *spare) {         /* as far as there is memory; whether it is all there */
    size_t i;
    if (!spare->letter) spare->letter = (dcpi_letter *)dcpi_alloc_array(1, sizeof *spare->letter, NULL);
    if (!spare->data) spare->data = dcpi_alloc(DCPI_SPARE_MOST, NULL);
    for (i = 0; i < 2; i++)
        if (!spare->queues[i]) spare->queues[i] = (dcpi_queue *)dcpi_alloc_array(1, sizeof *spare->queues[i], NULL);
    return spare->letter && spare->data && spare->queues[0] && spare->queues[1];
}
static void dcpi_spare_free(dcpi_spare *spare) {
    dcpi_free(spare->letter);
    dcpi_free(spare->data);
    dcpi_free(spare->queues[0]);
    dcpi_free(spare->queues[1]);
    memset(spare, 0, sizeof *spare);
}
static dcpi_letter *dcpi_spare_use(dcpi_spare *spare) { /* NULL: it is in use already */
    dcpi_letter *letter = spare->letter;
    if (!letter || !spare->data) return NULL;
    letter->data = spare->data;
    spare->letter = NULL;
    spare->data = NULL;
    return letter;
}

/* ---- send and receive */
static void dcpi_letter_free(dcpi_letter *letter) {
    if (letter) dcpi_free(letter->data);
    dcpi_free(letter);
}
/* With room for so many bytes; NULL: no memory. */
static dcpi_letter *dcpi_letter_new(size_t size, dcp_error *err) {
    dcpi_letter *letter = (dcpi_letter *)dcpi_alloc_array(1, sizeof *letter, err);
    if (!letter) return NULL;
    letter->data = size ? dcpi_alloc(size, err) : NULL;
    if (letter->data || !size) return letter;
    dcpi_free(letter);
    return NULL;
}
/* Under the lock; *letter NULL: of what is set aside. Who failed has the letter still. */
static dcp_status dcpi_seat_post(const dcpi_seat *seat, int to, int tag, dcpi_letter **letter, const void *data,
                                 size_t size,
                                 dcp_error *err) {
    dcpi_mailbox *m = &seat->group->mailboxes[to];
    const int may_use_spare = size >= DCPI_SPARE_LEAST && size <= DCPI_SPARE_MOST;
    const dcpi_waiter *waiter;
    dcp_status status;
    if (m->closed) return dcpi_fail(err, DCP_E_COMM, "rank %d of the thread group has been closed", to);
    if (!*letter && may_use_spare) *letter = dcpi_spare_use(&m->spare);
    if (!*letter) return dcpi_no_memory(err, size);
    (*letter)->from = seat->rank;
    (*letter)->size = size;
    if (size) memcpy((*letter)->data, data, size);
    status = dcpi_letter_put(m, *letter, tag, may_use_spare, err);
    if (status) return status;
    (void)dcpi_spare_fill(&m->spare);
    for (waiter = m->waiters; waiter; waiter = waiter->next)
        if (waiter->tag == tag && (waiter->from == seat->rank || waiter->from == DCP_ANY_RANK)) break;
    if (waiter) dcpi_cond_wake_all(&m->arrived);
    return DCP_OK;
}
static dcp_status dcpi_seat_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                                 dcp_error *err) {
    const dcpi_seat *seat = (const dcpi_seat *)context;
    dcpi_letter *letter;
    dcp_status status;
    (void)timeout_ms;
    if (to < 0 || to >= seat->group->ranks)             /* the world_size has been changed */
        return dcpi_fail(err, DCP_E_INVALID, "rank %d is none of the thread group, which has %d", to,
                         seat->group->ranks);
    letter = dcpi_letter_new(size, err);
    dcpi_mutex_lock(&seat->group->mailboxes[to].lock);
    status = dcpi_seat_post(seat, to, tag, &letter, data, size, err);
    dcpi_mutex_unlock(&seat->group->mailboxes[to].lock);
    if (status) dcpi_letter_free(letter);
    return status;
}
/* Whether nothing can come any more: from that rank, or from any. */
static int dcpi_seat_is_left(const dcpi_seat *seat, int from) {
    int rank;
    if (from >= seat->group->ranks) return 1;
    if (from != DCP_ANY_RANK) return dcpi_flag_get(&seat->group->mailboxes[from].closed);
    for (rank = 0; rank < seat->group->ranks; rank++)
        if (rank != seat->rank && !dcpi_flag_get(&seat->group->mailboxes[rank].closed)) return 0;
    return 1;
}
static dcpi_letter *dcpi_seat_take(dcpi_mailbox *m, int from, int tag) {                      /* under the lock */
    const dcpi_queue *queue = dcpi_queue_find(m, from, tag);
    dcpi_letter *letter = queue ? queue->first : NULL;
    if (!letter) return NULL;
    dcpi_letter_take(m, letter, 0);
    dcpi_letter_take(m, letter, 1);
    return letter;
}
/* A rank closes after its last message has been put here under our lock, so "no message, and closed" in this order is
 * the truth. */
static dcp_status dcpi_seat_await(const dcpi_seat *seat, int from, int tag, int timeout_ms, dcpi_letter **letter,
                                  dcp_error *err) {
    dcpi_mailbox *m = &seat->group->mailboxes[seat->rank];
    const int64_t until = timeout_ms > 0 ? dcpi_os_monotonic_ms() + timeout_ms : 0;
    int64_t left = timeout_ms;
    while ((*letter = dcpi_seat_take(m, from, tag)) == NULL) {
        dcpi_waiter self, **link;
        if (dcpi_seat_is_left(seat, from))
            return from == DCP_ANY_RANK ? dcpi_fail(err, DCP_E_COMM,
                                                    "all other ranks of the thread group have been closed") : dcpi_fail(
                                                            err, DCP_E_COMM,
                                                            "rank %d of the thread group has been closed", from);
        if (left <= 0) return DCP_PENDING;
        self.from = from;
        self.tag = tag;
        self.next = m->waiters;
        m->waiters = &self;
        dcpi_cond_wait_ms(&m->arrived, &m->lock, (int)left);
        for (link = &m->waiters; *link != &self; link = &(*link)->next) {}
        *link = self.next;
        left = until - dcpi_os_monotonic_ms();
    }
    return DCP_OK;
}
static dcp_status dcpi_seat_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                    dcp_error *err) {
    const dcpi_seat *seat = (const dcpi_seat *)context;
    dcpi_mailbox *m = &seat->group->mailboxes[seat->rank];
    dcpi_letter *letter;
    dcp_status status;
    dcpi_mutex_lock(&m->lock);
    status = dcpi_seat_await(seat, *from, tag, timeout_ms, &letter, err);
    dcpi_mutex_unlock(&m->lock);
    if (status) return status;
    *from = letter->from;
    *data = letter->data;
    *size = letter->size;
    dcpi_free(letter);
    return DCP_OK;
}

/* ---- opening and closing */
static void dcpi_mailbox_empty(dcpi_mailbox *m) {       /* under the lock */
    size_t i;
    for (i = 0; i < m->buckets; i++)
        while (m->table[i]) dcpi_letter_free(dcpi_seat_take(m, m->table[i]->from, m->table[i]->tag));
    dcpi_free(m->table);
    dcpi_spare_free(&m->spare);
    m->table = NULL;
    m->buckets = 0;
}
static void dcpi_group_free(dcpi_group *group) {
    int i;
    for (i = 0; i < group->ready; i++) {
        dcpi_mailbox_empty(&group->mailboxes[i]);
        dcpi_cond_destroy(&group->mailboxes[i].arrived);
        dcpi_mutex_destroy(&group->mailboxes[i].lock);
    }
    dcpi_mutex_destroy(&group->lock);
    dcpi_free(group->mailboxes);
    dcpi_free(group);
}
static void dcpi_seat_destroy(void *context) {
    dcpi_seat *seat = (dcpi_seat *)context;
    dcpi_group *group = seat->group;
    int i, last;
    for (i = 0; i < group->ranks; i++) {                /* its own mailbox first, then all see that it is closed */
        dcpi_mailbox *m = &group->mailboxes[(seat->rank + i) % group->ranks];
        dcpi_mutex_lock(&m->lock);
        if (i == 0) {
            dcpi_flag_set(&m->closed, 1);
            dcpi_mailbox_empty(m);
        }
        if (m->waiters) dcpi_cond_wake_all(&m->arrived);
        dcpi_mutex_unlock(&m->lock);
    }
    dcpi_mutex_lock(&group->lock);
    last = --group->open == 0;
    dcpi_mutex_unlock(&group->lock);
    if (last) dcpi_group_free(group);
    dcpi_free(seat);
}
static dcpi_group *dcpi_group_make(int ranks, dcp_error *err) {
    dcpi_group *group = (dcpi_group *)dcpi_alloc_array(1, sizeof *group, err);
    if (!group) return NULL;
    group->ranks = ranks;
    group->mailboxes = (dcpi_mailbox *)dcpi_alloc_array((size_t)ranks, sizeof *group->mailboxes, err);
    if (!group->mailboxes || dcpi_mutex_init(&group->lock)) {
        (void)dcpi_no_memory(err, (size_t)ranks * sizeof *group->mailboxes);
        dcpi_free(group->mailboxes);
        dcpi_free(group);
        return NULL;
    }
    for (; group->ready < ranks; group->ready++) {
        dcpi_mailbox *m = &group->mailboxes[group->ready];
        const int has_lock = dcpi_mutex_init(&m->lock) == 0;
        if (has_lock && dcpi_cond_init(&m->arrived) == 0) {
            if (dcpi_queue_room(m, err) == DCP_OK && dcpi_spare_fill(&m->spare)) continue;
            dcpi_mailbox_empty(m);
            dcpi_cond_destroy(&m->arrived);
        }
        if (has_lock) dcpi_mutex_destroy(&m->lock);
        dcpi_group_free(group);
        (void)dcpi_no_memory(err, sizeof *m);
        return NULL;
    }
    return group;
}
static dcp_coordinator *dcpi_seat_make(dcpi_group *group, int rank, dcp_error *err) {
    dcpi_seat *seat = (dcpi_seat *)dcpi_alloc_array(1, sizeof *seat, err);
    dcp_coordinator *c = seat ? (dcp_coordinator *)dcpi_alloc_array(1, sizeof *c, err) : NULL;
    if (!c) { dcpi_free(seat); return NULL; }
    seat->group = group;
    seat->rank = rank;
    c->context = seat;
    c->rank = rank;
    c->world_size = group->ranks;
    c->thread_safe = 1;
    c->send = dcpi_seat_send;
    c->receive = dcpi_seat_receive;
    c->destroy = dcpi_seat_destroy;
    return c;
}
DCPDEF dcp_status dcp_thread_group_open(int world_size, dcp_coordinator **ranks, dcp_error *err) {
    dcpi_group *group;
    int i;
    if (world_size < 1) return dcpi_fail(err, DCP_E_INVALID, "a thread group has at least 1 rank, not %d", world_size);
    if (!ranks) return dcpi_fail(err, DCP_E_INVALID, "dcp_thread_group_open: ranks is NULL");
    for (i = 0; i < world_size; i++) ranks[i] = NULL;
    if (!DCPI_THREADS && world_size > 1)
        return dcpi_fail(err, DCP_E_UNSUPPORTED,
                         "a thread group of %d ranks needs threads, and this is a build with DCP_NO_THREADS",
                         world_size);
    group = dcpi_group_make(world_size, err);
    if (!group) return DCP_E_MEMORY;
    for (i = 0; i < world_size; i++) {
        ranks[i] = dcpi_seat_make(group, i, err);
        if (!ranks[i]) break;
        group->open++;
    }
    if (i == world_size) return dcpi_succeed(err);
    if (group->open == 0) dcpi_group_free(group);
    while (i-- > 0) {
        dcp_coordinator_close(ranks[i]);
        ranks[i] = NULL;
    }
    return DCP_E_MEMORY;
}
DCPDEF void dcp_coordinator_close(dcp_coordinator *coordinator) {
    if (!coordinator) return;
    if (coordinator->destroy) coordinator->destroy(coordinator->context);
    dcpi_free(coordinator);
}

/* ---- ranks: the messages of one operation (DESIGN 4) ----------------------------------------------------------------
 * Rank 0 leads. A round goes up (each rank tells rank 0 that it is ready for the next step, with what rank 0 needs for
 * it, or that it failed) and down (rank 0 tells each to go on, with what it needs, or that the operation is over, and
 * why). Meanwhile every rank shows that it lives, from the calling thread, at least each eighth of the timeout. With
 * one rank nothing is sent and every round is over at once.
 *
 *   message   kind, operation, step, call: 4 bytes each; then the body. Of OVER and FAILED: status, sys, rank, flags,
 *             the text.
 *
 * Operations are counted alike on all ranks, so what an earlier one left in the mail is known and dropped. */
enum { DCPI_TEAM_UP = 1, DCPI_TEAM_FAILED, DCPI_TEAM_ALIVE, DCPI_TEAM_DOWN, DCPI_TEAM_OVER };
/* the coordinator is of no use any more; the operation starts anew */
enum { DCPI_OVER_BREAKS = 1, DCPI_OVER_AGAIN = 2 };
enum { DCPI_DOWN_LAST = 1, DCPI_DOWN_SAME = 2 };        /* success is the verdict; every rank gets the same */
#define DCPI_TEAM_HEADER 16
#define DCPI_TEAM_SLICE_MS 20                           /* between two looks at cancel and deadline */
#define DCPI_TEAM_GRACE_MS 200                /* after the first failure, for others: the lowest rank's is everyone's */

static dcp_status dcpi_team_failed(dcpi_team *t, const dcp_error *why, int is_over) {
    if (t->failure.status == DCP_OK) t->failure = *why;
    if (is_over) t->is_over = 1;
    return t->failure.status;
}
static dcp_status dcpi_team_failure(const dcpi_team *t, dcp_error *err) {
    if (err && t->failure.status) *err = t->failure;
    return t->failure.status;
}

/* ---- begin and end */
/* What all ranks must have in common: the name of the call, its arguments. It goes with every message of a round, and
 * where it differs the ranks are in different calls. */
static void dcpi_team_same(dcpi_team *t, const char *text, uint64_t number) {
    uint32_t h = t->call ^ (uint32_t)(number ^ number >> 32);
    for (; text && *text; text++) h = (h ^ (uint8_t)*text) * 16777619u;
    t->call = (h ^ h >> 15) * 0x2C1B3C6Du;
}
/* In every collective call, first of all and whatever its arguments are worth: so that no rank waits for one that has
 * returned. */
static dcp_status dcpi_team_begin(dcpi_op *op, const char *call, dcp_error *err) {
    dcpi_team *t = &op->team;
    dcp_coordinator *c = op->io.coordinator;
    int64_t now = dcpi_os_monotonic_ms();
    dcp_status status;
    int r;
    memset(t, 0, sizeof *t);
    t->world_size = 1;
    t->name = call;
    dcpi_team_same(t, call, c ? (uint64_t)c->world_size : 1);           /* ranks of another world do not meet here */
    if (!c) return DCP_OK;
    if (c->settle) c->settle(c->saver);               /* one operation at a time: a save in the background ends first */
    status = dcpi_coord_check(c, err);
    if (!status) status = dcpi_coord_check_broken(c, err);
    if (status || c->world_size == 1) return status;
    t->coordinator = c;
    t->operation = ++c->operations;
    t->rank = c->rank;
    t->world_size = c->world_size;
    t->peer_count = t->rank == 0 ? t->world_size : 1;
    t->peers = t->rank == 0 ? (dcpi_peer *)dcpi_alloc_array((size_t)t->peer_count, sizeof *t->peers, err) : &t->lead;
    if (!t->peers) t->peer_count = 0;
    for (r = 0; r < t->peer_count; r++) t->peers[r].heard_ms = now;
    t->spoke_ms = now;
    return t->peers ? DCP_OK : DCP_E_MEMORY;
}
static int dcpi_peer_has_spoken(const dcpi_peer *peer) { return peer->message || peer->failure; }
static void dcpi_team_forget(dcpi_peer *peer) {
    dcpi_free(peer->message);
    peer->message = NULL;
    peer->size = 0;
}
static void dcpi_team_end(dcpi_op *op) {
    dcpi_team *t = &op->team;
    int r;
    for (r = 0; r < t->peer_count; r++) {
        dcpi_team_forget(&t->peers[r]);
        dcpi_free(t->peers[r].failure);
    }
    while (t->outbox) {
        dcpi_posted *posted = t->outbox;
        t->outbox = posted->next;
        dcpi_free(posted);
    }
    if (t->peers != &t->lead) dcpi_free(t->peers);
    t->peers = NULL;
    t->peer_count = 0;
    if (t->coordinator && t->is_broken)
        dcpi_coord_break(t->coordinator, t->failure.status ? t->failure.status : DCP_E_COMM);
    t->coordinator = NULL;
    t->world_size = 1;
}

/* ---- one message */
/* What a callback's failure means here: the others are still told, and then the coordinator is of no use any more. */
static dcp_status dcpi_team_comm_failed(dcpi_team *t, dcp_status status, dcp_error *err) {
    t->is_broken = 1;
    return err->status == status ? status : dcpi_fail(err, status, "%s", dcp_status_name(status));
}
/* One message; *from: a rank or DCP_ANY_RANK, then who it was. DCP_PENDING: none came within wait_ms. */
static dcp_status dcpi_team_receive(dcpi_team *t, int *from, int tag, uint8_t **data, size_t *size, int wait_ms,
                                    dcp_error *err) {
    const int asked = *from;
    void *memory = NULL;
    dcp_status status;
    *size = 0;
    status = dcpi_coord_call_receive(t->coordinator, from, tag, &memory, size, wait_ms, err);
    *data = (uint8_t *)memory;
    if (status == DCP_PENDING) return status;
    if (status == DCP_OK && memory && *from >= 0 && *from < t->world_size && *from != t->rank &&
        (asked == DCP_ANY_RANK || *from == asked)) return DCP_OK;
    if (status == DCP_OK) {
        dcpi_free(memory);
        if (*from >= t->world_size)
            status = dcpi_fail(err, DCP_E_MISMATCH,
                               "rank %d is in this call, but the world size of rank %d is %d: it is the same on "
                               "all ranks", *from, t->rank, t->world_size);
        else status = dcpi_fail(err, DCP_E_COMM, "the coordinator's receive gave an empty message, or one from rank %d",
                                *from);
        err->rank = *from;
    }
    *data = NULL;
    return dcpi_team_comm_failed(t, status, err);
}
static dcpi_peer *dcpi_team_peer(dcpi_team *t, int rank) { return &t->peers[t->rank == 0 ? rank : 0]; }
/* Polled: keeps a message that the coordinator would have to wait for, or that stands behind such a one.
 * dcpi_team_flush sends it. */
static dcp_status dcpi_team_post(dcpi_team *t, int to, const uint8_t *message, size_t size, dcp_error *err) {
    dcpi_posted *posted = (dcpi_posted *)dcpi_alloc(sizeof *posted + size, err);
    if (!posted) return DCP_E_MEMORY;
    posted->next = NULL;
    posted->to = to;
    posted->since_ms = dcpi_os_monotonic_ms();
    posted->size = size;
    memcpy(posted + 1, message, size);
    if (t->outbox) *t->outbox_end = posted;
    else t->outbox = posted;
    t->outbox_end = &posted->next;
    dcpi_team_peer(t, to)->posted++;
    return DCP_OK;
}
/* `message` has room for the header before its body. */
static dcp_status dcpi_team_send(dcpi_team *t, int to, uint32_t kind, uint8_t *message, size_t size, int timeout_ms,
                                 dcp_error *err) {
    dcp_status status;
    int attempt;
    memset(message, 0, DCPI_TEAM_HEADER);
    dcpi_store32(message, kind);
    dcpi_store32(message + 4, t->operation);
    dcpi_store32(message + 8, t->step);
    dcpi_store32(message + 12, t->call);
    if (t->is_polled) timeout_ms = 0;
    for (attempt = 1; ; attempt++) {                    /* without memory it is not sent, but the others wait for it */
        status = DCP_PENDING;
        (void)dcpi_succeed(err);
        if (!t->is_polled || dcpi_team_peer(t, to)->posted == 0)
            status = dcpi_coord_call_send(t->coordinator, to, DCPI_TAG_OPERATION, message, size, timeout_ms, err);
        if (status == DCP_PENDING && t->is_polled) status = dcpi_team_post(t, to, message, size, err);
        if (status != DCP_E_MEMORY || attempt == 5) break;
        dcpi_os_sleep_ms(10 * attempt);
    }
    if (status == DCP_PENDING) status = DCP_E_TIMEOUT;
    if (status == DCP_E_MEMORY && kind == DCPI_TEAM_ALIVE) return status;       /* the next one may have more luck */
    if (status) {
        status = dcpi_team_comm_failed(t, status, err);
        dcpi_fail_context(err, "rank %d could not be told anything: ", to);
        err->rank = to;
    } else {
        t->spoke_ms = dcpi_os_monotonic_ms();
    }
    return status;
}
static int dcpi_team_short_timeout(const dcpi_op *op) {
    return (int)dcpi_max(1, dcpi_min(1000, op->io.timeout_ms / 8));
}
/* FAILED and OVER. A rank that cannot be told will find out by the silence. */
static void dcpi_team_send_error(dcpi_op *op, int to, uint32_t kind, const dcp_error *why, uint32_t flags) {
    uint8_t message[2 * DCPI_TEAM_HEADER + sizeof why->message];
    size_t length = strlen(why->message);
    dcp_error ignored;
    dcpi_store32(message + 16, (uint32_t)why->status);
    dcpi_store32(message + 20, (uint32_t)why->sys);
    dcpi_store32(message + 24, (uint32_t)why->rank);
    dcpi_store32(message + 28, flags);
    memcpy(message + 32, why->message, length);
    (void)dcpi_team_send(&op->team, to, kind, message, 32 + length, dcpi_team_short_timeout(op), &ignored);
}
static void dcpi_team_read_error(const uint8_t *message, size_t size, dcp_error *out, uint32_t *flags) {
    uint32_t status = size >= 32 ? dcpi_load32(message + 16) : 0;
    if (status <= (uint32_t)DCP_PENDING || status > (uint32_t)DCP_E_UNKNOWN) status = (uint32_t)DCP_E_COMM;
    (void)dcpi_fail(out, (dcp_status)status, "%.*s", size >= 32 ? (int)dcpi_min((int64_t)size - 32, 511) : 0,
                    size >= 32 ? (const char *)message + 32 : "");
    out->sys = size >= 32 ? (int)dcpi_load32(message + 20) : 0;
    out->rank = size >= 32 ? (int)dcpi_load32(message + 24) : 0;
    *flags = size >= 32 ? dcpi_load32(message + 28) : 0;
}
/* What is at stake, and what to do. */
static const char *dcpi_team_advice(const dcpi_team *t) {
    if (strcmp(t->name, "save") == 0) return "this rank removed nothing; open the checkpoint to see";
    if (strcmp(t->name, "prune") == 0 || strcmp(t->name, "remove") == 0 || strcmp(t->name, "sweep") == 0)
        return "rank 0 may have removed files; list the directory to see";
    return "nothing was written; do it again on all ranks";
}
/* Before its last word a rank that loses rank 0 has failed; after it, it cannot know (G5). */
static dcp_status dcpi_team_lost(dcpi_op *op, const dcp_error *why) {
    dcpi_team *t = &op->team;
    dcp_error error = *why;
    t->is_broken = 1;
    if ((t->is_promised || t->has_said_all) && t->rank != 0) {
        (void)dcpi_fail(&error, DCP_E_UNKNOWN,
                        "rank 0 was lost after this rank had done its part of the %s: whether it succeeded on the "
                        "others is not known; %s: %.200s", t->name, dcpi_team_advice(t), why->message);
        error.rank = 0;
    }
    return dcpi_team_failed(t, &error, t->rank != 0);
}
static void dcpi_team_take(dcpi_op *op, int from, uint8_t *message, size_t size) {
    dcpi_team *t = &op->team;
    dcpi_peer *peer = &t->peers[t->rank == 0 ? from : 0];
    uint32_t kind = size >= DCPI_TEAM_HEADER ? dcpi_load32(message) : 0, flags = 0;
    int32_t age = size >= DCPI_TEAM_HEADER ? (int32_t)(t->operation - dcpi_load32(message + 4)) : 0;
    const int is_round = kind == DCPI_TEAM_UP || kind == DCPI_TEAM_DOWN;
    dcp_error error;
    if (age > 0) { dcpi_free(message); return; }        /* what an earlier operation left */
    peer->heard_ms = dcpi_os_monotonic_ms();
    if (age < 0 || kind < DCPI_TEAM_UP || kind > DCPI_TEAM_OVER || (is_round && dcpi_load32(message + 12) != t->call)) {
        (void)dcpi_fail(&error, DCP_E_MISMATCH,
                        "ranks %d and %d are in different calls, or their arguments or world sizes "
                        "differ (%d here): all ranks make the same calls in the same order", t->rank, from,
                            t->world_size);
        error.rank = from;
        /* rank 0 has ended this operation, and this rank has not heard how */
        if (age < 0 && t->rank != 0) (void)dcpi_team_lost(op, &error);
        else (void)dcpi_team_failed(t, &error, 0);
        dcpi_free(message);
        return;
    }
    if (kind == DCPI_TEAM_OVER) {
        dcpi_team_read_error(message, size, &error, &flags);
        if (flags & DCPI_OVER_BREAKS) t->is_broken = 1;
        t->is_again = (flags & DCPI_OVER_AGAIN) != 0;
        memset(&t->failure, 0, sizeof t->failure);      /* rank 0's word counts, whatever this rank thought */
        (void)dcpi_team_failed(t, &error, 1);
    } else if (kind == DCPI_TEAM_FAILED) {              /* what it said before stays: somebody may be reading it */
        dcpi_free(peer->failure);
        peer->failure = message;
        peer->failure_size = size;
        if (t->first_failure_ms == 0) t->first_failure_ms = peer->heard_ms;
        return;
    }
    if (kind == DCPI_TEAM_ALIVE && !dcpi_peer_has_spoken(peer) && (int32_t)(dcpi_load32(message + 8) - t->step) > 0) {
        (void)dcpi_fail(&error, DCP_E_COMM,
                        "a message from rank %d was lost on the way: it is further than it has said", from);
        error.rank = from;
        (void)dcpi_team_lost(op, &error);
    }
    if (!is_round) { dcpi_free(message); return; }
    dcpi_team_forget(peer);
    peer->message = message;
    peer->size = size;
}
/* Takes in one message, if one comes within wait_ms; 0: none came. */
static int dcpi_team_listen(dcpi_op *op, int wait_ms) {
    dcpi_team *t = &op->team;
    int from = t->rank == 0 ? DCP_ANY_RANK : 0;
    uint8_t *message;
    size_t size;
    dcp_error error;
    dcp_status status = dcpi_team_receive(t, &from, DCPI_TAG_OPERATION, &message, &size, wait_ms, &error);
    if (!status) dcpi_team_take(op, from, message, size);
    else if (status != DCP_PENDING) (void)dcpi_team_lost(op, &error);
    return status == DCP_OK;
}
static int dcpi_team_has_word(const dcpi_team *t) { return t->is_following && t->peers[0].message; }
/* All that has come, up to rank 0's word: after the verdict rank 0 may be gone, or in its next call. */
static void dcpi_team_read_mail(dcpi_op *op) {
    while (!op->team.is_over && !dcpi_team_has_word(&op->team) && dcpi_team_listen(op, 0)) {}
}
/* A rank takes no message. Rank 0 may have left because it is over, and its last word is in the mail then. */
static void dcpi_team_unreachable(dcpi_op *op, const dcp_error *why) {
    dcpi_team *t = &op->team;
    if (t->rank != 0) dcpi_team_read_mail(op);
    if (!t->is_over && !dcpi_team_has_word(t)) (void)dcpi_team_lost(op, why);
}

/* ---- signs of life */
static void dcpi_team_show_life(dcpi_op *op, int64_t now) {
    dcpi_team *t = &op->team;
    uint8_t message[DCPI_TEAM_HEADER];
    dcp_error error;
    int to;
    if (now - t->spoke_ms < op->io.timeout_ms / 8) return;
    t->spoke_ms = now;
    for (to = 0; to < t->peer_count; to++) {
        /* one that has done its part may go */
        const int has_done = t->rank == 0 && dcpi_peer_has_spoken(&t->peers[to]);
        dcp_status status;
        if (to == t->rank || t->peers[to].posted > 0) continue;
        status = dcpi_team_send(t, to, DCPI_TEAM_ALIVE, message, sizeof message, dcpi_team_short_timeout(op), &error);
        if (status && status != DCP_E_MEMORY && !has_done) dcpi_team_unreachable(op, &error);
    }
}
static dcp_status dcpi_team_check_silence(dcpi_op *op, int64_t now) {
    dcpi_team *t = &op->team;
    const int64_t limit = t->rank == 0 ? op->io.timeout_ms : (int64_t)op->io.timeout_ms * 23 / 20;
    char list[120] = "";
    dcp_error error;
    int r, missing = 0, first = -1;
    for (r = 0; r < t->peer_count; r++) {
        size_t used = strlen(list);
        if (r == t->rank || (t->rank == 0 && dcpi_peer_has_spoken(&t->peers[r])) || now - t->peers[r].heard_ms <= limit)
            continue;
        if (missing++ == 0) first = r;
        if (used + 24 < sizeof list) (void)snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", r);
        else if (used + 6 < sizeof list) (void)snprintf(list + used, sizeof list - used, " ...");
    }
    if (missing == 0) return DCP_OK;
    (void)dcpi_fail(&error, DCP_E_TIMEOUT, "no sign of life from %s %s for %" PRId64
                    " ms (%d of %d ranks) in phase %s: stopped, dead or cut off", missing == 1 ? "rank" : "ranks", list,
                    limit, missing, t->world_size, dcp_phase_name(op->progress.phase));
    error.rank = first;
    return dcpi_team_lost(op, &error);
}
/* Polled: sends what was posted, each rank's in order, as far as the coordinator takes it without waiting. What it does
 * not take within the timeout is dropped: that rank is silent, and finds out by our silence. */
static void dcpi_team_flush(dcpi_op *op) {
    dcpi_team *t = &op->team;
    dcpi_posted **link = &t->outbox, *posted;
    dcp_error error;
    t->flushes++;
    while ((posted = *link) != NULL) {
        dcpi_peer *peer = dcpi_team_peer(t, posted->to);
        dcp_status status = DCP_PENDING;
        (void)dcpi_succeed(&error);
        if (peer->stuck_at != t->flushes)
            status = dcpi_coord_call_send(t->coordinator, posted->to, DCPI_TAG_OPERATION, posted + 1, posted->size, 0,
                                          &error);
        if (status == DCP_PENDING) {
            peer->stuck_at = t->flushes;
            if (dcpi_os_monotonic_ms() - posted->since_ms <= op->io.timeout_ms) { link = &posted->next; continue; }
            status = dcpi_fail(&error, DCP_E_TIMEOUT, "it takes no message");
        }
        *link = posted->next;
        peer->posted--;
        if (status) {
            (void)dcpi_team_comm_failed(t, status, &error);
            dcpi_fail_context(&error, "rank %d could not be told anything: ", posted->to);
            error.rank = posted->to;
            if (t->is_over) dcpi_op_log(op, DCP_LOG_WARNING, "the operation is over, but %s", error.message);
            else dcpi_team_unreachable(op, &error);
        }
        dcpi_free(posted);
    }
    t->outbox_end = link;
}
/* Calling thread, often, whatever is waited for: shows life, takes in what has come; slow is not stopped. What has
 * ended the operation, if anything. */
static dcp_status dcpi_team_tick(dcpi_op *op, dcp_error *err) {
    dcpi_team *t = &op->team;
    int64_t now;
    dcpi_op_note_time(op);
    if (t->outbox) dcpi_team_flush(op);
    if (t->world_size == 1 || t->is_over || !t->peers) return dcpi_team_failure(t, err);
    now = dcpi_os_monotonic_ms();
    if (now == t->listened_ms) return dcpi_team_failure(t, err);
    t->listened_ms = now;
    dcpi_team_read_mail(op);                           /* first: one who was stopped for long finds the verdict there */
    if (dcpi_team_has_word(t)) return dcpi_team_failure(t, err);
    if (!t->is_over) dcpi_team_show_life(op, now);
    if (!t->is_over && (t->rank != 0 || !t->failure.status)) (void)dcpi_team_check_silence(op, now);
    if (!t->failure.status && t->first_failure_ms)
        return dcpi_fail(err, DCP_E_CANCELLED, "another rank failed");  /* rank 0: the next round finds out which */
    return dcpi_team_failure(t, err);
}

/* ---- a round up */
/* The failure of the lowest rank that reported one. */
static dcp_status dcpi_team_lowest(const dcpi_team *t, dcp_error *err) {
    uint32_t flags;
    int r;
    for (r = 1; r < t->peer_count && !t->peers[r].failure; r++) {}
    if (r == t->peer_count) return DCP_OK;
    dcpi_team_read_error(t->peers[r].failure, t->peers[r].failure_size, err, &flags);
    dcpi_fail_context(err, "rank %d: ", r);
    err->rank = r;
    return err->status;
}
static int dcpi_team_has_all(const dcpi_team *t) {
    int r = 1;
    while (r < t->peer_count && dcpi_peer_has_spoken(&t->peers[r])) r++;
    return r == t->peer_count;
}
/* One step, which waits wait_ms at most. DCP_PENDING: not all have spoken, so there is another. */
static dcp_status dcpi_team_collect(dcpi_op *op, int wait_ms, dcp_error *err) {
    dcpi_team *t = &op->team;
    const int is_late = t->first_failure_ms && dcpi_os_monotonic_ms() - t->first_failure_ms > DCPI_TEAM_GRACE_MS;
    if (!dcpi_team_has_all(t) && !t->failure.status && !is_late) {
        const dcp_status status = dcpi_op_check(op, err);
        if (status && !t->first_failure_ms) return status;
        if (!dcpi_team_has_all(t)) (void)dcpi_team_listen(op, wait_ms);
        return DCP_PENDING;
    }
    t->step++;
    return t->first_failure_ms ? dcpi_team_lowest(t, err) : dcpi_team_failure(t, err);
}
/* Rank 0: DCP_PENDING, and dcpi_team_collect until it says something else. Other ranks: nothing to wait for, their own
 * status. */
static dcp_status dcpi_team_up_begin(dcpi_op *op, dcp_status status, dcpi_buffer *message, dcp_error *err) {
    dcpi_team *t = &op->team;
    if (t->world_size == 1 || t->is_over) return status;
    if (!status && message->failed) status = dcpi_no_memory(err, message->size);
    if (t->rank == 0) {
        if (status && !t->first_failure_ms) return status;
        return t->peers ? DCP_PENDING : status;
    }
    if (status) {
        dcpi_team_send_error(op, 0, DCPI_TEAM_FAILED, err, 0);
        t->step++;
        return status;
    }
    status = dcpi_team_send(t, 0, DCPI_TEAM_UP, (uint8_t *)message->data, message->size, op->io.timeout_ms, err);
    t->step++;
    if (!status) return DCP_OK;
    dcpi_team_unreachable(op, err);
    return dcpi_team_failure(t, err);
}
/* Rank 0: everyone's bodies are in peers[r].message then; its own status, or the lowest failing rank's. Other ranks:
 * their own status. */
static dcp_status dcpi_team_up(dcpi_op *op, dcp_status status, dcpi_buffer *message, dcp_error *err) {
    status = dcpi_team_up_begin(op, status, message, err);
    while (status == DCP_PENDING) status = dcpi_team_collect(op, DCPI_TEAM_SLICE_MS, err);
    return status;
}

/* ---- a round down */
typedef dcp_status (*dcpi_team_make)(void *user, int rank, dcpi_buffer *message, dcp_error *err);

static void dcpi_team_message_start(dcpi_buffer *message) {
    static const uint8_t header[DCPI_TEAM_HEADER] = {0};
    message->size = 0;
    dcpi_buffer_add(message, header, sizeof header);
}
static void dcpi_team_tell_over(dcpi_op *op, const dcp_error *why) {
    dcpi_team *t = &op->team;
    const uint32_t breaks = t->is_broken ? (uint32_t)DCPI_OVER_BREAKS : 0, again = t->is_again
                            ? (uint32_t)DCPI_OVER_AGAIN : 0;
    int r;
    for (r = 1; r < t->world_size; r++) dcpi_team_send_error(op, r, DCPI_TEAM_OVER, why, breaks | again);
    (void)dcpi_team_failed(t, why, 1);
}
static dcp_status dcpi_team_lead(dcpi_op *op, dcpi_team_make make, void *user, int flags, dcp_error *err) {
    dcpi_team *t = &op->team;
    uint8_t nothing[DCPI_TEAM_HEADER + 1] = {0};        /* a verdict needs no memory, and is no sign of life */
    dcpi_buffer message;
    dcp_status status = DCP_OK;
    int r;
    memset(&message, 0, sizeof message);
    for (r = 1; r < t->world_size && !status; r++) {
        if (make && (r == 1 || !(flags & DCPI_DOWN_SAME))) {
            dcpi_team_message_start(&message);
            status = make(user, r, &message, err);
            if (!status && message.failed) status = dcpi_no_memory(err, message.size);
            if (status) break;
        }
        status = dcpi_team_send(t, r, DCPI_TEAM_DOWN, make ? (uint8_t *)message.data : nothing,
                                make ? message.size : sizeof nothing, op->io.timeout_ms, err);
        if ((flags & DCPI_DOWN_LAST) && status) {
            /* the verdict stands: that rank finds DCP_E_UNKNOWN, the others shall know */
            dcpi_op_log(op, DCP_LOG_WARNING, "the operation succeeded, but rank %d could not be told: %s", r,
                        err->message);
            status = DCP_OK;
        }
    }
    dcpi_buffer_free(&message);
    for (r = 0; r < t->peer_count && !status; r++) {
        dcpi_team_forget(&t->peers[r]);
        t->peers[r].heard_ms = dcpi_os_monotonic_ms();
    }
    t->step++;
    if (flags & DCPI_DOWN_LAST) t->is_over = 1;
    return status;
}
/* Waits for rank 0's word. Until its promise a rank may still fail by itself; then it says so, and waits for the word
 * all the same. The last word is the verdict, though this rank may have failed meanwhile; and who has sent all and does
 * not hear it cannot know it (G5). */
static void dcpi_team_follow_begin(dcpi_team *t, dcp_status own, int is_last) {
    t->own = own;
    t->may_fail = !t->is_promised;
    t->is_last = is_last;
    dcpi_team_forget(&t->peers[0]);
    if (is_last && !own) t->is_promised = 1;
    t->is_following = 1;
}
/* One step, as dcpi_team_collect. */
static dcp_status dcpi_team_follow(dcpi_op *op, int wait_ms, dcp_error *err) {
    dcpi_team *t = &op->team;
    dcp_error error;
    if (!t->is_over && !t->peers[0].message) {
        const dcp_status status = !t->may_fail || t->own ? dcpi_team_tick(op, &error) : dcpi_op_check(op, &error);
        if (status && !t->is_over && !t->own && !t->peers[0].message) {
            t->own = status;
            dcpi_team_send_error(op, 0, DCPI_TEAM_FAILED, &error, 0);
            if (err) *err = error;
        }
        if (!t->is_over && !t->peers[0].message) (void)dcpi_team_listen(op, wait_ms);
        return DCP_PENDING;
    }
    t->is_following = 0;
    t->step++;
    if (t->is_over) return dcpi_team_failure(t, err);
    if (t->is_last) t->is_over = 1;
    return t->is_last ? DCP_OK : t->own;
}
/* Rank 0: with a failure in `status`, tells all that it is over; else sends each what `make` gives (NULL: nothing).
 * Others: DCP_PENDING, and dcpi_team_follow until it says something else; their body is in peers[0] then. */
static dcp_status dcpi_team_down_begin(dcpi_op *op, dcp_status status, dcpi_team_make make, void *user, int flags,
                                       dcp_error *err) {
    dcpi_team *t = &op->team;
    if (t->world_size == 1) return status;
    if (t->is_over) return t->failure.status ? dcpi_team_failure(t, err) : status;
    if (t->rank != 0) {
        if (!t->peers) return status;
        dcpi_team_follow_begin(t, status, (flags & DCPI_DOWN_LAST) != 0);
        return DCP_PENDING;
    }
    /* the reason is another's */
    if (status == DCP_E_CANCELLED && t->first_failure_ms) status = dcpi_team_lowest(t, err);
    if (!status) status = dcpi_team_lead(op, make, user, flags, err);
    if (!status) return DCP_OK;
    /* its own, not the others' */
    if (err->rank == 0 && !dcpi_starts_with(err->message, "rank 0")) dcpi_fail_context(err, "rank 0: ");
    dcpi_team_tell_over(op, err);
    return status;
}
static dcp_status dcpi_team_down(dcpi_op *op, dcp_status status, dcpi_team_make make, void *user, int flags,
                                 dcp_error *err) {
    status = dcpi_team_down_begin(op, status, make, user, flags, err);
    while (status == DCP_PENDING) status = dcpi_team_follow(op, DCPI_TEAM_SLICE_MS, err);
    return status;
}
/* The last round up of a call: this rank has done its part, or has failed. */
static dcp_status dcpi_team_done(dcpi_op *op, dcp_status status, dcp_error *err) {
    dcpi_buffer message;
    memset(&message, 0, sizeof message);
    dcpi_team_message_start(&message);
    if (!status) op->team.has_said_all = 1;
    status = dcpi_team_up(op, status, &message, err);
    dcpi_buffer_free(&message);
    return status;
}
/* The last rounds of a call whose ranks work alone: everyone's outcome up, the verdict down. */
static dcp_status dcpi_team_verdict(dcpi_op *op, dcp_status status, dcp_error *err) {
    status = dcpi_team_done(op, status, err);
    return dcpi_team_down(op, status, NULL, NULL, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
}

/* What a rank says first in a save or load: a digest, the same on all ranks, and what it has of a list of tensors. */
enum { DCPI_LIST_IS_SET = 1, DCPI_LIST_HAS_SOME = 2 };
typedef struct dcpi_hello { uint8_t digest[32], list; } dcpi_hello;

static uint8_t dcpi_hello_list(const void *tensors, size_t count) {
    return (uint8_t)((tensors ? DCPI_LIST_IS_SET : 0) | (count > 0 ? DCPI_LIST_HAS_SOME : 0));
}
/* Rank 0: tensors that no rank counts were forgotten; where another rank gives some, a rank may have none. */
static dcp_status dcpi_hello_check_lists(const dcpi_team *t, const dcpi_hello *own, dcp_error *err) {
    int all = own->list, set = own->list & DCPI_LIST_IS_SET ? 0 : -1, r;
    for (r = 1; r < t->world_size; r++) {
        const uint8_t list = t->peers[r].message[DCPI_TEAM_HEADER + sizeof own->digest];
        all |= list;
        if (set < 0 && (list & DCPI_LIST_IS_SET)) set = r;
    }
    if (set < 0 || (all & DCPI_LIST_HAS_SOME)) return DCP_OK;
    (void)dcpi_fail(err, DCP_E_INVALID,
                    "tensor_count is 0%s, but tensors is set: was it forgotten? (No tensors at all: tensors NULL)",
                    t->world_size > 1 ? " on every rank" : "");
    err->rank = set;
    return DCP_E_INVALID;
}
/* Rank 0: every rank said the same as this one. */
static dcp_status dcpi_hello_compare(const dcpi_team *t, const dcpi_hello *own, const char *what, dcp_error *err) {
    int r;
    for (r = 1; r < t->world_size; r++) {
        const dcpi_peer *peer = &t->peers[r];
        if (peer->size == DCPI_TEAM_HEADER + sizeof *own &&
            memcmp(peer->message + DCPI_TEAM_HEADER, own->digest, sizeof own->digest) == 0) continue;
        (void)dcpi_fail(err, DCP_E_MISMATCH, "ranks 0 and %d do not make the same call: %s", r, what);
        err->rank = r;
        return DCP_E_MISMATCH;
    }
    return dcpi_hello_check_lists(t, own, err);
}
/* The first round up. Rank 0: DCP_OK when all ranks are ready and want the same. */
static dcp_status dcpi_hello_exchange(dcpi_op *op, dcp_status status, const dcpi_hello *own, const char *what,
                                      dcp_error *err) {
    dcpi_buffer message;
    memset(&message, 0, sizeof message);
    dcpi_team_message_start(&message);
    dcpi_buffer_add(&message, own->digest, sizeof own->digest);
    dcpi_buffer_add(&message, &own->list, 1);
    status = dcpi_team_up(op, status, &message, err);
    dcpi_buffer_free(&message);
    return status || op->team.rank != 0 ? status : dcpi_hello_compare(&op->team, own, what, err);
}

/* ---- tensor bytes from one rank to another: the operation (4 bytes), credits (4), offset in the file (8), at most
 * DCPI_RELAY_CHUNK bytes */
#define DCPI_RELAY_CHUNK ((size_t)DCPI_MIB)
#define DCPI_RELAY_HEADER 16

static dcp_status dcpi_relay_send(dcpi_op *op, int to, uint8_t *message, uint32_t credits, int64_t offset, size_t size,
                                  dcp_error *err) {
    dcp_coordinator *c = op->team.coordinator;
    dcp_status status;
    dcpi_store32(message, op->team.operation);
    dcpi_store32(message + 4, credits);
    dcpi_store64(message + 8, (uint64_t)offset);
    status = dcpi_coord_call_send(c, to, DCPI_TAG_DATA, message, DCPI_RELAY_HEADER + size, op->io.timeout_ms, err);
    if (status == DCP_PENDING) status = DCP_E_TIMEOUT;
    if (!status) return DCP_OK;
    status = dcpi_team_comm_failed(&op->team, status, err);
    dcpi_fail_context(err, "tensor bytes could not be sent to rank %d: ", to);
    return status;
}
/* Waits for the next message of this operation; *data is the caller's. */
static dcp_status dcpi_relay_receive(dcpi_op *op, int from, uint8_t **data, size_t *size, dcp_error *err) {
    for (;;) {
        int who = from;
        dcp_status status = dcpi_op_check(op, err);
        if (status) return status;
        status = dcpi_team_receive(&op->team, &who, DCPI_TAG_DATA, data, size, 20, err);
        if (status == DCP_PENDING) continue;
        if (status) {
            dcpi_fail_context(err, "tensor bytes could not be received from rank %d: ", from);
            return status;
        }
        if (*size >= DCPI_RELAY_HEADER && dcpi_load32(*data) == op->team.operation) return DCP_OK;
        dcpi_free(*data);                               /* what an earlier operation left */
        *data = NULL;
    }
}

/* ---- errands: a call that may block for long runs beside the calling thread, which goes on showing life */
typedef dcp_status (*dcpi_errand_fn)(void *argument, dcp_error *err);
typedef struct dcpi_errand {
    dcpi_crew crew;
    dcpi_errand_fn fn;
    void *argument;
    dcp_status status;
    dcp_error error;
} dcpi_errand;

static void dcpi_errand_run(void *argument) {
    dcpi_errand *e = (dcpi_errand *)argument;
    e->status = e->fn(e->argument, &e->error);
    dcpi_mutex_lock(&e->crew.lock);
    dcpi_crew_leave(&e->crew);
    dcpi_mutex_unlock(&e->crew.lock);
}
static dcp_status dcpi_op_errand(dcpi_op *op, dcpi_errand_fn fn, void *argument, dcp_error *err) {
    dcpi_errand e;
    dcp_error ignored;
    if (op->team.world_size == 1 || !DCPI_THREADS || op->is_beside || op->team.has_errand) return fn(argument, err);
    memset(&e, 0, sizeof e);
    e.fn = fn;
    e.argument = argument;
    if (dcpi_crew_open(&e.crew, &ignored)) return fn(argument, err);
    op->team.has_errand = 1;
    dcpi_crew_start(&e.crew, 1, dcpi_errand_run, &e);
    dcpi_mutex_lock(&e.crew.lock);
    while (e.crew.running > 0) {
        dcpi_cond_wait_ms(&e.crew.changed, &e.crew.lock, 20);
        dcpi_mutex_unlock(&e.crew.lock);
        (void)dcpi_team_tick(op, &ignored);          /* what it finds stays in the team, and is seen after the errand */
        dcpi_mutex_lock(&e.crew.lock);
    }
    dcpi_mutex_unlock(&e.crew.lock);
    op->team.has_errand = e.crew.count > 0;
    (void)dcpi_crew_close(&e.crew, &ignored);
    if (!op->team.has_errand) return fn(argument, err); /* there was no thread for it */
    op->team.has_errand = 0;
    if (e.status) *err = e.error;
    return e.status;
}

/* A read by the calling thread, tried again where that may help: other ranks see meanwhile that this one lives. */
typedef struct dcpi_one_read { dcp_storage *storage; const char *key; void *object; int64_t offset; void *data;
                              size_t size; } dcpi_one_read;
static dcp_status dcpi_one_read_run(void *read, dcp_error *err) {
    const dcpi_one_read *r = (const dcpi_one_read *)read;
    return dcpi_storage_read(r->storage, r->key, r->object, r->offset, r->data, r->size, err);
}
static dcp_status dcpi_op_read(dcpi_op *op, dcp_storage *s, const char *key, void *object, int64_t offset, void *data,
                               size_t size, dcp_error *err) {
    dcpi_one_read r;
    int attempt = 0;
    dcp_status status;
    r.storage = s;
    r.key = key;
    r.object = object;
    r.offset = offset;
    r.data = data;
    r.size = size;
    do status = dcpi_op_errand(op, dcpi_one_read_run, &r, err);
    while (status && dcpi_op_again(op, ++attempt, "reading", err));
    return status ? err->status : DCP_OK;
}

typedef struct dcpi_one_stat { dcp_storage *storage; const char *key; dcp_object_info *info; } dcpi_one_stat;
static dcp_status dcpi_one_stat_run(void *look, dcp_error *err) {
    const dcpi_one_stat *l = (const dcpi_one_stat *)look;
    return dcpi_storage_stat(l->storage, l->key, l->info, err);
}
static dcp_status dcpi_op_stat(dcpi_op *op, dcp_storage *s, const char *key, dcp_object_info *info, dcp_error *err) {
    dcpi_one_stat look;
    look.storage = s;
    look.key = key;
    look.info = info;
    return dcpi_op_errand(op, dcpi_one_stat_run, &look, err);
}

/* ---- whole objects (declared in >>api_plug) ---------------------------------------------------------------------- */
static dcp_status dcpi_object_write_chunks(dcpi_op *op, dcp_storage *s, const char *path, void *object,
                                           const char *data, size_t size, dcp_error *err) {
    size_t at = 0;
    dcp_status status = DCP_OK;
    while (at < size && !status) {
        size_t n = (size_t)dcpi_min((int64_t)(size - at), (int64_t)(4 * DCPI_MIB));
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_storage_write(s, path, object, (int64_t)at, data + at, n, err);
        at += n;
        dcpi_op_report(op, (int64_t)at, at == size);
    }
    return status ? status : dcpi_op_check(op, err);
}
static dcp_status dcpi_object_write(dcpi_op *op, dcp_storage *s, const char *path, const char *temporary,
                                    const void *data, size_t size, dcp_error *err) {
    void *object;
    dcp_status status = dcpi_storage_begin(s, path, temporary, (int64_t)size, &object, err);
    if (status) return status;
    status = dcpi_object_write_chunks(op, s, path, object, (const char *)data, size, err);
    if (!status) return dcpi_storage_commit(s, path, object, 1, err);
    dcpi_storage_abort(s, object);
    return status;
}
static void dcpi_key_directory(char *key) {             /* "a/b" becomes "a", "b" becomes "" */
    char *slash = strrchr(key, '/');
    *(slash ? slash : key) = '\0';
}
static dcp_status dcpi_object_publish(dcpi_op *op, dcp_storage *s, const char *path, const void *data, size_t size,
                                      dcp_error *err) {
    dcp_error local;
    dcp_status status;
    char id[17], *temporary, *directory = dcpi_copy_text(path, err);
    int attempt = 0, again = 1;
    if (!directory) return DCP_E_MEMORY;
    dcpi_key_directory(directory);
    status = dcpi_random_id(id, &local);
    while (!status && again) {
        temporary = dcpi_temporary_name(path, id, attempt++, &local);
        status = temporary ? dcpi_object_write(op, s, path, temporary, data, size, &local) : DCP_E_MEMORY;
        dcpi_free(temporary);
        again = status && dcpi_op_again(op, attempt, "writing an object", &local);
        if (status) status = again ? DCP_OK : local.status;
    }
    if (!status) status = dcpi_storage_sync_directory(s, directory, &local);
    dcpi_free(directory);
    if (status && err) *err = local;
    return status;
}
/* The directories above an object, which begin may have made, or somebody who died before a sync: each name is durable
 * when its parent is synced. */
static dcp_status dcpi_object_sync_above(dcp_storage *s, const char *path, dcp_error *err) {
    char *directory = dcpi_copy_text(path, err);
    dcp_status status = directory ? DCP_OK : DCP_E_MEMORY;
    if (directory) dcpi_key_directory(directory);
    while (!status && directory[0] != '\0') {
        dcpi_key_directory(directory);
        status = dcpi_storage_sync_directory(s, directory, err);
    }
    dcpi_free(directory);
    return status;
}
DCPDEF dcp_status dcp_storage_write_all_io(dcp_storage *storage, const char *path, const void *data, size_t size,
                                           const dcp_io *io, dcp_error *err) {
    dcpi_op op;
    dcp_status status;
    (void)dcpi_succeed(err);
    if (!storage || !path || !io || (!data && size))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_write_all: storage, path, io or data is NULL");
    status = dcpi_op_begin(&op, io, err);
    if (status) return status;
    dcpi_op_phase(&op, DCP_PHASE_WRITE, (int64_t)size);
    status = dcpi_op_check(&op, err);
    if (!status) status = dcpi_object_publish(&op, storage, path, data, size, err);
    return status ? status : dcpi_object_sync_above(storage, path, err);
}
/* The whole of an open object, its size known; a NUL behind it. */
static dcp_status dcpi_object_read(dcpi_op *op, dcp_storage *s, const char *path, void *object, int64_t size,
                                   char **out, dcp_error *err) {
    int64_t at = 0;
    dcp_status status = DCP_OK;
    char *data;
    *out = NULL;
    if (size < 0 || (uint64_t)size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    data = (char *)dcpi_alloc((size_t)size + 1, err);
    if (!data) return DCP_E_MEMORY;
    while (at < size && !status) {
        int64_t n = dcpi_min(size - at, (int64_t)(4 * DCPI_MIB));
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_storage_read(s, path, object, at, data + at, (size_t)n, err);
        at += n;
        /* an object of the user's, not a document */
        if (op->progress.phase == DCP_PHASE_READ) dcpi_op_report(op, at, at == size);
    }
    data[size] = '\0';
    if (status) dcpi_free(data);
    else *out = data;
    return status;
}
DCPDEF dcp_status dcp_storage_read_all_io(dcp_storage *storage, const char *path, void **data, size_t *size,
                                          const dcp_io *io, dcp_error *err) {
    dcpi_op op;
    dcp_object_info info;
    void *object;
    char *bytes = NULL;
    dcp_status status;
    *data = NULL;
    *size = 0;
    (void)dcpi_succeed(err);
    if (!storage || !path || !io)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_read_all: storage, path or io is NULL");
    status = dcpi_op_begin(&op, io, err);
    if (!status) status = dcpi_op_check(&op, err);
    if (!status) status = dcpi_storage_open_object(storage, path, &object, &info, err);
    if (status) return status;
    dcpi_op_phase(&op, DCP_PHASE_READ, info.size);
    status = dcpi_object_read(&op, storage, path, object, info.size, &bytes, err);
    dcpi_storage_close_object(storage, object);
    if (status) return status;
    *data = bytes;
    *size = (size_t)info.size;
    return DCP_OK;
}
DCPDEF dcp_status dcp_storage_write_all(dcp_storage *storage, const char *path, const void *data, size_t size,
                                        dcp_error *err) {
    dcp_io io = DCP_ZERO;
    return dcp_storage_write_all_io(storage, path, data, size, &io, err);
}
DCPDEF dcp_status dcp_storage_read_all(dcp_storage *storage, const char *path, void **data, size_t *size,
                                       dcp_error *err) {
    dcp_io io = DCP_ZERO;
    return dcp_storage_read_all_io(storage, path, data, size, &io, err);
}
DCPDEF dcp_status dcp_storage_info(dcp_storage *storage, const char *path, dcp_object_info *info, dcp_error *err) {
    if (storage) return dcpi_storage_stat(storage, path, info, err);
    memset(info, 0, sizeof *info);
    return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_info: storage is NULL");
}
DCPDEF dcp_status dcp_storage_exists(dcp_storage *storage, const char *path, int *exists, dcp_error *err) {
    dcp_object_info info;
    dcp_status status = dcp_storage_info(storage, path, &info, err);
    *exists = status == DCP_OK;
    return status == DCP_E_NOT_FOUND ? dcpi_succeed(err) : status;
}
DCPDEF dcp_status dcp_storage_additional_info(dcp_storage *storage, const char *path, dcp_field **fields, size_t *count,
                                              dcp_error *err) {
    dcp_object_info info;
    dcp_status status = dcp_storage_info(storage, path, &info, err);
    *fields = NULL;
    *count = 0;
    if (status || !storage->additional_info) return status;             /* nothing to add is an empty list */
    status = storage->additional_info(storage->context, path, fields, count, err);
    return dcpi_storage_result(&dcpi_by_finder, status, "look at", path, err);
}
DCPDEF dcp_status dcp_storage_delete(dcp_storage *storage, const char *path, dcp_error *err) {
    if (!storage) return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_delete: storage is NULL");
    return dcpi_storage_remove(storage, path, err);
}
DCPDEF void dcp_cancel_request(dcp_cancel *cancel) { if (cancel) dcpi_flag_set(&cancel->requested, 1); }

