/* =====================================================================================================================
 * >>load        How bytes come back (DESIGN 5). The stages, in the order in which they run:
 *
 *   open       the document, checked: >>index
 *   match      wanted tensors with stored ones: names, types, shapes, and which pieces hold them
 *   plan       the boxes that a wanted tensor and its pieces share, and the byte ranges ("items") to read for them,
 *              sorted by file and offset
 *   share      several ranks, share_reads: who reads what several need, for all of them
 *   read       a crew takes runs of neighbouring items; reads each with one request                G7: through bounded
 *              buffers
 *   verify     the blocks touched, before their bytes are used                                     G4
 *   scatter    into memory, perhaps strided, or a device
 * ================================================================================================================== */
typedef struct dcpi_load dcpi_load;
static dcp_status dcpi_load_match(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_allocate(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_plan(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_share(dcpi_load *l, dcp_status status, dcp_error *err);
static dcp_status dcpi_load_read(dcpi_load *l, dcp_error *err);
static dcp_status dcpi_load_read_shared(dcpi_load *l, dcp_error *err);

#define DCPI_LOAD_LEAVES 1024                           /* leaves verified in one go, at most */
/* between neighbours, read and thrown away, is cheaper than another request */
#define DCPI_LOAD_GAP ((int64_t)64 * 1024)
#define DCPI_NO_SOURCE SIZE_MAX                         /* an item that is only verified */

typedef struct dcpi_source {                            /* a box that one wanted tensor gets from one piece */
    dcp_tensor *wanted;
    const dcpi_piece *piece;
    dcpi_walk walk;
} dcpi_source;
typedef struct dcpi_item {                 /* bytes of a piece to read: a block, or a part of one that needs no check */
    const dcpi_piece *piece;                            /* NULL: a gap of the file, which must be zero */
    size_t source;
    int shard;
    int64_t begin, end;                                 /* within the piece; of a gap: within the file */
    int64_t at;                                         /* of `begin` in the file */
} dcpi_item;

typedef struct dcpi_shared {                            /* bytes that several ranks need; one reads them */
    const dcpi_item **items; size_t count;              /* this rank's items with them */
    int reader;
    const uint8_t *others; int other_count;             /* the reader's: the ranks that get them, 4 bytes each */
} dcpi_shared;

struct dcpi_load {
    dcp_checkpoint *checkpoint;
    dcpi_op *op;
    dcp_tensor *wanted; size_t wanted_count;
    int rank;                                           /* whose private tensors; -1: this rank's own */
    int is_new;                                         /* the one wanted tensor gets its memory here */
    int check;                                          /* verify block digests */
    dcpi_source *sources; size_t source_count, source_capacity;
    dcpi_item *items; size_t item_count, item_capacity;
    const dcpi_item **order; size_t order_count;        /* sorted; once shared, only what this rank reads for itself */
    int share;
    dcpi_shared *shared; size_t shared_count;           /* in the order that all ranks go through them */
    const dcpi_item **shared_items;
    uint8_t *share_plan;                                /* rank 0's message, which `others` point into */
    size_t chunk;                                       /* bytes of a worker's buffer */
    /* with a device a worker has two: one is read into while the other is copied from */
    const dcp_device *device; int buffer_count;
    /* shared, under crew.lock */
    dcpi_crew crew;
    size_t next;
    int64_t bytes_done;
    /* requests that failed and were tried again; what the first one met */
    int repeated; dcp_error repeated_for;
    dcp_error refused;                                  /* why the device gave no staging memory */
};

/* One read: tensors may be NULL with count 0. is_new: of one tensor, whose data is to be allocated. */
static dcp_status dcpi_load_run(dcp_checkpoint *c, dcpi_op *op, dcp_tensor *tensors, size_t count, int rank, int is_new,
                                dcp_error *err) {
    dcpi_load l;
    dcp_status status;
    memset(&l, 0, sizeof l);
    l.checkpoint = c;
    l.op = op;
    l.wanted = tensors;
    l.wanted_count = count;
    l.rank = rank;
    l.is_new = is_new;
    l.check = c->verify != DCP_VERIFY_NONE;
    l.share = c->share_reads && op->team.world_size > 1;
    status = dcpi_load_match(&l, err);
    if (!status && is_new) status = dcpi_load_allocate(&l, err);
    if (!status) status = dcpi_load_plan(&l, err);
    if (l.share) status = dcpi_load_share(&l, status, err);
    if (!status) status = dcpi_load_read(&l, err);
    if (!status) status = dcpi_load_read_shared(&l, err);
    dcpi_free(l.shared);
    dcpi_free((void *)l.shared_items);
    dcpi_free(l.share_plan);
    dcpi_free((void *)l.order);
    dcpi_free(l.items);
    dcpi_free(l.sources);
    return status;
}

/* ---- match ------------------------------------------------------------------------------------------------------- */
/* Of a private tensor: are the pieces of all ranks one value? Then it loads everywhere. */
static int dcpi_match_all_equal(const dcp_checkpoint *c, const dcpi_stored *stored) {
    const dcpi_piece *first = &c->pieces[stored->first];
    int i;
    if (stored->info.piece_count != c->metadata->world_size || first->meta->block_size == 0 || !first->meta->placement)
        return 0;
    for (i = 1; i < stored->info.piece_count; i++) {
        const dcp_tensor_metadata *a = first->meta, *b = first[i].meta;
        if (dcp_dtype_parse(a->data_type) != dcp_dtype_parse(b->data_type)) return 0;
        if (a->size != b->size || a->ndim != b->ndim || a->block_size != b->block_size ||
            a->block_count != b->block_count) return 0;
        if (memcmp(a->shape, b->shape, sizeof a->shape) != 0 ||
            (a->block_count && memcmp(a->block_checksums, b->block_checksums, a->block_count * 32) != 0)) return 0;
    }
    return 1;
}
/* Nothing says that each rank has one of them: a seed's document where they are as many as ranks at most is taken
 * so. */
static int dcpi_match_is_parts(const dcp_checkpoint *c, const dcpi_stored *stored) {
    if (c->pieces[stored->first].meta->placement) return 0;
    return c->manifest || stored->info.piece_count > c->metadata->world_size;
}
/* The piece of a private tensor that is meant; NULL with an error that says what would work. */
static const dcpi_piece *dcpi_match_private(const dcpi_load *l, const dcpi_stored *stored, dcp_error *err) {
    const dcp_checkpoint *c = l->checkpoint;
    const dcpi_team *t = &c->op.team;
    int rank = l->rank >= 0 ? l->rank : t->rank, i;
    if (l->rank < 0 && dcpi_match_is_parts(c, stored)) {
        (void)dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\": %s lists %d parts of it, and does not say how they fit "
                        "together (no global_shape); read each with dcp_read_rank, as of rank 0 to %d",
                        stored->info.name, c->path, stored->info.piece_count, stored->info.piece_count - 1);
        return NULL;
    }
    if (l->rank < 0 && dcpi_match_all_equal(c, stored)) return &c->pieces[stored->first];
    for (i = 0; i < stored->info.piece_count && (l->rank >= 0 || c->metadata->world_size == t->world_size); i++)
        if (c->metadata->shards[c->pieces[stored->first + (size_t)i].shard].rank == rank)
            return &c->pieces[stored->first + (size_t)i];
    if (l->rank >= 0)
        (void)dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\": rank %d stored none (%d ranks did)", stored->info.name,
                        l->rank, stored->info.piece_count);
    else
        (void)dcpi_fail(err, DCP_E_MISMATCH,
                        "tensor \"%s\" is private to each of the %d ranks that saved it, and they differ; read one "
                        "with dcp_read_rank, or save it "
                        "as DCP_PLACE_REPLICATED or with global_shape", stored->info.name, c->metadata->world_size);
    return NULL;
}
/* piece: of a private tensor, which is that rank's own affair; NULL: all pieces agree, and `info` describes the
 * whole. */
static dcp_status dcpi_match_check(const dcp_tensor *t, const dcp_tensor_info *info, const dcpi_piece *piece,
                                   dcp_error *err) {
    char wanted[200], stored[200];
    const int64_t *shape = piece ? piece->meta->shape : info->shape;
    const char *type = piece ? piece->meta->data_type : info->dtype_name;
    int ndim = piece ? piece->meta->ndim : info->ndim;
    if (t->dtype != dcp_dtype_parse(type))
        return dcpi_fail(err, DCP_E_MISMATCH,
                         "tensor \"%s\" is stored as %s, but wanted as %s; types are not converted", t->name, type,
                         dcp_dtype_name(t->dtype));
    if (t->ndim != ndim || memcmp(dcpi_global_shape(t), shape, sizeof t->shape) != 0)
        return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is stored with shape %s, but wanted with %s", t->name,
                         dcpi_shape_text(ndim, shape, stored, sizeof stored),
                         dcpi_shape_text(t->ndim, dcpi_global_shape(t), wanted, sizeof wanted));
    if (t->dtype != DCP_OPAQUE) return DCP_OK;
    if (info->piece_count != 1 && !piece)
        return dcpi_fail(err, DCP_E_UNSUPPORTED,
                         "tensor \"%s\" has the unknown type %s and %d pieces, which cannot be put together", t->name,
                         type, info->piece_count);
    if (memcmp(t->shape, shape, sizeof t->shape) != 0)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "tensor \"%s\" has the unknown type %s and can only be read whole",
                         t->name, type);
    return DCP_OK;
}
static dcp_status dcpi_match_add(dcpi_load *l, dcp_tensor *t, const dcpi_piece *piece, dcp_error *err) {
    void *memory = l->sources;
    if (!dcpi_grow(&memory, &l->source_capacity, l->source_count + 1, sizeof *l->sources, err)) return DCP_E_MEMORY;
    l->sources = (dcpi_source *)memory;
    memset(&l->sources[l->source_count], 0, sizeof *l->sources);
    l->sources[l->source_count].wanted = t;
    l->sources[l->source_count++].piece = piece;
    return DCP_OK;
}
/* The pieces that meet the wanted box: those whose first dimension can reach it are found by search, then looked at one
 * by one. */
static dcp_status dcpi_match_sharded(dcpi_load *l, dcp_tensor *t, const dcpi_stored *stored, dcp_error *err) {
    const dcpi_piece *pieces = &l->checkpoint->pieces[stored->first];
    int64_t offset[DCP_MAX_DIMS], shape[DCP_MAX_DIMS];
    size_t low = 0, high = (size_t)stored->info.piece_count, i;
    while (t->ndim > 0 && low < high) {
        size_t middle = low + (high - low) / 2;
        if (pieces[middle].meta->global_offset[0] > t->global_offset[0] - stored->longest) high = middle;
        else low = middle + 1;
    }
    for (i = low; i < (size_t)stored->info.piece_count; i++) {
        const dcp_tensor_metadata *meta = pieces[i].meta;
        dcp_status status = DCP_OK;
        if (t->ndim > 0 && meta->global_offset[0] >= t->global_offset[0] + t->shape[0]) break;
        if (dcpi_box_meet(t->ndim, t->global_offset, t->shape, meta->global_offset, meta->shape, offset, shape))
            status = dcpi_match_add(l, t, &pieces[i], err);
        if (status) return status;
    }
    return DCP_OK;
}
/* That the sources found for a tensor, sources[first..], cover the wanted box, each element once. */
static dcp_status dcpi_match_covered(dcpi_load *l, const dcp_tensor *t, size_t first, dcp_error *err) {
    size_t count = l->source_count - first, i;
    char text[200];
    dcpi_tiling tiling;
    dcpi_tile *tiles = (dcpi_tile *)dcpi_alloc_array(count, sizeof *tiles, err), **order;
    dcpi_tiles result;
    order = tiles ? (dcpi_tile **)dcpi_alloc_array(count, sizeof *order, err) : NULL;
    if (!order) { dcpi_free(tiles); return DCP_E_MEMORY; }
    for (i = 0; i < count; i++) {
        tiles[i].offset = l->sources[first + i].piece->meta->global_offset;
        tiles[i].shape = l->sources[first + i].piece->meta->shape;
        tiles[i].tag = i;
        order[i] = &tiles[i];
    }
    result = dcpi_tiling_check(&tiling, t->ndim, order, count, t->global_offset, t->shape);
    dcpi_free(order);
    dcpi_free(tiles);
    if (result == DCPI_TILES_NO_MEMORY) return dcpi_no_memory(err, count * sizeof *tiles);
    if (result == DCPI_TILES_OVERLAP)
        return dcpi_fail(err, DCP_E_FORMAT, "%s: stored pieces of tensor \"%s\" overlap", l->checkpoint->path, t->name);
    if (result == DCPI_TILES_IRREGULAR)
        return dcpi_fail(err, DCP_E_LIMIT, "%s: the pieces of tensor \"%s\" are cut too irregularly to check",
                         l->checkpoint->path, t->name);
    if (tiling.has_hole)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "tensor \"%s\": nobody stored %s of it", t->name,
                         dcpi_box_text(t->ndim, tiling.hole_offset, tiling.hole_shape, text, sizeof text));
    return DCP_OK;
}
static dcp_status dcpi_match_one(dcpi_load *l, dcp_tensor *t, dcp_error *err) {
    const dcpi_stored *stored;
    const dcpi_piece *piece = NULL;
    size_t first = l->source_count;
    dcp_status status = dcpi_tensor_check(t, 0, err);
    if (!status && !l->is_new) status = dcpi_tensor_check_data(t, err);
    t->status = DCP_OK;
    if (status) return status;
    stored = dcpi_stored_find(l->checkpoint, t->name);
    if (!stored && t->optional) { t->status = DCP_E_NOT_FOUND; return DCP_OK; }
    if (!stored)
        return dcpi_fail(err, DCP_E_MISMATCH,
                         "tensor \"%s\" is not in %s, which has %" PRIu64 " others (set optional if it may be absent)",
                         t->name,
                l->checkpoint->path,
                         (uint64_t)l->checkpoint->tensor_count);
    if (l->rank >= 0 && stored->info.placement == DCP_PLACE_SHARDED)
        return dcpi_fail(err, DCP_E_MISMATCH,
                         "tensor \"%s\" is sharded, not private: read it, or a box of it, with dcp_read", t->name);
    if (stored->info.placement == DCP_PLACE_PRIVATE) {
        piece = dcpi_match_private(l, stored, err);
        if (!piece) return DCP_E_MISMATCH;
        if (!dcpi_piece_is_whole(piece->meta))
            return dcpi_fail(err, DCP_E_FORMAT, "%s: tensor \"%s\" is private, but its piece is not whole",
                             l->checkpoint->path, t->name);
    }
    status = dcpi_match_check(t, &stored->info, piece, err);
    if (status) return status;
    if (!piece && stored->info.piece_count == 1 && dcpi_piece_is_whole(l->checkpoint->pieces[stored->first].meta))
        piece = &l->checkpoint->pieces[stored->first];
    if (t->dtype != DCP_OPAQUE && dcpi_tensor_bytes(t) == 0) return DCP_OK;
    if (t->dtype == DCP_OPAQUE && !piece)
        return dcpi_fail(err, DCP_E_UNSUPPORTED,
                         "tensor \"%s\" has the unknown type %s, and what is stored is not the whole of it", t->name,
                         stored->info.dtype_name);
    if (piece) return dcpi_match_add(l, t, piece, err);
    status = dcpi_match_sharded(l, t, stored, err);
    return status ? status : dcpi_match_covered(l, t, first, err);
}
static dcp_status dcpi_load_match(dcpi_load *l, dcp_error *err) {
    size_t i;
    if (l->wanted_count > 0 && !l->wanted) return dcpi_fail(err, DCP_E_INVALID, "read: tensors is NULL");
    for (i = 0; i < l->wanted_count; i++) {
        dcp_status status = dcpi_match_one(l, &l->wanted[i], err);
        if (status) return status;
    }
    return dcpi_devices_begin(l->wanted, l->wanted_count, err);
}

static dcp_status dcpi_load_see(dcpi_load *l, int shard, dcp_error *err) {
    dcpi_data_file *file;
    const dcp_status status = dcpi_data_file_see(l->checkpoint, l->op, shard, &file, err);
    if (!status) dcpi_data_file_release(l->checkpoint, file);
    return status;
}
/* A document may claim a tensor that no memory holds: nothing is allocated before each file with a part of it is there
 * with its size, and the parts have been found to make the whole (G8). */
static dcp_status dcpi_load_allocate(dcpi_load *l, dcp_error *err) {
    const dcpi_stored *stored = dcpi_stored_find(l->checkpoint, l->wanted->name);
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < l->source_count && !status; i++)
        if (i == 0 || l->sources[i].piece->shard != l->sources[i - 1].piece->shard)
            status = dcpi_load_see(l, l->sources[i].piece->shard, err);
    if (status) return status;
    l->wanted->data = dcpi_alloc((size_t)stored->info.size, err);
    return l->wanted->data ? DCP_OK : DCP_E_MEMORY;
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_plan_walk(dcpi_source *source, dcp_error *err) {
    const dcp_tensor *t = source->wanted;
    const dcp_tensor_metadata *meta = source->piece->meta;
    int64_t offset[DCP_MAX_DIMS] = {0}, shape[DCP_MAX_DIMS] = {0}, in_piece[DCP_MAX_DIMS] = {0},
                                   in_memory[DCP_MAX_DIMS] = {0}, stride[DCP_MAX_DIMS] = {0};
    int d;
    if (t->dtype == DCP_OPAQUE) {                       /* bytes, whole */
        shape[0] = meta->size;
        stride[0] = 1;
        (void)dcpi_walk_make(&source->walk, 1, 8, shape, shape, in_piece, in_memory, stride);
        return DCP_OK;
    }
    (void)dcpi_box_meet(t->ndim, t->global_offset, t->shape, meta->global_offset, meta->shape, offset, shape);
    for (d = 0; d < t->ndim; d++) {
        in_piece[d] = offset[d] - meta->global_offset[d];
        in_memory[d] = offset[d] - t->global_offset[d];
    }
    /* a device is told offsets in the piece, and knows its strides */
    if (t->device) dcpi_row_major(t->ndim, t->shape, stride);
    else dcpi_effective_stride(t, stride);
    if (dcpi_walk_make(&source->walk, t->ndim, dcp_dtype_bits(t->dtype), shape, meta->shape, in_piece, in_memory,
                       stride)) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": the box cuts a byte, which holds two elements of %s", t->name,
                     dcp_dtype_name(t->dtype));
}
static dcp_status dcpi_plan_add(dcpi_load *l, const dcpi_piece *piece, size_t source, int shard, int64_t begin,
                                int64_t end, int64_t at, dcp_error *err) {
    void *memory = l->items;
    dcpi_item *item;
    if (!dcpi_grow(&memory, &l->item_capacity, l->item_count + 1, sizeof *l->items, err)) return DCP_E_MEMORY;
    l->items = (dcpi_item *)memory;
    item = &l->items[l->item_count++];
    item->piece = piece;
    item->source = source;
    item->shard = shard;
    item->begin = begin;
    item->end = end;
    item->at = at;
    return DCP_OK;
}
/* Whole blocks where their digests are checked, else just the range that is needed. */
static dcp_status dcpi_plan_items(dcpi_load *l, size_t source, dcp_error *err) {
    const dcpi_source *from = &l->sources[source];
    const dcp_tensor_metadata *meta = from->piece->meta;
    int64_t step = l->check && meta->block_size ? meta->block_size : DCPI_CHUNK, begin = 0, first, last;
    dcp_status status = DCP_OK;
    while (!status && begin < meta->size && dcpi_walk_range(&from->walk, begin, meta->size, &first, &last)) {
        begin = first / step * step;                    /* skips the blocks before the next byte that is wanted */
        last = dcpi_min(begin + step, meta->size);
        if ((l->check && meta->block_size) || l->share) first = begin;  /* shared: all ranks cut alike */
        else (void)dcpi_walk_range(&from->walk, begin, last, &first, &last);
        status = dcpi_plan_add(l, from->piece, source, from->piece->shard, first, last, meta->offset + first, err);
        begin += step;
    }
    return status;
}
static int dcpi_item_compare(const void *a_, const void *b_) {
    const dcpi_item *a = (const dcpi_item *)a_, *b = (const dcpi_item *)b_;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}
static dcp_status dcpi_plan_sort(dcpi_load *l, dcp_error *err) {
    size_t i;
    l->order = (const dcpi_item **)dcpi_alloc_array(l->item_count, sizeof *l->order, err);
    if (!l->order) return DCP_E_MEMORY;
    for (i = 0; i < l->item_count; i++) l->order[i] = &l->items[i];
    l->order_count = l->item_count;
    return dcpi_sort((const void **)l->order, l->order_count, dcpi_item_compare, err);
}
static dcp_status dcpi_load_plan(dcpi_load *l, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < l->source_count && !status; i++) {
        status = dcpi_plan_walk(&l->sources[i], err);
        if (!status) status = dcpi_plan_items(l, i, err);
    }
    return status ? status : dcpi_plan_sort(l, err);
}

/* ---- share: who reads what several ranks need -----------------------------------------------------------------------
 * Every rank tells rank 0 which ranges it reads: for each, in order, the shard, the offset in its file and the size, as
 * varints. Rank 0 answers for each, in the same order, 0: read it yourself; or 1 + the rank that reads it for all (4
 * bytes each), and tells that rank the others. All go through the shared ranges in the order of files and offsets, so
 * that nobody waits for one who waits for him. */
static int dcpi_share_is_same(const dcpi_item *a, const dcpi_item *b) {
    return a->shard == b->shard && a->at == b->at && a->end - a->begin == b->end - b->begin;
}

static void dcpi_share_ask(const dcpi_load *l, dcpi_buffer *message) {
    size_t i;
    for (i = 0; i < l->order_count; i++) {
        const dcpi_item *item = l->order[i];
        if (i > 0 && dcpi_share_is_same(l->order[i - 1], item)) continue;
        dcpi_list_number(message, (uint64_t)item->shard);
        dcpi_list_number(message, (uint64_t)item->at);
        dcpi_list_number(message, (uint64_t)(item->end - item->begin));
    }
}
typedef struct dcpi_want { int64_t shard, at, size; int rank; } dcpi_want;   /* rank 0: one range that one rank reads */
typedef struct dcpi_wants {
    dcpi_want *items;
    size_t count, capacity;
    const void **order;
    int64_t *load;
    dcpi_buffer *answers;
} dcpi_wants;

static int dcpi_want_compare(const void *a_, const void *b_) {
    const dcpi_want *a = (const dcpi_want *)a_, *b = (const dcpi_want *)b_;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}
static dcp_status dcpi_wants_read(dcpi_wants *w, int rank, const uint8_t *at, const uint8_t *end, dcp_error *err) {
    while (at < end) {
        void *memory = w->items;
        dcpi_want *want;
        if (!dcpi_grow(&memory, &w->capacity, w->count + 1, sizeof *w->items, err)) return DCP_E_MEMORY;
        w->items = (dcpi_want *)memory;
        want = &w->items[w->count++];
        want->rank = rank;
        if (!dcpi_listed_number(&at, end, &want->shard) || !dcpi_listed_number(&at, end, &want->at) ||
            !dcpi_listed_number(&at, end, &want->size)) return dcpi_fail(err, DCP_E_COMM, "load: rank %d sent a list "
                                                                            "of another version of dcp.h", rank);
    }
    return DCP_OK;
}
static void dcpi_wants_answer(dcpi_buffer *to, uint32_t value) {
    uint8_t bytes[4];
    dcpi_store32(bytes, value);
    dcpi_buffer_add(to, bytes, sizeof bytes);
}
/* One range, wanted by order[first..end): the rank that reads least so far reads it. */
static void dcpi_wants_assign(dcpi_wants *w, size_t first, size_t end) {
    const dcpi_want *best = (const dcpi_want *)w->order[first];
    size_t i, k;
    for (i = first + 1; i < end; i++)
        if (w->load[((const dcpi_want *)w->order[i])->rank] < w->load[best->rank])
            best = (const dcpi_want *)w->order[i];
    w->load[best->rank] += best->size;
    for (i = first; i < end; i++) {
        const int rank = ((const dcpi_want *)w->order[i])->rank;
        dcpi_wants_answer(&w->answers[rank], end - first == 1 ? 0 : 1 + (uint32_t)best->rank);
        if (end - first == 1 || rank != best->rank) continue;
        dcpi_wants_answer(&w->answers[rank], (uint32_t)(end - first - 1));
        for (k = first; k < end; k++)
            if (((const dcpi_want *)w->order[k])->rank != rank)
                dcpi_wants_answer(&w->answers[rank], (uint32_t)((const dcpi_want *)w->order[k])->rank);
    }
}
static dcp_status dcpi_wants_plan(dcpi_wants *w, dcpi_op *op, const dcpi_buffer *own, dcp_error *err) {
    const dcpi_team *t = &op->team;
    dcp_status status = DCP_OK;
    size_t i, end;
    int r;
    w->load = (int64_t *)dcpi_alloc_array((size_t)t->world_size, sizeof *w->load, err);
    w->answers = w->load ? (dcpi_buffer *)dcpi_alloc_array((size_t)t->world_size, sizeof *w->answers, err) : NULL;
    if (!w->answers) return DCP_E_MEMORY;
    for (r = 0; r < t->world_size && !status; r++) {
        const uint8_t *message = r ? t->peers[r].message : (const uint8_t *)own->data;
        status = dcpi_wants_read(w, r, message + DCPI_TEAM_HEADER, message + (r ? t->peers[r].size : own->size), err);
    }
    w->order = status ? NULL : (const void **)dcpi_alloc_array(w->count, sizeof *w->order, err);
    if (!status && !w->order) status = DCP_E_MEMORY;
    for (i = 0; i < w->count && !status; i++) w->order[i] = &w->items[i];
    if (!status) status = dcpi_sort(w->order, w->count, dcpi_want_compare, err);
    for (i = 0; i < w->count && !status; i = end) {
        const dcpi_want *first = (const dcpi_want *)w->order[i];
        for (end = i + 1; end < w->count; end++) {
            const dcpi_want *other = (const dcpi_want *)w->order[end];
            if (other->shard != first->shard || other->at != first->at || other->size != first->size) break;
        }
        dcpi_wants_assign(w, i, end);
    }
    return status;
}
static dcp_status dcpi_wants_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_wants *w = (const dcpi_wants *)user;
    if (w->answers[rank].failed) return dcpi_no_memory(err, w->answers[rank].size);
    dcpi_buffer_add(message, w->answers[rank].data, w->answers[rank].size);
    return DCP_OK;
}
static void dcpi_wants_free(dcpi_wants *w, int ranks) {
    int r;
    for (r = 0; w->answers && r < ranks; r++) dcpi_buffer_free(&w->answers[r]);
    dcpi_free(w->answers);
    dcpi_free(w->load);
    dcpi_free(w->items);
    dcpi_free((void *)w->order);
}
/* Sorts this rank's items by the answer: read alone, or shared. */
static dcp_status dcpi_share_take(dcpi_load *l, const uint8_t *at, const uint8_t *end, dcp_error *err) {
    size_t i, next, kept = 0, moved = 0;
    l->shared = (dcpi_shared *)dcpi_alloc_array(l->order_count, sizeof *l->shared, err);
    l->shared_items = l->shared ? (const dcpi_item **)dcpi_alloc_array(l->order_count, sizeof *l->shared_items,
                                                                       err) : NULL;
    if (!l->shared_items) return DCP_E_MEMORY;
    for (i = 0; i < l->order_count; i = next) {
        dcpi_shared *shared = &l->shared[l->shared_count];
        uint32_t answer;
        for (next = i + 1; next < l->order_count && dcpi_share_is_same(l->order[i], l->order[next]);) next++;
        if (end - at < 4) return dcpi_fail(err, DCP_E_COMM, "load: rank 0 sent an answer for another list");
        answer = dcpi_load32(at);
        at += 4;
        if (answer == 0) { for (; i < next; i++) l->order[kept++] = l->order[i]; continue; }
        shared->reader = (int)answer - 1;
        shared->items = l->shared_items + moved;
        shared->count = next - i;
        for (; i < next; i++) l->shared_items[moved++] = l->order[i];
        l->shared_count++;
        if (shared->reader != l->op->team.rank) continue;
        if (end - at < 4 || (int64_t)dcpi_load32(at) > (end - at - 4) / 4)
            return dcpi_fail(err, DCP_E_COMM, "load: rank 0 sent an answer for another list");
        shared->other_count = (int)dcpi_load32(at);
        shared->others = at + 4;
        at += 4 + 4 * (size_t)shared->other_count;
    }
    l->order_count = kept;
    return DCP_OK;
}
static dcp_status dcpi_load_share(dcpi_load *l, dcp_status status, dcp_error *err) {
    dcpi_team *t = &l->op->team;
    dcpi_wants wants;
    dcpi_buffer own;
    memset(&wants, 0, sizeof wants);
    memset(&own, 0, sizeof own);
    dcpi_team_message_start(&own);
    if (!status) dcpi_share_ask(l, &own);
    status = dcpi_team_up(l->op, status, &own, err);
    if (!status && own.failed) status = dcpi_no_memory(err, own.size);
    if (!status && t->rank == 0) status = dcpi_wants_plan(&wants, l->op, &own, err);
    status = dcpi_team_down(l->op, status, dcpi_wants_make, &wants, 0, err);
    if (!status && t->rank != 0) {
        l->share_plan = t->peers[0].message;
        t->peers[0].message = NULL;
        status = dcpi_share_take(l, l->share_plan + DCPI_TEAM_HEADER, l->share_plan + t->peers[0].size, err);
    } else if (!status) {
        const size_t size = wants.answers[0].size;
        if (wants.answers[0].failed) status = dcpi_no_memory(err, size);
        l->share_plan = (uint8_t *)wants.answers[0].data;
        memset(&wants.answers[0], 0, sizeof wants.answers[0]);
        if (!status) status = dcpi_share_take(l, l->share_plan, l->share_plan + size, err);
    }
    dcpi_wants_free(&wants, t->world_size);
    dcpi_buffer_free(&own);
    return status;
}

/* ---- read, verify, scatter: one worker --------------------------------------------------------------------------- */
typedef struct dcpi_reader {
    dcpi_load *l;
    int is_worker;                                      /* 0: the calling thread */
    dcpi_staging staging;                        /* l->buffer_count buffers of l->chunk bytes, made when first needed */
    uint8_t *buffer; int64_t turn;                      /* the current one */
    dcpi_copies copies;                                 /* to devices; marked with the turn that they copy from */
    dcpi_sha_job *jobs; uint8_t (*leaves)[32];
} dcpi_reader;

static dcp_status dcpi_reader_allocate(dcpi_reader *r, dcp_error *err) {
    dcpi_load *l = r->l;
    dcp_error refused;
    dcp_status status = dcpi_staging_make(&r->staging, l->device, l->chunk * (size_t)l->buffer_count, &refused, err);
    dcpi_mutex_lock(&l->crew.lock);
    if (refused.status) l->refused = refused;
    dcpi_mutex_unlock(&l->crew.lock);
    return status;
}
/* The next buffer to read into: nothing is copied from it any more. */
static dcp_status dcpi_reader_turn(dcpi_reader *r, dcp_error *err) {
    dcp_status status = r->staging.memory ? DCP_OK : dcpi_reader_allocate(r, err);
    if (status) return status;
    r->turn++;
    r->buffer = r->staging.memory + (size_t)(r->turn % r->l->buffer_count) * r->l->chunk;
    return dcpi_copies_until(&r->copies, r->turn - r->l->buffer_count, err);
}
static dcp_status dcpi_reader_prepare_jobs(dcpi_reader *r, dcp_error *err) {
    if (r->jobs) return DCP_OK;
    r->leaves = (uint8_t (*)[32])dcpi_alloc(DCPI_LOAD_LEAVES * 32, err);
    r->jobs = r->leaves ? (dcpi_sha_job *)dcpi_alloc(DCPI_LOAD_LEAVES * sizeof *r->jobs, err) : NULL;
    return r->jobs ? DCP_OK : DCP_E_MEMORY;
}
static void dcpi_reader_free(dcpi_reader *r) {
    dcpi_copies_drain(&r->copies);
    dcpi_staging_free(&r->staging);
    dcpi_free(r->jobs);
    dcpi_free(r->leaves);
}
static dcp_status dcpi_item_corrupt(const dcpi_load *l, const dcpi_item *item, dcp_error *err) {
    const dcp_shard_metadata *shard = &l->checkpoint->metadata->shards[item->shard];
    if (!item->piece)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "%s%s (shard %d): a byte between %" PRId64 " and %" PRId64
                         ", outside every tensor, is not zero: the file was changed",
                         l->checkpoint->place.shown, shard->file_path, shard->rank, item->at, item->at + item->end -
                         item->begin);
    return dcpi_fail(err, DCP_E_CHECKSUM,
                     "%s%s (shard %d), tensor \"%s\": bytes %" PRId64 " to %" PRId64
                     " of the file are not those that were saved; restore it from a copy, "
                     "or load another checkpoint", l->checkpoint->place.shown, shard->file_path, shard->rank,
                     item->piece->meta->name, item->at, item->at + item->end - item->begin);
}
static dcp_status dcpi_item_failed(const dcpi_load *l, const dcpi_item *item, dcp_error *err) {
    const dcp_shard_metadata *shard = &l->checkpoint->metadata->shards[item->shard];
    dcpi_fail_context(err, "shard %d, tensor \"%s\": ", shard->rank, item->piece ? item->piece->meta->name : "(gap)");
    return err->status;
}
static size_t dcpi_add_jobs(dcpi_reader *r, size_t count, const uint8_t *data, int64_t size) {
    int64_t at;
    for (at = 0; at < size; at += DCPI_LEAF, count++) {
        r->jobs[count].data = data + at;
        r->jobs[count].size = (size_t)dcpi_min(size - at, DCPI_LEAF);
        r->jobs[count].digest = r->leaves[count];
    }
    return count;
}
static int64_t dcpi_leaf_count(int64_t size) { return (size + DCPI_LEAF - 1) / DCPI_LEAF; }
static int dcpi_item_has_digest(const dcpi_load *l, const dcpi_item *item) {
    return l->check && item->piece && item->piece->meta->block_size > 0;
}
static const uint8_t *dcpi_item_digest(const dcpi_item *item) {
    return item->piece->meta->block_checksums + 32 * (item->begin / item->piece->meta->block_size);
}
/* What has been hashed of an item is all of it now: `sha` of its leaves' digests, or its only leaf. */
static int dcpi_item_is_right(const dcpi_reader *r, const dcpi_item *item, dcpi_sha *sha) {
    uint8_t digest[32];
    dcpi_sha_final(sha, digest);
    return dcpi_sha_equal(item->end - item->begin <= DCPI_LEAF ? r->leaves[0] : digest, dcpi_item_digest(item), 32);
}
/* Bytes of one number of the item, as far as their order counts. */
static int dcpi_item_width(const dcpi_load *l, const dcpi_item *item) {
    const dcp_tensor *t = item->source == DCPI_NO_SOURCE ? NULL : l->sources[item->source].wanted;
    return !t || t->dtype == DCP_OPAQUE ? 1 : dcpi_dtype_width(t->dtype);
}
/* Bytes [begin, end) of the item's piece are in `data`: into the wanted tensor with them. Copies to a device are only
 * begun here. */
static dcp_status dcpi_item_scatter(dcpi_reader *r, const dcpi_item *item, int64_t begin, int64_t end, uint8_t *data,
                                    dcp_error *err) {
    const dcpi_load *l = r->l;
    const dcpi_source *source;
    const dcp_tensor *t;
    int64_t first, last;
    if (item->source == DCPI_NO_SOURCE) return DCP_OK;
    source = &l->sources[item->source];
    t = source->wanted;
    dcpi_swap_bytes(data, end - begin, dcpi_item_width(l, item));
    if (!t->device) {
        dcpi_walk_copy(&source->walk, begin, end, data, (uint8_t *)t->data, 1);
        return DCP_OK;
    }
    while (dcpi_walk_range(&source->walk, begin, end, &first, &last)) {
        /* a device takes runs of the wanted piece, row-major */
        dcpi_step step;
        int64_t run = source->walk.count[source->walk.ndim - 1];
        dcp_status status;
        dcpi_step_to(&source->walk, dcpi_walk_seek(&source->walk, first, dcpi_walk_runs(&source->walk)), &step);
        last = dcpi_min(step.file + run, end);
        status = dcpi_copies_begin(&r->copies, t, 1, step.memory + (first - step.file), data + (first - begin),
                                   (size_t)(last - first), r->turn, err);
        if (status) return status;
        data += last - begin;
        begin = last;
    }
    return DCP_OK;
}
/* Where the item's bytes may be read straight to: its wanted tensor's memory, if they are one run there; else NULL. */
static uint8_t *dcpi_item_direct(const dcpi_load *l, const dcpi_item *item) {
    const dcpi_source *source = item->source == DCPI_NO_SOURCE ? NULL : &l->sources[item->source];
    if (!source || source->wanted->device || !dcpi_walk_is_run(&source->walk)) return NULL;
    if (item->begin < source->walk.file_start || item->end > source->walk.file_start + source->walk.count[0])
        return NULL;
    return (uint8_t *)source->wanted->data + source->walk.memory_start + (item->begin - source->walk.file_start);
}
static int dcpi_is_zero(const uint8_t *data, int64_t size) {
    int64_t i;
    for (i = 0; i < size; i++) if (data[i]) return 0;
    return 1;
}
/* One item of any size, chunk by chunk: read, hash, scatter; the digest is known, and compared, before its last chunk
 * is used. */
static dcp_status dcpi_read_one(dcpi_reader *r, const dcpi_item *item, dcpi_data_file *file, dcp_error *err) {
    dcpi_load *l = r->l;
    uint8_t *direct = dcpi_item_direct(l, item);
    int has_digest = dcpi_item_has_digest(l, item);
    int64_t at, n;
    dcpi_sha sha;
    dcp_status status = has_digest ? dcpi_reader_prepare_jobs(r, err) : DCP_OK;
    dcpi_sha_init(&sha);
    for (at = item->begin; at < item->end && !status; at += n) {
        uint8_t *to = direct ? direct + (at - item->begin) : NULL;
        n = dcpi_min(item->end - at, (int64_t)l->chunk);
        if (!direct && (status = dcpi_reader_turn(r, err)) != DCP_OK) return status;
        if (!direct) to = r->buffer;
        status = dcpi_op_check_cancel(l->op, err);
        if (!status && dcpi_crew_is_stopped(&l->crew))
            status = dcpi_fail(err, DCP_E_CANCELLED, "stopped after another failure");
        if (!status)
            status = dcpi_storage_read(dcpi_data_file_storage(l->checkpoint, file), file->key, file->object,
                                       item->at + (at - item->begin), to, (size_t)n, err);
        if (!status && has_digest) {
            dcpi_sha_many(r->jobs, dcpi_add_jobs(r, 0, to, n));
            dcpi_sha_update(&sha, r->leaves, (size_t)dcpi_leaf_count(n) * 32);
            if (at + n == item->end && !dcpi_item_is_right(r, item, &sha)) return dcpi_item_corrupt(l, item, err);
        }
        if (!status && !item->piece && !dcpi_is_zero(to, n)) return dcpi_item_corrupt(l, item, err);
        if (!status && !direct) status = dcpi_item_scatter(r, item, at, at + n, to, err);
        else if (!status) dcpi_swap_bytes(to, n, dcpi_dtype_width(l->sources[item->source].wanted->dtype));
    }
    return status ? dcpi_item_failed(l, item, err) : DCP_OK;
}
/* Several neighbours with one request: read, hash all leaves at once, compare, scatter. */
static dcp_status dcpi_read_run(dcpi_reader *r, const dcpi_item **items, size_t count, dcpi_data_file *file,
                                dcp_error *err) {
    dcpi_load *l = r->l;
    int64_t base = items[0]->at;
    size_t i, jobs = 0, leaf = 0, size = (size_t)(items[count - 1]->at + items[count - 1]->end -
                                                  items[count - 1]->begin - base);
    dcp_status status = dcpi_reader_turn(r, err);
    if (status) return status;
    status = dcpi_reader_prepare_jobs(r, err);
    if (!status) status = dcpi_op_check_cancel(l->op, err);
    if (!status)
        status = dcpi_storage_read(dcpi_data_file_storage(l->checkpoint, file), file->key, file->object, base,
                                   r->buffer, size, err);
    if (status) return dcpi_item_failed(l, items[0], err);
    for (i = 0; i < count; i++)
        if (dcpi_item_has_digest(l, items[i])) jobs = dcpi_add_jobs(r, jobs, r->buffer + (items[i]->at - base),
                                                                    items[i]->end - items[i]->begin);
    dcpi_sha_many(r->jobs, jobs);
    for (i = 0; i < count && !status; i++) {
        const dcpi_item *item = items[i];
        uint8_t *data = r->buffer + (item->at - base), digest[32];
        size_t n = dcpi_item_has_digest(l, item) ? (size_t)dcpi_leaf_count(item->end - item->begin) : 0;
        if (n > 1) dcp_sha256(r->leaves[leaf], n * 32, digest);
        if (n > 0 && !dcpi_sha_equal(n > 1 ? digest : r->leaves[leaf], dcpi_item_digest(item), 32))
            return dcpi_item_corrupt(l, item, err);
        if (!item->piece && !dcpi_is_zero(data, item->end - item->begin)) return dcpi_item_corrupt(l, item, err);
        leaf += n;
        status = dcpi_item_scatter(r, item, item->begin, item->end, data, err);
    }
    return status;
}
/* How many of the items from order[first] on make one request: neighbours in one file, together within a buffer. */
static size_t dcpi_run_length(const dcpi_load *l, size_t first) {
    const dcpi_item *start = l->order[first];
    int64_t end = start->at + start->end - start->begin, leaves = dcpi_leaf_count(start->end - start->begin);
    size_t n;
    for (n = 1; first + n < l->order_count; n++) {
        const dcpi_item *next = l->order[first + n];
        int64_t size = next->end - next->begin;
        if (next->shard != start->shard || next->at < end || next->at - end > DCPI_LOAD_GAP ||
            next->at + size - start->at > (int64_t)l->chunk) break;
        /* large ones go straight to their place */
        if ((size >= DCPI_LEAF && dcpi_item_direct(l, next)) || leaves + dcpi_leaf_count(size) > DCPI_LOAD_LEAVES)
            break;
        end = next->at + size;
        leaves += dcpi_leaf_count(size);
    }
    if (start->end - start->begin >= DCPI_LEAF && dcpi_item_direct(l, start)) return 1;
    return n;
}
static dcp_status dcpi_read_file(dcpi_reader *r, const dcpi_item **items, size_t count, dcpi_data_file *file,
                                 dcp_error *err) {
    return count == 1 ? dcpi_read_one(r, items[0], file, err) : dcpi_read_run(r, items, count, file, err);
}
/* The same bytes from the sources behind the one that has them wrong, through a descriptor of this worker's own: others
 * may be reading there. */
static dcp_status dcpi_read_elsewhere(dcpi_reader *r, const dcpi_item **items, size_t count, const dcpi_data_file *file,
                                      dcp_error *err) {
    dcp_checkpoint *c = r->l->checkpoint;
    dcpi_data_file other;
    dcp_status status = err->status;
    dcpi_mutex_lock(&c->lock);
    other = *file;
    dcpi_mutex_unlock(&c->lock);
    other.key = NULL;
    other.object = NULL;
    while (status && dcpi_data_file_next(c, &other, err)) {
        status = dcpi_data_file_open_at(c, &other, err);
        if (status) continue;
        status = dcpi_read_file(r, items, count, &other, err);
        dcpi_storage_close_object(dcpi_data_file_storage(c, &other), other.object);
    }
    dcpi_free(other.key);
    return status;
}
static dcp_status dcpi_read_items(dcpi_reader *r, const dcpi_item **items, size_t count, dcp_error *err) {
    dcpi_data_file *file;
    dcp_status status = dcpi_data_file_acquire(r->l->checkpoint, items[0]->shard, &file, err);
    if (status) return status;
    status = dcpi_read_file(r, items, count, file, err);
    if (status == DCP_E_CHECKSUM || status == DCP_E_INCOMPLETE)
        status = dcpi_read_elsewhere(r, items, count, file, err);
    if (status) dcpi_data_file_give_up(r->l->checkpoint, file);
    else dcpi_data_file_release(r->l->checkpoint, file);
    return status;
}
static int dcpi_read_again(dcpi_reader *r, int attempt, dcp_error *err) {
    dcpi_load *l = r->l;
    const dcp_error why = *err;
    if (!dcpi_op_retry(l->op, r->is_worker ? &l->crew : NULL, dcpi_data_file_may_come(err), attempt, NULL, err))
        return 0;
    dcpi_mutex_lock(&l->crew.lock);
    if (l->repeated++ == 0) l->repeated_for = why;
    dcpi_mutex_unlock(&l->crew.lock);
    return 1;
}
/* Takes the next run and reads it; 0 when there is none left. Called and returns under the lock. */
static int dcpi_load_work(dcpi_reader *r) {
    dcpi_load *l = r->l;
    size_t first = l->next, count, i;
    dcp_error error;
    dcp_status status;
    int attempt = 0;
    if (first == l->order_count) return 0;
    count = dcpi_run_length(l, first);
    l->next += count;
    dcpi_mutex_unlock(&l->crew.lock);
    do status = dcpi_read_items(r, l->order + first, count, &error);
    while (status && dcpi_read_again(r, ++attempt, &error));
    dcpi_mutex_lock(&l->crew.lock);
    for (i = first; i < first + count; i++) l->bytes_done += l->order[i]->end - l->order[i]->begin;
    if (status) dcpi_crew_fail(&l->crew, &error);
    return 1;
}
/* Under the lock: the last copies to devices have ended, or the first error is known. */
static void dcpi_reader_finish(dcpi_reader *r) {
    dcp_error error;
    dcp_status status;
    dcpi_mutex_unlock(&r->l->crew.lock);
    status = dcpi_copies_until(&r->copies, INT64_MAX, &error);
    dcpi_reader_free(r);
    dcpi_mutex_lock(&r->l->crew.lock);
    if (status) dcpi_crew_fail(&r->l->crew, &error);
}
static void dcpi_load_worker(void *argument) {
    dcpi_reader r;
    memset(&r, 0, sizeof r);
    r.l = (dcpi_load *)argument;
    r.is_worker = 1;
    dcpi_mutex_lock(&r.l->crew.lock);
    while (!r.l->crew.stop && dcpi_load_work(&r)) {}
    dcpi_reader_finish(&r);
    dcpi_crew_leave(&r.l->crew);
    dcpi_mutex_unlock(&r.l->crew.lock);
}

/* ---- read: driver ------------------------------------------------------------------------------------------------ */
static dcp_status dcpi_flat_check_all(dcpi_load *l, dcp_error *err);

/* Watches the crew; does the work itself where there is none. */
static void dcpi_load_watch(dcpi_load *l) {
    dcpi_reader own;
    dcp_error error;
    memset(&own, 0, sizeof own);
    own.l = l;
    dcpi_mutex_lock(&l->crew.lock);
    while (l->crew.count > 0 ? l->crew.running > 0 : !l->crew.stop && l->next < l->order_count) {
        int64_t done = l->bytes_done;
        dcp_status status;
        dcpi_mutex_unlock(&l->crew.lock);
        dcpi_op_report(l->op, done, 0);
        status = dcpi_op_check(l->op, &error);
        if (status) dcpi_op_show_life(l->op);           /* a worker may be in a read that takes long */
        dcpi_mutex_lock(&l->crew.lock);
        if (status) dcpi_crew_fail(&l->crew, &error);
        if (l->crew.count > 0) { if (l->crew.running > 0) dcpi_cond_wait_ms(&l->crew.changed, &l->crew.lock, 100); }
        else if (!status) (void)dcpi_load_work(&own);
    }
    dcpi_reader_finish(&own);
    dcpi_mutex_unlock(&l->crew.lock);
}
static dcp_status dcpi_load_read(dcpi_load *l, dcp_error *err) {
    int workers = dcpi_op_threads(l->op, 4);
    int64_t total = 0, most;
    size_t i, share;
    dcp_status status = dcpi_op_check(l->op, err);
    for (i = 0; i < l->order_count; i++) total += l->order[i]->end - l->order[i]->begin;
    if (!status && l->check) status = dcpi_flat_check_all(l, err);
    if (status || l->order_count == 0) return status;
    if (total < 2 * DCPI_CHUNK || l->order_count == 1)                   /* sooner done than started */
        /* but a read that blocks must not keep this rank from showing life (G6) */
        workers = l->op->team.world_size > 1;
    workers = (int)dcpi_min(workers, (int64_t)(l->op->io.memory_budget / (512 * DCPI_KIB)));
    share = l->op->io.memory_budget / (size_t)dcpi_max(workers, 1) - DCPI_LOAD_LEAVES * (sizeof(dcpi_sha_job) + 32);
    for (i = 0; i < l->wanted_count && !l->device; i++) l->device = l->wanted[i].device;
    l->buffer_count = l->device && share >= 2 * (size_t)DCPI_LEAF ? 2 : 1;
    /* a huge page takes longer to clear than little takes to read */
    most = total <= 4 * DCPI_LEAF ? 4 * DCPI_LEAF : DCPI_CHUNK;
    l->chunk = (size_t)dcpi_min((int64_t)(share / (size_t)l->buffer_count / (size_t)DCPI_LEAF) * DCPI_LEAF, most);
    status = dcpi_crew_open(&l->crew, err);
    if (status) return status;
    dcpi_op_phase(l->op, l->wanted_count ? DCP_PHASE_READ : DCP_PHASE_VERIFY, total);
    dcpi_crew_start(&l->crew, workers, dcpi_load_worker, l);
    dcpi_load_watch(l);
    dcpi_op_report(l->op, l->bytes_done, 1);
    if (l->repeated > 0)
        dcpi_op_log(l->op, DCP_LOG_WARNING, "%d reads failed and were tried again, the first one for: %s", l->repeated,
                    l->repeated_for.message);
    if (l->refused.status)
        dcpi_op_log(l->op, DCP_LOG_WARNING, "copies to the device go through ordinary memory, which is slower: %s",
                    l->refused.message);
    return dcpi_crew_close(&l->crew, err);
}

/* ---- flat checksums: the whole file, once per open, before anything of it is used -------------------------------- */
static int dcpi_is_flat(const dcp_shard_metadata *shard) {
    return shard->checksum && !dcpi_starts_with(shard->checksum, "sha256-tree:");
}

static dcp_status dcpi_flat_hash(dcpi_op *op, dcp_storage *s, const dcpi_data_file *file, uint8_t *buffer,
                                 size_t capacity, uint8_t digest[32], dcp_error *err) {
    int64_t at, n;
    dcpi_sha sha;
    dcp_status status = DCP_OK;
    dcpi_sha_init(&sha);
    for (at = 0; at < file->shard->file_size && !status; at += n) {
        n = dcpi_min(file->shard->file_size - at, (int64_t)capacity);
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_op_read(op, s, file->key, file->object, file->shard->data_offset + at, buffer,
                                           (size_t)n, err);
        if (!status) dcpi_sha_update(&sha, buffer, (size_t)n);
        dcpi_op_report(op, at + n, 0);
    }
    dcpi_sha_final(&sha, digest);
    return status;
}
static dcp_status dcpi_flat_compare(const dcp_checkpoint *c, const dcpi_data_file *file, const uint8_t digest[32],
                                    dcp_error *err) {
    uint8_t wanted[32];
    if (strlen(file->shard->checksum) == 64 && dcpi_hex_decode(file->shard->checksum, 64, wanted) &&
        dcpi_sha_equal(wanted, digest, 32)) return DCP_OK;
    return dcpi_fail(err, DCP_E_CHECKSUM,
                     "%s%s (shard %d): the SHA-256 of the file is not the one that %s names: the file was damaged or "
                     "changed",
            c->place.shown,
                     file->shard->file_path, file->shard->rank, c->path);
}
static dcp_status dcpi_flat_check_once(dcp_checkpoint *c, dcpi_op *op, int shard, int again, dcp_error *err) {
    const size_t capacity = 1 * DCPI_MIB - 64 * DCPI_KIB;
    dcpi_data_file *file;
    uint8_t *buffer, digest[32];
    dcp_status status = dcpi_data_file_see(c, op, shard, &file, err);
    int done;
    if (status) return status;
    dcpi_mutex_lock(&c->lock);
    done = file->is_checked && !again;
    dcpi_mutex_unlock(&c->lock);
    buffer = done ? NULL : (uint8_t *)dcpi_alloc(capacity, err);
    if (!done && !buffer) status = DCP_E_MEMORY;
    if (buffer) {
        dcpi_op_phase(op, DCP_PHASE_VERIFY, file->shard->file_size);
        status = dcpi_flat_hash(op, dcpi_data_file_storage(c, file), file, buffer, capacity, digest, err);
        if (!status) status = dcpi_flat_compare(c, file, digest, err);
        dcpi_mutex_lock(&c->lock);
        file->is_checked = !status;
        file->checked_modified_ns = file->info.modified_ns;
        dcpi_mutex_unlock(&c->lock);
    }
    dcpi_free(buffer);
    dcpi_data_file_release(c, file);
    return status;
}
/* A file that is wrong is looked for elsewhere, unless somebody reads it just now. */
static int dcpi_flat_next(dcp_checkpoint *c, int shard, const dcp_error *why) {
    dcpi_data_file *file = &c->files[shard];
    int found = 0;
    dcpi_mutex_lock(&c->lock);
    if (why->status == DCP_E_CHECKSUM && file->users == 0 && !file->mapped && file->place < c->source_count) {
        if (file->object) dcpi_data_file_close(c, file);
        found = dcpi_data_file_next(c, file, why);
    }
    dcpi_mutex_unlock(&c->lock);
    return found;
}
static dcp_status dcpi_flat_check(dcp_checkpoint *c, dcpi_op *op, int shard, int again, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    do status = dcpi_flat_check_once(c, op, shard, again, &local); while (status && dcpi_flat_next(c, shard, &local));
    if (err) *err = local;
    return status;
}
static dcp_status dcpi_flat_check_all(dcpi_load *l, dcp_error *err) {
    size_t i;
    for (i = 0; i < l->order_count; i++) {
        int shard = l->order[i]->shard;
        dcp_status status = DCP_OK;
        if (i > 0 && shard == l->order[i - 1]->shard) continue;
        if (dcpi_is_flat(l->checkpoint->files[shard].shard))
            status = dcpi_flat_check(l->checkpoint, l->op, shard, 0, err);
        if (status) return status;
    }
    return DCP_OK;
}

/* ---- read: what several ranks need, one range after the other ---------------------------------------------------- */
static dcp_status dcpi_shared_get(dcpi_load *l, const dcpi_shared *shared, int64_t at, size_t size, uint8_t **message,
                                  dcp_error *err) {
    const dcpi_item *item = shared->items[0];
    dcpi_data_file *file;
    size_t length;
    int i;
    dcp_status status;
    if (shared->reader != l->op->team.rank) {
        dcpi_free(*message);
        *message = NULL;
        status = dcpi_relay_receive(l->op, shared->reader, message, &length, err);
        if (!status && (length != DCPI_RELAY_HEADER + size || (int64_t)dcpi_load64(*message + 8) != at))
            status = dcpi_fail(err, DCP_E_COMM, "rank %d sent other bytes than those that it reads for this rank",
                               shared->reader);
        return status;
    }
    status = dcpi_data_file_see(l->checkpoint, l->op, item->shard, &file, err);
    if (status) return status;
    status = dcpi_op_read(l->op, dcpi_data_file_storage(l->checkpoint, file), file->key, file->object, at,
                          *message + DCPI_RELAY_HEADER, size, err);
    dcpi_data_file_release(l->checkpoint, file);
    for (i = 0; i < shared->other_count && !status; i++) {
        status = dcpi_op_check(l->op, err);
        if (!status)
            status = dcpi_relay_send(l->op, (int)dcpi_load32(shared->others + 4 * i), *message, 0, at, size, err);
    }
    return status;
}
/* Every rank checks the digest itself: bytes that came over the wire are no better than those of a disk. */
static dcp_status dcpi_shared_read(dcpi_reader *r, const dcpi_shared *shared, uint8_t **message, dcp_error *err) {
    dcpi_load *l = r->l;
    const dcpi_item *item = shared->items[0];
    const int has_digest = dcpi_item_has_digest(l, item);
    int64_t at, n;
    size_t i;
    dcpi_sha sha;
    dcp_status status = has_digest ? dcpi_reader_prepare_jobs(r, err) : DCP_OK;
    dcpi_sha_init(&sha);
    for (at = item->begin; at < item->end && !status; at += n) {
        uint8_t *bytes;
        n = dcpi_min(item->end - at, (int64_t)DCPI_RELAY_CHUNK);
        status = dcpi_copies_until(&r->copies, INT64_MAX, err);    /* from the message, which is freed or filled anew */
        if (status) return status;
        status = dcpi_shared_get(l, shared, item->at + (at - item->begin), (size_t)n, message, err);
        if (status) break;
        bytes = *message + DCPI_RELAY_HEADER;
        if (has_digest) {
            dcpi_sha_many(r->jobs, dcpi_add_jobs(r, 0, bytes, n));
            dcpi_sha_update(&sha, r->leaves, (size_t)dcpi_leaf_count(n) * 32);
            if (at + n == item->end && !dcpi_item_is_right(r, item, &sha)) return dcpi_item_corrupt(l, item, err);
        }
        for (i = 0; i < shared->count && !status; i++) {
            status = dcpi_item_scatter(r, shared->items[i], at, at + n, bytes, err);
            if (DCPI_BIG_ENDIAN && !status) status = dcpi_copies_until(&r->copies, INT64_MAX, err);
            /* on big-endian machines scatter has swapped them */
            dcpi_swap_bytes(bytes, n, dcpi_item_width(l, shared->items[i]));
        }
    }
    return status ? dcpi_item_failed(l, item, err) : DCP_OK;
}
static dcp_status dcpi_load_read_shared(dcpi_load *l, dcp_error *err) {
    uint8_t *message = NULL;
    int64_t done = 0;
    dcpi_reader r;
    dcp_status status = DCP_OK;
    size_t i;
    memset(&r, 0, sizeof r);
    r.l = l;
    for (i = 0; i < l->shared_count && !status; i++) {
        const dcpi_shared *shared = &l->shared[i];
        const int shard = shared->items[0]->shard, is_reader = shared->reader == l->op->team.rank;
        if (is_reader) {
            dcpi_free(message);
            message = (uint8_t *)dcpi_alloc(DCPI_RELAY_HEADER + DCPI_RELAY_CHUNK, err);
            if (!message) { status = DCP_E_MEMORY; break; }
        }
        if (l->check && is_reader && dcpi_is_flat(l->checkpoint->files[shard].shard))
            status = dcpi_flat_check(l->checkpoint, l->op, shard, 0, err);
        if (!status) status = dcpi_shared_read(&r, shared, &message, err);
        done += shared->items[0]->end - shared->items[0]->begin;
        dcpi_op_report(l->op, done, 0);
    }
    if (!status) status = dcpi_copies_until(&r.copies, INT64_MAX, err);
    dcpi_reader_free(&r);
    dcpi_free(message);
    return status;
}

/* ---- verify: every byte of every file ---------------------------------------------------------------------------- */
/* Bytes that belong to no tensor must be zero. */
static dcp_status dcpi_verify_plan_gap(dcpi_load *l, size_t shard, int64_t begin, int64_t end, dcp_error *err) {
    return begin < end ? dcpi_plan_add(l, NULL, DCPI_NO_SOURCE, (int)shard, begin, end, begin, err) : DCP_OK;
}
/* The blocks of its tensors that have digests; and what is between tensors, where other programs may have put
 * something. */
static dcp_status dcpi_verify_plan_shard(dcpi_load *l, size_t shard, const dcpi_piece *pieces, dcp_error *err) {
    const dcp_shard_metadata *m = &l->checkpoint->metadata->shards[shard];
    const int has_zero_gaps = m->checksum && (!dcpi_is_flat(m) || !l->checkpoint->metadata->is_foreign);
    int64_t at = m->data_offset, block;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < m->tensor_count && !status; i++) {
        const dcp_tensor_metadata *t = &m->tensors[i];
        if (t->size == 0) continue;
        if (has_zero_gaps) status = dcpi_verify_plan_gap(l, shard, at, t->offset, err);
        for (block = 0; t->block_size > 0 && block < t->size && !status; block += t->block_size)
            status = dcpi_plan_add(l, &pieces[i], DCPI_NO_SOURCE, (int)shard, block,
                                   dcpi_min(block + t->block_size, t->size), t->offset + block, err);
        at = t->offset + t->size;
    }
    return status;
}
/* No digest says what some of its bytes should be. */
static int dcpi_verify_is_unchecked(const dcp_shard_metadata *shard) {
    size_t i;
    if (shard->checksum) return 0;
    for (i = 0; i < shard->tensor_count; i++)
        if (shard->tensors[i].size > 0 && shard->tensors[i].block_size == 0) return 1;
    return shard->tensor_count == 0;
}
/* The ranks share the shards among them. */
static int dcpi_verify_is_mine(const dcp_checkpoint *c, size_t shard) {
    if (c->selected) return c->selected[shard];         /* each rank may have selected something else */
    return dcp_shard_owner((int)shard, c->op.team.world_size) == c->op.team.rank;
}
/* The files without a tree digest are hashed whole; a file without any checksum (a seed's) has only its size. */
static dcp_status dcpi_verify_other(dcp_checkpoint *c, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t s;
    for (s = 0; s < c->metadata->shard_count && !status; s++) {
        dcpi_data_file *file;
        if (!dcpi_verify_is_mine(c, s)) continue;
        if (dcpi_is_flat(&c->metadata->shards[s])) { status = dcpi_flat_check(c, &c->op, (int)s, 1, err); continue; }
        if (c->metadata->shards[s].file_size < 0)
            dcpi_op_log(&c->op, DCP_LOG_WARNING,
                        "%s has neither size nor checksum: it can be seen that it is there, no more",
                        c->metadata->shards[s].file_path);
        else if (dcpi_verify_is_unchecked(&c->metadata->shards[s]))
            dcpi_op_log(&c->op, DCP_LOG_WARNING, "shard %d has no checksum: only its size can be checked",
                        c->metadata->shards[s].rank);
        status = dcpi_data_file_see(c, &c->op, (int)s, &file, err);
        if (!status) dcpi_data_file_release(c, file);
    }
    return status;
}

static dcp_status dcpi_verify_run(dcp_checkpoint *c, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    dcpi_load l;
    dcpi_piece *pieces;
    size_t s, t, n = 0;
    dcp_status status = dcpi_verify_other(c, err);
    if (status) return status;
    memset(&l, 0, sizeof l);
    l.checkpoint = c;
    l.op = &c->op;
    l.check = 1;
    pieces = (dcpi_piece *)dcpi_alloc_array(c->piece_count, sizeof *pieces, err);      /* in document order */
    if (!pieces) return DCP_E_MEMORY;
    for (s = 0; s < m->shard_count && !status; s++) {
        for (t = 0; t < m->shards[s].tensor_count; t++) {
            pieces[n + t].meta = &m->shards[s].tensors[t];
            pieces[n + t].shard = (int)s;
        }
        if (s > 0 && c->layout == DCP_LAYOUT_SINGLE && dcpi_verify_is_mine(c, s))       /* between two regions */
            status = dcpi_verify_plan_gap(&l, s, m->shards[s - 1].data_offset + m->shards[s - 1].file_size,
                                          m->shards[s].data_offset, err);
        if (!status && dcpi_verify_is_mine(c, s)) status = dcpi_verify_plan_shard(&l, s, pieces + n, err);
        n += m->shards[s].tensor_count;
    }
    if (!status) status = dcpi_plan_sort(&l, err);
    if (!status) status = dcpi_load_read(&l, err);
    dcpi_free((void *)l.order);
    dcpi_free(l.items);
    dcpi_free(pieces);
    return status;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
/* Each call on a checkpoint is an operation with its own deadline; collective ones (`call` is set) are one of all
 * ranks. */
static dcp_status dcpi_op_restart(dcpi_op *op, const char *call, dcp_error *err) {
    op->started_ms = op->phase_ms = op->checked_ms = dcpi_os_monotonic_ms();
    op->longest_gap_ms = 0;
    return call ? dcpi_team_begin(op, call, err) : DCP_OK;
}
static dcp_status dcpi_report_error(dcp_status status, const dcp_error *local, dcp_error *err) {
    if (err && status) *err = *local;
    else if (err) (void)dcpi_succeed(err);
    return status;
}
/* Ends a collective call: the same verdict on all ranks. */
static dcp_status dcpi_load_verdict(dcp_checkpoint *c, dcp_status status, dcp_error *err) {
    status = dcpi_team_verdict(&c->op, status, err);
    dcpi_team_end(&c->op);
    return status;
}
DCPDEF dcp_status dcp_open(const dcp_open_desc *desc, dcp_checkpoint **out, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    *out = NULL;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "open: desc is NULL");
    dcpi_report_clear(desc->report);
    status = dcpi_open_phase(desc, "open", 0, out, &local);
    if (!status && desc->verify == DCP_VERIFY_ALL) status = dcpi_verify_run(*out, &local);
    if (*out) status = dcpi_load_verdict(*out, status, &local);
    if (*out) dcpi_op_tell_warnings(&(*out)->op, desc->report);
    if (status) { dcp_close(*out); *out = NULL; }
    return dcpi_report_error(status, &local, err);
}
/* A document of other writers may have more shards, or parts of a tensor, than its world has ranks. -1: this rank's
 * own. */
static int dcpi_read_has_rank(const dcp_checkpoint *c, int rank) {
    const dcp_metadata *m = c->metadata;
    size_t s = 0;
    if (rank >= -1 && rank < m->world_size) return 1;
    while (s < m->shard_count && m->shards[s].rank != rank) s++;
    return s < m->shard_count;
}
static dcp_status dcpi_read_call(dcp_checkpoint *checkpoint, dcp_tensor *tensors, size_t count, int rank,
                                 dcp_error *err) {
    dcp_error local;
    dcp_status status = dcpi_op_restart(&checkpoint->op, "read", &local);
    dcpi_team_same(&checkpoint->op.team, checkpoint->path, 0);   /* each rank may read another rank's private tensors */
    if (!status && !dcpi_read_has_rank(checkpoint, rank))
        status = dcpi_fail(&local, DCP_E_INVALID, "dcp_read_rank: %d is no rank of %s, which %d ranks saved", rank,
                           checkpoint->path, checkpoint->metadata->world_size);
    if (!status) status = dcpi_load_run(checkpoint, &checkpoint->op, tensors, count, rank, 0, &local);
    return dcpi_report_error(dcpi_load_verdict(checkpoint, status, &local), &local, err);
}
DCPDEF dcp_status dcp_read(dcp_checkpoint *checkpoint, dcp_tensor *tensors, size_t count, dcp_error *err) {
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_read: checkpoint is NULL");
    return dcpi_read_call(checkpoint, tensors, count, -1, err);
}
DCPDEF dcp_status dcp_read_rank(dcp_checkpoint *checkpoint, int shard_rank, dcp_tensor *tensors, size_t count,
                                dcp_error *err) {
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_read_rank: checkpoint is NULL");
    /* -1 is no rank here */
    return dcpi_read_call(checkpoint, tensors, count, shard_rank == -1 ? INT_MAX : shard_rank, err);
}
DCPDEF dcp_status dcp_verify(dcp_checkpoint *checkpoint, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_verify: checkpoint is NULL");
    status = dcpi_op_restart(&checkpoint->op, "verify", &local);
    dcpi_team_same(&checkpoint->op.team, checkpoint->path, 0);
    if (!status) status = dcpi_verify_run(checkpoint, &local);
    return dcpi_report_error(dcpi_load_verdict(checkpoint, status, &local), &local, err);
}
DCPDEF dcp_status dcp_read_new(dcp_checkpoint *checkpoint, const char *name, dcp_tensor *out, dcp_error *err) {
    const dcpi_stored *stored;
    dcp_error local;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!checkpoint || !name) return dcpi_fail(err, DCP_E_INVALID, "dcp_read_new: checkpoint or name is NULL");
    stored = dcpi_stored_find(checkpoint, name);
    if (!stored) return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is not in %s", name, checkpoint->path);
    if ((uint64_t)stored->info.size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    *out = dcp_array(stored->info.name, stored->info.dtype, NULL, stored->info.ndim, stored->info.shape);
    status = dcpi_op_restart(&checkpoint->op, NULL, &local);
    if (!status) status = dcpi_load_run(checkpoint, &checkpoint->op, out, 1, -1, 1, &local);
    if (status) {
        dcpi_free(out->data);
        memset(out, 0, sizeof *out);
    }
    return dcpi_report_error(status, &local, err);
}
/* Whether a load may have failed since the commit file is another one than when it was opened. */
typedef struct dcpi_now { dcp_checkpoint *c; uint8_t digest[32]; } dcpi_now;
static dcp_status dcpi_now_look(void *now, dcp_error *err) {
    dcpi_now *n = (dcpi_now *)now;
    return dcpi_document_digest(&n->c->op, &n->c->place, n->c->commit_name, n->digest, err);
}
static int dcpi_load_was_replaced(dcp_checkpoint *c, dcp_status failure) {
    dcpi_now now;
    dcp_error ignored;
    dcp_status status;
    if (failure != DCP_E_INCOMPLETE && failure != DCP_E_CHECKSUM && failure != DCP_E_IO) return 0;
    if (!c->metadata) return 0;                         /* it was not opened yet */
    now.c = c;
    status = dcpi_op_errand(&c->op, dcpi_now_look, &now, &ignored);
    return !dcpi_is_trouble(status) && memcmp(now.digest, c->digest, sizeof now.digest) != 0;
}
static dcp_status dcpi_load_check_exact(const dcp_checkpoint *c, const dcp_load_desc *desc, dcp_error *err) {
    dcpi_names names;
    dcp_status status = DCP_OK;
    size_t i;
    if (!desc->exact) return DCP_OK;
    memset(&names, 0, sizeof names);
    for (i = 0; i < desc->tensor_count && !status; i++)
        if (desc->tensors[i].name) status = dcpi_names_add(&names, desc->tensors[i].name, err);
    if (!status) status = dcpi_names_sort(&names, err);
    for (i = 0; i < c->tensor_count && !status; i++)
        if (!dcpi_names_has(&names, c->tensors[i].info.name))
            status = dcpi_fail(err, DCP_E_MISMATCH, "%s holds tensor \"%s\", which is not wanted (and exact is set)",
                               c->path, c->tensors[i].info.name);
    dcpi_names_free(&names);
    return status;
}
static dcp_status dcpi_load_once(const dcp_load_desc *desc, int *replaced, dcp_error *err) {
    dcp_open_desc open;
    dcp_checkpoint *c;
    dcp_status status;
    memset(&open, 0, sizeof open);
    open.path = desc->path;
    open.verify = desc->verify;
    open.verifier = desc->verifier;
    open.minimum_step = desc->minimum_step;
    open.share_reads = desc->share_reads;
    open.io = desc->io;
    open.sources = desc->sources;
    open.source_count = desc->source_count;
    open.report = desc->report;
    status = dcpi_open_phase(&open, "load", dcpi_hello_list(desc->tensors, desc->tensor_count), &c, err);
    if (!c) return status;
    if (!status) status = dcpi_load_check_exact(c, desc, err);
    if (!status && desc->verify == DCP_VERIFY_ALL) status = dcpi_verify_run(c, err);
    if (!status) status = dcpi_load_run(c, &c->op, desc->tensors, desc->tensor_count, -1, 0, err);
    status = dcpi_team_done(&c->op, status, err);
    if (c->op.team.rank == 0) c->op.team.is_again = dcpi_load_was_replaced(c, status);
    status = dcpi_team_down(&c->op, status, NULL, NULL, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
    *replaced = c->op.team.is_again;
    dcpi_team_end(&c->op);
    dcpi_op_tell_warnings(&c->op, desc->report);
    if (!status && desc->metadata) {
        *desc->metadata = c->metadata;      /* handed over; nothing of the checkpoint needs it any more but its files */
        c->metadata = NULL;
    }
    dcpi_checkpoint_free(c);
    return status;
}
enum { DCPI_LOAD_ATTEMPTS = 4 };
DCPDEF dcp_status dcp_load(const dcp_load_desc *desc, dcp_error *err) {
    dcp_error local;
    int replaced = 1, attempt;
    dcp_status status = DCP_OK;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_load: desc is NULL");
    if (desc->metadata) *desc->metadata = NULL;
    dcpi_report_clear(desc->report);
    for (attempt = 0; attempt < DCPI_LOAD_ATTEMPTS && replaced; attempt++) {
        replaced = 0;
        status = dcpi_load_once(desc, &replaced, &local);
    }
    if (status && replaced) {
        dcp_error last = local;
        (void)dcpi_fail(&local, status, "the checkpoint was replaced %d times while it was read (%.300s); load it "
                                        "again when it is saved less often", DCPI_LOAD_ATTEMPTS, last.message);
        local.sys = last.sys;
        local.rank = last.rank;
    }
    return dcpi_report_error(status, &local, err);
}

