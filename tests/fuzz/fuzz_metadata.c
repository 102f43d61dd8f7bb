/* fuzz_metadata.c - the chapter >>meta: any bytes as a metadata document, of a checkpoint in several files or in one,
 * signed or not.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_metadata.c -o fuzz_metadata &&
 *     ./fuzz_metadata -max_len=4096 tests/corpus/metadata */
#include "fuzz.h"

#define META_LITERAL(name) "\"" name "\": "
static const char *const metadata_tokens[] = {
    META_LITERAL("version"), META_LITERAL("timestamp"), META_LITERAL("worldSize"), META_LITERAL("ddpRank"),
        META_LITERAL("saveId"), META_LITERAL("sequence"),
    META_LITERAL("sharding"), META_LITERAL("strategy"), META_LITERAL("shardCount"), META_LITERAL("precision"),
    META_LITERAL("strategySpecificInfo"), META_LITERAL("shards"),
    META_LITERAL("rank"), META_LITERAL("filePath"), META_LITERAL("fileSize"), META_LITERAL("tensors"),
    META_LITERAL("name"), META_LITERAL("shape"), META_LITERAL("dataType"),
    META_LITERAL("offset"), META_LITERAL("size"), META_LITERAL("globalShape"), META_LITERAL("globalOffset"),
    META_LITERAL("placement"), META_LITERAL("blockSize"),
    META_LITERAL("blockChecksums"), META_LITERAL("checksum"), META_LITERAL("dataOffset"), META_LITERAL("training"),
    META_LITERAL("epoch"), META_LITERAL("step"),
    META_LITERAL("learningRate"), META_LITERAL("optimizerType"), META_LITERAL("optimizerState"),
    META_LITERAL("customFields"), META_LITERAL("minReaderVersion"), META_LITERAL("x"),
    "\"sharded\"", "\"replicated\"", "\"private\"", "\"fp32\"", "\"int4\"", "\"float32\"", "\"complex128\"", "\"e9\"",
    "\"2.0.0\"", "\"1.9.0\"", "\"2024-02-30T00:00:00Z\"",
    "\"1969-12-31T23:59:59.999999999+23:59\"", "null", "{}", "[]", "[0]", "[0,0,0,0,0,0,0,0]", "[1,1,1,1,1,1,1,1,1]",
    "[{},{},{}]", ", ", "\n", "\"a\"", "\"../a\"", "\"a/b\"",
    "\"sha256-tree:0000000000000000000000000000000000000000000000000000000000000000\"",
    "\"0000000000000000000000000000000000000000000000000000000000000000\"",
    ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"k\", \"value\": \"00\" }"};

static dcp_status metadata_count(void *user, const void *data, size_t size, dcp_error *err) {
    (void)data;
    *(int64_t *)user += (int64_t)size;
    return dcpi_succeed(err);
}
static void metadata_use(const dcp_metadata *m) {
    dcp_validation found;
    dcpi_content source;
    dcp_error err;
    char *text = NULL;
    size_t size = 0, i;
    int64_t json, records, sum = 0;
    const dcp_status status = dcp_metadata_validate(m, &found);
    FUZZ_CHECK(status == DCP_OK || status == DCP_E_FORMAT);
    FUZZ_CHECK((status == DCP_OK) == (found.error_count == 0));
    for (i = 0; i < found.error_count; i++) FUZZ_CHECK(found.errors[i][0] != '\0');
    dcp_validation_free(&found);
    fuzz_told(dcp_metadata_write(m, NULL, &text, &size, &err), &err);
    FUZZ_CHECK(err.status != DCP_OK || strlen(text) == size);
    FUZZ_CHECK(err.status == DCP_OK || status != DCP_OK);
    dcp_free(text);
    for (i = 0; i < m->field_count; i++) FUZZ_CHECK(dcp_metadata_field(m, m->fields[i].key) == m->fields[i].value);
    source = dcpi_content_of(m, NULL);              /* as the header of a single file: as many bytes as were counted */
    if (dcpi_meta_emit(&source, DCPI_TYPE_CHECKPOINT, NULL, NULL, NULL, &json, &err) ||
        dcpi_file_records_size(&source, &records, &err)) return;
    FUZZ_CHECK(dcpi_file_emit(&source, json, 0, NULL, metadata_count, &sum, &err) == DCP_OK && sum == json + records);
}
static dcp_status metadata_try(const char *data, size_t size, const char *type, int is_signed) {
    static uint8_t sealed[FUZZ_MOST];
    const dcp_verifier verifier = dcp_hmac_verifier(FUZZ_KEY, 16);
    dcp_metadata *m = (dcp_metadata *)&m;
    dcp_error err;
    const dcp_status status = dcpi_meta_parse(data, size, type, is_signed ? &verifier : NULL, &m, &err);
    fuzz_told(status, &err);
    FUZZ_CHECK((status == DCP_OK) == (m != NULL));
    if (!m) return status;
    FUZZ_CHECK(!is_signed || (m->signature_algorithm && strcmp(m->signature_algorithm, "hmac-sha256") == 0));
    if (!m->is_foreign && (is_signed ? strcmp(m->signature_key, "k") == 0 : !m->signature_algorithm)) {
        memcpy(sealed, data, size);                     /* sealing it once more changes nothing */
        FUZZ_CHECK(fuzz_seal(sealed, size, sizeof sealed, type) == size && memcmp(sealed, data, size) == 0);
    }
    metadata_use(m);
    dcp_metadata_free(m);
    return DCP_OK;
}
static void metadata_one(const uint8_t *data, size_t size) {
    char *exact = fuzz_exact(data, size);
    const char *type = DCPI_TYPE_METADATA;
    if (metadata_try(exact, size, type, 0) == DCP_E_CHECKSUM)
        (void)metadata_try(exact, size, type = DCPI_TYPE_CHECKPOINT, 0);
    if (size % 8 == 0 || fuzz_is_there(data, size, "\"signature\"")) (void)metadata_try(exact, size, type, 1);
    free(exact);
}
static size_t metadata_repair(uint8_t *data, size_t size, size_t capacity, uint64_t how) {
    const char *const type = how % 8 == 0 ? DCPI_TYPE_CHECKPOINT : DCPI_TYPE_METADATA;
    dcp_metadata *m;
    dcp_error err;
    size_t s, t, at = 0;
    uint8_t digests[64 * 32];
    size = fuzz_seal(data, size, capacity, type);
    if (how / 8 % 2 || dcpi_meta_parse((const char *)data, size, type, NULL, &m, &err)) return size;
    for (s = 0; s < m->shard_count; s++) {
        size_t count = 0;
        for (t = 0; t < m->shards[s].tensor_count; t++) {
            const dcp_tensor_metadata *tensor = &m->shards[s].tensors[t];
            if (tensor->block_count > FUZZ_COUNT(digests) / 32 - count) break;
            if (tensor->block_count) memcpy(digests + 32 * count, tensor->block_checksums, 32 * tensor->block_count);
            count += tensor->block_count;
        }
        if (m->shards[s].checksum && dcpi_starts_with(m->shards[s].checksum, "sha256-tree:"))
            fuzz_put_tree(data, size, &at, digests, count);
    }
    dcp_metadata_free(m);
    return fuzz_seal(data, size, capacity, type);
}
static const fuzz_target fuzz_metadata = {"metadata", metadata_one, metadata_repair, metadata_tokens,
                                          FUZZ_COUNT(metadata_tokens), 262144, 400};
FUZZ_ENTRY(fuzz_metadata)
