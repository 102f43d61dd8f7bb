/* test_golden.c - checkpoints that are frozen, in golden/<version of the folder>: every layout, data type,
 * checksum and signature that the library could write when the folder was made. On every platform they are read byte
 * for byte, and what is saved now is the same but for its time and ids.
 *
 * Nothing in golden/ is ever written again: a reader that cannot read it is wrong. When what is written changes, that
 * gets a folder of its own beside the old ones, and a line in `folders` below:
 *
 *     build/plain/test_golden write DIR       saves the checkpoints of the table below into the directory DIR
 *     build/plain/test_golden read DIR        reads those, whatever platform wrote them (test_exchange.sh)
 *
 * What is expected is no file but a formula: value_of(). */
#include <stddef.h>                     /* not yet <stdlib.h>: dcp.h comes first */

/* Fresh memory is full of a byte of the test's choice: what is written must not depend on it. */
static void *fresh_realloc(void *memory, size_t size);
static void fresh_free(void *memory);
#define DCP_MALLOC(size) fresh_realloc(NULL, size)
#define DCP_REALLOC(memory, size) fresh_realloc(memory, size)
#define DCP_FREE(memory) fresh_free(memory)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "rank_threads.h"

static int fresh_byte = 0xA5;
static void *fresh_realloc(void *memory, size_t size) {
    size_t *block = memory ? (size_t *)memory - 2 : NULL, old = block ? block[0] : 0;
    block = (size_t *)realloc(block, size + 2 * sizeof *block);
    if (!block) return NULL;
    block[0] = size;
    if (size > old) memset((char *)(block + 2) + old, fresh_byte, size - old);
    return block + 2;
}
static void fresh_free(void *memory) {
    if (!memory) return;
    memset(memory, fresh_byte, ((size_t *)memory)[-2]);
    free((size_t *)memory - 2);
}

/* Each folder, with the SHA-256 of its list of SHA-256 sums: its files are these, and no others. Lines are added, never
 * changed. */
static const struct { const char *directory, *digest_of_list; } folders[] = {
    { "tests/golden/v1", "ac3d58c3b6375b829cbfd69d2eee5c6968b077302c8b9f35765e8f799fba55cf" },
};
#define NEWEST (folders[DCPI_COUNT(folders) - 1].directory)

static dcp_error err;
#define OK(call) CHECK_OK_MESSAGE(call, err.message)

/* ---- what tensors hold ------------------------------------------------------------------------------------------- */
/* Of element k of the whole tensor; `salt` is the rank of a private one, or the generation of one that has changed. */
static uint64_t value_of(const char *name, uint64_t salt, int64_t k) {
    uint64_t z = 0xCBF29CE484222325u + salt * 0x9E3779B97F4A7C15u;
    for (; *name; name++) z = (z ^ (uint8_t)*name) * 0x100000001B3u;
    z = (z ^ (uint64_t)k) * 0xBF58476D1CE4E5B9u;
    return z ^ z >> 29;
}
static void put_16(void *data, int64_t i, uint64_t v) { ((uint16_t *)data)[i] = (uint16_t)v; }
static void put_32(void *data, int64_t i, uint64_t v) { ((uint32_t *)data)[i] = (uint32_t)v; }
static void put_64(void *data, int64_t i, uint64_t v) { ((uint64_t *)data)[i] = v; }
/* Numbers of this machine, whatever the order of its bytes. */
static void put_element(dcp_dtype type, void *data, int64_t i, uint64_t v) {
    uint8_t *bytes = (uint8_t *)data;
    switch (type) {
        case DCP_FP4_E2M1: case DCP_INT4: case DCP_UINT4:
            bytes[i / 2] = (uint8_t)(i % 2 ? (bytes[i / 2] & 15) | (v & 15) << 4 : v & 15);
            break;
        case DCP_BOOL: bytes[i] = (uint8_t)(v & 1); break;
        case DCP_FP8_E4M3: case DCP_FP8_E5M2: case DCP_INT8: case DCP_UINT8: bytes[i] = (uint8_t)v; break;
        case DCP_FP16: case DCP_BF16: case DCP_INT16: case DCP_UINT16: put_16(data, i, v); break;
        case DCP_FP32: case DCP_INT32: case DCP_UINT32: put_32(data, i, v); break;
        case DCP_FP64: case DCP_INT64: case DCP_UINT64: put_64(data, i, v); break;
        case DCP_COMPLEX64: put_32(data, 2 * i, v); put_32(data, 2 * i + 1, v >> 32); break;
        case DCP_COMPLEX128: put_64(data, 2 * i, v); put_64(data, 2 * i + 1, ~v); break;
        default: abort();
    }
}
/* "ramp": real numbers, so that a float is seen to be one. */
static void put_value(const dcp_tensor *t, int64_t i, uint64_t salt, int64_t k) {
    if (strcmp(t->name, "ramp32") == 0) ((float *)t->data)[i] = (float)k / 4 - 3;
    else if (strcmp(t->name, "ramp64") == 0) ((double *)t->data)[i] = (double)k / 1024 - 1e300;
    else put_element(t->dtype, t->data, i, value_of(t->name, salt, k));
}
static int64_t elements_of(const dcp_tensor *t) {
    int64_t n = 1;
    int d;
    for (d = 0; d < t->ndim; d++) n *= t->shape[d];
    return n;
}
static void fill(const dcp_tensor *t, uint64_t salt) {
    int64_t index[DCP_MAX_DIMS] = {0}, n = elements_of(t), i;
    const int64_t *extent = t->placement == DCP_PLACE_SHARDED ? t->global_shape : t->shape;
    int d;
    for (i = 0; i < n; i++) {
        int64_t whole = 0, at = 0;
        for (d = 0; d < t->ndim; d++) {
            whole = whole * extent[d] + t->global_offset[d] + index[d];
            at += index[d] * t->stride[d];
        }
        put_value(t, t->ndim && t->stride[0] ? at : i, salt, whole);
        for (d = t->ndim - 1; d >= 0 && ++index[d] == t->shape[d]; d--) index[d] = 0;
    }
}
/* The bytes that the piece reaches in memory, gaps of strides included. */
static size_t span_of(const dcp_tensor *t) {
    int64_t elements = elements_of(t), last = 0;
    int d;
    if (elements > 0 && t->ndim && t->stride[0]) {
        for (d = 0; d < t->ndim; d++) last += (t->shape[d] - 1) * t->stride[d];
        elements = last + 1;
    }
    return (size_t)((elements * dcp_dtype_bits(t->dtype) + 7) / 8);
}

/* ---- lists of tensors: what a rank of a checkpoint has ----------------------------------------------------------- */
enum { MOST = 40 };
typedef struct list { dcp_tensor tensor[MOST]; uint64_t salt[MOST]; size_t count; } list;

static dcp_tensor *add(list *l, const char *name, dcp_dtype type, int ndim, int64_t a, int64_t b, int64_t c) {
    int64_t shape[DCP_MAX_DIMS] = {0};
    if (l->count == MOST) abort();
    shape[0] = a;
    shape[1] = b;
    shape[2] = c;
    l->tensor[l->count] = dcp_array(name, type, NULL, ndim, shape);
    l->tensor[l->count].placement = DCP_PLACE_REPLICATED;
    return &l->tensor[l->count++];
}
/* A box at x, y, z of a tensor of a * b * c. */
static void cut(dcp_tensor *t, int64_t a, int64_t b, int64_t c, int64_t x, int64_t y, int64_t z) {
    const int64_t whole[] = { a, b, c }, offset[] = { x, y, z };
    dcp_piece(t, whole, offset);
    t->placement = DCP_PLACE_SHARDED;
}
static void strides(dcp_tensor *t, int64_t a, int64_t b, int64_t c) {
    t->stride[0] = a;
    t->stride[1] = b;
    t->stride[2] = c;
}
/* Memory for each tensor; with what it holds, or not. */
static void allocate(list *l, int filled) {
    size_t i;
    for (i = 0; i < l->count; i++) {
        size_t span = span_of(&l->tensor[i]);
        l->tensor[i].data = must(malloc(span + 16));
        memset(l->tensor[i].data, 0xEE, span + 16);
        if (filled) fill(&l->tensor[i], l->salt[i]);
    }
}
static void release(list *l) {
    while (l->count > 0) free(l->tensor[--l->count].data);
}

static void add_all_types(list *l) {
    static char names[DCP_OPAQUE][32];
    int type;
    for (type = DCP_FP32; type < DCP_OPAQUE; type++) {
        (void)snprintf(names[type], sizeof names[type], "type.%s", dcp_dtype_name((dcp_dtype)type));
        (void)add(l, names[type], (dcp_dtype)type, 2, 3, 5, 0);         /* an odd number of half bytes */
    }
}
/* Every type; a scalar, an empty one, many dimensions, strides, a name that is no file's; numbers. */
static void model_types(list *l, int rank, int generation) {
    dcp_tensor *t;
    int d;
    (void)rank;
    (void)generation;
    add_all_types(l);
    (void)add(l, "ramp32", DCP_FP32, 1, 9, 0, 0);
    (void)add(l, "ramp64", DCP_FP64, 2, 2, 3, 0);
    (void)add(l, "scalar", DCP_INT64, 0, 0, 0, 0);
    (void)add(l, "nothing", DCP_FP32, 2, 0, 3, 0);
    t = add(l, "eight", DCP_INT16, 8, 1, 2, 1);
    for (d = 3; d < 8; d++) t->shape[d] = 1 + d % 2;
    strides(add(l, "transposed", DCP_UINT32, 2, 4, 3, 0), 1, 4, 0);
    strides(add(l, "gaps", DCP_FP16, 2, 3, 2, 0), 8, 3, 0);
    (void)add(l, "../a b/\xC3\xA9", DCP_UINT8, 1, 5, 0, 0);
}
static void model_small(list *l, int rank, int generation) {
    (void)rank;
    (void)add(l, "w", DCP_FP32, 2, 2, 3, 0);
    (void)add(l, "b", DCP_INT8, 1, 3, 0, 0);
    l->salt[0] = (uint64_t)generation;
}
/* Four ranks: boxes of one to three dimensions, uneven, on ranks in no order, some with strides, one on two ranks;
 * replicated and private ones. */
static void model_parts(list *l, int rank, int generation) {
    dcp_tensor *t = add(l, "grid", DCP_FP32, 2, rank / 2 ? 3 : 4, rank % 2 ? 4 : 6, 0);
    cut(t, 7, 10, 0, rank / 2 ? 4 : 0, rank % 2 ? 6 : 0, 0);
    (void)generation;
    if (rank != 2) {                                    /* which has no part of this */
        t = add(l, "rows", DCP_BF16, 2, rank == 3 ? 1 : 4, 3, 0);
        cut(t, 9, 3, 0, rank == 3 ? 8 : 4 * rank, 0, 0);
        if (rank == 1) strides(t, 7, 2, 0);
    }
    if (rank % 2 == 0) {
        cut(add(l, "nibbles", DCP_INT4, 2, rank ? 3 : 2, 4, 0), 5, 4, 0, rank ? 0 : 3, 0, 0);
        cut(add(l, "twice", DCP_UINT16, 1, 4, 0, 0), 4, 0, 0, 0, 0, 0);
        (void)add(l, "step", DCP_INT32, 0, 0, 0, 0);
    } else {
        t = add(l, "cube", DCP_FP64, 3, 2, 3, rank == 3 ? 3 : 1);
        cut(t, 2, 3, 4, 0, 0, rank == 3 ? 0 : 3);
        strides(t, 12, 4, 1);                           /* in the memory of the whole */
    }
    (void)add(l, "both", DCP_INT64, 1, 3, 0, 0);
    l->salt[l->count] = (uint64_t)rank;
    add(l, "random state", DCP_UINT8, 1, 5, 0, 0)->placement = DCP_PLACE_PRIVATE;
}
/* Two ranks of a manifest: dense ones of every type, experts of two tiers, states of the optimizer and of the router; a
 * later generation has other bytes in two of them. */
static void model_experts(list *l, int rank, int generation) {
    dcp_tensor *t;
    if (rank == 0) add_all_types(l);
    l->salt[l->count] = (uint64_t)generation;
    t = add(l, "dense", DCP_FP32, 2, 2, 3, 0);
    cut(t, 4, 3, 0, 2 * rank, 0, 0);
    t->tier = "hot";
    l->salt[l->count] = (uint64_t)generation;
    t = add(l, rank ? "y" : "x", DCP_BF16, 2, 2, 4, 0);
    t->role = DCP_ROLE_EXPERT;
    t->tier = rank ? "warm" : "hot";
    t->expert_key[0] = rank + 1;
    t->expert_key[2] = 7 * rank;
    t = add(l, "adam/m", DCP_FP32, 1, 5, 0, 0);
    t->role = DCP_ROLE_OPTIMIZER;
    t = add(l, "r", DCP_FP16, 1, 6, 0, 0);
    t->role = DCP_ROLE_ROUTER;
    t->expert_key[0] = 3;
}
/* Too large for the repository: its documents are there, and the data is made from the formula. Six leaves of 256
 * KiB. */
enum { LARGE_ROWS = 5, LARGE_COLUMNS = 70001, LARGE_SECOND = (LARGE_ROWS * LARGE_COLUMNS * 4 + 63) / 64 * 64,
       LARGE_SIZE = LARGE_SECOND + 101 };
static void model_large(list *l, int rank, int generation) {
    (void)rank;
    (void)generation;
    (void)add(l, "large", DCP_UINT32, 2, LARGE_ROWS, LARGE_COLUMNS, 0);
    (void)add(l, "behind", DCP_UINT8, 1, LARGE_SIZE - LARGE_SECOND, 0, 0);
}
static uint8_t *large_file(void) {      /* byte by byte, for nothing here knows the order of this machine's bytes */
    uint8_t *file = (uint8_t *)must(calloc(1, LARGE_SIZE));
    int64_t k;
    for (k = 0; k < LARGE_ROWS * LARGE_COLUMNS; k++) {
        const uint64_t v = value_of("large", 0, k);
        int b;
        for (b = 0; b < 4; b++) file[4 * k + b] = (uint8_t)(v >> 8 * b);
    }
    for (k = 0; k < LARGE_SIZE - LARGE_SECOND; k++) file[LARGE_SECOND + k] = (uint8_t)value_of("behind", 0, k);
    return file;
}

/* ---- the checkpoints --------------------------------------------------------------------------------------------- */
enum { SIGNED = 1, YAML = 2, UNIQUE = 4, ALIGNED = 8, OVERWRITES = 16, LATER = 32, REWRITTEN = 64, LARGE = 128,
       DESCRIBED = 256, NO_SHARDS = 512 };
typedef struct golden {
    const char *path;
    void (*model)(list *l, int rank, int generation);
    int ranks;
    dcp_layout layout;
    dcp_checksum checksum;
    int flags;
    size_t block_size;
} golden;
/* In the order in which they are saved. Those of one folder share its files. */
static const golden checkpoints[] = {
    { "sharded/types", model_types, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, DESCRIBED, 0 },
    { "sharded/flat", model_small, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, 0, 0 },
    { "sharded/signed", model_small, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, SIGNED, 0 },
    { "sharded/unique", model_small, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, UNIQUE | ALIGNED, 0 },
    { "sharded/overwritten", model_small, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, OVERWRITES | LATER, 0 },
    { "sharded/rewritten", model_small, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, REWRITTEN | DESCRIBED, 0 },
    { "sharded/parts", model_parts, 4, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, DESCRIBED, 0 },
    { "sharded/parts_flat", model_parts, 4, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, SIGNED, 0 },
    { "single/types", model_types, 1, DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, DESCRIBED, 0 },
    { "single/parts", model_parts, 4, DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, 0, 0 },
    { "single/flat", model_small, 1, DCP_LAYOUT_SINGLE, DCP_CHECKSUM_FLAT, 0, 0 },
    { "single/signed", model_small, 1, DCP_LAYOUT_SINGLE, DCP_CHECKSUM_TREE, SIGNED | ALIGNED, 0 },
    { "manifest/step_1", model_experts, 2, DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, DESCRIBED, 0 },
    { "manifest/step_2", model_experts, 2, DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, YAML | LATER | DESCRIBED, 0 },
    { "manifest/signed", model_small, 1, DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, SIGNED, 0 },
    { "manifest/signed_yaml", model_small, 1, DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_TREE, SIGNED | YAML, 0 },
    { "manifest/flat", model_small, 1, DCP_LAYOUT_MANIFEST, DCP_CHECKSUM_FLAT, LATER, 0 },
    /* a digest for each leaf */
    { "large/blocks", model_large, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LARGE, 262144 },
    /* a digest of four leaves' */
    { "large/leaves", model_large, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_TREE, LARGE, 1048576 },
    { "large/flat", model_large, 1, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, LARGE, 0 },
};
static const char *extension_of(const golden *g) {
    return g->flags & YAML ? ".manifest.yaml" : dcp_layout_extension(g->layout);
}
static const char key[] = "0123456789abcdefghijklmnopqrstuv";
static const dcp_field fields[] = { { "git", "abc123" }, { "note", "Gr\xC3\xBC\xC3\x9F" "e \xF0\x9F\x98\x80" },
                                    { "escaped", "a\n\t\"\\/\x1B" }, { "", "" } };
static const dcp_tier tiers[] = { { 1, "hot", "40GB", "prioritized" }, { 2, "warm", "1500GB", "lru" } };
static const dcp_router_seed seeds[] = { { 0, UINT64_MAX }, { 3, 5 } };
static const volatile double rate = 0.0003;             /* of 64 bits also where the processor has more */
static const char extra[] = "\"x_digests\": {\"xxh3\": \"5f2b\", \"sizes\": [1, 2.50, -3e2]}";

static void describe(dcp_save_desc *desc, dcp_training *training, dcp_sharding *sharding) {
    memset(training, 0, sizeof *training);
    memset(sharding, 0, sizeof *sharding);
    training->epoch = 3;
    training->step = INT64_C(9007199254740993);         /* no double */
    training->learning_rate = rate;
    training->optimizer_type = "adamw";
    training->optimizer_state = "{\"beta1\": 0.9, \"eps\": 1e-08}";
    sharding->strategy = "fsdp";
    sharding->precision = "mixed";
    sharding->info = "{\"degree\": 4}";
    desc->training = training;
    desc->sharding = sharding;
    desc->fields = fields;
    desc->field_count = DCPI_COUNT(fields);
}
static dcp_status save_rank(const golden *g, dcp_storage *storage, dcp_coordinator *c, int rank, int generation,
                            dcp_error *e) {
    dcp_save_desc desc = DCP_ZERO;
    dcp_training training;
    dcp_sharding sharding;
    dcp_signer signer = dcp_hmac_signer(key, sizeof key - 1, "k1");
    list *l = (list *)must(calloc(1, sizeof *l));
    dcp_status status;
    g->model(l, rank, generation);
    allocate(l, 1);
    if (g->flags & DESCRIBED) describe(&desc, &training, &sharding);
    desc.path = g->path;
    desc.tensors = l->tensor;
    desc.tensor_count = l->count;
    desc.layout = g->layout;
    desc.checksum = g->checksum;
    desc.alignment = g->flags & ALIGNED ? 512 : 0;
    desc.block_size = g->block_size;
    desc.overwrite = (g->flags & OVERWRITES) != 0;
    desc.unique_names = (g->flags & UNIQUE) != 0;
    desc.yaml = (g->flags & YAML) != 0;
    if (g->flags & SIGNED) desc.signer = &signer;
    if (g->model == model_experts) {
        desc.model_id = "moe";
        desc.tiers = tiers;
        desc.tier_count = DCPI_COUNT(tiers);
        desc.router_seeds = seeds;
        desc.router_seed_count = DCPI_COUNT(seeds);
    }
    desc.io.storage = storage;
    desc.io.coordinator = c;
    status = dcp_save(&desc, e);
    release(l);
    free(l);
    return status;
}
#if DCP_NO_THREADS
static void save_ranks(const golden *g, dcp_storage *storage) { (void)g; (void)storage; SKIP("built without threads"); }
#else
typedef struct job {
    const golden *g; dcp_storage *storage; dcp_coordinator *coordinators[4];
    int ranks; dcp_status status[4]; dcp_error err[4];
} job;
static void save_in_thread(void *user, int rank) {
    job *j = (job *)user;
    const int is_later = (j->g->flags & LATER) != 0;
    j->status[rank] = save_rank(j->g, j->storage, j->coordinators[rank], rank, is_later, &j->err[rank]);
}
static void save_ranks(const golden *g, dcp_storage *storage) {
    job j;
    int r;
    memset(&j, 0, sizeof j);
    j.g = g;
    j.storage = storage;
    j.ranks = g->ranks;
    OK(dcp_thread_group_open(g->ranks, j.coordinators, &err));
    run_ranks(g->ranks, save_in_thread, &j);
    for (r = 0; r < g->ranks; r++) dcp_coordinator_close(j.coordinators[r]);
    check_all(&j, DCP_OK, "");
}
#endif
/* Members that this version does not know, at every level. */
static void rewrite(const golden *g, dcp_storage *storage) {
    char path[200];
    dcp_metadata *m;
    (void)snprintf(path, sizeof path, "%s%s", g->path, extension_of(g));
    OK(dcp_metadata_read_file(storage, path, NULL, NULL, &m, &err));
    m->extra = m->sharding.extra = m->training.extra = m->shards[0].extra = m->shards[0].tensors[0].extra = extra;
    OK(dcp_metadata_write_file(storage, path, m, NULL, NULL, &err));
    dcp_metadata_free(m);
}
static void save_one(const golden *g, dcp_storage *storage) {
    char shard[200];
    if (g->ranks > 1) { save_ranks(g, storage); return; }
    if (g->flags & OVERWRITES) OK(save_rank(g, storage, NULL, 0, 0, &err));
    OK(save_rank(g, storage, NULL, 0, (g->flags & LATER) != 0, &err));
    if (g->flags & REWRITTEN) rewrite(g, storage);
    if (!(g->flags & LARGE)) return;
    (void)snprintf(shard, sizeof shard, "%s_shard_0.bin", g->path);
    OK(dcp_storage_remove(storage, shard, NULL, &err));
}
static void save_all(dcp_storage *storage) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(checkpoints); i++) save_one(&checkpoints[i], storage);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
static const char *where;               /* what is read at the moment, for the messages */
static void not_same(int line, const char *condition, const char *what) {
    char text[500];
    (void)snprintf(text, sizeof text, " (%s: %s)", where, what);
    test_fail(__FILE__, line, condition, text);
}
#define SAME(condition, what) do { if (!(condition)) not_same(__LINE__, #condition, what); } while (0)

static dcp_storage *storage_at(const char *directory) {
    dcp_storage *storage;
    OK(dcp_storage_local(directory, &storage, &err));
    return storage;
}
static dcp_storage *storage_in_memory(void) {
    dcp_storage *storage;
    OK(dcp_storage_memory(&storage, &err));
    return storage;
}
static dcp_checkpoint *open_one(const golden *g, dcp_storage *storage) {
    const dcp_verifier verifier = dcp_hmac_verifier(key, sizeof key - 1);
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    desc.path = g->path;
    desc.verify = DCP_VERIFY_ALL;
    if (g->flags & SIGNED) desc.verifier = &verifier;
    desc.io.storage = storage;
    OK(dcp_open(&desc, &c, &err));
    OK(dcp_verify(c, &err));
    return c;
}
/* Into memory that has its own pattern, so that what must not be touched is seen. */
static void check_piece(dcp_checkpoint *c, const dcp_tensor *want, int rank) {
    dcp_tensor got = *want;
    const size_t size = span_of(want) + 16;
    got.data = must(malloc(size));
    memset(got.data, 0xEE, size);
    if (want->placement == DCP_PLACE_PRIVATE) OK(dcp_read_rank(c, rank, &got, 1, &err));
    else OK(dcp_read(c, &got, 1, &err));
    SAME(memcmp(got.data, want->data, size) == 0, want->name);
    free(got.data);
}
static void check_whole(dcp_checkpoint *c, const dcp_tensor *piece, uint64_t salt) {
    dcp_tensor t = dcp_array(piece->name, piece->dtype, NULL, piece->ndim,
                             piece->placement == DCP_PLACE_SHARDED ? piece->global_shape : piece->shape);
    const size_t size = span_of(&t) + 16;
    const dcp_tensor_info *info = dcp_checkpoint_find(c, piece->name);
    SAME(info && info->dtype == piece->dtype && info->ndim == piece->ndim && info->placement == piece->placement,
         piece->name);
    SAME(memcmp(info->shape, t.shape, sizeof t.shape) == 0, piece->name);
    if (piece->placement == DCP_PLACE_PRIVATE) return;
    t.data = must(malloc(size));
    memset(t.data, 0xEE, size);
    fill(&t, salt);
    check_piece(c, &t, 0);
    free(t.data);
}
static void check_tensors(const golden *g, dcp_checkpoint *c) {
    static list l;
    int rank;
    size_t i;
    for (rank = 0; rank < g->ranks; rank++) {
        memset(&l, 0, sizeof l);
        g->model(&l, rank, (g->flags & LATER) != 0);
        allocate(&l, 1);
        for (i = 0; i < l.count; i++) {
            check_piece(c, &l.tensor[i], rank);
            check_whole(c, &l.tensor[i], l.salt[i]);
        }
        if (g->ranks == 1) CHECK_INT(dcp_checkpoint_tensor_count(c), l.count);
        release(&l);
    }
}
static void check_description(const golden *g, dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_checkpoint_metadata(c);
    const dcp_training *training = dcp_checkpoint_training(c);
    size_t i;
    CHECK(m != NULL);
    CHECK_INT(m->world_size, g->ranks);
    CHECK_INT(strlen(m->save_id), 16);
    if (!(g->flags & DESCRIBED)) return;
    CHECK(training != NULL);
    CHECK_INT(training->epoch, 3);
    CHECK_INT(training->step, INT64_C(9007199254740993));
    SAME(training->learning_rate == rate, "learning rate");
    CHECK_STR(training->optimizer_type, "adamw");
    CHECK(strstr(training->optimizer_state, "1e-08") || strstr(training->optimizer_state, "1e-8"));
    CHECK_STR(m->sharding.strategy, "fsdp");
    CHECK_STR(m->sharding.precision, "mixed");
    CHECK(strstr(m->sharding.info, "\"degree\"") != NULL);
    CHECK_INT(m->field_count, DCPI_COUNT(fields));
    for (i = 0; i < DCPI_COUNT(fields); i++) CHECK_STR(dcp_metadata_field(m, fields[i].key), fields[i].value);
    if (g->flags & REWRITTEN) {
        SAME(m->extra && m->sharding.extra && m->shards[0].extra && m->shards[0].tensors[0].extra, "unknown members");
        SAME(strstr(m->training.extra, "\"xxh3\": \"5f2b\"") && strstr(m->training.extra, "2.50"), "unknown members");
    }
}
static void check_router(const golden *g, dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_checkpoint_manifest(c);
    uint64_t seed = 0;
    if (g->model != model_experts) return;
    CHECK(m != NULL);
    CHECK_STR(m->model_id, "moe");
    CHECK_INT(m->tier_count, 2);
    CHECK_INT(m->tiers[1].budget_bytes, INT64_C(1500000000000));
    OK(dcp_manifest_router_seed(m, 0, &seed));
    SAME(seed == UINT64_MAX, "seed");
    CHECK_INT(dcp_checkpoint_find(c, "y")->expert_key[2], 7);
    CHECK_STR(dcp_checkpoint_find(c, "y")->tier, "warm");
    CHECK_INT(dcp_checkpoint_find(c, "x")->version, g->flags & LATER ? 1 : 0);
    CHECK_INT(dcp_checkpoint_find(c, "r")->role, DCP_ROLE_ROUTER);
}
static void check_valid(const golden *g, dcp_checkpoint *c) {
    dcp_validation v;
    const dcp_status status = g->layout == DCP_LAYOUT_MANIFEST
                              ? dcp_manifest_validate(dcp_checkpoint_manifest(c), &v) : dcp_metadata_validate(
                                      dcp_checkpoint_metadata(c), &v);
    CHECK_OK_MESSAGE(status, v.error_count ? v.errors[0] : "");
    CHECK_INT(v.error_count + v.warning_count, 0);
    dcp_validation_free(&v);
}
static void check_reads(const golden *g, dcp_storage *storage) {
    dcp_checkpoint *c;
    where = g->path;
    c = open_one(g, storage);
    check_tensors(g, c);
    check_description(g, c);
    check_router(g, c);
    check_valid(g, c);
    dcp_close(c);
}
/* All of `directory` whose path begins with `folder` and that have that flag or do not. */
static void check_folder(const char *directory, const char *folder) {
    dcp_storage *storage = storage_at(directory);
    size_t i;
    for (i = 0; i < DCPI_COUNT(checkpoints); i++)
        if (strncmp(checkpoints[i].path, folder, strlen(folder)) == 0) check_reads(&checkpoints[i], storage);
    dcp_storage_close(storage);
}
static void check_large(const char *directory) {
    dcp_storage *storage = storage_at(directory), *memory = storage_in_memory();
    uint8_t *file = large_file();
    size_t i, size;
    char path[200];
    void *document;
    for (i = 0; i < DCPI_COUNT(checkpoints); i++) {
        const golden *g = &checkpoints[i];
        if (!(g->flags & LARGE)) continue;
        (void)snprintf(path, sizeof path, "%s%s", g->path, extension_of(g));
        OK(dcp_storage_read_all(storage, path, &document, &size, NULL, &err));
        OK(dcp_storage_write_all(memory, path, document, size, NULL, &err));
        dcp_free(document);
        (void)snprintf(path, sizeof path, "%s_shard_0.bin", g->path);
        OK(dcp_storage_write_all(memory, path, file, LARGE_SIZE, NULL, &err));
        check_reads(g, memory);
    }
    free(file);
    dcp_storage_close(memory);
    dcp_storage_close(storage);
}

static const char *read_from;           /* one directory instead of all folders */
static void in_each_folder(const char *folder) {
    size_t i;
    if (read_from) { check_folder(read_from, folder); return; }
    for (i = 0; i < DCPI_COUNT(folders); i++) check_folder(folders[i].directory, folder);
}
TEST(sharded_checkpoints_are_read) { in_each_folder("sharded/"); }
TEST(single_files_are_read) { in_each_folder("single/"); }
TEST(manifests_are_read) { in_each_folder("manifest/"); }
TEST(blocks_of_one_and_of_four_leaves_are_read) {
    size_t i;
    if (read_from) { check_large(read_from); return; }
    for (i = 0; i < DCPI_COUNT(folders); i++) check_large(folders[i].directory);
}
TEST(signatures_are_asked_for) {
    const dcp_verifier right = dcp_hmac_verifier(key, sizeof key - 1),
                               wrong = dcp_hmac_verifier("another key, of 32 bytes in all..", 32);
    dcp_storage *storage = storage_at(read_from ? read_from : NEWEST);
    size_t i;
    for (i = 0; i < DCPI_COUNT(checkpoints); i++) {
        dcp_open_desc desc = DCP_ZERO;
        dcp_checkpoint *c;
        desc.path = where = checkpoints[i].path;
        desc.io.storage = storage;
        desc.verifier = checkpoints[i].flags & SIGNED ? &wrong : &right;
        CHECK_INT(dcp_open(&desc, &c, &err), DCP_E_SIGNATURE);
    }
    dcp_storage_close(storage);
}

/* ---- the list of a folder's files -------------------------------------------------------------------------------- */
/* as sha256sum writes it */
typedef struct sums { char *text; size_t count; struct { const char *digest, *name; } line[160]; } sums;
static void hex(const uint8_t digest[32], char text[65]) {
    int i;
    for (i = 0; i < 32; i++) (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
}
static void sums_read(sums *s, dcp_storage *storage, char digest_of_list[65]) {
    uint8_t digest[32];
    void *data;
    size_t size;
    char *at;
    memset(s, 0, sizeof *s);
    OK(dcp_storage_read_all(storage, "SHA256SUMS", &data, &size, NULL, &err));
    dcp_sha256(data, size, digest);
    hex(digest, digest_of_list);
    s->text = (char *)must(calloc(1, size + 1));
    memcpy(s->text, data, size);
    dcp_free(data);
    for (at = strtok(s->text, "\n"); at; at = strtok(NULL, "\n")) {
        CHECK(s->count < DCPI_COUNT(s->line) && strlen(at) > 66);
        at[64] = '\0';
        s->line[s->count].digest = at;
        s->line[s->count++].name = at + 66;
    }
}
static dcp_status count_one(void *user, const char *path, const dcp_object_info *info) {
    (void)path;
    (void)info;
    ++*(size_t *)user;
    return DCP_OK;
}
static int same_directory(const char *a, const char *b) {
    const char *end_a = strrchr(a, '/'), *end_b = strrchr(b, '/');
    return end_a && end_b && end_a - a == end_b - b && strncmp(a, b, (size_t)(end_a - a)) == 0;
}
/* The files in all directories that the list names. */
static size_t count_files(const sums *s, dcp_storage *storage) {
    size_t count = 0, i, k;
    for (i = 0; i < s->count; i++) {
        char directory[200];
        for (k = 0; k < i && !same_directory(s->line[i].name, s->line[k].name); k++) {}
        if (k < i) continue;
        (void)snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(s->line[i].name, '/') - s->line[i].name),
                       s->line[i].name);
        OK(storage->list(storage->context, directory, DCP_LIST_OBJECTS, count_one, &count, &err));
    }
    return count;
}
static void check_frozen(const char *directory, const char *digest_of_list) {
    static sums s;
    dcp_storage *storage = storage_at(directory);
    char text[65];
    size_t i, size;
    sums_read(&s, storage, text);
    CHECK_STR(text, digest_of_list);
    for (i = 0; i < s.count; i++) {
        uint8_t digest[32];
        void *data;
        where = s.line[i].name;
        OK(dcp_storage_read_all(storage, s.line[i].name, &data, &size, NULL, &err));
        dcp_sha256(data, size, digest);
        dcp_free(data);
        hex(digest, text);
        SAME(strcmp(text, s.line[i].digest) == 0, "has changed; golden files never do");
    }
    CHECK_INT(count_files(&s, storage), s.count);
    free(s.text);
    dcp_storage_close(storage);
}
TEST(golden_files_are_frozen) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(folders); i++) check_frozen(folders[i].directory, folders[i].digest_of_list);
}
/* The portable kernel, and each that uses instructions of this machine, over all files at once. */
TEST(every_kernel_gives_the_listed_digests) {
    static sums s;
    static dcpi_sha_job jobs[DCPI_COUNT(s.line)];
    static uint8_t digests[DCPI_COUNT(s.line)][32];
    dcp_storage *storage = storage_at(NEWEST);
    char text[65];
    size_t i;
    int kernel;
    sums_read(&s, storage, text);
    for (i = 0; i < s.count; i++) {
        void *data;
        OK(dcp_storage_read_all(storage, s.line[i].name, &data, &jobs[i].size, NULL, &err));
        jobs[i].data = (const uint8_t *)data;
        jobs[i].digest = digests[i];
    }
    for (kernel = 0; kernel < DCPI_SHA_KERNELS; kernel++) {
        if (!dcpi_sha_kernel_usable((enum dcpi_sha_kernel)kernel)) continue;
        memset(digests, 0, sizeof digests);
        dcpi_sha_many_with((enum dcpi_sha_kernel)kernel, jobs, s.count);
        for (i = 0; i < s.count; i++) {
            hex(digests[i], text);
            CHECK_STR(text, s.line[i].digest);
        }
    }
    for (i = 0; i < s.count; i++) dcp_free((void *)jobs[i].data);
    free(s.text);
    dcp_storage_close(storage);
}

/* ---- what is written today --------------------------------------------------------------------------------------- */
static int is_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
/* Save ids: wherever just 16 hex digits stand together. */
static void blank_ids(uint8_t *bytes, size_t size) {
    size_t i = 0, n;
    while (i < size) {
        for (n = 0; i + n < size && is_hex(bytes[i + n]); n++) {}
        if (n == 16) memset(bytes + i, '#', n);
        i += n ? n : 1;
    }
}
/* Times, and what is computed from them: the text after that, up to its quote. */
static void blank_texts(uint8_t *bytes, size_t size, const char *before) {
    const size_t n = strlen(before);
    size_t i;
    for (i = 0; i + n < size; i++) {
        if (memcmp(bytes + i, before, n) != 0) continue;
        for (i += n; i < size && bytes[i] != '"'; i++) bytes[i] = '#';
    }
}
/* In YAML an id that could be read as a number has quotes, and others have none. */
static size_t unquote_ids(uint8_t *bytes, size_t size) {
    static const char before[] = "save_id: \"";
    const size_t n = sizeof before - 1;
    size_t i;
    for (i = 0; i + n + 17 < size; i++) {
        if (memcmp(bytes + i, before, n) != 0) continue;
        memmove(bytes + i + n + 16, bytes + i + n + 17, size - (i + n + 17));
        memmove(bytes + i + n - 1, bytes + i + n, size - 1 - (i + n));
        return size - 2;
    }
    return size;
}
static size_t blank(uint8_t *bytes, size_t size) {
    size = unquote_ids(bytes, size);
    blank_texts(bytes, size, "timestamp\": \"");
    blank_texts(bytes, size, "timestamp: \"");
    blank_texts(bytes, size, "value\": \"");            /* of the signature and of the integrity member */
    blank_texts(bytes, size, "value: \"");
    blank_ids(bytes, size);
    return size;
}
typedef struct search { const char *blanked; char found[200]; } search;
static dcp_status search_one(void *user, const char *path, const dcp_object_info *info) {
    search *s = (search *)user;
    char name[200];
    (void)info;
    (void)snprintf(name, sizeof name, "%s", path);
    blank_ids((uint8_t *)name, strlen(name));
    if (strcmp(name, s->blanked) == 0) (void)snprintf(s->found, sizeof s->found, "%s", path);
    return DCP_OK;
}
/* The file of that name, or of the same with another save id. */
static uint8_t *read_blanked(dcp_storage *storage, const char *name, size_t *size) {
    char blanked[200], directory[200];
    search s;
    void *data;
    (void)snprintf(blanked, sizeof blanked, "%s", name);
    blank_ids((uint8_t *)blanked, strlen(blanked));
    (void)snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(name, '/') - name), name);
    memset(&s, 0, sizeof s);
    s.blanked = blanked;
    OK(storage->list(storage->context, directory, DCP_LIST_OBJECTS, search_one, &s, &err));
    SAME(s.found[0], "was not written");
    OK(dcp_storage_read_all(storage, s.found, &data, size, NULL, &err));
    *size = blank((uint8_t *)data, *size);
    return (uint8_t *)data;
}
static void check_same_file(dcp_storage *old_storage, dcp_storage *new_storage, const char *name) {
    size_t old_size, new_size;
    uint8_t *old_bytes, *new_bytes;
    where = name;
    old_bytes = read_blanked(old_storage, name, &old_size);
    new_bytes = read_blanked(new_storage, name, &new_size);
    CHECK_INT(new_size, old_size);
    SAME(memcmp(old_bytes, new_bytes, old_size) == 0, "differs from what is written today");
    dcp_free(old_bytes);
    dcp_free(new_bytes);
}
/* Fresh memory and stack full of that byte. */
static void leave_on_stack(int byte) {
    volatile uint8_t rubbish[40000];
    size_t i;
    for (i = 0; i < sizeof rubbish; i++) rubbish[i] = (uint8_t)byte;
}
static void check_writes(int byte) {
    static sums s;
    dcp_storage *old_storage = storage_at(NEWEST), *new_storage = storage_in_memory();
    char text[65];
    size_t i;
    fresh_byte = byte;
    leave_on_stack(byte);
    save_all(new_storage);
    fresh_byte = 0xA5;
    sums_read(&s, old_storage, text);
    for (i = 0; i < s.count; i++) check_same_file(old_storage, new_storage, s.line[i].name);
    CHECK_INT(count_files(&s, new_storage), s.count);
    free(s.text);
    dcp_storage_close(new_storage);
    dcp_storage_close(old_storage);
}
TEST(what_is_saved_today_is_the_same_but_for_time_and_id) {
    check_writes(0x00);
    check_writes(0xFF);
}
TEST(documents_written_again_are_the_same) {
    dcp_storage *storage = storage_at(NEWEST);
    size_t i;
    for (i = 0; i < DCPI_COUNT(checkpoints); i++) {
        const golden *g = &checkpoints[i];
        char path[200], *text = NULL;
        size_t size, text_size = 0;
        void *document;
        if (g->layout == DCP_LAYOUT_SINGLE || g->flags & SIGNED) continue;
        (void)snprintf(path, sizeof path, "%s%s", where = g->path, extension_of(g));
        OK(dcp_storage_read_all(storage, path, &document, &size, NULL, &err));
        if (g->layout == DCP_LAYOUT_MANIFEST) {
            dcp_manifest *m;
            OK(dcp_manifest_parse((const char *)document, size, &m, &err));
            OK(dcp_manifest_write(m, m->is_yaml, NULL, &text, &text_size, &err));
            dcp_manifest_free(m);
        } else {
            dcp_metadata *m;
            OK(dcp_metadata_parse((const char *)document, size, &m, &err));
            OK(dcp_metadata_write(m, NULL, &text, &text_size, &err));
            dcp_metadata_free(m);
        }
        CHECK_INT(text_size, size);
        SAME(memcmp(text, document, size) == 0, "is another one when it is written again");
        dcp_free(text);
        dcp_free(document);
    }
    dcp_storage_close(storage);
}

/* ---- other platforms' -------------------------------------------------------------------------------------------- */
static const char *write_to;
TEST(checkpoints_are_written) {
    dcp_storage *storage = storage_at(write_to);
    save_all(storage);
    dcp_storage_close(storage);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_to = argv[2];
        RUN(checkpoints_are_written);
        return test_finish();
    }
    if (argc == 3 && strcmp(argv[1], "read") == 0) read_from = argv[2];
    RUN(sharded_checkpoints_are_read);
    RUN(single_files_are_read);
    RUN(manifests_are_read);
    RUN(blocks_of_one_and_of_four_leaves_are_read);
    RUN(signatures_are_asked_for);
    if (read_from) return test_finish();
    RUN(golden_files_are_frozen);
    RUN(every_kernel_gives_the_listed_digests);
    RUN(what_is_saved_today_is_the_same_but_for_time_and_id);
    RUN(documents_written_again_are_the_same);
    return test_finish();
}
