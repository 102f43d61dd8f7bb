/* checkpoint.c - opening checkpoints, their pieces, and reading tensors in parts that fit into memory. */
#include "dcptool.h"
#include <errno.h>

/* ---- keys -------------------------------------------------------------------------------------------------------- */
static int read_key(tool_state *t, const char *path, tool_key *k) {
    FILE *file = tool_open_for_reading(path);
    size_t size = file ? fread(k->bytes, 1, sizeof k->bytes, file) : 0;
    int failed = !file || ferror(file), sys = errno;
    if (file) fclose(file);
    if (failed) return tool_trouble(t, DCP_E_IO, "cannot read the key file %s: %s", path, strerror(sys));
    if (size == sizeof k->bytes)
        return tool_trouble(t, DCP_E_INVALID, "the key file %s has %d bytes or more", path, (int)sizeof k->bytes);
    if (size < 16)
        return tool_trouble(t, DCP_E_INVALID, "the key file %s has %d bytes; an HMAC key needs at least 16", path,
                            (int)size);
    k->size = size;
    return TOOL_FINE;
}

int tool_read_keys(tool_state *t) {
    int code = TOOL_FINE;
    if (t->options & TOOL_KEY_FILE) {
        code = read_key(t, t->key_file, &t->key);
        t->hmac = dcp_hmac_verifier(t->key.bytes, t->key.size);
        t->verifier = &t->hmac;
    }
    if (!code && (t->options & TOOL_SIGN_KEY_FILE)) code = read_key(t, t->sign_key_file, &t->sign_key);
    return code;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */
dcp_open_desc tool_opening(const tool_state *t, const char *path) {
    dcp_open_desc desc = DCP_ZERO;
    desc.path = path;
    desc.verifier = t->verifier;
    desc.minimum_step = t->minimum_step;
    desc.select = t->tiers.count ? &t->select : NULL;
    desc.io = t->io;
    return desc;
}

int tool_open_with(tool_state *t, const dcp_open_desc *desc, dcp_checkpoint **out) {
    const char *what;
    dcp_error err;
    if (dcp_open(desc, out, &err) == DCP_OK) return TOOL_FINE;
    what = tool_what_is(desc->path);
    if (what) return tool_trouble(t, DCP_E_INVALID, "%s is %s", desc->path, what);
    if (err.status != DCP_E_NOT_FOUND && err.status != DCP_E_INVALID) return tool_fail(t, &err);
    if (tool_kind_of(desc->path) != TOOL_DIRECTORY) return tool_fail(t, &err);
    return tool_trouble(t, DCP_E_INVALID, "%s is a directory; dcptool ls %s lists the checkpoints in it", desc->path,
                        desc->path);
}

int tool_open(tool_state *t, const char *path, dcp_checkpoint **out) {
    const dcp_open_desc desc = tool_opening(t, path);
    return tool_open_with(t, &desc, out);
}

/* To some calls of the library a directory that does not exist is an empty one; to a person it is a typing error. */
int tool_need_directory(tool_state *t, const char *path) {
    const enum tool_kind kind = tool_kind_of(path);
    if (kind == TOOL_DIRECTORY) return TOOL_FINE;
    return tool_trouble(t, DCP_E_NOT_FOUND, kind == TOOL_NONE ? "there is no directory %s" : "%s is not a directory",
                        path);
}

/* ---- what documents say ------------------------------------------------------------------------------------------ */
size_t tool_tier_of(const dcp_manifest *m, const char *hint) {
    char id[TOOL_NUMBER];
    size_t i;
    for (i = 0; i < m->tier_count && hint; i++) {
        snprintf(id, sizeof id, "%" PRId64, m->tiers[i].tier.tier_id);
        if (strcmp(m->tiers[i].tier.name, hint) == 0 || strcmp(id, hint) == 0) return i;
    }
    return m->tier_count;
}

/* A manifest always has an epoch and a step; if both are 0 and it says no more, it says nothing. */
const dcp_training *tool_training_of(const dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_checkpoint_manifest(c);
    return m && !m->has_training && m->epoch == 0 && m->step == 0 ? NULL : dcp_checkpoint_training(c);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */
static int piece_compare(const void *a_, const void *b_) {
    const tool_piece *a = a_, *b = b_;
    int order = strcmp(a->meta->name, b->meta->name), d;
    if (order) return order;
    for (d = 0; d < DCP_MAX_DIMS; d++)
        if (a->meta->global_offset[d] != b->meta->global_offset[d])
            return a->meta->global_offset[d] < b->meta->global_offset[d] ? -1 : 1;
    return a->shard->rank < b->shard->rank ? -1 : a->shard->rank > b->shard->rank;
}

/* A manifest's entries in the order in which its metadata has them, before states that are only paths; out may be NULL,
 * to count. */
static size_t manifest_files(const dcp_manifest *m, const dcp_manifest_shard **out) {
    const dcp_manifest_state *const states[] = { &m->optim_state, &m->router_state };
    size_t n = 0, s, i, l;
    for (i = 0; i < m->shard_count; i++, n++) if (out) out[n] = &m->shards[i];
    for (s = 0; s < 2; s++) {
        for (i = 0; i < states[s]->shard_count; i++, n++) if (out) out[n] = &states[s]->shards[i];
        for (l = 0; l < states[s]->layer_count; l++)
            for (i = 0; i < states[s]->layers[l].shard_count; i++, n++)
                if (out) out[n] = &states[s]->layers[l].shards[i];
    }
    return n;
}

tool_pieces tool_pieces_of(const dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_checkpoint_metadata(c);
    const dcp_manifest *manifest = dcp_checkpoint_manifest(c);
    const dcp_manifest_shard **files = tool_new(m->shard_count + 1, sizeof *files);
    tool_pieces list = DCP_ZERO;
    size_t s, i, count = 0;
    if (manifest && manifest_files(manifest, NULL) <= m->shard_count) (void)manifest_files(manifest, files);
    for (s = 0; s < m->shard_count; s++) count += m->shards[s].tensor_count;
    list.items = tool_new(count + 1, sizeof *list.items);
    for (s = 0; s < m->shard_count; s++) {
        for (i = 0; i < m->shards[s].tensor_count; i++) {
            tool_piece *p = &list.items[list.count];
            p->meta = &m->shards[s].tensors[i];
            p->info = dcp_checkpoint_find(c, p->meta->name);
            p->shard = &m->shards[s];
            p->file = files[s];
            p->order = list.count++;
        }
    }
    qsort(list.items, list.count, sizeof *list.items, piece_compare);
    return list;
}

tool_pieces tool_pieces_named(tool_pieces all, const char *name) {
    size_t low = 0, high = all.count, end;
    tool_pieces found;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(all.items[middle].meta->name, name) < 0) low = middle + 1;
        else high = middle;
    }
    for (end = low; end < all.count && strcmp(all.items[end].meta->name, name) == 0;) end++;
    found.items = all.items + low;
    found.count = end - low;
    return found;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static const int64_t origin[DCP_MAX_DIMS];

static tool_part part_of(const dcp_tensor_info *info, int ndim, const int64_t *shape, int64_t size) {
    tool_part p;
    p.info = info;
    p.dtype = info->dtype;
    p.rank = -1;
    p.ndim = p.shown_ndim = ndim;
    p.shape = p.whole = p.shown = shape;
    p.offset = origin;
    p.size = size;
    return p;
}

tool_part tool_part_whole(const dcp_tensor_info *info) { return part_of(info, info->ndim, info->shape, info->size); }

tool_part tool_part_of_rank(const tool_piece *piece) {
    const dcp_tensor_metadata *m = piece->meta;
    tool_part p = part_of(piece->info, m->ndim, m->shape, m->size);
    p.rank = piece->shard->rank;
    return p;
}

tool_part tool_part_of_piece(const tool_piece *piece) {
    const dcp_tensor_metadata *m = piece->meta;
    tool_part p = part_of(piece->info, m->ndim, m->shape, m->size);
    p.whole = piece->info->shape;
    p.offset = m->global_offset;
    return p;
}

void tool_part_cast(tool_part *p, dcp_dtype dtype) {
    if (p->dtype == dtype) return;
    p->size = p->size / (dcp_dtype_bits(p->dtype) / 8) * (dcp_dtype_bits(dtype) / 8);
    p->dtype = dtype;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */
/* What cannot be cut is one box, however large: bytes of an unknown type, and elements of 4 bits where a cut would go
 * through a byte. */
tool_boxes tool_boxes_of(const tool_part *part, int64_t limit) {
    tool_boxes b = DCP_ZERO;
    int64_t inner = 1;                                  /* elements: below one index of dimension `split` */
    int d;
    b.part = part;
    b.bits = dcp_dtype_bits(part->dtype);
    b.largest = part->size;
    b.is_whole = 1;
    if (part->size <= limit || b.bits == 0) return b;
    limit = limit * 8 / b.bits;
    if (b.bits < 8) limit /= 2;                         /* so that two indices fit, see below */
    for (d = part->ndim - 1; d > 0 && inner <= limit / part->shape[d]; d--) inner *= part->shape[d];
    if (b.bits < 8 && inner % 2 && part->shape[d] % 2) return b;
    b.split = d;
    b.step = limit / inner;
    if (b.bits < 8) b.step *= 2;                        /* an even number: every box ends with a byte */
    if (b.step > part->shape[d]) b.step = part->shape[d];
    b.largest = b.step * inner * b.bits / 8;
    b.is_whole = 0;
    return b;
}

void tool_boxes_seek(tool_boxes *b, int64_t at) {
    const tool_part *p = b->part;
    int64_t inner = b->bits, row, full, index;
    int d;
    memcpy(b->shape, p->shape, sizeof b->shape);
    b->at = 0;
    b->size = p->size;
    if (b->is_whole) return;
    for (d = b->split + 1; d < p->ndim; d++) inner *= p->shape[d];
    row = p->shape[b->split] * inner / 8;               /* bytes of all boxes in a row */
    full = b->step * inner / 8;                         /* of each but the last of them */
    index = at / row;
    b->at = index * row + at % row / full * full;
    b->offset[b->split] = at % row / full * b->step;
    b->shape[b->split] -= b->offset[b->split];
    if (b->shape[b->split] > b->step) b->shape[b->split] = b->step;
    b->size = b->shape[b->split] * inner / 8;
    for (d = b->split - 1; d >= 0; d--) {
        b->offset[d] = index % p->shape[d];
        b->shape[d] = 1;
        index /= p->shape[d];
    }
}

int tool_boxes_next(tool_boxes *b) {
    if (b->at + b->size >= b->part->size) return 0;
    tool_boxes_seek(b, b->at + b->size);
    return 1;
}

dcp_status tool_boxes_read(const tool_boxes *b, dcp_checkpoint *c, void *data, dcp_error *err) {
    const tool_part *p = b->part;
    dcp_tensor wanted = DCP_ZERO;
    int64_t offset[DCP_MAX_DIMS];
    int d;
    wanted.name = p->info->name;
    wanted.dtype = p->dtype;
    wanted.convert = p->dtype != p->info->dtype;
    wanted.ndim = p->ndim;
    wanted.data = data;
    memcpy(wanted.shape, b->shape, sizeof wanted.shape);
    for (d = 0; d < DCP_MAX_DIMS; d++) offset[d] = p->offset[d] + b->offset[d];
    if (memcmp(b->shape, p->whole, sizeof b->shape) != 0) dcp_piece(&wanted, p->whole, offset);
    return p->rank >= 0 ? dcp_read_rank(c, (int)p->rank, &wanted, 1, err) : dcp_read(c, &wanted, 1, err);
}
