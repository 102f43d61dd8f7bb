/* dcp.h - v0.1.0 - crash-safe, verifiable, reshardable checkpoints for C and C++ in one header - MIT or public domain, at the end of this
 * file
 *
 * >>about
 *
 * Do this:
 *     #define DCP_IMPLEMENTATION
 * before you include this file in *one* C or C++ file, as the first include there:
 *     #define DCP_IMPLEMENTATION
 *     #include "dcp.h"
 * Other files just include it. Nothing else is needed but libc and its threads: cc program.c -pthread. C99, C11 and C++11.
 *
 * Save and load, whole:
 *
 *     float weights[1000] = {0};
 *     int64_t shape[] = { 1000 };
 *     dcp_tensor tensors[] = { dcp_array("weights", DCP_FP32, weights, 1, shape) };
 *     dcp_error err;
 *
 *     dcp_save_desc save = DCP_ZERO;
 *     save.path = "run/step_1"; save.tensors = tensors; save.tensor_count = 1;
 *     if (dcp_save(&save, &err)) { fprintf(stderr, "%s\n", err.message); }
 *
 *     dcp_load_desc load = DCP_ZERO;
 *     load.path = "run/step_1"; load.tensors = tensors; load.tensor_count = 1;
 *     if (dcp_load(&load, &err)) { fprintf(stderr, "%s\n", err.message); }
 *
 * When dcp_save returns DCP_OK, the checkpoint is complete and durable; when it does not, or the power goes, the one before it still loads.
 * Every bit is covered by SHA-256 and checked when it is read. The metadata is JSON that a person can read. For more, see README.md and
 * examples/.
 *
 * Many ranks: give every rank's save and load its coordinator in `.io.coordinator` (dcp_mpi.h for MPI, dcp_thread_group_open for threads, or
 * two functions of your own, send and receive), and say with dcp_piece which box of which tensor a rank has. Any number of ranks loads what any
 * other number saved.
 *
 * >>contents    Search for these tokens. Each chapter calls earlier ones only.
 *
 *   0 what a user reads    >>about >>contents >>guarantees >>layout
 *   1 declarations         >>api_base       statuses, errors, ownership, what every operation shares
 *                          >>api_model      tensors, pieces, placements
 *                          >>api_save       dcp_save; dcp_saver_*, dcp_save_begin, dcp_save_poll, dcp_save_wait
 *                          >>api_load       dcp_load, dcp_open, dcp_read, dcp_map, dcp_verify; dcp_latest, dcp_list, dcp_prune, dcp_sweep,
 *                                           dcp_remove
 *                          >>api_documents  dcp_metadata_*, dcp_validation_*, dcp_json_*
 *                          >>api_plug       dcp_storage, dcp_coordinator, dcp_device, dcp_signer, dcp_verifier
 *                          >>config         limits and switches
 *   2 foundations          >>compiler >>core >>platform >>sha256 >>json >>integrity
 *   3 model                >>boxes >>meta >>file
 *   4 borders              >>storage >>coord >>index
 *   5 the stories          >>stream >>save >>async >>load
 *   6 end                  >>inspect >>end
 *
 * >>guarantees  Code that upholds one cites its number.
 *
 *   G1  atomic          A checkpoint exists exactly when its commit file does (P.metadata.json, P.checkpoint); that file appears by one
 *                       rename. A crash at any instant leaves the previous checkpoint or the new one, never neither, never a mixture.
 *   G2  never destroys  No file that a committed checkpoint refers to is written to, truncated, replaced or removed before its successor's
 *                       commit is durable.
 *   G3  durable         DCP_OK means that file data, names and directories are synced. A failed fsync is final for that file: never retried
 *                       on it, never reported as success. A storage that cannot sync or rename atomically says so, and
 *                       dcp_save_report.not_durable tells.
 *   G4  every bit       One flipped bit in any file, a truncation, an extension, a swapped or stale shard is detected by dcp_verify, and by
 *                       a load that touches it.
 *   G5  one verdict     Never DCP_OK on one rank beside a failure on another. Who cannot know returns DCP_E_UNKNOWN and removes nothing.
 *   G6  bounded wait    Waiting for other ranks ends io.timeout_ms after their last sign of life, and the error names who is missing, in
 *                       which phase. Slow but healthy is no failure; io.deadline_ms alone limits the whole.
 *   G7  bounded memory  A rank's extra memory stays within io.memory_budget (default 64 MiB) plus documents, however large the checkpoint.
 *                       A save in the background also has its copy of the tensors, within dcp_saver_desc.snapshot_budget.
 *   G8  hostile input   No byte sequence in any file makes the library crash, hang, read or write out of bounds, leave its directory, or
 *                       take memory out of proportion to the bytes that are there.
 *   G9  clean           A save that knows that it failed removes what it made; a killed one leaves only files that dcp_sweep recognises.
 *   G10 portable        The same bytes on every platform: little-endian, relative paths. A directory of checkpoints can be moved or
 *                       renamed.
 *   G11 deterministic   Same state, same bytes; timestamp, save id and sequence aside. No uninitialised byte is ever written.
 *   G12 forward         Unknown members are ignored on load and kept when a document is rewritten. A newer major version is refused with a
 *                       clear message.
 *
 * Caveats
 *   - A crash during a save leaves files named *.tmp or P_shard_*; they disturb nothing; dcp_sweep removes them once they are a day old.
 *   - Durability ends where the device's begins: a disk that acknowledges a flush it did not do can lose what DCP_OK promised.
 *   - Network file systems: rename and exclusive creation are as atomic as the server makes them; clients cache directories, so another
 *     host may see a new checkpoint late. Directories that cannot be synced (some FUSE, CIFS) make a save fail rather than lie.
 *   - dcp_map returns mapped pages: a file that somebody truncates afterwards is a SIGBUS. dcp_load and dcp_read never map.
 *   - fork: do not use a checkpoint or a saver that was opened before the fork in the child; a save in the background goes on in the parent
 *     alone. Threads: see >>api_base.
 *   - Two programs that save to one path at the same time: one succeeds, the other gets DCP_E_EXISTS; neither's data is damaged.
 *
 * >>layout      Numbers are little-endian; names inside documents are relative to the document's directory.
 *
 *   P.metadata.json      the commit file of the sharded layout: UTF-8 JSON; for each shard its file, size, checksum, and for each tensor
 *                        name, shape, type, byte range, place in the global tensor, and one digest a block
 *   P_shard_<rank>.bin   tensor bytes, row-major, each tensor at a multiple of the alignment (64 by default), gaps zero; with `.<save id>`
 *                        before `.bin` where the plain name is or was in use
 *   P.checkpoint         the single file (MLCP): magic 50 43 4C 4D; version (7-bit varint length, UTF-8); int32 length and the same JSON;
 *                        for each shard int32 number of tensors, and for each tensor int32 name length, name, type as varint string, int32
 *                        number of dimensions, int64 each, int64 bytes; zeros; then the shards' bytes, each region at a multiple of
 *                        max(alignment, 4096)
 *   checksums            leaf = SHA-256 of 256 KiB of a tensor; block digest = its leaf, or SHA-256 of its leaves' digests; shard checksum
 *                        = "sha256-tree:" and SHA-256 of all its block digests; or, flat, the SHA-256 of the whole file
 *   integrity            the last member of the document: V = SHA-256(T), T = "dcp-integrity-v1\n" type "\n" algorithm "\n" key "\n"
 *                        decimal length of the body "\n" hex SHA-256 of the body "\n"; body = the bytes before the member's own leading
 *                        comma; type = "metadata/json" or "checkpoint/json". A signature member before it is HMAC-SHA256(key, T) or a
 *                        signer's output on T.
 *   <name>.<save id>[-<attempt>].tmp     what is being written
 */
#ifndef DCP_H
#define DCP_H
#ifdef DCP_IMPLEMENTATION               /* must stand before any system header; without the implementation nothing is touched */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#if defined(__NetBSD__) && !defined(_NETBSD_SOURCE)
#define _NETBSD_SOURCE
#endif
#if !defined(_WIN32) && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#endif
#include <stddef.h>
#include <stdint.h>

/* ================================================================================================================================
 * >>api_base    Statuses, errors, ownership, and what every operation shares.
 *
 * Rules that hold for every declaration below:
 *   - Options structs are zero-initialised (`dcp_save_desc desc = DCP_ZERO;`); zero is the default of every member.
 *   - A desc and all it points to must live for the call only. Storage, coordinator, device, signer, verifier, callbacks and cancel outlive
 *     the checkpoint, or the save in the background, that uses them.
 *   - Every call that can fail returns a dcp_status and takes a dcp_error * last, which may be NULL, needs no initialisation and is always
 *     written.
 *   - Every out pointer is set on every return, NULL on failure. Closing or freeing NULL is fine.
 *   - save, begin, wait, load, open, read, read_rank, verify, latest, prune, sweep, remove and close are collective: with a coordinator all
 *     ranks call them, in the same order (a read of 0 tensors is allowed), and all get the same status. poll, cancel, list, map, read_new and
 *     accessors are local.
 *   - One rank's failure is everyone's: its status, its message with the rank before it, and dcp_error.rank. A rank that falls silent for
 *     io.timeout_ms is DCP_E_TIMEOUT on all others, and their coordinator is broken: close it, and start again without that rank.
 *   - A checkpoint or saver is used from one thread at a time, dcp_map, dcp_save_cancel and the accessors from any; different checkpoints are
 *     independent.
 *   - Sizes are bytes, shapes and strides elements, times milliseconds unless the name says otherwise. Text is UTF-8.
 * ============================================================================================================================== */
#define DCP_VERSION "0.1.0"
#define DCP_VERSION_NUMBER 100          /* major * 10000 + minor * 100 + patch */
#define DCP_FORMAT_VERSION "1.0.0"      /* the `version` of the documents written; a reader refuses a greater major number */

#ifdef DCP_STATIC                       /* valid only together with DCP_IMPLEMENTATION: a private copy in this translation unit */
#if defined(__GNUC__) || defined(__clang__)
#define DCPDEF static __attribute__((unused))
#else
#define DCPDEF static
#endif
#elif !defined(DCPDEF)
#define DCPDEF extern
#endif
#ifdef __cplusplus
#define DCP_ZERO {}
extern "C" {
#else
#define DCP_ZERO {0}
#endif
#define DCP_MAX_DIMS 8                  /* part of the ABI, not a switch */

typedef enum dcp_status {               /* the numbers are frozen; new ones are appended */
    DCP_OK,
    DCP_PENDING,                        /* not an error: nothing there yet, or still running */
    DCP_E_INVALID,                      /* an argument is wrong; the message names it */
    DCP_E_MEMORY,                       /* an allocation failed */
    DCP_E_IO,                           /* the system or a storage reported an error; dcp_error.sys has its number */
    DCP_E_SPACE,                        /* no space, quota or file size limit */
    DCP_E_NOT_FOUND,                    /* there is no such checkpoint (object, file); never "a tensor is missing" */
    DCP_E_EXISTS,                       /* it is there already, and replacing was not asked for */
    DCP_E_FORMAT,                       /* a document breaks the format's rules; the message says where */
    DCP_E_VERSION,                      /* written by a newer version that this one must not read */
    DCP_E_CHECKSUM,                     /* bytes are not those that were saved */
    DCP_E_SIGNATURE,                    /* a verifier is set and did not accept */
    DCP_E_MISMATCH,                     /* tensor missing, other type, other shape, partial overlap, topology that cannot work */
    DCP_E_INCOMPLETE,                   /* holes; a file that the document names is not there or is cut short */
    DCP_E_LIMIT,                        /* beyond a limit of >>config */
    DCP_E_TIMEOUT,                      /* a deadline has passed; another rank gave no sign of life for io.timeout_ms */
    DCP_E_CANCELLED,                    /* through dcp_cancel_request */
    DCP_E_COMM,                         /* the coordinator failed */
    DCP_E_DEVICE,                       /* a dcp_device failed */
    DCP_E_UNSUPPORTED,                  /* valid, but not possible with this storage, layout or build */
    DCP_E_UNKNOWN                       /* this rank cannot know whether the commit happened; nothing was removed; reopening tells */
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

/* 0: 3 attempts, 50 ms, 2,000 ms; attempts 1: none. Full jitter */
typedef struct dcp_retry { int attempts; int first_ms; int max_ms; } dcp_retry;

typedef struct dcp_cancel { volatile int requested; } dcp_cancel;
DCPDEF void dcp_cancel_request(dcp_cancel *cancel);     /* from a signal handler and from any thread; looked at between chunks */

typedef enum dcp_phase {
    DCP_PHASE_CHECK, DCP_PHASE_PREPARE, DCP_PHASE_PLAN, DCP_PHASE_WRITE, DCP_PHASE_GATHER, DCP_PHASE_COMMIT, DCP_PHASE_FINISH,
    DCP_PHASE_OPEN, DCP_PHASE_READ, DCP_PHASE_VERIFY
} dcp_phase;
DCPDEF const char *dcp_phase_name(dcp_phase phase);     /* "write" */
typedef struct dcp_progress { dcp_phase phase; int64_t bytes_done, bytes_total; double bytes_per_second; } dcp_progress;
typedef void (*dcp_progress_fn)(void *user, const dcp_progress *progress);        /* at most 10 times a second, on the calling thread */
typedef enum dcp_log_level { DCP_LOG_ERROR, DCP_LOG_WARNING, DCP_LOG_INFO, DCP_LOG_DEBUG } dcp_log_level;
/* one at a time (of an operation); on the calling thread, or on one that works for the library */
typedef void (*dcp_log_fn)(void *user, dcp_log_level level, const char *message);

typedef struct dcp_io {                 /* what every operation shares; zero is fine */
    dcp_storage *storage;               /* NULL: local files; then a path is an OS path and its directory the base */
    dcp_coordinator *coordinator;       /* NULL: one process */
    size_t memory_budget;               /* bytes a rank may hold beyond tensors and documents; 0: 64 MiB; below 1 MiB is DCP_E_INVALID */
    int threads;                        /* workers; 0: as many as pay, at most 4 */
    int timeout_ms;                     /* silence of another rank; 0: 300,000; negative is DCP_E_INVALID */
    int64_t deadline_ms;                /* the whole operation, from its call; 0: none */
    /* of transient storage errors; a file whose sync failed is never used again, a retry writes a new one */
    dcp_retry retry;
    dcp_cancel *cancel;
    dcp_progress_fn progress; void *progress_user;
    dcp_log_fn log; void *log_user;
} dcp_io;

/* ================================================================================================================================
 * >>api_model   Tensors and their pieces; what a checkpoint says about training.
 * ============================================================================================================================== */
typedef enum dcp_dtype {
    DCP_FP32 = 1, DCP_FP64, DCP_FP16, DCP_BF16, DCP_FP8_E4M3, DCP_FP8_E5M2,
    DCP_INT64, DCP_INT32, DCP_INT16, DCP_INT8, DCP_UINT64, DCP_UINT32, DCP_UINT16, DCP_UINT8, DCP_BOOL,
    DCP_COMPLEX64, DCP_COMPLEX128,
    DCP_FP4_E2M1, DCP_INT4, DCP_UINT4,  /* two to a byte, element 0 in the low nibble; no strides, no cut inside a byte */
    DCP_OPAQUE                          /* read only: a type this version does not know; its bytes, whole */
} dcp_dtype;
DCPDEF const char *dcp_dtype_name(dcp_dtype dtype);     /* "bf16"; NULL for a number that is none */
/* our names and the usual aliases (float32, F32, bfloat16, I64, ...); else DCP_OPAQUE */
DCPDEF dcp_dtype dcp_dtype_parse(const char *name);
DCPDEF int dcp_dtype_bits(dcp_dtype dtype);             /* 4 to 128; 0 for DCP_OPAQUE */

typedef enum dcp_placement {
    DCP_PLACE_AUTO,                     /* sharded if global_shape is set; else, with one rank, replicated; with many, private */
    DCP_PLACE_REPLICATED,               /* every rank has the same bytes; stored once, loads anywhere */
    DCP_PLACE_PRIVATE,                  /* belongs to the rank that saved it */
    DCP_PLACE_SHARDED                   /* a box of a global tensor */
} dcp_placement;
typedef enum dcp_role { DCP_ROLE_PARAMETER, DCP_ROLE_EXPERT, DCP_ROLE_OPTIMIZER, DCP_ROLE_ROUTER } dcp_role;
typedef enum dcp_layout {
    DCP_LAYOUT_SHARDED,                 /* P.metadata.json and one P_shard_<rank>.bin a rank */
    DCP_LAYOUT_SINGLE,                  /* P.checkpoint, one file (MLCP) */
    DCP_LAYOUT_MANIFEST                 /* P.manifest.json or .yaml; DCP_E_UNSUPPORTED in this version */
} dcp_layout;
typedef enum dcp_checksum {
    DCP_CHECKSUM_TREE,                  /* a digest a block: partial reads verify just what they touch, and hashing runs at full speed */
    DCP_CHECKSUM_FLAT                   /* one SHA-256 a file, as sha256sum prints it; the first touch reads the whole file */
} dcp_checksum;
typedef enum dcp_verify_policy {
    DCP_VERIFY_TOUCHED,                 /* every block that is read, before its bytes are used */
    DCP_VERIFY_ALL,                     /* open checks every byte of every file first */
    DCP_VERIFY_NONE                     /* sizes and documents only */
} dcp_verify_policy;

typedef struct dcp_tensor {
    const char *name;                   /* 1 to 1,024 bytes, no control characters; unique in a rank's list, together with global_offset */
    dcp_dtype dtype;
    int ndim;                           /* 0: a scalar. Entries at and beyond ndim in the four arrays must be 0 */
    int64_t shape[DCP_MAX_DIMS];        /* this piece */
    int64_t global_shape[DCP_MAX_DIMS]; /* the whole tensor; all zero: the piece is the whole */
    int64_t global_offset[DCP_MAX_DIMS];/* where the piece starts in the whole */
    int64_t stride[DCP_MAX_DIMS];       /* in memory; all zero: row-major without gaps; negative or aliasing: refused */
    dcp_placement placement;
    void *data;                         /* may be NULL when the piece has no bytes; read only for a save */
    const dcp_device *device;           /* NULL: data is host memory */
    dcp_role role; const char *tier; int64_t expert_key[3];             /* manifest layout */
    int optional;                       /* load: absent is fine, data stays untouched */
    dcp_status status;                  /* load, out: DCP_OK, or DCP_E_NOT_FOUND for an absent optional one */
} dcp_tensor;

DCPDEF dcp_tensor dcp_array(const char *name, dcp_dtype dtype, const void *data, int ndim, const int64_t *shape);
DCPDEF dcp_tensor dcp_scalar(const char *name, dcp_dtype dtype, const void *data);
DCPDEF dcp_tensor dcp_bytes(const char *name, const void *data, size_t size);     /* uint8, one dimension: any state that is bytes */
DCPDEF void dcp_piece(dcp_tensor *tensor, const int64_t *global_shape, const int64_t *global_offset);   /* both of tensor->ndim entries */

typedef struct dcp_training {
    int64_t epoch, step;
    double learning_rate;               /* finite */
    const char *optimizer_type;         /* NULL: absent */
    const char *optimizer_state;        /* JSON object text; NULL: {} */
    const char *extra;                  /* members that this version does not know: `"key": value, ...`; kept in a rewrite; NULL: none */
} dcp_training;

typedef struct dcp_sharding {
    const char *strategy;               /* "fsdp", "ddp", "tensor_parallel", ...; NULL: derived from the placements */
    int64_t shard_count;                /* 0 or the world size */
    const char *precision;              /* "bf16", ...; NULL: the type that most bytes have */
    const char *info;                   /* JSON object text (strategySpecificInfo); NULL: {} */
    const char *extra;                  /* as in dcp_training */
} dcp_sharding;

typedef struct dcp_tier { int64_t tier_id; const char *name; const char *size_budget; const char *placement_policy; } dcp_tier;

/* ================================================================================================================================
 * >>api_save    Saving: the checkpoint exists wholly or not at all.
 * ============================================================================================================================== */
typedef struct dcp_save_report {
    char save_id[17];                   /* 16 hex digits */
    int64_t sequence;                   /* 1 + the highest that was in the directory */
    char path[1024];                    /* of the commit file */
    int64_t bytes_written, bytes_reused, bytes_in_begin;
    double seconds;
    /* DCP_STORAGE_* flags that the storage lacks: SYNC, SYNC_DIRECTORY, ATOMIC_REPLACE, EXCLUSIVE_PUBLISH */
    uint32_t not_durable;
} dcp_save_report;

typedef struct dcp_save_desc {
    /* prefix P, such as runs/a/step_100; a known suffix is stripped; its last part has 1 to 180 bytes */
    const char *path;
    const dcp_tensor *tensors; size_t tensor_count;
    dcp_layout layout;
    dcp_checksum checksum;
    size_t alignment;                   /* of each tensor in its file; a power of two, 64 to 2 MiB; 0: 64 */
    /* a power of two, 256 KiB to 1 GiB; 0: 4 MiB, doubled until the document has under a million digests */
    size_t block_size;
    /* replace the checkpoint at path, if any; the old one stays loadable until the new one is durable */
    int overwrite;
    int allow_holes;                    /* pieces need not cover global_shape; loading a missing part is DCP_E_INCOMPLETE */
    int unique_names;                   /* the save id in every shard name, always */
    const dcp_training *training; const dcp_sharding *sharding;         /* NULL: absent; derived */
    const dcp_field *fields; size_t field_count;                        /* customFields, text to text; keys unique */
    const char *model_id; const dcp_tier *tiers; size_t tier_count; int yaml;   /* manifest layout */
    const dcp_signer *signer;           /* NULL: unsigned */
    dcp_save_report *report;            /* out, may be NULL; filled as far as it came on failure too */
    dcp_io io;
} dcp_save_desc;

/* Saves the tensors as one checkpoint at desc->path. DCP_OK: it is complete, durable (see report.not_durable) and the one that loads;
 * anything else: the previous one, if any, is untouched. The tensors must not be freed during the call; one that changes meanwhile is
 * stored in some mixture of its states, with matching digests.
 * Many ranks: each gives its own tensors; path, layout and options are the same on all, else DCP_E_MISMATCH; training, sharding, fields and
 * signer are rank 0's. A box that several ranks hold is written by one of them. The single-file layout is written by all at once where the
 * storage is shared, else through rank 0. report.bytes_written is this rank's, on rank 0 all ranks'.
 *   DCP_E_INVALID arguments | DCP_E_EXISTS a checkpoint is there (and no `overwrite`), or one in another layout | DCP_E_MISMATCH pieces
 *   overlap or disagree | DCP_E_INCOMPLETE pieces leave holes | DCP_E_SPACE | DCP_E_IO | DCP_E_CANCELLED | DCP_E_TIMEOUT deadline_ms |
 *   DCP_E_MEMORY | DCP_E_UNKNOWN the storage failed in the very act of committing: both may be there; nothing was removed. */
DCPDEF dcp_status dcp_save(const dcp_save_desc *desc, dcp_error *err);

/* A save in the background: three lines make one of dcp_save.
 *
 *     dcp_saver_open(NULL, &saver, &err);              // once
 *     dcp_save_begin(saver, &desc, &err);              // where dcp_save was: the tensors are the program's again when it returns
 *     dcp_save_poll(saver, &err);                      // once a step: DCP_PENDING, and then, once, how it ended
 *
 * One saver runs one save at a time, and keeps its memory from save to save. Two savers are independent of each other, unless they have one
 * coordinator (then the second save begins when the first one has ended).
 *   - Ownership: the desc and all it points to, the tensors and the report too, are the caller's again when dcp_save_begin returns. Storage,
 *     coordinator, devices, what the signer and the callbacks point to, and io.cancel outlive the save; devices the saver, and so does `log`
 *     where poll and wait do not ask for the verdict.
 *   - Memory: a copy of the tensors that this rank writes, host ones packed, those of a device in memory of its allocate_host; then, while it
 *     writes, io.memory_budget as in dcp_save. snapshot_budget bounds the copy, which has the last tensors of the list that fit, each whole; those
 *     before them (all, if there is no memory) are written before begin returns, report.bytes_in_begin bytes of them, and a transient error
 *     after that cannot be retried. Tensors that another rank writes are not copied.
 *   - Threads: a saver is used from one thread at a time, dcp_save_cancel from any. The work is done by threads of the saver. `progress` is called
 *     on the thread that calls begin, poll, wait and close; `log`, the storage, the signer, and with a thread-safe coordinator that too, on others.
 *   - One rank, or a thread-safe coordinator: the whole save goes on by itself; nobody needs to poll. A save on the same coordinator (load, any
 *     other operation) begins when this one has ended; dcp_barrier and the other three may be called meanwhile.
 *   - A coordinator that is not thread-safe: writing goes on by itself; what the ranks tell each other does so only in poll, wait and close, which
 *     are then called on all ranks, each at its own time. poll waits for no other rank. So a program that polls once a step and has
 *     collectives of its own in between cannot hang; the save is committed a few polls after the data has been written. The single-file layout
 *     is written before begin returns if some rank cannot write into the file that rank 0 has made (a storage that they do not share).
 *     io.timeout_ms: a rank shows that it lives when it polls. One that does not poll for longer than that, while rank 0 does (or as rank 0, while
 *     others do), is taken for dead. A pause that all ranks make together is no silence: between two of its own polls a rank counts at most an
 *     eighth of io.timeout_ms. A deadline is noticed while writing, and in poll.
 *   - Without threads (DCP_NO_THREADS, or none to be had) begin copies nothing and writes; the rest is done in poll.
 *   - Failures: what begin finds is begin's, and no save runs then. What happens later, poll and wait return, once; the next begin and
 *     close log what nobody asked for. It may be in begin on one rank and in poll on another; it is never DCP_OK on one and a failure on
 *     another. "Saved" is never said before the commit is durable. */
typedef enum dcp_when_busy {
    DCP_BUSY_WAIT,                      /* begin waits for the save before */
    DCP_BUSY_REFUSE                     /* begin returns DCP_PENDING on all ranks alike (rank 0 decides) and does nothing */
} dcp_when_busy;
typedef struct dcp_saver_desc {
    dcp_when_busy when_busy;            /* the same on all ranks */
    size_t snapshot_budget;             /* bytes; 0: no bound; what is beyond is written before begin returns */
} dcp_saver_desc;

/* desc may be NULL: all defaults. Local. DCP_E_INVALID | DCP_E_MEMORY */
DCPDEF dcp_status dcp_saver_open(const dcp_saver_desc *desc, dcp_saver **out, dcp_error *err);
/* Collective. Checks, agrees and plans as dcp_save does, and with the same errors; copies; starts. desc->report has then what is known:
 * save id, sequence, path, bytes_in_begin. DCP_OK: the save has begun. */
DCPDEF dcp_status dcp_save_begin(dcp_saver *saver, const dcp_save_desc *desc, dcp_error *err);
/* Local, and waits for nobody. DCP_PENDING until the verdict is known on this rank; then, once, the verdict, as dcp_save's; then, and when
 * there was no save, DCP_OK. So `if (dcp_save_poll(...) != DCP_PENDING)` must not lead to a collective call: other ranks may know it later. */
DCPDEF dcp_status dcp_save_poll(dcp_saver *saver, dcp_error *err);
/* Polls until the verdict or until timeout_ms is over (DCP_PENDING; 0: once; negative: to the end). Collective where poll drives the save. */
DCPDEF dcp_status dcp_save_wait(dcp_saver *saver, int timeout_ms, dcp_error *err);
/* Any thread, not while the saver is being closed: the save that runs ends soon with DCP_E_CANCELLED on all ranks, leaving nothing behind, unless
 * it is past that point. From a signal handler, dcp_cancel_request on desc.io.cancel. */
DCPDEF void dcp_save_cancel(dcp_saver *saver);
/* Of the last save: when poll or wait has returned its verdict, all of it; before, what begin reported. Lives until the next begin or close. */
DCPDEF const dcp_save_report *dcp_report_of(const dcp_saver *saver);
/* Waits for the save that runs; collective where poll drives it. NULL is fine. */
DCPDEF void dcp_saver_close(dcp_saver *saver);

/* ================================================================================================================================
 * >>api_load    Loading, inspecting, verifying, and a directory of checkpoints.
 * ============================================================================================================================== */
typedef struct dcp_load_desc {
    const char *path;                   /* the prefix or the commit file */
    dcp_tensor *tensors; size_t tensor_count;       /* what is wanted: name, type, shape (a box, with global_shape), and where to put it */
    int exact;                          /* stored tensors that are not wanted are DCP_E_MISMATCH */
    dcp_verify_policy verify; const dcp_verifier *verifier;
    /* an older checkpoint is DCP_E_SIGNATURE (with a verifier: no replay of old ones) or DCP_E_MISMATCH */
    int64_t minimum_step;
    int share_reads;                    /* several ranks, the same on all: one reads what several need, and passes it on */
    dcp_metadata **metadata;            /* out, may be NULL; dcp_metadata_free */
    dcp_io io;
} dcp_load_desc;

/* Loads the wanted tensors. DCP_E_NOT_FOUND says that there is no checkpoint at path, and nothing else, so a first start can be told from
 * trouble. A tensor that is not stored is DCP_E_MISMATCH unless optional. Without global_shape a wanted tensor is the whole one, however it
 * is stored. On an error the content of the destinations is unspecified. A checkpoint that is overwritten while it is read is opened again,
 * at most 3 times. */
DCPDEF dcp_status dcp_load(const dcp_load_desc *desc, dcp_error *err);

typedef struct dcp_select {             /* manifest layout: which tiers, names or part to open; NULL members select all */
    const char *const *tiers; size_t tier_count; const char *name_pattern; int part, part_count;
    int (*keep)(void *user, const char *name); void *user;
} dcp_select;
typedef struct dcp_open_desc {
    const char *path; dcp_verify_policy verify; const dcp_verifier *verifier; int64_t minimum_step; int share_reads;
    const dcp_select *select;           /* NULL in this version */
    dcp_io io;
} dcp_open_desc;
typedef struct dcp_tensor_info {
    const char *name;
    dcp_dtype dtype; const char *dtype_name;        /* as it stands in the document: for DCP_OPAQUE the only thing known */
    int ndim; int64_t shape[DCP_MAX_DIMS];          /* whole tensor: elements */
    int64_t size;                                   /* whole tensor: bytes; of a private one, one rank's */
    dcp_placement placement; int piece_count;
    dcp_role role; const char *tier; int64_t expert_key[3]; int64_t version;
} dcp_tensor_info;

/* reads and checks the document; no tensor bytes */
DCPDEF dcp_status dcp_open(const dcp_open_desc *desc, dcp_checkpoint **out, dcp_error *err);
DCPDEF size_t dcp_tensor_count(const dcp_checkpoint *checkpoint);
DCPDEF const dcp_tensor_info *dcp_tensor_at(const dcp_checkpoint *checkpoint, size_t index);    /* sorted by name; NULL beyond the end */
DCPDEF const dcp_tensor_info *dcp_tensor_find(const dcp_checkpoint *checkpoint, const char *name);      /* NULL: not stored */
DCPDEF dcp_status dcp_read(dcp_checkpoint *checkpoint, dcp_tensor *tensors, size_t count, dcp_error *err);
/* what that rank stored as private */
DCPDEF dcp_status dcp_read_rank(dcp_checkpoint *checkpoint, int shard_rank, dcp_tensor *tensors, size_t count, dcp_error *err);
/* allocated; dcp_free(out->data); out->name lives until close */
DCPDEF dcp_status dcp_read_new(dcp_checkpoint *checkpoint, const char *name, dcp_tensor *out, dcp_error *err);
/* The verified bytes of a whole tensor, row-major, valid until close: mapped pages where it is one piece in a local file, without a copy.
 * Several pieces: DCP_E_UNSUPPORTED (use dcp_read_new). A mapped file that somebody truncates later is a SIGBUS; nothing else maps. */
DCPDEF dcp_status dcp_map(dcp_checkpoint *checkpoint, const char *name, const void **data, size_t *size, dcp_error *err);
/* every byte of every file; the first damage found */
DCPDEF dcp_status dcp_verify(dcp_checkpoint *checkpoint, dcp_error *err);
/* shards dealt round robin: shard_rank % world_size */
DCPDEF int dcp_shard_owner(int shard_rank, int world_size);
DCPDEF const dcp_training *dcp_training_of(const dcp_checkpoint *checkpoint);                   /* NULL: none was saved */
DCPDEF const dcp_metadata *dcp_metadata_of(const dcp_checkpoint *checkpoint);
DCPDEF const char *dcp_path_of(const dcp_checkpoint *checkpoint);                               /* of the commit file */
DCPDEF dcp_layout dcp_layout_of(const dcp_checkpoint *checkpoint);
DCPDEF void dcp_close(dcp_checkpoint *checkpoint);

/* ---- a directory of checkpoints: only commit files directly in `directory` count (NULL or "": the storage's base, or the current one) ---- */
typedef struct dcp_latest_desc {
    const char *directory;
    dcp_verify_policy verify;
    const dcp_verifier *verifier;
    int64_t minimum_step;
    dcp_io io;
} dcp_latest_desc;
/* The newest valid checkpoint, by (sequence, step, timestamp, name), never by file time; valid: document intact and every file there with
 * its size (DCP_VERIFY_ALL: every byte). *path goes into dcp_load; dcp_free it. Corrupt and incomplete ones are skipped and logged; an I/O
 * error or a newer format is returned, never skipped. DCP_E_NOT_FOUND: there is no commit file at all; when none is valid, the newest one's
 * error. */
DCPDEF dcp_status dcp_latest(const dcp_latest_desc *desc, char **path, dcp_error *err);

typedef struct dcp_list_desc { const char *directory; dcp_verify_policy verify; const dcp_verifier *verifier; dcp_io io; } dcp_list_desc;
typedef struct dcp_list_entry {
    const char *path;                   /* commit file, as dcp_open takes it */
    dcp_layout layout;
    int64_t sequence, epoch, step;      /* step and epoch -1: no training metadata */
    const char *timestamp, *save_id;    /* "" when not known */
    int64_t bytes;                      /* document and data */
    int world_size; int64_t tensors;
    dcp_status status; const char *message;         /* valid or why not */
    int sys;                            /* the system's error number, if status is an I/O error */
} dcp_list_entry;
/* All commit files of a directory, newest first, valid or not. One allocation: dcp_free(*entries). */
DCPDEF dcp_status dcp_list(const dcp_list_desc *desc, dcp_list_entry **entries, size_t *count, dcp_error *err);

/* what was (or would be) removed */
typedef struct dcp_removal { char **paths; size_t path_count; size_t checkpoints; int64_t bytes; } dcp_removal;
DCPDEF void dcp_removal_free(dcp_removal *removal);

typedef struct dcp_prune_desc {
    const char *directory;
    int keep_last;                      /* the newest n valid ones; 0 is 1: the newest that proves valid is never removed */
    int64_t keep_every;                 /* also those whose step is a multiple; 0: none */
    int dry_run;
    dcp_verify_policy verify; const dcp_verifier *verifier; dcp_io io;
} dcp_prune_desc;
/* Removes valid checkpoints beyond what is to be kept, commit file first; corrupt ones are left for a person to look at. `removal` may be
 * NULL. */
DCPDEF dcp_status dcp_prune(const dcp_prune_desc *desc, dcp_removal *removal, dcp_error *err);

typedef struct dcp_sweep_desc {
    const char *directory;
    int64_t grace_seconds;              /* younger files are left alone: a save may be running; 0: 86,400 (24 h); negative: none */
    int plain_names;                    /* also unreferenced P_shard_<rank>.bin, without a save id: other programs may use such names */
    int dry_run;
    const dcp_verifier *verifier; dcp_io io;
} dcp_sweep_desc;
/* Removes what killed saves left: temporary files and shard files of our own grammar that no commit file names and that are older than the
 * grace time. If any commit file of the directory cannot be read and verified, only temporary files go. `removal` may be NULL. */
DCPDEF dcp_status dcp_sweep(const dcp_sweep_desc *desc, dcp_removal *removal, dcp_error *err);

typedef struct dcp_remove_desc { const char *path; dcp_io io; } dcp_remove_desc;
/* Removes one checkpoint: its commit file, then, durably after it, the files that only it names. */
DCPDEF dcp_status dcp_remove(const dcp_remove_desc *desc, dcp_removal *removal, dcp_error *err);

/* ================================================================================================================================
 * >>api_documents   The documents, for programs that build, read, check or rewrite them without saving tensors. DCP_LAYOUT_SHARDED's
 *                   P.metadata.json and
 *               the JSON inside P.checkpoint are the same document. A dcp_metadata that a program fills by hand (internal NULL) is as good
 *               as a parsed one.
 * ============================================================================================================================== */
typedef struct dcp_tensor_metadata {
    const char *name; int ndim; int64_t shape[DCP_MAX_DIMS]; const char *data_type;
    int64_t offset, size;               /* bytes, in the shard's file */
    int64_t global_shape[DCP_MAX_DIMS], global_offset[DCP_MAX_DIMS];
    const char *placement;              /* "sharded", "replicated", "private"; NULL: absent, the piece is the whole tensor */
    int64_t block_size;                 /* 0: no block digests */
    const uint8_t *block_checksums; size_t block_count;     /* 32 bytes each */
    const char *extra;                  /* unknown members, `"key": value, ...`; NULL: none */
} dcp_tensor_metadata;
typedef struct dcp_shard_metadata {
    int rank; const char *file_path; int64_t file_size;
    dcp_tensor_metadata *tensors; size_t tensor_count;
    const char *checksum;               /* "sha256-tree:<64 hex>" or "<64 hex>"; NULL: absent */
    int64_t data_offset;                /* single file: where the region starts; else 0 */
    const char *extra;
} dcp_shard_metadata;
struct dcp_metadata {
    const char *version, *timestamp;    /* NULL in a built one: DCP_FORMAT_VERSION, now */
    const char *save_id;                /* NULL: absent */
    int64_t sequence; int world_size, ddp_rank;
    dcp_sharding sharding;              /* strategy NULL: the document has no sharding member, which is an error */
    dcp_shard_metadata *shards; size_t shard_count;
    dcp_training training; int has_training;
    dcp_field *fields; size_t field_count;
    void *internal;                     /* owns the memory; NULL in a struct filled by hand */
    const char *extra;
    const char *signature_algorithm, *signature_key;        /* of the signature that stood in the parsed document; NULL: none */
    int is_foreign;                     /* parsed: has none of our additions (a seed document) */
};

DCPDEF dcp_status dcp_metadata_new(dcp_metadata **out, dcp_error *err);                         /* empty, to be built; dcp_metadata_free */
DCPDEF dcp_status dcp_metadata_set_sharding(dcp_metadata *metadata, const dcp_sharding *sharding, dcp_error *err);      /* these copy */
DCPDEF dcp_status dcp_metadata_set_training(dcp_metadata *metadata, const dcp_training *training, dcp_error *err);
/* value NULL removes */
DCPDEF dcp_status dcp_metadata_set_field(dcp_metadata *metadata, const char *key, const char *value, dcp_error *err);
/* its tensors too, if any */
DCPDEF dcp_status dcp_metadata_add_shard(dcp_metadata *metadata, const dcp_shard_metadata *shard, dcp_error *err);
DCPDEF dcp_status dcp_metadata_add_tensor(dcp_metadata *metadata, size_t shard_index, const dcp_tensor_metadata *tensor, dcp_error *err);
/* Parses a document and checks its integrity member where it has one. Syntax, types of known members, sizes against limits: DCP_E_FORMAT,
 * DCP_E_LIMIT. What the fields say is dcp_metadata_validate's business. DCP_E_CHECKSUM: a document of ours whose integrity member is
 * missing or wrong. */
DCPDEF dcp_status dcp_metadata_parse(const char *text, size_t size, dcp_metadata **out, dcp_error *err);
/* with integrity; dcp_free the text */
DCPDEF dcp_status dcp_metadata_write(const dcp_metadata *metadata, char **text, size_t *size, dcp_error *err);
DCPDEF dcp_status dcp_metadata_write_signed(const dcp_metadata *metadata, const dcp_signer *signer, char **text, size_t *size,
                                            dcp_error *err);
/* The same through a storage (NULL: path is an OS path). A verifier that is set must accept. write_file replaces atomically and durably. */
DCPDEF dcp_status dcp_metadata_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier, dcp_metadata **out,
                                         dcp_error *err);
DCPDEF dcp_status dcp_metadata_write_file(dcp_storage *storage, const char *path, const dcp_metadata *metadata, const dcp_signer *signer,
                                          dcp_error *err);
DCPDEF const char *dcp_field_find(const dcp_metadata *metadata, const char *key);               /* NULL: absent */
DCPDEF void dcp_metadata_free(dcp_metadata *metadata);

typedef struct dcp_validation { char **errors; size_t error_count; char **warnings; size_t warning_count; } dcp_validation;
/* Every rule of the format. `out` is initialised here; DCP_E_FORMAT when there are errors; dcp_validation_free in any case. */
DCPDEF dcp_status dcp_metadata_validate(const dcp_metadata *metadata, dcp_validation *out);
/* appends a copy: for checks of a program's own */
DCPDEF dcp_status dcp_validation_error(dcp_validation *validation, const char *message);
DCPDEF dcp_status dcp_validation_warning(dcp_validation *validation, const char *message);
DCPDEF void dcp_validation_free(dcp_validation *validation);

/* ".metadata.json", ".checkpoint", ".manifest.json" */
DCPDEF const char *dcp_layout_extension(dcp_layout layout);
/* save_id NULL: the plain name */
DCPDEF dcp_status dcp_shard_name(const char *prefix, int rank, const char *save_id, char *name, size_t capacity, dcp_error *err);

/* ---- the manifest of DCP_LAYOUT_MANIFEST (seed: SPEC-029): P.manifest.json or P.manifest.yaml, the same fields in both. A dcp_manifest that a
 * program fills by hand (internal NULL) is as good as a parsed one. Unknown members are kept, as `extra`, and written again. ---- */
typedef struct dcp_manifest_shard {     /* one file of the pool, and what it holds */
    const char *path;                   /* beside the manifest, parts joined by '/' */
    const char *type;                   /* "dense" or "expert"; NULL in optim_state and router_state, where it is absent */
    const char *tensor_name;            /* NULL: absent; then expert_key stands for it */
    int has_expert_key; int64_t expert_key[3];      /* tier, group, expert */
    int ndim; int64_t shape[DCP_MAX_DIMS];          /* ndim -1: absent */
    const char *dtype, *tier_hint, *checksum;       /* NULL: absent */
    int64_t version;                    /* 0 when it is first written, one more for each change of its content */
    int64_t size;                       /* bytes; -1: absent, follows from shape and dtype */
    int64_t global_shape[DCP_MAX_DIMS], global_offset[DCP_MAX_DIMS];        /* all zero: absent, the piece is the whole tensor */
    const char *placement;              /* as in dcp_tensor_metadata */
    int rank;                           /* that wrote it; -1: absent */
    int64_t block_size; const uint8_t *block_checksums; size_t block_count; /* 0: none; 32 bytes each */
    const char *extra;                  /* unknown members, `"key": value, ...` as JSON; NULL: none */
} dcp_manifest_shard;
typedef struct dcp_manifest_tier { dcp_tier tier; int64_t budget_bytes; /* parsed size_budget; -1: none */ const char *extra; } dcp_manifest_tier;
typedef struct dcp_manifest_layer {     /* of the router: its weights, and the seed of its random choices */
    int64_t layer; int has_seed; uint64_t seed;
    dcp_manifest_shard *shards; size_t shard_count;
    const char *extra;
} dcp_manifest_layer;
typedef struct dcp_manifest_state {     /* optim_state: `shards`; router_state: `layers`; the seed's documents have a path only */
    int is_there;
    const char *path;                   /* NULL: absent */
    dcp_manifest_shard *shards; size_t shard_count;
    dcp_manifest_layer *layers; size_t layer_count;
    const char *extra;
} dcp_manifest_state;
struct dcp_manifest {
    const char *model_id; int64_t epoch, step;
    dcp_manifest_tier *tiers; size_t tier_count;
    dcp_manifest_shard *shards; size_t shard_count;
    dcp_manifest_state optim_state, router_state;
    int64_t metadata_version;           /* 1; a higher one loads, what is unknown in it is ignored */
    int64_t min_reader_version;         /* 0: absent; beyond DCP_MANIFEST_VERSION the document is refused: DCP_E_VERSION */
    const char *save_id, *timestamp;    /* NULL: absent; in a built one timestamp NULL is now */
    int64_t sequence; int world_size;   /* 0: absent */
    dcp_sharding sharding; int has_sharding;
    dcp_training training; int has_training;
    dcp_field *fields; size_t field_count;
    void *internal;                     /* owns the memory; NULL in a struct filled by hand */
    const char *extra;
    const char *signature_algorithm, *signature_key;        /* of the signature that stood in the parsed document; NULL: none */
    int is_foreign;                     /* parsed: has none of our additions (a seed document) */
    int is_yaml;                        /* parsed: what it was written in */
};
#define DCP_MANIFEST_VERSION 1          /* the metadata_version that this version writes, and the min_reader_version that it reads */

DCPDEF dcp_status dcp_manifest_new(dcp_manifest **out, dcp_error *err);         /* empty, to be built; dcp_manifest_free */
DCPDEF dcp_status dcp_manifest_set_model(dcp_manifest *manifest, const char *model_id, int64_t epoch, int64_t step, dcp_error *err);    /* these copy */
DCPDEF dcp_status dcp_manifest_add_tier(dcp_manifest *manifest, const dcp_tier *tier, dcp_error *err);
DCPDEF dcp_status dcp_manifest_add_shard(dcp_manifest *manifest, const dcp_manifest_shard *shard, dcp_error *err);
DCPDEF dcp_status dcp_manifest_add_optimizer_shard(dcp_manifest *manifest, const dcp_manifest_shard *shard, dcp_error *err);
/* of the router's layer, which is made if it is not there; shard NULL: only the seed; seed NULL: only the shard */
DCPDEF dcp_status dcp_manifest_add_router(dcp_manifest *manifest, int64_t layer, const uint64_t *seed, const dcp_manifest_shard *shard,
                                          dcp_error *err);
/* value NULL removes */
DCPDEF dcp_status dcp_manifest_set_field(dcp_manifest *manifest, const char *key, const char *value, dcp_error *err);
/* JSON or YAML, told apart by the first character: JSON begins with '{'. Checks the integrity member where there is one. Errors as of
 * dcp_metadata_parse; DCP_E_VERSION: min_reader_version is beyond this version. */
DCPDEF dcp_status dcp_manifest_parse(const char *text, size_t size, dcp_manifest **out, dcp_error *err);
DCPDEF dcp_status dcp_manifest_write(const dcp_manifest *manifest, int yaml, const dcp_signer *signer, char **text, size_t *size,
                                     dcp_error *err);   /* with integrity; signer NULL: unsigned; dcp_free the text */
DCPDEF dcp_status dcp_manifest_validate(const dcp_manifest *manifest, dcp_validation *out);     /* as dcp_metadata_validate */
DCPDEF dcp_status dcp_manifest_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier, dcp_manifest **out,
                                         dcp_error *err);
DCPDEF dcp_status dcp_manifest_write_file(dcp_storage *storage, const char *path, const dcp_manifest *manifest, const dcp_signer *signer,
                                          dcp_error *err);      /* YAML if path ends in .yaml or .yml */
/* DCP_OK, or DCP_E_NOT_FOUND: no such layer, or no seed in it */
DCPDEF dcp_status dcp_manifest_router_seed(const dcp_manifest *manifest, int64_t layer, uint64_t *seed);
DCPDEF void dcp_manifest_free(dcp_manifest *manifest);

DCPDEF void dcp_sha256(const void *data, size_t size, uint8_t digest[32]);
DCPDEF void dcp_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t digest[32]);

/* ---- JSON: for the free-form parts (strategySpecificInfo, optimizerState, a program's own files). Strict RFC 8259; integers exact in 64
 * bits; members in order; duplicate keys, lone surrogates, NUL and nesting beyond DCP_LIMIT_DEPTH are refused. A tree is freed through its
 * root. Reading one from several threads is fine. Accessors take NULL, so that look-ups chain. ---- */
typedef enum dcp_json_kind { DCP_JSON_NULL, DCP_JSON_BOOL, DCP_JSON_INT, DCP_JSON_DOUBLE, DCP_JSON_STRING, DCP_JSON_ARRAY,
        DCP_JSON_OBJECT } dcp_json_kind;
/* DCP_E_FORMAT with line, column and byte; DCP_E_MEMORY. A tree takes about 100 bytes a value beside its text; the text is the caller's
 * again on return. */
DCPDEF dcp_status dcp_json_parse(const char *text, size_t size, dcp_json **out, dcp_error *err);
DCPDEF void dcp_json_free(dcp_json *root);
DCPDEF dcp_json_kind dcp_json_kind_of(const dcp_json *json);                                    /* DCP_JSON_NULL for NULL too */
DCPDEF int dcp_json_bool(const dcp_json *json);                                                 /* 1 for true, else 0 */
/* DCP_E_MISMATCH: no integer, or beyond int64 */
DCPDEF dcp_status dcp_json_int(const dcp_json *json, int64_t *value);
DCPDEF dcp_status dcp_json_uint(const dcp_json *json, uint64_t *value);
DCPDEF dcp_status dcp_json_double(const dcp_json *json, double *value);                         /* of an integer too, rounded to nearest */
/* NUL-terminated; NULL if it is no string; length may be NULL */
DCPDEF const char *dcp_json_string(const dcp_json *json, size_t *length);
DCPDEF size_t dcp_json_count(const dcp_json *json);                                             /* of an array or object, else 0 */
/* element or member value; NULL beyond the end */
DCPDEF const dcp_json *dcp_json_at(const dcp_json *json, size_t index);
DCPDEF const char *dcp_json_key(const dcp_json *json, size_t index);                            /* key of a member; NULL beyond the end */
DCPDEF const dcp_json *dcp_json_get(const dcp_json *object, const char *key);                   /* NULL: absent */
DCPDEF dcp_json *dcp_json_new_object(dcp_error *err);                                           /* roots to build on; NULL: no memory */
DCPDEF dcp_json *dcp_json_new_array(dcp_error *err);
/* Append a value to a container of a tree that is being built; key is NULL in an array. They return the new value, which belongs to the
 * tree, or NULL: no memory, a key that is there already, text that is not UTF-8 or holds NUL, a number that is not finite, or nesting
 * beyond the limit. */
DCPDEF dcp_json *dcp_json_add_object(dcp_json *parent, const char *key);
DCPDEF dcp_json *dcp_json_add_array(dcp_json *parent, const char *key);
DCPDEF dcp_json *dcp_json_add_string(dcp_json *parent, const char *key, const char *value);
DCPDEF dcp_json *dcp_json_add_int(dcp_json *parent, const char *key, int64_t value);
DCPDEF dcp_json *dcp_json_add_double(dcp_json *parent, const char *key, double value);
DCPDEF dcp_json *dcp_json_add_bool(dcp_json *parent, const char *key, int value);
DCPDEF dcp_json *dcp_json_add_null(dcp_json *parent, const char *key);
/* indent: spaces a level; 0: one line without spaces. The text ends in NUL, which size (may be NULL) does not count; dcp_free it. */
DCPDEF dcp_status dcp_json_write(const dcp_json *json, int indent, char **text, size_t *size, dcp_error *err);

/* ================================================================================================================================
 * >>api_plug    Storages, coordinators, devices, signers: what a program can put in place of ours.
 * ============================================================================================================================== */
typedef struct dcp_object_info { int64_t size; int64_t modified_ns; /* since 1970-01-01T00:00:00Z */ } dcp_object_info;
enum {                                  /* what a storage can promise; what it lacks ends in dcp_save_report.not_durable or is refused */
    DCP_STORAGE_RANDOM_WRITE = 1,       /* write takes any offset; without it offsets only rise, without gaps */
    DCP_STORAGE_CONCURRENT_WRITE = 2,   /* several threads may write one object */
    DCP_STORAGE_ATOMIC_REPLACE = 4,     /* commit with replace: readers see the old or the new object, never a mixture or neither */
    DCP_STORAGE_EXCLUSIVE_PUBLISH = 8,  /* commit without replace fails, atomically, if the path is taken */
    DCP_STORAGE_SYNC = 16,              /* commit makes the bytes durable */
    DCP_STORAGE_SYNC_DIRECTORY = 32,    /* sync_directory makes the names durable */
    DCP_STORAGE_SHARED_POSITIONAL_WRITE = 64            /* several ranks may write one object (join): a single file saved by all at once */
};
/* A storage keeps objects under keys: parts of printable UTF-8 joined by '/', validated before any call. A NULL function is "not supported"
 * (begin, write, commit, abort, open, read, close, stat, list and remove are needed for saving and sweeping). Calls come from several
 * threads at once, for one object only those that its flags allow. On failure a function fills err (status, sys, a message that names the
 * key) and leaves no object behind. */
struct dcp_storage {
    void *context; uint32_t flags;
    /* a new object, invisible under `path` until commit; `temporary` is a free key for it meanwhile; missing directories are made */
    dcp_status (*begin)(void *context, const char *path, const char *temporary, int64_t size_hint, void **object, dcp_error *err);
    dcp_status (*write)(void *context, void *object, int64_t offset, const void *data, size_t size, dcp_error *err);
    /* durable, then visible under path; without replace an existing path is DCP_E_EXISTS; ends the object, on failure too, and removes what
     * begin made */
    dcp_status (*commit)(void *context, void *object, int replace, dcp_error *err);
    /* ends the object and removes what begin made */
    void (*abort)(void *context, void *object);
    dcp_status (*open)(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *err);
    /* exactly size bytes, or an error */
    dcp_status (*read)(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *err);
    dcp_status (*map)(void *context, void *object, const void **data, dcp_error *err);          /* the whole object, until close */
    void (*close)(void *context, void *object);
    dcp_status (*stat)(void *context, const char *path, dcp_object_info *info, dcp_error *err);
    /* objects directly in directory ("": the base), with their whole keys; each's failure ends it and is returned; each may call the
     * storage again, so hold no lock */
    dcp_status (*list)(void *context, const char *directory, dcp_status (*each)(void *user, const char *path, const dcp_object_info *info),
                       void *user, dcp_error *err);
    dcp_status (*remove)(void *context, const char *path, dcp_error *err);                      /* of what is not there: DCP_OK */
    dcp_status (*sync_directory)(void *context, const char *directory, dcp_error *err);         /* made if need be; its names are durable */
    dcp_status (*space)(void *context, const char *directory, int64_t *bytes_free, dcp_error *err);
    void (*destroy)(void *context);
    /* one allocation made with DCP_MALLOC: the array, then its text */
    dcp_status (*additional_info)(void *context, const char *path, dcp_field **fields, size_t *count, dcp_error *err);
    /* DCP_STORAGE_SHARED_POSITIONAL_WRITE: another rank's object, whose begin had the same names, to be written at other offsets at the same
     * time. DCP_E_NOT_FOUND: not there, or not seen from here; then that rank gets the bytes as messages */
    dcp_status (*join)(void *context, const char *path, const char *temporary, int64_t size_hint, void **object, dcp_error *err);
    /* makes durable what was written here; ends this object, on failure too; the one of begin goes on */
    dcp_status (*leave)(void *context, void *object, dcp_error *err);
};
typedef struct dcp_storage_options { const char *provider; const dcp_field *settings; size_t setting_count; } dcp_storage_options;
/* "local" {basePath; mode: octal permissions of new files, default 0666 less the umask}, "memory", and what was registered (ASCII case does
 * not matter). An unknown provider is DCP_E_UNSUPPORTED with the list of those there are; an unknown setting is DCP_E_INVALID. */
DCPDEF dcp_status dcp_storage_open(const dcp_storage_options *options, dcp_storage **out, dcp_error *err);
/* Makes a provider known to dcp_storage_open, for the life of the process. DCP_E_EXISTS: the name is taken. Any thread. */
DCPDEF dcp_status dcp_storage_register(const char *provider, dcp_status (*open)(const dcp_storage_options *options, dcp_storage **out,
                                                                                dcp_error *err), dcp_error *err);
/* the directory is made, with its parents */
DCPDEF dcp_status dcp_storage_local(const char *base_path, dcp_storage **out, dcp_error *err);
/* objects in this process's memory: tests, staging */
DCPDEF dcp_status dcp_storage_memory(dcp_storage **out, dcp_error *err);
/* replaces atomically, durably */
DCPDEF dcp_status dcp_storage_write_all(dcp_storage *storage, const char *path, const void *data, size_t size, dcp_error *err);
/* dcp_free; a NUL follows the last byte */
DCPDEF dcp_status dcp_storage_read_all(dcp_storage *storage, const char *path, void **data, size_t *size, dcp_error *err);
/* with io's cancel, deadline, progress */
DCPDEF dcp_status dcp_storage_write_all_io(dcp_storage *storage, const char *path, const void *data, size_t size, const dcp_io *io,
                                           dcp_error *err);
DCPDEF dcp_status dcp_storage_read_all_io(dcp_storage *storage, const char *path, void **data, size_t *size, const dcp_io *io,
                                          dcp_error *err);
DCPDEF dcp_status dcp_storage_exists(dcp_storage *storage, const char *path, int *exists, dcp_error *err);
DCPDEF dcp_status dcp_storage_info(dcp_storage *storage, const char *path, dcp_object_info *info, dcp_error *err);
/* what else the storage knows ("mode", "links", ...); dcp_free(*fields) */
DCPDEF dcp_status dcp_storage_additional_info(dcp_storage *storage, const char *path, dcp_field **fields, size_t *count, dcp_error *err);
/* of what is not there: DCP_OK */
DCPDEF dcp_status dcp_storage_delete(dcp_storage *storage, const char *path, dcp_error *err);
/* destroys the context and frees the struct, which was made with DCP_MALLOC */
DCPDEF void dcp_storage_close(dcp_storage *storage);

enum { DCP_ANY_RANK = -1 };
/* A coordinator carries messages between the ranks of a job. Rank, world size, send and receive are all that one must have; what the library
 * needs beyond that it builds of messages. In a program's own coordinator the other members are zero.
 *
 *   - Messages from one rank to another with one tag arrive whole, once, and in the order in which they were sent; those with other tags
 *     may overtake them. Tags are 0 to 2^28 - 1; 0x0DC0000 to 0x0DC00FF are the library's. Any size_t is a size, 0 and more than 2^31 too.
 *   - `send` returns when `data` is the caller's again, not when the message has been received; it may wait for the receiver. Whether a
 *     message that could not be sent in time (DCP_E_TIMEOUT) arrives after all is not defined. The library never sends to its own rank.
 *   - A send with timeout_ms 0 (dcp_save_poll, which waits for nobody) takes the message, keeping a copy for as long as it must, or is DCP_PENDING:
 *     nothing of it has been or will be sent, and the library tries again later.
 *   - `receive` takes the oldest message with that tag from *from, or from any rank (DCP_ANY_RANK; no rank may be starved for ever), sets
 *     *from, and hands over memory made with DCP_MALLOC (NULL if the size is 0). DCP_PENDING, no error: none came within timeout_ms.
 *   - timeout_ms 0 means what can be done without waiting: a probe. The library passes no negative one.
 *   - A rank that has died is DCP_E_COMM, at once where that can be known, for who waits for any rank too. One that has closed its
 *     coordinator is so for who sends to it or waits for it; for who waits for any rank once all have. What it sent before comes first.
 *   - Any other failure than DCP_E_INVALID and DCP_E_MEMORY breaks the coordinator: the library calls nothing of it again but `destroy`,
 *     and every later operation with it returns the same status at once. The same on all ranks: close it everywhere and open a new one.
 *   - Threads: without `thread_safe` it is called only from the thread that calls the library. With it several may send and receive at once,
 *     each with tags of its own.
 *   - On failure fill err (status, sys, a message); err may be NULL. */
struct dcp_coordinator {
    void *context; int rank, world_size; int thread_safe;
    dcp_status (*send)(void *context, int to, int tag, const void *data, size_t size, int timeout_ms, dcp_error *err);
    dcp_status (*receive)(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms, dcp_error *err);
    /* frees the context; may be NULL. Waits for no other rank */
    void (*destroy)(void *context);
    dcp_status broken;                  /* kept by the library, zero at first: what broke it */
    uint32_t operations;                /* kept by the library: saves and loads so far, the same on all ranks */
    uint32_t collectives;               /* kept by the library: calls of the four below so far, the same on all ranks */
    void (*settle)(void *saver);        /* kept by the library: waits for the save in the background that uses this coordinator */
    void *saver;
};
/* The four below are collective: all ranks call the same ones in the same order with the same root and size, each from one thread at a
 * time; a rank that does otherwise is DCP_E_MISMATCH, naming both calls. timeout_ms covers a whole call with its data (0: 300,000; negative is
 * DCP_E_INVALID): when ranks are missing then, it is DCP_E_TIMEOUT, and the message names them. Ranks that wait for others on the way wait up
 * to 15 % longer, so that the news of who is missing still reaches them. A failure breaks the coordinator, unless it is an argument's
 * (DCP_E_INVALID), and dcp_error.rank is the missing or deviating rank. A rank that was too late for the others may still get DCP_OK, and
 * hears of their failure in its next call. A coordinator that is NULL or has one rank: nothing to wait for.
 *
 * No rank returns before all have called. */
DCPDEF dcp_status dcp_barrier(dcp_coordinator *coordinator, int timeout_ms, dcp_error *err);
/* `size` bytes at data, from the root to all; data may be NULL if size is 0. A rank returns when the ranks behind it in the tree have their
 * data. On failure the data is unspecified, but for the root's. */
DCPDEF dcp_status dcp_broadcast(dcp_coordinator *coordinator, void *data, size_t size, int root, int timeout_ms, dcp_error *err);
/* Each rank's `size` bytes, which may differ, to the root: (*parts)[rank] has (*sizes)[rank] bytes, aligned to 16, NULL if there are none.
 * One allocation each: dcp_free(*parts), dcp_free(*sizes). Elsewhere both are set to NULL (and parts and sizes may be NULL). */
DCPDEF dcp_status dcp_gather(dcp_coordinator *coordinator, const void *data, size_t size, void ***parts, size_t **sizes, int root,
                             int timeout_ms, dcp_error *err);
/* reduce(inout, in, size, user) combines inout = inout (+) in, and need not be commutative: inout is of lower ranks than in. The grouping
 * depends on the world size alone, not on who arrives first, so sums of floating point numbers are the same in each run. All ranks get the
 * result in data, as the same bytes. On failure the data is unspecified. */
DCPDEF dcp_status dcp_allreduce(dcp_coordinator *coordinator, void *data, size_t size,
                                void (*reduce)(void *inout, const void *in, size_t size, void *user), void *user, int timeout_ms,
                                dcp_error *err);
/* world_size ranks in one process, for tests and for programs with a thread for each device. Fills ranks[0] to ranks[world_size - 1] (with
 * NULL on failure); each is closed on its own, in any order. They are thread-safe, and copy messages: a send never waits. Sending to a rank
 * that has been closed, and waiting for one that left no message, is DCP_E_COMM. DCP_NO_THREADS: DCP_E_UNSUPPORTED for more than one rank. */
DCPDEF dcp_status dcp_thread_group_open(int world_size, dcp_coordinator **ranks, dcp_error *err);
/* Destroys the context and frees the struct, which was made with DCP_MALLOC. Local: waits for nobody. No call may be running in it. */
DCPDEF void dcp_coordinator_close(dcp_coordinator *coordinator);

/* memory that the host cannot touch, or a producer of bytes; copies are asynchronous and in order, a ticket is waited for once */
struct dcp_device {
    void *context;
    /* staging memory that copies run fastest from; NULL: ordinary memory */
    dcp_status (*allocate_host)(void *context, size_t size, void **memory, dcp_error *err);
    void (*free_host)(void *context, void *memory);
    /* bytes [offset, offset + size) of the piece in row-major order */
    dcp_status (*copy_out)(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size, uint64_t *ticket,
                           dcp_error *err);
    dcp_status (*copy_in)(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size, uint64_t *ticket,
                          dcp_error *err);
    dcp_status (*wait)(void *context, uint64_t ticket, dcp_error *err);
    void (*destroy)(void *context);
};
DCPDEF void dcp_device_close(dcp_device *device);       /* destroys the context and frees the struct, which was made with DCP_MALLOC */

/* A signature covers the document, and so, through its digests, every byte of the checkpoint. algorithm: [a-z0-9-]{1,32}; key_id:
 * [A-Za-z0-9._-]{0,128}. */
struct dcp_signer {
    void *context; const char *algorithm, *key_id; size_t size;                                 /* of a signature, at most 64 KiB */
    /* NULL: HMAC-SHA256 with the key at context */
    dcp_status (*sign)(void *context, const void *message, size_t message_size, uint8_t *signature, dcp_error *err);
    size_t key_size;                    /* of that key, bytes; unused otherwise */
};
struct dcp_verifier {
    void *context; const char *algorithm; size_t size;
    dcp_status (*verify)(void *context, const char *key_id, const void *message, size_t message_size, const uint8_t *signature,
                         dcp_error *err);
    size_t key_size;                    /* verify NULL: HMAC-SHA256 with the key at context, as in dcp_signer */
};
/* the key stays the caller's and must outlive the signer; at least 16 bytes */
DCPDEF dcp_signer dcp_hmac_signer(const void *key, size_t key_size, const char *key_id);
DCPDEF dcp_verifier dcp_hmac_verifier(const void *key, size_t key_size);

#ifdef __cplusplus
}
#endif
#endif /* DCP_H */

#if defined(DCP_IMPLEMENTATION) && !defined(DCP_IMPLEMENTED)
#define DCP_IMPLEMENTED
/* ================================================================================================================================
 * >>config      Every limit and switch, in one place. A program may define any of them before it includes dcp.h with DCP_IMPLEMENTATION.
 *
 *   DCP_NO_THREADS 0|1    1: no threads at all; saves and loads run in the calling thread, nothing is linked but libc
 *   DCP_NO_SIMD 0|1       1: portable C only
 *   DCP_MALLOC(size) DCP_REALLOC(memory, size) DCP_FREE(memory)     all three or none; thread-safe
 *   DCPDEF                linkage of the public functions; DCP_STATIC: static ones, private to this file
 * ============================================================================================================================== */
#ifndef DCP_LIMIT_DEPTH
#define DCP_LIMIT_DEPTH 64              /* nesting of JSON */
#endif
#ifndef DCP_LIMIT_PREFIX
#define DCP_LIMIT_PREFIX 180            /* bytes of a checkpoint's name, the last part of its path */
#endif
#ifndef DCP_GRACE_SECONDS
#define DCP_GRACE_SECONDS 86400         /* sweep leaves younger files alone, and a save gives up after half of it */
#endif
/* ---- limits of documents: each can be lowered (tests do) or raised; what is beyond one is DCP_E_LIMIT or DCP_E_FORMAT ---- */
#ifndef DCP_LIMIT_NAME
#define DCP_LIMIT_NAME 1024             /* bytes of a tensor's name */
#endif
#ifndef DCP_LIMIT_PATH
#define DCP_LIMIT_PATH 4096             /* bytes of a filePath */
#endif
#ifndef DCP_LIMIT_SHARDS
#define DCP_LIMIT_SHARDS 1048576        /* shards of a document */
#endif
#ifndef DCP_LIMIT_TENSORS
#define DCP_LIMIT_TENSORS 67108864      /* tensors of a document, over all its shards; at most 2^30 */
#endif
#ifndef DCP_LIMIT_FIELDS
#define DCP_LIMIT_FIELDS 1048576        /* customFields of a document */
#endif
#ifndef DCP_LIMIT_DOCUMENT
#define DCP_LIMIT_DOCUMENT ((int64_t)16 << 30)   /* bytes of a document that is read */
#endif
#ifndef DCP_LIMIT_SIGNATURE
#define DCP_LIMIT_SIGNATURE 65536       /* bytes of a signature */
#endif
#ifndef DCP_LIMIT_FINDINGS
#define DCP_LIMIT_FINDINGS 1000         /* errors, and warnings, that a validation lists; the rest is counted */
#endif
#ifndef DCP_LIMIT_FREE_ENTRIES
#define DCP_LIMIT_FREE_ENTRIES 4096     /* shards and tensors of a document that may be of any length; beyond, 24 bytes each at least */
#endif

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN             /* who needs the rest of <windows.h> in this file includes it before dcp.h */
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <process.h>
#if _WIN32_WINNT < 0x0600
#error "dcp.h needs Windows Vista or newer: compile the file that defines DCP_IMPLEMENTATION with -D_WIN32_WINNT=0x0601"
#endif
#else
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if !(defined(DCP_NO_THREADS) && DCP_NO_THREADS)
#include <pthread.h>
#include <signal.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif
#if (defined(__GLIBC__) && !defined(__USE_GNU)) || (defined(__linux__) && !defined(SYNC_FILE_RANGE_WRITE)) || \
    (defined(__GLIBC__) && __WORDSIZE == 32 && !defined(__USE_FILE_OFFSET64))
#error "include dcp.h first in the file that defines DCP_IMPLEMENTATION, or compile with -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64"
#endif
typedef char dcpi_off_t_has_64_bits[sizeof(off_t) >= 8 ? 1 : -1];      /* fails? compile with -D_FILE_OFFSET_BITS=64 */
#endif
/* ================================================================================================================================
 * >>compiler    What differs between compilers, each thing once. System calls and threads differ in >>platform, nowhere else.
 * ============================================================================================================================== */
#ifndef DCP_NO_THREADS
#define DCP_NO_THREADS 0
#endif
#ifndef DCP_NO_SIMD
#define DCP_NO_SIMD 0
#endif

#if defined(DCP_MALLOC) && defined(DCP_REALLOC) && defined(DCP_FREE)
#elif !defined(DCP_MALLOC) && !defined(DCP_REALLOC) && !defined(DCP_FREE)
#define DCP_MALLOC(size) malloc(size)
#define DCP_REALLOC(memory, size) realloc(memory, size)
#define DCP_FREE(memory) free(memory)
#else
#error "dcp.h: define all three of DCP_MALLOC, DCP_REALLOC and DCP_FREE, or none of them"
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
#define DCPI_GNUC 1
#else
#define DCPI_GNUC 0
#endif

#if !DCP_NO_SIMD && (DCPI_GNUC || defined(_MSC_VER)) && (defined(__x86_64__) || defined(__i386__) || defined(_M_X64))
#define DCPI_X86 1
#else
#define DCPI_X86 0
#endif
#if !DCP_NO_SIMD && DCPI_GNUC && defined(__aarch64__) && !defined(__AARCH64EB__)
#define DCPI_ARM64 1
#else
#define DCPI_ARM64 0
#endif

#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__)
#define DCPI_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#else
#define DCPI_BIG_ENDIAN 0               /* every compiler that lacks the macro (MSVC, tcc) targets little-endian machines */
#endif

#if DCPI_GNUC && defined(__MINGW32__)
#define DCPI_PRINTF(text, first) __attribute__((__format__(gnu_printf, text, first)))
#elif DCPI_GNUC
#define DCPI_PRINTF(text, first) __attribute__((__format__(printf, text, first)))
#else
#define DCPI_PRINTF(text, first)
#endif

#define DCPI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DCPI_KIB ((size_t)1024)
#define DCPI_MIB ((size_t)1024 * 1024)

#if DCPI_X86 && DCPI_GNUC
#include <cpuid.h>
#include <immintrin.h>
#elif DCPI_X86
#include <immintrin.h>
#include <intrin.h>
#endif
#if DCPI_ARM64
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* A flag that another thread or a signal handler may set. */
static int dcpi_flag_get(const volatile int *flag) {
#if DCPI_GNUC
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#else
    return *flag;
#endif
}
static void dcpi_flag_set(volatile int *flag, int value) {
#if DCPI_GNUC
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
#else
    *flag = value;
#endif
}

/* ================================================================================================================================
 * >>core        Checked arithmetic, memory, buffers, text, errors, sorting. Everything below stands on these.
 * ============================================================================================================================== */

/* ---- checked arithmetic: 0 when the result does not fit, and then *out is untouched --------------------------------------------- */
static int dcpi_add_size(size_t a, size_t b, size_t *out) {
    if (b > SIZE_MAX - a) return 0;
    *out = a + b;
    return 1;
}
static int dcpi_mul_size(size_t a, size_t b, size_t *out) {
    if (b != 0 && a > SIZE_MAX / b) return 0;
    *out = a * b;
    return 1;
}
/* The three below are for sizes and offsets in files: both operands must be >= 0. */
static int dcpi_add(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || b > INT64_MAX - a) return 0;
    *out = a + b;
    return 1;
}
static int dcpi_mul(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b)) return 0;
    *out = a * b;
    return 1;
}
static int dcpi_align_up(int64_t value, int64_t alignment, int64_t *out) {     /* alignment: a power of two */
    int64_t sum;
    if (!dcpi_add(value, alignment - 1, &sum)) return 0;
    *out = sum & ~(alignment - 1);
    return 1;
}
static int64_t dcpi_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t dcpi_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int dcpi_is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

/* ---- names -------------------------------------------------------------------------------------------------------------------------- */
DCPDEF const char *dcp_version(void) { return DCP_VERSION; }
DCPDEF const char *dcp_status_name(dcp_status status) {
    static const char *const names[] = {
        "DCP_OK", "DCP_PENDING", "DCP_E_INVALID", "DCP_E_MEMORY", "DCP_E_IO", "DCP_E_SPACE", "DCP_E_NOT_FOUND", "DCP_E_EXISTS",
                "DCP_E_FORMAT", "DCP_E_VERSION",
        "DCP_E_CHECKSUM", "DCP_E_SIGNATURE", "DCP_E_MISMATCH", "DCP_E_INCOMPLETE", "DCP_E_LIMIT", "DCP_E_TIMEOUT", "DCP_E_CANCELLED",
                "DCP_E_COMM", "DCP_E_DEVICE",
        "DCP_E_UNSUPPORTED", "DCP_E_UNKNOWN"
    };
    return (int)status >= 0 && (size_t)status < DCPI_COUNT(names) ? names[status] : "DCP_E_?";
}
DCPDEF const char *dcp_phase_name(dcp_phase phase) {
    static const char *const names[] = { "check", "prepare", "plan", "write", "gather", "commit", "finish", "open", "read", "verify" };
    return (int)phase >= 0 && (size_t)phase < DCPI_COUNT(names) ? names[phase] : "?";
}

/* ---- errors -------------------------------------------------------------------------------------------------------------------- */
/* Ends a message where the last whole UTF-8 character ends, and takes control characters (a hostile file's name) out of it. */
static void dcpi_message_clean(char *message, size_t capacity) {
    size_t length = strlen(message), i;
    if (length == capacity - 1) {                                       /* perhaps cut: drop a last character that is not whole */
        size_t start = length;
        while (start > 0 && ((unsigned char)message[start - 1] & 0xC0) == 0x80) start--;
        if (start > 0 && ((unsigned char)message[start - 1] & 0x80) != 0) message[start - 1] = '\0';
    }
    for (i = 0; message[i] != '\0'; i++)
        if ((unsigned char)message[i] < 0x20 || (unsigned char)message[i] == 0x7F) message[i] = '?';
}
static dcp_status dcpi_succeed(dcp_error *err) {
    if (err) { err->status = DCP_OK; err->sys = 0; err->rank = 0; err->message[0] = '\0'; }
    return DCP_OK;
}
static dcp_status dcpi_fail_list(dcp_error *err, dcp_status status, int sys, const char *format, va_list arguments) DCPI_PRINTF(4, 0);
static dcp_status dcpi_fail_list(dcp_error *err, dcp_status status, int sys, const char *format, va_list arguments) {
    if (!err) return status;
    err->status = status;
    err->sys = sys;
    err->rank = 0;
    (void)vsnprintf(err->message, sizeof err->message, format, arguments);
    err->message[sizeof err->message - 1] = '\0';
    dcpi_message_clean(err->message, sizeof err->message);
    return status;
}
static dcp_status dcpi_fail(dcp_error *err, dcp_status status, const char *format, ...) DCPI_PRINTF(3, 4);
static dcp_status dcpi_fail(dcp_error *err, dcp_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    status = dcpi_fail_list(err, status, 0, format, arguments);
    va_end(arguments);
    return status;
}
static dcp_status dcpi_fail_sys(dcp_error *err, dcp_status status, int sys, const char *format, ...) DCPI_PRINTF(4, 5);
static dcp_status dcpi_fail_sys(dcp_error *err, dcp_status status, int sys, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    status = dcpi_fail_list(err, status, sys, format, arguments);
    va_end(arguments);
    return status;
}
/* Puts words before a message that is there already: which file, which tensor. */
static void dcpi_fail_context(dcp_error *err, const char *format, ...) DCPI_PRINTF(2, 3);
static void dcpi_fail_context(dcp_error *err, const char *format, ...) {
    char inner[sizeof err->message];
    va_list arguments;
    int used;
    if (!err || err->status == DCP_OK) return;
    memcpy(inner, err->message, sizeof inner);
    va_start(arguments, format);
    used = vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    if (used < 0) used = 0;
    if ((size_t)used < sizeof err->message) (void)snprintf(err->message + used, sizeof err->message - (size_t)used, "%s", inner);
    dcpi_message_clean(err->message, sizeof err->message);
}
static dcp_status dcpi_no_memory(dcp_error *err, size_t size) {
    return dcpi_fail(err, DCP_E_MEMORY, "out of memory: could not allocate %" PRIu64 " bytes", (uint64_t)size);
}

/* ---- memory: every allocation of the library goes through these four -------------------------------------------------------------- */
static void *dcpi_alloc(size_t size, dcp_error *err) {                  /* uninitialised; NULL sets err */
    void *memory = DCP_MALLOC(size ? size : 1);
    if (!memory) (void)dcpi_no_memory(err, size);
    return memory;
}
static void *dcpi_alloc_array(size_t count, size_t size, dcp_error *err) { /* zeroed: no uninitialised byte is ever written (G11) */
    size_t total;
    void *memory;
    if (!dcpi_mul_size(count, size, &total)) { (void)dcpi_no_memory(err, SIZE_MAX); return NULL; }
    memory = dcpi_alloc(total, err);
    if (memory) memset(memory, 0, total);
    return memory;
}
/* Grows an array to hold at least `needed` items: by half again, so that a run of appends costs O(n). 0: out of memory, array unchanged. */
static int dcpi_grow(void **array, size_t *capacity, size_t needed, size_t item, dcp_error *err) {
    size_t wanted = *capacity, bytes;
    void *grown;
    if (needed <= *capacity) return 1;
    while (wanted < needed) {
        if (!dcpi_add_size(wanted, wanted / 2 + 8, &wanted)) { (void)dcpi_no_memory(err, SIZE_MAX); return 0; }
    }
    if (!dcpi_mul_size(wanted, item, &bytes)) { (void)dcpi_no_memory(err, SIZE_MAX); return 0; }
    grown = DCP_REALLOC(*array, bytes);
    if (!grown) { (void)dcpi_no_memory(err, bytes); return 0; }
    *array = grown;
    *capacity = wanted;
    return 1;
}
static void dcpi_free(void *memory) { if (memory) DCP_FREE(memory); }

DCPDEF void dcp_free(void *memory) { dcpi_free(memory); }

/* Many small things that live and die together: a document's strings and structs. */
typedef struct dcpi_arena_block { struct dcpi_arena_block *next; size_t used, capacity; } dcpi_arena_block;
typedef struct dcpi_arena { dcpi_arena_block *head; } dcpi_arena;       /* zero is an empty arena */

/* alignment: a power of two, at most 16 */
static void *dcpi_arena_take(dcpi_arena *arena, size_t size, size_t alignment, dcp_error *err) {
    const size_t header = (sizeof(dcpi_arena_block) + 15) & ~(size_t)15;
    dcpi_arena_block *block = arena->head;
    size_t capacity, total, gap = block ? (0 - block->used) & (alignment - 1) : 0;
    if (!block || gap > block->capacity - block->used || size > block->capacity - block->used - gap) {
        capacity = block ? (size_t)dcpi_min((int64_t)block->capacity * 2, (int64_t)(1024 * DCPI_KIB)) : 4 * DCPI_KIB;
        if (capacity < size) capacity = size;
        if (!dcpi_add_size(capacity, header, &total)) { (void)dcpi_no_memory(err, size); return NULL; }
        block = (dcpi_arena_block *)dcpi_alloc(total, err);
        if (!block) return NULL;
        block->next = arena->head;
        block->used = 0;
        block->capacity = capacity;
        arena->head = block;
        gap = 0;
    }
    block->used += gap + size;
    return (char *)block + header + block->used - size;
}
static void *dcpi_arena_alloc(dcpi_arena *arena, size_t size, dcp_error *err) { return dcpi_arena_take(arena, size, 16, err); }
static void *dcpi_arena_zero(dcpi_arena *arena, size_t size, dcp_error *err) {
    void *memory = dcpi_arena_alloc(arena, size, err);
    if (memory) memset(memory, 0, size);
    return memory;
}
static char *dcpi_arena_text(dcpi_arena *arena, const char *text, size_t length, dcp_error *err) {   /* a copy that ends in NUL; packed */
    char *copy;
    if (length == SIZE_MAX) { (void)dcpi_no_memory(err, length); return NULL; }
    copy = (char *)dcpi_arena_take(arena, length + 1, 1, err);
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}
static void dcpi_arena_free(dcpi_arena *arena) {
    dcpi_arena_block *block = arena->head;
    while (block) {
        dcpi_arena_block *next = block->next;
        dcpi_free(block);
        block = next;
    }
    arena->head = NULL;
}

/* Bytes that grow. After a failed append `failed` is set and further appends do nothing, so a writer checks once, at the end. */
typedef struct dcpi_buffer { char *data; size_t size, capacity; int failed; } dcpi_buffer;   /* zero is an empty buffer */

static void dcpi_buffer_add(dcpi_buffer *buffer, const void *data, size_t size) {
    size_t needed;
    void *memory = buffer->data;
    if (buffer->failed || size == 0) return;
    if (!dcpi_add_size(buffer->size, size, &needed) || !dcpi_grow(&memory, &buffer->capacity, needed, 1, NULL)) {
        buffer->failed = 1;
        return;
    }
    buffer->data = (char *)memory;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}
static void dcpi_buffer_text(dcpi_buffer *buffer, const char *text) { dcpi_buffer_add(buffer, text, strlen(text)); }
static void dcpi_buffer_free(dcpi_buffer *buffer) {
    dcpi_free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

/* ---- text ---------------------------------------------------------------------------------------------------------------------- */
static const char dcpi_hex_digits[] = "0123456789abcdef";

static void dcpi_hex_encode(const uint8_t *bytes, size_t count, char *text) {     /* 2 * count characters, no NUL */
    size_t i;
    for (i = 0; i < count; i++) {
        text[2 * i] = dcpi_hex_digits[bytes[i] >> 4];
        text[2 * i + 1] = dcpi_hex_digits[bytes[i] & 15];
    }
}
static int dcpi_hex_value(char c) {                                     /* upper case too: the seed's readers take both */
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}
static int dcpi_hex_decode(const char *text, size_t length, uint8_t *bytes) {     /* length / 2 bytes; 0: not hex */
    size_t i;
    if (length % 2) return 0;
    for (i = 0; i < length; i += 2) {
        int high = dcpi_hex_value(text[i]), low = dcpi_hex_value(text[i + 1]);
        if (high < 0 || low < 0) return 0;
        bytes[i / 2] = (uint8_t)(high * 16 + low);
    }
    return 1;
}
/* Bytes of the UTF-8 character at text[0..length): 1 to 4, or 0 where it is none (overlong, surrogate, beyond U+10FFFF, cut). */
static size_t dcpi_utf8_length(const char *text, size_t length) {
    const unsigned char *s = (const unsigned char *)text;
    size_t n, i;
    if (length == 0) return 0;
    if (s[0] < 0x80) return 1;
    n = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : s[0] >= 0xE0 && s[0] <= 0xEF ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    if (n == 0 || n > length) return 0;
    for (i = 1; i < n; i++) if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;                          /* overlong */
    if (s[0] == 0xED && s[1] > 0x9F) return 0;                          /* surrogate */
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;                          /* overlong */
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;                          /* beyond U+10FFFF */
    return n;
}
/* UTF-8 without control characters, of 1 to `limit` bytes: what a tensor's name may be. */
static int dcpi_is_name(const char *text, size_t limit) {
    size_t length = strlen(text), i = 0;
    if (length == 0 || length > limit) return 0;
    while (i < length) {
        size_t n = dcpi_utf8_length(text + i, length - i);
        if (n == 0 || (unsigned char)text[i] < 0x20 || (unsigned char)text[i] == 0x7F) return 0;
        if (n == 2 && (unsigned char)text[i] == 0xC2 && (unsigned char)text[i + 1] < 0xA0) return 0;     /* C1 controls */
        i += n;
    }
    return 1;
}
static int dcpi_starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }
static int dcpi_ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), n = strlen(suffix);
    return length >= n && memcmp(text + length - n, suffix, n) == 0;
}
static int dcpi_same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* ---- little-endian numbers ------------------------------------------------------------------------------------------------------ */
static void dcpi_store32(uint8_t *to, uint32_t v) {
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
    to[2] = (uint8_t)(v >> 16);
    to[3] = (uint8_t)(v >> 24);
}
static uint32_t dcpi_load32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint64_t dcpi_load64(const uint8_t *p) { return dcpi_load32(p) | (uint64_t)dcpi_load32(p + 4) << 32; }
static void dcpi_store64(uint8_t *to, uint64_t v) { dcpi_store32(to, (uint32_t)v); dcpi_store32(to + 4, (uint32_t)(v >> 32)); }

/* ---- sorting: pointers, stable, n log n whatever the input (a hostile file may choose it) ------------------------------------------ */
typedef int (*dcpi_compare)(const void *a, const void *b);

static void dcpi_sort_merge(const void **items, const void **scratch, size_t low, size_t middle, size_t high, dcpi_compare compare) {
    size_t left = low, right = middle, to = low;
    if (compare(items[middle - 1], items[middle]) <= 0) return;         /* in order already: the common case */
    while (left < middle && right < high) scratch[to++] = compare(items[right], items[left]) < 0 ? items[right++] : items[left++];
    while (left < middle) scratch[to++] = items[left++];
    while (right < high) scratch[to++] = items[right++];
    memcpy(items + low, scratch + low, (high - low) * sizeof *items);
}
/* items: an array of count pointers to what compare compares. */
static dcp_status dcpi_sort(const void **items, size_t count, dcpi_compare compare, dcp_error *err) {
    const void **scratch;
    size_t width, low;
    if (count < 2) return DCP_OK;
    scratch = (const void **)dcpi_alloc_array(count, sizeof *scratch, err);
    if (!scratch) return DCP_E_MEMORY;
    for (width = 1; width < count; width *= 2) {
        for (low = 0; low + width < count; low += 2 * width) {
            size_t high = low + 2 * width < count ? low + 2 * width : count;
            dcpi_sort_merge(items, scratch, low, low + width, high, compare);
        }
        if (width > SIZE_MAX / 2) break;
    }
    dcpi_free((void *)scratch);
    return DCP_OK;
}

/* ================================================================================================================================
 * >>platform    The contract first; then one complete POSIX block and one complete Windows block with the same functions.
 *
 * Errors: a function that can fail returns 0 or a system error number (errno; on Windows GetLastError()); dcpi_os_status() maps it to a
 * dcp_status and dcpi_os_message() says it in words. DCPI_OS_SHORT is ours: the file ends before the bytes that were asked for.
 * Paths: `path` is UTF-8 and the system's own form; `key` is UTF-8, parts joined by '/', already validated (no empty part, ".", "..").
 * Keys are resolved beneath a base directory without following any symbolic link below it.
 *
 *   clocks       dcpi_os_monotonic_ms     milliseconds that never go back
 *                dcpi_os_wall_us          microseconds since 1970-01-01T00:00:00Z
 *                dcpi_os_sleep_ms
 *   machine      dcpi_os_random           fills bytes from the system's generator; never a weaker one
 *                dcpi_os_processors       at least 1; honours the affinity mask
 *   memory       dcpi_os_pages            `size` bytes, zeroed, aligned to a page, straight from the system, for big buffers that are
 *                                         reused (from 4 MiB up at a huge page, where there are such); NULL when there are none or size
 *                                         is 0. Not through DCP_MALLOC: the caller tries dcpi_alloc instead
 *   threads      dcpi_mutex, dcpi_cond, dcpi_thread; dcpi_cond_wait_ms waits on the monotonic clock where there is one; may wake early.
 *                A dcpi_thread stays where it is in memory until it is joined. The program's signals are blocked in it.
 *                With DCP_NO_THREADS lock, unlock and wake do nothing, a wait lasts its full time, and thread_start fails with ENOSYS
 *   paths        dcpi_os_is_separator     whether the character at an index separates the parts of an OS path
 *   base         dcpi_os_base_open        `create`: made with its parents (each parent of a directory made here is synced, and the base's
 *                                         own parent always, as far as it may be read and can be synced); without it a missing directory
 *                                         is ENOENT. "" is the current directory; links in this path are followed
 *   files        dcpi_os_create           a new file for writing, missing parents made; EEXIST if the key is taken. size_hint > 0 reserves
 *                                         space (never by writing zeros; ENOSPC/EDQUOT/EFBIG counts and leaves no file, anything else does
 *                                         not count; the size stays that of what is written, sync gives the rest back) and, from
 *                                         DCPI_OS_DIRECT_FROM bytes, tries direct I/O beside the buffered descriptor. After a failure, and
 *                                         after that of dcpi_os_open, *out may be closed and nothing else
 *                dcpi_os_join             a file that another process has created and writes, for writing other parts of it; direct I/O as there
 *                dcpi_os_write            all bytes at an offset; aligned pieces go direct where that works (EINVAL: that file goes on
 *                                         buffered, for good), others buffered; several threads may write one file
 *                dcpi_os_open             an existing regular file for reading (EINVAL for a directory, FIFO, device; ELOOP for a symlink;
 *                                         never blocks); size and modification time from the open descriptor
 *                dcpi_os_read             exactly size bytes at an offset, or an error, or DCPI_OS_SHORT
 *                dcpi_os_map / _unmap     the first `size` bytes, read only, shared, beyond close; 0 bytes map to NULL; more than there
 *                                         are: DCPI_OS_SHORT
 *                dcpi_os_sync             data and size are durable; an error is final for that file (G3): each later sync and its close
 *                                         report it again. Only after the last write has returned
 *                dcpi_os_close            its error counts after writing; a second close of the same file does nothing and returns 0
 *   names        dcpi_os_publish          renames within the base. replace 0: EEXIST if the target is there, atomically; ENOTSUP where the
 *                                         file system offers no safe way. Parents are not made
 *                dcpi_os_remove           ENOENT is an error here; directories are refused; of a symbolic link the link itself goes
 *                dcpi_os_stat             of a regular file, no symlink followed (the same errors as dcpi_os_open)
 *                dcpi_os_additional       permissions, links, inode: for people (`mode` octal)
 *                dcpi_os_list             the regular files in one directory (not below), names without the directory, in no order; "" is
 *                                         the base; what vanishes meanwhile is left out. Windows: size and time of a file that is being
 *                                         written may lag behind
 *                dcpi_os_make_directory   made with its parents beneath the base, nothing synced; there already: 0
 *                dcpi_os_sync_directory   its entries are durable; ENOTSUP where the file system cannot sync a directory
 *                dcpi_os_space            bytes that an ordinary user can still write there (`key` names a directory)
 * ============================================================================================================================== */
#define DCPI_OS_SHORT (-2)
#define DCPI_OS_DIRECT_FROM ((int64_t)8 * 1024 * 1024)  /* below this, one cached write is faster than setting up direct I/O */
#define DCPI_OS_DIRECT_ALIGN 4096                       /* buffers, offsets and sizes that are multiples of this may go direct */

#if DCP_NO_THREADS
#define DCPI_THREADS 0
#else
#define DCPI_THREADS 1
#endif
typedef void (*dcpi_thread_fn)(void *argument);
typedef int (*dcpi_os_each)(void *user, const char *name, const dcp_object_info *info);    /* non-zero stops the listing and is returned */

static int64_t dcpi_os_monotonic_ms(void);
static int64_t dcpi_os_wall_us(void);
static void dcpi_os_sleep_ms(int ms);
static int dcpi_os_random(void *bytes, size_t size);
static int dcpi_os_processors(void);
static int dcpi_os_is_separator(const char *path, size_t i);
static void *dcpi_os_pages(size_t size);
static void dcpi_os_pages_free(void *memory, size_t size);
static dcp_status dcpi_os_status(int sys);
static int dcpi_os_is_transient(int sys);                /* EAGAIN, EBUSY, ETIMEDOUT, ESTALE, EIO, EINTR and their like */
static void dcpi_os_message(int sys, char *text, size_t capacity);

/* Per system: typedefs dcpi_mutex, dcpi_cond, dcpi_thread, dcpi_base, dcpi_file, DCPI_MUTEX_INITIALIZER for static ones, then

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
static int dcpi_os_list(dcpi_base *base, const char *directory, dcpi_os_each each, void *user);
static int dcpi_os_make_directory(dcpi_base *base, const char *key);
static int dcpi_os_sync_directory(dcpi_base *base, const char *key);
static int dcpi_os_space(dcpi_base *base, const char *key, int64_t *bytes_free);

The mode 0 in dcpi_os_create means 0666 less the umask; otherwise the file gets exactly these permission bits (Windows: no meaning). On
Windows the errors above are their counterparts (ERROR_FILE_EXISTS for EEXIST and so on): compare by dcpi_os_status(), not by number. */


#if !defined(_WIN32)
/* ---- posix: what only some systems have, one small wrapper each; where it is missing it says ENOSYS and the caller goes on without */
#define DCPI_OS_CALL_MOST ((size_t)1 << 30)             /* bytes in one read or write call; some systems refuse more */
#define DCPI_OS_WINDOW ((int64_t)32 * 1024 * 1024)      /* buffered bytes after which writing to the disk is started */
#define DCPI_OS_PART_MOST 255                           /* bytes in one part of a path */

#if defined(O_PATH)
#define DCPI_OS_SEARCH O_PATH                           /* a directory that is only passed through need not be readable */
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
    how.flags = (uint64_t)(flags & ~O_NOFOLLOW);        /* with it a link at the end would be ENOTDIR instead of ELOOP */
    how.mode = 0;
    how.resolve = 0x08 | 0x04;                          /* RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS */
    return (int)syscall(DCPI_OS_OPENAT2, dir, path, &how, sizeof how);
#else
    (void)dir; (void)path; (void)flags;
    errno = ENOSYS;
    return -1;
#endif
}
/* KEEP_SIZE: should fewer bytes be written than announced, the file still ends where its data ends. No emulation by writing zeros. */
static int dcpi_os_allocate(int fd, int64_t size) { return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) == 0 ? 0 : errno; }

/* Does the file system say that direct I/O cannot work with our alignment? Kernels before 6.1 and some file systems say nothing: 1, try. */
static int dcpi_os_direct_possible(int fd) {
#ifdef SYS_statx
    uint32_t words[64] = {0};                           /* struct statx, 256 bytes, without asking the libc how much of it it knows */
    const unsigned dioalign = 0x2000;                   /* STATX_DIOALIGN */
    if (syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, dioalign, words) != 0 || !(words[0] & dioalign)) return 1;
    return words[38] != 0 && words[38] <= DCPI_OS_DIRECT_ALIGN && words[39] != 0 && words[39] <= DCPI_OS_DIRECT_ALIGN;  /* memory, offset */
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

/* Starts writing dirty pages to the disk and does not wait: the sync at the end then finds little left to do. Only a hint. */
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
static int dcpi_os_flush_call(int fd) { return fdatasync(fd); }         /* a size that grew is data for this call, so nothing is missing */

#else /* not Linux */
static int dcpi_os_openat2(int dir, const char *path, int flags) { (void)dir; (void)path; (void)flags; errno = ENOSYS; return -1; }
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
static const char *dcpi_os_words(int sys, char *text, size_t capacity) { return strerror_r(sys, text, capacity); }     /* the GNU form */
#else
static const char *dcpi_os_words(int sys, char *text, size_t capacity) { return strerror_r(sys, text, capacity) == 0 ? text : ""; }
#endif

/* ---- posix: clocks, the machine, memory, errors ------------------------------------------------------------------------------ */
static int dcpi_os_shut(int fd, int error) {            /* closes on the way out; `error` was read before close could change errno */
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
    memset(bytes, 0, size);                             /* tools that watch for uninitialised memory do not see the kernel write */
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
    if (count < 1) count = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);     /* the mask can be larger than a cpu_set_t on the biggest machines */
    return count < 1 ? 1 : (int)dcpi_min(count, INT_MAX);
}
/* From two huge pages up the memory starts at one and asks for more: direct I/O pins it page by page, which costs as much as the copy. */
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

static dcp_status dcpi_os_status(int sys) {             /* a chain, not a switch: some of these are one number on some systems */
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
static int dcpi_os_is_transient(int sys) {
    static const int transient[] = {EAGAIN, EBUSY, ETIMEDOUT, ESTALE, EIO, EINTR, ENETDOWN, ENETUNREACH, ENETRESET, ECONNABORTED,
                                    ECONNRESET, ECONNREFUSED, ENOTCONN, EHOSTDOWN, EHOSTUNREACH};
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

/* ---- posix: threads ---------------------------------------------------------------------------------------------------------- */
#if DCPI_THREADS
typedef pthread_mutex_t dcpi_mutex;
typedef pthread_cond_t dcpi_cond;
typedef struct dcpi_thread { pthread_t id; dcpi_thread_fn fn; void *argument; } dcpi_thread;    /* stays where it is until it is joined */

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
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);   /* someone who sets the clock must not end or prolong a wait */
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
/* The program's signals are handled on the program's own threads. Only what a thread's own doing raises stays: crash reporters and
 * sandboxes want it. */
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
    if (pthread_attr_getstacksize(attributes, &size) == 0 && size < least) (void)pthread_attr_setstacksize(attributes, least);
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
static int dcpi_thread_start(dcpi_thread *t, dcpi_thread_fn fn, void *argument) { (void)t; (void)fn; (void)argument; return ENOSYS; }
static void dcpi_thread_join(dcpi_thread *t) { (void)t; }
#endif

/* ---- posix: descriptors. Functions that return one return -1 and set errno, as the system's do ------------------------------- */
typedef struct dcpi_base { int fd; } dcpi_base;
typedef struct dcpi_file {
    int fd;
    int direct;                         /* a second descriptor on the same file, opened with O_DIRECT; -1: there is none */
    int64_t direct_align;               /* offsets and sizes that may go direct */
    int64_t reserved;                   /* bytes asked of the file system in advance */
    volatile int buffered;              /* set by any thread: direct I/O was refused, never try again */
    volatile int failed;                /* set by any thread: the first error of a sync, which no later call may hide (G3) */
} dcpi_file;

/* Both fill in zeros first: MemorySanitizer does not know every libc's stat. Neither follows a link. */
static int dcpi_os_stat_fd(int fd, struct stat *st) {
    memset(st, 0, sizeof *st);
    return fstat(fd, st) == 0 ? 0 : errno;
}
static int dcpi_os_stat_at(int dir, const char *name, struct stat *st) {
    memset(st, 0, sizeof *st);
    return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}
static int dcpi_os_is_link(int dir, const char *name) {
    struct stat st;
    return dcpi_os_stat_at(dir, name, &st) == 0 && S_ISLNK(st.st_mode);
}
/* Systems disagree about what O_NOFOLLOW says at a symbolic link (ELOOP, ENOTDIR with O_DIRECTORY, EMLINK, EFTYPE): here it is ELOOP. */
static int dcpi_os_openat(int dir, const char *name, int flags, mode_t mode) {
    int fd;
    do fd = openat(dir, name, flags | O_CLOEXEC, mode); while (fd < 0 && errno == EINTR);
    if (fd < 0 && (flags & O_NOFOLLOW) && errno != ENOENT && errno != EEXIST) {
        int error = errno;
        errno = dcpi_os_is_link(dir, name) ? ELOOP : error;
    }
    return fd;
}
static int dcpi_os_flush(int fd) {                      /* EINTR: nothing was given up yet, so only that one is tried again (G3) */
    int result;
    do result = dcpi_os_flush_call(fd); while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}
/* File systems that cannot sync a directory say EINVAL or EBADF: here that is ENOTSUP, so that a storage can report "not durable". */
static int dcpi_os_flush_directory(int fd) {
    int error = dcpi_os_flush(fd);
    return error == EINVAL || error == EBADF || error == ENOSYS || error == EOPNOTSUPP ? ENOTSUP : error;
}
/* Makes the entry of an open directory durable. A parent that may not be read, or cannot be synced, is as far as one can go: no error. */
static int dcpi_os_sync_parent(int dir) {
    int error, parent = dcpi_os_openat(dir, "..", O_RDONLY | O_DIRECTORY, 0);
    if (parent < 0) return errno == EACCES || errno == EPERM ? 0 : errno;
    error = dcpi_os_flush_directory(parent);
    return dcpi_os_shut(parent, error == ENOTSUP || error == EROFS ? 0 : error);
}

/* ---- posix: directories ------------------------------------------------------------------------------------------------------ */
typedef enum dcpi_os_make { DCPI_OS_MAKE_NONE, DCPI_OS_MAKE, DCPI_OS_MAKE_DURABLE } dcpi_os_make;

static volatile int dcpi_os_no_openat2;                 /* found out once in a process; two threads may both find out */

static int dcpi_os_enter(int dir, const char *part, int flags, dcpi_os_make make) {
    int error, fd = dcpi_os_openat(dir, part, flags, 0);
    if (fd >= 0 || errno != ENOENT || make == DCPI_OS_MAKE_NONE) return fd;
    if (mkdirat(dir, part, 0777) != 0 && errno != EEXIST) return -1;    /* EEXIST: another process made it, perhaps without a sync as yet */
    fd = dcpi_os_openat(dir, part, flags, 0);
    if (fd < 0 || make != DCPI_OS_MAKE_DURABLE) return fd;
    error = dcpi_os_sync_parent(fd);
    if (error == 0) return fd;
    errno = dcpi_os_shut(fd, error);
    return -1;
}
/* Opens path[0..length) part by part from dir, or from the root. With O_NOFOLLOW in flags no part may be a symbolic link. The generic way:
 * it works on every system, takes paths of any length, and makes what is missing. */
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
        if (n == 0 || next < 0) return next;            /* behind the last part: once more, as the caller wants it opened */
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
    return dcpi_os_walk(dir, key, length, flags, make);  /* an old kernel, a sandbox that says EPERM, or something is to be made */
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
    if (out->fd < 0 && errno == ENOENT) out->fd = dcpi_os_walk(AT_FDCWD, path, strlen(path), flags, DCPI_OS_MAKE_DURABLE);
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

/* ---- posix: names ------------------------------------------------------------------------------------------------------------ */
static int64_t dcpi_os_modified_ns(const struct stat *st) {             /* saturates in the year 2262, which file systems outlive */
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
static int dcpi_os_remove(dcpi_base *base, const char *key) {
    const char *name;
    int dir = dcpi_os_parent(base, key, DCPI_OS_MAKE_NONE, &name);
    if (dir < 0) return errno;
    return dcpi_os_shut(dir, unlinkat(dir, name, 0) == 0 ? 0 : errno);
}
static int dcpi_os_same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

static int dcpi_os_is_same(int a_dir, const char *a, int b_dir, const char *b) {
    struct stat first, second;
    if (dcpi_os_stat_at(a_dir, a, &first) != 0 || dcpi_os_stat_at(b_dir, b, &second) != 0) return 0;
    return dcpi_os_same_file(&first, &second);
}
/* Where rename cannot refuse an existing target, link can: it makes the second name or fails, in one step. A server's answer may get lost,
 * and the repeated request then says EEXIST of our own success: so a failed link counts when both names are one file. Where there is no
 * link either, nothing safe is left. The name that stays when unlink fails is a leftover like any other: the publishing has happened. */
static int dcpi_os_link_exclusive(int from_dir, const char *from, int to_dir, const char *to) {
    if (linkat(from_dir, from, to_dir, to, 0) != 0) {
        int error = errno;
        if (!dcpi_os_is_same(from_dir, from, to_dir, to))
            return error == EPERM || error == EOPNOTSUPP || error == ENOTSUP || error == EMLINK || error == ENOSYS ? ENOTSUP : error;
    }
    (void)unlinkat(from_dir, from, 0);
    return 0;
}
static int dcpi_os_move(int from_dir, const char *from, int to_dir, const char *to, int replace) {
    int error;
    if (replace) return renameat(from_dir, from, to_dir, to) == 0 ? 0 : errno;
    error = dcpi_os_rename_exclusive(from_dir, from, to_dir, to);
    if (error != ENOSYS && error != EINVAL && error != ENOTSUP && error != EOPNOTSUPP) return error;
    return dcpi_os_link_exclusive(from_dir, from, to_dir, to);
}
static int dcpi_os_publish(dcpi_base *base, const char *from, const char *to, int replace) {
    const char *from_name, *to_name;
    int to_dir, from_dir = dcpi_os_parent(base, from, DCPI_OS_MAKE_NONE, &from_name);
    if (from_dir < 0) return errno;
    to_dir = dcpi_os_parent(base, to, DCPI_OS_MAKE_NONE, &to_name);
    if (to_dir < 0) return dcpi_os_shut(from_dir, errno);
    return dcpi_os_shut(from_dir, dcpi_os_shut(to_dir, dcpi_os_move(from_dir, from_name, to_dir, to_name, replace)));
}
static int dcpi_os_list_entry(int fd, const char *name, dcpi_os_each each, void *user) {
    dcp_object_info info;
    struct stat st;
    int error = dcpi_os_stat_at(fd, name, &st);
    if (error) return error == ENOENT ? 0 : error;      /* gone since the directory was read: not there */
    return dcpi_os_check_regular(&st, &info) == 0 ? each(user, name, &info) : 0;
}
static int dcpi_os_list(dcpi_base *base, const char *directory, dcpi_os_each each, void *user) {
    int error = 0, fd = dcpi_os_directory(base->fd, directory, strlen(directory), O_RDONLY, DCPI_OS_MAKE_NONE);
    DIR *stream;
    if (fd < 0) return errno;
    stream = fdopendir(fd);
    if (!stream) return dcpi_os_shut(fd, errno);
    while (!error) {
        struct dirent *entry;
        errno = 0;                                      /* the end and an error look the same otherwise */
        entry = readdir(stream);
        if (!entry) { error = errno; break; }
#ifdef DT_UNKNOWN                                       /* spares a stat of what is surely not a regular file */
        if (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN) continue;
#endif
        error = dcpi_os_list_entry(fd, entry->d_name, each, user);
    }
    (void)closedir(stream);                             /* closes fd too */
    return error;
}

/* ---- posix: files ------------------------------------------------------------------------------------------------------------ */
static void dcpi_os_file_clear(dcpi_file *file) {
    memset(file, 0, sizeof *file);
    file->fd = -1;
    file->direct = -1;
}
/* Only what would make the save fail later counts. A file system that cannot reserve is as good as one that can. */
static int dcpi_os_reserve(dcpi_file *file, int64_t size) {
    int64_t available = 0;
    int error;
    if (dcpi_os_is_memory(file->fd)) return dcpi_os_free_bytes(file->fd, &available) == 0 && available < size ? ENOSPC : 0;
    do error = dcpi_os_allocate(file->fd, size); while (error == EINTR);
    if (error == 0) file->reserved = size;
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? error : 0;
}
/* A block must not be written direct while its neighbour in the same page of the cache is written buffered, or stale bytes could come back:
 * so the unit is a page where pages are larger than 4 KiB. */
static void dcpi_os_try_direct(dcpi_file *file, int dir, const char *name) {
    struct stat plain, direct;
    if (dcpi_os_is_memory(file->fd) || !dcpi_os_direct_possible(file->fd)) return;
    file->direct = dcpi_os_open_uncached(dir, name);
    if (file->direct < 0) return;
    file->direct_align = dcpi_max(DCPI_OS_DIRECT_ALIGN, (int64_t)sysconf(_SC_PAGESIZE));
    if (dcpi_os_stat_fd(file->fd, &plain) == 0 && dcpi_os_stat_fd(file->direct, &direct) == 0 && dcpi_os_same_file(&plain, &direct)) return;
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
    if (!error && mode && fchmod(out->fd, (mode_t)(mode & 07777)) != 0) error = errno;      /* exactly these bits, whatever the umask */
    if (error) {
        (void)unlinkat(dir, name, 0);
        if (out->direct >= 0) (void)close(out->direct);
        (void)close(out->fd);
        dcpi_os_file_clear(out);
    }
    return dcpi_os_shut(dir, error);
}
/* O_NONBLOCK: opening a FIFO must not wait for its other side. What it is is asked of the descriptor, so nobody can exchange it in between. */
static int dcpi_os_open_regular(int dir, const char *name, int flags, dcpi_file *out, dcp_object_info *info) {
    struct stat st;
    int error;
    out->fd = dcpi_os_openat(dir, name, flags | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
    if (out->fd < 0) return errno == ENXIO || errno == ENODEV ? EINVAL : errno;         /* a socket; a device without a driver */
    error = dcpi_os_stat_fd(out->fd, &st);
    if (!error) error = dcpi_os_check_regular(&st, info);
    if (!error && fcntl(out->fd, F_SETFL, 0) != 0) error = errno;       /* file systems that fetch from tape heed O_NONBLOCK: off again */
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
        ssize_t n = pwrite(fd, bytes + *done, left < DCPI_OS_CALL_MOST ? left : DCPI_OS_CALL_MOST, (off_t)(offset + (int64_t)*done));
        if (n > 0) *done += (size_t)n;
        else if (n == 0) return EIO;                    /* the system promises progress or an error: do not wait for either for ever */
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
/* Each time buffered writing comes past the end of a window, the disk may begin with it. No counter: threads write in any order. */
static void dcpi_os_note_progress(dcpi_file *file, int64_t from, int64_t to) {
    const int64_t first = from / DCPI_OS_WINDOW, last = to / DCPI_OS_WINDOW;
    if (last > first) dcpi_os_write_behind(file->fd, first * DCPI_OS_WINDOW, (last - first) * DCPI_OS_WINDOW);
}
static int dcpi_os_write(dcpi_file *file, int64_t offset, const void *data, size_t size) {
    const size_t direct = dcpi_os_direct_part(file, offset, data, size);
    size_t done = 0, before;
    int64_t end;
    int error;
    if (!dcpi_add(offset, (int64_t)size, &end)) return EFBIG;
    error = dcpi_os_write_all(file->direct, offset, (const char *)data, direct, &done);
    if (error == EINVAL) dcpi_flag_set(&file->buffered, 1);     /* this file system takes it at open and refuses it here: go on without */
    else if (error) return error;
    before = done;
    error = dcpi_os_write_all(file->fd, offset, (const char *)data, size, &done);
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
        ssize_t n = pread(file->fd, bytes + done, left < DCPI_OS_CALL_MOST ? left : DCPI_OS_CALL_MOST, (off_t)(offset + (int64_t)done));
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
    if (size < 0 || (uint64_t)size > SIZE_MAX) return ENOMEM;           /* no room for it among the addresses of this machine */
    error = dcpi_os_stat_fd(file->fd, &st);
    if (error) return error;
    if (st.st_size < size) return DCPI_OS_SHORT;                        /* touching what is not there would be a SIGBUS */
    memory = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (memory == MAP_FAILED) return errno;
    *data = memory;
    return 0;
}
static void dcpi_os_unmap(const void *data, int64_t size) { if (data) (void)munmap((void *)(uintptr_t)data, (size_t)size); }

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
static int dcpi_os_close_one(int fd, int error) {       /* the first error stays; after EINTR the descriptor is gone all the same */
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
#endif /* posix */


#if defined(_WIN32)
/* ---- windows: clocks, the machine, memory ------------------------------------------------------------------------------------ */
#define DCPI_OS_CALL_MOST ((size_t)1 << 30)             /* bytes in one read or write call: it takes a DWORD */

static int64_t dcpi_os_monotonic_ms(void) {
    LARGE_INTEGER count, frequency;
    if (!QueryPerformanceCounter(&count) || !QueryPerformanceFrequency(&frequency)) return 0;   /* cannot fail on Windows XP and later */
    return count.QuadPart / frequency.QuadPart * 1000 + count.QuadPart % frequency.QuadPart * 1000 / frequency.QuadPart;
}
/* Windows counts units of 100 ns from the year 1601. Saturates, like the POSIX side. */
static int64_t dcpi_os_since_1970(FILETIME time, int64_t units_per_tick, int64_t ticks_per_unit) {
    const int64_t ticks = (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime) - INT64_C(116444736000000000);
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

static int dcpi_os_last(void) {                         /* never 0: a call that failed has failed, whatever it says about the reason */
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
/* A colon separates only after a drive's letter: "C:x" is x in the current directory of C. Elsewhere it begins the name of a stream. */
static int dcpi_os_is_separator(const char *path, size_t i) {
    const char drive = (char)(path[0] | 0x20);
    return path[i] == '/' || path[i] == '\\' || (path[i] == ':' && i == 1 && drive >= 'a' && drive <= 'z');
}
static int dcpi_os_processors(void) {
    DWORD_PTR mine = 0, all = 0;
    int count = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all)) return 1;
    for (; mine != 0; mine &= mine - 1) count++;
    return count > 0 ? count : 1;                       /* 0: the process spans several groups of 64, which four workers need not know */
}
static void *dcpi_os_pages(size_t size) { return size ? VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) : NULL; }
static void dcpi_os_pages_free(void *memory, size_t size) {
    (void)size;
    if (memory) (void)VirtualFree(memory, 0, MEM_RELEASE);
}

/* ---- windows: errors --------------------------------------------------------------------------------------------------------- */
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
    static const int space[] = {ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED, ERROR_FILE_TOO_LARGE};
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
static int dcpi_os_is_transient(int sys) {              /* sharing violations: virus scanners and indexers hold a new file for an instant */
    static const int transient[] = {
        ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION, ERROR_USER_MAPPED_FILE, ERROR_BUSY, ERROR_NETWORK_BUSY, ERROR_SEM_TIMEOUT,
        WAIT_TIMEOUT, ERROR_IO_DEVICE, ERROR_CRC, ERROR_READ_FAULT, ERROR_WRITE_FAULT, ERROR_NETNAME_DELETED, ERROR_UNEXP_NET_ERR,
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
    while (count > 0 && (wide[count - 1] <= L' ' || wide[count - 1] == L'.')) count--;          /* it ends in a stop and a new line */
    if (count > 0) length = WideCharToMultiByte(CP_UTF8, 0, wide, (int)count, narrow, (int)sizeof narrow, NULL, NULL);
    if (length > 0) (void)snprintf(text, capacity, "%.*s", length, narrow);
    else (void)snprintf(text, capacity, "system error %d", sys);
}

/* ---- windows: threads -------------------------------------------------------------------------------------------------------- */
#if DCPI_THREADS
typedef SRWLOCK dcpi_mutex;
typedef CONDITION_VARIABLE dcpi_cond;
typedef struct dcpi_thread { HANDLE handle; dcpi_thread_fn fn; void *argument; } dcpi_thread;   /* stays where it is until it is joined */

#define DCPI_MUTEX_INITIALIZER SRWLOCK_INIT
static int dcpi_mutex_init(dcpi_mutex *m) { InitializeSRWLock(m); return 0; }
static void dcpi_mutex_destroy(dcpi_mutex *m) { (void)m; }
static void dcpi_mutex_lock(dcpi_mutex *m) { AcquireSRWLockExclusive(m); }
static void dcpi_mutex_unlock(dcpi_mutex *m) { ReleaseSRWLockExclusive(m); }
static int dcpi_cond_init(dcpi_cond *c) { InitializeConditionVariable(c); return 0; }
static void dcpi_cond_destroy(dcpi_cond *c) { (void)c; }
static void dcpi_cond_wait_ms(dcpi_cond *c, dcpi_mutex *m, int ms) { (void)SleepConditionVariableSRW(c, m, ms > 0 ? (DWORD)ms : 0, 0); }
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

/* ---- windows: paths. UTF-8 outside, UTF-16 inside, always absolute with the prefix \\?\: no limit of 260, no guessing by the system  */
typedef struct dcpi_base { wchar_t *path; } dcpi_base;  /* ends in '\' only where it is a root */
typedef struct dcpi_file {
    HANDLE handle;
    volatile int failed;                /* set by any thread: the first error of a sync, which no later call may hide (G3) */
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
/* CON, NUL, COM1 and so on are devices in every directory, also with an extension and with spaces before it. */
static int dcpi_os_is_device(const char *part, size_t length) {
    static const char *const names[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "COM#", "LPT#"};
    size_t stem = 0, i, k;
    while (stem < length && part[stem] != '.') stem++;
    while (stem > 0 && part[stem - 1] == ' ') stem--;
    if (stem == 5 && (unsigned char)part[3] == 0xC2 && strchr("\xB9\xB2\xB3", part[4])) stem = 4;     /* superscript digits too */
    for (i = 0; i < DCPI_COUNT(names); i++) {
        if (strlen(names[i]) != stem) continue;
        for (k = 0; k < stem; k++) {
            const char c = part[k] >= 'a' && part[k] <= 'z' ? (char)(part[k] - 'a' + 'A') : part[k];
            if (names[i][k] == '#' ? !((c >= '0' && c <= '9') || (unsigned char)c == 0xC2) : c != names[i][k]) break;
        }
        if (k == stem) return 1;
    }
    return 0;
}
/* Behind \\?\ the system takes every name literally, even those that no other program could open or delete again: they are refused here. */
static int dcpi_os_part_is_valid(const char *part, size_t length) {
    size_t i;
    if (length == 0 || part[length - 1] == '.' || part[length - 1] == ' ') return 0;
    for (i = 0; i < length; i++) if ((unsigned char)part[i] < 0x20 || strchr("<>:\"\\|?*", part[i])) return 0;
    return !dcpi_os_is_device(part, length);
}
static int dcpi_os_key_is_valid(const char *key) {
    for (;;) {
        const size_t length = strcspn(key, "/");
        if (!dcpi_os_part_is_valid(key, length)) return 0;
        if (key[length] == '\0') return 1;
        key += length + 1;
    }
}
/* A symbolic link or a junction. Other reparse points (compressed, deduplicated, in the cloud) are files like any other. */
static int dcpi_os_is_link(const wchar_t *path) {
    WIN32_FIND_DATAW found;
    HANDLE search = FindFirstFileW(path, &found);
    if (search == INVALID_HANDLE_VALUE) return 0;       /* nothing there: whoever opens it will see */
    (void)FindClose(search);
    return (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) && (found.dwReserved0 & 0x20000000);     /* a name surrogate */
}
/* The path of a key beneath the base ("": the base), with room for `more` characters. No directory on the way may be a link: Win32 cannot
 * open relative to a handle, so this is checked before the file is opened; who may exchange directories in between is not kept out. */
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

/* ---- windows: directories ---------------------------------------------------------------------------------------------------- */
/* NTFS takes a flush of a directory. Where it is refused, a journal and publishing with write-through do the same; without a journal it is
 * ERROR_NOT_SUPPORTED, so that a storage can report "not durable". */
static int dcpi_os_flush_directory(const wchar_t *path) {
    static const int refused[] = {ERROR_ACCESS_DENIED, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER};
    DWORD features = 0;
    int error = 0;
    HANDLE handle = CreateFileW(path, GENERIC_WRITE, DCPI_OS_SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
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
    if (length == 0 || length >= capacity || wcsncmp(full + 8, L"\\\\.\\", 4) == 0) return dcpi_os_path_done(full, ERROR_BAD_PATHNAME);
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
            if (error == ERROR_ALREADY_EXISTS) error = dcpi_os_is_directory(path) ? 0 : ERROR_DIRECTORY;    /* made meanwhile; a file */
            if (!error && durable) error = dcpi_os_sync_parent(path, i);
        }
        path[i] = c;
        if (error || c == L'\0') return error;
    }
}
static int dcpi_os_base_open(const char *path, int create, dcpi_base *out) {
    int error = dcpi_os_absolute(path, &out->path);
    if (error) return error;
    if (create) {
        error = dcpi_os_make_all(out->path, dcpi_os_root_length(out->path), 1);
        if (!error) error = dcpi_os_sync_parent(out->path, wcslen(out->path));  /* always: who made it may have died before its own sync */
    } else if (!dcpi_os_is_directory(out->path)) {
        error = GetFileAttributesW(out->path) == INVALID_FILE_ATTRIBUTES ? dcpi_os_last() : ERROR_DIRECTORY;
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
    else if (!dcpi_os_is_directory(path)) error = GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES ? dcpi_os_last() : ERROR_DIRECTORY;
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

/* ---- windows: files ---------------------------------------------------------------------------------------------------------- */
static void dcpi_os_file_clear(dcpi_file *file) {
    file->handle = INVALID_HANDLE_VALUE;
    file->failed = 0;
}
static int64_t dcpi_os_join64(DWORD high, DWORD low) { return (int64_t)((uint64_t)high << 32 | low); }

/* Only what would make the save fail later counts. The reservation does not change the size, and close gives back what was not written. */
static int dcpi_os_reserve(HANDLE handle, int64_t size) {
    FILE_ALLOCATION_INFO wanted;
    int error;
    wanted.AllocationSize.QuadPart = size;
    if (SetFileInformationByHandle(handle, FileAllocationInfo, &wanted, sizeof wanted)) return 0;
    error = dcpi_os_last();
    return dcpi_os_status(error) == DCP_E_SPACE ? error : 0;
}
static HANDLE dcpi_os_create_new(const wchar_t *path) {
    return CreateFileW(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
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
        if (!WriteFile(file->handle, bytes, (DWORD)(size < DCPI_OS_CALL_MOST ? size : DCPI_OS_CALL_MOST), &n, &at)) return dcpi_os_last();
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
/* BACKUP_SEMANTICS opens directories too, so that they can be told from files that may not be read. OPEN_REPARSE_POINT opens a link itself,
 * to be refused, and for the files that only look like one (deduplicated and the like) the call is made again without it. */
static int dcpi_os_open_regular(dcpi_base *base, const char *key, DWORD access, HANDLE *out, BY_HANDLE_FILE_INFORMATION *found) {
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
    if (size < 0 || (uint64_t)size > SIZE_MAX) return ERROR_NOT_ENOUGH_MEMORY;      /* no room for it among the addresses of this machine */
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

/* ---- windows: names ---------------------------------------------------------------------------------------------------------- */
/* Replaces a target that a reader has open, which MoveFileEx cannot: the reader goes on with the old file, as on POSIX. From Windows 10 on,
 * on NTFS; where it does not exist the first error stands. */
static int dcpi_os_replace_open(const wchar_t *from, const wchar_t *to, int first_error) {
    typedef struct { DWORD flags; HANDLE root; DWORD name_size; WCHAR name[1]; } rename_info;   /* FILE_RENAME_INFO of newer systems */
    const size_t name_size = wcslen(to) * sizeof *to, size = sizeof(rename_info) + name_size;
    rename_info *info = (rename_info *)dcpi_alloc_array(1, size, NULL);
    HANDLE handle = CreateFileW(from, DELETE | SYNCHRONIZE, DCPI_OS_SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_WRITE_THROUGH, NULL);
    int moved = 0;
    if (info && handle != INVALID_HANDLE_VALUE) {
        info->flags = 0x1 | 0x2;                        /* FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS */
        info->name_size = (DWORD)name_size;
        memcpy(info->name, to, name_size);
        moved = SetFileInformationByHandle(handle, (FILE_INFO_BY_HANDLE_CLASS)22 /* FileRenameInfoEx */, info, (DWORD)size) != 0;
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
/* Size and time are those of the directory entry: of a file that is being written they may lag behind until it is closed. */
static int dcpi_os_list_entry(const WIN32_FIND_DATAW *found, dcpi_os_each each, void *user) {
    char name[3 * MAX_PATH + 1];
    dcp_object_info info;
    if (found->dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) return 0;
    if ((found->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) && (found->dwReserved0 & 0x20000000)) return 0;     /* a link */
    if (WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, found->cFileName, -1, name, (int)sizeof name, NULL, NULL) <= 0) return 0;
    info.size = dcpi_os_join64(found->nFileSizeHigh, found->nFileSizeLow);
    info.modified_ns = dcpi_os_since_1970(found->ftLastWriteTime, 100, 1);
    return each(user, name, &info);
}
static int dcpi_os_list(dcpi_base *base, const char *directory, dcpi_os_each each, void *user) {
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
        do error = dcpi_os_list_entry(&found, each, user); while (!error && FindNextFileW(search, &found));
        if (!error && GetLastError() != ERROR_NO_MORE_FILES) error = dcpi_os_last();
        (void)FindClose(search);
    }
    return dcpi_os_path_done(path, error);
}
#endif /* windows */

/* ================================================================================================================================
 * >>sha256      SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): a stream, one buffer, and many buffers at once.
 *
 * One SHA-256 is a chain: each block needs the state that the block before it left. One stream therefore cannot use a whole core, and the
 * fast way is to hash several independent strings side by side, in the lanes of a vector register. That is why the format cuts tensors
 * into leaves of 256 KiB, and why dcpi_sha_many() is what the engine calls.
 *
 *   kernel     lanes  needs                         GB/s on one core (AMD Zen 5; gcc 12 -O2; 16 strings of 256 KiB)
 *   PORTABLE   1      C                             0.50
 *   NI         1      SHA extensions (x86)          2.1
 *   NI2        2      the same, two interleaved     3.3
 *   AVX2       8      AVX2                          1.6
 *   AVX512     16     AVX-512 F and BW              4.1
 *   ARMV8      1      SHA-2 extensions (aarch64)    not measured
 *
 * Layers, bottom-up: block kernels; what the processor can do; the stream; the batch, which keeps the lanes full; the public functions.
 * ============================================================================================================================== */
enum dcpi_sha_kernel {
    DCPI_SHA_AUTO,                      /* the best one here, always usable */
    DCPI_SHA_PORTABLE,
    DCPI_SHA_NI,
    DCPI_SHA_NI2,
    DCPI_SHA_AVX2,
    DCPI_SHA_AVX512,
    DCPI_SHA_ARMV8,
    DCPI_SHA_KERNELS
};

/* A kernel is compiled for more than the rest of the program, so it must not be inlined into it; and a compiler that inlined all of them
 * into one function at -march=native took hours. Its helpers must be inlined, for without that the vectors travel through memory. */
#if DCPI_GNUC
#define DCPI_INLINE static inline __attribute__((always_inline))
#define DCPI_KERNEL(features) static __attribute__((noinline, target(features)))
#define DCPI_KERNEL_INLINE(features) static inline __attribute__((always_inline, target(features)))
#elif defined(_MSC_VER)
#define DCPI_INLINE static __forceinline
#define DCPI_KERNEL(features) static __declspec(noinline)
#define DCPI_KERNEL_INLINE(features) static __forceinline
#else
#define DCPI_INLINE static inline
#endif

/* gcc for Windows does not align the stack to more than 16 bytes, so AVX code may crash there when it spills (gcc bug 54412). */
#if DCPI_X86 && !(defined(__MINGW32__) && !defined(__clang__)) && !(defined(_MSC_VER) && _MSC_VER < 1920)
#define DCPI_SHA_AVX 1
#else
#define DCPI_SHA_AVX 0
#endif

/* clang before 16 hides the intrinsics unless the whole file is compiled for the extensions. */
#if DCPI_ARM64 && (defined(__ARM_FEATURE_SHA2) || defined(__ARM_FEATURE_CRYPTO))
#define DCPI_SHA_ARM 1
#define DCPI_KERNEL_ARM static __attribute__((noinline))
#elif DCPI_ARM64 && defined(__clang__) && __clang_major__ >= 16
#define DCPI_SHA_ARM 1
#define DCPI_KERNEL_ARM static __attribute__((noinline, target("sha2")))
#elif DCPI_ARM64 && !defined(__clang__)
#define DCPI_SHA_ARM 1
#define DCPI_KERNEL_ARM static __attribute__((noinline, target("+crypto")))
#else
#define DCPI_SHA_ARM 0
#endif

#define DCPI_SHA_LANES 16               /* the most lanes of any kernel */

/* Takes `blocks` blocks of 64 bytes at data into the state. */
typedef void (*dcpi_sha_one_fn)(uint32_t state[8], const uint8_t *data, size_t blocks);
/* The same in each lane: word w of lane l is state[w][l], its blocks are at data[l]. */
typedef void (*dcpi_sha_lanes_fn)(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks);

static const uint32_t dcpi_sha_initial[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint32_t dcpi_sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* ---- portable kernel ----------------------------------------------------------------------------------------------------------- */
DCPI_INLINE uint32_t dcpi_sha_load(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}
DCPI_INLINE void dcpi_sha_store(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}
DCPI_INLINE uint32_t dcpi_sha_rotate(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

/* Round t of 16. The standard renames a..h after each round; here the words stay and the index turns: a is s[-t], b is s[1 - t], ...
 * With expand, the schedule's word t is made first, in place of the one 16 rounds ago. t and expand are constants once inlined. */
DCPI_INLINE void dcpi_sha_round(uint32_t s[8], uint32_t w[16], const uint32_t *k, unsigned t, int expand) {
    uint32_t a = s[(16 - t) & 7], b = s[(17 - t) & 7], c = s[(18 - t) & 7];
    uint32_t e = s[(20 - t) & 7], f = s[(21 - t) & 7], g = s[(22 - t) & 7], h = s[(23 - t) & 7];
    if (expand) {
        uint32_t x = w[(t + 1) & 15], y = w[(t + 14) & 15];
        w[t] += (dcpi_sha_rotate(x, 7) ^ dcpi_sha_rotate(x, 18) ^ x >> 3) + w[(t + 9) & 15] +
                (dcpi_sha_rotate(y, 17) ^ dcpi_sha_rotate(y, 19) ^ y >> 10);
    }
    h += (dcpi_sha_rotate(e, 6) ^ dcpi_sha_rotate(e, 11) ^ dcpi_sha_rotate(e, 25)) + (g ^ (e & (f ^ g))) + k[t] + w[t];
    s[(19 - t) & 7] += h;
    s[(23 - t) & 7] = h + (dcpi_sha_rotate(a, 2) ^ dcpi_sha_rotate(a, 13) ^ dcpi_sha_rotate(a, 22)) + ((a & b) | (c & (a | b)));
}
DCPI_INLINE void dcpi_sha_16_rounds(uint32_t s[8], uint32_t w[16], const uint32_t *k, int expand) {
    dcpi_sha_round(s, w, k, 0, expand);  dcpi_sha_round(s, w, k, 1, expand);
    dcpi_sha_round(s, w, k, 2, expand);  dcpi_sha_round(s, w, k, 3, expand);
    dcpi_sha_round(s, w, k, 4, expand);  dcpi_sha_round(s, w, k, 5, expand);
    dcpi_sha_round(s, w, k, 6, expand);  dcpi_sha_round(s, w, k, 7, expand);
    dcpi_sha_round(s, w, k, 8, expand);  dcpi_sha_round(s, w, k, 9, expand);
    dcpi_sha_round(s, w, k, 10, expand); dcpi_sha_round(s, w, k, 11, expand);
    dcpi_sha_round(s, w, k, 12, expand); dcpi_sha_round(s, w, k, 13, expand);
    dcpi_sha_round(s, w, k, 14, expand); dcpi_sha_round(s, w, k, 15, expand);
}
static void dcpi_sha_one_portable(uint32_t state[8], const uint8_t *data, size_t blocks) {
    for (; blocks > 0; blocks--, data += 64) {
        uint32_t s[8], w[16];
        unsigned i;
        for (i = 0; i < 8; i++) s[i] = state[i];
        for (i = 0; i < 16; i++) w[i] = dcpi_sha_load(data + 4 * i);
        dcpi_sha_16_rounds(s, w, dcpi_sha_k, 0);
        for (i = 16; i < 64; i += 16) dcpi_sha_16_rounds(s, w, dcpi_sha_k + i, 1);
        for (i = 0; i < 8; i++) state[i] += s[i];
    }
}

/* ---- x86: SHA extensions ------------------------------------------------------------------------------------------------------- */
#if DCPI_X86
#define DCPI_SHA_NI_FEATURES "sha,sse4.1,ssse3"

/* The instruction for two rounds wants the state as two vectors: {f, e, b, a} and {h, g, d, c}, lowest element first. */
typedef struct dcpi_sha_ni_state { __m128i abef, cdgh; } dcpi_sha_ni_state;

DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) __m128i dcpi_sha_ni_k(unsigned t) {
    return _mm_loadu_si128((const __m128i *)(const void *)(dcpi_sha_k + t));
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_load(__m128i w[4], const uint8_t *data) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    const __m128i *from = (const __m128i *)(const void *)data;
    w[0] = _mm_shuffle_epi8(_mm_loadu_si128(from), swap);
    w[1] = _mm_shuffle_epi8(_mm_loadu_si128(from + 1), swap);
    w[2] = _mm_shuffle_epi8(_mm_loadu_si128(from + 2), swap);
    w[3] = _mm_shuffle_epi8(_mm_loadu_si128(from + 3), swap);
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_4_rounds(dcpi_sha_ni_state *s, __m128i w, unsigned t) {
    __m128i kw = _mm_add_epi32(w, dcpi_sha_ni_k(t));
    s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, kw);
    s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(kw, 0x0e));
}
/* The schedule's next four words, from the last sixteen, of which a are the oldest. */
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) __m128i dcpi_sha_ni_expand(__m128i a, __m128i b, __m128i c, __m128i d) {
    return _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), d);
}
/* 16 rounds, and the 16 words that follow those used. */
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_16_rounds(dcpi_sha_ni_state *s, __m128i w[4], unsigned t) {
    dcpi_sha_ni_4_rounds(s, w[0], t);      w[0] = dcpi_sha_ni_expand(w[0], w[1], w[2], w[3]);
    dcpi_sha_ni_4_rounds(s, w[1], t + 4);  w[1] = dcpi_sha_ni_expand(w[1], w[2], w[3], w[0]);
    dcpi_sha_ni_4_rounds(s, w[2], t + 8);  w[2] = dcpi_sha_ni_expand(w[2], w[3], w[0], w[1]);
    dcpi_sha_ni_4_rounds(s, w[3], t + 12); w[3] = dcpi_sha_ni_expand(w[3], w[0], w[1], w[2]);
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_add(dcpi_sha_ni_state *s, dcpi_sha_ni_state before) {
    s->abef = _mm_add_epi32(s->abef, before.abef);
    s->cdgh = _mm_add_epi32(s->cdgh, before.cdgh);
}
/* `stride`: from one word of the state to the next. */
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) dcpi_sha_ni_state dcpi_sha_ni_get(const uint32_t *state, unsigned stride) {
    dcpi_sha_ni_state s;
    s.abef = _mm_set_epi32((int)state[0], (int)state[stride], (int)state[4 * stride], (int)state[5 * stride]);
    s.cdgh = _mm_set_epi32((int)state[2 * stride], (int)state[3 * stride], (int)state[6 * stride], (int)state[7 * stride]);
    return s;
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_put(uint32_t *state, unsigned stride, dcpi_sha_ni_state s) {
    state[0] = (uint32_t)_mm_extract_epi32(s.abef, 3);
    state[stride] = (uint32_t)_mm_extract_epi32(s.abef, 2);
    state[2 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 3);
    state[3 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 2);
    state[4 * stride] = (uint32_t)_mm_extract_epi32(s.abef, 1);
    state[5 * stride] = (uint32_t)_mm_extract_epi32(s.abef, 0);
    state[6 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 1);
    state[7 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 0);
}
DCPI_KERNEL(DCPI_SHA_NI_FEATURES) void dcpi_sha_one_ni(uint32_t state[8], const uint8_t *data, size_t blocks) {
    dcpi_sha_ni_state s = dcpi_sha_ni_get(state, 1);
    for (; blocks > 0; blocks--, data += 64) {
        const dcpi_sha_ni_state before = s;
        __m128i w[4];
        unsigned t;
        dcpi_sha_ni_load(w, data);
        for (t = 0; t < 48; t += 16) dcpi_sha_ni_16_rounds(&s, w, t);
        dcpi_sha_ni_4_rounds(&s, w[0], 48);
        dcpi_sha_ni_4_rounds(&s, w[1], 52);
        dcpi_sha_ni_4_rounds(&s, w[2], 56);
        dcpi_sha_ni_4_rounds(&s, w[3], 60);
        dcpi_sha_ni_add(&s, before);
    }
    dcpi_sha_ni_put(state, 1, s);
}
/* Two streams: while the rounds of one wait for each other, those of the other go on. */
DCPI_KERNEL(DCPI_SHA_NI_FEATURES)
void dcpi_sha_lanes_ni2(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks) {
    dcpi_sha_ni_state a = dcpi_sha_ni_get(&state[0][0], DCPI_SHA_LANES), b = dcpi_sha_ni_get(&state[0][1], DCPI_SHA_LANES);
    size_t i;
    for (i = 0; i < blocks; i++) {
        const dcpi_sha_ni_state before_a = a, before_b = b;
        __m128i u[4], v[4];
        dcpi_sha_ni_load(u, data[0] + 64 * i);
        dcpi_sha_ni_load(v, data[1] + 64 * i);
        dcpi_sha_ni_16_rounds(&a, u, 0);  dcpi_sha_ni_16_rounds(&b, v, 0);
        dcpi_sha_ni_16_rounds(&a, u, 16); dcpi_sha_ni_16_rounds(&b, v, 16);
        dcpi_sha_ni_16_rounds(&a, u, 32); dcpi_sha_ni_16_rounds(&b, v, 32);
        dcpi_sha_ni_4_rounds(&a, u[0], 48); dcpi_sha_ni_4_rounds(&b, v[0], 48);
        dcpi_sha_ni_4_rounds(&a, u[1], 52); dcpi_sha_ni_4_rounds(&b, v[1], 52);
        dcpi_sha_ni_4_rounds(&a, u[2], 56); dcpi_sha_ni_4_rounds(&b, v[2], 56);
        dcpi_sha_ni_4_rounds(&a, u[3], 60); dcpi_sha_ni_4_rounds(&b, v[3], 60);
        dcpi_sha_ni_add(&a, before_a);
        dcpi_sha_ni_add(&b, before_b);
    }
    dcpi_sha_ni_put(&state[0][0], DCPI_SHA_LANES, a);
    dcpi_sha_ni_put(&state[0][1], DCPI_SHA_LANES, b);
}
#endif

#if DCPI_SHA_AVX
/* ---- x86: AVX2, eight lanes ---------------------------------------------------------------------------------------------------- */
#define DCPI_SHA_AVX2_FEATURES "avx2"

DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) __m256i dcpi_sha_avx2_rotate(__m256i x, int n) {
    return _mm256_or_si256(_mm256_srli_epi32(x, n), _mm256_slli_epi32(x, 32 - n));
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) __m256i dcpi_sha_avx2_xor3(__m256i x, __m256i y, __m256i z) {
    return _mm256_xor_si256(_mm256_xor_si256(x, y), z);
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) __m256i dcpi_sha_avx2_expand(const __m256i w[16], unsigned t) {
    __m256i x = w[(t + 1) & 15], y = w[(t + 14) & 15];
    __m256i p = dcpi_sha_avx2_xor3(dcpi_sha_avx2_rotate(x, 7), dcpi_sha_avx2_rotate(x, 18), _mm256_srli_epi32(x, 3));
    __m256i q = dcpi_sha_avx2_xor3(dcpi_sha_avx2_rotate(y, 17), dcpi_sha_avx2_rotate(y, 19), _mm256_srli_epi32(y, 10));
    return _mm256_add_epi32(_mm256_add_epi32(w[t], w[(t + 9) & 15]), _mm256_add_epi32(p, q));
}
/* As dcpi_sha_round. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES)
void dcpi_sha_avx2_round(__m256i s[8], __m256i w[16], const uint32_t *k, unsigned t, int expand) {
    __m256i a = s[(16 - t) & 7], b = s[(17 - t) & 7], c = s[(18 - t) & 7];
    __m256i e = s[(20 - t) & 7], f = s[(21 - t) & 7], g = s[(22 - t) & 7], h = s[(23 - t) & 7];
    __m256i sum1, choose, sum0, majority;
    if (expand) w[t] = dcpi_sha_avx2_expand(w, t);
    h = _mm256_add_epi32(h, _mm256_add_epi32(w[t], _mm256_set1_epi32((int)k[t])));
    choose = _mm256_xor_si256(g, _mm256_and_si256(e, _mm256_xor_si256(f, g)));
    h = _mm256_add_epi32(h, choose);
    sum1 = dcpi_sha_avx2_rotate(e, 6);
    sum1 = _mm256_xor_si256(sum1, dcpi_sha_avx2_rotate(e, 11));
    sum1 = _mm256_xor_si256(sum1, dcpi_sha_avx2_rotate(e, 25));
    h = _mm256_add_epi32(h, sum1);
    sum0 = dcpi_sha_avx2_xor3(dcpi_sha_avx2_rotate(a, 2), dcpi_sha_avx2_rotate(a, 13), dcpi_sha_avx2_rotate(a, 22));
    majority = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, _mm256_or_si256(a, b)));
    s[(19 - t) & 7] = _mm256_add_epi32(s[(19 - t) & 7], h);
    s[(23 - t) & 7] = _mm256_add_epi32(h, _mm256_add_epi32(sum0, majority));
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) void dcpi_sha_avx2_16_rounds(__m256i s[8], __m256i w[16], const uint32_t *k, int expand) {
    dcpi_sha_avx2_round(s, w, k, 0, expand);  dcpi_sha_avx2_round(s, w, k, 1, expand);
    dcpi_sha_avx2_round(s, w, k, 2, expand);  dcpi_sha_avx2_round(s, w, k, 3, expand);
    dcpi_sha_avx2_round(s, w, k, 4, expand);  dcpi_sha_avx2_round(s, w, k, 5, expand);
    dcpi_sha_avx2_round(s, w, k, 6, expand);  dcpi_sha_avx2_round(s, w, k, 7, expand);
    dcpi_sha_avx2_round(s, w, k, 8, expand);  dcpi_sha_avx2_round(s, w, k, 9, expand);
    dcpi_sha_avx2_round(s, w, k, 10, expand); dcpi_sha_avx2_round(s, w, k, 11, expand);
    dcpi_sha_avx2_round(s, w, k, 12, expand); dcpi_sha_avx2_round(s, w, k, 13, expand);
    dcpi_sha_avx2_round(s, w, k, 14, expand); dcpi_sha_avx2_round(s, w, k, 15, expand);
}
/* Transposes 4 x 4 words within each 128-bit half. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) void dcpi_sha_avx2_transpose_words(__m256i x[4]) {
    __m256i a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpackhi_epi32(x[0], x[1]);
    __m256i c = _mm256_unpacklo_epi32(x[2], x[3]), d = _mm256_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi64(a, c);
    x[1] = _mm256_unpackhi_epi64(a, c);
    x[2] = _mm256_unpacklo_epi64(b, d);
    x[3] = _mm256_unpackhi_epi64(b, d);
}
/* Words 0..7 of a block in each of eight lanes become eight vectors, one per word. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) void dcpi_sha_avx2_load(__m256i w[8], const uint8_t *const *data, size_t offset) {
    const __m256i swap = _mm256_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL, 0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m256i row[8];
    unsigned i;
    for (i = 0; i < 8; i++) row[i] = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(data[i] + offset)), swap);
    dcpi_sha_avx2_transpose_words(row);
    dcpi_sha_avx2_transpose_words(row + 4);
    for (i = 0; i < 4; i++) {
        w[i] = _mm256_permute2x128_si256(row[i], row[i + 4], 0x20);
        w[i + 4] = _mm256_permute2x128_si256(row[i], row[i + 4], 0x31);
    }
}
DCPI_KERNEL(DCPI_SHA_AVX2_FEATURES)
void dcpi_sha_lanes_avx2(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks) {
    size_t block;
    for (block = 0; block < blocks; block++) {
        __m256i s[8], w[16];
        unsigned i;
        for (i = 0; i < 8; i++) s[i] = _mm256_loadu_si256((const __m256i *)(const void *)state[i]);
        dcpi_sha_avx2_load(w, data, 64 * block);
        dcpi_sha_avx2_load(w + 8, data, 64 * block + 32);
        dcpi_sha_avx2_16_rounds(s, w, dcpi_sha_k, 0);
        for (i = 16; i < 64; i += 16) dcpi_sha_avx2_16_rounds(s, w, dcpi_sha_k + i, 1);
        for (i = 0; i < 8; i++) {
            __m256i *to = (__m256i *)(void *)state[i];
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), s[i]));
        }
    }
}

/* ---- x86: AVX-512, sixteen lanes ------------------------------------------------------------------------------------------------ */
#define DCPI_SHA_AVX512_FEATURES "avx512f,avx512bw"
#if DCPI_GNUC && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  /* g++ warns of its own intrinsics (gcc bug 105593) */
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) __m512i dcpi_sha_avx512_xor3(__m512i x, __m512i y, __m512i z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0x96);
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) __m512i dcpi_sha_avx512_expand(const __m512i w[16], unsigned t) {
    __m512i x = w[(t + 1) & 15], y = w[(t + 14) & 15];
    __m512i p = dcpi_sha_avx512_xor3(_mm512_ror_epi32(x, 7), _mm512_ror_epi32(x, 18), _mm512_srli_epi32(x, 3));
    __m512i q = dcpi_sha_avx512_xor3(_mm512_ror_epi32(y, 17), _mm512_ror_epi32(y, 19), _mm512_srli_epi32(y, 10));
    return _mm512_add_epi32(_mm512_add_epi32(w[t], w[(t + 9) & 15]), _mm512_add_epi32(p, q));
}
/* As dcpi_sha_round. The truth tables: 0xca is e ? f : g, 0xe8 the majority of three. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES)
void dcpi_sha_avx512_round(__m512i s[8], __m512i w[16], const uint32_t *k, unsigned t, int expand) {
    __m512i a = s[(16 - t) & 7], b = s[(17 - t) & 7], c = s[(18 - t) & 7];
    __m512i e = s[(20 - t) & 7], f = s[(21 - t) & 7], g = s[(22 - t) & 7], h = s[(23 - t) & 7];
    __m512i sum1, choose, sum0, majority;
    if (expand) w[t] = dcpi_sha_avx512_expand(w, t);
    sum1 = dcpi_sha_avx512_xor3(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
    choose = _mm512_ternarylogic_epi32(e, f, g, 0xca);
    sum0 = dcpi_sha_avx512_xor3(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
    majority = _mm512_ternarylogic_epi32(a, b, c, 0xe8);
    h = _mm512_add_epi32(_mm512_add_epi32(h, _mm512_add_epi32(w[t], _mm512_set1_epi32((int)k[t]))), _mm512_add_epi32(sum1, choose));
    s[(19 - t) & 7] = _mm512_add_epi32(s[(19 - t) & 7], h);
    s[(23 - t) & 7] = _mm512_add_epi32(h, _mm512_add_epi32(sum0, majority));
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_16_rounds(__m512i s[8], __m512i w[16], const uint32_t *k, int expand) {
    dcpi_sha_avx512_round(s, w, k, 0, expand);  dcpi_sha_avx512_round(s, w, k, 1, expand);
    dcpi_sha_avx512_round(s, w, k, 2, expand);  dcpi_sha_avx512_round(s, w, k, 3, expand);
    dcpi_sha_avx512_round(s, w, k, 4, expand);  dcpi_sha_avx512_round(s, w, k, 5, expand);
    dcpi_sha_avx512_round(s, w, k, 6, expand);  dcpi_sha_avx512_round(s, w, k, 7, expand);
    dcpi_sha_avx512_round(s, w, k, 8, expand);  dcpi_sha_avx512_round(s, w, k, 9, expand);
    dcpi_sha_avx512_round(s, w, k, 10, expand); dcpi_sha_avx512_round(s, w, k, 11, expand);
    dcpi_sha_avx512_round(s, w, k, 12, expand); dcpi_sha_avx512_round(s, w, k, 13, expand);
    dcpi_sha_avx512_round(s, w, k, 14, expand); dcpi_sha_avx512_round(s, w, k, 15, expand);
}
/* Transposes 4 x 4 words within each 128-bit quarter. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_transpose_words(__m512i x[4]) {
    __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
    __m512i c = _mm512_unpacklo_epi32(x[2], x[3]), d = _mm512_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm512_unpacklo_epi64(a, c);
    x[1] = _mm512_unpackhi_epi64(a, c);
    x[2] = _mm512_unpacklo_epi64(b, d);
    x[3] = _mm512_unpackhi_epi64(b, d);
}
/* Transposes the 4 x 4 quarters of x[0], x[4], x[8] and x[12]. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_transpose_quarters(__m512i *x) {
    __m512i a = _mm512_shuffle_i32x4(x[0], x[4], 0x44), b = _mm512_shuffle_i32x4(x[0], x[4], 0xee);
    __m512i c = _mm512_shuffle_i32x4(x[8], x[12], 0x44), d = _mm512_shuffle_i32x4(x[8], x[12], 0xee);
    x[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    x[4] = _mm512_shuffle_i32x4(a, c, 0xdd);
    x[8] = _mm512_shuffle_i32x4(b, d, 0x88);
    x[12] = _mm512_shuffle_i32x4(b, d, 0xdd);
}
/* A block in each of sixteen lanes becomes sixteen vectors, one per word. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_load(__m512i w[16], const uint8_t *const *data, size_t offset) {
    const __m512i swap = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL));
    unsigned i;
    for (i = 0; i < 16; i++) w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512((const void *)(data[i] + offset)), swap);
    for (i = 0; i < 16; i += 4) dcpi_sha_avx512_transpose_words(w + i);
    for (i = 0; i < 4; i++) dcpi_sha_avx512_transpose_quarters(w + i);
}
DCPI_KERNEL(DCPI_SHA_AVX512_FEATURES)
void dcpi_sha_lanes_avx512(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks) {
    size_t block;
    for (block = 0; block < blocks; block++) {
        __m512i s[8], w[16];
        unsigned i;
        for (i = 0; i < 8; i++) s[i] = _mm512_loadu_si512((const void *)state[i]);
        dcpi_sha_avx512_load(w, data, 64 * block);
        dcpi_sha_avx512_16_rounds(s, w, dcpi_sha_k, 0);
        for (i = 16; i < 64; i += 16) dcpi_sha_avx512_16_rounds(s, w, dcpi_sha_k + i, 1);
        for (i = 0; i < 8; i++)
            _mm512_storeu_si512((void *)state[i], _mm512_add_epi32(_mm512_loadu_si512((const void *)state[i]), s[i]));
    }
}
#if DCPI_GNUC && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

/* ---- aarch64: SHA-2 extensions --------------------------------------------------------------------------------------------------- */
#if DCPI_SHA_ARM
DCPI_KERNEL_ARM void dcpi_sha_one_armv8(uint32_t state[8], const uint8_t *data, size_t blocks) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; blocks > 0; blocks--, data += 64) {
        const uint32x4_t before_abcd = abcd, before_efgh = efgh;
        uint32x4_t w[4];
        unsigned i;
        for (i = 0; i < 4; i++) w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
        for (i = 0; i < 16; i++) {                                      /* four rounds each */
            const uint32x4_t kw = vaddq_u32(w[i & 3], vld1q_u32(dcpi_sha_k + 4 * i)), old = abcd;
            /* w[i & 3] is used up: the schedule's next four words take its place */
            if (i < 12) w[i & 3] = vsha256su1q_u32(vsha256su0q_u32(w[i & 3], w[(i + 1) & 3]), w[(i + 2) & 3], w[(i + 3) & 3]);
            abcd = vsha256hq_u32(abcd, efgh, kw);
            efgh = vsha256h2q_u32(efgh, old, kw);
        }
        abcd = vaddq_u32(abcd, before_abcd);
        efgh = vaddq_u32(efgh, before_efgh);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}
#endif

/* ---- what the processor can do ----------------------------------------------------------------------------------------------------- */
enum {                                  /* a set of bits; 0 means "not asked yet" */
    DCPI_SHA_CPU_ASKED = 1,
    DCPI_SHA_CPU_NI = 2,
    DCPI_SHA_CPU_AVX2 = 4,
    DCPI_SHA_CPU_AVX512 = 8,
    DCPI_SHA_CPU_HALF_512 = 16,         /* runs AVX-512 in two halves: Zen 4 */
    DCPI_SHA_CPU_ARMV8 = 32
};

#if DCPI_X86
static int dcpi_sha_cpuid(unsigned leaf, unsigned r[4]) {               /* eax, ebx, ecx, edx; 0 if there is no such leaf */
#if DCPI_GNUC
    return __get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]);
#else
    int v[4], i;
    __cpuid(v, 0);
    if (leaf > (unsigned)v[0]) return 0;
    __cpuidex(v, (int)leaf, 0);
    for (i = 0; i < 4; i++) r[i] = (unsigned)v[i];
    return 1;
#endif
}
static unsigned dcpi_sha_xcr0(void) {                                   /* which registers the system saves; only with OSXSAVE */
#if DCPI_GNUC
    unsigned low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));    /* xgetbv */
    return low;
#else
    return (unsigned)_xgetbv(0);
#endif
}
/* Zen 4 is AMD's only family 19h with AVX-512; its vector units have 256 bits. Extended families begin at base family 0fh. */
static int dcpi_sha_is_amd_19h(void) {
    unsigned r[4], family;
    if (!dcpi_sha_cpuid(0, r) || r[1] != 0x68747541 || r[3] != 0x69746e65 || r[2] != 0x444d4163) return 0;     /* "AuthenticAMD" */
    if (!dcpi_sha_cpuid(1, r)) return 0;
    family = (r[0] >> 8 & 15) + (r[0] >> 20 & 255);
    return family == 0x19;
}
static int dcpi_sha_ask_cpu(void) {
    const unsigned avx_state = 0x06, avx512_state = 0xe6;               /* XCR0: SSE, AVX; and opmask, both parts of ZMM */
    unsigned one[4], seven[4], xcr0 = 0;
    int cpu = 0;
    if (!dcpi_sha_cpuid(1, one) || !dcpi_sha_cpuid(7, seven)) return 0;
    if (one[2] >> 27 & 1) xcr0 = dcpi_sha_xcr0();
    if ((seven[1] >> 29 & 1) && (one[2] >> 19 & 1) && (one[2] >> 9 & 1)) cpu |= DCPI_SHA_CPU_NI;        /* SHA, SSE4.1, SSSE3 */
    if ((xcr0 & avx_state) == avx_state && (seven[1] >> 5 & 1)) cpu |= DCPI_SHA_CPU_AVX2;
    if ((xcr0 & avx512_state) == avx512_state && (seven[1] >> 16 & 1) && (seven[1] >> 30 & 1)) cpu |= DCPI_SHA_CPU_AVX512; /* F, BW */
    if (dcpi_sha_is_amd_19h()) cpu |= DCPI_SHA_CPU_HALF_512;
    return cpu;
}
#elif DCPI_SHA_ARM
static int dcpi_sha_ask_cpu(void) {
#if defined(__ARM_FEATURE_SHA2) || defined(__ARM_FEATURE_CRYPTO) || defined(__APPLE__)
    return DCPI_SHA_CPU_ARMV8;
#elif defined(__linux__)
    return getauxval(AT_HWCAP) & (1UL << 6) ? DCPI_SHA_CPU_ARMV8 : 0;   /* HWCAP_SHA2 */
#else
    return 0;
#endif
}
#else
static int dcpi_sha_ask_cpu(void) { return 0; }
#endif

/* Asked once, for CPUID takes microseconds in a virtual machine. Threads that ask at the same time store the same value. */
static int dcpi_sha_cpu(void) {
    static int cached;
    int cpu;
#if DCPI_GNUC
    cpu = __atomic_load_n(&cached, __ATOMIC_RELAXED);
#else
    cpu = cached;
#endif
    if (cpu) return cpu;
    cpu = dcpi_sha_ask_cpu() | DCPI_SHA_CPU_ASKED;
#if DCPI_GNUC
    __atomic_store_n(&cached, cpu, __ATOMIC_RELAXED);
#else
    cached = cpu;
#endif
    return cpu;
}
static int dcpi_sha_kernel_usable(enum dcpi_sha_kernel kernel) {
    switch (kernel) {
        case DCPI_SHA_AUTO: case DCPI_SHA_PORTABLE: return 1;
        case DCPI_SHA_NI: case DCPI_SHA_NI2: return DCPI_X86 && (dcpi_sha_cpu() & DCPI_SHA_CPU_NI);
        case DCPI_SHA_AVX2: return DCPI_SHA_AVX && (dcpi_sha_cpu() & DCPI_SHA_CPU_AVX2);
        case DCPI_SHA_AVX512: return DCPI_SHA_AVX && (dcpi_sha_cpu() & DCPI_SHA_CPU_AVX512);
        case DCPI_SHA_ARMV8: return DCPI_SHA_ARM && (dcpi_sha_cpu() & DCPI_SHA_CPU_ARMV8);
        default: return 0;
    }
}
/* By measurement: sixteen lanes are 1.7 times as fast as NI2 on the machine of design/PERFORMANCE.md, 1.25 (gcc) to 1.6 times (clang) on
 * Zen 5. Where 512 bits are done in two halves (by calculation: no such machine was at hand) that lead is gone, so NI2 is taken there.
 * AVX2 beats only what has no SHA extensions. */
static enum dcpi_sha_kernel dcpi_sha_best(void) {
    int halves = dcpi_sha_cpu() & DCPI_SHA_CPU_HALF_512, ni = dcpi_sha_kernel_usable(DCPI_SHA_NI2);
    if (dcpi_sha_kernel_usable(DCPI_SHA_AVX512) && !(halves && ni)) return DCPI_SHA_AVX512;
    if (ni) return DCPI_SHA_NI2;
    if (dcpi_sha_kernel_usable(DCPI_SHA_AVX2)) return DCPI_SHA_AVX2;
    if (dcpi_sha_kernel_usable(DCPI_SHA_ARMV8)) return DCPI_SHA_ARMV8;
    return DCPI_SHA_PORTABLE;
}

/* How to hash with a kernel: one lane, two lanes (may be NULL), or many (NULL, or from `wide_from` busy lanes on the faster way). */
typedef struct dcpi_sha_plan {
    dcpi_sha_one_fn one;
    dcpi_sha_lanes_fn pair, wide;
    size_t lanes, wide_from;
} dcpi_sha_plan;

static dcpi_sha_plan dcpi_sha_plan_for(enum dcpi_sha_kernel kernel) {
    dcpi_sha_plan plan;
    plan.one = dcpi_sha_one_portable;
    plan.pair = plan.wide = NULL;
    plan.lanes = plan.wide_from = 1;
    if (kernel == DCPI_SHA_AUTO) kernel = dcpi_sha_best();
#if DCPI_X86
    if (kernel != DCPI_SHA_PORTABLE && dcpi_sha_kernel_usable(DCPI_SHA_NI)) {
        plan.one = dcpi_sha_one_ni;
        if (kernel != DCPI_SHA_NI) { plan.pair = dcpi_sha_lanes_ni2; plan.lanes = 2; }
    }
#endif
#if DCPI_SHA_AVX
    /* wide_from: where so many of the lanes do as much as NI2; without SHA extensions two lanes already beat the portable kernel */
    if (kernel == DCPI_SHA_AVX512) { plan.wide = dcpi_sha_lanes_avx512; plan.lanes = 16; plan.wide_from = plan.pair ? 11 : 2; }
    if (kernel == DCPI_SHA_AVX2) { plan.wide = dcpi_sha_lanes_avx2; plan.lanes = 8; plan.wide_from = plan.pair ? 7 : 2; }
#endif
#if DCPI_SHA_ARM
    if (kernel == DCPI_SHA_ARMV8) plan.one = dcpi_sha_one_armv8;
#endif
    return plan;
}
static void dcpi_sha_compress_with(enum dcpi_sha_kernel kernel, uint32_t state[8], const uint8_t *data, size_t blocks) {
    dcpi_sha_plan_for(kernel).one(state, data, blocks);
}

/* ---- the stream -------------------------------------------------------------------------------------------------------------------- */
typedef struct dcpi_sha {
    uint32_t state[8];
    uint64_t length;                    /* bytes so far; length % 64 of them wait in block */
    uint8_t block[64];
} dcpi_sha;

static void dcpi_sha_init(dcpi_sha *sha) {
    memset(sha, 0, sizeof *sha);
    memcpy(sha->state, dcpi_sha_initial, sizeof sha->state);
}
static void dcpi_sha_update(dcpi_sha *sha, const void *data, size_t size) {
    const uint8_t *bytes = (const uint8_t *)data;
    size_t waiting = (size_t)(sha->length % 64), blocks;
    if (size == 0) return;
    sha->length += size;
    if (waiting > 0) {                                                  /* fill the block that was begun */
        size_t missing = 64 - waiting;
        if (size < missing) { memcpy(sha->block + waiting, bytes, size); return; }
        memcpy(sha->block + waiting, bytes, missing);
        dcpi_sha_compress_with(DCPI_SHA_AUTO, sha->state, sha->block, 1);
        bytes += missing;
        size -= missing;
    }
    blocks = size / 64;
    if (blocks > 0) dcpi_sha_compress_with(DCPI_SHA_AUTO, sha->state, bytes, blocks);
    if (size % 64 > 0) memcpy(sha->block, bytes + 64 * blocks, size % 64);
}
/* The end of a string, padded: its last length % 64 bytes, 0x80, zeros, and the length in bits. Returns how many blocks that is: 1 or 2. */
static size_t dcpi_sha_pad(uint8_t tail[128], const uint8_t *rest, uint64_t length) {
    size_t used = (size_t)(length % 64), blocks = used + 1 + 8 <= 64 ? 1 : 2;
    uint64_t bits = length * 8;
    if (used > 0) memcpy(tail, rest, used);
    memset(tail + used, 0, 64 * blocks - used);
    tail[used] = 0x80;
    dcpi_sha_store(tail + 64 * blocks - 8, (uint32_t)(bits >> 32));
    dcpi_sha_store(tail + 64 * blocks - 4, (uint32_t)bits);
    return blocks;
}
static void dcpi_sha_final(dcpi_sha *sha, uint8_t digest[32]) {
    uint8_t tail[128];
    size_t blocks = dcpi_sha_pad(tail, sha->block, sha->length), i;
    dcpi_sha_compress_with(DCPI_SHA_AUTO, sha->state, tail, blocks);
    for (i = 0; i < 8; i++) dcpi_sha_store(digest + 4 * i, sha->state[i]);
}

/* ---- many strings at once ---------------------------------------------------------------------------------------------------------- */
/* Problem: the lanes of a kernel advance together, but strings have any length. Solution: all lanes go as far as the shortest of them, a
 * lane whose string has ended takes the next job, and once the jobs run out and too few lanes are busy, the rest is done in pairs and at
 * last alone. Busy lanes come first: where there is no new job, the last busy lane moves into the gap. */
typedef struct dcpi_sha_job { const uint8_t *data; size_t size; uint8_t *digest; } dcpi_sha_job;     /* digest: 32 bytes */

typedef struct dcpi_sha_lane {
    const uint8_t *data;                /* the next block */
    size_t blocks;                      /* so many at data */
    uint8_t *tail;                      /* then the padded end: this lane's buffer of 128 bytes, */
    size_t tail_blocks;                 /* so many blocks; 0: it is in `data` already */
    uint8_t *digest;
} dcpi_sha_lane;

typedef struct dcpi_sha_batch {
    uint32_t state[8][DCPI_SHA_LANES];
    dcpi_sha_lane lane[DCPI_SHA_LANES]; /* the first `busy` ones have blocks left */
    uint8_t tail[DCPI_SHA_LANES][128];
    size_t busy;
    const dcpi_sha_job *next;           /* not begun yet */
    size_t waiting;
} dcpi_sha_batch;

static void dcpi_sha_lane_to_tail(dcpi_sha_lane *lane) {
    lane->data = lane->tail;
    lane->blocks = lane->tail_blocks;
    lane->tail_blocks = 0;
}
static void dcpi_sha_lane_begin(dcpi_sha_batch *batch, size_t at) {     /* takes the next job; there must be one */
    const dcpi_sha_job *job = batch->next++;
    dcpi_sha_lane *lane = &batch->lane[at];
    size_t i;
    batch->waiting--;
    lane->data = job->data;
    lane->blocks = job->size / 64;
    lane->tail_blocks = dcpi_sha_pad(lane->tail, job->size > 0 ? job->data + 64 * lane->blocks : NULL, job->size);
    lane->digest = job->digest;
    for (i = 0; i < 8; i++) batch->state[i][at] = dcpi_sha_initial[i];
    if (lane->blocks == 0) dcpi_sha_lane_to_tail(lane);
}
static void dcpi_sha_lane_end(dcpi_sha_batch *batch, size_t at) {       /* the lane has no block left: tail, next job, or gap */
    size_t i, last;
    if (batch->lane[at].tail_blocks > 0) { dcpi_sha_lane_to_tail(&batch->lane[at]); return; }
    for (i = 0; i < 8; i++) dcpi_sha_store(batch->lane[at].digest + 4 * i, batch->state[i][at]);
    if (batch->waiting > 0) { dcpi_sha_lane_begin(batch, at); return; }
    last = --batch->busy;
    batch->lane[at] = batch->lane[last];
    for (i = 0; i < 8; i++) batch->state[i][at] = batch->state[i][last];
}
static void dcpi_sha_advance_one(dcpi_sha_batch *batch, dcpi_sha_one_fn kernel) {
    dcpi_sha_lane *lane = &batch->lane[0];
    uint32_t state[8];
    size_t i;
    for (i = 0; i < 8; i++) state[i] = batch->state[i][0];
    kernel(state, lane->data, lane->blocks);
    for (i = 0; i < 8; i++) batch->state[i][0] = state[i];
    lane->blocks = 0;
    dcpi_sha_lane_end(batch, 0);
}
static void dcpi_sha_advance_lanes(dcpi_sha_batch *batch, dcpi_sha_lanes_fn kernel, size_t lanes) {
    const uint8_t *data[DCPI_SHA_LANES];
    size_t busy = batch->busy < lanes ? batch->busy : lanes, blocks = batch->lane[0].blocks, i;
    for (i = 1; i < busy; i++) if (batch->lane[i].blocks < blocks) blocks = batch->lane[i].blocks;
    for (i = 0; i < DCPI_SHA_LANES; i++) data[i] = batch->lane[i < busy ? i : 0].data;  /* idle lanes hash lane 0 again, for nothing */
    kernel(batch->state, data, blocks);
    for (i = busy; i-- > 0;) {                                          /* downwards: a lane that moves into a gap has had its turn */
        batch->lane[i].data += 64 * blocks;
        batch->lane[i].blocks -= blocks;
        if (batch->lane[i].blocks == 0) dcpi_sha_lane_end(batch, i);
    }
}
static void dcpi_sha_many_by_plan(const dcpi_sha_plan *plan, const dcpi_sha_job *jobs, size_t count) {
    dcpi_sha_batch batch;
    memset(batch.state, 0, sizeof batch.state);
    batch.next = jobs;
    batch.waiting = count;
    for (batch.busy = 0; batch.busy < plan->lanes && batch.waiting > 0; batch.busy++) {
        batch.lane[batch.busy].tail = batch.tail[batch.busy];
        dcpi_sha_lane_begin(&batch, batch.busy);
    }
    while (batch.busy > 0) {
        if (plan->wide && batch.busy >= plan->wide_from) dcpi_sha_advance_lanes(&batch, plan->wide, plan->lanes);
        else if (plan->pair && batch.busy >= 2) dcpi_sha_advance_lanes(&batch, plan->pair, 2);
        else dcpi_sha_advance_one(&batch, plan->one);
    }
}
static void dcpi_sha_many_with(enum dcpi_sha_kernel kernel, const dcpi_sha_job *jobs, size_t count) {
    const dcpi_sha_plan plan = dcpi_sha_plan_for(kernel);
    dcpi_sha_many_by_plan(&plan, jobs, count);
}
/* SHA-256 of each of `count` independent strings, of any lengths. Fastest with 16 or more of about equal length. */
static void dcpi_sha_many(const dcpi_sha_job *jobs, size_t count) { dcpi_sha_many_with(DCPI_SHA_AUTO, jobs, count); }

/* ---- public functions, HMAC --------------------------------------------------------------------------------------------------------- */
DCPDEF void dcp_sha256(const void *data, size_t size, uint8_t digest[32]) {
    dcpi_sha sha;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, data, size);
    dcpi_sha_final(&sha, digest);
}
/* Clears a secret. Through a volatile pointer, for a compiler may drop a memset of what is not read again. */
static void dcpi_sha_wipe(void *memory, size_t size) {
    volatile uint8_t *bytes = (volatile uint8_t *)memory;
    while (size > 0) bytes[--size] = 0;
}
DCPDEF void dcp_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t digest[32]) {
    uint8_t pad[64] = {0}, inner[32];
    dcpi_sha sha;
    size_t i;
    if (key_size > 64) dcp_sha256(key, key_size, pad);
    else if (key_size > 0) memcpy(pad, key, key_size);

    for (i = 0; i < 64; i++) pad[i] ^= 0x36;                            /* inner = H((key ^ ipad) data) */
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, pad, sizeof pad);
    dcpi_sha_update(&sha, data, size);
    dcpi_sha_final(&sha, inner);

    for (i = 0; i < 64; i++) pad[i] ^= 0x36 ^ 0x5c;                     /* digest = H((key ^ opad) inner) */
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, pad, sizeof pad);
    dcpi_sha_update(&sha, inner, sizeof inner);
    dcpi_sha_final(&sha, digest);

    dcpi_sha_wipe(pad, sizeof pad);
    dcpi_sha_wipe(inner, sizeof inner);
    dcpi_sha_wipe(&sha, sizeof sha);
}
/* In a time that does not depend on where the bytes differ, so that an attacker cannot guess a signature byte by byte. */
static int dcpi_sha_equal(const uint8_t *a, const uint8_t *b, size_t n) {
    unsigned different = 0;
    size_t i;
    for (i = 0; i < n; i++) different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}

/* ================================================================================================================================
 * >>json        Numbers, a pull reader, a writer, and a tree built on the reader. Strict RFC 8259, and the locale never matters.
 * ============================================================================================================================== */

/* ---- numbers: exact, by big integers; doubles are rare in our documents, so simple beats fast ---------------------------------------- */
#define DCPI_BIG_LIMBS 168              /* 5,376 bits: 800 digits over 10^1142, and 64 bits of quotient */
#define DCPI_BIG_DIGITS 800             /* more digits cannot change a double but by not being zero */
typedef struct dcpi_big { int count; uint32_t limb[DCPI_BIG_LIMBS]; } dcpi_big;

static void dcpi_big_set(dcpi_big *a, uint64_t value) {
    a->limb[0] = (uint32_t)value;
    a->limb[1] = (uint32_t)(value >> 32);
    a->count = a->limb[1] ? 2 : a->limb[0] ? 1 : 0;
}
static void dcpi_big_multiply(dcpi_big *a, uint32_t factor, uint32_t addend) {
    uint64_t carry = addend;
    int i;
    for (i = 0; i < a->count; i++) {
        carry += (uint64_t)a->limb[i] * factor;
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && a->count < DCPI_BIG_LIMBS) a->limb[a->count++] = (uint32_t)carry;
}
static void dcpi_big_power10(dcpi_big *a, int power) {
    for (; power >= 9; power -= 9) dcpi_big_multiply(a, 1000000000u, 0);
    for (; power > 0; power--) dcpi_big_multiply(a, 10, 0);
}
static int dcpi_big_bits(const dcpi_big *a) {
    uint32_t top = a->count ? a->limb[a->count - 1] : 0;
    int bits = a->count ? (a->count - 1) * 32 : 0;
    for (; top; top >>= 1) bits++;
    return bits;
}
static void dcpi_big_shift(dcpi_big *a, int bits) {     /* left */
    int limbs = bits / 32, i;
    bits %= 32;
    if (a->count == 0) return;
    if (a->count + limbs >= DCPI_BIG_LIMBS) return;     /* cannot happen with the sizes above */
    memmove(a->limb + limbs, a->limb, (size_t)a->count * sizeof a->limb[0]);
    memset(a->limb, 0, (size_t)limbs * sizeof a->limb[0]);
    a->count += limbs;
    if (bits == 0) return;
    a->limb[a->count] = 0;
    for (i = a->count; i > limbs; i--) a->limb[i] = (a->limb[i] << bits) | (a->limb[i - 1] >> (32 - bits));
    a->limb[limbs] <<= bits;
    if (a->limb[a->count]) a->count++;
}
static void dcpi_big_halve(dcpi_big *a) {
    int i;
    for (i = 0; i < a->count; i++) a->limb[i] = (a->limb[i] >> 1) | (i + 1 < a->count ? a->limb[i + 1] << 31 : 0);
    if (a->count && a->limb[a->count - 1] == 0) a->count--;
}
static int dcpi_big_compare(const dcpi_big *a, const dcpi_big *b) {
    int i;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    for (i = a->count - 1; i >= 0; i--) if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}
static void dcpi_big_subtract(dcpi_big *a, const dcpi_big *b) {          /* a >= b */
    uint64_t borrow = 0;
    int i;
    for (i = 0; i < a->count; i++) {
        uint64_t take = (i < b->count ? b->limb[i] : 0) + borrow;
        borrow = a->limb[i] < take;
        a->limb[i] = (uint32_t)(a->limb[i] - take);
    }
    while (a->count && a->limb[a->count - 1] == 0) a->count--;
}
/* The quotient, below 2^64; *a becomes the remainder. */
static uint64_t dcpi_big_divide(dcpi_big *a, dcpi_big *b) {
    int shift = dcpi_big_bits(a) - dcpi_big_bits(b);
    uint64_t quotient = 0;
    if (shift < 0) return 0;
    dcpi_big_shift(b, shift);
    for (; shift >= 0; shift--) {
        quotient <<= 1;
        if (dcpi_big_compare(a, b) >= 0) {
            dcpi_big_subtract(a, b);
            quotient |= 1;
        }
        if (shift > 0) dcpi_big_halve(b);
    }
    return quotient;
}
static double dcpi_double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static uint64_t dcpi_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static int dcpi_double_is_finite(double value) { return (dcpi_double_bits(value) >> 52 & 0x7FF) != 0x7FF; }

/* mantissa * 2^exponent and a little more if sticky, rounded to the nearest double, ties to even. The top bit is set. 0: overflow. */
static int dcpi_double_round(uint64_t mantissa, int exponent, int sticky, uint64_t *bits) {
    int drop = 11, biased = exponent + 63 + 1023;
    uint64_t kept, half, rest;
    if (biased <= 0) { drop += 1 - biased; biased = 0; }                /* subnormal: fewer bits */
    if (drop > 64) { *bits = 0; return 1; }
    kept = drop == 64 ? 0 : mantissa >> drop;
    half = (uint64_t)1 << (drop - 1);
    rest = drop == 64 ? mantissa : mantissa & (((uint64_t)1 << drop) - 1);
    if (rest > half || (rest == half && (sticky || (kept & 1)))) kept++;
    if (biased > 0) kept += ((uint64_t)(biased - 1)) << 52;             /* the hidden bit adds the last one; a carry moves on by itself */
    *bits = kept;
    return kept >> 52 < 0x7FF;
}
/* A decimal number, taken apart: digits * 10^exponent, and whether nonzero digits beyond DCPI_BIG_DIGITS were cut off. */
typedef struct dcpi_decimal { dcpi_big digits; int count, exponent, is_cut; } dcpi_decimal;

static size_t dcpi_decimal_digits(dcpi_decimal *d, const char *text, size_t length, size_t at) {
    int after_point = 0;
    for (; at < length && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); at++) {
        uint32_t digit = (uint32_t)(text[at] - '0');
        if (text[at] == '.') { after_point = 1; continue; }
        if (after_point && d->exponent > -100000000) d->exponent--;
        if (d->count == 0 && digit == 0) continue;
        if (d->count == DCPI_BIG_DIGITS) {
            d->is_cut |= digit != 0;
            if (d->exponent < 100000000) d->exponent++;
            continue;
        }
        if (d->count++ == 0) dcpi_big_set(&d->digits, digit);
        else dcpi_big_multiply(&d->digits, 10, digit);
    }
    return at;
}
static void dcpi_decimal_exponent(dcpi_decimal *d, const char *text, size_t length, size_t at) {       /* text[at] is behind the 'e' */
    int sign = 1, written = 0;
    if (text[at] == '+' || text[at] == '-') sign = text[at++] == '-' ? -1 : 1;
    for (; at < length; at++) if (written < 100000000) written = written * 10 + (text[at] - '0');
    d->exponent += sign * written;
}
/* The nearest double's bits. The quotient digits / 10^-exponent is scaled by a power of two to exactly 64 bits. 0: overflow. */
static int dcpi_decimal_bits(dcpi_decimal *d, uint64_t *bits) {
    dcpi_big denominator;
    uint64_t quotient;
    int scale;
    *bits = 0;
    if (d->count == 0 || d->exponent + d->count < -330) return 1;
    if (d->exponent + d->count > 310) return 0;
    dcpi_big_set(&denominator, 1);
    dcpi_big_power10(d->exponent >= 0 ? &d->digits : &denominator, d->exponent >= 0 ? d->exponent : -d->exponent);
    scale = 63 - (dcpi_big_bits(&d->digits) - dcpi_big_bits(&denominator));
    dcpi_big_shift(scale >= 0 ? &d->digits : &denominator, scale >= 0 ? scale : -scale);
    quotient = dcpi_big_divide(&d->digits, &denominator);
    if (!(quotient >> 63)) {                            /* 63 bits: the last one comes out of the remainder */
        dcpi_big_shift(&d->digits, 1);
        scale++;
        quotient <<= 1;
        if (dcpi_big_compare(&d->digits, &denominator) >= 0) {
            dcpi_big_subtract(&d->digits, &denominator);
            quotient |= 1;
        }
    }
    return dcpi_double_round(quotient, -scale, d->is_cut || d->digits.count > 0, bits);
}
/* text: a number of JSON's grammar. 0: beyond the doubles. */
static int dcpi_double_parse(const char *text, size_t length, double *value) {
    dcpi_decimal d;
    uint64_t bits;
    int negative = text[0] == '-';
    size_t at;
    d.count = d.exponent = d.is_cut = 0;
    at = dcpi_decimal_digits(&d, text, length, (size_t)negative);
    if (at < length) dcpi_decimal_exponent(&d, text, length, at + 1);
    if (!dcpi_decimal_bits(&d, &bits)) return 0;
    *value = dcpi_double_of_bits(bits | (uint64_t)negative << 63);
    return 1;
}
/* The `digits` most significant decimal digits of a positive finite double, correctly rounded; *exponent is of the first. */
static uint64_t dcpi_double_digits(double value, int digits, int *exponent) {
    uint64_t bits = dcpi_double_bits(value), mantissa = bits & (((uint64_t)1 << 52) - 1), quotient, limit = 1;
    int power = (int)(bits >> 52 & 0x7FF), scale, i;
    dcpi_big numerator, denominator;
    if (power) mantissa |= (uint64_t)1 << 52;
    else power = 1;
    power -= 1075;
    for (i = 0; i < digits; i++) limit *= 10;
    dcpi_big_set(&numerator, mantissa);
    /* Rounded down; may be one too low. */
    *exponent = (int)((double)(dcpi_big_bits(&numerator) - 1 + power) * 0.30102999566398120 + 400.0) - 400;
    for (;; ++*exponent) {
        dcpi_big_set(&numerator, mantissa);
        dcpi_big_set(&denominator, 1);
        scale = digits - 1 - *exponent;
        dcpi_big_power10(scale >= 0 ? &numerator : &denominator, scale >= 0 ? scale : -scale);
        dcpi_big_shift(power >= 0 ? &numerator : &denominator, power >= 0 ? power : -power);
        quotient = dcpi_big_divide(&numerator, &denominator);
        if (quotient >= limit) continue;                /* the estimate was one too low */
        dcpi_big_shift(&numerator, 1);                  /* twice the remainder against the denominator: round half to even */
        scale = dcpi_big_compare(&numerator, &denominator);
        if (scale > 0 || (scale == 0 && (quotient & 1))) quotient++;
        if (quotient < limit) return quotient;          /* else 9...9 became 10...0: one digit more, so once again */
    }
}
/* The shortest text that reads back as the same double; always with a point or an exponent, so that it stays a double. What has up to 15
 * digits comes back from 15, with zeros behind it; but a subnormal double may have fewer digits than that in all. */
static void dcpi_double_text(double value, char text[32]) {
    char digits[24], *at = text;
    int count, exponent = 0, i, negative = dcpi_double_bits(value) >> 63 != 0;
    double positive = negative ? -value : value;
    if (negative) *at++ = '-';
    if (positive == 0) { memcpy(at, "0.0", 4); return; }
    for (count = dcpi_double_bits(positive) >> 52 ? 15 : 1; count <= 17; count++) {
        char sample[40];
        double back;
        uint64_t number = dcpi_double_digits(positive, count, &exponent);
        (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
        (void)snprintf(sample, sizeof sample, "%se%d", digits, exponent - (count - 1));
        if (dcpi_double_parse(sample, strlen(sample), &back) && back == positive) break;
    }
    for (count = (int)strlen(digits); count > 1 && digits[count - 1] == '0'; count--) digits[count - 1] = '\0';
    if (exponent < -5 || exponent > 20) {               /* d.ddde-07 */
        *at++ = digits[0];
        if (count > 1) *at++ = '.';
        memcpy(at, digits + 1, (size_t)count - 1);
        (void)snprintf(at + count - 1, 8, "e%d", exponent);
        return;
    }
    if (exponent < 0) {                                 /* 0.000ddd */
        *at++ = '0';
        *at++ = '.';
        for (i = -1; i > exponent; i--) *at++ = '0';
        memcpy(at, digits, (size_t)count + 1);
        return;
    }
    for (i = 0; i < count || i <= exponent; i++) {      /* ddd.ddd, ddd000.0 */
        *at++ = i < count ? digits[i] : '0';
        if (i == exponent) *at++ = '.';
    }
    if (at[-1] == '.') *at++ = '0';
    *at = '\0';
}

/* ---- pull reader: the caller asks for what its schema expects, and copies it straight into its structs ------------------------------- */
typedef struct dcpi_json_span { const char *text; size_t length; } dcpi_json_span;
typedef struct dcpi_json_reader {
    const char *start, *at, *end;
    dcpi_arena *arena;                                  /* for strings with escapes, and copies */
    int depth;
    dcp_status status;                                  /* the first failure; all later calls fail at once */
    dcp_error *err;
    dcpi_json_span *keys; size_t key_count, key_capacity;       /* unknown members of the objects that are open now */
} dcpi_json_reader;
typedef struct dcpi_json_object {                       /* one open object, on the caller's stack */
    const char *const *names; int name_count;           /* members that the schema knows, at most 64 */
    uint64_t seen;
    int member;                                         /* the current one: index in names, or -1 */
    dcpi_json_span key; const char *key_at;             /* its key, unescaped; where it stands */
    size_t first_key; int count;
} dcpi_json_object;

static int dcpi_json_fail(dcpi_json_reader *r, const char *at, const char *format, ...) DCPI_PRINTF(3, 4);
static int dcpi_json_fail(dcpi_json_reader *r, const char *at, const char *format, ...) {       /* always 0 */
    char reason[300];
    const char *c, *line_start = r->start;
    int64_t line = 1;
    va_list arguments;
    if (r->status) return 0;
    for (c = r->start; c < at; c++) if (*c == '\n') { line++; line_start = c + 1; }
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    r->status = dcpi_fail(r->err, DCP_E_FORMAT, "line %" PRId64 ", column %" PRId64 " (byte %" PRId64 "): %s", line,
                          (int64_t)(at - line_start) + 1, (int64_t)(at - r->start), reason);
    return 0;
}
static int dcpi_json_no_memory(dcpi_json_reader *r) {    /* whoever failed may have said how much it was */
    if (!r->status && r->err && r->err->status != DCP_E_MEMORY) (void)dcpi_fail(r->err, DCP_E_MEMORY, "out of memory");
    if (!r->status) r->status = DCP_E_MEMORY;
    return 0;
}
static const char *dcpi_json_found(const dcpi_json_reader *r, char text[16]) {          /* what stands there, for messages */
    if (r->at == r->end) return "the end";
    if (*r->at < 0x20 || *r->at >= 0x7F) (void)snprintf(text, 16, "byte 0x%02X", (unsigned)(unsigned char)*r->at);
    else (void)snprintf(text, 16, "'%c'", *r->at);
    return text;
}
static void dcpi_json_begin(dcpi_json_reader *r, const char *text, size_t size, dcpi_arena *arena, dcp_error *err) {
    memset(r, 0, sizeof *r);
    r->start = r->at = text;
    r->end = text + size;
    r->arena = arena;
    r->err = err;
    (void)dcpi_succeed(err);
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        (void)dcpi_json_fail(r, text, "a byte order mark stands before the document; JSON has none");
}
static void dcpi_json_close(dcpi_json_reader *r) {
    dcpi_free(r->keys);
    r->keys = NULL;
}
static void dcpi_json_space(dcpi_json_reader *r) {
    const char *at = r->at, *end = r->end;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at += end - at >= 8 && memcmp(at, "        ", 8) == 0 ? 8 : 1;  /* lines are indented */
    r->at = at;
}
/* The first character of the next value; '\0' at the end or after a failure. */
static char dcpi_json_peek(dcpi_json_reader *r) {
    if (r->status) return '\0';
    if (r->at < r->end && (unsigned char)*r->at > ' ') return *r->at;
    dcpi_json_space(r);
    return r->at < r->end ? *r->at : '\0';
}
static int dcpi_json_expect(dcpi_json_reader *r, char wanted, const char *where) {
    char found[16];
    if (dcpi_json_peek(r) == wanted && r->at < r->end) { r->at++; return 1; }
    return dcpi_json_fail(r, r->at, "expected '%c' %s, found %s", wanted, where, dcpi_json_found(r, found));
}
static int dcpi_json_word(dcpi_json_reader *r, const char *word) {
    size_t n = strlen(word);
    char found[16];
    if ((size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0) { r->at += n; return 1; }
    return dcpi_json_fail(r, r->at, "expected a value, found %s", dcpi_json_found(r, found));
}
/* Consumes a null; 0 where the value is another one. */
static int dcpi_json_null(dcpi_json_reader *r) { return dcpi_json_peek(r) == 'n' && dcpi_json_word(r, "null"); }
static int dcpi_json_boolean(dcpi_json_reader *r, int *value) {
    *value = dcpi_json_peek(r) == 't';
    if (*value) return dcpi_json_word(r, "true");
    if (!r->status && dcpi_json_peek(r) != 'f') return dcpi_json_fail(r, r->at, "expected true or false");
    return !r->status && dcpi_json_word(r, "false");
}

/* -- strings -- */
/* Nonzero where one of eight bytes ends the plain run of a string: a quote, a backslash, a control character, or the start of a longer
 * UTF-8 character. On a little-endian machine the lowest bit is in the first of them; higher ones may come of a borrow. */
static uint64_t dcpi_json_specials(const char *eight) {
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t v, quote, backslash;
    memcpy(&v, eight, sizeof v);
    quote = v ^ (ones * '"');
    backslash = v ^ (ones * '\\');
    return ((v - ones * 0x20) | (quote - ones) | (backslash - ones) | v) & high;
}
static int dcpi_json_is_special(const char *eight) { return dcpi_json_specials(eight) != 0; }
/* The first byte from `at` on that is special, or the end. */
static const char *dcpi_json_plain_end(const char *at, const char *end) {
    uint64_t found = 0;
    while (end - at >= 8 && (found = dcpi_json_specials(at)) == 0) at += 8;
#if DCPI_GNUC && !DCPI_BIG_ENDIAN
    if (found) return at + (__builtin_ctzll(found) >> 3);
#else
    (void)found;
#endif
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}
static int dcpi_json_hex4(dcpi_json_reader *r, const char *at, unsigned *value) {
    int i;
    *value = 0;
    for (i = 0; i < 4; i++) {
        int digit = r->end - at > i ? dcpi_hex_value(at[i]) : -1;
        if (digit < 0) return dcpi_json_fail(r, at, "\\u needs four hexadecimal digits");
        *value = *value * 16 + (unsigned)digit;
    }
    return 1;
}
static size_t dcpi_utf8_encode(unsigned c, char *to) {
    if (c < 0x80) { to[0] = (char)c; return 1; }
    if (c < 0x800) { to[0] = (char)(0xC0 | c >> 6); to[1] = (char)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) { to[0] = (char)(0xE0 | c >> 12); to[1] = (char)(0x80 | (c >> 6 & 63)); to[2] = (char)(0x80 | (c & 63)); return 3; }
    to[0] = (char)(0xF0 | c >> 18); to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63)); to[3] = (char)(0x80 | (c & 63));
    return 4;
}
/* r->at is behind \u. Appends the character, of two escapes where it is a surrogate pair. */
static int dcpi_json_unicode(dcpi_json_reader *r, char **to) {
    unsigned c, low;
    if (!dcpi_json_hex4(r, r->at, &c)) return 0;
    if (c == 0) return dcpi_json_fail(r, r->at - 2, "the character NUL is not accepted in a string");
    if (c >= 0xDC00 && c <= 0xDFFF) return dcpi_json_fail(r, r->at - 2, "a low surrogate without its high one");
    r->at += 4;
    if (c >= 0xD800 && c <= 0xDBFF) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return dcpi_json_fail(r, r->at, "a high surrogate without its low one");
        if (!dcpi_json_hex4(r, r->at + 2, &low)) return 0;
        if (low < 0xDC00 || low > 0xDFFF) return dcpi_json_fail(r, r->at, "a high surrogate without its low one");
        r->at += 6;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    *to += dcpi_utf8_encode(c, *to);
    return 1;
}
static int dcpi_json_escape(dcpi_json_reader *r, char **to) {            /* r->at is behind the backslash */
    static const char from[] = "\"\\/bfnrt", what[] = "\"\\/\b\f\n\r\t";
    const char *found;
    if (r->at == r->end) return dcpi_json_fail(r, r->at, "the text ends inside a string");
    if (*r->at == 'u') { r->at++; return dcpi_json_unicode(r, to); }
    found = *r->at ? strchr(from, *r->at) : NULL;
    if (!found) return dcpi_json_fail(r, r->at - 1, "an escape that JSON does not have");
    *(*to)++ = what[found - from];
    r->at++;
    return 1;
}
/* Steps over plain characters, checking them; stops at a quote or backslash. */
static int dcpi_json_plain(dcpi_json_reader *r) {
    for (;;) {
        unsigned char c;
        size_t n;
        r->at = dcpi_json_plain_end(r->at, r->end);
        if (r->at == r->end) return dcpi_json_fail(r, r->at, "the text ends inside a string");
        c = (unsigned char)*r->at;
        if (c == '"' || c == '\\') return 1;
        if (c < 0x20) return dcpi_json_fail(r, r->at, "a control character (0x%02X) inside a string; JSON wants it escaped", (unsigned)c);
        n = dcpi_utf8_length(r->at, (size_t)(r->end - r->at));
        if (n == 0) return dcpi_json_fail(r, r->at, "byte 0x%02X is not UTF-8", (unsigned)c);
        r->at += n;
    }
}
/* The rest of a string that has escapes, from its start: never longer unescaped than escaped. */
static int dcpi_json_unescape(dcpi_json_reader *r, const char *start, dcpi_json_span *out) {
    const char *scan = r->at;
    char *copy, *to;
    while (scan < r->end && *scan != '"') scan += *scan == '\\' && r->end - scan > 1 ? 2 : 1;
    copy = (char *)dcpi_arena_alloc(r->arena, (size_t)(scan - start) + 1, r->err);
    if (!copy) return dcpi_json_no_memory(r);
    to = copy;
    for (r->at = start;;) {
        const char *run = r->at;
        if (!dcpi_json_plain(r)) return 0;
        memcpy(to, run, (size_t)(r->at - run));
        to += r->at - run;
        if (*r->at++ == '"') break;
        if (!dcpi_json_escape(r, &to)) return 0;
    }
    *to = '\0';
    out->text = copy;
    out->length = (size_t)(to - copy);
    return 1;
}
/* A string: points into the text, or into the arena where it has escapes. */
static int dcpi_json_string(dcpi_json_reader *r, dcpi_json_span *out) {
    const char *start;
    char found[16];
    if (dcpi_json_peek(r) != '"') return dcpi_json_fail(r, r->at, "expected a string, found %s", dcpi_json_found(r, found));
    start = ++r->at;
    if (!dcpi_json_plain(r)) return 0;
    if (*r->at == '\\') return dcpi_json_unescape(r, start, out);
    out->text = start;
    out->length = (size_t)(r->at++ - start);
    return 1;
}
/* A copy of a string in the arena, with a NUL behind it. */
static int dcpi_json_text(dcpi_json_reader *r, const char **out) {
    dcpi_json_span span;
    char *copy;
    *out = NULL;
    if (!dcpi_json_string(r, &span)) return 0;
    copy = dcpi_arena_text(r->arena, span.text, span.length, r->err);
    *out = copy;
    return copy ? 1 : dcpi_json_no_memory(r);
}

/* -- numbers -- */
static int dcpi_json_digits(dcpi_json_reader *r) {
    const char *start = r->at;
    char found[16];
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > start ? 1 : dcpi_json_fail(r, r->at, "expected a digit, found %s", dcpi_json_found(r, found));
}
static int dcpi_json_number(dcpi_json_reader *r, dcpi_json_span *out, int *is_integer) {
    const char *start, *digits;
    char c = dcpi_json_peek(r), found[16];
    if (c != '-' && (c < '0' || c > '9')) return dcpi_json_fail(r, r->at, "expected a number, found %s", dcpi_json_found(r, found));
    start = r->at;
    if (c == '-') r->at++;
    digits = r->at;
    if (!dcpi_json_digits(r)) return 0;
    if (*digits == '0' && r->at - digits > 1) return dcpi_json_fail(r, digits, "a number must not start with 0");
    *is_integer = 1;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        *is_integer = 0;
        if (!dcpi_json_digits(r)) return 0;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        *is_integer = 0;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!dcpi_json_digits(r)) return 0;
    }
    out->text = start;
    out->length = (size_t)(r->at - start);
    return 1;
}
/* Digits as a uint64. 0: beyond. */
static int dcpi_digits_value(const char *text, size_t length, uint64_t *value) {
    uint64_t v = 0;
    size_t i;
    for (i = 0; i < length; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (v > (UINT64_MAX - digit) / 10) return 0;
        v = v * 10 + digit;
    }
    *value = v;
    return 1;
}
static int dcpi_span_int64(dcpi_json_span span, int64_t *value) {
    int negative = span.text[0] == '-';
    uint64_t v;
    if (!dcpi_digits_value(span.text + negative, span.length - (size_t)negative, &v)) return 0;
    if (v > (uint64_t)INT64_MAX + (uint64_t)negative) return 0;
    *value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 1;
}
/* A plain integer of at most 18 digits, with something behind it. 0: read it the long way; nothing has happened. */
static int dcpi_json_short_int(dcpi_json_reader *r, int64_t *value) {
    const char *at = r->at, *digits;
    int64_t sum = 0;
    int negative = *at == '-';
    digits = at += negative;
    while (at < r->end && *at >= '0' && *at <= '9' && at - digits < 18) sum = sum * 10 + (*at++ - '0');
    if (at == digits || at == r->end || (*at >= '0' && *at <= '9') || *at == '.' || *at == 'e' || *at == 'E') return 0;
    if (*digits == '0' && at - digits > 1) return 0;
    *value = negative ? -sum : sum;
    r->at = at;
    return 1;
}
static int dcpi_json_bad_number(dcpi_json_reader *r, dcpi_json_span span, const char *before, const char *behind) {
    return dcpi_json_fail(r, span.text, "%s %.*s%s", before, (int)dcpi_min((int64_t)span.length, 40), span.text, behind);
}
static int dcpi_json_int64(dcpi_json_reader *r, int64_t *value) {
    dcpi_json_span span;
    int is_integer;
    if (dcpi_json_peek(r) && dcpi_json_short_int(r, value)) return 1;
    if (!dcpi_json_number(r, &span, &is_integer)) return 0;
    if (!is_integer) return dcpi_json_bad_number(r, span, "expected an integer, found", "");
    return dcpi_span_int64(span, value) || dcpi_json_bad_number(r, span, "the integer", " does not fit 64 bits");
}
static int dcpi_json_real(dcpi_json_reader *r, double *value) {
    dcpi_json_span span;
    int is_integer;
    if (!dcpi_json_number(r, &span, &is_integer)) return 0;
    return dcpi_double_parse(span.text, span.length, value) || dcpi_json_bad_number(r, span, "the number", " is beyond the doubles");
}

/* -- objects and arrays -- */
static int dcpi_json_enter(dcpi_json_reader *r, char open, const char *what) {
    char found[16];
    if (dcpi_json_peek(r) != open) return dcpi_json_fail(r, r->at, "expected %s, found %s", what, dcpi_json_found(r, found));
    if (r->depth >= DCP_LIMIT_DEPTH) return dcpi_json_fail(r, r->at, "nested deeper than %d", (int)DCP_LIMIT_DEPTH);
    r->depth++;
    r->at++;
    return 1;
}
/* while (dcpi_json_item(r, &count)) read one; */
static int dcpi_json_array(dcpi_json_reader *r, int64_t *count) {
    *count = 0;
    return dcpi_json_enter(r, '[', "an array");
}
/* Behind the comma, or at the end: whether a further part follows. `close` is consumed. */
static int dcpi_json_more(dcpi_json_reader *r, int64_t count, char close, const char *what) {
    char found[16], c = dcpi_json_peek(r);
    if (r->status) return 0;
    if (c == close) { r->at++; r->depth--; return 0; }
    if (count == 0) return 1;
    if (c != ',') return dcpi_json_fail(r, r->at, "expected ',' or '%c' in %s, found %s", close, what, dcpi_json_found(r, found));
    r->at++;
    if (dcpi_json_peek(r) == close) return dcpi_json_fail(r, r->at, "a comma before '%c'", close);
    return 1;
}
static int dcpi_json_item(dcpi_json_reader *r, int64_t *count) { return dcpi_json_more(r, (*count)++, ']', "an array"); }

static int dcpi_json_object_begin(dcpi_json_reader *r, dcpi_json_object *o, const char *const *names, int name_count) {
    memset(o, 0, sizeof *o);
    o->names = names;
    o->name_count = name_count;
    o->member = -1;
    o->first_key = r->key_count;
    return dcpi_json_enter(r, '{', "an object");
}
static int dcpi_span_compare(const void *a_, const void *b_) {
    const dcpi_json_span *a = (const dcpi_json_span *)a_, *b = (const dcpi_json_span *)b_;
    size_t n = a->length < b->length ? a->length : b->length;
    int order = n ? memcmp(a->text, b->text, n) : 0;
    return order ? order : a->length < b->length ? -1 : a->length > b->length;
}
static int dcpi_json_twice(dcpi_json_reader *r, const char *at, const dcpi_json_span *key) {
    size_t shown = key->length < 100 ? key->length : 100;
    while (shown > 0 && shown < key->length && ((unsigned char)key->text[shown] & 0xC0) == 0x80) shown--;       /* whole characters */
    return dcpi_json_fail(r, at, "the member \"%.*s\" stands twice in this object", (int)shown, key->text);
}
/* Where a key stands: in the text, unless it has escapes; then where its object ends. */
static const char *dcpi_json_key_place(const dcpi_json_reader *r, const dcpi_json_span *key) {
    uintptr_t text = (uintptr_t)key->text;
    return text > (uintptr_t)r->start && text < (uintptr_t)r->end ? key->text - 1 : r->at - 1;
}
static int dcpi_json_few_differ(dcpi_json_reader *r, const dcpi_json_span *keys, size_t count) {
    size_t i, j;
    for (i = 1; i < count; i++)
        for (j = 0; j < i; j++)
            if (keys[i].length == keys[j].length && dcpi_span_compare(&keys[i], &keys[j]) == 0)
                return dcpi_json_twice(r, dcpi_json_key_place(r, &keys[i]), &keys[i]);
    return 1;
}
/* Sorted: a hostile file may have millions. */
static int dcpi_json_many_differ(dcpi_json_reader *r, const dcpi_json_span *keys, size_t count) {
    const void **order = (const void **)dcpi_alloc_array(count, sizeof *order, r->err);
    size_t i;
    if (!order) return dcpi_json_no_memory(r);
    for (i = 0; i < count; i++) order[i] = &keys[i];
    if (dcpi_sort(order, count, dcpi_span_compare, r->err)) (void)dcpi_json_no_memory(r);
    for (i = 1; i < count && !r->status; i++) {
        const dcpi_json_span *key = (const dcpi_json_span *)order[i];
        if (dcpi_span_compare(order[i - 1], key) == 0) (void)dcpi_json_twice(r, dcpi_json_key_place(r, key), key);
    }
    dcpi_free((void *)order);
    return r->status == DCP_OK;
}
/* At an object's end: none of its unknown members stands twice. */
static int dcpi_json_check_unknown(dcpi_json_reader *r, const dcpi_json_object *o) {
    size_t count = r->key_count - o->first_key;
    r->key_count = o->first_key;
    if (count < 2) return 1;
    return count <= 8 ? dcpi_json_few_differ(r, r->keys + o->first_key, count) : dcpi_json_many_differ(r, r->keys + o->first_key, count);
}
static int dcpi_json_known(const dcpi_json_object *o, const dcpi_json_span *key, int index) {
    return strncmp(o->names[index], key->text, key->length) == 0 && o->names[index][key->length] == '\0';
}
static int dcpi_json_find_member(const dcpi_json_object *o) {
    int i, n = o->name_count;
    for (i = 0; i < n; i++) if (dcpi_json_known(o, &o->key, i)) return i;
    return -1;
}
/* Reads the key if it is the one behind the last, as in what our writer wrote, and says which; else -1, and nothing has happened. */
static int dcpi_json_next_member(dcpi_json_reader *r, dcpi_json_object *o) {
    int next = o->member + 1 < o->name_count ? o->member + 1 : 0;
    const char *name = o->name_count > 0 ? o->names[next] : "", *at = r->at + 1;
    while (at < r->end && *name && *at == *name) { at++; name++; }
    if (*name || at == r->end || *at != '"' || at == r->at + 1) return -1;
    o->key.text = r->at + 1;
    o->key.length = (size_t)(at - o->key.text);
    r->at = at + 1;
    return next;
}
static int dcpi_json_note_member(dcpi_json_reader *r, dcpi_json_object *o, int found) {
    void *keys = r->keys;
    if (found >= 0) {
        o->member = found;
        if (o->seen >> found & 1) return dcpi_json_twice(r, o->key_at, &o->key);
        o->seen |= (uint64_t)1 << found;
        return 1;
    }
    o->member = -1;
    if (!dcpi_grow(&keys, &r->key_capacity, r->key_count + 1, sizeof *r->keys, r->err)) return dcpi_json_no_memory(r);
    r->keys = (dcpi_json_span *)keys;
    r->keys[r->key_count++] = o->key;
    return 1;
}
/* while (dcpi_json_member(r, &o)) switch (o.member) ...; each must read, or skip, the value. */
static int dcpi_json_member(dcpi_json_reader *r, dcpi_json_object *o) {
    int member;
    if (!dcpi_json_more(r, o->count++, '}', "an object")) {
        if (!r->status) (void)dcpi_json_check_unknown(r, o);
        return 0;
    }
    o->key_at = r->at;                                  /* white space has been skipped */
    if (r->at == r->end || *r->at != '"') {
        char found[16];
        return dcpi_json_fail(r, r->at, "expected a member name in quotes, found %s", dcpi_json_found(r, found));
    }
    member = dcpi_json_next_member(r, o);
    if (member < 0) {
        if (!dcpi_json_string(r, &o->key)) return 0;
        member = dcpi_json_find_member(o);
    }
    if (r->at < r->end && *r->at == ':') r->at++;
    else if (!dcpi_json_expect(r, ':', "after a member name")) return 0;
    return dcpi_json_note_member(r, o, member);
}
/* Any value, checked; its text as it stands, if out is given. Recursion ends at the depth limit. */
static int dcpi_json_skip(dcpi_json_reader *r, dcpi_json_span *out) {
    const char *start;
    char c = dcpi_json_peek(r);
    int64_t count;
    int flag, done = 0;
    dcpi_json_span ignored;
    dcpi_json_object o;
    start = r->at;
    if (c == '{') {
        done = dcpi_json_object_begin(r, &o, NULL, 0);
        while (done && dcpi_json_member(r, &o)) done = dcpi_json_skip(r, NULL);
    } else if (c == '[') {
        done = dcpi_json_array(r, &count);
        while (done && dcpi_json_item(r, &count)) done = dcpi_json_skip(r, NULL);
    } else if (c == '"') {
        done = dcpi_json_string(r, &ignored);
    } else if (c == 't' || c == 'f') {
        done = dcpi_json_boolean(r, &flag);
    } else if (c == 'n') {
        done = dcpi_json_null(r);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        done = dcpi_json_number(r, &ignored, &flag);
    } else {
        char found[16];
        return dcpi_json_fail(r, r->at, "expected a value, found %s", dcpi_json_found(r, found));
    }
    if (!done || r->status) return 0;
    if (out) { out->text = start; out->length = (size_t)(r->at - start); }
    return 1;
}
/* Nothing but white space is left. */
static int dcpi_json_end(dcpi_json_reader *r) {
    char found[16];
    if (r->status) return 0;
    dcpi_json_space(r);
    return r->at == r->end ? 1 : dcpi_json_fail(r, r->at, "the document has ended, but %s follows", dcpi_json_found(r, found));
}

/* ---- writer: text through a buffer into a flush function ----------------------------------------------------------------------------- */
typedef struct dcpi_writer {
    char *buffer; size_t used, capacity;                /* the caller's; at least 1 KiB */
    dcp_status (*flush)(void *user, const void *data, size_t size, dcp_error *err); void *user;
    dcp_status status; dcp_error *err;                  /* after a failure nothing more is written */
} dcpi_writer;

static void dcpi_writer_begin(dcpi_writer *w, char *buffer, size_t capacity,
                              dcp_status (*flush)(void *user, const void *data, size_t size, dcp_error *err), void *user, dcp_error *err) {
    memset(w, 0, sizeof *w);
    w->buffer = buffer;
    w->capacity = capacity;
    w->flush = flush;
    w->user = user;
    w->err = err;
}
static void dcpi_writer_flush(dcpi_writer *w) {
    if (!w->status && w->used > 0) w->status = w->flush(w->user, w->buffer, w->used, w->err);
    w->used = 0;
}
static void dcpi_write_raw(dcpi_writer *w, const char *text, size_t length) {
    while (length > w->capacity - w->used) {
        size_t n = w->capacity - w->used;
        memcpy(w->buffer + w->used, text, n);
        w->used += n;
        text += n;
        length -= n;
        dcpi_writer_flush(w);
    }
    if (length) memcpy(w->buffer + w->used, text, length);
    w->used += length;
}
static void dcpi_write_text(dcpi_writer *w, const char *text) { dcpi_write_raw(w, text, strlen(text)); }
static void dcpi_write_int(dcpi_writer *w, int64_t value) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t v = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do { *--at = (char)('0' + v % 10); v /= 10; } while (v);
    if (value < 0) *--at = '-';
    dcpi_write_raw(w, at, (size_t)(digits + sizeof digits - at));
}
static void dcpi_write_double(dcpi_writer *w, double value) {            /* finite */
    char text[32];
    dcpi_double_text(value, text);
    dcpi_write_text(w, text);
}
static void dcpi_write_escaped(dcpi_writer *w, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;
    char text[8] = "\\u00";
    if (found) { text[1] = to[found - from]; dcpi_write_raw(w, text, 2); return; }
    text[4] = dcpi_hex_digits[c >> 4];
    text[5] = dcpi_hex_digits[c & 15];
    dcpi_write_raw(w, text, 6);
}
/* UTF-8 in quotes; only what JSON demands is escaped. */
static void dcpi_write_string(dcpi_writer *w, const char *text, size_t length) {
    size_t at = 0, run;
    dcpi_write_raw(w, "\"", 1);
    while (at < length) {
        for (run = at; run < length && (unsigned char)text[run] >= 0x20 && text[run] != '"' && text[run] != '\\';) run++;
        dcpi_write_raw(w, text + at, run - at);
        if (run < length) dcpi_write_escaped(w, (unsigned char)text[run++]);
        at = run;
    }
    dcpi_write_raw(w, "\"", 1);
}

/* ---- tree ---------------------------------------------------------------------------------------------------------------------------- */
struct dcp_json {
    dcp_json_kind kind; int is_true, is_big;            /* is_big: an integer beyond int64, in `number` as uint64 */
    int depth;
    uint64_t number;                                    /* integer (two's complement), or the bits of a double */
    const char *text; size_t length;                    /* of a string */
    const char *key; size_t key_length;                 /* in an object */
    dcp_json **items; size_t count, capacity;           /* of an array or object */
    dcp_json **sorted; size_t sorted_count;             /* of an object with many members: the first so many by key */
    dcpi_arena *arena;                                  /* the root's, which all share */
};
typedef struct dcpi_json_root { dcp_json json; dcpi_arena arena; } dcpi_json_root;
#define DCPI_JSON_SORT_FROM 17

static dcp_json *dcpi_json_root_new(dcp_json_kind kind, dcp_error *err) {
    dcpi_json_root *root = (dcpi_json_root *)dcpi_alloc_array(1, sizeof *root, err);
    if (!root) return NULL;
    root->json.kind = kind;
    root->json.arena = &root->arena;
    return &root->json;
}
static dcp_json *dcpi_json_child(dcp_json *parent, dcp_json_kind kind, dcp_error *err) {
    dcp_json *child = (dcp_json *)dcpi_arena_zero(parent->arena, sizeof *child, err);
    if (!child) return NULL;
    if (parent->count == parent->capacity) {
        size_t capacity = parent->capacity ? parent->capacity * 2 : 4, bytes;
        dcp_json **items = dcpi_mul_size(capacity, sizeof *items, &bytes) ? (dcp_json **)dcpi_arena_alloc(parent->arena, bytes, err) : NULL;
        if (!items) return NULL;
        if (parent->count) memcpy(items, parent->items, parent->count * sizeof *items);
        parent->items = items;
        parent->capacity = capacity;
        parent->sorted = NULL;
        parent->sorted_count = 0;
    }
    parent->items[parent->count++] = child;
    child->kind = kind;
    child->arena = parent->arena;
    child->depth = parent->depth + 1;
    return child;
}
static int dcpi_json_key_compare(const void *a_, const void *b_) {
    const dcp_json *a = (const dcp_json *)a_, *b = (const dcp_json *)b_;
    dcpi_json_span x, y;
    x.text = a->key; x.length = a->key_length;
    y.text = b->key; y.length = b->key_length;
    return dcpi_span_compare(&x, &y);
}
/* Sorts the members that are not sorted yet in among the others. 0: no memory. */
static int dcpi_json_sort_members(dcp_json *object, dcp_error *err) {
    size_t done = object->sorted_count;
    if (!object->sorted) object->sorted = (dcp_json **)dcpi_arena_alloc(object->arena, object->capacity * sizeof *object->sorted, err);
    if (!object->sorted) return 0;
    object->sorted_count = 0;                           /* should the sort fail: order is lost, and nothing else */
    memcpy(object->sorted + done, object->items + done, (object->count - done) * sizeof *object->sorted);
    if (dcpi_sort((const void **)object->sorted, object->count, dcpi_json_key_compare, err)) return 0;
    object->sorted_count = object->count;
    return 1;
}
static int dcpi_json_tree_value(dcpi_json_reader *r, dcp_json *node);

static int dcpi_json_tree_object(dcpi_json_reader *r, dcp_json *node) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(r, &o, NULL, 0);
    node->kind = DCP_JSON_OBJECT;
    while (done && dcpi_json_member(r, &o)) {
        dcp_json *child = dcpi_json_child(node, DCP_JSON_NULL, r->err);
        if (child) child->key = dcpi_arena_text(r->arena, o.key.text, o.key.length, r->err);
        if (!child || !child->key) return dcpi_json_no_memory(r);
        child->key_length = o.key.length;
        done = dcpi_json_tree_value(r, child);
    }
    if (!done || r->status) return 0;
    return node->count < DCPI_JSON_SORT_FROM || dcpi_json_sort_members(node, r->err) || dcpi_json_no_memory(r);
}
static int dcpi_json_tree_array(dcpi_json_reader *r, dcp_json *node) {
    int64_t count;
    int done = dcpi_json_array(r, &count);
    node->kind = DCP_JSON_ARRAY;
    while (done && dcpi_json_item(r, &count)) {
        dcp_json *child = dcpi_json_child(node, DCP_JSON_NULL, r->err);
        done = child ? dcpi_json_tree_value(r, child) : dcpi_json_no_memory(r);
    }
    return done && !r->status;
}
static int dcpi_json_tree_number(dcpi_json_reader *r, dcp_json *node) {
    dcpi_json_span span;
    int is_integer;
    int64_t small;
    double real;
    if (!dcpi_json_number(r, &span, &is_integer)) return 0;
    node->kind = DCP_JSON_INT;
    if (is_integer && dcpi_span_int64(span, &small)) { node->number = (uint64_t)small; return 1; }
    if (is_integer && span.text[0] != '-' && dcpi_digits_value(span.text, span.length, &node->number)) { node->is_big = 1; return 1; }
    node->kind = DCP_JSON_DOUBLE;
    if (!dcpi_double_parse(span.text, span.length, &real)) return dcpi_json_fail(r, span.text, "the number is beyond the doubles");
    node->number = dcpi_double_bits(real);
    return 1;
}
static int dcpi_json_tree_value(dcpi_json_reader *r, dcp_json *node) {
    char c = dcpi_json_peek(r);
    if (c == '{') return dcpi_json_tree_object(r, node);
    if (c == '[') return dcpi_json_tree_array(r, node);
    if (c == 'n') return dcpi_json_null(r);
    if (c == 't' || c == 'f') { node->kind = DCP_JSON_BOOL; return dcpi_json_boolean(r, &node->is_true); }
    if (c == '-' || (c >= '0' && c <= '9')) return dcpi_json_tree_number(r, node);
    if (c == '"') {
        node->kind = DCP_JSON_STRING;
        if (!dcpi_json_text(r, &node->text)) return 0;
        node->length = strlen(node->text);              /* NUL is refused, so this is all of it */
        return 1;
    }
    return dcpi_json_skip(r, NULL);                     /* not a value: says so */
}
DCPDEF dcp_status dcp_json_parse(const char *text, size_t size, dcp_json **out, dcp_error *err) {
    dcpi_json_reader r;
    dcp_error local;
    dcp_json *root;
    *out = NULL;
    if (!text) return dcpi_fail(err, DCP_E_INVALID, "dcp_json_parse: text is NULL");
    root = dcpi_json_root_new(DCP_JSON_NULL, &local);
    if (!root) return dcpi_no_memory(err, sizeof(dcpi_json_root));
    dcpi_json_begin(&r, text, size, root->arena, &local);
    if (dcpi_json_tree_value(&r, root)) (void)dcpi_json_end(&r);
    dcpi_json_close(&r);
    if (!r.status) { *out = root; return err ? dcpi_succeed(err) : DCP_OK; }
    dcp_json_free(root);
    if (err) *err = local;
    return r.status;
}
DCPDEF void dcp_json_free(dcp_json *root) {
    dcpi_json_root *owner = (dcpi_json_root *)(void *)root;
    if (!root) return;
    dcpi_arena_free(&owner->arena);
    dcpi_free(owner);
}
DCPDEF dcp_json_kind dcp_json_kind_of(const dcp_json *json) { return json ? json->kind : DCP_JSON_NULL; }
DCPDEF int dcp_json_bool(const dcp_json *json) { return json && json->kind == DCP_JSON_BOOL && json->is_true; }
DCPDEF dcp_status dcp_json_int(const dcp_json *json, int64_t *value) {
    if (!json || json->kind != DCP_JSON_INT || json->is_big) return DCP_E_MISMATCH;
    *value = (int64_t)json->number;
    return DCP_OK;
}
DCPDEF dcp_status dcp_json_uint(const dcp_json *json, uint64_t *value) {
    if (!json || json->kind != DCP_JSON_INT || (!json->is_big && (int64_t)json->number < 0)) return DCP_E_MISMATCH;
    *value = json->number;
    return DCP_OK;
}
DCPDEF dcp_status dcp_json_double(const dcp_json *json, double *value) {
    if (!json || (json->kind != DCP_JSON_INT && json->kind != DCP_JSON_DOUBLE)) return DCP_E_MISMATCH;
    if (json->kind == DCP_JSON_DOUBLE) *value = dcpi_double_of_bits(json->number);
    else *value = json->is_big ? (double)json->number : (double)(int64_t)json->number;
    return DCP_OK;
}
DCPDEF const char *dcp_json_string(const dcp_json *json, size_t *length) {
    int is_string = json && json->kind == DCP_JSON_STRING;
    if (length) *length = is_string ? json->length : 0;
    return is_string ? json->text : NULL;
}
DCPDEF size_t dcp_json_count(const dcp_json *json) { return json ? json->count : 0; }
DCPDEF const dcp_json *dcp_json_at(const dcp_json *json, size_t index) { return json && index < json->count ? json->items[index] : NULL; }
DCPDEF const char *dcp_json_key(const dcp_json *json, size_t index) { return json && index < json->count ? json->items[index]->key : NULL; }
DCPDEF const dcp_json *dcp_json_get(const dcp_json *object, const char *key) {
    dcp_json wanted;
    size_t low = 0, high, i;
    if (!object || object->kind != DCP_JSON_OBJECT || !key) return NULL;
    wanted.key = key;
    wanted.key_length = strlen(key);
    for (high = object->sorted_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = dcpi_json_key_compare(object->sorted[middle], &wanted);
        if (order == 0) return object->sorted[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    for (i = object->sorted_count; i < object->count; i++)
        if (dcpi_json_key_compare(&wanted, object->items[i]) == 0) return object->items[i];
    return NULL;
}
static int dcpi_is_utf8(const char *text) {
    size_t length = strlen(text), at, n;
    for (at = 0; at < length; at += n) {
        n = dcpi_utf8_length(text + at, length - at);
        if (n == 0) return 0;
    }
    return 1;
}
static dcp_json *dcpi_json_add(dcp_json *parent, const char *key, dcp_json_kind kind) {
    dcp_json *child;
    char *copy = NULL;
    if (!parent || (parent->kind != DCP_JSON_OBJECT && parent->kind != DCP_JSON_ARRAY)) return NULL;
    if ((parent->kind == DCP_JSON_OBJECT) != (key != NULL)) return NULL;
    if (parent->depth + 1 >= DCP_LIMIT_DEPTH && (kind == DCP_JSON_OBJECT || kind == DCP_JSON_ARRAY)) return NULL;
    if (key && parent->count - parent->sorted_count > 256 + parent->count / 64 && !dcpi_json_sort_members(parent, NULL)) return NULL;
    if (key && (!dcpi_is_utf8(key) || dcp_json_get(parent, key))) return NULL;
    if (key) {
        copy = dcpi_arena_text(parent->arena, key, strlen(key), NULL);
        if (!copy) return NULL;
    }
    child = dcpi_json_child(parent, kind, NULL);
    if (!child) return NULL;
    child->key = copy;
    child->key_length = key ? strlen(key) : 0;
    return child;
}
DCPDEF dcp_json *dcp_json_new_object(dcp_error *err) { (void)dcpi_succeed(err); return dcpi_json_root_new(DCP_JSON_OBJECT, err); }
DCPDEF dcp_json *dcp_json_new_array(dcp_error *err) { (void)dcpi_succeed(err); return dcpi_json_root_new(DCP_JSON_ARRAY, err); }
DCPDEF dcp_json *dcp_json_add_object(dcp_json *parent, const char *key) { return dcpi_json_add(parent, key, DCP_JSON_OBJECT); }
DCPDEF dcp_json *dcp_json_add_array(dcp_json *parent, const char *key) { return dcpi_json_add(parent, key, DCP_JSON_ARRAY); }
DCPDEF dcp_json *dcp_json_add_null(dcp_json *parent, const char *key) { return dcpi_json_add(parent, key, DCP_JSON_NULL); }
DCPDEF dcp_json *dcp_json_add_bool(dcp_json *parent, const char *key, int value) {
    dcp_json *child = dcpi_json_add(parent, key, DCP_JSON_BOOL);
    if (child) child->is_true = value != 0;
    return child;
}
DCPDEF dcp_json *dcp_json_add_int(dcp_json *parent, const char *key, int64_t value) {
    dcp_json *child = dcpi_json_add(parent, key, DCP_JSON_INT);
    if (child) child->number = (uint64_t)value;
    return child;
}
DCPDEF dcp_json *dcp_json_add_double(dcp_json *parent, const char *key, double value) {
    dcp_json *child = dcpi_double_is_finite(value) ? dcpi_json_add(parent, key, DCP_JSON_DOUBLE) : NULL;
    if (child) child->number = dcpi_double_bits(value);
    return child;
}
DCPDEF dcp_json *dcp_json_add_string(dcp_json *parent, const char *key, const char *value) {
    char *copy = parent && value && dcpi_is_utf8(value) ? dcpi_arena_text(parent->arena, value, strlen(value), NULL) : NULL;
    dcp_json *child = copy ? dcpi_json_add(parent, key, DCP_JSON_STRING) : NULL;
    if (child) { child->text = copy; child->length = strlen(copy); }
    return child;
}
static void dcpi_json_write_break(dcpi_writer *w, int indent, int depth) {
    int i;
    if (indent <= 0) return;
    dcpi_write_raw(w, "\n", 1);
    for (i = 0; i < indent * depth; i++) dcpi_write_raw(w, " ", 1);
}
static void dcpi_json_write_value(dcpi_writer *w, const dcp_json *json, int indent, int depth);

static void dcpi_json_write_items(dcpi_writer *w, const dcp_json *json, int indent, int depth) {
    size_t i;
    dcpi_write_raw(w, json->kind == DCP_JSON_OBJECT ? "{" : "[", 1);
    for (i = 0; i < json->count; i++) {
        if (i > 0) dcpi_write_raw(w, ",", 1);
        dcpi_json_write_break(w, indent, depth + 1);
        if (json->kind == DCP_JSON_OBJECT) {
            dcpi_write_string(w, json->items[i]->key, json->items[i]->key_length);
            dcpi_write_raw(w, ": ", indent > 0 ? 2 : 1);
        }
        dcpi_json_write_value(w, json->items[i], indent, depth + 1);
    }
    if (json->count > 0) dcpi_json_write_break(w, indent, depth);
    dcpi_write_raw(w, json->kind == DCP_JSON_OBJECT ? "}" : "]", 1);
}
static void dcpi_json_write_value(dcpi_writer *w, const dcp_json *json, int indent, int depth) {
    char digits[24];
    switch (json->kind) {
    case DCP_JSON_NULL:   dcpi_write_text(w, "null"); return;
    case DCP_JSON_BOOL:   dcpi_write_text(w, json->is_true ? "true" : "false"); return;
    case DCP_JSON_DOUBLE: dcpi_write_double(w, dcpi_double_of_bits(json->number)); return;
    case DCP_JSON_STRING: dcpi_write_string(w, json->text, json->length); return;
    case DCP_JSON_INT:
        if (!json->is_big) { dcpi_write_int(w, (int64_t)json->number); return; }
        (void)snprintf(digits, sizeof digits, "%" PRIu64, json->number);
        dcpi_write_text(w, digits);
        return;
    case DCP_JSON_ARRAY:
    case DCP_JSON_OBJECT: dcpi_json_write_items(w, json, indent, depth); return;
    }
}
static dcp_status dcpi_buffer_sink(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_buffer *buffer = (dcpi_buffer *)user;
    dcpi_buffer_add(buffer, data, size);
    return buffer->failed ? dcpi_no_memory(err, buffer->size + size) : DCP_OK;
}
DCPDEF dcp_status dcp_json_write(const dcp_json *json, int indent, char **text, size_t *size, dcp_error *err) {
    char chunk[1024];
    dcpi_buffer out;
    dcpi_writer w;
    *text = NULL;
    if (size) *size = 0;
    (void)dcpi_succeed(err);
    if (indent > 1000) indent = 1000;                   /* times the depth, an int */
    if (!json) return dcpi_fail(err, DCP_E_INVALID, "dcp_json_write: json is NULL");
    memset(&out, 0, sizeof out);
    dcpi_writer_begin(&w, chunk, sizeof chunk, dcpi_buffer_sink, &out, err);
    dcpi_json_write_value(&w, json, indent, 0);
    dcpi_write_raw(&w, "", 1);                          /* the NUL */
    dcpi_writer_flush(&w);
    if (w.status) { dcpi_buffer_free(&out); return w.status; }
    *text = out.data;
    if (size) *size = out.size - 1;
    return DCP_OK;
}

/* ================================================================================================================================
 * >>integrity   The last members of a document: its digest and, if it is signed, its signature.
 *
 * A document ends, byte for byte, in
 *     ,\n  "signature": { "algorithm": "A", "key": "K", "value": "H" },\n  "integrity": { "algorithm": "sha256", "value": "V" }\n}\n
 * where the signature member is there only if the document is signed. Each of the two covers a text T that names what it is about:
 *     T = "dcp-integrity-v1\n" type "\n" algorithm "\n" key "\n" decimal(len(body)) "\n" hex(SHA-256(body)) "\n"
 * body: the bytes before that member's own leading comma, so the integrity covers the signature. V = SHA-256(T) with algorithm "sha256"
 * and an empty key; H = HMAC-SHA-256(key, T), or what a signer makes of T. So one pass streams a document of any size, and a signer sees a
 * few hundred bytes.
 *
 * A reader looks for that exact tail in the raw bytes and checks it before anything is parsed: a parser never sees bytes that are damaged.
 * A newline cannot stand inside a JSON string, so in a document that parses, a tail that is found is the end of its outermost object.
 * ============================================================================================================================== */
#define DCPI_INTEGRITY_OPEN ",\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \""
#define DCPI_INTEGRITY_CLOSE "\" }\n}\n"
#define DCPI_SIGNATURE_OPEN ",\n  \"signature\": { \"algorithm\": \""
#define DCPI_SIGNATURE_KEY "\", \"key\": \""
#define DCPI_SIGNATURE_VALUE "\", \"value\": \""
#define DCPI_SIGNATURE_CLOSE "\" }"
#define DCPI_LENGTH(literal) (sizeof(literal) - 1)
#define DCPI_INTEGRITY_SIZE (DCPI_LENGTH(DCPI_INTEGRITY_OPEN) + 64 + DCPI_LENGTH(DCPI_INTEGRITY_CLOSE))
#define DCPI_INTEGRITY_TEXT 384         /* more than the longest T */

#define DCPI_TYPE_METADATA "metadata/json"
#define DCPI_TYPE_CHECKPOINT "checkpoint/json"
static const char dcpi_hmac_name[] = "hmac-sha256";

/* Takes bytes that are being made, in order. */
typedef dcp_status (*dcpi_sink)(void *user, const void *data, size_t size, dcp_error *err);

typedef struct dcpi_tail {
    int present;                        /* an integrity member stands at the end, in its exact form */
    int is_signed;                      /* and a signature member before it */
    size_t body;                        /* bytes that the integrity covers */
    size_t signed_body;                 /* bytes that the signature covers; = body if there is none */
    char algorithm[33], key[129];       /* of the signature; "" if there is none */
    const char *signature;              /* its hex digits, in the document */
    size_t signature_digits;
} dcpi_tail;

/* ---- signers and verifiers --------------------------------------------------------------------------------------------------- */
DCPDEF dcp_signer dcp_hmac_signer(const void *key, size_t key_size, const char *key_id) {
    dcp_signer signer;
    memset(&signer, 0, sizeof signer);
    signer.context = (void *)key;
    signer.algorithm = dcpi_hmac_name;
    signer.key_id = key_id;
    signer.size = 32;
    signer.key_size = key_size;
    return signer;
}
DCPDEF dcp_verifier dcp_hmac_verifier(const void *key, size_t key_size) {
    dcp_verifier verifier;
    memset(&verifier, 0, sizeof verifier);
    verifier.context = (void *)key;
    verifier.algorithm = dcpi_hmac_name;
    verifier.size = 32;
    verifier.key_size = key_size;
    return verifier;
}
static int dcpi_is_algorithm_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }
static int dcpi_is_key_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}
static int dcpi_is_algorithm(const char *text) {                        /* [a-z0-9-]{1,32} */
    size_t length = strlen(text), i;
    for (i = 0; i < length; i++) if (!dcpi_is_algorithm_char(text[i])) return 0;
    return length >= 1 && length <= 32;
}
static int dcpi_is_key_id(const char *text) {                           /* [A-Za-z0-9._-]{0,128} */
    size_t length = strlen(text), i;
    for (i = 0; i < length; i++) if (!dcpi_is_key_char(text[i])) return 0;
    return length <= 128;
}
/* What a signer and a verifier have in common. built_in: HMAC with the key at context. */
static dcp_status dcpi_signing_check(const char *what, int built_in, const void *context, size_t key_size, const char *algorithm,
                                     size_t size, dcp_error *err) {
    if (!algorithm || !dcpi_is_algorithm(algorithm))
        return dcpi_fail(err, DCP_E_INVALID, "%s.algorithm must be 1 to 32 of the characters a-z, 0-9 and '-'", what);
    if (size == 0 || size > DCP_LIMIT_SIGNATURE)
        return dcpi_fail(err, DCP_E_INVALID, "%s.size is %" PRIu64 ": a signature has 1 to %d bytes", what, (uint64_t)size,
                         (int)DCP_LIMIT_SIGNATURE);
    if (!built_in) return DCP_OK;
    if (strcmp(algorithm, dcpi_hmac_name) != 0 || size != 32)
        return dcpi_fail(err, DCP_E_INVALID, "%s: without a callback the algorithm is hmac-sha256 with 32 bytes (use dcp_hmac_%s)", what,
                         what);
    if (!context || key_size < 16)
        return dcpi_fail(err, DCP_E_INVALID, "%s: the key has %" PRIu64 " bytes; at least 16 are needed", what,
                         (uint64_t)(context ? key_size : 0));
    return DCP_OK;
}
static dcp_status dcpi_signer_check(const dcp_signer *signer, dcp_error *err) {
    dcp_status status;
    if (!signer) return dcpi_succeed(err);
    status = dcpi_signing_check("signer", signer->sign == NULL, signer->context, signer->key_size, signer->algorithm, signer->size, err);
    if (status != DCP_OK) return status;
    if (signer->key_id && !dcpi_is_key_id(signer->key_id))
        return dcpi_fail(err, DCP_E_INVALID, "signer.key_id must be at most 128 of the characters A-Z, a-z, 0-9, '.', '_' and '-'");
    return dcpi_succeed(err);
}
static dcp_status dcpi_verifier_check(const dcp_verifier *verifier, dcp_error *err) {
    dcp_status status;
    if (!verifier) return dcpi_succeed(err);
    status = dcpi_signing_check("verifier", verifier->verify == NULL, verifier->context, verifier->key_size, verifier->algorithm,
                                verifier->size, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}

/* ---- the text T -------------------------------------------------------------------------------------------------------------- */
static size_t dcpi_integrity_text(char text[DCPI_INTEGRITY_TEXT], const char *type, const char *algorithm, const char *key, uint64_t size,
                                  const uint8_t body[32]) {
    char digits[65];
    int length;
    dcpi_hex_encode(body, 32, digits);
    digits[64] = '\0';
    length = snprintf(text, DCPI_INTEGRITY_TEXT, "dcp-integrity-v1\n%s\n%s\n%s\n%" PRIu64 "\n%s\n", type, algorithm, key, size, digits);
    return (size_t)length;
}
static void dcpi_integrity_value(const char *type, uint64_t size, const uint8_t body[32], uint8_t value[32]) {     /* V */
    char text[DCPI_INTEGRITY_TEXT];
    size_t length = dcpi_integrity_text(text, type, "sha256", "", size, body);
    dcp_sha256(text, length, value);
}
/* The digest of what a stream has taken so far; the stream goes on. */
static void dcpi_integrity_digest(const dcpi_sha *sha, uint8_t digest[32]) {
    dcpi_sha copy = *sha;
    dcpi_sha_final(&copy, digest);
}

/* ---- writing: a stream that hashes what goes through it ---------------------------------------------------------------------- */
typedef struct dcpi_integrity {
    const char *type;
    const dcp_signer *signer;           /* NULL: unsigned */
    dcpi_sink sink; void *user;         /* NULL: only count; then nothing is hashed or signed */
    dcpi_sha sha;
    int64_t size;                       /* bytes so far */
} dcpi_integrity;

static dcp_status dcpi_integrity_begin(dcpi_integrity *stream, const char *type, const dcp_signer *signer, dcpi_sink sink, void *user,
                                       dcp_error *err) {
    memset(stream, 0, sizeof *stream);
    stream->type = type;
    stream->signer = signer;
    stream->sink = sink;
    stream->user = user;
    dcpi_sha_init(&stream->sha);
    return dcpi_signer_check(signer, err);
}
/* A dcpi_sink for a document's bytes up to its tail; user: the dcpi_integrity. */
static dcp_status dcpi_integrity_write(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_integrity *stream = (dcpi_integrity *)user;
    stream->size += (int64_t)size;
    if (!stream->sink) return dcpi_succeed(err);
    dcpi_sha_update(&stream->sha, data, size);
    return stream->sink(stream->user, data, size, err);
}
static int64_t dcpi_integrity_tail_size(const dcp_signer *signer) {
    size_t size = DCPI_INTEGRITY_SIZE;
    if (!signer) return (int64_t)size;
    size += DCPI_LENGTH(DCPI_SIGNATURE_OPEN) + strlen(signer->algorithm) + DCPI_LENGTH(DCPI_SIGNATURE_KEY);
    size += (signer->key_id ? strlen(signer->key_id) : 0) + DCPI_LENGTH(DCPI_SIGNATURE_VALUE);
    size += 2 * signer->size + DCPI_LENGTH(DCPI_SIGNATURE_CLOSE);
    return (int64_t)size;
}
static dcp_status dcpi_integrity_make_signature(const dcpi_integrity *stream, uint8_t *signature, dcp_error *err) {
    const dcp_signer *signer = stream->signer;
    char text[DCPI_INTEGRITY_TEXT];
    uint8_t body[32];
    size_t length;
    dcp_status status;
    dcpi_integrity_digest(&stream->sha, body);
    length = dcpi_integrity_text(text, stream->type, signer->algorithm, signer->key_id ? signer->key_id : "", (uint64_t)stream->size, body);
    if (!signer->sign) {
        dcp_hmac_sha256(signer->context, signer->key_size, text, length, signature);
        return DCP_OK;
    }
    memset(signature, 0, signer->size);                                 /* a callback that fills too little must not leak memory (G11) */
    (void)dcpi_fail(err, DCP_E_SIGNATURE, "the signer failed and gave no reason");
    status = signer->sign(signer->context, text, length, signature, err);
    if (status != DCP_OK) dcpi_fail_context(err, "signing: ");
    return status;
}
static dcp_status dcpi_integrity_write_signature(dcpi_integrity *stream, dcp_error *err) {
    const dcp_signer *signer = stream->signer;
    dcpi_buffer member = {NULL, 0, 0, 0};
    dcp_status status;
    uint8_t *signature;
    char *digits;
    signature = (uint8_t *)dcpi_alloc(3 * signer->size, err);
    if (!signature) return DCP_E_MEMORY;
    digits = (char *)signature + signer->size;
    status = dcpi_integrity_make_signature(stream, signature, err);
    if (status != DCP_OK) { dcpi_free(signature); return status; }
    dcpi_hex_encode(signature, signer->size, digits);

    dcpi_buffer_text(&member, DCPI_SIGNATURE_OPEN);
    dcpi_buffer_text(&member, signer->algorithm);
    dcpi_buffer_text(&member, DCPI_SIGNATURE_KEY);
    dcpi_buffer_text(&member, signer->key_id ? signer->key_id : "");
    dcpi_buffer_text(&member, DCPI_SIGNATURE_VALUE);
    dcpi_buffer_add(&member, digits, 2 * signer->size);
    dcpi_buffer_text(&member, DCPI_SIGNATURE_CLOSE);
    status = member.failed ? dcpi_no_memory(err, member.size) : dcpi_integrity_write(stream, member.data, member.size, err);
    dcpi_buffer_free(&member);
    dcpi_free(signature);
    return status;
}
/* The tail: all that is missing after the last member of the outermost object, its closing brace included. */
static dcp_status dcpi_integrity_end(dcpi_integrity *stream, dcp_error *err) {
    char member[DCPI_INTEGRITY_SIZE];
    uint8_t body[32], value[32];
    dcp_status status;
    if (!stream->sink) {
        stream->size += dcpi_integrity_tail_size(stream->signer);
        return dcpi_succeed(err);
    }
    if (stream->signer) {
        status = dcpi_integrity_write_signature(stream, err);
        if (status != DCP_OK) return status;
    }
    dcpi_integrity_digest(&stream->sha, body);
    dcpi_integrity_value(stream->type, (uint64_t)stream->size, body, value);
    memcpy(member, DCPI_INTEGRITY_OPEN, DCPI_LENGTH(DCPI_INTEGRITY_OPEN));
    dcpi_hex_encode(value, 32, member + DCPI_LENGTH(DCPI_INTEGRITY_OPEN));
    memcpy(member + DCPI_LENGTH(DCPI_INTEGRITY_OPEN) + 64, DCPI_INTEGRITY_CLOSE, DCPI_LENGTH(DCPI_INTEGRITY_CLOSE));
    stream->size += (int64_t)sizeof member;
    return stream->sink(stream->user, member, sizeof member, err);
}

/* ---- reading: the tail is read backwards ------------------------------------------------------------------------------------- */
static int dcpi_is_lower_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/* If text[0..*end) ends in `literal`, *end moves before it. */
static int dcpi_tail_literal(const char *text, size_t *end, const char *literal) {
    size_t length = strlen(literal);
    if (*end < length || memcmp(text + *end - length, literal, length) != 0) return 0;
    *end -= length;
    return 1;
}
/* *end moves before the characters of a kind, at most `limit`, that text[0..*end) ends in; returns how many they are. */
static size_t dcpi_tail_run(const char *text, size_t *end, int (*is_kind)(char), size_t limit) {
    size_t count = 0;
    while (count < limit && *end > 0 && is_kind(text[*end - 1])) {
        count++;
        (*end)--;
    }
    return count;
}
static void dcpi_tail_find_signature(const char *text, dcpi_tail *tail) {
    size_t end = tail->body, digits, key, key_length, algorithm, algorithm_length;
    tail->signed_body = tail->body;
    if (!dcpi_tail_literal(text, &end, DCPI_SIGNATURE_CLOSE)) return;
    digits = dcpi_tail_run(text, &end, dcpi_is_lower_hex, 2 * (size_t)DCP_LIMIT_SIGNATURE);
    tail->signature = text + end;
    if (digits == 0 || digits % 2 != 0 || !dcpi_tail_literal(text, &end, DCPI_SIGNATURE_VALUE)) return;
    key_length = dcpi_tail_run(text, &end, dcpi_is_key_char, 128);
    key = end;
    if (!dcpi_tail_literal(text, &end, DCPI_SIGNATURE_KEY)) return;
    algorithm_length = dcpi_tail_run(text, &end, dcpi_is_algorithm_char, 32);
    algorithm = end;
    if (algorithm_length == 0 || !dcpi_tail_literal(text, &end, DCPI_SIGNATURE_OPEN)) return;
    memcpy(tail->key, text + key, key_length);
    memcpy(tail->algorithm, text + algorithm, algorithm_length);
    tail->signature_digits = digits;
    tail->signed_body = end;
    tail->is_signed = 1;
}
static void dcpi_tail_find(const char *text, size_t size, dcpi_tail *tail, uint8_t value[32]) {
    size_t end = size;
    memset(tail, 0, sizeof *tail);
    if (!dcpi_tail_literal(text, &end, DCPI_INTEGRITY_CLOSE)) return;
    if (dcpi_tail_run(text, &end, dcpi_is_lower_hex, 64) != 64) return;
    (void)dcpi_hex_decode(text + end, 64, value);
    if (!dcpi_tail_literal(text, &end, DCPI_INTEGRITY_OPEN)) return;
    tail->present = 1;
    tail->body = end;
    dcpi_tail_find_signature(text, tail);
}
/* Which of the format's kinds of document has this digest? Only for a message: NULL if none. */
static const char *dcpi_tail_type(uint64_t size, const uint8_t body[32], const uint8_t value[32]) {
    static const char *const types[] = {DCPI_TYPE_METADATA, DCPI_TYPE_CHECKPOINT, "manifest/json"};
    uint8_t other[32];
    size_t i;
    for (i = 0; i < DCPI_COUNT(types); i++) {
        dcpi_integrity_value(types[i], size, body, other);
        if (dcpi_sha_equal(other, value, 32)) return types[i];
    }
    return NULL;
}
static dcp_status dcpi_tail_check_value(const char *type, const dcpi_tail *tail, const uint8_t body[32], const uint8_t value[32],
                                        dcp_status failure, dcp_error *err) {
    uint8_t expected[32];
    const char *other;
    dcpi_integrity_value(type, tail->body, body, expected);
    if (dcpi_sha_equal(expected, value, 32)) return DCP_OK;
    other = dcpi_tail_type(tail->body, body, value);
    if (other) return dcpi_fail(err, failure, "this is a document of type %s where one of type %s belongs", other, type);
    return dcpi_fail(err, failure, "the document is damaged or was edited: its integrity member does not match its bytes");
}
/* What the verifier needs is there: a signature of its algorithm and size. */
static dcp_status dcpi_tail_check_kind(const dcpi_tail *tail, const dcp_verifier *verifier, dcp_error *err) {
    if (!tail->is_signed)
        return dcpi_fail(err, DCP_E_SIGNATURE, "the document is not signed, or its signature was stripped");
    if (strcmp(tail->algorithm, verifier->algorithm) != 0)
        return dcpi_fail(err, DCP_E_SIGNATURE, "the document is signed with %s (key \"%s\"), and the verifier is for %s", tail->algorithm,
                         tail->key, verifier->algorithm);
    if (tail->signature_digits != 2 * verifier->size)
        return dcpi_fail(err, DCP_E_SIGNATURE, "the signature has %" PRIu64 " bytes, %s has %" PRIu64,
                         (uint64_t)(tail->signature_digits / 2), verifier->algorithm, (uint64_t)verifier->size);
    return DCP_OK;
}
static dcp_status dcpi_tail_verify(const char *type, const dcpi_tail *tail, const uint8_t body[32], const dcp_verifier *verifier,
                                   dcp_error *err) {
    char text[DCPI_INTEGRITY_TEXT];
    size_t length = dcpi_integrity_text(text, type, tail->algorithm, tail->key, tail->signed_body, body);
    uint8_t expected[32], *signature;
    int accepted;
    signature = (uint8_t *)dcpi_alloc(verifier->size, err);
    if (!signature) return DCP_E_MEMORY;
    (void)dcpi_hex_decode(tail->signature, tail->signature_digits, signature);
    if (verifier->verify) {
        dcp_error reason;
        accepted = verifier->verify(verifier->context, tail->key, text, length, signature, &reason) == DCP_OK;
    } else {
        dcp_hmac_sha256(verifier->context, verifier->key_size, text, length, expected);
        accepted = dcpi_sha_equal(expected, signature, 32);
    }
    dcpi_free(signature);
    if (accepted) return dcpi_succeed(err);
    return dcpi_fail(err, DCP_E_SIGNATURE, "the %s signature (key \"%s\") does not match: another key, or the document was changed",
                     tail->algorithm, tail->key);
}
/* Checks the tail of a document. No tail and no verifier: DCP_OK with tail->present 0, and the caller, once it has parsed, decides whether
 * the document may lack one. A tail that does not match is DCP_E_CHECKSUM. With a verifier whatever is wrong is DCP_E_SIGNATURE. */
static dcp_status dcpi_integrity_check(const char *type, const char *text, size_t size, const dcp_verifier *verifier, dcpi_tail *tail,
                                       dcp_error *err) {
    uint8_t value[32], signed_body[32], body[32];
    dcp_status status = dcpi_verifier_check(verifier, err);
    dcpi_sha sha;
    memset(tail, 0, sizeof *tail);
    if (status != DCP_OK) return status;
    dcpi_tail_find(text, size, tail, value);
    if (!tail->present) {
        if (!verifier) return dcpi_succeed(err);
        return dcpi_fail(err, DCP_E_SIGNATURE,
                         "the document does not end in an integrity member: it is not signed, cut short, or not ours");
    }
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, text, tail->signed_body);
    dcpi_integrity_digest(&sha, signed_body);
    dcpi_sha_update(&sha, text + tail->signed_body, tail->body - tail->signed_body);
    dcpi_integrity_digest(&sha, body);

    status = dcpi_tail_check_value(type, tail, body, value, verifier ? DCP_E_SIGNATURE : DCP_E_CHECKSUM, err);
    if (status != DCP_OK) return status;
    if (!verifier) return dcpi_succeed(err);
    status = dcpi_tail_check_kind(tail, verifier, err);
    return status == DCP_OK ? dcpi_tail_verify(type, tail, signed_body, verifier, err) : status;
}

/* ================================================================================================================================
 * >>boxes       Data types, and N-dimensional boxes: where they meet, whether they tile a tensor, and how one is copied between a file and
 *               memory. Pure functions; shapes come in as validated numbers (>= 0, product below 2^63).
 * ============================================================================================================================== */

/* ---- data types -------------------------------------------------------------------------------------------------------------- */
typedef struct dcpi_dtype { const char *name; int bits; const char *aliases; } dcpi_dtype;     /* aliases: a space before and after each */

static const dcpi_dtype dcpi_dtypes[] = {                               /* in the order of dcp_dtype, which begins at 1 */
    {"fp32", 32, " float32 float f32 single "},
    {"fp64", 64, " float64 double f64 "},
    {"fp16", 16, " float16 half f16 "},
    {"bf16", 16, " bfloat16 "},
    {"fp8_e4m3", 8, " float8_e4m3fn float8_e4m3 f8_e4m3fn f8_e4m3 fp8_e4m3fn "},
    {"fp8_e5m2", 8, " float8_e5m2 f8_e5m2 "},
    {"int64", 64, " i64 long "},
    {"int32", 32, " i32 int "},
    {"int16", 16, " i16 short "},
    {"int8", 8, " i8 sbyte "},
    {"uint64", 64, " u64 ulong "},
    {"uint32", 32, " u32 uint "},
    {"uint16", 16, " u16 ushort "},
    {"uint8", 8, " u8 byte "},
    {"bool", 8, " boolean bool_ "},
    {"complex64", 64, " c64 cfloat "},
    {"complex128", 128, " c128 cdouble "},
    {"fp4_e2m1", 4, " float4_e2m1fn float4_e2m1 f4_e2m1 fp4 "},
    {"int4", 4, ""},
    {"uint4", 4, ""},
    {"opaque", 0, ""}
};
static const dcpi_dtype *dcpi_dtype_of(dcp_dtype dtype) {
    size_t index = (size_t)((int)dtype - 1);
    return (int)dtype >= 1 && index < DCPI_COUNT(dcpi_dtypes) ? &dcpi_dtypes[index] : NULL;
}
DCPDEF const char *dcp_dtype_name(dcp_dtype dtype) {
    const dcpi_dtype *entry = dcpi_dtype_of(dtype);
    return entry ? entry->name : NULL;
}
DCPDEF int dcp_dtype_bits(dcp_dtype dtype) {
    const dcpi_dtype *entry = dcpi_dtype_of(dtype);
    return entry ? entry->bits : 0;
}
static dcp_dtype dcpi_dtype_exact(const char *name, size_t length) {    /* our own names only; DCP_OPAQUE: none of them */
    size_t i;
    for (i = 0; i + 1 < DCPI_COUNT(dcpi_dtypes); i++) {
        const char *own = dcpi_dtypes[i].name;
        if (strlen(own) == length && memcmp(own, name, length) == 0) return (dcp_dtype)(i + 1);
    }
    return DCP_OPAQUE;
}
DCPDEF dcp_dtype dcp_dtype_parse(const char *name) {
    char word[34] = " ";                                                /* lower case, with a space on both sides */
    size_t length, i;
    dcp_dtype exact;
    if (!name) return DCP_OPAQUE;
    if (dcpi_starts_with(name, "torch.")) name += 6;
    length = strlen(name);
    if (length == 0 || length > 31 || strchr(name, ' ')) return DCP_OPAQUE;
    for (i = 0; i < length; i++) word[i + 1] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    exact = dcpi_dtype_exact(word + 1, length);
    if (exact != DCP_OPAQUE) return exact;
    word[length + 1] = ' ';
    word[length + 2] = '\0';
    for (i = 0; i < DCPI_COUNT(dcpi_dtypes); i++) if (strstr(dcpi_dtypes[i].aliases, word)) return (dcp_dtype)(i + 1);
    return DCP_OPAQUE;
}
/* Bytes of so many elements; 0 if that does not fit. Types of four bits stand two to a byte. */
static int dcpi_dtype_size(dcp_dtype dtype, int64_t elements, int64_t *size) {
    int bits = dcp_dtype_bits(dtype);
    if (bits >= 8) return dcpi_mul(elements, bits / 8, size);
    *size = elements / 2 + elements % 2;
    return elements >= 0;
}

/* ---- boxes --------------------------------------------------------------------------------------------------------------------------- */
static int64_t dcpi_box_elements(int ndim, const int64_t *shape) {
    int64_t count = 1;
    int d;
    for (d = 0; d < ndim; d++) count *= shape[d];
    return count;
}
/* The part that two boxes have in common; 0 if there is none. A scalar is a box of one element. */
static int dcpi_box_meet(int ndim, const int64_t *offset_a, const int64_t *shape_a, const int64_t *offset_b, const int64_t *shape_b,
                         int64_t *offset, int64_t *shape) {
    int d;
    for (d = 0; d < ndim; d++) {
        int64_t low = dcpi_max(offset_a[d], offset_b[d]), high = dcpi_min(offset_a[d] + shape_a[d], offset_b[d] + shape_b[d]);
        if (high <= low) return 0;
        offset[d] = low;
        shape[d] = high - low;
    }
    return 1;
}
/* "[0:4, 2:8]", for messages. */
static const char *dcpi_box_text(int ndim, const int64_t *offset, const int64_t *shape, char *text, size_t capacity) {
    size_t used = 0;
    int d;
    (void)snprintf(text, capacity, "[");
    for (d = 0; d < ndim; d++) {
        used = strlen(text);
        (void)snprintf(text + used, capacity - used, "%s%" PRId64 ":%" PRId64, d ? ", " : "", offset[d], offset[d] + shape[d]);
    }
    used = strlen(text);
    (void)snprintf(text + used, capacity - used, "]");
    return text;
}
static const char *dcpi_shape_text(int ndim, const int64_t *shape, char *text, size_t capacity) {
    size_t used = 0;
    int d;
    (void)snprintf(text, capacity, "[");
    for (d = 0; d < ndim; d++) {
        used = strlen(text);
        (void)snprintf(text + used, capacity - used, "%s%" PRId64, d ? ", " : "", shape[d]);
    }
    used = strlen(text);
    (void)snprintf(text + used, capacity - used, "]");
    return text;
}

/* ---- tiling: do boxes cover a region exactly? ------------------------------------------------------------------------------------
 * Problem: n boxes may overlap or leave holes, and comparing them pairwise takes minutes for a million. Solution: cut the region along one
 * dimension wherever no box straddles the cut, and look at each slab by itself; a slab with one box that fills it is done. Grids of any
 * kind fall apart at once, n log n in all. Where every cut straddles a box (a pinwheel), cut at the median edge and let both sides see the
 * straddlers; the work is bounded, so boxes made up by a hostile file end in DCPI_TILES_IRREGULAR, not in a hang. */
/* tag: the caller's number of the box */
typedef struct dcpi_tile { const int64_t *offset, *shape; int64_t key; size_t tag; } dcpi_tile;
typedef enum dcpi_tiles { DCPI_TILES_OK, DCPI_TILES_OVERLAP, DCPI_TILES_IRREGULAR, DCPI_TILES_NO_MEMORY } dcpi_tiles;
typedef struct dcpi_tiling {
    int ndim, depth;
    int64_t work;                                       /* boxes looked at so far may still be: at 0 the boxes are too irregular */
    size_t overlap[2];                                  /* tags, after DCPI_TILES_OVERLAP */
    int has_hole; int64_t hole_offset[DCP_MAX_DIMS], hole_shape[DCP_MAX_DIMS];         /* the first one found */
} dcpi_tiling;

static dcpi_tiles dcpi_tile_region(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high);

static int dcpi_tile_compare(const void *a, const void *b) {
    int64_t x = ((const dcpi_tile *)a)->key, y = ((const dcpi_tile *)b)->key;
    return x < y ? -1 : x > y;
}
static int64_t dcpi_tile_end(const dcpi_tile *tile, int d) { return tile->offset[d] + tile->shape[d]; }

static void dcpi_tile_hole(dcpi_tiling *t, const int64_t *low, const int64_t *high) {
    int d;
    if (t->has_hole) return;
    t->has_hole = 1;
    for (d = 0; d < t->ndim; d++) {
        t->hole_offset[d] = low[d];
        t->hole_shape[d] = high[d] - low[d];
    }
}
/* The same region with other bounds in dimension d. */
static dcpi_tiles dcpi_tile_slab(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high, int d,
                                 int64_t from, int64_t to) {
    int64_t slab_low[DCP_MAX_DIMS], slab_high[DCP_MAX_DIMS];
    memcpy(slab_low, low, sizeof slab_low);
    memcpy(slab_high, high, sizeof slab_high);
    slab_low[d] = from;
    slab_high[d] = to;
    if (count == 0) { dcpi_tile_hole(t, slab_low, slab_high); return DCPI_TILES_OK; }
    return dcpi_tile_region(t, tiles, count, slab_low, slab_high);
}
/* Cuts along d between boxes. *cut says whether there was anything to cut: else every box reaches another and they span the region. */
static dcpi_tiles dcpi_tile_cut_between(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high, int d,
                                        int *cut) {
    size_t i, first = 0;
    int64_t end = low[d];
    for (i = 0; i < count; i++) tiles[i]->key = dcpi_max(tiles[i]->offset[d], low[d]);
    if (dcpi_sort((const void **)tiles, count, dcpi_tile_compare, NULL)) return DCPI_TILES_NO_MEMORY;
    *cut = tiles[0]->key > low[d];
    for (i = 0; i < count && !*cut; i++) {
        if (i > 0 && tiles[i]->key >= end) *cut = 1;
        end = dcpi_max(end, dcpi_min(dcpi_tile_end(tiles[i], d), high[d]));
    }
    if (!*cut && end >= high[d]) return DCPI_TILES_OK;
    *cut = 1;
    for (end = low[d]; first < count;) {
        int64_t start = tiles[first]->key, reach = start;
        dcpi_tiles result;
        if (start > end && dcpi_tile_slab(t, NULL, 0, low, high, d, end, start)) return DCPI_TILES_IRREGULAR;
        for (i = first; i < count && (i == first || tiles[i]->key < reach); i++)
            reach = dcpi_max(reach, dcpi_min(dcpi_tile_end(tiles[i], d), high[d]));
        result = dcpi_tile_slab(t, tiles + first, i - first, low, high, d, start, reach);
        if (result) return result;
        first = i;
        end = reach;
    }
    if (end < high[d]) return dcpi_tile_slab(t, NULL, 0, low, high, d, end, high[d]);
    return DCPI_TILES_OK;
}
/* A value of dimension d where some box ends or starts inside the region: the median start, else the lowest end; low if there is none. */
static int64_t dcpi_tile_edge(dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high, int d) {
    int64_t edge = low[d];
    size_t i;
    for (i = count / 2; i < count; i++) if (tiles[i]->key > low[d]) return tiles[i]->key;
    for (i = 0; i < count; i++) {
        int64_t end = dcpi_tile_end(tiles[i], d);
        if (tiles[i]->key > low[d]) return tiles[i]->key;
        if (end < high[d] && (edge == low[d] || end < edge)) edge = end;
    }
    return edge;
}
static dcpi_tiles dcpi_tile_cut_through(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high, int d,
                                        int64_t edge) {
    dcpi_tile **side = (dcpi_tile **)dcpi_alloc_array(count, sizeof *side, NULL);
    dcpi_tiles result = DCPI_TILES_NO_MEMORY;
    size_t i, n;
    if (!side) return result;
    for (n = 0, i = 0; i < count; i++) if (tiles[i]->offset[d] < edge) side[n++] = tiles[i];
    result = dcpi_tile_slab(t, side, n, low, high, d, low[d], edge);
    if (!result) {
        for (n = 0, i = 0; i < count; i++) if (dcpi_tile_end(tiles[i], d) > edge) side[n++] = tiles[i];
        result = dcpi_tile_slab(t, side, n, low, high, d, edge, high[d]);
    }
    dcpi_free(side);
    return result;
}
static dcpi_tiles dcpi_tile_region(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high) {
    int64_t edge;
    int d, cut = 0;
    dcpi_tiles result = DCPI_TILES_OK;
    t->work -= (int64_t)count;
    if (t->work < 0 || t->depth >= 200) return DCPI_TILES_IRREGULAR;
    t->depth++;
    for (d = 0; d < t->ndim && !cut && !result; d++) result = dcpi_tile_cut_between(t, tiles, count, low, high, d, &cut);
    for (d = t->ndim - 1; d >= 0 && !cut && !result; d--) {             /* no cut without straddlers: through the boxes, then */
        size_t i;
        for (i = 0; i < count; i++) tiles[i]->key = dcpi_max(tiles[i]->offset[d], low[d]);
        if (dcpi_sort((const void **)tiles, count, dcpi_tile_compare, NULL)) result = DCPI_TILES_NO_MEMORY;
        edge = dcpi_tile_edge(tiles, count, low, high, d);
        if (!result && edge > low[d]) { cut = 1; result = dcpi_tile_cut_through(t, tiles, count, low, high, d, edge); }
    }
    t->depth--;
    if (result || cut || count < 2) return result;
    t->overlap[0] = tiles[0]->tag;                                      /* nothing to cut: each of them fills the region */
    t->overlap[1] = tiles[1]->tag;
    return DCPI_TILES_OVERLAP;
}
/* tiles: boxes that all meet the region low..high. After OK has_hole tells whether they cover it. Their order changes. */
static dcpi_tiles dcpi_tiling_check(dcpi_tiling *t, int ndim, dcpi_tile **tiles, size_t count, const int64_t *offset,
                                    const int64_t *shape) {
    int64_t low[DCP_MAX_DIMS] = {0}, high[DCP_MAX_DIMS] = {0};
    size_t n;
    int d;
    memset(t, 0, sizeof *t);
    t->ndim = ndim;
    for (t->work = 1000, n = count; n > 0; n /= 2) t->work += 16 * (int64_t)count;
    for (d = 0; d < ndim; d++) {
        low[d] = offset[d];
        high[d] = offset[d] + shape[d];
    }
    if (count == 0) { if (dcpi_box_elements(ndim, shape) > 0) dcpi_tile_hole(t, low, high); return DCPI_TILES_OK; }
    return dcpi_tile_region(t, tiles, count, low, high);
}

/* ---- walk: one box that lies row-major in a piece's file and, perhaps strided, in memory -------------------------------------------- */
typedef struct dcpi_walk {
    int ndim;                                           /* at least 1; the last dimension is one run of bytes in both places */
    int64_t count[DCP_MAX_DIMS + 1];
    int64_t file_step[DCP_MAX_DIMS + 1], memory_step[DCP_MAX_DIMS + 1];                 /* bytes */
    int64_t file_start, memory_start;                   /* bytes from the piece's first byte, from the tensor's data */
} dcpi_walk;

static void dcpi_row_major(int ndim, const int64_t *shape, int64_t *stride) {
    int64_t step = 1;
    int d;
    for (d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape[d];
    }
}
static int dcpi_is_row_major(int ndim, const int64_t *shape, const int64_t *stride) {
    int64_t dense[DCP_MAX_DIMS];
    int d;
    dcpi_row_major(ndim, shape, dense);
    for (d = 0; d < ndim; d++) if (shape[d] > 1 && stride[d] != dense[d]) return 0;
    return 1;
}
/* Joins neighbouring dimensions that are one run in both places, drops those of one element, so that few, long copies remain. */
static void dcpi_walk_collapse(dcpi_walk *w, int ndim, const int64_t *count, const int64_t *file_step, const int64_t *memory_step,
                               int64_t unit) {
    int d, n = 0;
    for (d = 0; d < ndim; d++) {
        if (count[d] == 1) continue;
        if (n > 0 && w->file_step[n - 1] == count[d] * file_step[d] && w->memory_step[n - 1] == count[d] * memory_step[d]) {
            w->count[n - 1] *= count[d];
        } else {
            w->count[n++] = count[d];
        }
        w->file_step[n - 1] = file_step[d];
        w->memory_step[n - 1] = memory_step[d];
    }
    if (n == 0 || w->file_step[n - 1] != unit || w->memory_step[n - 1] != unit) {       /* elements apart: a run is one element */
        w->count[n] = 1;
        w->file_step[n] = unit;
        w->memory_step[n] = unit;
        n++;
    }
    w->count[n - 1] *= unit;                            /* the last dimension counts bytes */
    w->ndim = n;
}
/* Types of 4 bits: 1 where every run starts and ends at a byte, or where the piece of so many elements ends. Steps and counts come in half
 * bytes and leave in bytes. */
static int dcpi_walk_halve(dcpi_walk *w, int64_t elements) {
    int d, last = w->ndim - 1, to_the_end = w->ndim == 1 && w->file_start + w->count[0] == elements;
    if (w->file_start % 2 || w->memory_start % 2 || (w->count[last] % 2 && !to_the_end)) return 0;
    for (d = 0; d < last; d++) {
        if (w->file_step[d] % 2 || w->memory_step[d] % 2) return 0;
        w->file_step[d] /= 2;
        w->memory_step[d] /= 2;
    }
    w->count[last] = (w->count[last] + 1) / 2;
    w->file_start /= 2;
    w->memory_start /= 2;
    return 1;
}
/* box: shape `count`, at `in_piece` within a piece of shape `piece`, at `in_memory` within memory of these strides (elements). bits: of an
 * element. 0: the box cuts a byte (types of 4 bits). */
static int dcpi_walk_make(dcpi_walk *w, int ndim, int bits, const int64_t *count, const int64_t *piece, const int64_t *in_piece,
                          const int64_t *in_memory, const int64_t *stride) {
    int64_t file_step[DCP_MAX_DIMS], memory_step[DCP_MAX_DIMS], unit = bits < 8 ? 1 : bits / 8;
    int d;
    memset(w, 0, sizeof *w);
    dcpi_row_major(ndim, piece, file_step);
    for (d = 0; d < ndim; d++) {
        file_step[d] *= unit;
        memory_step[d] = stride[d] * unit;
        w->file_start += in_piece[d] * file_step[d];
        w->memory_start += in_memory[d] * memory_step[d];
    }
    dcpi_walk_collapse(w, ndim, count, file_step, memory_step, unit);
    return bits >= 8 || dcpi_walk_halve(w, dcpi_box_elements(ndim, piece));
}
/* Whether the box is one run, the same bytes in the same order in both places. */
static int dcpi_walk_is_run(const dcpi_walk *w) { return w->ndim == 1; }

/* A place on the walk: run number r, its offsets, and the odometer that leads to the next. */
typedef struct dcpi_step { int64_t index[DCP_MAX_DIMS + 1]; int64_t file, memory; } dcpi_step;

static void dcpi_step_to(const dcpi_walk *w, int64_t run, dcpi_step *s) {
    int d;
    s->file = w->file_start;
    s->memory = w->memory_start;
    for (d = w->ndim - 2; d >= 0; d--) {
        s->index[d] = run % w->count[d];
        run /= w->count[d];
        s->file += s->index[d] * w->file_step[d];
        s->memory += s->index[d] * w->memory_step[d];
    }
}
static void dcpi_step_next(const dcpi_walk *w, dcpi_step *s) {
    int d;
    for (d = w->ndim - 2; d >= 0; d--) {
        s->file += w->file_step[d];
        s->memory += w->memory_step[d];
        if (++s->index[d] < w->count[d]) return;
        s->index[d] = 0;
        s->file -= w->count[d] * w->file_step[d];
        s->memory -= w->count[d] * w->memory_step[d];
    }
}
static int64_t dcpi_walk_runs(const dcpi_walk *w) {
    int64_t runs = 1;
    int d;
    for (d = 0; d < w->ndim - 1; d++) runs *= w->count[d];
    return runs;
}
/* The first run that ends beyond byte `begin` of the piece: runs rise in the file, so a binary search finds it. */
static int64_t dcpi_walk_seek(const dcpi_walk *w, int64_t begin, int64_t runs) {
    int64_t low = 0, high = runs, run = w->count[w->ndim - 1];
    dcpi_step s;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        dcpi_step_to(w, middle, &s);
        if (s.file + run > begin) high = middle;
        else low = middle + 1;
    }
    return low;
}
/* The bytes [begin, end) of the piece that belong to the box, as the range from the first to the last of them; 0 if there are none. */
static int dcpi_walk_range(const dcpi_walk *w, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
    int64_t runs = dcpi_walk_runs(w), run = w->count[w->ndim - 1], at;
    dcpi_step s;
    if (begin >= end || runs == 0 || run == 0) return 0;
    at = dcpi_walk_seek(w, begin, runs);
    if (at == runs) return 0;
    dcpi_step_to(w, at, &s);
    if (s.file >= end) return 0;
    *first = dcpi_max(s.file, begin);
    /* the first run that ends beyond `end`; it or the one before reaches the range last */
    at = dcpi_walk_seek(w, end, runs);
    if (at == runs) at--;
    dcpi_step_to(w, at, &s);
    if (s.file >= end) dcpi_step_to(w, at - 1, &s);
    *last = dcpi_min(s.file + run, end);
    return 1;
}
/* Copies the bytes [begin, end) of the piece that belong to the box; `file` holds byte `begin` first. Other bytes are left alone. */
static void dcpi_walk_copy(const dcpi_walk *w, int64_t begin, int64_t end, uint8_t *file, uint8_t *memory, int to_memory) {
    int64_t runs = dcpi_walk_runs(w), run = w->count[w->ndim - 1], at;
    dcpi_step s;
    if (runs == 0 || run == 0) return;
    at = dcpi_walk_seek(w, begin, runs);
    dcpi_step_to(w, at, &s);
    for (; at < runs && s.file < end; at++, dcpi_step_next(w, &s)) {
        int64_t low = dcpi_max(s.file, begin), high = dcpi_min(s.file + run, end);
        uint8_t *in_file = file + (low - begin), *in_memory = memory + s.memory + (low - s.file);
        if (to_memory) memcpy(in_memory, in_file, (size_t)(high - low));
        else memcpy(in_file, in_memory, (size_t)(high - low));
    }
}

/* Files are little-endian; `width` is the size of a number in bytes. A complex element is two numbers. */
static int dcpi_dtype_width(dcp_dtype dtype) {
    int bits = dcp_dtype_bits(dtype);
    if (dtype == DCP_COMPLEX64 || dtype == DCP_COMPLEX128) bits /= 2;
    return bits < 8 ? 1 : bits / 8;
}
static void dcpi_swap_bytes(uint8_t *bytes, int64_t size, int width) {
    int64_t i;
    int j;
    if (!DCPI_BIG_ENDIAN || width < 2) return;
    for (i = 0; i + width <= size; i += width) {
        for (j = 0; j < width / 2; j++) {
            uint8_t swapped = bytes[i + j];
            bytes[i + j] = bytes[i + width - 1 - j];
            bytes[i + width - 1 - j] = swapped;
        }
    }
}

/* ---- the caller's tensors ------------------------------------------------------------------------------------------------------------ */
static int dcpi_has_global(const dcp_tensor *t) {
    int d;
    for (d = 0; d < t->ndim; d++) if (t->global_shape[d] != 0) return 1;
    return 0;
}
static const int64_t *dcpi_global_shape(const dcp_tensor *t) { return dcpi_has_global(t) ? t->global_shape : t->shape; }

static void dcpi_effective_stride(const dcp_tensor *t, int64_t *stride) {
    int d;
    for (d = 0; d < t->ndim; d++) if (t->stride[d] != 0) break;
    if (d == t->ndim) dcpi_row_major(t->ndim, t->shape, stride);
    else memcpy(stride, t->stride, sizeof t->stride);
}
/* The bytes of a checked tensor's own piece. */
static int64_t dcpi_tensor_bytes(const dcp_tensor *t) {
    int64_t bytes = 0;
    if (t->dtype == DCP_OPAQUE) return 0;
    (void)dcpi_dtype_size(t->dtype, dcpi_box_elements(t->ndim, t->shape), &bytes);
    return bytes;
}
static dcp_status dcpi_tensor_check_shape(const dcp_tensor *t, dcp_error *err) {
    int64_t elements = 1, whole = 1, bytes;
    int d, global;
    if (t->ndim < 0 || t->ndim > DCP_MAX_DIMS)
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": ndim is %d; 0 to %d are possible", t->name, t->ndim, DCP_MAX_DIMS);
    global = dcpi_has_global(t);
    for (d = 0; d < DCP_MAX_DIMS; d++) {
        if (d >= t->ndim && (t->shape[d] || t->global_shape[d] || t->global_offset[d] || t->stride[d]))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": ndim is %d, but entry %d of shape, global_shape, global_offset or stride is not 0; is ndim right?",
                             t->name, t->ndim, d);
        if (t->shape[d] < 0 || t->global_shape[d] < 0 || t->global_offset[d] < 0)
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": entry %d of shape, global_shape or global_offset is negative", t->name, d);
        if (d >= t->ndim) continue;
        if (!global && t->global_offset[d] != 0)
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": global_offset is set, but global_shape is not (dcp_piece sets both)",
                             t->name);
        if (global && (t->global_offset[d] > t->global_shape[d] || t->shape[d] > t->global_shape[d] - t->global_offset[d]))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": in dimension %d the piece ends at %" PRId64 " + %" PRId64 ", beyond global_shape %" PRId64,
                    t->name, d,
                             t->global_offset[d], t->shape[d], t->global_shape[d]);
        if (!dcpi_mul(elements, dcpi_max(t->shape[d], 1), &elements) || !dcpi_mul(whole, dcpi_max(dcpi_global_shape(t)[d], 1), &whole))
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its number of elements exceeds 2^63", t->name);
    }
    if (t->dtype != DCP_OPAQUE && (!dcpi_dtype_size(t->dtype, elements, &bytes) || !dcpi_dtype_size(t->dtype, whole, &bytes)))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its size exceeds 2^63 bytes", t->name);
    return DCP_OK;
}
/* Strides that let no two elements share memory: from the smallest up, each steps over all that the smaller ones span. */
static dcp_status dcpi_tensor_check_stride(const dcp_tensor *t, dcp_error *err) {
    int64_t stride[DCP_MAX_DIMS], span = 0, reach, end;
    int d, n, done[DCP_MAX_DIMS] = {0}, bits = dcp_dtype_bits(t->dtype);
    for (d = 0; d < t->ndim; d++) {
        if (t->stride[d] < 0) return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": stride[%d] is negative", t->name, d);
        if (t->shape[d] == 0) return DCP_OK;
    }
    dcpi_effective_stride(t, stride);
    if (bits < 8 && !dcpi_is_row_major(t->ndim, t->shape, stride))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": elements of %s cannot be strided", t->name, dcp_dtype_name(t->dtype));
    for (n = 0; n < t->ndim; n++) {
        int smallest = -1;
        for (d = 0; d < t->ndim; d++) if (!done[d] && (smallest < 0 || stride[d] < stride[smallest])) smallest = d;
        done[smallest] = 1;
        if (t->shape[smallest] == 1) continue;
        if (stride[smallest] <= span)
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": stride[%d] = %" PRId64 " makes elements share memory", t->name, smallest,
                             stride[smallest]);
        if (!dcpi_mul(t->shape[smallest] - 1, stride[smallest], &reach) || !dcpi_add(span, reach, &span) || !dcpi_mul(span, 16, &end))
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its strides exceed 2^63 bytes", t->name);
    }
    return DCP_OK;
}
/* What a tensor must fulfil by itself, to be saved or wanted. */
static dcp_status dcpi_tensor_check(const dcp_tensor *t, int saving, dcp_error *err) {
    dcp_status status;
    if (!t->name || !dcpi_is_name(t->name, DCP_LIMIT_NAME))
        return dcpi_fail(err, DCP_E_INVALID,
                         "a tensor's name is missing, empty, longer than %d bytes, not UTF-8, or has control characters: \"%.80s\"",
                (int)DCP_LIMIT_NAME, t->name ? t->name : "");
    if (dcp_dtype_bits(t->dtype) == 0 && !(t->dtype == DCP_OPAQUE && !saving))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": dtype %d is none that can be %s", t->name, (int)t->dtype,
                         saving ? "saved" : "wanted");
    if ((int)t->placement < 0 || t->placement > DCP_PLACE_SHARDED)
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": placement %d is none", t->name, (int)t->placement);
    status = dcpi_tensor_check_shape(t, err);
    if (!status && t->dtype != DCP_OPAQUE) status = dcpi_tensor_check_stride(t, err);
    if (status) return status;
    if (t->device && (!t->device->wait || (saving ? !t->device->copy_out : !t->device->copy_in)))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its device lacks %s or wait", t->name, saving ? "copy_out" : "copy_in");
    if (!t->data && !t->device && (t->dtype == DCP_OPAQUE || dcpi_tensor_bytes(t) > 0))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": data is NULL", t->name);
    return DCP_OK;
}

DCPDEF dcp_tensor dcp_array(const char *name, dcp_dtype dtype, const void *data, int ndim, const int64_t *shape) {
    dcp_tensor t;
    int d;
    memset(&t, 0, sizeof t);
    t.name = name;
    t.dtype = dtype;
    t.ndim = ndim;
    t.data = (void *)data;                              /* a save only reads it */
    for (d = 0; d < ndim && d < DCP_MAX_DIMS; d++) t.shape[d] = shape[d];
    return t;
}
DCPDEF dcp_tensor dcp_scalar(const char *name, dcp_dtype dtype, const void *data) { return dcp_array(name, dtype, data, 0, NULL); }
DCPDEF dcp_tensor dcp_bytes(const char *name, const void *data, size_t size) {
    int64_t shape = (int64_t)size;
    return dcp_array(name, DCP_UINT8, data, 1, &shape);
}
DCPDEF void dcp_piece(dcp_tensor *tensor, const int64_t *global_shape, const int64_t *global_offset) {
    int d;
    for (d = 0; d < tensor->ndim && d < DCP_MAX_DIMS; d++) {
        tensor->global_shape[d] = global_shape[d];
        tensor->global_offset[d] = global_offset[d];
    }
}

/* ================================================================================================================================
 * >>meta        The metadata document: names and times, building it in memory, every rule that it must keep, writing, parsing.
 *
 * One shape of data, dcp_metadata, stands between all of these. A parsed or built one owns its memory through `internal` (a dcpi_meta); one
 * that a program filled by hand owns nothing, and all functions but the builders and dcp_metadata_free treat it alike.
 * Parsing answers "is this a document", validation "does it keep the rules": a broken document can be loaded and looked at, not used.
 * ============================================================================================================================== */

/* ---- names ------------------------------------------------------------------------------------------------------------------- */
DCPDEF const char *dcp_layout_extension(dcp_layout layout) {
    if (layout == DCP_LAYOUT_SHARDED) return ".metadata.json";
    if (layout == DCP_LAYOUT_SINGLE) return ".checkpoint";
    return layout == DCP_LAYOUT_MANIFEST ? ".manifest.json" : NULL;
}
static int dcpi_starts_with_id(const char *text) {                      /* 16 lower-case hex digits */
    int i;
    for (i = 0; i < 16; i++) if (!dcpi_is_lower_hex(text[i])) return 0;
    return 1;
}
static int dcpi_is_save_id(const char *text) { return dcpi_starts_with_id(text) && text[16] == '\0'; }
DCPDEF dcp_status dcp_shard_name(const char *prefix, int rank, const char *save_id, char *name, size_t capacity, dcp_error *err) {
    int length;
    if (name && capacity > 0) name[0] = '\0';
    if (!prefix || !name || capacity == 0) return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: prefix and name must not be NULL");
    if (rank < 0) return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: rank is %d; it must not be negative", rank);
    if (save_id && !dcpi_is_save_id(save_id))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: save_id must be 16 lower-case hex digits");
    length = snprintf(name, capacity, "%s_shard_%d%s%s.bin", prefix, rank, save_id ? "." : "", save_id ? save_id : "");
    if (length >= 0 && (size_t)length < capacity) return dcpi_succeed(err);
    name[0] = '\0';
    return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: the name does not fit into %" PRIu64 " bytes", (uint64_t)capacity);
}
DCPDEF int dcp_shard_owner(int shard_rank, int world_size) { return world_size > 0 && shard_rank >= 0 ? shard_rank % world_size : 0; }

/* One part of a key, text[0..length): printable UTF-8 without '\' and ':', not "." or "..". */
static int dcpi_key_part_is_valid(const char *text, size_t length) {
    size_t i = 0;
    if (length == 0 || (length <= 2 && text[0] == '.' && text[length - 1] == '.')) return 0;
    while (i < length) {
        size_t n = dcpi_utf8_length(text + i, length - i);
        unsigned char c = (unsigned char)text[i];
        if (n == 0 || c < 0x20 || c == 0x7F || c == '\\' || c == ':') return 0;
        if (n == 2 && c == 0xC2 && (unsigned char)text[i + 1] < 0xA0) return 0;     /* C1 controls */
        i += n;
    }
    return 1;
}
/* May a document name this file, may a storage be asked for it? It must not be able to leave the base directory (G8). */
static int dcpi_key_is_valid(const char *key) {
    for (;;) {
        const char *slash = strchr(key, '/');
        if (!dcpi_key_part_is_valid(key, slash ? (size_t)(slash - key) : strlen(key))) return 0;
        if (!slash) return 1;
        key = slash + 1;
    }
}

/* ---- times: civil dates without the C library, whose functions depend on locale and time zone -------------------------------- */
#define DCPI_TIME_TEXT 28               /* "2026-11-20T12:00:00.123456Z" and a NUL */

/* Days since 1970-01-01 of a date, and back. Years are counted from March, so that a leap day is the last of its year; 400 years ("an era")
 * always have 146,097 days. */
static int64_t dcpi_time_days(int64_t year, int64_t month, int64_t day) {
    int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}
static void dcpi_time_date(int64_t days, int *year, int *month, int *day) {
    int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097, of_era = shifted - era * 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), m = (5 * of_year + 2) / 153;
    *day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(year_of_era + era * 400 + (*month <= 2));
}
static void dcpi_time_format(int64_t microseconds, char text[DCPI_TIME_TEXT]) {
    const int64_t latest = (int64_t)253402300799 * 1000000 + 999999;   /* the end of the year 9999; a clock beyond it is wrong anyway */
    int64_t us = dcpi_min(dcpi_max(microseconds, 0), latest), seconds = us / 1000000, of_day = seconds % 86400;
    int year, month, day;
    dcpi_time_date(seconds / 86400, &year, &month, &day);
    (void)snprintf(text, DCPI_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)year % 10000, (unsigned)month % 100,
                   (unsigned)day % 100,
                   (unsigned)(of_day / 3600) % 100, (unsigned)(of_day / 60 % 60), (unsigned)(of_day % 60), (unsigned)(us % 1000000));
}
/* The number that `digits` decimal digits at *text make, or -1. *text moves on behind them and the character `after` (0: none). */
static int64_t dcpi_time_number(const char **text, int digits, char after) {
    int64_t value = 0;
    int i;
    for (i = 0; i < digits; i++) {
        char c = (*text)[i];
        if (c < '0' || c > '9') return -1;
        value = value * 10 + (c - '0');
    }
    if (after && (*text)[digits] != after) return -1;
    *text += digits + (after ? 1 : 0);
    return value;
}
static int dcpi_time_fraction(const char **text, int *nanoseconds) {    /* "", or '.' and 1 to 9 digits */
    int scale = 100000000;
    *nanoseconds = 0;
    if (**text != '.') return 1;
    (*text)++;
    if (**text < '0' || **text > '9') return 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (scale == 0) return 0;
        *nanoseconds += (**text - '0') * scale;
        scale /= 10;
    }
    return 1;
}
static int dcpi_time_zone(const char *text, int64_t *seconds) {         /* "Z", "+hh:mm", "-hh:mm", or "" which is UTC */
    int64_t hours, minutes;
    char sign = *text;
    *seconds = 0;
    if (sign == '\0') return 1;
    text++;
    if (sign == 'Z') return *text == '\0';
    if (sign != '+' && sign != '-') return 0;
    hours = dcpi_time_number(&text, 2, ':');
    minutes = hours < 0 ? -1 : dcpi_time_number(&text, 2, '\0');
    if (hours > 23 || minutes < 0 || minutes > 59 || *text != '\0') return 0;
    *seconds = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
    return 1;
}
/* Reads an ISO 8601 time with 0 to 9 digits of a fraction. Seconds since 1970-01-01T00:00:00Z; 0: it is none. */
static int dcpi_time_parse(const char *text, int64_t *seconds, int *nanoseconds) {
    static const char before[6] = {'-', '-', 'T', ':', ':', '\0'};
    static const int digits[6] = {4, 2, 2, 2, 2, 2};
    static const int64_t highest[6] = {9999, 12, 31, 23, 59, 59}, lowest[6] = {1, 1, 1, 0, 0, 0};
    int64_t part[6], zone, days;
    int i, year, month, day;
    for (i = 0; i < 6; i++) {
        part[i] = dcpi_time_number(&text, digits[i], before[i]);
        if (part[i] < lowest[i] || part[i] > highest[i]) return 0;
    }
    days = dcpi_time_days(part[0], part[1], part[2]);
    dcpi_time_date(days, &year, &month, &day);
    if (day != part[2]) return 0;                                       /* the 30th of February */
    if (!dcpi_time_fraction(&text, nanoseconds) || !dcpi_time_zone(text, &zone)) return 0;
    *seconds = days * 86400 + part[3] * 3600 + part[4] * 60 + part[5] - zone;
    return 1;
}

/* ---- building: a dcp_metadata that owns its memory --------------------------------------------------------------------------- */
typedef struct dcpi_meta {
    dcp_metadata metadata;              /* first: what the program holds */
    dcpi_arena arena;                   /* strings, digests */
    int is_parsed;                      /* absent members are missing, not defaults */
    dcp_shard_metadata *shards; size_t shard_capacity;      /* = metadata.shards, unless the program has put in its own */
    dcp_tensor_metadata **tensors;      /* per shard: = shards[s].tensors, unless ... */
    size_t *tensor_capacities;
    size_t owned_shards;                /* entries of the two arrays above */
    dcp_field *fields; size_t field_capacity;
} dcpi_meta;

static dcpi_meta *dcpi_meta_of(const dcp_metadata *metadata) { return (dcpi_meta *)metadata->internal; }

DCPDEF dcp_status dcp_metadata_new(dcp_metadata **out, dcp_error *err) {
    dcpi_meta *meta;
    if (!out) return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_new: out must not be NULL");
    *out = NULL;
    meta = (dcpi_meta *)dcpi_alloc_array(1, sizeof *meta, err);
    if (!meta) return DCP_E_MEMORY;
    meta->metadata.internal = meta;
    *out = &meta->metadata;
    return dcpi_succeed(err);
}
DCPDEF void dcp_metadata_free(dcp_metadata *metadata) {
    dcpi_meta *meta = metadata ? dcpi_meta_of(metadata) : NULL;
    size_t s;
    if (!meta) return;                                                  /* filled by hand: nothing here is ours */
    for (s = 0; s < meta->owned_shards; s++) dcpi_free(meta->tensors[s]);
    dcpi_free((void *)meta->tensors);
    dcpi_free(meta->tensor_capacities);
    dcpi_free(meta->shards);
    dcpi_free(meta->fields);
    dcpi_arena_free(&meta->arena);
    dcpi_free(meta);
}
static dcp_status dcpi_meta_builder(dcp_metadata *metadata, const void *argument, const char *function, dcp_error *err) {
    if (!metadata || !argument) return dcpi_fail(err, DCP_E_INVALID, "%s: an argument is NULL", function);
    if (!dcpi_meta_of(metadata))
        return dcpi_fail(err, DCP_E_INVALID, "%s: this dcp_metadata was filled by hand; the builders need one of dcp_metadata_new",
                         function);
    return DCP_OK;
}
/* Copies *text, if any, into the arena. 0: out of memory. */
static int dcpi_meta_copy(dcpi_meta *meta, const char **text, dcp_error *err) {
    if (!*text) return 1;
    *text = dcpi_arena_text(&meta->arena, *text, strlen(*text), err);
    return *text != NULL;
}
DCPDEF dcp_status dcp_metadata_set_sharding(dcp_metadata *metadata, const dcp_sharding *sharding, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, sharding, "dcp_metadata_set_sharding", err);
    dcp_sharding copy;
    dcpi_meta *meta;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    copy = *sharding;
    if (!dcpi_meta_copy(meta, &copy.strategy, err) || !dcpi_meta_copy(meta, &copy.precision, err) || !dcpi_meta_copy(meta, &copy.info,
                                                                                                                     err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    metadata->sharding = copy;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_set_training(dcp_metadata *metadata, const dcp_training *training, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, training, "dcp_metadata_set_training", err);
    dcp_training copy;
    dcpi_meta *meta;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    copy = *training;
    if (!dcpi_meta_copy(meta, &copy.optimizer_type, err) || !dcpi_meta_copy(meta, &copy.optimizer_state, err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    metadata->training = copy;
    metadata->has_training = 1;
    return dcpi_succeed(err);
}
static size_t dcpi_meta_field(const dcp_metadata *metadata, const char *key) {     /* field_count: absent */
    size_t f;
    for (f = 0; f < metadata->field_count; f++) if (dcpi_same_text(metadata->fields[f].key, key)) break;
    return f;
}
DCPDEF const char *dcp_field_find(const dcp_metadata *metadata, const char *key) {
    size_t f;
    if (!metadata || !key) return NULL;
    f = dcpi_meta_field(metadata, key);
    return f < metadata->field_count ? metadata->fields[f].value : NULL;
}
/* Appends a field whose text is the arena's already. */
static dcp_status dcpi_meta_add_field(dcpi_meta *meta, const char *key, const char *value, dcp_error *err) {
    dcp_metadata *metadata = &meta->metadata;
    void *fields = meta->fields;
    if (!dcpi_grow(&fields, &meta->field_capacity, metadata->field_count + 1, sizeof *meta->fields, err)) return DCP_E_MEMORY;
    meta->fields = metadata->fields = (dcp_field *)fields;
    metadata->fields[metadata->field_count].key = key;
    metadata->fields[metadata->field_count].value = value;
    metadata->field_count++;
    return DCP_OK;
}
DCPDEF dcp_status dcp_metadata_set_field(dcp_metadata *metadata, const char *key, const char *value, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, key, "dcp_metadata_set_field", err);
    dcpi_meta *meta;
    size_t f;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    f = dcpi_meta_field(metadata, key);
    if (!value) {
        if (f == metadata->field_count) return dcpi_succeed(err);
        metadata->field_count--;
        memmove(metadata->fields + f, metadata->fields + f + 1, (metadata->field_count - f) * sizeof *metadata->fields);
        return dcpi_succeed(err);
    }
    if (!dcpi_meta_copy(meta, &value, err)) return DCP_E_MEMORY;
    if (f < metadata->field_count) {
        metadata->fields[f].value = value;
        return dcpi_succeed(err);
    }
    if (!dcpi_meta_copy(meta, &key, err)) return DCP_E_MEMORY;
    status = dcpi_meta_add_field(meta, key, value, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}
/* Room for one more shard, in all three arrays. */
static dcp_status dcpi_meta_grow_shards(dcpi_meta *meta, dcp_error *err) {
    size_t count = meta->owned_shards, old = meta->shard_capacity, shard_capacity = old, tensor_capacity = old, size_capacity = old;
    void *shards = meta->shards, *tensors = (void *)meta->tensors, *sizes = meta->tensor_capacities;
    int ok;
    ok = dcpi_grow(&shards, &shard_capacity, count + 1, sizeof *meta->shards, err);
    meta->shards = meta->metadata.shards = (dcp_shard_metadata *)shards;
    ok = ok && dcpi_grow(&tensors, &tensor_capacity, count + 1, sizeof *meta->tensors, err);
    meta->tensors = (dcp_tensor_metadata **)tensors;
    ok = ok && dcpi_grow(&sizes, &size_capacity, count + 1, sizeof *meta->tensor_capacities, err);
    meta->tensor_capacities = (size_t *)sizes;
    if (!ok) return DCP_E_MEMORY;                                       /* shard_capacity is set last: it is what all three surely hold */
    meta->shard_capacity = shard_capacity;
    return DCP_OK;
}
/* Appends an empty shard. */
static dcp_status dcpi_meta_add_shard(dcpi_meta *meta, dcp_shard_metadata **out, dcp_error *err) {
    dcp_metadata *metadata = &meta->metadata;
    size_t s = metadata->shard_count;
    if (s >= (size_t)DCP_LIMIT_SHARDS) return dcpi_fail(err, DCP_E_LIMIT, "more than %d shards (DCP_LIMIT_SHARDS)", (int)DCP_LIMIT_SHARDS);
    if (dcpi_meta_grow_shards(meta, err) != DCP_OK) return DCP_E_MEMORY;
    memset(&metadata->shards[s], 0, sizeof metadata->shards[s]);
    meta->tensors[s] = NULL;
    meta->tensor_capacities[s] = 0;
    meta->owned_shards = metadata->shard_count = s + 1;
    *out = &metadata->shards[s];
    return DCP_OK;
}
/* Appends an empty tensor to a shard. */
static dcp_status dcpi_meta_add_tensor(dcpi_meta *meta, size_t s, dcp_tensor_metadata **out, dcp_error *err) {
    dcp_shard_metadata *shard = &meta->metadata.shards[s];
    void *tensors = meta->tensors[s];
    if (shard->tensor_count >= (size_t)DCP_LIMIT_TENSORS)
        return dcpi_fail(err, DCP_E_LIMIT, "more than %d tensors (DCP_LIMIT_TENSORS)", (int)DCP_LIMIT_TENSORS);
    if (!dcpi_grow(&tensors, &meta->tensor_capacities[s], shard->tensor_count + 1, sizeof **out, err)) return DCP_E_MEMORY;
    shard->tensors = meta->tensors[s] = (dcp_tensor_metadata *)tensors;
    *out = &shard->tensors[shard->tensor_count++];
    memset(*out, 0, sizeof **out);
    return DCP_OK;
}
static dcp_status dcpi_meta_copy_tensor(dcpi_meta *meta, size_t s, const dcp_tensor_metadata *tensor, dcp_error *err) {
    dcp_tensor_metadata copy = *tensor, *added;
    uint8_t *digests;
    size_t bytes;
    if (!dcpi_meta_copy(meta, &copy.name, err) || !dcpi_meta_copy(meta, &copy.data_type, err) || !dcpi_meta_copy(meta, &copy.placement,
                                                                                                                 err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    if (copy.block_checksums) {
        if (!dcpi_mul_size(copy.block_count, 32, &bytes)) return dcpi_no_memory(err, SIZE_MAX);
        digests = (uint8_t *)dcpi_arena_alloc(&meta->arena, bytes, err);
        if (!digests) return DCP_E_MEMORY;
        memcpy(digests, copy.block_checksums, bytes);
        copy.block_checksums = digests;
    }
    if (dcpi_meta_add_tensor(meta, s, &added, err) != DCP_OK) return err ? err->status : DCP_E_MEMORY;
    *added = copy;
    return DCP_OK;
}
DCPDEF dcp_status dcp_metadata_add_tensor(dcp_metadata *metadata, size_t shard_index, const dcp_tensor_metadata *tensor, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, tensor, "dcp_metadata_add_tensor", err);
    if (status != DCP_OK) return status;
    if (shard_index >= metadata->shard_count)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_add_tensor: shard_index is %" PRIu64 ", and there are %" PRIu64 " shards",
                         (uint64_t)shard_index, (uint64_t)metadata->shard_count);
    status = dcpi_meta_copy_tensor(dcpi_meta_of(metadata), shard_index, tensor, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}
DCPDEF dcp_status dcp_metadata_add_shard(dcp_metadata *metadata, const dcp_shard_metadata *shard, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, shard, "dcp_metadata_add_shard", err);
    dcp_shard_metadata copy, *added;
    dcpi_meta *meta;
    size_t t;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    copy = *shard;
    copy.tensors = NULL;
    copy.tensor_count = 0;
    if (!dcpi_meta_copy(meta, &copy.file_path, err) || !dcpi_meta_copy(meta, &copy.checksum, err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    status = dcpi_meta_add_shard(meta, &added, err);
    if (status != DCP_OK) return status;
    *added = copy;
    for (t = 0; t < shard->tensor_count && status == DCP_OK; t++)
        status = dcpi_meta_copy_tensor(meta, metadata->shard_count - 1, &shard->tensors[t], err);
    if (status == DCP_OK) return dcpi_succeed(err);
    metadata->shard_count--;                                            /* all of it or nothing */
    return status;
}

/* ---- findings: what a validation collects ------------------------------------------------------------------------------------ */
/* Appends a copy. The array has room for 8, 16, 32, ... texts, so its capacity follows from the count. */
static dcp_status dcpi_validation_add(char ***list, size_t *count, const char *message) {
    size_t length = strlen(message), bytes;
    char *copy;
    if (*count == 0 || (*count >= 8 && dcpi_is_power_of_two(*count))) {
        char **grown;
        if (!dcpi_mul_size(*count == 0 ? 8 : *count * 2, sizeof **list, &bytes)) return DCP_E_MEMORY;
        grown = (char **)DCP_REALLOC((void *)*list, bytes);
        if (!grown) return DCP_E_MEMORY;
        *list = grown;
    }
    copy = (char *)dcpi_alloc(length + 1, NULL);
    if (!copy) return DCP_E_MEMORY;
    memcpy(copy, message, length + 1);
    (*list)[(*count)++] = copy;
    return DCP_OK;
}
DCPDEF dcp_status dcp_validation_error(dcp_validation *validation, const char *message) {
    if (!validation || !message) return DCP_E_INVALID;
    return dcpi_validation_add(&validation->errors, &validation->error_count, message);
}
DCPDEF dcp_status dcp_validation_warning(dcp_validation *validation, const char *message) {
    if (!validation || !message) return DCP_E_INVALID;
    return dcpi_validation_add(&validation->warnings, &validation->warning_count, message);
}
DCPDEF void dcp_validation_free(dcp_validation *validation) {
    size_t i;
    if (!validation) return;
    for (i = 0; i < validation->error_count; i++) dcpi_free(validation->errors[i]);
    for (i = 0; i < validation->warning_count; i++) dcpi_free(validation->warnings[i]);
    dcpi_free((void *)validation->errors);
    dcpi_free((void *)validation->warnings);
    memset(validation, 0, sizeof *validation);
}

/* ---- validation: every rule of the format. It reports and goes on, and assumes nothing of what another rule has found wrong -- */
#define DCPI_META_NONE SIZE_MAX
#define DCPI_META_GAP ((int64_t)2 * 1024 * 1024)        /* the largest alignment: gaps are smaller */
#define DCPI_META_REGION 4096                           /* regions of a single file start at its multiples */
static const char dcpi_tree_prefix[] = "sha256-tree:";

typedef struct dcpi_checker {
    const dcp_metadata *metadata;
    dcp_validation *out;
    size_t shard, tensor;               /* what is looked at; DCPI_META_NONE: the whole document, the whole shard */
    int is_ours;                        /* a save of ours wrote it (it has a save id): the rules that only our writer keeps hold too */
    int is_single;                      /* one file: the shards are regions of it */
    int no_memory;
    size_t more_errors, more_warnings;  /* beyond DCP_LIMIT_FINDINGS */
    const char *type_text; dcp_dtype type;      /* the data type looked up last: mostly they are all the same */
} dcpi_checker;

static void dcpi_check_report(dcpi_checker *c, int is_error, const char *member, const char *format, va_list arguments) {
    size_t *count = is_error ? &c->out->error_count : &c->out->warning_count, used = 0;
    char message[768];
    if (*count >= (size_t)DCP_LIMIT_FINDINGS) {
        if (is_error) c->more_errors++; else c->more_warnings++;
        return;
    }
    if (c->shard != DCPI_META_NONE) used += (size_t)snprintf(message, 64, "shards[%" PRIu64 "]", (uint64_t)c->shard);
    if (c->tensor != DCPI_META_NONE) used += (size_t)snprintf(message + used, 64, ".tensors[%" PRIu64 "]", (uint64_t)c->tensor);
    used += (size_t)snprintf(message + used, 128, "%s%s: ", used > 0 && member[0] != '\0' ? "." : "", member);
    (void)vsnprintf(message + used, sizeof message - used, format, arguments);
    dcpi_message_clean(message, sizeof message);
    if (dcpi_validation_add(is_error ? &c->out->errors : &c->out->warnings, count, message) != DCP_OK) c->no_memory = 1;
}
static void dcpi_check_error(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_error(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, 1, member, format, arguments);
    va_end(arguments);
}
static void dcpi_check_warning(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_warning(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, 0, member, format, arguments);
    va_end(arguments);
}
/* An error in a document of ours, a warning in one of other writers. */
static void dcpi_check_strict(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_strict(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, c->is_ours, member, format, arguments);
    va_end(arguments);
}
/* A NULL text is fine only where it stands for a default, which is: in a document that was built, not parsed. */
static int dcpi_check_is_parsed(const dcpi_checker *c) { return c->metadata->internal && dcpi_meta_of(c->metadata)->is_parsed; }

/* ---- one tensor */
static dcp_dtype dcpi_check_type_of(dcpi_checker *c, const char *text) {
    if (text == c->type_text) return c->type;
    c->type_text = text;
    c->type = dcp_dtype_parse(text);
    return c->type;
}
/* Elements of a shape; 0 if it is none. Dimensions of 0 must not hide that the others are too large: strides are made of them. */
static int dcpi_check_elements(int ndim, const int64_t *shape, int64_t *elements) {
    int64_t count = 1, product = 1;
    int d;
    if (ndim < 0 || ndim > DCP_MAX_DIMS) return 0;
    for (d = 0; d < ndim; d++) {
        if (!dcpi_mul(product, dcpi_max(shape[d], 1), &product) || shape[d] < 0) return 0;
        count *= shape[d];
    }
    *elements = count;
    return 1;
}
static void dcpi_check_shape(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    int64_t elements, size;
    dcp_dtype type;
    int d;
    if (tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS) {
        dcpi_check_error(c, "shape", "%d dimensions; 0 to %d are possible", tensor->ndim, DCP_MAX_DIMS);
        return;
    }
    for (d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0) { dcpi_check_error(c, "shape", "dimension %d is negative: %" PRId64, d, tensor->shape[d]); return; }
    if (!dcpi_check_elements(tensor->ndim, tensor->shape, &elements)) {
        dcpi_check_error(c, "shape", "the number of elements does not fit in 64 bits");
        return;
    }
    type = dcpi_check_type_of(c, tensor->data_type);
    if (type == DCP_OPAQUE || tensor->size < 0) return;
    if (!dcpi_dtype_size(type, elements, &size)) { dcpi_check_error(c, "shape", "the size in bytes does not fit in 64 bits"); return; }
    if (size != tensor->size)
        dcpi_check_error(c, "size", "%" PRId64 " bytes, but %" PRId64 " elements of %s have %" PRId64, tensor->size, elements,
                         tensor->data_type, size);
}
static void dcpi_check_type(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    if (!tensor->data_type || tensor->data_type[0] == '\0') { dcpi_check_error(c, "dataType", "a data type is required"); return; }
    if (dcpi_check_type_of(c, tensor->data_type) != DCP_OPAQUE) return;
    if (!dcpi_is_name(tensor->data_type, DCP_LIMIT_NAME)) { dcpi_check_error(c, "dataType", "not a printable name"); return; }
    dcpi_check_warning(c, "dataType", "\"%.64s\" is unknown to this version; its size is not checked", tensor->data_type);
}
static int dcpi_check_is_placement(const char *text) {
    return strcmp(text, "sharded") == 0 || strcmp(text, "replicated") == 0 || strcmp(text, "private") == 0;
}
/* One dimension of a piece in its whole. */
static int dcpi_check_global(dcpi_checker *c, const dcp_tensor_metadata *tensor, int d) {
    int64_t whole = tensor->global_shape[d], from = tensor->global_offset[d], count = tensor->shape[d], end;
    if (whole < 0) dcpi_check_error(c, "globalShape", "dimension %d is negative: %" PRId64, d, whole);
    else if (from < 0) dcpi_check_error(c, "globalOffset", "dimension %d is negative: %" PRId64, d, from);
    else if (count >= 0 && (!dcpi_add(from, count, &end) || end > whole))
        dcpi_check_error(c, "globalOffset", "dimension %d: %" PRId64 " elements from %" PRId64 " on do not fit into globalShape's %" PRId64,
                         d, count, from, whole);
    else return count >= 0;
    return 0;
}
static void dcpi_check_placement(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    int64_t elements;
    int d, ndim = tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS ? 0 : tensor->ndim;
    if (!tensor->placement) {
        for (d = 0; d < ndim; d++) {
            if (tensor->global_shape[d] == 0 && tensor->global_offset[d] == 0) continue;
            dcpi_check_error(c, "placement", "a placement is required beside globalShape and globalOffset");
            return;
        }
        return;
    }
    if (!dcpi_check_is_placement(tensor->placement))
        dcpi_check_error(c, "placement", "\"%.64s\" is none of sharded, replicated, private", tensor->placement);
    for (d = 0; d < ndim; d++) if (!dcpi_check_global(c, tensor, d)) return;
    if (!dcpi_check_elements(ndim, tensor->global_shape, &elements))
        dcpi_check_error(c, "globalShape", "the number of elements does not fit in 64 bits");
    if (strcmp(tensor->placement, "private") == 0 && ndim > 0 && memcmp(tensor->shape, tensor->global_shape,
                                                                        (size_t)ndim * sizeof tensor->shape[0]) != 0)
        dcpi_check_error(c, "globalShape", "a private tensor is whole: it must equal the shape");
}
static void dcpi_check_blocks(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    int64_t size = tensor->block_size, wanted;
    if (size == 0) {
        if (tensor->block_count > 0) dcpi_check_error(c, "blockSize", "a block size is required beside blockChecksums");
        return;
    }
    if (size < 262144 || size > ((int64_t)1 << 30) || !dcpi_is_power_of_two((uint64_t)size)) {
        dcpi_check_error(c, "blockSize", "%" PRId64 " is not a power of two from 256 KiB to 1 GiB", size);
        return;
    }
    if (tensor->size < 0) return;
    wanted = tensor->size / size + (tensor->size % size != 0);
    if ((uint64_t)wanted != (uint64_t)tensor->block_count)
        dcpi_check_error(c, "blockChecksums", "%" PRIu64 " digests, but %" PRId64 " bytes have %" PRId64 " blocks of %" PRId64,
                         (uint64_t)tensor->block_count,
                         tensor->size, wanted, size);
    else if (wanted > 0 && !tensor->block_checksums)
        dcpi_check_error(c, "blockChecksums", "the digests are missing");
}
static void dcpi_check_tensor(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    if (!tensor->name || tensor->name[0] == '\0') dcpi_check_error(c, "name", "a name is required");
    else if (!dcpi_is_name(tensor->name, DCP_LIMIT_NAME))
        dcpi_check_error(c, "name", "a name is UTF-8 without control characters, of at most %d bytes", (int)DCP_LIMIT_NAME);
    if (tensor->offset < 0) dcpi_check_error(c, "offset", "must not be negative: %" PRId64, tensor->offset);
    if (tensor->size < 0) dcpi_check_error(c, "size", "must not be negative: %" PRId64, tensor->size);
    dcpi_check_type(c, tensor);
    dcpi_check_shape(c, tensor);
    dcpi_check_placement(c, tensor);
    dcpi_check_blocks(c, tensor);
}

/* ---- one shard */
static int dcpi_check_by_offset(const void *a, const void *b) {
    const dcp_tensor_metadata *x = (const dcp_tensor_metadata *)a, *y = (const dcp_tensor_metadata *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}
/* A shard's tensors in the order of their offsets: NULL where they stand so already, which our writer's always do. */
static dcp_status dcpi_check_offset_order(dcpi_checker *c, const dcp_shard_metadata *shard, const dcp_tensor_metadata ***out) {
    const dcp_tensor_metadata **order;
    size_t t;
    *out = NULL;
    for (t = 1; t < shard->tensor_count; t++) if (shard->tensors[t].offset < shard->tensors[t - 1].offset) break;
    if (t >= shard->tensor_count) return DCP_OK;
    c->tensor = t;
    dcpi_check_strict(c, "offset", "%" PRId64 " is before that of the tensor before it: tensors stand in the order of their offsets",
                      shard->tensors[t].offset);
    c->tensor = DCPI_META_NONE;
    order = (const dcp_tensor_metadata **)dcpi_alloc_array(shard->tensor_count, sizeof *order, NULL);
    if (!order) return DCP_E_MEMORY;
    for (t = 0; t < shard->tensor_count; t++) order[t] = &shard->tensors[t];
    if (dcpi_sort((const void **)order, shard->tensor_count, dcpi_check_by_offset, NULL) == DCP_OK) {
        *out = order;
        return DCP_OK;
    }
    dcpi_free((void *)order);
    return DCP_E_MEMORY;
}
/* One tensor's place: behind the end of those before it, inside the region, and for our writer aligned and without a large gap. */
static void dcpi_check_place(dcpi_checker *c, const dcp_tensor_metadata *tensor, int64_t before, int64_t region_end) {
    int64_t end;
    if (tensor->offset < 0 || tensor->size < 0) return;                 /* said already */
    if (!dcpi_add(tensor->offset, tensor->size, &end)) {
        dcpi_check_error(c, "offset", "the tensor's end does not fit in 64 bits");
        return;
    }
    if (tensor->size > 0 && end > region_end)
        dcpi_check_error(c, "offset", "bytes %" PRId64 " to %" PRId64 " are beyond the shard's end at %" PRId64, tensor->offset, end,
                         region_end);
    if (tensor->size > 0 && tensor->offset < before)
        dcpi_check_error(c, "offset", "%" PRId64 " overlaps what is before it, which ends at %" PRId64, tensor->offset, before);
    if (!c->is_ours) return;
    if (tensor->offset % 64 != 0) dcpi_check_error(c, "offset", "%" PRId64 " is not a multiple of 64", tensor->offset);
    if (tensor->offset >= before && tensor->offset - before >= DCPI_META_GAP)
        dcpi_check_error(c, "offset", "the gap before it, %" PRId64 " bytes, is larger than any alignment needs", tensor->offset - before);
}
static void dcpi_check_places(dcpi_checker *c, const dcp_shard_metadata *shard) {
    const dcp_tensor_metadata **order;
    int64_t region = shard->data_offset, region_end, before = region, last = region, end;
    size_t t;
    if (region < 0 || shard->file_size < 0 || !dcpi_add(region, shard->file_size, &region_end)) return;
    if (dcpi_check_offset_order(c, shard, &order) != DCP_OK) { c->no_memory = 1; return; }
    for (t = 0; t < shard->tensor_count; t++) {
        const dcp_tensor_metadata *tensor = order ? order[t] : &shard->tensors[t];
        c->tensor = (size_t)(tensor - shard->tensors);
        dcpi_check_place(c, tensor, before, region_end);
        if (tensor->offset < 0 || tensor->size < 0 || !dcpi_add(tensor->offset, tensor->size, &end)) continue;
        if (tensor->size > 0) before = dcpi_max(before, end);
        last = dcpi_max(last, end);                                     /* as before, or the aligned offset of an empty last tensor */
    }
    c->tensor = DCPI_META_NONE;
    dcpi_free((void *)order);
    if (c->is_ours && region_end != before && region_end != last)
        dcpi_check_error(c, "fileSize", "%" PRId64 " bytes, but the last tensor ends at %" PRId64, shard->file_size, before - region);
}
/* The digest over all block digests of a shard. 0: some are missing, which has been said. */
static int dcpi_check_tree(dcpi_checker *c, const dcp_shard_metadata *shard, uint8_t digest[32]) {
    dcpi_sha sha;
    size_t t;
    dcpi_sha_init(&sha);
    for (t = 0; t < shard->tensor_count; t++) {
        const dcp_tensor_metadata *tensor = &shard->tensors[t];
        if (tensor->size > 0 && tensor->block_size == 0) {
            c->tensor = t;
            dcpi_check_error(c, "blockChecksums", "block digests are required with a sha256-tree checksum");
            c->tensor = DCPI_META_NONE;
            return 0;
        }
        if (tensor->block_count > 0 && !tensor->block_checksums) return 0;
        dcpi_sha_update(&sha, tensor->block_checksums, tensor->block_count * 32);
    }
    dcpi_sha_final(&sha, digest);
    return 1;
}
static void dcpi_check_no_blocks(dcpi_checker *c, const dcp_shard_metadata *shard) {
    size_t t;
    for (t = 0; t < shard->tensor_count; t++) {
        if (shard->tensors[t].block_count == 0) continue;
        c->tensor = t;
        dcpi_check_error(c, "blockChecksums", "block digests stand only beside a sha256-tree checksum of the shard");
        c->tensor = DCPI_META_NONE;
        return;
    }
}
static void dcpi_check_checksum(dcpi_checker *c, const dcp_shard_metadata *shard) {
    const size_t prefix = sizeof dcpi_tree_prefix - 1;
    uint8_t stated[32], digest[32];
    const char *digits = shard->checksum;
    int is_tree;
    if (!digits || digits[0] == '\0') { dcpi_check_warning(c, "checksum", "shard %d is missing its checksum", shard->rank); return; }
    is_tree = dcpi_starts_with(digits, dcpi_tree_prefix);
    if (is_tree) digits += prefix;
    if (strlen(digits) != 64 || !dcpi_hex_decode(digits, 64, stated)) {
        dcpi_check_error(c, "checksum", "\"%.96s\" is neither 64 hex digits nor sha256-tree: and 64 hex digits", shard->checksum);
        return;
    }
    if (c->is_ours && strpbrk(digits, "ABCDEF")) dcpi_check_error(c, "checksum", "hex digits must be lower case");
    if (!is_tree) { dcpi_check_no_blocks(c, shard); return; }
    if (dcpi_check_tree(c, shard, digest) && !dcpi_sha_equal(digest, stated, 32))
        dcpi_check_error(c, "checksum", "it is not the SHA-256 of the shard's block digests");
}
static void dcpi_check_shard(dcpi_checker *c, const dcp_shard_metadata *shard) {
    size_t t;
    if (!shard->file_path || shard->file_path[0] == '\0') dcpi_check_error(c, "filePath", "a file path is required");
    else if (strlen(shard->file_path) > (size_t)DCP_LIMIT_PATH)
        dcpi_check_error(c, "filePath", "longer than %d bytes", (int)DCP_LIMIT_PATH);
    else if (!dcpi_key_is_valid(shard->file_path))
        dcpi_check_error(c, "filePath",
                         "\"%.200s\" is not a relative path that stays beside the document (parts joined by '/', none empty, \".\" or "
                         "\"..\", no '\\', ':' or control characters)", shard->file_path);
    if (shard->file_size < 0) dcpi_check_error(c, "fileSize", "must not be negative: %" PRId64, shard->file_size);
    if (shard->tensor_count > 0 && !shard->tensors) { dcpi_check_error(c, "tensors", "the tensors are missing"); return; }
    for (t = 0; t < shard->tensor_count; t++) {
        c->tensor = t;
        dcpi_check_tensor(c, &shard->tensors[t]);
    }
    c->tensor = DCPI_META_NONE;
    dcpi_check_places(c, shard);
    dcpi_check_checksum(c, shard);
}

/* ---- the shards beside each other */
static void dcpi_check_ranks(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    uint8_t *seen = (uint8_t *)dcpi_alloc_array(m->shard_count, 1, NULL);
    size_t s;
    if (!seen) { c->no_memory = 1; return; }
    for (s = 0; s < m->shard_count; s++) {
        int rank = m->shards[s].rank;
        c->shard = s;
        if (rank < 0 || (size_t)rank >= m->shard_count)
            dcpi_check_error(c, "rank", "%d is not from 0 to %" PRIu64 ", the number of shards less one", rank,
                             (uint64_t)(m->shard_count - 1));
        else if (seen[rank]) dcpi_check_error(c, "rank", "%d stands there twice", rank);
        else seen[rank] = 1;
    }
    c->shard = DCPI_META_NONE;
    dcpi_free(seen);
}
static int dcpi_check_by_path(const void *a, const void *b) {
    const dcp_shard_metadata *x = (const dcp_shard_metadata *)a, *y = (const dcp_shard_metadata *)b;
    return strcmp(x->file_path, y->file_path);
}
/* One file may stand for several shards only if it is the same bytes each time. */
static void dcpi_check_paths(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    const dcp_shard_metadata **order = (const dcp_shard_metadata **)dcpi_alloc_array(m->shard_count, sizeof *order, NULL);
    size_t count = 0, s;
    if (!order) { c->no_memory = 1; return; }
    for (s = 0; s < m->shard_count; s++) if (m->shards[s].file_path) order[count++] = &m->shards[s];
    if (dcpi_sort((const void **)order, count, dcpi_check_by_path, NULL) != DCP_OK) c->no_memory = 1;
    for (s = 1; s < count && !c->no_memory; s++) {
        const dcp_shard_metadata *a = order[s - 1], *b = order[s];
        if (strcmp(a->file_path, b->file_path) != 0) continue;
        if (a->file_size == b->file_size && dcpi_same_text(a->checksum, b->checksum)) continue;
        c->shard = (size_t)(b - m->shards);
        dcpi_check_error(c, "filePath", "\"%.200s\" stands in shards[%" PRIu64 "] too, with another size or checksum", b->file_path,
                         (uint64_t)(a - m->shards));
    }
    c->shard = DCPI_META_NONE;
    dcpi_free((void *)order);
}
/* A single file: regions that follow each other, all in the one file. */
static void dcpi_check_regions(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    int64_t end = 0;
    size_t s;
    for (s = 0; s < m->shard_count; s++) {
        const dcp_shard_metadata *shard = &m->shards[s];
        c->shard = s;
        if (shard->data_offset <= 0) { dcpi_check_error(c, "dataOffset", "all shards have one, or none has"); continue; }
        if (shard->data_offset % DCPI_META_REGION != 0)
            dcpi_check_error(c, "dataOffset", "%" PRId64 " is not a multiple of %d", shard->data_offset, DCPI_META_REGION);
        if (shard->data_offset < end)
            dcpi_check_error(c, "dataOffset", "%" PRId64 " overlaps the region before it, which ends at %" PRId64, shard->data_offset, end);
        else if (c->is_ours && end > 0 && shard->data_offset - end >= DCPI_META_GAP)
            dcpi_check_error(c, "dataOffset", "the gap before it, %" PRId64 " bytes, is larger than any alignment needs",
                             shard->data_offset - end);
        if (!dcpi_same_text(shard->file_path, m->shards[0].file_path))
            dcpi_check_error(c, "filePath", "all regions of a single file have its name as their filePath");
        if (!dcpi_add(shard->data_offset, dcpi_max(shard->file_size, 0), &end)) {
            dcpi_check_error(c, "fileSize", "the region's end does not fit in 64 bits");
            end = INT64_MAX;
        }
    }
    c->shard = DCPI_META_NONE;
}

/* ---- tensors beside each other: a table by name. Somebody may have made names that collide, so the hash has a random key: SipHash-1-3 */
typedef struct dcpi_name_slot { const dcp_tensor_metadata *tensor; uint32_t shard, tag; } dcpi_name_slot;     /* tensor NULL: free */
typedef struct dcpi_name_table { dcpi_name_slot *slots; size_t mask; uint64_t key[2]; volatile uint32_t looked_at; } dcpi_name_table;

static uint64_t dcpi_sip_rotate(uint64_t v, int bits) { return (v << bits) | (v >> (64 - bits)); }
static void dcpi_sip_round(uint64_t v[4]) {
    v[0] += v[1]; v[1] = dcpi_sip_rotate(v[1], 13); v[1] ^= v[0]; v[0] = dcpi_sip_rotate(v[0], 32);
    v[2] += v[3]; v[3] = dcpi_sip_rotate(v[3], 16); v[3] ^= v[2];
    v[0] += v[3]; v[3] = dcpi_sip_rotate(v[3], 21); v[3] ^= v[0];
    v[2] += v[1]; v[1] = dcpi_sip_rotate(v[1], 17); v[1] ^= v[2]; v[2] = dcpi_sip_rotate(v[2], 32);
}
static uint64_t dcpi_sip_hash(const uint64_t key[2], const char *text, size_t size) {
    uint64_t v[4], word;
    size_t i;
    v[0] = key[0] ^ 0x736f6d6570736575u; v[1] = key[1] ^ 0x646f72616e646f6du;
    v[2] = key[0] ^ 0x6c7967656e657261u; v[3] = key[1] ^ 0x7465646279746573u;
    for (i = 0; size - i >= 8; i += 8) {
        memcpy(&word, text + i, 8);                                     /* in any byte order: the value never leaves this process */
        v[3] ^= word; dcpi_sip_round(v); v[0] ^= word;
    }
    word = 0;
    memcpy(&word, text + i, size - i);
    word ^= (uint64_t)size << 56;
    v[3] ^= word; dcpi_sip_round(v); v[0] ^= word;
    v[2] ^= 0xFF;
    dcpi_sip_round(v); dcpi_sip_round(v); dcpi_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
static int dcpi_name_table_make(dcpi_name_table *table, size_t count) {
    size_t slots = 16;
    while (slots < count || slots - count < slots / 2) {                /* at most half of the slots are taken */
        if (slots > SIZE_MAX / 2 / sizeof *table->slots) return 0;
        slots *= 2;
    }
    if (dcpi_os_random(table->key, sizeof table->key) != 0) table->key[0] = table->key[1] = (uint64_t)dcpi_os_wall_us();
    table->mask = slots - 1;
    table->slots = (dcpi_name_slot *)dcpi_alloc_array(slots, sizeof *table->slots, NULL);
    return table->slots != NULL;
}
static uint64_t dcpi_name_table_hash(const dcpi_name_table *table, const char *name) { return dcpi_sip_hash(table->key, name,
                                                                                                            strlen(name)); }

/* The slot of a name: with the tensor that stands there, or a free one. */
static dcpi_name_slot *dcpi_name_table_find(dcpi_name_table *table, const char *name, uint64_t hash) {
    size_t at = (size_t)hash & table->mask;
    for (;; at = (at + 1) & table->mask) {
        dcpi_name_slot *slot = &table->slots[at];
        if (slot->tensor && (slot->tag != (uint32_t)(hash >> 32) || strcmp(slot->tensor->name, name) != 0)) continue;
        slot->tag = (uint32_t)(hash >> 32);
        return slot;
    }
}
static int dcpi_check_same_type(const char *a, const char *b) {
    if (dcpi_same_text(a, b)) return 1;
    return a && b && dcp_dtype_parse(a) != DCP_OPAQUE && dcp_dtype_parse(a) == dcp_dtype_parse(b);
}
/* Two pieces of one tensor. What is private to a rank is that rank's own affair. */
static void dcpi_check_agreement(dcpi_checker *c, const dcp_tensor_metadata *a, const dcp_tensor_metadata *b) {
    int d;
    if (!dcpi_same_text(a->placement, b->placement)) {
        dcpi_check_error(c, "placement", "another piece of \"%.200s\" is %.32s, this one %.32s", b->name,
                         a->placement ? a->placement : "without placement",
                         b->placement ? b->placement : "without");
        return;
    }
    if (!b->placement || strcmp(b->placement, "private") == 0) return;
    if (!dcpi_check_same_type(a->data_type, b->data_type))
        dcpi_check_error(c, "dataType", "another piece of \"%.200s\" is %.32s, this one %.32s", b->name, a->data_type ? a->data_type : "?",
                         b->data_type ? b->data_type : "?");
    for (d = 0; a->ndim == b->ndim && d < DCP_MAX_DIMS && d < a->ndim; d++) if (a->global_shape[d] != b->global_shape[d]) break;
    if (a->ndim != b->ndim || (d < a->ndim && d < DCP_MAX_DIMS))
        dcpi_check_error(c, "globalShape", "another piece of \"%.200s\" has another one", b->name);
}
static int dcpi_check_by_piece(const void *a, const void *b) {          /* by name, then by place */
    const dcp_tensor_metadata *x = (const dcp_tensor_metadata *)a, *y = (const dcp_tensor_metadata *)b;
    int order = strcmp(x->name, y->name), d;
    for (d = 0; order == 0 && d < DCP_MAX_DIMS && d < x->ndim && d < y->ndim; d++)
        if (x->global_offset[d] != y->global_offset[d]) order = x->global_offset[d] < y->global_offset[d] ? -1 : 1;
    return order;
}
/* A shard in which a name stands more than once: then each time at another place. */
static void dcpi_check_repeats(dcpi_checker *c, const dcp_shard_metadata *shard) {
    const dcp_tensor_metadata **order = (const dcp_tensor_metadata **)dcpi_alloc_array(shard->tensor_count, sizeof *order, NULL);
    size_t count = 0, t;
    if (!order) { c->no_memory = 1; return; }
    for (t = 0; t < shard->tensor_count; t++) if (shard->tensors[t].name) order[count++] = &shard->tensors[t];
    if (dcpi_sort((const void **)order, count, dcpi_check_by_piece, NULL) != DCP_OK) c->no_memory = 1;
    for (t = 1; t < count && !c->no_memory; t++) {
        if (dcpi_check_by_piece(order[t - 1], order[t]) != 0) continue;
        c->tensor = (size_t)(order[t] - shard->tensors);
        dcpi_check_error(c, "name", "\"%.200s\" stands in tensors[%" PRIu64 "] too, at the same place", order[t]->name,
                         (uint64_t)(order[t - 1] - shard->tensors));
    }
    c->tensor = DCPI_META_NONE;
    dcpi_free((void *)order);
}
/* One tensor against those before it; 1: its name has stood in this shard already. */
static int dcpi_check_name_of(dcpi_checker *c, dcpi_name_table *table, const dcp_tensor_metadata *tensor, uint64_t hash) {
    dcpi_name_slot *slot = dcpi_name_table_find(table, tensor->name, hash);
    int repeats = 0;
    if (slot->tensor) {
        dcpi_check_agreement(c, slot->tensor, tensor);
        repeats = slot->shard == (uint32_t)c->shard;
    }
    slot->tensor = tensor;
    slot->shard = (uint32_t)c->shard;
    return repeats;
}
/* The table is larger than a cache, and a slot is anywhere in it. So names are taken 32 at a time: all their slots are looked at, which the
 * processor does at once, and then used. */
static void dcpi_check_names_of(dcpi_checker *c, dcpi_name_table *table, size_t s) {
    const dcp_shard_metadata *shard = &c->metadata->shards[s];
    size_t count = shard->tensors ? shard->tensor_count : 0, from, t;
    uint64_t hash[32];
    uint32_t looked_at = 0;
    int repeats = 0;
    c->shard = s;
    for (from = 0; from < count; from += DCPI_COUNT(hash)) {
        size_t end = count - from < DCPI_COUNT(hash) ? count : from + DCPI_COUNT(hash);
        for (t = from; t < end; t++) hash[t - from] = shard->tensors[t].name ? dcpi_name_table_hash(table, shard->tensors[t].name) : 0;
        for (t = from; t < end; t++) looked_at |= table->slots[(size_t)hash[t - from] & table->mask].tag;
        for (t = from; t < end; t++) {
            c->tensor = t;
            if (shard->tensors[t].name) repeats |= dcpi_check_name_of(c, table, &shard->tensors[t], hash[t - from]);
        }
    }
    c->tensor = DCPI_META_NONE;
    table->looked_at = looked_at;                                       /* kept, or a compiler drops the looking */
    if (repeats) dcpi_check_repeats(c, shard);
    c->shard = DCPI_META_NONE;
}
static void dcpi_check_names(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    dcpi_name_table table;
    size_t count = 0, s;
    for (s = 0; s < m->shard_count; s++)
        if (m->shards[s].tensors && !dcpi_add_size(count, m->shards[s].tensor_count, &count)) count = SIZE_MAX;
    if (count > (size_t)DCP_LIMIT_TENSORS) {
        dcpi_check_error(c, "shards", "more than %d tensors (DCP_LIMIT_TENSORS)", (int)DCP_LIMIT_TENSORS);
        return;
    }
    if (!dcpi_name_table_make(&table, count)) { c->no_memory = 1; return; }
    for (s = 0; s < m->shard_count; s++) dcpi_check_names_of(c, &table, s);
    dcpi_free(table.slots);
}

/* ---- the document */
/* The major number of a version such as "1.0.0"; -1: it is none. */
static int64_t dcpi_version_major(const char *version) {
    int64_t major = -1, part = 0;
    const char *text = version;
    if (strlen(version) > 31) return -1;
    for (;;) {
        if (*text < '0' || *text > '9') return -1;
        for (part = 0; *text >= '0' && *text <= '9'; text++) part = dcpi_min(part * 10 + (*text - '0'), INT32_MAX);
        if (major < 0) major = part;
        if (*text == '\0') return major;
        if (*text++ != '.') return -1;
    }
}
static int dcpi_version_is_newer(const char *version) { return dcpi_version_major(version) > dcpi_version_major(DCP_FORMAT_VERSION); }

static void dcpi_check_head(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    int64_t seconds;
    int nanoseconds;
    if (m->version ? m->version[0] == '\0' : dcpi_check_is_parsed(c)) dcpi_check_error(c, "version", "a version is required");
    else if (m->version && dcpi_version_major(m->version) < 0)
        dcpi_check_error(c, "version", "\"%.64s\" is not a version such as " DCP_FORMAT_VERSION, m->version);
    else if (m->version && dcpi_version_is_newer(m->version))
        dcpi_check_error(c, "version", "\"%s\" is newer than this program, which knows " DCP_FORMAT_VERSION, m->version);
    if (!m->timestamp) { if (dcpi_check_is_parsed(c)) dcpi_check_strict(c, "timestamp", "a timestamp is required"); }
    else if (!dcpi_time_parse(m->timestamp, &seconds, &nanoseconds))
        dcpi_check_error(c, "timestamp", "\"%.64s\" is not a time such as 2026-11-20T12:00:00.123456Z", m->timestamp);
    if (m->world_size < 1) dcpi_check_strict(c, "worldSize", "must be at least 1: %d", m->world_size);
    if (m->ddp_rank < 0 || (m->world_size >= 1 && m->ddp_rank >= m->world_size))
        dcpi_check_strict(c, "ddpRank", "%d is not from 0 to the world size less one", m->ddp_rank);
    if (m->save_id && !dcpi_is_save_id(m->save_id)) dcpi_check_error(c, "saveId", "\"%.64s\" is not 16 lower-case hex digits", m->save_id);
    if (m->sequence < 0) dcpi_check_error(c, "sequence", "must not be negative: %" PRId64, m->sequence);
    if (m->has_training && !dcpi_double_is_finite(m->training.learning_rate))
        dcpi_check_error(c, "training.learningRate", "must be finite");
}
static void dcpi_check_sharding(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    int64_t expected = m->sharding.shard_count;
    int is_default = expected == 0 && !dcpi_check_is_parsed(c);         /* the number of shards there are */
    if (!m->sharding.strategy) dcpi_check_error(c, "sharding", "sharding metadata is required");
    else if (m->sharding.strategy[0] == '\0') dcpi_check_warning(c, "sharding.strategy", "no strategy is given");
    if (m->shard_count == 0 || !m->shards) { dcpi_check_error(c, "shards", "at least one shard is required"); return; }
    if (is_default) expected = (int64_t)m->shard_count;
    if ((m->sharding.strategy || expected != 0) && (uint64_t)expected != (uint64_t)m->shard_count)
        dcpi_check_error(c, "sharding.shardCount", "shard count mismatch: expected %" PRId64 ", found %" PRIu64, expected,
                         (uint64_t)m->shard_count);
    else if (c->is_ours && expected != m->world_size)
        dcpi_check_error(c, "sharding.shardCount", "%" PRId64 " shards, but worldSize is %d", expected, m->world_size);
}
static int dcpi_check_by_key(const void *a, const void *b) { return strcmp(((const dcp_field *)a)->key, ((const dcp_field *)b)->key); }

static void dcpi_check_fields(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    const dcp_field **order;
    size_t count = 0, f;
    if (m->field_count > 0 && !m->fields) { dcpi_check_error(c, "customFields", "the fields are missing"); return; }
    order = (const dcp_field **)dcpi_alloc_array(m->field_count, sizeof *order, NULL);
    if (!order) { c->no_memory = 1; return; }
    for (f = 0; f < m->field_count; f++) {
        if (m->fields[f].key && m->fields[f].value) order[count++] = &m->fields[f];
        else dcpi_check_error(c, "customFields", "field %" PRIu64 " has no %s", (uint64_t)f, m->fields[f].key ? "value" : "key");
    }
    if (dcpi_sort((const void **)order, count, dcpi_check_by_key, NULL) != DCP_OK) c->no_memory = 1;
    for (f = 1; f < count && !c->no_memory; f++)
        if (strcmp(order[f - 1]->key, order[f]->key) == 0)
            dcpi_check_error(c, "customFields", "the key \"%.200s\" stands there twice", order[f]->key);
    dcpi_free((void *)order);
}
static void dcpi_check_shards(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    size_t s;
    if (m->shard_count == 0 || !m->shards) return;
    for (s = 0; s < m->shard_count; s++) {
        c->shard = s;
        dcpi_check_shard(c, &m->shards[s]);
        if (m->shards[s].data_offset != 0) c->is_single = 1;
    }
    c->shard = DCPI_META_NONE;
    dcpi_check_ranks(c);
    dcpi_check_names(c);
    if (c->is_single) dcpi_check_regions(c); else dcpi_check_paths(c);
}
static void dcpi_check_more(dcpi_checker *c) {                          /* the last line of a list that was cut */
    char message[64];
    int failed = 0;
    if (c->more_errors > 0) {
        (void)snprintf(message, sizeof message, "... and %" PRIu64 " more errors", (uint64_t)c->more_errors);
        failed |= dcp_validation_error(c->out, message) != DCP_OK;
    }
    if (c->more_warnings > 0) {
        (void)snprintf(message, sizeof message, "... and %" PRIu64 " more warnings", (uint64_t)c->more_warnings);
        failed |= dcp_validation_warning(c->out, message) != DCP_OK;
    }
    if (failed) c->no_memory = 1;
}
/* The JSON text that a program has put into a built document. Defined with the writer, which refuses the same. */
static void dcpi_check_texts(dcpi_checker *c);

DCPDEF dcp_status dcp_metadata_validate(const dcp_metadata *metadata, dcp_validation *out) {
    dcpi_checker c;
    if (out) memset(out, 0, sizeof *out);
    if (!metadata || !out) return DCP_E_INVALID;
    memset(&c, 0, sizeof c);
    c.metadata = metadata;
    c.out = out;
    c.shard = c.tensor = DCPI_META_NONE;
    c.is_ours = metadata->save_id != NULL;
    c.type = DCP_OPAQUE;
    dcpi_check_head(&c);
    dcpi_check_sharding(&c);
    dcpi_check_shards(&c);
    dcpi_check_fields(&c);
    dcpi_check_texts(&c);
    dcpi_check_more(&c);
    if (c.no_memory) return DCP_E_MEMORY;
    return out->error_count > 0 ? DCP_E_FORMAT : DCP_OK;
}
/* Validates for an operation that needs a good document: the first error, and how many more there are; the warnings are in *found, which
 * is freed in any case. */
static dcp_status dcpi_meta_check(const dcp_metadata *metadata, const char *path, dcp_validation *found, dcp_error *err) {
    dcp_status status = dcp_metadata_validate(metadata, found);
    if (status == DCP_E_FORMAT && found->error_count > 1)
        (void)dcpi_fail(err, status, "%s: %s (and %" PRIu64 " more errors)", path, found->errors[0], (uint64_t)(found->error_count - 1));
    else if (status == DCP_E_FORMAT) (void)dcpi_fail(err, status, "%s: %s", path, found->errors[0]);
    else if (status == DCP_E_MEMORY) (void)dcpi_fail(err, status, "%s: out of memory while checking the document", path);
    else if (status != DCP_OK) (void)dcpi_fail(err, status, "%s: there is no document to check", path);
    else (void)dcpi_succeed(err);
    return status;
}

/* ---- the schema: which members each object has. Reading goes by these tables, and writing refuses an `extra` member that is in them  */
typedef enum dcpi_kind {                /* what is read, and into what */
    DCPI_KIND_TEXT,                     /* const char * in the arena */
    DCPI_KIND_VERSION,                  /* the same; a newer one ends the parsing */
    DCPI_KIND_TYPE, DCPI_KIND_PLACEMENT,/* const char *, one of ours where it is known */
    DCPI_KIND_INT, DCPI_KIND_INT64, DCPI_KIND_NUMBER,
    DCPI_KIND_OBJECT,                   /* const char *: the text of an object */
    DCPI_KIND_SHAPE, DCPI_KIND_GLOBAL_SHAPE, DCPI_KIND_GLOBAL_OFFSET, DCPI_KIND_DIGESTS,
    DCPI_KIND_SHARDING, DCPI_KIND_TRAINING, DCPI_KIND_FIELDS, DCPI_KIND_SHARDS, DCPI_KIND_TENSORS,
    DCPI_KIND_SIGNATURE, DCPI_KIND_INTEGRITY            /* read before, as bytes */
} dcpi_kind;
typedef struct dcpi_member { dcpi_kind kind; size_t offset; int is_addition; } dcpi_member;     /* addition: to the seed's format */
typedef struct dcpi_record {
    const char *path;                   /* of its members, in messages, before the name */
    const char *const *names; const dcpi_member *members; int count;    /* in the same order, at most 64 */
    size_t extra;                       /* offset of `extra` */
    int depth;                          /* arrays and objects around it */
} dcpi_record;

static const char *const dcpi_top_names[] = {
    "version", "timestamp", "worldSize", "ddpRank", "saveId", "sequence", "sharding", "shards", "training", "customFields",
    "signature", "integrity"
};
static const dcpi_member dcpi_top_members[] = {
    {DCPI_KIND_VERSION, offsetof(dcp_metadata, version), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_metadata, timestamp), 0},
    {DCPI_KIND_INT, offsetof(dcp_metadata, world_size), 0},
    {DCPI_KIND_INT, offsetof(dcp_metadata, ddp_rank), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_metadata, save_id), 1},
    {DCPI_KIND_INT64, offsetof(dcp_metadata, sequence), 1},
    {DCPI_KIND_SHARDING, offsetof(dcp_metadata, sharding), 0},
    {DCPI_KIND_SHARDS, 0, 0},
    {DCPI_KIND_TRAINING, offsetof(dcp_metadata, training), 0},
    {DCPI_KIND_FIELDS, 0, 0},
    {DCPI_KIND_SIGNATURE, 0, 1},
    {DCPI_KIND_INTEGRITY, 0, 1}
};
static const char *const dcpi_sharding_names[] = {
    "strategy", "shardCount", "precision", "strategySpecificInfo"
};
static const dcpi_member dcpi_sharding_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_sharding, strategy), 0},
    {DCPI_KIND_INT64, offsetof(dcp_sharding, shard_count), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_sharding, precision), 0},
    {DCPI_KIND_OBJECT, offsetof(dcp_sharding, info), 0}
};
static const char *const dcpi_shard_names[] = {
    "rank", "filePath", "fileSize", "dataOffset", "tensors", "checksum"
};
static const dcpi_member dcpi_shard_members[] = {
    {DCPI_KIND_INT, offsetof(dcp_shard_metadata, rank), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_shard_metadata, file_path), 0},
    {DCPI_KIND_INT64, offsetof(dcp_shard_metadata, file_size), 0},
    {DCPI_KIND_INT64, offsetof(dcp_shard_metadata, data_offset), 1},
    {DCPI_KIND_TENSORS, 0, 0},
    {DCPI_KIND_TEXT, offsetof(dcp_shard_metadata, checksum), 0}
};
static const char *const dcpi_tensor_names[] = {
    "name", "shape", "dataType", "offset", "size", "globalShape", "globalOffset", "placement", "blockSize", "blockChecksums"
};
static const dcpi_member dcpi_tensor_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_tensor_metadata, name), 0},
    {DCPI_KIND_SHAPE, offsetof(dcp_tensor_metadata, shape), 0},
    {DCPI_KIND_TYPE, offsetof(dcp_tensor_metadata, data_type), 0},
    {DCPI_KIND_INT64, offsetof(dcp_tensor_metadata, offset), 0},
    {DCPI_KIND_INT64, offsetof(dcp_tensor_metadata, size), 0},
    {DCPI_KIND_GLOBAL_SHAPE, offsetof(dcp_tensor_metadata, global_shape), 1},
    {DCPI_KIND_GLOBAL_OFFSET, offsetof(dcp_tensor_metadata, global_offset), 1},
    {DCPI_KIND_PLACEMENT, offsetof(dcp_tensor_metadata, placement), 1},
    {DCPI_KIND_INT64, offsetof(dcp_tensor_metadata, block_size), 1},
    {DCPI_KIND_DIGESTS, 0, 1}
};
static const char *const dcpi_training_names[] = {
    "epoch", "step", "learningRate", "optimizerType", "optimizerState"
};
static const dcpi_member dcpi_training_members[] = {
    {DCPI_KIND_INT64, offsetof(dcp_training, epoch), 0},
    {DCPI_KIND_INT64, offsetof(dcp_training, step), 0},
    {DCPI_KIND_NUMBER, offsetof(dcp_training, learning_rate), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_training, optimizer_type), 0},
    {DCPI_KIND_OBJECT, offsetof(dcp_training, optimizer_state), 0}
};
static const dcpi_record dcpi_top_record = {"", dcpi_top_names, dcpi_top_members, (int)DCPI_COUNT(dcpi_top_members),
                                               offsetof(dcp_metadata, extra), 0};
static const dcpi_record dcpi_sharding_record = {"sharding.", dcpi_sharding_names, dcpi_sharding_members,
                                                 (int)DCPI_COUNT(dcpi_sharding_members),
                                               offsetof(dcp_sharding, extra), 1};
static const dcpi_record dcpi_training_record = {"training.", dcpi_training_names, dcpi_training_members,
                                                 (int)DCPI_COUNT(dcpi_training_members),
                                               offsetof(dcp_training, extra), 1};
static const dcpi_record dcpi_shard_record = {"", dcpi_shard_names, dcpi_shard_members, (int)DCPI_COUNT(dcpi_shard_members),
                                               offsetof(dcp_shard_metadata, extra), 2};
static const dcpi_record dcpi_tensor_record = {"", dcpi_tensor_names, dcpi_tensor_members, (int)DCPI_COUNT(dcpi_tensor_members),
                                               offsetof(dcp_tensor_metadata, extra), 4};

/* ---- JSON text that a program has put in: checked as strictly as what is read, as deep as it will stand ---------------------- */
/* `text` must be members that the record does not have. */
static int dcpi_text_check_members(dcpi_json_reader *r, const dcpi_record *record) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(r, &o, record->names, record->count);
    while (done && dcpi_json_member(r, &o)) {
        if (o.member >= 0) return dcpi_json_fail(r, o.key_at, "\"%s\" is a field of its own", record->names[o.member]);
        done = dcpi_json_skip(r, NULL);
    }
    if (done && !r->status && o.count == 1) return dcpi_json_fail(r, r->at, "there is no member");
    return done && !r->status;
}
/* One object (record NULL), or members of the record's object. depth: arrays and objects around the text. */
static dcp_status dcpi_text_check(const char *text, int depth, const dcpi_record *record, dcp_error *err) {
    dcpi_buffer braced = {NULL, 0, 0, 0};
    dcpi_arena arena = {NULL};
    dcpi_json_reader r;
    int done;
    if (record) dcpi_buffer_add(&braced, "{", 1);
    dcpi_buffer_text(&braced, text);
    if (record) dcpi_buffer_add(&braced, "}", 1);
    if (braced.failed) { dcpi_buffer_free(&braced); return dcpi_no_memory(err, strlen(text)); }

    dcpi_json_begin(&r, braced.data ? braced.data : "", braced.size, &arena, err);
    r.depth = depth;
    if (record) done = dcpi_text_check_members(&r, record);
    else done = dcpi_json_peek(&r) == '{' ? dcpi_json_skip(&r, NULL) : dcpi_json_fail(&r, r.at, "expected an object");
    if (done) (void)dcpi_json_end(&r);
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    dcpi_buffer_free(&braced);
    return r.status == DCP_E_FORMAT ? DCP_E_INVALID : r.status;         /* it is an argument's text, not a file's */
}
static void dcpi_check_text(dcpi_checker *c, const char *member, const char *text, int depth, const dcpi_record *record) {
    dcp_error err;
    dcp_status status = text ? dcpi_text_check(text, depth, record, &err) : DCP_OK;
    if (status == DCP_E_MEMORY) c->no_memory = 1;
    else if (status != DCP_OK) dcpi_check_error(c, member, "not a JSON %s: %s", record ? "member list" : "object", err.message);
}
static void dcpi_check_words(dcpi_checker *c, const char *member, const char *text) {
    if (text && !dcpi_is_utf8(text)) dcpi_check_error(c, member, "not valid UTF-8");
}
static void dcpi_check_texts_of_shard(dcpi_checker *c, size_t s) {
    const dcp_shard_metadata *shard = &c->metadata->shards[s];
    size_t t;
    c->shard = s;
    dcpi_check_text(c, "extra", shard->extra, dcpi_shard_record.depth, &dcpi_shard_record);
    for (t = 0; shard->tensors && t < shard->tensor_count; t++) {
        if (!shard->tensors[t].extra) continue;
        c->tensor = t;
        dcpi_check_text(c, "extra", shard->tensors[t].extra, dcpi_tensor_record.depth, &dcpi_tensor_record);
        c->tensor = DCPI_META_NONE;
    }
    c->shard = DCPI_META_NONE;
}
static void dcpi_check_texts(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    size_t i;
    dcpi_check_words(c, "sharding.strategy", m->sharding.strategy);
    dcpi_check_words(c, "sharding.precision", m->sharding.precision);
    dcpi_check_text(c, "sharding.strategySpecificInfo", m->sharding.info, 2, NULL);
    dcpi_check_text(c, "sharding.extra", m->sharding.extra, dcpi_sharding_record.depth, &dcpi_sharding_record);
    if (m->has_training) {
        dcpi_check_words(c, "training.optimizerType", m->training.optimizer_type);
        dcpi_check_text(c, "training.optimizerState", m->training.optimizer_state, 2, NULL);
        dcpi_check_text(c, "training.extra", m->training.extra, dcpi_training_record.depth, &dcpi_training_record);
    }
    for (i = 0; m->fields && i < m->field_count; i++) {
        dcpi_check_words(c, "customFields", m->fields[i].key);
        dcpi_check_words(c, "customFields", m->fields[i].value);
    }
    dcpi_check_text(c, "extra", m->extra, dcpi_top_record.depth, &dcpi_top_record);
    for (i = 0; m->shards && i < m->shard_count; i++) dcpi_check_texts_of_shard(c, i);
}

/* A tensor as it is written, part by part. */
#define DCPI_TENSOR_NAME "{ \"name\": "
#define DCPI_TENSOR_SHAPE ", \"shape\": "
#define DCPI_TENSOR_TYPE ", \"dataType\": "
#define DCPI_TENSOR_OFFSET ", \"offset\": "
#define DCPI_TENSOR_SIZE ", \"size\": "
#define DCPI_TENSOR_GLOBAL_SHAPE ",\n          \"globalShape\": "
#define DCPI_TENSOR_GLOBAL_OFFSET ", \"globalOffset\": "
#define DCPI_TENSOR_PLACEMENT ", \"placement\": "
#define DCPI_TENSOR_BLOCK_SIZE " \"blockSize\": "
#define DCPI_TENSOR_BLOCKS ", \"blockChecksums\": "
#define DCPI_TENSOR_END " }"

/* ---- writing: one function per record, in the order of the schema ------------------------------------------------------------ */
/* Where a document's shards and tensors come from while it is written: the structs of a dcp_metadata, or a save's own compact lists, one at
 * a time. What the functions hand out needs to live until the next call. */
typedef struct dcpi_meta_source {
    const dcp_metadata *head;           /* all but shards and shard_count */
    size_t shard_count; void *user;
    dcp_status (*shard)(void *user, size_t s, dcp_shard_metadata *out, dcp_error *err);     /* out comes zeroed; `tensors` is not used */
    dcp_status (*tensor)(void *user, size_t s, size_t t, dcp_tensor_metadata *out, dcp_error *err);
} dcpi_meta_source;

static dcp_status dcpi_meta_source_shard(void *user, size_t s, dcp_shard_metadata *out, dcp_error *err) {
    *out = ((const dcp_metadata *)user)->shards[s];
    return dcpi_succeed(err);
}
static dcp_status dcpi_meta_source_tensor(void *user, size_t s, size_t t, dcp_tensor_metadata *out, dcp_error *err) {
    *out = ((const dcp_metadata *)user)->shards[s].tensors[t];
    return dcpi_succeed(err);
}
static void dcpi_meta_source_of(const dcp_metadata *metadata, dcpi_meta_source *out) {
    out->head = metadata;
    out->shard_count = metadata->shards ? metadata->shard_count : 0;
    out->user = (void *)metadata;
    out->shard = dcpi_meta_source_shard;
    out->tensor = dcpi_meta_source_tensor;
}

typedef struct dcpi_emitter {
    dcpi_writer json;
    char chunk[16384];
    const dcpi_meta_source *source;
    dcp_error *err;
    size_t shard, tensor;               /* what is being written, for messages; DCPI_META_NONE */
    const char *member;
} dcpi_emitter;

#define DCPI_PUT(e, literal) dcpi_write_raw(&(e)->json, literal, sizeof(literal) - 1)
#define DCPI_LITERAL(text) text, sizeof(text) - 1
#define DCPI_EMIT_RUN 1024              /* more than what is put down after one dcpi_emit_room: two shapes and their names */

/* Millions of tensors are written: short parts go down one after another, in room that was made for all of them. */
static char *dcpi_emit_room(dcpi_emitter *e) {
    if (e->json.capacity - e->json.used < DCPI_EMIT_RUN) dcpi_writer_flush(&e->json);
    return e->json.buffer + e->json.used;
}
static void dcpi_emit_took(dcpi_emitter *e, const char *end) { e->json.used = (size_t)(end - e->json.buffer); }
static char *dcpi_put(char *to, const char *text, size_t size) {
    memcpy(to, text, size);
    return to + size;
}
static char *dcpi_put_int(char *to, int64_t value) {
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, scale;
    size_t digits = 1, i;
    if (value < 0) *to++ = '-';
    for (scale = rest; scale >= 10; scale /= 10) digits++;
    for (i = digits; i-- > 0; rest /= 10) to[i] = (char)('0' + rest % 10);
    return to + digits;
}
static char *dcpi_put_numbers(char *to, const int64_t *values, int count) {
    int i;
    *to++ = '[';
    for (i = 0; i < count; i++) {
        if (i > 0) to = dcpi_put(to, DCPI_LITERAL(", "));
        to = dcpi_put_int(to, values[i]);
    }
    *to++ = ']';
    return to;
}
/* Neither quotes, backslashes and control characters nor anything beyond ASCII. */
static int dcpi_text_is_plain(const char *text, size_t length) {
    size_t i = 0;
    for (; length - i >= 8; i += 8) if (dcpi_json_is_special(text + i)) return 0;
    for (; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x80 || text[i] == '"' || text[i] == '\\') return 0;
    return 1;
}
static dcp_status dcpi_emit_fail(dcpi_emitter *e, const char *member, const char *what) {
    e->member = member;
    if (e->json.status == DCP_OK) e->json.status = dcpi_fail(e->err, DCP_E_INVALID, "%s", what);
    return e->json.status;
}
static void dcpi_emit_text(dcpi_emitter *e, const char *member, const char *text) {
    size_t length;
    if (e->json.status != DCP_OK) return;
    if (!text) { (void)dcpi_emit_fail(e, member, "it must not be NULL"); return; }
    length = strlen(text);
    if (!dcpi_text_is_plain(text, length)) {
        if (dcpi_is_utf8(text)) dcpi_write_string(&e->json, text, length);
        else (void)dcpi_emit_fail(e, member, "it is not valid UTF-8");
        return;
    }
    DCPI_PUT(e, "\"");
    dcpi_write_raw(&e->json, text, length);
    DCPI_PUT(e, "\"");
}
static void dcpi_emit_json(dcpi_emitter *e, const char *member, const char *text, int depth, const dcpi_record *record) {
    dcp_error reason;
    if (e->json.status != DCP_OK) return;
    e->json.status = dcpi_text_check(text, depth, record, &reason);
    e->member = member;
    if (e->json.status == DCP_OK) dcpi_write_text(&e->json, text);
    else (void)dcpi_fail(e->err, e->json.status, "not a JSON %s: %s", record ? "member list" : "object", reason.message);
}
static void dcpi_emit_extra(dcpi_emitter *e, const char *between, const char *text, const char *member, const dcpi_record *record) {
    if (!text) return;
    dcpi_write_text(&e->json, between);
    dcpi_emit_json(e, member, text, record->depth, record);
}
static void dcpi_emit_digests(dcpi_emitter *e, const uint8_t *digests, size_t count) {
    size_t i;
    DCPI_PUT(e, "[");
    for (i = 0; i < count; i++) {
        char *to = dcpi_emit_room(e);
        to = i > 0 ? dcpi_put(to, DCPI_LITERAL(", \"")) : dcpi_put(to, DCPI_LITERAL("\""));
        dcpi_hex_encode(digests + 32 * i, 32, to);
        to[64] = '"';
        dcpi_emit_took(e, to + 65);
    }
    DCPI_PUT(e, "]");
}
static void dcpi_emit_global(dcpi_emitter *e, const dcp_tensor_metadata *tensor) {
    char *to = dcpi_emit_room(e);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_SHAPE));
    to = dcpi_put_numbers(to, tensor->global_shape, tensor->ndim);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_OFFSET));
    to = dcpi_put_numbers(to, tensor->global_offset, tensor->ndim);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_PLACEMENT));
    dcpi_emit_took(e, to);
    dcpi_emit_text(e, "placement", tensor->placement);
}
static void dcpi_emit_blocks(dcpi_emitter *e, const dcp_tensor_metadata *tensor) {
    char *to = dcpi_emit_room(e);
    to = dcpi_put(to, ",\n         ", tensor->placement ? 1 : 11);        /* on the second line, which a placement begins */
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_BLOCK_SIZE));
    to = dcpi_put_int(to, tensor->block_size);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_BLOCKS));
    dcpi_emit_took(e, to);
    dcpi_emit_digests(e, tensor->block_checksums, tensor->block_count);
}
static dcp_status dcpi_emit_tensor(dcpi_emitter *e, const dcp_tensor_metadata *tensor) {
    char *to;
    if (tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS) return dcpi_emit_fail(e, "shape", "an impossible number of dimensions");
    if (tensor->block_count > 0 && !tensor->block_checksums) return dcpi_emit_fail(e, "blockChecksums", "it must not be NULL");
    DCPI_PUT(e, DCPI_TENSOR_NAME);
    dcpi_emit_text(e, "name", tensor->name);
    to = dcpi_emit_room(e);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_SHAPE));
    to = dcpi_put_numbers(to, tensor->shape, tensor->ndim);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_TYPE));
    dcpi_emit_took(e, to);
    dcpi_emit_text(e, "dataType", tensor->data_type);
    to = dcpi_emit_room(e);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_OFFSET));
    to = dcpi_put_int(to, tensor->offset);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_SIZE));
    to = dcpi_put_int(to, tensor->size);
    dcpi_emit_took(e, to);
    if (tensor->placement) dcpi_emit_global(e, tensor);
    if (tensor->block_size != 0) dcpi_emit_blocks(e, tensor);
    dcpi_emit_extra(e, ", ", tensor->extra, "extra", &dcpi_tensor_record);
    DCPI_PUT(e, DCPI_TENSOR_END);
    return e->json.status;
}
static dcp_status dcpi_emit_tensors(dcpi_emitter *e, size_t count) {
    const dcpi_meta_source *source = e->source;
    dcp_tensor_metadata tensor;
    dcp_status status;
    size_t t;
    if (count == 0) DCPI_PUT(e, "      \"tensors\": []");
    if (count == 0 || e->json.status != DCP_OK) return e->json.status;
    DCPI_PUT(e, "      \"tensors\": [\n        ");
    for (t = 0; t < count; t++) {
        if (t > 0) DCPI_PUT(e, ",\n        ");
        e->tensor = t;
        memset(&tensor, 0, sizeof tensor);
        status = source->tensor(source->user, e->shard, t, &tensor, e->err);
        if (status == DCP_OK) status = dcpi_emit_tensor(e, &tensor);
        if (status != DCP_OK) return status;
    }
    e->tensor = DCPI_META_NONE;
    DCPI_PUT(e, "\n      ]");
    return e->json.status;
}
static dcp_status dcpi_emit_shard(dcpi_emitter *e, size_t s) {
    dcp_shard_metadata shard;
    dcp_status status;
    memset(&shard, 0, sizeof shard);
    e->shard = s;
    status = e->source->shard(e->source->user, s, &shard, e->err);
    if (status != DCP_OK) return status;
    dcpi_write_text(&e->json, s > 0 ? ",\n    {\n      \"rank\": " : "\n    {\n      \"rank\": ");
    dcpi_write_int(&e->json, shard.rank);
    DCPI_PUT(e, ",\n      \"filePath\": ");
    dcpi_emit_text(e, "filePath", shard.file_path);
    DCPI_PUT(e, ",\n      \"fileSize\": ");
    dcpi_write_int(&e->json, shard.file_size);
    if (shard.data_offset != 0) {
        DCPI_PUT(e, ",\n      \"dataOffset\": ");
        dcpi_write_int(&e->json, shard.data_offset);
    }
    DCPI_PUT(e, ",\n");
    status = dcpi_emit_tensors(e, shard.tensor_count);
    if (status != DCP_OK) return status;
    if (shard.checksum) {
        DCPI_PUT(e, ",\n      \"checksum\": ");
        dcpi_emit_text(e, "checksum", shard.checksum);
    }
    dcpi_emit_extra(e, ",\n      ", shard.extra, "extra", &dcpi_shard_record);
    DCPI_PUT(e, "\n    }");
    return e->json.status;
}
static dcp_status dcpi_emit_shards(dcpi_emitter *e) {
    dcp_status status = e->json.status;
    size_t s = 0;
    DCPI_PUT(e, "  \"shards\": [");
    for (; s < e->source->shard_count && status == DCP_OK; s++) status = dcpi_emit_shard(e, s);
    if (status != DCP_OK) return status;
    e->shard = DCPI_META_NONE;
    dcpi_write_text(&e->json, s > 0 ? "\n  ],\n" : "],\n");
    return e->json.status;
}
static void dcpi_emit_sharding(dcpi_emitter *e) {
    const dcp_sharding *sharding = &e->source->head->sharding;
    DCPI_PUT(e, "  \"sharding\": { ");
    if (sharding->strategy && sharding->strategy[0] != '\0') {           /* "" is how a parsed one says that it is absent */
        DCPI_PUT(e, "\"strategy\": ");
        dcpi_emit_text(e, "sharding.strategy", sharding->strategy);
        DCPI_PUT(e, ", ");
    }
    DCPI_PUT(e, "\"shardCount\": ");
    dcpi_write_int(&e->json, sharding->shard_count != 0 ? sharding->shard_count : (int64_t)e->source->shard_count);
    if (sharding->precision) {
        DCPI_PUT(e, ", \"precision\": ");
        dcpi_emit_text(e, "sharding.precision", sharding->precision);
    }
    DCPI_PUT(e, ", \"strategySpecificInfo\": ");
    dcpi_emit_json(e, "sharding.strategySpecificInfo", sharding->info ? sharding->info : "{}", 2, NULL);
    dcpi_emit_extra(e, ", ", sharding->extra, "sharding.extra", &dcpi_sharding_record);
    DCPI_PUT(e, " },\n");
}
static void dcpi_emit_training(dcpi_emitter *e) {
    const dcp_training *training = &e->source->head->training;
    if (!e->source->head->has_training) return;
    if (!dcpi_double_is_finite(training->learning_rate)) { (void)dcpi_emit_fail(e, "training.learningRate", "it must be finite"); return; }
    DCPI_PUT(e, "  \"training\": { \"epoch\": ");
    dcpi_write_int(&e->json, training->epoch);
    DCPI_PUT(e, ", \"step\": ");
    dcpi_write_int(&e->json, training->step);
    DCPI_PUT(e, ", \"learningRate\": ");
    dcpi_write_double(&e->json, training->learning_rate);
    if (training->optimizer_type) {
        DCPI_PUT(e, ", \"optimizerType\": ");
        dcpi_emit_text(e, "training.optimizerType", training->optimizer_type);
    }
    DCPI_PUT(e, ", \"optimizerState\": ");
    dcpi_emit_json(e, "training.optimizerState", training->optimizer_state ? training->optimizer_state : "{}", 2, NULL);
    dcpi_emit_extra(e, ", ", training->extra, "training.extra", &dcpi_training_record);
    DCPI_PUT(e, " },\n");
}
static void dcpi_emit_fields(dcpi_emitter *e) {
    const dcp_metadata *head = e->source->head;
    size_t f;
    DCPI_PUT(e, "  \"customFields\": {");
    for (f = 0; f < head->field_count; f++) {
        dcpi_write_text(&e->json, f > 0 ? ", " : " ");
        dcpi_emit_text(e, "customFields", head->fields[f].key);
        DCPI_PUT(e, ": ");
        dcpi_emit_text(e, "customFields", head->fields[f].value);
    }
    dcpi_write_text(&e->json, head->field_count > 0 ? " }" : "}");
}
static void dcpi_emit_head(dcpi_emitter *e) {
    const dcp_metadata *head = e->source->head;
    char now[DCPI_TIME_TEXT];
    DCPI_PUT(e, "{\n  \"version\": ");
    dcpi_emit_text(e, "version", head->version ? head->version : DCP_FORMAT_VERSION);
    if (!head->timestamp) dcpi_time_format(dcpi_os_wall_us(), now);
    DCPI_PUT(e, ",\n  \"timestamp\": ");
    dcpi_emit_text(e, "timestamp", head->timestamp ? head->timestamp : now);
    DCPI_PUT(e, ",\n  \"worldSize\": ");
    dcpi_write_int(&e->json, head->world_size);
    DCPI_PUT(e, ",\n  \"ddpRank\": ");
    dcpi_write_int(&e->json, head->ddp_rank);
    if (head->save_id) {
        DCPI_PUT(e, ",\n  \"saveId\": ");
        dcpi_emit_text(e, "saveId", head->save_id);
        DCPI_PUT(e, ",\n  \"sequence\": ");
        dcpi_write_int(&e->json, head->sequence);
    }
    DCPI_PUT(e, ",\n");
}
/* The path of what a message is about, in front of it. */
static void dcpi_meta_locate(dcp_error *err, size_t shard, size_t tensor, const char *member) {
    const char *dot = member[0] != '\0' ? "." : "";
    if (shard == DCPI_META_NONE) dcpi_fail_context(err, "%s%s", member, member[0] != '\0' ? ": " : "");
    else if (tensor == DCPI_META_NONE) dcpi_fail_context(err, "shards[%" PRIu64 "]%s%s: ", (uint64_t)shard, dot, member);
    else dcpi_fail_context(err, "shards[%" PRIu64 "].tensors[%" PRIu64 "]%s%s: ", (uint64_t)shard, (uint64_t)tensor, dot, member);
}
static dcp_status dcpi_emit_body(dcpi_emitter *e) {
    dcp_status status;
    dcpi_emit_head(e);
    dcpi_emit_sharding(e);
    status = dcpi_emit_shards(e);
    if (status != DCP_OK) return status;
    dcpi_emit_training(e);
    dcpi_emit_fields(e);
    dcpi_emit_extra(e, ",\n  ", e->source->head->extra, "extra", &dcpi_top_record);
    dcpi_writer_flush(&e->json);
    return e->json.status;
}
/* Streams the whole document. sink NULL: only counts its bytes. bytes may be NULL. */
static dcp_status dcpi_meta_emit(const dcpi_meta_source *source, const char *type, const dcp_signer *signer, dcpi_sink sink, void *user,
                                 int64_t *bytes, dcp_error *err) {
    dcpi_emitter e;
    dcpi_integrity stream;
    dcp_error failure;
    dcp_status status;
    if (bytes) *bytes = 0;
    if (!err) err = &failure;                                           /* what went wrong is needed below */
    status = dcpi_integrity_begin(&stream, type, signer, sink, user, err);
    if (status != DCP_OK) return status;
    e.source = source;
    e.err = err;
    e.shard = e.tensor = DCPI_META_NONE;
    e.member = "";
    dcpi_writer_begin(&e.json, e.chunk, sizeof e.chunk, dcpi_integrity_write, &stream, err);
    status = dcpi_emit_body(&e);
    if (status == DCP_E_INVALID && e.member[0] != '\0') dcpi_meta_locate(err, e.shard, e.tensor, e.member);
    if (status == DCP_OK) status = dcpi_integrity_end(&stream, err);
    if (status != DCP_OK) return status;
    if (bytes) *bytes = stream.size;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_write_signed(const dcp_metadata *metadata, const dcp_signer *signer, char **text, size_t *size,
                                            dcp_error *err) {
    dcpi_buffer buffer = {NULL, 0, 0, 0};
    dcpi_meta_source source;
    dcp_status status;
    if (text) *text = NULL;
    if (size) *size = 0;
    if (!metadata || !text || !size) return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_write: metadata, text and size must not be NULL");
    dcpi_meta_source_of(metadata, &source);
    status = dcpi_meta_emit(&source, DCPI_TYPE_METADATA, signer, dcpi_buffer_sink, &buffer, NULL, err);
    if (status == DCP_OK) status = dcpi_buffer_sink(&buffer, "", 1, err);
    if (status != DCP_OK) { dcpi_buffer_free(&buffer); return status; }
    *text = buffer.data;
    *size = buffer.size - 1;                                            /* a NUL follows, for those who print it */
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_write(const dcp_metadata *metadata, char **text, size_t *size, dcp_error *err) {
    return dcp_metadata_write_signed(metadata, NULL, text, size, err);
}

/* ---- parsing: straight into the structs, by the schema ----------------------------------------------------------------------- */
#define DCPI_PARSE_LEVELS 3             /* objects of the schema that are open at once: the document, a shard, a tensor */
#define DCPI_PARSE_ENTRY 24             /* bytes that a shard or tensor has at least, on the average: real ones have three times as many */

typedef struct dcpi_parser {
    dcpi_json_reader json;              /* its arena is the document's */
    dcpi_meta *meta;
    size_t size, entries;               /* bytes of the document; shards and tensors so far */
    size_t shard, tensor;               /* what is being read; DCPI_META_NONE */
    const char *path, *member;          /* likewise, for messages */
    int has_additions, has_signature, has_sharding;
    int ndim[3];                        /* of the tensor: of shape, globalShape, globalOffset; -1: absent */
    const char *type; size_t type_length;       /* the last data type */
    dcpi_buffer digests;
    dcpi_buffer extra[DCPI_PARSE_LEVELS];       /* unknown members of the objects that are open */
    int level;                          /* how many those are */
} dcpi_parser;

static int dcpi_parse_record(dcpi_parser *p, const dcpi_record *record, void *to);

static int dcpi_parse_fail(dcpi_parser *p, const char *what) { return dcpi_json_fail(&p->json, p->json.at, "%s", what); }
static int dcpi_parse_limit(dcpi_parser *p, const char *what) {
    if (!p->json.status) p->json.status = dcpi_fail(p->json.err, DCP_E_LIMIT, "%s", what);
    return 0;
}
static int dcpi_parse_failed(dcpi_parser *p, dcp_status status) {       /* the message is there already */
    if (!p->json.status) p->json.status = status;
    return 0;
}
static int dcpi_parse_object_text(dcpi_parser *p, const char **to) {
    dcpi_json_span raw;
    if (dcpi_json_peek(&p->json) != '{') return dcpi_parse_fail(p, "expected an object");
    if (!dcpi_json_skip(&p->json, &raw)) return 0;
    *to = dcpi_arena_text(p->json.arena, raw.text, raw.length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_parse_int(dcpi_parser *p, int *to) {
    int64_t value;
    if (!dcpi_json_int64(&p->json, &value)) return 0;
    if (value < INT_MIN || value > INT_MAX) return dcpi_parse_fail(p, "the number does not fit 32 bits");
    *to = (int)value;
    return 1;
}
/* A document of a newer major version is refused at once: what follows may mean something else. */
static int dcpi_parse_version(dcpi_parser *p, const char **to) {
    if (!dcpi_json_text(&p->json, to)) return 0;
    if (!dcpi_version_is_newer(*to)) return 1;
    return dcpi_parse_failed(p, dcpi_fail(p->json.err, DCP_E_VERSION, "version %.64s is needed to read this document; this program knows "
                                          DCP_FORMAT_VERSION, *to));
}
/* Words that stand in every tensor are kept once: a data type is mostly that of the tensor before, a placement one of three. */
static int dcpi_parse_type(dcpi_parser *p, const dcpi_json_span *text, const char **to) {
    dcp_dtype exact;
    if (!p->type || p->type_length != text->length || memcmp(p->type, text->text, text->length) != 0) {
        exact = dcpi_dtype_exact(text->text, text->length);
        p->type = exact != DCP_OPAQUE ? dcp_dtype_name(exact) : dcpi_arena_text(p->json.arena, text->text, text->length, p->json.err);
        p->type_length = text->length;
        if (!p->type) return dcpi_json_no_memory(&p->json);
    }
    *to = p->type;
    return 1;
}
static int dcpi_parse_placement(dcpi_parser *p, const dcpi_json_span *text, const char **to) {
    static const char *const words[] = {"sharded", "replicated", "private"};
    size_t i;
    for (i = 0; i < DCPI_COUNT(words); i++) {
        if (strlen(words[i]) != text->length || memcmp(words[i], text->text, text->length) != 0) continue;
        *to = words[i];
        return 1;
    }
    *to = dcpi_arena_text(p->json.arena, text->text, text->length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_parse_shape(dcpi_parser *p, const dcp_tensor_metadata *tensor, int64_t *to, int *ndim) {
    int64_t count;
    *ndim = 0;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        if (*ndim == DCP_MAX_DIMS)
            return dcpi_json_fail(&p->json, p->json.at, "tensor \"%.200s\" has more than %d dimensions", tensor->name ? tensor->name : "",
                                  DCP_MAX_DIMS);
        if (!dcpi_json_int64(&p->json, &to[*ndim])) return 0;
        (*ndim)++;
    }
    return p->json.status == DCP_OK;
}
static int dcpi_parse_digest(const char *digits, uint8_t digest[32]) {  /* 64 hex digits, without a branch for each */
    uint8_t value[64], is_wrong = 0;
    int i;
    for (i = 0; i < 64; i++) {
        uint8_t digit = (uint8_t)(digits[i] - '0'), letter = (uint8_t)((digits[i] | 0x20) - 'a');
        value[i] = (uint8_t)(digit < 10 ? digit : letter + 10);
        is_wrong = (uint8_t)(is_wrong | ((digit > 9) & (letter > 5)));
    }
    for (i = 0; i < 32; i++) digest[i] = (uint8_t)(value[2 * i] * 16 + value[2 * i + 1]);
    return !is_wrong;
}
static int dcpi_parse_keep_digests(dcpi_parser *p, dcp_tensor_metadata *tensor) {
    uint8_t *copy;
    if (p->digests.failed) return dcpi_json_no_memory(&p->json);
    if (p->digests.size == 0) return 1;
    copy = (uint8_t *)dcpi_arena_alloc(p->json.arena, p->digests.size, p->json.err);
    if (!copy) return dcpi_json_no_memory(&p->json);
    memcpy(copy, p->digests.data, p->digests.size);
    tensor->block_checksums = copy;
    tensor->block_count = p->digests.size / 32;
    return 1;
}
static int dcpi_parse_digests(dcpi_parser *p, dcp_tensor_metadata *tensor) {
    dcpi_json_span text;
    uint8_t digest[32];
    int64_t count;
    p->digests.size = 0;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        if (!dcpi_json_string(&p->json, &text)) return 0;
        if (text.length != 64 || !dcpi_parse_digest(text.text, digest)) return dcpi_parse_fail(p, "a digest has 64 hex digits");
        dcpi_buffer_add(&p->digests, digest, sizeof digest);
    }
    return !p->json.status && dcpi_parse_keep_digests(p, tensor);
}
static int dcpi_parse_field(dcpi_parser *p, const dcpi_json_span *span) {
    const char *value = "", *key = dcpi_arena_text(p->json.arena, span->text, span->length, p->json.err);
    if (!key) return dcpi_json_no_memory(&p->json);
    if (p->meta->metadata.field_count >= (size_t)DCP_LIMIT_FIELDS) return dcpi_parse_limit(p, "more fields than DCP_LIMIT_FIELDS");
    if (!dcpi_json_null(&p->json) && !dcpi_json_text(&p->json, &value)) return 0;
    return dcpi_meta_add_field(p->meta, key, value, p->json.err) == DCP_OK ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_parse_fields(dcpi_parser *p) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(&p->json, &o, NULL, 0);
    while (done && dcpi_json_member(&p->json, &o)) done = dcpi_parse_field(p, &o.key);
    return done && !p->json.status;
}
/* One more shard or tensor. Each takes a struct, so there must not be more of them than the bytes of the document pay for (G8). */
static int dcpi_parse_entry(dcpi_parser *p) {
    p->entries++;
    if (p->entries <= (size_t)DCP_LIMIT_FREE_ENTRIES || p->entries <= p->size / DCPI_PARSE_ENTRY) {
        if (p->entries <= (size_t)DCP_LIMIT_TENSORS + (size_t)DCP_LIMIT_SHARDS) return 1;
        return dcpi_parse_limit(p, "more tensors than DCP_LIMIT_TENSORS");
    }
    return dcpi_parse_limit(p, "more shards and tensors than a document of this size can describe");
}
/* ---- a tensor exactly as dcpi_emit_tensor writes it, without unknown members: read in a quarter of the time. Whatever else it is, the
 *      reader of all JSON takes it, from its first byte. */
typedef struct dcpi_quick { const char *at, *end; } dcpi_quick;

static int dcpi_quick_literal(dcpi_quick *q, const char *literal, size_t size) {
    if ((size_t)(q->end - q->at) < size || memcmp(q->at, literal, size) != 0) return 0;
    q->at += size;
    return 1;
}
static int dcpi_quick_text(dcpi_quick *q, dcpi_json_span *out) {        /* of plain characters only */
    const char *at = q->at, *start;
    if (at == q->end || *at++ != '"') return 0;
    start = at;
    while (q->end - at >= 8 && !dcpi_json_is_special(at)) at += 8;
    while (at < q->end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\') at++;
    if (at == q->end || *at != '"') return 0;
    out->text = start;
    out->length = (size_t)(at - start);
    q->at = at + 1;
    return 1;
}
static int dcpi_quick_int(dcpi_quick *q, int64_t *value) {              /* not negative, at most 18 digits */
    const char *start = q->at, *at = start;
    int64_t sum = 0;
    while (at < q->end && *at >= '0' && *at <= '9' && at - start < 18) sum = sum * 10 + (*at++ - '0');
    if (at == start || (*start == '0' && at - start > 1)) return 0;
    *value = sum;
    q->at = at;
    return 1;
}
static int dcpi_quick_numbers(dcpi_quick *q, int64_t *values, int *count) {
    *count = 0;
    if (!dcpi_quick_literal(q, "[", 1)) return 0;
    if (dcpi_quick_literal(q, "]", 1)) return 1;
    do {
        if (*count == DCP_MAX_DIMS || !dcpi_quick_int(q, &values[(*count)++])) return 0;
    } while (dcpi_quick_literal(q, ", ", 2));
    return dcpi_quick_literal(q, "]", 1);
}
static int dcpi_quick_digests(dcpi_parser *p, dcpi_quick *q) {
    uint8_t digest[32];
    if (!dcpi_quick_literal(q, "[", 1)) return 0;
    if (dcpi_quick_literal(q, "]", 1)) return 1;
    do {
        if (q->end - q->at < 66 || q->at[0] != '"' || q->at[65] != '"' || !dcpi_parse_digest(q->at + 1, digest)) return 0;
        q->at += 66;
        dcpi_buffer_add(&p->digests, digest, sizeof digest);
    } while (dcpi_quick_literal(q, ", ", 2));
    return dcpi_quick_literal(q, "]", 1);
}
static int dcpi_quick_global(dcpi_parser *p, dcpi_quick *q, dcp_tensor_metadata *tensor) {
    dcpi_json_span placement;
    int shape, offset;
    if (!dcpi_quick_numbers(q, tensor->global_shape, &shape)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_OFFSET)) || !dcpi_quick_numbers(q, tensor->global_offset, &offset)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_PLACEMENT)) || !dcpi_quick_text(q, &placement)) return 0;
    return shape == tensor->ndim && offset == tensor->ndim && dcpi_parse_placement(p, &placement, &tensor->placement);
}
static int dcpi_quick_blocks(dcpi_parser *p, dcpi_quick *q, dcp_tensor_metadata *tensor) {
    if (!dcpi_quick_int(q, &tensor->block_size) || !dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_BLOCKS))) return 0;
    return dcpi_quick_digests(p, q);
}
static int dcpi_quick_parts(dcpi_parser *p, dcpi_quick *q, dcp_tensor_metadata *tensor, dcpi_json_span *name) {
    dcpi_json_span type;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_NAME)) || !dcpi_quick_text(q, name)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_SHAPE)) || !dcpi_quick_numbers(q, tensor->shape, &tensor->ndim)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_TYPE)) || !dcpi_quick_text(q, &type)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_OFFSET)) || !dcpi_quick_int(q, &tensor->offset)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_SIZE)) || !dcpi_quick_int(q, &tensor->size)) return 0;
    if (!dcpi_parse_type(p, &type, &tensor->data_type)) return 0;
    if (dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_SHAPE)) && !dcpi_quick_global(p, q, tensor)) return 0;
    if (dcpi_quick_literal(q, DCPI_LITERAL("," DCPI_TENSOR_BLOCK_SIZE)) && !dcpi_quick_blocks(p, q, tensor)) return 0;
    return dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_END));
}
/* 1: read. 0: it is written in another way, and nothing has happened; or there is no memory, which the status says. */
static int dcpi_quick_tensor(dcpi_parser *p, dcp_tensor_metadata *tensor) {
    dcpi_json_span name;
    dcpi_quick q;
    q.at = p->json.at;
    q.end = p->json.end;
    p->digests.size = 0;
    if (!dcpi_quick_parts(p, &q, tensor, &name)) { memset(tensor, 0, sizeof *tensor); return 0; }
    tensor->name = dcpi_arena_text(p->json.arena, name.text, name.length, p->json.err);
    if (!tensor->name || !dcpi_parse_keep_digests(p, tensor)) return dcpi_json_no_memory(&p->json);
    p->has_additions |= tensor->placement != NULL || tensor->block_size != 0;
    p->json.at = q.at;
    return 1;
}
static int dcpi_parse_tensor(dcpi_parser *p) {
    dcp_tensor_metadata *tensor;
    dcp_status status;
    int i;
    if (!dcpi_parse_entry(p)) return 0;
    status = dcpi_meta_add_tensor(p->meta, p->shard, &tensor, p->json.err);
    if (status != DCP_OK) return dcpi_parse_failed(p, status);
    if (dcpi_quick_tensor(p, tensor)) return 1;
    for (i = 0; i < 3; i++) p->ndim[i] = -1;
    if (p->json.status || !dcpi_parse_record(p, &dcpi_tensor_record, tensor)) return 0;
    tensor->ndim = p->ndim[0] > 0 ? p->ndim[0] : 0;
    for (i = 1; i < 3; i++) {
        if (p->ndim[i] < 0 || p->ndim[i] == tensor->ndim) continue;
        p->member = i == 1 ? "globalShape" : "globalOffset";
        return dcpi_parse_fail(p, "its number of dimensions is not that of shape");
    }
    return 1;
}
/* Gives back what the array has grown beyond the shard's last tensor. */
static void dcpi_parse_trim(dcpi_parser *p) {
    dcp_shard_metadata *shard = &p->meta->metadata.shards[p->shard];
    void *exact;
    if (shard->tensor_count == 0 || shard->tensor_count == p->meta->tensor_capacities[p->shard]) return;
    exact = DCP_REALLOC((void *)shard->tensors, shard->tensor_count * sizeof *shard->tensors);
    if (!exact) return;                                                 /* then it stays larger */
    shard->tensors = p->meta->tensors[p->shard] = (dcp_tensor_metadata *)exact;
    p->meta->tensor_capacities[p->shard] = shard->tensor_count;
}
static int dcpi_parse_tensors(dcpi_parser *p) {
    int64_t count;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        p->tensor = (size_t)count - 1;
        p->member = "";
        if (!dcpi_parse_tensor(p)) return 0;
    }
    if (p->json.status) return 0;
    p->tensor = DCPI_META_NONE;
    dcpi_parse_trim(p);
    return 1;
}
static int dcpi_parse_shards(dcpi_parser *p) {
    dcp_shard_metadata *shard;
    dcp_status status;
    int64_t count;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        p->shard = (size_t)count - 1;
        p->member = "";
        if (!dcpi_parse_entry(p)) return 0;
        status = dcpi_meta_add_shard(p->meta, &shard, p->json.err);
        if (status != DCP_OK) return dcpi_parse_failed(p, status);
        if (!dcpi_parse_record(p, &dcpi_shard_record, shard)) return 0;
    }
    p->shard = DCPI_META_NONE;
    return p->json.status == DCP_OK;
}
static int dcpi_parse_value(dcpi_parser *p, const dcpi_member *member, void *record) {
    dcp_metadata *metadata = &p->meta->metadata;
    void *to = (char *)record + member->offset;
    dcpi_json_span word;
    switch (member->kind) {
    case DCPI_KIND_TEXT:          return dcpi_json_text(&p->json, (const char **)to);
    case DCPI_KIND_VERSION:       return dcpi_parse_version(p, (const char **)to);
    case DCPI_KIND_TYPE:          return dcpi_json_string(&p->json, &word) && dcpi_parse_type(p, &word, (const char **)to);
    case DCPI_KIND_PLACEMENT:     return dcpi_json_string(&p->json, &word) && dcpi_parse_placement(p, &word, (const char **)to);
    case DCPI_KIND_INT:           return dcpi_parse_int(p, (int *)to);
    case DCPI_KIND_INT64:         return dcpi_json_int64(&p->json, (int64_t *)to);
    case DCPI_KIND_NUMBER:        return dcpi_json_real(&p->json, (double *)to);
    case DCPI_KIND_OBJECT:        return dcpi_parse_object_text(p, (const char **)to);
    case DCPI_KIND_SHAPE:         return dcpi_parse_shape(p, (dcp_tensor_metadata *)record, (int64_t *)to, &p->ndim[0]);
    case DCPI_KIND_GLOBAL_SHAPE:  return dcpi_parse_shape(p, (dcp_tensor_metadata *)record, (int64_t *)to, &p->ndim[1]);
    case DCPI_KIND_GLOBAL_OFFSET: return dcpi_parse_shape(p, (dcp_tensor_metadata *)record, (int64_t *)to, &p->ndim[2]);
    case DCPI_KIND_DIGESTS:       return dcpi_parse_digests(p, (dcp_tensor_metadata *)record);
    case DCPI_KIND_SHARDING:      p->has_sharding = 1; return dcpi_parse_record(p, &dcpi_sharding_record, &metadata->sharding);
    case DCPI_KIND_TRAINING:      metadata->has_training = 1; return dcpi_parse_record(p, &dcpi_training_record, &metadata->training);
    case DCPI_KIND_FIELDS:        return dcpi_parse_fields(p);
    case DCPI_KIND_SHARDS:        return dcpi_parse_shards(p);
    case DCPI_KIND_TENSORS:       return dcpi_parse_tensors(p);
    case DCPI_KIND_SIGNATURE:     p->has_signature = 1; return dcpi_json_skip(&p->json, NULL);
    case DCPI_KIND_INTEGRITY:     return dcpi_json_skip(&p->json, NULL);
    }
    return 0;
}
static int dcpi_span_is(const dcpi_json_span *span, const char *word) {
    return span->length == strlen(word) && memcmp(span->text, word, span->length) == 0;
}
/* A member that the schema does not have: its text is kept as it stands (G12). */
static int dcpi_parse_unknown(dcpi_parser *p, dcpi_json_object *o) {
    dcpi_buffer *extra = &p->extra[p->level - 1];
    const char *version, *start = o->key_at;
    int done;
    p->member = "an unknown member";
    if (p->level == 1 && dcpi_span_is(&o->key, "minReaderVersion")) p->member = "minReaderVersion";
    if (p->level == 1 && dcpi_span_is(&o->key, "min_reader_version")) p->member = "min_reader_version";
    if (dcpi_starts_with(p->member, "min")) {
        done = dcpi_json_peek(&p->json) == '"' ? dcpi_parse_version(p, &version) : dcpi_json_skip(&p->json, NULL);
    } else {
        done = dcpi_json_skip(&p->json, NULL);
    }
    if (!done) return 0;
    if (extra->size > 0) dcpi_buffer_text(extra, ", ");
    dcpi_buffer_add(extra, start, (size_t)(p->json.at - start));
    return extra->failed ? dcpi_json_no_memory(&p->json) : 1;
}
static int dcpi_parse_members(dcpi_parser *p, const dcpi_record *record, void *to) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(&p->json, &o, record->names, record->count);
    while (done && dcpi_json_member(&p->json, &o)) {
        const dcpi_member *member = &record->members[o.member >= 0 ? o.member : 0];
        p->path = record->path;
        if (o.member < 0) { done = dcpi_parse_unknown(p, &o); continue; }
        p->member = record->names[o.member];
        p->has_additions |= member->is_addition;
        done = dcpi_json_null(&p->json) || dcpi_parse_value(p, member, to);     /* null: as if absent */
    }
    return done && !p->json.status;
}
/* An object of the schema. */
static int dcpi_parse_record(dcpi_parser *p, const dcpi_record *record, void *to) {
    const char **kept = (const char **)(void *)((char *)to + record->extra);
    dcpi_buffer *extra = &p->extra[p->level++];
    int done;
    extra->size = 0;
    done = dcpi_parse_members(p, record, to);
    p->level--;
    if (!done || extra->size == 0) return done;
    *kept = dcpi_arena_text(p->json.arena, extra->data, extra->size, p->json.err);
    return *kept ? 1 : dcpi_json_no_memory(&p->json);
}
/* What the document says of itself against what was found in its bytes. */
static dcp_status dcpi_parse_finish(dcpi_parser *p, const dcpi_tail *tail, dcp_error *err) {
    dcp_metadata *metadata = &p->meta->metadata;
    if (!tail->present && p->has_additions)
        return dcpi_fail(err, DCP_E_CHECKSUM, "the document is damaged: its last members are not the integrity member in its exact form");
    if (tail->present && p->has_signature != tail->is_signed)
        return dcpi_fail(err, DCP_E_CHECKSUM, "the document is damaged: its signature member is not in its place or not in its exact form");
    if (p->has_sharding && !metadata->sharding.strategy) metadata->sharding.strategy = "";
    metadata->is_foreign = !tail->present;
    if (!tail->is_signed) return DCP_OK;
    metadata->signature_algorithm = dcpi_arena_text(&p->meta->arena, tail->algorithm, strlen(tail->algorithm), err);
    metadata->signature_key = dcpi_arena_text(&p->meta->arena, tail->key, strlen(tail->key), err);
    return metadata->signature_algorithm && metadata->signature_key ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_parse_document(dcpi_parser *p, const dcpi_tail *tail, dcp_error *err) {
    char member[64];
    int i, done = dcpi_parse_record(p, &dcpi_top_record, &p->meta->metadata);
    (void)snprintf(member, sizeof member, "%s%s", p->path, done ? "" : p->member);
    if (done) (void)dcpi_json_end(&p->json);
    dcpi_json_close(&p->json);
    for (i = 0; i < DCPI_PARSE_LEVELS; i++) dcpi_buffer_free(&p->extra[i]);
    dcpi_buffer_free(&p->digests);
    if (!p->json.status) return dcpi_parse_finish(p, tail, err);
    if (p->json.status != DCP_E_MEMORY) dcpi_meta_locate(err, p->shard, p->tensor, member);
    return p->json.status;
}
/* Checks a document's integrity, then parses it. A verifier that is set must accept. What its fields say is dcpi_meta_check's business. */
static dcp_status dcpi_meta_parse(const char *text, size_t size, const char *type, const dcp_verifier *verifier, dcp_metadata **out,
                                  dcp_error *err) {
    const uint64_t bytes = size;
    dcpi_parser p;
    dcpi_tail tail;
    dcp_metadata *metadata;
    dcp_status status;
    *out = NULL;
    if (bytes > (uint64_t)DCP_LIMIT_DOCUMENT)
        return dcpi_fail(err, DCP_E_LIMIT, "the document has %" PRIu64 " bytes (DCP_LIMIT_DOCUMENT)", bytes);
    status = dcpi_integrity_check(type, text, size, verifier, &tail, err);
    if (status == DCP_OK) status = dcp_metadata_new(&metadata, err);
    if (status != DCP_OK) return status;

    memset(&p, 0, sizeof p);
    p.meta = dcpi_meta_of(metadata);
    p.meta->is_parsed = 1;
    p.size = size;
    p.shard = p.tensor = DCPI_META_NONE;
    p.path = p.member = "";
    dcpi_json_begin(&p.json, text, size, &p.meta->arena, err);
    status = dcpi_parse_document(&p, &tail, err);
    if (status != DCP_OK) { dcp_metadata_free(metadata); return status; }
    *out = metadata;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_parse(const char *text, size_t size, dcp_metadata **out, dcp_error *err) {
    if (out) *out = NULL;
    if (!out || (!text && size > 0)) return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_parse: text and out must not be NULL");
    return dcpi_meta_parse(text ? text : "", size, DCPI_TYPE_METADATA, NULL, out, err);
}

/* ================================================================================================================================
 * >>file        The header of a single file, P.checkpoint (MLCP): all that stands before the tensor bytes.
 *
 *     4            magic 0x4D4C4350, on disk 50 43 4C 4D
 *     1 + n        version: its length as a varint of 7 bits a byte, lowest first (a .NET string), and its UTF-8
 *     4 + m        length of the metadata document as int32, and the document (>>meta)
 *     records      for each shard an int32, its number of tensors, and for each tensor
 *                  int32 length of the name, the name; data type as a varint string; int32 number of dimensions; int64 each;
 *                  int64 size in bytes
 *     padding      zeros up to the first dataOffset
 *
 * Everything but the document repeats what the document says, so reading is writing once more: the bytes are rebuilt and compared. That
 * leaves no room for a second reading of a file, for non-minimal lengths or for bytes that nobody looks at (G4).
 * ============================================================================================================================== */
#define DCPI_FILE_PREFIX 4096           /* of so many first bytes of a file dcpi_file_prefix needs no more */
#define DCPI_FILE_VERSION 32            /* a version and a NUL */
static const uint8_t dcpi_file_magic[4] = {0x50, 0x43, 0x4C, 0x4D};

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */
typedef struct dcpi_file_out {          /* gathers small pieces for a sink */
    dcpi_sink sink; void *user;         /* sink NULL: only count */
    int64_t size;                       /* bytes so far */
    size_t used;
    dcp_status status; dcp_error *err;  /* after a failure nothing more is written */
    uint8_t bytes[8192];
} dcpi_file_out;

static void dcpi_file_begin(dcpi_file_out *out, dcpi_sink sink, void *user, dcp_error *err) {
    out->sink = sink;
    out->user = user;
    out->size = 0;
    out->used = 0;
    out->status = DCP_OK;
    out->err = err;
}
static void dcpi_file_flush(dcpi_file_out *out) {
    if (out->status == DCP_OK && out->used > 0 && out->sink) out->status = out->sink(out->user, out->bytes, out->used, out->err);
    out->used = 0;
}
static void dcpi_file_put(dcpi_file_out *out, const void *data, size_t size) {
    const uint8_t *from = (const uint8_t *)data;
    out->size += (int64_t)size;
    while (size > 0) {
        size_t n = size < sizeof out->bytes - out->used ? size : sizeof out->bytes - out->used;
        memcpy(out->bytes + out->used, from, n);
        out->used += n;
        from += n;
        size -= n;
        if (out->used == sizeof out->bytes) dcpi_file_flush(out);
    }
}
static void dcpi_file_put32(dcpi_file_out *out, uint32_t value) {
    uint8_t bytes[4];
    dcpi_store32(bytes, value);
    dcpi_file_put(out, bytes, sizeof bytes);
}
static void dcpi_file_put64(dcpi_file_out *out, int64_t value) {
    uint8_t bytes[8];
    dcpi_store64(bytes, (uint64_t)value);
    dcpi_file_put(out, bytes, sizeof bytes);
}
static void dcpi_file_put_string(dcpi_file_out *out, const char *text) {  /* as BinaryWriter.Write(string) does */
    size_t length = strlen(text), rest = length, n = 0;
    uint8_t varint[10];
    for (; rest >= 0x80; rest >>= 7) varint[n++] = (uint8_t)((rest & 0x7F) | 0x80);
    varint[n++] = (uint8_t)rest;
    dcpi_file_put(out, varint, n);
    dcpi_file_put(out, text, length);
}
static void dcpi_file_put_zeros(dcpi_file_out *out, int64_t count) {
    static const uint8_t zeros[512] = {0};
    for (; count > 0 && out->status == DCP_OK; count -= dcpi_min(count, (int64_t)sizeof zeros))
        dcpi_file_put(out, zeros, (size_t)dcpi_min(count, (int64_t)sizeof zeros));
}
static dcp_status dcpi_file_put_tensor(dcpi_file_out *out, const dcp_tensor_metadata *tensor) {
    int d;
    if (!tensor->name || !tensor->data_type || tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS)
        return dcpi_fail(out->err, DCP_E_INVALID, "a tensor without name, data type or a possible number of dimensions cannot be written");
    dcpi_file_put32(out, (uint32_t)strlen(tensor->name));
    dcpi_file_put(out, tensor->name, strlen(tensor->name));
    dcpi_file_put_string(out, tensor->data_type);
    dcpi_file_put32(out, (uint32_t)tensor->ndim);
    for (d = 0; d < tensor->ndim; d++) dcpi_file_put64(out, tensor->shape[d]);
    dcpi_file_put64(out, tensor->size);
    return out->status;
}
static dcp_status dcpi_file_put_shard(dcpi_file_out *out, const dcpi_meta_source *source, size_t s) {
    dcp_shard_metadata shard;
    dcp_tensor_metadata tensor;
    size_t t;
    dcp_status status;
    memset(&shard, 0, sizeof shard);
    status = source->shard(source->user, s, &shard, out->err);
    if (status != DCP_OK) return status;
    if (shard.tensor_count > (size_t)DCP_LIMIT_TENSORS)
        return dcpi_fail(out->err, DCP_E_LIMIT, "more than %d tensors in a shard", (int)DCP_LIMIT_TENSORS);
    dcpi_file_put32(out, (uint32_t)shard.tensor_count);
    for (t = 0; t < shard.tensor_count; t++) {
        memset(&tensor, 0, sizeof tensor);
        status = source->tensor(source->user, s, t, &tensor, out->err);
        if (status == DCP_OK) status = dcpi_file_put_tensor(out, &tensor);
        if (status != DCP_OK) return status;
    }
    return out->status;
}
static dcp_status dcpi_file_put_records(dcpi_file_out *out, const dcpi_meta_source *source) {
    dcp_status status = DCP_OK;
    size_t s;
    for (s = 0; s < source->shard_count && status == DCP_OK; s++) status = dcpi_file_put_shard(out, source, s);
    return status;
}
static void dcpi_file_put_prefix(dcpi_file_out *out, const dcpi_meta_source *source, int64_t json_size) {
    dcpi_file_put(out, dcpi_file_magic, sizeof dcpi_file_magic);
    dcpi_file_put_string(out, source->head->version ? source->head->version : DCP_FORMAT_VERSION);
    dcpi_file_put32(out, (uint32_t)json_size);
}
/* Bytes of everything before the data but the document and the padding. */
static dcp_status dcpi_file_records_size(const dcpi_meta_source *source, int64_t *size, dcp_error *err) {
    dcpi_file_out out;
    dcp_status status;
    *size = 0;
    dcpi_file_begin(&out, NULL, NULL, err);
    dcpi_file_put_prefix(&out, source, 0);
    status = dcpi_file_put_records(&out, source);
    if (status != DCP_OK) return status;
    *size = out.size;
    return dcpi_succeed(err);
}
static dcp_status dcpi_file_check_json_size(int64_t json_size, dcp_error *err) {
    if (json_size >= 0 && json_size <= INT32_MAX) return DCP_OK;
    return dcpi_fail(err, DCP_E_LIMIT,
                     "the metadata document has %" PRId64 " bytes; a single file holds at most 2 GiB of it (use the sharded layout)",
                     json_size);
}
/* Writes everything before the data. json_size: of the document, as dcpi_meta_emit yields it. data_offset 0: no padding. */
static dcp_status dcpi_file_emit(const dcpi_meta_source *source, int64_t json_size, int64_t data_offset, const dcp_signer *signer,
                                 dcpi_sink sink, void *user, dcp_error *err) {
    dcpi_file_out out;
    int64_t written = 0;
    dcp_status status = dcpi_file_check_json_size(json_size, err);
    if (status != DCP_OK) return status;
    dcpi_file_begin(&out, sink, user, err);
    dcpi_file_put_prefix(&out, source, json_size);
    dcpi_file_flush(&out);
    if (out.status != DCP_OK) return out.status;

    status = dcpi_meta_emit(source, DCPI_TYPE_CHECKPOINT, signer, sink, user, &written, err);
    if (status != DCP_OK) return status;
    if (written != json_size)
        return dcpi_fail(err, DCP_E_INVALID, "internal: the metadata document has %" PRId64 " bytes, %" PRId64 " were expected", written,
                         json_size);
    out.size += written;

    status = dcpi_file_put_records(&out, source);
    if (status != DCP_OK) return status;
    if (data_offset > 0 && out.size > data_offset)
        return dcpi_fail(err, DCP_E_INVALID, "internal: the header has %" PRId64 " bytes, the data begins at %" PRId64, out.size,
                         data_offset);
    dcpi_file_put_zeros(&out, data_offset - out.size);
    dcpi_file_flush(&out);
    return out.status == DCP_OK ? dcpi_succeed(err) : out.status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */
/* A varint at bytes[*at]; 0: cut off, longer than it need be, or above INT32_MAX. */
static int dcpi_file_varint(const uint8_t *bytes, size_t count, size_t *at, uint32_t *value) {
    uint64_t sum = 0;
    int shift = 0;
    for (; *at < count && shift <= 28; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        sum |= (uint64_t)(byte & 0x7F) << shift;
        if (byte & 0x80) continue;
        if ((byte == 0 && shift > 0) || sum > INT32_MAX) return 0;
        *value = (uint32_t)sum;
        return 1;
    }
    return 0;
}
static dcp_status dcpi_file_read_version(const uint8_t *bytes, size_t count, size_t *at, char version[DCPI_FILE_VERSION], dcp_error *err) {
    uint32_t length;
    if (!dcpi_file_varint(bytes, count, at, &length))
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: the length of its version, at byte 4, is not a minimal varint");
    if (length == 0 || length >= DCPI_FILE_VERSION || length > count - *at)
        return dcpi_fail(err, DCP_E_FORMAT,
                         "corrupted checkpoint file: its version, at byte %" PRIu64 ", has an impossible length of %" PRIu32, (uint64_t)*at,
                         length);
    memcpy(version, bytes + *at, length);
    version[length] = '\0';
    if (strlen(version) != length || dcpi_version_major(version) < 0) {
        version[0] = '\0';
        return dcpi_fail(err, DCP_E_FORMAT,
                         "corrupted checkpoint file: at byte %" PRIu64 " there is no version such as " DCP_FORMAT_VERSION, (uint64_t)*at);
    }
    *at += length;
    if (!dcpi_version_is_newer(version)) return DCP_OK;
    return dcpi_fail(err, DCP_E_VERSION, "the checkpoint file has format version %s; this program knows " DCP_FORMAT_VERSION, version);
}
/* Where the document of a single file is, from the first bytes of the file: DCPI_FILE_PREFIX of them, or all if it is shorter. */
static dcp_status dcpi_file_prefix(const uint8_t *bytes, size_t count, int64_t file_size, int64_t *json_offset, int64_t *json_size,
                                   char version[DCPI_FILE_VERSION], dcp_error *err) {
    size_t at = sizeof dcpi_file_magic;
    uint32_t length;
    dcp_status status;
    *json_offset = *json_size = 0;
    version[0] = '\0';
    if (count < sizeof dcpi_file_magic || memcmp(bytes, dcpi_file_magic, sizeof dcpi_file_magic) != 0)
        return dcpi_fail(err, DCP_E_FORMAT, "not a checkpoint file: magic number mismatch (it must begin with the bytes 50 43 4C 4D)");
    status = dcpi_file_read_version(bytes, count, &at, version, err);
    if (status != DCP_OK) return status;
    if (count - at < 4)
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: it ends at byte %" PRIu64 ", inside its header", (uint64_t)count);
    length = (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 | (uint32_t)bytes[at + 3] << 24;
    at += 4;
    if (length > INT32_MAX || (int64_t)length > file_size - (int64_t)at)
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: its metadata would have %" PRIu32 " bytes, but %" PRId64 " follow",
                         length,
                         file_size - (int64_t)at);
    *json_offset = (int64_t)at;
    *json_size = (int64_t)length;
    return dcpi_succeed(err);
}

/* A sink that compares with a file what is written to it. */
typedef dcp_status (*dcpi_file_read)(void *user, int64_t offset, void *data, size_t size, dcp_error *err);
typedef struct dcpi_file_compare {
    dcpi_file_read read; void *user;
    int64_t offset, file_size;
    int is_foreign;
    uint8_t bytes[8192];
} dcpi_file_compare;

static dcp_status dcpi_file_compare_some(dcpi_file_compare *compare, const uint8_t *expected, size_t size, dcp_error *err) {
    dcp_status status;
    size_t i;
    if ((int64_t)size > compare->file_size - compare->offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the checkpoint file is cut short: it ends at byte %" PRId64 ", inside its header",
                         compare->file_size);
    status = compare->read(compare->user, compare->offset, compare->bytes, size, err);
    if (status != DCP_OK) return status;
    if (memcmp(expected, compare->bytes, size) != 0) {
        for (i = 0; expected[i] == compare->bytes[i];) i++;
        return dcpi_fail(err, compare->is_foreign ? DCP_E_FORMAT : DCP_E_CHECKSUM,
                         "corrupted checkpoint file: byte %" PRId64 " of its header is not what its "
                         "metadata says", compare->offset + (int64_t)i);
    }
    compare->offset += (int64_t)size;
    return DCP_OK;
}
static dcp_status dcpi_file_compare_sink(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_file_compare *compare = (dcpi_file_compare *)user;
    const uint8_t *expected = (const uint8_t *)data;
    while (size > 0) {
        size_t n = size < sizeof compare->bytes ? size : sizeof compare->bytes;
        dcp_status status = dcpi_file_compare_some(compare, expected, n, err);
        if (status != DCP_OK) return status;
        expected += n;
        size -= n;
    }
    return DCP_OK;
}
/* The file ends with its last region; one without data (the seed's own) with its records. */
static dcp_status dcpi_file_check_end(const dcp_metadata *metadata, int64_t header, int64_t file_size, dcp_error *err) {
    const dcp_shard_metadata *last = metadata->shard_count > 0 ? &metadata->shards[metadata->shard_count - 1] : NULL;
    int64_t end = header;
    if (last && last->data_offset > 0 && !dcpi_add(last->data_offset, last->file_size, &end))
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: the end of its last region does not fit in 64 bits");
    if (file_size < end)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the checkpoint file is cut short: it has %" PRId64 " bytes of %" PRId64, file_size, end);
    if (file_size > end)
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: %" PRId64 " bytes follow its end at byte %" PRId64, file_size - end,
                         end);
    return dcpi_succeed(err);
}
/* Compares every byte before the data with what the document says, and the file's size. metadata: parsed from json, and checked. */
static dcp_status dcpi_file_check(const dcp_metadata *metadata, const char *json, size_t json_size, dcpi_file_read read, void *user,
                                  int64_t file_size,
                                  dcp_error *err) {
    dcpi_meta_source source;
    dcpi_file_compare compare;
    dcpi_file_out out;
    int64_t data_offset = metadata->shard_count > 0 ? metadata->shards[0].data_offset : 0;
    dcp_status status = dcpi_file_check_json_size((int64_t)json_size, err);
    if (status != DCP_OK) return status;
    compare.read = read;
    compare.user = user;
    compare.offset = 0;
    compare.file_size = file_size;
    compare.is_foreign = metadata->is_foreign;
    dcpi_meta_source_of(metadata, &source);
    dcpi_file_begin(&out, dcpi_file_compare_sink, &compare, err);
    dcpi_file_put_prefix(&out, &source, (int64_t)json_size);
    dcpi_file_put(&out, json, json_size);
    status = dcpi_file_put_records(&out, &source);
    if (status != DCP_OK) return status;
    if (data_offset > 0 && (out.size > data_offset || data_offset - out.size >= DCPI_META_GAP))
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: its header has %" PRId64 " bytes, and its data begins at %" PRId64,
                         out.size, data_offset);
    dcpi_file_put_zeros(&out, data_offset - out.size);
    dcpi_file_flush(&out);
    if (out.status != DCP_OK) return out.status;
    return dcpi_file_check_end(metadata, out.size, file_size, err);
}

/* ================================================================================================================================
 * >>storage     One checked wrapper for each function of a dcp_storage, `local`, `memory`, the providers, whole objects, and the place that
 *               a checkpoint's path stands for.
 * ============================================================================================================================== */

/* ---- wrappers: keys are validated, outputs cleared, missing functions and silent failures turned into errors ------------------------- */
static dcp_status dcpi_storage_key(const char *key, dcp_error *err) {
    if (key && dcpi_key_is_valid(key)) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID,
                     "\"%s\" is not a valid path in a storage: parts joined by '/', none empty, \".\" or \"..\", no '\\', ':' or control "
                     "characters", key ? key : "(null)");
}
static dcp_status dcpi_storage_lacks(const char *what, dcp_error *err) {
    return dcpi_fail(err, DCP_E_UNSUPPORTED, "this storage does not support %s", what);
}
/* A plug-in that fails without saying why still ends in a message. */
static dcp_status dcpi_storage_result(dcp_status status, const char *what, const char *key, dcp_error *err) {
    if (status == DCP_OK) return dcpi_succeed(err);
    if (err && (err->status != status || err->message[0] == '\0'))
        return dcpi_fail(err, status, "the storage could not %s \"%s\" and gave no reason (%s)", what, key, dcp_status_name(status));
    return status;
}
static dcp_status dcpi_storage_begin(dcp_storage *s, const char *key, const char *temporary, int64_t size_hint, void **object,
                                     dcp_error *err) {
    dcp_status status;
    *object = NULL;
    (void)dcpi_succeed(err);
    if (!s->begin || !s->write || !s->commit || !s->abort) return dcpi_storage_lacks("writing", err);
    status = dcpi_storage_key(key, err);
    if (!status) status = dcpi_storage_key(temporary, err);
    if (status) return status;
    return dcpi_storage_result(s->begin(s->context, key, temporary, size_hint, object, err), "create", key, err);
}
static dcp_status dcpi_storage_write(dcp_storage *s, const char *key, void *object, int64_t offset, const void *data, size_t size,
                                     dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(s->write(s->context, object, offset, data, size, err), "write", key, err);
}
static int dcpi_storage_can_join(const dcp_storage *s) {
    return (s->flags & DCP_STORAGE_SHARED_POSITIONAL_WRITE) && s->join && s->leave;
}
static dcp_status dcpi_storage_join(dcp_storage *s, const char *key, const char *temporary, int64_t size_hint, void **object, dcp_error *err) {
    *object = NULL;
    (void)dcpi_succeed(err);
    return dcpi_storage_result(s->join(s->context, key, temporary, size_hint, object, err), "join in writing", key, err);
}
static dcp_status dcpi_storage_leave(dcp_storage *s, const char *key, void *object, dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(s->leave(s->context, object, err), "finish", key, err);
}
static dcp_status dcpi_storage_commit(dcp_storage *s, const char *key, void *object, int replace, dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(s->commit(s->context, object, replace, err), "publish", key, err);
}
static void dcpi_storage_abort(dcp_storage *s, void *object) { if (object) s->abort(s->context, object); }

static dcp_status dcpi_storage_open_object(dcp_storage *s, const char *key, void **object, dcp_object_info *info, dcp_error *err) {
    dcp_status status;
    *object = NULL;
    memset(info, 0, sizeof *info);
    (void)dcpi_succeed(err);
    if (!s->open || !s->read || !s->close) return dcpi_storage_lacks("reading", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    return dcpi_storage_result(s->open(s->context, key, object, info, err), "open", key, err);
}
static dcp_status dcpi_storage_read(dcp_storage *s, const char *key, void *object, int64_t offset, void *data, size_t size,
                                    dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_storage_result(s->read(s->context, object, offset, data, size, err), "read", key, err);
}
static void dcpi_storage_close_object(dcp_storage *s, void *object) { if (object) s->close(s->context, object); }

static dcp_status dcpi_storage_stat(dcp_storage *s, const char *key, dcp_object_info *info, dcp_error *err) {
    dcp_status status;
    memset(info, 0, sizeof *info);
    (void)dcpi_succeed(err);
    if (!s->stat) return dcpi_storage_lacks("asking for an object's size", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    return dcpi_storage_result(s->stat(s->context, key, info, err), "look at", key, err);
}
typedef dcp_status (*dcpi_storage_each)(void *user, const char *path, const dcp_object_info *info);

static dcp_status dcpi_storage_list(dcp_storage *s, const char *directory, dcpi_storage_each each, void *user, dcp_error *err) {
    (void)dcpi_succeed(err);
    if (!s->list) return dcpi_storage_lacks("listing a directory", err);
    if (directory[0] != '\0' && !dcpi_key_is_valid(directory)) return dcpi_storage_key(directory, err);
    return dcpi_storage_result(s->list(s->context, directory, each, user, err), "list", directory, err);
}
static dcp_status dcpi_storage_remove(dcp_storage *s, const char *key, dcp_error *err) {
    dcp_status status;
    (void)dcpi_succeed(err);
    if (!s->remove) return dcpi_storage_lacks("removing", err);
    status = dcpi_storage_key(key, err);
    if (status) return status;
    return dcpi_storage_result(s->remove(s->context, key, err), "remove", key, err);
}
/* A storage without the flag has nothing to sync; the save's report says so. */
static dcp_status dcpi_storage_sync_directory(dcp_storage *s, const char *directory, dcp_error *err) {
    (void)dcpi_succeed(err);
    if (!s->sync_directory || !(s->flags & DCP_STORAGE_SYNC_DIRECTORY)) return DCP_OK;
    return dcpi_storage_result(s->sync_directory(s->context, directory, err), "sync the directory", directory, err);
}
/* Whether another attempt may help: the device, the network or the system said no, and not for want of space or rights. */
static int dcpi_storage_is_transient(const dcp_error *err) {
    return err->status == DCP_E_IO && (err->sys == 0 || dcpi_os_is_transient(err->sys));
}

/* ---- local: a directory ------------------------------------------------------------------------------------------------------------ */
typedef struct dcpi_local { dcpi_base base; unsigned mode; char *path; } dcpi_local;
typedef struct dcpi_local_object { dcpi_file file; int64_t size; const void *mapped; char *path, *temporary; } dcpi_local_object;

static dcp_status dcpi_local_fail(const dcpi_local *local, int sys, const char *what, const char *key, dcp_error *err) {
    char text[160];
    dcpi_os_message(sys, text, sizeof text);
    return dcpi_fail_sys(err, dcpi_os_status(sys), sys == DCPI_OS_SHORT ? 0 : sys, "cannot %s \"%s\" in directory \"%s\": %s", what, key,
                         local->path, text);
}
/* On a file that is open, "invalid argument" is the file system's oddity, not the caller's mistake. */
static dcp_status dcpi_local_fail_io(const dcpi_local *local, int sys, const char *what, const char *key, dcp_error *err) {
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
static dcp_status dcpi_local_begin(void *context, const char *path, const char *temporary, int64_t size_hint, void **out, dcp_error *err) {
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
static dcp_status dcpi_local_write(void *context, void *object_, int64_t offset, const void *data, size_t size, dcp_error *err) {
    dcpi_local_object *object = (dcpi_local_object *)object_;
    int sys = dcpi_os_write(&object->file, offset, data, size);
    dcp_status status = sys ? dcpi_local_fail_io((const dcpi_local *)context, sys, "write", object->temporary, err) : DCP_OK;
    if (status) dcpi_fail_context(err, "at byte %" PRId64 ": ", offset);
    return status;
}
/* G3: bytes first, then the name. A file whose sync or close failed is removed, never used again. */
static dcp_status dcpi_local_commit(void *context, void *object_, int replace, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_object *object = (dcpi_local_object *)object_;
    const char *what = "sync";
    int sys = dcpi_os_sync(&object->file), closed = dcpi_os_close(&object->file);
    dcp_status status = DCP_OK;
    if (!sys && closed) { sys = closed; what = "close"; }
    if (!sys) {
        sys = dcpi_os_publish(&local->base, object->temporary, object->path, replace);
        what = "publish";
    }
    if (sys) {
        status = dcpi_local_fail_io(local, sys, what, object->path, err);
        (void)dcpi_os_remove(&local->base, object->temporary);
    }
    dcpi_local_object_free(object);
    return status;
}
static dcp_status dcpi_local_join(void *context, const char *path, const char *temporary, int64_t size_hint, void **out, dcp_error *err) {
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
    if (sys || closed) status = dcpi_local_fail_io((const dcpi_local *)context, sys ? sys : closed, "sync", object->temporary, err);
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
static dcp_status dcpi_local_read(void *context, void *object_, int64_t offset, void *data, size_t size, dcp_error *err) {
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
    else if (dcpi_key_is_valid(l->path.data)) l->status = l->each(l->user, l->path.data, info);      /* other names cannot be ours */
    return l->status != DCP_OK;
}
static dcp_status dcpi_local_list(void *context, const char *directory, dcpi_storage_each each, void *user, dcp_error *err) {
    dcpi_local *local = (dcpi_local *)context;
    dcpi_local_listing l;
    int sys;
    memset(&l, 0, sizeof l);
    l.directory = directory;
    l.each = each;
    l.user = user;
    sys = dcpi_os_list(&local->base, directory, dcpi_local_list_one, &l);
    dcpi_buffer_free(&l.path);
    if (l.status == DCP_E_MEMORY) return dcpi_no_memory(err, strlen(directory) + 256);
    if (l.status) return l.status;
    return sys ? dcpi_local_fail(local, sys, "list", directory, err) : DCP_OK;
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
static dcp_status dcpi_local_additional(void *context, const char *path, dcp_field **fields, size_t *count, dcp_error *err) {
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
        }
        if (local) dcpi_free(local->path);
        dcpi_free(local);
        dcpi_free(s);
        return status;
    }
    local->mode = mode;
    s->context = local;
    s->flags = DCP_STORAGE_SHARED_POSITIONAL_WRITE | DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_CONCURRENT_WRITE | DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH |
               DCP_STORAGE_SYNC |
               DCP_STORAGE_SYNC_DIRECTORY;
    s->begin = dcpi_local_begin;
    s->join = dcpi_local_join;
    s->leave = dcpi_local_leave; s->write = dcpi_local_write; s->commit = dcpi_local_commit; s->abort = dcpi_local_abort;
    s->open = dcpi_local_open; s->read = dcpi_local_read; s->map = dcpi_local_map; s->close = dcpi_local_close;
    s->stat = dcpi_local_stat; s->list = dcpi_local_list; s->remove = dcpi_local_remove; s->sync_directory = dcpi_local_sync_directory;
    s->space = dcpi_local_space; s->destroy = dcpi_local_destroy; s->additional_info = dcpi_local_additional;
    *out = s;
    return DCP_OK;
}

/* ---- memory: objects in a list; what is committed never changes, so readers hold it by a count --------------------------------------- */
typedef struct dcpi_blob { char *data; size_t size, capacity; int64_t modified_ns; int users; } dcpi_blob;
typedef struct dcpi_memory_entry { struct dcpi_memory_entry *next; char *path; dcpi_blob *blob; } dcpi_memory_entry;
typedef struct dcpi_memory { dcpi_mutex lock; dcpi_memory_entry *entries; } dcpi_memory;
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
static dcp_status dcpi_memory_begin(void *context, const char *path, const char *temporary, int64_t size_hint, void **out, dcp_error *err) {
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
static dcp_status dcpi_memory_write(void *context, void *object, int64_t offset, const void *data, size_t size, dcp_error *err) {
    dcpi_blob *blob = ((dcpi_memory_object *)object)->blob;
    void *memory = blob->data;
    size_t end;
    (void)context;
    if (offset < 0 || (uint64_t)offset > SIZE_MAX || !dcpi_add_size((size_t)offset, size, &end)) return dcpi_no_memory(err, SIZE_MAX);
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
static dcp_status dcpi_memory_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *err) {
    const dcpi_blob *blob = ((dcpi_memory_object *)object)->blob;
    (void)context;
    if (offset < 0 || (uint64_t)offset > blob->size || size > blob->size - (size_t)offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the object ends at byte %" PRIu64 ", before %" PRIu64 " bytes from byte %" PRId64,
                         (uint64_t)blob->size, (uint64_t)size, offset);
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
static dcp_status dcpi_memory_list(void *context, const char *directory, dcpi_storage_each each, void *user, dcp_error *err) {
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
        if (dcpi_memory_stat(context, names.data + at, &info, NULL) == DCP_OK) status = each(user, names.data + at, &info);
    }
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
    s->flags = DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH;
    s->begin = dcpi_memory_begin; s->write = dcpi_memory_write; s->commit = dcpi_memory_commit; s->abort = dcpi_memory_abort;
    s->open = dcpi_memory_open; s->read = dcpi_memory_read; s->map = dcpi_memory_map; s->close = dcpi_memory_abort;
    s->stat = dcpi_memory_stat; s->list = dcpi_memory_list; s->remove = dcpi_memory_remove; s->destroy = dcpi_memory_destroy;
    *out = s;
    return dcpi_succeed(err);
}

/* ---- providers --------------------------------------------------------------------------------------------------------------------- */
typedef dcp_status (*dcpi_provider_open)(const dcp_storage_options *options, dcp_storage **out, dcp_error *err);
typedef struct dcpi_provider { struct dcpi_provider *next; dcpi_provider_open open; char name[64]; } dcpi_provider;
static struct dcpi_providers { dcpi_mutex lock; dcpi_provider *first; } dcpi_providers = { DCPI_MUTEX_INITIALIZER, NULL };

static int dcpi_same_word(const char *a, const char *b) {               /* ASCII case does not matter, whatever the locale */
    for (;; a++, b++) {
        int x = *a >= 'A' && *a <= 'Z' ? *a - 'A' + 'a' : *a, y = *b >= 'A' && *b <= 'Z' ? *b - 'A' + 'a' : *b;
        if (x != y) return 0;
        if (x == '\0') return 1;
    }
}
static const char *dcpi_setting(const dcp_storage_options *options, const char *key) {
    size_t i;
    for (i = 0; i < options->setting_count; i++) if (dcpi_same_text(options->settings[i].key, key)) return options->settings[i].value;
    return NULL;
}
static dcp_status dcpi_settings_known(const dcp_storage_options *options, const char *a, const char *b, dcp_error *err) {
    size_t i;
    for (i = 0; i < options->setting_count; i++) {
        const char *key = options->settings[i].key;
        if (key && (dcpi_same_text(key, a) || dcpi_same_text(key, b))) continue;
        return dcpi_fail(err, DCP_E_INVALID, "storage \"%s\" has no setting \"%s\"; %s%s%s%s", options->provider, key ? key : "(null)",
                         a ? "known: " : "it takes none", a ? a : "",
                         b ? ", " : "", b ? b : "");
    }
    return DCP_OK;
}
static dcp_status dcpi_provider_local(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    const char *base = dcpi_setting(options, "basePath"), *mode = dcpi_setting(options, "mode");
    unsigned bits = 0;
    dcp_status status = dcpi_settings_known(options, "basePath", "mode", err);
    if (status) return status;
    if (!base) return dcpi_fail(err, DCP_E_INVALID, "storage \"local\" needs the setting basePath, the directory to keep its files in");
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
                     "unknown storage provider \"%s\"; known here: %s. Others (s3, gcs, azure, ...) are plugged in: call "
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
    if (!options || !options->provider) return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_open: options.provider is not set");
    open = dcpi_provider_find(options->provider);
    if (!open) return dcpi_provider_unknown(options->provider, err);
    return dcpi_storage_result(open(options, out, err), "open the provider", options->provider, err);
}
DCPDEF dcp_status dcp_storage_register(const char *provider, dcpi_provider_open open, dcp_error *err) {
    dcpi_provider *added;
    (void)dcpi_succeed(err);
    if (!provider || !open || !dcpi_is_name(provider, sizeof added->name - 1))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_register: a provider needs a name of 1 to 63 bytes and an open function");
    if (dcpi_provider_find(provider)) return dcpi_fail(err, DCP_E_EXISTS, "storage provider \"%s\" is registered already", provider);
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


/* ---- a path: the directory that holds the checkpoint, and the name in it ------------------------------------------------------------- */
typedef struct dcpi_place {
    dcp_storage *storage; int owned;                    /* owned: made here for an OS path, closed with the place */
    char *directory;                                    /* key of the directory in the storage, "" for its base */
    char *name;                                         /* last part: of the prefix, or of the commit file as it was given */
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
/* directory: where the checkpoints are; with a storage a key, else an OS path that is opened (and, with `create`, made). */
static dcp_status dcpi_place_open_directory(dcpi_place *place, dcp_storage *storage, const char *directory, int create, dcp_error *err) {
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
    (void)snprintf(place->shown, length + 2, "%.*s%s", (int)length, directory, length > 0 && !dcpi_os_is_separator(directory, length - 1)
                   ? "/" : "");
    return DCP_OK;
}
/* Splits a path at its last separator; the part behind it is the name. */
static dcp_status dcpi_place_open(dcpi_place *place, dcp_storage *storage, const char *path, int create, dcp_error *err) {
    size_t length = strlen(path), cut = length;
    char *directory;
    dcp_status status;
    memset(place, 0, sizeof *place);
    while (cut > 0 && !(storage ? path[cut - 1] == '/' : dcpi_os_is_separator(path, cut - 1))) cut--;
    if (cut == length || !dcpi_key_is_valid(storage ? path : path + cut) || length > (size_t)DCP_LIMIT_PATH)
        return dcpi_fail(err, DCP_E_INVALID,
                         "\"%s\" is not the path of a checkpoint: its last part must be a name of printable UTF-8 without '\\' or ':'",
                path);
    directory = dcpi_text_range(path, cut, err);
    if (!directory) return DCP_E_MEMORY;
    status = dcpi_place_open_directory(place, storage, directory, create, err);
    dcpi_free(directory);
    if (!status) place->name = dcpi_copy_text(path + cut, err);
    if (!status && !place->name) status = DCP_E_MEMORY;
    return status;
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
/* Every directory from the storage's base down to this one exists and is durable, whoever made it (DESIGN 4.2): made first, synced from the
 * top. */
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

/* ================================================================================================================================
 * >>coord       One operation: its defaults, clock, cancel and progress; the crew of threads that does its work; its ranks.
 * ============================================================================================================================== */
#define DCPI_MAX_WORKERS 16

typedef struct dcpi_peer {
    int64_t heard_ms;                                   /* its last sign of life */
    uint8_t *message; size_t size;                      /* what it has said in this round, NULL: nothing yet */
    int is_failed;                                      /* that is a failure */
    int posted; uint32_t stuck_at;                      /* messages to it in the outbox; the last flush that it took none in */
} dcpi_peer;
typedef struct dcpi_posted { struct dcpi_posted *next; int to; int64_t since_ms; size_t size; /* then the message */ } dcpi_posted;
typedef struct dcpi_team {                              /* the ranks of one operation, as one of them sees them */
    dcp_coordinator *coordinator;                       /* NULL: one rank */
    int rank, world_size;
    uint32_t operation, step;                           /* of this coordinator; of this operation: what has been sent up or down so far */
    uint32_t call;                                      /* stands for what the ranks must have in common: see dcpi_team_same */
    dcpi_peer *peers; int peer_count;                   /* rank 0: all ranks; others: rank 0, */
    dcpi_peer lead;                                     /* in here, so that a rank without memory can say so */
    int64_t spoke_ms, listened_ms, first_failure_ms;
    int is_promised;                                    /* this rank has done its part: from here on rank 0's word alone counts (G5) */
    int is_over;                                        /* nothing is sent or awaited any more */
    int is_following;                                   /* awaits rank 0's word, and leaves in the mail what comes after it; */
    int may_fail, is_last; dcp_status own;              /* may still fail by itself; that word is the verdict; this rank's own status */
    int is_polled;                                      /* driven by steps that wait for nobody (>>async): */
    dcpi_posted *outbox, **outbox_end; uint32_t flushes;        /* what the coordinator did not take at once */
    int is_broken, is_again;                            /* see DCPI_OVER_ */
    int has_errand;                                     /* a thread of ours works on the operation beside the calling one */
    dcp_error failure;                                  /* what ended the operation, as far as this rank knows */
} dcpi_team;

typedef struct dcpi_op {
    dcp_io io;                                          /* with the defaults filled in */
    int64_t started_ms, phase_ms, reported_ms;
    int64_t checked_ms, longest_gap_ms;                 /* between two looks at the clock: a process that was stopped finds out */
    volatile int stood_still, looked_ms;                /* the same for other threads: a gap beyond the timeout; the last look, since the start */
    const dcp_cancel *cancel_too;                       /* beside io.cancel; may be NULL */
    int is_beside;                                      /* works on another thread than the one that speaks for it (>>async) */
    volatile int is_hopeless;                           /* set by that one: the operation has failed elsewhere */
    dcp_progress progress;
    dcpi_team team;
} dcpi_op;
static dcp_status dcpi_team_tick(dcpi_op *op, dcp_error *err);

static dcp_status dcpi_op_check_io(const dcp_io *io, dcp_error *err) {
    if (io->timeout_ms < 0) return dcpi_fail(err, DCP_E_INVALID, "io.timeout_ms is negative (0 is the default of 300,000)");
    if (io->deadline_ms < 0) return dcpi_fail(err, DCP_E_INVALID, "io.deadline_ms is negative (0 is no deadline)");
    if (io->threads < 0) return dcpi_fail(err, DCP_E_INVALID, "io.threads is negative (0 chooses)");
    if (io->retry.attempts < 0 || io->retry.first_ms < 0 || io->retry.max_ms < 0)
        return dcpi_fail(err, DCP_E_INVALID, "io.retry has a negative member");
    if (io->memory_budget != 0 && io->memory_budget < DCPI_MIB)
        return dcpi_fail(err, DCP_E_INVALID,
                         "io.memory_budget is %" PRIu64 " bytes; at least 1 MiB is needed (0 is the default of 64 MiB)",
                (uint64_t)io->memory_budget);
    return DCP_OK;
}
/* Usable even after a failure: then with the defaults in place of what was wrong. */
static dcp_status dcpi_op_begin(dcpi_op *op, const dcp_io *io, dcp_error *err) {
    memset(op, 0, sizeof *op);
    op->io = *io;
    op->team.world_size = 1;
    op->started_ms = op->phase_ms = op->checked_ms = dcpi_os_monotonic_ms();
    op->reported_ms = op->started_ms - 1000;
    if (op->io.memory_budget == 0) op->io.memory_budget = 64 * DCPI_MIB;
    if (op->io.timeout_ms <= 0) op->io.timeout_ms = 300000;
    if (op->io.retry.attempts <= 0) op->io.retry.attempts = 3;
    if (op->io.retry.first_ms <= 0) op->io.retry.first_ms = 50;
    if (op->io.retry.max_ms <= 0) op->io.retry.max_ms = 2000;
    return dcpi_op_check_io(io, err);
}
static dcp_status dcpi_op_check_cancel(const dcpi_op *op, dcp_error *err) {     /* any thread */
    if (!(op->io.cancel && dcpi_flag_get(&op->io.cancel->requested)) &&
        !(op->cancel_too && dcpi_flag_get(&op->cancel_too->requested))) return DCP_OK;
    return dcpi_fail(err, DCP_E_CANCELLED, "cancelled in phase %s", dcp_phase_name(op->progress.phase));
}
static void dcpi_op_note_time(dcpi_op *op) {            /* calling thread */
    int64_t now = dcpi_os_monotonic_ms();
    op->longest_gap_ms = dcpi_max(op->longest_gap_ms, now - op->checked_ms);
    if (now - op->checked_ms > op->io.timeout_ms) dcpi_flag_set(&op->stood_still, 1);
    op->checked_ms = now;
    dcpi_flag_set(&op->looked_ms, (int)(now - op->started_ms));
}
/* Any thread: whether the calling thread has stood still for so long that the other ranks have given up by now. */
static dcp_status dcpi_op_check_awake(const dcpi_op *op, dcp_error *err) {
    const int64_t gap = dcpi_os_monotonic_ms() - op->started_ms - dcpi_flag_get(&op->looked_ms);
    if (op->team.world_size == 1 || (gap <= op->io.timeout_ms && !dcpi_flag_get(&op->stood_still))) return DCP_OK;
    return dcpi_fail(err, DCP_E_TIMEOUT, "this rank stood still for more than %d ms: the others have given up by now", op->io.timeout_ms);
}
/* Calling thread: whether the operation should end now. With several ranks it must be called often, since it shows that this one lives. */
static dcp_status dcpi_op_check(dcpi_op *op, dcp_error *err) {
    dcp_status status = dcpi_op_check_cancel(op, err);
    const int is_silent = op->team.has_errand || op->is_beside;         /* another thread speaks for it */
    if (!is_silent) dcpi_op_note_time(op);
    if (status) return status;
    if (op->is_beside && dcpi_flag_get(&op->is_hopeless)) return dcpi_fail(err, DCP_E_CANCELLED, "the save has failed on another rank");
    if (op->io.deadline_ms > 0 && dcpi_os_monotonic_ms() - op->started_ms > op->io.deadline_ms)
        return dcpi_fail(err, DCP_E_TIMEOUT, "the deadline of %" PRId64 " ms passed in phase %s, after %" PRId64 " of %" PRId64 " bytes",
                         op->io.deadline_ms,
                         dcp_phase_name(op->progress.phase), op->progress.bytes_done, op->progress.bytes_total);
    return is_silent ? DCP_OK : dcpi_team_tick(op, err);
}
static void dcpi_op_report(dcpi_op *op, int64_t done, int force) {       /* calling thread */
    int64_t now = dcpi_os_monotonic_ms();
    op->progress.bytes_done = done;
    if (!op->io.progress || op->team.has_errand || (!force && now - op->reported_ms < 100)) return;
    op->reported_ms = now;
    op->progress.bytes_per_second = now > op->phase_ms ? (double)done * 1000.0 / (double)(now - op->phase_ms) : 0.0;
    op->io.progress(op->io.progress_user, &op->progress);
}
static void dcpi_op_phase(dcpi_op *op, dcp_phase phase, int64_t total) {
    op->progress.phase = phase;
    op->progress.bytes_done = 0;
    op->progress.bytes_total = total;
    op->phase_ms = dcpi_os_monotonic_ms();
}
static void dcpi_op_log(const dcpi_op *op, dcp_log_level level, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_op_log(const dcpi_op *op, dcp_log_level level, const char *format, ...) {
    char message[700];
    va_list arguments;
    if (!op->io.log) return;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    message[sizeof message - 1] = '\0';
    dcpi_message_clean(message, sizeof message);
    op->io.log(op->io.log_user, level, message);
}
/* Whether to try again after `attempt` attempts that ended in *err: only transient errors; sleeps (exponential, full jitter), awake to
 * cancel. */
static int dcpi_op_again(dcpi_op *op, int attempt, const char *what, const dcp_error *err) {
    int64_t limit = op->io.retry.first_ms, slept;
    uint32_t random = 0;
    int i;
    if (!dcpi_storage_is_transient(err) || attempt >= op->io.retry.attempts) return 0;
    for (i = 1; i < attempt && limit < op->io.retry.max_ms; i++) limit *= 2;
    limit = dcpi_min(limit, op->io.retry.max_ms);
    (void)dcpi_os_random(&random, sizeof random);
    limit = 1 + (int64_t)(random % (uint32_t)(limit + 1));
    dcpi_op_log(op, DCP_LOG_WARNING, "%s failed, attempt %d of %d; again in %" PRId64 " ms: %s", what, attempt, op->io.retry.attempts,
                limit, err->message);
    for (slept = 0; slept < limit; slept += 20) {
        if (dcpi_op_check(op, NULL)) return 0;
        dcpi_os_sleep_ms((int)dcpi_min(20, limit - slept));
    }
    return 1;
}
/* Workers: what the caller asked for, else two for each processor (one computes while the other waits for the storage), but no more than
 * pay. */
static int dcpi_op_threads(const dcpi_op *op, int worthwhile) {
    int wanted = op->io.threads ? op->io.threads : (int)dcpi_min(2 * (int64_t)dcpi_os_processors(), worthwhile);
    return (int)dcpi_min(wanted, DCPI_MAX_WORKERS);
}

/* ---- crew: threads that run one function until the work is done, while the calling thread watches ------------------------------------ */
typedef struct dcpi_crew {
    dcpi_mutex lock; dcpi_cond changed;                 /* `changed` wakes everybody: any state below, or the owner's own, is new */
    dcpi_thread threads[DCPI_MAX_WORKERS]; int count;   /* calling thread only */
    int running;                                        /* workers that have not returned */
    int stop;                                           /* set with the first error: finish what is in hand and return */
    dcp_error error;
} dcpi_crew;

static dcp_status dcpi_crew_open(dcpi_crew *crew, dcp_error *err) {
    memset(crew, 0, sizeof *crew);
    if (dcpi_mutex_init(&crew->lock)) return dcpi_no_memory(err, sizeof crew->lock);
    if (dcpi_cond_init(&crew->changed)) {
        dcpi_mutex_destroy(&crew->lock);
        return dcpi_no_memory(err, sizeof crew->changed);
    }
    return DCP_OK;
}
/* Starts up to `wanted` workers; crew->count tells how many there are: 0 means that the calling thread does the work itself. */
static void dcpi_crew_start(dcpi_crew *crew, int wanted, dcpi_thread_fn fn, void *argument) {
    dcpi_mutex_lock(&crew->lock);
    while (DCPI_THREADS && crew->count < wanted && dcpi_thread_start(&crew->threads[crew->count], fn, argument) == 0) {
        crew->count++;
        crew->running++;
    }
    dcpi_mutex_unlock(&crew->lock);
}
static void dcpi_crew_fail(dcpi_crew *crew, const dcp_error *err) {     /* under the lock; the first error stays */
    if (!crew->stop) crew->error = *err;
    crew->stop = 1;
    dcpi_cond_wake_all(&crew->changed);
}
static int dcpi_crew_is_stopped(dcpi_crew *crew) {                      /* any thread, not under the lock */
    int stop;
    dcpi_mutex_lock(&crew->lock);
    stop = crew->stop;
    dcpi_mutex_unlock(&crew->lock);
    return stop;
}
static void dcpi_crew_leave(dcpi_crew *crew) {                          /* a worker's last act, under the lock */
    crew->running--;
    dcpi_cond_wake_all(&crew->changed);
}
static dcp_status dcpi_crew_close(dcpi_crew *crew, dcp_error *err) {
    int i;
    for (i = 0; i < crew->count; i++) dcpi_thread_join(&crew->threads[i]);
    dcpi_cond_destroy(&crew->changed);
    dcpi_mutex_destroy(&crew->lock);
    if (!crew->stop) return DCP_OK;
    if (err) *err = crew->error;
    return crew->error.status;
}

/* ---- ranks: everything that the library sends and receives goes through two wrappers, which know a broken coordinator ------------------- */
#define DCPI_TAG_COLLECTIVE 0x0DC0001                   /* barrier, broadcast, gather, allreduce */
#define DCPI_TAG_OPERATION  0x0DC0002                   /* saves and loads */
#define DCPI_TAG_DATA       0x0DC0003                   /* tensor bytes */
#define DCPI_TAG_SAVER      0x0DC0004                   /* whether a saver is busy */
#define DCPI_TAG_END        (1 << 28)

typedef char dcpi_status_is_an_int[sizeof(dcp_status) == sizeof(int) ? 1 : -1];

/* Several threads may use a thread-safe coordinator, so what broke it is read and set as a flag. */
static dcp_status dcpi_coord_broken(const dcp_coordinator *c) {
    const int broken = dcpi_flag_get((const volatile int *)(const volatile void *)&c->broken);
    return (dcp_status)broken;
}
static void dcpi_coord_break(dcp_coordinator *c, dcp_status status) {
    dcpi_flag_set((volatile int *)(volatile void *)&c->broken, (int)status);
}
static dcp_status dcpi_coord_check(const dcp_coordinator *c, dcp_error *err) {
    if (c->world_size < 1) return dcpi_fail(err, DCP_E_INVALID, "the coordinator's world_size is %d; at least 1 is needed", c->world_size);
    if (c->rank < 0 || c->rank >= c->world_size)
        return dcpi_fail(err, DCP_E_INVALID, "the coordinator's rank is %d; with a world_size of %d it is 0 to %d", c->rank, c->world_size,
                         c->world_size - 1);
    if (c->world_size > 1 && (!c->send || !c->receive))
        return dcpi_fail(err, DCP_E_INVALID, "the coordinator has no %s; both send and receive are needed with %d ranks",
                         c->send ? "receive" : "send", c->world_size);
    return DCP_OK;
}
static dcp_status dcpi_coord_check_broken(const dcp_coordinator *c, dcp_error *err) {
    dcp_status broken = dcpi_coord_broken(c);
    if (broken == DCP_OK) return DCP_OK;
    (void)dcpi_fail(err, broken, "the coordinator broke earlier (%s) and cannot be used any more: close it and open a new one, on all ranks",
                    dcp_status_name(broken));
    if (err) err->rank = c->rank;
    return broken;
}
/* What a callback's failure means: who and where come before its message, and after most failures nothing of it is touched again. */
static dcp_status dcpi_coord_failed(dcp_coordinator *c, dcp_status status, const char *what, int peer, int tag, dcp_error *err) {
    if (status != DCP_E_MEMORY && status != DCP_E_INVALID) dcpi_coord_break(c, status);
    if (!err) return status;
    if (err->status != status || err->message[0] == '\0') (void)dcpi_fail(err, status, "%s", dcp_status_name(status));
    if (peer == DCP_ANY_RANK) dcpi_fail_context(err, "rank %d could not %s any rank (tag 0x%X): ", c->rank, what, (unsigned)tag);
    else dcpi_fail_context(err, "rank %d could not %s rank %d (tag 0x%X): ", c->rank, what, peer, (unsigned)tag);
    err->rank = peer == DCP_ANY_RANK ? c->rank : peer;
    return status;
}
static dcp_status dcpi_coord_check_call(const dcp_coordinator *c, int peer, int tag, dcp_error *err) {
    if (peer < 0 || peer >= c->world_size || peer == c->rank || tag < 0 || tag >= DCPI_TAG_END)
        return dcpi_fail(err, DCP_E_INVALID, "rank %d of %d exchanges no message with rank %d, tag %d", c->rank, c->world_size, peer, tag);
    return DCP_OK;
}
/* timeout_ms: 0 (or less) is what can be done without waiting. */
static dcp_status dcpi_coord_send(dcp_coordinator *c, int to, int tag, const void *data, size_t size, int timeout_ms, dcp_error *err) {
    dcp_status status = dcpi_coord_check_broken(c, err);
    if (status) return status;
    status = dcpi_coord_check_call(c, to, tag, err);
    if (status) return status;
    (void)dcpi_succeed(err);
    status = c->send(c->context, to, tag, data, size, timeout_ms > 0 ? timeout_ms : 0, err);
    if (status == DCP_OK) return dcpi_succeed(err);
    if (status == DCP_PENDING) status = DCP_E_TIMEOUT;
    if (status == DCP_E_TIMEOUT && err && err->message[0] == '\0')
        (void)dcpi_fail(err, status, "not taken within %d ms", timeout_ms > 0 ? timeout_ms : 0);
    return dcpi_coord_failed(c, status, "send to", to, tag, err);
}
/* *from: a rank or DCP_ANY_RANK, then who it was. *data: dcpi_free it. DCP_PENDING: nothing came within timeout_ms; no error, no message. */
static dcp_status dcpi_coord_receive(dcp_coordinator *c, int *from, int tag, void **data, size_t *size, int timeout_ms, dcp_error *err) {
    const int asked = *from;
    dcp_status status = dcpi_coord_check_broken(c, err);
    *data = NULL;
    *size = 0;
    if (status) return status;
    status = dcpi_coord_check_call(c, asked == DCP_ANY_RANK ? (c->rank + 1) % c->world_size : asked, tag, err);
    if (status) return status;
    (void)dcpi_succeed(err);
    status = c->receive(c->context, from, tag, data, size, timeout_ms > 0 ? timeout_ms : 0, err);
    if (status == DCP_OK && *from >= 0 && *from < c->world_size && *from != c->rank && (asked == DCP_ANY_RANK || *from == asked) &&
        (*data || *size == 0)) return dcpi_succeed(err);
    if (status == DCP_OK) {
        if (*data) dcpi_free(*data);
        status = dcpi_fail(err, DCP_E_COMM, "its receive returned rank %d and %" PRIu64 " bytes%s, against its contract", *from,
                           (uint64_t)*size, *data ? "" : " at NULL");
    }
    *from = asked;
    *data = NULL;
    *size = 0;
    if (status != DCP_PENDING) return dcpi_coord_failed(c, status, "receive from", asked, tag, err);
    (void)dcpi_succeed(err);
    if (err) err->status = DCP_PENDING;
    return DCP_PENDING;
}

/* ---- collectives: trees of messages (declared in >>api_plug) ----------------------------------------------------------------------------
 * Each rank has a place: (rank - root) mod world size, so the root has place 0. The parent of a place is the place without its lowest set bit;
 * its children are the place + 1, + 2, + 4, ... below that bit, and the child at place + 2^k has the places up to place + 2^(k+1) - 1
 * behind it. So a subtree is a run of ranks, which keeps reductions in rank order and lets a message name who may be missing.
 *
 *   barrier      up:   nothing, once all children have            down: nothing
 *   broadcast    up:   a word that this rank is ready (at once)   down: the data, once the child is ready
 *   gather       up:   the sizes of the subtree, then its data, part by part as it arrives
 *   allreduce    up:   the subtree's reduction                    down: the result
 *
 * So each begins with a message up, in which a rank that makes another call is found out. A stream of bytes is cut into messages of a header and
 * at most DCPI_COORD_PIECE bytes. A rank that gives up tells its parent and children why (a message of kind FAILURE), and these theirs. */
#ifndef DCPI_COORD_PIECE
#define DCPI_COORD_PIECE DCPI_MIB
#endif
#define DCPI_COORD_TIMEOUT 300000
#define DCPI_WAVE_MAGIC 0x57504344u                     /* "DCPW" */
#define DCPI_WAVE_HEADER 32

enum { DCPI_WAVE_BARRIER = 1, DCPI_WAVE_BROADCAST, DCPI_WAVE_GATHER, DCPI_WAVE_ALLREDUCE, DCPI_WAVE_FAILURE };
typedef struct dcpi_wave {
    dcp_coordinator *c;
    int kind, root, place;
    int timeout_ms; int64_t started_ms;
    uint32_t sequence; uint64_t size;                   /* size: what all ranks must agree on; 0 for a gather */
    int looking;                                        /* only for a better reason, after a wait has ended */
    int heard_from; uint32_t arrived;                   /* the rank whose FAILURE ended this, or -1; bit k: child k has sent what it begins with */
    dcp_error *err, own;                                /* err: the caller's, or own if that is NULL: a FAILURE needs the text */
} dcpi_wave;
/* The header of each message: magic, kind, sequence, root, size (8 bytes), then of a FAILURE its status and rank; the text follows. */
typedef struct dcpi_wave_head { uint32_t kind, sequence; int root; uint64_t size; dcp_status status; int rank; } dcpi_wave_head;

static const char *dcpi_wave_name(uint32_t kind) {
    static const char *const names[] = { "?", "dcp_barrier", "dcp_broadcast", "dcp_gather", "dcp_allreduce", "?" };
    return names[kind <= DCPI_WAVE_FAILURE ? kind : 0];
}
static void dcpi_wave_write_head(const dcpi_wave *w, uint8_t head[DCPI_WAVE_HEADER]) {
    memset(head, 0, DCPI_WAVE_HEADER);
    dcpi_store32(head, DCPI_WAVE_MAGIC);
    dcpi_store32(head + 4, (uint32_t)w->kind);
    dcpi_store32(head + 8, w->sequence);
    dcpi_store32(head + 12, (uint32_t)w->root);
    dcpi_store64(head + 16, w->size);
}
static int dcpi_wave_read_head(const uint8_t *data, size_t size, dcpi_wave_head *head) {        /* 0: it is none */
    uint32_t status;
    if (size < DCPI_WAVE_HEADER || dcpi_load32(data) != DCPI_WAVE_MAGIC) return 0;
    head->kind = dcpi_load32(data + 4);
    head->sequence = dcpi_load32(data + 8);
    head->root = (int)dcpi_load32(data + 12);
    head->size = dcpi_load64(data + 16);
    status = dcpi_load32(data + 24);
    head->status = status <= DCP_E_UNKNOWN ? (dcp_status)status : DCP_E_COMM;
    head->rank = (int)dcpi_load32(data + 28);
    return 1;
}

/* ---- the tree */
static int dcpi_wave_rank(const dcpi_wave *w, int place) { return (int)(((int64_t)place + w->root) % w->c->world_size); }
static int dcpi_wave_parent(const dcpi_wave *w) { return dcpi_wave_rank(w, w->place & (w->place - 1)); }
/* The distance to child k (0, 1, ...), or 0 if there is none. */
static int dcpi_wave_child(const dcpi_wave *w, int k) {
    const int lowest = w->place & -w->place;
    if (k >= 30 || (w->place != 0 && 1 << k >= lowest)) return 0;
    return 1 << k < w->c->world_size - w->place ? 1 << k : 0;
}
static int dcpi_wave_subtree(const dcpi_wave *w, int distance) {        /* ranks at and behind the child at that distance */
    return (int)dcpi_min(distance, w->c->world_size - w->place - distance);
}
static int dcpi_wave_levels(int ranks) {                                /* of a tree of so many ranks; 0 for one */
    int levels = 0;
    while (levels < 30 && 1 << levels < ranks) levels++;
    return levels;
}

/* ---- time: who is nearest to a missing rank gives up first and tells; the others wait a little longer for that news */
static int64_t dcpi_wave_limit_up(const dcpi_wave *w, int distance) {   /* of a wait for a child: up to 10 % for the levels behind it */
    const int behind = dcpi_wave_levels(dcpi_wave_subtree(w, distance)), all = dcpi_wave_levels(w->c->world_size);
    return w->timeout_ms + (int64_t)w->timeout_ms * behind / (10 * (int64_t)all);
}
static int64_t dcpi_wave_limit_down(const dcpi_wave *w) {               /* of a wait for the parent: 10 to 15 %, by its levels to the root */
    const int all = dcpi_wave_levels(w->c->world_size);
    int above = 0, place;
    for (place = w->place; place; place &= place - 1) above++;
    return w->timeout_ms + (int64_t)w->timeout_ms * (2 * all + above) / (20 * (int64_t)all);
}
static int64_t dcpi_wave_limit_data(const dcpi_wave *w) { return w->timeout_ms + (int64_t)w->timeout_ms * 15 / 100; }
static int dcpi_wave_left(const dcpi_wave *w, int64_t limit) {
    const int64_t left = limit - (dcpi_os_monotonic_ms() - w->started_ms);
    return (int)dcpi_max(0, dcpi_min(left, INT_MAX));
}

/* ---- giving up: what went wrong is in w->err */
/* Who sent the reason knows it. After a failed send the coordinator is broken, and the rest do nothing. */
static void dcpi_wave_tell(dcpi_wave *w, int to, const uint8_t *message, size_t size) {
    if (to == w->heard_from || to == w->c->rank) return;
    (void)dcpi_coord_send(w->c, to, DCPI_TAG_COLLECTIVE, message, size, 0, NULL);
}
static void dcpi_wave_tell_all(dcpi_wave *w, const dcp_error *why) {
    uint8_t message[DCPI_WAVE_HEADER + sizeof why->message];
    const size_t size = DCPI_WAVE_HEADER + strlen(why->message);
    int k, distance;
    dcpi_wave_write_head(w, message);
    dcpi_store32(message + 4, DCPI_WAVE_FAILURE);
    dcpi_store32(message + 24, (uint32_t)why->status);
    dcpi_store32(message + 28, (uint32_t)why->rank);
    memcpy(message + DCPI_WAVE_HEADER, why->message, size - DCPI_WAVE_HEADER);
    if (w->place && dcpi_wave_parent(w) != why->rank) dcpi_wave_tell(w, dcpi_wave_parent(w), message, size);
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        if (dcpi_wave_rank(w, w->place + distance) != why->rank) dcpi_wave_tell(w, dcpi_wave_rank(w, w->place + distance), message, size);
    dcpi_wave_tell(w, why->rank, message, size);        /* who is missing or deviates, last: it may be gone, or come back */
}
static dcp_status dcpi_wave_end(dcpi_wave *w, dcp_status status) {
    if (status == DCP_OK) return dcpi_succeed(w->err);
    if (!dcpi_coord_broken(w->c)) {                     /* else the coordinator itself failed, and is not touched again */
        if (status == DCP_E_MEMORY) w->err->rank = w->c->rank;
        dcpi_wave_tell_all(w, w->err);
    }
    dcpi_coord_break(w->c, status);
    return status;
}

/* ---- one message */
static dcp_status dcpi_wave_adopt(dcpi_wave *w, int from, const dcpi_wave_head *head, const uint8_t *text, size_t size) {
    const dcp_status status = head->status > DCP_PENDING ? head->status : DCP_E_COMM;
    w->heard_from = from;
    (void)dcpi_fail(w->err, status, "%.*s", (int)dcpi_min((int64_t)size, (int64_t)sizeof w->err->message), (const char *)text);
    w->err->rank = head->rank;
    return status;
}
static dcp_status dcpi_wave_look_around(dcpi_wave *w);

/* Whether a message belongs to this very call. */
static dcp_status dcpi_wave_check(dcpi_wave *w, int from, const uint8_t *data, size_t size) {
    dcpi_wave_head head;
    dcp_status status;
    if (!dcpi_wave_read_head(data, size, &head)) {
        status = dcpi_fail(w->err, DCP_E_COMM, "%s: rank %d got %" PRIu64 " bytes from rank %d that are no message of a collective: tag 0x%X "
                           "belongs to the library", dcpi_wave_name((uint32_t)w->kind), w->c->rank, (uint64_t)size, from,
                           (unsigned)DCPI_TAG_COLLECTIVE);
        w->err->rank = from;
        return status;
    }
    if (head.kind == DCPI_WAVE_FAILURE && head.rank == w->c->rank && head.status == DCP_E_TIMEOUT) {
        if (w->looking) return DCP_OK;
        status = dcpi_wave_look_around(w);              /* this rank is missed, but here: perhaps since it makes another call */
        if (status) return status;
    }
    if (head.kind == DCPI_WAVE_FAILURE) return dcpi_wave_adopt(w, from, &head, data + DCPI_WAVE_HEADER, size - DCPI_WAVE_HEADER);
    if (head.kind == (uint32_t)w->kind && head.sequence == w->sequence && head.root == w->root && head.size == w->size) return DCP_OK;
    status = dcpi_fail(w->err, DCP_E_MISMATCH, "rank %d calls %s (root %d, %" PRIu64 " bytes, its collective call %" PRIu32 "), but rank %d "
                       "%s (root %d, %" PRIu64 " bytes, its call %" PRIu32 "): all ranks must make the same calls in the same order",
                       w->c->rank, dcpi_wave_name((uint32_t)w->kind), w->root, w->size, w->sequence, from, dcpi_wave_name(head.kind),
                       head.root, head.size, head.sequence);
    w->err->rank = from;
    return status;
}
/* DCP_PENDING: nothing within `limit` ms of the call's begin. *data: header and bytes, dcpi_free. */
static dcp_status dcpi_wave_take(dcpi_wave *w, int *from, int64_t limit, uint8_t **data, size_t *size) {
    void *memory;
    dcp_status status = dcpi_coord_receive(w->c, from, DCPI_TAG_COLLECTIVE, &memory, size, dcpi_wave_left(w, limit), w->err);
    *data = NULL;
    if (status == DCP_OK) status = dcpi_wave_check(w, *from, (const uint8_t *)memory, *size);
    else if (status != DCP_PENDING) dcpi_fail_context(w->err, "%s: ", dcpi_wave_name((uint32_t)w->kind));
    if (status) dcpi_free(memory);
    else *data = (uint8_t *)memory;
    return status;
}

/* ---- who is missing */
static dcp_status dcpi_wave_late(dcpi_wave *w, int rank, int64_t limit, const char *whom) {
    const dcp_status status = dcpi_fail(w->err, DCP_E_TIMEOUT, "%s: rank %d has waited %" PRId64 " ms for %s: does it run, and make the same "
                                        "call? The coordinator is broken now: close it and open a new one, on all ranks",
                                        dcpi_wave_name((uint32_t)w->kind), w->c->rank, limit, whom);
    w->err->rank = rank;
    return status;
}
/* A wait has ended in vain. Marks the children whose message has come meanwhile; a message of a rank that made another call, or that gave up, is
 * the better reason. */
static dcp_status dcpi_wave_look_around(dcpi_wave *w) {
    int looks;
    w->looking = 1;
    for (looks = 0; looks < w->c->world_size; looks++) {
        int from = DCP_ANY_RANK, k, distance;
        uint8_t *data;
        size_t size;
        dcp_status status = dcpi_wave_take(w, &from, 0, &data, &size);
        if (status == DCP_PENDING) break;
        if (status) return status;
        dcpi_free(data);
        for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
            if (from == dcpi_wave_rank(w, w->place + distance)) w->arrived |= (uint32_t)1 << k;
    }
    return DCP_OK;
}
static dcp_status dcpi_wave_late_parent(dcpi_wave *w, int64_t limit) {
    char whom[80];
    const dcp_status status = dcpi_wave_look_around(w);
    if (status) return status;
    (void)snprintf(whom, sizeof whom, "rank %d (or one that it waits for)", dcpi_wave_parent(w));
    return dcpi_wave_late(w, dcpi_wave_parent(w), limit, whom);
}
static void dcpi_wave_name_child(const dcpi_wave *w, int distance, char *text, size_t capacity) {
    const int first = dcpi_wave_rank(w, w->place + distance), count = dcpi_wave_subtree(w, distance);
    const int second = (first + 1) % w->c->world_size, last = dcpi_wave_rank(w, w->place + distance + count - 1);
    if (count == 1 || w->kind == DCPI_WAVE_BROADCAST) (void)snprintf(text, capacity, "rank %d", first);     /* it says by itself that it is there */
    else if (count == 2) (void)snprintf(text, capacity, "rank %d (or rank %d behind it)", first, second);
    else (void)snprintf(text, capacity, "rank %d (or one of %d to %d behind it%s)", first, second, last, last < second ? ", counted round" : "");
}
static dcp_status dcpi_wave_late_children(dcpi_wave *w, int64_t limit) {
    const dcp_status status = dcpi_wave_look_around(w);
    char whom[320];
    size_t used = 0;
    int k, distance, missing = -1;
    if (status) return status;
    whom[0] = '\0';
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++) {
        if (w->arrived >> k & 1) continue;
        if (missing >= 0) used += (size_t)snprintf(whom + used, sizeof whom - used, ", ");
        else missing = dcpi_wave_rank(w, w->place + distance);
        dcpi_wave_name_child(w, distance, whom + used, sizeof whom - used);
        used += strlen(whom + used);
        if (used + 70 > sizeof whom) break;
    }
    return dcpi_wave_late(w, missing, limit, missing >= 0 ? whom : "a message of a rank behind it");
}

/* ---- streams: `size` bytes that both sides know, in as many messages as it takes, at least one */
static dcp_status dcpi_wave_send(dcpi_wave *w, int to, const void *data, size_t size) {
    const size_t most = size < DCPI_COORD_PIECE ? size : DCPI_COORD_PIECE;
    uint8_t *message = (uint8_t *)dcpi_alloc(DCPI_WAVE_HEADER + most, w->err);
    size_t at = 0;
    dcp_status status;
    if (!message) return DCP_E_MEMORY;
    dcpi_wave_write_head(w, message);
    do {
        const size_t piece = size - at < most ? size - at : most;
        if (piece) memcpy(message + DCPI_WAVE_HEADER, (const uint8_t *)data + at, piece);
        status = dcpi_coord_send(w->c, to, DCPI_TAG_COLLECTIVE, message, DCPI_WAVE_HEADER + piece,
                                 dcpi_wave_left(w, dcpi_wave_limit_data(w)), w->err);
        at += piece;
    } while (status == DCP_OK && at < size);
    dcpi_free(message);
    if (status) dcpi_fail_context(w->err, "%s: ", dcpi_wave_name((uint32_t)w->kind));
    return status;
}
static dcp_status dcpi_wave_check_due(dcpi_wave *w, int from, uint64_t bytes, uint64_t due) {
    dcp_status status;
    if (bytes <= due && (bytes > 0 || due == 0)) return DCP_OK;
    status = dcpi_fail(w->err, DCP_E_COMM, "%s: rank %d got %" PRIu64 " bytes from rank %d where %" PRIu64 " are due",
                       dcpi_wave_name((uint32_t)w->kind), w->c->rank, bytes, from, due);
    w->err->rank = from;
    return status;
}
/* DCP_PENDING: not all within `limit` ms of the call's begin. */
static dcp_status dcpi_wave_receive(dcpi_wave *w, int from, int64_t limit, void *data, size_t size) {
    size_t at = 0;
    do {
        uint8_t *message;
        size_t bytes;
        dcp_status status = dcpi_wave_take(w, &from, limit, &message, &bytes);
        if (status) return status;
        bytes -= DCPI_WAVE_HEADER;
        status = dcpi_wave_check_due(w, from, bytes, size - at);
        if (status == DCP_OK && bytes) memcpy((uint8_t *)data + at, message + DCPI_WAVE_HEADER, bytes);
        dcpi_free(message);
        if (status) return status;
        at += bytes;
    } while (at < size);
    return DCP_OK;
}
static dcp_status dcpi_wave_from_parent(dcpi_wave *w, void *data, size_t size) {
    const int64_t limit = dcpi_wave_limit_down(w);
    const dcp_status status = dcpi_wave_receive(w, dcpi_wave_parent(w), limit, data, size);
    return status == DCP_PENDING ? dcpi_wave_late_parent(w, limit) : status;
}
static dcp_status dcpi_wave_from_child(dcpi_wave *w, int k, void *data, size_t size) {
    const int distance = dcpi_wave_child(w, k);
    const int64_t limit = w->kind == DCPI_WAVE_BROADCAST ? w->timeout_ms : dcpi_wave_limit_up(w, distance);
    const dcp_status status = dcpi_wave_receive(w, dcpi_wave_rank(w, w->place + distance), limit, data, size);
    if (status == DCP_PENDING) return dcpi_wave_late_children(w, limit);
    w->arrived |= (uint32_t)1 << k;
    return status;
}

/* ---- the four */
/* w->c is NULL on success if there is nobody to exchange anything with. */
static dcp_status dcpi_wave_begin(dcpi_wave *w, dcp_coordinator *c, int kind, int root, size_t size, int timeout_ms, dcp_error *err) {
    const int ranks = c ? c->world_size : 1;
    dcp_status status;
    memset(w, 0, sizeof *w);
    w->err = err ? err : &w->own;
    if (timeout_ms < 0)
        return dcpi_fail(err, DCP_E_INVALID, "%s: timeout_ms is negative (0 is the default of %d)", dcpi_wave_name((uint32_t)kind),
                         DCPI_COORD_TIMEOUT);
    status = c ? dcpi_coord_check(c, err) : DCP_OK;
    if (status) return status;
    if (root < 0 || root >= ranks)
        return dcpi_fail(err, DCP_E_INVALID, "%s: root is %d; with %d ranks it is 0 to %d", dcpi_wave_name((uint32_t)kind), root, ranks,
                         ranks - 1);
    if (ranks == 1) return dcpi_succeed(err);
    status = dcpi_coord_check_broken(c, err);
    if (status) return status;
    w->c = c;
    w->kind = kind;
    w->root = root;
    w->place = (int)(((int64_t)c->rank - root + ranks) % ranks);
    w->timeout_ms = timeout_ms ? timeout_ms : DCPI_COORD_TIMEOUT;
    w->started_ms = dcpi_os_monotonic_ms();
    w->sequence = c->collectives++;
    w->size = size;
    w->heard_from = -1;
    return dcpi_succeed(err);
}
typedef void (*dcpi_reduce_fn)(void *inout, const void *in, size_t size, void *user);

static dcp_status dcpi_wave_reduce(dcpi_wave *w, void *data, size_t size, dcpi_reduce_fn reduce, void *user) {
    void *in = size && dcpi_wave_child(w, 0) ? dcpi_alloc(size, w->err) : NULL;
    dcp_status status = size && dcpi_wave_child(w, 0) && !in ? DCP_E_MEMORY : DCP_OK;
    int k;
    for (k = 0; status == DCP_OK && dcpi_wave_child(w, k); k++) {
        status = dcpi_wave_from_child(w, k, in, size);
        if (status == DCP_OK && reduce) reduce(data, in, size, user);
    }
    dcpi_free(in);
    return status;
}
/* A barrier is a reduction of nothing. */
static dcp_status dcpi_wave_reduce_all(dcpi_wave *w, void *data, size_t size, dcpi_reduce_fn reduce, void *user) {
    dcp_status status = dcpi_wave_reduce(w, data, size, reduce, user);
    int k;
    if (status == DCP_OK && w->place) status = dcpi_wave_send(w, dcpi_wave_parent(w), data, size);
    if (status == DCP_OK && w->place) status = dcpi_wave_from_parent(w, data, size);
    for (k = 29; status == DCP_OK && k >= 0; k--)       /* the greatest subtree first: it has the longest way */
        if (dcpi_wave_child(w, k)) status = dcpi_wave_send(w, dcpi_wave_rank(w, w->place + dcpi_wave_child(w, k)), data, size);
    return status;
}
DCPDEF dcp_status dcp_barrier(dcp_coordinator *coordinator, int timeout_ms, dcp_error *err) {
    dcpi_wave w;
    dcp_status status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_BARRIER, 0, 0, timeout_ms, err);
    if (status || !w.c) return status;
    return dcpi_wave_end(&w, dcpi_wave_reduce_all(&w, NULL, 0, NULL, NULL));
}
DCPDEF dcp_status dcp_allreduce(dcp_coordinator *coordinator, void *data, size_t size,
                                void (*reduce)(void *inout, const void *in, size_t size, void *user), void *user, int timeout_ms,
                                dcp_error *err) {
    dcpi_wave w;
    dcp_status status;
    if (!reduce) return dcpi_fail(err, DCP_E_INVALID, "dcp_allreduce: reduce is NULL");
    if (!data && size) return dcpi_fail(err, DCP_E_INVALID, "dcp_allreduce: data is NULL");
    status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_ALLREDUCE, 0, size, timeout_ms, err);
    if (status || !w.c) return status;
    return dcpi_wave_end(&w, dcpi_wave_reduce_all(&w, data, size, reduce, user));
}
static dcp_status dcpi_wave_broadcast(dcpi_wave *w, void *data, size_t size) {
    dcp_status status = DCP_OK;
    int k;
    if (w->place) status = dcpi_wave_send(w, dcpi_wave_parent(w), NULL, 0);
    if (status == DCP_OK && w->place) status = dcpi_wave_from_parent(w, data, size);
    for (k = 29; status == DCP_OK && k >= 0; k--) {
        if (!dcpi_wave_child(w, k)) continue;
        status = dcpi_wave_from_child(w, k, NULL, 0);
        if (status == DCP_OK) status = dcpi_wave_send(w, dcpi_wave_rank(w, w->place + dcpi_wave_child(w, k)), data, size);
    }
    return status;
}
DCPDEF dcp_status dcp_broadcast(dcp_coordinator *coordinator, void *data, size_t size, int root, int timeout_ms, dcp_error *err) {
    dcpi_wave w;
    dcp_status status;
    if (!data && size) return dcpi_fail(err, DCP_E_INVALID, "dcp_broadcast: data is NULL");
    status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_BROADCAST, root, size, timeout_ms, err);
    if (status || !w.c) return status;
    return dcpi_wave_end(&w, dcpi_wave_broadcast(&w, data, size));
}
/* ---- gather. list: the size of each rank's part in this subtree, 8 bytes each, this rank first */
static dcp_status dcpi_wave_gather_sizes(dcpi_wave *w, uint8_t *list) {
    dcp_status status = DCP_OK;
    int k, distance;
    for (k = 0; status == DCP_OK && (distance = dcpi_wave_child(w, k)) != 0; k++)
        status = dcpi_wave_from_child(w, k, list + 8 * (size_t)distance, 8 * (size_t)dcpi_wave_subtree(w, distance));
    return status;
}
static dcp_status dcpi_wave_late_part(dcpi_wave *w, int from) {
    char whom[80];
    (void)snprintf(whom, sizeof whom, "the rest of the data from rank %d", from);
    return dcpi_wave_late(w, from, dcpi_wave_limit_data(w), whom);
}
/* Passes a part on, message by message, so that no rank but the root holds more than its own data. */
static dcp_status dcpi_wave_forward(dcpi_wave *w, int from, uint64_t left) {
    while (left > 0) {
        uint8_t *message;
        size_t bytes;
        dcp_status status = dcpi_wave_take(w, &from, dcpi_wave_limit_data(w), &message, &bytes);
        if (status == DCP_PENDING) return dcpi_wave_late_part(w, from);
        if (status) return status;
        status = dcpi_wave_check_due(w, from, bytes - DCPI_WAVE_HEADER, left);
        if (status == DCP_OK)
            status = dcpi_coord_send(w->c, dcpi_wave_parent(w), DCPI_TAG_COLLECTIVE, message, bytes,
                                     dcpi_wave_left(w, dcpi_wave_limit_data(w)), w->err);
        dcpi_free(message);
        if (status) return status;
        left -= bytes - DCPI_WAVE_HEADER;
    }
    return DCP_OK;
}
static dcp_status dcpi_wave_gather_up(dcpi_wave *w, const uint8_t *list, int count, const void *data, size_t size) {
    dcp_status status = dcpi_wave_send(w, dcpi_wave_parent(w), list, 8 * (size_t)count);
    int k, distance, i;
    if (status == DCP_OK && size) status = dcpi_wave_send(w, dcpi_wave_parent(w), data, size);
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        for (i = distance; status == DCP_OK && i < distance + dcpi_wave_subtree(w, distance); i++)
            status = dcpi_wave_forward(w, dcpi_wave_rank(w, w->place + distance), dcpi_load64(list + 8 * (size_t)i));
    return status;
}
/* On the root: one allocation with the pointers and room for each part, and the sizes. list is in the order of places. */
static dcp_status dcpi_gather_room(int ranks, int root, const uint8_t *list, void ***parts, size_t **sizes, dcp_error *err) {
    int64_t total, at, size;
    int place;
    if (!dcpi_align_up((int64_t)((uint64_t)ranks * sizeof(void *)), 16, &total)) return dcpi_no_memory(err, SIZE_MAX);
    at = total;
    for (place = 0; place < ranks; place++)
        if (dcpi_load64(list + 8 * (size_t)place) > (uint64_t)INT64_MAX ||
            !dcpi_align_up((int64_t)dcpi_load64(list + 8 * (size_t)place), 16, &size) || !dcpi_add(total, size, &total) ||
            (int64_t)(size_t)total != total) return dcpi_no_memory(err, SIZE_MAX);
    *sizes = (size_t *)dcpi_alloc_array((size_t)ranks, sizeof **sizes, err);
    *parts = *sizes ? (void **)dcpi_alloc((size_t)total, err) : NULL;
    if (!*parts) return DCP_E_MEMORY;
    for (place = 0; place < ranks; place++) {
        const int rank = (int)(((int64_t)place + root) % ranks);
        (*sizes)[rank] = (size_t)dcpi_load64(list + 8 * (size_t)place);
        (*parts)[rank] = (*sizes)[rank] ? (char *)*parts + (size_t)at : NULL;
        at += (int64_t)(((*sizes)[rank] + 15) & ~(size_t)15);
    }
    return DCP_OK;
}
static dcp_status dcpi_wave_gather_in(dcpi_wave *w, const uint8_t *list, const void *data, void ***parts, size_t **sizes) {
    dcp_status status = dcpi_gather_room(w->c->world_size, w->root, list, parts, sizes, w->err);
    int k, distance, place;
    if (status) return status;
    if ((*sizes)[w->root]) memcpy((*parts)[w->root], data, (*sizes)[w->root]);
    for (k = 0; (distance = dcpi_wave_child(w, k)) != 0; k++)
        for (place = distance; status == DCP_OK && place < distance + dcpi_wave_subtree(w, distance); place++) {
            const int rank = dcpi_wave_rank(w, place), from = dcpi_wave_rank(w, distance);
            if (!(*sizes)[rank]) continue;
            status = dcpi_wave_receive(w, from, dcpi_wave_limit_data(w), (*parts)[rank], (*sizes)[rank]);
            if (status == DCP_PENDING) status = dcpi_wave_late_part(w, from);
        }
    return status;
}
static dcp_status dcpi_wave_gather(dcpi_wave *w, const void *data, size_t size, void ***parts, size_t **sizes) {
    const int lowest = w->place & -w->place, behind = w->c->world_size - w->place;
    const int count = w->place && lowest < behind ? lowest : behind;
    uint8_t *list = (uint8_t *)dcpi_alloc_array((size_t)count, 8, w->err);
    dcp_status status;
    if (!list) return DCP_E_MEMORY;
    dcpi_store64(list, size);
    status = dcpi_wave_gather_sizes(w, list);
    if (status == DCP_OK && w->place) status = dcpi_wave_gather_up(w, list, count, data, size);
    else if (status == DCP_OK) status = dcpi_wave_gather_in(w, list, data, parts, sizes);
    dcpi_free(list);
    return status;
}
static dcp_status dcpi_gather_alone(const void *data, size_t size, void ***parts, size_t **sizes, dcp_error *err) {
    uint8_t list[8];
    dcp_status status;
    dcpi_store64(list, size);
    status = dcpi_gather_room(1, 0, list, parts, sizes, err);
    if (status == DCP_OK && size) memcpy((*parts)[0], data, size);
    return status;
}
DCPDEF dcp_status dcp_gather(dcp_coordinator *coordinator, const void *data, size_t size, void ***parts, size_t **sizes, int root,
                             int timeout_ms, dcp_error *err) {
    dcpi_wave w;
    dcp_status status;
    if (parts) *parts = NULL;
    if (sizes) *sizes = NULL;
    if (!data && size) return dcpi_fail(err, DCP_E_INVALID, "dcp_gather: data is NULL");
    if ((!parts || !sizes) && (!coordinator || coordinator->rank == root))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_gather: parts and sizes must not be NULL on the root");
    status = dcpi_wave_begin(&w, coordinator, DCPI_WAVE_GATHER, root, 0, timeout_ms, err);
    if (status) return status;
    if (w.c) status = dcpi_wave_end(&w, dcpi_wave_gather(&w, data, size, parts, sizes));
    else status = dcpi_gather_alone(data, size, parts, sizes, err);
    if (status == DCP_OK) return DCP_OK;
    if (parts) { dcpi_free(*parts); *parts = NULL; }
    if (sizes) { dcpi_free(*sizes); *sizes = NULL; }
    return status;
}

/* ---- thread group: n ranks in one process (declared in >>api_plug) ------------------------------------------------------------------------
 * Each rank has a mailbox with a lock of its own. A letter stands in two queues of it: of those with its tag from its sender, and of those
 * with its tag from anybody; a table finds a queue by both, so that taking one costs the same however many wait. A queue is there as long
 * as it has letters. A sender wakes the receivers of a mailbox only if one of them waits for just this. */
typedef struct dcpi_letter dcpi_letter;
typedef struct dcpi_queue { struct dcpi_queue *next; int from, tag; dcpi_letter *first, *last; } dcpi_queue;   /* from: or DCP_ANY_RANK */
struct dcpi_letter {
    dcpi_letter *next[2], *previous[2];                 /* in the queue of its sender, and in that of anybody */
    dcpi_queue *queue[2];
    int from; void *data; size_t size;
};
typedef struct dcpi_waiter { struct dcpi_waiter *next; int from, tag; } dcpi_waiter;
typedef struct dcpi_mailbox {
    dcpi_mutex lock; dcpi_cond arrived;
    dcpi_queue **table; size_t buckets, queues;         /* buckets: a power of two, or 0 at first */
    dcpi_waiter *waiters;
    volatile int closed;                                /* set under the lock, looked at by all */
} dcpi_mailbox;
typedef struct dcpi_group { int ranks, ready, open; dcpi_mutex lock; dcpi_mailbox *mailboxes; } dcpi_group;    /* lock: of `open` */
typedef struct dcpi_seat { dcpi_group *group; int rank; } dcpi_seat;

/* ---- queues; under the mailbox's lock */
static size_t dcpi_queue_bucket(size_t buckets, int from, int tag) {
    const uint32_t mixed = ((uint32_t)from * 0x9E3779B1u) ^ ((uint32_t)tag * 0x85EBCA6Bu);
    return (size_t)(mixed ^ mixed >> 15) & (buckets - 1);
}
static dcpi_queue *dcpi_queue_find(const dcpi_mailbox *m, int from, int tag) {
    dcpi_queue *queue = m->buckets ? m->table[dcpi_queue_bucket(m->buckets, from, tag)] : NULL;
    while (queue && (queue->from != from || queue->tag != tag)) queue = queue->next;
    return queue;
}
static dcp_status dcpi_queue_room(dcpi_mailbox *m, dcp_error *err) {
    const size_t buckets = m->buckets ? 2 * m->buckets : 16;
    dcpi_queue **table;
    size_t i;
    if (m->queues < m->buckets) return DCP_OK;
    table = (dcpi_queue **)dcpi_alloc_array(buckets, sizeof *table, err);
    if (!table) return DCP_E_MEMORY;
    for (i = 0; i < m->buckets; i++)
        while (m->table[i]) {
            dcpi_queue *queue = m->table[i];
            const size_t to = dcpi_queue_bucket(buckets, queue->from, queue->tag);
            m->table[i] = queue->next;
            queue->next = table[to];
            table[to] = queue;
        }
    dcpi_free(m->table);
    m->table = table;
    m->buckets = buckets;
    return DCP_OK;
}
static dcpi_queue *dcpi_queue_get(dcpi_mailbox *m, int from, int tag, dcp_error *err) {         /* made if need be; NULL sets err */
    dcpi_queue *queue = dcpi_queue_find(m, from, tag);
    size_t bucket;
    if (queue) return queue;
    if (dcpi_queue_room(m, err)) return NULL;
    queue = (dcpi_queue *)dcpi_alloc_array(1, sizeof *queue, err);
    if (!queue) return NULL;
    queue->from = from;
    queue->tag = tag;
    bucket = dcpi_queue_bucket(m->buckets, from, tag);
    queue->next = m->table[bucket];
    m->table[bucket] = queue;
    m->queues++;
    return queue;
}
static void dcpi_queue_drop_empty(dcpi_mailbox *m, dcpi_queue *queue) {
    dcpi_queue **link;
    if (queue->first) return;
    link = &m->table[dcpi_queue_bucket(m->buckets, queue->from, queue->tag)];
    while (*link != queue) link = &(*link)->next;
    *link = queue->next;
    m->queues--;
    dcpi_free(queue);
}
static void dcpi_letter_append(dcpi_letter *letter, dcpi_queue *queue, int which) {
    letter->queue[which] = queue;
    letter->previous[which] = queue->last;
    if (queue->last) queue->last->next[which] = letter;
    else queue->first = letter;
    queue->last = letter;
}
static void dcpi_letter_take(dcpi_mailbox *m, dcpi_letter *letter, int which) {
    dcpi_queue *queue = letter->queue[which];
    dcpi_letter *next = letter->next[which], *previous = letter->previous[which];
    if (next) next->previous[which] = previous;
    else queue->last = previous;
    if (previous) previous->next[which] = next;
    else queue->first = next;
    dcpi_queue_drop_empty(m, queue);
}
static dcp_status dcpi_letter_put(dcpi_mailbox *m, dcpi_letter *letter, int tag, dcp_error *err) {
    dcpi_queue *own = dcpi_queue_get(m, letter->from, tag, err), *any = own ? dcpi_queue_get(m, DCP_ANY_RANK, tag, err) : NULL;
    if (!any) {
        if (own) dcpi_queue_drop_empty(m, own);
        return DCP_E_MEMORY;
    }
    dcpi_letter_append(letter, own, 0);
    dcpi_letter_append(letter, any, 1);
    return DCP_OK;
}

/* ---- send and receive */
static dcp_status dcpi_seat_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms, dcp_error *err) {
    const dcpi_seat *seat = (const dcpi_seat *)context;
    dcpi_mailbox *m = &seat->group->mailboxes[to];
    dcpi_letter *letter = (dcpi_letter *)dcpi_alloc_array(1, sizeof *letter, err);
    const dcpi_waiter *waiter;
    dcp_status status = DCP_OK;
    (void)timeout_ms;
    if (!letter) return DCP_E_MEMORY;
    letter->from = seat->rank;
    letter->size = size;
    letter->data = size ? dcpi_alloc(size, err) : NULL;
    if (size && !letter->data) { dcpi_free(letter); return DCP_E_MEMORY; }
    if (size) memcpy(letter->data, data, size);
    dcpi_mutex_lock(&m->lock);
    if (m->closed) status = dcpi_fail(err, DCP_E_COMM, "rank %d of the thread group has been closed", to);
    else status = dcpi_letter_put(m, letter, tag, err);
    for (waiter = m->waiters; status == DCP_OK && waiter; waiter = waiter->next)
        if (waiter->tag == tag && (waiter->from == seat->rank || waiter->from == DCP_ANY_RANK)) break;
    if (status == DCP_OK && waiter) dcpi_cond_wake_all(&m->arrived);
    dcpi_mutex_unlock(&m->lock);
    if (status == DCP_OK) return DCP_OK;
    dcpi_free(letter->data);
    dcpi_free(letter);
    return status;
}
/* Whether nothing can come any more: from that rank, or from any. */
static int dcpi_seat_is_left(const dcpi_seat *seat, int from) {
    int rank;
    if (from != DCP_ANY_RANK) return dcpi_flag_get(&seat->group->mailboxes[from].closed);
    for (rank = 0; rank < seat->group->ranks; rank++)
        if (rank != seat->rank && !dcpi_flag_get(&seat->group->mailboxes[rank].closed)) return 0;
    return 1;
}
static dcpi_letter *dcpi_seat_take(dcpi_mailbox *m, int from, int tag) {                      /* under the lock */
    const dcpi_queue *queue = dcpi_queue_find(m, from, tag);
    dcpi_letter *letter = queue ? queue->first : NULL;
    if (!letter) return NULL;
    dcpi_letter_take(m, letter, 0);
    dcpi_letter_take(m, letter, 1);
    return letter;
}
/* A rank closes after its last message has been put here under our lock, so "no message, and closed" in this order is the truth. */
static dcp_status dcpi_seat_await(const dcpi_seat *seat, int from, int tag, int timeout_ms, dcpi_letter **letter, dcp_error *err) {
    dcpi_mailbox *m = &seat->group->mailboxes[seat->rank];
    const int64_t until = timeout_ms > 0 ? dcpi_os_monotonic_ms() + timeout_ms : 0;
    int64_t left = timeout_ms;
    while ((*letter = dcpi_seat_take(m, from, tag)) == NULL) {
        dcpi_waiter self, **link;
        if (dcpi_seat_is_left(seat, from))
            return from == DCP_ANY_RANK ? dcpi_fail(err, DCP_E_COMM, "all other ranks of the thread group have been closed")
                                        : dcpi_fail(err, DCP_E_COMM, "rank %d of the thread group has been closed", from);
        if (left <= 0) return DCP_PENDING;
        self.from = from;
        self.tag = tag;
        self.next = m->waiters;
        m->waiters = &self;
        dcpi_cond_wait_ms(&m->arrived, &m->lock, (int)left);
        for (link = &m->waiters; *link != &self; link = &(*link)->next) {}
        *link = self.next;
        left = until - dcpi_os_monotonic_ms();
    }
    return DCP_OK;
}
static dcp_status dcpi_seat_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms, dcp_error *err) {
    const dcpi_seat *seat = (const dcpi_seat *)context;
    dcpi_mailbox *m = &seat->group->mailboxes[seat->rank];
    dcpi_letter *letter;
    dcp_status status;
    dcpi_mutex_lock(&m->lock);
    status = dcpi_seat_await(seat, *from, tag, timeout_ms, &letter, err);
    dcpi_mutex_unlock(&m->lock);
    if (status) return status;
    *from = letter->from;
    *data = letter->data;
    *size = letter->size;
    dcpi_free(letter);
    return DCP_OK;
}

/* ---- opening and closing */
static void dcpi_mailbox_empty(dcpi_mailbox *m) {       /* under the lock */
    size_t i;
    for (i = 0; i < m->buckets; i++)
        while (m->table[i]) {
            dcpi_letter *letter = dcpi_seat_take(m, m->table[i]->from, m->table[i]->tag);
            dcpi_free(letter->data);
            dcpi_free(letter);
        }
    dcpi_free(m->table);
    m->table = NULL;
    m->buckets = 0;
}
static void dcpi_group_free(dcpi_group *group) {
    int i;
    for (i = 0; i < group->ready; i++) {
        dcpi_mailbox_empty(&group->mailboxes[i]);
        dcpi_cond_destroy(&group->mailboxes[i].arrived);
        dcpi_mutex_destroy(&group->mailboxes[i].lock);
    }
    dcpi_mutex_destroy(&group->lock);
    dcpi_free(group->mailboxes);
    dcpi_free(group);
}
static void dcpi_seat_destroy(void *context) {
    dcpi_seat *seat = (dcpi_seat *)context;
    dcpi_group *group = seat->group;
    int i, last;
    for (i = 0; i < group->ranks; i++) {                /* its own mailbox first, then all see that it is closed */
        dcpi_mailbox *m = &group->mailboxes[(seat->rank + i) % group->ranks];
        dcpi_mutex_lock(&m->lock);
        if (i == 0) {
            dcpi_flag_set(&m->closed, 1);
            dcpi_mailbox_empty(m);
        }
        if (m->waiters) dcpi_cond_wake_all(&m->arrived);
        dcpi_mutex_unlock(&m->lock);
    }
    dcpi_mutex_lock(&group->lock);
    last = --group->open == 0;
    dcpi_mutex_unlock(&group->lock);
    if (last) dcpi_group_free(group);
    dcpi_free(seat);
}
static dcpi_group *dcpi_group_make(int ranks, dcp_error *err) {
    dcpi_group *group = (dcpi_group *)dcpi_alloc_array(1, sizeof *group, err);
    if (!group) return NULL;
    group->ranks = ranks;
    group->mailboxes = (dcpi_mailbox *)dcpi_alloc_array((size_t)ranks, sizeof *group->mailboxes, err);
    if (!group->mailboxes || dcpi_mutex_init(&group->lock)) {
        (void)dcpi_no_memory(err, (size_t)ranks * sizeof *group->mailboxes);
        dcpi_free(group->mailboxes);
        dcpi_free(group);
        return NULL;
    }
    for (; group->ready < ranks; group->ready++) {
        dcpi_mailbox *m = &group->mailboxes[group->ready];
        const int has_lock = dcpi_mutex_init(&m->lock) == 0;
        if (has_lock && dcpi_cond_init(&m->arrived) == 0) continue;
        if (has_lock) dcpi_mutex_destroy(&m->lock);
        dcpi_group_free(group);
        (void)dcpi_no_memory(err, sizeof *m);
        return NULL;
    }
    return group;
}
static dcp_coordinator *dcpi_seat_make(dcpi_group *group, int rank, dcp_error *err) {
    dcpi_seat *seat = (dcpi_seat *)dcpi_alloc_array(1, sizeof *seat, err);
    dcp_coordinator *c = seat ? (dcp_coordinator *)dcpi_alloc_array(1, sizeof *c, err) : NULL;
    if (!c) { dcpi_free(seat); return NULL; }
    seat->group = group;
    seat->rank = rank;
    c->context = seat;
    c->rank = rank;
    c->world_size = group->ranks;
    c->thread_safe = 1;
    c->send = dcpi_seat_send;
    c->receive = dcpi_seat_receive;
    c->destroy = dcpi_seat_destroy;
    return c;
}
DCPDEF dcp_status dcp_thread_group_open(int world_size, dcp_coordinator **ranks, dcp_error *err) {
    dcpi_group *group;
    int i;
    if (world_size < 1) return dcpi_fail(err, DCP_E_INVALID, "a thread group has at least 1 rank, not %d", world_size);
    if (!ranks) return dcpi_fail(err, DCP_E_INVALID, "dcp_thread_group_open: ranks is NULL");
    for (i = 0; i < world_size; i++) ranks[i] = NULL;
    if (!DCPI_THREADS && world_size > 1)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "a thread group of %d ranks needs threads, and this is a build with DCP_NO_THREADS", world_size);
    group = dcpi_group_make(world_size, err);
    if (!group) return DCP_E_MEMORY;
    for (i = 0; i < world_size; i++) {
        ranks[i] = dcpi_seat_make(group, i, err);
        if (!ranks[i]) break;
        group->open++;
    }
    if (i == world_size) return dcpi_succeed(err);
    if (group->open == 0) dcpi_group_free(group);
    while (i-- > 0) {
        dcp_coordinator_close(ranks[i]);
        ranks[i] = NULL;
    }
    return DCP_E_MEMORY;
}
DCPDEF void dcp_coordinator_close(dcp_coordinator *coordinator) {
    if (!coordinator) return;
    if (coordinator->destroy) coordinator->destroy(coordinator->context);
    dcpi_free(coordinator);
}

/* ---- ranks: the messages of one operation (DESIGN 4) -----------------------------------------------------------------------------------
 * Rank 0 leads. A round goes up (each rank tells rank 0 that it is ready for the next step, with what rank 0 needs for it, or that it failed)
 * and down (rank 0 tells each to go on, with what it needs, or that the operation is over, and why). Meanwhile every rank shows that it lives,
 * from the calling thread, at least each eighth of the timeout. With one rank nothing is sent and every round is over at once.
 *
 *   message   kind, operation, step, call: 4 bytes each; then the body. Of OVER and FAILED: status, sys, rank, flags, the text.
 *
 * Operations are counted alike on all ranks, so what an earlier one left in the mail is known and dropped. */
enum { DCPI_TEAM_UP = 1, DCPI_TEAM_FAILED, DCPI_TEAM_ALIVE, DCPI_TEAM_DOWN, DCPI_TEAM_OVER };
enum { DCPI_OVER_BREAKS = 1, DCPI_OVER_AGAIN = 2 };     /* the coordinator is of no use any more; the operation starts anew */
enum { DCPI_DOWN_LAST = 1, DCPI_DOWN_SAME = 2 };        /* success is the verdict; every rank gets the same */
#define DCPI_TEAM_HEADER 16
#define DCPI_TEAM_SLICE_MS 20                           /* between two looks at cancel and deadline */
#define DCPI_TEAM_GRACE_MS 200                          /* after the first failure, for others: the lowest rank's is everyone's */

static dcp_status dcpi_team_failed(dcpi_team *t, const dcp_error *why, int is_over) {
    if (t->failure.status == DCP_OK) t->failure = *why;
    if (is_over) t->is_over = 1;
    return t->failure.status;
}
static dcp_status dcpi_team_failure(const dcpi_team *t, dcp_error *err) {
    if (err && t->failure.status) *err = t->failure;
    return t->failure.status;
}

/* ---- begin and end */
/* What all ranks must have in common: the name of the call, its arguments. It goes with every message of a round, and where it differs the ranks
 * are in different calls. */
static void dcpi_team_same(dcpi_team *t, const char *text, uint64_t number) {
    uint32_t h = t->call ^ (uint32_t)(number ^ number >> 32);
    for (; text && *text; text++) h = (h ^ (uint8_t)*text) * 16777619u;
    t->call = (h ^ h >> 15) * 0x2C1B3C6Du;
}
/* In every collective call, first of all and whatever its arguments are worth: so that no rank waits for one that has returned. */
static dcp_status dcpi_team_begin(dcpi_op *op, const char *call, dcp_error *err) {
    dcpi_team *t = &op->team;
    dcp_coordinator *c = op->io.coordinator;
    int64_t now = dcpi_os_monotonic_ms();
    dcp_status status;
    int r;
    memset(t, 0, sizeof *t);
    t->world_size = 1;
    dcpi_team_same(t, call, 0);
    if (!c) return DCP_OK;
    if (c->settle) c->settle(c->saver);                 /* one operation at a time: a save in the background ends first */
    status = dcpi_coord_check(c, err);
    if (!status) status = dcpi_coord_check_broken(c, err);
    if (status || c->world_size == 1) return status;
    t->coordinator = c;
    t->operation = ++c->operations;
    t->rank = c->rank;
    t->world_size = c->world_size;
    t->peer_count = t->rank == 0 ? t->world_size : 1;
    t->peers = t->rank == 0 ? (dcpi_peer *)dcpi_alloc_array((size_t)t->peer_count, sizeof *t->peers, err) : &t->lead;
    if (!t->peers) t->peer_count = 0;
    for (r = 0; r < t->peer_count; r++) t->peers[r].heard_ms = now;
    t->spoke_ms = now;
    return t->peers ? DCP_OK : DCP_E_MEMORY;
}
static void dcpi_team_forget(dcpi_peer *peer) {
    dcpi_free(peer->message);
    peer->message = NULL;
    peer->size = 0;
}
static void dcpi_team_end(dcpi_op *op) {
    dcpi_team *t = &op->team;
    int r;
    for (r = 0; r < t->peer_count; r++) dcpi_team_forget(&t->peers[r]);
    while (t->outbox) {
        dcpi_posted *posted = t->outbox;
        t->outbox = posted->next;
        dcpi_free(posted);
    }
    if (t->peers != &t->lead) dcpi_free(t->peers);
    t->peers = NULL;
    t->peer_count = 0;
    if (t->coordinator && t->is_broken) dcpi_coord_break(t->coordinator, t->failure.status ? t->failure.status : DCP_E_COMM);
    t->coordinator = NULL;
    t->world_size = 1;
}

/* ---- one message */
/* What a callback's failure means here: the others are still told, and then the coordinator is of no use any more. */
static dcp_status dcpi_team_comm_failed(dcpi_team *t, dcp_status status, dcp_error *err) {
    t->is_broken = 1;
    return err->status == status ? status : dcpi_fail(err, status, "%s", dcp_status_name(status));
}
/* One message; *from: a rank or DCP_ANY_RANK, then who it was. DCP_PENDING: none came within wait_ms. */
static dcp_status dcpi_team_receive(dcpi_team *t, int *from, int tag, uint8_t **data, size_t *size, int wait_ms, dcp_error *err) {
    const int asked = *from;
    void *memory = NULL;
    dcp_status status;
    (void)dcpi_succeed(err);
    *size = 0;
    status = t->coordinator->receive(t->coordinator->context, from, tag, &memory, size, wait_ms, err);
    *data = (uint8_t *)memory;
    if (status == DCP_PENDING) return status;
    if (status == DCP_OK && memory && *from >= 0 && *from < t->world_size && *from != t->rank && (asked == DCP_ANY_RANK || *from == asked))
        return DCP_OK;
    if (status == DCP_OK) {
        dcpi_free(memory);
        status = dcpi_fail(err, DCP_E_COMM, "the coordinator's receive gave an empty message, or one from rank %d", *from);
    }
    *data = NULL;
    return dcpi_team_comm_failed(t, status, err);
}
static dcpi_peer *dcpi_team_peer(dcpi_team *t, int rank) { return &t->peers[t->rank == 0 ? rank : 0]; }
/* Polled: keeps a message that the coordinator would have to wait for, or that stands behind such a one. dcpi_team_flush sends it. */
static dcp_status dcpi_team_post(dcpi_team *t, int to, const uint8_t *message, size_t size, dcp_error *err) {
    dcpi_posted *posted = (dcpi_posted *)dcpi_alloc(sizeof *posted + size, err);
    if (!posted) return DCP_E_MEMORY;
    posted->next = NULL;
    posted->to = to;
    posted->since_ms = dcpi_os_monotonic_ms();
    posted->size = size;
    memcpy(posted + 1, message, size);
    if (t->outbox) *t->outbox_end = posted;
    else t->outbox = posted;
    t->outbox_end = &posted->next;
    dcpi_team_peer(t, to)->posted++;
    return DCP_OK;
}
/* `message` has room for the header before its body. */
static dcp_status dcpi_team_send(dcpi_team *t, int to, uint32_t kind, uint8_t *message, size_t size, int timeout_ms, dcp_error *err) {
    dcp_status status;
    int attempt;
    memset(message, 0, DCPI_TEAM_HEADER);
    dcpi_store32(message, kind);
    dcpi_store32(message + 4, t->operation);
    dcpi_store32(message + 8, t->step);
    dcpi_store32(message + 12, t->call);
    if (t->is_polled) timeout_ms = 0;
    for (attempt = 1; ; attempt++) {                    /* without memory it is not sent, but the others wait for it */
        status = DCP_PENDING;
        if (!t->is_polled || dcpi_team_peer(t, to)->posted == 0)
            status = t->coordinator->send(t->coordinator->context, to, DCPI_TAG_OPERATION, message, size, timeout_ms, err);
        if (status == DCP_PENDING && t->is_polled) status = dcpi_team_post(t, to, message, size, err);
        if (status != DCP_E_MEMORY || attempt == 5) break;
        dcpi_os_sleep_ms(10 * attempt);
    }
    if (status == DCP_PENDING) status = DCP_E_TIMEOUT;
    if (status) {
        (void)dcpi_team_comm_failed(t, status, err);
        dcpi_fail_context(err, "rank %d could not be told anything: ", to);
        err->rank = to;
    } else {
        t->spoke_ms = dcpi_os_monotonic_ms();
    }
    return status;
}
static int dcpi_team_short_timeout(const dcpi_op *op) { return (int)dcpi_max(1, dcpi_min(1000, op->io.timeout_ms / 8)); }
/* FAILED and OVER. A rank that cannot be told will find out by the silence. */
static void dcpi_team_send_error(dcpi_op *op, int to, uint32_t kind, const dcp_error *why, uint32_t flags) {
    uint8_t message[2 * DCPI_TEAM_HEADER + sizeof why->message];
    size_t length = strlen(why->message);
    dcp_error ignored;
    dcpi_store32(message + 16, (uint32_t)why->status);
    dcpi_store32(message + 20, (uint32_t)why->sys);
    dcpi_store32(message + 24, (uint32_t)why->rank);
    dcpi_store32(message + 28, flags);
    memcpy(message + 32, why->message, length);
    (void)dcpi_team_send(&op->team, to, kind, message, 32 + length, dcpi_team_short_timeout(op), &ignored);
}
static void dcpi_team_read_error(const uint8_t *message, size_t size, dcp_error *out, uint32_t *flags) {
    uint32_t status = size >= 32 ? dcpi_load32(message + 16) : 0;
    if (status <= (uint32_t)DCP_PENDING || status > (uint32_t)DCP_E_UNKNOWN) status = (uint32_t)DCP_E_COMM;
    (void)dcpi_fail(out, (dcp_status)status, "%.*s", size >= 32 ? (int)dcpi_min((int64_t)size - 32, 511) : 0,
                    size >= 32 ? (const char *)message + 32 : "");
    out->sys = size >= 32 ? (int)dcpi_load32(message + 20) : 0;
    out->rank = size >= 32 ? (int)dcpi_load32(message + 24) : 0;
    *flags = size >= 32 ? dcpi_load32(message + 28) : 0;
}
/* Before its promise a rank that loses rank 0 has failed; after it, it cannot know (G5). */
static dcp_status dcpi_team_lost(dcpi_op *op, const dcp_error *why) {
    dcpi_team *t = &op->team;
    dcp_error error = *why;
    t->is_broken = 1;
    if (t->is_promised && t->rank != 0) {
        (void)dcpi_fail(&error, DCP_E_UNKNOWN,
                        "rank 0 fell silent after this rank had done its part: whether the call succeeded is not known; this rank removed nothing; "
                        "open the checkpoint to see: %.200s", why->message);
        error.rank = 0;
    }
    return dcpi_team_failed(t, &error, t->rank != 0);
}
static void dcpi_team_take(dcpi_op *op, int from, uint8_t *message, size_t size) {
    dcpi_team *t = &op->team;
    dcpi_peer *peer = &t->peers[t->rank == 0 ? from : 0];
    uint32_t kind = size >= DCPI_TEAM_HEADER ? dcpi_load32(message) : 0, flags = 0;
    int32_t age = size >= DCPI_TEAM_HEADER ? (int32_t)(t->operation - dcpi_load32(message + 4)) : 0;
    const int is_round = kind == DCPI_TEAM_UP || kind == DCPI_TEAM_DOWN;
    dcp_error error;
    if (age > 0) { dcpi_free(message); return; }        /* what an earlier operation left */
    peer->heard_ms = dcpi_os_monotonic_ms();
    if (age < 0 || kind < DCPI_TEAM_UP || kind > DCPI_TEAM_OVER || (is_round && dcpi_load32(message + 12) != t->call)) {
        (void)dcpi_fail(&error, DCP_E_MISMATCH, "ranks %d and %d are in different calls, or their arguments differ: all ranks make the same calls "
                        "in the same order", t->rank, from);
        error.rank = from;
        if (age < 0 && t->rank != 0) (void)dcpi_team_lost(op, &error);     /* rank 0 has ended this operation, and this rank has not heard how */
        else (void)dcpi_team_failed(t, &error, 0);
        dcpi_free(message);
        return;
    }
    if (kind == DCPI_TEAM_OVER) {
        dcpi_team_read_error(message, size, &error, &flags);
        if (flags & DCPI_OVER_BREAKS) t->is_broken = 1;
        t->is_again = (flags & DCPI_OVER_AGAIN) != 0;
        memset(&t->failure, 0, sizeof t->failure);      /* rank 0's word counts, whatever this rank thought */
        (void)dcpi_team_failed(t, &error, 1);
    } else if (kind == DCPI_TEAM_FAILED) {
        peer->is_failed = 1;
        if (t->first_failure_ms == 0) t->first_failure_ms = peer->heard_ms;
    }
    if (kind == DCPI_TEAM_ALIVE && !peer->message && (int32_t)(dcpi_load32(message + 8) - t->step) > 0) {
        (void)dcpi_fail(&error, DCP_E_COMM, "a message from rank %d was lost on the way: it is further than it has said", from);
        error.rank = from;
        (void)dcpi_team_lost(op, &error);
    }
    if (kind != DCPI_TEAM_UP && kind != DCPI_TEAM_FAILED && kind != DCPI_TEAM_DOWN) { dcpi_free(message); return; }
    dcpi_team_forget(peer);
    peer->message = message;
    peer->size = size;
}
/* Takes in one message, if one comes within wait_ms; 0: none came. */
static int dcpi_team_listen(dcpi_op *op, int wait_ms) {
    dcpi_team *t = &op->team;
    int from = t->rank == 0 ? DCP_ANY_RANK : 0;
    uint8_t *message;
    size_t size;
    dcp_error error;
    dcp_status status = dcpi_team_receive(t, &from, DCPI_TAG_OPERATION, &message, &size, wait_ms, &error);
    if (!status) dcpi_team_take(op, from, message, size);
    else if (status != DCP_PENDING) (void)dcpi_team_lost(op, &error);
    return status == DCP_OK;
}

/* ---- signs of life */
static void dcpi_team_show_life(dcpi_op *op, int64_t now) {
    dcpi_team *t = &op->team;
    uint8_t message[DCPI_TEAM_HEADER];
    dcp_error error;
    int to;
    if (now - t->spoke_ms < op->io.timeout_ms / 8) return;
    t->spoke_ms = now;
    for (to = 0; to < t->peer_count; to++)
        if (to != t->rank && t->peers[to].posted == 0 && dcpi_team_send(t, to, DCPI_TEAM_ALIVE, message, sizeof message, dcpi_team_short_timeout(op), &error) &&
            !(t->rank == 0 && t->peers[to].message)) (void)dcpi_team_lost(op, &error);      /* one that has done its part may go */
}
static dcp_status dcpi_team_check_silence(dcpi_op *op, int64_t now) {
    dcpi_team *t = &op->team;
    const int64_t limit = t->rank == 0 ? op->io.timeout_ms : (int64_t)op->io.timeout_ms * 23 / 20;
    char list[120] = "";
    dcp_error error;
    int r, missing = 0, first = -1;
    for (r = 0; r < t->peer_count; r++) {
        size_t used = strlen(list);
        if (r == t->rank || (t->rank == 0 && t->peers[r].message) || now - t->peers[r].heard_ms <= limit) continue;
        if (missing++ == 0) first = r;
        if (used + 24 < sizeof list) (void)snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", r);
        else if (used + 6 < sizeof list) (void)snprintf(list + used, sizeof list - used, " ...");
    }
    if (missing == 0) return DCP_OK;
    (void)dcpi_fail(&error, DCP_E_TIMEOUT, "no sign of life from %s %s for %" PRId64 " ms (%d of %d ranks) in phase %s: stopped, dead or cut off",
                    missing == 1 ? "rank" : "ranks", list, limit, missing, t->world_size, dcp_phase_name(op->progress.phase));
    error.rank = first;
    return dcpi_team_lost(op, &error);
}
/* Polled: sends what was posted, each rank's in order, as far as the coordinator takes it without waiting. What it does not take within the
 * timeout is dropped: that rank is silent, and finds out by our silence. */
static void dcpi_team_flush(dcpi_op *op) {
    dcpi_team *t = &op->team;
    dcpi_posted **link = &t->outbox, *posted;
    dcp_error error;
    t->flushes++;
    while ((posted = *link) != NULL) {
        dcpi_peer *peer = dcpi_team_peer(t, posted->to);
        dcp_status status = DCP_PENDING;
        (void)dcpi_succeed(&error);
        if (peer->stuck_at != t->flushes)
            status = t->coordinator->send(t->coordinator->context, posted->to, DCPI_TAG_OPERATION, posted + 1, posted->size, 0, &error);
        if (status == DCP_PENDING) {
            peer->stuck_at = t->flushes;
            if (dcpi_os_monotonic_ms() - posted->since_ms <= op->io.timeout_ms) { link = &posted->next; continue; }
            status = dcpi_fail(&error, DCP_E_TIMEOUT, "it takes no message");
        }
        *link = posted->next;
        peer->posted--;
        if (status) {
            (void)dcpi_team_comm_failed(t, status, &error);
            dcpi_fail_context(&error, "rank %d could not be told anything: ", posted->to);
            error.rank = posted->to;
            if (t->is_over) dcpi_op_log(op, DCP_LOG_WARNING, "the operation is over, but %s", error.message);
            else (void)dcpi_team_lost(op, &error);
        }
        dcpi_free(posted);
    }
    t->outbox_end = link;
}
static int dcpi_team_has_word(const dcpi_team *t) { return t->is_following && t->peers[0].message; }
/* Calling thread, often: shows life, takes in what has come. What has ended the operation, if anything has. */
static dcp_status dcpi_team_tick(dcpi_op *op, dcp_error *err) {
    dcpi_team *t = &op->team;
    int64_t now;
    if (t->outbox) dcpi_team_flush(op);
    if (t->world_size == 1 || t->is_over || !t->peers) return dcpi_team_failure(t, err);
    now = dcpi_os_monotonic_ms();
    if (now == t->listened_ms) return dcpi_team_failure(t, err);
    t->listened_ms = now;
    /* first: one who was stopped for long finds the verdict in the mail; after the verdict rank 0 may be gone, or in its next call */
    while (!t->is_over && !dcpi_team_has_word(t) && dcpi_team_listen(op, 0)) {}
    if (dcpi_team_has_word(t)) return dcpi_team_failure(t, err);
    if (!t->is_over) dcpi_team_show_life(op, now);
    if (!t->is_over && (t->rank != 0 || !t->failure.status)) (void)dcpi_team_check_silence(op, now);
    if (!t->failure.status && t->first_failure_ms)
        return dcpi_fail(err, DCP_E_CANCELLED, "another rank failed");  /* rank 0: up() finds out which */
    return dcpi_team_failure(t, err);
}

/* ---- a round up */
/* The failure of the lowest rank that reported one. */
static dcp_status dcpi_team_lowest(const dcpi_team *t, dcp_error *err) {
    uint32_t flags;
    int r;
    for (r = 1; r < t->peer_count && !t->peers[r].is_failed; r++) {}
    if (r == t->peer_count) return DCP_OK;
    dcpi_team_read_error(t->peers[r].message, t->peers[r].size, err, &flags);
    dcpi_fail_context(err, "rank %d: ", r);
    err->rank = r;
    return err->status;
}
static int dcpi_team_has_all(const dcpi_team *t) {
    int r = 1;
    while (r < t->peer_count && t->peers[r].message) r++;
    return r == t->peer_count;
}
/* One step, which waits wait_ms at most. DCP_PENDING: not all have spoken, so there is another. */
static dcp_status dcpi_team_collect(dcpi_op *op, int wait_ms, dcp_error *err) {
    dcpi_team *t = &op->team;
    const int is_late = t->first_failure_ms && dcpi_os_monotonic_ms() - t->first_failure_ms > DCPI_TEAM_GRACE_MS;
    if (!dcpi_team_has_all(t) && !t->failure.status && !is_late) {
        const dcp_status status = dcpi_op_check(op, err);
        if (status && !t->first_failure_ms) return status;
        if (!dcpi_team_has_all(t)) (void)dcpi_team_listen(op, wait_ms);
        return DCP_PENDING;
    }
    t->step++;
    return t->first_failure_ms ? dcpi_team_lowest(t, err) : dcpi_team_failure(t, err);
}
/* Rank 0: DCP_PENDING, and dcpi_team_collect until it says something else. Other ranks: nothing to wait for, their own status. */
static dcp_status dcpi_team_up_begin(dcpi_op *op, dcp_status status, dcpi_buffer *message, dcp_error *err) {
    dcpi_team *t = &op->team;
    if (t->world_size == 1 || t->is_over) return status;
    if (!status && message->failed) status = dcpi_no_memory(err, message->size);
    if (t->rank == 0) {
        if (status && !t->first_failure_ms) return status;
        return t->peers ? DCP_PENDING : status;
    }
    if (status) {
        dcpi_team_send_error(op, 0, DCPI_TEAM_FAILED, err, 0);
        t->step++;
        return status;
    }
    status = dcpi_team_send(t, 0, DCPI_TEAM_UP, (uint8_t *)message->data, message->size, op->io.timeout_ms, err);
    t->step++;
    if (!status) return DCP_OK;
    (void)dcpi_team_lost(op, err);
    return dcpi_team_failure(t, err);
}
/* Rank 0: everyone's bodies are in peers[r].message then; its own status, or the lowest failing rank's. Other ranks: their own status. */
static dcp_status dcpi_team_up(dcpi_op *op, dcp_status status, dcpi_buffer *message, dcp_error *err) {
    status = dcpi_team_up_begin(op, status, message, err);
    while (status == DCP_PENDING) status = dcpi_team_collect(op, DCPI_TEAM_SLICE_MS, err);
    return status;
}

/* ---- a round down */
typedef dcp_status (*dcpi_team_make)(void *user, int rank, dcpi_buffer *message, dcp_error *err);

static void dcpi_team_message_start(dcpi_buffer *message) {
    static const uint8_t header[DCPI_TEAM_HEADER] = {0};
    message->size = 0;
    dcpi_buffer_add(message, header, sizeof header);
}
static void dcpi_team_tell_over(dcpi_op *op, const dcp_error *why) {
    dcpi_team *t = &op->team;
    const uint32_t breaks = t->is_broken ? (uint32_t)DCPI_OVER_BREAKS : 0, again = t->is_again ? (uint32_t)DCPI_OVER_AGAIN : 0;
    int r;
    for (r = 1; r < t->world_size; r++) dcpi_team_send_error(op, r, DCPI_TEAM_OVER, why, breaks | again);
    (void)dcpi_team_failed(t, why, 1);
}
static dcp_status dcpi_team_lead(dcpi_op *op, dcpi_team_make make, void *user, int flags, dcp_error *err) {
    dcpi_team *t = &op->team;
    uint8_t nothing[DCPI_TEAM_HEADER];                  /* a verdict needs no memory */
    dcpi_buffer message;
    dcp_status status = DCP_OK;
    int r;
    memset(&message, 0, sizeof message);
    for (r = 1; r < t->world_size && !status; r++) {
        if (make && (r == 1 || !(flags & DCPI_DOWN_SAME))) {
            dcpi_team_message_start(&message);
            status = make(user, r, &message, err);
            if (!status && message.failed) status = dcpi_no_memory(err, message.size);
            if (status) break;
        }
        status = dcpi_team_send(t, r, DCPI_TEAM_DOWN, make ? (uint8_t *)message.data : nothing, make ? message.size : sizeof nothing,
                                op->io.timeout_ms, err);
        if ((flags & DCPI_DOWN_LAST) && status) {       /* the verdict stands: that rank finds DCP_E_UNKNOWN, the others shall know */
            dcpi_op_log(op, DCP_LOG_WARNING, "the operation succeeded, but rank %d could not be told: %s", r, err->message);
            status = DCP_OK;
        }
    }
    dcpi_buffer_free(&message);
    for (r = 0; r < t->peer_count && !status; r++) {
        dcpi_team_forget(&t->peers[r]);
        t->peers[r].heard_ms = dcpi_os_monotonic_ms();
    }
    t->step++;
    if (flags & DCPI_DOWN_LAST) t->is_over = 1;
    return status;
}
/* Waits for rank 0's word. Until its promise a rank may still fail by itself; then it says so, and waits for the word all the same. The last
 * word is the verdict, though this rank may have failed meanwhile; and who has sent all and does not hear it cannot know it (G5). */
static void dcpi_team_follow_begin(dcpi_team *t, dcp_status own, int is_last) {
    t->own = own;
    t->may_fail = !t->is_promised;
    t->is_last = is_last;
    dcpi_team_forget(&t->peers[0]);
    if (is_last && !own) t->is_promised = 1;
    t->is_following = 1;
}
/* One step, as dcpi_team_collect. */
static dcp_status dcpi_team_follow(dcpi_op *op, int wait_ms, dcp_error *err) {
    dcpi_team *t = &op->team;
    dcp_error error;
    if (!t->is_over && !t->peers[0].message) {
        const dcp_status status = !t->may_fail || t->own ? dcpi_team_tick(op, &error) : dcpi_op_check(op, &error);
        if (status && !t->is_over && !t->own && !t->peers[0].message) {
            t->own = status;
            dcpi_team_send_error(op, 0, DCPI_TEAM_FAILED, &error, 0);
            if (err) *err = error;
        }
        if (!t->is_over && !t->peers[0].message) (void)dcpi_team_listen(op, wait_ms);
        return DCP_PENDING;
    }
    t->is_following = 0;
    t->step++;
    if (t->is_over) return dcpi_team_failure(t, err);
    if (t->is_last) t->is_over = 1;
    return t->is_last ? DCP_OK : t->own;
}
/* Rank 0: with a failure in `status`, tells all that it is over; else sends each what `make` gives (NULL: nothing). Others: DCP_PENDING, and
 * dcpi_team_follow until it says something else; their body is in peers[0] then. */
static dcp_status dcpi_team_down_begin(dcpi_op *op, dcp_status status, dcpi_team_make make, void *user, int flags, dcp_error *err) {
    dcpi_team *t = &op->team;
    if (t->world_size == 1) return status;
    if (t->is_over) return t->failure.status ? dcpi_team_failure(t, err) : status;
    if (t->rank != 0) {
        if (!t->peers) return status;
        dcpi_team_follow_begin(t, status, (flags & DCPI_DOWN_LAST) != 0);
        return DCP_PENDING;
    }
    if (!status) status = dcpi_team_lead(op, make, user, flags, err);
    if (!status) return DCP_OK;
    if (err->rank == 0 && !dcpi_starts_with(err->message, "rank 0")) dcpi_fail_context(err, "rank 0: ");        /* its own, not the others' */
    dcpi_team_tell_over(op, err);
    return status;
}
static dcp_status dcpi_team_down(dcpi_op *op, dcp_status status, dcpi_team_make make, void *user, int flags, dcp_error *err) {
    status = dcpi_team_down_begin(op, status, make, user, flags, err);
    while (status == DCP_PENDING) status = dcpi_team_follow(op, DCPI_TEAM_SLICE_MS, err);
    return status;
}
/* The last round up of a call: this rank has done its part, or has failed. */
static dcp_status dcpi_team_done(dcpi_op *op, dcp_status status, dcp_error *err) {
    dcpi_buffer message;
    memset(&message, 0, sizeof message);
    dcpi_team_message_start(&message);
    status = dcpi_team_up(op, status, &message, err);
    dcpi_buffer_free(&message);
    return status;
}
/* The last rounds of a call whose ranks work alone: everyone's outcome up, the verdict down. */
static dcp_status dcpi_team_verdict(dcpi_op *op, dcp_status status, dcp_error *err) {
    status = dcpi_team_done(op, status, err);
    return dcpi_team_down(op, status, NULL, NULL, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
}

/* Rank 0: every rank said the same as this one. */
static dcp_status dcpi_agree_compare(const dcpi_team *t, const uint8_t *own, size_t size, const char *what, dcp_error *err) {
    int r;
    for (r = 1; r < t->world_size; r++) {
        const dcpi_peer *peer = &t->peers[r];
        if (peer->size == DCPI_TEAM_HEADER + size && memcmp(peer->message + DCPI_TEAM_HEADER, own, size) == 0) continue;
        (void)dcpi_fail(err, DCP_E_MISMATCH, "ranks 0 and %d do not make the same call: %s", r, what);
        err->rank = r;
        return DCP_E_MISMATCH;
    }
    return DCP_OK;
}

/* ---- tensor bytes from one rank to another: the operation (4 bytes), credits (4), offset in the file (8), at most DCPI_RELAY_CHUNK bytes */
#define DCPI_RELAY_CHUNK ((size_t)DCPI_MIB)
#define DCPI_RELAY_HEADER 16

static dcp_status dcpi_relay_send(dcpi_op *op, int to, uint8_t *message, uint32_t credits, int64_t offset, size_t size, dcp_error *err) {
    dcp_coordinator *c = op->team.coordinator;
    dcp_status status;
    dcpi_store32(message, op->team.operation);
    dcpi_store32(message + 4, credits);
    dcpi_store64(message + 8, (uint64_t)offset);
    status = c->send(c->context, to, DCPI_TAG_DATA, message, DCPI_RELAY_HEADER + size, op->io.timeout_ms, err);
    if (status == DCP_PENDING) status = DCP_E_TIMEOUT;
    if (!status) return DCP_OK;
    (void)dcpi_team_comm_failed(&op->team, status, err);
    dcpi_fail_context(err, "tensor bytes could not be sent to rank %d: ", to);
    return status;
}
/* Waits for the next message of this operation; *data is the caller's. */
static dcp_status dcpi_relay_receive(dcpi_op *op, int from, uint8_t **data, size_t *size, dcp_error *err) {
    for (;;) {
        int who = from;
        dcp_status status = dcpi_op_check(op, err);
        if (status) return status;
        status = dcpi_team_receive(&op->team, &who, DCPI_TAG_DATA, data, size, 20, err);
        if (status == DCP_PENDING) continue;
        if (status) { dcpi_fail_context(err, "tensor bytes could not be received from rank %d: ", from); return status; }
        if (*size >= DCPI_RELAY_HEADER && dcpi_load32(*data) == op->team.operation) return DCP_OK;
        dcpi_free(*data);                               /* what an earlier operation left */
        *data = NULL;
    }
}

/* ---- errands: a call that may block for long runs beside the calling thread, which goes on showing life */
typedef dcp_status (*dcpi_errand_fn)(void *argument, dcp_error *err);
typedef struct dcpi_errand { dcpi_crew crew; dcpi_errand_fn fn; void *argument; dcp_status status; dcp_error error; } dcpi_errand;

static void dcpi_errand_run(void *argument) {
    dcpi_errand *e = (dcpi_errand *)argument;
    e->status = e->fn(e->argument, &e->error);
    dcpi_mutex_lock(&e->crew.lock);
    dcpi_crew_leave(&e->crew);
    dcpi_mutex_unlock(&e->crew.lock);
}
static dcp_status dcpi_op_errand(dcpi_op *op, dcpi_errand_fn fn, void *argument, dcp_error *err) {
    dcpi_errand e;
    dcp_error ignored;
    if (op->team.world_size == 1 || !DCPI_THREADS || op->is_beside) return fn(argument, err);
    memset(&e, 0, sizeof e);
    e.fn = fn;
    e.argument = argument;
    if (dcpi_crew_open(&e.crew, &ignored)) return fn(argument, err);
    op->team.has_errand = 1;
    dcpi_crew_start(&e.crew, 1, dcpi_errand_run, &e);
    dcpi_mutex_lock(&e.crew.lock);
    while (e.crew.running > 0) {
        dcpi_cond_wait_ms(&e.crew.changed, &e.crew.lock, 20);
        dcpi_mutex_unlock(&e.crew.lock);
        dcpi_op_note_time(op);                          /* slow is not stopped */
        (void)dcpi_team_tick(op, &ignored);             /* what it finds stays in the team, and is seen after the errand */
        dcpi_mutex_lock(&e.crew.lock);
    }
    dcpi_mutex_unlock(&e.crew.lock);
    op->team.has_errand = e.crew.count > 0;
    (void)dcpi_crew_close(&e.crew, &ignored);
    if (!op->team.has_errand) return fn(argument, err); /* there was no thread for it */
    op->team.has_errand = 0;
    if (e.status) *err = e.error;
    return e.status;
}

/* ---- whole objects (declared in >>api_plug) ------------------------------------------------------------------------------------------ */
static dcp_status dcpi_object_write_chunks(dcpi_op *op, dcp_storage *s, const char *path, void *object, const char *data, size_t size,
                                           dcp_error *err) {
    size_t at = 0;
    dcp_status status = DCP_OK;
    while (at < size && !status) {
        size_t n = (size_t)dcpi_min((int64_t)(size - at), (int64_t)(4 * DCPI_MIB));
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_storage_write(s, path, object, (int64_t)at, data + at, n, err);
        at += n;
        dcpi_op_report(op, (int64_t)at, at == size);
    }
    return status ? status : dcpi_op_check(op, err);
}
static dcp_status dcpi_object_write(dcpi_op *op, dcp_storage *s, const char *path, const char *temporary, const void *data, size_t size,
                                    dcp_error *err) {
    void *object;
    dcp_status status = dcpi_storage_begin(s, path, temporary, (int64_t)size, &object, err);
    if (status) return status;
    status = dcpi_object_write_chunks(op, s, path, object, (const char *)data, size, err);
    if (!status) return dcpi_storage_commit(s, path, object, 1, err);
    dcpi_storage_abort(s, object);
    return status;
}
static void dcpi_key_directory(char *key) {             /* "a/b" becomes "a", "b" becomes "" */
    char *slash = strrchr(key, '/');
    *(slash ? slash : key) = '\0';
}
static dcp_status dcpi_object_publish(dcpi_op *op, dcp_storage *s, const char *path, const void *data, size_t size, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    char id[17], *temporary, *directory = dcpi_copy_text(path, err);
    int attempt = 0, again = 1;
    if (!directory) return DCP_E_MEMORY;
    dcpi_key_directory(directory);
    status = dcpi_random_id(id, &local);
    while (!status && again) {
        temporary = dcpi_temporary_name(path, id, attempt++, &local);
        status = temporary ? dcpi_object_write(op, s, path, temporary, data, size, &local) : DCP_E_MEMORY;
        dcpi_free(temporary);
        again = status && dcpi_op_again(op, attempt, "writing an object", &local);
        if (again) status = DCP_OK;
    }
    if (!status) status = dcpi_storage_sync_directory(s, directory, &local);
    dcpi_free(directory);
    if (status && err) *err = local;
    return status;
}
DCPDEF dcp_status dcp_storage_write_all_io(dcp_storage *storage, const char *path, const void *data, size_t size, const dcp_io *io,
                                           dcp_error *err) {
    dcpi_op op;
    dcp_status status;
    (void)dcpi_succeed(err);
    if (!storage || !path || !io || (!data && size))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_write_all: storage, path, io or data is NULL");
    status = dcpi_op_begin(&op, io, err);
    if (status) return status;
    dcpi_op_phase(&op, DCP_PHASE_WRITE, (int64_t)size);
    status = dcpi_op_check(&op, err);
    return status ? status : dcpi_object_publish(&op, storage, path, data, size, err);
}
/* The whole of an open object, its size known; a NUL behind it. */
static dcp_status dcpi_object_read(dcpi_op *op, dcp_storage *s, const char *path, void *object, int64_t size, char **out, dcp_error *err) {
    int64_t at = 0;
    dcp_status status = DCP_OK;
    char *data;
    *out = NULL;
    if (size < 0 || (uint64_t)size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    data = (char *)dcpi_alloc((size_t)size + 1, err);
    if (!data) return DCP_E_MEMORY;
    while (at < size && !status) {
        int64_t n = dcpi_min(size - at, (int64_t)(4 * DCPI_MIB));
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_storage_read(s, path, object, at, data + at, (size_t)n, err);
        at += n;
        if (op->progress.phase == DCP_PHASE_READ) dcpi_op_report(op, at, at == size);       /* an object of the user's, not a document */
    }
    data[size] = '\0';
    if (status) dcpi_free(data);
    else *out = data;
    return status;
}
DCPDEF dcp_status dcp_storage_read_all_io(dcp_storage *storage, const char *path, void **data, size_t *size, const dcp_io *io,
                                          dcp_error *err) {
    dcpi_op op;
    dcp_object_info info;
    void *object;
    char *bytes = NULL;
    dcp_status status;
    *data = NULL;
    *size = 0;
    (void)dcpi_succeed(err);
    if (!storage || !path || !io) return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_read_all: storage, path or io is NULL");
    status = dcpi_op_begin(&op, io, err);
    if (!status) status = dcpi_op_check(&op, err);
    if (!status) status = dcpi_storage_open_object(storage, path, &object, &info, err);
    if (status) return status;
    dcpi_op_phase(&op, DCP_PHASE_READ, info.size);
    status = dcpi_object_read(&op, storage, path, object, info.size, &bytes, err);
    dcpi_storage_close_object(storage, object);
    if (status) return status;
    *data = bytes;
    *size = (size_t)info.size;
    return DCP_OK;
}
DCPDEF dcp_status dcp_storage_write_all(dcp_storage *storage, const char *path, const void *data, size_t size, dcp_error *err) {
    dcp_io io = DCP_ZERO;
    return dcp_storage_write_all_io(storage, path, data, size, &io, err);
}
DCPDEF dcp_status dcp_storage_read_all(dcp_storage *storage, const char *path, void **data, size_t *size, dcp_error *err) {
    dcp_io io = DCP_ZERO;
    return dcp_storage_read_all_io(storage, path, data, size, &io, err);
}
DCPDEF dcp_status dcp_storage_info(dcp_storage *storage, const char *path, dcp_object_info *info, dcp_error *err) {
    if (storage) return dcpi_storage_stat(storage, path, info, err);
    memset(info, 0, sizeof *info);
    return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_info: storage is NULL");
}
DCPDEF dcp_status dcp_storage_exists(dcp_storage *storage, const char *path, int *exists, dcp_error *err) {
    dcp_object_info info;
    dcp_status status = dcp_storage_info(storage, path, &info, err);
    *exists = status == DCP_OK;
    return status == DCP_E_NOT_FOUND ? dcpi_succeed(err) : status;
}
DCPDEF dcp_status dcp_storage_additional_info(dcp_storage *storage, const char *path, dcp_field **fields, size_t *count, dcp_error *err) {
    dcp_object_info info;
    dcp_status status = dcp_storage_info(storage, path, &info, err);
    *fields = NULL;
    *count = 0;
    if (status || !storage->additional_info) return status;             /* nothing to add is an empty list */
    return dcpi_storage_result(storage->additional_info(storage->context, path, fields, count, err), "look at", path, err);
}
DCPDEF dcp_status dcp_storage_delete(dcp_storage *storage, const char *path, dcp_error *err) {
    if (!storage) return dcpi_fail(err, DCP_E_INVALID, "dcp_storage_delete: storage is NULL");
    return dcpi_storage_remove(storage, path, err);
}
DCPDEF void dcp_cancel_request(dcp_cancel *cancel) { if (cancel) dcpi_flag_set(&cancel->requested, 1); }

/* ================================================================================================================================
 * >>index       Open: find the commit file, read and check the document, and turn it, whatever its layout, into one index of pieces:
 *               tensor, box, file, byte range, digests. Load, verify and map know only that index.
 * ============================================================================================================================== */
#define DCPI_LEAF ((int64_t)256 * 1024)                 /* bytes hashed as one string (DESIGN 2.1) */
#define DCPI_CHUNK ((int64_t)4 * 1024 * 1024)           /* bytes in one request to a storage, at most */
#define DCPI_OPEN_FILES 8                               /* files kept open though nobody reads them just now */

typedef struct dcpi_piece { const dcp_tensor_metadata *meta; int shard; } dcpi_piece;

typedef struct dcpi_stored {                            /* a tensor with all its pieces */
    dcp_tensor_info info;
    size_t first;                                       /* of info.piece_count pieces, sorted by global offset, then shard */
    int64_t longest;                                    /* the greatest shape[0] of a piece: bounds a search in the sorted pieces */
} dcpi_stored;

typedef struct dcpi_data_file {                         /* a shard's bytes: a file, or a region of the single file */
    const dcp_shard_metadata *shard;
    char *key;                                          /* NULL until it is first opened */
    int64_t object_size;                                /* of the whole file, by the document */
    void *object; dcp_object_info info;                 /* under the checkpoint's lock, like all below */
    int users, is_mapped;
    int is_checked; int64_t checked_modified_ns;        /* flat checksum: the file was hashed, when it had this time and its size */
} dcpi_data_file;

/* dcp_map without mapping */
typedef struct dcpi_copy { struct dcpi_copy *next; const dcpi_stored *stored; uint8_t *data; size_t size; } dcpi_copy;

struct dcp_checkpoint {
    dcpi_op op;
    dcpi_place place;
    char *commit_name, *path, *prefix;                  /* of the commit file: its name, its path for people; the prefix's name */
    dcp_layout layout;
    dcp_verify_policy verify; int share_reads;
    dcp_metadata *metadata;
    uint8_t digest[32];                                 /* of the document's bytes: to see whether it is still the same one */
    dcpi_piece *pieces; size_t piece_count;
    dcpi_stored *tensors; size_t tensor_count;          /* sorted by name */
    void *single;                                       /* the single file, open; else NULL */
    dcpi_data_file *files; size_t file_count;           /* one for each shard of the document */
    dcpi_mutex lock; int has_lock, open_files;
    dcpi_copy *copies;
};

/* ---- commit files -------------------------------------------------------------------------------------------------------------------- */
static const struct dcpi_commit_kind { const char *suffix; dcp_layout layout; } dcpi_commit_kinds[] = {
    { ".metadata.json", DCP_LAYOUT_SHARDED }, { ".checkpoint", DCP_LAYOUT_SINGLE }, { ".manifest.json", DCP_LAYOUT_MANIFEST }, {
        ".manifest.yaml", DCP_LAYOUT_MANIFEST }
};
/* The kind of commit file that a name is; NULL if it is none. */
static const struct dcpi_commit_kind *dcpi_commit_kind_of(const char *name) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(dcpi_commit_kinds); i++)
        if (dcpi_ends_with(name, dcpi_commit_kinds[i].suffix) && strlen(name) > strlen(dcpi_commit_kinds[i].suffix))
            return &dcpi_commit_kinds[i];
    return NULL;
}
static char *dcpi_commit_name(const char *prefix, const struct dcpi_commit_kind *kind, dcp_error *err) {
    size_t size = strlen(prefix) + strlen(kind->suffix) + 1;
    char *name = (char *)dcpi_alloc(size, err);
    if (name) (void)snprintf(name, size, "%s%s", prefix, kind->suffix);
    return name;
}
/* The commit files that a prefix has: their number; the first one's kind, and the second's. */
static dcp_status dcpi_commit_find(const dcpi_place *place, const char *prefix, const struct dcpi_commit_kind *found[2], int *count,
                                   dcp_error *err) {
    size_t i;
    *count = 0;
    for (i = 0; i < DCPI_COUNT(dcpi_commit_kinds); i++) {
        dcp_object_info info;
        char *name = dcpi_commit_name(prefix, &dcpi_commit_kinds[i], err), *key = name ? dcpi_place_key(place, name, err) : NULL;
        dcp_status status = key ? dcpi_storage_stat(place->storage, key, &info, err) : DCP_E_MEMORY;
        dcpi_free(name);
        dcpi_free(key);
        if (status == DCP_E_NOT_FOUND) continue;
        if (status) return status;
        if (*count < 2) found[*count] = &dcpi_commit_kinds[i];
        (*count)++;
    }
    return dcpi_succeed(err);
}

/* Trouble of ours or of the storage, which says nothing about the document that was to be read. */
static int dcpi_is_trouble(dcp_status status) {
    return status == DCP_E_IO || status == DCP_E_MEMORY || status == DCP_E_CANCELLED || status == DCP_E_TIMEOUT;
}

/* ---- documents: the bytes of one commit file, checked and parsed --------------------------------------------------------------------- */
typedef struct dcpi_document {
    dcp_metadata *metadata;
    uint8_t digest[32];
    dcp_object_info info;                               /* of the commit file */
    char *text; size_t size;                            /* its bytes, kept where other ranks wait for them */
} dcpi_document;

typedef struct dcpi_reading { dcp_storage *storage; const char *key; void *object; } dcpi_reading;
static dcp_status dcpi_reading_read(void *user, int64_t offset, void *data, size_t size, dcp_error *err) {
    dcpi_reading *r = (dcpi_reading *)user;
    return dcpi_storage_read(r->storage, r->key, r->object, offset, data, size, err);
}
static dcp_status dcpi_document_limit(int64_t size, dcp_error *err) {
    if (size <= (int64_t)DCP_LIMIT_DOCUMENT) return DCP_OK;
    return dcpi_fail(err, DCP_E_LIMIT, "the document has %" PRId64 " bytes; DCP_LIMIT_DOCUMENT is %" PRId64, size,
                     (int64_t)DCP_LIMIT_DOCUMENT);
}
/* The document's bytes as they stand in its file, and their digest. */
static dcp_status dcpi_document_fetch_json(dcpi_op *op, dcpi_reading *r, dcpi_document *out, dcp_error *err) {
    dcp_status status = dcpi_document_limit(out->info.size, err);
    if (!status) status = dcpi_object_read(op, r->storage, r->key, r->object, out->info.size, &out->text, err);
    out->size = (size_t)out->info.size;
    return status;
}
static dcp_status dcpi_document_fetch_single(dcpi_reading *r, dcpi_document *out, dcp_error *err) {
    uint8_t head[4096];
    int64_t head_size = dcpi_min(out->info.size, (int64_t)sizeof head), json_offset, json_size;
    char version[32];
    dcp_status status = dcpi_storage_read(r->storage, r->key, r->object, 0, head, (size_t)head_size, err);
    if (!status) status = dcpi_file_prefix(head, (size_t)head_size, out->info.size, &json_offset, &json_size, version, err);
    if (!status) status = dcpi_document_limit(json_size, err);
    if (status) return status;
    out->text = (char *)dcpi_alloc((size_t)json_size + 1, err);
    if (!out->text) return DCP_E_MEMORY;
    out->size = (size_t)json_size;
    return dcpi_storage_read(r->storage, r->key, r->object, json_offset, out->text, out->size, err);
}
static dcp_status dcpi_document_fetch(dcpi_op *op, dcpi_reading *r, int is_single, dcpi_document *out, dcp_error *err) {
    dcp_status status = is_single ? dcpi_document_fetch_single(r, out, err) : dcpi_document_fetch_json(op, r, out, err);
    if (!status) dcp_sha256(out->text, out->size, out->digest);
    return status;
}
/* Parsed; of the single file every byte before the data is compared with what the JSON says must stand there. */
static dcp_status dcpi_document_parse(dcpi_reading *r, int is_single, const dcp_verifier *verifier, dcpi_document *out, dcp_error *err) {
    dcp_status status = dcpi_meta_parse(out->text, out->size, is_single ? "checkpoint/json" : "metadata/json", verifier, &out->metadata, err);
    if (status || !is_single) return status;
    return dcpi_file_check(out->metadata, out->text, out->size, dcpi_reading_read, r, out->info.size, err);
}
static void dcpi_document_free(dcpi_document *document) {
    dcp_metadata_free(document->metadata);
    dcpi_free(document->text);
    document->metadata = NULL;
    document->text = NULL;
}
static dcp_status dcpi_document_check(dcpi_op *op, const dcpi_place *place, const char *name, const dcpi_document *document,
                                      dcp_error *err) {
    dcp_validation found;
    size_t i;
    dcp_status status = dcpi_meta_check(document->metadata, name, &found, err);
    if (status) dcpi_fail_context(err, "%s", place->shown);
    for (i = 0; i < found.warning_count && !status; i++)
        dcpi_op_log(op, DCP_LOG_WARNING, "%s%s: %s", place->shown, name, found.warnings[i]);
    dcp_validation_free(&found);
    return status;
}
/* Reads, checks, parses and validates. What a message says of the file is put before it here. `object`, if given, gets the open file: its
 * bytes are those that were checked, even if the file is replaced now. */
static dcp_status dcpi_document_read_from(dcpi_op *op, const dcpi_place *place, const char *name, const dcp_verifier *verifier,
                                          dcpi_document *out, void **object, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(name);
    dcpi_reading r;
    char *key = dcpi_place_key(place, name, err);
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!key) return DCP_E_MEMORY;
    r.storage = place->storage;
    r.key = key;
    status = dcpi_storage_open_object(r.storage, key, &r.object, &out->info, err);
    if (!status) {
        const int is_single = kind && kind->layout == DCP_LAYOUT_SINGLE;
        if (kind && kind->layout == DCP_LAYOUT_MANIFEST)
            status = dcpi_fail(err, DCP_E_UNSUPPORTED, "version %s of dcp.h does not read manifests", DCP_VERSION);
        if (!status) status = dcpi_document_fetch(op, &r, is_single, out, err);
        if (!status) status = dcpi_document_parse(&r, is_single, verifier, out, err);
        if (status) dcpi_fail_context(err, "%s%s: ", place->shown, name);
        else status = dcpi_document_check(op, place, name, out, err);
        if (object && !status) *object = r.object;
        else dcpi_storage_close_object(r.storage, r.object);
    }
    if (status) dcpi_document_free(out);
    dcpi_free(key);
    return status;
}
static dcp_status dcpi_document_read(dcpi_op *op, const dcpi_place *place, const char *name, const dcp_verifier *verifier,
                                     dcpi_document *out, dcp_error *err) {
    dcp_status status = dcpi_document_read_from(op, place, name, verifier, out, NULL, err);
    dcpi_free(out->text);
    out->text = NULL;
    return status;
}
/* Only what a commit file's document is, not what it says: enough to see whether it is still the same one. */
static dcp_status dcpi_document_digest(dcpi_op *op, const dcpi_place *place, const char *name, uint8_t digest[32], dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(name);
    dcpi_document document;
    dcpi_reading r;
    char *key = dcpi_place_key(place, name, err);
    dcp_status status;
    memset(&document, 0, sizeof document);
    memset(digest, 0, 32);
    if (!key) return DCP_E_MEMORY;
    r.storage = place->storage;
    r.key = key;
    status = dcpi_storage_open_object(r.storage, key, &r.object, &document.info, err);
    if (!status) {
        status = dcpi_document_fetch(op, &r, kind && kind->layout == DCP_LAYOUT_SINGLE, &document, err);
        memcpy(digest, document.digest, 32);
        dcpi_storage_close_object(r.storage, r.object);
    }
    dcpi_document_free(&document);
    dcpi_free(key);
    return status;
}
static int64_t dcpi_document_find_sequence(const char *head) {
    static const char member[] = "\n  \"sequence\": ";
    const char *at = strstr(head, member);
    int64_t sequence = 0;
    if (!at) return 0;
    for (at += sizeof member - 1; *at >= '0' && *at <= '9'; at++) {
        if (sequence > (INT64_C(1) << 53)) return 0;    /* nobody saves that often: a damaged file */
        sequence = sequence * 10 + (*at - '0');
    }
    return sequence;
}
/* The sequence number that a commit file's first bytes show, 0 if they show none. Wrong bytes do no harm: whoever trusts the document reads
 * it whole. Bytes that cannot be read are an error: a checkpoint whose number is not known might be the newest. */
static dcp_status dcpi_document_peek_sequence(const dcpi_place *place, const char *key, int64_t *sequence, dcp_error *err) {
    char head[4096 + 1];
    dcp_object_info info;
    void *object;
    size_t i, size;
    dcp_status status = dcpi_storage_open_object(place->storage, key, &object, &info, err);
    *sequence = 0;
    if (dcpi_is_trouble(status)) return status;
    if (status) return dcpi_succeed(err);               /* vanished meanwhile, or no regular file: not a checkpoint */
    size = (size_t)dcpi_min(info.size, (int64_t)sizeof head - 1);
    status = dcpi_storage_read(place->storage, key, object, 0, head, size, err);
    dcpi_storage_close_object(place->storage, object);
    if (dcpi_is_trouble(status)) return status;
    for (i = 0; i < size && !status; i++) if (head[i] == '\0') head[i] = ' ';   /* the single file's head has numbers before the text */
    head[status ? 0 : size] = '\0';
    *sequence = dcpi_document_find_sequence(head);
    return dcpi_succeed(err);
}

/* ---- the index ----------------------------------------------------------------------------------------------------------------------- */
static const int64_t *dcpi_piece_whole(const dcp_tensor_metadata *meta) { return meta->placement ? meta->global_shape : meta->shape; }

static int dcpi_piece_is_whole(const dcp_tensor_metadata *meta) {
    return memcmp(meta->shape, dcpi_piece_whole(meta), sizeof meta->shape) == 0;
}
static int dcpi_piece_compare(const void *a_, const void *b_) {
    const dcpi_piece *a = (const dcpi_piece *)a_, *b = (const dcpi_piece *)b_;
    int order = strcmp(a->meta->name, b->meta->name), d;
    if (order) return order;
    for (d = 0; d < a->meta->ndim && d < b->meta->ndim; d++)
        if (a->meta->global_offset[d] != b->meta->global_offset[d]) return a->meta->global_offset[d] < b->meta->global_offset[d] ? -1 : 1;
    return a->shard < b->shard ? -1 : a->shard > b->shard;
}
static dcp_status dcpi_index_pieces(dcp_checkpoint *c, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    const dcpi_piece **order;
    dcpi_piece *unsorted;
    dcp_status status;
    size_t s, t, n = 0;
    for (s = 0; s < m->shard_count; s++) c->piece_count += m->shards[s].tensor_count;
    unsorted = (dcpi_piece *)dcpi_alloc_array(c->piece_count, sizeof *unsorted, err);
    order = unsorted ? (const dcpi_piece **)dcpi_alloc_array(c->piece_count, sizeof *order, err) : NULL;
    c->pieces = order ? (dcpi_piece *)dcpi_alloc_array(c->piece_count, sizeof *c->pieces, err) : NULL;
    if (!c->pieces) { dcpi_free(unsorted); dcpi_free((void *)order); return DCP_E_MEMORY; }
    for (s = 0; s < m->shard_count; s++) {
        for (t = 0; t < m->shards[s].tensor_count; t++, n++) {
            unsorted[n].meta = &m->shards[s].tensors[t];
            unsorted[n].shard = (int)s;
            order[n] = &unsorted[n];
        }
    }
    status = dcpi_sort((const void **)order, n, dcpi_piece_compare, err);
    for (n = 0; n < c->piece_count && !status; n++) c->pieces[n] = *order[n];
    dcpi_free((void *)order);
    dcpi_free(unsorted);
    return status;
}
static dcp_placement dcpi_stored_placement(const dcpi_stored *stored, const dcpi_piece *pieces) {
    const char *word = pieces[stored->first].meta->placement;
    /* a seed's document: every rank wrote its own */
    if (!word) return stored->info.piece_count == 1 ? DCP_PLACE_REPLICATED : DCP_PLACE_PRIVATE;
    if (strcmp(word, "sharded") == 0) return DCP_PLACE_SHARDED;
    return strcmp(word, "private") == 0 ? DCP_PLACE_PRIVATE : DCP_PLACE_REPLICATED;
}
static void dcpi_stored_fill(dcpi_stored *stored, const dcpi_piece *pieces) {
    const dcp_tensor_metadata *meta = pieces[stored->first].meta;
    dcp_tensor_info *info = &stored->info;
    int i;
    info->name = meta->name;
    info->dtype = dcp_dtype_parse(meta->data_type);
    info->dtype_name = meta->data_type;
    info->ndim = meta->ndim;
    info->placement = dcpi_stored_placement(stored, pieces);
    memcpy(info->shape, info->placement == DCP_PLACE_PRIVATE ? meta->shape : dcpi_piece_whole(meta), sizeof info->shape);
    if (info->dtype == DCP_OPAQUE) info->size = meta->size;
    else (void)dcpi_dtype_size(info->dtype, dcpi_box_elements(info->ndim, info->shape), &info->size);
    for (i = 0; i < info->piece_count; i++)
        stored->longest = dcpi_max(stored->longest, pieces[stored->first + (size_t)i].meta->ndim
                                   ? pieces[stored->first + (size_t)i].meta->shape[0] : 1);
}
static dcp_status dcpi_index_tensors(dcp_checkpoint *c, dcp_error *err) {
    size_t i, n = 0;
    for (i = 0; i < c->piece_count; i++) if (i == 0 || strcmp(c->pieces[i].meta->name, c->pieces[i - 1].meta->name) != 0) n++;
    c->tensors = (dcpi_stored *)dcpi_alloc_array(n, sizeof *c->tensors, err);
    if (!c->tensors) return DCP_E_MEMORY;
    for (i = 0; i < c->piece_count; i++) {
        if (i == 0 || strcmp(c->pieces[i].meta->name, c->pieces[i - 1].meta->name) != 0) c->tensors[c->tensor_count++].first = i;
        c->tensors[c->tensor_count - 1].info.piece_count++;
    }
    for (i = 0; i < c->tensor_count; i++) dcpi_stored_fill(&c->tensors[i], c->pieces);
    return DCP_OK;
}
/* All shards of a single file are read through the descriptor that its document came from: it never opens again, and never closes before the end. */
static dcp_status dcpi_index_files(dcp_checkpoint *c, const dcp_object_info *info, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    size_t s;
    c->files = (dcpi_data_file *)dcpi_alloc_array(m->shard_count, sizeof *c->files, err);
    if (!c->files) return DCP_E_MEMORY;
    c->file_count = m->shard_count;
    for (s = 0; s < m->shard_count; s++) {
        c->files[s].shard = &m->shards[s];
        c->files[s].object_size = m->shards[s].file_size;
        if (c->layout != DCP_LAYOUT_SINGLE) continue;
        c->files[s].object_size = info->size;
        c->files[s].info = *info;
        c->files[s].object = c->single;
        c->files[s].key = dcpi_place_key(&c->place, c->commit_name, err);
        if (!c->files[s].key) return DCP_E_MEMORY;
    }
    return DCP_OK;
}
static const dcpi_stored *dcpi_stored_find(const dcp_checkpoint *c, const char *name) {
    size_t low = 0, high = c->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(c->tensors[middle].info.name, name);
        if (order == 0) return &c->tensors[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* ---- data files: opened when first read, closed when many are open; a file in use or mapped stays open ------------------------------- */
static dcp_status dcpi_data_file_try(dcp_checkpoint *c, dcpi_data_file *f, char *key, dcp_error *err) {
    dcp_status status = key ? dcpi_storage_open_object(c->place.storage, key, &f->object, &f->info, err) : DCP_E_MEMORY;
    if (status) { dcpi_free(key); return status; }
    f->key = key;
    return DCP_OK;
}
/* Where a seed's document may have meant its file: beside the document, at the storage's base, under the standard name. */
static dcp_status dcpi_data_file_find(dcp_checkpoint *c, dcpi_data_file *f, dcp_error *err) {
    char name[DCP_LIMIT_PATH + 64];
    const char *given = f->shard->file_path;
    dcp_status status = dcpi_data_file_try(c, f, dcpi_place_key(&c->place, given, err), err);
    if (status != DCP_E_NOT_FOUND || !c->metadata->is_foreign) return status;
    status = dcpi_data_file_try(c, f, dcpi_copy_text(given, err), err);
    if (status != DCP_E_NOT_FOUND) return status;
    status = dcp_shard_name(c->prefix, f->shard->rank, NULL, name, sizeof name, err);
    return status ? status : dcpi_data_file_try(c, f, dcpi_place_key(&c->place, name, err), err);
}
static dcp_status dcpi_data_file_open(dcp_checkpoint *c, dcpi_data_file *f, dcp_error *err) {
    dcp_status status;
    if (f->key) status = dcpi_storage_open_object(c->place.storage, f->key, &f->object, &f->info, err);
    else status = dcpi_data_file_find(c, f, err);
    if (status == DCP_E_NOT_FOUND)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "%s names \"%s\" (shard %d), which is not there", c->path, f->shard->file_path,
                         f->shard->rank);
    if (status) { dcpi_fail_context(err, "shard %d: ", f->shard->rank); return status; }
    if (f->info.size == f->object_size) { c->open_files++; return DCP_OK; }
    dcpi_storage_close_object(c->place.storage, f->object);
    f->object = NULL;
    return dcpi_fail(err, DCP_E_INCOMPLETE, "\"%s\" (shard %d) has %" PRId64 " bytes, but %s says %" PRId64, f->shard->file_path,
                     f->shard->rank, f->info.size, c->path, f->object_size);
}
static void dcpi_data_file_close(dcp_checkpoint *c, dcpi_data_file *f) {
    dcpi_storage_close_object(c->place.storage, f->object);
    f->object = NULL;
    c->open_files--;
}
static void dcpi_data_files_trim(dcp_checkpoint *c) {                   /* under the lock */
    size_t s;
    for (s = 0; s < c->file_count && c->open_files > DCPI_OPEN_FILES; s++) {
        dcpi_data_file *f = &c->files[s];
        if (f->object && f->object != c->single && f->users == 0 && !f->is_mapped) dcpi_data_file_close(c, f);
    }
}
/* Any thread. The file stays open until the matching release. */
static dcp_status dcpi_data_file_acquire(dcp_checkpoint *c, int shard, dcpi_data_file **out, dcp_error *err) {
    dcpi_data_file *f = &c->files[shard];
    dcp_status status = DCP_OK;
    *out = NULL;
    if (c->layout == DCP_LAYOUT_SINGLE && f->shard->data_offset == 0)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "%s holds no data, only the description of shard %d: its data were stored elsewhere", c->path,
                         f->shard->rank);
    dcpi_mutex_lock(&c->lock);
    if (!f->object) {
        if (c->open_files >= DCPI_OPEN_FILES) dcpi_data_files_trim(c);
        status = dcpi_data_file_open(c, f, err);
        if (!status && f->checked_modified_ns != f->info.modified_ns) f->is_checked = 0;
    }
    if (!status) { f->users++; *out = f; }
    dcpi_mutex_unlock(&c->lock);
    return status;
}
static void dcpi_data_file_release(dcp_checkpoint *c, dcpi_data_file *f) {
    dcpi_mutex_lock(&c->lock);
    f->users--;
    dcpi_data_files_trim(c);
    dcpi_mutex_unlock(&c->lock);
}

/* ---- open --------------------------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_open_check(const dcp_open_desc *desc, dcp_error *err) {
    if (!desc || !desc->path || desc->path[0] == '\0') return dcpi_fail(err, DCP_E_INVALID, "open: path is not set");
    if ((int)desc->verify < 0 || desc->verify > DCP_VERIFY_NONE)
        return dcpi_fail(err, DCP_E_INVALID, "open: verify policy %d is none", (int)desc->verify);
    if (desc->verifier && desc->verify == DCP_VERIFY_NONE)
        return dcpi_fail(err, DCP_E_INVALID,
                         "open: a verifier together with DCP_VERIFY_NONE would trust unchecked bytes; use DCP_VERIFY_TOUCHED");
    if (desc->select)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "open: select works with the manifest layout, which version %s does not read",
                         DCP_VERSION);
    return DCP_OK;
}
static dcp_status dcpi_open_names(dcp_checkpoint *c, const char *commit_name, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(commit_name);
    size_t size = strlen(c->place.shown) + strlen(commit_name) + 1;
    if (!kind) return dcpi_fail(err, DCP_E_COMM, "open: \"%s\" is no name of a commit file", commit_name);
    c->layout = kind->layout;
    c->commit_name = dcpi_copy_text(commit_name, err);
    c->prefix = dcpi_text_range(commit_name, strlen(commit_name) - strlen(kind->suffix), err);
    c->path = (char *)dcpi_alloc(size, err);
    if (!c->commit_name || !c->prefix || !c->path) return DCP_E_MEMORY;
    (void)snprintf(c->path, size, "%s%s", c->place.shown, commit_name);
    return DCP_OK;
}
/* The commit file that the path means: itself, or the one that its prefix has. */
static dcp_status dcpi_open_find(dcp_checkpoint *c, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    const dcpi_place *place = &c->place;
    char *name;
    int count;
    dcp_status status;
    if (dcpi_commit_kind_of(place->name)) return dcpi_open_names(c, place->name, err);
    status = dcpi_commit_find(place, place->name, found, &count, err);
    if (status) return status;
    if (count == 0)
        return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint \"%s%s\" (no %s%s, no %s%s)", place->shown, place->name, place->name,
                         ".metadata.json", place->name, ".checkpoint");
    if (count > 1)
        return dcpi_fail(err, DCP_E_INVALID, "\"%s%s\" has two commit files, %s%s and %s%s; give the path of the one that is meant", place->shown,
                         place->name, place->name, found[0]->suffix, place->name, found[1]->suffix);
    name = dcpi_commit_name(place->name, found[0], err);
    status = name ? dcpi_open_names(c, name, err) : DCP_E_MEMORY;
    dcpi_free(name);
    return status;
}
static dcp_status dcpi_open_minimum_step(const dcp_checkpoint *c, const dcp_open_desc *desc, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    if (desc->minimum_step <= 0 || (m->has_training && m->training.step >= desc->minimum_step)) return DCP_OK;
    return dcpi_fail(err, desc->verifier ? DCP_E_SIGNATURE : DCP_E_MISMATCH,
                     "%s is of step %" PRId64 ", but minimum_step is %" PRId64 ": an older checkpoint stands in for a newer one?",
                     c->path, m->has_training ? m->training.step : (int64_t)-1, desc->minimum_step);
}
/* What rank 0 found, for the others: layout, size and time of the commit file (8 bytes each), the digest of the document (32), the commit file's
 * name with its NUL, and, unless it is a single file, which every rank has to open anyway, the document. */
#define DCPI_OPEN_HEAD (8 + 8 + 8 + 32)
typedef struct dcpi_opening { dcp_checkpoint *checkpoint; const dcp_open_desc *desc; dcpi_document document; } dcpi_opening;

static dcp_status dcpi_open_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_opening *o = (const dcpi_opening *)user;
    uint8_t head[DCPI_OPEN_HEAD];
    (void)rank; (void)err;
    dcpi_store64(head, (uint64_t)o->checkpoint->layout);
    dcpi_store64(head + 8, (uint64_t)o->document.info.size);
    dcpi_store64(head + 16, (uint64_t)o->document.info.modified_ns);
    memcpy(head + 24, o->document.digest, 32);
    dcpi_buffer_add(message, head, sizeof head);
    dcpi_buffer_add(message, o->checkpoint->commit_name, strlen(o->checkpoint->commit_name) + 1);
    if (o->document.text) dcpi_buffer_add(message, o->document.text, o->document.size);
    return DCP_OK;
}
static dcp_status dcpi_open_read(dcpi_opening *o, const dcp_open_desc *desc, dcp_error *err) {
    dcp_checkpoint *c = o->checkpoint;
    return dcpi_document_read_from(&c->op, &c->place, c->commit_name, desc->verifier, &o->document,
                                   c->layout == DCP_LAYOUT_SINGLE ? &c->single : NULL, err);
}
static dcp_status dcpi_open_take(dcpi_opening *o, const dcp_open_desc *desc, dcp_error *err) {
    dcp_checkpoint *c = o->checkpoint;
    const dcpi_peer *lead = c->op.team.peers;
    const uint8_t *head = lead->message + DCPI_TEAM_HEADER, *end = lead->message + lead->size, *nul;
    dcp_status status;
    nul = lead->size > DCPI_TEAM_HEADER + DCPI_OPEN_HEAD
        ? (const uint8_t *)memchr(head + DCPI_OPEN_HEAD, 0, (size_t)(end - head) - DCPI_OPEN_HEAD) : NULL;
    if (!nul) return dcpi_fail(err, DCP_E_COMM, "open: rank 0 sent a message of another version of dcp.h");
    status = dcpi_open_names(c, (const char *)head + DCPI_OPEN_HEAD, err);
    if (status) return status;
    if (c->layout == DCP_LAYOUT_SINGLE) status = dcpi_open_read(o, desc, err);
    else {
        o->document.info.size = (int64_t)dcpi_load64(head + 8);
        o->document.info.modified_ns = (int64_t)dcpi_load64(head + 16);
        memcpy(o->document.digest, head + 24, 32);
        status = dcpi_meta_parse((const char *)nul + 1, (size_t)(end - nul - 1), "metadata/json", desc->verifier, &o->document.metadata, err);
    }
    if (!status && memcmp(o->document.digest, head + 24, 32) != 0)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s was replaced while it was opened", c->path);
    return status;
}
static dcp_status dcpi_open_index(dcp_checkpoint *c, const dcp_open_desc *desc, dcpi_document *document, dcp_error *err) {
    dcp_status status;
    c->metadata = document->metadata;
    document->metadata = NULL;
    memcpy(c->digest, document->digest, sizeof c->digest);
    status = dcpi_open_minimum_step(c, desc, err);
    if (!status) status = dcpi_index_files(c, &document->info, err);
    if (!status) status = dcpi_index_pieces(c, err);
    return status ? status : dcpi_index_tensors(c, err);
}
static dcp_status dcpi_open_place(dcp_checkpoint *c, const dcp_open_desc *desc, dcp_error *err) {
    dcp_status status = dcpi_place_open(&c->place, desc->io.storage, desc->path, 0, err);
    if (status == DCP_E_NOT_FOUND)
        status = dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint \"%s\": its directory is not there", desc->path);
    return status;
}
static void dcpi_open_digest(const dcp_open_desc *desc, uint8_t digest[32]) {
    dcpi_sha sha;
    uint8_t options[3];
    options[0] = (uint8_t)desc->verify;
    options[1] = desc->verifier != NULL;
    options[2] = desc->share_reads != 0;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, "open", 4);
    dcpi_sha_update(&sha, options, sizeof options);
    dcpi_sha_update(&sha, desc->path, strlen(desc->path));
    dcpi_sha_final(&sha, digest);
}
static dcp_status dcpi_open_lead(void *opening, dcp_error *err) {
    dcpi_opening *o = (dcpi_opening *)opening;
    dcp_status status = dcpi_open_place(o->checkpoint, o->desc, err);
    if (!status) status = dcpi_open_find(o->checkpoint, err);
    return status ? status : dcpi_open_read(o, o->desc, err);
}
/* One document for all ranks: rank 0 finds and reads it, the others get it. */
static dcp_status dcpi_open_together(dcp_checkpoint *c, const dcp_open_desc *desc, dcp_status status, dcp_error *err) {
    dcpi_team *t = &c->op.team;
    dcpi_opening opening;
    dcpi_buffer message;
    uint8_t digest[32] = {0};
    memset(&opening, 0, sizeof opening);
    memset(&message, 0, sizeof message);
    opening.checkpoint = c;
    opening.desc = desc;
    if (!status) dcpi_open_digest(desc, digest);
    dcpi_team_message_start(&message);
    dcpi_buffer_add(&message, digest, sizeof digest);
    status = dcpi_team_up(&c->op, status, &message, err);
    dcpi_buffer_free(&message);
    dcpi_op_phase(&c->op, DCP_PHASE_OPEN, 0);
    if (!status && t->rank == 0) {
        status = dcpi_agree_compare(t, digest, sizeof digest, "path and verification of a load must be equal", err);
        if (!status) status = dcpi_op_errand(&c->op, dcpi_open_lead, &opening, err);
        if (t->world_size == 1) { dcpi_free(opening.document.text); opening.document.text = NULL; }
    }
    status = dcpi_team_down(&c->op, status, dcpi_open_make, &opening, DCPI_DOWN_SAME, err);
    if (!status && t->rank != 0) {
        status = dcpi_open_place(c, desc, err);
        if (!status) status = dcpi_open_take(&opening, desc, err);
    }
    if (!status) status = dcpi_open_index(c, desc, &opening.document, err);
    dcpi_document_free(&opening.document);
    return status;
}
/* Phase 1 of DESIGN 5, short of DCP_VERIFY_ALL. No tensor byte is read and no data file opened. The verdict is the caller's to bring about, with
 * dcpi_load_verdict; *out is set even after a failure then, if there was memory for it. */
static dcp_status dcpi_open_phase(const dcp_open_desc *desc, dcp_checkpoint **out, dcp_error *err) {
    dcp_error team;
    dcpi_op op;
    dcp_status status = dcpi_op_begin(&op, &desc->io, err), joined = dcpi_team_begin(&op, "open", &team);
    dcp_checkpoint *c = (dcp_checkpoint *)dcpi_alloc_array(1, sizeof *c, &team);
    *out = c;
    if (!status && joined) *err = team;
    if (!status) status = joined;
    if (!status) status = dcpi_open_check(desc, err);
    if (!c) {
        if (!status) { *err = team; status = team.status; }
        (void)dcpi_team_verdict(&op, status, err);
        dcpi_team_end(&op);
        return status;
    }
    c->op = op;
    if (c->op.team.peers == &op.team.lead) c->op.team.peers = &c->op.team.lead;
    c->verify = desc->verify;
    c->share_reads = desc->share_reads;
    if (!status && dcpi_mutex_init(&c->lock)) status = dcpi_no_memory(err, sizeof c->lock);
    else if (!status) c->has_lock = 1;
    if (!status) status = dcpi_op_check(&c->op, err);
    return dcpi_open_together(c, desc, status, err);
}
DCPDEF void dcp_close(dcp_checkpoint *checkpoint) {
    dcp_checkpoint *c = checkpoint;
    size_t s;
    if (!c) return;
    for (s = 0; s < c->file_count; s++) {
        if (c->files[s].object && c->files[s].object != c->single) dcpi_data_file_close(c, &c->files[s]);
        dcpi_free(c->files[s].key);
    }
    dcpi_storage_close_object(c->place.storage, c->single);
    while (c->copies) {
        dcpi_copy *next = c->copies->next;
        dcpi_free(c->copies->data);
        dcpi_free(c->copies);
        c->copies = next;
    }
    dcpi_free(c->files);
    dcpi_free(c->pieces);
    dcpi_free(c->tensors);
    dcp_metadata_free(c->metadata);
    dcpi_free(c->commit_name);
    dcpi_free(c->path);
    dcpi_free(c->prefix);
    dcpi_place_close(&c->place);
    if (c->has_lock) dcpi_mutex_destroy(&c->lock);
    dcpi_free(c);
}
DCPDEF size_t dcp_tensor_count(const dcp_checkpoint *checkpoint) { return checkpoint->tensor_count; }
DCPDEF const dcp_tensor_info *dcp_tensor_at(const dcp_checkpoint *checkpoint, size_t index) {
    return index < checkpoint->tensor_count ? &checkpoint->tensors[index].info : NULL;
}
DCPDEF const dcp_tensor_info *dcp_tensor_find(const dcp_checkpoint *checkpoint, const char *name) {
    const dcpi_stored *stored = dcpi_stored_find(checkpoint, name);
    return stored ? &stored->info : NULL;
}
DCPDEF const dcp_metadata *dcp_metadata_of(const dcp_checkpoint *checkpoint) { return checkpoint->metadata; }
DCPDEF const dcp_training *dcp_training_of(const dcp_checkpoint *checkpoint) {
    return checkpoint->metadata->has_training ? &checkpoint->metadata->training : NULL;
}
DCPDEF const char *dcp_path_of(const dcp_checkpoint *checkpoint) { return checkpoint->path; }
DCPDEF dcp_layout dcp_layout_of(const dcp_checkpoint *checkpoint) { return checkpoint->layout; }


/* ---- references: which data files the commit files of a directory name. Nothing that one of them names is ever removed (G2). --------- */
typedef struct dcpi_names { char **items; size_t count, capacity; } dcpi_names;

static dcp_status dcpi_names_add(dcpi_names *names, const char *name, dcp_error *err) {
    void *items = names->items;
    char *copy;
    if (!dcpi_grow(&items, &names->capacity, names->count + 1, sizeof *names->items, err)) return DCP_E_MEMORY;
    names->items = (char **)items;
    copy = dcpi_copy_text(name, err);
    if (!copy) return DCP_E_MEMORY;
    names->items[names->count++] = copy;
    return DCP_OK;
}
static void dcpi_names_free(dcpi_names *names) {
    size_t i;
    for (i = 0; i < names->count; i++) dcpi_free(names->items[i]);
    dcpi_free(names->items);
    memset(names, 0, sizeof *names);
}
static int dcpi_names_compare(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }
static dcp_status dcpi_names_sort(dcpi_names *names, dcp_error *err) {
    return dcpi_sort((const void **)(void *)names->items, names->count, dcpi_names_compare, err);
}
static int dcpi_names_has(const dcpi_names *names, const char *name) {  /* sorted */
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names->items[middle], name);
        if (order == 0) return 1;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return 0;
}

typedef struct dcpi_names_walk { const dcpi_place *place; dcpi_names *names; int commits_only; dcp_error *err; } dcpi_names_walk;
static dcp_status dcpi_names_walk_one(void *user, const char *key, const dcp_object_info *info) {
    dcpi_names_walk *walk = (dcpi_names_walk *)user;
    const char *name = dcpi_place_name(walk->place, key);
    (void)info;
    if (walk->commits_only && !dcpi_commit_kind_of(name)) return DCP_OK;
    return dcpi_names_add(walk->names, name, walk->err);
}
/* The names in a directory, sorted: all, or those of commit files. */
static dcp_status dcpi_names_list(const dcpi_place *place, int commits_only, dcpi_names *names, dcp_error *err) {
    dcpi_names_walk walk;
    dcp_status status;
    memset(names, 0, sizeof *names);
    walk.place = place;
    walk.names = names;
    walk.commits_only = commits_only;
    walk.err = err;
    status = dcpi_storage_list(place->storage, place->directory, dcpi_names_walk_one, &walk, err);
    if (!status) status = dcpi_names_sort(names, err);
    if (status) dcpi_names_free(names);
    return status;
}
/* What all commit files of the directory but `going` (sorted; NULL: none) name, sorted. *unread counts those that could not be read and
 * verified: what they name is not known. */
static dcp_status dcpi_refs_collect(dcpi_op *op, const dcpi_place *place, const dcpi_names *going, const dcp_verifier *verifier,
                                    dcpi_names *refs, int *unread,
                                    dcp_error *err) {
    dcpi_names commits;
    dcp_status status = dcpi_names_list(place, 1, &commits, err);
    size_t i, s;
    memset(refs, 0, sizeof *refs);
    *unread = 0;
    for (i = 0; i < commits.count && !status; i++) {
        dcpi_document document;
        if (going && dcpi_names_has(going, commits.items[i])) continue;
        status = dcpi_document_read(op, place, commits.items[i], verifier, &document, err);
        if (dcpi_is_trouble(status) && status != DCP_E_IO) break;
        if (status) {
            if (status != DCP_E_NOT_FOUND) {            /* removed meanwhile: names nothing any more */
                ++*unread;
                dcpi_op_log(op, DCP_LOG_WARNING, "cannot tell which files %s names: %s", commits.items[i], err->message);
            }
            status = dcpi_succeed(err);
            continue;
        }
        for (s = 0; s < document.metadata->shard_count && !status; s++)
            status = dcpi_names_add(refs, document.metadata->shards[s].file_path, err);
        dcpi_document_free(&document);
    }
    dcpi_names_free(&commits);
    if (!status) status = dcpi_names_sort(refs, err);
    if (status) dcpi_names_free(refs);
    return status;
}
/* After an overwrite: removes the data files of the displaced document (`data`) that no other document names. The new one, `own`, names only files
 * of its own. Failures leave them to sweep. */
static void dcpi_refs_remove_displaced(dcpi_op *op, const dcpi_place *place, char *own, const dcpi_names *data) {
    dcpi_names refs, known;
    dcp_error err;
    int unread;
    size_t i;
    dcp_status status;
    known.items = &own;
    known.count = known.capacity = 1;
    status = dcpi_refs_collect(op, place, &known, NULL, &refs, &unread, &err);
    for (i = 0; i < data->count && !status && !unread; i++) {
        const char *name = data->items[i];
        char *key = dcpi_names_has(&refs, name) ? NULL : dcpi_place_key(place, name, &err);
        if (key && dcpi_storage_remove(place->storage, key, &err))
            dcpi_op_log(op, DCP_LOG_WARNING, "left %s for sweep: %s", name, err.message);
        dcpi_free(key);
    }
    if (status) dcpi_op_log(op, DCP_LOG_WARNING, "the replaced checkpoint's files are left for sweep: %s", err.message);
    else dcpi_names_free(&refs);
}

/* ================================================================================================================================
 * >>stream      The tensors of one rank as one file: filled into aligned buffers, and each buffer hashed and written at the same time.
 *
 *   calling thread    fill: copies the caller's bytes, in file order, into the next free buffer (so what is hashed is what is written, not
 *                     the caller's memory at another moment); looks at cancel and deadline, reports progress
 *   workers           write a filled buffer to the storage, or hash its leaves; whichever is free
 *
 * A buffer ends where a leaf ends, so that leaves are hashed independently, in any order, many at once. Writes must end at a multiple of
 * 4,096 for direct I/O: the few bytes behind that go, out of the buffer (never again from the caller), to the start of the next one.
 * ============================================================================================================================== */
#define DCPI_STREAM_BUFFERS 4
#define DCPI_STREAM_LEAVES 1024                         /* leaves in one buffer, at most: small tensors fill it before its bytes do */

typedef struct dcpi_stream_part {                       /* one tensor of the file */
    const dcp_tensor *tensor; int64_t offset, size;     /* bytes; offset in the file; sorted, no overlap */
    uint8_t (*digests)[32];                             /* out: one for each block */
} dcpi_stream_part;

typedef struct dcpi_stream_buffer {
    uint8_t *data;
    int64_t start;                                      /* of data[0] in the file, a multiple of 4,096 */
    /* data[fresh..used) are new bytes, the rest is carried; data[0..to_write) is written from here */
    size_t fresh, used, to_write;
    dcpi_sha_job *jobs; uint8_t (*leaves)[32]; size_t leaf_count;
    int written, hashed;
} dcpi_stream_buffer;

typedef struct dcpi_stream {
    /* the owner's order */
    dcpi_op *op;
    dcp_storage *storage; void *object; const char *key;
    const dcpi_stream_part *parts; size_t part_count;
    int64_t start, end, block_size;                     /* bytes [start, end) of the file; start a multiple of 4,096 */
    int is_flat; uint8_t flat_digest[32];               /* out, if is_flat: SHA-256 of those bytes; there are no leaves then */
    int is_serial;                                      /* the calling thread does it all, in order */
    void (*taken)(void *user, int64_t filled_to); void *taken_user;     /* NULL, or told how far the tensors have been read */
    /* calling thread */
    uint8_t *memory; size_t memory_size, capacity; int is_pages, buffer_count;
    size_t part; int64_t in_part, filled_to;            /* where fill goes on */
    size_t carried; uint8_t carry[DCPI_OS_DIRECT_ALIGN];
    dcpi_stream_buffer buffers[DCPI_STREAM_BUFFERS];
    /* shared, under crew.lock; buffer number n lives in buffers[n % buffer_count] */
    dcpi_crew crew;
    int64_t filled, next_write, next_hash, folded;      /* buffers so far; `folded` are hashed and their digests in place */
    int writers, writers_limit, all_filled;
    int64_t bytes_written;
    /* fold: leaves into blocks, strictly in order, under crew.lock */
    size_t fold_part; int64_t fold_at; dcpi_sha fold_sha, flat_sha;
} dcpi_stream;

/* ---- memory: buffers within the budget ----------------------------------------------------------------------------------------------- */
static dcp_status dcpi_stream_allocate(dcpi_stream *t, dcp_error *err) {
    const size_t leaf_memory = DCPI_STREAM_LEAVES * (sizeof(dcpi_sha_job) + 32), align = DCPI_OS_DIRECT_ALIGN;
    size_t each, budget = t->op->io.memory_budget, i;
    int64_t wanted = dcpi_max(t->end - t->start, 1);
    t->buffer_count = DCPI_STREAM_BUFFERS;
    if (budget / (size_t)t->buffer_count < (size_t)DCPI_LEAF + 2 * align + leaf_memory) t->buffer_count = 2;
    t->capacity = (budget / (size_t)t->buffer_count - leaf_memory - 2 * align) / (size_t)DCPI_LEAF * (size_t)DCPI_LEAF;
    t->capacity = (size_t)dcpi_min((int64_t)t->capacity, dcpi_min(DCPI_CHUNK, (wanted + DCPI_LEAF - 1) / DCPI_LEAF * DCPI_LEAF));
    if ((int64_t)t->capacity >= wanted) t->buffer_count = 1;
    t->capacity += align;                               /* room for what is carried */
    each = t->capacity + leaf_memory + (align - leaf_memory % align) % align;
    t->memory_size = each * (size_t)t->buffer_count + align;
    t->memory = (uint8_t *)dcpi_os_pages(t->memory_size);
    t->is_pages = t->memory != NULL;
    if (!t->memory) t->memory = (uint8_t *)dcpi_alloc(t->memory_size, err);
    if (!t->memory) return DCP_E_MEMORY;
    for (i = 0; i < (size_t)t->buffer_count; i++) {
        uint8_t *at = t->memory + i * each + (align - (size_t)((uintptr_t)t->memory % align)) % align;
        t->buffers[i].data = at;
        t->buffers[i].jobs = (dcpi_sha_job *)(void *)(at + t->capacity);
        t->buffers[i].leaves = (uint8_t (*)[32])(void *)(at + t->capacity + DCPI_STREAM_LEAVES * sizeof(dcpi_sha_job));
    }
    return DCP_OK;
}
static void dcpi_stream_free(dcpi_stream *t) {
    if (t->is_pages) dcpi_os_pages_free(t->memory, t->memory_size);
    else dcpi_free(t->memory);
    t->memory = NULL;
}

/* ---- fill ---------------------------------------------------------------------------------------------------------------------------- */
/* Bytes [from, from + size) of the tensor's piece, row-major, little-endian. */
static dcp_status dcpi_tensor_fetch(const dcp_tensor *tensor, int64_t from, uint8_t *to, size_t size, dcp_error *err) {
    const int64_t origin[DCP_MAX_DIMS] = {0};
    int64_t stride[DCP_MAX_DIMS];
    dcpi_walk walk;
    if (tensor->device) {
        uint64_t ticket = 0;
        dcp_status status = tensor->device->copy_out(tensor->device->context, to, tensor, from, size, &ticket, err);
        if (!status) status = tensor->device->wait(tensor->device->context, ticket, err);
        if (status) return dcpi_storage_result(status, "copy from its device the tensor", tensor->name, err);
    } else {
        dcpi_effective_stride(tensor, stride);
        (void)dcpi_walk_make(&walk, tensor->ndim, dcp_dtype_bits(tensor->dtype), tensor->shape, tensor->shape, origin, origin, stride);
        dcpi_walk_copy(&walk, from, from + (int64_t)size, to, (uint8_t *)tensor->data, 0);
    }
    dcpi_swap_bytes(to, (int64_t)size, dcpi_dtype_width(tensor->dtype));
    return DCP_OK;
}
static void dcpi_stream_add_leaves(dcpi_stream_buffer *b, size_t size) {
    size_t at;
    for (at = 0; at < size; at += (size_t)DCPI_LEAF) {
        dcpi_sha_job *job = &b->jobs[b->leaf_count];
        job->data = b->data + b->used + at;
        job->size = (size_t)dcpi_min((int64_t)(size - at), DCPI_LEAF);
        job->digest = b->leaves[b->leaf_count++];
    }
}
/* As much of the current tensor as the buffer holds, in whole leaves; 0 bytes when it is full. */
static dcp_status dcpi_stream_fill_part(dcpi_stream *t, dcpi_stream_buffer *b, size_t *added, dcp_error *err) {
    const dcpi_stream_part *part = &t->parts[t->part];
    int64_t left = part->size - t->in_part, room = (int64_t)(t->capacity - b->used);
    int64_t leaves = dcpi_min(room / DCPI_LEAF, (int64_t)(DCPI_STREAM_LEAVES - b->leaf_count));
    int64_t size = left <= room && (left + DCPI_LEAF - 1) / DCPI_LEAF <= (int64_t)(DCPI_STREAM_LEAVES - b->leaf_count) ? left
            : leaves * DCPI_LEAF;
    dcp_status status;
    *added = 0;
    if (size == 0) return DCP_OK;
    if (size > left) size = left;
    status = dcpi_tensor_fetch(part->tensor, t->in_part, b->data + b->used, (size_t)size, err);
    if (status) return status;
    dcpi_stream_add_leaves(b, (size_t)size);
    b->used += (size_t)size;
    t->in_part += size;
    *added = (size_t)size;
    return DCP_OK;
}
static void dcpi_stream_fill_gap(dcpi_stream *t, dcpi_stream_buffer *b, int64_t until) {
    size_t n = (size_t)dcpi_min(until - (b->start + (int64_t)b->used), (int64_t)(t->capacity - b->used));
    memset(b->data + b->used, 0, n);
    b->used += n;
}
/* The next buffer of the file: what the last one carried over, then tensors and gaps until it is full or the file ends. */
static dcp_status dcpi_stream_fill(dcpi_stream *t, dcpi_stream_buffer *b, int *last, dcp_error *err) {
    size_t added = 1;
    b->start = t->filled_to - (int64_t)t->carried;
    memcpy(b->data, t->carry, t->carried);
    b->fresh = b->used = t->carried;
    b->leaf_count = 0;
    b->written = b->hashed = 0;
    while (t->part < t->part_count && added > 0) {
        const dcpi_stream_part *part = &t->parts[t->part];
        dcp_status status;
        if (part->size == 0) { t->part++; continue; }
        if (t->in_part == 0) dcpi_stream_fill_gap(t, b, part->offset);
        if (t->in_part == 0 && b->start + (int64_t)b->used < part->offset) break;
        status = dcpi_stream_fill_part(t, b, &added, err);
        if (status) return status;
        if (t->in_part == part->size) { t->part++; t->in_part = 0; }
    }
    *last = t->part == t->part_count;
    t->filled_to = b->start + (int64_t)b->used;
    t->carried = *last ? 0 : b->used % DCPI_OS_DIRECT_ALIGN;
    b->to_write = b->used - t->carried;
    memcpy(t->carry, b->data + b->to_write, t->carried);
    return DCP_OK;
}

/* ---- hash and write ------------------------------------------------------------------------------------------------------------------ */
/* One leaf digest more: the block's own digest if it is the only leaf, else one string of the block's hash. */
static void dcpi_stream_fold_leaf(dcpi_stream *t, const uint8_t *leaf) {
    const dcpi_stream_part *part;
    int64_t block, begin, end;
    while (t->parts[t->fold_part].size == t->fold_at) { t->fold_part++; t->fold_at = 0; }       /* also past empty tensors */
    part = &t->parts[t->fold_part];
    block = t->fold_at / t->block_size;
    begin = block * t->block_size;
    end = dcpi_min(begin + t->block_size, part->size);
    if (end - begin <= DCPI_LEAF) {
        memcpy(part->digests[block], leaf, 32);
        t->fold_at = end;
        return;
    }
    if (t->fold_at == begin) dcpi_sha_init(&t->fold_sha);
    dcpi_sha_update(&t->fold_sha, leaf, 32);
    t->fold_at = dcpi_min(t->fold_at + DCPI_LEAF, end);
    if (t->fold_at == end) dcpi_sha_final(&t->fold_sha, part->digests[block]);
}
static void dcpi_stream_hash(dcpi_stream *t, dcpi_stream_buffer *b) {
    if (t->is_flat) dcpi_sha_update(&t->flat_sha, b->data + b->fresh, b->used - b->fresh);
    else dcpi_sha_many(b->jobs, b->leaf_count);
}
static void dcpi_stream_hashed(dcpi_stream *t, dcpi_stream_buffer *b) {  /* under the lock */
    size_t i;
    b->hashed = 1;
    while (t->folded < t->next_hash) {
        dcpi_stream_buffer *next = &t->buffers[t->folded % t->buffer_count];
        if (!next->hashed) break;
        for (i = 0; i < next->leaf_count && !t->is_flat; i++) dcpi_stream_fold_leaf(t, next->leaves[i]);
        next->hashed = 2;                               /* folded: of no use to anybody any more */
        t->folded++;
    }
}
static dcp_status dcpi_stream_write(dcpi_stream *t, dcpi_stream_buffer *b, dcp_error *err) {
    if (b->to_write == 0) return DCP_OK;
    return dcpi_storage_write(t->storage, t->key, t->object, b->start, b->data, b->to_write, err);
}
static int dcpi_stream_is_free(const dcpi_stream *t, int64_t number) {   /* under the lock: may buffer `number` be filled? */
    const dcpi_stream_buffer *b = &t->buffers[number % t->buffer_count];
    return number < t->buffer_count || (b->written && b->hashed == 2);
}

/* Takes the next thing to do and does it; 0 when there is nothing just now. Called and returns under the lock. */
static int dcpi_stream_work(dcpi_stream *t) {
    dcpi_stream_buffer *b;
    dcp_error error;
    dcp_status status;
    if (t->next_write < t->filled && t->writers < t->writers_limit) {
        b = &t->buffers[t->next_write++ % t->buffer_count];
        t->writers++;
        dcpi_mutex_unlock(&t->crew.lock);
        status = dcpi_stream_write(t, b, &error);
        dcpi_mutex_lock(&t->crew.lock);
        t->writers--;
        b->written = 1;
        if (status) dcpi_crew_fail(&t->crew, &error);
        else t->bytes_written += (int64_t)b->to_write;
    } else if (t->next_hash < t->filled && !(t->is_flat && t->folded < t->next_hash)) {
        b = &t->buffers[t->next_hash++ % t->buffer_count];
        dcpi_mutex_unlock(&t->crew.lock);
        dcpi_stream_hash(t, b);
        dcpi_mutex_lock(&t->crew.lock);
        dcpi_stream_hashed(t, b);
    } else {
        return 0;
    }
    dcpi_cond_wake_all(&t->crew.changed);
    return 1;
}
static void dcpi_stream_worker(void *argument) {
    dcpi_stream *t = (dcpi_stream *)argument;
    dcpi_mutex_lock(&t->crew.lock);
    while (!t->crew.stop && !(t->all_filled && t->next_write == t->filled && t->next_hash == t->filled))
        if (!dcpi_stream_work(t)) dcpi_cond_wait_ms(&t->crew.changed, &t->crew.lock, 1000);
    dcpi_crew_leave(&t->crew);
    dcpi_mutex_unlock(&t->crew.lock);
}

/* ---- driver -------------------------------------------------------------------------------------------------------------------------- */
/* Under the lock: waits, or works where there are no workers, until buffer `number` is free (number < 0: until all is done) or something
 * failed. */
static void dcpi_stream_await(dcpi_stream *t, int64_t number) {
    dcp_error error;
    while (!t->crew.stop) {
        int64_t written = t->bytes_written;
        int ready = number >= 0 ? dcpi_stream_is_free(t, number) : t->folded == t->filled && t->next_write == t->filled && t->writers == 0;
        dcp_status status;
        dcpi_mutex_unlock(&t->crew.lock);
        dcpi_op_report(t->op, written, 0);
        status = dcpi_op_check(t->op, &error);
        dcpi_mutex_lock(&t->crew.lock);
        if (status) dcpi_crew_fail(&t->crew, &error);
        else if (ready) return;
        else if (t->crew.count > 0) dcpi_cond_wait_ms(&t->crew.changed, &t->crew.lock, 100);
        else (void)dcpi_stream_work(t);
    }
}
static void dcpi_stream_produce(dcpi_stream *t) {
    dcp_error error;
    int64_t number;
    int last = t->start == t->end;
    dcpi_mutex_lock(&t->crew.lock);
    for (number = 0; !last; number++) {
        dcp_status status;
        dcpi_stream_await(t, number);
        if (t->crew.stop) break;
        dcpi_mutex_unlock(&t->crew.lock);
        status = dcpi_stream_fill(t, &t->buffers[number % t->buffer_count], &last, &error);
        if (!status && t->taken) t->taken(t->taken_user, t->filled_to);
        dcpi_mutex_lock(&t->crew.lock);
        if (status) dcpi_crew_fail(&t->crew, &error);
        else t->filled++;
        dcpi_cond_wake_all(&t->crew.changed);
    }
    t->all_filled = 1;
    dcpi_cond_wake_all(&t->crew.changed);
    dcpi_stream_await(t, -1);
    while (t->crew.running > 0) dcpi_cond_wait_ms(&t->crew.changed, &t->crew.lock, 1000);
    dcpi_mutex_unlock(&t->crew.lock);
}
/* Writes the parts to the open object and fills in their digests. The object is neither committed nor aborted here. */
static dcp_status dcpi_stream_run(dcpi_stream *t, dcp_error *err) {
    int workers = dcpi_op_threads(t->op, 3);
    dcp_status status = dcpi_stream_allocate(t, err);
    if (!status) status = dcpi_crew_open(&t->crew, err);
    if (status) { dcpi_stream_free(t); return status; }
    t->filled_to = t->start;
    t->writers_limit = (t->storage->flags & DCP_STORAGE_CONCURRENT_WRITE) && (t->storage->flags & DCP_STORAGE_RANDOM_WRITE) ? 2 : 1;
    dcpi_sha_init(&t->flat_sha);
    /* with other ranks waiting, a single slow write must not keep the calling thread from showing life */
    if (t->is_serial || (t->buffer_count == 1 && t->op->team.world_size == 1)) workers = 0;
    dcpi_crew_start(&t->crew, workers, dcpi_stream_worker, t);
    dcpi_stream_produce(t);
    status = dcpi_crew_close(&t->crew, err);
    dcpi_sha_final(&t->flat_sha, t->flat_digest);
    dcpi_stream_free(t);
    return status;
}

/* ================================================================================================================================
 * >>save        How a checkpoint comes to be (DESIGN 4). The stages, in the order in which they run; rank 0 alone does what is marked 0:
 *
 *   check      the caller's arguments, alone                                  nothing outside this process is touched
 *                  up: what is to be saved where, the same on all ranks
 *   prepare  0 save id, directory, what is there already, the names
 *                  down: what was decided
 *   list       this rank's tensors, in a compact form
 *                  up: the lists
 *   plan     0 who writes which piece, where; overlaps, holes and disagreements are found
 *                  down: each rank's part
 *   meet       the single file: who can write into it, and who sends its bytes to rank 0
 *   write      bytes to a temporary file, hashed as they pass; published      G2, G3
 *                  up: the shard is there, with these digests                 from here on a rank waits for the verdict (G5)
 *   commit   0 the document; the one rename that makes the checkpoint exist   G1
 *                  down: the verdict
 *   finish     what failed removes what it made; what an overwrite displaced goes       G9
 * ============================================================================================================================== */
typedef struct dcpi_save dcpi_save;
static dcp_status dcpi_save_check(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_agree(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_save_prepare(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_list(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_plan(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_save_meet(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_write(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_commit(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_save_finish(dcpi_save *s, dcp_status verdict);

typedef struct dcpi_placed {                            /* one tensor that this rank writes */
    const dcp_tensor *tensor;
    int64_t offset, size;                               /* bytes; the offset from the first byte of the shard or region */
    size_t first_block;                                 /* in dcpi_save.digests */
} dcpi_placed;
typedef struct dcpi_entry {                             /* rank 0: one piece of the checkpoint */
    const uint8_t *record;                              /* in the list of the rank that has it */
    int64_t offset, size;                               /* as in dcpi_placed */
    size_t first_block;
    int rank, is_written;                               /* replicas are written by one rank */
} dcpi_entry;
typedef struct dcpi_part {                              /* rank 0: one rank's share */
    uint8_t *list; size_t list_size;                    /* its message, owned */
    size_t first, count;                                /* its pieces in dcpi_save.entries; once planned, those that it writes */
    int64_t file_size, data_offset;                     /* data_offset: of its region in the single file, else 0 */
    size_t block_total;
    uint8_t *done; const uint8_t *digests;              /* its message when it had written, owned; the digests in it */
    char checksum[80];
    int is_plain;                                       /* its file has the name without the save id */
    uint32_t way;                                       /* DCPI_REGION_: how its region gets into the single file */
} dcpi_part;

struct dcpi_save {
    const dcp_save_desc *desc;
    /* >>async, or NULL: another thing that cancels; who is told how far the tensors have been read, and asked whether they can be once more */
    const dcp_cancel *cancel_too;
    void *watcher; void (*taken)(void *watcher, int64_t filled_to); int (*again)(void *watcher);
    dcpi_op op;
    dcp_save_report report;
    /* prepare: decided once, for all ranks */
    dcpi_place place;
    const struct dcpi_commit_kind *kind;
    char *commit_name, *commit_key;
    int plain_names;                                    /* shards may have names without the save id */
    int displaces;                                      /* overwrite: a commit file was there in prepare */
    uint8_t displaced_digest[32]; dcpi_names displaced; /* its document's digest, and the data files that it names */
    int64_t alignment;
    /* list */
    dcpi_buffer list;
    /* plan: rank 0 */
    dcpi_part *parts;
    dcpi_entry *entries; size_t entry_count;
    int64_t json_size;                                  /* of the single file's document */
    /* plan: each rank */
    dcpi_placed *placed; size_t placed_count;           /* sorted by offset */
    int64_t block_size, file_size, data_offset;
    int64_t region_end;                                 /* of the single file: where the next rank's region starts */
    uint8_t (*digests)[32]; size_t block_total;
    /* write */
    char *shard_name;                                   /* of the published shard file; of the commit file in the single-file layout */
    char checksum[80];
    int64_t write_began_ms;
    char *shard_key;                                    /* of the published shard file, NULL before that */
    void *region_object; uint32_t region_way;           /* another rank than 0: the single file, if it can write to it */
    void *single_object;                                /* the single file, open from write to commit */
    /* commit */
    dcpi_buffer done;                                   /* this rank's word that it has written */
    char timestamp[DCPI_TIME_TEXT];
    char *document_temporary;                           /* key of the temporary file that the rename takes */
};

/* The phases that are the caller's to wait for, with or without threads: from the arguments to each rank's part. */
static dcp_status dcpi_save_start(dcpi_save *s, dcp_error *err) {
    dcp_status status = dcpi_save_check(s, err);
    status = dcpi_save_agree(s, status, err);
    if (!status) status = dcpi_save_list(s, err);
    status = dcpi_save_plan(s, status, err);
    if (!status) status = dcpi_save_meet(s, err);
    if (!status) dcpi_op_phase(&s->op, DCP_PHASE_WRITE, s->file_size);
    return status;
}
DCPDEF dcp_status dcp_save(const dcp_save_desc *desc, dcp_error *err) {
    dcp_error local;
    dcpi_save s;
    dcp_status status;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "save: desc is NULL");
    memset(&s, 0, sizeof s);
    (void)dcpi_succeed(&local);
    s.desc = desc;
    status = dcpi_save_start(&s, &local);
    if (!status) status = dcpi_save_write(&s, &local);
    status = dcpi_save_commit(&s, status, &local);
    status = dcpi_save_finish(&s, status);
    if (!status) (void)dcpi_succeed(&local);
    if (err) *err = local;
    return status;
}

/* ---- check: arguments ---------------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_save_check_fields(const dcp_save_desc *desc, dcp_error *err) {
    const dcp_field **order;
    dcp_status status = DCP_OK;
    size_t i;
    if (desc->field_count > 0 && !desc->fields) return dcpi_fail(err, DCP_E_INVALID, "save: field_count is set, but fields is NULL");
    order = (const dcp_field **)dcpi_alloc_array(desc->field_count, sizeof *order, err);
    if (!order) return DCP_E_MEMORY;
    for (i = 0; i < desc->field_count && !status; i++) {
        order[i] = &desc->fields[i];
        if (!desc->fields[i].key || !desc->fields[i].value)
            status = dcpi_fail(err, DCP_E_INVALID, "save: fields[%" PRIu64 "] has no key or no value", (uint64_t)i);
    }
    if (!status) status = dcpi_sort((const void **)order, desc->field_count, dcpi_check_by_key, err);
    for (i = 1; i < desc->field_count && !status; i++)
        if (strcmp(order[i - 1]->key, order[i]->key) == 0)
            status = dcpi_fail(err, DCP_E_INVALID, "save: two fields have the key \"%s\"", order[i]->key);
    dcpi_free((void *)order);
    return status;
}
static dcp_status dcpi_save_check_options(const dcp_save_desc *desc, dcp_error *err) {
    if (!desc->path || desc->path[0] == '\0') return dcpi_fail(err, DCP_E_INVALID, "save: path is not set");
    if (desc->tensor_count > 0 && !desc->tensors)
        return dcpi_fail(err, DCP_E_INVALID, "save: tensor_count is %" PRIu64 ", but tensors is NULL", (uint64_t)desc->tensor_count);
    if (desc->layout == DCP_LAYOUT_MANIFEST)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "save: version %s does not write the manifest layout", DCP_VERSION);
    if ((int)desc->layout < 0 || desc->layout > DCP_LAYOUT_MANIFEST)
        return dcpi_fail(err, DCP_E_INVALID, "save: layout %d is none", (int)desc->layout);
    if ((int)desc->checksum < 0 || desc->checksum > DCP_CHECKSUM_FLAT)
        return dcpi_fail(err, DCP_E_INVALID, "save: checksum %d is none", (int)desc->checksum);
    if (desc->alignment && (!dcpi_is_power_of_two(desc->alignment) || desc->alignment < 64 || desc->alignment > 2 * DCPI_MIB))
        return dcpi_fail(err, DCP_E_INVALID, "save: alignment must be a power of two from 64 to 2 MiB, or 0");
    if (desc->block_size && (!dcpi_is_power_of_two(desc->block_size) || desc->block_size < 256 * DCPI_KIB ||
                             desc->block_size > 1024 * DCPI_MIB))
        return dcpi_fail(err, DCP_E_INVALID, "save: block_size must be a power of two from 256 KiB to 1 GiB, or 0");
    if (desc->sharding && desc->sharding->shard_count != 0 && desc->sharding->shard_count != (desc->io.coordinator ?
                                                                                              desc->io.coordinator->world_size : 1))
        return dcpi_fail(err, DCP_E_INVALID, "save: sharding.shard_count is %" PRId64 "; it is 0 or the world size",
                         desc->sharding->shard_count);
    return DCP_OK;
}
/* Types of 4 bits: a piece must start and end at a byte of the whole tensor, or nobody could put it there. */
static int dcpi_cuts_no_byte(const dcp_tensor *t) {
    const int64_t origin[DCP_MAX_DIMS] = {0};
    int64_t stride[DCP_MAX_DIMS];
    dcpi_walk walk;
    if (dcp_dtype_bits(t->dtype) >= 8 || !dcpi_has_global(t) || dcpi_box_elements(t->ndim, t->shape) == 0) return 1;
    dcpi_row_major(t->ndim, t->shape, stride);
    return dcpi_walk_make(&walk, t->ndim, dcp_dtype_bits(t->dtype), t->shape, t->global_shape, t->global_offset, origin, stride);
}
static dcp_status dcpi_save_check_tensors(const dcp_save_desc *desc, dcp_error *err) {
    size_t i;
    for (i = 0; i < desc->tensor_count; i++) {
        const dcp_tensor *t = &desc->tensors[i];
        dcp_status status = dcpi_tensor_check(t, 1, err);
        if (status) { dcpi_fail_context(err, "tensors[%" PRIu64 "]: ", (uint64_t)i); return status; }
        if (t->placement == DCP_PLACE_SHARDED && !dcpi_has_global(t) && dcpi_box_elements(t->ndim, t->shape) > 0)
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": placement is sharded, but global_shape is not set (dcp_piece sets it)",
                             t->name);
        if (t->placement == DCP_PLACE_PRIVATE && dcpi_has_global(t))
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": placement is private, but global_shape is set: a private tensor is whole",
                             t->name);
        if (t->placement == DCP_PLACE_REPLICATED && memcmp(t->shape, dcpi_global_shape(t), sizeof t->shape) != 0)
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": placement is replicated, but the piece is only a box of global_shape: that is sharded",
                    t->name);
        if (!dcpi_cuts_no_byte(t))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": the piece cuts a byte of the whole tensor, which holds two elements of %s", t->name,
                    dcp_dtype_name(t->dtype));
    }
    return DCP_OK;
}
static dcp_status dcpi_save_check(dcpi_save *s, dcp_error *err) {
    dcp_error team;
    dcp_status status = dcpi_op_begin(&s->op, &s->desc->io, err), joined = dcpi_team_begin(&s->op, "save", &team);
    s->op.cancel_too = s->cancel_too;
    if (!status && joined) *err = team;
    if (!status) status = joined;
    if (!status) status = dcpi_save_check_options(s->desc, err);
    if (!status) status = dcpi_save_check_fields(s->desc, err);
    if (!status) status = dcpi_save_check_tensors(s->desc, err);
    s->alignment = s->desc->alignment ? (int64_t)s->desc->alignment : 64;
    return status ? status : dcpi_op_check(&s->op, err);
}

/* ---- agree: all ranks want the same save; what rank 0 prepared ----------------------------------------------------------------------- */
static void dcpi_agree_number(dcpi_sha *sha, uint64_t value) {
    uint8_t bytes[8];
    dcpi_store64(bytes, value);
    dcpi_sha_update(sha, bytes, sizeof bytes);
}
static void dcpi_agree_digest(const dcpi_save *s, uint8_t digest[32]) {
    const dcp_save_desc *d = s->desc;
    dcpi_sha sha;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, "save", 4);
    dcpi_sha_update(&sha, d->path, strlen(d->path));
    dcpi_agree_number(&sha, (uint64_t)d->layout);
    dcpi_agree_number(&sha, (uint64_t)d->checksum);
    dcpi_agree_number(&sha, d->alignment);
    dcpi_agree_number(&sha, d->block_size);
    dcpi_agree_number(&sha, (uint64_t)((d->overwrite != 0) | (d->allow_holes != 0) << 1 | (d->unique_names != 0) << 2));
    dcpi_sha_final(&sha, digest);
}
static dcp_status dcpi_agree_go(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)user;
    uint8_t body[32] = {0};
    (void)rank; (void)err;
    memcpy(body, s->report.save_id, 16);
    dcpi_store64(body + 16, (uint64_t)s->report.sequence);
    body[24] = (uint8_t)s->plain_names;
    dcpi_buffer_add(message, body, sizeof body);
    return DCP_OK;
}
static dcp_status dcpi_agree_take(dcpi_save *s, dcp_error *err) {
    const dcpi_peer *lead = s->op.team.peers;
    const uint8_t *body = lead->message + DCPI_TEAM_HEADER;
    if (lead->size != DCPI_TEAM_HEADER + 32) return dcpi_fail(err, DCP_E_COMM, "save: rank 0 sent a message of another version of dcp.h");
    memcpy(s->report.save_id, body, 16);
    s->report.sequence = (int64_t)dcpi_load64(body + 16);
    s->plain_names = body[24];
    return DCP_OK;
}
static dcp_status dcpi_prepare_errand(void *save, dcp_error *err) { return dcpi_save_prepare((dcpi_save *)save, err); }

static dcp_status dcpi_save_agree(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    dcpi_buffer message;
    uint8_t digest[32] = {0};
    memset(&message, 0, sizeof message);
    if (!status) dcpi_agree_digest(s, digest);
    dcpi_team_message_start(&message);
    dcpi_buffer_add(&message, digest, sizeof digest);
    status = dcpi_team_up(&s->op, status, &message, err);
    dcpi_buffer_free(&message);
    dcpi_op_phase(&s->op, DCP_PHASE_PREPARE, 0);
    if (!status && t->rank == 0) status = dcpi_agree_compare(t, digest, sizeof digest, "path, layout and options of a save must be equal", err);
    if (!status && t->rank == 0) status = dcpi_op_errand(&s->op, dcpi_prepare_errand, s, err);
    status = dcpi_team_down(&s->op, status, dcpi_agree_go, s, DCPI_DOWN_SAME, err);
    if (!status && t->rank != 0) status = dcpi_agree_take(s, err);
    return status;
}

/* ---- prepare: what is there, and what the new files are called ----------------------------------------------------------------------- */
typedef struct dcpi_survey { const dcpi_place *place; char *shard_prefix; int64_t sequence; int has_shards; dcp_error *err; } dcpi_survey;

static dcp_status dcpi_survey_one(void *user, const char *key, const dcp_object_info *info) {
    dcpi_survey *survey = (dcpi_survey *)user;
    const char *name = dcpi_place_name(survey->place, key);
    int64_t sequence = 0;
    dcp_status status = DCP_OK;
    (void)info;
    if (dcpi_starts_with(name, survey->shard_prefix)) survey->has_shards = 1;
    if (dcpi_commit_kind_of(name)) status = dcpi_document_peek_sequence(survey->place, key, &sequence, survey->err);
    survey->sequence = dcpi_max(survey->sequence, sequence);
    return status;
}
static dcp_status dcpi_save_survey(dcpi_save *s, int has_commit, dcp_error *err) {
    dcpi_survey survey;
    size_t size = strlen(s->place.name) + sizeof "_shard_";
    dcp_status status;
    memset(&survey, 0, sizeof survey);
    survey.place = &s->place;
    survey.err = err;
    survey.shard_prefix = (char *)dcpi_alloc(size, err);
    if (!survey.shard_prefix) return DCP_E_MEMORY;
    (void)snprintf(survey.shard_prefix, size, "%s_shard_", s->place.name);
    status = dcpi_storage_list(s->place.storage, s->place.directory, dcpi_survey_one, &survey, err);
    dcpi_free(survey.shard_prefix);
    s->report.sequence = survey.sequence + 1;
    s->plain_names = !has_commit && !survey.has_shards && !s->desc->unique_names;
    return status;
}
static dcp_status dcpi_save_note_displaced(dcpi_save *s, dcp_error *err) {
    dcpi_document document;
    size_t i;
    dcp_status status = dcpi_document_read(&s->op, &s->place, s->commit_name, NULL, &document, err);
    if (dcpi_is_trouble(status)) return status;
    memcpy(s->displaced_digest, document.digest, sizeof s->displaced_digest);
    if (status) {
        dcpi_op_log(&s->op, DCP_LOG_WARNING, "the checkpoint to be replaced is damaged; its data files will be left to sweep: %s", err->message);
        return dcpi_succeed(err);
    }
    for (i = 0; i < document.metadata->shard_count && s->kind->layout == DCP_LAYOUT_SHARDED && !status; i++)
        status = dcpi_names_add(&s->displaced, document.metadata->shards[i].file_path, err);
    dcpi_document_free(&document);
    return status;
}
/* The commit file that is there already: refused, or read, so that commit can see that it is still the same and finish can clean up after
 * it. */
static dcp_status dcpi_save_look_for_commit(dcpi_save *s, int *has_commit, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    int count;
    dcp_status status = dcpi_commit_find(&s->place, s->place.name, found, &count, err);
    *has_commit = !status && count > 0;
    if (status || count == 0) return status;
    if (!s->desc->overwrite)
        return dcpi_fail(err, DCP_E_EXISTS, "there is a checkpoint already: %s%s%s (set overwrite to replace it, or use another path)",
                         s->place.shown, s->place.name, found[0]->suffix);
    if (count > 1 || found[0] != s->kind)
        return dcpi_fail(err, DCP_E_EXISTS,
                         "%s%s%s is there, a checkpoint in another layout; overwrite replaces only the same one: remove it first",
                s->place.shown, s->place.name,
                         found[found[0] == s->kind]->suffix);
    s->displaces = 1;
    return dcpi_save_note_displaced(s, err);
}
/* Each rank: the place and the names in it. */
static dcp_status dcpi_save_place(dcpi_save *s, dcp_error *err) {
    const struct dcpi_commit_kind *given;
    dcp_status status = dcpi_place_open(&s->place, s->desc->io.storage, s->desc->path, 1, err);
    s->kind = &dcpi_commit_kinds[s->desc->layout == DCP_LAYOUT_SINGLE];
    if (status) return status;
    given = dcpi_commit_kind_of(s->place.name);
    if (given) s->place.name[strlen(s->place.name) - strlen(given->suffix)] = '\0';
    if (dcpi_commit_kind_of(s->place.name) || strlen(s->place.name) > DCP_LIMIT_PREFIX)
        return dcpi_fail(err, DCP_E_INVALID, "save: the last part of the path has 1 to %d bytes and no further commit suffix: \"%s\"",
                         (int)DCP_LIMIT_PREFIX, s->place.name);
    s->commit_name = dcpi_commit_name(s->place.name, s->kind, err);
    s->commit_key = s->commit_name ? dcpi_place_key(&s->place, s->commit_name, err) : NULL;
    if (!s->commit_key) return DCP_E_MEMORY;
    (void)snprintf(s->report.path, sizeof s->report.path, "%s%s", s->place.shown, s->commit_name);
    s->report.not_durable = ~s->place.storage->flags & (DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY | DCP_STORAGE_ATOMIC_REPLACE |
                                                        DCP_STORAGE_EXCLUSIVE_PUBLISH);
    if (s->kind->layout == DCP_LAYOUT_SINGLE && !(s->place.storage->flags & DCP_STORAGE_RANDOM_WRITE))
        return dcpi_fail(err, DCP_E_UNSUPPORTED,
                         "the single-file layout writes its header last, and this storage cannot write at an offset; use the sharded one");
    return DCP_OK;
}
static dcp_status dcpi_save_prepare(dcpi_save *s, dcp_error *err) {
    int has_commit = 0;
    dcp_status status = dcpi_random_id(s->report.save_id, err);
    dcpi_time_format(dcpi_os_wall_us(), s->timestamp);
    if (!status) status = dcpi_save_place(s, err);
    if (!status) status = dcpi_place_sync_all(&s->place, err);
    if (!status) status = dcpi_save_look_for_commit(s, &has_commit, err);
    return status ? status : dcpi_save_survey(s, has_commit, err);
}

/* ---- list: this rank's pieces, as rank 0 gets them -------------------------------------------------------------------------------------
 * count (8 bytes), then for each: type, dimensions, placement, whether it has a global shape (1 byte each), name with its NUL, and as varints
 * the shape and, if it has them, the global shape and offset. */
typedef struct dcpi_listed {
    const char *name; dcp_dtype dtype; int ndim; dcp_placement placement; int has_global;
    int64_t shape[DCP_MAX_DIMS], global_shape[DCP_MAX_DIMS], global_offset[DCP_MAX_DIMS];
} dcpi_listed;

static void dcpi_list_number(dcpi_buffer *out, uint64_t value) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    dcpi_buffer_add(out, bytes, n);
}
static dcp_placement dcpi_list_placement(const dcp_tensor *t, int world_size) {        /* what AUTO means */
    if (t->placement != DCP_PLACE_AUTO) return t->placement;
    if (dcpi_has_global(t)) return DCP_PLACE_SHARDED;
    return world_size == 1 ? DCP_PLACE_REPLICATED : DCP_PLACE_PRIVATE;
}
static void dcpi_list_piece(dcpi_buffer *out, const dcp_tensor *t, int world_size) {
    const dcp_placement placement = dcpi_list_placement(t, world_size);
    uint8_t head[4];
    int d;
    head[0] = (uint8_t)t->dtype;
    head[1] = (uint8_t)t->ndim;
    head[2] = (uint8_t)placement;
    head[3] = (uint8_t)dcpi_has_global(t);
    dcpi_buffer_add(out, head, sizeof head);
    dcpi_buffer_add(out, t->name, strlen(t->name) + 1);
    for (d = 0; d < t->ndim; d++) dcpi_list_number(out, (uint64_t)t->shape[d]);
    for (d = 0; d < t->ndim && head[3]; d++) dcpi_list_number(out, (uint64_t)t->global_shape[d]);
    for (d = 0; d < t->ndim && head[3]; d++) dcpi_list_number(out, (uint64_t)t->global_offset[d]);
}
static dcp_status dcpi_save_list(dcpi_save *s, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    uint8_t count[8];
    size_t i;
    dcp_status status = t->rank == 0 ? DCP_OK : dcpi_save_place(s, err);
    dcpi_op_phase(&s->op, DCP_PHASE_PLAN, 0);
    if (status) return status;
    dcpi_team_message_start(&s->list);
    dcpi_store64(count, (uint64_t)s->desc->tensor_count);
    dcpi_buffer_add(&s->list, count, sizeof count);
    for (i = 0; i < s->desc->tensor_count; i++) dcpi_list_piece(&s->list, &s->desc->tensors[i], t->world_size);
    return s->list.failed ? dcpi_no_memory(err, s->list.size) : DCP_OK;
}
static int dcpi_listed_number(const uint8_t **at, const uint8_t *end, int64_t *out) {
    uint64_t value = 0;
    int shift;
    for (shift = 0; *at < end && shift < 63; shift += 7) {
        const uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        *out = (int64_t)value;
        if (byte < 0x80) return 1;
    }
    return 0;
}
/* Where the next record starts; NULL: this is none. */
static const uint8_t *dcpi_listed_read(const uint8_t *at, const uint8_t *end, dcpi_listed *out) {
    const uint8_t *nul;
    int d;
    memset(out, 0, sizeof *out);
    if (end - at < 5 || at[0] == 0 || at[0] > DCP_OPAQUE || at[1] > DCP_MAX_DIMS || at[2] > DCP_PLACE_SHARDED || at[3] > 1) return NULL;
    out->dtype = (dcp_dtype)at[0];
    out->ndim = at[1];
    out->placement = (dcp_placement)at[2];
    out->has_global = at[3];
    out->name = (const char *)at + 4;
    nul = (const uint8_t *)memchr(at + 4, 0, (size_t)(end - at - 4));
    if (!nul) return NULL;
    at = nul + 1;
    for (d = 0; d < out->ndim; d++) if (!dcpi_listed_number(&at, end, &out->shape[d])) return NULL;
    memcpy(out->global_shape, out->shape, sizeof out->shape);
    for (d = 0; d < out->ndim && out->has_global; d++) if (!dcpi_listed_number(&at, end, &out->global_shape[d])) return NULL;
    for (d = 0; d < out->ndim && out->has_global; d++) if (!dcpi_listed_number(&at, end, &out->global_offset[d])) return NULL;
    return at;
}

/* ---- plan: rank 0 has all lists ------------------------------------------------------------------------------------------------------ */
static dcp_status dcpi_plan_take_lists(dcpi_save *s, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    uint64_t total = 0;
    int r;
    s->parts = (dcpi_part *)dcpi_alloc_array((size_t)t->world_size, sizeof *s->parts, err);
    if (!s->parts) return DCP_E_MEMORY;
    for (r = 0; r < t->world_size; r++) {
        dcpi_part *part = &s->parts[r];
        part->list = r ? t->peers[r].message : (uint8_t *)s->list.data;
        part->list_size = r ? t->peers[r].size : s->list.size;
        if (r) t->peers[r].message = NULL;
        else memset(&s->list, 0, sizeof s->list);
        if (part->list_size < DCPI_TEAM_HEADER + 8) return dcpi_fail(err, DCP_E_COMM, "save: rank %d sent no list of its tensors", r);
        total += dcpi_load64(part->list + DCPI_TEAM_HEADER);
        if (total > (uint64_t)DCP_LIMIT_TENSORS)
            return dcpi_fail(err, DCP_E_LIMIT, "save: the ranks have more than DCP_LIMIT_TENSORS (%" PRIu64 ") pieces", (uint64_t)DCP_LIMIT_TENSORS);
    }
    s->entries = (dcpi_entry *)dcpi_alloc_array((size_t)total, sizeof *s->entries, err);
    return s->entries ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_plan_read_list(dcpi_save *s, int rank, dcp_error *err) {
    dcpi_part *part = &s->parts[rank];
    const uint8_t *at = part->list + DCPI_TEAM_HEADER + 8, *end = part->list + part->list_size;
    size_t i;
    part->first = s->entry_count;
    part->count = (size_t)dcpi_load64(part->list + DCPI_TEAM_HEADER);
    for (i = 0; i < part->count; i++) {
        dcpi_entry *entry = &s->entries[s->entry_count++];
        dcpi_listed record;
        entry->record = at;
        entry->rank = rank;
        at = dcpi_listed_read(at, end, &record);
        if (!at) return dcpi_fail(err, DCP_E_COMM, "save: rank %d sent a list of another version of dcp.h", rank);
        if (!dcpi_mul(dcpi_box_elements(record.ndim, record.shape), dcp_dtype_bits(record.dtype), &entry->size)) entry->size = INT64_MAX;
        entry->size = entry->size / 8 + (entry->size % 8 != 0);
    }
    return DCP_OK;
}

/* Pieces of one name, found by its hash: chained in the order of ranks. There may be a thousand times as many pieces as names. */
typedef struct dcpi_namesakes { uint64_t hash; size_t first, last, count; } dcpi_namesakes;     /* first, last: entries, plus one */
typedef struct dcpi_grouping {
    dcpi_namesakes *groups; size_t group_count, capacity;
    size_t *slots, mask;                                /* groups, plus one; 0: free. At most half of them are taken */
    size_t *next;                                       /* for each entry, plus one */
} dcpi_grouping;

static uint64_t dcpi_group_hash(const char *name) {     /* FNV-1a, mixed: names are ours, nobody attacks them */
    uint64_t h = 14695981039346656037u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 1099511628211u;
    return h ^ h >> 29;
}
static dcp_status dcpi_group_grow(dcpi_grouping *g, dcp_error *err) {
    size_t size = g->slots ? 2 * (g->mask + 1) : 1024, i, at;
    void *memory = g->groups;
    size_t *slots = (size_t *)dcpi_alloc_array(size, sizeof *slots, err);
    if (!slots) return DCP_E_MEMORY;
    dcpi_free(g->slots);
    g->slots = slots;
    g->mask = size - 1;
    if (!dcpi_grow(&memory, &g->capacity, size / 2, sizeof *g->groups, err)) return DCP_E_MEMORY;
    g->groups = (dcpi_namesakes *)memory;
    for (i = 0; i < g->group_count; i++) {
        for (at = (size_t)g->groups[i].hash & g->mask; slots[at]; at = (at + 1) & g->mask) {}
        slots[at] = i + 1;
    }
    return DCP_OK;
}
static dcp_status dcpi_plan_group(const dcpi_save *s, dcpi_grouping *g, dcp_error *err) {
    size_t i, at;
    memset(g, 0, sizeof *g);
    g->next = (size_t *)dcpi_alloc_array(s->entry_count, sizeof *g->next, err);
    if (!g->next) return DCP_E_MEMORY;
    for (i = 0; i < s->entry_count; i++) {
        const char *name = (const char *)s->entries[i].record + 4;
        const uint64_t hash = dcpi_group_hash(name);
        dcpi_namesakes *group = NULL;
        if (2 * g->group_count >= g->mask && dcpi_group_grow(g, err)) return DCP_E_MEMORY;
        for (at = (size_t)hash & g->mask; g->slots[at]; at = (at + 1) & g->mask) {
            group = &g->groups[g->slots[at] - 1];
            if (group->hash == hash && strcmp((const char *)s->entries[group->first - 1].record + 4, name) == 0) break;
        }
        if (g->slots[at]) {
            g->next[group->last - 1] = i + 1;
        } else {
            g->slots[at] = g->group_count + 1;
            group = &g->groups[g->group_count++];
            group->hash = hash;
            group->first = i + 1;
            group->count = 0;
        }
        group->count++;
        group->last = i + 1;
    }
    return DCP_OK;
}
static void dcpi_grouping_free(dcpi_grouping *g) {
    dcpi_free(g->groups);
    dcpi_free(g->slots);
    dcpi_free(g->next);
}

/* ---- plan: the pieces of one tensor fit together */
typedef struct dcpi_fit { dcpi_listed record; size_t entry; int rank; } dcpi_fit;       /* one piece of the tensor that is looked at */

static int dcpi_fit_compare(const void *a_, const void *b_) {
    const dcpi_fit *a = (const dcpi_fit *)a_, *b = (const dcpi_fit *)b_;
    int d;
    for (d = 0; d < a->record.ndim; d++)
        if (a->record.global_offset[d] != b->record.global_offset[d]) return a->record.global_offset[d] < b->record.global_offset[d] ? -1 : 1;
    for (d = 0; d < a->record.ndim; d++)
        if (a->record.shape[d] != b->record.shape[d]) return a->record.shape[d] < b->record.shape[d] ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}
static int dcpi_fit_same_offset(const dcpi_fit *a, const dcpi_fit *b) {
    return memcmp(a->record.global_offset, b->record.global_offset, sizeof a->record.global_offset) == 0;
}
static int dcpi_fit_is_replica(const dcpi_fit *a, const dcpi_fit *b) {
    return dcpi_fit_same_offset(a, b) && memcmp(a->record.shape, b->record.shape, sizeof a->record.shape) == 0;
}
static dcp_status dcpi_fit_agree(const dcpi_fit *a, const dcpi_fit *b, dcp_error *err) {
    const dcpi_listed *x = &a->record, *y = &b->record;
    const char *what = NULL;
    if (x->placement != y->placement) what = "placements";
    else if (x->placement == DCP_PLACE_PRIVATE) return DCP_OK;
    else if (x->dtype != y->dtype) what = "data types";
    else if (x->ndim != y->ndim) what = "numbers of dimensions";
    else if (memcmp(x->global_shape, y->global_shape, sizeof x->global_shape) != 0) what = "global shapes";
    if (!what) return DCP_OK;
    (void)dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\": the pieces of rank %d and rank %d have different %s", x->name, a->rank, b->rank, what);
    err->rank = b->rank;
    return DCP_E_MISMATCH;
}
static dcp_status dcpi_fit_twice(const dcpi_fit *fit, dcp_error *err) {
    char text[160];
    (void)dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\" is in the list of rank %d twice with the same global_offset %s", fit->record.name,
                    fit->rank, dcpi_box_text(fit->record.ndim, fit->record.global_offset, fit->record.shape, text, sizeof text));
    err->rank = fit->rank;
    return DCP_E_INVALID;
}
/* Distinct boxes, sorted: they do not overlap, and cover the tensor. */
static dcp_status dcpi_fit_tile(const dcpi_save *s, dcpi_fit *const *fits, size_t count, dcp_error *err) {
    const dcpi_listed *first = &fits[0]->record;
    const int64_t origin[DCP_MAX_DIMS] = {0};
    char text[160], other[160];
    dcpi_tiling tiling;
    dcpi_tiles result;
    dcpi_tile *tiles = (dcpi_tile *)dcpi_alloc_array(count, sizeof *tiles, err), **order;
    size_t i, n = 0;
    dcp_status status = DCP_OK;
    order = tiles ? (dcpi_tile **)dcpi_alloc_array(count, sizeof *order, err) : NULL;
    if (!order) { dcpi_free(tiles); return DCP_E_MEMORY; }
    for (i = 0; i < count; i++) {
        const dcpi_listed *record = &fits[i]->record;
        if (dcpi_box_elements(record->ndim, record->shape) == 0 || (i > 0 && dcpi_fit_is_replica(fits[i - 1], fits[i]))) continue;
        tiles[n].offset = record->global_offset;
        tiles[n].shape = record->shape;
        tiles[n].tag = i;
        order[n] = &tiles[n];
        n++;
    }
    result = dcpi_tiling_check(&tiling, first->ndim, order, n, origin, first->global_shape);
    if (result == DCPI_TILES_NO_MEMORY) status = dcpi_no_memory(err, count * sizeof *tiles);
    if (result == DCPI_TILES_IRREGULAR)
        status = dcpi_fail(err, DCP_E_LIMIT, "tensor \"%s\": its %" PRIu64 " pieces are cut too irregularly to check", first->name, (uint64_t)count);
    if (result == DCPI_TILES_OVERLAP) {
        const dcpi_fit *a = fits[tiling.overlap[0]], *b = fits[tiling.overlap[1]];
        status = dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\": the pieces %s (rank %d) and %s (rank %d) overlap", first->name,
                           dcpi_box_text(first->ndim, a->record.global_offset, a->record.shape, text, sizeof text), a->rank,
                           dcpi_box_text(first->ndim, b->record.global_offset, b->record.shape, other, sizeof other), b->rank);
        err->rank = b->rank;
    }
    if (result == DCPI_TILES_OK && tiling.has_hole && !s->desc->allow_holes)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "tensor \"%s\": no piece holds %s of its global shape (allow_holes permits that)", first->name,
                           dcpi_box_text(first->ndim, tiling.hole_offset, tiling.hole_shape, text, sizeof text));
    dcpi_free(order);
    dcpi_free(tiles);
    return status;
}

/* Equal boxes on several ranks: one of them writes. */
typedef struct dcpi_replicas { size_t first, count; int64_t size; } dcpi_replicas;     /* in dcpi_writers.members */
typedef struct dcpi_writers {
    int64_t *load;                                      /* bytes that each rank writes so far */
    size_t *members, member_count, member_capacity;     /* entries */
    dcpi_replicas *sets; size_t set_count, set_capacity;
} dcpi_writers;

static dcp_status dcpi_writers_add(dcpi_writers *w, dcpi_fit *const *fits, size_t count, int64_t size, dcp_error *err) {
    void *members = w->members, *sets = w->sets;
    size_t i;
    if (!dcpi_grow(&members, &w->member_capacity, w->member_count + count, sizeof *w->members, err)) return DCP_E_MEMORY;
    w->members = (size_t *)members;
    if (!dcpi_grow(&sets, &w->set_capacity, w->set_count + 1, sizeof *w->sets, err)) return DCP_E_MEMORY;
    w->sets = (dcpi_replicas *)sets;
    w->sets[w->set_count].first = w->member_count;
    w->sets[w->set_count].count = count;
    w->sets[w->set_count++].size = size;
    for (i = 0; i < count; i++) w->members[w->member_count++] = fits[i]->entry;
    return DCP_OK;
}
static dcp_status dcpi_fit_writers(dcpi_save *s, dcpi_fit *const *fits, size_t count, dcpi_writers *w, dcp_error *err) {
    size_t i, end;
    dcp_status status = DCP_OK;
    for (i = 0; i < count && !status; i = end) {
        dcpi_entry *entry = &s->entries[fits[i]->entry];
        for (end = i + 1; end < count && fits[i]->record.placement != DCP_PLACE_PRIVATE && dcpi_fit_is_replica(fits[i], fits[end]);) end++;
        if (end - i > 1) {
            status = dcpi_writers_add(w, fits + i, end - i, entry->size, err);
        } else {
            entry->is_written = 1;
            if (!dcpi_add(w->load[entry->rank], entry->size, &w->load[entry->rank])) w->load[entry->rank] = INT64_MAX;
        }
    }
    return status;
}
static dcp_status dcpi_fit_check(const dcpi_save *s, dcpi_fit *fits, dcpi_fit **order, size_t count, dcp_error *err) {
    const int is_private = fits[0].record.placement == DCP_PLACE_PRIVATE;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 1; i < count && !status; i++) {
        status = dcpi_fit_agree(&fits[0], &fits[i], err);
        if (!status && is_private && fits[i].rank == fits[i - 1].rank) status = dcpi_fit_twice(&fits[i], err);
    }
    if (status || is_private) return status;
    status = dcpi_sort((const void **)order, count, dcpi_fit_compare, err);
    for (i = 1; i < count && !status; i++)
        if (order[i]->rank == order[i - 1]->rank && dcpi_fit_same_offset(order[i], order[i - 1])) status = dcpi_fit_twice(order[i], err);
    if (status || !fits[0].record.has_global) return status;
    return dcpi_fit_tile(s, order, count, err);
}
static dcp_status dcpi_plan_tensor(dcpi_save *s, const dcpi_grouping *g, const dcpi_namesakes *group, dcpi_writers *w, dcp_error *err) {
    dcpi_fit one, *fits = &one, *only = &one, **order = &only;
    dcp_status status = DCP_OK;
    size_t i, at = group->first;
    if (group->count > 1) {
        fits = (dcpi_fit *)dcpi_alloc_array(group->count, sizeof *fits, err);
        order = fits ? (dcpi_fit **)dcpi_alloc_array(group->count, sizeof *order, err) : NULL;
        if (!order) { dcpi_free(fits); return DCP_E_MEMORY; }
    }
    for (i = 0; i < group->count; i++, at = g->next[at - 1]) {
        const dcpi_entry *entry = &s->entries[at - 1];
        const dcpi_part *part = &s->parts[entry->rank];
        (void)dcpi_listed_read(entry->record, part->list + part->list_size, &fits[i].record);
        fits[i].entry = at - 1;
        fits[i].rank = entry->rank;
        order[i] = &fits[i];
    }
    status = dcpi_fit_check(s, fits, order, group->count, err);
    if (!status) status = dcpi_fit_writers(s, order, group->count, w, err);
    if (fits != &one) { dcpi_free((void *)order); dcpi_free(fits); }
    return status;
}
static int dcpi_replicas_compare(const void *a, const void *b) {        /* the largest first: then the small ones even it out */
    int64_t x = ((const dcpi_replicas *)a)->size, y = ((const dcpi_replicas *)b)->size;
    return x > y ? -1 : x < y;
}
/* Each goes to the rank that has least to write among those that hold it. */
static dcp_status dcpi_plan_choose(dcpi_save *s, dcpi_writers *w, dcp_error *err) {
    const void **order = (const void **)dcpi_alloc_array(w->set_count, sizeof *order, err);
    dcp_status status;
    size_t i, m;
    if (!order) return DCP_E_MEMORY;
    for (i = 0; i < w->set_count; i++) order[i] = &w->sets[i];
    status = dcpi_sort(order, w->set_count, dcpi_replicas_compare, err);
    for (i = 0; i < w->set_count && !status; i++) {
        const dcpi_replicas *set = (const dcpi_replicas *)order[i];
        dcpi_entry *best = &s->entries[w->members[set->first]];
        for (m = 1; m < set->count; m++) {
            dcpi_entry *other = &s->entries[w->members[set->first + m]];
            if (w->load[other->rank] < w->load[best->rank]) best = other;
        }
        best->is_written = 1;
        if (!dcpi_add(w->load[best->rank], best->size, &w->load[best->rank])) w->load[best->rank] = INT64_MAX;
    }
    dcpi_free((void *)order);
    return status;
}
static dcp_status dcpi_plan_pieces(dcpi_save *s, dcp_error *err) {
    dcpi_grouping g;
    dcpi_writers w;
    dcp_status status;
    size_t i;
    memset(&w, 0, sizeof w);
    w.load = (int64_t *)dcpi_alloc_array((size_t)s->op.team.world_size, sizeof *w.load, err);
    if (!w.load) return DCP_E_MEMORY;
    status = dcpi_plan_group(s, &g, err);
    for (i = 0; i < g.group_count && !status; i++) {
        if ((i & 1023) == 1023) status = dcpi_op_check(&s->op, err);
        if (!status) status = dcpi_plan_tensor(s, &g, &g.groups[i], &w, err);
    }
    dcpi_grouping_free(&g);
    if (!status) status = dcpi_plan_choose(s, &w, err);
    dcpi_free(w.load);
    dcpi_free(w.members);
    dcpi_free(w.sets);
    return status;
}

/* ---- plan: places in the files */
/* The next aligned offset for a piece after `at`; `at` moves behind it. Rank 0 and the rank that writes count alike. */
static int dcpi_plan_offset(int64_t alignment, int64_t size, int64_t *at, int64_t *offset) {
    return dcpi_align_up(*at, alignment, offset) && dcpi_add(*offset, size, at);
}
static size_t dcpi_block_count(int64_t size, int64_t block_size) { return (size_t)(size / block_size + (size % block_size != 0)); }

/* Of each rank, only what it writes stays in `entries`, in its order, each with its offset. */
static dcp_status dcpi_plan_offsets(dcpi_save *s, dcp_error *err) {
    size_t kept = 0, i;
    int r;
    for (r = 0; r < s->op.team.world_size; r++) {
        dcpi_part *part = &s->parts[r];
        size_t first = kept, end = part->first + part->count;
        int64_t at = 0;
        for (i = part->first; i < end; i++) {
            dcpi_entry *entry = &s->entries[i];
            if (!entry->is_written) continue;
            if (!dcpi_plan_offset(s->alignment, entry->size, &at, &entry->offset))
                return dcpi_fail(err, DCP_E_INVALID, "save: the tensors of rank %d exceed 2^63 bytes", r);
            if (entry->size > 0) part->file_size = at;
            s->entries[kept++] = *entry;
        }
        part->first = first;
        part->count = kept - first;
    }
    s->entry_count = kept;
    return DCP_OK;
}
/* Blocks of the given size, or of 4 MiB, doubled until the document stays under a million digests. */
static void dcpi_plan_blocks(dcpi_save *s) {
    int r;
    size_t i, total;
    s->block_size = s->desc->block_size ? (int64_t)s->desc->block_size : DCPI_CHUNK;
    for (;;) {
        total = 0;
        for (r = 0; r < s->op.team.world_size; r++) {
            dcpi_part *part = &s->parts[r];
            part->block_total = 0;
            for (i = part->first; i < part->first + part->count; i++) {
                s->entries[i].first_block = part->block_total;
                part->block_total += dcpi_block_count(s->entries[i].size, s->block_size);
            }
            total += part->block_total;
        }
        if (s->desc->block_size || total < 1000000 || total <= s->entry_count || s->block_size >= (int64_t)(1024 * DCPI_MIB)) break;
        s->block_size *= 2;
    }
}
static dcp_status dcpi_plan_space(void *save, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)save;
    int64_t needed = 0, available = 0;
    int r;
    if (!s->place.storage->space || s->place.storage->space(s->place.storage->context, s->place.directory, &available, err))
        return dcpi_succeed(err);
    for (r = 0; r < s->op.team.world_size; r++) if (!dcpi_add(needed, s->parts[r].file_size, &needed)) needed = INT64_MAX;
    if (needed <= available) return DCP_OK;
    return dcpi_fail(err, DCP_E_SPACE, "the tensors have %" PRId64 " bytes, but only %" PRId64 " are free in \"%s\"; free some "
                     "(dcp_prune, dcp_sweep) or save elsewhere", needed, available, s->place.shown);
}
static dcp_status dcpi_plan_document(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_plan_single_header(dcpi_save *s, dcp_error *err);

static dcp_status dcpi_plan_all(dcpi_save *s, dcp_error *err) {
    int r;
    dcp_status status = dcpi_plan_take_lists(s, err);
    for (r = 0; r < s->op.team.world_size && !status; r++) status = dcpi_plan_read_list(s, r, err);
    if (!status) status = dcpi_plan_pieces(s, err);
    if (!status) status = dcpi_plan_offsets(s, err);
    if (status) return status;
    dcpi_plan_blocks(s);
    status = dcpi_op_errand(&s->op, dcpi_plan_space, s, err);
    if (!status) status = dcpi_plan_document(s, err);
    if (!status && s->kind->layout == DCP_LAYOUT_SINGLE) status = dcpi_plan_single_header(s, err);
    return status;
}

/* ---- plan: each rank's part: block size, offset of its region, where the next one starts (8 bytes each), and for each piece of its list a bit:
 * whether it writes it */
static int64_t dcpi_region_end(const dcpi_save *s, int rank) {          /* of the last one: where its bytes end */
    if (rank + 1 < s->op.team.world_size) return s->parts[rank + 1].data_offset;
    return s->parts[rank].data_offset + s->parts[rank].file_size;
}
static dcp_status dcpi_part_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)user;
    const dcpi_part *part = &s->parts[rank];
    const uint8_t *at = part->list + DCPI_TEAM_HEADER + 8, *end = part->list + part->list_size;
    size_t count = (size_t)dcpi_load64(part->list + DCPI_TEAM_HEADER), i, next = part->first;
    uint8_t head[24], bits = 0;
    dcpi_listed record;
    (void)err;
    dcpi_store64(head, (uint64_t)s->block_size);
    dcpi_store64(head + 8, (uint64_t)part->data_offset);
    dcpi_store64(head + 16, (uint64_t)dcpi_region_end(s, rank));
    dcpi_buffer_add(message, head, sizeof head);
    for (i = 0; i < count; i++) {
        if (next < part->first + part->count && s->entries[next].record == at) {
            bits = (uint8_t)(bits | 1 << i % 8);
            next++;
        }
        if (i % 8 == 7 || i + 1 == count) {
            dcpi_buffer_add(message, &bits, 1);
            bits = 0;
        }
        at = dcpi_listed_read(at, end, &record);
    }
    return DCP_OK;
}
static dcp_status dcpi_part_take(dcpi_save *s, const uint8_t *body, size_t size, dcp_error *err) {
    int64_t at = 0;
    size_t i;
    if (size != 24 + (s->desc->tensor_count + 7) / 8) return dcpi_fail(err, DCP_E_COMM, "save: rank 0 sent a plan for another list");
    s->block_size = (int64_t)dcpi_load64(body);
    s->data_offset = (int64_t)dcpi_load64(body + 8);
    s->region_end = (int64_t)dcpi_load64(body + 16);
    s->placed = (dcpi_placed *)dcpi_alloc_array(s->desc->tensor_count, sizeof *s->placed, err);
    if (!s->placed) return DCP_E_MEMORY;
    for (i = 0; i < s->desc->tensor_count; i++) {
        dcpi_placed *p = &s->placed[s->placed_count];
        if (!(body[24 + i / 8] >> i % 8 & 1)) continue;
        p->tensor = &s->desc->tensors[i];
        p->size = dcpi_tensor_bytes(p->tensor);
        p->first_block = s->block_total;
        if (!dcpi_plan_offset(s->alignment, p->size, &at, &p->offset)) return dcpi_fail(err, DCP_E_INVALID, "save: the tensors exceed 2^63 bytes");
        if (p->size > 0) s->file_size = at;
        s->block_total += dcpi_block_count(p->size, s->block_size);
        s->placed_count++;
    }
    s->digests = (uint8_t (*)[32])dcpi_alloc_array(s->block_total, 32, err);
    return s->digests ? DCP_OK : DCP_E_MEMORY;
}
/* A begin may block for long too. */
typedef struct dcpi_beginning { const dcpi_save *save; const char *key, *temporary; int64_t size; void *object; } dcpi_beginning;
static dcp_status dcpi_save_begin_now(void *beginning, dcp_error *err) {
    dcpi_beginning *b = (dcpi_beginning *)beginning;
    return dcpi_storage_begin(b->save->place.storage, b->key, b->temporary, b->size, &b->object, err);
}
static dcp_status dcpi_save_begin_file(dcpi_save *s, const char *key, const char *temporary, int64_t size, void **object, dcp_error *err) {
    dcpi_beginning beginning;
    dcp_status status;
    beginning.save = s;
    beginning.key = key;
    beginning.temporary = temporary;
    beginning.size = size;
    beginning.object = NULL;
    status = dcpi_op_errand(&s->op, dcpi_save_begin_now, &beginning, err);
    *object = beginning.object;
    return status;
}
/* The single file's temporary, under the name that all ranks can tell. */
static dcp_status dcpi_single_begin(dcpi_save *s, int attempt, dcp_error *err) {
    const dcpi_part *last = &s->parts[s->op.team.world_size - 1];
    dcpi_free(s->document_temporary);
    s->document_temporary = dcpi_temporary_name(s->commit_key, s->report.save_id, attempt, err);
    if (!s->document_temporary) return DCP_E_MEMORY;
    return dcpi_save_begin_file(s, s->commit_key, s->document_temporary, last->data_offset + last->file_size, &s->single_object, err);
}
static dcp_status dcpi_save_plan(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    dcpi_buffer own;
    memset(&own, 0, sizeof own);
    status = dcpi_team_up(&s->op, status, &s->list, err);
    if (!status && t->rank == 0) status = dcpi_plan_all(s, err);
    if (!status && t->rank == 0 && s->kind->layout == DCP_LAYOUT_SINGLE) status = dcpi_single_begin(s, 0, err);     /* others may join it then */
    status = dcpi_team_down(&s->op, status, dcpi_part_make, s, 0, err);
    if (status) return status;
    if (t->rank != 0) return dcpi_part_take(s, t->peers[0].message + DCPI_TEAM_HEADER, t->peers[0].size - DCPI_TEAM_HEADER, err);
    status = dcpi_part_make(s, 0, &own, err);
    if (own.failed) status = dcpi_no_memory(err, own.size);
    if (!status) status = dcpi_part_take(s, (const uint8_t *)own.data, own.size, err);
    dcpi_buffer_free(&own);
    return status;
}

/* ---- the document, streamed out of the plan ------------------------------------------------------------------------------------------ */
static dcp_status dcpi_save_shard_name(const dcpi_save *s, int rank, int is_plain, char *name, size_t capacity, dcp_error *err) {
    if (s->kind->layout == DCP_LAYOUT_SINGLE) {
        (void)snprintf(name, capacity, "%s", s->commit_name);
        return DCP_OK;
    }
    return dcp_shard_name(s->place.name, rank, is_plain ? NULL : s->report.save_id, name, capacity, err);
}
/* user: a dcpi_emission */
typedef struct dcpi_emission { const dcpi_save *save; char name[DCP_LIMIT_PREFIX + 64]; dcpi_listed record; } dcpi_emission;

static dcp_status dcpi_save_emit_shard(void *user, size_t index, dcp_shard_metadata *out, dcp_error *err) {
    dcpi_emission *e = (dcpi_emission *)user;
    const dcpi_part *part = &e->save->parts[index];
    dcp_status status = dcpi_save_shard_name(e->save, (int)index, part->is_plain, e->name, sizeof e->name, err);
    memset(out, 0, sizeof *out);
    out->rank = (int)index;
    out->file_path = e->name;
    out->file_size = part->file_size;
    out->tensor_count = part->count;
    out->checksum = part->checksum;
    out->data_offset = part->data_offset;
    return status;
}
static dcp_status dcpi_save_emit_tensor(void *user, size_t shard, size_t index, dcp_tensor_metadata *out, dcp_error *err) {
    static const char *const words[] = { NULL, "replicated", "private", "sharded" };
    dcpi_emission *e = (dcpi_emission *)user;
    const dcpi_save *s = e->save;
    const dcpi_part *part = &s->parts[shard];
    const dcpi_entry *entry = &s->entries[part->first + index];
    const dcpi_listed *record = &e->record;
    (void)err;
    (void)dcpi_listed_read(entry->record, part->list + part->list_size, &e->record);
    memset(out, 0, sizeof *out);
    out->name = record->name;
    out->ndim = record->ndim;
    out->data_type = dcp_dtype_name(record->dtype);
    out->offset = part->data_offset + entry->offset;
    out->size = entry->size;
    out->placement = words[record->placement];
    memcpy(out->shape, record->shape, sizeof out->shape);
    memcpy(out->global_shape, record->global_shape, sizeof out->global_shape);
    memcpy(out->global_offset, record->global_offset, sizeof out->global_offset);
    if (s->desc->checksum == DCP_CHECKSUM_FLAT) return DCP_OK;
    out->block_size = s->block_size;
    out->block_checksums = part->digests + 32 * entry->first_block;
    out->block_count = dcpi_block_count(entry->size, s->block_size);
    return DCP_OK;
}
/* What the sharding says where the caller does not: the type that most bytes have, and whether anything is cut. */
static const char *dcpi_save_precision(const dcpi_save *s) {
    int64_t bytes[DCP_OPAQUE + 1] = {0};
    int best = DCP_FP32;
    size_t i;
    for (i = 0; i < s->entry_count; i++) {
        const int dtype = s->entries[i].record[0];
        if (!dcpi_add(bytes[dtype], s->entries[i].size, &bytes[dtype])) bytes[dtype] = INT64_MAX;
        if (bytes[dtype] > bytes[best]) best = dtype;
    }
    return dcp_dtype_name((dcp_dtype)best);
}
static const char *dcpi_save_strategy(const dcpi_save *s) {
    size_t i;
    for (i = 0; i < s->entry_count; i++) if (s->entries[i].record[2] == DCP_PLACE_SHARDED) return "sharded";
    return "none";
}
static void dcpi_save_head(const dcpi_save *s, dcp_metadata *head) {
    memset(head, 0, sizeof *head);
    head->version = DCP_FORMAT_VERSION;
    head->timestamp = s->timestamp;
    head->save_id = s->report.save_id;
    head->sequence = s->report.sequence;
    head->world_size = s->op.team.world_size;
    if (s->desc->sharding) head->sharding = *s->desc->sharding;
    if (!head->sharding.strategy) head->sharding.strategy = dcpi_save_strategy(s);
    if (!head->sharding.precision) head->sharding.precision = dcpi_save_precision(s);
    head->sharding.shard_count = head->world_size;
    head->shard_count = (size_t)head->world_size;
    if (s->desc->training) {
        head->has_training = 1;
        head->training = *s->desc->training;
    }
    head->fields = (dcp_field *)s->desc->fields;        /* only read */
    head->field_count = s->desc->field_count;
}
static void dcpi_save_source(const dcpi_save *s, dcpi_emission *e, dcp_metadata *head, dcpi_meta_source *source) {
    dcpi_save_head(s, head);
    e->save = s;
    source->head = head;
    source->shard_count = head->shard_count;
    source->user = e;
    source->shard = dcpi_save_emit_shard;
    source->tensor = dcpi_save_emit_tensor;
}
static dcp_status dcpi_save_emit(const dcpi_save *s, dcpi_sink sink, void *user, dcp_error *err) {
    dcp_metadata head;
    dcpi_meta_source source;
    dcpi_emission e;
    dcpi_save_source(s, &e, &head, &source);
    if (s->kind->layout == DCP_LAYOUT_SHARDED) return dcpi_meta_emit(&source, "metadata/json", s->desc->signer, sink, user, NULL, err);
    return dcpi_file_emit(&source, s->json_size, s->parts[0].data_offset, s->desc->signer, sink, user, err);
}
/* The checksum of a shard: over all block digests in document order, or the hash of the file. */
static void dcpi_save_checksum(int is_flat, const uint8_t *digests, size_t count, const uint8_t *flat_digest, char text[80]) {
    static const char tree[] = "sha256-tree:";
    uint8_t digest[32];
    if (is_flat) memcpy(digest, flat_digest, sizeof digest);
    else {
        dcp_sha256(digests, count * 32, digest);
        memcpy(text, tree, sizeof tree - 1);
        text += sizeof tree - 1;
    }
    dcpi_hex_encode(digest, sizeof digest, text);
    text[64] = '\0';
}
/* The document without its shards: what is wrong with the caller's texts shows now, not after the data has been written. */
static dcp_status dcpi_plan_document(dcpi_save *s, dcp_error *err) {
    dcp_metadata head;
    dcpi_meta_source source;
    dcpi_emission e;
    dcpi_save_source(s, &e, &head, &source);
    source.shard_count = 0;
    return dcpi_meta_emit(&source, "metadata/json", s->desc->signer, NULL, NULL, NULL, err);
}
/* Regions one behind another, from `start` on. */
static dcp_status dcpi_plan_regions(dcpi_save *s, int64_t start, int64_t alignment, dcp_error *err) {
    int64_t at = start;
    int r;
    for (r = 0; r < s->op.team.world_size; r++)
        if (!dcpi_align_up(at, alignment, &s->parts[r].data_offset) || !dcpi_add(s->parts[r].data_offset, s->parts[r].file_size, &at))
            return dcpi_fail(err, DCP_E_INVALID, "save: the tensors exceed 2^63 bytes");
    return DCP_OK;
}
/* The single file's header stands before the data, and its size depends on the offsets in it: counted, with digests of the right width,
 * until the first region's offset no longer grows. */
static dcp_status dcpi_plan_header_size(dcpi_save *s, dcp_error *err) {
    const int64_t alignment = dcpi_max(s->alignment, DCPI_OS_DIRECT_ALIGN);
    dcp_metadata head;
    dcpi_meta_source source;
    dcpi_emission e;
    int64_t records, total, wanted, start = 0;
    dcp_status status;
    dcpi_save_source(s, &e, &head, &source);
    status = dcpi_file_records_size(&source, &records, err);
    while (!status) {
        status = dcpi_plan_regions(s, start, alignment, err);
        if (!status) status = dcpi_meta_emit(&source, "checkpoint/json", s->desc->signer, NULL, NULL, &s->json_size, err);
        if (status) break;
        if (s->json_size > INT32_MAX)
            return dcpi_fail(err, DCP_E_LIMIT, "the single file's document would have %" PRId64 " bytes, but its format ends at 2 GiB; "
                             "use the sharded layout or a larger block_size", s->json_size);
        if (!dcpi_add(records, s->json_size, &total) || !dcpi_align_up(total, alignment, &wanted))
            return dcpi_fail(err, DCP_E_LIMIT, "the single file's header is too large");
        if (wanted <= start) break;
        start = wanted;
    }
    return status;
}
static dcp_status dcpi_plan_single_header(dcpi_save *s, dcp_error *err) {
    const uint8_t no_digest[32] = {0};                  /* only the width of a digest counts */
    size_t most = 0;
    uint8_t *digests;
    dcp_status status;
    int r;
    for (r = 0; r < s->op.team.world_size; r++) {
        if (s->parts[r].block_total > most) most = s->parts[r].block_total;
        dcpi_save_checksum(s->desc->checksum == DCP_CHECKSUM_FLAT, no_digest, 1, no_digest, s->parts[r].checksum);
    }
    digests = (uint8_t *)dcpi_alloc_array(most, 32, err);
    if (!digests) return DCP_E_MEMORY;
    for (r = 0; r < s->op.team.world_size; r++) s->parts[r].digests = digests;
    status = dcpi_plan_header_size(s, err);
    dcpi_free(digests);
    return status;
}

/* ---- write --------------------------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_save_stream(dcpi_save *s, dcp_storage *storage, void *object, const char *key, int is_serial, dcp_error *err) {
    dcpi_stream *t = (dcpi_stream *)dcpi_alloc_array(1, sizeof *t, err);
    dcpi_stream_part *parts = t ? (dcpi_stream_part *)dcpi_alloc_array(s->placed_count, sizeof *parts, err) : NULL;
    dcp_status status = DCP_E_MEMORY;
    size_t i;
    for (i = 0; parts && i < s->placed_count; i++) {
        parts[i].tensor = s->placed[i].tensor;
        parts[i].offset = s->data_offset + s->placed[i].offset;
        parts[i].size = s->placed[i].size;
        parts[i].digests = s->digests + s->placed[i].first_block;
    }
    if (parts) {
        t->op = &s->op;
        t->storage = storage;
        t->object = object;
        t->key = key;
        t->parts = parts;
        t->part_count = s->placed_count;
        t->start = s->data_offset;
        t->end = s->data_offset + s->file_size;
        t->block_size = s->block_size;
        t->is_flat = s->desc->checksum == DCP_CHECKSUM_FLAT;
        t->is_serial = is_serial;
        t->taken = s->taken;
        t->taken_user = s->watcher;
        status = dcpi_stream_run(t, err);
        dcpi_save_checksum(t->is_flat, (const uint8_t *)s->digests, s->block_total, t->flat_digest, s->checksum);
        s->report.bytes_written = t->bytes_written;
    }
    dcpi_free(parts);
    dcpi_free(t);
    return status;
}

/* ---- write: the single file (seed 002) --------------------------------------------------------------------------------------------------
 * Where the storage is shared, every rank writes its region into the file that rank 0 has begun, all at once. A rank that cannot (it says so
 * when the ranks meet) sends its region to rank 0, one rank after the other, a chunk for each credit that rank 0 has given: so no more than
 * DCPI_RELAY_AHEAD chunks are on the way, and memory stays bounded. */
#define DCPI_RELAY_AHEAD 4
typedef struct dcpi_relay { dcpi_op *op; uint32_t credits; uint8_t *message; } dcpi_relay;

/* The write function of the storage that a rank streams its region to. */
static dcp_status dcpi_relay_write(void *context, void *object, int64_t offset, const void *data, size_t size, dcp_error *err) {
    dcpi_relay *relay = (dcpi_relay *)context;
    size_t done, n;
    dcp_status status = DCP_OK;
    (void)object;
    for (done = 0; done < size && !status; done += n) {
        n = size - done < DCPI_RELAY_CHUNK ? size - done : DCPI_RELAY_CHUNK;
        while (relay->credits == 0 && !status) {
            uint8_t *message;
            size_t length;
            status = dcpi_relay_receive(relay->op, 0, &message, &length, err);
            if (!status) { relay->credits += dcpi_load32(message + 4); dcpi_free(message); }
        }
        if (status) break;
        relay->credits--;
        memcpy(relay->message + DCPI_RELAY_HEADER, (const uint8_t *)data + done, n);
        status = dcpi_relay_send(relay->op, 0, relay->message, 0, offset + (int64_t)done, n, err);
    }
    return status;
}
/* A write may block for long, and the other ranks must see that this one lives. */
typedef struct dcpi_region_chunk { const dcpi_save *save; void *object; int64_t offset; const void *data; size_t size; } dcpi_region_chunk;
static dcp_status dcpi_region_chunk_write(void *chunk, dcp_error *err) {
    const dcpi_region_chunk *c = (const dcpi_region_chunk *)chunk;
    return dcpi_storage_write(c->save->place.storage, c->save->commit_key, c->object, c->offset, c->data, c->size, err);
}
static dcp_status dcpi_region_put(dcpi_save *s, void *object, int64_t offset, const void *data, size_t size, dcp_error *err) {
    dcpi_region_chunk chunk;
    chunk.save = s;
    chunk.object = object;
    chunk.offset = offset;
    chunk.data = data;
    chunk.size = size;
    return dcpi_op_errand(&s->op, dcpi_region_chunk_write, &chunk, err);
}
/* The zeros between a region and the next are written by the one who writes the region, so that the file ends where its last region does, even
 * if that is empty. */
static dcp_status dcpi_region_gap(dcpi_save *s, int64_t from, int64_t to, void *object, dcp_error *err) {
    uint8_t *zeros = to > from ? (uint8_t *)dcpi_alloc_array((size_t)(to - from), 1, err) : NULL;
    dcp_status status;
    if (to <= from) return DCP_OK;
    if (!zeros) return DCP_E_MEMORY;
    status = dcpi_region_put(s, object, from, zeros, (size_t)(to - from), err);
    dcpi_free(zeros);
    return status;
}
enum { DCPI_REGION_JOINED = 1, DCPI_REGION_RELAYED = 2 };
static dcp_status dcpi_region_announce(dcpi_save *s, uint32_t way, dcp_error *err) {
    uint8_t message[DCPI_RELAY_HEADER];
    return dcpi_relay_send(&s->op, 0, message, way, 0, 0, err);
}
typedef struct dcpi_leaving { dcpi_save *save; void *object; } dcpi_leaving;
static dcp_status dcpi_region_leave(void *leaving, dcp_error *err) {
    dcpi_leaving *l = (dcpi_leaving *)leaving;
    return dcpi_storage_leave(l->save->place.storage, l->save->commit_key, l->object, err);
}
static dcp_status dcpi_region_write(dcpi_save *s, void *object, dcp_error *err) {
    dcpi_leaving leaving;
    dcp_error ignored;
    dcp_status status, left;
    leaving.save = s;
    leaving.object = object;
    status = dcpi_save_stream(s, s->place.storage, object, s->commit_key, 0, err);
    if (!status) status = dcpi_region_gap(s, s->data_offset + s->file_size, s->region_end, object, err);
    left = dcpi_op_errand(&s->op, dcpi_region_leave, &leaving, status ? &ignored : err);
    return status ? status : left;
}
static dcp_status dcpi_region_relay(dcpi_save *s, dcp_error *err) {
    dcp_storage storage;
    dcpi_relay relay;
    dcp_status status = DCP_E_MEMORY;
    memset(&storage, 0, sizeof storage);
    memset(&relay, 0, sizeof relay);
    storage.context = &relay;
    storage.flags = DCP_STORAGE_RANDOM_WRITE;
    storage.write = dcpi_relay_write;
    relay.op = &s->op;
    relay.message = (uint8_t *)dcpi_alloc(DCPI_RELAY_HEADER + DCPI_RELAY_CHUNK, err);
    if (relay.message) status = dcpi_save_stream(s, &storage, NULL, s->commit_key, 1, err);
    dcpi_free(relay.message);
    return status;
}
static dcp_status dcpi_region_own(dcpi_save *s, dcp_error *err) {       /* every rank but 0 */
    void *object = s->region_object;
    s->region_object = NULL;
    return s->region_way == DCPI_REGION_RELAYED ? dcpi_region_relay(s, err) : dcpi_region_write(s, object, err);
}
static dcp_status dcpi_region_join(dcpi_save *s, dcp_error *err) {
    char *temporary = dcpi_storage_can_join(s->place.storage) ? dcpi_temporary_name(s->commit_key, s->report.save_id, 0, err) : NULL;
    dcp_status status = DCP_E_UNSUPPORTED;
    if (temporary) status = dcpi_storage_join(s->place.storage, s->commit_key, temporary, s->file_size, &s->region_object, err);
    dcpi_free(temporary);
    s->region_way = status ? DCPI_REGION_RELAYED : DCPI_REGION_JOINED;
    return dcpi_region_announce(s, s->region_way, err);
}
/* The single file: each rank tells rank 0 how its bytes get there. */
static dcp_status dcpi_save_meet(dcpi_save *s, dcp_error *err) {
    dcp_status status = DCP_OK;
    int r;
    if (s->kind->layout != DCP_LAYOUT_SINGLE) return DCP_OK;
    if (s->op.team.rank != 0) return dcpi_region_join(s, err);
    for (r = 1; r < s->op.team.world_size && !status; r++) {
        uint8_t *message = NULL;
        size_t size;
        status = dcpi_relay_receive(&s->op, r, &message, &size, err);
        if (!status) s->parts[r].way = dcpi_load32(message + 4);
        dcpi_free(message);
    }
    return status;
}
/* Whether this rank's writing takes messages between the ranks. */
static int dcpi_save_relays(const dcpi_save *s) {
    int r;
    if (s->op.team.rank != 0) return s->region_way == DCPI_REGION_RELAYED;
    for (r = 1; r < s->op.team.world_size; r++) if (s->parts[r].way == DCPI_REGION_RELAYED) return 1;
    return 0;
}
/* Rank 0: another rank's region, if that rank cannot write it. */
static dcp_status dcpi_region_take(dcpi_save *s, int rank, void *object, dcp_error *err) {
    const dcpi_part *part = &s->parts[rank];
    uint8_t credit[DCPI_RELAY_HEADER], *message = NULL;
    int64_t at = part->data_offset, end = at + part->file_size;
    size_t size;
    dcp_status status = DCP_OK;
    if (part->way == DCPI_REGION_JOINED) return DCP_OK;
    if (at < end) status = dcpi_relay_send(&s->op, rank, credit, DCPI_RELAY_AHEAD, 0, 0, err);
    while (at < end && !status) {
        status = dcpi_relay_receive(&s->op, rank, &message, &size, err);
        if (status) break;
        size -= DCPI_RELAY_HEADER;
        if (size == 0 || (int64_t)size > end - at || (int64_t)dcpi_load64(message + 8) != at)
            status = dcpi_fail(err, DCP_E_COMM, "rank %d sent other bytes of its tensors than those that come next", rank);
        if (!status) status = dcpi_region_put(s, object, at, message + DCPI_RELAY_HEADER, size, err);
        at += (int64_t)size;
        s->report.bytes_written += (int64_t)size;
        dcpi_op_report(&s->op, s->report.bytes_written, 0);
        dcpi_free(message);
        if (!status && at < end) status = dcpi_relay_send(&s->op, rank, credit, 1, 0, 0, err);
    }
    return status ? status : dcpi_region_gap(s, end, dcpi_region_end(s, rank), object, err);
}

/* ---- write: one file */
/* The file that holds this rank's bytes: the single file itself, or a shard file, plain or with the save id in its name. */
static dcp_status dcpi_save_name_shard(dcpi_save *s, dcp_error *err) {
    char name[DCP_LIMIT_PREFIX + 64];
    dcp_status status = dcpi_save_shard_name(s, s->op.team.rank, s->plain_names, name, sizeof name, err);
    if (status) return status;
    dcpi_free(s->shard_name);
    s->shard_name = dcpi_copy_text(name, err);
    return s->shard_name ? DCP_OK : DCP_E_MEMORY;
}
/* From here on a failed save has to remove the file, even without memory: so its key is kept. */
typedef struct dcpi_publishing { dcpi_save *save; void *object; char **key; } dcpi_publishing;
static dcp_status dcpi_save_publish(void *publishing, dcp_error *err) {
    dcpi_publishing *p = (dcpi_publishing *)publishing;
    dcpi_save *s = p->save;
    dcp_status status = dcpi_storage_commit(s->place.storage, *p->key, p->object, 0, err);
    /* it may have happened all the same: a name with our save id is nobody else's, so take it back */
    if (status) {
        if (!s->plain_names) (void)dcpi_storage_remove(s->place.storage, *p->key, NULL);
        return status;
    }
    s->shard_key = *p->key;
    *p->key = NULL;
    return dcpi_place_sync(&s->place, err);
}
/* One attempt at this rank's shard: a new temporary file, filled and published. */
static dcp_status dcpi_shard_write(dcpi_save *s, int attempt, dcp_error *err) {
    char *key = dcpi_place_key(&s->place, s->shard_name, err);
    char *temporary = key ? dcpi_temporary_name(key, s->report.save_id, attempt, err) : NULL;
    dcpi_publishing publishing;
    void *object = NULL;
    dcp_status status = temporary ? dcpi_save_begin_file(s, key, temporary, s->file_size, &object, err) : DCP_E_MEMORY;
    if (!status) {
        status = dcpi_save_stream(s, s->place.storage, object, key, 0, err);
        if (status) dcpi_storage_abort(s->place.storage, object);
    }
    if (!status) {
        publishing.save = s;
        publishing.object = object;
        publishing.key = &key;
        status = dcpi_op_errand(&s->op, dcpi_save_publish, &publishing, err);
    }
    dcpi_free(temporary);
    dcpi_free(key);
    return status;
}
/* Rank 0's attempt at the single file: its own region, and those that others cannot write; left open for the header. */
static dcp_status dcpi_single_write(dcpi_save *s, int attempt, dcp_error *err) {
    int r;
    dcp_status status = s->single_object ? DCP_OK : dcpi_single_begin(s, attempt, err);
    if (!status) status = dcpi_save_stream(s, s->place.storage, s->single_object, s->commit_key, 0, err);
    if (!status) status = dcpi_region_gap(s, s->data_offset + s->file_size, s->region_end, s->single_object, err);
    for (r = 1; r < s->op.team.world_size && !status; r++) status = dcpi_region_take(s, r, s->single_object, err);
    if (status && s->single_object) {
        dcpi_storage_abort(s->place.storage, s->single_object);
        s->single_object = NULL;
    }
    return status;
}
static dcp_status dcpi_save_write(dcpi_save *s, dcp_error *err) {
    const int is_single = s->kind->layout == DCP_LAYOUT_SINGLE;
    dcp_status status = dcpi_save_name_shard(s, err);
    int attempt;
    s->write_began_ms = dcpi_os_monotonic_ms();
    if (!status && is_single && s->op.team.rank != 0) return dcpi_region_own(s, err);
    for (attempt = 0; !status; attempt++) {
        int taken;
        status = is_single ? dcpi_single_write(s, attempt, err) : dcpi_shard_write(s, attempt, err);
        taken = status == DCP_E_EXISTS && s->plain_names;               /* somebody made that file meanwhile: it is never replaced */
        if (!status || s->shard_key || (is_single && s->op.team.world_size > 1)) break;         /* other ranks have sent their bytes */
        if (s->again && (taken || dcpi_storage_is_transient(err)) && !s->again(s->watcher)) {
            dcpi_fail_context(err, "not tried again, since there is no copy of the tensors beyond snapshot_budget: ");
            break;
        }
        if (!taken && !dcpi_op_again(&s->op, attempt + 1, "writing the tensors", err)) break;
        s->plain_names = 0;
        status = dcpi_save_name_shard(s, err);
    }
    dcpi_op_report(&s->op, s->report.bytes_written, 1);
    return status;
}

/* ---- acknowledge: every shard is there; from here on a rank waits for rank 0's verdict (G5) --------------------------------------------
 * A rank's word: size of its shard, bytes written (8 bytes each), whether the name is plain (1), its checksum as text (80), its digests. */
#define DCPI_DONE_SIZE (8 + 8 + 1 + 80)
static void dcpi_done_make(const dcpi_save *s, dcpi_buffer *message) {
    uint8_t body[DCPI_DONE_SIZE];
    dcpi_store64(body, (uint64_t)s->file_size);
    dcpi_store64(body + 8, (uint64_t)s->report.bytes_written);
    body[16] = (uint8_t)s->plain_names;
    memcpy(body + 17, s->checksum, sizeof s->checksum);
    dcpi_buffer_add(message, body, sizeof body);
    dcpi_buffer_add(message, s->digests, s->block_total * 32);
}
static dcp_status dcpi_done_take(dcpi_save *s, dcpi_part *part, int rank, uint8_t *message, size_t size, dcp_error *err) {
    const uint8_t *body = message + DCPI_TEAM_HEADER;
    part->done = message;
    if (size != DCPI_TEAM_HEADER + DCPI_DONE_SIZE + part->block_total * 32 || (int64_t)dcpi_load64(body) != part->file_size)
        return dcpi_fail(err, DCP_E_COMM, "save: rank %d wrote something else than was planned", rank);
    part->is_plain = body[16];
    memcpy(part->checksum, body + 17, sizeof part->checksum);
    part->checksum[sizeof part->checksum - 1] = '\0';
    part->digests = body + DCPI_DONE_SIZE;
    if (rank > 0 && s->kind->layout == DCP_LAYOUT_SHARDED) s->report.bytes_written += (int64_t)dcpi_load64(body + 8);
    return DCP_OK;
}
/* DCP_PENDING on rank 0: dcpi_team_collect until it says something else. */
static dcp_status dcpi_save_acknowledge(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_op_phase(&s->op, DCP_PHASE_GATHER, 0);
    if (!status) status = dcpi_op_check(&s->op, err);
    if (!status) status = dcpi_op_check_awake(&s->op, err);
    if (!status) {
        dcpi_team_message_start(&s->done);
        dcpi_done_make(s, &s->done);
        s->op.team.is_promised = 1;
    }
    return dcpi_team_up_begin(&s->op, status, &s->done, err);
}
/* Rank 0: all have spoken. */
static dcp_status dcpi_save_gathered(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    int r;
    if (!status && t->rank == 0) {
        if (s->done.failed) status = dcpi_no_memory(err, s->done.size);
        for (r = 0; r < t->world_size && !status; r++) {
            status = dcpi_done_take(s, &s->parts[r], r, r ? t->peers[r].message : (uint8_t *)s->done.data, r ? t->peers[r].size : s->done.size, err);
            if (r) t->peers[r].message = NULL;
            else memset(&s->done, 0, sizeof s->done);
        }
    }
    dcpi_buffer_free(&s->done);
    dcpi_op_phase(&s->op, DCP_PHASE_COMMIT, 0);
    return status;
}

/* ---- commit -------------------------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_save_tell(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_commit_run(void *save, dcp_error *err);
static dcp_status dcpi_commit_check(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_commit_document(dcpi_save *s, void **object, dcp_error *err);
static dcp_status dcpi_commit_rename(dcpi_save *s, void *object, dcp_error *err);

static dcp_status dcpi_save_commit(dcpi_save *s, dcp_status status, dcp_error *err) {
    status = dcpi_save_acknowledge(s, status, err);
    while (status == DCP_PENDING) status = dcpi_team_collect(&s->op, DCPI_TEAM_SLICE_MS, err);
    status = dcpi_save_gathered(s, status, err);
    if (!status && s->op.team.rank == 0) status = dcpi_op_errand(&s->op, dcpi_commit_run, s, err);
    status = dcpi_save_tell(s, status, err);
    while (status == DCP_PENDING) status = dcpi_team_follow(&s->op, DCPI_TEAM_SLICE_MS, err);
    return status;
}
/* Rank 0 tells the verdict; others: DCP_PENDING, and dcpi_team_follow until it says something else. */
static dcp_status dcpi_save_tell(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_op_phase(&s->op, DCP_PHASE_FINISH, s->file_size);
    return dcpi_team_down_begin(&s->op, status, NULL, NULL, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
}
/* G1, G3: check, write, sync, rename, sync the directory; nothing else here. Before the rename a failure leaves what was there; from the
 * rename on nothing is taken back, and what cannot be known is DCP_E_UNKNOWN. */
static dcp_status dcpi_commit_run(void *save, dcp_error *err) {
    dcpi_save *s = (dcpi_save *)save;
    void *object = NULL;
    dcp_status status;
    status = dcpi_commit_check(s, err);
    if (!status) status = dcpi_commit_document(s, &object, err);
    if (!status && dcpi_op_check_awake(&s->op, err)) {  /* the others may have saved again: that must not be displaced */
        dcpi_storage_abort(s->place.storage, object);
        return DCP_E_TIMEOUT;
    }
    if (!status) status = dcpi_commit_rename(s, object, err);
    if (status) return status;
    status = dcpi_place_sync(&s->place, err);
    if (status)
        return dcpi_fail_sys(err, DCP_E_UNKNOWN, err->sys,
                             "%s is there, but its directory could not be synced: it may vanish in a power cut; nothing was removed",
            s->report.path);
    return DCP_OK;
}
/* A shard is there, with its size. */
static dcp_status dcpi_commit_check_shard(const dcpi_save *s, int rank, dcp_error *err) {
    const dcpi_part *part = &s->parts[rank];
    char name[DCP_LIMIT_PREFIX + 64], *key;
    dcp_object_info info;
    dcp_status status = dcpi_save_shard_name(s, rank, part->is_plain, name, sizeof name, err);
    key = status ? NULL : dcpi_place_key(&s->place, name, err);
    if (!key) return err->status;
    status = dcpi_storage_stat(s->place.storage, key, &info, err);
    dcpi_free(key);
    if (status == DCP_E_NOT_FOUND) status = DCP_E_INCOMPLETE;
    if (!status && info.size != part->file_size)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s%s has %" PRId64 " bytes just after %" PRId64 " were written to it", s->place.shown, name,
                           info.size, part->file_size);
    if (status) { err->status = status; err->rank = rank; }
    return status;
}
/* Everything that the commit file will name is there; nobody else has committed meanwhile; no sweep may be after our files yet. */
static dcp_status dcpi_commit_check(dcpi_save *s, dcp_error *err) {
    uint8_t now[32];
    dcp_status status = dcpi_op_check(&s->op, err);
    int r;
    if (!status && dcpi_os_monotonic_ms() - s->write_began_ms > (int64_t)DCP_GRACE_SECONDS * 1000 / 2)
        return dcpi_fail(err, DCP_E_TIMEOUT, "this save is older than half the grace time of sweep (%d s); its files may be swept any time",
                         (int)DCP_GRACE_SECONDS);
    for (r = 0; r < s->op.team.world_size && !status && s->kind->layout == DCP_LAYOUT_SHARDED; r++) status = dcpi_commit_check_shard(s, r, err);
    if (status || !s->displaces) return status;
    status = dcpi_document_digest(&s->op, &s->place, s->commit_name, now, err);
    if (dcpi_is_trouble(status)) return status;
    if (memcmp(now, s->displaced_digest, sizeof now) == 0) return dcpi_succeed(err);
    return dcpi_fail(err, DCP_E_EXISTS, "%s was replaced by somebody else during this save; save again to replace that one",
                     s->report.path);
}

typedef struct dcpi_document_sink { dcp_storage *storage; const char *key; void *object; int64_t at; } dcpi_document_sink;
static dcp_status dcpi_document_sink_write(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_document_sink *sink = (dcpi_document_sink *)user;
    dcp_status status = dcpi_storage_write(sink->storage, sink->key, sink->object, sink->at, data, size, err);
    sink->at += (int64_t)size;
    return status;
}
/* One attempt at the document, in a new temporary file; the single file has one already, and its header goes to the front. */
static dcp_status dcpi_commit_document_once(dcpi_save *s, int attempt, void **object, dcp_error *err) {
    dcpi_document_sink sink;
    dcp_status status = DCP_OK;
    memset(&sink, 0, sizeof sink);
    sink.storage = s->place.storage;
    sink.key = s->commit_key;
    sink.object = s->single_object;
    s->single_object = NULL;
    if (!sink.object) {
        dcpi_free(s->document_temporary);
        s->document_temporary = dcpi_temporary_name(s->commit_key, s->report.save_id, attempt, err);
        status = s->document_temporary ? dcpi_storage_begin(sink.storage, sink.key, s->document_temporary, 0, &sink.object,
                                                            err) : DCP_E_MEMORY;
    }
    if (!status) status = dcpi_save_emit(s, dcpi_document_sink_write, &sink, err);
    if (status) dcpi_storage_abort(sink.storage, sink.object);
    else *object = sink.object;
    if (!status) s->report.bytes_written += sink.at;
    return status;
}
static dcp_status dcpi_commit_document(dcpi_save *s, void **object, dcp_error *err) {
    int attempt, retries = s->single_object == NULL;    /* the single file's bytes would have to be written again as well */
    for (attempt = 0; ; attempt++) {
        dcp_status status = dcpi_commit_document_once(s, attempt, object, err);
        if (!status || !retries || !dcpi_op_again(&s->op, attempt + 1, "writing the document", err)) return status;
    }
}
/* After a rename that reported an error: is the commit file there ours? 1 yes, 0 no, -1 cannot be known. */
static int dcpi_commit_is_ours(dcpi_save *s) {
    dcpi_document now;
    dcp_status status = dcpi_document_read(&s->op, &s->place, s->commit_name, NULL, &now, NULL);
    int ours = !status && now.metadata->save_id && strcmp(now.metadata->save_id, s->report.save_id) == 0;
    dcpi_document_free(&now);
    if (!status) return ours;
    return dcpi_is_trouble(status) ? -1 : 0;
}
static dcp_status dcpi_commit_rename(dcpi_save *s, void *object, dcp_error *err) {
    dcp_status status = dcpi_storage_commit(s->place.storage, s->commit_key, object, s->displaces, err);
    int ours, removed;
    char reason[200];
    if (!status) return DCP_OK;
    removed = dcpi_storage_remove(s->place.storage, s->document_temporary, NULL) == DCP_OK;
    ours = dcpi_commit_is_ours(s);
    if (ours == 1) return dcpi_succeed(err);            /* it happened, whatever was reported */
    if (status == DCP_E_EXISTS && ours == 0) dcpi_fail_context(err, "another save committed there meanwhile: ");
    if (ours == 0 && removed) return status;
    (void)snprintf(reason, sizeof reason, "%.190s", err->message);
    return dcpi_fail_sys(err, DCP_E_UNKNOWN, err->sys,
                         "whether %s was replaced is not known; nothing was removed; open it to see (save id %s): %s", s->report.path,
            s->report.save_id, reason);
}

/* ---- finish -------------------------------------------------------------------------------------------------------------------------- */
/* A plain name may be somebody else's by now if this process stood still for long: then it is left to sweep. */
static void dcpi_finish_take_back(dcpi_save *s) {
    dcp_error ignored;
    dcpi_op_note_time(&s->op);
    dcpi_storage_abort(s->place.storage, s->single_object);
    if (s->region_object) (void)dcpi_storage_leave(s->place.storage, s->commit_key, s->region_object, &ignored);
    if (!s->shard_key || (s->plain_names && s->op.longest_gap_ms > s->op.io.timeout_ms)) return;
    if (dcpi_storage_remove(s->place.storage, s->shard_key, &ignored))
        dcpi_op_log(&s->op, DCP_LOG_WARNING, "the failed save left %s%s for sweep: %s", s->place.shown, s->shard_name, ignored.message);
}
/* G9. A known failure removes what it made; UNKNOWN removes nothing; success removes what the displaced document named and no document
 * names any more. */
static dcp_status dcpi_save_finish(dcpi_save *s, dcp_status verdict) {
    int r;
    if (verdict != DCP_OK && verdict != DCP_E_UNKNOWN) dcpi_finish_take_back(s);
    dcpi_op_note_time(&s->op);
    if (verdict == DCP_OK && s->displaced.count > 0 && s->op.longest_gap_ms <= s->op.io.timeout_ms)
        dcpi_refs_remove_displaced(&s->op, &s->place, s->commit_name, &s->displaced);
    s->report.seconds = (double)(dcpi_os_monotonic_ms() - s->op.started_ms) / 1000.0;
    if (verdict == DCP_OK) dcpi_op_report(&s->op, s->op.progress.bytes_total, 1);
    if (s->desc->report) *s->desc->report = s->report;
    for (r = 0; s->parts && r < s->op.team.world_size; r++) {
        dcpi_free(s->parts[r].list);
        dcpi_free(s->parts[r].done);
    }
    dcpi_team_end(&s->op);
    dcpi_free(s->parts);
    dcpi_free(s->entries);
    dcpi_buffer_free(&s->list);
    dcpi_names_free(&s->displaced);
    dcpi_free(s->shard_name);
    dcpi_free(s->commit_name);
    dcpi_free(s->shard_key);
    dcpi_free(s->commit_key);
    dcpi_free(s->document_temporary);
    dcpi_free(s->placed);
    dcpi_free(s->digests);
    dcpi_place_close(&s->place);
    return verdict;
}

/* ================================================================================================================================
 * >>async       A save in the background. It has no stages of its own: dcp_save_begin calls dcpi_save_start, as dcp_save does, copies the tensors,
 * and leaves the rest to a thread or to whoever polls.
 *
 *   IDLE        nothing runs
 *    |  dcp_save_begin: dcpi_save_start; dcpi_async_keep, dcpi_async_snapshot: the caller's memory is the caller's again
 *    |
 *    +--> BACKGROUND   one rank, or a thread-safe coordinator: one thread does it all, as dcp_save does
 *    |         |           dcpi_save_write, dcpi_save_commit, dcpi_save_finish
 *    |         +-------------------------------------------------------------------------------------> DONE    dcpi_async_step
 *    |
 *    +--> WRITING      a thread writes; poll shows life (dcpi_async_tick)                dcpi_save_write
 *          |               dcpi_async_step: dcpi_save_acknowledge
 *         GATHERING    rank 0 hears all the others                                       dcpi_team_collect
 *          |   |           dcpi_async_step: dcpi_save_gathered
 *          |  COMMITTING   rank 0 alone: a thread commits; poll shows life               dcpi_commit_run
 *          |   |           dcpi_async_step: dcpi_save_tell
 *         TELLING      the others hear rank 0's verdict; what it has said leaves the outbox      dcpi_team_follow, dcpi_team_flush
 *          |               dcpi_async_step
 *         FINISHING    a thread removes what has to go                                   dcpi_save_finish
 *          |               dcpi_async_step
 *         DONE         the verdict is known, and nobody has asked for it yet
 *          |               dcpi_async_answer, in poll and wait; dcpi_async_forget, in begin and close, logs a failure
 *         IDLE
 *
 * Between two arrows at most one thread works on the save, `is_running` tells, and until it has ended nothing of `save`, `status` and `err` is the
 * program's thread's but for what dcpi_team_tick touches. dcpi_async_check holds all this against a saver.
 * ============================================================================================================================== */
typedef enum dcpi_async_state {
    DCPI_ASYNC_IDLE, DCPI_ASYNC_BACKGROUND, DCPI_ASYNC_WRITING, DCPI_ASYNC_GATHERING, DCPI_ASYNC_COMMITTING, DCPI_ASYNC_TELLING,
    DCPI_ASYNC_FINISHING, DCPI_ASYNC_DONE
} dcpi_async_state;

typedef struct dcpi_pool {                              /* memory for copies of the tensors of one device, or of the host */
    const dcp_device *device;
    uint8_t *memory; size_t size, used;
    int is_of_device, is_pages;                         /* where it came from; neither: dcpi_alloc */
} dcpi_pool;

struct dcp_saver {
    /* the program's thread */
    dcp_saver_desc desc;
    dcpi_async_state state;
    dcpi_thread thread; int has_thread;
    dcp_save_desc kept; dcpi_arena texts; dcp_signer signer;            /* of the caller's desc, what later phases need */
    dcpi_pool *pools; size_t pool_count, pool_capacity;
    dcp_progress_fn progress; void *progress_user; int64_t shown_ms;    /* the caller's */
    dcp_coordinator *held;                              /* whose `settle` is ours */
    int64_t polled_ms;
    uint32_t begins;
    dcp_save_report report;
    /* whoever works: this thread, or the other one while it runs */
    dcpi_save save;
    dcp_status status; dcp_error err;                   /* of the stages so far, then the verdict */
    dcp_save_report final;
    /* under the lock */
    dcpi_mutex lock; dcpi_cond changed;
    int is_running;
    int64_t taken; int is_released;                     /* bytes of the file whose tensors are read; the rest is the caller's no more */
    dcp_progress latest; int has_latest;
    /* any thread */
    dcp_cancel cancel;
};
static void dcpi_async_drive(dcp_saver *saver, int wait_ms);

/* What is wrong with a saver, NULL: nothing. */
static const char *dcpi_async_check(dcp_saver *saver) {
    const dcpi_async_state state = saver->state;
    int is_running;
    dcpi_mutex_lock(&saver->lock);
    is_running = saver->is_running;
    dcpi_mutex_unlock(&saver->lock);
    if ((int)state < DCPI_ASYNC_IDLE || state > DCPI_ASYNC_DONE) return "its state is none";
    if (is_running && !saver->has_thread) return "it works without a thread";
    if (state == DCPI_ASYNC_IDLE || state == DCPI_ASYNC_DONE) {
        if (saver->has_thread) return "a thread is left of a save that has ended";
        if (saver->held) return "it holds a coordinator without a save";
        if (saver->save.op.team.outbox) return "messages are left of a save that has ended";
        return state == DCPI_ASYNC_DONE && saver->status == DCP_PENDING ? "it has ended without a verdict" : NULL;
    }
    if (state == DCPI_ASYNC_BACKGROUND) return saver->has_thread ? NULL : "it is left to a thread that is not there";
    if (!saver->save.op.team.is_polled) return "it is driven by polls, and would wait in them";
    if (state == DCPI_ASYNC_COMMITTING && saver->save.op.team.rank != 0) return "another rank than 0 commits";
    if (!is_running && state != DCPI_ASYNC_GATHERING && state != DCPI_ASYNC_TELLING && saver->status == DCP_PENDING)
        return "a stage has ended without a status";
    return NULL;
}
static dcp_status dcpi_async_check_call(dcp_saver *saver, const char *call, dcp_error *err) {
    const char *wrong;
    if (!saver) return dcpi_fail(err, DCP_E_INVALID, "%s: saver is NULL", call);
    wrong = dcpi_async_check(saver);
    if (!wrong) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID, "%s: the saver is used by two threads at once, or was overwritten: %s", call, wrong);
}

/* ---- what the stages tell, on whichever thread they run -------------------------------------------------------------------------------- */
static void dcpi_async_note(void *user, const dcp_progress *progress) {                 /* in place of the caller's progress */
    dcp_saver *saver = (dcp_saver *)user;
    dcpi_mutex_lock(&saver->lock);
    saver->latest = *progress;
    saver->has_latest = 1;
    dcpi_mutex_unlock(&saver->lock);
}
static void dcpi_async_taken(void *user, int64_t filled_to) {
    dcp_saver *saver = (dcp_saver *)user;
    dcpi_mutex_lock(&saver->lock);
    saver->taken = filled_to;
    dcpi_cond_wake_all(&saver->changed);
    dcpi_mutex_unlock(&saver->lock);
}
static int dcpi_async_again(void *user) {               /* whether everything can be read once more */
    dcp_saver *saver = (dcp_saver *)user;
    int may;
    dcpi_mutex_lock(&saver->lock);
    may = !saver->is_released;
    if (may) saver->taken = 0;
    dcpi_mutex_unlock(&saver->lock);
    return may;
}
/* Program's thread: the caller's progress, at most ten times a second. */
static void dcpi_async_show(dcp_saver *saver, int is_last) {
    const int64_t now = dcpi_os_monotonic_ms();
    dcp_progress progress;
    int has;
    if (!saver->progress || (!is_last && now - saver->shown_ms < 100)) return;
    dcpi_mutex_lock(&saver->lock);
    has = saver->has_latest;
    progress = saver->latest;
    saver->has_latest = 0;
    dcpi_mutex_unlock(&saver->lock);
    if (!has) return;
    saver->shown_ms = now;
    saver->progress(saver->progress_user, &progress);
}

/* ---- one stage at a time, in a thread ------------------------------------------------------------------------------------------------------ */
static void dcpi_async_work(dcp_saver *saver) {
    dcpi_save *s = &saver->save;
    const dcpi_async_state state = saver->state;
    if (state == DCPI_ASYNC_BACKGROUND || state == DCPI_ASYNC_WRITING) {
        if (!saver->status) saver->status = dcpi_save_write(s, &saver->err);
        dcpi_async_taken(saver, INT64_MAX);
    }
    if (state == DCPI_ASYNC_BACKGROUND) saver->status = dcpi_save_commit(s, saver->status, &saver->err);
    if (state == DCPI_ASYNC_COMMITTING) saver->status = dcpi_commit_run(s, &saver->err);
    if (state == DCPI_ASYNC_BACKGROUND || state == DCPI_ASYNC_FINISHING) saver->status = dcpi_save_finish(s, saver->status);
}
static void dcpi_async_main(void *argument) {
    dcp_saver *saver = (dcp_saver *)argument;
    dcpi_async_work(saver);
    dcpi_mutex_lock(&saver->lock);
    saver->is_running = 0;
    dcpi_cond_wake_all(&saver->changed);
    dcpi_mutex_unlock(&saver->lock);
}
/* Where there is no thread, the stage runs here and now; only what is all that is left to do is then left to polls. */
static void dcpi_async_start(dcp_saver *saver, dcpi_async_state state) {
    dcpi_op *op = &saver->save.op;
    saver->state = state;
    op->is_beside = state != DCPI_ASYNC_BACKGROUND;
    op->team.is_polled = op->is_beside;
    saver->is_running = 1;
    saver->has_thread = DCPI_THREADS && dcpi_thread_start(&saver->thread, dcpi_async_main, saver) == 0;
    if (saver->has_thread) return;
    if (state == DCPI_ASYNC_BACKGROUND) saver->state = DCPI_ASYNC_WRITING;
    op->is_beside = 0;
    op->team.is_polled = 1;
    dcpi_async_work(saver);
    saver->is_running = 0;
}
/* Whether the thread works still; waits for its end for wait_ms at most. */
static int dcpi_async_is_running(dcp_saver *saver, int wait_ms) {
    int is_running;
    dcpi_mutex_lock(&saver->lock);
    if (saver->is_running && wait_ms > 0) dcpi_cond_wait_ms(&saver->changed, &saver->lock, wait_ms);
    is_running = saver->is_running;
    dcpi_mutex_unlock(&saver->lock);
    if (is_running || !saver->has_thread) return is_running;
    dcpi_thread_join(&saver->thread);
    saver->has_thread = 0;
    saver->save.op.is_beside = 0;
    return 0;
}

/* ---- driven by polls ----------------------------------------------------------------------------------------------------------------------- */
/* The clock of silence runs while somebody looks at it: of a pause between two polls an eighth of the timeout counts. */
static void dcpi_async_look(dcp_saver *saver) {
    dcpi_op *op = &saver->save.op;
    const int64_t now = dcpi_os_monotonic_ms(), gap = now - saver->polled_ms, counts = op->io.timeout_ms / 8;
    int r;
    saver->polled_ms = now;
    for (r = 0; r < op->team.peer_count && gap > counts; r++) op->team.peers[r].heard_ms += gap - counts;
    op->longest_gap_ms = dcpi_max(op->longest_gap_ms, gap);
    op->checked_ms = now;
    dcpi_flag_set(&op->looked_ms, (int)(now - op->started_ms));
}
/* While a thread works. What has ended the save elsewhere stays in the team: writing goes no further then; a commit is not disturbed. */
static void dcpi_async_tick(dcp_saver *saver) {
    dcp_error ignored;
    dcpi_async_look(saver);
    if (dcpi_team_tick(&saver->save.op, &ignored) && saver->state == DCPI_ASYNC_WRITING) dcpi_flag_set(&saver->save.op.is_hopeless, 1);
}
/* Writing that was stopped in that way has failed for the reason that the team knows. */
static void dcpi_async_blame(dcp_saver *saver) {
    const dcpi_team *t = &saver->save.op.team;
    const int is_hopeless = dcpi_flag_get(&saver->save.op.is_hopeless);
    dcpi_flag_set(&saver->save.op.is_hopeless, 0);
    if (is_hopeless && saver->status == DCP_E_CANCELLED && t->failure.status) saver->status = dcpi_team_failure(t, &saver->err);
}
static void dcpi_async_end(dcp_saver *saver) {
    if (saver->held) saver->held->settle = NULL;
    saver->held = NULL;
    if (!saver->status) (void)dcpi_succeed(&saver->err);
    saver->report = saver->final;
    dcpi_arena_free(&saver->texts);
    saver->state = DCPI_ASYNC_DONE;
}
/* Collects or follows, twice: what the first step takes in, the second sees. */
static int dcpi_async_is_heard(dcp_saver *saver, dcp_status (*step)(dcpi_op *op, int wait_ms, dcp_error *err), int wait_ms) {
    int i;
    dcpi_async_look(saver);
    for (i = 0; i < 2 && saver->status == DCP_PENDING; i++) saver->status = step(&saver->save.op, i ? 0 : wait_ms, &saver->err);
    return saver->status != DCP_PENDING;
}
/* One arrow of the diagram, if its time has come. */
static void dcpi_async_step(dcp_saver *saver, int wait_ms) {
    dcpi_save *s = &saver->save;
    if (dcpi_async_is_running(saver, wait_ms)) {
        if (saver->state == DCPI_ASYNC_WRITING || saver->state == DCPI_ASYNC_COMMITTING) dcpi_async_tick(saver);
        return;
    }
    switch (saver->state) {
        case DCPI_ASYNC_WRITING:
            dcpi_async_tick(saver);
            dcpi_async_blame(saver);
            saver->status = dcpi_save_acknowledge(s, saver->status, &saver->err);
            saver->state = DCPI_ASYNC_GATHERING;
            break;
        case DCPI_ASYNC_GATHERING:
            if (!dcpi_async_is_heard(saver, dcpi_team_collect, wait_ms)) break;
            saver->status = dcpi_save_gathered(s, saver->status, &saver->err);
            if (!saver->status && s->op.team.rank == 0) { dcpi_async_start(saver, DCPI_ASYNC_COMMITTING); break; }
            saver->status = dcpi_save_tell(s, saver->status, &saver->err);
            saver->state = DCPI_ASYNC_TELLING;
            break;
        case DCPI_ASYNC_COMMITTING:
            dcpi_async_tick(saver);
            saver->status = dcpi_save_tell(s, saver->status, &saver->err);
            saver->state = DCPI_ASYNC_TELLING;
            break;
        case DCPI_ASYNC_TELLING:
            if (!dcpi_async_is_heard(saver, dcpi_team_follow, wait_ms)) break;
            if (s->op.team.outbox && s->op.team.rank == 0) dcpi_team_flush(&s->op);
            if (s->op.team.outbox && s->op.team.rank == 0) break;
            dcpi_async_start(saver, DCPI_ASYNC_FINISHING);
            break;
        case DCPI_ASYNC_BACKGROUND:
        case DCPI_ASYNC_FINISHING: dcpi_async_end(saver); break;
        case DCPI_ASYNC_IDLE:
        case DCPI_ASYNC_DONE: break;
    }
}
static void dcpi_async_drive(dcp_saver *saver, int wait_ms) {
    dcpi_async_state before;
    do {
        before = saver->state;
        dcpi_async_step(saver, wait_ms);
        wait_ms = 0;
    } while (saver->state != before);
}
static int dcpi_async_is_busy(const dcp_saver *saver) { return saver->state != DCPI_ASYNC_IDLE && saver->state != DCPI_ASYNC_DONE; }
/* Until the save has ended, or timeout_ms is over (negative: never). */
static void dcpi_async_await(dcp_saver *saver, int timeout_ms) {
    const int64_t began = dcpi_os_monotonic_ms();
    int left = timeout_ms < 0 ? DCPI_TEAM_SLICE_MS : timeout_ms;
    while (dcpi_async_is_busy(saver)) {
        dcpi_async_drive(saver, (int)dcpi_min(left, DCPI_TEAM_SLICE_MS));
        dcpi_async_show(saver, 0);
        if (timeout_ms >= 0) left = (int)dcpi_max(0, timeout_ms - (dcpi_os_monotonic_ms() - began));
        if (left == 0) return;
    }
}
static void dcpi_async_settle(void *saver) { dcpi_async_await((dcp_saver *)saver, -1); }        /* for dcpi_team_begin */

static dcp_status dcpi_async_pending(dcp_error *err) {  /* no failure, so no message */
    (void)dcpi_succeed(err);
    if (err) err->status = DCP_PENDING;
    return DCP_PENDING;
}
static dcp_status dcpi_async_answer(dcp_saver *saver, dcp_error *err) {
    dcpi_async_show(saver, saver->state == DCPI_ASYNC_DONE);
    if (saver->state == DCPI_ASYNC_IDLE) return dcpi_succeed(err);
    if (saver->state != DCPI_ASYNC_DONE) return dcpi_async_pending(err);
    saver->state = DCPI_ASYNC_IDLE;
    if (err) *err = saver->err;
    return saver->status;
}
/* A verdict that nobody has asked for. */
static void dcpi_async_forget(dcp_saver *saver) {
    if (saver->state != DCPI_ASYNC_DONE) return;
    dcpi_async_show(saver, 1);
    if (saver->status)
        dcpi_op_log(&saver->save.op, DCP_LOG_ERROR, "a save in the background failed, and nobody asked: %s", saver->err.message);
    saver->state = DCPI_ASYNC_IDLE;
}

/* ---- begin: what is kept of the desc -------------------------------------------------------------------------------------------------------- */
/* A copy of *text, if there is one, in its place. 0: no memory. */
static int dcpi_async_keep_text(dcp_saver *saver, const char **text) {
    if (!*text) return 1;
    *text = dcpi_arena_text(&saver->texts, *text, strlen(*text), &saver->err);
    return *text != NULL;
}
static void *dcpi_async_keep_bytes(dcp_saver *saver, const void *bytes, size_t count, size_t size) {     /* NULL: no memory */
    void *copy;
    if (count > SIZE_MAX / size) { (void)dcpi_no_memory(&saver->err, SIZE_MAX); return NULL; }
    copy = dcpi_arena_alloc(&saver->texts, count ? count * size : 1, &saver->err);
    if (copy && count) memcpy(copy, bytes, count * size);
    return copy;
}
static int dcpi_async_keep_model(dcp_saver *saver) {
    dcp_save_desc *d = &saver->kept;
    dcp_training *training = d->training ? (dcp_training *)dcpi_async_keep_bytes(saver, d->training, 1, sizeof *training) : NULL;
    dcp_sharding *sharding = d->sharding ? (dcp_sharding *)dcpi_async_keep_bytes(saver, d->sharding, 1, sizeof *sharding) : NULL;
    if ((d->training && !training) || (d->sharding && !sharding)) return 0;
    d->training = training;
    d->sharding = sharding;
    if (training && (!dcpi_async_keep_text(saver, &training->optimizer_type) || !dcpi_async_keep_text(saver, &training->optimizer_state) ||
                     !dcpi_async_keep_text(saver, &training->extra))) return 0;
    return !sharding || (dcpi_async_keep_text(saver, &sharding->strategy) && dcpi_async_keep_text(saver, &sharding->precision) &&
                         dcpi_async_keep_text(saver, &sharding->info) && dcpi_async_keep_text(saver, &sharding->extra));
}
static int dcpi_async_keep_lists(dcp_saver *saver) {
    dcp_save_desc *d = &saver->kept;
    dcp_field *fields = (dcp_field *)dcpi_async_keep_bytes(saver, d->fields, d->field_count, sizeof *fields);
    dcp_tier *tiers = (dcp_tier *)dcpi_async_keep_bytes(saver, d->tiers, d->tiers ? d->tier_count : 0, sizeof *tiers);
    size_t i;
    if (!fields || !tiers) return 0;
    for (i = 0; i < d->field_count; i++)
        if (!dcpi_async_keep_text(saver, &fields[i].key) || !dcpi_async_keep_text(saver, &fields[i].value)) return 0;
    for (i = 0; d->tiers && i < d->tier_count; i++)
        if (!dcpi_async_keep_text(saver, &tiers[i].name) || !dcpi_async_keep_text(saver, &tiers[i].size_budget) ||
            !dcpi_async_keep_text(saver, &tiers[i].placement_policy)) return 0;
    d->fields = fields;
    if (d->tiers) d->tiers = tiers;
    return 1;
}
/* All tensors: later phases look at those that this rank writes; a layout may look at the others. */
static int dcpi_async_keep_tensors(dcp_saver *saver) {
    dcpi_save *s = &saver->save;
    const dcp_tensor *before = s->desc->tensors;
    dcp_tensor *tensors = (dcp_tensor *)dcpi_async_keep_bytes(saver, before, s->desc->tensor_count, sizeof *tensors);
    size_t i;
    if (!tensors) return 0;
    for (i = 0; i < s->desc->tensor_count; i++)
        if (!dcpi_async_keep_text(saver, &tensors[i].name) || !dcpi_async_keep_text(saver, &tensors[i].tier)) return 0;
    for (i = 0; i < s->placed_count; i++) s->placed[i].tensor = tensors + (s->placed[i].tensor - before);
    saver->kept.tensors = tensors;
    return 1;
}
/* From here on s->desc is ours. Without memory for that the save has failed, and nothing of the caller's is looked at again. */
static dcp_status dcpi_async_keep(dcp_saver *saver) {
    dcpi_save *s = &saver->save;
    dcp_save_desc *d = &saver->kept;
    int is_kept;
    *d = *s->desc;
    if (d->signer) saver->signer = *d->signer;
    if (d->signer) d->signer = &saver->signer;
    is_kept = dcpi_async_keep_text(saver, &d->path) && dcpi_async_keep_text(saver, &d->model_id) && dcpi_async_keep_model(saver) &&
              dcpi_async_keep_lists(saver) && dcpi_async_keep_tensors(saver);
    if (is_kept && d->signer)
        is_kept = dcpi_async_keep_text(saver, &saver->signer.algorithm) && dcpi_async_keep_text(saver, &saver->signer.key_id);
    d->report = &saver->final;
    s->desc = d;
    s->op.io.progress = d->io.progress ? dcpi_async_note : NULL;
    s->op.io.progress_user = saver;
    saver->progress = d->io.progress;
    saver->progress_user = d->io.progress_user;
    return is_kept ? DCP_OK : DCP_E_MEMORY;
}

/* ---- begin: the copy -------------------------------------------------------------------------------------------------------------------------- */
static void dcpi_pool_free(dcpi_pool *pool) {
    if (pool->is_of_device) pool->device->free_host(pool->device->context, pool->memory);
    else if (pool->is_pages) dcpi_os_pages_free(pool->memory, pool->size);
    else dcpi_free(pool->memory);
    pool->memory = NULL;
    pool->size = 0;
}
/* Room for `used` bytes; what there was before is as good as gone. */
static dcp_status dcpi_pool_grow(dcpi_pool *pool, dcp_error *err) {
    void *memory = NULL;
    if (pool->used <= pool->size) return DCP_OK;
    dcpi_pool_free(pool);
    pool->is_of_device = pool->device && pool->device->allocate_host && pool->device->free_host;
    if (pool->is_of_device && pool->device->allocate_host(pool->device->context, pool->used, &memory, err)) memory = NULL;
    pool->is_of_device = memory != NULL;
    if (!memory) memory = dcpi_os_pages(pool->used);
    pool->is_pages = memory && !pool->is_of_device;
    if (!memory) memory = dcpi_alloc(pool->used, err);
    pool->memory = (uint8_t *)memory;
    pool->size = memory ? pool->used : 0;
    return memory ? DCP_OK : DCP_E_MEMORY;
}
static dcpi_pool *dcpi_async_pool(dcp_saver *saver, const dcp_device *device) {         /* NULL: no memory */
    void *pools = saver->pools;
    size_t i;
    for (i = 0; i < saver->pool_count; i++) if (saver->pools[i].device == device) return &saver->pools[i];
    if (!dcpi_grow(&pools, &saver->pool_capacity, saver->pool_count + 1, sizeof *saver->pools, NULL)) return NULL;
    saver->pools = (dcpi_pool *)pools;
    memset(&saver->pools[saver->pool_count], 0, sizeof *saver->pools);
    saver->pools[saver->pool_count].device = device;
    return &saver->pools[saver->pool_count++];
}
/* Each of placed[from..] has its room in a pool: the last tensors of the file that fit the budget. 0: no memory, so none of them is kept. */
static int dcpi_async_make_room(dcp_saver *saver, size_t from) {
    const dcpi_save *s = &saver->save;
    size_t i;
    for (i = 0; i < saver->pool_count; i++) saver->pools[i].used = 0;
    for (i = from; i < s->placed_count; i++) {
        dcpi_pool *pool = dcpi_async_pool(saver, s->placed[i].tensor->device);
        if (!pool || (uint64_t)s->placed[i].size > SIZE_MAX - 63 - pool->used) return 0;
        pool->used += ((size_t)s->placed[i].size + 63) & ~(size_t)63;
    }
    for (i = 0; i < saver->pool_count; i++) if (dcpi_pool_grow(&saver->pools[i], NULL)) return 0;
    for (i = 0; i < saver->pool_count; i++) saver->pools[i].used = 0;
    return 1;
}
static size_t dcpi_async_first_kept(const dcp_saver *saver) {
    const dcpi_save *s = &saver->save;
    uint64_t left = saver->desc.snapshot_budget ? saver->desc.snapshot_budget : UINT64_MAX;
    size_t i = s->placed_count;
    for (; i > 0 && (uint64_t)s->placed[i - 1].size <= left; i--) left -= (uint64_t)s->placed[i - 1].size;
    return i;
}
/* Host: packed row-major, in chunks between which cancel and deadline are looked at. Device: only begun; *ticket is to be waited for. */
static dcp_status dcpi_async_copy_one(dcp_saver *saver, const dcp_tensor *tensor, uint8_t *to, int64_t size, uint64_t *ticket) {
    dcpi_op *op = &saver->save.op;
    int64_t at, n;
    dcp_status status = dcpi_op_check(op, &saver->err);
    if (status || size == 0) return status;
    if (tensor->device) {
        status = tensor->device->copy_out(tensor->device->context, to, tensor, 0, (size_t)size, ticket, &saver->err);
        return status ? dcpi_storage_result(status, "copy from its device the tensor", tensor->name, &saver->err) : DCP_OK;
    }
    for (at = 0; at < size && !status; at += n) {
        n = dcpi_min(size - at, DCPI_CHUNK);
        status = dcpi_tensor_fetch(tensor, at, to + at, (size_t)n, &saver->err);
        dcpi_swap_bytes(to + at, n, dcpi_dtype_width(tensor->dtype));   /* a copy of memory, not of the file */
        if (!status) status = dcpi_op_check(op, &saver->err);
    }
    return status;
}
/* placed[from..]: copied, and each tensor of ours made one of plain host memory. Every ticket is waited for, whatever fails. */
static dcp_status dcpi_async_copy(dcp_saver *saver, size_t from) {
    dcpi_save *s = &saver->save;
    const size_t count = s->placed_count - from;
    uint64_t *tickets = (uint64_t *)dcpi_alloc_array(count, sizeof *tickets, &saver->err);
    dcp_status status = tickets ? DCP_OK : DCP_E_MEMORY;
    size_t i, begun;
    for (begun = 0; begun < count && !status; begun++) {
        const dcpi_placed *p = &s->placed[from + begun];
        dcpi_pool *pool = dcpi_async_pool(saver, p->tensor->device);
        status = dcpi_async_copy_one(saver, p->tensor, pool->memory + pool->used, p->size, &tickets[begun]);
        if (status) break;
        pool->used += ((size_t)p->size + 63) & ~(size_t)63;
    }
    for (i = 0; i < saver->pool_count; i++) saver->pools[i].used = 0;
    for (i = 0; i < begun; i++) {
        const dcpi_placed *p = &s->placed[from + i];
        const dcp_device *device = p->tensor->device;
        dcpi_pool *pool = dcpi_async_pool(saver, device);
        dcp_tensor *tensor = (dcp_tensor *)(uintptr_t)p->tensor;        /* of saver->kept */
        dcp_error error;
        dcp_status waited = device && p->size > 0 ? device->wait(device->context, tickets[i], &error) : DCP_OK;
        if (waited) waited = dcpi_storage_result(waited, "copy from its device the tensor", tensor->name, &error);
        if (waited && !status) saver->err = error;
        if (!status) status = waited;
        tensor->data = pool->memory + pool->used;
        tensor->device = NULL;
        memset(tensor->stride, 0, sizeof tensor->stride);
        pool->used += ((size_t)p->size + 63) & ~(size_t)63;
    }
    dcpi_free(tickets);
    return status;
}
/* Copies what fits; *must_take: where in the file the tensors end that are the caller's still. */
static dcp_status dcpi_async_snapshot(dcp_saver *saver, int64_t *must_take) {
    dcpi_save *s = &saver->save;
    size_t from = dcpi_async_first_kept(saver), i;
    if (!dcpi_async_make_room(saver, from)) {
        dcpi_op_log(&s->op, DCP_LOG_WARNING, "no memory for a copy of the tensors: begin waits until they are written");
        from = s->placed_count;
    }
    *must_take = 0;
    for (i = 0; i < from; i++) {
        s->report.bytes_in_begin += s->placed[i].size;
        if (s->placed[i].size > 0) *must_take = s->data_offset + s->placed[i].offset + s->placed[i].size;
    }
    if (*must_take > 0) s->plain_names = 0;             /* a plain name that is taken meanwhile would have to be written again */
    return dcpi_async_copy(saver, from);
}
/* Returns when the rest of the caller's memory has been read, or is not needed any more. */
static void dcpi_async_await_taken(dcp_saver *saver, int64_t must_take) {
    int is_there;
    do {
        dcpi_mutex_lock(&saver->lock);
        if (saver->is_running && saver->taken < must_take) dcpi_cond_wait_ms(&saver->changed, &saver->lock, DCPI_TEAM_SLICE_MS);
        is_there = !saver->is_running || saver->taken >= must_take;
        if (is_there && must_take > 0) saver->is_released = 1;
        dcpi_mutex_unlock(&saver->lock);
        if (is_there) break;
        if (saver->state == DCPI_ASYNC_WRITING) dcpi_async_tick(saver);
        dcpi_async_show(saver, 0);
    } while (!is_there);
}

/* ---- begin ------------------------------------------------------------------------------------------------------------------------------------ */
/* Refusing is rank 0's word, so that it is the same on all ranks: one byte, and which begin it is about. */
static dcp_status dcpi_async_tell_busy(dcp_coordinator *c, uint32_t number, int is_busy, int timeout_ms, dcp_error *err) {
    uint8_t word[8];
    int r;
    dcp_status status = DCP_OK;
    dcpi_store32(word, number);
    dcpi_store32(word + 4, (uint32_t)is_busy);
    for (r = 1; r < c->world_size && !status; r++) status = dcpi_coord_send(c, r, DCPI_TAG_SAVER, word, sizeof word, timeout_ms, err);
    return status;
}
static dcp_status dcpi_async_hear_busy(dcp_saver *saver, dcp_coordinator *c, int *is_busy, int timeout_ms, dcp_error *err) {
    const int64_t until = dcpi_os_monotonic_ms() + (int64_t)timeout_ms * 23 / 20;
    dcp_status status = DCP_PENDING;
    void *word = NULL;
    size_t size = 0;
    int from = 0;
    while (status == DCP_PENDING && dcpi_os_monotonic_ms() < until) {
        dcpi_async_drive(saver, 0);
        status = dcpi_coord_receive(c, &from, DCPI_TAG_SAVER, &word, &size, DCPI_TEAM_SLICE_MS, err);
    }
    if (status == DCP_PENDING) return dcpi_fail(err, DCP_E_TIMEOUT, "rank 0 has not called dcp_save_begin within %d ms", timeout_ms);
    if (status) return status;
    *is_busy = size == 8 && dcpi_load32((uint8_t *)word + 4) != 0;
    if (size != 8 || dcpi_load32((uint8_t *)word) != saver->begins)
        status = dcpi_fail(err, DCP_E_MISMATCH, "ranks 0 and %d are in different calls of dcp_save_begin", c->rank);
    dcpi_free(word);
    return status;
}
/* The save before this one: waited for, or in the way (DCP_PENDING). */
static dcp_status dcpi_async_free(dcp_saver *saver, const dcp_io *io, dcp_error *err) {
    dcp_coordinator *c = io->coordinator;
    const int timeout_ms = io->timeout_ms > 0 ? io->timeout_ms : DCPI_COORD_TIMEOUT;
    int is_busy;
    dcp_status status = DCP_OK;
    saver->begins++;
    dcpi_async_drive(saver, 0);
    is_busy = dcpi_async_is_busy(saver);
    if (saver->desc.when_busy == DCP_BUSY_REFUSE && c && c->world_size > 1 && !dcpi_coord_check(c, err)) {
        if (c->rank == 0) status = dcpi_async_tell_busy(c, saver->begins, is_busy, timeout_ms, err);
        else status = dcpi_async_hear_busy(saver, c, &is_busy, timeout_ms, err);
    }
    if (status) return status;
    if (is_busy && saver->desc.when_busy == DCP_BUSY_REFUSE) return dcpi_async_pending(err);
    dcpi_async_await(saver, -1);                        /* refusing: rank 0 knows the verdict, so it is on its way */
    dcpi_async_forget(saver);
    return DCP_OK;
}
static void dcpi_async_prepare(dcp_saver *saver, const dcp_save_desc *desc) {
    dcpi_save *s = &saver->save;
    memset(s, 0, sizeof *s);
    (void)dcpi_succeed(&saver->err);
    dcpi_flag_set(&saver->cancel.requested, 0);
    saver->taken = 0;
    saver->is_released = saver->has_latest = 0;
    saver->shown_ms = dcpi_os_monotonic_ms() - 1000;
    s->desc = desc;
    s->cancel_too = &saver->cancel;
    s->taken = dcpi_async_taken;
    s->again = dcpi_async_again;
    s->watcher = saver;
}
/* Whether one thread can do all the rest, or the ranks' messages must be left to polls. */
static int dcpi_async_can_leave(const dcpi_save *s) { return s->op.team.world_size == 1 || s->op.team.coordinator->thread_safe; }

static void dcpi_async_go(dcp_saver *saver, dcp_save_report *report) {
    dcpi_save *s = &saver->save;
    dcp_coordinator *c = s->op.team.coordinator;
    const int writes_now = !saver->status && !dcpi_async_can_leave(s) && dcpi_save_relays(s);
    int64_t must_take = INT64_MAX;
    int must_tell;
    if (!saver->status) saver->status = dcpi_async_keep(saver);
    else (void)dcpi_async_keep(saver);
    if (!saver->status && DCPI_THREADS && !writes_now) saver->status = dcpi_async_snapshot(saver, &must_take);
    else if (!saver->status) s->report.bytes_in_begin = s->file_size;
    saver->report = s->report;
    if (report) *report = s->report;
    if (c) { c->settle = dcpi_async_settle; c->saver = saver; saver->held = c; }
    if (!saver->status && writes_now) saver->status = dcpi_save_write(s, &saver->err);
    must_tell = writes_now && saver->status && s->op.team.rank == 0;
    saver->polled_ms = dcpi_os_monotonic_ms();
    if (dcpi_async_can_leave(s)) dcpi_async_start(saver, DCPI_ASYNC_BACKGROUND);
    else if (!saver->status && !writes_now) dcpi_async_start(saver, DCPI_ASYNC_WRITING);
    else { s->op.team.is_polled = 1; saver->state = DCPI_ASYNC_WRITING; }
    if (saver->state == DCPI_ASYNC_BACKGROUND || saver->has_thread) dcpi_async_await_taken(saver, must_take == INT64_MAX ? 0 : must_take);
    if (saver->state != DCPI_ASYNC_BACKGROUND) dcpi_async_drive(saver, 0);
    /* rank 0, failed: ranks that send it their bytes wait in begin to hear it, and hear it soon */
    while (must_tell && saver->state == DCPI_ASYNC_GATHERING) dcpi_async_drive(saver, DCPI_TEAM_SLICE_MS);
}
DCPDEF dcp_status dcp_save_begin(dcp_saver *saver, const dcp_save_desc *desc, dcp_error *err) {
    dcpi_save *s;
    dcp_status status = dcpi_async_check_call(saver, "dcp_save_begin", err);
    if (status) return status;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_save_begin: desc is NULL");
    status = dcpi_async_free(saver, &desc->io, err);
    if (status) return status;
    s = &saver->save;
    dcpi_async_prepare(saver, desc);
    saver->status = dcpi_save_start(s, &saver->err);
    if (!saver->status || (s->op.team.world_size > 1 && !s->op.team.is_over)) {         /* a failure that the others do not know yet is poll's */
        dcpi_async_go(saver, desc->report);
        return dcpi_succeed(err);
    }
    saver->status = dcpi_save_commit(s, saver->status, &saver->err);
    saver->status = dcpi_save_finish(s, saver->status);
    saver->report = s->report;
    if (err) *err = saver->err;
    return saver->status;
}

/* ---- the other calls ------------------------------------------------------------------------------------------------------------------------- */
DCPDEF dcp_status dcp_saver_open(const dcp_saver_desc *desc, dcp_saver **out, dcp_error *err) {
    dcp_saver *saver;
    if (!out) return dcpi_fail(err, DCP_E_INVALID, "dcp_saver_open: out is NULL");
    *out = NULL;
    if (desc && ((int)desc->when_busy < DCP_BUSY_WAIT || desc->when_busy > DCP_BUSY_REFUSE))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_saver_open: when_busy %d is none", (int)desc->when_busy);
    saver = (dcp_saver *)dcpi_alloc_array(1, sizeof *saver, err);
    if (!saver) return DCP_E_MEMORY;
    if (desc) saver->desc = *desc;
    if (dcpi_mutex_init(&saver->lock)) { dcpi_free(saver); return dcpi_no_memory(err, sizeof saver->lock); }
    if (dcpi_cond_init(&saver->changed)) {
        dcpi_mutex_destroy(&saver->lock);
        dcpi_free(saver);
        return dcpi_no_memory(err, sizeof saver->changed);
    }
    *out = saver;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_save_poll(dcp_saver *saver, dcp_error *err) {
    dcp_status status = dcpi_async_check_call(saver, "dcp_save_poll", err);
    if (status) return status;
    dcpi_async_drive(saver, 0);
    return dcpi_async_answer(saver, err);
}
DCPDEF dcp_status dcp_save_wait(dcp_saver *saver, int timeout_ms, dcp_error *err) {
    dcp_status status = dcpi_async_check_call(saver, "dcp_save_wait", err);
    if (status) return status;
    dcpi_async_await(saver, timeout_ms);
    return dcpi_async_answer(saver, err);
}
DCPDEF void dcp_save_cancel(dcp_saver *saver) {
    if (saver) dcp_cancel_request(&saver->cancel);
}
DCPDEF const dcp_save_report *dcp_report_of(const dcp_saver *saver) { return saver ? &saver->report : NULL; }

DCPDEF void dcp_saver_close(dcp_saver *saver) {
    size_t i;
    if (!saver) return;
    dcpi_async_await(saver, -1);
    dcpi_async_forget(saver);
    for (i = 0; i < saver->pool_count; i++) dcpi_pool_free(&saver->pools[i]);
    dcpi_free(saver->pools);
    dcpi_arena_free(&saver->texts);
    dcpi_cond_destroy(&saver->changed);
    dcpi_mutex_destroy(&saver->lock);
    dcpi_free(saver);
}

/* ================================================================================================================================
 * >>load        How bytes come back (DESIGN 5). The stages, in the order in which they run:
 *
 *   open       the document, checked: >>index
 *   match      wanted tensors with stored ones: names, types, shapes, and which pieces hold them
 *   plan       the boxes that a wanted tensor and its pieces share, and the byte ranges ("items") to read for them, sorted by file and
 *              offset
 *   share      several ranks, share_reads: who reads what several need, for all of them
 *   read       a crew takes runs of neighbouring items; reads each with one request                G7: through bounded buffers
 *   verify     the blocks touched, before their bytes are used                                     G4
 *   scatter    into memory, perhaps strided, or a device
 * ============================================================================================================================== */
typedef struct dcpi_load dcpi_load;
static dcp_status dcpi_load_match(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_plan(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_share(dcpi_load *l, dcp_status status, dcp_error *err);
static dcp_status dcpi_load_read(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_read_shared(dcpi_load *l, dcp_error *err);

#define DCPI_LOAD_LEAVES 1024                           /* leaves verified in one go, at most */
#define DCPI_LOAD_GAP ((int64_t)64 * 1024)              /* between neighbours, read and thrown away, is cheaper than another request */
#define DCPI_NO_SOURCE SIZE_MAX                         /* an item that is only verified */

typedef struct dcpi_source {                            /* a box that one wanted tensor gets from one piece */
    dcp_tensor *wanted;
    const dcpi_piece *piece;
    dcpi_walk walk;
} dcpi_source;
typedef struct dcpi_item {                              /* bytes of a piece to read: a block, or a part of one that needs no check */
    const dcpi_piece *piece;                            /* NULL: a gap of the file, which must be zero */
    size_t source;
    int shard;
    int64_t begin, end;                                 /* within the piece; of a gap: within the file */
    int64_t at;                                         /* of `begin` in the file */
} dcpi_item;

typedef struct dcpi_shared {                            /* bytes that several ranks need; one reads them */
    const dcpi_item **items; size_t count;              /* this rank's items with them */
    int reader;
    const uint8_t *others; int other_count;             /* the reader's: the ranks that get them, 4 bytes each */
} dcpi_shared;

struct dcpi_load {
    dcp_checkpoint *checkpoint;
    dcpi_op *op;
    dcp_tensor *wanted; size_t wanted_count;
    int rank;                                           /* whose private tensors; -1: this rank's own */
    int check;                                          /* verify block digests */
    dcpi_source *sources; size_t source_count, source_capacity;
    dcpi_item *items; size_t item_count, item_capacity;
    const dcpi_item **order; size_t order_count;        /* sorted; once shared, only what this rank reads for itself */
    int share;
    dcpi_shared *shared; size_t shared_count;           /* in the order that all ranks go through them */
    const dcpi_item **shared_items;
    uint8_t *share_plan;                                /* rank 0's message, which `others` point into */
    size_t chunk;                                       /* bytes of a worker's buffer */
    /* shared, under crew.lock */
    dcpi_crew crew;
    size_t next;
    int64_t bytes_done;
    int repeated;                                       /* requests that failed and were tried again */
};

/* One read: tensors may be NULL with count 0. */
static dcp_status dcpi_load_run(dcp_checkpoint *c, dcpi_op *op, dcp_tensor *tensors, size_t count, int rank, dcp_error *err) {
    dcpi_load l;
    dcp_status status;
    memset(&l, 0, sizeof l);
    l.checkpoint = c;
    l.op = op;
    l.wanted = tensors;
    l.wanted_count = count;
    l.rank = rank;
    l.check = c->verify != DCP_VERIFY_NONE;
    l.share = c->share_reads && op->team.world_size > 1;
    status = dcpi_load_match(&l, err);
    if (!status) status = dcpi_load_plan(&l, err);
    if (l.share) status = dcpi_load_share(&l, status, err);
    if (!status) status = dcpi_load_read(&l, err);
    if (!status) status = dcpi_load_read_shared(&l, err);
    dcpi_free(l.shared);
    dcpi_free((void *)l.shared_items);
    dcpi_free(l.share_plan);
    dcpi_free((void *)l.order);
    dcpi_free(l.items);
    dcpi_free(l.sources);
    return status;
}

/* ---- match --------------------------------------------------------------------------------------------------------------------------- */
/* Of a private tensor: are the pieces of all ranks one value? Then it loads everywhere. */
static int dcpi_match_all_equal(const dcp_checkpoint *c, const dcpi_stored *stored) {
    const dcpi_piece *first = &c->pieces[stored->first];
    int i;
    if (stored->info.piece_count != c->metadata->world_size || first->meta->block_size == 0) return 0;
    for (i = 1; i < stored->info.piece_count; i++) {
        const dcp_tensor_metadata *a = first->meta, *b = first[i].meta;
        if (dcp_dtype_parse(a->data_type) != dcp_dtype_parse(b->data_type)) return 0;
        if (a->size != b->size || a->ndim != b->ndim || a->block_size != b->block_size || a->block_count != b->block_count) return 0;
        if (memcmp(a->shape, b->shape, sizeof a->shape) != 0 || (a->block_count && memcmp(a->block_checksums, b->block_checksums,
                                                                                          a->block_count * 32) != 0)) return 0;
    }
    return 1;
}
/* The piece of a private tensor that is meant; NULL with an error that says what would work. */
static const dcpi_piece *dcpi_match_private(const dcpi_load *l, const dcpi_stored *stored, dcp_error *err) {
    const dcp_checkpoint *c = l->checkpoint;
    const dcpi_team *t = &c->op.team;
    int rank = l->rank >= 0 ? l->rank : t->rank, i;
    if (l->rank < 0 && dcpi_match_all_equal(c, stored)) return &c->pieces[stored->first];
    for (i = 0; i < stored->info.piece_count && (l->rank >= 0 || c->metadata->world_size == t->world_size); i++)
        if (c->metadata->shards[c->pieces[stored->first + (size_t)i].shard].rank == rank) return &c->pieces[stored->first + (size_t)i];
    if (l->rank >= 0)
        (void)dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\": rank %d stored none (%d ranks did)", stored->info.name, l->rank,
                        stored->info.piece_count);
    else
        (void)dcpi_fail(err, DCP_E_MISMATCH,
                        "tensor \"%s\" is private to each of the %d ranks that saved it, and they differ; read one with dcp_read_rank, or save it "
                        "as DCP_PLACE_REPLICATED or with global_shape", stored->info.name, c->metadata->world_size);
    return NULL;
}
/* piece: of a private tensor, which is that rank's own affair; NULL: all pieces agree, and `info` describes the whole. */
static dcp_status dcpi_match_check(const dcp_tensor *t, const dcp_tensor_info *info, const dcpi_piece *piece, dcp_error *err) {
    char wanted[200], stored[200];
    const int64_t *shape = piece ? piece->meta->shape : info->shape;
    const char *type = piece ? piece->meta->data_type : info->dtype_name;
    int ndim = piece ? piece->meta->ndim : info->ndim;
    if (t->dtype != dcp_dtype_parse(type))
        return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is stored as %s, but wanted as %s; types are not converted", t->name, type,
                         dcp_dtype_name(t->dtype));
    if (t->ndim != ndim || memcmp(dcpi_global_shape(t), shape, sizeof t->shape) != 0)
        return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is stored with shape %s, but wanted with %s", t->name,
                         dcpi_shape_text(ndim, shape, stored, sizeof stored),
                         dcpi_shape_text(t->ndim, dcpi_global_shape(t), wanted, sizeof wanted));
    if (t->dtype != DCP_OPAQUE) return DCP_OK;
    if (info->piece_count != 1 && !piece)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "tensor \"%s\" has the unknown type %s and %d pieces, which cannot be put together",
                         t->name, type, info->piece_count);
    if (memcmp(t->shape, shape, sizeof t->shape) != 0)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "tensor \"%s\" has the unknown type %s and can only be read whole", t->name, type);
    return DCP_OK;
}
static dcp_status dcpi_match_add(dcpi_load *l, dcp_tensor *t, const dcpi_piece *piece, dcp_error *err) {
    void *memory = l->sources;
    if (!dcpi_grow(&memory, &l->source_capacity, l->source_count + 1, sizeof *l->sources, err)) return DCP_E_MEMORY;
    l->sources = (dcpi_source *)memory;
    memset(&l->sources[l->source_count], 0, sizeof *l->sources);
    l->sources[l->source_count].wanted = t;
    l->sources[l->source_count++].piece = piece;
    return DCP_OK;
}
/* The pieces that meet the wanted box: those whose first dimension can reach it are found by search, then looked at one by one. */
static dcp_status dcpi_match_sharded(dcpi_load *l, dcp_tensor *t, const dcpi_stored *stored, dcp_error *err) {
    const dcpi_piece *pieces = &l->checkpoint->pieces[stored->first];
    int64_t offset[DCP_MAX_DIMS], shape[DCP_MAX_DIMS];
    size_t low = 0, high = (size_t)stored->info.piece_count, i;
    while (t->ndim > 0 && low < high) {
        size_t middle = low + (high - low) / 2;
        if (pieces[middle].meta->global_offset[0] > t->global_offset[0] - stored->longest) high = middle;
        else low = middle + 1;
    }
    for (i = low; i < (size_t)stored->info.piece_count; i++) {
        const dcp_tensor_metadata *meta = pieces[i].meta;
        dcp_status status = DCP_OK;
        if (t->ndim > 0 && meta->global_offset[0] >= t->global_offset[0] + t->shape[0]) break;
        if (dcpi_box_meet(t->ndim, t->global_offset, t->shape, meta->global_offset, meta->shape, offset, shape))
            status = dcpi_match_add(l, t, &pieces[i], err);
        if (status) return status;
    }
    return DCP_OK;
}
/* That the sources found for a tensor, sources[first..], cover the wanted box, each element once. */
static dcp_status dcpi_match_covered(dcpi_load *l, const dcp_tensor *t, size_t first, dcp_error *err) {
    size_t count = l->source_count - first, i;
    char text[200];
    dcpi_tiling tiling;
    dcpi_tile *tiles = (dcpi_tile *)dcpi_alloc_array(count, sizeof *tiles, err), **order;
    dcpi_tiles result;
    order = tiles ? (dcpi_tile **)dcpi_alloc_array(count, sizeof *order, err) : NULL;
    if (!order) { dcpi_free(tiles); return DCP_E_MEMORY; }
    for (i = 0; i < count; i++) {
        tiles[i].offset = l->sources[first + i].piece->meta->global_offset;
        tiles[i].shape = l->sources[first + i].piece->meta->shape;
        tiles[i].tag = i;
        order[i] = &tiles[i];
    }
    result = dcpi_tiling_check(&tiling, t->ndim, order, count, t->global_offset, t->shape);
    dcpi_free(order);
    dcpi_free(tiles);
    if (result == DCPI_TILES_NO_MEMORY) return dcpi_no_memory(err, count * sizeof *tiles);
    if (result == DCPI_TILES_OVERLAP)
        return dcpi_fail(err, DCP_E_FORMAT, "%s: stored pieces of tensor \"%s\" overlap", l->checkpoint->path, t->name);
    if (result == DCPI_TILES_IRREGULAR)
        return dcpi_fail(err, DCP_E_LIMIT, "%s: the pieces of tensor \"%s\" are cut too irregularly to check", l->checkpoint->path,
                         t->name);
    if (tiling.has_hole)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "tensor \"%s\": nobody stored %s of it", t->name,
                         dcpi_box_text(t->ndim, tiling.hole_offset, tiling.hole_shape, text, sizeof text));
    return DCP_OK;
}
static dcp_status dcpi_match_one(dcpi_load *l, dcp_tensor *t, dcp_error *err) {
    const dcpi_stored *stored;
    const dcpi_piece *piece = NULL;
    size_t first = l->source_count;
    dcp_status status = dcpi_tensor_check(t, 0, err);
    t->status = DCP_OK;
    if (status) return status;
    stored = dcpi_stored_find(l->checkpoint, t->name);
    if (!stored && t->optional) { t->status = DCP_E_NOT_FOUND; return DCP_OK; }
    if (!stored)
        return dcpi_fail(err, DCP_E_MISMATCH,
                         "tensor \"%s\" is not in %s, which has %" PRIu64 " others (set optional if it may be absent)", t->name,
                l->checkpoint->path,
                         (uint64_t)l->checkpoint->tensor_count);
    if (l->rank >= 0 && stored->info.placement == DCP_PLACE_SHARDED)
        return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is sharded, not private: read it, or a box of it, with dcp_read", t->name);
    if (stored->info.placement == DCP_PLACE_PRIVATE) {
        piece = dcpi_match_private(l, stored, err);
        if (!piece) return DCP_E_MISMATCH;
        if (!dcpi_piece_is_whole(piece->meta))
            return dcpi_fail(err, DCP_E_FORMAT, "%s: tensor \"%s\" is private, but its piece is not whole", l->checkpoint->path, t->name);
    }
    status = dcpi_match_check(t, &stored->info, piece, err);
    if (status) return status;
    if (!piece && stored->info.piece_count == 1 && dcpi_piece_is_whole(l->checkpoint->pieces[stored->first].meta))
        piece = &l->checkpoint->pieces[stored->first];
    if (t->dtype != DCP_OPAQUE && dcpi_tensor_bytes(t) == 0) return DCP_OK;
    if (t->dtype == DCP_OPAQUE && !piece)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "tensor \"%s\" has the unknown type %s, and what is stored is not the whole of it",
                         t->name, stored->info.dtype_name);
    if (piece) return dcpi_match_add(l, t, piece, err);
    status = dcpi_match_sharded(l, t, stored, err);
    return status ? status : dcpi_match_covered(l, t, first, err);
}
static dcp_status dcpi_load_match(dcpi_load *l, dcp_error *err) {
    size_t i;
    if (l->wanted_count > 0 && !l->wanted) return dcpi_fail(err, DCP_E_INVALID, "read: tensors is NULL");
    for (i = 0; i < l->wanted_count; i++) {
        dcp_status status = dcpi_match_one(l, &l->wanted[i], err);
        if (status) return status;
    }
    return DCP_OK;
}

/* ---- plan ---------------------------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_plan_walk(dcpi_source *source, dcp_error *err) {
    const dcp_tensor *t = source->wanted;
    const dcp_tensor_metadata *meta = source->piece->meta;
    int64_t offset[DCP_MAX_DIMS] = {0}, shape[DCP_MAX_DIMS] = {0}, in_piece[DCP_MAX_DIMS] = {0}, in_memory[DCP_MAX_DIMS] = {0},
            stride[DCP_MAX_DIMS] = {0};
    int d;
    if (t->dtype == DCP_OPAQUE) {                       /* bytes, whole */
        shape[0] = meta->size;
        stride[0] = 1;
        (void)dcpi_walk_make(&source->walk, 1, 8, shape, shape, in_piece, in_memory, stride);
        return DCP_OK;
    }
    (void)dcpi_box_meet(t->ndim, t->global_offset, t->shape, meta->global_offset, meta->shape, offset, shape);
    for (d = 0; d < t->ndim; d++) {
        in_piece[d] = offset[d] - meta->global_offset[d];
        in_memory[d] = offset[d] - t->global_offset[d];
    }
    if (t->device) dcpi_row_major(t->ndim, t->shape, stride);           /* a device is told offsets in the piece, and knows its strides */
    else dcpi_effective_stride(t, stride);
    if (dcpi_walk_make(&source->walk, t->ndim, dcp_dtype_bits(t->dtype), shape, meta->shape, in_piece, in_memory, stride)) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": the box cuts a byte, which holds two elements of %s", t->name,
                     dcp_dtype_name(t->dtype));
}
static dcp_status dcpi_plan_add(dcpi_load *l, const dcpi_piece *piece, size_t source, int shard, int64_t begin, int64_t end, int64_t at,
                                dcp_error *err) {
    void *memory = l->items;
    dcpi_item *item;
    if (!dcpi_grow(&memory, &l->item_capacity, l->item_count + 1, sizeof *l->items, err)) return DCP_E_MEMORY;
    l->items = (dcpi_item *)memory;
    item = &l->items[l->item_count++];
    item->piece = piece;
    item->source = source;
    item->shard = shard;
    item->begin = begin;
    item->end = end;
    item->at = at;
    return DCP_OK;
}
/* Whole blocks where their digests are checked, else just the range that is needed. */
static dcp_status dcpi_plan_items(dcpi_load *l, size_t source, dcp_error *err) {
    const dcpi_source *from = &l->sources[source];
    const dcp_tensor_metadata *meta = from->piece->meta;
    int64_t step = l->check && meta->block_size ? meta->block_size : DCPI_CHUNK, begin = 0, first, last;
    dcp_status status = DCP_OK;
    while (!status && begin < meta->size && dcpi_walk_range(&from->walk, begin, meta->size, &first, &last)) {
        begin = first / step * step;                    /* skips the blocks before the next byte that is wanted */
        last = dcpi_min(begin + step, meta->size);
        if ((l->check && meta->block_size) || l->share) first = begin;  /* shared: all ranks cut alike */
        else (void)dcpi_walk_range(&from->walk, begin, last, &first, &last);
        status = dcpi_plan_add(l, from->piece, source, from->piece->shard, first, last, meta->offset + first, err);
        begin += step;
    }
    return status;
}
static int dcpi_item_compare(const void *a_, const void *b_) {
    const dcpi_item *a = (const dcpi_item *)a_, *b = (const dcpi_item *)b_;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}
static dcp_status dcpi_plan_sort(dcpi_load *l, dcp_error *err) {
    size_t i;
    l->order = (const dcpi_item **)dcpi_alloc_array(l->item_count, sizeof *l->order, err);
    if (!l->order) return DCP_E_MEMORY;
    for (i = 0; i < l->item_count; i++) l->order[i] = &l->items[i];
    l->order_count = l->item_count;
    return dcpi_sort((const void **)l->order, l->order_count, dcpi_item_compare, err);
}
static dcp_status dcpi_load_plan(dcpi_load *l, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < l->source_count && !status; i++) {
        status = dcpi_plan_walk(&l->sources[i], err);
        if (!status) status = dcpi_plan_items(l, i, err);
    }
    return status ? status : dcpi_plan_sort(l, err);
}

/* ---- share: who reads what several ranks need ------------------------------------------------------------------------------------------
 * Every rank tells rank 0 which ranges it reads: for each, in order, the shard, the offset in its file and the size, as varints. Rank 0 answers
 * for each, in the same order, 0: read it yourself; or 1 + the rank that reads it for all (4 bytes each), and tells that rank the others. All
 * go through the shared ranges in the order of files and offsets, so that nobody waits for one who waits for him. */
static int dcpi_share_is_same(const dcpi_item *a, const dcpi_item *b) { return a->shard == b->shard && a->at == b->at && a->end - a->begin == b->end - b->begin; }

static void dcpi_share_ask(const dcpi_load *l, dcpi_buffer *message) {
    size_t i;
    for (i = 0; i < l->order_count; i++) {
        const dcpi_item *item = l->order[i];
        if (i > 0 && dcpi_share_is_same(l->order[i - 1], item)) continue;
        dcpi_list_number(message, (uint64_t)item->shard);
        dcpi_list_number(message, (uint64_t)item->at);
        dcpi_list_number(message, (uint64_t)(item->end - item->begin));
    }
}
typedef struct dcpi_want { int64_t shard, at, size; int rank; } dcpi_want;              /* rank 0: one range that one rank reads */
typedef struct dcpi_wants { dcpi_want *items; size_t count, capacity; const void **order; int64_t *load; dcpi_buffer *answers; } dcpi_wants;

static int dcpi_want_compare(const void *a_, const void *b_) {
    const dcpi_want *a = (const dcpi_want *)a_, *b = (const dcpi_want *)b_;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}
static dcp_status dcpi_wants_read(dcpi_wants *w, int rank, const uint8_t *at, const uint8_t *end, dcp_error *err) {
    while (at < end) {
        void *memory = w->items;
        dcpi_want *want;
        if (!dcpi_grow(&memory, &w->capacity, w->count + 1, sizeof *w->items, err)) return DCP_E_MEMORY;
        w->items = (dcpi_want *)memory;
        want = &w->items[w->count++];
        want->rank = rank;
        if (!dcpi_listed_number(&at, end, &want->shard) || !dcpi_listed_number(&at, end, &want->at) || !dcpi_listed_number(&at, end, &want->size))
            return dcpi_fail(err, DCP_E_COMM, "load: rank %d sent a list of another version of dcp.h", rank);
    }
    return DCP_OK;
}
static void dcpi_wants_answer(dcpi_buffer *to, uint32_t value) {
    uint8_t bytes[4];
    dcpi_store32(bytes, value);
    dcpi_buffer_add(to, bytes, sizeof bytes);
}
/* One range, wanted by order[first..end): the rank that reads least so far reads it. */
static void dcpi_wants_assign(dcpi_wants *w, size_t first, size_t end) {
    const dcpi_want *best = (const dcpi_want *)w->order[first];
    size_t i, k;
    for (i = first + 1; i < end; i++)
        if (w->load[((const dcpi_want *)w->order[i])->rank] < w->load[best->rank]) best = (const dcpi_want *)w->order[i];
    w->load[best->rank] += best->size;
    for (i = first; i < end; i++) {
        const int rank = ((const dcpi_want *)w->order[i])->rank;
        dcpi_wants_answer(&w->answers[rank], end - first == 1 ? 0 : 1 + (uint32_t)best->rank);
        if (end - first == 1 || rank != best->rank) continue;
        dcpi_wants_answer(&w->answers[rank], (uint32_t)(end - first - 1));
        for (k = first; k < end; k++)
            if (((const dcpi_want *)w->order[k])->rank != rank) dcpi_wants_answer(&w->answers[rank], (uint32_t)((const dcpi_want *)w->order[k])->rank);
    }
}
static dcp_status dcpi_wants_plan(dcpi_wants *w, dcpi_op *op, const dcpi_buffer *own, dcp_error *err) {
    const dcpi_team *t = &op->team;
    dcp_status status = DCP_OK;
    size_t i, end;
    int r;
    w->load = (int64_t *)dcpi_alloc_array((size_t)t->world_size, sizeof *w->load, err);
    w->answers = w->load ? (dcpi_buffer *)dcpi_alloc_array((size_t)t->world_size, sizeof *w->answers, err) : NULL;
    if (!w->answers) return DCP_E_MEMORY;
    for (r = 0; r < t->world_size && !status; r++) {
        const uint8_t *message = r ? t->peers[r].message : (const uint8_t *)own->data;
        status = dcpi_wants_read(w, r, message + DCPI_TEAM_HEADER, message + (r ? t->peers[r].size : own->size), err);
    }
    w->order = status ? NULL : (const void **)dcpi_alloc_array(w->count, sizeof *w->order, err);
    if (!status && !w->order) status = DCP_E_MEMORY;
    for (i = 0; i < w->count && !status; i++) w->order[i] = &w->items[i];
    if (!status) status = dcpi_sort(w->order, w->count, dcpi_want_compare, err);
    for (i = 0; i < w->count && !status; i = end) {
        const dcpi_want *first = (const dcpi_want *)w->order[i];
        for (end = i + 1; end < w->count; end++) {
            const dcpi_want *other = (const dcpi_want *)w->order[end];
            if (other->shard != first->shard || other->at != first->at || other->size != first->size) break;
        }
        dcpi_wants_assign(w, i, end);
    }
    return status;
}
static dcp_status dcpi_wants_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_wants *w = (const dcpi_wants *)user;
    if (w->answers[rank].failed) return dcpi_no_memory(err, w->answers[rank].size);
    dcpi_buffer_add(message, w->answers[rank].data, w->answers[rank].size);
    return DCP_OK;
}
static void dcpi_wants_free(dcpi_wants *w, int ranks) {
    int r;
    for (r = 0; w->answers && r < ranks; r++) dcpi_buffer_free(&w->answers[r]);
    dcpi_free(w->answers);
    dcpi_free(w->load);
    dcpi_free(w->items);
    dcpi_free((void *)w->order);
}
/* Sorts this rank's items by the answer: read alone, or shared. */
static dcp_status dcpi_share_take(dcpi_load *l, const uint8_t *at, const uint8_t *end, dcp_error *err) {
    size_t i, next, kept = 0, moved = 0;
    l->shared = (dcpi_shared *)dcpi_alloc_array(l->order_count, sizeof *l->shared, err);
    l->shared_items = l->shared ? (const dcpi_item **)dcpi_alloc_array(l->order_count, sizeof *l->shared_items, err) : NULL;
    if (!l->shared_items) return DCP_E_MEMORY;
    for (i = 0; i < l->order_count; i = next) {
        dcpi_shared *shared = &l->shared[l->shared_count];
        uint32_t answer;
        for (next = i + 1; next < l->order_count && dcpi_share_is_same(l->order[i], l->order[next]);) next++;
        if (end - at < 4) return dcpi_fail(err, DCP_E_COMM, "load: rank 0 sent an answer for another list");
        answer = dcpi_load32(at);
        at += 4;
        if (answer == 0) { for (; i < next; i++) l->order[kept++] = l->order[i]; continue; }
        shared->reader = (int)answer - 1;
        shared->items = l->shared_items + moved;
        shared->count = next - i;
        for (; i < next; i++) l->shared_items[moved++] = l->order[i];
        l->shared_count++;
        if (shared->reader != l->op->team.rank) continue;
        if (end - at < 4 || (int64_t)dcpi_load32(at) > (end - at - 4) / 4) return dcpi_fail(err, DCP_E_COMM, "load: rank 0 sent an answer for another list");
        shared->other_count = (int)dcpi_load32(at);
        shared->others = at + 4;
        at += 4 + 4 * (size_t)shared->other_count;
    }
    l->order_count = kept;
    return DCP_OK;
}
static dcp_status dcpi_load_share(dcpi_load *l, dcp_status status, dcp_error *err) {
    dcpi_team *t = &l->op->team;
    dcpi_wants wants;
    dcpi_buffer own;
    memset(&wants, 0, sizeof wants);
    memset(&own, 0, sizeof own);
    dcpi_team_message_start(&own);
    if (!status) dcpi_share_ask(l, &own);
    status = dcpi_team_up(l->op, status, &own, err);
    if (!status && own.failed) status = dcpi_no_memory(err, own.size);
    if (!status && t->rank == 0) status = dcpi_wants_plan(&wants, l->op, &own, err);
    status = dcpi_team_down(l->op, status, dcpi_wants_make, &wants, 0, err);
    if (!status && t->rank != 0) {
        l->share_plan = t->peers[0].message;
        t->peers[0].message = NULL;
        status = dcpi_share_take(l, l->share_plan + DCPI_TEAM_HEADER, l->share_plan + t->peers[0].size, err);
    } else if (!status) {
        const size_t size = wants.answers[0].size;
        if (wants.answers[0].failed) status = dcpi_no_memory(err, size);
        l->share_plan = (uint8_t *)wants.answers[0].data;
        memset(&wants.answers[0], 0, sizeof wants.answers[0]);
        if (!status) status = dcpi_share_take(l, l->share_plan, l->share_plan + size, err);
    }
    dcpi_wants_free(&wants, t->world_size);
    dcpi_buffer_free(&own);
    return status;
}

/* ---- read, verify, scatter: one worker ----------------------------------------------------------------------------------------------- */
typedef struct dcpi_reader {
    dcpi_load *l;
    uint8_t *buffer; int is_pages;                      /* l->chunk bytes, made when first needed */
    dcpi_sha_job *jobs; uint8_t (*leaves)[32];
} dcpi_reader;

static dcp_status dcpi_reader_prepare(dcpi_reader *r, dcp_error *err) {
    if (r->buffer) return DCP_OK;
    r->buffer = (uint8_t *)dcpi_os_pages(r->l->chunk);
    r->is_pages = r->buffer != NULL;
    if (!r->buffer) r->buffer = (uint8_t *)dcpi_alloc(r->l->chunk, err);
    return r->buffer ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_reader_prepare_jobs(dcpi_reader *r, dcp_error *err) {
    if (r->jobs) return DCP_OK;
    r->leaves = (uint8_t (*)[32])dcpi_alloc(DCPI_LOAD_LEAVES * 32, err);
    r->jobs = r->leaves ? (dcpi_sha_job *)dcpi_alloc(DCPI_LOAD_LEAVES * sizeof *r->jobs, err) : NULL;
    return r->jobs ? DCP_OK : DCP_E_MEMORY;
}
static void dcpi_reader_free(dcpi_reader *r) {
    if (r->is_pages) dcpi_os_pages_free(r->buffer, r->l->chunk);
    else dcpi_free(r->buffer);
    dcpi_free(r->jobs);
    dcpi_free(r->leaves);
}
static dcp_status dcpi_item_corrupt(const dcpi_load *l, const dcpi_item *item, dcp_error *err) {
    const dcp_shard_metadata *shard = &l->checkpoint->metadata->shards[item->shard];
    if (!item->piece)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "%s%s (shard %d): a byte between %" PRId64 " and %" PRId64 ", outside every tensor, is not zero: the file was changed",
                         l->checkpoint->place.shown, shard->file_path, shard->rank, item->at, item->at + item->end - item->begin);
    return dcpi_fail(err, DCP_E_CHECKSUM,
                     "%s%s (shard %d), tensor \"%s\": bytes %" PRId64 " to %" PRId64 " of the file are not those that were saved; restore it from a copy, "
                     "or load another checkpoint", l->checkpoint->place.shown, shard->file_path, shard->rank, item->piece->meta->name,
                             item->at, item->at + item->end - item->begin);
}
static dcp_status dcpi_item_failed(const dcpi_load *l, const dcpi_item *item, dcp_error *err) {
    const dcp_shard_metadata *shard = &l->checkpoint->metadata->shards[item->shard];
    dcpi_fail_context(err, "shard %d, tensor \"%s\": ", shard->rank, item->piece ? item->piece->meta->name : "(gap)");
    return err->status;
}
static size_t dcpi_add_jobs(dcpi_reader *r, size_t count, const uint8_t *data, int64_t size) {
    int64_t at;
    for (at = 0; at < size; at += DCPI_LEAF, count++) {
        r->jobs[count].data = data + at;
        r->jobs[count].size = (size_t)dcpi_min(size - at, DCPI_LEAF);
        r->jobs[count].digest = r->leaves[count];
    }
    return count;
}
static int64_t dcpi_leaf_count(int64_t size) { return (size + DCPI_LEAF - 1) / DCPI_LEAF; }
static int dcpi_item_has_digest(const dcpi_load *l, const dcpi_item *item) {
    return l->check && item->piece && item->piece->meta->block_size > 0;
}
static const uint8_t *dcpi_item_digest(const dcpi_item *item) {
    return item->piece->meta->block_checksums + 32 * (item->begin / item->piece->meta->block_size);
}
/* Bytes of one number of the item, as far as their order counts. */
static int dcpi_item_width(const dcpi_load *l, const dcpi_item *item) {
    const dcp_tensor *t = item->source == DCPI_NO_SOURCE ? NULL : l->sources[item->source].wanted;
    return !t || t->dtype == DCP_OPAQUE ? 1 : dcpi_dtype_width(t->dtype);
}
/* Bytes [begin, end) of the item's piece are in `data`: into the wanted tensor with them. */
static dcp_status dcpi_item_scatter(const dcpi_load *l, const dcpi_item *item, int64_t begin, int64_t end, uint8_t *data, dcp_error *err) {
    const dcpi_source *source;
    const dcp_tensor *t;
    int64_t first, last;
    if (item->source == DCPI_NO_SOURCE) return DCP_OK;
    source = &l->sources[item->source];
    t = source->wanted;
    dcpi_swap_bytes(data, end - begin, dcpi_item_width(l, item));
    if (!t->device) {
        dcpi_walk_copy(&source->walk, begin, end, data, (uint8_t *)t->data, 1);
        return DCP_OK;
    }
    while (dcpi_walk_range(&source->walk, begin, end, &first, &last)) {       /* a device takes runs of the wanted piece, row-major */
        dcpi_step step;
        int64_t run = source->walk.count[source->walk.ndim - 1];
        uint64_t ticket = 0;
        dcp_status status;
        dcpi_step_to(&source->walk, dcpi_walk_seek(&source->walk, first, dcpi_walk_runs(&source->walk)), &step);
        last = dcpi_min(step.file + run, end);
        status = t->device->copy_in(t->device->context, t, step.memory + (first - step.file), data + (first - begin),
                                    (size_t)(last - first), &ticket, err);
        if (!status) status = t->device->wait(t->device->context, ticket, err);
        if (status) return dcpi_storage_result(status, "copy to its device the tensor", t->name, err);
        data += last - begin;
        begin = last;
    }
    return DCP_OK;
}
/* Where the item's bytes may be read straight to: its wanted tensor's memory, if they are one run there; else NULL. */
static uint8_t *dcpi_item_direct(const dcpi_load *l, const dcpi_item *item) {
    const dcpi_source *source = item->source == DCPI_NO_SOURCE ? NULL : &l->sources[item->source];
    if (!source || source->wanted->device || !dcpi_walk_is_run(&source->walk)) return NULL;
    if (item->begin < source->walk.file_start || item->end > source->walk.file_start + source->walk.count[0]) return NULL;
    return (uint8_t *)source->wanted->data + source->walk.memory_start + (item->begin - source->walk.file_start);
}
static int dcpi_is_zero(const uint8_t *data, int64_t size) {
    int64_t i;
    for (i = 0; i < size; i++) if (data[i]) return 0;
    return 1;
}
/* One item of any size, chunk by chunk: read, hash, scatter; the digest is known, and compared, at its end. */
static dcp_status dcpi_read_one(dcpi_reader *r, const dcpi_item *item, dcpi_data_file *file, dcp_error *err) {
    dcpi_load *l = r->l;
    uint8_t *direct = dcpi_item_direct(l, item), digest[32];
    int has_digest = dcpi_item_has_digest(l, item);
    int64_t at, n;
    dcpi_sha sha;
    dcp_status status = direct ? DCP_OK : dcpi_reader_prepare(r, err);
    if (!status && has_digest) status = dcpi_reader_prepare_jobs(r, err);
    dcpi_sha_init(&sha);
    for (at = item->begin; at < item->end && !status; at += n) {
        uint8_t *to = direct ? direct + (at - item->begin) : r->buffer;
        n = dcpi_min(item->end - at, (int64_t)l->chunk);
        status = dcpi_op_check_cancel(l->op, err);
        if (!status && dcpi_crew_is_stopped(&l->crew)) status = dcpi_fail(err, DCP_E_CANCELLED, "stopped after another failure");
        if (!status)
            status = dcpi_storage_read(l->checkpoint->place.storage, file->key, file->object, item->at + (at - item->begin), to,
                                       (size_t)n, err);
        if (!status && has_digest) {
            dcpi_sha_many(r->jobs, dcpi_add_jobs(r, 0, to, n));
            dcpi_sha_update(&sha, r->leaves, (size_t)dcpi_leaf_count(n) * 32);
        }
        if (!status && !item->piece && !dcpi_is_zero(to, n)) return dcpi_item_corrupt(l, item, err);
        if (!status && !direct) status = dcpi_item_scatter(l, item, at, at + n, to, err);
        else if (!status) dcpi_swap_bytes(to, n, dcpi_dtype_width(l->sources[item->source].wanted->dtype));
    }
    if (status) return dcpi_item_failed(l, item, err);
    if (!has_digest) return DCP_OK;
    dcpi_sha_final(&sha, digest);
    if (dcpi_sha_equal(item->end - item->begin <= DCPI_LEAF ? r->leaves[0] : digest, dcpi_item_digest(item), 32)) return DCP_OK;
    return dcpi_item_corrupt(l, item, err);
}
/* Several neighbours with one request: read, hash all leaves at once, compare, scatter. */
static dcp_status dcpi_read_run(dcpi_reader *r, const dcpi_item **items, size_t count, dcpi_data_file *file, dcp_error *err) {
    dcpi_load *l = r->l;
    int64_t base = items[0]->at;
    size_t i, jobs = 0, leaf = 0, size = (size_t)(items[count - 1]->at + items[count - 1]->end - items[count - 1]->begin - base);
    dcp_status status = dcpi_reader_prepare(r, err);
    if (!status) status = dcpi_reader_prepare_jobs(r, err);
    if (!status) status = dcpi_op_check_cancel(l->op, err);
    if (!status) status = dcpi_storage_read(l->checkpoint->place.storage, file->key, file->object, base, r->buffer, size, err);
    if (status) return dcpi_item_failed(l, items[0], err);
    for (i = 0; i < count; i++)
        if (dcpi_item_has_digest(l, items[i])) jobs = dcpi_add_jobs(r, jobs, r->buffer + (items[i]->at - base),
                                                                    items[i]->end - items[i]->begin);
    dcpi_sha_many(r->jobs, jobs);
    for (i = 0; i < count && !status; i++) {
        const dcpi_item *item = items[i];
        uint8_t *data = r->buffer + (item->at - base), digest[32];
        size_t n = dcpi_item_has_digest(l, item) ? (size_t)dcpi_leaf_count(item->end - item->begin) : 0;
        if (n > 1) dcp_sha256(r->leaves[leaf], n * 32, digest);
        if (n > 0 && !dcpi_sha_equal(n > 1 ? digest : r->leaves[leaf], dcpi_item_digest(item), 32)) return dcpi_item_corrupt(l, item, err);
        if (!item->piece && !dcpi_is_zero(data, item->end - item->begin)) return dcpi_item_corrupt(l, item, err);
        leaf += n;
        status = dcpi_item_scatter(l, item, item->begin, item->end, data, err);
    }
    return status;
}
/* How many of the items from order[first] on make one request: neighbours in one file, together within a buffer. */
static size_t dcpi_run_length(const dcpi_load *l, size_t first) {
    const dcpi_item *start = l->order[first];
    int64_t end = start->at + start->end - start->begin, leaves = dcpi_leaf_count(start->end - start->begin);
    size_t n;
    for (n = 1; first + n < l->order_count; n++) {
        const dcpi_item *next = l->order[first + n];
        int64_t size = next->end - next->begin;
        if (next->shard != start->shard || next->at < end || next->at - end > DCPI_LOAD_GAP ||
            next->at + size - start->at > (int64_t)l->chunk) break;
        /* large ones go straight to their place */
        if ((size >= DCPI_LEAF && dcpi_item_direct(l, next)) || leaves + dcpi_leaf_count(size) > DCPI_LOAD_LEAVES) break;
        end = next->at + size;
        leaves += dcpi_leaf_count(size);
    }
    if (start->end - start->begin >= DCPI_LEAF && dcpi_item_direct(l, start)) return 1;
    return n;
}
static dcp_status dcpi_read_items(dcpi_reader *r, const dcpi_item **items, size_t count, dcp_error *err) {
    dcpi_data_file *file;
    dcp_status status = dcpi_data_file_acquire(r->l->checkpoint, items[0]->shard, &file, err);
    if (status) return status;
    status = count == 1 ? dcpi_read_one(r, items[0], file, err) : dcpi_read_run(r, items, count, file, err);
    dcpi_data_file_release(r->l->checkpoint, file);
    return status;
}
/* Whether to try again, after a pause: transient errors, and files that a network file system does not show yet. */
static int dcpi_read_again(dcpi_reader *r, int attempt, const dcp_error *err) {
    const dcp_retry *retry = &r->l->op->io.retry;
    int pause = (int)dcpi_min((int64_t)retry->first_ms << (attempt < 16 ? attempt : 16), retry->max_ms);
    if (attempt + 1 >= retry->attempts || (err->status != DCP_E_INCOMPLETE && !dcpi_storage_is_transient(err))) return 0;
    dcpi_os_sleep_ms(pause);
    dcpi_mutex_lock(&r->l->crew.lock);
    r->l->repeated++;
    dcpi_mutex_unlock(&r->l->crew.lock);
    return !dcpi_crew_is_stopped(&r->l->crew);
}
/* Takes the next run and reads it; 0 when there is none left. Called and returns under the lock. */
static int dcpi_load_work(dcpi_reader *r) {
    dcpi_load *l = r->l;
    size_t first = l->next, count, i;
    dcp_error error;
    dcp_status status;
    int attempt = 0;
    if (first == l->order_count) return 0;
    count = dcpi_run_length(l, first);
    l->next += count;
    dcpi_mutex_unlock(&l->crew.lock);
    do status = dcpi_read_items(r, l->order + first, count, &error);
    while (status && dcpi_read_again(r, attempt++, &error));
    dcpi_mutex_lock(&l->crew.lock);
    for (i = first; i < first + count; i++) l->bytes_done += l->order[i]->end - l->order[i]->begin;
    if (status) dcpi_crew_fail(&l->crew, &error);
    return 1;
}
static void dcpi_load_worker(void *argument) {
    dcpi_reader r;
    memset(&r, 0, sizeof r);
    r.l = (dcpi_load *)argument;
    dcpi_mutex_lock(&r.l->crew.lock);
    while (!r.l->crew.stop && dcpi_load_work(&r)) {}
    dcpi_mutex_unlock(&r.l->crew.lock);
    dcpi_reader_free(&r);
    dcpi_mutex_lock(&r.l->crew.lock);
    dcpi_crew_leave(&r.l->crew);
    dcpi_mutex_unlock(&r.l->crew.lock);
}

/* ---- read: driver -------------------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_flat_check_all(dcpi_load *l, dcp_error *err);

/* Watches the crew; does the work itself where there is none. */
static void dcpi_load_watch(dcpi_load *l) {
    dcpi_reader own;
    dcp_error error;
    memset(&own, 0, sizeof own);
    own.l = l;
    dcpi_mutex_lock(&l->crew.lock);
    while (l->crew.count > 0 ? l->crew.running > 0 : !l->crew.stop && l->next < l->order_count) {
        int64_t done = l->bytes_done;
        dcp_status status;
        dcpi_mutex_unlock(&l->crew.lock);
        dcpi_op_report(l->op, done, 0);
        status = dcpi_op_check(l->op, &error);
        dcpi_mutex_lock(&l->crew.lock);
        if (status) dcpi_crew_fail(&l->crew, &error);
        if (l->crew.count > 0) { if (l->crew.running > 0) dcpi_cond_wait_ms(&l->crew.changed, &l->crew.lock, 100); }
        else if (!status) (void)dcpi_load_work(&own);
    }
    dcpi_mutex_unlock(&l->crew.lock);
    dcpi_reader_free(&own);
}
static dcp_status dcpi_load_read(dcpi_load *l, dcp_error *err) {
    int workers = dcpi_op_threads(l->op, 4);
    int64_t total = 0;
    size_t i, share;
    dcp_status status = dcpi_op_check(l->op, err);
    for (i = 0; i < l->order_count; i++) total += l->order[i]->end - l->order[i]->begin;
    if (!status && l->check) status = dcpi_flat_check_all(l, err);
    if (status || l->order_count == 0) return status;
    if (total < 2 * DCPI_CHUNK || l->order_count == 1) workers = 0;      /* sooner done than started */
    workers = (int)dcpi_min(workers, (int64_t)(l->op->io.memory_budget / (512 * DCPI_KIB)));
    share = l->op->io.memory_budget / (size_t)dcpi_max(workers, 1) - DCPI_LOAD_LEAVES * (sizeof(dcpi_sha_job) + 32);
    l->chunk = (size_t)dcpi_min((int64_t)(share / (size_t)DCPI_LEAF) * DCPI_LEAF, DCPI_CHUNK);
    status = dcpi_crew_open(&l->crew, err);
    if (status) return status;
    dcpi_op_phase(l->op, l->wanted_count ? DCP_PHASE_READ : DCP_PHASE_VERIFY, total);
    dcpi_crew_start(&l->crew, workers, dcpi_load_worker, l);
    dcpi_load_watch(l);
    dcpi_op_report(l->op, l->bytes_done, 1);
    if (l->repeated > 0) dcpi_op_log(l->op, DCP_LOG_WARNING, "%d reads failed and were tried again", l->repeated);
    return dcpi_crew_close(&l->crew, err);
}

/* ---- flat checksums: the whole file, once per open, before anything of it is used ---------------------------------------------------- */
static int dcpi_is_flat(const dcp_shard_metadata *shard) { return shard->checksum && !dcpi_starts_with(shard->checksum, "sha256-tree:"); }

static dcp_status dcpi_flat_hash(dcpi_op *op, dcp_storage *s, const dcpi_data_file *file, uint8_t *buffer, size_t capacity,
                                 uint8_t digest[32], dcp_error *err) {
    int64_t at, n;
    dcpi_sha sha;
    dcp_status status = DCP_OK;
    dcpi_sha_init(&sha);
    for (at = 0; at < file->shard->file_size && !status; at += n) {
        n = dcpi_min(file->shard->file_size - at, (int64_t)capacity);
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_storage_read(s, file->key, file->object, file->shard->data_offset + at, buffer, (size_t)n, err);
        if (!status) dcpi_sha_update(&sha, buffer, (size_t)n);
        dcpi_op_report(op, at + n, 0);
    }
    dcpi_sha_final(&sha, digest);
    return status;
}
static dcp_status dcpi_flat_compare(const dcp_checkpoint *c, const dcpi_data_file *file, const uint8_t digest[32], dcp_error *err) {
    uint8_t wanted[32];
    if (strlen(file->shard->checksum) == 64 && dcpi_hex_decode(file->shard->checksum, 64, wanted) && dcpi_sha_equal(wanted, digest, 32))
        return DCP_OK;
    return dcpi_fail(err, DCP_E_CHECKSUM,
                     "%s%s (shard %d): the SHA-256 of the file is not the one that %s names: the file was damaged or changed",
            c->place.shown,
                     file->shard->file_path, file->shard->rank, c->path);
}
static dcp_status dcpi_flat_check(dcp_checkpoint *c, dcpi_op *op, int shard, int again, dcp_error *err) {
    const size_t capacity = 1 * DCPI_MIB - 64 * DCPI_KIB;
    dcpi_data_file *file;
    uint8_t *buffer, digest[32];
    dcp_status status = dcpi_data_file_acquire(c, shard, &file, err);
    int done;
    if (status) return status;
    dcpi_mutex_lock(&c->lock);
    done = file->is_checked && !again;
    dcpi_mutex_unlock(&c->lock);
    buffer = done ? NULL : (uint8_t *)dcpi_alloc(capacity, err);
    if (!done && !buffer) status = DCP_E_MEMORY;
    if (buffer) {
        dcpi_op_phase(op, DCP_PHASE_VERIFY, file->shard->file_size);
        status = dcpi_flat_hash(op, c->place.storage, file, buffer, capacity, digest, err);
        if (!status) status = dcpi_flat_compare(c, file, digest, err);
        dcpi_mutex_lock(&c->lock);
        file->is_checked = !status;
        file->checked_modified_ns = file->info.modified_ns;
        dcpi_mutex_unlock(&c->lock);
    }
    dcpi_free(buffer);
    dcpi_data_file_release(c, file);
    return status;
}
static dcp_status dcpi_flat_check_all(dcpi_load *l, dcp_error *err) {
    size_t i;
    for (i = 0; i < l->order_count; i++) {
        int shard = l->order[i]->shard;
        dcp_status status = DCP_OK;
        if (i > 0 && shard == l->order[i - 1]->shard) continue;
        if (dcpi_is_flat(l->checkpoint->files[shard].shard)) status = dcpi_flat_check(l->checkpoint, l->op, shard, 0, err);
        if (status) return status;
    }
    return DCP_OK;
}

/* ---- read: what several ranks need, one range after the other ------------------------------------------------------------------------- */
static dcp_status dcpi_shared_get(dcpi_load *l, const dcpi_shared *shared, int64_t at, size_t size, uint8_t **message, dcp_error *err) {
    const dcpi_item *item = shared->items[0];
    dcpi_data_file *file;
    size_t length;
    int attempt = 0, i;
    dcp_status status;
    if (shared->reader != l->op->team.rank) {
        dcpi_free(*message);
        *message = NULL;
        status = dcpi_relay_receive(l->op, shared->reader, message, &length, err);
        if (!status && (length != DCPI_RELAY_HEADER + size || (int64_t)dcpi_load64(*message + 8) != at))
            status = dcpi_fail(err, DCP_E_COMM, "rank %d sent other bytes than those that it reads for this rank", shared->reader);
        return status;
    }
    status = dcpi_data_file_acquire(l->checkpoint, item->shard, &file, err);
    if (status) return status;
    do status = dcpi_storage_read(l->checkpoint->place.storage, file->key, file->object, at, *message + DCPI_RELAY_HEADER, size, err);
    while (status && dcpi_op_again(l->op, ++attempt, "reading tensors", err));
    dcpi_data_file_release(l->checkpoint, file);
    for (i = 0; i < shared->other_count && !status; i++) {
        status = dcpi_op_check(l->op, err);
        if (!status) status = dcpi_relay_send(l->op, (int)dcpi_load32(shared->others + 4 * i), *message, 0, at, size, err);
    }
    return status;
}
/* Every rank checks the digest itself: bytes that came over the wire are no better than those of a disk. */
static dcp_status dcpi_shared_read(dcpi_reader *r, const dcpi_shared *shared, uint8_t **message, dcp_error *err) {
    dcpi_load *l = r->l;
    const dcpi_item *item = shared->items[0];
    const int has_digest = dcpi_item_has_digest(l, item);
    uint8_t digest[32];
    int64_t at, n;
    size_t i;
    dcpi_sha sha;
    dcp_status status = has_digest ? dcpi_reader_prepare_jobs(r, err) : DCP_OK;
    dcpi_sha_init(&sha);
    for (at = item->begin; at < item->end && !status; at += n) {
        uint8_t *bytes;
        n = dcpi_min(item->end - at, (int64_t)DCPI_RELAY_CHUNK);
        status = dcpi_shared_get(l, shared, item->at + (at - item->begin), (size_t)n, message, err);
        if (status) break;
        bytes = *message + DCPI_RELAY_HEADER;
        if (has_digest) {
            dcpi_sha_many(r->jobs, dcpi_add_jobs(r, 0, bytes, n));
            dcpi_sha_update(&sha, r->leaves, (size_t)dcpi_leaf_count(n) * 32);
        }
        for (i = 0; i < shared->count && !status; i++) {
            status = dcpi_item_scatter(l, shared->items[i], at, at + n, bytes, err);
            dcpi_swap_bytes(bytes, n, dcpi_item_width(l, shared->items[i]));    /* on big-endian machines scatter has swapped them */
        }
    }
    if (status) return dcpi_item_failed(l, item, err);
    if (!has_digest) return DCP_OK;
    dcpi_sha_final(&sha, digest);
    if (dcpi_sha_equal(item->end - item->begin <= DCPI_LEAF ? r->leaves[0] : digest, dcpi_item_digest(item), 32)) return DCP_OK;
    return dcpi_item_corrupt(l, item, err);
}
static dcp_status dcpi_load_read_shared(dcpi_load *l, dcp_error *err) {
    uint8_t *message = NULL;
    int64_t done = 0;
    dcpi_reader r;
    dcp_status status = DCP_OK;
    size_t i;
    memset(&r, 0, sizeof r);
    r.l = l;
    for (i = 0; i < l->shared_count && !status; i++) {
        const dcpi_shared *shared = &l->shared[i];
        const int shard = shared->items[0]->shard, is_reader = shared->reader == l->op->team.rank;
        if (is_reader) {
            dcpi_free(message);
            message = (uint8_t *)dcpi_alloc(DCPI_RELAY_HEADER + DCPI_RELAY_CHUNK, err);
            if (!message) { status = DCP_E_MEMORY; break; }
        }
        if (l->check && is_reader && dcpi_is_flat(l->checkpoint->files[shard].shard)) status = dcpi_flat_check(l->checkpoint, l->op, shard, 0, err);
        if (!status) status = dcpi_shared_read(&r, shared, &message, err);
        done += shared->items[0]->end - shared->items[0]->begin;
        dcpi_op_report(l->op, done, 0);
    }
    dcpi_free(message);
    dcpi_reader_free(&r);
    return status;
}

/* ---- verify: every byte of every file ------------------------------------------------------------------------------------------------ */
/* Bytes that belong to no tensor must be zero. */
static dcp_status dcpi_verify_plan_gap(dcpi_load *l, size_t shard, int64_t begin, int64_t end, dcp_error *err) {
    return begin < end ? dcpi_plan_add(l, NULL, DCPI_NO_SOURCE, (int)shard, begin, end, begin, err) : DCP_OK;
}
static dcp_status dcpi_verify_plan_shard(dcpi_load *l, size_t shard, const dcpi_piece *pieces, dcp_error *err) {
    const dcp_shard_metadata *m = &l->checkpoint->metadata->shards[shard];
    int64_t at = m->data_offset, block;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < m->tensor_count && !status; i++) {
        const dcp_tensor_metadata *t = &m->tensors[i];
        if (t->size > 0) status = dcpi_verify_plan_gap(l, shard, at, t->offset, err);
        for (block = 0; block < t->size && !status; block += t->block_size)
            status = dcpi_plan_add(l, &pieces[i], DCPI_NO_SOURCE, (int)shard, block, dcpi_min(block + t->block_size, t->size),
                                   t->offset + block, err);
        if (t->size > 0) at = t->offset + t->size;
    }
    return status;
}
/* The ranks share the shards among them. */
static int dcpi_verify_is_mine(const dcp_checkpoint *c, size_t shard) {
    return dcp_shard_owner((int)shard, c->op.team.world_size) == c->op.team.rank;
}
/* The files without a tree digest are hashed whole; a file without any checksum (a seed's) has only its size. */
static dcp_status dcpi_verify_other(dcp_checkpoint *c, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t s;
    for (s = 0; s < c->metadata->shard_count && !status; s++) {
        dcpi_data_file *file;
        if (!dcpi_verify_is_mine(c, s)) continue;
        if (dcpi_is_flat(&c->metadata->shards[s])) { status = dcpi_flat_check(c, &c->op, (int)s, 1, err); continue; }
        if (!c->metadata->shards[s].checksum)
            dcpi_op_log(&c->op, DCP_LOG_WARNING, "shard %d has no checksum: only its size can be checked", c->metadata->shards[s].rank);
        status = dcpi_data_file_acquire(c, (int)s, &file, err);
        if (!status) dcpi_data_file_release(c, file);
    }
    return status;
}
static int dcpi_verify_has_tree(const dcp_shard_metadata *shard) {
    return shard->tensor_count > 0 && shard->checksum && !dcpi_is_flat(shard);
}

static dcp_status dcpi_verify_run(dcp_checkpoint *c, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    dcpi_load l;
    dcpi_piece *pieces;
    size_t s, t, n = 0;
    dcp_status status = dcpi_verify_other(c, err);
    if (status) return status;
    memset(&l, 0, sizeof l);
    l.checkpoint = c;
    l.op = &c->op;
    l.check = 1;
    pieces = (dcpi_piece *)dcpi_alloc_array(c->piece_count, sizeof *pieces, err);      /* in document order */
    if (!pieces) return DCP_E_MEMORY;
    for (s = 0; s < m->shard_count && !status; s++) {
        for (t = 0; t < m->shards[s].tensor_count; t++) {
            pieces[n + t].meta = &m->shards[s].tensors[t];
            pieces[n + t].shard = (int)s;
        }
        if (s > 0 && c->layout == DCP_LAYOUT_SINGLE && dcpi_verify_is_mine(c, s))       /* between two regions */
            status = dcpi_verify_plan_gap(&l, s, m->shards[s - 1].data_offset + m->shards[s - 1].file_size, m->shards[s].data_offset, err);
        if (!status && dcpi_verify_is_mine(c, s) && dcpi_verify_has_tree(&m->shards[s])) status = dcpi_verify_plan_shard(&l, s, pieces + n, err);
        n += m->shards[s].tensor_count;
    }
    if (!status) status = dcpi_plan_sort(&l, err);
    if (!status) status = dcpi_load_read(&l, err);
    dcpi_free((void *)l.order);
    dcpi_free(l.items);
    dcpi_free(pieces);
    return status;
}

/* ---- the calls ----------------------------------------------------------------------------------------------------------------------- */
/* Each call on a checkpoint is an operation with its own deadline; collective ones (`call` is set) are one of all ranks. */
static dcp_status dcpi_op_restart(dcpi_op *op, const char *call, dcp_error *err) {
    op->started_ms = op->phase_ms = op->checked_ms = dcpi_os_monotonic_ms();
    op->longest_gap_ms = 0;
    return call ? dcpi_team_begin(op, call, err) : DCP_OK;
}
static dcp_status dcpi_report_error(dcp_status status, const dcp_error *local, dcp_error *err) {
    if (err && status) *err = *local;
    else if (err) (void)dcpi_succeed(err);
    return status;
}
/* Ends a collective call: the same verdict on all ranks. */
static dcp_status dcpi_load_verdict(dcp_checkpoint *c, dcp_status status, dcp_error *err) {
    status = dcpi_team_verdict(&c->op, status, err);
    dcpi_team_end(&c->op);
    return status;
}
DCPDEF dcp_status dcp_open(const dcp_open_desc *desc, dcp_checkpoint **out, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    *out = NULL;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "open: desc is NULL");
    status = dcpi_open_phase(desc, out, &local);
    if (!status && desc->verify == DCP_VERIFY_ALL) status = dcpi_verify_run(*out, &local);
    if (*out) status = dcpi_load_verdict(*out, status, &local);
    if (status) { dcp_close(*out); *out = NULL; }
    return dcpi_report_error(status, &local, err);
}
static dcp_status dcpi_read_call(dcp_checkpoint *checkpoint, dcp_tensor *tensors, size_t count, int rank, dcp_error *err) {
    dcp_error local;
    dcp_status status = dcpi_op_restart(&checkpoint->op, "read", &local);
    dcpi_team_same(&checkpoint->op.team, checkpoint->path, 0);           /* each rank may read another rank's private tensors */
    if (!status && (rank < -1 || rank >= checkpoint->metadata->world_size))
        status = dcpi_fail(&local, DCP_E_INVALID, "dcp_read_rank: %d is no rank of %s, which %d ranks saved", rank, checkpoint->path,
                           checkpoint->metadata->world_size);
    if (!status) status = dcpi_load_run(checkpoint, &checkpoint->op, tensors, count, rank, &local);
    return dcpi_report_error(dcpi_load_verdict(checkpoint, status, &local), &local, err);
}
DCPDEF dcp_status dcp_read(dcp_checkpoint *checkpoint, dcp_tensor *tensors, size_t count, dcp_error *err) {
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_read: checkpoint is NULL");
    return dcpi_read_call(checkpoint, tensors, count, -1, err);
}
DCPDEF dcp_status dcp_read_rank(dcp_checkpoint *checkpoint, int shard_rank, dcp_tensor *tensors, size_t count, dcp_error *err) {
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_read_rank: checkpoint is NULL");
    return dcpi_read_call(checkpoint, tensors, count, shard_rank == -1 ? INT_MAX : shard_rank, err);      /* -1 is no rank here */
}
DCPDEF dcp_status dcp_verify(dcp_checkpoint *checkpoint, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_verify: checkpoint is NULL");
    status = dcpi_op_restart(&checkpoint->op, "verify", &local);
    dcpi_team_same(&checkpoint->op.team, checkpoint->path, 0);
    if (!status) status = dcpi_verify_run(checkpoint, &local);
    return dcpi_report_error(dcpi_load_verdict(checkpoint, status, &local), &local, err);
}
DCPDEF dcp_status dcp_read_new(dcp_checkpoint *checkpoint, const char *name, dcp_tensor *out, dcp_error *err) {
    const dcpi_stored *stored;
    dcp_error local;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!checkpoint || !name) return dcpi_fail(err, DCP_E_INVALID, "dcp_read_new: checkpoint or name is NULL");
    stored = dcpi_stored_find(checkpoint, name);
    if (!stored) return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is not in %s", name, checkpoint->path);
    if ((uint64_t)stored->info.size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    *out = dcp_array(stored->info.name, stored->info.dtype, NULL, stored->info.ndim, stored->info.shape);
    out->data = dcpi_alloc((size_t)stored->info.size, &local);
    status = out->data ? DCP_OK : DCP_E_MEMORY;
    if (!status) status = dcpi_op_restart(&checkpoint->op, NULL, &local);
    if (!status) status = dcpi_load_run(checkpoint, &checkpoint->op, out, 1, -1, &local);
    if (status) {
        dcpi_free(out->data);
        memset(out, 0, sizeof *out);
    }
    return dcpi_report_error(status, &local, err);
}
/* Whether a load may have failed since the commit file is another one than when it was opened. */
static int dcpi_load_was_replaced(dcp_checkpoint *c, dcp_status failure) {
    uint8_t now[32];
    dcp_status status;
    if (failure != DCP_E_INCOMPLETE && failure != DCP_E_CHECKSUM && failure != DCP_E_IO) return 0;
    if (!c->metadata) return 0;                         /* it was not opened yet */
    status = dcpi_document_digest(&c->op, &c->place, c->commit_name, now, NULL);
    return !dcpi_is_trouble(status) && memcmp(now, c->digest, sizeof now) != 0;
}
static dcp_status dcpi_load_check_exact(const dcp_checkpoint *c, const dcp_load_desc *desc, dcp_error *err) {
    dcpi_names names;
    dcp_status status = DCP_OK;
    size_t i;
    if (!desc->exact) return DCP_OK;
    memset(&names, 0, sizeof names);
    for (i = 0; i < desc->tensor_count && !status; i++)
        if (desc->tensors[i].name) status = dcpi_names_add(&names, desc->tensors[i].name, err);
    if (!status) status = dcpi_names_sort(&names, err);
    for (i = 0; i < c->tensor_count && !status; i++)
        if (!dcpi_names_has(&names, c->tensors[i].info.name))
            status = dcpi_fail(err, DCP_E_MISMATCH, "%s holds tensor \"%s\", which is not wanted (and exact is set)", c->path,
                               c->tensors[i].info.name);
    dcpi_names_free(&names);
    return status;
}
static dcp_status dcpi_load_once(const dcp_load_desc *desc, int *replaced, dcp_error *err) {
    dcp_open_desc open;
    dcp_checkpoint *c;
    dcp_status status;
    memset(&open, 0, sizeof open);
    open.path = desc->path;
    open.verify = desc->verify;
    open.verifier = desc->verifier;
    open.minimum_step = desc->minimum_step;
    open.share_reads = desc->share_reads;
    open.io = desc->io;
    status = dcpi_open_phase(&open, &c, err);
    if (!c) return status;
    dcpi_team_same(&c->op.team, "load", 0);
    if (!status) status = dcpi_load_check_exact(c, desc, err);
    if (!status && desc->verify == DCP_VERIFY_ALL) status = dcpi_verify_run(c, err);
    if (!status) status = dcpi_load_run(c, &c->op, desc->tensors, desc->tensor_count, -1, err);
    status = dcpi_team_done(&c->op, status, err);
    if (c->op.team.rank == 0) c->op.team.is_again = dcpi_load_was_replaced(c, status);
    status = dcpi_team_down(&c->op, status, NULL, NULL, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
    *replaced = c->op.team.is_again;
    dcpi_team_end(&c->op);
    if (!status && desc->metadata) {
        *desc->metadata = c->metadata;                  /* handed over; nothing of the checkpoint needs it any more but its files */
        c->metadata = NULL;
    }
    dcp_close(c);
    return status;
}
DCPDEF dcp_status dcp_load(const dcp_load_desc *desc, dcp_error *err) {
    dcp_error local;
    int replaced = 1, attempt;
    dcp_status status = DCP_OK;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_load: desc is NULL");
    if (desc->metadata) *desc->metadata = NULL;
    for (attempt = 0; attempt < 4 && replaced; attempt++) {
        replaced = 0;
        status = dcpi_load_once(desc, &replaced, &local);
    }
    return dcpi_report_error(status, &local, err);
}

/* ---- map ----------------------------------------------------------------------------------------------------------------------------- */
/* Where the one piece of a tensor lies in its mapped file, verified there; NULL data with DCP_OK: this storage or machine needs a copy. */
static dcp_status dcpi_map_file(dcp_checkpoint *c, const dcpi_piece *piece, dcpi_data_file *file, const uint8_t **data, dcp_error *err) {
    const void *mapped = NULL;
    dcp_status status = DCP_OK;
    *data = NULL;
    if (!c->place.storage->map || DCPI_BIG_ENDIAN) return DCP_OK;
    dcpi_mutex_lock(&c->lock);
    status = c->place.storage->map(c->place.storage->context, file->object, &mapped, err);
    if (!status) file->is_mapped = 1;
    dcpi_mutex_unlock(&c->lock);
    if (status == DCP_E_UNSUPPORTED || (!status && !mapped)) return dcpi_succeed(err);
    if (!status) *data = (const uint8_t *)mapped + piece->meta->offset;
    return dcpi_storage_result(status, "map", file->key, err);
}
static dcp_status dcpi_map_verify(dcp_checkpoint *c, const dcpi_piece *piece, const uint8_t *data, dcp_error *err) {
    const dcp_tensor_metadata *meta = piece->meta;
    uint8_t digest[32], leaves[16][32];
    dcpi_sha_job jobs[16];
    dcpi_load l;
    dcpi_item item;
    int64_t at, leaf;
    memset(&l, 0, sizeof l);
    memset(&item, 0, sizeof item);
    l.checkpoint = c;
    item.piece = piece;
    item.shard = piece->shard;
    if (c->verify == DCP_VERIFY_NONE || meta->block_size == 0) return DCP_OK;
    for (item.begin = 0; item.begin < meta->size; item.begin = item.end) {
        dcpi_sha sha;
        item.end = dcpi_min(item.begin + meta->block_size, meta->size);
        item.at = meta->offset + item.begin;
        dcpi_sha_init(&sha);
        for (at = item.begin; at < item.end;) {
            size_t n = 0;
            for (; n < DCPI_COUNT(jobs) && at < item.end; n++, at += leaf) {
                leaf = dcpi_min(DCPI_LEAF, item.end - at);
                jobs[n].data = data + at;
                jobs[n].size = (size_t)leaf;
                jobs[n].digest = leaves[n];
            }
            dcpi_sha_many(jobs, n);
            dcpi_sha_update(&sha, leaves, n * 32);
        }
        dcpi_sha_final(&sha, digest);
        if (!dcpi_sha_equal(item.end - item.begin <= DCPI_LEAF ? leaves[0] : digest, dcpi_item_digest(&item), 32))
            return dcpi_item_corrupt(&l, &item, err);
    }
    return DCP_OK;
}
static dcpi_copy *dcpi_map_find_copy(dcp_checkpoint *c, const dcpi_stored *stored) {
    dcpi_copy *copy;
    dcpi_mutex_lock(&c->lock);
    for (copy = c->copies; copy && copy->stored != stored; copy = copy->next) {}
    dcpi_mutex_unlock(&c->lock);
    return copy;
}
static dcp_status dcpi_map_copy(dcp_checkpoint *c, dcpi_op *op, const dcpi_stored *stored, const uint8_t **data, dcp_error *err) {
    dcpi_copy *copy = dcpi_map_find_copy(c, stored);
    dcp_tensor t;
    dcp_status status;
    if (copy) { *data = copy->data; return DCP_OK; }
    copy = (dcpi_copy *)dcpi_alloc_array(1, sizeof *copy, err);
    if (!copy) return DCP_E_MEMORY;
    copy->stored = stored;
    copy->data = (uint8_t *)dcpi_alloc((size_t)stored->info.size, err);
    t = dcp_array(stored->info.name, stored->info.dtype, copy->data, stored->info.ndim, stored->info.shape);
    status = copy->data ? dcpi_load_run(c, op, &t, 1, -1, err) : DCP_E_MEMORY;
    if (status) {
        dcpi_free(copy->data);
        dcpi_free(copy);
        return status;
    }
    dcpi_mutex_lock(&c->lock);
    copy->next = c->copies;
    c->copies = copy;
    dcpi_mutex_unlock(&c->lock);
    *data = copy->data;
    return DCP_OK;
}
static dcp_status dcpi_map_piece(dcp_checkpoint *c, const dcpi_stored *stored, const dcpi_piece *piece, const uint8_t **data,
                                 dcp_error *err) {
    dcpi_data_file *file;
    dcpi_op op;                                         /* its own: other threads may map, or read, at the same time */
    dcp_io io = c->op.io;
    dcp_status status;
    io.progress = NULL;
    status = dcpi_op_begin(&op, &io, err);
    if (!status) status = dcpi_data_file_acquire(c, piece->shard, &file, err);
    if (status) return status;
    status = dcpi_map_file(c, piece, file, data, err);
    if (!status && *data && c->verify != DCP_VERIFY_NONE && dcpi_is_flat(file->shard))
        status = dcpi_flat_check(c, &op, piece->shard, 0, err);
    if (!status && *data) status = dcpi_map_verify(c, piece, *data, err);
    dcpi_data_file_release(c, file);
    if (!status && !*data) status = dcpi_map_copy(c, &op, stored, data, err);
    return status;
}
DCPDEF dcp_status dcp_map(dcp_checkpoint *checkpoint, const char *name, const void **data, size_t *size, dcp_error *err) {
    const dcpi_stored *stored;
    const uint8_t *bytes = NULL;
    dcp_error local;
    dcp_status status = DCP_OK;
    *data = NULL;
    *size = 0;
    if (!checkpoint || !name) return dcpi_fail(err, DCP_E_INVALID, "dcp_map: checkpoint or name is NULL");
    stored = dcpi_stored_find(checkpoint, name);
    if (!stored) return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is not in %s", name, checkpoint->path);
    if (stored->info.piece_count != 1)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "tensor \"%s\" is stored in %d pieces and cannot be mapped as one; use dcp_read_new",
                         name, stored->info.piece_count);
    if ((uint64_t)stored->info.size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    if (checkpoint->pieces[stored->first].meta->size != stored->info.size)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "tensor \"%s\": its one stored piece is not the whole of it", name);
    if (stored->info.size > 0) status = dcpi_map_piece(checkpoint, stored, &checkpoint->pieces[stored->first], &bytes, &local);
    if (status) return dcpi_report_error(status, &local, err);
    *data = bytes;
    *size = (size_t)stored->info.size;
    return err ? dcpi_succeed(err) : DCP_OK;
}

/* ================================================================================================================================
 * >>inspect     A directory of checkpoints: list, latest, prune, sweep, remove. What removes takes commit files first, syncs the directory,
 *               and only then takes data, so that a crash in between leaves files that no document names, never a document that names
 *               missing files.
 * ============================================================================================================================== */

/* ---- list ---------------------------------------------------------------------------------------------------------------------------- */
/* One allocation holds the entries and their texts: a first pass collects, a second copies. */
typedef struct dcpi_listing { dcp_list_entry *entries; size_t count, capacity; dcpi_arena texts; } dcpi_listing;

static void dcpi_listing_free(dcpi_listing *listing) {
    dcpi_free(listing->entries);
    dcpi_arena_free(&listing->texts);
    memset(listing, 0, sizeof *listing);
}
static int dcpi_time_compare(const char *a, const char *b) {             /* as points in time; what is none comes first, as text */
    int64_t a_seconds = INT64_MIN, b_seconds = INT64_MIN;
    int a_rest = 0, b_rest = 0;
    if (!dcpi_time_parse(a, &a_seconds, &a_rest)) a_seconds = INT64_MIN;
    if (!dcpi_time_parse(b, &b_seconds, &b_rest)) b_seconds = INT64_MIN;
    if (a_seconds != b_seconds) return a_seconds < b_seconds ? -1 : 1;
    if (a_seconds != INT64_MIN) return a_rest < b_rest ? -1 : a_rest > b_rest;
    return strcmp(a, b);
}
static int dcpi_list_compare(const void *a_, const void *b_) {          /* newest first: (sequence, step, timestamp, name) */
    const dcp_list_entry *a = (const dcp_list_entry *)a_, *b = (const dcp_list_entry *)b_;
    int order;
    if (a->sequence != b->sequence) return a->sequence > b->sequence ? -1 : 1;
    if (a->step != b->step) return a->step > b->step ? -1 : 1;
    order = dcpi_time_compare(b->timestamp, a->timestamp);
    return order ? order : strcmp(b->path, a->path);
}
static dcp_status dcpi_list_describe(dcpi_listing *listing, dcp_list_entry *entry, const dcp_metadata *m, dcp_error *err) {
    size_t s;
    entry->sequence = m->sequence;
    entry->epoch = m->has_training ? m->training.epoch : -1;
    entry->step = m->has_training ? m->training.step : -1;
    entry->timestamp = dcpi_arena_text(&listing->texts, m->timestamp ? m->timestamp : "", m->timestamp ? strlen(m->timestamp) : 0, err);
    entry->save_id = dcpi_arena_text(&listing->texts, m->save_id ? m->save_id : "", m->save_id ? strlen(m->save_id) : 0, err);
    if (!entry->timestamp || !entry->save_id) return DCP_E_MEMORY;
    entry->world_size = m->world_size;
    for (s = 0; s < m->shard_count; s++) {
        entry->tensors += (int64_t)m->shards[s].tensor_count;
        if (entry->layout != DCP_LAYOUT_SINGLE && !dcpi_add(entry->bytes, m->shards[s].file_size, &entry->bytes)) entry->bytes = INT64_MAX;
    }
    return DCP_OK;
}
/* Valid: the document is intact and every file is there with its size; with DCP_VERIFY_ALL every byte is checked too. */
static dcp_status dcpi_list_check_files(dcp_checkpoint *c, dcp_error *err) {
    size_t s;
    if (c->verify == DCP_VERIFY_ALL) return dcpi_verify_run(c, err);
    for (s = 0; s < c->metadata->shard_count; s++) {
        dcpi_data_file *file;
        dcp_status status = dcpi_data_file_acquire(c, (int)s, &file, err);
        if (status) return status;
        dcpi_data_file_release(c, file);
    }
    return DCP_OK;
}
typedef struct dcpi_list_order {
    dcpi_op *op;
    const dcpi_place *place;
    dcp_verify_policy verify;
    const dcp_verifier *verifier;
    int64_t minimum_step;
} dcpi_list_order;

/* Fills one entry: what its document says, and whether it is valid. The result is for what ends the listing itself. */
static dcp_status dcpi_list_one(const dcpi_list_order *o, dcpi_listing *listing, dcp_list_entry *entry, const char *name, dcp_error *err) {
    dcp_open_desc open;
    dcp_checkpoint *c;
    dcp_error why;
    dcp_status status;
    int replaced, attempt = 0;
    dcp_object_info info;
    char *key = dcpi_place_key(o->place, name, err);
    if (!key) return DCP_E_MEMORY;
    memset(&open, 0, sizeof open);
    open.path = key;
    open.verify = o->verify;
    open.verifier = o->verifier;
    open.minimum_step = o->minimum_step;
    open.io = o->op->io;
    open.io.storage = o->place->storage;
    open.io.coordinator = NULL;                         /* this rank looks alone */
    if (o->op->team.has_errand) open.io.progress = NULL;                /* that is the calling thread's */
    do {                                                /* replaced while it is looked at: look again */
        replaced = 0;
        entry->tensors = 0;
        entry->bytes = dcpi_storage_stat(o->place->storage, key, &info, NULL) == DCP_OK ? info.size : 0;
        status = dcpi_open_phase(&open, &c, &why);
        if (!status) status = dcpi_list_describe(listing, entry, c->metadata, &why);
        if (!status) status = dcpi_list_check_files(c, &why);
        if (c && status != DCP_E_IO) replaced = dcpi_load_was_replaced(c, status);
        dcp_close(c);
    } while (replaced && ++attempt < 4);
    dcpi_free(key);
    if (status == DCP_E_CANCELLED || status == DCP_E_TIMEOUT || status == DCP_E_MEMORY) { if (err) *err = why; return status; }
    entry->status = status;
    entry->sys = why.sys;
    entry->message = "";
    if (status) entry->message = dcpi_arena_text(&listing->texts, why.message, strlen(why.message), err);
    return entry->message ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_list_add(const dcpi_list_order *o, dcpi_listing *listing, const char *name, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(name);
    void *memory = listing->entries;
    dcp_list_entry *entry;
    size_t size = strlen(o->place->shown) + strlen(name) + 1;
    char *path;
    if (!dcpi_grow(&memory, &listing->capacity, listing->count + 1, sizeof *entry, err)) return DCP_E_MEMORY;
    listing->entries = (dcp_list_entry *)memory;
    entry = &listing->entries[listing->count];
    memset(entry, 0, sizeof *entry);
    path = (char *)dcpi_arena_alloc(&listing->texts, size, err);
    if (!path) return DCP_E_MEMORY;
    (void)snprintf(path, size, "%s%s", o->place->shown, name);
    entry->path = path;
    entry->layout = kind->layout;
    entry->step = entry->epoch = -1;
    entry->timestamp = entry->save_id = entry->message = "";
    listing->count++;
    return dcpi_list_one(o, listing, entry, name, err);
}
static dcp_status dcpi_list_sort(dcpi_listing *listing, dcp_error *err) {
    const dcp_list_entry **order = (const dcp_list_entry **)dcpi_alloc_array(listing->count, sizeof *order, err);
    dcp_list_entry *sorted = order ? (dcp_list_entry *)dcpi_alloc_array(listing->count, sizeof *sorted, err) : NULL;
    dcp_status status;
    size_t i;
    if (!sorted) { dcpi_free((void *)order); return DCP_E_MEMORY; }
    for (i = 0; i < listing->count; i++) order[i] = &listing->entries[i];
    status = dcpi_sort((const void **)order, listing->count, dcpi_list_compare, err);
    for (i = 0; i < listing->count && !status; i++) sorted[i] = *order[i];
    dcpi_free((void *)order);
    dcpi_free(listing->entries);
    listing->entries = sorted;
    return status;
}
static dcp_status dcpi_listing_make(const dcpi_list_order *o, dcpi_listing *listing, dcp_error *err) {
    dcpi_names names;
    dcp_status status = dcpi_names_list(o->place, 1, &names, err);
    size_t i;
    memset(listing, 0, sizeof *listing);
    for (i = 0; i < names.count && !status; i++) status = dcpi_list_add(o, listing, names.items[i], err);
    dcpi_names_free(&names);
    if (!status) status = dcpi_list_sort(listing, err);
    if (status) dcpi_listing_free(listing);
    return status;
}
static const char *dcpi_list_pack(char **at, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = *at;
    memcpy(copy, text, size);
    *at += size;
    return copy;
}
static dcp_status dcpi_listing_pack(const dcpi_listing *listing, dcp_list_entry **out, dcp_error *err) {
    size_t size = (listing->count ? listing->count : 1) * sizeof **out, i;
    char *at;
    for (i = 0; i < listing->count; i++) {
        const dcp_list_entry *e = &listing->entries[i];
        size += strlen(e->path) + strlen(e->timestamp) + strlen(e->save_id) + strlen(e->message) + 4;
    }
    *out = (dcp_list_entry *)dcpi_alloc(size, err);
    if (!*out) return DCP_E_MEMORY;
    at = (char *)(*out + listing->count);
    for (i = 0; i < listing->count; i++) {
        dcp_list_entry *e = &(*out)[i];
        *e = listing->entries[i];
        e->path = dcpi_list_pack(&at, e->path);
        e->timestamp = dcpi_list_pack(&at, e->timestamp);
        e->save_id = dcpi_list_pack(&at, e->save_id);
        e->message = dcpi_list_pack(&at, e->message);
    }
    return DCP_OK;
}
static dcp_status dcpi_directory_open(dcpi_op *op, dcpi_place *place, const char *directory, dcp_error *err) {
    dcp_status status = dcpi_op_check(op, err);
    memset(place, 0, sizeof *place);
    if (status) return status;
    dcpi_op_phase(op, DCP_PHASE_OPEN, 0);
    return dcpi_place_open_directory(place, op->io.storage, directory ? directory : "", 0, err);
}
DCPDEF dcp_status dcp_list(const dcp_list_desc *desc, dcp_list_entry **entries, size_t *count, dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcpi_place place;
    dcpi_list_order o;
    dcpi_listing listing;
    dcp_status status;
    *entries = NULL;
    *count = 0;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_list: desc is NULL");
    memset(&o, 0, sizeof o);
    o.op = &op;
    o.place = &place;
    o.verify = desc->verify;
    o.verifier = desc->verifier;
    memset(&place, 0, sizeof place);
    status = dcpi_op_begin(&op, &desc->io, &local);
    if (!status) status = dcpi_directory_open(&op, &place, desc->directory, &local);
    if (!status) status = dcpi_listing_make(&o, &listing, &local);
    if (!status) {
        status = dcpi_listing_pack(&listing, entries, &local);
        if (!status) *count = listing.count;
        dcpi_listing_free(&listing);
    }
    dcpi_place_close(&place);
    return dcpi_report_error(status, &local, err);
}

/* ---- latest -------------------------------------------------------------------------------------------------------------------------- */
typedef struct dcpi_candidate { const char *name; int64_t sequence; } dcpi_candidate;

static int dcpi_candidate_compare(const void *a_, const void *b_) {
    const dcpi_candidate *a = (const dcpi_candidate *)a_, *b = (const dcpi_candidate *)b_;
    if (a->sequence != b->sequence) return a->sequence > b->sequence ? -1 : 1;
    return strcmp(b->name, a->name);
}
/* Looks at one group of equal sequence numbers, the newest first: documents need to be read in full only until a valid one is found. */
static dcp_status dcpi_latest_group(const dcpi_list_order *o, dcpi_candidate **group, size_t count, char **path, dcp_error *newest,
                                    dcp_error *err) {
    dcpi_listing listing;
    dcp_status status = DCP_OK;
    size_t i;
    memset(&listing, 0, sizeof listing);
    for (i = 0; i < count && !status; i++) status = dcpi_list_add(o, &listing, group[i]->name, err);
    if (!status) status = dcpi_list_sort(&listing, err);
    for (i = 0; i < listing.count && !status && !*path; i++) {
        const dcp_list_entry *e = &listing.entries[i];
        if (e->status == DCP_OK) { *path = dcpi_copy_text(e->path, err); if (!*path) status = DCP_E_MEMORY; break; }
        if (e->status == DCP_E_IO || e->status == DCP_E_VERSION || e->status == DCP_E_UNSUPPORTED) {
            status = dcpi_fail_sys(err, e->status, e->sys, "%s", e->message);
            break;
        }
        if (newest->status == DCP_OK) (void)dcpi_fail_sys(newest, e->status, e->sys, "%s", e->message);
        dcpi_op_log(o->op, DCP_LOG_WARNING, "skipped %s: %s", e->path, e->message);
    }
    dcpi_listing_free(&listing);
    return status;
}
static dcp_status dcpi_latest_search(const dcpi_list_order *o, const dcpi_names *names, char **path, dcp_error *err) {
    dcpi_candidate *candidates = (dcpi_candidate *)dcpi_alloc_array(names->count, sizeof *candidates, err);
    dcpi_candidate **order = candidates ? (dcpi_candidate **)dcpi_alloc_array(names->count, sizeof *order, err) : NULL;
    dcp_error newest;
    dcp_status status = order ? DCP_OK : DCP_E_MEMORY;
    size_t i, end;
    (void)dcpi_succeed(&newest);
    for (i = 0; i < names->count && !status; i++) {
        char *key = dcpi_place_key(o->place, names->items[i], err);
        if (!key) { status = DCP_E_MEMORY; break; }
        candidates[i].name = names->items[i];
        order[i] = &candidates[i];
        status = dcpi_document_peek_sequence(o->place, key, &candidates[i].sequence, err);
        dcpi_free(key);
    }
    if (!status) status = dcpi_sort((const void **)order, names->count, dcpi_candidate_compare, err);
    for (i = 0; i < names->count && !status && !*path; i = end) {
        for (end = i + 1; end < names->count && order[end]->sequence == order[i]->sequence;) end++;
        status = dcpi_latest_group(o, order + i, end - i, path, &newest, err);
    }
    dcpi_free(order);
    dcpi_free(candidates);
    if (status || *path) return status;
    if (newest.status) { *err = newest; return newest.status; }
    return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint in \"%s\"", o->place->shown[0] ? o->place->shown : ".");
}
/* ---- led calls: rank 0 works, all ranks learn the outcome */
static dcp_status dcpi_led_begin(dcpi_op *op, const dcp_io *io, const char *call, const char *where, dcp_error *err) {
    dcp_error team;
    dcp_status status = dcpi_op_begin(op, io, err), joined = dcpi_team_begin(op, call, &team);
    dcpi_team_same(&op->team, where, 0);
    if (!status && joined) *err = team;
    return status ? status : joined;
}
/* Rank 0's work, which may take long. */
typedef struct dcpi_led { dcpi_op *op; const void *desc; void *out; } dcpi_led;
static dcp_status dcpi_led_run(dcpi_op *op, dcpi_errand_fn fn, const void *desc, void *out, dcp_error *err) {
    dcpi_led led;
    led.op = op;
    led.desc = desc;
    led.out = out;
    return dcpi_op_errand(op, fn, &led, err);
}
static int dcpi_led_is_mine(const dcpi_op *op) { return op->team.rank == 0; }
static dcp_status dcpi_led_tell(dcpi_op *op, dcp_status status, dcpi_team_make make, void *user, dcp_error *err) {
    return dcpi_team_down(op, status, make, user, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
}

static dcp_status dcpi_latest_run(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    const dcp_latest_desc *desc = (const dcp_latest_desc *)((dcpi_led *)led)->desc;
    char **path = (char **)((dcpi_led *)led)->out;
    dcpi_place place;
    dcpi_list_order o;
    dcpi_names names;
    dcp_status status;
    memset(&o, 0, sizeof o);
    o.op = op;
    o.place = &place;
    o.verify = desc->verify;
    o.verifier = desc->verifier;
    o.minimum_step = desc->minimum_step;
    status = dcpi_directory_open(op, &place, desc->directory, err);
    if (status == DCP_E_NOT_FOUND)
        (void)dcpi_fail(err, status, "there is no checkpoint in \"%s\": no such directory", desc->directory ? desc->directory : "");
    if (!status) status = dcpi_names_list(&place, 1, &names, err);
    if (!status) {
        status = dcpi_latest_search(&o, &names, path, err);
        dcpi_names_free(&names);
    }
    dcpi_place_close(&place);
    return status;
}
static dcp_status dcpi_latest_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    char *const *path = (char *const *)user;
    (void)rank; (void)err;
    dcpi_buffer_add(message, *path, strlen(*path) + 1);
    return DCP_OK;
}
static dcp_status dcpi_latest_take(const dcpi_team *t, char **path, dcp_error *err) {
    const size_t size = t->peers[0].size - DCPI_TEAM_HEADER;
    const char *text = (const char *)t->peers[0].message + DCPI_TEAM_HEADER;
    if (size == 0 || text[size - 1] != '\0') return dcpi_fail(err, DCP_E_COMM, "dcp_latest: rank 0 sent a message of another version of dcp.h");
    *path = dcpi_copy_text(text, err);
    return *path ? DCP_OK : DCP_E_MEMORY;
}
DCPDEF dcp_status dcp_latest(const dcp_latest_desc *desc, char **path, dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcp_status status;
    *path = NULL;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_latest: desc is NULL");
    status = dcpi_led_begin(&op, &desc->io, "latest", desc->directory, &local);
    dcpi_team_same(&op.team, NULL, (uint64_t)desc->verify);
    status = dcpi_team_done(&op, status, &local);
    if (!status && dcpi_led_is_mine(&op)) status = dcpi_led_run(&op, dcpi_latest_run, desc, path, &local);
    status = dcpi_led_tell(&op, status, dcpi_latest_make, path, &local);
    if (!status && !dcpi_led_is_mine(&op)) status = dcpi_latest_take(&op.team, path, &local);
    dcpi_team_end(&op);
    if (status) { dcp_free(*path); *path = NULL; }
    return dcpi_report_error(status, &local, err);
}

/* ---- what was removed ---------------------------------------------------------------------------------------------------------------- */
DCPDEF void dcp_removal_free(dcp_removal *removal) {
    size_t i;
    if (!removal) return;
    for (i = 0; i < removal->path_count; i++) dcpi_free(removal->paths[i]);
    dcpi_free(removal->paths);
    memset(removal, 0, sizeof *removal);
}
/* Removes a file of the place (or, in a dry run, does not) and notes it. */
static dcp_status dcpi_removal_take(dcp_removal *removal, const dcpi_place *place, const char *name, int dry_run, dcp_error *err) {
    dcp_object_info info;
    char **paths, *path;
    size_t size = strlen(place->shown) + strlen(name) + 1;
    char *key = dcpi_place_key(place, name, err);
    dcp_status status = key ? dcpi_storage_stat(place->storage, key, &info, err) : DCP_E_MEMORY;
    if (status == DCP_E_NOT_FOUND) { dcpi_free(key); return dcpi_succeed(err); }
    if (!status && !dry_run) status = dcpi_storage_remove(place->storage, key, err);
    dcpi_free(key);
    if (status) return status;
    paths = (char **)DCP_REALLOC(removal->paths, (removal->path_count + 1) * sizeof *paths);
    path = paths ? (char *)dcpi_alloc(size, err) : NULL;
    if (paths) removal->paths = paths;
    if (!path) return dcpi_no_memory(err, size);
    (void)snprintf(path, size, "%s%s", place->shown, name);
    removal->paths[removal->path_count++] = path;
    removal->bytes += info.size;
    return DCP_OK;
}

/* For the other ranks: bytes, checkpoints (8 bytes each), the paths, each with its NUL. */
static dcp_status dcpi_removal_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcp_removal *removal = (const dcp_removal *)user;
    uint8_t head[16];
    size_t i;
    (void)rank; (void)err;
    dcpi_store64(head, (uint64_t)removal->bytes);
    dcpi_store64(head + 8, (uint64_t)removal->checkpoints);
    dcpi_buffer_add(message, head, sizeof head);
    for (i = 0; i < removal->path_count; i++) dcpi_buffer_add(message, removal->paths[i], strlen(removal->paths[i]) + 1);
    return DCP_OK;
}
static dcp_status dcpi_removal_learn(const dcpi_team *t, dcp_removal *removal, dcp_error *err) {
    const char *at = (const char *)t->peers[0].message + DCPI_TEAM_HEADER + 16, *end = (const char *)t->peers[0].message + t->peers[0].size;
    size_t count = 0;
    const char *c;
    if (t->peers[0].size < DCPI_TEAM_HEADER + 16 || (at < end && end[-1] != '\0'))
        return dcpi_fail(err, DCP_E_COMM, "rank 0 sent a message of another version of dcp.h");
    for (c = at; c < end; c++) count += *c == '\0';
    removal->paths = (char **)dcpi_alloc_array(count, sizeof *removal->paths, err);
    if (!removal->paths) return DCP_E_MEMORY;
    for (; at < end; at += strlen(at) + 1) {
        removal->paths[removal->path_count] = dcpi_copy_text(at, err);
        if (!removal->paths[removal->path_count]) return DCP_E_MEMORY;
        removal->path_count++;
    }
    removal->bytes = (int64_t)dcpi_load64(t->peers[0].message + DCPI_TEAM_HEADER);
    removal->checkpoints = (size_t)dcpi_load64(t->peers[0].message + DCPI_TEAM_HEADER + 8);
    return DCP_OK;
}
/* What prune, remove and sweep have in common once their arguments are looked at: rank 0 works, and all ranks know what went. */
static dcp_status dcpi_removal_run(dcpi_op *op, dcp_status status, dcpi_errand_fn fn, const void *desc, dcp_removal *removal, dcp_error *err) {
    status = dcpi_team_done(op, status, err);
    if (!status && dcpi_led_is_mine(op)) status = dcpi_led_run(op, fn, desc, removal, err);
    status = dcpi_led_tell(op, status, dcpi_removal_make, removal, err);
    if (!status && !dcpi_led_is_mine(op)) status = dcpi_removal_learn(&op->team, removal, err);
    dcpi_team_end(op);
    return status;
}

/* ---- prune and remove: commit files, directory sync, data that nobody names ---------------------------------------------------------- */
/* names: of the commit files that go, sorted. */
static dcp_status dcpi_remove_checkpoints(dcpi_op *op, const dcpi_place *place, const dcpi_names *commits, int dry_run,
                                          dcp_removal *removal, dcp_error *err) {
    dcpi_names data, refs;
    int unread = 0;
    dcp_status status = DCP_OK;
    size_t i, s;
    memset(&data, 0, sizeof data);
    memset(&refs, 0, sizeof refs);
    for (i = 0; i < commits->count && !status; i++) {   /* what they name, while it can still be read */
        dcpi_document document;
        const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(commits->items[i]);
        status = dcpi_op_check(op, err);
        if (status || kind->layout == DCP_LAYOUT_SINGLE) continue;
        status = dcpi_document_read(op, place, commits->items[i], NULL, &document, err);
        for (s = 0; !status && s < document.metadata->shard_count; s++)
            status = dcpi_names_add(&data, document.metadata->shards[s].file_path, err);
        dcpi_document_free(&document);
        if (status && status != DCP_E_MEMORY && status != DCP_E_IO) {
            dcpi_op_log(op, DCP_LOG_WARNING, "cannot tell which files %s names; they are left to sweep: %s", commits->items[i],
                        err->message);
            status = dcpi_succeed(err);
        }
    }
    for (i = 0; i < commits->count && !status; i++) {
        status = dcpi_removal_take(removal, place, commits->items[i], dry_run, err);
        if (!status) removal->checkpoints++;
    }
    if (!status && !dry_run && commits->count > 0) status = dcpi_place_sync(place, err);
    if (!status && data.count > 0) status = dcpi_refs_collect(op, place, commits, NULL, &refs, &unread, err);
    if (unread > 0) dcpi_op_log(op, DCP_LOG_WARNING, "%d commit files could not be read, so no data files were removed", unread);
    if (!status) status = dcpi_names_sort(&data, err);
    for (i = 0; i < data.count && !status && unread == 0; i++) {
        if (i > 0 && strcmp(data.items[i], data.items[i - 1]) == 0) continue;           /* two of them shared it */
        if (!dcpi_names_has(&refs, data.items[i])) status = dcpi_removal_take(removal, place, data.items[i], dry_run, err);
    }
    dcpi_names_free(&refs);
    dcpi_names_free(&data);
    return status;
}
/* Of the valid entries, newest first: which go. */
static dcp_status dcpi_prune_choose(const dcp_prune_desc *desc, const dcpi_place *place, const dcpi_listing *listing, dcpi_names *going,
                                    dcp_error *err) {
    int kept = 0, keep_last = desc->keep_last > 0 ? desc->keep_last : 1;
    size_t i;
    dcp_status status = DCP_OK;
    for (i = 0; i < listing->count && !status; i++) {
        const dcp_list_entry *e = &listing->entries[i];
        if (e->status != DCP_OK) continue;
        if (kept++ < keep_last) continue;
        if (desc->keep_every > 0 && e->step >= 0 && e->step % desc->keep_every == 0) continue;
        status = dcpi_names_add(going, e->path + strlen(place->shown), err);
    }
    return status;
}
static dcp_status dcpi_prune_run(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    const dcp_prune_desc *desc = (const dcp_prune_desc *)((dcpi_led *)led)->desc;
    dcp_removal *removal = (dcp_removal *)((dcpi_led *)led)->out;
    dcpi_place place;
    dcpi_list_order o;
    dcpi_listing listing;
    dcpi_names going;
    dcp_status status;
    memset(&going, 0, sizeof going);
    memset(&listing, 0, sizeof listing);
    memset(&o, 0, sizeof o);
    o.op = op;
    o.place = &place;
    o.verify = desc->verify;
    o.verifier = desc->verifier;
    status = dcpi_directory_open(op, &place, desc->directory, err);
    if (!status) status = dcpi_listing_make(&o, &listing, err);
    if (!status) status = dcpi_prune_choose(desc, &place, &listing, &going, err);
    if (!status) status = dcpi_names_sort(&going, err);
    if (!status) status = dcpi_remove_checkpoints(op, &place, &going, desc->dry_run, removal, err);
    dcpi_names_free(&going);
    dcpi_listing_free(&listing);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_prune(const dcp_prune_desc *desc, dcp_removal *removal, dcp_error *err) {
    dcp_error local;
    dcp_removal unasked = DCP_ZERO, *out = removal ? removal : &unasked;
    dcpi_op op;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_prune: desc is NULL");
    status = dcpi_led_begin(&op, &desc->io, "prune", desc->directory, &local);
    dcpi_team_same(&op.team, NULL, ((uint64_t)desc->keep_last << 32) ^ (uint64_t)desc->keep_every ^ (uint64_t)(desc->dry_run != 0) << 63);
    if (!status && (desc->keep_last < 0 || desc->keep_every < 0))
        status = dcpi_fail(&local, DCP_E_INVALID, "dcp_prune: keep_last and keep_every must not be negative");
    status = dcpi_removal_run(&op, status, dcpi_prune_run, desc, out, &local);
    dcp_removal_free(&unasked);
    return dcpi_report_error(status, &local, err);
}
/* The commit file or files that a path means, whatever state they are in. */
static dcp_status dcpi_remove_find(const dcpi_place *place, dcpi_names *commits, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    dcp_object_info info;
    int count = 0, i;
    char *name;
    dcp_status status;
    if (dcpi_commit_kind_of(place->name)) {
        char *key = dcpi_place_key(place, place->name, err);
        status = key ? dcpi_storage_stat(place->storage, key, &info, err) : DCP_E_MEMORY;
        dcpi_free(key);
        return status ? status : dcpi_names_add(commits, place->name, err);
    }
    status = dcpi_commit_find(place, place->name, found, &count, err);
    if (!status && count == 0) status = dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint \"%s%s\"", place->shown, place->name);
    for (i = 0; i < count && i < 2 && !status; i++) {
        name = dcpi_commit_name(place->name, found[i], err);
        status = name ? dcpi_names_add(commits, name, err) : DCP_E_MEMORY;
        dcpi_free(name);
    }
    return status;
}
static dcp_status dcpi_remove_run(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    const dcp_remove_desc *desc = (const dcp_remove_desc *)((dcpi_led *)led)->desc;
    dcp_removal *removal = (dcp_removal *)((dcpi_led *)led)->out;
    dcpi_place place;
    dcpi_names commits;
    dcp_status status = dcpi_op_check(op, err);
    memset(&place, 0, sizeof place);
    memset(&commits, 0, sizeof commits);
    if (!status) status = dcpi_place_open(&place, desc->io.storage, desc->path, 0, err);
    if (!status) status = dcpi_remove_find(&place, &commits, err);
    if (!status) status = dcpi_names_sort(&commits, err);
    if (!status) status = dcpi_remove_checkpoints(op, &place, &commits, 0, removal, err);
    dcpi_names_free(&commits);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_remove(const dcp_remove_desc *desc, dcp_removal *removal, dcp_error *err) {
    dcp_error local;
    dcp_removal unasked = DCP_ZERO, *out = removal ? removal : &unasked;
    dcpi_op op;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_remove: desc is NULL");
    status = dcpi_led_begin(&op, &desc->io, "remove", desc->path, &local);
    if (!status && !desc->path) status = dcpi_fail(&local, DCP_E_INVALID, "dcp_remove: path is not set");
    status = dcpi_removal_run(&op, status, dcpi_remove_run, desc, out, &local);
    dcp_removal_free(&unasked);
    return dcpi_report_error(status, &local, err);
}

/* ---- sweep: what killed saves left --------------------------------------------------------------------------------------------------- */
/* `<name>.<16 hex>.tmp` or `<name>.<16 hex>-<digits>.tmp` */
static int dcpi_is_temporary(const char *name) {
    size_t end = strlen(name), digits = 0;
    if (end < 4 || strcmp(name + end - 4, ".tmp") != 0) return 0;
    end -= 4;
    while (end > digits && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9') digits++;
    if (digits > 0 && digits < end && name[end - digits - 1] == '-') end -= digits + 1;
    return end > 17 && name[end - 17] == '.' && dcpi_starts_with_id(name + end - 16);
}
/* `<P>_shard_<rank>.<16 hex>.bin`; with `plain`, `<P>_shard_<rank>.bin` too. */
static int dcpi_is_shard_name(const char *name, int plain) {
    size_t end = strlen(name), digits = 0;
    if (end < 4 || strcmp(name + end - 4, ".bin") != 0) return 0;
    end -= 4;
    if (end > 17 && name[end - 17] == '.' && dcpi_starts_with_id(name + end - 16)) end -= 17;
    else if (!plain) return 0;
    while (end > digits && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9') digits++;
    end -= digits;
    return digits > 0 && digits <= 10 && end > 7 && memcmp(name + end - 7, "_shard_", 7) == 0;
}
/* The storage's own clock: the time of a file made there just now. */
static dcp_status dcpi_sweep_now(dcpi_op *op, const dcpi_place *place, int64_t *now_ns, dcp_error *err) {
    char id[17], name[64], *key;
    dcp_object_info info;
    dcp_status status = dcpi_random_id(id, err);
    if (status) return status;
    (void)snprintf(name, sizeof name, "dcp-sweep.%s.tmp", id);
    key = dcpi_place_key(place, name, err);
    if (!key) return DCP_E_MEMORY;
    status = dcpi_object_publish(op, place->storage, key, "", 0, err);
    if (!status) status = dcpi_storage_stat(place->storage, key, &info, err);
    if (!status) *now_ns = info.modified_ns;
    (void)dcpi_storage_remove(place->storage, key, NULL);
    dcpi_free(key);
    return status;
}
typedef struct dcpi_sweep {
    const dcp_sweep_desc *desc;
    const dcpi_place *place;
    int64_t before_ns;
    dcpi_names found;
    dcp_error *err;
} dcpi_sweep;

static dcp_status dcpi_sweep_look(void *user, const char *key, const dcp_object_info *info) {
    dcpi_sweep *sweep = (dcpi_sweep *)user;
    const char *name = dcpi_place_name(sweep->place, key);
    if (info->modified_ns > sweep->before_ns) return DCP_OK;
    if (!dcpi_is_temporary(name) && !dcpi_is_shard_name(name, sweep->desc->plain_names)) return DCP_OK;
    return dcpi_names_add(&sweep->found, name, sweep->err);
}
/* Counts the commit file that may name this shard file if it is there, but is none that a listing shows (a symbolic link, say) or that can be
 * looked at: what it names, nobody knows. */
static dcp_status dcpi_sweep_count_hidden(const dcpi_sweep *sweep, const char *shard_name, int *unread, dcp_error *err) {
    const struct dcpi_commit_kind *kinds[2];
    char prefix[DCP_LIMIT_PREFIX + 1];
    size_t end = strlen(shard_name);
    int count;
    dcp_status status;
    while (end > 0 && strncmp(shard_name + end, "_shard_", 7) != 0) end--;
    if (end == 0 || end >= sizeof prefix) return DCP_OK;                /* no checkpoint has such a name */
    memcpy(prefix, shard_name, end);
    prefix[end] = '\0';
    status = dcpi_commit_find(sweep->place, prefix, kinds, &count, err);
    if (status == DCP_OK || status == DCP_E_MEMORY) return status;
    ++*unread;
    return dcpi_succeed(err);
}
/* Candidates first, documents after them: a file that a save has just begun to name is too young to be a candidate. */
static dcp_status dcpi_sweep_run(dcpi_op *op, dcpi_sweep *sweep, dcp_removal *removal, dcp_error *err) {
    int64_t grace = sweep->desc->grace_seconds ? dcpi_max(sweep->desc->grace_seconds, 0) : (int64_t)DCP_GRACE_SECONDS, now_ns = 0;
    dcpi_names refs;
    int unread = 0;
    size_t i;
    dcp_status status = dcpi_sweep_now(op, sweep->place, &now_ns, err);
    memset(&refs, 0, sizeof refs);
    sweep->before_ns = grace > INT64_MAX / 1000000000 ? INT64_MIN : now_ns - grace * 1000000000;
    sweep->err = err;
    if (!status) status = dcpi_storage_list(sweep->place->storage, sweep->place->directory, dcpi_sweep_look, sweep, err);
    /* a commit file that is gone must stay gone before its data goes (G2) */
    if (!status) status = dcpi_place_sync(sweep->place, err);
    if (!status) status = dcpi_refs_collect(op, sweep->place, NULL, sweep->desc->verifier, &refs, &unread, err);
    for (i = 0; i < sweep->found.count && !status; i++)
        if (!dcpi_is_temporary(sweep->found.items[i])) status = dcpi_sweep_count_hidden(sweep, sweep->found.items[i], &unread, err);
    if (!status && unread > 0)
        dcpi_op_log(op, DCP_LOG_WARNING,
                    "%d commit files could not be read and verified: only temporary files are swept, since those may name any data file",
                unread);
    for (i = 0; i < sweep->found.count && !status; i++) {
        const char *name = sweep->found.items[i];
        status = dcpi_op_check(op, err);
        if (status || (!dcpi_is_temporary(name) && (unread > 0 || dcpi_names_has(&refs, name)))) continue;
        status = dcpi_removal_take(removal, sweep->place, name, sweep->desc->dry_run, err);
    }
    if (!status && !sweep->desc->dry_run && removal->path_count > 0) status = dcpi_place_sync(sweep->place, err);
    dcpi_names_free(&refs);
    return status;
}
static dcp_status dcpi_sweep_directory(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    dcpi_place place;
    dcpi_sweep sweep;
    dcp_status status;
    memset(&sweep, 0, sizeof sweep);
    sweep.desc = (const dcp_sweep_desc *)((dcpi_led *)led)->desc;
    sweep.place = &place;
    status = dcpi_directory_open(op, &place, sweep.desc->directory, err);
    if (!status) status = dcpi_sweep_run(op, &sweep, (dcp_removal *)((dcpi_led *)led)->out, err);
    dcpi_names_free(&sweep.found);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_sweep(const dcp_sweep_desc *desc, dcp_removal *removal, dcp_error *err) {
    dcp_error local;
    dcp_removal unasked = DCP_ZERO, *out = removal ? removal : &unasked;
    dcpi_op op;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_sweep: desc is NULL");
    status = dcpi_led_begin(&op, &desc->io, "sweep", desc->directory, &local);
    dcpi_team_same(&op.team, NULL, ((uint64_t)desc->grace_seconds << 2) ^ (uint64_t)(desc->dry_run != 0) ^ (uint64_t)(desc->plain_names != 0) << 1);
    status = dcpi_removal_run(&op, status, dcpi_sweep_directory, desc, out, &local);
    dcp_removal_free(&unasked);
    return dcpi_report_error(status, &local, err);
}

/* ---- documents through a storage (declared in >>api_documents) ----------------------------------------------------------------------- */
static dcp_status dcpi_file_place(dcp_storage *storage, const char *path, int create, dcpi_op *op, dcpi_place *place, dcp_error *err) {
    dcp_io io = DCP_ZERO;
    dcp_status status = dcpi_op_begin(op, &io, err);
    memset(place, 0, sizeof *place);
    if (!path) return dcpi_fail(err, DCP_E_INVALID, "path is NULL");
    return status ? status : dcpi_place_open(place, storage, path, create, err);
}
DCPDEF dcp_status dcp_metadata_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier, dcp_metadata **out,
                                         dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcpi_place place;
    dcpi_document document;
    dcp_status status = dcpi_file_place(storage, path, 0, &op, &place, &local);
    *out = NULL;
    memset(&document, 0, sizeof document);
    if (!status) status = dcpi_document_read(&op, &place, place.name, verifier, &document, &local);
    if (!status) *out = document.metadata;
    dcpi_place_close(&place);
    return dcpi_report_error(status, &local, err);
}
DCPDEF dcp_status dcp_metadata_write_file(dcp_storage *storage, const char *path, const dcp_metadata *metadata, const dcp_signer *signer,
                                          dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcpi_place place;
    char *text = NULL, *key;
    size_t size;
    dcp_status status = dcp_metadata_write_signed(metadata, signer, &text, &size, &local);
    if (status) return dcpi_report_error(status, &local, err);
    status = dcpi_file_place(storage, path, 1, &op, &place, &local);
    key = status ? NULL : dcpi_place_key(&place, place.name, &local);
    if (!status) status = key ? dcpi_place_sync_all(&place, &local) : DCP_E_MEMORY;
    if (!status) status = dcpi_object_publish(&op, place.storage, key, text, size, &local);
    dcpi_free(key);
    dcpi_free(text);
    dcpi_place_close(&place);
    return dcpi_report_error(status, &local, err);
}

#ifdef __cplusplus
}
#endif
#endif /* DCP_IMPLEMENTATION */

#ifdef DCP_MPI                          /* the ranks of an MPI job; in the file with DCP_IMPLEMENTATION this implements it too */
#include "dcp_mpi.h"
#endif

/* ================================================================================================================================
 * >>end         History and licence.
 *
 *   0.1.0  2026-11-21  sharded and single-file layouts, verify, map, slices, latest, list, prune, sweep, remove; local and memory storage;
 *                      one process or many ranks: thread group, MPI (dcp_mpi.h), coordinators of the user's own
 *
 * ------------------------------------------------------------------------------------------------------------------------------
 * This software is available under two licences; choose whichever you prefer.
 * ------------------------------------------------------------------------------------------------------------------------------
 * ALTERNATIVE A - MIT License
 *
 * Copyright (c) 2026 the dcp.h authors
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of
 * this software and associated documentation files (the "Software"), to deal in
 * the Software without restriction, including without limitation the rights to
 * use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies
 * of the Software, and to permit persons to whom the Software is furnished to do
 * so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all
 * copies or substantial portions of the Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 * IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 * FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 * AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 * LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 * OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 * SOFTWARE.
 *
 * ------------------------------------------------------------------------------
 * ALTERNATIVE B - Public Domain (Unlicense, www.unlicense.org)
 *
 * This is free and unencumbered software released into the public domain.
 *
 * Anyone is free to copy, modify, publish, use, compile, sell, or distribute this
 * software, either in source code form or as a compiled binary, for any purpose,
 * commercial or non-commercial, and by any means.
 *
 * In jurisdictions that recognize copyright laws, the author or authors of this
 * software dedicate any and all copyright interest in the software to the public
 * domain. We make this dedication for the benefit of the public at large and to
 * the detriment of our heirs and successors. We intend this dedication to be an
 * overt act of relinquishment in perpetuity of all present and future rights to
 * this software under copyright law.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 * IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 * FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 * AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
 * ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION
 * WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */
