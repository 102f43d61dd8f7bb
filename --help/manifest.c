/* =====================================================================================================================
 * >>manifest    The manifest: building it in memory, parsing and writing it as JSON and as YAML, every rule that it
 *               must keep, file names.
 *
 * One shape of data, dcp_manifest, and one schema, like >>meta, whose readers and rules are used here. YAML comes in as
 * the JSON that >>yaml makes of it, so both syntaxes are one reader, and goes out through one writer that has two sets
 * of punctuation. What a save writes need not be a dcp_manifest: a dcpi_manifest_source yields one shard at a time.
 * ================================================================================================================== */

/* ---- building ---------------------------------------------------------------------------------------------------- */
/* a list of shards that is ours */
typedef struct dcpi_manifest_pool { dcp_manifest_shard *items; size_t capacity; } dcpi_manifest_pool;
typedef struct dcpi_manifest_own {
    dcp_manifest manifest;              /* first: what the program holds */
    dcpi_arena arena;
    int is_parsed;                      /* absent members are missing, not defaults */
    dcpi_manifest_pool shards, optimizer;
    dcp_manifest_layer *layers; size_t layer_capacity, owned_layers;
    dcpi_manifest_pool *layer_shards;   /* one for each of them */
    dcp_manifest_tier *tiers; size_t tier_capacity;
    dcp_field *fields; size_t field_capacity;
} dcpi_manifest_own;

static dcpi_manifest_own *dcpi_manifest_of(const dcp_manifest *manifest) {
    return (dcpi_manifest_own *)manifest->internal;
}
static int dcpi_manifest_is_parsed(const dcp_manifest *manifest) {
    return manifest->internal && dcpi_manifest_of(manifest)->is_parsed;
}

DCPDEF dcp_status dcp_manifest_new(dcp_manifest **out, dcp_error *err) {
    dcpi_manifest_own *own;
    if (!out) return dcpi_fail(err, DCP_E_INVALID, "dcp_manifest_new: out must not be NULL");
    *out = NULL;
    own = (dcpi_manifest_own *)dcpi_alloc_array(1, sizeof *own, err);
    if (!own) return DCP_E_MEMORY;
    own->manifest.internal = own;
    own->manifest.metadata_version = DCP_MANIFEST_VERSION;
    *out = &own->manifest;
    return dcpi_succeed(err);
}
DCPDEF void dcp_manifest_free(dcp_manifest *manifest) {
    dcpi_manifest_own *own = manifest ? dcpi_manifest_of(manifest) : NULL;
    size_t l;
    if (!own) return;                                                   /* filled by hand: nothing here is ours */
    for (l = 0; l < own->owned_layers; l++) dcpi_free(own->layer_shards[l].items);
    dcpi_free(own->layer_shards);
    dcpi_free(own->layers);
    dcpi_free(own->shards.items);
    dcpi_free(own->optimizer.items);
    dcpi_free(own->tiers);
    dcpi_free(own->fields);
    dcpi_arena_free(&own->arena);
    dcpi_free(own);
}
static dcp_status dcpi_manifest_builder(const dcp_manifest *manifest, const void *argument, const char *function,
                                        dcp_error *err) {
    if (!manifest || !argument) return dcpi_fail(err, DCP_E_INVALID, "%s: an argument is NULL", function);
    if (dcpi_manifest_of(manifest)) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID,
                     "%s: this dcp_manifest was filled by hand; the builders need one of dcp_manifest_new", function);
}
static int dcpi_manifest_copy(dcpi_manifest_own *own, const char **text, dcp_error *err) {      /* 0: out of memory */
    if (!*text) return 1;
    *text = dcpi_arena_text(&own->arena, *text, strlen(*text), err);
    return *text != NULL;
}
DCPDEF dcp_status dcp_manifest_set_model(dcp_manifest *manifest, const char *model_id, int64_t epoch, int64_t step,
                                         dcp_error *err) {
    dcp_status status = dcpi_manifest_builder(manifest, manifest, "dcp_manifest_set_model", err);
    if (status != DCP_OK) return status;
    if (!dcpi_manifest_copy(dcpi_manifest_of(manifest), &model_id, err)) return DCP_E_MEMORY;
    manifest->model_id = model_id;
    manifest->epoch = epoch;
    manifest->step = step;
    return dcpi_succeed(err);
}

/* -- size budgets -- */
/* "40GB", "512MiB", "1000", also "10_000 kb": GB is 10^9 bytes, GiB 2^30. -1: it is none, or beyond 64 bits. */
static int64_t dcpi_manifest_budget(const char *text) {
    static const char letters[] = "KMGTPE";
    const char *letter;
    int64_t value = 0, scale = 1;
    int i, is_joint = 0, is_binary;
    if (*text < '0' || *text > '9') return -1;
    for (; (*text >= '0' && *text <= '9') || (*text == '_' && !is_joint); text++) {
        is_joint = *text == '_';
        if (!is_joint && (!dcpi_mul(value, 10, &value) || !dcpi_add(value, *text - '0', &value))) return -1;
    }
    if (is_joint) return -1;
    while (*text == ' ') text++;
    if (*text == '\0') return value;
    letter = strchr(letters, *text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text);
    is_binary = letter != NULL && (text[1] == 'i' || text[1] == 'I');
    if (letter) text += 1 + is_binary;
    if ((*text != 'B' && *text != 'b') || text[1] != '\0') return -1;
    for (i = 0; letter && i <= (int)(letter - letters); i++)
        if (!dcpi_mul(scale, is_binary ? 1024 : 1000, &scale)) return -1;
    return dcpi_mul(value, scale, &value) ? value : -1;
}

/* -- lists -- */
static dcp_status dcpi_manifest_new_tier(dcpi_manifest_own *own, dcp_manifest_tier **out, dcp_error *err) {
    dcp_manifest *m = &own->manifest;
    void *tiers = own->tiers;
    if (m->tier_count >= (size_t)DCP_LIMIT_FIELDS)
        return dcpi_fail(err, DCP_E_LIMIT, "more than %d tiers (DCP_LIMIT_FIELDS)", (int)DCP_LIMIT_FIELDS);
    if (!dcpi_grow(&tiers, &own->tier_capacity, m->tier_count + 1, sizeof *own->tiers, err)) return DCP_E_MEMORY;
    own->tiers = m->tiers = (dcp_manifest_tier *)tiers;
    *out = &own->tiers[m->tier_count++];
    memset(*out, 0, sizeof **out);
    (*out)->budget_bytes = -1;
    return DCP_OK;
}
DCPDEF dcp_status dcp_manifest_add_tier(dcp_manifest *manifest, const dcp_tier *tier, dcp_error *err) {
    dcp_status status = dcpi_manifest_builder(manifest, tier, "dcp_manifest_add_tier", err);
    dcpi_manifest_own *own;
    dcp_manifest_tier *added = NULL;
    dcp_tier copy;
    if (status != DCP_OK) return status;
    own = dcpi_manifest_of(manifest);
    copy = *tier;
    if (!dcpi_manifest_copy(own, &copy.name, err) || !dcpi_manifest_copy(own, &copy.size_budget, err) ||
        !dcpi_manifest_copy(own, &copy.placement_policy, err)) return DCP_E_MEMORY;
    status = dcpi_manifest_new_tier(own, &added, err);
    if (status != DCP_OK) return status;
    added->tier = copy;
    if (copy.size_budget) added->budget_bytes = dcpi_manifest_budget(copy.size_budget);
    return dcpi_succeed(err);
}
/* Appends an empty shard, in which what can be absent is so, to a list that is ours. */
static dcp_status dcpi_manifest_new_shard(dcpi_manifest_pool *pool, dcp_manifest_shard **items, size_t *count,
                                          dcp_manifest_shard **out, dcp_error *err) {
    void *grown = pool->items;
    if (*count >= (size_t)DCP_LIMIT_TENSORS)
        return dcpi_fail(err, DCP_E_LIMIT, "more than %d shards (DCP_LIMIT_TENSORS)", (int)DCP_LIMIT_TENSORS);
    if (!dcpi_grow(&grown, &pool->capacity, *count + 1, sizeof **out, err)) return DCP_E_MEMORY;
    *items = pool->items = (dcp_manifest_shard *)grown;
    *out = &pool->items[(*count)++];
    memset(*out, 0, sizeof **out);
    (*out)->ndim = (*out)->rank = -1;
    (*out)->size = -1;
    return DCP_OK;
}
static dcp_status dcpi_manifest_copy_shard(dcpi_manifest_own *own, dcpi_manifest_pool *pool, dcp_manifest_shard **items,
                                           size_t *count, const dcp_manifest_shard *shard, dcp_error *err) {
    dcp_manifest_shard copy = *shard, *added = NULL;
    dcp_error failure;
    dcp_status status;
    uint8_t *digests;
    size_t bytes;
    if (!err) err = &failure;
    if (!dcpi_manifest_copy(own, &copy.path, err) || !dcpi_manifest_copy(own, &copy.type, err) ||
        !dcpi_manifest_copy(own, &copy.tensor_name, err) || !dcpi_manifest_copy(own, &copy.dtype, err) ||
        !dcpi_manifest_copy(own, &copy.tier_hint, err) || !dcpi_manifest_copy(own, &copy.checksum, err) ||
        !dcpi_manifest_copy(own, &copy.placement, err) ||
        !dcpi_manifest_copy(own, &copy.extra, err)) return DCP_E_MEMORY;
    if (copy.block_checksums) {
        if (!dcpi_mul_size(copy.block_count, 32, &bytes)) return dcpi_no_memory(err, SIZE_MAX);
        digests = (uint8_t *)dcpi_arena_alloc(&own->arena, bytes, err);
        if (!digests) return DCP_E_MEMORY;
        memcpy(digests, copy.block_checksums, bytes);
        copy.block_checksums = digests;
    }
    status = dcpi_manifest_new_shard(pool, items, count, &added, err);
    if (status != DCP_OK) return status;
    *added = copy;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_manifest_add_shard(dcp_manifest *manifest, const dcp_manifest_shard *shard, dcp_error *err) {
    dcp_status status = dcpi_manifest_builder(manifest, shard, "dcp_manifest_add_shard", err);
    dcpi_manifest_own *own;
    if (status != DCP_OK) return status;
    own = dcpi_manifest_of(manifest);
    return dcpi_manifest_copy_shard(own, &own->shards, &manifest->shards, &manifest->shard_count, shard, err);
}
DCPDEF dcp_status dcp_manifest_add_optimizer_shard(dcp_manifest *manifest, const dcp_manifest_shard *shard,
                                                   dcp_error *err) {
    dcp_status status = dcpi_manifest_builder(manifest, shard, "dcp_manifest_add_optimizer_shard", err);
    dcpi_manifest_own *own;
    dcp_manifest_state *state;
    if (status != DCP_OK) return status;
    own = dcpi_manifest_of(manifest);
    state = &manifest->optim_state;
    status = dcpi_manifest_copy_shard(own, &own->optimizer, &state->shards, &state->shard_count, shard, err);
    if (status == DCP_OK) state->is_there = 1;
    return status;
}
/* Appends an empty layer; its lists are two arrays that grow together. */
static dcp_status dcpi_manifest_new_layer(dcpi_manifest_own *own, dcp_manifest_layer **out, dcp_error *err) {
    dcp_manifest_state *state = &own->manifest.router_state;
    size_t old = own->layer_capacity, layer_capacity = old, shard_capacity = old;
    void *layers = own->layers, *shards = own->layer_shards;
    int ok;
    if (state->layer_count >= (size_t)DCP_LIMIT_SHARDS)
        return dcpi_fail(err, DCP_E_LIMIT, "more than %d layers (DCP_LIMIT_SHARDS)", (int)DCP_LIMIT_SHARDS);
    ok = dcpi_grow(&layers, &layer_capacity, state->layer_count + 1, sizeof *own->layers, err);
    own->layers = state->layers = (dcp_manifest_layer *)layers;
    ok = ok && dcpi_grow(&shards, &shard_capacity, state->layer_count + 1, sizeof *own->layer_shards, err);
    own->layer_shards = (dcpi_manifest_pool *)shards;
    if (!ok) return DCP_E_MEMORY;                            /* the capacity is set last: it is what both surely hold */
    own->layer_capacity = layer_capacity < shard_capacity ? layer_capacity : shard_capacity;
    memset(&own->layer_shards[state->layer_count], 0, sizeof *own->layer_shards);
    *out = &own->layers[state->layer_count++];
    memset(*out, 0, sizeof **out);
    own->owned_layers = state->layer_count;
    state->is_there = 1;
    return DCP_OK;
}
DCPDEF dcp_status dcp_manifest_add_router(dcp_manifest *manifest, int64_t layer, const uint64_t *seed,
                                          const dcp_manifest_shard *shard, dcp_error *err) {
    dcp_status status = dcpi_manifest_builder(manifest, manifest, "dcp_manifest_add_router", err);
    dcpi_manifest_own *own;
    dcp_manifest_state *state;
    dcp_manifest_layer *at = NULL;
    size_t l;
    if (status != DCP_OK) return status;
    own = dcpi_manifest_of(manifest);
    state = &manifest->router_state;
    for (l = state->layer_count; l-- > 0 && !at;) if (state->layers[l].layer == layer) at = &state->layers[l];
    if (!at) {
        status = dcpi_manifest_new_layer(own, &at, err);
        if (status != DCP_OK) return status;
        at->layer = layer;
    }
    if (seed) {
        at->has_seed = 1;
        at->seed = *seed;
    }
    if (!shard) return dcpi_succeed(err);
    return dcpi_manifest_copy_shard(own, &own->layer_shards[at - own->layers], &at->shards, &at->shard_count, shard,
                                    err);
}
DCPDEF dcp_status dcp_manifest_router_seed(const dcp_manifest *manifest, int64_t layer, uint64_t *seed) {
    size_t l;
    if (!manifest || !seed) return DCP_E_INVALID;
    *seed = 0;
    for (l = 0; l < manifest->router_state.layer_count; l++) {
        const dcp_manifest_layer *at = &manifest->router_state.layers[l];
        if (at->layer != layer || !at->has_seed) continue;
        *seed = at->seed;
        return DCP_OK;
    }
    return DCP_E_NOT_FOUND;
}
/* Appends a field whose text is the arena's already. */
static dcp_status dcpi_manifest_new_field(dcpi_manifest_own *own, const char *key, const char *value, dcp_error *err) {
    dcp_manifest *m = &own->manifest;
    void *fields = own->fields;
    if (!dcpi_grow(&fields, &own->field_capacity, m->field_count + 1, sizeof *own->fields, err)) return DCP_E_MEMORY;
    own->fields = m->fields = (dcp_field *)fields;
    m->fields[m->field_count].key = key;
    m->fields[m->field_count++].value = value;
    return DCP_OK;
}
DCPDEF dcp_status dcp_manifest_set_field(dcp_manifest *manifest, const char *key, const char *value, dcp_error *err) {
    dcp_status status = dcpi_manifest_builder(manifest, key, "dcp_manifest_set_field", err);
    dcpi_manifest_own *own;
    size_t f;
    if (status != DCP_OK) return status;
    own = dcpi_manifest_of(manifest);
    for (f = 0; f < manifest->field_count; f++) if (dcpi_same_text(manifest->fields[f].key, key)) break;
    if (!value) {
        if (f == manifest->field_count) return dcpi_succeed(err);
        manifest->field_count--;
        memmove(manifest->fields + f, manifest->fields + f + 1, (manifest->field_count - f) * sizeof *manifest->fields);
        return dcpi_succeed(err);
    }
    if (!dcpi_manifest_copy(own, &value, err)) return DCP_E_MEMORY;
    if (f < manifest->field_count) {
        manifest->fields[f].value = value;
        return dcpi_succeed(err);
    }
    if (!dcpi_manifest_copy(own, &key, err)) return DCP_E_MEMORY;
    status = dcpi_manifest_new_field(own, key, value, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}

/* ---- the schema (see dcpi_record) -------------------------------------------------------------------------------- */
static const char *const dcpi_manifest_names[] = {
    "model_id", "epoch", "step", "tiers", "shards", "optim_state", "router_state", "metadata_version",
        "min_reader_version", "save_id",
    "sequence", "timestamp", "world_size", "sharding", "training", "custom_fields", "signature", "integrity"
};
static const dcpi_member dcpi_manifest_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_manifest, model_id), 0},
    {DCPI_KIND_INT64, offsetof(dcp_manifest, epoch), 0},
    {DCPI_KIND_INT64, offsetof(dcp_manifest, step), 0},
    {DCPI_KIND_TIERS, 0, 0},
    {DCPI_KIND_POOL, 0, 0},
    {DCPI_KIND_OPTIMIZER, 0, 0},
    {DCPI_KIND_ROUTER, 0, 0},
    {DCPI_KIND_INT64, offsetof(dcp_manifest, metadata_version), 0},
    {DCPI_KIND_READER, offsetof(dcp_manifest, min_reader_version), 1},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest, save_id), 1},
    {DCPI_KIND_INT64, offsetof(dcp_manifest, sequence), 1},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest, timestamp), 1},
    {DCPI_KIND_INT, offsetof(dcp_manifest, world_size), 1},
    {DCPI_KIND_SHARDING, 0, 1},
    {DCPI_KIND_TRAINING, 0, 1},
    {DCPI_KIND_FIELDS, 0, 1},
    {DCPI_KIND_SIGNATURE, 0, 1},
    {DCPI_KIND_INTEGRITY, 0, 1}
};
static const char *const dcpi_manifest_tier_names[] = {"tier_id", "name", "size_budget", "placement_policy"};
static const dcpi_member dcpi_manifest_tier_members[] = {
    {DCPI_KIND_INT64, offsetof(dcp_manifest_tier, tier) + offsetof(dcp_tier, tier_id), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_tier, tier) + offsetof(dcp_tier, name), 0},
    {DCPI_KIND_BUDGET, 0, 0},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_tier, tier) + offsetof(dcp_tier, placement_policy), 0}
};
static const char *const dcpi_manifest_shard_names[] = {
    "path", "type", "tensor_name", "expert_key", "shape", "dtype", "tier_hint", "checksum", "version", "size",
        "global_shape",
    "global_offset", "placement", "rank", "block_size", "block_checksums"
};
static const dcpi_member dcpi_manifest_shard_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_shard, path), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_shard, type), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_shard, tensor_name), 0},
    {DCPI_KIND_EXPERT_KEY, 0, 0},
    {DCPI_KIND_SHAPE, offsetof(dcp_manifest_shard, shape), 0},
    {DCPI_KIND_TYPE, offsetof(dcp_manifest_shard, dtype), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_shard, tier_hint), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_shard, checksum), 0},
    {DCPI_KIND_INT64, offsetof(dcp_manifest_shard, version), 0},
    {DCPI_KIND_INT64, offsetof(dcp_manifest_shard, size), 1},
    {DCPI_KIND_GLOBAL_SHAPE, offsetof(dcp_manifest_shard, global_shape), 1},
    {DCPI_KIND_GLOBAL_OFFSET, offsetof(dcp_manifest_shard, global_offset), 1},
    {DCPI_KIND_PLACEMENT, offsetof(dcp_manifest_shard, placement), 1},
    {DCPI_KIND_INT, offsetof(dcp_manifest_shard, rank), 1},
    {DCPI_KIND_INT64, offsetof(dcp_manifest_shard, block_size), 1},
    {DCPI_KIND_DIGESTS, 0, 1}
};
static const char *const dcpi_manifest_optimizer_names[] = {"path", "shards"};
static const dcpi_member dcpi_manifest_optimizer_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_state, path), 0},
    {DCPI_KIND_POOL, 0, 1}
};
static const char *const dcpi_manifest_router_names[] = {"path", "layers"};
static const dcpi_member dcpi_manifest_router_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_manifest_state, path), 0},
    {DCPI_KIND_LAYERS, 0, 1}
};
static const char *const dcpi_manifest_layer_names[] = {"layer", "seed", "shards"};
static const dcpi_member dcpi_manifest_layer_members[] = {
    {DCPI_KIND_INT64, offsetof(dcp_manifest_layer, layer), 0},
    {DCPI_KIND_SEED, 0, 0},
    {DCPI_KIND_POOL, 0, 0}
};
static const char *const dcpi_manifest_sharding_names[] = {"strategy", "shard_count", "precision",
                                                           "strategy_specific_info"};
static const char *const dcpi_manifest_training_names[] = {"epoch", "step", "learning_rate", "optimizer_type",
                                                           "optimizer_state"};

static const dcpi_record dcpi_manifest_record = {"", dcpi_manifest_names, dcpi_manifest_members,
                                                 (int)DCPI_COUNT(dcpi_manifest_members), offsetof(dcp_manifest, extra),
                                                 0};
static const dcpi_record dcpi_manifest_tier_record = {"", dcpi_manifest_tier_names, dcpi_manifest_tier_members,
                                                      (int)DCPI_COUNT(dcpi_manifest_tier_members),
                                                      offsetof(dcp_manifest_tier, extra), 2};
static const dcpi_record dcpi_manifest_shard_records[3] = {  /* in shards, in optim_state, in a layer of router_state */
    {"", dcpi_manifest_shard_names, dcpi_manifest_shard_members, (int)DCPI_COUNT(dcpi_manifest_shard_members),
     offsetof(dcp_manifest_shard, extra), 2},
    {"", dcpi_manifest_shard_names, dcpi_manifest_shard_members, (int)DCPI_COUNT(dcpi_manifest_shard_members),
     offsetof(dcp_manifest_shard, extra), 3},
    {"", dcpi_manifest_shard_names, dcpi_manifest_shard_members, (int)DCPI_COUNT(dcpi_manifest_shard_members),
     offsetof(dcp_manifest_shard, extra), 5}
};
static const dcpi_record dcpi_manifest_optimizer_record = {"", dcpi_manifest_optimizer_names,
                                                           dcpi_manifest_optimizer_members, 2,
                                                           offsetof(dcp_manifest_state, extra), 1};
static const dcpi_record dcpi_manifest_router_record = {"", dcpi_manifest_router_names, dcpi_manifest_router_members, 2,
                                                        offsetof(dcp_manifest_state, extra), 1};
static const dcpi_record dcpi_manifest_layer_record = {"", dcpi_manifest_layer_names, dcpi_manifest_layer_members, 3,
                                                       offsetof(dcp_manifest_layer, extra), 3};
static const dcpi_record dcpi_manifest_sharding_record = {"sharding.", dcpi_manifest_sharding_names,
                                                          dcpi_sharding_members, (int)DCPI_COUNT(dcpi_sharding_members),
                                                          offsetof(dcp_sharding, extra), 1};
static const dcpi_record dcpi_manifest_training_record = {"training.", dcpi_manifest_training_names,
                                                          dcpi_training_members, (int)DCPI_COUNT(dcpi_training_members),
                                                          offsetof(dcp_training, extra), 1};

/* ---- writing: one schema, two punctuations ----------------------------------------------------------------------- */
/* Where a manifest's shards come from while it is written: the lists of a dcp_manifest, or a save's own, one at a time.
 * What the functions hand out needs to live until the next call. `out` comes as dcpi_manifest_new_shard makes it. */
typedef struct dcpi_manifest_source {
    /* all but the lists of shards and of layers; optim_state.is_there and router_state.is_there count */
    const dcp_manifest *head;
    size_t shard_count, optimizer_count, layer_count; void *user;
    dcp_status (*shard)(void *user, size_t i, dcp_manifest_shard *out, dcp_error *err);
    dcp_status (*optimizer_shard)(void *user, size_t i, dcp_manifest_shard *out, dcp_error *err);
    /* out comes zeroed; its `shards` is not used */
    dcp_status (*layer)(void *user, size_t l, dcp_manifest_layer *out, dcp_error *err);
    dcp_status (*layer_shard)(void *user, size_t l, size_t i, dcp_manifest_shard *out, dcp_error *err);
} dcpi_manifest_source;

static dcp_status dcpi_manifest_source_shard(void *user, size_t i, dcp_manifest_shard *out, dcp_error *err) {
    *out = ((const dcp_manifest *)user)->shards[i];
    return dcpi_succeed(err);
}
static dcp_status dcpi_manifest_source_optimizer(void *user, size_t i, dcp_manifest_shard *out, dcp_error *err) {
    *out = ((const dcp_manifest *)user)->optim_state.shards[i];
    return dcpi_succeed(err);
}
static dcp_status dcpi_manifest_source_layer(void *user, size_t l, dcp_manifest_layer *out, dcp_error *err) {
    *out = ((const dcp_manifest *)user)->router_state.layers[l];
    if (!out->shards) out->shard_count = 0;
    return dcpi_succeed(err);
}
static dcp_status dcpi_manifest_source_layer_shard(void *user, size_t l, size_t i, dcp_manifest_shard *out,
                                                   dcp_error *err) {
    *out = ((const dcp_manifest *)user)->router_state.layers[l].shards[i];
    return dcpi_succeed(err);
}
static void dcpi_manifest_source_of(const dcp_manifest *manifest, dcpi_manifest_source *out) {
    out->head = manifest;
    out->shard_count = manifest->shards ? manifest->shard_count : 0;
    out->optimizer_count = manifest->optim_state.shards ? manifest->optim_state.shard_count : 0;
    out->layer_count = manifest->router_state.layers ? manifest->router_state.layer_count : 0;
    out->user = (void *)manifest;
    out->shard = dcpi_manifest_source_shard;
    out->optimizer_shard = dcpi_manifest_source_optimizer;
    out->layer = dcpi_manifest_source_layer;
    out->layer_shard = dcpi_manifest_source_layer_shard;
}

/* What stands before the first member of an object, before the others, before one that begins a line anyhow; behind the
 * last; and behind the last item of a list of such objects. */
typedef struct dcpi_manifest_style { const char *first, *next, *line, *close, *list_close; } dcpi_manifest_style;
typedef enum dcpi_manifest_level {
    DCPI_AT_TOP, DCPI_AT_ITEM, DCPI_AT_STATE, DCPI_AT_STATE_ITEM, DCPI_AT_LAYER_ITEM
} dcpi_manifest_level;
static const dcpi_manifest_style dcpi_manifest_styles[2][5] = {
    {
        {"{\n  ", ",\n  ", ",\n  ", "", ""},
        {"\n    { ", ", ", ",\n      ", " }", "\n  ]"},
        {"{ ", ", ", ", ", " }", ""},
        {"\n      { ", ", ", ",\n        ", " }", "\n    ]"},
        {"\n          { ", ", ", ",\n            ", " }", "\n        ]"}
    }, {
        {"", "\n", "\n", "\n", ""},
        {"\n  - ", "\n    ", "\n    ", "", ""},
        {"\n  ", "\n  ", "\n  ", "", ""},
        {"\n    - ", "\n      ", "\n      ", "", ""},
        {"\n        - ", "\n          ", "\n          ", "", ""}
    }
};
typedef struct dcpi_manifest_emitter {
    dcpi_emitter e;                     /* its source is not used; its member and shard are, for messages */
    const dcpi_manifest_source *source;
    int yaml;
    const dcpi_manifest_style *style; int is_first;     /* of the object that is open; nothing was written into it */
    char prefix[64];                    /* where that is: "router_state.layers[3]" */
} dcpi_manifest_emitter;

static void dcpi_manifest_begin(dcpi_manifest_emitter *m, dcpi_manifest_level level) {
    m->style = &dcpi_manifest_styles[m->yaml][level];
    m->is_first = 1;
}
static void dcpi_manifest_end(dcpi_manifest_emitter *m, dcpi_manifest_level level) {
    const dcpi_manifest_style *style = &dcpi_manifest_styles[m->yaml][level];
    dcpi_write_text(&m->e.json, m->is_first && m->style == style ? (m->yaml ? " {}" : "{}") : style->close);
    m->is_first = 0;
}
/* A member's name. is_inline: its value follows on the line, and in YAML a space is before that. */
static void dcpi_manifest_name(dcpi_manifest_emitter *m, const char *separator, const char *name, int is_inline) {
    char *to = dcpi_emit_room(&m->e);
    if (m->is_first) separator = m->style->first;
    m->is_first = 0;
    to = dcpi_put(to, separator, strlen(separator));
    if (!m->yaml) *to++ = '"';
    to = dcpi_put(to, name, strlen(name));
    if (!m->yaml) *to++ = '"';
    *to++ = ':';
    if (is_inline || !m->yaml) *to++ = ' ';
    dcpi_emit_took(&m->e, to);
}
static void dcpi_manifest_key(dcpi_manifest_emitter *m, const char *name) {
    dcpi_manifest_name(m, m->style->next, name, 1);
}

/* Text that every YAML reader takes for that string: a word of letters, digits and / _ . - that is no number, null or
 * boolean, nor what YAML 1.1 had as such. */
static int dcpi_manifest_is_plain(const char *text) {
    static const char words[] = " null true false yes no on off y n ";
    char word[10] = " ";
    size_t i;
    for (i = 0; text[i]; i++) {
        const char c = text[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/') continue;
        if (i > 0 && ((c >= '0' && c <= '9') || c == '.' || c == '-')) continue;
        return 0;
    }
    if (i == 0 || i > 5) return i > 5;
    memcpy(word + 1, text, i);
    for (i = 1; word[i]; i++) if (word[i] >= 'A' && word[i] <= 'Z') word[i] = (char)(word[i] - 'A' + 'a');
    word[i] = ' ';
    return strstr(words, word) == NULL;
}
static void dcpi_manifest_value(dcpi_manifest_emitter *m, const char *member, const char *text) {
    if (!m->yaml || !text || !dcpi_manifest_is_plain(text)) dcpi_emit_text(&m->e, member, text);
    else dcpi_write_text(&m->e.json, text);
}
static void dcpi_manifest_text(dcpi_manifest_emitter *m, const char *name, const char *text) {  /* NULL: absent */
    if (!text) return;
    dcpi_manifest_key(m, name);
    dcpi_manifest_value(m, name, text);
}
static void dcpi_manifest_int(dcpi_manifest_emitter *m, const char *name, int64_t value) {
    char *to;
    dcpi_manifest_key(m, name);
    to = dcpi_emit_room(&m->e);
    dcpi_emit_took(&m->e, dcpi_put_int(to, value));
}
static void dcpi_manifest_numbers(dcpi_manifest_emitter *m, const char *separator, const char *name,
                                  const int64_t *values, int count) {
    dcpi_manifest_name(m, separator, name, 1);
    dcpi_emit_took(&m->e, dcpi_put_numbers(dcpi_emit_room(&m->e), values, count));
}
/* -- JSON text in YAML: on one line, which is YAML then -- */
static int dcpi_manifest_flow(dcpi_writer *w, dcpi_json_reader *r);

static int dcpi_manifest_flow_object(dcpi_writer *w, dcpi_json_reader *r) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(r, &o, NULL, 0);
    dcpi_write_text(w, "{");
    while (done && dcpi_json_member(r, &o)) {
        dcpi_write_text(w, o.count > 1 ? ", " : " ");
        dcpi_write_string(w, o.key.text, o.key.length);
        dcpi_write_text(w, ": ");
        done = dcpi_manifest_flow(w, r);
    }
    dcpi_write_text(w, o.count > 1 ? " }" : "}");
    return done && !r->status;
}
static int dcpi_manifest_flow(dcpi_writer *w, dcpi_json_reader *r) {
    dcpi_json_span span;
    int64_t count;
    const char c = dcpi_json_peek(r);
    int done;
    if (c == '{') return dcpi_manifest_flow_object(w, r);
    if (c == '[') {
        done = dcpi_json_array(r, &count);
        dcpi_write_text(w, "[");
        while (done && dcpi_json_item(r, &count)) {
            if (count > 1) dcpi_write_text(w, ", ");
            done = dcpi_manifest_flow(w, r);
        }
        dcpi_write_text(w, "]");
        return done && !r->status;
    }
    if (c == '"') {
        if (!dcpi_json_string(r, &span)) return 0;
        dcpi_write_string(w, span.text, span.length);
        return 1;
    }
    if (!dcpi_json_skip(r, &span)) return 0;
    dcpi_write_raw(w, span.text, span.length);
    return 1;
}
/* The value of `text`, or its members, each behind `separator`. It has been checked. */
static dcp_status dcpi_manifest_reflow(dcpi_manifest_emitter *m, const char *text, const char *separator) {
    dcpi_buffer braced = {NULL, 0, 0, 0};
    dcpi_arena arena = {NULL};
    dcpi_json_object o;
    dcpi_json_reader r;
    int done;
    if (separator) dcpi_buffer_add(&braced, "{", 1);
    dcpi_buffer_text(&braced, text);
    if (separator) dcpi_buffer_add(&braced, "}", 1);
    if (braced.failed) { dcpi_buffer_free(&braced); return dcpi_no_memory(m->e.err, strlen(text)); }
    dcpi_json_begin(&r, braced.data, braced.size, &arena, m->e.err);
    if (!separator) (void)dcpi_manifest_flow(&m->e.json, &r);
    else {
        done = dcpi_json_object_begin(&r, &o, NULL, 0);
        while (done && dcpi_json_member(&r, &o)) {
            dcpi_write_text(&m->e.json, m->is_first ? m->style->first : separator);
            m->is_first = 0;
            dcpi_write_string(&m->e.json, o.key.text, o.key.length);
            dcpi_write_text(&m->e.json, ": ");
            done = dcpi_manifest_flow(&m->e.json, &r);
        }
    }
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    dcpi_buffer_free(&braced);
    return r.status;
}
static void dcpi_manifest_json(dcpi_manifest_emitter *m, const char *name, const char *member, const char *text) {
    dcp_error reason;
    dcpi_manifest_key(m, name);
    if (!text) text = "{}";
    if (!m->yaml) { dcpi_emit_json(&m->e, member, text, 2, NULL); return; }
    if (m->e.json.status != DCP_OK) return;
    m->e.json.status = dcpi_text_check(text, 2, NULL, !m->e.is_parsed, &reason);
    m->e.member = member;
    if (m->e.json.status == DCP_OK) m->e.json.status = dcpi_manifest_reflow(m, text, NULL);
    else (void)dcpi_fail(m->e.err, m->e.json.status, "not a JSON object: %s", reason.message);
}
/* The members that the schema does not have (G12). */
static void dcpi_manifest_extra(dcpi_manifest_emitter *m, const char *text, const char *member,
                                const dcpi_record *record) {
    dcp_error reason;
    if (!text || m->e.json.status != DCP_OK) return;
    if (!m->yaml) {
        dcpi_emit_extra(&m->e, m->is_first ? m->style->first : m->style->line, text, member, record);
        m->is_first = 0;
        return;
    }
    m->e.json.status = dcpi_text_check(text, record->depth, record, !m->e.is_parsed, &reason);
    m->e.member = member;
    if (m->e.json.status == DCP_OK) m->e.json.status = dcpi_manifest_reflow(m, text, m->style->next);
    else (void)dcpi_fail(m->e.err, m->e.json.status, "not a JSON member list: %s", reason.message);
}

/* What a shard's digests cover. Returns the bytes of its file, -1 if they are not known: absent, and no shape tells. */
static int64_t dcpi_manifest_cover(const dcp_manifest_shard *s, dcpi_cover *cover) {
    int64_t size = s->size, elements = 1;
    int d, is_known = size >= 0 || (s->ndim >= 0 && s->dtype && dcp_dtype_parse(s->dtype) != DCP_OPAQUE);
    for (d = 0; size < 0 && d < s->ndim && d < DCP_MAX_DIMS && is_known; d++)
        is_known = s->shape[d] >= 0 && dcpi_mul(elements, s->shape[d], &elements);
    if (size < 0 && is_known) is_known = dcpi_dtype_size(dcp_dtype_parse(s->dtype), elements, &size);
    cover->blocks = 0;
    cover->is_bare = 0;
    dcpi_cover_add(cover, is_known ? size : -1, s->block_size);
    return is_known ? size : -1;
}
/* A state's file that only its path is known of: none of the shards is that file. */
static int dcpi_manifest_is_bare_path(const dcp_manifest *m, const char *path) {
    const dcp_manifest_state *const states[2] = {&m->optim_state, &m->router_state};
    size_t i, k, l;
    if (!path) return 0;
    for (i = 0; m->shards && i < m->shard_count; i++) if (dcpi_same_text(m->shards[i].path, path)) return 0;
    for (k = 0; k < 2; k++) {
        for (i = 0; states[k]->shards && i < states[k]->shard_count; i++)
            if (dcpi_same_text(states[k]->shards[i].path, path)) return 0;
        for (l = 0; states[k]->layers && l < states[k]->layer_count; l++)
            for (i = 0; states[k]->layers[l].shards && i < states[k]->layers[l].shard_count; i++)
                if (dcpi_same_text(states[k]->layers[l].shards[i].path, path)) return 0;
    }
    return 1;
}
/* NULL: both are. Else the name of the one that is not. */
static const char *dcpi_manifest_bare_state(const dcp_manifest *m) {
    if (dcpi_manifest_is_bare_path(m, m->optim_state.path)) return "optim_state.path";
    return dcpi_manifest_is_bare_path(m, m->router_state.path) ? "router_state.path" : NULL;
}

/* -- records, in the order of the schema -- */
static dcp_status dcpi_manifest_emit_shard(dcpi_manifest_emitter *m, const dcp_manifest_shard *shard,
                                           dcpi_manifest_level level, const dcpi_record *record) {
    const int ndim = shard->ndim;
    int64_t bytes;
    if (ndim < -1 || ndim > DCP_MAX_DIMS) return dcpi_emit_fail(&m->e, "shape", "an impossible number of dimensions");
    if (shard->block_count > 0 && !shard->block_checksums)
        return dcpi_emit_fail(&m->e, "block_checksums", "it must not be NULL");
    if (!shard->path) return dcpi_emit_fail(&m->e, "path", "it must not be NULL");
    bytes = dcpi_manifest_cover(shard, &m->e.cover);
    if (dcpi_emit_covered(&m->e, shard->checksum, bytes) != DCP_OK) return m->e.json.status;
    dcpi_manifest_begin(m, level);
    dcpi_manifest_text(m, "path", shard->path);
    dcpi_manifest_text(m, "type", shard->type);
    dcpi_manifest_text(m, "tensor_name", shard->tensor_name);
    if (shard->has_expert_key) dcpi_manifest_numbers(m, m->style->next, "expert_key", shard->expert_key, 3);
    if (ndim >= 0) dcpi_manifest_numbers(m, m->style->line, "shape", shard->shape, ndim);
    dcpi_manifest_text(m, "dtype", shard->dtype);
    dcpi_manifest_text(m, "tier_hint", shard->tier_hint);
    dcpi_manifest_text(m, "checksum", shard->checksum);
    dcpi_manifest_int(m, "version", shard->version);
    if (shard->size >= 0) dcpi_manifest_int(m, "size", shard->size);
    if (shard->placement && ndim >= 0) {
        dcpi_manifest_numbers(m, m->style->line, "global_shape", shard->global_shape, ndim);
        dcpi_manifest_numbers(m, m->style->next, "global_offset", shard->global_offset, ndim);
    }
    dcpi_manifest_text(m, "placement", shard->placement);
    if (shard->rank >= 0) dcpi_manifest_int(m, "rank", shard->rank);
    if (shard->block_size != 0) {
        dcpi_manifest_int(m, "block_size", shard->block_size);
        dcpi_manifest_key(m, "block_checksums");
        dcpi_emit_digests(&m->e, shard->block_checksums, shard->block_count);
    }
    dcpi_manifest_extra(m, shard->extra, "extra", record);
    dcpi_manifest_end(m, level);
    return m->e.json.status;
}
/* A list of shards: of the document's (layer SIZE_MAX), of the optimizer, of a layer of the router. */
static dcp_status dcpi_manifest_emit_shards(dcpi_manifest_emitter *m, dcpi_manifest_level level, size_t count,
                                            size_t layer) {
    const dcpi_manifest_source *source = m->source;
    const dcpi_record *record = &dcpi_manifest_shard_records[level == DCPI_AT_ITEM ? 0 : level == DCPI_AT_STATE_ITEM ? 1
                                                             : 2];
    dcp_manifest_shard shard;
    dcp_status status = m->e.json.status;
    size_t i;
    if (status != DCP_OK) return status;                /* the source would clear its message */
    dcpi_manifest_name(m, m->style->next, "shards", count == 0);
    if (count == 0 || !m->yaml) dcpi_write_text(&m->e.json, count > 0 ? "[" : "[]");
    for (i = 0; i < count; i++) {
        m->e.shard = i;
        m->e.member = "";
        memset(&shard, 0, sizeof shard);
        shard.ndim = shard.rank = -1;
        shard.size = -1;
        if (level == DCPI_AT_ITEM) status = source->shard(source->user, i, &shard, m->e.err);
        else if (level == DCPI_AT_STATE_ITEM) status = source->optimizer_shard(source->user, i, &shard, m->e.err);
        else status = source->layer_shard(source->user, layer, i, &shard, m->e.err);
        if (i > 0 && !m->yaml) dcpi_write_text(&m->e.json, ",");
        if (status == DCP_OK) status = dcpi_manifest_emit_shard(m, &shard, level, record);
        if (status != DCP_OK) return status;
    }
    m->e.shard = DCPI_META_NONE;
    if (count > 0) dcpi_write_text(&m->e.json, dcpi_manifest_styles[m->yaml][level].list_close);
    return m->e.json.status;
}
static dcp_status dcpi_manifest_emit_tiers(dcpi_manifest_emitter *m) {
    const dcp_manifest *head = m->source->head;
    size_t t, count = head->tiers ? head->tier_count : 0;
    dcpi_manifest_name(m, m->style->line, "tiers", count == 0);
    if (count == 0 || !m->yaml) dcpi_write_text(&m->e.json, count > 0 ? "[" : "[]");
    for (t = 0; t < count && m->e.json.status == DCP_OK; t++) {
        const dcp_manifest_tier *tier = &head->tiers[t];
        (void)snprintf(m->prefix, sizeof m->prefix, "tiers[%" PRIu64 "]", (uint64_t)t);
        if (t > 0 && !m->yaml) dcpi_write_text(&m->e.json, ",");
        dcpi_manifest_begin(m, DCPI_AT_ITEM);
        dcpi_manifest_int(m, "tier_id", tier->tier.tier_id);
        dcpi_manifest_text(m, "name", tier->tier.name);
        dcpi_manifest_text(m, "size_budget", tier->tier.size_budget);
        dcpi_manifest_text(m, "placement_policy", tier->tier.placement_policy);
        dcpi_manifest_extra(m, tier->extra, "extra", &dcpi_manifest_tier_record);
        dcpi_manifest_end(m, DCPI_AT_ITEM);
    }
    if (m->e.json.status != DCP_OK) return m->e.json.status;
    m->prefix[0] = '\0';
    if (count > 0) dcpi_write_text(&m->e.json, dcpi_manifest_styles[m->yaml][DCPI_AT_ITEM].list_close);
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
    return m->e.json.status;
}
static dcp_status dcpi_manifest_emit_optimizer(dcpi_manifest_emitter *m) {
    const dcp_manifest_state *state = &m->source->head->optim_state;
    dcp_status status = m->e.json.status;
    if (!state->is_there && m->source->optimizer_count == 0) return status;
    (void)snprintf(m->prefix, sizeof m->prefix, "optim_state");
    dcpi_manifest_name(m, m->style->line, "optim_state", 0);
    dcpi_manifest_begin(m, DCPI_AT_STATE);
    dcpi_manifest_text(m, "path", state->path);
    if (m->source->optimizer_count > 0) {
        status = dcpi_manifest_emit_shards(m, DCPI_AT_STATE_ITEM, m->source->optimizer_count, 0);
        if (status != DCP_OK) return status;
        dcpi_manifest_begin(m, DCPI_AT_STATE);
        m->is_first = 0;
    }
    dcpi_manifest_extra(m, state->extra, "extra", &dcpi_manifest_optimizer_record);
    dcpi_manifest_end(m, DCPI_AT_STATE);
    if (m->e.json.status == DCP_OK) m->prefix[0] = '\0';
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
    return m->e.json.status;
}
static dcp_status dcpi_manifest_emit_layer(dcpi_manifest_emitter *m, size_t l) {
    dcp_manifest_layer layer;
    dcp_status status;
    char digits[24];
    memset(&layer, 0, sizeof layer);
    (void)snprintf(m->prefix, sizeof m->prefix, "router_state.layers[%" PRIu64 "]", (uint64_t)l);
    status = m->source->layer(m->source->user, l, &layer, m->e.err);
    if (status != DCP_OK) return status;
    if (l > 0 && !m->yaml) dcpi_write_text(&m->e.json, ",");
    dcpi_manifest_begin(m, DCPI_AT_STATE_ITEM);
    dcpi_manifest_int(m, "layer", layer.layer);
    if (layer.has_seed) {
        (void)snprintf(digits, sizeof digits, "%" PRIu64, layer.seed);
        dcpi_manifest_key(m, "seed");
        dcpi_write_text(&m->e.json, digits);
    }
    if (layer.shard_count > 0) {
        status = dcpi_manifest_emit_shards(m, DCPI_AT_LAYER_ITEM, layer.shard_count, l);
        if (status != DCP_OK) return status;
        dcpi_manifest_begin(m, DCPI_AT_STATE_ITEM);
        m->is_first = 0;
    }
    dcpi_manifest_extra(m, layer.extra, "extra", &dcpi_manifest_layer_record);
    dcpi_manifest_end(m, DCPI_AT_STATE_ITEM);
    return m->e.json.status;
}
static dcp_status dcpi_manifest_emit_router(dcpi_manifest_emitter *m) {
    const dcp_manifest_state *state = &m->source->head->router_state;
    dcp_status status = m->e.json.status;
    size_t l;
    if (!state->is_there && m->source->layer_count == 0) return status;
    (void)snprintf(m->prefix, sizeof m->prefix, "router_state");
    dcpi_manifest_name(m, m->style->line, "router_state", 0);
    dcpi_manifest_begin(m, DCPI_AT_STATE);
    dcpi_manifest_text(m, "path", state->path);
    if (m->source->layer_count > 0) {
        dcpi_manifest_name(m, m->style->line, "layers", 0);
        if (!m->yaml) dcpi_write_text(&m->e.json, "[");
        status = m->e.json.status;
        for (l = 0; l < m->source->layer_count && status == DCP_OK; l++) status = dcpi_manifest_emit_layer(m, l);
        if (status != DCP_OK) return status;
        dcpi_write_text(&m->e.json, dcpi_manifest_styles[m->yaml][DCPI_AT_STATE_ITEM].list_close);
        dcpi_manifest_begin(m, DCPI_AT_STATE);
        m->is_first = 0;
    }
    (void)snprintf(m->prefix, sizeof m->prefix, "router_state");
    dcpi_manifest_extra(m, state->extra, "extra", &dcpi_manifest_router_record);
    dcpi_manifest_end(m, DCPI_AT_STATE);
    if (m->e.json.status == DCP_OK) m->prefix[0] = '\0';
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
    return m->e.json.status;
}
static void dcpi_manifest_real(dcpi_manifest_emitter *m, const char *name, double value) {
    dcpi_manifest_key(m, name);
    dcpi_write_double(&m->e.json, value);
}
static void dcpi_manifest_emit_sharding(dcpi_manifest_emitter *m) {
    const dcp_sharding *sharding = &m->source->head->sharding;
    if (!m->source->head->has_sharding) return;
    dcpi_manifest_name(m, m->style->line, "sharding", 0);
    dcpi_manifest_begin(m, DCPI_AT_STATE);
    dcpi_manifest_text(m, "strategy", sharding->strategy);
    dcpi_manifest_int(m, "shard_count", sharding->shard_count);
    dcpi_manifest_text(m, "precision", sharding->precision);
    dcpi_manifest_json(m, "strategy_specific_info", "sharding.strategy_specific_info", sharding->info);
    dcpi_manifest_extra(m, sharding->extra, "sharding.extra", &dcpi_manifest_sharding_record);
    dcpi_manifest_end(m, DCPI_AT_STATE);
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
}
static void dcpi_manifest_emit_training(dcpi_manifest_emitter *m) {
    const dcp_training *training = &m->source->head->training;
    if (!m->source->head->has_training) return;
    if (!dcpi_double_is_finite(training->learning_rate)) {
        (void)dcpi_emit_fail(&m->e, "training.learning_rate", "it must be finite");
        return;
    }
    dcpi_manifest_name(m, m->style->line, "training", 0);
    dcpi_manifest_begin(m, DCPI_AT_STATE);
    dcpi_manifest_int(m, "epoch", training->epoch);
    dcpi_manifest_int(m, "step", training->step);
    dcpi_manifest_real(m, "learning_rate", training->learning_rate);
    dcpi_manifest_text(m, "optimizer_type", training->optimizer_type);
    dcpi_manifest_json(m, "optimizer_state", "training.optimizer_state", training->optimizer_state);
    dcpi_manifest_extra(m, training->extra, "training.extra", &dcpi_manifest_training_record);
    dcpi_manifest_end(m, DCPI_AT_STATE);
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
}
static void dcpi_manifest_emit_fields(dcpi_manifest_emitter *m) {
    const dcp_manifest *head = m->source->head;
    size_t f;
    if (!head->fields || head->field_count == 0) return;
    dcpi_manifest_name(m, m->style->line, "custom_fields", 0);
    dcpi_manifest_begin(m, DCPI_AT_STATE);
    for (f = 0; f < head->field_count; f++) {
        dcpi_write_text(&m->e.json, m->is_first ? m->style->first : m->style->next);
        m->is_first = 0;
        dcpi_manifest_value(m, "custom_fields", head->fields[f].key);
        dcpi_write_text(&m->e.json, ": ");
        dcpi_manifest_value(m, "custom_fields", head->fields[f].value);
    }
    dcpi_manifest_end(m, DCPI_AT_STATE);
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
}
static dcp_status dcpi_manifest_emit_body(dcpi_manifest_emitter *m) {
    const dcp_manifest *head = m->source->head;
    const int is_parsed = m->e.is_parsed;
    char now[DCPI_TIME_TEXT];
    dcp_status status;
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    if (head->min_reader_version != 0) dcpi_manifest_int(m, "min_reader_version", head->min_reader_version);
    dcpi_manifest_text(m, "model_id", head->model_id);
    dcpi_manifest_int(m, "epoch", head->epoch);
    dcpi_manifest_int(m, "step", head->step);
    /* before what is long: the order of checkpoints shows in the first bytes */
    dcpi_manifest_text(m, "save_id", head->save_id);
    if (head->save_id || head->sequence != 0) dcpi_manifest_int(m, "sequence", head->sequence);
    status = dcpi_manifest_emit_tiers(m);
    if (status == DCP_OK) status = dcpi_manifest_emit_shards(m, DCPI_AT_ITEM, m->source->shard_count, SIZE_MAX);
    dcpi_manifest_begin(m, DCPI_AT_TOP);
    m->is_first = 0;
    if (status == DCP_OK) status = dcpi_manifest_emit_optimizer(m);
    if (status == DCP_OK) status = dcpi_manifest_emit_router(m);
    if (status != DCP_OK) return status;
    dcpi_manifest_int(m, "metadata_version", head->metadata_version == 0 &&
                      !is_parsed ? DCP_MANIFEST_VERSION : head->metadata_version);
    if (!head->timestamp) dcpi_time_format(dcpi_os_wall_us(), now);
    dcpi_manifest_text(m, "timestamp", head->timestamp ? head->timestamp : is_parsed ? NULL : now);
    if (head->world_size != 0) dcpi_manifest_int(m, "world_size", head->world_size);
    dcpi_manifest_emit_sharding(m);
    dcpi_manifest_emit_training(m);
    dcpi_manifest_emit_fields(m);
    dcpi_manifest_extra(m, head->extra, "extra", &dcpi_manifest_record);
    dcpi_write_text(&m->e.json, m->style->close);
    dcpi_writer_flush(&m->e.json);
    return m->e.json.status;
}
/* The path of what a message is about, in front of it. */
static void dcpi_manifest_locate(dcp_error *err, const char *prefix, size_t shard, const char *member) {
    const char *joint = prefix[0] != '\0' ? "." : "";
    if (shard != DCPI_META_NONE)
        dcpi_fail_context(err, "%s%sshards[%" PRIu64 "]%s%s: ", prefix, joint, (uint64_t)shard,
                          member[0] != '\0' ? "." : "", member);
    else if (prefix[0] != '\0' || member[0] != '\0')
        dcpi_fail_context(err, "%s%s%s: ", prefix, member[0] != '\0' ? joint : "", member);
}
/* Streams the whole document. sink NULL: only counts its bytes. bytes may be NULL. */
static dcp_status dcpi_manifest_emit(const dcpi_manifest_source *source, int yaml, const dcp_signer *signer,
                                     dcpi_sink sink, void *user, int64_t *bytes, dcp_error *err) {
    dcpi_manifest_emitter m;
    dcpi_integrity stream;
    dcp_error failure;
    const char *bare;
    dcp_status status;
    if (bytes) *bytes = 0;
    if (!err) err = &failure;                                           /* what went wrong is needed below */
    status = dcpi_integrity_begin(&stream, yaml ? DCPI_TYPE_MANIFEST_YAML : DCPI_TYPE_MANIFEST, signer, sink, user,
                                  err);
    if (status != DCP_OK) return status;
    m.source = source;
    m.yaml = yaml != 0;
    m.prefix[0] = '\0';
    m.e.source = NULL;
    m.e.is_parsed = dcpi_manifest_is_parsed(source->head);
    m.e.is_signed = signer != NULL;
    bare = signer ? dcpi_manifest_bare_state(source->head) : NULL;
    if (bare) return dcpi_fail(err, DCP_E_SIGNATURE, "%s: the document cannot be signed: %s", bare, dcpi_cover_words);
    m.e.err = err;
    m.e.shard = m.e.tensor = DCPI_META_NONE;
    m.e.member = "";
    dcpi_writer_begin(&m.e.json, m.e.chunk, sizeof m.e.chunk, dcpi_integrity_write, &stream, err);
    status = dcpi_manifest_emit_body(&m);
    if ((status == DCP_E_INVALID || status == DCP_E_SIGNATURE) && m.e.member[0] != '\0')
        dcpi_manifest_locate(err, m.prefix, m.e.shard, m.e.member);
    if (status == DCP_OK) status = dcpi_integrity_end(&stream, err);
    if (status != DCP_OK) return status;
    if (bytes) *bytes = stream.size;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_manifest_write(const dcp_manifest *manifest, int yaml, const dcp_signer *signer, char **text,
                                     size_t *size, dcp_error *err) {
    dcpi_buffer buffer = {NULL, 0, 0, 0};
    dcpi_manifest_source source;
    dcp_status status;
    if (text) *text = NULL;
    if (size) *size = 0;
    if (!manifest || !text || !size)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_manifest_write: manifest, text and size must not be NULL");
    dcpi_manifest_source_of(manifest, &source);
    status = dcpi_manifest_emit(&source, yaml, signer, dcpi_buffer_sink, &buffer, NULL, err);
    if (status == DCP_OK) status = dcpi_buffer_sink(&buffer, "", 1, err);
    if (status != DCP_OK) { dcpi_buffer_free(&buffer); return status; }
    *text = buffer.data;
    *size = buffer.size - 1;                                            /* a NUL follows, for those who print it */
    return dcpi_succeed(err);
}

/* ---- parsing: straight into the structs, by the schema; the parser of >>meta, with readers for what only a manifest
 * has ------------- */
/* A shard as dcpi_manifest_emit_shard writes it in JSON, without unknown members, and as >>yaml makes it of YAML: read
 * in a fraction of the time. Members stand in the order of the schema, each may be absent; between them a comma and any
 * white space. */
static int dcpi_manifest_quick(dcpi_quick *q, const char *name, size_t size) {
    const char *at = q->at;
    if (at == q->end || *at++ != ',') return 0;
    while (at < q->end && (*at == ' ' || *at == '\n')) at++;
    if ((size_t)(q->end - at) < size || memcmp(at, name, size) != 0) return 0;
    q->at = at + size;
    return 1;
}
#define DCPI_MANIFEST_QUICK(q, name) dcpi_manifest_quick(q, DCPI_LITERAL("\"" name "\": "))
/* Words that are few: the two types. */
static int dcpi_manifest_type(dcpi_parser *p, const dcpi_json_span *span, const char **to) {
    static const char *const words[] = {"dense", "expert"};
    size_t i;
    for (i = 0; i < DCPI_COUNT(words); i++)
        if (dcpi_span_is(span, words[i])) { *to = words[i]; return 1; }
    *to = dcpi_arena_text(p->json.arena, span->text, span->length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
/* Tiers are defined before the shards that name them, as a rule: then the name is that text. */
static int dcpi_manifest_tier_name(dcpi_parser *p, const dcpi_json_span *span, const char **to) {
    const dcp_manifest *m = &((dcpi_manifest_own *)p->manifest)->manifest;
    size_t t;
    for (t = 0; t < m->tier_count && t < 16; t++)
        if (m->tiers[t].tier.name && dcpi_span_is(span, m->tiers[t].tier.name)) {
            *to = m->tiers[t].tier.name;
            return 1;
        }
    *to = dcpi_arena_text(p->json.arena, span->text, span->length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_manifest_quick_text(dcpi_parser *p, dcpi_quick *q, const char **to) {
    dcpi_json_span span;
    if (!dcpi_quick_text(q, &span)) return 0;
    *to = dcpi_arena_text(p->json.arena, span.text, span.length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_manifest_quick_global(dcpi_quick *q, dcp_manifest_shard *shard) {
    int count;
    if (!dcpi_quick_numbers(q, shard->global_shape, &count) || count != shard->ndim) return 0;
    if (!DCPI_MANIFEST_QUICK(q, "global_offset")) return 1;
    return dcpi_quick_numbers(q, shard->global_offset, &count) && count == shard->ndim;
}
/* From `size` on. */
static int dcpi_manifest_quick_placed(dcpi_parser *p, dcpi_quick *q, dcp_manifest_shard *shard) {
    const char *start = q->at;
    dcpi_json_span span;
    int64_t rank;
    if (DCPI_MANIFEST_QUICK(q, "size") && !dcpi_quick_int(q, &shard->size)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "global_shape") && !dcpi_manifest_quick_global(q, shard)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "placement") && !(dcpi_quick_text(q, &span) &&
                                                 dcpi_parse_placement(p, &span, &shard->placement))) return 0;
    if (DCPI_MANIFEST_QUICK(q, "rank")) {
        if (!dcpi_quick_int(q, &rank) || rank > INT_MAX) return 0;
        shard->rank = (int)rank;
    }
    if (DCPI_MANIFEST_QUICK(q, "block_size") && !dcpi_quick_int(q, &shard->block_size)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "block_checksums") && !dcpi_quick_digests(p, q)) return 0;
    p->has_additions |= q->at > start;               /* all of these are */
    while (q->at < q->end && (*q->at == ' ' || *q->at == '\n')) q->at++;
    return dcpi_quick_literal(q, "}", 1);
}
static int dcpi_manifest_quick_parts(dcpi_parser *p, dcpi_quick *q, dcp_manifest_shard *shard) {
    dcpi_json_span span;
    int count;
    if (!dcpi_quick_literal(q, DCPI_LITERAL("{ \"path\": ")) || !dcpi_manifest_quick_text(p, q, &shard->path)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "type") && !(dcpi_quick_text(q, &span) && dcpi_manifest_type(p, &span, &shard->type)))
        return 0;
    if (DCPI_MANIFEST_QUICK(q, "tensor_name") && !dcpi_manifest_quick_text(p, q, &shard->tensor_name)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "expert_key")) {
        int64_t key[DCP_MAX_DIMS];
        if (!dcpi_quick_numbers(q, key, &count) || count != 3) return 0;
        memcpy(shard->expert_key, key, sizeof shard->expert_key);
        shard->has_expert_key = 1;
    }
    if (DCPI_MANIFEST_QUICK(q, "shape") && !dcpi_quick_numbers(q, shard->shape, &shard->ndim)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "dtype") && !(dcpi_quick_text(q, &span) && dcpi_parse_type(p, &span, &shard->dtype)))
        return 0;
    if (DCPI_MANIFEST_QUICK(q, "tier_hint") && !(dcpi_quick_text(q, &span) &&
                                                 dcpi_manifest_tier_name(p, &span, &shard->tier_hint))) return 0;
    if (DCPI_MANIFEST_QUICK(q, "checksum") && !dcpi_manifest_quick_text(p, q, &shard->checksum)) return 0;
    if (DCPI_MANIFEST_QUICK(q, "version") && !dcpi_quick_int(q, &shard->version)) return 0;
    return dcpi_manifest_quick_placed(p, q, shard);
}
static void dcpi_manifest_clear(dcp_manifest_shard *shard) {
    memset(shard, 0, sizeof *shard);
    shard->ndim = shard->rank = -1;
    shard->size = -1;
}
/* 1: read. 0: it is written in another way, and nothing has happened; or there is no memory, which the status says. */
static int dcpi_manifest_quick_shard(dcpi_parser *p, dcp_manifest_shard *shard) {
    dcpi_quick q;
    q.at = p->json.at;
    q.end = p->json.end;
    p->digests.size = 0;
    if (!dcpi_manifest_quick_parts(p, &q, shard)) { dcpi_manifest_clear(shard); return 0; }
    if (!dcpi_parse_keep_digests(p, &shard->block_checksums, &shard->block_count)) return 0;
    p->json.at = q.at;
    return 1;
}
static int dcpi_manifest_parse_shard(dcpi_parser *p, dcp_manifest_shard *shard) {
    int i;
    if (dcpi_manifest_quick_shard(p, shard)) return 1;
    for (i = 0; i < 3; i++) p->ndim[i] = -1;
    p->name = &shard->tensor_name;
    if (p->json.status || !dcpi_parse_record(p, &dcpi_manifest_shard_records[0], shard)) return 0;
    shard->ndim = p->ndim[0];
    for (i = 1; i < 3; i++) {
        if (p->ndim[i] < 0 || p->ndim[i] == shard->ndim) continue;
        p->member = i == 1 ? "global_shape" : "global_offset";
        return dcpi_parse_fail(p, "its number of dimensions is not that of shape");
    }
    return 1;
}
static int dcpi_manifest_parse_pool(dcpi_parser *p, dcpi_manifest_pool *pool, dcp_manifest_shard **items,
                                    size_t *shards) {
    dcp_manifest_shard *shard = NULL;
    dcp_status status;
    int64_t count;
    void *exact;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        p->shard = (size_t)count - 1;
        p->member = "";
        if (!dcpi_parse_entry(p)) return 0;
        status = dcpi_manifest_new_shard(pool, items, shards, &shard, p->json.err);
        if (status != DCP_OK) return dcpi_parse_failed(p, status);
        if (!dcpi_manifest_parse_shard(p, shard)) return 0;
    }
    if (p->json.status) return 0;
    p->shard = DCPI_META_NONE;
    if (*shards == 0 || *shards == pool->capacity) return 1;
    exact = DCP_REALLOC((void *)pool->items, *shards * sizeof **items);   /* what the list has grown beyond its last */
    if (!exact) return 1;
    *items = pool->items = (dcp_manifest_shard *)exact;
    pool->capacity = *shards;
    return 1;
}
static int dcpi_manifest_parse_tiers(dcpi_parser *p, dcpi_manifest_own *own) {
    dcp_manifest_tier *tier = NULL;
    dcp_status status;
    int64_t count;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        (void)snprintf(p->prefix, sizeof p->prefix, "tiers[%" PRId64 "]", count - 1);
        if (!dcpi_parse_entry(p)) return 0;
        status = dcpi_manifest_new_tier(own, &tier, p->json.err);
        if (status != DCP_OK) return dcpi_parse_failed(p, status);
        if (!dcpi_parse_record(p, &dcpi_manifest_tier_record, tier)) return 0;
    }
    if (p->json.status) return 0;
    p->prefix[0] = '\0';
    return 1;
}
static int dcpi_manifest_parse_layers(dcpi_parser *p, dcpi_manifest_own *own) {
    dcp_manifest_layer *layer = NULL;
    dcp_status status;
    int64_t count;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        (void)snprintf(p->prefix, sizeof p->prefix, "router_state.layers[%" PRId64 "]", count - 1);
        if (!dcpi_parse_entry(p)) return 0;
        status = dcpi_manifest_new_layer(own, &layer, p->json.err);
        if (status != DCP_OK) return dcpi_parse_failed(p, status);
        if (!dcpi_parse_record(p, &dcpi_manifest_layer_record, layer)) return 0;
    }
    if (p->json.status) return 0;
    (void)snprintf(p->prefix, sizeof p->prefix, "router_state");
    return 1;
}
static int dcpi_manifest_parse_state(dcpi_parser *p, const dcpi_record *record, dcp_manifest_state *state,
                                     const char *name) {
    state->is_there = 1;
    (void)snprintf(p->prefix, sizeof p->prefix, "%s", name);
    p->member = "";
    if (!dcpi_parse_record(p, record, state)) return 0;
    p->prefix[0] = '\0';
    return 1;
}
static int dcpi_manifest_parse_field(dcpi_parser *p, dcpi_manifest_own *own, const dcpi_json_span *span) {
    const char *value = "", *key = dcpi_arena_text(p->json.arena, span->text, span->length, p->json.err);
    if (!key) return dcpi_json_no_memory(&p->json);
    if (own->manifest.field_count >= (size_t)DCP_LIMIT_FIELDS)
        return dcpi_parse_limit(p, "more fields than DCP_LIMIT_FIELDS");
    if (!dcpi_json_null(&p->json) && !dcpi_json_text(&p->json, &value)) return 0;
    return dcpi_manifest_new_field(own, key, value, p->json.err) == DCP_OK ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_manifest_parse_fields(dcpi_parser *p, dcpi_manifest_own *own) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(&p->json, &o, NULL, 0);
    while (done && dcpi_json_member(&p->json, &o)) done = dcpi_manifest_parse_field(p, own, &o.key);
    return done && !p->json.status;
}
/* Refused at once: what follows may mean something else. */
static int dcpi_manifest_parse_reader(dcpi_parser *p, dcp_manifest *manifest) {
    if (!dcpi_parse_int64(p, &manifest->min_reader_version)) return 0;
    if (manifest->min_reader_version <= DCP_MANIFEST_VERSION) return 1;
    return dcpi_parse_failed(p, dcpi_fail(p->json.err, DCP_E_VERSION, "this manifest needs a reader of version %" PRId64
                                          "; this program has version %d", manifest->min_reader_version,
                                          DCP_MANIFEST_VERSION));
}
static int dcpi_manifest_parse_key(dcpi_parser *p, dcp_manifest_shard *shard) {
    int64_t count, key[3];
    int i = 0;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    for (; dcpi_json_item(&p->json, &count); i++)
        if (i == 3 || !dcpi_parse_int64(p, &key[i]))
            return p->json.status ? 0 : dcpi_parse_fail(p, "more than three numbers (tier, group, expert)");
    if (p->json.status) return 0;
    if (i < 3) return dcpi_parse_fail(p, "fewer than three numbers (tier, group, expert)");
    memcpy(shard->expert_key, key, sizeof key);
    shard->has_expert_key = 1;
    return 1;
}
static int dcpi_manifest_parse_budget(dcpi_parser *p, dcp_manifest_tier *tier) {      /* "40GB", or a number of bytes */
    char digits[24];
    int64_t bytes;
    if (dcpi_json_peek(&p->json) == '"') {
        if (!dcpi_json_text(&p->json, &tier->tier.size_budget)) return 0;
    } else {
        if (!dcpi_json_int64(&p->json, &bytes)) return 0;
        (void)snprintf(digits, sizeof digits, "%" PRId64, bytes);
        tier->tier.size_budget = dcpi_arena_text(p->json.arena, digits, strlen(digits), p->json.err);
        if (!tier->tier.size_budget) return dcpi_json_no_memory(&p->json);
    }
    tier->budget_bytes = dcpi_manifest_budget(tier->tier.size_budget);
    return 1;
}
static int dcpi_manifest_parse_seed(dcpi_parser *p, dcp_manifest_layer *layer) {
    dcpi_json_span span;
    int is_integer;
    if (!dcpi_json_number(&p->json, &span, &is_integer)) return 0;
    if (!is_integer || span.text[0] == '-' || !dcpi_digits_value(span.text, span.length, &layer->seed))
        return dcpi_json_bad_number(&p->json, span, "expected a seed of 64 bits, not negative, found", "");
    layer->has_seed = 1;
    return 1;
}
static int dcpi_manifest_parse_shards(dcpi_parser *p, dcpi_manifest_own *own, void *record) {
    /* of the record that has this list */
    dcp_manifest *m = &own->manifest;
    dcp_manifest_layer *layer = (dcp_manifest_layer *)record;
    if (record == m) return dcpi_manifest_parse_pool(p, &own->shards, &m->shards, &m->shard_count);
    if (record == &m->optim_state)
        return dcpi_manifest_parse_pool(p, &own->optimizer, &m->optim_state.shards, &m->optim_state.shard_count);
    return dcpi_manifest_parse_pool(p, &own->layer_shards[layer - own->layers], &layer->shards, &layer->shard_count);
}
static int dcpi_manifest_parse_value(dcpi_parser *p, const dcpi_member *member, void *record) {
    dcpi_manifest_own *own = (dcpi_manifest_own *)p->manifest;
    dcp_manifest *m = &own->manifest;
    dcp_manifest_shard *shard = (dcp_manifest_shard *)record;
    switch (member->kind) {
    case DCPI_KIND_TIERS:      return dcpi_manifest_parse_tiers(p, own);
    case DCPI_KIND_POOL:       return dcpi_manifest_parse_shards(p, own, record);
    case DCPI_KIND_OPTIMIZER:
        return dcpi_manifest_parse_state(p, &dcpi_manifest_optimizer_record, &m->optim_state, "optim_state");
    case DCPI_KIND_ROUTER:
        return dcpi_manifest_parse_state(p, &dcpi_manifest_router_record, &m->router_state, "router_state");
    case DCPI_KIND_LAYERS:     return dcpi_manifest_parse_layers(p, own);
    case DCPI_KIND_READER:     return dcpi_manifest_parse_reader(p, m);
    case DCPI_KIND_EXPERT_KEY: return dcpi_manifest_parse_key(p, shard);
    case DCPI_KIND_BUDGET:     return dcpi_manifest_parse_budget(p, (dcp_manifest_tier *)record);
    case DCPI_KIND_SEED:       return dcpi_manifest_parse_seed(p, (dcp_manifest_layer *)record);
    case DCPI_KIND_DIGESTS:    return dcpi_parse_digests(p, &shard->block_checksums, &shard->block_count);
    case DCPI_KIND_SHARDING:
        m->has_sharding = 1; return dcpi_parse_record(p, &dcpi_manifest_sharding_record, &m->sharding);
    case DCPI_KIND_TRAINING:
        m->has_training = 1; return dcpi_parse_record(p, &dcpi_manifest_training_record, &m->training);
    case DCPI_KIND_FIELDS:     return dcpi_manifest_parse_fields(p, own);
    default:                   return 0;
    }
}
/* A document that is not understood may be one that says that it needs a newer reader, further down. */
static dcp_status dcpi_manifest_is_newer(const dcpi_parser *p, dcp_error *err) {
    static const char *const names[] = {"min_reader_version"};
    dcpi_arena arena = {NULL};
    dcpi_json_reader r;
    dcpi_json_object o;
    int64_t version = 0;
    int done;
    dcpi_json_begin(&r, p->json.start, (size_t)(p->json.end - p->json.start), &arena, NULL);
    done = dcpi_json_object_begin(&r, &o, names, 1);
    while (done && version <= DCP_MANIFEST_VERSION && dcpi_json_member(&r, &o)) {
        char c = dcpi_json_peek(&r);
        done = o.member == 0 && c >= '0' && c <= '9' ? dcpi_json_int64(&r, &version) : dcpi_json_skip(&r, NULL);
    }
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    if (version <= DCP_MANIFEST_VERSION) return p->json.status;
    return dcpi_fail(err, DCP_E_VERSION, "min_reader_version: this manifest needs a reader of version %" PRId64
                     "; this program has version %d", version, DCP_MANIFEST_VERSION);
}
/* What the document says of itself against what was found in its bytes. */
static dcp_status dcpi_manifest_parse_finish(dcpi_parser *p, const dcpi_tail *tail, dcp_manifest *manifest,
                                             dcp_error *err) {
    if (!tail->present && p->has_additions)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "the document is damaged: its last members are not the integrity member in its exact form");
    if (tail->present && p->has_signature != tail->is_signed)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "the document is damaged: its signature member is not in its place or not in its exact form");
    manifest->is_foreign = !tail->present;
    if (!tail->is_signed) return DCP_OK;
    manifest->signature_algorithm = dcpi_arena_text(p->json.arena, tail->algorithm, strlen(tail->algorithm), err);
    manifest->signature_key = dcpi_arena_text(p->json.arena, tail->key, strlen(tail->key), err);
    return manifest->signature_algorithm && manifest->signature_key ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_manifest_parse_document(dcpi_parser *p, const dcpi_tail *tail, dcp_manifest *manifest,
                                               dcp_error *err) {
    char member[64];
    int i, done = dcpi_parse_record(p, &dcpi_manifest_record, manifest);
    (void)snprintf(member, sizeof member, "%s%s", p->path, done ? "" : p->member);
    if (done) (void)dcpi_json_end(&p->json);
    dcpi_json_close(&p->json);
    for (i = 0; i < DCPI_PARSE_LEVELS; i++) dcpi_buffer_free(&p->extra[i]);
    dcpi_buffer_free(&p->digests);
    if (!p->json.status) return dcpi_manifest_parse_finish(p, tail, manifest, err);
    if (p->json.status != DCP_E_MEMORY) dcpi_manifest_locate(err, p->prefix, p->shard, member);
    return p->json.status == DCP_E_FORMAT ? dcpi_manifest_is_newer(p, err) : p->json.status;
}
/* JSON text, which in YAML's case was made of it, into a new manifest. */
static dcp_status dcpi_manifest_parse_text(const char *text, size_t size, dcpi_yaml *yaml, const dcpi_tail *tail,
                                           dcp_manifest **out, dcp_error *err) {
    dcpi_parser p;
    dcp_manifest *manifest;
    dcp_status status = dcp_manifest_new(&manifest, err);
    if (status != DCP_OK) return status;
    memset(&p, 0, sizeof p);
    p.manifest = dcpi_manifest_of(manifest);
    p.of_manifest = dcpi_manifest_parse_value;
    dcpi_manifest_of(manifest)->is_parsed = 1;
    manifest->is_yaml = yaml != NULL;
    manifest->metadata_version = 0;
    p.size = yaml ? (size_t)(yaml->end - yaml->start) : size;
    p.shard = p.tensor = DCPI_META_NONE;
    p.path = p.member = "";
    dcpi_json_begin(&p.json, text, size, &dcpi_manifest_of(manifest)->arena, err);
    if (yaml) {
        p.json.place = dcpi_yaml_place;
        p.json.place_user = yaml;
    }
    status = dcpi_manifest_parse_document(&p, tail, manifest, err);
    if (status != DCP_OK) { dcp_manifest_free(manifest); return status; }
    *out = manifest;
    return dcpi_succeed(err);
}
static int dcpi_manifest_is_yaml(const char *text, size_t size) {       /* the first thing in it is not '{' */
    size_t i = 0;
    while (i < size && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t')) i++;
    return i < size && text[i] != '{';
}
static dcp_status dcpi_manifest_cover_list(const dcp_manifest_shard *shards, size_t count, const char *prefix,
                                           dcp_error *err) {
    size_t i;
    for (i = 0; i < count; i++) {
        dcpi_cover cover;
        const int64_t size = dcpi_manifest_cover(&shards[i], &cover);
        if (dcpi_cover_is_whole(&cover, shards[i].checksum, size)) continue;
        return dcpi_fail(err, DCP_E_SIGNATURE,
                         "%sshards[%" PRIu64 "].checksum: %s; it must not be loaded with a verifier", prefix,
                         (uint64_t)i, dcpi_cover_words);
    }
    return DCP_OK;
}
static dcp_status dcpi_manifest_check_covered(const dcp_manifest *m, dcp_error *err) {
    const char *bare = dcpi_manifest_bare_state(m);
    const dcp_manifest_state *router = &m->router_state;
    char prefix[64];
    size_t l;
    dcp_status status = dcpi_manifest_cover_list(m->shards, m->shard_count, "", err);
    if (!status)
        status = dcpi_manifest_cover_list(m->optim_state.shards, m->optim_state.shard_count, "optim_state.", err);
    for (l = 0; l < router->layer_count && !status; l++) {
        (void)snprintf(prefix, sizeof prefix, "router_state.layers[%" PRIu64 "].", (uint64_t)l);
        status = dcpi_manifest_cover_list(router->layers[l].shards, router->layers[l].shard_count, prefix, err);
    }
    if (status || !bare) return status;
    return dcpi_fail(err, DCP_E_SIGNATURE, "%s: %s; it must not be loaded with a verifier", bare, dcpi_cover_words);
}
static dcp_status dcpi_manifest_parse_covered(const dcp_verifier *verifier, dcp_manifest **out, dcp_error *err) {
    const dcp_status status = verifier ? dcpi_manifest_check_covered(*out, err) : DCP_OK;
    if (status == DCP_OK) return DCP_OK;
    dcp_manifest_free(*out);
    *out = NULL;
    return status;
}
/* Checks a document's integrity, then parses it. A verifier that is set must accept, and then each byte that it names
 * is covered. What else its fields say is dcpi_manifest_check's business. */
static dcp_status dcpi_manifest_parse(const char *text, size_t size, const dcp_verifier *verifier, dcp_manifest **out,
                                      dcp_error *err) {
    const int is_yaml = dcpi_manifest_is_yaml(text, size);
    const uint64_t bytes = size;
    dcp_error failure;
    dcpi_tail tail;
    dcpi_yaml yaml;
    dcp_status status;
    *out = NULL;
    if (!err) err = &failure;
    if (bytes > (uint64_t)DCP_LIMIT_DOCUMENT)
        return dcpi_fail(err, DCP_E_LIMIT, "the document has %" PRIu64 " bytes (DCP_LIMIT_DOCUMENT)", bytes);
    status = dcpi_integrity_check(is_yaml ? DCPI_TYPE_MANIFEST_YAML : DCPI_TYPE_MANIFEST, text, size, verifier, &tail,
                                  err);
    if (status != DCP_OK) return status;
    if (!is_yaml) status = dcpi_manifest_parse_text(text, size, NULL, &tail, out, err);
    else {
        status = dcpi_yaml_to_json(text, size, SIZE_MAX, &yaml, err);
        if (status == DCP_OK) status = dcpi_manifest_parse_text(yaml.out.data, yaml.out.size, &yaml, &tail, out, err);
        dcpi_buffer_free(&yaml.out);
    }
    return status == DCP_OK ? dcpi_manifest_parse_covered(verifier, out, err) : status;
}
DCPDEF dcp_status dcp_manifest_parse(const char *text, size_t size, dcp_manifest **out, dcp_error *err) {
    if (out) *out = NULL;
    if (!out || (!text && size > 0))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_manifest_parse: text and out must not be NULL");
    return dcpi_manifest_parse(text ? text : "", size, NULL, out, err);
}

/* ---- validation: every rule. It reports and goes on, like that of the metadata, whose rules for a tensor are used
 * here ------------------- */
static const dcpi_member_words dcpi_check_manifest_words = {"dtype", "global_shape", "global_offset", "block_size",
                                                            "block_checksums", "custom_fields"};

/* A shard of one of the lists, by its number over all of them. */
typedef struct dcpi_manifest_list {
    const dcp_manifest_shard *shards;
    size_t first, count;
    int64_t layer;
} dcpi_manifest_list;
#define DCPI_MANIFEST_SHARDS (-1)       /* instead of a layer: the document's own list, and that of optim_state */
#define DCPI_MANIFEST_OPTIMIZER (-2)
typedef struct dcpi_manifest_slot { uint32_t shard, tag; } dcpi_manifest_slot;      /* shard: its number + 1; 0: free */
typedef struct dcpi_manifest_table {
    dcpi_manifest_slot *slots;
    size_t mask;
    volatile uint32_t looked_at;
} dcpi_manifest_table;

typedef struct dcpi_manifest_checker {
    dcpi_checker c;                     /* its metadata holds what the two documents have in common */
    dcp_metadata common;
    const dcp_manifest *manifest;
    dcpi_manifest_list *lists; size_t list_count, shard_count;          /* of all lists */
    const char *tier_hint; int hint_is_known;           /* the one looked up last */
    uint64_t key[2];                    /* of the hashes */
} dcpi_manifest_checker;

/* Says where: "shards[3]", "router_state.layers[1].shards[0]". */
static void dcpi_manifest_look_at(dcpi_manifest_checker *k, size_t list, size_t shard) {
    if (k->lists[list].layer == DCPI_MANIFEST_SHARDS) k->c.prefix[0] = '\0';
    else if (k->lists[list].layer == DCPI_MANIFEST_OPTIMIZER)
        (void)snprintf(k->c.prefix, sizeof k->c.prefix, "optim_state");
    else (void)snprintf(k->c.prefix, sizeof k->c.prefix, "router_state.layers[%" PRId64 "]", k->lists[list].layer);
    k->c.shard = shard;
}
static void dcpi_manifest_look_away(dcpi_manifest_checker *k) {
    k->c.prefix[0] = '\0';
    k->c.shard = DCPI_META_NONE;
}
static void dcpi_manifest_add_list(dcpi_manifest_checker *k, const dcp_manifest_shard *shards, size_t count,
                                   int64_t layer) {
    dcpi_manifest_list *list = &k->lists[k->list_count];
    if (!shards) return;
    list->shards = shards;
    list->first = k->shard_count;
    list->count = count;
    list->layer = layer;
    k->shard_count += count;
    k->list_count++;
}
/* The list of a shard's number. */
static size_t dcpi_manifest_list_of(const dcpi_manifest_checker *k, size_t number) {
    size_t low = 0, high = k->list_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (k->lists[middle].first <= number) low = middle;
        else high = middle;
    }
    return low;
}
static const dcp_manifest_shard *dcpi_manifest_shard_of(const dcpi_manifest_checker *k, size_t number) {
    const dcpi_manifest_list *list = &k->lists[dcpi_manifest_list_of(k, number)];
    return &list->shards[number - list->first];
}
static const char *dcpi_manifest_place(const dcpi_manifest_checker *k, size_t number, char text[80]) {
    const dcpi_manifest_list *list = &k->lists[dcpi_manifest_list_of(k, number)];
    const uint64_t i = (uint64_t)(number - list->first);
    if (list->layer == DCPI_MANIFEST_SHARDS) (void)snprintf(text, 80, "shards[%" PRIu64 "]", i);
    else if (list->layer == DCPI_MANIFEST_OPTIMIZER) (void)snprintf(text, 80, "optim_state.shards[%" PRIu64 "]", i);
    else (void)snprintf(text, 80, "router_state.layers[%" PRId64 "].shards[%" PRIu64 "]", list->layer, i);
    return text;
}

/* -- one shard -- */
static void dcpi_manifest_check_names(dcpi_manifest_checker *k, const dcp_manifest_shard *s, int is_parameter) {
    const int is_expert = s->type && strcmp(s->type, "expert") == 0, is_dense = s->type &&
                          strcmp(s->type, "dense") == 0;
    int i;
    if (is_parameter && (!s->type || s->type[0] == '\0'))
        dcpi_check_error(&k->c, "type", "a type is required: dense or expert");
    else if (s->type && !is_expert && !is_dense)
        dcpi_check_error(&k->c, "type", "\"%.64s\" is neither dense nor expert", s->type);
    if (s->tensor_name && !dcpi_is_name(s->tensor_name, DCP_LIMIT_NAME))
        dcpi_check_error(&k->c, "tensor_name", "a name is UTF-8 without control characters, of 1 to %d bytes",
                         (int)DCP_LIMIT_NAME);
    else dcpi_check_shown(&k->c, "tensor_name", s->tensor_name);
    if (is_expert && !s->has_expert_key)
        dcpi_check_error(&k->c, "expert_key", "an expert needs its key: [tier, group, expert]");
    else if (!s->tensor_name && !s->has_expert_key)
        dcpi_check_error(&k->c, "tensor_name", "a tensor_name is required, or the expert_key of an expert");
    if (is_dense && s->has_expert_key) dcpi_check_error(&k->c, "expert_key", "a dense shard has none");
    for (i = 0; i < 3 && s->has_expert_key; i++)
        if (s->expert_key[i] < 0) {
            dcpi_check_error(&k->c, "expert_key", "must not be negative: %" PRId64, s->expert_key[i]);
            break;
        }
}
/* A hint that names no tier misleads nobody about the bytes: a warning. A tier's number does as well as its name. */
static void dcpi_manifest_check_hint(dcpi_manifest_checker *k, const dcp_manifest_shard *s) {
    const dcp_manifest *m = k->manifest;
    char id[24];
    size_t t;
    if (!s->tier_hint) return;
    if (s->tier_hint != k->tier_hint) {
        k->tier_hint = s->tier_hint;
        k->hint_is_known = 0;
        for (t = 0; m->tiers && t < m->tier_count && !k->hint_is_known; t++) {
            (void)snprintf(id, sizeof id, "%" PRId64, m->tiers[t].tier.tier_id);
            k->hint_is_known = dcpi_same_text(m->tiers[t].tier.name, s->tier_hint) || strcmp(id, s->tier_hint) == 0;
        }
    }
    if (!k->hint_is_known)
        dcpi_check_warning(&k->c, "tier_hint", "there is no tier \"%.64s\"; it is not found by its tier", s->tier_hint);
}
static void dcpi_manifest_check_tree(dcpi_manifest_checker *k, const dcp_manifest_shard *s, const uint8_t stated[32]) {
    uint8_t digest[32];
    if (s->size > 0 && s->block_size == 0) {
        dcpi_check_error(&k->c, "block_checksums", "block digests are required with a sha256-tree checksum");
        return;
    }
    if (s->block_count > 0 && !s->block_checksums) return;              /* said already */
    dcp_sha256(s->block_count > 0 ? (const void *)s->block_checksums : "", s->block_count * 32, digest);
    if (!dcpi_sha_equal(digest, stated, 32))
        dcpi_check_error(&k->c, "checksum", "it is not the SHA-256 of the shard's block digests");
}
static void dcpi_manifest_check_checksum(dcpi_manifest_checker *k, const dcp_manifest_shard *s) {
    const char *digits = s->checksum;
    uint8_t stated[32];
    int is_tree;
    if (!digits || digits[0] == '\0') {
        dcpi_check_strict(&k->c, "checksum", "there is none: the shard cannot be verified");
        return;
    }
    is_tree = dcpi_starts_with(digits, dcpi_tree_prefix);
    if (is_tree) digits += sizeof dcpi_tree_prefix - 1;
    if (strlen(digits) != 64 || !dcpi_parse_digest(digits, stated)) {
        dcpi_check_strict(&k->c, "checksum", "\"%.96s\" is neither 64 hex digits nor sha256-tree: and 64 hex digits; "
                                             "reading the shard will fail", s->checksum);
        return;
    }
    if (k->c.is_ours && strpbrk(digits, "ABCDEF")) dcpi_check_error(&k->c, "checksum", "hex digits must be lower case");
    if (is_tree) dcpi_manifest_check_tree(k, s, stated);
    else if (s->block_count > 0)
        dcpi_check_error(&k->c, "block_checksums",
                         "block digests stand only beside a sha256-tree checksum of the shard");
}
/* The shape of the whole: where global_shape is absent from a piece that is not sharded, the piece's own. */
static const int64_t *dcpi_manifest_whole(const dcp_manifest_shard *s) {
    const int ndim = s->ndim < 0 || s->ndim > DCP_MAX_DIMS ? 0 : s->ndim;
    int d;
    if (!s->placement || strcmp(s->placement, "sharded") == 0) return s->global_shape;
    for (d = 0; d < ndim; d++) if (s->global_shape[d] != 0 || s->global_offset[d] != 0) return s->global_shape;
    return s->shape;
}
/* What a shard has in common with a tensor of the metadata. */
static void dcpi_manifest_as_tensor(const dcp_manifest_shard *s, dcp_tensor_metadata *t) {
    memset(t, 0, sizeof *t);
    t->ndim = s->ndim;
    memcpy(t->shape, s->shape, sizeof t->shape);
    t->data_type = s->dtype;
    t->size = s->size;
    memcpy(t->global_shape, dcpi_manifest_whole(s), sizeof t->global_shape);
    memcpy(t->global_offset, s->global_offset, sizeof t->global_offset);
    t->placement = s->placement;
    t->block_size = s->block_size;
    t->block_checksums = s->block_checksums;
    t->block_count = s->block_count;
}
static void dcpi_manifest_check_tensor(dcpi_manifest_checker *k, const dcp_manifest_shard *s, int is_parameter) {
    dcp_tensor_metadata t;
    int64_t elements;
    dcp_dtype type;
    if (s->size < -1) dcpi_check_error(&k->c, "size", "must not be negative: %" PRId64, s->size);
    if (s->size == -1 && k->c.is_ours) dcpi_check_error(&k->c, "size", "a size is required");
    if (s->block_size < 0) dcpi_check_error(&k->c, "block_size", "must not be negative: %" PRId64, s->block_size);
    if (s->ndim == -1 && !s->dtype && !is_parameter) return;          /* optimizer or router state of no shape: bytes */
    dcpi_manifest_as_tensor(s, &t);
    dcpi_check_type(&k->c, &t);
    if (s->ndim == -1) { dcpi_check_error(&k->c, "shape", "a shape is required"); return; }
    if (t.size < 0 && dcpi_check_elements(t.ndim, t.shape, &elements)) {        /* absent: then what it must be */
        type = t.data_type ? dcpi_check_type_of(&k->c, t.data_type) : DCP_OPAQUE;
        if (type != DCP_OPAQUE && !dcpi_dtype_size(type, elements, &t.size)) t.size = 0;
    }
    if (t.data_type) dcpi_check_shape(&k->c, &t);
    dcpi_check_placement(&k->c, &t);
    if (s->block_size >= 0) dcpi_check_blocks(&k->c, &t);
}
static void dcpi_manifest_check_shard(dcpi_manifest_checker *k, const dcp_manifest_shard *s, int is_parameter) {
    dcpi_check_path(&k->c, "path", s->path, 0);
    dcpi_manifest_check_names(k, s, is_parameter);
    dcpi_manifest_check_hint(k, s);
    dcpi_manifest_check_tensor(k, s, is_parameter);
    dcpi_manifest_check_checksum(k, s);
    if (s->version < 0) dcpi_check_error(&k->c, "version", "must not be negative: %" PRId64, s->version);
    if (s->rank < -1) dcpi_check_error(&k->c, "rank", "must not be negative: %d", s->rank);
    else if (k->manifest->world_size > 0 && s->rank >= k->manifest->world_size)
        dcpi_check_error(&k->c, "rank", "%d is not below world_size, which is %d", s->rank, k->manifest->world_size);
}

/* -- shards beside each other: tables by a hash with a random key, whatever a hostile file has in it -- */
static int dcpi_manifest_table_make(dcpi_manifest_table *table, size_t count) {
    size_t slots = 16;
    while (slots < count || slots - count < slots / 2) {                /* at most half of the slots are taken */
        if (slots > SIZE_MAX / 2 / sizeof *table->slots) return 0;
        slots *= 2;
    }
    table->mask = slots - 1;
    table->slots = (dcpi_manifest_slot *)dcpi_alloc_array(slots, sizeof *table->slots, NULL);
    return table->slots != NULL;
}
typedef struct dcpi_manifest_relation {  /* what two shards may have in common, and what must hold for them then */
    uint64_t (*hash)(const dcpi_manifest_checker *k, size_t number);    /* 0: this one has it with none */
    int (*is_same)(const dcpi_manifest_checker *k, size_t a, size_t b);
    void (*check)(dcpi_manifest_checker *k, size_t a, size_t b);        /* b is what is looked at */
} dcpi_manifest_relation;

static void dcpi_manifest_relate_one(dcpi_manifest_checker *k, dcpi_manifest_table *table,
                                     const dcpi_manifest_relation *relation, size_t number, uint64_t hash) {
    const uint32_t tag = (uint32_t)(hash >> 32);
    size_t at = (size_t)hash & table->mask, list;
    for (; table->slots[at].shard != 0; at = (at + 1) & table->mask) {
        const size_t other = table->slots[at].shard - 1;
        if (table->slots[at].tag != tag || !relation->is_same(k, other, number)) continue;
        list = dcpi_manifest_list_of(k, number);
        dcpi_manifest_look_at(k, list, number - k->lists[list].first);
        relation->check(k, other, number);
        dcpi_manifest_look_away(k);
        return;                                                         /* the first of them stands for all */
    }
    table->slots[at].shard = (uint32_t)number + 1;
    table->slots[at].tag = tag;
}
/* The slots are anywhere in memory. So shards are taken 32 at a time: all their slots are looked at, which the
 * processor does at once. */
static void dcpi_manifest_relate(dcpi_manifest_checker *k, const dcpi_manifest_relation *relation) {
    dcpi_manifest_table table;
    uint64_t hash[32];
    uint32_t looked_at = 0;
    size_t from, i, end;
    if (!dcpi_manifest_table_make(&table, k->shard_count)) { k->c.no_memory = 1; return; }
    for (from = 0; from < k->shard_count; from = end) {
        end = k->shard_count - from < DCPI_COUNT(hash) ? k->shard_count : from + DCPI_COUNT(hash);
        for (i = from; i < end; i++) hash[i - from] = relation->hash(k, i);
        for (i = from; i < end; i++) looked_at |= table.slots[(size_t)hash[i - from] & table.mask].tag;
        for (i = from; i < end; i++)
            if (hash[i - from] != 0) dcpi_manifest_relate_one(k, &table, relation, i, hash[i - from]);
    }
    table.looked_at = looked_at;                                        /* kept, or a compiler drops the looking */
    dcpi_free(table.slots);
}
static uint64_t dcpi_manifest_hash(const dcpi_manifest_checker *k, const char *text, size_t size) {
    return dcpi_sip_hash(k->key, text, size) | 1u << 31;
}

/* -- one file may stand in several shards only if it is the same bytes each time */
static uint64_t dcpi_manifest_path_hash(const dcpi_manifest_checker *k, size_t number) {
    const char *path = dcpi_manifest_shard_of(k, number)->path;
    return path ? dcpi_manifest_hash(k, path, strlen(path)) : 0;
}
static int dcpi_manifest_same_path(const dcpi_manifest_checker *k, size_t a, size_t b) {
    return dcpi_same_text(dcpi_manifest_shard_of(k, a)->path, dcpi_manifest_shard_of(k, b)->path);
}
static void dcpi_manifest_check_paths(dcpi_manifest_checker *k, size_t a, size_t b) {
    const dcp_manifest_shard *x = dcpi_manifest_shard_of(k, a), *y = dcpi_manifest_shard_of(k, b);
    char place[80];
    if (x->size == y->size && dcpi_same_text(x->checksum, y->checksum)) return;
    dcpi_check_error(&k->c, "path", "\"%.200s\" stands in %s too, with another size or checksum", y->path,
                     dcpi_manifest_place(k, a, place));
}
/* -- pieces of one tensor agree: the same name and key, in the same list (a layer of the router is one) */
static uint64_t dcpi_manifest_tensor_hash(const dcpi_manifest_checker *k, size_t number) {
    const dcp_manifest_shard *s = dcpi_manifest_shard_of(k, number);
    uint64_t hash = 1;
    if (!s->tensor_name && !s->has_expert_key) return 0;
    if (s->has_expert_key) hash = dcpi_manifest_hash(k, (const char *)s->expert_key, sizeof s->expert_key) * 3;
    return s->tensor_name ? hash + dcpi_manifest_hash(k, s->tensor_name, strlen(s->tensor_name)) : hash;
}
static int dcpi_manifest_same_tensor(const dcpi_manifest_checker *k, size_t a, size_t b) {
    const dcp_manifest_shard *x = dcpi_manifest_shard_of(k, a), *y = dcpi_manifest_shard_of(k, b);
    if (dcpi_manifest_list_of(k, a) != dcpi_manifest_list_of(k, b) || !dcpi_same_text(x->tensor_name, y->tensor_name))
        return 0;
    return x->has_expert_key == y->has_expert_key && (!x->has_expert_key ||
                                                      memcmp(x->expert_key, y->expert_key, sizeof x->expert_key) == 0);
}
static void dcpi_manifest_check_tensors(dcpi_manifest_checker *k, size_t a, size_t b) {
    const dcp_manifest_shard *x = dcpi_manifest_shard_of(k, a), *y = dcpi_manifest_shard_of(k, b);
    char place[80];
    (void)dcpi_manifest_place(k, a, place);
    if (!dcpi_same_text(x->placement, y->placement)) {
        dcpi_check_error(&k->c, "placement", "it is %.32s, and in %s %.32s, which is a piece of the same tensor",
                         y->placement ? y->placement : "absent", place, x->placement ? x->placement : "absent");
        return;
    }
    if (!y->placement) {
        dcpi_check_warning(&k->c, "global_offset",
                           "%s is a piece of the same tensor, and nothing says how the two fit together", place);
        return;
    }
    if (strcmp(y->placement, "private") == 0) return;
    if (!dcpi_check_same_type(x->dtype, y->dtype))
        dcpi_check_error(&k->c, "dtype", "it is %.32s, and in %s %.32s, which is a piece of the same tensor",
                         y->dtype ? y->dtype : "absent", place, x->dtype ? x->dtype : "absent");
    if (x->ndim != y->ndim || memcmp(x->global_shape, y->global_shape, sizeof x->global_shape) != 0)
        dcpi_check_error(&k->c, "global_shape", "%s is a piece of the same tensor and has another one", place);
}
/* -- and none of them stands twice: at one place, and private ones of one rank. One without elements takes no place:
 *    where it starts, others of other shapes may start too, which every even split over more ranks than rows has. */
static int dcpi_manifest_is_empty(const dcp_manifest_shard *s) {
    int d;
    for (d = 0; d < s->ndim && d < DCP_MAX_DIMS; d++) if (s->shape[d] == 0) return 1;
    return 0;
}
static uint64_t dcpi_manifest_piece_hash(const dcpi_manifest_checker *k, size_t number) {
    const dcp_manifest_shard *s = dcpi_manifest_shard_of(k, number);
    const uint64_t tensor = s->placement ? dcpi_manifest_tensor_hash(k, number) : 0;
    const size_t ndim = s->ndim < 0 || s->ndim > DCP_MAX_DIMS ? 0 : (size_t)s->ndim;
    const int is_private = s->placement && strcmp(s->placement, "private") == 0;
    int64_t words[2 * DCP_MAX_DIMS + 1];
    size_t count = ndim;
    if (tensor == 0) return 0;
    memcpy(words, s->global_offset, ndim * sizeof *words);
    words[count++] = is_private ? s->rank : -1;
    /* else many empty ones at one place would be one long chain */
    if (!is_private && dcpi_manifest_is_empty(s)) {
        memcpy(words + count, s->shape, ndim * sizeof *words);
        count += ndim;
    }
    return tensor * 3 + dcpi_manifest_hash(k, (const char *)words, count * sizeof *words);
}
static int dcpi_manifest_same_piece(const dcpi_manifest_checker *k, size_t a, size_t b) {
    const dcp_manifest_shard *x = dcpi_manifest_shard_of(k, a), *y = dcpi_manifest_shard_of(k, b);
    if (!dcpi_manifest_same_tensor(k, a, b) || !dcpi_same_text(x->placement, y->placement)) return 0;
    if (memcmp(x->global_offset, y->global_offset, sizeof x->global_offset) != 0) return 0;
    if (strcmp(y->placement, "private") == 0) return x->rank == y->rank;
    if (!dcpi_manifest_is_empty(x) && !dcpi_manifest_is_empty(y)) return 1;
    return memcmp(x->shape, y->shape, sizeof x->shape) == 0;
}
static void dcpi_manifest_check_pieces(dcpi_manifest_checker *k, size_t a, size_t b) {
    char place[80];
    (void)b;
    dcpi_check_error(&k->c, "global_offset", "%s is the same piece of the same tensor",
                     dcpi_manifest_place(k, a, place));
}

/* -- the document -- */
static int dcpi_manifest_by_id(const void *a, const void *b) {
    int64_t x = ((const dcp_manifest_tier *)a)->tier.tier_id, y = ((const dcp_manifest_tier *)b)->tier.tier_id;
    return x < y ? -1 : x > y;
}
static int dcpi_manifest_by_name(const void *a, const void *b) {
    const char *x = ((const dcp_manifest_tier *)a)->tier.name, *y = ((const dcp_manifest_tier *)b)->tier.name;
    return strcmp(x ? x : "", y ? y : "");
}
static int dcpi_manifest_by_layer(const void *a, const void *b) {
    int64_t x = ((const dcp_manifest_layer *)a)->layer, y = ((const dcp_manifest_layer *)b)->layer;
    return x < y ? -1 : x > y;
}
/* Which of two equal ones comes later is said; `stride` bytes lie between items. */
static void dcpi_manifest_check_unique(dcpi_manifest_checker *k, const char *list, const void *items, size_t count,
                                       size_t stride, dcpi_compare compare, const char *member) {
    const void **order = (const void **)dcpi_alloc_array(count, sizeof *order, NULL);
    size_t i;
    if (!order) { k->c.no_memory = 1; return; }
    for (i = 0; i < count; i++) order[i] = (const char *)items + i * stride;
    if (dcpi_sort(order, count, compare, NULL) != DCP_OK) k->c.no_memory = 1;
    for (i = 1; i < count && !k->c.no_memory; i++) {
        if (compare(order[i - 1], order[i]) != 0) continue;
        (void)snprintf(k->c.prefix, sizeof k->c.prefix, "%s[%" PRIu64 "]", list,
                       (uint64_t)(size_t)((const char *)order[i] - (const char *)items) / stride);
        dcpi_check_error(&k->c, member, "%s[%" PRIu64 "] has the same one", list,
                         (uint64_t)(size_t)((const char *)order[i - 1] - (const char *)items) / stride);
    }
    k->c.prefix[0] = '\0';
    dcpi_free((void *)order);
}
static void dcpi_manifest_check_tiers(dcpi_manifest_checker *k) {
    const dcp_manifest *m = k->manifest;
    size_t t;
    if (!m->tiers) { if (m->tier_count > 0) dcpi_check_error(&k->c, "tiers", "the tiers are missing"); return; }
    for (t = 0; t < m->tier_count; t++) {
        const dcp_tier *tier = &m->tiers[t].tier;
        (void)snprintf(k->c.prefix, sizeof k->c.prefix, "tiers[%" PRIu64 "]", (uint64_t)t);
        if (tier->tier_id < 0) dcpi_check_error(&k->c, "tier_id", "must not be negative: %" PRId64, tier->tier_id);
        if (!tier->name || !dcpi_is_name(tier->name, DCP_LIMIT_NAME))
            dcpi_check_error(&k->c, "name", "a name is required, UTF-8 without control characters");
        else dcpi_check_shown(&k->c, "name", tier->name);
        if (tier->size_budget && dcpi_manifest_budget(tier->size_budget) < 0)
            dcpi_check_error(&k->c, "size_budget",
                             "\"%.64s\" is not a number of bytes below 2^63, such as 40GB, 512MiB or 1000",
                             tier->size_budget);
        if (tier->placement_policy && !dcpi_is_utf8(tier->placement_policy))
            dcpi_check_error(&k->c, "placement_policy", "not valid UTF-8");
        dcpi_check_text(&k->c, "extra", m->tiers[t].extra, dcpi_manifest_tier_record.depth, &dcpi_manifest_tier_record);
    }
    k->c.prefix[0] = '\0';
    dcpi_manifest_check_unique(k, "tiers", m->tiers, m->tier_count, sizeof *m->tiers, dcpi_manifest_by_id, "tier_id");
    dcpi_manifest_check_unique(k, "tiers", m->tiers, m->tier_count, sizeof *m->tiers, dcpi_manifest_by_name, "name");
}
static void dcpi_manifest_check_state(dcpi_manifest_checker *k, const dcp_manifest_state *state, const char *name,
                                      const dcpi_record *record) {
    (void)snprintf(k->c.prefix, sizeof k->c.prefix, "%s", name);
    if (state->path) dcpi_check_path(&k->c, "path", state->path, 0);
    dcpi_check_text(&k->c, "extra", state->extra, record->depth, record);
    k->c.prefix[0] = '\0';
}
static void dcpi_manifest_check_layers(dcpi_manifest_checker *k) {
    const dcp_manifest_state *state = &k->manifest->router_state;
    size_t l;
    if (!state->layers) return;
    for (l = 0; l < state->layer_count; l++) {
        (void)snprintf(k->c.prefix, sizeof k->c.prefix, "router_state.layers[%" PRIu64 "]", (uint64_t)l);
        if (state->layers[l].layer < 0)
            dcpi_check_error(&k->c, "layer", "must not be negative: %" PRId64, state->layers[l].layer);
        dcpi_check_text(&k->c, "extra", state->layers[l].extra, dcpi_manifest_layer_record.depth,
                        &dcpi_manifest_layer_record);
    }
    k->c.prefix[0] = '\0';
    dcpi_manifest_check_unique(k, "router_state.layers", state->layers, state->layer_count, sizeof *state->layers,
                               dcpi_manifest_by_layer, "layer");
}
static void dcpi_manifest_check_head(dcpi_manifest_checker *k) {
    const dcp_manifest *m = k->manifest;
    const int is_parsed = k->c.is_parsed;
    int64_t seconds;
    int nanoseconds;
    if (!m->model_id || m->model_id[0] == '\0') dcpi_check_warning(&k->c, "model_id", "the model has no name");
    else if (!dcpi_is_utf8(m->model_id)) dcpi_check_error(&k->c, "model_id", "not valid UTF-8");
    if (m->epoch < 0) dcpi_check_error(&k->c, "epoch", "must not be negative: %" PRId64, m->epoch);
    if (m->step < 0) dcpi_check_error(&k->c, "step", "must not be negative: %" PRId64, m->step);
    if (m->metadata_version < 0 || (m->metadata_version == 0 && is_parsed))
        dcpi_check_error(&k->c, "metadata_version", "it is required and at least 1: %" PRId64, m->metadata_version);
    else if (m->metadata_version > DCP_MANIFEST_VERSION)
        dcpi_check_warning(&k->c, "metadata_version", "%" PRId64
                           " is newer than this program, which knows %d; what is unknown to it is ignored",
                           m->metadata_version, DCP_MANIFEST_VERSION);
    if (m->min_reader_version < 0 || m->min_reader_version > DCP_MANIFEST_VERSION)
        dcpi_check_error(&k->c, "min_reader_version", "%" PRId64 " is not from 0 to %d, which this program has",
                         m->min_reader_version, DCP_MANIFEST_VERSION);
    if (m->save_id && !dcpi_is_save_id(m->save_id))
        dcpi_check_error(&k->c, "save_id", "\"%.64s\" is not 16 lower-case hex digits", m->save_id);
    if (m->sequence < 0) dcpi_check_error(&k->c, "sequence", "must not be negative: %" PRId64, m->sequence);
    if (m->timestamp && !dcpi_time_parse(m->timestamp, &seconds, &nanoseconds))
        dcpi_check_error(&k->c, "timestamp", "\"%.64s\" is not a time such as 2026-11-20T12:00:00.123456Z",
                         m->timestamp);
    if (m->world_size < 0) dcpi_check_error(&k->c, "world_size", "must not be negative: %d", m->world_size);
}
static void dcpi_manifest_check_texts(dcpi_manifest_checker *k) {
    const dcp_manifest *m = k->manifest;
    size_t f;
    if (m->has_sharding) {
        dcpi_check_words(&k->c, "sharding.strategy", m->sharding.strategy);
        dcpi_check_words(&k->c, "sharding.precision", m->sharding.precision);
        dcpi_check_text(&k->c, "sharding.strategy_specific_info", m->sharding.info, 2, NULL);
        dcpi_check_text(&k->c, "sharding.extra", m->sharding.extra, 1, &dcpi_manifest_sharding_record);
    }
    if (m->has_training) {
        if (!dcpi_double_is_finite(m->training.learning_rate))
            dcpi_check_error(&k->c, "training.learning_rate", "must be finite");
        dcpi_check_words(&k->c, "training.optimizer_type", m->training.optimizer_type);
        dcpi_check_text(&k->c, "training.optimizer_state", m->training.optimizer_state, 2, NULL);
        dcpi_check_text(&k->c, "training.extra", m->training.extra, 1, &dcpi_manifest_training_record);
    }
    dcpi_check_text(&k->c, "extra", m->extra, 0, &dcpi_manifest_record);
    k->common.fields = m->fields;
    k->common.field_count = m->field_count;
    dcpi_check_fields(&k->c);
    for (f = 0; m->fields && f < m->field_count; f++) {
        dcpi_check_words(&k->c, "custom_fields", m->fields[f].key);
        dcpi_check_words(&k->c, "custom_fields", m->fields[f].value);
    }
}
static void dcpi_manifest_check_list(dcpi_manifest_checker *k, size_t list) {
    const dcpi_manifest_list *l = &k->lists[list];
    const dcpi_record *record = &dcpi_manifest_shard_records[l->layer == DCPI_MANIFEST_SHARDS ? 0 : l->layer ==
                                                             DCPI_MANIFEST_OPTIMIZER ? 1 : 2];
    size_t i;
    dcpi_manifest_look_at(k, list, 0);
    for (i = 0; i < l->count; i++) {
        k->c.shard = i;
        dcpi_manifest_check_shard(k, &l->shards[i], l->layer == DCPI_MANIFEST_SHARDS);
        if (l->shards[i].extra) dcpi_check_text(&k->c, "extra", l->shards[i].extra, record->depth, record);
    }
    dcpi_manifest_look_away(k);
}
static void dcpi_manifest_check_shards(dcpi_manifest_checker *k) {
    static const dcpi_manifest_relation paths = {dcpi_manifest_path_hash, dcpi_manifest_same_path,
                                                 dcpi_manifest_check_paths};
    static const dcpi_manifest_relation tensors = {dcpi_manifest_tensor_hash, dcpi_manifest_same_tensor,
                                                   dcpi_manifest_check_tensors};
    static const dcpi_manifest_relation pieces = {dcpi_manifest_piece_hash, dcpi_manifest_same_piece,
                                                  dcpi_manifest_check_pieces};
    const dcp_manifest *m = k->manifest;
    const dcp_manifest_state *router = &m->router_state;
    size_t l, layers = router->layers ? router->layer_count : 0;
    k->lists = (dcpi_manifest_list *)dcpi_alloc_array(layers + 2, sizeof *k->lists, NULL);
    if (!k->lists) { k->c.no_memory = 1; return; }
    dcpi_manifest_add_list(k, m->shards, m->shard_count, DCPI_MANIFEST_SHARDS);
    dcpi_manifest_add_list(k, m->optim_state.shards, m->optim_state.shard_count, DCPI_MANIFEST_OPTIMIZER);
    for (l = 0; l < layers; l++)
        dcpi_manifest_add_list(k, router->layers[l].shards, router->layers[l].shard_count, (int64_t)l);
    for (l = 0; l < k->list_count; l++) dcpi_manifest_check_list(k, l);
    if (!m->shards && m->shard_count > 0) dcpi_check_error(&k->c, "shards", "the shards are missing");
    else if (k->shard_count == 0) dcpi_check_warning(&k->c, "shards", "there is no shard");
    else if (k->shard_count > (size_t)DCP_LIMIT_TENSORS)
        dcpi_check_error(&k->c, "shards", "more than %d shards (DCP_LIMIT_TENSORS)", (int)DCP_LIMIT_TENSORS);
    else {
        dcpi_manifest_relate(k, &paths);
        dcpi_manifest_relate(k, &tensors);
        dcpi_manifest_relate(k, &pieces);
    }
    dcpi_free(k->lists);
}
DCPDEF dcp_status dcp_manifest_validate(const dcp_manifest *manifest, dcp_validation *out) {
    dcpi_manifest_checker k;
    if (out) memset(out, 0, sizeof *out);
    if (!manifest || !out) return DCP_E_INVALID;
    memset(&k, 0, sizeof k);
    k.manifest = manifest;
    k.c.say = &dcpi_check_manifest_words;
    k.c.metadata = &k.common;
    k.c.out = out;
    k.c.shard = k.c.tensor = DCPI_META_NONE;
    k.c.is_parsed = dcpi_manifest_is_parsed(manifest);
    k.c.is_ours = manifest->save_id != NULL;
    k.c.type = DCP_OPAQUE;
    if (dcpi_os_random(k.key, sizeof k.key) != 0) k.key[0] = k.key[1] = (uint64_t)dcpi_os_wall_us();
    dcpi_manifest_check_head(&k);
    dcpi_manifest_check_tiers(&k);
    dcpi_manifest_check_state(&k, &manifest->optim_state, "optim_state", &dcpi_manifest_optimizer_record);
    dcpi_manifest_check_state(&k, &manifest->router_state, "router_state", &dcpi_manifest_router_record);
    dcpi_manifest_check_layers(&k);
    dcpi_manifest_check_shards(&k);
    dcpi_manifest_check_texts(&k);
    dcpi_check_more(&k.c);
    if (k.c.no_memory) return DCP_E_MEMORY;
    return out->error_count > 0 ? DCP_E_FORMAT : DCP_OK;
}
/* Validates for an operation that needs a good document: as dcpi_meta_check. */
static dcp_status dcpi_manifest_check(const dcp_manifest *manifest, const char *path, dcp_validation *found,
                                      dcp_error *err) {
    return dcpi_meta_checked(dcp_manifest_validate(manifest, found), path, found, err);
}

/* ---- names of pool files ----------------------------------------------------------------------------------------- */
#define DCPI_MANIFEST_NAME 384          /* bytes of the longest, and a NUL */
#define DCPI_MANIFEST_NAME_FROM 150     /* a tensor's name that has more is cut */
#define DCPI_MANIFEST_NAME_KEPT 120

typedef struct dcpi_manifest_file {     /* what a pool file's name says */
    dcp_role role;
    const char *tensor_name;            /* NULL: an expert that is one tensor */
    const int64_t *expert_key;          /* tier, group, expert; for experts */
    int64_t index, count;               /* the piece of the tensor, and of how many */
    int64_t version;                    /* 0: the plain name */
    const char *save_id;                /* NULL; else the name with the version is taken */
    int with_hash;                      /* another tensor's name differs by case only: the hash too */
} dcpi_manifest_file;

/* One part of a tensor's name; a part that is a folder must not look like one of our files. At most 3 bytes for one. */
static char *dcpi_manifest_put_part(char *to, const char *part, size_t length, int is_folder) {
    const size_t suffix = is_folder && length >= 4 && memcmp(part + length - 4, ".bin", 4) == 0 ? length - 4 : SIZE_MAX;
    const int is_device = dcpi_part_is_device(part, length);
    size_t i;
    for (i = 0; i < length; i++) {
        const char c = part[i];
        const int is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                             c == '-' || c == '.';
        if (is_plain && !(c == '.' && (i == 0 || i + 1 == length || i == suffix)) && !(i == 0 && is_device)) {
            *to++ = c;
            continue;
        }
        *to++ = '%';
        *to++ = "0123456789ABCDEF"[(unsigned char)c >> 4];
        *to++ = "0123456789ABCDEF"[(unsigned char)c & 15];
    }
    return to;
}
/* A tensor's name as a path: each '/' makes a folder, but where a part would be empty. `to`: room for three times its
 * bytes and 18. */
static void dcpi_manifest_put_name(char *to, const char *name, int with_hash) {
    char *start = to;
    const char *part = name, *end;
    uint8_t digest[32];
    size_t length;
    for (;;) {
        for (end = part; *end && !(*end == '/' && end > part && end[1] != '\0' && end[1] != '/'); end++) {}
        to = dcpi_manifest_put_part(to, part, (size_t)(end - part), *end == '/');
        if (*end == '\0') break;
        *to++ = '/';
        part = end + 1;
    }
    length = (size_t)(to - start);
    if (length > DCPI_MANIFEST_NAME_FROM) {
        length = DCPI_MANIFEST_NAME_KEPT;
        if (start[length - 1] == '%') length--;                         /* escapes stay whole */
        else if (start[length - 2] == '%') length -= 2;
        with_hash = 1;
    }
    if (with_hash) {
        start[length] = '-';
        dcp_sha256(name, strlen(name), digest);
        dcpi_hex_encode(digest, 8, start + length + 1);
        length += 17;
    }
    start[length] = '\0';
}
/* dense/<tensor>_<i>_of_<n>.bin, experts/tier_<t>/group_<g>/expert_<e>[.<tensor>_<i>_of_<n>].bin, optim/...,
 * router/...; with .v<version> and .<save id> before .bin. Always a path that a document may name (DESIGN 3). */
static dcp_status dcpi_manifest_file_name(const dcpi_manifest_file *file, char name[DCPI_MANIFEST_NAME],
                                          dcp_error *err) {
    static const char *const folders[] = {"dense", "experts", "optim", "router"};
    const int is_expert = file->role == DCP_ROLE_EXPERT;
    char tensor[3 * DCP_LIMIT_NAME + 32], piece[64], version[48];
    int used;
    name[0] = '\0';
    if ((unsigned)file->role >= DCPI_COUNT(folders))
        return dcpi_fail(err, DCP_E_INVALID, "role %d is none of dcp_role", (int)file->role);
    if (is_expert && !file->expert_key) return dcpi_fail(err, DCP_E_INVALID, "an expert needs its expert_key");
    if (!file->tensor_name && !is_expert) return dcpi_fail(err, DCP_E_INVALID, "a tensor name is needed");
    if (file->tensor_name && !dcpi_is_name(file->tensor_name, DCP_LIMIT_NAME))
        return dcpi_fail(err, DCP_E_INVALID, "the tensor's name is not valid");
    if (file->index < 0 || file->version < 0 || (file->save_id && !dcpi_is_save_id(file->save_id)))
        return dcpi_fail(err, DCP_E_INVALID,
                         "index and version must not be negative, and a save id has 16 lower-case hex digits");
    tensor[0] = piece[0] = version[0] = '\0';
    if (file->tensor_name) {
        dcpi_manifest_put_name(tensor, file->tensor_name, file->with_hash);
        (void)snprintf(piece, sizeof piece, "_%" PRId64 "_of_%" PRId64, file->index, file->count);
    }
    if (file->version > 0 || file->save_id)
        (void)snprintf(version, sizeof version, ".v%" PRId64 "%s%s", file->version, file->save_id ? "." : "",
                       file->save_id ? file->save_id : "");
    if (is_expert)
        used = snprintf(name, DCPI_MANIFEST_NAME, "experts/tier_%" PRId64 "/group_%" PRId64 "/expert_%" PRId64
                        "%s%s%s%s.bin", file->expert_key[0], file->expert_key[1], file->expert_key[2], file->tensor_name
                        ? "." : "", tensor, piece, version);
    else used = snprintf(name, DCPI_MANIFEST_NAME, "%s/%s%s%s.bin", folders[file->role], tensor, piece, version);
    if (used > 0 && used < DCPI_MANIFEST_NAME) return dcpi_succeed(err);
    name[0] = '\0';
    return dcpi_fail(err, DCP_E_INVALID, "the file name does not fit");
}
