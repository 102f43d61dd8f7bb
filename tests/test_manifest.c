/* test_manifest.c - the chapter >>manifest: documents in JSON and YAML read, written, checked, damaged, signed, and
 * made by hostile hands. */
#define DCP_LIMIT_FINDINGS 100
static int limit_tensors = 67108864, limit_shards = 1048576, limit_fields = 1048576;   /* few in limits_of_a_document */
#define DCP_LIMIT_TENSORS limit_tensors
#define DCP_LIMIT_SHARDS limit_shards
#define DCP_LIMIT_FIELDS limit_fields
static long long limit_document = 1LL << 34;
#define DCP_LIMIT_DOCUMENT limit_document
#include "counting_allocator.h"
#include "text.h"
#include "yaml_tree.h"

/* ---- documents --------------------------------------------------------------------------------------------------- */
/* The example of SPEC-029, as it stands there. */
static const char seed_yaml[] =
    "model_id: lite\xE2\x80\x91llm\xE2\x80\x91" "base\n"
    "epoch: 5\n"
    "step: 10_000\n"
    "tiers:\n"
    "  - tier_id: 1\n"
    "    name: hot\n"
    "    size_budget: 40GB\n"
    "    placement_policy: prioritized\n"
    "  - tier_id: 2\n"
    "    name: warm\n"
    "    size_budget: 200GB\n"
    "    placement_policy: lru\n"
    "shards:\n"
    "  - path: dense/layer_0/attention_q_0_0_of_2.bin\n"
    "    type: dense\n"
    "    tensor_name: attention_q\n"
    "    shape: [512, 1024]\n"
    "    dtype: bf16\n"
    "    tier_hint: hot\n"
    "    checksum: \"abc123\"\n"
    "    version: 1\n"
    "  - path: experts/tier_2/group_0/expert_1.bin\n"
    "    type: expert\n"
    "    expert_key: [2,0,1]\n"
    "    shape: [4096, 512]\n"
    "    dtype: bf16\n"
    "    tier_hint: warm\n"
    "    checksum: \"def456\"\n"
    "    version: 0\n"
    "optim_state:\n"
    "  path: optim/state_0.bin\n"
    "router_state:\n"
    "  path: router/state_0.bin\n"
    "metadata_version: 1\n";

/* A document that has everything and keeps every rule. The digests were computed with Python's hashlib and hmac, by
 * DESIGN 2.1 and 2.2. */
#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define T1 "sha256-tree:02d449a31fbb267c8f352e9968a79e3e5fc95c1bbeaa502fd6454ebde5a4bedc"   /* SHA-256 of D1 as bytes */
#define FLAT "2222222222222222222222222222222222222222222222222222222222222222"
#define PIECE(from) "\"global_shape\": [512, 8], \"global_offset\": [" from ", 0], \"placement\": \"sharded\", "
#define GOLDEN_SHARDS \
    "    { \"path\": \"dense/wq_0_of_2.bin\", \"type\": \"dense\", \"tensor_name\": \"wq\",\n" \
    "      \"shape\": [256, 8], \"dtype\": \"fp32\", \"tier_hint\": \"hot\", \"checksum\": \"" \
        T1 "\", \"version\": 0, \"size\": 8192,\n" \
    "      " PIECE("0") "\"rank\": 0, \"block_size\": 4194304, \"block_checksums\": [\"" D1 "\"] },\n" \
    "    { \"path\": \"dense/wq_1_of_2.v3.bin\", \"type\": \"dense\", \"tensor_name\": \"wq\",\n" \
    "      \"shape\": [256, 8], \"dtype\": \"fp32\", \"tier_hint\": \"hot\", \"checksum\": \"" \
        FLAT "\", \"version\": 3, \"size\": 8192,\n" \
    "      " PIECE("256") "\"rank\": 1 },\n" \
    "    { \"path\": \"experts/tier_2/group_0/expert_1.up_0_of_1.bin\", \"type\": \"expert\", " \
    "\"tensor_name\": \"up\", \"expert_key\": [2, 0, 1],\n" \
    "      \"shape\": [3], \"dtype\": \"int4\", \"tier_hint\": \"warm\", \"checksum\": \"" FLAT "\", " \
    "\"version\": 0, \"size\": 2 }\n"
static const char golden_json[] =
    "{\n"
    "  \"min_reader_version\": 1,\n"
    "  \"model_id\": \"lite-llm: base\",\n"
    "  \"epoch\": 5,\n"
    "  \"step\": 9007199254740993,\n"
    "  \"save_id\": \"9f86d081884c7d65\",\n"
    "  \"sequence\": 12,\n"
    "  \"tiers\": [\n"
    "    { \"tier_id\": 1, \"name\": \"hot\", \"size_budget\": \"40GB\", \"placement_policy\": \"prioritized\" },\n"
    "    { \"tier_id\": 2, \"name\": \"warm\" }\n"
    "  ],\n"
    "  \"shards\": [\n"
    GOLDEN_SHARDS
    "  ],\n"
    "  \"optim_state\": { \"path\": \"optim/m_0_of_1.bin\", \"shards\": [\n"
    "      { \"path\": \"optim/m_0_of_1.bin\", \"tensor_name\": \"m\",\n"
    "        \"shape\": [], \"dtype\": \"fp64\", \"checksum\": \"" FLAT "\", \"version\": 1, \"size\": 8 }\n"
    "    ] },\n"
    "  \"router_state\": { \"layers\": [\n"
    "      { \"layer\": 0, \"seed\": 18446744073709551615 },\n"
    "      { \"layer\": 7, \"seed\": 42, \"shards\": [\n"
    "          { \"path\": \"router/gate_0_of_1.bin\", \"tensor_name\": \"gate\",\n"
    "            \"shape\": [0, 4], \"dtype\": \"bf16\", \"checksum\": \"" FLAT "\", \"version\": 0, \"size\": 0 }\n"
    "        ] }\n"
    "    ] },\n"
    "  \"metadata_version\": 1,\n"
    "  \"timestamp\": \"2026-11-20T12:00:00.123456Z\",\n"
    "  \"world_size\": 2,\n"
    "  \"sharding\": { \"strategy\": \"fsdp\", \"shard_count\": 2, \"precision\": \"bf16\", "
    "\"strategy_specific_info\": {} },\n"
    "  \"training\": { \"epoch\": 5, \"step\": 100, \"learning_rate\": 0.0003, \"optimizer_type\": \"adamw\", "
    "\"optimizer_state\": {\"b\": [0.9, 1e-8]} },\n"
    "  \"custom_fields\": { \"git\": \"abc\", \"no\": \"1.0\", \"two words\": \"a\\nb\" }";
static const char golden_yaml[] =
    "min_reader_version: 1\n"
    "model_id: \"lite-llm: base\"\n"
    "epoch: 5\n"
    "step: 9007199254740993\n"
    "save_id: \"9f86d081884c7d65\"\n"
    "sequence: 12\n"
    "tiers:\n"
    "  - tier_id: 1\n"
    "    name: hot\n"
    "    size_budget: \"40GB\"\n"
    "    placement_policy: prioritized\n"
    "  - tier_id: 2\n"
    "    name: warm\n"
    "shards:\n"
    "  - path: dense/wq_0_of_2.bin\n"
    "    type: dense\n"
    "    tensor_name: wq\n"
    "    shape: [256, 8]\n"
    "    dtype: fp32\n"
    "    tier_hint: hot\n"
    "    checksum: \"" T1 "\"\n"
    "    version: 0\n"
    "    size: 8192\n"
    "    global_shape: [512, 8]\n"
    "    global_offset: [0, 0]\n"
    "    placement: sharded\n"
    "    rank: 0\n"
    "    block_size: 4194304\n"
    "    block_checksums: [\"" D1 "\"]\n"
    "  - path: dense/wq_1_of_2.v3.bin\n"
    "    type: dense\n"
    "    tensor_name: wq\n"
    "    shape: [256, 8]\n"
    "    dtype: fp32\n"
    "    tier_hint: hot\n"
    "    checksum: \"" FLAT "\"\n"
    "    version: 3\n"
    "    size: 8192\n"
    "    global_shape: [512, 8]\n"
    "    global_offset: [256, 0]\n"
    "    placement: sharded\n"
    "    rank: 1\n"
    "  - path: experts/tier_2/group_0/expert_1.up_0_of_1.bin\n"
    "    type: expert\n"
    "    tensor_name: up\n"
    "    expert_key: [2, 0, 1]\n"
    "    shape: [3]\n"
    "    dtype: int4\n"
    "    tier_hint: warm\n"
    "    checksum: \"" FLAT "\"\n"
    "    version: 0\n"
    "    size: 2\n"
    "optim_state:\n"
    "  path: optim/m_0_of_1.bin\n"
    "  shards:\n"
    "    - path: optim/m_0_of_1.bin\n"
    "      tensor_name: m\n"
    "      shape: []\n"
    "      dtype: fp64\n"
    "      checksum: \"" FLAT "\"\n"
    "      version: 1\n"
    "      size: 8\n"
    "router_state:\n"
    "  layers:\n"
    "    - layer: 0\n"
    "      seed: 18446744073709551615\n"
    "    - layer: 7\n"
    "      seed: 42\n"
    "      shards:\n"
    "        - path: router/gate_0_of_1.bin\n"
    "          tensor_name: gate\n"
    "          shape: [0, 4]\n"
    "          dtype: bf16\n"
    "          checksum: \"" FLAT "\"\n"
    "          version: 0\n"
    "          size: 0\n"
    "metadata_version: 1\n"
    "timestamp: \"2026-11-20T12:00:00.123456Z\"\n"
    "world_size: 2\n"
    "sharding:\n"
    "  strategy: fsdp\n"
    "  shard_count: 2\n"
    "  precision: bf16\n"
    "  strategy_specific_info: {}\n"
    "training:\n"
    "  epoch: 5\n"
    "  step: 100\n"
    "  learning_rate: 0.0003\n"
    "  optimizer_type: adamw\n"
    "  optimizer_state: { \"b\": [0.9, 1e-8] }\n"
    "custom_fields:\n"
    "  git: abc\n"
    "  \"no\": \"1.0\"\n"
    "  \"two words\": \"a\\nb\"\n";
#define GOLDEN_KEY "0123456789abcdef"
#define JSON_TAIL(value) ",\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \"" value "\" }\n}\n"
#define YAML_TAIL(value) "integrity: { algorithm: \"sha256\", value: \"" value "\" }\n"
#define JSON_SIGNATURE(value) \
    ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"ops-2026\", \"value\": \"" value "\" }"
#define YAML_SIGNATURE(value) "signature: { algorithm: \"hmac-sha256\", key: \"ops-2026\", value: \"" value "\" }\n"
#define JSON_VALUE "3170f3ccc2890572e9aa3403216f4743af5c22b2e8fdfc588a52bd054d02b0d0"
#define JSON_HMAC "50398b18644246f793f54e3b65f49d57e33799f4d29ce907d481ae4a6bb719e6"
#define JSON_CUT "5039"
#define JSON_SIGNED_VALUE "1c8091acf29d93cfa49e264d3a97e782c54d1c07c7f6d0cca112c61df3902014"
#define YAML_VALUE "31c58c9a413354090341fb725b2b817b21bc4740b2ebc81d12d30c538d321397"
#define YAML_HMAC "970338fcdcc63e7618d28d35b67b0391bde3723c572312698dea5e9d5f856330"
#define YAML_CUT "9703"
#define YAML_SIGNED_VALUE "71709473b9d1bf3b8f77e1a4cf3e60fb92e2d43ad2dcff4947be77c22eb18063"

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
static dcp_error last;

/* A body with a good tail of that type. */
static text seal_as(const char *body, const char *type, const dcp_signer *signer) {
    text t = { NULL, 0, 0 };
    dcpi_integrity stream;
    CHECK_OK(dcpi_integrity_begin(&stream, type, signer, text_sink, &t, &last));
    CHECK_OK(dcpi_integrity_write(&stream, body, strlen(body), &last));
    CHECK_OK(dcpi_integrity_end(&stream, &last));
    CHECK_INT(stream.size, t.size);
    return t;
}
static const char *type_of(int yaml) { return yaml ? "manifest/yaml" : "manifest/json"; }
static const char *golden(int yaml) { return yaml ? golden_yaml : golden_json; }
/* A copy of `from` in which the first `find` has become `put`. */
static text replaced(const char *from, const char *find, const char *put) {
    text t = { NULL, 0, 0 };
    const char *at = strstr(from, find);
    if (!at) { printf("not in the document: %s\n", find); CHECK(at != NULL); }
    text_add(&t, from, (size_t)(at - from));
    text_add(&t, put, strlen(put));
    text_add(&t, at + strlen(find), strlen(at + strlen(find)));
    return t;
}
/* Parses from an allocation of exactly that size, so that a sanitizer sees a byte read too many. NULL: refused, see
 * `last`. */
static dcp_manifest *try_parse(const char *from, size_t size, const dcp_verifier *verifier) {
    char *copy = (char *)malloc(size ? size : 1);
    dcp_manifest *m;
    dcp_status status;
    CHECK(copy != NULL);
    if (size) memcpy(copy, from, size);
    status = dcpi_manifest_parse(copy, size, verifier, &m, &last);
    free(copy);
    CHECK((status == DCP_OK) == (m != NULL) && (status == DCP_OK) == (last.message[0] == '\0') &&
          status == last.status);
    return m;
}
static dcp_manifest *parse(const char *document) {
    dcp_manifest *m = try_parse(document, strlen(document), NULL);
    if (!m) printf("%s\n", last.message);
    CHECK(m != NULL);
    return m;
}
static dcp_manifest *parse_sealed(const char *body, int yaml) {
    text t = seal_as(body, type_of(yaml), NULL);
    dcp_manifest *m = parse(t.data);
    free(t.data);
    return m;
}
static text write_as(const dcp_manifest *m, int yaml, const dcp_signer *signer) {
    text t;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_manifest_write(m, yaml, signer, &t.data, &t.size, &err), err.message);
    return t;
}
static int has_finding(char **list, size_t count, const char *words) {
    size_t i;
    for (i = 0; i < count; i++) if (strstr(list[i], words)) return 1;
    return 0;
}
static void print_findings(const dcp_validation *v) {
    size_t i;
    for (i = 0; i < v->error_count; i++) printf("  error: %s\n", v->errors[i]);
    for (i = 0; i < v->warning_count; i++) printf("  warning: %s\n", v->warnings[i]);
}
/* Validating gives exactly these numbers of findings, one of which has the words. */
static void finds(const dcp_manifest *m, size_t errors, size_t warnings, const char *words) {
    dcp_validation v;
    dcp_status status = dcp_manifest_validate(m, &v);
    if (v.error_count != errors || v.warning_count != warnings || !(has_finding(v.errors, v.error_count, words) ||
                                                                    has_finding(v.warnings, v.warning_count, words))) {
        if (errors + warnings > 0 || v.error_count + v.warning_count > 0) {
            printf("want %d errors, %d warnings, \"%s\"; found:\n", (int)errors, (int)warnings, words);
            print_findings(&v);
            test_fail(__FILE__, __LINE__, words, " (findings differ)");
        }
    }
    CHECK_INT(status, errors > 0 ? DCP_E_FORMAT : DCP_OK);
    dcp_validation_free(&v);
}
/* The golden document with a change, in both syntaxes where `yaml_find` is given: what is found. */
static void change_finds(const char *find, const char *put, size_t errors, size_t warnings, const char *words) {
    text t = replaced(golden_json, find, put);
    dcp_manifest *m = parse_sealed(t.data, 0);
    finds(m, errors, warnings, words);
    dcp_manifest_free(m);
    free(t.data);
}
static void seed_change_finds(const char *find, const char *put, size_t errors, size_t warnings, const char *words) {
    text t = replaced(seed_yaml, find, put);
    dcp_manifest *m = parse(t.data);
    finds(m, errors, warnings + 2, words);              /* two invalid checksums */
    dcp_manifest_free(m);
    free(t.data);
}
/* A document that does not parse. */
static void refuses(const char *document, dcp_status status, const char *words) {
    dcp_manifest *m = try_parse(document, strlen(document), NULL);
    if (m || last.status != status || !strstr(last.message, words))
        printf("want %s: %s\ngot %s: %s\n", dcp_status_name(status), words, dcp_status_name(last.status), last.message);
    CHECK(m == NULL && last.status == status && strstr(last.message, words) != NULL);
}
static void change_refuses(int yaml, const char *find, const char *put, dcp_status status, const char *words) {
    text t = replaced(golden(yaml), find, put), sealed = seal_as(t.data, type_of(yaml), NULL);
    refuses(sealed.data, status, words);
    free(t.data);
    free(sealed.data);
}

/* ---- the seed's example ------------------------------------------------------------------------------------------ */
TEST(seed_example_loads_as_it_stands) {
    dcp_manifest *m = parse(seed_yaml);
    CHECK_STR(m->model_id, "lite\xE2\x80\x91llm\xE2\x80\x91" "base");
    CHECK_INT(m->epoch, 5);
    CHECK_INT(m->step, 10000);
    CHECK_INT(m->tier_count, 2);
    CHECK_INT(m->tiers[0].tier.tier_id, 1);
    CHECK_STR(m->tiers[1].tier.name, "warm");
    CHECK_STR(m->tiers[0].tier.size_budget, "40GB");
    CHECK_INT(m->tiers[0].budget_bytes, 40000000000);
    CHECK_STR(m->tiers[1].tier.placement_policy, "lru");
    CHECK_INT(m->shard_count, 2);
    CHECK_STR(m->shards[0].path, "dense/layer_0/attention_q_0_0_of_2.bin");
    CHECK_STR(m->shards[0].type, "dense");
    CHECK_STR(m->shards[0].tensor_name, "attention_q");
    CHECK(!m->shards[0].has_expert_key && m->shards[1].has_expert_key && m->shards[1].tensor_name == NULL);
    CHECK(m->shards[1].expert_key[0] == 2 && m->shards[1].expert_key[1] == 0 && m->shards[1].expert_key[2] == 1);
    CHECK(m->shards[0].ndim == 2 && m->shards[0].shape[0] == 512 && m->shards[0].shape[1] == 1024);
    CHECK_STR(m->shards[1].dtype, "bf16");
    CHECK_STR(m->shards[1].tier_hint, "warm");
    CHECK_STR(m->shards[0].checksum, "abc123");
    CHECK(m->shards[0].version == 1 && m->shards[1].version == 0);
    CHECK(m->shards[0].size == -1 && m->shards[0].rank == -1 && m->shards[0].placement == NULL &&
          m->shards[0].extra == NULL);
    CHECK(m->optim_state.is_there && m->router_state.is_there);
    CHECK_STR(m->optim_state.path, "optim/state_0.bin");
    CHECK_STR(m->router_state.path, "router/state_0.bin");
    CHECK_INT(m->metadata_version, 1);
    CHECK(m->is_foreign && m->is_yaml && m->save_id == NULL && m->timestamp == NULL && m->extra == NULL);
    finds(m, 0, 2, "shards[0].checksum: \"abc123\" is neither");
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}
/* Digits are text there, as they stand, quoted or not; elsewhere they stay numbers. */
TEST(a_checksum_of_digits_needs_no_quotes) {
    static const char *const digits[] = { "0123", "12", "1e5", "0x1F", "1.50",
        "0123456789012345678901234567890123456789012345678901234567890123" };
    size_t i;
    for (i = 0; i < DCPI_COUNT(digits); i++) {
        char put[96];
        text t;
        dcp_manifest *m;
        dcp_json *tree;
        (void)snprintf(put, sizeof put, "checksum: %s # no quotes", digits[i]);
        t = replaced(seed_yaml, "checksum: \"abc123\"", put);
        m = parse(t.data);
        CHECK_STR(m->shards[0].checksum, digits[i]);
        CHECK_INT(m->shards[0].version, 1);
        dcp_manifest_free(m);
        CHECK_OK_MESSAGE(yaml_tree(put, strlen(put), &tree, &last), last.message);
        CHECK(dcp_json_string(dcp_json_get(tree, "checksum"), NULL) == NULL);
        dcp_json_free(tree);
        free(t.data);
    }
    refuses("shards:\n  - { checksum: [0123] }\n", DCP_E_FORMAT, "shards[0].checksum: line 2, column 17");
    CHECK_INT(alloc_live, 0);
}
TEST(seed_example_rewritten_in_either_syntax_says_the_same) {
    dcp_manifest *m = parse(seed_yaml), *again;
    int yaml, other;
    for (yaml = 0; yaml < 2; yaml++) {
        text first = write_as(m, yaml, NULL);
        again = parse(first.data);
        CHECK(!again->is_foreign && again->is_yaml == yaml && again->shard_count == 2 && again->step == 10000);
        for (other = 0; other < 2; other++) {
            text a = write_as(m, other, NULL), b = write_as(again, other, NULL);
            CHECK_STR(b.data, a.data);
            dcp_free(a.data);
            dcp_free(b.data);
        }
        dcp_manifest_free(again);
        dcp_free(first.data);
    }
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}

/* ---- written and read byte for byte ------------------------------------------------------------------------------ */
TEST(golden_documents_are_written_byte_for_byte) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    static const char *const tails[2] = {JSON_TAIL(JSON_VALUE), YAML_TAIL(YAML_VALUE)};
    static const char *const signed_tails[2] = {JSON_SIGNATURE(JSON_HMAC) JSON_TAIL(JSON_SIGNED_VALUE),
                                                YAML_SIGNATURE(YAML_HMAC) YAML_TAIL(YAML_SIGNED_VALUE)};
    int from, to;
    for (from = 0; from < 2; from++) {
        dcp_manifest *m = parse_sealed(golden(from), from);
        finds(m, 0, 0, "");
        for (to = 0; to < 2; to++) {
            text t = write_as(m, to, NULL), s = write_as(m, to, &signer), want = text_of(golden(to));
            const char *loose = strstr(t.data, "\"optimizer_state\": { \"b\"");
            dcpi_content source;
            int64_t bytes;
            if (from == 1 && to == 0) {                 /* free text is as it came: from YAML with spaces */
                text spaced = replaced(golden_json, "{\"b\": [0.9, 1e-8]}", "{ \"b\": [0.9, 1e-8] }");
                CHECK(loose != NULL && strncmp(t.data, spaced.data, spaced.size) == 0);
                free(spaced.data);
            } else {
                text_add(&want, tails[to], strlen(tails[to]));
                CHECK_STR(t.data, want.data);
                want.size = strlen(golden(to));
                text_add(&want, signed_tails[to], strlen(signed_tails[to]));
                CHECK_STR(s.data, want.data);
            }
            source = dcpi_content_of(NULL, m);
            CHECK_OK(dcpi_manifest_emit(&source, to, &signer, NULL, NULL, &bytes, &last));
            CHECK_INT(bytes, s.size);
            dcp_free(t.data);
            dcp_free(s.data);
            free(want.data);
        }
        dcp_manifest_free(m);
    }
    CHECK_INT(alloc_live, 0);
}
TEST(golden_documents_are_parsed_field_by_field) {
    int yaml;
    for (yaml = 0; yaml < 2; yaml++) {
        dcp_manifest *m = parse_sealed(golden(yaml), yaml);
        const dcp_manifest_shard *s = m->shards;
        uint64_t seed;
        CHECK_STR(m->model_id, "lite-llm: base");
        CHECK(m->step == 9007199254740993 && m->epoch == 5 && m->min_reader_version == 1 && m->metadata_version == 1);
        CHECK(m->tier_count == 2 && m->tiers[0].budget_bytes == 40000000000 && m->tiers[1].budget_bytes == -1);
        CHECK(m->shard_count == 3 && s[0].size == 8192 && s[1].version == 3 && s[0].rank == 0 && s[1].rank == 1 &&
              s[2].rank == -1);
        CHECK(s[1].global_shape[0] == 512 && s[1].global_offset[0] == 256 && s[1].global_offset[1] == 0);
        CHECK_STR(s[1].placement, "sharded");
        CHECK(s[0].block_size == 4194304 && s[0].block_count == 1 && s[0].block_checksums[31] == 0x11 &&
              s[1].block_count == 0);
        CHECK(s[2].has_expert_key && s[2].expert_key[2] == 1 && s[2].size == 2);
        CHECK(m->optim_state.shard_count == 1 && m->optim_state.shards[0].ndim == 0 &&
              m->optim_state.shards[0].type == NULL);
        CHECK(m->router_state.layer_count == 2 && m->router_state.layers[1].shard_count == 1 &&
              m->router_state.path == NULL);
        CHECK_OK(dcp_manifest_router_seed(m, 0, &seed));
        CHECK(seed == UINT64_MAX);
        CHECK_OK(dcp_manifest_router_seed(m, 7, &seed));
        CHECK_INT(seed, 42);
        CHECK_INT(dcp_manifest_router_seed(m, 1, &seed), DCP_E_NOT_FOUND);
        CHECK_STR(m->save_id, "9f86d081884c7d65");
        CHECK(m->sequence == 12 && m->world_size == 2 && m->has_sharding && m->has_training && !m->is_foreign &&
              m->is_yaml == yaml);
        CHECK_STR(m->timestamp, "2026-11-20T12:00:00.123456Z");
        CHECK_STR(m->sharding.strategy, "fsdp");
        CHECK(m->sharding.shard_count == 2 && m->training.step == 100);
        CHECK_STR(m->training.optimizer_type, "adamw");
        CHECK(m->field_count == 3);
        CHECK_STR(m->fields[1].key, "no");
        CHECK_STR(m->fields[1].value, "1.0");
        CHECK_STR(m->fields[2].value, "a\nb");
        CHECK(m->signature_algorithm == NULL);
        dcp_manifest_free(m);
    }
    CHECK_INT(alloc_live, 0);
}
/* The quick reader and that of all JSON: the same document with its members in another order, and other white space. */
TEST(members_may_stand_in_any_order) {
    text t = seal_as("{\"shards\": [{\"version\": 4, \"path\": \"a\", \"size\": 8, \"shape\": [1,2], \"rank\": 3, "
                     "\"expert_key\":[1,2,3], \"dtype\":\"fp32\"," "\"type\":\"expert\"}], \"metadata_version\": 1",
                     "manifest/json", NULL);
    dcp_manifest *m = parse(t.data);
    CHECK(m->shard_count == 1 && m->shards[0].version == 4 && m->shards[0].size == 8 && m->shards[0].rank == 3 &&
          m->shards[0].ndim == 2);
    CHECK(m->shards[0].has_expert_key && m->shards[0].expert_key[1] == 2);
    CHECK_STR(m->shards[0].type, "expert");
    dcp_manifest_free(m);
    free(t.data);
}
TEST(absent_and_null_are_the_same) {
    dcp_manifest *m =
        parse("shards:\n  - path: a\n    type:\n    shape: null\n    checksum: ~\noptim_state:\nrouter_state: "
              "null\ntiers:\n");
    CHECK(m->shard_count == 1 && m->shards[0].type == NULL && m->shards[0].ndim == -1 && m->shards[0].checksum == NULL);
    CHECK(!m->optim_state.is_there && !m->router_state.is_there && m->tier_count == 0 && m->metadata_version == 0);
    dcp_manifest_free(m);
}
TEST(integers_may_have_underscores) {
    static const char *const good[] = {"1_000", "0_1", "12_34_56", "9_223372036854775807"},
                                      *const bad[] = {"_1", "1_", "1__0", "1_x", "-1_0", "\"5\"",
                                                      "9_223372036854775808", "1.5", "1e3", "''"};
    char document[100];
    size_t i;
    int64_t want[] = {1000, 1, 123456, INT64_MAX};
    for (i = 0; i < DCPI_COUNT(good); i++) {
        dcp_manifest *m;
        (void)snprintf(document, sizeof document, "step: %s\n", good[i]);
        m = parse(document);
        CHECK(m->step == want[i]);
        dcp_manifest_free(m);
        (void)snprintf(document, sizeof document, "{\"step\": \"%s\"}", good[i]);
        m = parse(document);                            /* the same tree, so the same manifest */
        CHECK(m->step == want[i]);
        dcp_manifest_free(m);
    }
    for (i = 0; i < DCPI_COUNT(bad); i++) {
        (void)snprintf(document, sizeof document, "step: %s\n", bad[i]);
        refuses(document, DCP_E_FORMAT, "step: line 1, column 7");
    }
}

/* ---- unknown members --------------------------------------------------------------------------------------------- */
static const char unknown_json[] =
    "{ \"future\": {\"a\":[1, {\"b\":null}], \"c\": \"x\\ny\"}, \"also\": 1.5e999,\n"
    "  \"tiers\": [ {\"tier_id\": 1, \"name\": \"hot\", \"color\": \"red\"} ],\n"
    "  \"shards\": [ {\"path\": \"a\", \"type\": \"dense\", \"tensor_name\": \"t\", \"shape\": [1], \"dtype\": "
    "\"fp32\", \"version\": 1, \"codec\": [\"z\", 3]} ],\n"
    "  \"optim_state\": {\"path\": \"o\", \"kind\": \"adam\"}, \"router_state\": {\"path\": \"r\", \"noise\": {\"k\": "
    "true}},\n"
    "  \"metadata_version\": 9 }";
TEST(unknown_members_survive_every_rewrite_at_every_level) {
    static const char *const kept[2][7] = {
        {"\"future\": {", "\"also\": 1.5e999", "\"color\": \"red\"", "\"codec\": [\"z\", 3]", "\"kind\": \"adam\"",
          "\"noise\": {", "\"metadata_version\": 9"},
        {"\n\"future\": { \"a\": [1, { \"b\": null }], \"c\": \"x\\ny\" }\n", "\n\"also\": 1.5e999\n",
          "\n    \"color\": \"red\"\n",
        "\n    \"codec\": [\"z\", 3]\n",
         "\n  \"kind\": \"adam\"\n", "\n  \"noise\": { \"k\": true }\n", "\nmetadata_version: 9\n"}
    };
    dcp_manifest *m = parse(unknown_json);
    int hop, i;
    finds(m, 0, 3, "metadata_version: 9 is newer");     /* and neither a model nor a checksum */
    for (hop = 0; hop < 6; hop++) {                     /* JSON, YAML, YAML, JSON, JSON, YAML */
        const int yaml = hop == 1 || hop == 2 || hop == 5;
        text t = write_as(m, yaml, NULL);
        for (i = 0; i < 7; i++) {
            if (!strstr(t.data, kept[yaml][i])) printf("lost %s in %s\n", kept[yaml][i], t.data);
            CHECK(strstr(t.data, kept[yaml][i]) != NULL);
        }
        dcp_manifest_free(m);
        m = parse(t.data);
        dcp_free(t.data);
    }
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}
TEST(unknown_members_of_additions_survive) {
    /* a layer that has shards, and one that has none */
    text s = replaced(golden_json, "\"layer\": 7,", "\"layer\": 7, \"cold\": 3,");
    text t = replaced(s.data, "\"layer\": 0,", "\"layer\": 0, \"temp\": 2,"),
             u = replaced(t.data, "\"strategy\": \"fsdp\",", "\"strategy\": \"fsdp\", \"mesh\": [2],");
    text v = replaced(u.data, "\"learning_rate\"", "\"warmup\": 7, \"learning_rate\""),
             w = replaced(v.data, "\"tensor_name\": \"gate\",", "\"tensor_name\": \"gate\", \"g\": {},");
    dcp_manifest *m = parse_sealed(w.data, 0);
    text yaml = write_as(m, 1, NULL), json;
    dcp_manifest *again = parse(yaml.data);
    finds(again, 0, 0, "");
    json = write_as(again, 0, NULL);
    CHECK_STR(again->router_state.layers[1].extra, "\"cold\": 3");
    CHECK(strstr(json.data, "\"temp\": 2") && strstr(json.data, "\"cold\": 3") && strstr(json.data, "\"mesh\": [2]") &&
          strstr(json.data, "\"warmup\": 7") && strstr(json.data, "\"g\": {}"));
    CHECK_STR(again->router_state.layers[1].shards[0].extra, "\"g\": {}");
    dcp_manifest_free(m);
    dcp_manifest_free(again);
    dcp_free(yaml.data);
    dcp_free(json.data);
    free(s.data); free(t.data); free(u.data); free(v.data); free(w.data);
    CHECK_INT(alloc_live, 0);
}
TEST(newer_versions) {
    dcp_manifest *m = parse("metadata_version: 2\nshards: []\n");
    finds(m, 0, 3, "metadata_version: 2 is newer");
    dcp_manifest_free(m);
    refuses("min_reader_version: 2\nshards: 5\n", DCP_E_VERSION,
            "needs a reader of version 2; this program has version 1");
    refuses("{\"shards\": {\"a\": 1}, \"min_reader_version\": 2}", DCP_E_VERSION,
            "min_reader_version: this manifest needs a reader of version 2");
    refuses("shards: 5\n", DCP_E_FORMAT, "shards: line 1, column 9 (byte 8): expected an array");
    change_refuses(1, "min_reader_version: 1", "min_reader_version: 300", DCP_E_VERSION,
                   "needs a reader of version 300");
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */
TEST(every_rule_of_the_document) {
    change_finds("\"epoch\": 5,\n  \"step\"", "\"epoch\": -1,\n  \"step\"", 1, 0, "epoch: must not be negative");
    change_finds("\"step\": 9007199254740993", "\"step\": -1", 1, 0, "step: must not be negative");
    change_finds("\"model_id\": \"lite-llm: base\",\n", "", 0, 1, "model_id: a model id is required");
    change_finds("\"metadata_version\": 1", "\"metadata_version\": 0", 1, 0,
                 "metadata_version: it is required and at least 1");
    change_finds("\"metadata_version\": 1,\n", "", 1, 0, "metadata_version");
    change_finds("\"min_reader_version\": 1", "\"min_reader_version\": -1", 1, 0, "min_reader_version");
    change_finds("9f86d081884c7d65", "9F86d081884c7d65", 1, 0, "save_id");
    change_finds("\"sequence\": 12", "\"sequence\": -12", 1, 0, "sequence: must not be negative");
    change_finds("2026-11-20T", "2026-02-30T", 1, 0, "timestamp");
    change_finds("\"world_size\": 2", "\"world_size\": -2", 1, 0, "world_size: must not be negative");
    change_finds("\"world_size\": 2", "\"world_size\": 1", 1, 0, "shards[1].rank: 1 is not below world_size");
    change_finds("\"rank\": 1", "\"rank\": -5", 1, 0, "shards[1].rank: must not be negative");
    change_finds("\"layer\": 7", "\"layer\": -7", 1, 0, "router_state.layers[1].layer: must not be negative");
    change_finds("\"layer\": 7", "\"layer\": 0", 1, 0,
                 "router_state.layers[1].layer: router_state.layers[0] has the same one");
    change_finds("\"optim/m_0_of_1.bin\"", "\"../state\"", 1, 0, "optim_state.path");
    seed_change_finds("metadata_version: 1", "metadata_version: -3", 1, 0, "metadata_version");
}
TEST(every_rule_of_tiers) {
    change_finds("\"tier_id\": 2", "\"tier_id\": -2", 1, 0, "tiers[1].tier_id: must not be negative");
    change_finds("\"tier_id\": 2", "\"tier_id\": 1", 1, 0, "tiers[1].tier_id: tiers[0] has the same one");
    change_finds("\"name\": \"warm\"", "\"name\": \"hot\"", 1, 1, "tiers[1].name: tiers[0] has the same one");
    change_finds("\"name\": \"warm\"", "\"name\": \"\"", 1, 1, "tiers[1].name: a name is required");
    change_finds("\"tier_hint\": \"warm\"", "\"tier_hint\": \"cold\"", 0, 1,
                 "shards[2].tier_hint: there is no tier \"cold\"");
    change_finds("\"tier_hint\": \"warm\"", "\"tier_hint\": \"2\"", 0, 0, "");
    change_finds("40GB", "40 giga", 1, 0, "tiers[0].size_budget: \"40 giga\" is not a number of bytes");
    change_finds("40GB", "-1", 1, 0, "tiers[0].size_budget");
    change_finds("40GB", "10EB", 1, 0, "tiers[0].size_budget");
    change_finds("40GB", "9EB", 0, 0, "");
}
TEST(size_budgets) {
    static const struct { const char *text; int64_t bytes; } cases[] = {
        {"40GB", 40000000000}, {"512MiB", 536870912}, {"0", 0}, {"1000", 1000}, {"1000B", 1000}, {"1 KB", 1000},
            {"1kib", 1024}, {"10_000", 10000}, {"7TiB",
        7696581394432},
        {"1PB", 1000000000000000}, {"7EiB", 8070450532247928832}, {"8EiB", -1}, {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", -1},
        {"99999999999999999999", -1},
        {"", -1}, {"GB", -1}, {"-5", -1}, {"+5", -1}, {"1.5GB", -1}, {"5G", -1}, {"5GBB", -1}, {"5XB", -1}, {"5 ", 5},
        {"_5", -1}, {"5_", -1}, {"5__0", -1},
        {"5iB", -1}, {"0x10", -1}
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(cases); i++) {
        if (dcpi_manifest_budget(cases[i].text) != cases[i].bytes) printf("%s\n", cases[i].text);
        CHECK_INT(dcpi_manifest_budget(cases[i].text), cases[i].bytes);
    }
    {
        dcp_manifest *m = parse("tiers:\n  - tier_id: 1\n    size_budget: 4096\n");
        CHECK_INT(m->tiers[0].budget_bytes, 4096);
        CHECK_STR(m->tiers[0].tier.size_budget, "4096");
        dcp_manifest_free(m);
    }
}
TEST(every_rule_of_a_shard) {
    change_finds("dense/wq_0_of_2.bin", "", 1, 0, "shards[0].path: a file path is required");
    change_finds("dense/wq_0_of_2.bin", "dense/victim.metadata.json", 1, 0,
                 "shards[0].path: \"dense/victim.metadata.json\" has the name of a commit");
    change_finds("dense/wq_0_of_2.bin", "x.COMMIT.LOCK", 1, 0,
                 "shards[0].path: \"x.COMMIT.LOCK\" has the name of a commit file, a lock");
    change_finds("dense/wq_0_of_2.bin", "x.checkpoint", 1, 0, "shards[0].path: \"x.checkpoint\" has the name");
    change_finds("dense/wq_0_of_2.bin", "dense/x.tmp", 1, 0, "shards[0].path: \"dense/x.tmp\" has the name");
    change_finds("\"type\": \"dense\"", "\"type\": \"sparse\"", 1, 0,
                 "shards[0].type: \"sparse\" is neither dense nor expert");
    change_finds(", \"type\": \"dense\"", "", 1, 0, "shards[0].type: a type is required");
    change_finds(", \"tensor_name\": \"wq\"", "", 1, 0, "shards[0].tensor_name: a tensor_name is required");
    change_finds("\"tensor_name\": \"up\"", "\"tensor_name\": \"u\\u0001p\"", 1, 0, "shards[2].tensor_name");
    change_finds(", \"expert_key\": [2, 0, 1]", "", 1, 0, "shards[2].expert_key: an expert needs its key");
    change_finds("[2, 0, 1]", "[2, 0, -1]", 1, 0, "shards[2].expert_key: must not be negative");
    change_finds("\"type\": \"expert\"", "\"type\": \"dense\"", 1, 0, "shards[2].expert_key: a dense shard has none");
    change_finds("\"shape\": [3]", "\"shape\": [5]", 1, 0, "shards[2].size: 2 bytes, but 5 elements of int4 have 3");
    change_finds("\"shape\": [3]", "\"shape\": [-3]", 1, 0, "shards[2].shape: dimension 0 is negative");
    change_finds("\"shape\": [3]", "\"shape\": [4611686018427387904, 4]", 1, 0,
                 "shards[2].shape: the number of elements does not fit");
    change_finds("      \"shape\": [3], ", "", 1, 0, "shards[2].shape: a shape is required");
    change_finds("\"dtype\": \"int4\", ", "", 1, 0, "shards[2].dtype: a data type is required");
    change_finds("\"dtype\": \"int4\"", "\"dtype\": \"int3\"", 0, 1, "shards[2].dtype: \"int3\" is unknown");
    change_finds(", \"size\": 2 }", " }", 1, 0, "shards[2].size: a size is required");
    change_finds("\"size\": 2 }", "\"size\": -7 }", 1, 0, "shards[2].size: must not be negative: -7");
    change_finds("\"version\": 3", "\"version\": -3", 1, 0, "shards[1].version: must not be negative");
    change_finds("\"checksum\": \"" FLAT "\", \"version\": 3", "\"checksum\": \"abc123\", \"version\": 3", 1, 0,
                 "shards[1].checksum: \"abc123\" is neither");
    change_finds("\"checksum\": \"" FLAT "\", \"version\": 3", "\"version\": 3", 1, 0,
                 "shards[1].checksum: shard 1 is missing its checksum");
    change_finds("\"checksum\": \"2222", "\"checksum\": \"ABCD", 1, 0,
                 "shards[1].checksum: hex digits must be lower case");
    change_finds(T1, FLAT, 1, 0, "shards[0].block_checksums: block digests stand only beside");
    change_finds("[\"" D1 "\"]", "[\"" FLAT "\"]", 1, 0,
                 "shards[0].checksum: it is not the SHA-256 of the shard's block digests");
    change_finds(", \"block_size\": 4194304, \"block_checksums\": [\"" D1 "\"]", "", 1, 0,
                 "shards[0].block_checksums: block digests are required");
    change_finds("\"block_size\": 4194304, ", "", 2, 0, "shards[0].block_size: a block size is required");
    change_finds("\"block_size\": 4194304", "\"block_size\": 4194305", 1, 0,
                 "shards[0].block_size: 4194305 is not a power of two");
    change_finds("[\"" D1 "\"]", "[\"" D1 "\", \"" D1 "\"]", 2, 0,
                 "shards[0].block_checksums: 2 digests, but 8192 bytes have 1 blocks");
    change_finds("\"global_offset\": [256, 0]", "\"global_offset\": [257, 0]", 1, 0,
        "shards[1].global_offset: dimension 0: 256 elements from 257 on do not fit into the whole's 512");
    change_finds("\"global_offset\": [256, 0]", "\"global_offset\": [-1, 0]", 1, 0,
                 "shards[1].global_offset: dimension 0 is negative");
    change_finds("\"global_shape\": [512, 8], \"global_offset\": [256, 0], \"placement\": \"sharded\"",
        "\"global_shape\": [512, 8], \"global_offset\": [256, 0]", 2, 0,
                 "shards[1].placement: a placement is required beside the shape of the whole");
    change_finds("\"placement\": \"sharded\", \"rank\": 1", "\"placement\": \"scattered\", \"rank\": 1", 2, 0,
                 "shards[1].placement: \"scattered\" is not sharded");
    change_finds("\"placement\": \"sharded\", \"rank\": 1", "\"placement\": \"private\", \"rank\": 1", 2, 0,
        "shards[1].global_shape: a private tensor is whole");
    seed_change_finds("shape: [512, 1024]", "shape: [512, -1]", 1, 0, "shards[0].shape");
    seed_change_finds("version: 1", "version: -1", 1, 0, "shards[0].version: must not be negative");
    seed_change_finds("tier_hint: hot", "tier_hint: cool", 0, 1, "shards[0].tier_hint");
    seed_change_finds("type: dense", "type: expert", 1, 0, "shards[0].expert_key: an expert needs its key");
    seed_change_finds("expert_key: [2,0,1]", "expert_key: [2,0,-1]", 1, 0, "shards[1].expert_key");
}
TEST(paths_cannot_leave_the_directory) {
    static const char *const bad[] = {"../a", "a/../b", "/a", "a//b", "a/", "./a", "a/.", "..", ".", "a\\\\b", "c:/a",
                                      "a\\u0000b", "a\\u0007b", "a\\u007fb", "\\u0085", "a/..", "//", "a:b"};
    char put[100];
    size_t i;
    for (i = 0; i < DCPI_COUNT(bad); i++) {
        (void)snprintf(put, sizeof put, "\"path\": \"%s\"", bad[i]);
        if (strstr(bad[i], "u0000"))
            change_refuses(0, "\"path\": \"dense/wq_0_of_2.bin\"", put, DCP_E_FORMAT, "shards[0].path: line 13");
        else change_finds("\"path\": \"dense/wq_0_of_2.bin\"", put, 1, 0, "shards[0].path: \"");
        if (strstr(bad[i], "u0000")) continue;
        (void)snprintf(put, sizeof put, "\"path\": \"%s\", \"tensor_name\": \"m\"", bad[i]);
        change_finds("\"path\": \"optim/m_0_of_1.bin\", \"tensor_name\": \"m\"", put, 1, 0,
                     "optim_state.shards[0].path: \"");
        (void)snprintf(put, sizeof put, "\"path\": \"%s\"", bad[i]);
        change_finds("\"path\": \"router/gate_0_of_1.bin\"", put, 1, 0, "router_state.layers[1].shards[0].path: \"");
        (void)snprintf(put, sizeof put, "path: \"%s\"", bad[i]);
        seed_change_finds("path: dense/layer_0/attention_q_0_0_of_2.bin", put, 1, 0, "shards[0].path: \"");
    }
    change_finds("dense/wq_0_of_2.bin", "dense/...hidden/\xC3\xA9 x.bin", 0, 0, "");
}
/* What cannot be everywhere, or is shown as something else, is no error in a document that is there. */
TEST(names_that_some_system_cannot_have) {
    static const char *const paths[] = { "dense/con.bin", "NUL", "dense./a", "dense/a ", ("a\xE2\x80\xAE" "b"), "a?b" };
    char put[100];
    size_t i;
    for (i = 0; i < DCPI_COUNT(paths); i++) {
        dcp_manifest_shard shard = DCP_ZERO;
        dcp_manifest *m;
        (void)snprintf(put, sizeof put, "\"path\": \"%s\"", paths[i]);
        change_finds("\"path\": \"dense/wq_0_of_2.bin\"", put, 0, 1, "shards[0].path: \"");
        CHECK_OK(dcp_manifest_new(&m, &last));
        m->model_id = "m";
        shard.path = paths[i];
        shard.type = "dense";
        shard.tensor_name = i % 2 ? "t" : "t\xE2\x81\xA7";
        shard.dtype = "fp32";
        shard.checksum = FLAT;
        shard.size = 4;
        shard.rank = -1;
        CHECK_OK(dcp_manifest_add_shard(m, &shard, &last));
        finds(m, i % 2 ? 1 : 2, 0, "shards[0].path: \"");
        dcp_manifest_free(m);
    }
    change_finds("\"tensor_name\": \"up\"", "\"tensor_name\": \"u\xE2\x80\x8Fp\"", 0, 1,
                 "shards[2].tensor_name: a character in it turns");
    change_finds("\"name\": \"warm\"", "\"name\": \"warm\xD8\x9C\"", 0, 2, "tiers[1].name: a character in it turns");
    CHECK_INT(alloc_live, 0);
}
TEST(rules_of_shards_beside_each_other) {
    change_finds("dense/wq_1_of_2.v3.bin", "dense/wq_0_of_2.bin", 1, 0,
        "shards[1].path: \"dense/wq_0_of_2.bin\" is also in shards[0], with another size or checksum");
    change_finds("optim/m_0_of_1.bin\", \"tensor", "dense/wq_0_of_2.bin\", \"tensor", 1, 0,
                 "optim_state.shards[0].path: \"dense/wq_0_of_2.bin\" is also in shards[0]");
    change_finds("router/gate_0_of_1.bin", "optim/m_0_of_1.bin", 1, 0,
        "router_state.layers[1].shards[0].path: \"optim/m_0_of_1.bin\" is also in optim_state.shards[0]");
    change_finds("\"global_shape\": [512, 8], \"global_offset\": [256, 0]",
                 "\"global_shape\": [600, 8], \"global_offset\": [256, 0]", 1, 0,
                 "shards[1].global_shape: it is [600, 8], and in shards[0] [512, 8]");
    change_finds("\"dtype\": \"fp32\", \"tier_hint\": \"hot\", \"checksum\": \"2",
                 "\"dtype\": \"int32\", \"tier_hint\": \"hot\", \"checksum\": \"2", 1, 0,
                 "shards[1].dtype: it is int32, and in shards[0] fp32");
    change_finds("\"global_offset\": [256, 0]", "\"global_offset\": [0, 0]", 1, 0,
                 "shards[1].global_offset: shards[0] is the same piece of the same tensor");
    change_finds(",\n      \"global_shape\": [512, 8], \"global_offset\": [256, 0], \"placement\": \"sharded\"", "", 1,
                 0, "shards[1].placement: it is absent, and in shards[0] sharded");
    seed_change_finds("metadata_version", "zzz: 1\nmetadata_version", 0, 0, "");
    {                                                   /* the seed's own kind: pieces of which nothing is said */
        text t = replaced(seed_yaml, "  - path: experts",
            "  - path: dense/layer_0/attention_q_0_1_of_2.bin\n    type: dense\n    tensor_name: attention_q\n    "
            "shape: [512, 1024]\n" "    dtype: bf16\n    version: 0\n  - path: experts");
        dcp_manifest *m = parse(t.data);
        finds(m, 0, 4, "shards[1].global_offset: shards[0] is a piece of the same tensor, and nothing says how the two "
                       "fit together");
        dcp_manifest_free(m);
        free(t.data);
    }
    {                                                   /* one file twice is fine if it is the same bytes */
        text t = replaced(golden_json, "\"path\": \"optim/m_0_of_1.bin\", \"tensor_name\": \"m\"",
            "\"path\": \"optim/m_0_of_1.bin\", \"tensor_name\": \"n\",\n        \"shape\": [], "
                          "\"dtype\": \"fp64\", \"checksum\": \""
                          FLAT "\", \"version\": 1, \"size\": 8 },\n      { \"path\": \"optim/m_0_of_1.bin\", "
                               "\"tensor_name\": \"m\"");
        dcp_manifest *m = parse_sealed(t.data, 0);
        CHECK_INT(m->optim_state.shard_count, 2);
        finds(m, 0, 0, "");
        dcp_manifest_free(m);
        free(t.data);
    }
    CHECK_INT(alloc_live, 0);
}
TEST(all_errors_are_collected_and_counted) {
    text t = { NULL, 0, 0 };
    dcp_manifest *m;
    dcp_validation v;
    int i;
    text_add(&t, "step: -1\nshards:\n", 17);
    for (i = 0; i < 300; i++) text_add(&t, "  - version: -1\n", 16);
    m = parse(t.data);
    CHECK_INT(dcp_manifest_validate(m, &v), DCP_E_FORMAT);
    CHECK(v.error_count == 101 && v.warning_count == 101);
    CHECK_STR(v.errors[0], "step: must not be negative: -1");
    CHECK(strstr(v.errors[100], "more errors") && strstr(v.warnings[100], "more warnings"));
    dcp_validation_free(&v);
    dcp_manifest_free(m);
    free(t.data);
    CHECK_INT(dcp_manifest_validate(NULL, &v), DCP_E_INVALID);
    CHECK_INT(alloc_live, 0);
}

/* ---- what does not parse ----------------------------------------------------------------------------------------- */
TEST(types_of_members_are_checked_with_their_place) {
    refuses("model_id: 5\n", DCP_E_FORMAT, "model_id: line 1, column 11 (byte 10): expected a string");
    refuses("epoch: 1\nstep: text\n", DCP_E_FORMAT, "step: line 2, column 7");
    refuses("shards:\n  - path: a\n  - path: b\n    shape: [1, x]\n", DCP_E_FORMAT,
            "shards[1].shape: line 4, column 16");
    refuses("{\"shards\": [{\"path\": \"a\", \"shape\": [1, 2.5]}]}", DCP_E_FORMAT,
            "shards[0].shape: line 1, column 40");
    refuses("shards:\n  - expert_key: [1, 2]\n", DCP_E_FORMAT, "shards[0].expert_key");
    refuses("shards:\n  - expert_key: [1, 2, 3, 4]\n", DCP_E_FORMAT, "shards[0].expert_key");
    refuses("shards:\n  - shape: [1, 1, 1, 1, 1, 1, 1, 1, 1]\n", DCP_E_FORMAT, "more than 8 dimensions");
    refuses("shards:\n  - shape: [1]\n    global_shape: [1, 2]\n", DCP_E_FORMAT, "shards[0].global_shape");
    refuses("shards:\n  - block_checksums: [\"12\"]\n", DCP_E_FORMAT, "shards[0].block_checksums: line 2");
    refuses("tiers:\n  - tier_id: 1\n  - tier_id: one\n", DCP_E_FORMAT, "tiers[1].tier_id: line 3, column 14");
    refuses("router_state:\n  layers:\n    - seed: -1\n", DCP_E_FORMAT,
            "router_state.layers[0].seed: line 3, column 13");
    refuses("router_state:\n  layers:\n    - seed: 18446744073709551616\n", DCP_E_FORMAT, "seed");
    refuses("optim_state:\n  shards:\n    - rank: 3000000000\n", DCP_E_FORMAT, "optim_state.shards[0].rank");
    refuses("step: 9223372036854775808\n", DCP_E_FORMAT, "does not fit 64 bits");
    refuses("training:\n  learning_rate: 1e400\n", DCP_E_FORMAT, "out of range for a double");
    refuses("- 1\n", DCP_E_FORMAT, "expected an object");
    refuses("", DCP_E_FORMAT, "expected an object, found the end");
    refuses("[]", DCP_E_FORMAT, "expected an object");
    refuses("{} x", DCP_E_FORMAT, "the document has ended");
    refuses("a: 1\na: 2\n", DCP_E_FORMAT, "line 2, column 1 (byte 5): duplicate key \"a\"");
    refuses("step: 1\n\"st\\u0065p\": 2\n", DCP_E_FORMAT, "line 2, column 1");
    refuses("{\"step\": 1, \"st\\u0065p\": 2}", DCP_E_FORMAT, "duplicate key");
    refuses("\xEF\xBB\xBF{}", DCP_E_FORMAT, "byte order mark");
    refuses("a: &x 1\n", DCP_E_FORMAT, "anchors");
    refuses("shards:\n  - path: no\n    type: *x\n", DCP_E_FORMAT, "line 3, column 11 (byte 31): aliases");
}
/* The place in a message is that of the member, whatever list came before it. */
TEST(a_place_does_not_outlive_its_list) {
    static const char *const lists[] = {"tiers:\n  - tier_id: 1\n", "shards:\n  - path: a\n",
                                        "optim_state:\n  shards:\n    - path: a\n",
                                        "router_state:\n  layers:\n    - layer: 1\n      shards:\n        - path: a\n",
                                        "training:\n  epoch: 1\n"};
    size_t i;
    for (i = 0; i < DCPI_COUNT(lists); i++) {
        text t = text_of(lists[i]);
        text_add(&t, "step: text\n", 11);
        refuses(t.data, DCP_E_FORMAT, "step: line ");
        CHECK(strncmp(last.message, "step: line ", 11) == 0);
        free(t.data);
    }
    refuses("router_state:\n  layers:\n    - layer: 1\n      shards:\n        - path: a\n      seed: x\n", DCP_E_FORMAT,
            "seed: line 6");
    CHECK(strncmp(last.message, "router_state.layers[0].seed: ", 29) == 0);
}
/* The quick way of reading what our writer writes must not be more lenient than the other: without any one of its marks
 * a document is none. */
TEST(every_mark_is_needed) {
    char *body = (char *)malloc(sizeof golden_json);
    size_t i, removed = 0;
    CHECK(body != NULL);
    for (i = 0; i < sizeof golden_json - 1; i++) {
        text t;
        if (!strchr("[]{},\"", golden_json[i])) continue;
        memcpy(body, golden_json, i);
        memcpy(body + i, golden_json + i + 1, sizeof golden_json - 1 - i);
        t = seal_as(body, type_of(0), NULL);
        refuses(t.data, DCP_E_FORMAT, "line ");
        free(t.data);
        removed++;
    }
    CHECK(removed > 300);
    free(body);
}
TEST(words_that_other_yaml_takes_for_booleans_are_strings) {
    dcp_manifest *m =
        parse("model_id: no\nshards:\n  - path: on\n    checksum: off\n    tier_hint: y\n    tensor_name: yes\n");
    text t;
    CHECK_STR(m->model_id, "no");
    CHECK_STR(m->shards[0].path, "on");
    t = write_as(m, 1, NULL);
    CHECK(strstr(t.data, "model_id: \"no\"\n") && strstr(t.data, "path: \"on\"\n") &&
          strstr(t.data, "checksum: \"off\"\n") && strstr(t.data, "tensor_name: \"yes\"\n"));
    dcp_free(t.data);
    dcp_manifest_free(m);
    refuses("model_id: true\n", DCP_E_FORMAT, "model_id");
    refuses("step: 0o17x\n", DCP_E_FORMAT, "step");
    m = parse("step: 0o17\nepoch: 0x1F\n");
    CHECK(m->step == 15 && m->epoch == 31);
    dcp_manifest_free(m);
}
/* Whatever text: what is written in either syntax is read back as it was. */
TEST(any_text_comes_back) {
    static const char *const texts[] = {
        "~", "null", "Null", "true", "FALSE", "No", "1", "-1", "1e5", "0x1f", ".5", ".inf", "1_000", "2026-11-20",
            "a: b", "a #b", "#a", "- a", "-", "?",
        "? a", ":", "a:", "&a", "*a",
        "!a", "|", ">", "%", "@a", "`a", "'a'", "\"a\"", "a\"b", "a\\b", "a\nb", "a\tb", " a", "a ", "", "[a]", "{a}",
        "a, b", "\x01", "\x7F", "\xC2\x85",
        "\xE2\x80\xA8", ("\xEF\xBB\xBF" "a"),
        "\xF0\x9F\x98\x80", "<<", "=", "a/b.c-d_e", "---", "...", "--- a", "y", "n"
    };
    size_t i;
    int yaml;
    for (i = 0; i < DCPI_COUNT(texts); i++) {
        for (yaml = 0; yaml < 2; yaml++) {
            dcp_manifest m = DCP_ZERO, *again;
            dcp_manifest_shard shard = DCP_ZERO;
            dcp_manifest_tier tier;
            dcp_field field;
            text t;
            memset(&tier, 0, sizeof tier);
            m.model_id = shard.path = shard.type = shard.tensor_name = shard.dtype = shard.tier_hint = shard.checksum =
                shard.placement = texts[i];
            tier.tier.name = tier.tier.size_budget = tier.tier.placement_policy = field.key = field.value = texts[i];
            m.optim_state.path = texts[i];
            m.optim_state.is_there = 1;
            m.shards = &shard; m.shard_count = 1;
            m.tiers = &tier; m.tier_count = 1;
            m.fields = &field; m.field_count = 1;
            t = write_as(&m, yaml, NULL);
            again = try_parse(t.data, t.size, NULL);
            if (!again) printf("%s\n%s\n", last.message, t.data);
            CHECK(again != NULL);
            CHECK_STR(again->model_id, texts[i]);
            CHECK_STR(again->shards[0].path, texts[i]);
            CHECK_STR(again->shards[0].checksum, texts[i]);
            CHECK_STR(again->shards[0].dtype, texts[i]);
            CHECK_STR(again->shards[0].placement, texts[i]);
            CHECK_STR(again->tiers[0].tier.size_budget, texts[i]);
            CHECK_STR(again->fields[0].key, texts[i]);
            CHECK_STR(again->fields[0].value, texts[i]);
            CHECK_STR(again->optim_state.path, texts[i]);
            dcp_manifest_free(again);
            dcp_free(t.data);
        }
    }
    CHECK_INT(alloc_live, 0);
}
TEST(what_cannot_be_written_is_refused_with_its_place) {
    dcp_manifest m = DCP_ZERO;
    dcp_manifest_shard shards[2];
    char *written;
    size_t size;
    int yaml;
    for (yaml = 0; yaml < 2; yaml++) {
        memset(shards, 0, sizeof shards);
        memset(&m, 0, sizeof m);
        m.shards = shards; m.shard_count = 2;
        shards[0].path = "a";
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "shards[1].path: it must not be NULL") && !written && !size);
        shards[1].path = "\xFF";
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "shards[1].path: it is not valid UTF-8"));
        shards[1].path = "b";
        shards[1].ndim = 9;
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "shards[1].shape"));
        shards[1].ndim = 0;
        shards[1].extra = "\"a\": 1, \"path\": 2";
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "shards[1].extra") && strstr(last.message, "\"path\" is a field of its own"));
        shards[1].extra = "a: 1";
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        finds(&m, 7, 3, "shards[1].extra: not a JSON member list");
        shards[1].extra = NULL;
        m.has_training = 1;
        m.training.learning_rate = HUGE_VAL;
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "training.learning_rate: it must be finite"));
        m.training.learning_rate = 1;
        m.training.optimizer_state = "[]";
        CHECK_INT(dcp_manifest_write(&m, yaml, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "training.optimizer_state: not a JSON object"));
    }
    CHECK_INT(alloc_live, 0);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */
/* What the golden document says, by calls. */
static dcp_status build(dcp_manifest **out, dcp_error *err) {
    static const uint8_t digest[32] = {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                       0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                       0x11, 0x11, 0x11, 0x11, 0x11, 0x11};
    const dcp_tier hot = {1, "hot", "40GB", "prioritized"}, warm = {2, "warm", NULL, NULL};
    const uint64_t seeds[2] = {UINT64_MAX, 42};
    dcp_manifest_shard s;
    dcp_manifest *m;
    dcp_status status = dcp_manifest_new(&m, err);
    *out = m;
    if (!status) status = dcp_manifest_set_model(m, "lite-llm: base", 5, 9007199254740993, err);
    if (!status) status = dcp_manifest_add_tier(m, &hot, err);
    if (!status) status = dcp_manifest_add_tier(m, &warm, err);
    memset(&s, 0, sizeof s);
    s.path = "dense/wq_0_of_2.bin"; s.type = "dense"; s.tensor_name = "wq"; s.ndim = 2; s.shape[0] = 256;
    s.shape[1] = 8; s.dtype = "fp32"; s.tier_hint = "hot";
    s.checksum = T1; s.size = 8192; s.global_shape[0] = 512; s.global_shape[1] = 8; s.placement = "sharded";
    s.block_size = 4194304;
    s.block_checksums = digest; s.block_count = 1;
    if (!status) status = dcp_manifest_add_shard(m, &s, err);
    s.path = "dense/wq_1_of_2.v3.bin"; s.checksum = FLAT; s.version = 3; s.global_offset[0] = 256; s.rank = 1;
    s.block_size = 0; s.block_checksums = NULL;
    s.block_count = 0;
    if (!status) status = dcp_manifest_add_shard(m, &s, err);
    memset(&s, 0, sizeof s);
    s.path = "experts/tier_2/group_0/expert_1.up_0_of_1.bin"; s.type = "expert"; s.tensor_name = "up";
    s.has_expert_key = 1; s.expert_key[0] = 2;
    s.expert_key[2] = 1;
    s.ndim = 1; s.shape[0] = 3; s.dtype = "int4"; s.tier_hint = "warm"; s.checksum = FLAT; s.size = 2; s.rank = -1;
    if (!status) status = dcp_manifest_add_shard(m, &s, err);
    memset(&s, 0, sizeof s);
    s.path = "optim/m_0_of_1.bin"; s.tensor_name = "m"; s.dtype = "fp64"; s.checksum = FLAT; s.version = 1; s.size = 8;
    s.rank = -1;
    if (!status) status = dcp_manifest_add_optimizer_shard(m, &s, err);
    if (!status) m->optim_state.path = "optim/m_0_of_1.bin";
    if (!status) status = dcp_manifest_add_router(m, 0, &seeds[0], NULL, err);
    s.path = "router/gate_0_of_1.bin"; s.tensor_name = "gate"; s.ndim = 2; s.shape[1] = 4; s.dtype = "bf16";
    s.version = 0; s.size = 0;
    if (!status) status = dcp_manifest_add_router(m, 7, NULL, &s, err);
    if (!status) status = dcp_manifest_add_router(m, 7, &seeds[1], NULL, err);
    if (!status) status = dcp_manifest_set_field(m, "git", "old", err);
    if (!status) status = dcp_manifest_set_field(m, "gone", "x", err);
    if (!status) status = dcp_manifest_set_field(m, "no", "1.0", err);
    if (!status) status = dcp_manifest_set_field(m, "gone", NULL, err);
    if (!status) status = dcp_manifest_set_field(m, "never", NULL, err);
    if (!status) status = dcp_manifest_set_field(m, "two words", "a\nb", err);
    if (!status) status = dcp_manifest_set_field(m, "git", "abc", err);
    if (status) return status;
    m->min_reader_version = 1;
    m->save_id = "9f86d081884c7d65"; m->sequence = 12; m->timestamp = "2026-11-20T12:00:00.123456Z"; m->world_size = 2;
    m->has_sharding = m->has_training = 1;
    m->sharding.strategy = "fsdp"; m->sharding.shard_count = 2; m->sharding.precision = "bf16";
    m->training.epoch = 5; m->training.step = 100; m->training.learning_rate = 0.0003;
    m->training.optimizer_type = "adamw";
    m->training.optimizer_state = "{\"b\": [0.9, 1e-8]}";
    return DCP_OK;
}
TEST(built_is_as_good_as_parsed) {
    dcp_manifest *m;
    text t;
    CHECK_OK_MESSAGE(build(&m, &last), last.message);
    finds(m, 0, 0, "");
    t = write_as(m, 0, NULL);
    CHECK(strncmp(t.data, golden_json, sizeof golden_json - 1) == 0);
    dcp_free(t.data);
    t = write_as(m, 1, NULL);
    CHECK(strncmp(t.data, golden_yaml, sizeof golden_yaml - 1) == 0);
    dcp_free(t.data);
    m->timestamp = NULL;                                /* now */
    t = write_as(m, 1, NULL);
    CHECK(strstr(t.data, "\ntimestamp: \"2") != NULL);
    dcp_free(t.data);
    dcp_manifest_free(m);
    {
        dcp_manifest by_hand = DCP_ZERO;
        const dcp_tier tier = {1, "a", NULL, NULL};
        CHECK_INT(dcp_manifest_add_tier(&by_hand, &tier, &last), DCP_E_INVALID);
        CHECK(strstr(last.message, "filled by hand") != NULL);
        CHECK_INT(dcp_manifest_add_tier(NULL, &tier, NULL), DCP_E_INVALID);
        dcp_manifest_free(&by_hand);
        dcp_manifest_free(NULL);
    }
    CHECK_INT(alloc_live, 0);
}

TEST(arguments_that_are_missing_are_refused) {
    const dcp_tier tier = {1, "a", NULL, NULL};
    dcp_manifest *m, *parsed;
    dcp_validation v;
    char *written = (char *)&v;
    size_t size = 7;
    uint64_t seed = 7;
    CHECK_INT(dcp_manifest_new(NULL, &last), DCP_E_INVALID);
    CHECK_OK(build(&m, &last));
    CHECK_INT(dcp_manifest_set_model(NULL, "a", 1, 1, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_add_tier(m, NULL, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_add_shard(m, NULL, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_add_optimizer_shard(m, NULL, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_add_router(NULL, 0, NULL, NULL, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_set_field(m, NULL, "a", &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_router_seed(NULL, 0, &seed), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_router_seed(m, 0, NULL), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_router_seed(m, 3, &seed), DCP_E_NOT_FOUND);
    CHECK(seed == 0);
    CHECK_OK(dcp_manifest_add_router(m, 3, NULL, NULL, &last));         /* a layer without a seed has none */
    CHECK_INT(dcp_manifest_router_seed(m, 3, &seed), DCP_E_NOT_FOUND);
    CHECK_OK(dcp_manifest_router_seed(m, 7, &seed));
    CHECK(seed == 42);
    CHECK_INT(dcp_manifest_write(NULL, 0, NULL, &written, &size, &last), DCP_E_INVALID);
    CHECK(written == NULL && size == 0);
    CHECK_INT(dcp_manifest_write(m, 0, NULL, NULL, &size, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_write(m, 0, NULL, &written, NULL, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_parse("{}", 2, NULL, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_parse(NULL, 2, &parsed, &last), DCP_E_INVALID);
    CHECK_INT(dcp_manifest_parse(NULL, 0, &parsed, NULL), DCP_E_FORMAT);      /* no bytes: not a document */
    CHECK(parsed == NULL);
    CHECK_INT(dcp_manifest_validate(m, NULL), DCP_E_INVALID);
    dcp_manifest_free(m);
    CHECK_OK(dcp_manifest_new(&m, NULL));                               /* nobody need ask why */
    CHECK_OK(dcp_manifest_add_tier(m, &tier, NULL));
    m->tiers[0].tier.name = "\xFF";
    CHECK_INT(dcp_manifest_write(m, 0, NULL, &written, &size, NULL), DCP_E_INVALID);
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}
/* With limits that a test can reach: a program may set them, and then they hold in the builders, the parser and the
 * check alike. */
TEST(limits_of_a_document) {
    const dcp_tier tier = {9, "cold", NULL, NULL};
    dcp_manifest_shard shard;
    dcp_manifest *m;
    text t = seal_as(golden_json, type_of(0), NULL);
    memset(&shard, 0, sizeof shard);
    CHECK_OK(build(&m, &last));
    limit_tensors = 3;
    CHECK_INT(dcp_manifest_add_shard(m, &shard, &last), DCP_E_LIMIT);
    CHECK(strstr(last.message, "more than 3 shards") && m->shard_count == 3);
    /* five, those of the optimizer and of the router too */
    finds(m, 1, 0, "shards: more than 3 shards (DCP_LIMIT_TENSORS)");
    limit_tensors = 5;
    finds(m, 0, 0, "");
    limit_tensors = 67108864;
    limit_shards = 2;
    CHECK_INT(dcp_manifest_add_router(m, 8, NULL, NULL, &last), DCP_E_LIMIT);
    CHECK(strstr(last.message, "more than 2 layers") && m->router_state.layer_count == 2);
    limit_fields = 2;
    CHECK_INT(dcp_manifest_add_tier(m, &tier, &last), DCP_E_LIMIT);
    CHECK(strstr(last.message, "more than 2 tiers") && m->tier_count == 2);
    refuses(t.data, DCP_E_LIMIT, "more fields than DCP_LIMIT_FIELDS");
    limit_fields = 3;
    limit_tensors = 7;                            /* 2 tiers, 3 shards, 1 of the optimizer, 2 layers, 1 of the router */
    dcp_manifest_free(parse(t.data));
    limit_tensors = 6;
    refuses(t.data, DCP_E_LIMIT, "more tensors than DCP_LIMIT_TENSORS");
    limit_tensors = 5;
    refuses(t.data, DCP_E_LIMIT, "more tensors than DCP_LIMIT_TENSORS");
    limit_tensors = limit_shards = 0;
    refuses(t.data, DCP_E_LIMIT, "tiers[0]");
    limit_tensors = 67108864; limit_shards = limit_fields = 1048576;
    limit_document = (long long)t.size;
    dcp_manifest_free(parse(t.data));
    limit_document--;
    refuses(t.data, DCP_E_LIMIT, "bytes (DCP_LIMIT_DOCUMENT)");
    limit_document = 1LL << 34;
    dcp_manifest_free(m);
    free(t.data);
    CHECK_INT(alloc_live, 0);
}
/* What a program may have put wrong into the struct, and a document cannot say. */
TEST(rules_of_structs) {
    dcp_manifest *m;
    dcp_manifest_tier *tiers;
    dcp_manifest_shard *shards, *s;
    char *written;
    size_t size;
    CHECK_OK(build(&m, &last));
    CHECK(m->optim_state.is_there && m->optim_state.shard_count == 1);
    m->model_id = ""; finds(m, 0, 1, "model_id: a model id is required");
    m->model_id = "\xFF"; finds(m, 1, 0, "model_id: not valid UTF-8"); m->model_id = "a";
    m->min_reader_version = 2; finds(m, 1, 0, "min_reader_version: 2 is not from 0 to 1"); m->min_reader_version = 1;
    m->metadata_version = 0; finds(m, 0, 0, ""); m->metadata_version = 1;     /* absent in a struct: the writer's own */
    m->training.learning_rate = HUGE_VAL; finds(m, 1, 0, "training.learning_rate: must be finite");
    m->training.learning_rate = 1;
    m->sharding.strategy = "\xFF"; finds(m, 1, 0, "sharding.strategy: not valid UTF-8"); m->sharding.strategy = "fsdp";
    m->sharding.precision = "\xFF"; finds(m, 1, 0, "sharding.precision: not valid UTF-8");
    m->sharding.precision = "bf16";
    m->sharding.info = "[]"; finds(m, 1, 0, "sharding.strategy_specific_info"); m->sharding.info = NULL;
    m->sharding.extra = "\"a\""; finds(m, 1, 0, "sharding.extra"); m->sharding.extra = NULL;
    m->training.optimizer_type = "\xFF"; finds(m, 1, 0, "training.optimizer_type: not valid UTF-8");
    m->training.optimizer_type = "adamw";
    m->training.optimizer_state = "[]"; finds(m, 1, 0, "training.optimizer_state"); m->training.optimizer_state = NULL;
    m->training.extra = "\"a\""; finds(m, 1, 0, "training.extra"); m->training.extra = NULL;
    m->extra = "\"a\""; finds(m, 1, 0, "extra"); m->extra = NULL;
    m->tiers[1].tier.placement_policy = "\xFF"; finds(m, 1, 0, "tiers[1].placement_policy: not valid UTF-8");
    m->tiers[1].tier.placement_policy = NULL;
    tiers = m->tiers; m->tiers = NULL; finds(m, 1, 3, "tiers: the tiers are missing");
    m->tier_count = 0; finds(m, 0, 3, "there is no tier \"hot\""); m->tiers = tiers; m->tier_count = 2;
    shards = m->shards; m->shards = NULL; finds(m, 1, 0, "shards: the shards are missing"); m->shards = shards;
    {
        const dcp_field saved = m->fields[1];
        m->fields[1].value = "\xFF"; finds(m, 1, 0, "custom_fields"); m->fields[1] = saved;
        m->fields[1].key = "\xFF"; finds(m, 1, 0, "custom_fields: not valid UTF-8"); m->fields[1] = saved;
    }
    m->tiers[1].extra = "\"a\""; finds(m, 1, 0, "tiers[1].extra"); m->tiers[1].extra = NULL;
    m->optim_state.extra = "\"a\""; finds(m, 1, 0, "optim_state.extra"); m->optim_state.extra = NULL;
    m->router_state.extra = "\"a\""; finds(m, 1, 0, "router_state.extra"); m->router_state.extra = NULL;
    {                                                   /* the first layer's shards are looked at too */
        dcp_manifest_layer *layers = m->router_state.layers;
        const dcp_manifest_layer saved[2] = {layers[0], layers[1]};
        layers[0].shards = saved[1].shards; layers[0].shard_count = 1; layers[1].shards = NULL;
        layers[1].shard_count = 0;
        finds(m, 0, 0, "");
        layers[0].shards[0].version = -1; finds(m, 1, 0, "router_state.layers[0].shards[0].version");
        layers[0].shards[0].version = 0;
        layers[0] = saved[0]; layers[1] = saved[1];
    }
    m->router_state.extra = "\"a\"";                                    /* after its layers, and reported as its own */
    CHECK_INT(dcp_manifest_write(m, 0, NULL, &written, &size, &last), DCP_E_INVALID);
    CHECK(strncmp(last.message, "router_state.extra: ", 20) == 0);
    m->router_state.extra = NULL;
    m->optim_state.extra = "\"a\"";
    CHECK_INT(dcp_manifest_write(m, 0, NULL, &written, &size, &last), DCP_E_INVALID);
    CHECK(strncmp(last.message, "optim_state.extra: ", 19) == 0);
    m->optim_state.extra = NULL;
    m->router_state.path = "\xFF";
    CHECK_INT(dcp_manifest_write(m, 0, NULL, &written, &size, &last), DCP_E_INVALID);
    CHECK(strncmp(last.message, "router_state.path: ", 19) == 0);
    m->optim_state.path = "\xFF";
    CHECK_INT(dcp_manifest_write(m, 1, NULL, &written, &size, &last), DCP_E_INVALID);
    CHECK(strncmp(last.message, "optim_state.path: ", 18) == 0);
    m->optim_state.path = "optim/state_0.bin";
    m->router_state.path = "../x"; finds(m, 1, 0, "router_state.path: \"../x\""); m->router_state.path = NULL;
    m->optim_state.path = "../x"; finds(m, 1, 0, "optim_state.path: \"../x\"");
    m->optim_state.path = "optim/state_0.bin";
    {                                                   /* behind the optimizer's state, and not of it */
        const size_t layers = m->router_state.layer_count;
        m->router_state.layer_count = 0; m->router_state.is_there = 0;
        m->timestamp = "\xFF";
        CHECK_INT(dcp_manifest_write(m, 0, NULL, &written, &size, &last), DCP_E_INVALID);
        CHECK(strncmp(last.message, "timestamp: ", 11) == 0);
        m->timestamp = "2026-11-20T12:00:00.123456Z";
        m->router_state.layer_count = layers; m->router_state.is_there = 1;
    }
    s = &m->shards[1];
    s->type = ""; finds(m, 1, 0, "shards[1].type: a type is required"); s->type = "dense";
    s->checksum = ""; finds(m, 1, 0, "shards[1].checksum: shard 1 is missing its checksum"); s->checksum = FLAT;
    s->block_size = -1; finds(m, 1, 0, "shards[1].block_size: -1 is not a power of two"); s->block_size = 0;
    s->ndim = 9; finds(m, 2, 0, "shards[1].shape: 9 dimensions"); s->ndim = 2;
    s->dtype = NULL; finds(m, 2, 0, "shards[1].dtype: it is absent, and in shards[0] fp32"); s->dtype = "fp32";
    shards[0].dtype = NULL; finds(m, 2, 0, "shards[1].dtype: it is fp32, and in shards[0] absent");
    shards[0].dtype = "fp32";
    s->ndim = 1; s->size = 1024;
    finds(m, 1, 0, "shards[1].global_shape: it is [512], and in shards[0] [512, 8]");
    s->ndim = 2; s->size = 8192;
    shards[0].block_checksums = NULL; finds(m, 1, 0, "shards[0].block_checksums");
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}
TEST(pieces_that_are_private) {
    dcp_manifest *m;
    dcp_manifest_shard *s;
    CHECK_OK(build(&m, &last));
    s = m->shards;
    s[0].placement = s[1].placement = "private";
    memcpy(s[0].global_shape, s[0].shape, sizeof s[0].shape);
    memcpy(s[1].global_shape, s[1].shape, sizeof s[1].shape);
    s[1].global_offset[0] = 0;
    finds(m, 0, 0, "");                                                 /* one of each rank */
    s[1].dtype = "int32";
    finds(m, 0, 0, "");                                                 /* which are that rank's own affair */
    s[1].rank = 0;
    finds(m, 1, 0, "shards[1].global_offset: shards[0] is the same piece of the same tensor");
    s[1].tensor_name = "wk";
    finds(m, 0, 0, "");
    s[1].tensor_name = "wq";
    s[0].placement = s[1].placement = "replicated";
    s[1].dtype = "fp32";
    memset(s[1].global_shape, 0, sizeof s[1].global_shape);             /* absent: it is whole */
    memset(s[0].global_shape, 0, sizeof s[0].global_shape);
    finds(m, 1, 0, "shards[1].global_offset: shards[0] is the same piece of the same tensor");
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}
/* An expert's tensors are told apart by its key; a path of two shards is told with the place of the first. */
TEST(shards_of_experts_and_layers) {
    dcp_manifest *m;
    dcp_manifest_shard s;
    CHECK_OK(build(&m, &last));
    s = m->shards[2];
    s.path = "experts/tier_2/group_0/expert_2.up_0_of_1.bin"; s.expert_key[2] = 2;
    CHECK_OK(dcp_manifest_add_shard(m, &s, &last));
    s.path = "dense/up_0_of_1.bin"; s.type = "dense"; s.has_expert_key = 0;
    memset(s.expert_key, 0, sizeof s.expert_key);
    CHECK_OK(dcp_manifest_add_shard(m, &s, &last));
    finds(m, 0, 0, "");
    /* the same name in another list is another tensor */
    s.path = "optim/up_0_of_1.bin"; s.type = NULL; s.tier_hint = NULL;
    CHECK_OK(dcp_manifest_add_optimizer_shard(m, &s, &last));
    finds(m, 0, 0, "");
    m->shards[3].expert_key[2] = 1;
    finds(m, 0, 1, "shards[3].global_offset: shards[2] is a piece of the same tensor, and nothing says how");
    m->shards[3].expert_key[2] = 2;
    s.path = "optim/all.bin"; s.tensor_name = "all"; s.ndim = -1; s.dtype = NULL;      /* state of no shape: bytes */
    CHECK_OK(dcp_manifest_add_optimizer_shard(m, &s, &last));
    finds(m, 0, 0, "");
    s.tensor_name = "up"; s.ndim = 1; s.dtype = "int4";
    s.path = "router/gate_0_of_1.bin"; s.tensor_name = "bias"; s.size = 2;
    CHECK_OK(dcp_manifest_add_router(m, 9, NULL, &s, &last));
    finds(m, 1, 0, "router_state.layers[2].shards[0].path: \"router/gate_0_of_1.bin\" is also in "
                   "router_state.layers[1].shards[0]");
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}

/* ---- integrity and signatures ------------------------------------------------------------------------------------ */
static int parses(const char *data, size_t size, const dcp_verifier *verifier) {
    dcp_manifest *m = try_parse(data, size, verifier);
    dcp_manifest_free(m);
    return m != NULL;
}
TEST(every_bit_and_every_length_is_covered) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    int yaml, is_signed, bit;
    size_t i;
    for (yaml = 0; yaml < 2; yaml++) {
        for (is_signed = 0; is_signed < 2; is_signed++) {
            text body = replaced(golden(yaml), "lite-llm", "x"),
                        t = seal_as(body.data, type_of(yaml), is_signed ? &signer : NULL);
            CHECK(parses(t.data, t.size, is_signed ? &verifier : NULL));
            for (i = 0; i < t.size; i++) {
                for (bit = 0; bit < 8; bit++) {
                    t.data[i] = (char)(t.data[i] ^ 1 << bit);
                    if (parses(t.data, t.size, is_signed ? &verifier : NULL))
                        printf("byte %d bit %d, yaml %d, signed %d\n", (int)i, bit, yaml, is_signed);
                    CHECK(last.status != DCP_OK);
                    if (is_signed) CHECK_INT(last.status, DCP_E_SIGNATURE);
                    t.data[i] = (char)(t.data[i] ^ 1 << bit);
                }
                if (test_is_slow()) i += 6;
            }
            for (i = 0; i < t.size; i++) CHECK(!parses(t.data, i, is_signed ? &verifier : NULL));
            text_add(&t, "\n", 1);
            CHECK(!parses(t.data, t.size, is_signed ? &verifier : NULL));
            free(t.data);
            free(body.data);
        }
    }
    CHECK_INT(alloc_live, 0);
}
TEST(additions_need_a_tail) {
    int yaml;
    for (yaml = 0; yaml < 2; yaml++) {
        text t = text_of(golden(yaml));
        if (!yaml) text_add(&t, "\n}\n", 3);
        refuses(t.data, DCP_E_CHECKSUM, "its last members are not the integrity member");
        free(t.data);
    }
    refuses("shards:\n  - path: a\n    size: 3\n", DCP_E_CHECKSUM, "integrity");
    refuses("shards:\n  - path: a\n    shape: [1]\n    global_shape: [1]\n", DCP_E_CHECKSUM, "integrity");
    refuses("{\"shards\": [{ \"path\": \"a\", \"block_checksums\": [] }]}", DCP_E_CHECKSUM, "integrity");
    refuses("world_size: 1\n", DCP_E_CHECKSUM, "integrity");
    refuses("custom_fields: {}\n", DCP_E_CHECKSUM, "integrity");
    refuses("router_state: {layers: []}\n", DCP_E_CHECKSUM, "integrity");
    refuses("a: 1\nintegrity: { algorithm: \"sha256\", value: \"" D1 "\" }\n", DCP_E_CHECKSUM, "damaged or was edited");
    refuses("a: 1 # integrity: { algorithm: \"sha256\", value: \"" D1 "\" }\nsave_id: x\n", DCP_E_CHECKSUM,
            "integrity");
}
TEST(a_tail_inside_a_scalar_does_not_count) {
    text inner = seal_as("a: 'x\n", "manifest/yaml", NULL);
    CHECK(!parses(inner.data, inner.size, NULL));
    CHECK_INT(last.status, DCP_E_FORMAT);
    free(inner.data);
    inner = seal_as("  a: 1\n", "manifest/yaml", NULL);         /* a map that is indented does not have this line */
    CHECK(!parses(inner.data, inner.size, NULL));
    free(inner.data);
    inner = seal_as("a: 1\n# ", "manifest/yaml", NULL);
    CHECK(parses(inner.data, inner.size, NULL));     /* a comment: then it is no tail, and the document a foreign one */
    free(inner.data);
}
TEST(signatures_fail_closed) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026"),
                              other_signer = dcp_hmac_signer("fedcba9876543210", 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    int yaml;
    for (yaml = 0; yaml < 2; yaml++) {
        text good = seal_as(golden(yaml), type_of(yaml), &signer), bare = seal_as(golden(yaml), type_of(yaml), NULL),
                    other = seal_as(golden(yaml), type_of(yaml), &other_signer);
        text wrong = seal_as(golden(yaml), yaml ? "other/yaml" : "metadata/json", &signer),
                     foreign = text_of(seed_yaml);
        dcp_manifest *m = try_parse(good.data, good.size, &verifier);
        CHECK(m != NULL);
        CHECK_STR(m->signature_algorithm, "hmac-sha256");
        CHECK_STR(m->signature_key, "ops-2026");
        dcp_manifest_free(m);
        CHECK(parses(good.data, good.size, NULL));
        CHECK(!parses(bare.data, bare.size, &verifier) && last.status == DCP_E_SIGNATURE &&
              strstr(last.message, "not signed"));
        CHECK(!parses(other.data, other.size, &verifier) && last.status == DCP_E_SIGNATURE &&
              strstr(last.message, "another key"));
        CHECK(!parses(wrong.data, wrong.size, &verifier) && last.status == DCP_E_SIGNATURE);
        CHECK(!parses(wrong.data, wrong.size, NULL) && last.status == DCP_E_CHECKSUM);
        CHECK(!parses(foreign.data, foreign.size, &verifier) && last.status == DCP_E_SIGNATURE);
        {                                               /* stripped, the digest made anew; downgraded; cut */
            text cut = replaced(good.data, yaml ? "value: \"" YAML_CUT : "\"value\": \"" JSON_CUT,
                                yaml ? "value: \"" : "\"value\": \"");
            text down = replaced(good.data, "hmac-sha256", "none");
            CHECK(!parses(cut.data, cut.size, &verifier) && last.status == DCP_E_SIGNATURE);
            CHECK(!parses(down.data, down.size, &verifier) && last.status == DCP_E_SIGNATURE);
            free(cut.data);
            free(down.data);
        }
        free(good.data); free(bare.data); free(other.data); free(wrong.data); free(foreign.data);
    }
    CHECK_INT(alloc_live, 0);
}
/* A document that was sealed and signed by other hands than ours, and ours with its members. */
static void check_not_covered(const char *from, const char *to, const char *words) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    text body = replaced(golden_json, from, to), sealed = seal_as(body.data, "manifest/json", &signer);
    text yaml, yaml_sealed;
    dcp_manifest *m = try_parse(sealed.data, sealed.size, NULL);
    dcp_error err;
    char *made;
    size_t size;
    CHECK(m != NULL);                                   /* nobody asks for a signature */
    CHECK(!parses(sealed.data, sealed.size, &verifier));
    CHECK_INT(last.status, DCP_E_SIGNATURE);
    CHECK(strstr(last.message, words) != NULL && strstr(last.message, "covered") != NULL);
    CHECK_INT(dcp_manifest_write(m, 0, &signer, &made, &size, &err), DCP_E_SIGNATURE);
    CHECK(made == NULL && strstr(err.message, words) != NULL && strstr(err.message, "cannot be signed") != NULL);
    CHECK_INT(dcp_manifest_write(m, 1, &signer, &made, &size, &err), DCP_E_SIGNATURE);
    yaml = write_as(m, 1, NULL);
    yaml.size = (size_t)(strstr(yaml.data, "integrity: {") - yaml.data);
    yaml.data[yaml.size] = '\0';
    yaml_sealed = seal_as(yaml.data, "manifest/yaml", &signer);
    CHECK(!parses(yaml_sealed.data, yaml_sealed.size, &verifier));
    CHECK_INT(last.status, DCP_E_SIGNATURE);
    CHECK(strstr(last.message, words) != NULL);
    dcp_manifest_free(m);
    dcp_free(yaml.data);
    free(body.data); free(sealed.data); free(yaml_sealed.data);
}
TEST(what_is_signed_is_covered) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    text body, sealed;
    check_not_covered("\"checksum\": \"" FLAT "\", \"version\": 3, ", "\"version\": 3, ", "shards[1]");
    check_not_covered("\"checksum\": \"" FLAT "\", \"version\": 3, ", "\"checksum\": \"abc123\", \"version\": 3, ",
                      "shards[1]");
    check_not_covered("\"dtype\": \"int4\", \"tier_hint\": \"warm\", \"checksum\": \"" FLAT "\"",
                      "\"dtype\": \"int4\", \"tier_hint\": \"warm\"", "shards[2]");
    check_not_covered("\"dtype\": \"fp64\", \"checksum\": \"" FLAT "\"", "\"dtype\": \"fp64\"",
                      "optim_state.shards[0]");
    check_not_covered("\"shape\": [0, 4], \"dtype\": \"bf16\", \"checksum\": \"" FLAT "\", \"version\": 0, \"size\": 0",
                      "\"shape\": [1, 4], \"dtype\": \"bf16\", \"version\": 0, \"size\": 8",
                          "router_state.layers[1].shards[0]");
    check_not_covered("\"path\": \"optim/m_0_of_1.bin\", \"shards\"", "\"path\": \"optim/other.bin\", \"shards\"",
                      "optim_state.path");
    check_not_covered("\"router_state\": { ", "\"router_state\": { \"path\": \"router/all.bin\", ",
                      "router_state.path");
    /* no bytes need no digest, and block digests do without a checksum */
    body = replaced(golden_json, "\"dtype\": \"bf16\", \"checksum\": \"" FLAT "\", ", "\"dtype\": \"bf16\", ");
    sealed = seal_as(body.data, "manifest/json", &signer);
    CHECK(parses(sealed.data, sealed.size, &verifier));
    free(body.data);
    free(sealed.data);
    body = replaced(golden_json, "\"checksum\": \"" T1 "\", ", "");
    sealed = seal_as(body.data, "manifest/json", &signer);
    CHECK(parses(sealed.data, sealed.size, &verifier));
    free(body.data);
    free(sealed.data);
    CHECK_INT(alloc_live, 0);
}
TEST(a_signature_out_of_its_place_is_none) {
    const char *const members[2] = {"\"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"\", \"value\": \""
                                    D1 "\" },\n  \"step\": 9",
                                    "signature: { algorithm: \"hmac-sha256\", key: \"\", value: \"" D1 "\" }\nstep: 9"};
    int yaml;
    for (yaml = 0; yaml < 2; yaml++)
        change_refuses(yaml, yaml ? "step: 9" : "\"step\": 9", members[yaml], DCP_E_CHECKSUM,
                       "signature member is not in its place");
}
/* A signed document cut down to its signature, with a digest that fits: what is left of it. */
TEST(a_signature_of_another_algorithm_or_length_is_refused) {
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    static const char *const members[2][3] = {
        {",\n  \"signature\": { \"algorithm\": \"none\", \"key\": \"\", \"value\": \"00\" }",
        ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"\", \"value\": \"00ff\" }",
         ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"\", \"value\": \"" D1 "\" }"},
        {"signature: { algorithm: \"none\", key: \"\", value: \"00\" }\n",
         "signature: { algorithm: \"hmac-sha256\", key: \"\", value: \"00ff\" }\n",
         "signature: { algorithm: \"hmac-sha256\", key: \"\", value: \"" D1 "\" }\n"}
    };
    static const char *const words[3] = {"is signed with none", "the signature has 2 bytes", "does not match"};
    int yaml, i;
    for (yaml = 0; yaml < 2; yaml++) {
        for (i = 0; i < 3; i++) {
            text body = text_of(golden(yaml)), t;
            text_add(&body, members[yaml][i], strlen(members[yaml][i]));
            t = seal_as(body.data, type_of(yaml), NULL);
            CHECK(!parses(t.data, t.size, &verifier));
            CHECK_INT(last.status, DCP_E_SIGNATURE);
            CHECK(strstr(last.message, words[i]) != NULL);
            free(body.data);
            free(t.data);
        }
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
TEST(each_allocation_may_fail) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    int yaml;
    long n, done;
    for (yaml = 0; yaml < 2; yaml++) {
        text t = replaced(golden(yaml), yaml ? "epoch: 5" : "\"epoch\": 5",
                          yaml ? "epoch: 5\nxx: {a: b}" : "\"epoch\": 5, \"xx\": {\"a\": 1}"),
                          sealed = seal_as(t.data, type_of(yaml), &signer);
        for (n = 0, done = 0; !done; n++) {
            dcp_manifest *m;
            dcp_validation v;
            char *written = NULL;
            size_t size;
            dcp_status status;
            alloc_arena = 1;
            alloc_countdown = n;
            status = dcpi_manifest_parse(sealed.data, sealed.size, &verifier, &m, &last);
            if (!status) {
                status = dcp_manifest_validate(m, &v);
                dcp_validation_free(&v);
            }
            if (!status) status = dcp_manifest_write(m, 0, NULL, &written, &size, &last);
            dcp_free(written);
            if (!status) status = dcp_manifest_write(m, 1, NULL, &written, &size, &last);
            if (status) written = NULL;
            dcp_free(written);
            done = alloc_countdown >= 0;
            alloc_countdown = -1;
            alloc_arena = 1024 * 1024;
            CHECK(status == DCP_E_MEMORY || status == DCP_OK);
            dcp_manifest_free(m);
            CHECK_INT(alloc_live, 0);
        }
        CHECK(n > 60);
        free(t.data);
        free(sealed.data);
    }
    for (n = 0, done = 0; !done; n++) {
        dcp_manifest *m;
        dcp_status status;
        alloc_countdown = n;
        status = build(&m, &last);
        done = alloc_countdown >= 0;
        alloc_countdown = -1;
        CHECK(status == DCP_E_MEMORY || (status == DCP_OK && done));
        dcp_manifest_free(m);
        CHECK_INT(alloc_live, 0);
    }
    CHECK(n >= 8);
}
/* Few bytes must not take much memory (G8). */
TEST(each_allocation_of_a_builder_may_fail) {
    long n, done = 0;
    for (n = 0; !done; n++) {
        dcp_manifest *m;
        dcp_status status;
        alloc_arena = 1;
        alloc_countdown = n;
        status = build(&m, &last);
        done = alloc_countdown >= 0;
        alloc_countdown = -1;
        alloc_arena = 1024 * 1024;
        CHECK_INT(status, done ? DCP_OK : DCP_E_MEMORY);
        CHECK_INT(last.status, status);
        dcp_manifest_free(m);
        CHECK_INT(alloc_live, 0);
    }
    CHECK(n > 40);
}
TEST(memory_is_in_proportion) {
    static const char *const items[2] = {"{},", "\n- {}"};
    int yaml;
    for (yaml = 0; yaml < 2; yaml++) {
        text t = text_of(yaml ? "shards:" : "{\"shards\":[");
        int i;
        for (i = 0; i < 30000; i++) text_add(&t, items[yaml], strlen(items[yaml]));
        alloc_peak = alloc_live;
        CHECK(!parses(t.data, t.size, NULL));
        CHECK_INT(last.status, DCP_E_LIMIT);
        CHECK(alloc_peak < 3500000);
        free(t.data);
    }
    CHECK_INT(alloc_live, 0);
}

/* ---- mutations --------------------------------------------------------------------------------------------------- */
TEST(mutations_do_no_harm) {
    static const char interesting[] = "\n\t :-?[]{},#&*!|>'\"%@`\\\r\0\xFF\xC3\x80<~.0x9-eE_";
    static char work[8000];
    int round, rounds = test_times(20000), i, accepted = 0;
    for (round = 0; round < rounds; round++) {
        const char *from = round % 4 == 0 ? golden_json : round % 4 == 1 ? golden_yaml : round % 4 == 2 ? seed_yaml
                           : unknown_json;
        size_t size = strlen(from);
        dcp_manifest *m;
        memcpy(work, from, size);
        if (round % 4 == 0) { memcpy(work + size, "}", 1); size++; }
        for (i = 1 + (int)test_random_below(3); i > 0; i--) {
            size_t at = test_random_below(size), n;
            switch (test_random_below(5)) {
            case 0: work[at] = interesting[test_random_below(sizeof interesting - 1)]; break;
            case 1: if (test_random_below(4) == 0) size = at + 1; break;
            case 2: work[at] = (char)(work[at] ^ 1 << test_random_below(8)); break;
            case 3:                                     /* drop a part */
                n = test_random_below(12);
                if (n >= size - at) break;
                memmove(work + at, work + at + n, size - at - n);
                size -= n;
                break;
            default:                                    /* repeat a part */
                n = test_random_below(30);
                if (n > size - at || size + n > sizeof work - 2) break;
                memmove(work + at + n, work + at, size - at);
                size += n;
            }
        }
        {                           /* as it is, and with a good tail, without which the parser is not reached */
            text sealed;
            int yaml = dcpi_manifest_is_yaml(work, size);
            work[size] = '\0';
            if (memchr(work, '\0', size)) { (void)parses(work, size, NULL); continue; }
            if (!yaml) while (size > 0 && work[size - 1] != '}') size--;
            if (!yaml && size > 0) work[--size] = '\0';
            if (yaml && size > 0 && work[size - 1] != '\n') { work[size++] = '\n'; work[size] = '\0'; }
            sealed = seal_as(work, type_of(yaml), NULL);
            m = try_parse(sealed.data, sealed.size, NULL);
            free(sealed.data);
        }
        if (m) {                         /* what is accepted can be checked, written in both syntaxes, and read again */
            dcp_validation v;
            int yaml;
            (void)dcp_manifest_validate(m, &v);
            dcp_validation_free(&v);
            for (yaml = 0; yaml < 2; yaml++) {
                char *written;
                size_t length;
                dcp_status status = dcp_manifest_write(m, yaml, NULL, &written, &length, &last);
                /* no path: an error */
                CHECK(status == DCP_OK || (status == DCP_E_INVALID && strstr(last.message, "must not be NULL")));
                if (!status) CHECK(parses(written, length, NULL));
                dcp_free(written);
            }
            accepted++;
        }
        dcp_manifest_free(m);
    }
    CHECK(accepted > rounds / 50);
    CHECK_INT(alloc_live, 0);
}

/* ---- file names -------------------------------------------------------------------------------------------------- */
static const char *file_name(dcp_role role, const char *tensor, int64_t index, int64_t count, int64_t version,
                             const char *save_id, int with_hash) {
    static char name[DCPI_MANIFEST_NAME];
    static const int64_t key[3] = {2, 0, 1};
    dcpi_manifest_file file;
    memset(&file, 0, sizeof file);
    file.role = role;
    file.tensor_name = tensor;
    file.expert_key = key;
    file.index = index;
    file.count = count;
    file.version = version;
    file.save_id = save_id;
    file.with_hash = with_hash;
    CHECK_OK_MESSAGE(dcpi_manifest_file_name(&file, name, &last), last.message);
    CHECK(dcpi_key_is_valid(name));
    return name;
}
TEST(pool_file_names) {
    static const struct { dcpi_manifest_file file; const char *words; } bad[] = {
        {{(dcp_role)9, "a", NULL, 0, 1, 0, NULL, 0}, "role 9 is out of range"},
            {{DCP_ROLE_EXPERT, "a", NULL, 0, 1, 0, NULL, 0}, "needs its expert_key"},
        {{DCP_ROLE_PARAMETER, NULL, NULL, 0, 1, 0, NULL, 0}, "a tensor name is needed"},
        {{DCP_ROLE_ROUTER, "a\n", NULL, 0, 1, 0, NULL, 0}, "not valid"},
        {{DCP_ROLE_PARAMETER, "a", NULL, -1, 1, 0, NULL, 0}, "must not be negative"},
        {{DCP_ROLE_PARAMETER, "a", NULL, 0, 1, -1, NULL, 0}, "must not be"},
        {{DCP_ROLE_PARAMETER, "a", NULL, 0, 1, 0, "0123456789ABCDEF", 0}, "16 lower-case hex digits"}
    };
    char longest[1025], deep[600];
    size_t i;
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "layer_0/attention_q_0", 0, 2, 0, NULL, 0),
              "dense/layer_0/attention_q_0_0_of_2.bin");
    CHECK_STR(file_name(DCP_ROLE_EXPERT, NULL, 0, 0, 0, NULL, 0), "experts/tier_2/group_0/expert_1.bin");
    CHECK_STR(file_name(DCP_ROLE_EXPERT, "w1/a", 1, 4, 7, NULL, 0),
              "experts/tier_2/group_0/expert_1.w1/a_1_of_4.v7.bin");
    CHECK_STR(file_name(DCP_ROLE_EXPERT, NULL, 0, 0, 3, "0123456789abcdef", 0),
              "experts/tier_2/group_0/expert_1.v3.0123456789abcdef.bin");
    CHECK_STR(file_name(DCP_ROLE_OPTIMIZER, "m", 0, 1, 1, NULL, 0), "optim/m_0_of_1.v1.bin");
    CHECK_STR(file_name(DCP_ROLE_ROUTER, "gate", 0, 1, 0, "0123456789abcdef", 0),
              "router/gate_0_of_1.v0.0123456789abcdef.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "a b%\xC3\xA9:*", 0, 1, 0, NULL, 0),
              "dense/a%20b%25%C3%A9%3A%2A_0_of_1.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "../.x./..", 0, 1, 0, NULL, 0), "dense/%2E%2E/%2Ex%2E/%2E%2E_0_of_1.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "/a//b/", 0, 1, 0, NULL, 0), "dense/%2Fa%2F/b%2F_0_of_1.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "CON/nul.x/com1/com/LPT9/aux1/prn", 0, 1, 0, NULL, 0),
        "dense/%43ON/%6Eul.x/%63om1/com/%4CPT9/aux1/%70rn_0_of_1.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "a_0_of_1.bin/b", 0, 1, 0, NULL, 0), "dense/a_0_of_1%2Ebin/b_0_of_1.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "a.bit/b", 0, 1, 0, NULL, 0), "dense/a.bit/b_0_of_1.bin");
    CHECK_STR(file_name(DCP_ROLE_PARAMETER, "Wq", 0, 1, 0, NULL, 1), "dense/Wq-d950c92d95ba4c62_0_of_1.bin");
    CHECK(strcmp(file_name(DCP_ROLE_PARAMETER, "WQ", 0, 1, 0, NULL, 1), "dense/WQ-d950c92d95ba4c62_0_of_1.bin") != 0);
    for (i = 0; i < DCPI_COUNT(bad); i++) {
        char name[DCPI_MANIFEST_NAME] = "x";
        CHECK_INT(dcpi_manifest_file_name(&bad[i].file, name, &last), DCP_E_INVALID);
        CHECK(name[0] == '\0' && strstr(last.message, bad[i].words) != NULL);
    }
    for (i = 0; i < 1024; i++) longest[i] = i % 7 == 6 ? '/' : i % 3 ? ' ' : 'a';
    longest[1023] = 'z';
    longest[1024] = '\0';
    CHECK(strlen(file_name(DCP_ROLE_EXPERT, longest, INT64_MAX, INT64_MAX, INT64_MAX, "0123456789abcdef", 0)) <
          DCPI_MANIFEST_NAME - 1);
    memset(deep, 'x', sizeof deep);
    deep[150] = '\0';
    CHECK_INT(strlen(file_name(DCP_ROLE_PARAMETER, deep, 0, 1, 0, NULL, 0)), 6 + 150 + 7 + 4);
    deep[150] = 'x'; deep[151] = '\0';
    CHECK_INT(strlen(file_name(DCP_ROLE_PARAMETER, deep, 0, 1, 0, NULL, 0)), 6 + 120 + 17 + 7 + 4);
    for (i = 100; i < 125; i++) {                       /* an escape that the cut would split goes whole */
        memset(deep, 'x', sizeof deep);
        deep[i] = ' ';
        deep[151] = '\0';
        CHECK(strstr(file_name(DCP_ROLE_PARAMETER, deep, 0, 1, 0, NULL, 0), "%-") == NULL &&
              strstr(file_name(DCP_ROLE_PARAMETER, deep, 0, 1, 0, NULL, 0), "%2-") == NULL);
    }
    for (i = 0; i < 2000; i++) {   /* any name gives a path that a document may have; different ones, different paths */
        char a[40], b[40], first[DCPI_MANIFEST_NAME];
        static const char letters[] = "aA./ :%\\.com1nul-_\x7F";
        size_t n = 1 + test_random_below(12), j;
        for (j = 0; j < n; j++) a[j] = letters[test_random_below(sizeof letters - 2)];
        a[n] = '\0';
        memcpy(b, a, n + 1);
        b[test_random_below(n)] = letters[test_random_below(sizeof letters - 2)];
        (void)snprintf(first, sizeof first, "%s", file_name(DCP_ROLE_PARAMETER, a, 0, 1, 0, NULL, 0));
        CHECK((strcmp(a, b) == 0) == (strcmp(first, file_name(DCP_ROLE_PARAMETER, b, 0, 1, 0, NULL, 0)) == 0));
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
TEST(files_are_written_and_read) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    const char *dir = test_dir();
    static const char *const names[] = {"a.manifest.json", "b.manifest.yaml", "c.yml"};
    dcp_manifest *m = parse_sealed(golden_json, 0), *again;
    char path[TEST_PATH + 40];
    size_t i;
    for (i = 0; i < DCPI_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        CHECK_OK_MESSAGE(dcp_manifest_write_file(NULL, path, m, &signer, NULL, &last), last.message);
        CHECK_OK_MESSAGE(dcp_manifest_read_file(NULL, path, &verifier, NULL, &again, &last), last.message);
        CHECK(again->is_yaml == (i > 0) && again->shard_count == 3);
        dcp_manifest_free(again);
    }
    m->epoch = -1;
    CHECK_OK(dcp_manifest_write_file(NULL, path, m, NULL, NULL, &last));
    CHECK_INT(dcp_manifest_read_file(NULL, path, NULL, NULL, &again, &last), DCP_E_FORMAT);
    CHECK(again == NULL && strstr(last.message, "c.yml: epoch: must not be negative: -1") != NULL);
    CHECK_INT(dcp_manifest_read_file(NULL, path, &verifier, NULL, &again, &last), DCP_E_SIGNATURE);
    (void)snprintf(path, sizeof path, "%s/none.manifest.json", dir);
    CHECK_INT(dcp_manifest_read_file(NULL, path, NULL, NULL, &again, &last), DCP_E_NOT_FOUND);
    CHECK(again == NULL);
    dcp_manifest_free(m);
    CHECK_INT(alloc_live, 0);
}

/* ---- size -------------------------------------------------------------------------------------------------------- */
static dcp_status many_shards(void *user, const dcpi_record *list, size_t outer, size_t i, void *item,
                              dcp_error *err) {
    static char path[64];
    dcp_manifest_shard *out = (dcp_manifest_shard *)item;
    CHECK(list == &dcpi_manifest_shard_records[0] && outer == 0);
    if (i == *(const size_t *)user) return dcpi_fail(err, DCP_E_IO, "the source failed");
    (void)snprintf(path, sizeof path, "dense/t%u_0_of_1.bin", (unsigned)i);
    out->path = path;
    out->type = "dense";
    out->tensor_name = path + 6;
    out->ndim = 1;
    out->shape[0] = (int64_t)i;
    out->dtype = "uint8";
    out->checksum = FLAT;
    out->size = (int64_t)i;
    return dcpi_succeed(err);
}
static dcp_status count_sink(void *user, const void *data, size_t size, dcp_error *err) {
    (void)data;
    *(int64_t *)user += (int64_t)size;
    return dcpi_succeed(err);
}
/* A save's source: nothing but one shard at a time is in memory; its failure is the writer's. */
TEST(a_source_is_streamed) {
    dcp_manifest head = DCP_ZERO;
    dcpi_content source;
    int64_t taken = 0, bytes;
    size_t fail_at = SIZE_MAX;
    int yaml;
    head.model_id = "m";
    head.save_id = "9f86d081884c7d65";
    head.shard_count = (size_t)test_times(20000);
    source = dcpi_content_of(NULL, &head);
    source.user = &fail_at;
    source.item = many_shards;
    for (yaml = 0; yaml < 2; yaml++) {
        text t = { NULL, 0, 0 };
        dcp_manifest *m;
        alloc_peak = alloc_live;
        taken = 0;
        CHECK_OK_MESSAGE(dcpi_manifest_emit(&source, yaml, NULL, count_sink, &taken, &bytes, &last), last.message);
        CHECK(taken == bytes && alloc_peak == alloc_live);
        CHECK_OK(dcpi_manifest_emit(&source, yaml, NULL, text_sink, &t, NULL, &last));
        m = parse(t.data);
        CHECK_INT(m->shard_count, head.shard_count);
        finds(m, 0, 0, "");
        CHECK_INT(m->shards[77].size, 77);
        dcp_manifest_free(m);
        free(t.data);
    }
    fail_at = 1000;
    CHECK_INT(dcpi_manifest_emit(&source, 0, NULL, count_sink, &taken, NULL, &last), DCP_E_IO);
    CHECK_STR(last.message, "the source failed");
    CHECK_INT(alloc_live, 0);
}

int main(void) {
    RUN(seed_example_loads_as_it_stands);
    RUN(a_checksum_of_digits_needs_no_quotes);
    RUN(seed_example_rewritten_in_either_syntax_says_the_same);
    RUN(golden_documents_are_written_byte_for_byte);
    RUN(golden_documents_are_parsed_field_by_field);
    RUN(members_may_stand_in_any_order);
    RUN(absent_and_null_are_the_same);
    RUN(integers_may_have_underscores);
    RUN(unknown_members_survive_every_rewrite_at_every_level);
    RUN(unknown_members_of_additions_survive);
    RUN(newer_versions);
    RUN(every_rule_of_the_document);
    RUN(every_rule_of_tiers);
    RUN(size_budgets);
    RUN(every_rule_of_a_shard);
    RUN(paths_cannot_leave_the_directory);
    RUN(names_that_some_system_cannot_have);
    RUN(rules_of_shards_beside_each_other);
    RUN(all_errors_are_collected_and_counted);
    RUN(types_of_members_are_checked_with_their_place);
    RUN(a_place_does_not_outlive_its_list);
    RUN(every_mark_is_needed);
    RUN(words_that_other_yaml_takes_for_booleans_are_strings);
    RUN(any_text_comes_back);
    RUN(what_cannot_be_written_is_refused_with_its_place);
    RUN(built_is_as_good_as_parsed);
    RUN(arguments_that_are_missing_are_refused);
    RUN(limits_of_a_document);
    RUN(rules_of_structs);
    RUN(pieces_that_are_private);
    RUN(shards_of_experts_and_layers);
    RUN(every_bit_and_every_length_is_covered);
    RUN(additions_need_a_tail);
    RUN(a_tail_inside_a_scalar_does_not_count);
    RUN(signatures_fail_closed);
    RUN(what_is_signed_is_covered);
    RUN(a_signature_out_of_its_place_is_none);
    RUN(a_signature_of_another_algorithm_or_length_is_refused);
    RUN(each_allocation_may_fail);
    RUN(each_allocation_of_a_builder_may_fail);
    RUN(memory_is_in_proportion);
    RUN(mutations_do_no_harm);
    RUN(pool_file_names);
    RUN(files_are_written_and_read);
    RUN(a_source_is_streamed);
    return test_finish();
}
