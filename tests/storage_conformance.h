/* storage_conformance.h - what any dcp_storage has to keep, as a list of checks that a plug-in can be run through.
 *
 *     #include "dcp.h"
 *     #include "storage_conformance.h"
 *
 *     static dcp_storage *open_mine(void *user) { ... }       // a new one, with nothing in it; NULL: could not
 *     ...
 *     return storage_conformance(open_mine, NULL, stdout);    // how many checks failed
 *
 * It needs nothing but dcp.h. Each check opens a storage and closes it, and prints a line: `ok name`, `FAILED name:
 * expected ...`, or `skipped name`, for what the storage's flags and members do not promise. */
#ifndef DCP_STORAGE_CONFORMANCE_H
#define DCP_STORAGE_CONFORMANCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef dcp_storage *(*conformance_factory)(void *user);
/* NULL: it holds; conformance_skips: the storage does not promise it; else what was expected. */
typedef const char *(*conformance_check)(dcp_storage *s);
static const char conformance_skips[] = "";
#define EXPECT_THAT(condition) do { if (!(condition)) return #condition; } while (0)

/* ---- words for the checks ---------------------------------------------------------------------------------------- */
static inline void *conformance_begin(dcp_storage *s, const char *path, const char *temporary) {
    const dcp_begin_request request = { path, temporary, 0 };
    void *object = NULL;
    dcp_error why;
    return s->begin(s->context, &request, &object, &why) == DCP_OK ? object : NULL;
}
static inline dcp_status conformance_commit(dcp_storage *s, void *object, int replace, const char *token) {
    const dcp_commit_request request = { replace, token };
    dcp_error why;
    return s->commit(s->context, object, &request, &why);
}
/* A temporary is used once. */
static inline dcp_status conformance_put(dcp_storage *s, const char *path, const char *text, int replace,
                                         const char *token) {
    static int number;
    char temporary[400];
    dcp_error why;
    void *object;
    dcp_status status = DCP_OK;
    (void)snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, ++number);
    object = conformance_begin(s, path, temporary);
    if (!object) return DCP_E_IO;
    if (text[0]) status = s->write(s->context, object, 0, text, strlen(text), &why);
    if (!status) return conformance_commit(s, object, replace, token);
    s->abort(s->context, object);
    return status;
}
static inline dcp_status conformance_stat(dcp_storage *s, const char *path, dcp_object_info *info) {
    dcp_error why;
    memset(info, 0, sizeof *info);
    memset(&why, 0, sizeof why);
    return s->stat(s->context, path, info, &why);
}
static inline dcp_status conformance_remove(dcp_storage *s, const char *path, const char *token) {
    dcp_error why;
    return s->remove(s->context, path, token, &why);
}
/* Whether all of the object is this text. */
static inline int conformance_has(dcp_storage *s, const char *path, const char *text) {
    char bytes[400];
    dcp_object_info info;
    dcp_error why;
    void *object = NULL;
    int has;
    memset(&info, 0, sizeof info);
    if (s->open(s->context, path, &object, &info, &why) != DCP_OK) return 0;
    has = info.size == (int64_t)strlen(text) && info.size < (int64_t)sizeof bytes &&
          s->read(s->context, object, 0, bytes, (size_t)info.size, &why) == DCP_OK &&
          memcmp(bytes, text, (size_t)info.size) == 0;
    s->close(s->context, object);
    return has;
}
typedef struct conformance_names { dcp_storage *storage; int count, wrong; char text[4000]; } conformance_names;
/* The storage may be used here. */
static inline dcp_status conformance_name(void *user, const char *path, const dcp_object_info *info) {
    conformance_names *n = (conformance_names *)user;
    dcp_object_info same;
    if (info && (conformance_stat(n->storage, path, &same) != DCP_OK || same.size != info->size)) n->wrong++;
    n->count++;
    (void)snprintf(n->text + strlen(n->text), sizeof n->text - strlen(n->text), "|%s|", path);
    return DCP_OK;
}
static inline int conformance_list(dcp_storage *s, const char *directory, dcp_list_kind what,
                                   conformance_names *names) {
    dcp_error why;
    dcp_status status;
    memset(names, 0, sizeof *names);
    names->storage = s;
    status = s->list(s->context, directory, what, conformance_name, names, &why);
    return (status == DCP_OK || status == DCP_E_NOT_FOUND) && !names->wrong ? names->count : -1;
}

/* ---- the checks -------------------------------------------------------------------------------------------------- */
static inline const char *conformance_members(dcp_storage *s) {
    EXPECT_THAT(s->begin && s->write && s->commit && s->abort && s->open && s->read && s->close);
    EXPECT_THAT(s->stat && s->list && s->remove);
    EXPECT_THAT(!(s->flags & DCP_STORAGE_SYNC_DIRECTORY) || s->sync_directory);
    EXPECT_THAT(!(s->flags & DCP_STORAGE_SHARED_POSITIONAL_WRITE) || (s->join && s->leave));
    EXPECT_THAT(!(s->flags & DCP_STORAGE_COMMIT_LOCK) || (s->lock && s->lock_note && s->unlock));
    return NULL;
}
static inline const char *conformance_bytes(dcp_storage *s) {
    EXPECT_THAT(conformance_put(s, "a", "some text", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_has(s, "a", "some text"));
    EXPECT_THAT(conformance_put(s, "empty", "", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_has(s, "empty", ""));
    EXPECT_THAT(conformance_put(s, "deep/er/b c/gew\xc3\xb6lbe", "tree", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_has(s, "deep/er/b c/gew\xc3\xb6lbe", "tree"));
    return NULL;
}
static inline const char *conformance_in_order(dcp_storage *s) {
    void *object = conformance_begin(s, "a", "a.1.tmp");
    dcp_error why;
    EXPECT_THAT(object != NULL);
    EXPECT_THAT(s->write(s->context, object, 0, "hello ", 6, &why) == DCP_OK);
    EXPECT_THAT(s->write(s->context, object, 6, "world", 5, &why) == DCP_OK);
    EXPECT_THAT(conformance_commit(s, object, 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_has(s, "a", "hello world"));
    return NULL;
}
static inline const char *conformance_any_order(dcp_storage *s) {
    void *object;
    dcp_error why;
    if (!(s->flags & DCP_STORAGE_RANDOM_WRITE)) return conformance_skips;
    object = conformance_begin(s, "a", "a.1.tmp");
    EXPECT_THAT(object != NULL);
    EXPECT_THAT(s->write(s->context, object, 6, "world", 5, &why) == DCP_OK);
    EXPECT_THAT(s->write(s->context, object, 0, "hello ", 6, &why) == DCP_OK);
    EXPECT_THAT(conformance_commit(s, object, 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_has(s, "a", "hello world"));
    return NULL;
}
static inline const char *conformance_invisible(dcp_storage *s) {
    dcp_object_info info;
    conformance_names names;
    void *object = conformance_begin(s, "d/a", "d/a.1.tmp");
    dcp_error why;
    EXPECT_THAT(object != NULL);
    EXPECT_THAT(s->write(s->context, object, 0, "text", 4, &why) == DCP_OK);
    EXPECT_THAT(conformance_stat(s, "d/a", &info) == DCP_E_NOT_FOUND);
    EXPECT_THAT(conformance_commit(s, object, 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_stat(s, "d/a", &info) == DCP_OK && info.size == 4 && info.modified_ns > 0);
    EXPECT_THAT(conformance_list(s, "d", DCP_LIST_OBJECTS, &names) == 1);
    return NULL;
}
static inline const char *conformance_abort(dcp_storage *s) {
    conformance_names names;
    void *object = conformance_begin(s, "d/a", "d/a.1.tmp");
    dcp_error why;
    EXPECT_THAT(object != NULL);
    EXPECT_THAT(s->write(s->context, object, 0, "text", 4, &why) == DCP_OK);
    s->abort(s->context, object);
    EXPECT_THAT(conformance_list(s, "d", DCP_LIST_OBJECTS, &names) == 0);
    return NULL;
}
static inline const char *conformance_exclusive(dcp_storage *s) {
    conformance_names names;
    if (!(s->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH)) return conformance_skips;
    EXPECT_THAT(conformance_put(s, "d/a", "first", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_put(s, "d/a", "second", 0, NULL) == DCP_E_EXISTS);
    EXPECT_THAT(conformance_has(s, "d/a", "first"));
    EXPECT_THAT(conformance_list(s, "d", DCP_LIST_OBJECTS, &names) == 1);
    return NULL;
}
static inline const char *conformance_replace(dcp_storage *s) {
    EXPECT_THAT(conformance_put(s, "a", "the first one", 1, NULL) == DCP_OK);
    EXPECT_THAT(conformance_put(s, "a", "second", 1, NULL) == DCP_OK);
    EXPECT_THAT(conformance_has(s, "a", "second"));
    return NULL;
}
static inline const char *conformance_missing(dcp_storage *s) {
    dcp_object_info info;
    dcp_error why;
    void *object = NULL;
    memset(&info, 0, sizeof info);
    memset(&why, 0, sizeof why);
    EXPECT_THAT(conformance_stat(s, "none", &info) == DCP_E_NOT_FOUND);
    EXPECT_THAT(s->open(s->context, "none", &object, &info, &why) == DCP_E_NOT_FOUND);
    EXPECT_THAT(why.status == DCP_E_NOT_FOUND && strstr(why.message, "none") && !why.is_transient);
    EXPECT_THAT(conformance_stat(s, "d/none", &info) == DCP_E_NOT_FOUND);
    EXPECT_THAT(conformance_remove(s, "none", NULL) == DCP_OK);
    EXPECT_THAT(conformance_put(s, "d/a", "text", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_stat(s, "d", &info) != DCP_OK);             /* a directory is no object */
    EXPECT_THAT(conformance_remove(s, "d/a", NULL) == DCP_OK);
    EXPECT_THAT(conformance_stat(s, "d/a", &info) == DCP_E_NOT_FOUND);
    return NULL;
}
static inline const char *conformance_the_end(dcp_storage *s) {
    dcp_object_info info;
    dcp_error why;
    void *object = NULL;
    char bytes[8];
    dcp_status beyond, across, inside;
    EXPECT_THAT(conformance_put(s, "a", "12345", 0, NULL) == DCP_OK);
    EXPECT_THAT(s->open(s->context, "a", &object, &info, &why) == DCP_OK && info.size == 5);
    inside = s->read(s->context, object, 3, bytes, 2, &why);
    across = s->read(s->context, object, 3, bytes, 4, &why);
    beyond = s->read(s->context, object, 100, bytes, 1, &why);
    s->close(s->context, object);
    EXPECT_THAT(inside == DCP_OK && memcmp(bytes, "45", 2) == 0);
    EXPECT_THAT(across == DCP_E_INCOMPLETE && beyond == DCP_E_INCOMPLETE);
    return NULL;
}
static inline dcp_status conformance_stop(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(int *)user;
    return DCP_E_LIMIT;
}
static inline const char *conformance_lists(dcp_storage *s) {
    conformance_names names;
    dcp_error why;
    int i, calls = 0;
    char path[40];
    EXPECT_THAT(conformance_list(s, "", DCP_LIST_OBJECTS, &names) == 0);
    for (i = 0; i < 100; i++) {
        (void)snprintf(path, sizeof path, i % 2 ? "d/o%d" : "d/e/o%d", i);
        EXPECT_THAT(conformance_put(s, path, "x", 0, NULL) == DCP_OK);
    }
    EXPECT_THAT(conformance_put(s, "d2/o", "x", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_put(s, "top", "x", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_list(s, "d", DCP_LIST_OBJECTS, &names) == 50 && strstr(names.text, "|d/o99|"));
    EXPECT_THAT(conformance_list(s, "d/e", DCP_LIST_OBJECTS, &names) == 50 && strstr(names.text, "|d/e/o98|"));
    EXPECT_THAT(conformance_list(s, "", DCP_LIST_OBJECTS, &names) == 1 && strcmp(names.text, "|top|") == 0);
    EXPECT_THAT(conformance_list(s, "", DCP_LIST_LINKS, &names) == 0);
    i = conformance_list(s, "", DCP_LIST_DIRECTORIES, &names);
    EXPECT_THAT(i == 0 || (i == 2 && strstr(names.text, "|d|") && strstr(names.text, "|d2|")));
    EXPECT_THAT(s->list(s->context, "d", DCP_LIST_OBJECTS, conformance_stop, &calls, &why) == DCP_E_LIMIT);
    EXPECT_THAT(calls == 1);
    return NULL;
}
static inline const char *conformance_tokens(dcp_storage *s) {
    dcp_object_info first, second, other;
    dcp_error why;
    void *object = NULL;
    if (!(s->flags & DCP_STORAGE_TOKENS)) return conformance_skips;
    EXPECT_THAT(conformance_put(s, "a", "first", 0, NULL) == DCP_OK && conformance_stat(s, "a", &first) == DCP_OK);
    EXPECT_THAT(first.token[0] && memchr(first.token, 0, sizeof first.token));
    EXPECT_THAT(conformance_put(s, "a", "again", 1, first.token) == DCP_OK);
    EXPECT_THAT(s->open(s->context, "a", &object, &second, &why) == DCP_OK);
    s->close(s->context, object);
    EXPECT_THAT(conformance_stat(s, "a", &other) == DCP_OK && strcmp(other.token, second.token) == 0);
    EXPECT_THAT(strcmp(first.token, second.token) != 0);
    EXPECT_THAT(conformance_put(s, "a", "stale", 1, first.token) == DCP_E_EXISTS);
    EXPECT_THAT(conformance_has(s, "a", "again"));
    EXPECT_THAT(conformance_remove(s, "a", first.token) == DCP_E_EXISTS);
    EXPECT_THAT(conformance_has(s, "a", "again"));
    EXPECT_THAT(conformance_put(s, "a", "any", 1, NULL) == DCP_OK && conformance_stat(s, "a", &other) == DCP_OK);
    EXPECT_THAT(conformance_remove(s, "a", other.token) == DCP_OK);
    EXPECT_THAT(conformance_put(s, "a", "gone", 1, other.token) == DCP_E_EXISTS);
    EXPECT_THAT(conformance_stat(s, "a", &other) == DCP_E_NOT_FOUND);
    return NULL;
}
/* What it has not answered is asked for alone. */
static inline const char *conformance_batch(dcp_storage *s) {
    dcp_batch_item items[3];
    dcp_object_info info;
    dcp_error why;
    char bytes[2][4];
    void *object = NULL;
    int i;
    if (!s->batch) return conformance_skips;
    EXPECT_THAT(conformance_put(s, "a", "abcd", 0, NULL) == DCP_OK);
    EXPECT_THAT(conformance_put(s, "b", "efgh", 0, NULL) == DCP_OK);
    memset(items, 0, sizeof items);
    for (i = 0; i < 3; i++) { items[i].path = i == 0 ? "a" : i == 1 ? "none" : "b"; items[i].status = DCP_PENDING; }
    s->batch(s->context, DCP_BATCH_STAT, items, 3);
    EXPECT_THAT(items[0].status == DCP_PENDING || (items[0].status == DCP_OK && items[0].info.size == 4));
    EXPECT_THAT(items[1].status == DCP_PENDING || items[1].status == DCP_E_NOT_FOUND);
    EXPECT_THAT(s->open(s->context, "a", &object, &info, &why) == DCP_OK);
    for (i = 0; i < 2; i++) {
        items[i].object = object;
        items[i].offset = 2 * i;
        items[i].data = bytes[i];
        items[i].size = 2;
        items[i].status = DCP_PENDING;
    }
    s->batch(s->context, DCP_BATCH_READ, items, 2);
    s->close(s->context, object);
    EXPECT_THAT(items[0].status == DCP_PENDING || memcmp(bytes[0], "ab", 2) == 0);
    EXPECT_THAT(items[1].status == DCP_PENDING || memcmp(bytes[1], "cd", 2) == 0);
    for (i = 0; i < 3; i++) items[i].status = DCP_PENDING;
    s->batch(s->context, DCP_BATCH_REMOVE, items, 3);
    for (i = 0; i < 3; i++)
        EXPECT_THAT(items[i].status == DCP_PENDING || conformance_stat(s, items[i].path, &info) == DCP_E_NOT_FOUND);
    return NULL;
}
static inline const char *conformance_lock(dcp_storage *s) {
    uint64_t holder = 0;
    char note[DCP_LOCK_NOTE] = "";
    void *lock = NULL, *other = NULL;
    dcp_error why;
    dcp_status status;
    if (!(s->flags & DCP_STORAGE_COMMIT_LOCK)) return conformance_skips;
    status = s->lock(s->context, "p.commit.lock", &holder, note, &lock, &why);
    if (status == DCP_E_UNSUPPORTED) return conformance_skips;
    EXPECT_THAT(status == DCP_OK && lock && note[0] == '\0');
    EXPECT_THAT(s->lock_note(s->context, lock, "p.metadata.json.0123456789abcdef.tmp", &why) == DCP_OK);
    holder = 0;
    EXPECT_THAT(s->lock(s->context, "p.commit.lock", &holder, note, &other, &why) == DCP_PENDING);
    holder = 0;
    EXPECT_THAT(s->lock(s->context, "q.commit.lock", &holder, note, &other, &why) == DCP_OK);
    s->unlock(s->context, other);
    s->unlock(s->context, lock);
    holder = 0;
    EXPECT_THAT(s->lock(s->context, "p.commit.lock", &holder, note, &lock, &why) == DCP_OK && note[0] == '\0');
    s->unlock(s->context, lock);
    return NULL;
}
static inline const char *conformance_map(dcp_storage *s) {
    dcp_object_info info;
    dcp_error why;
    void *object = NULL;
    const void *data = NULL;
    int is_same;
    if (!s->map) return conformance_skips;
    EXPECT_THAT(conformance_put(s, "a", "mapped", 0, NULL) == DCP_OK);
    EXPECT_THAT(s->open(s->context, "a", &object, &info, &why) == DCP_OK);
    is_same = s->map(s->context, object, &data, &why) == DCP_OK && data && memcmp(data, "mapped", 6) == 0;
    s->close(s->context, object);
    EXPECT_THAT(is_same);
    return NULL;
}
static inline const char *conformance_join(dcp_storage *s) {
    const dcp_begin_request request = { "a", "a.1.tmp", 8 };
    void *object, *joined = NULL;
    dcp_error why;
    if (!(s->flags & DCP_STORAGE_SHARED_POSITIONAL_WRITE)) return conformance_skips;
    EXPECT_THAT(s->join(s->context, &request, &joined, &why) == DCP_E_NOT_FOUND);
    object = conformance_begin(s, "a", "a.1.tmp");
    EXPECT_THAT(object && s->join(s->context, &request, &joined, &why) == DCP_OK);
    EXPECT_THAT(s->write(s->context, joined, 4, "here", 4, &why) == DCP_OK);
    EXPECT_THAT(s->write(s->context, object, 0, "both", 4, &why) == DCP_OK);
    EXPECT_THAT(s->leave(s->context, joined, &why) == DCP_OK);
    EXPECT_THAT(conformance_commit(s, object, 0, NULL) == DCP_OK && conformance_has(s, "a", "bothhere"));
    return NULL;
}
static inline const char *conformance_interrupt(dcp_storage *s) {
    if (!s->interrupt) return conformance_skips;
    s->interrupt(s->context);                           /* nothing is in progress, and what comes later is not meant */
    EXPECT_THAT(conformance_put(s, "a", "text", 0, NULL) == DCP_OK && conformance_has(s, "a", "text"));
    return NULL;
}
static inline const char *conformance_checkpoint_in(dcp_storage *s, dcp_layout layout) {
    const int64_t shape = 1000;
    float values[1000], back[1000];
    dcp_tensor out = dcp_array("w", DCP_FP32, values, 1, &shape), in = dcp_array("w", DCP_FP32, back, 1, &shape);
    dcp_save_desc save;
    dcp_load_desc load;
    dcp_remove_desc gone;
    conformance_names names;
    dcp_error why;
    int i, round;
    memset(&save, 0, sizeof save);
    memset(&load, 0, sizeof load);
    memset(&gone, 0, sizeof gone);
    save.path = load.path = gone.path = "runs/a/step_1";
    save.layout = layout;
    save.tensors = &out;
    load.tensors = &in;
    save.tensor_count = load.tensor_count = 1;
    save.io.storage = load.io.storage = gone.io.storage = s;
    for (round = 0; round < 3; round++) {
        for (i = 0; i < 1000; i++) values[i] = (float)(i + round);
        save.overwrite = round > 0;
        EXPECT_THAT(dcp_save(&save, &why) == DCP_OK);
        EXPECT_THAT(dcp_load(&load, &why) == DCP_OK && memcmp(values, back, sizeof values) == 0);
        EXPECT_THAT(save.overwrite || dcp_save(&save, &why) == DCP_E_EXISTS);
    }
    EXPECT_THAT(dcp_remove(&gone, NULL, &why) == DCP_OK);
    EXPECT_THAT(conformance_list(s, "runs/a", DCP_LIST_OBJECTS, &names) == 0);
    return NULL;
}
static inline const char *conformance_checkpoint(dcp_storage *s) {
    return conformance_checkpoint_in(s, DCP_LAYOUT_SHARDED);
}
static inline const char *conformance_single_file(dcp_storage *s) {
    if (!(s->flags & DCP_STORAGE_RANDOM_WRITE)) return conformance_skips;
    return conformance_checkpoint_in(s, DCP_LAYOUT_SINGLE);
}
static inline const char *conformance_manifest(dcp_storage *s) {
    return conformance_checkpoint_in(s, DCP_LAYOUT_MANIFEST);
}

static inline int storage_conformance(conformance_factory make, void *user, FILE *out) {
    static const struct { const char *name; conformance_check check; } checks[] = {
        { "what its flags promise has its functions", conformance_members },
        { "bytes come back under any key", conformance_bytes },
        { "an object is written in order", conformance_in_order },
        { "an object is written in any order", conformance_any_order },
        { "an object is invisible until commit", conformance_invisible },
        { "abort leaves nothing", conformance_abort },
        { "commit without replace is exclusive", conformance_exclusive },
        { "commit with replace replaces", conformance_replace },
        { "what is not there is not found", conformance_missing },
        { "reads end where the object does", conformance_the_end },
        { "lists have each name once", conformance_lists },
        { "tokens are compared", conformance_tokens },
        { "a batch does what single calls do", conformance_batch },
        { "a lock has one holder", conformance_lock },
        { "a map is the object", conformance_map },
        { "two write one object", conformance_join },
        { "an interrupt does not reach later calls", conformance_interrupt },
        { "a checkpoint in shards", conformance_checkpoint },
        { "a checkpoint in one file", conformance_single_file },
        { "a checkpoint with a manifest", conformance_manifest }
    };
    size_t i;
    int failed = 0;
    for (i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        dcp_storage *s = make(user);
        const char *wrong = s ? checks[i].check(s) : "a storage";
        dcp_storage_close(s);
        if (!wrong) (void)fprintf(out, "ok %s\n", checks[i].name);
        else if (wrong == conformance_skips) (void)fprintf(out, "skipped %s\n", checks[i].name);
        else (void)fprintf(out, "FAILED %s: expected %s\n", checks[i].name, wrong);
        failed += wrong && wrong != conformance_skips;
    }
    return failed;
}

#endif
