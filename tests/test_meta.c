/* test_meta.c - the chapters >>integrity and >>meta: documents written, read, checked, damaged, signed, and made by
 * hostile hands. */
#define DCP_LIMIT_FINDINGS 100
static int limit_tensors = 67108864, limit_shards = 1048576, limit_fields = 1048576;   /* few in limits_of_a_document */
#define DCP_LIMIT_TENSORS limit_tensors
#define DCP_LIMIT_SHARDS limit_shards
#define DCP_LIMIT_FIELDS limit_fields
static long long limit_document = 1LL << 34;
#define DCP_LIMIT_DOCUMENT limit_document
#include "counting_allocator.h"
#include "text.h"

/* ---- a document that keeps every rule ---------------------------------------------------------------------------- */
/* The digests were computed with Python's hashlib: T and V of DESIGN 2.2, H with the key below. */
#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "2222222222222222222222222222222222222222222222222222222222222222"
#define D3 "3333333333333333333333333333333333333333333333333333333333333333"
#define TREE_0 "5189c77d29fe5d546a045ec46986852785fea5c13ac7da9c115ff5fb6edf817c"    /* SHA-256 of D1 and D2 as bytes */
#define TREE_1 "deb0e38ced1e41de6f92e70e80c418d2d356afaaa99e26f5939dbc7d3ef4772a"     /* of D3 */
static const char golden_body[] =
    "{\n"
    "  \"version\": \"1.0.0\",\n"
    "  \"timestamp\": \"2026-11-20T12:00:00.123456Z\",\n"
    "  \"worldSize\": 2,\n"
    "  \"ddpRank\": 0,\n"
    "  \"saveId\": \"9f86d081884c7d65\",\n"
    "  \"sequence\": 12,\n"
    "  \"sharding\": { \"strategy\": \"fsdp\", \"shardCount\": 2, \"precision\": \"bf16\", \"strategySpecificInfo\": "
    "{} },\n"
    "  \"shards\": [\n"
    "    {\n"
    "      \"rank\": 0,\n"
    "      \"filePath\": \"step_100_shard_0.bin\",\n"
    "      \"fileSize\": 8200,\n"
    "      \"tensors\": [\n"
    "        { \"name\": \"layers.0.wq\", \"shape\": [256, 8], \"dataType\": \"fp32\", \"offset\": 0, \"size\": 8192,\n"
    "          \"globalShape\": [512, 8], \"globalOffset\": [0, 0], \"placement\": \"sharded\", "
    "\"blockSize\": 4194304, \"blockChecksums\": [\"" D1 "\"] },\n"
    "        { \"name\": \"step\", \"shape\": [], \"dataType\": \"int64\", \"offset\": 8192, \"size\": 8,\n"
    "          \"globalShape\": [], \"globalOffset\": [], \"placement\": \"replicated\", "
    "\"blockSize\": 4194304, \"blockChecksums\": [\"" D2 "\"] }\n"
    "      ],\n"
    "      \"checksum\": \"sha256-tree:" TREE_0 "\"\n"
    "    },\n"
    "    {\n"
    "      \"rank\": 1,\n"
    "      \"filePath\": \"step_100_shard_1.bin\",\n"
    "      \"fileSize\": 8192,\n"
    "      \"tensors\": [\n"
    "        { \"name\": \"layers.0.wq\", \"shape\": [256, 8], \"dataType\": \"fp32\", \"offset\": 0, \"size\": 8192,\n"
    "          \"globalShape\": [512, 8], \"globalOffset\": [256, 0], \"placement\": \"sharded\", "
    "\"blockSize\": 4194304, \"blockChecksums\": [\"" D3 "\"] },\n"
    "        { \"name\": \"none\", \"shape\": [0, 3], \"dataType\": \"bf16\", \"offset\": 8192, \"size\": 0,\n"
    "          \"globalShape\": [0, 3], \"globalOffset\": [0, 0], \"placement\": \"private\", "
    "\"blockSize\": 4194304, \"blockChecksums\": [] }\n"
    "      ],\n"
    "      \"checksum\": \"sha256-tree:" TREE_1 "\"\n"
    "    }\n"
    "  ],\n"
    "  \"training\": { \"epoch\": 5, \"step\": 100, \"learningRate\": 0.0003, \"optimizerType\": \"adamw\", "
    "\"optimizerState\": {} },\n"
    "  \"customFields\": { \"git\": \"abc123\", \"note\": \"two\\nlines\" }";

#define GOLDEN_VALUE "0dbff8984375708d15c138b8123d8db47986ff29f33a00ac04593fbcb629af66"
#define GOLDEN_CHECKPOINT_VALUE "8120c060c1009c235499e20f9074439f6cda57fa058c173763716a556017802e"
#define GOLDEN_KEY "0123456789abcdef"
#define GOLDEN_SIGNATURE ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"ops-2026\", \"value\": \"" \
    "58f593bb33895cfedfd5cdb5147bd1b344264eb71ed47e20c269e9b55f6f2bce\" }"
#define GOLDEN_SIGNED_VALUE "dd8aca7bdfec629eb4c5917333e3b8d15bed50bc9e23ebee25dd7e4ba4678771"
#define TAIL(value) ",\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \"" value "\" }\n}\n"

/* What is added to a document at its end, in bytes. */
static int64_t tail_size(const char *type, const dcp_signer *signer) {
    dcpi_integrity stream;
    dcp_error err;
    CHECK_OK(dcpi_integrity_begin(&stream, type, signer, NULL, NULL, &err));
    CHECK_OK(dcpi_integrity_end(&stream, &err));
    return stream.size;
}
/* A body with a good tail, by the library's own writer (which the golden tests check). */
static text seal_as(const char *body, const char *type, const dcp_signer *signer) {
    text t = { NULL, 0, 0 };
    dcpi_integrity stream;
    dcp_error err;
    CHECK_OK(dcpi_integrity_begin(&stream, type, signer, text_sink, &t, &err));
    CHECK_OK(dcpi_integrity_write(&stream, body, strlen(body), &err));
    CHECK_OK(dcpi_integrity_end(&stream, &err));
    CHECK_INT(stream.size, t.size);
    return t;
}
static text seal(const char *body) { return seal_as(body, DCPI_TYPE_METADATA, NULL); }

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
static dcp_metadata *parse(const char *document) {
    dcp_metadata *m;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_metadata_parse(document, strlen(document), &m, &err), err.message);
    CHECK(m != NULL && err.message[0] == '\0');
    return m;
}
static dcp_metadata *parse_sealed(const char *body) {
    text t = seal(body);
    dcp_metadata *m = parse(t.data);
    free(t.data);
    return m;
}
static dcp_metadata *golden(void) { return parse_sealed(golden_body); }

static int contains(const char *whole, const char *part) { return strstr(whole, part) != NULL; }
static void check_fails(const char *document, size_t size, dcp_status expected, const char *words) {
    dcp_metadata *m = (dcp_metadata *)&m;
    dcp_error err;
    dcp_status status = dcp_metadata_parse(document, size, &m, &err);
    if (status != expected || !contains(err.message, words))
        printf("  got %s: %s\n", dcp_status_name(status), err.message);
    CHECK_INT(status, expected);
    CHECK_INT(err.status, expected);
    CHECK(contains(err.message, words));
    CHECK(m == NULL);
}
static void check_body_fails(const char *body, dcp_status expected, const char *words) {
    text t = seal(body);
    check_fails(t.data, t.size, expected, words);
    free(t.data);
}
/* The golden document with one change is refused by the parser. */
static void check_change_fails(const char *find, const char *put, dcp_status expected, const char *words) {
    text t = replaced(golden_body, find, put);
    check_body_fails(t.data, expected, words);
    free(t.data);
}
static text write_text(const dcp_metadata *m, const dcp_signer *signer) {
    text t = { NULL, 0, 0 };
    char *written;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_metadata_write(m, signer, &written, &t.size, &err), err.message);
    CHECK_INT(strlen(written), t.size);
    t.size = 0;
    text_add(&t, written, strlen(written));
    dcp_free(written);
    return t;
}

/* ---- >>integrity ------------------------------------------------------------------------------------------------- */
static dcp_status check_document(const dcp_metadata *m, const char *path, dcp_error *e) {
    dcp_validation found;
    dcp_status status = dcpi_meta_check(m, path, &found, e);
    dcp_validation_free(&found);
    return status;
}
TEST(integrity_known_answers) {
    dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    text t = seal(golden_body);
    CHECK_INT(t.size, sizeof golden_body - 1 + (size_t)tail_size(DCPI_TYPE_METADATA, NULL));
    CHECK_STR(t.data + sizeof golden_body - 1, TAIL(GOLDEN_VALUE));
    free(t.data);
    t = seal_as(golden_body, DCPI_TYPE_CHECKPOINT, NULL);
    CHECK_STR(t.data + sizeof golden_body - 1, TAIL(GOLDEN_CHECKPOINT_VALUE));
    free(t.data);
    t = seal_as(golden_body, DCPI_TYPE_METADATA, &signer);
    CHECK_STR(t.data + sizeof golden_body - 1, GOLDEN_SIGNATURE TAIL(GOLDEN_SIGNED_VALUE));
    CHECK_INT(tail_size(DCPI_TYPE_METADATA, &signer), t.size - (sizeof golden_body - 1));
    free(t.data);
}
TEST(integrity_finds_the_tail) {
    dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, NULL);
    text t = seal_as(golden_body, DCPI_TYPE_METADATA, &signer);
    dcpi_tail tail;
    dcp_error err;
    CHECK_OK(dcpi_integrity_check(DCPI_TYPE_METADATA, t.data, t.size, NULL, &tail, &err));
    CHECK(tail.present && tail.is_signed);
    CHECK_STR(tail.algorithm, "hmac-sha256");
    CHECK_STR(tail.key, "");
    CHECK_INT(tail.signed_body, sizeof golden_body - 1);
    CHECK_INT(tail.body, t.size - (size_t)tail_size(DCPI_TYPE_METADATA, NULL));
    CHECK_OK(dcpi_integrity_check(DCPI_TYPE_METADATA, "", 0, NULL, &tail, &err));
    CHECK(!tail.present);
    CHECK_OK(dcpi_integrity_check(DCPI_TYPE_METADATA, t.data, t.size - 1, NULL, &tail, &err));
    CHECK(!tail.present);
    free(t.data);
}
static void check_signature(text t, const dcp_verifier *verifier, dcp_status expected, const char *words) {
    dcp_metadata *m;
    dcp_error err;
    dcp_status status = dcpi_meta_parse(t.data, t.size, DCPI_TYPE_METADATA, verifier, &m, &err);
    if (status != expected || !contains(err.message, words))
        printf("  got %s: %s\n", dcp_status_name(status), err.message);
    CHECK_INT(status, expected);
    CHECK(contains(err.message, words));
    CHECK((m != NULL) == (expected == DCP_OK));
    dcp_metadata_free(m);
    free(t.data);
}
static text literal(const char *a, const char *b) {
    text t = { NULL, 0, 0 };
    text_add(&t, a, strlen(a));
    text_add(&t, b, strlen(b));
    return t;
}
TEST(signatures) {
    dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026"), other;
    dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16), wrong = dcp_hmac_verifier("0123456789abcdeF", 16);
    text t;
    check_signature(seal_as(golden_body, DCPI_TYPE_METADATA, &signer), &verifier, DCP_OK, "");
    check_signature(seal_as(golden_body, DCPI_TYPE_METADATA, &signer), NULL, DCP_OK, "");
    check_signature(seal_as(golden_body, DCPI_TYPE_METADATA, &signer), &wrong, DCP_E_SIGNATURE, "does not match");
    check_signature(seal(golden_body), &verifier, DCP_E_SIGNATURE, "not signed");                         /* stripped */
    check_signature(literal(golden_body, "\n}\n"), &verifier, DCP_E_SIGNATURE, "does not end in an integrity member");
    check_signature(seal_as(golden_body, DCPI_TYPE_CHECKPOINT, &signer), &verifier, DCP_E_SIGNATURE,
                    "of type checkpoint/json");
    check_signature(seal_as(golden_body, "manifest/json", &signer), &verifier, DCP_E_SIGNATURE,
                    "of type manifest/json");
    t = seal_as(golden_body, DCPI_TYPE_METADATA, &signer);
    t.data[--t.size] = '\0';
    check_signature(t, &verifier, DCP_E_SIGNATURE, "cut short");
    /* a signature of another body under a good integrity: the body was changed and the tail made anew */
    t = replaced(golden_body, "\"ddpRank\": 0", "\"ddpRank\": 1");
    text_add(&t, GOLDEN_SIGNATURE, strlen(GOLDEN_SIGNATURE));
    check_signature(seal(t.data), &verifier, DCP_E_SIGNATURE, "does not match");
    free(t.data);
    /* the type is wrong in the signature alone */
    t = literal(golden_body, GOLDEN_SIGNATURE);
    check_signature(seal_as(t.data, DCPI_TYPE_CHECKPOINT, NULL), &verifier, DCP_E_SIGNATURE, "checkpoint/json");
    free(t.data);
    /* downgraded: another algorithm's name, another size */
    t = literal(golden_body, ",\n  \"signature\": { \"algorithm\": \"none\", \"key\": \"\", \"value\": \"00\" }");
    check_signature(seal(t.data), &verifier, DCP_E_SIGNATURE, "signed with none");
    free(t.data);
    t = literal(golden_body,
                ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"\", \"value\": \"00\" }");
    check_signature(seal(t.data), &verifier, DCP_E_SIGNATURE, "has 1 bytes");
    free(t.data);
    /* truncated to nothing, or with upper-case digits: then it is no signature member, and no good document either */
    t = literal(golden_body, ",\n  \"signature\": { \"algorithm\": \"hmac-sha256\", \"key\": \"\", \"value\": \"\" }");
    check_signature(seal(t.data), &verifier, DCP_E_SIGNATURE, "not signed");
    check_signature(seal(t.data), NULL, DCP_E_CHECKSUM, "signature");
    free(t.data);
    /* the key's name is signed too */
    other = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2027");
    t = seal_as(golden_body, DCPI_TYPE_METADATA, &other);
    {
        text swapped = replaced(t.data, "ops-2027", "ops-2026");
        swapped.data[swapped.size - (size_t)tail_size(DCPI_TYPE_METADATA, NULL)] = '\0';
        check_signature(seal(swapped.data), &verifier, DCP_E_SIGNATURE, "does not match");
        free(swapped.data);
    }
    free(t.data);
}
static dcp_status toy_sign(void *context, const void *message, size_t size, uint8_t *signature, dcp_error *err) {
    if (!context) return dcpi_fail(err, DCP_E_DEVICE, "the token is not there");
    CHECK(size > 17 && memcmp(message, "dcp-integrity-v1\n", 17) == 0);
    dcp_sha256(message, size, signature);
    memset(signature + 32, 0xA5, 1000 - 32);
    return dcpi_succeed(err);
}
static dcp_status toy_verify(void *context, const char *key_id, const void *message, size_t size,
                             const uint8_t *signature, dcp_error *err) {
    uint8_t digest[32];
    CHECK_STR(key_id, (const char *)context);
    dcp_sha256(message, size, digest);
    return memcmp(digest, signature, 32) == 0 && signature[999] == 0xA5 ? dcpi_succeed(err) : DCP_E_SIGNATURE;
}
static dcp_status one_byte_sign(void *context, const void *data, size_t size, uint8_t *signature, dcp_error *err) {
    (void)context; (void)data; (void)size;
    signature[0] = 0x5A;
    return dcpi_succeed(err);
}
static dcp_status one_byte_verify(void *context, const char *key_id, const void *data, size_t size,
                                  const uint8_t *signature, dcp_error *err) {
    (void)context; (void)key_id; (void)data; (void)size;
    return signature[0] == 0x5A ? dcpi_succeed(err) : dcpi_fail(err, DCP_E_SIGNATURE, "another byte");
}
TEST(custom_signers) {
    char name[] = "K-1_a.b";
    dcp_signer signer = DCP_ZERO;
    dcp_verifier verifier = DCP_ZERO, hmac = dcp_hmac_verifier(GOLDEN_KEY, 16);
    dcp_metadata *m = golden();
    dcp_error err;
    char *written = (char *)&err;
    size_t size = 7;
    signer.context = name; signer.algorithm = "toy-1"; signer.key_id = name; signer.size = 1000; signer.sign = toy_sign;
    verifier.context = name; verifier.algorithm = "toy-1"; verifier.size = 1000; verifier.verify = toy_verify;
    check_signature(write_text(m, &signer), &verifier, DCP_OK, "");
    check_signature(write_text(m, &signer), &hmac, DCP_E_SIGNATURE, "signed with toy-1");
    signer.context = NULL;
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_DEVICE);
    CHECK(written == NULL && size == 0);
    CHECK_STR(err.message, "signing: the token is not there");
    signer.algorithm = "Toy";
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    signer.algorithm = "toy"; signer.key_id = "a b";
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    signer.key_id = NULL; signer.size = 65537;
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    signer.size = 0;
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "signer.size is 0"));
    signer.size = 1; signer.algorithm = "a"; signer.sign = one_byte_sign; verifier.algorithm = "a"; verifier.size = 1;
    verifier.verify = one_byte_verify;
    check_signature(write_text(m, &signer), &verifier, DCP_OK, "");     /* the shortest there may be */
    signer.size = 32; signer.algorithm = "";
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    signer.algorithm = "a23456789-123456789-123456789-123";
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "1 to 32 of the characters"));
    signer.algorithm = NULL;
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    signer = dcp_hmac_signer(GOLDEN_KEY, 16, NULL);                     /* without a key id: "" */
    {
        text t = write_text(m, &signer);
        CHECK(contains(t.data, "\"key\": \"\""));
        hmac = dcp_hmac_verifier(GOLDEN_KEY, 16);
        check_signature(t, &hmac, DCP_OK, "");
    }
    signer.algorithm = "hmac-sha512";                                /* without a callback there is but one algorithm */
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "without a callback the algorithm is hmac-sha256 with 32 bytes"));
    signer.algorithm = "hmac-sha256"; signer.size = 16;
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    signer.size = 32; signer.context = NULL;
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "the key has 0 bytes"));
    signer = dcp_hmac_signer(GOLDEN_KEY, 15, NULL);                     /* one byte short of what is needed */
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "the key has 15 bytes; at least 16"));
    signer = dcp_hmac_signer("short", 5, NULL);
    CHECK_INT(dcp_metadata_write(m, &signer, &written, &size, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "at least 16"));
    hmac = dcp_hmac_verifier("short", 5);
    check_signature(write_text(m, NULL), &hmac, DCP_E_INVALID, "at least 16");
    dcp_metadata_free(m);
}

/* ---- >>meta: types, names, times --------------------------------------------------------------------------------- */
TEST(data_types) {
    static const char *const aliases[][2] = {
        {"float32", "fp32"}, {"F32", "fp32"}, {"torch.float32", "fp32"}, {"bfloat16", "bf16"}, {"BF16", "bf16"},
        {"I64", "int64"}, {"double", "fp64"}, {"half", "fp16"}, {"F8_E4M3", "fp8_e4m3"}, {"float8_e5m2", "fp8_e5m2"},
        {"U8", "uint8"}, {"BOOL", "bool"}, {"C64", "complex64"}, {"INT4", "int4"}
    };
    static const int bits[] = {32, 64, 16, 16, 8, 8, 64, 32, 16, 8, 64, 32, 16, 8, 8, 64, 128, 4, 4, 4};
    int64_t size;
    size_t i;
    for (i = 0; i < DCPI_COUNT(bits); i++) {
        dcp_dtype type = (dcp_dtype)(i + 1);
        CHECK_INT(dcp_dtype_bits(type), bits[i]);
        CHECK_INT(dcp_dtype_parse(dcp_dtype_name(type)), type);
    }
    for (i = 0; i < DCPI_COUNT(aliases); i++) CHECK_STR(dcp_dtype_name(dcp_dtype_parse(aliases[i][0])), aliases[i][1]);
    CHECK_INT(dcp_dtype_parse(NULL), DCP_OPAQUE);
    CHECK_INT(dcp_dtype_parse(""), DCP_OPAQUE);
    CHECK_INT(dcp_dtype_parse(" "), DCP_OPAQUE);
    CHECK_INT(dcp_dtype_parse("f32 single"), DCP_OPAQUE);
    CHECK_INT(dcp_dtype_parse("nf4"), DCP_OPAQUE);
    CHECK_INT(dcp_dtype_parse("a_very_long_name_of_a_type_that_nobody_knows"), DCP_OPAQUE);
    CHECK(dcp_dtype_name((dcp_dtype)0) == NULL && dcp_dtype_name((dcp_dtype)31) == NULL);
    CHECK_INT(dcp_dtype_bits(DCP_OPAQUE), 0);
    CHECK_INT(dcp_dtype_bits((dcp_dtype)0), 0);
    CHECK(dcpi_dtype_size(DCP_INT4, 3, &size) && size == 2);
    CHECK(dcpi_dtype_size(DCP_COMPLEX128, 3, &size) && size == 48);
    CHECK(!dcpi_dtype_size(DCP_FP64, INT64_MAX / 4, &size));
    CHECK_STR(dcp_layout_extension(DCP_LAYOUT_SHARDED), ".metadata.json");
    CHECK_STR(dcp_layout_extension(DCP_LAYOUT_SINGLE), ".checkpoint");
    CHECK_STR(dcp_layout_extension(DCP_LAYOUT_MANIFEST), ".manifest.json");
}
TEST(names_and_keys) {
    static const char *const good[] = {"a", "a/b", "a b", ".a", "a..b", "...", "\xC3\xA4/x.bin", "a.", "-", "~"};
    static const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "./a", "a\\b", "C:", "a:b",
                                      "a\nb", "a\x7F", "\xC2\x85", "\xFF", "\xC3"};
    char name[32];
    dcp_error err;
    size_t i;
    for (i = 0; i < DCPI_COUNT(good); i++) CHECK(dcpi_key_is_valid(good[i]));
    for (i = 0; i < DCPI_COUNT(bad); i++) CHECK(!dcpi_key_is_valid(bad[i]));
    CHECK_OK(dcp_shard_name("a/step_1", 12, NULL, name, sizeof name, &err));
    CHECK_STR(name, "a/step_1_shard_12.bin");
    CHECK_OK(dcp_shard_name("s", 0, "0123456789abcdef", name, sizeof name, &err));
    CHECK_STR(name, "s_shard_0.0123456789abcdef.bin");
    CHECK_INT(dcp_shard_name("s", 0, "0123456789abcdef", name, 30, &err), DCP_E_INVALID);
    CHECK_STR(name, "");
    CHECK_INT(dcp_shard_name("s", -1, NULL, name, sizeof name, &err), DCP_E_INVALID);
    CHECK_INT(dcp_shard_name("s", 0, "XX", name, sizeof name, &err), DCP_E_INVALID);
    CHECK_INT(dcp_shard_name(NULL, 0, NULL, name, sizeof name, NULL), DCP_E_INVALID);
    CHECK_INT(dcp_shard_owner(5, 2), 1);
    CHECK_INT(dcp_shard_owner(5, 0), 0);
}
TEST(times) {
    static const struct { const char *text; int64_t seconds; int nanoseconds; } good[] = {
        {"1970-01-01T00:00:00Z", 0, 0}, {"2024-02-29T23:59:59.1Z", 1709251199, 100000000},
            {"2000-03-01T00:00:00.123456789", 951868800, 123456789},
        {"2024-01-01T00:00:00.1234567Z", 1704067200, 123456700}, {"2024-01-01T01:30:00+01:30", 1704067200, 0},
        {"2023-12-31T23:00:00-01:00", 1704067200, 0},
        {"1969-12-31T23:59:59Z", -1, 0}, {"0001-01-01T00:00:00Z", -62135596800, 0},
        {"9999-12-31T23:59:59Z", 253402300799, 0}
    };
    static const char *const bad[] = {
        "", "now", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2023-02-29T00:00:00Z", "2100-02-29T00:00:00Z",
            "2024-01-32T00:00:00Z",
        "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:60Z", "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.1234567890Z",
        "2024-01-01T00:00:00ZZ", "2024-01-01T00:00:00+1:00", "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+01:00x",
        "24-01-01T00:00:00Z", "2024-01-01T00:00", "2024-01-01T00:00:00 01:00", "2024-01-01T00:00:00+01:60",
        "2024-01-01T00:00:00./Z",
        "2024-01-01T00:00:00+01:-1", "2024-01-01T00:00:00+-1:00"
    };
    char written[DCPI_TIME_TEXT];
    int64_t seconds, day;
    int nanoseconds;
    size_t i;
    for (i = 0; i < DCPI_COUNT(good); i++) {
        CHECK(dcpi_time_parse(good[i].text, &seconds, &nanoseconds));
        CHECK_INT(seconds, good[i].seconds);
        CHECK_INT(nanoseconds, good[i].nanoseconds);
    }
    for (i = 0; i < DCPI_COUNT(bad); i++) CHECK(!dcpi_time_parse(bad[i], &seconds, &nanoseconds));
    for (day = 0; day < 120000; day++) {                                /* there and back, until the year 2298 */
        dcpi_time_format((day * 86400 + 86399) * 1000000 + 999999, written);
        CHECK(dcpi_time_parse(written, &seconds, &nanoseconds));
        CHECK_INT(seconds, day * 86400 + 86399);
    }
    dcpi_time_format(1704067200123456, written);
    CHECK_STR(written, "2024-01-01T00:00:00.123456Z");
    dcpi_time_format(INT64_MAX, written);
    CHECK_STR(written, "9999-12-31T23:59:59.999999Z");
    dcpi_time_format(-5, written);
    CHECK_STR(written, "1970-01-01T00:00:00.000000Z");
}

/* ---- >>meta: the seed's testing requirements --------------------------------------------------------------------- */
static void add_shard(dcp_metadata *m, int rank) {
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata tensor = DCP_ZERO;
    char path[32];
    dcp_error err;
    (void)snprintf(path, sizeof path, "model_shard_%d.bin", rank);
    shard.rank = rank; shard.file_path = path; shard.file_size = 1024; shard.checksum = D1;
    tensor.name = "weight"; tensor.ndim = 2; tensor.shape[0] = 16; tensor.shape[1] = 16; tensor.data_type = "fp32";
    tensor.size = 1024;
    shard.tensors = &tensor; shard.tensor_count = 1;
    CHECK_OK_MESSAGE(dcp_metadata_add_shard(m, &shard, &err), err.message);
}
static dcp_metadata *built(void) {
    dcp_metadata *m;
    dcp_sharding sharding = DCP_ZERO;
    dcp_training training = DCP_ZERO;
    dcp_error err;
    CHECK_OK(dcp_metadata_new(&m, &err));
    m->world_size = 2;
    sharding.strategy = "fsdp"; sharding.shard_count = 2; sharding.precision = "fp16"; sharding.info = "{\"zero\": 3}";
    training.epoch = 5; training.step = 1000; training.learning_rate = 1e-4;
    training.optimizer_type = "Adam"; training.optimizer_state = "{\"beta1\": 0.9}";
    CHECK_OK(dcp_metadata_set_sharding(m, &sharding, &err));
    CHECK_OK(dcp_metadata_set_training(m, &training, &err));
    add_shard(m, 0);
    add_shard(m, 1);
    CHECK_OK(dcp_metadata_set_field(m, "framework", "mlfx", &err));
    return m;
}
/* Each error and warning must hold both words. */
static int found(char **list, size_t count, const char *path, const char *words) {
    size_t i;
    for (i = 0; i < count; i++) if (dcpi_starts_with(list[i], path) && contains(list[i], words)) return 1;
    return 0;
}
static void show(const dcp_validation *v) {
    size_t i;
    for (i = 0; i < v->error_count; i++) printf("  error %s\n", v->errors[i]);
    for (i = 0; i < v->warning_count; i++) printf("  warning %s\n", v->warnings[i]);
}
static void check_valid(const dcp_metadata *m, size_t warnings) {
    dcp_validation v;
    dcp_error err;
    if (dcp_metadata_validate(m, &v) != DCP_OK || v.warning_count != warnings) show(&v);
    CHECK_INT(v.error_count, 0);
    CHECK_INT(v.warning_count, warnings);
    dcp_validation_free(&v);
    CHECK_OK(check_document(m, "x", &err));
}
static void check_error(const dcp_metadata *m, const char *path, const char *words) {
    dcp_validation v;
    CHECK_INT(dcp_metadata_validate(m, &v), DCP_E_FORMAT);
    if (!found(v.errors, v.error_count, path, words)) { printf("  no \"%s ... %s\" in\n", path, words); show(&v); }
    CHECK(found(v.errors, v.error_count, path, words));
    dcp_validation_free(&v);
}
static void check_warning(const dcp_metadata *m, const char *path, const char *words) {
    dcp_validation v;
    CHECK_OK(dcp_metadata_validate(m, &v));
    if (!found(v.warnings, v.warning_count, path, words)) show(&v);
    CHECK(found(v.warnings, v.warning_count, path, words));
    dcp_validation_free(&v);
}
/* not ==: x87 compares with more bits */
static int same_double(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

TEST(seed_serialization_roundtrip) {
    dcp_metadata *m = built(), *n;
    text t = write_text(m, NULL), again;
    n = parse(t.data);
    CHECK_STR(n->version, "1.0.0");
    CHECK_INT(strlen(n->timestamp), 27);
    CHECK_INT(n->world_size, 2);
    CHECK_STR(n->sharding.strategy, "fsdp");
    CHECK_STR(n->sharding.precision, "fp16");
    CHECK_STR(n->sharding.info, "{\"zero\": 3}");
    CHECK_INT(n->shard_count, 2);
    CHECK_STR(n->shards[1].file_path, "model_shard_1.bin");
    CHECK_STR(n->shards[1].checksum, D1);
    CHECK_STR(n->shards[1].tensors[0].name, "weight");
    CHECK_INT(n->training.step, 1000);
    CHECK(n->has_training && same_double(n->training.learning_rate, 1e-4));
    CHECK_STR(n->training.optimizer_state, "{\"beta1\": 0.9}");
    again = write_text(n, NULL);
    CHECK_STR(again.data, t.data);
    CHECK(!n->is_foreign);
    free(t.data);
    free(again.data);
    dcp_metadata_free(m);
    dcp_metadata_free(n);
}
TEST(seed_validation_with_valid_metadata) {
    dcp_metadata *m = built();
    check_valid(m, 0);
    dcp_metadata_free(m);
    m = golden();
    check_valid(m, 0);
    dcp_metadata_free(m);
}
TEST(seed_validation_with_missing_fields) {
    dcp_metadata empty = DCP_ZERO, *m;
    dcp_validation v;
    dcp_error err;
    check_error(&empty, "sharding: ", "required");
    check_error(&empty, "shards: ", "at least one shard is required");
    CHECK_INT(dcp_metadata_validate(&empty, &v), DCP_E_FORMAT);
    dcp_validation_free(&v);
    m = parse_sealed("{\n  \"version\": null");
    check_error(m, "version: ", "required");
    check_error(m, "sharding: ", "required");
    check_error(m, "shards: ", "at least one shard");
    CHECK_INT(check_document(m, "runs/a", &err), DCP_E_FORMAT);
    CHECK(contains(err.message, "runs/a: version: ") && contains(err.message, "2 more errors"));
    dcp_metadata_free(m);
    m = built();
    m->shards[1].checksum = NULL;
    check_warning(m, "shards[1].checksum", "shard 1 is missing its checksum");
    m->version = "";
    check_error(m, "version", "required");
    dcp_metadata_free(m);
    CHECK_INT(dcp_metadata_validate(NULL, &v), DCP_E_INVALID);
    dcp_validation_free(&v);
}
TEST(seed_validation_with_inconsistent_shard_counts) {
    dcp_metadata *m = built();
    m->sharding.shard_count = 4;
    check_error(m, "sharding.shardCount: shard count mismatch", "expected 4, found 2");
    dcp_metadata_free(m);
}
TEST(seed_custom_fields_persistence) {
    dcp_metadata *m = built(), *n;
    dcp_error err;
    text t;
    CHECK_OK(dcp_metadata_set_field(m, "a\"\n\t\xC3\xA4", "v\\\x01\xF0\x9F\x98\x80", &err));
    CHECK_OK(dcp_metadata_set_field(m, "framework", "other", &err));
    CHECK_OK(dcp_metadata_set_field(m, "gone", "x", &err));
    CHECK_OK(dcp_metadata_set_field(m, "empty", "", &err));
    CHECK_OK(dcp_metadata_set_field(m, "gone", NULL, &err));
    CHECK_OK(dcp_metadata_set_field(m, "never", NULL, &err));
    t = write_text(m, NULL);
    n = parse(t.data);
    CHECK_INT(n->field_count, 3);
    CHECK_STR(dcp_metadata_field(n, "framework"), "other");
    CHECK_STR(dcp_metadata_field(n, "a\"\n\t\xC3\xA4"), "v\\\x01\xF0\x9F\x98\x80");
    CHECK_STR(dcp_metadata_field(n, "empty"), "");
    CHECK(dcp_metadata_field(n, "gone") == NULL);
    CHECK(dcp_metadata_field(NULL, "gone") == NULL);
    free(t.data);
    dcp_metadata_free(m);
    dcp_metadata_free(n);
}

/* ---- >>meta: writing and parsing --------------------------------------------------------------------------------- */
TEST(golden_document_is_written_byte_for_byte) {
    dcp_metadata *m = golden();
    dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    text t = write_text(m, NULL), wanted = literal(golden_body, TAIL(GOLDEN_VALUE));
    CHECK_STR(t.data, wanted.data);
    free(t.data);
    free(wanted.data);
    t = write_text(m, &signer);
    wanted = literal(golden_body, GOLDEN_SIGNATURE TAIL(GOLDEN_SIGNED_VALUE));
    CHECK_STR(t.data, wanted.data);
    free(t.data);
    free(wanted.data);
    dcp_metadata_free(m);
}
TEST(golden_document_is_parsed_field_by_field) {
    dcp_metadata *m = golden();
    const dcp_tensor_metadata *t;
    CHECK_STR(m->version, "1.0.0");
    CHECK_STR(m->timestamp, "2026-11-20T12:00:00.123456Z");
    CHECK_STR(m->save_id, "9f86d081884c7d65");
    CHECK_INT(m->sequence, 12);
    CHECK_INT(m->world_size, 2);
    CHECK_INT(m->ddp_rank, 0);
    CHECK_STR(m->sharding.strategy, "fsdp");
    CHECK_INT(m->sharding.shard_count, 2);
    CHECK_STR(m->sharding.precision, "bf16");
    CHECK_STR(m->sharding.info, "{}");
    CHECK(m->sharding.extra == NULL && m->extra == NULL && m->training.extra == NULL);
    CHECK(!m->is_foreign && m->signature_algorithm == NULL && m->signature_key == NULL);
    CHECK_INT(m->shard_count, 2);
    CHECK_INT(m->shards[1].rank, 1);
    CHECK_STR(m->shards[1].file_path, "step_100_shard_1.bin");
    CHECK_INT(m->shards[0].file_size, 8200);
    CHECK_STR(m->shards[0].checksum, "sha256-tree:" TREE_0);
    CHECK_INT(m->shards[0].tensor_count, 2);
    CHECK_INT(m->shards[0].data_offset, 0);
    t = &m->shards[1].tensors[0];
    CHECK_STR(t->name, "layers.0.wq");
    CHECK_INT(t->ndim, 2);
    CHECK(t->shape[0] == 256 && t->shape[1] == 8 && t->shape[2] == 0);
    CHECK_STR(t->data_type, "fp32");
    CHECK(t->global_shape[0] == 512 && t->global_shape[1] == 8 && t->global_offset[0] == 256 &&
          t->global_offset[1] == 0);
    CHECK_STR(t->placement, "sharded");
    CHECK_INT(t->block_size, 4194304);
    CHECK_INT(t->block_count, 1);
    CHECK(t->block_checksums[0] == 0x33 && t->block_checksums[31] == 0x33 && t->extra == NULL);
    t = &m->shards[0].tensors[1];
    CHECK_INT(t->ndim, 0);
    CHECK_INT(t->offset, 8192);
    CHECK_INT(t->size, 8);
    CHECK_INT(m->shards[1].tensors[1].block_count, 0);
    CHECK_INT(m->shards[1].tensors[1].block_size, 4194304);
    CHECK(m->has_training && same_double(m->training.learning_rate, 0.0003));
    CHECK_INT(m->training.epoch, 5);
    CHECK_STR(m->training.optimizer_type, "adamw");
    CHECK_STR(m->training.optimizer_state, "{}");
    CHECK_INT(m->field_count, 2);
    CHECK_STR(dcp_metadata_field(m, "note"), "two\nlines");
    dcp_metadata_free(m);
}
/* Tensors as we write them are read by a shorter way; the same document, spaced in another way, is not, and means the
 * same. */
TEST(both_ways_of_reading_a_tensor_agree) {
    static const char *const spaced[][2] = {
        {"{ \"name\": \"layers.0.wq\"", "{\"name\":\"layers.0.wq\""},
        {"{ \"name\": \"step\", \"shape\": []", "{ \"shape\": [ ], \"name\": \"ste\\u0070\""},
        {"\"size\": 0,\n          ", "\"size\": -0, "}, {"\"placement\": \"private\", ",
            "\"placement\": \"private\",\t"},
        {"[512, 8]", "[512,8]"}, {"[256, 0]", "[256 , 0]"}
    };
    text t = literal(golden_body, ""), next, wanted = seal(golden_body), got;
    dcp_metadata *m;
    size_t i;
    for (i = 0; i < DCPI_COUNT(spaced); i++) {
        next = replaced(t.data, spaced[i][0], spaced[i][1]);
        free(t.data);
        t = next;
        m = parse_sealed(t.data);
        got = write_text(m, NULL);
        CHECK_STR(got.data, wanted.data);
        dcp_metadata_free(m);
        free(got.data);
    }
    free(t.data);
    free(wanted.data);
}
/* The quick way of reading what our writer writes must not be more lenient than the other: without any one of its marks
 * a document is none. */
TEST(every_mark_is_needed) {
    char *body = (char *)malloc(sizeof golden_body);
    size_t i, removed = 0;
    CHECK(body != NULL);
    for (i = 0; i < sizeof golden_body - 1; i++) {
        if (!strchr("[]{},\"", golden_body[i])) continue;
        memcpy(body, golden_body, i);
        memcpy(body + i, golden_body + i + 1, sizeof golden_body - 1 - i);
        check_body_fails(body, DCP_E_FORMAT, "line ");
        removed++;
    }
    CHECK(removed > 300);
    free(body);
}
TEST(the_place_of_an_error_is_that_of_its_member) {
    static const struct { const char *find, *put, *place; } cases[] = {
        {"\"worldSize\": 2", "\"worldSize\": \"x\"", "worldSize: line 4"},
            {"\"rank\": 1", "\"rank\": \"x\"", "shards[1].rank: line "},
        {"\"name\": \"step\"", "\"name\": 5", "shards[0].tensors[1].name: line "},
        {"\"epoch\": 5", "\"epoch\": {}", "training.epoch: line "},
        {"\"shardCount\": 2", "\"shardCount\": []", "sharding.shardCount: line "},
        {"\"git\": \"abc123\"", "\"git\": 5", "customFields: line "}
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(cases); i++) {
        text t = replaced(golden_body, cases[i].find, cases[i].put), sealed = seal(t.data);
        dcp_metadata *m;
        dcp_error err;
        CHECK_INT(dcp_metadata_parse(sealed.data, sealed.size, &m, &err), DCP_E_FORMAT);
        if (!dcpi_starts_with(err.message, cases[i].place)) printf("  got %s\n", err.message);
        CHECK(dcpi_starts_with(err.message, cases[i].place));
        free(t.data);
        free(sealed.data);
    }
}
TEST(signed_document_says_who_signed) {
    dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    text t = seal_as(golden_body, DCPI_TYPE_METADATA, &signer);
    dcp_metadata *m = parse(t.data);
    CHECK_STR(m->signature_algorithm, "hmac-sha256");
    CHECK_STR(m->signature_key, "ops-2026");
    CHECK(m->extra == NULL);
    free(t.data);
    dcp_metadata_free(m);
}
/* Signed by other hands than ours: parses, but not with a verifier; and what it says is not signed again. */
static void check_not_covered(const char *from, const char *to, const char *words) {
    static const char *const types[] = { DCPI_TYPE_METADATA, DCPI_TYPE_CHECKPOINT };
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    text body = replaced(golden_body, from, to);
    dcp_metadata *m;
    dcp_error err;
    char *made;
    size_t size, i;
    for (i = 0; i < DCPI_COUNT(types); i++) {
        text t = seal_as(body.data, types[i], &signer);
        CHECK_INT(dcpi_meta_parse(t.data, t.size, types[i], &verifier, &m, &err), DCP_E_SIGNATURE);
        CHECK(m == NULL && contains(err.message, words) && contains(err.message, "covered"));
        CHECK_OK(dcpi_meta_parse(t.data, t.size, types[i], NULL, &m, &err));
        CHECK_INT(dcp_metadata_write(m, &signer, &made, &size, &err), DCP_E_SIGNATURE);
        CHECK(made == NULL && contains(err.message, words) && contains(err.message, "cannot be signed"));
        CHECK_OK(dcp_metadata_write(m, NULL, &made, &size, &err));
        dcp_free(made);
        dcp_metadata_free(m);
        free(t.data);
    }
    free(body.data);
}
static void check_covered(const char *from, const char *to) {
    const dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    const dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    text body = replaced(golden_body, from, to), t = seal_as(body.data, DCPI_TYPE_METADATA, &signer), again;
    dcp_metadata *m;
    dcp_error err;
    CHECK_OK_MESSAGE(dcpi_meta_parse(t.data, t.size, DCPI_TYPE_METADATA, &verifier, &m, &err), err.message);
    again = write_text(m, &signer);
    dcp_metadata_free(m);
    free(body.data); free(t.data); free(again.data);
}
#define TREE_LINE ",\n      \"checksum\": \"sha256-tree:" TREE_0 "\""
#define STEP_BLOCKS \
    "\"globalOffset\": [], \"placement\": \"replicated\", \"blockSize\": 4194304, \"blockChecksums\": [\"" D2 "\"]"
TEST(what_is_signed_is_covered) {
    check_covered("abc123", "abc123");
    check_covered(TREE_LINE, "");                       /* the blocks are the whole file */
    check_covered(TREE_LINE, ",\n      \"checksum\": \"" TREE_0 "\"");
    check_covered("\"blockChecksums\": [] }\n      ],\n      \"checksum\": \"sha256-tree:" TREE_1 "\"",
                  "\"blockChecksums\": [] }\n      ]");
    check_not_covered(STEP_BLOCKS, "\"globalOffset\": [], \"placement\": \"replicated\"", "shards[0]");
    check_not_covered(STEP_BLOCKS " }\n      ]" TREE_LINE,
                      "\"globalOffset\": [], \"placement\": \"replicated\" }\n      ]", "shards[0]");
}
TEST(unknown_members_are_kept_at_every_level) {
    static const char *const places[][2] = {
        {"\"version\": ", "\"x\\u0041\": [1, {\"y\": \"\\n\"}], \"version\": "},
            {"\"strategy\": ", "\"x\": 1, \"strategy\": "},
        {"\"rank\": 0", "\"x\": {}, \"w\": null, \"rank\": 0"},
        {"\"name\": \"step\"", "\"x\": -1.5e999, \"name\": \"step\""}, {"\"epoch\": 5", "\"x\": true, \"epoch\": 5"}
    };
    text t = literal(golden_body, ""), next, again;
    dcp_metadata *m, *n;
    size_t i;
    for (i = 0; i < DCPI_COUNT(places); i++) {
        next = replaced(t.data, places[i][0], places[i][1]);
        free(t.data);
        t = next;
    }
    m = parse_sealed(t.data);
    free(t.data);
    CHECK_STR(m->extra, "\"x\\u0041\": [1, {\"y\": \"\\n\"}]");
    CHECK_STR(m->sharding.extra, "\"x\": 1");
    CHECK_STR(m->shards[0].extra, "\"x\": {}, \"w\": null");
    CHECK(m->shards[1].extra == NULL);
    CHECK_STR(m->shards[0].tensors[1].extra, "\"x\": -1.5e999");
    CHECK_STR(m->training.extra, "\"x\": true");
    check_valid(m, 0);
    t = write_text(m, NULL);
    n = parse(t.data);
    again = write_text(n, NULL);
    CHECK_STR(again.data, t.data);
    CHECK_STR(n->extra, m->extra);
    CHECK_STR(n->shards[0].tensors[1].extra, m->shards[0].tensors[1].extra);
    free(t.data);
    free(again.data);
    dcp_metadata_free(m);
    dcp_metadata_free(n);
}
static void check_write_fails(const dcp_metadata *m, const char *words) {
    char *written = (char *)&m;
    size_t size = 1;
    dcp_error err;
    dcp_status status = dcp_metadata_write(m, NULL, &written, &size, &err);
    if (status != DCP_E_INVALID || !contains(err.message, words))
        printf("  got %s: %s\n", dcp_status_name(status), err.message);
    CHECK_INT(status, DCP_E_INVALID);
    CHECK(contains(err.message, words));
    CHECK(written == NULL && size == 0);
}
TEST(text_of_the_program_is_checked_before_it_is_written) {
    static const char *const objects[] = {"", "[]", "{", "{}}", "{} x", "{\"a\":01}", "{\"a\":1,\"a\":2}",
                                          "{\"\xFF\":1}", "{\"a\":\"\n\"}", "null"};
    static const char *const members[] = {"", "1", "\"a\"", "\"a\":", "\"a\":1,", "\"a\":1}, {\"b\":2",
                                          "\"a\":1,\"a\":2", "\"\xC0\":1", "a:1"};
    dcp_metadata *m = built();
    char deep[300];
    size_t i;
    for (i = 0; i < DCPI_COUNT(objects); i++) {
        m->sharding.info = objects[i];
        check_write_fails(m, "strategySpecificInfo");
        check_error(m, "sharding.strategySpecificInfo", "");
        m->sharding.info = NULL;
        m->training.optimizer_state = objects[i];
        check_write_fails(m, "optimizerState");
        m->training.optimizer_state = NULL;
    }
    for (i = 0; i < DCPI_COUNT(members); i++) {
        m->extra = members[i];
        check_write_fails(m, "extra");
        check_error(m, "extra", "");
        m->extra = NULL;
        m->shards[1].tensors[0].extra = members[i];
        check_write_fails(m, "shards[1].tensors[0].extra");
        check_error(m, "shards[1].tensors[0].extra", "");
        m->shards[1].tensors[0].extra = NULL;
        m->shards[1].extra = members[i];
        check_write_fails(m, "shards[1].extra");
        check_error(m, "shards[1].extra", "");
        m->shards[1].extra = NULL;
        m->sharding.extra = members[i];
        check_write_fails(m, "sharding.extra");
        check_error(m, "sharding.extra", "");
        m->sharding.extra = NULL;
        m->training.extra = members[i];
        check_write_fails(m, "training.extra");
        check_error(m, "training.extra", "");
        m->training.extra = NULL;
    }
    m->extra = "\"integrity\": 1";                                 /* a known member does not come in through `extra` */
    check_write_fails(m, "extra");
    m->extra = "\"s\\u0068ards\": []";
    check_write_fails(m, "extra");
    m->extra = NULL;
    m->shards[0].tensors[0].extra = "\"name\": \"b\"";
    check_write_fails(m, "extra");
    m->shards[0].tensors[0].extra = NULL;
    for (i = 0; i < 6; i++) {                                  /* what is nested too deep for a reader is not written */
        size_t depth = 58 + i;
        memcpy(deep, "\"d\": ", 5);
        memset(deep + 5, '[', depth);
        memset(deep + 5 + depth, ']', depth);
        deep[5 + 2 * depth] = '\0';
        m->shards[0].tensors[0].extra = deep;
        {
            char *written;
            size_t size;
            dcp_metadata *n;
            if (dcp_metadata_write(m, NULL, &written, &size, NULL) != DCP_OK) { CHECK(depth > 59 - 1); continue; }
            CHECK_OK(dcp_metadata_parse(written, size, &n, NULL));
            dcp_metadata_free(n);
            dcp_free(written);
        }
    }
    m->shards[0].tensors[0].extra = NULL;
    m->training.learning_rate = HUGE_VAL;
    check_write_fails(m, "learningRate");
    check_error(m, "training.learningRate", "finite");
    m->training.learning_rate = 0;
    m->shards[0].tensors[0].name = "a\xFF";
    check_write_fails(m, "shards[0].tensors[0].name");
    m->shards[0].tensors[0].name = NULL;
    check_write_fails(m, "shards[0].tensors[0].name");
    m->shards[0].tensors[0].name = "w";
    m->shards[0].tensors[0].ndim = 9;
    check_write_fails(m, "shards[0].tensors[0].shape");
    m->shards[0].tensors[0].ndim = 2;
    m->shards[1].file_path = NULL;
    check_write_fails(m, "shards[1].filePath");
    m->shards[1].file_path = "x";
    check_valid(m, 0);
    dcp_metadata_free(m);
}
TEST(minimum_and_defaults) {
    dcp_metadata m = DCP_ZERO, *n;
    dcp_shard_metadata shard = DCP_ZERO;
    text t;
    m.world_size = 1;
    m.sharding.strategy = "ddp";
    m.shards = &shard; m.shard_count = 1;
    shard.file_path = "a"; shard.checksum = D2;
    check_valid(&m, 0);
    t = write_text(&m, NULL);
    n = parse(t.data);
    CHECK_STR(n->version, DCP_FORMAT_VERSION);
    CHECK_INT(n->sharding.shard_count, 1);
    CHECK(!n->has_training && n->save_id == NULL && n->field_count == 0);
    check_valid(n, 0);
    CHECK(contains(t.data, "\"tensors\": [],"));
    CHECK(contains(t.data, "\"customFields\": {}"));
    CHECK(!contains(t.data, "saveId") && !contains(t.data, "training") && !contains(t.data, "sequence") &&
          !contains(t.data, "dataOffset"));
    free(t.data);
    dcp_metadata_free(n);
    dcp_metadata_free(&m);                                              /* filled by hand: nothing happens */
    dcp_metadata_free(NULL);
    m.shards = NULL; m.shard_count = 0;
    t = write_text(&m, NULL);
    CHECK(contains(t.data, "\"shards\": [],"));
    free(t.data);
}
TEST(builders_refuse_what_they_cannot_do) {
    dcp_metadata by_hand = DCP_ZERO, *m = built();
    dcp_tensor_metadata tensor = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_error err;
    CHECK_INT(dcp_metadata_add_tensor(m, 2, &tensor, &err), DCP_E_INVALID);
    CHECK_OK(dcp_metadata_add_tensor(m, 1, &tensor, &err));
    CHECK_INT(m->shards[1].tensor_count, 2);
    CHECK_INT(dcp_metadata_set_sharding(&by_hand, &sharding, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_set_sharding(NULL, &sharding, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_set_field(m, NULL, "", &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_new(NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_set_training(&by_hand, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_set_field(&by_hand, "a", "b", &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_add_shard(&by_hand, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_add_tensor(&by_hand, 0, &tensor, &err), DCP_E_INVALID);
    CHECK(by_hand.shard_count == 0 && by_hand.field_count == 0);
    dcp_metadata_free(m);
}
TEST(arguments_that_are_missing_are_refused) {
    dcp_metadata *m = built(), *parsed = m;
    dcp_validation v;
    dcp_error err;
    char *written = (char *)m, name[24];
    size_t size = 7;
    CHECK_INT(dcp_metadata_write(NULL, NULL, &written, &size, &err), DCP_E_INVALID);
    CHECK(written == NULL && size == 0 && contains(err.message, "metadata, text and size must not be NULL"));
    CHECK_INT(dcp_metadata_write(m, NULL, NULL, &size, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_write(m, NULL, &written, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_parse("{}", 2, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_parse(NULL, 2, &parsed, &err), DCP_E_INVALID);
    CHECK_INT(dcp_metadata_parse(NULL, 0, &parsed, &err), DCP_E_FORMAT);      /* no bytes: not a document */
    CHECK(parsed == NULL);
    CHECK_INT(dcp_metadata_validate(m, NULL), DCP_E_INVALID);
    memset(&v, 0xAA, sizeof v);
    CHECK_INT(dcp_metadata_validate(NULL, &v), DCP_E_INVALID);
    CHECK(v.error_count == 0 && v.warning_count == 0);
    CHECK_INT(dcp_validation_error(&v, NULL), DCP_E_INVALID);
    CHECK_INT(dcp_validation_warning(&v, NULL), DCP_E_INVALID);
    CHECK_INT(dcp_validation_warning(NULL, "x"), DCP_E_INVALID);
    CHECK(v.error_count == 0 && v.warning_count == 0);
    dcp_validation_free(&v);
    CHECK_INT(dcp_shard_name("p", 0, NULL, NULL, 5, &err), DCP_E_INVALID);
    CHECK_INT(dcp_shard_name("p", 0, NULL, name, 0, &err), DCP_E_INVALID);
    CHECK_INT(dcp_shard_name(NULL, 0, NULL, name, sizeof name, &err), DCP_E_INVALID);
    CHECK_STR(name, "");
    CHECK_OK(dcp_shard_name("p", 12, NULL, name, 15, &err));                    /* with its NUL it fits exactly */
    CHECK_STR(name, "p_shard_12.bin");
    CHECK_INT(dcp_shard_name("p", 12, NULL, name, 14, &err), DCP_E_INVALID);
    CHECK(name[0] == '\0' && contains(err.message, "does not fit into 14 bytes"));
    CHECK_INT(dcp_shard_owner(5, 3), 2);
    CHECK_INT(dcp_shard_owner(-5, 3), 0);
    CHECK_INT(dcp_shard_owner(5, 0), 0);
    CHECK_STR(dcp_layout_extension(DCP_LAYOUT_MANIFEST), ".manifest.json");
    CHECK(dcp_layout_extension((dcp_layout)9) == NULL);
    CHECK(dcp_metadata_field(m, NULL) == NULL);
    dcp_metadata_free(m);
}
/* With limits that a test can reach: a program may set them, and then they hold in the builders, the parser and the
 * check alike. */
TEST(limits_of_a_document) {
    dcp_metadata *m = built();
    dcp_tensor_metadata tensor = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    text t = write_text(m, NULL);
    dcp_error err;
    limit_shards = 2;
    CHECK_INT(dcp_metadata_add_shard(m, &shard, &err), DCP_E_LIMIT);
    CHECK(contains(err.message, "more than 2 shards"));
    limit_tensors = 1;
    CHECK_INT(dcp_metadata_add_tensor(m, 0, &tensor, &err), DCP_E_LIMIT);
    CHECK(contains(err.message, "more than 1 tensors"));
    CHECK(m->shard_count == 2 && m->shards[0].tensor_count == 1);
    check_error(m, "shards", "more than 1 tensors");                            /* two, over all its shards */
    limit_tensors = 2;
    check_valid(m, 0);
    dcp_metadata_free(parse(t.data));
    limit_tensors = 1;
    check_fails(t.data, t.size, DCP_E_LIMIT, "more tensors than DCP_LIMIT_TENSORS");
    limit_tensors = 67108864;
    limit_shards = 1;
    check_fails(t.data, t.size, DCP_E_LIMIT, "more than 1 shards");
    limit_shards = 1048576;
    limit_fields = 1;
    dcp_metadata_free(parse(t.data));
    limit_fields = 0;
    check_fails(t.data, t.size, DCP_E_LIMIT, "more fields than DCP_LIMIT_FIELDS");
    limit_fields = 1048576;
    limit_document = (long long)t.size;
    dcp_metadata_free(parse(t.data));
    limit_document--;
    check_fails(t.data, t.size, DCP_E_LIMIT, "bytes (DCP_LIMIT_DOCUMENT)");
    limit_document = 1LL << 34;
    free(t.data);
    dcp_metadata_free(m);
}

/* Saves `value` as the only tensor, replacing what is there. */
static dcp_status save_value(dcp_storage *storage, dcp_layout layout, int yaml, int32_t value, int field_count,
                             dcp_error *err) {
    static dcp_field fields[2] = { { "a", "1" }, { "b", "2" } };
    dcp_tensor tensor = dcp_scalar("value", DCP_INT32, &value);
    dcp_save_desc desc = DCP_ZERO;
    desc.path = "p/x";
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.layout = layout;
    desc.yaml = yaml;
    desc.overwrite = 1;
    desc.fields = fields;
    desc.field_count = (size_t)field_count;
    desc.io.storage = storage;
    return dcp_save(&desc, err);
}
static int32_t load_value(dcp_storage *storage) {
    int32_t value = -1;
    dcp_tensor tensor = dcp_scalar("value", DCP_INT32, &value);
    dcp_load_desc desc = DCP_ZERO;
    dcp_error err;
    desc.path = "p/x";
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.verify = DCP_VERIFY_ALL;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    return value;
}
static dcp_status count_object(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(int *)user;
    return DCP_OK;
}
/* A limit stands for whatever an open refuses: the save's own document goes through all that an open does. */
TEST(what_an_open_would_refuse_is_not_committed) {
    static const struct { dcp_layout layout; int yaml; } forms[] = {
        { DCP_LAYOUT_SHARDED, 0 }, { DCP_LAYOUT_SINGLE, 0 }, { DCP_LAYOUT_MANIFEST, 0 }, { DCP_LAYOUT_MANIFEST, 1 }
    };
    size_t i;
    for (i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        dcp_storage *storage;
        dcp_error err;
        int before = 0, after = 0;
        CHECK_OK(dcp_storage_memory(&storage, &err));
        CHECK_OK_MESSAGE(save_value(storage, forms[i].layout, forms[i].yaml, 1, 1, &err), err.message);
        CHECK_OK(storage->list(storage->context, "p", DCP_LIST_OBJECTS, count_object, &before, &err));
        limit_fields = 1;
        CHECK_INT(save_value(storage, forms[i].layout, forms[i].yaml, 2, 2, &err), DCP_E_LIMIT);
        CHECK(contains(err.message, "nobody could open what would be committed") &&
              contains(err.message, "more fields than DCP_LIMIT_FIELDS"));
        CHECK_INT(load_value(storage), 1);
        limit_fields = 1048576;
        limit_document = 400;
        CHECK_INT(save_value(storage, forms[i].layout, forms[i].yaml, 3, 1, &err), DCP_E_LIMIT);
        CHECK(contains(err.message, "DCP_LIMIT_DOCUMENT"));
        limit_document = 1LL << 34;
        CHECK_INT(load_value(storage), 1);
        CHECK_OK(storage->list(storage->context, "p", DCP_LIST_OBJECTS, count_object, &after, &err));
        CHECK_INT(after, before);                       /* G9 */
        dcp_storage_close(storage);
    }
}

/* ---- >>meta: every rule, violated one at a time ------------------------------------------------------------------ */
typedef struct rule { const char *find, *put, *path, *words; } rule;

TEST(every_rule_of_the_format) {
    static const rule rules[] = {
        {"\"version\": \"1.0.0\"", "\"version\": \"\"", "version: ", "required"},
        {"\"version\": \"1.0.0\"", "\"version\": \"one\"", "version: ", "not a version"},
        {"\"version\": \"1.0.0\"", "\"version\": \"1.\"", "version: ", "not a version"},
        {"2026-11-20T12", "2026-11-20 12", "timestamp: ", "not a time"},
        {"\"timestamp\": \"2026-11-20T12:00:00.123456Z\",", "", "timestamp: ", "required"},
        {"\"worldSize\": 2", "\"worldSize\": 0", "worldSize: ", "at least 1"},
        {"\"worldSize\": 2", "\"worldSize\": 3", "sharding.shardCount: ", "worldSize is 3"},
        {"\"ddpRank\": 0", "\"ddpRank\": 2", "ddpRank: ", "not from 0"},
        {"\"ddpRank\": 0", "\"ddpRank\": -1", "ddpRank: ", "not from 0"},
        {"9f86d081884c7d65", "9F86d081884c7d65", "saveId: ", "16 lower-case"},
        {"9f86d081884c7d65", "9f86d081884c7d6", "saveId: ", "16 lower-case"},
        {"\"sequence\": 12", "\"sequence\": -1", "sequence: ", "negative"},
        {"\"sharding\": {", "\"unknown\": {", "sharding: ", "required"},
        {"\"shardCount\": 2", "\"shardCount\": 3", "sharding.shardCount: shard count mismatch", "expected 3, found 2"},
        {"\"shardCount\": 2, ", "", "sharding.shardCount: shard count mismatch", "expected 0, found 2"},
        {"\"rank\": 1", "\"rank\": 0", "shards[1].rank: ", "shards[0] has the same one"},
        {"\"rank\": 1", "\"rank\": 2", "shards[1].rank: ", "not from 0 to 1"},
        {"\"rank\": 1", "\"rank\": -1", "shards[1].rank: ", "not from 0 to 1"},
        {"\"step_100_shard_0.bin\"", "\"\"", "shards[0].filePath: ", "required"},
        {"\"step_100_shard_0.bin\"", "null", "shards[0].filePath: ", "required"},
        {"\"step_100_shard_0.bin\"", "\"../x\"", "shards[0].filePath: ", "relative path"},
        {"\"step_100_shard_0.bin\"", "\"/etc/passwd\"", "shards[0].filePath: ", "relative path"},
        {"\"step_100_shard_0.bin\"", "\"a\\\\b\"", "shards[0].filePath: ", "relative path"},
        {"\"step_100_shard_0.bin\"", "\"C:x\"", "shards[0].filePath: ", "relative path"},
        {"\"step_100_shard_0.bin\"", "\"a\\u0007\"", "shards[0].filePath: ", "relative path"},
        {"\"step_100_shard_0.bin\"", "\"other.metadata.json\"", "shards[0].filePath: ", "name of a commit file"},
        {"\"step_100_shard_0.bin\"", "\"sub/other.CheckPoint\"", "shards[0].filePath: ", "name of a commit file"},
        {"\"step_100_shard_0.bin\"", "\"a.manifest.json\"", "shards[0].filePath: ", "name of a commit file"},
        {"\"step_100_shard_0.bin\"", "\"a.manifest.YAML. .\"", "shards[0].filePath: ", "name of a commit file"},
        {"\"step_100_shard_0.bin\"", "\"a.commit.lock\"", "shards[0].filePath: ", "a lock"},
        {"\"step_100_shard_0.bin\"", "\"a.manifest.0123456789abcdef.intent.tmp\"", "shards[0].filePath: ",
         "a temporary file"},
        {"\"step_100_shard_0.bin\"", "\"a.tmp\"", "shards[0].filePath: ", "a temporary file"},
        {"\"step_100_shard_0.bin\"", "\"step_100_shard_1.bin\"", "shards[1].filePath: ",
         "shards[0], with another size or checksum"},
        {"\"fileSize\": 8200", "\"fileSize\": -1", "shards[0].fileSize: ", "negative"},
        {"\"fileSize\": 8200", "\"fileSize\": 8199", "shards[0].tensors[1].offset: ", "beyond the shard's end"},
        {"\"fileSize\": 8200", "\"fileSize\": 8201", "shards[0].fileSize: 8201 bytes", "the last tensor ends at 8200"},
        {"sha256-tree:" TREE_0, "sha256-tree:" TREE_1, "shards[0].checksum: ", "block digests"},
        {"sha256-tree:" TREE_0, "sha512:" TREE_0, "shards[0].checksum: ", "64 hex digits"},
        {"sha256-tree:" TREE_0, "sha256-tree:0" TREE_0, "shards[0].checksum: ", "64 hex digits"},
        {"sha256-tree:5189c", "sha256-tree:5189C", "shards[0].checksum: ", "lower case"},
        {"sha256-tree:" TREE_0, TREE_0, "shards[0].tensors[0].blockChecksums: ", "beside a sha256-tree"},
        {"\"name\": \"step\"", "\"name\": \"\"", "shards[0].tensors[1].name: ", "required"},
        {"\"name\": \"step\"", "\"nom\": \"\"", "shards[0].tensors[1].name: ", "required"},
        {"\"name\": \"step\"", "\"name\": \"a\\nb\"", "shards[0].tensors[1].name: ", "control"},
        {"\"name\": \"none\"", "\"name\": \"layers.0.wq\"", "shards[1].tensors[1].placement: ",
         "a piece of the same tensor"},
        {"\"shape\": [256, 8]", "\"shape\": [-256, 8]", "shards[0].tensors[0].shape: ", "dimension 0 is negative"},
        {"\"shape\": [256, 8]", "\"shape\": [4611686018427387904, 8]", "shards[0].tensors[0].shape: ", "64 bits"},
        {"\"shape\": [256, 8]", "\"shape\": [1152921504606846976, 4]", "shards[0].tensors[0].shape: ",
         "bytes does not fit"},
        {"\"shape\": [256, 8]", "\"shape\": [255, 8]", "shards[0].tensors[0].size: ",
         "2040 elements of fp32 have 8160"},
        {"\"dataType\": \"int64\"", "\"dataType\": \"\"", "shards[0].tensors[1].dataType: ", "required"},
        {"\"dataType\": \"int64\"", "\"dataType\": null", "shards[0].tensors[1].dataType: ", "required"},
        {"\"dataType\": \"int64\"", "\"dataType\": \"a\\u0001\"", "shards[0].tensors[1].dataType: ", "printable"},
        {"\"dataType\": \"int64\", \"offset\": 8192, \"size\": 8,",
         "\"dataType\": \"int8\", \"offset\": 8256, \"size\": 1,", "shards[0].tensors[1].offset: ",
         "beyond the shard's end"},
        {"\"offset\": 8192, \"size\": 8,", "\"offset\": -64, \"size\": 8,", "shards[0].tensors[1].offset: ",
         "negative"},
        {"\"offset\": 8192, \"size\": 8,", "\"offset\": 8128, \"size\": 8,", "shards[0].tensors[1].offset: ",
         "overlaps"},
        {"\"offset\": 8192, \"size\": 8,", "\"offset\": 8193, \"size\": 8,", "shards[0].tensors[1].offset: ",
         "multiple of 64"},
        {"\"offset\": 8192, \"size\": 8,", "\"offset\": 9223372036854775807, \"size\": 8,",
         "shards[0].tensors[1].offset: ", "64 bits"},
        {"\"offset\": 8192, \"size\": 8,", "\"offset\": 2105344, \"size\": 8,", "shards[0].tensors[1].offset: ", "gap"},
        {"\"offset\": 0, \"size\": 8192,", "\"offset\": 16384, \"size\": 8192,", "shards[0].tensors[1].offset: ",
         "order of their offsets"},
        {"\"offset\": 0, \"size\": 8192,", "\"offset\": 0, \"size\": -1,", "shards[0].tensors[0].size: ", "negative"},
        {"\"globalShape\": [512, 8], \"globalOffset\": [256, 0]",
         "\"globalShape\": [512, 8], \"globalOffset\": [257, 0]", "shards[1].tensors[0].globalOffset: ", "dimension 0"},
        {"\"globalShape\": [512, 8], \"globalOffset\": [256, 0]",
         "\"globalShape\": [512, -8], \"globalOffset\": [256, 0]", "shards[1].tensors[0].globalShape: ", "negative"},
        {"\"globalShape\": [512, 8], \"globalOffset\": [256, 0]",
         "\"globalShape\": [512, 8], \"globalOffset\": [-1, 0]", "shards[1].tensors[0].globalOffset: ", "negative"},
        {"\"globalShape\": [512, 8], \"globalOffset\": [256, 0]",
         "\"globalShape\": [513, 8], \"globalOffset\": [256, 0]", "shards[1].tensors[0].globalShape: ",
         "a piece of the same tensor"},
        {"\"globalShape\": [0, 3]", "\"globalShape\": [4611686018427387904, 3]", "shards[1].tensors[1].globalShape: ",
         "64 bits"},
        {"\"placement\": \"sharded\"", "\"placement\": \"spread\"", "shards[0].tensors[0].placement: ",
         "not sharded"},
        {"\"placement\": \"sharded\", ", "", "shards[0].tensors[0].placement: ", "required"},
        {"\"placement\": \"sharded\"", "\"placement\": \"replicated\"", "shards[1].tensors[0].placement: ",
         "a piece of the same tensor"},
        {"\"blockSize\": 4194304", "\"blockSize\": 131072", "shards[0].tensors[0].blockSize: ", "power of two"},
        {"\"blockSize\": 4194304", "\"blockSize\": 4194305", "shards[0].tensors[0].blockSize: ", "power of two"},
        {"\"blockSize\": 4194304", "\"blockSize\": 2147483648", "shards[0].tensors[0].blockSize: ", "power of two"},
        {"\"blockSize\": 4194304", "\"blockSize\": -4194304", "shards[0].tensors[0].blockSize: ", "power of two"},
        {"\"blockSize\": 4194304, ", "", "shards[0].tensors[0].blockSize: ", "required"},
        {"\"blockChecksums\": [\"" D1 "\"]", "\"blockChecksums\": []", "shards[0].tensors[0].blockChecksums: ",
         "0 digests"},
        {"\"blockChecksums\": [\"" D1 "\"]", "\"blockChecksums\": [\"" D1 "\", \"" D1 "\"]",
         "shards[0].tensors[0].blockChecksums: ", "2 digests"},
        {"\"blockSize\": 4194304, \"blockChecksums\": [\"" D1 "\"]", "\"blockSize\": 0, \"blockChecksums\": []",
         "shards[0].tensors[0].blockChecksums: ", "required"},
        {"\"fileSize\": 8200", "\"fileSize\": 8200, \"dataOffset\": 4096", "shards[1].dataOffset: ",
         "all shards have one"}
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(rules); i++) {
        text t = replaced(golden_body, rules[i].find, rules[i].put);
        dcp_metadata *m = parse_sealed(t.data);
        check_error(m, rules[i].path, rules[i].words);
        dcp_metadata_free(m);
        free(t.data);
    }
}
TEST(rules_that_only_warn) {
    static const rule rules[] = {
        {"\"checksum\": \"sha256-tree:" TREE_0 "\"", "\"checksum\": null", "shards[0].checksum: ",
         "shard 0 is missing its checksum"},
        {"\"dataType\": \"int64\"", "\"dataType\": \"nf4\"", "shards[0].tensors[1].dataType: ", "unknown"},
        {"\"strategy\": \"fsdp\", ", "", "sharding.strategy: ", "no strategy"}
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(rules); i++) {
        text t = replaced(golden_body, rules[i].find, rules[i].put);
        dcp_metadata *m = parse_sealed(t.data);
        check_warning(m, rules[i].path, rules[i].words);
        dcp_metadata_free(m);
        free(t.data);
    }
}
TEST(rules_of_structs) {
    dcp_metadata *m = golden();
    dcp_tensor_metadata *t = &m->shards[0].tensors[0];
    char longer[DCP_LIMIT_PATH + 2];
    dcp_field twice[2], saved;
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    m->shards[0].file_path = longer; check_error(m, "shards[0].filePath", "longer");
    m->shards[0].file_path = "step_100_shard_0.bin";
    longer[DCP_LIMIT_NAME + 1] = '\0';
    t->name = longer; check_error(m, "shards[0].tensors[0].name", "of 1 to 1024"); t->name = "layers.0.wq";
    t->ndim = 9; check_error(m, "shards[0].tensors[0].shape", "9 dimensions");
    t->ndim = -1; check_error(m, "shards[0].tensors[0].shape", "-1 dimensions"); t->ndim = 2;
    t->ndim = 3; t->shape[0] = 0; t->shape[1] = INT64_MAX / 2; t->shape[2] = 4;
    check_error(m, "shards[0].tensors[0].shape", "64 bits");           /* an empty tensor whose strides would not fit */
    t->ndim = 2; t->shape[0] = 256; t->shape[1] = 8; t->shape[2] = 0;
    t->block_checksums = NULL; check_error(m, "shards[0].tensors[0].blockChecksums",
                                           "missing"); t->block_checksums = m->shards[1].tensors[0].block_checksums;
    check_error(m, "shards[0].checksum", "block digests");
    dcp_metadata_free(m);
    m = golden();
    m->version = "2.0.0"; check_error(m, "version", "newer"); m->version = "1.0.0";
    saved = m->fields[0];
    m->fields[0].value = NULL; check_error(m, "customFields", "no value");
    m->fields[0].key = NULL; check_error(m, "customFields", "no key"); m->fields[0] = saved;
    twice[0] = twice[1] = saved;
    m->fields = twice; check_error(m, "customFields[1].key", "customFields[0] has the same one");
    m->fields = NULL; check_error(m, "customFields", "the fields are missing");
    m->shards[1].file_path = m->shards[0].file_path;                  /* two errors: the second one is not of a shard */
    check_error(m, "shards[1].filePath", "another size or checksum");
    check_error(m, "customFields", "the fields are missing");
    m->fields = twice; m->field_count = 1;
    m->shard_count = 1; m->shards[0].tensors[0].ndim = 9;               /* one shard alone is looked at as well */
    check_error(m, "shards[0].tensors[0].shape", "9 dimensions"); m->shard_count = 2; m->shards[0].tensors[0].ndim = 2;
    m->shards[1].tensors = NULL; check_error(m, "shards[1].tensors", "missing");
    m->shards = NULL; check_error(m, "shards", "at least one shard is required");
    dcp_metadata_free(m);
    m = golden();
    m->version = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.00"; check_error(m, "version", "not a version");     /* 32 characters */
    m->version = "1x0"; check_error(m, "version", "not a version");
    m->version = "1.0.0-rc"; check_error(m, "version", "not a version"); m->version = "1.0.0";
    m->sharding.precision = "\xFF"; check_error(m, "sharding.precision", "UTF-8"); m->sharding.precision = "bf16";
    m->shards[0].checksum = ""; check_warning(m, "shards[0].checksum", "missing");
    m->shards[0].checksum = "g111111111111111111111111111111111111111111111111111111111111111";
    check_error(m, "shards[0].checksum", "64 hex digits");
    dcp_metadata_free(m);
}
/* What a struct of a program may have wrong, that a document cannot: the writer refuses it rather than to write
 * nonsense. */
TEST(structs_that_cannot_be_written) {
    dcp_metadata *m = golden();
    dcp_tensor_metadata *t = &m->shards[0].tensors[0];
    text written;
    t->ndim = -1; check_write_fails(m, "shards[0].tensors[0].shape"); t->ndim = 2;
    t->block_checksums = NULL; check_write_fails(m, "shards[0].tensors[0].blockChecksums");
    t->block_checksums = m->shards[1].tensors[0].block_checksums;
    m->training.optimizer_state = "[]"; check_write_fails(m, "training.optimizerState");
    m->training.optimizer_state = NULL;
    m->sharding.strategy = NULL;                            /* absent: nothing is written of it, and a reader says so */
    written = write_text(m, NULL);
    CHECK(!contains(written.data, "strategy\""));
    free(written.data);
    dcp_metadata_free(m);
}
TEST(as_many_dimensions_as_there_may_be) {
    dcp_metadata *m = golden(), *n;
    text written;
    int s, d;
    for (s = 0; s < 2; s++) {                           /* both pieces of it */
        dcp_tensor_metadata *t = &m->shards[s].tensors[0];
        t->ndim = DCP_MAX_DIMS;
        for (d = 2; d < DCP_MAX_DIMS; d++) t->shape[d] = t->global_shape[d] = 1;
    }
    written = write_text(m, NULL);
    n = parse(written.data);
    CHECK_INT(n->shards[0].tensors[0].ndim, DCP_MAX_DIMS);
    CHECK_INT(n->shards[0].tensors[0].shape[DCP_MAX_DIMS - 1], 1);
    free(written.data);
    dcp_metadata_free(n);
    dcp_metadata_free(m);
}
/* The arrays of a parsed document are as long as they must be: what is added makes them longer. */
TEST(a_parsed_document_can_be_built_on) {
    dcp_metadata *m = golden();
    const size_t before = m->shards[0].tensor_count;
    dcp_tensor_metadata tensor = m->shards[0].tensors[0];
    dcp_error err;
    size_t i;
    for (i = 0; i < 40; i++) {
        tensor.offset = 1 << 20 | (int64_t)(i << 14);
        CHECK_OK_MESSAGE(dcp_metadata_add_tensor(m, 0, &tensor, &err), err.message);
    }
    CHECK_INT(m->shards[0].tensor_count, before + 40);
    for (i = 0; i < 40; i++) CHECK_INT(m->shards[0].tensors[before + i].offset, 1 << 20 | (int64_t)(i << 14));
    CHECK_STR(m->shards[1].tensors[0].name, tensor.name);
    dcp_metadata_free(m);
}
TEST(a_name_stands_once_in_a_shard_or_at_several_places) {
    dcp_metadata *m = built();
    dcp_tensor_metadata tensor = m->shards[0].tensors[0];
    dcp_error err;
    tensor.offset = 1024;
    m->shards[0].file_size = 2048;
    CHECK_OK(dcp_metadata_add_tensor(m, 0, &tensor, &err));
    check_error(m, "shards[0].tensors[1].name", "shards[0].tensors[0] is the same piece");
    {
        dcp_tensor_metadata *a = &m->shards[0].tensors[0], *b = &m->shards[0].tensors[1], *c = &m->shards[1].tensors[0];
        a->placement = b->placement = c->placement = "sharded";
        a->global_shape[0] = b->global_shape[0] = c->global_shape[0] = 48;
        a->global_shape[1] = b->global_shape[1] = c->global_shape[1] = 16;
        check_error(m, "shards[0].tensors[1].name", "the same piece");
        b->global_offset[0] = 16;
        check_valid(m, 0);
        c->data_type = "F32";                                           /* an alias is the same type */
        check_valid(m, 0);
        c->data_type = "int32";
        check_error(m, "shards[1].tensors[0].dataType", "a piece of the same tensor");
        c->data_type = NULL;
        check_error(m, "shards[1].tensors[0].dataType", "it is absent, and in shards[0].tensors[0] fp32");
        a->data_type = b->data_type = NULL; c->data_type = "fp32";
        check_error(m, "shards[1].tensors[0].dataType", "it is fp32, and in shards[0].tensors[0] absent");
        a->data_type = b->data_type = "fp32";
        c->placement = NULL;
        check_error(m, "shards[1].tensors[0].placement", "it is absent, and in shards[0].tensors[0] sharded");
        c->placement = "sharded";
        c->ndim = 1; c->shape[0] = 256; c->global_shape[0] = 256;
        check_error(m, "shards[1].tensors[0].globalShape", "it is [256], and in shards[0].tensors[0] [48, 16]");
        c->ndim = 2; c->shape[0] = 16; c->global_shape[0] = 48;
        a->placement = b->placement = c->placement = "private";
        check_error(m, "shards[0].tensors[0].globalShape", "a private tensor is whole");
        memcpy(a->global_shape, a->shape, sizeof a->shape);
        memcpy(b->global_shape, b->shape, sizeof b->shape);
        memcpy(c->global_shape, c->shape, sizeof c->shape);
        b->global_offset[0] = 0;
        b->name = "another";
        check_valid(m, 0);                                     /* what is private to a rank is that rank's own affair */
    }
    dcp_metadata_free(m);
}
TEST(regions_of_a_single_file) {
    dcp_metadata *m = built();
    m->shards[0].file_path = m->shards[1].file_path = "a.checkpoint";
    m->shards[0].data_offset = 4096; m->shards[0].tensors[0].offset = 4096;
    m->shards[1].data_offset = 8192; m->shards[1].tensors[0].offset = 8192;
    check_valid(m, 0);
    m->shards[1].tensors[0].offset = 4096; check_error(m, "shards[1].tensors[0].offset", "overlaps");
    m->shards[1].tensors[0].offset = 8192;
    m->shards[1].data_offset = 8193; check_error(m, "shards[1].dataOffset", "multiple of 4096");
    m->shards[1].data_offset = 4096; check_error(m, "shards[1].dataOffset", "overlaps the region");
    m->shards[1].data_offset = 0; check_error(m, "shards[1].dataOffset", "all shards have one");
    m->shards[1].data_offset = -4096; check_error(m, "shards[1].dataOffset", "all shards have one");
    m->shards[1].data_offset = INT64_MAX - 4095; m->shards[1].file_size = 8192;
    check_error(m, "shards[1].fileSize", "64 bits");
    m->shards[1].data_offset = 8192; m->shards[1].file_size = 1024;
    m->shards[1].file_path = "b.checkpoint"; check_error(m, "shards[1].filePath", "single file");
    m->shards[1].file_path = m->shards[0].file_path;
    m->save_id = "9f86d081884c7d65";                          /* of ours: a gap is never more than an alignment needs */
    m->shards[1].data_offset = 2105344;
    check_error(m, "shards[1].dataOffset", "the gap before it, 2100224 bytes, is larger than any alignment needs");
    dcp_metadata_free(m);
}
TEST(findings_are_bounded_and_counted) {
    dcp_metadata *m = built();
    dcp_tensor_metadata bad = DCP_ZERO;
    dcp_validation v;
    dcp_error err;
    int i;
    m->shards[0].file_size = 1024 + 64 * (DCP_LIMIT_FINDINGS + 1);
    bad.data_type = "nf4"; bad.size = 1;
    for (i = 0; i <= DCP_LIMIT_FINDINGS; i++) {                         /* one warning more than are listed */
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i);
        bad.name = name;
        bad.offset = 1024 + 64 * i;
        CHECK_OK(dcp_metadata_add_tensor(m, 0, &bad, &err));
    }
    CHECK_OK(dcp_metadata_validate(m, &v));
    CHECK_INT(v.warning_count, DCP_LIMIT_FINDINGS + 1);
    CHECK_STR(v.warnings[DCP_LIMIT_FINDINGS], "... and 1 more warnings");
    dcp_validation_free(&v);
    dcp_metadata_free(m);
    m = built();
    memset(&bad, 0, sizeof bad);
    for (i = 0; i < 200; i++) CHECK_OK(dcp_metadata_add_tensor(m, 0, &bad, &err));
    CHECK_INT(dcp_metadata_validate(m, &v), DCP_E_FORMAT);
    CHECK_INT(v.error_count, DCP_LIMIT_FINDINGS + 1);
    CHECK_STR(v.errors[DCP_LIMIT_FINDINGS], "... and 300 more errors");
    CHECK_OK(dcp_validation_error(&v, "mine"));
    CHECK_OK(dcp_validation_warning(&v, "mine too"));
    CHECK_STR(v.errors[v.error_count - 1], "mine");
    CHECK_STR(v.warnings[0], "mine too");
    CHECK_INT(dcp_validation_error(NULL, "x"), DCP_E_INVALID);
    dcp_validation_free(&v);
    dcp_validation_free(&v);
    dcp_validation_free(NULL);
    dcp_metadata_free(m);
}

/* ---- documents of the seed's own code ---------------------------------------------------------------------------- */
/* As System.Text.Json prints a CheckpointMetadata with WriteIndented and camelCase. */
static const char foreign[] =
    "{\r\n"
    "  \"version\": \"1.0.0\",\r\n"
    "  \"timestamp\": \"2024-01-01T00:00:00.1234567Z\",\r\n"
    "  \"worldSize\": 2,\r\n"
    "  \"ddpRank\": 0,\r\n"
    "  \"sharding\": {\r\n"
    "    \"strategy\": \"fsdp\",\r\n"
    "    \"shardCount\": 2,\r\n"
    "    \"precision\": null,\r\n"
    "    \"strategySpecificInfo\": null\r\n"
    "  },\r\n"
    "  \"shards\": [\r\n"
    "    {\r\n"
    "      \"rank\": 0,\r\n"
    "      \"filePath\": \"model_shard_0.bin\",\r\n"
    "      \"fileSize\": 100,\r\n"
    "      \"tensors\": [\r\n"
    "        {\r\n"
    "          \"name\": \"a\\u002Bb\",\r\n"
    "          \"shape\": [\r\n"
    "            2,\r\n"
    "            3\r\n"
    "          ],\r\n"
    "          \"dataType\": \"Float32\",\r\n"
    "          \"offset\": 40,\r\n"
    "          \"size\": 24\r\n"
    "        },\r\n"
    "        {\r\n"
    "          \"name\": \"\\u00E4\\uD83D\\uDE00\",\r\n"
    "          \"shape\": [],\r\n"
    "          \"dataType\": \"fp16\",\r\n"
    "          \"offset\": 0,\r\n"
    "          \"size\": 2\r\n"
    "        }\r\n"
    "      ],\r\n"
    "      \"checksum\": \"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\"\r\n"
    "    },\r\n"
    "    {\r\n"
    "      \"rank\": 1,\r\n"
    "      \"filePath\": \"model_shard_1.bin\",\r\n"
    "      \"fileSize\": 0,\r\n"
    "      \"tensors\": [],\r\n"
    "      \"checksum\": null\r\n"
    "    }\r\n"
    "  ],\r\n"
    "  \"training\": {\r\n"
    "    \"epoch\": 1,\r\n"
    "    \"step\": 2,\r\n"
    "    \"learningRate\": 0.001,\r\n"
    "    \"optimizerType\": null,\r\n"
    "    \"optimizerState\": {\r\n"
    "      \"beta1\": 0.9\r\n"
    "    }\r\n"
    "  },\r\n"
    "  \"customFields\": {\r\n"
    "    \"k\": \"v\\u0027\"\r\n"
    "  }\r\n"
    "}";

TEST(documents_of_the_seed_load_with_warnings) {
    dcp_metadata *m = parse(foreign), *n;
    text t;
    CHECK(m->is_foreign);
    CHECK_STR(m->shards[0].tensors[0].name, "a+b");
    CHECK_STR(m->shards[0].tensors[1].name, "\xC3\xA4\xF0\x9F\x98\x80");
    CHECK_STR(m->shards[0].tensors[0].data_type, "Float32");
    CHECK(m->shards[0].tensors[0].placement == NULL);
    CHECK(m->shards[1].checksum == NULL && m->sharding.precision == NULL && m->training.optimizer_type == NULL);
    CHECK_STR(dcp_metadata_field(m, "k"), "v'");
    check_warning(m, "shards[1].checksum", "missing");
    check_warning(m, "shards[0].tensors[1].offset", "order");
    t = write_text(m, NULL);                                          /* a rewrite makes it ours, and it still passes */
    n = parse(t.data);
    CHECK(!n->is_foreign);
    check_warning(n, "shards[1].checksum", "missing");
    CHECK_STR(n->shards[0].tensors[0].name, "a+b");
    free(t.data);
    dcp_metadata_free(n);
    dcp_metadata_free(m);
}
TEST(a_document_with_an_addition_needs_its_tail) {
    static const char *const additions[] = {
        "\"saveId\": \"9f86d081884c7d65\", ", "\"sequence\": 1, ", "\"signature\": null, ", "\"integrity\": {}, ",
            "\"integrity\": null, ",
        "\"saveId\": null, "
    };
    static const char *const of_tensors[] = {
        "\"globalShape\": [2, 3], ", "\"globalOffset\": [0, 0], ", "\"placement\": \"private\", ", "\"blockSize\": 1, ",
        "\"blockChecksums\": [], "
    };
    char put[80];
    text t;
    size_t i;
    for (i = 0; i < DCPI_COUNT(additions); i++) {
        (void)snprintf(put, sizeof put, "%s\"worldSize\": 2", additions[i]);
        t = replaced(foreign, "\"worldSize\": 2", put);
        check_fails(t.data, t.size, DCP_E_CHECKSUM, "integrity");
        free(t.data);
    }
    for (i = 0; i < DCPI_COUNT(of_tensors); i++) {
        (void)snprintf(put, sizeof put, "%s\"offset\": 40", of_tensors[i]);
        t = replaced(foreign, "\"offset\": 40", put);
        check_fails(t.data, t.size, DCP_E_CHECKSUM, "integrity");
        free(t.data);
    }
    t = replaced(foreign, "\"fileSize\": 100", "\"fileSize\": 100, \"dataOffset\": 4096");
    check_fails(t.data, t.size, DCP_E_CHECKSUM, "integrity");
    free(t.data);
    t = literal(golden_body, "\n}\n");                                  /* the tail is cut off neatly */
    check_fails(t.data, t.size, DCP_E_CHECKSUM, "integrity");
    free(t.data);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */
TEST(every_flipped_bit_is_detected) {
    text t = seal(golden_body);
    size_t i;
    int bit;
    for (i = 0; i < t.size; i++) {
        for (bit = 0; bit < 8; bit++) {
            dcp_metadata *m;
            dcp_error err;
            t.data[i] = (char)(t.data[i] ^ (1 << bit));
            if (dcp_metadata_parse(t.data, t.size, &m, &err) == DCP_OK) printf("  byte %d bit %d\n", (int)i, bit);
            CHECK(m == NULL && err.status != DCP_OK && err.message[0] != '\0');
            t.data[i] = (char)(t.data[i] ^ (1 << bit));
        }
    }
    free(t.data);
}
TEST(every_truncation_and_extension_is_detected) {
    text t = seal(golden_body);
    dcp_metadata *m;
    dcp_error err;
    size_t i;
    for (i = 0; i < t.size; i++) {
        char *exact = (char *)malloc(i ? i : 1);                    /* so that a sanitizer sees a read beyond the end */
        CHECK(exact != NULL);
        memcpy(exact, t.data, i);
        CHECK(dcp_metadata_parse(exact, i, &m, &err) != DCP_OK && m == NULL);
        free(exact);
    }
    text_add(&t, "\n", 1);
    check_fails(t.data, t.size, DCP_E_CHECKSUM, "integrity");
    free(t.data);
}
TEST(newer_versions_are_refused) {
    text t;
    check_change_fails("\"version\": \"1.0.0\"", "\"version\": \"2.0.0\"", DCP_E_VERSION, "2.0.0");
    check_change_fails("\"version\": \"1.0.0\"", "\"version\": \"99999999999999999999\"", DCP_E_VERSION, "999");
    check_change_fails("\"ddpRank\"", "\"minReaderVersion\": \"2\", \"ddpRank\"", DCP_E_VERSION, "minReaderVersion");
    check_change_fails("\"ddpRank\"", "\"min_reader_version\": \"2.1\", \"ddpRank\"", DCP_E_VERSION,
                       "min_reader_version");
    t = replaced(golden_body, "\"ddpRank\"", "\"minReaderVersion\": \"1.0.0\", \"ddpRank\"");
    {
        dcp_metadata *m = parse_sealed(t.data);
        CHECK_STR(m->extra, "\"minReaderVersion\": \"1.0.0\"");
        check_valid(m, 0);
        dcp_metadata_free(m);
    }
    free(t.data);
    t = replaced(golden_body, "\"version\": \"1.0.0\"", "\"version\": \"1.7.2\"");
    dcp_metadata_free(parse_sealed(t.data));
    free(t.data);
}
TEST(wrong_types_and_limits_name_the_place) {
    static const struct { const char *find, *put; dcp_status status; const char *words; } cases[] = {
        {"\"worldSize\": 2", "\"worldSize\": \"2\"", DCP_E_FORMAT, "worldSize"},
        {"\"worldSize\": 2", "\"worldSize\": 2.5", DCP_E_FORMAT, "worldSize"},
        {"\"worldSize\": 2", "\"worldSize\": 4294967298", DCP_E_FORMAT, "worldSize"},
        {"\"sequence\": 12", "\"sequence\": 9223372036854775808", DCP_E_FORMAT, "sequence"},
        {"\"rank\": 1", "\"rank\": 2147483648", DCP_E_FORMAT, "shards[1].rank"},
        {"\"version\": \"1.0.0\"", "\"version\": 1", DCP_E_FORMAT, "version"},
        {"\"sharding\": {", "\"sharding\": [], \"x\": {", DCP_E_FORMAT, "sharding"},
        {"\"shards\": [", "\"shards\": {}, \"x\": [", DCP_E_FORMAT, "shards"},
        {"\"strategySpecificInfo\": {}", "\"strategySpecificInfo\": []", DCP_E_FORMAT, "sharding.strategySpecificInfo"},
        {"\"optimizerState\": {}", "\"optimizerState\": 1", DCP_E_FORMAT, "training.optimizerState"},
        {"\"learningRate\": 0.0003", "\"learningRate\": \"x\"", DCP_E_FORMAT, "training.learningRate"},
        {"\"learningRate\": 0.0003", "\"learningRate\": 1e999", DCP_E_FORMAT, ""},
        {"\"git\": \"abc123\"", "\"git\": 1", DCP_E_FORMAT, "customFields"},
        {"\"git\": \"abc123\"", "\"git\": \"a\", \"git\": \"b\"", DCP_E_FORMAT, "git"},
        {"\"ddpRank\": 0", "\"ddpRank\": 0, \"ddp\\u0052ank\": 0", DCP_E_FORMAT, "ddpRank"},
        {"\"name\": \"step\"", "\"name\": \"step\", \"size\": 8", DCP_E_FORMAT, "size"},
        {"\"name\": \"step\"", "\"x\": 1, \"x\": 2, \"name\": \"step\"", DCP_E_FORMAT, "x"},
        {"\"shape\": [256, 8]", "\"shape\": [1,1,1,1,1,1,1,256,8]", DCP_E_FORMAT, "layers.0.wq"},
        {"\"shape\": [256, 8]", "\"shape\": [\"256\", 8]", DCP_E_FORMAT, "shards[0].tensors[0].shape"},
        {"\"globalShape\": [512, 8]", "\"globalShape\": [512]", DCP_E_FORMAT, "shards[0].tensors[0].globalShape"},
        {"\"" D2 "\"", "\"" D2 "0\"", DCP_E_FORMAT, "shards[0].tensors[1].blockChecksums"},
        {"\"" D2 "\"", "\"g222222222222222222222222222222222222222222222222222222222222222\"", DCP_E_FORMAT,
         "shards[0].tensors[1].blockChecksums"},
        {"\"" D2 "\"", "null", DCP_E_FORMAT, "shards[0].tensors[1].blockChecksums"},
        {"\"tensors\": [", "\"tensors\": [null,", DCP_E_FORMAT, "shards[0].tensors[0]"},
        {"\"shards\": [", "\"shards\": [null,", DCP_E_FORMAT, "shards[0]"}
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(cases); i++)
        check_change_fails(cases[i].find, cases[i].put, cases[i].status, cases[i].words);
    check_body_fails("[1", DCP_E_FORMAT, "");
    check_fails("", 0, DCP_E_FORMAT, "");
    check_fails("null", 4, DCP_E_FORMAT, "");
    check_fails("{} {}", 5, DCP_E_FORMAT, "");
    check_fails("\xEF\xBB\xBF{}", 5, DCP_E_FORMAT, "");
    CHECK_INT(dcp_metadata_parse(NULL, 1, NULL, NULL), DCP_E_INVALID);
}
/* A document of many tiny entries takes no memory out of proportion. */
static void check_density(const char *before, const char *entry, const char *after, dcp_status expected) {
    text t = { NULL, 0, 0 };
    size_t i, n = (size_t)4 << 20, at, length = strlen(entry);
    dcp_metadata *m;
    dcp_error err;
    dcp_status status;
    text_add(&t, before, strlen(before));
    at = t.size;
    t.data = (char *)realloc(t.data, at + n + length + 1);
    CHECK(t.data != NULL);
    for (i = 0; i < n; i += length) memcpy(t.data + at + i, entry, length);
    t.size = at + i - 1;                                                /* the last entry without its comma */
    t.data[t.size] = '\0';
    text_add(&t, after, strlen(after));
    alloc_peak = alloc_live;
    at = alloc_live;
    status = dcp_metadata_parse(t.data, t.size, &m, &err);
    if (status != expected) printf("  %s: %s\n", entry, err.message);
    CHECK_INT(status, expected);
    if ((alloc_peak - at) / t.size >= 20)
        printf("  %s: %d times the document\n", entry, (int)((alloc_peak - at) / t.size));
    CHECK((alloc_peak - at) / t.size < 20);
    dcp_metadata_free(m);
    free(t.data);
}
TEST(memory_is_proportional_to_the_bytes) {
    check_density("{\"shards\":[{\"tensors\":[", "{},", "]}]}", DCP_E_LIMIT);
    check_density("{\"shards\":[", "{},", "]}", DCP_E_LIMIT);
    check_density("{\"shards\":[", "{\"tensors\":[{}]},", "]}", DCP_E_LIMIT);
    check_density("{\"shards\":[{\"tensors\":[", "{\"name\":\"a\",\"size\":1   },", "]}]}", DCP_OK);
    check_density("{\"shards\":[{\"tensors\":[{\"shape\":[", "1,", "]}]}]}", DCP_E_FORMAT);
    check_density("{\"x\":[", "1,", "]}", DCP_OK);
    check_density("{\"x\":[", "[],", "]}", DCP_OK);
}
TEST(every_allocation_can_fail) {
    dcp_signer signer = dcp_hmac_signer(GOLDEN_KEY, 16, "ops-2026");
    dcp_verifier verifier = dcp_hmac_verifier(GOLDEN_KEY, 16);
    text t = replaced(golden_body, "\"rank\": 0", "\"x\": 1, \"rank\": 0"),
             sealed = seal_as(t.data, DCPI_TYPE_METADATA, &signer);
    size_t live = alloc_live;
    long n;
    int done = 0;
    for (n = 0; !done; n++) {
        dcp_metadata *m = NULL;
        dcp_validation v;
        char *written = NULL;
        size_t size;
        dcp_error err;
        dcp_status status;
        alloc_countdown = n;
        alloc_arena = 1;
        status = dcpi_meta_parse(sealed.data, sealed.size, DCPI_TYPE_METADATA, &verifier, &m, &err);
        if (status == DCP_OK) status = dcp_metadata_set_field(m, "new", "field", &err);
        if (status == DCP_OK) status = dcp_metadata_add_shard(m, &m->shards[0], &err);
        if (status == DCP_OK) {
            status = dcp_metadata_write(m, &signer, &written, &size, &err);
            CHECK((status == DCP_OK) == (written != NULL));
        }
        if (status == DCP_OK) {
            status = dcp_metadata_validate(m, &v);
            CHECK(status == DCP_E_FORMAT || status == DCP_E_MEMORY);
            if (status == DCP_E_FORMAT) status = DCP_OK;
            dcp_validation_free(&v);
        }
        if (alloc_countdown >= 0) { CHECK_OK(status); done = 1; }
        else CHECK(status == DCP_E_MEMORY || status == DCP_OK);         /* to give memory back may fail too: no harm */
        alloc_countdown = -1;
        alloc_arena = 1024 * 1024;
        dcp_free(written);
        dcp_metadata_free(m);
        CHECK_INT(alloc_live, live);
    }
    CHECK(n > 60);
    free(t.data);
    free(sealed.data);
}
/* Tensors that do not stand in the order of their offsets are sorted for the check. */
TEST(every_allocation_of_a_check_can_fail) {
    text t = replaced(foreign, "\"tensors\": [],",
                      "\"tensors\": [{\"name\": \"x\", \"size\": 0}, {\"name\": \"y\", \"size\": 0}],");
    dcp_metadata *m;
    const size_t live = alloc_live;
    dcp_validation v;
    dcp_error err;
    long n;
    int done = 0;
    CHECK_OK_MESSAGE(dcp_metadata_parse(t.data, t.size, &m, &err), err.message);
    for (n = 0; !done; n++) {
        const size_t before = alloc_live;
        dcp_status status;
        alloc_countdown = n;
        status = dcp_metadata_validate(m, &v);
        done = alloc_countdown >= 0;
        alloc_countdown = -1;
        CHECK(done ? status != DCP_E_MEMORY : status == DCP_E_MEMORY);
        dcp_validation_free(&v);
        CHECK_INT(alloc_live, before);
    }
    CHECK(n > 4);
    dcp_metadata_free(m);
    CHECK_INT(alloc_live, live);
    free(t.data);
}
/* A document made from copies of another's parts, each with all that it may have. */
static dcp_status build_copy(const dcp_metadata *from, dcp_metadata **out, dcp_error *err) {
    dcp_sharding sharding = from->sharding;
    dcp_training training = from->training;
    dcp_shard_metadata shard = from->shards[0];
    dcp_tensor_metadata tensor = from->shards[0].tensors[0];
    dcp_status status = dcp_metadata_new(out, err);
    sharding.extra = training.extra = shard.extra = tensor.extra = "\"x\": 1";
    if (!status) status = dcp_metadata_set_sharding(*out, &sharding, err);
    if (!status) status = dcp_metadata_set_training(*out, &training, err);
    if (!status) status = dcp_metadata_add_shard(*out, &shard, err);
    if (!status) status = dcp_metadata_add_tensor(*out, 0, &tensor, err);
    if (!status) status = dcp_metadata_set_field(*out, "git", "old", err);
    if (!status) status = dcp_metadata_set_field(*out, "git", "new", err);
    return status;
}
TEST(every_allocation_of_a_builder_can_fail) {
    dcp_metadata *from = golden(), *m;
    const size_t live = alloc_live;
    dcp_error err;
    long n;
    int done = 0;
    for (n = 0; !done; n++) {
        dcp_status status;
        alloc_arena = 1;
        alloc_countdown = n;
        status = build_copy(from, &m, &err);
        done = alloc_countdown >= 0;
        alloc_countdown = -1;
        alloc_arena = 1024 * 1024;
        CHECK_INT(status, done ? DCP_OK : DCP_E_MEMORY);
        CHECK_INT(err.status, status);
        if (done) CHECK_STR(dcp_metadata_field(m, "git"), "new");
        dcp_metadata_free(m);
        CHECK_INT(alloc_live, live);
    }
    CHECK(n > 30);
    dcp_metadata_free(from);
}

/* ---- size and speed ---------------------------------------------------------------------------------------------- */
typedef struct many { dcp_metadata head; size_t count; uint8_t digest[32]; int with_digests; char name[64]; } many;

static dcp_status many_shard(const many *m, size_t s, dcp_shard_metadata *out, dcp_error *err) {
    out->rank = (int)s;
    out->file_path = "big_shard_0.bin";
    out->file_size = (int64_t)m->count * 64;
    out->tensor_count = m->count;
    return dcpi_succeed(err);
}
static dcp_status many_tensor(many *m, size_t t, dcp_tensor_metadata *out, dcp_error *err) {
    (void)snprintf(m->name, sizeof m->name, "layers.%u.attn.w%u", (unsigned)(t / 8), (unsigned)(t % 8));
    out->name = m->name;
    out->ndim = 2; out->shape[0] = 4; out->shape[1] = 4;
    out->data_type = "fp32";
    out->offset = (int64_t)t * 64;
    out->size = 64;
    if (!m->with_digests) return dcpi_succeed(err);
    memcpy(out->global_shape, out->shape, sizeof out->shape);
    out->placement = "replicated";
    out->block_size = 4194304;
    out->block_checksums = m->digest;
    out->block_count = 1;
    return dcpi_succeed(err);
}
static dcp_status many_items(void *user, const dcpi_record *record, size_t s, size_t i, void *out, dcp_error *err) {
    CHECK(record == &dcpi_shard_record || s == 0);
    if (record == &dcpi_shard_record) return many_shard((const many *)user, i, (dcp_shard_metadata *)out, err);
    return many_tensor((many *)user, i, (dcp_tensor_metadata *)out, err);
}
static double seconds_now(void) { return (double)clock() / (double)CLOCKS_PER_SEC; }
static void measure_many(size_t count, int with_digests, int rounds) {
    many user;
    dcpi_content source;
    text t = { NULL, 0, 0 };
    dcpi_buffer buffer = {NULL, 0, 0, 0};
    dcp_metadata *m;
    dcp_validation v;
    dcp_error err;
    char *written;
    size_t size, before;
    int64_t bytes;
    double start, parsed = 1e9, wrote = 1e9, counted = 1e9, validated = 1e9, peak = 0;
    int round;
    memset(&user, 0, sizeof user);
    user.head.world_size = 1;
    user.head.sharding.strategy = "ddp";
    user.head.timestamp = "2026-11-20T12:00:00.123456Z";
    user.count = count;
    user.with_digests = with_digests;
    user.head.shard_count = 1;
    source = dcpi_content_of(&user.head, NULL);
    source.item = many_items; source.user = &user;
    CHECK_OK(dcpi_meta_emit(&source, DCPI_TYPE_METADATA, NULL, dcpi_buffer_sink, &buffer, &bytes, &err));
    CHECK_INT(bytes, buffer.size);
    for (round = 0; round < rounds; round++) {
        before = alloc_live;
        alloc_peak = alloc_live;
        start = seconds_now();
        CHECK_OK_MESSAGE(dcp_metadata_parse(buffer.data, buffer.size, &m, &err), err.message);
        if (seconds_now() - start < parsed) parsed = seconds_now() - start;
        peak = (double)(alloc_peak - before) / (double)buffer.size;
        CHECK_INT(m->shards[0].tensor_count, count);
        start = seconds_now();
        (void)dcp_metadata_validate(m, &v);
        if (seconds_now() - start < validated) validated = seconds_now() - start;
        if (v.error_count) show(&v);
        CHECK_INT(v.error_count, 0);
        dcp_validation_free(&v);
        start = seconds_now();
        CHECK_OK(dcp_metadata_write(m, NULL, &written, &size, &err));
        if (seconds_now() - start < wrote) wrote = seconds_now() - start;
        CHECK(size == buffer.size && memcmp(written, buffer.data, size) == 0);
        dcp_free(written);
        source = dcpi_content_of(m, NULL);
        start = seconds_now();
        CHECK_OK(dcpi_meta_emit(&source, DCPI_TYPE_METADATA, NULL, NULL, NULL, &bytes, &err));
        if (seconds_now() - start < counted) counted = seconds_now() - start;
        CHECK_INT(bytes, buffer.size);
        dcp_metadata_free(m);
    }
    printf("  %u tensors, %.1f MB: parse %.2f GB/s, memory %.1f x, validate %.3f s, write %.2f GB/s, count %.2f GB/s\n",
           (unsigned)count, (double)buffer.size / 1e6, (double)buffer.size / 1e9 / parsed, peak, validated,
           (double)buffer.size / 1e9 / wrote,
           (double)buffer.size / 1e9 / counted);
    CHECK(parsed < 30 && wrote < 30 && validated < 30);
    dcpi_buffer_free(&buffer);
    free(t.data);
}
TEST(a_million_tensors) {
    measure_many((size_t)test_times(100000), 0, 3);
    if (test_is_slow() || test_is_sanitized()) return;                  /* a hundred thousand take the same ways */
    measure_many(1000000, 0, 1);
    /* it would not fit in 32 bits: document, structs and a copy */
    if (sizeof(void *) > 4) measure_many(1000000, 1, 1);
}

int main(void) {
    RUN(integrity_known_answers);
    RUN(integrity_finds_the_tail);
    RUN(signatures);
    RUN(custom_signers);
    RUN(data_types);
    RUN(names_and_keys);
    RUN(times);
    RUN(seed_serialization_roundtrip);
    RUN(seed_validation_with_valid_metadata);
    RUN(seed_validation_with_missing_fields);
    RUN(seed_validation_with_inconsistent_shard_counts);
    RUN(seed_custom_fields_persistence);
    RUN(golden_document_is_written_byte_for_byte);
    RUN(golden_document_is_parsed_field_by_field);
    RUN(both_ways_of_reading_a_tensor_agree);
    RUN(every_mark_is_needed);
    RUN(the_place_of_an_error_is_that_of_its_member);
    RUN(signed_document_says_who_signed);
    RUN(what_is_signed_is_covered);
    RUN(unknown_members_are_kept_at_every_level);
    RUN(text_of_the_program_is_checked_before_it_is_written);
    RUN(minimum_and_defaults);
    RUN(builders_refuse_what_they_cannot_do);
    RUN(arguments_that_are_missing_are_refused);
    RUN(limits_of_a_document);
    RUN(what_an_open_would_refuse_is_not_committed);
    RUN(every_rule_of_the_format);
    RUN(rules_that_only_warn);
    RUN(rules_of_structs);
    RUN(structs_that_cannot_be_written);
    RUN(as_many_dimensions_as_there_may_be);
    RUN(a_parsed_document_can_be_built_on);
    RUN(a_name_stands_once_in_a_shard_or_at_several_places);
    RUN(regions_of_a_single_file);
    RUN(findings_are_bounded_and_counted);
    RUN(documents_of_the_seed_load_with_warnings);
    RUN(a_document_with_an_addition_needs_its_tail);
    RUN(every_flipped_bit_is_detected);
    RUN(every_truncation_and_extension_is_detected);
    RUN(newer_versions_are_refused);
    RUN(wrong_types_and_limits_name_the_place);
    RUN(memory_is_proportional_to_the_bytes);
    RUN(every_allocation_can_fail);
    RUN(every_allocation_of_a_check_can_fail);
    RUN(every_allocation_of_a_builder_can_fail);
    RUN(a_million_tensors);
    return test_finish();
}
