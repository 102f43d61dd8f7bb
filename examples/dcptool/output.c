/* output.c - messages, results for people, and the bar that shows progress. */
#include "dcptool.h"

/* ---- text, escaped ----------------------------------------------------------------------------------------------- */
/* The code point at p and its length in bytes; -1 and 1 for a byte that is not UTF-8. */
int32_t tool_utf8_at(const unsigned char *p, int *length) {
    static const int32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const int n = *p < 0x80 ? 1 : *p < 0xC0 ? 0 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : *p < 0xF8 ? 4 : 0;
    int32_t code = n == 1 ? *p : n > 1 ? *p & (0x7F >> n) : -1;
    int i;
    *length = 1;
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) return -1;           /* so too at the NUL: nothing after the end is read */
        code = code << 6 | (p[i] & 0x3F);
    }
    if (n == 0 || code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return -1;
    *length = n;
    return code;
}

/* Control characters, and those that turn the writing direction: a terminal may obey them. */
int tool_is_unsafe(int32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

char *tool_escape(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text, *end = p + size;
    char *escaped = size < SIZE_MAX / 4 ? malloc(4 * size + 1) : NULL, *out = tool_need(escaped);
    int length, i;
    for (; p < end; p += length) {
        const int32_t code = tool_utf8_at(p, &length);
        if (code >= 0 && !tool_is_unsafe(code)) {
            memcpy(out, p, (size_t)length);
            out += length;
        } else if (code == '\n' || code == '\t') {
            *out++ = '\\';
            *out++ = code == '\n' ? 'n' : 't';
        } else for (i = 0; i < length; i++, out += 4) snprintf(out, 5, "\\x%02x", p[i]);
    }
    *out = '\0';
    return escaped;
}

/* Combining marks take no column, ideographs and the like two. */
static int columns_of(int32_t code) {
    static const struct { int32_t first, last; int columns; } ranges[] = {
        { 0x0300, 0x036F, 0 }, { 0x1100, 0x115F, 2 }, { 0x200B, 0x200D, 0 }, { 0x2E80, 0xA4CF, 2 },
        { 0xAC00, 0xD7A3, 2 }, { 0xF900, 0xFAFF, 2 }, { 0xFE00, 0xFE0F, 0 }, { 0xFE30, 0xFE6F, 2 },
        { 0xFF00, 0xFF60, 2 }, { 0xFFE0, 0xFFE6, 2 }, { 0x1F300, 0x1F64F, 2 }, { 0x1F900, 0x1F9FF, 2 },
        { 0x20000, 0x3FFFD, 2 }
    };
    size_t i;
    for (i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return ranges[i].columns;
    return 1;
}

static const char *walk(const char *text, int columns, int *at) {
    int length;
    for (*at = 0; *text; text += length) {
        const int next = *at + columns_of(tool_utf8_at((const unsigned char *)text, &length));
        if (next > columns) break;
        *at = next;
    }
    return text;
}

const char *tool_cut(const char *text, int columns) {
    int at;
    return walk(text, columns, &at);
}

int tool_columns(const char *text) {
    int at;
    walk(text, INT32_MAX / 2, &at);
    return at;
}

/* Up to the next space outside brackets. */
static int word_length(const char *text) {
    int length = 0, depth = 0;
    for (; text[length] && (depth > 0 || text[length] != ' '); length++)
        depth += text[length] == '[' ? 1 : text[length] == ']' ? -1 : 0;
    return depth > 0 ? (int)strcspn(text, " ") : length;
}

static int longest_word(const char *text) {
    int longest = 0;
    while (*text) {
        const int length = word_length(text), columns = tool_columns(text) - tool_columns(text + length);
        if (columns > longest) longest = columns;
        text += length + (text[length] != '\0');
    }
    return longest;
}

void tool_put_wrapped(FILE *file, int column, int indent, int width, const char *text) {
    while (*text) {
        const int length = word_length(text), columns = tool_columns(text) - tool_columns(text + length);
        if (width && column > indent && column + 1 + columns > width) {
            fprintf(file, "\n%*s", indent - 1, "");
            column = indent - 1;
        }
        fprintf(file, " %.*s", length, text);
        column += 1 + columns;
        text += length + (text[length] != '\0');
    }
    fputc('\n', file);
}

/* A newline at the end is ours; all others are escaped. Width 0: any. */
static void put_text(FILE *file, const char *text, int width) {
    const size_t length = strlen(text);
    const int ends_line = length > 0 && text[length - 1] == '\n';
    char *escaped = tool_escape(text, length - (size_t)ends_line);
    if (width && tool_columns(escaped) > width) {
        const int first = word_length(escaped);
        const char *rest = escaped + first + (escaped[first] == ' ');
        tool_put_wrapped(file, fprintf(file, "%.*s", first, escaped), 4, width, rest);
    } else fprintf(file, "%s%s", escaped, ends_line ? "\n" : "");
    free(escaped);
}

/* The text stays right of the mark, if there is room for its longest word. */
static void put_marked(const tool_state *t, const char *colour, const char *mark, const char *text) {
    char *escaped = tool_escape(text, strlen(text));
    int column = (int)strlen(mark), indent = column + 1;
    if (t->width && column + longest_word(escaped) >= t->width) {
        indent = 4;
        column = (int)strcspn(mark, ":") + 1;
    }
    printf("%s%.*s%s", tool_paint(t, colour), column, mark, tool_paint(t, colour[0] ? TOOL_PLAIN : ""));
    tool_put_wrapped(stdout, column, indent, t->width, escaped);
    free(escaped);
}

char *tool_format(const char *format, va_list arguments) {
    va_list again;
    size_t size;
    char *text;
    int length;
    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    size = length > 0 ? (size_t)length + 1 : 1;
    text = tool_need(calloc(size, 1));
    vsnprintf(text, size, format, arguments);
    return text;
}

/* ---- results and messages ---------------------------------------------------------------------------------------- */
static void print(tool_state *t, const char *format, va_list arguments) {
    char *text = tool_format(format, arguments);
    tool_progress_clear(t);
    put_text(stdout, text, t->width);
    free(text);
}

void tool_print(tool_state *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!(t->options & TOOL_JSON)) print(t, format, arguments);
    va_end(arguments);
}

void tool_print_total(tool_state *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!(t->options & (TOOL_JSON | TOOL_QUIET))) print(t, format, arguments);
    va_end(arguments);
}

void tool_print_marked(tool_state *t, const char *colour, const char *mark, const char *format, ...) {
    va_list arguments;
    char *text;
    if (t->options & TOOL_JSON) return;
    va_start(arguments, format);
    text = tool_format(format, arguments);
    va_end(arguments);
    tool_progress_clear(t);
    put_marked(t, colour, mark, text);
    free(text);
}

const char *tool_paint(const tool_state *t, const char *colour) { return t->has_colour ? colour : ""; }

void tool_say(const tool_command *c, const char *text) {
    fflush(stdout);
    fprintf(stderr, "dcptool%s%s: ", c ? " " : "", c ? c->name : "");
    put_text(stderr, text, 0);
    fputc('\n', stderr);
}

void tool_note(tool_state *t, const char *format, ...) {
    va_list arguments;
    char *text;
    if (t->options & TOOL_QUIET) return;
    tool_progress_clear(t);
    va_start(arguments, format);
    text = tool_format(format, arguments);
    va_end(arguments);
    tool_say(t->command, text);
    free(text);
}

int tool_code_of(dcp_status status) {
    switch (status) {
    case DCP_OK: return TOOL_FINE;
    case DCP_E_CHECKSUM: case DCP_E_SIGNATURE: case DCP_E_FORMAT: case DCP_E_INCOMPLETE: case DCP_E_MISMATCH:
        return TOOL_NO;
    case DCP_E_INVALID: return TOOL_USAGE;
    default: return TOOL_TROUBLE;       /* missing, I/O, newer, beyond a limit, interrupted: no answer */
    }
}

/* With --json the object says it too, as its only content or, once it has begun, as one more member. */
int tool_fail(tool_state *t, const dcp_error *err) {
    const int is_new = t->json_depth == 0;
    const char *message = tool_in_our_words(err->message);
    tool_progress_clear(t);
    tool_say(t->command, message);
    if (is_new) tool_json_begin(t);
    tool_json_open(t, "error", '{');
    tool_json_text(t, "status", dcp_status_name(err->status));
    tool_json_text(t, "message", message);
    tool_json_close(t, '}');
    if (is_new) tool_json_end(t);
    return tool_code_of(err->status);
}

static dcp_status set_error(dcp_error *err, dcp_status status, const char *format, va_list arguments) {
    memset(err, 0, sizeof *err);
    err->status = status;
    vsnprintf(err->message, sizeof err->message, format, arguments);
    return status;
}

dcp_status tool_error(dcp_error *err, dcp_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_error(err, status, format, arguments);
    va_end(arguments);
    return status;
}

int tool_trouble(tool_state *t, dcp_status status, const char *format, ...) {
    va_list arguments;
    dcp_error err;
    va_start(arguments, format);
    set_error(&err, status, format, arguments);
    va_end(arguments);
    return tool_fail(t, &err);
}

/* ---- the bar ----------------------------------------------------------------------------------------------------- */
void tool_progress_clear(tool_state *t) {
    if (!t->progress.is_drawn) return;
    fputs("\r\x1b[K", stderr);
    fflush(stderr);
    t->progress.is_drawn = 0;
}

static void duration_text(double seconds, char text[TOOL_NUMBER]) {
    if (seconds < 100) snprintf(text, TOOL_NUMBER, "%.0f s", seconds);
    else if (seconds < 6000) snprintf(text, TOOL_NUMBER, "%.0f min", seconds / 60);
    else snprintf(text, TOOL_NUMBER, "%.0f h", seconds / 3600 < 1e6 ? seconds / 3600 : 1e6);
}

/* What is said to the right of the bar: as much as fits beside a name and a bar of ten. */
static void describe(const dcp_progress *p, double done, double total, int room, char *text, size_t size) {
    char done_text[TOOL_NUMBER], total_text[TOOL_NUMBER], rate[TOOL_NUMBER], left[TOOL_NUMBER] = "";
    const int percent = (int)(done / total * 100);
    tool_bytes_text(done, done_text);
    tool_bytes_text(total, total_text);
    tool_bytes_text(p->bytes_per_second, rate);
    if (p->bytes_per_second > 0) duration_text((total - done) / p->bytes_per_second, left);
    snprintf(text, size, "%3d%%  %s of %s  %s/s  %s left", percent, done_text, total_text, rate, left);
    if ((int)strlen(text) <= room && left[0]) return;
    snprintf(text, size, "%3d%%  %s/s  %s", percent, rate, left);
    if ((int)strlen(text) > room || !left[0]) snprintf(text, size, "%3d%%", percent);
}

void tool_on_progress(void *user, const dcp_progress *p) {
    static const char full[] = "##############################", empty[] = "..............................";
    tool_state *t = user;
    tool_progress *whole = &t->progress;
    const double total = whole->total ? (double)whole->total : (double)p->bytes_total;
    const double sum = (double)p->bytes_done + (whole->total ? (double)whole->done : 0);
    const double done = sum < total ? sum : total;
    char text[5 * TOOL_NUMBER], *name;
    const char *cut;
    int length, marks, bar;
    if (!whole->width || total <= 0 || tool_seconds() - whole->begun < TOOL_BAR_AFTER) return;
    name = tool_escape(tool_or(whole->name, t->command->name), strlen(tool_or(whole->name, t->command->name)));
    cut = tool_cut(name, whole->width / 3);
    length = tool_columns(name) - tool_columns(cut);
    describe(p, done, total, whole->width - length - 15, text, sizeof text);
    bar = whole->width - length - (int)strlen(text) - 5;
    if (bar > (int)sizeof full - 1) bar = (int)sizeof full - 1;
    marks = bar > 0 ? (int)(done / total * bar) : 0;
    if (bar > 0) {
        fprintf(stderr, "\r%.*s [%.*s%.*s] %s\x1b[K", (int)(cut - name), name, marks, full, bar - marks, empty, text);
        fflush(stderr);
        whole->is_drawn = 1;
    }
    free(name);
}
