/* =====================================================================================================================
 * >>stream      The tensors of one rank as one file: filled into aligned buffers, and each buffer hashed and written at
 *               the same time.
 *
 *   calling thread    fill: copies the caller's bytes, in file order, into the next free buffer (so what is hashed is
 *                     what is written, not the caller's memory at another moment); looks at cancel and deadline,
 *                     reports progress
 *   workers           write a filled buffer to the storage, or hash its leaves; whichever is free
 *
 * Bytes of a device are on their way into one buffer while those before it are hashed and written: fill begins the
 * copies of a buffer and, before it hands the one before over ("settled"), waits for that one's.
 *
 * Where the bytes lie in memory just as in the file, and stay as they are (a snapshot of >>async), the buffers are
 * parts of that memory, and fill copies nothing.
 *
 * A buffer ends where a leaf ends, so that leaves are hashed independently, in any order, many at once. Writes must end
 * at a multiple of 4,096 for direct I/O: the few bytes behind that go, out of the buffer (never again from the caller),
 * to the start of the next one.
 * ================================================================================================================== */
/* ---- devices: staging memory, and copies under way, which are waited for in the order in which they began -------- */
static dcp_status dcpi_device_begin(const dcp_tensor *tensor, dcp_error *err) {
    const dcp_device *device = tensor->device;
    dcp_status status;
    (void)dcpi_succeed(err);
    status = dcpi_callback_status(&dcpi_by_device, device->begin(device->context, err), err, "could not begin");
    if (status) dcpi_fail_context(err, "tensor \"%s\": ", tensor->name);
    return status;
}
/* An operation begins: each device of the tensors is told once (those beyond the first 32 perhaps more often). */
static dcp_status dcpi_devices_begin(const dcp_tensor *tensors, size_t count, dcp_error *err) {
    const dcp_device *seen[32];
    size_t i, n, known = 0;
    dcp_status status = DCP_OK;
    for (i = 0; i < count && !status; i++) {
        const dcp_device *device = tensors[i].device;
        if (!device || !device->begin) continue;
        for (n = 0; n < known && seen[n] != device; n++) {}
        if (n < known) continue;
        if (known < DCPI_COUNT(seen)) seen[known++] = device;
        status = dcpi_device_begin(&tensors[i], err);
    }
    return status;
}
#define DCPI_COPIES 32                                  /* under way at once for one thread, at most */

typedef struct dcpi_staging { uint8_t *memory; size_t size; int is_pages; const dcp_device *device; } dcpi_staging;
typedef struct dcpi_copying {
    const dcp_tensor *tensor;
    uint64_t ticket;
    uint8_t *host;
    size_t size;
    int64_t mark;
    int is_in;
} dcpi_copying;
typedef struct dcpi_copies { dcpi_copying items[DCPI_COPIES]; size_t first, count; } dcpi_copies;     /* zero is none */

/* `device` may be NULL. What it cannot give is ordinary memory, and *refused says why, empty otherwise. */
static dcp_status dcpi_staging_make(dcpi_staging *s, const dcp_device *device, size_t size, dcp_error *refused,
                                    dcp_error *err) {
    void *memory = NULL;
    (void)dcpi_succeed(refused);
    s->size = size;
    if (device && device->allocate_host && device->free_host) {
        s->device = device->allocate_host(device->context, size, &memory, refused) == DCP_OK && memory ? device : NULL;
        s->memory = s->device ? (uint8_t *)memory : NULL;
        if (!s->memory && refused->message[0] == '\0') (void)dcpi_fail(refused, DCP_E_DEVICE, "no reason given");
    }
    if (s->memory) return DCP_OK;
    s->memory = (uint8_t *)dcpi_os_pages(size);
    s->is_pages = s->memory != NULL;
    if (!s->memory) s->memory = (uint8_t *)dcpi_alloc(size, err);
    return s->memory ? DCP_OK : DCP_E_MEMORY;
}
static void dcpi_staging_free(dcpi_staging *s) {
    if (!s->memory) return;
    if (s->device) s->device->free_host(s->device->context, s->memory);
    else if (s->is_pages) dcpi_os_pages_free(s->memory, s->size);
    else dcpi_free(s->memory);
    memset(s, 0, sizeof *s);
}
/* What a copy, or the wait for it, returned. */
static dcp_status dcpi_copy_result(const dcp_tensor *tensor, int is_in, dcp_status status, dcp_error *err) {
    status = dcpi_callback_status(&dcpi_by_device, status, err, "could not copy %s it", is_in ? "to" : "from");
    if (status) dcpi_fail_context(err, "tensor \"%s\": ", tensor->name);
    return status;
}
/* Waits for the oldest copy. */
static dcp_status dcpi_copies_wait(dcpi_copies *c, dcp_error *err) {
    const dcpi_copying *copy = &c->items[c->first];
    const dcp_device *device = copy->tensor->device;
    dcp_status status;
    c->first = (c->first + 1) % DCPI_COPIES;
    c->count--;
    (void)dcpi_succeed(err);
    status = dcpi_copy_result(copy->tensor, copy->is_in, device->wait(device->context, copy->ticket, err), err);
    if (status) return status;
    if (!copy->is_in) dcpi_swap_bytes(copy->host, (int64_t)copy->size, dcpi_dtype_width(copy->tensor->dtype));
    return DCP_OK;
}
/* Waits for all copies with marks up to `mark`. */
static dcp_status dcpi_copies_until(dcpi_copies *c, int64_t mark, dcp_error *err) {
    dcp_status status = DCP_OK;
    while (!status && c->count > 0 && c->items[c->first].mark <= mark) status = dcpi_copies_wait(c, err);
    return status;
}
/* Before memory is freed, after a failure too: nothing is under way any more. */
static void dcpi_copies_drain(dcpi_copies *c) {
    dcp_error ignored;
    while (c->count > 0) (void)dcpi_copies_wait(c, &ignored);
}
/* Begins a copy between host memory and bytes [offset, offset + size) of the piece; `mark` (which never falls) says of
 * what it is a part. */
static dcp_status dcpi_copies_begin(dcpi_copies *c, const dcp_tensor *tensor, int is_in, int64_t offset, uint8_t *host,
                                    size_t size, int64_t mark, dcp_error *err) {
    const dcp_device *device = tensor->device;
    dcpi_copying *copy;
    dcp_status status = c->count == DCPI_COPIES ? dcpi_copies_wait(c, err) : DCP_OK;
    if (status) return status;
    copy = &c->items[(c->first + c->count) % DCPI_COPIES];
    copy->tensor = tensor;
    copy->ticket = 0;
    copy->host = host;
    copy->size = size;
    copy->mark = mark;
    copy->is_in = is_in;
    (void)dcpi_succeed(err);
    if (is_in) status = device->copy_in(device->context, tensor, offset, host, size, &copy->ticket, err);
    else status = device->copy_out(device->context, host, tensor, offset, size, &copy->ticket, err);
    status = dcpi_copy_result(tensor, is_in, status, err);
    if (status) return status;
    c->count++;
    return DCP_OK;
}

/* for as many workers as pay by themselves; more with io.threads */
#define DCPI_STREAM_BUFFERS 4
#define DCPI_STREAM_MOST (DCPI_MAX_WORKERS + 2)
#define DCPI_STREAM_LEAVES 1024           /* leaves in one buffer, at most: small tensors fill it before its bytes do */

typedef struct dcpi_stream_part {                       /* one tensor of the file */
    const dcp_tensor *tensor; int64_t offset, size;     /* bytes; offset in the file; sorted, no overlap */
    uint8_t (*digests)[32];                             /* out: one for each block */
} dcpi_stream_part;

typedef struct dcpi_stream_buffer {
    uint8_t *data;
    int64_t start;                                      /* of data[0] in the file, a multiple of 4,096 */
    /* data[fresh..used) are new bytes, the rest is carried; data[0..to_write) is written from here */
    size_t fresh, used, to_write;
    dcpi_sha_job *jobs; uint8_t (*leaves)[32]; size_t leaf_count;
    int written, hashed;
} dcpi_stream_buffer;

typedef struct dcpi_stream {
    /* the owner's order */
    dcpi_op *op;
    dcp_storage *storage; void *object; const char *key;
    const dcpi_stream_part *parts; size_t part_count;
    int64_t start, end, block_size;                     /* bytes [start, end) of the file; start a multiple of 4,096 */
    uint8_t *image;                                     /* those bytes, at a multiple of 4,096, gaps zero; or NULL */
    int is_flat; uint8_t flat_digest[32];        /* out, if is_flat: SHA-256 of those bytes; there are no leaves then */
    int is_serial;                                      /* the calling thread does it all, in order */
    int is_hashed_only;                                 /* nothing is written: `object` is not used */
    int64_t done_before;                                /* bytes of other files, for the progress */
    /* NULL, or told how far the tensors have been read */
    void (*taken)(void *user, int64_t filled_to); void *taken_user;
    /* calling thread */
    dcpi_staging staging; size_t capacity; int buffer_count;
    size_t part; int64_t in_part, filled_to;            /* where fill goes on */
    size_t carried; uint8_t carry[DCPI_OS_DIRECT_ALIGN];
    int64_t settled; dcpi_copies copies;                /* buffers below `settled` have all their bytes */
    dcpi_stream_buffer buffers[DCPI_STREAM_MOST];
    /* shared, under crew.lock; buffer number n lives in buffers[n % buffer_count] */
    dcpi_crew crew;
    /* buffers so far: settled; taken; taken; hashed, and their digests in place */
    int64_t filled, next_write, next_hash, folded;
    int writers, writers_limit, all_filled;
    int64_t bytes_written;
    /* fold: leaves into blocks, strictly in order, under crew.lock */
    size_t fold_part; int64_t fold_at; dcpi_sha fold_sha, flat_sha;
} dcpi_stream;

/* ---- memory: buffers within the budget --------------------------------------------------------------------------- */
/* One for each worker, one that is filled, and one that waits, as far as each can have a MiB of the budget. */
static int dcpi_stream_buffers(int workers, size_t budget) {
    int count = workers < DCPI_STREAM_BUFFERS ? DCPI_STREAM_BUFFERS : workers + 2;
    while (count > DCPI_STREAM_BUFFERS && budget / (size_t)count < DCPI_MIB + DCPI_MIB / 4) count--;
    return count;
}
static dcp_status dcpi_stream_allocate(dcpi_stream *t, int workers, dcp_error *err) {
    const size_t leaf_memory = DCPI_STREAM_LEAVES * (sizeof(dcpi_sha_job) + 32), align = DCPI_OS_DIRECT_ALIGN;
    size_t each, room, budget = t->op->io.memory_budget, i;
    int64_t wanted = dcpi_max(t->end - t->start, 1);
    const dcp_device *device = NULL;
    dcp_error refused;
    dcp_status status;
    t->buffer_count = dcpi_stream_buffers(workers, budget);
    if (budget / (size_t)t->buffer_count < (size_t)DCPI_LEAF + 2 * align + leaf_memory) t->buffer_count = 2;
    t->capacity = (budget / (size_t)t->buffer_count - leaf_memory - 2 * align) / (size_t)DCPI_LEAF * (size_t)DCPI_LEAF;
    t->capacity = (size_t)dcpi_min((int64_t)t->capacity, dcpi_min(DCPI_CHUNK,
                                                                  (wanted + DCPI_LEAF - 1) / DCPI_LEAF * DCPI_LEAF));
    t->buffer_count = (int)dcpi_min(t->buffer_count, (wanted + (int64_t)t->capacity - 1) / (int64_t)t->capacity);
    t->capacity += align;                               /* room for what is carried */
    room = t->image ? 0 : t->capacity;
    each = room + leaf_memory + (align - leaf_memory % align) % align;
    for (i = 0; i < t->part_count && !device; i++) if (t->parts[i].size > 0) device = t->parts[i].tensor->device;
    status = dcpi_staging_make(&t->staging, device, each * (size_t)t->buffer_count + align, &refused, err);
    if (status) return status;
    if (refused.status)
        dcpi_op_log(t->op, DCP_LOG_WARNING, "copies from the device go through ordinary memory, which is slower: %s",
                    refused.message);
    for (i = 0; i < (size_t)t->buffer_count; i++) {
        uint8_t *at = t->staging.memory + i * each + (align - (size_t)((uintptr_t)t->staging.memory % align)) % align;
        t->buffers[i].data = at;
        t->buffers[i].jobs = (dcpi_sha_job *)(void *)(at + room);
        t->buffers[i].leaves = (uint8_t (*)[32])(void *)(at + room + DCPI_STREAM_LEAVES * sizeof(dcpi_sha_job));
    }
    return DCP_OK;
}
static void dcpi_stream_free(dcpi_stream *t) {
    dcpi_copies_drain(&t->copies);
    dcpi_staging_free(&t->staging);
}

/* ---- fill -------------------------------------------------------------------------------------------------------- */
/* Bytes [from, from + size) of the tensor's piece, row-major, little-endian. Those of a device are there when the
 * copies up to `mark` are. */
static dcp_status dcpi_tensor_fetch(dcpi_copies *copies, int64_t mark, const dcp_tensor *tensor, int64_t from,
                                    uint8_t *to, size_t size, dcp_error *err) {
    const int64_t origin[DCP_MAX_DIMS] = {0};
    int64_t stride[DCP_MAX_DIMS];
    dcpi_walk walk;
    if (tensor->device) return dcpi_copies_begin(copies, tensor, 0, from, to, size, mark, err);
    dcpi_effective_stride(tensor, stride);
    (void)dcpi_walk_make(&walk, tensor->ndim, dcp_dtype_bits(tensor->dtype), tensor->shape, tensor->shape, origin,
                         origin, stride);
    dcpi_walk_copy(&walk, from, from + (int64_t)size, to, (uint8_t *)tensor->data, 0);
    dcpi_swap_bytes(to, (int64_t)size, dcpi_dtype_width(tensor->dtype));
    return DCP_OK;
}
static void dcpi_stream_add_leaves(dcpi_stream_buffer *b, size_t size) {
    size_t at;
    for (at = 0; at < size; at += (size_t)DCPI_LEAF) {
        dcpi_sha_job *job = &b->jobs[b->leaf_count];
        job->data = b->data + b->used + at;
        job->size = (size_t)dcpi_min((int64_t)(size - at), DCPI_LEAF);
        job->digest = b->leaves[b->leaf_count++];
    }
}
/* As much of the current tensor as the buffer holds, in whole leaves; 0 bytes when it is full. */
static dcp_status dcpi_stream_fill_part(dcpi_stream *t, int64_t number, size_t *added, dcp_error *err) {
    dcpi_stream_buffer *b = &t->buffers[number % t->buffer_count];
    const dcpi_stream_part *part = &t->parts[t->part];
    int64_t left = part->size - t->in_part, room = (int64_t)(t->capacity - b->used);
    int64_t leaves = dcpi_min(room / DCPI_LEAF, (int64_t)(DCPI_STREAM_LEAVES - b->leaf_count));
    int64_t size = left <= room && (left + DCPI_LEAF - 1) / DCPI_LEAF <=
                   (int64_t)(DCPI_STREAM_LEAVES - b->leaf_count) ? left : leaves * DCPI_LEAF;
    dcp_status status;
    *added = 0;
    if (size == 0) return DCP_OK;
    if (size > left) size = left;
    status = t->image ? DCP_OK : dcpi_tensor_fetch(&t->copies, number, part->tensor, t->in_part, b->data + b->used,
                                                   (size_t)size, err);
    if (status) return status;
    dcpi_stream_add_leaves(b, (size_t)size);
    b->used += (size_t)size;
    t->in_part += size;
    *added = (size_t)size;
    return DCP_OK;
}
static void dcpi_stream_fill_gap(dcpi_stream *t, dcpi_stream_buffer *b, int64_t until) {
    size_t n = (size_t)dcpi_min(until - (b->start + (int64_t)b->used), (int64_t)(t->capacity - b->used));
    if (!t->image) memset(b->data + b->used, 0, n);
    b->used += n;
}
/* The next buffer of the file: room for what the last one carries over, then tensors and gaps until it is full or the
 * file ends. */
static dcp_status dcpi_stream_fill(dcpi_stream *t, int64_t number, int *last, dcp_error *err) {
    dcpi_stream_buffer *b = &t->buffers[number % t->buffer_count];
    size_t added = 1;
    b->start = t->filled_to - (int64_t)t->carried;
    if (t->image) b->data = t->image + (b->start - t->start);
    b->fresh = b->used = t->carried;
    b->leaf_count = 0;
    b->written = b->hashed = 0;
    while (t->part < t->part_count && added > 0) {
        const dcpi_stream_part *part = &t->parts[t->part];
        dcp_status status;
        if (part->size == 0) { t->part++; continue; }
        if (t->in_part == 0) dcpi_stream_fill_gap(t, b, part->offset);
        if (t->in_part == 0 && b->start + (int64_t)b->used < part->offset) break;
        status = dcpi_stream_fill_part(t, number, &added, err);
        if (status) return status;
        if (t->in_part == part->size) { t->part++; t->in_part = 0; }
    }
    *last = t->part == t->part_count;
    t->filled_to = b->start + (int64_t)b->used;
    t->carried = *last ? 0 : b->used % DCPI_OS_DIRECT_ALIGN;
    b->to_write = b->used - t->carried;
    return DCP_OK;
}
/* Buffer `number` has been filled: waits for the copies of those before it, and for its own if nothing could be done
 * meanwhile; then what they carry over goes from each to the next. */
static dcp_status dcpi_stream_settle(dcpi_stream *t, int64_t number, int last, dcp_error *err) {
    const dcpi_copies *c = &t->copies;
    const int is_coming = c->count > 0 && c->items[(c->first + c->count - 1) % DCPI_COPIES].mark == number;
    const int64_t until = is_coming && !last && t->buffer_count > 1 ? number - 1 : number;
    dcp_status status = DCP_OK;
    for (; t->settled <= until; t->settled++) {
        dcpi_stream_buffer *b = &t->buffers[t->settled % t->buffer_count];
        status = dcpi_copies_until(&t->copies, t->settled, err);
        if (status) return status;
        if (t->image) continue;
        memcpy(b->data, t->carry, b->fresh);
        memcpy(t->carry, b->data + b->to_write, b->used - b->to_write);
    }
    return status;
}

/* ---- hash and write ---------------------------------------------------------------------------------------------- */
/* One leaf digest more: the block's own digest if it is the only leaf, else one string of the block's hash. */
static void dcpi_stream_fold_leaf(dcpi_stream *t, const uint8_t *leaf) {
    const dcpi_stream_part *part;
    int64_t block, begin, end;
    while (t->parts[t->fold_part].size == t->fold_at) { t->fold_part++; t->fold_at = 0; }  /* also past empty tensors */
    part = &t->parts[t->fold_part];
    block = t->fold_at / t->block_size;
    begin = block * t->block_size;
    end = dcpi_min(begin + t->block_size, part->size);
    if (end - begin <= DCPI_LEAF) {
        memcpy(part->digests[block], leaf, 32);
        t->fold_at = end;
        return;
    }
    if (t->fold_at == begin) dcpi_sha_init(&t->fold_sha);
    dcpi_sha_update(&t->fold_sha, leaf, 32);
    t->fold_at = dcpi_min(t->fold_at + DCPI_LEAF, end);
    if (t->fold_at == end) dcpi_sha_final(&t->fold_sha, part->digests[block]);
}
static void dcpi_stream_hash(dcpi_stream *t, dcpi_stream_buffer *b) {
    if (t->is_flat) dcpi_sha_update(&t->flat_sha, b->data + b->fresh, b->used - b->fresh);
    else dcpi_sha_many(b->jobs, b->leaf_count);
}
static void dcpi_stream_hashed(dcpi_stream *t, dcpi_stream_buffer *b) {  /* under the lock */
    size_t i;
    b->hashed = 1;
    while (t->folded < t->next_hash) {
        dcpi_stream_buffer *next = &t->buffers[t->folded % t->buffer_count];
        if (!next->hashed) break;
        for (i = 0; i < next->leaf_count && !t->is_flat; i++) dcpi_stream_fold_leaf(t, next->leaves[i]);
        next->hashed = 2;                               /* folded: of no use to anybody any more */
        t->folded++;
    }
}
static dcp_status dcpi_stream_write(dcpi_stream *t, dcpi_stream_buffer *b, dcp_error *err) {
    if (b->to_write == 0 || t->is_hashed_only) return DCP_OK;
    return dcpi_storage_write(t->storage, t->key, t->object, b->start, b->data, b->to_write, err);
}
static int dcpi_stream_is_free(const dcpi_stream *t, int64_t number) {
    /* under the lock: may buffer `number` be filled? */
    const dcpi_stream_buffer *b = &t->buffers[number % t->buffer_count];
    return number < t->buffer_count || (b->written && b->hashed == 2);
}

/* Takes the next thing to do and does it; 0 when there is nothing just now. Called and returns under the lock. */
static int dcpi_stream_work(dcpi_stream *t) {
    dcpi_stream_buffer *b;
    dcp_error error;
    dcp_status status;
    if (t->next_write < t->filled && t->writers < t->writers_limit) {
        b = &t->buffers[t->next_write++ % t->buffer_count];
        t->writers++;
        dcpi_mutex_unlock(&t->crew.lock);
        status = dcpi_stream_write(t, b, &error);
        dcpi_mutex_lock(&t->crew.lock);
        t->writers--;
        b->written = 1;
        if (status) dcpi_crew_fail(&t->crew, &error);
        else t->bytes_written += (int64_t)b->to_write;
    } else if (t->next_hash < t->filled && !(t->is_flat && t->folded < t->next_hash)) {
        b = &t->buffers[t->next_hash++ % t->buffer_count];
        dcpi_mutex_unlock(&t->crew.lock);
        dcpi_stream_hash(t, b);
        dcpi_mutex_lock(&t->crew.lock);
        dcpi_stream_hashed(t, b);
    } else {
        return 0;
    }
    dcpi_cond_wake_all(&t->crew.changed);
    return 1;
}
static void dcpi_stream_worker(void *argument) {
    dcpi_stream *t = (dcpi_stream *)argument;
    dcpi_mutex_lock(&t->crew.lock);
    while (!t->crew.stop && !(t->all_filled && t->next_write == t->filled && t->next_hash == t->filled))
        if (!dcpi_stream_work(t)) dcpi_cond_wait_ms(&t->crew.changed, &t->crew.lock, 1000);
    dcpi_crew_leave(&t->crew);
    dcpi_mutex_unlock(&t->crew.lock);
}

/* ---- driver ------------------------------------------------------------------------------------------------------ */
/* Under the lock: waits, or works where there are no workers, until buffer `number` is free (number < 0: until all is
 * done) or something failed. */
static void dcpi_stream_await(dcpi_stream *t, int64_t number) {
    dcp_error error;
    while (!t->crew.stop) {
        int64_t written = t->bytes_written;
        int ready;
        dcp_status status;
        dcpi_mutex_unlock(&t->crew.lock);
        dcpi_op_report(t->op, t->done_before + written, 0);
        status = dcpi_op_check(t->op, &error);
        dcpi_mutex_lock(&t->crew.lock);
        /* asked now, not before the lock was given up: what changed in between has already woken everybody, and would
         * be slept through */
        ready = number >= 0 ? dcpi_stream_is_free(t, number) : t->folded == t->filled && t->next_write == t->filled &&
                t->writers == 0;
        if (status) dcpi_crew_fail(&t->crew, &error);
        else if (ready) return;
        else if (t->crew.count > 0) dcpi_cond_wait_ms(&t->crew.changed, &t->crew.lock, 100);
        else (void)dcpi_stream_work(t);
    }
}
static void dcpi_stream_produce(dcpi_stream *t) {
    dcp_error error;
    int64_t number;
    int last = t->start == t->end;
    dcpi_mutex_lock(&t->crew.lock);
    for (number = 0; !last; number++) {
        dcp_status status;
        dcpi_stream_await(t, number);
        if (t->crew.stop) break;
        dcpi_mutex_unlock(&t->crew.lock);
        status = dcpi_stream_fill(t, number, &last, &error);
        if (!status) status = dcpi_stream_settle(t, number, last, &error);
        if (!status && t->taken && t->settled == number + 1) t->taken(t->taken_user, t->filled_to);
        dcpi_mutex_lock(&t->crew.lock);
        if (status) dcpi_crew_fail(&t->crew, &error);
        else t->filled = t->settled;
        dcpi_cond_wake_all(&t->crew.changed);
    }
    t->all_filled = 1;
    dcpi_cond_wake_all(&t->crew.changed);
    dcpi_stream_await(t, -1);
    /* after a failure too: a worker may be in a write that takes long */
    while (t->crew.running > 0) {
        dcpi_cond_wait_ms(&t->crew.changed, &t->crew.lock, 100);
        dcpi_mutex_unlock(&t->crew.lock);
        dcpi_op_show_life(t->op);
        dcpi_mutex_lock(&t->crew.lock);
    }
    dcpi_mutex_unlock(&t->crew.lock);
}
/* Writes the parts to the open object and fills in their digests. The object is neither committed nor aborted here. */
static dcp_status dcpi_stream_run(dcpi_stream *t, dcp_error *err) {
    int workers = dcpi_op_threads(t->op, 3);
    dcp_status status = dcpi_stream_allocate(t, workers, err);
    if (!status) status = dcpi_crew_open(&t->crew, err);
    if (status) { dcpi_stream_free(t); return status; }
    t->filled_to = t->start;
    t->writers_limit = (t->storage->flags & DCP_STORAGE_CONCURRENT_WRITE) &&
                       (t->storage->flags & DCP_STORAGE_RANDOM_WRITE) ? 2 : 1;
    dcpi_sha_init(&t->flat_sha);
    /* with other ranks waiting, a single slow write must not keep the calling thread from showing life */
    if (t->is_serial || (t->buffer_count == 1 && t->op->team.world_size == 1)) workers = 0;
    else if (t->end - t->start <= DCPI_LEAF) workers = 1;                /* more would take longer to start */
    dcpi_crew_start(&t->crew, workers, dcpi_stream_worker, t);
    dcpi_stream_produce(t);
    status = dcpi_crew_close(&t->crew, err);
    dcpi_sha_final(&t->flat_sha, t->flat_digest);
    dcpi_stream_free(t);
    return status;
}

