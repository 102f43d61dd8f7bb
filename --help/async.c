/* =====================================================================================================================
 * >>async       A save in the background. It has no stages of its own: dcp_save_begin calls dcpi_save_start, as
 *               dcp_save does, copies the tensors,
 * and leaves the rest to a thread or to whoever polls.
 *
 *   IDLE        nothing runs
 *    |  dcp_save_begin: dcpi_save_start; dcpi_async_keep, dcpi_async_snapshot: the caller's memory is the caller's
 *       again
 *    |
 *    +--> BACKGROUND   one rank, or a thread-safe coordinator: one thread does it all, as dcp_save does
 *    |         |           dcpi_save_write, dcpi_save_commit, dcpi_save_finish
 *    |         +------------------------------------------------------------------------------> DONE    dcpi_async_step
 *    |
 *    +--> WRITING      a thread writes; poll shows life (dcpi_async_tick)                dcpi_save_write
 *          |               dcpi_async_step: dcpi_save_acknowledge
 *         GATHERING    rank 0 hears all the others                                       dcpi_team_collect
 *          |   |           dcpi_async_step: dcpi_save_gathered
 *          |  COMMITTING   rank 0 alone: a thread commits; poll shows life               dcpi_commit_run
 *          |   |           dcpi_async_step: dcpi_save_tell
 *         TELLING      the others hear rank 0's verdict; what it has said leaves the outbox      dcpi_team_follow,
 *                      dcpi_team_flush
 *          |               dcpi_async_step
 *         FINISHING    a thread removes what has to go                                   dcpi_save_finish
 *          |               dcpi_async_step
 *         DONE         the verdict is known, and nobody has asked for it yet
 *          |               dcpi_async_answer, in poll and wait, else in begin and close
 *         IDLE
 *
 * Between two arrows at most one thread works on the save, `is_running` tells, and until it has ended nothing of
 * `save`, `status` and `err` is the program's thread's but for what dcpi_team_tick touches. dcpi_async_check holds all
 * this against a saver.
 * ================================================================================================================== */
typedef enum dcpi_async_state {
    DCPI_ASYNC_IDLE, DCPI_ASYNC_BACKGROUND, DCPI_ASYNC_WRITING, DCPI_ASYNC_GATHERING, DCPI_ASYNC_COMMITTING,
        DCPI_ASYNC_TELLING,
    DCPI_ASYNC_FINISHING, DCPI_ASYNC_DONE
} dcpi_async_state;

typedef struct dcpi_snapshot {                      /* memory for copies of the tensors of one device, or of the host */
    const dcp_device *device; int is_own;               /* is_own: the device's memory, which the host does not touch */
    uint8_t *memory; size_t size, used;
    int is_of_device, is_pages;                         /* where the host's came from; neither: dcpi_alloc */
    int is_refused;                                     /* in this save the device gave none */
} dcpi_snapshot;
/* the copy of one tensor: bytes from `at` in pools[pool] */
typedef struct dcpi_kept { size_t pool, at; uint64_t ticket; } dcpi_kept;

struct dcp_saver {
    /* the program's thread */
    dcp_saver_desc desc;
    dcpi_async_state state;
    dcpi_thread thread; int has_thread;
    dcp_save_desc kept; dcpi_arena texts; dcp_signer signer;          /* of the caller's desc, what later phases need */
    /* is_arranged: the copies lie as in the file */
    dcpi_snapshot *pools; size_t pool_count, pool_capacity; int is_arranged;
    dcp_progress_fn progress; void *progress_user; int64_t shown_ms;    /* the caller's */
    dcp_coordinator *held;                              /* whose `settle` is ours */
    int64_t polled_ms;
    uint32_t begins;
    dcp_save_report report;
    /* whoever works: this thread, or the other one while it runs */
    dcpi_save save;
    dcp_status status; dcp_error err;                   /* of the stages so far, then the verdict */
    dcp_save_report final;
    /* under the lock */
    dcpi_mutex lock; dcpi_cond changed;
    int is_running;
    int64_t taken; int is_released;     /* bytes of the file whose tensors are read; the rest is the caller's no more */
    dcp_progress latest; int has_latest;
    /* any thread */
    dcp_cancel cancel;
};
static void dcpi_async_drive(dcp_saver *saver, int wait_ms);

/* What is wrong with a saver, NULL: nothing. */
static const char *dcpi_async_check(dcp_saver *saver) {
    const dcpi_async_state state = saver->state;
    int is_running;
    dcpi_mutex_lock(&saver->lock);
    is_running = saver->is_running;
    dcpi_mutex_unlock(&saver->lock);
    if ((int)state < DCPI_ASYNC_IDLE || state > DCPI_ASYNC_DONE) return "its state is none";
    if (is_running && !saver->has_thread) return "it works without a thread";
    if (state == DCPI_ASYNC_IDLE || state == DCPI_ASYNC_DONE) {
        if (saver->has_thread) return "a thread is left of a save that has ended";
        if (saver->held) return "it holds a coordinator without a save";
        if (saver->save.op.team.outbox) return "messages are left of a save that has ended";
        return state == DCPI_ASYNC_DONE && saver->status == DCP_PENDING ? "it has ended without a verdict" : NULL;
    }
    if (state == DCPI_ASYNC_BACKGROUND) return saver->has_thread ? NULL : "it is left to a thread that is not there";
    if (!saver->save.op.team.is_polled) return "it is driven by polls, and would wait in them";
    if (state == DCPI_ASYNC_COMMITTING && saver->save.op.team.rank != 0) return "another rank than 0 commits";
    if (!is_running && state != DCPI_ASYNC_GATHERING && state != DCPI_ASYNC_TELLING && saver->status == DCP_PENDING)
        return "a stage has ended without a status";
    return NULL;
}
static dcp_status dcpi_async_check_call(dcp_saver *saver, const char *call, dcp_error *err) {
    const char *wrong;
    if (!saver) return dcpi_fail(err, DCP_E_INVALID, "%s: saver is NULL", call);
    wrong = dcpi_async_check(saver);
    if (!wrong) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID, "%s: the saver is used by two threads at once, or was overwritten: %s", call,
                     wrong);
}

/* ---- what the stages tell, on whichever thread they run ---------------------------------------------------------- */
static void dcpi_async_note(void *user, const dcp_progress *progress) {          /* in place of the caller's progress */
    dcp_saver *saver = (dcp_saver *)user;
    dcpi_mutex_lock(&saver->lock);
    saver->latest = *progress;
    saver->has_latest = 1;
    dcpi_mutex_unlock(&saver->lock);
}
static void dcpi_async_taken(void *user, int64_t filled_to) {
    dcp_saver *saver = (dcp_saver *)user;
    dcpi_mutex_lock(&saver->lock);
    saver->taken = filled_to;
    dcpi_cond_wake_all(&saver->changed);
    dcpi_mutex_unlock(&saver->lock);
}
static int dcpi_async_again(void *user) {               /* whether everything can be read once more */
    dcp_saver *saver = (dcp_saver *)user;
    int may;
    dcpi_mutex_lock(&saver->lock);
    may = !saver->is_released;
    if (may) saver->taken = 0;
    dcpi_mutex_unlock(&saver->lock);
    return may;
}
/* Program's thread: the caller's progress, at most ten times a second. */
static void dcpi_async_show(dcp_saver *saver, int is_last) {
    const int64_t now = dcpi_os_monotonic_ms();
    dcp_progress progress;
    int has;
    if (!saver->progress || (!is_last && now - saver->shown_ms < 100)) return;
    dcpi_mutex_lock(&saver->lock);
    has = saver->has_latest;
    progress = saver->latest;
    saver->has_latest = 0;
    dcpi_mutex_unlock(&saver->lock);
    if (!has) return;
    saver->shown_ms = now;
    saver->progress(saver->progress_user, &progress);
}

/* ---- one stage at a time, in a thread ---------------------------------------------------------------------------- */
static void dcpi_async_work(dcp_saver *saver) {
    dcpi_save *s = &saver->save;
    const dcpi_async_state state = saver->state;
    if (state == DCPI_ASYNC_BACKGROUND || state == DCPI_ASYNC_WRITING) {
        if (!saver->status) saver->status = dcpi_save_write(s, &saver->err);
        dcpi_async_taken(saver, INT64_MAX);
    }
    if (state == DCPI_ASYNC_BACKGROUND) saver->status = dcpi_save_commit(s, saver->status, &saver->err);
    if (state == DCPI_ASYNC_COMMITTING) saver->status = dcpi_commit_run(s, &saver->err);
    if (state == DCPI_ASYNC_BACKGROUND || state == DCPI_ASYNC_FINISHING)
        saver->status = dcpi_save_finish(s, saver->status);
}
static void dcpi_async_main(void *argument) {
    dcp_saver *saver = (dcp_saver *)argument;
    dcpi_async_work(saver);
    dcpi_mutex_lock(&saver->lock);
    saver->is_running = 0;
    dcpi_cond_wake_all(&saver->changed);
    dcpi_mutex_unlock(&saver->lock);
}
/* Where there is no thread, the stage runs here and now; only what is all that is left to do is then left to polls. */
static void dcpi_async_start(dcp_saver *saver, dcpi_async_state state) {
    dcpi_op *op = &saver->save.op;
    saver->state = state;
    op->is_beside = state != DCPI_ASYNC_BACKGROUND;
    op->team.is_polled = op->is_beside;
    saver->is_running = 1;
    saver->has_thread = DCPI_THREADS && dcpi_thread_start(&saver->thread, dcpi_async_main, saver) == 0;
    if (saver->has_thread) return;
    if (state == DCPI_ASYNC_BACKGROUND) saver->state = DCPI_ASYNC_WRITING;
    op->is_beside = 0;
    op->team.is_polled = 1;
    dcpi_async_work(saver);
    saver->is_running = 0;
}
/* Whether the thread works still; waits for its end for wait_ms at most. */
static int dcpi_async_is_running(dcp_saver *saver, int wait_ms) {
    int is_running;
    dcpi_mutex_lock(&saver->lock);
    if (saver->is_running && wait_ms > 0) dcpi_cond_wait_ms(&saver->changed, &saver->lock, wait_ms);
    is_running = saver->is_running;
    dcpi_mutex_unlock(&saver->lock);
    if (is_running || !saver->has_thread) return is_running;
    dcpi_thread_join(&saver->thread);
    saver->has_thread = 0;
    saver->save.op.is_beside = 0;
    return 0;
}

/* ---- driven by polls --------------------------------------------------------------------------------------------- */
/* The clock of silence runs while somebody looks at it: of a pause between two polls an eighth of the timeout
 * counts. */
static void dcpi_async_look(dcp_saver *saver) {
    dcpi_op *op = &saver->save.op;
    const int64_t now = dcpi_os_monotonic_ms(), gap = now - saver->polled_ms, counts = op->io.timeout_ms / 8;
    int r;
    saver->polled_ms = now;
    for (r = 0; r < op->team.peer_count && gap > counts; r++) op->team.peers[r].heard_ms += gap - counts;
    op->longest_gap_ms = dcpi_max(op->longest_gap_ms, gap);
    op->checked_ms = now;
    dcpi_flag_set(&op->looked_ms, (int)(now - op->started_ms));
}
/* While a thread works. What has ended the save elsewhere stays in the team: writing goes no further then; a commit is
 * not disturbed. */
static void dcpi_async_tick(dcp_saver *saver) {
    dcp_error ignored;
    dcpi_async_look(saver);
    if (dcpi_team_tick(&saver->save.op, &ignored) && saver->state == DCPI_ASYNC_WRITING)
        dcpi_flag_set(&saver->save.op.is_hopeless, 1);
}
/* Writing that was stopped in that way has failed for the reason that the team knows. */
static void dcpi_async_blame(dcp_saver *saver) {
    const dcpi_team *t = &saver->save.op.team;
    const int is_hopeless = dcpi_flag_get(&saver->save.op.is_hopeless);
    dcpi_flag_set(&saver->save.op.is_hopeless, 0);
    if (is_hopeless && saver->status == DCP_E_CANCELLED && t->failure.status)
        saver->status = dcpi_team_failure(t, &saver->err);
}
static void dcpi_async_end(dcp_saver *saver) {
    if (saver->held) saver->held->settle = NULL;
    saver->held = NULL;
    if (!saver->status) (void)dcpi_succeed(&saver->err);
    saver->report = saver->final;
    dcpi_arena_free(&saver->texts);
    saver->state = DCPI_ASYNC_DONE;
}
/* Collects or follows, twice: what the first step takes in, the second sees. */
static int dcpi_async_is_heard(dcp_saver *saver, dcp_status (*step)(dcpi_op *op, int wait_ms, dcp_error *err),
                               int wait_ms) {
    int i;
    dcpi_async_look(saver);
    for (i = 0; i < 2 && saver->status == DCP_PENDING; i++)
        saver->status = step(&saver->save.op, i ? 0 : wait_ms, &saver->err);
    return saver->status != DCP_PENDING;
}
/* One arrow of the diagram, if its time has come. */
static void dcpi_async_step(dcp_saver *saver, int wait_ms) {
    dcpi_save *s = &saver->save;
    if (dcpi_async_is_running(saver, wait_ms)) {
        if (saver->state == DCPI_ASYNC_WRITING || saver->state == DCPI_ASYNC_COMMITTING) dcpi_async_tick(saver);
        return;
    }
    switch (saver->state) {
        case DCPI_ASYNC_WRITING:
            dcpi_async_tick(saver);
            dcpi_async_blame(saver);
            saver->status = dcpi_save_acknowledge(s, saver->status, &saver->err);
            saver->state = DCPI_ASYNC_GATHERING;
            break;
        case DCPI_ASYNC_GATHERING:
            if (!dcpi_async_is_heard(saver, dcpi_team_collect, wait_ms)) break;
            saver->status = dcpi_save_gathered(s, saver->status, &saver->err);
            if (!saver->status && s->op.team.rank == 0) { dcpi_async_start(saver, DCPI_ASYNC_COMMITTING); break; }
            saver->status = dcpi_save_tell(s, saver->status, &saver->err);
            saver->state = DCPI_ASYNC_TELLING;
            break;
        case DCPI_ASYNC_COMMITTING:
            dcpi_async_tick(saver);
            saver->status = dcpi_save_tell(s, saver->status, &saver->err);
            saver->state = DCPI_ASYNC_TELLING;
            break;
        case DCPI_ASYNC_TELLING:
            if (!dcpi_async_is_heard(saver, dcpi_team_follow, wait_ms)) break;
            if (s->op.team.outbox && s->op.team.rank == 0) dcpi_team_flush(&s->op);
            if (s->op.team.outbox && s->op.team.rank == 0) break;
            dcpi_async_start(saver, DCPI_ASYNC_FINISHING);
            break;
        case DCPI_ASYNC_BACKGROUND:
        case DCPI_ASYNC_FINISHING: dcpi_async_end(saver); break;
        case DCPI_ASYNC_IDLE:
        case DCPI_ASYNC_DONE: break;
    }
}
static void dcpi_async_drive(dcp_saver *saver, int wait_ms) {
    dcpi_async_state before;
    do {
        before = saver->state;
        dcpi_async_step(saver, wait_ms);
        wait_ms = 0;
    } while (saver->state != before);
}
static int dcpi_async_is_busy(const dcp_saver *saver) {
    return saver->state != DCPI_ASYNC_IDLE && saver->state != DCPI_ASYNC_DONE;
}
/* Until the save has ended, or timeout_ms is over (negative: never). */
static void dcpi_async_await(dcp_saver *saver, int timeout_ms) {
    const int64_t began = dcpi_os_monotonic_ms();
    int left = timeout_ms < 0 ? DCPI_TEAM_SLICE_MS : timeout_ms;
    while (dcpi_async_is_busy(saver)) {
        dcpi_async_drive(saver, (int)dcpi_min(left, DCPI_TEAM_SLICE_MS));
        dcpi_async_show(saver, 0);
        if (timeout_ms >= 0) left = (int)dcpi_max(0, timeout_ms - (dcpi_os_monotonic_ms() - began));
        if (left == 0) return;
    }
}
static void dcpi_async_settle(void *saver) { dcpi_async_await((dcp_saver *)saver, -1); }       /* for dcpi_team_begin */

static dcp_status dcpi_async_pending(dcp_error *err) {  /* no failure, so no message */
    (void)dcpi_succeed(err);
    if (err) err->status = DCP_PENDING;
    return DCP_PENDING;
}
static dcp_status dcpi_async_answer(dcp_saver *saver, dcp_error *err) {
    dcpi_async_show(saver, saver->state == DCPI_ASYNC_DONE);
    if (saver->state == DCPI_ASYNC_IDLE) return dcpi_succeed(err);
    if (saver->state != DCPI_ASYNC_DONE) return dcpi_async_pending(err);
    saver->state = DCPI_ASYNC_IDLE;
    if (err) *err = saver->err;
    return saver->status;
}
/* The verdict that nobody has asked for, if there is one. */
static dcp_status dcpi_async_take_verdict(dcp_saver *saver, dcp_error *err) {
    return saver->state == DCPI_ASYNC_DONE ? dcpi_async_answer(saver, err) : dcpi_succeed(err);
}

/* ---- begin: what is kept of the desc ----------------------------------------------------------------------------- */
/* A copy of *text, if there is one, in its place. 0: no memory. */
static int dcpi_async_keep_text(dcp_saver *saver, const char **text) {
    if (!*text) return 1;
    *text = dcpi_arena_text(&saver->texts, *text, strlen(*text), &saver->err);
    return *text != NULL;
}
static void *dcpi_async_keep_bytes(dcp_saver *saver, const void *bytes, size_t count, size_t size) {
    /* NULL: no memory */
    void *copy;
    if (count > SIZE_MAX / size) { (void)dcpi_no_memory(&saver->err, SIZE_MAX); return NULL; }
    copy = dcpi_arena_alloc(&saver->texts, count ? count * size : 1, &saver->err);
    if (copy && count) memcpy(copy, bytes, count * size);
    return copy;
}
static int dcpi_async_keep_model(dcp_saver *saver) {
    dcp_save_desc *d = &saver->kept;
    dcp_training *training = d->training
                             ? (dcp_training *)dcpi_async_keep_bytes(saver, d->training, 1, sizeof *training) : NULL;
    dcp_sharding *sharding = d->sharding
                             ? (dcp_sharding *)dcpi_async_keep_bytes(saver, d->sharding, 1, sizeof *sharding) : NULL;
    if ((d->training && !training) || (d->sharding && !sharding)) return 0;
    d->training = training;
    d->sharding = sharding;
    if (training && (!dcpi_async_keep_text(saver, &training->optimizer_type) ||
                     !dcpi_async_keep_text(saver, &training->optimizer_state) ||
                     !dcpi_async_keep_text(saver, &training->extra))) return 0;
    return !sharding || (dcpi_async_keep_text(saver, &sharding->strategy) &&
                         dcpi_async_keep_text(saver, &sharding->precision) &&
                         dcpi_async_keep_text(saver, &sharding->info) && dcpi_async_keep_text(saver, &sharding->extra));
}
static int dcpi_async_keep_lists(dcp_saver *saver) {
    dcp_save_desc *d = &saver->kept;
    dcp_field *fields = (dcp_field *)dcpi_async_keep_bytes(saver, d->fields, d->field_count, sizeof *fields);
    dcp_tier *tiers = (dcp_tier *)dcpi_async_keep_bytes(saver, d->tiers, d->tiers ? d->tier_count : 0, sizeof *tiers);
    dcp_router_seed *seeds = (dcp_router_seed *)dcpi_async_keep_bytes(saver, d->router_seeds,
                                                                      d->router_seeds ? d->router_seed_count : 0,
                                                                      sizeof *seeds);
    size_t i;
    if (!fields || !tiers || !seeds) return 0;
    for (i = 0; i < d->field_count; i++)
        if (!dcpi_async_keep_text(saver, &fields[i].key) || !dcpi_async_keep_text(saver, &fields[i].value)) return 0;
    for (i = 0; d->tiers && i < d->tier_count; i++)
        if (!dcpi_async_keep_text(saver, &tiers[i].name) || !dcpi_async_keep_text(saver, &tiers[i].size_budget) ||
            !dcpi_async_keep_text(saver, &tiers[i].placement_policy)) return 0;
    d->fields = fields;
    if (d->tiers) d->tiers = tiers;
    if (d->router_seeds) d->router_seeds = seeds;
    return 1;
}
/* A list of texts, each of which may be NULL, if there is one. */
static int dcpi_async_keep_texts(dcp_saver *saver, const char *const **list, size_t count) {
    const char **texts;
    size_t i;
    if (!*list) return 1;
    texts = (const char **)dcpi_async_keep_bytes(saver, (const void *)*list, count, sizeof *texts);
    for (i = 0; texts && i < count; i++) if (!dcpi_async_keep_text(saver, &texts[i])) return 0;
    *list = texts;
    return texts != NULL;
}
static int dcpi_async_keep_extras(dcp_saver *saver) {
    dcp_save_desc *d = &saver->kept;
    return dcpi_async_keep_text(saver, &d->extra) && dcpi_async_keep_text(saver, &d->optim_extra) &&
           dcpi_async_keep_text(saver, &d->router_extra) &&
           dcpi_async_keep_texts(saver, &d->tier_extras, d->tier_count) &&
           dcpi_async_keep_texts(saver, &d->router_seed_extras, d->router_seed_count);
}
/* All tensors: later phases look at those that this rank writes; a layout may look at the others. */
static int dcpi_async_keep_tensors(dcp_saver *saver) {
    dcpi_save *s = &saver->save;
    const dcp_tensor *before = s->desc->tensors;
    dcp_tensor *tensors = (dcp_tensor *)dcpi_async_keep_bytes(saver, before, s->desc->tensor_count, sizeof *tensors);
    size_t i;
    if (!tensors) return 0;
    for (i = 0; i < s->desc->tensor_count; i++)
        if (!dcpi_async_keep_text(saver, &tensors[i].name) || !dcpi_async_keep_text(saver, &tensors[i].tier) ||
            !dcpi_async_keep_text(saver, &tensors[i].extra)) return 0;
    for (i = 0; i < s->placed_count; i++) s->placed[i].tensor = tensors + (s->placed[i].tensor - before);
    saver->kept.tensors = tensors;
    return 1;
}
/* From here on s->desc is ours. Without memory for that the save has failed, and nothing of the caller's is looked at
 * again. */
static dcp_status dcpi_async_keep(dcp_saver *saver) {
    dcpi_save *s = &saver->save;
    dcp_save_desc *d = &saver->kept;
    int is_kept;
    *d = *s->desc;
    if (d->signer) saver->signer = *d->signer;
    if (d->signer) d->signer = &saver->signer;
    is_kept = dcpi_async_keep_text(saver, &d->path) && dcpi_async_keep_text(saver, &d->model_id) &&
              dcpi_async_keep_model(saver) && dcpi_async_keep_lists(saver) && dcpi_async_keep_extras(saver) &&
              dcpi_async_keep_tensors(saver);
    if (is_kept && d->signer)
        is_kept = dcpi_async_keep_text(saver, &saver->signer.algorithm) &&
                  dcpi_async_keep_text(saver, &saver->signer.key_id);
    d->report = &saver->final;
    s->desc = d;
    s->op.io.progress = d->io.progress ? dcpi_async_note : NULL;
    s->op.io.progress_user = saver;
    saver->progress = d->io.progress;
    saver->progress_user = d->io.progress_user;
    return is_kept ? DCP_OK : DCP_E_MEMORY;
}

/* ---- begin: the copy --------------------------------------------------------------------------------------------- */
static void dcpi_snapshot_free(dcpi_snapshot *pool) {
    if (!pool->memory) return;
    if (pool->is_own) pool->device->free_own(pool->device->context, pool->memory);
    else if (pool->is_of_device) pool->device->free_host(pool->device->context, pool->memory);
    else if (pool->is_pages) dcpi_os_pages_free(pool->memory, pool->size);
    else dcpi_free(pool->memory);
    pool->memory = NULL;
    pool->size = 0;
}
static void *dcpi_snapshot_host(dcpi_snapshot *pool, dcp_error *err) {
    void *memory = NULL;
    pool->is_of_device = pool->device && pool->device->allocate_host && pool->device->free_host;
    if (pool->is_of_device && pool->device->allocate_host(pool->device->context, pool->used, &memory, err))
        memory = NULL;
    pool->is_of_device = memory != NULL;
    if (!memory) memory = dcpi_os_pages(pool->used);
    pool->is_pages = memory && !pool->is_of_device;
    return memory ? memory : dcpi_alloc(pool->used, err);
}
/* Room for `used` bytes; what there was before is as good as gone. */
static dcp_status dcpi_snapshot_grow(dcpi_snapshot *pool, dcp_error *err) {
    void *memory = NULL;
    (void)dcpi_succeed(err);
    if (pool->used <= pool->size) return DCP_OK;
    dcpi_snapshot_free(pool);
    if (!pool->is_own) memory = dcpi_snapshot_host(pool, err);
    else if (pool->device->allocate_own(pool->device->context, pool->used, &memory, err)) memory = NULL;
    pool->memory = (uint8_t *)memory;
    pool->size = memory ? pool->used : 0;
    return memory ? DCP_OK : DCP_E_MEMORY;
}
static dcpi_snapshot *dcpi_async_pool(dcp_saver *saver, const dcp_device *device, int is_own) {    /* NULL: no memory */
    void *pools = saver->pools;
    size_t i;
    for (i = 0; i < saver->pool_count; i++)
        if (saver->pools[i].device == device && saver->pools[i].is_own == is_own) return &saver->pools[i];
    if (!dcpi_grow(&pools, &saver->pool_capacity, saver->pool_count + 1, sizeof *saver->pools, NULL)) return NULL;
    saver->pools = (dcpi_snapshot *)pools;
    memset(&saver->pools[saver->pool_count], 0, sizeof *saver->pools);
    saver->pools[saver->pool_count].device = device;
    saver->pools[saver->pool_count].is_own = is_own;
    return &saver->pools[saver->pool_count++];
}
/* The device's own memory while there is some of it left, then the host's. */
static dcpi_snapshot *dcpi_async_pool_for(dcp_saver *saver, const dcp_device *device, uint64_t size) {
    dcpi_snapshot *pool;
    if (!device || !device->copy_own || !device->allocate_own || !device->free_own)
        return dcpi_async_pool(saver, device, 0);
    pool = dcpi_async_pool(saver, device, 1);
    return pool && (pool->is_refused || size > device->own_bytes - pool->used) ? dcpi_async_pool(
            saver, device, 0) : pool;
}
/* Each of placed[from..] has its place in a pool. 0: no memory. */
static int dcpi_async_lay_out(dcp_saver *saver, size_t from, dcpi_kept *kept) {
    const dcpi_save *s = &saver->save;
    size_t i;
    for (i = 0; i < saver->pool_count; i++) saver->pools[i].used = 0;
    for (i = from; i < s->placed_count; i++, kept++) {
        const uint64_t size = ((uint64_t)s->placed[i].size + 63) & ~(uint64_t)63;
        dcpi_snapshot *pool = dcpi_async_pool_for(saver, s->placed[i].tensor->device, size);
        if (!pool || size > SIZE_MAX - pool->used) return 0;
        kept->pool = (size_t)(pool - saver->pools);
        kept->at = pool->used;
        pool->used += (size_t)size;
    }
    return 1;
}
/* If the copies are in one pool of the host, they lie in it as in the file, so that they are hashed and written from
 * there. */
static void dcpi_async_arrange(dcp_saver *saver, size_t from, dcpi_kept *kept) {
    const dcpi_save *s = &saver->save;
    dcpi_snapshot *pool;
    size_t i;
    if (DCPI_BIG_ENDIAN || from > 0 || s->placed_count == 0 || dcpi_save_is_manifest(s)) return;
    for (i = 1; i < s->placed_count; i++) if (kept[i].pool != kept[0].pool) return;
    pool = &saver->pools[kept[0].pool];
    /* gaps cost memory too */
    if (pool->is_own || (uint64_t)s->file_size > (uint64_t)pool->used + DCPI_OS_DIRECT_ALIGN) return;
    for (i = 0; i < s->placed_count; i++) kept[i].at = s->placed[i].size > 0 ? (size_t)s->placed[i].offset : 0;
    if ((uint64_t)s->file_size > pool->used) pool->used = (size_t)s->file_size;
    saver->is_arranged = 1;
}
static void dcpi_async_make_image(dcp_saver *saver, const dcpi_kept *kept) {
    dcpi_save *s = &saver->save;
    uint8_t *memory = saver->is_arranged ? saver->pools[kept[0].pool].memory : NULL;
    int64_t at = 0;
    size_t i;
    if (!memory || (uintptr_t)memory % DCPI_OS_DIRECT_ALIGN != 0) return;
    for (i = 0; i < s->placed_count; i++) {
        if (s->placed[i].size == 0) continue;
        memset(memory + at, 0, (size_t)(s->placed[i].offset - at));
        at = s->placed[i].offset + s->placed[i].size;
    }
    s->image = memory;
}
/* Room for the last tensors of the file, which fit the budget. 0: no memory, so none of them is kept. */
static int dcpi_async_make_room(dcp_saver *saver, size_t from, dcpi_kept *kept) {
    dcp_error error;
    size_t i;
    for (i = 0; i < saver->pool_count; i++) saver->pools[i].is_refused = 0;
    for (;;) {
        if (!dcpi_async_lay_out(saver, from, kept)) return 0;
        saver->is_arranged = 0;
        dcpi_async_arrange(saver, from, kept);
        for (i = 0; i < saver->pool_count; i++)
            if (saver->pools[i].is_own && dcpi_snapshot_grow(&saver->pools[i], &error)) break;
        if (i == saver->pool_count) break;
        saver->pools[i].is_refused = 1;
        dcpi_op_log(&saver->save.op, DCP_LOG_WARNING,
                    "the copy of the tensors goes to host memory, which is slower: %s", error.message);
    }
    for (i = 0; i < saver->pool_count; i++) if (dcpi_snapshot_grow(&saver->pools[i], NULL)) return 0;
    return 1;
}
static size_t dcpi_async_first_kept(const dcp_saver *saver) {
    const dcpi_save *s = &saver->save;
    uint64_t left = saver->desc.snapshot_budget ? saver->desc.snapshot_budget : UINT64_MAX;
    size_t i = s->placed_count;
    for (; i > 0 && (uint64_t)s->placed[i - 1].size <= left; i--) left -= (uint64_t)s->placed[i - 1].size;
    return i;
}
/* Host: packed row-major, in chunks between which cancel and deadline are looked at. Device: only begun; *ticket is to
 * be waited for. */
static dcp_status dcpi_async_copy_one(dcp_saver *saver, const dcp_tensor *tensor, const dcpi_snapshot *pool,
                                      size_t place, int64_t size, uint64_t *ticket) {
    const dcp_device *device = tensor->device;
    uint8_t *to = pool->memory + place;
    int64_t at, n;
    dcp_status status = dcpi_op_check(&saver->save.op, &saver->err);
    if (status || size == 0) return status;
    if (device) {
        (void)dcpi_succeed(&saver->err);
        status = pool->is_own ? device->copy_own(device->context, to, tensor, (size_t)size, ticket, &saver->err)
                              : device->copy_out(device->context, to, tensor, 0, (size_t)size, ticket, &saver->err);
        return dcpi_copy_result(tensor, 0, status, &saver->err);
    }
    for (at = 0; at < size && !status; at += n) {
        n = dcpi_min(size - at, DCPI_CHUNK);
        status = dcpi_tensor_fetch(NULL, 0, tensor, at, to + at, (size_t)n, &saver->err);
        dcpi_swap_bytes(to + at, n, dcpi_dtype_width(tensor->dtype));   /* a copy of memory, not of the file */
        if (!status) status = dcpi_op_check(&saver->save.op, &saver->err);
    }
    return status;
}
/* The copy has ended: the tensor of ours is the copy from now on, on the host or in the device's own memory. */
static dcp_status dcpi_async_copied(dcp_tensor *tensor, const dcpi_snapshot *pool, const dcpi_kept *kept, int64_t size,
                                    dcp_error *err) {
    const dcp_device *device = tensor->device;
    dcp_status status;
    (void)dcpi_succeed(err);
    status = device && size > 0 ? device->wait(device->context, kept->ticket, err) : DCP_OK;
    status = dcpi_copy_result(tensor, 0, status, err);
    tensor->data = pool->memory + kept->at;
    if (!pool->is_own) tensor->device = NULL;
    memset(tensor->stride, 0, sizeof tensor->stride);
    return status;
}
/* placed[from..], each to its place. Every ticket is waited for, whatever fails. */
static dcp_status dcpi_async_copy(dcp_saver *saver, size_t from, dcpi_kept *kept) {
    const size_t count = saver->save.placed_count - from;
    dcp_status status = DCP_OK;
    size_t i, begun;
    for (begun = 0; begun < count; begun++) {
        const dcpi_placed *p = &saver->save.placed[from + begun];
        dcpi_kept *k = &kept[begun];
        status = dcpi_async_copy_one(saver, p->tensor, &saver->pools[k->pool], k->at, p->size, &k->ticket);
        if (status) break;
    }
    for (i = 0; i < begun; i++) {
        const dcpi_placed *p = &saver->save.placed[from + i];
        dcp_tensor *tensor = (dcp_tensor *)(uintptr_t)p->tensor;                /* of saver->kept */
        dcp_error error;
        const dcp_status waited = dcpi_async_copied(tensor, &saver->pools[kept[i].pool], &kept[i], p->size, &error);
        if (waited && !status) saver->err = error;
        if (!status) status = waited;
    }
    return status;
}
/* Copies what fits; *must_take: what dcpi_async_taken must have been told before the others are the caller's. */
static dcp_status dcpi_async_snapshot(dcp_saver *saver, int64_t *must_take) {
    dcpi_save *s = &saver->save;
    dcpi_kept *kept = (dcpi_kept *)dcpi_alloc_array(s->placed_count, sizeof *kept, NULL);
    size_t from = dcpi_async_first_kept(saver), i;
    dcp_status status;
    if (!kept || !dcpi_async_make_room(saver, from, kept)) {
        dcpi_op_log(&s->op, DCP_LOG_WARNING, "no memory for a copy of the tensors: begin waits until they are written");
        from = s->placed_count;
    }
    for (i = 0; i < from; i++) {
        s->report.bytes_in_begin += s->placed[i].size;
        if (s->placed[i].size > 0) *must_take = s->data_offset + s->placed[i].offset + s->placed[i].size;
    }
    if (dcpi_save_is_manifest(s)) *must_take = s->report.bytes_in_begin;        /* as dcpi_pool_write tells it */
    if (*must_take > 0) s->plain_names = 0;    /* a plain name that is taken meanwhile would have to be written again */
    if (from == 0 && kept) dcpi_async_make_image(saver, kept);
    status = dcpi_async_copy(saver, from, kept);
    dcpi_free(kept);
    return status;
}
/* Returns when the rest of the caller's memory has been read, or is not needed any more. */
static void dcpi_async_await_taken(dcp_saver *saver, int64_t must_take) {
    int is_there;
    do {
        dcpi_mutex_lock(&saver->lock);
        if (saver->is_running && saver->taken < must_take)
            dcpi_cond_wait_ms(&saver->changed, &saver->lock, DCPI_TEAM_SLICE_MS);
        is_there = !saver->is_running || saver->taken >= must_take;
        if (is_there && must_take > 0) saver->is_released = 1;
        dcpi_mutex_unlock(&saver->lock);
        if (is_there) break;
        if (saver->state == DCPI_ASYNC_WRITING) dcpi_async_tick(saver);
        dcpi_async_show(saver, 0);
    } while (!is_there);
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */
/* Refusing is rank 0's word, so that it is the same on all ranks: one byte, and which begin it is about. */
static dcp_status dcpi_async_tell_busy(dcp_coordinator *c, uint32_t number, int is_busy, int timeout_ms,
                                       dcp_error *err) {
    uint8_t word[8];
    int r;
    dcp_status status = DCP_OK;
    dcpi_store32(word, number);
    dcpi_store32(word + 4, (uint32_t)is_busy);
    for (r = 1; r < c->world_size && !status; r++)
        status = dcpi_coord_send(c, r, DCPI_TAG_SAVER, word, sizeof word, timeout_ms, err);
    return status;
}
static dcp_status dcpi_async_hear_busy(dcp_saver *saver, dcp_coordinator *c, int *is_busy, int timeout_ms,
                                       dcp_error *err) {
    const int64_t until = dcpi_os_monotonic_ms() + (int64_t)timeout_ms * 23 / 20;
    dcp_status status = DCP_PENDING;
    void *word = NULL;
    size_t size = 0;
    int from = 0;
    while (status == DCP_PENDING && dcpi_os_monotonic_ms() < until) {
        dcpi_async_drive(saver, 0);
        status = dcpi_coord_receive(c, &from, DCPI_TAG_SAVER, &word, &size, DCPI_TEAM_SLICE_MS, err);
    }
    if (status == DCP_PENDING)
        return dcpi_fail(err, DCP_E_TIMEOUT, "rank 0 has not called dcp_save_begin within %d ms", timeout_ms);
    if (status) return status;
    *is_busy = size == 8 && dcpi_load32((uint8_t *)word + 4) != 0;
    if (size != 8 || dcpi_load32((uint8_t *)word) != saver->begins)
        status = dcpi_fail(err, DCP_E_MISMATCH, "ranks 0 and %d are in different calls of dcp_save_begin", c->rank);
    dcpi_free(word);
    return status;
}
/* The save before this one: waited for, or in the way (DCP_PENDING); *earlier: its verdict, if nobody has asked. */
static dcp_status dcpi_async_free(dcp_saver *saver, const dcp_io *io, dcp_error *earlier, dcp_error *err) {
    dcp_coordinator *c = io->coordinator;
    const int timeout_ms = io->timeout_ms > 0 ? io->timeout_ms : DCPI_COORD_TIMEOUT;
    int is_busy;
    dcp_status status = DCP_OK;
    saver->begins++;
    dcpi_async_drive(saver, 0);
    is_busy = dcpi_async_is_busy(saver);
    if (saver->desc.when_busy == DCP_BUSY_REFUSE && c && c->world_size > 1 && !dcpi_coord_check(c, err)) {
        if (c->rank == 0) status = dcpi_async_tell_busy(c, saver->begins, is_busy, timeout_ms, err);
        else status = dcpi_async_hear_busy(saver, c, &is_busy, timeout_ms, err);
    }
    if (status) return status;
    if (is_busy && saver->desc.when_busy == DCP_BUSY_REFUSE) return dcpi_async_pending(err);
    dcpi_async_await(saver, -1);                        /* refusing: rank 0 knows the verdict, so it is on its way */
    if (dcpi_async_take_verdict(saver, earlier))
        dcpi_fail_context(earlier, "the save before this one failed, and nothing was begun: ");
    return DCP_OK;
}
static void dcpi_async_prepare(dcp_saver *saver, const dcp_save_desc *desc) {
    dcpi_save *s = &saver->save;
    memset(s, 0, sizeof *s);
    (void)dcpi_succeed(&saver->err);
    dcpi_flag_set(&saver->cancel.requested, 0);
    saver->taken = 0;
    saver->is_released = saver->has_latest = 0;
    saver->shown_ms = dcpi_os_monotonic_ms() - 1000;
    s->desc = desc;
    s->cancel_too = &saver->cancel;
    s->taken = dcpi_async_taken;
    s->again = dcpi_async_again;
    s->watcher = saver;
}
/* Whether one thread can do all the rest, or the ranks' messages must be left to polls. */
static int dcpi_async_can_leave(const dcpi_save *s) {
    return s->op.team.world_size == 1 || s->op.team.coordinator->thread_safe;
}

static void dcpi_async_go(dcp_saver *saver, dcp_save_report *report) {
    dcpi_save *s = &saver->save;
    dcp_coordinator *c = s->op.team.coordinator;
    const int writes_now = !saver->status && !dcpi_async_can_leave(s) && dcpi_save_relays(s);
    /* without a snapshot begin does not return before it has written */
    int64_t must_take = 0;
    int must_tell;
    if (!saver->status) saver->status = dcpi_async_keep(saver);
    else (void)dcpi_async_keep(saver);
    if (!saver->status && DCPI_THREADS && !writes_now) saver->status = dcpi_async_snapshot(saver, &must_take);
    else if (!saver->status) s->report.bytes_in_begin = s->file_size;
    dcpi_save_tell_report(s, &saver->report);
    if (report) *report = saver->report;
    if (c) { c->settle = dcpi_async_settle; c->saver = saver; saver->held = c; }
    if (!saver->status && writes_now) saver->status = dcpi_save_write(s, &saver->err);
    must_tell = saver->status && s->op.team.rank == 0 && !dcpi_async_can_leave(s);
    saver->polled_ms = dcpi_os_monotonic_ms();
    if (dcpi_async_can_leave(s)) dcpi_async_start(saver, DCPI_ASYNC_BACKGROUND);
    else if (!saver->status && !writes_now) dcpi_async_start(saver, DCPI_ASYNC_WRITING);
    else { s->op.team.is_polled = 1; saver->state = DCPI_ASYNC_WRITING; }
    if (saver->state == DCPI_ASYNC_BACKGROUND || saver->has_thread) dcpi_async_await_taken(saver, must_take);
    if (saver->state != DCPI_ASYNC_BACKGROUND) dcpi_async_drive(saver, 0);
    /* rank 0, failed, perhaps before it could write: ranks that send it their bytes wait in begin to hear it, and hear
     * it soon */
    while (must_tell && saver->state == DCPI_ASYNC_GATHERING) dcpi_async_drive(saver, DCPI_TEAM_SLICE_MS);
}
DCPDEF dcp_status dcp_save_begin(dcp_saver *saver, const dcp_save_desc *desc, dcp_error *err) {
    dcpi_save *s;
    dcp_error earlier;
    dcp_status status = dcpi_async_check_call(saver, "dcp_save_begin", err);
    if (status) return status;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_save_begin: desc is NULL");
    status = dcpi_async_free(saver, &desc->io, &earlier, err);
    if (status) return status;
    s = &saver->save;
    dcpi_async_prepare(saver, desc);
    s->earlier = earlier.status ? &earlier : NULL;      /* said as this rank's failure, so that it is the same on all */
    saver->status = dcpi_save_start(s, &saver->err);
    s->earlier = NULL;
    if (!saver->status || (s->op.team.world_size > 1 && !s->op.team.is_over)) {
        /* a failure that the others do not know yet is poll's */
        dcpi_async_go(saver, desc->report);
        return dcpi_succeed(err);
    }
    saver->status = dcpi_save_commit(s, saver->status, &saver->err);
    saver->status = dcpi_save_finish(s, saver->status);
    if (!earlier.status) saver->report = s->report;     /* else it is that one's still */
    if (err) *err = saver->err;
    return saver->status;
}

/* ---- the other calls --------------------------------------------------------------------------------------------- */
DCPDEF dcp_status dcp_saver_open(const dcp_saver_desc *desc, dcp_saver **out, dcp_error *err) {
    dcp_saver *saver;
    if (!out) return dcpi_fail(err, DCP_E_INVALID, "dcp_saver_open: out is NULL");
    *out = NULL;
    if (desc && ((int)desc->when_busy < DCP_BUSY_WAIT || desc->when_busy > DCP_BUSY_REFUSE))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_saver_open: when_busy %d is none", (int)desc->when_busy);
    saver = (dcp_saver *)dcpi_alloc_array(1, sizeof *saver, err);
    if (!saver) return DCP_E_MEMORY;
    if (desc) saver->desc = *desc;
    if (dcpi_mutex_init(&saver->lock)) { dcpi_free(saver); return dcpi_no_memory(err, sizeof saver->lock); }
    if (dcpi_cond_init(&saver->changed)) {
        dcpi_mutex_destroy(&saver->lock);
        dcpi_free(saver);
        return dcpi_no_memory(err, sizeof saver->changed);
    }
    *out = saver;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_save_poll(dcp_saver *saver, dcp_error *err) {
    dcp_status status = dcpi_async_check_call(saver, "dcp_save_poll", err);
    if (status) return status;
    dcpi_async_drive(saver, 0);
    return dcpi_async_answer(saver, err);
}
DCPDEF dcp_status dcp_save_wait(dcp_saver *saver, int timeout_ms, dcp_error *err) {
    dcp_status status = dcpi_async_check_call(saver, "dcp_save_wait", err);
    if (status) return status;
    dcpi_async_await(saver, timeout_ms);
    return dcpi_async_answer(saver, err);
}
DCPDEF void dcp_save_cancel(dcp_saver *saver) {
    if (saver) dcp_cancel_request(&saver->cancel);
}
DCPDEF const dcp_save_report *dcp_report_of(const dcp_saver *saver) { return saver ? &saver->report : NULL; }

DCPDEF dcp_status dcp_saver_close(dcp_saver *saver, dcp_error *err) {
    dcp_status status;
    size_t i;
    if (!saver) return dcpi_succeed(err);
    dcpi_async_await(saver, -1);
    status = dcpi_async_take_verdict(saver, err);
    for (i = 0; i < saver->pool_count; i++) dcpi_snapshot_free(&saver->pools[i]);
    dcpi_free(saver->pools);
    dcpi_arena_free(&saver->texts);
    dcpi_cond_destroy(&saver->changed);
    dcpi_mutex_destroy(&saver->lock);
    dcpi_free(saver);
    return status;
}

