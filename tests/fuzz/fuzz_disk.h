/* fuzz_disk.h - a storage in memory whose files come from an input, and an input made of such files again. Behind
 * fuzz.h.
 *
 *     files      one byte, their number (at most DISK_FILES / 2)
 *     file       one byte, length of its name; the name; one byte, number of its runs
 *     run        two bytes, length of its bytes (little-endian); the bytes; one byte, so many times 64 zeros
 *
 * What an input lacks at its end is empty. The storage checks the keys that it is asked for: none may leave the base.
 * */
#ifndef DCP_FUZZ_DISK_H
#define DCP_FUZZ_DISK_H

#define DISK_FILES 12
#define DISK_NAME 300
#define DISK_BYTES 131072               /* of all files at first */

typedef struct disk_file {
    char name[DISK_NAME];
    uint8_t *data; size_t size, capacity;
    int is_used, users, is_doomed;
    int64_t modified_ns;
} disk_file;
typedef struct disk { disk_file files[DISK_FILES]; dcp_storage storage; int64_t clock; } disk;
typedef struct disk_object { disk_file *file; char path[DISK_NAME]; } disk_object;

static inline disk_file *disk_find(disk *d, const char *name) {
    size_t i;
    for (i = 0; i < DISK_FILES; i++)
        if (d->files[i].is_used && !d->files[i].is_doomed && strcmp(d->files[i].name, name) == 0) return &d->files[i];
    return NULL;
}
static inline disk_file *disk_add(disk *d, const char *name) {  /* NULL: no room */
    size_t i;
    for (i = 0; i < DISK_FILES && d->files[i].is_used; i++) {}
    if (i == DISK_FILES || strlen(name) >= DISK_NAME) return NULL;
    memset(&d->files[i], 0, sizeof d->files[i]);
    (void)strcpy(d->files[i].name, name);
    d->files[i].is_used = 1;
    d->files[i].modified_ns = d->clock += 1000;
    return &d->files[i];
}
/* Room of exactly so many bytes, for a sanitizer to see one beyond. */
static inline void disk_resize(disk_file *file, size_t size) {
    file->data = (uint8_t *)realloc(file->data, size ? size : 1);
    if (!file->data) abort();
    if (size > file->size) memset(file->data + file->size, 0, size - file->size);
    file->size = size;
}
static inline void disk_drop(disk_file *file) {         /* whoever has it open may go on reading */
    file->is_doomed = 1;
    if (file->users > 0) return;
    free(file->data);
    memset(file, 0, sizeof *file);
}

/* ---- an input as files, and back --------------------------------------------------------------------------------- */
typedef struct disk_input { const uint8_t *at, *end; } disk_input;

static inline size_t disk_byte(disk_input *in) { return in->at < in->end ? *in->at++ : 0; }
static inline size_t disk_length(disk_input *in, size_t length) {
    return length < (size_t)(in->end - in->at) ? length : (size_t)(in->end - in->at);
}
static inline void disk_read_file(disk *d, disk_input *in, size_t *left) {
    char name[DISK_NAME];
    size_t length = disk_length(in, disk_byte(in)), runs, n, zeros;
    disk_file *file;
    if (length) memcpy(name, in->at, length);
    name[length] = '\0';
    in->at += length;
    runs = disk_byte(in);
    file = dcpi_key_is_valid(name) && !disk_find(d, name) ? disk_add(d, name) : NULL;   /* others cannot be on a disk */
    for (; runs > 0; runs--) {
        n = disk_byte(in);
        n = disk_length(in, n | disk_byte(in) << 8);
        if (file && n <= *left) {
            size_t before = file->size;
            disk_resize(file, before + n);
            if (n) memcpy(file->data + before, in->at, n);
            *left -= n;
        }
        in->at += n;
        zeros = 64 * disk_byte(in);
        if (file && zeros <= *left) { disk_resize(file, file->size + zeros); *left -= zeros; }
    }
}
static inline void disk_read_files(disk *d, const uint8_t *data, size_t size) {
    disk_input in = {data, data + size};
    size_t count = disk_byte(&in), left = DISK_BYTES;
    memset(d, 0, sizeof *d);
    d->clock = 1;
    for (count = count < DISK_FILES / 2 ? count : DISK_FILES / 2; count > 0; count--) disk_read_file(d, &in, &left);
}
static inline void disk_write_run(fuzz_text *to, const uint8_t *data, size_t length, size_t zeros) {
    uint8_t head[2], tail = (uint8_t)(zeros / 64);
    dcp_error err;
    head[0] = (uint8_t)length;
    head[1] = (uint8_t)(length >> 8);
    (void)fuzz_text_sink(to, head, 2, &err);
    (void)fuzz_text_sink(to, data, length, &err);
    (void)fuzz_text_sink(to, &tail, 1, &err);
}
static inline size_t disk_runs(const disk_file *file, fuzz_text *to) {  /* returns their number; to NULL: only that */
    size_t at = 0, runs = 0, end, zeros;
    while (at < file->size && runs < 255) {
        for (end = at, zeros = 0; end + zeros < file->size && end - at < 60000;) {
            if (file->data[end + zeros] == 0) { zeros++; continue; }
            if (zeros >= 64) break;
            end += zeros + 1;
            zeros = 0;
        }
        zeros = zeros > 255 * 64 ? 255 * 64 : zeros / 64 * 64;
        if (zeros == 0) end = file->size - at < 60000 ? file->size : at + 60000;
        if (to) disk_write_run(to, file->data + at, end - at, zeros);
        at = end + zeros;
        runs++;
    }
    return runs;
}
/* too long: as it was */
static inline size_t disk_write_files(const disk *d, uint8_t *data, size_t size, size_t capacity) {
    static uint8_t made[FUZZ_MOST];
    fuzz_text to = {made, 0, sizeof made};
    uint8_t count = 0, length, runs;
    dcp_error err;
    size_t i;
    for (i = 0; i < DISK_FILES; i++) count = (uint8_t)(count + (d->files[i].is_used != 0));
    (void)fuzz_text_sink(&to, &count, 1, &err);
    for (i = 0; i < DISK_FILES; i++) {
        const disk_file *file = &d->files[i];
        if (!file->is_used) continue;
        length = (uint8_t)strlen(file->name);
        runs = (uint8_t)disk_runs(file, NULL);
        (void)fuzz_text_sink(&to, &length, 1, &err);
        (void)fuzz_text_sink(&to, file->name, length, &err);
        (void)fuzz_text_sink(&to, &runs, 1, &err);
        (void)disk_runs(file, &to);
    }
    if (to.size > capacity || to.size > sizeof made) return size;
    memcpy(data, made, to.size);
    return to.size;
}

/* ---- the storage ------------------------------------------------------------------------------------------------- */
/* the wrappers have checked it; here once more, in another way */
static inline void disk_key(const char *key) {
    const char *part = key;
    for (;; part++) {
        const size_t n = strcspn(part, "/");
        FUZZ_CHECK(n > 0 && !(n == 1 && part[0] == '.') && !(n == 2 && part[0] == '.' && part[1] == '.'));
        part += n;
        if (*part == '\0') return;
    }
}
static inline disk_object *disk_object_new(disk_file *file, const char *path) {
    disk_object *object = (disk_object *)calloc(1, sizeof *object);
    if (!object) abort();
    object->file = file;
    file->users++;
    (void)snprintf(object->path, sizeof object->path, "%s", path);
    return object;
}
static inline void disk_close(void *context, void *object) {
    disk_file *file = ((disk_object *)object)->file;
    (void)context;
    file->users--;
    if (file->is_doomed) disk_drop(file);
    free(object);
}
static inline dcp_status disk_begin(void *context, const dcp_begin_request *request, void **object, dcp_error *err) {
    disk *d = (disk *)context;
    const char *path = request->path, *temporary = request->temporary;
    disk_file *file;
    disk_key(path);
    disk_key(temporary);
    if (disk_find(d, temporary)) return dcpi_fail(err, DCP_E_EXISTS, "\"%s\" is there", temporary);
    if (strlen(path) >= DISK_NAME || (file = disk_add(d, temporary)) == NULL)
        return dcpi_fail(err, DCP_E_SPACE, "no room for \"%s\"", temporary);
    *object = disk_object_new(file, path);
    return DCP_OK;
}
static inline dcp_status disk_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                                    dcp_error *err) {
    disk_file *file = ((disk_object *)object)->file;
    (void)context;
    if (offset < 0 || offset > DISK_BYTES || size > DISK_BYTES) return dcpi_fail(err, DCP_E_SPACE, "no room");
    if ((size_t)offset + size > file->size) disk_resize(file, (size_t)offset + size);
    if (size) memcpy(file->data + offset, data, size);
    return DCP_OK;
}
static inline void disk_abort(void *context, void *object) {
    disk_file *file = ((disk_object *)object)->file;
    disk_drop(file);
    disk_close(context, object);
}
static inline dcp_status disk_commit(void *context, void *object, const dcp_commit_request *request,
                                     dcp_error *err) {
    disk *d = (disk *)context;
    disk_object *o = (disk_object *)object;
    disk_file *old = disk_find(d, o->path);
    if (old && old != o->file && !request->replace) {
        disk_abort(context, object);
        return dcpi_fail(err, DCP_E_EXISTS, "there is such an object already");
    }
    if (old && old != o->file) disk_drop(old);
    (void)strcpy(o->file->name, o->path);
    disk_close(context, object);
    return DCP_OK;
}
static inline dcp_status disk_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    const disk_file *file = disk_find((disk *)context, path);
    disk_key(path);
    if (!file) return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no \"%s\"", path);
    info->size = (int64_t)file->size;
    info->modified_ns = file->modified_ns;
    return DCP_OK;
}
static inline dcp_status disk_open(void *context, const char *path, void **object, dcp_object_info *info,
                                   dcp_error *err) {
    const dcp_status status = disk_stat(context, path, info, err);
    if (!status) *object = disk_object_new(disk_find((disk *)context, path), path);
    return status;
}
static inline dcp_status disk_read(void *context, void *object, int64_t offset, void *data, size_t size,
                                   dcp_error *err) {
    const disk_file *file = ((disk_object *)object)->file;
    (void)context;
    FUZZ_CHECK(offset >= 0);
    if ((uint64_t)offset > file->size || size > file->size - (size_t)offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the file ends too early");
    if (size) memcpy(data, file->data + offset, size);
    return DCP_OK;
}
static inline dcp_status disk_map(void *context, void *object, const void **data, dcp_error *err) {
    (void)context;
    (void)err;
    *data = ((disk_object *)object)->file->data;
    return DCP_OK;
}
static inline dcp_status disk_list_directories(void *context, const char *directory, dcpi_storage_each each, void *user,
                                               dcp_error *err);
static inline dcp_status disk_list(void *context, const char *directory, dcp_list_kind what, dcpi_storage_each each,
                                   void *user, dcp_error *err) {
    disk *d = (disk *)context;
    dcp_status status = DCP_OK;
    dcp_object_info info = DCP_ZERO;
    char name[DISK_NAME];
    size_t i;
    if (what == DCP_LIST_LINKS) return DCP_OK;
    if (what == DCP_LIST_DIRECTORIES) return disk_list_directories(context, directory, each, user, err);
    for (i = 0; i < DISK_FILES && !status; i++) {
        if (!d->files[i].is_used || d->files[i].is_doomed || !dcpi_is_directly_in(d->files[i].name, directory))
            continue;
        info.size = (int64_t)d->files[i].size;
        info.modified_ns = d->files[i].modified_ns;
        (void)strcpy(name, d->files[i].name);
        status = each(user, name, &info);
    }
    return status;
}
static inline dcp_status disk_list_directories(void *context, const char *directory, dcpi_storage_each each, void *user,
                                               dcp_error *err) {
    disk *d = (disk *)context;
    const size_t skip = directory[0] ? strlen(directory) + 1 : 0;
    char names[DISK_FILES][DISK_NAME];
    size_t count = 0, i, k;
    dcp_status status = DCP_OK;
    (void)err;
    for (i = 0; i < DISK_FILES; i++) {
        const char *name = d->files[i].name;
        const char *slash = d->files[i].is_used && strlen(name) > skip ? strchr(name + skip, '/') : NULL;
        if (!slash || (skip && (strncmp(name, directory, skip - 1) != 0 || name[skip - 1] != '/'))) continue;
        (void)snprintf(names[count], DISK_NAME, "%.*s", (int)(slash - name), name);
        for (k = 0; k < count && strcmp(names[k], names[count]) != 0;) k++;
        if (k == count) count++;
    }
    for (i = 0; i < count && !status; i++) status = each(user, names[i], NULL);
    return status;
}
static inline dcp_status disk_remove(void *context, const char *path, const char *token, dcp_error *err) {
    disk_file *file = disk_find((disk *)context, path);
    (void)err; (void)token;
    disk_key(path);
    if (file) disk_drop(file);
    return DCP_OK;
}
static inline dcp_status disk_sync_directory(void *context, const char *directory, dcp_error *err) {
    (void)context;
    (void)directory;
    (void)err;
    return DCP_OK;
}

static inline void disk_mount(disk *d, const uint8_t *data, size_t size) {
    dcp_storage *s = &d->storage;
    disk_read_files(d, data, size);
    s->context = d;
    s->flags = DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_CONCURRENT_WRITE | DCP_STORAGE_ATOMIC_REPLACE |
        DCP_STORAGE_EXCLUSIVE_PUBLISH | DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY;
    s->begin = disk_begin; s->write = disk_write; s->commit = disk_commit; s->abort = disk_abort;
    s->open = disk_open; s->read = disk_read; s->map = disk_map; s->close = disk_close;
    s->stat = disk_stat; s->list = disk_list;
    s->remove = disk_remove; s->sync_directory = disk_sync_directory;
}
static inline void disk_unmount(disk *d) {
    size_t i;
    for (i = 0; i < DISK_FILES; i++) {
        FUZZ_CHECK(d->files[i].users == 0);             /* all that was opened is closed */
        if (d->files[i].is_used) disk_drop(&d->files[i]);
    }
}
#endif
