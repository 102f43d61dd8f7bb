/* fuzz_integrity.c - the chapters >>sha256 and >>integrity: SHA-256 in any pieces and by every kernel, HMAC, hex, the
 * tree of block digests, and tails of documents, each compared with the same computed in another way. The first byte
 * chooses.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_integrity.c -o fuzz_integrity &&
 *     ./fuzz_integrity -max_len=4096 tests/corpus/integrity */
#include "fuzz.h"

static const char *const integrity_tokens[] = {",\n  \"signature\": { \"algorithm\": \"", "\", \"key\": \"",
                                               "\", \"value\": \"", "\" }",
                                               ",\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \"",
                                               "\" }\n}\n", "signature: { algorithm: \"", "\", key: \"",
                                               "\", value: \"", "\" }\n",
    "integrity: { algorithm: \"sha256\", value: \"", "hmac-sha256", "none", "k", "00", "ff", "\n", "}", "A",
    "0000000000000000000000000000000000000000000000000000000000000000", "abcdefabcdefabcdefabcdefabcdefabcdef"};

/* ---- hashing ----------------------------------------------------------------------------------------------------- */
static void integrity_pieces(const uint8_t *data, size_t size, size_t step) {
    uint8_t whole[32], pieces[32], halfway[32];
    dcpi_sha sha;
    size_t at = 0, n;
    dcp_sha256(data, size, whole);
    dcpi_sha_init(&sha);
    while (at < size) {
        step = step * 31 + 7;
        n = step % 130 < size - at ? step % 130 : size - at;
        dcpi_sha_update(&sha, data + at, n);
        at += n;
        if (step % 5 == 0) dcpi_integrity_digest(&sha, halfway);        /* what has come so far; it goes on */
    }
    dcpi_sha_final(&sha, pieces);
    FUZZ_CHECK(memcmp(whole, pieces, 32) == 0);
}
/* Many strings at once, by each kernel of this machine: what the portable one makes of each alone. */
static void integrity_many(const uint8_t *data, size_t size) {
    enum { MOST = 40 };
    dcpi_sha_job jobs[MOST];
    uint8_t digests[MOST][32], wanted[MOST][32];
    size_t count = 0, at = 1, k, i;
    while (size > 0 && count < MOST && at < size) {
        const size_t n = data[at - 1] * (size_t)(1 + data[0] % 3) < size - at ? data[at - 1] *
                         (size_t)(1 + data[0] % 3) : size - at;
        jobs[count].data = data + at;
        jobs[count].size = n;
        jobs[count].digest = digests[count];
        count++;
        at += n + 1;
    }
    for (i = 0; i < count; i++) {
        dcpi_sha_job one = jobs[i];
        one.digest = wanted[i];
        dcpi_sha_many_with(DCPI_SHA_PORTABLE, &one, 1);
    }
    for (k = 0; k <= (size_t)DCPI_SHA_ARMV8; k++) {
        if (!dcpi_sha_kernel_usable((enum dcpi_sha_kernel)k)) continue;
        memset(digests, 0, sizeof digests);
        dcpi_sha_many_with((enum dcpi_sha_kernel)k, jobs, count);
        FUZZ_CHECK(memcmp(digests, wanted, 32 * count) == 0);
    }
}
/* HMAC by its definition in RFC 2104. */
static void integrity_hmac(const uint8_t *data, size_t size) {
    static uint8_t inner[FUZZ_MOST + 64];
    const size_t key_size = size ? data[0] % 150 < size ? data[0] % 150 : size : 0;
    uint8_t key[64] = {0}, outer[96], wanted[32], got[32];
    size_t i;
    if (key_size > 64) dcp_sha256(data, key_size, key);
    else if (key_size) memcpy(key, data, key_size);
    for (i = 0; i < 64; i++) { inner[i] = key[i] ^ 0x36; outer[i] = key[i] ^ 0x5C; }
    if (size) memcpy(inner + 64, data, size);
    dcp_sha256(inner, 64 + size, outer + 64);
    dcp_sha256(outer, 96, wanted);
    dcp_hmac_sha256(data, key_size, data, size, got);
    FUZZ_CHECK(memcmp(wanted, got, 32) == 0);
}
static void integrity_hex(const uint8_t *data, size_t size) {
    static char text[2 * FUZZ_MOST];
    static uint8_t back[FUZZ_MOST];
    size_t i;
    int is_hex = size % 2 == 0;
    dcpi_hex_encode(data, size, text);
    FUZZ_CHECK(dcpi_hex_decode(text, 2 * size, back) && (size == 0 || memcmp(back, data, size) == 0));
    for (i = 0; i < size; i++) if (!strchr("0123456789abcdefABCDEF", data[i]) || data[i] == '\0') is_hex = 0;
    FUZZ_CHECK(dcpi_hex_decode((const char *)data, size, back) == is_hex);
}
/* A file of some leaves, hashed as sync does in pieces of leaves, and by the definition in DESIGN 2.1. */
static void integrity_tree(const uint8_t *data, size_t size) {
    enum { LEAVES = 3 };
    static uint8_t bytes[LEAVES * 256 * 1024];
    const size_t leaf = 256 * 1024;
    uint8_t leaves[LEAVES][32], blocks[LEAVES][32], all[32], digest[32], stated[32];
    int is_tree;
    char checksum[80] = "sha256-tree:";
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata tensor = DCP_ZERO;
    dcpi_folding folding;
    size_t total, block, at, i, count = 0, n;
    if (size < 5) return;
    total = ((size_t)data[1] << 16 | (size_t)data[2] << 8 | data[3]) % sizeof bytes + 1;
    block = leaf << data[4] % 2;
    for (at = 0; at < total; at += size) memcpy(bytes + at, data, size < total - at ? size : total - at);
    for (at = 0; at < total; at += block) {
        for (i = 0; i * leaf < block && at + i * leaf < total; i++) {
            n = total - at - i * leaf;
            dcp_sha256(bytes + at + i * leaf, n < leaf ? n : leaf, leaves[i]);
        }
        if (i == 1) memcpy(blocks[count++], leaves[0], 32);
        else dcp_sha256(leaves, 32 * i, blocks[count++]);
    }
    dcp_sha256(blocks, 32 * count, all);
    dcpi_hex_encode(all, 32, checksum + 12);
    tensor.block_size = (int64_t)block;
    shard.tensors = &tensor;
    shard.tensor_count = 1;
    shard.file_size = (int64_t)total;
    shard.checksum = checksum;
    dcpi_folding_begin(&folding, &shard);
    for (at = 0; at < total; at += n) {
        n = leaf * (size_t)(1 + data[4] / 2 % 3);
        if (n > total - at) n = total - at;
        dcpi_folding_add(&folding, bytes + at, n);
    }
    dcpi_sha_final(&folding.all, digest);
    FUZZ_CHECK(dcpi_checksum_parse(checksum, &is_tree, stated) && memcmp(digest, stated, sizeof digest) == 0);
}

/* ---- tails ------------------------------------------------------------------------------------------------------- */
/* The document without its tail, and the tail made from what was read: the same bytes. */
static void integrity_tail(const char *data, size_t size, const char *type, int is_signed) {
    const dcpi_tail_form *form = dcpi_tail_form_of(type);
    const dcp_verifier verifier = dcp_hmac_verifier(FUZZ_KEY, 16);
    char digits[65], text[DCPI_INTEGRITY_TEXT];
    static char made[FUZZ_MOST + 1024];
    uint8_t body[32], value[32];
    dcpi_tail tail;
    dcp_error err;
    int length;
    const dcp_status status = dcpi_integrity_check(type, data, size, is_signed ? &verifier : NULL, &tail, &err);
    fuzz_told(status, &err);
    if (!tail.present) { FUZZ_CHECK(status == (is_signed ? DCP_E_SIGNATURE : DCP_OK)); return; }
    FUZZ_CHECK(tail.body <= size && tail.signed_body <= tail.body && (tail.is_signed || tail.signed_body == tail.body));
    if (status) { FUZZ_CHECK(status == (is_signed ? DCP_E_SIGNATURE : DCP_E_CHECKSUM)); return; }
    dcp_sha256(data, tail.body, body);
    length = (int)dcpi_integrity_text(text, type, "sha256", "", tail.body, body);
    dcp_sha256(text, (size_t)length, value);
    dcpi_hex_encode(value, 32, digits);
    digits[64] = '\0';
    length = snprintf(made, sizeof made, "%s%s%s", form->integrity_open, digits, form->integrity_close);
    FUZZ_CHECK(fuzz_same_text(made, (size_t)length, data + tail.body, size - tail.body));
    if (!tail.is_signed) return;
    length = snprintf(made, sizeof made, "%s%s%s%s%s%.*s%s", form->signature_open, tail.algorithm, form->signature_key,
                      tail.key, form->signature_value, (int)tail.signature_digits, tail.signature,
                      form->signature_close);
    FUZZ_CHECK(fuzz_same_text(made, (size_t)length, data + tail.signed_body, tail.body - tail.signed_body));
    if (!is_signed) return;
    FUZZ_CHECK(strcmp(tail.algorithm, "hmac-sha256") == 0 && tail.signature_digits == 64);
    dcp_sha256(data, tail.signed_body, body);
    length = (int)dcpi_integrity_text(text, type, "hmac-sha256", tail.key, tail.signed_body, body);
    dcp_hmac_sha256(FUZZ_KEY, 16, text, (size_t)length, value);
    dcpi_hex_encode(value, 32, digits);
    FUZZ_CHECK(memcmp(digits, tail.signature, 64) == 0);
}
static const char *integrity_type(uint8_t choice) {
    static const char *const types[] = {DCPI_TYPE_METADATA, DCPI_TYPE_CHECKPOINT, DCPI_TYPE_MANIFEST,
                                        DCPI_TYPE_MANIFEST_YAML};
    return types[choice / 8 % 4];
}
static void integrity_one(const uint8_t *data, size_t size) {
    uint8_t *exact = (uint8_t *)fuzz_exact(data, size);
    if (size > 0) {
        switch (data[0] % 8) {
        case 0: integrity_pieces(exact, size, data[0]); break;
        case 1: integrity_many(exact, size); break;
        case 2: integrity_hmac(exact, size); integrity_hex(exact + 1, size - 1); break;
        case 3: if (data[0] == 3 && size % 8 == 0) integrity_tree(exact, size); break;     /* takes long */
        default:
            integrity_tail((char *)exact + 1, size - 1, integrity_type(data[0]), 0);
            integrity_tail((char *)exact + 1, size - 1, integrity_type(data[0]), 1);
        }
    }
    free(exact);
}
static size_t integrity_repair(uint8_t *data, size_t size, size_t capacity, uint64_t how) {
    (void)how;
    return size == 0 || data[0] % 8 < 4 ? size : 1 + fuzz_seal(data + 1, size - 1, capacity - 1,
                                                               integrity_type(data[0]));
}
static const fuzz_target fuzz_integrity = {"integrity", integrity_one, integrity_repair, integrity_tokens,
                                           FUZZ_COUNT(integrity_tokens), 4096, 4};
FUZZ_ENTRY(fuzz_integrity)
