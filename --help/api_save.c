/* =====================================================================================================================
 * >>api_save    Saving: the checkpoint exists wholly or not at all.
 * ================================================================================================================== */
typedef struct dcp_save_report {
    char save_id[17];                   /* 16 hex digits */
    /* 1 + the highest that was in the directory, of those whose documents are intact; more, where there is one that
     * this user may not read */
    int64_t sequence;
    char path[DCP_PATH_SIZE];           /* of the commit file */
    int64_t bytes_written, bytes_reused, bytes_in_begin;
    double seconds;
    /* DCP_STORAGE_* flags that the storage lacks: SYNC, SYNC_DIRECTORY, ATOMIC_REPLACE, EXCLUSIVE_PUBLISH,
     * COMMIT_LOCK */
    uint32_t not_durable;
    int64_t warning_count; char warning[512];           /* as in dcp_report */
} dcp_save_report;

typedef struct dcp_router_seed { int64_t layer; uint64_t seed; } dcp_router_seed;     /* of a router's random choices */

typedef struct dcp_save_desc {
    /* Prefix P, such as runs/a/step_100; a known suffix is stripped; its last part has 1 to 180 bytes; with the suffix
     * at most 4,096 bytes. The last part (with a storage, each part) is a name that every system can have and shows as
     * it is, else DCP_E_INVALID: not NUL, con.txt or another device's name, no dot or space at its end, none of <>"|?*
     * and no character that turns the direction of writing, which a tensor's and a tier's name must not have either.
     * What is committed under such a name loads all the same, with a warning. */
    const char *path;
    /* a rank may have none; tensors that no rank counts are DCP_E_INVALID (a checkpoint without tensors: tensors NULL
     * on all) */
    const dcp_tensor *tensors; size_t tensor_count;
    dcp_layout layout;
    dcp_checksum checksum;
    size_t alignment;                   /* of each tensor in its file; a power of two, 64 to 2 MiB; 0: 64 */
    /* a power of two, 256 KiB to 1 GiB; 0: 4 MiB, doubled until the document has under a million digests */
    size_t block_size;
    /* replace the checkpoint at path, if any; the old one stays loadable until the new one is durable */
    int overwrite;
    int allow_holes;                /* pieces need not cover global_shape; loading a missing part is DCP_E_INCOMPLETE */
    int unique_names;                   /* the save id in every shard name, always */
    const dcp_training *training; const dcp_sharding *sharding;         /* NULL: absent; derived */
    const dcp_field *fields; size_t field_count;                        /* customFields, text to text; keys unique */
    /* manifest layout. model_id NULL: the last part of path. Every tensor's tier is one of `tiers`. yaml:
     * P.manifest.yaml instead of .json */
    const char *model_id; const dcp_tier *tiers; size_t tier_count; int yaml;
    const dcp_signer *signer;           /* NULL: unsigned */
    dcp_save_report *report;            /* out, may be NULL; filled as far as it came on failure too */
    dcp_io io;
    const dcp_router_seed *router_seeds; size_t router_seed_count;      /* manifest layout; layers unique */
    /* Members that this version does not know, `"key": value, ...` as JSON, for programs that carry over what another
     * document has (NULL: none); rank 0's: of the document; in a manifest of optim_state and of router_state, where
     * those are there, and of each tier and each router seed's layer (NULL, or as many entries as those have). */
    const char *extra, *optim_extra, *router_extra;
    const char *const *tier_extras, *const *router_seed_extras;
} dcp_save_desc;

/* Saves the tensors as one checkpoint at desc->path. DCP_OK: it is complete, durable (see report.not_durable) and the
 * one that loads; anything else: the previous one, if any, is untouched. The tensors must not be freed during the call;
 * one that changes meanwhile is stored in some mixture of its states, with matching digests.
 * Many ranks: each gives its own tensors; path, layout and options are the same on all, else DCP_E_MISMATCH; training,
 * sharding, fields and signer are rank 0's. A box that several ranks hold is written by one of them. The single-file
 * layout is written by all at once where the storage is shared, else through rank 0. report.bytes_written is this
 * rank's, on rank 0 all ranks'. What dcp_open would refuse is not committed: rank 0 reads the document as an open does,
 * from memory, before it is written.
 * Status: (io) arguments | (ranks) | DCP_E_EXISTS a checkpoint is there (and no `overwrite`), one in another layout, or
 * another save commits, or took over from this one, which stood still | DCP_E_MISMATCH pieces overlap or disagree |
 * DCP_E_INCOMPLETE pieces leave holes; a file of this save, or one that a manifest keeps, was removed meanwhile |
 * DCP_E_LIMIT path too long, or beyond a DCP_LIMIT_; no sequence number is left | DCP_E_DEVICE | DCP_E_SIGNATURE the
 * signer failed | DCP_E_UNKNOWN the storage failed in the very act of committing, or rank 0 was lost then: both may be
 * there; nothing was removed. */
DCPDEF dcp_status dcp_save(const dcp_save_desc *desc, dcp_error *err);

/* A save in the background: four lines make one of dcp_save.
 *
 *     dcp_saver_open(NULL, &saver, &err);              // once
 *     dcp_save_begin(saver, &desc, &err);              // where dcp_save was: the tensors are the program's again when
 *     it returns dcp_save_poll(saver, &err);                      // once a step: DCP_PENDING, and then, once, how it
 *     ended dcp_saver_close(saver, &err);                    // at the end: waits, and the last verdict if poll had
 *     none
 *
 * One saver runs one save at a time, and keeps its memory from save to save. Two savers are independent of each other,
 * unless they have one coordinator (then the second save begins when the first one has ended).
 *   - Ownership: the desc and all it points to, the tensors and the report too, are the caller's again when
 *     dcp_save_begin returns. Storage, coordinator, devices, what the signer and the callbacks point to, and io.cancel
 *     outlive the save; devices the saver.
 *   - Memory: a copy of the tensors that this rank writes, host ones packed, those of a device in memory of its
 *     allocate_own (up to own_bytes) or allocate_host; then, while it writes, io.memory_budget as in dcp_save.
 *     snapshot_budget bounds the copy, which has the last tensors of the list that fit, each whole; those before them
 *     (all, if there is no memory) are written before begin returns, report.bytes_in_begin bytes of them, and a
 *     transient error after that cannot be retried. Tensors that another rank writes are not copied.
 *   - Threads: a saver is used from one thread at a time, dcp_save_cancel from any. The work is done by threads of the
 *     saver. `progress` is called on the thread that calls begin, poll, wait and close; `log`, the storage, the signer,
 *     and with a thread-safe coordinator that too, on others.
 *   - One rank, or a thread-safe coordinator: the whole save goes on by itself; nobody needs to poll. A save on the
 *     same coordinator (load, any other operation) begins when this one has ended; dcp_barrier and the other three may
 *     be called meanwhile.
 *   - A coordinator that is not thread-safe: writing goes on by itself; what the ranks tell each other does so only in
 *     poll, wait and close, which are then called on all ranks, each at its own time. poll waits for no other rank. So
 *     a program that polls once a step and has collectives of its own in between cannot hang; the save is committed a
 *     few polls after the data has been written. The single-file layout is written before begin returns if some rank
 *     cannot write into the file that rank 0 has made (a storage that they do not share). io.timeout_ms: a rank shows
 *     that it lives when it polls. One that does not poll for longer than that, while rank 0 does (or as rank 0, while
 *     others do), is taken for dead. A pause that all ranks make together is no silence: between two of its own polls a
 *     rank counts at most an eighth of io.timeout_ms. A deadline is noticed while writing, and in poll.
 *   - Without threads (DCP_NO_THREADS, or none to be had) begin copies nothing and writes; the rest is done in poll.
 *   - Failures: what begin finds is begin's, and no save runs then. What happens later is returned once: by poll or
 *     wait, else by the next begin (which then begins nothing, on any rank) or by close. It may be in begin on one rank
 *     and in poll on another; it is never DCP_OK on one and a failure on another. "Saved" is never said before the
 *     commit is durable. */
typedef enum dcp_when_busy {
    DCP_BUSY_WAIT,                      /* begin waits for the save before */
    DCP_BUSY_REFUSE                 /* begin returns DCP_PENDING on all ranks alike (rank 0 decides) and does nothing */
} dcp_when_busy;
typedef struct dcp_saver_desc {
    dcp_when_busy when_busy;            /* the same on all ranks */
    size_t snapshot_budget;             /* bytes; 0: no bound; what is beyond is written before begin returns */
} dcp_saver_desc;

/* desc may be NULL: all defaults. Local. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_saver_open(const dcp_saver_desc *desc, dcp_saver **out, dcp_error *err);
/* Collective. Checks, agrees and plans as dcp_save does, and with the same errors; copies; starts. desc->report has
 * then what is known: save id, sequence, path, bytes_in_begin. DCP_OK: the save has begun. If the save before failed
 * and some rank has not been told by poll or wait, that failure is returned on all ranks and nothing is begun: begin
 * again.
 * Status: as dcp_save | DCP_PENDING DCP_BUSY_REFUSE, and a save runs. */
DCPDEF dcp_status dcp_save_begin(dcp_saver *saver, const dcp_save_desc *desc, dcp_error *err);
/* Local, and waits for nobody. DCP_PENDING until the verdict is known on this rank; then, once, the verdict, as
 * dcp_save's; then, and when there was no save, DCP_OK. So `if (dcp_save_poll(...) != DCP_PENDING)` must not lead to a
 * collective call: other ranks may know it later. Status: DCP_PENDING | (io) saver is NULL | DCP_E_COMM | DCP_E_EXISTS
 * | DCP_E_INCOMPLETE | DCP_E_DEVICE | DCP_E_SIGNATURE | DCP_E_UNKNOWN. */
DCPDEF dcp_status dcp_save_poll(dcp_saver *saver, dcp_error *err);
/* Polls until the verdict or until timeout_ms is over (DCP_PENDING; 0: once; negative: to the end). Collective where
 * poll drives the save. Status: as dcp_save_poll. */
DCPDEF dcp_status dcp_save_wait(dcp_saver *saver, int timeout_ms, dcp_error *err);
/* Any thread, not while the saver is being closed: the save that runs ends soon with DCP_E_CANCELLED on all ranks,
 * leaving nothing behind, unless it is past that point. From a signal handler, dcp_cancel_request on desc.io.cancel. */
DCPDEF void dcp_save_cancel(dcp_saver *saver);
/* Of the last save: when poll or wait has returned its verdict, all of it; before, what begin reported. Lives until the
 * next begin or close. */
DCPDEF const dcp_save_report *dcp_report_of(const dcp_saver *saver);
/* Waits for the save that runs; collective where poll drives it. Returns the verdict of the last save, as dcp_save's,
 * if poll, wait and begin have not returned it, else DCP_OK. The saver is freed in any case. NULL is fine: DCP_OK.
 * Status: (io) | DCP_E_COMM | DCP_E_EXISTS | DCP_E_INCOMPLETE | DCP_E_DEVICE | DCP_E_SIGNATURE | DCP_E_UNKNOWN. */
DCPDEF dcp_status dcp_saver_close(dcp_saver *saver, dcp_error *err);

