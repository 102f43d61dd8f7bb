/* =====================================================================================================================
 * >>index       Open: find the commit file, read and check the document, and turn it, whatever its layout, into one
 *               index of pieces: tensor, box, file, byte range, digests. Load, verify and map know only that index.
 * ================================================================================================================== */
#define DCPI_LEAF ((int64_t)256 * 1024)                 /* bytes hashed as one string (DESIGN 2.1) */
#define DCPI_CHUNK ((int64_t)4 * 1024 * 1024)           /* bytes in one request to a storage, at most */
#define DCPI_OPEN_FILES 8                               /* files kept open though nobody reads them just now */

typedef struct dcpi_piece { const dcp_tensor_metadata *meta; int shard; } dcpi_piece;

typedef struct dcpi_stored {                            /* a tensor with all its pieces */
    dcp_tensor_info info;
    size_t first;                                  /* of info.piece_count pieces, sorted by global offset, then shard */
    int64_t longest;                        /* the greatest shape[0] of a piece: bounds a search in the sorted pieces */
} dcpi_stored;

/* of one file of a manifest */
typedef struct dcpi_origin { const dcp_manifest_shard *shard; dcp_role role; int64_t layer; } dcpi_origin;

typedef struct dcpi_data_file {                         /* a shard's bytes: a file, or a region of the single file */
    const dcp_shard_metadata *shard;
    char *key;                                          /* NULL until it is first opened */
    int64_t object_size;                                /* of the whole file, by the document */
    void *object; dcp_object_info info;                 /* under the checkpoint's lock, like all below */
    int users, mapped;                                  /* who reads it, and how many tensors of it are mapped */
    /* flat checksum: the file was hashed, when it had this time and its size */
    int is_checked; int64_t checked_modified_ns;
    size_t place;                               /* where it is looked for: 0 beside the document, n in sources[n - 1] */
} dcpi_data_file;

/* What dcp_map has brought of a tensor: see >>lazy. */
enum { DCPI_LAZY_NOTHING, DCPI_LAZY_COMING, DCPI_LAZY_THERE };
/* copy NULL: data are mapped pages */
typedef struct dcpi_lazy { const uint8_t *data; uint8_t *copy; int state, users; } dcpi_lazy;
typedef struct dcpi_prefetch {
    const dcp_tensor_info **tensors; size_t count;
    int64_t limit;
    dcpi_thread thread; int has_thread;
    volatile int stop;
    dcp_status status; dcp_error error;
} dcpi_prefetch;

struct dcp_checkpoint {
    dcpi_op op;
    dcpi_place place;
    char *commit_name, *path, *prefix;        /* of the commit file: its name, its path for people; the prefix's name */
    dcp_layout layout;
    dcp_verify_policy verify; int share_reads;
    dcp_metadata *metadata;
    const dcp_manifest *manifest;                     /* metadata was made from it, and owns it; NULL: another layout */
    const dcpi_origin *origins;                         /* of each shard of metadata, if it was */
    dcpi_place *sources; size_t source_count;           /* where else files are looked for */
    uint8_t *selected;       /* for each shard of the document: whether a selected tensor has pieces there; NULL: all */
    uint8_t digest[32];                           /* of the document's bytes: to see whether it is still the same one */
    dcpi_piece *pieces; size_t piece_count;
    dcpi_stored *tensors; size_t tensor_count;          /* sorted by name */
    void *single;                                       /* the single file, open; else NULL */
    dcpi_data_file *files; size_t file_count;           /* one for each shard of the document */
    dcpi_mutex lock; int has_lock, open_files;
    dcpi_lazy *lazy; dcpi_cond lazy_changed; int has_lazy_changed;      /* for each of tensors, once one was mapped */
    dcpi_prefetch *prefetch;
};

/* ---- commit files ------------------------------------------------------------------------------------------------ */
static char *dcpi_commit_name(const char *prefix, const struct dcpi_commit_kind *kind, dcp_error *err) {
    size_t size = strlen(prefix) + strlen(kind->suffix) + 1;
    char *name = (char *)dcpi_alloc(size, err);
    if (name) (void)snprintf(name, size, "%s%s", prefix, kind->suffix);
    return name;
}
/* The commit files that a prefix has: their number; the first one's kind, and the second's. */
static dcp_status dcpi_commit_find(const dcpi_place *place, const char *prefix, const struct dcpi_commit_kind *found[2],
                                   int *count, dcp_error *err) {
    size_t i;
    *count = 0;
    for (i = 0; i < DCPI_COUNT(dcpi_commit_kinds); i++) {
        dcp_object_info info;
        char *name = dcpi_commit_name(prefix, &dcpi_commit_kinds[i], err), *key = name
                     ? dcpi_place_key(place, name, err) : NULL;
        dcp_error local;
        dcp_status status = key ? dcpi_storage_stat(place->storage, key, &info, &local)
            : dcpi_no_memory(&local, strlen(prefix) + 32);
        dcpi_free(name);
        dcpi_free(key);
        status = dcpi_storage_absent(status, local.sys, &local);
        if (status == DCP_E_NOT_FOUND) continue;
        if (status) { if (err) *err = local; return status; }
        if (*count < 2) found[*count] = &dcpi_commit_kinds[i];
        (*count)++;
    }
    return dcpi_succeed(err);
}
/* The commit file that the path means: itself, or the one that its prefix has. */
static dcp_status dcpi_commit_meant(const dcpi_place *place, char **name, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    int count;
    dcp_status status;
    *name = NULL;
    if (dcpi_commit_kind_of(place->name)) {
        *name = dcpi_copy_text(place->name, err);
        return *name ? DCP_OK : DCP_E_MEMORY;
    }
    status = dcpi_commit_find(place, place->name, found, &count, err);
    if (status) return status;
    if (count == 0)
        return dcpi_fail(err, DCP_E_NOT_FOUND,
                         "there is no checkpoint \"%s%s\" (no %s.metadata.json, .checkpoint, .manifest.json or "
                         ".manifest.yaml)", place->shown, place->name, place->name);
    if (count > 1)
        return dcpi_fail(err, DCP_E_INVALID,
                         "\"%s%s\" has two commit files, %s%s and %s%s; give the path of the one that is meant",
                         place->shown, place->name, place->name, found[0]->suffix, place->name, found[1]->suffix);
    *name = dcpi_commit_name(place->name, found[0], err);
    return *name ? DCP_OK : DCP_E_MEMORY;
}

/* What ends an operation that looks at many documents; others say something of one of them. */
static int dcpi_ends_all(dcp_status status) {
    return status == DCP_E_MEMORY || status == DCP_E_CANCELLED || status == DCP_E_TIMEOUT;
}
/* Trouble of ours or of the storage, which says nothing about the document that was to be read. */
static int dcpi_is_trouble(dcp_status status) {
    return status == DCP_E_IO || status == DCP_E_SPACE || status == DCP_E_COMM || status == DCP_E_UNKNOWN ||
           status == DCP_E_MEMORY || status == DCP_E_CANCELLED || status == DCP_E_TIMEOUT || status == DCP_E_DEVICE;
}

/* ---- documents: the bytes of one commit file, checked and parsed ------------------------------------------------- */
typedef struct dcpi_document {
    dcp_metadata *metadata;
    const dcp_manifest *manifest; const dcpi_origin *origins;           /* as in dcp_checkpoint; the metadata's */
    uint8_t digest[32];
    dcp_object_info info;                               /* of the commit file */
    char *text; size_t size;                            /* its bytes, kept where other ranks wait for them */
    /* after DCP_E_VERSION: its sequence number if it is intact, else -1 */
    int64_t newer;
} dcpi_document;

/* A commit file, open; or, with storage NULL, the first bytes of one in memory: all that stand before the data. */
typedef struct dcpi_reading {
    dcp_storage *storage; const char *key; void *object;
    const char *bytes; size_t count;
} dcpi_reading;
static dcp_status dcpi_reading_read(void *user, int64_t offset, void *data, size_t size, dcp_error *err) {
    dcpi_reading *r = (dcpi_reading *)user;
    if (r->storage) return dcpi_storage_read(r->storage, r->key, r->object, offset, data, size, err);
    if (offset < 0 || (uint64_t)offset > r->count || size > r->count - (size_t)offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the header ends at byte %" PRIu64, (uint64_t)r->count);
    memcpy(data, r->bytes + offset, size);
    return dcpi_succeed(err);
}
static dcp_status dcpi_document_limit(int64_t size, dcp_error *err) {
    if (size <= (int64_t)DCP_LIMIT_DOCUMENT) return DCP_OK;
    return dcpi_fail(err, DCP_E_LIMIT, "the document has %" PRId64 " bytes; DCP_LIMIT_DOCUMENT is %" PRId64, size,
                     (int64_t)DCP_LIMIT_DOCUMENT);
}
/* A file may be large without having anything in it, or be something else. So a document is read in growing pieces,
 * and before there is memory for more, what has been read must look like one. The parser still has to read it. */
#define DCPI_DOCUMENT_PIECE ((size_t)1024 * 1024)
/* no number has more digits, and no comment is as long before the first member */
#define DCPI_SENSE_RUN ((size_t)64 * 1024)
typedef struct dcpi_sense { int is_yaml, in_string, is_escaped, has_member; size_t run; } dcpi_sense;

static int dcpi_sense_json(dcpi_sense *s, unsigned char c) {
    if (s->in_string) {
        if (!s->is_escaped && c == '"') s->in_string = 0;
        s->is_escaped = !s->is_escaped && c == '\\';
        return c >= ' ';
    }
    if (c != '\0' && strchr(" \n\r\t,:{}[]", c)) {
        s->run = 0;
        return 1;
    }
    s->in_string = c == '"';
    return c != '\0' && strchr("\"+-.0123456789Eeaflnrstu", c) && ++s->run <= DCPI_SENSE_RUN;
}
static int dcpi_sense_yaml(dcpi_sense *s, unsigned char c) {
    s->has_member |= c == ':';
    return (c >= ' ' || c == '\n' || c == '\r' || c == '\t') && (s->has_member || ++s->run <= DCPI_SENSE_RUN);
}
/* How many of these bytes may stand in a document. */
static size_t dcpi_sense_of(dcpi_sense *s, const char *text, size_t size) {
    size_t i;
    for (i = 0; i < size; i++)
        if (s->is_yaml ? !dcpi_sense_yaml(s, (unsigned char)text[i]) : !dcpi_sense_json(s, (unsigned char)text[i]))
            break;
    return i;
}
/* The byte at `bad` stands in no document: of one that was sealed it has been damaged. */
static dcp_status dcpi_document_nonsense(dcpi_reading *r, int64_t offset, int64_t size, int is_yaml,
                                         const dcp_verifier *verifier,
                                         uint64_t bad, dcp_error *err) {
    char end[512];
    uint8_t value[32];
    dcpi_tail tail;
    const size_t count = (size_t)dcpi_min(size, (int64_t)sizeof end);
    const dcp_status status = dcpi_reading_read(r, offset + size - (int64_t)count, end, count, err);
    if (status) return status;
    dcpi_tail_find(end, count, is_yaml ? &dcpi_tail_yaml : &dcpi_tail_json, &tail, value);
    if (verifier)
        return dcpi_fail(err, DCP_E_SIGNATURE,
                         "byte %" PRIu64 " is none of a document: damaged, or never one that was signed", bad);
    if (tail.present)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "the document is damaged: byte %" PRIu64 " is none that was written there", bad);
    return dcpi_fail(err, DCP_E_FORMAT, "byte %" PRIu64 " is none of a document", bad);
}
/* More memory for a text of `size` bytes, of which `used` are there. */
static dcp_status dcpi_document_grow(dcpi_document *out, size_t used, int64_t size, size_t *capacity, dcp_error *err) {
    char *text;
    *capacity = (size_t)dcpi_min(size, used == 0 ? (int64_t)DCPI_DOCUMENT_PIECE : 2 * (int64_t)used);
    text = (char *)DCP_REALLOC(out->text, *capacity + 1);
    if (!text) return dcpi_no_memory(err, *capacity + 1);
    out->text = text;
    return DCP_OK;
}
/* `size` bytes from `offset` on, and a NUL behind them. The caller frees out->text, whatever comes. op NULL: nobody
 * can cancel. */
static dcp_status dcpi_document_take(dcpi_op *op, dcpi_reading *r, int64_t offset, int64_t size, int is_manifest,
                                     const dcp_verifier *verifier, dcpi_document *out, dcp_error *err) {
    dcpi_sense sense;
    size_t capacity = 0, at = 0, made = 0, n;
    dcp_status status = DCP_OK;
    if (size < 0 || (uint64_t)size >= SIZE_MAX) return dcpi_no_memory(err, SIZE_MAX);
    memset(&sense, 0, sizeof sense);
    do {
        if (at > 0 && made == 0) sense.is_yaml = is_manifest && dcpi_manifest_is_yaml(out->text, at);
        if (at > 0) made += dcpi_sense_of(&sense, out->text + made, at - made);
        if (made < at) {
            out->size = at;
            return dcpi_document_nonsense(r, offset, size, sense.is_yaml, verifier, (uint64_t)made, err);
        }
        status = dcpi_document_grow(out, at, size, &capacity, err);
        for (; at < capacity && !status; at += n) {
            n = (size_t)dcpi_min((int64_t)(capacity - at), (int64_t)(4 * DCPI_MIB));
            status = op ? dcpi_op_check(op, err) : DCP_OK;
            if (!status) status = dcpi_reading_read(r, offset + (int64_t)at, out->text + at, n, err);
        }
    } while (!status && (int64_t)at < size);
    if (status) return status;
    out->size = at;
    out->text[at] = '\0';
    return DCP_OK;
}
/* The document's bytes as they stand in its file, and their digest. */
static dcp_status dcpi_document_fetch_json(dcpi_op *op, dcpi_reading *r, dcp_layout layout,
                                           const dcp_verifier *verifier,
                                           dcpi_document *out, dcp_error *err) {
    const dcp_status status = dcpi_document_limit(out->info.size, err);
    return status ? status : dcpi_document_take(op, r, 0, out->info.size, layout == DCP_LAYOUT_MANIFEST, verifier,
                                                out, err);
}
static dcp_status dcpi_document_find_single(dcpi_reading *r, int64_t size, int64_t *json_offset, int64_t *json_size,
                                            dcp_error *err) {
    uint8_t head[4096];
    const int64_t head_size = dcpi_min(size, (int64_t)sizeof head);
    char version[32];
    dcp_status status = dcpi_reading_read(r, 0, head, (size_t)head_size, err);
    if (!status) status = dcpi_file_prefix(head, (size_t)head_size, size, json_offset, json_size, version, err);
    return status ? status : dcpi_document_limit(*json_size, err);
}
static dcp_status dcpi_document_fetch_single(dcpi_op *op, dcpi_reading *r, const dcp_verifier *verifier,
                                             dcpi_document *out,
                                             dcp_error *err) {
    int64_t offset = 0, size = 0;
    const dcp_status status = dcpi_document_find_single(r, out->info.size, &offset, &size, err);
    return status ? status : dcpi_document_take(op, r, offset, size, 0, verifier, out, err);
}
/* In the place of its digest, of what is no document and was not read whole: enough to tell it from another file. */
static void dcpi_document_mark(dcpi_document *out) {
    dcpi_sha sha;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, out->text, out->size);
    dcpi_sha_update(&sha, &out->info.size, sizeof out->info.size);
    dcpi_sha_update(&sha, &out->info.modified_ns, sizeof out->info.modified_ns);
    dcpi_sha_final(&sha, out->digest);
}
static dcp_status dcpi_document_fetch(dcpi_op *op, dcpi_reading *r, dcp_layout layout, const dcp_verifier *verifier,
                                      dcpi_document *out, dcp_error *err) {
    dcp_status status;
    if (layout == DCP_LAYOUT_SINGLE) status = dcpi_document_fetch_single(op, r, verifier, out, err);
    else status = dcpi_document_fetch_json(op, r, layout, verifier, out, err);
    if (!status) dcp_sha256(out->text, out->size, out->digest);
    else if (out->text && !dcpi_is_trouble(status)) dcpi_document_mark(out);
    return status;
}
/* ---- the manifest as metadata: one shard for each file that it names, one tensor in each. The texts stay the
 * manifest's. */
/* What an entry is called that has only an expert key. */
static const char *dcpi_origin_name(dcpi_meta *meta, const dcp_manifest_shard *shard, dcp_error *err) {
    char name[80];
    if (shard->tensor_name) return shard->tensor_name;
    (void)snprintf(name, sizeof name, "experts/%" PRId64 "/%" PRId64 "/%" PRId64, shard->expert_key[0],
                   shard->expert_key[1], shard->expert_key[2]);
    return dcpi_arena_text(&meta->arena, name, strlen(name), err);
}
/* The document may not have been validated yet: what makes no sense is 0 here, and an error there. */
static int64_t dcpi_origin_size(const dcp_manifest_shard *shard) {
    int64_t elements = 1, size = 0;
    int d;
    if (shard->size >= 0) return shard->size;
    for (d = 0; d < shard->ndim; d++)
        if (shard->shape[d] < 0 || !dcpi_mul(elements, shard->shape[d], &elements)) return 0;
    return shard->dtype && dcpi_dtype_size(dcp_dtype_parse(shard->dtype), elements, &size) ? size : 0;
}
static dcp_status dcpi_origin_describe(dcpi_meta *meta, const dcp_manifest_shard *from, dcp_shard_metadata *shard,
                                       dcp_tensor_metadata *tensor, dcp_error *err) {
    shard->rank = from->rank >= 0 ? from->rank : 0;
    shard->file_path = from->path;
    shard->checksum = from->checksum;
    shard->tensors = tensor;
    shard->tensor_count = 1;
    tensor->name = dcpi_origin_name(meta, from, err);
    if (!tensor->name) return DCP_E_MEMORY;
    tensor->ndim = from->ndim > 0 ? from->ndim : 0;
    tensor->data_type = from->dtype ? from->dtype : "";
    tensor->size = dcpi_origin_size(from);
    shard->file_size = tensor->size;
    tensor->placement = from->placement;
    tensor->block_size = from->block_size;
    tensor->block_checksums = from->block_checksums;
    tensor->block_count = from->block_count;
    memcpy(tensor->shape, from->shape, sizeof tensor->shape);
    memcpy(tensor->global_shape, dcpi_manifest_whole(from), sizeof tensor->global_shape);
    memcpy(tensor->global_offset, from->global_offset, sizeof tensor->global_offset);
    return DCP_OK;
}
/* All entries that name a file with a tensor in it. Returns their number; out: may be NULL. */
static size_t dcpi_origin_list(const dcp_manifest *m, dcpi_origin *out) {
    const dcp_manifest_state *const states[2] = { &m->optim_state, &m->router_state };
    size_t n = 0, i, k, e;
    for (i = 0; i < m->shard_count; i++, n++) {
        if (!out) continue;
        out[n].shard = &m->shards[i];
        out[n].role = m->shards[i].has_expert_key ? DCP_ROLE_EXPERT : DCP_ROLE_PARAMETER;
        out[n].layer = -1;
    }
    for (k = 0; k < 2; k++) {
        for (i = 0; i < states[k]->shard_count; i++, n++) {
            if (!out) continue;
            out[n].shard = &states[k]->shards[i];
            out[n].role = k ? DCP_ROLE_ROUTER : DCP_ROLE_OPTIMIZER;
            out[n].layer = -1;
        }
        for (i = 0; i < states[k]->layer_count; i++) {
            for (e = 0; e < states[k]->layers[i].shard_count; e++, n++) {
                if (!out) continue;
                out[n].shard = &states[k]->layers[i].shards[e];
                out[n].role = DCP_ROLE_ROUTER;
                out[n].layer = states[k]->layers[i].layer;
            }
        }
    }
    return n;
}
/* A seed's optimizer and router state may be just the path of a file that says nothing of tensors: behind the others,
 * a shard without any, whose size is not known (-1). Returns their number; out: may be NULL. */
static size_t dcpi_origin_list_states(const dcp_manifest *m, dcp_manifest_shard *shards, dcpi_origin *out) {
    const dcp_manifest_state *const states[2] = { &m->optim_state, &m->router_state };
    size_t n = 0, k;
    for (k = 0; k < 2; k++) {
        if (!states[k]->path) continue;
        if (out) {
            shards[n].path = states[k]->path;
            shards[n].ndim = shards[n].rank = -1;
            shards[n].size = -1;
            out[n].shard = &shards[n];
            out[n].role = k ? DCP_ROLE_ROUTER : DCP_ROLE_OPTIMIZER;
            out[n].layer = -1;
        }
        n++;
    }
    return n;
}
/* Pieces of one tensor of which nothing says how they fit together, as a seed's manifest may list them: each is read
 * on its own, as of rank 0, 1, 2 and so on, in the order of the document. */
static int dcpi_origin_compare_parts(const void *a, const void *b) {
    const dcp_shard_metadata *x = (const dcp_shard_metadata *)a, *y = (const dcp_shard_metadata *)b;
    const int order = strcmp(x->tensors->name, y->tensors->name);
    return order ? order : x < y ? -1 : x > y;
}
static dcp_status dcpi_origin_number_parts(dcp_shard_metadata *shards, size_t count, dcp_error *err) {
    dcp_shard_metadata **order = (dcp_shard_metadata **)dcpi_alloc_array(count, sizeof *order, err);
    size_t i, n = 0;
    dcp_status status;
    if (!order) return DCP_E_MEMORY;
    for (i = 0; i < count; i++) if (!shards[i].tensors->placement) order[n++] = &shards[i];
    status = dcpi_sort((const void **)(void *)order, n, dcpi_origin_compare_parts, err);
    for (i = 1; i < n && !status; i++) {
        if (strcmp(order[i]->tensors->name, order[i - 1]->tensors->name) != 0) continue;
        if (i == 1 || strcmp(order[i - 1]->tensors->name, order[i - 2]->tensors->name) != 0) order[i - 1]->rank = 0;
        order[i]->rank = order[i - 1]->rank + 1;
    }
    dcpi_free((void *)order);
    return status;
}
static void dcpi_document_free_manifest(void *manifest) { dcp_manifest_free((dcp_manifest *)manifest); }

static void dcpi_document_copy_head(dcp_metadata *to, const dcp_manifest *from) {
    to->version = DCP_FORMAT_VERSION;
    to->timestamp = from->timestamp;
    to->save_id = from->save_id;
    to->sequence = from->sequence;
    to->world_size = from->world_size > 0 ? from->world_size : 1;
    to->sharding = from->sharding;
    to->has_training = 1;
    to->training = from->training;
    to->training.epoch = from->epoch;
    to->training.step = from->step;
    to->fields = from->fields;
    to->field_count = from->field_count;
    to->signature_algorithm = from->signature_algorithm;
    to->signature_key = from->signature_key;
    to->is_foreign = from->is_foreign;
}
static dcp_status dcpi_document_from_manifest(dcp_manifest *manifest, dcpi_document *out, dcp_error *err) {
    const size_t count = dcpi_origin_list(manifest, NULL), states = dcpi_origin_list_states(manifest, NULL, NULL);
    dcpi_meta *meta;
    dcpi_origin *origins;
    dcp_shard_metadata *shards;
    dcp_tensor_metadata *tensors;
    dcp_manifest_shard *files;
    size_t i;
    dcp_status status = dcp_metadata_new(&out->metadata, err);
    if (status) { dcp_manifest_free(manifest); return status; }
    meta = dcpi_meta_of(out->metadata);
    meta->kept = manifest;
    meta->free_kept = dcpi_document_free_manifest;
    meta->is_parsed = 1;
    dcpi_document_copy_head(out->metadata, manifest);
    origins = (dcpi_origin *)dcpi_arena_array(&meta->arena, count + states, sizeof *origins, err);
    shards = origins ? (dcp_shard_metadata *)dcpi_arena_array(&meta->arena, count + states, sizeof *shards, err) : NULL;
    tensors = shards ? (dcp_tensor_metadata *)dcpi_arena_array(&meta->arena, count, sizeof *tensors, err) : NULL;
    files = tensors ? (dcp_manifest_shard *)dcpi_arena_array(&meta->arena, states, sizeof *files, err) : NULL;
    if (!files) return DCP_E_MEMORY;
    (void)dcpi_origin_list(manifest, origins);
    (void)dcpi_origin_list_states(manifest, files, origins + count);
    for (i = 0; i < count && !status; i++)
        status = dcpi_origin_describe(meta, origins[i].shard, &shards[i], &tensors[i], err);
    if (!status) status = dcpi_origin_number_parts(shards, count, err);
    for (i = 0; i < states; i++) {
        shards[count + i].file_path = files[i].path;
        shards[count + i].file_size = -1;
    }
    out->metadata->shards = shards;
    out->metadata->shard_count = count + states;
    out->manifest = manifest;
    out->origins = origins;
    return status;
}
static dcp_status dcpi_document_parse_manifest(const char *text, size_t size, const dcp_verifier *verifier,
                                               dcpi_document *out, dcp_error *err) {
    dcp_manifest *manifest;
    dcp_status status = dcpi_manifest_parse(text, size, verifier, &manifest, err);
    return status ? status : dcpi_document_from_manifest(manifest, out, err);
}
/* Parsed; of the single file every byte before the data is compared with what the JSON says must stand there. */
static dcp_status dcpi_document_parse(dcpi_reading *r, dcp_layout layout, const dcp_verifier *verifier,
                                      dcpi_document *out, dcp_error *err) {
    const int is_single = layout == DCP_LAYOUT_SINGLE;
    dcp_status status;
    if (layout == DCP_LAYOUT_MANIFEST) return dcpi_document_parse_manifest(out->text, out->size, verifier, out, err);
    status = dcpi_meta_parse(out->text, out->size, is_single ? "checkpoint/json" : "metadata/json", verifier,
                             &out->metadata, err);
    if (status || !is_single) return status;
    return dcpi_file_check(out->metadata, out->text, out->size, dcpi_reading_read, r, out->info.size, err);
}
static void dcpi_document_free(dcpi_document *document) {
    dcp_metadata_free(document->metadata);
    dcpi_free(document->text);
    document->metadata = NULL;
    document->manifest = NULL;
    document->text = NULL;
}
static dcp_status dcpi_document_validate(const dcpi_document *document, const char *name, dcp_validation *found,
                                         dcp_error *err) {
    if (document->manifest) return dcpi_manifest_check(document->manifest, name, found, err);
    return dcpi_meta_check(document->metadata, name, found, err);
}
static dcp_status dcpi_document_check(dcpi_op *op, const dcpi_place *place, const char *name,
                                      const dcpi_document *document, dcp_error *err) {
    dcp_validation found;
    size_t i;
    dcp_status status = dcpi_document_validate(document, name, &found, err);
    if (!status && !dcpi_key_is_portable(name))
        dcpi_op_log(op, DCP_LOG_WARNING, "%s%s: %s", place->shown, name, dcpi_portable_words);
    if (status) dcpi_fail_context(err, "%s", place->shown);
    for (i = 0; i < found.warning_count && !status; i++)
        dcpi_op_log(op, DCP_LOG_WARNING, "%s%s: %s", place->shown, name, found.warnings[i]);
    dcp_validation_free(&found);
    return status;
}
/* Would an open accept this commit file? For one who is about to write it: by the very same functions. bytes: the
 * document, or all of a single file that stands before its data, of which there will be file_size bytes with it. */
static dcp_status dcpi_document_accept(dcp_layout layout, const char *name, char *bytes, size_t count,
                                       int64_t file_size,
                                       uint8_t digest[32], dcp_error *err) {
    const int is_single = layout == DCP_LAYOUT_SINGLE;
    dcp_validation found;
    dcpi_document document;
    dcpi_reading r;
    dcp_status status;
    memset(&document, 0, sizeof document);
    memset(&found, 0, sizeof found);
    memset(&r, 0, sizeof r);
    r.bytes = bytes;
    r.count = count;
    document.info.size = file_size;
    if (is_single) status = dcpi_document_fetch_single(NULL, &r, NULL, &document, err);
    else status = dcpi_document_limit((int64_t)count, err);
    if (!is_single) {
        document.text = bytes;
        document.size = count;
    }
    if (!status) dcp_sha256(document.text, document.size, digest);
    if (!status) status = dcpi_document_parse(&r, layout, NULL, &document, err);
    if (!status) status = dcpi_document_validate(&document, name, &found, err);
    dcp_validation_free(&found);
    if (!is_single) document.text = NULL;
    dcpi_document_free(&document);
    return status;
}
/* ---- what a document says of its sequence number, read out of it without all the rest */
#define DCPI_CLAIM_UNKNOWN INT64_MAX                    /* as high as it gets */

/* What these bytes of a JSON document, which may end anywhere, say of its number. */
static int64_t dcpi_claim_json(const char *text, size_t size) {
    static const char *const names[] = { "sequence" };
    dcpi_arena arena = { NULL };
    dcpi_json_reader r;
    dcpi_json_object o;
    dcp_error ignored;
    int64_t claim = 0;                                  /* of a whole document that has none */
    int goes_on, is_found = 0;
    dcpi_json_begin(&r, text, size, &arena, &ignored);
    goes_on = dcpi_json_peek(&r) == '{' && dcpi_json_object_begin(&r, &o, names, 1);
    while (goes_on && !is_found && dcpi_json_member(&r, &o)) {
        is_found = o.member == 0;
        if (!is_found) goes_on = dcpi_json_skip(&r, NULL);
        else goes_on = dcpi_json_null(&r) || (dcpi_json_int64(&r, &claim) && r.at < r.end);
    }
    if (!goes_on || r.status) claim = DCPI_CLAIM_UNKNOWN;
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    return dcpi_max(claim, 0);
}
/* Of YAML, as many members as are whole: up to the last line that begins one. */
static int64_t dcpi_claim_yaml(const char *text, size_t size) {
    dcpi_yaml yaml;
    dcp_error ignored;
    int64_t claim = DCPI_CLAIM_UNKNOWN;
    while (size > 0 && (text[size - 1] != '\n' || text[size] == ' ' || text[size] == '-' || text[size] == '#')) size--;
    if (size == 0) return claim;
    if (dcpi_yaml_to_json(text, size, SIZE_MAX, &yaml, &ignored) == DCP_OK)
        claim = dcpi_claim_json(yaml.out.data, yaml.out.size);
    dcpi_buffer_free(&yaml.out);
    return claim > 0 ? claim : DCPI_CLAIM_UNKNOWN;      /* it may come later */
}
/* The number of a document of a newer version of the format: its other rules are not known here, but how it is sealed
 * is. -1: none. */
static int64_t dcpi_document_newer(dcp_layout layout, const dcp_verifier *verifier, const char *text, size_t size) {
    const int is_yaml = text && layout == DCP_LAYOUT_MANIFEST && dcpi_manifest_is_yaml(text, size);
    const char *type = layout == DCP_LAYOUT_SINGLE    ? DCPI_TYPE_CHECKPOINT
                       : layout == DCP_LAYOUT_SHARDED ? DCPI_TYPE_METADATA
                       : is_yaml                      ? DCPI_TYPE_MANIFEST_YAML
                                                      : DCPI_TYPE_MANIFEST;
    dcp_error ignored;
    dcpi_tail tail;
    int64_t claim;
    if (!text || dcpi_integrity_check(type, text, size, verifier, &tail, &ignored) || !tail.present) return -1;
    claim = is_yaml ? dcpi_claim_yaml(text, size) : dcpi_claim_json(text, size);
    return claim == DCPI_CLAIM_UNKNOWN ? -1 : claim;
}
static dcp_status dcpi_document_read_once(dcpi_op *op, const dcpi_place *place, const char *name,
                                          const dcp_verifier *verifier,
                                          dcpi_document *out, void **object, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(name);
    dcpi_reading r;
    char *key = dcpi_place_key(place, name, err);
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!key) return DCP_E_MEMORY;
    r.storage = place->storage;
    r.key = key;
    status = dcpi_storage_open_object(r.storage, key, &r.object, &out->info, err);
    if (status && err) status = dcpi_storage_absent(status, err->sys, err);
    if (!status) {
        const dcp_layout layout = kind ? kind->layout : DCP_LAYOUT_SHARDED;
        status = dcpi_document_fetch(op, &r, layout, verifier, out, err);
        if (!status) status = dcpi_document_parse(&r, layout, verifier, out, err);
        if (status) dcpi_fail_context(err, "%s%s: ", place->shown, name);
        else status = dcpi_document_check(op, place, name, out, err);
        out->newer = status == DCP_E_VERSION ? dcpi_document_newer(layout, verifier, out->text, out->size) : -1;
        if (object && !status) *object = r.object;
        else dcpi_storage_close_object(r.storage, r.object);
    }
    if (status) dcpi_document_free(out);
    dcpi_free(key);
    return status;
}
/* Reads, checks, parses and validates. What a message says of the file is put before it here. `object`, if given, gets
 * the open file: its bytes are those that were checked, even if the file is replaced now. */
static dcp_status dcpi_document_read_from(dcpi_op *op, const dcpi_place *place, const char *name,
                                          const dcp_verifier *verifier,
                                          dcpi_document *out, void **object, dcp_error *err) {
    dcp_error local;
    int attempt = 0;
    dcp_status status;
    do status = dcpi_document_read_once(op, place, name, verifier, out, object, &local);
    while (status && dcpi_op_again(op, ++attempt, "reading a document", &local));
    if (!status) return dcpi_succeed(err);
    if (err) *err = local;
    return local.status;
}
static dcp_status dcpi_document_read(dcpi_op *op, const dcpi_place *place, const char *name,
                                     const dcp_verifier *verifier, dcpi_document *out, dcp_error *err) {
    dcp_status status = dcpi_document_read_from(op, place, name, verifier, out, NULL, err);
    dcpi_free(out->text);
    out->text = NULL;
    return status;
}
static dcp_status dcpi_document_digest_once(dcpi_op *op, const dcpi_place *place, const char *name, uint8_t digest[32],
                                            dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(name);
    dcpi_document document;
    dcpi_reading r;
    char *key = dcpi_place_key(place, name, err);
    dcp_status status;
    memset(&document, 0, sizeof document);
    memset(&r, 0, sizeof r);
    memset(digest, 0, 32);
    if (!key) return DCP_E_MEMORY;
    r.storage = place->storage;
    r.key = key;
    status = dcpi_storage_open_object(r.storage, key, &r.object, &document.info, err);
    if (!status) {
        status = dcpi_document_fetch(op, &r, kind ? kind->layout : DCP_LAYOUT_SHARDED, NULL, &document, err);
        memcpy(digest, document.digest, 32);
        dcpi_storage_close_object(r.storage, r.object);
    }
    dcpi_document_free(&document);
    dcpi_free(key);
    return status;
}
/* Only what a commit file's document is, not what it says: enough to see whether it is still the same one. */
static dcp_status dcpi_document_digest(dcpi_op *op, const dcpi_place *place, const char *name, uint8_t digest[32],
                                       dcp_error *err) {
    dcp_error local;
    int attempt = 0;
    dcp_status status;
    do status = dcpi_document_digest_once(op, place, name, digest, &local);
    while (status && dcpi_op_again(op, ++attempt, "reading a document", &local));
    if (!status) return dcpi_succeed(err);
    if (err) *err = local;
    return local.status;
}

/* ---- the index --------------------------------------------------------------------------------------------------- */
static const int64_t *dcpi_piece_whole(const dcp_tensor_metadata *meta) {
    return meta->placement ? meta->global_shape : meta->shape;
}

static int dcpi_piece_is_whole(const dcp_tensor_metadata *meta) {
    return memcmp(meta->shape, dcpi_piece_whole(meta), sizeof meta->shape) == 0;
}
static int dcpi_piece_compare(const void *a_, const void *b_) {
    const dcpi_piece *a = (const dcpi_piece *)a_, *b = (const dcpi_piece *)b_;
    int order = strcmp(a->meta->name, b->meta->name), d;
    if (order) return order;
    for (d = 0; d < a->meta->ndim && d < b->meta->ndim; d++)
        if (a->meta->global_offset[d] != b->meta->global_offset[d])
            return a->meta->global_offset[d] < b->meta->global_offset[d] ? -1 : 1;
    return a->shard < b->shard ? -1 : a->shard > b->shard;
}
static dcp_status dcpi_index_pieces(dcp_checkpoint *c, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    const dcpi_piece **order;
    dcpi_piece *unsorted;
    dcp_status status;
    size_t s, t, n = 0;
    for (s = 0; s < m->shard_count; s++) c->piece_count += m->shards[s].tensor_count;
    unsorted = (dcpi_piece *)dcpi_alloc_array(c->piece_count, sizeof *unsorted, err);
    order = unsorted ? (const dcpi_piece **)dcpi_alloc_array(c->piece_count, sizeof *order, err) : NULL;
    c->pieces = order ? (dcpi_piece *)dcpi_alloc_array(c->piece_count, sizeof *c->pieces, err) : NULL;
    if (!c->pieces) { dcpi_free(unsorted); dcpi_free((void *)order); return DCP_E_MEMORY; }
    for (s = 0; s < m->shard_count; s++) {
        for (t = 0; t < m->shards[s].tensor_count; t++, n++) {
            unsorted[n].meta = &m->shards[s].tensors[t];
            unsorted[n].shard = (int)s;
            order[n] = &unsorted[n];
        }
    }
    status = dcpi_sort((const void **)order, n, dcpi_piece_compare, err);
    for (n = 0; n < c->piece_count && !status; n++) c->pieces[n] = *order[n];
    dcpi_free((void *)order);
    dcpi_free(unsorted);
    return status;
}
static dcp_placement dcpi_stored_placement(const dcpi_stored *stored, const dcpi_piece *pieces) {
    const char *word = pieces[stored->first].meta->placement;
    /* a seed's document: every rank wrote its own */
    if (!word) return stored->info.piece_count == 1 ? DCP_PLACE_REPLICATED : DCP_PLACE_PRIVATE;
    if (strcmp(word, "sharded") == 0) return DCP_PLACE_SHARDED;
    return strcmp(word, "private") == 0 ? DCP_PLACE_PRIVATE : DCP_PLACE_REPLICATED;
}
static void dcpi_stored_fill_origin(dcp_tensor_info *info, const dcpi_origin *origin) {
    info->expert_key[0] = info->expert_key[1] = info->expert_key[2] = -1;
    if (!origin) return;
    info->role = origin->role;
    info->tier = origin->shard->tier_hint;
    info->version = origin->shard->version;
    if (origin->shard->has_expert_key) memcpy(info->expert_key, origin->shard->expert_key, sizeof info->expert_key);
    if (origin->role == DCP_ROLE_ROUTER) info->expert_key[0] = origin->layer;
}
static void dcpi_stored_fill(dcpi_stored *stored, const dcpi_piece *pieces) {
    const dcp_tensor_metadata *meta = pieces[stored->first].meta;
    dcp_tensor_info *info = &stored->info;
    int i;
    info->name = meta->name;
    info->dtype = dcp_dtype_parse(meta->data_type);
    info->dtype_name = meta->data_type;
    info->ndim = meta->ndim;
    info->placement = dcpi_stored_placement(stored, pieces);
    memcpy(info->shape, info->placement == DCP_PLACE_PRIVATE ? meta->shape : dcpi_piece_whole(meta),
           sizeof info->shape);
    if (info->dtype == DCP_OPAQUE) info->size = meta->size;
    else (void)dcpi_dtype_size(info->dtype, dcpi_box_elements(info->ndim, info->shape), &info->size);
    for (i = 0; i < info->piece_count; i++)
        stored->longest = dcpi_max(stored->longest, pieces[stored->first + (size_t)i].meta->ndim
                                   ? pieces[stored->first + (size_t)i].meta->shape[0] : 1);
}
static dcp_status dcpi_index_tensors(dcp_checkpoint *c, dcp_error *err) {
    size_t i, n = 0;
    for (i = 0; i < c->piece_count; i++)
        if (i == 0 || strcmp(c->pieces[i].meta->name, c->pieces[i - 1].meta->name) != 0) n++;
    c->tensors = (dcpi_stored *)dcpi_alloc_array(n, sizeof *c->tensors, err);
    if (!c->tensors) return DCP_E_MEMORY;
    for (i = 0; i < c->piece_count; i++) {
        if (i == 0 || strcmp(c->pieces[i].meta->name, c->pieces[i - 1].meta->name) != 0)
            c->tensors[c->tensor_count++].first = i;
        c->tensors[c->tensor_count - 1].info.piece_count++;
    }
    for (i = 0; i < c->tensor_count; i++) {
        dcpi_stored_fill(&c->tensors[i], c->pieces);
        dcpi_stored_fill_origin(&c->tensors[i].info,
                                c->origins ? &c->origins[c->pieces[c->tensors[i].first].shard] : NULL);
    }
    return DCP_OK;
}

/* ---- selection: which tensors are meant -------------------------------------------------------------------------- */
static int dcpi_text_matches(const char *pattern, const char *text) {
    /* `*` and `?`; one step back at most: linear in each star */
    const char *star = NULL, *from = text;
    while (*text) {
        if (*pattern == '*') { star = ++pattern; from = text; }
        else if (*pattern && (*pattern == '?' || *pattern == *text)) { pattern++; text++; }
        else if (star) { pattern = star; text = ++from; }
        else return 0;
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}
/* A tier is meant by its name, or by its id in decimal. */
static int dcpi_tier_is(const dcp_tier *tier, const char *wanted) {
    char id[24];
    if (strcmp(tier->name, wanted) == 0) return 1;
    if (wanted[0] > '9') return 0;                     /* spares most of the tensors of a large manifest the printing */
    (void)snprintf(id, sizeof id, "%" PRId64, tier->tier_id);
    return strcmp(id, wanted) == 0;
}
static int dcpi_select_is_tier(const dcp_manifest *m, const char *wanted, const dcp_tensor_info *info) {
    size_t i;
    if (info->tier && strcmp(info->tier, wanted) == 0) return 1;
    for (i = 0; m && i < m->tier_count; i++) {
        const dcp_tier *tier = &m->tiers[i].tier;
        if (!dcpi_tier_is(tier, wanted)) continue;
        if (info->tier) return dcpi_tier_is(tier, info->tier);
        return info->role == DCP_ROLE_EXPERT && info->expert_key[0] == tier->tier_id;
    }
    return 0;
}
static int dcpi_select_has_key(const dcp_select *s, const dcp_tensor_info *info) {
    size_t i;
    int k;
    if (info->role != DCP_ROLE_EXPERT) return 0;
    for (i = 0; i < s->expert_count; i++) {
        for (k = 0; k < 3 && (s->expert_keys[i][k] < 0 || s->expert_keys[i][k] == info->expert_key[k]);) k++;
        if (k == 3) return 1;
    }
    return 0;
}
/* index: of the tensor in the sorted list of all names */
static int dcpi_select_takes(const dcp_checkpoint *c, const dcp_select *s, const dcp_tensor_info *info, size_t index) {
    size_t i;
    if (!s) return 1;
    if (s->part_count > 0 && index % (size_t)s->part_count != (size_t)s->part) return 0;
    for (i = 0; i < s->role_count && s->roles[i] != info->role;) i++;
    if (s->role_count > 0 && i == s->role_count) return 0;
    for (i = 0; i < s->tier_count && !dcpi_select_is_tier(c->manifest, s->tiers[i], info);) i++;
    if (s->tier_count > 0 && i == s->tier_count) return 0;
    if (s->expert_count > 0 && !dcpi_select_has_key(s, info)) return 0;
    if (s->name_pattern && !dcpi_text_matches(s->name_pattern, info->name)) return 0;
    return !s->keep || s->keep(s->user, info->name);
}
static int dcpi_tier_exists(const dcp_manifest *m, const char *wanted) {
    size_t i;
    for (i = 0; m && i < m->tier_count; i++) if (dcpi_tier_is(&m->tiers[i].tier, wanted)) return 1;
    return 0;
}
static dcp_status dcpi_select_check(const dcp_checkpoint *c, const dcp_select *s, dcp_error *err) {
    size_t i;
    if (!s) return DCP_OK;
    if (s->part_count < 0 || (s->part_count > 0 && (s->part < 0 || s->part >= s->part_count)))
        return dcpi_fail(err, DCP_E_INVALID, "select: part %d of %d is none; parts count from 0", s->part,
                         s->part_count);
    if ((s->tier_count && !s->tiers) || (s->role_count && !s->roles) || (s->expert_count && !s->expert_keys))
        return dcpi_fail(err, DCP_E_INVALID, "select: a count is set, but its list is NULL");
    if (!c->manifest && (s->tier_count || s->role_count || s->expert_count))
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "select: %s has no tiers, roles and experts: only manifests have",
                         c->path);
    for (i = 0; i < s->tier_count; i++)
        if (!s->tiers[i] || !dcpi_tier_exists(c->manifest, s->tiers[i]))
            return dcpi_fail(err, DCP_E_MISMATCH, "select: %s has no tier \"%s\"", c->path,
                             s->tiers[i] ? s->tiers[i] : "(null)");
    return DCP_OK;
}
/* Only what is selected stays in the list of tensors; of the files, those that hold some of it are noted. */
static dcp_status dcpi_index_select(dcp_checkpoint *c, const dcp_select *s, dcp_error *err) {
    size_t i, kept = 0;
    int k;
    dcp_status status = dcpi_select_check(c, s, err);
    if (status || !s) return status;
    c->selected = (uint8_t *)dcpi_alloc_array(c->file_count, 1, err);
    if (!c->selected) return DCP_E_MEMORY;
    for (i = 0; i < c->tensor_count; i++) {
        const dcpi_stored *stored = &c->tensors[i];
        if (!dcpi_select_takes(c, s, &stored->info, i)) continue;
        for (k = 0; k < stored->info.piece_count; k++) c->selected[c->pieces[stored->first + (size_t)k].shard] = 1;
        c->tensors[kept++] = *stored;
    }
    c->tensor_count = kept;
    return DCP_OK;
}
DCPDEF dcp_status dcp_find(const dcp_checkpoint *checkpoint, const dcp_select *select, const dcp_tensor_info ***tensors,
                           size_t *count, dcp_error *err) {
    const dcp_checkpoint *c = checkpoint;
    dcp_status status;
    size_t i, n = 0;
    if (!tensors || !count) return dcpi_fail(err, DCP_E_INVALID, "dcp_find: tensors or count is NULL");
    *tensors = NULL;
    *count = 0;
    if (!c) return dcpi_fail(err, DCP_E_INVALID, "dcp_find: checkpoint is NULL");
    status = dcpi_select_check(c, select, err);
    if (status) return status;
    *tensors = (const dcp_tensor_info **)dcpi_alloc_array(c->tensor_count, sizeof **tensors, err);
    if (!*tensors) return DCP_E_MEMORY;
    for (i = 0; i < c->tensor_count; i++)
        if (dcpi_select_takes(c, select, &c->tensors[i].info, i)) (*tensors)[n++] = &c->tensors[i].info;
    *count = n;
    return dcpi_succeed(err);
}
/* All shards of a single file are read through the descriptor that its document came from: it never opens again, and
 * never closes before the end. */
static dcp_status dcpi_index_files(dcp_checkpoint *c, const dcp_object_info *info, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    size_t s;
    c->files = (dcpi_data_file *)dcpi_alloc_array(m->shard_count, sizeof *c->files, err);
    if (!c->files) return DCP_E_MEMORY;
    c->file_count = m->shard_count;
    for (s = 0; s < m->shard_count; s++) {
        c->files[s].shard = &m->shards[s];
        c->files[s].object_size = m->shards[s].file_size;
        if (c->layout != DCP_LAYOUT_SINGLE) continue;
        c->files[s].object_size = info->size;
        c->files[s].info = *info;
        c->files[s].object = c->single;
        c->files[s].key = dcpi_place_key(&c->place, c->commit_name, err);
        if (!c->files[s].key) return DCP_E_MEMORY;
    }
    return DCP_OK;
}
static const dcpi_stored *dcpi_stored_find(const dcp_checkpoint *c, const char *name) {
    size_t low = 0, high = c->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(c->tensors[middle].info.name, name);
        if (order == 0) return &c->tensors[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* ---- data files: opened when first read, closed when many are open; a file in use or mapped stays open ----------- */
static const dcpi_place *dcpi_data_file_place(const dcp_checkpoint *c, const dcpi_data_file *f) {
    return f->place ? &c->sources[f->place - 1] : &c->place;
}
static dcp_storage *dcpi_data_file_storage(const dcp_checkpoint *c, const dcpi_data_file *f) {
    return dcpi_data_file_place(c, f)->storage;
}

static dcp_status dcpi_data_file_try(dcp_checkpoint *c, dcpi_data_file *f, char *key, dcp_error *err) {
    dcp_status status = key ? dcpi_storage_open_object(dcpi_data_file_storage(c, f), key, &f->object, &f->info,
                                                       err) : DCP_E_MEMORY;
    if (status) { dcpi_free(key); return status; }
    f->key = key;
    return DCP_OK;
}
/* Where a seed's document may have meant its file: beside the document, at the storage's base, under the standard
 * name. */
static dcp_status dcpi_data_file_find(dcp_checkpoint *c, dcpi_data_file *f, dcp_error *err) {
    char name[DCP_LIMIT_PATH + 64];
    const char *given = f->shard->file_path;
    dcp_status status = dcpi_data_file_try(c, f, dcpi_place_key(dcpi_data_file_place(c, f), given, err), err);
    if (status != DCP_E_NOT_FOUND || !c->metadata->is_foreign || f->place) return status;
    status = dcpi_data_file_try(c, f, dcpi_copy_text(given, err), err);
    if (status != DCP_E_NOT_FOUND) return status;
    status = dcp_shard_name(c->prefix, f->shard->rank, NULL, name, sizeof name, err);
    return status ? status : dcpi_data_file_try(c, f, dcpi_place_key(&c->place, name, err), err);
}
static dcp_status dcpi_data_file_open_at(dcp_checkpoint *c, dcpi_data_file *f, dcp_error *err) {
    dcp_status status;
    if (f->key) status = dcpi_storage_open_object(dcpi_data_file_storage(c, f), f->key, &f->object, &f->info, err);
    else status = dcpi_data_file_find(c, f, err);
    if (status == DCP_E_NOT_FOUND)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "%s names \"%s\" (shard %d), which is not there", c->path,
                         f->shard->file_path, f->shard->rank);
    if (status) { dcpi_fail_context(err, "shard %d: ", f->shard->rank); return status; }
    if (f->info.size == f->object_size || f->object_size < 0) return DCP_OK;
    dcpi_storage_close_object(dcpi_data_file_storage(c, f), f->object);
    f->object = NULL;
    return dcpi_fail(err, DCP_E_INCOMPLETE, "\"%s\" (shard %d) has %" PRId64 " bytes, but %s says %" PRId64,
                     f->shard->file_path, f->shard->rank, f->info.size, c->path, f->object_size);
}
/* From now on the file is looked for in the next of the sources; 0: there is no other. */
static int dcpi_data_file_next(dcp_checkpoint *c, dcpi_data_file *f, const dcp_error *why) {
    if (f->place >= c->source_count || c->layout == DCP_LAYOUT_SINGLE || dcpi_is_trouble(why->status)) return 0;
    dcpi_op_log(&c->op, DCP_LOG_WARNING, "%s; it is fetched from %s", why->message, c->sources[f->place].shown);
    dcpi_free(f->key);
    f->key = NULL;
    f->place++;
    f->is_checked = 0;
    return 1;
}
static dcp_status dcpi_data_file_open(dcp_checkpoint *c, dcpi_data_file *f, dcp_error *err) {
    dcp_error local;
    dcp_status status;
    do status = dcpi_data_file_open_at(c, f, &local); while (status && dcpi_data_file_next(c, f, &local));
    if (!status) c->open_files++;
    if (err) *err = local;
    return status;
}
static void dcpi_data_file_close(dcp_checkpoint *c, dcpi_data_file *f) {
    dcpi_storage_close_object(dcpi_data_file_storage(c, f), f->object);
    f->object = NULL;
    c->open_files--;
}
static void dcpi_data_files_trim(dcp_checkpoint *c) {                   /* under the lock */
    size_t s;
    for (s = 0; s < c->file_count && c->open_files > DCPI_OPEN_FILES; s++) {
        dcpi_data_file *f = &c->files[s];
        if (f->object && f->object != c->single && f->users == 0 && !f->mapped) dcpi_data_file_close(c, f);
    }
}
/* Any thread. The file stays open until the matching release. */
static dcp_status dcpi_data_file_acquire(dcp_checkpoint *c, int shard, dcpi_data_file **out, dcp_error *err) {
    dcpi_data_file *f = &c->files[shard];
    dcp_status status = DCP_OK;
    *out = NULL;
    if (c->layout == DCP_LAYOUT_SINGLE && f->shard->data_offset == 0)
        return dcpi_fail(err, DCP_E_INCOMPLETE,
                         "%s holds no data, only the description of shard %d: its data were stored elsewhere", c->path,
                         f->shard->rank);
    dcpi_mutex_lock(&c->lock);
    if (!f->object) {
        if (c->open_files >= DCPI_OPEN_FILES) dcpi_data_files_trim(c);
        status = dcpi_data_file_open(c, f, err);
        if (!status && f->checked_modified_ns != f->info.modified_ns) f->is_checked = 0;
    }
    if (!status) { f->users++; *out = f; }
    dcpi_mutex_unlock(&c->lock);
    return status;
}
static void dcpi_data_file_release(dcp_checkpoint *c, dcpi_data_file *f) {
    dcpi_mutex_lock(&c->lock);
    f->users--;
    dcpi_data_files_trim(c);
    dcpi_mutex_unlock(&c->lock);
}

/* As release; closed if nobody else reads it, so that another attempt opens it anew: a network file system may have
 * lost the old handle. */
static void dcpi_data_file_give_up(dcp_checkpoint *c, dcpi_data_file *f) {
    dcpi_data_file_release(c, f);
    dcpi_mutex_lock(&c->lock);
    if (f->object && f->object != c->single && f->users == 0 && !f->mapped) dcpi_data_file_close(c, f);
    dcpi_mutex_unlock(&c->lock);
}
/* What a load tries again: transient errors, and files that a network file system does not show yet. */
static int dcpi_data_file_may_come(const dcp_error *err) {
    return err->status == DCP_E_INCOMPLETE || dcpi_storage_is_transient(err);
}

/* Calling thread: as acquire, tried again, while other ranks see that this one lives. */
typedef struct dcpi_seeing { dcp_checkpoint *c; int shard; dcpi_data_file *file; } dcpi_seeing;
static dcp_status dcpi_seeing_run(void *seeing, dcp_error *err) {
    dcpi_seeing *s = (dcpi_seeing *)seeing;
    return dcpi_data_file_acquire(s->c, s->shard, &s->file, err);
}
static dcp_status dcpi_data_file_see(dcp_checkpoint *c, dcpi_op *op, int shard, dcpi_data_file **out, dcp_error *err) {
    dcpi_seeing seeing;
    dcp_error local;
    dcp_status status;
    int is_open, attempt = 0;
    seeing.c = c;
    seeing.shard = shard;
    seeing.file = NULL;
    dcpi_mutex_lock(&c->lock);
    is_open = c->files[shard].object != NULL;
    dcpi_mutex_unlock(&c->lock);
    do status = is_open ? dcpi_seeing_run(&seeing, &local) : dcpi_op_errand(op, dcpi_seeing_run, &seeing, &local);
    while (status && dcpi_op_retry(op, NULL, dcpi_data_file_may_come(&local), ++attempt, "opening a file", &local));
    *out = seeing.file;
    if (!status) return DCP_OK;
    if (err) *err = local;
    return local.status;
}

/* Where else files are. A source that is not there cannot help, and does no harm. */
static dcp_status dcpi_open_sources(dcp_checkpoint *c, const dcp_open_desc *desc, dcp_error *err) {
    size_t i;
    if (desc->source_count == 0) return DCP_OK;
    c->sources = (dcpi_place *)dcpi_alloc_array(desc->source_count, sizeof *c->sources, err);
    if (!c->sources) return DCP_E_MEMORY;
    for (i = 0; i < desc->source_count; i++) {
        const dcp_source *source = &desc->sources[i];
        dcpi_place *place = &c->sources[c->source_count];
        dcp_status status = dcpi_place_open_directory(place, source->storage,
                                                      source->directory ? source->directory : "", 0, err);
        if (!status) { c->source_count++; continue; }
        dcpi_place_close(place);
        if (status != DCP_E_NOT_FOUND) {
            dcpi_fail_context(err, "open: sources[%" PRIu64 "]: ", (uint64_t)i);
            return status;
        }
        dcpi_op_log(&c->op, DCP_LOG_WARNING, "open: sources[%" PRIu64 "] is not there: %s", (uint64_t)i, err->message);
    }
    return dcpi_succeed(err);
}

/* ---- open -------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_open_check(const dcp_open_desc *desc, dcp_error *err) {
    if (!desc || !desc->path || desc->path[0] == '\0') return dcpi_fail(err, DCP_E_INVALID, "open: path is not set");
    if ((int)desc->verify < 0 || desc->verify > DCP_VERIFY_NONE)
        return dcpi_fail(err, DCP_E_INVALID, "open: verify policy %d is none", (int)desc->verify);
    if (desc->verifier && desc->verify == DCP_VERIFY_NONE)
        return dcpi_fail(err, DCP_E_INVALID,
                         "open: a verifier together with DCP_VERIFY_NONE would trust unchecked bytes; use "
                         "DCP_VERIFY_TOUCHED");
    if (desc->source_count > 0 && !desc->sources)
        return dcpi_fail(err, DCP_E_INVALID, "open: source_count is set, but sources is NULL");
    return DCP_OK;
}
static dcp_status dcpi_open_names(dcp_checkpoint *c, const char *commit_name, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(commit_name);
    size_t size = strlen(c->place.shown) + strlen(commit_name) + 1;
    if (!kind) return dcpi_fail(err, DCP_E_COMM, "open: \"%s\" is no name of a commit file", commit_name);
    c->layout = kind->layout;
    c->commit_name = dcpi_copy_text(commit_name, err);
    c->prefix = dcpi_text_range(commit_name, strlen(commit_name) - strlen(kind->suffix), err);
    c->path = (char *)dcpi_alloc(size, err);
    if (!c->commit_name || !c->prefix || !c->path) return DCP_E_MEMORY;
    (void)snprintf(c->path, size, "%s%s", c->place.shown, commit_name);
    return DCP_OK;
}
static dcp_status dcpi_open_find(dcp_checkpoint *c, dcp_error *err) {
    char *name;
    int attempt = 0;
    dcp_status status;
    do status = dcpi_commit_meant(&c->place, &name, err);
    while (status && dcpi_op_again(&c->op, ++attempt, "looking for a checkpoint", err));
    status = status ? err->status : dcpi_open_names(c, name, err);
    dcpi_free(name);
    return status;
}
static dcp_status dcpi_open_minimum_step(const dcp_checkpoint *c, const dcp_open_desc *desc, dcp_error *err) {
    const dcp_metadata *m = c->metadata;
    if (desc->minimum_step <= 0 || (m->has_training && m->training.step >= desc->minimum_step)) return DCP_OK;
    return dcpi_fail(err, desc->verifier ? DCP_E_SIGNATURE : DCP_E_MISMATCH,
                     "%s is of step %" PRId64 ", but minimum_step is %" PRId64
                     ": an older checkpoint stands in for a newer one?",
                     c->path, m->has_training ? m->training.step : (int64_t)-1, desc->minimum_step);
}
/* What rank 0 found, for the others: layout, size and time of the commit file (8 bytes each), the digest of the
 * document (32), the commit file's name with its NUL, and, unless it is a single file, which every rank has to open
 * anyway, the document. */
#define DCPI_OPEN_HEAD (8 + 8 + 8 + 32)
typedef struct dcpi_opening {
    dcp_checkpoint *checkpoint;
    const dcp_open_desc *desc;
    dcpi_document document;
} dcpi_opening;

static dcp_status dcpi_open_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_opening *o = (const dcpi_opening *)user;
    uint8_t head[DCPI_OPEN_HEAD];
    (void)rank; (void)err;
    dcpi_store64(head, (uint64_t)o->checkpoint->layout);
    dcpi_store64(head + 8, (uint64_t)o->document.info.size);
    dcpi_store64(head + 16, (uint64_t)o->document.info.modified_ns);
    memcpy(head + 24, o->document.digest, 32);
    dcpi_buffer_add(message, head, sizeof head);
    dcpi_buffer_add(message, o->checkpoint->commit_name, strlen(o->checkpoint->commit_name) + 1);
    if (o->document.text) dcpi_buffer_add(message, o->document.text, o->document.size);
    return DCP_OK;
}
static dcp_status dcpi_open_read(dcpi_opening *o, const dcp_open_desc *desc, dcp_error *err) {
    dcp_checkpoint *c = o->checkpoint;
    return dcpi_document_read_from(&c->op, &c->place, c->commit_name, desc->verifier, &o->document,
                                   c->layout == DCP_LAYOUT_SINGLE ? &c->single : NULL, err);
}
static dcp_status dcpi_open_take(dcpi_opening *o, const dcp_open_desc *desc, dcp_error *err) {
    dcp_checkpoint *c = o->checkpoint;
    const dcpi_peer *lead = c->op.team.peers;
    const uint8_t *head = lead->message + DCPI_TEAM_HEADER, *end = lead->message + lead->size, *nul;
    dcp_status status;
    nul = lead->size > DCPI_TEAM_HEADER + DCPI_OPEN_HEAD
        ? (const uint8_t *)memchr(head + DCPI_OPEN_HEAD, 0, (size_t)(end - head) - DCPI_OPEN_HEAD) : NULL;
    if (!nul) return dcpi_fail(err, DCP_E_COMM, "open: rank 0 sent a message of another version of dcp.h");
    status = dcpi_open_names(c, (const char *)head + DCPI_OPEN_HEAD, err);
    if (status) return status;
    if (c->layout == DCP_LAYOUT_SINGLE) status = dcpi_open_read(o, desc, err);
    else {
        o->document.info.size = (int64_t)dcpi_load64(head + 8);
        o->document.info.modified_ns = (int64_t)dcpi_load64(head + 16);
        memcpy(o->document.digest, head + 24, 32);
        o->document.text = (char *)(uintptr_t)(nul + 1);                /* the message's, for the parser only */
        o->document.size = (size_t)(end - nul - 1);
        status = dcpi_document_parse(NULL, c->layout, desc->verifier, &o->document, err);
        o->document.text = NULL;
    }
    if (!status && memcmp(o->document.digest, head + 24, 32) != 0)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s was replaced while it was opened", c->path);
    return status;
}
static dcp_status dcpi_open_index(void *opening, dcp_error *err) {
    dcpi_opening *o = (dcpi_opening *)opening;
    dcp_checkpoint *c = o->checkpoint;
    const dcp_open_desc *desc = o->desc;
    dcpi_document *document = &o->document;
    dcp_status status;
    c->metadata = document->metadata;
    c->manifest = document->manifest;
    c->origins = document->origins;
    document->metadata = NULL;
    memcpy(c->digest, document->digest, sizeof c->digest);
    status = dcpi_open_minimum_step(c, desc, err);
    if (!status) status = dcpi_open_sources(c, desc, err);
    if (!status) status = dcpi_index_files(c, &document->info, err);
    if (!status) status = dcpi_index_pieces(c, err);
    if (!status) status = dcpi_index_tensors(c, err);
    return status ? status : dcpi_index_select(c, desc->select, err);
}
static dcp_status dcpi_open_place(dcp_checkpoint *c, const dcp_open_desc *desc, dcp_error *err) {
    int attempt = 0;
    dcp_status status;
    while ((status = dcpi_place_open(&c->place, desc->io.storage, desc->path, 0, err)) != DCP_OK) {
        if (!dcpi_op_again(&c->op, ++attempt, "opening a directory", err)) break;
        dcpi_place_close(&c->place);
    }
    if (!status) return DCP_OK;
    if (err->status == DCP_E_NOT_FOUND)
        return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint \"%s\": its directory is not there", desc->path);
    return err->status;
}
/* With sources each rank reads for itself: what one finds wrong, it alone looks for elsewhere. */
static uint8_t dcpi_open_shares(const dcp_open_desc *desc) { return desc->share_reads && desc->source_count == 0; }
static void dcpi_open_digest(const dcp_open_desc *desc, uint8_t digest[32]) {
    dcpi_sha sha;
    uint8_t options[3];
    options[0] = (uint8_t)desc->verify;
    options[1] = desc->verifier != NULL;
    options[2] = dcpi_open_shares(desc);
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, "open", 4);
    dcpi_sha_update(&sha, options, sizeof options);
    dcpi_sha_update(&sha, desc->path, strlen(desc->path));
    dcpi_sha_final(&sha, digest);
}
static dcp_status dcpi_open_lead(void *opening, dcp_error *err) {
    dcpi_opening *o = (dcpi_opening *)opening;
    dcp_status status = dcpi_open_place(o->checkpoint, o->desc, err);
    if (!status) status = dcpi_open_find(o->checkpoint, err);
    return status ? status : dcpi_open_read(o, o->desc, err);
}
/* Another rank than 0, which has found the checkpoint: it is there, whatever this rank sees. */
static dcp_status dcpi_open_follow(void *opening, dcp_error *err) {
    dcpi_opening *o = (dcpi_opening *)opening;
    dcp_status status = dcpi_open_place(o->checkpoint, o->desc, err);
    if (!status) status = dcpi_open_take(o, o->desc, err);
    if (status != DCP_E_NOT_FOUND) return status;
    return dcpi_fail_sys(err, DCP_E_INCOMPLETE, err->sys,
                         "rank 0 has found \"%s\", but rank %d does not see it: path must be on a storage that "
                         "all ranks see", o->desc->path, o->checkpoint->op.team.rank);
}
/* One document for all ranks: rank 0 finds and reads it, the others get it. */
static dcp_status dcpi_open_together(dcp_checkpoint *c, const dcp_open_desc *desc, uint8_t list, dcp_status status,
                                     dcp_error *err) {
    dcpi_team *t = &c->op.team;
    dcpi_opening opening;
    dcpi_hello hello;
    memset(&opening, 0, sizeof opening);
    memset(&hello, 0, sizeof hello);
    opening.checkpoint = c;
    opening.desc = desc;
    if (!status) dcpi_open_digest(desc, hello.digest);
    hello.list = list;
    status = dcpi_hello_exchange(&c->op, status, &hello, "path and verification of a load must be equal", err);
    dcpi_op_phase(&c->op, DCP_PHASE_OPEN, 0);
    if (!status && t->rank == 0) {
        status = dcpi_op_errand(&c->op, dcpi_open_lead, &opening, err);
        if (t->world_size == 1) { dcpi_free(opening.document.text); opening.document.text = NULL; }
    }
    status = dcpi_team_down(&c->op, status, dcpi_open_make, &opening, DCPI_DOWN_SAME, err);
    if (!status && t->rank != 0) status = dcpi_op_errand(&c->op, dcpi_open_follow, &opening, err);
    if (!status) status = dcpi_op_errand(&c->op, dcpi_open_index, &opening, err);
    dcpi_document_free(&opening.document);
    return status;
}
/* Phase 1 of DESIGN 5, short of DCP_VERIFY_ALL; list: what the caller has of tensors to load (dcpi_hello_list). No
 * tensor byte is read and no data file opened. The verdict is the caller's to bring about, with dcpi_load_verdict; *out
 * is set even after a failure then, if there was memory for it. */
static dcp_status dcpi_open_phase(const dcp_open_desc *desc, const char *call, uint8_t list, dcp_checkpoint **out,
                                  dcp_error *err) {
    dcp_error team;
    dcpi_op op;
    dcp_status status = dcpi_op_begin(&op, &desc->io, err), joined = dcpi_team_begin(&op, call, &team);
    dcp_checkpoint *c = (dcp_checkpoint *)dcpi_alloc_array(1, sizeof *c, &team);
    *out = c;
    if (!status && joined) *err = team;
    if (!status) status = joined;
    if (!status) status = dcpi_open_check(desc, err);
    if (!c) {
        if (!status) { *err = team; status = team.status; }
        status = dcpi_team_verdict(&op, status, err);           /* everyone's, as in *err */
        dcpi_team_end(&op);
        dcpi_op_tell_warnings(&op, desc->report);
        return status;
    }
    c->op = op;
    if (c->op.team.peers == &op.team.lead) c->op.team.peers = &c->op.team.lead;
    c->verify = desc->verify;
    c->share_reads = dcpi_open_shares(desc);
    if (!status && dcpi_mutex_init(&c->lock)) status = dcpi_no_memory(err, sizeof c->lock);
    else if (!status) c->has_lock = 1;
    if (!status) status = dcpi_op_check(&c->op, err);
    return dcpi_open_together(c, desc, list, status, err);
}
static void dcpi_checkpoint_free(dcp_checkpoint *c) {
    size_t s;
    if (!c) return;
    for (s = 0; s < c->file_count; s++) {
        if (c->files[s].object && c->files[s].object != c->single) dcpi_data_file_close(c, &c->files[s]);
        dcpi_free(c->files[s].key);
    }
    dcpi_storage_close_object(c->place.storage, c->single);
    for (s = 0; c->lazy && s < c->tensor_count; s++) dcpi_free(c->lazy[s].copy);
    dcpi_free(c->lazy);
    if (c->has_lazy_changed) dcpi_cond_destroy(&c->lazy_changed);
    for (s = 0; s < c->source_count; s++) dcpi_place_close(&c->sources[s]);
    dcpi_free(c->sources);
    dcpi_free(c->selected);
    dcpi_free(c->files);
    dcpi_free(c->pieces);
    dcpi_free(c->tensors);
    dcp_metadata_free(c->metadata);
    dcpi_free(c->commit_name);
    dcpi_free(c->path);
    dcpi_free(c->prefix);
    dcpi_place_close(&c->place);
    if (c->has_lock) dcpi_mutex_destroy(&c->lock);
    dcpi_free(c);
}
DCPDEF size_t dcp_tensor_count(const dcp_checkpoint *checkpoint) { return checkpoint->tensor_count; }
DCPDEF const dcp_tensor_info *dcp_tensor_at(const dcp_checkpoint *checkpoint, size_t index) {
    return index < checkpoint->tensor_count ? &checkpoint->tensors[index].info : NULL;
}
DCPDEF const dcp_tensor_info *dcp_tensor_find(const dcp_checkpoint *checkpoint, const char *name) {
    const dcpi_stored *stored = dcpi_stored_find(checkpoint, name);
    return stored ? &stored->info : NULL;
}
DCPDEF const dcp_metadata *dcp_metadata_of(const dcp_checkpoint *checkpoint) { return checkpoint->metadata; }
DCPDEF const dcp_training *dcp_training_of(const dcp_checkpoint *checkpoint) {
    return checkpoint->metadata->has_training ? &checkpoint->metadata->training : NULL;
}
DCPDEF const dcp_manifest *dcp_manifest_of(const dcp_checkpoint *checkpoint) { return checkpoint->manifest; }
DCPDEF const char *dcp_path_of(const dcp_checkpoint *checkpoint) { return checkpoint->path; }
DCPDEF dcp_layout dcp_layout_of(const dcp_checkpoint *checkpoint) { return checkpoint->layout; }
DCPDEF void dcp_warnings_of(const dcp_checkpoint *checkpoint, dcp_report *report) {
    dcpi_report_clear(report);
    if (checkpoint) dcpi_op_tell_warnings(&checkpoint->op, report);
}


/* ---- references: which data files the commit files of a directory name. Nothing that one of them names is ever
 * removed (G2). --------- */
typedef struct dcpi_names { char **items; size_t count, capacity; } dcpi_names;

static dcp_status dcpi_names_add(dcpi_names *names, const char *name, dcp_error *err) {
    void *items = names->items;
    char *copy;
    if (!dcpi_grow(&items, &names->capacity, names->count + 1, sizeof *names->items, err)) return DCP_E_MEMORY;
    names->items = (char **)items;
    copy = dcpi_copy_text(name, err);
    if (!copy) return DCP_E_MEMORY;
    names->items[names->count++] = copy;
    return DCP_OK;
}
static void dcpi_names_free(dcpi_names *names) {
    size_t i;
    for (i = 0; i < names->count; i++) dcpi_free(names->items[i]);
    dcpi_free(names->items);
    memset(names, 0, sizeof *names);
}
static int dcpi_names_compare(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }
static dcp_status dcpi_names_sort(dcpi_names *names, dcp_error *err) {
    return dcpi_sort((const void **)(void *)names->items, names->count, dcpi_names_compare, err);
}
static int dcpi_names_has(const dcpi_names *names, const char *name) {  /* sorted */
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names->items[middle], name);
        if (order == 0) return 1;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return 0;
}
static int dcpi_is_beside(const char *a, const char *b) {               /* in the same directory */
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    if (!x || !y) return !x && !y;
    return x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0;
}
/* The directories that these files are in, and those above them down from the one whose key has `top` bytes, which is
 * among them; sorted, and some of them several times. */
static dcp_status dcpi_names_directories(const dcpi_names *keys, size_t top, dcpi_names *directories, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    memset(directories, 0, sizeof *directories);
    for (i = 0; i < keys->count && !status; i++) {
        char *key;
        if (i > 0 && dcpi_is_beside(keys->items[i - 1], keys->items[i])) continue;
        key = dcpi_copy_text(keys->items[i], err);
        if (!key) status = DCP_E_MEMORY;
        while (!status && strlen(key) > top) {
            char *slash = strrchr(key, '/');
            *(slash ? slash : key) = '\0';
            status = dcpi_names_add(directories, key, err);
        }
        dcpi_free(key);
    }
    return status ? status : dcpi_names_sort(directories, err);
}
/* Makes the names of these files (keys) durable, with those of all directories from the place down to them,
 * whoever made those (DESIGN 4.2): a directory's own sync says nothing of its name in the one above it. */
static dcp_status dcpi_names_sync(const dcpi_place *place, const dcpi_names *keys, dcp_error *err) {
    dcpi_names directories;
    dcp_status status = dcpi_names_directories(keys, strlen(place->directory), &directories, err);
    size_t i;
    for (i = 0; i < directories.count && !status; i++)
        if (i == 0 || strcmp(directories.items[i - 1], directories.items[i]) != 0)
            status = dcpi_storage_sync_directory(place->storage, directories.items[i], err);
    dcpi_names_free(&directories);
    return status;
}


typedef struct dcpi_names_walk {
    const dcpi_place *place;
    dcpi_names *names;
    int commits_only;
    dcp_error *err;
} dcpi_names_walk;
static dcp_status dcpi_names_walk_one(void *user, const char *key, const dcp_object_info *info) {
    dcpi_names_walk *walk = (dcpi_names_walk *)user;
    const char *name = dcpi_place_name(walk->place, key);
    (void)info;
    if (walk->commits_only && !dcpi_commit_kind_of(name)) return DCP_OK;
    return dcpi_names_add(walk->names, name, walk->err);
}
/* The names in a directory, sorted: all, or those of commit files. */
static dcp_status dcpi_names_list(const dcpi_place *place, int commits_only, dcpi_names *names, dcp_error *err) {
    dcpi_names_walk walk;
    dcp_status status;
    memset(names, 0, sizeof *names);
    walk.place = place;
    walk.names = names;
    walk.commits_only = commits_only;
    walk.err = err;
    status = dcpi_storage_list(place->storage, place->directory, dcpi_names_walk_one, &walk, err);
    status = dcpi_storage_absent(status, err->sys, err);
    if (!status) status = dcpi_names_sort(names, err);
    if (status) dcpi_names_free(names);
    return status;
}
/* ---- sequence numbers: the order of the checkpoints of a directory. One number counts, that of an intact document,
 * and all who ask for the order get it here: saves, latest, list and prune. So that not every document has to be read
 * for it, their first bytes are parsed, as far as they go: what they say is a claim. Who counts on one reads that
 * document; and none with a lower claim can have a higher number. */
/* head: the first bytes of a commit file of `size`, and a byte beyond them */
static int64_t dcpi_claim_of(const char *name, const char *head, size_t count, int64_t size) {
    int64_t json_offset, json_size;
    char version[32];
    dcp_error ignored;
    switch (dcpi_commit_kind_of(name)->layout) {
        case DCP_LAYOUT_SINGLE:
            if (dcpi_file_prefix((const uint8_t *)head, count, size, &json_offset, &json_size, version, &ignored))
                return DCPI_CLAIM_UNKNOWN;
            return dcpi_claim_json(head + json_offset, (size_t)dcpi_min(json_size, (int64_t)count - json_offset));
        case DCP_LAYOUT_MANIFEST:
            if (dcpi_manifest_is_yaml(head, count)) return dcpi_claim_yaml(head, count - 1);
            return dcpi_claim_json(head, count);
        default: return dcpi_claim_json(head, count);
    }
}
/* A commit file's first bytes, fewer if it has no more. What is not there any more, or is no regular file, is no
 * checkpoint: *count 0. */
static dcp_status dcpi_claim_read(const dcpi_place *place, const char *key, char head[4096], size_t *count,
                                  dcp_object_info *info,
                                  dcp_error *err) {
    void *object;
    dcp_status status = dcpi_storage_open_object(place->storage, key, &object, info, err);
    *count = 0;
    if (dcpi_is_trouble(status)) return status;
    if (status) return dcpi_succeed(err);
    *count = (size_t)dcpi_max(0, dcpi_min(info->size, 4096));
    status = dcpi_storage_read(place->storage, key, object, 0, head, *count, err);
    dcpi_storage_close_object(place->storage, object);
    if (dcpi_is_trouble(status)) return status;
    if (status) *count = 0;                             /* truncated just now */
    return dcpi_succeed(err);
}

/* the name is the caller's */
typedef struct dcpi_candidate { const char *name; int64_t number; int is_sure; } dcpi_candidate;
typedef struct dcpi_candidates { dcpi_candidate *items, **order; size_t count; } dcpi_candidates;

static void dcpi_candidates_free(dcpi_candidates *c) {
    dcpi_free(c->items);
    dcpi_free(c->order);
    memset(c, 0, sizeof *c);
}
static int dcpi_candidate_compare(const void *a_, const void *b_) {         /* the newest first */
    const dcpi_candidate *a = (const dcpi_candidate *)a_, *b = (const dcpi_candidate *)b_;
    if (a->number != b->number) return a->number > b->number ? -1 : 1;
    return strcmp(b->name, a->name);
}
/* Of a file that cannot be read nobody knows whether it is the newest: that is an error. tolerant: one that this user
 * may not read claims nothing yet. */
static dcp_status dcpi_candidate_claim(dcpi_op *op, const dcpi_place *place, int tolerant, dcpi_candidate *c,
                                       dcp_error *err) {
    char head[4096], *key = dcpi_place_key(place, c->name, err);
    dcp_object_info info;
    size_t count = 0;
    int attempt = 0;
    dcp_status status = DCP_E_MEMORY;
    if (!key) return status;
    do status = dcpi_claim_read(place, key, head, &count, &info, err);
    while (status && dcpi_op_again(op, ++attempt, "reading a document", err));
    dcpi_free(key);
    c->is_sure = 0;
    c->number = DCPI_CLAIM_UNKNOWN;
    if (tolerant && status == DCP_E_IO && dcpi_os_is_denied(err->sys)) return dcpi_succeed(err);
    if (!status) c->number = count > 0 ? dcpi_claim_of(c->name, head, count, info.size) : 0;
    return status;
}
/* The number of a document that is intact: its digest matches (and its signature, with a verifier), and it keeps the
 * format's rules; or it is sealed by a newer version of the format, whose other rules are not known here. Anything
 * else is the reason. */
static dcp_status dcpi_candidate_read(dcpi_op *op, const dcpi_place *place, const dcp_verifier *verifier,
                                      dcpi_candidate *c,
                                      dcp_error *err) {
    dcpi_document document;
    dcp_status status = dcpi_document_read(op, place, c->name, verifier, &document, err);
    c->is_sure = !status || (status == DCP_E_VERSION && document.newer >= 0);
    if (c->is_sure) c->number = status ? document.newer : document.metadata->sequence;
    dcpi_document_free(&document);
    return c->is_sure ? dcpi_succeed(err) : status;
}
/* names: of commit files. What they claim; not sorted yet. */
static dcp_status dcpi_candidates_make(dcpi_op *op, const dcpi_place *place, const dcpi_names *names, int tolerant,
                                       dcpi_candidates *out, dcp_error *err) {
    dcp_status status = DCP_OK;
    memset(out, 0, sizeof *out);
    out->items = (dcpi_candidate *)dcpi_alloc_array(names->count, sizeof *out->items, err);
    out->order = out->items ? (dcpi_candidate **)dcpi_alloc_array(names->count, sizeof *out->order, err) : NULL;
    if (!out->order) status = DCP_E_MEMORY;
    for (; out->count < names->count && !status; out->count++) {
        out->order[out->count] = &out->items[out->count];
        out->items[out->count].name = names->items[out->count];
        status = dcpi_candidate_claim(op, place, tolerant, &out->items[out->count], err);
    }
    if (status) dcpi_candidates_free(out);
    return status;
}
static dcp_status dcpi_candidates_sort(dcpi_candidates *c, dcp_error *err) {
    return dcpi_sort((const void **)(void *)c->order, c->count, dcpi_candidate_compare, err);
}
static void dcpi_candidates_drop(dcpi_candidates *c, size_t at) {        /* out of the order; not its neighbours */
    c->count--;
    memmove(&c->order[at], &c->order[at + 1], (c->count - at) * sizeof *c->order);
}

/* ---- checkpoints that this process has written, or read and verified: what dcp_prune keeps needs no second look at
 * every byte. Known is the digest of the document, which covers save id and data, and where it is: the same document
 * elsewhere is a copy, of files that nobody has looked at. The last ones are remembered, in all threads. */
enum { DCPI_PROVEN = 256 };
static struct dcpi_proven { dcpi_mutex lock; uint8_t keys[DCPI_PROVEN][32]; size_t count; } dcpi_proven = {
    DCPI_MUTEX_INITIALIZER, { { 0 } }, 0
};

static void dcpi_proven_key(const dcpi_place *place, const char *name, const uint8_t digest[32], uint8_t key[32]) {
    const uint64_t storage = place->owned ? 0 : (uint64_t)(uintptr_t)place->storage;
    dcpi_sha sha;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, &storage, sizeof storage);
    dcpi_sha_update(&sha, place->shown, strlen(place->shown) + 1);
    dcpi_sha_update(&sha, name, strlen(name) + 1);
    dcpi_sha_update(&sha, digest, 32);
    dcpi_sha_final(&sha, key);
}
static int dcpi_proven_has(const dcpi_place *place, const char *name, const uint8_t digest[32]) {
    uint8_t key[32];
    size_t i;
    int has = 0;
    dcpi_proven_key(place, name, digest, key);
    dcpi_mutex_lock(&dcpi_proven.lock);
    for (i = 0; i < DCPI_PROVEN && i < dcpi_proven.count && !has; i++)
        has = memcmp(dcpi_proven.keys[i], key, sizeof key) == 0;
    dcpi_mutex_unlock(&dcpi_proven.lock);
    return has;
}
static void dcpi_proven_add(const dcpi_place *place, const char *name, const uint8_t digest[32]) {
    uint8_t key[32];
    if (dcpi_proven_has(place, name, digest)) return;
    dcpi_proven_key(place, name, digest, key);
    dcpi_mutex_lock(&dcpi_proven.lock);
    memcpy(dcpi_proven.keys[dcpi_proven.count++ % DCPI_PROVEN], key, sizeof key);       /* the oldest goes */
    dcpi_mutex_unlock(&dcpi_proven.lock);
}
/* ---- directories inside of others: what lies in one that has checkpoints, or in which one is being saved, and below
 * it, is that directory's, even where its name could be one of the pool's above (`runs/dense` beside
 * `runs/a.manifest.json`). */
static dcp_status dcpi_own_look(void *user, const char *key, const dcp_object_info *info) {
    const char *slash = strrchr(key, '/');
    (void)info;
    if (dcpi_is_of_directory(slash ? slash + 1 : key)) *(int *)user = 1;
    return DCP_OK;
}
static dcp_status dcpi_own_directory(const dcpi_place *place, const char *key, int *is_own, dcp_error *err) {
    dcp_status status;
    *is_own = 0;
    status = dcpi_storage_list(place->storage, key, dcpi_own_look, is_own, err);
    if (!status) status = dcpi_storage_list_links(place->storage, key, dcpi_own_look, is_own, err);
    /* not there, or a link */
    return status == DCP_E_NOT_FOUND || status == DCP_E_INVALID ? dcpi_succeed(err) : status;
}
/* Strikes out the names that lie in such directories. */
static dcp_status dcpi_own_strike(dcpi_op *op, const dcpi_place *place, dcpi_names *names, dcp_error *err) {
    dcpi_names directories;
    size_t i, k, n, count;
    int is_own;
    dcp_status status = dcpi_names_directories(names, 0, &directories, err);
    for (i = 0; i < directories.count && !status; i++) {
        const char *directory = directories.items[i];
        char *key;
        if (directory[0] == '\0' || (i > 0 && strcmp(directories.items[i - 1], directory) == 0)) continue;
        key = dcpi_place_key(place, directory, err);
        status = key ? dcpi_own_directory(place, key, &is_own, err) : DCP_E_MEMORY;
        dcpi_free(key);
        if (status || !is_own) continue;
        n = strlen(directory);
        for (k = count = 0; k < names->count; k++) {
            if (strncmp(names->items[k], directory, n) == 0 && names->items[k][n] == '/') dcpi_free(names->items[k]);
            else names->items[count++] = names->items[k];
        }
        if (count < names->count)
            dcpi_op_log(op, DCP_LOG_WARNING,
                        "%d files in \"%s%s\" are left alone: there are checkpoints in that directory, "
                        "and they may be theirs", (int)(names->count - count), place->shown, directory);
        names->count = count;
    }
    dcpi_names_free(&directories);
    return status;
}
typedef struct dcpi_links { dcpi_op *op; const dcpi_place *place; int commits; } dcpi_links;
static dcp_status dcpi_links_look(void *user, const char *key, const dcp_object_info *info) {
    dcpi_links *links = (dcpi_links *)user;
    const char *name = dcpi_place_name(links->place, key);
    (void)info;
    if (!dcpi_commit_kind_of(name)) return DCP_OK;
    links->commits++;
    dcpi_op_log(links->op, DCP_LOG_WARNING,
                "cannot tell which files %s names: it is a symbolic link to what is not in this directory", name);
    return DCP_OK;
}
/* What all commit files of the directory but `going` (sorted; NULL: none) name, sorted. *unread counts those that could
 * not be read and verified, and links that one may have left when it was moved: what they name is not known. */
static dcp_status dcpi_refs_collect(dcpi_op *op, const dcpi_place *place, const dcpi_names *going,
                                    const dcp_verifier *verifier, dcpi_names *refs, int *unread,
                                    dcp_error *err) {
    dcpi_names commits;
    dcpi_links links;
    dcp_status status = dcpi_names_list(place, 1, &commits, err);
    size_t i, s;
    memset(refs, 0, sizeof *refs);
    links.op = op;
    links.place = place;
    links.commits = 0;
    if (!status) status = dcpi_storage_list_links(place->storage, place->directory, dcpi_links_look, &links, err);
    *unread = links.commits;
    for (i = 0; i < commits.count && !status; i++) {
        dcpi_document document;
        if (going && dcpi_names_has(going, commits.items[i])) continue;
        status = dcpi_document_read(op, place, commits.items[i], verifier, &document, err);
        if (dcpi_ends_all(status)) break;
        if (status) {
            if (status != DCP_E_NOT_FOUND) {            /* removed meanwhile: names nothing any more */
                ++*unread;
                dcpi_op_log(op, DCP_LOG_WARNING, "cannot tell which files %s names: %s", commits.items[i],
                            err->message);
            }
            status = dcpi_succeed(err);
            continue;
        }
        for (s = 0; s < document.metadata->shard_count && !status; s++)
            status = dcpi_names_add(refs, document.metadata->shards[s].file_path, err);
        dcpi_document_free(&document);
    }
    dcpi_names_free(&commits);
    if (!status) status = dcpi_names_sort(refs, err);
    if (status) dcpi_names_free(refs);
    return status;
}
/* ---- intents. A manifest save that is under way may name any file of the pool in the end: `P.manifest.<save
 * id>.intent.tmp` says so. Whoever removes such files unlinks commit files first, syncs the directory, and then
 * (dcpi_pool_lock_take, dcpi_refs_settle) lists them with the lock held and looks at documents and intents until
 * nothing changes meanwhile: while there is a young intent, nothing goes (G2). dcp_sync publishes one too. */
/* *swept: another sweep, which leaves no time, has taken the file already. */
static dcp_status dcpi_place_now_once(dcpi_op *op, const dcpi_place *place, int64_t *now_ns, int *swept,
                                      dcp_error *err) {
    char id[17], name[64], *key;
    dcp_object_info info;
    dcp_status status = dcpi_random_id(id, err);
    if (status) return status;
    (void)snprintf(name, sizeof name, "dcp-sweep.%s.tmp", id);
    key = dcpi_place_key(place, name, err);
    if (!key) return DCP_E_MEMORY;
    status = dcpi_object_publish(op, place->storage, key, "", 0, err);
    *swept = status == DCP_E_IO && dcpi_os_status(err->sys) == DCP_E_NOT_FOUND;
    if (!status) status = dcpi_storage_stat(place->storage, key, &info, err);
    if (status == DCP_E_NOT_FOUND) {
        *swept = 1;
        status = dcpi_fail(err, DCP_E_IO, "%s was removed as soon as it had been made", key);
    }
    if (!status) *now_ns = info.modified_ns;
    (void)dcpi_storage_remove(place->storage, key, NULL);
    dcpi_free(key);
    return status;
}
/* The storage's own clock: the time of a file made there just now. */
static dcp_status dcpi_place_now(dcpi_op *op, const dcpi_place *place, int64_t *now_ns, dcp_error *err) {
    int swept = 1, tries;
    dcp_status status = DCP_OK;
    for (tries = 0; tries < 8 && swept; tries++) {
        swept = 0;
        status = dcpi_place_now_once(op, place, now_ns, &swept, err);
    }
    return status;
}
/* Which files a grace time protects: those from before_ns to after_ns. One that claims to be of a time to come is as
 * young as it gets, but not for ever: beyond a day, and the grace time, that time says nothing, and nobody is writing
 * the file. */
typedef struct dcpi_age { int64_t before_ns, after_ns; } dcpi_age;
static int64_t dcpi_age_ns(int64_t seconds) {
    return seconds > INT64_MAX / 1000000000 ? INT64_MAX : seconds * 1000000000;
}
static dcpi_age dcpi_age_of(int64_t now_ns, int64_t grace_seconds) {
    dcpi_age age;
    const int64_t ahead_ns = dcpi_age_ns(dcpi_max(grace_seconds, (int64_t)DCP_GRACE_SECONDS));
    age.before_ns = dcpi_age_ns(grace_seconds) == INT64_MAX ? INT64_MIN : now_ns - dcpi_age_ns(grace_seconds);
    if (!dcpi_add(now_ns, ahead_ns, &age.after_ns)) age.after_ns = INT64_MAX;
    return age;
}
static int dcpi_age_protects(const dcpi_age *age, int64_t modified_ns) {
    return modified_ns > age->before_ns && modified_ns <= age->after_ns;
}
typedef struct dcpi_intents { const dcpi_place *place; const char *own; dcpi_buffer times; } dcpi_intents;
static dcp_status dcpi_intents_look(void *user, const char *key, const dcp_object_info *info) {
    dcpi_intents *intents = (dcpi_intents *)user;
    const char *name = dcpi_place_name(intents->place, key);
    if (dcpi_is_intent(name) && !(intents->own && strstr(name, intents->own)))
        dcpi_buffer_add(&intents->times, &info->modified_ns, sizeof info->modified_ns);
    return DCP_OK;
}
/* own: the save id of the save that asks; NULL: none */
static dcp_status dcpi_intents_pending(dcpi_op *op, const dcpi_place *place, int64_t grace_seconds, const char *own,
                                       int *pending, dcp_error *err) {
    dcpi_intents intents;
    dcpi_age age;
    int64_t now_ns = 0, modified_ns;
    dcp_status status;
    size_t i;
    memset(&intents, 0, sizeof intents);
    intents.place = place;
    intents.own = own;
    *pending = 0;
    status = dcpi_storage_list(place->storage, place->directory, dcpi_intents_look, &intents, err);
    if (!status && intents.times.failed) status = dcpi_no_memory(err, intents.times.size);
    if (!status && intents.times.size > 0) status = dcpi_place_now(op, place, &now_ns, err);
    age = dcpi_age_of(now_ns, grace_seconds);
    for (i = 0; i < intents.times.size && !status; i += sizeof modified_ns) {
        memcpy(&modified_ns, intents.times.data + i, sizeof modified_ns);
        *pending |= dcpi_age_protects(&age, modified_ns);
    }
    dcpi_buffer_free(&intents.times);
    if (*pending)
        dcpi_op_log(op, DCP_LOG_INFO,
                    "a manifest is being saved in \"%s\": the files that manifests share are left to sweep",
                    place->shown);
    return status;
}
/* *key is set even after a failure, if there was memory for it: the intent may be there all the same. */
static dcp_status dcpi_intent_publish(dcpi_op *op, const dcpi_place *place, const char *prefix, const char *id,
                                      const char *base, const char *base_id, char **key, dcp_error *err) {
    const size_t size = strlen(prefix) + 64;
    char *name = (char *)dcpi_alloc(size, err), *text = NULL;
    dcp_json *json = name ? dcp_json_new_object(err) : NULL;
    size_t length = 0;
    dcp_status status = json ? DCP_OK : DCP_E_MEMORY;
    if (!status && (!dcp_json_add_string(json, "base", base) || !dcp_json_add_string(json, "saveId", base_id)))
        status = dcpi_no_memory(err, 64);
    if (!status) status = dcp_json_write(json, 0, &text, &length, err);
    if (name) (void)snprintf(name, size, "%s.manifest.%s.intent.tmp", prefix, id);
    if (!status) *key = dcpi_place_key(place, name, err);
    if (!status) status = *key ? dcpi_object_publish(op, place->storage, *key, text, length, err) : DCP_E_MEMORY;
    dcp_json_free(json);
    dcpi_free(text);
    dcpi_free(name);
    return status;
}
/* Still there? A sweep that leaves no time for saves takes it before it takes data, so a manifest whose intent is gone
 * must not be committed. */
static dcp_status dcpi_intent_check(const dcpi_place *place, const char *key, dcp_error *err) {
    dcp_object_info info;
    dcp_status status = dcpi_storage_stat(place->storage, key, &info, err);
    if (status != DCP_E_NOT_FOUND) return status;
    return dcpi_fail(err, DCP_E_INCOMPLETE, "%s was removed meanwhile, and with it perhaps files that this manifest "
                                            "names: a sweep must leave more time", key);
}
static void dcpi_intent_remove(dcpi_op *op, const dcpi_place *place, const char *key) {   /* or a lock; NULL: nothing */
    dcp_error err;
    if (!key || !dcpi_storage_remove(place->storage, key, &err) || !dcpi_storage_remove(place->storage, key, &err))
        return;
    /* both times: it keeps others from removing files */
    dcpi_op_log(op, DCP_LOG_WARNING, "left %s for sweep: %s", key, err.message);
}
/* ---- the commit lock of a prefix: `P.commit.lock` -------------------------------------------------------------------
 * Held by whoever commits at P, in any layout, from its last look until its directory is durable; by whoever removes
 * commit files of P or files that only a document of P names and whose names may be used again, since it saw that
 * document. The numbers are cited where they are upheld:
 *
 *   L1  A document is complete in its temporary file before the lock is asked for, and the lock is held for no longer
 *       than a few calls: no poll, no other rank, no tensor is waited for with it.
 *   L2  Whoever gets the lock first removes the temporary file that the last note names ("fences"), then sets its own
 *       note, then looks what is there, then renames the file of its note. All of these with the lock; the first
 *       failure ends it.
 *   L3  So whoever comes after a holder that stood still, was taken for dead or lost the lock to its server does one of
 *       two things: its fencing comes before that one's rename, which then finds no file; or after it, and then its
 *       look sees that one's document. A holder whose note was not set yet when the lock was taken cannot set it any
 *       more, and renames nothing.
 *   L4  A lock is taken only from a holder that has been silent for timeout_ms: the same one, with the same note, each
 *       time that it was asked for.
 *   L5  Before a holder removes files it notes DCPI_LOCK_REMOVES, and from a holder with that note nobody takes the
 *       lock: it may stand still between a look and an unlink, and what it would unlink then must not be another save's
 *       file by the same name.
 *   L6  Who has lost the lock removes only what has its own save id in its name.
 *   L7  The lock's file goes with the lock. A sweep takes one that a killed holder left, as any other holder would:
 *       fenced, and then let go.
 *
 * Where a storage has no locks, all of this is done without, and DCP_STORAGE_COMMIT_LOCK in the report says that two
 * writers are not kept apart. */
#define DCPI_LOCK_REMOVES "removes"
/* the prefix whose lock is for files that the manifests of a directory share */
static const char dcpi_pool_lock[] = "dcp-pool";

typedef struct dcpi_lock {
    dcp_storage *storage;
    char *key;
    void *held;                                         /* NULL: not held, or there are no locks */
    int is_missing;                                     /* there are none */
    int64_t taken_ms;
} dcpi_lock;

static void dcpi_lock_release(dcpi_lock *lock) {
    if (lock->held) dcpi_storage_unlock(lock->storage, lock->held);
    dcpi_free(lock->key);
    memset(lock, 0, sizeof *lock);
}
/* Whether a note names a temporary file of a commit file of this prefix: a lock's text, too, may be anybody's. */
static int dcpi_lock_names_document(const char *note, const char *prefix) {
    const size_t length = strlen(prefix), end = dcpi_temporary_of(note);
    size_t i;
    if (end <= length || memcmp(note, prefix, length) != 0) return 0;
    for (i = 0; i < DCPI_COUNT(dcpi_commit_kinds); i++) {
        const char *suffix = dcpi_commit_kinds[i].suffix;
        if (end - length == strlen(suffix) && memcmp(note + length, suffix, end - length) == 0) return 1;
    }
    return 0;
}
/* L3. The removed file's writer finds out when it renames it. */
static dcp_status dcpi_lock_fence(dcpi_op *op, const dcpi_place *place, const char *prefix, const char *note,
                                  dcp_error *err) {
    char *key;
    int attempt = 0;
    dcp_status status;
    if (!dcpi_lock_names_document(note, prefix)) return DCP_OK;
    key = dcpi_place_key(place, note, err);
    if (!key) return DCP_E_MEMORY;
    do status = dcpi_storage_remove(place->storage, key, err);
    while (status && dcpi_op_again(op, ++attempt, "removing the document of a save that was given up", err));
    dcpi_free(key);
    return status;
}
typedef struct dcpi_lock_watch {
    uint64_t first, now;
    char note[DCP_LOCK_NOTE];
    int64_t since_ms;
    int asked, is_other;
} dcpi_lock_watch;

static void dcpi_lock_look(dcpi_lock_watch *w) {
    if (w->asked++ == 0) w->first = w->now;
    w->is_other |= w->now == 0 || w->now != w->first;
}
static dcp_status dcpi_lock_busy(const dcpi_op *op, const dcpi_place *place, const char *prefix, dcp_error *err) {
    return dcpi_fail(err, DCP_E_EXISTS,
                     "another save is committing at %s%s, or its files are being removed: %s%s was held for %d ms "
                     "(on NFS a client that was lost may hold it until its lease has ended)", place->shown, prefix,
                     prefix, dcpi_lock_suffix,
                     op->io.timeout_ms);
}
/* Awake to cancel and deadline; shows life where the calling thread is this one. */
static dcp_status dcpi_lock_pause(dcpi_op *op, const dcpi_lock_watch *w, dcp_error *err) {
    dcp_status status = dcpi_op_check(op, err);
    if (!status) status = dcpi_op_check_awake(op, err);
    if (!status) dcpi_os_sleep_ms((int)dcpi_min(20, w->asked));
    return status;
}
/* L4. DCP_PENDING: it is not to be had, and wait was 0. */
static dcp_status dcpi_lock_ask(dcpi_op *op, const dcpi_place *place, const char *prefix, int wait, dcpi_lock *lock,
                                char note[DCP_LOCK_NOTE], dcp_error *err) {
    dcpi_lock_watch w;
    int attempt = 0;
    memset(&w, 0, sizeof w);
    w.since_ms = dcpi_os_monotonic_ms();
    for (;;) {
        const int is_over = w.asked > 0 && dcpi_os_monotonic_ms() - w.since_ms >= op->io.timeout_ms;
        const int may_take = is_over && !w.is_other && strcmp(w.note, DCPI_LOCK_REMOVES) != 0;
        dcp_status status;
        w.now = may_take ? w.first : 0;
        status = dcpi_storage_lock(lock->storage, lock->key, &w.now, w.note, &lock->held, err);
        memcpy(note, w.note, DCP_LOCK_NOTE);
        if (!status && may_take)
            dcpi_op_log(op, DCP_LOG_WARNING, "%s%s%s: its holder was silent for %d ms, and is given up", place->shown,
                        prefix, dcpi_lock_suffix, op->io.timeout_ms);
        if (!status || status == DCP_E_UNSUPPORTED) return status;
        if (status != DCP_PENDING && !dcpi_op_again(op, ++attempt, "locking", err)) return status;
        if (status != DCP_PENDING) continue;
        if (!wait) return status;
        if (is_over) return dcpi_lock_busy(op, place, prefix, err);
        dcpi_lock_look(&w);
        status = dcpi_lock_pause(op, &w, err);
        if (status) return status;
    }
}
/* What the next one is to be told. DCP_E_EXISTS: the lock is lost. */
static dcp_status dcpi_lock_note(dcpi_op *op, dcpi_lock *lock, const char *note, dcp_error *err) {
    const int64_t since = dcpi_os_monotonic_ms();
    int attempt = 0;
    if (!lock->held) return dcpi_succeed(err);
    for (;;) {
        dcp_status status = dcpi_storage_lock_note(lock->storage, lock->key, lock->held, note, err);
        if (status == DCP_PENDING) {
            if (dcpi_os_monotonic_ms() - since > op->io.timeout_ms)
                return dcpi_fail(err, DCP_E_TIMEOUT,
                                 "\"%s\" could not be written to for %d ms: a process stands still in using it",
                                 lock->key, op->io.timeout_ms);
            status = dcpi_op_check(op, err);
            if (status) return status;
            dcpi_os_sleep_ms(1);
        } else if (!status || !dcpi_op_again(op, ++attempt, "writing to a lock", err)) return status;
    }
}
/* DCP_OK: held, or there are no locks. DCP_E_EXISTS: another has it, and is alive; with wait 0 DCP_PENDING, at once. */
static dcp_status dcpi_lock_take(dcpi_op *op, const dcpi_place *place, const char *prefix, int wait, dcpi_lock *lock,
                                 dcp_error *err) {
    char name[DCP_LIMIT_PREFIX + sizeof dcpi_lock_suffix], note[DCP_LOCK_NOTE];
    dcp_status status;
    memset(lock, 0, sizeof *lock);
    if (strlen(prefix) > DCP_LIMIT_PREFIX) { lock->is_missing = 1; return DCP_OK; }     /* no save has such a name */
    (void)snprintf(name, sizeof name, "%s%s", prefix, dcpi_lock_suffix);
    lock->storage = place->storage;
    lock->key = dcpi_place_key(place, name, err);
    status = lock->key ? dcpi_lock_ask(op, place, prefix, wait, lock, note, err) : DCP_E_MEMORY;
    lock->taken_ms = dcpi_os_monotonic_ms();
    if (status == DCP_E_UNSUPPORTED) {
        lock->is_missing = 1;
        dcpi_op_log(op, DCP_LOG_INFO, "two writers of %s%s are not kept apart: %s", place->shown, prefix, err->message);
        return dcpi_succeed(err);
    }
    if (!status) status = dcpi_lock_fence(op, place, prefix, note, err);        /* L2 */
    if (!status && note[0]) status = dcpi_lock_note(op, lock, "", err);       /* until then the next one fences again */
    if (status) dcpi_lock_release(lock);
    return status;
}
/* After a rename that failed: whether another one has the lock now, who removed the document first. */
static int dcpi_lock_is_lost(dcpi_op *op, dcpi_lock *lock) {
    dcp_error ignored;
    return lock->held && dcpi_lock_note(op, lock, "", &ignored) == DCP_E_EXISTS;
}
static dcp_status dcpi_lock_lost(const char *path, dcp_error *err) {
    return dcpi_fail(err, DCP_E_EXISTS,
                     "another save took over: this one was silent for too long while it committed %s", path);
}
/* Takes the lock, to remove files with it: L5. DCP_PENDING as dcpi_lock_take. On a full storage, where only removing
 * helps, it goes without. */
static dcp_status dcpi_lock_take_to_remove(dcpi_op *op, const dcpi_place *place, const char *prefix, int wait,
                                           dcpi_lock *lock, dcp_error *err) {
    dcp_status status = dcpi_lock_take(op, place, prefix, wait, lock, err);
    if (!status) status = dcpi_lock_note(op, lock, DCPI_LOCK_REMOVES, err);
    if (!status) return DCP_OK;
    dcpi_lock_release(lock);
    if (status != DCP_E_SPACE) return status;
    dcpi_op_log(op, DCP_LOG_WARNING, "removing without the lock of %s%s, for which the storage is too full: %s",
                place->shown, prefix, err->message);
    lock->is_missing = 1;
    return dcpi_succeed(err);
}
static int dcpi_removal_needs_lock(const char *name) {
    return dcpi_is_shard_name(name, 1) && !dcpi_is_shard_name(name, 0);
}
/* Files of the pool may be used again under the same name, by any manifest of the directory: who removes some holds the
 * lock of the pool, since it has listed them. Who finds it taken leaves them to sweep: 0. */
static int dcpi_pool_lock_take(dcpi_op *op, const dcpi_place *place, dcpi_lock *lock, dcp_status *status,
                               dcp_error *err) {
    *status = dcpi_lock_take_to_remove(op, place, dcpi_pool_lock, 0, lock, err);
    if (*status != DCP_PENDING) return *status == DCP_OK;
    *status = dcpi_succeed(err);
    dcpi_op_log(op, DCP_LOG_INFO,
                "another process removes files in \"%s\": those whose names may be used again are left to sweep",
                place->shown);
    return 0;
}
/* Strikes out what is not there any more. */
static void dcpi_removal_present(const dcpi_place *place, dcpi_names *names) {
    size_t i, count = 0;
    for (i = 0; i < names->count; i++) {
        dcp_object_info info;
        dcp_error ignored;
        char *key = dcpi_place_key(place, names->items[i], &ignored);
        const dcp_status status = key ? dcpi_storage_stat(place->storage, key, &info, &ignored) : DCP_E_NOT_FOUND;
        if (status == DCP_E_NOT_FOUND) dcpi_free(names->items[i]);
        else names->items[count++] = names->items[i];
        dcpi_free(key);
    }
    names->count = count;
}
/* Which commit files are there, and which writing of each: name, size, time, and their ends: a save id, or a
 * document's digest, is in one of them. */
typedef struct dcpi_commits { const dcpi_place *place; dcpi_names names; dcp_error *err; } dcpi_commits;
static dcp_status dcpi_commits_ends(const dcpi_place *place, const char *key, uint8_t digest[32], dcp_error *err) {
    char bytes[8192];
    dcp_object_info info;
    void *object;
    int64_t size, first;
    dcp_status status = dcpi_storage_open_object(place->storage, key, &object, &info, err);
    memset(digest, 0, 32);
    if (dcpi_is_trouble(status)) return status;
    if (status) return dcpi_succeed(err);               /* vanished meanwhile */
    size = dcpi_min(dcpi_max(info.size, 0), (int64_t)sizeof bytes);
    first = size == info.size ? size : size / 2;
    status = dcpi_storage_read(place->storage, key, object, 0, bytes, (size_t)first, err);
    if (!status && first < size)
        status = dcpi_storage_read(place->storage, key, object, info.size - first, bytes + first, (size_t)first, err);
    dcpi_storage_close_object(place->storage, object);
    if (dcpi_is_trouble(status)) return status;
    if (!status) dcp_sha256(bytes, (size_t)size, digest);
    return dcpi_succeed(err);
}
static dcp_status dcpi_commits_look(void *user, const char *key, const dcp_object_info *info) {
    dcpi_commits *commits = (dcpi_commits *)user;
    const char *name = dcpi_place_name(commits->place, key);
    char line[DCP_LIMIT_PREFIX + 192], ends[65] = "";
    uint8_t digest[32];
    dcp_status status;
    if (!dcpi_commit_kind_of(name) || strlen(name) > DCP_LIMIT_PREFIX + 40) return DCP_OK;
    status = dcpi_commits_ends(commits->place, key, digest, commits->err);
    if (status && status != DCP_E_IO) return status;
    if (!status) dcpi_hex_encode(digest, sizeof digest, ends);
    (void)snprintf(line, sizeof line, "%s/%" PRId64 "/%" PRId64 "/%.64s", name, info->size, info->modified_ns, ends);
    return dcpi_names_add(&commits->names, line, commits->err);
}
static dcp_status dcpi_commits_digest(const dcpi_place *place, uint8_t digest[32], dcp_error *err) {
    dcpi_commits commits;
    dcpi_sha sha;
    dcp_status status;
    size_t i;
    memset(&commits, 0, sizeof commits);
    commits.place = place;
    commits.err = err;
    status = dcpi_storage_list(place->storage, place->directory, dcpi_commits_look, &commits, err);
    if (!status) status = dcpi_names_sort(&commits.names, err);
    dcpi_sha_init(&sha);
    for (i = 0; i < commits.names.count && !status; i++)
        dcpi_sha_update(&sha, commits.names.items[i], strlen(commits.names.items[i]) + 1);
    dcpi_sha_final(&sha, digest);
    dcpi_names_free(&commits.names);
    return status;
}
/* What the manifests beside each other name, for one who is about to remove what none names. Which of them there are is
 * looked at before the intents and after: a save that was under way when they were read has either left its intent, or
 * its manifest shows in the second look. Both are needed, since a save may begin, keep a file, commit and be gone
 * between any two of our calls. *pending: no file of the pool may go. */
static dcp_status dcpi_refs_settle(dcpi_op *op, const dcpi_place *place, const dcpi_names *going,
                                   const dcp_verifier *verifier, int64_t grace_seconds, const char *own,
                                   dcpi_names *refs, int *unread, int *pending, dcp_error *err) {
    uint8_t before[32], after[32];
    int round;
    dcp_status status = DCP_OK;
    memset(refs, 0, sizeof *refs);
    for (round = 0; round < 8 && !status; round++) {
        status = dcpi_commits_digest(place, before, err);
        if (!status) status = dcpi_refs_collect(op, place, going, verifier, refs, unread, err);
        if (!status) status = dcpi_intents_pending(op, place, grace_seconds, own, pending, err);
        if (!status) status = dcpi_commits_digest(place, after, err);
        if (!status && (*pending || memcmp(before, after, sizeof before) == 0)) return DCP_OK;
        dcpi_names_free(refs);
    }
    *pending = *unread = 1;                             /* they save too often to say */
    return status;
}
static int dcpi_refs_may_go(const dcpi_names *refs, const char *name) { return !dcpi_names_has(refs, name); }

/* The files that a checkpoint takes along when it goes: of what its document names, what is its own by name. */
static dcp_status dcpi_names_add_data(dcpi_names *names, const char *commit, const dcp_metadata *m, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t s;
    for (s = 0; s < m->shard_count && !status; s++) {
        const char *path = m->shards[s].file_path;
        if (dcpi_is_data_of(commit, path)) status = dcpi_names_add(names, path, err);
    }
    return status;
}
/* After an overwrite: removes the data files of the displaced document (`data`) that no other document names. own: the
 * new one's name, if it names only files of its own, so that it need not be read; NULL: it may name some of the same.
 * pool: the save id, if other manifests may come to name them; else NULL, and is_locked says whether the lock has been
 * held since the displaced document was seen to be there. Failures leave them to sweep. */
static void dcpi_refs_remove_displaced(dcpi_op *op, const dcpi_place *place, char *own, const char *pool, int is_locked,
                                       dcpi_names *data) {
    dcpi_names refs, known;
    dcp_error err;
    dcpi_lock lock;
    int unread = 0, pending = 0;
    size_t i;
    dcp_status status = DCP_OK;
    known.items = &own;
    known.count = known.capacity = 1;
    memset(&refs, 0, sizeof refs);
    memset(&lock, 0, sizeof lock);
    if (pool && !dcpi_pool_lock_take(op, place, &lock, &status, &err) && !status) return;
    if (pool && !status) dcpi_removal_present(place, data);
    if (!status) status = dcpi_own_strike(op, place, data, &err);
    if (status) unread = 1;
    else if (pool)
        status = dcpi_refs_settle(op, place, NULL, NULL, DCP_GRACE_SECONDS, pool, &refs, &unread, &pending, &err);
    else status = dcpi_refs_collect(op, place, own ? &known : NULL, NULL, &refs, &unread, &err);
    for (i = 0; i < data->count && !status && !unread && !pending; i++) {
        const char *name = data->items[i];
        char *key = NULL;
        if (!is_locked && dcpi_removal_needs_lock(name)) continue;
        if (dcpi_refs_may_go(&refs, name)) key = dcpi_place_key(place, name, &err);
        if (key && dcpi_storage_remove(place->storage, key, &err))
            dcpi_op_log(op, DCP_LOG_WARNING, "left %s for sweep: %s", name, err.message);
        dcpi_free(key);
    }
    if (status) dcpi_op_log(op, DCP_LOG_WARNING, "the replaced checkpoint's files are left for sweep: %s", err.message);
    else dcpi_names_free(&refs);
    dcpi_lock_release(&lock);
}

