/* output.c - messages, results for people, tables and progress. */
#include "dcptool.h"
#include <stdarg.h>

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

/* Writes `size` bytes of text, escaped, and returns their width in characters; file NULL: only the width. */
static int escape_text(FILE *file, const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text, *end = p + size;
    int width = 0, length, i;
    for (; p < end; p += length) {
        int32_t code = tool_utf8_at(p, &length);
        if (!tool_is_unsafe(code)) {
            width++;
            if (file) fwrite(p, 1, (size_t)length, file);
        } else if (code == '\n' || code == '\t') {
            width += 2;
            if (file) fputs(code == '\n' ? "\\n" : "\\t", file);
        } else {
            for (i = 0; i < length; i++, width += 4) if (file) fprintf(file, "\\x%02x", p[i]);
        }
    }
    return width;
}

/* A newline at the end is ours; all others are escaped. */
static void put_text(FILE *file, const char *text) {
    const size_t length = strlen(text);
    const int ends_line = length > 0 && text[length - 1] == '\n';
    escape_text(file, text, length - (size_t)ends_line);
    if (ends_line) fputc('\n', file);
}

/* Into new memory. */
static char *format_text(const char *format, va_list arguments) {
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
void tool_print(tool_state *t, const char *format, ...) {
    va_list arguments;
    char *text;
    if (t->options & TOOL_JSON) return;
    tool_progress_clear(t);
    va_start(arguments, format);
    text = format_text(format, arguments);
    va_end(arguments);
    put_text(stdout, text);
    free(text);
}

const char *tool_paint(const tool_state *t, const char *colour) { return t->has_colour ? colour : ""; }

void tool_say(const tool_command *c, const char *text) {
    fflush(stdout);
    fprintf(stderr, "dcptool%s%s: ", c ? " " : "", c ? c->name : "");
    put_text(stderr, text);
    fputc('\n', stderr);
}

void tool_note(tool_state *t, const char *format, ...) {
    va_list arguments;
    char *text;
    if (t->options & TOOL_QUIET) return;
    tool_progress_clear(t);
    va_start(arguments, format);
    text = format_text(format, arguments);
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
    tool_progress_clear(t);
    tool_say(t->command, err->message);
    if (is_new) tool_json_begin(t);
    tool_json_open(t, "error", '{');
    tool_json_text(t, "status", dcp_status_name(err->status));
    tool_json_text(t, "message", err->message);
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

/* ---- tables ------------------------------------------------------------------------------------------------------ */
tool_table tool_table_begin(tool_state *t, const char *align) {
    tool_table table = DCP_ZERO;
    table.t = t;
    table.align = align;
    return table;
}

void tool_table_add(tool_table *table, const char *format, ...) {
    va_list arguments;
    if (table->t->options & TOOL_JSON) return;
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 64;
        if (table->capacity > SIZE_MAX / 2 / sizeof *table->cells) tool_need(NULL);
        table->cells = tool_need(realloc(table->cells, table->capacity * sizeof *table->cells));
    }
    va_start(arguments, format);
    table->cells[table->count++] = format_text(format, arguments);
    va_end(arguments);
}

void tool_table_end(tool_table *table) {
    const size_t columns = strlen(table->align);
    int width[16] = { 0 };
    size_t i;
    tool_progress_clear(table->t);
    for (i = 0; i < table->count; i++) {
        const int cell = escape_text(NULL, table->cells[i], strlen(table->cells[i]));
        if (cell > width[i % columns]) width[i % columns] = cell;
    }
    for (i = 0; i < table->count; i++) {
        const char *cell = table->cells[i];
        const size_t column = i % columns, length = strlen(cell);
        const int is_last = column + 1 == columns, space = width[column] - escape_text(NULL, cell, length);
        if (table->align[column] == 'r') printf("%*s", space, "");
        escape_text(stdout, cell, length);
        if (table->align[column] == 'l' && !is_last) printf("%*s", space, "");
        fputs(is_last ? "\n" : "  ", stdout);
        free(table->cells[i]);
    }
    free(table->cells);
}

/* ---- progress: a bar on a terminal, else a line now and then ----------------------------------------------------- */
void tool_progress_clear(tool_state *t) {
    if (!t->progress.is_drawn) return;
    fputs("\r\x1b[K", stderr);
    fflush(stderr);
    t->progress.is_drawn = 0;
}

void tool_on_progress(void *user, const dcp_progress *p) {
    static const char full[] = "####################", empty[] = "....................";
    tool_state *t = user;
    tool_progress *whole = &t->progress;
    const double total = whole->total ? (double)whole->total : (double)p->bytes_total;
    const double sum = (double)p->bytes_done + (whole->total ? (double)whole->done : 0);
    const double done = sum < total ? sum : total;
    char done_text[TOOL_NUMBER], total_text[TOOL_NUMBER], speed_text[TOOL_NUMBER];
    int marks;
    if (whole->mode == TOOL_SHOW_NOTHING || total <= 0) return;
    marks = (int)(done / total * 20);
    tool_bytes_text(done, done_text);
    tool_bytes_text(total, total_text);
    tool_bytes_text(p->bytes_per_second, speed_text);
    if (whole->mode == TOOL_SHOW_BAR) {
        fprintf(stderr, "\r%s [%.*s%.*s] %3.0f%%  %s of %s, %s/s\x1b[K", t->command->name, marks, full, 20 - marks,
                empty, done / total * 100, done_text, total_text, speed_text);
        fflush(stderr);
        whole->is_drawn = 1;
    } else if (time(NULL) - whole->last_line >= 10) {
        fprintf(stderr, "dcptool %s: %.0f%%, %s of %s, %s/s\n", t->command->name, done / total * 100, done_text,
                total_text, speed_text);
        whole->last_line = time(NULL);
    }
}
