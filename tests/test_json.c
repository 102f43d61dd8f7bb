/* test_json.c - the chapter >>json: numbers, the pull reader, the writer, the tree. White-box. */
#include <stddef.h>                     /* not yet <stdlib.h>: dcp.h comes first */

/* Every allocation can be made to fail, and blocks that are alive are counted. */
static long alloc_countdown = -1;       /* so many succeed, then one fails; negative: none fails */
static long alloc_live;
/* bytes of an arena's largest block; 1: each piece is an allocation, which can fail */
static int alloc_arena = 1024 * 1024;
#define DCPI_ARENA_LARGEST alloc_arena
static void *hook_malloc(size_t size);
static void *hook_realloc(void *memory, size_t size);
static void hook_free(void *memory);
#define DCP_MALLOC(size) hook_malloc(size)
#define DCP_REALLOC(memory, size) hook_realloc(memory, size)
#define DCP_FREE(memory) hook_free(memory)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include <locale.h>
#include <math.h>
#if !defined(_WIN32) || defined(__MINGW32__)
#include <dirent.h>
#define HAS_DIRENT 1
#else
#define HAS_DIRENT 0
#endif

static int alloc_fails(void) {
    if (alloc_countdown < 0) return 0;
    return alloc_countdown-- == 0;
}
static void *hook_malloc(size_t size) {
    void *memory = alloc_fails() || size > SIZE_MAX / 4 ? NULL : malloc(size);     /* a sanitizer would stop there */
    if (memory) alloc_live++;
    return memory;
}
static void *hook_realloc(void *memory, size_t size) {
    void *grown = alloc_fails() ? NULL : realloc(memory, size);
    if (grown && !memory) alloc_live++;
    return grown;
}
static void hook_free(void *memory) {
    if (memory) alloc_live--;
    free(memory);
}

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
/* of exactly its size, so that a sanitizer sees a byte read too many */
typedef struct { char *bytes; size_t size; } blob;

static blob blob_of(const char *bytes, size_t size) {
    blob b;
    b.bytes = (char *)malloc(size ? size : 1);
    b.size = size;
    CHECK(b.bytes != NULL);
    if (size) memcpy(b.bytes, bytes, size);
    return b;
}
static dcp_status parse_bytes(const char *text, size_t size, dcp_json **out, dcp_error *err) {
    blob b = blob_of(text, size);
    dcp_status status = dcp_json_parse(b.bytes, b.size, out, err);
    free(b.bytes);                                 /* the text is the caller's again: the tree must not point into it */
    return status;
}
static dcp_json *parse(const char *text) {
    dcp_json *json;
    dcp_error err;
    CHECK_OK_MESSAGE(parse_bytes(text, strlen(text), &json, &err), err.message);
    return json;
}
/* The other way through the reader: one value is skipped, nothing follows. */
static dcp_status skip_bytes(const char *text, size_t size, dcp_error *err) {
    blob b = blob_of(text, size);
    dcpi_arena arena = { NULL };
    dcpi_json_reader r;
    dcpi_json_begin(&r, b.bytes, b.size, &arena, err);
    if (dcpi_json_skip(&r, NULL)) (void)dcpi_json_end(&r);
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    free(b.bytes);
    return r.status;
}
static int same_int(const dcp_json *a, const dcp_json *b) {
    int64_t x = 0, y = 0;
    uint64_t u = 0, v = 0;
    return dcp_json_int(a, &x) == dcp_json_int(b, &y) && x == y && dcp_json_uint(a, &u) == dcp_json_uint(b, &v) &&
           u == v;
}
static int same_double(const dcp_json *a, const dcp_json *b) {
    double x, y;
    return dcp_json_double(a, &x) == DCP_OK && dcp_json_double(b, &y) == DCP_OK && memcmp(&x, &y, sizeof x) == 0;
}
static int same_string(const dcp_json *a, const dcp_json *b) {
    size_t n, m;
    const char *x = dcp_json_string(a, &n), *y = dcp_json_string(b, &m);
    return n == m && memcmp(x, y, n + 1) == 0 && strlen(x) == n;
}
static int same_tree(const dcp_json *a, const dcp_json *b) {
    size_t i;
    if (!a || !b || dcp_json_kind_of(a) != dcp_json_kind_of(b) || dcp_json_count(a) != dcp_json_count(b)) return 0;
    switch (dcp_json_kind_of(a)) {
    case DCP_JSON_NULL:   return 1;
    case DCP_JSON_BOOL:   return dcp_json_bool(a) == dcp_json_bool(b);
    case DCP_JSON_INT:    return same_int(a, b);
    case DCP_JSON_DOUBLE: return same_double(a, b);
    case DCP_JSON_STRING: return same_string(a, b);
    case DCP_JSON_ARRAY:
    case DCP_JSON_OBJECT: break;
    }
    for (i = 0; i < dcp_json_count(a); i++) {
        if (!same_tree(dcp_json_at(a, i), dcp_json_at(b, i))) return 0;
        if (dcp_json_kind_of(a) == DCP_JSON_OBJECT && strcmp(dcp_json_key(a, i), dcp_json_key(b, i)) != 0) return 0;
    }
    return 1;
}
static void check_round_trip(const dcp_json *json, int indent) {
    char *text, *text2;
    size_t size, size2;
    dcp_json *again;
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_json_write(json, indent, &text, &size, &err), err.message);
    CHECK_INT(strlen(text), size);
    CHECK_OK_MESSAGE(parse_bytes(text, size, &again, &err), err.message);
    CHECK(same_tree(json, again));
    CHECK_OK(dcp_json_write(again, indent, &text2, &size2, &err));
    CHECK_STR(text2, text);
    dcp_free(text);
    dcp_free(text2);
    dcp_json_free(again);
}
static void check_text(const dcp_json *json, int indent, const char *want) {
    char *text;
    size_t size;
    CHECK_OK(dcp_json_write(json, indent, &text, &size, NULL));
    CHECK_STR(text, want);
    CHECK_INT(size, strlen(want));
    dcp_free(text);
}
/* Both ways through the reader refuse, or both accept. */
static int accepted(const char *text, size_t size) {
    dcp_json *json;
    dcp_error err;
    dcp_status status = parse_bytes(text, size, &json, &err);
    CHECK((status == DCP_OK) == (json != NULL));
    CHECK_INT(err.status, status);
    if (status) CHECK_INT(status, DCP_E_FORMAT);
    if (status) CHECK(strncmp(err.message, "line ", 5) == 0);
    dcp_json_free(json);
    return status == DCP_OK;
}
static int skipped(const char *text, size_t size) {
    dcp_error err;
    dcp_status status = skip_bytes(text, size, &err);
    if (status) CHECK_INT(err.status, DCP_E_FORMAT);
    return status == DCP_OK;
}

/* ---- JSONTestSuite ----------------------------------------------------------------------------------------------- */
/* What RFC 8259 lets pass and we refuse: a duplicate key, and NUL in a string. */
static const char *const refused_on_purpose[] = {
    "y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json",
    "y_object_escaped_null_in_key.json", "y_string_null_escape.json"
};
/* What it leaves open, and we accept: numbers that become 0 or lose digits, like everywhere. */
static const char *const accepted_on_purpose[] = {
    "i_number_double_huge_neg_exp.json", "i_number_real_underflow.json", "i_number_too_big_neg_int.json",
        "i_number_too_big_pos_int.json",
    "i_number_very_big_negative_int.json"
};
typedef struct { int y, n, i, y_refused, i_accepted; } suite_counts;

static int is_listed(const char *name, const char *const *list, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) if (strcmp(name, list[i]) == 0) return 1;
    return 0;
}
static blob read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *buffer = (char *)malloc(1 << 20);
    blob b;
    CHECK(file != NULL && buffer != NULL);
    b = blob_of(buffer, fread(buffer, 1, 1 << 20, file));
    (void)fclose(file);
    free(buffer);
    return b;
}
static void check_suite_file(const char *name, blob b, suite_counts *counts) {
    dcp_json *json;
    int ok = accepted(b.bytes, b.size);
    int wanted = name[0] == 'y' ? !is_listed(name, refused_on_purpose, 4) : is_listed(name, accepted_on_purpose, 5);
    if (ok != wanted) test_fail(__FILE__, __LINE__, name, ok ? " accepted" : " refused");
    if (name[0] != 'i' && skipped(b.bytes, b.size) != ok) test_fail(__FILE__, __LINE__, name, " skip and tree differ");
    if (name[0] == 'i') (void)skipped(b.bytes, b.size);               /* skipping does not care about a number's size */
    counts->y += name[0] == 'y';
    counts->y_refused += name[0] == 'y' && !ok;
    counts->n += name[0] == 'n';
    counts->i += name[0] == 'i';
    counts->i_accepted += name[0] == 'i' && ok;
    if (!ok) return;
    CHECK_OK(parse_bytes(b.bytes, b.size, &json, NULL));
    check_round_trip(json, 0);
    check_round_trip(json, 2);
    dcp_json_free(json);
}
#if HAS_DIRENT
static void suite_path(char path[1024], const char *folder, const char *name) {
    const char *base = getenv("DCP_TEST_DATA");
    (void)snprintf(path, 1024, "%s/JSONTestSuite/%s/%s", base ? base : "../shared/data", folder, name);
}
/* One after the other; leaves the test if the folder is not there. The callback frees nothing. */
static void suite_each(const char *folder, void (*check)(const char *name, blob b, suite_counts *counts),
                       suite_counts *counts) {
    char path[1024];
    struct dirent *entry;
    DIR *dir;
    suite_path(path, folder, "");
    dir = opendir(path);
    if (!dir) SKIP_MISSING("data", "JSONTestSuite not found, set DCP_TEST_DATA to the directory that holds it");
    while ((entry = readdir(dir)) != NULL) {
        blob b;
        if (!strstr(entry->d_name, ".json")) continue;
        suite_path(path, folder, entry->d_name);
        b = read_file(path);
        check(entry->d_name, b, counts);
        free(b.bytes);
    }
    (void)closedir(dir);
}
TEST(suite_parsing) {
    suite_counts counts;
    memset(&counts, 0, sizeof counts);
    suite_each("test_parsing", check_suite_file, &counts);
    CHECK_INT(counts.y, 95);
    CHECK_INT(counts.y_refused, 4);
    CHECK_INT(counts.n, 188);
    CHECK_INT(counts.i, 35);
    CHECK_INT(counts.i_accepted, 5);
    CHECK_INT(alloc_live, 0);
}
/* Refused: a key twice, and the strings, which all hold NUL or a lone surrogate (escaped, or as three bytes). */
static void check_transform_file(const char *name, blob b, suite_counts *counts) {
    int ok = accepted(b.bytes, b.size), twice = strncmp(name, "object_same_key", 15) == 0,
             string = strncmp(name, "string_", 7) == 0;
    CHECK_INT(skipped(b.bytes, b.size), ok);
    if (ok != !(twice || string)) test_fail(__FILE__, __LINE__, name, ok ? " accepted" : " refused");
    counts->y += ok;
    counts->n += !ok;
}
TEST(suite_transform) {
    suite_counts counts;
    memset(&counts, 0, sizeof counts);
    suite_each("test_transform", check_transform_file, &counts);
    CHECK_INT(counts.y, 12);
    CHECK_INT(counts.n, 10);
    CHECK_INT(alloc_live, 0);
}
#else
TEST(suite_parsing) { SKIP("no readdir here"); }
TEST(suite_transform) { SKIP("no readdir here"); }
#endif

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static dcp_json *parse_one(const char *number, dcp_json_kind kind) {
    dcp_json *json = parse(number);
    CHECK_INT(dcp_json_kind_of(json), kind);
    return json;
}
static void check_int_value(const char *text, int64_t want) {
    dcp_json *json = parse_one(text, DCP_JSON_INT);
    int64_t value = ~want;
    uint64_t u = 0;
    double real;
    CHECK_OK(dcp_json_int(json, &value));
    CHECK(value == want);
    CHECK_INT(dcp_json_uint(json, &u), want < 0 ? DCP_E_MISMATCH : DCP_OK);
    if (want >= 0) CHECK(u == (uint64_t)want);
    CHECK_OK(dcp_json_double(json, &real));
    CHECK(real == (double)want);
    if (strcmp(text, "-0") != 0) check_text(json, 0, text);
    dcp_json_free(json);
}
static void check_uint_value(const char *text, uint64_t want) {         /* beyond int64 */
    dcp_json *json = parse_one(text, DCP_JSON_INT);
    int64_t value;
    uint64_t u = 0;
    double real;
    CHECK_INT(dcp_json_int(json, &value), DCP_E_MISMATCH);
    CHECK_OK(dcp_json_uint(json, &u));
    CHECK(u == want);
    CHECK_OK(dcp_json_double(json, &real));
    CHECK(real == (double)want);
    check_text(json, 0, text);
    dcp_json_free(json);
}
static void check_real_value(const char *text, double want) {
    dcp_json *json = parse_one(text, DCP_JSON_DOUBLE);
    int64_t value;
    uint64_t u;
    double real = 0;
    CHECK_OK(dcp_json_double(json, &real));
    if (memcmp(&real, &want, sizeof real) != 0) test_fail(__FILE__, __LINE__, text, " is another double");
    CHECK_INT(dcp_json_int(json, &value), DCP_E_MISMATCH);
    CHECK_INT(dcp_json_uint(json, &u), DCP_E_MISMATCH);
    dcp_json_free(json);
}
TEST(integers) {
    check_int_value("0", 0);
    check_int_value("-0", 0);
    check_int_value("-1", -1);
    check_int_value("2147483647", 2147483647);
    check_int_value("2147483648", INT64_C(2147483648));
    check_int_value("-2147483649", -INT64_C(2147483649));
    check_int_value("4294967295", INT64_C(4294967295));
    check_int_value("4294967296", INT64_C(4294967296));
    check_int_value("9007199254740991", INT64_C(9007199254740991));
    check_int_value("9007199254740993", INT64_C(9007199254740993));
    check_int_value("-9007199254740993", -INT64_C(9007199254740993));
    check_int_value("999999999999999999", INT64_C(999999999999999999));
    check_int_value("1000000000000000000", INT64_C(1000000000000000000));
    check_int_value("9223372036854775807", INT64_MAX);
    check_int_value("-9223372036854775807", -INT64_MAX);
    check_int_value("-9223372036854775808", INT64_MIN);
    check_uint_value("9223372036854775808", (uint64_t)1 << 63);
    check_uint_value("9223372036854775809", ((uint64_t)1 << 63) + 1);
    check_uint_value("10000000000000000000", UINT64_C(10000000000000000000));
    check_uint_value("18446744073709551615", UINT64_MAX);
    check_real_value("18446744073709551616", 18446744073709551616.0);
    check_real_value("-9223372036854775809", -9223372036854775808.0);
    check_real_value("100000000000000000000", 1e20);
    check_real_value("1.0", 1.0);
    check_real_value("1e0", 1.0);
}
/* What the pull reader makes of a number where it wants an int64: the value, or a refusal with these words. */
static void check_pull_int(const char *text, int64_t want, const char *words) {
    blob b = blob_of(text, strlen(text));
    dcpi_json_reader r;
    dcpi_arena arena = { NULL };
    dcp_error err;
    int64_t value = 0;
    int ok;
    err.message[0] = '\0';
    dcpi_json_begin(&r, b.bytes, b.size, &arena, &err);
    ok = dcpi_json_int64(&r, &value);
    if (words && !strstr(err.message, words)) test_fail(__FILE__, __LINE__, text, err.message);
    CHECK_INT(ok, words == NULL);
    if (!words) CHECK(value == want && dcpi_json_end(&r));
    dcpi_json_close(&r);
    free(b.bytes);
}
TEST(integers_pulled) {
    check_pull_int("0", 0, NULL);
    check_pull_int(" -0 ", 0, NULL);
    check_pull_int("7", 7, NULL);
    check_pull_int("-12345678", -12345678, NULL);
    check_pull_int("33554432\n", 33554432, NULL);
    check_pull_int("1234567890123456789", INT64_C(1234567890123456789), NULL);
    check_pull_int("9223372036854775807", INT64_MAX, NULL);
    check_pull_int("-9223372036854775808", INT64_MIN, NULL);
    check_pull_int("9223372036854775808", 0, "column 1 (byte 0): the integer 9223372036854775808 does not fit 64 bits");
    check_pull_int("-9223372036854775809", 0, "does not fit");
    check_pull_int("99999999999999999999", 0, "does not fit");
    check_pull_int("18446744073709551617", 0, "does not fit");
    check_pull_int("1.5", 0, "expected an integer, found 1.5");
    check_pull_int("1e3", 0, "expected an integer, found 1e3");
    check_pull_int("01", 0, "must not start with 0");
    check_pull_int("-01", 0, "must not start with 0");
    check_pull_int("00", 0, "must not start with 0");
    check_pull_int("-", 0, "expected a digit, found the end");
    check_pull_int("-a", 0, "expected a digit, found 'a'");
    check_pull_int("+1", 0, "expected a number, found '+'");
    check_pull_int("1.", 0, "expected a digit, found the end");
    check_pull_int("1e", 0, "expected a digit, found the end");
    check_pull_int("\"1\"", 0, "expected a number, found '\"'");
    check_pull_int("", 0, "expected a number, found the end");
    check_pull_int("null", 0, "expected a number, found 'n'");
}
TEST(doubles_hard) {
    check_real_value("5e-324", 4.9406564584124654e-324);
    check_real_value("4.9406564584124654e-324", 4.9406564584124654e-324);
    check_real_value("2.4703282292062328e-324", 4.9406564584124654e-324);
    check_real_value("2.4703282292062327e-324", 0.0);
    check_real_value("2.2250738585072011e-308", 2.2250738585072011e-308);     /* the one that hung PHP and Java */
    check_real_value("2.2250738585072012e-308", 2.2250738585072014e-308);
    check_real_value("2.2250738585072014e-308", 2.2250738585072014e-308);
    check_real_value("1e23", 1e23);
    check_real_value("8.5e22", 8.5e22);
    check_real_value("9007199254740993.0", 9007199254740992.0);
    check_real_value("9007199254740993.00000000000000000000000000000000000000000000000000000000000001",
                     9007199254740994.0);
    check_real_value("9007199254740995.0", 9007199254740996.0);
    check_real_value("1.7976931348623157e308", 1.7976931348623157e308);
    check_real_value("1.7976931348623158e308", 1.7976931348623157e308);
    check_real_value("0.1", 0.1);
    check_real_value("-0.0", -0.0);
    check_real_value("-0e0", -0.0);
    check_real_value("0e999999999999", 0.0);
    check_real_value("0.000e-99999999999999999999", 0.0);
    check_real_value("1e-400", 0.0);
    check_real_value("-1e-400", -0.0);
    check_real_value("1e-99999999999999999999", 0.0);
    check_real_value("0.3", 0.3);
    check_real_value("123456789012345678901234567890e-29", 1.2345678901234568);
    check_real_value("6.02214076E+23", 6.02214076e23);
    CHECK(!accepted("1e400", 5));
    CHECK(!accepted("-1e400", 6));
    CHECK(!accepted("[1e99999999999999999999]", 24));
    CHECK(!accepted("1.7976931348623159e308", 22));
}
/* Digits of an odd 54-bit number times 2^exponent, exactly: halfway between two doubles. Returns the power of ten to
 * write beyond them. */
static int halfway_digits(uint64_t odd, int exponent, char *digits) {
    int count = sprintf(digits, "%llu", (unsigned long long)odd), i, step = exponent < 0 ? 5 : 2, n = exponent < 0
                ? -exponent : exponent;
    while (n-- > 0) {
        int carry = 0;
        for (i = count - 1; i >= 0; i--) {
            carry += (digits[i] - '0') * step;
            digits[i] = (char)('0' + carry % 10);
            carry /= 10;
        }
        if (!carry) continue;
        memmove(digits + 1, digits, (size_t)count);
        digits[0] = (char)('0' + carry);
        count++;
    }
    digits[count] = '\0';
    return exponent < 0 ? exponent : 0;
}
static void check_halfway(uint64_t low, int exponent) {                  /* between low and low + 1, times 2^exponent */
    char digits[1300], text[2600];
    int power = halfway_digits(2 * low + 1, exponent - 1, digits);
    size_t last = strlen(digits) - 1;
    double below = ldexp((double)low, exponent), above = ldexp((double)(low + 1), exponent);
    (void)snprintf(text, sizeof text, "%se%d", digits, power);
    check_real_value(text, low % 2 ? above : below);
    (void)snprintf(text, sizeof text, "%s.%0900de%d", digits, 0, power);
    check_real_value(text, low % 2 ? above : below);
    (void)snprintf(text, sizeof text, "%s.%0900d1e%d", digits, 0, power);
    check_real_value(text, above);
    (void)snprintf(text, sizeof text, "0.%0100d%s1e%d", 0, digits, power + (int)last + 101);
    check_real_value(text, above);
    digits[last]--;                                     /* never '0': it ends in 5, or in an even digit that is not 0 */
    (void)snprintf(text, sizeof text, "%s.99999e%d", digits, power);
    check_real_value(text, below);
}
static void check_greatest(void) {            /* halfway beyond the greatest double is refused, a little less is that */
    char digits[1300], text[2600];
    size_t last;
    (void)halfway_digits(((uint64_t)1 << 54) - 1, 970, digits);
    last = strlen(digits) - 1;
    (void)snprintf(text, sizeof text, "%s.0", digits);
    CHECK(!accepted(text, strlen(text)));
    digits[last]--;
    (void)snprintf(text, sizeof text, "%s.%0900d", digits, 9);
    check_real_value(text, 1.7976931348623157e308);
}
TEST(doubles_halfway) {
    int i;
    check_greatest();
    check_halfway(1, -1074);                            /* subnormal, 751 digits */
    /* between the greatest subnormal and the least normal: 767 digits */
    check_halfway(((uint64_t)1 << 52) - 1, -1074);
    check_halfway((uint64_t)1 << 52, -1074);
    check_halfway(((uint64_t)1 << 53) - 2, 971);
    for (i = 0; i < 60; i++) {
        uint64_t low = ((uint64_t)1 << 52) | (test_random() >> 12);
        check_halfway(low == ((uint64_t)1 << 53) - 1 ? low - 1 : low, -(int)test_random_below(1074));
        check_halfway(test_random() >> (12 + test_random_below(40)), -1074);
    }
}
static double random_double(void) {
    for (;;) {
        double value = dcpi_double_of_bits(test_random());
        if (dcpi_double_is_finite(value)) return value;
    }
}
/* Written and read again: the same bits; and no shorter text would do. */
static void check_double_text(double value) {
    char text[32], shorter[64];
    double back = 0;
    int precision = 0;
    CHECK(strlen((dcpi_double_text(value, text), text)) < sizeof text);
    CHECK(dcpi_double_parse(text, strlen(text), &back));
    if (memcmp(&back, &value, sizeof value) != 0) test_fail(__FILE__, __LINE__, text, " does not come back");
    CHECK(strpbrk(text, ".e") != NULL);
#ifndef _WIN32
    back = strtod(text, NULL);
    CHECK(memcmp(&back, &value, sizeof value) == 0);
    do (void)snprintf(shorter, sizeof shorter, "%.*e", precision++, value); while (strtod(shorter, NULL) != value);
    if (value != 0) {
        size_t digits = 0, i;
        for (i = 0; text[i] && text[i] != 'e'; i++)
            digits += text[i] >= '0' && text[i] <= '9' && (digits > 0 || text[i] != '0');
        for (; i > 0 && (text[i - 1] == '0' || text[i - 1] == '.'); i--) digits -= text[i - 1] == '0';
        if (digits > (size_t)precision) test_fail(__FILE__, __LINE__, text, shorter);
    }
#else
    (void)shorter;
    (void)precision;
#endif
}
TEST(doubles_random) {
    int i, runs = test_times(20000);
    for (i = 0; i < runs; i++) check_double_text(random_double());
    for (i = 0; i < 2000; i++) check_double_text((double)(int)test_random_below(2000000) / 1000.0 - 1000.0);
    for (i = 0; i < 63; i++) check_double_text((double)((uint64_t)1 << i));
    for (i = -1074; i < 1024; i++) check_double_text(ldexp(1.0, i));
}
TEST(doubles_like_strtod) {
#ifdef _WIN32
    SKIP("the C library's strtod is no yardstick here");
#else
    int i;
    for (i = 0; i < test_times(20000); i++) {
        char text[1200];
        double want, got = 0;
        int ok;
        (void)snprintf(text, sizeof text, "%.*e", (int)test_random_below(i % 50 ? 25 : 900), random_double());
        if (i % 3 == 0 && strchr(text, '.')) text[strcspn(text, "e") - 1] = (char)('0' + test_random_below(10));
        want = strtod(text, NULL);
        ok = dcpi_double_parse(text, strlen(text), &got);
        if (ok != dcpi_double_is_finite(want))
            test_fail(__FILE__, __LINE__, text, " overflows in one, but not in the other");
        if (ok && memcmp(&got, &want, sizeof got) != 0) test_fail(__FILE__, __LINE__, text, " is another double");
    }
#endif
}
static void check_written(double value, const char *want) {
    char text[32];
    dcpi_double_text(value, text);
    CHECK_STR(text, want);
}
TEST(doubles_written) {
    /* 17 digits; of 16 both neighbours read back: the even one is it */
    check_written(9.0000152587890625, "9.000015258789062");
    check_written(9.0000457763671875, "9.000045776367188");
    check_written(0.0, "0.0");
    check_written(-0.0, "-0.0");
    check_written(1.0, "1.0");
    check_written(-1.5, "-1.5");
    check_written(100.0, "100.0");
    check_written(0.1, "0.1");
    check_written(0.0003, "0.0003");
    check_written(0.00001, "0.00001");
    check_written(0.000001, "1e-6");
    check_written(1.25e-7, "1.25e-7");
    check_written(123456789012345680.0, "123456789012345680.0");
    check_written(1e20, "100000000000000000000.0");
    check_written(1e21, "1e21");
    check_written(1e22, "1e22");
    check_written(1e23, "1e23");
    check_written(9007199254740993.0, "9007199254740992.0");
    check_written(5e-324, "5e-324");
    check_written(-2.2250738585072014e-308, "-2.2250738585072014e-308");
    check_written(1.7976931348623157e308, "1.7976931348623157e308");
    check_written(1.0 / 3, "0.3333333333333333");
    check_written(2.0 / 3, "0.6666666666666666");
    check_written(9.5, "9.5");
    check_written(1.0000000000000001e23, "1.0000000000000001e23");
}
/* In a locale that writes 1,5: nothing may change. */
TEST(locale_comma) {
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR",
                                         "pl_PL.UTF-8", "German" };
    char text[32];
    double value = 0;
    dcp_json *json;
    size_t i;
    for (i = 0; i < DCPI_COUNT(names); i++)
        if (setlocale(LC_ALL, names[i]) && localeconv()->decimal_point[0] == ',') break;
    if (i == DCPI_COUNT(names)) {
        (void)setlocale(LC_ALL, "C");
        if (test_is_slow()) SKIP("an emulated program does not find the locales of this machine");
        SKIP_MISSING("locale", "locales-all, or any locale with a decimal comma");
    }
    dcpi_double_text(1234.5, text);
    i = dcpi_double_parse("-0.25e1", 7, &value) != 0;
    json = parse("[1.5, 1e3, 12345678]");
    (void)setlocale(LC_ALL, "C");                       /* before anything can fail */
    CHECK_STR(text, "1234.5");
    CHECK(i && value == -2.5);
    CHECK(!accepted("1,5", 3));
    (void)setlocale(LC_ALL, names[0]);
    check_text(json, 0, "[1.5,1000.0,12345678]");
    (void)setlocale(LC_ALL, "C");
    dcp_json_free(json);
}

/* ---- what is refused, and the words ------------------------------------------------------------------------------ */
typedef struct { const char *text, *message; } refusal;
static const refusal refusals[] = {
    { "", "line 1, column 1 (byte 0): expected a value, found the end" },
    { "  \n ", "line 2, column 2 (byte 4): expected a value, found the end" },
    { "\xEF\xBB\xBF{}", "line 1, column 1 (byte 0): the document starts with a byte order mark" },
    { "\xFF\xFE", "line 1, column 1 (byte 0): expected a value, found byte 0xFF" },
    { "tru", "line 1, column 1 (byte 0): expected a value, found 't'" },
    { "[nul]", "line 1, column 2 (byte 1): expected a value, found 'n'" },
    { "[True]", "line 1, column 2 (byte 1): expected a value, found 'T'" },
    { "nullx", "line 1, column 5 (byte 4): the document has ended, but 'x' follows" },
    { "{} {}", "line 1, column 4 (byte 3): the document has ended, but '{' follows" },
    { "[1]\n\n  ]", "line 3, column 3 (byte 7): the document has ended, but ']' follows" },
    { "[1\n,2\r\n,x]", "line 3, column 2 (byte 8): expected a value, found 'x'" },
    { "[1 2]", "line 1, column 4 (byte 3): expected ',' or ']' in an array, found '2'" },
    { "[1,]", "line 1, column 4 (byte 3): a comma before ']'" },
    { "[,1]", "line 1, column 2 (byte 1): expected a value, found ','" },
    { "[1,,2]", "line 1, column 4 (byte 3): expected a value, found ','" },
    { "[1", "line 1, column 3 (byte 2): expected ',' or ']' in an array, found the end" },
    { "[1,", "line 1, column 4 (byte 3): expected a value, found the end" },
    { "[1}", "line 1, column 3 (byte 2): expected ',' or ']' in an array, found '}'" },
    { "[", "line 1, column 2 (byte 1): expected a value, found the end" },
    { "[1]]", "line 1, column 4 (byte 3): the document has ended, but ']' follows" },
    { "{", "line 1, column 2 (byte 1): expected a member name in quotes, found the end" },
    { "{a:1}", "line 1, column 2 (byte 1): expected a member name in quotes, found 'a'" },
    { "{\"a\"", "line 1, column 5 (byte 4): expected ':' after a member name, found the end" },
    { "{\"a\" 1}", "line 1, column 6 (byte 5): expected ':' after a member name, found '1'" },
    { "{\"a\":}", "line 1, column 6 (byte 5): expected a value, found '}'" },
    { "{\"a\":1,}", "line 1, column 8 (byte 7): a comma before '}'" },
    { "{,\"a\":1}", "line 1, column 2 (byte 1): expected a member name in quotes, found ','" },
    { "{\"a\":1 \"b\":2}", "line 1, column 8 (byte 7): expected ',' or '}' in an object, found '\"'" },
    { "{\"a\":1,\n 2:3}", "line 2, column 2 (byte 9): expected a member name in quotes, found '2'" },
    { "'a'", "line 1, column 1 (byte 0): expected a value, found '''" },
    { "\"abc", "line 1, column 5 (byte 4): the text ends inside a string" },
    { "\"abcdefgh", "line 1, column 10 (byte 9): the text ends inside a string" },
    { "\"abc\\", "line 1, column 6 (byte 5): the text ends inside a string" },
    { "\"\\n", "line 1, column 4 (byte 3): the text ends inside a string" },
    { "\"a\nb\"", "line 1, column 3 (byte 2): a control character (0x0A) inside a string" },
    { "\"abcdefghij\x1Fklmnopq\"", "line 1, column 12 (byte 11): a control character (0x1F) inside a string" },
    { "[\"\t\"]", "line 1, column 3 (byte 2): a control character (0x09) inside a string" },
    { "\"\\x41\"", "line 1, column 2 (byte 1): an escape that JSON does not have" },
    { "\"\\'\"", "line 1, column 2 (byte 1): an escape that JSON does not have" },
    { "\"\\U0041\"", "line 1, column 2 (byte 1): an escape that JSON does not have" },
    { "\"\\u12G4\"", "line 1, column 2 (byte 1): \\u needs four hexadecimal digits" },
    { "\"\\u12", "line 1, column 2 (byte 1): \\u needs four hexadecimal digits" },
    { "\"\\u0000\"", "line 1, column 2 (byte 1): the character NUL" },
    { "\"ab\\uDC00\"", "line 1, column 4 (byte 3): a low surrogate without its high one" },
    { "\"\\uD800\"", "line 1, column 2 (byte 1): a high surrogate without its low one" },
    { "\"\\uD800\\n\"", "line 1, column 2 (byte 1): a high surrogate without its low one" },
    { "\"\\uD800\\uD800\"", "line 1, column 2 (byte 1): a high surrogate without its low one" },
    { "\"\\uD83D\\u0041\"", "line 1, column 2 (byte 1): a high surrogate without its low one" },
    { "\"\\uD83D\\u00", "line 1, column 2 (byte 1): a high surrogate without its low one" },
    { "\"\\uD83D\\uDE0\"", "line 1, column 2 (byte 1): a high surrogate without its low one" },
    { "\"\x80\"", "line 1, column 2 (byte 1): byte 0x80 is not UTF-8" },
    { "\"abcdefg\xC0\xAF\"", "line 1, column 9 (byte 8): byte 0xC0 is not UTF-8" },
    { "\"\xC3\"", "line 1, column 2 (byte 1): byte 0xC3 is not UTF-8" },
    { "\"\xED\xA0\x80\"", "line 1, column 2 (byte 1): byte 0xED is not UTF-8" },
    { "\"\xF4\x90\x80\x80\"", "line 1, column 2 (byte 1): byte 0xF4 is not UTF-8" },
    { "\"\xE2\x82", "line 1, column 2 (byte 1): byte 0xE2 is not UTF-8" },
    { "01", "line 1, column 1 (byte 0): a number must not start with 0" },
    { "[-01]", "line 1, column 3 (byte 2): a number must not start with 0" },
    { "-", "line 1, column 2 (byte 1): expected a digit, found the end" },
    { "[1.]", "line 1, column 4 (byte 3): expected a digit, found ']'" },
    { "[1e+]", "line 1, column 5 (byte 4): expected a digit, found ']'" },
    { "[.5]", "line 1, column 2 (byte 1): expected a value, found '.'" },
    { "[+1]", "line 1, column 2 (byte 1): expected a value, found '+'" },
    { "[0x1]", "line 1, column 3 (byte 2): expected ',' or ']' in an array, found 'x'" },
    { "[1_000]", "line 1, column 3 (byte 2): expected ',' or ']' in an array, found '_'" },
    { "[NaN]", "line 1, column 2 (byte 1): expected a value, found 'N'" },
    { "[-Infinity]", "line 1, column 3 (byte 2): expected a digit, found 'I'" },
    { "// c\n1", "line 1, column 1 (byte 0): expected a value, found '/'" },
    { "[1] \x0C", "line 1, column 5 (byte 4): the document has ended, but byte 0x0C follows" },
    { "{\"a\":1,\"b\":2,\"a\":3}", "line 1, column 14 (byte 13): duplicate key \"a\" in this object" },
    { "{\"x\":{\"a\":1,\n\"a\":2}}", "line 2, column 1 (byte 13): duplicate key \"a\" in this object" },
    { "{\"ab\":1,\"\\u0061b\":2}", "line 1, column 20 (byte 19): duplicate key \"ab\" in this object" },
    { "{\"\":1,\"\":2}", "line 1, column 7 (byte 6): duplicate key \"\"" }
};
static void check_refusal(const char *text, size_t size, const char *message, int both) {
    dcp_json *json = (dcp_json *)1;
    dcp_error err;
    CHECK_INT(parse_bytes(text, size, &json, &err), DCP_E_FORMAT);
    CHECK(json == NULL);
    if (!strstr(err.message, message)) test_fail(__FILE__, __LINE__, message, err.message);
    CHECK_INT(parse_bytes(text, size, &json, NULL), DCP_E_FORMAT);
    if (!both) return;
    CHECK_INT(skip_bytes(text, size, &err), DCP_E_FORMAT);
    if (!strstr(err.message, message)) test_fail(__FILE__, __LINE__, message, err.message);
}
TEST(refusals_with_place) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(refusals); i++)
        check_refusal(refusals[i].text, strlen(refusals[i].text), refusals[i].message, 1);
    check_refusal("[1,2e400]", 9, "line 1, column 4 (byte 3): the number is out of range for a double", 0);
    CHECK_INT(alloc_live, 0);
}
TEST(refusals_nul_and_null) {
    dcp_json *json;
    dcp_error err;
    check_refusal("[1\0]", 4, "line 1, column 3 (byte 2): expected ',' or ']' in an array, found byte 0x00", 1);
    check_refusal("\"a\0b\"", 5, "line 1, column 3 (byte 2): a control character (0x00)", 1);
    check_refusal("[1]\0", 4, "line 1, column 4 (byte 3): the document has ended, but byte 0x00 follows", 1);
    check_refusal("[\"\\\0\"]", 6, "line 1, column 3 (byte 2): an escape that JSON does not have", 1);
    check_refusal("{\0", 2, "line 1, column 2 (byte 1): expected a member name in quotes, found byte 0x00", 1);
    check_refusal("\0", 1, "line 1, column 1 (byte 0): expected a value, found byte 0x00", 1);
    CHECK_INT(dcp_json_parse(NULL, 0, &json, &err), DCP_E_INVALID);
    CHECK(json == NULL);
    CHECK_INT(alloc_live, 0);
}
/* The message shows the first forty digits of a long number. */
TEST(refusals_long_number) {
    static const char digits[] = "1234567890123456789012345678901234567890";
    char text[128];
    dcp_error err;
    dcpi_json_reader r;
    dcpi_arena arena = {NULL};
    int64_t value;
    (void)snprintf(text, sizeof text, "%s99", digits);
    dcpi_json_begin(&r, text, strlen(text), &arena, &err);
    CHECK(!dcpi_json_int64(&r, &value));
    (void)snprintf(text, sizeof text, "the integer %s does not fit 64 bits", digits);
    CHECK(strstr(err.message, text) != NULL);
    dcpi_arena_free(&arena);
}
/* The message shows a part of a long key, of whole characters. */
TEST(refusals_long_key) {
    static const char *const before[] = {"", "x", "xx"};        /* the cut falls between two characters, and into one */
    char key[400], text[1024];
    dcp_json *json;
    dcp_error err;
    size_t i, n, k;
    for (k = 0; k < DCPI_COUNT(before); k++) {
        (void)snprintf(key, sizeof key, "%s", before[k]);
        for (i = 0; i < 100; i++) strcat(key, "\xE2\x82\xAC");
        (void)snprintf(text, sizeof text, "{\"%s\":1,\"%s\":2}", key, key);
        CHECK_INT(parse_bytes(text, strlen(text), &json, &err), DCP_E_FORMAT);
        CHECK(strstr(err.message, "\xE2\x82\xAC\" in this object") != NULL);
        for (i = 0; err.message[i]; i += n) {
            n = dcpi_utf8_length(err.message + i, strlen(err.message + i));
            CHECK(n > 0);
        }
    }
}
typedef struct { const char *text, *want; } string_case;
static const string_case string_cases[] = {
    { "\"\"", "" }, { "\"a\"", "a" }, { "\"abcdefgh\"", "abcdefgh" }, { "\"abcdefghi\"", "abcdefghi" },
        { "\"\x7F\"", "\x7F" },
    { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
    { "\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80" },
    { "\"12345678\\n12345678\\\\\"", "12345678\n12345678\\" },
    { "\"\\uDBFF\\uDFFF\\uFFFF\\uD7FF\\uE000\"", "\xF4\x8F\xBF\xBF\xEF\xBF\xBF\xED\x9F\xBF\xEE\x80\x80" },
    { "\"\\u0001\\u001f\\u007f\"", "\x01\x1F\x7F" },
    { "\"\xC3\xA9 1234567\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\xC3\xA9 1234567\xE2\x82\xAC\xF0\x9F\x98\x80" },
    { "\"\xF4\x8F\xBF\xBF\xEE\x80\x80\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80\"",
      "\xF4\x8F\xBF\xBF\xEE\x80\x80\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80" }
};
TEST(strings_accepted) {
    size_t i, length;
    for (i = 0; i < DCPI_COUNT(string_cases); i++) {
        dcp_json *json = parse(string_cases[i].text);
        CHECK_STR(dcp_json_string(json, &length), string_cases[i].want);
        CHECK_INT(length, strlen(string_cases[i].want));
        check_round_trip(json, 0);
        dcp_json_free(json);
    }
}
/* Each byte at each place of a string longer than the eight bytes that are looked at together. */
TEST(strings_every_byte) {
    int byte, at;
    char text[22];
    for (byte = 0; byte < 256; byte++) {
        for (at = 1; at < 20; at++) {
            int fine = byte >= 0x20 && byte < 0x80 && byte != '\\' && byte != '"';
            memset(text, 'a', sizeof text);
            text[0] = text[21] = '"';
            text[at] = (char)byte;
            CHECK_INT(accepted(text, sizeof text), fine);
            CHECK_INT(skipped(text, sizeof text), fine);
        }
    }
}


/* ---- members ----------------------------------------------------------------------------------------------------- */
static int takes(const char *text) {
    size_t size = strlen(text);
    int ok = accepted(text, size);
    CHECK_INT(skipped(text, size), ok);
    return ok;
}
TEST(duplicate_keys) {
    CHECK(!takes("{\"a\":1,\"\\u0061\":2}"));
    CHECK(!takes("{\"\\u00e9\":1,\"\xC3\xA9\":2}"));
    CHECK(!takes("{\"\\uD83D\\uDE00\":1,\"\xF0\x9F\x98\x80\":2}"));
    CHECK(!takes("{\"\\/\":1,\"/\":2}"));
    CHECK(!takes("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"d\":8}"));
    CHECK(!takes("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"d\":9}"));
    CHECK(takes("{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}"));
    CHECK(takes("[{\"a\":1},{\"a\":1}]"));
    CHECK(takes("{\"a\":1,\"A\":2,\"aa\":3,\"\":4}"));
    CHECK(takes("{\"\xC3\xA9\":1,\"e\xCC\x81\":2}"));     /* the same to the eye only */
}
/* {"k0":0,...}: count members in a shuffled order, with their places as values; and one more by that name unless it is
 * NULL. */
static blob many_members(int count, const char *last) {
    blob b;
    int i;
    b.bytes = (char *)malloc((size_t)count * 24 + 64);
    CHECK(b.bytes != NULL);
    b.size = 0;
    b.bytes[b.size++] = '{';
    for (i = 0; i < count; i++)
        b.size += (size_t)sprintf(b.bytes + b.size, "%s\"k%d\":%d", i ? "," : "", (int)(i * INT64_C(7919) % count), i);
    if (last) b.size += (size_t)sprintf(b.bytes + b.size, ",\"%s\":0", last);
    b.bytes[b.size++] = '}';
    return b;
}
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
/* Whether this took less than a second of processor time, far below what quadratic code would; sanitizers and valgrind
 * may take longer. */
static int is_quick(clock_t start) {
    double limit = 1;
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
    limit = 10;
#endif
    if (test_is_slow()) limit = 60;
    return (double)(clock() - start) / (double)CLOCKS_PER_SEC < limit;
}
TEST(members_unknown_100000) {
    blob b = many_members(100000, NULL), twice = many_members(100000, "k4321");
    clock_t start = clock();
    CHECK(skipped(b.bytes, b.size));
    CHECK(is_quick(start));
    CHECK(!skipped(twice.bytes, twice.size));
    start = clock();
    CHECK(accepted(b.bytes, b.size));
    CHECK(is_quick(start));
    CHECK(!accepted(twice.bytes, twice.size));
    free(b.bytes);
    free(twice.bytes);
    CHECK_INT(alloc_live, 0);
}
static void check_looked_up(dcp_json *json, int count) {
    char key[32];
    int i;
    CHECK_INT(dcp_json_count(json), count);
    for (i = 0; i < count; i++) {
        const dcp_json *found;
        uint64_t place = 0;
        (void)snprintf(key, sizeof key, "k%d", i);
        found = dcp_json_get(json, key);
        CHECK_OK(dcp_json_uint(found, &place));
        CHECK(dcp_json_at(json, (size_t)place) == found);
        CHECK_STR(dcp_json_key(json, (size_t)place), key);
    }
    CHECK(!dcp_json_get(json, "k") && !dcp_json_get(json, "") && !dcp_json_get(json, "z") &&
          !dcp_json_get(json, "k20000"));
}
TEST(members_looked_up) {
    static const int counts[] = { 0, 1, 2, 15, 16, 17, 18, 100, 20000 };
    size_t c;
    for (c = 0; c < DCPI_COUNT(counts); c++) {
        blob b = many_members(counts[c], NULL);
        dcp_json *json;
        CHECK_OK(parse_bytes(b.bytes, b.size, &json, NULL));
        check_looked_up(json, counts[c]);
        CHECK(dcp_json_add_int(json, "k", 1) != NULL);     /* a parsed tree can be built on */
        CHECK(dcp_json_get(json, "k") == dcp_json_at(json, (size_t)counts[c]));
        CHECK(!dcp_json_add_int(json, "k", 1));
        if (counts[c]) CHECK(!dcp_json_add_int(json, "k0", 1));
        dcp_json_free(json);
        free(b.bytes);
    }
    CHECK_INT(alloc_live, 0);
}
TEST(members_built_50000) {
    dcp_json *json = dcp_json_new_object(NULL);
    clock_t start = clock();
    char key[32];
    int i;
    for (i = 0; i < 50000; i++) {
        (void)snprintf(key, sizeof key, "k%d", (int)(i * INT64_C(7919) % 50000));
        CHECK(dcp_json_add_int(json, key, i) != NULL);
        if (i != 300 && i != 5000) continue;
        CHECK(!dcp_json_add_null(json, key) && !dcp_json_add_null(json, "k0") && !dcp_json_add_null(json, "k7919"));
    }
    CHECK(is_quick(start));
    CHECK_STR(dcp_json_key(json, 1), "k7919");
    for (i = 0; i < 50000; i += 7) {
        (void)snprintf(key, sizeof key, "k%d", i);
        CHECK(dcp_json_get(json, key) != NULL && !dcp_json_add_null(json, key));
    }
    CHECK_INT(dcp_json_count(json), 50000);
    check_round_trip(json, 0);
    dcp_json_free(json);
    CHECK_INT(alloc_live, 0);
}

/* ---- depth, damage ----------------------------------------------------------------------------------------------- */
static blob nested(int depth, char open, char close) {  /* close 0: never closed */
    blob b;
    int i;
    b.bytes = (char *)malloc((size_t)depth * 6);
    CHECK(b.bytes != NULL);
    b.size = 0;
    for (i = 0; i < depth; i++) {
        b.bytes[b.size++] = open;
        if (open == '{' && i + 1 < depth) { memcpy(b.bytes + b.size, "\"a\":", 4); b.size += 4; }
    }
    for (i = 0; close && i < depth; i++) b.bytes[b.size++] = close;
    return b;
}
static void check_depth(int depth, char open, char close, int want) {
    blob b = nested(depth, open, close);
    CHECK_INT(accepted(b.bytes, b.size), want);
    CHECK_INT(skipped(b.bytes, b.size), want);
    if (!want) check_refusal(b.bytes, b.size, "nested deeper than 64", 1);
    free(b.bytes);
}
TEST(depth_limit) {
    check_depth(64, '[', ']', 1);
    check_depth(65, '[', ']', 0);
    check_depth(64, '{', '}', 1);
    check_depth(65, '{', '}', 0);
    check_depth(100000, '[', 0, 0);
    check_depth(100000, '{', 0, 0);
    CHECK(takes("[[],[],[[]],{},{\"a\":{}}]"));          /* what was closed does not count */
    CHECK_INT(alloc_live, 0);
}
static const char rich[] =
    "{ \"name\": \"layers.0.wq\\n\\u00e9\\uD83D\\uDE00 \xE2\x82\xAC\", \"shape\": [4096, -1, 18446744073709551615],\n"
    "\t\"x\" : [1.5e-3, 0, -0.0, 1E+2, 123456789012345678901234567890], \"t\":true,\"f\":false,\"n\":null,\r\n"
    "          \"deep\": {\"a\":[{\"b\":[[],{}]}], \"\": \"\"}, "
    "\"k1\":1,\"k2\":2,\"k3\":3,\"k4\":4,\"k5\":5,\"k6\":6,\"k7\":7,\"k8\":8,"
    "\"k9\":9,\"k10\":[],\"k11\":{},\"\\u006b\":0 }";

TEST(damage_truncated) {
    size_t size = sizeof rich - 1, i;
    CHECK(takes(rich));
    for (i = 0; i < size; i++) CHECK(!accepted(rich, i) && !skipped(rich, i));
    CHECK_INT(alloc_live, 0);
}
/* Whatever it is: no crash, and what the tree takes, skipping takes. (It also takes numbers that are too great.) */
static void check_harmless(const char *text, size_t size) {
    if (accepted(text, size)) CHECK(skipped(text, size));
    else (void)skipped(text, size);
}
TEST(damage_mutated) {
    static const unsigned char with[] = { 0, 1, '\n', ' ', '"', '\\', ',', ':', '{', '}', '[', ']', '0', '9', '-', '.',
                                          'e', 'u', 'n', 0x7F, 0x80, 0xC3, 0xED, 0xFF };
    size_t size = sizeof rich - 1, at, i;
    char text[sizeof rich];
    for (at = 0; at < size; at++) {
        memcpy(text, rich, sizeof rich);
        for (i = 0; i < sizeof with + 8; i++) {
            text[at] = (char)(i < sizeof with ? with[i] : (unsigned char)rich[at] ^ (1u << (i - sizeof with)));
            check_harmless(text, size);
        }
    }
    CHECK_INT(alloc_live, 0);
}
TEST(damage_spliced) {                                  /* a part of it once more somewhere, or something taken out */
    size_t size = sizeof rich - 1;
    char text[2 * sizeof rich];
    int i;
    for (i = 0; i < 20000; i++) {
        size_t from = test_random_below(size), n = test_random_below(i % 2 ? 8 : size - from);
        size_t to = test_random_below(size), resume = test_random_below(i % 4 ? 2 : 9);
        if (n > size - from) n = size - from;
        if (resume > size - to) resume = size - to;
        memcpy(text, rich, to);
        memcpy(text + to, rich + from, n);
        memcpy(text + to + n, rich + to + resume, size - to - resume);
        check_harmless(text, size + n - resume);
    }
    CHECK_INT(alloc_live, 0);
}


/* ---- tree: accessors, builder, writer ---------------------------------------------------------------------------- */
TEST(accessors_of_null) {
    int64_t i = 7;
    uint64_t u = 7;
    double d = 7;
    size_t n = 7;
    CHECK_INT(dcp_json_kind_of(NULL), DCP_JSON_NULL);
    CHECK_INT(dcp_json_bool(NULL), 0);
    CHECK(dcp_json_int(NULL, &i) == DCP_E_MISMATCH && dcp_json_uint(NULL, &u) == DCP_E_MISMATCH);
    CHECK(dcp_json_double(NULL, &d) == DCP_E_MISMATCH);
    CHECK(i == 7 && u == 7 && d == 7);
    CHECK(dcp_json_string(NULL, &n) == NULL && n == 0);
    CHECK(dcp_json_string(NULL, NULL) == NULL);
    {
        dcp_json *array = parse("[1]");
        CHECK(dcp_json_string(array, &n) == NULL && n == 0 && dcp_json_string(array, NULL) == NULL);
        dcp_json_free(array);
    }
    CHECK_INT(dcp_json_count(NULL), 0);
    CHECK(!dcp_json_at(NULL, 0) && !dcp_json_key(NULL, 0) && !dcp_json_get(NULL, "a") && !dcp_json_get(NULL, NULL));
    CHECK(!dcp_json_at(dcp_json_get(dcp_json_at(NULL, 3), "a"), 0));
    dcp_json_free(NULL);
}
TEST(accessors_chained) {
    dcp_json *json = parse(" {\"a\":[{\"b\":true},\"s\",-5,2.5,null]} ");
    const dcp_json *a = dcp_json_get(json, "a");
    int64_t i = 0;
    uint64_t u;
    double d = 0;
    CHECK_INT(dcp_json_bool(dcp_json_get(dcp_json_at(dcp_json_get(json, "a"), 0), "b")), 1);
    CHECK_INT(dcp_json_kind_of(dcp_json_get(dcp_json_at(dcp_json_get(json, "x"), 0), "b")), DCP_JSON_NULL);
    CHECK_INT(dcp_json_count(a), 5);
    CHECK_STR(dcp_json_string(dcp_json_at(a, 1), NULL), "s");
    CHECK_INT(dcp_json_count(dcp_json_at(a, 1)), 0);
    CHECK(dcp_json_int(dcp_json_at(a, 2), &i) == DCP_OK && i == -5);
    CHECK_INT(dcp_json_uint(dcp_json_at(a, 2), &u), DCP_E_MISMATCH);
    CHECK(dcp_json_double(dcp_json_at(a, 2), &d) == DCP_OK && d == -5);
    CHECK(dcp_json_double(dcp_json_at(a, 3), &d) == DCP_OK && d == 2.5);
    CHECK_INT(dcp_json_double(dcp_json_at(a, 1), &d), DCP_E_MISMATCH);
    CHECK(dcp_json_at(a, 4) && !dcp_json_at(a, 5) && !dcp_json_at(a, SIZE_MAX) && !dcp_json_key(a, 0) &&
          !dcp_json_key(json, 1));
    CHECK(!dcp_json_get(a, "a") && !dcp_json_get(json, NULL) && dcp_json_bool(a) == 0);
    dcp_json_free(json);
}
static dcp_json *build_rich(void) {                     /* NULL where anything fails; then nothing is left */
    dcp_json *root = dcp_json_new_object(NULL), *list = NULL, *inner = NULL;
    char key[16];
    int ok, i;
    if (!root) return NULL;
    list = dcp_json_add_array(root, "list");
    ok = list && dcp_json_add_int(list, NULL, INT64_MIN) && dcp_json_add_double(list, NULL, 0.1) &&
         dcp_json_add_double(list, NULL, 3) && dcp_json_add_string(list, NULL, "\xC3\xA9 \"q\" \\ \n\x01") &&
         dcp_json_add_bool(list, NULL, 5) && dcp_json_add_null(list, NULL) &&
         dcp_json_add_array(list, NULL);
    inner = ok ? dcp_json_add_object(root, "") : NULL;
    ok = ok && inner && dcp_json_add_bool(inner, "no", 0) && dcp_json_add_object(inner, "empty");
    for (i = 0; ok && i < 300; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        ok = dcp_json_add_int(inner, key, i) != NULL;
    }
    if (ok) return root;
    dcp_json_free(root);
    return NULL;
}
TEST(builder) {
    dcp_json *json = build_rich();
    CHECK(json != NULL);
    check_round_trip(json, 0);
    check_round_trip(json, 2);
    check_round_trip(json, 2000000000);                 /* sillier than useful, but no overflow */
    check_round_trip(json, -3);
    check_text(dcp_json_get(json, "list"), 0,
               "[-9223372036854775808,0.1,3.0,\"\xC3\xA9 \\\"q\\\" \\\\ \\n\\u0001\",true,null,[]]");
    check_text(dcp_json_get(dcp_json_get(json, ""), "empty"), 2, "{}");
    dcp_json_free(json);
    CHECK_INT(alloc_live, 0);
}
TEST(builder_indent) {
    dcp_json *json = parse("{\"a\":[1,{\"b\":2.0},[]],\"c\":{},\"d\":\"\"}");
    check_text(json, 2,
               "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2.0\n    },\n    []\n  ],\n  \"c\": {},\n  \"d\": \"\"\n}");
    check_text(json, 1, "{\n \"a\": [\n  1,\n  {\n   \"b\": 2.0\n  },\n  []\n ],\n \"c\": {},\n \"d\": \"\"\n}");
    check_text(json, 0, "{\"a\":[1,{\"b\":2.0},[]],\"c\":{},\"d\":\"\"}");
    check_text(json, -1, "{\"a\":[1,{\"b\":2.0},[]],\"c\":{},\"d\":\"\"}");
    dcp_json_free(json);
}
TEST(builder_refuses) {
    dcp_json *object = dcp_json_new_object(NULL), *array = dcp_json_new_array(NULL),
                       *number = dcp_json_add_int(object, "n", 1);
    CHECK(object && array && number);
    CHECK(!dcp_json_add_int(NULL, NULL, 1) && !dcp_json_add_string(NULL, "a", "b") && !dcp_json_add_object(NULL, NULL));
    /* a key in an object, none in an array */
    CHECK(!dcp_json_add_int(object, NULL, 1) && !dcp_json_add_int(array, "a", 1));
    CHECK(!dcp_json_add_int(number, "a", 1) && !dcp_json_add_int(number, NULL, 1));
    CHECK(!dcp_json_add_null(object, "n"));
    CHECK(!dcp_json_add_null(object, "\xFF") && !dcp_json_add_null(object, "\xED\xA0\x80"));
    CHECK(!dcp_json_add_string(object, "s", NULL));
    CHECK(!dcp_json_add_string(object, "s", "a\xC3") && !dcp_json_add_string(array, NULL, "\xC0\x80"));
    CHECK(!dcp_json_add_double(object, "d", HUGE_VAL) && !dcp_json_add_double(object, "d", -HUGE_VAL));
    CHECK(!dcp_json_add_double(object, "d", dcpi_double_of_bits(UINT64_C(0x7FF8000000000000))));
    CHECK(!dcp_json_add_double(object, "d", dcpi_double_of_bits(UINT64_C(0xFFF0000000000001))));
    CHECK_INT(dcp_json_count(object), 1);
    CHECK_INT(dcp_json_count(array), 0);
    CHECK(dcp_json_add_double(object, "d", -0.0) != NULL);
    check_text(object, 0, "{\"n\":1,\"d\":-0.0}");
    dcp_json_free(object);
    dcp_json_free(array);
    CHECK_INT(alloc_live, 0);
}
static void check_builder_depth(int objects) {
    dcp_json *root = objects ? dcp_json_new_object(NULL) : dcp_json_new_array(NULL), *at = root;
    int depth = 1;
    for (;;) {
        dcp_json *next = objects ? dcp_json_add_object(at, "a") : dcp_json_add_array(at, NULL);
        if (!next) break;
        at = next;
        depth++;
    }
    CHECK_INT(depth, 64);
    CHECK(dcp_json_add_int(at, objects ? "b" : NULL, 1) != NULL);
    check_round_trip(root, 1);                          /* what can be built can be read */
    dcp_json_free(root);
}
TEST(builder_depth) {
    check_builder_depth(0);
    check_builder_depth(1);
    CHECK_INT(alloc_live, 0);
}
TEST(builder_on_parsed) {
    dcp_json *json = parse("{\"a\":{\"b\":[1]}}"), *b = (dcp_json *)dcp_json_get(dcp_json_get(json, "a"), "b");
    CHECK(dcp_json_add_string(b, NULL, "two") != NULL);
    check_text(json, 0, "{\"a\":{\"b\":[1,\"two\"]}}");
    dcp_json_free(json);
    json = parse("17");
    CHECK(!dcp_json_add_int(json, NULL, 1));
    dcp_json_free(json);
}
TEST(writer_refuses) {
    char *text = (char *)1;
    size_t size = 1;
    dcp_error err;
    CHECK_INT(dcp_json_write(NULL, 0, &text, &size, &err), DCP_E_INVALID);
    CHECK(!text && size == 0 && err.status == DCP_E_INVALID);
}
/* Strings whose escapes fall on each place of the writer's buffer. */
TEST(writer_buffer_edges) {
    int n;
    for (n = 1000; n < 1040; n++) {
        char value[1100];
        dcp_json *json = dcp_json_new_array(NULL);
        memset(value, 'x', sizeof value);
        memcpy(value + n, "\n\x02\xE2\x82\xAC", 6);
        CHECK(dcp_json_add_string(json, NULL, value) != NULL);
        check_round_trip(json, 0);
        dcp_json_free(json);
    }
    CHECK_INT(alloc_live, 0);
}

/* ---- memory runs out --------------------------------------------------------------------------------------------- */
static void check_failing_parse(const char *text, size_t size) {
    long n;
    for (n = 0; ; n++) {
        dcp_json *json;
        dcp_error err;
        dcp_status status;
        alloc_countdown = n;
        status = parse_bytes(text, size, &json, &err);
        alloc_countdown = -1;
        if (status == DCP_OK) { dcp_json_free(json); break; }
        CHECK_INT(status, DCP_E_MEMORY);
        CHECK_INT(err.status, DCP_E_MEMORY);
        CHECK(strstr(err.message, "out of memory: could not allocate ") != NULL && !strstr(err.message, " 0 bytes"));
        CHECK(json == NULL);
        CHECK_INT(alloc_live, 0);
    }
    CHECK(n > 2);
    CHECK_INT(alloc_live, 0);
}
static void check_failing_skip(const char *text, size_t size) {
    long n;
    for (n = 0; ; n++) {
        dcp_error err;
        dcp_status status;
        alloc_countdown = n;
        status = skip_bytes(text, size, &err);
        alloc_countdown = -1;
        CHECK_INT(alloc_live, 0);
        if (status == DCP_OK) break;
        CHECK_INT(status, DCP_E_MEMORY);
        CHECK_INT(err.status, DCP_E_MEMORY);
    }
    CHECK(n > 1);
}
TEST(memory_fails_reading) {
    blob b = many_members(2000, NULL);
    check_failing_parse(rich, sizeof rich - 1);
    check_failing_skip(rich, sizeof rich - 1);
    check_failing_parse(b.bytes, b.size);
    check_failing_skip(b.bytes, b.size);
    free(b.bytes);
    b = many_members(20, NULL);                              /* enough to be sorted, few enough to fail at each piece */
    alloc_arena = 1;
    check_failing_parse(rich, sizeof rich - 1);
    check_failing_skip(rich, sizeof rich - 1);
    check_failing_parse(b.bytes, b.size);
    alloc_arena = 1024 * 1024;
    free(b.bytes);
}
TEST(memory_fails_building) {
    long n;
    dcp_json *json = NULL;
    alloc_arena = 1;
    for (n = 0; !json; n++) {
        alloc_countdown = n;
        json = build_rich();
        alloc_countdown = -1;
        if (!json) CHECK_INT(alloc_live, 0);
    }
    alloc_arena = 1024 * 1024;
    CHECK(n > 20);
    check_round_trip(json, 0);
    dcp_json_free(json);
    CHECK_INT(alloc_live, 0);
}
TEST(memory_fails_writing) {
    dcp_json *json = build_rich();
    long n, before = alloc_live;
    for (n = 0; ; n++) {
        char *text = NULL;
        size_t size = 1;
        dcp_error err;
        dcp_status status;
        alloc_countdown = n;
        status = dcp_json_write(json, 2, &text, &size, &err);
        alloc_countdown = -1;
        if (status == DCP_OK) { dcp_free(text); break; }
        CHECK_INT(status, DCP_E_MEMORY);
        CHECK_INT(err.status, DCP_E_MEMORY);
        CHECK(!text && size == 0);
        CHECK_INT(alloc_live, before);
    }
    CHECK(n > 1);
    CHECK_INT(alloc_live, before);
    dcp_json_free(json);
}
/* A builder goes on after a failed call: the tree is what it was. */
TEST(memory_fails_in_between) {
    dcp_json *json = dcp_json_new_object(NULL);
    char key[64];
    int i, failures = 0;
    for (i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof key, "a key that is quite long, so that memory is needed %d", i);
        alloc_countdown = i % 2 ? -1 : 0;
        if (!dcp_json_add_int(json, key, i)) {
            failures++;
            alloc_countdown = -1;
            CHECK_INT(dcp_json_count(json), i);
            CHECK(dcp_json_add_int(json, key, i) != NULL);
        }
    }
    alloc_countdown = -1;
    CHECK(failures > 3);
    CHECK_INT(dcp_json_count(json), 2000);
    for (i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof key, "a key that is quite long, so that memory is needed %d", i);
        CHECK(dcp_json_get(json, key) == dcp_json_at(json, (size_t)i));
    }
    dcp_json_free(json);
    CHECK_INT(alloc_live, 0);
}
TEST(memory_in_proportion) {                            /* about 100 bytes a value beside the text, as dcp.h says */
    dcp_json *json;
    dcpi_arena_block *block;
    size_t total = 0, values = 200000, i;
    char *text = (char *)malloc(2 * values + 1);
    CHECK(text != NULL);
    for (i = 0; i < values; i++) { text[2 * i] = i ? ',' : '['; text[2 * i + 1] = '0'; }
    text[2 * values] = ']';
    CHECK_OK(parse_bytes(text, 2 * values + 1, &json, NULL));
    for (block = json->arena->head; block; block = block->next) total += block->capacity;
    CHECK(total < 160 * values);
    dcp_json_free(json);
    free(text);
}
TEST(arena_text_is_packed) {
    dcpi_arena arena = { NULL };
    int i;
    char text[40];
    CHECK_STR(dcpi_arena_text(&arena, "", 0, NULL), "");
    for (i = 0; i < 3000; i++) {
        uint64_t *numbers;
        char *copy;
        size_t n = (size_t)(i % 37);
        memset(text, 'a' + i % 26, n);
        text[n] = '\0';
        copy = dcpi_arena_text(&arena, text, n, NULL);
        CHECK_STR(copy, text);
        if (i % 3) continue;
        numbers = (uint64_t *)dcpi_arena_alloc(&arena, n + 1, NULL);
        CHECK(((uintptr_t)numbers & 15) == 0 || sizeof(void *) == 4);     /* malloc itself may align to 8 there */
        CHECK(((uintptr_t)numbers & 7) == 0);
        memset(numbers, 0xAA, n + 1);
        CHECK_STR(copy, text);
    }
    dcpi_arena_free(&arena);
    CHECK(!dcpi_arena_alloc(&arena, SIZE_MAX, NULL) && !dcpi_arena_alloc(&arena, SIZE_MAX - 40, NULL));
    CHECK(!dcpi_arena_text(&arena, "", SIZE_MAX, NULL));
    CHECK_INT(alloc_live, 0);
}

/* ---- the pull reader with a schema ------------------------------------------------------------------------------- */
typedef struct {
    char name[64], type[16], raw[200];
    int64_t shape[4], offset;
    double rate;
    int dims, flag, nulls, unknown;
} record;
enum { NAME, SHAPE, TYPE, OFFSET, RATE, FLAG, RAW };
static const char *const record_names[] = { "name", "shape", "dataType", "offset", "rate", "flag", "raw" };

static void keep(char *to, size_t capacity, dcpi_json_span span) {
    if (span.length >= capacity) span.length = capacity - 1;
    memcpy(to, span.text, span.length);
    to[span.length] = '\0';
}
static int pull_shape(dcpi_json_reader *r, record *out) {
    int64_t count, value;
    int ok = dcpi_json_array(r, &count);
    while (ok && dcpi_json_item(r, &count)) {
        ok = dcpi_json_int64(r, &value);
        if (ok && out->dims < 4) out->shape[out->dims++] = value;
    }
    return ok && !r->status;
}
static int pull_member(dcpi_json_reader *r, int member, record *out) {
    dcpi_json_span span;
    const char *text = NULL;
    if (dcpi_json_null(r)) { out->nulls++; return 1; }
    if (r->status) return 0;
    switch (member) {
    case NAME:   if (!dcpi_json_string(r, &span)) return 0; keep(out->name, sizeof out->name, span); return 1;
    case TYPE:
        if (!dcpi_json_text(r, &text)) return 0;
        (void)snprintf(out->type, sizeof out->type, "%s", text);
        return 1;
    case RAW:    if (!dcpi_json_skip(r, &span)) return 0; keep(out->raw, sizeof out->raw, span); return 1;
    case SHAPE:  return pull_shape(r, out);
    case OFFSET: return dcpi_json_int64(r, &out->offset);
    case RATE:   return dcpi_json_real(r, &out->rate);
    case FLAG:   return dcpi_json_boolean(r, &out->flag);
    default:     out->unknown++; return dcpi_json_skip(r, NULL);
    }
}
static dcp_status pull(const char *text, record *out, dcp_error *err) {
    blob b = blob_of(text, strlen(text));
    dcpi_arena arena = { NULL };
    dcpi_json_reader r;
    dcpi_json_object o;
    int ok;
    memset(out, 0, sizeof *out);
    dcpi_json_begin(&r, b.bytes, b.size, &arena, err);
    ok = dcpi_json_object_begin(&r, &o, record_names, (int)DCPI_COUNT(record_names));
    while (ok && dcpi_json_member(&r, &o)) ok = pull_member(&r, o.member, out);
    if (ok) (void)dcpi_json_end(&r);
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    free(b.bytes);
    return r.status;
}
static void check_pulled(const char *text) {
    record got;
    dcp_error err;
    CHECK_OK_MESSAGE(pull(text, &got, &err), err.message);
    CHECK_STR(got.name, "w.0");
    CHECK_STR(got.type, "bf16");
    CHECK_STR(got.raw, "{ \"x\" : [1, 2 ] }");
    CHECK_INT(got.dims, 2);
    CHECK(got.shape[0] == 4096 && got.shape[1] == 8 && got.offset == INT64_C(33554432000) && got.rate == 0.25 &&
          got.flag == 1);
}
TEST(pull_in_any_order) {
    check_pulled("{\"name\":\"w.0\",\"shape\":[4096,8],\"dataType\":\"bf16\",\"offset\":33554432000,\"rate\":0.25,"
                 "\"flag\":true,\"raw\":{ \"x\" : [1, 2 ] }}");
    check_pulled(
            "{\"raw\":{ \"x\" : [1, 2 ] },\"flag\":true,\"rate\":25e-2,\"offset\":33554432000,\"dataType\":\"bf16\","
            "\"shape\":[4096,8],\"name\":\"w.0\"}");
    check_pulled(" {\n  \"name\" : \"w\\u002e0\" ,\n  \"shape\"\t:\r\n[ 4096 , 8 ] , \"dataTyp\\u0065\": "
                 "\"b\\u0066\\u00316\",\n" "          \"offset\":\n33554432000\n,"
                 "\"rate\" :0.25, \"flag\": true,            \"raw\"       :  { \"x\" : [1, 2 ] }\n}\n\n");
    check_pulled(
            "{\"nam\":1,\"name\":\"w.0\",\"names\":2,\"shape\":[4096,8],\"\":0,\"dataType\":\"bf16\","
            "\"offset\":33554432000,\"rate\":0.25,\"flag\":true,\"raw\":{ \"x\" : [1, 2 ] },\"ra\":[{}]}");
}
TEST(pull_nulls_and_unknown) {
    record got;
    dcp_error err;
    CHECK_OK(pull("{\"name\":null,\"shape\":null,\"x\":{\"name\":1,\"y\":2},\"offset\":null,\"y\":[]}", &got, &err));
    CHECK(got.nulls == 3 && got.unknown == 2);
    CHECK_OK(pull("{}", &got, &err));
}
TEST(pull_refusals) {
    static const refusal cases[] = {
        { "[]", "line 1, column 1 (byte 0): expected an object, found '['" },
        { "", "line 1, column 1 (byte 0): expected an object, found the end" },
        { "{\"name\":1}", "line 1, column 9 (byte 8): expected a string, found '1'" },
        { "{\"name\":\"a\",\"name\":\"b\"}", "line 1, column 13 (byte 12): duplicate key \"name\"" },
        { "{\"name\":\"a\",\"n\\u0061me\":\"b\"}", "line 1, column 13 (byte 12): duplicate key \"name\"" },
        { "{\"rate\":1,\"name\":\"a\",\"rate\":2}", "line 1, column 22 (byte 21): duplicate key \"rate\"" },
        { "{\"name\":null,\"name\":\"b\"}", "line 1, column 14 (byte 13): duplicate key \"name\"" },
        { "{\"x\":1,\"name\":\"a\",\"x\":{}}", "line 1, column 19 (byte 18): duplicate key \"x\"" },
        { "{\"x\":{\"y\":1,\"y\":2}}", "line 1, column 13 (byte 12): duplicate key \"y\"" },
        { "{\"shape\":{}}", "line 1, column 10 (byte 9): expected an array, found '{'" },
        { "{\"shape\":[1.0]}", "line 1, column 11 (byte 10): expected an integer, found 1.0" },
        { "{\"shape\":[1,]}", "line 1, column 13 (byte 12): a comma before ']'" },
        { "{\"offset\":nul}", "line 1, column 11 (byte 10): expected a value, found 'n'" },
        { "{\"offset\":9223372036854775808}", "(byte 10): the integer 9223372036854775808 does not fit 64 bits" },
        { "{\"rate\":1e999}", "(byte 8): the number 1e999 is out of range for a double" },
        { "{\"rate\":\"1\"}", "(byte 8): expected a number, found '\"'" },
        { "{\"flag\":0}", "(byte 8): expected true or false" },
        { "{\"flag\":tru}", "(byte 8): expected a value, found 't'" },
        { "{\"name\"", "line 1, column 8 (byte 7): expected ':' after a member name, found the end" },
        { "{\"name", "line 1, column 7 (byte 6): the text ends inside a string" },
        { "{\"name\":\"a\"", "line 1, column 12 (byte 11): expected ',' or '}' in an object, found the end" },
        { "{} 1", "(byte 3): the document has ended, but '1' follows" }
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(cases); i++) {
        record got;
        dcp_error err;
        CHECK_INT(pull(cases[i].text, &got, &err), DCP_E_FORMAT);
        if (!strstr(err.message, cases[i].message)) test_fail(__FILE__, __LINE__, cases[i].message, err.message);
    }
    CHECK_INT(alloc_live, 0);
}
TEST(pull_damaged) {
    static const char text[] = "{\"name\":\"w.0\",\"shape\":[4096,8],\"dataType\":\"bf\\u0031\","
                               "\"offset\":33554432000,\"rate\":0.25,\"flag\":true,\"raw\":{\"x\":[1]},\"z\":1}";
    size_t size = sizeof text - 1, at;
    int byte;
    record got;
    dcp_error err;
    char damaged[sizeof text];
    CHECK_OK(pull(text, &got, &err));
    for (at = 0; at < size; at++) {
        memcpy(damaged, text, at);
        damaged[at] = '\0';
        CHECK_INT(pull(damaged, &got, &err), DCP_E_FORMAT);
        for (byte = 1; byte < 256; byte++) {
            memcpy(damaged, text, sizeof text);
            damaged[at] = (char)byte;
            (void)pull(damaged, &got, &err);
        }
    }
    CHECK_INT(alloc_live, 0);
}
/* The first failure stays, and every call after it fails without moving. */
TEST(pull_after_failure) {
    static const char text[] = "[1,x,2,\"a\",true,null,{\"a\":1}]";
    dcpi_arena arena = { NULL };
    dcpi_json_reader r;
    dcpi_json_span span;
    dcpi_json_object o;
    dcp_error err;
    int64_t count, value;
    double real;
    int flag;
    const char *at, *copy;
    dcpi_json_begin(&r, text, sizeof text - 1, &arena, &err);
    CHECK(dcpi_json_array(&r, &count) && dcpi_json_item(&r, &count) && dcpi_json_int64(&r, &value) &&
          dcpi_json_item(&r, &count));
    CHECK(!dcpi_json_int64(&r, &value));
    CHECK_STR(err.message, "line 1, column 4 (byte 3): expected a number, found 'x'");
    r.at = at = strchr(text, '2');                      /* even where there would be one */
    CHECK(!dcpi_json_int64(&r, &value) && !dcpi_json_real(&r, &real) && !dcpi_json_skip(&r, &span) &&
          !dcpi_json_peek(&r));
    CHECK(!dcpi_json_string(&r, &span) && !dcpi_json_text(&r, &copy) && !dcpi_json_boolean(&r, &flag) &&
          !dcpi_json_null(&r));
    CHECK(!dcpi_json_array(&r, &count) && !dcpi_json_item(&r, &count));
    CHECK(!dcpi_json_object_begin(&r, &o, NULL, 0) && !dcpi_json_member(&r, &o) && !dcpi_json_end(&r));
    CHECK(r.at == at && r.status == DCP_E_FORMAT);
    CHECK_STR(err.message, "line 1, column 4 (byte 3): expected a number, found 'x'");
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
}

/* What a failed test has left behind is not the next one's fault. */
#define RUN_CLEAN(name) do { alloc_live = 0; alloc_countdown = -1; RUN(name); } while (0)

int main(void) {
    RUN_CLEAN(suite_parsing);
    RUN_CLEAN(suite_transform);
    RUN_CLEAN(integers);
    RUN_CLEAN(integers_pulled);
    RUN_CLEAN(doubles_hard);
    RUN_CLEAN(doubles_halfway);
    RUN_CLEAN(doubles_random);
    RUN_CLEAN(doubles_like_strtod);
    RUN_CLEAN(doubles_written);
    RUN_CLEAN(locale_comma);
    RUN_CLEAN(refusals_with_place);
    RUN_CLEAN(refusals_nul_and_null);
    RUN_CLEAN(refusals_long_number);
    RUN_CLEAN(refusals_long_key);
    RUN_CLEAN(strings_accepted);
    RUN_CLEAN(strings_every_byte);
    RUN_CLEAN(duplicate_keys);
    RUN_CLEAN(members_unknown_100000);
    RUN_CLEAN(members_looked_up);
    RUN_CLEAN(members_built_50000);
    RUN_CLEAN(depth_limit);
    RUN_CLEAN(damage_truncated);
    RUN_CLEAN(damage_mutated);
    RUN_CLEAN(damage_spliced);
    RUN_CLEAN(accessors_of_null);
    RUN_CLEAN(accessors_chained);
    RUN_CLEAN(builder);
    RUN_CLEAN(builder_indent);
    RUN_CLEAN(builder_refuses);
    RUN_CLEAN(builder_depth);
    RUN_CLEAN(builder_on_parsed);
    RUN_CLEAN(writer_refuses);
    RUN_CLEAN(writer_buffer_edges);
    RUN_CLEAN(memory_fails_reading);
    RUN_CLEAN(memory_fails_building);
    RUN_CLEAN(memory_fails_writing);
    RUN_CLEAN(memory_fails_in_between);
    RUN_CLEAN(memory_in_proportion);
    RUN_CLEAN(arena_text_is_packed);
    RUN_CLEAN(pull_in_any_order);
    RUN_CLEAN(pull_nulls_and_unknown);
    RUN_CLEAN(pull_refusals);
    RUN_CLEAN(pull_damaged);
    RUN_CLEAN(pull_after_failure);
    return test_finish();
}
