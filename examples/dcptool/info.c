/* info.c - dcptool info: what a checkpoint says about itself. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_info = {
    "info", run, 1, 1, 0, TOOL_VERBOSE, "PATH", "show what a checkpoint says about itself",
    "Version, time, save id, sequence, world size, sharding, training and custom\n"
    "fields; shards with file, size and checksum; totals; whether it is signed (with\n"
    "--key-file the signature has been accepted). Of a manifest also the model, what\n"
    "is in each tier, roles, versions of files and seeds of the router. Reads the\n"
    "document only. -v shows digests whole.\n"
    "\n"
    "Exit codes: 0 shown, 1 the document is corrupt, 2 usage,\n"
    "            3 could not look (missing, I/O, newer format)\n"
    "Example:    dcptool info --json runs/a/step_100 | jq .training.step\n"
};

static void show_head(tool_state *t, const dcp_checkpoint *c, const dcp_metadata *m);
static void show_training(tool_state *t, const dcp_metadata *m);
static void show_manifest(tool_state *t, const dcp_checkpoint *c);
static void show_shards(tool_state *t, const dcp_metadata *m);
static void show_totals(tool_state *t, const dcp_checkpoint *c, const dcp_metadata *m);
static void show_signature(tool_state *t, const dcp_metadata *m);

static int run(tool_state *t) {
    const dcp_metadata *m;
    dcp_checkpoint *c;
    int code = tool_open(t, t->operands[0], &c);
    if (code) return code;
    m = dcp_checkpoint_metadata(c);
    tool_json_begin(t);
    show_head(t, c, m);
    show_training(t, m);
    if (dcp_checkpoint_manifest(c)) show_manifest(t, c);
    show_shards(t, m);
    show_totals(t, c, m);
    show_signature(t, m);
    tool_json_end(t);
    dcp_close(c);
    return TOOL_FINE;
}

static void show(tool_state *t, const char *label, const char *format, ...) TOOL_PRINTF(3, 4);
static void show(tool_state *t, const char *label, const char *format, ...) {
    va_list arguments;
    char mark[16], *text;
    va_start(arguments, format);
    text = tool_format(format, arguments);
    va_end(arguments);
    snprintf(mark, sizeof mark, text[0] ? "%-14s" : "%s", label);
    tool_print_marked(t, "", mark, "%s", text);
    free(text);
}

static void show_text(tool_state *t, const char *label, const char *key, const char *value) {
    tool_json_text(t, key, value);
    show(t, label, "%s", tool_or(value, "none"));
}

static void show_head(tool_state *t, const dcp_checkpoint *c, const dcp_metadata *m) {
    const dcp_sharding *s = &m->sharding;
    char age[TOOL_NUMBER];
    show_text(t, "path:", "path", dcp_checkpoint_path(c));
    tool_json_text(t, "layout", tool_layout_name(dcp_checkpoint_layout(c)));
    tool_json_flag(t, "foreign", m->is_foreign);
    show(t, "layout:", "%s%s", tool_layout_name(dcp_checkpoint_layout(c)),
               m->is_foreign ? ", not written by dcp.h (no integrity)" : "");
    show_text(t, "version:", "version", m->version);
    tool_json_text(t, "timestamp", m->timestamp);
    tool_age_text(m->timestamp, age);
    show(t, "timestamp:", "%s%s%s%s", tool_or(m->timestamp, "none"), age[0] ? " (" : "", age,
         strcmp(age, "now") == 0 ? ")" : age[0] ? " old)" : "");
    show_text(t, "save id:", "save_id", m->save_id);
    tool_json_number(t, "sequence", m->sequence);
    show(t, "sequence:", "%" PRId64 "", m->sequence);
    tool_json_number(t, "world_size", m->world_size);
    tool_json_number(t, "ddp_rank", m->ddp_rank);
    show(t, "world size:", "%d", m->world_size);
    tool_json_open(t, "sharding", '{');
    tool_json_text(t, "strategy", s->strategy);
    tool_json_number(t, "shard_count", s->shard_count);
    tool_json_text(t, "precision", s->precision);
    tool_json_object(t, "info", s->info);
    tool_json_close(t, '}');
    show(t, "sharding:", "%s, %" PRId64 " shard%s, precision %s", tool_or(s->strategy, "none"),
               s->shard_count, tool_plural(s->shard_count), tool_or(s->precision, "not given"));
    if (s->info && strcmp(s->info, "{}") != 0) show(t, "sharding info:", "%s", s->info);
}

static void show_training(tool_state *t, const dcp_metadata *m) {
    const dcp_training *training = &m->training;
    char rate[TOOL_NUMBER];
    size_t i;
    if (!m->has_training) show_text(t, "training:", "training", NULL);
    else {
        tool_json_open(t, "training", '{');
        tool_json_number(t, "epoch", training->epoch);
        tool_json_number(t, "step", training->step);
        tool_json_double(t, "learning_rate", training->learning_rate);
        tool_json_text(t, "optimizer_type", training->optimizer_type);
        tool_json_object(t, "optimizer_state", training->optimizer_state);
        tool_json_close(t, '}');
        show(t, "training:", "epoch %" PRId64 ", step %" PRId64 ", learning rate %s", training->epoch,
                   training->step, tool_double_text(training->learning_rate, rate));
        show(t, "optimizer:", "%s %s", tool_or(training->optimizer_type, "(none)"),
                   tool_or(training->optimizer_state, "{}"));
    }
    tool_json_open(t, "custom_fields", '{');
    show(t, "custom fields:", "%s", m->field_count ? "" : "none");
    for (i = 0; i < m->field_count; i++) {
        tool_json_text(t, m->fields[i].key, m->fields[i].value);
        tool_print(t, "  %s = %s\n", m->fields[i].key, m->fields[i].value);
    }
    tool_json_close(t, '}');
}

/* ---- what only manifests say ------------------------------------------------------------------------------------- */
typedef struct sums {
    int64_t role_files[4];
    int64_t *tier_files, *tier_bytes;                   /* the last: of no tier */
    int64_t oldest, newest;                             /* versions */
} sums;

static sums sums_of(const dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_checkpoint_manifest(c);
    const tool_pieces pieces = tool_pieces_of(c);
    sums sum = DCP_ZERO;
    size_t i;
    sum.tier_files = tool_new(m->tier_count + 1, sizeof *sum.tier_files);
    sum.tier_bytes = tool_new(m->tier_count + 1, sizeof *sum.tier_bytes);
    sum.oldest = INT64_MAX;
    for (i = 0; i < pieces.count; i++) {
        const tool_piece *p = &pieces.items[i];
        size_t tier;
        if (!p->info || !p->file) continue;
        tier = tool_tier_of(m, p->file->tier_hint);
        sum.role_files[p->info->role]++;
        sum.tier_files[tier]++;
        sum.tier_bytes[tier] += p->meta->size;
        if (p->file->version < sum.oldest) sum.oldest = p->file->version;
        if (p->file->version > sum.newest) sum.newest = p->file->version;
    }
    if (sum.oldest == INT64_MAX) sum.oldest = 0;
    return sum;
}

static void show_tiers(tool_state *t, const dcp_manifest *m, const sums *sum) {
    static const tool_column columns[] = {
        { "  TIER", 'm', 0 }, { "ID", 'r', 3 }, { "BUDGET", 'l', 2 }, { "FILES", 'r', 4 }, { "SIZE", 'r', 0 },
        { "POLICY", 'l', 1 }
    };
    tool_table lines = tool_table_begin(t, columns, sizeof columns / sizeof columns[0]);
    size_t i;
    tool_json_open(t, "tiers", '[');
    for (i = 0; i < m->tier_count; i++) {
        const dcp_tier *tier = &m->tiers[i].tier;
        tool_json_open(t, NULL, '{');
        tool_json_number(t, "tier_id", tier->tier_id);
        tool_json_text(t, "name", tier->name);
        tool_json_text(t, "size_budget", tier->size_budget);
        if (m->tiers[i].budget_bytes >= 0) tool_json_number(t, "budget_bytes", m->tiers[i].budget_bytes);
        tool_json_text(t, "placement_policy", tier->placement_policy);
        tool_json_number(t, "files", sum->tier_files[i]);
        tool_json_number(t, "bytes", sum->tier_bytes[i]);
        tool_json_close(t, '}');
    }
    tool_json_close(t, ']');
    show(t, "tiers:", "%s", m->tier_count ? "" : "none");
    for (i = 0; i <= m->tier_count; i++) {
        const dcp_tier *tier = i < m->tier_count ? &m->tiers[i].tier : NULL;
        if (!tier && sum->tier_files[i] == 0) continue;
        tool_table_add(&lines, "  %s", tier ? tier->name : "(no tier)");
        if (tier) tool_table_add(&lines, "%" PRId64, tier->tier_id);
        else tool_table_add(&lines, "%s", "");
        tool_table_add(&lines, "%s", tier ? tool_or(tier->size_budget, "none") : "");
        tool_table_add(&lines, "%" PRId64, sum->tier_files[i]);
        tool_table_add_size(&lines, sum->tier_bytes[i]);
        tool_table_add(&lines, "%s", tier ? tool_or(tier->placement_policy, "") : "");
    }
    tool_table_end(&lines);
}

static void show_router(tool_state *t, const dcp_manifest *m) {
    char seed[TOOL_NUMBER];
    size_t i;
    tool_json_open(t, "router_layers", '[');
    for (i = 0; i < m->router_state.layer_count; i++) {
        const dcp_manifest_layer *layer = &m->router_state.layers[i];
        const int64_t files = (int64_t)layer->shard_count;
        snprintf(seed, sizeof seed, "%" PRIu64, layer->seed);
        tool_json_open(t, NULL, '{');
        tool_json_number(t, "layer", layer->layer);
        tool_json_raw(t, "seed", layer->has_seed ? seed : "null");
        tool_json_number(t, "files", files);
        tool_json_close(t, '}');
        show(t, "router layer:", "%" PRId64 ", %" PRId64 " file%s, %s%s", layer->layer, files, tool_plural(files),
                   layer->has_seed ? "seed " : "no seed", layer->has_seed ? seed : "");
    }
    tool_json_close(t, ']');
}

static void show_manifest(tool_state *t, const dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_checkpoint_manifest(c);
    const sums sum = sums_of(c);
    int role;
    tool_json_open(t, "manifest", '{');
    show_text(t, "model:", "model_id", m->model_id);
    tool_json_text(t, "format", m->is_yaml ? "yaml" : "json");
    tool_json_number(t, "metadata_version", m->metadata_version);
    show(t, "manifest:", "%s, metadata_version %" PRId64 "", m->is_yaml ? "YAML" : "JSON",
               m->metadata_version);
    show_tiers(t, m, &sum);
    tool_json_open(t, "files", '{');
    for (role = 0; role < 4; role++) tool_json_number(t, tool_role_name((dcp_role)role), sum.role_files[role]);
    tool_json_close(t, '}');
    show(t, "files:", "%" PRId64 " dense, %" PRId64 " expert, %" PRId64 " optimizer, %" PRId64 " router",
         sum.role_files[0], sum.role_files[1], sum.role_files[2], sum.role_files[3]);
    tool_json_number(t, "oldest_version", sum.oldest);
    tool_json_number(t, "newest_version", sum.newest);
    show(t, "versions:", "%" PRId64 " to %" PRId64 "", sum.oldest, sum.newest);
    show_router(t, m);
    tool_json_close(t, '}');
}

/* ---- shards, totals, signature ----------------------------------------------------------------------------------- */
static void show_shards(tool_state *t, const dcp_metadata *m) {
    static const tool_column columns[] = {
        { "  RANK", 'r', 0 }, { "SIZE", 'r', 0 }, { "FILE", 'm', 0 }, { "FROM BYTE", 'r', 2 }, { "CHECKSUM", 'l', 1 }
    };
    tool_table lines = tool_table_begin(t, columns, sizeof columns / sizeof columns[0]);
    char digest[TOOL_SHAPE];
    size_t i;
    tool_json_open(t, "shards", '[');
    tool_print(t, "shards:\n");
    for (i = 0; i < m->shard_count; i++) {
        const dcp_shard_metadata *s = &m->shards[i];
        tool_json_open(t, NULL, '{');
        tool_json_number(t, "rank", s->rank);
        tool_json_text(t, "file", s->file_path);
        if (s->file_size >= 0) tool_json_number(t, "bytes", s->file_size);
        tool_json_text(t, "checksum", s->checksum);
        tool_json_number(t, "data_offset", s->data_offset);
        tool_json_count(t, "tensors", s->tensor_count);
        tool_json_close(t, '}');
        tool_table_add(&lines, "  %d", s->rank);
        if (s->file_size < 0) tool_table_add(&lines, "any size");
        else tool_table_add_size(&lines, s->file_size);
        tool_table_add(&lines, "%s", s->file_path);
        tool_table_add(&lines, "%" PRId64, s->data_offset);
        if (s->checksum) tool_table_add(&lines, "%s", tool_digest_text(t, s->checksum, digest));
        else tool_table_add(&lines, "none");
    }
    tool_json_close(t, ']');
    tool_table_end(&lines);
}

static void show_totals(tool_state *t, const dcp_checkpoint *c, const dcp_metadata *m) {
    const int64_t tensors = (int64_t)dcp_checkpoint_tensor_count(c);
    int64_t pieces = 0, bytes = 0;
    char size[TOOL_NUMBER];
    size_t s, i;
    for (s = 0; s < m->shard_count; s++) {
        pieces += (int64_t)m->shards[s].tensor_count;
        for (i = 0; i < m->shards[s].tensor_count; i++) bytes += m->shards[s].tensors[i].size;
    }
    tool_json_number(t, "tensors", tensors);
    tool_json_number(t, "pieces", pieces);
    tool_json_number(t, "bytes", bytes);
    show(t, "total:", "%" PRId64 " tensor%s in %" PRId64 " piece%s, %s", tensors,
               tool_plural(tensors), pieces, tool_plural(pieces), tool_size_text(t, bytes, size));
}

static void show_signature(tool_state *t, const dcp_metadata *m) {
    if (!m->signature_algorithm) {
        show_text(t, "signature:", "signature", NULL);
        return;
    }
    tool_json_open(t, "signature", '{');
    tool_json_text(t, "algorithm", m->signature_algorithm);
    tool_json_text(t, "key", m->signature_key);
    tool_json_flag(t, "accepted", t->verifier != NULL);
    tool_json_close(t, '}');
    show(t, "signature:", "%s, key \"%s\", %s", m->signature_algorithm, tool_or(m->signature_key, ""),
               t->verifier ? "accepted" : "not checked (--key-file checks it)");
}
