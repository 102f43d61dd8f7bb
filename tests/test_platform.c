/* test_platform.c - every line of the contract in >>platform, on the system the test runs on.
 *
 * White-box: it calls the dcpi_ functions themselves, and pushes them onto the ways that a good machine does not take
 * (direct I/O refused in the middle, no openat2, no exclusive rename, a full disk, a failed sync). */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#ifndef _WIN32
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <signal.h>
#endif
#ifdef __linux__
#include <sys/mount.h>
#include <sys/resource.h>
#endif

#define MIB ((size_t)1024 * 1024)
#define STATUS(sys) dcpi_os_status(sys)

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
static dcpi_base open_base(const char *path) {
    dcpi_base base;
    CHECK_INT(dcpi_os_base_open(path, 0, &base), 0);
    return base;
}
static unsigned char pattern_at(int64_t position) { return (unsigned char)((uint64_t)position * 2654435761u >> 13); }

static void fill(unsigned char *bytes, size_t size, int64_t position) {
    size_t i;
    for (i = 0; i < size; i++) bytes[i] = pattern_at(position + (int64_t)i);
}
static int is_filled(const unsigned char *bytes, size_t size, int64_t position) {
    size_t i;
    for (i = 0; i < size; i++) if (bytes[i] != pattern_at(position + (int64_t)i)) return 0;
    return 1;
}
static void put(dcpi_base *base, const char *key, const char *text) {
    dcpi_file file;
    CHECK_INT(dcpi_os_create(base, key, 0, 0, &file), 0);
    CHECK_INT(dcpi_os_write(&file, 0, text, strlen(text)), 0);
    CHECK_INT(dcpi_os_sync(&file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
}
static void check_holds(dcpi_base *base, const char *key, const char *text) {
    char got[64] = "";
    dcpi_file file;
    dcp_object_info info;
    CHECK_INT(dcpi_os_open(base, key, &file, &info), 0);
    CHECK_INT(info.size, strlen(text));
    CHECK_INT(dcpi_os_read(&file, 0, got, (size_t)info.size), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_STR(got, text);
}
static int64_t size_of(dcpi_base *base, const char *key) {      /* -1: not there */
    dcp_object_info info;
    return dcpi_os_stat(base, key, &info) == 0 ? info.size : -1;
}
static int count_one(void *user, const char *name, const dcp_object_info *info) {
    (void)name; (void)info;
    ++*(int *)user;
    return 0;
}
static int count_files(dcpi_base *base, const char *directory) {
    int count = 0;
    CHECK_INT(dcpi_os_list(base, directory, 0, count_one, &count), 0);
    return count;
}

#ifdef _WIN32
static void remove_directory(dcpi_base *base, const char *key) {        /* where test_rm_rf does not reach */
    wchar_t *path;
    CHECK_INT(dcpi_os_path(base, key, 0, &path), 0);
    CHECK(RemoveDirectoryW(path));
    dcpi_free(path);
}
#endif

/* ---- the machine ------------------------------------------------------------------------------------------------- */
TEST(clocks) {
    const int64_t start = dcpi_os_monotonic_ms();
    int64_t before = start, slept;
    int i;
    for (i = 0; i < 100000; i++) {
        const int64_t now = dcpi_os_monotonic_ms();
        CHECK(now >= before);
        before = now;
    }
    before = dcpi_os_monotonic_ms();
    dcpi_os_sleep_ms(30);
    slept = dcpi_os_monotonic_ms() - before;
    CHECK(slept >= 25 && slept < 10000);
    dcpi_os_sleep_ms(0);
    dcpi_os_sleep_ms(-5);
    CHECK(dcpi_os_wall_us() / 1000000 - (int64_t)time(NULL) <= 2);
    CHECK(dcpi_os_wall_us() / 1000000 - (int64_t)time(NULL) >= -2);
}
TEST(random_bytes) {
    unsigned char a[32] = {0}, b[32] = {0}, *many;
    size_t i, seen = 0;
    int found[256] = {0};
    CHECK_INT(dcpi_os_random(a, sizeof a), 0);
    CHECK_INT(dcpi_os_random(b, sizeof b), 0);
    CHECK(memcmp(a, b, sizeof a) != 0);
    CHECK_INT(dcpi_os_random(a, 0), 0);
#ifndef _WIN32
    CHECK_INT(dcpi_os_random_device(a, sizeof a), 0);           /* where the kernel lacks the call */
    CHECK(memcmp(a, b, sizeof a) != 0);
#endif
    many = (unsigned char *)malloc(MIB);
    CHECK(many != NULL);
    CHECK_INT(dcpi_os_random(many, MIB), 0);                    /* more than one call of the system gives */
    for (i = MIB - 65536; i < MIB; i++) if (!found[many[i]]++) seen++;
    free(many);
    CHECK_INT(seen, 256);
}
TEST(processors_and_pages) {
    unsigned char *pages = (unsigned char *)dcpi_os_pages(3 * MIB + 5);
    size_t i;
    CHECK(dcpi_os_processors() >= 1);
    CHECK(pages != NULL);
    CHECK_INT((uintptr_t)pages % 4096, 0);
    for (i = 0; i < 3 * MIB + 5; i += 997) CHECK_INT(pages[i], 0);
    memset(pages, 1, 3 * MIB + 5);
    dcpi_os_pages_free(pages, 3 * MIB + 5);
    dcpi_os_pages_free(NULL, 0);
    CHECK(dcpi_os_pages(SIZE_MAX - 8 * MIB) == NULL);
    CHECK(dcpi_os_pages(0) == NULL);
}
TEST(errors_have_words_and_statuses) {
    char text[128], tiny[8];
    volatile size_t tiny_size = sizeof tiny;                    /* volatile: no compiler warns that the words are cut */
    int sys;
    for (sys = -3; sys < 140; sys++) {
        memset(text, 0x7F, sizeof text);
        dcpi_os_message(sys, text, sizeof text);
        CHECK(text[0] != '\0' && memchr(text, '\0', sizeof text));
        CHECK((unsigned char)text[strlen(text) - 1] > ' ');     /* no line end left on it */
    }
    dcpi_os_message(DCPI_OS_SHORT, tiny, tiny_size);
    CHECK_STR(tiny, "the fil");
    CHECK_INT(STATUS(0), DCP_OK);
    CHECK_INT(STATUS(DCPI_OS_SHORT), DCP_E_INCOMPLETE);
    CHECK_INT(dcpi_os_is_transient(0), 0);
    CHECK_INT(dcpi_os_is_transient(DCPI_OS_SHORT), 0);
#ifdef _WIN32
    CHECK_INT(STATUS(ERROR_DISK_FULL), DCP_E_SPACE);
    CHECK_INT(STATUS(ERROR_ACCESS_DENIED), DCP_E_DENIED);
    CHECK_INT(dcpi_os_is_transient(ERROR_SHARING_VIOLATION), 1);
    CHECK_INT(dcpi_os_is_transient(ERROR_DISK_FULL), 0);
#else
    CHECK_INT(STATUS(ENOSPC), DCP_E_SPACE);
    CHECK_INT(STATUS(EDQUOT), DCP_E_SPACE);
    CHECK_INT(STATUS(EFBIG), DCP_E_SPACE);
    CHECK_INT(STATUS(ENOTDIR), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(ENOTSUP), DCP_E_UNSUPPORTED);
    CHECK_INT(STATUS(ENOSYS), DCP_E_UNSUPPORTED);
    CHECK_INT(STATUS(ENOMEM), DCP_E_MEMORY);
    CHECK_INT(STATUS(ELOOP), DCP_E_INVALID);
    CHECK_INT(STATUS(EMFILE), DCP_E_IO);
    CHECK_INT(STATUS(EACCES), DCP_E_DENIED);
    CHECK_INT(STATUS(EPERM), DCP_E_DENIED);
    CHECK_INT(STATUS(EROFS), DCP_E_DENIED);
    CHECK(dcpi_os_is_transient(EAGAIN) && dcpi_os_is_transient(ESTALE) && dcpi_os_is_transient(EIO) &&
          dcpi_os_is_transient(ETIMEDOUT));
    CHECK(!dcpi_os_is_transient(ENOSPC) && !dcpi_os_is_transient(EDQUOT) && !dcpi_os_is_transient(EROFS) &&
          !dcpi_os_is_transient(EACCES));
#endif
}

TEST(separators_of_paths) {
    static const struct { const char *path; size_t at; int anywhere, windows; } cases[] = {
        { "a/.", 0, 0, 0 }, { "a/.", 1, 1, 1 }, { "a/.", 2, 0, 0 }, { "a/.", 3, 0, 0 }, { "/", 0, 1, 1 },
            { "a\\b", 1, 0, 1 },
        { "a:b", 1, 0, 1 }, { "Z:", 1, 0, 1 }, { "a:b:c", 3, 0, 0 }, { "aa:b", 2, 0, 0 }, { ":a", 0, 0, 0 },
        { "1:a", 1, 0, 0 },
        { "@:a", 1, 0, 0 }, { "x/a:b", 3, 0, 0 },
    };
    size_t i;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
#ifdef _WIN32
        CHECK_INT(dcpi_os_is_separator(cases[i].path, cases[i].at), cases[i].windows);
#else
        CHECK_INT(dcpi_os_is_separator(cases[i].path, cases[i].at), cases[i].anywhere);
#endif
    }
}

/* ---- base and directories ---------------------------------------------------------------------------------------- */
TEST(base_open_makes_parents) {
    const char *root = test_dir();
    char path[TEST_PATH + 64];
    dcpi_base base;
    (void)snprintf(path, sizeof path, "%s/a/b//c/", root);
    CHECK_INT(STATUS(dcpi_os_base_open(path, 0, &base)), DCP_E_NOT_FOUND);
    CHECK_INT(dcpi_os_base_open(path, 1, &base), 0);
    put(&base, "x", "1");
    dcpi_os_base_close(&base);
    dcpi_os_base_close(&base);                                  /* twice is fine */
    CHECK_INT(dcpi_os_base_open(path, 1, &base), 0);            /* there already */
    check_holds(&base, "x", "1");
    dcpi_os_base_close(&base);
    (void)snprintf(path, sizeof path, "%s/a/b/c/x", root);
    CHECK_INT(STATUS(dcpi_os_base_open(path, 0, &base)), DCP_E_NOT_FOUND);      /* a file is no directory */
    CHECK(dcpi_os_base_open(path, 1, &base) != 0);
    (void)snprintf(path, sizeof path, "%s/a/b/c/x/y", root);
    CHECK(dcpi_os_base_open(path, 1, &base) != 0);
}
TEST(base_open_current_directory) {
    dcpi_base base;
    CHECK_INT(dcpi_os_base_open("", 0, &base), 0);
    dcpi_os_base_close(&base);
    CHECK_INT(dcpi_os_base_open(".", 0, &base), 0);
    dcpi_os_base_close(&base);
    CHECK_INT(dcpi_os_base_open(".", 1, &base), 0);
    dcpi_os_base_close(&base);
}
TEST(directories) {
    dcpi_base base = open_base(test_dir());
    int64_t bytes_free = -1;
    CHECK_INT(dcpi_os_make_directory(&base, "a/b/c"), 0);
    CHECK_INT(dcpi_os_make_directory(&base, "a/b/c"), 0);
    CHECK_INT(dcpi_os_make_directory(&base, "a/b/d"), 0);
    CHECK_INT(dcpi_os_make_directory(&base, ""), 0);
    put(&base, "a/file", "1");
    CHECK(dcpi_os_make_directory(&base, "a/file") != 0);
    CHECK(dcpi_os_make_directory(&base, "a/file/below") != 0);
    CHECK_INT(dcpi_os_sync_directory(&base, ""), 0);
    CHECK_INT(dcpi_os_sync_directory(&base, "a/b"), 0);
    CHECK_INT(STATUS(dcpi_os_sync_directory(&base, "a/none")), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_sync_directory(&base, "a/file")), DCP_E_NOT_FOUND);
    CHECK_INT(dcpi_os_space(&base, "", &bytes_free), 0);
    CHECK(bytes_free > 0);
    CHECK_INT(dcpi_os_space(&base, "a/b", &bytes_free), 0);
    CHECK(bytes_free > 0);
    CHECK_INT(STATUS(dcpi_os_space(&base, "none", &bytes_free)), DCP_E_NOT_FOUND);
    dcpi_os_base_close(&base);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
TEST(create_is_exclusive_and_makes_parents) {
    dcpi_base base = open_base(test_dir());
    dcpi_file file;
    put(&base, "p/q/file", "first");
    CHECK_INT(STATUS(dcpi_os_create(&base, "p/q/file", 0, 0, &file)), DCP_E_EXISTS);
    CHECK_INT(STATUS(dcpi_os_create(&base, "p/q/file", 0, 64 * 1024 * 1024, &file)), DCP_E_EXISTS);
    CHECK_INT(dcpi_os_close(&file), 0);                        /* a failed create leaves something that can be closed */
    check_holds(&base, "p/q/file", "first");
    CHECK_INT(STATUS(dcpi_os_create(&base, "p/q", 0, 0, &file)), DCP_E_EXISTS);
    CHECK(dcpi_os_create(&base, "p/q/file/below", 0, 0, &file) != 0);
    dcpi_os_base_close(&base);
}
TEST(names_beyond_ascii) {
    static const char folder[] = "\xC3\xBC\xE6\xBC\xA2\xF0\x9F\x98\x80",
                                 file[] = "\xC3\xBC\xE6\xBC\xA2\xF0\x9F\x98\x80/\xC3\xA4.bin";
    dcpi_base base = open_base(test_dir());
    put(&base, file, "utf-8");
    check_holds(&base, file, "utf-8");
    CHECK_INT(count_files(&base, folder), 1);
    CHECK_INT(dcpi_os_remove(&base, file), 0);
#ifdef _WIN32
    remove_directory(&base, folder);
#endif
    dcpi_os_base_close(&base);
}
/* Writes `size` bytes in pieces of `piece` from memory that starts `shift` bytes behind a page, then reads them back in
 * one go. */
static void write_and_compare(dcpi_base *base, size_t size, size_t piece, size_t shift, int64_t hint) {
    unsigned char *pages = (unsigned char *)dcpi_os_pages(size + 8192);
    dcp_object_info info;
    dcpi_file file;
    size_t done;
    CHECK(pages != NULL);
    fill(pages + shift, size, 0);
    CHECK_INT(dcpi_os_create(base, "data", 0, hint, &file), 0);
    for (done = 0; done < size; done += piece) {
        const size_t n = size - done < piece ? size - done : piece;
        CHECK_INT(dcpi_os_write(&file, (int64_t)done, pages + shift + done, n), 0);
    }
    CHECK_INT(dcpi_os_sync(&file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    memset(pages, 0, size + 8192);
    CHECK_INT(dcpi_os_open(base, "data", &file, &info), 0);
    CHECK_INT(info.size, size);
    CHECK_INT(dcpi_os_read(&file, 0, pages, size), 0);
    CHECK(is_filled(pages, size, 0));
    CHECK_INT(dcpi_os_read(&file, 0, pages, size + 1), DCPI_OS_SHORT);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_remove(base, "data"), 0);
    dcpi_os_pages_free(pages, size + 8192);
}
static void write_all_sizes(const char *path) {
    static const size_t tails[] = {0, 1, 511, 512, 4095, 4096, 4097};
    dcpi_base base = open_base(path);
    size_t i;
    for (i = 0; i < DCPI_COUNT(tails); i++) {
        const size_t small = tails[i], big = 8 * MIB + tails[i];
        write_and_compare(&base, small, MIB, 0, 0);
        write_and_compare(&base, small, MIB, 0, (int64_t)small);
        write_and_compare(&base, big, 4 * MIB, 0, (int64_t)big);        /* direct but for the tail */
        write_and_compare(&base, big, MIB + 3, 0, (int64_t)big);        /* few pieces begin where direct I/O may */
        write_and_compare(&base, big, 4 * MIB, 16, (int64_t)big);       /* memory that direct I/O does not take */
        write_and_compare(&base, big, 16 * MIB, 0, 0);                  /* buffered, in one call */
    }
    write_and_compare(&base, 70 * MIB + 5, 3 * MIB + 1, 0, 0);      /* buffered, over several windows of write-behind */
    dcpi_os_base_close(&base);
}
TEST(all_sizes_on_disk) { write_all_sizes(test_dir()); }

TEST(all_sizes_on_tmpfs) {
#ifdef __linux__
    char path[] = "/dev/shm/dcp_test_XXXXXX";
    if (!mkdtemp(path)) SKIP("no /dev/shm");
    write_all_sizes(path);
    test_rm_rf(path);
#else
    SKIP("no tmpfs on this system");
#endif
}
TEST(beyond_4_gib) {
    dcpi_base base = open_base(test_dir());
    const int64_t far_away = (int64_t)5 * 1024 * 1024 * 1024 + 7;
    char text[8] = "";
    dcp_object_info info;
    dcpi_file file;
    CHECK_INT(dcpi_os_create(&base, "sparse", 0, 0, &file), 0);
    CHECK_INT(dcpi_os_write(&file, far_away, "far", 3), 0);
    CHECK(dcpi_os_write(&file, INT64_MAX - 1, "far", 3) != 0);
    CHECK(dcpi_os_write(&file, -1, "far", 3) != 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_open(&base, "sparse", &file, &info), 0);
    CHECK_INT(info.size, far_away + 3);
    CHECK_INT(dcpi_os_read(&file, far_away, text, 3), 0);
    CHECK_STR(text, "far");
    CHECK_INT(dcpi_os_read(&file, INT64_MAX - 1, text, 3), DCPI_OS_SHORT);
    CHECK_INT(dcpi_os_close(&file), 0);
    dcpi_os_base_close(&base);
}
TEST(fewer_bytes_than_announced) {
    dcpi_base base = open_base(test_dir());
    dcpi_file file;
    CHECK_INT(dcpi_os_create(&base, "short", 0, 64 * 1024 * 1024, &file), 0);
    CHECK_INT(dcpi_os_write(&file, 0, "abc", 3), 0);
    CHECK_INT(dcpi_os_sync(&file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    check_holds(&base, "short", "abc");
#ifndef _WIN32
    {
        struct stat st;
        CHECK_INT(dcpi_os_stat_key(&base, "short", &st), 0);
        CHECK(st.st_blocks < 1024);                             /* and the space is given back */
    }
#endif
    dcpi_os_base_close(&base);
}
TEST(map_files) {
    dcpi_base base = open_base(test_dir());
    dcp_object_info info;
    const void *data;
    dcpi_file file;
    put(&base, "empty", "");
    put(&base, "some", "some bytes");
    CHECK_INT(dcpi_os_open(&base, "empty", &file, &info), 0);
    data = &info;
    CHECK_INT(dcpi_os_map(&file, 0, &data), 0);
    CHECK(data == NULL);
    dcpi_os_unmap(data, 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_open(&base, "some", &file, &info), 0);
    CHECK_INT(dcpi_os_map(&file, 11, &data), DCPI_OS_SHORT);    /* would be a SIGBUS */
    CHECK(data == NULL);
    CHECK(dcpi_os_map(&file, -1, &data) != 0);
    CHECK_INT(dcpi_os_map(&file, info.size, &data), 0);
    CHECK_INT(dcpi_os_close(&file), 0);                         /* the pages stay */
    CHECK_INT(memcmp(data, "some bytes", 10), 0);
    dcpi_os_unmap(data, 10);
    dcpi_os_base_close(&base);
}
TEST(boot) {
    char text[40], again[40];
    const int error = dcpi_os_boot(text);
    if (error) SKIP("this system has no name for the time since its start");
    CHECK_INT(dcpi_os_boot(again), 0);
    CHECK_STR(again, text);
    CHECK(strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == strlen(text) && text[0]);
}
TEST(stat_and_additional) {
    dcpi_base base = open_base(test_dir());
    const int64_t now_ns = dcpi_os_wall_us() * 1000, minute_ns = (int64_t)60 * 1000000000;
    dcp_object_info info;
    char mode[8] = "";
    int64_t links = 0;
    uint64_t inode = 0, device = 0;
    put(&base, "d/file", "12345");
    CHECK_INT(dcpi_os_stat(&base, "d/file", &info), 0);
    CHECK_INT(info.size, 5);
    CHECK(info.modified_ns > now_ns - minute_ns && info.modified_ns < now_ns + minute_ns);
    CHECK_INT(dcpi_os_additional(&base, "d/file", mode, &links, &inode, &device), 0);
    CHECK(strlen(mode) == 4 && mode[0] == '0');
    CHECK_INT(links, 1);
    CHECK(inode != 0);
#ifndef _WIN32                          /* wine's volumes have no serial number */
    CHECK(device != 0);
#endif
    CHECK_INT(STATUS(dcpi_os_stat(&base, "d/none", &info)), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_stat(&base, "none/none", &info)), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_stat(&base, "d", &info)), DCP_E_INVALID);
    CHECK_INT(STATUS(dcpi_os_additional(&base, "d", mode, &links, &inode, &device)), DCP_E_INVALID);
    dcpi_os_base_close(&base);
}
TEST(open_wants_a_regular_file) {
    dcpi_base base = open_base(test_dir());
    dcp_object_info info;
    dcpi_file file;
    put(&base, "d/file", "x");
    CHECK_INT(STATUS(dcpi_os_open(&base, "d", &file, &info)), DCP_E_INVALID);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(STATUS(dcpi_os_open(&base, "none", &file, &info)), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_open(&base, "none/none", &file, &info)), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_open(&base, "d/file/x", &file, &info)), DCP_E_NOT_FOUND);
    dcpi_os_base_close(&base);
}
TEST(remove_files) {
    dcpi_base base = open_base(test_dir());
    put(&base, "d/file", "x");
    CHECK_INT(dcpi_os_remove(&base, "d/file"), 0);
    CHECK_INT(STATUS(dcpi_os_remove(&base, "d/file")), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_remove(&base, "none/file")), DCP_E_NOT_FOUND);
#ifdef _WIN32
    CHECK_INT(STATUS(dcpi_os_remove(&base, "d")), DCP_E_DENIED);        /* a directory stays */
#else
    CHECK_INT(STATUS(dcpi_os_remove(&base, "d")), DCP_E_IO);
#endif
    CHECK_INT(dcpi_os_sync_directory(&base, "d"), 0);
    dcpi_os_base_close(&base);
}

/* ---- publishing -------------------------------------------------------------------------------------------------- */
TEST(publish_files) {
    dcpi_base base = open_base(test_dir());
    put(&base, "d/new.tmp", "new");
    CHECK_INT(dcpi_os_publish(&base, "d/new.tmp", "d/name", 0), 0);
    check_holds(&base, "d/name", "new");
    CHECK_INT(size_of(&base, "d/new.tmp"), -1);
    put(&base, "d/other.tmp", "other");
    CHECK_INT(STATUS(dcpi_os_publish(&base, "d/other.tmp", "d/name", 0)), DCP_E_EXISTS);
    check_holds(&base, "d/name", "new");
    check_holds(&base, "d/other.tmp", "other");
    CHECK_INT(dcpi_os_publish(&base, "d/other.tmp", "d/name", 1), 0);
    check_holds(&base, "d/name", "other");
    CHECK_INT(size_of(&base, "d/other.tmp"), -1);
    CHECK_INT(STATUS(dcpi_os_publish(&base, "d/none.tmp", "d/name2", 0)), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_publish(&base, "d/none.tmp", "d/name", 1)), DCP_E_NOT_FOUND);
    CHECK_INT(STATUS(dcpi_os_publish(&base, "d/name", "none/name", 1)), DCP_E_NOT_FOUND);
    check_holds(&base, "d/name", "other");
    dcpi_os_base_close(&base);
}
TEST(publish_while_it_is_read) {
    dcpi_base base = open_base(test_dir());
    dcp_object_info info;
    char got[4] = "";
    dcpi_file file;
    int error;
    put(&base, "name", "old");
    put(&base, "tmp", "new");
    CHECK_INT(dcpi_os_open(&base, "name", &file, &info), 0);
    error = dcpi_os_publish(&base, "tmp", "name", 1);
#ifdef _WIN32
    if (error) {
        CHECK_INT(dcpi_os_close(&file), 0);
        dcpi_os_base_close(&base);
        SKIP("this Windows cannot replace an open file");
    }
#endif
    CHECK_INT(error, 0);
    CHECK_INT(dcpi_os_read(&file, 0, got, 3), 0);
    CHECK_STR(got, "old");                                      /* a reader goes on with what it opened */
    CHECK_INT(dcpi_os_close(&file), 0);
    check_holds(&base, "name", "new");
    dcpi_os_base_close(&base);
}

#if DCPI_THREADS
typedef struct race { dcpi_thread thread; dcpi_base *base; volatile int *go; int number, by_link, error; } race;

static void race_publish(void *argument) {
    race *me = (race *)argument;
    char from[32];
    (void)snprintf(from, sizeof from, "from%d", me->number);
    while (!dcpi_flag_get(me->go)) { }
#ifndef _WIN32
    if (me->by_link) { me->error = dcpi_os_link_exclusive(me->base->fd, from, me->base->fd, "target"); return; }
#endif
    me->error = dcpi_os_publish(me->base, from, "target", 0);
}
static void race_once(dcpi_base *base, int by_link) {
    race all[8];
    volatile int go = 0;
    int i, winner = -1, wrong = 0;
    char name[32], text[32];
    for (i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "from%d", i);
        (void)snprintf(text, sizeof text, "text of %d", i);
        put(base, name, text);
        all[i].base = base;
        all[i].go = &go;
        all[i].number = i;
        all[i].by_link = by_link;
        all[i].error = -99;
    }
    for (i = 0; i < 8; i++) CHECK_INT(dcpi_thread_start(&all[i].thread, race_publish, &all[i]), 0);
    dcpi_flag_set(&go, 1);
    for (i = 0; i < 8; i++) dcpi_thread_join(&all[i].thread);
    for (i = 0; i < 8; i++) {
        if (all[i].error == 0 && winner < 0) winner = i;
        else if (STATUS(all[i].error) != DCP_E_EXISTS) wrong++;
    }
    CHECK_INT(wrong, 0);
    CHECK(winner >= 0);
    (void)snprintf(text, sizeof text, "text of %d", winner);
    check_holds(base, "target", text);
    CHECK_INT(count_files(base, ""), 8);                        /* the target and seven that lost */
    CHECK_INT(dcpi_os_remove(base, "target"), 0);
    for (i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "from%d", i);
        CHECK_INT(STATUS(dcpi_os_remove(base, name)), i == winner ? DCP_E_NOT_FOUND : DCP_OK);
    }
}
TEST(one_publisher_wins) {
    dcpi_base base = open_base(test_dir());
    int round;
    for (round = 0; round < 10; round++) race_once(&base, 0);
    for (round = 0; round < 10; round++) race_once(&base, 1);
    dcpi_os_base_close(&base);
}
#endif

/* ---- listing ----------------------------------------------------------------------------------------------------- */
typedef struct listing { int count, stop_after; int64_t bytes; } listing;

static int list_one(void *user, const char *name, const dcp_object_info *info) {
    listing *all = (listing *)user;
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return -77;
    if (info->modified_ns < INT64_C(1500000000) * 1000000000) return -78;
    all->bytes += info->size;
    return ++all->count == all->stop_after ? 4711 : 0;
}
TEST(list_regular_files) {
    const char *root = test_dir();
    dcpi_base base = open_base(root);
    listing all = {0, 0, 0};
    char name[32];
    int i;
    CHECK_INT(dcpi_os_list(&base, "", 0, list_one, &all), 0);
    CHECK_INT(all.count, 0);
    for (i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "d/file%d", i);
        put(&base, name, "12345");
    }
    CHECK_INT(dcpi_os_make_directory(&base, "d/sub"), 0);
    put(&base, "d/sub/not_listed", "x");
#ifndef _WIN32
    CHECK_INT(symlinkat("file0", base.fd, "d/link"), 0);
    CHECK_INT(symlinkat("nowhere", base.fd, "d/dangling"), 0);
    CHECK_INT(mkfifoat(base.fd, "d/fifo", 0666), 0);
#endif
    CHECK_INT(dcpi_os_list(&base, "d", 0, list_one, &all), 0);
    CHECK_INT(all.count, 100);
    CHECK_INT(all.bytes, 500);
    memset(&all, 0, sizeof all);
    all.stop_after = 7;
    CHECK_INT(dcpi_os_list(&base, "d", 0, list_one, &all), 4711);
    CHECK_INT(all.count, 7);
    CHECK_INT(STATUS(dcpi_os_list(&base, "none", 0, list_one, &all)), DCP_E_NOT_FOUND);
    CHECK(dcpi_os_list(&base, "d/file0", 0, list_one, &all) != 0);
    dcpi_os_base_close(&base);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
#if DCPI_THREADS
typedef struct part_writer {
    dcpi_thread thread;
    dcpi_file *file;
    unsigned char *bytes;
    int64_t offset;
    size_t size;
    int error;
} part_writer;

static void write_part(void *argument) {
    part_writer *me = (part_writer *)argument;
    size_t done;
    for (done = 0; done < me->size && !me->error; done += 1024 * 1024) {
        const size_t n = me->size - done < 1024 * 1024 ? me->size - done : 1024 * 1024;
        me->error = dcpi_os_write(me->file, me->offset + (int64_t)done, me->bytes + done, n);
    }
}
static void write_in_parts(dcpi_base *base, size_t part, int64_t hint) {
    const size_t size = 4 * part;
    unsigned char *pages = (unsigned char *)dcpi_os_pages(size);
    part_writer all[4];
    dcp_object_info info;
    dcpi_file file;
    size_t i;
    CHECK(pages != NULL);
    fill(pages, size, 0);
    CHECK_INT(dcpi_os_create(base, "parts", 0, hint, &file), 0);
    for (i = 0; i < 4; i++) {
        all[i].file = &file;
        all[i].bytes = pages + i * part;
        all[i].offset = (int64_t)(i * part);
        all[i].size = part;
        all[i].error = 0;
        CHECK_INT(dcpi_thread_start(&all[i].thread, write_part, &all[i]), 0);
    }
    for (i = 0; i < 4; i++) dcpi_thread_join(&all[i].thread);
    for (i = 0; i < 4; i++) CHECK_INT(all[i].error, 0);
    CHECK_INT(dcpi_os_sync(&file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    memset(pages, 0, size);
    CHECK_INT(dcpi_os_open(base, "parts", &file, &info), 0);
    CHECK_INT(info.size, size);
    CHECK_INT(dcpi_os_read(&file, 0, pages, size), 0);
    CHECK(is_filled(pages, size, 0));
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_remove(base, "parts"), 0);
    dcpi_os_pages_free(pages, size);
}
TEST(threads_write_one_file) {
    dcpi_base base = open_base(test_dir());
    write_in_parts(&base, 4 * MIB, 16 * 1024 * 1024);
    write_in_parts(&base, 4 * MIB + 100, 16 * 1024 * 1024 + 400);       /* neighbours meet inside a page */
    write_in_parts(&base, 4 * MIB, 0);
    dcpi_os_base_close(&base);
}
typedef struct shared { dcpi_mutex mutex; dcpi_cond cond; int value, signals_blocked; } shared;

static void count_up(void *argument) {
    shared *with = (shared *)argument;
    int i;
#ifndef _WIN32
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    dcpi_mutex_lock(&with->mutex);
    with->signals_blocked += sigismember(&mask, SIGINT) && sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGSEGV);
    dcpi_mutex_unlock(&with->mutex);
#endif
    for (i = 0; i < 1000; i++) {
        dcpi_mutex_lock(&with->mutex);
        with->value++;
        dcpi_cond_wake_all(&with->cond);
        dcpi_mutex_unlock(&with->mutex);
    }
}
static dcpi_mutex static_mutex = DCPI_MUTEX_INITIALIZER;

TEST(mutex_condition_thread) {
    const int64_t start = dcpi_os_monotonic_ms();
    dcpi_thread threads[4];
    shared with;
    int64_t waited, before;
    int i;
    memset(&with, 0, sizeof with);
    dcpi_mutex_lock(&static_mutex);
    dcpi_mutex_unlock(&static_mutex);
    CHECK_INT(dcpi_mutex_init(&with.mutex), 0);
    CHECK_INT(dcpi_cond_init(&with.cond), 0);
    for (i = 0; i < 4; i++) CHECK_INT(dcpi_thread_start(&threads[i], count_up, &with), 0);
    dcpi_mutex_lock(&with.mutex);
    while (with.value < 4000 && dcpi_os_monotonic_ms() - start < 60000)
        dcpi_cond_wait_ms(&with.cond, &with.mutex, 10000);
    dcpi_mutex_unlock(&with.mutex);
    for (i = 0; i < 4; i++) dcpi_thread_join(&threads[i]);
    CHECK_INT(with.value, 4000);
    before = dcpi_os_monotonic_ms();
    dcpi_mutex_lock(&with.mutex);
    do {                                                        /* it may wake early, so more than once */
        dcpi_cond_wait_ms(&with.cond, &with.mutex, 50);
        waited = dcpi_os_monotonic_ms() - before;
    } while (waited < 40);
    dcpi_cond_wait_ms(&with.cond, &with.mutex, 0);
    dcpi_cond_wait_ms(&with.cond, &with.mutex, -1);
    dcpi_mutex_unlock(&with.mutex);
    CHECK(waited < 20000);
    dcpi_cond_destroy(&with.cond);
    dcpi_mutex_destroy(&with.mutex);
#ifndef _WIN32
    CHECK_INT(with.signals_blocked, 4);
    {
        sigset_t mask;
        (void)sigemptyset(&mask);
        CHECK_INT(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
        CHECK_INT(sigismember(&mask, SIGINT), 0);               /* the caller's own mask is as it was */
    }
#endif
}
#else
static void never(void *argument) { (void)argument; }

static dcpi_mutex static_mutex = DCPI_MUTEX_INITIALIZER;

TEST(no_threads) {
    dcpi_mutex mutex;
    dcpi_cond cond;
    dcpi_thread thread;
    const int64_t before = dcpi_os_monotonic_ms();
    dcpi_mutex_lock(&static_mutex);
    dcpi_mutex_unlock(&static_mutex);
    CHECK_INT(dcpi_mutex_init(&mutex), 0);
    CHECK_INT(dcpi_cond_init(&cond), 0);
    dcpi_mutex_lock(&mutex);
    dcpi_cond_wake_all(&cond);
    dcpi_cond_wait_ms(&cond, &mutex, 30);
    dcpi_mutex_unlock(&mutex);
    dcpi_cond_destroy(&cond);
    dcpi_mutex_destroy(&mutex);
    CHECK(dcpi_os_monotonic_ms() - before >= 25);
    CHECK_INT(STATUS(dcpi_thread_start(&thread, never, NULL)), DCP_E_UNSUPPORTED);
    memset(&thread, 0, sizeof thread);
    dcpi_thread_join(&thread);
}
#endif

/* ---- ways a good machine does not take --------------------------------------------------------------------------- */
TEST(a_failed_sync_is_final) {
    dcpi_base base = open_base(test_dir());
    dcpi_file file;
    CHECK_INT(dcpi_os_create(&base, "file", 0, 0, &file), 0);
    CHECK_INT(dcpi_os_write(&file, 0, "x", 1), 0);
#ifdef _WIN32
    {
        HANDLE good = file.handle;
        file.handle = INVALID_HANDLE_VALUE;
        CHECK(dcpi_os_sync(&file) != 0);
        file.handle = good;
    }
#else
    {
        int ends[2], good = file.fd;
        CHECK_INT(pipe(ends), 0);
        file.fd = ends[1];                                      /* cannot be synced */
        CHECK(dcpi_os_sync(&file) != 0);
        (void)close(ends[0]);
        (void)close(ends[1]);
        file.fd = good;
    }
#endif
    CHECK(dcpi_os_sync(&file) != 0);                            /* though this one would work */
    CHECK(dcpi_os_close(&file) != 0);
    CHECK_INT(dcpi_os_close(&file), 0);                         /* closed: nothing is left to say */
    dcpi_os_base_close(&base);
}
#ifdef _WIN32
TEST(names_that_windows_cannot_keep) {
    static const char *const names[] = {"con", "CON.bin", "nul", "NUL .txt", "com1", "LPT9.x", "COM\xC2\xB9", "conout$",
                                        "d/aux/x", "a:b", "a|b", "a?", "a*", "a<b", "a\\b", "trailing.", "trailing ",
                                        "d./x", "tab\t", "bad\xFFutf8", "a//b"};
    static const char *const fine[] = {"console", "com", "com10", "nullify.bin", ".hidden", "a b", "lpt"};
    dcpi_base base = open_base(test_dir());
    dcpi_file file;
    size_t i;
    for (i = 0; i < DCPI_COUNT(names); i++) {
        CHECK_INT(STATUS(dcpi_os_create(&base, names[i], 0, 0, &file)), DCP_E_INVALID);
    }
    for (i = 0; i < DCPI_COUNT(fine); i++) put(&base, fine[i], "x");
    dcpi_os_base_close(&base);
}
TEST(long_windows_paths) {
    char key[1200] = "";
    dcpi_base base = open_base(test_dir());
    int i;
    for (i = 0; i < 10; i++) {
        memset(key + strlen(key), 'a' + i, 90);
        strcat(key, "/");
    }
    strcat(key, "file");
    put(&base, key, "deep");
    check_holds(&base, key, "deep");
    CHECK_INT(dcpi_os_remove(&base, key), 0);
    for (i = 0; i < 10; i++) {
        *strrchr(key, '/') = '\0';
        remove_directory(&base, key);
    }
    dcpi_os_base_close(&base);
}
#else
/* Everything that must not be followed or opened, by each of the calls that could. */
static void check_refusals(const char *root) {
    dcpi_base base = open_base(root);
    static const char *const links[] = {"link", "dangling", "to_null", "dirlink/file", "d/loop/x", "dirlink/new/file"};
    static const char *const others[] = {"fifo", "socket", "d"};
    dcp_object_info info;
    int64_t bytes_free;
    dcpi_file file;
    size_t i;
    for (i = 0; i < DCPI_COUNT(links); i++) {
        CHECK_INT(dcpi_os_open(&base, links[i], &file, &info), ELOOP);
        CHECK_INT(dcpi_os_stat(&base, links[i], &info), ELOOP);
        CHECK_INT(STATUS(dcpi_os_create(&base, links[i], 0, 0, &file)), i < 3 ? DCP_E_EXISTS : DCP_E_INVALID);
    }
    for (i = 0; i < DCPI_COUNT(others); i++) {
        CHECK_INT(dcpi_os_open(&base, others[i], &file, &info), EINVAL);
        CHECK_INT(dcpi_os_stat(&base, others[i], &info), EINVAL);
        CHECK_INT(dcpi_os_create(&base, others[i], 0, 0, &file), EEXIST);
    }
    CHECK_INT(dcpi_os_remove(&base, "dirlink/file"), ELOOP);
    CHECK_INT(dcpi_os_publish(&base, "plain", "dirlink/plain", 0), ELOOP);
    CHECK_INT(dcpi_os_publish(&base, "dirlink/file", "stolen", 0), ELOOP);
    CHECK_INT(dcpi_os_list(&base, "dirlink", 0, count_one, &i), ELOOP);
    CHECK_INT(dcpi_os_make_directory(&base, "dirlink"), ELOOP);
    CHECK_INT(dcpi_os_make_directory(&base, "dirlink/new"), ELOOP);
    CHECK_INT(dcpi_os_make_directory(&base, "dangling"), ELOOP);
    CHECK_INT(dcpi_os_sync_directory(&base, "dirlink"), ELOOP);
    CHECK_INT(dcpi_os_space(&base, "dirlink", &bytes_free), ELOOP);
    check_holds(&base, "d/file", "inside");
    CHECK_INT(size_of(&base, "d/new"), -1);
    dcpi_os_base_close(&base);
}
static void make_traps(const char *root) {
    dcpi_base base = open_base(root);
    struct sockaddr_un address;
    char cwd[TEST_PATH];
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    put(&base, "plain", "plain");
    put(&base, "d/file", "inside");
    CHECK_INT(symlinkat("plain", base.fd, "link"), 0);
    CHECK_INT(symlinkat("nowhere", base.fd, "dangling"), 0);
    CHECK_INT(symlinkat("/dev/null", base.fd, "to_null"), 0);
    CHECK_INT(symlinkat("d", base.fd, "dirlink"), 0);
    CHECK_INT(symlinkat("loop", base.fd, "d/loop"), 0);
    CHECK_INT(mkfifoat(base.fd, "fifo", 0666), 0);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, "socket", 7);
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
    CHECK_INT(fchdir(base.fd), 0);
    CHECK_INT(bind(end, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    CHECK_INT(chdir(cwd), 0);
    (void)close(end);
    dcpi_os_base_close(&base);
}
TEST(links_and_devices_are_refused) {
    const char *root = test_dir();
    make_traps(root);
    check_refusals(root);
}
TEST(links_are_refused_without_openat2) {
    const char *root = test_dir();
    const int before = dcpi_flag_get(&dcpi_os_no_openat2);
    make_traps(root);
    dcpi_flag_set(&dcpi_os_no_openat2, 1);
    check_refusals(root);
    dcpi_flag_set(&dcpi_os_no_openat2, before);
}
TEST(walk_beneath_a_base) {
    const char *root = test_dir();
    const int through = DCPI_OS_SEARCH | O_DIRECTORY | O_NOFOLLOW;
    dcpi_base base = open_base(root);
    struct stat st;
    int fd;
    CHECK_INT(dcpi_os_walk(base.fd, "a/b", 3, through, DCPI_OS_MAKE_NONE), -1);
    CHECK_INT(errno, ENOENT);
    fd = dcpi_os_walk(base.fd, "a/b/ignored", 3, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, DCPI_OS_MAKE_DURABLE);
    CHECK(fd >= 0);
    CHECK_INT(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    (void)close(fd);
    CHECK_INT(fstatat(base.fd, "a/b", &st, 0), 0);
    CHECK_INT(fstatat(base.fd, "a/b/ignored", &st, 0), -1);
    fd = dcpi_os_walk(base.fd, "", 0, through, DCPI_OS_MAKE_NONE);
    CHECK(fd >= 0);
    (void)close(fd);
    dcpi_os_base_close(&base);
}
TEST(keys_longer_than_path_max) {
    const char *root = test_dir();
    dcpi_base base = open_base(root);
    char key[20 * 251 + 8] = "", command[TEST_PATH + 32], part[400];
    dcpi_file file;
    int i;
    for (i = 0; i < 20; i++) {
        memset(key + strlen(key), 'a' + i, 250);
        strcat(key, "/");
    }
    strcat(key, "file");
    put(&base, key, "deep");
    check_holds(&base, key, "deep");
    memset(part, 'x', sizeof part);
    part[300] = '\0';
    CHECK_INT(dcpi_os_create(&base, part, 0, 0, &file), ENAMETOOLONG);
    memcpy(part + 300, "/x", 3);
    CHECK_INT(dcpi_os_create(&base, part, 0, 0, &file), ENAMETOOLONG);
    dcpi_os_base_close(&base);
    (void)snprintf(command, sizeof command, "rm -rf '%s'/*", root);     /* test_rm_rf does not reach that deep */
    CHECK_INT(system(command), 0);
}
TEST(base_through_links) {
    const char *root = test_dir();
    dcpi_base base = open_base(root), other;
    char path[TEST_PATH + 64];
    CHECK_INT(dcpi_os_make_directory(&base, "real"), 0);
    CHECK_INT(symlinkat("real", base.fd, "alias"), 0);
    CHECK_INT(symlinkat("nowhere", base.fd, "dangling"), 0);
    (void)snprintf(path, sizeof path, "%s/alias/sub/dir", root);
    CHECK_INT(dcpi_os_base_open(path, 1, &other), 0);           /* the caller's own path may */
    put(&other, "x", "through");
    dcpi_os_base_close(&other);
    check_holds(&base, "real/sub/dir/x", "through");
    (void)snprintf(path, sizeof path, "%s/dangling/sub", root);
    CHECK_INT(STATUS(dcpi_os_base_open(path, 1, &other)), DCP_E_NOT_FOUND);
    dcpi_os_base_close(&base);
}
TEST(file_modes) {
    dcpi_base base = open_base(test_dir());
    const mode_t before = umask(027);
    char mode[8];
    int64_t links;
    uint64_t inode, device = 0;
    dcpi_file file;
    CHECK_INT(dcpi_os_create(&base, "usual", 0, 0, &file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_create(&base, "exact", 0664, 0, &file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_create(&base, "readonly", 0444, 9 * 1024 * 1024, &file), 0);
    CHECK_INT(dcpi_os_write(&file, 0, "still written", 13), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    (void)umask(before);
    CHECK_INT(dcpi_os_additional(&base, "usual", mode, &links, &inode, &device), 0);
    CHECK_STR(mode, "0640");
    CHECK_INT(dcpi_os_additional(&base, "exact", mode, &links, &inode, &device), 0);
    CHECK_STR(mode, "0664");
    CHECK_INT(dcpi_os_additional(&base, "readonly", mode, &links, &inode, &device), 0);
    CHECK_STR(mode, "0444");
    dcpi_os_base_close(&base);
}
TEST(publish_by_link) {
    dcpi_base base = open_base(test_dir());
    put(&base, "tmp", "new");
    put(&base, "taken", "old");
    CHECK_INT(dcpi_os_link_exclusive(base.fd, "tmp", base.fd, "taken"), EEXIST);
    CHECK_INT(dcpi_os_link_exclusive(base.fd, "none", base.fd, "free"), ENOENT);
    CHECK_INT(dcpi_os_link_exclusive(base.fd, "tmp", base.fd, "free"), 0);
    check_holds(&base, "free", "new");
    CHECK_INT(size_of(&base, "tmp"), -1);
    /* The server's answer got lost: the target is there, and it is ours. */
    CHECK_INT(linkat(base.fd, "free", base.fd, "tmp", 0), 0);
    CHECK_INT(dcpi_os_link_exclusive(base.fd, "tmp", base.fd, "free"), EEXIST);
    CHECK_INT(dcpi_os_move(base.fd, "tmp", base.fd, "free", 0), 0);
    CHECK_INT(size_of(&base, "tmp"), -1);
    check_holds(&base, "free", "new");
    put(&base, "tmp", "new");                           /* alike, but another file */
    CHECK_INT(dcpi_os_move(base.fd, "tmp", base.fd, "free", 0), EEXIST);
    CHECK_INT(size_of(&base, "tmp"), 3);
    check_holds(&base, "taken", "old");
    dcpi_os_base_close(&base);
}
TEST(file_times_of_any_century) {
    dcpi_base base = open_base(test_dir());
    static const int64_t seconds[] = {-100, 0, 4102444800, 9000000000, 15000000000};  /* 1969, 1970, 2100, 2255, 2445 */
    struct timespec times[2];
    dcp_object_info info;
    struct stat st;
    size_t i;
    put(&base, "file", "x");
    for (i = 0; i < DCPI_COUNT(seconds); i++) {
        if ((int64_t)(time_t)seconds[i] != seconds[i]) continue;        /* a time_t of 32 bits */
        times[0].tv_sec = times[1].tv_sec = (time_t)seconds[i];
        times[0].tv_nsec = times[1].tv_nsec = 5;
        CHECK_INT(utimensat(base.fd, "file", times, 0), 0);
        CHECK_INT(dcpi_os_stat_at(base.fd, "file", &st), 0);
        CHECK_INT(dcpi_os_stat(&base, "file", &info), 0);
        if ((int64_t)st.st_mtime == seconds[i] && seconds[i] < 9223372035)
            CHECK_INT(info.modified_ns, seconds[i] * 1000000000 + 5);
        if ((int64_t)st.st_mtime == seconds[i] && seconds[i] > 9223372036) CHECK_INT(info.modified_ns, INT64_MAX);
    }
    dcpi_os_base_close(&base);
}
#endif

#ifdef __linux__
/* A descriptor that answers every write with EINVAL stands in for a file system that accepts O_DIRECT and then refuses
 * to write. */
TEST(direct_io_refused_at_the_first_write) {
    const size_t size = 8 * MIB + 4096 + 17;
    dcpi_base base = open_base(test_dir());
    unsigned char *pages = (unsigned char *)dcpi_os_pages(size);
    dcp_object_info info;
    dcpi_file file;
    CHECK(pages != NULL);
    fill(pages, size, 0);
    CHECK_INT(dcpi_os_create(&base, "data", 0, (int64_t)size, &file), 0);
    if (file.direct >= 0) (void)close(file.direct);
    file.direct = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    file.direct_align = 4096;
    if (file.direct < 0 || pwrite(file.direct, pages, 4096, 0) != -1 || errno != EINVAL) {
        (void)dcpi_os_close(&file);
        SKIP("no descriptor that refuses to write");
    }
    CHECK_INT(dcpi_os_write(&file, 0, pages, 4 * MIB), 0);
    CHECK_INT(file.buffered, 1);
    CHECK_INT(dcpi_os_direct_part(&file, 0, pages, 4 * MIB), 0);        /* for good */
    CHECK_INT(dcpi_os_write(&file, 4 * (int64_t)MIB, pages + 4 * MIB, size - 4 * MIB), 0);
    CHECK_INT(dcpi_os_sync(&file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    memset(pages, 0, size);
    CHECK_INT(dcpi_os_open(&base, "data", &file, &info), 0);
    CHECK_INT(info.size, size);
    CHECK_INT(dcpi_os_read(&file, 0, pages, size), 0);
    CHECK(is_filled(pages, size, 0));
    CHECK_INT(dcpi_os_close(&file), 0);
    dcpi_os_pages_free(pages, size);
    dcpi_os_base_close(&base);
}
/* A page of the kernel's clock data: a program can read it, and a direct write cannot pin it (EFAULT). NULL: there is
 * none here. */
static const void *page_that_cannot_be_pinned(int direct, int plain) {
    char line[400];
    unsigned long at = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[vvar]") && sscanf(line, "%lx-%lx", &at, &end) != 2) at = end = 0;
    if (maps) (void)fclose(maps);
    for (; at < end; at += 4096) {
        const void *page = (const void *)(uintptr_t)at;
        if (pwrite(direct, page, 4096, 0) == -1 && errno == EFAULT && pwrite(plain, page, 4096, 0) == 4096) return page;
    }
    return NULL;
}
TEST(direct_io_from_memory_that_cannot_be_pinned) {
    const size_t size = 8 * MIB;
    dcpi_base base = open_base(test_dir());
    unsigned char *pages = (unsigned char *)dcpi_os_pages(size);
    const void *page = NULL;
    dcp_object_info info;
    dcpi_file file;
    CHECK(pages != NULL);
    fill(pages, size, 4096);
    CHECK_INT(dcpi_os_create(&base, "data", 0, (int64_t)size + 4096, &file), 0);
    if (file.direct >= 0) page = page_that_cannot_be_pinned(file.direct, file.fd);
    if (!page) {
        (void)dcpi_os_close(&file);
        SKIP("no direct I/O here, or no memory that it cannot reach");
    }
    CHECK_INT(dcpi_os_write(&file, 0, page, 4096), 0);
    CHECK_INT(file.buffered, 1);
    CHECK_INT(dcpi_os_write(&file, 4096, pages, size), 0);
    CHECK_INT(dcpi_os_sync(&file), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    memset(pages, 0, size);
    CHECK_INT(dcpi_os_open(&base, "data", &file, &info), 0);
    CHECK_INT(info.size, size + 4096);
    CHECK_INT(dcpi_os_read(&file, 4096, pages, size), 0);
    CHECK(is_filled(pages, size, 4096));
    CHECK_INT(dcpi_os_close(&file), 0);
    dcpi_os_pages_free(pages, size);
    dcpi_os_base_close(&base);
}
TEST(direct_io_of_real_hardware) {
    const size_t size = 9 * MIB;
    dcpi_base base = open_base(test_dir());
    unsigned char *pages = (unsigned char *)dcpi_os_pages(size + 4096);
    dcp_object_info info;
    dcpi_file file;
    CHECK(pages != NULL);
    fill(pages, size, 0);
    CHECK_INT(dcpi_os_create(&base, "data", 0, (int64_t)size, &file), 0);
    if (file.direct < 0) {
        (void)dcpi_os_close(&file);
        SKIP("no direct I/O in the temporary directory");
    }
    CHECK_INT(dcpi_os_direct_part(&file, 0, pages, 5000), 4096);
    CHECK_INT(dcpi_os_direct_part(&file, 4096, pages, 4096), 4096);
    CHECK_INT(dcpi_os_direct_part(&file, 0, pages, 4095), 0);
    CHECK_INT(dcpi_os_direct_part(&file, 1, pages, 8192), 0);
    CHECK_INT(dcpi_os_direct_part(&file, 0, pages + 1, 8192), 0);
    CHECK_INT(dcpi_os_write(&file, 0, pages, size), 0);
    CHECK_INT(file.buffered, 0);
    file.direct_align = 1;                   /* now misaligned bytes go direct: the kernel takes them, or says EINVAL */
    CHECK_INT(dcpi_os_write(&file, 7, pages, 1000), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_open(&base, "data", &file, &info), 0);
    CHECK_INT(info.size, size);
    memset(pages, 0, size);
    CHECK_INT(dcpi_os_read(&file, 0, pages, size), 0);
    CHECK(is_filled(pages, 7, 0) && is_filled(pages + 7, 1000, 0) && is_filled(pages + 1007, size - 1007, 1007));
    CHECK_INT(dcpi_os_close(&file), 0);
    dcpi_os_pages_free(pages, size + 4096);
    dcpi_os_base_close(&base);
}
TEST(a_full_disk) {
    const char *root = test_dir();
    const int mounted = mount("dcp_test", root, "tmpfs", 0, "size=1m") == 0;
    dcpi_base base = open_base(root);
    char *bytes = (char *)calloc(1, 4 * MIB);
    int64_t bytes_free = 0;
    dcpi_file file;
    if (!mounted) SKIP("may not mount a small tmpfs");
    CHECK_INT(umount2(root, MNT_DETACH), 0);     /* it lives on under base, and is gone when that is closed or we die */
    CHECK(bytes != NULL);
    CHECK_INT(dcpi_os_space(&base, "", &bytes_free), 0);
    CHECK(bytes_free > 0 && bytes_free <= 1024 * 1024);
    CHECK_INT(STATUS(dcpi_os_create(&base, "hint", 0, 4 * 1024 * 1024, &file)), DCP_E_SPACE);
    CHECK_INT(size_of(&base, "hint"), -1);                      /* gone again */
    CHECK_INT(STATUS(dcpi_os_create(&base, "hint", 0, 64 * 1024 * 1024, &file)), DCP_E_SPACE);
    CHECK_INT(dcpi_os_create(&base, "file", 0, 0, &file), 0);
    CHECK_INT(STATUS(dcpi_os_write(&file, 0, bytes, 4 * MIB)), DCP_E_SPACE);
    CHECK_INT(dcpi_os_close(&file), 0);
    free(bytes);
    dcpi_os_base_close(&base);
}
/* The signal of a write beyond the limit reaches nobody: not the default action, which ends the process, nor a handler,
 * nor the mask's queue; one that was pending before still is. */
static volatile sig_atomic_t signals_handled;
static void count_signal(int number) { (void)number; signals_handled++; }
static void write_beyond_the_limit(dcpi_base *base, const char *bytes) {
    struct rlimit before, limit;
    dcpi_file file;
    int hinted, written;
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 65536;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    hinted = dcpi_os_create(base, "hint", 0, 1024 * 1024, &file);
    if (hinted == 0) (void)dcpi_os_close(&file);
    written = dcpi_os_create(base, "file", 0, 0, &file);
    if (written == 0) written = dcpi_os_write(&file, 0, bytes, MIB);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_INT(dcpi_os_close(&file), 0);
    CHECK_INT(dcpi_os_remove(base, "file"), 0);
    CHECK_INT(dcpi_os_remove(base, "hint"), 0);
    CHECK(hinted == 0 || hinted == EFBIG);                      /* not every kernel looks at the limit that early */
    CHECK_INT(written, EFBIG);
    CHECK_INT(STATUS(written), DCP_E_SPACE);
}
TEST(a_file_size_limit) {
    static const struct { int handled, blocked, pending; } cases[] = { { 0, 0, 0 }, { 1, 0, 0 }, { 0, 1, 0 }, { 1, 1,
            0 }, { 1, 1, 1 } };
    dcpi_base base = open_base(test_dir());
    char *bytes = (char *)calloc(1, MIB);
    size_t i;
    CHECK(bytes != NULL);
    for (i = 0; i < DCPI_COUNT(cases); i++) {
        void (*handler)(int) = signal(SIGXFSZ, cases[i].handled ? count_signal : SIG_DFL);
        sigset_t one, before, after, pending;
        signals_handled = 0;
        (void)sigemptyset(&one);
        (void)sigaddset(&one, SIGXFSZ);
        CHECK_INT(sigprocmask(cases[i].blocked ? SIG_BLOCK : SIG_UNBLOCK, &one, NULL), 0);
        if (cases[i].pending) CHECK_INT(raise(SIGXFSZ), 0);
        CHECK_INT(sigprocmask(SIG_BLOCK, NULL, &before), 0);
        write_beyond_the_limit(&base, bytes);
        CHECK_INT(sigprocmask(SIG_BLOCK, NULL, &after), 0);
        CHECK_INT(sigpending(&pending), 0);
        CHECK_INT(sigismember(&after, SIGXFSZ), sigismember(&before, SIGXFSZ));
        CHECK_INT(sigismember(&pending, SIGXFSZ), cases[i].pending);
        CHECK_INT(sigprocmask(SIG_UNBLOCK, &one, NULL), 0);
        CHECK_INT(signals_handled, cases[i].pending);
        (void)signal(SIGXFSZ, handler);
    }
    free(bytes);
    dcpi_os_base_close(&base);
}
#endif

/* ---- locks ------------------------------------------------------------------------------------------------------- */
TEST(a_byte_of_a_lock_file_is_one_holder_s) {
    dcpi_base base = open_base(test_dir());
    const int64_t beyond = (int64_t)1 << 30;
    dcpi_lock_file a, b;
    char text[16];
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &a), 0);
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &b), 0);      /* two open files of one process are two holders */
    CHECK_INT(dcpi_os_lock_range(&a, beyond), 0);
    if (a.is_whole) SKIP("this system has only locks of whole files");
    CHECK_INT(dcpi_os_lock_range(&b, beyond), DCPI_OS_BUSY);
    CHECK_INT(dcpi_os_lock_range(&b, beyond + 1), 0);
    CHECK_INT(dcpi_os_lock_range(&a, beyond + 1), DCPI_OS_BUSY);
    CHECK_INT(dcpi_os_lock_write(&a, "held by a", 9), 0);       /* the lock keeps nobody from the bytes */
    CHECK_INT(dcpi_os_lock_read(&b, text, sizeof text), 0);
    CHECK_STR(text, "held by a");
    dcpi_os_unlock_range(&a, beyond);
    CHECK_INT(dcpi_os_lock_range(&b, beyond), 0);
    CHECK_INT(dcpi_os_lock_range(&a, beyond), DCPI_OS_BUSY);
    dcpi_os_unlock_range(&b, beyond);
    dcpi_os_unlock_range(&b, beyond + 1);
    dcpi_os_lock_close(&b);
    CHECK_INT(dcpi_os_lock_range(&a, beyond), 0);
    CHECK_INT(dcpi_os_lock_range(&a, beyond + 1), 0);
    dcpi_os_lock_close(&a);
    dcpi_os_base_close(&base);
}
TEST(a_lock_file_that_was_removed_has_its_name_no_more) {
    dcpi_base base = open_base(test_dir());
    dcpi_lock_file a, b;
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &a), 0);
    CHECK(dcpi_os_lock_is_named(&base, "lock", &a));
    CHECK_INT(dcpi_os_remove(&base, "lock"), 0);
#ifdef _WIN32
    dcpi_os_lock_close(&a);                             /* its name is free when it has been closed everywhere */
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &b), 0);
    CHECK(dcpi_os_lock_is_named(&base, "lock", &b));
#else
    CHECK(!dcpi_os_lock_is_named(&base, "lock", &a));
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &b), 0);
    CHECK(!dcpi_os_lock_is_named(&base, "lock", &a) && dcpi_os_lock_is_named(&base, "lock", &b));
    CHECK_INT(dcpi_os_lock_range(&a, 5), 0);
    CHECK_INT(dcpi_os_lock_range(&b, 5), 0);            /* another file */
    dcpi_os_lock_close(&a);
#endif
    dcpi_os_lock_close(&b);
    dcpi_os_base_close(&base);
}
TEST(what_is_no_regular_file_is_no_lock_file) {
    const char *root = test_dir();
    dcpi_base base = open_base(root);
    dcpi_lock_file lock;
    CHECK_INT(dcpi_os_make_directory(&base, "folder"), 0);
    CHECK(dcpi_os_lock_open(&base, "folder", 0, &lock) != 0);
    CHECK_INT(STATUS(dcpi_os_lock_open(&base, "missing/lock", 0, &lock)), DCP_E_NOT_FOUND);
#ifndef _WIN32
    put(&base, "file", "mine");
    CHECK_INT(symlinkat("file", base.fd, "link"), 0);
    CHECK_INT(dcpi_os_lock_open(&base, "link", 0, &lock), ELOOP);
    CHECK_INT(mkfifoat(base.fd, "fifo", 0600), 0);
    CHECK_INT(dcpi_os_lock_open(&base, "fifo", 0, &lock), EINVAL);
    check_holds(&base, "file", "mine");
#endif
    dcpi_os_base_close(&base);
}
#ifndef _WIN32
TEST(a_lock_dies_with_its_holder_and_not_with_another_descriptor) {
    const char *root = test_dir();
    dcpi_base base = open_base(root);
    dcpi_lock_file lock, other;
    int ready[2], state, fd;
    char byte;
    pid_t child;
    CHECK_INT(pipe(ready), 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (dcpi_os_lock_open(&base, "lock", 0, &lock) || dcpi_os_lock_range(&lock, 7)) _exit(1);
        fd = openat(base.fd, "lock", O_RDWR);           /* a plain lock of the process would go here */
        if (fd < 0 || close(fd) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    CHECK_INT(read(ready[0], &byte, 1), 1);
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &other), 0);
    CHECK_INT(dcpi_os_lock_range(&other, 7), DCPI_OS_BUSY);
    CHECK_INT(kill(child, SIGKILL), 0);
    CHECK_INT(waitpid(child, &state, 0), child);
    CHECK_INT(dcpi_os_lock_range(&other, 7), 0);
    dcpi_os_lock_close(&other);
    CHECK_INT(close(ready[0]), 0);
    CHECK_INT(close(ready[1]), 0);
    dcpi_os_base_close(&base);
}
TEST(a_child_that_inherited_a_lock_does_not_keep_it) {
    dcpi_base base = open_base(test_dir());
    dcpi_lock_file lock, other;
    int state;
    pid_t child;
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &lock), 0);
    CHECK_INT(dcpi_os_lock_range(&lock, 7), 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) for (;;) (void)pause();
    dcpi_os_lock_close(&lock);
    CHECK_INT(dcpi_os_lock_open(&base, "lock", 0, &other), 0);
    CHECK_INT(dcpi_os_lock_range(&other, 7), 0);
    dcpi_os_lock_close(&other);
    CHECK_INT(kill(child, SIGKILL), 0);
    CHECK_INT(waitpid(child, &state, 0), child);
    dcpi_os_base_close(&base);
}
#endif

int main(void) {
    RUN(clocks);
    RUN(random_bytes);
    RUN(processors_and_pages);
    RUN(errors_have_words_and_statuses);
    RUN(separators_of_paths);
    RUN(base_open_makes_parents);
    RUN(base_open_current_directory);
    RUN(directories);
    RUN(create_is_exclusive_and_makes_parents);
    RUN(names_beyond_ascii);
    RUN(all_sizes_on_disk);
    RUN(all_sizes_on_tmpfs);
    RUN(beyond_4_gib);
    RUN(fewer_bytes_than_announced);
    RUN(map_files);
    RUN(boot);
    RUN(stat_and_additional);
    RUN(open_wants_a_regular_file);
    RUN(remove_files);
    RUN(publish_files);
    RUN(publish_while_it_is_read);
    RUN(list_regular_files);
    RUN(a_failed_sync_is_final);
#if DCPI_THREADS
    RUN(one_publisher_wins);
    RUN(threads_write_one_file);
    RUN(mutex_condition_thread);
#else
    RUN(no_threads);
#endif
#ifdef _WIN32
    RUN(names_that_windows_cannot_keep);
    RUN(long_windows_paths);
#else
    RUN(links_and_devices_are_refused);
    RUN(links_are_refused_without_openat2);
    RUN(walk_beneath_a_base);
    RUN(keys_longer_than_path_max);
    RUN(base_through_links);
    RUN(file_modes);
    RUN(publish_by_link);
    RUN(file_times_of_any_century);
#endif
#ifdef __linux__
    RUN(direct_io_refused_at_the_first_write);
    RUN(direct_io_from_memory_that_cannot_be_pinned);
    RUN(direct_io_of_real_hardware);
    RUN(a_full_disk);
    RUN(a_file_size_limit);
#endif
    RUN(a_byte_of_a_lock_file_is_one_holder_s);
    RUN(a_lock_file_that_was_removed_has_its_name_no_more);
    RUN(what_is_no_regular_file_is_no_lock_file);
#ifndef _WIN32
    RUN(a_lock_dies_with_its_holder_and_not_with_another_descriptor);
    RUN(a_child_that_inherited_a_lock_does_not_keep_it);
#endif
    return test_finish();
}
