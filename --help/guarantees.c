 *
 * >>guarantees  Code that upholds one cites its number.
 *
 *   G1  atomic          A checkpoint exists exactly when its commit file does (P.metadata.json, P.checkpoint,
 *                       P.manifest.json or .yaml); that file appears by one rename. A crash at any instant leaves the
 *                       previous checkpoint or the new one, never neither, never a mixture.
 *   G2  never destroys  No file that a committed checkpoint refers to is written to, truncated, replaced or removed
 *                       before its successor's commit is durable.
 *   G3  durable         DCP_OK means that file data, names and directories are synced. A failed fsync is final for that
 *                       file: never retried on it, never reported as success. A storage that cannot sync or rename
 *                       atomically says so, and dcp_save_report.not_durable tells.
 *   G4  every bit       One flipped bit in any file, a truncation, an extension, a swapped or stale shard is detected
 *                       by dcp_verify, and by a load that touches it.
 *   G5  one verdict     Never DCP_OK on one rank beside a failure on another. Who cannot know returns DCP_E_UNKNOWN and
 *       removes nothing.
 *   G6  bounded wait    Waiting for other ranks ends io.timeout_ms after their last sign of life, and the error names
 *                       who is missing, in which phase. Slow but healthy is no failure; io.deadline_ms alone limits the
 *                       whole. In saves and loads alike the calling thread shows life while others of ours read and
 *                       write, and while it pauses between attempts. A storage call that blocks is not broken off:
 *                       cancel and deadline take effect when it returns. With DCP_NO_THREADS there is nobody else to
 *                       make it, and one that takes longer than io.timeout_ms is silence.
 *   G7  bounded memory  A rank's extra memory stays within io.memory_budget (default 64 MiB) plus documents, however
 *                       large the checkpoint. A save in the background also has its copy of the tensors, within
 *                       dcp_saver_desc.snapshot_budget.
 *   G8  hostile input   No byte sequence in any file makes the library crash, hang, read or write out of bounds, leave
 *                       its directory, or take memory out of proportion to the bytes that are there.
 *   G9  clean           A save that knows that it failed removes what it made; a killed one leaves only files that
 *       dcp_sweep recognises.
 *   G10 portable        The same bytes on every platform: little-endian, relative paths. A directory of checkpoints can
 *                       be moved or renamed.
 *   G11 deterministic   Same state, same bytes; timestamp, save id and sequence aside. No uninitialised byte is ever
 *                       written.
 *   G12 forward         Unknown members are ignored on load and kept when a document is rewritten. A newer major
 *                       version is refused with a clear message.
 *
 * Caveats
 *   - A crash during a save leaves files named *.tmp, P_shard_*, or in the folders of manifests; they disturb nothing;
 *     dcp_sweep removes them once they are a day old.
 *   - Durability ends where the device's begins: a disk that acknowledges a flush it did not do can lose what DCP_OK
 *     promised.
 *   - Network file systems: rename and exclusive creation are as atomic as the server makes them; clients cache
 *     directories, so another host may see a new checkpoint late. Directories that cannot be synced (some FUSE, CIFS)
 *     make a save fail rather than lie.
 *   - dcp_map returns mapped pages: a file that somebody truncates afterwards is a SIGBUS. dcp_load and dcp_read never
 *     map.
 *   - fork: do not use a checkpoint or a saver that was opened before the fork in the child; a save in the background
 *     goes on in the parent alone. Threads: see >>api_base.
 *   - Two programs that save to one path at the same time: one succeeds, the other gets DCP_E_EXISTS; neither's data is
 *     damaged. A lock of the system keeps them apart (P.commit.lock), for all layouts alike. It is free when its holder
 *     dies; a holder that stands still for the other one's io.timeout_ms is given up, and gets DCP_E_EXISTS when it
 *     wakes. On NFS a client that was lost may hold it until its lease has ended. Where there are no locks,
 *     report.not_durable has DCP_STORAGE_COMMIT_LOCK: then both may get DCP_OK, and one of them is lost.
