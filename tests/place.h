/* place.h - where a test saves: local files or a memory storage, or a directory below either; `files` is the same place
 * as a storage, to look at and to damage what a save left. After dcp.h and test.h.
 *
 *     TEST(something) { on_local_and_memory(something_body); }        // or use_local(); ... done();
 *     desc.path = at("x"); desc.io.storage = store;
 *     CHECK_FAILS(dcp_save(&desc, &err), DCP_E_EXISTS, "words of its message"); */
#ifndef DCP_TEST_PLACE_H
#define DCP_TEST_PLACE_H

static dcp_error err;
static dcp_storage *store;              /* what is saved to: NULL for local files */
static dcp_storage *files;              /* the same place as a storage: `store`, or a local one at `dir` */
static const char *dir;                 /* of local files */
static const char *sub = "";            /* the directory of the checkpoints in it, "" or with a slash at its end */

static inline void use_local(void) {
    dir = test_dir();
    store = NULL;
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &files, &err), err.message);
}
static inline void use_memory(void) {
    CHECK_OK_MESSAGE(dcp_storage_memory(&store, &err), err.message);
    files = store;
}
static inline void done(void) {
    dcp_storage_close(files);
    files = store = NULL;
}
static inline void on_local_and_memory(void (*body)(void)) {
    use_local();
    body();
    done();
    use_memory();
    body();
    done();
}
static inline void on_each(void (*body)(void)) {        /* local files, memory, and a subdirectory of each */
    on_local_and_memory(body);
    sub = "runs/a b/";
    on_local_and_memory(body);
    sub = "";
}

/* ---- paths and keys ---------------------------------------------------------------------------------------------- */
enum { PLACE_TEXT = TEST_PATH + 1200 };
static inline char *fresh_text(void) {                  /* stays valid for fifteen more calls */
    static char text[16][PLACE_TEXT];
    static int turn;
    return text[turn = (turn + 1) % 16];
}
static inline const char *key_of(const char *name) {    /* in `files` */
    char *to;
    if (!sub[0]) return name;
    (void)snprintf(to = fresh_text(), PLACE_TEXT, "%s%s", sub, name);
    return to;
}
static inline const char *at(const char *name) {        /* for dcp_save and the others */
    char *to = fresh_text();
    (void)snprintf(to, PLACE_TEXT, "%s%s%s%s", store ? "" : dir, store ? "" : "/", sub, name);
    return to;
}
static inline const char *here(void) {                  /* the directory, for dcp_latest and the others */
    char *to = fresh_text();
    (void)snprintf(to, PLACE_TEXT, "%s%s%s", store ? "" : dir, store || !sub[0] ? "" : "/", sub);
    if (sub[0]) to[strlen(to) - 1] = '\0';
    return to;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static inline int64_t size_of(const char *name) {       /* -1: it is not there */
    dcp_object_info info;
    dcp_status status = dcp_storage_info(files, key_of(name), &info, NULL, &err);
    if (status == DCP_E_NOT_FOUND) return -1;
    CHECK_OK_MESSAGE(status, err.message);
    return info.size;
}
static inline int is_there(const char *name) {
    int exists = 0;
    CHECK_OK_MESSAGE(dcp_storage_exists(files, key_of(name), &exists, NULL, &err), err.message);
    return exists;
}
static inline uint8_t *get(const char *name, size_t *size) {            /* dcp_free */
    void *data;
    CHECK_OK_MESSAGE(dcp_storage_read_all(files, key_of(name), &data, size, NULL, &err), err.message);
    return (uint8_t *)data;
}
static inline void put(const char *name, const void *data, size_t size) {
    CHECK_OK_MESSAGE(dcp_storage_write_all(files, key_of(name), data, size, NULL, &err), err.message);
}
static inline void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }
static inline void drop(const char *name) {
    CHECK_OK_MESSAGE(dcp_storage_remove(files, key_of(name), NULL, &err), err.message);
}
static inline void copy(const char *from, const char *to) {
    size_t size;
    uint8_t *data = get(from, &size);
    put(to, data, size);
    dcp_free(data);
}
static inline void poke(const char *name, int64_t byte, char value) {
    size_t size;
    uint8_t *data = get(name, &size);
    CHECK(byte < (int64_t)size && data[byte] != (uint8_t)value);
    data[byte] = (uint8_t)value;
    put(name, data, size);
    dcp_free(data);
}
static inline void flip(const char *name, int64_t byte) {
    size_t size;
    uint8_t *data = get(name, &size);
    CHECK(byte < (int64_t)size);
    data[byte] ^= 0x10;
    put(name, data, size);
    dcp_free(data);
}

typedef struct names { int count; char all[4000]; } names;      /* with a space after each, in no order */
static inline dcp_status names_one(void *user, const char *path, const dcp_object_info *info) {
    names *n = (names *)user;
    size_t used = strlen(n->all);
    (void)info;
    (void)snprintf(n->all + used, sizeof n->all - used, "%s ", path);
    n->count++;
    return DCP_OK;
}
static inline int count_files(const char *directory) {
    names n;
    memset(&n, 0, sizeof n);
    CHECK_OK_MESSAGE(files->list(files->context, key_of(directory), DCP_LIST_OBJECTS, names_one, &n, &err),
                     err.message);
    return n.count;
}

/* That a call with `err` as its last argument failed with this status and with these words in its message. */
#define CHECK_FAILS(call, want, words) check_fails(call, want, words, __LINE__, #call)
static inline void check_fails(dcp_status got, dcp_status want, const char *words, int line, const char *call) {
    char detail[900];
    if (got == want && err.status == want && strstr(err.message, words)) return;
    (void)snprintf(detail, sizeof detail, " (got %s \"%s\", want %s with \"%s\")", dcp_status_name(got),
                   got ? err.message : "", dcp_status_name(want), words);
    test_fail(__FILE__, line, call, detail);
}

#endif
