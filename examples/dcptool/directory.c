/* directory.c - dcptool latest, prune and sweep: the newest checkpoint of a directory, old ones, leftover files. */
#include "dcptool.h"

static int run_latest(tool_state *t);
static int run_prune(tool_state *t);
static int run_sweep(tool_state *t);

const tool_command tool_latest = {
    "latest", run_latest, 1, 1, 0, TOOL_MINIMUM_STEP | TOOL_VERIFY, "DIR",
    "print the path of the newest complete checkpoint",
    "Newest by sequence, step, time and name, as the documents say, never by file\n"
    "time. Corrupt and incomplete checkpoints are skipped with a warning; an I/O\n"
    "error or a newer format ends the search, since it might hide the newest. A\n"
    "complete one has all its files, in their sizes; --verify reads every byte too.\n"
    "\n"
    "Exit codes: 0 printed, 1 there is none (or none is complete), 2 usage,\n"
    "            3 could not look (no such directory, I/O, newer format)\n"
    "Example:    path=$(dcptool latest runs/a) && train --resume \"$path\"\n"
};

const tool_command tool_prune = {
    "prune", run_prune, 1, 1, TOOL_KEEP, TOOL_KEEP_EVERY | TOOL_DRY_RUN, "DIR", "remove old checkpoints",
    "Keeps the newest N complete checkpoints and, with --keep-every K, those whose\n"
    "step is a multiple of K. Corrupt checkpoints are left for a person to look at.\n"
    "Prints the files that are removed, or with --dry-run would be.\n"
    "\n"
    "Exit codes: 0 done, 1 a checkpoint that decides is corrupt, 2 usage,\n"
    "            3 could not look or remove\n"
    "Example:    dcptool prune runs/a --keep 3 --keep-every 10000 --dry-run\n"
};

const tool_command tool_sweep = {
    "sweep", run_sweep, 1, 1, 0, TOOL_GRACE | TOOL_PLAIN_NAMES | TOOL_DRY_RUN, "DIR",
    "remove leftover files of killed saves",
    "Removes temporary files, and shard files that no checkpoint names, once they are\n"
    "older than the grace time, or at once if the save that made them was killed on\n"
    "this machine; a save may still be using other young ones. If a checkpoint of\n"
    "the directory cannot be read, only temporary files are removed.\n"
    "Prints the files that are removed, or with --dry-run would be.\n"
    "\n"
    "Exit codes: 0 done, 1 a document is in the way, 2 usage,\n"
    "            3 could not look or remove\n"
    "Example:    dcptool sweep runs/a --grace 2h --dry-run\n"
};

static int run_latest(tool_state *t) {
    dcp_latest_desc desc = DCP_ZERO;
    dcp_error err;
    char *path;
    int code = tool_need_directory(t, t->operands[0]);
    if (code) return code;
    desc.directory = t->operands[0];
    desc.verify = (t->options & TOOL_VERIFY) ? DCP_VERIFY_ALL : DCP_VERIFY_TOUCHED;
    desc.verifier = t->verifier;
    desc.minimum_step = t->minimum_step;
    desc.io = t->io;
    if (dcp_latest(&desc, &path, &err)) {
        code = tool_fail(t, &err);
        return err.status == DCP_E_NOT_FOUND ? TOOL_NO : code;
    }
    tool_json_begin(t);
    tool_json_text(t, "directory", t->operands[0]);
    tool_json_text(t, "path", path);
    tool_json_end(t);
    if (tool_is_terminal(1)) tool_print(t, "%s\n", path);
    else if (!(t->options & TOOL_JSON)) printf("%s\n", path);           /* for $(...): as it is, not escaped */
    dcp_free(path);
    return TOOL_FINE;
}

/* What prune or sweep removed, even if it ended early. */
static int report_removal(tool_state *t, dcp_removal *removal, dcp_status status, const dcp_error *err) {
    const int is_dry = (t->options & TOOL_DRY_RUN) != 0;
    const char *removed = is_dry ? "would remove" : "removed";
    char size[TOOL_NUMBER];
    int code = TOOL_FINE;
    size_t i;
    tool_json_begin(t);
    tool_json_text(t, "directory", t->operands[0]);
    tool_json_flag(t, "dry_run", is_dry);
    tool_json_count(t, "checkpoints", removal->checkpoints);
    tool_json_number(t, "bytes", removal->bytes);
    tool_json_open(t, "removed", '[');
    for (i = 0; i < removal->path_count; i++) {
        tool_json_text(t, NULL, removal->paths[i]);
        tool_print(t, "%s %s\n", removed, removal->paths[i]);
    }
    tool_json_close(t, ']');
    if (status) code = tool_fail(t, err);
    else tool_note(t, "%s %" PRId64 " file%s, %s", removed, (int64_t)removal->path_count,
                   tool_plural((int64_t)removal->path_count), tool_size_text(t, removal->bytes, size));
    tool_json_end(t);
    dcp_removal_free(removal);
    return code;
}

static int run_prune(tool_state *t) {
    dcp_prune_desc desc = DCP_ZERO;
    dcp_removal removal = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int code = tool_need_directory(t, t->operands[0]);
    if (code) return code;
    desc.directory = t->operands[0];
    desc.keep_last = (int)t->keep;
    desc.keep_every = t->keep_every;
    desc.dry_run = (t->options & TOOL_DRY_RUN) != 0;
    desc.verifier = t->verifier;
    desc.io = t->io;
    status = dcp_prune(&desc, &removal, &err);
    return report_removal(t, &removal, status, &err);
}

static int run_sweep(tool_state *t) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int code = tool_need_directory(t, t->operands[0]);
    if (code) return code;
    desc.directory = t->operands[0];
    desc.grace_seconds = t->grace_seconds;
    desc.plain_names = (t->options & TOOL_PLAIN_NAMES) != 0;
    desc.dry_run = (t->options & TOOL_DRY_RUN) != 0;
    desc.verifier = t->verifier;
    desc.io = t->io;
    status = dcp_sweep(&desc, &removal, &err);
    return report_removal(t, &removal, status, &err);
}
