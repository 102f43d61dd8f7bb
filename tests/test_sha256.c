/* test_sha256.c - the chapter >>sha256: published vectors, then every kernel against the portable one. */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#if DCPI_GNUC && !DCP_NO_THREADS && !defined(_WIN32)
#include <pthread.h>
#define TEST_THREADS 1
#else
#define TEST_THREADS 0
#endif

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
typedef struct { uint8_t *bytes; size_t size; } blob;

static enum dcpi_sha_kernel kernel_at(int i) { return (enum dcpi_sha_kernel)i; }
static int usable(int i) { return dcpi_sha_kernel_usable(kernel_at(i)); }

static void *must_alloc(size_t size) {
    void *memory = malloc(size ? size : 1);
    CHECK(memory != NULL);
    return memory;
}
static void hex(const uint8_t *bytes, size_t count, char *text) {
    size_t i;
    for (i = 0; i < count; i++) (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}
static unsigned hex_digit(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    CHECK(at != NULL);
    return (unsigned)(at - digits);
}
/* The hex digits at text, up to the first other character. */
static blob unhex(const char *text) {
    size_t size = strspn(text, "0123456789abcdef") / 2, i;
    blob b;
    b.bytes = (uint8_t *)must_alloc(size);
    b.size = size;
    for (i = 0; i < size; i++) b.bytes[i] = (uint8_t)(hex_digit(text[2 * i]) * 16 + hex_digit(text[2 * i + 1]));
    return b;
}
static void check_hex(const uint8_t digest[32], const char *want) {
    char text[65];
    hex(digest, 32, text);
    CHECK_STR(text, want);
}
/* By the kernel's one-stream function, without the streaming code. */
static void hash_blocks(int kernel, const uint8_t *data, size_t size, uint8_t digest[32]) {
    uint32_t state[8];
    uint8_t tail[128];
    size_t whole = size / 64, blocks = dcpi_sha_pad(tail, size ? data + 64 * whole : NULL, size), i;
    memcpy(state, dcpi_sha_initial, sizeof state);
    dcpi_sha_compress_with(kernel_at(kernel), state, data, whole);
    dcpi_sha_compress_with(kernel_at(kernel), state, tail, blocks);
    for (i = 0; i < 8; i++) dcpi_sha_store(digest + 4 * i, state[i]);
}
static void hash_one_job(int kernel, const uint8_t *data, size_t size, uint8_t digest[32]) {
    dcpi_sha_job job;
    job.data = data;
    job.size = size;
    job.digest = digest;
    dcpi_sha_many_with(kernel_at(kernel), &job, 1);
}
/* Every way to hash one string gives the wanted digest. */
static void check_digest(const uint8_t *data, size_t size, const uint8_t want[32]) {
    uint8_t got[32];
    int k;
    dcp_sha256(data, size, got);
    CHECK(memcmp(got, want, 32) == 0);
    for (k = 0; k < DCPI_SHA_KERNELS; k++) {
        if (!usable(k)) continue;
        hash_blocks(k, data, size, got);
        CHECK(memcmp(got, want, 32) == 0);
        hash_one_job(k, data, size, got);
        CHECK(memcmp(got, want, 32) == 0);
    }
}
static char *read_data(const char *name) {              /* a text file of the data set, with a NUL after it */
    const char *base = getenv("DCP_TEST_DATA");
    char path[1024], *text;
    long size;
    FILE *file;
    (void)snprintf(path, sizeof path, "%s/%s", base ? base : "../shared/data", name);
    file = fopen(path, "rb");
    if (!file) SKIP_MISSING("data", "data set not found, set DCP_TEST_DATA to its directory");
    CHECK(fseek(file, 0, SEEK_END) == 0);
    size = ftell(file);
    CHECK(size > 0 && fseek(file, 0, SEEK_SET) == 0);
    text = (char *)must_alloc((size_t)size + 1);
    CHECK_INT(fread(text, 1, (size_t)size, file), size);
    (void)fclose(file);
    text[size] = '\0';
    return text;
}
/* Jobs of their own exact allocations, so that a sanitizer sees a byte read too many; digests are compared with the
 * portable kernel's. */
typedef struct { dcpi_sha_job job[80]; uint8_t *memory[80], want[80][32], got[80][32]; size_t count; } job_set;

static void add_job(job_set *set, size_t size) {
    size_t offset = test_random_below(64), i = set->count++, at;
    uint8_t *memory = (uint8_t *)must_alloc(offset + size);
    for (at = 0; at < size; at++) memory[offset + at] = (uint8_t)test_random();
    set->memory[i] = memory;
    set->job[i].data = memory + offset;
    set->job[i].size = size;
    set->job[i].digest = set->got[i];
    hash_blocks(DCPI_SHA_PORTABLE, memory + offset, size, set->want[i]);
}
static void check_plan(job_set *set, const dcpi_sha_plan *plan) {
    memset(set->got, 0, sizeof set->got);
    dcpi_sha_many_by_plan(plan, set->job, set->count);
    CHECK(memcmp(set->got, set->want, 32 * set->count) == 0);
}
static void check_jobs(job_set *set) {
    int k;
    for (k = 0; k < DCPI_SHA_KERNELS; k++) {
        dcpi_sha_plan plan;
        if (!usable(k)) continue;
        plan = dcpi_sha_plan_for(kernel_at(k));
        check_plan(set, &plan);
        if (!plan.wide) continue;
        plan.one = dcpi_sha_one_portable;           /* as on processors with wide vectors, but without SHA extensions */
        plan.pair = NULL;
        plan.wide_from = 1 + test_random_below(plan.lanes);
        check_plan(set, &plan);
    }
    while (set->count > 0) free(set->memory[--set->count]);
}

/* ---- published vectors ------------------------------------------------------------------------------------------- */
TEST(sha256_fips_180) {
    static const char *const two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static uint8_t million[1000000];
    uint8_t digest[32];
    dcp_sha256("abc", 3, digest);
    check_hex(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest((const uint8_t *)"abc", 3, digest);
    dcp_sha256(NULL, 0, digest);
    check_hex(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest(NULL, 0, digest);
    dcp_sha256(two_blocks, strlen(two_blocks), digest);
    check_hex(digest, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_digest((const uint8_t *)two_blocks, strlen(two_blocks), digest);
    memset(million, 'a', sizeof million);
    dcp_sha256(million, sizeof million, digest);
    check_hex(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    check_digest(million, sizeof million, digest);
}
/* All messages of a file one by one and all at once, which mixes their lengths. Returns their number. */
static size_t check_cavp(const char *name) {
    static blob message[100], want[100];
    static uint8_t got[100][32];
    dcpi_sha_job job[100];
    char *text = read_data(name);
    const char *at = text;
    size_t count = 0, i;
    int k;
    while ((at = strstr(at, "\nLen = ")) != NULL) {
        unsigned long bits = strtoul(at + 7, NULL, 10);
        CHECK(count < 100);
        at = strstr(at, "\nMsg = ");
        CHECK(at != NULL);
        message[count] = unhex(at + 7);
        message[count].size = bits / 8;                 /* the empty message is written as one byte */
        at = strstr(at, "\nMD = ");
        CHECK(at != NULL);
        want[count] = unhex(at + 6);
        CHECK_INT(want[count].size, 32);
        check_digest(message[count].bytes, message[count].size, want[count].bytes);
        job[count].data = message[count].bytes;
        job[count].size = message[count].size;
        job[count].digest = got[count];
        count++;
    }
    for (k = 0; k < DCPI_SHA_KERNELS; k++) {
        if (!usable(k)) continue;
        memset(got, 0, sizeof got);
        dcpi_sha_many_with(kernel_at(k), job, count);
        for (i = 0; i < count; i++) CHECK(memcmp(got[i], want[i].bytes, 32) == 0);
    }
    for (i = 0; i < count; i++) { free(message[i].bytes); free(want[i].bytes); }
    free(text);
    return count;
}
TEST(sha256_cavp_short_messages) { CHECK_INT(check_cavp("nist-cavp/SHA256ShortMsg.rsp"), 65); }
TEST(sha256_cavp_long_messages) { CHECK_INT(check_cavp("nist-cavp/SHA256LongMsg.rsp"), 64); }

/* 1000 digests, each of the three before it; the last becomes the next seed. */
static void monte_carlo(int kernel, uint8_t seed[32]) {
    uint8_t last[96], digest[32];
    int i;
    for (i = 0; i < 3; i++) memcpy(last + 32 * i, seed, 32);
    for (i = 0; i < 1000; i++) {
        if (i % 2) hash_one_job(kernel, last, sizeof last, digest);
        else hash_blocks(kernel, last, sizeof last, digest);
        memmove(last, last + 32, 64);
        memcpy(last + 64, digest, 32);
    }
    memcpy(seed, digest, 32);
}
TEST(sha256_cavp_monte_carlo) {
    char *text = read_data("nist-cavp/SHA256Monte.rsp");
    const char *start = strstr(text, "\nSeed = "), *at;
    int k, count;
    CHECK(start != NULL);
    for (k = 0; k < DCPI_SHA_KERNELS; k++) {
        blob seed;
        if (!usable(k)) continue;
        seed = unhex(start + 8);
        for (at = start, count = 0; (at = strstr(at, "\nMD = ")) != NULL; count++) {
            blob want = unhex(at += 6);
            monte_carlo(k, seed.bytes);
            CHECK(memcmp(seed.bytes, want.bytes, 32) == 0);
            free(want.bytes);
        }
        CHECK_INT(count, 100);
        free(seed.bytes);
    }
    free(text);
}

/* ---- HMAC -------------------------------------------------------------------------------------------------------- */
/* Not a JSON reader: the hex string of the next member of this name, after *at, which moves on. */
static blob next_hex(const char **at, const char *member) {
    char quoted[40];
    (void)snprintf(quoted, sizeof quoted, "\"%s\": \"", member);
    *at = strstr(*at, quoted);
    CHECK(*at != NULL);
    *at += strlen(quoted);
    return unhex(*at);
}
/* 1 if the HMAC begins with the tag. */
static int hmac_matches(blob key, blob message, blob tag) {
    uint8_t digest[32];
    CHECK(tag.size <= 32);
    dcp_hmac_sha256(key.bytes, key.size, message.bytes, message.size, digest);
    return dcpi_sha_equal(digest, tag.bytes, tag.size);
}
TEST(hmac_rfc_4231) {
    char *text = read_data("rfc4231_hmac_sha256.json");
    const char *at = text;
    int count;
    for (count = 0; strstr(at, "\"tc\"") != NULL; count++) {
        blob key = next_hex(&at, "key"), message = next_hex(&at, "msg"), tag = next_hex(&at, "hmac_sha256");
        CHECK(tag.size >= 16);
        CHECK(hmac_matches(key, message, tag));
        free(key.bytes); free(message.bytes); free(tag.bytes);
    }
    CHECK_INT(count, 7);
    free(text);
}
TEST(hmac_wycheproof) {
    char *text = read_data("wycheproof/hmac_sha256_test.json");
    const char *at = text, *group;
    int valid = 0, invalid = 0;
    for (group = strstr(text, "\"tagSize\": "); group != NULL; group = strstr(group + 1, "\"tagSize\": ")) {
        const char *end = strstr(group + 1, "\"tagSize\": ");
        if (strtoul(group + 11, NULL, 10) != 256) continue;             /* we make no shortened tags */
        for (at = group; (at = strstr(at, "\"tcId\"")) != NULL && (!end || at < end);) {
            blob key = next_hex(&at, "key"), message = next_hex(&at, "msg"), tag = next_hex(&at, "tag");
            const char *result = strstr(at, "\"result\": \"");
            int want = result != NULL && strncmp(result + 11, "valid\"", 6) == 0;
            CHECK_INT(tag.size, 32);
            CHECK_INT(hmac_matches(key, message, tag), want);
            if (want) valid++; else invalid++;
            free(key.bytes); free(message.bytes); free(tag.bytes);
        }
    }
    CHECK(valid > 30 && invalid > 30);
    free(text);
}
TEST(hmac_without_key_or_data) {                        /* digest known from Python's hmac */
    uint8_t digest[32];
    dcp_hmac_sha256(NULL, 0, NULL, 0, digest);
    check_hex(digest, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}
TEST(equal_sees_every_byte) {
    uint8_t a[32], b[32];
    size_t i;
    for (i = 0; i < 32; i++) a[i] = b[i] = (uint8_t)test_random();
    CHECK(dcpi_sha_equal(a, b, 32));
    CHECK(dcpi_sha_equal(a, b, 0));
    for (i = 0; i < 256; i++) {
        b[i / 8] = (uint8_t)(b[i / 8] ^ 1u << i % 8);
        CHECK(!dcpi_sha_equal(a, b, 32));
        b[i / 8] = a[i / 8];
    }
}
TEST(wipe_clears) {
    uint8_t secret[70];
    size_t i;
    memset(secret, 0xA5, sizeof secret);
    dcpi_sha_wipe(secret + 1, 68);
    CHECK(secret[0] == 0xA5 && secret[69] == 0xA5);
    for (i = 1; i < 69; i++) CHECK(secret[i] == 0);
}

/* ---- kernels against each other ---------------------------------------------------------------------------------- */
TEST(kernels_every_length) {
    uint8_t want[32], *memory;
    size_t round;
    for (round = 0; round < 400; round++) {
        size_t size = round <= 300 ? round : test_random_below(20000), offset = test_random_below(64), i;
        memory = (uint8_t *)must_alloc(offset + size);
        for (i = 0; i < size; i++) memory[offset + i] = (uint8_t)test_random();
        hash_blocks(DCPI_SHA_PORTABLE, memory + offset, size, want);
        check_digest(memory + offset, size, want);
        free(memory);
    }
}
TEST(many_lengths_mixed) {
    static job_set set;
    int round;
    for (round = 0; round < 300; round++) {
        size_t count = test_random_below(71), limit = (size_t)1 << test_random_below(13), i;
        for (i = 0; i < count; i++) add_job(&set, test_random_below(limit));
        check_jobs(&set);
    }
}
TEST(many_lengths_equal) {
    static job_set set;
    int round;
    for (round = 0; round < 300; round++) {
        size_t count = test_random_below(71), size = test_random_below(400), i;
        for (i = 0; i < count; i++) add_job(&set, size);
        check_jobs(&set);
    }
}
/* a large tensor's case: leaves of 256 KiB, a shorter last one; and a giant */
TEST(many_leaves_and_one_long) {
    static job_set set;
    size_t i;
    for (i = 0; i < 17; i++) add_job(&set, 262144);
    add_job(&set, 100001);
    check_jobs(&set);
    add_job(&set, 1000003);
    for (i = 0; i < 20; i++) add_job(&set, 64 * i);
    check_jobs(&set);
}
TEST(many_without_jobs) {
    dcpi_sha_many(NULL, 0);
}

/* ---- the stream -------------------------------------------------------------------------------------------------- */
TEST(stream_cut_anywhere) {
    static uint8_t data[3000];
    size_t i;
    int round;
    for (i = 0; i < sizeof data; i++) data[i] = (uint8_t)test_random();
    for (round = 0; round < 500; round++) {
        size_t size = test_random_below(sizeof data), done = 0;
        uint8_t want[32], got[32];
        dcpi_sha sha;
        hash_blocks(DCPI_SHA_PORTABLE, data, size, want);
        dcpi_sha_init(&sha);
        while (done < size) {
            size_t part = test_random_below(round % 2 ? 200 : 10);
            if (part > size - done) part = size - done;
            dcpi_sha_update(&sha, data + done, part);
            done += part;
        }
        dcpi_sha_final(&sha, got);
        CHECK(memcmp(got, want, 32) == 0);
    }
}
TEST(length_counts_64_bits) {
    static const uint8_t want[8] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf8};
    uint8_t tail[128], rest[64] = {0};
    CHECK_INT(dcpi_sha_pad(tail, rest, 0x123456789abcdef8u / 8), 1);    /* ...df: 31 bytes are left over */
    CHECK(tail[31] == 0x80 && memcmp(tail + 56, want, 8) == 0);
    CHECK_INT(dcpi_sha_pad(tail, rest, 55), 1);
    CHECK_INT(dcpi_sha_pad(tail, rest, 56), 2);
    CHECK_INT(dcpi_sha_pad(tail, rest, 63), 2);
    CHECK_INT(dcpi_sha_pad(tail, rest, 64), 1);
}
TEST(stream_of_600_mib) {            /* over 2^32 bits; the digest of 600 MiB of zeros is known from Python's hashlib */
    static const uint8_t zeros[1048576] = {0};
    dcpi_sha sha;
    uint8_t digest[32];
    int i;
    if (dcpi_sha_plan_for(DCPI_SHA_AUTO).one == dcpi_sha_one_portable) SKIP("takes long without SHA extensions");
    dcpi_sha_init(&sha);
    for (i = 0; i < 600; i++) dcpi_sha_update(&sha, zeros, sizeof zeros);
    dcpi_sha_final(&sha, digest);
    check_hex(digest, "987523e7780392e283b404990c4e84e580bc75c451138b0c86c4f81c296eeebe");
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */
#if TEST_THREADS
static void *hash_in_thread(void *digest) {
    dcp_sha256("abc", 3, (uint8_t *)digest);
    return NULL;
}
TEST(threads_choose_at_once) {               /* runs first, while no kernel has been chosen; for the thread sanitizer */
    pthread_t thread[4];
    uint8_t digest[4][32];
    int i;
    for (i = 0; i < 4; i++) CHECK_INT(pthread_create(&thread[i], NULL, hash_in_thread, digest[i]), 0);
    for (i = 0; i < 4; i++) CHECK_INT(pthread_join(thread[i], NULL), 0);
    for (i = 0; i < 4; i++) check_hex(digest[i], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
#else
TEST(threads_choose_at_once) { SKIP("compiled without threads"); }
#endif
TEST(choice_is_usable) {
    CHECK(dcpi_sha_best() != DCPI_SHA_AUTO);
    CHECK(dcpi_sha_kernel_usable(dcpi_sha_best()));
    CHECK(dcpi_sha_kernel_usable(DCPI_SHA_PORTABLE));
    CHECK(!dcpi_sha_kernel_usable(DCPI_SHA_KERNELS));
    if (DCP_NO_SIMD) CHECK_INT(dcpi_sha_best(), DCPI_SHA_PORTABLE);
}

/* The compiler's own look at the processor: no kernel that it could run is left out, so all of them were compared
 * above. */
TEST(every_kernel_of_this_processor_is_usable) {
#if defined(__x86_64__) && DCPI_GNUC && !DCP_NO_SIMD
    __builtin_cpu_init();
    CHECK_INT(usable(DCPI_SHA_AVX2), DCPI_SHA_AVX && __builtin_cpu_supports("avx2"));
    CHECK_INT(usable(DCPI_SHA_AVX512), DCPI_SHA_AVX && __builtin_cpu_supports("avx512f") &&
              __builtin_cpu_supports("avx512bw"));
#endif
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && DCPI_GNUC && !DCP_NO_SIMD
    {   /* an emulator shows the file of the machine that it runs on */
        static char text[65536];
        FILE *file = test_is_slow() ? NULL : fopen("/proc/cpuinfo", "rb");
        size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
        if (file) (void)fclose(file);
        text[size] = '\0';
        if (strstr(text, " sha_ni")) CHECK(usable(DCPI_SHA_NI) && usable(DCPI_SHA_NI2));
        if (strstr(text, " sha2")) CHECK(usable(DCPI_SHA_ARMV8));
        if (size == 0) SKIP("there is no /proc/cpuinfo of this processor");
    }
#else
    SKIP("no list of the processor's features");
#endif
}

int main(void) {
    RUN(threads_choose_at_once);
    RUN(choice_is_usable);
    RUN(every_kernel_of_this_processor_is_usable);
    RUN(sha256_fips_180);
    RUN(sha256_cavp_short_messages);
    RUN(sha256_cavp_long_messages);
    RUN(sha256_cavp_monte_carlo);
    RUN(hmac_rfc_4231);
    RUN(hmac_wycheproof);
    RUN(hmac_without_key_or_data);
    RUN(equal_sees_every_byte);
    RUN(wipe_clears);
    RUN(kernels_every_length);
    RUN(many_lengths_mixed);
    RUN(many_lengths_equal);
    RUN(many_leaves_and_one_long);
    RUN(many_without_jobs);
    RUN(stream_cut_anywhere);
    RUN(length_counts_64_bits);
    RUN(stream_of_600_mib);
    return test_finish();
}
