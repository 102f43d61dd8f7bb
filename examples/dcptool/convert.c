/* convert.c - dcptool convert: a checkpoint in another layout. */
#include "convert.h"

static int run(tool_state *t);

const tool_command tool_convert = {
    "convert", run, 2, 2, TOOL_TO,
    TOOL_ONLY | TOOL_DROP | TOOL_RENAME | TOOL_CAST | TOOL_STEP | TOOL_TIER | TOOL_MEMORY | TOOL_FORCE | TOOL_FLAT |
        TOOL_ONE_RANK | TOOL_SIGN_KEY_FILE | TOOL_KEY_ID | TOOL_MINIMUM_STEP,
    "SOURCE TARGET", "write a checkpoint in another layout, or an edited one",
    "LAYOUT is one of\n"
    "    sharded         TARGET.metadata.json and a file for each rank\n"
    "    single          TARGET.checkpoint\n"
    "    manifest        TARGET.manifest.json and a file for each piece, which the\n"
    "                    manifests of a directory share\n"
    "    manifest-yaml   the same with TARGET.manifest.yaml\n"
    "    npz             TARGET, which ends in .npz: numpy's arrays, and nothing else\n"
    "\n"
    "SOURCE may be a .npz or .npy file too: each array becomes a tensor.\n"
    "Ranks, pieces, placements, training and custom fields stay as they are. Tiers,\n"
    "roles, expert keys, versions and router seeds of a manifest are kept in the\n"
    "other layouts too, and return when those are converted to a manifest. So do\n"
    "members that this version does not know: of the document, of sharding and\n"
    "training, of each piece, and in a manifest of tiers, optim_state, router_state\n"
    "and layers with seeds. What cannot be carried over is named in a warning:\n"
    "members of a shard (the file of a rank) and of a layer without a seed, and\n"
    "members that are fields of their own in the target's kind of document.\n"
    "\n"
    "--only and --drop choose tensors by name (* ? [a-z] [!a-z]; * matches\n"
    "anything), --rename gives them other names, --cast converts their numbers among\n"
    "fp64, fp32, fp16 and bf16: to the nearest, ties to even; NaN stays NaN, and what\n"
    "is too large becomes infinite, and is counted. Tensors of other types stay as\n"
    "they are. Globs and OLD are names in SOURCE; of several --rename or --cast that\n"
    "fit a tensor the last counts; one that fits none is an error, and so are two\n"
    "tensors of the same name.\n"
    "\n"
    "Every byte is checked as it is read. --memory limits the data in memory (at\n"
    "least 2MiB for each rank, and the documents besides). TARGET appears whole or\n"
    "not at all. It is signed only with --sign-key-file, even if SOURCE is signed.\n"
    "\n"
    "Exit codes: 0 written, 1 the source is corrupt or lacks such a tensor,\n"
    "            2 usage, or two tensors of the same name,\n"
    "            3 could not read or write (or TARGET exists, without --force)\n"
    "Example:    dcptool convert runs/a/step_100 export/step_100 --to single\\\n"
    "                --drop 'adam/*' --rename 'model.*=*' --cast bf16\n"
};

typedef struct rank_save { dcp_save_desc desc; dcp_status status; dcp_error err; } rank_save;

static int run_from_npz(convert_job *v);
static int open_source(convert_job *v);
static int select_pieces(convert_job *v);
static void make_head(convert_job *v);
static void list_tensors(convert_job *v);
static int save(convert_job *v);
static int report(convert_job *v);

/* A target that looks like a file of another program's format is a mistake. */
static int other_format(const char *target) {
    static const char *const extensions[] = {
        ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".h5", ".hdf5", ".gguf", ".onnx", ".msgpack"
    };
    const size_t length = strlen(target);
    size_t i;
    for (i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        const size_t size = strlen(extensions[i]);
        if (length > size && strcmp(target + length - size, extensions[i]) == 0) return 1;
    }
    return 0;
}

static int is_npz(const char *path) {
    const size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npz") == 0;
}

static const char *extension_of(const tool_target *to) {
    if (to->is_npz) return ".npz";
    if (to->layout == DCP_LAYOUT_SINGLE) return ".checkpoint";
    return to->layout == DCP_LAYOUT_SHARDED ? ".metadata.json" : to->is_yaml ? ".manifest.yaml" : ".manifest.json";
}

static int check_arguments(const tool_state *t) {
    const int is_from_npz = npz_is_source(t->operands[0]);
    if ((t->options & TOOL_KEY_ID) && !(t->options & TOOL_SIGN_KEY_FILE))
        return tool_usage(t->command, "--key-id names the key of --sign-key-file, which is missing");
    if (t->to->is_npz && (is_from_npz || (t->options & (TOOL_STEP | TOOL_SIGN_KEY_FILE))))
        return tool_usage(t->command, "a .npz file has arrays and nothing else: no step, no signature");
    if (is_from_npz && (t->options & (TOOL_ONLY | TOOL_DROP | TOOL_RENAME | TOOL_CAST | TOOL_TIER | TOOL_MINIMUM_STEP)))
        return tool_usage(t->command, "of a .npz file all is converted; convert the result again to edit it");
    if (t->to->is_npz ? !is_npz(t->operands[1]) : other_format(t->operands[1]))
        return tool_usage(t->command, "%s names a file of another format: --to %s writes %s%s", t->operands[1],
                          t->to->name, t->operands[1], extension_of(t->to));
    return TOOL_FINE;
}

static int run(tool_state *t) {
    convert_job v = DCP_ZERO;
    int code = check_arguments(t);
    if (code) return code;
    if (t->memory == 0) t->memory = 64 << 20;
    v.t = t;
    if (npz_is_source(t->operands[0])) return run_from_npz(&v);
    code = open_source(&v);
    if (!code) code = select_pieces(&v);
    if (!code && t->to->is_npz) {
        code = npz_write(&v);
        if (!code) code = report(&v);
    } else if (!code) {
        if (v.manifest) convert_take_manifest(&v);
        else convert_take_kept(&v);
        make_head(&v);
        convert_members(&v);
        convert_open_windows(&v);
        list_tensors(&v);
        code = save(&v);
        convert_close_windows(&v);
        if (!code) code = report(&v);
    }
    dcp_json_free(v.kept);
    dcp_close(v.c);
    return code;
}

/* What a file of arrays does not say, the defaults of a save say. */
static int run_from_npz(convert_job *v) {
    dcp_metadata nothing = DCP_ZERO;
    int code = npz_read(v);
    nothing.is_foreign = 1;                             /* no digests that would have to stay comparable */
    v->m = &nothing;
    v->has_training = (v->t->options & TOOL_STEP) != 0;
    v->training.step = v->t->step;
    v->busy = tool_lock_new();
    if (!code) code = save(v);
    tool_lock_free(v->busy);
    npz_close(v);
    return code ? code : report(v);
}

/* What casts make infinite is said once, at the end. */
static void on_source_log(void *user, dcp_log_level level, const char *message) {
    const tool_state *t = user;
    if (!strstr(message, "have become infinite")) t->io.log(t->io.log_user, level, message);
}

/* A quarter of the memory is the source's, a quarter the windows', the rest the save's. */
static int open_source(convert_job *v) {
    dcp_open_desc desc = tool_opening(v->t, v->t->operands[0]);
    int code;
    desc.io.memory_budget = (size_t)(v->t->memory / 4);
    desc.io.log = on_source_log;
    desc.io.progress = NULL;
    code = tool_open_with(v->t, &desc, &v->c);
    if (code) return code;
    v->m = dcp_checkpoint_metadata(v->c);
    v->manifest = dcp_checkpoint_manifest(v->c);
    return TOOL_FINE;
}

/* ---- the pieces -------------------------------------------------------------------------------------------------- */
/* With one rank, a piece without elements is not needed if the tensor has other pieces. `before`: the last one that
 * stays, or NULL. */
static int is_spare(const tool_piece *p, const tool_piece *before) {
    int d;
    for (d = 0; d < p->meta->ndim && p->meta->shape[d] > 0;) d++;
    if (d == p->meta->ndim) return 0;
    return p->info->size > 0 || (before && before->info == p->info);
}

/* One of several parts that some other program listed without saying where each is in the whole. */
static int has_no_place(const convert_job *v, const tool_piece *p) {
    const int count = p->info->piece_count;
    return count > 1 && !p->meta->placement && (v->manifest || count > v->m->world_size);
}

static int check_piece(const convert_job *v, const tool_piece *p, const tool_piece *before) {
    const dcp_tensor_info *info = p->info;
    const char *path = dcp_checkpoint_path(v->c);
    if (info->dtype == DCP_OPAQUE)
        return tool_trouble(v->t, DCP_E_UNSUPPORTED, "tensor \"%s\" of %s is of type %s, which this version does not "
                            "know and cannot write", info->name, path, info->dtype_name);
    if ((v->t->options & TOOL_ONE_RANK) && info->placement == DCP_PLACE_PRIVATE && info->piece_count > 1)
        return tool_trouble(v->t, DCP_E_INVALID, "tensor \"%s\" of %s is private to %d ranks: omit --one-rank",
                            info->name, path, info->piece_count);
    if (has_no_place(v, p) && (!before || before->info != info))
        tool_note(v->t, "warning: %s does not say how the %d parts of tensor \"%s\" fit together: each is stored as "
                  "private to a rank", path, info->piece_count, info->name);
    return TOOL_FINE;
}

static int select_pieces(convert_job *v) {
    const int is_one = (v->t->options & TOOL_ONE_RANK) != 0;
    const tool_piece *before = NULL;
    tool_part part;
    size_t i, n = 0;
    int code;
    v->world = v->m->world_size > 1 ? v->m->world_size : 1;
    v->all = tool_pieces_of(v->c);
    code = convert_edit_pieces(v);
    if (code) return code;
    for (i = 0; i < v->pieces.count; i++) {
        const tool_piece p = v->pieces.items[i];
        code = check_piece(v, &p, before);
        if (code) return code;
        if (is_one && is_spare(&p, before)) continue;
        if (p.shard->rank >= v->world) v->world = p.shard->rank + 1;
        part = tool_part_of_piece(&p);
        tool_part_cast(&part, v->edits[p.order].dtype);
        v->bytes += part.size;
        v->pieces.items[n] = p;
        before = &v->pieces.items[n++];
    }
    v->pieces.count = n;
    if (is_one) v->world = 1;
    if (v->world <= CONVERT_RANKS) return TOOL_FINE;
    return tool_trouble(v->t, DCP_E_LIMIT, "%s has %d ranks, and at most %d can be kept; --one-rank stores all pieces "
                        "as those of one", dcp_checkpoint_path(v->c), v->world, (int)CONVERT_RANKS);
}

/* ---- the document ------------------------------------------------------------------------------------------------ */
/* The members of sharding that this version does not know, without what was kept of a manifest. */
static const char *other_members(const convert_job *v) {
    const char *at = v->m->sharding.extra, *member, *all = NULL;
    size_t i;
    for (i = 0; (member = convert_next_member(&at)) != NULL; i++)
        if (!v->kept || strcmp(dcp_json_key(v->kept, i), "manifest") != 0) all = convert_join(all, member);
    return all;
}

static void make_head(convert_job *v) {
    const dcp_training *training = tool_training_of(v->c);
    const char *kept = v->t->to->layout == DCP_LAYOUT_MANIFEST ? NULL : convert_keep(v);
    v->sharding = v->m->sharding;
    if (v->sharding.shard_count != v->world) v->sharding.shard_count = 0;
    v->sharding.extra = other_members(v);
    if (kept) v->sharding.extra = convert_join(v->sharding.extra, kept);
    v->has_training = training || (v->t->options & TOOL_STEP);
    if (training) v->training = *training;
    if (v->t->options & TOOL_STEP) v->training.step = v->t->step;
}

/* ---- the tensors ------------------------------------------------------------------------------------------------- */
static void list_tensor(convert_job *v, const tool_piece *p, tool_part *part, dcp_tensor *tensor) {
    const size_t i = (size_t)(p - v->pieces.items);
    const convert_origin *o = &v->origins[p->order];
    const dcp_placement placement = p->info->placement;
    *part = placement == DCP_PLACE_PRIVATE ? tool_part_of_rank(p) : tool_part_of_piece(p);
    tensor->name = v->edits[p->order].name;
    tensor->dtype = v->edits[p->order].dtype;
    tool_part_cast(part, tensor->dtype);
    tensor->ndim = p->meta->ndim;
    memcpy(tensor->shape, p->meta->shape, sizeof tensor->shape);
    tensor->placement = placement;
    if (placement == DCP_PLACE_SHARDED) dcp_piece(tensor, p->info->shape, p->meta->global_offset);
    tensor->data = part;
    tensor->device = &v->device;
    tensor->extra = v->piece_extras[i];
    if (v->t->to->layout != DCP_LAYOUT_MANIFEST) return;
    tensor->role = o->role;
    tensor->tier = o->tier;
    tensor->version = o->version;
    if (o->role == DCP_ROLE_EXPERT || o->role == DCP_ROLE_ROUTER)
        memcpy(tensor->expert_key, o->expert_key, sizeof tensor->expert_key);
}

static int rank_compare(const void *a_, const void *b_) {
    const tool_piece *a = *(const tool_piece *const *)a_, *b = *(const tool_piece *const *)b_;
    if (a->shard->rank != b->shard->rank) return a->shard->rank < b->shard->rank ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* By rank, in the order of the document. */
static void list_tensors(convert_job *v) {
    const size_t count = v->pieces.count;
    const tool_piece **sorted = tool_new(count + 1, sizeof *sorted);
    size_t i;
    int r;
    v->parts = tool_new(count + 1, sizeof *v->parts);
    v->counted = tool_new(count + 1, sizeof *v->counted);
    v->tensors = tool_new(count + 1, sizeof *v->tensors);
    v->first = tool_new((size_t)v->world + 1, sizeof *v->first);
    for (i = 0; i < count; i++) sorted[i] = &v->pieces.items[i];
    qsort((void *)sorted, count, sizeof *sorted, rank_compare);
    for (i = 0; i < count; i++) {
        list_tensor(v, sorted[i], &v->parts[i], &v->tensors[i]);
        v->first[(v->world > 1 ? sorted[i]->shard->rank : 0) + 1]++;
    }
    for (r = 0; r < v->world; r++) v->first[r + 1] += v->first[r];
}

/* ---- the save ---------------------------------------------------------------------------------------------------- */
/* Rank 0 reports for all. */
static void on_progress(void *user, const dcp_progress *p) {
    convert_job *v = user;
    dcp_progress all = *p;
    tool_lock_take(v->busy);
    if (v->c) all.bytes_done = v->copied;
    tool_lock_give(v->busy);
    all.bytes_total = v->bytes;
    if (p->bytes_done > 0) all.bytes_per_second *= (double)all.bytes_done / (double)p->bytes_done;
    tool_on_progress(v->t, &all);
}

/* Digests stay comparable where blocks keep their size. */
static void choose_digests(const convert_job *v, dcp_save_desc *desc) {
    int64_t size = v->pieces.count ? v->pieces.items[0].meta->block_size : 0;
    size_t i;
    for (i = 1; i < v->pieces.count; i++) if (v->pieces.items[i].meta->block_size != size) size = -1;
    if ((v->t->options & TOOL_FLAT) || (size == 0 && v->bytes > 0 && !v->m->is_foreign))
        desc->checksum = DCP_CHECKSUM_FLAT;
    if (size >= 256 << 10 && size <= 1 << 30 && (size & (size - 1)) == 0) desc->block_size = (size_t)size;
}

static void describe_manifest(const convert_job *v, dcp_save_desc *desc) {
    desc->model_id = v->model_id;
    desc->tiers = v->tiers;
    desc->tier_count = v->tier_count;
    desc->router_seeds = v->seeds;
    desc->router_seed_count = v->seed_count;
    desc->optim_extra = v->optim_extra;
    desc->router_extra = v->router_extra;
    desc->tier_extras = v->tier_extras;
    desc->router_seed_extras = v->seed_extras;
}

static dcp_save_desc describe_save(convert_job *v, int rank) {
    const int64_t share = v->t->memory / 2 / v->world;
    dcp_save_desc desc = DCP_ZERO;
    desc.path = v->t->operands[1];
    desc.tensor_count = v->first[rank + 1] - v->first[rank];
    desc.tensors = desc.tensor_count > 0 ? v->tensors + v->first[rank] : NULL;
    desc.layout = v->t->to->layout;
    desc.yaml = v->t->to->is_yaml;
    desc.overwrite = (v->t->options & TOOL_FORCE) != 0;
    desc.allow_holes = 1;                               /* the source has none, or was allowed them */
    desc.training = v->has_training ? &v->training : NULL;
    desc.sharding = &v->sharding;
    desc.fields = v->m->fields;
    desc.field_count = v->m->field_count;
    desc.extra = v->root_extra;
    desc.report = rank == 0 ? &v->report : NULL;
    desc.io = v->t->io;
    desc.io.progress = rank == 0 ? on_progress : NULL;
    desc.io.progress_user = v;
    if (rank > 0) desc.io.log = NULL;
    desc.io.memory_budget = (size_t)(share > 1 << 20 ? share : 1 << 20);
    if (v->world > 1) desc.io.threads = 1;
    choose_digests(v, &desc);
    if (desc.layout == DCP_LAYOUT_MANIFEST) describe_manifest(v, &desc);
    return desc;
}

static void save_rank(void *rank) {
    rank_save *r = rank;
    r->status = dcp_save(&r->desc, &r->err);
}

/* With a thread for each rank, so that each piece is stored as a piece of the rank that it belonged to. */
static int save(convert_job *v) {
    const dcp_signer signer = dcp_hmac_signer(v->t->sign_key.bytes, v->t->sign_key.size, tool_or(v->t->key_id, ""));
    const size_t count = (size_t)v->world;
    rank_save *ranks = tool_new(count, sizeof *ranks);
    dcp_coordinator **group = tool_new(count, sizeof *group);
    tool_thread **threads = tool_new(count, sizeof *threads);
    dcp_status status = DCP_OK;
    size_t r;
    if (count > 1) status = dcp_thread_group_open(v->world, group, &ranks[0].err);
    if (!status) {
        for (r = 0; r < count; r++) {
            ranks[r].desc = describe_save(v, (int)r);
            ranks[r].desc.io.coordinator = group[r];
            if (v->t->options & TOOL_SIGN_KEY_FILE) ranks[r].desc.signer = &signer;
        }
        for (r = 1; r < count; r++) threads[r] = tool_need(tool_thread_start(save_rank, &ranks[r]));
        save_rank(&ranks[0]);
        for (r = 1; r < count; r++) tool_thread_join(threads[r]);
        status = ranks[0].status;
    }
    for (r = 0; r < count; r++) dcp_coordinator_close(group[r]);
    return status ? tool_fail(v->t, v->failed.status ? &v->failed : &ranks[0].err) : TOOL_FINE;
}

static void note_edit(tool_state *t, const char *what, int64_t count) {
    if (count > 0) tool_note(t, "%s: %" PRId64 " tensor%s", what, count, tool_plural(count));
}

static int report(convert_job *v) {
    const int64_t pieces = v->c ? (int64_t)v->pieces.count : (int64_t)v->first[1];
    tool_state *t = v->t;
    char size[TOOL_NUMBER];
    tool_json_begin(t);
    tool_json_text(t, "source", v->c ? dcp_checkpoint_path(v->c) : t->operands[0]);
    tool_json_text(t, "target", v->report.path);
    tool_json_text(t, "layout", t->to->name);
    tool_json_text(t, "save_id", v->report.save_id);
    tool_json_number(t, "sequence", v->report.sequence);
    tool_json_number(t, "world_size", v->world);
    tool_json_number(t, "pieces", pieces);
    tool_json_number(t, "bytes", v->bytes);
    tool_json_number(t, "bytes_reused", v->report.bytes_reused);
    tool_json_number(t, "left_out", v->left_out);
    tool_json_number(t, "renamed", v->renamed);
    tool_json_number(t, "cast", v->cast);
    tool_json_number(t, "overflows", v->overflows);
    tool_json_end(t);
    if (v->overflows > 0)
        tool_note(t, "warning: %" PRId64 " number%s too large for the type that --cast gives, and infinite now",
                  v->overflows, v->overflows == 1 ? " is" : "s are");
    if (t->options & TOOL_JSON) return TOOL_FINE;
    note_edit(t, "left out", v->left_out);
    note_edit(t, "renamed", v->renamed);
    note_edit(t, "cast", v->cast);
    tool_note(t, "wrote %s: %" PRId64 " piece%s of %d rank%s, %s", v->report.path, pieces, tool_plural(pieces),
              v->world, tool_plural(v->world), tool_size_text(t, v->bytes, size));
    return TOOL_FINE;
}
