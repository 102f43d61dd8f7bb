/* test_convert.c - numbers that are converted when they are loaded: each rule of rounding against another way to
 * compute it, and what loads do with them: pieces, strides, ranks, devices, budgets, damage. */
#include "engine.h"
#include "rank_threads.h"
#include <fenv.h>

/* ==== another way to compute it: with arithmetic on double, not on bits =========================================== */
typedef struct form { dcp_dtype dtype; int bytes, exponent, mantissa; } form;
static const form forms[] = { { DCP_FP64, 8, 11, 52 }, { DCP_FP32, 4, 8, 23 }, { DCP_FP16, 2, 5, 10 },
                              { DCP_BF16, 2, 8, 7 } };
enum { FORMS = 4 };
static int bias_of(const form *f) { return (1 << (f->exponent - 1)) - 1; }
static uint64_t infinity_of(const form *f) { return (((uint64_t)1 << f->exponent) - 1) << f->mantissa; }
static uint64_t magnitude_of(const form *f, uint64_t bits) { return bits & (((uint64_t)1 << (8 * f->bytes - 1)) - 1); }
static int is_nan(const form *f, uint64_t bits) { return magnitude_of(f, bits) > infinity_of(f); }

static double value_of(const form *f, uint64_t bits) {                  /* of a finite one */
    const uint64_t m = magnitude_of(f, bits);
    const int exponent = (int)(m >> f->mantissa);
    const double part = (double)(m & (((uint64_t)1 << f->mantissa) - 1));
    const double value = exponent ? ldexp(part + ldexp(1, f->mantissa), exponent - bias_of(f) - f->mantissa)
                                  : ldexp(part, 1 - bias_of(f) - f->mantissa);
    return bits == m ? value : -value;
}
static uint64_t bits_of(const form *f, double value) {  /* of a finite value, rounded; infinity beyond the range */
    const double size = fabs(value);
    const uint64_t sign = signbit(value) ? (uint64_t)1 << (8 * f->bytes - 1) : 0;
    const int least = 1 - bias_of(f);
    int exponent = size == 0 ? least : ilogb(size);
    double steps;
    if (exponent < least) exponent = least;
    steps = rint(ldexp(size, f->mantissa - exponent));  /* of the last place */
    if (steps == ldexp(2, f->mantissa)) { steps /= 2; exponent++; }
    if (exponent > bias_of(f)) return sign | infinity_of(f);
    if (steps < ldexp(1, f->mantissa)) return sign | (uint64_t)steps;
    return sign | (((uint64_t)(exponent - least) << f->mantissa) + (uint64_t)steps);
}
/* Signs and what is said of NaN are the rule's own words. */
static uint64_t expected(const form *from, const form *to, uint64_t bits) {
    const uint64_t m = magnitude_of(from, bits), sign = bits == m ? 0 : (uint64_t)1 << (8 * to->bytes - 1);
    const int more = to->mantissa - from->mantissa;
    uint64_t payload = m & (((uint64_t)1 << from->mantissa) - 1);
    if (m == infinity_of(from)) return sign | infinity_of(to);
    if (!is_nan(from, bits)) return bits_of(to, value_of(from, bits));
    payload = more >= 0 ? payload << more : payload >> -more;
    return sign | infinity_of(to) | payload | (uint64_t)1 << (to->mantissa - 1);
}
static uint64_t number_at(const void *data, int bytes, size_t i) {
    return dcpi_float_get((const uint8_t *)data + i * (size_t)bytes, bytes);
}
static void number_put(void *data, int bytes, size_t i, uint64_t bits) {
    dcpi_float_put((uint8_t *)data + i * (size_t)bytes, bytes, bits);
}

/* A list of numbers, converted at once, and each as it should be. At any address; nothing beyond the end is touched. */
enum { MOST = 4096 };
static void check_list(const form *from, const form *to, const uint64_t *bits, size_t count) {
    static uint8_t in_room[8 * MOST + 8], out_room[8 * MOST + 8];
    const dcpi_convert c = dcpi_convert_make(from->dtype, to->dtype);
    const size_t skew = count % 7;
    uint8_t *in = in_room + skew, *out = out_room + skew;
    int64_t overflows = 0, got;
    char words[200];
    size_t i;
    CHECK(count <= MOST);
    for (i = 0; i < count; i++) number_put(in, from->bytes, i, bits[i]);
    memset(out, 0xEE, (size_t)to->bytes * count + 1);
    got = dcpi_convert_run(&c, in, out, (int64_t)count);
    CHECK(out[(size_t)to->bytes * count] == 0xEE);
    for (i = 0; i < count; i++) {
        const uint64_t want = expected(from, to, bits[i]), is = number_at(out, to->bytes, i);
        overflows += magnitude_of(to, want) == infinity_of(to) && magnitude_of(from, bits[i]) != infinity_of(from);
        if (is == want) continue;
        (void)snprintf(words, sizeof words, "%s 0x%llx as %s is 0x%llx, not 0x%llx", dcp_dtype_name(from->dtype),
                       (unsigned long long)bits[i], dcp_dtype_name(to->dtype), (unsigned long long)is,
                       (unsigned long long)want);
        test_fail(__FILE__, __LINE__, words, "");
    }
    CHECK_INT(got, overflows);
}
typedef struct list { const form *from, *to; uint64_t bits[MOST]; size_t count; } list;
static list gathered;
static void flush(void) {
    check_list(gathered.from, gathered.to, gathered.bits, gathered.count);
    gathered.count = 0;
}
static void add(uint64_t bits) {
    gathered.bits[gathered.count++] = bits;
    if (gathered.count == MOST) flush();
}
static void begin(const form *from, const form *to) { gathered.from = from; gathered.to = to; }

/* ==== each rule =================================================================================================== */
TEST(the_other_way_is_right_itself) {
    const form *half = &forms[2], *brain = &forms[3];
    CHECK(bits_of(half, 65504.0) == 0x7bff && bits_of(half, 65519.999) == 0x7bff && bits_of(half, 65520.0) == 0x7c00);
    CHECK(bits_of(half, -ldexp(1, -24)) == 0x8001 && bits_of(half, ldexp(1, -25)) == 0);
    CHECK(bits_of(half, ldexp(3, -25)) == 2 && bits_of(half, 1.0) == 0x3c00);
    CHECK(bits_of(brain, 1.0) == 0x3f80 && bits_of(brain, 3.140625) == 0x4049 && bits_of(&forms[1], 1.0) == 0x3f800000);
    CHECK(value_of(half, 0x3c01) == 1.0009765625 && value_of(brain, 0x8001) == -ldexp(1, -133));
}
TEST(every_number_of_16_bits_to_every_type) {
    int from, to;
    uint64_t bits;
    for (from = 2; from < FORMS; from++)
        for (to = 0; to < FORMS; to++) {
            if (to == from) continue;
            begin(&forms[from], &forms[to]);
            for (bits = 0; bits < 65536; bits++) add(bits);
            flush();
        }
}
/* The numbers of `from` around each number of `to`, and around what is halfway to the next one. */
static void around(const form *from, const form *to, uint64_t step) {
    uint64_t bits;
    begin(from, to);
    for (bits = 0; bits <= infinity_of(to); bits += step) {
        const double low = bits < infinity_of(to) ? value_of(to, bits) : ldexp(1, bias_of(to) + 1);
        const double next = bits + 1 < infinity_of(to) ? value_of(to, bits + 1) : ldexp(1, bias_of(to) + 1);
        const uint64_t exact = bits_of(from, low), half = bits_of(from, low / 2 + next / 2);
        int d;
        for (d = -2; d <= 2; d++) {
            const uint64_t sign = (bits + (uint64_t)(d + 2)) % 2 << (8 * from->bytes - 1);
            if (exact + (uint64_t)d <= infinity_of(from)) add((exact + (uint64_t)d) | sign);
            if (half + (uint64_t)d <= infinity_of(from)) add((half + (uint64_t)d) | sign);
        }
        if (bits == infinity_of(to)) break;
        if (bits + step > infinity_of(to)) bits = infinity_of(to) - step;
    }
    flush();
}
TEST(what_is_halfway_between_two_numbers_is_rounded_to_even) {
    around(&forms[1], &forms[2], 1);
    around(&forms[1], &forms[3], 1);
    around(&forms[2], &forms[3], 1);
    around(&forms[3], &forms[2], 1);
}
TEST(fp64_is_rounded_once) {
    const uint64_t step = test_is_whole() ? 997 : 299993;
    union { double value; uint64_t bits; } u;
    around(&forms[0], &forms[2], 1);
    around(&forms[0], &forms[3], 1);
    around(&forms[0], &forms[1], test_is_slow() ? 50 * step : step);
    /* by way of fp32 it would be halfway, and then even: 1 */
    u.value = 1 + ldexp(1, -11) + ldexp(1, -40);
    CHECK_INT(expected(&forms[0], &forms[2], u.bits), 0x3c01);
    check_list(&forms[0], &forms[2], &u.bits, 1);
}
TEST(random_bits_of_every_type_to_every_type) {
    int from, to;
    size_t i, n = (size_t)test_times(40000);
    for (from = 0; from < FORMS; from++)
        for (to = 0; to < FORMS; to++) {
            if (to == from) continue;
            begin(&forms[from], &forms[to]);
            for (i = 0; i < n; i++) {
                uint64_t bits = test_random() >> (64 - 8 * forms[from].bytes);
                if (i % 4 == 0) bits &= ~(uint64_t)0 << (forms[from].mantissa / 2);
                if (i % 64 == 1) bits |= infinity_of(&forms[from]);     /* NaN, mostly */
                add(bits);
            }
            flush();
        }
}
/* Lists of each length, of ordinary numbers and with one odd number anywhere: blocks, and what is left of them. */
TEST(lists_of_any_length) {
    static const uint64_t odd[] = { 0, 0x7ff0000000000000u, 0x7fefffffffffffffu, 1, 0x3ca0000000000000u };
    uint64_t bits[150];
    size_t count, i, k, to;
    for (to = 1; to < FORMS; to++)
        for (count = 0; count <= 150; count++)
            for (k = 0; k <= DCPI_COUNT(odd); k++) {
                for (i = 0; i < count; i++) bits[i] = bits_of(&forms[0], 1.0 + (double)i * 0.37);
                if (k < DCPI_COUNT(odd) && count) bits[(count * 7 + k) % count] = odd[k];
                check_list(&forms[0], &forms[to], bits, count);
            }
}
/* What a program does to the rounding of its own arithmetic has nothing to do with it. */
TEST(the_rounding_mode_of_the_program_changes_nothing) {
#if defined(FE_UPWARD) && defined(FE_TOWARDZERO)
    const double values[] = { 1 + 1e-9, -1 - 1e-9, 0.1, -0.1, 1e-30, 70000, 65519.9, 3e38, -1e-45, 6e-8 };
    uint64_t in[DCPI_COUNT(values)], want[3][DCPI_COUNT(values)];
    uint8_t from[8 * DCPI_COUNT(values)], to[4 * DCPI_COUNT(values)];
    const int modes[] = { FE_UPWARD, FE_TOWARDZERO };
    size_t i, f, m;
    for (i = 0; i < DCPI_COUNT(values); i++) {
        in[i] = bits_of(&forms[0], values[i]);
        number_put(from, 8, i, in[i]);
        for (f = 1; f < FORMS; f++) want[f - 1][i] = expected(&forms[0], &forms[f], in[i]);
    }
    for (m = 0; m < DCPI_COUNT(modes); m++)
        for (f = 1; f < FORMS; f++) {
            const dcpi_convert c = dcpi_convert_make(DCP_FP64, forms[f].dtype);
            CHECK(fesetround(modes[m]) == 0);
            (void)dcpi_convert_run(&c, from, to, DCPI_COUNT(values));
            CHECK(fesetround(FE_TONEAREST) == 0);
            for (i = 0; i < DCPI_COUNT(values); i++) CHECK_INT(number_at(to, forms[f].bytes, i), want[f - 1][i]);
        }
#else
    SKIP("no rounding modes here");
#endif
}
/* All 2^32, in one row for each number that they become: from `first` up to where the next one begins. */
static int64_t walk_row(const dcpi_convert *c, uint64_t first, uint64_t end, uint16_t want) {
    static uint32_t in[MOST];
    static uint16_t out[MOST], is[MOST];
    int64_t overflows = 0;
    uint64_t at, i, sign;
    for (i = 0; i < MOST; i++) is[i] = want;
    for (at = first; at < end; at += MOST)
        for (sign = 0; sign < 2; sign++) {
            const size_t n = end - at < MOST ? (size_t)(end - at) : MOST;
            for (i = 0; i < n; i++) in[i] = (uint32_t)(at + i) | (uint32_t)sign << 31;
            overflows += dcpi_convert_run(c, (const uint8_t *)in, (uint8_t *)out, (int64_t)n);
            for (i = 0; i < n && sign; i++) out[i] ^= 0x8000;
            if (memcmp(out, is, 2 * n) != 0) CHECK_INT(at, -1);
        }
    return overflows;
}
static void walk(const form *to) {
    const form *from = &forms[1];
    const dcpi_convert c = dcpi_convert_make(DCP_FP32, to->dtype);
    uint64_t first = 0, target;
    int64_t overflows = 0;
    for (target = 0; target < infinity_of(to); target++) {
        const double next = target + 1 < infinity_of(to) ? value_of(to, target + 1) : ldexp(1, bias_of(to) + 1);
        const uint64_t half = bits_of(from, (value_of(to, target) + next) / 2), end = half + (target % 2 == 0);
        CHECK_INT(walk_row(&c, first, end, (uint16_t)target), 0);
        first = end;
    }
    overflows = walk_row(&c, first, infinity_of(from), (uint16_t)target);
    CHECK_INT(overflows, 2 * (int64_t)(infinity_of(from) - first));
    CHECK_INT(walk_row(&c, infinity_of(from), infinity_of(from) + 1, (uint16_t)target), 0);
    begin(from, to);
    for (first = infinity_of(from); first <= 0x7fffffff; first += 61) add(first);
    flush();
}
TEST(all_numbers_of_fp32_to_fp16) {
    if (!test_is_whole() || test_is_slow() || test_is_sanitized()) SKIP("only in make test-all, where it is fast");
    walk(&forms[2]);
}
TEST(all_numbers_of_fp32_to_bf16) {
    if (!test_is_whole() || test_is_slow() || test_is_sanitized()) SKIP("only in make test-all, where it is fast");
    walk(&forms[3]);
}

/* ==== loads ======================================================================================================= */
/* Numbers of every kind, the same for the same seed. */
static void make_numbers(const form *f, uint8_t *out, size_t count, uint64_t seed) {
    size_t i;
    for (i = 0; i < count; i++) {
        uint64_t bits = 0;
        int b;
        for (b = 0; b < f->bytes; b++) bits = bits << 8 | pattern(seed, i * 8 + (size_t)b);
        if (i / 100 % 4) bits = bits_of(f, ((double)(bits % 100000) - 50000) / 977);    /* most blocks have none odd */
        number_put(out, f->bytes, i, bits);
    }
}
/* Number `i` of what was saved is number `place` of what was loaded. */
static int is_number(const form *from, const void *saved, size_t i, const form *to, const void *loaded, size_t place) {
    return number_at(loaded, to->bytes, place) == expected(from, to, number_at(saved, from->bytes, i));
}
static int64_t overflows_of(const form *from, const form *to, const void *saved, size_t count) {
    int64_t overflows = 0;
    size_t i;
    for (i = 0; i < count; i++) {
        const uint64_t bits = number_at(saved, from->bytes, i);
        overflows += magnitude_of(from, bits) != infinity_of(from) &&
                     magnitude_of(to, expected(from, to, bits)) == infinity_of(to);
    }
    return overflows;
}
static void check_loaded(const form *from, const void *saved, const form *to, const void *loaded, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) if (!is_number(from, saved, i, to, loaded, i)) CHECK_INT(i, -1);
}
static void pairs_body(void) {
    enum { COUNT = 1501 };
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    static uint8_t out[8 * COUNT], in[8 * COUNT + 1];
    dcp_report report;
    dcp_tensor t;
    size_t layout, from, to;
    for (layout = 0; layout < DCPI_COUNT(layouts) - DCP_NO_MANIFEST; layout++)
        for (from = 0; from < FORMS; from++) {
            char name[20];
            dcp_save_desc desc;
            (void)snprintf(name, sizeof name, "x%d%d", (int)layout, (int)from);
            make_numbers(&forms[from], out, COUNT, from);
            t = dcp_vector("w", forms[from].dtype, out, COUNT);
            desc = saving(name, &t, 1);
            desc.layout = layouts[layout];
            desc.checksum = from % 2 ? DCP_CHECKSUM_FLAT : DCP_CHECKSUM_TREE;
            save(&desc);
            for (to = 0; to < FORMS; to++) {
                dcp_load_desc load = loading(name, &t, 1);
                const int64_t overflows = from == to ? 0 : overflows_of(&forms[from], &forms[to], out, COUNT);
                memset(in, 0xEE, sizeof in);
                t = dcp_vector("w", forms[to].dtype, in, COUNT);
                if (from != to) CHECK_FAILS(dcp_load(&load, &err), DCP_E_MISMATCH, "; set convert to have");
                t.convert = 1;
                load.report = &report;
                load.verify = (dcp_verify_policy)(to % 3);
                CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
                if (from == to) CHECK(memcmp(in, out, (size_t)forms[to].bytes * COUNT) == 0);
                else check_loaded(&forms[from], out, &forms[to], in, COUNT);
                CHECK(in[forms[to].bytes * COUNT] == 0xEE);
                CHECK_INT(report.overflow_count, overflows);
                CHECK_INT(report.warning_count, overflows > 0);
                if (overflows) CHECK(strstr(report.warning, "have become infinite, the first in tensor \"w\""));
            }
        }
}
TEST(every_type_is_loaded_as_every_other) { on_local_and_memory(pairs_body); }

TEST(other_types_are_not_converted) {
    static const dcp_dtype types[] = { DCP_INT32, DCP_UINT8, DCP_FP8_E4M3, DCP_COMPLEX64, DCP_BOOL };
    uint8_t data[64] = {0};
    size_t i;
    dcp_tensor t;
    use_memory();
    for (i = 0; i < DCPI_COUNT(types); i++) {
        t = dcp_vector("w", types[i], data, 4);
        save_as(dcp_dtype_name(types[i]), &t, 1);
        t.dtype = DCP_FP32;
        t.convert = 1;
        CHECK_FAILS(try_load(dcp_dtype_name(types[i]), &t, 1), DCP_E_MISMATCH, "only fp64, fp32, fp16 and bf16 are");
        t.dtype = types[i];
        load_from(dcp_dtype_name(types[i]), &t, 1);
    }
    t = dcp_vector("w", DCP_FP32, data, 4);
    save_as("x", &t, 1);
    t.dtype = DCP_INT32;
    t.convert = 1;
    CHECK_FAILS(try_load("x", &t, 1), DCP_E_MISMATCH, "only fp64, fp32, fp16 and bf16 are");
    done();
}

/* A matrix in three bands of rows; any box of it, into memory with gaps. */
enum { HIGH = 61, WIDE = 90 };
static void bands_body(void) {
    static uint8_t out[8 * HIGH * WIDE], in[8 * 4 * HIGH * WIDE];
    static const int64_t rows[] = { 0, 7, 40, HIGH };
    const int64_t whole[2] = { HIGH, WIDE };
    const form *from = &forms[1];
    dcp_tensor t[3];
    int i, turn;
    make_numbers(from, out, HIGH * WIDE, 5);
    for (i = 0; i < 3; i++) {
        const int64_t shape[2] = { rows[i + 1] - rows[i], WIDE }, offset[2] = { rows[i], 0 };
        t[i] = dcp_array("m", DCP_FP32, out + 4 * WIDE * rows[i], 2, shape);
        dcp_piece(&t[i], whole, offset);
    }
    save_as("x", t, 3);
    for (turn = 0; turn < test_times(60); turn++) {
        const form *to = &forms[turn % 4];
        const int64_t offset[2] = { (int64_t)test_random_below(HIGH), (int64_t)test_random_below(WIDE) };
        const int64_t shape[2] = { 1 + (int64_t)test_random_below((size_t)(HIGH - offset[0])),
                                   1 + (int64_t)test_random_below((size_t)(WIDE - offset[1])) };
        const int64_t across = 1 + turn % 3, down = shape[1] * across + turn % 2;
        size_t end, used = 0, k;
        int64_t r, c;
        dcp_tensor wanted = dcp_array("m", to->dtype, in, 2, shape);
        if (turn % 8 >= 4) { wanted.stride[0] = down; wanted.stride[1] = across; }
        else { wanted.stride[0] = 1; wanted.stride[1] = shape[0]; }             /* columns first */
        dcp_piece(&wanted, whole, offset);
        wanted.convert = 1;
        end = (size_t)((shape[0] - 1) * wanted.stride[0] + (shape[1] - 1) * wanted.stride[1]) + 1;
        memset(in, 0xEE, sizeof in);
        load_from("x", &wanted, 1);
        for (r = 0; r < shape[0]; r++)
            for (c = 0; c < shape[1]; c++) {
                const size_t place = (size_t)(r * wanted.stride[0] + c * wanted.stride[1]);
                const size_t saved = (size_t)((offset[0] + r) * WIDE + offset[1] + c);
                if (to == from) CHECK(memcmp(in + 4 * place, out + 4 * saved, 4) == 0);
                else CHECK(is_number(from, out, saved, to, in, place));
                memset(in + (size_t)to->bytes * place, 0xEE, (size_t)to->bytes);
                used++;
            }
        CHECK_INT(used, shape[0] * shape[1]);
        for (k = 0; k <= end * (size_t)to->bytes; k++) CHECK(in[k] == 0xEE);    /* the gaps */
    }
}
TEST(boxes_and_strides_are_converted_too) { on_local_and_memory(bands_body); }

/* More than any buffer: in pieces, in the memory that was allowed; and what is damaged is not loaded. */
static void large_body(void) {
    enum { COUNT = 700 * 1024 + 3 };
    uint8_t *out = allocated(8 * COUNT), *in = allocated(8 * COUNT);
    dcp_tensor t = dcp_vector("w", DCP_FP64, out, COUNT);
    dcp_save_desc desc = saving("x", &t, 1);
    dcp_load_desc load = loading("x", &t, 1);
    dcp_report report;
    int to, threads;
    make_numbers(&forms[0], out, COUNT, 9);
    desc.block_size = (size_t)2 * MIB;
    save(&desc);
    load.io.memory_budget = (size_t)1 * MIB;
    load.report = &report;
    for (to = 1; to < FORMS; to++)
        for (threads = 0; threads < 3; threads += 2) {
            const int64_t before = hungry.bytes;
            memset(in, 0, 4 * COUNT);
            t = dcp_vector("w", forms[to].dtype, in, COUNT);
            t.convert = 1;
            load.io.threads = threads;
            hungry_watch();
            CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
            CHECK(hungry_peak() - before < 2 * MIB);
            check_loaded(&forms[0], out, &forms[to], in, COUNT);
            CHECK_INT(report.overflow_count, overflows_of(&forms[0], &forms[to], out, COUNT));
        }
    flip("x_shard_0.bin", 8 * COUNT - 5);
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_CHECKSUM, "\"w\"");
    CHECK_INT(report.overflow_count, 0);
    free(out);
    free(in);
}
TEST(large_tensors_are_converted_in_pieces) { on_local_and_memory(large_body); }

/* What was converted before a digest turned out wrong does not count: it comes again, from elsewhere. */
TEST(what_comes_from_elsewhere_is_counted_once) {
    enum { COUNT = 400 * 1024 };
    uint8_t *out = allocated(8 * COUNT), *in = allocated(8 * COUNT);
    dcp_tensor t = dcp_vector("w", DCP_FP64, out, COUNT);
    dcp_save_desc desc;
    dcp_load_desc load;
    dcp_source source;
    dcp_report report;
    use_memory();
    desc = saving("x", &t, 1);
    load = loading("x", &t, 1);
    make_numbers(&forms[0], out, COUNT, 1);
    save(&desc);
    copy("x_shard_0.bin", "spare/x_shard_0.bin");
    flip("x_shard_0.bin", 8 * COUNT - 5);
    source.storage = store;
    source.directory = "spare";
    load.sources = &source;
    load.source_count = 1;
    load.io.memory_budget = (size_t)1 * MIB;
    load.report = &report;
    t = dcp_vector("w", DCP_FP16, in, COUNT);
    t.convert = 1;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    check_loaded(&forms[0], out, &forms[2], in, COUNT);
    CHECK_INT(report.overflow_count, overflows_of(&forms[0], &forms[2], out, COUNT));
    done();
    free(out);
    free(in);
}
static void *take(void *user, const dcp_tensor_info *info) {
    dcp_tensor_info *got = (dcp_tensor_info *)user;
    *got = *info;
    return allocated((size_t)info->size);
}
TEST(an_open_checkpoint_converts_too) {
    enum { COUNT = 300 };
    static uint8_t out[4 * COUNT], in[8 * COUNT];
    dcp_tensor t = dcp_vector("w", DCP_FP32, out, COUNT);
    dcp_tensor_info got;
    dcp_checkpoint *c;
    dcp_report report;
    int64_t overflows;
    int i;
    use_memory();
    make_numbers(&forms[1], out, COUNT, 3);
    save_as("x", &t, 1);
    t = dcp_vector("new", DCP_FP16, in, COUNT);
    t.stored_name = "w";
    t.convert = 1;
    c = open_at("x");
    for (i = 1; i <= 2; i++) {
        CHECK_OK_MESSAGE(i == 1 ? dcp_read(c, &t, 1, &err) : dcp_read_rank(c, 0, &t, 1, &err), err.message);
        check_loaded(&forms[1], out, &forms[2], in, COUNT);
        overflows = overflows_of(&forms[1], &forms[2], out, COUNT);
        dcp_checkpoint_warnings(c, &report);
        CHECK(overflows > 0 && report.warning_count == i && report.overflow_count == i * overflows);
        memset(in, 0, sizeof in);
    }
    t = dcp_unsized("w", DCP_FP64, take, &got);
    t.convert = 1;
    CHECK_OK_MESSAGE(dcp_read(c, &t, 1, &err), err.message);
    CHECK(got.size == 8 * COUNT && got.dtype == DCP_FP64 && strcmp(got.dtype_name, "fp32") == 0);
    check_loaded(&forms[1], out, &forms[0], t.data, COUNT);
    free(t.data);
    dcp_close(c);
    done();
}

/* ---- a device: what it is told to copy it copies when it is waited for, with all bits the other way round -------- */
typedef struct late { const dcp_tensor *tensor; int64_t offset; const uint8_t *host; size_t size; } late;
static late late_copies[64];
static uint64_t late_begun, late_done;
static dcp_status late_in(void *context, const dcp_tensor *tensor, int64_t offset, const void *host, size_t size,
                          uint64_t *ticket, dcp_error *error) {
    late *copy = &late_copies[late_begun % 64];
    (void)context; (void)error;
    copy->tensor = tensor;
    copy->offset = offset;
    copy->host = (const uint8_t *)host;
    copy->size = size;
    *ticket = late_begun++;
    return DCP_OK;
}
static dcp_status late_wait(void *context, uint64_t ticket, dcp_error *error) {
    const late *copy = &late_copies[ticket % 64];
    size_t i;
    (void)context;
    if (ticket != late_done++) return dcpi_fail(error, DCP_E_DEVICE, "another ticket was to be waited for");
    for (i = 0; i < copy->size; i++)
        ((uint8_t *)copy->tensor->data)[copy->offset + (int64_t)i] = (uint8_t)~copy->host[i];
    return DCP_OK;
}
TEST(numbers_are_converted_on_their_way_to_a_device) {
    enum { COUNT = 250 * 1000 };
    uint8_t *out = allocated(8 * COUNT), *in = allocated(8 * COUNT);
    const int64_t shape[2] = { 250, 300 }, whole[2] = { 250, 1000 }, offset[2] = { 0, 333 };
    dcp_device device = DCP_ZERO;
    size_t i;
    int from, to, is_box;
    device.copy_in = late_in;
    device.wait = late_wait;
    use_memory();
    for (from = 0; from < FORMS; from++) {
        dcp_tensor t = dcp_array("w", forms[from].dtype, out, 2, whole);
        dcp_save_desc desc = saving("x", &t, 1);
        make_numbers(&forms[from], out, COUNT, 4);
        desc.overwrite = 1;
        save(&desc);
        for (to = 0; to < FORMS; to++)
            for (is_box = 0; is_box < 2 && to != from; is_box++) {
                dcp_load_desc load = loading("x", &t, 1);
                dcp_report report;
                t = dcp_array("w", forms[to].dtype, in, 2, is_box ? shape : whole);
                if (is_box) dcp_piece(&t, whole, offset);
                t.device = &device;
                t.convert = 1;
                load.io.threads = 1;
                load.io.memory_budget = (size_t)1 * MIB;
                load.report = &report;
                CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
                CHECK(late_begun == late_done);
                for (i = 0; i < 8 * (size_t)COUNT; i++) in[i] = (uint8_t)~in[i];
                if (!is_box) check_loaded(&forms[from], out, &forms[to], in, COUNT);
                if (!is_box) CHECK_INT(report.overflow_count, overflows_of(&forms[from], &forms[to], out, COUNT));
                for (i = 0; is_box && i < 250 * 300; i++)
                    CHECK(is_number(&forms[from], out, i / 300 * 1000 + 333 + i % 300, &forms[to], in, i));
            }
    }
    done();
    free(out);
    free(in);
}

#if !DCP_NO_RANKS && !DCP_NO_THREADS
/* ---- ranks: saved by three in rows, loaded by two in columns; each has its own report ---------------------------- */
enum { RANKS = 3 };
typedef struct job {
    int ranks, share;
    const form *from, *to;
    dcp_coordinator *coordinators[RANKS];
    dcp_status status[RANKS]; dcp_error err[RANKS]; dcp_report report[RANKS];
    uint8_t *numbers, *got[RANKS], own[RANKS][8 * 50], own_got[RANKS][8 * 50];
    const char *path; dcp_storage *storage;
} job;
static const int64_t job_whole[2] = { 300, 400 };
static void job_save(void *user, int rank) {
    job *j = (job *)user;
    const int64_t shape[2] = { 100, 400 }, offset[2] = { 100 * rank, 0 };
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor t[2];
    t[0] = dcp_array("m", j->from->dtype, j->numbers + 100 * 400 * (size_t)rank * (size_t)j->from->bytes, 2, shape);
    dcp_piece(&t[0], job_whole, offset);
    t[1] = dcp_vector("own", j->from->dtype, j->own[rank], 50);
    desc.path = j->path;
    desc.tensors = t;
    desc.tensor_count = 2;
    desc.overwrite = 1;
    desc.io.storage = j->storage;
    desc.io.coordinator = j->coordinators[rank];
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
}
static void job_load(void *user, int rank) {
    job *j = (job *)user;
    const int64_t shape[2] = { 300, 250 }, offset[2] = { 0, rank ? 150 : 0 };       /* they overlap */
    dcp_load_desc desc = DCP_ZERO;
    dcp_tensor t[2];
    t[0] = dcp_array("m", j->to->dtype, j->got[rank], 2, shape);
    dcp_piece(&t[0], job_whole, offset);
    t[1] = dcp_vector("own", j->to->dtype, j->own_got[rank], 50);
    t[0].convert = t[1].convert = 1;
    desc.path = j->path;
    desc.tensors = t;
    desc.tensor_count = j->ranks == RANKS ? 2 : 1;
    desc.share_reads = j->share;
    desc.report = &j->report[rank];
    desc.io.storage = j->storage;
    desc.io.coordinator = j->coordinators[rank];
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
}
static void job_run(job *j, int ranks, void (*fn)(void *user, int rank)) {
    int r;
    j->ranks = ranks;
    CHECK_OK_MESSAGE(dcp_thread_group_open(ranks, j->coordinators, &err), err.message);
    run_ranks(ranks, fn, j);
    for (r = 0; r < ranks; r++) dcp_coordinator_close(j->coordinators[r]);
    check_all(j, DCP_OK, "");
}
static void job_check(job *j) {
    int r;
    for (r = 0; r < j->ranks; r++) {
        int64_t overflows = j->ranks == RANKS ? overflows_of(j->from, j->to, j->own[r], 50) : 0;
        size_t i;
        for (i = 0; i < 300 * 250; i++) {
            const size_t at = i / 250 * 400 + (r ? 150 : 0) + i % 250;
            CHECK(is_number(j->from, j->numbers, at, j->to, j->got[r], i));
            overflows += overflows_of(j->from, j->to, j->numbers + at * (size_t)j->from->bytes, 1);
        }
        if (j->ranks == RANKS) check_loaded(j->from, j->own[r], j->to, j->own_got[r], 50);
        CHECK_INT(j->report[r].overflow_count, overflows);
    }
}
static void ranks_body(void) {
    static job j;
    int r, turn;
    memset(&j, 0, sizeof j);
    j.numbers = allocated(8 * 300 * 400);
    j.path = at("x");
    j.storage = store;
    for (r = 0; r < RANKS; r++) j.got[r] = allocated(8 * 300 * 250);
    for (turn = 0; turn < 4; turn++) {
        j.from = &forms[turn];
        make_numbers(j.from, j.numbers, 300 * 400, (uint64_t)turn);
        for (r = 0; r < RANKS; r++) make_numbers(j.from, j.own[r], 50, 10 + (uint64_t)r);
        job_run(&j, RANKS, job_save);
        j.to = &forms[(turn + 1 + turn / 2) % 4];
        for (j.share = 0; j.share < 2; j.share++) {
            job_run(&j, 2, job_load);
            job_check(&j);
            job_run(&j, RANKS, job_load);
            job_check(&j);
        }
    }
    for (r = 0; r < RANKS; r++) free(j.got[r]);
    free(j.numbers);
}
TEST(other_ranks_load_it_converted) { on_local_and_memory(ranks_body); }
#else
TEST(other_ranks_load_it_converted) { SKIP("no ranks here"); }
#endif

int main(void) {
    RUN(every_type_is_loaded_as_every_other);
    RUN(other_types_are_not_converted);
    RUN(boxes_and_strides_are_converted_too);
    RUN(large_tensors_are_converted_in_pieces);
    RUN(what_comes_from_elsewhere_is_counted_once);
    RUN(an_open_checkpoint_converts_too);
    RUN(numbers_are_converted_on_their_way_to_a_device);
    RUN(other_ranks_load_it_converted);
    RUN(the_other_way_is_right_itself);
    RUN(every_number_of_16_bits_to_every_type);
    RUN(what_is_halfway_between_two_numbers_is_rounded_to_even);
    RUN(fp64_is_rounded_once);
    RUN(random_bits_of_every_type_to_every_type);
    RUN(lists_of_any_length);
    RUN(the_rounding_mode_of_the_program_changes_nothing);
    RUN(all_numbers_of_fp32_to_fp16);
    RUN(all_numbers_of_fp32_to_bf16);
    return test_finish();
}
