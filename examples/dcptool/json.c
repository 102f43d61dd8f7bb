/* json.c - the object that --json prints. */
#include "dcptool.h"

static void put_string(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    int length;
    putchar('"');
    for (; *p; p += length) {
        int32_t code = tool_utf8_at(p, &length);
        if (code < 0) fputs("\\ufffd", stdout);         /* JSON is UTF-8, a path may be anything */
        else if (code == '"' || code == '\\') printf("\\%c", (char)code);
        else if (code < 0x10000 && tool_is_unsafe(code)) printf("\\u%04x", (unsigned)code);
        else fwrite(p, 1, (size_t)length, stdout);
    }
    putchar('"');
}

/* 0: nothing is to be written. */
static int begin_item(tool_state *t, const char *key) {
    if (!(t->options & TOOL_JSON)) return 0;
    tool_progress_clear(t);
    if (t->json_has_items) putchar(',');
    if (t->json_depth) printf("\n%*s", 2 * t->json_depth, "");
    t->json_has_items = 1;
    if (key) {
        put_string(key);
        fputs(": ", stdout);
    }
    return 1;
}

void tool_json_open(tool_state *t, const char *key, char bracket) {
    if (!begin_item(t, key)) return;
    putchar(bracket);
    t->json_depth++;
    t->json_has_items = 0;
}

void tool_json_close(tool_state *t, char bracket) {
    if (!(t->options & TOOL_JSON)) return;
    t->json_depth--;
    if (t->json_has_items) printf("\n%*s", 2 * t->json_depth, "");
    putchar(bracket);
    if (t->json_depth == 0) putchar('\n');
    t->json_has_items = 1;
}

void tool_json_begin(tool_state *t) {
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "command", t->command->name);
}

void tool_json_end(tool_state *t) { tool_json_close(t, '}'); }

void tool_json_text(tool_state *t, const char *key, const char *text) {
    if (!text) tool_json_raw(t, key, "null");
    else if (begin_item(t, key)) put_string(text);
}

void tool_json_raw(tool_state *t, const char *key, const char *value) {
    if (begin_item(t, key)) fputs(value, stdout);
}

/* Outside of strings it has no characters that a terminal might obey, so that they can be escaped wherever they are. */
void tool_json_object(tool_state *t, const char *key, const char *value) {
    const unsigned char *p = (const unsigned char *)tool_or(value, "{}");
    int length;
    if (!begin_item(t, key)) return;
    for (; *p; p += length) {
        int32_t code = tool_utf8_at(p, &length);
        if (code >= 0x7F && tool_is_unsafe(code)) printf("\\u%04x", (unsigned)code);
        else fwrite(p, 1, (size_t)length, stdout);
    }
}

void tool_json_number(tool_state *t, const char *key, int64_t number) {
    if (begin_item(t, key)) printf("%" PRId64, number);
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
