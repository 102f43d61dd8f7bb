/* fuzz_json.c - the chapter >>json: any bytes as JSON; what is accepted is JSON by an independent reading of RFC 8259,
 * and what is refused is not.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_json.c -o fuzz_json && ./fuzz_json
 *     -max_len=4096 tests/corpus/json */
#include "fuzz.h"

static const char *const json_tokens[] = {"{", "}", "[", "]", ",", ":", "\"", "\\", "true", "false", "null", "\\u0000",
                                          "\\ud83d", "\\ude00", "\\u00e4", "\\n", "\\/", "\"a\":", "{}", "[]",
                                          "[[[[[[[[[[[[[[[[", "]]]]]]]]]]]]]]]]", "{\"a\":{\"b\":", "1e", "-0", "0.",
                                          "1E+5", "\xC3\xA4", "\xF0\x9F\x98\x80", "\xED\xA0\x80",
    "\xEF\xBB\xBF", "\x7F", "\xC2\x80", "\"\"", " ", "\n", "\r\n", "\t", "        "};

/* ---- RFC 8259, read once more ------------------------------------------------------------------------------------ */
/* is_odd: something that dcp.h refuses beyond the RFC */
typedef struct json_reading { const uint8_t *at, *end; int depth, deepest, is_odd; } json_reading;

static int json_read_value(json_reading *r);

static void json_read_space(json_reading *r) { while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++; }
static int json_read_word(json_reading *r, const char *word) {
    for (; *word; word++, r->at++) if (r->at == r->end || *r->at != (uint8_t)*word) return 0;
    return 1;
}
static int json_read_digits(json_reading *r) {
    const uint8_t *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    if (r->at - from > 300) r->is_odd = 1;              /* beyond the largest double */
    return r->at > from;
}
static int json_read_number(json_reading *r) {
    if (r->at < r->end && *r->at == '-') r->at++;
    if (r->at < r->end && *r->at == '0') r->at++;
    else if (!json_read_digits(r)) return 0;
    if (r->at < r->end && *r->at == '.') { r->at++; if (!json_read_digits(r)) return 0; }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        r->is_odd = 1;                                  /* beyond the largest double */
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!json_read_digits(r)) return 0;
    }
    return 1;
}
/* The code point at r->at by the table of RFC 3629; 0: none. */
static int json_read_utf8(json_reading *r) {
    const size_t rest = (size_t)(r->end - r->at), n = *r->at < 0x80 ? 1 : *r->at < 0xC0 ? 0 : *r->at < 0xE0 ? 2
                        : *r->at < 0xF0 ? 3 : *r->at < 0xF8 ? 4 : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;
    size_t i;
    if (n == 0 || n > rest) return 0;
    if (n == 1) { r->at++; return 1; }
    code = *r->at & (0x7Fu >> n);
    for (i = 1; i < n; i++) { if ((r->at[i] & 0xC0) != 0x80) return 0; code = code << 6 | (r->at[i] & 0x3F); }
    if (code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
    r->at += n;
    return 1;
}
static int json_read_escape(json_reading *r) {
    int i;
    if (r->at == r->end) return 0;
    if (*r->at != 'u') return *r->at && strchr("\"\\/bfnrt", *r->at++) != NULL;
    r->is_odd = 1;                                      /* a lone surrogate, NUL */
    for (i = 0, r->at++; i < 4; i++, r->at++)
        if (r->at == r->end || !strchr("0123456789abcdefABCDEF", *r->at) || !*r->at) return 0;
    return 1;
}
static int json_read_string(json_reading *r) {
    if (r->at == r->end || *r->at++ != '"') return 0;
    while (r->at < r->end && *r->at != '"') {
        if (*r->at < 0x20) return 0;
        if (*r->at == '\\') { r->at++; if (!json_read_escape(r)) return 0; }
        else if (!json_read_utf8(r)) return 0;
    }
    return r->at < r->end && *r->at++ == '"';
}
static int json_read_members(json_reading *r, uint8_t close) {
    int is_first = 1;
    if (++r->depth > r->deepest) r->deepest = r->depth;
    for (r->at++;; is_first = 0) {
        json_read_space(r);
        if (is_first && r->at < r->end && *r->at == close) break;
        if (close == '}') {
            if (!is_first) r->is_odd = 1;               /* a duplicate key */
            if (!json_read_string(r)) return 0;
            json_read_space(r);
            if (r->at == r->end || *r->at++ != ':') return 0;
        }
        if (!json_read_value(r)) return 0;
        json_read_space(r);
        if (r->at < r->end && *r->at == close) break;
        if (r->at == r->end || *r->at++ != ',') return 0;
    }
    r->at++;
    r->depth--;
    return 1;
}
static int json_read_value(json_reading *r) {
    json_read_space(r);
    if (r->at == r->end || r->depth > 2 * DCP_LIMIT_DEPTH) return 0;
    switch (*r->at) {
    case '{': return json_read_members(r, '}');
    case '[': return json_read_members(r, ']');
    case '"': return json_read_string(r);
    case 't': return json_read_word(r, "true");
    case 'f': return json_read_word(r, "false");
    case 'n': return json_read_word(r, "null");
    default: return json_read_number(r);
    }
}

/* ---- the target -------------------------------------------------------------------------------------------------- */
static void json_one(const uint8_t *data, size_t size) {
    json_reading r = {data, data + size, 0, 0, 0};
    const int is_value = json_read_value(&r);
    char *exact = fuzz_exact(data, size);
    dcp_json *json = (dcp_json *)&json;
    dcp_error err;
    dcp_status status = dcp_json_parse(exact, size, &json, &err);
    free(exact);
    fuzz_told(status, &err);
    FUZZ_CHECK((status == DCP_OK) == (json != NULL));
    json_read_space(&r);
    if (is_value && r.at == r.end && !r.is_odd && r.deepest <= DCP_LIMIT_DEPTH) FUZZ_CHECK(status == DCP_OK);
    if (!is_value || r.at != r.end || r.deepest > DCP_LIMIT_DEPTH)
        FUZZ_CHECK(status == DCP_E_FORMAT && dcpi_starts_with(err.message, "line "));
    if (json) FUZZ_CHECK(fuzz_walk(json, 0) <= size);
    dcp_json_free(json);
}
static const fuzz_target fuzz_json = {"json", json_one, NULL, json_tokens, FUZZ_COUNT(json_tokens), 16384, 200};
FUZZ_ENTRY(fuzz_json)
