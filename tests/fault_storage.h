/* fault_storage.h - a dcp_storage around another one: it counts the calls, makes chosen ones fail, and tells a hook of
 * each.
 *
 *     #define DCP_IMPLEMENTATION
 *     #include "dcp.h"
 *     #include "test.h"
 *     #include "fault_storage.h"                     // white-box: needs the implementation above it
 *
 *     fault_storage f;
 *     fault_open(&f, inner);                         // inner stays the caller's, and outlives f
 *     fault_set(&f, FAULT_COMMIT, 2, 1, EIO);        // from now on the 2nd commit fails with EIO, once
 *     desc.io.storage = &f.storage;
 *     ...                                            // f.calls, f.failed, f.reused say what happened
 *     fault_close(&f);
 *
 * How a call fails, f.how:
 *     FAULT_BEFORE     it does nothing
 *     FAULT_AFTER      it does all of it and then reports the error: a lost answer
 *     FAULT_LITTERS    as FAULT_BEFORE, but a commit leaves its temporary file behind, as a storage does that cannot
 *                      remove it either
 * With f.says_status it returns f.status, whatever number that is, in place of what the error number means.
 *
 * Calls may come from several threads. One hook at a time is run. */
#ifndef DCP_FAULT_STORAGE_H
#define DCP_FAULT_STORAGE_H

#define FAULT_NAMES 64                  /* temporary names that are remembered */
/* for fault_set, in place of an errno: a write loses its last byte and says DCP_OK; a read says DCP_E_INCOMPLETE */
#define FAULT_SHORT (-100)

typedef enum fault_kind {
    FAULT_BEGIN, FAULT_WRITE, FAULT_COMMIT, FAULT_ABORT, FAULT_OPEN, FAULT_READ, FAULT_MAP, FAULT_CLOSE, FAULT_STAT,
        FAULT_LIST, FAULT_REMOVE,
    FAULT_SYNC_DIRECTORY, FAULT_SPACE, FAULT_INFO, FAULT_LOCK, FAULT_LOCK_NOTE, FAULT_UNLOCK,
    FAULT_ANY                           /* any of those that can fail: all but abort, close and unlock */
} fault_kind;
typedef enum fault_how { FAULT_BEFORE, FAULT_AFTER, FAULT_LITTERS } fault_how;
/* Twice a call, before and after it; calls are counted from 1. It may use the inner storage, not this one. */
typedef void (*fault_hook)(void *user, fault_kind kind, const char *key, int64_t call, int is_done);

typedef struct fault_storage {
    dcp_storage storage;                /* the one to use */
    dcp_storage *inner;
    dcpi_mutex lock;
    /* calls nth to nth + times - 1 of this kind fail; nth 0: none */
    fault_kind kind; int64_t nth, times; int sys; fault_how how;
    int says_status; dcp_status status;
    fault_hook hook; void *user;        /* NULL: none */
    int64_t calls[FAULT_ANY + 1];       /* of each kind, and of any */
    int64_t total, failed;              /* calls with abort and close; calls that were made to fail */
    int reused;                         /* temporary names that were used a second time */
    int names; char name[FAULT_NAMES][300];
} fault_storage;

typedef struct fault_object { void *inner; char path[400], temporary[400]; } fault_object;
typedef struct fault_call { fault_storage *f; fault_kind kind; const char *key; int64_t number; int fails; } fault_call;

static inline const char *fault_kind_name(fault_kind kind) {
    static const char *const names[] = { "begin", "write", "commit", "abort", "open", "read", "map", "close", "stat",
                                         "list", "remove", "sync_directory", "space", "additional_info", "lock",
                                         "lock_note", "unlock", "any call" };
    return names[kind];
}

/* ---- a call: counted, perhaps failing ---------------------------------------------------------------------------- */
static inline void fault_run_hook(fault_call *call, int is_done) {
    if (call->f->hook) call->f->hook(call->f->user, call->kind, call->key, call->number, is_done);
}
static inline int fault_cannot_fail(fault_kind kind) {
    return kind == FAULT_ABORT || kind == FAULT_CLOSE || kind == FAULT_UNLOCK;
}
static inline int fault_is_chosen(fault_storage *f, fault_kind kind) {
    int64_t number = f->calls[f->kind];
    if (f->nth == 0 || (kind != f->kind && f->kind != FAULT_ANY) || fault_cannot_fail(kind)) return 0;
    return number >= f->nth && number - f->nth < f->times;
}
static inline fault_call fault_enter(void *context, fault_kind kind, const char *key) {
    fault_call call;
    call.f = (fault_storage *)context;
    call.kind = kind;
    call.key = key;
    dcpi_mutex_lock(&call.f->lock);
    call.f->calls[kind]++;
    if (!fault_cannot_fail(kind)) call.f->calls[FAULT_ANY]++;
    call.number = ++call.f->total;
    call.fails = fault_is_chosen(call.f, kind);
    call.f->failed += call.fails;
    fault_run_hook(&call, 0);
    dcpi_mutex_unlock(&call.f->lock);
    return call;
}
static inline int64_t fault_failures(fault_storage *f) {
    int64_t failed;
    dcpi_mutex_lock(&f->lock);
    failed = f->failed;
    dcpi_mutex_unlock(&f->lock);
    return failed;
}
/* Whether the real thing is to be done. */
static inline int fault_does(const fault_call *call) {
    return !call->fails || call->f->how == FAULT_AFTER || call->f->sys == FAULT_SHORT;
}

static inline dcp_status fault_leave(fault_call *call, dcp_status status, dcp_error *err) {
    if (call->fails && call->f->sys == FAULT_SHORT) {
        if (call->kind == FAULT_READ)
            status = dcpi_fail(err, DCP_E_INCOMPLETE, "injected: \"%s\" ends too early", call->key);
    } else if (call->fails && (status == DCP_OK || call->f->how != FAULT_AFTER)) {
        status = dcpi_fail_sys(err, call->f->says_status ? call->f->status : dcpi_os_status(call->f->sys), call->f->sys,
                               "injected: %s of \"%s\" fails with error %d", fault_kind_name(call->kind), call->key,
                               call->f->sys);
        if (err) err->is_transient = dcpi_os_is_transient(call->f->sys);
    }
    dcpi_mutex_lock(&call->f->lock);
    fault_run_hook(call, 1);
    dcpi_mutex_unlock(&call->f->lock);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
static inline void fault_note_name(fault_storage *f, const char *temporary) {
    int i;
    dcpi_mutex_lock(&f->lock);
    for (i = 0; i < f->names; i++) if (strcmp(f->name[i], temporary) == 0) f->reused++;
    if (f->names < FAULT_NAMES) (void)snprintf(f->name[f->names++], sizeof f->name[0], "%s", temporary);
    dcpi_mutex_unlock(&f->lock);
}
static inline dcp_status fault_begin(void *context, const dcp_begin_request *request, void **out, dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_BEGIN, request->temporary);
    fault_storage *f = call.f;
    fault_object *object = (fault_object *)calloc(1, sizeof *object);
    dcp_status status = DCP_OK;
    if (!object) abort();
    fault_note_name(f, request->temporary);
    (void)snprintf(object->path, sizeof object->path, "%s", request->path);
    (void)snprintf(object->temporary, sizeof object->temporary, "%s", request->temporary);
    if (fault_does(&call)) status = f->inner->begin(f->inner->context, request, &object->inner, err);
    /* the contract: none stays */
    if (call.fails && f->sys != FAULT_SHORT && status == DCP_OK && object->inner)
        f->inner->abort(f->inner->context, object->inner);
    status = fault_leave(&call, status, err);
    if (status) free(object);
    else *out = object;
    return status;
}
static inline dcp_status fault_write(void *context, void *object_, int64_t offset, const void *data, size_t size,
                                     dcp_error *err) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_WRITE, object->temporary);
    dcp_status status = DCP_OK;
    if (call.fails && call.f->sys == FAULT_SHORT && size > 0) size--;
    if (fault_does(&call))
        status = call.f->inner->write(call.f->inner->context, object->inner, offset, data, size, err);
    return fault_leave(&call, status, err);
}
/* A file under the temporary's name, as one that could not be removed. */
static inline void fault_litter(dcp_storage *inner, const char *temporary) {
    char aside[420];
    const dcp_begin_request request = { temporary, aside, 0 };
    const dcp_commit_request commit = { 0, NULL };
    void *object = NULL;
    (void)snprintf(aside, sizeof aside, "%s.aside", temporary);
    if (inner->begin(inner->context, &request, &object, NULL) != DCP_OK) return;
    (void)inner->write(inner->context, object, 0, "litter", 6, NULL);
    (void)inner->commit(inner->context, object, &commit, NULL);
}
static inline dcp_status fault_commit(void *context, void *object_, const dcp_commit_request *request,
                                      dcp_error *err) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_COMMIT, object->path);
    dcp_storage *inner = call.f->inner;
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = inner->commit(inner->context, object->inner, request, err);
    else inner->abort(inner->context, object->inner);              /* the contract: it ends the object on failure too */
    if (call.fails && call.f->how == FAULT_LITTERS) fault_litter(inner, object->temporary);
    status = fault_leave(&call, status, err);
    free(object);
    return status;
}
static inline void fault_abort(void *context, void *object_) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_ABORT, object->temporary);
    call.f->inner->abort(call.f->inner->context, object->inner);
    (void)fault_leave(&call, DCP_OK, NULL);
    free(object);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
static inline dcp_status fault_open_object(void *context, const char *path, void **out, dcp_object_info *info,
                                           dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_OPEN, path);
    dcp_storage *inner = call.f->inner;
    fault_object *object = (fault_object *)calloc(1, sizeof *object);
    dcp_status status = DCP_OK;
    if (!object) abort();
    (void)snprintf(object->path, sizeof object->path, "%s", path);
    if (fault_does(&call)) status = inner->open(inner->context, path, &object->inner, info, err);
    if (call.fails && call.f->sys != FAULT_SHORT && status == DCP_OK && object->inner)
        inner->close(inner->context, object->inner);
    if (call.fails && call.f->sys == FAULT_SHORT && info->size > 0) info->size--;
    status = fault_leave(&call, status, err);
    if (status) free(object);
    else *out = object;
    return status;
}
static inline dcp_status fault_read(void *context, void *object_, int64_t offset, void *data, size_t size,
                                    dcp_error *err) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_READ, object->path);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->read(call.f->inner->context, object->inner, offset, data, size, err);
    return fault_leave(&call, status, err);
}
static inline dcp_status fault_map(void *context, void *object_, const void **data, dcp_error *err) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_MAP, object->path);
    dcp_status status = DCP_OK;
    *data = NULL;
    if (fault_does(&call)) status = call.f->inner->map(call.f->inner->context, object->inner, data, err);
    return fault_leave(&call, status, err);
}
static inline void fault_close_object(void *context, void *object_) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_CLOSE, object->path);
    call.f->inner->close(call.f->inner->context, object->inner);
    (void)fault_leave(&call, DCP_OK, NULL);
    free(object);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
static inline dcp_status fault_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_STAT, path);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->stat(call.f->inner->context, path, info, err);
    if (call.fails && call.f->sys == FAULT_SHORT && info->size > 0) info->size--;
    return fault_leave(&call, status, err);
}
static inline dcp_status fault_list(void *context, const char *directory, dcp_list_kind what,
                                    dcp_status (*each)(void *user, const char *path, const dcp_object_info *info),
                                    void *user, dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_LIST, directory);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->list(call.f->inner->context, directory, what, each, user, err);
    return fault_leave(&call, status, err);
}
static inline dcp_status fault_remove(void *context, const char *path, const char *token, dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_REMOVE, path);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->remove(call.f->inner->context, path, token, err);
    return fault_leave(&call, status, err);
}
static inline dcp_status fault_sync_directory(void *context, const char *directory, dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_SYNC_DIRECTORY, directory);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->sync_directory(call.f->inner->context, directory, err);
    return fault_leave(&call, status, err);
}
static inline dcp_status fault_space(void *context, const char *directory, int64_t *bytes_free, dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_SPACE, directory);
    dcp_status status = DCP_OK;
    *bytes_free = 0;
    if (fault_does(&call)) status = call.f->inner->space(call.f->inner->context, directory, bytes_free, err);
    return fault_leave(&call, status, err);
}
static inline dcp_status fault_info(void *context, const char *path, dcp_field **fields, size_t *count,
                                    dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_INFO, path);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->additional_info(call.f->inner->context, path, fields, count, err);
    if (call.fails && status == DCP_OK && fault_does(&call)) { dcp_free(*fields); *fields = NULL; *count = 0; }
    return fault_leave(&call, status, err);
}

/* ---- the commit lock; an object is its key, for the hook --------------------------------------------------------- */
static inline dcp_status fault_lock(void *context, const char *path, uint64_t *holder, char *note, void **out,
                                    dcp_error *err) {
    fault_call call = fault_enter(context, FAULT_LOCK, path);
    dcp_storage *inner = call.f->inner;
    fault_object *object = (fault_object *)calloc(1, sizeof *object);
    dcp_status status = DCP_OK;
    if (!object) abort();
    (void)snprintf(object->path, sizeof object->path, "%s", path);
    /* one that fails holds nothing */
    if (!call.fails || call.f->sys == FAULT_SHORT)
        status = inner->lock(inner->context, path, holder, note, &object->inner, err);
    status = fault_leave(&call, status, err);
    if (status) free(object);
    else *out = object;
    return status;
}
static inline dcp_status fault_lock_note(void *context, void *object_, const char *note, dcp_error *err) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_LOCK_NOTE, object->path);
    dcp_status status = DCP_OK;
    if (fault_does(&call)) status = call.f->inner->lock_note(call.f->inner->context, object->inner, note, err);
    return fault_leave(&call, status, err);
}
static inline void fault_unlock(void *context, void *object_) {
    fault_object *object = (fault_object *)object_;
    fault_call call = fault_enter(context, FAULT_UNLOCK, object->path);
    call.f->inner->unlock(call.f->inner->context, object->inner);
    (void)fault_leave(&call, DCP_OK, NULL);
    free(object);
}

/* ---- the storage ------------------------------------------------------------------------------------------------- */
/* Nothing fails any more, and the counts begin anew. */
static inline void fault_reset(fault_storage *f) {
    f->nth = f->times = 0;
    f->kind = FAULT_ANY;
    f->sys = f->says_status = 0;
    f->how = FAULT_BEFORE;
    f->hook = NULL;
    memset(f->calls, 0, sizeof f->calls);
    f->total = f->failed = 0;
    f->reused = f->names = 0;
}
static inline void fault_set(fault_storage *f, fault_kind kind, int64_t nth, int64_t times, int sys) {
    fault_reset(f);
    f->kind = kind;
    f->nth = nth;
    f->times = times;
    f->sys = sys;
}
static inline void fault_open(fault_storage *f, dcp_storage *inner) {
    dcp_storage *s = &f->storage;
    memset(f, 0, sizeof *f);
    if (dcpi_mutex_init(&f->lock) != 0) abort();
    f->inner = inner;
    fault_reset(f);
    s->context = f;
    s->flags = inner->flags;
    s->begin = fault_begin; s->write = fault_write; s->commit = fault_commit; s->abort = fault_abort;
    s->open = fault_open_object; s->read = fault_read; s->close = fault_close_object;
    s->stat = fault_stat; s->list = fault_list; s->remove = fault_remove;
    if (inner->map) s->map = fault_map;
    if (inner->sync_directory) s->sync_directory = fault_sync_directory;
    if (inner->space) s->space = fault_space;
    if (inner->additional_info) s->additional_info = fault_info;
    if (inner->lock) { s->lock = fault_lock; s->lock_note = fault_lock_note; s->unlock = fault_unlock; }
}
/* A hook: what `storage`, the inner one, has under a key that begins so is gone when it is looked at, or is this text
 * instead. */
typedef struct fault_spoiling { dcp_storage *storage; const char *prefix, *text; } fault_spoiling;
static inline void fault_spoil(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    const fault_spoiling *s = (const fault_spoiling *)user;
    int exists = 0;
    dcp_error err;
    (void)call;
    if (kind != FAULT_STAT || is_done || !dcpi_starts_with(key, s->prefix)) return;
    CHECK_OK_MESSAGE(dcp_storage_exists(s->storage, key, &exists, NULL, &err), err.message);
    if (!exists) return;
    CHECK_OK_MESSAGE(dcp_storage_remove(s->storage, key, NULL, &err), err.message);
    if (s->text) CHECK_OK_MESSAGE(dcp_storage_write_all(s->storage, key, s->text, strlen(s->text), NULL, &err),
                                  err.message);
}
static inline void fault_close(fault_storage *f) { dcpi_mutex_destroy(&f->lock); }

#endif
