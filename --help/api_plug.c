/* =====================================================================================================================
 * >>api_plug    Storages, coordinators, devices, signers: what a program can put in place of ours.
 *
 * What they return: DCP_OK or a failure, with the reason in *err (which may be NULL, and is cleared before the call).
 * An operation ends with that failure if it is one that its kind may have, else with the last one here:
 *   storage       DCP_E_INVALID, _MEMORY, _SPACE, _UNSUPPORTED; DCP_E_NOT_FOUND that an object, when it is looked for,
 *                 is not there, DCP_E_INCOMPLETE that it is shorter than what is read; what commit, join and lock may
 *                 say besides stands there; DCP_E_IO
 *   coordinator   DCP_E_INVALID, _MEMORY, _IO, _TIMEOUT, _CANCELLED, _UNSUPPORTED; DCP_E_COMM
 *   device        DCP_E_INVALID, _MEMORY, _IO, _TIMEOUT, _CANCELLED, _UNSUPPORTED; DCP_E_DEVICE
 *   signer        DCP_E_MEMORY, _IO, _TIMEOUT, _CANCELLED, _COMM, _DEVICE; DCP_E_SIGNATURE
 *   verifier      the same: with those six it could not look; DCP_E_SIGNATURE and any other: it does not accept
 * ================================================================================================================== */
typedef struct dcp_object_info { int64_t size; int64_t modified_ns; /* since 1970-01-01T00:00:00Z */ } dcp_object_info;
enum {                 /* what a storage can promise; what it lacks ends in dcp_save_report.not_durable or is refused */
    DCP_STORAGE_RANDOM_WRITE = 1,       /* write takes any offset; without it offsets only rise, without gaps */
    DCP_STORAGE_CONCURRENT_WRITE = 2,   /* several threads may write one object */
    /* commit with replace: readers see the old or the new object, never a mixture or neither */
    DCP_STORAGE_ATOMIC_REPLACE = 4,
    /* commit without replace fails, atomically, if the path is taken; without it every data file has the save id in its
     * name */
    DCP_STORAGE_EXCLUSIVE_PUBLISH = 8,
    DCP_STORAGE_SYNC = 16,              /* commit makes the bytes durable */
    DCP_STORAGE_SYNC_DIRECTORY = 32,    /* sync_directory makes the names durable */
    /* several ranks may write one object (join): a single file saved by all at once */
    DCP_STORAGE_SHARED_POSITIONAL_WRITE = 64,
    DCP_STORAGE_COMMIT_LOCK = 128      /* lock, lock_note and unlock are there and keep two writers of one path apart */
};
/* A storage keeps objects under keys: parts of printable UTF-8 joined by '/', validated before any call. A NULL
 * function is "not supported" (begin, write, commit, abort, open, read, close, stat, list and remove are needed for
 * saving and sweeping). Calls come from several threads at once, for one object only those that its flags allow. On
 * failure a function fills err (status, sys, a message that names the key) and leaves no object behind. */
struct dcp_storage {
    void *context; uint32_t flags;
    /* a new object, invisible under `path` until commit; `temporary` is a free key for it meanwhile; missing
     * directories are made */
    dcp_status (*begin)(void *context, const char *path, const char *temporary, int64_t size_hint, void **object,
                        dcp_error *err);
    dcp_status (*write)(void *context, void *object, int64_t offset, const void *data, size_t size, dcp_error *err);
    /* durable, then visible under path; without replace an existing path is DCP_E_EXISTS; ends the object, on failure
     * too, and removes what begin made. A failure that may have made it visible all the same (an answer that was lost)
     * is DCP_E_UNKNOWN */
    dcp_status (*commit)(void *context, void *object, int replace, dcp_error *err);
    /* ends the object and removes what begin made */
    void (*abort)(void *context, void *object);
    dcp_status (*open)(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *err);
    /* exactly size bytes, or an error */
    dcp_status (*read)(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *err);
    /* the whole object, until close */
    dcp_status (*map)(void *context, void *object, const void **data, dcp_error *err);
    void (*close)(void *context, void *object);
    dcp_status (*stat)(void *context, const char *path, dcp_object_info *info, dcp_error *err);
    /* objects directly in directory ("": the base), with their whole keys; each's failure ends it and is returned; each
     * may call the storage again, so hold no lock */
    dcp_status (*list)(void *context, const char *directory,
                       dcp_status (*each)(void *user, const char *path, const dcp_object_info *info), void *user,
                       dcp_error *err);
    dcp_status (*remove)(void *context, const char *path, dcp_error *err);            /* of what is not there: DCP_OK */
    /* made if need be; its names are durable */
    dcp_status (*sync_directory)(void *context, const char *directory, dcp_error *err);
    dcp_status (*space)(void *context, const char *directory, int64_t *bytes_free, dcp_error *err);
    void (*destroy)(void *context);
    /* one allocation made with DCP_MALLOC: the array, then its text */
    dcp_status (*additional_info)(void *context, const char *path, dcp_field **fields, size_t *count, dcp_error *err);
    /* DCP_STORAGE_SHARED_POSITIONAL_WRITE: another rank's object, whose begin had the same names, to be written at
     * other offsets at the same time. DCP_E_NOT_FOUND: not there, or not seen from here; then that rank gets the bytes
     * as messages */
    dcp_status (*join)(void *context, const char *path, const char *temporary, int64_t size_hint, void **object,
                       dcp_error *err);
    /* makes durable what was written here; ends this object, on failure too; the one of begin goes on */
    dcp_status (*leave)(void *context, void *object, dcp_error *err);
    /* directories directly in directory, with their whole keys; info is NULL. NULL: sweep finds no files in the folders
     * of manifests */
    dcp_status (*list_directories)(void *context, const char *directory,
                                   dcp_status (*each)(void *user, const char *path, const dcp_object_info *info),
                                   void *user, dcp_error *err);
    /* links directly in directory that are not just another name of an object there, with their whole keys; info is
     * NULL. A commit file that was moved elsewhere may have left one: while it is there, nothing that it may name is
     * removed. NULL: there are none */
    dcp_status (*list_links)(void *context, const char *directory,
                             dcp_status (*each)(void *user, const char *path, const dcp_object_info *info), void *user,
                             dcp_error *err);
    /* DCP_STORAGE_COMMIT_LOCK: a lock under a key that ends in ".commit.lock", of one holder at a time among all that
     * use the storage; it is free when its holder's process has died. Never waits. note: DCP_LOCK_NOTE bytes, out, a
     *   text. DCP_OK: *lock is the caller's. note: what the last holder had noted, if that one has not let go ("": it
     *           has, or noted nothing): it died, or a server gave its lock away and it may not know. That stays noted
     *           until the new holder notes something else
     *   DCP_PENDING: somebody has it. note: what that one has noted. *holder: stands for that holder and note; 0:
     *   cannot be told DCP_E_UNSUPPORTED: there are no locks there; the save goes on without, and its report says so
     * *holder, in: 0; or, from an earlier call, a holder that has been silent for long: the lock is taken from it, if
     * it still is that one. The caller then removes the temporary that it had noted: from then on a commit of that
     * object must fail */
    dcp_status (*lock)(void *context, const char *path, uint64_t *holder, char *note, void **lock, dcp_error *err);
    /* what the next one is to be told, less than DCP_LOCK_NOTE bytes. DCP_E_EXISTS: the lock was taken from this
     * holder, and nothing is noted; DCP_PENDING: again later. Once a note is set, whoever takes the lock reads it */
    dcp_status (*lock_note)(void *context, void *lock, const char *note, dcp_error *err);
    /* lets go, taken or not. Nothing of the lock is left, unless somebody has it, or the last note is another holder's
     * still */
    void (*unlock)(void *context, void *lock);
};
enum { DCP_LOCK_NOTE = 256 };           /* bytes of a lock's note, its NUL included */
typedef struct dcp_storage_options {
    const char *provider;
    const dcp_field *settings;
    size_t setting_count;
} dcp_storage_options;
/* "local" {basePath; mode: octal permissions of new files, default 0666 less the umask}, "memory", and what was
 * registered (ASCII case does not matter). An unknown provider is DCP_E_UNSUPPORTED with the list of those there are;
 * an unknown setting is DCP_E_INVALID. Status: (storage) | DCP_E_NOT_FOUND. */
DCPDEF dcp_status dcp_storage_open(const dcp_storage_options *options, dcp_storage **out, dcp_error *err);
/* Makes a provider known to dcp_storage_open, for the life of the process. Any thread.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_EXISTS the name is taken. */
DCPDEF dcp_status dcp_storage_register(const char *provider,
                                       dcp_status (*open)(const dcp_storage_options *options, dcp_storage **out,
                                                          dcp_error *err), dcp_error *err);
/* The directory is made, with its parents. Status: (storage). */
DCPDEF dcp_status dcp_storage_local(const char *base_path, dcp_storage **out, dcp_error *err);
/* Objects in this process's memory: tests, staging. Status: DCP_E_MEMORY. */
DCPDEF dcp_status dcp_storage_memory(dcp_storage **out, dcp_error *err);
/* Replaces atomically, durably. Status: (storage). */
DCPDEF dcp_status dcp_storage_write_all(dcp_storage *storage, const char *path, const void *data, size_t size,
                                        dcp_error *err);
/* dcp_free; a NUL follows the last byte. Status: (storage) | DCP_E_NOT_FOUND | DCP_E_INCOMPLETE it became shorter. */
DCPDEF dcp_status dcp_storage_read_all(dcp_storage *storage, const char *path, void **data, size_t *size,
                                       dcp_error *err);
/* With io's cancel, deadline, progress. Status: (io). */
DCPDEF dcp_status dcp_storage_write_all_io(dcp_storage *storage, const char *path, const void *data, size_t size,
                                           const dcp_io *io, dcp_error *err);
/* Status: (io) | DCP_E_NOT_FOUND | DCP_E_INCOMPLETE. */
DCPDEF dcp_status dcp_storage_read_all_io(dcp_storage *storage, const char *path, void **data, size_t *size,
                                          const dcp_io *io, dcp_error *err);
/* Status: (storage). */
DCPDEF dcp_status dcp_storage_exists(dcp_storage *storage, const char *path, int *exists, dcp_error *err);
/* Status: (storage) | DCP_E_NOT_FOUND. */
DCPDEF dcp_status dcp_storage_info(dcp_storage *storage, const char *path, dcp_object_info *info, dcp_error *err);
/* What else the storage knows ("mode", "links", ...); dcp_free(*fields). Status: (storage) | DCP_E_NOT_FOUND. */
DCPDEF dcp_status dcp_storage_additional_info(dcp_storage *storage, const char *path, dcp_field **fields, size_t *count,
                                              dcp_error *err);
/* Of what is not there: DCP_OK. Status: (storage). */
DCPDEF dcp_status dcp_storage_delete(dcp_storage *storage, const char *path, dcp_error *err);
/* destroys the context and frees the struct, which was made with DCP_MALLOC */
DCPDEF void dcp_storage_close(dcp_storage *storage);

enum { DCP_ANY_RANK = -1 };
/* A coordinator carries messages between the ranks of a job. Rank, world size, send and receive are all that one must
 * have; what the library needs beyond that it builds of messages. In a program's own coordinator the other members are
 * zero.
 *
 *   - Messages from one rank to another with one tag arrive whole, once, and in the order in which they were sent;
 *     those with other tags may overtake them. Tags are 0 to 2^28 - 1; 0x0DC0000 to 0x0DC00FF are the library's. Any
 *     size_t is a size, 0 and more than 2^31 too.
 *   - `send` returns when `data` is the caller's again, not when the message has been received; it may wait for the
 *     receiver. Whether a message that could not be sent in time (DCP_E_TIMEOUT) arrives after all is not defined. The
 *     library never sends to its own rank.
 *   - A send with timeout_ms 0 (dcp_save_poll, which waits for nobody) takes the message, keeping a copy for as long as
 *     it must, or is DCP_PENDING: nothing of it has been or will be sent, and the library tries again later.
 *   - `receive` takes the oldest message with that tag from *from, or from any rank (DCP_ANY_RANK; no rank may be
 *     starved for ever), sets *from, and hands over memory made with DCP_MALLOC (NULL if the size is 0). DCP_PENDING,
 *     no error: none came within timeout_ms.
 *   - timeout_ms 0 means what can be done without waiting: a probe. The library passes no negative one.
 *   - A rank that has died is DCP_E_COMM, at once where that can be known, for who waits for any rank too. One that has
 *     closed its coordinator is so for who sends to it or waits for it; for who waits for any rank once all have. What
 *     it sent before comes first.
 *   - Any other failure than DCP_E_INVALID and DCP_E_MEMORY breaks the coordinator: the library calls nothing of it
 *     again but `destroy`, and every later operation with it returns the same status at once. The same on all ranks:
 *     close it everywhere and open a new one.
 *   - Threads: without `thread_safe` it is called only from the thread that calls the library. With it several may send
 *     and receive at once, each with tags of its own.
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
    /* kept by the library: waits for the save in the background that uses this coordinator */
    void (*settle)(void *saver);
    void *saver;
};
/* The four below are collective: all ranks call the same ones in the same order with the same root and size, each from
 * one thread at a time; a rank that does otherwise, with another root, or with another world size, is DCP_E_MISMATCH at
 * once, naming both calls: no data moves before all ranks have called the same. timeout_ms covers a whole call with its
 * data (0: 300,000; negative is DCP_E_INVALID): when ranks are missing then, it is DCP_E_TIMEOUT, and the message lists
 * them. Ranks that wait for others on the way wait up to 15 % longer, so that the news of who is missing still reaches
 * them. A failure breaks the coordinator, unless it is an argument's (DCP_E_INVALID), and dcp_error.rank is the missing
 * or deviating rank. A rank that was too late for the others may still get DCP_OK, and hears of their failure in its
 * next call. A coordinator that is NULL or has one rank: nothing to wait for.
 *   DCP_E_INVALID | DCP_E_MISMATCH | DCP_E_TIMEOUT | DCP_E_COMM a rank died; the coordinator failed | DCP_E_MEMORY
 *
 * No rank returns before all have called.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | (ranks) | DCP_E_IO | DCP_E_CANCELLED | DCP_E_UNSUPPORTED whatever the
 * coordinator says. */
DCPDEF dcp_status dcp_barrier(dcp_coordinator *coordinator, int timeout_ms, dcp_error *err);
/* `size` bytes at data, from the root to all; data may be NULL if size is 0. A rank returns when it has its data, and
 * has sent it to the ranks behind it in the tree. On failure the data is unspecified, but for the root's.
 * Status: as dcp_barrier. */
DCPDEF dcp_status dcp_broadcast(dcp_coordinator *coordinator, void *data, size_t size, int root, int timeout_ms,
                                dcp_error *err);
/* Each rank's `size` bytes, which may differ, to the root: (*parts)[rank] has (*sizes)[rank] bytes, aligned to 16, NULL
 * if there are none. One allocation each: dcp_free(*parts), dcp_free(*sizes). Elsewhere both are set to NULL (and parts
 * and sizes may be NULL). Status: as dcp_barrier. */
DCPDEF dcp_status dcp_gather(dcp_coordinator *coordinator, const void *data, size_t size, void ***parts, size_t **sizes,
                             int root, int timeout_ms, dcp_error *err);
/* reduce(inout, in, size, user) combines inout = inout (+) in, and need not be commutative: inout is of lower ranks
 * than in. The grouping depends on the world size alone, not on who arrives first, so sums of floating point numbers
 * are the same in each run. All ranks get the result in data, as the same bytes. On failure the data is unspecified.
 * Status: as dcp_barrier. */
DCPDEF dcp_status dcp_allreduce(dcp_coordinator *coordinator, void *data, size_t size,
                                void (*reduce)(void *inout, const void *in, size_t size, void *user), void *user,
                                int timeout_ms,
                                dcp_error *err);
/* world_size ranks in one process, for tests and for programs with a thread for each device. Fills ranks[0] to
 * ranks[world_size - 1] (with NULL on failure); each is closed on its own, in any order. They are thread-safe, and copy
 * messages: a send never waits. Sending to a rank that has been closed, and waiting for one that left no message, is
 * DCP_E_COMM. DCP_NO_THREADS: DCP_E_UNSUPPORTED for more than one rank. Status: DCP_E_INVALID | DCP_E_MEMORY |
 * DCP_E_UNSUPPORTED a build without threads. */
DCPDEF dcp_status dcp_thread_group_open(int world_size, dcp_coordinator **ranks, dcp_error *err);
/* Destroys the context and frees the struct, which was made with DCP_MALLOC. Local: waits for nobody. No call may be
 * running in it. */
DCPDEF void dcp_coordinator_close(dcp_coordinator *coordinator);

/* Memory that the host cannot touch, or a producer of bytes. Copies are asynchronous; a copy that has been begun is
 * waited for once, by the thread that began it, in the order in which that thread began its own. Several are under way
 * at once, and a load copies from several threads (io.threads = 1: from one). A wait that fails must leave no copy
 * behind that still touches the host's memory, and a copy that could not be begun must not be under way: the memory is
 * freed then. A failure is DCP_E_DEVICE with the reason in *err. */
struct dcp_device {
    void *context;
    /* staging memory that copies run fastest from; NULL, or a failure, which is logged: ordinary memory. Both or
     * none */
    dcp_status (*allocate_host)(void *context, size_t size, void **memory, dcp_error *err);
    void (*free_host)(void *context, void *memory);
    /* bytes [offset, offset + size) of the piece in row-major order */
    dcp_status (*copy_out)(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                           uint64_t *ticket, dcp_error *err);
    dcp_status (*copy_in)(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size,
                          uint64_t *ticket, dcp_error *err);
    dcp_status (*wait)(void *context, uint64_t ticket, dcp_error *err);
    void (*destroy)(void *context);
    /* The snapshot of an asynchronous save in the device's own memory, which takes less time; all three or none. A
     * saver asks for own_bytes at most; what is beyond, or has no room (a failure, which is logged), goes to host
     * memory in dcp_save_begin. copy_own: all of the piece, row-major, to memory of allocate_own, from where copy_out
     * takes it in the background (tensor->data is in it, no strides) */
    size_t own_bytes;
    dcp_status (*allocate_own)(void *context, size_t size, void **memory, dcp_error *err);
    void (*free_own)(void *context, void *memory);
    dcp_status (*copy_own)(void *context, void *own, const dcp_tensor *tensor, size_t size, uint64_t *ticket,
                           dcp_error *err);
    /* May be NULL. At the start of each save, load and read with tensors of the device, on the calling thread, before
     * the first copy: what copies have to wait for can be settled here. Once, unless a load starts again. A failure is
     * the operation's. */
    dcp_status (*begin)(void *context, dcp_error *err);
};
/* destroys the context and frees the struct, which was made with DCP_MALLOC */
DCPDEF void dcp_device_close(dcp_device *device);

/* A signature covers the document, and so, through its digests, every byte of the checkpoint. A document that names
 * bytes without a digest (another writer's) is DCP_E_SIGNATURE: it is not signed, and not accepted where there is a
 * verifier. algorithm: [a-z0-9-]{1,32}; key_id: [A-Za-z0-9._-]{0,128}. */
struct dcp_signer {
    void *context; const char *algorithm, *key_id; size_t size;                     /* of a signature, at most 64 KiB */
    /* NULL: HMAC-SHA256 with the key at context */
    dcp_status (*sign)(void *context, const void *message, size_t message_size, uint8_t *signature, dcp_error *err);
    size_t key_size;                    /* of that key, bytes; unused otherwise */
};
struct dcp_verifier {
    void *context; const char *algorithm; size_t size;
    dcp_status (*verify)(void *context, const char *key_id, const void *message, size_t message_size,
                         const uint8_t *signature, dcp_error *err);
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
