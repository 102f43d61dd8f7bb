/* crash_storage.h - a dcp_storage in memory that knows what a power cut may leave of it.
 *
 *     #define DCP_IMPLEMENTATION
 *     #include "dcp.h"
 *     #include "test.h"
 *     #include "crash_storage.h"                     // white-box: needs the implementation above it
 *
 *     crash_disk disk;
 *     crash_open(&disk);
 *     ...                                            // what was there before
 *     crash_settle(&disk);                           // all of that is durable; the log is empty
 *     desc.io.storage = &disk.storage;
 *     dcp_save(&desc, &err);                         // recorded
 *     crash_enumerate(&disk, &search, each, user);   // each(user, &state) for the disks that a cut may leave,
 *                                                    // after every operation
 *     crash_close(&disk);
 *
 * Its locks are files too: lock makes one, lock_note writes to it, unlock removes it. Nothing syncs them, so a cut
 * leaves or takes them as it likes; who holds one dies with the process. Another one waits, in real time, for as long
 * as io.timeout_ms says.
 *
 * Each call is recorded as the operations of POSIX that the local storage makes of it: begin is mkdir for each missing
 * directory and an exclusive create, write is a write, commit is fsync and rename, leave is fsync, abort and remove are
 * unlink, sync_directory is mkdir and fsync of the directory. The rule is that of POSIX alone, stricter than any file
 * system: fsync of a file makes its bytes durable, fsync of a directory its entries, and nothing else makes anything
 * durable. The rest is pending, and of what is pending a cut leaves:
 *
 *     CRASH_ANY        any subset
 *     CRASH_ORDERED    any subset of the writes; of changes to directories, those before some point in time (a journal)
 *     CRASH_EXT4       as CRASH_ORDERED, and where a rename is left, so are the bytes of the file that it names
 *
 * All subsets of up to CRASH_EXHAUSTIVE pending operations are enumerated; of more, a sample. A write that is lost
 * leaves the file short, or zeros, or bytes of some other file; one write may be torn, at a multiple of 512 bytes.
 * States that are equal, and that the caller expects the same of (crash_search.expectation), come once.
 *
 * crash_disk.dies_at: from that operation on nothing happens any more and every call fails: the process has died, the
 * machine goes on. */
#ifndef DCP_CRASH_STORAGE_H
#define DCP_CRASH_STORAGE_H

#include <limits.h>

#define CRASH_EXHAUSTIVE 12
#define CRASH_SAMPLES 2000              /* of the subsets of more pending operations, for each model */
/* pending operations, up to which a lost write is looked at with all that may be in its place */
#define CRASH_ALL_FILLS 6
#define CRASH_PENDING 64                /* pending operations at a time; beyond, the program ends */
#define CRASH_ARENA ((size_t)8 << 20)   /* bytes of files that are not as they are now, in one state */
#define CRASH_SECTOR 512

typedef enum crash_kind {
    CRASH_CREATE, CRASH_WRITE, CRASH_FSYNC, CRASH_RENAME, CRASH_UNLINK, CRASH_MKDIR, CRASH_SYNC_DIRECTORY
} crash_kind;
enum { CRASH_ANY, CRASH_ORDERED, CRASH_EXT4, CRASH_MODELS };
enum { CRASH_SHORT, CRASH_ZEROS, CRASH_GARBAGE, CRASH_FILLS };          /* what is where a write was lost */

typedef struct crash_file {
    char *data; size_t size, capacity;                  /* as the program sees it */
    char *base; size_t base_size;                       /* durable when the log began */
    int64_t modified_ns;
    int last_write, synced;                             /* in the log, -1: none; the fsync after it, INT_MAX: none */
    uint64_t hash;                                      /* of data */
} crash_file;
typedef struct crash_name { char *key; int file; } crash_name;
typedef struct crash_op {
    crash_kind kind;
    char *key, *to;                                     /* the entry, or the directory; rename: what it becomes */
    char *directory;                                    /* whose entry changes, or which is synced */
    int file;
    size_t offset, size; char *data;                    /* of a write */
    int settled;                                       /* index of the operation that makes it durable; INT_MAX: none */
} crash_op;
typedef struct crash_lock { struct crash_lock *next; char *path; int has_noted; } crash_lock;
typedef struct crash_disk {
    dcp_storage storage;                                /* the one to use */
    dcpi_mutex lock;
    crash_file *files; int file_count;
    crash_name *names; int name_count;                  /* as the program sees them */
    char **directories; int directory_count;            /* likewise; without the base */
    crash_lock *locks;                                  /* that are held */
    crash_name *base_names; int base_name_count;        /* when the log began */
    int base_directory_count;                           /* the first of directories */
    crash_op *ops; int op_count;
    int64_t clock;
    int is_recording, dies_at;                          /* dies_at 0: never */
    /* what others do meanwhile: called before begin (key: the temporary one), remove, list, sync_directory; NULL: none.
     * It may use the disk; a sync_directory, if it says so, fails */
    int (*hook)(void *user, const char *call, const char *key); void *hook_user;
} crash_disk;
typedef struct crash_object { int file; char *path, *temporary; } crash_object;

static inline void *crash_more(void *memory, int count, size_t size) {
    /* room for one more behind count; doubles at powers of two */
    if (count > 7 && (count & (count - 1)) != 0) return memory;
    memory = realloc(memory, (size_t)(count < 8 ? 8 : 2 * count) * size);
    if (!memory) abort();
    return memory;
}
static inline char *crash_copy(const char *bytes, size_t size) {
    char *copy = (char *)malloc(size + 1);
    if (!copy) abort();
    if (size) memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}
static inline char *crash_text(const char *text) { return crash_copy(text, strlen(text)); }
static inline char *crash_directory_of(const char *key) {
    const char *slash = strrchr(key, '/');
    return crash_copy(key, slash ? (size_t)(slash - key) : 0);
}

/* ---- what the program sees --------------------------------------------------------------------------------------- */
static inline int crash_find(const crash_disk *d, const char *key) {    /* index in names, -1: none */
    int i;
    for (i = 0; i < d->name_count; i++) if (strcmp(d->names[i].key, key) == 0) return i;
    return -1;
}
static inline int crash_has_directory(const crash_disk *d, const char *key) {
    int i;
    for (i = 0; i < d->directory_count; i++) if (strcmp(d->directories[i], key) == 0) return 1;
    return key[0] == '\0';
}
static inline int crash_is_dead(const crash_disk *d) { return d->dies_at > 0 && d->op_count >= d->dies_at; }
static inline dcp_status crash_dead(dcp_error *err) {
    return dcpi_fail_sys(err, DCP_E_IO, EROFS, "the process is dead");
}

static inline int crash_tell(crash_disk *d, const char *call, const char *key) {
    return d->hook ? d->hook(d->hook_user, call, key) : 0;
}
static inline crash_op *crash_note(crash_disk *d, crash_kind kind, const char *key, int file) {
    crash_op *op;
    d->clock++;
    if (!d->is_recording) return NULL;
    d->ops = (crash_op *)crash_more(d->ops, d->op_count, sizeof *d->ops);
    op = &d->ops[d->op_count++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->key = key ? crash_text(key) : NULL;
    if (kind == CRASH_SYNC_DIRECTORY) op->directory = crash_text(key);
    else if (key) op->directory = crash_directory_of(key);
    op->file = file;
    return op;
}
static inline void crash_add_directory(crash_disk *d, const char *key) {
    d->directories = (char **)crash_more(d->directories, d->directory_count, sizeof *d->directories);
    d->directories[d->directory_count++] = crash_text(key);
}
static inline void crash_make_directory(crash_disk *d, const char *key) {       /* with those above it */
    char *parent;
    if (crash_has_directory(d, key)) return;
    parent = crash_directory_of(key);
    crash_make_directory(d, parent);
    free(parent);
    if (crash_is_dead(d)) return;
    (void)crash_note(d, CRASH_MKDIR, key, -1);
    crash_add_directory(d, key);
}
static inline int crash_add_file(crash_disk *d) {
    crash_file *file;
    d->files = (crash_file *)crash_more(d->files, d->file_count, sizeof *d->files);
    file = &d->files[d->file_count];
    memset(file, 0, sizeof *file);
    file->modified_ns = d->clock;
    file->last_write = -1;
    return d->file_count++;
}
static inline void crash_add_name(crash_disk *d, const char *key, int file) {
    d->names = (crash_name *)crash_more(d->names, d->name_count, sizeof *d->names);
    d->names[d->name_count].key = crash_text(key);
    d->names[d->name_count++].file = file;
}
static inline void crash_drop_name(crash_disk *d, int at) {
    free(d->names[at].key);
    d->names[at] = d->names[--d->name_count];
}
static inline void crash_put(crash_file *file, size_t offset, const void *data, size_t size) {
    if (offset + size > file->capacity) {
        file->capacity = 2 * (offset + size) + 64;
        file->data = (char *)realloc(file->data, file->capacity);
        if (!file->data) abort();
    }
    if (offset > file->size) memset(file->data + file->size, 0, offset - file->size);
    if (size) memcpy(file->data + offset, data, size);
    if (offset + size > file->size) file->size = offset + size;
}
static inline void crash_unlink(crash_disk *d, const char *key) {
    int at = crash_find(d, key);
    if (at < 0 || crash_is_dead(d)) return;
    (void)crash_note(d, CRASH_UNLINK, key, -1);
    crash_drop_name(d, at);
}

/* ---- the storage: writing ---------------------------------------------------------------------------------------- */
static inline crash_object *crash_object_new(int file, const char *path, const char *temporary) {
    crash_object *object = (crash_object *)calloc(1, sizeof *object);
    if (!object) abort();
    object->file = file;
    object->path = crash_text(path);
    object->temporary = crash_text(temporary);
    return object;
}
static inline void crash_object_free(crash_object *object) {
    free(object->path);
    free(object->temporary);
    free(object);
}
static inline dcp_status crash_begin_locked(crash_disk *d, const char *temporary, int *file, dcp_error *err) {
    char *directory = crash_directory_of(temporary);
    if (!crash_is_dead(d)) crash_make_directory(d, directory);
    free(directory);
    if (crash_is_dead(d)) return crash_dead(err);
    if (crash_find(d, temporary) >= 0) return dcpi_fail(err, DCP_E_EXISTS, "\"%s\" is there already", temporary);
    *file = crash_add_file(d);
    (void)crash_note(d, CRASH_CREATE, temporary, *file);
    crash_add_name(d, temporary, *file);
    return DCP_OK;
}
static inline dcp_status crash_begin(void *context, const dcp_begin_request *request, void **out, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    int file = -1;
    dcp_status status;
    (void)crash_tell(d, "begin", request->temporary);
    dcpi_mutex_lock(&d->lock);
    status = crash_begin_locked(d, request->temporary, &file, err);
    dcpi_mutex_unlock(&d->lock);
    if (!status) *out = crash_object_new(file, request->path, request->temporary);
    return status;
}
static inline dcp_status crash_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                                     dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    const int file = ((crash_object *)object)->file;
    dcp_status status = DCP_OK;
    crash_op *op;
    if (size == 0) return DCP_OK;
    dcpi_mutex_lock(&d->lock);
    if (crash_is_dead(d)) status = crash_dead(err);
    else {
        op = crash_note(d, CRASH_WRITE, NULL, file);
        crash_put(&d->files[file], (size_t)offset, data, size);
        d->files[file].modified_ns = d->clock;
        if (op) {
            op->offset = (size_t)offset;
            op->size = size;
            op->data = crash_copy((const char *)data, size);
        }
    }
    dcpi_mutex_unlock(&d->lock);
    return status;
}
static inline dcp_status crash_publish(crash_disk *d, const crash_object *object, int replace, dcp_error *err) {
    int from = crash_find(d, object->temporary), to = crash_find(d, object->path);
    crash_op *op;
    if (crash_is_dead(d)) return crash_dead(err);
    (void)crash_note(d, CRASH_FSYNC, NULL, object->file);
    if (crash_is_dead(d)) return crash_dead(err);
    if (from < 0) return dcpi_fail(err, DCP_E_NOT_FOUND, "\"%s\" is gone", object->temporary);
    if (from == to) return DCP_OK;
    if (to >= 0 && !replace) {
        crash_unlink(d, object->temporary);
        return dcpi_fail(err, DCP_E_EXISTS, "\"%s\" is there already", object->path);
    }
    op = crash_note(d, CRASH_RENAME, object->temporary, object->file);
    if (op) op->to = crash_text(object->path);
    crash_drop_name(d, from);
    to = crash_find(d, object->path);
    if (to >= 0) crash_drop_name(d, to);
    crash_add_name(d, object->path, object->file);
    return DCP_OK;
}
static inline dcp_status crash_commit(void *context, void *object, const dcp_commit_request *request,
                                      dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    dcp_status status;
    dcpi_mutex_lock(&d->lock);
    status = crash_publish(d, (crash_object *)object, request->replace, err);
    dcpi_mutex_unlock(&d->lock);
    crash_object_free((crash_object *)object);
    return status;
}
static inline void crash_abort(void *context, void *object) {
    crash_disk *d = (crash_disk *)context;
    dcpi_mutex_lock(&d->lock);
    crash_unlink(d, ((crash_object *)object)->temporary);
    dcpi_mutex_unlock(&d->lock);
    crash_object_free((crash_object *)object);
}
static inline dcp_status crash_join(void *context, const dcp_begin_request *request, void **out, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    const char *temporary = request->temporary;
    int at;
    dcpi_mutex_lock(&d->lock);
    at = crash_find(d, temporary);
    if (at >= 0) *out = crash_object_new(d->names[at].file, request->path, temporary);
    dcpi_mutex_unlock(&d->lock);
    return at >= 0 ? DCP_OK : dcpi_fail(err, DCP_E_NOT_FOUND, "there is no \"%s\"", temporary);
}
static inline dcp_status crash_leave(void *context, void *object, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    dcp_status status = DCP_OK;
    dcpi_mutex_lock(&d->lock);
    if (crash_is_dead(d)) status = crash_dead(err);
    else (void)crash_note(d, CRASH_FSYNC, NULL, ((crash_object *)object)->file);
    dcpi_mutex_unlock(&d->lock);
    crash_object_free((crash_object *)object);
    return status;
}

/* ---- the storage: reading, names --------------------------------------------------------------------------------- */
static inline dcp_status crash_look(crash_disk *d, const char *path, int *file, dcp_object_info *info, dcp_error *err) {
    int at;
    dcpi_mutex_lock(&d->lock);
    at = crash_find(d, path);
    if (at >= 0) {
        *file = d->names[at].file;
        info->size = (int64_t)d->files[*file].size;
        info->modified_ns = d->files[*file].modified_ns;
    }
    dcpi_mutex_unlock(&d->lock);
    return at >= 0 ? DCP_OK : dcpi_fail(err, DCP_E_NOT_FOUND, "there is no \"%s\"", path);
}
static inline dcp_status crash_open_object(void *context, const char *path, void **out, dcp_object_info *info,
                                           dcp_error *err) {
    int file = -1;
    dcp_status status = crash_look((crash_disk *)context, path, &file, info, err);
    if (!status) *out = crash_object_new(file, path, "");
    return status;
}
static inline dcp_status crash_read(void *context, void *object, int64_t offset, void *data, size_t size,
                                    dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    const crash_file *file;
    dcp_status status = DCP_OK;
    dcpi_mutex_lock(&d->lock);
    file = &d->files[((crash_object *)object)->file];
    if ((uint64_t)offset > file->size || size > file->size - (size_t)offset)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "the file ends too early");
    else if (size) memcpy(data, file->data + offset, size);
    dcpi_mutex_unlock(&d->lock);
    return status;
}
static inline void crash_close_object(void *context, void *object) {
    (void)context;
    crash_object_free((crash_object *)object);
}
static inline dcp_status crash_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    int file;
    return crash_look((crash_disk *)context, path, &file, info, err);
}
/* Copies of the names, so that `each` may use the storage. */
static inline char **crash_list_names(crash_disk *d, const char *directory, dcp_list_kind what, int *count) {
    char **list = NULL;
    int i;
    *count = 0;
    dcpi_mutex_lock(&d->lock);
    for (i = 0; i < (what ? d->directory_count : d->name_count); i++) {
        const char *key = what ? d->directories[i] : d->names[i].key;
        if (!dcpi_is_directly_in(key, directory)) continue;
        list = (char **)crash_more(list, *count, sizeof *list);
        list[(*count)++] = crash_text(key);
    }
    dcpi_mutex_unlock(&d->lock);
    return list;
}
static inline dcp_status crash_list(void *context, const char *directory, dcp_list_kind what, dcpi_storage_each each,
                                    void *user, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    dcp_status status = DCP_OK;
    dcp_object_info info = DCP_ZERO;
    int i, count = 0, file;
    char **list;
    if (what == DCP_LIST_OBJECTS) (void)crash_tell(d, "list", directory);
    if (what == DCP_LIST_LINKS) return DCP_OK;
    if (!crash_has_directory(d, directory))
        return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no directory \"%s\"", directory);
    list = crash_list_names(d, directory, what, &count);
    for (i = 0; i < count; i++) {
        if (!status && what) status = each(user, list[i], NULL);
        else if (!status && crash_look(d, list[i], &file, &info, NULL) == DCP_OK) status = each(user, list[i], &info);
        free(list[i]);
    }
    free(list);
    return status;
}
static inline dcp_status crash_remove(void *context, const char *path, const char *token, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    int dead;
    (void)token;
    (void)crash_tell(d, "remove", path);
    dcpi_mutex_lock(&d->lock);
    dead = crash_is_dead(d);
    crash_unlink(d, path);
    dcpi_mutex_unlock(&d->lock);
    return dead ? crash_dead(err) : DCP_OK;
}
static inline dcp_status crash_sync_directory(void *context, const char *directory, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    dcp_status status = DCP_OK;
    if (crash_tell(d, "sync_directory", directory))
        return dcpi_fail_sys(err, DCP_E_IO, EIO, "the directory could not be synced");
    dcpi_mutex_lock(&d->lock);
    if (!crash_is_dead(d)) crash_make_directory(d, directory);
    if (crash_is_dead(d)) status = crash_dead(err);
    else (void)crash_note(d, CRASH_SYNC_DIRECTORY, directory, -1);
    dcpi_mutex_unlock(&d->lock);
    return status;
}
/* ---- locks ------------------------------------------------------------------------------------------------------- */
/* The text is as the local storage's. */
static inline void crash_lock_read(const crash_file *file, char *note) {
    const size_t words = sizeof dcpi_lock_words - 1 + 2;
    size_t i;
    if (file->size != DCPI_LOCK_TEXT || memcmp(file->data, dcpi_lock_words, words - 2) != 0) return;
    for (i = 0; i + 1 < DCP_LOCK_NOTE && file->data[words + i] != '\n'; i++) note[i] = file->data[words + i];
    note[i] = '\0';
}
static inline dcp_status crash_lock_take(void *context, const char *path, uint64_t *holder, char *note, void **out,
                                         dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    crash_lock *lock, *other;
    dcp_status status = DCP_OK;
    int at, file = -1;
    *holder = 0;
    dcpi_mutex_lock(&d->lock);
    for (other = d->locks; other && strcmp(other->path, path) != 0; ) other = other->next;
    if (other) status = DCP_PENDING;
    else if (crash_find(d, path) < 0) status = crash_begin_locked(d, path, &file, err);
    if (!status && file < 0) {
        at = crash_find(d, path);
        file = d->names[at].file;
        crash_lock_read(&d->files[file], note);
    }
    if (!status) {
        lock = (crash_lock *)calloc(1, sizeof *lock);
        if (!lock) abort();
        lock->path = crash_text(path);
        lock->has_noted = note[0] == '\0';
        lock->next = d->locks;
        d->locks = lock;
        *out = lock;
    }
    dcpi_mutex_unlock(&d->lock);
    return status;
}
static inline dcp_status crash_lock_note(void *context, void *lock_, const char *note, dcp_error *err) {
    crash_disk *d = (crash_disk *)context;
    crash_lock *lock = (crash_lock *)lock_;
    dcp_status status = DCP_OK;
    char text[DCPI_LOCK_TEXT + 1];
    crash_op *op;
    int at;
    memset(text, '\n', sizeof text);
    at = snprintf(text, sizeof text, "%s1\n%s\n", dcpi_lock_words, note);
    text[at] = '\n';
    dcpi_mutex_lock(&d->lock);
    at = crash_find(d, lock->path);
    if (crash_is_dead(d)) status = crash_dead(err);
    else if (at < 0) status = dcpi_fail(err, DCP_E_EXISTS, "\"%s\" was taken over", lock->path);
    else {
        op = crash_note(d, CRASH_WRITE, NULL, d->names[at].file);
        crash_put(&d->files[d->names[at].file], 0, text, DCPI_LOCK_TEXT);
        lock->has_noted = 1;
        if (op) {
            op->size = DCPI_LOCK_TEXT;
            op->data = crash_copy(text, DCPI_LOCK_TEXT);
        }
    }
    dcpi_mutex_unlock(&d->lock);
    return status;
}
static inline void crash_unlock(void *context, void *lock_) {
    crash_disk *d = (crash_disk *)context;
    crash_lock *lock = (crash_lock *)lock_, **at;
    dcpi_mutex_lock(&d->lock);
    if (lock->has_noted) crash_unlink(d, lock->path);
    for (at = &d->locks; *at != lock; ) at = &(*at)->next;
    *at = lock->next;
    dcpi_mutex_unlock(&d->lock);
    free(lock->path);
    free(lock);
}
static inline dcp_status crash_space(void *context, const char *directory, int64_t *bytes_free, dcp_error *err) {
    (void)context; (void)directory; (void)err;
    *bytes_free = (int64_t)1 << 40;
    return DCP_OK;
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */
static inline void crash_open(crash_disk *d) {
    dcp_storage *s = &d->storage;
    memset(d, 0, sizeof *d);
    if (dcpi_mutex_init(&d->lock) != 0) abort();
    d->is_recording = 1;
    s->context = d;
    s->flags = DCP_STORAGE_SHARED_POSITIONAL_WRITE | DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_CONCURRENT_WRITE |
               DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH | DCP_STORAGE_SYNC |
               DCP_STORAGE_SYNC_DIRECTORY | DCP_STORAGE_COMMIT_LOCK;
    s->lock = crash_lock_take; s->lock_note = crash_lock_note; s->unlock = crash_unlock;
    s->begin = crash_begin; s->write = crash_write; s->commit = crash_commit; s->abort = crash_abort;
    s->join = crash_join; s->leave = crash_leave;
    s->open = crash_open_object; s->read = crash_read; s->close = crash_close_object;
    s->stat = crash_stat; s->list = crash_list;
    s->remove = crash_remove; s->sync_directory = crash_sync_directory; s->space = crash_space;
}
static inline void crash_forget(crash_disk *d) {        /* the log, and what was there when it began */
    int i;
    for (i = 0; i < d->op_count; i++) {
        free(d->ops[i].key);
        free(d->ops[i].to);
        free(d->ops[i].directory);
        free(d->ops[i].data);
    }
    for (i = 0; i < d->base_name_count; i++) free(d->base_names[i].key);
    for (i = 0; i < d->file_count; i++) free(d->files[i].base);
    free(d->base_names);
    d->base_names = NULL;
    d->op_count = d->base_name_count = 0;
}
/* All that is there now is durable, and the log begins anew. Whoever was dead is not. */
static inline void crash_settle(crash_disk *d) {
    int i;
    crash_forget(d);
    for (i = 0; i < d->file_count; i++) {
        d->files[i].base = crash_copy(d->files[i].data, d->files[i].size);
        d->files[i].base_size = d->files[i].size;
    }
    for (i = 0; i < d->name_count; i++) {
        d->base_names = (crash_name *)crash_more(d->base_names, i, sizeof *d->base_names);
        d->base_names[i].key = crash_text(d->names[i].key);
        d->base_names[i].file = d->names[i].file;
    }
    d->base_name_count = d->name_count;
    d->base_directory_count = d->directory_count;
    d->dies_at = 0;
    d->is_recording = 1;
}
static inline void crash_close(crash_disk *d) {
    int i;
    crash_forget(d);
    for (i = 0; i < d->file_count; i++) free(d->files[i].data);
    for (i = 0; i < d->name_count; i++) free(d->names[i].key);
    for (i = 0; i < d->directory_count; i++) free(d->directories[i]);
    free(d->files);
    free(d->names);
    free(d->directories);
    free(d->ops);
    dcpi_mutex_destroy(&d->lock);
}

/* ---- what a cut leaves ------------------------------------------------------------------------------------------- */
typedef struct crash_left { const char *key, *data; size_t size; uint64_t hash; } crash_left;
typedef struct crash_state {
    crash_left *left; int count;                        /* files */
    const char **directories; int directory_count;
    uint64_t hash;                                      /* of all names and bytes, whatever their order */
    const crash_disk *disk;
    int index;                                          /* operations before the cut */
    int pending[CRASH_PENDING], pending_count;
    uint64_t chosen;                                    /* of those */
    int fill, torn; size_t torn_at;                     /* torn: an operation; -1: none */
    char *applied;                      /* for each operation before the cut: it is left, or has no effect of its own */
    char *arena; size_t used;
} crash_state;
typedef dcp_status (*crash_each)(void *user, const crash_state *state); /* anything but DCP_OK ends the search */
typedef struct crash_search {
    uint64_t (*expectation)(void *user, int index);     /* NULL: the same everywhere */
    uint64_t seed;
    int exhaustive, samples;                            /* 0: CRASH_EXHAUSTIVE and CRASH_SAMPLES */
    /* hashes of states and expectations; freed by crash_search_end */
    uint64_t *seen; size_t seen_count, seen_capacity;
    int64_t states[CRASH_MODELS];            /* out: in each model; those of a stricter one are in the wider ones too */
    int64_t enumerated, checked;                        /* out: subsets looked at; different states */
} crash_search;

static inline uint64_t crash_mix(uint64_t h) {
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
}
static inline uint64_t crash_hash(const char *bytes, size_t size, uint64_t seed) {
    uint64_t h = crash_mix(seed + size), word;
    size_t i;
    for (i = 0; i + 8 <= size; i += 8) {
        memcpy(&word, bytes + i, 8);
        h = (h ^ word) * 0x9fb21c651e98df25u;
        h ^= h >> 29;
    }
    for (; i < size; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return crash_mix(h);
}
static inline uint64_t crash_random(crash_search *s) {
    s->seed += 0x9e3779b97f4a7c15u;
    return crash_mix(s->seed);
}
static inline int crash_is_entry(const crash_op *op) {
    return op->kind == CRASH_CREATE || op->kind == CRASH_RENAME || op->kind == CRASH_UNLINK || op->kind == CRASH_MKDIR;
}
static inline int crash_settles(const crash_op *later, const crash_op *op) {
    if (op->kind == CRASH_WRITE) return later->kind == CRASH_FSYNC && later->file == op->file;
    return crash_is_entry(op) && later->kind == CRASH_SYNC_DIRECTORY && strcmp(later->directory, op->directory) == 0;
}
static inline void crash_prepare(crash_disk *d) {
    int i, j;
    for (i = 0; i < d->file_count; i++) {
        d->files[i].last_write = -1;
        d->files[i].synced = -1;
        d->files[i].hash = crash_hash(d->files[i].data, d->files[i].size, 1);
    }
    for (i = 0; i < d->op_count; i++) {
        d->ops[i].settled = INT_MAX;
        for (j = i + 1; j < d->op_count && d->ops[i].settled == INT_MAX; j++)
            if (crash_settles(&d->ops[j], &d->ops[i])) d->ops[i].settled = j;
        if (d->ops[i].kind != CRASH_WRITE) continue;
        d->files[d->ops[i].file].last_write = i;
        d->files[d->ops[i].file].synced = d->ops[i].settled;
    }
}
/* Whether operation i is left on the disk, wholly. */
static inline int crash_is_left(const crash_state *s, int i) { return s->applied[i]; }
static inline void crash_apply(crash_state *s) {
    int i;
    for (i = 0; i < s->index; i++) s->applied[i] = 1;
    for (i = 0; i < s->pending_count; i++) s->applied[s->pending[i]] = (char)(s->chosen >> i & 1);
}
static inline void crash_set_name(crash_state *s, const char *key, int file) {  /* file -1: it goes */
    int i;
    for (i = 0; i < s->count && strcmp(s->left[i].key, key) != 0; i++) continue;
    if (file < 0) {
        if (i < s->count) s->left[i] = s->left[--s->count];
        return;
    }
    if (i == s->count) s->left = (crash_left *)crash_more(s->left, s->count++, sizeof *s->left);
    s->left[i].key = key;
    s->left[i].size = (size_t)file;                     /* its bytes come later */
}
static inline void crash_set_names(crash_state *s) {
    const crash_disk *d = s->disk;
    int i;
    s->count = 0;
    for (i = 0; i < d->base_name_count; i++) crash_set_name(s, d->base_names[i].key, d->base_names[i].file);
    for (i = 0; i < s->index; i++) {
        const crash_op *op = &d->ops[i];
        if (!crash_is_entry(op) || op->kind == CRASH_MKDIR || !crash_is_left(s, i)) continue;
        if (op->kind != CRASH_CREATE) crash_set_name(s, op->key, -1);
        if (op->kind == CRASH_CREATE) crash_set_name(s, op->key, op->file);
        if (op->kind == CRASH_RENAME) crash_set_name(s, op->to, op->file);
    }
}
static inline int crash_is_reachable(const crash_state *s, const char *key) {
    const char *slash = strrchr(key, '/');
    int i;
    if (!slash) return 1;
    for (i = 0; i < s->directory_count; i++)
        if (strlen(s->directories[i]) == (size_t)(slash - key) &&
            strncmp(s->directories[i], key, (size_t)(slash - key)) == 0) return 1;
    return 0;
}
static inline void crash_set_directories(crash_state *s) {
    const crash_disk *d = s->disk;
    int i;
    s->directory_count = 0;
    for (i = 0; i < d->base_directory_count; i++) {
        s->directories = (const char **)crash_more((void *)s->directories, s->directory_count, sizeof *s->directories);
        s->directories[s->directory_count++] = d->directories[i];
    }
    for (i = 0; i < s->index; i++) {
        if (d->ops[i].kind != CRASH_MKDIR || !crash_is_left(s, i) || !crash_is_reachable(s, d->ops[i].key)) continue;
        s->directories = (const char **)crash_more((void *)s->directories, s->directory_count, sizeof *s->directories);
        s->directories[s->directory_count++] = d->ops[i].key;
    }
}
/* Bytes of another file, as they may stand in blocks that were its own. */
static inline void crash_garbage(const crash_disk *d, int file, char *to, size_t offset, size_t size) {
    const crash_file *other = &d->files[file == 0 && d->file_count > 1 ? 1 : 0];
    size_t i;
    for (i = 0; i < size; i++)
        to[i] = other->size && other != &d->files[file] ? other->data[(offset + i) % other->size] : (char)(0xA5 + i);
}
static inline void crash_replay(const crash_state *s, int i, char *data, size_t *size) {
    const crash_op *op = &s->disk->ops[i];
    size_t kept = crash_is_left(s, i) ? op->size : 0, end = op->offset + op->size;
    if (i == s->torn && s->torn_at < kept) kept = s->torn_at;
    if (kept < op->size && s->fill == CRASH_SHORT) end = op->offset + kept;
    if (end <= op->offset) return;
    if (op->offset > *size) memset(data + *size, 0, op->offset - *size);
    memcpy(data + op->offset, op->data, kept);
    if (end - op->offset > kept && s->fill == CRASH_ZEROS) memset(data + op->offset + kept, 0, end - op->offset - kept);
    if (end - op->offset > kept && s->fill == CRASH_GARBAGE)
        crash_garbage(s->disk, op->file, data + op->offset + kept, op->offset + kept, end - op->offset - kept);
    if (end > *size) *size = end;
}
static inline void crash_set_bytes(crash_state *s, crash_left *left, int file) {
    const crash_file *f = &s->disk->files[file];
    size_t most = f->size > f->base_size ? f->size : f->base_size, size = f->base_size;
    char *data = s->arena + s->used;
    int i;
    if (f->last_write < 0 || (f->last_write < s->index && f->synced < s->index)) {     /* as it is now */
        left->data = f->data;
        left->size = f->size;
        left->hash = f->hash;
        return;
    }
    if (most > CRASH_ARENA - s->used) abort();
    s->used += most;
    if (size) memcpy(data, f->base, size);
    for (i = 0; i < s->index; i++)
        if (s->disk->ops[i].kind == CRASH_WRITE && s->disk->ops[i].file == file) crash_replay(s, i, data, &size);
    left->data = data;
    left->size = size;
    left->hash = crash_hash(data, size, 1);
}
static inline void crash_build(crash_state *s) {
    int i;
    s->used = 0;
    s->hash = 0;
    crash_apply(s);
    crash_set_names(s);
    crash_set_directories(s);
    for (i = 0; i < s->count; i++) {
        if (!crash_is_reachable(s, s->left[i].key)) { s->left[i--] = s->left[--s->count]; continue; }
        crash_set_bytes(s, &s->left[i], (int)s->left[i].size);
        s->hash += crash_mix(s->left[i].hash ^ crash_hash(s->left[i].key, strlen(s->left[i].key), 2));
    }
    for (i = 0; i < s->directory_count; i++) s->hash += crash_hash(s->directories[i], strlen(s->directories[i]), 3);
}
/* A disk that holds the state, all of it durable. */
static inline void crash_materialise(const crash_state *s, crash_disk *d) {
    int i;
    crash_open(d);
    for (i = 0; i < s->directory_count; i++) crash_add_directory(d, s->directories[i]);
    for (i = 0; i < s->count; i++) {
        int file = crash_add_file(d);
        crash_put(&d->files[file], 0, s->left[i].data, s->left[i].size);
        d->files[file].modified_ns = ++d->clock;
        crash_add_name(d, s->left[i].key, file);
    }
    d->is_recording = 0;
}
static inline void crash_describe(const crash_state *s) {
    static const char *const kinds[] = { "create", "write", "fsync", "rename", "unlink", "mkdir", "sync" },
                                       *const fills[] = { "short", "zeros", "garbage" };
    int i;
    printf("    the disk after %d of %d operations; lost writes leave: %s\n", s->index, s->disk->op_count,
           fills[s->fill]);
    for (i = 0; i < s->disk->op_count; i++) {
        const crash_op *op = &s->disk->ops[i];
        const int is_effect = crash_is_entry(op) || op->kind == CRASH_WRITE;
        const char *fate = i >= s->index ? "not done" : !is_effect ? "" : op->settled < s->index ? "durable"
                           : crash_is_left(s, i) ? "left" : "LOST";
        printf("    %3d %-8s %-6s file %d %s %s", i, fate, kinds[op->kind], op->file, op->key ? op->key : "",
               op->to ? op->to : "");
        if (op->kind == CRASH_WRITE) printf("%lu+%lu", (unsigned long)op->offset, (unsigned long)op->size);
        printf(i == s->torn ? " (torn at %lu)\n" : "\n", (unsigned long)s->torn_at);
    }
    for (i = 0; i < s->count; i++) printf("    left: %s (%lu bytes)\n", s->left[i].key, (unsigned long)s->left[i].size);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */
static inline int crash_is_new(crash_search *s, uint64_t hash) {
    size_t at;
    if (2 * (s->seen_count + 1) > s->seen_capacity) {
        uint64_t *old = s->seen;
        size_t i, count = s->seen_capacity;
        s->seen_capacity = count ? 2 * count : 1024;
        s->seen = (uint64_t *)calloc(s->seen_capacity, sizeof *s->seen);
        if (!s->seen) abort();
        s->seen_count = 0;
        for (i = 0; i < count; i++) if (old[i]) (void)crash_is_new(s, old[i]);
        free(old);
    }
    if (hash == 0) hash = 1;
    for (at = (size_t)hash & (s->seen_capacity - 1); s->seen[at]; at = (at + 1) & (s->seen_capacity - 1))
        if (s->seen[at] == hash) return 0;
    s->seen[at] = hash;
    s->seen_count++;
    return 1;
}
static inline void crash_search_end(crash_search *s) {
    free(s->seen);
    s->seen = NULL;
    s->seen_count = s->seen_capacity = 0;
}
/* The strictest model in which the state is possible. */
static inline int crash_model(const crash_state *s) {
    const crash_disk *d = s->disk;
    int p, j, model = CRASH_EXT4;
    for (p = 0; p < s->pending_count; p++) {
        const int i = s->pending[p];
        if (crash_is_left(s, i) && i != s->torn) continue;
        for (j = i + 1; j < s->index; j++) {
            if (!crash_is_entry(&d->ops[j]) || !crash_is_left(s, j)) continue;
            if (crash_is_entry(&d->ops[i])) return CRASH_ANY;
            if (d->ops[i].kind == CRASH_WRITE && d->ops[j].kind == CRASH_RENAME && d->ops[j].file == d->ops[i].file)
                model = CRASH_ORDERED;
        }
    }
    return model;
}
static inline dcp_status crash_try(crash_search *search, crash_state *s, crash_each each, void *user) {
    uint64_t hash;
    int m, model;
    search->enumerated++;
    crash_build(s);
    hash = s->hash ^ crash_mix(search->expectation ? search->expectation(user, s->index) : 0);
    model = crash_model(s);
    for (m = CRASH_ORDERED; m <= model; m++)
        if (crash_is_new(search, crash_mix(hash + (uint64_t)m))) search->states[m]++;
    if (!crash_is_new(search, hash)) return DCP_OK;
    search->states[CRASH_ANY]++;
    search->checked++;
    return each(user, s);
}
/* One subset, with what may stand where a write was lost, and with one write torn. */
static inline dcp_status crash_try_subset(crash_search *search, crash_state *s, crash_each each, void *user) {
    const int all_fills = s->pending_count <= CRASH_ALL_FILLS;
    int p, lost = 0, writes = 0, fill;
    dcp_status status;
    for (p = 0; p < s->pending_count; p++) {
        if (s->disk->ops[s->pending[p]].kind != CRASH_WRITE) continue;
        writes++;
        if (!(s->chosen >> p & 1)) lost++;
    }
    s->torn = -1;
    s->fill = lost && !all_fills ? (int)(crash_random(search) % CRASH_FILLS) : CRASH_SHORT;
    status = crash_try(search, s, each, user);
    for (fill = CRASH_ZEROS; fill < CRASH_FILLS && lost && all_fills && !status; fill++) {
        s->fill = fill;
        status = crash_try(search, s, each, user);
    }
    for (p = 0; p < s->pending_count && writes > lost && !status; p++) {
        const crash_op *op = &s->disk->ops[s->pending[p]];
        if (op->kind != CRASH_WRITE || !(s->chosen >> p & 1) || (!all_fills && crash_random(search) % 4)) continue;
        s->torn = s->pending[p];
        s->torn_at = CRASH_SECTOR * (size_t)(crash_random(search) % (op->size / CRASH_SECTOR + 1));
        s->fill = (int)(crash_random(search) % CRASH_FILLS);
        status = crash_try(search, s, each, user);
    }
    return status;
}
/* A subset of many, as one of the models has it. */
static inline uint64_t crash_sample(crash_search *search, const crash_state *s, int model) {
    uint64_t chosen = crash_random(search);
    const int end = (int)(crash_random(search) % (uint64_t)(s->pending_count + 1));
    int p, q;
    if (model == CRASH_ANY)
        return crash_random(search) % 2 ? chosen : crash_random(search) % 2
               ? chosen | crash_random(search) : chosen & crash_random(search);
    for (p = 0; p < s->pending_count; p++) {
        if (!crash_is_entry(&s->disk->ops[s->pending[p]])) continue;
        chosen = p < end ? chosen | (uint64_t)1 << p : chosen & ~((uint64_t)1 << p);
    }
    for (p = 0; p < end && model == CRASH_EXT4; p++)
        for (q = 0; q < p && s->disk->ops[s->pending[p]].kind == CRASH_RENAME; q++)
            if (s->disk->ops[s->pending[q]].file == s->disk->ops[s->pending[p]].file) chosen |= (uint64_t)1 << q;
    return chosen;
}
static inline dcp_status crash_search_at(crash_search *search, crash_state *s, crash_each each, void *user) {
    const crash_disk *d = s->disk;
    dcp_status status = DCP_OK;
    uint64_t subset;
    int i, model;
    s->pending_count = 0;
    for (i = 0; i < s->index; i++) {
        if ((!crash_is_entry(&d->ops[i]) && d->ops[i].kind != CRASH_WRITE) || d->ops[i].settled < s->index) continue;
        if (s->pending_count == CRASH_PENDING) abort();
        s->pending[s->pending_count++] = i;
    }
    if (s->pending_count <= (search->exhaustive ? search->exhaustive : CRASH_EXHAUSTIVE)) {
        for (subset = 0; subset < (uint64_t)1 << s->pending_count && !status; subset++) {
            s->chosen = subset;
            status = crash_try_subset(search, s, each, user);
        }
        return status;
    }
    for (model = 0; model < CRASH_MODELS; model++) {
        for (i = 0; i < (search->samples ? search->samples : CRASH_SAMPLES) && !status; i++) {
            s->chosen = i == 0 ? 0 : i == 1 ? ~(uint64_t)0 : crash_sample(search, s, model);
            status = crash_try_subset(search, s, each, user);
        }
    }
    return status;
}
/* The states after each number of operations, from none to all. */
static inline dcp_status crash_enumerate(crash_disk *d, crash_search *search, crash_each each, void *user) {
    crash_state s;
    dcp_status status = DCP_OK;
    memset(&s, 0, sizeof s);
    crash_prepare(d);
    s.disk = d;
    s.arena = (char *)malloc(CRASH_ARENA);
    s.applied = (char *)malloc((size_t)d->op_count + 1);
    if (!s.arena || !s.applied) abort();
    for (s.index = 0; s.index <= d->op_count && !status; s.index++) status = crash_search_at(search, &s, each, user);
    free(s.arena);
    free(s.applied);
    free(s.left);
    free((void *)s.directories);
    return status;
}

#endif
