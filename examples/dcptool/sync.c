/* sync.c - dcptool sync: a local copy of a manifest, kept up to date. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_sync = {
    "sync", run, 2, 2, 0, TOOL_TIER | TOOL_FULL | TOOL_DRY_RUN | TOOL_MINIMUM_STEP, "SOURCE DIR",
    "bring a local copy of a manifest up to date",
    "Copies to directory DIR the files of manifest SOURCE that are missing there,\n"
    "stale (of a lower version) or corrupt, checking each on the way, and at the end\n"
    "publishes the manifest by one rename. If it is killed before that, the old copy\n"
    "remains, and the next call continues.\n"
    "\n"
    "With --tier only files of that tier and those without a tier are copied. What\n"
    "exceeds a tier's size_budget is left out, with a warning. Files that DIR's own\n"
    "manifest vouches for are trusted, unless --full hashes them.\n"
    "\n"
    "Exit codes: 0 up to date (as far as budgets allow), 1 the source is corrupt,\n"
    "            2 usage, 3 could not read or write\n"
    "Example:    dcptool sync /pfs/runs/a/step_100 /local/a --tier hot\n"
};

static void report_json(tool_state *t, const dcp_sync_report *r, int is_dry);
static void report_text(tool_state *t, const dcp_sync_report *r, int is_dry);

static int run(tool_state *t) {
    dcp_sync_desc desc = DCP_ZERO;
    dcp_sync_report report = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int code = TOOL_FINE;
    desc.path = t->operands[0];
    desc.directory = t->operands[1];
    desc.tiers = t->tiers.items;
    desc.tier_count = t->tiers.count;
    desc.verify = (t->options & TOOL_FULL) ? DCP_VERIFY_ALL : DCP_VERIFY_TOUCHED;
    desc.verifier = t->verifier;
    desc.minimum_step = t->minimum_step;
    desc.dry_run = (t->options & TOOL_DRY_RUN) != 0;
    desc.report = &report;
    desc.io = t->io;
    status = dcp_sync(&desc, &err);
    tool_json_begin(t);
    report_json(t, &report, desc.dry_run);
    if (status) code = tool_fail(t, &err);
    else report_text(t, &report, desc.dry_run);
    tool_json_end(t);
    return code;
}

static void report_json(tool_state *t, const dcp_sync_report *r, int is_dry) {
    tool_json_text(t, "source", t->operands[0]);
    tool_json_text(t, "directory", t->operands[1]);
    tool_json_text(t, "path", r->path);
    tool_json_flag(t, "dry_run", is_dry);
    tool_json_number(t, "copied", r->copied);
    tool_json_number(t, "bytes_copied", r->bytes_copied);
    tool_json_number(t, "bytes_to_copy", r->bytes_to_copy);
    tool_json_number(t, "missing", r->missing);
    tool_json_number(t, "stale", r->stale);
    tool_json_number(t, "corrupt", r->corrupt);
    tool_json_number(t, "kept", r->kept);
    tool_json_number(t, "bytes_kept", r->bytes_kept);
    tool_json_number(t, "left_out", r->left_out);
    tool_json_number(t, "bytes_left_out", r->bytes_left_out);
    tool_json_number(t, "not_selected", r->not_selected);
}

static void report_text(tool_state *t, const dcp_sync_report *r, int is_dry) {
    char size[TOOL_NUMBER];
    const int64_t copied = is_dry ? r->missing + r->stale + r->corrupt : r->copied;
    tool_print(t, "%-10s %" PRId64 " file%s, %s (%" PRId64 " missing, %" PRId64 " stale, %" PRId64 " corrupt)\n",
               is_dry ? "to copy:" : "copied:", copied, tool_plural(copied),
               tool_size_text(t, is_dry ? r->bytes_to_copy : r->bytes_copied, size), r->missing, r->stale, r->corrupt);
    tool_print(t, "kept:      %" PRId64 " file%s, %s\n", r->kept, tool_plural(r->kept),
               tool_size_text(t, r->bytes_kept, size));
    if (r->left_out)
        tool_print(t, "left out:  %" PRId64 " file%s, %s, over a size_budget\n", r->left_out, tool_plural(r->left_out),
                   tool_size_text(t, r->bytes_left_out, size));
    if (r->not_selected)
        tool_print(t, "skipped:   %" PRId64 " file%s of other tiers\n", r->not_selected, tool_plural(r->not_selected));
    if (!is_dry) tool_print(t, "%s\n", r->path);
}
