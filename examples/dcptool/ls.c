/* ls.c - dcptool ls: the tensors of a checkpoint, or the checkpoints of a directory. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_ls = {
    "ls", run, 1, 2, 0, TOOL_VERBOSE | TOOL_TIER, "PATH [GLOB]",
    "list the tensors of a checkpoint, or the checkpoints of a directory",
    "If PATH is a checkpoint (its prefix or its commit file): one line per tensor\n"
    "with name, type, shape, bytes, placement and pieces, and for a manifest also\n"
    "role, tier and version. -v adds where each piece is: rank, file, byte offset.\n"
    "\n"
    "If PATH is a directory: one line per checkpoint, newest first, valid or not.\n"
    "\n"
    "GLOB (* ? [a-z] [!a-z]; * matches anything) selects tensors by name, or\n"
    "checkpoints by file name.\n"
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
    char shape[TOOL_SHAPE];
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
    tool_table_add(lines, "  rank %d", p->shard->rank);
    tool_table_add(lines, "at %s", tool_shape_text(m->ndim, m->global_offset, shape));
    tool_table_add(lines, "%s", tool_shape_text(m->ndim, m->shape, shape));
    tool_table_add(lines, "%" PRId64 " bytes", m->size);
    tool_table_add(lines, "%s", p->shard->file_path);
    tool_table_add(lines, "from byte %" PRId64, m->offset);
    if (!p->file) return;
    tool_table_add(lines, "%s", "");
    tool_table_add(lines, "%s", "");
    tool_table_add(lines, "version %" PRId64, p->file->version);
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
        tool_table_add(lines, "router, layer %" PRId64, info->expert_key[0]);
    } else tool_table_add(lines, "%s", tool_role_name(info->role));
    tool_table_add(lines, "%s%s", info->tier ? "tier " : "no tier", tool_or(info->tier, ""));
    tool_json_number(t, "version", info->version);
    tool_table_add(lines, "version %" PRId64, info->version);
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
    tool_table_add(lines, "%" PRId64 " bytes", info->size);
    tool_table_add(lines, "%s", tool_placement_name(info->placement));
    tool_table_add(lines, "%d piece%s", info->piece_count, tool_plural(info->piece_count));
    if (is_manifest) list_origin(t, lines, info);
    if (t->options & TOOL_VERBOSE) {
        const tool_pieces pieces = tool_pieces_named(all, info->name);
        tool_json_open(t, "piece_list", '[');
        for (i = 0; i < pieces.count; i++) list_piece(t, lines, &pieces.items[i]);
        tool_json_close(t, ']');
    }
    tool_json_close(t, '}');
}

static int list_tensors(tool_state *t, const char *path, const char *glob) {
    tool_pieces all = DCP_ZERO;
    tool_table lines;
    dcp_checkpoint *c;
    size_t i, shown = 0;
    int code = tool_open(t, path, &c), is_manifest;
    if (code) return code;
    is_manifest = dcp_checkpoint_manifest(c) != NULL;
    lines = tool_table_begin(t, is_manifest ? "lllrlrlll" : "lllrlr");
    if (t->options & TOOL_VERBOSE) all = tool_pieces_of(c);
    tool_json_begin(t);
    tool_json_text(t, "path", dcp_checkpoint_path(c));
    tool_json_text(t, "layout", tool_layout_name(dcp_checkpoint_layout(c)));
    tool_json_open(t, "tensors", '[');
    for (i = 0; i < dcp_checkpoint_tensor_count(c); i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(c, i);
        if (glob && !tool_glob_matches(glob, info->name)) continue;
        list_tensor(t, &lines, info, all, is_manifest);
        shown++;
    }
    tool_json_close(t, ']');
    tool_json_end(t);
    tool_table_end(&lines);
    if (shown == 0 && glob) tool_note(t, "no tensor of %s matches '%s'", dcp_checkpoint_path(c), glob);
    dcp_close(c);
    return shown || !glob ? TOOL_FINE : TOOL_NO;        /* a checkpoint without tensors is a fine one */
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */
static void list_checkpoint(tool_state *t, tool_table *lines, const dcp_list_entry *e) {
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
    tool_json_flag(t, "valid", e->status == DCP_OK);
    tool_json_text(t, "status", dcp_status_name(e->status));
    tool_json_text(t, "message", e->message);
    tool_json_close(t, '}');
    tool_table_add(lines, "%s", e->path);
    tool_table_add(lines, "%s", tool_layout_name(e->layout));
    tool_table_add(lines, "sequence %" PRId64, e->sequence);
    if (e->step >= 0) tool_table_add(lines, "step %" PRId64, e->step);
    else tool_table_add(lines, "no step");
    tool_table_add(lines, "%s", e->timestamp[0] ? e->timestamp : "no time");
    tool_table_add(lines, "%" PRId64 " bytes", e->bytes);
    if (e->status == DCP_OK) tool_table_add(lines, "valid");
    else tool_table_add(lines, "%s: %s", tool_code_of(e->status) == TOOL_NO ? "not valid" : "not readable",
                        tool_without_path(e->message, e->path));
}

static int list_directory(tool_state *t, const char *directory, const char *glob) {
    tool_table lines = tool_table_begin(t, "llrrlrl");
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t i, count, shown = 0;
    desc.directory = directory;
    desc.verifier = t->verifier;
    desc.io = t->io;
    if (dcp_list(&desc, &entries, &count, &err)) return tool_fail(t, &err);
    tool_json_begin(t);
    tool_json_text(t, "directory", directory);
    tool_json_open(t, "checkpoints", '[');
    for (i = 0; i < count; i++) {
        if (glob && !tool_glob_matches(glob, tool_base_name(entries[i].path))) continue;
        list_checkpoint(t, &lines, &entries[i]);
        shown++;
    }
    tool_json_close(t, ']');
    tool_json_end(t);
    tool_table_end(&lines);
    dcp_free(entries);
    if (shown == 0 && glob) tool_note(t, "no checkpoint in directory %s matches '%s'", directory, glob);
    else if (shown == 0) tool_note(t, "no checkpoint in directory %s", directory);
    return shown ? TOOL_FINE : TOOL_NO;
}
