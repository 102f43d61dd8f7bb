/* =====================================================================================================================
 * >>storage     One checked wrapper for each function of a dcp_storage, `local`, `memory`, the providers, whole
 *               objects, and the place that a checkpoint's path stands for.
 * ================================================================================================================== */

/* What the reports tell of, where a storage lacks it. */
#define DCPI_STORAGE_PROMISES ((uint32_t)(DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY | DCP_STORAGE_ATOMIC_REPLACE | \
                                          DCP_STORAGE_EXCLUSIVE_PUBLISH | DCP_STORAGE_COMMIT_LOCK))

/* ---- wrappers: keys are validated, outputs cleared, missing functions and silent failures turned into errors ----- */
static dcp_status dcpi_storage_key(const char *key, dcp_error *err) {
    if (key && dcpi_key_is_valid(key)) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID,
                     "\"%s\" is not a valid path in a storage: parts joined by '/', none empty, \".\" or \"..\", no "
                     "'\\', ':' or control "
                     "characters", key ? key : "(null)");
}
static dcp_status dcpi_storage_lacks(const char *what, dcp_error *err) {
    return dcpi_fail(err, DCP_E_UNSUPPORTED, "this storage does not support %s", what);
}
static dcp_status dcpi_storage_result(const dcpi_callback *by, dcp_status status, const char *what, const char *key,
                                      dcp_error *err) {
    return dcpi_callback_status(by, status, err, "could not %s \"%s\"", what, key);
}
/* Where a part of a path is a file, no checkpoint is, and none can come to be: that is no "not there yet". */
static dcp_status dcpi_storage_absent(dcp_status status, int sys, dcp_error *err) {
    if (status != DCP_E_NOT_FOUND || !dcpi_os_is_no_directory(sys)) return status;
    if (err) err->status = DCP_E_INVALID;
    return DCP_E_INVALID;
}
static dcp_status dcpi_storage_check_size(const dcp_object_info *info, const char *key, dcp_error *err) {
    if (info->size >= 0) return DCP_OK;
    return dcpi_fail(err, DCP_E_IO, "the storage says that \"%s\" has %" PRId64 " bytes, which cannot be", key,
                     info->size);
}
static dcp_status dcpi_storage_begin(dcp_storage *s, const char *key, const char *temporary, int64_t size_hint,
                                     void **object, dcp_error *err) {
    dcp_status status;
    *object = NULL;
    (void)dcpi_succeed(err);
    if (!s->begin || !s->write || !s->commit || !s->abort) return dcpi_storage_lacks("writing", err);
    status = dcpi_storage_key(key, err);
    if (!status) status = dcpi_storage_key(temporary, err);
    if (status) return status;
    return dcpi_storage_result(&dcpi_by_writer, s->begin(s->context, key, temporary, size_hint, object, err), "create",
                               key, err);
}
static dcp_status dcpi_storage_write(dcp_storage *s, const char *key, void *object, int64_t offset, const void *data,
                                     size_t size, dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(&dcpi_by_writer, s->write(s->context, object, offset, data, size, err), "write", key,
                               err);
}
static int dcpi_storage_can_join(const dcp_storage *s) {
    return (s->flags & DCP_STORAGE_SHARED_POSITIONAL_WRITE) && s->join && s->leave;
}
static dcp_status dcpi_storage_join(dcp_storage *s, const char *key, const char *temporary, int64_t size_hint,
                                    void **object, dcp_error *err) {
    *object = NULL;
    (void)dcpi_succeed(err);
    return dcpi_storage_result(&dcpi_by_writer, s->join(s->context, key, temporary, size_hint, object, err),
                               "join in writing", key, err);
}
static dcp_status dcpi_storage_leave(dcp_storage *s, const char *key, void *object, dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(&dcpi_by_writer, s->leave(s->context, object, err), "finish", key, err);
}
/* *may_be_there: it failed, and may be visible all the same. The status is not DCP_E_UNKNOWN: that is for what the
 * checkpoint is. */
static dcp_status dcpi_storage_publish(dcp_storage *s, const char *key, void *object, int replace, int *may_be_there,
                                       dcp_error *err) {
    dcp_status status;
    (void)dcpi_succeed(err);
    status = s->commit(s->context, object, replace, err);
    *may_be_there = status == DCP_E_UNKNOWN;
    if (*may_be_there) {
        status = err && err->sys ? dcpi_os_status(err->sys) : DCP_E_IO;
        if (err && err->status == DCP_E_UNKNOWN) err->status = status;
    }
    return dcpi_storage_result(replace ? &dcpi_by_writer : &dcpi_by_publisher, status, "publish", key, err);
}
static dcp_status dcpi_storage_commit(dcp_storage *s, const char *key, void *object, int replace, dcp_error *err) {
    int may_be_there;
    return dcpi_storage_publish(s, key, object, replace, &may_be_there, err);
}
static void dcpi_storage_abort(dcp_storage *s, void *object) { if (object) s->abort(s->context, object); }

static dcp_status dcpi_storage_open_object(dcp_storage *s, const char *key, void **object, dcp_object_info *info,
                                           dcp_error *err) {
    dcp_status status;
    *object = NULL;
    memset(info, 0, sizeof *info);
    (void)dcpi_succeed(err);
    if (!s->open || !s->read || !s->close) return dcpi_storage_lacks("reading", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    status = dcpi_storage_result(&dcpi_by_finder, s->open(s->context, key, object, info, err), "open", key, err);
    if (status) { *object = NULL; return status; }
    status = dcpi_storage_check_size(info, key, err);
    if (!status) return DCP_OK;
    if (*object) s->close(s->context, *object);
    *object = NULL;
    return status;
}
static dcp_status dcpi_storage_read(dcp_storage *s, const char *key, void *object, int64_t offset, void *data,
                                    size_t size, dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(&dcpi_by_reader, s->read(s->context, object, offset, data, size, err), "read", key, err);
}
static void dcpi_storage_close_object(dcp_storage *s, void *object) { if (object) s->close(s->context, object); }

static dcp_status dcpi_storage_stat(dcp_storage *s, const char *key, dcp_object_info *info, dcp_error *err) {
    dcp_status status;
    memset(info, 0, sizeof *info);
    (void)dcpi_succeed(err);
    if (!s->stat) return dcpi_storage_lacks("asking for an object's size", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    status = dcpi_storage_result(&dcpi_by_finder, s->stat(s->context, key, info, err), "look at", key, err);
    return status ? status : dcpi_storage_check_size(info, key, err);
}
typedef dcp_status (*dcpi_storage_each)(void *user, const char *path, const dcp_object_info *info);
typedef dcp_status (*dcpi_storage_lists)(void *context, const char *directory, dcpi_storage_each each, void *user,
                                         dcp_error *err);
typedef struct dcpi_storage_walk { dcpi_storage_each each; void *user; dcp_status status; } dcpi_storage_walk;

static dcp_status dcpi_storage_walk_one(void *user, const char *path, const dcp_object_info *info) {
    dcpi_storage_walk *walk = (dcpi_storage_walk *)user;
    if (!walk->status) walk->status = walk->each(walk->user, path, info);
    return walk->status;
}
/* A failure of `each` is the result, whatever the storage makes of it. */
static dcp_status dcpi_storage_list_with(dcp_storage *s, dcpi_storage_lists list, const char *directory,
                                         dcpi_storage_each each, void *user, dcp_error *err) {
    dcpi_storage_walk walk;
    dcp_status status;
    walk.each = each;
    walk.user = user;
    walk.status = DCP_OK;
    if (directory[0] != '\0' && !dcpi_key_is_valid(directory)) return dcpi_storage_key(directory, err);
    status = list(s->context, directory, dcpi_storage_walk_one, &walk, err);
    return walk.status ? walk.status : dcpi_storage_result(&dcpi_by_finder, status, "list", directory, err);
}
static dcp_status dcpi_storage_list_directories(dcp_storage *s, const char *directory, dcpi_storage_each each,
                                                void *user, dcp_error *err) {
    (void)dcpi_succeed(err);
    if (!s->list_directories) return DCP_OK;            /* none that anybody could see */
    return dcpi_storage_list_with(s, s->list_directories, directory, each, user, err);
}
static dcp_status dcpi_storage_list_links(dcp_storage *s, const char *directory, dcpi_storage_each each, void *user,
                                          dcp_error *err) {
    (void)dcpi_succeed(err);
    if (!s->list_links) return DCP_OK;
    return dcpi_storage_list_with(s, s->list_links, directory, each, user, err);
}
static dcp_status dcpi_storage_list(dcp_storage *s, const char *directory, dcpi_storage_each each, void *user,
                                    dcp_error *err) {
    (void)dcpi_succeed(err);
    if (!s->list) return dcpi_storage_lacks("listing a directory", err);
    return dcpi_storage_list_with(s, s->list, directory, each, user, err);
}
static dcp_status dcpi_storage_remove(dcp_storage *s, const char *key, dcp_error *err) {
    dcp_status status;
    (void)dcpi_succeed(err);
    if (!s->remove) return dcpi_storage_lacks("removing", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    status = dcpi_storage_result(&dcpi_by_finder, s->remove(s->context, key, err), "remove", key, err);
    return status == DCP_E_NOT_FOUND ? dcpi_succeed(err) : status;
}
/* A storage without the flag has nothing to sync; the save's report says so. */
static dcp_status dcpi_storage_sync_directory(dcp_storage *s, const char *directory, dcp_error *err) {
    (void)dcpi_succeed(err);
    if (!s->sync_directory || !(s->flags & DCP_STORAGE_SYNC_DIRECTORY)) return DCP_OK;
    return dcpi_storage_result(&dcpi_by_writer, s->sync_directory(s->context, directory, err), "sync the directory",
                               directory, err);
}
/* The commit lock: see dcp_storage. Without one DCP_E_UNSUPPORTED. */
static dcp_status dcpi_storage_lock(dcp_storage *s, const char *key, uint64_t *holder, char note[DCP_LOCK_NOTE],
                                    void **lock, dcp_error *err) {
    dcp_status status;
    *lock = NULL;
    memset(note, 0, DCP_LOCK_NOTE);
    (void)dcpi_succeed(err);
    if (!(s->flags & DCP_STORAGE_COMMIT_LOCK) || !s->lock || !s->lock_note || !s->unlock)
        return dcpi_storage_lacks("locks", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    status = s->lock(s->context, key, holder, note, lock, err);
    note[DCP_LOCK_NOTE - 1] = '\0';
    return status == DCP_PENDING ? status : dcpi_storage_result(&dcpi_by_writer, status, "lock", key, err);
}
static dcp_status dcpi_storage_lock_note(dcp_storage *s, const char *key, void *lock, const char *note,
                                         dcp_error *err) {
    dcp_status status;
    (void)dcpi_succeed(err);
    status = s->lock_note(s->context, lock, note, err);
    return status == DCP_PENDING ? status
                                 : dcpi_storage_result(&dcpi_by_publisher, status, "write to the lock", key, err);
}
static void dcpi_storage_unlock(dcp_storage *s, void *lock) { if (lock) s->unlock(s->context, lock); }
/* Whether another attempt may help: the device, the network or the system said no, and not for want of space or
 * rights. */
static int dcpi_storage_is_transient(const dcp_error *err) {
    return err->status == DCP_E_IO && (err->sys == 0 || dcpi_os_is_transient(err->sys));
}

/* ---- local: a directory ------------------------------------------------------------------------------------------ */
typedef struct dcpi_local { dcpi_base base; unsigned mode; char *path; } dcpi_local;
typedef struct dcpi_local_object {
    dcpi_file file;
    int64_t size;
    const void *mapped;
    char *path, *temporary;
} dcpi_local_object;

static dcp_status dcpi_local_fail(const dcpi_local *local, int sys, const char *what, const char *key, dcp_error *err) {
    char text[160];
    dcpi_os_message(sys, text, sizeof text);
    return dcpi_fail_sys(err, dcpi_os_status(sys), sys == DCPI_OS_SHORT ? 0 : sys,
                         "cannot %s \"%s\" in directory \"%s\": %s", what, key, local->path, text);
}
/* On a file that is open, "invalid argument" is the file system's oddity, not the caller's mistake. */
static dcp_status dcpi_local_fail_io(const dcpi_local *local, int sys, const char *what, const char *key,
                                     dcp_error *err) {
    dcp_status status = dcpi_local_fail(local, sys, what, key, err);
    if (status != DCP_E_INVALID) return status;
    if (err) err->status = DCP_E_IO;
    return DCP_E_IO;
}
static void dcpi_local_object_free(dcpi_local_object *object) {
    dcpi_free(object->path);
    dcpi_free(object->temporary);
    dcpi_free(object);
}
static char *dcpi_copy_text(const char *text, dcp_error *err) {
    size_t size = strlen(text) + 1;
    char *copy = (char *)dcpi_alloc(size, err);
    if (copy) memcpy(copy, text, size);
    return copy;
}
static dcpi_local_object *dcpi_local_object_new(const char *path, const char *temporary, dcp_error *err) {
    dcpi_local_object *object = (dcpi_local_object *)dcpi_alloc_array(1, sizeof *object, err);
    if (!object) return NULL;
    object->path = dcpi_copy_text(path, err);
    object->temporary = object->path ? dcpi_copy_text(temporary, err) : NULL;
    if (object->temporary) return object;
    dcpi_local_object_free(object);
    return NULL;
}
static dcp_status dcpi_local_begin(void *context, const char *path, const char *temporary, int64_t size_hint,
                                   void **out, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_object *object = dcpi_local_object_new(path, temporary, err);
    int sys;
    if (!object) return DCP_E_MEMORY;
    sys = dcpi_os_create(&local->base, temporary, local->mode, size_hint, &object->file);
    if (sys) {
        dcpi_local_object_free(object);
        return dcpi_local_fail(local, sys, "create", temporary, err);
    }
    *out = object;
    return DCP_OK;
}
static dcp_status dcpi_local_write(void *context, void *object_, int64_t offset, const void *data, size_t size,
                                   dcp_error *err) {
    dcpi_local_object *object = (dcpi_local_object *)object_;
    int sys = dcpi_os_write(&object->file, offset, data, size);
    dcp_status status = sys ? dcpi_local_fail_io((const dcpi_local *)context, sys, "write", object->temporary,
                                                 err) : DCP_OK;
    if (status) dcpi_fail_context(err, "at byte %" PRId64 ": ", offset);
    return status;
}
/* A server's answer may get lost. What has left its temporary name was moved, whatever was reported. */
static dcp_status dcpi_local_publish(dcpi_local *local, const dcpi_local_object *object, int replace, dcp_error *err) {
    const int sys = dcpi_os_publish(&local->base, object->temporary, object->path, replace);
    dcp_status status;
    if (!sys) return DCP_OK;
    status = dcpi_local_fail_io(local, sys, "publish", object->path, err);
    if (dcpi_os_status(dcpi_os_remove(&local->base, object->temporary)) != DCP_E_NOT_FOUND) return status;
    if (err) err->status = DCP_E_UNKNOWN;
    return DCP_E_UNKNOWN;
}
/* G3: bytes first, then the name. A file whose sync or close failed is removed, never used again. */
static dcp_status dcpi_local_commit(void *context, void *object_, int replace, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_object *object = (dcpi_local_object *)object_;
    const int unsynced = dcpi_os_sync(&object->file), unclosed = dcpi_os_close(&object->file);
    dcp_status status;
    if (unsynced || unclosed) {
        status = dcpi_local_fail_io(local, unsynced ? unsynced : unclosed, unsynced ? "sync" : "close", object->path,
                                    err);
        (void)dcpi_os_remove(&local->base, object->temporary);
    } else status = dcpi_local_publish(local, object, replace, err);
    dcpi_local_object_free(object);
    return status;
}
static dcp_status dcpi_local_join(void *context, const char *path, const char *temporary, int64_t size_hint, void **out,
                                  dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_object *object = dcpi_local_object_new(path, temporary, err);
    int sys;
    if (!object) return DCP_E_MEMORY;
    sys = dcpi_os_join(&local->base, temporary, size_hint, &object->file);
    if (sys) {
        dcpi_local_object_free(object);
        return dcpi_local_fail(local, sys, "join in writing", temporary, err);
    }
    *out = object;
    return DCP_OK;
}
static dcp_status dcpi_local_leave(void *context, void *object_, dcp_error *err) {
    dcpi_local_object *object = (dcpi_local_object *)object_;
    int sys = dcpi_os_sync(&object->file), closed = dcpi_os_close(&object->file);
    dcp_status status = DCP_OK;
    if (sys || closed)
        status = dcpi_local_fail_io((const dcpi_local *)context, sys ? sys : closed, "sync", object->temporary, err);
    dcpi_local_object_free(object);
    return status;
}
static void dcpi_local_abort(void *context, void *object_) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_object *object = (dcpi_local_object *)object_;
    (void)dcpi_os_close(&object->file);
    (void)dcpi_os_remove(&local->base, object->temporary);
    dcpi_local_object_free(object);
}
static dcp_status dcpi_local_open(void *context, const char *path, void **out, dcp_object_info *info, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_object *object = dcpi_local_object_new(path, "", err);
    int sys;
    if (!object) return DCP_E_MEMORY;
    sys = dcpi_os_open(&local->base, path, &object->file, info);
    if (sys) {
        dcpi_local_object_free(object);
        return dcpi_local_fail(local, sys, "open", path, err);
    }
    object->size = info->size;
    *out = object;
    return DCP_OK;
}
static dcp_status dcpi_local_read(void *context, void *object_, int64_t offset, void *data, size_t size,
                                  dcp_error *err) {
    dcpi_local_object *object = (dcpi_local_object *)object_;
    int sys = dcpi_os_read(&object->file, offset, data, size);
    dcp_status status = sys ? dcpi_local_fail_io((const dcpi_local *)context, sys, "read", object->path, err) : DCP_OK;
    if (status) dcpi_fail_context(err, "%" PRIu64 " bytes from byte %" PRId64 ": ", (uint64_t)size, offset);
    return status;
}
static dcp_status dcpi_local_map(void *context, void *object_, const void **data, dcp_error *err) {
    dcpi_local_object *object = (dcpi_local_object *)object_;
    int sys = object->mapped || object->size == 0 ? 0 : dcpi_os_map(&object->file, object->size, &object->mapped);
    *data = object->mapped;
    return sys ? dcpi_local_fail((const dcpi_local *)context, sys, "map", object->path, err) : DCP_OK;
}
static void dcpi_local_close(void *context, void *object_) {
    dcpi_local_object *object = (dcpi_local_object *)object_;
    (void)context;
    if (object->mapped) dcpi_os_unmap(object->mapped, object->size);
    (void)dcpi_os_close(&object->file);
    dcpi_local_object_free(object);
}
static dcp_status dcpi_local_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    int sys = dcpi_os_stat(&local->base, path, info);
    return sys ? dcpi_local_fail(local, sys, "look at", path, err) : DCP_OK;
}

/* ---- local: the commit lock -----------------------------------------------------------------------------------------
 * A file of DCPI_LOCK_TEXT bytes, `dcp commit lock, turn <n>`, a new line, the note, new lines. Bytes far beyond its
 * end are locked:
 *
 *   the guard     held for a few calls, to look at the file's text and name, or to change them
 *   turn n        held as long as the lock is: by the holder whose turn it is
 *
 *   1  Text and name change only under the guard of the file that has the name, and the name is looked at under the
 *      guard: a file that has lost it locks nothing.
 *   2  Whoever finds turn n free, under the guard, has the lock: its holder has let go, or is dead, or a server thinks
 *      so. Whoever finds it held takes it only from a holder that it has watched. Either way it is turn n + 1 from then
 *      on, with the note left as it is.
 *   3  Whose turn is over can note nothing more, and removes no file: turn and name are compared under the guard.
 *   4  So every note was written by the holder of its turn, and whoever has the next turn reads the last one.
 *   5  A holder removes the file, under the guard, when it lets go, if the note in it is its own or there is none.
 *      Killed before, it leaves a file that nobody holds.
 *
 * The guard itself is never taken from anybody: while a process stands still within these few calls, others find
 * *holder 0. Where the system has only locks of whole files, guard and turns are one lock, and it is never taken from
 * anybody who lives. */
#define DCPI_LOCK_TEXT 512
#define DCPI_LOCK_GUARD ((int64_t)1 << 30)
#define DCPI_LOCK_TURNS ((int64_t)1 << 20)
static const char dcpi_lock_words[] = "dcp commit lock, turn ";
typedef struct dcpi_local_lock { dcpi_lock_file file; char *path; int64_t turn; int has_noted; } dcpi_local_lock;

static int64_t dcpi_lock_turn_at(int64_t turn) { return DCPI_LOCK_GUARD + 1 + turn; }
static int dcpi_lock_write(dcpi_lock_file *file, int64_t turn, const char *note) {
    char text[DCPI_LOCK_TEXT + 1];
    const int used = snprintf(text, sizeof text, "%s%" PRId64 "\n%s\n", dcpi_lock_words, turn, note);
    if (used > 0 && used < DCPI_LOCK_TEXT) memset(text + used, '\n', DCPI_LOCK_TEXT - (size_t)used);
    return dcpi_os_lock_write(file, text, DCPI_LOCK_TEXT);
}
/* Any other text is that of nobody: the first turn, without a note. */
static int dcpi_lock_read(dcpi_lock_file *file, int64_t *turn, char note[DCP_LOCK_NOTE]) {
    char text[DCPI_LOCK_TEXT + 1];
    const char *at = text + sizeof dcpi_lock_words - 1, *end;
    const int sys = dcpi_os_lock_read(file, text, DCPI_LOCK_TEXT);
    int64_t number = 0;
    *turn = 0;
    note[0] = text[DCPI_LOCK_TEXT] = '\0';
    if (sys || strncmp(text, dcpi_lock_words, sizeof dcpi_lock_words - 1) != 0) return sys;
    for (; *at >= '0' && *at <= '9' && number < DCPI_LOCK_TURNS; at++) number = 10 * number + (*at - '0');
    end = *at == '\n' ? strchr(at + 1, '\n') : NULL;
    if (!end || end - at > DCP_LOCK_NOTE || number >= DCPI_LOCK_TURNS) return 0;
    *turn = number;
    memcpy(note, at + 1, (size_t)(end - at - 1));
    note[end - at - 1] = '\0';
    return 0;
}
static uint64_t dcpi_lock_holder(int64_t turn, const char *note) {
    /* FNV-1a; never 0. Notes have a save id: no other holder has the same */
    uint64_t hash = UINT64_C(14695981039346656037) ^ (uint64_t)turn;
    for (; *note; note++) hash = (hash ^ (unsigned char)*note) * UINT64_C(1099511628211);
    return hash | 1;
}
/* The guard of the file that has the name, tried `tries` times, a millisecond between; DCPI_OS_BUSY: another has it. */
static int dcpi_lock_guard(dcpi_lock_file *file, int tries) {
    int sys;
    while ((sys = dcpi_os_lock_range(file, DCPI_LOCK_GUARD)) == DCPI_OS_BUSY && --tries > 0) dcpi_os_sleep_ms(1);
    return sys;
}
/* There are no locks here, so nobody holds this file; what is not empty may be that of a machine that has them. */
static int dcpi_lock_missing(dcpi_local *local, const dcpi_local_lock *lock, int sys) {
    dcp_object_info info;
    if (dcpi_os_stat(&local->base, lock->path, &info) == 0 && info.size == 0)
        (void)dcpi_os_remove(&local->base, lock->path);
    return sys;
}
static int dcpi_lock_enter(dcpi_local *local, dcpi_local_lock *lock) {
    int tries, sys = DCPI_OS_BUSY;
    for (tries = 0; tries < 100; tries++) {             /* each time another one has let go just now */
        sys = dcpi_os_lock_open(&local->base, lock->path, local->mode, &lock->file);
        if (sys) return sys;
        sys = dcpi_lock_guard(&lock->file, 5);
        if (!sys && dcpi_os_lock_is_named(&local->base, lock->path, &lock->file)) return 0;
        if (!sys) dcpi_os_unlock_range(&lock->file, DCPI_LOCK_GUARD);
        dcpi_os_lock_close(&lock->file);
        if (sys == DCPI_OS_BUSY) return sys;
        if (sys) return dcpi_lock_missing(local, lock, sys);
    }
    return DCPI_OS_BUSY;
}
/* Under the guard: the next turn is the caller's; DCPI_OS_BUSY: *holder has the lock. */
static int dcpi_lock_turn(dcpi_local *local, dcpi_local_lock *lock, uint64_t *holder, char note[DCP_LOCK_NOTE]) {
    const uint64_t silent = *holder;
    int64_t last;
    int was_free, sys = dcpi_lock_read(&lock->file, &last, note);
    *holder = 0;
    if (sys) return sys;
    sys = dcpi_os_lock_range(&lock->file, dcpi_lock_turn_at(last));
    was_free = sys == 0;
    if (sys == DCPI_OS_BUSY) *holder = dcpi_lock_holder(last, note);
    if (!was_free && (sys != DCPI_OS_BUSY || silent != *holder)) return sys;
    lock->turn = (last + 1) % DCPI_LOCK_TURNS;
    sys = dcpi_os_lock_range(&lock->file, dcpi_lock_turn_at(lock->turn));
    if (!sys) sys = dcpi_lock_write(&lock->file, lock->turn, note);
    if (was_free) dcpi_os_unlock_range(&lock->file, dcpi_lock_turn_at(last));
    if (!sys) return 0;
    dcpi_os_unlock_range(&lock->file, dcpi_lock_turn_at(lock->turn));
    /* a full disk; it says nothing to anybody */
    if (sys != DCPI_OS_BUSY && was_free && note[0] == '\0') (void)dcpi_os_remove(&local->base, lock->path);
    return sys;
}
static void dcpi_local_lock_free(dcpi_local_lock *lock) {
    dcpi_free(lock->path);
    dcpi_free(lock);
}
static dcp_status dcpi_local_lock_take(void *context, const char *path, uint64_t *holder, char *note, void **out,
                                       dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_lock *lock = (dcpi_local_lock *)dcpi_alloc_array(1, sizeof *lock, err);
    const uint64_t silent = *holder;
    int sys;
    *holder = 0;
    note[0] = '\0';
    if (!lock) return DCP_E_MEMORY;
    lock->path = dcpi_copy_text(path, err);
    if (!lock->path) { dcpi_free(lock); return DCP_E_MEMORY; }
    sys = dcpi_lock_enter(local, lock);
    if (!sys) {
        *holder = silent;
        sys = dcpi_lock_turn(local, lock, holder, note);
        dcpi_os_unlock_range(&lock->file, DCPI_LOCK_GUARD);
        lock->has_noted = note[0] == '\0';
        if (!sys) { *out = lock; return DCP_OK; }
        dcpi_os_lock_close(&lock->file);
    }
    dcpi_local_lock_free(lock);
    return sys == DCPI_OS_BUSY ? DCP_PENDING : dcpi_local_fail_io(local, sys, "lock", path, err);
}
/* Under the guard: whether the lock is this holder's still. */
static int dcpi_lock_is_ours(dcpi_local *local, dcpi_local_lock *lock) {
    char note[DCP_LOCK_NOTE];
    int64_t turn;
    return dcpi_os_lock_is_named(&local->base, lock->path, &lock->file) && dcpi_lock_read(&lock->file, &turn, note) ==
           0 && turn == lock->turn;
}
static dcp_status dcpi_local_lock_note(void *context, void *lock_, const char *note, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_lock *lock = (dcpi_local_lock *)lock_;
    int is_ours, sys = dcpi_lock_guard(&lock->file, 20);
    if (sys == DCPI_OS_BUSY) return DCP_PENDING;
    if (sys) return dcpi_local_fail_io(local, sys, "lock", lock->path, err);
    is_ours = dcpi_lock_is_ours(local, lock);
    if (is_ours) sys = dcpi_lock_write(&lock->file, lock->turn, note);
    if (is_ours && !sys) lock->has_noted = 1;
    dcpi_os_unlock_range(&lock->file, DCPI_LOCK_GUARD);
    if (sys) return dcpi_local_fail_io(local, sys, "write to the lock", lock->path, err);
    return is_ours ? DCP_OK : dcpi_fail(err, DCP_E_EXISTS, "the lock \"%s\" was taken over by another process",
                                        lock->path);
}
static void dcpi_local_unlock(void *context, void *lock_) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_lock *lock = (dcpi_local_lock *)lock_;
    const int is_guarded = dcpi_lock_guard(&lock->file, 100) == 0;
    if (is_guarded && lock->has_noted && dcpi_lock_is_ours(local, lock)) (void)dcpi_os_remove(&local->base, lock->path);
    dcpi_os_unlock_range(&lock->file, dcpi_lock_turn_at(lock->turn));
    if (is_guarded) dcpi_os_unlock_range(&lock->file, DCPI_LOCK_GUARD);
    dcpi_os_lock_close(&lock->file);
    dcpi_local_lock_free(lock);
}

typedef struct dcpi_local_listing {
    const char *directory;
    dcpi_storage_each each;
    void *user;
    dcpi_buffer path;
    dcp_status status;
} dcpi_local_listing;

static int dcpi_local_list_one(void *user, const char *name, const dcp_object_info *info) {
    dcpi_local_listing *l = (dcpi_local_listing *)user;
    l->path.size = 0;
    if (l->directory[0] != '\0') {
        dcpi_buffer_text(&l->path, l->directory);
        dcpi_buffer_text(&l->path, "/");
    }
    dcpi_buffer_add(&l->path, name, strlen(name) + 1);
    if (l->path.failed) l->status = DCP_E_MEMORY;
    /* other names cannot be ours */
    else if (dcpi_key_is_valid(l->path.data)) l->status = l->each(l->user, l->path.data, info);
    return l->status != DCP_OK;
}
static dcp_status dcpi_local_walk(void *context, const char *directory, int what, dcpi_storage_each each, void *user,
                                  dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_listing l;
    int sys;
    memset(&l, 0, sizeof l);
    l.directory = directory;
    l.each = each;
    l.user = user;
    sys = dcpi_os_list(&local->base, directory, what, dcpi_local_list_one, &l);
    dcpi_buffer_free(&l.path);
    if (l.status == DCP_E_MEMORY) return dcpi_no_memory(err, strlen(directory) + 256);
    if (l.status) return l.status;
    return sys ? dcpi_local_fail(local, sys, "list", directory, err) : DCP_OK;
}
static dcp_status dcpi_local_list(void *context, const char *directory, dcpi_storage_each each, void *user,
                                  dcp_error *err) {
    return dcpi_local_walk(context, directory, 0, each, user, err);
}
static dcp_status dcpi_local_list_directories(void *context, const char *directory, dcpi_storage_each each, void *user,
                                              dcp_error *err) {
    return dcpi_local_walk(context, directory, 1, each, user, err);
}
static dcp_status dcpi_local_list_links(void *context, const char *directory, dcpi_storage_each each, void *user,
                                        dcp_error *err) {
    return dcpi_local_walk(context, directory, 2, each, user, err);
}
static dcp_status dcpi_local_remove(void *context, const char *path, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    int sys = dcpi_os_remove(&local->base, path);
    if (!sys || dcpi_os_status(sys) == DCP_E_NOT_FOUND) return DCP_OK;
    return dcpi_local_fail(local, sys, "remove", path, err);
}
static dcp_status dcpi_local_sync_directory(void *context, const char *directory, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    int sys = directory[0] == '\0' ? 0 : dcpi_os_make_directory(&local->base, directory);
    if (sys) return dcpi_local_fail(local, sys, "make the directory", directory, err);
    sys = dcpi_os_sync_directory(&local->base, directory);
    return sys ? dcpi_local_fail(local, sys, "sync the directory", directory, err) : DCP_OK;
}
static dcp_status dcpi_local_space(void *context, const char *directory, int64_t *bytes_free, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    int sys = dcpi_os_space(&local->base, directory, bytes_free);
    return sys ? dcpi_local_fail(local, sys, "ask for the free space of", directory, err) : DCP_OK;
}
static dcp_status dcpi_local_additional(void *context, const char *path, dcp_field **fields, size_t *count,
                                        dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    struct dcpi_local_facts { dcp_field fields[3]; char mode[8], links[24], inode[24]; } *facts;
    int64_t links;
    uint64_t inode;
    int sys;
    facts = (struct dcpi_local_facts *)dcpi_alloc_array(1, sizeof *facts, err);
    if (!facts) return DCP_E_MEMORY;
    sys = dcpi_os_additional(&local->base, path, facts->mode, &links, &inode);
    if (sys) { dcpi_free(facts); return dcpi_local_fail(local, sys, "look at", path, err); }
    (void)snprintf(facts->links, sizeof facts->links, "%" PRId64, links);
    (void)snprintf(facts->inode, sizeof facts->inode, "%" PRIu64, inode);
    facts->fields[0].key = "mode";  facts->fields[0].value = facts->mode;
    facts->fields[1].key = "links"; facts->fields[1].value = facts->links;
    facts->fields[2].key = "inode"; facts->fields[2].value = facts->inode;
    *fields = facts->fields;
    *count = DCPI_COUNT(facts->fields);
    return DCP_OK;
}
static void dcpi_local_destroy(void *context) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_os_base_close(&local->base);
    dcpi_free(local->path);
    dcpi_free(local);
}
static dcp_status dcpi_local_new(const char *path, unsigned mode, int create, dcp_storage **out, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)dcpi_alloc_array(1, sizeof *local, err);
    dcp_storage *s = local ? (dcp_storage *)dcpi_alloc_array(1, sizeof *s, err) : NULL;
    int sys = 0;
    *out = NULL;
    if (s) local->path = dcpi_copy_text(path[0] != '\0' ? path : ".", err);
    if (local && local->path) sys = dcpi_os_base_open(path, create, &local->base);
    if (!s || !local->path || sys) {
        dcp_status status = DCP_E_MEMORY;
        if (sys) {
            char text[160];
            dcpi_os_message(sys, text, sizeof text);
            status = dcpi_fail_sys(err, dcpi_os_status(sys), sys, "cannot open the directory \"%s\": %s", path, text);
            status = dcpi_storage_absent(status, sys, err);
            if (status == DCP_E_NOT_FOUND && create) status = DCP_E_IO;         /* it could not be made */
            if (err) err->status = status;
        }
        if (local) dcpi_free(local->path);
        dcpi_free(local);
        dcpi_free(s);
        return status;
    }
    local->mode = mode;
    s->context = local;
    s->flags = DCP_STORAGE_SHARED_POSITIONAL_WRITE | DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_CONCURRENT_WRITE |
               DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH | DCP_STORAGE_SYNC |
               DCP_STORAGE_SYNC_DIRECTORY | DCP_STORAGE_COMMIT_LOCK;
    s->lock = dcpi_local_lock_take; s->lock_note = dcpi_local_lock_note; s->unlock = dcpi_local_unlock;
    s->begin = dcpi_local_begin;
    s->join = dcpi_local_join;
    s->leave = dcpi_local_leave; s->write = dcpi_local_write; s->commit = dcpi_local_commit;
    s->abort = dcpi_local_abort;
    s->open = dcpi_local_open; s->read = dcpi_local_read; s->map = dcpi_local_map; s->close = dcpi_local_close;
    s->stat = dcpi_local_stat; s->list = dcpi_local_list; s->list_directories = dcpi_local_list_directories;
    s->list_links = dcpi_local_list_links;
    s->remove = dcpi_local_remove; s->sync_directory = dcpi_local_sync_directory;
    s->space = dcpi_local_space; s->destroy = dcpi_local_destroy; s->additional_info = dcpi_local_additional;
    *out = s;
    return DCP_OK;
}

/* ---- memory: objects in a list; what is committed never changes, so readers hold it by a count ------------------- */
typedef struct dcpi_blob { char *data; size_t size, capacity; int64_t modified_ns; int users; } dcpi_blob;
typedef struct dcpi_memory_entry { struct dcpi_memory_entry *next; char *path; dcpi_blob *blob; } dcpi_memory_entry;
typedef struct dcpi_memory_lock { struct dcpi_memory_lock *next; char *path; } dcpi_memory_lock;
typedef struct dcpi_memory { dcpi_mutex lock; dcpi_memory_entry *entries; dcpi_memory_lock *locks; } dcpi_memory;
typedef struct dcpi_memory_object { char *path; dcpi_blob *blob; } dcpi_memory_object;

static void dcpi_blob_release(dcpi_blob *blob) {        /* under the lock */
    if (--blob->users > 0) return;
    dcpi_free(blob->data);
    dcpi_free(blob);
}
static dcpi_memory_entry **dcpi_memory_find(dcpi_memory *memory, const char *path) {
    dcpi_memory_entry **at = &memory->entries;
    while (*at && strcmp((*at)->path, path) != 0) at = &(*at)->next;
    return at;
}
static dcp_status dcpi_memory_begin(void *context, const char *path, const char *temporary, int64_t size_hint,
                                    void **out, dcp_error *err) {
    dcpi_memory_object *object = (dcpi_memory_object *)dcpi_alloc_array(1, sizeof *object, err);
    (void)context; (void)temporary; (void)size_hint;
    if (!object) return DCP_E_MEMORY;
    object->path = dcpi_copy_text(path, err);
    object->blob = object->path ? (dcpi_blob *)dcpi_alloc_array(1, sizeof *object->blob, err) : NULL;
    if (!object->blob) {
        dcpi_free(object->path);
        dcpi_free(object);
        return DCP_E_MEMORY;
    }
    object->blob->users = 1;
    *out = object;
    return DCP_OK;
}
static dcp_status dcpi_memory_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                                    dcp_error *err) {
    dcpi_blob *blob = ((dcpi_memory_object *)object)->blob;
    void *memory = blob->data;
    size_t end;
    (void)context;
    if (offset < 0 || (uint64_t)offset > SIZE_MAX || !dcpi_add_size((size_t)offset, size, &end))
        return dcpi_no_memory(err, SIZE_MAX);
    if (!dcpi_grow(&memory, &blob->capacity, end, 1, err)) return DCP_E_MEMORY;
    blob->data = (char *)memory;
    if ((size_t)offset > blob->size) memset(blob->data + blob->size, 0, (size_t)offset - blob->size);
    if (size) memcpy(blob->data + offset, data, size);
    if (end > blob->size) blob->size = end;
    return DCP_OK;
}
static void dcpi_memory_abort(void *context, void *object_) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_object *object = (dcpi_memory_object *)object_;
    dcpi_mutex_lock(&memory->lock);
    if (object->blob) dcpi_blob_release(object->blob);
    dcpi_mutex_unlock(&memory->lock);
    dcpi_free(object->path);
    dcpi_free(object);
}
/* under the lock */
static dcp_status dcpi_memory_publish(dcpi_memory *memory, dcpi_memory_object *object, int replace, dcp_error *err) {
    dcpi_memory_entry **at = dcpi_memory_find(memory, object->path);
    if (*at && !replace) return dcpi_fail(err, DCP_E_EXISTS, "\"%s\" is there already", object->path);
    if (!*at) {
        dcpi_memory_entry *entry = (dcpi_memory_entry *)dcpi_alloc_array(1, sizeof *entry, err);
        if (!entry) return DCP_E_MEMORY;
        entry->path = object->path;
        object->path = NULL;
        *at = entry;
    } else {
        dcpi_blob_release((*at)->blob);
    }
    object->blob->modified_ns = dcpi_os_wall_us() * 1000;
    (*at)->blob = object->blob;
    object->blob = NULL;
    return DCP_OK;
}
static dcp_status dcpi_memory_commit(void *context, void *object, int replace, dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcp_status status;
    dcpi_mutex_lock(&memory->lock);
    status = dcpi_memory_publish(memory, (dcpi_memory_object *)object, replace, err);
    dcpi_mutex_unlock(&memory->lock);
    dcpi_memory_abort(context, object);                 /* frees what publish did not take */
    return status;
}
static dcp_status dcpi_memory_open(void *context, const char *path, void **out, dcp_object_info *info, dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_object *object = (dcpi_memory_object *)dcpi_alloc_array(1, sizeof *object, err);
    dcpi_memory_entry *entry;
    if (!object) return DCP_E_MEMORY;
    dcpi_mutex_lock(&memory->lock);
    entry = *dcpi_memory_find(memory, path);
    if (entry) {
        object->blob = entry->blob;
        object->blob->users++;
        info->size = (int64_t)object->blob->size;
        info->modified_ns = object->blob->modified_ns;
    }
    dcpi_mutex_unlock(&memory->lock);
    if (!entry) {
        dcpi_free(object);
        return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no \"%s\" in this memory storage", path);
    }
    *out = object;
    return DCP_OK;
}
static dcp_status dcpi_memory_read(void *context, void *object, int64_t offset, void *data, size_t size,
                                   dcp_error *err) {
    const dcpi_blob *blob = ((dcpi_memory_object *)object)->blob;
    (void)context;
    if (offset < 0 || (uint64_t)offset > blob->size || size > blob->size - (size_t)offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the object ends at byte %" PRIu64 ", before %" PRIu64
                         " bytes from byte %" PRId64, (uint64_t)blob->size, (uint64_t)size, offset);
    if (size) memcpy(data, blob->data + offset, size);
    return DCP_OK;
}
static dcp_status dcpi_memory_map(void *context, void *object, const void **data, dcp_error *err) {
    (void)context; (void)err;
    *data = ((dcpi_memory_object *)object)->blob->data;
    return DCP_OK;
}
static dcp_status dcpi_memory_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_entry *entry;
    dcpi_mutex_lock(&memory->lock);
    entry = *dcpi_memory_find(memory, path);
    if (entry) {
        info->size = (int64_t)entry->blob->size;
        info->modified_ns = entry->blob->modified_ns;
    }
    dcpi_mutex_unlock(&memory->lock);
    return entry ? DCP_OK : dcpi_fail(err, DCP_E_NOT_FOUND, "there is no \"%s\" in this memory storage", path);
}
static int dcpi_is_directly_in(const char *path, const char *directory) {
    size_t n = strlen(directory);
    if (n == 0) return strchr(path, '/') == NULL;
    return strncmp(path, directory, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}
/* Calls back on a copy of the names, so that `each` may use the storage. */
static dcp_status dcpi_memory_list(void *context, const char *directory, dcpi_storage_each each, void *user,
                                   dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_entry *entry;
    dcpi_buffer names;
    dcp_status status = DCP_OK;
    size_t at;
    memset(&names, 0, sizeof names);
    dcpi_mutex_lock(&memory->lock);
    for (entry = memory->entries; entry; entry = entry->next)
        if (dcpi_is_directly_in(entry->path, directory)) dcpi_buffer_add(&names, entry->path, strlen(entry->path) + 1);
    dcpi_mutex_unlock(&memory->lock);
    if (names.failed) status = dcpi_no_memory(err, names.size);
    for (at = 0; at < names.size && !status; at += strlen(names.data + at) + 1) {
        dcp_object_info info;
        if (dcpi_memory_stat(context, names.data + at, &info, NULL) == DCP_OK)
            status = each(user, names.data + at, &info);
    }
    dcpi_buffer_free(&names);
    return status;
}
/* Directories are what keys have before a '/'. */
static dcp_status dcpi_memory_list_directories(void *context, const char *directory, dcpi_storage_each each, void *user,
                                               dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    const size_t n = directory[0] ? strlen(directory) + 1 : 0;
    dcpi_memory_entry *entry;
    dcpi_buffer names;
    dcp_status status = DCP_OK;
    size_t at;
    memset(&names, 0, sizeof names);
    dcpi_mutex_lock(&memory->lock);
    for (entry = memory->entries; entry && !names.failed; entry = entry->next) {
        const char *slash = NULL;
        if (n == 0 || (strncmp(entry->path, directory, n - 1) == 0 && entry->path[n - 1] == '/'))
            slash = strchr(entry->path + n, '/');
        for (at = 0; slash && at < names.size; at += strlen(names.data + at) + 1)
            if (strlen(names.data + at) == (size_t)(slash - entry->path) &&
                strncmp(names.data + at, entry->path, (size_t)(slash - entry->path)) == 0) slash = NULL;
        if (!slash) continue;
        dcpi_buffer_add(&names, entry->path, (size_t)(slash - entry->path));
        dcpi_buffer_add(&names, "", 1);
    }
    dcpi_mutex_unlock(&memory->lock);
    if (names.failed) status = dcpi_no_memory(err, names.size);
    for (at = 0; at < names.size && !status; at += strlen(names.data + at) + 1)
        status = each(user, names.data + at, NULL);
    dcpi_buffer_free(&names);
    return status;
}
static dcp_status dcpi_memory_remove(void *context, const char *path, dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_entry **at, *entry;
    (void)err;
    dcpi_mutex_lock(&memory->lock);
    at = dcpi_memory_find(memory, path);
    entry = *at;
    if (entry) {
        *at = entry->next;
        dcpi_blob_release(entry->blob);
        dcpi_free(entry->path);
        dcpi_free(entry);
    }
    dcpi_mutex_unlock(&memory->lock);
    return DCP_OK;
}
/* Among the threads of this process. One that stands still is never taken the lock from: they would all have to stop
 * for that. */
static dcp_status dcpi_memory_lock_take(void *context, const char *path, uint64_t *holder, char *note, void **out,
                                        dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_lock *lock = (dcpi_memory_lock *)dcpi_alloc_array(1, sizeof *lock, err), *other;
    *holder = 0;
    note[0] = '\0';
    if (!lock) return DCP_E_MEMORY;
    lock->path = dcpi_copy_text(path, err);
    if (!lock->path) { dcpi_free(lock); return DCP_E_MEMORY; }
    dcpi_mutex_lock(&memory->lock);
    for (other = memory->locks; other && strcmp(other->path, path) != 0; ) other = other->next;
    if (!other) {
        lock->next = memory->locks;
        memory->locks = lock;
    }
    dcpi_mutex_unlock(&memory->lock);
    if (!other) { *out = lock; return DCP_OK; }
    dcpi_free(lock->path);
    dcpi_free(lock);
    return DCP_PENDING;
}
static dcp_status dcpi_memory_lock_note(void *context, void *lock, const char *note, dcp_error *err) {
    (void)context; (void)lock; (void)note; (void)err;
    return DCP_OK;
}
static void dcpi_memory_unlock(void *context, void *lock_) {
    dcpi_memory *memory = (dcpi_memory *)context;
    dcpi_memory_lock *lock = (dcpi_memory_lock *)lock_, **at;
    dcpi_mutex_lock(&memory->lock);
    for (at = &memory->locks; *at != lock; ) at = &(*at)->next;
    *at = lock->next;
    dcpi_mutex_unlock(&memory->lock);
    dcpi_free(lock->path);
    dcpi_free(lock);
}
static void dcpi_memory_destroy(void *context) {
    dcpi_memory *memory = (dcpi_memory *)context;
    while (memory->entries) (void)dcpi_memory_remove(memory, memory->entries->path, NULL);
    dcpi_mutex_destroy(&memory->lock);
    dcpi_free(memory);
}
DCPDEF dcp_status dcp_storage_memory(dcp_storage **out, dcp_error *err) {
    dcpi_memory *memory = (dcpi_memory *)dcpi_alloc_array(1, sizeof *memory, err);
    dcp_storage *s = memory ? (dcp_storage *)dcpi_alloc_array(1, sizeof *s, err) : NULL;
    *out = NULL;
    if (!s) { dcpi_free(memory); return DCP_E_MEMORY; }
    if (dcpi_mutex_init(&memory->lock)) {
        dcpi_free(memory);
        dcpi_free(s);
        return dcpi_no_memory(err, sizeof(dcpi_mutex));
    }
    s->context = memory;
    s->flags = DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH |
               DCP_STORAGE_COMMIT_LOCK;
    s->lock = dcpi_memory_lock_take; s->lock_note = dcpi_memory_lock_note; s->unlock = dcpi_memory_unlock;
    s->begin = dcpi_memory_begin; s->write = dcpi_memory_write; s->commit = dcpi_memory_commit;
    s->abort = dcpi_memory_abort;
    s->open = dcpi_memory_open; s->read = dcpi_memory_read; s->map = dcpi_memory_map; s->close = dcpi_memory_abort;
    s->stat = dcpi_memory_stat; s->list = dcpi_memory_list; s->list_directories = dcpi_memory_list_directories;
    s->remove = dcpi_memory_remove; s->destroy = dcpi_memory_destroy;
    *out = s;
    return dcpi_succeed(err);
}

/* ---- providers --------------------------------------------------------------------------------------------------- */
typedef dcp_status (*dcpi_provider_open)(const dcp_storage_options *options, dcp_storage **out, dcp_error *err);
typedef struct dcpi_provider { struct dcpi_provider *next; dcpi_provider_open open; char name[64]; } dcpi_provider;
static struct dcpi_providers {
    dcpi_mutex lock;
    dcpi_provider *first;
    } dcpi_providers = { DCPI_MUTEX_INITIALIZER, NULL
};

static int dcpi_same_word(const char *a, const char *b) {          /* ASCII case does not matter, whatever the locale */
    for (;; a++, b++) {
        int x = *a >= 'A' && *a <= 'Z' ? *a - 'A' + 'a' : *a, y = *b >= 'A' && *b <= 'Z' ? *b - 'A' + 'a' : *b;
        if (x != y) return 0;
        if (x == '\0') return 1;
    }
}
static const char *dcpi_setting(const dcp_storage_options *options, const char *key) {
    size_t i;
    for (i = 0; i < options->setting_count; i++)
        if (dcpi_same_text(options->settings[i].key, key)) return options->settings[i].value;
    return NULL;
}
static dcp_status dcpi_settings_known(const dcp_storage_options *options, const char *a, const char *b,
                                      dcp_error *err) {
    size_t i;
    for (i = 0; i < options->setting_count; i++) {
        const char *key = options->settings[i].key;
        if (key && (dcpi_same_text(key, a) || dcpi_same_text(key, b))) continue;
        return dcpi_fail(err, DCP_E_INVALID, "storage \"%s\" has no setting \"%s\"; %s%s%s%s", options->provider,
                         key ? key : "(null)", a ? "known: " : "it takes none", a ? a : "",
                         b ? ", " : "", b ? b : "");
    }
    return DCP_OK;
}
static dcp_status dcpi_provider_local(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    const char *base = dcpi_setting(options, "basePath"), *mode = dcpi_setting(options, "mode");
    unsigned bits = 0;
    dcp_status status = dcpi_settings_known(options, "basePath", "mode", err);
    if (status) return status;
    if (!base)
        return dcpi_fail(err, DCP_E_INVALID,
                         "storage \"local\" needs the setting basePath, the directory to keep its files in");
    for (; mode && *mode; mode++) {
        if (*mode < '0' || *mode > '7' || bits > 0777)
            return dcpi_fail(err, DCP_E_INVALID, "setting mode must be octal permission bits such as 0640");
        bits = bits * 8 + (unsigned)(*mode - '0');
    }
    if (bits > 0777) return dcpi_fail(err, DCP_E_INVALID, "setting mode must be octal permission bits such as 0640");
    return dcpi_local_new(base, bits, 1, out, err);
}
static dcp_status dcpi_provider_memory(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    dcp_status status = dcpi_settings_known(options, NULL, NULL, err);
    return status ? status : dcp_storage_memory(out, err);
}
static dcp_status dcpi_provider_unknown(const char *name, dcp_error *err) {
    char known[256] = "local, memory";
    const dcpi_provider *p;
    dcpi_mutex_lock(&dcpi_providers.lock);
    for (p = dcpi_providers.first; p && strlen(known) + 70 < sizeof known; p = p->next) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, ", %s", p->name);
    }
    dcpi_mutex_unlock(&dcpi_providers.lock);
    return dcpi_fail(err, DCP_E_UNSUPPORTED,
                     "unknown storage provider \"%s\"; known here: %s. Others (s3, gcs, azure, ...) are plugged in: "
                     "call "
                     "dcp_storage_register(\"%s\", your_open, &err) first", name, known, name);
}
static dcpi_provider_open dcpi_provider_find(const char *name) {
    dcpi_provider_open open = NULL;
    const dcpi_provider *p;
    if (dcpi_same_word(name, "local")) return dcpi_provider_local;
    if (dcpi_same_word(name, "memory")) return dcpi_provider_memory;
    dcpi_mutex_lock(&dcpi_providers.lock);
    for (p = dcpi_providers.first; p && !open; p = p->next) if (dcpi_same_word(p->name, name)) open = p->open;
    dcpi_mutex_unlock(&dcpi_providers.lock);
    return open;
}
DCPDEF dcp_status dcp_storage_open(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    dcpi_provider_open open;
    *out = NULL;
    (void)dcpi_succeed(err);
    if (!options || !options->provider)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_open: options.provider is not set");
    open = dcpi_provider_find(options->provider);
    if (!open) return dcpi_provider_unknown(options->provider, err);
    return dcpi_storage_result(&dcpi_by_finder, open(options, out, err), "open the provider", options->provider, err);
}
DCPDEF dcp_status dcp_storage_register(const char *provider, dcpi_provider_open open, dcp_error *err) {
    dcpi_provider *added;
    (void)dcpi_succeed(err);
    if (!provider || !open || !dcpi_is_name(provider, sizeof added->name - 1))
        return dcpi_fail(err, DCP_E_INVALID,
                         "dcp_storage_register: a provider needs a name of 1 to 63 bytes and an open function");
    if (dcpi_provider_find(provider))
        return dcpi_fail(err, DCP_E_EXISTS, "storage provider \"%s\" is registered already", provider);
    added = (dcpi_provider *)dcpi_alloc_array(1, sizeof *added, err);
    if (!added) return DCP_E_MEMORY;
    (void)snprintf(added->name, sizeof added->name, "%s", provider);
    added->open = open;
    dcpi_mutex_lock(&dcpi_providers.lock);
    added->next = dcpi_providers.first;
    dcpi_providers.first = added;
    dcpi_mutex_unlock(&dcpi_providers.lock);
    return DCP_OK;
}
DCPDEF dcp_status dcp_storage_local(const char *base_path, dcp_storage **out, dcp_error *err) {
    *out = NULL;
    (void)dcpi_succeed(err);
    if (!base_path) return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_local: base_path is NULL");
    return dcpi_local_new(base_path, 0, 1, out, err);
}
DCPDEF void dcp_storage_close(dcp_storage *storage) {
    if (!storage) return;
    if (storage->destroy) storage->destroy(storage->context);
    dcpi_free(storage);
}
DCPDEF void dcp_device_close(dcp_device *device) {
    if (!device) return;
    if (device->destroy) device->destroy(device->context);
    dcpi_free(device);
}


/* ---- a path: the directory that holds the checkpoint, and the name in it ----------------------------------------- */
typedef struct dcpi_place {
    dcp_storage *storage; int owned;                    /* owned: made here for an OS path, closed with the place */
    char *directory;                                    /* key of the directory in the storage, "" for its base */
    char *name;                                    /* last part: of the prefix, or of the commit file as it was given */
    char *shown;                                        /* what stands before `name` in a path for people: "runs/a/" */
} dcpi_place;

static void dcpi_place_close(dcpi_place *place) {
    if (place->owned) dcp_storage_close(place->storage);
    dcpi_free(place->directory);
    dcpi_free(place->name);
    dcpi_free(place->shown);
    memset(place, 0, sizeof *place);
}
static char *dcpi_text_range(const char *text, size_t length, dcp_error *err) {
    char *copy = length < SIZE_MAX ? (char *)dcpi_alloc(length + 1, err) : NULL;
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}
/* directory: where the checkpoints are; with a storage a key, else an OS path that is opened (and, with `create`,
 * made). */
static dcp_status dcpi_place_open_directory(dcpi_place *place, dcp_storage *storage, const char *directory, int create,
                                            dcp_error *err) {
    size_t length = strlen(directory);
    memset(place, 0, sizeof *place);
    if (storage) {
        while (length > 0 && directory[length - 1] == '/') length--;
        place->storage = storage;
        place->directory = dcpi_text_range(directory, length, err);
        if (!place->directory) return DCP_E_MEMORY;
        if (length > 0 && !dcpi_key_is_valid(place->directory)) return dcpi_storage_key(place->directory, err);
    } else {
        dcp_status status;
        place->directory = dcpi_copy_text("", err);
        if (!place->directory) return DCP_E_MEMORY;
        status = dcpi_local_new(directory, 0, create, &place->storage, err);
        if (status) return status;
        place->owned = 1;
    }
    place->shown = (char *)dcpi_alloc(length + 2, err);
    if (!place->shown) return DCP_E_MEMORY;
    (void)snprintf(place->shown, length + 2, "%.*s%s", (int)length, directory, length > 0 &&
                   !dcpi_os_is_separator(directory, length - 1) ? "/" : "");
    return DCP_OK;
}
/* Splits a path at its last separator; the part behind it is the name. */
static dcp_status dcpi_place_open(dcpi_place *place, dcp_storage *storage, const char *path, int create,
                                  dcp_error *err) {
    size_t length = strlen(path), cut = length;
    char *directory;
    dcp_status status;
    memset(place, 0, sizeof *place);
    if (length > (size_t)DCP_LIMIT_PATH)
        return dcpi_fail(err, DCP_E_LIMIT, "the path has %" PRIu64 " bytes; the limit is %d: \"%.200s...\"",
                         (uint64_t)length,
                         (int)DCP_LIMIT_PATH, path);
    while (cut > 0 && !(storage ? path[cut - 1] == '/' : dcpi_os_is_separator(path, cut - 1))) cut--;
    if (cut == length || !dcpi_key_is_valid(storage ? path : path + cut))
        return dcpi_fail(err, DCP_E_INVALID,
                         "\"%s\" is not the path of a checkpoint: its last part must be a name of printable UTF-8 "
                         "without '\\' or ':'",
                path);
    directory = dcpi_text_range(path, cut, err);
    if (!directory) return DCP_E_MEMORY;
    status = dcpi_place_open_directory(place, storage, directory, create, err);
    dcpi_free(directory);
    if (!status) place->name = dcpi_copy_text(path + cut, err);
    if (!status && !place->name) status = DCP_E_MEMORY;
    return status;
}
/* What a report calls a file of the place: whole, or the caller is told why not. */
static dcp_status dcpi_place_report(const dcpi_place *place, const char *name, char path[DCP_PATH_SIZE],
                                    dcp_error *err) {
    const int length = snprintf(path, DCP_PATH_SIZE, "%s%s", place->shown, name);
    const int limit = (int)dcpi_min(DCP_LIMIT_PATH, DCP_PATH_SIZE - 1);
    if (length >= 0 && length <= limit) return DCP_OK;
    return dcpi_fail(err, DCP_E_LIMIT, "the path of the commit file has %d bytes; the limit is %d: \"%.200s...\"",
                     length, limit, path);
}
/* The key of a file in the place's directory. */
static char *dcpi_place_key(const dcpi_place *place, const char *name, dcp_error *err) {
    size_t size = strlen(place->directory) + strlen(name) + 2;
    char *key = (char *)dcpi_alloc(size, err);
    if (key) (void)snprintf(key, size, "%s%s%s", place->directory, place->directory[0] ? "/" : "", name);
    return key;
}
/* Its name again: keys in this directory less the directory. */
static const char *dcpi_place_name(const dcpi_place *place, const char *key) {
    return place->directory[0] ? key + strlen(place->directory) + 1 : key;
}
/* Every directory from the storage's base down to this one exists and is durable, whoever made it (DESIGN 4.2): made
 * first, synced from the top. */
static dcp_status dcpi_place_sync_all(const dcpi_place *place, dcp_error *err) {
    dcp_status status = dcpi_storage_sync_directory(place->storage, place->directory, err);
    size_t i, length = strlen(place->directory);
    char *part;
    if (status || length == 0) return status;
    part = dcpi_copy_text(place->directory, err);
    if (!part) return DCP_E_MEMORY;
    status = dcpi_storage_sync_directory(place->storage, "", err);
    for (i = 0; i < length && !status; i++) {
        if (part[i] != '/') continue;
        part[i] = '\0';
        status = dcpi_storage_sync_directory(place->storage, part, err);
        part[i] = '/';
    }
    dcpi_free(part);
    return status;
}
static dcp_status dcpi_place_sync(const dcpi_place *place, dcp_error *err) {
    return dcpi_storage_sync_directory(place->storage, place->directory, err);
}

/* 16 hex digits of the system's randomness, and a NUL: a save's id, and part of every temporary name. */
static dcp_status dcpi_random_id(char id[17], dcp_error *err) {
    uint8_t bytes[8];
    int sys = dcpi_os_random(bytes, sizeof bytes);
    if (sys) return dcpi_fail_sys(err, DCP_E_IO, sys, "the system gave no random numbers");
    dcpi_hex_encode(bytes, sizeof bytes, id);
    id[16] = '\0';
    return DCP_OK;
}
/* `<final name>.<save id>[-<attempt>].tmp`: what a killed writer leaves, and what sweep knows as ours. */
static char *dcpi_temporary_name(const char *final_name, const char *id, int attempt, dcp_error *err) {
    size_t size = strlen(final_name) + 40;
    char *name = (char *)dcpi_alloc(size, err);
    if (!name) return NULL;
    if (attempt == 0) (void)snprintf(name, size, "%s.%s.tmp", final_name, id);
    else (void)snprintf(name, size, "%s.%s-%d.tmp", final_name, id, attempt);
    return name;
}

