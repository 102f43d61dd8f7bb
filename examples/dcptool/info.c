/* info.c - dcptool info: what a checkpoint says about itself. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_info = {
    "info", run, 1, 1, 0, 0, "PATH", "show what a checkpoint says about itself",
    "Version, time, save id, sequence, world size, sharding, training and custom\n"
    "fields; shards with file, size and checksum; totals; whether it is signed (with\n"
    "--key-file the signature has been accepted). Of a manifest also the model, what\n"
    "is in each tier, roles, versions of files and seeds of the router. Reads the\n"
    "document only.\n"
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

static void show_text(tool_state *t, const char *label, const char *key, const char *value) {
    tool_json_text(t, key, value);
    tool_print(t, "%-14s %s\n", label, tool_or(value, "none"));
}

static void show_head(tool_state *t, const dcp_checkpoint *c, const dcp_metadata *m) {
    const dcp_sharding *s = &m->sharding;
    show_text(t, "path:", "path", dcp_checkpoint_path(c));
    tool_json_text(t, "layout", tool_layout_name(dcp_checkpoint_layout(c)));
    tool_json_flag(t, "foreign", m->is_foreign);
    tool_print(t, "layout:        %s%s\n", tool_layout_name(dcp_checkpoint_layout(c)),
               m->is_foreign ? ", not written by dcp.h (no integrity)" : "");
    show_text(t, "version:", "version", m->version);
    show_text(t, "timestamp:", "timestamp", m->timestamp);
    show_text(t, "save id:", "save_id", m->save_id);
    tool_json_number(t, "sequence", m->sequence);
    tool_print(t, "sequence:      %" PRId64 "\n", m->sequence);
    tool_json_number(t, "world_size", m->world_size);
    tool_json_number(t, "ddp_rank", m->ddp_rank);
    tool_print(t, "world size:    %d\n", m->world_size);
    tool_json_open(t, "sharding", '{');
    tool_json_text(t, "strategy", s->strategy);
    tool_json_number(t, "shard_count", s->shard_count);
    tool_json_text(t, "precision", s->precision);
    tool_json_object(t, "info", s->info);
    tool_json_close(t, '}');
    tool_print(t, "sharding:      %s, %" PRId64 " shard%s, precision %s\n", tool_or(s->strategy, "none"),
               s->shard_count, tool_plural(s->shard_count), tool_or(s->precision, "not given"));
    if (s->info && strcmp(s->info, "{}") != 0) tool_print(t, "sharding info: %s\n", s->info);
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
        tool_print(t, "training:      epoch %" PRId64 ", step %" PRId64 ", learning rate %s\n", training->epoch,
                   training->step, tool_double_text(training->learning_rate, rate));
        tool_print(t, "optimizer:     %s %s\n", tool_or(training->optimizer_type, "(none)"),
                   tool_or(training->optimizer_state, "{}"));
    }
    tool_json_open(t, "custom_fields", '{');
    tool_print(t, "custom fields: %s\n", m->field_count ? "" : "none");
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
    tool_table lines = tool_table_begin(t, "lllrrl");
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
    tool_print(t, "tiers:         %s\n", m->tier_count ? "" : "none");
    for (i = 0; i <= m->tier_count; i++) {
        const dcp_tier *tier = i < m->tier_count ? &m->tiers[i].tier : NULL;
        if (!tier && sum->tier_files[i] == 0) continue;
        tool_table_add(&lines, "  %s", tier ? tier->name : "(no tier)");
        if (tier) tool_table_add(&lines, "id %" PRId64, tier->tier_id);
        else tool_table_add(&lines, "%s", "");
        tool_table_add(&lines, "%s%s", tier ? "budget " : "", tier ? tool_or(tier->size_budget, "none") : "");
        tool_table_add(&lines, "%" PRId64 " file%s", sum->tier_files[i], tool_plural(sum->tier_files[i]));
        tool_table_add(&lines, "%" PRId64 " bytes", sum->tier_bytes[i]);
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
        tool_print(t, "router layer:  %" PRId64 ", %" PRId64 " file%s, %s%s\n", layer->layer, files, tool_plural(files),
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
    tool_print(t, "manifest:      %s, metadata_version %" PRId64 "\n", m->is_yaml ? "YAML" : "JSON",
               m->metadata_version);
    show_tiers(t, m, &sum);
    tool_json_open(t, "files", '{');
    tool_print(t, "files:         ");
    for (role = 0; role < 4; role++) {
        const char *name = tool_role_name((dcp_role)role);
        tool_json_number(t, name, sum.role_files[role]);
        tool_print(t, "%s%" PRId64 " %s%s", role ? ", " : "", sum.role_files[role], name, role == 3 ? "\n" : "");
    }
    tool_json_close(t, '}');
    tool_json_number(t, "oldest_version", sum.oldest);
    tool_json_number(t, "newest_version", sum.newest);
    tool_print(t, "versions:      %" PRId64 " to %" PRId64 "\n", sum.oldest, sum.newest);
    show_router(t, m);
    tool_json_close(t, '}');
}

/* ---- shards, totals, signature ----------------------------------------------------------------------------------- */
static void show_shards(tool_state *t, const dcp_metadata *m) {
    tool_table lines = tool_table_begin(t, "lrlrl");
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
        tool_table_add(&lines, "  rank %d", s->rank);
        if (s->file_size < 0) tool_table_add(&lines, "of any size");
        else tool_table_add(&lines, "%" PRId64 " bytes", s->file_size);
        tool_table_add(&lines, "%s", s->file_path);
        tool_table_add(&lines, "from byte %" PRId64, s->data_offset);
        tool_table_add(&lines, "%s", tool_or(s->checksum, "no checksum"));
    }
    tool_json_close(t, ']');
    tool_table_end(&lines);
}

static void show_totals(tool_state *t, const dcp_checkpoint *c, const dcp_metadata *m) {
    const int64_t tensors = (int64_t)dcp_checkpoint_tensor_count(c);
    int64_t pieces = 0, bytes = 0;
    size_t s, i;
    for (s = 0; s < m->shard_count; s++) {
        pieces += (int64_t)m->shards[s].tensor_count;
        for (i = 0; i < m->shards[s].tensor_count; i++) bytes += m->shards[s].tensors[i].size;
    }
    tool_json_number(t, "tensors", tensors);
    tool_json_number(t, "pieces", pieces);
    tool_json_number(t, "bytes", bytes);
    tool_print(t, "total:         %" PRId64 " tensor%s in %" PRId64 " piece%s, %" PRId64 " bytes\n", tensors,
               tool_plural(tensors), pieces, tool_plural(pieces), bytes);
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
    tool_print(t, "signature:     %s, key \"%s\", %s\n", m->signature_algorithm, tool_or(m->signature_key, ""),
               t->verifier ? "accepted" : "not checked (--key-file checks it)");
}
