/* fuzz_checkpoint.c - a directory of hostile files: documents, shards, single files (fuzz_disk.h says how an input is
 * one). Opened, verified, mapped, read, loaded, listed, inspected, swept. Nothing may be DCP_OK whose bytes are not
 * those that the document's digests say, and no sweep may take a file that a document names. The first byte chooses
 * how.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_checkpoint.c -o fuzz_checkpoint &&
 *     ./fuzz_checkpoint -max_len=8192 tests/corpus/checkpoint */
#include "fuzz.h"
#include "fuzz_disk.h"

static const char *const checkpoint_tokens[] = {"P.metadata.json", "P.checkpoint", "P.manifest.json", "P.manifest.yaml",
                                                "P_shard_0.bin", "P_shard_1.bin", "P_shard_0.0123456789abcdef.bin",
                                                "dense/w_0_of_1.bin", "dense/w_0_of_1.v1.0123456789abcdef.bin",
                                                "\"offset\": ", "\"size\": ", "\"shape\": [", "\"fileSize\": ",
    "\"dataOffset\": ", "\"globalShape\": [", "\"globalOffset\": [", "\"placement\": \"private\"",
    "\"placement\": \"replicated\"", "\"placement\": \"sharded\"",
    "\"blockSize\": 262144", "\"fp64\"", "\"fp32\"", "\"int8\"", "\"int4\"", "\"rank\": 1", "\"worldSize\": ", "../",
    "/", "64", "4096", "4096, ", "null", "[]", "{}", ", "};

enum { CHECKPOINT_LEAST = 1 << 20 };    /* the smallest memory budget */
static const size_t checkpoint_most = 1 << 20;          /* bytes of a tensor that is read */

/* ---- what the digests say, computed from the files by the definition --------------------------------------------- */
static const uint8_t *checkpoint_region(disk *d, const dcp_checkpoint *c, const dcp_shard_metadata *shard,
                                        size_t *size) {
    const int is_single = dcp_checkpoint_layout(c) == DCP_LAYOUT_SINGLE;
    const disk_file *file = disk_find(d, is_single ? dcp_checkpoint_path(c) : shard->file_path);
    char name[DISK_NAME];
    if (!file && dcp_checkpoint_metadata(c)->is_foreign &&
        dcp_shard_name("P", shard->rank, NULL, name, sizeof name, NULL) ==
        DCP_OK) file = disk_find(d, name);
    *size = 0;
    if (!file || shard->file_size < 0 || shard->data_offset < 0) return NULL;
    if (!is_single && (size_t)shard->file_size != file->size) return NULL;
    if (is_single && ((size_t)shard->data_offset > file->size || (size_t)shard->file_size > file->size -
                      (size_t)shard->data_offset)) return NULL;
    *size = (size_t)shard->file_size;
    return file->data + (is_single ? shard->data_offset : 0);
}
/* The bytes of a stored piece if they are what was saved; NULL: they are not. Files here are shorter than a leaf: each
 * block is one. */
static const uint8_t *checkpoint_piece(disk *d, const dcp_checkpoint *c, const dcp_shard_metadata *shard,
                                       const dcp_tensor_metadata *tensor) {
    size_t size;
    const uint8_t *region = checkpoint_region(d, c, shard, &size), *bytes;
    const int64_t at = tensor->offset - shard->data_offset;
    uint8_t digest[32], stated[32];
    if (!region || at < 0 || tensor->size < 0 || (size_t)at > size || (size_t)tensor->size > size - (size_t)at)
        return NULL;
    bytes = region + at;
    if (tensor->block_size > 0) {
        dcp_sha256(bytes, (size_t)tensor->size, digest);
        if (tensor->block_count != (tensor->size > 0)) return NULL;
        return tensor->size == 0 || memcmp(digest, tensor->block_checksums, 32) == 0 ? bytes : NULL;
    }
    if (!shard->checksum || shard->checksum[0] == '\0') return bytes;
    dcp_sha256(region, size, digest);
    if (dcpi_starts_with(shard->checksum, "sha256-tree:")) return tensor->size == 0 ? bytes : NULL;
    return strlen(shard->checksum) == 64 && dcpi_hex_decode(shard->checksum, 64, stated) &&
           memcmp(stated, digest, 32) == 0 ? bytes : NULL;
}
/* Whether memory holds what a file does: files are little-endian. */
static int checkpoint_same(const uint8_t *stored, const void *memory, size_t size, dcp_dtype dtype) {
    const size_t width = (size_t)dcpi_dtype_width(dtype);
    size_t i;
    for (i = 0; i < size; i++) {
        const size_t at = DCPI_BIG_ENDIAN && i / width < size / width ? i - i % width + (width - 1 - i % width) : i;
        if (stored[i] != ((const uint8_t *)memory)[at]) return 0;
    }
    return 1;
}
/* data: what the library made of this tensor and called good. One stored piece is just that, or all pieces are good. */
static void checkpoint_check_tensor(disk *d, const dcp_checkpoint *c, const dcp_tensor_info *info, const void *data,
                                    size_t size) {
    const dcp_metadata *m = dcp_checkpoint_metadata(c);
    size_t s, t, pieces = 0, good = 0;
    FUZZ_CHECK((int64_t)size == info->size);
    for (s = 0; s < m->shard_count; s++) {
        for (t = 0; t < m->shards[s].tensor_count; t++) {
            const dcp_tensor_metadata *tensor = &m->shards[s].tensors[t];
            const uint8_t *bytes;
            if (strcmp(tensor->name, info->name) != 0) continue;
            bytes = checkpoint_piece(d, c, &m->shards[s], tensor);
            pieces++;
            good += bytes != NULL;
            if (bytes && (size_t)tensor->size == size && memcmp(tensor->shape, info->shape, sizeof tensor->shape) ==
                0 && checkpoint_same(bytes, data, size, info->dtype)) return;
        }
    }
    FUZZ_CHECK(size == 0 || (pieces > 1 && good == pieces && info->placement == DCP_PLACE_SHARDED));
}
static void checkpoint_check_all(disk *d, const dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_checkpoint_metadata(c);
    size_t s, t, size;
    for (s = 0; s < m->shard_count; s++) {
        FUZZ_CHECK(checkpoint_region(d, c, &m->shards[s], &size) != NULL);
        for (t = 0; t < m->shards[s].tensor_count; t++)
            FUZZ_CHECK(checkpoint_piece(d, c, &m->shards[s], &m->shards[s].tensors[t]) != NULL);
    }
}

/* ---- one checkpoint ---------------------------------------------------------------------------------------------- */
static void checkpoint_use_tensor(disk *d, dcp_checkpoint *c, const dcp_tensor_info *info, int is_verified) {
    const void *data = &data;
    dcp_tensor tensor;
    dcp_error err;
    size_t size = 1;
    FUZZ_CHECK(dcp_checkpoint_find(c, info->name) == info && info->piece_count > 0 && info->size >= 0);
    fuzz_told(dcp_map(c, info->name, &data, &size, &err), &err);
    if (err.status == DCP_OK) {
        if (is_verified) checkpoint_check_tensor(d, c, info, data, size);
        dcp_release(c, info->name);
    } else FUZZ_CHECK(data == NULL && size == 0);
    fuzz_told(dcp_read_new(c, info->name, &tensor, &err), &err);
    if (err.status == DCP_OK && is_verified) checkpoint_check_tensor(d, c, info, tensor.data, (size_t)info->size);
    FUZZ_CHECK(err.status == DCP_OK || tensor.data == NULL);
    dcp_free(tensor.data);
    if ((size_t)info->size > checkpoint_most) return;
    tensor = dcp_array(info->name, info->dtype, calloc(1, (size_t)info->size + 1), info->ndim, info->shape);
    fuzz_told(dcp_read_rank(c, 0, &tensor, 1, &err), &err);
    if (err.status == DCP_OK && is_verified) checkpoint_check_tensor(d, c, info, tensor.data, (size_t)info->size);
    free(tensor.data);
}
static void checkpoint_load_half(const dcp_open_desc *open, const dcp_checkpoint *c) {
    /* the upper half of the first tensor, without opening it before */
    const dcp_tensor_info *info = dcp_checkpoint_tensor(c, 0);
    dcp_load_desc desc = DCP_ZERO;
    dcp_tensor tensor;
    int64_t offset[DCP_MAX_DIMS] = {0};
    dcp_error err;
    if (!info || info->ndim == 0 || (size_t)info->size > checkpoint_most || info->dtype == DCP_OPAQUE ||
        info->placement == DCP_PLACE_PRIVATE) return;
    tensor = dcp_array(info->name, info->dtype, calloc(1, (size_t)info->size + 1), info->ndim, info->shape);
    offset[0] = info->shape[0] / 2;
    tensor.shape[0] -= offset[0];
    dcp_piece(&tensor, info->shape, offset);
    desc.path = open->path;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.verify = open->verify;
    desc.io = open->io;
    fuzz_told(dcp_load(&desc, &err), &err);
    free(tensor.data);
}
static void checkpoint_use(disk *d, const char *path, const dcp_io *io, uint8_t how) {
    static const dcp_verify_policy policies[] = {DCP_VERIFY_TOUCHED, DCP_VERIFY_ALL, DCP_VERIFY_NONE,
                                                 DCP_VERIFY_TOUCHED};
    dcp_checkpoint *c = (dcp_checkpoint *)&c;
    dcp_open_desc desc = DCP_ZERO;
    dcp_error err;
    size_t i;
    desc.path = path;
    desc.verify = policies[how % 4];
    desc.io = *io;
    fuzz_told(dcp_open(&desc, &c, &err), &err);
    FUZZ_CHECK((err.status == DCP_OK) == (c != NULL));
    if (!c) return;
    if (desc.verify == DCP_VERIFY_ALL) checkpoint_check_all(d, c);
    for (i = 0; i < dcp_checkpoint_tensor_count(c) && i < 8; i++)
        checkpoint_use_tensor(d, c, dcp_checkpoint_tensor(c, i), desc.verify != DCP_VERIFY_NONE);
    fuzz_told(dcp_verify(c, &err), &err);
    if (err.status == DCP_OK) checkpoint_check_all(d, c);
    checkpoint_load_half(&desc, c);
    dcp_close(c);
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */
static void checkpoint_list(const dcp_io *io, uint8_t how) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t count, i, valid = 0;
    char *path;
    desc.io = latest.io = *io;
    desc.verify = latest.verify = how % 2 ? DCP_VERIFY_ALL : DCP_VERIFY_TOUCHED;
    fuzz_told(dcp_list(&desc, &entries, &count, &err), &err);
    if (err.status) return;
    for (i = 0; i < count; i++) {
        FUZZ_CHECK((entries[i].status == DCP_OK) == (entries[i].message[0] == '\0') &&
                   dcpi_commit_kind_of(entries[i].path));
        valid += entries[i].status == DCP_OK;
    }
    fuzz_told(dcp_latest(&latest, &path, &err), &err);
    FUZZ_CHECK(err.status == DCP_OK ? valid > 0 && path != NULL : path == NULL);
    dcp_free(path);
    dcp_free(entries);
}
/* Sweeps, and looks whether what a good document names is still there. */
static void checkpoint_sweep(disk *d, const dcp_io *io, uint8_t how) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_error err;
    size_t i, s, present = 0;
    char named[64][DISK_NAME];
    for (i = 0; i < DISK_FILES; i++) {
        dcp_open_desc open = DCP_ZERO;
        dcp_checkpoint *c;
        if (!d->files[i].is_used || !dcpi_commit_kind_of(d->files[i].name)) continue;
        open.path = d->files[i].name;
        open.io = *io;
        if (dcp_open(&open, &c, &err)) continue;
        for (s = 0; s < dcp_checkpoint_metadata(c)->shard_count && present < 62; s++) {
            const char *path = dcp_checkpoint_metadata(c)->shards[s].file_path;
            if (disk_find(d, path)) (void)strcpy(named[present++], path);
        }
        (void)strcpy(named[present++], open.path);
        dcp_close(c);
    }
    desc.grace_seconds = how & 16 ? 0 : -1;
    desc.plain_names = (how & 4) != 0;
    desc.dry_run = (how & 8) != 0;
    desc.io = *io;
    fuzz_told(dcp_sweep(&desc, &removal, &err), &err);
    dcp_removal_free(&removal);
    for (i = 0; i < present; i++) FUZZ_CHECK(disk_find(d, named[i]) != NULL);
}
static void checkpoint_one(const uint8_t *data, size_t size) {
    static disk d;
    char paths[DISK_FILES][DISK_NAME];
    dcp_io io = DCP_ZERO;
    dcp_remove_desc remove = DCP_ZERO;
    dcp_removal removal;
    dcp_error err;
    size_t count = 0, i;
    if (size == 0) return;
    disk_mount(&d, data + 1, size - 1);
    io.storage = &d.storage;
    io.memory_budget = CHECKPOINT_LEAST;
    io.threads = 1;
    io.retry.attempts = 1;              /* what is not there will not come */
    for (i = 0; i < DISK_FILES; i++)
        if (d.files[i].is_used && !strchr(d.files[i].name, '/') && dcpi_commit_kind_of(d.files[i].name))
            (void)strcpy(paths[count++], d.files[i].name);
    for (i = 0; i < count && i < 2; i++) checkpoint_use(&d, paths[i], &io, data[0]);
    if (data[0] & 32) checkpoint_use(&d, "P", &io, data[0]);
    if (data[0] & 64) checkpoint_list(&io, data[0]);
    if (data[0] & 128) checkpoint_sweep(&d, &io, data[0]);
    if (data[0] % 64 == 5 && count > 0) {
        remove.path = paths[0];
        remove.io = io;
        fuzz_told(dcp_remove(&remove, &removal, &err), &err);
        dcp_removal_free(&removal);
    }
    disk_unmount(&d);
}

/* ---- repair: documents whose digests are those of the files ------------------------------------------------------ */
/* Digests of one shard, where its file has the bytes. The parsed document is changed in place: its texts keep their
 * lengths. */
static void checkpoint_fix_shard(const disk_file *file, dcp_shard_metadata *shard) {
    const size_t start = (size_t)shard->data_offset;
    char *checksum = (char *)(uintptr_t)shard->checksum;
    dcpi_sha all;
    uint8_t digest[32];
    size_t t;
    dcpi_sha_init(&all);
    for (t = 0; t < shard->tensor_count; t++) {
        const dcp_tensor_metadata *tensor = &shard->tensors[t];
        if (tensor->block_count != 1 || tensor->offset < 0 || tensor->size < 0 || (size_t)tensor->offset > file->size)
            continue;
        if ((size_t)tensor->size > file->size - (size_t)tensor->offset) continue;
        dcp_sha256(file->data + tensor->offset, (size_t)tensor->size, (uint8_t *)(uintptr_t)tensor->block_checksums);
        dcpi_sha_update(&all, tensor->block_checksums, 32);
    }
    dcpi_sha_final(&all, digest);
    if (!checksum || start > file->size) return;
    if (strlen(checksum) == 64)
        dcp_sha256(file->data + start, shard->data_offset ? (size_t)dcpi_min(dcpi_max(shard->file_size, 0),
                (int64_t)(file->size - start)) : file->size, digest);
    else if (strlen(checksum) == 76) checksum += 12;
    else return;
    dcpi_hex_encode(digest, 32, checksum);
}
static void checkpoint_put(disk_file *file, const fuzz_text *text) {
    if (text->size > text->capacity) return;
    disk_resize(file, text->size);
    memcpy(file->data, text->data, text->size);
}
static void checkpoint_fix_metadata(disk *d, disk_file *file, fuzz_text *to, uint64_t how) {
    dcp_metadata *m;
    dcpi_content source;
    dcp_error err;
    size_t s;
    disk_resize(file, file->size + 4096);
    disk_resize(file, fuzz_seal(file->data, file->size - 4096, file->size, DCPI_TYPE_METADATA));
    if (dcpi_meta_parse((char *)file->data, file->size, DCPI_TYPE_METADATA, NULL, &m, &err)) return;
    for (s = 0; s < m->shard_count; s++) {
        const disk_file *data = m->shards[s].file_path ? disk_find(d, m->shards[s].file_path) : NULL;
        if (data && how % 2) m->shards[s].file_size = (int64_t)data->size;
        if (data) checkpoint_fix_shard(data, &m->shards[s]);
    }
    source = dcpi_content_of(m, NULL);
    if (dcpi_meta_emit(&source, DCPI_TYPE_METADATA, NULL, fuzz_text_sink, to, NULL, &err) == DCP_OK)
        checkpoint_put(file, to);
    dcp_metadata_free(m);
}
static void checkpoint_fix_single(disk *d, disk_file *file, fuzz_text *to, uint64_t how) {
    char version[DCPI_FILE_VERSION];
    int64_t json_at, json_size;
    dcp_metadata *m;
    dcpi_content source;
    dcp_error err;
    size_t s, start;
    (void)d;
    if (dcpi_file_prefix(file->data, file->size < DCPI_FILE_PREFIX ? file->size : DCPI_FILE_PREFIX, (int64_t)file->size,
                         &json_at, &json_size, version, &err)) return;
    (void)fuzz_seal(file->data + json_at, (size_t)json_size, (size_t)json_size, DCPI_TYPE_CHECKPOINT);
    if (dcpi_meta_parse((char *)file->data + json_at, (size_t)json_size, DCPI_TYPE_CHECKPOINT, NULL, &m, &err)) return;
    if (how % 2) m->version = NULL;
    for (s = 0; s < m->shard_count; s++) if (m->shards[s].data_offset >= 0) checkpoint_fix_shard(file, &m->shards[s]);
    source = dcpi_content_of(m, NULL);
    start = m->shard_count > 0 && m->shards[0].data_offset > 0 ? (size_t)m->shards[0].data_offset : 0;
    if (start < file->size && dcpi_meta_emit(&source, DCPI_TYPE_CHECKPOINT, NULL, NULL, NULL, &json_size, &err) ==
        DCP_OK && dcpi_file_emit(&source, json_size, (int64_t)start, NULL, fuzz_text_sink, to, &err) == DCP_OK &&
        to->size <= start) {
        (void)fuzz_text_sink(to, file->data + start, file->size - start, &err);
        checkpoint_put(file, to);
    }
    dcp_metadata_free(m);
}
static void checkpoint_fix_entries(disk *d, dcp_manifest_shard *shards, size_t count, uint64_t how) {
    size_t i;
    for (i = 0; i < count; i++) {
        const disk_file *file = shards[i].path ? disk_find(d, shards[i].path) : NULL;
        dcp_shard_metadata shard = DCP_ZERO;
        dcp_tensor_metadata tensor = DCP_ZERO;
        if (!file) continue;
        if (how % 2) shards[i].size = (int64_t)file->size;
        tensor.size = shards[i].size >= 0 ? shards[i].size : (int64_t)file->size;
        tensor.block_count = shards[i].block_count;
        tensor.block_checksums = shards[i].block_checksums;
        shard.tensors = &tensor;
        shard.tensor_count = 1;
        shard.checksum = shards[i].checksum;
        checkpoint_fix_shard(file, &shard);
    }
}
static void checkpoint_fix_manifest(disk *d, disk_file *file, fuzz_text *to, uint64_t how) {
    const int yaml = dcpi_ends_with(file->name, ".yaml");
    dcp_manifest *m;
    dcpi_content source;
    dcp_error err;
    size_t i;
    disk_resize(file, file->size + 4096);
    disk_resize(file, fuzz_seal(file->data, file->size - 4096, file->size,
                                yaml ? DCPI_TYPE_MANIFEST_YAML : DCPI_TYPE_MANIFEST));
    if (dcp_manifest_parse((char *)file->data, file->size, &m, &err)) return;
    checkpoint_fix_entries(d, m->shards, m->shard_count, how);
    checkpoint_fix_entries(d, m->optim_state.shards, m->optim_state.shard_count, how);
    for (i = 0; i < m->router_state.layer_count; i++)
        checkpoint_fix_entries(d, m->router_state.layers[i].shards, m->router_state.layers[i].shard_count, how);
    source = dcpi_content_of(NULL, m);
    if (dcpi_manifest_emit(&source, yaml, NULL, fuzz_text_sink, to, NULL, &err) == DCP_OK) checkpoint_put(file, to);
    dcp_manifest_free(m);
}
static size_t checkpoint_repair(uint8_t *data, size_t size, size_t capacity, uint64_t how) {
    static disk d;
    static uint8_t made[DISK_BYTES];
    size_t i;
    if (size == 0) return size;
    disk_read_files(&d, data + 1, size - 1);
    for (i = 0; i < DISK_FILES; i++) {
        fuzz_text to = {made, 0, sizeof made};
        const struct dcpi_commit_kind *kind = d.files[i].is_used ? dcpi_commit_kind_of(d.files[i].name) : NULL;
        if (!kind) continue;
        if (kind->layout == DCP_LAYOUT_SHARDED) checkpoint_fix_metadata(&d, &d.files[i], &to, how);
        else if (kind->layout == DCP_LAYOUT_SINGLE) checkpoint_fix_single(&d, &d.files[i], &to, how);
        else checkpoint_fix_manifest(&d, &d.files[i], &to, how);
    }
    size = 1 + disk_write_files(&d, data + 1, size - 1, capacity - 1);
    disk_unmount(&d);
    return size;
}
static const fuzz_target fuzz_checkpoint = {"checkpoint", checkpoint_one, checkpoint_repair, checkpoint_tokens,
                                            FUZZ_COUNT(checkpoint_tokens), 3 << 20, 400};
FUZZ_ENTRY(fuzz_checkpoint)
