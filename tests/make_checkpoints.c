/* make_checkpoints.c - saves the sample checkpoints that test_tool.sh looks at.
 *
 *     make_checkpoints DIR [big]
 *
 * In DIR, which must exist:
 *   run/step_100 .. step_300    w fp32 [3, 4] (values differ from step to step), bias fp64 [4] (the same), training,
 *                               custom fields
 *   one                         the content of run/step_300 in a single file
 *   blocks                      the same again, cut into digests of another block size
 *   flat                        the same again, with DCP_CHECKSUM_FLAT
 *   other                       w with another shape, bias with another type, one tensor more, no training
 *   types                       every data type in `type.<name>`, 6 elements; a scalar; an empty tensor; a name that is
 *                               no file name
 *   shapes, shapes_flat         tensors of many shapes, and the same with DCP_CHECKSUM_FLAT
 *   odd                         custom fields with control characters and quotes
 *   signed                      signed with the HMAC key in key.bin (badkey.bin is another one)
 *   ranks                       of two ranks, built by hand: w fp32 [4, 3] sharded; mine and ours int32 private,
 *                               different and equal
 *   foreign                     a document without anything of ours, as the seed's own code writes it
 *   newer/newer                 the same with version 2.0.0
 *   unknown                     a tensor of a type that nobody knows
 *   moe/step_100 .. step_300    manifests, that of step_200 in YAML: dense a and b and expert [1, 0, 0] x in tier hot,
 *                               expert [2, 0, 7] y in tier warm, optimizer adam/m, router r of layer 3, seeds of layers
 *                               0 and 3; b changes at step 200, x at step 300
 *   other_moe/step_300          the same with another model_id and seed, x in tier warm, which has a budget for one of
 *                               its two files
 *   few_rows                    of four ranks: w fp32 [2, 3] sharded, of which two ranks have no row
 *   extras/m                    a manifest with members that no version knows, wherever there can be some
 *   big                         with `big`: uint8 [2, 34 MiB], more than the tool holds at a time, and int4 of an odd
 *                               number of elements
 *   empty/                      a directory
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <direct.h>
#define make_directory(path) _mkdir(path)
#else
#include <sys/stat.h>
#define make_directory(path) mkdir(path, 0777)
#endif

#define ID "0123456789abcdef"
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "make_checkpoints: %s: %s: %s\n", what, dcp_status_name(status), err.message);
    exit(1);
}

static char *at(const char *directory, const char *name) {
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (file && fwrite(data, 1, size, file) == size && fclose(file) == 0) return;
    fprintf(stderr, "make_checkpoints: cannot write %s\n", path);
    exit(1);
}

/* ---- saved by the library ---------------------------------------------------------------------------------------- */
static void save_step(const char *path, int64_t step, const dcp_save_desc *like) {
    static const dcp_field fields[] = {{ "git", "abc123" }, { "note", "Gr\xc3\xbc\xc3\x9f" "e" }};
    const int64_t w_shape[] = { 3, 4 }, bias_shape[] = { 4 };
    double bias[4] = { 0.5, -1, 1e300, 0 };
    float w[12];
    dcp_tensor tensors[2];
    dcp_training training = DCP_ZERO;
    dcp_save_desc save = *like;
    int i;
    for (i = 0; i < 12; i++) w[i] = (float)step + (float)i / 4;
    tensors[0] = dcp_array("w", DCP_FP32, w, 2, w_shape);
    tensors[1] = dcp_array("bias", DCP_FP64, bias, 1, bias_shape);
    training.epoch = step / 100;
    training.step = step;
    training.learning_rate = 0.0003;
    training.optimizer_type = "adamw";
    training.optimizer_state = "{\"beta1\": 0.9}";
    save.path = path;
    save.tensors = tensors;
    save.tensor_count = 2;
    save.training = &training;
    save.fields = fields;
    save.field_count = 2;
    check(dcp_save(&save, &err), path);
}

static void save_tensors(const char *path, const dcp_tensor *tensors, size_t count, const dcp_field *fields,
                         size_t field_count, const dcp_signer *signer) {
    dcp_save_desc save = DCP_ZERO;
    save.path = path;
    save.tensors = tensors;
    save.tensor_count = count;
    save.fields = fields;
    save.field_count = field_count;
    save.signer = signer;
    check(dcp_save(&save, &err), path);
}

static void save_other(const char *path) {
    static const float zeros[16] = {0};
    const int64_t w_shape[] = { 4, 4 }, bias_shape[] = { 4 };
    dcp_tensor tensors[3];
    tensors[0] = dcp_array("w", DCP_FP32, zeros, 2, w_shape);
    tensors[1] = dcp_array("bias", DCP_FP32, zeros, 1, bias_shape);
    tensors[2] = dcp_bytes("extra", "xyz", 3);
    save_tensors(path, tensors, 3, NULL, 0, NULL);
}

/* Each type's bytes: 1 and 0 for bool, and whatever a pattern without NaNs makes for the others. */
static void save_types(const char *path) {
    static uint8_t bytes[DCP_OPAQUE][6 * 16];
    static char names[DCP_OPAQUE][32];
    const int64_t shape[] = { 6 }, none[] = { 3, 0 };
    static const int32_t scalar = 42;
    dcp_tensor tensors[DCP_OPAQUE + 3];
    size_t n = 0;
    int type, i;
    for (type = DCP_FP32; type < DCP_OPAQUE; type++, n++) {
        for (i = 0; i < 6 * 16; i++) bytes[n][i] = (uint8_t)(type == DCP_BOOL ? i % 2 : (i * 7 + type) % 60 + 1);
        snprintf(names[n], sizeof names[n], "type.%s", dcp_dtype_name((dcp_dtype)type));
        tensors[n] = dcp_array(names[n], (dcp_dtype)type, bytes[n], 1, shape);
    }
    tensors[n++] = dcp_scalar("scalar", DCP_INT32, &scalar);
    tensors[n++] = dcp_array("nothing", DCP_FP32, NULL, 2, none);
    tensors[n++] = dcp_bytes("../a b/\xc3\xa9", "bytes", 5);
    save_tensors(path, tensors, n, NULL, 0, NULL);
}

static void save_shapes(const char *path, dcp_checksum checksum) {
    static const int64_t shapes[][5] = {{ 136 }, { 1, 8, 34 }, { 3, 5, 7 }, { 9, 6, 5, 6 }, { 2, 1, 200 }, { 31, 2 },
                                        { 1, 1, 1, 1, 77 }, { 7, 11, 13 }};
    static const dcp_dtype types[] = { DCP_INT4, DCP_UINT8, DCP_FP32, DCP_COMPLEX128 };
    static uint8_t data[1620 * 16 + 32];
    static char names[32][32];
    dcp_tensor tensors[32];
    dcp_save_desc save = DCP_ZERO;
    size_t i, n;
    for (i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i / 7 + i);
    for (n = 0; n < 32; n++) {
        const int64_t *shape = shapes[n / 4];
        int64_t count = shape[0];
        int dims = 1;
        while (dims < 5 && shape[dims] > 0) count *= shape[dims++];
        if (n % 4 == 0 && count % 2) data[n + (size_t)(count / 2)] &= 15;  /* half a byte is left over, and must be 0 */
        snprintf(names[n], sizeof names[n], "%s.%d", dcp_dtype_name(types[n % 4]), (int)(n / 4));
        tensors[n] = dcp_array(names[n], types[n % 4], data + n, dims, shape);
    }
    save.path = path;
    save.tensors = tensors;
    save.tensor_count = 32;
    save.checksum = checksum;
    check(dcp_save(&save, &err), path);
}

static void save_odd(const char *path) {
    static const dcp_field fields[] = {{ "escape", "\x1b[31mred\x1b[0m" }, { "lines", "one\ntwo\ttab" },
                                       { "quote", "say \"hi\" \\ there" }, { "c1", "\xc2\x9b" "2J" },
                                       { "turn", "\xe2\x80\xae" "abc" }};
    dcp_tensor tensor = dcp_bytes("data", "abc", 3);
    save_tensors(path, &tensor, 1, fields, 5, NULL);
}

static void save_signed(const char *directory) {
    static const char key[] = "0123456789abcdefghijklmnopqrstuv";
    dcp_signer signer = dcp_hmac_signer(key, 32, "k1");
    dcp_tensor tensor = dcp_bytes("data", "abc", 3);
    save_tensors(at(directory, "signed"), &tensor, 1, NULL, 0, &signer);
    write_file(at(directory, "key.bin"), key, 32);
    write_file(at(directory, "badkey.bin"), "another key of 32 bytes, or more.", 32);
    write_file(at(directory, "shortkey.bin"), "short", 5);
}

static void save_moe(const char *path, int64_t step, int is_other) {
    static const char *const names[] = { "a", "b", "x", "y", "adam/m", "r" };
    const dcp_tier tiers[] = {{ 1, "hot", "40GB", "prioritized" }, { 2, "warm", is_other ? "600" : "200GB", "lru" }};
    const dcp_router_seed seeds[] = {{ 0, UINT64_MAX }, { 3, is_other ? 6 : 5 }};
    static const dcp_field field = { "git", "abc123" };
    static const dcp_role roles[] = { DCP_ROLE_PARAMETER, DCP_ROLE_PARAMETER, DCP_ROLE_EXPERT, DCP_ROLE_EXPERT,
                                      DCP_ROLE_OPTIMIZER, DCP_ROLE_ROUTER };
    const int64_t shape[] = { 8, 12 };
    float values[6][96];
    dcp_tensor tensors[6];
    dcp_training training = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    int i, k;
    for (i = 0; i < 6; i++) {
        const int generation = (i == 1 && step >= 200) || (i == 2 && step >= 300);
        for (k = 0; k < 96; k++) values[i][k] = (float)(1000 * generation + 100 * i + k);
        tensors[i] = dcp_array(names[i], DCP_FP32, values[i], 2, shape);
        tensors[i].role = roles[i];
        tensors[i].tier = i < (is_other ? 2 : 3) ? "hot" : i <= 3 ? "warm" : NULL;
    }
    tensors[2].expert_key[0] = 1;
    tensors[3].expert_key[0] = 2;
    tensors[3].expert_key[2] = 7;
    tensors[5].expert_key[0] = 3;
    training.epoch = 5;
    training.step = step;
    training.learning_rate = 0.5;
    save.path = path;
    save.tensors = tensors;
    save.tensor_count = 6;
    save.layout = DCP_LAYOUT_MANIFEST;
    save.yaml = step == 200;
    save.model_id = is_other ? "moe-large" : "moe-small";
    save.tiers = tiers;
    save.tier_count = 2;
    save.router_seeds = seeds;
    save.router_seed_count = 2;
    save.training = &training;
    save.fields = &field;
    save.field_count = 1;
    check(dcp_save(&save, &err), path);
}

/* One rank of few_rows. */
typedef struct rank_of {
    dcpi_thread thread;
    dcp_coordinator *coordinator; const char *path;
    dcp_status status; dcp_error err;
} rank_of;
enum { FEW_RANKS = 4 };

static void save_rank(void *rank_) {
    rank_of *r = (rank_of *)rank_;
    const int64_t whole[2] = { 2, 3 };
    float values[3];
    int64_t shape[2], offset[2];
    dcp_tensor w;
    dcp_save_desc desc = DCP_ZERO;
    int i;
    offset[0] = r->coordinator->rank * 2 / FEW_RANKS;
    offset[1] = 0;
    shape[0] = (r->coordinator->rank + 1) * 2 / FEW_RANKS - offset[0];
    shape[1] = 3;
    for (i = 0; i < 3; i++) values[i] = (float)(3 * offset[0] + i);
    w = dcp_array("w", DCP_FP32, values, 2, shape);
    dcp_piece(&w, whole, offset);
    desc.path = r->path;
    desc.tensors = &w;
    desc.tensor_count = 1;
    desc.io.coordinator = r->coordinator;
    r->status = dcp_save(&desc, &r->err);
}
static void save_few_rows(const char *path) {
    rank_of ranks[FEW_RANKS];
    dcp_coordinator *group[FEW_RANKS];
    int r;
    memset(ranks, 0, sizeof ranks);
    check(dcp_thread_group_open(FEW_RANKS, group, &err), "few_rows");
    for (r = 0; r < FEW_RANKS; r++) {
        ranks[r].coordinator = group[r];
        ranks[r].path = path;
        if (dcpi_thread_start(&ranks[r].thread, save_rank, &ranks[r])) abort();
    }
    for (r = 0; r < FEW_RANKS; r++) {
        dcpi_thread_join(&ranks[r].thread);
        err = ranks[r].err;
        check(ranks[r].status, "few_rows");
        dcp_coordinator_close(group[r]);
    }
}

/* What another version may have put into a manifest: members that this one does not know, wherever there can be
 * some. */
static void save_extras(const char *path) {
    static const dcp_tier tiers[] = {{ 1, "hot", "1GB", NULL }, { 2, "cold", NULL, NULL }};
    static const char *const tier_extras[] = { NULL, "\"media\": [\"tape\", 1.50]" };
    static const dcp_router_seed seeds[] = {{ 3, 11 }, { 0, 5 }};
    static const char *const seed_extras[] = { "\"noise\": 0.10", NULL };
    float values[4] = { 1, 2, 3, 4 };
    int64_t shape[1] = { 2 };
    dcp_tensor tensors[3];
    dcp_training training = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    tensors[0] = dcp_array("w", DCP_FP32, values, 1, shape);
    tensors[0].extra = "\"codec\": {\"name\": \"none, yet\", \"level\": 18446744073709551616}";
    tensors[0].tier = "cold";
    tensors[1] = dcp_array("adam/m", DCP_FP32, values + 1, 1, shape);
    tensors[1].role = DCP_ROLE_OPTIMIZER;
    tensors[1].extra = "\"decay\": null";
    tensors[2] = dcp_array("r", DCP_FP32, values + 2, 1, shape);
    tensors[2].role = DCP_ROLE_ROUTER;
    tensors[2].expert_key[0] = 3;
    training.step = 7;
    training.extra = "\"warmup\": 100";
    sharding.extra = "\"mesh\": [2, 2]";
    save.path = path;
    save.tensors = tensors;
    save.tensor_count = 3;
    save.layout = DCP_LAYOUT_MANIFEST;
    save.training = &training;
    save.sharding = &sharding;
    save.tiers = tiers;
    save.tier_count = 2;
    save.router_seeds = seeds;
    save.router_seed_count = 2;
    save.extra = "\"future\": {\"a\": [1, \"}, x\"]}, \"worldSize\": 3, \"also\": 1e2";
    save.optim_extra = "\"kind\": \"adam\"";
    save.router_extra = "\"top_k\": 2";
    save.tier_extras = tier_extras;
    save.router_seed_extras = seed_extras;
    check(dcp_save(&save, &err), path);
}

static void save_big(const char *path) {
    const int64_t row = (int64_t)34 << 20, shape[] = { 2, row }, odd[] = { 3, 5 };
    uint8_t *data = (uint8_t *)malloc((size_t)(2 * row)), nibbles[8] = { 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc,
                                                                         0x0e };
    dcp_tensor tensors[2];
    int64_t i;
    if (!data) exit(1);
    for (i = 0; i < 2 * row; i++) data[i] = (uint8_t)(i * 31 ^ i >> 13);
    tensors[0] = dcp_array("a", DCP_UINT8, data, 2, shape);
    tensors[1] = dcp_array("nibbles", DCP_INT4, nibbles, 2, odd);
    save_tensors(path, tensors, 2, NULL, 0, NULL);
    free(data);
}

/* ---- documents built by hand ------------------------------------------------------------------------------------- */
static void hex(const uint8_t digest[32], char *text) {
    int i;
    for (i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static dcp_tensor_metadata entry(const char *name, const char *type, const char *placement, int64_t rows,
                                 int64_t columns, int64_t offset, int64_t size, const uint8_t *data,
                                 uint8_t digest[32]) {
    dcp_tensor_metadata t = DCP_ZERO;
    t.name = name;
    t.data_type = type;
    t.placement = placement;
    t.ndim = columns ? 2 : 1;
    t.shape[0] = t.global_shape[0] = rows;
    t.shape[1] = t.global_shape[1] = columns;
    t.offset = offset;
    t.size = size;
    t.block_size = 4194304;
    dcp_sha256(data + offset, (size_t)size, digest);    /* one leaf, so it is the block's digest as well */
    t.block_checksums = digest;
    t.block_count = 1;
    return t;
}

/* One shard: bytes 0 to 23 are rows of w, 64 to 71 are `mine`, 128 to 135 are `ours`. */
static void add_rank(dcp_metadata *m, const char *directory, int rank) {
    uint8_t data[136] = {0}, digests[3][32], whole[32];
    char file[64], checksum[80] = "sha256-tree:";
    dcp_tensor_metadata tensors[3];
    dcp_shard_metadata shard = DCP_ZERO;
    int i;
    for (i = 0; i < 6; i++) {
        float value = (float)(6 * rank + i);
        memcpy(data + 4 * i, &value, 4);
    }
    for (i = 0; i < 2; i++) {
        data[64 + 4 * i] = (uint8_t)(10 * rank + i);    /* little-endian int32 */
        data[128 + 4 * i] = (uint8_t)(7 + i);
    }
    tensors[0] = entry("w", "fp32", "sharded", 2, 3, 0, 24, data, digests[0]);
    tensors[0].global_shape[0] = 4;
    tensors[0].global_offset[0] = 2 * rank;
    tensors[1] = entry("mine", "int32", "private", 2, 0, 64, 8, data, digests[1]);
    tensors[2] = entry("ours", "int32", "private", 2, 0, 128, 8, data, digests[2]);
    dcp_sha256(digests, sizeof digests, whole);
    hex(whole, checksum + strlen(checksum));
    check(dcp_shard_name("ranks", rank, NULL, file, sizeof file, &err), "ranks");
    write_file(at(directory, file), data, sizeof data);
    shard.rank = rank;
    shard.file_path = file;
    shard.file_size = sizeof data;
    shard.tensors = tensors;
    shard.tensor_count = 3;
    shard.checksum = checksum;
    check(dcp_metadata_add_shard(m, &shard, &err), "ranks");
}

static void build_ranks(const char *directory) {
    dcp_sharding sharding = DCP_ZERO;
    dcp_metadata *m;
    int rank;
    sharding.strategy = "fsdp";
    sharding.shard_count = 2;
    sharding.precision = "fp32";
    check(dcp_metadata_new(&m, &err), "ranks");
    m->save_id = ID;
    m->sequence = 1;
    m->world_size = 2;
    check(dcp_metadata_set_sharding(m, &sharding, &err), "ranks");
    for (rank = 0; rank < 2; rank++) add_rank(m, directory, rank);
    check(dcp_metadata_write_file(NULL, at(directory, "ranks.metadata.json"), m, NULL, NULL, &err), "ranks");
    dcp_metadata_free(m);
}

/* As the seed's code writes it: no save id, no placements, no digests of blocks, no integrity. */
static void write_foreign(const char *directory, const char *name, const char *version, const char *type) {
    static const uint8_t data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    uint8_t digest[32];
    char checksum[65], file[200], path[300], text[1200];
    dcp_sha256(data, sizeof data, digest);
    hex(digest, checksum);
    snprintf(file, sizeof file, "%s_shard_0.bin", name);
    snprintf(path, sizeof path, "%s.metadata.json", name);
    snprintf(text, sizeof text,
             "{\"version\": \"%s\", \"timestamp\": \"2024-01-02T03:04:05Z\", \"worldSize\": 1, \"ddpRank\": 0,\n"
             "\"sharding\": {\"strategy\": \"fsdp\", \"shardCount\": 1, \"precision\": \"fp32\", "
             "\"strategySpecificInfo\": {}},\n"
             "\"shards\": [{\"rank\": 0, \"filePath\": \"%s\", \"fileSize\": 8, \"checksum\": \"%s\",\n"
             "\"tensors\": [{\"name\": \"t\", \"shape\": [2], \"dataType\": \"%s\", \"offset\": 0, \"size\": 8}]}],\n"
             "\"training\": null}\n", version, file, checksum, type);
    write_file(at(directory, path), text, strlen(text));
    write_file(at(directory, file), data, sizeof data);
}

int main(int argc, char **argv) {
    dcp_save_desc plain = DCP_ZERO, single = DCP_ZERO, blocks = DCP_ZERO, flat = DCP_ZERO;
    const char *directory;
    char newer[500];
    if (argc < 2) {
        fprintf(stderr, "usage: make_checkpoints DIR [big]\n");
        return 2;
    }
    directory = argv[1];
    single.layout = DCP_LAYOUT_SINGLE;
    blocks.block_size = 262144;
    flat.checksum = DCP_CHECKSUM_FLAT;
    make_directory(at(directory, "run"));
    make_directory(at(directory, "empty"));
    make_directory(at(directory, "newer"));
    save_step(at(directory, "run/step_100"), 100, &plain);
    save_step(at(directory, "run/step_200"), 200, &plain);
    save_step(at(directory, "run/step_300"), 300, &plain);
    save_step(at(directory, "one"), 300, &single);
    save_step(at(directory, "blocks"), 300, &blocks);
    save_step(at(directory, "flat"), 300, &flat);
    save_other(at(directory, "other"));
    save_types(at(directory, "types"));
    save_shapes(at(directory, "shapes"), DCP_CHECKSUM_TREE);
    save_shapes(at(directory, "shapes_flat"), DCP_CHECKSUM_FLAT);
    save_odd(at(directory, "odd"));
    save_signed(directory);
    build_ranks(directory);
    write_foreign(directory, "foreign", "1.0.0", "float32");
    write_foreign(directory, "unknown", "1.0.0", "posit32");
    snprintf(newer, sizeof newer, "%s/newer", directory);
    write_foreign(newer, "newer", "2.0.0", "float32");
    make_directory(at(directory, "moe"));
    save_moe(at(directory, "moe/step_100"), 100, 0);
    save_moe(at(directory, "moe/step_200"), 200, 0);
    save_moe(at(directory, "moe/step_300"), 300, 0);
    make_directory(at(directory, "other_moe"));
    save_moe(at(directory, "other_moe/step_300"), 300, 1);
    save_few_rows(at(directory, "few_rows"));
    make_directory(at(directory, "extras"));
    save_extras(at(directory, "extras/m"));
    if (argc > 2) save_big(at(directory, "big"));
    return 0;
}
