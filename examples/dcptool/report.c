/* report.c - dcptool report: a page that shows a checkpoint, or the checkpoints of a directory. */
#include "report.h"

static int run(tool_state *t);

const tool_command tool_report = {
    "report", run, 1, 1, 0, TOOL_OUTPUT | TOOL_FORCE | TOOL_AGAINST | TOOL_STATS | TOOL_NORMS, "PATH",
    "make a page that shows a checkpoint, or a directory of them",
    "Writes one HTML file that needs nothing else: no network, no other file. Without\n"
    "-o it is named after PATH, in the current directory. With --json the data of\n"
    "the page is printed instead, or beside it if there is -o.\n"
    "\n"
    "Of a checkpoint: a map of its tensors by size, which rank holds which part of\n"
    "each, a table, and histograms of values. For these all numbers are read, and\n"
    "checked, if they have at most 1 GiB; --stats reads them however many there are,\n"
    "64 MiB at a time. A tensor that turns out damaged is marked.\n"
    "--against OTHER shows what is different there: by the digests, and by how much\n"
    "as far as no more than 1 GiB has to be read for it; with --stats all of it.\n"
    "\n"
    "Of a directory: sizes, times, what each checkpoint wrote and what it shares with\n"
    "the one before it. Reads documents only; --norms GLOB also reads, in each\n"
    "checkpoint, the tensors whose names match, and shows how their norms change.\n"
    "\n"
    "Exit codes: 0 written, 1 something is damaged, or there is no checkpoint,\n"
    "            2 usage, 3 could not read or write\n"
    "Example:    dcptool report runs/a/step_200 --against runs/a/step_100 -o 200.html\n"
};

static const char *directory_name(const char *path);
static int check_options(tool_state *t, int is_directory);
static char *output_of(const tool_state *t, const report *r);
static int write_page(const report *r, const char *path);

static int run(tool_state *t) {
    const int is_directory = tool_kind_of(t->operands[0]) == TOOL_DIRECTORY;
    report r = DCP_ZERO;
    char *path;
    int code = check_options(t, is_directory);
    if (code) return code;
    r.t = t;
    r.name = is_directory ? directory_name(t->operands[0]) : tool_stem_text(t->operands[0]);
    path = output_of(t, &r);
    if (path) code = tool_check_output(t, path);
    if (!code) code = is_directory ? report_directory(&r) : report_checkpoint(&r);
    if (!code && (t->options & TOOL_JSON)) r.put(&r);
    if (!code && path) code = write_page(&r, path);
    dcp_close(r.here);
    dcp_close(r.there);
    dcp_free(r.entries);
    return code ? code : r.damaged ? TOOL_NO : TOOL_FINE;
}

/* Without separators at its end. */
static const char *directory_name(const char *path) {
    size_t length = strlen(path);
    const char *name;
    while (length > 1 && tool_is_separator(path[length - 1])) length--;
    name = tool_base_name(tool_text_of(path, length));
    return name[strspn(name, ".")] ? name : "checkpoints";
}

static int check_options(tool_state *t, int is_directory) {
    const int to_stdout = t->output && strcmp(t->output, "-") == 0;
    if (is_directory && (t->options & TOOL_AGAINST))
        return tool_usage(t->command, "--against is for a checkpoint, and %s is a directory", t->operands[0]);
    if (is_directory && (t->options & TOOL_STATS))
        return tool_usage(t->command, "--stats is for a checkpoint; --norms reads tensors of a directory");
    if (!is_directory && (t->options & TOOL_NORMS))
        return tool_usage(t->command, "--norms is for a directory; --stats reads tensors of a checkpoint");
    if (to_stdout && (t->options & TOOL_JSON))
        return tool_usage(t->command, "--json and -o - both write to standard output");
    if (to_stdout && tool_is_terminal(1))
        return tool_usage(t->command, "standard output is a terminal; redirect it or give -o FILE");
    return TOOL_FINE;
}

/* NULL: no page is wanted. */
static char *output_of(const tool_state *t, const report *r) {
    const char *name = t->output ? t->output : r->name;
    const size_t room = strlen(name) + 8;
    char *path = tool_new(room, 1);
    if (!t->output && (t->options & TOOL_JSON)) return NULL;
    snprintf(path, room, "%s%s", name, t->output ? "" : ".html");
    return path;
}

static int write_page(const report *r, const char *path) {
    tool_sink *s = tool_sink_open(path, 0);
    tool_state *t = r->t;
    char size[TOOL_NUMBER];
    dcp_error err;
    dcp_status status = DCP_OK;
    int64_t bytes;
    report_put_page(r, s);
    bytes = tool_sink_size(s);
    status = tool_sink_close(s, status, (t->options & TOOL_FORCE) != 0, &err);
    if (status) return tool_fail(t, &err);
    if (strcmp(path, "-") != 0) tool_note(t, "wrote %s, %s", path, tool_size_text(t, bytes, size));
    return TOOL_FINE;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static char *number_text(double number, char text[TOOL_NUMBER]) {
    const int is_finite = number >= -1e308 && number <= 1e308;
    snprintf(text, TOOL_NUMBER, is_finite ? "%.7g" : "null", number);
    return text;
}

void report_put_number(tool_state *t, const char *key, double number) {
    char text[TOOL_NUMBER];
    tool_json_raw(t, key, number_text(number, text));
}

void report_put_list(tool_state *t, const char *key, const int64_t *counts, const double *numbers, size_t count) {
    char *list = tool_need(calloc(count + 1, TOOL_NUMBER)), *out = list, text[TOOL_NUMBER];
    size_t i;
    out += snprintf(out, 2, "[");
    for (i = 0; i < count; i++) {
        const char *comma = i ? ", " : "";
        if (counts) out += snprintf(out, TOOL_NUMBER, "%s%" PRId64, comma, counts[i]);
        else out += snprintf(out, TOOL_NUMBER, "%s%s", comma, number_text(numbers[i], text));
    }
    snprintf(out, 2, "]");
    tool_json_raw(t, key, list);
    free(list);
}
