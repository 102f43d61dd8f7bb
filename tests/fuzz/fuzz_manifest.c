/* fuzz_manifest.c - the chapter >>manifest: any bytes as a manifest in JSON or YAML, signed or not.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_manifest.c -o fuzz_manifest &&
 *     ./fuzz_manifest -max_len=4096 tests/corpus/manifest */
#include "fuzz.h"

#define MANIFEST_LITERAL(name) "\"" name "\": "
static const char *const manifest_tokens[] = {
    MANIFEST_LITERAL("model_id"), MANIFEST_LITERAL("epoch"), MANIFEST_LITERAL("step"), MANIFEST_LITERAL("tiers"),
        MANIFEST_LITERAL("tier_id"), MANIFEST_LITERAL("name"),
    MANIFEST_LITERAL("size_budget"), MANIFEST_LITERAL("placement_policy"), MANIFEST_LITERAL("shards"),
    MANIFEST_LITERAL("path"), MANIFEST_LITERAL("type"),
    MANIFEST_LITERAL("tensor_name"), MANIFEST_LITERAL("expert_key"), MANIFEST_LITERAL("shape"),
    MANIFEST_LITERAL("dtype"), MANIFEST_LITERAL("tier_hint"),
    MANIFEST_LITERAL("checksum"), MANIFEST_LITERAL("version"), MANIFEST_LITERAL("size"),
    MANIFEST_LITERAL("global_shape"), MANIFEST_LITERAL("global_offset"),
    MANIFEST_LITERAL("placement"), MANIFEST_LITERAL("rank"), MANIFEST_LITERAL("block_size"),
    MANIFEST_LITERAL("block_checksums"), MANIFEST_LITERAL("optim_state"),
    MANIFEST_LITERAL("router_state"), MANIFEST_LITERAL("layers"), MANIFEST_LITERAL("layer"), MANIFEST_LITERAL("seed"),
    MANIFEST_LITERAL("metadata_version"),
    MANIFEST_LITERAL("min_reader_version"), MANIFEST_LITERAL("save_id"), MANIFEST_LITERAL("sequence"),
    MANIFEST_LITERAL("timestamp"), MANIFEST_LITERAL("world_size"),
    MANIFEST_LITERAL("sharding"), MANIFEST_LITERAL("training"), MANIFEST_LITERAL("custom_fields"),
    MANIFEST_LITERAL("x"),
    "model_id: ", "shards:\n", "- path: a\n", "shape: [2, 3]\n", "expert_key: [1,2,3]\n", "  tensor_name: t\n",
    "router_state:\n", "  layers:\n", "version: 10_000\n", "extra: {a: b}\n",
    "extra:\n  - a\n  - b: c\n", "\"dense\"", "\"expert\"", "40GB", "512MiB", "10_000", "8EiB", "9 eb", "bf16", "null",
    "~", "[]", "{}", "[0]", "[-1,0,0]", "{", "}", "\n", "\n  ", "# c\n",
    "\"sha256-tree:0000000000000000000000000000000000000000000000000000000000000000\"",
    "\"0000000000000000000000000000000000000000000000000000000000000000\"", "abc123"};

static void manifest_name(const dcp_manifest_shard *shard) {    /* what the library would call this file */
    char name[DCPI_MANIFEST_NAME];
    dcpi_manifest_file file = DCP_ZERO;
    dcp_error err;
    file.role = shard->has_expert_key ? DCP_ROLE_EXPERT : DCP_ROLE_PARAMETER;
    file.tensor_name = shard->tensor_name;
    file.expert_key = shard->has_expert_key ? shard->expert_key : NULL;
    file.count = 1;
    file.version = shard->version;
    fuzz_told(dcpi_manifest_file_name(&file, name, &err), &err);
    FUZZ_CHECK(err.status || dcpi_key_is_valid(name));
}
static void manifest_use(const dcp_manifest *m) {
    dcp_validation found;
    dcp_error err;
    size_t i, size = 0;
    uint64_t seed;
    int yaml;
    const dcp_status status = dcp_manifest_validate(m, &found);
    FUZZ_CHECK((status == DCP_OK && found.error_count == 0) || (status == DCP_E_FORMAT && found.error_count > 0));
    for (i = 0; i < found.error_count; i++) FUZZ_CHECK(found.errors[i][0] != '\0');
    dcp_validation_free(&found);
    for (yaml = 0; yaml < 2; yaml++) {
        char *text = NULL;
        fuzz_told(dcp_manifest_write(m, yaml, NULL, &text, &size, &err), &err);
        FUZZ_CHECK(err.status == DCP_OK ? strlen(text) == size : status != DCP_OK);
        dcp_free(text);
    }
    for (i = 0; i < m->shard_count; i++) manifest_name(&m->shards[i]);
    for (i = 0; i < m->router_state.layer_count; i++) {
        const dcp_manifest_layer *layer = &m->router_state.layers[i];
        FUZZ_CHECK(!layer->has_seed || dcp_manifest_router_seed(m, layer->layer, &seed) == DCP_OK);
    }
    for (i = 0; i < m->tier_count; i++) FUZZ_CHECK(m->tiers[i].budget_bytes >= -1);
}
static const char *manifest_type(const uint8_t *data, size_t size) {
    return size > 0 && data[0] == '{' ? DCPI_TYPE_MANIFEST : DCPI_TYPE_MANIFEST_YAML;
}

static void manifest_try(const char *data, size_t size, int is_signed) {
    static uint8_t sealed[FUZZ_MOST];
    const dcp_verifier verifier = dcp_hmac_verifier(FUZZ_KEY, 16);
    dcp_manifest *m = (dcp_manifest *)&m;
    dcp_error err;
    const dcp_status status = dcpi_manifest_parse(data, size, is_signed ? &verifier : NULL, &m, &err);
    fuzz_told(status, &err);
    FUZZ_CHECK((status == DCP_OK) == (m != NULL));
    if (!m) return;
    FUZZ_CHECK(!is_signed || (m->signature_algorithm && strcmp(m->signature_algorithm, "hmac-sha256") == 0));
    if (!m->is_foreign && (is_signed ? strcmp(m->signature_key, "k") == 0 : !m->signature_algorithm)) {
        memcpy(sealed, data, size);                     /* sealing it once more changes nothing */
        FUZZ_CHECK(fuzz_seal(sealed, size, sizeof sealed, m->is_yaml ? DCPI_TYPE_MANIFEST_YAML : DCPI_TYPE_MANIFEST) ==
                   size && memcmp(sealed, data, size) == 0);
    }
    manifest_use(m);
    dcp_manifest_free(m);
}
static void manifest_one(const uint8_t *data, size_t size) {
    char *exact = fuzz_exact(data, size);
    manifest_try(exact, size, 0);
    if (size % 8 == 0 || fuzz_is_there(data, size, "signature")) manifest_try(exact, size, 1);
    free(exact);
}
static size_t manifest_repair(uint8_t *data, size_t size, size_t capacity, uint64_t how) {
    dcp_manifest *m;
    dcp_error err;
    size_t s, at = 0;
    if (how % 8 == 0 && !fuzz_is_there(data, size, "integrity")) return size;           /* a seed's document has none */
    size = fuzz_seal(data, size, capacity, manifest_type(data, size));
    if (how / 8 % 2 || dcp_manifest_parse((const char *)data, size, &m, &err)) return size;
    for (s = 0; s < m->shard_count; s++) {
        const dcp_manifest_shard *shard = &m->shards[s];
        if (shard->checksum && dcpi_starts_with(shard->checksum, "sha256-tree:"))
            fuzz_put_tree(data, size, &at, shard->block_checksums, shard->block_count);
    }
    dcp_manifest_free(m);
    return fuzz_seal(data, size, capacity, manifest_type(data, size));
}
static const fuzz_target fuzz_manifest = {"manifest", manifest_one, manifest_repair, manifest_tokens,
                                          FUZZ_COUNT(manifest_tokens), 262144, 600};
FUZZ_ENTRY(fuzz_manifest)
