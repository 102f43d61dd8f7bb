/* report_page.c - the page that dcptool report writes: its parts are in report_style.c, report_body.c and
 * report_script_*.c, its data comes from report_checkpoint.c or report_directory.c.
 *
 * Names in checkpoints are hostile. The data has no `<`, so that nothing in it ends the script that holds it; the
 * script puts it into the page as text only; and a policy in the page lets no other script run, by the digests of
 * ours, and nothing be fetched. */
#include "report.h"

typedef const char *const *lines;

static const lines scripts[] = {
    report_script_base, report_script_map, report_script_tensor, report_script_table, report_script_steps,
    report_script_start
};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

static void put(tool_sink *s, const char *text) { (void)tool_sink_write(s, text, strlen(text)); }  /* keeps a failure */

/* As one text, each line with its end. */
static char *joined(const lines *parts, size_t count) {
    size_t size = 1, i, k;
    char *text, *out;
    for (i = 0; i < count; i++) for (k = 0; parts[i][k]; k++) size += strlen(parts[i][k]) + 1;
    out = text = tool_new(size, 1);
    for (i = 0; i < count; i++)
        for (k = 0; parts[i][k]; k++) out += snprintf(out, size - (size_t)(out - text), "%s\n", parts[i][k]);
    return text;
}

static const char *base64_digest(const char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t digest[33] = { 0 };
    char *out = tool_new(45, 1);
    int i;
    dcp_sha256(text, strlen(text), digest);
    for (i = 0; i < 11; i++) {
        const uint32_t bits = (uint32_t)digest[3 * i] << 16 | (uint32_t)digest[3 * i + 1] << 8 | digest[3 * i + 2];
        int k;
        for (k = 0; k < 4; k++) out[4 * i + k] = letters[bits >> (18 - 6 * k) & 63];
    }
    out[43] = '=';
    return out;
}

static void put_escaped(tool_sink *s, const char *text) {
    char *escaped = tool_escape(text, strlen(text));
    const char *p;
    for (p = escaped; *p; p++) {
        if (*p == '<') put(s, "&lt;");
        else if (*p == '&') put(s, "&amp;");
        else (void)tool_sink_write(s, p, 1);
    }
    free(escaped);
}

void report_put_page(const report *r, tool_sink *s) {
    const lines style = report_style, body = report_body;
    const char *rules = joined(&style, 1), *program = joined(scripts, SCRIPTS);
    put(s, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; base-uri 'none'; "
        "form-action 'none'; style-src 'sha256-");
    put(s, base64_digest(rules));
    put(s, "'; script-src 'sha256-");
    put(s, base64_digest(program));
    put(s, "'\">\n<title>");
    put_escaped(s, r->name);
    put(s, "</title>\n<style>");
    put(s, rules);
    put(s, "</style>\n");
    put(s, joined(&body, 1));
    put(s, "<script type=\"application/json\" id=\"data\">");
    r->t->json_sink = s;
    r->put(r);
    r->t->json_sink = NULL;
    put(s, "</script>\n<script>");
    put(s, program);
    put(s, "</script>\n</html>\n");
}
