/* convert_manifest.c - what only manifests say: taken from one, or kept in another layout and read back. */
#include "convert.h"
#include <errno.h>

static void make_room(convert_job *v, size_t tiers, size_t seeds) {
    v->tiers = tool_new(tiers + 1, sizeof *v->tiers);
    v->tier_extras = tool_new(tiers + 1, sizeof *v->tier_extras);
    v->seeds = tool_new(seeds + 1, sizeof *v->seeds);
    v->seed_extras = tool_new(seeds + 1, sizeof *v->seed_extras);
    v->origins = tool_new(v->all.count + 1, sizeof *v->origins);
}

/* ---- from a manifest --------------------------------------------------------------------------------------------- */
static void take_seeds(convert_job *v, const dcp_manifest_state *state) {
    size_t i;
    for (i = 0; i < state->layer_count; i++) {
        const dcp_manifest_layer *layer = &state->layers[i];
        if (layer->has_seed) {
            v->seed_extras[v->seed_count] = layer->extra;
            v->seeds[v->seed_count].layer = layer->layer;
            v->seeds[v->seed_count++].seed = layer->seed;
        } else if (layer->extra)
            tool_note(v->t, "warning: layer %" PRId64 " of router_state has no seed, and its members %s are left out",
                      layer->layer, layer->extra);
    }
}

static void take_origin(const convert_job *v, const tool_piece *p, convert_origin *o) {
    const dcp_manifest *m = v->manifest;
    const size_t tier = tool_tier_of(m, p->info->tier);
    int k;
    o->role = p->info->role;
    for (k = 0; k < 3; k++) o->expert_key[k] = p->info->expert_key[k] > 0 ? p->info->expert_key[k] : 0;
    o->version = p->file ? p->file->version : 0;
    if (tier < m->tier_count) o->tier = m->tiers[tier].tier.name;
    else if (p->info->tier)
        tool_note(v->t, "warning: tensor \"%s\" is of tier \"%s\", which %s does not define: the tier is left out",
                  p->info->name, p->info->tier, dcp_checkpoint_path(v->c));
}

void convert_take_manifest(convert_job *v) {
    const dcp_manifest *m = v->manifest;
    const dcp_manifest_state *optim = &m->optim_state, *router = &m->router_state;
    size_t i;
    make_room(v, m->tier_count, router->layer_count);
    v->model_id = m->model_id;
    v->optim_extra = optim->extra;
    v->router_extra = router->extra;
    v->tier_count = m->tier_count;
    for (i = 0; i < m->tier_count; i++) {
        v->tiers[i] = m->tiers[i].tier;
        v->tier_extras[i] = m->tiers[i].extra;
    }
    take_seeds(v, router);
    for (i = 0; i < v->pieces.count; i++) take_origin(v, &v->pieces.items[i], &v->origins[v->pieces.items[i].order]);
    if ((optim->path && !optim->shard_count) || (router->path && !router->layer_count))
        tool_note(v->t, "warning: %s has optimizer or router state of which it only gives the path: that file is not "
                  "converted", dcp_checkpoint_path(v->c));
}

/* ---- kept, as the member "manifest" of "sharding" ---------------------------------------------------------------- */
static void keep_optional(dcp_json *object, const char *key, const char *text) {
    if (text) dcp_json_add_string(object, key, text);
}

static void keep_tiers(const convert_job *v, dcp_json *list) {
    size_t i;
    for (i = 0; i < v->tier_count; i++) {
        dcp_json *entry = dcp_json_add_object(list, NULL);
        dcp_json_add_int(entry, "id", v->tiers[i].tier_id);
        dcp_json_add_string(entry, "name", v->tiers[i].name);
        keep_optional(entry, "sizeBudget", v->tiers[i].size_budget);
        keep_optional(entry, "placementPolicy", v->tiers[i].placement_policy);
        keep_optional(entry, "extra", v->tier_extras[i]);
    }
}

static void keep_seeds(const convert_job *v, dcp_json *list) {
    char seed[TOOL_NUMBER];
    size_t i;
    for (i = 0; i < v->seed_count; i++) {
        dcp_json *entry = dcp_json_add_object(list, NULL);
        snprintf(seed, sizeof seed, "%" PRIu64, v->seeds[i].seed);
        dcp_json_add_int(entry, "layer", v->seeds[i].layer);
        dcp_json_add_string(entry, "seed", seed);       /* many readers of JSON have 53 bits */
        keep_optional(entry, "extra", v->seed_extras[i]);
    }
}

static void keep_piece(const convert_job *v, dcp_json *list, const tool_piece *p) {
    const convert_origin *o = &v->origins[p->order];
    dcp_json *entry = dcp_json_add_object(list, NULL), *key;
    int k;
    dcp_json_add_string(entry, "tensor", v->edits[p->order].name);
    dcp_json_add_string(entry, "role", tool_role_name(o->role));
    keep_optional(entry, "tier", o->tier);
    if (o->role == DCP_ROLE_EXPERT || o->role == DCP_ROLE_ROUTER) {
        key = dcp_json_add_array(entry, "key");
        for (k = 0; k < 3; k++) dcp_json_add_int(key, NULL, o->expert_key[k]);
    }
    if (o->version) dcp_json_add_int(entry, "version", o->version);
}

const char *convert_keep(const convert_job *v) {
    dcp_json *root, *manifest, *list;
    char *text = NULL, *member;
    size_t i, size = 0;
    if (!v->manifest && !v->tier_count && !v->seed_count && !v->model_id) return NULL;
    root = tool_need(dcp_json_new_object(NULL));
    manifest = dcp_json_add_object(root, "manifest");
    keep_optional(manifest, "modelId", v->model_id);
    keep_optional(manifest, "optimExtra", v->optim_extra);
    keep_optional(manifest, "routerExtra", v->router_extra);
    keep_tiers(v, dcp_json_add_array(manifest, "tiers"));
    keep_seeds(v, dcp_json_add_array(manifest, "routerSeeds"));
    list = dcp_json_add_array(manifest, "pieces");
    for (i = 0; i < v->pieces.count; i++) keep_piece(v, list, &v->pieces.items[i]);
    if (dcp_json_write(root, 0, &text, &size, NULL) || dcp_json_count(list) != v->pieces.count) tool_need(NULL);
    dcp_json_free(root);
    member = tool_text_of(text + 1, size - 2);          /* without the braces */
    dcp_free(text);
    return member;
}

/* ---- read back --------------------------------------------------------------------------------------------------- */
/* NULL: not members. */
static dcp_json *parse_members(const char *text) {
    const size_t size = strlen(text) + 3;
    char *object = tool_new(size, 1);
    dcp_json *parsed = NULL;
    snprintf(object, size, "{%s}", text);
    return dcp_json_parse(object, size - 1, &parsed, NULL) ? NULL : parsed;
}

static const char *kept_text(const dcp_json *object, const char *key) {
    return dcp_json_string(dcp_json_get(object, key), NULL);
}

/* Members as text; NULL where somebody has put in something else. */
static const char *kept_members(const convert_job *v, const dcp_json *object, const char *key) {
    const char *text = kept_text(object, key);
    dcp_json *parsed = text ? parse_members(text) : NULL;
    const int is_fine = dcp_json_count(parsed) > 0;
    dcp_json_free(parsed);
    if (text && !is_fine)
        tool_note(v->t, "warning: what %s keeps as \"%s\" is not a list of members: left out",
                  dcp_checkpoint_path(v->c), key);
    return is_fine ? text : NULL;
}

/* Reads a count, 0 where it is missing; returns 0 if it is something else. */
static int kept_count(const dcp_json *value, int64_t *out) {
    *out = 0;
    return !value || (dcp_json_int(value, out) == DCP_OK && *out >= 0);
}

static int read_tier(convert_job *v, const dcp_json *entry) {
    dcp_tier *tier = &v->tiers[v->tier_count];
    tier->name = kept_text(entry, "name");
    tier->size_budget = kept_text(entry, "sizeBudget");
    tier->placement_policy = kept_text(entry, "placementPolicy");
    v->tier_extras[v->tier_count++] = kept_members(v, entry, "extra");
    return tier->name && kept_count(dcp_json_get(entry, "id"), &tier->tier_id);
}

static int read_seed(convert_job *v, const dcp_json *entry) {
    dcp_router_seed *seed = &v->seeds[v->seed_count];
    const char *text = kept_text(entry, "seed");
    if (!text || strlen(text) > 20 || text[0] == '\0' || text[strspn(text, "0123456789")]) return 0;
    errno = 0;
    seed->seed = strtoull(text, NULL, 10);
    v->seed_extras[v->seed_count++] = kept_members(v, entry, "extra");
    return errno == 0 && kept_count(dcp_json_get(entry, "layer"), &seed->layer);
}

static int read_origin(const convert_job *v, const dcp_json *entry, const tool_piece *p, convert_origin *o) {
    const char *name = kept_text(entry, "tensor"), *role = kept_text(entry, "role"), *tier = kept_text(entry, "tier");
    const dcp_json *key = dcp_json_get(entry, "key");
    size_t i;
    int k;
    if (!name || !role || strcmp(name, p->meta->name) != 0) return 0;
    for (k = DCP_ROLE_PARAMETER; k <= DCP_ROLE_ROUTER && strcmp(role, tool_role_name((dcp_role)k)) != 0;) k++;
    if (k > DCP_ROLE_ROUTER) return 0;
    o->role = (dcp_role)k;
    for (i = 0; i < v->tier_count && tier; i++) if (strcmp(v->tiers[i].name, tier) == 0) o->tier = v->tiers[i].name;
    for (k = 0; k < 3; k++) if (!kept_count(dcp_json_at(key, (size_t)k), &o->expert_key[k])) return 0;
    return (!tier || o->tier) && kept_count(dcp_json_get(entry, "version"), &o->version);
}

/* 0: it does not fit. */
static int read_kept(convert_job *v, const dcp_json *kept) {
    const dcp_json *tiers = dcp_json_get(kept, "tiers"), *seeds = dcp_json_get(kept, "routerSeeds");
    const dcp_json *pieces = dcp_json_get(kept, "pieces");
    size_t i;
    if (dcp_json_kind_of(kept) != DCP_JSON_OBJECT || dcp_json_count(pieces) != v->all.count) return 0;
    make_room(v, dcp_json_count(tiers), dcp_json_count(seeds));
    for (i = 0; i < dcp_json_count(tiers); i++) if (!read_tier(v, dcp_json_at(tiers, i))) return 0;
    for (i = 0; i < dcp_json_count(seeds); i++) if (!read_seed(v, dcp_json_at(seeds, i))) return 0;
    for (i = 0; i < v->all.count; i++)
        if (!read_origin(v, dcp_json_at(pieces, i), &v->all.items[i], &v->origins[v->all.items[i].order])) return 0;
    v->model_id = kept_text(kept, "modelId");
    v->optim_extra = kept_members(v, kept, "optimExtra");
    v->router_extra = kept_members(v, kept, "routerExtra");
    return 1;
}

/* Whoever rewrote the document may have added or removed tensors: then nothing of it can be trusted. */
void convert_take_kept(convert_job *v) {
    const char *extra = v->m->sharding.extra;
    const dcp_json *manifest;
    make_room(v, 0, 0);
    if (!extra || !strstr(extra, "\"manifest\"")) return;
    v->kept = parse_members(extra);
    manifest = dcp_json_get(v->kept, "manifest");
    if (!manifest || read_kept(v, manifest)) return;
    tool_note(v->t, "warning: what %s keeps of a manifest does not fit its tensors: left out",
              dcp_checkpoint_path(v->c));
    v->tier_count = v->seed_count = 0;
    make_room(v, 0, 0);
}
