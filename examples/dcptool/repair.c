/* repair.c - dcptool repair: damaged and missing files of a checkpoint, made again from copies. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_repair = {
    "repair", run, 1, 1, TOOL_FROM, TOOL_DRY_RUN, "PATH", "make damaged files of a checkpoint again from copies of it",
    "Looks at every byte of checkpoint PATH, in any layout. A file that is damaged or\n"
    "missing is made again from files of the same name in the directories --from:\n"
    "each block from a place where it is as it was saved, so that two copies that are\n"
    "damaged in different places make a whole one. The new file replaces the old one\n"
    "by a rename; what is intact is not touched, and nothing is taken that was not\n"
    "checked.\n"
    "\n"
    "The commit file, too, if the copy's is of the same save. If it is missing, the\n"
    "copies must be of one save, and no file that is there is replaced. One that is\n"
    "signed is only taken with --key-file.\n"
    "\n"
    "Exit codes: 0 the checkpoint is intact now, 1 it is not (or with -n: it is\n"
    "            damaged), 2 usage, 3 could not look or write\n"
    "Example:    dcptool repair runs/a/step_100 --from /backup/a --from /mirror/a\n"
};

static void on_file(void *user, const dcp_repair_file *f) {
    tool_state *t = user;
    const char *why = f->status ? f->message : f->why, *words = tool_in_our_words(why);
    char size[TOOL_NUMBER];
    if (f->damage == DCP_OK) return;
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "file", f->path);
    tool_json_text(t, "damage", dcp_status_name(f->damage));
    tool_json_text(t, "why", f->why);
    tool_json_flag(t, (t->options & TOOL_DRY_RUN) ? "can_be_repaired" : "repaired", f->status == DCP_OK);
    tool_json_text(t, "message", f->message);
    tool_json_number(t, "bytes", f->bytes);
    tool_json_number(t, "bytes_fetched", f->bytes_fetched);
    tool_json_close(t, '}');
    if (f->status) tool_print_marked(t, TOOL_RED, "BAD", "%s: %s", f->path, words);
    else if (!(t->options & TOOL_QUIET))
        tool_print_marked(t, TOOL_YELLOW, (t->options & TOOL_DRY_RUN) ? "would repair" : "repaired",
                          "%s, %s of it fetched: %s", f->path, tool_size_text(t, f->bytes_fetched, size), words);
    fflush(stdout);
}

static void report(tool_state *t, const dcp_repair_report *r, int code) {
    const char *path = r->path[0] ? r->path : t->operands[0];
    char size[TOOL_NUMBER];
    tool_json_close(t, ']');
    tool_json_number(t, "files", r->files);
    tool_json_number(t, "missing", r->missing);
    tool_json_number(t, "damaged", r->damaged);
    tool_json_number(t, "repaired", r->repaired);
    tool_json_number(t, "bytes_fetched", r->bytes_fetched);
    tool_json_flag(t, "ok", code == TOOL_FINE);
    if (code == TOOL_FINE && !(t->options & TOOL_QUIET)) tool_print_marked(t, TOOL_GREEN, "OK", "%s", path);
    if (r->files > 0)
        tool_print_total(t, "%" PRId64 " file%s: %" PRId64 " damaged, %" PRId64 " missing, %" PRId64 " %s, %s "
                         "fetched\n", r->files, tool_plural(r->files), r->damaged, r->missing, r->repaired,
                         (t->options & TOOL_DRY_RUN) ? "can be repaired" : "repaired",
                         tool_size_text(t, r->bytes_fetched, size));
}

static int run(tool_state *t) {
    dcp_source *sources = tool_new(t->from.count, sizeof *sources);
    dcp_repair_desc desc = DCP_ZERO;
    dcp_repair_report r = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    size_t i;
    int code;
    for (i = 0; i < t->from.count; i++) {
        sources[i].directory = t->from.items[i];
        code = tool_need_directory(t, t->from.items[i]);
        if (code) return code;
    }
    desc.path = t->operands[0];
    desc.sources = sources;
    desc.source_count = t->from.count;
    desc.verifier = t->verifier;
    desc.dry_run = (t->options & TOOL_DRY_RUN) != 0;
    desc.on_file = on_file;
    desc.user = t;
    desc.report = &r;
    desc.io = t->io;
    tool_json_begin(t);
    tool_json_text(t, "path", t->operands[0]);
    tool_json_open(t, "damage", '[');
    status = dcp_repair(&desc, &err);
    code = tool_code_of(status);
    if (!status && desc.dry_run && r.missing + r.damaged > 0) code = TOOL_NO;
    if (status == DCP_E_EXISTS) code = TOOL_NO;         /* it stays damaged: what is there is not touched */
    report(t, &r, code);
    if (status == DCP_E_NOT_FOUND && tool_kind_of(t->operands[0]) == TOOL_DIRECTORY)
        code = tool_trouble(t, DCP_E_INVALID, "%s is a directory; dcptool ls %s lists the checkpoints in it",
                            t->operands[0], t->operands[0]);
    else if (status) (void)tool_fail(t, &err);
    tool_json_end(t);
    return code;
}
