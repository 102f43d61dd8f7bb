/* =====================================================================================================================
 * >>platform    The contract first; then one complete POSIX block and one complete Windows block with the same
 *               functions.
 *
 * Errors: a function that can fail returns 0 or a system error number (errno; on Windows GetLastError());
 * dcpi_os_status() maps it to a dcp_status and dcpi_os_message() says it in words. DCPI_OS_SHORT is ours: the file ends
 * before the bytes that were asked for. Paths: `path` is UTF-8 and the system's own form; `key` is UTF-8, parts joined
 * by '/', already validated (no empty part, ".", ".."). Keys are resolved beneath a base directory without following
 * any symbolic link below it.
 *
 *   clocks       dcpi_os_monotonic_ms     milliseconds that never go back
 *                dcpi_os_wall_us          microseconds since 1970-01-01T00:00:00Z
 *                dcpi_os_sleep_ms
 *   machine      dcpi_os_random           fills bytes from the system's generator; never a weaker one
 *                dcpi_os_processors       at least 1; honours the affinity mask
 *   memory       dcpi_os_pages            `size` bytes, zeroed, aligned to a page, straight from the system, for big
 *                                         buffers that are reused (from 4 MiB up at a huge page, where there are such);
 *                                         NULL when there are none or size is 0. Not through DCP_MALLOC: the caller
 *                                         tries dcpi_alloc instead
 *   threads      dcpi_mutex, dcpi_cond, dcpi_thread; dcpi_cond_wait_ms waits on the monotonic clock where there is one;
 *                may wake early. A dcpi_thread stays where it is in memory until it is joined. The program's signals
 *                are blocked in it. With DCP_NO_THREADS lock, unlock and wake do nothing, a wait lasts its full time,
 *                and thread_start fails with ENOSYS
 *   paths        dcpi_os_is_separator     whether the character at an index separates the parts of an OS path
 *   base         dcpi_os_base_open        `create`: made with its parents (each parent of a directory made here is
 *                                         synced, and the base's own parent always, as far as it may be read and can be
 *                                         synced); without it a missing directory is ENOENT. "" is the current
 *                                         directory; links in this path are followed
 *   files        dcpi_os_create           a new file for writing, missing parents made; EEXIST if the key is taken.
 *                                         size_hint > 0 reserves space (never by writing zeros; ENOSPC/EDQUOT/EFBIG
 *                                         counts and leaves no file, anything else does not count; the size stays that
 *                                         of what is written, sync gives the rest back) and, from DCPI_OS_DIRECT_FROM
 *                                         bytes, tries direct I/O beside the buffered descriptor. After a failure, and
 *                                         after that of dcpi_os_open, *out may be closed and nothing else
 *                dcpi_os_join             a file that another process has created and writes, for writing other parts
 *                of it; direct I/O as there
 *                dcpi_os_write            all bytes at an offset; aligned pieces go direct where that works (EINVAL or
 *                                         EFAULT: the same bytes again, buffered, and that file stays so), others
 *                                         buffered; several threads may write one file
 *                dcpi_os_open             an existing regular file for reading (EINVAL for a directory, FIFO, device;
 *                                         ELOOP for a symlink; never blocks); size and modification time from the open
 *                                         descriptor
 *                dcpi_os_read             exactly size bytes at an offset, or an error, or DCPI_OS_SHORT
 *                dcpi_os_map / _unmap     the first `size` bytes, read only, shared, beyond close; 0 bytes map to NULL;
 *                                         more than there are: DCPI_OS_SHORT
 *                dcpi_os_sync             data and size are durable; an error is final for that file (G3): each later
 *                                         sync and its close report it again. Only after the last write has returned
 *                dcpi_os_close            its error counts after writing; a second close of the same file does nothing
 *                and returns 0
 *   names        dcpi_os_publish          renames within the base. replace 0: EEXIST if the target is there,
 *                                         atomically; ENOTSUP where the file system offers no safe way. What has
 *                                         happened is success, whatever the system reports. Parents are not made
 *                dcpi_os_remove           ENOENT is an error here; directories are refused; of a symbolic link the link
 *                itself goes
 *                dcpi_os_stat             of a regular file, no symlink followed (the same errors as dcpi_os_open)
 *                dcpi_os_additional       permissions, links, inode: for people (`mode` octal)
 *                dcpi_os_list             the regular files (what 0), the directories (1) or the symbolic links that
 *                                         lead to no regular file there (2, not on Windows) in one directory (not
 *                                         below), names without the directory, in no order; "" is the base; what
 *                                         vanishes meanwhile is left out. Windows: size and time of a file that is
 *                                         being written may lag behind
 *                dcpi_os_make_directory   made with its parents beneath the base, nothing synced; there already: 0
 *                dcpi_os_sync_directory   its entries are durable; ENOTSUP where the file system cannot sync a
 *                directory
 *                dcpi_os_space            bytes that an ordinary user can still write there (`key` names a directory)
 *   locks        Exclusive, never waited for; of a file that stays open, not of a process or thread, so that they die
 *                with the last process that has it open (a child made by fork has it too). Ranges may lie beyond the
 *                end of the file.
 *                dcpi_os_lock_open        the lock file, made if it is missing (parents are not); refused like
 *                dcpi_os_open's
 *                dcpi_os_lock_range       one byte. DCPI_OS_BUSY: another has it. What cannot do this (ENOSYS, ENOLCK,
 *                                         EOPNOTSUPP) is ENOTSUP. Where there are only locks of whole files, any byte
 *                                         is all of it (is_whole), until it is closed
 *                dcpi_os_unlock_range     gives that byte back, whoever else has the file open by inheritance
 *                dcpi_os_lock_is_named    whether the key still names the file that is open here
 *                dcpi_os_lock_read        its first `size` bytes, zeros beyond the end
 *                dcpi_os_lock_write       its first bytes, in one call. Nothing is synced: who reads them holds the
 *                lock that the writer held
 *                dcpi_os_lock_close       gives back all
 * ================================================================================================================== */
#define DCPI_OS_SHORT (-2)
#define DCPI_OS_BUSY (-3)
/* below this, one cached write is faster than setting up direct I/O */
#define DCPI_OS_DIRECT_FROM ((int64_t)8 * 1024 * 1024)
#define DCPI_OS_DIRECT_ALIGN 4096              /* buffers, offsets and sizes that are multiples of this may go direct */

#if DCP_NO_THREADS
#define DCPI_THREADS 0
#else
#define DCPI_THREADS 1
#endif
typedef void (*dcpi_thread_fn)(void *argument);
/* non-zero stops the listing and is returned */
typedef int (*dcpi_os_each)(void *user, const char *name, const dcp_object_info *info);

static int64_t dcpi_os_monotonic_ms(void);
static int64_t dcpi_os_wall_us(void);
static void dcpi_os_sleep_ms(int ms);
static int dcpi_os_random(void *bytes, size_t size);
static int dcpi_os_processors(void);
static int dcpi_os_is_separator(const char *path, size_t i);
static void *dcpi_os_pages(size_t size);
static void dcpi_os_pages_free(void *memory, size_t size);
static dcp_status dcpi_os_status(int sys);
static int dcpi_os_is_transient(int sys);              /* EAGAIN, EBUSY, ETIMEDOUT, ESTALE, EIO, EINTR and their like */
static int dcpi_os_is_denied(int sys);                   /* EACCES, EPERM: not for this user */
static int dcpi_os_is_no_directory(int sys);             /* ENOTDIR: a part of the path is a file */
static void dcpi_os_message(int sys, char *text, size_t capacity);

/* Per system: typedefs dcpi_mutex, dcpi_cond, dcpi_thread, dcpi_base, dcpi_file, DCPI_MUTEX_INITIALIZER for static
 * ones, then

static int dcpi_mutex_init(dcpi_mutex *m);
static void dcpi_mutex_destroy(dcpi_mutex *m);
static void dcpi_mutex_lock(dcpi_mutex *m);
static void dcpi_mutex_unlock(dcpi_mutex *m);
static int dcpi_cond_init(dcpi_cond *c);
static void dcpi_cond_destroy(dcpi_cond *c);
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms);
static void dcpi_cond_wake_all(dcpi_cond *c);
static int dcpi_thread_start(dcpi_thread *t, dcpi_thread_fn fn, void *argument);
static void dcpi_thread_join(dcpi_thread *t);

static int dcpi_os_base_open(const char *path, int create, dcpi_base *out);
static void dcpi_os_base_close(dcpi_base *base);
static int dcpi_os_create(dcpi_base *base, const char *key, unsigned mode, int64_t size_hint, dcpi_file *out);
static int dcpi_os_join(dcpi_base *base, const char *key, int64_t size_hint, dcpi_file *out);
static int dcpi_os_write(dcpi_file *file, int64_t offset, const void *data, size_t size);
static int dcpi_os_open(dcpi_base *base, const char *key, dcpi_file *out, dcp_object_info *info);
static int dcpi_os_read(dcpi_file *file, int64_t offset, void *data, size_t size);
static int dcpi_os_map(dcpi_file *file, int64_t size, const void **data);
static void dcpi_os_unmap(const void *data, int64_t size);
static int dcpi_os_sync(dcpi_file *file);
static int dcpi_os_close(dcpi_file *file);
static int dcpi_os_publish(dcpi_base *base, const char *from, const char *to, int replace);
static int dcpi_os_remove(dcpi_base *base, const char *key);
static int dcpi_os_stat(dcpi_base *base, const char *key, dcp_object_info *info);
static int dcpi_os_additional(dcpi_base *base, const char *key, char mode[8], int64_t *links, uint64_t *inode);
static int dcpi_os_list(dcpi_base *base, const char *directory, int what, dcpi_os_each each, void *user);
static int dcpi_os_make_directory(dcpi_base *base, const char *key);
static int dcpi_os_sync_directory(dcpi_base *base, const char *key);
static int dcpi_os_space(dcpi_base *base, const char *key, int64_t *bytes_free);

static int dcpi_os_lock_open(dcpi_base *base, const char *key, unsigned mode, dcpi_lock_file *out);
static int dcpi_os_lock_range(dcpi_lock_file *file, int64_t at);
static void dcpi_os_unlock_range(dcpi_lock_file *file, int64_t at);
static int dcpi_os_lock_is_named(dcpi_base *base, const char *key, dcpi_lock_file *file);
static int dcpi_os_lock_read(dcpi_lock_file *file, char *text, size_t size);
static int dcpi_os_lock_write(dcpi_lock_file *file, const char *text, size_t size);
static void dcpi_os_lock_close(dcpi_lock_file *file);

The mode 0 in dcpi_os_create means 0666 less the umask; otherwise the file gets exactly these permission bits (Windows:
no meaning). On Windows the errors above are their counterparts (ERROR_FILE_EXISTS for EEXIST and so on): compare by
dcpi_os_status(), not by number. */


#if !defined(_WIN32)
/* ---- posix: what only some systems have, one small wrapper each; where it is missing it says ENOSYS and the caller
 * goes on without */
#define DCPI_OS_CALL_MOST ((size_t)1 << 30)             /* bytes in one read or write call; some systems refuse more */
#define DCPI_OS_WINDOW ((int64_t)32 * 1024 * 1024)      /* buffered bytes after which writing to the disk is started */
#define DCPI_OS_PART_MOST 255                           /* bytes in one part of a path */

#if defined(O_PATH)
#define DCPI_OS_SEARCH O_PATH                         /* a directory that is only passed through need not be readable */
#elif defined(O_SEARCH)
#define DCPI_OS_SEARCH O_SEARCH
#else
#define DCPI_OS_SEARCH O_RDONLY
#endif

#if defined(__linux__)
/* The kernel walks the whole path without following a link: one call instead of one per part. */
static int dcpi_os_openat2(int dir, const char *path, int flags) {
#if defined(SYS_openat2)
#define DCPI_OS_OPENAT2 SYS_openat2
#elif (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)) && !defined(__ILP32__)
#define DCPI_OS_OPENAT2 437
#endif
#ifdef DCPI_OS_OPENAT2
    struct { uint64_t flags, mode, resolve; } how;      /* struct open_how of linux/openat2.h, which old systems lack */
    how.flags = (uint64_t)(flags & ~O_NOFOLLOW);       /* with it a link at the end would be ENOTDIR instead of ELOOP */
    how.mode = 0;
    how.resolve = 0x08 | 0x04;                          /* RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS */
    return (int)syscall(DCPI_OS_OPENAT2, dir, path, &how, sizeof how);
#else
    (void)dir; (void)path; (void)flags;
    errno = ENOSYS;
    return -1;
#endif
}
/* KEEP_SIZE: should fewer bytes be written than announced, the file still ends where its data ends. No emulation by
 * writing zeros. */
static int dcpi_os_allocate(int fd, int64_t size) {
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0 ? 0 : errno;
}

/* Does the file system say that direct I/O cannot work with our alignment? Kernels before 6.1 and some file systems say
 * nothing: 1, try. */
static int dcpi_os_direct_possible(int fd) {
#ifdef SYS_statx
    uint32_t words[64] = {0};             /* struct statx, 256 bytes, without asking the libc how much of it it knows */
    const unsigned dioalign = 0x2000;                   /* STATX_DIOALIGN */
    if (syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, dioalign, words) != 0 || !(words[0] & dioalign))
        return 1;
    /* memory, offset */
    return words[38] != 0 && words[38] <= DCPI_OS_DIRECT_ALIGN && words[39] != 0 && words[39] <= DCPI_OS_DIRECT_ALIGN;
#else
    (void)fd;
    return 1;
#endif
}
static int dcpi_os_open_uncached(int dir, const char *name) {
    int fd;
    do fd = openat(dir, name, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC); while (fd < 0 && errno == EINTR);
    return fd;
}

/* Starts writing dirty pages to the disk and does not wait: the sync at the end then finds little left to do. Only a
 * hint. */
static void dcpi_os_write_behind(int fd, int64_t offset, int64_t size) {
    (void)sync_file_range(fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static int dcpi_os_rename_exclusive(int from_dir, const char *from, int to_dir, const char *to) {
#ifdef SYS_renameat2
    return syscall(SYS_renameat2, from_dir, from, to_dir, to, 1 /* RENAME_NOREPLACE */) == 0 ? 0 : errno;
#else
    (void)from_dir; (void)from; (void)to_dir; (void)to;
    return ENOSYS;
#endif
}
static int64_t dcpi_os_random_some(void *bytes, size_t size) {
#ifdef SYS_getrandom
    return (int64_t)syscall(SYS_getrandom, bytes, size, 0);
#else
    (void)bytes; (void)size;
    errno = ENOSYS;
    return -1;
#endif
}
static int dcpi_os_affinity(void) {                     /* 0: not known */
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}
static void dcpi_os_ask_for_huge_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, size, MADV_HUGEPAGE);
#else
    (void)memory; (void)size;
#endif
}
/* tmpfs and its like: what is reserved is zeroed at once, and "direct" writes are copies with more work around them. */
static int dcpi_os_is_memory(int fd) {
    struct statfs fs;
    uint32_t type;
    if (fstatfs(fd, &fs) != 0) return 0;
    type = (uint32_t)fs.f_type;
    return type == 0x01021994 /* tmpfs */ || type == 0x858458F6 /* ramfs */;
}
/* a size that grew is data for this call, so nothing is missing */
static int dcpi_os_flush_call(int fd) { return fdatasync(fd); }

#else /* not Linux */
static int dcpi_os_openat2(int dir, const char *path, int flags) {
    (void)dir;
    (void)path;
    (void)flags;
    errno = ENOSYS;
    return -1;
}
static int dcpi_os_allocate(int fd, int64_t size) { (void)fd; (void)size; return ENOSYS; }
static int dcpi_os_direct_possible(int fd) { (void)fd; return 0; }
static int dcpi_os_open_uncached(int dir, const char *name) { (void)dir; (void)name; errno = ENOSYS; return -1; }
static void dcpi_os_write_behind(int fd, int64_t offset, int64_t size) { (void)fd; (void)offset; (void)size; }
static int dcpi_os_rename_exclusive(int from_dir, const char *from, int to_dir, const char *to) {
#ifdef RENAME_EXCL                                      /* macOS */
    return renameatx_np(from_dir, from, to_dir, to, RENAME_EXCL) == 0 ? 0 : errno;
#else
    (void)from_dir; (void)from; (void)to_dir; (void)to;
    return ENOSYS;
#endif
}
static int64_t dcpi_os_random_some(void *bytes, size_t size) {
#if defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__) || defined(__DragonFly__)
    arc4random_buf(bytes, size);
    return (int64_t)size;
#else
    (void)bytes; (void)size;
    errno = ENOSYS;
    return -1;
#endif
}
static int dcpi_os_affinity(void) { return 0; }
static void dcpi_os_ask_for_huge_pages(void *memory, size_t size) { (void)memory; (void)size; }
static int dcpi_os_is_memory(int fd) { (void)fd; return 0; }
static int dcpi_os_flush_call(int fd) {
#ifdef F_FULLFSYNC                                      /* macOS: fsync alone leaves the data in the drive's cache */
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
    if (errno == EIO || errno == EINTR) return -1;      /* anything else: this file system does not know the call */
#endif
    return fsync(fd);
}
#endif

#if defined(__APPLE__)
#define DCPI_OS_MODIFIED(st) ((st)->st_mtimespec)
#else
#define DCPI_OS_MODIFIED(st) ((st)->st_mtim)
#endif

#if defined(__GLIBC__) || (defined(__ANDROID__) && defined(_GNU_SOURCE))
/* the GNU form */
static const char *dcpi_os_words(int sys, char *text, size_t capacity) { return strerror_r(sys, text, capacity); }
#else
static const char *dcpi_os_words(int sys, char *text, size_t capacity) {
    return strerror_r(sys, text, capacity) == 0 ? text : "";
}
#endif

/* ---- posix: clocks, the machine, memory, errors ------------------------------------------------------------------ */
static int dcpi_os_shut(int fd, int error) {
    /* closes on the way out; `error` was read before close could change errno */
    (void)close(fd);
    return error;
}
static int64_t dcpi_os_monotonic_ms(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (int64_t)now.tv_sec * 1000 + (int64_t)now.tv_nsec / 1000000;
}
static int64_t dcpi_os_wall_us(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return 0;
    return (int64_t)now.tv_sec * 1000000 + (int64_t)now.tv_nsec / 1000;
}
static void dcpi_os_sleep_ms(int ms) {
    struct timespec left;
    if (ms <= 0) return;
    left.tv_sec = ms / 1000;
    left.tv_nsec = (ms % 1000) * 1000000L;
    while (nanosleep(&left, &left) != 0 && errno == EINTR) { }
}
/* What kernels without the call offer; never a weaker generator of our own. */
static int dcpi_os_random_device(unsigned char *bytes, size_t size) {
    int error = 0, fd;
    do fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC); while (fd < 0 && errno == EINTR);
    if (fd < 0) return errno;
    while (!error && size > 0) {
        const ssize_t n = read(fd, bytes, size < DCPI_OS_CALL_MOST ? size : DCPI_OS_CALL_MOST);
        if (n > 0) { bytes += n; size -= (size_t)n; }
        else if (n == 0) error = EIO;
        else if (errno != EINTR) error = errno;
    }
    return dcpi_os_shut(fd, error);
}
static int dcpi_os_random(void *bytes, size_t size) {
    unsigned char *at = (unsigned char *)bytes;
    memset(bytes, 0, size);                  /* tools that watch for uninitialised memory do not see the kernel write */
    while (size > 0) {
        const int64_t n = dcpi_os_random_some(at, size < DCPI_OS_CALL_MOST ? size : DCPI_OS_CALL_MOST);
        if (n > 0) { at += n; size -= (size_t)n; }
        else if (n == 0 || errno != EINTR) return dcpi_os_random_device(at, size);
    }
    return 0;
}
static int dcpi_os_is_separator(const char *path, size_t i) { return path[i] == '/'; }
static int dcpi_os_processors(void) {
    int64_t count = dcpi_os_affinity();
    /* the mask can be larger than a cpu_set_t on the biggest machines */
    if (count < 1) count = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (int)dcpi_min(count, INT_MAX);
}
/* From two huge pages up the memory starts at one and asks for more: direct I/O pins it page by page, which costs as
 * much as the copy. */
#if defined(MAP_ANONYMOUS)
#define DCPI_OS_MAP_NEW (MAP_PRIVATE | MAP_ANONYMOUS)
#else
#define DCPI_OS_MAP_NEW (MAP_PRIVATE | MAP_ANON)
#endif
static void *dcpi_os_pages(size_t size) {
    const size_t huge = (size_t)2 << 20, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t slack, head;
    uint8_t *memory;
    if (size == 0 || size > SIZE_MAX - 2 * huge) return NULL;
    size = (size + page - 1) / page * page;
    slack = size >= 2 * huge ? huge : 0;
    memory = (uint8_t *)mmap(NULL, size + slack, PROT_READ | PROT_WRITE, DCPI_OS_MAP_NEW, -1, 0);
    if (memory == (uint8_t *)MAP_FAILED) return NULL;
    head = slack ? (huge - (uintptr_t)memory % huge) % huge : 0;
    if (head > 0) (void)munmap(memory, head);
    if (slack > head) (void)munmap(memory + head + size, slack - head);
    if (slack > 0) dcpi_os_ask_for_huge_pages(memory + head, size);
    return memory + head;
}
static void dcpi_os_pages_free(void *memory, size_t size) { if (memory) (void)munmap(memory, size); }

static dcp_status dcpi_os_status(int sys) {    /* a chain, not a switch: some of these are one number on some systems */
    if (sys == 0) return DCP_OK;
    if (sys == DCPI_OS_SHORT) return DCP_E_INCOMPLETE;
    if (sys == ENOSPC || sys == EDQUOT || sys == EFBIG) return DCP_E_SPACE;
    if (sys == ENOENT || sys == ENOTDIR) return DCP_E_NOT_FOUND;
    if (sys == EEXIST) return DCP_E_EXISTS;
    if (sys == ENOMEM) return DCP_E_MEMORY;
    if (sys == ENOTSUP || sys == EOPNOTSUPP || sys == ENOSYS) return DCP_E_UNSUPPORTED;
    if (sys == EINVAL || sys == ELOOP) return DCP_E_INVALID;            /* not a regular file; a symbolic link */
    return DCP_E_IO;
}
static int dcpi_os_is_denied(int sys) { return sys == EACCES || sys == EPERM; }
static int dcpi_os_is_no_directory(int sys) { return sys == ENOTDIR; }
static int dcpi_os_is_transient(int sys) {
    static const int transient[] = {EAGAIN, EBUSY, ETIMEDOUT, ESTALE, EIO, EINTR, ENETDOWN, ENETUNREACH, ENETRESET,
                                    ECONNABORTED, ECONNRESET, ECONNREFUSED, ENOTCONN, EHOSTDOWN, EHOSTUNREACH};
    size_t i;
    for (i = 0; i < DCPI_COUNT(transient); i++) if (sys == transient[i]) return 1;
    return 0;
}
static void dcpi_os_message(int sys, char *text, size_t capacity) {
    char buffer[256] = "";
    const char *words;
    if (sys == 0) words = "no error";
    else if (sys == DCPI_OS_SHORT) words = "the file ends too early";
    else words = dcpi_os_words(sys, buffer, sizeof buffer);
    if (words[0]) (void)snprintf(text, capacity, "%s", words);
    else (void)snprintf(text, capacity, "system error %d", sys);
}

/* ---- posix: threads ---------------------------------------------------------------------------------------------- */
#if DCPI_THREADS
typedef pthread_mutex_t dcpi_mutex;
typedef pthread_cond_t dcpi_cond;
/* stays where it is until it is joined */
typedef struct dcpi_thread { pthread_t id; dcpi_thread_fn fn; void *argument; } dcpi_thread;

#define DCPI_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
static int dcpi_mutex_init(dcpi_mutex *m) { return pthread_mutex_init(m, NULL); }
static void dcpi_mutex_destroy(dcpi_mutex *m) { (void)pthread_mutex_destroy(m); }
static void dcpi_mutex_lock(dcpi_mutex *m) { (void)pthread_mutex_lock(m); }
static void dcpi_mutex_unlock(dcpi_mutex *m) { (void)pthread_mutex_unlock(m); }

#if defined(__APPLE__)                                  /* no choice of clock, but a relative wait */
static int dcpi_cond_init(dcpi_cond *c) { return pthread_cond_init(c, NULL); }
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms) {
    struct timespec span;
    span.tv_sec = ms > 0 ? ms / 1000 : 0;
    span.tv_nsec = ms > 0 ? (ms % 1000) * 1000000L : 0;
    (void)pthread_cond_timedwait_relative_np(c, m, &span);
}
#else
static int dcpi_cond_init(dcpi_cond *c) {
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error) return error;
    /* someone who sets the clock must not end or prolong a wait */
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error) error = pthread_cond_init(c, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return error;
}
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms) {
    struct timespec until;
    if (clock_gettime(CLOCK_MONOTONIC, &until) != 0) return;
    if (ms > 0) {
        until.tv_sec += ms / 1000;
        until.tv_nsec += (ms % 1000) * 1000000L;
    }
    if (until.tv_nsec >= 1000000000L) { until.tv_sec++; until.tv_nsec -= 1000000000L; }
    (void)pthread_cond_timedwait(c, m, &until);
}
#endif
static void dcpi_cond_destroy(dcpi_cond *c) { (void)pthread_cond_destroy(c); }
static void dcpi_cond_wake_all(dcpi_cond *c) { (void)pthread_cond_broadcast(c); }

static void *dcpi_thread_main(void *memory) {
    dcpi_thread *thread = (dcpi_thread *)memory;
    thread->fn(thread->argument);
    return NULL;
}
/* The program's signals are handled on the program's own threads. Only what a thread's own doing raises stays: crash
 * reporters and sandboxes want it. */
static void dcpi_thread_signals(sigset_t *blocked) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    size_t i;
    (void)sigfillset(blocked);
    for (i = 0; i < DCPI_COUNT(own); i++) (void)sigdelset(blocked, own[i]);
}
/* musl gives a thread 128 KiB; a storage or device of the caller may run on it, so it gets 1 MiB at least. */
static int dcpi_thread_attributes(pthread_attr_t *attributes) {
    const size_t least = DCPI_MIB;
    size_t size = 0;
    int error = pthread_attr_init(attributes);
    if (error) return error;
    if (pthread_attr_getstacksize(attributes, &size) == 0 && size < least)
        (void)pthread_attr_setstacksize(attributes, least);
    return 0;
}
static int dcpi_thread_start(dcpi_thread *t, dcpi_thread_fn fn, void *argument) {
    pthread_attr_t attributes;
    sigset_t blocked, before;
    int error = dcpi_thread_attributes(&attributes);
    if (error) return error;
    t->fn = fn;
    t->argument = argument;
    dcpi_thread_signals(&blocked);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);             /* a new thread inherits the mask */
    error = pthread_create(&t->id, &attributes, dcpi_thread_main, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}
static void dcpi_thread_join(dcpi_thread *t) { (void)pthread_join(t->id, NULL); }

#else /* DCP_NO_THREADS: one thread, so a lock is always free, and time is all that a wait can wait for */
typedef struct dcpi_mutex { char unused; } dcpi_mutex;
typedef struct dcpi_cond { char unused; } dcpi_cond;
typedef struct dcpi_thread { char unused; } dcpi_thread;

#define DCPI_MUTEX_INITIALIZER {0}
static int dcpi_mutex_init(dcpi_mutex *m) { m->unused = 0; return 0; }
static void dcpi_mutex_destroy(dcpi_mutex *m) { (void)m; }
static void dcpi_mutex_lock(dcpi_mutex *m) { (void)m; }
static void dcpi_mutex_unlock(dcpi_mutex *m) { (void)m; }
static int dcpi_cond_init(dcpi_cond *c) { c->unused = 0; return 0; }
static void dcpi_cond_destroy(dcpi_cond *c) { (void)c; }
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms) { (void)c; (void)m; dcpi_os_sleep_ms(ms); }
static void dcpi_cond_wake_all(dcpi_cond *c) { (void)c; }
static int dcpi_thread_start(dcpi_thread *t, dcpi_thread_fn fn, void *argument) {
    (void)t;
    (void)fn;
    (void)argument;
    return ENOSYS;
}
static void dcpi_thread_join(dcpi_thread *t) { (void)t; }
#endif

/* ---- posix: RLIMIT_FSIZE. A call that would go beyond it fails with EFBIG, and raises a signal that ends the process.
 * A library answers for the error and raises nothing: the calling thread has the signal blocked meanwhile, and takes
 * the one that its call has raised. Threads of ours have it blocked anyway. */
#if DCPI_THREADS
static int dcpi_os_sigmask(int how, const sigset_t *set, sigset_t *before) { return pthread_sigmask(how, set, before); }
#else
static int dcpi_os_sigmask(int how, const sigset_t *set, sigset_t *before) { return sigprocmask(how, set, before); }
#endif
typedef struct dcpi_os_quiet { sigset_t before; int was_pending; } dcpi_os_quiet;

static void dcpi_os_growth_signal(sigset_t *set) {
    (void)sigemptyset(set);
#ifdef SIGXFSZ
    (void)sigaddset(set, SIGXFSZ);
#endif
}
static int dcpi_os_growth_is_pending(void) {
    sigset_t pending;
    (void)sigemptyset(&pending);
#ifdef SIGXFSZ
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
#else
    return 0;
#endif
}
static void dcpi_os_quiet_begin(dcpi_os_quiet *quiet) {
    sigset_t growth;
    dcpi_os_growth_signal(&growth);
    (void)sigemptyset(&quiet->before);
    (void)dcpi_os_sigmask(SIG_BLOCK, &growth, &quiet->before);
    quiet->was_pending = dcpi_os_growth_is_pending();
}
static void dcpi_os_quiet_end(const dcpi_os_quiet *quiet, int error) {  /* error: of the calls since, or 0 */
    sigset_t growth;
    int number;
    dcpi_os_growth_signal(&growth);
    if (error == EFBIG && !quiet->was_pending && dcpi_os_growth_is_pending()) (void)sigwait(&growth, &number);
    (void)dcpi_os_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

/* ---- posix: descriptors. Functions that return one return -1 and set errno, as the system's do ------------------- */
typedef struct dcpi_base { int fd; } dcpi_base;
typedef struct dcpi_file {
    int fd;
    int direct;                      /* a second descriptor on the same file, opened with O_DIRECT; -1: there is none */
    int64_t direct_align;               /* offsets and sizes that may go direct */
    int64_t reserved;                   /* bytes asked of the file system in advance */
    volatile int buffered;              /* set by any thread: direct I/O was refused, never try again */
    volatile int failed;           /* set by any thread: the first error of a sync, which no later call may hide (G3) */
} dcpi_file;

/* Both fill in zeros first: MemorySanitizer does not know every libc's stat. Neither follows a link. */
static int dcpi_os_stat_fd(int fd, struct stat *st) {
    int result;
    memset(st, 0, sizeof *st);
    do result = fstat(fd, st); while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}
static int dcpi_os_stat_at(int dir, const char *name, struct stat *st) {
    int result;
    memset(st, 0, sizeof *st);
    do result = fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW); while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}
static int dcpi_os_is_link(int dir, const char *name) {
    struct stat st;
    return dcpi_os_stat_at(dir, name, &st) == 0 && S_ISLNK(st.st_mode);
}
/* Systems disagree about what O_NOFOLLOW says at a symbolic link (ELOOP, ENOTDIR with O_DIRECTORY, EMLINK, EFTYPE):
 * here it is ELOOP. */
static int dcpi_os_openat(int dir, const char *name, int flags, mode_t mode) {
    int fd;
    do fd = openat(dir, name, flags | O_CLOEXEC, mode); while (fd < 0 && errno == EINTR);
    if (fd < 0 && (flags & O_NOFOLLOW) && errno != ENOENT && errno != EEXIST) {
        int error = errno;
        errno = dcpi_os_is_link(dir, name) ? ELOOP : error;
    }
    return fd;
}
static int dcpi_os_flush(int fd) {           /* EINTR: nothing was given up yet, so only that one is tried again (G3) */
    int result;
    do result = dcpi_os_flush_call(fd); while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}
/* File systems that cannot sync a directory say EINVAL or EBADF: here that is ENOTSUP, so that a storage can report
 * "not durable". */
static int dcpi_os_flush_directory(int fd) {
    int error = dcpi_os_flush(fd);
    return error == EINVAL || error == EBADF || error == ENOSYS || error == EOPNOTSUPP ? ENOTSUP : error;
}
/* Makes the entry of an open directory durable. A parent that may not be read, or cannot be synced, is as far as one
 * can go: no error. */
static int dcpi_os_sync_parent(int dir) {
    int error, parent = dcpi_os_openat(dir, "..", O_RDONLY | O_DIRECTORY, 0);
    if (parent < 0) return errno == EACCES || errno == EPERM ? 0 : errno;
    error = dcpi_os_flush_directory(parent);
    return dcpi_os_shut(parent, error == ENOTSUP || error == EROFS ? 0 : error);
}

/* ---- posix: directories ------------------------------------------------------------------------------------------ */
typedef enum dcpi_os_make { DCPI_OS_MAKE_NONE, DCPI_OS_MAKE, DCPI_OS_MAKE_DURABLE } dcpi_os_make;

static volatile int dcpi_os_no_openat2;                 /* found out once in a process; two threads may both find out */

/* EEXIST: another process made it, perhaps without a sync as yet; or we did, and were interrupted. */
static int dcpi_os_mkdirat(int dir, const char *part) {
    int result;
    do result = mkdirat(dir, part, 0777); while (result != 0 && errno == EINTR);
    return result == 0 || errno == EEXIST ? 0 : -1;
}
static int dcpi_os_enter(int dir, const char *part, int flags, dcpi_os_make make) {
    int error, fd = dcpi_os_openat(dir, part, flags, 0);
    if (fd >= 0 || errno != ENOENT || make == DCPI_OS_MAKE_NONE) return fd;
    if (dcpi_os_mkdirat(dir, part) != 0) return -1;
    fd = dcpi_os_openat(dir, part, flags, 0);
    if (fd < 0 || make != DCPI_OS_MAKE_DURABLE) return fd;
    error = dcpi_os_sync_parent(fd);
    if (error == 0) return fd;
    errno = dcpi_os_shut(fd, error);
    return -1;
}
/* Opens path[0..length) part by part from dir, or from the root. With O_NOFOLLOW in flags no part may be a symbolic
 * link. The generic way: it works on every system, takes paths of any length, and makes what is missing. */
static int dcpi_os_walk(int dir, const char *path, size_t length, int flags, dcpi_os_make make) {
    const int through = DCPI_OS_SEARCH | O_DIRECTORY | (flags & O_NOFOLLOW);
    int fd = dcpi_os_openat(dir, length > 0 && path[0] == '/' ? "/" : ".", through & ~O_NOFOLLOW, 0);
    size_t at = 0;
    while (fd >= 0) {
        char part[DCPI_OS_PART_MOST + 1];
        size_t n = 0;
        int next, error;
        while (at < length && path[at] == '/') at++;
        while (at + n < length && path[at + n] != '/') n++;
        if (n > DCPI_OS_PART_MOST) { errno = dcpi_os_shut(fd, ENAMETOOLONG); return -1; }
        memcpy(part, path + at, n);
        part[n] = '\0';
        at += n;
        next = n == 0 ? dcpi_os_openat(fd, ".", flags, 0) : dcpi_os_enter(fd, part, through, make);
        error = errno;
        errno = dcpi_os_shut(fd, error);
        if (n == 0 || next < 0) return next;        /* behind the last part: once more, as the caller wants it opened */
        fd = next;
    }
    return fd;
}
/* The directory key[0..length) beneath dir; length 0 is dir itself. */
static int dcpi_os_directory(int dir, const char *key, size_t length, int flags, dcpi_os_make make) {
    char path[4096];
    int fd;
    flags |= O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    if (length == 0) return dcpi_os_openat(dir, ".", flags, 0);
    if (length < sizeof path && !dcpi_flag_get(&dcpi_os_no_openat2)) {
        memcpy(path, key, length);
        path[length] = '\0';
        do fd = dcpi_os_openat2(dir, path, flags); while (fd < 0 && errno == EINTR);
        if (fd < 0 && errno == ENOSYS) dcpi_flag_set(&dcpi_os_no_openat2, 1);
        if (fd >= 0) return fd;
        if (errno == ENOENT && make == DCPI_OS_MAKE_NONE) return -1;
        if (errno == ELOOP || errno == ENOTDIR || errno == EACCES) return -1;
    }
    /* an old kernel, a sandbox that says EPERM, or something is to be made */
    return dcpi_os_walk(dir, key, length, flags, make);
}
/* The directory that holds key's last part; *name is that part. */
static int dcpi_os_parent(const dcpi_base *base, const char *key, dcpi_os_make make, const char **name) {
    const char *slash = strrchr(key, '/');
    *name = slash ? slash + 1 : key;
    return dcpi_os_directory(base->fd, key, slash ? (size_t)(slash - key) : 0, DCPI_OS_SEARCH, make);
}
/* The caller's own path: symbolic links in it are the caller's business and are followed. */
static int dcpi_os_base_open(const char *path, int create, dcpi_base *out) {
    const int flags = O_RDONLY | O_DIRECTORY;
    int error;
    if (path[0] == '\0') path = ".";
    out->fd = dcpi_os_openat(AT_FDCWD, path, flags, 0);
    if (!create) return out->fd < 0 ? errno : 0;
    if (out->fd < 0 && errno == ENOENT)
        out->fd = dcpi_os_walk(AT_FDCWD, path, strlen(path), flags, DCPI_OS_MAKE_DURABLE);
    if (out->fd < 0) return errno;
    error = dcpi_os_sync_parent(out->fd);               /* always: who made it may have died before its own sync */
    if (error == 0) return 0;
    error = dcpi_os_shut(out->fd, error);
    out->fd = -1;
    return error;
}
static void dcpi_os_base_close(dcpi_base *base) {
    if (base->fd >= 0) (void)close(base->fd);
    base->fd = -1;
}
static int dcpi_os_make_directory(dcpi_base *base, const char *key) {
    int fd = dcpi_os_directory(base->fd, key, strlen(key), DCPI_OS_SEARCH, DCPI_OS_MAKE);
    return fd < 0 ? errno : dcpi_os_shut(fd, 0);
}
static int dcpi_os_sync_directory(dcpi_base *base, const char *key) {
    int fd = dcpi_os_directory(base->fd, key, strlen(key), O_RDONLY, DCPI_OS_MAKE_NONE);
    if (fd < 0) return errno;
    return dcpi_os_shut(fd, dcpi_os_flush_directory(fd));
}
static int dcpi_os_free_bytes(int fd, int64_t *bytes_free) {
    struct statvfs st;
    int error;
    do error = fstatvfs(fd, &st) == 0 ? 0 : errno; while (error == EINTR);
    if (error) return error;
    /* a tmpfs without a limit has no blocks at all */
    if (st.f_blocks == 0 || !dcpi_mul((int64_t)st.f_bavail, (int64_t)st.f_frsize, bytes_free)) *bytes_free = INT64_MAX;
    return 0;
}
static int dcpi_os_space(dcpi_base *base, const char *key, int64_t *bytes_free) {
    int fd = dcpi_os_directory(base->fd, key, strlen(key), O_RDONLY, DCPI_OS_MAKE_NONE);
    *bytes_free = 0;
    if (fd < 0) return errno;
    return dcpi_os_shut(fd, dcpi_os_free_bytes(fd, bytes_free));
}

/* ---- posix: names ------------------------------------------------------------------------------------------------ */
static int64_t dcpi_os_modified_ns(const struct stat *st) {
    /* saturates in the year 2262, which file systems outlive */
    const int64_t seconds = (int64_t)DCPI_OS_MODIFIED(st).tv_sec, nanoseconds = (int64_t)DCPI_OS_MODIFIED(st).tv_nsec;
    if (seconds > INT64_MAX / 1000000000 - 1) return INT64_MAX;
    if (seconds < INT64_MIN / 1000000000 + 1) return INT64_MIN;
    return seconds * 1000000000 + nanoseconds;
}
static int dcpi_os_check_regular(const struct stat *st, dcp_object_info *info) {
    info->size = 0;
    info->modified_ns = 0;
    if (S_ISLNK(st->st_mode)) return ELOOP;
    if (!S_ISREG(st->st_mode)) return EINVAL;
    info->size = (int64_t)st->st_size;
    info->modified_ns = dcpi_os_modified_ns(st);
    return 0;
}
static int dcpi_os_stat_key(dcpi_base *base, const char *key, struct stat *st) {
    const char *name;
    int dir = dcpi_os_parent(base, key, DCPI_OS_MAKE_NONE, &name);
    if (dir < 0) return errno;
    return dcpi_os_shut(dir, dcpi_os_stat_at(dir, name, st));
}
static int dcpi_os_stat(dcpi_base *base, const char *key, dcp_object_info *info) {
    struct stat st;
    int error = dcpi_os_stat_key(base, key, &st);
    return error ? error : dcpi_os_check_regular(&st, info);
}
static int dcpi_os_additional(dcpi_base *base, const char *key, char mode[8], int64_t *links, uint64_t *inode) {
    dcp_object_info info;
    struct stat st;
    int error = dcpi_os_stat_key(base, key, &st);
    if (!error) error = dcpi_os_check_regular(&st, &info);
    if (error) return error;
    (void)snprintf(mode, 8, "%04o", (unsigned)st.st_mode & 07777u);
    *links = (int64_t)st.st_nlink;
    *inode = (uint64_t)st.st_ino;
    return 0;
}
/* What is not there any more after an interrupted call is what that call has removed. */
static int dcpi_os_unlinkat(int dir, const char *name) {
    int result, was_interrupted = 0;
    while ((result = unlinkat(dir, name, 0)) != 0 && errno == EINTR) was_interrupted = 1;
    return result == 0 || (was_interrupted && errno == ENOENT) ? 0 : errno;
}
static int dcpi_os_remove(dcpi_base *base, const char *key) {
    const char *name;
    int dir = dcpi_os_parent(base, key, DCPI_OS_MAKE_NONE, &name);
    if (dir < 0) return errno;
    return dcpi_os_shut(dir, dcpi_os_unlinkat(dir, name));
}
static int dcpi_os_same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Where rename cannot refuse an existing target, link can: it makes the second name or fails, in one step. Whether
 * somebody has removed that name since cannot be seen: so after an error that does not say why not, the first name
 * goes, as if it had been moved. Where there is no link either, nothing safe is left. The name that stays when unlink
 * fails is a leftover like any other: the publishing has happened. */
static int dcpi_os_link_exclusive(int from_dir, const char *from, int to_dir, const char *to) {
    int error;
    if (linkat(from_dir, from, to_dir, to, 0) == 0) {
        (void)dcpi_os_unlinkat(from_dir, from);
        return 0;
    }
    error = errno;
    if (error != EINTR && dcpi_os_is_transient(error)) (void)dcpi_os_unlinkat(from_dir, from);
    return error == EPERM || error == EOPNOTSUPP || error == ENOTSUP || error == EMLINK || error == ENOSYS ? ENOTSUP
           : error;
}
static int dcpi_os_move_once(int from_dir, const char *from, int to_dir, const char *to, int replace) {
    int error;
    if (replace) return renameat(from_dir, from, to_dir, to) == 0 ? 0 : errno;
    error = dcpi_os_rename_exclusive(from_dir, from, to_dir, to);
    if (error != ENOSYS && error != EINVAL && error != ENOTSUP && error != EOPNOTSUPP) return error;
    return dcpi_os_link_exclusive(from_dir, from, to_dir, to);
}
/* A server that was interrupted, or whose answer got lost, may have moved it all the same, and the repeated request
 * then says that there is nothing to move, or that the target is there. So whatever was reported, a target that is the
 * very file that was to be moved is success. Where it is not, and an interrupted call found nothing to move, that is
 * all that is known, and the caller looks what is there. */
static int dcpi_os_move(int from_dir, const char *from, int to_dir, const char *to, int replace) {
    struct stat before, now;
    const int is_known = dcpi_os_stat_at(from_dir, from, &before) == 0;
    int error, was_interrupted = 0;
    while ((error = dcpi_os_move_once(from_dir, from, to_dir, to, replace)) == EINTR) was_interrupted = 1;
    if (error == 0) return 0;
    if (is_known && dcpi_os_stat_at(to_dir, to, &now) == 0 && dcpi_os_same_file(&before, &now) &&
        before.st_size == now.st_size && before.st_mtime == now.st_mtime) {
        (void)dcpi_os_unlinkat(from_dir, from);         /* a link's first name */
        return 0;
    }
    return was_interrupted && error == ENOENT ? EINTR : error;
}
static int dcpi_os_publish(dcpi_base *base, const char *from, const char *to, int replace) {
    const char *from_name, *to_name;
    int to_dir, from_dir = dcpi_os_parent(base, from, DCPI_OS_MAKE_NONE, &from_name);
    if (from_dir < 0) return errno;
    to_dir = dcpi_os_parent(base, to, DCPI_OS_MAKE_NONE, &to_name);
    if (to_dir < 0) return dcpi_os_shut(from_dir, errno);
    return dcpi_os_shut(from_dir, dcpi_os_shut(to_dir, dcpi_os_move(from_dir, from_name, to_dir, to_name, replace)));
}
/* Whether a link is just another name of a regular file in its own directory, such as `latest` of the newest one. */
static int dcpi_os_is_second_name(int fd, const char *name) {
    char target[4096];
    const char *last;
    struct stat st, meant;
    ssize_t length = readlinkat(fd, name, target, sizeof target - 1);
    if (length <= 0 || (size_t)length >= sizeof target - 1) return 0;
    target[length] = '\0';
    last = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    memset(&meant, 0, sizeof meant);
    if (dcpi_os_stat_at(fd, last, &st) != 0 || !S_ISREG(st.st_mode) || fstatat(fd, name, &meant, 0) != 0) return 0;
    return dcpi_os_same_file(&st, &meant);
}
static int dcpi_os_list_entry(int fd, const char *name, int what, dcpi_os_each each, void *user) {
    dcp_object_info info;
    struct stat st;
    int error = dcpi_os_stat_at(fd, name, &st);
    if (error) return error == ENOENT ? 0 : error;      /* gone since the directory was read: not there */
    if (what == 2) return S_ISLNK(st.st_mode) && !dcpi_os_is_second_name(fd, name) ? each(user, name, NULL) : 0;
    if (what)
        return S_ISDIR(st.st_mode) && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? each(user, name, NULL) : 0;
    return dcpi_os_check_regular(&st, &info) == 0 ? each(user, name, &info) : 0;
}
static int dcpi_os_list(dcpi_base *base, const char *directory, int what, dcpi_os_each each, void *user) {
    int error = 0, fd = dcpi_os_directory(base->fd, directory, strlen(directory), O_RDONLY, DCPI_OS_MAKE_NONE);
    DIR *stream;
    if (fd < 0) return errno;
    do stream = fdopendir(fd); while (!stream && errno == EINTR);           /* it looks at the descriptor first */
    if (!stream) return dcpi_os_shut(fd, errno);
    while (!error) {
        struct dirent *entry;
        do {
            errno = 0;                                  /* the end and an error look the same otherwise */
            entry = readdir(stream);
        } while (!entry && errno == EINTR);
        if (!entry) { error = errno; break; }
#ifdef DT_UNKNOWN                                       /* spares a stat of what is surely something else */
        static const unsigned char types[] = { DT_REG, DT_DIR, DT_LNK };
        if (entry->d_type != types[what] && entry->d_type != DT_UNKNOWN) continue;
#endif
        error = dcpi_os_list_entry(fd, entry->d_name, what, each, user);
    }
    (void)closedir(stream);                             /* closes fd too */
    return error;
}

/* ---- posix: files ------------------------------------------------------------------------------------------------ */
static void dcpi_os_file_clear(dcpi_file *file) {
    memset(file, 0, sizeof *file);
    file->fd = -1;
    file->direct = -1;
}
/* Only what would make the save fail later counts. A file system that cannot reserve is as good as one that can. */
static int dcpi_os_reserve(dcpi_file *file, int64_t size) {
    int64_t available = 0;
    int error;
    dcpi_os_quiet quiet;
    if (dcpi_os_is_memory(file->fd))
        return dcpi_os_free_bytes(file->fd, &available) == 0 && available < size ? ENOSPC : 0;
    dcpi_os_quiet_begin(&quiet);
    do error = dcpi_os_allocate(file->fd, size); while (error == EINTR);
    dcpi_os_quiet_end(&quiet, error);
    if (error == 0) file->reserved = size;
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? error : 0;
}
/* A block must not be written direct while its neighbour in the same page of the cache is written buffered, or stale
 * bytes could come back: so the unit is a page where pages are larger than 4 KiB. */
static void dcpi_os_try_direct(dcpi_file *file, int dir, const char *name) {
    struct stat plain, direct;
    if (dcpi_os_is_memory(file->fd) || !dcpi_os_direct_possible(file->fd)) return;
    file->direct = dcpi_os_open_uncached(dir, name);
    if (file->direct < 0) return;
    file->direct_align = dcpi_max(DCPI_OS_DIRECT_ALIGN, (int64_t)sysconf(_SC_PAGESIZE));
    if (dcpi_os_stat_fd(file->fd, &plain) == 0 && dcpi_os_stat_fd(file->direct, &direct) == 0 &&
        dcpi_os_same_file(&plain, &direct)) return;
    file->direct = dcpi_os_shut(file->direct, -1);      /* somebody has put another file in its place */
}
static int dcpi_os_create(dcpi_base *base, const char *key, unsigned mode, int64_t size_hint, dcpi_file *out) {
    const char *name;
    int error = 0, dir = dcpi_os_parent(base, key, DCPI_OS_MAKE, &name);
    dcpi_os_file_clear(out);
    if (dir < 0) return errno;
    out->fd = dcpi_os_openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode ? (mode_t)(mode & 0777) : 0666);
    if (out->fd < 0) return dcpi_os_shut(dir, errno);
    if (size_hint > 0) error = dcpi_os_reserve(out, size_hint);
    if (!error && size_hint >= DCPI_OS_DIRECT_FROM) dcpi_os_try_direct(out, dir, name);
    /* exactly these bits, whatever the umask */
    if (!error && mode && fchmod(out->fd, (mode_t)(mode & 07777)) != 0) error = errno;
    if (error) {
        (void)dcpi_os_unlinkat(dir, name);
        if (out->direct >= 0) (void)close(out->direct);
        (void)close(out->fd);
        dcpi_os_file_clear(out);
    }
    return dcpi_os_shut(dir, error);
}
/* O_NONBLOCK: opening a FIFO must not wait for its other side. What it is is asked of the descriptor, so nobody can
 * exchange it in between. */
static int dcpi_os_open_regular(int dir, const char *name, int flags, dcpi_file *out, dcp_object_info *info) {
    struct stat st;
    int error;
    out->fd = dcpi_os_openat(dir, name, flags | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
    /* a socket; a device without a driver */
    if (out->fd < 0) return errno == ENXIO || errno == ENODEV ? EINVAL : errno;
    error = dcpi_os_stat_fd(out->fd, &st);
    if (!error) error = dcpi_os_check_regular(&st, info);
    /* file systems that fetch from tape heed O_NONBLOCK: off again */
    if (!error && fcntl(out->fd, F_SETFL, 0) != 0) error = errno;
    if (error) out->fd = dcpi_os_shut(out->fd, -1);
    return error;
}
static int dcpi_os_join(dcpi_base *base, const char *key, int64_t size_hint, dcpi_file *out) {
    const char *name;
    dcp_object_info info;
    int error, dir = dcpi_os_parent(base, key, DCPI_OS_MAKE_NONE, &name);
    dcpi_os_file_clear(out);
    if (dir < 0) return errno;
    error = dcpi_os_open_regular(dir, name, O_WRONLY, out, &info);
    if (!error && size_hint >= DCPI_OS_DIRECT_FROM) dcpi_os_try_direct(out, dir, name);
    return dcpi_os_shut(dir, error);
}
/* *done counts what has been written, also when it fails. */
static int dcpi_os_write_all(int fd, int64_t offset, const char *bytes, size_t size, size_t *done) {
    while (*done < size) {
        const size_t left = size - *done;
        ssize_t n = pwrite(fd, bytes + *done, left < DCPI_OS_CALL_MOST ? left : DCPI_OS_CALL_MOST,
                           (off_t)(offset + (int64_t)*done));
        if (n > 0) *done += (size_t)n;
        else if (n == 0) return EIO;     /* the system promises progress or an error: do not wait for either for ever */
        else if (errno != EINTR) return errno;
    }
    return 0;
}
/* How many bytes from the start may go direct: all up to the last whole unit, or none. */
static size_t dcpi_os_direct_part(dcpi_file *file, int64_t offset, const void *data, size_t size) {
    if (file->direct < 0 || dcpi_flag_get(&file->buffered)) return 0;
    if (offset % file->direct_align != 0 || (uintptr_t)data % DCPI_OS_DIRECT_ALIGN != 0) return 0;
    return size - size % (size_t)file->direct_align;
}
/* Each time buffered writing comes past the end of a window, the disk may begin with it. No counter: threads write in
 * any order. */
static void dcpi_os_note_progress(dcpi_file *file, int64_t from, int64_t to) {
    const int64_t first = from / DCPI_OS_WINDOW, last = to / DCPI_OS_WINDOW;
    if (last > first) dcpi_os_write_behind(file->fd, first * DCPI_OS_WINDOW, (last - first) * DCPI_OS_WINDOW);
}
/* Direct as far as that goes, and the rest buffered; *done as in dcpi_os_write_all, *direct_done: how much of it went
 * direct. */
static int dcpi_os_write_both(dcpi_file *file, int64_t offset, const char *bytes, size_t size, size_t *done,
                              size_t *direct_done) {
    const size_t direct = dcpi_os_direct_part(file, offset, bytes, size);
    const int error = dcpi_os_write_all(file->direct, offset, bytes, direct, done);
    *direct_done = *done;
    /* The file system takes it at open and refuses it here (EINVAL), or cannot reach this memory without a copy
     * (EFAULT). */
    if (error == EINVAL || error == EFAULT) dcpi_flag_set(&file->buffered, 1);
    else if (error) return error;
    return dcpi_os_write_all(file->fd, offset, bytes, size, done);
}
static int dcpi_os_write(dcpi_file *file, int64_t offset, const void *data, size_t size) {
    size_t done = 0, before = 0;
    dcpi_os_quiet quiet;
    int64_t end;
    int error;
    if (!dcpi_add(offset, (int64_t)size, &end)) return EFBIG;
    dcpi_os_quiet_begin(&quiet);
    error = dcpi_os_write_both(file, offset, (const char *)data, size, &done, &before);
    dcpi_os_quiet_end(&quiet, error);
    if (!error && before < done) dcpi_os_note_progress(file, offset + (int64_t)before, end);
    return error;
}
static int dcpi_os_open(dcpi_base *base, const char *key, dcpi_file *out, dcp_object_info *info) {
    const char *name;
    int dir = dcpi_os_parent(base, key, DCPI_OS_MAKE_NONE, &name);
    dcpi_os_file_clear(out);
    info->size = info->modified_ns = 0;
    if (dir < 0) return errno;
    return dcpi_os_shut(dir, dcpi_os_open_regular(dir, name, O_RDONLY, out, info));
}
static int dcpi_os_read(dcpi_file *file, int64_t offset, void *data, size_t size) {
    char *bytes = (char *)data;
    int64_t end;
    size_t done = 0;
    if (!dcpi_add(offset, (int64_t)size, &end)) return DCPI_OS_SHORT;     /* no file is that long */
    while (done < size) {
        const size_t left = size - done;
        ssize_t n = pread(file->fd, bytes + done, left < DCPI_OS_CALL_MOST ? left : DCPI_OS_CALL_MOST,
                          (off_t)(offset + (int64_t)done));
        if (n > 0) done += (size_t)n;
        else if (n == 0) return DCPI_OS_SHORT;
        else if (errno != EINTR) return errno;
    }
    return 0;
}
static int dcpi_os_map(dcpi_file *file, int64_t size, const void **data) {
    struct stat st;
    void *memory;
    int error;
    *data = NULL;
    if (size == 0) return 0;
    if (size < 0 || (uint64_t)size > SIZE_MAX) return ENOMEM;   /* no room for it among the addresses of this machine */
    error = dcpi_os_stat_fd(file->fd, &st);
    if (error) return error;
    if (st.st_size < size) return DCPI_OS_SHORT;                      /* touching what is not there would be a SIGBUS */
    memory = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (memory == MAP_FAILED) return errno;
    *data = memory;
    return 0;
}
static void dcpi_os_unmap(const void *data, int64_t size) {
    if (data) (void)munmap((void *)(uintptr_t)data, (size_t)size);
}

/* Gives back what was reserved and never written. Only space is at stake: an error does not count. */
static void dcpi_os_trim(dcpi_file *file) {
    struct stat st;
    if (file->reserved == 0 || dcpi_os_stat_fd(file->fd, &st) != 0 || st.st_size >= file->reserved) return;
    file->reserved = ftruncate(file->fd, st.st_size) == 0 ? 0 : file->reserved;
}
/* Direct writes are covered: the call is about the file, not about the descriptor. */
static int dcpi_os_sync(dcpi_file *file) {
    int error = dcpi_flag_get(&file->failed);
    if (error) return error;
    dcpi_os_trim(file);
    error = dcpi_os_flush(file->fd);
    if (error) dcpi_flag_set(&file->failed, error);
    return error;
}
static int dcpi_os_close_one(int fd, int error) {
    /* the first error stays; after EINTR the descriptor is gone all the same */
    if (fd < 0 || close(fd) == 0 || errno == EINTR) return error;
    return error ? error : errno;
}
static int dcpi_os_close(dcpi_file *file) {
    int error = dcpi_flag_get(&file->failed);
    error = dcpi_os_close_one(file->direct, error);
    error = dcpi_os_close_one(file->fd, error);
    dcpi_os_file_clear(file);
    return error;
}

/* ---- posix: locks ------------------------------------------------------------------------------------------------ */
typedef struct dcpi_lock_file { int fd; int is_whole; } dcpi_lock_file;

static int dcpi_os_lock_open(dcpi_base *base, const char *key, unsigned mode, dcpi_lock_file *out) {
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    const char *name;
    struct stat st;
    dcp_object_info info;
    int error, dir = dcpi_os_parent(base, key, DCPI_OS_MAKE_NONE, &name);
    out->fd = -1;
    out->is_whole = 0;
    if (dir < 0) return errno;
    out->fd = dcpi_os_openat(dir, name, flags, mode ? (mode_t)(mode & 0777) : 0666);
    if (out->fd < 0) return dcpi_os_shut(dir, errno == EISDIR || errno == ENXIO ? EINVAL : errno);
    error = dcpi_os_stat_fd(out->fd, &st);
    if (!error) error = dcpi_os_check_regular(&st, &info);
    if (error) out->fd = dcpi_os_shut(out->fd, -1);
    return dcpi_os_shut(dir, error);
}
static int dcpi_os_lock_error(int error) {              /* what a system may say of a lock, in three words */
    if (error == EAGAIN || error == EWOULDBLOCK || error == EACCES) return DCPI_OS_BUSY;
    return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP || error == ENOTSUP || error == EINVAL ? ENOTSUP
           : error;
}
static int dcpi_os_lock_whole(dcpi_lock_file *file) {
#if defined(LOCK_EX) && defined(LOCK_NB)
    int result;
    do result = flock(file->fd, LOCK_EX | LOCK_NB); while (result != 0 && errno == EINTR);
    if (result != 0) return dcpi_os_lock_error(errno);
    file->is_whole = 1;
    return 0;
#else
    (void)file;
    return ENOTSUP;
#endif
}
/* Of that open file, not of the process: a plain F_SETLK goes when any descriptor of the file is closed. Systems that
 * do not know it say EINVAL. */
static int dcpi_os_lock_call(int fd, int type, int64_t at, int64_t size) {
#if defined(F_OFD_SETLK)
    struct flock range;
    int result;
    memset(&range, 0, sizeof range);
    range.l_type = (short)type;
    range.l_whence = SEEK_SET;
    range.l_start = (off_t)at;
    range.l_len = (off_t)size;                          /* 0: to the end of all files */
    do result = fcntl(fd, F_OFD_SETLK, &range); while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
#else
    (void)fd; (void)type; (void)at; (void)size;
    return EINVAL;
#endif
}
static int dcpi_os_lock_range(dcpi_lock_file *file, int64_t at) {
    int error;
    if (file->is_whole) return 0;
    error = dcpi_os_lock_call(file->fd, F_WRLCK, at, 1);
    if (error == EINVAL) return dcpi_os_lock_whole(file);
    return error ? dcpi_os_lock_error(error) : 0;
}
static void dcpi_os_unlock_range(dcpi_lock_file *file, int64_t at) {
    if (!file->is_whole) (void)dcpi_os_lock_call(file->fd, F_UNLCK, at, 1);
}
static int dcpi_os_lock_is_named(dcpi_base *base, const char *key, dcpi_lock_file *file) {
    struct stat named, open;
    return dcpi_os_stat_key(base, key, &named) == 0 && dcpi_os_stat_fd(file->fd, &open) == 0 &&
           dcpi_os_same_file(&named, &open);
}
static int dcpi_os_lock_read(dcpi_lock_file *file, char *text, size_t size) {
    ssize_t n;
    memset(text, 0, size);
    do n = pread(file->fd, text, size, 0); while (n < 0 && errno == EINTR);
    return n < 0 ? errno : 0;
}
static int dcpi_os_lock_write(dcpi_lock_file *file, const char *text, size_t size) {
    size_t done = 0;
    return dcpi_os_write_all(file->fd, 0, text, size, &done);
}
static void dcpi_os_lock_close(dcpi_lock_file *file) {
    /* a child that has inherited it must not go on holding it: unlocked, then closed */
    if (file->fd < 0) return;
    if (!file->is_whole) (void)dcpi_os_lock_call(file->fd, F_UNLCK, 0, 0);
#if defined(LOCK_UN)
    else (void)flock(file->fd, LOCK_UN);
#endif
    (void)close(file->fd);
    file->fd = -1;
}
#endif /* posix */


#if defined(_WIN32)
/* ---- windows: clocks, the machine, memory ------------------------------------------------------------------------ */
#define DCPI_OS_CALL_MOST ((size_t)1 << 30)             /* bytes in one read or write call: it takes a DWORD */

static int64_t dcpi_os_monotonic_ms(void) {
    LARGE_INTEGER count, frequency;
    /* cannot fail on Windows XP and later */
    if (!QueryPerformanceCounter(&count) || !QueryPerformanceFrequency(&frequency)) return 0;
    return count.QuadPart / frequency.QuadPart * 1000 + count.QuadPart % frequency.QuadPart * 1000 / frequency.QuadPart;
}
/* Windows counts units of 100 ns from the year 1601. Saturates, like the POSIX side. */
static int64_t dcpi_os_since_1970(FILETIME time, int64_t units_per_tick, int64_t ticks_per_unit) {
    const int64_t ticks = (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) -
                          INT64_C(116444736000000000);
    if (ticks > INT64_MAX / units_per_tick) return INT64_MAX;
    if (ticks < INT64_MIN / units_per_tick) return INT64_MIN;
    return ticks * units_per_tick / ticks_per_unit;
}
static int64_t dcpi_os_wall_us(void) {
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return dcpi_os_since_1970(now, 1, 10);
}
static void dcpi_os_sleep_ms(int ms) { if (ms > 0) Sleep((DWORD)ms); }

static int dcpi_os_last(void) {          /* never 0: a call that failed has failed, whatever it says about the reason */
    const DWORD error = GetLastError();
    return error ? (int)error : ERROR_GEN_FAILURE;
}
/* RtlGenRandom, the system's generator, by its exported name: so a program need not link with advapi32 or bcrypt. */
static int dcpi_os_random(void *bytes, size_t size) {
    typedef BOOLEAN (WINAPI *generate)(PVOID, ULONG);
    HMODULE library = LoadLibraryA("advapi32.dll");     /* a KnownDLL: never looked for beside the program */
    generate fill = library ? (generate)(void (*)(void))GetProcAddress(library, "SystemFunction036") : NULL;
    unsigned char *at = (unsigned char *)bytes;
    int error = fill ? 0 : dcpi_os_last();
    while (!error && size > 0) {
        const size_t piece = size < DCPI_OS_CALL_MOST ? size : DCPI_OS_CALL_MOST;
        if (!fill(at, (ULONG)piece)) error = ERROR_GEN_FAILURE;
        at += piece;
        size -= piece;
    }
    if (library) (void)FreeLibrary(library);
    return error;
}
/* A colon separates only after a drive's letter: "C:x" is x in the current directory of C. Elsewhere it begins the name
 * of a stream. */
static int dcpi_os_is_separator(const char *path, size_t i) {
    const char drive = (char)(path[0] | 0x20);
    return path[i] == '/' || path[i] == '\\' || (path[i] == ':' && i == 1 && drive >= 'a' && drive <= 'z');
}
static int dcpi_os_processors(void) {
    DWORD_PTR mine = 0, all = 0;
    int count = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all)) return 1;
    for (; mine != 0; mine &= mine - 1) count++;
    return count > 0 ? count : 1;      /* 0: the process spans several groups of 64, which four workers need not know */
}
static void *dcpi_os_pages(size_t size) {
    return size ? VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) : NULL;
}
static void dcpi_os_pages_free(void *memory, size_t size) {
    (void)size;
    if (memory) (void)VirtualFree(memory, 0, MEM_RELEASE);
}

/* ---- windows: errors --------------------------------------------------------------------------------------------- */
#define DCPI_OS_NOT_REGULAR ERROR_INVALID_PARAMETER     /* what EINVAL is to the POSIX side */
#define DCPI_OS_IS_LINK ERROR_STOPPED_ON_SYMLINK        /* what ELOOP is */
#ifndef ERROR_STOPPED_ON_SYMLINK        /* the two that older SDKs lack */
#define ERROR_STOPPED_ON_SYMLINK 681
#endif
#ifndef ERROR_DISK_QUOTA_EXCEEDED
#define ERROR_DISK_QUOTA_EXCEEDED 1295
#endif

static int dcpi_os_is_one_of(int sys, const int *list, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) if (list[i] == sys) return 1;
    return 0;
}
static dcp_status dcpi_os_status(int sys) {
    static const int space[] = {ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED,
                                ERROR_FILE_TOO_LARGE};
    static const int missing[] = {ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_DIRECTORY, ERROR_INVALID_DRIVE};
    static const int memory[] = {ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY, ERROR_COMMITMENT_LIMIT};
    static const int unsupported[] = {ERROR_NOT_SUPPORTED, ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_FUNCTION};
    static const int invalid[] = {DCPI_OS_NOT_REGULAR, DCPI_OS_IS_LINK, ERROR_INVALID_NAME, ERROR_BAD_PATHNAME,
                                  ERROR_NO_UNICODE_TRANSLATION};
    if (sys == 0) return DCP_OK;
    if (sys == DCPI_OS_SHORT) return DCP_E_INCOMPLETE;
    if (sys == ERROR_FILE_EXISTS || sys == ERROR_ALREADY_EXISTS) return DCP_E_EXISTS;
    if (dcpi_os_is_one_of(sys, space, DCPI_COUNT(space))) return DCP_E_SPACE;
    if (dcpi_os_is_one_of(sys, missing, DCPI_COUNT(missing))) return DCP_E_NOT_FOUND;
    if (dcpi_os_is_one_of(sys, memory, DCPI_COUNT(memory))) return DCP_E_MEMORY;
    if (dcpi_os_is_one_of(sys, unsupported, DCPI_COUNT(unsupported))) return DCP_E_UNSUPPORTED;
    if (dcpi_os_is_one_of(sys, invalid, DCPI_COUNT(invalid))) return DCP_E_INVALID;
    return DCP_E_IO;
}
static int dcpi_os_is_denied(int sys) { return sys == ERROR_ACCESS_DENIED; }
static int dcpi_os_is_no_directory(int sys) { return sys == ERROR_DIRECTORY; }
static int dcpi_os_is_transient(int sys) {
    /* sharing violations: virus scanners and indexers hold a new file for an instant */
    static const int transient[] = {
        ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION, ERROR_USER_MAPPED_FILE, ERROR_BUSY, ERROR_NETWORK_BUSY,
            ERROR_SEM_TIMEOUT,
        WAIT_TIMEOUT, ERROR_IO_DEVICE, ERROR_CRC, ERROR_READ_FAULT, ERROR_WRITE_FAULT, ERROR_NETNAME_DELETED,
        ERROR_UNEXP_NET_ERR,
        ERROR_DEV_NOT_EXIST, ERROR_BAD_NETPATH, ERROR_NETWORK_UNREACHABLE, ERROR_CONNECTION_ABORTED, ERROR_RETRY};
    return dcpi_os_is_one_of(sys, transient, DCPI_COUNT(transient));
}
static void dcpi_os_message(int sys, char *text, size_t capacity) {
    const DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    wchar_t wide[256];
    char narrow[3 * 256];
    int length = 0;
    DWORD count = 0;
    if (sys == 0) { (void)snprintf(text, capacity, "no error"); return; }
    if (sys == DCPI_OS_SHORT) { (void)snprintf(text, capacity, "the file ends too early"); return; }
    if (sys > 0) count = FormatMessageW(flags, NULL, (DWORD)sys, 0, wide, (DWORD)DCPI_COUNT(wide), NULL);
    /* it ends in a stop and a new line */
    while (count > 0 && (wide[count - 1] <= L' ' || wide[count - 1] == L'.')) count--;
    if (count > 0) length = WideCharToMultiByte(CP_UTF8, 0, wide, (int)count, narrow, (int)sizeof narrow, NULL, NULL);
    if (length > 0) (void)snprintf(text, capacity, "%.*s", length, narrow);
    else (void)snprintf(text, capacity, "system error %d", sys);
}

/* ---- windows: threads -------------------------------------------------------------------------------------------- */
#if DCPI_THREADS
typedef SRWLOCK dcpi_mutex;
typedef CONDITION_VARIABLE dcpi_cond;
/* stays where it is until it is joined */
typedef struct dcpi_thread { HANDLE handle; dcpi_thread_fn fn; void *argument; } dcpi_thread;

#define DCPI_MUTEX_INITIALIZER SRWLOCK_INIT
static int dcpi_mutex_init(dcpi_mutex *m) { InitializeSRWLock(m); return 0; }
static void dcpi_mutex_destroy(dcpi_mutex *m) { (void)m; }
static void dcpi_mutex_lock(dcpi_mutex *m) { AcquireSRWLockExclusive(m); }
static void dcpi_mutex_unlock(dcpi_mutex *m) { ReleaseSRWLockExclusive(m); }
static int dcpi_cond_init(dcpi_cond *c) { InitializeConditionVariable(c); return 0; }
static void dcpi_cond_destroy(dcpi_cond *c) { (void)c; }
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms) {
    (void)SleepConditionVariableSRW(c, m, ms > 0 ? (DWORD)ms : 0, 0);
}
static void dcpi_cond_wake_all(dcpi_cond *c) { WakeAllConditionVariable(c); }

static unsigned __stdcall dcpi_thread_main(void *memory) {
    dcpi_thread *thread = (dcpi_thread *)memory;
    thread->fn(thread->argument);
    return 0;
}
static int dcpi_thread_start(dcpi_thread *t, dcpi_thread_fn fn, void *argument) {
    t->fn = fn;
    t->argument = argument;
    t->handle = (HANDLE)_beginthreadex(NULL, 0, dcpi_thread_main, t, 0, NULL);
    return t->handle ? 0 : ERROR_NOT_ENOUGH_MEMORY;     /* the C library's reasons all come to this */
}
static void dcpi_thread_join(dcpi_thread *t) {
    (void)WaitForSingleObject(t->handle, INFINITE);
    (void)CloseHandle(t->handle);
}

#else /* DCP_NO_THREADS: one thread, so a lock is always free, and time is all that a wait can wait for */
typedef struct dcpi_mutex { char unused; } dcpi_mutex;
typedef struct dcpi_cond { char unused; } dcpi_cond;
typedef struct dcpi_thread { char unused; } dcpi_thread;

#define DCPI_MUTEX_INITIALIZER {0}
static int dcpi_mutex_init(dcpi_mutex *m) { m->unused = 0; return 0; }
static void dcpi_mutex_destroy(dcpi_mutex *m) { (void)m; }
static void dcpi_mutex_lock(dcpi_mutex *m) { (void)m; }
static void dcpi_mutex_unlock(dcpi_mutex *m) { (void)m; }
static int dcpi_cond_init(dcpi_cond *c) { c->unused = 0; return 0; }
static void dcpi_cond_destroy(dcpi_cond *c) { (void)c; }
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms) { (void)c; (void)m; dcpi_os_sleep_ms(ms); }
static void dcpi_cond_wake_all(dcpi_cond *c) { (void)c; }
static int dcpi_thread_start(dcpi_thread *t, dcpi_thread_fn fn, void *argument) {
    (void)t; (void)fn; (void)argument;
    return ERROR_CALL_NOT_IMPLEMENTED;
}
static void dcpi_thread_join(dcpi_thread *t) { (void)t; }
#endif

/* ---- windows: paths. UTF-8 outside, UTF-16 inside, always absolute with the prefix \\?\: no limit of 260, no guessing
 * by the system  */
typedef struct dcpi_base { wchar_t *path; } dcpi_base;  /* ends in '\' only where it is a root */
typedef struct dcpi_file {
    HANDLE handle;
    volatile int failed;           /* set by any thread: the first error of a sync, which no later call may hide (G3) */
} dcpi_file;

#define DCPI_OS_SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

static wchar_t *dcpi_os_wide_alloc(size_t count) {      /* NULL: and the last error says why */
    wchar_t *wide = count < SIZE_MAX / sizeof(wchar_t) ? (wchar_t *)dcpi_alloc(count * sizeof(wchar_t), NULL) : NULL;
    if (!wide) SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return wide;
}
/* `before`, then text[0..length) from UTF-8, with room for `more` characters behind it. */
static wchar_t *dcpi_os_wide(const wchar_t *before, const char *text, size_t length, size_t more) {
    const size_t start = wcslen(before);
    wchar_t *wide;
    int count = 0;
    if (length > INT_MAX) { SetLastError(ERROR_BAD_PATHNAME); return NULL; }
    if (length > 0) {
        count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, (int)length, NULL, 0);
        if (count <= 0) return NULL;
    }
    wide = dcpi_os_wide_alloc(start + (size_t)count + more + 1);
    if (!wide) return NULL;
    memcpy(wide, before, start * sizeof *wide);
    if (count > 0) (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, (int)length, wide + start, count);
    wide[start + (size_t)count] = L'\0';
    return wide;
}
/* Behind \\?\ the system takes every name literally, even those that no other program could open or delete again:
 * they are refused here. */
static int dcpi_os_key_is_valid(const char *key) {
    for (;;) {
        const size_t length = strcspn(key, "/");
        if (!dcpi_part_is_portable(key, length)) return 0;
        if (key[length] == '\0') return 1;
        key += length + 1;
    }
}
/* A symbolic link or a junction. Other reparse points (compressed, deduplicated, in the cloud) are files like any
 * other. */
static int dcpi_os_is_link(const wchar_t *path) {
    WIN32_FIND_DATAW found;
    HANDLE search = FindFirstFileW(path, &found);
    if (search == INVALID_HANDLE_VALUE) return 0;       /* nothing there: whoever opens it will see */
    (void)FindClose(search);
    /* a name surrogate */
    return (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) && (found.dwReserved0 & 0x20000000);
}
/* The path of a key beneath the base ("": the base), with room for `more` characters. No directory on the way may be a
 * link: Win32 cannot open relative to a handle, so this is checked before the file is opened; who may exchange
 * directories in between is not kept out. */
static int dcpi_os_path(const dcpi_base *base, const char *key, size_t more, wchar_t **out) {
    const size_t start = wcslen(base->path);
    size_t i;
    *out = NULL;
    if (key[0] == '\0') {
        *out = dcpi_os_wide(base->path, "", 0, more);
        return *out ? 0 : dcpi_os_last();
    }
    if (!dcpi_os_key_is_valid(key)) return ERROR_INVALID_NAME;
    *out = dcpi_os_wide(base->path, key, strlen(key), more + 1);
    if (!*out) return dcpi_os_last();
    if ((*out)[start - 1] != L'\\') {
        memmove(*out + start + 1, *out + start, (wcslen(*out + start) + 1) * sizeof(wchar_t));
        (*out)[start] = L'\\';
    }
    for (i = start + 1; (*out)[i] != L'\0'; i++) {
        int link;
        if ((*out)[i] != L'/') continue;
        (*out)[i] = L'\0';
        link = dcpi_os_is_link(*out);
        (*out)[i] = L'\\';
        if (!link) continue;
        dcpi_free(*out);
        *out = NULL;
        return DCPI_OS_IS_LINK;
    }
    return 0;
}
static int dcpi_os_path_done(wchar_t *path, int error) {                /* frees on the way out */
    dcpi_free(path);
    return error;
}
static int dcpi_os_is_directory(const wchar_t *path) {
    const DWORD attributes = GetFileAttributesW(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

/* ---- windows: directories ---------------------------------------------------------------------------------------- */
/* NTFS takes a flush of a directory. Where it is refused, a journal and publishing with write-through do the same;
 * without a journal it is ERROR_NOT_SUPPORTED, so that a storage can report "not durable". */
static int dcpi_os_flush_directory(const wchar_t *path) {
    static const int refused[] = {ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE,
                                  ERROR_INVALID_PARAMETER};
    DWORD features = 0;
    int error = 0;
    HANDLE handle = CreateFileW(path, GENERIC_WRITE, DCPI_OS_SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS,
                                NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        error = dcpi_os_last();
        return dcpi_os_is_one_of(error, refused, DCPI_COUNT(refused)) ? ERROR_NOT_SUPPORTED : error;
    }
    if (!FlushFileBuffers(handle)) error = dcpi_os_last();
    if (dcpi_os_is_one_of(error, refused, DCPI_COUNT(refused))) {
        const int known = GetVolumeInformationByHandleW(handle, NULL, 0, NULL, NULL, &features, NULL, 0) != 0;
        error = known && (features & 0x02000000 /* FILE_SUPPORTS_USN_JOURNAL: NTFS, ReFS */) ? 0 : ERROR_NOT_SUPPORTED;
    }
    (void)CloseHandle(handle);
    return error;
}
/* Characters of \\?\C:\ or \\?\UNC\server\share\, which nobody can make. */
static size_t dcpi_os_root_length(const wchar_t *path) {
    const int unc = wcsncmp(path, L"\\\\?\\UNC\\", 8) == 0;
    size_t at = unc ? 8 : 4, parts = unc ? 2 : 1;
    for (; path[at] != L'\0'; at++) if (path[at] == L'\\' && --parts == 0) return at + 1;
    return at;
}
static int dcpi_os_absolute(const char *path, wchar_t **out) {
    wchar_t *given = dcpi_os_wide(L"", path[0] ? path : ".", path[0] ? strlen(path) : 1, 0), *full;
    const DWORD capacity = given ? GetFullPathNameW(given, 0, NULL, NULL) : 0;
    DWORD length;
    size_t skip, start;
    const wchar_t *prefix = L"\\\\?\\";
    *out = NULL;
    if (capacity == 0) return dcpi_os_path_done(given, dcpi_os_last());
    full = dcpi_os_wide_alloc((size_t)capacity + 8);
    if (!full) return dcpi_os_path_done(given, ERROR_NOT_ENOUGH_MEMORY);
    length = GetFullPathNameW(given, capacity, full + 8, NULL);
    dcpi_free(given);
    if (length == 0 || length >= capacity || wcsncmp(full + 8, L"\\\\.\\", 4) == 0)
        return dcpi_os_path_done(full, ERROR_BAD_PATHNAME);
    skip = 0;
    if (wcsncmp(full + 8, prefix, 4) == 0) prefix = L"";
    else if (wcsncmp(full + 8, L"\\\\", 2) == 0) { prefix = L"\\\\?\\UNC\\"; skip = 2; }
    start = 8 + skip - wcslen(prefix);
    memcpy(full + start, prefix, wcslen(prefix) * sizeof *full);
    memmove(full, full + start, (wcslen(full + start) + 1) * sizeof *full);
    length = (DWORD)wcslen(full);
    while (length > dcpi_os_root_length(full) && full[length - 1] == L'\\') full[--length] = L'\0';
    *out = full;
    return 0;
}
/* The entry of path[0..end) becomes durable. A parent that cannot be synced is as far as anyone can go: no error. */
static int dcpi_os_sync_parent(wchar_t *path, size_t end) {
    const size_t root = dcpi_os_root_length(path);
    wchar_t kept;
    int error;
    while (end > root && path[end - 1] != L'\\') end--;
    if (end > root) end--;                              /* without the '\', but a root keeps its own */
    kept = path[end];
    path[end] = L'\0';
    error = dcpi_os_flush_directory(path);
    path[end] = kept;
    return error == ERROR_NOT_SUPPORTED || error == ERROR_WRITE_PROTECT ? 0 : error;
}
/* Makes each directory that is missing on the way to path, from character `start` on, and path itself. */
static int dcpi_os_make_all(wchar_t *path, size_t start, int durable) {
    size_t i;
    for (i = start;; i++) {
        const wchar_t c = path[i];
        int error = 0;
        if (c != L'\\' && c != L'\0') continue;
        path[i] = L'\0';
        if (!dcpi_os_is_directory(path)) {
            if (!CreateDirectoryW(path, NULL)) error = dcpi_os_last();
            /* made meanwhile; a file */
            if (error == ERROR_ALREADY_EXISTS) error = dcpi_os_is_directory(path) ? 0 : ERROR_DIRECTORY;
            if (!error && durable) error = dcpi_os_sync_parent(path, i);
        }
        path[i] = c;
        if (error || c == L'\0') return error;
    }
}
/* Of a path that is no directory: ERROR_DIRECTORY if it or a part of it is a file, which Windows does not tell from a
 * missing one. */
static int dcpi_os_why_missing(wchar_t *path) {
    int error = GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES ? dcpi_os_last() : ERROR_DIRECTORY;
    const size_t root = dcpi_os_root_length(path);
    size_t end = wcslen(path);
    while (error == ERROR_PATH_NOT_FOUND && end > root) {
        DWORD found;
        while (end > root && path[end - 1] != L'\\') end--;
        if (end <= root) break;
        path[--end] = L'\0';
        found = GetFileAttributesW(path);
        path[end] = L'\\';
        if (found == INVALID_FILE_ATTRIBUTES) continue;
        if (!(found & FILE_ATTRIBUTE_DIRECTORY)) error = ERROR_DIRECTORY;
        break;
    }
    return error;
}
static int dcpi_os_base_open(const char *path, int create, dcpi_base *out) {
    int error = dcpi_os_absolute(path, &out->path);
    if (error) return error;
    if (create) {
        error = dcpi_os_make_all(out->path, dcpi_os_root_length(out->path), 1);
        /* always: who made it may have died before its own sync */
        if (!error) error = dcpi_os_sync_parent(out->path, wcslen(out->path));
    } else if (!dcpi_os_is_directory(out->path)) {
        error = dcpi_os_why_missing(out->path);
    }
    if (!error) return 0;
    dcpi_free(out->path);
    out->path = NULL;
    return error;
}
static void dcpi_os_base_close(dcpi_base *base) {
    dcpi_free(base->path);
    base->path = NULL;
}
static int dcpi_os_make_directory(dcpi_base *base, const char *key) {
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    if (error) return error;
    if (dcpi_os_is_link(path) && key[0]) error = DCPI_OS_IS_LINK;
    else if (key[0]) error = dcpi_os_make_all(path, wcslen(base->path) + 1, 0);
    return dcpi_os_path_done(path, error);
}
static int dcpi_os_sync_directory(dcpi_base *base, const char *key) {
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    if (error) return error;
    if (key[0] && dcpi_os_is_link(path)) error = DCPI_OS_IS_LINK;
    else if (!dcpi_os_is_directory(path))
        error = GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES ? dcpi_os_last() : ERROR_DIRECTORY;
    else error = dcpi_os_flush_directory(path);
    return dcpi_os_path_done(path, error);
}
static int dcpi_os_space(dcpi_base *base, const char *key, int64_t *bytes_free) {
    ULARGE_INTEGER available;
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    *bytes_free = 0;
    if (error) return error;
    if (!GetDiskFreeSpaceExW(path, &available, NULL, NULL)) return dcpi_os_path_done(path, dcpi_os_last());
    *bytes_free = available.QuadPart > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)available.QuadPart;
    return dcpi_os_path_done(path, 0);
}

/* ---- windows: files ---------------------------------------------------------------------------------------------- */
static void dcpi_os_file_clear(dcpi_file *file) {
    file->handle = INVALID_HANDLE_VALUE;
    file->failed = 0;
}
static int64_t dcpi_os_join64(DWORD high, DWORD low) { return (int64_t)((uint64_t)high << 32 | low); }

/* Only what would make the save fail later counts. The reservation does not change the size, and close gives back what
 * was not written. */
static int dcpi_os_reserve(HANDLE handle, int64_t size) {
    FILE_ALLOCATION_INFO wanted;
    int error;
    wanted.AllocationSize.QuadPart = size;
    if (SetFileInformationByHandle(handle, FileAllocationInfo, &wanted, sizeof wanted)) return 0;
    error = dcpi_os_last();
    return dcpi_os_status(error) == DCP_E_SPACE ? error : 0;
}
static HANDLE dcpi_os_create_new(const wchar_t *path) {
    return CreateFileW(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_NEW,
                       FILE_ATTRIBUTE_NORMAL, NULL);
}
static int dcpi_os_make_parents(wchar_t *path, size_t start) {
    wchar_t *slash = wcsrchr(path, L'\\');
    int error = 0;
    *slash = L'\0';
    if ((size_t)(slash - path) > start) error = dcpi_os_make_all(path, start, 0);
    *slash = L'\\';
    return error;
}
/* `mode` has no meaning here: a file inherits the access rights of its directory. */
static int dcpi_os_create(dcpi_base *base, const char *key, unsigned mode, int64_t size_hint, dcpi_file *out) {
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    (void)mode;
    dcpi_os_file_clear(out);
    if (error) return error;
    out->handle = dcpi_os_create_new(path);
    if (out->handle == INVALID_HANDLE_VALUE && GetLastError() == ERROR_PATH_NOT_FOUND) {
        error = dcpi_os_make_parents(path, wcslen(base->path) + 1);
        if (error) return dcpi_os_path_done(path, error);
        out->handle = dcpi_os_create_new(path);
    }
    if (out->handle == INVALID_HANDLE_VALUE) return dcpi_os_path_done(path, dcpi_os_last());
    if (size_hint > 0) error = dcpi_os_reserve(out->handle, size_hint);
    if (error) {
        (void)CloseHandle(out->handle);
        (void)DeleteFileW(path);
        dcpi_os_file_clear(out);
    }
    return dcpi_os_path_done(path, error);
}
static OVERLAPPED dcpi_os_at(int64_t offset) {          /* on an ordinary handle: where this one call reads or writes */
    OVERLAPPED at;
    memset(&at, 0, sizeof at);
    at.Offset = (DWORD)((uint64_t)offset & 0xFFFFFFFFu);
    at.OffsetHigh = (DWORD)((uint64_t)offset >> 32);
    return at;
}
static int dcpi_os_write(dcpi_file *file, int64_t offset, const void *data, size_t size) {
    const char *bytes = (const char *)data;
    int64_t end;
    if (!dcpi_add(offset, (int64_t)size, &end)) return ERROR_FILE_TOO_LARGE;
    while (size > 0) {
        OVERLAPPED at = dcpi_os_at(offset);
        DWORD n = 0;
        if (!WriteFile(file->handle, bytes, (DWORD)(size < DCPI_OS_CALL_MOST ? size : DCPI_OS_CALL_MOST), &n, &at))
            return dcpi_os_last();
        if (n == 0) return ERROR_WRITE_FAULT;           /* no progress and no error: do not wait for either for ever */
        bytes += n;
        offset += n;
        size -= n;
    }
    return 0;
}
static int dcpi_os_check_regular(HANDLE handle, BY_HANDLE_FILE_INFORMATION *found) {
    if (GetFileType(handle) != FILE_TYPE_DISK) return DCPI_OS_NOT_REGULAR;
    if (!GetFileInformationByHandle(handle, found)) return dcpi_os_last();
    return found->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? DCPI_OS_NOT_REGULAR : 0;
}
/* BACKUP_SEMANTICS opens directories too, so that they can be told from files that may not be read. OPEN_REPARSE_POINT
 * opens a link itself, to be refused, and for the files that only look like one (deduplicated and the like) the call is
 * made again without it. */
static int dcpi_os_open_regular(dcpi_base *base, const char *key, DWORD access, HANDLE *out,
                                BY_HANDLE_FILE_INFORMATION *found) {
    DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    *out = INVALID_HANDLE_VALUE;
    while (!error) {
        *out = CreateFileW(path, access, DCPI_OS_SHARE_ALL, NULL, OPEN_EXISTING, flags, NULL);
        if (*out == INVALID_HANDLE_VALUE) { error = dcpi_os_last(); break; }
        error = dcpi_os_check_regular(*out, found);
        if (!(flags & FILE_FLAG_OPEN_REPARSE_POINT) || !(found->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT)) break;
        (void)CloseHandle(*out);
        *out = INVALID_HANDLE_VALUE;
        error = dcpi_os_is_link(path) ? DCPI_OS_IS_LINK : 0;
        flags &= ~(DWORD)FILE_FLAG_OPEN_REPARSE_POINT;
    }
    if (error && *out != INVALID_HANDLE_VALUE) { (void)CloseHandle(*out); *out = INVALID_HANDLE_VALUE; }
    if (error == ERROR_PATH_NOT_FOUND) error = dcpi_os_why_missing(path);
    return dcpi_os_path_done(path, error);
}
static int dcpi_os_join(dcpi_base *base, const char *key, int64_t size_hint, dcpi_file *out) {
    BY_HANDLE_FILE_INFORMATION found;
    (void)size_hint;
    dcpi_os_file_clear(out);
    return dcpi_os_open_regular(base, key, GENERIC_WRITE, &out->handle, &found);
}
static void dcpi_os_fill_info(dcp_object_info *info, const BY_HANDLE_FILE_INFORMATION *found) {
    info->size = dcpi_os_join64(found->nFileSizeHigh, found->nFileSizeLow);
    info->modified_ns = dcpi_os_since_1970(found->ftLastWriteTime, 100, 1);
}
static int dcpi_os_open(dcpi_base *base, const char *key, dcpi_file *out, dcp_object_info *info) {
    BY_HANDLE_FILE_INFORMATION found;
    int error;
    memset(&found, 0, sizeof found);
    memset(info, 0, sizeof *info);
    dcpi_os_file_clear(out);
    error = dcpi_os_open_regular(base, key, GENERIC_READ, &out->handle, &found);
    if (!error) dcpi_os_fill_info(info, &found);
    return error;
}
static int dcpi_os_read(dcpi_file *file, int64_t offset, void *data, size_t size) {
    char *bytes = (char *)data;
    int64_t end;
    if (!dcpi_add(offset, (int64_t)size, &end)) return DCPI_OS_SHORT;   /* no file is that long */
    while (size > 0) {
        OVERLAPPED at = dcpi_os_at(offset);
        DWORD n = 0;
        if (!ReadFile(file->handle, bytes, (DWORD)(size < DCPI_OS_CALL_MOST ? size : DCPI_OS_CALL_MOST), &n, &at))
            return GetLastError() == ERROR_HANDLE_EOF ? DCPI_OS_SHORT : dcpi_os_last();
        if (n == 0) return DCPI_OS_SHORT;
        bytes += n;
        offset += n;
        size -= n;
    }
    return 0;
}
static int dcpi_os_map(dcpi_file *file, int64_t size, const void **data) {
    LARGE_INTEGER there;
    HANDLE mapping;
    int error = 0;
    *data = NULL;
    if (size == 0) return 0;
    /* no room for it among the addresses of this machine */
    if (size < 0 || (uint64_t)size > SIZE_MAX) return ERROR_NOT_ENOUGH_MEMORY;
    if (!GetFileSizeEx(file->handle, &there)) return dcpi_os_last();
    if (there.QuadPart < size) return DCPI_OS_SHORT;
    mapping = CreateFileMappingW(file->handle, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping) return dcpi_os_last();
    *data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, (SIZE_T)size);
    if (!*data) error = dcpi_os_last();
    (void)CloseHandle(mapping);                         /* the view keeps it alive */
    return error;
}
static void dcpi_os_unmap(const void *data, int64_t size) {
    (void)size;
    if (data) (void)UnmapViewOfFile(data);
}
static int dcpi_os_sync(dcpi_file *file) {
    int error = dcpi_flag_get(&file->failed);
    if (error) return error;
    if (FlushFileBuffers(file->handle)) return 0;
    error = dcpi_os_last();
    dcpi_flag_set(&file->failed, error);
    return error;
}
static int dcpi_os_close(dcpi_file *file) {
    int error = dcpi_flag_get(&file->failed);
    if (file->handle != INVALID_HANDLE_VALUE && !CloseHandle(file->handle) && !error) error = dcpi_os_last();
    dcpi_os_file_clear(file);
    return error;
}

/* ---- windows: names ---------------------------------------------------------------------------------------------- */
/* Replaces a target that a reader has open, which MoveFileEx cannot: the reader goes on with the old file, as on POSIX.
 * From Windows 10 on, on NTFS; where it does not exist the first error stands. */
static int dcpi_os_replace_open(const wchar_t *from, const wchar_t *to, int first_error) {
    /* FILE_RENAME_INFO of newer systems */
    typedef struct { DWORD flags; HANDLE root; DWORD name_size; WCHAR name[1]; } rename_info;
    const size_t name_size = wcslen(to) * sizeof *to, size = sizeof(rename_info) + name_size;
    rename_info *info = (rename_info *)dcpi_alloc_array(1, size, NULL);
    HANDLE handle = CreateFileW(from, DELETE | SYNCHRONIZE, DCPI_OS_SHARE_ALL, NULL, OPEN_EXISTING,
                                FILE_FLAG_WRITE_THROUGH, NULL);
    int moved = 0;
    if (info && handle != INVALID_HANDLE_VALUE) {
        info->flags = 0x1 | 0x2;             /* FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS */
        info->name_size = (DWORD)name_size;
        memcpy(info->name, to, name_size);
        moved = SetFileInformationByHandle(handle, (FILE_INFO_BY_HANDLE_CLASS)22 /* FileRenameInfoEx */, info,
                                           (DWORD)size) != 0;
    }
    if (handle != INVALID_HANDLE_VALUE) (void)CloseHandle(handle);
    dcpi_free(info);
    return moved ? 0 : first_error;
}
/* WRITE_THROUGH: NTFS writes the rename to its journal on the disk before the call returns. */
static int dcpi_os_publish(dcpi_base *base, const char *from, const char *to, int replace) {
    const DWORD flags = MOVEFILE_WRITE_THROUGH | (replace ? MOVEFILE_REPLACE_EXISTING : 0u);
    wchar_t *source, *target = NULL;
    int error = dcpi_os_path(base, from, 0, &source);
    if (!error) error = dcpi_os_path(base, to, 0, &target);
    if (!error && !MoveFileExW(source, target, flags)) error = dcpi_os_last();
    if (replace && error == ERROR_ACCESS_DENIED) error = dcpi_os_replace_open(source, target, error);
    dcpi_free(target);
    return dcpi_os_path_done(source, error);
}
static int dcpi_os_remove(dcpi_base *base, const char *key) {
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    if (!error && !DeleteFileW(path)) error = dcpi_os_last();
    return dcpi_os_path_done(path, error);
}
static int dcpi_os_stat_key(dcpi_base *base, const char *key, BY_HANDLE_FILE_INFORMATION *found) {
    HANDLE handle;
    int error;
    memset(found, 0, sizeof *found);
    error = dcpi_os_open_regular(base, key, FILE_READ_ATTRIBUTES, &handle, found);
    if (!error) (void)CloseHandle(handle);
    return error;
}
static int dcpi_os_stat(dcpi_base *base, const char *key, dcp_object_info *info) {
    BY_HANDLE_FILE_INFORMATION found;
    int error = dcpi_os_stat_key(base, key, &found);
    memset(info, 0, sizeof *info);
    if (!error) dcpi_os_fill_info(info, &found);
    return error;
}
static int dcpi_os_additional(dcpi_base *base, const char *key, char mode[8], int64_t *links, uint64_t *inode) {
    BY_HANDLE_FILE_INFORMATION found;
    int error = dcpi_os_stat_key(base, key, &found);
    if (error) return error;
    (void)snprintf(mode, 8, "%s", found.dwFileAttributes & FILE_ATTRIBUTE_READONLY ? "0444" : "0666");
    *links = (int64_t)found.nNumberOfLinks;
    *inode = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    return 0;
}
/* Size and time are those of the directory entry: of a file that is being written they may lag behind until it is
 * closed. */
static int dcpi_os_list_entry(const WIN32_FIND_DATAW *found, int what, dcpi_os_each each, void *user) {
    char name[3 * MAX_PATH + 1];
    dcp_object_info info;
    if (found->dwFileAttributes & FILE_ATTRIBUTE_DEVICE) return 0;
    if (((found->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) != what) return 0;
    /* a link */
    if ((found->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) && (found->dwReserved0 & 0x20000000)) return 0;
    if (WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, found->cFileName, -1, name, (int)sizeof name, NULL, NULL) <=
        0) return 0;
    if (what) return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? each(user, name, NULL) : 0;
    info.size = dcpi_os_join64(found->nFileSizeHigh, found->nFileSizeLow);
    info.modified_ns = dcpi_os_since_1970(found->ftLastWriteTime, 100, 1);
    return each(user, name, &info);
}
static int dcpi_os_list(dcpi_base *base, const char *directory, int what, dcpi_os_each each, void *user) {
    WIN32_FIND_DATAW found;
    HANDLE search;
    wchar_t *path;
    int error = dcpi_os_path(base, directory, 2, &path);
    if (error) return error;
    if (directory[0] && dcpi_os_is_link(path)) return dcpi_os_path_done(path, DCPI_OS_IS_LINK);
    if (path[wcslen(path) - 1] != L'\\') wcscat(path, L"\\");
    wcscat(path, L"*");
    search = FindFirstFileW(path, &found);
    if (search == INVALID_HANDLE_VALUE) {
        error = GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : dcpi_os_last();    /* an empty root has not even "." */
    } else {
        do error = dcpi_os_list_entry(&found, what, each, user); while (!error && FindNextFileW(search, &found));
        if (!error && GetLastError() != ERROR_NO_MORE_FILES) error = dcpi_os_last();
        (void)FindClose(search);
    }
    if (error == ERROR_PATH_NOT_FOUND) {
        *wcsrchr(path, L'\\') = L'\0';
        error = dcpi_os_why_missing(path);
    }
    return dcpi_os_path_done(path, error);
}

/* ---- windows: locks ---------------------------------------------------------------------------------------------- */
/* Whoever may read the file's first bytes must not be kept from it by the lock, which is mandatory here: so the ranges
 * lie beyond them. */
typedef struct dcpi_lock_file { HANDLE handle; int is_whole; } dcpi_lock_file;

static int dcpi_os_lock_once(dcpi_base *base, const char *key, dcpi_lock_file *out) {
    const DWORD flags = FILE_FLAG_OPEN_REPARSE_POINT;
    BY_HANDLE_FILE_INFORMATION found;
    wchar_t *path;
    int error = dcpi_os_path(base, key, 0, &path);
    out->handle = INVALID_HANDLE_VALUE;
    out->is_whole = 0;
    if (error) return error;
    out->handle = CreateFileW(path, GENERIC_READ | GENERIC_WRITE, DCPI_OS_SHARE_ALL, NULL, OPEN_ALWAYS, flags, NULL);
    if (out->handle == INVALID_HANDLE_VALUE) return dcpi_os_path_done(path, dcpi_os_last());
    memset(&found, 0, sizeof found);
    error = dcpi_os_check_regular(out->handle, &found);
    if (!error && (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) && dcpi_os_is_link(path))
        error = DCPI_OS_IS_LINK;
    if (error) {
        (void)CloseHandle(out->handle);
        out->handle = INVALID_HANDLE_VALUE;
    }
    return dcpi_os_path_done(path, error);
}
/* One that was removed while others have it open denies access until they have closed it, which they do at once. */
static int dcpi_os_lock_open(dcpi_base *base, const char *key, unsigned mode, dcpi_lock_file *out) {
    int tries = 0, error = dcpi_os_lock_once(base, key, out);
    (void)mode;
    for (; error == ERROR_ACCESS_DENIED && tries < 200; tries++) {
        dcpi_os_sleep_ms(1);
        error = dcpi_os_lock_once(base, key, out);
    }
    return error;
}
static int dcpi_os_lock_range(dcpi_lock_file *file, int64_t at) {
    static const int unsupported[] = {ERROR_NOT_SUPPORTED, ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_FUNCTION,
                                      ERROR_INVALID_PARAMETER};
    OVERLAPPED range = dcpi_os_at(at);
    int error;
    if (LockFileEx(file->handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &range)) return 0;
    error = dcpi_os_last();
    if (error == ERROR_LOCK_VIOLATION || error == ERROR_IO_PENDING || error == ERROR_LOCK_FAILED) return DCPI_OS_BUSY;
    return dcpi_os_is_one_of(error, unsupported, DCPI_COUNT(unsupported)) ? ERROR_NOT_SUPPORTED : error;
}
static void dcpi_os_unlock_range(dcpi_lock_file *file, int64_t at) {
    OVERLAPPED range = dcpi_os_at(at);
    (void)UnlockFileEx(file->handle, 0, 1, 0, &range);
}
static int dcpi_os_lock_is_named(dcpi_base *base, const char *key, dcpi_lock_file *file) {
    BY_HANDLE_FILE_INFORMATION named, open;
    FILE_STANDARD_INFO state;
    memset(&state, 0, sizeof state);                   /* a removed file keeps its name until it is closed everywhere */
    if (!GetFileInformationByHandleEx(file->handle, FileStandardInfo, &state, sizeof state) || state.DeletePending)
        return 0;
    if (dcpi_os_stat_key(base, key, &named) != 0 || !GetFileInformationByHandle(file->handle, &open)) return 0;
    return named.dwVolumeSerialNumber == open.dwVolumeSerialNumber && named.nFileIndexHigh == open.nFileIndexHigh &&
           named.nFileIndexLow == open.nFileIndexLow;
}
static int dcpi_os_lock_read(dcpi_lock_file *file, char *text, size_t size) {
    OVERLAPPED at = dcpi_os_at(0);
    DWORD n = 0;
    memset(text, 0, size);
    if (ReadFile(file->handle, text, (DWORD)size, &n, &at)) return 0;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : dcpi_os_last();
}
static int dcpi_os_lock_write(dcpi_lock_file *file, const char *text, size_t size) {
    OVERLAPPED at = dcpi_os_at(0);
    DWORD n = 0;
    if (!WriteFile(file->handle, text, (DWORD)size, &n, &at)) return dcpi_os_last();
    return n == size ? 0 : ERROR_WRITE_FAULT;
}
static void dcpi_os_lock_close(dcpi_lock_file *file) {
    /* the system gives the ranges back, though perhaps not at once: whoever can, unlocks */
    if (file->handle != INVALID_HANDLE_VALUE) (void)CloseHandle(file->handle);
    file->handle = INVALID_HANDLE_VALUE;
}
#endif /* windows */

