/* fuzz.h - what the fuzz targets share: dcp.h with an allocator that counts, checks, a mutator, and the entry points of
 * libFuzzer.
 *
 *     #include "fuzz.h"
 *     static void json_one(const uint8_t *data, size_t size) { ... FUZZ_CHECK(something); ... }
 *     static const fuzz_target fuzz_json = {"json", json_one, NULL, json_tokens, FUZZ_COUNT(json_tokens), 4096, 200};
 *     FUZZ_ENTRY(fuzz_json)
 *
 * A target alone is a program for libFuzzer. tests/test_fuzz.c includes all of them (FUZZ_SUITE), replays the corpus,
 * and mutates it with any compiler. After each input all memory must be given back, and no more of it may have been
 * taken at any time than memory + per_byte * size. */
#ifndef DCP_FUZZ_H
#define DCP_FUZZ_H

#ifndef DCP_STATIC
#define DCP_STATIC
#endif
#define DCP_NO_THREADS 1                /* an input is one thread's work */
#define DCP_LIMIT_FINDINGS 100
#include "../counting_allocator.h"

#define FUZZ_COUNT(array) (sizeof (array) / sizeof (array)[0])
#define FUZZ_MOST 65536                 /* bytes of an input */

#ifdef FUZZ_SUITE
#define FUZZ_CHECK(condition) CHECK(condition)
#define FUZZ_ENTRY(target)
#else
#define FUZZ_CHECK(condition) do { \
        if (condition) break; \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
        abort(); \
    } while (0)
#define FUZZ_ENTRY(target) \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed); \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { fuzz_run(&(target), data, size); return 0; } \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t capacity, unsigned seed) { \
        return fuzz_mutate(&(target), data, size, capacity, seed); \
    }
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t capacity);
#endif

typedef struct fuzz_target {
    const char *name;
    void (*one)(const uint8_t *data, size_t size);
    /* makes digests and sizes fit again; NULL: there are none */
    size_t (*repair)(uint8_t *data, size_t size, size_t capacity, uint64_t how);
    const char *const *tokens; size_t token_count;
    size_t memory, per_byte;
} fuzz_target;

static inline void fuzz_run(const fuzz_target *target, const uint8_t *data, size_t size) {
    alloc_live = alloc_peak = 0;                        /* an input before that failed a check may have kept some */
    target->one(data, size);
    if (alloc_peak > target->memory + target->per_byte * size) {
        fprintf(stderr, "%lu bytes of memory for an input of %lu\n", (unsigned long)alloc_peak, (unsigned long)size);
        FUZZ_CHECK(!"memory in proportion to the input");
    }
    FUZZ_CHECK(alloc_live == 0);
}
/* A failure says why, success says nothing. */
static inline void fuzz_told(dcp_status status, const dcp_error *err) {
    FUZZ_CHECK(err->status == status && (status == DCP_OK) == (err->message[0] == '\0'));
    FUZZ_CHECK(dcp_status_name(status)[0] == 'D' && strcmp(dcp_status_name(status), "DCP_E_?") != 0);
}
/* A copy that ends where its bytes end, for a sanitizer to see a read beyond. */
static inline char *fuzz_exact(const void *data, size_t size) {
    char *copy = (char *)calloc(1, size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    return copy;
}

/* ---- mutation ---------------------------------------------------------------------------------------------------- */
static uint64_t fuzz_state;
static inline size_t fuzz_below(size_t n) {
    uint64_t z = fuzz_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return n ? (size_t)(z % n) : 0;
}
/* Replaces data[at..at + old) by `put` bytes of `from`, which may be part of data. Too much for the room: nothing
 * changes. */
static inline size_t fuzz_splice(uint8_t *data, size_t size, size_t capacity, size_t at, size_t old, const void *from,
                                 size_t put) {
    uint8_t copy[256];
    if (put > sizeof copy || size - old + put > capacity) return size;
    if (put) memcpy(copy, from, put);
    memmove(data + at + put, data + at + old, size - at - old);
    if (put) memcpy(data + at, copy, put);
    return size - old + put;
}
static inline size_t fuzz_put_token(const fuzz_target *target, uint8_t *data, size_t size, size_t capacity) {
    const char *token = target->tokens[fuzz_below(target->token_count)];
    size_t length = strlen(token), at = fuzz_below(size + 1), old = fuzz_below(2) ? fuzz_below(8) : 0;
    return fuzz_splice(data, size, capacity, at, old < size - at ? old : size - at, token, length);
}
/* A number becomes another one: those at the edges of types, or one more or less. */
static inline size_t fuzz_put_number(uint8_t *data, size_t size, size_t capacity) {
    static const char *const numbers[] = {"0", "1", "-1", "2", "64", "63", "255", "256", "4096", "65536", "2147483647",
        "2147483648", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615",
        "18446744073709551616", "-9223372036854775808", "1e308", "1e-400", "0.1", "00"};
    size_t at = fuzz_below(size + 1), end, i;
    const char *number;
    for (i = 0; i < size && !(at < size && data[at] >= '0' && data[at] <= '9'); i++) at = (at + 1) % size;
    for (end = at; end < size && data[end] >= '0' && data[end] <= '9';) end++;
    if (end == at) return size;
    if (fuzz_below(4) == 0) {
        data[end - 1] = (uint8_t)('0' + (data[end - 1] - '0' + 1 + 8 * fuzz_below(2)) % 10);
        return size;
    }
    number = numbers[fuzz_below(FUZZ_COUNT(numbers))];
    return fuzz_splice(data, size, capacity, at, end - at, number, strlen(number));
}
/* Some bytes of the input once more, at another place. */
static inline size_t fuzz_repeat(uint8_t *data, size_t size, size_t capacity) {
    size_t from = fuzz_below(size), length = 1 + fuzz_below(fuzz_below(4) ? 16 : 200);
    if (length > size - from) length = size - from;
    return fuzz_splice(data, size, capacity, fuzz_below(size + 1), 0, data + from, length);
}
static inline size_t fuzz_change(const fuzz_target *target, uint8_t *data, size_t size, size_t capacity) {
    uint8_t byte = (uint8_t)fuzz_below(256);
    size_t at = fuzz_below(size), length = 1 + fuzz_below(16);
    switch (size == 0 ? 0 : fuzz_below(8)) {
    case 0: return fuzz_splice(data, size, capacity, at, 0, &byte, 1);
    case 1: data[at] = (uint8_t)(data[at] ^ 1u << fuzz_below(8)); return size;
    case 2: data[at] = byte; return size;
    case 3: return fuzz_splice(data, size, capacity, at, length < size - at ? length : size - at, NULL, 0);
    case 4: return fuzz_repeat(data, size, capacity);
    case 5: return fuzz_put_number(data, size, capacity);
    default: return target->token_count ? fuzz_put_token(target, data, size, capacity) : size;
    }
}
/* The mutator of libFuzzer and of the suite. Mostly the digests are made right afterwards, so that what comes after
 * them is reached. */
static inline size_t fuzz_mutate(const fuzz_target *target, uint8_t *data, size_t size, size_t capacity,
                                 unsigned seed) {
    size_t rounds;
    fuzz_state = seed;
    for (rounds = 1 + fuzz_below(4); rounds > 0; rounds--) {
#ifndef FUZZ_SUITE
        if (fuzz_below(2)) { size = LLVMFuzzerMutate(data, size, capacity); continue; }
#endif
        size = fuzz_change(target, data, size, capacity);
    }
    if (target->repair && fuzz_below(8) != 0) size = target->repair(data, size, capacity, fuzz_state);
    return size;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */
static inline size_t fuzz_walk(const dcp_json *json, int depth) {      /* returns the number of values */
    size_t i, n = 1, length;
    int64_t integer;
    uint64_t natural;
    double real;
    FUZZ_CHECK(depth <= DCP_LIMIT_DEPTH);
    if (dcp_json_kind_of(json) == DCP_JSON_STRING) FUZZ_CHECK(strlen(dcp_json_string(json, &length)) == length);
    if (dcp_json_int(json, &integer) == DCP_OK && integer >= 0)
        FUZZ_CHECK(dcp_json_uint(json, &natural) == DCP_OK && natural == (uint64_t)integer);
    if (dcp_json_double(json, &real) == DCP_OK) FUZZ_CHECK(real - real == 0);
    (void)dcp_json_bool(json);
    for (i = 0; i < dcp_json_count(json); i++) {
        const char *key = dcp_json_kind_of(json) == DCP_JSON_OBJECT ? dcp_json_key(json, i) : NULL;
        FUZZ_CHECK(dcp_json_at(json, i) != NULL && (!key || dcp_json_get(json, key) == dcp_json_at(json, i)));
        n += fuzz_walk(dcp_json_at(json, i), depth + 1);
    }
    FUZZ_CHECK(dcp_json_at(json, i) == NULL);
    return n;
}
static inline int fuzz_same_text(const char *a, size_t a_size, const char *b, size_t b_size) {
    return a_size == b_size && memcmp(a, b, a_size) == 0;
}
static inline int fuzz_same_tree(const dcp_json *a, const dcp_json *b) {
    const dcp_json_kind kind = dcp_json_kind_of(a);
    size_t i, a_size = 0, b_size = 0;
    const char *a_text = dcp_json_string(a, &a_size), *b_text = dcp_json_string(b, &b_size);
    double x = 0, y = 0;
    uint64_t m = 0, n = 0;
    if (kind != dcp_json_kind_of(b) || dcp_json_bool(a) != dcp_json_bool(b) || dcp_json_count(a) != dcp_json_count(b))
        return 0;
    if (kind == DCP_JSON_STRING) return fuzz_same_text(a_text, a_size, b_text, b_size);
    if (dcp_json_double(a, &x) != dcp_json_double(b, &y) || memcmp(&x, &y, sizeof x) != 0) return 0;
    if (dcp_json_uint(a, &m) != dcp_json_uint(b, &n) || m != n) return 0;
    for (i = 0; i < dcp_json_count(a); i++) {
        if (kind == DCP_JSON_OBJECT && strcmp(dcp_json_key(a, i), dcp_json_key(b, i)) != 0) return 0;
        if (!fuzz_same_tree(dcp_json_at(a, i), dcp_json_at(b, i))) return 0;
    }
    return 1;
}

/* ---- documents: a tail that fits --------------------------------------------------------------------------------- */
#define FUZZ_KEY "0123456789abcdef"     /* of signatures */

/* of a fixed size; what does not fit is left out, size counts on */
typedef struct fuzz_text { uint8_t *data; size_t size, capacity; } fuzz_text;

static inline dcp_status fuzz_text_sink(void *user, const void *data, size_t size, dcp_error *err) {
    fuzz_text *text = (fuzz_text *)user;
    if (size <= text->capacity && text->size <= text->capacity - size) memcpy(text->data + text->size, data, size);
    text->size += size;
    return dcpi_succeed(err);
}
/* Where `literal` begins last in data[0..size); size: nowhere. */
static inline size_t fuzz_last(const uint8_t *data, size_t size, const char *literal) {
    size_t length = strlen(literal), at;
    for (at = size >= length ? size - length + 1 : 0; at > 0; at--)
        if (memcmp(data + at - 1, literal, length) == 0) return at - 1;
    return size;
}
static inline int fuzz_is_there(const uint8_t *data, size_t size, const char *literal) {
    return fuzz_last(data, size, literal) < size;
}

/* Where the signature member begins that ends at `body`; body: there is none, or another member stands between. */
static inline size_t fuzz_signature(const uint8_t *data, size_t body, const dcpi_tail_form *form) {
    const size_t at = fuzz_last(data, body, form->signature_open), length = strlen(form->signature_close);
    size_t end = at;
    while (end + length <= body && memcmp(data + end, form->signature_close, length) != 0) end++;
    return end + length == body ? at : body;
}
/* The document's body with its integrity member made anew, and its signature, if it has one, with FUZZ_KEY. Too long
 * for the room: as it was. */
static inline size_t fuzz_seal(uint8_t *data, size_t size, size_t capacity, const char *type) {
    static uint8_t sealed[FUZZ_MOST];
    const dcpi_tail_form *form = dcpi_tail_form_of(type);
    const dcp_signer hmac = dcp_hmac_signer(FUZZ_KEY, 16, "k");
    fuzz_text to = {sealed, 0, sizeof sealed};
    size_t body = fuzz_last(data, size, form->integrity_open), signed_body = fuzz_signature(data, body, form);
    dcpi_integrity stream;
    dcp_error err;
    if (body == size && form == &dcpi_tail_json) {      /* without one: before the brace that closes it */
        while (body > 0 && data[body - 1] != '}') body--;
        if (body > 0) body--;
        while (body > 0 && (data[body - 1] == '\n' || data[body - 1] == ' ')) body--;
        signed_body = body;
    }
    if (dcpi_integrity_begin(&stream, type, signed_body < body ? &hmac : NULL, fuzz_text_sink, &to, &err)) return size;
    if (dcpi_integrity_write(&stream, data, signed_body, &err) || dcpi_integrity_end(&stream, &err)) return size;
    if (to.size > capacity || to.size > sizeof sealed) return size;
    memcpy(data, sealed, to.size);
    return to.size;
}
/* The next tree checksum from *at on becomes the one of these block digests. */
static inline void fuzz_put_tree(uint8_t *data, size_t size, size_t *at, const uint8_t *digests, size_t count) {
    static const char prefix[] = "sha256-tree:";
    const size_t length = sizeof prefix - 1;
    uint8_t digest[32];
    while (*at + length + 64 <= size && memcmp(data + *at, prefix, length) != 0) (*at)++;
    if (*at + length + 64 > size) return;
    *at += length;
    dcp_sha256(digests, 32 * count, digest);
    dcpi_hex_encode(digest, 32, (char *)data + *at);
}
#endif
