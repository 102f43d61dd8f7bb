/* =====================================================================================================================
 * >>api_load    Loading, inspecting, verifying, and a directory of checkpoints.
 * ================================================================================================================== */
/* Where else the files that a document names are: the same names in that directory. */
typedef struct dcp_source {
    dcp_storage *storage; const char *directory;   /* storage NULL: a directory of the system; "" is a storage's base */
} dcp_source;
typedef struct dcp_load_desc {
    const char *path;                   /* the prefix or the commit file */
    /* what is wanted: name, type, shape (a box, with global_shape), and where to put it; counted as in dcp_save_desc */
    dcp_tensor *tensors; size_t tensor_count;
    int exact;                          /* stored tensors that are not wanted are DCP_E_MISMATCH */
    dcp_verify_policy verify; const dcp_verifier *verifier;
    /* an older checkpoint is DCP_E_SIGNATURE (with a verifier: no replay of old ones) or DCP_E_MISMATCH */
    int64_t minimum_step;
    int share_reads;                 /* several ranks, the same on all: one reads what several need, and passes it on */
    dcp_metadata **metadata;            /* out, may be NULL; dcp_metadata_free */
    dcp_io io;
    const dcp_source *sources; size_t source_count;     /* as in dcp_open_desc, for the call */
    dcp_report *report;                 /* out, may be NULL */
} dcp_load_desc;

/* Loads the wanted tensors. DCP_E_NOT_FOUND says that there is no checkpoint at path, and nothing else, so a first
 * start can be told from trouble. A tensor that is not stored is DCP_E_MISMATCH unless optional. Without global_shape a
 * wanted tensor is the whole one, however it is stored. On an error the content of the destinations is unspecified. A
 * checkpoint that is overwritten while it is read is opened again, at most 3 times; then the error says so.
 * Status: (io) arguments; two commit files; a part of the path, or the commit file, is something else than a directory,
 * or a file | (ranks) | (document) | DCP_E_NOT_FOUND no checkpoint | DCP_E_MISMATCH a tensor is not stored, or has
 * another type or shape; exact; minimum_step | DCP_E_INCOMPLETE holes; a file that is missing or cut short; a rank that
 * does not see what rank 0 sees | DCP_E_DEVICE | DCP_E_UNKNOWN several ranks: rank 0 was lost after this rank had all
 * its tensors, so that it cannot know whether the others succeeded. */
DCPDEF dcp_status dcp_load(const dcp_load_desc *desc, dcp_error *err);

/* Which tensors of a checkpoint are meant: those that every set member says. Of what is not selected no file need even
 * be there. */
typedef struct dcp_select {
    const char *const *tiers; size_t tier_count;    /* names of tiers, or their ids in decimal; manifest layout */
    const char *name_pattern;                       /* `*` any text, `?` any one byte; of the whole name */
    int part, part_count;                           /* of n parts of the list of names, dealt in turn; 0 of 0: all */
    int (*keep)(void *user, const char *name); void *user;
    const dcp_role *roles; size_t role_count;       /* dense parameters, experts, ...; manifest layout */
    const int64_t (*expert_keys)[3]; size_t expert_count;       /* tier, group, expert; -1: any; selects experts only */
} dcp_select;
typedef struct dcp_open_desc {
    const char *path; dcp_verify_policy verify; const dcp_verifier *verifier; int64_t minimum_step; int share_reads;
    const dcp_select *select;           /* NULL: all */
    dcp_io io;
    /* asked in this order for a file that is missing or whose bytes are not those that were saved; none: such a file is
     * an error. They and what they point to live as long as the checkpoint. */
    const dcp_source *sources; size_t source_count;
    dcp_report *report;                 /* out, may be NULL: of dcp_open itself; afterwards dcp_warnings_of */
} dcp_open_desc;
typedef struct dcp_tensor_info {
    const char *name;
    dcp_dtype dtype; const char *dtype_name;     /* as it stands in the document: for DCP_OPAQUE the only thing known */
    int ndim; int64_t shape[DCP_MAX_DIMS];          /* whole tensor: elements */
    int64_t size;                                   /* whole tensor: bytes; of a private one, one rank's */
    dcp_placement placement; int piece_count;
    /* manifest layout: of the first piece; tier NULL: none; the key -1, -1, -1: none */
    dcp_role role; const char *tier; int64_t expert_key[3]; int64_t version;
} dcp_tensor_info;

/* Reads and checks the document; no tensor bytes, but with DCP_VERIFY_ALL.
 * Status: (io) as dcp_load; a selection that the checkpoint cannot have is DCP_E_UNSUPPORTED | (ranks) | (document) |
 * DCP_E_NOT_FOUND | DCP_E_MISMATCH no such tier; minimum_step | DCP_E_INCOMPLETE | DCP_E_UNKNOWN as dcp_load. */
DCPDEF dcp_status dcp_open(const dcp_open_desc *desc, dcp_checkpoint **out, dcp_error *err);
DCPDEF size_t dcp_tensor_count(const dcp_checkpoint *checkpoint);
/* sorted by name; NULL beyond the end */
DCPDEF const dcp_tensor_info *dcp_tensor_at(const dcp_checkpoint *checkpoint, size_t index);
/* NULL: not stored */
DCPDEF const dcp_tensor_info *dcp_tensor_find(const dcp_checkpoint *checkpoint, const char *name);
/* A file of the document that is not there is DCP_E_INCOMPLETE.
 * Status: (io) | (ranks) | DCP_E_CHECKSUM | DCP_E_MISMATCH no such tensor, other type or shape | DCP_E_INCOMPLETE |
 * DCP_E_DEVICE | DCP_E_FORMAT stored pieces overlap | DCP_E_LIMIT stored pieces are cut too irregularly to check |
 * DCP_E_UNKNOWN as dcp_load. */
DCPDEF dcp_status dcp_read(dcp_checkpoint *checkpoint, dcp_tensor *tensors, size_t count, dcp_error *err);
/* What that rank stored as private; DCP_E_INVALID: no rank of that number saved it. Where a document of the seed's
 * form lists several parts of a tensor and does not say how they fit together (no global_shape: dcp_read is
 * DCP_E_MISMATCH), part shard_rank of them, in the document's order.
 * Status: (io) | (ranks) | DCP_E_CHECKSUM | DCP_E_MISMATCH no such tensor, other type or shape, not private |
 * DCP_E_INCOMPLETE | DCP_E_DEVICE | DCP_E_UNKNOWN as dcp_load. */
DCPDEF dcp_status dcp_read_rank(dcp_checkpoint *checkpoint, int shard_rank, dcp_tensor *tensors, size_t count,
                                dcp_error *err);
/* Allocated; dcp_free(out->data); out->name lives until close.
 * Status: (io) | DCP_E_CHECKSUM | DCP_E_MISMATCH | DCP_E_INCOMPLETE | DCP_E_FORMAT | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_read_new(dcp_checkpoint *checkpoint, const char *name, dcp_tensor *out, dcp_error *err);
/* The verified bytes of a whole tensor, row-major, valid until close: mapped pages where it is one piece in a local
 * file, without a copy. What cannot be mapped (a storage without `map`, no addresses left, a part of a file that takes
 * more than an eighth of all addresses) is read into memory. Several pieces: DCP_E_UNSUPPORTED (use dcp_read_new). A
 * mapped file that somebody truncates later is a SIGBUS; nothing else maps. Status: (io) | DCP_E_CHECKSUM |
 * DCP_E_MISMATCH no such tensor | DCP_E_INCOMPLETE. */
DCPDEF dcp_status dcp_map(dcp_checkpoint *checkpoint, const char *name, const void **data, size_t *size,
                          dcp_error *err);
/* Lets go of what dcp_map or dcp_prefetch brought of a tensor; after as many calls as there were of dcp_map its bytes
 * are gone. Any thread. */
DCPDEF void dcp_release(dcp_checkpoint *checkpoint, const char *name);
/* Brings the selected tensors (NULL: all) in the background, in the order of their names, so that dcp_map finds them
 * there, verified; ends before max_bytes would be exceeded (0: io.memory_budget). One at a time: a second call cancels
 * the first. Tensors of several pieces are left out. Local. Status: as dcp_find. */
DCPDEF dcp_status dcp_prefetch(dcp_checkpoint *checkpoint, const dcp_select *select, int64_t max_bytes, dcp_error *err);
/* Waits until it has ended, with `cancel` as soon as the tensor at hand is there; its first error, which dcp_map would
 * have had as well. Status: (io) | DCP_E_CHECKSUM | DCP_E_INCOMPLETE. */
DCPDEF dcp_status dcp_prefetch_wait(dcp_checkpoint *checkpoint, int cancel, dcp_error *err);
/* Every byte of every file; the first damage found.
 * Status: (io) | (ranks) | DCP_E_CHECKSUM | DCP_E_INCOMPLETE | DCP_E_UNKNOWN. */
DCPDEF dcp_status dcp_verify(dcp_checkpoint *checkpoint, dcp_error *err);
/* shards dealt round robin: shard_rank % world_size */
DCPDEF int dcp_shard_owner(int shard_rank, int world_size);
DCPDEF const dcp_training *dcp_training_of(const dcp_checkpoint *checkpoint);                 /* NULL: none was saved */
/* of a manifest: the same, a shard for each file: of `shards`, of optim_state, of router_state (with its layers'
 * last), in the document's order; then, without tensors and with file_size -1, the files of states that are only a
 * path (the seed's form) */
DCPDEF const dcp_metadata *dcp_metadata_of(const dcp_checkpoint *checkpoint);
DCPDEF const dcp_manifest *dcp_manifest_of(const dcp_checkpoint *checkpoint);                 /* NULL: another layout */
/* The tensors that a selection means, by name; one allocation, dcp_free(*tensors). select NULL: all.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_MISMATCH no such tier | DCP_E_UNSUPPORTED not a manifest. */
DCPDEF dcp_status dcp_find(const dcp_checkpoint *checkpoint, const dcp_select *select, const dcp_tensor_info ***tensors,
                           size_t *count, dcp_error *err);
/* What open and the calls on the checkpoint since (read, verify, map, prefetch, ...) had to warn of. Any thread. */
DCPDEF void dcp_warnings_of(const dcp_checkpoint *checkpoint, dcp_report *report);
DCPDEF const char *dcp_path_of(const dcp_checkpoint *checkpoint);                               /* of the commit file */
DCPDEF dcp_layout dcp_layout_of(const dcp_checkpoint *checkpoint);
DCPDEF void dcp_close(dcp_checkpoint *checkpoint);

/* ---- a directory of checkpoints: only commit files directly in `directory` count (NULL or "": the storage's base, or
 * the current one) ---- */
typedef struct dcp_latest_desc {
    const char *directory;
    dcp_verify_policy verify;
    const dcp_verifier *verifier;
    int64_t minimum_step;
    dcp_io io;
    dcp_report *report;                 /* out, may be NULL: the checkpoints that were skipped, and why */
} dcp_latest_desc;
/* The newest valid checkpoint, by (sequence, step, timestamp, name), never by file time; valid: document intact and
 * every file there with its size (DCP_VERIFY_ALL: every byte). *path goes into dcp_load; dcp_free it. Corrupt and
 * incomplete ones are skipped with a warning; an I/O error or a newer format is returned, never skipped. When none is
 * valid, the newest one's error, whatever dcp_load says of it.
 * Status: (io) | (ranks) | (document) | DCP_E_NOT_FOUND no commit file at all, or no directory | DCP_E_INCOMPLETE |
 * DCP_E_UNKNOWN several ranks: rank 0 was lost while it looked. */
DCPDEF dcp_status dcp_latest(const dcp_latest_desc *desc, char **path, dcp_error *err);

typedef struct dcp_list_desc {
    const char *directory; dcp_verify_policy verify; const dcp_verifier *verifier; dcp_io io;
    dcp_report *report;                 /* out, may be NULL */
} dcp_list_desc;
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
/* All commit files of a directory, newest first, valid or not. One allocation: dcp_free(*entries).
 * Status: (io) | DCP_E_NOT_FOUND no directory. */
DCPDEF dcp_status dcp_list(const dcp_list_desc *desc, dcp_list_entry **entries, size_t *count, dcp_error *err);

/* what was (or would be) removed */
typedef struct dcp_removal { char **paths; size_t path_count; size_t checkpoints; int64_t bytes; } dcp_removal;
DCPDEF void dcp_removal_free(dcp_removal *removal);

typedef struct dcp_prune_desc {
    const char *directory;
    int keep_last;                  /* the newest n valid ones; 0 is 1: the newest that proves valid is never removed */
    int64_t keep_every;                 /* also those whose step is a multiple; 0: none */
    int dry_run;
    dcp_verify_policy verify; const dcp_verifier *verifier; dcp_io io;
    dcp_report *report;                 /* out, may be NULL */
} dcp_prune_desc;
/* Removes valid checkpoints beyond what is to be kept, commit file first; corrupt ones are left for a person to look
 * at. `removal` may be NULL.
 * Before anything goes, each of the last ones that are kept has been read and verified once in this process, or was
 * written by it; one that turns out to be damaged does not count, and an older one is kept. DCP_VERIFY_NONE: sizes and
 * documents are enough; DCP_VERIFY_ALL: every byte of every checkpoint there, each time.
 * What somebody is saving to, or has saved to since, stays.
 * Status: (io) | (ranks) | DCP_E_NOT_FOUND no directory | DCP_E_EXISTS a lock was taken from this process, which was
 * silent for too long | DCP_E_UNKNOWN several ranks: rank 0 was lost while it removed. */
DCPDEF dcp_status dcp_prune(const dcp_prune_desc *desc, dcp_removal *removal, dcp_error *err);

typedef struct dcp_sweep_desc {
    const char *directory;
    int64_t grace_seconds;              /* younger files are left alone: a save may be running; 0: 86,400 (24 h);
                                         * negative: none, for when nobody saves, syncs or removes there (a save that is
                                         * swept fails, but not on every storage) */
    /* also unreferenced P_shard_<rank>.bin and files of manifests, without a save id: other programs may use such
     * names */
    int plain_names;
    int dry_run;
    const dcp_verifier *verifier; dcp_io io;
    dcp_report *report;                 /* out, may be NULL */
} dcp_sweep_desc;
/* Removes what killed saves left: temporary files and shard files of our own grammar that no commit file names and
 * that are older than the grace time. If any commit file of the directory cannot be read and verified, only temporary
 * files go. Of directories below only the folders that manifests put files into are looked at, dense, experts, optim
 * and router; one that has checkpoints of its own (runs/dense beside runs/a.manifest.json) is left alone with all
 * below it: sweep it by its own name. Lock files that nobody holds go, whatever their age. `removal` may be NULL.
 * Status: as dcp_prune. */
DCPDEF dcp_status dcp_sweep(const dcp_sweep_desc *desc, dcp_removal *removal, dcp_error *err);

typedef struct dcp_sync_report {
    int64_t copied, bytes_copied;                       /* files that were missing, stale or corrupt */
    int64_t kept, bytes_kept;                           /* that were up to date */
    int64_t missing, stale, corrupt;                    /* what copied (dry_run: would be copied) is made of */
    int64_t left_out, bytes_left_out;       /* that did not fit their tier's size_budget; each is logged as a warning */
    int64_t not_selected, bytes_to_copy;
    char path[DCP_PATH_SIZE], save_id[17];              /* of the copy's commit file; of this sync's temporary files */
    int64_t warning_count; char warning[512];           /* as in dcp_report */
    uint32_t not_durable;                               /* of the target, as in dcp_save_report */
} dcp_sync_report;
typedef struct dcp_sync_desc {
    dcp_storage *source; const char *path;              /* a manifest; storage NULL: a path of the system */
    dcp_storage *target; const char *directory;         /* where the copy is, or will be */
    const char *const *tiers; size_t tier_count;      /* names or ids; files without a tier always come; 0: all tiers */
    /* DCP_VERIFY_ALL: hash what is there; else only what the copy's own manifest does not vouch for */
    dcp_verify_policy verify;
    const dcp_verifier *verifier; int64_t minimum_step;
    int dry_run;                                        /* only the report */
    dcp_sync_report *report;                            /* out, may be NULL; filled as far as it came on failure too */
    dcp_io io;                                          /* coordinator NULL: one process syncs */
} dcp_sync_desc;
/* Brings a copy of a manifest up to date (seed 001: a version in the manifest that is higher than the copy's means
 * stale): copies what is missing, stale or corrupt, checked as it passes, leaves the rest, and then commits the
 * source's document itself, byte for byte, by one rename. Killed before, it leaves the old copy, and goes on where it
 * was when it is called again. Tiers fill up in the order of the manifest; what exceeds a size_budget is left out:
 * load the other tiers by selecting them, or give dcp_source for the rest. DCP_E_CHECKSUM, DCP_E_INCOMPLETE: the
 * source is damaged. DCP_E_EXISTS: another checkpoint beside the copy owns a file of that name, or what is there is
 * not known to be a file of a manifest (by its name, or because the copy's own manifest names it); it stays as it is.
 * DCP_E_MISMATCH: no such tier. DCP_E_LIMIT: the path of the copy's commit file has more than 4,096 bytes.
 * Status: (io) path is no manifest | (document) | DCP_E_NOT_FOUND no manifest at path | DCP_E_INCOMPLETE a file of the
 * source is missing or cut short | DCP_E_EXISTS another checkpoint beside the copy has a file of that name, or what is
 * there is not known to be a manifest's; somebody saves there | DCP_E_MISMATCH no such tier; minimum_step. */
DCPDEF dcp_status dcp_sync(const dcp_sync_desc *desc, dcp_error *err);

typedef struct dcp_remove_desc {
    const char *path; dcp_io io;
    dcp_report *report;                 /* out, may be NULL */
} dcp_remove_desc;
/* Removes one checkpoint: its commit file, then, durably after it, the files that only it names and whose names are
 * those of its own data. A file that a document merely lays claim to stays: another checkpoint's, another program's,
 * one in a directory below that has checkpoints of its own.
 * Status: (io) | (ranks) | DCP_E_NOT_FOUND no checkpoint | DCP_E_EXISTS another save is committing there, or took the
 * lock | DCP_E_UNKNOWN several ranks: rank 0 was lost while it removed. */
DCPDEF dcp_status dcp_remove(const dcp_remove_desc *desc, dcp_removal *removal, dcp_error *err);

