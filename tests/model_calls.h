/* model_calls.h - how a step of test_model.c runs: its ranks, their storages with all that goes wrong in them, threads
 * and processes. It knows nothing of what should come of it. After model_tensors.h. */
#ifndef DCP_TEST_MODEL_CALLS_H
#define DCP_TEST_MODEL_CALLS_H

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "within.h"
#ifdef __linux__
#include <sys/prctl.h>
#endif

typedef struct model_outcome {          /* in memory that processes share */
    int is_over;                        /* the call has returned on all ranks */
    dcp_status status[MODEL_RANKS]; dcp_error err[MODEL_RANKS];
    dcp_save_report report;             /* rank 0's */
    char path[400];                     /* of dcp_latest */
    char wrong[300];                    /* what a call has handed over that it must not */
    int64_t took_ms, peak;              /* of memory */
    int faults;                         /* that did happen */
} model_outcome;

typedef struct model_op model_op;
typedef struct model_disk {
    fault_storage fault;
    model_op *op;
    int rank, slept, cancel_at;         /* the step's, which the oracle changes when a program cancels */
    int64_t steps;
} model_disk;
struct model_op {
    model_step step;
    model_state state;                  /* what it saves, or what it expects to load */
    model_outcome *out;
    const char *base; dcp_storage *storage;             /* of the world */
    char suffix[20];                    /* with by_file: of the commit file */
    dcp_cancel cancel;
    int ranks;                          /* at least 1 */
    dcp_coordinator *coordinator[MODEL_RANKS]; fault_plan plan[MODEL_RANKS];
    model_disk disk[MODEL_RANKS];
    model_pieces pieces[MODEL_RANKS];
    dcp_saver **saver;                  /* of the slot */
    pthread_t thread; pid_t pid; int is_stopped;
    /* what the oracle notes */
    int is_lost;                        /* another commit or removal came between: it may not succeed any more */
    int was_seen, is_resolved;          /* it was there; bits of the ranks whose verdict is known */
    /* its verdict comes after other steps; of which one may have written the same place; or removed what was there */
    int is_late, has_rivals, has_removals;
};
static int model_time_scale = 1;        /* a failure that may be the machine's is looked at again with longer times */
static const char model_key[] = "0123456789abcdef0123456789abcdef";

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */
static void model_die(model_disk *disk) {       /* this rank is as good as dead: nothing it asks for happens any more */
    fault_storage *f = &disk->fault;
    dcpi_flag_set(&disk->op->plan[disk->rank].dead, 1);
    f->kind = FAULT_ANY;
    f->nth = f->calls[FAULT_ANY] + 1;
    f->times = INT64_MAX / 2;
    f->sys = EIO;
    f->how = FAULT_BEFORE;
}
static void model_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    model_disk *disk = (model_disk *)user;
    const model_step *s = &disk->op->step;
    const int64_t at = ++disk->steps;
    (void)key; (void)call;
    if (disk->rank != s->rank) return;
    if (at == s->kill_at) (void)kill(getpid(), SIGKILL);
    if (at == s->stop_at) (void)raise(SIGSTOP);
    if (at == disk->cancel_at) dcp_cancel_request(&disk->op->cancel);
    if (at == s->dead_at) model_die(disk);
    if (s->slow_ms == 0 || disk->slept || is_done || (int)kind != s->slow) return;
    disk->slept = 1;
    dcpi_os_sleep_ms(s->slow_ms * model_time_scale);
}
/* An object store: what is published replaces whatever is there. */
static dcp_status model_commit_replaces(void *context, void *object, const dcp_commit_request *request,
                                        dcp_error *err) {
    dcp_commit_request replacing = *request;
    replacing.replace = 1;
    return fault_commit(context, object, &replacing, err);
}
/* That cannot list these. */
static dcp_status model_list_no_directories(void *context, const char *directory, dcp_list_kind what,
                                            dcpi_storage_each each, void *user, dcp_error *err) {
    return what == DCP_LIST_DIRECTORIES ? DCP_OK : fault_list(context, directory, what, each, user, err);
}
static dcp_status model_list_no_links(void *context, const char *directory, dcp_list_kind what, dcpi_storage_each each,
                                      void *user, dcp_error *err) {
    return what == DCP_LIST_LINKS ? DCP_OK : fault_list(context, directory, what, each, user, err);
}
static dcp_status model_open_secret(void *context, const char *path, void **out, dcp_object_info *info,
                                    dcp_error *err) {
    if (strstr(path, "secret."))
        return dcpi_fail_sys(err, DCP_E_DENIED, EACCES, "\"%s\" may not be read", path);
    return fault_open_object(context, path, out, info, err);
}
static void model_disk_open(model_op *op, int rank) {
    model_disk *disk = &op->disk[rank];
    const model_step *s = &op->step;
    fault_storage *f = &disk->fault;
    fault_open(f, op->storage);
    disk->op = op;
    disk->rank = rank;
    disk->cancel_at = s->cancel_at;
    f->hook = model_hook;
    f->user = disk;
    f->storage.open = model_open_secret;
    if (s->lacks & DCP_STORAGE_EXCLUSIVE_PUBLISH) f->storage.commit = model_commit_replaces;
    f->storage.flags &= ~(uint32_t)(s->lacks & 127);
    if (s->lacks & 128) f->storage.list = model_list_no_directories;
    if (s->lacks & 256) f->storage.list = model_list_no_links;
    if (s->call == 0 || rank != s->rank) return;
    f->kind = (fault_kind)s->fault;
    f->nth = s->call;
    f->times = s->times;
    f->sys = s->sys;
    f->how = (fault_how)s->how;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */
static void model_coordinators_open(model_op *op) {
    const model_step *s = &op->step;
    dcp_error err;
    int r;
    if (s->ranks == 0) return;
    if (dcp_thread_group_open(s->ranks, op->coordinator, &err)) abort();
    for (r = 0; r < s->ranks; r++) {
        if (s->shy) op->coordinator[r]->thread_safe = 0;
        if (r != s->rank || !(s->arrives_at || s->dead_at || s->other_world)) continue;
        op->plan[r].lies_at = s->arrives_at;
        op->coordinator[r] = fault_wrap(op->coordinator[r], &op->plan[r]);
        if (s->other_world && r < s->ranks - 1) op->coordinator[r]->world_size--;
    }
}
static void model_coordinators_close(model_op *op) {
    int r;
    for (r = 0; r < op->ranks; r++) {
        dcp_coordinator_close(op->coordinator[r]);
        op->coordinator[r] = NULL;
    }
}
static const char *model_where(const model_op *op, const char *path, char out[600]) {
    if (op->step.system) (void)snprintf(out, 600, "%s/%s%s", op->base, path, op->suffix);
    else (void)snprintf(out, 600, "%s%s", path, op->suffix);
    return out;
}
/* Some rank may fall silent: without memory it cannot even say so. */
static int model_waits_in_vain(const model_step *s) {
    return s->arrives_at || s->other_world || s->dead_at || (s->memory_at && s->ranks > 1);
}
static dcp_io model_io(model_op *op, int rank) {
    static const size_t budgets[] = { (size_t)1 << 20, 0, SIZE_MAX, (size_t)3 << 19 };
    const model_step *s = &op->step;
    dcp_io io = DCP_ZERO;
    io.storage = s->system ? NULL : &op->disk[rank].fault.storage;
    io.coordinator = op->coordinator[rank];
    io.memory_budget = budgets[s->budget & 3];
    io.threads = s->threads ? s->threads : 1;
    io.timeout_ms = (s->timeout_ms ? s->timeout_ms : model_waits_in_vain(s) ? 300 : 20000) * model_time_scale;
    io.deadline_ms = s->deadline_ms;
    io.retry.first_ms = s->retry_ms ? s->retry_ms * model_time_scale : 1;
    io.retry.max_ms = s->retry_ms ? s->retry_ms * model_time_scale : 2;
    io.cancel = &op->cancel;
    return io;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */
typedef struct model_saving {           /* what a desc points to */
    char path[600], generation[16]; char model_id[6000];
    dcp_training training; dcp_field field; dcp_tier tier; dcp_signer signer; dcp_verifier verifier;
    dcp_tensor list[MODEL_PIECES];
    dcp_save_report report;
} model_saving;
static void model_save_desc(model_op *op, int rank, model_saving *v, dcp_save_desc *desc) {
    static const char *const states[] = { NULL, "{\"a\":1e400}", "{\"lr\": [1, 2.5], \"x\": \"\\u202e\"}", "{ }" };
    const model_step *s = &op->step;
    const dcp_save_desc none = DCP_ZERO;
    memset(v, 0, sizeof *v);
    *desc = none;
    desc->path = model_where(op, s->kind == MODEL_CONVERT ? s->to : s->path, v->path);
    memcpy(v->list, op->pieces[rank].list, sizeof v->list);
    desc->tensors = op->pieces[rank].count ? v->list : NULL;
    desc->tensor_count = s->forgets ? 0 : (size_t)op->pieces[rank].count;
    desc->layout = (dcp_layout)s->layout;
    desc->checksum = s->flat ? DCP_CHECKSUM_FLAT : DCP_CHECKSUM_TREE;
    desc->alignment = (size_t)s->alignment;
    desc->block_size = (size_t)s->block;
    desc->overwrite = s->overwrite;
    desc->allow_holes = s->holes;
    desc->unique_names = s->unique;
    desc->yaml = s->yaml;
    v->training.step = op->state.number * 7 % 11;      /* the order is that of the sequence numbers, not of the steps */
    v->training.optimizer_state = states[s->state & 3];
    desc->training = s->step ? NULL : &v->training;
    desc->step = s->step == 1 ? v->training.step : 0;
    desc->keep_last = s->kind == MODEL_CONVERT ? 0 : s->keep;
    desc->keep_every = desc->keep_last ? s->every : 0;
    v->verifier = dcp_hmac_verifier(model_key, sizeof model_key - 1);
    desc->verifier = s->verifier ? &v->verifier : NULL;
    (void)snprintf(v->generation, sizeof v->generation, "%d", op->state.number);
    v->field.key = "generation";
    v->field.value = v->generation;
    desc->fields = &v->field;
    desc->field_count = 1;
    v->tier.name = "hot";
    if (s->layout == DCP_LAYOUT_MANIFEST) { desc->tiers = &v->tier; desc->tier_count = 1; }
    if (s->model_id) { memset(v->model_id, 'm', sizeof v->model_id - 1); desc->model_id = v->model_id; }
    v->signer = dcp_hmac_signer(model_key, sizeof model_key - 1, "k");
    desc->signer = s->sign ? &v->signer : NULL;
    desc->report = &v->report;
    desc->io = model_io(op, rank);
}
static dcp_status model_save(model_op *op, int rank, dcp_error *err) {
    model_saving *v = (model_saving *)malloc(sizeof *v);
    dcp_save_desc desc;
    dcp_status status;
    if (!v) abort();
    model_save_desc(op, rank, v, &desc);
    status = op->saver ? dcp_save_begin(op->saver[rank], &desc, err) : dcp_save(&desc, err);
    if (rank == 0) op->out->report = v->report;
    if (op->saver) {                                    /* all of it is the caller's again */
        memset(v, 0x5A, sizeof *v);
        if (op->step.free_tensors) model_pieces_free(&op->pieces[rank]);
        else model_pieces_spoil(&op->pieces[rank]);
    }
    free(v);
    return status;
}
static dcp_status model_convert(model_op *op, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    char path[600];
    dcp_status status;
    desc.path = model_where(op, op->step.path, path);
    desc.io = model_io(op, 0);
    status = dcp_open(&desc, &c, err);
    if (!status) status = dcp_read(c, op->pieces[0].list, (size_t)op->pieces[0].count, err);
    dcp_close(c);
    return status ? status : model_save(op, 0, err);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */
static void model_say(model_outcome *out, const char *format, ...) DCPI_PRINTF(2, 3);
static dcpi_mutex model_saying = DCPI_MUTEX_INITIALIZER;      /* an outcome is of several threads */
static void model_say(model_outcome *out, const char *format, ...) {
    va_list arguments;
    dcpi_mutex_lock(&model_saying);
    va_start(arguments, format);
    if (!out->wrong[0]) (void)vsnprintf(out->wrong, sizeof out->wrong, format, arguments);
    va_end(arguments);
    dcpi_mutex_unlock(&model_saying);
}
static int model_generation_of(const dcp_metadata *m) {
    const char *text = m ? dcp_metadata_field(m, "generation") : NULL;
    return text ? atoi(text) : 0;
}
/* The bytes that a piece has in another generation, whose tensors may be others: -1, where it has no such tensor. */
static int model_reseed(model_pieces *p, const model_state *to, int rank) {
    int i, j;
    for (i = 0; i < p->count; i++) {
        char name[32] = "";
        for (j = 0; to->tensors[j]; j++) {
            model_tensor_name(to->tensors, j, name);
            if (strcmp(name, p->piece[i].name) == 0) break;
        }
        if (!to->tensors[j]) return -1;
        p->piece[i].seed = model_seed(to, j, rank);
    }
    return 0;
}
/* The states of all generations of the program, for calls that meet one that they did not expect. */
static const model_state *(*model_state_of)(int number);
static void model_load_check(model_op *op, int rank, const dcp_metadata *metadata) {
    const int number = model_generation_of(metadata);
    const model_state *state = model_state_of(number);
    const char *name;
    if (!state) { model_say(op->out, "a load has got generation %d, which nobody saved", number); return; }
    if (number != op->state.number && model_reseed(&op->pieces[rank], state, rank)) {
        model_say(op->out, "a load got tensors of generation %d, which has none of them", number);
        return;
    }
    name = model_pieces_wrong(&op->pieces[rank]);
    if (name)
        model_say(op->out, "rank %d: DCP_OK, and the bytes of %s are not those of generation %d", rank, name, number);
}
static dcp_status model_load(model_op *op, int rank, dcp_error *err) {
    const model_step *s = &op->step;
    const dcp_verifier verifier = dcp_hmac_verifier(model_key, sizeof model_key - 1);
    dcp_load_desc desc = DCP_ZERO;
    dcp_metadata *metadata = NULL;
    char path[600];
    dcp_status status;
    int i;
    for (i = 0; i < op->pieces[rank].count; i++)
        model_piece_change(&op->pieces[rank].piece[i], &op->pieces[rank].list[i],
                           model_mix((uint64_t)(op->state.number * 977 + rank * 31 + s->verify * 7 + s->share + i)));
    desc.path = model_where(op, s->path, path);
    desc.tensors = op->pieces[rank].count ? op->pieces[rank].list : NULL;
    desc.tensor_count = (size_t)op->pieces[rank].count;
    desc.exact = s->exact;
    desc.verify = (dcp_verify_policy)s->verify;
    desc.verifier = s->verifier ? &verifier : NULL;
    desc.share_reads = s->share;
    desc.metadata = &metadata;
    desc.io = model_io(op, rank);
    status = dcp_load(&desc, err);
    if (!status) model_load_check(op, rank, metadata);
    else if (metadata) model_say(op->out, "rank %d: a load that fails hands over metadata", rank);
    dcp_metadata_free(metadata);
    return status;
}
/* ---- mapping: two threads at one checkpoint ---------------------------------------------------------------------- */
typedef struct model_mapping {
    model_op *op;
    dcp_checkpoint *checkpoint;
    model_pieces *pieces;
    int turns;
} model_mapping;
static void model_map_one(model_mapping *m, const model_piece *p) {
    const void *data = NULL;
    size_t size = 0;
    dcp_error err;
    const dcp_status status = dcp_map(m->checkpoint, p->name, &data, &size, &err);
    model_piece got = *p;
    if (status == DCP_OK && size == (size_t)p->rows * model_row_bytes(p)) {
        model_tensor_kind packed = *p->kind;            /* what is mapped has no gaps */
        packed.gap = 0;
        got.kind = &packed;
        got.memory = (unsigned char *)(uintptr_t)data;
        if (!model_piece_is(&got, -1)) model_say(m->op->out, "dcp_map of %s: the bytes are wrong", p->name);
    } else if (status == DCP_OK) {
        model_say(m->op->out, "dcp_map of %s: %u bytes", p->name, (unsigned)size);
    } else if (status != DCP_E_UNSUPPORTED) {
        dcpi_mutex_lock(&model_saying);
        m->op->out->status[0] = status;
        m->op->out->err[0] = err;
        dcpi_mutex_unlock(&model_saying);
    }
    if (status == DCP_OK) dcp_release(m->checkpoint, p->name);
}
static void *model_map_all(void *user) {
    model_mapping *m = (model_mapping *)user;
    int turn, i;
    for (turn = 0; turn < m->turns; turn++)
        for (i = 0; i < m->pieces->count; i++) model_map_one(m, &m->pieces->piece[i]);
    return NULL;
}
static dcp_status model_map(model_op *op, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    model_mapping m;
    pthread_t other;
    char path[600];
    dcp_status status;
    m.op = op;
    m.turns = 3;
    m.pieces = &op->pieces[0];
    desc.path = model_where(op, op->step.path, path);
    desc.io = model_io(op, 0);
    status = dcp_open(&desc, &m.checkpoint, err);
    if (status) return status;
    if (model_generation_of(dcp_checkpoint_metadata(m.checkpoint)) == op->state.number) {
        (void)dcp_prefetch(m.checkpoint, NULL, 0, NULL);
        if (pthread_create(&other, NULL, model_map_all, &m)) abort();
        (void)model_map_all(&m);
        (void)pthread_join(other, NULL);
        (void)dcp_prefetch_wait(m.checkpoint, 0, NULL);
        *err = op->out->err[0];
        status = op->out->status[0];
    }
    dcp_close(m.checkpoint);
    if (!status) (void)dcpi_succeed(err);
    return status;
}

/* ---- directories ------------------------------------------------------------------------------------------------- */
static dcp_status model_latest(model_op *op, int rank, dcp_error *err) {
    const dcp_verifier verifier = dcp_hmac_verifier(model_key, sizeof model_key - 1);
    dcp_latest_desc desc = DCP_ZERO;
    char directory[600], *path = NULL;
    dcp_status status;
    desc.directory = model_where(op, op->step.path, directory);
    desc.verify = (dcp_verify_policy)op->step.verify;
    desc.verifier = op->step.verifier ? &verifier : NULL;
    desc.io = model_io(op, rank);
    status = dcp_latest(&desc, &path, err);
    if ((status == DCP_OK) != (path != NULL))
        model_say(op->out, "dcp_latest: status %d, and the path is %s", status, path ? path : "NULL");
    if (rank == 0) (void)snprintf(op->out->path, sizeof op->out->path, "%s", path ? path : "");
    else if (path && dcpi_flag_get(&op->out->is_over) && strcmp(path, op->out->path) != 0)
        model_say(op->out, "dcp_latest differs");
    dcp_free(path);
    return status;
}
static dcp_status model_prune(model_op *op, int rank, dcp_error *err) {
    dcp_prune_desc desc = DCP_ZERO;
    char directory[600];
    desc.directory = model_where(op, op->step.path, directory);
    desc.keep_last = op->step.keep;
    desc.keep_every = op->step.every;
    desc.dry_run = op->step.dry;
    desc.verify = (dcp_verify_policy)op->step.verify;
    desc.io = model_io(op, rank);
    return dcp_prune(&desc, NULL, err);
}
static dcp_status model_sweep(model_op *op, int rank, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    char directory[600];
    desc.directory = model_where(op, op->step.path, directory);
    desc.grace_seconds = op->step.grace;
    desc.plain_names = op->step.plain;
    desc.dry_run = op->step.dry;
    desc.io = model_io(op, rank);
    return dcp_sweep(&desc, NULL, err);
}
static dcp_status model_remove(model_op *op, int rank, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    char path[600];
    desc.path = model_where(op, op->step.path, path);
    desc.io = model_io(op, rank);
    return dcp_remove(&desc, NULL, err);
}
static dcp_status model_sync(model_op *op, int rank, dcp_error *err) {
    dcp_sync_desc desc = DCP_ZERO;
    desc.source = &op->disk[rank].fault.storage;
    desc.path = op->step.path;
    desc.target = &op->disk[rank].fault.storage;
    desc.directory = op->step.to;
    desc.verify = (dcp_verify_policy)op->step.verify;
    desc.io = model_io(op, rank);
    return dcp_sync(&desc, err);
}
static dcp_status model_meet(model_op *op, int rank, dcp_error *err) {
    const int what = rank == 0 ? op->step.what : op->step.odd, ms = op->step.timeout_ms * model_time_scale;
    int64_t number = 1;
    if (what == 0) return dcp_barrier(op->coordinator[rank], WITHIN(ms), err);
    return dcp_broadcast(op->coordinator[rank], &number, sizeof number, what - 1, WITHIN(ms), err);
}
static dcp_status model_do(model_op *op, int rank, dcp_error *err) {
    switch (op->step.kind) {
    case MODEL_SAVE: case MODEL_BEGIN: return model_save(op, rank, err);
    case MODEL_CONVERT: return model_convert(op, err);
    case MODEL_LOAD: return model_load(op, rank, err);
    case MODEL_MAP: return model_map(op, err);
    case MODEL_LATEST: return model_latest(op, rank, err);
    case MODEL_PRUNE: return model_prune(op, rank, err);
    case MODEL_SWEEP: return model_sweep(op, rank, err);
    case MODEL_REMOVE: return model_remove(op, rank, err);
    case MODEL_SYNC: return model_sync(op, rank, err);
    case MODEL_MEET: return model_meet(op, rank, err);
    case MODEL_WAIT: return dcp_save_wait(op->saver[rank], 20000 * model_time_scale, err);
    case MODEL_CLOSE: return dcp_saver_close(op->saver[rank], err);
    default: return dcpi_succeed(err);
    }
}

/* ---- an operation: opened, run on its ranks, closed -------------------------------------------------------------- */
typedef struct model_rank { model_op *op; int rank; } model_rank;
static void *model_rank_run(void *user) {
    model_rank *r = (model_rank *)user;
    model_outcome *out = r->op->out;
    out->status[r->rank] = model_do(r->op, r->rank, &out->err[r->rank]);
    return NULL;
}
static void model_count_faults(model_op *op) {          /* again when a save in the background has ended */
    int r;
    op->out->faults = 0;
    for (r = 0; r < op->ranks; r++)
        op->out->faults += (int)fault_failures(&op->disk[r].fault) + dcpi_flag_get(&op->plan[r].failed);
}
static void model_op_run(model_op *op) {
    pthread_t threads[MODEL_RANKS];
    model_rank ranks[MODEL_RANKS];
    const int64_t began = dcpi_os_monotonic_ms();
    int r;
    hungry_watch();
    if (op->step.memory_at) hungry_fail(op->step.memory_at, op->step.for_ever);
    for (r = 0; r < op->ranks; r++) { ranks[r].op = op; ranks[r].rank = r; }
    if (op->ranks == 1) (void)model_rank_run(&ranks[0]);
    for (r = 0; r < op->ranks && op->ranks > 1; r++)
        if (pthread_create(&threads[r], NULL, model_rank_run, &ranks[r])) abort();
    for (r = 0; r < op->ranks && op->ranks > 1; r++) (void)pthread_join(threads[r], NULL);
    if (op->step.memory_at) hungry_fail(0, 0);
    op->out->took_ms = dcpi_os_monotonic_ms() - began;
    op->out->peak = hungry_peak();
    model_count_faults(op);
    dcpi_flag_set(&op->out->is_over, 1);
}
static void *model_op_thread(void *user) { model_op_run((model_op *)user); return NULL; }
static void model_op_child(model_op *op) {
    int r;
    dcp_error err;
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (dcp_storage_local(op->base, &op->storage, &err)) _exit(70);
    for (r = 0; r < op->ranks; r++) op->disk[r].fault.inner = op->storage;
    model_op_run(op);
    _exit(0);
}
static model_op *model_op_open(const model_step *step, const model_state *state, const char *base, dcp_storage *storage,
                               model_outcome *out) {
    model_op *op = (model_op *)calloc(1, sizeof *op);
    int r;
    if (!op) abort();
    op->step = *step;
    op->state = *state;
    op->base = base;
    op->storage = storage;
    op->out = out;
    op->ranks = step->ranks ? step->ranks : 1;
    memset(out, 0, sizeof *out);
    for (r = 0; r < op->ranks; r++) model_disk_open(op, r);
    return op;
}
static void model_op_close(model_op *op) {
    int r;
    for (r = 0; r < op->ranks; r++) {
        model_pieces_free(&op->pieces[r]);
        fault_close(&op->disk[r].fault);
    }
    free(op);
}

#endif
