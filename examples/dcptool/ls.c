/* ls.c - dcptool ls: the tensors of a checkpoint, or the checkpoints of a directory. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_ls = {
    "ls", run, 1, 2, 0, TOOL_VERBOSE | TOOL_VERIFY | TOOL_TIER, "PATH [GLOB]",
    "list the tensors of a checkpoint, or the checkpoints of a directory",
    "If PATH is a checkpoint (its prefix or its commit file): one line per tensor\n"
    "with name, type, shape, size, placement and pieces, and for a manifest also\n"
    "role, tier and version. -v adds where each piece is: rank, file, byte offset.\n"
    "\n"
    "If PATH is a directory: one line per checkpoint, newest first. `complete` means\n"
    "that the document is intact and all files are there in their sizes; with\n"
    "--verify every byte is read, and `intact` means that all are right.\n"
    "\n"
    "A terminal shows the columns that it has room for; a pipe gets all of them.\n"
    "GLOB (* ? [a-z] [!a-z]; * matches anything) selects tensors by name, or\n"
    "checkpoints by name or file name.\n"
    "\n"
    "Exit codes: 0 listed, 1 nothing found or the document is corrupt, 2 usage,\n"
    "            3 could not look (missing, I/O, newer format)\n"
    "Example:    dcptool ls runs/a/step_100 'layers.*.wq'\n"
};

static int list_tensors(tool_state *t, const char *path, const char *glob);
static int list_directory(tool_state *t, const char *directory, const char *glob);

static int run(tool_state *t) {
    const char *path = t->operands[0], *glob = t->operand_count > 1 ? t->operands[1] : NULL;
    return tool_kind_of(path) == TOOL_DIRECTORY ? list_directory(t, path, glob) : list_tensors(t, path, glob);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
static void list_piece(tool_state *t, tool_table *lines, const tool_piece *p) {
    const dcp_tensor_metadata *m = p->meta;
    char shape[TOOL_SHAPE], offset[TOOL_SHAPE], size[TOOL_NUMBER], version[TOOL_NUMBER + 16] = "";
    tool_json_open(t, NULL, '{');
    tool_json_number(t, "rank", p->shard->rank);
    tool_json_text(t, "file", p->shard->file_path);
    tool_json_number(t, "file_offset", m->offset);
    tool_json_number(t, "bytes", m->size);
    tool_json_shape(t, "shape", m->ndim, m->shape);
    tool_json_shape(t, "global_offset", m->ndim, m->global_offset);
    if (p->file) {
        tool_json_number(t, "version", p->file->version);
        tool_json_text(t, "checksum", p->file->checksum);
    }
    tool_json_close(t, '}');
    tool_shape_text(m->ndim, m->global_offset, offset);
    if (p->file) snprintf(version, sizeof version, ", version %" PRId64, p->file->version);
    tool_table_add_line(lines, "rank %d: %s at %s, %s, %s from byte %" PRId64 "%s", p->shard->rank,
                        tool_shape_text(m->ndim, m->shape, shape), offset, tool_size_text(t, m->size, size),
                        p->shard->file_path, m->offset, version);
}

/* What only manifests say of a tensor. */
static void list_origin(tool_state *t, tool_table *lines, const dcp_tensor_info *info) {
    const int has_layer = info->role == DCP_ROLE_ROUTER && info->expert_key[0] >= 0;
    char key[TOOL_SHAPE];
    tool_json_text(t, "role", tool_role_name(info->role));
    tool_json_text(t, "tier", info->tier);
    if (info->role == DCP_ROLE_EXPERT) {
        tool_json_shape(t, "expert_key", 3, info->expert_key);
        tool_table_add(lines, "expert %s", tool_shape_text(3, info->expert_key, key));
    } else if (has_layer) {
        tool_json_number(t, "layer", info->expert_key[0]);
        tool_table_add(lines, "router %" PRId64, info->expert_key[0]);
    } else tool_table_add(lines, "%s", tool_role_name(info->role));
    tool_table_add(lines, "%s", tool_or(info->tier, ""));
    tool_json_number(t, "version", info->version);
    tool_table_add(lines, "%" PRId64, info->version);
}

static void list_tensor(tool_state *t, tool_table *lines, const dcp_tensor_info *info, tool_pieces all,
                        int is_manifest) {
    char shape[TOOL_SHAPE];
    size_t i;
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "name", info->name);
    tool_json_text(t, "dtype", tool_dtype_text(info));
    tool_json_shape(t, "shape", info->ndim, info->shape);
    tool_json_number(t, "bytes", info->size);
    tool_json_text(t, "placement", tool_placement_name(info->placement));
    tool_json_number(t, "pieces", info->piece_count);
    tool_table_add(lines, "%s", info->name);
    tool_table_add(lines, "%s", tool_dtype_text(info));
    tool_table_add(lines, "%s", tool_shape_text(info->ndim, info->shape, shape));
    tool_table_add_size(lines, info->size);
    tool_table_add(lines, "%s", tool_placement_name(info->placement));
    tool_table_add(lines, "%d", info->piece_count);
    if (is_manifest) list_origin(t, lines, info);
    if (t->options & TOOL_VERBOSE) {
        const tool_pieces pieces = tool_pieces_named(all, info->name);
        tool_json_open(t, "piece_list", '[');
        for (i = 0; i < pieces.count; i++) list_piece(t, lines, &pieces.items[i]);
        tool_json_close(t, ']');
    }
    tool_json_close(t, '}');
}

static int verify(tool_state *t, dcp_checkpoint *c) {
    dcp_error err;
    return dcp_verify(c, &err) ? tool_fail(t, &err) : TOOL_FINE;
}

static int list_tensors(tool_state *t, const char *path, const char *glob) {
    static const tool_column columns[] = {
        { "NAME", 'm', 0 }, { "TYPE", 'l', 2 }, { "SHAPE", 'l', 1 }, { "SIZE", 'r', 0 }, { "PLACEMENT", 'l', 7 },
        { "PIECES", 'r', 6 }, { "ROLE", 'l', 4 }, { "TIER", 'l', 3 }, { "VERSION", 'r', 5 }
    };
    tool_pieces all = DCP_ZERO;
    tool_table lines;
    dcp_checkpoint *c;
    int64_t bytes = 0, shown = 0;
    char size[TOOL_NUMBER];
    size_t i;
    int code = tool_open(t, path, &c), is_manifest;
    if (!code && (t->options & TOOL_VERIFY)) code = verify(t, c);
    if (code) {
        dcp_close(c);
        return code;
    }
    is_manifest = dcp_checkpoint_manifest(c) != NULL;
    lines = tool_table_begin(t, columns, is_manifest ? 9 : 6);
    if (t->options & TOOL_VERBOSE) all = tool_pieces_of(c);
    tool_json_begin(t);
    tool_json_text(t, "path", dcp_checkpoint_path(c));
    tool_json_text(t, "layout", tool_layout_name(dcp_checkpoint_layout(c)));
    if (t->options & TOOL_VERIFY) tool_json_flag(t, "intact", 1);
    tool_json_open(t, "tensors", '[');
    for (i = 0; i < dcp_checkpoint_tensor_count(c); i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(c, i);
        if (glob && !tool_glob_matches(glob, info->name)) continue;
        list_tensor(t, &lines, info, all, is_manifest);
        bytes += info->size;
        shown++;
    }
    tool_json_close(t, ']');
    tool_json_end(t);
    tool_table_end(&lines);
    if (shown || !glob)
        tool_print_total(t, "%" PRId64 " tensor%s, %s%s\n", shown, tool_plural(shown), tool_size_text(t, bytes, size),
                         (t->options & TOOL_VERIFY) ? ", every byte is intact" : "");
    else tool_note(t, "no tensor of %s matches '%s'", dcp_checkpoint_path(c), glob);
    dcp_close(c);
    return shown || !glob ? TOOL_FINE : TOOL_NO;        /* a checkpoint without tensors is a fine one */
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */
typedef struct listing {
    tool_state *t;
    tool_table lines;
    int64_t shown, bytes, bad;
} listing;

const char *tool_state_text(const tool_state *t, dcp_status status) {
    switch (status) {
    case DCP_OK: return (t->options & TOOL_VERIFY) ? "intact" : "complete";
    case DCP_E_INCOMPLETE: return "incomplete";
    case DCP_E_SIGNATURE: return "not signed";
    case DCP_E_VERSION: return "newer format";
    default: return tool_code_of(status) == TOOL_NO ? "corrupt" : "not readable";
    }
}

void tool_json_checkpoint(tool_state *t, const dcp_list_entry *e) {
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "path", e->path);
    tool_json_text(t, "layout", tool_layout_name(e->layout));
    tool_json_number(t, "sequence", e->sequence);
    tool_json_optional(t, "epoch", e->epoch);
    tool_json_optional(t, "step", e->step);
    tool_json_text(t, "timestamp", e->timestamp[0] ? e->timestamp : NULL);
    tool_json_text(t, "save_id", e->save_id[0] ? e->save_id : NULL);
    tool_json_number(t, "bytes", e->bytes);
    tool_json_number(t, "world_size", e->world_size);
    tool_json_number(t, "tensors", e->tensors);
    tool_json_flag(t, "complete", e->status == DCP_OK);
    if (t->options & TOOL_VERIFY) tool_json_flag(t, "intact", e->status == DCP_OK);
    tool_json_text(t, "status", dcp_status_name(e->status));
    tool_json_text(t, "message", e->message);
    tool_json_close(t, '}');
}

static void list_checkpoint(listing *l, const dcp_list_entry *e, const char *name) {
    const int is_bad = tool_code_of(e->status) == TOOL_NO;
    char age[TOOL_NUMBER];
    tool_json_checkpoint(l->t, e);
    l->shown++;
    l->bytes += e->bytes;
    if (e->status) l->bad++;
    tool_table_add(&l->lines, "%s", name);
    tool_table_add(&l->lines, "%s", tool_layout_name(e->layout));
    tool_table_add(&l->lines, "%" PRId64, e->sequence);
    if (e->step >= 0) tool_table_add(&l->lines, "%" PRId64, e->step);
    else tool_table_add(&l->lines, "%s", "");
    tool_table_add(&l->lines, "%s", (l->t->options & TOOL_VERBOSE) ? e->timestamp : tool_age_text(e->timestamp, age));
    tool_table_add_size(&l->lines, e->bytes);
    tool_table_add(&l->lines, "%s", tool_state_text(l->t, e->status));
    if (e->status) tool_table_paint(&l->lines, is_bad ? TOOL_RED : TOOL_YELLOW);
    tool_table_add(&l->lines, "%s", e->status ? tool_without_path(e->message, e->path) : "");
}

static int text_compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The names of all entries without extensions, sorted. */
static char **stems_of(const dcp_list_entry *entries, size_t count) {
    char **stems = tool_new(count + 1, sizeof *stems);
    size_t i;
    for (i = 0; i < count; i++) stems[i] = tool_stem_text(entries[i].path);
    qsort((void *)stems, count, sizeof *stems, text_compare);
    return stems;
}

static int is_alone(char **stems, size_t count, const char *stem) {
    char **found = bsearch((void *)&stem, (void *)stems, count, sizeof *stems, text_compare);
    return !(found > stems && strcmp(found[-1], stem) == 0) && !(found[1] && strcmp(found[1], stem) == 0);
}

static int list_directory(tool_state *t, const char *directory, const char *glob) {
    const tool_column columns[] = {
        { "NAME", 'm', 0 }, { "LAYOUT", 'l', 4 }, { "SEQUENCE", 'r', 5 }, { "STEP", 'r', 3 },
        { (t->options & TOOL_VERBOSE) ? "TIME" : "AGE", 'r', 2 },
        { "SIZE", 'r', 1 }, { "STATE", 'l', 0 }, { "WHY", 'n', 0 }
    };
    listing l = DCP_ZERO;
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    char size[TOOL_NUMBER], bad[TOOL_NUMBER + 16] = "", **stems;
    size_t i, count;
    desc.directory = directory;
    desc.verify = (t->options & TOOL_VERIFY) ? DCP_VERIFY_ALL : DCP_VERIFY_TOUCHED;
    desc.verifier = t->verifier;
    desc.io = t->io;
    if (dcp_list(&desc, &entries, &count, &err)) return tool_fail(t, &err);
    l.t = t;
    l.lines = tool_table_begin(t, columns, sizeof columns / sizeof columns[0]);
    tool_json_begin(t);
    tool_json_text(t, "directory", directory);
    tool_json_open(t, "checkpoints", '[');
    stems = stems_of(entries, count);
    for (i = 0; i < count; i++) {
        const char *name = tool_base_name(entries[i].path), *stem = tool_stem_text(name);
        if (!glob || tool_glob_matches(glob, name) || tool_glob_matches(glob, stem))
            list_checkpoint(&l, &entries[i], is_alone(stems, count, stem) ? stem : name);
    }
    tool_json_close(t, ']');
    tool_json_end(t);
    tool_table_end(&l.lines);
    dcp_free(entries);
    if (l.bad) snprintf(bad, sizeof bad, ", %" PRId64 " bad", l.bad);
    if (l.shown)
        tool_print_total(t, "%" PRId64 " checkpoint%s, %s%s\n", l.shown, tool_plural(l.shown),
                         tool_size_text(t, l.bytes, size), bad);
    else if (glob) tool_note(t, "no checkpoint in directory %s matches '%s'", directory, glob);
    else tool_note(t, "no checkpoint in directory %s", directory);
    return l.shown ? TOOL_FINE : TOOL_NO;
}
