/* =====================================================================================================================
 * >>api_base    Statuses, errors, ownership, and what every operation shares.
 *
 * Rules that hold for every declaration below:
 *   - Options structs are zero-initialised (`dcp_save_desc desc = DCP_ZERO;`); zero is the default of every member.
 *   - A desc and all it points to must live for the call only. Storage, coordinator, device, signer, verifier,
 *     callbacks and cancel outlive the checkpoint, or the save in the background, that uses them.
 *   - Every call that can fail returns a dcp_status and takes a dcp_error * last, which may be NULL, needs no
 *     initialisation and is always written.
 *   - Every out pointer is set on every return, NULL on failure. Closing or freeing NULL is fine.
 *   - save, begin, wait, load, open, read, read_rank, verify, latest, prune, sweep, remove and close are collective:
 *     with a coordinator all ranks call them, in the same order (a read of 0 tensors is allowed), and all get the same
 *     status. poll, cancel, list, map, read_new and accessors are local.
 *   - One rank's failure is everyone's: its status, its message with the rank before it, and dcp_error.rank. A rank
 *     that falls silent for io.timeout_ms is DCP_E_TIMEOUT on all others, and their coordinator is broken: close it,
 *     and start again without that rank.
 *   - Statuses: the comment of each function ends with a list of what it can return besides DCP_OK. `as f`: what f can
 *     return. In such lists
 *       (storage)   DCP_E_INVALID an argument, a path that no storage can have, no regular file | DCP_E_MEMORY |
 *                   DCP_E_IO | DCP_E_SPACE | DCP_E_UNSUPPORTED the storage cannot do it
 *       (io)        (storage) | DCP_E_CANCELLED | DCP_E_TIMEOUT io.deadline_ms
 *       (ranks)     DCP_E_COMM the coordinator failed | DCP_E_TIMEOUT a rank fell silent | DCP_E_MISMATCH the ranks
 *                   make different calls
 *       (document)  DCP_E_FORMAT | DCP_E_VERSION | DCP_E_CHECKSUM | DCP_E_LIMIT | (signer)
 *       (signer)    DCP_E_SIGNATURE the verifier does not accept, the signer failed | DCP_E_IO | DCP_E_TIMEOUT |
 *                   DCP_E_CANCELLED | DCP_E_COMM | DCP_E_DEVICE one of these could not do its work
 *   - A checkpoint or saver is used from one thread at a time, dcp_map, dcp_save_cancel and the accessors from any;
 *     different checkpoints are independent.
 *   - Nothing is printed unless io.log is set (dcp_log_stderr is ready made), and nothing is lost without it: errors
 *     are returned, and warnings counted in the reports. A report is written on every return, like an out pointer.
 *   - Sizes are bytes, shapes and strides elements, times milliseconds unless the name says otherwise. Text is UTF-8.
 * ================================================================================================================== */
#define DCP_VERSION "0.1.0"
#define DCP_VERSION_NUMBER 100          /* major * 10000 + minor * 100 + patch */
/* the `version` of the documents written; a reader refuses a greater major number */
#define DCP_FORMAT_VERSION "1.0.0"

#ifdef DCP_STATIC             /* valid only together with DCP_IMPLEMENTATION: a private copy in this translation unit */
#if defined(__GNUC__) || defined(__clang__)
#define DCPDEF static __attribute__((unused))
#else
#define DCPDEF static
#endif
#elif !defined(DCPDEF)
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__ELF__) || defined(__APPLE__))
#define DCPDEF extern __attribute__((visibility("hidden")))   /* a copy inside a shared library is that library's own */
#else
#define DCPDEF extern
#endif
#endif
#ifdef __cplusplus
#define DCP_ZERO {}
extern "C" {
#else
#define DCP_ZERO {0}
#endif
#define DCP_MAX_DIMS 8                  /* part of the ABI, not a switch; */
/* likewise: bytes of a commit file's path with its NUL; a longer one is DCP_E_LIMIT */
#define DCP_PATH_SIZE 4097

/* Does nothing. Its name has the version, dcp_abi_100 for instance, and every file that includes this header asks the
 * linker for it: files and an implementation of different versions do not link, instead of reading each other's structs
 * wrongly. */
#define DCPI_ABI_PASTE(prefix, version) prefix##version
#define DCPI_ABI_NAME(version) DCPI_ABI_PASTE(dcp_abi_, version)
DCPDEF void DCPI_ABI_NAME(DCP_VERSION_NUMBER)(void);
#if !defined(DCP_STATIC) && !(defined(DCP_NO_LINK_CHECK) && DCP_NO_LINK_CHECK)
#if defined(_MSC_VER) && !defined(__clang__)
#define DCPI_ABI_TEXT_OF(name) #name
#define DCPI_ABI_TEXT(name) DCPI_ABI_TEXT_OF(name)
#ifdef _M_IX86
#pragma comment(linker, "/include:_" DCPI_ABI_TEXT(DCPI_ABI_NAME(DCP_VERSION_NUMBER)))
#else
#pragma comment(linker, "/include:" DCPI_ABI_TEXT(DCPI_ABI_NAME(DCP_VERSION_NUMBER)))
#endif
#else
#if defined(__GNUC__) || defined(__clang__)
__attribute__((__used__))               /* without optimization and with it */
#if defined(__ELF__) && defined(__has_attribute)
#if __has_attribute(__retain__)
__attribute__((__retain__))             /* with --gc-sections too */
#endif
#endif
#endif
static void dcpi_abi_is_linked(void) { DCPI_ABI_NAME(DCP_VERSION_NUMBER)(); }
#endif
#endif

typedef enum dcp_status {               /* the numbers are frozen; new ones are appended */
    DCP_OK,
    DCP_PENDING,                        /* not an error: nothing there yet, or still running */
    DCP_E_INVALID,                      /* an argument is wrong; the message names it */
    DCP_E_MEMORY,                       /* an allocation failed */
    DCP_E_IO,                           /* the system or a storage reported an error; dcp_error.sys has its number */
    DCP_E_SPACE,                        /* no space, quota or file size limit */
    DCP_E_NOT_FOUND,                    /* there is no such checkpoint (directory, object), and nothing else is wrong */
    DCP_E_EXISTS,                       /* it is there already, and replacing was not asked for */
    DCP_E_FORMAT,                       /* a document breaks the format's rules; the message says where */
    DCP_E_VERSION,                      /* written by a newer version that this one must not read */
    DCP_E_CHECKSUM,                     /* bytes are not those that were saved */
    DCP_E_SIGNATURE,                    /* a verifier is set and did not accept; a document that cannot be signed */
    DCP_E_MISMATCH,            /* tensor missing, other type, other shape, partial overlap, topology that cannot work */
    DCP_E_INCOMPLETE,                   /* holes; a file that the document names is not there or is cut short */
    DCP_E_LIMIT,                        /* beyond a limit of >>config */
    DCP_E_TIMEOUT,                      /* a deadline has passed; another rank gave no sign of life for io.timeout_ms */
    DCP_E_CANCELLED,                    /* through dcp_cancel_request */
    DCP_E_COMM,                         /* the coordinator failed */
    DCP_E_DEVICE,                       /* a dcp_device failed */
    DCP_E_UNSUPPORTED,                  /* valid, but not possible with this storage, layout or build */
    /* This rank cannot know how the call ended: a save may have been committed (nothing was removed; opening it tells),
     * a load, or whatever else rank 0 had the word on, may have succeeded on the other ranks. */
    DCP_E_UNKNOWN
} dcp_status;

typedef struct dcp_error {              /* always written; message empty on DCP_OK; needs no initialisation */
    dcp_status status;
    int sys;                            /* errno or GetLastError() of the failed system call, 0 if there was none */
    int rank;                           /* where it happened */
    char message[512];                  /* what failed, where (path, offset, tensor, rank), and what to do about it */
} dcp_error;

DCPDEF const char *dcp_status_name(dcp_status status);  /* "DCP_E_CHECKSUM"; "DCP_E_?" for a number that is none */
DCPDEF const char *dcp_version(void);                   /* DCP_VERSION of the implementation that was compiled in */
DCPDEF void dcp_free(void *memory);                     /* for everything that the library hands over and says so */

typedef struct dcp_storage dcp_storage;
typedef struct dcp_coordinator dcp_coordinator;
typedef struct dcp_device dcp_device;
typedef struct dcp_signer dcp_signer;
typedef struct dcp_verifier dcp_verifier;
typedef struct dcp_checkpoint dcp_checkpoint;
typedef struct dcp_saver dcp_saver;
typedef struct dcp_metadata dcp_metadata;
typedef struct dcp_manifest dcp_manifest;
typedef struct dcp_json dcp_json;

typedef struct dcp_field { const char *key, *value; } dcp_field;

/* Of whatever a storage refuses with a transient error (EIO, ETIMEDOUT, ESTALE and their like), in saves and loads; a
 * load also waits so for a file that a network file system does not show yet. 0: 3 attempts, 50 ms, 2,000 ms; attempts
 * 1: none. Before attempt n + 1 a pause of anything up to first_ms * 2^(n - 1), at most max_ms; it ends at once with a
 * cancel, a deadline, or a failure elsewhere. */
typedef struct dcp_retry { int attempts; int first_ms; int max_ms; } dcp_retry;

typedef struct dcp_cancel { volatile int requested; } dcp_cancel;
/* from a signal handler and from any thread; looked at between chunks */
DCPDEF void dcp_cancel_request(dcp_cancel *cancel);

typedef enum dcp_phase {
    DCP_PHASE_CHECK, DCP_PHASE_PREPARE, DCP_PHASE_PLAN, DCP_PHASE_WRITE, DCP_PHASE_GATHER, DCP_PHASE_COMMIT,
        DCP_PHASE_FINISH,
    DCP_PHASE_OPEN, DCP_PHASE_READ, DCP_PHASE_VERIFY
} dcp_phase;
DCPDEF const char *dcp_phase_name(dcp_phase phase);     /* "write" */
typedef struct dcp_progress { dcp_phase phase; int64_t bytes_done, bytes_total; double bytes_per_second; } dcp_progress;
/* at most 10 times a second, on the calling thread */
typedef void (*dcp_progress_fn)(void *user, const dcp_progress *progress);
typedef enum dcp_log_level { DCP_LOG_ERROR, DCP_LOG_WARNING, DCP_LOG_INFO, DCP_LOG_DEBUG } dcp_log_level;
/* one at a time (of an operation); on the calling thread, or on one that works for the library */
typedef void (*dcp_log_fn)(void *user, dcp_log_level level, const char *message);
/* Ready made for dcp_io.log: one line on stderr, "dcp: warning: ...". `user` is not used. Any thread. */
DCPDEF void dcp_log_stderr(void *user, dcp_log_level level, const char *message);
/* What a call had to warn of, though it may have succeeded; counted whether or not a log is set. Of this rank: what
 * rank 0 does for all (documents, directories), rank 0 warns of. */
typedef struct dcp_report {
    int64_t warning_count;              /* messages of DCP_LOG_WARNING */
    char warning[512];                  /* the first one; "" if there was none */
} dcp_report;

typedef struct dcp_io {                 /* what every operation shares; zero is fine */
    dcp_storage *storage;               /* NULL: local files; then a path is an OS path and its directory the base */
    dcp_coordinator *coordinator;       /* NULL: one process */
    /* bytes a rank may hold beyond tensors and documents; 0: 64 MiB; below 1 MiB is DCP_E_INVALID */
    size_t memory_budget;
    int threads;                        /* workers, at most 16;
        0: as many as pay, at most 4. More hash at once then, in as
                                         * many buffers as memory_budget has room for (a MiB each, better 4) */
    int timeout_ms;                     /* silence of another rank; 0: 300,000; negative is DCP_E_INVALID */
    int64_t deadline_ms;                /* the whole operation, from its call; 0: none */
    /* of transient storage errors; a file whose sync failed is never used again, a retry writes a new one */
    dcp_retry retry;
    dcp_cancel *cancel;
    dcp_progress_fn progress; void *progress_user;
    dcp_log_fn log; void *log_user;
} dcp_io;

