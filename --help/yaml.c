/* =====================================================================================================================
 * >>yaml        The subset of YAML 1.2 that says what JSON can say, turned into JSON text for the readers of >>json;
 *               and YAML scalars to write.
 *
 * Read: block maps and sequences (compact `- a: 1` and sequences at their key's indent too), flow [] and {} also over
 * several lines, plain, 'single' and "double" quoted scalars also over several lines, comments, one `---` line before
 * the document. Plain scalars are resolved by the core schema of YAML 1.2: null, ~ and nothing; true and false;
 * integers, also 0o17 and 0x1F; floats. So `no`, `on` and 1_000 are strings. Refused by name, with line and column:
 * anchors, aliases, tags, merge keys, directives, further documents, block scalars, tabs as indentation, complex and
 * empty keys, .inf and .nan, a byte order mark, NUL; and what JSON refuses: keys that stand twice, lone surrogates,
 * bytes that are not UTF-8, too deep a nesting.
 *
 * Problem: trees, the schema reader and its messages are made for JSON, and a second set of them would differ sooner or
 * later. Solution: one pass, every byte looked at once, writes the same document as JSON, at most four bytes for one;
 * then there is one reader. Should that one fail, the pass is made again up to where it stood, and tells the place in
 * the YAML text.
 * ================================================================================================================== */
typedef struct dcpi_yaml {
    const char *start, *at, *end;
    const char *line;                                   /* where the line of `at` begins */
    dcpi_buffer out;                                    /* the JSON text */
    size_t wanted; const char *found;                   /* where the value stands whose JSON text holds byte `wanted` */
    int depth;
    dcp_status status; dcp_error *err;
} dcpi_yaml;

static int dcpi_yaml_fail(dcpi_yaml *y, const char *at, const char *format, ...) DCPI_PRINTF(3, 4);
static int dcpi_yaml_fail(dcpi_yaml *y, const char *at, const char *format, ...) {      /* always 0 */
    char reason[300];
    dcpi_json_place place;
    va_list arguments;
    if (y->status) return 0;
    dcpi_text_place(y->start, at, &place);
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    y->status = dcpi_fail(y->err, DCP_E_FORMAT, "line %" PRId64 ", column %" PRId64 " (byte %" PRId64 "): %s",
                          place.line, place.column, place.byte, reason);
    return 0;
}
/* what stands there, for messages */
static const char *dcpi_yaml_shown(const dcpi_yaml *y, const char *at, char text[16]) {
    if (at == y->end) return "the end";
    if (*at == '\n' || *at == '\r') return "the end of the line";
    if (*at < 0x20 || *at >= 0x7F) (void)snprintf(text, 16, "byte 0x%02X", (unsigned)(unsigned char)*at);
    else (void)snprintf(text, 16, "'%c'", *at);
    return text;
}
static int dcpi_yaml_unexpected(dcpi_yaml *y, const char *at, const char *where) {
    char text[16];
    return dcpi_yaml_fail(y, at, "%s %s", dcpi_yaml_shown(y, at, text), where);
}
/* a value or key begins */
static void dcpi_yaml_note(dcpi_yaml *y) { if (y->out.size <= y->wanted) y->found = y->at; }

/* ---- output */
static void dcpi_yaml_put(dcpi_yaml *y, const char *text, size_t length) {
    if (length > y->out.capacity - y->out.size) { dcpi_buffer_add(&y->out, text, length); return; }
    memcpy(y->out.data + y->out.size, text, length);
    y->out.size += length;
}
#define DCPI_YAML_PUT(y, literal) dcpi_yaml_put(y, literal, sizeof(literal) - 1)
/* Part of a string: escapes what JSON demands. */
static void dcpi_yaml_put_part(dcpi_yaml *y, const char *at, const char *end) {
    while (at < end) {
        const char *run = at;
        char text[8] = "\\u00";
        at = dcpi_json_plain_end(at, end);
        while (at < end && (unsigned char)*at >= 0x80) at = dcpi_json_plain_end(at + 1, end);
        if (at > run) dcpi_yaml_put(y, run, (size_t)(at - run));
        if (at == end) return;
        if (*at == '"' || *at == '\\') {
            text[1] = *at;
            dcpi_yaml_put(y, text, 2);
        } else {
            text[4] = dcpi_hex_digits[(unsigned char)*at >> 4];
            text[5] = dcpi_hex_digits[(unsigned char)*at & 15];
            dcpi_yaml_put(y, text, 6);
        }
        at++;
    }
}
/* What was written from `from` on was a key: an object begins before it. */
static void dcpi_yaml_open_before(dcpi_yaml *y, size_t from) {
    DCPI_YAML_PUT(y, "{ ");
    if (y->out.failed) return;
    memmove(y->out.data + from + 2, y->out.data + from, y->out.size - 2 - from);
    memcpy(y->out.data + from, "{ ", 2);
}
static int dcpi_yaml_enter(dcpi_yaml *y, const char *at) {
    if (y->depth >= DCP_LIMIT_DEPTH) return dcpi_yaml_fail(y, at, "nested deeper than %d", (int)DCP_LIMIT_DEPTH);
    y->depth++;
    return 1;
}

/* ---- characters */
static int dcpi_yaml_is_blank(const dcpi_yaml *y, const char *at) { return at < y->end && (*at == ' ' || *at == '\t'); }
static int dcpi_yaml_is_break(const dcpi_yaml *y, const char *at) {    /* or the end; "\r" alone is none */
    return at == y->end || *at == '\n' || (*at == '\r' && y->end - at > 1 && at[1] == '\n');
}
static int dcpi_yaml_is_space(const dcpi_yaml *y, const char *at) {
    return dcpi_yaml_is_blank(y, at) || dcpi_yaml_is_break(y, at);
}
static int dcpi_yaml_is_flow_mark(char c) { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}'; }
/* An indicator such as '-': it stands alone. */
static int dcpi_yaml_is_mark(const dcpi_yaml *y, const char *at, char c) {
    return at < y->end && *at == c && dcpi_yaml_is_space(y, at + 1);
}
static int64_t dcpi_yaml_column(const dcpi_yaml *y) { return (int64_t)(y->at - y->line); }
/* Steps over one character that may be anywhere; *at stays where it may not. */
static int dcpi_yaml_character(dcpi_yaml *y, const char **at) {
    unsigned char c = (unsigned char)**at;
    size_t n = c < 0x80 ? 1 : dcpi_utf8_length(*at, (size_t)(y->end - *at));
    if (n == 0) return dcpi_yaml_fail(y, *at, "byte 0x%02X is not UTF-8", (unsigned)c);
    if (c == '\r') return dcpi_yaml_fail(y, *at, "a carriage return without a newline behind it");
    if (c == 0) return dcpi_yaml_fail(y, *at, "the character NUL is not accepted");
    if (c < 0x20 && c != '\t')
        return dcpi_yaml_fail(y, *at, "a control character (0x%02X); it can stand escaped in \"...\"", (unsigned)c);
    *at += n;
    return 1;
}
static void dcpi_yaml_blanks(dcpi_yaml *y) { while (dcpi_yaml_is_blank(y, y->at)) y->at++; }
static int dcpi_yaml_comment(dcpi_yaml *y) {            /* at '#' */
    if (y->at > y->line && y->at[-1] != ' ' && y->at[-1] != '\t')
        return dcpi_yaml_fail(y, y->at, "a comment needs a space before its '#'");
    while (!dcpi_yaml_is_break(y, y->at)) if (!dcpi_yaml_character(y, &y->at)) return 0;
    return 1;
}
static int dcpi_yaml_is_marker(const dcpi_yaml *y, const char *text) {  /* "---" or "..." in the first column */
    return y->at == y->line && y->end - y->at >= 3 && memcmp(y->at, text, 3) == 0 && dcpi_yaml_is_space(y, y->at + 3);
}
/* Behind a line break: over the indentation. */
static int dcpi_yaml_indent(dcpi_yaml *y) {
    while (y->at < y->end && *y->at == ' ') y->at++;
    if (y->at == y->end) return 1;
    if (*y->at == '\t') return dcpi_yaml_fail(y, y->at, "a tab as indentation; YAML indents with spaces");
    if (y->at > y->line) return 1;
    if (dcpi_yaml_is_marker(y, "---"))
        return dcpi_yaml_fail(y, y->at, "a further document (---); one file is one document");
    if (dcpi_yaml_is_marker(y, "..."))
        return dcpi_yaml_fail(y, y->at, "the marker \"...\" of a document's end is not accepted");
    if (*y->at == '%') return dcpi_yaml_fail(y, y->at, "directives (%%...) are not accepted");
    return 1;
}
static int dcpi_yaml_break(dcpi_yaml *y) {              /* over a line break and the indentation behind it */
    y->at += *y->at == '\r' ? 2 : 1;
    y->line = y->at;
    return dcpi_yaml_indent(y);
}
/* Over white space, comments and line breaks, to what comes next. */
static int dcpi_yaml_next(dcpi_yaml *y) {
    for (;;) {
        dcpi_yaml_blanks(y);
        if (y->at == y->end) return 1;
        if (*y->at == '#') { if (!dcpi_yaml_comment(y)) return 0; }
        else if (!dcpi_yaml_is_break(y, y->at)) return 1;
        else if (!dcpi_yaml_break(y)) return 0;
    }
}
/* The same, where the line must have ended. */
static int dcpi_yaml_line_end(dcpi_yaml *y) {
    const char *line = y->line;
    if (!dcpi_yaml_next(y)) return 0;
    if (y->at == y->end || y->line != line) return 1;
    if (*y->at == ':')
        return dcpi_yaml_fail(y, y->at, "':' behind a value: a key stands on a line of its own and on one line, with a "
                                        "space behind the ':'");
    return dcpi_yaml_unexpected(y, y->at, "behind a value");
}
/* What cannot begin a value, by its name. */
static int dcpi_yaml_refuse(dcpi_yaml *y) {
    switch (*y->at) {
    case '&': return dcpi_yaml_fail(y, y->at, "anchors (&...) are not accepted");
    case '*': return dcpi_yaml_fail(y, y->at, "aliases (*...) are not accepted");
    case '!': return dcpi_yaml_fail(y, y->at, "tags (!...) are not accepted");
    case '|': return dcpi_yaml_fail(y, y->at, "block scalars (|) are not accepted; write \"...\" with \\n");
    case '>': return dcpi_yaml_fail(y, y->at, "block scalars (>) are not accepted; write \"...\"");
    case '%': return dcpi_yaml_fail(y, y->at, "directives (%%...) are not accepted");
    case '?': return dcpi_yaml_fail(y, y->at, "complex keys (? ...) are not accepted");
    case ':': return dcpi_yaml_fail(y, y->at, "an empty key before ':'; write \"\"");
    case '-': return dcpi_yaml_fail(y, y->at, "'-' begins an item of a block sequence, which cannot stand here");
    case '@':
    case '`': return dcpi_yaml_fail(y, y->at, "'%c' is reserved and cannot begin a plain scalar; quote it", *y->at);
    default:  return dcpi_yaml_unexpected(y, y->at, "where a value was expected");
    }
}

/* ---- plain scalars */
static int dcpi_yaml_is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '/';
}
static int dcpi_yaml_begins_plain(const dcpi_yaml *y, const char *at, int in_flow) {
    if (at == y->end || dcpi_yaml_is_space(y, at)) return 0;
    if (dcpi_yaml_is_word(*at)) return 1;
    if (*at == '-' || *at == '?' || *at == ':')
        return !dcpi_yaml_is_space(y, at + 1) && !(in_flow && dcpi_yaml_is_flow_mark(at[1]));
    return *at && !strchr(",[]{}#&*!|>'\"%@`", *at);
}
/* Nonzero where one of eight bytes may end plain text outside [] and {}, or needs a check: ':', '#', control
 * characters, beyond ASCII. As in dcpi_json_specials the lowest bit is in the first of them. */
static uint64_t dcpi_yaml_specials(const char *eight) {
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t v, colon, hash;
    memcpy(&v, eight, sizeof v);
    colon = v ^ (ones * ':');
    hash = v ^ (ones * '#');
    return ((v - ones * 0x20) | (colon - ones) | (hash - ones) | v) & high;
}
/* The first byte from `at` on that is special, or near it. */
static const char *dcpi_yaml_dull_end(const char *at, const char *end) {
    uint64_t found = 0;
    while (end - at >= 8 && (found = dcpi_yaml_specials(at)) == 0) at += 8;
#if DCPI_GNUC && !DCPI_BIG_ENDIAN
    if (found) at += __builtin_ctzll(found) >> 3;
#else
    (void)found;
#endif
    return at;
}
/* Whether the ':' there ends plain text: a key is before it. */
static int dcpi_yaml_is_colon(const dcpi_yaml *y, const char *at, int in_flow) {
    return at < y->end && *at == ':' && (dcpi_yaml_is_space(y, at + 1) || (in_flow && dcpi_yaml_is_flow_mark(at[1])));
}
/* The plain text from y->at on, as far as it goes on this line: y->at moves behind it, *end before the white space that
 * it ends in. */
static int dcpi_yaml_plain_line(dcpi_yaml *y, int in_flow, const char **end) {
    const char *at = y->at, *start = at;
    for (;;) {
        if (!in_flow) at = dcpi_yaml_dull_end(at, y->end);
        else while (at < y->end && dcpi_yaml_is_word(*at)) at++;
        if (dcpi_yaml_is_break(y, at)) break;
        if (in_flow && dcpi_yaml_is_flow_mark(*at)) break;
        if (*at == ':' && dcpi_yaml_is_colon(y, at, in_flow)) break;
        if (*at == '#' && at > start && (at[-1] == ' ' || at[-1] == '\t')) break;
        if ((unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80) at++;
        else if (!dcpi_yaml_character(y, &at)) return 0;
    }
    y->at = at;
    while (at > start && (at[-1] == ' ' || at[-1] == '\t')) at--;
    *end = at;
    return 1;
}
/* Over the line breaks behind a part of a scalar; they become one space, or one newline less than they are. Lines stand
 * deeper than `parent`. 0 with status OK: the plain scalar does not go on, and y->at is where the next line begins, or
 * in [] and {} where its last part ended. */
static int dcpi_yaml_fold(dcpi_yaml *y, int64_t parent, int is_plain, int in_flow, int *breaks) {
    const char *at = y->at, *line = y->line;
    for (*breaks = 0; y->at < y->end && dcpi_yaml_is_break(y, y->at); (*breaks)++) if (!dcpi_yaml_break(y)) return 0;
    if (*breaks > 0 && y->at < y->end && dcpi_yaml_column(y) > parent && !(is_plain && *y->at == '#')) return 1;
    if (!is_plain && y->at == y->end) return dcpi_yaml_fail(y, y->at, "the text ends inside a quoted scalar");
    if (!is_plain)
        return dcpi_yaml_fail(y, y->at, "a line of a quoted scalar must be indented deeper than what it belongs to");
    if (!in_flow) return 0;
    y->at = at;
    y->line = line;
    return 0;
}
static void dcpi_yaml_put_breaks(dcpi_yaml *y, int breaks) {
    if (breaks == 1) DCPI_YAML_PUT(y, " ");
    for (; breaks > 1; breaks--) DCPI_YAML_PUT(y, "\\n");
}
static int dcpi_yaml_is_one_of(const char *text, size_t length, const char *words) {    /* "null Null NULL ~" */
    while (*words) {
        size_t n = strcspn(words, " ");
        if (n == length && memcmp(words, text, n) == 0) return 1;
        words += n + strspn(words + n, " ");
    }
    return 0;
}
static const char *dcpi_yaml_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}
/* 0o17, 0x1F: written in decimals. 1: done, 0: it is none; or it failed. */
static int dcpi_yaml_put_radix(dcpi_yaml *y, const char *text, const char *end) {
    const unsigned shift = end - text > 2 && text[0] == '0' ? (text[1] == 'x' ? 4 : text[1] == 'o' ? 3 : 0) : 0;
    uint64_t value = 0;
    const char *at;
    char digits[24];
    int is_beyond = 0;
    if (shift == 0) return 0;
    for (at = text + 2; at < end; at++) {
        int digit = dcpi_hex_value(*at);
        if (digit < 0 || digit >> shift) return 0;
        is_beyond |= (value >> (64 - shift)) != 0;
        value = value << shift | (uint64_t)digit;
    }
    if (is_beyond)
        return dcpi_yaml_fail(y, text, "the integer %.*s does not fit 64 bits",
                              (int)dcpi_min((int64_t)(end - text), 40), text);
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    dcpi_yaml_put(y, digits, strlen(digits));
    return 1;
}
/* Decimals and floats: JSON wants digits on both sides of the point, no plus, and no zero before other digits. 0: it is
 * none. */
static int dcpi_yaml_put_number(dcpi_yaml *y, const char *text, const char *end) {
    const char *whole = text + (*text == '-' || *text == '+'), *point = dcpi_yaml_digits(whole, end), *fraction = point,
                        *at;
    int has_point = point < end && *point == '.';
    if (has_point) fraction = dcpi_yaml_digits(point + 1, end);
    if (point == whole && fraction - point < 2) return 0;
    at = fraction;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *digits = at + 1;
        if (digits < end && (*digits == '-' || *digits == '+')) digits++;
        at = dcpi_yaml_digits(digits, end);
        if (at == digits) return 0;
    }
    if (at != end) return 0;
    if (*text == '-') DCPI_YAML_PUT(y, "-");
    while (point - whole > 1 && *whole == '0') whole++;
    if (point == whole) DCPI_YAML_PUT(y, "0");
    else dcpi_yaml_put(y, whole, (size_t)(point - whole));
    if (has_point) dcpi_yaml_put(y, point, (size_t)(fraction - point));
    if (has_point && fraction - point == 1) DCPI_YAML_PUT(y, "0");
    if (fraction < end) dcpi_yaml_put(y, fraction, (size_t)(end - fraction));
    return 1;
}
/* A plain scalar that is no string. 0: it is one; or it failed. */
static int dcpi_yaml_put_resolved(dcpi_yaml *y, const char *text, const char *end) {
    const size_t length = (size_t)(end - text);
    const char c = length > 0 ? *text : '~';
    if (c >= '1' && c <= '9' && dcpi_yaml_digits(text, end) == end) {
        dcpi_yaml_put(y, text, length);
        return 1;
    }
    if ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.') {
        const char *inf = text + (c == '+' || c == '-');
        if (dcpi_yaml_is_one_of(inf, (size_t)(end - inf), ".inf .Inf .INF") ||
            dcpi_yaml_is_one_of(text, length, ".nan .NaN .NAN")) return dcpi_yaml_fail(
                    y, text, "%.*s is not accepted: numbers are finite", (int)length, text);
        return dcpi_yaml_put_radix(y, text, end) || (!y->status && dcpi_yaml_put_number(y, text, end));
    }
    if (length > 5 || !strchr("~nNtTfF", c)) return 0;
    if (length == 0 || dcpi_yaml_is_one_of(text, length, "~ null Null NULL")) DCPI_YAML_PUT(y, "null");
    else if (dcpi_yaml_is_one_of(text, length, "true True TRUE")) DCPI_YAML_PUT(y, "true");
    else if (dcpi_yaml_is_one_of(text, length, "false False FALSE")) DCPI_YAML_PUT(y, "false");
    else return 0;
    return 1;
}
static void dcpi_yaml_put_string(dcpi_yaml *y, const char *text, const char *end) {
    DCPI_YAML_PUT(y, "\"");
    dcpi_yaml_put_part(y, text, end);
    DCPI_YAML_PUT(y, "\"");
}
/* A plain value, of which the first line is text..end, and y->at behind it: with the lines that continue it. Outside []
 * and {} what follows is a comment, or stands on a line of its own. */
static int dcpi_yaml_plain_rest(dcpi_yaml *y, int64_t parent, int in_flow, int is_key, const char *text,
                                const char *end) {
    int breaks, lines = 0;
    while (dcpi_yaml_is_break(y, y->at) && dcpi_yaml_fold(y, parent, 1, in_flow, &breaks)) {
        const char *part = y->at, *part_end;
        if (in_flow && (dcpi_yaml_is_flow_mark(*part) || dcpi_yaml_is_colon(y, part, 1))) break;
        if (!dcpi_yaml_plain_line(y, in_flow, &part_end)) return 0;
        if (!in_flow && y->at < y->end && *y->at == ':')
            return dcpi_yaml_fail(y, part, "a key that stands deeper than the value before it; indent it like the keys "
                                           "before it, or quote the value");
        if (lines++ == 0) {
            DCPI_YAML_PUT(y, "\"");
            dcpi_yaml_put_part(y, text, end);
        }
        dcpi_yaml_put_breaks(y, breaks);
        dcpi_yaml_put_part(y, part, part_end);
    }
    if (y->status) return 0;
    if (lines > 0) DCPI_YAML_PUT(y, "\"");
    else if (is_key || !dcpi_yaml_put_resolved(y, text, end)) dcpi_yaml_put_string(y, text, end);
    return !y->status;
}

/* ---- quoted scalars: y->at is at the quote, and then behind the other one */
static int dcpi_yaml_single_quoted(dcpi_yaml *y, int64_t parent) {
    int breaks;
    DCPI_YAML_PUT(y, "\"");
    y->at++;
    for (;;) {
        const char *part = y->at, *at = part, *end;
        while (!dcpi_yaml_is_break(y, at) && *at != '\'') if (!dcpi_yaml_character(y, &at)) return 0;
        end = y->at = at;
        if (at < y->end && *at == '\'') {
            const int is_escape = y->end - at > 1 && at[1] == '\'';
            dcpi_yaml_put_part(y, part, at + is_escape);
            y->at += 1 + is_escape;
            if (is_escape) continue;
            DCPI_YAML_PUT(y, "\"");
            return 1;
        }
        while (end > part && (end[-1] == ' ' || end[-1] == '\t')) end--;
        dcpi_yaml_put_part(y, part, end);
        if (!dcpi_yaml_fold(y, parent, 0, 0, &breaks)) return 0;
        dcpi_yaml_put_breaks(y, breaks);
    }
}
static int dcpi_yaml_hex(dcpi_yaml *y, const char *at, int count, uint32_t *value) {
    int i;
    *value = 0;
    for (i = 0; i < count; i++) {
        int digit = y->end - at > i ? dcpi_hex_value(at[i]) : -1;
        if (digit < 0) return dcpi_yaml_fail(y, at - 2, "\\%c needs %d hexadecimal digits", at[-1], count);
        *value = *value << 4 | (uint32_t)digit;
    }
    return 1;
}
/* \x41, \u00e9, \U0001F600; a surrogate pair too, since JSON is written so. y->at is behind the letter. */
static int dcpi_yaml_code_escape(dcpi_yaml *y, int count) {
    const char *escape = y->at - 2;
    uint32_t c, low;
    char text[4];
    if (!dcpi_yaml_hex(y, y->at, count, &c)) return 0;
    y->at += count;
    if (c == 0) return dcpi_yaml_fail(y, escape, "the character NUL is not accepted in a string");
    if (c > 0x10FFFF) return dcpi_yaml_fail(y, escape, "beyond the last character, U+10FFFF");
    if (c >= 0xDC00 && c <= 0xDFFF) return dcpi_yaml_fail(y, escape, "a low surrogate without its high one");
    if (c >= 0xD800 && c <= 0xDBFF) {
        if (count != 4 || y->end - y->at < 6 || y->at[0] != '\\' || y->at[1] != 'u')
            return dcpi_yaml_fail(y, escape, "a high surrogate without its low one");
        if (!dcpi_yaml_hex(y, y->at + 2, 4, &low)) return 0;
        if (low < 0xDC00 || low > 0xDFFF) return dcpi_yaml_fail(y, escape, "a high surrogate without its low one");
        y->at += 6;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    dcpi_yaml_put_part(y, text, text + dcpi_utf8_encode((unsigned)c, text));
    return 1;
}
static int dcpi_yaml_escape(dcpi_yaml *y) {             /* y->at is behind the backslash, and no line break is there */
    static const char from[] = "abtnvfre \"/\\\t", what[] = "\a\b\t\n\v\f\r\x1b \"/\\\t";
    static const char wide[] = "N_LP";
    static const char *const wides[] = {"\xC2\x85", "\xC2\xA0", "\xE2\x80\xA8", "\xE2\x80\xA9"};
    const char c = y->at < y->end ? *y->at : '\0', *found = c ? strchr(from, c) : NULL;
    if (y->at == y->end) return dcpi_yaml_fail(y, y->at, "the text ends inside a quoted scalar");
    y->at++;
    if (found) { dcpi_yaml_put_part(y, what + (found - from), what + (found - from) + 1); return 1; }
    if (c == 'x') return dcpi_yaml_code_escape(y, 2);
    if (c == 'u') return dcpi_yaml_code_escape(y, 4);
    if (c == 'U') return dcpi_yaml_code_escape(y, 8);
    if (c == '0') return dcpi_yaml_fail(y, y->at - 2, "the character NUL is not accepted in a string");
    found = c ? strchr(wide, c) : NULL;
    if (!found) return dcpi_yaml_fail(y, y->at - 2, "an escape that YAML does not have");
    dcpi_yaml_put(y, wides[found - wide], strlen(wides[found - wide]));
    return 1;
}
/* Plain characters of a double-quoted scalar, checked, up to a quote, a backslash or a break. */
static int dcpi_yaml_double_run(dcpi_yaml *y) {
    const char *at = y->at;
    for (;;) {
        at = dcpi_json_plain_end(at, y->end);
        if (dcpi_yaml_is_break(y, at) || *at == '"' || *at == '\\') break;
        if (!dcpi_yaml_character(y, &at)) return 0;
    }
    y->at = at;
    return 1;
}
static int dcpi_yaml_double_quoted(dcpi_yaml *y, int64_t parent) {
    const char *kept;                                   /* white space before this was written as an escape and stays */
    int breaks;
    DCPI_YAML_PUT(y, "\"");
    kept = ++y->at;
    for (;;) {
        const char *part = y->at, *end;
        if (!dcpi_yaml_double_run(y)) return 0;
        end = y->at;
        if (dcpi_yaml_is_break(y, y->at)) {
            while (end > part && end > kept && (end[-1] == ' ' || end[-1] == '\t')) end--;
            dcpi_yaml_put_part(y, part, end);
            if (!dcpi_yaml_fold(y, parent, 0, 0, &breaks)) return 0;
            dcpi_yaml_put_breaks(y, breaks);
            continue;
        }
        dcpi_yaml_put_part(y, part, end);
        if (*y->at++ == '"') { DCPI_YAML_PUT(y, "\""); return 1; }
        if (y->at < y->end && dcpi_yaml_is_break(y, y->at)) {           /* an escaped break is no space */
            if (!dcpi_yaml_fold(y, parent, 0, 0, &breaks)) return 0;
            if (breaks > 1) dcpi_yaml_put_breaks(y, breaks);
        } else if (!dcpi_yaml_escape(y)) return 0;
        kept = y->at;
    }
}
static int dcpi_yaml_quoted(dcpi_yaml *y, int64_t parent) {
    dcpi_yaml_note(y);
    return *y->at == '"' ? dcpi_yaml_double_quoted(y, parent) : dcpi_yaml_single_quoted(y, parent);
}

/* ---- flow collections: the lines of one stand deeper than `parent` */
static int dcpi_yaml_flow_node(dcpi_yaml *y, int64_t parent);

/* Where an item ends that is the same in JSON: digits, or text in quotes. NULL: it is another one. */
static const char *dcpi_yaml_same_item(const char *at, const char *end) {
    const char *start = at;
    if (at < end && *at == '"') {
        at = dcpi_json_plain_end(at + 1, end);
        return at < end && *at == '"' ? at + 1 : NULL;
    }
    at = dcpi_yaml_digits(at, end);
    return at == start || (*start == '0' && at - start > 1) ? NULL : at;
}
/* [1024, 1024] and ["<digest>", "<digest>"] stand in every shard, and are the same in JSON. 0: it is another one, and
 * nothing has happened. Not when a place is looked for, which may be inside. */
static int dcpi_yaml_same_list(dcpi_yaml *y) {
    const char *at = y->at + 1, *end = y->end;
    if (y->wanted != SIZE_MAX || y->depth >= DCP_LIMIT_DEPTH) return 0;
    for (;;) {
        at = dcpi_yaml_same_item(at, end);
        if (!at || end - at < 2) return 0;
        if (*at == ']') break;
        if (at[0] != ',' || at[1] != ' ') return 0;
        at += 2;
    }
    dcpi_yaml_put(y, y->at, (size_t)(at + 1 - y->at));
    y->at = at + 1;
    return 1;
}

static int dcpi_yaml_flow_gap(dcpi_yaml *y, int64_t parent) {
    const char *line = y->line;
    if (!dcpi_yaml_next(y)) return 0;
    if (y->at == y->end) return dcpi_yaml_fail(y, y->at, "the text ends inside [ ] or { }");
    if (y->line != line && dcpi_yaml_column(y) <= parent)
        return dcpi_yaml_fail(y, y->at, "the lines of [ ] or { } must be indented deeper than what they belong to");
    return 1;
}
/* A key of { }, or what may be one: a scalar. */
static int dcpi_yaml_flow_key(dcpi_yaml *y, int64_t parent) {
    const char *text = y->at, *end;
    if (*text == '"' || *text == '\'') return dcpi_yaml_quoted(y, parent);
    if (*text == '[' || *text == '{')
        return dcpi_yaml_fail(y, text, "complex keys ([...] or {...} before ':') are not accepted");
    if (!dcpi_yaml_begins_plain(y, text, 1)) return dcpi_yaml_refuse(y);
    dcpi_yaml_note(y);
    if (!dcpi_yaml_plain_line(y, 1, &end)) return 0;
    if (end - text == 2 && memcmp(text, "<<", 2) == 0)
        return dcpi_yaml_fail(y, text, "merge keys (<<) are not accepted");
    return dcpi_yaml_plain_rest(y, parent, 1, 1, text, end);
}
/* The value behind a ':' in { } or [ ]; nothing is null. */
static int dcpi_yaml_flow_value(dcpi_yaml *y, int64_t parent) {
    DCPI_YAML_PUT(y, ": ");
    y->at++;
    if (!dcpi_yaml_flow_gap(y, parent)) return 0;
    if (*y->at != ',' && *y->at != '}' && *y->at != ']') return dcpi_yaml_flow_node(y, parent);
    dcpi_yaml_note(y);
    DCPI_YAML_PUT(y, "null");
    return 1;
}
static int dcpi_yaml_flow_member(dcpi_yaml *y, int64_t parent) {
    const int is_quoted = *y->at == '"' || *y->at == '\'';
    if (!dcpi_yaml_flow_key(y, parent) || !dcpi_yaml_flow_gap(y, parent)) return 0;
    if (*y->at == ':' && (is_quoted || dcpi_yaml_is_colon(y, y->at, 1))) return dcpi_yaml_flow_value(y, parent);
    DCPI_YAML_PUT(y, ": null");
    return 1;
}
/* An item of [ ]; `key: value` there is an object of one member. */
static int dcpi_yaml_flow_item(dcpi_yaml *y, int64_t parent) {
    const size_t from = y->out.size;
    const char *text = y->at, *line = y->line, *end;
    const int is_quoted = *text == '"' || *text == '\'';
    int is_pair = 0;
    if (!is_quoted && *text != '[' && *text != '{' && dcpi_yaml_begins_plain(y, text, 1)) {
        dcpi_yaml_note(y);
        if (!dcpi_yaml_plain_line(y, 1, &end)) return 0;
        is_pair = dcpi_yaml_is_colon(y, y->at, 1);
        if (is_pair && end - text == 2 && memcmp(text, "<<", 2) == 0)
            return dcpi_yaml_fail(y, text, "merge keys (<<) are not accepted");
        if (!dcpi_yaml_plain_rest(y, parent, 1, is_pair, text, end)) return 0;
    } else if (!dcpi_yaml_flow_node(y, parent)) return 0;
    if (!dcpi_yaml_flow_gap(y, parent)) return 0;
    if (*y->at != ':') return 1;
    if (*text == '[' || *text == '{')
        return dcpi_yaml_fail(y, text, "complex keys ([...] or {...} before ':') are not accepted");
    if (y->line != line || !(is_pair || is_quoted))
        return dcpi_yaml_fail(y, y->at, "a key and its ':' inside [ ] must stand on one line");
    if (!dcpi_yaml_enter(y, text)) return 0;
    dcpi_yaml_open_before(y, from);
    if (!dcpi_yaml_flow_value(y, parent) || !dcpi_yaml_flow_gap(y, parent)) return 0;
    DCPI_YAML_PUT(y, " }");
    y->depth--;
    return 1;
}
static int dcpi_yaml_flow_collection(dcpi_yaml *y, int64_t parent) {
    const int is_map = *y->at == '{';
    const char close = is_map ? '}' : ']';
    int count = 0;
    dcpi_yaml_note(y);
    if (!is_map && dcpi_yaml_same_list(y)) return 1;
    if (!dcpi_yaml_enter(y, y->at)) return 0;
    DCPI_YAML_PUT(y, "[");
    if (is_map && !y->out.failed) y->out.data[y->out.size - 1] = '{';
    y->at++;
    for (;; count++) {
        if (!dcpi_yaml_flow_gap(y, parent)) return 0;
        if (*y->at == close) break;
        if (count > 0) DCPI_YAML_PUT(y, ", ");
        else if (is_map) DCPI_YAML_PUT(y, " ");
        if (!(is_map ? dcpi_yaml_flow_member(y, parent) : dcpi_yaml_flow_item(y, parent))) return 0;
        if (!dcpi_yaml_flow_gap(y, parent)) return 0;
        if (*y->at == close) break;
        if (*y->at != ',')
            return dcpi_yaml_unexpected(y, y->at, is_map ? "where ',' or '}' was expected"
                                        : "where ',' or ']' was expected");
        y->at++;
    }
    y->at++;
    y->depth--;
    if (!is_map) DCPI_YAML_PUT(y, "]");
    else if (count > 0 || (!y->out.failed && y->out.data[y->out.size - 1] != '{')) DCPI_YAML_PUT(y, " }");
    else DCPI_YAML_PUT(y, "}");
    return 1;
}
static int dcpi_yaml_flow_node(dcpi_yaml *y, int64_t parent) {
    const char *text = y->at, *end;
    if (*text == '[' || *text == '{') return dcpi_yaml_flow_collection(y, parent);
    if (*text == '"' || *text == '\'') return dcpi_yaml_quoted(y, parent);
    if (!dcpi_yaml_begins_plain(y, text, 1)) return dcpi_yaml_refuse(y);
    dcpi_yaml_note(y);
    return dcpi_yaml_plain_line(y, 1, &end) && dcpi_yaml_plain_rest(y, parent, 1, 0, text, end);
}

/* ---- block collections: what is deeper than `parent` belongs to it. Each reads up to what comes next in the document,
 * on a line of its own */
static int dcpi_yaml_block_node(dcpi_yaml *y, int64_t parent, int has_tab);

/* A scalar or flow collection on the line of its key. */
static int dcpi_yaml_inline_value(dcpi_yaml *y, int64_t parent) {
    const char *text = y->at, *end;
    if (*text == '"' || *text == '\'') return dcpi_yaml_quoted(y, parent) && dcpi_yaml_line_end(y);
    if (*text == '[' || *text == '{') return dcpi_yaml_flow_collection(y, parent) && dcpi_yaml_line_end(y);
    if (!dcpi_yaml_begins_plain(y, text, 0)) return dcpi_yaml_refuse(y);
    dcpi_yaml_note(y);
    if (!dcpi_yaml_plain_line(y, 0, &end)) return 0;
    if (y->at < y->end && *y->at == ':')
        return dcpi_yaml_fail(y, y->at, "a second ': ' on this line; quote the value, or begin a line");
    return dcpi_yaml_plain_rest(y, parent, 0, 0, text, end) && dcpi_yaml_next(y);
}
/* What belongs to a key in this column, or to a '-': y->at is behind the ':' or '-'. */
static int dcpi_yaml_block_value(dcpi_yaml *y, int64_t column, int is_item) {
    const char *line = y->line, *mark = y->at;
    if (y->at < y->end && *y->at == ' ') y->at++;
    if (y->at == y->end || *y->at == ' ' || *y->at == '#' || *y->at == '\t' || dcpi_yaml_is_break(y, y->at))
        if (!dcpi_yaml_next(y)) return 0;
    if (y->at < y->end && y->line == line) {
        const int has_tab = memchr(mark, '\t', (size_t)(y->at - mark)) != NULL;
        return is_item ? dcpi_yaml_block_node(y, column, has_tab) : dcpi_yaml_inline_value(y, column);
    }
    if (y->at < y->end && (dcpi_yaml_column(y) > column || (!is_item && dcpi_yaml_column(y) == column &&
                                                            dcpi_yaml_is_mark(
                                                                    y, y->at,
                                                                    '-')))) return dcpi_yaml_block_node(
                                                                            y, dcpi_yaml_column(y) > column ? column
                                                                            : column - 1, 0);
    if (y->out.size <= y->wanted) y->found = mark;
    DCPI_YAML_PUT(y, "null");
    return 1;
}
static int dcpi_yaml_sequence(dcpi_yaml *y) {
    const int64_t column = dcpi_yaml_column(y);
    const char *from = y->at;
    int count = 0;
    dcpi_yaml_note(y);
    if (!dcpi_yaml_enter(y, from)) return 0;
    DCPI_YAML_PUT(y, "[");
    while (y->at < y->end && dcpi_yaml_column(y) == column && dcpi_yaml_is_mark(y, y->at, '-')) {
        if (count++ > 0) DCPI_YAML_PUT(y, ", ");
        y->at++;
        if (!dcpi_yaml_block_value(y, column, 1)) return 0;
    }
    DCPI_YAML_PUT(y, "]");
    y->depth--;
    return 1;
}
/* A key that is not the first of its map; y->at moves to its ':'. */
static int dcpi_yaml_block_key(dcpi_yaml *y, int64_t column) {
    const char *text = y->at, *line = y->line, *end;
    if (*text == '"' || *text == '\'') {
        if (!dcpi_yaml_quoted(y, column - 1)) return 0;
        if (y->line != line) return dcpi_yaml_fail(y, text, "a key must stand on one line");
        dcpi_yaml_blanks(y);
        if (dcpi_yaml_is_colon(y, y->at, 0)) return 1;
        return dcpi_yaml_unexpected(y, y->at, "behind a key, where ':' and a space were expected");
    }
    if (!dcpi_yaml_begins_plain(y, text, 0)) return dcpi_yaml_refuse(y);
    dcpi_yaml_note(y);
    if (!dcpi_yaml_plain_line(y, 0, &end)) return 0;
    if (y->at == y->end || *y->at != ':')
        return dcpi_yaml_fail(y, text, "expected a key and ':', like the lines before it");
    if (end - text == 2 && memcmp(text, "<<", 2) == 0)
        return dcpi_yaml_fail(y, text, "merge keys (<<) are not accepted");
    dcpi_yaml_put_string(y, text, end);
    return 1;
}
/* A map, from behind its first key on. */
static int dcpi_yaml_map(dcpi_yaml *y, int64_t column) {
    for (;;) {
        DCPI_YAML_PUT(y, ": ");
        y->at++;
        if (!dcpi_yaml_block_value(y, column, 0)) return 0;
        if (y->at == y->end || dcpi_yaml_column(y) != column) break;
        DCPI_YAML_PUT(y, ", ");
        if (!dcpi_yaml_block_key(y, column)) return 0;
    }
    DCPI_YAML_PUT(y, " }");
    y->depth--;
    return 1;
}
/* A map where a first key was found; has_tab: a tab stands before it on its line, as if it were indentation. */
static int dcpi_yaml_map_begin(dcpi_yaml *y, const char *key, size_t from, int has_tab) {
    if (has_tab) return dcpi_yaml_fail(y, key, "a tab as indentation; YAML indents with spaces");
    if (!dcpi_yaml_enter(y, key)) return 0;
    dcpi_yaml_open_before(y, from);
    return dcpi_yaml_map(y, (int64_t)(key - y->line));
}
static int dcpi_yaml_block_quoted(dcpi_yaml *y, int64_t parent, int has_tab) {
    const size_t from = y->out.size;
    const char *text = y->at, *line = y->line;
    if (!dcpi_yaml_quoted(y, parent)) return 0;
    if (y->line != line) return dcpi_yaml_line_end(y);
    dcpi_yaml_blanks(y);
    return dcpi_yaml_is_colon(y, y->at, 0) ? dcpi_yaml_map_begin(y, text, from, has_tab) : dcpi_yaml_line_end(y);
}
static int dcpi_yaml_block_plain(dcpi_yaml *y, int64_t parent, int has_tab) {
    const size_t from = y->out.size;
    const char *text = y->at, *end;
    dcpi_yaml_note(y);
    if (!dcpi_yaml_plain_line(y, 0, &end)) return 0;
    if (y->at == y->end || *y->at != ':') return dcpi_yaml_plain_rest(y, parent, 0, 0, text, end) && dcpi_yaml_next(y);
    if (end - text == 2 && memcmp(text, "<<", 2) == 0)
        return dcpi_yaml_fail(y, text, "merge keys (<<) are not accepted");
    dcpi_yaml_put_string(y, text, end);
    return dcpi_yaml_map_begin(y, text, from, has_tab);
}
static int dcpi_yaml_block_node(dcpi_yaml *y, int64_t parent, int has_tab) {
    const char *text = y->at;
    if (dcpi_yaml_is_mark(y, text, '-'))
        return has_tab ? dcpi_yaml_fail(y, text, "a tab as indentation; YAML indents with spaces") : dcpi_yaml_sequence(
                y);
    if (*text == '"' || *text == '\'') return dcpi_yaml_block_quoted(y, parent, has_tab);
    if (*text == '[' || *text == '{') {
        if (!dcpi_yaml_flow_collection(y, parent)) return 0;
        dcpi_yaml_blanks(y);
        if (dcpi_yaml_is_colon(y, y->at, 0))
            return dcpi_yaml_fail(y, text, "complex keys ([...] or {...} before ':') are not accepted");
        return dcpi_yaml_line_end(y);
    }
    return dcpi_yaml_begins_plain(y, text, 0) ? dcpi_yaml_block_plain(y, parent, has_tab) : dcpi_yaml_refuse(y);
}

/* ---- documents */
static int dcpi_yaml_document(dcpi_yaml *y) {
    if (y->end - y->at >= 3 && memcmp(y->at, "\xEF\xBB\xBF", 3) == 0)
        return dcpi_yaml_fail(y, y->at, "a byte order mark stands before the document; it is not accepted");
    if (!dcpi_yaml_is_marker(y, "---") && !dcpi_yaml_indent(y)) return 0;
    while (y->at < y->end && (*y->at == '#' || *y->at == ' ' || dcpi_yaml_is_break(y, y->at)) &&
           !dcpi_yaml_is_marker(y, "---")) {
        if (*y->at == '#') { if (!dcpi_yaml_comment(y)) return 0; continue; }
        if (*y->at == ' ') { y->at++; continue; }
        y->at += *y->at == '\r' ? 2 : 1;
        y->line = y->at;
        if (!dcpi_yaml_is_marker(y, "---") && !dcpi_yaml_indent(y)) return 0;
    }
    if (dcpi_yaml_is_marker(y, "---")) {
        y->at += 3;
        dcpi_yaml_blanks(y);
        if (y->at < y->end && strchr("&*!|>%", *y->at)) return dcpi_yaml_refuse(y);
        if (!dcpi_yaml_is_break(y, y->at) && *y->at != '#')
            return dcpi_yaml_fail(y, y->at, "a value on the line of '---'; begin a line of its own");
        if (!dcpi_yaml_next(y)) return 0;
    }
    if (y->at == y->end) return dcpi_yaml_fail(y, y->at, "the document is empty");
    if (!dcpi_yaml_block_node(y, -1, 0)) return 0;
    if (y->at == y->end) return 1;
    return dcpi_yaml_fail(y, y->at, "this line's indentation fits none of the lines above it");
}
/* The document as JSON text, in out, which is freed in any case. */
static dcp_status dcpi_yaml_to_json(const char *text, size_t size, size_t wanted, dcpi_yaml *y, dcp_error *err) {
    void *memory = NULL;
    memset(y, 0, sizeof *y);
    y->start = y->at = y->line = y->found = text;
    y->end = text + size;
    y->wanted = wanted;
    y->err = err;
    (void)dcpi_succeed(err);
    /* a manifest needs that; else it grows */
    if (dcpi_grow(&memory, &y->out.capacity, size / 8 * 9, 1, NULL)) y->out.data = (char *)memory;
    (void)dcpi_yaml_document(y);
    if (!y->status && y->out.failed) y->status = dcpi_no_memory(err, y->out.capacity);
    return y->status;
}
/* Where a byte of the JSON text comes from; user: the dcpi_yaml. */
static void dcpi_yaml_place(void *user, size_t offset, dcpi_json_place *out) {
    const dcpi_yaml *made = (const dcpi_yaml *)user;
    dcpi_yaml again;
    (void)dcpi_yaml_to_json(made->start, (size_t)(made->end - made->start), offset, &again, NULL);
    dcpi_buffer_free(&again.out);
    dcpi_text_place(again.start, again.found, out);
}
DCPDEF dcp_status dcp_yaml_parse(const char *text, size_t size, dcp_json **out, dcp_error *err) {
    dcpi_yaml y;
    dcp_status status;
    *out = NULL;
    if (!text) return dcpi_fail(err, DCP_E_INVALID, "dcp_yaml_parse: text is NULL");
    status = dcpi_yaml_to_json(text, size, SIZE_MAX, &y, err);
    if (!status) status = dcpi_json_tree(y.out.data, y.out.size, dcpi_yaml_place, &y, out, err);
    dcpi_buffer_free(&y.out);
    return status;
}

