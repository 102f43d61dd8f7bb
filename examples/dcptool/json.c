/* json.c - the object that --json prints. */
#include "dcptool.h"

static int is_written(const tool_state *t) { return t->json_sink || (t->options & TOOL_JSON); }

static void put(tool_state *t, const char *text, size_t size) {
    if (t->json_sink) (void)tool_sink_write(t->json_sink, text, size);  /* it keeps a failure */
    else fwrite(text, 1, size, stdout);
}

static void put_text(tool_state *t, const char *text) { put(t, text, strlen(text)); }

static void put_escaped(tool_state *t, int32_t code) {
    char text[8];
    snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    put_text(t, text);
}

/* Within a page, what follows a `<` might end the script that the object is in. */
static int must_be_escaped(const tool_state *t, int32_t code) { return code == '<' && t->json_sink; }

static void put_string(tool_state *t, const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    int length;
    put(t, "\"", 1);
    for (; *p; p += length) {
        int32_t code = tool_utf8_at(p, &length);
        if (code < 0) put_escaped(t, 0xFFFD);           /* JSON is UTF-8, a path may be anything */
        else if (must_be_escaped(t, code) || (code < 0x10000 && tool_is_unsafe(code))) put_escaped(t, code);
        else {
            if (code == '"' || code == '\\') put(t, "\\", 1);
            put(t, (const char *)p, (size_t)length);
        }
    }
    put(t, "\"", 1);
}

/* A line of its own for people; in a page there are none to read it. */
static void put_line(tool_state *t) {
    int depth;
    if (t->json_sink) return;
    put(t, "\n", 1);
    for (depth = 0; depth < t->json_depth; depth++) put(t, "  ", 2);
}

/* 0: nothing is to be written. */
static int begin_item(tool_state *t, const char *key) {
    if (!is_written(t)) return 0;
    tool_progress_clear(t);
    if (t->json_has_items) put(t, ",", 1);
    if (t->json_depth) put_line(t);
    t->json_has_items = 1;
    if (key) {
        put_string(t, key);
        put(t, ": ", t->json_sink ? 1 : 2);
    }
    return 1;
}

void tool_json_open(tool_state *t, const char *key, char bracket) {
    if (!begin_item(t, key)) return;
    put(t, &bracket, 1);
    t->json_depth++;
    t->json_has_items = 0;
}

void tool_json_close(tool_state *t, char bracket) {
    if (!is_written(t)) return;
    t->json_depth--;
    if (t->json_has_items) put_line(t);
    put(t, &bracket, 1);
    if (t->json_depth == 0 && !t->json_sink) put(t, "\n", 1);
    t->json_has_items = t->json_depth > 0;
}

void tool_json_begin(tool_state *t) {
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "command", t->command->name);
}

void tool_json_end(tool_state *t) { tool_json_close(t, '}'); }

void tool_json_text(tool_state *t, const char *key, const char *text) {
    if (!text) tool_json_raw(t, key, "null");
    else if (begin_item(t, key)) put_string(t, text);
}

void tool_json_raw(tool_state *t, const char *key, const char *value) {
    if (begin_item(t, key)) put_text(t, value);
}

/* Outside of strings it has no characters that a terminal might obey, so that they can be escaped wherever they are. */
void tool_json_object(tool_state *t, const char *key, const char *value) {
    const unsigned char *p = (const unsigned char *)tool_or(value, "{}");
    int length;
    if (!begin_item(t, key)) return;
    for (; *p; p += length) {
        int32_t code = tool_utf8_at(p, &length);
        if (must_be_escaped(t, code) || (code >= 0x7F && tool_is_unsafe(code))) put_escaped(t, code);
        else put(t, (const char *)p, (size_t)length);
    }
}

void tool_json_number(tool_state *t, const char *key, int64_t number) {
    char text[TOOL_NUMBER];
    snprintf(text, sizeof text, "%" PRId64, number);
    tool_json_raw(t, key, text);
}

void tool_json_optional(tool_state *t, const char *key, int64_t number) {
    if (number < 0) tool_json_raw(t, key, "null");
    else tool_json_number(t, key, number);
}

void tool_json_count(tool_state *t, const char *key, size_t count) { tool_json_number(t, key, (int64_t)count); }

void tool_json_double(tool_state *t, const char *key, double number) {
    char text[TOOL_NUMBER];
    tool_json_raw(t, key, tool_double_text(number, text));
}

void tool_json_flag(tool_state *t, const char *key, int flag) { tool_json_raw(t, key, flag ? "true" : "false"); }

void tool_json_shape(tool_state *t, const char *key, int ndim, const int64_t *shape) {
    char text[TOOL_SHAPE];
    tool_json_raw(t, key, tool_shape_text(ndim, shape, text));
}
