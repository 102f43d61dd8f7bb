/* =====================================================================================================================
 * >>sha256      SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): a stream, one buffer, and many buffers at once.
 *
 * One SHA-256 is a chain: each block needs the state that the block before it left. One stream therefore cannot use a
 * whole core, and the fast way is to hash several independent strings side by side, in the lanes of a vector register.
 * That is why the format cuts tensors into leaves of 256 KiB, and why dcpi_sha_many() is what the engine calls.
 *
 *   kernel     lanes  needs                         GB/s on one core (AMD Zen 5; gcc 12 -O2; 16 strings of 256 KiB)
 *   PORTABLE   1      C                             0.50
 *   NI         1      SHA extensions (x86)          2.1
 *   NI2        2      the same, two interleaved     3.3
 *   AVX2       8      AVX2                          1.6
 *   AVX512     16     AVX-512 F and BW              4.1
 *   ARMV8      1      SHA-2 extensions (aarch64)    not measured
 *
 * Layers, bottom-up: block kernels; what the processor can do; the stream; the batch, which keeps the lanes full; the
 * public functions.
 * ================================================================================================================== */
enum dcpi_sha_kernel {
    DCPI_SHA_AUTO,                      /* the best one here, always usable */
    DCPI_SHA_PORTABLE,
    DCPI_SHA_NI,
    DCPI_SHA_NI2,
    DCPI_SHA_AVX2,
    DCPI_SHA_AVX512,
    DCPI_SHA_ARMV8,
    DCPI_SHA_KERNELS
};

/* A kernel is compiled for more than the rest of the program, so it must not be inlined into it; and a compiler that
 * inlined all of them into one function at -march=native took hours. Its helpers must be inlined, for without that the
 * vectors travel through memory. */
#if DCPI_GNUC
#define DCPI_INLINE static inline __attribute__((always_inline))
#define DCPI_KERNEL(features) static __attribute__((noinline, target(features)))
#define DCPI_KERNEL_INLINE(features) static inline __attribute__((always_inline, target(features)))
#elif defined(_MSC_VER)
#define DCPI_INLINE static __forceinline
#define DCPI_KERNEL(features) static __declspec(noinline)
#define DCPI_KERNEL_INLINE(features) static __forceinline
#else
#define DCPI_INLINE static inline
#endif

/* gcc for Windows does not align the stack to more than 16 bytes, so AVX code may crash there when it spills (gcc bug
 * 54412). */
#if DCPI_X86 && !(defined(__MINGW32__) && !defined(__clang__)) && !(defined(_MSC_VER) && _MSC_VER < 1920)
#define DCPI_SHA_AVX 1
#else
#define DCPI_SHA_AVX 0
#endif

/* clang before 16 hides the intrinsics unless the whole file is compiled for the extensions. */
#if DCPI_ARM64 && (defined(__ARM_FEATURE_SHA2) || defined(__ARM_FEATURE_CRYPTO))
#define DCPI_SHA_ARM 1
#define DCPI_KERNEL_ARM static __attribute__((noinline))
#elif DCPI_ARM64 && defined(__clang__) && __clang_major__ >= 16
#define DCPI_SHA_ARM 1
#define DCPI_KERNEL_ARM static __attribute__((noinline, target("sha2")))
#elif DCPI_ARM64 && !defined(__clang__)
#define DCPI_SHA_ARM 1
#define DCPI_KERNEL_ARM static __attribute__((noinline, target("+crypto")))
#else
#define DCPI_SHA_ARM 0
#endif

#define DCPI_SHA_LANES 16               /* the most lanes of any kernel */

/* Takes `blocks` blocks of 64 bytes at data into the state. */
typedef void (*dcpi_sha_one_fn)(uint32_t state[8], const uint8_t *data, size_t blocks);
/* The same in each lane: word w of lane l is state[w][l], its blocks are at data[l]. */
typedef void (*dcpi_sha_lanes_fn)(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks);

static const uint32_t dcpi_sha_initial[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint32_t dcpi_sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* ---- portable kernel --------------------------------------------------------------------------------------------- */
DCPI_INLINE uint32_t dcpi_sha_load(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}
DCPI_INLINE void dcpi_sha_store(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}
DCPI_INLINE uint32_t dcpi_sha_rotate(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

/* Round t of 16. The standard renames a..h after each round; here the words stay and the index turns: a is s[-t], b is
 * s[1 - t], ... With expand, the schedule's word t is made first, in place of the one 16 rounds ago. t and expand are
 * constants once inlined. */
DCPI_INLINE void dcpi_sha_round(uint32_t s[8], uint32_t w[16], const uint32_t *k, unsigned t, int expand) {
    uint32_t a = s[(16 - t) & 7], b = s[(17 - t) & 7], c = s[(18 - t) & 7];
    uint32_t e = s[(20 - t) & 7], f = s[(21 - t) & 7], g = s[(22 - t) & 7], h = s[(23 - t) & 7];
    if (expand) {
        uint32_t x = w[(t + 1) & 15], y = w[(t + 14) & 15];
        w[t] += (dcpi_sha_rotate(x, 7) ^ dcpi_sha_rotate(x, 18) ^ x >> 3) + w[(t + 9) & 15] +
                (dcpi_sha_rotate(y, 17) ^ dcpi_sha_rotate(y, 19) ^ y >> 10);
    }
    h += (dcpi_sha_rotate(e, 6) ^ dcpi_sha_rotate(e, 11) ^ dcpi_sha_rotate(e, 25)) + (g ^ (e & (f ^ g))) + k[t] + w[t];
    s[(19 - t) & 7] += h;
    s[(23 - t) & 7] = h + (dcpi_sha_rotate(a, 2) ^ dcpi_sha_rotate(a, 13) ^ dcpi_sha_rotate(a, 22)) +
        ((a & b) | (c & (a | b)));
}
DCPI_INLINE void dcpi_sha_16_rounds(uint32_t s[8], uint32_t w[16], const uint32_t *k, int expand) {
    dcpi_sha_round(s, w, k, 0, expand);  dcpi_sha_round(s, w, k, 1, expand);
    dcpi_sha_round(s, w, k, 2, expand);  dcpi_sha_round(s, w, k, 3, expand);
    dcpi_sha_round(s, w, k, 4, expand);  dcpi_sha_round(s, w, k, 5, expand);
    dcpi_sha_round(s, w, k, 6, expand);  dcpi_sha_round(s, w, k, 7, expand);
    dcpi_sha_round(s, w, k, 8, expand);  dcpi_sha_round(s, w, k, 9, expand);
    dcpi_sha_round(s, w, k, 10, expand); dcpi_sha_round(s, w, k, 11, expand);
    dcpi_sha_round(s, w, k, 12, expand); dcpi_sha_round(s, w, k, 13, expand);
    dcpi_sha_round(s, w, k, 14, expand); dcpi_sha_round(s, w, k, 15, expand);
}
static void dcpi_sha_one_portable(uint32_t state[8], const uint8_t *data, size_t blocks) {
    for (; blocks > 0; blocks--, data += 64) {
        uint32_t s[8], w[16];
        unsigned i;
        for (i = 0; i < 8; i++) s[i] = state[i];
        for (i = 0; i < 16; i++) w[i] = dcpi_sha_load(data + 4 * i);
        dcpi_sha_16_rounds(s, w, dcpi_sha_k, 0);
        for (i = 16; i < 64; i += 16) dcpi_sha_16_rounds(s, w, dcpi_sha_k + i, 1);
        for (i = 0; i < 8; i++) state[i] += s[i];
    }
}

/* ---- x86: SHA extensions ----------------------------------------------------------------------------------------- */
#if DCPI_X86
#define DCPI_SHA_NI_FEATURES "sha,sse4.1,ssse3"

/* The instruction for two rounds wants the state as two vectors: {f, e, b, a} and {h, g, d, c}, lowest element
 * first. */
typedef struct dcpi_sha_ni_state { __m128i abef, cdgh; } dcpi_sha_ni_state;

DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) __m128i dcpi_sha_ni_k(unsigned t) {
    return _mm_loadu_si128((const __m128i *)(const void *)(dcpi_sha_k + t));
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_load(__m128i w[4], const uint8_t *data) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    const __m128i *from = (const __m128i *)(const void *)data;
    w[0] = _mm_shuffle_epi8(_mm_loadu_si128(from), swap);
    w[1] = _mm_shuffle_epi8(_mm_loadu_si128(from + 1), swap);
    w[2] = _mm_shuffle_epi8(_mm_loadu_si128(from + 2), swap);
    w[3] = _mm_shuffle_epi8(_mm_loadu_si128(from + 3), swap);
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_4_rounds(dcpi_sha_ni_state *s, __m128i w, unsigned t) {
    __m128i kw = _mm_add_epi32(w, dcpi_sha_ni_k(t));
    s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, kw);
    s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(kw, 0x0e));
}
/* The schedule's next four words, from the last sixteen, of which a are the oldest. */
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) __m128i dcpi_sha_ni_expand(__m128i a, __m128i b, __m128i c, __m128i d) {
    return _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4)), d);
}
/* 16 rounds, and the 16 words that follow those used. */
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_16_rounds(dcpi_sha_ni_state *s, __m128i w[4], unsigned t) {
    dcpi_sha_ni_4_rounds(s, w[0], t);      w[0] = dcpi_sha_ni_expand(w[0], w[1], w[2], w[3]);
    dcpi_sha_ni_4_rounds(s, w[1], t + 4);  w[1] = dcpi_sha_ni_expand(w[1], w[2], w[3], w[0]);
    dcpi_sha_ni_4_rounds(s, w[2], t + 8);  w[2] = dcpi_sha_ni_expand(w[2], w[3], w[0], w[1]);
    dcpi_sha_ni_4_rounds(s, w[3], t + 12); w[3] = dcpi_sha_ni_expand(w[3], w[0], w[1], w[2]);
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_add(dcpi_sha_ni_state *s, dcpi_sha_ni_state before) {
    s->abef = _mm_add_epi32(s->abef, before.abef);
    s->cdgh = _mm_add_epi32(s->cdgh, before.cdgh);
}
/* `stride`: from one word of the state to the next. */
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) dcpi_sha_ni_state dcpi_sha_ni_get(const uint32_t *state, unsigned stride) {
    dcpi_sha_ni_state s;
    s.abef = _mm_set_epi32((int)state[0], (int)state[stride], (int)state[4 * stride], (int)state[5 * stride]);
    s.cdgh = _mm_set_epi32((int)state[2 * stride], (int)state[3 * stride], (int)state[6 * stride],
                           (int)state[7 * stride]);
    return s;
}
DCPI_KERNEL_INLINE(DCPI_SHA_NI_FEATURES) void dcpi_sha_ni_put(uint32_t *state, unsigned stride, dcpi_sha_ni_state s) {
    state[0] = (uint32_t)_mm_extract_epi32(s.abef, 3);
    state[stride] = (uint32_t)_mm_extract_epi32(s.abef, 2);
    state[2 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 3);
    state[3 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 2);
    state[4 * stride] = (uint32_t)_mm_extract_epi32(s.abef, 1);
    state[5 * stride] = (uint32_t)_mm_extract_epi32(s.abef, 0);
    state[6 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 1);
    state[7 * stride] = (uint32_t)_mm_extract_epi32(s.cdgh, 0);
}
DCPI_KERNEL(DCPI_SHA_NI_FEATURES) void dcpi_sha_one_ni(uint32_t state[8], const uint8_t *data, size_t blocks) {
    dcpi_sha_ni_state s = dcpi_sha_ni_get(state, 1);
    for (; blocks > 0; blocks--, data += 64) {
        const dcpi_sha_ni_state before = s;
        __m128i w[4];
        unsigned t;
        dcpi_sha_ni_load(w, data);
        for (t = 0; t < 48; t += 16) dcpi_sha_ni_16_rounds(&s, w, t);
        dcpi_sha_ni_4_rounds(&s, w[0], 48);
        dcpi_sha_ni_4_rounds(&s, w[1], 52);
        dcpi_sha_ni_4_rounds(&s, w[2], 56);
        dcpi_sha_ni_4_rounds(&s, w[3], 60);
        dcpi_sha_ni_add(&s, before);
    }
    dcpi_sha_ni_put(state, 1, s);
}
/* Two streams: while the rounds of one wait for each other, those of the other go on. */
DCPI_KERNEL(DCPI_SHA_NI_FEATURES)
void dcpi_sha_lanes_ni2(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks) {
    dcpi_sha_ni_state a = dcpi_sha_ni_get(&state[0][0], DCPI_SHA_LANES),
                          b = dcpi_sha_ni_get(&state[0][1], DCPI_SHA_LANES);
    size_t i;
    for (i = 0; i < blocks; i++) {
        const dcpi_sha_ni_state before_a = a, before_b = b;
        __m128i u[4], v[4];
        dcpi_sha_ni_load(u, data[0] + 64 * i);
        dcpi_sha_ni_load(v, data[1] + 64 * i);
        dcpi_sha_ni_16_rounds(&a, u, 0);  dcpi_sha_ni_16_rounds(&b, v, 0);
        dcpi_sha_ni_16_rounds(&a, u, 16); dcpi_sha_ni_16_rounds(&b, v, 16);
        dcpi_sha_ni_16_rounds(&a, u, 32); dcpi_sha_ni_16_rounds(&b, v, 32);
        dcpi_sha_ni_4_rounds(&a, u[0], 48); dcpi_sha_ni_4_rounds(&b, v[0], 48);
        dcpi_sha_ni_4_rounds(&a, u[1], 52); dcpi_sha_ni_4_rounds(&b, v[1], 52);
        dcpi_sha_ni_4_rounds(&a, u[2], 56); dcpi_sha_ni_4_rounds(&b, v[2], 56);
        dcpi_sha_ni_4_rounds(&a, u[3], 60); dcpi_sha_ni_4_rounds(&b, v[3], 60);
        dcpi_sha_ni_add(&a, before_a);
        dcpi_sha_ni_add(&b, before_b);
    }
    dcpi_sha_ni_put(&state[0][0], DCPI_SHA_LANES, a);
    dcpi_sha_ni_put(&state[0][1], DCPI_SHA_LANES, b);
}
#endif

#if DCPI_SHA_AVX
/* ---- x86: AVX2, eight lanes -------------------------------------------------------------------------------------- */
#define DCPI_SHA_AVX2_FEATURES "avx2"

DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) __m256i dcpi_sha_avx2_rotate(__m256i x, int n) {
    return _mm256_or_si256(_mm256_srli_epi32(x, n), _mm256_slli_epi32(x, 32 - n));
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) __m256i dcpi_sha_avx2_xor3(__m256i x, __m256i y, __m256i z) {
    return _mm256_xor_si256(_mm256_xor_si256(x, y), z);
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) __m256i dcpi_sha_avx2_expand(const __m256i w[16], unsigned t) {
    __m256i x = w[(t + 1) & 15], y = w[(t + 14) & 15];
    __m256i p = dcpi_sha_avx2_xor3(dcpi_sha_avx2_rotate(x, 7), dcpi_sha_avx2_rotate(x, 18), _mm256_srli_epi32(x, 3));
    __m256i q = dcpi_sha_avx2_xor3(dcpi_sha_avx2_rotate(y, 17), dcpi_sha_avx2_rotate(y, 19), _mm256_srli_epi32(y, 10));
    return _mm256_add_epi32(_mm256_add_epi32(w[t], w[(t + 9) & 15]), _mm256_add_epi32(p, q));
}
/* As dcpi_sha_round. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES)
void dcpi_sha_avx2_round(__m256i s[8], __m256i w[16], const uint32_t *k, unsigned t, int expand) {
    __m256i a = s[(16 - t) & 7], b = s[(17 - t) & 7], c = s[(18 - t) & 7];
    __m256i e = s[(20 - t) & 7], f = s[(21 - t) & 7], g = s[(22 - t) & 7], h = s[(23 - t) & 7];
    __m256i sum1, choose, sum0, majority;
    if (expand) w[t] = dcpi_sha_avx2_expand(w, t);
    h = _mm256_add_epi32(h, _mm256_add_epi32(w[t], _mm256_set1_epi32((int)k[t])));
    choose = _mm256_xor_si256(g, _mm256_and_si256(e, _mm256_xor_si256(f, g)));
    h = _mm256_add_epi32(h, choose);
    sum1 = dcpi_sha_avx2_rotate(e, 6);
    sum1 = _mm256_xor_si256(sum1, dcpi_sha_avx2_rotate(e, 11));
    sum1 = _mm256_xor_si256(sum1, dcpi_sha_avx2_rotate(e, 25));
    h = _mm256_add_epi32(h, sum1);
    sum0 = dcpi_sha_avx2_xor3(dcpi_sha_avx2_rotate(a, 2), dcpi_sha_avx2_rotate(a, 13), dcpi_sha_avx2_rotate(a, 22));
    majority = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, _mm256_or_si256(a, b)));
    s[(19 - t) & 7] = _mm256_add_epi32(s[(19 - t) & 7], h);
    s[(23 - t) & 7] = _mm256_add_epi32(h, _mm256_add_epi32(sum0, majority));
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) void dcpi_sha_avx2_16_rounds(__m256i s[8], __m256i w[16], const uint32_t *k,
                                                                        int expand) {
    dcpi_sha_avx2_round(s, w, k, 0, expand);  dcpi_sha_avx2_round(s, w, k, 1, expand);
    dcpi_sha_avx2_round(s, w, k, 2, expand);  dcpi_sha_avx2_round(s, w, k, 3, expand);
    dcpi_sha_avx2_round(s, w, k, 4, expand);  dcpi_sha_avx2_round(s, w, k, 5, expand);
    dcpi_sha_avx2_round(s, w, k, 6, expand);  dcpi_sha_avx2_round(s, w, k, 7, expand);
    dcpi_sha_avx2_round(s, w, k, 8, expand);  dcpi_sha_avx2_round(s, w, k, 9, expand);
    dcpi_sha_avx2_round(s, w, k, 10, expand); dcpi_sha_avx2_round(s, w, k, 11, expand);
    dcpi_sha_avx2_round(s, w, k, 12, expand); dcpi_sha_avx2_round(s, w, k, 13, expand);
    dcpi_sha_avx2_round(s, w, k, 14, expand); dcpi_sha_avx2_round(s, w, k, 15, expand);
}
/* Transposes 4 x 4 words within each 128-bit half. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) void dcpi_sha_avx2_transpose_words(__m256i x[4]) {
    __m256i a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpackhi_epi32(x[0], x[1]);
    __m256i c = _mm256_unpacklo_epi32(x[2], x[3]), d = _mm256_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi64(a, c);
    x[1] = _mm256_unpackhi_epi64(a, c);
    x[2] = _mm256_unpacklo_epi64(b, d);
    x[3] = _mm256_unpackhi_epi64(b, d);
}
/* Words 0..7 of a block in each of eight lanes become eight vectors, one per word. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX2_FEATURES) void dcpi_sha_avx2_load(__m256i w[8], const uint8_t *const *data,
                                                                   size_t offset) {
    const __m256i swap = _mm256_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL, 0x0c0d0e0f08090a0bLL,
                                           0x0405060700010203LL);
    __m256i row[8];
    unsigned i;
    for (i = 0; i < 8; i++)
        row[i] = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(data[i] + offset)), swap);
    dcpi_sha_avx2_transpose_words(row);
    dcpi_sha_avx2_transpose_words(row + 4);
    for (i = 0; i < 4; i++) {
        w[i] = _mm256_permute2x128_si256(row[i], row[i + 4], 0x20);
        w[i + 4] = _mm256_permute2x128_si256(row[i], row[i + 4], 0x31);
    }
}
DCPI_KERNEL(DCPI_SHA_AVX2_FEATURES)
void dcpi_sha_lanes_avx2(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks) {
    size_t block;
    for (block = 0; block < blocks; block++) {
        __m256i s[8], w[16];
        unsigned i;
        for (i = 0; i < 8; i++) s[i] = _mm256_loadu_si256((const __m256i *)(const void *)state[i]);
        dcpi_sha_avx2_load(w, data, 64 * block);
        dcpi_sha_avx2_load(w + 8, data, 64 * block + 32);
        dcpi_sha_avx2_16_rounds(s, w, dcpi_sha_k, 0);
        for (i = 16; i < 64; i += 16) dcpi_sha_avx2_16_rounds(s, w, dcpi_sha_k + i, 1);
        for (i = 0; i < 8; i++) {
            __m256i *to = (__m256i *)(void *)state[i];
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), s[i]));
        }
    }
}

/* ---- x86: AVX-512, sixteen lanes --------------------------------------------------------------------------------- */
#define DCPI_SHA_AVX512_FEATURES "avx512f,avx512bw"
#if DCPI_GNUC && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  /* g++ warns of its own intrinsics (gcc bug 105593) */
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) __m512i dcpi_sha_avx512_xor3(__m512i x, __m512i y, __m512i z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0x96);
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) __m512i dcpi_sha_avx512_expand(const __m512i w[16], unsigned t) {
    __m512i x = w[(t + 1) & 15], y = w[(t + 14) & 15];
    __m512i p = dcpi_sha_avx512_xor3(_mm512_ror_epi32(x, 7), _mm512_ror_epi32(x, 18), _mm512_srli_epi32(x, 3));
    __m512i q = dcpi_sha_avx512_xor3(_mm512_ror_epi32(y, 17), _mm512_ror_epi32(y, 19), _mm512_srli_epi32(y, 10));
    return _mm512_add_epi32(_mm512_add_epi32(w[t], w[(t + 9) & 15]), _mm512_add_epi32(p, q));
}
/* As dcpi_sha_round. The truth tables: 0xca is e ? f : g, 0xe8 the majority of three. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES)
void dcpi_sha_avx512_round(__m512i s[8], __m512i w[16], const uint32_t *k, unsigned t, int expand) {
    __m512i a = s[(16 - t) & 7], b = s[(17 - t) & 7], c = s[(18 - t) & 7];
    __m512i e = s[(20 - t) & 7], f = s[(21 - t) & 7], g = s[(22 - t) & 7], h = s[(23 - t) & 7];
    __m512i sum1, choose, sum0, majority;
    if (expand) w[t] = dcpi_sha_avx512_expand(w, t);
    sum1 = dcpi_sha_avx512_xor3(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
    choose = _mm512_ternarylogic_epi32(e, f, g, 0xca);
    sum0 = dcpi_sha_avx512_xor3(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
    majority = _mm512_ternarylogic_epi32(a, b, c, 0xe8);
    h = _mm512_add_epi32(_mm512_add_epi32(h, _mm512_add_epi32(w[t], _mm512_set1_epi32((int)k[t]))),
                         _mm512_add_epi32(sum1, choose));
    s[(19 - t) & 7] = _mm512_add_epi32(s[(19 - t) & 7], h);
    s[(23 - t) & 7] = _mm512_add_epi32(h, _mm512_add_epi32(sum0, majority));
}
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_16_rounds(__m512i s[8], __m512i w[16],
                                                                            const uint32_t *k, int expand) {
    dcpi_sha_avx512_round(s, w, k, 0, expand);  dcpi_sha_avx512_round(s, w, k, 1, expand);
    dcpi_sha_avx512_round(s, w, k, 2, expand);  dcpi_sha_avx512_round(s, w, k, 3, expand);
    dcpi_sha_avx512_round(s, w, k, 4, expand);  dcpi_sha_avx512_round(s, w, k, 5, expand);
    dcpi_sha_avx512_round(s, w, k, 6, expand);  dcpi_sha_avx512_round(s, w, k, 7, expand);
    dcpi_sha_avx512_round(s, w, k, 8, expand);  dcpi_sha_avx512_round(s, w, k, 9, expand);
    dcpi_sha_avx512_round(s, w, k, 10, expand); dcpi_sha_avx512_round(s, w, k, 11, expand);
    dcpi_sha_avx512_round(s, w, k, 12, expand); dcpi_sha_avx512_round(s, w, k, 13, expand);
    dcpi_sha_avx512_round(s, w, k, 14, expand); dcpi_sha_avx512_round(s, w, k, 15, expand);
}
/* Transposes 4 x 4 words within each 128-bit quarter. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_transpose_words(__m512i x[4]) {
    __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
    __m512i c = _mm512_unpacklo_epi32(x[2], x[3]), d = _mm512_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm512_unpacklo_epi64(a, c);
    x[1] = _mm512_unpackhi_epi64(a, c);
    x[2] = _mm512_unpacklo_epi64(b, d);
    x[3] = _mm512_unpackhi_epi64(b, d);
}
/* Transposes the 4 x 4 quarters of x[0], x[4], x[8] and x[12]. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_transpose_quarters(__m512i *x) {
    __m512i a = _mm512_shuffle_i32x4(x[0], x[4], 0x44), b = _mm512_shuffle_i32x4(x[0], x[4], 0xee);
    __m512i c = _mm512_shuffle_i32x4(x[8], x[12], 0x44), d = _mm512_shuffle_i32x4(x[8], x[12], 0xee);
    x[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    x[4] = _mm512_shuffle_i32x4(a, c, 0xdd);
    x[8] = _mm512_shuffle_i32x4(b, d, 0x88);
    x[12] = _mm512_shuffle_i32x4(b, d, 0xdd);
}
/* A block in each of sixteen lanes becomes sixteen vectors, one per word. */
DCPI_KERNEL_INLINE(DCPI_SHA_AVX512_FEATURES) void dcpi_sha_avx512_load(__m512i w[16], const uint8_t *const *data,
                                                                       size_t offset) {
    const __m512i swap = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL));
    unsigned i;
    for (i = 0; i < 16; i++) w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512((const void *)(data[i] + offset)), swap);
    for (i = 0; i < 16; i += 4) dcpi_sha_avx512_transpose_words(w + i);
    for (i = 0; i < 4; i++) dcpi_sha_avx512_transpose_quarters(w + i);
}
DCPI_KERNEL(DCPI_SHA_AVX512_FEATURES)
void dcpi_sha_lanes_avx512(uint32_t state[8][DCPI_SHA_LANES], const uint8_t *const *data, size_t blocks) {
    size_t block;
    for (block = 0; block < blocks; block++) {
        __m512i s[8], w[16];
        unsigned i;
        for (i = 0; i < 8; i++) s[i] = _mm512_loadu_si512((const void *)state[i]);
        dcpi_sha_avx512_load(w, data, 64 * block);
        dcpi_sha_avx512_16_rounds(s, w, dcpi_sha_k, 0);
        for (i = 16; i < 64; i += 16) dcpi_sha_avx512_16_rounds(s, w, dcpi_sha_k + i, 1);
        for (i = 0; i < 8; i++)
            _mm512_storeu_si512((void *)state[i], _mm512_add_epi32(_mm512_loadu_si512((const void *)state[i]), s[i]));
    }
}
#if DCPI_GNUC && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

/* ---- aarch64: SHA-2 extensions ----------------------------------------------------------------------------------- */
#if DCPI_SHA_ARM
DCPI_KERNEL_ARM void dcpi_sha_one_armv8(uint32_t state[8], const uint8_t *data, size_t blocks) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; blocks > 0; blocks--, data += 64) {
        const uint32x4_t before_abcd = abcd, before_efgh = efgh;
        uint32x4_t w[4];
        unsigned i;
        for (i = 0; i < 4; i++) w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
        for (i = 0; i < 16; i++) {                                      /* four rounds each */
            const uint32x4_t kw = vaddq_u32(w[i & 3], vld1q_u32(dcpi_sha_k + 4 * i)), old = abcd;
            /* w[i & 3] is used up: the schedule's next four words take its place */
            if (i < 12)
                w[i & 3] = vsha256su1q_u32(vsha256su0q_u32(w[i & 3], w[(i + 1) & 3]), w[(i + 2) & 3], w[(i + 3) & 3]);
            abcd = vsha256hq_u32(abcd, efgh, kw);
            efgh = vsha256h2q_u32(efgh, old, kw);
        }
        abcd = vaddq_u32(abcd, before_abcd);
        efgh = vaddq_u32(efgh, before_efgh);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}
#endif

/* ---- what the processor can do ----------------------------------------------------------------------------------- */
enum {                                  /* a set of bits; 0 means "not asked yet" */
    DCPI_SHA_CPU_ASKED = 1,
    DCPI_SHA_CPU_NI = 2,
    DCPI_SHA_CPU_AVX2 = 4,
    DCPI_SHA_CPU_AVX512 = 8,
    DCPI_SHA_CPU_HALF_512 = 16,         /* runs AVX-512 in two halves: Zen 4 */
    DCPI_SHA_CPU_ARMV8 = 32
};

#if DCPI_X86
static int dcpi_sha_cpuid(unsigned leaf, unsigned r[4]) {           /* eax, ebx, ecx, edx; 0 if there is no such leaf */
#if DCPI_GNUC
    return __get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]);
#else
    int v[4], i;
    __cpuid(v, 0);
    if (leaf > (unsigned)v[0]) return 0;
    __cpuidex(v, (int)leaf, 0);
    for (i = 0; i < 4; i++) r[i] = (unsigned)v[i];
    return 1;
#endif
}
static unsigned dcpi_sha_xcr0(void) {                          /* which registers the system saves; only with OSXSAVE */
#if DCPI_GNUC
    unsigned low;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low) : "c"(0) : "edx");        /* xgetbv */
    return low;
#else
    return (unsigned)_xgetbv(0);
#endif
}
/* Zen 4 is AMD's only family 19h with AVX-512; its vector units have 256 bits. Extended families begin at base family
 * 0fh. */
static int dcpi_sha_is_amd_19h(void) {
    unsigned r[4], family;
    /* "AuthenticAMD" */
    if (!dcpi_sha_cpuid(0, r) || r[1] != 0x68747541 || r[3] != 0x69746e65 || r[2] != 0x444d4163) return 0;
    if (!dcpi_sha_cpuid(1, r)) return 0;
    family = (r[0] >> 8 & 15) + (r[0] >> 20 & 255);
    return family == 0x19;
}
static int dcpi_sha_ask_cpu(void) {
    const unsigned avx_state = 0x06, avx512_state = 0xe6;            /* XCR0: SSE, AVX; and opmask, both parts of ZMM */
    unsigned one[4], seven[4], xcr0 = 0;
    int cpu = 0;
    if (!dcpi_sha_cpuid(1, one) || !dcpi_sha_cpuid(7, seven)) return 0;
    if (one[2] >> 27 & 1) xcr0 = dcpi_sha_xcr0();
    /* SHA, SSE4.1, SSSE3 */
    if ((seven[1] >> 29 & 1) && (one[2] >> 19 & 1) && (one[2] >> 9 & 1)) cpu |= DCPI_SHA_CPU_NI;
    if ((xcr0 & avx_state) == avx_state && (seven[1] >> 5 & 1)) cpu |= DCPI_SHA_CPU_AVX2;
    /* F, BW */
    if ((xcr0 & avx512_state) == avx512_state && (seven[1] >> 16 & 1) && (seven[1] >> 30 & 1))
        cpu |= DCPI_SHA_CPU_AVX512;
    if (dcpi_sha_is_amd_19h()) cpu |= DCPI_SHA_CPU_HALF_512;
    return cpu;
}
#elif DCPI_SHA_ARM
static int dcpi_sha_ask_cpu(void) {
#if defined(__ARM_FEATURE_SHA2) || defined(__ARM_FEATURE_CRYPTO) || defined(__APPLE__)
    return DCPI_SHA_CPU_ARMV8;
#elif defined(__linux__)
    return getauxval(AT_HWCAP) & (1UL << 6) ? DCPI_SHA_CPU_ARMV8 : 0;   /* HWCAP_SHA2 */
#else
    return 0;
#endif
}
#else
static int dcpi_sha_ask_cpu(void) { return 0; }
#endif

/* Asked once, for CPUID takes microseconds in a virtual machine. Threads that ask at the same time store the same
 * value. */
static int dcpi_sha_cpu(void) {
    static int cached;
    int cpu;
#if DCPI_GNUC
    cpu = __atomic_load_n(&cached, __ATOMIC_RELAXED);
#else
    cpu = cached;
#endif
    if (cpu) return cpu;
    cpu = dcpi_sha_ask_cpu() | DCPI_SHA_CPU_ASKED;
#if DCPI_GNUC
    __atomic_store_n(&cached, cpu, __ATOMIC_RELAXED);
#else
    cached = cpu;
#endif
    return cpu;
}
static int dcpi_sha_kernel_usable(enum dcpi_sha_kernel kernel) {
    switch (kernel) {
        case DCPI_SHA_AUTO: case DCPI_SHA_PORTABLE: return 1;
        case DCPI_SHA_NI: case DCPI_SHA_NI2: return DCPI_X86 && (dcpi_sha_cpu() & DCPI_SHA_CPU_NI);
        case DCPI_SHA_AVX2: return DCPI_SHA_AVX && (dcpi_sha_cpu() & DCPI_SHA_CPU_AVX2);
        case DCPI_SHA_AVX512: return DCPI_SHA_AVX && (dcpi_sha_cpu() & DCPI_SHA_CPU_AVX512);
        case DCPI_SHA_ARMV8: return DCPI_SHA_ARM && (dcpi_sha_cpu() & DCPI_SHA_CPU_ARMV8);
        default: return 0;
    }
}
/* By measurement: sixteen lanes are 1.7 times as fast as NI2 on the machine of design/PERFORMANCE.md, 1.25 (gcc) to 1.6
 * times (clang) on Zen 5. Where 512 bits are done in two halves (by calculation: no such machine was at hand) that lead
 * is gone, so NI2 is taken there. AVX2 beats only what has no SHA extensions. */
static enum dcpi_sha_kernel dcpi_sha_best(void) {
    int halves = dcpi_sha_cpu() & DCPI_SHA_CPU_HALF_512, ni = dcpi_sha_kernel_usable(DCPI_SHA_NI2);
    if (dcpi_sha_kernel_usable(DCPI_SHA_AVX512) && !(halves && ni)) return DCPI_SHA_AVX512;
    if (ni) return DCPI_SHA_NI2;
    if (dcpi_sha_kernel_usable(DCPI_SHA_AVX2)) return DCPI_SHA_AVX2;
    if (dcpi_sha_kernel_usable(DCPI_SHA_ARMV8)) return DCPI_SHA_ARMV8;
    return DCPI_SHA_PORTABLE;
}

/* How to hash with a kernel: one lane, two lanes (may be NULL), or many (NULL, or from `wide_from` busy lanes on the
 * faster way). */
typedef struct dcpi_sha_plan {
    dcpi_sha_one_fn one;
    dcpi_sha_lanes_fn pair, wide;
    size_t lanes, wide_from;
} dcpi_sha_plan;

static dcpi_sha_plan dcpi_sha_plan_for(enum dcpi_sha_kernel kernel) {
    dcpi_sha_plan plan;
    plan.one = dcpi_sha_one_portable;
    plan.pair = plan.wide = NULL;
    plan.lanes = plan.wide_from = 1;
    if (kernel == DCPI_SHA_AUTO) kernel = dcpi_sha_best();
#if DCPI_X86
    if (kernel != DCPI_SHA_PORTABLE && dcpi_sha_kernel_usable(DCPI_SHA_NI)) {
        plan.one = dcpi_sha_one_ni;
        if (kernel != DCPI_SHA_NI) { plan.pair = dcpi_sha_lanes_ni2; plan.lanes = 2; }
    }
#endif
#if DCPI_SHA_AVX
    /* wide_from: where so many of the lanes do as much as NI2; without SHA extensions two lanes already beat the
     * portable kernel */
    if (kernel == DCPI_SHA_AVX512) {
        plan.wide = dcpi_sha_lanes_avx512;
        plan.lanes = 16;
        plan.wide_from = plan.pair ? 11 : 2;
    }
    if (kernel == DCPI_SHA_AVX2) {
        plan.wide = dcpi_sha_lanes_avx2;
        plan.lanes = 8;
        plan.wide_from = plan.pair ? 7 : 2;
    }
#endif
#if DCPI_SHA_ARM
    if (kernel == DCPI_SHA_ARMV8) plan.one = dcpi_sha_one_armv8;
#endif
    return plan;
}
static void dcpi_sha_compress_with(enum dcpi_sha_kernel kernel, uint32_t state[8], const uint8_t *data, size_t blocks) {
    dcpi_sha_plan_for(kernel).one(state, data, blocks);
}

/* ---- the stream -------------------------------------------------------------------------------------------------- */
typedef struct dcpi_sha {
    uint32_t state[8];
    uint64_t length;                    /* bytes so far; length % 64 of them wait in block */
    uint8_t block[64];
} dcpi_sha;

static void dcpi_sha_init(dcpi_sha *sha) {
    memset(sha, 0, sizeof *sha);
    memcpy(sha->state, dcpi_sha_initial, sizeof sha->state);
}
static void dcpi_sha_update(dcpi_sha *sha, const void *data, size_t size) {
    const uint8_t *bytes = (const uint8_t *)data;
    size_t waiting = (size_t)(sha->length % 64), blocks;
    if (size == 0) return;
    sha->length += size;
    if (waiting > 0) {                                                  /* fill the block that was begun */
        size_t missing = 64 - waiting;
        if (size < missing) { memcpy(sha->block + waiting, bytes, size); return; }
        memcpy(sha->block + waiting, bytes, missing);
        dcpi_sha_compress_with(DCPI_SHA_AUTO, sha->state, sha->block, 1);
        bytes += missing;
        size -= missing;
    }
    blocks = size / 64;
    if (blocks > 0) dcpi_sha_compress_with(DCPI_SHA_AUTO, sha->state, bytes, blocks);
    if (size % 64 > 0) memcpy(sha->block, bytes + 64 * blocks, size % 64);
}
/* The end of a string, padded: its last length % 64 bytes, 0x80, zeros, and the length in bits. Returns how many blocks
 * that is: 1 or 2. */
static size_t dcpi_sha_pad(uint8_t tail[128], const uint8_t *rest, uint64_t length) {
    size_t used = (size_t)(length % 64), blocks = used + 1 + 8 <= 64 ? 1 : 2;
    uint64_t bits = length * 8;
    if (used > 0) memcpy(tail, rest, used);
    memset(tail + used, 0, 64 * blocks - used);
    tail[used] = 0x80;
    dcpi_sha_store(tail + 64 * blocks - 8, (uint32_t)(bits >> 32));
    dcpi_sha_store(tail + 64 * blocks - 4, (uint32_t)bits);
    return blocks;
}
static void dcpi_sha_final(dcpi_sha *sha, uint8_t digest[32]) {
    uint8_t tail[128];
    size_t blocks = dcpi_sha_pad(tail, sha->block, sha->length), i;
    dcpi_sha_compress_with(DCPI_SHA_AUTO, sha->state, tail, blocks);
    for (i = 0; i < 8; i++) dcpi_sha_store(digest + 4 * i, sha->state[i]);
}

/* ---- many strings at once ---------------------------------------------------------------------------------------- */
/* Problem: the lanes of a kernel advance together, but strings have any length. Solution: all lanes go as far as the
 * shortest of them, a lane whose string has ended takes the next job, and once the jobs run out and too few lanes are
 * busy, the rest is done in pairs and at last alone. Busy lanes come first: where there is no new job, the last busy
 * lane moves into the gap. */
typedef struct dcpi_sha_job { const uint8_t *data; size_t size; uint8_t *digest; } dcpi_sha_job;  /* digest: 32 bytes */

typedef struct dcpi_sha_lane {
    const uint8_t *data;                /* the next block */
    size_t blocks;                      /* so many at data */
    uint8_t *tail;                      /* then the padded end: this lane's buffer of 128 bytes, */
    size_t tail_blocks;                 /* so many blocks; 0: it is in `data` already */
    uint8_t *digest;
} dcpi_sha_lane;

typedef struct dcpi_sha_batch {
    uint32_t state[8][DCPI_SHA_LANES];
    dcpi_sha_lane lane[DCPI_SHA_LANES]; /* the first `busy` ones have blocks left */
    uint8_t tail[DCPI_SHA_LANES][128];
    size_t busy;
    const dcpi_sha_job *next;           /* not begun yet */
    size_t waiting;
} dcpi_sha_batch;

static void dcpi_sha_lane_to_tail(dcpi_sha_lane *lane) {
    lane->data = lane->tail;
    lane->blocks = lane->tail_blocks;
    lane->tail_blocks = 0;
}
static void dcpi_sha_lane_begin(dcpi_sha_batch *batch, size_t at) {     /* takes the next job; there must be one */
    const dcpi_sha_job *job = batch->next++;
    dcpi_sha_lane *lane = &batch->lane[at];
    size_t i;
    batch->waiting--;
    lane->data = job->data;
    lane->blocks = job->size / 64;
    lane->tail_blocks = dcpi_sha_pad(lane->tail, job->size > 0 ? job->data + 64 * lane->blocks : NULL, job->size);
    lane->digest = job->digest;
    for (i = 0; i < 8; i++) batch->state[i][at] = dcpi_sha_initial[i];
    if (lane->blocks == 0) dcpi_sha_lane_to_tail(lane);
}
static void dcpi_sha_lane_end(dcpi_sha_batch *batch, size_t at) {
    /* the lane has no block left: tail, next job, or gap */
    size_t i, last;
    if (batch->lane[at].tail_blocks > 0) { dcpi_sha_lane_to_tail(&batch->lane[at]); return; }
    for (i = 0; i < 8; i++) dcpi_sha_store(batch->lane[at].digest + 4 * i, batch->state[i][at]);
    if (batch->waiting > 0) { dcpi_sha_lane_begin(batch, at); return; }
    last = --batch->busy;
    batch->lane[at] = batch->lane[last];
    for (i = 0; i < 8; i++) batch->state[i][at] = batch->state[i][last];
}
static void dcpi_sha_advance_one(dcpi_sha_batch *batch, dcpi_sha_one_fn kernel) {
    dcpi_sha_lane *lane = &batch->lane[0];
    uint32_t state[8];
    size_t i;
    for (i = 0; i < 8; i++) state[i] = batch->state[i][0];
    kernel(state, lane->data, lane->blocks);
    for (i = 0; i < 8; i++) batch->state[i][0] = state[i];
    lane->blocks = 0;
    dcpi_sha_lane_end(batch, 0);
}
static void dcpi_sha_advance_lanes(dcpi_sha_batch *batch, dcpi_sha_lanes_fn kernel, size_t lanes) {
    const uint8_t *data[DCPI_SHA_LANES];
    size_t busy = batch->busy < lanes ? batch->busy : lanes, blocks = batch->lane[0].blocks, i;
    for (i = 1; i < busy; i++) if (batch->lane[i].blocks < blocks) blocks = batch->lane[i].blocks;
    /* idle lanes hash lane 0 again, for nothing */
    for (i = 0; i < DCPI_SHA_LANES; i++) data[i] = batch->lane[i < busy ? i : 0].data;
    kernel(batch->state, data, blocks);
    for (i = busy; i-- > 0;) {                            /* downwards: a lane that moves into a gap has had its turn */
        batch->lane[i].data += 64 * blocks;
        batch->lane[i].blocks -= blocks;
        if (batch->lane[i].blocks == 0) dcpi_sha_lane_end(batch, i);
    }
}
static void dcpi_sha_many_by_plan(const dcpi_sha_plan *plan, const dcpi_sha_job *jobs, size_t count) {
    dcpi_sha_batch batch;
    memset(batch.state, 0, sizeof batch.state);
    batch.next = jobs;
    batch.waiting = count;
    for (batch.busy = 0; batch.busy < plan->lanes && batch.waiting > 0; batch.busy++) {
        batch.lane[batch.busy].tail = batch.tail[batch.busy];
        dcpi_sha_lane_begin(&batch, batch.busy);
    }
    while (batch.busy > 0) {
        if (plan->wide && batch.busy >= plan->wide_from) dcpi_sha_advance_lanes(&batch, plan->wide, plan->lanes);
        else if (plan->pair && batch.busy >= 2) dcpi_sha_advance_lanes(&batch, plan->pair, 2);
        else dcpi_sha_advance_one(&batch, plan->one);
    }
}
static void dcpi_sha_many_with(enum dcpi_sha_kernel kernel, const dcpi_sha_job *jobs, size_t count) {
    const dcpi_sha_plan plan = dcpi_sha_plan_for(kernel);
    dcpi_sha_many_by_plan(&plan, jobs, count);
}
/* SHA-256 of each of `count` independent strings, of any lengths. Fastest with 16 or more of about equal length. */
static void dcpi_sha_many(const dcpi_sha_job *jobs, size_t count) { dcpi_sha_many_with(DCPI_SHA_AUTO, jobs, count); }

/* ---- public functions, HMAC -------------------------------------------------------------------------------------- */
DCPDEF void dcp_sha256(const void *data, size_t size, uint8_t digest[32]) {
    dcpi_sha sha;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, data, size);
    dcpi_sha_final(&sha, digest);
}
/* Clears a secret. Through a volatile pointer, for a compiler may drop a memset of what is not read again. */
static void dcpi_sha_wipe(void *memory, size_t size) {
    volatile uint8_t *bytes = (volatile uint8_t *)memory;
    while (size > 0) bytes[--size] = 0;
}
DCPDEF void dcp_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t digest[32]) {
    uint8_t pad[64] = {0}, inner[32];
    dcpi_sha sha;
    size_t i;
    if (key_size > 64) dcp_sha256(key, key_size, pad);
    else if (key_size > 0) memcpy(pad, key, key_size);

    for (i = 0; i < 64; i++) pad[i] ^= 0x36;                            /* inner = H((key ^ ipad) data) */
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, pad, sizeof pad);
    dcpi_sha_update(&sha, data, size);
    dcpi_sha_final(&sha, inner);

    for (i = 0; i < 64; i++) pad[i] ^= 0x36 ^ 0x5c;                     /* digest = H((key ^ opad) inner) */
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, pad, sizeof pad);
    dcpi_sha_update(&sha, inner, sizeof inner);
    dcpi_sha_final(&sha, digest);

    dcpi_sha_wipe(pad, sizeof pad);
    dcpi_sha_wipe(inner, sizeof inner);
    dcpi_sha_wipe(&sha, sizeof sha);
}
/* In a time that does not depend on where the bytes differ, so that an attacker cannot guess a signature byte by
 * byte. */
static int dcpi_sha_equal(const uint8_t *a, const uint8_t *b, size_t n) {
    unsigned different = 0;
    size_t i;
    for (i = 0; i < n; i++) different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}

