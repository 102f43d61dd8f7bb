/* verify.c - dcptool verify: every byte of checkpoints. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_verify = {
    "verify", run, 1, -1, 0, TOOL_TIER | TOOL_MINIMUM_STEP, "PATH...", "check every byte of checkpoints",
    "Prints `OK path`, `BAD path: why` or, if it could not look, `ERROR path: why`,\n"
    "and of several how many there were; with -q only BAD and ERROR. A PATH that is a\n"
    "directory means all checkpoints in it.\n"
    "\n"
    "--tier checks only the files of that tier, for a copy that has only some tiers.\n"
    "--key-file demands a signature, and --minimum-step that nobody has put an\n"
    "earlier checkpoint in the place of this one.\n"
    "\n"
    "Exit codes: 0 all are intact, 1 one is corrupt or there is none, 2 usage,\n"
    "            3 could not look at one (missing, I/O, newer format)\n"
    "Example:    dcptool verify runs/a && rsync -a runs/a backup:\n"
};

typedef struct tally { int64_t checked, bad, errors, bytes; int code; } tally;

static void verify_path(tool_state *t, tally *sum, const char *path, int is_one_of_many);
static void verify_directory(tool_state *t, tally *sum, const char *directory);

static int run(tool_state *t) {
    tally sum = DCP_ZERO;
    char size[TOOL_NUMBER];
    int i;
    tool_json_begin(t);
    tool_json_open(t, "results", '[');
    for (i = 0; i < t->operand_count && !tool_interrupted.requested; i++) {
        if (tool_kind_of(t->operands[i]) == TOOL_DIRECTORY) verify_directory(t, &sum, t->operands[i]);
        else verify_path(t, &sum, t->operands[i], t->operand_count > 1);
    }
    tool_json_close(t, ']');
    tool_json_number(t, "checked", sum.checked);
    tool_json_number(t, "bad", sum.bad);
    tool_json_number(t, "errors", sum.errors);
    tool_json_end(t);
    if (sum.checked > 1)
        tool_print_total(t, "%" PRId64 " checkpoints, %s: %" PRId64 " intact, %" PRId64 " bad, %" PRId64
                         " not readable\n", sum.checked, tool_size_text(t, sum.bytes, size),
                         sum.checked - sum.bad - sum.errors, sum.bad, sum.errors);
    return tool_interrupted.requested ? TOOL_TROUBLE : sum.code;
}

static void report(tool_state *t, tally *sum, const char *path, dcp_status status, const char *message) {
    const int code = tool_code_of(status);
    sum->checked++;
    if (code == TOOL_NO) sum->bad++;
    else if (code) sum->errors++;
    if (code > sum->code) sum->code = code;
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "path", path);
    tool_json_flag(t, "ok", code == TOOL_FINE);
    tool_json_text(t, "status", dcp_status_name(status));
    tool_json_text(t, "message", message);
    tool_json_close(t, '}');
    if (code) tool_print_marked(t, TOOL_RED, code == TOOL_NO ? "BAD" : "ERROR", "%s: %s", path,
                                tool_without_path(message, path));
    else if (!(t->options & TOOL_QUIET)) tool_print_marked(t, TOOL_GREEN, "OK", "%s", path);
    fflush(stdout);                                     /* the next may take an hour; finish() looks at ferror */
}

static void verify_path(tool_state *t, tally *sum, const char *path, int is_one_of_many) {
    const dcp_open_desc desc = tool_opening(t, path);
    dcp_checkpoint *c;
    dcp_error err;
    dcp_status status = dcp_open(&desc, &c, &err);
    size_t i;
    if (is_one_of_many) t->progress.name = tool_stem_text(path);
    if (!status) status = dcp_verify(c, &err);
    for (i = 0; !status && i < dcp_checkpoint_tensor_count(c); i++) sum->bytes += dcp_checkpoint_tensor(c, i)->size;
    report(t, sum, path, status, tool_in_our_words(err.message));
    dcp_close(c);
}

static void verify_directory(tool_state *t, tally *sum, const char *directory) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t i, count;
    desc.directory = directory;
    desc.io = t->io;
    if (dcp_list(&desc, &entries, &count, &err)) {
        report(t, sum, directory, err.status, err.message);
        return;
    }
    if (count == 0) {
        tool_note(t, "no checkpoint in directory %s", directory);
        if (sum->code < TOOL_NO) sum->code = TOOL_NO;
    }
    for (i = 0; i < count && !tool_interrupted.requested; i++) verify_path(t, sum, entries[i].path, 1);
    dcp_free(entries);
}
