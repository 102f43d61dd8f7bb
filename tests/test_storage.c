/* test_storage.c - the storage interface: local files and memory behind one set of functions, providers by name, and
 * what every operation on whole objects promises. What holds for all storages is tested on both. */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "place.h"
#include "storage_conformance.h"

#define KIB ((int64_t)1024)
#define MIB ((int64_t)1024 * 1024)

static void check_text(const char *key, const char *text) {
    void *data;
    size_t size;
    CHECK_OK_MESSAGE(dcp_storage_read_all(files, key, &data, &size, NULL, &err), err.message);
    CHECK_INT(size, strlen(text));
    CHECK_STR((const char *)data, text);                /* a NUL follows the last byte */
    dcp_free(data);
}
/* All keys in a directory, in order, with a space after each. */
typedef struct listing { char *keys[64]; int count; char text[4000]; int is_wrong; } listing;
static dcp_status list_one(void *user, const char *path, const dcp_object_info *info) {
    listing *l = (listing *)user;
    dcp_object_info same;
    int i;
    if (l->count == 64) return DCP_E_LIMIT;
    /* the storage may be used here */
    if (dcp_storage_info(files, path, &same, NULL, NULL) != DCP_OK || same.size != info->size) l->is_wrong = 1;
    l->keys[l->count] = (char *)malloc(strlen(path) + 1);
    if (!l->keys[l->count]) return DCP_E_MEMORY;
    memcpy(l->keys[l->count], path, strlen(path) + 1);
    for (i = l->count++; i > 0 && strcmp(l->keys[i - 1], l->keys[i]) > 0; i--) {
        char *swapped = l->keys[i];
        l->keys[i] = l->keys[i - 1];
        l->keys[i - 1] = swapped;
    }
    return DCP_OK;
}
static const char *list(const char *directory) {
    static listing l;
    int i;
    memset(&l, 0, sizeof l);
    CHECK_OK_MESSAGE(files->list(files->context, directory, DCP_LIST_OBJECTS, list_one, &l, &err), err.message);
    CHECK(!l.is_wrong);
    for (i = 0; i < l.count; i++) {
        (void)snprintf(l.text + strlen(l.text), sizeof l.text - strlen(l.text), "%s ", l.keys[i]);
        free(l.keys[i]);
    }
    return l.text;
}
static uint8_t *pattern(size_t size) {
    uint8_t *data = (uint8_t *)malloc(size ? size : 1);
    size_t i;
    CHECK(data != NULL);
    for (i = 0; i < size; i++) data[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
    return data;
}

/* ==== whole objects: seed 004 ===================================================================================== */
static void round_trip_body(void) {
    static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 1000000, (size_t)9 << 20, ((size_t)8 << 20) + 5 };
    size_t i, size;
    void *data;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *out = pattern(sizes[i]);
        CHECK_OK_MESSAGE(dcp_storage_write_all(files, "object", out, sizes[i], NULL, &err), err.message);
        CHECK_OK_MESSAGE(dcp_storage_read_all(files, "object", &data, &size, NULL, &err), err.message);
        CHECK_INT(size, sizes[i]);
        CHECK(memcmp(data, out, size) == 0 && ((char *)data)[size] == '\0');
        dcp_free(data);
        free(out);
    }
    CHECK_OK(dcp_storage_write_all(files, "nothing", NULL, 0, NULL, &err));
    check_text("nothing", "");
}
TEST(write_and_read_roundtrip) { on_local_and_memory(round_trip_body); }

static void existence_body(void) {
    int exists = 7;
    CHECK(!is_there("a"));
    put_text("a", "text");
    CHECK(is_there("a"));
#ifndef _WIN32                              /* which takes it for "a" or for no name at all */
    CHECK(!is_there("A "));
#endif
    CHECK(!is_there("a/b") && !is_there("dir/a"));
    put_text("dir/b", "text");
    CHECK(is_there("dir/b") && !is_there("b"));
    CHECK_OK_MESSAGE(dcp_storage_exists(files, "dir", &exists, NULL, &err), err.message);
    CHECK_INT(exists, 0);                               /* a directory is no object */
    exists = 7;
    CHECK_OK(dcp_storage_remove(files, "a", NULL, &err));
    CHECK(!is_there("a"));
    CHECK_FAILS(dcp_storage_exists(files, "../a", &exists, NULL, &err), DCP_E_INVALID, "../a");
    CHECK_INT(exists, 0);
}
TEST(file_existence_checks) { on_local_and_memory(existence_body); }

static void metadata_body(void) {
    dcp_object_info info;
    dcp_field *fields = (dcp_field *)(void *)&info;
    size_t count = 7;
    int64_t now = (int64_t)time(NULL);
    put_text("a", "12345");
    CHECK_OK_MESSAGE(dcp_storage_info(files, "a", &info, NULL, &err), err.message);
    CHECK_INT(info.size, 5);
    CHECK(info.modified_ns / 1000000000 >= now - 10 && info.modified_ns / 1000000000 <= now + 10);
    memset(&info, 0x7F, sizeof info);
    CHECK_FAILS(dcp_storage_info(files, "none", &info, NULL, &err), DCP_E_NOT_FOUND, "none");
    CHECK(info.size == 0 && info.modified_ns == 0);
    CHECK_FAILS(dcp_storage_additional_info(files, "none", &fields, &count, NULL, &err), DCP_E_NOT_FOUND, "none");
    CHECK(fields == NULL && count == 0);
    CHECK_OK_MESSAGE(dcp_storage_additional_info(files, "a", &fields, &count, NULL, &err), err.message);
    CHECK(store == NULL ? fields != NULL && count > 0 : fields == NULL && count == 0);
    dcp_free(fields);
}
TEST(metadata_retrieval) { on_local_and_memory(metadata_body); }

static const char *additional(const char *key, const char *name) {
    static char value[100];
    dcp_field *fields;
    size_t count, i;
    CHECK_OK_MESSAGE(dcp_storage_additional_info(files, key, &fields, &count, NULL, &err), err.message);
    value[0] = '\0';
    for (i = 0; i < count; i++)
        if (strcmp(fields[i].key, name) == 0) (void)snprintf(value, sizeof value, "%s", fields[i].value);
    dcp_free(fields);
    return value;
}
TEST(metadata_includes_what_else_the_storage_knows) {
    use_local();
    put_text("a", "12345");
    CHECK_STR(additional("a", "links"), "1");
    CHECK(strtoull(additional("a", "inode"), NULL, 10) > 0);
    CHECK_INT(additional("a", "mode")[0], '0');
    CHECK_STR(additional("a", "none"), "");
    done();
}
static void nested_body(void) {
    put_text("a/b c/d.e/f", "deep");
    put_text("a/b c/g", "higher");
    put_text("a/h", "first");
    put_text("top", "top");
    check_text("a/b c/d.e/f", "deep");
    check_text("a/b c/g", "higher");
    CHECK_STR(list("a/b c/d.e"), "a/b c/d.e/f ");
    CHECK_STR(list("a/b c"), "a/b c/g ");               /* only what is directly there, with whole keys */
    CHECK_STR(list("a"), "a/h ");
    CHECK_STR(list(""), "top ");
    CHECK_OK(dcp_storage_remove(files, "a/b c/d.e/f", NULL, &err));
    CHECK_STR(list("a/b c/d.e"), "");
    put_text("gew\xc3\xb6lbe/\xf0\x9f\x8c\xb3", "tree");
    check_text("gew\xc3\xb6lbe/\xf0\x9f\x8c\xb3", "tree");
}
TEST(path_handling_with_nested_directories) { on_local_and_memory(nested_body); }

/* Cancel is looked at between chunks: after so many, the write ends, and the object is as it was. */
typedef struct canceller { dcp_cancel cancel; int64_t after, most; int calls; } canceller;
static void cancel_later(void *user, const dcp_progress *p) {
    canceller *c = (canceller *)user;
    c->calls++;
    if (p->bytes_done > c->most) c->most = p->bytes_done;
    if (p->bytes_done >= c->after) dcp_cancel_request(&c->cancel);
}
static dcp_io cancelling(canceller *c, int64_t after) {
    dcp_io io = DCP_ZERO;
    memset(c, 0, sizeof *c);
    c->after = after;
    io.cancel = &c->cancel;
    io.progress = cancel_later;
    io.progress_user = c;
    return io;
}
static void cancellation_body(void) {
    const size_t size = (size_t)64 << 20;
    uint8_t *data = pattern(size);
    canceller c;
    dcp_io io = cancelling(&c, 0);
    void *got = data;
    size_t got_size = 9;
    put_text("a", "before");
    dcp_cancel_request(&c.cancel);                      /* before it starts */
    CHECK_FAILS(dcp_storage_write_all(files, "a", data, size, &io, &err), DCP_E_CANCELLED, "cancelled");
    CHECK_FAILS(dcp_storage_read_all(files, "a", &got, &got_size, &io, &err), DCP_E_CANCELLED, "cancelled");
    CHECK(got == NULL && got_size == 0);
    CHECK_INT(c.most, 0);
    io = cancelling(&c, 1);                             /* in between */
    CHECK_FAILS(dcp_storage_write_all(files, "a", data, size, &io, &err), DCP_E_CANCELLED, "cancelled");
    CHECK(c.most >= 1 && c.most < (int64_t)size);
    check_text("a", "before");
    CHECK_STR(list(""), "a ");
    CHECK_OK_MESSAGE(dcp_storage_write_all(files, "a", data, size, NULL, &err), err.message);
    io = cancelling(&c, 1);
    CHECK_FAILS(dcp_storage_read_all(files, "a", &got, &got_size, &io, &err), DCP_E_CANCELLED, "cancelled");
    CHECK(got == NULL && c.most >= 1 && c.most < (int64_t)size);
    free(data);
}
TEST(cancellation_is_honoured_between_chunks) { on_local_and_memory(cancellation_body); }

static void progress_body(void) {
    const size_t size = (size_t)9 << 20;
    uint8_t *data = pattern(size);
    canceller c;
    dcp_io io = cancelling(&c, INT64_MAX);
    void *got;
    size_t got_size;
    CHECK_OK_MESSAGE(dcp_storage_write_all(files, "a", data, size, &io, &err), err.message);
    CHECK(c.calls > 0 && c.most == (int64_t)size);
    c.most = 0;
    CHECK_OK_MESSAGE(dcp_storage_read_all(files, "a", &got, &got_size, &io, &err), err.message);
    CHECK(c.most == (int64_t)size && got_size == size && memcmp(got, data, size) == 0);
    dcp_free(got);
    free(data);
}
TEST(progress_of_whole_objects) { on_local_and_memory(progress_body); }

static void slow_down(void *user, const dcp_progress *p) { (void)user; (void)p; dcpi_os_sleep_ms(30); }
static void deadline_body(void) {
    const size_t size = (size_t)64 << 20;
    uint8_t *data = pattern(size);
    dcp_io io = DCP_ZERO;
    io.deadline_ms = 20;
    io.progress = slow_down;
    put_text("a", "before");
    CHECK_FAILS(dcp_storage_write_all(files, "a", data, size, &io, &err), DCP_E_TIMEOUT, "deadline of 20 ms");
    check_text("a", "before");
    CHECK_STR(list(""), "a ");
    io.deadline_ms = -1;
    CHECK_FAILS(dcp_storage_write_all(files, "a", data, size, &io, &err), DCP_E_INVALID, "deadline_ms");
    free(data);
}
TEST(a_deadline_ends_a_write) { on_local_and_memory(deadline_body); }

static void delete_body(void) {
    CHECK_OK_MESSAGE(dcp_storage_remove(files, "none", NULL, &err), err.message);
    CHECK_OK_MESSAGE(dcp_storage_remove(files, "no/such/directory", NULL, &err), err.message);
    put_text("a/b", "text");
    CHECK_OK(dcp_storage_remove(files, "a/b", NULL, &err));
    CHECK_OK(dcp_storage_remove(files, "a/b", NULL, &err));
    CHECK(!is_there("a/b"));
    CHECK_FAILS(dcp_storage_remove(files, "", NULL, &err), DCP_E_INVALID, "");
    put_text("c/d", "text");
    /* a directory is not removed, nor is what is in it */
    if (store == NULL) CHECK(dcp_storage_remove(files, "c", NULL, &err) != DCP_OK);
    check_text("c/d", "text");
}
TEST(delete_of_what_is_not_there_is_fine) { on_local_and_memory(delete_body); }

static void replace_body(void) {
    put_text("a", "the first text");
    put_text("a", "2nd");
    check_text("a", "2nd");
    CHECK_STR(list(""), "a ");
}
TEST(writing_replaces) { on_local_and_memory(replace_body); }

TEST(arguments_that_are_missing_are_refused) {
    dcp_io io = DCP_ZERO;
    void *data = &io;
    size_t size = 1;
    dcp_object_info info;
    dcp_storage *none = (dcp_storage *)(void *)&io;
    use_memory();
    CHECK_FAILS(dcp_storage_write_all(NULL, "a", "x", 1, NULL, &err), DCP_E_INVALID, "NULL");
    CHECK_FAILS(dcp_storage_write_all(files, NULL, "x", 1, NULL, &err), DCP_E_INVALID, "NULL");
    CHECK_FAILS(dcp_storage_write_all(files, "a", NULL, 1, NULL, &err), DCP_E_INVALID, "NULL");
    CHECK_FAILS(dcp_storage_read_all(NULL, "a", &data, &size, NULL, &err), DCP_E_INVALID, "NULL");
    CHECK(data == NULL && size == 0);
    CHECK_FAILS(dcp_storage_info(NULL, "a", &info, NULL, &err), DCP_E_INVALID, "NULL");
    CHECK_FAILS(dcp_storage_remove(NULL, "a", NULL, &err), DCP_E_INVALID, "NULL");
    CHECK_FAILS(dcp_storage_local(NULL, &none, &err), DCP_E_INVALID, "NULL");
    CHECK(none == NULL);
    CHECK_INT(dcp_storage_write_all(files, "../a", "x", 1, NULL, NULL), DCP_E_INVALID);       /* err may be NULL */
    CHECK_OK(dcp_storage_write_all(files, "a", "x", 1, NULL, NULL));
    dcp_storage_close(NULL);
    done();
}

/* ==== keys ======================================================================================================== */
static void bad_key_body(void) {
    static const char *const bad[] = {
        "", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "../a", "a/..", "a/../b", "a\\b", "a:b", "C:/x", "nul\x01",
            "line\nbreak",
        "tab\t", "del\x7f", "\xff", "cut \xe6\x9d", "\xc0\xaf", "\xed\xa0\x80", "c1 \xc2\x85", "//server/share"
    };
    size_t i, size;
    void *data;
    dcp_object_info info;
    int exists;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_FAILS(dcp_storage_write_all(files, bad[i], "x", 1, NULL, &err), DCP_E_INVALID, "not a valid path");
        CHECK_FAILS(dcp_storage_read_all(files, bad[i], &data, &size, NULL, &err), DCP_E_INVALID, "not a valid path");
        CHECK_FAILS(dcp_storage_info(files, bad[i], &info, NULL, &err), DCP_E_INVALID, "not a valid path");
        CHECK_FAILS(dcp_storage_exists(files, bad[i], &exists, NULL, &err), DCP_E_INVALID, "not a valid path");
        CHECK_FAILS(dcp_storage_remove(files, bad[i], NULL, &err), DCP_E_INVALID, "not a valid path");
    }
    CHECK_STR(list(""), "");
}
TEST(bad_keys_are_refused) { on_local_and_memory(bad_key_body); }

static void good_key_body(void) {
    static const char *const good[] = {
        "a", "...", "..a", "a..", ".hidden", "a b", " ", "-", "a/b/c", "%20", "a'b\"c", "\xe6\x9d\xb1", "\xc2\xa0", "~",
            "a*?<>|"
    };
    size_t i;
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
#ifdef _WIN32
        if (strpbrk(good[i], "*?<>|\"") || strcmp(good[i], " ") == 0 || good[i][strlen(good[i]) - 1] == '.') continue;
#endif
        put_text(good[i], good[i]);
        check_text(good[i], good[i]);
        CHECK_OK(dcp_storage_remove(files, good[i], NULL, &err));
    }
    CHECK_STR(list(""), "");
}
TEST(unusual_keys_are_fine) { on_local_and_memory(good_key_body); }

TEST(a_key_may_be_long) {
    char key[1200] = "";
    int i;
    use_local();
    for (i = 0; i < 5; i++) {
        if (i) strcat(key, "/");
        memset(key + strlen(key), 'k', 200);
    }
    put_text(key, "far down");
    check_text(key, "far down");
    memset(key, 'k', 300);
    key[300] = '\0';
    /* longer than a file name can be: an error, no more */
    CHECK(dcp_storage_write_all(files, key, "x", 1, NULL, &err) != DCP_OK);
    CHECK(err.message[0] != '\0');
    done();
}

/* ==== objects while they are made: begin, write, commit, abort ==================================================== */
static void *begin(const char *key, const char *temporary, int64_t hint) {
    void *object;
    CHECK_OK_MESSAGE(dcpi_storage_begin(files, key, temporary, hint, &object, &err), err.message);
    return object;
}
static dcp_status commit(void *object, int replace) {
    const dcp_commit_request request = { replace, NULL };
    return files->commit(files->context, object, &request, &err);
}
static void write_at(void *object, int64_t offset, const char *text) {
    CHECK_OK_MESSAGE(files->write(files->context, object, offset, text, strlen(text), &err), err.message);
}
static void commit_body(void) {
    void *object = begin("dir/a", "dir/a.0123456789abcdef.tmp", 0);
    write_at(object, 0, "hello ");
    CHECK(!is_there("dir/a"));                          /* invisible until commit */
    write_at(object, 6, "world");
    CHECK_OK_MESSAGE(commit(object, 0), err.message);
    check_text("dir/a", "hello world");
    CHECK_STR(list("dir"), "dir/a ");
    object = begin("dir/a", "dir/a.0123456789abcdee.tmp", 100);
    write_at(object, 0, "new");
    check_text("dir/a", "hello world");
    CHECK_OK_MESSAGE(commit(object, 1), err.message);
    check_text("dir/a", "new");
    CHECK_STR(list("dir"), "dir/a ");
}
TEST(an_object_is_invisible_until_commit) { on_local_and_memory(commit_body); }

static void exclusive_body(void) {
    void *first = begin("a", "a.1.tmp", 0), *second = begin("a", "a.2.tmp", 0);
    write_at(first, 0, "first");
    write_at(second, 0, "second");
    CHECK_OK_MESSAGE(commit(first, 0), err.message);
    memset(&err, 0, sizeof err);
    CHECK_INT(commit(second, 0), DCP_E_EXISTS);
    CHECK(err.status == DCP_E_EXISTS && strstr(err.message, "a") != NULL);
    check_text("a", "first");
    CHECK_STR(list(""), "a ");                          /* a commit that fails removes what begin made */
}
TEST(publishing_without_replace_is_exclusive) { on_local_and_memory(exclusive_body); }

/* A server's answer gets lost: the file has left its temporary name, so it may have been seen, even if it is not there
 * any more. */
TEST(what_has_left_its_temporary_name_may_have_been_published) {
    static const dcp_commit_request how[] = { { 0, NULL }, { 1, NULL } };
    size_t i;
#ifdef _WIN32
    SKIP("an open file keeps its name here");
#endif
    use_local();
    for (i = 0; i < DCPI_COUNT(how); i++) {
        void *object = begin("dir/a", "dir/a.1.tmp", 0);
        int may_be_there = -1;
        write_at(object, 0, "text");
        CHECK_OK_MESSAGE(files->remove(files->context, "dir/a.1.tmp", NULL, &err), err.message);
        CHECK_FAILS(dcpi_storage_publish(files, "dir/a", object, &how[i], &may_be_there, &err), DCP_E_IO,
                    "cannot publish \"dir/a\"");
        CHECK_INT(may_be_there, 1);
        object = begin("dir/a", "dir/a.1.tmp", 0);
        CHECK_OK_MESSAGE(files->remove(files->context, "dir/a.1.tmp", NULL, &err), err.message);
        CHECK_FAILS(files->commit(files->context, object, &how[i], &err), DCP_E_UNKNOWN, "dir/a");
    }
    CHECK_STR(list("dir"), "");
    done();
}

static void abort_body(void) {
    void *object = begin("dir/a", "dir/a.1.tmp", 1000);
    write_at(object, 0, "text");
    files->abort(files->context, object);
    CHECK(!is_there("dir/a"));
    CHECK_STR(list("dir"), "");
    put_text("dir/a", "kept");
    object = begin("dir/a", "dir/a.1.tmp", 0);
    write_at(object, 0, "dropped");
    files->abort(files->context, object);
    check_text("dir/a", "kept");
    CHECK_STR(list("dir"), "dir/a ");
}
TEST(abort_leaves_nothing) { on_local_and_memory(abort_body); }

static void any_offset_body(void) {
    const int64_t size = 3 * MIB;
    uint8_t *data = pattern((size_t)size);
    void *object = begin("a", "a.1.tmp", size), *got;
    size_t got_size;
    int64_t at;
    for (at = size - 100 * KIB; at >= 0; at -= 100 * KIB)
        CHECK_OK_MESSAGE(files->write(files->context, object, at, data + at, (size_t)(100 * KIB), &err), err.message);
    CHECK_OK_MESSAGE(files->write(files->context, object, 0, data, (size_t)(size % (100 * KIB)), &err), err.message);
    CHECK_OK_MESSAGE(commit(object, 0), err.message);
    CHECK_OK(dcp_storage_read_all(files, "a", &got, &got_size, NULL, &err));
    CHECK(got_size == (size_t)size && memcmp(got, data, got_size) == 0);
    dcp_free(got);
    free(data);
}
TEST(writes_take_any_offset) { on_local_and_memory(any_offset_body); }

static void gap_body(void) {
    void *object = begin("a", "a.1.tmp", 0), *got;
    size_t size, i;
    write_at(object, 5000, "end");
    CHECK_OK(commit(object, 0));
    CHECK_OK(dcp_storage_read_all(files, "a", &got, &size, NULL, &err));
    CHECK_INT(size, 5003);
    for (i = 0; i < 5000; i++) CHECK(((char *)got)[i] == 0);
    dcp_free(got);
}
TEST(what_is_not_written_is_zero) { on_local_and_memory(gap_body); }

static void hint_body(void) {                           /* a hint is a hint: less or more may come */
    void *object = begin("less", "less.1.tmp", 10 * MIB);
    write_at(object, 0, "short");
    CHECK_OK(commit(object, 0));
    check_text("less", "short");
    object = begin("more", "more.1.tmp", 1);
    write_at(object, 0, "longer than one byte");
    CHECK_OK(commit(object, 0));
    check_text("more", "longer than one byte");
}
TEST(the_size_is_that_of_what_was_written) { on_local_and_memory(hint_body); }

/* ==== reading ===================================================================================================== */
static void *open_object(const char *key, dcp_object_info *info) {
    void *object;
    CHECK_OK_MESSAGE(dcpi_storage_open_object(files, key, &object, info, &err), err.message);
    return object;
}
static void ends_body(void) {
    dcp_object_info info;
    char got[20] = "----------";
    void *object;
    put_text("a", "0123456789");
    object = open_object("a", &info);
    CHECK_INT(info.size, 10);
    CHECK_OK(files->read(files->context, object, 7, got, 3, &err));
    CHECK(memcmp(got, "789-", 4) == 0);
    CHECK_OK(files->read(files->context, object, 10, got, 0, &err));
    CHECK_FAILS(files->read(files->context, object, 8, got, 3, &err), DCP_E_INCOMPLETE, "");
    CHECK_FAILS(files->read(files->context, object, 11, got, 1, &err), DCP_E_INCOMPLETE, "");
    CHECK_FAILS(files->read(files->context, object, (int64_t)1 << 40, got, 1, &err), DCP_E_INCOMPLETE, "");
    CHECK_FAILS(files->read(files->context, object, 0, got, 11, &err), DCP_E_INCOMPLETE, "");
    CHECK_OK(files->read(files->context, object, 0, got, 10, &err));            /* it goes on after that */
    CHECK(memcmp(got, "0123456789", 10) == 0);
    files->close(files->context, object);
}
TEST(reads_at_and_beyond_the_end) { on_local_and_memory(ends_body); }

static void open_body(void) {
    dcp_object_info info;
    void *object, *data = &info;
    size_t size = 1;
    CHECK_FAILS(dcpi_storage_open_object(files, "none", &object, &info, &err), DCP_E_NOT_FOUND, "none");
    CHECK(object == NULL);
    CHECK_FAILS(dcp_storage_read_all(files, "no/such/thing", &data, &size, NULL, &err), DCP_E_NOT_FOUND,
                "no/such/thing");
    CHECK(data == NULL && size == 0);
    put_text("dir/a", "text");
    CHECK(dcpi_storage_open_object(files, "dir", &object, &info, &err) != DCP_OK);      /* a directory is no object */
}
TEST(what_is_not_there_is_not_found) { on_local_and_memory(open_body); }

/* Who has an object open goes on reading it: another one in its place, or none, changes nothing. */
static void replaced_body(void) {
    dcp_object_info info;
    char got[3];
    void *object;
    put_text("a", "old");
    object = open_object("a", &info);
#ifdef _WIN32
    if (dcp_storage_write_all(files, "a", "new and longer", 14, NULL, &err)) {
        files->close(files->context, object);
        SKIP("this Windows cannot replace an open file");
    }
#else
    put_text("a", "new and longer");
#endif
    CHECK_OK(files->read(files->context, object, 0, got, 3, &err));
    CHECK(memcmp(got, "old", 3) == 0);
    CHECK_OK(dcp_storage_remove(files, "a", NULL, &err));
    CHECK_OK(files->read(files->context, object, 0, got, 3, &err));
    CHECK(memcmp(got, "old", 3) == 0);
    files->close(files->context, object);
    CHECK(!is_there("a"));
}
TEST(an_open_object_stays_what_it_was) { on_local_and_memory(replaced_body); }

static void map_body(void) {
    dcp_object_info info;
    uint8_t *data = pattern(100000);
    const void *mapped, *again;
    void *object;
    CHECK_OK(dcp_storage_write_all(files, "a", data, 100000, NULL, &err));
    object = open_object("a", &info);
    CHECK_OK_MESSAGE(files->map(files->context, object, &mapped, &err), err.message);
    CHECK(memcmp(mapped, data, 100000) == 0);
    CHECK_OK(files->map(files->context, object, &again, &err));
    CHECK(again == mapped);
    CHECK_OK(dcp_storage_remove(files, "a", NULL, &err));
    CHECK(memcmp(mapped, data, 100000) == 0);           /* until close */
    files->close(files->context, object);
    put_text("empty", "");
    object = open_object("empty", &info);
    CHECK_OK_MESSAGE(files->map(files->context, object, &mapped, &err), err.message);
    files->close(files->context, object);
    free(data);
}
TEST(map_shows_the_whole_object) { on_local_and_memory(map_body); }

/* Beyond 4 GiB, in a file with a hole: a few blocks on the disk. */
TEST(offsets_have_64_bits) {
    const int64_t far_away = (int64_t)5 << 30;
    dcp_object_info info;
    char got[4] = "";
    void *object;
    use_local();
    object = begin("sparse", "sparse.1.tmp", 0);
    write_at(object, far_away, "far");
    write_at(object, 10, "near");
    CHECK_OK_MESSAGE(commit(object, 0), err.message);
    CHECK_OK(dcp_storage_info(files, "sparse", &info, NULL, &err));
    CHECK(info.size == far_away + 3);
    object = open_object("sparse", &info);
    CHECK(info.size == far_away + 3);
    CHECK_OK_MESSAGE(files->read(files->context, object, far_away, got, 3, &err), err.message);
    CHECK(memcmp(got, "far", 3) == 0);
    CHECK_OK(files->read(files->context, object, far_away - 1, got, 1, &err));
    CHECK(got[0] == 0);
    CHECK_FAILS(files->read(files->context, object, far_away + 1, got, 3, &err), DCP_E_INCOMPLETE, "sparse");
    files->close(files->context, object);
    done();
}

/* ==== listing, directories ======================================================================================== */
static dcp_status stop_at_second(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    return ++*(int *)user == 2 ? DCP_E_LIMIT : DCP_OK;
}
static dcp_status remove_it(void *user, const char *path, const dcp_object_info *info) {
    (void)info;
    ++*(int *)user;
    return dcp_storage_remove(files, path, NULL, NULL);
}
static void listing_body(void) {
    int count = 0;
    put_text("a", "1");
    put_text("b", "22");
    put_text("c", "333");
    put_text("d/e", "4444");
    CHECK_STR(list(""), "a b c ");
    /* what the callback says ends it and is returned */
    CHECK_INT(files->list(files->context, "", DCP_LIST_OBJECTS, stop_at_second, &count, &err), DCP_E_LIMIT);
    CHECK_INT(count, 2);
    count = 0;
    CHECK_OK(files->list(files->context, "", DCP_LIST_OBJECTS, remove_it, &count, &err));
    CHECK_INT(count, 3);
    CHECK_STR(list(""), "");
    CHECK_STR(list("d"), "d/e ");
}
TEST(listing_a_directory) { on_local_and_memory(listing_body); }

TEST(listing_shows_only_regular_files_with_possible_keys) {
    char path[TEST_PATH + 30];
    FILE *file;
    use_local();
    put_text("a", "1");
    put_text("sub/b", "1");
#ifndef _WIN32
    (void)snprintf(path, sizeof path, "%s/link", dir);
    CHECK_INT(symlink("a", path), 0);
    (void)snprintf(path, sizeof path, "%s/fifo", dir);
    CHECK_INT(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof path, "%s/a:b", dir);
    file = fopen(path, "w");
    CHECK(file && fclose(file) == 0);
    (void)snprintf(path, sizeof path, "%s/\xff", dir);
    file = fopen(path, "w");
    CHECK(!file || fclose(file) == 0);
    CHECK(dcp_storage_write_all(files, "link/x", "x", 1, NULL, &err) != DCP_OK);
#else
    (void)path; (void)file;
#endif
    CHECK_STR(list(""), "a ");
    done();
}
TEST(listing_what_is_no_directory) {
    int count = 0;
    use_local();
    CHECK_FAILS(files->list(files->context, "none", DCP_LIST_OBJECTS, stop_at_second, &count, &err), DCP_E_NOT_FOUND,
                "none");
    CHECK_FAILS(dcpi_storage_list(files, "../x", DCP_LIST_OBJECTS, stop_at_second, &count, &err), DCP_E_INVALID,
                "../x");
    CHECK_FAILS(dcpi_storage_list(files, "x/", DCP_LIST_OBJECTS, stop_at_second, &count, &err), DCP_E_INVALID, "x/");
    CHECK_INT(count, 0);
    done();
}
TEST(local_storage_syncs_and_makes_directories) {
    int64_t available = -1;
    use_local();
    CHECK_INT(files->flags & (DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY | DCP_STORAGE_ATOMIC_REPLACE |
                          DCP_STORAGE_EXCLUSIVE_PUBLISH), DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY |
                          DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH);
    CHECK_OK_MESSAGE(files->sync_directory(files->context, "made/by/this", &err), err.message);
    CHECK_STR(list("made/by/this"), "");
    CHECK_OK_MESSAGE(files->sync_directory(files->context, "", &err), err.message);
    CHECK_OK_MESSAGE(files->space(files->context, "made", &available, &err), err.message);
    CHECK(available > 0);
    done();
    use_memory();
    /* what it cannot promise it does not claim */
    CHECK_INT(files->flags & (DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY), 0);
    CHECK(files->flags & DCP_STORAGE_ATOMIC_REPLACE);
    done();
}
TEST(a_base_directory_is_made_with_its_parents) {
    char path[TEST_PATH + 30];
    dcp_storage *again;
    use_local();
    (void)snprintf(path, sizeof path, "%s/a/b c/d", dir);
    CHECK_OK_MESSAGE(dcp_storage_local(path, &again, &err), err.message);
    CHECK_OK(dcp_storage_write_all(again, "x", "y", 1, NULL, &err));
    dcp_storage_close(again);
    check_text("a/b c/d/x", "y");
    (void)snprintf(path, sizeof path, "%s/a/b c/d/x", dir);
    CHECK(dcp_storage_local(path, &again, &err) != DCP_OK);             /* a file is no directory */
    CHECK(again == NULL && err.message[0] != '\0');
    done();
}

/* ==== providers =================================================================================================== */
static dcp_status open_provider(const char *name, const char *key, const char *value, dcp_storage **out) {
    dcp_storage_options options = DCP_ZERO;
    dcp_field setting;
    setting.key = key;
    setting.value = value;
    options.provider = name;
    options.settings = key ? &setting : NULL;
    options.setting_count = key ? 1 : 0;
    return dcp_storage_open(&options, out, &err);
}
TEST(factory_opens_local_and_memory) {
    static const char *const names[] = { "local", "LOCAL", "Local" };
    static const char *const keys[] = { "basePath", "basepath", "BASEPATH" };
    int i;
    dir = test_dir();
    for (i = 0; i < 3; i++) {
        CHECK_OK_MESSAGE(open_provider(names[i], keys[i], dir, &files), err.message);
        put_text("a", names[i]);
        check_text("a", names[i]);
        done();
    }
    dir = NULL;
    CHECK_OK_MESSAGE(open_provider("Memory", NULL, NULL, &files), err.message);
    CHECK(!is_there("a"));
    put_text("a", "x");
    done();
}
TEST(factory_refuses_unknown_settings) {
    CHECK_FAILS(open_provider("local", NULL, NULL, &files), DCP_E_INVALID, "basePath");
    CHECK(files == NULL);
    CHECK_FAILS(open_provider("local", "base_path", "x", &files), DCP_E_INVALID, "base_path");
    CHECK_FAILS(open_provider("memory", "basePath", "x", &files), DCP_E_INVALID, "basePath");
    CHECK_FAILS(open_provider(NULL, NULL, NULL, &files), DCP_E_INVALID, "provider");
    CHECK_FAILS(dcp_storage_open(NULL, &files, &err), DCP_E_INVALID, "provider");
    CHECK(files == NULL);
}
TEST(factory_says_what_providers_there_are) {
    static const char *const future[] = { "s3", "gcs", "azure", "S3", "", "locale" };
    int i;
    for (i = 0; i < 6; i++) {
        CHECK_FAILS(open_provider(future[i], NULL, NULL, &files), DCP_E_UNSUPPORTED, "local, memory");
        CHECK(strstr(err.message, "dcp_storage_register") != NULL);
        CHECK(files == NULL);
    }
    CHECK_FAILS(open_provider("s3", "bucket", "x", &files), DCP_E_UNSUPPORTED, "\"s3\"");
}
static int opened_with;
static dcp_status open_cloud(const dcp_storage_options *options, dcp_storage **out, dcp_error *error) {
    opened_with = (int)options->setting_count;
    if (options->setting_count == 0) return dcpi_fail(error, DCP_E_INVALID, "the cloud needs a bucket");
    return dcp_storage_memory(out, error);
}
static dcp_status open_silently(const dcp_storage_options *options, dcp_storage **out, dcp_error *error) {
    (void)options; (void)out; (void)error;
    return DCP_E_IO;
}
TEST(a_provider_can_be_registered) {
    CHECK_FAILS(open_provider("test-cloud", "bucket", "b", &files), DCP_E_UNSUPPORTED, "test-cloud");
    CHECK_OK_MESSAGE(dcp_storage_register("test-cloud", open_cloud, &err), err.message);
    CHECK_OK_MESSAGE(open_provider("Test-CLOUD", "bucket", "b", &files), err.message);
    CHECK_INT(opened_with, 1);
    put_text("a", "in the cloud");
    check_text("a", "in the cloud");
    done();
    CHECK_FAILS(open_provider("test-cloud", NULL, NULL, &files), DCP_E_INVALID, "needs a bucket");
    CHECK(files == NULL);
    CHECK_FAILS(open_provider("none", NULL, NULL, &files), DCP_E_UNSUPPORTED, "test-cloud");
    CHECK_OK(dcp_storage_register("test-silent", open_silently, &err));
    CHECK_FAILS(open_provider("test-silent", NULL, NULL, &files), DCP_E_IO, "test-silent");   /* no reason */
    CHECK(files == NULL);
}
TEST(a_name_is_registered_once) {
    static char too_long[65];
    memset(too_long, 'p', 64);
    CHECK_OK(dcp_storage_register("test-once", open_cloud, &err));
    CHECK_FAILS(dcp_storage_register("test-once", open_cloud, &err), DCP_E_EXISTS, "test-once");
    CHECK_FAILS(dcp_storage_register("TEST-Once", open_cloud, &err), DCP_E_EXISTS, "TEST-Once");
    CHECK_FAILS(dcp_storage_register("local", open_cloud, &err), DCP_E_EXISTS, "local");
    CHECK_FAILS(dcp_storage_register("MEMORY", open_cloud, &err), DCP_E_EXISTS, "MEMORY");
    CHECK_FAILS(dcp_storage_register(NULL, open_cloud, &err), DCP_E_INVALID, "name");
    CHECK_FAILS(dcp_storage_register("", open_cloud, &err), DCP_E_INVALID, "name");
    CHECK_FAILS(dcp_storage_register(too_long, open_cloud, &err), DCP_E_INVALID, "63");
    CHECK_FAILS(dcp_storage_register("test-null", NULL, &err), DCP_E_INVALID, "open");
}
#ifndef _WIN32
static unsigned mode_of(const char *key) {
    char path[TEST_PATH + 100];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s", dir, key);
    CHECK_INT(stat(path, &info), 0);
    return (unsigned)info.st_mode & 0777;
}
#endif
TEST(permission_bits_of_new_files) {
#ifdef _WIN32
    SKIP("Windows has no permission bits");
#else
    dcp_storage_options options = DCP_ZERO;
    dcp_field settings[2] = { { "basePath", NULL }, { "mode", "0640" } };
    static const char *const bad[] = { "888", "rw", "1777", "0x1ff", "-1", "77777777777777777777" };
    int i;
    mode_t before = umask(022);
    dir = test_dir();
    settings[0].value = dir;
    options.provider = "local";
    options.settings = settings;
    options.setting_count = 2;
    CHECK_OK_MESSAGE(dcp_storage_open(&options, &files, &err), err.message);
    put_text("a", "x");
    CHECK_INT(mode_of("a"), 0640);
    CHECK_STR(additional("a", "mode"), "0640");
    done();
    settings[1].value = "666";                          /* exactly these, whatever the umask */
    CHECK_OK(dcp_storage_open(&options, &files, &err));
    put_text("b", "x");
    CHECK_INT(mode_of("b"), 0666);
    done();
    options.setting_count = 1;                          /* the default: 0666 less the umask */
    CHECK_OK(dcp_storage_open(&options, &files, &err));
    put_text("c", "x");
    CHECK_INT(mode_of("c"), 0644);
    done();
    options.setting_count = 2;
    for (i = 0; i < 6; i++) {
        settings[1].value = bad[i];
        CHECK_FAILS(dcp_storage_open(&options, &files, &err), DCP_E_INVALID, "mode");
        CHECK(files == NULL);
    }
    (void)umask(before);
#endif
}
/* A checkpoint's files have these bits too. */
TEST(permission_bits_of_a_checkpoint) {
#ifdef _WIN32
    SKIP("Windows has no permission bits");
#else
    dcp_storage_options options = DCP_ZERO;
    dcp_field settings[2] = { { "basePath", NULL }, { "mode", "0600" } };
    float x = 1;
    dcp_tensor t = dcp_scalar("x", DCP_FP32, &x);
    dcp_save_desc desc = DCP_ZERO;
    dir = test_dir();
    settings[0].value = dir;
    options.provider = "local";
    options.settings = settings;
    options.setting_count = 2;
    CHECK_OK(dcp_storage_open(&options, &files, &err));
    desc.path = "run/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = files;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK_INT(mode_of("run/x.metadata.json"), 0600);
    CHECK_INT(mode_of("run/x_shard_0.bin"), 0600);
    done();
#endif
}

/* ==== threads ===================================================================================================== */
#define WORKERS 4
typedef struct worker { int number, ok; } worker;
#ifdef _WIN32
#define IS_WINDOWS 1
#else
#define IS_WINDOWS 0
#endif
static void work(void *argument) {                      /* its own objects, and one that all of them replace and read */
    worker *w = (worker *)argument;
    char key[40], text[40];
    void *data;
    size_t size;
    int i;
    w->ok = 1;
    for (i = 0; i < 25 && w->ok; i++) {
        (void)snprintf(key, sizeof key, "t%d/k%d", w->number, i % 3);
        (void)snprintf(text, sizeof text, "worker %d, number %d", w->number, i);
        if (dcp_storage_write_all(files, key, text, strlen(text) + 1, NULL, NULL)) w->ok = 0;
        if (dcp_storage_read_all(files, key, &data, &size, NULL, NULL)) { w->ok = 0; break; }
        if (strcmp((const char *)data, text) != 0) w->ok = 0;
        dcp_free(data);
        /* which may refuse while another reads it */
        if (dcp_storage_write_all(files, "shared", text, strlen(text) + 1, NULL, NULL)) w->ok = w->ok && IS_WINDOWS;
        if (dcp_storage_read_all(files, "shared", &data, &size, NULL, NULL)) { w->ok = 0; break; }
        if (strncmp((const char *)data, "worker ", 7) != 0 || size != strlen((const char *)data) + 1) w->ok = 0;
        dcp_free(data);
        if (i % 5 == 4 && dcp_storage_remove(files, key, NULL, NULL)) w->ok = 0;
    }
}
static void threads_body(void) {
    dcpi_thread threads[WORKERS];
    worker workers[WORKERS];
    int i, started = 0;
    for (i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        workers[i].ok = 1;
        if (dcpi_thread_start(&threads[started], work, &workers[i]) == 0) started++;
    }
    for (i = 0; i < started; i++) dcpi_thread_join(&threads[i]);
    for (i = 0; i < WORKERS; i++) CHECK(workers[i].ok);
    CHECK(started == 0 || is_there("shared"));
    CHECK_STR(list(""), started ? "shared " : "");
}
TEST(several_threads_use_one_storage) { on_local_and_memory(threads_body); }

static void *shared_object;
static void write_part(void *argument) {      /* several threads write one object, where the storage's flags allow it */
    static const char text[] = "0123456789abcdef";
    worker *w = (worker *)argument;
    int i;
    for (i = 0; i < 1000; i++)
        if (files->write(files->context, shared_object, (int64_t)(w->number * 1000 + i) * 16, text, 16, NULL))
            w->ok = 0;
}
TEST(several_threads_write_one_object) {
    dcpi_thread threads[WORKERS];
    worker workers[WORKERS];
    void *data;
    size_t size, at;
    int i, started = 0;
    use_local();
    CHECK(files->flags & DCP_STORAGE_CONCURRENT_WRITE);
    shared_object = begin("a", "a.1.tmp", WORKERS * 16000);
    for (i = 0; i < WORKERS; i++) {
        workers[i].number = i;
        workers[i].ok = 1;
        if (dcpi_thread_start(&threads[started], write_part, &workers[i]) == 0) started++;
        else write_part(&workers[i]);
    }
    for (i = 0; i < started; i++) dcpi_thread_join(&threads[i]);
    CHECK_OK(commit(shared_object, 0));
    CHECK_OK(dcp_storage_read_all(files, "a", &data, &size, NULL, &err));
    CHECK_INT(size, WORKERS * 16000);
    for (at = 0; at < size; at += 16) CHECK(memcmp((char *)data + at, "0123456789abcdef", 16) == 0);
    for (i = 0; i < WORKERS; i++) CHECK(workers[i].ok);
    dcp_free(data);
    done();
}

/* ==== any storage: tests/storage_conformance.h ==================================================================== */
/* A bucket, as an object store has them: parts of an object are gathered and put as a whole, if a condition holds;
 * every version has a tag. Nothing is renamed, locked or mapped. */
typedef enum bucket_kind {
    BUCKET_BEGIN, BUCKET_WRITE, BUCKET_COMMIT, BUCKET_READ, BUCKET_STAT, BUCKET_LIST, BUCKET_ANY
} bucket_kind;
typedef struct bucket_entry { char *key, *data; size_t size; int version; } bucket_entry;
typedef struct bucket_object { char *key, *data; size_t size; int version; } bucket_object;
typedef struct bucket {
    dcp_storage storage;
    dcpi_mutex lock; dcpi_cond changed;
    bucket_entry entries[256]; int count, versions;
    int batches, writes, short_writes, writing, most_writing;   /* calls; short: of less than request_size */
    bucket_kind hangs; int interrupts, calls_left;              /* so many calls of this kind, then they wait */
    void (*before_commit)(struct bucket *b, const char *key), (*before_remove)(struct bucket *b, const char *key);
} bucket;

static bucket *the_bucket;
static bucket_entry *bucket_find(bucket *b, const char *key) {
    int i;
    for (i = 0; i < b->count; i++) if (strcmp(b->entries[i].key, key) == 0) return &b->entries[i];
    return NULL;
}
static int bucket_is_version(const bucket_entry *entry, const char *token) {
    char tag[DCP_TOKEN_SIZE];
    (void)snprintf(tag, sizeof tag, "\"tag-%d\"", entry ? entry->version : 0);
    return !token || (entry && strcmp(tag, token) == 0);
}
static void bucket_info(size_t size, int version, dcp_object_info *info) {
    info->size = (int64_t)size;
    info->modified_ns = (int64_t)time(NULL) * 1000000000;
    (void)snprintf(info->token, sizeof info->token, "\"tag-%d\"", version);
}
/* A call that gets no answer: until it is interrupted. */
static dcp_status bucket_call(bucket *b, bucket_kind kind, dcp_error *error) {
    dcp_status status = DCP_OK;
    dcpi_mutex_lock(&b->lock);
    if (b->hangs == kind && --b->calls_left < 0) {
        const int before = b->interrupts;
        while (b->interrupts == before) dcpi_cond_wait_ms(&b->changed, &b->lock, 1000);
        status = DCP_E_CANCELLED;
    }
    dcpi_mutex_unlock(&b->lock);
    return status ? dcpi_fail(error, status, "broken off") : DCP_OK;
}
static void bucket_interrupt(void *context) {
    bucket *b = (bucket *)context;
    dcpi_mutex_lock(&b->lock);
    b->interrupts++;
    dcpi_cond_wake_all(&b->changed);
    dcpi_mutex_unlock(&b->lock);
}
static bucket_object *bucket_object_new(const char *key) {
    bucket_object *o = (bucket_object *)calloc(1, sizeof *o);
    if (!o || !(o->key = (char *)malloc(strlen(key) + 1))) abort();
    (void)strcpy(o->key, key);
    return o;
}
static void bucket_close(void *context, void *object) {
    bucket_object *o = (bucket_object *)object;
    (void)context;
    free(o->key);
    free(o->data);
    free(o);
}
static dcp_status bucket_begin(void *context, const dcp_begin_request *request, void **object, dcp_error *error) {
    const dcp_status status = bucket_call((bucket *)context, BUCKET_BEGIN, error);
    if (!status) *object = bucket_object_new(request->path);
    return status;
}
static dcp_status bucket_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                               dcp_error *error) {
    bucket *b = (bucket *)context;
    bucket_object *o = (bucket_object *)object;
    const size_t end = (size_t)offset + size;
    const dcp_status status = bucket_call(b, BUCKET_WRITE, error);
    if (status) return status;
    dcpi_mutex_lock(&b->lock);
    b->writes++;
    b->short_writes += size < b->storage.request_size;
    if (++b->writing > b->most_writing) b->most_writing = b->writing;
    if (end > o->size) {
        o->data = (char *)realloc(o->data, end);
        if (!o->data) abort();
        memset(o->data + o->size, 0, end - o->size);
        o->size = end;
    }
    if (size) memcpy(o->data + offset, data, size);
    dcpi_mutex_unlock(&b->lock);
    if (size > 1 << 20) dcpi_os_sleep_ms(400);          /* on its way */
    dcpi_mutex_lock(&b->lock);
    b->writing--;
    dcpi_mutex_unlock(&b->lock);
    return DCP_OK;
}
/* A conditional put. */
static dcp_status bucket_commit(void *context, void *object, const dcp_commit_request *request, dcp_error *error) {
    bucket *b = (bucket *)context;
    bucket_object *o = (bucket_object *)object;
    bucket_entry *entry;
    dcp_status status = bucket_call(b, BUCKET_COMMIT, error);
    if (b->before_commit) b->before_commit(b, o->key);
    dcpi_mutex_lock(&b->lock);
    entry = bucket_find(b, o->key);
    if (!status && (request->replace ? !bucket_is_version(entry, request->token) : entry != NULL))
        status = dcpi_fail(error, DCP_E_EXISTS, "precondition failed: \"%s\"", o->key);
    if (!status && !entry && b->count == 256) abort();
    if (!status) {
        if (!entry) { entry = &b->entries[b->count++]; memset(entry, 0, sizeof *entry); }
        free(entry->key);
        free(entry->data);
        entry->key = o->key;
        entry->data = o->data;
        entry->size = o->size;
        entry->version = ++b->versions;
        o->key = o->data = NULL;
    }
    dcpi_mutex_unlock(&b->lock);
    bucket_close(context, object);
    return status;
}
static dcp_status bucket_stat(void *context, const char *path, dcp_object_info *info, dcp_error *error) {
    bucket *b = (bucket *)context;
    bucket_entry *entry;
    dcp_status status = bucket_call(b, BUCKET_STAT, error);
    if (status) return status;
    dcpi_mutex_lock(&b->lock);
    entry = bucket_find(b, path);
    if (entry) bucket_info(entry->size, entry->version, info);
    dcpi_mutex_unlock(&b->lock);
    return entry ? DCP_OK : dcpi_fail(error, DCP_E_NOT_FOUND, "no such key: \"%s\"", path);
}
static dcp_status bucket_open_object(void *context, const char *path, void **object, dcp_object_info *info,
                                     dcp_error *error) {
    bucket *b = (bucket *)context;
    bucket_object *o = bucket_object_new(path);
    bucket_entry *entry;
    dcpi_mutex_lock(&b->lock);
    entry = bucket_find(b, path);
    if (entry) {
        o->data = (char *)malloc(entry->size + 1);
        if (!o->data) abort();
        if (entry->size) memcpy(o->data, entry->data, entry->size);
        o->size = entry->size;
        bucket_info(entry->size, entry->version, info);
        *object = o;
    }
    dcpi_mutex_unlock(&b->lock);
    if (entry) return DCP_OK;
    bucket_close(context, o);
    return dcpi_fail(error, DCP_E_NOT_FOUND, "no such key: \"%s\"", path);
}
static dcp_status bucket_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *error) {
    const bucket_object *o = (const bucket_object *)object;
    const dcp_status status = bucket_call((bucket *)context, BUCKET_READ, error);
    if (status) return status;
    if ((uint64_t)offset > o->size || size > o->size - (size_t)offset)
        return dcpi_fail(error, DCP_E_INCOMPLETE, "\"%s\" has no such range", o->key);
    if (size) memcpy(data, o->data + offset, size);
    return DCP_OK;
}
static dcp_status bucket_list(void *context, const char *directory, dcp_list_kind what, dcpi_storage_each each,
                              void *user, dcp_error *error) {
    bucket *b = (bucket *)context;
    dcp_status status = bucket_call(b, BUCKET_LIST, error);
    int i;
    for (i = 0; i < b->count && !status && what == DCP_LIST_OBJECTS; i++) {
        dcp_object_info info;
        char key[400];
        (void)snprintf(key, sizeof key, "%s", b->entries[i].key);
        bucket_info(b->entries[i].size, b->entries[i].version, &info);
        if (dcpi_is_directly_in(key, directory)) status = each(user, key, &info);
    }
    return status;
}
static dcp_status bucket_remove(void *context, const char *path, const char *token, dcp_error *error) {
    bucket *b = (bucket *)context;
    bucket_entry *entry;
    int is_other;
    if (b->before_remove) b->before_remove(b, path);
    dcpi_mutex_lock(&b->lock);
    entry = bucket_find(b, path);
    is_other = entry && !bucket_is_version(entry, token);
    if (entry && !is_other) {
        free(entry->key);
        free(entry->data);
        *entry = b->entries[--b->count];
    }
    dcpi_mutex_unlock(&b->lock);
    return is_other ? dcpi_fail(error, DCP_E_EXISTS, "precondition failed: \"%s\"", path) : DCP_OK;
}
/* It answers for the first two, and never a read. */
static void bucket_batch(void *context, dcp_batch_kind what, dcp_batch_item *items, size_t count) {
    size_t i;
    ((bucket *)context)->batches++;
    for (i = 0; i < count && i < 2; i++) {
        if (what == DCP_BATCH_STAT) items[i].status = bucket_stat(context, items[i].path, &items[i].info, NULL);
        if (what == DCP_BATCH_REMOVE) items[i].status = bucket_remove(context, items[i].path, NULL, NULL);
    }
}
static void bucket_destroy(void *context) {
    bucket *b = (bucket *)context;
    while (b->count > 0) (void)bucket_remove(context, b->entries[0].key, NULL, NULL);
    dcpi_cond_destroy(&b->changed);
    dcpi_mutex_destroy(&b->lock);
}
static dcp_storage *bucket_open(void *user) {
    bucket *b = (bucket *)calloc(1, sizeof *b);         /* its first member is what dcp_storage_close frees */
    dcp_storage *s = &b->storage;
    (void)user;
    if (dcpi_mutex_init(&b->lock) != 0 || dcpi_cond_init(&b->changed) != 0) abort();
    b->hangs = BUCKET_ANY;
    the_bucket = b;
    s->context = b;
    s->flags = DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_CONCURRENT_WRITE | DCP_STORAGE_ATOMIC_REPLACE |
               DCP_STORAGE_EXCLUSIVE_PUBLISH | DCP_STORAGE_SYNC | DCP_STORAGE_TOKENS;
    s->request_size = (size_t)5 << 20; s->parallel = 4;
    s->begin = bucket_begin; s->write = bucket_write; s->commit = bucket_commit; s->abort = bucket_close;
    s->open = bucket_open_object; s->read = bucket_read; s->close = bucket_close;
    s->stat = bucket_stat; s->list = bucket_list; s->remove = bucket_remove; s->batch = bucket_batch;
    s->interrupt = bucket_interrupt; s->destroy = bucket_destroy;
    return s;
}
static dcp_storage *conforming_local(void *user) {
    static int number;
    dcp_storage *s = NULL;
    char path[TEST_PATH + 20];
    (void)user;
    (void)snprintf(path, sizeof path, "%s/%d", dir, ++number);
    return dcp_storage_local(path, &s, &err) == DCP_OK ? s : NULL;
}
static dcp_storage *conforming_memory(void *user) {
    dcp_storage *s = NULL;
    (void)user;
    return dcp_storage_memory(&s, &err) == DCP_OK ? s : NULL;
}
static void conform(conformance_factory make) {
    FILE *lines = tmpfile();
    char line[300];
    int failed;
    CHECK(lines != NULL);
    failed = storage_conformance(make, NULL, lines);
    rewind(lines);
    while (failed > 0 && fgets(line, sizeof line, lines))
        if (strncmp(line, "FAILED", 6) == 0) (void)printf("  %s", line);
    (void)fclose(lines);
    CHECK_INT(failed, 0);
}
TEST(local_files_conform) { use_local(); conform(conforming_local); done(); }
TEST(memory_conforms) { conform(conforming_memory); }
TEST(a_bucket_without_rename_conforms) { conform(bucket_open); }

/* ==== what the optional members gain ============================================================================== */
static dcp_save_desc large_save(uint8_t *bytes, dcp_tensor *t, const char *path) {
    dcp_save_desc desc = DCP_ZERO;
    *t = dcp_bytes("large", bytes, (int64_t)40 << 20);
    desc.path = path;
    desc.tensors = t;
    desc.tensor_count = 1;
    desc.io.storage = store;
    return desc;
}
TEST(requests_are_as_long_and_as_many_as_a_storage_wants) {
    uint8_t *bytes = pattern((size_t)40 << 20), *back = (uint8_t *)calloc(40, 1 << 20);
    dcp_load_desc load = DCP_ZERO;
    dcp_save_desc save;
    dcp_tensor t;
    CHECK(back != NULL);
    files = store = bucket_open(NULL);
    save = large_save(bytes, &t, "p");
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    CHECK(the_bucket->writes <= 9 && the_bucket->short_writes <= 2);    /* the last of the shard, and the document */
#if !(defined(DCP_NO_THREADS) && DCP_NO_THREADS)
    CHECK(the_bucket->most_writing > 2);
#endif
    t.data = back;
    load.path = "p";
    load.tensors = &t;
    load.tensor_count = 1;
    load.io.storage = store;
    load.io.memory_budget = (size_t)4 << 20;            /* it counts for more than what a storage wants */
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    CHECK(memcmp(bytes, back, (size_t)40 << 20) == 0);
    save.io.memory_budget = (size_t)4 << 20;
    save.overwrite = 1;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    free(bytes);
    free(back);
    done();
}
/* Between the last look of a save and its commit another one commits: without a lock. */
static int64_t rival_values, rival_overwrites;
static dcp_status small_save(const char *path, int64_t value, int overwrite) {
    dcp_tensor t = dcp_bytes("v", &value, (int64_t)sizeof value);
    dcp_save_desc desc = DCP_ZERO;
    desc.path = path;
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.overwrite = overwrite;
    desc.io.storage = store;
    return dcp_save(&desc, &err);
}
static void rival_commits(bucket *b, const char *key) {
    if (!strstr(key, ".metadata.json")) return;
    b->before_commit = b->before_remove = NULL;
    CHECK_OK_MESSAGE(small_save("p", rival_values, (int)rival_overwrites), err.message);
}
static void check_value(int64_t value) {
    int64_t got = 0;
    dcp_tensor t = dcp_bytes("v", &got, (int64_t)sizeof got);
    dcp_load_desc desc = DCP_ZERO;
    desc.path = "p";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = store;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    CHECK_INT(got, value);
}
TEST(tokens_keep_two_saves_apart_without_a_lock) {
    files = store = bucket_open(NULL);
    rival_values = 1;
    rival_overwrites = 0;
    the_bucket->before_commit = rival_commits;
    CHECK_INT(small_save("p", 2, 0), DCP_E_EXISTS);     /* the first save of a path */
    check_value(1);
    rival_values = 3;
    rival_overwrites = 1;
    the_bucket->before_commit = rival_commits;
    CHECK_INT(small_save("p", 4, 1), DCP_E_EXISTS);     /* an overwrite */
    check_value(3);
    CHECK_OK_MESSAGE(small_save("p", 5, 1), err.message);
    check_value(5);
    CHECK_INT(the_bucket->count, 2);                    /* the refused ones have left nothing */
    done();
}
TEST(tokens_keep_a_removal_from_what_was_saved_meanwhile) {
    dcp_remove_desc gone = DCP_ZERO;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_removal removal;
    files = store = bucket_open(NULL);
    CHECK_OK_MESSAGE(small_save("p", 1, 0), err.message);
    rival_values = 2;
    rival_overwrites = 1;
    the_bucket->before_remove = rival_commits;
    gone.path = "p";
    gone.io.storage = prune.io.storage = store;
    CHECK_FAILS(dcp_remove(&gone, NULL, &err), DCP_E_EXISTS, "p.metadata.json");
    check_value(2);
    CHECK_OK_MESSAGE(small_save("q", 3, 0), err.message);
    rival_values = 4;
    the_bucket->before_remove = rival_commits;
    prune.directory = "";
    prune.keep_last = 1;
    CHECK_OK_MESSAGE(dcp_prune(&prune, &removal, &err), err.message);
    CHECK_INT(removal.checkpoints, 0);
    dcp_removal_free(&removal);
    check_value(4);
    done();
}
static void hang(bucket_kind kind, int calls) {
    the_bucket->hangs = kind;
    the_bucket->calls_left = calls;
}
typedef struct late_cancel { dcp_cancel cancel; dcpi_thread thread; } late_cancel;
static void cancel_soon(void *argument) {
    dcpi_os_sleep_ms(100);
    dcp_cancel_request(&((late_cancel *)argument)->cancel);
}
TEST(cancel_and_deadline_end_calls_that_hang) {
#if defined(DCP_NO_THREADS) && DCP_NO_THREADS
    SKIP("needs threads");
#else
    static const bucket_kind kinds[] = { BUCKET_BEGIN, BUCKET_WRITE, BUCKET_COMMIT, BUCKET_STAT, BUCKET_LIST };
    dcp_io io = DCP_ZERO;
    late_cancel late;
    void *data;
    size_t i, size;
    for (i = 0; i < DCPI_COUNT(kinds) * 2; i++) {
        int64_t value = 7;
        dcp_tensor t = dcp_bytes("v", &value, (int64_t)sizeof value);
        dcp_save_desc desc = DCP_ZERO;
        const int is_cancel = i % 2 == 1;
        files = store = bucket_open(NULL);
        desc.path = "p";
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.io.storage = store;
        memset(&late, 0, sizeof late);
        if (is_cancel) desc.io.cancel = &late.cancel;
        else desc.io.deadline_ms = 150;
        if (is_cancel) CHECK_INT(dcpi_thread_start(&late.thread, cancel_soon, &late), 0);
        hang(kinds[i / 2], 0);
        CHECK_INT(dcp_save(&desc, &err), is_cancel ? DCP_E_CANCELLED : DCP_E_TIMEOUT);
        CHECK(the_bucket->interrupts > 0);
        if (is_cancel) dcpi_thread_join(&late.thread);
        hang(BUCKET_ANY, 0);
        CHECK_INT(the_bucket->count, 0);
        done();
    }
    files = store = bucket_open(NULL);
    CHECK_OK_MESSAGE(small_save("p", 1, 0), err.message);
    hang(BUCKET_READ, 0);
    io.storage = store;
    io.deadline_ms = 100;
    CHECK_FAILS(dcp_storage_read_all(store, "p.metadata.json", &data, &size, &io, &err), DCP_E_TIMEOUT, "deadline");
    {
        dcp_load_desc desc = DCP_ZERO;
        desc.path = "p";
        desc.io = io;
        CHECK_FAILS(dcp_load(&desc, &err), DCP_E_TIMEOUT, "deadline");
    }
    hang(BUCKET_WRITE, 0);
    CHECK_FAILS(dcp_storage_write_all(store, "x", "text", 4, &io, &err), DCP_E_TIMEOUT, "deadline");
    hang(BUCKET_ANY, 0);
    check_value(1);
    done();
#endif
}

int main(void) {
    RUN(write_and_read_roundtrip);
    RUN(file_existence_checks);
    RUN(metadata_retrieval);
    RUN(metadata_includes_what_else_the_storage_knows);
    RUN(path_handling_with_nested_directories);
    RUN(cancellation_is_honoured_between_chunks);
    RUN(progress_of_whole_objects);
    RUN(a_deadline_ends_a_write);
    RUN(delete_of_what_is_not_there_is_fine);
    RUN(writing_replaces);
    RUN(arguments_that_are_missing_are_refused);
    RUN(bad_keys_are_refused);
    RUN(unusual_keys_are_fine);
    RUN(a_key_may_be_long);
    RUN(an_object_is_invisible_until_commit);
    RUN(publishing_without_replace_is_exclusive);
    RUN(what_has_left_its_temporary_name_may_have_been_published);
    RUN(abort_leaves_nothing);
    RUN(writes_take_any_offset);
    RUN(what_is_not_written_is_zero);
    RUN(the_size_is_that_of_what_was_written);
    RUN(reads_at_and_beyond_the_end);
    RUN(what_is_not_there_is_not_found);
    RUN(an_open_object_stays_what_it_was);
    RUN(map_shows_the_whole_object);
    RUN(offsets_have_64_bits);
    RUN(listing_a_directory);
    RUN(listing_shows_only_regular_files_with_possible_keys);
    RUN(listing_what_is_no_directory);
    RUN(local_storage_syncs_and_makes_directories);
    RUN(a_base_directory_is_made_with_its_parents);
    RUN(factory_opens_local_and_memory);
    RUN(factory_refuses_unknown_settings);
    RUN(factory_says_what_providers_there_are);
    RUN(a_provider_can_be_registered);
    RUN(a_name_is_registered_once);
    RUN(permission_bits_of_new_files);
    RUN(permission_bits_of_a_checkpoint);
    RUN(several_threads_use_one_storage);
    RUN(several_threads_write_one_object);
    RUN(local_files_conform);
    RUN(memory_conforms);
    RUN(a_bucket_without_rename_conforms);
    RUN(requests_are_as_long_and_as_many_as_a_storage_wants);
    RUN(tokens_keep_two_saves_apart_without_a_lock);
    RUN(tokens_keep_a_removal_from_what_was_saved_meanwhile);
    RUN(cancel_and_deadline_end_calls_that_hang);
    return test_finish();
}
