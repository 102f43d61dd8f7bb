/* written_ranks.h - checkpoints of several ranks, written by hand: the data, its digests and the document. After
 * engine.h.
 *
 *     world w;
 *     world_begin(&w, 2);
 *     world_add(&w, 1, &tensor, "sharded");           // a piece of rank 1
 *     world_write(&w, "x");                           // or world_write_single
 *     world_end(&w); */
#ifndef DCP_TEST_WRITTEN_RANKS_H
#define DCP_TEST_WRITTEN_RANKS_H

#define MAX_RANKS 4
typedef struct world_rank {
    uint8_t *bytes; int64_t size, capacity;
    dcp_tensor_metadata *tensors; size_t count;
    char checksum[80];
} world_rank;
typedef struct world { int count; world_rank ranks[MAX_RANKS]; int64_t block_size, step; } world;

static inline void world_begin(world *w, int count) {
    int r;
    memset(w, 0, sizeof *w);
    w->count = count;
    for (r = 0; r < count; r++) w->ranks[r].bytes = allocated(0);
    w->block_size = 256 * KIB;
    w->step = -1;
}
static inline void world_end(world *w) {
    int r;
    size_t i;
    for (r = 0; r < w->count; r++) {
        for (i = 0; i < w->ranks[r].count; i++) {
            free((void *)w->ranks[r].tensors[i].name);
            free((void *)w->ranks[r].tensors[i].block_checksums);
        }
        free(w->ranks[r].tensors);
        free(w->ranks[r].bytes);
    }
}
/* for a tensor at the next multiple of 64; gaps are zero */
static inline uint8_t *world_room(world_rank *r, int64_t size) {
    int64_t offset = (r->size + 63) / 64 * 64;
    if (offset + size > r->capacity) {
        r->capacity = 2 * (offset + size) + 1024;
        r->bytes = (uint8_t *)realloc(r->bytes, (size_t)r->capacity);
        CHECK(r->bytes != NULL);
    }
    memset(r->bytes + r->size, 0, (size_t)(offset - r->size));
    r->size = offset + size;
    return r->bytes + offset;
}
static inline uint8_t *block_digests(const uint8_t *data, int64_t size, int64_t block_size, size_t *count) {
    uint8_t *digests = allocated((size_t)(size / block_size + 1) * 32);
    int64_t from;
    *count = 0;
    for (from = 0; from < size; from += block_size)
        digest_block(data + from, dcpi_min(block_size, size - from), digests + 32 * (*count)++);
    return digests;
}
/* One more piece: t->data is row-major. A tensor without bytes stands at the next aligned place, but does not move the
 * file's end. */
static inline void world_add(world *w, int rank, const dcp_tensor *t, const char *placement) {
    world_rank *r = &w->ranks[rank];
    int64_t size = dcpi_tensor_bytes(t), end = r->size;
    uint8_t *to = world_room(r, size);
    dcp_tensor_metadata *m;
    char *name = (char *)allocated(strlen(t->name) + 1);
    if (size) memcpy(to, t->data, (size_t)size);
    dcpi_swap_bytes(to, size, dcpi_dtype_width(t->dtype));
    r->tensors = (dcp_tensor_metadata *)realloc(r->tensors, (r->count + 1) * sizeof *m);
    CHECK(r->tensors != NULL);
    m = &r->tensors[r->count++];
    memset(m, 0, sizeof *m);
    memcpy(name, t->name, strlen(t->name) + 1);
    m->name = name;
    m->data_type = dcp_dtype_name(t->dtype);
    m->ndim = t->ndim;
    memcpy(m->shape, t->shape, sizeof m->shape);
    memcpy(m->global_shape, dcpi_global_shape(t), sizeof m->global_shape);
    memcpy(m->global_offset, t->global_offset, sizeof m->global_offset);
    m->placement = placement;
    m->offset = to - r->bytes;
    m->size = size;
    m->block_size = w->block_size;
    m->block_checksums = block_digests(to, size, w->block_size, &m->block_count);
    if (size == 0) r->size = end;
}
static inline void world_checksum(world_rank *r) {
    uint8_t digest[32];
    dcpi_sha sha;
    size_t i;
    dcpi_sha_init(&sha);
    for (i = 0; i < r->count; i++) dcpi_sha_update(&sha, r->tensors[i].block_checksums, 32 * r->tensors[i].block_count);
    dcpi_sha_final(&sha, digest);
    memcpy(r->checksum, "sha256-tree:", 12);
    dcpi_hex_encode(digest, 32, r->checksum + 12);
    r->checksum[76] = '\0';
}
/* The document; with `single` all shards are regions of that file, the first at `region`. */
static inline dcp_metadata *world_document(world *w, const char *name, const char *single, int64_t region) {
    dcp_sharding sharding = DCP_ZERO;
    dcp_training training = DCP_ZERO;
    dcp_metadata *m;
    int r;
    size_t i;
    CHECK_OK_MESSAGE(dcp_metadata_new(&m, &err), err.message);
    m->world_size = w->count;
    m->save_id = "0123456789abcdef";
    m->sequence = 1;
    sharding.strategy = "fsdp";
    sharding.precision = "fp32";
    sharding.shard_count = w->count;
    CHECK_OK(dcp_metadata_set_sharding(m, &sharding, &err));
    training.step = w->step;
    if (w->step >= 0) CHECK_OK(dcp_metadata_set_training(m, &training, &err));
    for (r = 0; r < w->count; r++) {
        dcp_shard_metadata shard = DCP_ZERO;
        char file[300];
        CHECK_OK(dcp_shard_name(name, r, NULL, file, sizeof file, &err));
        world_checksum(&w->ranks[r]);
        shard.rank = r;
        shard.file_path = single ? single : file;
        shard.file_size = w->ranks[r].size;
        shard.checksum = w->ranks[r].checksum;
        shard.data_offset = region;
        CHECK_OK_MESSAGE(dcp_metadata_add_shard(m, &shard, &err), err.message);
        for (i = 0; i < w->ranks[r].count; i++) {
            dcp_tensor_metadata t = w->ranks[r].tensors[i];
            t.offset += region;
            CHECK_OK_MESSAGE(dcp_metadata_add_tensor(m, (size_t)r, &t, &err), err.message);
        }
        if (region) region = (region + shard.file_size + 4095) / 4096 * 4096;
    }
    return m;
}
static inline void world_write(world *w, const char *name) {                   /* P.metadata.json and its shards */
    dcp_metadata *m = world_document(w, name, NULL, 0);
    char file[300];
    int r;
    for (r = 0; r < w->count; r++) {
        CHECK_OK(dcp_shard_name(name, r, NULL, file, sizeof file, &err));
        put(file, w->ranks[r].bytes, (size_t)w->ranks[r].size);
    }
    (void)snprintf(file, sizeof file, "%s.metadata.json", name);
    CHECK_OK_MESSAGE(dcp_metadata_write_file(files, file, m, NULL, NULL, &err), err.message);
    dcp_metadata_free(m);
}
static inline dcp_status to_buffer(void *user, const void *data, size_t size, dcp_error *error) {
    (void)error;
    dcpi_buffer_add((dcpi_buffer *)user, data, size);
    return DCP_OK;
}
static inline dcp_status to_nowhere(void *user, const void *data, size_t size, dcp_error *error) {
    (void)user; (void)data; (void)size; (void)error;
    return DCP_OK;
}
/* P.checkpoint with a region for each rank */
static inline void world_write_single(world *w, const char *name) {
    const int64_t region = MIB;
    dcpi_buffer file = { NULL, 0, 0, 0 };
    dcpi_content source;
    dcp_metadata *m;
    char commit[300];
    int64_t json_size;
    int r;
    (void)snprintf(commit, sizeof commit, "%s.checkpoint", name);
    m = world_document(w, name, commit, region);
    source = dcpi_content_of(m, NULL);
    CHECK_OK_MESSAGE(dcpi_meta_emit(&source, "checkpoint/json", NULL, to_nowhere, NULL, &json_size, &err), err.message);
    CHECK_OK_MESSAGE(dcpi_file_emit(&source, json_size, region, NULL, to_buffer, &file, &err), err.message);
    CHECK_INT(file.size, region);
    for (r = 0; r < w->count; r++) {
        static const char zeros[4096] = {0};
        dcpi_buffer_add(&file, zeros, (size_t)(m->shards[r].data_offset - (int64_t)file.size));
        dcpi_buffer_add(&file, w->ranks[r].bytes, (size_t)w->ranks[r].size);
    }
    CHECK(!file.failed);
    put(commit, file.data, file.size);
    dcpi_buffer_free(&file);
    dcp_metadata_free(m);
}

#endif
