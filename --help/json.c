/* =====================================================================================================================
 * >>json        Numbers, a pull reader, a writer, and a tree built on the reader. Strict RFC 8259, and the locale never
 *               matters.
 * ================================================================================================================== */

/* ---- numbers: exact, by big integers; doubles are rare in our documents, so simple beats fast -------------------- */
#define DCPI_BIG_LIMBS 168              /* 5,376 bits: 800 digits over 10^1142, and 64 bits of quotient */
#define DCPI_BIG_DIGITS 800             /* more digits cannot change a double but by not being zero */
typedef struct dcpi_big { int count; uint32_t limb[DCPI_BIG_LIMBS]; } dcpi_big;

static void dcpi_big_set(dcpi_big *a, uint64_t value) {
    a->limb[0] = (uint32_t)value;
    a->limb[1] = (uint32_t)(value >> 32);
    a->count = a->limb[1] ? 2 : a->limb[0] ? 1 : 0;
}
static void dcpi_big_multiply(dcpi_big *a, uint32_t factor, uint32_t addend) {
    uint64_t carry = addend;
    int i;
    for (i = 0; i < a->count; i++) {
        carry += (uint64_t)a->limb[i] * factor;
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && a->count < DCPI_BIG_LIMBS) a->limb[a->count++] = (uint32_t)carry;
}
static void dcpi_big_power10(dcpi_big *a, int power) {
    for (; power >= 9; power -= 9) dcpi_big_multiply(a, 1000000000u, 0);
    for (; power > 0; power--) dcpi_big_multiply(a, 10, 0);
}
static int dcpi_big_bits(const dcpi_big *a) {
    uint32_t top = a->count ? a->limb[a->count - 1] : 0;
    int bits = a->count ? (a->count - 1) * 32 : 0;
    for (; top; top >>= 1) bits++;
    return bits;
}
static void dcpi_big_shift(dcpi_big *a, int bits) {     /* left */
    int limbs = bits / 32, i;
    bits %= 32;
    if (a->count == 0) return;
    if (a->count + limbs >= DCPI_BIG_LIMBS) return;     /* cannot happen with the sizes above */
    memmove(a->limb + limbs, a->limb, (size_t)a->count * sizeof a->limb[0]);
    memset(a->limb, 0, (size_t)limbs * sizeof a->limb[0]);
    a->count += limbs;
    if (bits == 0) return;
    a->limb[a->count] = 0;
    for (i = a->count; i > limbs; i--) a->limb[i] = (a->limb[i] << bits) | (a->limb[i - 1] >> (32 - bits));
    a->limb[limbs] <<= bits;
    if (a->limb[a->count]) a->count++;
}
static void dcpi_big_halve(dcpi_big *a) {
    int i;
    for (i = 0; i < a->count; i++) a->limb[i] = (a->limb[i] >> 1) | (i + 1 < a->count ? a->limb[i + 1] << 31 : 0);
    if (a->count && a->limb[a->count - 1] == 0) a->count--;
}
static int dcpi_big_compare(const dcpi_big *a, const dcpi_big *b) {
    int i;
    if (a->count != b->count) return a->count < b->count ? -1 : 1;
    for (i = a->count - 1; i >= 0; i--) if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}
static void dcpi_big_subtract(dcpi_big *a, const dcpi_big *b) {          /* a >= b */
    uint64_t borrow = 0;
    int i;
    for (i = 0; i < a->count; i++) {
        uint64_t take = (i < b->count ? b->limb[i] : 0) + borrow;
        borrow = a->limb[i] < take;
        a->limb[i] = (uint32_t)(a->limb[i] - take);
    }
    while (a->count && a->limb[a->count - 1] == 0) a->count--;
}
/* The quotient, below 2^64; *a becomes the remainder. */
static uint64_t dcpi_big_divide(dcpi_big *a, dcpi_big *b) {
    int shift = dcpi_big_bits(a) - dcpi_big_bits(b);
    uint64_t quotient = 0;
    if (shift < 0) return 0;
    dcpi_big_shift(b, shift);
    for (; shift >= 0; shift--) {
        quotient <<= 1;
        if (dcpi_big_compare(a, b) >= 0) {
            dcpi_big_subtract(a, b);
            quotient |= 1;
        }
        if (shift > 0) dcpi_big_halve(b);
    }
    return quotient;
}
static double dcpi_double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static uint64_t dcpi_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static int dcpi_double_is_finite(double value) { return (dcpi_double_bits(value) >> 52 & 0x7FF) != 0x7FF; }

/* mantissa * 2^exponent and a little more if sticky, rounded to the nearest double, ties to even. The top bit is set.
 * 0: overflow. */
static int dcpi_double_round(uint64_t mantissa, int exponent, int sticky, uint64_t *bits) {
    int drop = 11, biased = exponent + 63 + 1023;
    uint64_t kept, half, rest;
    if (biased <= 0) { drop += 1 - biased; biased = 0; }                /* subnormal: fewer bits */
    if (drop > 64) { *bits = 0; return 1; }
    kept = drop == 64 ? 0 : mantissa >> drop;
    half = (uint64_t)1 << (drop - 1);
    rest = drop == 64 ? mantissa : mantissa & (((uint64_t)1 << drop) - 1);
    if (rest > half || (rest == half && (sticky || (kept & 1)))) kept++;
    /* the hidden bit adds the last one; a carry moves on by itself */
    if (biased > 0) kept += ((uint64_t)(biased - 1)) << 52;
    *bits = kept;
    return kept >> 52 < 0x7FF;
}
/* A decimal number, taken apart: digits * 10^exponent, and whether nonzero digits beyond DCPI_BIG_DIGITS were cut
 * off. */
typedef struct dcpi_decimal { dcpi_big digits; int count, exponent, is_cut; } dcpi_decimal;

static size_t dcpi_decimal_digits(dcpi_decimal *d, const char *text, size_t length, size_t at) {
    int after_point = 0;
    for (; at < length && (text[at] == '.' || (text[at] >= '0' && text[at] <= '9')); at++) {
        uint32_t digit = (uint32_t)(text[at] - '0');
        if (text[at] == '.') { after_point = 1; continue; }
        if (after_point && d->exponent > -100000000) d->exponent--;
        if (d->count == 0 && digit == 0) continue;
        if (d->count == DCPI_BIG_DIGITS) {
            d->is_cut |= digit != 0;
            if (d->exponent < 100000000) d->exponent++;
            continue;
        }
        if (d->count++ == 0) dcpi_big_set(&d->digits, digit);
        else dcpi_big_multiply(&d->digits, 10, digit);
    }
    return at;
}
static void dcpi_decimal_exponent(dcpi_decimal *d, const char *text, size_t length, size_t at) {
    /* text[at] is behind the 'e' */
    int sign = 1, written = 0;
    if (text[at] == '+' || text[at] == '-') sign = text[at++] == '-' ? -1 : 1;
    for (; at < length; at++) if (written < 100000000) written = written * 10 + (text[at] - '0');
    d->exponent += sign * written;
}
/* The nearest double's bits. The quotient digits / 10^-exponent is scaled by a power of two to exactly 64 bits. 0:
 * overflow. */
static int dcpi_decimal_bits(dcpi_decimal *d, uint64_t *bits) {
    dcpi_big denominator;
    uint64_t quotient;
    int scale;
    *bits = 0;
    if (d->count == 0 || d->exponent + d->count < -330) return 1;
    if (d->exponent + d->count > 310) return 0;
    dcpi_big_set(&denominator, 1);
    dcpi_big_power10(d->exponent >= 0 ? &d->digits : &denominator, d->exponent >= 0 ? d->exponent : -d->exponent);
    scale = 63 - (dcpi_big_bits(&d->digits) - dcpi_big_bits(&denominator));
    dcpi_big_shift(scale >= 0 ? &d->digits : &denominator, scale >= 0 ? scale : -scale);
    quotient = dcpi_big_divide(&d->digits, &denominator);
    if (!(quotient >> 63)) {                            /* 63 bits: the last one comes out of the remainder */
        dcpi_big_shift(&d->digits, 1);
        scale++;
        quotient <<= 1;
        if (dcpi_big_compare(&d->digits, &denominator) >= 0) {
            dcpi_big_subtract(&d->digits, &denominator);
            quotient |= 1;
        }
    }
    return dcpi_double_round(quotient, -scale, d->is_cut || d->digits.count > 0, bits);
}
/* text: a number of JSON's grammar. 0: beyond the doubles. */
static int dcpi_double_parse(const char *text, size_t length, double *value) {
    dcpi_decimal d;
    uint64_t bits;
    int negative = text[0] == '-';
    size_t at;
    d.count = d.exponent = d.is_cut = 0;
    at = dcpi_decimal_digits(&d, text, length, (size_t)negative);
    if (at < length) dcpi_decimal_exponent(&d, text, length, at + 1);
    if (!dcpi_decimal_bits(&d, &bits)) return 0;
    *value = dcpi_double_of_bits(bits | (uint64_t)negative << 63);
    return 1;
}
/* The `digits` most significant decimal digits of a positive finite double, correctly rounded; *exponent is of the
 * first. */
static uint64_t dcpi_double_digits(double value, int digits, int *exponent) {
    uint64_t bits = dcpi_double_bits(value), mantissa = bits & (((uint64_t)1 << 52) - 1), quotient, limit = 1;
    int power = (int)(bits >> 52 & 0x7FF), scale, i;
    dcpi_big numerator, denominator;
    if (power) mantissa |= (uint64_t)1 << 52;
    else power = 1;
    power -= 1075;
    for (i = 0; i < digits; i++) limit *= 10;
    dcpi_big_set(&numerator, mantissa);
    /* Rounded down; may be one too low. */
    *exponent = (int)((double)(dcpi_big_bits(&numerator) - 1 + power) * 0.30102999566398120 + 400.0) - 400;
    for (;; ++*exponent) {
        dcpi_big_set(&numerator, mantissa);
        dcpi_big_set(&denominator, 1);
        scale = digits - 1 - *exponent;
        dcpi_big_power10(scale >= 0 ? &numerator : &denominator, scale >= 0 ? scale : -scale);
        dcpi_big_shift(power >= 0 ? &numerator : &denominator, power >= 0 ? power : -power);
        quotient = dcpi_big_divide(&numerator, &denominator);
        if (quotient >= limit) continue;                /* the estimate was one too low */
        dcpi_big_shift(&numerator, 1);             /* twice the remainder against the denominator: round half to even */
        scale = dcpi_big_compare(&numerator, &denominator);
        if (scale > 0 || (scale == 0 && (quotient & 1))) quotient++;
        if (quotient < limit) return quotient;          /* else 9...9 became 10...0: one digit more, so once again */
    }
}
/* The shortest text that reads back as the same double; always with a point or an exponent, so that it stays a double.
 * What has up to 15 digits comes back from 15, with zeros behind it; but a subnormal double may have fewer digits than
 * that in all. */
static void dcpi_double_text(double value, char text[32]) {
    char digits[24], *at = text;
    int count, exponent = 0, i, negative = dcpi_double_bits(value) >> 63 != 0;
    double positive = negative ? -value : value;
    if (negative) *at++ = '-';
    if (positive == 0) { memcpy(at, "0.0", 4); return; }
    for (count = dcpi_double_bits(positive) >> 52 ? 15 : 1; count <= 17; count++) {
        char sample[40];
        double back;
        uint64_t number = dcpi_double_digits(positive, count, &exponent);
        (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
        (void)snprintf(sample, sizeof sample, "%se%d", digits, exponent - (count - 1));
        if (dcpi_double_parse(sample, strlen(sample), &back) && back == positive) break;
    }
    for (count = (int)strlen(digits); count > 1 && digits[count - 1] == '0'; count--) digits[count - 1] = '\0';
    if (exponent < -5 || exponent > 20) {               /* d.ddde-07 */
        *at++ = digits[0];
        if (count > 1) *at++ = '.';
        memcpy(at, digits + 1, (size_t)count - 1);
        (void)snprintf(at + count - 1, 8, "e%d", exponent);
        return;
    }
    if (exponent < 0) {                                 /* 0.000ddd */
        *at++ = '0';
        *at++ = '.';
        for (i = -1; i > exponent; i--) *at++ = '0';
        memcpy(at, digits, (size_t)count + 1);
        return;
    }
    for (i = 0; i < count || i <= exponent; i++) {      /* ddd.ddd, ddd000.0 */
        *at++ = i < count ? digits[i] : '0';
        if (i == exponent) *at++ = '.';
    }
    if (at[-1] == '.') *at++ = '0';
    *at = '\0';
}

/* ---- pull reader: the caller asks for what its schema expects, and copies it straight into its structs ----------- */
/* for messages; line and column from 1 */
typedef struct dcpi_json_place { int64_t line, column, byte; } dcpi_json_place;
static void dcpi_text_place(const char *start, const char *at, dcpi_json_place *out) {
    const char *c, *line_start = start;
    out->line = 1;
    for (c = start; c < at; c++) if (*c == '\n') { out->line++; line_start = c + 1; }
    out->column = (int64_t)(at - line_start) + 1;
    out->byte = (int64_t)(at - start);
}
typedef void (*dcpi_json_place_fn)(void *user, size_t offset, dcpi_json_place *out);

typedef struct dcpi_json_span { const char *text; size_t length; } dcpi_json_span;
typedef struct dcpi_json_reader {
    const char *start, *at, *end;
    dcpi_arena *arena;                                  /* for strings with escapes, and copies */
    /* finite: numbers that are skipped must not be beyond the doubles either */
    int depth, finite;
    dcp_status status;                                  /* the first failure; all later calls fail at once */
    dcp_error *err;
    dcpi_json_span *keys; size_t key_count, key_capacity;       /* unknown members of the objects that are open now */
    /* where the text was made from, for messages; NULL: the text itself is the document */
    dcpi_json_place_fn place; void *place_user;
} dcpi_json_reader;
typedef struct dcpi_json_object {                       /* one open object, on the caller's stack */
    const char *const *names; int name_count;           /* members that the schema knows, at most 64 */
    uint64_t seen;
    int member;                                         /* the current one: index in names, or -1 */
    dcpi_json_span key; const char *key_at;             /* its key, unescaped; where it stands */
    size_t first_key; int count;
} dcpi_json_object;

static int dcpi_json_fail(dcpi_json_reader *r, const char *at, const char *format, ...) DCPI_PRINTF(3, 4);
static int dcpi_json_fail(dcpi_json_reader *r, const char *at, const char *format, ...) {       /* always 0 */
    char reason[300];
    dcpi_json_place place;
    va_list arguments;
    if (r->status) return 0;
    if (r->place) r->place(r->place_user, (size_t)(at - r->start), &place);
    else dcpi_text_place(r->start, at, &place);
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    r->status = dcpi_fail(r->err, DCP_E_FORMAT, "line %" PRId64 ", column %" PRId64 " (byte %" PRId64 "): %s",
                          place.line, place.column, place.byte, reason);
    return 0;
}
static int dcpi_json_no_memory(dcpi_json_reader *r) {    /* whoever failed may have said how much it was */
    if (!r->status && r->err && r->err->status != DCP_E_MEMORY) (void)dcpi_fail(r->err, DCP_E_MEMORY, "out of memory");
    if (!r->status) r->status = DCP_E_MEMORY;
    return 0;
}
static const char *dcpi_json_found(const dcpi_json_reader *r, char text[16]) {     /* what stands there, for messages */
    if (r->at == r->end) return "the end";
    if (*r->at < 0x20 || *r->at >= 0x7F) (void)snprintf(text, 16, "byte 0x%02X", (unsigned)(unsigned char)*r->at);
    else (void)snprintf(text, 16, "'%c'", *r->at);
    return text;
}
static void dcpi_json_begin(dcpi_json_reader *r, const char *text, size_t size, dcpi_arena *arena, dcp_error *err) {
    memset(r, 0, sizeof *r);
    r->start = r->at = text;
    r->end = text + size;
    r->arena = arena;
    r->err = err;
    (void)dcpi_succeed(err);
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        (void)dcpi_json_fail(r, text, "a byte order mark stands before the document; JSON has none");
}
static void dcpi_json_close(dcpi_json_reader *r) {
    dcpi_free(r->keys);
    r->keys = NULL;
}
static void dcpi_json_space(dcpi_json_reader *r) {
    const char *at = r->at, *end = r->end;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at += end - at >= 8 && memcmp(at, "        ", 8) == 0 ? 8 : 1;  /* lines are indented */
    r->at = at;
}
/* The first character of the next value; '\0' at the end or after a failure. */
static char dcpi_json_peek(dcpi_json_reader *r) {
    if (r->status) return '\0';
    if (r->at < r->end && (unsigned char)*r->at > ' ') return *r->at;
    dcpi_json_space(r);
    return r->at < r->end ? *r->at : '\0';
}
static int dcpi_json_expect(dcpi_json_reader *r, char wanted, const char *where) {
    char found[16];
    if (dcpi_json_peek(r) == wanted && r->at < r->end) { r->at++; return 1; }
    return dcpi_json_fail(r, r->at, "expected '%c' %s, found %s", wanted, where, dcpi_json_found(r, found));
}
static int dcpi_json_word(dcpi_json_reader *r, const char *word) {
    size_t n = strlen(word);
    char found[16];
    if ((size_t)(r->end - r->at) >= n && memcmp(r->at, word, n) == 0) { r->at += n; return 1; }
    return dcpi_json_fail(r, r->at, "expected a value, found %s", dcpi_json_found(r, found));
}
/* Consumes a null; 0 where the value is another one. */
static int dcpi_json_null(dcpi_json_reader *r) { return dcpi_json_peek(r) == 'n' && dcpi_json_word(r, "null"); }
static int dcpi_json_boolean(dcpi_json_reader *r, int *value) {
    *value = dcpi_json_peek(r) == 't';
    if (*value) return dcpi_json_word(r, "true");
    if (!r->status && dcpi_json_peek(r) != 'f') return dcpi_json_fail(r, r->at, "expected true or false");
    return !r->status && dcpi_json_word(r, "false");
}

/* -- strings -- */
/* Nonzero where one of eight bytes ends the plain run of a string: a quote, a backslash, a control character, or the
 * start of a longer UTF-8 character. On a little-endian machine the lowest bit is in the first of them; higher ones may
 * come of a borrow. */
static uint64_t dcpi_json_specials(const char *eight) {
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t v, quote, backslash;
    memcpy(&v, eight, sizeof v);
    quote = v ^ (ones * '"');
    backslash = v ^ (ones * '\\');
    return ((v - ones * 0x20) | (quote - ones) | (backslash - ones) | v) & high;
}
static int dcpi_json_is_special(const char *eight) { return dcpi_json_specials(eight) != 0; }
/* The first byte from `at` on that is special, or the end. */
static const char *dcpi_json_plain_end(const char *at, const char *end) {
    uint64_t found = 0;
    while (end - at >= 8 && (found = dcpi_json_specials(at)) == 0) at += 8;
#if DCPI_GNUC && !DCPI_BIG_ENDIAN
    if (found) return at + (__builtin_ctzll(found) >> 3);
#else
    (void)found;
#endif
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}
static int dcpi_json_hex4(dcpi_json_reader *r, const char *at, unsigned *value) {
    int i;
    *value = 0;
    for (i = 0; i < 4; i++) {
        int digit = r->end - at > i ? dcpi_hex_value(at[i]) : -1;
        if (digit < 0) return dcpi_json_fail(r, at, "\\u needs four hexadecimal digits");
        *value = *value * 16 + (unsigned)digit;
    }
    return 1;
}
static size_t dcpi_utf8_encode(unsigned c, char *to) {
    if (c < 0x80) { to[0] = (char)c; return 1; }
    if (c < 0x800) { to[0] = (char)(0xC0 | c >> 6); to[1] = (char)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | c >> 18); to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63)); to[3] = (char)(0x80 | (c & 63));
    return 4;
}
/* r->at is behind \u. Appends the character, of two escapes where it is a surrogate pair. */
static int dcpi_json_unicode(dcpi_json_reader *r, char **to) {
    unsigned c, low;
    if (!dcpi_json_hex4(r, r->at, &c)) return 0;
    if (c == 0) return dcpi_json_fail(r, r->at - 2, "the character NUL is not accepted in a string");
    if (c >= 0xDC00 && c <= 0xDFFF) return dcpi_json_fail(r, r->at - 2, "a low surrogate without its high one");
    r->at += 4;
    if (c >= 0xD800 && c <= 0xDBFF) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return dcpi_json_fail(r, r->at, "a high surrogate without its low one");
        if (!dcpi_json_hex4(r, r->at + 2, &low)) return 0;
        if (low < 0xDC00 || low > 0xDFFF) return dcpi_json_fail(r, r->at, "a high surrogate without its low one");
        r->at += 6;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    *to += dcpi_utf8_encode(c, *to);
    return 1;
}
static int dcpi_json_escape(dcpi_json_reader *r, char **to) {            /* r->at is behind the backslash */
    static const char from[] = "\"\\/bfnrt", what[] = "\"\\/\b\f\n\r\t";
    const char *found;
    if (r->at == r->end) return dcpi_json_fail(r, r->at, "the text ends inside a string");
    if (*r->at == 'u') { r->at++; return dcpi_json_unicode(r, to); }
    found = *r->at ? strchr(from, *r->at) : NULL;
    if (!found) return dcpi_json_fail(r, r->at - 1, "an escape that JSON does not have");
    *(*to)++ = what[found - from];
    r->at++;
    return 1;
}
/* Steps over plain characters, checking them; stops at a quote or backslash. */
static int dcpi_json_plain(dcpi_json_reader *r) {
    for (;;) {
        unsigned char c;
        size_t n;
        r->at = dcpi_json_plain_end(r->at, r->end);
        if (r->at == r->end) return dcpi_json_fail(r, r->at, "the text ends inside a string");
        c = (unsigned char)*r->at;
        if (c == '"' || c == '\\') return 1;
        if (c < 0x20)
            return dcpi_json_fail(r, r->at, "a control character (0x%02X) inside a string; JSON wants it escaped",
                                  (unsigned)c);
        n = dcpi_utf8_length(r->at, (size_t)(r->end - r->at));
        if (n == 0) return dcpi_json_fail(r, r->at, "byte 0x%02X is not UTF-8", (unsigned)c);
        r->at += n;
    }
}
/* The rest of a string that has escapes, from its start: never longer unescaped than escaped. */
static int dcpi_json_unescape(dcpi_json_reader *r, const char *start, dcpi_json_span *out) {
    const char *scan = r->at;
    char *copy, *to;
    while (scan < r->end && *scan != '"') scan += *scan == '\\' && r->end - scan > 1 ? 2 : 1;
    copy = (char *)dcpi_arena_alloc(r->arena, (size_t)(scan - start) + 1, r->err);
    if (!copy) return dcpi_json_no_memory(r);
    to = copy;
    for (r->at = start;;) {
        const char *run = r->at;
        if (!dcpi_json_plain(r)) return 0;
        memcpy(to, run, (size_t)(r->at - run));
        to += r->at - run;
        if (*r->at++ == '"') break;
        if (!dcpi_json_escape(r, &to)) return 0;
    }
    *to = '\0';
    out->text = copy;
    out->length = (size_t)(to - copy);
    return 1;
}
/* A string: points into the text, or into the arena where it has escapes. */
static int dcpi_json_string(dcpi_json_reader *r, dcpi_json_span *out) {
    const char *start;
    char found[16];
    if (dcpi_json_peek(r) != '"')
        return dcpi_json_fail(r, r->at, "expected a string, found %s", dcpi_json_found(r, found));
    start = ++r->at;
    if (!dcpi_json_plain(r)) return 0;
    if (*r->at == '\\') return dcpi_json_unescape(r, start, out);
    out->text = start;
    out->length = (size_t)(r->at++ - start);
    return 1;
}
/* A copy of a string in the arena, with a NUL behind it. */
static int dcpi_json_text(dcpi_json_reader *r, const char **out) {
    dcpi_json_span span;
    char *copy;
    *out = NULL;
    if (!dcpi_json_string(r, &span)) return 0;
    copy = dcpi_arena_text(r->arena, span.text, span.length, r->err);
    *out = copy;
    return copy ? 1 : dcpi_json_no_memory(r);
}

/* -- numbers -- */
static int dcpi_json_digits(dcpi_json_reader *r) {
    const char *start = r->at;
    char found[16];
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > start ? 1 : dcpi_json_fail(r, r->at, "expected a digit, found %s", dcpi_json_found(r, found));
}
static int dcpi_json_number(dcpi_json_reader *r, dcpi_json_span *out, int *is_integer) {
    const char *start, *digits;
    char c = dcpi_json_peek(r), found[16];
    if (c != '-' && (c < '0' || c > '9'))
        return dcpi_json_fail(r, r->at, "expected a number, found %s", dcpi_json_found(r, found));
    start = r->at;
    if (c == '-') r->at++;
    digits = r->at;
    if (!dcpi_json_digits(r)) return 0;
    if (*digits == '0' && r->at - digits > 1) return dcpi_json_fail(r, digits, "a number must not start with 0");
    *is_integer = 1;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        *is_integer = 0;
        if (!dcpi_json_digits(r)) return 0;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        *is_integer = 0;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!dcpi_json_digits(r)) return 0;
    }
    out->text = start;
    out->length = (size_t)(r->at - start);
    return 1;
}
/* Digits as a uint64. 0: beyond. */
static int dcpi_digits_value(const char *text, size_t length, uint64_t *value) {
    uint64_t v = 0;
    size_t i;
    for (i = 0; i < length; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (v > (UINT64_MAX - digit) / 10) return 0;
        v = v * 10 + digit;
    }
    *value = v;
    return 1;
}
static int dcpi_span_int64(dcpi_json_span span, int64_t *value) {
    int negative = span.text[0] == '-';
    uint64_t v;
    if (!dcpi_digits_value(span.text + negative, span.length - (size_t)negative, &v)) return 0;
    if (v > (uint64_t)INT64_MAX + (uint64_t)negative) return 0;
    *value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 1;
}
/* A plain integer of at most 18 digits, with something behind it. 0: read it the long way; nothing has happened. */
static int dcpi_json_short_int(dcpi_json_reader *r, int64_t *value) {
    const char *at = r->at, *digits;
    int64_t sum = 0;
    int negative = *at == '-';
    digits = at += negative;
    while (at < r->end && *at >= '0' && *at <= '9' && at - digits < 18) sum = sum * 10 + (*at++ - '0');
    if (at == digits || at == r->end || (*at >= '0' && *at <= '9') || *at == '.' || *at == 'e' || *at == 'E') return 0;
    if (*digits == '0' && at - digits > 1) return 0;
    *value = negative ? -sum : sum;
    r->at = at;
    return 1;
}
static int dcpi_json_bad_number(dcpi_json_reader *r, dcpi_json_span span, const char *before, const char *behind) {
    return dcpi_json_fail(r, span.text, "%s %.*s%s", before, (int)dcpi_min((int64_t)span.length, 40), span.text,
                          behind);
}
static int dcpi_json_int64(dcpi_json_reader *r, int64_t *value) {
    dcpi_json_span span;
    int is_integer;
    if (dcpi_json_peek(r) && dcpi_json_short_int(r, value)) return 1;
    if (!dcpi_json_number(r, &span, &is_integer)) return 0;
    if (!is_integer) return dcpi_json_bad_number(r, span, "expected an integer, found", "");
    return dcpi_span_int64(span, value) || dcpi_json_bad_number(r, span, "the integer", " does not fit 64 bits");
}
static int dcpi_json_real(dcpi_json_reader *r, double *value) {
    dcpi_json_span span;
    int is_integer;
    if (!dcpi_json_number(r, &span, &is_integer)) return 0;
    return dcpi_double_parse(span.text, span.length, value) ||
           dcpi_json_bad_number(r, span, "the number", " is beyond the doubles");
}

/* -- objects and arrays -- */
static int dcpi_json_enter(dcpi_json_reader *r, char open, const char *what) {
    char found[16];
    if (dcpi_json_peek(r) != open)
        return dcpi_json_fail(r, r->at, "expected %s, found %s", what, dcpi_json_found(r, found));
    if (r->depth >= DCP_LIMIT_DEPTH) return dcpi_json_fail(r, r->at, "nested deeper than %d", (int)DCP_LIMIT_DEPTH);
    r->depth++;
    r->at++;
    return 1;
}
/* while (dcpi_json_item(r, &count)) read one; */
static int dcpi_json_array(dcpi_json_reader *r, int64_t *count) {
    *count = 0;
    return dcpi_json_enter(r, '[', "an array");
}
/* Behind the comma, or at the end: whether a further part follows. `close` is consumed. */
static int dcpi_json_more(dcpi_json_reader *r, int64_t count, char close, const char *what) {
    char found[16], c = dcpi_json_peek(r);
    if (r->status) return 0;
    if (c == close) { r->at++; r->depth--; return 0; }
    if (count == 0) return 1;
    if (c != ',')
        return dcpi_json_fail(r, r->at, "expected ',' or '%c' in %s, found %s", close, what, dcpi_json_found(r, found));
    r->at++;
    if (dcpi_json_peek(r) == close) return dcpi_json_fail(r, r->at, "a comma before '%c'", close);
    return 1;
}
static int dcpi_json_item(dcpi_json_reader *r, int64_t *count) {
    return dcpi_json_more(r, (*count)++, ']', "an array");
}

static int dcpi_json_object_begin(dcpi_json_reader *r, dcpi_json_object *o, const char *const *names, int name_count) {
    memset(o, 0, sizeof *o);
    o->names = names;
    o->name_count = name_count;
    o->member = -1;
    o->first_key = r->key_count;
    return dcpi_json_enter(r, '{', "an object");
}
static int dcpi_span_compare(const void *a_, const void *b_) {
    const dcpi_json_span *a = (const dcpi_json_span *)a_, *b = (const dcpi_json_span *)b_;
    size_t n = a->length < b->length ? a->length : b->length;
    int order = n ? memcmp(a->text, b->text, n) : 0;
    return order ? order : a->length < b->length ? -1 : a->length > b->length;
}
static int dcpi_json_twice(dcpi_json_reader *r, const char *at, const dcpi_json_span *key) {
    size_t shown = key->length < 100 ? key->length : 100;
    /* whole characters */
    while (shown > 0 && shown < key->length && ((unsigned char)key->text[shown] & 0xC0) == 0x80) shown--;
    return dcpi_json_fail(r, at, "the member \"%.*s\" stands twice in this object", (int)shown, key->text);
}
/* Where a key stands: in the text, unless it has escapes; then where its object ends. */
static const char *dcpi_json_key_place(const dcpi_json_reader *r, const dcpi_json_span *key) {
    uintptr_t text = (uintptr_t)key->text;
    return text > (uintptr_t)r->start && text < (uintptr_t)r->end ? key->text - 1 : r->at - 1;
}
static int dcpi_json_few_differ(dcpi_json_reader *r, const dcpi_json_span *keys, size_t count) {
    size_t i, j;
    for (i = 1; i < count; i++)
        for (j = 0; j < i; j++)
            if (keys[i].length == keys[j].length && dcpi_span_compare(&keys[i], &keys[j]) == 0)
                return dcpi_json_twice(r, dcpi_json_key_place(r, &keys[i]), &keys[i]);
    return 1;
}
/* Sorted: a hostile file may have millions. */
static int dcpi_json_many_differ(dcpi_json_reader *r, const dcpi_json_span *keys, size_t count) {
    const void **order = (const void **)dcpi_alloc_array(count, sizeof *order, r->err);
    size_t i;
    if (!order) return dcpi_json_no_memory(r);
    for (i = 0; i < count; i++) order[i] = &keys[i];
    if (dcpi_sort(order, count, dcpi_span_compare, r->err)) (void)dcpi_json_no_memory(r);
    for (i = 1; i < count && !r->status; i++) {
        const dcpi_json_span *key = (const dcpi_json_span *)order[i];
        if (dcpi_span_compare(order[i - 1], key) == 0) (void)dcpi_json_twice(r, dcpi_json_key_place(r, key), key);
    }
    dcpi_free((void *)order);
    return r->status == DCP_OK;
}
/* At an object's end: none of its unknown members stands twice. */
static int dcpi_json_check_unknown(dcpi_json_reader *r, const dcpi_json_object *o) {
    size_t count = r->key_count - o->first_key;
    r->key_count = o->first_key;
    if (count < 2) return 1;
    return count <= 8 ? dcpi_json_few_differ(r, r->keys + o->first_key, count) : dcpi_json_many_differ(
            r, r->keys + o->first_key, count);
}
static int dcpi_json_known(const dcpi_json_object *o, const dcpi_json_span *key, int index) {
    return strncmp(o->names[index], key->text, key->length) == 0 && o->names[index][key->length] == '\0';
}
static int dcpi_json_find_member(const dcpi_json_object *o) {
    int i, n = o->name_count;
    for (i = 0; i < n; i++) if (dcpi_json_known(o, &o->key, i)) return i;
    return -1;
}
/* Reads the key if it is the one behind the last, as in what our writer wrote, and says which; else -1, and nothing has
 * happened. */
static int dcpi_json_next_member(dcpi_json_reader *r, dcpi_json_object *o) {
    int next = o->member + 1 < o->name_count ? o->member + 1 : 0;
    const char *name = o->name_count > 0 ? o->names[next] : "", *at = r->at + 1;
    while (at < r->end && *name && *at == *name) { at++; name++; }
    if (*name || at == r->end || *at != '"' || at == r->at + 1) return -1;
    o->key.text = r->at + 1;
    o->key.length = (size_t)(at - o->key.text);
    r->at = at + 1;
    return next;
}
static int dcpi_json_note_member(dcpi_json_reader *r, dcpi_json_object *o, int found) {
    void *keys = r->keys;
    if (found >= 0) {
        o->member = found;
        if (o->seen >> found & 1) return dcpi_json_twice(r, o->key_at, &o->key);
        o->seen |= (uint64_t)1 << found;
        return 1;
    }
    o->member = -1;
    if (!dcpi_grow(&keys, &r->key_capacity, r->key_count + 1, sizeof *r->keys, r->err)) return dcpi_json_no_memory(r);
    r->keys = (dcpi_json_span *)keys;
    r->keys[r->key_count++] = o->key;
    return 1;
}
/* while (dcpi_json_member(r, &o)) switch (o.member) ...; each must read, or skip, the value. */
static int dcpi_json_member(dcpi_json_reader *r, dcpi_json_object *o) {
    int member;
    if (!dcpi_json_more(r, o->count++, '}', "an object")) {
        if (!r->status) (void)dcpi_json_check_unknown(r, o);
        return 0;
    }
    o->key_at = r->at;                                  /* white space has been skipped */
    if (r->at == r->end || *r->at != '"') {
        char found[16];
        return dcpi_json_fail(r, r->at, "expected a member name in quotes, found %s", dcpi_json_found(r, found));
    }
    member = dcpi_json_next_member(r, o);
    if (member < 0) {
        if (!dcpi_json_string(r, &o->key)) return 0;
        member = dcpi_json_find_member(o);
    }
    if (r->at < r->end && *r->at == ':') r->at++;
    else if (!dcpi_json_expect(r, ':', "after a member name")) return 0;
    return dcpi_json_note_member(r, o, member);
}
/* Any value, checked; its text as it stands, if out is given. Recursion ends at the depth limit. */
static int dcpi_json_skip(dcpi_json_reader *r, dcpi_json_span *out) {
    const char *start;
    char c = dcpi_json_peek(r);
    int64_t count;
    int flag, done = 0;
    dcpi_json_span ignored;
    dcpi_json_object o;
    start = r->at;
    if (c == '{') {
        done = dcpi_json_object_begin(r, &o, NULL, 0);
        while (done && dcpi_json_member(r, &o)) done = dcpi_json_skip(r, NULL);
    } else if (c == '[') {
        done = dcpi_json_array(r, &count);
        while (done && dcpi_json_item(r, &count)) done = dcpi_json_skip(r, NULL);
    } else if (c == '"') {
        done = dcpi_json_string(r, &ignored);
    } else if (c == 't' || c == 'f') {
        done = dcpi_json_boolean(r, &flag);
    } else if (c == 'n') {
        done = dcpi_json_null(r);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        double value;
        done = r->finite ? dcpi_json_real(r, &value) : dcpi_json_number(r, &ignored, &flag);
    } else {
        char found[16];
        return dcpi_json_fail(r, r->at, "expected a value, found %s", dcpi_json_found(r, found));
    }
    if (!done || r->status) return 0;
    if (out) { out->text = start; out->length = (size_t)(r->at - start); }
    return 1;
}
/* Nothing but white space is left. */
static int dcpi_json_end(dcpi_json_reader *r) {
    char found[16];
    if (r->status) return 0;
    dcpi_json_space(r);
    return r->at == r->end ? 1 : dcpi_json_fail(r, r->at, "the document has ended, but %s follows",
                                                dcpi_json_found(r, found));
}

/* ---- writer: text through a buffer into a flush function --------------------------------------------------------- */
typedef struct dcpi_writer {
    char *buffer; size_t used, capacity;                /* the caller's; at least 1 KiB */
    dcp_status (*flush)(void *user, const void *data, size_t size, dcp_error *err); void *user;
    dcp_status status; dcp_error *err;                  /* after a failure nothing more is written */
} dcpi_writer;

static void dcpi_writer_begin(dcpi_writer *w, char *buffer, size_t capacity,
                              dcp_status (*flush)(void *user, const void *data, size_t size, dcp_error *err),
                              void *user, dcp_error *err) {
    memset(w, 0, sizeof *w);
    w->buffer = buffer;
    w->capacity = capacity;
    w->flush = flush;
    w->user = user;
    w->err = err;
}
static void dcpi_writer_flush(dcpi_writer *w) {
    if (!w->status && w->used > 0) w->status = w->flush(w->user, w->buffer, w->used, w->err);
    w->used = 0;
}
static void dcpi_write_raw(dcpi_writer *w, const char *text, size_t length) {
    while (length > w->capacity - w->used) {
        size_t n = w->capacity - w->used;
        memcpy(w->buffer + w->used, text, n);
        w->used += n;
        text += n;
        length -= n;
        dcpi_writer_flush(w);
    }
    if (length) memcpy(w->buffer + w->used, text, length);
    w->used += length;
}
static void dcpi_write_text(dcpi_writer *w, const char *text) { dcpi_write_raw(w, text, strlen(text)); }
static void dcpi_write_int(dcpi_writer *w, int64_t value) {
    char digits[24], *at = digits + sizeof digits;
    uint64_t v = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do { *--at = (char)('0' + v % 10); v /= 10; } while (v);
    if (value < 0) *--at = '-';
    dcpi_write_raw(w, at, (size_t)(digits + sizeof digits - at));
}
static void dcpi_write_double(dcpi_writer *w, double value) {            /* finite */
    char text[32];
    dcpi_double_text(value, text);
    dcpi_write_text(w, text);
}
static void dcpi_write_escaped(dcpi_writer *w, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;
    char text[8] = "\\u00";
    if (found) { text[1] = to[found - from]; dcpi_write_raw(w, text, 2); return; }
    text[4] = dcpi_hex_digits[c >> 4];
    text[5] = dcpi_hex_digits[c & 15];
    dcpi_write_raw(w, text, 6);
}
/* UTF-8 in quotes; only what JSON demands is escaped. */
static void dcpi_write_string(dcpi_writer *w, const char *text, size_t length) {
    size_t at = 0, run;
    dcpi_write_raw(w, "\"", 1);
    while (at < length) {
        for (run = at; run < length && (unsigned char)text[run] >= 0x20 && text[run] != '"' && text[run] != '\\';)
            run++;
        dcpi_write_raw(w, text + at, run - at);
        if (run < length) dcpi_write_escaped(w, (unsigned char)text[run++]);
        at = run;
    }
    dcpi_write_raw(w, "\"", 1);
}

/* ---- tree -------------------------------------------------------------------------------------------------------- */
struct dcp_json {
    dcp_json_kind kind; int is_true, is_big;            /* is_big: an integer beyond int64, in `number` as uint64 */
    int depth;
    uint64_t number;                                    /* integer (two's complement), or the bits of a double */
    const char *text; size_t length;                    /* of a string */
    const char *key; size_t key_length;                 /* in an object */
    dcp_json **items; size_t count, capacity;           /* of an array or object */
    dcp_json **sorted; size_t sorted_count;             /* of an object with many members: the first so many by key */
    dcpi_arena *arena;                                  /* the root's, which all share */
};
typedef struct dcpi_json_root { dcp_json json; dcpi_arena arena; } dcpi_json_root;
#define DCPI_JSON_SORT_FROM 17

static dcp_json *dcpi_json_root_new(dcp_json_kind kind, dcp_error *err) {
    dcpi_json_root *root = (dcpi_json_root *)dcpi_alloc_array(1, sizeof *root, err);
    if (!root) return NULL;
    root->json.kind = kind;
    root->json.arena = &root->arena;
    return &root->json;
}
static dcp_json *dcpi_json_child(dcp_json *parent, dcp_json_kind kind, dcp_error *err) {
    dcp_json *child = (dcp_json *)dcpi_arena_zero(parent->arena, sizeof *child, err);
    if (!child) return NULL;
    if (parent->count == parent->capacity) {
        size_t capacity = parent->capacity ? parent->capacity * 2 : 4, bytes;
        dcp_json **items = dcpi_mul_size(capacity, sizeof *items, &bytes) ? (dcp_json **)dcpi_arena_alloc(
                parent->arena, bytes, err) : NULL;
        if (!items) return NULL;
        if (parent->count) memcpy(items, parent->items, parent->count * sizeof *items);
        parent->items = items;
        parent->capacity = capacity;
        parent->sorted = NULL;
        parent->sorted_count = 0;
    }
    parent->items[parent->count++] = child;
    child->kind = kind;
    child->arena = parent->arena;
    child->depth = parent->depth + 1;
    return child;
}
static int dcpi_json_key_compare(const void *a_, const void *b_) {
    const dcp_json *a = (const dcp_json *)a_, *b = (const dcp_json *)b_;
    dcpi_json_span x, y;
    x.text = a->key; x.length = a->key_length;
    y.text = b->key; y.length = b->key_length;
    return dcpi_span_compare(&x, &y);
}
/* Sorts the members that are not sorted yet in among the others. 0: no memory. */
static int dcpi_json_sort_members(dcp_json *object, dcp_error *err) {
    size_t done = object->sorted_count;
    if (!object->sorted)
        object->sorted = (dcp_json **)dcpi_arena_alloc(object->arena, object->capacity * sizeof *object->sorted, err);
    if (!object->sorted) return 0;
    object->sorted_count = 0;                           /* should the sort fail: order is lost, and nothing else */
    memcpy(object->sorted + done, object->items + done, (object->count - done) * sizeof *object->sorted);
    if (dcpi_sort((const void **)object->sorted, object->count, dcpi_json_key_compare, err)) return 0;
    object->sorted_count = object->count;
    return 1;
}
static int dcpi_json_tree_value(dcpi_json_reader *r, dcp_json *node);

static int dcpi_json_tree_object(dcpi_json_reader *r, dcp_json *node) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(r, &o, NULL, 0);
    node->kind = DCP_JSON_OBJECT;
    while (done && dcpi_json_member(r, &o)) {
        dcp_json *child = dcpi_json_child(node, DCP_JSON_NULL, r->err);
        if (child) child->key = dcpi_arena_text(r->arena, o.key.text, o.key.length, r->err);
        if (!child || !child->key) return dcpi_json_no_memory(r);
        child->key_length = o.key.length;
        done = dcpi_json_tree_value(r, child);
    }
    if (!done || r->status) return 0;
    return node->count < DCPI_JSON_SORT_FROM || dcpi_json_sort_members(node, r->err) || dcpi_json_no_memory(r);
}
static int dcpi_json_tree_array(dcpi_json_reader *r, dcp_json *node) {
    int64_t count;
    int done = dcpi_json_array(r, &count);
    node->kind = DCP_JSON_ARRAY;
    while (done && dcpi_json_item(r, &count)) {
        dcp_json *child = dcpi_json_child(node, DCP_JSON_NULL, r->err);
        done = child ? dcpi_json_tree_value(r, child) : dcpi_json_no_memory(r);
    }
    return done && !r->status;
}
static int dcpi_json_tree_number(dcpi_json_reader *r, dcp_json *node) {
    dcpi_json_span span;
    int is_integer;
    int64_t small;
    double real;
    if (!dcpi_json_number(r, &span, &is_integer)) return 0;
    node->kind = DCP_JSON_INT;
    if (is_integer && dcpi_span_int64(span, &small)) { node->number = (uint64_t)small; return 1; }
    if (is_integer && span.text[0] != '-' && dcpi_digits_value(span.text, span.length, &node->number)) {
        node->is_big = 1;
        return 1;
    }
    node->kind = DCP_JSON_DOUBLE;
    if (!dcpi_double_parse(span.text, span.length, &real))
        return dcpi_json_fail(r, span.text, "the number is beyond the doubles");
    node->number = dcpi_double_bits(real);
    return 1;
}
static int dcpi_json_tree_value(dcpi_json_reader *r, dcp_json *node) {
    char c = dcpi_json_peek(r);
    if (c == '{') return dcpi_json_tree_object(r, node);
    if (c == '[') return dcpi_json_tree_array(r, node);
    if (c == 'n') return dcpi_json_null(r);
    if (c == 't' || c == 'f') { node->kind = DCP_JSON_BOOL; return dcpi_json_boolean(r, &node->is_true); }
    if (c == '-' || (c >= '0' && c <= '9')) return dcpi_json_tree_number(r, node);
    if (c == '"') {
        node->kind = DCP_JSON_STRING;
        if (!dcpi_json_text(r, &node->text)) return 0;
        node->length = strlen(node->text);              /* NUL is refused, so this is all of it */
        return 1;
    }
    return dcpi_json_skip(r, NULL);                     /* not a value: says so */
}
static dcp_status dcpi_json_tree(const char *text, size_t size, dcpi_json_place_fn place, void *place_user,
                                 dcp_json **out, dcp_error *err) {
    dcpi_json_reader r;
    dcp_error local;
    dcp_json *root = dcpi_json_root_new(DCP_JSON_NULL, &local);
    *out = NULL;
    if (!root) return dcpi_no_memory(err, sizeof(dcpi_json_root));
    dcpi_json_begin(&r, text, size, root->arena, &local);
    r.place = place;
    r.place_user = place_user;
    if (dcpi_json_tree_value(&r, root)) (void)dcpi_json_end(&r);
    dcpi_json_close(&r);
    if (!r.status) { *out = root; return err ? dcpi_succeed(err) : DCP_OK; }
    dcp_json_free(root);
    if (err) *err = local;
    return r.status;
}
DCPDEF dcp_status dcp_json_parse(const char *text, size_t size, dcp_json **out, dcp_error *err) {
    *out = NULL;
    if (!text) return dcpi_fail(err, DCP_E_INVALID, "dcp_json_parse: text is NULL");
    return dcpi_json_tree(text, size, NULL, NULL, out, err);
}
DCPDEF void dcp_json_free(dcp_json *root) {
    dcpi_json_root *owner = (dcpi_json_root *)(void *)root;
    if (!root) return;
    dcpi_arena_free(&owner->arena);
    dcpi_free(owner);
}
DCPDEF dcp_json_kind dcp_json_kind_of(const dcp_json *json) { return json ? json->kind : DCP_JSON_NULL; }
DCPDEF int dcp_json_bool(const dcp_json *json) { return json && json->kind == DCP_JSON_BOOL && json->is_true; }
DCPDEF dcp_status dcp_json_int(const dcp_json *json, int64_t *value) {
    if (!json || json->kind != DCP_JSON_INT || json->is_big) return DCP_E_MISMATCH;
    *value = (int64_t)json->number;
    return DCP_OK;
}
DCPDEF dcp_status dcp_json_uint(const dcp_json *json, uint64_t *value) {
    if (!json || json->kind != DCP_JSON_INT || (!json->is_big && (int64_t)json->number < 0)) return DCP_E_MISMATCH;
    *value = json->number;
    return DCP_OK;
}
DCPDEF dcp_status dcp_json_double(const dcp_json *json, double *value) {
    if (!json || (json->kind != DCP_JSON_INT && json->kind != DCP_JSON_DOUBLE)) return DCP_E_MISMATCH;
    if (json->kind == DCP_JSON_DOUBLE) *value = dcpi_double_of_bits(json->number);
    else *value = json->is_big ? (double)json->number : (double)(int64_t)json->number;
    return DCP_OK;
}
DCPDEF const char *dcp_json_string(const dcp_json *json, size_t *length) {
    int is_string = json && json->kind == DCP_JSON_STRING;
    if (length) *length = is_string ? json->length : 0;
    return is_string ? json->text : NULL;
}
DCPDEF size_t dcp_json_count(const dcp_json *json) { return json ? json->count : 0; }
DCPDEF const dcp_json *dcp_json_at(const dcp_json *json, size_t index) {
    return json && index < json->count ? json->items[index] : NULL;
}
DCPDEF const char *dcp_json_key(const dcp_json *json, size_t index) {
    return json && index < json->count ? json->items[index]->key : NULL;
}
DCPDEF const dcp_json *dcp_json_get(const dcp_json *object, const char *key) {
    dcp_json wanted;
    size_t low = 0, high, i;
    if (!object || object->kind != DCP_JSON_OBJECT || !key) return NULL;
    wanted.key = key;
    wanted.key_length = strlen(key);
    for (high = object->sorted_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = dcpi_json_key_compare(object->sorted[middle], &wanted);
        if (order == 0) return object->sorted[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    for (i = object->sorted_count; i < object->count; i++)
        if (dcpi_json_key_compare(&wanted, object->items[i]) == 0) return object->items[i];
    return NULL;
}
static int dcpi_is_utf8(const char *text) {
    size_t length = strlen(text), at, n;
    for (at = 0; at < length; at += n) {
        n = dcpi_utf8_length(text + at, length - at);
        if (n == 0) return 0;
    }
    return 1;
}
static dcp_json *dcpi_json_add(dcp_json *parent, const char *key, dcp_json_kind kind) {
    dcp_json *child;
    char *copy = NULL;
    if (!parent || (parent->kind != DCP_JSON_OBJECT && parent->kind != DCP_JSON_ARRAY)) return NULL;
    if ((parent->kind == DCP_JSON_OBJECT) != (key != NULL)) return NULL;
    if (parent->depth + 1 >= DCP_LIMIT_DEPTH && (kind == DCP_JSON_OBJECT || kind == DCP_JSON_ARRAY)) return NULL;
    if (key && parent->count - parent->sorted_count > 256 + parent->count / 64 && !dcpi_json_sort_members(parent, NULL))
        return NULL;
    if (key && (!dcpi_is_utf8(key) || dcp_json_get(parent, key))) return NULL;
    if (key) {
        copy = dcpi_arena_text(parent->arena, key, strlen(key), NULL);
        if (!copy) return NULL;
    }
    child = dcpi_json_child(parent, kind, NULL);
    if (!child) return NULL;
    child->key = copy;
    child->key_length = key ? strlen(key) : 0;
    return child;
}
DCPDEF dcp_json *dcp_json_new_object(dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_json_root_new(DCP_JSON_OBJECT, err);
}
DCPDEF dcp_json *dcp_json_new_array(dcp_error *err) {
    (void)dcpi_succeed(err);
    return dcpi_json_root_new(DCP_JSON_ARRAY, err);
}
DCPDEF dcp_json *dcp_json_add_object(dcp_json *parent, const char *key) {
    return dcpi_json_add(parent, key, DCP_JSON_OBJECT);
}
DCPDEF dcp_json *dcp_json_add_array(dcp_json *parent, const char *key) {
    return dcpi_json_add(parent, key, DCP_JSON_ARRAY);
}
DCPDEF dcp_json *dcp_json_add_null(dcp_json *parent, const char *key) {
    return dcpi_json_add(parent, key, DCP_JSON_NULL);
}
DCPDEF dcp_json *dcp_json_add_bool(dcp_json *parent, const char *key, int value) {
    dcp_json *child = dcpi_json_add(parent, key, DCP_JSON_BOOL);
    if (child) child->is_true = value != 0;
    return child;
}
DCPDEF dcp_json *dcp_json_add_int(dcp_json *parent, const char *key, int64_t value) {
    dcp_json *child = dcpi_json_add(parent, key, DCP_JSON_INT);
    if (child) child->number = (uint64_t)value;
    return child;
}
DCPDEF dcp_json *dcp_json_add_double(dcp_json *parent, const char *key, double value) {
    dcp_json *child = dcpi_double_is_finite(value) ? dcpi_json_add(parent, key, DCP_JSON_DOUBLE) : NULL;
    if (child) child->number = dcpi_double_bits(value);
    return child;
}
DCPDEF dcp_json *dcp_json_add_string(dcp_json *parent, const char *key, const char *value) {
    char *copy = parent && value && dcpi_is_utf8(value) ? dcpi_arena_text(parent->arena, value, strlen(value),
                                                                          NULL) : NULL;
    dcp_json *child = copy ? dcpi_json_add(parent, key, DCP_JSON_STRING) : NULL;
    if (child) { child->text = copy; child->length = strlen(copy); }
    return child;
}
static void dcpi_json_write_break(dcpi_writer *w, int indent, int depth) {
    int i;
    if (indent <= 0) return;
    dcpi_write_raw(w, "\n", 1);
    for (i = 0; i < indent * depth; i++) dcpi_write_raw(w, " ", 1);
}
static void dcpi_json_write_value(dcpi_writer *w, const dcp_json *json, int indent, int depth);

static void dcpi_json_write_items(dcpi_writer *w, const dcp_json *json, int indent, int depth) {
    size_t i;
    dcpi_write_raw(w, json->kind == DCP_JSON_OBJECT ? "{" : "[", 1);
    for (i = 0; i < json->count; i++) {
        if (i > 0) dcpi_write_raw(w, ",", 1);
        dcpi_json_write_break(w, indent, depth + 1);
        if (json->kind == DCP_JSON_OBJECT) {
            dcpi_write_string(w, json->items[i]->key, json->items[i]->key_length);
            dcpi_write_raw(w, ": ", indent > 0 ? 2 : 1);
        }
        dcpi_json_write_value(w, json->items[i], indent, depth + 1);
    }
    if (json->count > 0) dcpi_json_write_break(w, indent, depth);
    dcpi_write_raw(w, json->kind == DCP_JSON_OBJECT ? "}" : "]", 1);
}
static void dcpi_json_write_value(dcpi_writer *w, const dcp_json *json, int indent, int depth) {
    char digits[24];
    switch (json->kind) {
    case DCP_JSON_NULL:   dcpi_write_text(w, "null"); return;
    case DCP_JSON_BOOL:   dcpi_write_text(w, json->is_true ? "true" : "false"); return;
    case DCP_JSON_DOUBLE: dcpi_write_double(w, dcpi_double_of_bits(json->number)); return;
    case DCP_JSON_STRING: dcpi_write_string(w, json->text, json->length); return;
    case DCP_JSON_INT:
        if (!json->is_big) { dcpi_write_int(w, (int64_t)json->number); return; }
        (void)snprintf(digits, sizeof digits, "%" PRIu64, json->number);
        dcpi_write_text(w, digits);
        return;
    case DCP_JSON_ARRAY:
    case DCP_JSON_OBJECT: dcpi_json_write_items(w, json, indent, depth); return;
    }
}
static dcp_status dcpi_buffer_sink(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_buffer *buffer = (dcpi_buffer *)user;
    dcpi_buffer_add(buffer, data, size);
    return buffer->failed ? dcpi_no_memory(err, buffer->size + size) : DCP_OK;
}
DCPDEF dcp_status dcp_json_write(const dcp_json *json, int indent, char **text, size_t *size, dcp_error *err) {
    char chunk[1024];
    dcpi_buffer out;
    dcpi_writer w;
    *text = NULL;
    if (size) *size = 0;
    (void)dcpi_succeed(err);
    if (indent > 1000) indent = 1000;                   /* times the depth, an int */
    if (!json) return dcpi_fail(err, DCP_E_INVALID, "dcp_json_write: json is NULL");
    memset(&out, 0, sizeof out);
    dcpi_writer_begin(&w, chunk, sizeof chunk, dcpi_buffer_sink, &out, err);
    dcpi_json_write_value(&w, json, indent, 0);
    dcpi_write_raw(&w, "", 1);                          /* the NUL */
    dcpi_writer_flush(&w);
    if (w.status) { dcpi_buffer_free(&out); return w.status; }
    *text = out.data;
    if (size) *size = out.size - 1;
    return DCP_OK;
}

