/* =====================================================================================================================
 * >>lazy        Tensors that come when they are touched: dcp_map, dcp_prefetch, dcp_release.
 *
 *                      dcp_map, prefetch                      it is there, verified
 *        NOTHING ------------------------------> COMING -----------------------------> THERE
 *           ^                                       |                                    |
 *           +---------------------------------------+                                    |
 *           |             it failed                                                      |
 *           +----------------------------------------------------------------------------+
 *                         dcp_release, as often as it was mapped; dcp_close
 * ================================================================================================================== */
/* A storage maps whole files. Where addresses are scarce, a small part of a large file is not worth that many of them:
 * it is read. */
static int dcpi_map_pays(int64_t file_size, int64_t size, uint64_t addresses) {
    return (uint64_t)file_size <= addresses / 8 || file_size / 2 <= size;
}
/* *data NULL: it has to be read. */
static dcp_status dcpi_map_file(dcp_checkpoint *c, const dcpi_piece *piece, dcpi_data_file *file, const uint8_t **data,
                                dcp_error *err) {
    dcp_storage *storage = dcpi_data_file_storage(c, file);
    const void *mapped = NULL;
    dcp_status status;
    *data = NULL;
    if (!storage->map || DCPI_BIG_ENDIAN || !dcpi_map_pays(file->object_size, piece->meta->size, SIZE_MAX))
        return DCP_OK;
    dcpi_mutex_lock(&c->lock);
    (void)dcpi_succeed(err);
    status = storage->map(storage->context, file->object, &mapped, err);
    if (!status && mapped) file->mapped++;
    dcpi_mutex_unlock(&c->lock);
    if (status == DCP_E_UNSUPPORTED || status == DCP_E_MEMORY || (!status && !mapped)) return dcpi_succeed(err);
    if (!status) *data = (const uint8_t *)mapped + piece->meta->offset;
    return dcpi_storage_result(&dcpi_by_reader, status, "map", file->key, err);
}
/* Under the lock. Its pages go when nobody else has it open. */
static void dcpi_unmap_file(dcp_checkpoint *c, dcpi_data_file *file) {
    file->mapped--;
    if (file->mapped == 0 && file->users == 0 && file->object && file->object != c->single)
        dcpi_data_file_close(c, file);
}
static dcp_status dcpi_map_verify(dcp_checkpoint *c, const dcpi_piece *piece, const uint8_t *data, dcp_error *err) {
    const dcp_tensor_metadata *meta = piece->meta;
    uint8_t digest[32], leaves[16][32];
    dcpi_sha_job jobs[16];
    dcpi_load l;
    dcpi_item item;
    int64_t at, leaf;
    memset(&l, 0, sizeof l);
    memset(&item, 0, sizeof item);
    l.checkpoint = c;
    item.piece = piece;
    item.shard = piece->shard;
    if (c->verify == DCP_VERIFY_NONE || meta->block_size == 0) return DCP_OK;
    for (item.begin = 0; item.begin < meta->size; item.begin = item.end) {
        dcpi_sha sha;
        item.end = dcpi_min(item.begin + meta->block_size, meta->size);
        item.at = meta->offset + item.begin;
        dcpi_sha_init(&sha);
        for (at = item.begin; at < item.end;) {
            size_t n = 0;
            for (; n < DCPI_COUNT(jobs) && at < item.end; n++, at += leaf) {
                leaf = dcpi_min(DCPI_LEAF, item.end - at);
                jobs[n].data = data + at;
                jobs[n].size = (size_t)leaf;
                jobs[n].digest = leaves[n];
            }
            dcpi_sha_many(jobs, n);
            dcpi_sha_update(&sha, leaves, n * 32);
        }
        dcpi_sha_final(&sha, digest);
        if (!dcpi_sha_equal(item.end - item.begin <= DCPI_LEAF ? leaves[0] : digest, dcpi_item_digest(&item), 32))
            return dcpi_item_corrupt(&l, &item, err);
    }
    return DCP_OK;
}
/* Where there is nothing to map: read as dcp_read does. */
static dcp_status dcpi_lazy_copy(dcp_checkpoint *c, dcpi_op *op, const dcpi_stored *stored, dcpi_lazy *lazy,
                                 dcp_error *err) {
    uint8_t *copy = (uint8_t *)dcpi_alloc((size_t)stored->info.size, err);
    dcp_tensor t = dcp_array(stored->info.name, stored->info.dtype, copy, stored->info.ndim, stored->info.shape);
    dcp_status status = copy ? dcpi_load_run(c, op, &t, 1, -1, 0, err) : DCP_E_MEMORY;
    if (status) { dcpi_free(copy); return status; }
    lazy->copy = copy;
    lazy->data = copy;
    return DCP_OK;
}
static dcp_status dcpi_lazy_bring_by(dcp_checkpoint *c, dcpi_op *op, const dcpi_stored *stored, dcpi_lazy *lazy,
                                     dcp_error *err) {
    const dcpi_piece *piece = &c->pieces[stored->first];
    dcpi_data_file *file;
    const uint8_t *data = NULL;
    dcp_status status = dcpi_data_file_acquire(c, piece->shard, &file, err);
    if (status) return status;
    status = dcpi_map_file(c, piece, file, &data, err);
    if (!status && data && c->verify != DCP_VERIFY_NONE && dcpi_is_flat(file->shard))
        status = dcpi_flat_check(c, op, piece->shard, 0, err);
    if (!status && data) status = dcpi_map_verify(c, piece, data, err);
    dcpi_data_file_release(c, file);
    if (status && data) {
        dcpi_mutex_lock(&c->lock);
        dcpi_unmap_file(c, file);
        dcpi_mutex_unlock(&c->lock);
        data = NULL;
        /* a copy, from where the bytes are right */
        if (status == DCP_E_CHECKSUM && c->source_count > 0) status = DCP_OK;
    }
    if (status) return status;
    if (!data) return dcpi_lazy_copy(c, op, stored, lazy, err);
    lazy->data = data;
    return DCP_OK;
}
/* Any thread, without the lock: this tensor is COMING, so nobody else does. */
static dcp_status dcpi_lazy_bring(dcp_checkpoint *c, const dcpi_stored *stored, dcpi_lazy *lazy, dcp_error *err) {
    dcpi_op op;                                         /* its own: other threads may map, or read, at the same time */
    dcp_io io = c->op.io;
    dcp_status status;
    io.progress = NULL;
    io.coordinator = NULL;
    status = dcpi_op_begin(&op, &io, err);
    if (!status) status = dcpi_lazy_bring_by(c, &op, stored, lazy, err);
    dcpi_op_tell_warnings(&op, &c->op.warnings);
    return status;
}
static dcp_status dcpi_lazy_begin(dcp_checkpoint *c, dcp_error *err) {  /* under the lock */
    if (c->lazy) return DCP_OK;
    if (!c->has_lazy_changed && dcpi_cond_init(&c->lazy_changed)) return dcpi_no_memory(err, sizeof c->lazy_changed);
    c->has_lazy_changed = 1;
    c->lazy = (dcpi_lazy *)dcpi_alloc_array(c->tensor_count, sizeof *c->lazy, err);
    return c->lazy ? DCP_OK : DCP_E_MEMORY;
}
/* The tensor is there when this returns DCP_OK, and stays until it is released `users` times. */
static dcp_status dcpi_lazy_get(dcp_checkpoint *c, const dcpi_stored *stored, int users, const uint8_t **data,
                                dcp_error *err) {
    dcpi_lazy *lazy;
    dcp_status status;
    dcpi_mutex_lock(&c->lock);
    status = dcpi_lazy_begin(c, err);
    if (status) { dcpi_mutex_unlock(&c->lock); return status; }
    lazy = &c->lazy[stored - c->tensors];
    while (lazy->state == DCPI_LAZY_COMING) dcpi_cond_wait_ms(&c->lazy_changed, &c->lock, 1000);
    if (lazy->state == DCPI_LAZY_NOTHING) {
        lazy->state = DCPI_LAZY_COMING;
        dcpi_mutex_unlock(&c->lock);
        status = dcpi_lazy_bring(c, stored, lazy, err);
        dcpi_mutex_lock(&c->lock);
        lazy->state = status ? DCPI_LAZY_NOTHING : DCPI_LAZY_THERE;
        dcpi_cond_wake_all(&c->lazy_changed);
    }
    if (!status) {
        lazy->users += users;
        *data = lazy->data;
    }
    dcpi_mutex_unlock(&c->lock);
    return status;
}
static dcp_status dcpi_lazy_find(dcp_checkpoint *c, const char *name, const dcpi_stored **out, dcp_error *err) {
    const dcpi_stored *stored = dcpi_stored_find(c, name);
    const dcp_tensor_metadata *piece = stored ? c->pieces[stored->first].meta : NULL;
    if (!stored) return dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\" is not in %s", name, c->path);
    if (stored->info.piece_count != 1)
        return dcpi_fail(err, DCP_E_UNSUPPORTED,
                         "tensor \"%s\" is stored in %d pieces and cannot be mapped as one; use dcp_read_new", name,
                         stored->info.piece_count);
    if (piece->size != stored->info.size || (stored->info.dtype == DCP_OPAQUE && !dcpi_piece_is_whole(piece)))
        return dcpi_fail(err, DCP_E_INCOMPLETE, "tensor \"%s\": its one stored piece is not the whole of it", name);
    if ((uint64_t)stored->info.size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    *out = stored;
    return DCP_OK;
}
DCPDEF dcp_status dcp_map(dcp_checkpoint *checkpoint, const char *name, const void **data, size_t *size,
                          dcp_error *err) {
    const dcpi_stored *stored = NULL;
    const uint8_t *bytes = NULL;
    dcp_error local;
    dcp_status status;
    *data = NULL;
    *size = 0;
    if (!checkpoint || !name) return dcpi_fail(err, DCP_E_INVALID, "dcp_map: checkpoint or name is NULL");
    status = dcpi_lazy_find(checkpoint, name, &stored, &local);
    if (!status && stored->info.size > 0) status = dcpi_lazy_get(checkpoint, stored, 1, &bytes, &local);
    if (status) return dcpi_report_error(status, &local, err);
    *data = bytes;
    *size = (size_t)stored->info.size;
    return err ? dcpi_succeed(err) : DCP_OK;
}
DCPDEF void dcp_release(dcp_checkpoint *checkpoint, const char *name) {
    dcp_checkpoint *c = checkpoint;
    const dcpi_stored *stored = c && name ? dcpi_stored_find(c, name) : NULL;
    dcpi_lazy *lazy = NULL;
    uint8_t *copy;
    if (!stored) return;
    dcpi_mutex_lock(&c->lock);
    if (c->lazy) lazy = &c->lazy[stored - c->tensors];
    if (lazy && lazy->users > 0) lazy->users--;
    if (!lazy || lazy->state != DCPI_LAZY_THERE || lazy->users > 0) { dcpi_mutex_unlock(&c->lock); return; }
    copy = lazy->copy;                              /* taken away under the lock: from here on it can be brought anew */
    memset(lazy, 0, sizeof *lazy);
    if (!copy) dcpi_unmap_file(c, &c->files[c->pieces[stored->first].shard]);
    dcpi_mutex_unlock(&c->lock);
    dcpi_free(copy);
}

/* ---- prefetch: one thread that maps one tensor after the other --------------------------------------------------- */
static void dcpi_prefetch_run(void *checkpoint) {
    dcp_checkpoint *c = (dcp_checkpoint *)checkpoint;
    dcpi_prefetch *p = c->prefetch;
    size_t i;
    int64_t bytes = 0;
    for (i = 0; i < p->count && !dcpi_flag_get(&p->stop); i++) {
        const dcpi_stored *stored = NULL;
        const uint8_t *data;
        p->status = dcpi_lazy_find(c, p->tensors[i]->name, &stored, &p->error);
        if (p->status == DCP_E_UNSUPPORTED) { p->status = DCP_OK; continue; }  /* of several pieces: read it */
        if (!p->status && (!dcpi_add(bytes, stored->info.size, &bytes) || bytes > p->limit)) break;
        if (!p->status && stored->info.size > 0) p->status = dcpi_lazy_get(c, stored, 0, &data, &p->error);
        if (p->status) break;
    }
}
static dcp_status dcpi_prefetch_end(dcp_checkpoint *c, int cancel, dcp_error *err) {
    dcpi_prefetch *p = c->prefetch;
    dcp_status status;
    if (!p) return dcpi_succeed(err);
    if (cancel) dcpi_flag_set(&p->stop, 1);
    if (p->has_thread) dcpi_thread_join(&p->thread);
    status = p->status;
    if (status && err) *err = p->error;
    dcpi_free((void *)p->tensors);
    dcpi_free(p);
    c->prefetch = NULL;
    return status ? status : dcpi_succeed(err);
}
DCPDEF dcp_status dcp_prefetch(dcp_checkpoint *checkpoint, const dcp_select *select, int64_t max_bytes,
                               dcp_error *err) {
    dcp_checkpoint *c = checkpoint;
    dcpi_prefetch *p;
    dcp_status status;
    if (!c || max_bytes < 0)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_prefetch: checkpoint is NULL, or max_bytes is negative");
    (void)dcpi_prefetch_end(c, 1, NULL);                /* what it met is nobody's business any more */
    p = (dcpi_prefetch *)dcpi_alloc_array(1, sizeof *p, err);
    if (!p) return DCP_E_MEMORY;
    p->limit = max_bytes ? max_bytes : (int64_t)c->op.io.memory_budget;
    status = dcp_find(c, select, &p->tensors, &p->count, err);
    if (status) { dcpi_free(p); return status; }
    c->prefetch = p;
    p->has_thread = DCPI_THREADS && dcpi_thread_start(&p->thread, dcpi_prefetch_run, c) == 0;
    if (!p->has_thread) dcpi_prefetch_run(c);           /* no threads: in this call */
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_prefetch_wait(dcp_checkpoint *checkpoint, int cancel, dcp_error *err) {
    if (!checkpoint) return dcpi_fail(err, DCP_E_INVALID, "dcp_prefetch_wait: checkpoint is NULL");
    return dcpi_prefetch_end(checkpoint, cancel, err);
}

DCPDEF void dcp_close(dcp_checkpoint *checkpoint) {
    if (!checkpoint) return;
    (void)dcpi_prefetch_end(checkpoint, 1, NULL);
    dcpi_checkpoint_free(checkpoint);
}

