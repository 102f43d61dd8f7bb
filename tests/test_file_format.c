/* test_file_format.c - the chapter >>file: the header of a single file, byte for byte, and every way in which it can be
 * wrong. */
static int limit_tensors = 67108864;    /* few in a_header_that_cannot_be_written */
#define DCP_LIMIT_TENSORS limit_tensors
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
typedef struct bytes { uint8_t *data; size_t size; } bytes;

static void add(bytes *b, const void *data, size_t size) {
    b->data = (uint8_t *)realloc(b->data, b->size + size + 1);
    CHECK(b->data != NULL);
    memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = 0;
}
static dcp_status add_sink(void *user, const void *data, size_t size, dcp_error *err) {
    add((bytes *)user, data, size);
    return dcpi_succeed(err);
}
/* A file in memory, as dcpi_file_check reads it. */
static dcp_status read_bytes(void *user, int64_t offset, void *data, size_t size, dcp_error *err) {
    const bytes *b = (const bytes *)user;
    if (offset < 0 || (uint64_t)offset > b->size || size > b->size - (size_t)offset)
        return dcpi_fail(err, DCP_E_IO, "read beyond the end");
    memcpy(data, b->data + offset, size);
    return dcpi_succeed(err);
}
static int contains(const char *whole, const char *part) { return strstr(whole, part) != NULL; }

/* Two shards: three tensors of different shapes and types in the first, every type once in the second. */
static dcp_metadata *model(const char *odd_type) {
    static const char *const info = "{}";
    dcp_metadata *m;
    dcp_sharding sharding = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata t = DCP_ZERO;
    char name[32];
    dcp_error err;
    int i;
    CHECK_OK(dcp_metadata_new(&m, &err));
    m->world_size = 2;
    m->timestamp = "2026-11-20T12:00:00.123456Z";
    m->save_id = "0123456789abcdef";
    sharding.strategy = "fsdp"; sharding.shard_count = 2; sharding.info = info;
    CHECK_OK(dcp_metadata_set_sharding(m, &sharding, &err));
    shard.file_path = "step.checkpoint";
    for (i = 0; i < 2; i++) {
        shard.rank = i;
        CHECK_OK(dcp_metadata_add_shard(m, &shard, &err));
    }
    t.name = "scalar"; t.data_type = "int64"; t.size = 8;
    CHECK_OK(dcp_metadata_add_tensor(m, 0, &t, &err));
    t.name = "\xC3\xA4"; t.data_type = odd_type; t.ndim = 2; t.shape[0] = 2; t.shape[1] = 3; t.size = 24; t.offset = 64;
    CHECK_OK(dcp_metadata_add_tensor(m, 0, &t, &err));
    t.name = "empty"; t.data_type = "bf16"; t.ndim = 8; t.shape[0] = 0;
    t.shape[2] = t.shape[3] = t.shape[4] = t.shape[5] = t.shape[6] = t.shape[7] = 1;
    t.size = 0; t.offset = 128;
    CHECK_OK(dcp_metadata_add_tensor(m, 0, &t, &err));
    m->shards[0].file_size = 88;
    memset(&t, 0, sizeof t);
    t.ndim = 1; t.shape[0] = 4;
    for (i = DCP_FP32; i < DCP_OPAQUE; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        t.name = name;
        t.data_type = dcp_dtype_name((dcp_dtype)i);
        t.size = 4 * dcp_dtype_bits((dcp_dtype)i) / 8;
        t.offset = (int64_t)(i - DCP_FP32) * 64;
        CHECK_OK(dcp_metadata_add_tensor(m, 1, &t, &err));
    }
    m->shards[1].file_size = t.offset + t.size;
    return m;
}
/* Puts the regions behind the header, as a save does: the offsets grow the document, until they no longer do. */
static int64_t place(dcp_metadata *m, const dcp_signer *signer, int64_t *json_size) {
    dcpi_content source;
    int64_t records, end, at = 0;
    dcp_error err;
    size_t s, t;
    source = dcpi_content_of(m, NULL);
    CHECK_OK(dcpi_file_records_size(&source, &records, &err));
    for (;;) {
        CHECK_OK(dcpi_meta_emit(&source, DCPI_TYPE_CHECKPOINT, signer, NULL, NULL, json_size, &err));
        end = (records + *json_size + 4095) / 4096 * 4096;
        if (end == at) return at;
        at = end;
        for (s = 0; s < m->shard_count; s++) {
            for (t = 0; t < m->shards[s].tensor_count; t++)
                m->shards[s].tensors[t].offset += end - m->shards[s].data_offset;
            m->shards[s].data_offset = end;
            end = (end + m->shards[s].file_size + 4095) / 4096 * 4096;
        }
    }
}
/* A whole file; its data bytes are 0xDA. */
static bytes file_of(dcp_metadata *m, const dcp_signer *signer) {
    dcpi_content source;
    bytes b = {NULL, 0};
    int64_t json_size, data_offset = place(m, signer, &json_size), end;
    const dcp_shard_metadata *last = &m->shards[m->shard_count - 1];
    dcp_error err;
    source = dcpi_content_of(m, NULL);
    CHECK_OK_MESSAGE(dcpi_file_emit(&source, json_size, data_offset, signer, add_sink, &b, &err), err.message);
    CHECK_INT(b.size, data_offset);
    for (end = last->data_offset + last->file_size; (int64_t)b.size < end;) add(&b, "\xDA", 1);
    return b;
}
/* Opens a file as a load does: prefix, document, rules, header. */
static dcp_status open_file(const bytes *b, const dcp_verifier *verifier, dcp_metadata **out, dcp_error *err) {
    int64_t json_offset, json_size;
    char version[DCPI_FILE_VERSION];
    dcp_metadata *m = NULL;
    size_t head = b->size < DCPI_FILE_PREFIX ? b->size : DCPI_FILE_PREFIX;
    dcp_status status = dcpi_file_prefix(b->data, head, (int64_t)b->size, &json_offset, &json_size, version, err);
    *out = NULL;
    if (status != DCP_OK) return status;
    status = dcpi_meta_parse((const char *)b->data + json_offset, (size_t)json_size, DCPI_TYPE_CHECKPOINT, verifier, &m,
                             err);
    if (status == DCP_OK) {
        dcp_validation found;
        status = dcpi_meta_check(m, "file", &found, err);
        dcp_validation_free(&found);
    }
    if (status == DCP_OK)
        status = dcpi_file_check(m, (const char *)b->data + json_offset, (size_t)json_size, read_bytes, (void *)b,
                                 (int64_t)b->size, err);
    if (status == DCP_OK) *out = m;
    else dcp_metadata_free(m);
    return status;
}
static void check_refused(const bytes *b, dcp_status expected, const char *words) {
    dcp_metadata *m;
    dcp_error err;
    dcp_status status = open_file(b, NULL, &m, &err);
    if (status != expected || !contains(err.message, words))
        printf("  got %s: %s\n", dcp_status_name(status), err.message);
    CHECK_INT(status, expected);
    CHECK(contains(err.message, words));
    CHECK(m == NULL);
}

/* ---- a tiny file, compared with bytes computed by hand ----------------------------------------------------------- */
TEST(header_bytes) {
    static const uint8_t before[] = {0x50, 0x43, 0x4C, 0x4D, 5, '1', '.', '0', '.', '0'};
    static const uint8_t records[] = {
        1, 0, 0, 0,                                                     /* shard 0: one tensor */
        2, 0, 0, 0, 0xC3, 0xA4,                                         /* its name */
        4, 'f', 'p', '3', '2',
        2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0,     /* shape [2, 259] */
        0x18, 8, 0, 0, 0, 0, 0, 0,                                      /* 2072 bytes */
        0, 0, 0, 0                                                      /* shard 1: none */
    };
    dcp_metadata *m;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata t = DCP_ZERO;
    dcpi_content source;
    bytes b = {NULL, 0}, json = {NULL, 0};
    int64_t json_size, records_size;
    uint8_t length[4];
    dcp_error err;
    CHECK_OK(dcp_metadata_new(&m, &err));
    shard.file_path = "a.checkpoint";
    CHECK_OK(dcp_metadata_add_shard(m, &shard, &err));
    CHECK_OK(dcp_metadata_add_shard(m, &shard, &err));
    m->timestamp = "2026-11-20T12:00:00Z";
    t.name = "\xC3\xA4"; t.data_type = "fp32"; t.ndim = 2; t.shape[0] = 2; t.shape[1] = 259; t.size = 2072;
    CHECK_OK(dcp_metadata_add_tensor(m, 0, &t, &err));
    source = dcpi_content_of(m, NULL);
    CHECK_OK(dcpi_meta_emit(&source, DCPI_TYPE_CHECKPOINT, NULL, add_sink, &json, &json_size, &err));
    CHECK_INT(json.size, json_size);
    CHECK_OK(dcpi_file_emit(&source, json_size, 8192, NULL, add_sink, &b, &err));
    CHECK_INT(b.size, 8192);
    CHECK(memcmp(b.data, before, sizeof before) == 0);
    dcpi_store32(length, (uint32_t)json_size);
    CHECK(memcmp(b.data + sizeof before, length, 4) == 0);
    CHECK(memcmp(b.data + sizeof before + 4, json.data, json.size) == 0);
    CHECK(memcmp(b.data + sizeof before + 4 + json.size, records, sizeof records) == 0);
    CHECK(b.data[sizeof before + 4 + json.size + sizeof records] == 0 && b.data[8191] == 0);
    CHECK_OK(dcpi_file_records_size(&source, &records_size, &err));
    CHECK_INT(records_size, sizeof before + 4 + sizeof records);
    /* no padding */
    b.size = 0;
    CHECK_OK(dcpi_file_emit(&source, json_size, 0, NULL, add_sink, &b, &err));
    CHECK_INT(b.size, records_size + json_size);
    /* sizes that are not what they should be */
    CHECK_INT(dcpi_file_emit(&source, json_size + 1, 8192, NULL, add_sink, &b, &err), DCP_E_INVALID);
    CHECK_INT(dcpi_file_emit(&source, json_size, 64, NULL, add_sink, &b, &err), DCP_E_INVALID);
    CHECK_INT(dcpi_file_emit(&source, (int64_t)INT32_MAX + 1, 0, NULL, add_sink, &b, &err), DCP_E_LIMIT);
    CHECK(contains(err.message, "sharded layout"));
    dcp_metadata_free(m);
    free(b.data);
    free(json.data);
}

/* ---- the seed's testing requirements ----------------------------------------------------------------------------- */
TEST(seed_serialize_deserialize_roundtrip_with_multiple_shards_shapes_and_types) {
    dcp_metadata *m = model("fp32"), *n;
    bytes b = file_of(m, NULL), again;
    dcp_error err;
    size_t s, t;
    CHECK_OK_MESSAGE(open_file(&b, NULL, &n, &err), err.message);
    CHECK_INT(n->shard_count, 2);
    for (s = 0; s < 2; s++) {
        CHECK_INT(n->shards[s].tensor_count, m->shards[s].tensor_count);
        CHECK_INT(n->shards[s].data_offset, m->shards[s].data_offset);
        for (t = 0; t < n->shards[s].tensor_count; t++) {
            const dcp_tensor_metadata *x = &m->shards[s].tensors[t], *y = &n->shards[s].tensors[t];
            CHECK_STR(y->name, x->name);
            CHECK_STR(y->data_type, x->data_type);
            CHECK_INT(y->ndim, x->ndim);
            CHECK(memcmp(y->shape, x->shape, sizeof x->shape) == 0);
            CHECK(y->size == x->size && y->offset == x->offset);
        }
    }
    again = file_of(n, NULL);
    CHECK(again.size == b.size && memcmp(again.data, b.data, b.size) == 0);
    dcp_metadata_free(m);
    dcp_metadata_free(n);
    free(b.data);
    free(again.data);
}
TEST(seed_file_format_validation_by_magic_number) {
    dcp_metadata *m = model("fp32");
    bytes b = file_of(m, NULL), none = {NULL, 0};
    size_t i;
    for (i = 0; i < 4; i++) {
        b.data[i] ^= 1;
        check_refused(&b, DCP_E_FORMAT, "magic number mismatch");
        b.data[i] ^= 1;
    }
    b.size = 3;
    check_refused(&b, DCP_E_FORMAT, "magic number mismatch");
    add(&none, "", 0);
    check_refused(&none, DCP_E_FORMAT, "magic number mismatch");
    free(b.data);
    free(none.data);
    dcp_metadata_free(m);
}
TEST(seed_corrupted_files_every_bit_before_the_data) {
    dcp_metadata *m = model("fp32"), *n;
    bytes b = file_of(m, NULL);
    int64_t header = m->shards[0].data_offset, i;
    dcp_error err;
    int bit;
    for (i = 0; i < header; i++) {
        for (bit = 0; bit < 8; bit += i < 64 || i > header - 2000 ? 1 : 3) {
            b.data[i] ^= (uint8_t)(1 << bit);
            if (open_file(&b, NULL, &n, &err) == DCP_OK) printf("  byte %d bit %d\n", (int)i, bit);
            CHECK(n == NULL && err.message[0] != '\0');
            b.data[i] ^= (uint8_t)(1 << bit);
        }
    }
    free(b.data);
    dcp_metadata_free(m);
}
TEST(seed_corrupted_files_truncated_and_extended) {
    dcp_metadata *m = model("fp32"), *n;
    bytes b = file_of(m, NULL);
    size_t size = b.size, i;
    dcp_error err;
    for (i = 0; i < size; i++) {
        bytes cut;
        cut.size = i;
        cut.data = (uint8_t *)malloc(i + 1);                 /* exact, so that a sanitizer sees a read beyond the end */
        CHECK(cut.data != NULL);
        memcpy(cut.data, b.data, i);
        CHECK(open_file(&cut, NULL, &n, &err) != DCP_OK && n == NULL);
        free(cut.data);
    }
    b.size = size - 1;
    check_refused(&b, DCP_E_INCOMPLETE, "cut short");
    b.size = size;
    add(&b, "", 1);
    check_refused(&b, DCP_E_FORMAT, "1 bytes follow");
    free(b.data);
    dcp_metadata_free(m);
}

/* ---- .NET strings: lengths of 7 bits a byte ---------------------------------------------------------------------- */
TEST(lengths_of_strings) {
    static const struct { size_t length; uint8_t varint[3]; size_t size; } cases[] = {
        {0, {0}, 1}, {1, {1}, 1}, {127, {127}, 1}, {128, {0x80, 1}, 2}, {16383, {0xFF, 0x7F}, 2},
            {16384, {0x80, 0x80, 1}, 3}
    };
    static const struct { uint8_t varint[6]; size_t size; int ok; uint32_t value; } reads[] = {
        {{0}, 1, 1, 0}, {{127}, 1, 1, 127}, {{0x80, 1}, 2, 1, 128}, {{0xFF, 0xFF, 0xFF, 0xFF, 7}, 5, 1, INT32_MAX},
            {{0xFF, 0xFF, 0xFF, 0xFF, 8}, 5, 0, 0},
        {{0x80, 0}, 2, 0, 0}, {{0x85, 0x80, 0}, 3, 0, 0}, {{0x80}, 1, 0, 0}, {{0}, 0, 0, 0},
        {{0x80, 0x80, 0x80, 0x80, 0x80, 1}, 6, 0, 0}
    };
    char text[16385];
    size_t i;
    for (i = 0; i < DCPI_COUNT(cases); i++) {
        bytes b = {NULL, 0};
        dcpi_file_out out;
        memset(text, 'x', sizeof text);
        text[cases[i].length] = '\0';
        dcpi_file_begin(&out, add_sink, &b, NULL);
        dcpi_file_put_string(&out, text);
        dcpi_file_flush(&out);
        CHECK_INT(b.size, cases[i].length + cases[i].size);
        CHECK(memcmp(b.data, cases[i].varint, cases[i].size) == 0);
        free(b.data);
    }
    for (i = 0; i < DCPI_COUNT(reads); i++) {
        uint32_t value = 0;
        size_t at = 0;
        CHECK_INT(dcpi_file_varint(reads[i].varint, reads[i].size, &at, &value), reads[i].ok);
        CHECK_INT(value, reads[i].value);
    }
}
TEST(data_types_of_127_and_128_bytes) {
    char type[129];
    size_t n;
    for (n = 127; n <= 128; n++) {
        dcp_metadata *m, *opened;
        bytes b;
        dcp_error err;
        memset(type, 'q', sizeof type);
        type[n] = '\0';
        m = model(type);
        b = file_of(m, NULL);
        CHECK_OK_MESSAGE(open_file(&b, NULL, &opened, &err), err.message);
        CHECK_STR(opened->shards[0].tensors[1].data_type, type);
        dcp_metadata_free(opened);
        dcp_metadata_free(m);
        free(b.data);
    }
}
TEST(prefixes_that_are_wrong) {
    static const struct { const char *bytes; size_t size; dcp_status status; const char *words; } cases[] = {
        {"PCLM", 4, DCP_E_FORMAT, "minimal varint"},
        {"PCLM\x85\x00" "1.0.0", 11, DCP_E_FORMAT, "minimal varint"},
        {"PCLM\x00", 5, DCP_E_FORMAT, "impossible length"},
        {"PCLM\x05" "1.0", 8, DCP_E_FORMAT, "impossible length"},
        {"PCLM\x20" "1.00000000000000000000000000000000000000", 45, DCP_E_FORMAT, "impossible length"},
        {"PCLM\x05" "a.b.c\2\0\0\0{}", 16, DCP_E_FORMAT, "no version"},
        {"PCLM\x05" "1.0\0" "0\2\0\0\0{}", 16, DCP_E_FORMAT, "no version"},
        {"PCLM\x05" "2.0.0\2\0\0\0{}", 16, DCP_E_VERSION, "2.0.0"},
        {"PCLM\x05" "1.0.0\2\0\0", 13, DCP_E_FORMAT, "inside its header"},
        {"PCLM\x05" "1.0.0\3\0\0\0{}", 16, DCP_E_FORMAT, "but 2 follow"},
        {"PCLM\x05" "1.0.0\0\0\0\x80{}", 16, DCP_E_FORMAT, "2147483648 bytes"}
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(cases); i++) {
        bytes b = {NULL, 0};
        add(&b, cases[i].bytes, cases[i].size);
        check_refused(&b, cases[i].status, cases[i].words);
        free(b.data);
    }
}

/* ---- the header against its document ----------------------------------------------------------------------------- */
TEST(version_of_the_header_is_that_of_the_document) {
    dcp_metadata *m = model("fp32");
    bytes b = file_of(m, NULL);
    b.data[9] = '1';                                                    /* 1.0.1 */
    check_refused(&b, DCP_E_CHECKSUM, "byte 9");
    free(b.data);
    dcp_metadata_free(m);
}
TEST(padding_is_zero_and_short) {
    dcp_metadata *m = model("fp32");
    bytes b = file_of(m, NULL), header = {NULL, 0};
    dcpi_content source;
    int64_t json_size, data_offset = m->shards[0].data_offset;
    dcp_error err;
    size_t s, t;
    b.data[data_offset - 1] = 1;
    check_refused(&b, DCP_E_CHECKSUM, "of its header");
    free(b.data);
    for (s = 0; s < m->shard_count; s++) {                              /* a hole of 4 MiB before the data */
        m->shards[s].data_offset += 4194304;
        for (t = 0; t < m->shards[s].tensor_count; t++) m->shards[s].tensors[t].offset += 4194304;
    }
    source = dcpi_content_of(m, NULL);
    CHECK_OK(dcpi_meta_emit(&source, DCPI_TYPE_CHECKPOINT, NULL, NULL, NULL, &json_size, &err));
    CHECK_OK(dcpi_file_emit(&source, json_size, m->shards[0].data_offset, NULL, add_sink, &header, &err));
    check_refused(&header, DCP_E_FORMAT, "its data begins at");
    free(header.data);
    dcp_metadata_free(m);
}
TEST(signed_files) {
    dcp_signer signer = dcp_hmac_signer("0123456789abcdef", 16, "k");
    dcp_verifier verifier = dcp_hmac_verifier("0123456789abcdef", 16),
                            wrong = dcp_hmac_verifier("0123456789abcdeX", 16);
    static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    dcp_metadata *m = model("fp32"), *n;
    bytes b, plain;
    dcp_error err;
    m->shards[0].checksum = m->shards[1].checksum = digest;             /* nothing is signed that has none */
    b = file_of(m, &signer);
    plain = file_of(m, NULL);
    CHECK_OK_MESSAGE(open_file(&b, &verifier, &n, &err), err.message);
    CHECK_STR(n->signature_key, "k");
    dcp_metadata_free(n);
    CHECK_INT(open_file(&b, &wrong, &n, &err), DCP_E_SIGNATURE);
    CHECK_INT(open_file(&plain, &verifier, &n, &err), DCP_E_SIGNATURE);
    free(b.data);
    free(plain.data);
    dcp_metadata_free(m);
}
/* A file of the seed's own writer: a document without any addition of ours, no padding, no data. */
TEST(files_of_the_seed_without_data) {
    static const char json[] =
        "{\n  \"version\": \"1.0.0\",\n  \"timestamp\": \"2024-01-01T00:00:00Z\",\n  \"worldSize\": 1,\n  \"ddpRank\": "
        "0,\n"
        "  \"sharding\": { \"strategy\": \"ddp\", \"shardCount\": 1, \"precision\": \"fp32\", "
        "\"strategySpecificInfo\": null },\n"
        "  \"shards\": [ { \"rank\": 0, \"filePath\": \"a\", \"fileSize\": 4, \"tensors\": [\n"
        "    { \"name\": \"w\", \"shape\": [1], \"dataType\": \"Float32\", \"offset\": 0, \"size\": 4 } ], "
        "\"checksum\": null } ],\n"
        "  \"training\": null,\n  \"customFields\": null\n}";
    static const uint8_t records[] = {1, 0, 0, 0, 1, 0, 0, 0, 'w', 7, 'F', 'l', 'o', 'a', 't', '3', '2', 1, 0, 0, 0, 1,
                                      0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0};
    bytes b = {NULL, 0};
    uint8_t length[4];
    dcp_metadata *m;
    dcp_error err;
    add(&b, "PCLM\5" "1.0.0", 10);
    dcpi_store32(length, sizeof json - 1);
    add(&b, length, 4);
    add(&b, json, sizeof json - 1);
    add(&b, records, sizeof records);
    CHECK_OK_MESSAGE(open_file(&b, NULL, &m, &err), err.message);
    CHECK(m->is_foreign && m->shards[0].data_offset == 0 && !m->has_training);
    dcp_metadata_free(m);
    add(&b, "x", 1);
    check_refused(&b, DCP_E_FORMAT, "1 bytes follow");
    b.size -= 2;
    check_refused(&b, DCP_E_INCOMPLETE, "cut short");
    b.size++;
    b.data[b.size - 9] = 2;                                             /* another shape than the document's */
    check_refused(&b, DCP_E_FORMAT, "of its header");
    free(b.data);
}

/* ---- what cannot be written -------------------------------------------------------------------------------------- */
/* A source and a sink that fail in the n-th call. */
typedef struct failing { const dcpi_content *from; int calls, fails_at; } failing;

static dcp_status count_down(failing *f, dcp_error *err) {
    return f->calls++ == f->fails_at ? dcpi_fail(err, DCP_E_IO, "call %d fails", f->fails_at) : dcpi_succeed(err);
}
static dcp_status failing_item(void *user, const dcpi_record *record, size_t s, size_t i, void *out, dcp_error *err) {
    failing *f = (failing *)user;
    const dcp_shard_metadata *shards = f->from->metadata->shards;
    const dcp_status status = count_down(f, err);
    if (status) return status;
    if (record != &dcpi_shard_record) { *(dcp_tensor_metadata *)out = shards[s].tensors[i]; return DCP_OK; }
    *(dcp_shard_metadata *)out = shards[i];
    ((dcp_shard_metadata *)out)->tensors = NULL;                        /* asked for, one by one */
    return DCP_OK;
}
static dcp_status failing_sink(void *user, const void *data, size_t size, dcp_error *err) {
    (void)data;
    (void)size;
    return count_down((failing *)user, err);
}
static void check_each_failure(const dcpi_content *source, int64_t json_size, int64_t data_offset,
                               int of_the_sink) {
    dcp_metadata head = *source->metadata;
    dcpi_content failing_source = dcpi_content_of(&head, NULL);
    failing f;
    dcp_error err;
    f.from = source;
    head.shards = NULL;
    failing_source.user = &f; failing_source.item = failing_item;
    for (f.fails_at = 0;; f.fails_at++) {
        dcp_status status;
        f.calls = 0;
        status = of_the_sink ? dcpi_file_emit(source, json_size, data_offset, NULL, failing_sink, &f, &err)
                             : dcpi_file_emit(&failing_source, json_size, data_offset, NULL, NULL, NULL, &err);
        if (f.calls <= f.fails_at) { CHECK_OK(status); break; }
        CHECK_INT(status, DCP_E_IO);
        CHECK_INT(err.status, DCP_E_IO);
        CHECK_INT(f.calls, f.fails_at + 1);                            /* nothing is asked or written after a failure */
    }
    CHECK(f.fails_at > 3);
    if (of_the_sink) return;
    for (f.fails_at = 0;; f.fails_at++) {
        int64_t records = 7;
        f.calls = 0;
        if (dcpi_file_records_size(&failing_source, &records, &err) == DCP_OK) break;
        CHECK(err.status == DCP_E_IO && records == 0 && f.calls == f.fails_at + 1);
    }
    CHECK(f.fails_at > 3);
}
TEST(failures_end_the_writing_of_a_header) {
    dcp_metadata *m = model("fp32");
    dcpi_content source;
    int64_t json_size, data_offset = place(m, NULL, &json_size);
    source = dcpi_content_of(m, NULL);
    check_each_failure(&source, json_size, data_offset, 0);
    check_each_failure(&source, json_size, data_offset, 1);
    dcp_metadata_free(m);
}
TEST(a_header_that_cannot_be_written) {
    dcp_metadata *m = model("fp32");
    dcp_tensor_metadata *t = &m->shards[0].tensors[1], saved = *t;
    dcpi_content source;
    int64_t records, json_size, data_offset = place(m, NULL, &json_size);
    dcp_error err;
    saved = *t;
    source = dcpi_content_of(m, NULL);
    CHECK_OK(dcpi_file_records_size(&source, &records, &err));
    t->name = NULL; CHECK_INT(dcpi_file_records_size(&source, &records, &err), DCP_E_INVALID); *t = saved;
    t->data_type = NULL; CHECK_INT(dcpi_file_records_size(&source, &records, &err), DCP_E_INVALID); *t = saved;
    t->ndim = -1; CHECK_INT(dcpi_file_records_size(&source, &records, &err), DCP_E_INVALID); *t = saved;
    t->ndim = DCP_MAX_DIMS + 1; CHECK_INT(dcpi_file_records_size(&source, &records, &err), DCP_E_INVALID); *t = saved;
    CHECK(contains(err.message, "cannot be written"));
    limit_tensors = 2;
    CHECK_INT(dcpi_file_records_size(&source, &records, &err), DCP_E_LIMIT);
    CHECK(contains(err.message, "more than 2 tensors in a shard"));
    limit_tensors = 67108864;
    CHECK_INT(dcpi_file_emit(&source, -1, data_offset, NULL, NULL, NULL, &err), DCP_E_LIMIT);
    CHECK_INT(dcpi_file_emit(&source, (int64_t)INT32_MAX + 1, data_offset, NULL, NULL, NULL, &err), DCP_E_LIMIT);
    CHECK(contains(err.message, "2147483648 bytes"));
    CHECK_INT(dcpi_file_emit(&source, json_size + 1, data_offset, NULL, NULL, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcpi_file_emit(&source, json_size, 64, NULL, NULL, NULL, &err), DCP_E_INVALID);
    CHECK(contains(err.message, "the data begins at 64"));
    dcp_metadata_free(m);
}
TEST(padding_before_one_region) {
    dcp_metadata *m = model("fp32");
    bytes b;
    m->shard_count = 1;
    m->world_size = m->sharding.shard_count = 1;
    b = file_of(m, NULL);
    b.data[m->shards[0].data_offset - 1] = 1;
    check_refused(&b, DCP_E_CHECKSUM, "of its header");
    b.data[m->shards[0].data_offset - 1] = 0;
    b.size--;
    check_refused(&b, DCP_E_INCOMPLETE, "cut short");
    free(b.data);
    m->shard_count = 2;
    dcp_metadata_free(m);
}
/* The document is in order, and the places in it are not those of this file. */
TEST(a_header_that_does_not_fit_its_file) {
    dcp_metadata *m = model("fp32");
    bytes b = file_of(m, NULL);
    const int64_t data_offset = m->shards[0].data_offset;
    int64_t json_offset, json_size;
    char version[DCPI_FILE_VERSION];
    dcp_error err;
    CHECK_OK(dcpi_file_prefix(b.data, DCPI_FILE_PREFIX, (int64_t)b.size, &json_offset, &json_size, version, &err));
#define CHECK_FILE(status, words) do { \
        CHECK_INT(dcpi_file_check(m, (const char *)b.data + json_offset, (size_t)json_size, read_bytes, &b, \
                                  (int64_t)b.size, &err), status); \
        CHECK(contains(err.message, words)); } while (0)
    CHECK_FILE(DCP_OK, "");
    m->shards[1].file_size -= 1; CHECK_FILE(DCP_E_FORMAT, "1 bytes follow its end"); m->shards[1].file_size += 1;
    m->shards[1].file_size += 1; CHECK_FILE(DCP_E_INCOMPLETE, "cut short"); m->shards[1].file_size -= 1;
    {
        const int64_t saved = m->shards[1].file_size;
        m->shards[1].file_size = INT64_MAX;
        CHECK_FILE(DCP_E_FORMAT, "the end of its last region does not fit in 64 bits"); m->shards[1].file_size = saved;
    }
    m->shards[0].data_offset += 3 * 1024 * 1024; CHECK_FILE(DCP_E_FORMAT, "its data begins at");
    m->shards[0].data_offset -= 3 * 1024 * 1024;
    m->shards[0].data_offset = 64; CHECK_FILE(DCP_E_FORMAT, "its data begins at 64");
    m->shards[0].data_offset = data_offset;
    m->shards[0].tensors[0].name = NULL; CHECK_FILE(DCP_E_INVALID, "cannot be written");
    m->shards[0].tensors[0].name = "scalar";
    CHECK_FILE(DCP_OK, "");
#undef CHECK_FILE
    free(b.data);
    dcp_metadata_free(m);
}

int main(void) {
    RUN(header_bytes);
    RUN(seed_serialize_deserialize_roundtrip_with_multiple_shards_shapes_and_types);
    RUN(seed_file_format_validation_by_magic_number);
    RUN(seed_corrupted_files_every_bit_before_the_data);
    RUN(seed_corrupted_files_truncated_and_extended);
    RUN(lengths_of_strings);
    RUN(data_types_of_127_and_128_bytes);
    RUN(prefixes_that_are_wrong);
    RUN(version_of_the_header_is_that_of_the_document);
    RUN(padding_is_zero_and_short);
    RUN(signed_files);
    RUN(files_of_the_seed_without_data);
    RUN(failures_end_the_writing_of_a_header);
    RUN(a_header_that_cannot_be_written);
    RUN(padding_before_one_region);
    RUN(a_header_that_does_not_fit_its_file);
    return test_finish();
}
