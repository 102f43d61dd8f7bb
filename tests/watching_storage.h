/* watching_storage.h - a storage around `files` that counts calls and bytes, is slow, fails, cancels or lets something
 * happen when told: use_watch() instead of use_local(); then `eye` says and is told. After engine.h. */
#ifndef DCP_TEST_WATCHING_STORAGE_H
#define DCP_TEST_WATCHING_STORAGE_H

typedef struct eye_object { void *inner; int is_data; char path[300]; } eye_object;
static struct {
    dcp_storage *inner;
    dcpi_mutex lock;
    int reads, writes, opens, maps, syncs;
    int64_t bytes_read, bytes_written;                  /* of *.bin and *.checkpoint */
    int64_t longest_read, longest_write;
    int failing_writes, failing_reads;                  /* so many fail, with EIO; a negative number: all */
    int sys;                                            /* the number that they fail with */
    dcp_cancel *cancel; int cancel_after;               /* requested when so many reads and writes have been done */
    int delay_ms;                                       /* of each read and write */
    void (*on_open)(const char *path), (*on_commit)(const char *path);
    void (*on_list)(void);                              /* between the names of a directory and what they are */
    const char *taken_name;                       /* somebody makes this object when it is about to be committed here */
} eye;

static inline int is_data_name(const char *path) {
    return dcpi_ends_with(path, ".bin") || dcpi_ends_with(path, ".checkpoint");
}
static inline dcp_status eye_wrap(void *inner, const char *path, void **out) {
    eye_object *object = (eye_object *)malloc(sizeof *object);
    if (!object) abort();
    object->inner = inner;
    object->is_data = is_data_name(path);
    (void)snprintf(object->path, sizeof object->path, "%s", path);
    *out = object;
    return DCP_OK;
}
static inline void *eye_unwrap(void *object_) {
    eye_object *object = (eye_object *)object_;
    void *inner = object->inner;
    free(object);
    return inner;
}
/* What happens to each request, before it is done: 0, or the status it fails with. */
static inline dcp_status eye_look(int *calls, int *failing, int64_t size, int is_data, int64_t *bytes, int64_t *longest,
                           dcp_error *error) {
    dcp_status status = DCP_OK;
    dcpi_mutex_lock(&eye.lock);
    ++*calls;
    if (is_data) *bytes += size;
    if (size > *longest) *longest = size;
    if (eye.cancel && eye.cancel_after-- <= 0) dcp_cancel_request(eye.cancel);
    if (is_data && *failing != 0) { --*failing; status = DCP_E_IO; }
    dcpi_mutex_unlock(&eye.lock);
    if (eye.delay_ms) dcpi_os_sleep_ms(eye.delay_ms);
    if (!status) return DCP_OK;
    (void)dcpi_fail_sys(error, status, eye.sys, "the test says no");
    if (error) error->is_transient = dcpi_os_is_transient(eye.sys);
    return status;
}
static inline dcp_status eye_begin(void *c, const dcp_begin_request *request, void **object, dcp_error *error) {
    void *inner = NULL;
    dcp_status status = eye.inner->begin(eye.inner->context, request, &inner, error);
    (void)c;
    return status ? status : eye_wrap(inner, request->path, object);
}
static inline dcp_status eye_write(void *c, void *object, int64_t offset, const void *data, size_t size,
                                   dcp_error *error) {
    eye_object *o = (eye_object *)object;
    dcp_status status = eye_look(&eye.writes, &eye.failing_writes, (int64_t)size, o->is_data, &eye.bytes_written,
                                 &eye.longest_write, error);
    (void)c;
    return status ? status : eye.inner->write(eye.inner->context, o->inner, offset, data, size, error);
}
static inline dcp_status eye_commit(void *c, void *object, const dcp_commit_request *request, dcp_error *error) {
    const char *path = ((const eye_object *)object)->path;
    (void)c;
    if (eye.on_commit) eye.on_commit(path);
    if (eye.taken_name && strcmp(path, eye.taken_name) == 0) {
        eye.taken_name = NULL;
        (void)dcp_storage_write_all(eye.inner, path, "taken", 5, NULL, NULL);
    }
    return eye.inner->commit(eye.inner->context, eye_unwrap(object), request, error);
}
static inline void eye_abort(void *c, void *object) {
    (void)c;
    eye.inner->abort(eye.inner->context, eye_unwrap(object));
}
static inline dcp_status eye_open(void *c, const char *path, void **object, dcp_object_info *info, dcp_error *error) {
    void *inner = NULL;
    dcp_status status;
    (void)c;
    eye.opens++;
    if (eye.on_open) eye.on_open(path);
    status = eye.inner->open(eye.inner->context, path, &inner, info, error);
    return status ? status : eye_wrap(inner, path, object);
}
static inline dcp_status eye_read(void *c, void *object, int64_t offset, void *data, size_t size, dcp_error *error) {
    eye_object *o = (eye_object *)object;
    dcp_status status = eye_look(&eye.reads, &eye.failing_reads, (int64_t)size, o->is_data, &eye.bytes_read,
                                 &eye.longest_read, error);
    (void)c;
    return status ? status : eye.inner->read(eye.inner->context, o->inner, offset, data, size, error);
}
static inline dcp_status eye_map(void *c, void *object, const void **data, dcp_error *error) {
    (void)c;
    eye.maps++;
    return eye.inner->map(eye.inner->context, ((eye_object *)object)->inner, data, error);
}
static inline void eye_close(void *c, void *object) {
    (void)c;
    eye.inner->close(eye.inner->context, eye_unwrap(object));
}
static inline dcp_status eye_stat(void *c, const char *path, dcp_object_info *info, dcp_error *error) {
    (void)c;
    return eye.inner->stat(eye.inner->context, path, info, error);
}
static inline dcp_status eye_list_name(void *names, const char *path, const dcp_object_info *info) {
    (void)info;
    return dcpi_names_add((dcpi_names *)names, path, NULL);
}
/* As a file system does it: first the names, then one after the other what each is, if it is there yet. */
static inline dcp_status eye_list_slowly(const char *directory, dcpi_storage_each each, void *user, dcp_error *error) {
    dcpi_names names = DCP_ZERO;
    dcp_object_info info;
    dcp_status status = eye.inner->list(eye.inner->context, directory, DCP_LIST_OBJECTS, eye_list_name, &names, error);
    size_t i;
    eye.on_list();
    for (i = 0; i < names.count && !status; i++)
        if (!eye.inner->stat(eye.inner->context, names.items[i], &info, NULL))
            status = each(user, names.items[i], &info);
    dcpi_names_free(&names);
    return status;
}
static inline dcp_status eye_list(void *c, const char *directory, dcp_list_kind what, dcpi_storage_each each,
                                  void *user, dcp_error *error) {
    (void)c;
    if (what != DCP_LIST_OBJECTS) return DCP_OK;
    if (eye.on_list) return eye_list_slowly(directory, each, user, error);
    return eye.inner->list(eye.inner->context, directory, what, each, user, error);
}
static inline dcp_status eye_remove(void *c, const char *path, const char *token, dcp_error *error) {
    (void)c;
    return eye.inner->remove(eye.inner->context, path, token, error);
}
static inline dcp_status eye_sync(void *c, const char *directory, dcp_error *error) {
    (void)c;
    eye.syncs++;
    return eye.inner->sync_directory ? eye.inner->sync_directory(eye.inner->context, directory, error) : DCP_OK;
}
static inline void eye_destroy(void *c) {
    (void)c;
    dcp_storage_close(eye.inner);
    dcpi_mutex_destroy(&eye.lock);
}
/* From now on what the test uses is watched; done() ends that too. */
static inline void use_watch(void) {
    dcp_storage *s = (dcp_storage *)dcpi_alloc_array(1, sizeof *s, NULL);
    CHECK(s != NULL);
    memset(&eye, 0, sizeof eye);
    eye.sys = EIO;
    CHECK_INT(dcpi_mutex_init(&eye.lock), 0);
    eye.inner = files;
    s->flags = files->flags;
    s->begin = eye_begin; s->write = eye_write; s->commit = eye_commit; s->abort = eye_abort;
    s->open = eye_open; s->read = eye_read; s->map = eye_map; s->close = eye_close;
    s->stat = eye_stat; s->list = eye_list; s->remove = eye_remove; s->sync_directory = eye_sync;
    s->destroy = eye_destroy;
    store = files = s;
}
static inline void forget_counts(void) {
    eye.reads = eye.writes = eye.opens = eye.maps = eye.syncs = 0;
    eye.bytes_read = eye.bytes_written = eye.longest_read = eye.longest_write = 0;
}

#endif
