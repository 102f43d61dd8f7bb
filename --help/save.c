/* =====================================================================================================================
 * >>save        How a checkpoint comes to be (DESIGN 4). The stages, in the order in which they run; rank 0 alone does
 *               what is marked 0:
 *
 *   check      the caller's arguments, alone                                  nothing outside this process is touched
 *                  up: what is to be saved where, the same on all ranks
 *   prepare  0 save id, directory, what is there already, the names
 *                  down: what was decided
 *   list       this rank's tensors, in a compact form
 *                  up: the lists
 *   plan     0 who writes which piece, where; overlaps, holes and disagreements are found
 *                  down: each rank's part
 *   meet       the single file: who can write into it, and who sends its bytes to rank 0
 *   write      bytes to a temporary file, hashed as they pass; published      G2, G3
 *                  up: the shard is there, with these digests                 from here on a rank waits for the verdict
 *                  (G5)
 *   commit   0 the document; the one rename that makes the checkpoint exist   G1
 *                  down: the verdict
 *   finish     what failed removes what it made; what an overwrite displaced goes       G9
 * ================================================================================================================== */
typedef struct dcpi_save dcpi_save;
static dcp_status dcpi_save_check(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_agree(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_save_prepare(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_list(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_plan(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_save_meet(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_write(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_save_commit(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_save_finish(dcpi_save *s, dcp_status verdict);

typedef struct dcpi_placed {                            /* one tensor that this rank writes */
    const dcp_tensor *tensor;
    int64_t offset, size;                             /* bytes; the offset from the first byte of the shard or region */
    size_t first_block;                                 /* in dcpi_save.digests */
} dcpi_placed;
typedef struct dcpi_entry {                             /* rank 0: one piece of the checkpoint */
    const uint8_t *record;                              /* in the list of the rank that has it */
    int64_t offset, size;                               /* as in dcpi_placed */
    size_t first_block;
    int rank, is_written;                               /* replicas are written by one rank */
} dcpi_entry;
typedef struct dcpi_pooled {                            /* rank 0, manifest layout: the file of one piece */
    const char *stem;                                   /* its name without version, save id and ".bin" */
    const dcp_manifest_shard *base;   /* the base's entry for the same piece, if its bytes may be the same; else NULL */
    int64_t version;                                    /* of a new file */
    uint32_t index, count;                              /* among the pieces of its tensor */
    int form;                                           /* of the stem: DCPI_POOL_SHORT, ... */
    const uint8_t *done;                                /* what its rank said of it: DCPI_POOL_DONE bytes */
} dcpi_pooled;
typedef struct dcpi_pool_file {               /* manifest layout: one piece that this rank writes, or finds unchanged */
    const char *stem, *base_path;                       /* base_path NULL: it must be written */
    int64_t version;
    uint8_t base_checksum[32], checksum[32];
    int is_kept, has_id;             /* out: the base's file holds the same; the new file has the save id in its name */
} dcpi_pool_file;
typedef struct dcpi_part {                              /* rank 0: one rank's share */
    uint8_t *list; size_t list_size;                    /* its message, owned */
    size_t first, count;                       /* its pieces in dcpi_save.entries; once planned, those that it writes */
    int64_t file_size, data_offset;                     /* data_offset: of its region in the single file, else 0 */
    size_t block_total;
    uint8_t *done; const uint8_t *digests;              /* its message when it had written, owned; the digests in it */
    char checksum[80];
    int is_plain;                                       /* its file has the name without the save id */
    uint32_t way;                                       /* DCPI_REGION_: how its region gets into the single file */
} dcpi_part;

struct dcpi_save {
    const dcp_save_desc *desc;
    /* >>async, or NULL: what keeps this save from beginning, the failure of an earlier one; another thing that cancels;
     * who is told how far the tensors have been read (where in the file; with a manifest, how many bytes), and asked
     * whether they can be once more */
    const dcp_error *earlier;
    const dcp_cancel *cancel_too;
    void *watcher; void (*taken)(void *watcher, int64_t filled_to); int (*again)(void *watcher);
    uint8_t *image;                  /* >>async, or NULL: the bytes of this rank's file or region, as for dcpi_stream */
    dcpi_op op;
    dcp_save_report report;
    /* prepare: decided once, for all ranks */
    dcpi_place place;
    const struct dcpi_commit_kind *kind;
    char *commit_name, *commit_key;
    int plain_names;                                    /* shards may have names without the save id */
    int displaces;                                      /* overwrite: a commit file was there in prepare */
    uint8_t displaced_digest[32];                       /* of its document */
    dcpi_names displaced, displaced_plain;       /* the data files that it names; those whose names may be used again */
    int is_taken_over;                                  /* another one has the commit lock now: L6 */
    int64_t alignment;
    /* list */
    dcpi_buffer list;
    /* plan: rank 0 */
    dcpi_part *parts;
    dcpi_entry *entries; size_t entry_count;
    int64_t json_size;                                  /* of the single file's document */
    /* plan: each rank */
    dcpi_placed *placed; size_t placed_count;           /* sorted by offset */
    int64_t block_size, file_size, data_offset;
    int64_t region_end;                                 /* of the single file: where the next rank's region starts */
    uint8_t (*digests)[32]; size_t block_total;
    /* write */
    char *shard_name;                    /* of the published shard file; of the commit file in the single-file layout */
    char checksum[80];
    int64_t write_began_ms;
    char *shard_key;                                    /* of the published shard file, NULL before that */
    void *region_object; uint32_t region_way;          /* another rank than 0: the single file, if it can write to it */
    void *single_object;                                /* the single file, open from write to commit */
    /* manifest layout: the base, of which unchanged files are kept (rank 0); what becomes of each piece */
    dcpi_arena texts;
    char *beacon_key;                                   /* rank 0, until the others have seen it; else NULL */
    char *intent_key;
    int64_t displaced_sequence;                         /* -1: not known */
    uint8_t digest[32];                                 /* of the document that is committed */
    /* sorted; 0: nothing can be kept */
    char *base_name; dcpi_document base; const dcpi_origin **base_order; size_t base_count;
    dcpi_pooled *pooled;                                /* for each of entries */
    dcpi_pool_file *files; dcpi_names published;             /* for each of placed; keys of what this rank has made */
    /* commit */
    dcpi_buffer done;                                   /* this rank's word that it has written */
    char timestamp[DCPI_TIME_TEXT];
    char *document_temporary;                           /* key of the temporary file that the rename takes */
};

/* The phases that are the caller's to wait for, with or without threads: from the arguments to each rank's part. */
static dcp_status dcpi_save_start(dcpi_save *s, dcp_error *err) {
    dcp_status status = dcpi_save_check(s, err);
    status = dcpi_save_agree(s, status, err);
    if (!status) status = dcpi_save_list(s, err);
    status = dcpi_save_plan(s, status, err);
    if (!status) status = dcpi_save_meet(s, err);
    if (!status) dcpi_op_phase(&s->op, DCP_PHASE_WRITE, s->file_size);
    return status;
}
DCPDEF dcp_status dcp_save(const dcp_save_desc *desc, dcp_error *err) {
    dcp_error local;
    dcpi_save s;
    dcp_status status;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "save: desc is NULL");
    memset(&s, 0, sizeof s);
    (void)dcpi_succeed(&local);
    s.desc = desc;
    status = dcpi_save_start(&s, &local);
    if (!status) status = dcpi_save_write(&s, &local);
    status = dcpi_save_commit(&s, status, &local);
    status = dcpi_save_finish(&s, status);
    if (!status) (void)dcpi_succeed(&local);
    if (err) *err = local;
    return status;
}

/* The report as far as it has come, to `out`, which may be NULL. */
static void dcpi_save_tell_report(dcpi_save *s, dcp_save_report *out) {
    dcp_report warnings;
    memset(&warnings, 0, sizeof warnings);
    dcpi_op_tell_warnings(&s->op, &warnings);
    s->report.warning_count = warnings.warning_count;
    memcpy(s->report.warning, warnings.warning, sizeof warnings.warning);
    if (out) *out = s->report;
}
static int dcpi_save_is_manifest(const dcpi_save *s) { return s->desc->layout == DCP_LAYOUT_MANIFEST; }

/* ---- check: arguments -------------------------------------------------------------------------------------------- */
static dcp_status dcpi_save_check_fields(const dcp_save_desc *desc, dcp_error *err) {
    const dcp_field **order;
    dcp_status status = DCP_OK;
    size_t i;
    if (desc->field_count > 0 && !desc->fields)
        return dcpi_fail(err, DCP_E_INVALID, "save: field_count is set, but fields is NULL");
    order = (const dcp_field **)dcpi_alloc_array(desc->field_count, sizeof *order, err);
    if (!order) return DCP_E_MEMORY;
    for (i = 0; i < desc->field_count && !status; i++) {
        order[i] = &desc->fields[i];
        if (!desc->fields[i].key || !desc->fields[i].value)
            status = dcpi_fail(err, DCP_E_INVALID, "save: fields[%" PRIu64 "] has no key or no value", (uint64_t)i);
    }
    if (!status) status = dcpi_sort((const void **)order, desc->field_count, dcpi_check_by_key, err);
    for (i = 1; i < desc->field_count && !status; i++)
        if (strcmp(order[i - 1]->key, order[i]->key) == 0)
            status = dcpi_fail(err, DCP_E_INVALID, "save: two fields have the key \"%s\"", order[i]->key);
    dcpi_free((void *)order);
    return status;
}
static dcp_status dcpi_save_check_options(const dcp_save_desc *desc, dcp_error *err) {
    if (!desc->path || desc->path[0] == '\0') return dcpi_fail(err, DCP_E_INVALID, "save: path is not set");
    if (desc->tensor_count > 0 && !desc->tensors)
        return dcpi_fail(err, DCP_E_INVALID, "save: tensor_count is %" PRIu64 ", but tensors is NULL",
                         (uint64_t)desc->tensor_count);
    if ((int)desc->layout < 0 || desc->layout > DCP_LAYOUT_MANIFEST)
        return dcpi_fail(err, DCP_E_INVALID, "save: layout %d is none", (int)desc->layout);
    if ((int)desc->checksum < 0 || desc->checksum > DCP_CHECKSUM_FLAT)
        return dcpi_fail(err, DCP_E_INVALID, "save: checksum %d is none", (int)desc->checksum);
    if (desc->alignment && (!dcpi_is_power_of_two(desc->alignment) || desc->alignment < 64 ||
                            desc->alignment > 2 * DCPI_MIB))
        return dcpi_fail(err, DCP_E_INVALID, "save: alignment must be a power of two from 64 to 2 MiB, or 0");
    if (desc->block_size && (!dcpi_is_power_of_two(desc->block_size) || desc->block_size < 256 * DCPI_KIB ||
                             desc->block_size > 1024 * DCPI_MIB))
        return dcpi_fail(err, DCP_E_INVALID, "save: block_size must be a power of two from 256 KiB to 1 GiB, or 0");
    if ((desc->tier_count > 0 && !desc->tiers) || (desc->router_seed_count > 0 && !desc->router_seeds))
        return dcpi_fail(err, DCP_E_INVALID, "save: tier_count or router_seed_count is set, but the list is NULL");
    if (desc->sharding && desc->sharding->shard_count != 0 &&
        desc->sharding->shard_count != (desc->io.coordinator ? desc->io.coordinator->world_size : 1))
        return dcpi_fail(err, DCP_E_INVALID, "save: sharding.shard_count is %" PRId64 "; it is 0 or the world size",
                         desc->sharding->shard_count);
    return DCP_OK;
}
/* Types of 4 bits: a piece must start and end at a byte of the whole tensor, or nobody could put it there. */
static int dcpi_cuts_no_byte(const dcp_tensor *t) {
    const int64_t origin[DCP_MAX_DIMS] = {0};
    int64_t stride[DCP_MAX_DIMS];
    dcpi_walk walk;
    if (dcp_dtype_bits(t->dtype) >= 8 || !dcpi_has_global(t) || dcpi_box_elements(t->ndim, t->shape) == 0) return 1;
    dcpi_row_major(t->ndim, t->shape, stride);
    return dcpi_walk_make(&walk, t->ndim, dcp_dtype_bits(t->dtype), t->shape, t->global_shape, t->global_offset, origin,
                          stride);
}
static dcp_status dcpi_save_check_role(const dcp_tensor *t, dcp_error *err) {
    int k;
    if ((int)t->role < 0 || t->role > DCP_ROLE_ROUTER)
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": role %d is none", t->name, (int)t->role);
    for (k = 0; k < 3; k++)
        if (t->expert_key[k] < 0)
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": expert_key[%d] is %" PRId64
                             ", but must not be negative", t->name, k, t->expert_key[k]);
    if (t->version < 0) return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": version is negative", t->name);
    if (t->tier && !dcpi_is_name(t->tier, DCP_LIMIT_NAME))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its tier has no valid name", t->name);
    return DCP_OK;
}
static dcp_status dcpi_save_check_extra(const dcp_save_desc *desc, const dcp_tensor *t, dcp_error *err) {
    const int list = t->role == DCP_ROLE_OPTIMIZER ? 1 : t->role == DCP_ROLE_ROUTER ? 2 : 0;
    const dcpi_record *record = desc->layout == DCP_LAYOUT_MANIFEST ?
        &dcpi_manifest_shard_records[list] : &dcpi_tensor_record;
    const dcp_status status = dcpi_text_check(t->extra, record->depth, record, 1, err);
    if (status) dcpi_fail_context(err, "tensor \"%s\": extra is not a JSON member list: ", t->name);
    return status;
}
static dcp_status dcpi_save_check_tensors(const dcp_save_desc *desc, dcp_error *err) {
    size_t i;
    for (i = 0; i < desc->tensor_count; i++) {
        const dcp_tensor *t = &desc->tensors[i];
        dcp_status status = dcpi_tensor_check(t, 1, err);
        if (!status) status = dcpi_tensor_check_data(t, err);
        if (!status && desc->layout == DCP_LAYOUT_MANIFEST) status = dcpi_save_check_role(t, err);
        if (!status && t->extra) status = dcpi_save_check_extra(desc, t, err);
        if (status) { dcpi_fail_context(err, "tensors[%" PRIu64 "]: ", (uint64_t)i); return status; }
        if (t->placement == DCP_PLACE_SHARDED && !dcpi_has_global(t) && dcpi_box_elements(t->ndim, t->shape) > 0)
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": placement is sharded, but global_shape is not set (dcp_piece sets it)",
                             t->name);
        if (t->placement == DCP_PLACE_PRIVATE && dcpi_has_global(t))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": placement is private, but global_shape is set: a private tensor is whole",
                             t->name);
        if (t->placement == DCP_PLACE_REPLICATED && memcmp(t->shape, dcpi_global_shape(t), sizeof t->shape) != 0)
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": placement is replicated, but the piece is only a box of global_shape: "
                             "that is sharded",
                    t->name);
        if (!dcpi_cuts_no_byte(t))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": the piece cuts a byte of the whole tensor, which holds two elements of %s",
                             t->name,
                    dcp_dtype_name(t->dtype));
    }
    return DCP_OK;
}
static dcp_status dcpi_save_check(dcpi_save *s, dcp_error *err) {
    dcp_error team;
    dcp_status status = dcpi_op_begin(&s->op, &s->desc->io, err), joined = dcpi_team_begin(&s->op, "save", &team);
    s->op.cancel_too = s->cancel_too;
    if (!status && joined) *err = team;
    if (!status) status = joined;
    if (s->earlier) { *err = *s->earlier; return s->earlier->status; }
    if (!status) status = dcpi_save_check_options(s->desc, err);
    if (!status) status = dcpi_save_check_fields(s->desc, err);
    if (!status) status = dcpi_save_check_tensors(s->desc, err);
    if (!status) status = dcpi_devices_begin(s->desc->tensors, s->desc->tensor_count, err);
    s->alignment = s->desc->alignment ? (int64_t)s->desc->alignment : 64;
    return status ? status : dcpi_op_check(&s->op, err);
}

/* ---- agree: all ranks want the same save; what rank 0 prepared --------------------------------------------------- */
static void dcpi_agree_number(dcpi_sha *sha, uint64_t value) {
    uint8_t bytes[8];
    dcpi_store64(bytes, value);
    dcpi_sha_update(sha, bytes, sizeof bytes);
}
static void dcpi_agree_digest(const dcpi_save *s, uint8_t digest[32]) {
    const dcp_save_desc *d = s->desc;
    dcpi_sha sha;
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, "save", 4);
    dcpi_sha_update(&sha, d->path, strlen(d->path));
    dcpi_agree_number(&sha, (uint64_t)d->layout);
    dcpi_agree_number(&sha, (uint64_t)d->checksum);
    dcpi_agree_number(&sha, d->alignment);
    dcpi_agree_number(&sha, d->block_size);
    dcpi_agree_number(&sha, (uint64_t)((d->overwrite != 0) | (d->allow_holes != 0) << 1 | (d->unique_names != 0) << 2 |
                                       (d->yaml != 0) << 3));
    dcpi_sha_final(&sha, digest);
}
static dcp_status dcpi_agree_go(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)user;
    uint8_t body[32] = {0};
    (void)rank; (void)err;
    memcpy(body, s->report.save_id, 16);
    dcpi_store64(body + 16, (uint64_t)s->report.sequence);
    body[24] = (uint8_t)s->plain_names;
    dcpi_buffer_add(message, body, sizeof body);
    return DCP_OK;
}
static dcp_status dcpi_agree_take(dcpi_save *s, dcp_error *err) {
    const dcpi_peer *lead = s->op.team.peers;
    const uint8_t *body = lead->message + DCPI_TEAM_HEADER;
    if (lead->size != DCPI_TEAM_HEADER + 32)
        return dcpi_fail(err, DCP_E_COMM, "save: rank 0 sent a message of another version of dcp.h");
    memcpy(s->report.save_id, body, 16);
    s->report.sequence = (int64_t)dcpi_load64(body + 16);
    s->plain_names = body[24];
    return DCP_OK;
}
static dcp_status dcpi_prepare_errand(void *save, dcp_error *err) { return dcpi_save_prepare((dcpi_save *)save, err); }

static dcp_status dcpi_save_agree(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    dcpi_hello hello;
    memset(&hello, 0, sizeof hello);
    if (!status) dcpi_agree_digest(s, hello.digest);
    hello.list = dcpi_hello_list(s->desc->tensors, s->desc->tensor_count);
    status = dcpi_hello_exchange(&s->op, status, &hello, "path, layout and options of a save must be equal", err);
    dcpi_op_phase(&s->op, DCP_PHASE_PREPARE, 0);
    if (!status && t->rank == 0) status = dcpi_op_errand(&s->op, dcpi_prepare_errand, s, err);
    status = dcpi_team_down(&s->op, status, dcpi_agree_go, s, DCPI_DOWN_SAME, err);
    if (!status && t->rank != 0) status = dcpi_agree_take(s, err);
    return status;
}

/* ---- prepare, manifest layout: the base, whose unchanged files are kept (DESIGN 2.4) ----------------------------- */
static int dcpi_pool_base_compare(const void *a_, const void *b_) {        /* which piece of which tensor an entry is */
    const dcpi_origin *a = (const dcpi_origin *)a_, *b = (const dcpi_origin *)b_;
    const dcp_manifest_shard *x = a->shard, *y = b->shard;
    const int is_private = x->placement && strcmp(x->placement, "private") == 0;
    int order = strcmp(x->tensor_name ? x->tensor_name : "", y->tensor_name ? y->tensor_name : ""), d;
    if (order) return order;
    if (a->role != b->role) return a->role < b->role ? -1 : 1;
    if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
    for (d = 0; d < 3; d++)
        if (x->expert_key[d] != y->expert_key[d]) return x->expert_key[d] < y->expert_key[d] ? -1 : 1;
    for (d = 0; d < DCP_MAX_DIMS; d++)
        if (x->global_offset[d] != y->global_offset[d]) return x->global_offset[d] < y->global_offset[d] ? -1 : 1;
    if (is_private) return x->rank < y->rank ? -1 : x->rank > y->rank;
    if (!dcpi_manifest_is_empty(x) || !dcpi_manifest_is_empty(y))
        return dcpi_manifest_is_empty(y) - dcpi_manifest_is_empty(x);
    for (d = 0; d < DCP_MAX_DIMS; d++) if (x->shape[d] != y->shape[d]) return x->shape[d] < y->shape[d] ? -1 : 1;
    return 0;
}
/* The entry for that piece in a sorted list; NULL: there is none. */
static const dcp_manifest_shard *dcpi_pool_base_search(const dcpi_origin *const *order, size_t count,
                                                       const dcpi_origin *wanted) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int compared = dcpi_pool_base_compare(order[middle], wanted);
        if (compared == 0) return order[middle]->shard;
        if (compared < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}
static dcp_status dcpi_pool_base_index(dcpi_save *s, dcp_error *err) {
    const size_t count = s->base.metadata->shard_count;
    size_t i;
    s->base_order = (const dcpi_origin **)dcpi_alloc_array(count, sizeof *s->base_order, err);
    if (!s->base_order) return DCP_E_MEMORY;
    for (i = 0; i < count; i++) s->base_order[i] = &s->base.origins[i];
    s->base_count = count;
    return dcpi_sort((const void **)(void *)s->base_order, count, dcpi_pool_base_compare, err);
}
/* First the intent, then the base again: who removes files looks for intents after commit files are gone, so one of the
 * two sees the other. A base that is gone or another one by then is none. */
static dcp_status dcpi_pool_base_find(dcpi_save *s, dcp_error *err) {
    uint8_t now[32];
    const char *name = s->base_name;
    dcp_status status = DCP_OK;
    if (name) {
        status = dcpi_document_read(&s->op, &s->place, name, NULL, &s->base, err);
        if (status && !dcpi_is_trouble(status)) {
            dcpi_op_log(&s->op, DCP_LOG_WARNING,
                        "every file is written anew, since the newest manifest cannot be read: %s", err->message);
            status = dcpi_succeed(err);
        }
    }
    if (!status)
        status = dcpi_intent_publish(&s->op, &s->place, s->place.name, s->report.save_id, name ? name : "",
                                     s->base.metadata && s->base.metadata->save_id ? s->base.metadata->save_id : "",
                                     &s->intent_key, err);
    if (!status && s->base.manifest) {
        status = dcpi_document_digest(&s->op, &s->place, name, now, err);
        if (!status && memcmp(now, s->base.digest, sizeof now) == 0) status = dcpi_pool_base_index(s, err);
        else if (!dcpi_is_trouble(status)) status = dcpi_succeed(err);
    }
    return status;
}
/* Where nobody asks for another size: the base's, so that digests can be compared. */
static int64_t dcpi_pool_base_block_size(const dcpi_save *s) {
    size_t i;
    for (i = 0; i < s->base_count; i++)
        if (s->base_order[i]->shard->block_size > 0) return s->base_order[i]->shard->block_size;
    return DCPI_CHUNK;
}

/* ---- prepare: what is there, and what the new files are called --------------------------------------------------- */
typedef struct dcpi_survey {
    const dcpi_place *place;
    char *shard_prefix; int has_shards;                 /* whether there are files of that prefix */
    dcpi_names commits;
    dcp_error *err;
} dcpi_survey;
static dcp_status dcpi_survey_one(void *user, const char *key, const dcp_object_info *info) {
    dcpi_survey *survey = (dcpi_survey *)user;
    const char *name = dcpi_place_name(survey->place, key);
    (void)info;
    if (dcpi_starts_with(name, survey->shard_prefix)) survey->has_shards = 1;
    return dcpi_commit_kind_of(name) ? dcpi_names_add(&survey->commits, name, survey->err) : DCP_OK;
}
/* Makes sure of a candidate's number; what is not intact has none. A document that this user may not read stops
 * nobody from saving: numbers leave room for the one that it may have. */
#define DCPI_SURVEY_ROOM ((int64_t)1 << 20)
static dcp_status dcpi_survey_ask(dcpi_save *s, dcpi_candidates *all, size_t at, int *dropped, int64_t *room,
                                  dcp_error *err) {
    dcpi_candidate *c = all->order[at];
    dcp_status status = DCP_OK;
    int tries;
    *dropped = 0;
    if (s->displaces && s->displaced_sequence >= 0 && strcmp(c->name, s->commit_name) == 0) {
        c->number = s->displaced_sequence;              /* it has just been read */
        c->is_sure = 1;
    }
    for (tries = 0; tries < 2 && !c->is_sure; tries++) {                /* once may be an accident */
        status = dcpi_candidate_read(&s->op, &s->place, NULL, c, err);
        if (status != DCP_E_IO || !dcpi_os_is_denied(err->sys)) break;
    }
    if (!status) return DCP_OK;
    if (status == DCP_E_IO && dcpi_os_is_denied(err->sys)) {
        *room = DCPI_SURVEY_ROOM;
        dcpi_op_log(&s->op, DCP_LOG_WARNING,
                    "%s%s may not be read: the new checkpoint's sequence number is one that is likely to be "
                    "higher than its own: %s", s->place.shown, c->name, err->message);
    } else if (dcpi_is_trouble(status)) return status;
    dcpi_candidates_drop(all, at);
    *dropped = 1;
    return dcpi_succeed(err);
}
/* 1 + the highest number; and the newest manifest, if this is to be one. */
static dcp_status dcpi_survey_number(dcpi_save *s, dcpi_candidates *all, dcp_error *err) {
    const int wants_base = dcpi_save_is_manifest(s);
    int64_t highest = 0, room = 0;
    int dropped;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = all->count; i-- > 0 && !status;)
        if (all->order[i]->number == DCPI_CLAIM_UNKNOWN) status = dcpi_survey_ask(s, all, i, &dropped, &room, err);
    if (!status) status = dcpi_candidates_sort(all, err);
    for (i = 0; i < all->count && !status;) {
        const dcpi_candidate *c = all->order[i];
        const int is_manifest = dcpi_commit_kind_of(c->name)->layout == DCP_LAYOUT_MANIFEST;
        const int may_be_base = is_manifest && wants_base && !s->base_name;
        if (c->number <= highest && !may_be_base) { i++; continue; }
        status = dcpi_survey_ask(s, all, i, &dropped, &room, err);
        if (status || dropped) continue;
        highest = dcpi_max(highest, c->number);
        if (may_be_base) s->base_name = dcpi_copy_text(c->name, err);
        if (may_be_base && !s->base_name) status = DCP_E_MEMORY;
        i++;
    }
    if (!status && highest == INT64_MAX)
        return dcpi_fail(err, DCP_E_LIMIT,
                         "a checkpoint in \"%s\" has the highest sequence number there is (%" PRId64 "): no newer "
                         "one can be told from it; remove it, or save elsewhere", s->place.shown, highest);
    s->report.sequence = status ? 0 : highest < INT64_MAX - room ? highest + 1 + room : INT64_MAX;
    return status;
}
static dcp_status dcpi_save_survey(dcpi_save *s, int has_commit, dcp_error *err) {
    dcpi_survey survey;
    dcpi_candidates all;
    size_t size = strlen(s->place.name) + sizeof "_shard_";
    dcp_status status;
    memset(&survey, 0, sizeof survey);
    memset(&all, 0, sizeof all);
    survey.place = &s->place;
    survey.err = err;
    survey.shard_prefix = (char *)dcpi_alloc(size, err);
    if (!survey.shard_prefix) return DCP_E_MEMORY;
    (void)snprintf(survey.shard_prefix, size, "%s_shard_", s->place.name);
    status = dcpi_storage_list(s->place.storage, s->place.directory, dcpi_survey_one, &survey, err);
    /* the storage makes its directories with their first files */
    if (status == DCP_E_NOT_FOUND) status = dcpi_succeed(err);
    if (!status) status = dcpi_candidates_make(&s->op, &s->place, &survey.commits, 1, &all, err);
    if (!status) status = dcpi_survey_number(s, &all, err);
    dcpi_candidates_free(&all);
    dcpi_names_free(&survey.commits);
    dcpi_free(survey.shard_prefix);
    /* where publishing may replace, a plain name says nothing of whose file it is */
    s->plain_names = !has_commit && !survey.has_shards && !s->desc->unique_names &&
                     (s->place.storage->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH) != 0;
    return status;
}
static dcp_status dcpi_save_note_displaced(dcpi_save *s, dcp_error *err) {
    dcpi_document document;
    dcpi_names own;
    size_t i;
    dcp_status status = dcpi_document_read(&s->op, &s->place, s->commit_name, NULL, &document, err);
    if (dcpi_is_trouble(status)) return status;
    memcpy(s->displaced_digest, document.digest, sizeof s->displaced_digest);
    s->displaced_sequence = status ? -1 : document.metadata->sequence;
    if (status) {
        dcpi_op_log(&s->op, DCP_LOG_WARNING,
                    "the checkpoint to be replaced is damaged; its data files will be left to sweep: %s", err->message);
        return dcpi_succeed(err);
    }
    memset(&own, 0, sizeof own);
    status = dcpi_names_add_data(&own, s->commit_name, document.metadata, err);
    for (i = 0; i < own.count && !status; i++) {
        const int is_plain = !dcpi_save_is_manifest(s) && dcpi_removal_needs_lock(own.items[i]);
        status = dcpi_names_add(is_plain ? &s->displaced_plain : &s->displaced, own.items[i], err);
    }
    dcpi_names_free(&own);
    dcpi_document_free(&document);
    return status;
}
/* The commit file that is there already: refused, or read, so that commit can see that it is still the same and finish
 * can clean up after it. */
static dcp_status dcpi_save_look_for_commit(dcpi_save *s, int *has_commit, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    int count;
    dcp_status status = dcpi_commit_find(&s->place, s->place.name, found, &count, err);
    *has_commit = !status && count > 0;
    if (status || count == 0) return status;
    if (!s->desc->overwrite)
        return dcpi_fail(err, DCP_E_EXISTS,
                         "there is a checkpoint already: %s%s%s (set overwrite to replace it, or use another path)",
                         s->place.shown, s->place.name, found[0]->suffix);
    if (count > 1 || found[0] != s->kind)
        return dcpi_fail(err, DCP_E_EXISTS,
                         "%s%s%s is there, a checkpoint in another layout; overwrite replaces only the same one: "
                         "remove it first",
                s->place.shown, s->place.name,
                         found[found[0] == s->kind]->suffix);
    s->displaces = 1;
    return dcpi_save_note_displaced(s, err);
}
/* Each rank: the place and the names in it. */
static dcp_status dcpi_save_place(dcpi_save *s, dcp_error *err) {
    const struct dcpi_commit_kind *given;
    dcp_status status = dcpi_place_open(&s->place, s->desc->io.storage, s->desc->path, 1, err);
    s->kind = &dcpi_commit_kinds[s->desc->layout == DCP_LAYOUT_MANIFEST ? 2 + (s->desc->yaml != 0) : s->desc->layout ==
                                 DCP_LAYOUT_SINGLE];
    if (status) return status;
    given = dcpi_commit_kind_of(s->place.name);
    if (given) s->place.name[strlen(s->place.name) - strlen(given->suffix)] = '\0';
    if (dcpi_commit_kind_of(s->place.name) || strlen(s->place.name) > DCP_LIMIT_PREFIX)
        return dcpi_fail(err, DCP_E_INVALID,
                         "save: the last part of the path has 1 to %d bytes and no further commit suffix: \"%s\"",
                         (int)DCP_LIMIT_PREFIX, s->place.name);
    if (!dcpi_key_is_portable(s->place.name) || (s->place.directory[0] && !dcpi_key_is_portable(s->place.directory)))
        return dcpi_fail(err, DCP_E_INVALID, "save: \"%.200s\" is no name for a checkpoint: %s",
                         dcpi_key_is_portable(s->place.name) ? s->place.directory : s->place.name, dcpi_portable_words);
    s->commit_name = dcpi_commit_name(s->place.name, s->kind, err);
    s->commit_key = s->commit_name ? dcpi_place_key(&s->place, s->commit_name, err) : NULL;
    if (!s->commit_key) return DCP_E_MEMORY;
    status = dcpi_place_report(&s->place, s->commit_name, s->report.path, err);
    if (status) return status;
    s->report.not_durable = ~s->place.storage->flags & DCPI_STORAGE_PROMISES;
    if (s->kind->layout == DCP_LAYOUT_SINGLE && !(s->place.storage->flags & DCP_STORAGE_RANDOM_WRITE))
        return dcpi_fail(err, DCP_E_UNSUPPORTED,
                         "the single-file layout writes its header last, and this storage cannot write at an offset; "
                         "use the sharded one");
    return DCP_OK;
}
/* ---- prepare: all ranks see one storage -----------------------------------------------------------------------------
 * Before anything is written the other ranks look for a file of rank 0's: a manifest's intent, else an empty one with
 * the name that a temporary file of the lock would have, which sweep knows. The regions of a single file can go through
 * rank 0, so that layout needs none. */
static char *dcpi_beacon_key(const dcpi_save *s, dcp_error *err) {
    const int is_manifest = dcpi_save_is_manifest(s);
    const size_t size = strlen(s->place.name) + 64;
    char *key, *name = (char *)dcpi_alloc(size, err);
    if (!name) return NULL;
    if (is_manifest) (void)snprintf(name, size, "%s.manifest.%s.intent.tmp", s->place.name, s->report.save_id);
    else (void)snprintf(name, size, "%s%s.%s.tmp", s->place.name, dcpi_lock_suffix, s->report.save_id);
    key = dcpi_place_key(&s->place, name, err);
    dcpi_free(name);
    return key;
}
static int dcpi_beacon_is_needed(const dcpi_save *s) {
    return s->op.team.world_size > 1 && s->kind->layout != DCP_LAYOUT_SINGLE;
}
static dcp_status dcpi_beacon_publish(dcpi_save *s, dcp_error *err) {
    if (!dcpi_beacon_is_needed(s) || dcpi_save_is_manifest(s)) return DCP_OK;
    s->beacon_key = dcpi_beacon_key(s, err);
    if (!s->beacon_key) return DCP_E_MEMORY;
    return dcpi_object_publish(&s->op, s->place.storage, s->beacon_key, "", 0, err);
}
static dcp_status dcpi_beacon_remove(void *save, dcp_error *err) {    /* rank 0, when all have looked, or nobody will */
    dcpi_save *s = (dcpi_save *)save;
    if (!s->beacon_key) return DCP_OK;
    if (dcpi_storage_remove(s->place.storage, s->beacon_key, err))
        dcpi_op_log(&s->op, DCP_LOG_WARNING, "left %s for sweep: %s", s->beacon_key, err->message);
    dcpi_free(s->beacon_key);
    s->beacon_key = NULL;
    return DCP_OK;
}
/* Other ranks. A network file system may show a new file late, so it is looked for as often as io.retry allows. */
static dcp_status dcpi_beacon_see(void *save, dcp_error *err) {
    dcpi_save *s = (dcpi_save *)save;
    dcp_object_info info;
    char *key = dcpi_beacon_key(s, err);
    int attempt = 0;
    dcp_status status;
    if (!key) return DCP_E_MEMORY;
    do status = dcpi_storage_stat(s->place.storage, key, &info, err);
    while (status && dcpi_op_retry(&s->op, NULL, status == DCP_E_NOT_FOUND || dcpi_storage_is_transient(err), ++attempt,
                                   "looking for rank 0's file", err));
    dcpi_free(key);
    if (err->status != DCP_E_NOT_FOUND) return err->status;
    return dcpi_fail(err, DCP_E_MISMATCH, "this rank does not see what rank 0 has made in \"%s\": path must be on a "
                     "storage that all ranks see (or use the single-file layout, whose bytes can go through rank 0)",
                     s->place.shown);
}
static dcp_status dcpi_save_prepare(dcpi_save *s, dcp_error *err) {
    int has_commit = 0;
    dcp_status status = dcpi_random_id(s->report.save_id, err);
    dcpi_time_format(dcpi_os_wall_us(), s->timestamp);
    if (!status) status = dcpi_save_place(s, err);
    if (!status) status = dcpi_place_sync_all(&s->place, err);
    if (!status) status = dcpi_save_look_for_commit(s, &has_commit, err);
    if (!status) status = dcpi_save_survey(s, has_commit, err);
    if (!status) status = dcpi_beacon_publish(s, err);
    return status || !dcpi_save_is_manifest(s) ? status : dcpi_pool_base_find(s, err);
}

/* ---- list: this rank's pieces, as rank 0 gets them ------------------------------------------------------------------
 * count (8 bytes), then for each: type, dimensions, placement, what follows (1 byte each), name with its NUL, its
 * tier and its extra likewise, and as varints the expert key, the version, the shape, the global shape and offset. */
enum {
    DCPI_LISTED_GLOBAL = 1, DCPI_LISTED_ROLE = 2, DCPI_LISTED_ROLE_BITS = 12, DCPI_LISTED_TIER = 16,
    DCPI_LISTED_VERSION = 32, DCPI_LISTED_EXTRA = 64
};
typedef struct dcpi_listed {
    const char *name; dcp_dtype dtype; int ndim; dcp_placement placement; int has_global;
    dcp_role role; const char *tier, *extra; int64_t expert_key[3], version;
    int64_t shape[DCP_MAX_DIMS], global_shape[DCP_MAX_DIMS], global_offset[DCP_MAX_DIMS];
} dcpi_listed;

static void dcpi_list_number(dcpi_buffer *out, uint64_t value) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    dcpi_buffer_add(out, bytes, n);
}
static dcp_placement dcpi_list_placement(const dcp_tensor *t, int world_size) {        /* what AUTO means */
    if (t->placement != DCP_PLACE_AUTO) return t->placement;
    if (dcpi_has_global(t)) return DCP_PLACE_SHARDED;
    return world_size == 1 ? DCP_PLACE_REPLICATED : DCP_PLACE_PRIVATE;
}
static void dcpi_list_piece(dcpi_buffer *out, const dcp_tensor *t, int world_size, int is_manifest) {
    const dcp_placement placement = dcpi_list_placement(t, world_size);
    const int has_global = dcpi_has_global(t);
    uint8_t head[4];
    int d;
    head[0] = (uint8_t)t->dtype;
    head[1] = (uint8_t)t->ndim;
    head[2] = (uint8_t)placement;
    head[3] = (uint8_t)has_global;
    if (is_manifest) {
        head[3] = (uint8_t)(has_global | DCPI_LISTED_ROLE | (int)t->role << 2 | (t->tier ? DCPI_LISTED_TIER : 0) |
                            (t->version ? DCPI_LISTED_VERSION : 0));
    }
    if (t->extra) head[3] = (uint8_t)(head[3] | DCPI_LISTED_EXTRA);
    dcpi_buffer_add(out, head, sizeof head);
    dcpi_buffer_add(out, t->name, strlen(t->name) + 1);
    if (head[3] & DCPI_LISTED_TIER) dcpi_buffer_add(out, t->tier, strlen(t->tier) + 1);
    if (head[3] & DCPI_LISTED_EXTRA) dcpi_buffer_add(out, t->extra, strlen(t->extra) + 1);
    for (d = 0; d < 3 && (head[3] & DCPI_LISTED_ROLE); d++) dcpi_list_number(out, (uint64_t)t->expert_key[d]);
    if (head[3] & DCPI_LISTED_VERSION) dcpi_list_number(out, (uint64_t)t->version);
    for (d = 0; d < t->ndim; d++) dcpi_list_number(out, (uint64_t)t->shape[d]);
    for (d = 0; d < t->ndim && has_global; d++) dcpi_list_number(out, (uint64_t)t->global_shape[d]);
    for (d = 0; d < t->ndim && has_global; d++) dcpi_list_number(out, (uint64_t)t->global_offset[d]);
}
static dcp_status dcpi_save_list(dcpi_save *s, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    uint8_t count[8];
    size_t i;
    dcp_status status = t->rank == 0 ? DCP_OK : dcpi_save_place(s, err);
    if (!status && t->rank != 0 && dcpi_beacon_is_needed(s)) status = dcpi_op_errand(&s->op, dcpi_beacon_see, s, err);
    dcpi_op_phase(&s->op, DCP_PHASE_PLAN, 0);
    if (status) return status;
    dcpi_team_message_start(&s->list);
    dcpi_store64(count, (uint64_t)s->desc->tensor_count);
    dcpi_buffer_add(&s->list, count, sizeof count);
    for (i = 0; i < s->desc->tensor_count; i++)
        dcpi_list_piece(&s->list, &s->desc->tensors[i], t->world_size, dcpi_save_is_manifest(s));
    return s->list.failed ? dcpi_no_memory(err, s->list.size) : DCP_OK;
}
static int dcpi_listed_number(const uint8_t **at, const uint8_t *end, int64_t *out) {
    uint64_t value = 0;
    int shift;
    for (shift = 0; *at < end && shift < 63; shift += 7) {
        const uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        *out = (int64_t)value;
        if (byte < 0x80) return 1;
    }
    return 0;
}
/* Where the next record starts; NULL: this is none. */
static const uint8_t *dcpi_listed_read(const uint8_t *at, const uint8_t *end, dcpi_listed *out) {
    const uint8_t *nul;
    int d, flags;
    memset(out, 0, sizeof *out);
    if (end - at < 5 || at[0] == 0 || at[0] > DCP_OPAQUE || at[1] > DCP_MAX_DIMS || at[2] > DCP_PLACE_SHARDED ||
        at[3] > 127)
        return NULL;
    out->dtype = (dcp_dtype)at[0];
    out->ndim = at[1];
    out->placement = (dcp_placement)at[2];
    flags = at[3];
    out->has_global = flags & DCPI_LISTED_GLOBAL;
    out->role = (dcp_role)((flags & DCPI_LISTED_ROLE_BITS) >> 2);
    out->name = (const char *)at + 4;
    nul = (const uint8_t *)memchr(at + 4, 0, (size_t)(end - at - 4));
    if (!nul) return NULL;
    at = nul + 1;
    if (flags & DCPI_LISTED_TIER) {
        out->tier = (const char *)at;
        nul = (const uint8_t *)memchr(at, 0, (size_t)(end - at));
        if (!nul) return NULL;
        at = nul + 1;
    }
    if (flags & DCPI_LISTED_EXTRA) {
        out->extra = (const char *)at;
        nul = (const uint8_t *)memchr(at, 0, (size_t)(end - at));
        if (!nul) return NULL;
        at = nul + 1;
    }
    for (d = 0; d < 3 && (flags & DCPI_LISTED_ROLE); d++)
        if (!dcpi_listed_number(&at, end, &out->expert_key[d])) return NULL;
    if ((flags & DCPI_LISTED_VERSION) && !dcpi_listed_number(&at, end, &out->version)) return NULL;
    for (d = 0; d < out->ndim; d++) if (!dcpi_listed_number(&at, end, &out->shape[d])) return NULL;
    memcpy(out->global_shape, out->shape, sizeof out->shape);
    for (d = 0; d < out->ndim && out->has_global; d++)
        if (!dcpi_listed_number(&at, end, &out->global_shape[d])) return NULL;
    for (d = 0; d < out->ndim && out->has_global; d++)
        if (!dcpi_listed_number(&at, end, &out->global_offset[d])) return NULL;
    return at;
}

/* ---- plan: rank 0 has all lists ---------------------------------------------------------------------------------- */
static dcp_status dcpi_plan_take_lists(dcpi_save *s, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    uint64_t total = 0;
    int r;
    s->parts = (dcpi_part *)dcpi_alloc_array((size_t)t->world_size, sizeof *s->parts, err);
    if (!s->parts) return DCP_E_MEMORY;
    for (r = 0; r < t->world_size; r++) {
        dcpi_part *part = &s->parts[r];
        part->list = r ? t->peers[r].message : (uint8_t *)s->list.data;
        part->list_size = r ? t->peers[r].size : s->list.size;
        if (r) t->peers[r].message = NULL;
        else memset(&s->list, 0, sizeof s->list);
        if (part->list_size < DCPI_TEAM_HEADER + 8)
            return dcpi_fail(err, DCP_E_COMM, "save: rank %d sent no list of its tensors", r);
        total += dcpi_load64(part->list + DCPI_TEAM_HEADER);
        if (total > (uint64_t)DCP_LIMIT_TENSORS)
            return dcpi_fail(err, DCP_E_LIMIT, "save: the ranks have more than DCP_LIMIT_TENSORS (%" PRIu64 ") pieces",
                             (uint64_t)DCP_LIMIT_TENSORS);
    }
    s->entries = (dcpi_entry *)dcpi_alloc_array((size_t)total, sizeof *s->entries, err);
    return s->entries ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_plan_read_list(dcpi_save *s, int rank, dcp_error *err) {
    dcpi_part *part = &s->parts[rank];
    const uint8_t *at = part->list + DCPI_TEAM_HEADER + 8, *end = part->list + part->list_size;
    size_t i;
    part->first = s->entry_count;
    part->count = (size_t)dcpi_load64(part->list + DCPI_TEAM_HEADER);
    for (i = 0; i < part->count; i++) {
        dcpi_entry *entry = &s->entries[s->entry_count++];
        dcpi_listed record;
        entry->record = at;
        entry->rank = rank;
        at = dcpi_listed_read(at, end, &record);
        if (!at) return dcpi_fail(err, DCP_E_COMM, "save: rank %d sent a list of another version of dcp.h", rank);
        if (!dcpi_mul(dcpi_box_elements(record.ndim, record.shape), dcp_dtype_bits(record.dtype), &entry->size))
            entry->size = INT64_MAX;
        entry->size = entry->size / 8 + (entry->size % 8 != 0);
    }
    return DCP_OK;
}

/* Pieces of one name, found by its hash: chained in the order of ranks. There may be a thousand times as many pieces as
 * names. */
/* first, last: entries, plus one */
typedef struct dcpi_namesakes { uint64_t hash; size_t first, last, count; } dcpi_namesakes;
typedef struct dcpi_grouping {
    dcpi_namesakes *groups; size_t group_count, capacity;
    size_t *slots, mask;                                /* groups, plus one; 0: free. At most half of them are taken */
    size_t *next;                                       /* for each entry, plus one */
} dcpi_grouping;

static uint64_t dcpi_group_hash(const char *name) {     /* FNV-1a, mixed: names are ours, nobody attacks them */
    uint64_t h = 14695981039346656037u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 1099511628211u;
    return h ^ h >> 29;
}
static dcp_status dcpi_group_grow(dcpi_grouping *g, dcp_error *err) {
    size_t size = g->slots ? 2 * (g->mask + 1) : 1024, i, at;
    void *memory = g->groups;
    size_t *slots = (size_t *)dcpi_alloc_array(size, sizeof *slots, err);
    if (!slots) return DCP_E_MEMORY;
    dcpi_free(g->slots);
    g->slots = slots;
    g->mask = size - 1;
    if (!dcpi_grow(&memory, &g->capacity, size / 2, sizeof *g->groups, err)) return DCP_E_MEMORY;
    g->groups = (dcpi_namesakes *)memory;
    for (i = 0; i < g->group_count; i++) {
        for (at = (size_t)g->groups[i].hash & g->mask; slots[at]; at = (at + 1) & g->mask) {}
        slots[at] = i + 1;
    }
    return DCP_OK;
}
static dcp_status dcpi_plan_group(const dcpi_save *s, dcpi_grouping *g, dcp_error *err) {
    size_t i, at;
    memset(g, 0, sizeof *g);
    g->next = (size_t *)dcpi_alloc_array(s->entry_count, sizeof *g->next, err);
    if (!g->next) return DCP_E_MEMORY;
    for (i = 0; i < s->entry_count; i++) {
        const char *name = (const char *)s->entries[i].record + 4;
        const uint64_t hash = dcpi_group_hash(name);
        dcpi_namesakes *group = NULL;
        if (2 * g->group_count >= g->mask && dcpi_group_grow(g, err)) return DCP_E_MEMORY;
        for (at = (size_t)hash & g->mask; g->slots[at]; at = (at + 1) & g->mask) {
            group = &g->groups[g->slots[at] - 1];
            if (group->hash == hash && strcmp((const char *)s->entries[group->first - 1].record + 4, name) == 0) break;
        }
        if (g->slots[at]) {
            g->next[group->last - 1] = i + 1;
        } else {
            g->slots[at] = g->group_count + 1;
            group = &g->groups[g->group_count++];
            group->hash = hash;
            group->first = i + 1;
            group->count = 0;
        }
        group->count++;
        group->last = i + 1;
    }
    return DCP_OK;
}
static void dcpi_grouping_free(dcpi_grouping *g) {
    dcpi_free(g->groups);
    dcpi_free(g->slots);
    dcpi_free(g->next);
}

/* ---- plan: the pieces of one tensor fit together */
/* one piece of the tensor that is looked at */
typedef struct dcpi_fit { dcpi_listed record; size_t entry; int rank; } dcpi_fit;

static int dcpi_fit_compare(const void *a_, const void *b_) {
    const dcpi_fit *a = (const dcpi_fit *)a_, *b = (const dcpi_fit *)b_;
    int d;
    for (d = 0; d < a->record.ndim; d++)
        if (a->record.global_offset[d] != b->record.global_offset[d])
            return a->record.global_offset[d] < b->record.global_offset[d] ? -1 : 1;
    for (d = 0; d < a->record.ndim; d++)
        if (a->record.shape[d] != b->record.shape[d]) return a->record.shape[d] < b->record.shape[d] ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}
static int dcpi_fit_same_offset(const dcpi_fit *a, const dcpi_fit *b) {
    return memcmp(a->record.global_offset, b->record.global_offset, sizeof a->record.global_offset) == 0;
}
static int dcpi_fit_is_replica(const dcpi_fit *a, const dcpi_fit *b) {
    return dcpi_fit_same_offset(a, b) && memcmp(a->record.shape, b->record.shape, sizeof a->record.shape) == 0;
}
static dcp_status dcpi_fit_agree(const dcpi_fit *a, const dcpi_fit *b, dcp_error *err) {
    const dcpi_listed *x = &a->record, *y = &b->record;
    const char *what = NULL;
    if (x->placement != y->placement) what = "placements";
    else if (x->role != y->role || memcmp(x->expert_key, y->expert_key, sizeof x->expert_key) != 0)
        what = "roles or expert keys";
    else if (strcmp(x->tier ? x->tier : "", y->tier ? y->tier : "") != 0) what = "tiers";
    else if (x->placement == DCP_PLACE_PRIVATE) return DCP_OK;
    else if (x->dtype != y->dtype) what = "data types";
    else if (x->ndim != y->ndim) what = "numbers of dimensions";
    else if (memcmp(x->global_shape, y->global_shape, sizeof x->global_shape) != 0) what = "global shapes";
    if (!what) return DCP_OK;
    (void)dcpi_fail(err, DCP_E_MISMATCH, "tensor \"%s\": the pieces of rank %d and rank %d have different %s", x->name,
                    a->rank, b->rank, what);
    err->rank = b->rank;
    return DCP_E_MISMATCH;
}
static dcp_status dcpi_fit_twice(const dcpi_fit *fit, dcp_error *err) {
    char text[160];
    (void)dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\" is in the list of rank %d twice with the same global_offset %s",
                    fit->record.name, fit->rank, dcpi_box_text(fit->record.ndim, fit->record.global_offset,
                                                               fit->record.shape, text, sizeof text));
    err->rank = fit->rank;
    return DCP_E_INVALID;
}
/* Distinct boxes, sorted: they do not overlap, and cover the tensor. */
static dcp_status dcpi_fit_tile(const dcpi_save *s, dcpi_fit *const *fits, size_t count, dcp_error *err) {
    const dcpi_listed *first = &fits[0]->record;
    const int64_t origin[DCP_MAX_DIMS] = {0};
    char text[160], other[160];
    dcpi_tiling tiling;
    dcpi_tiles result;
    dcpi_tile *tiles = (dcpi_tile *)dcpi_alloc_array(count, sizeof *tiles, err), **order;
    size_t i, n = 0;
    dcp_status status = DCP_OK;
    order = tiles ? (dcpi_tile **)dcpi_alloc_array(count, sizeof *order, err) : NULL;
    if (!order) { dcpi_free(tiles); return DCP_E_MEMORY; }
    for (i = 0; i < count; i++) {
        const dcpi_listed *record = &fits[i]->record;
        if (dcpi_box_elements(record->ndim, record->shape) == 0 || (i > 0 && dcpi_fit_is_replica(fits[i - 1], fits[i])))
            continue;
        tiles[n].offset = record->global_offset;
        tiles[n].shape = record->shape;
        tiles[n].tag = i;
        order[n] = &tiles[n];
        n++;
    }
    result = dcpi_tiling_check(&tiling, first->ndim, order, n, origin, first->global_shape);
    if (result == DCPI_TILES_NO_MEMORY) status = dcpi_no_memory(err, count * sizeof *tiles);
    if (result == DCPI_TILES_IRREGULAR)
        status = dcpi_fail(err, DCP_E_LIMIT, "tensor \"%s\": its %" PRIu64 " pieces are cut too irregularly to check",
                           first->name, (uint64_t)count);
    if (result == DCPI_TILES_OVERLAP) {
        const dcpi_fit *a = fits[tiling.overlap[0]], *b = fits[tiling.overlap[1]];
        status = dcpi_fail(err, DCP_E_MISMATCH,
                           "tensor \"%s\": the pieces %s (rank %d) and %s (rank %d) overlap: save what each rank owns, "
                           "without its halo; a load may ask for any box, halo included", first->name,
                           dcpi_box_text(first->ndim, a->record.global_offset, a->record.shape, text, sizeof text),
                           a->rank,
                           dcpi_box_text(first->ndim, b->record.global_offset, b->record.shape, other, sizeof other),
                           b->rank);
        err->rank = b->rank;
    }
    if (result == DCPI_TILES_OK && tiling.has_hole && !s->desc->allow_holes)
        status = dcpi_fail(err, DCP_E_INCOMPLETE,
                           "%stensor \"%s\": no piece holds %s of its global shape (allow_holes permits that)",
                           s->desc->io.coordinator ? ""
                           : "no coordinator was set (io.coordinator), so this process saves alone: ",
                           first->name, dcpi_box_text(first->ndim, tiling.hole_offset, tiling.hole_shape, text,
                                                      sizeof text));
    dcpi_free(order);
    dcpi_free(tiles);
    return status;
}

/* Equal boxes on several ranks: one of them writes. */
typedef struct dcpi_replicas { size_t first, count; int64_t size; } dcpi_replicas;     /* in dcpi_writers.members */
typedef struct dcpi_writers {
    int64_t *load;                                      /* bytes that each rank writes so far */
    size_t *members, member_count, member_capacity;     /* entries */
    dcpi_replicas *sets; size_t set_count, set_capacity;
} dcpi_writers;

static dcp_status dcpi_writers_add(dcpi_writers *w, dcpi_fit *const *fits, size_t count, int64_t size, dcp_error *err) {
    void *members = w->members, *sets = w->sets;
    size_t i;
    if (!dcpi_grow(&members, &w->member_capacity, w->member_count + count, sizeof *w->members, err))
        return DCP_E_MEMORY;
    w->members = (size_t *)members;
    if (!dcpi_grow(&sets, &w->set_capacity, w->set_count + 1, sizeof *w->sets, err)) return DCP_E_MEMORY;
    w->sets = (dcpi_replicas *)sets;
    w->sets[w->set_count].first = w->member_count;
    w->sets[w->set_count].count = count;
    w->sets[w->set_count++].size = size;
    for (i = 0; i < count; i++) w->members[w->member_count++] = fits[i]->entry;
    return DCP_OK;
}
static dcp_status dcpi_fit_writers(dcpi_save *s, dcpi_fit *const *fits, size_t count, dcpi_writers *w, dcp_error *err) {
    size_t i, end;
    dcp_status status = DCP_OK;
    for (i = 0; i < count && !status; i = end) {
        dcpi_entry *entry = &s->entries[fits[i]->entry];
        for (end = i + 1; end < count && fits[i]->record.placement != DCP_PLACE_PRIVATE &&
             dcpi_fit_is_replica(fits[i], fits[end]);) end++;
        if (end - i > 1) {
            status = dcpi_writers_add(w, fits + i, end - i, entry->size, err);
        } else {
            entry->is_written = 1;
            if (!dcpi_add(w->load[entry->rank], entry->size, &w->load[entry->rank])) w->load[entry->rank] = INT64_MAX;
        }
    }
    return status;
}
static dcp_status dcpi_fit_check(const dcpi_save *s, dcpi_fit *fits, dcpi_fit **order, size_t count, dcp_error *err) {
    const int is_private = fits[0].record.placement == DCP_PLACE_PRIVATE;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 1; i < count && !status; i++) {
        status = dcpi_fit_agree(&fits[0], &fits[i], err);
        if (!status && is_private && fits[i].rank == fits[i - 1].rank) status = dcpi_fit_twice(&fits[i], err);
    }
    if (status || is_private) return status;
    status = dcpi_sort((const void **)order, count, dcpi_fit_compare, err);
    for (i = 1; i < count && !status; i++)
        if (order[i]->rank == order[i - 1]->rank && dcpi_fit_same_offset(order[i], order[i - 1]))
            status = dcpi_fit_twice(order[i], err);
    if (status || !fits[0].record.has_global) return status;
    return dcpi_fit_tile(s, order, count, err);
}
static dcp_status dcpi_plan_tensor(dcpi_save *s, const dcpi_grouping *g, const dcpi_namesakes *group, dcpi_writers *w,
                                   dcp_error *err) {
    dcpi_fit one, *fits = &one, *only = &one, **order = &only;
    dcp_status status = DCP_OK;
    size_t i, at = group->first;
    if (group->count > 1) {
        fits = (dcpi_fit *)dcpi_alloc_array(group->count, sizeof *fits, err);
        order = fits ? (dcpi_fit **)dcpi_alloc_array(group->count, sizeof *order, err) : NULL;
        if (!order) { dcpi_free(fits); return DCP_E_MEMORY; }
    }
    for (i = 0; i < group->count; i++, at = g->next[at - 1]) {
        const dcpi_entry *entry = &s->entries[at - 1];
        const dcpi_part *part = &s->parts[entry->rank];
        (void)dcpi_listed_read(entry->record, part->list + part->list_size, &fits[i].record);
        fits[i].entry = at - 1;
        fits[i].rank = entry->rank;
        order[i] = &fits[i];
    }
    status = dcpi_fit_check(s, fits, order, group->count, err);
    if (!status) status = dcpi_fit_writers(s, order, group->count, w, err);
    if (fits != &one) { dcpi_free((void *)order); dcpi_free(fits); }
    return status;
}
static int dcpi_replicas_compare(const void *a, const void *b) {
    /* the largest first: then the small ones even it out */
    int64_t x = ((const dcpi_replicas *)a)->size, y = ((const dcpi_replicas *)b)->size;
    return x > y ? -1 : x < y;
}
/* Each goes to the rank that has least to write among those that hold it. */
static dcp_status dcpi_plan_choose(dcpi_save *s, dcpi_writers *w, dcp_error *err) {
    const void **order = (const void **)dcpi_alloc_array(w->set_count, sizeof *order, err);
    dcp_status status;
    size_t i, m;
    if (!order) return DCP_E_MEMORY;
    for (i = 0; i < w->set_count; i++) order[i] = &w->sets[i];
    status = dcpi_sort(order, w->set_count, dcpi_replicas_compare, err);
    for (i = 0; i < w->set_count && !status; i++) {
        const dcpi_replicas *set = (const dcpi_replicas *)order[i];
        dcpi_entry *best = &s->entries[w->members[set->first]];
        for (m = 1; m < set->count; m++) {
            dcpi_entry *other = &s->entries[w->members[set->first + m]];
            if (w->load[other->rank] < w->load[best->rank]) best = other;
        }
        best->is_written = 1;
        if (!dcpi_add(w->load[best->rank], best->size, &w->load[best->rank])) w->load[best->rank] = INT64_MAX;
    }
    dcpi_free((void *)order);
    return status;
}
static dcp_status dcpi_plan_pieces(dcpi_save *s, dcp_error *err) {
    dcpi_grouping g;
    dcpi_writers w;
    dcp_status status;
    size_t i;
    memset(&w, 0, sizeof w);
    w.load = (int64_t *)dcpi_alloc_array((size_t)s->op.team.world_size, sizeof *w.load, err);
    if (!w.load) return DCP_E_MEMORY;
    status = dcpi_plan_group(s, &g, err);
    for (i = 0; i < g.group_count && !status; i++) {
        if ((i & 1023) == 1023) status = dcpi_op_check(&s->op, err);
        if (!status) status = dcpi_plan_tensor(s, &g, &g.groups[i], &w, err);
    }
    dcpi_grouping_free(&g);
    if (!status) status = dcpi_plan_choose(s, &w, err);
    dcpi_free(w.load);
    dcpi_free(w.members);
    dcpi_free(w.sets);
    return status;
}

/* ---- plan: places in the files */
/* The next aligned offset for a piece after `at`; `at` moves behind it. Rank 0 and the rank that writes count alike. In
 * the manifest layout each piece is a file of its own. */
static int dcpi_plan_offset(const dcpi_save *s, int64_t size, int64_t *at, int64_t *offset) {
    *offset = 0;
    if (dcpi_save_is_manifest(s)) return dcpi_add(*at, size, at);
    return dcpi_align_up(*at, s->alignment, offset) && dcpi_add(*offset, size, at);
}
static size_t dcpi_block_count(int64_t size, int64_t block_size) {
    return (size_t)(size / block_size + (size % block_size != 0));
}

/* Of each rank, only what it writes stays in `entries`, in its order, each with its offset. */
static dcp_status dcpi_plan_offsets(dcpi_save *s, dcp_error *err) {
    size_t kept = 0, i;
    int r;
    for (r = 0; r < s->op.team.world_size; r++) {
        dcpi_part *part = &s->parts[r];
        size_t first = kept, end = part->first + part->count;
        int64_t at = 0;
        for (i = part->first; i < end; i++) {
            dcpi_entry *entry = &s->entries[i];
            if (!entry->is_written) continue;
            if (!dcpi_plan_offset(s, entry->size, &at, &entry->offset))
                return dcpi_fail(err, DCP_E_INVALID, "save: the tensors of rank %d exceed 2^63 bytes", r);
            if (entry->size > 0) part->file_size = at;
            s->entries[kept++] = *entry;
        }
        part->first = first;
        part->count = kept - first;
    }
    s->entry_count = kept;
    return DCP_OK;
}
/* Blocks of the given size, or of 4 MiB, doubled until the document stays under a million digests. */
static void dcpi_plan_blocks(dcpi_save *s) {
    int r;
    size_t i, total;
    s->block_size = s->desc->block_size ? (int64_t)s->desc->block_size : DCPI_CHUNK;
    if (!s->desc->block_size) s->block_size = dcpi_pool_base_block_size(s);
    for (;;) {
        total = 0;
        for (r = 0; r < s->op.team.world_size; r++) {
            dcpi_part *part = &s->parts[r];
            part->block_total = 0;
            for (i = part->first; i < part->first + part->count; i++) {
                s->entries[i].first_block = part->block_total;
                part->block_total += dcpi_block_count(s->entries[i].size, s->block_size);
            }
            total += part->block_total;
        }
        if (s->desc->block_size || total < 1000000 || total <= s->entry_count ||
            s->block_size >= (int64_t)(1024 * DCPI_MIB)) break;
        s->block_size *= 2;
    }
}
static dcp_status dcpi_plan_space(void *save, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)save;
    int64_t needed = 0, available = 0;
    int r;
    if (!s->place.storage->space || s->place.storage->space(s->place.storage->context, s->place.directory, &available,
                                                            err)) return dcpi_succeed(err);
    for (r = 0; r < s->op.team.world_size; r++)
        if (!dcpi_add(needed, s->parts[r].file_size, &needed)) needed = INT64_MAX;
    /* how much of a base is unchanged, nobody knows yet */
    if (needed <= available || s->base_count > 0) return DCP_OK;
    return dcpi_fail(err, DCP_E_SPACE, "the tensors have %" PRId64 " bytes, but only %" PRId64
                     " are free in \"%s\"; free some " "(dcp_prune, dcp_sweep) or save elsewhere", needed, available,
                     s->place.shown);
}
static dcp_status dcpi_plan_document(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_plan_pool(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_plan_single_header(dcpi_save *s, dcp_error *err);

static dcp_status dcpi_plan_all(dcpi_save *s, dcp_error *err) {
    int r;
    dcp_status status = dcpi_plan_take_lists(s, err);
    for (r = 0; r < s->op.team.world_size && !status; r++) status = dcpi_plan_read_list(s, r, err);
    if (!status) status = dcpi_plan_pieces(s, err);
    if (!status) status = dcpi_plan_offsets(s, err);
    if (status) return status;
    dcpi_plan_blocks(s);
    status = dcpi_op_errand(&s->op, dcpi_plan_space, s, err);
    if (!status) status = dcpi_plan_document(s, err);
    if (!status && s->kind->layout == DCP_LAYOUT_SINGLE) status = dcpi_plan_single_header(s, err);
    if (!status && dcpi_save_is_manifest(s)) status = dcpi_plan_pool(s, err);
    return status;
}

/* ---- plan, manifest layout: a file for each piece that is written ------------------------------------------------ */
static const char *const dcpi_placement_words[] = { NULL, "replicated", "private", "sharded" };

/* The document's entry for a piece, short of its file. */
static void dcpi_pool_describe(const dcpi_save *s, const dcpi_entry *entry, const dcpi_listed *record,
                               dcp_manifest_shard *out) {
    memset(out, 0, sizeof *out);
    out->type = record->role == DCP_ROLE_EXPERT ? "expert" : record->role == DCP_ROLE_PARAMETER ? "dense" : NULL;
    out->tensor_name = record->name;
    out->has_expert_key = record->role == DCP_ROLE_EXPERT;
    if (out->has_expert_key) memcpy(out->expert_key, record->expert_key, sizeof out->expert_key);
    out->ndim = record->ndim;
    out->dtype = dcp_dtype_name(record->dtype);
    out->tier_hint = record->tier;
    out->size = entry->size;
    out->placement = dcpi_placement_words[record->placement];
    out->extra = record->extra;
    out->rank = entry->rank;
    memcpy(out->shape, record->shape, sizeof out->shape);
    memcpy(out->global_shape, record->global_shape, sizeof out->global_shape);
    memcpy(out->global_offset, record->global_offset, sizeof out->global_offset);
    if (s->desc->checksum == DCP_CHECKSUM_FLAT) return;
    out->block_size = s->block_size;
    out->block_count = dcpi_block_count(entry->size, s->block_size);
}
/* A checksum's 32 bytes; 0: it is none that this save can compare with. */
static int dcpi_pool_checksum(const dcpi_save *s, const char *text, uint8_t digest[32]) {
    static const char tree[] = "sha256-tree:";
    if (!text) return 0;
    if (s->desc->checksum == DCP_CHECKSUM_TREE) {
        if (!dcpi_starts_with(text, tree)) return 0;
        text += sizeof tree - 1;
    }
    return strlen(text) == 64 && dcpi_hex_decode(text, 64, digest);
}
static int dcpi_pool_is_alike(const dcpi_save *s, const dcp_manifest_shard *wanted, const dcp_manifest_shard *base) {
    uint8_t ignored[32];
    return base->size == wanted->size && base->ndim == wanted->ndim &&
           memcmp(base->shape, wanted->shape, sizeof base->shape) == 0 && base->dtype &&
           strcmp(base->dtype, wanted->dtype) == 0 && base->block_size == wanted->block_size &&
        dcpi_key_is_portable(base->path) &&
        dcpi_pool_checksum(s, base->checksum, ignored);
}
/* The base's entry for the same piece: its file may be kept, and its version is the one before a new file's. */
static void dcpi_pool_find_base(const dcpi_save *s, const dcpi_listed *record, const dcp_manifest_shard *wanted,
                                dcpi_pooled *pooled) {
    const dcp_manifest_shard *base;
    dcpi_origin origin;
    origin.shard = wanted;
    origin.role = record->role;
    origin.layer = record->role == DCP_ROLE_ROUTER ? record->expert_key[0] : -1;
    base = dcpi_pool_base_search(s->base_order, s->base_count, &origin);
    if (!base) return;
    pooled->version = dcpi_max(pooled->version, base->version < INT64_MAX ? base->version + 1 : base->version);
    if (dcpi_pool_is_alike(s, wanted, base)) pooled->base = base;
}
static dcp_status dcpi_pool_check_tier(const dcpi_save *s, const dcpi_listed *record, int rank, dcp_error *err) {
    size_t i;
    if (!record->tier) return DCP_OK;
    for (i = 0; i < s->desc->tier_count; i++)
        if (s->desc->tiers[i].name && strcmp(s->desc->tiers[i].name, record->tier) == 0) return DCP_OK;
    (void)dcpi_fail(err, DCP_E_INVALID,
                    "tensor \"%s\" of rank %d is of tier \"%s\", which is not among the save's tiers", record->name,
                    rank, record->tier);
    err->rank = rank;
    return DCP_E_INVALID;
}
/* What a file is called grows only where two would be called the same: an expert's by the tensor's name, then any by a
 * hash. */
enum { DCPI_POOL_SHORT, DCPI_POOL_NAMED, DCPI_POOL_HASHED };
static dcp_status dcpi_pool_name(dcpi_save *s, size_t index, dcp_error *err) {
    const dcpi_entry *entry = &s->entries[index];
    const dcpi_part *part = &s->parts[entry->rank];
    dcpi_pooled *pooled = &s->pooled[index];
    char name[DCPI_MANIFEST_NAME];
    dcpi_manifest_file file;
    dcpi_listed record;
    dcp_status status;
    (void)dcpi_listed_read(entry->record, part->list + part->list_size, &record);
    memset(&file, 0, sizeof file);
    if (pooled->form == DCPI_POOL_SHORT && (record.role != DCP_ROLE_EXPERT || pooled->count > 1))
        pooled->form = DCPI_POOL_NAMED;
    file.role = record.role;
    file.tensor_name = pooled->form == DCPI_POOL_SHORT ? NULL : record.name;
    file.expert_key = record.expert_key;
    file.index = pooled->index;
    file.count = pooled->count;
    file.with_hash = pooled->form == DCPI_POOL_HASHED;
    status = dcpi_manifest_file_name(&file, name, err);
    if (status) { dcpi_fail_context(err, "tensor \"%s\": ", record.name); return status; }
    pooled->stem = dcpi_arena_text(&s->texts, name, strlen(name) - 4, err);     /* without .bin */
    return pooled->stem ? DCP_OK : DCP_E_MEMORY;
}
static int dcpi_pool_stem_compare(const void *a_, const void *b_) {
    /* file systems that ignore case take these for one */
    const unsigned char *a = (const unsigned char *)((const dcpi_pooled *)a_)->stem,
                             *b = (const unsigned char *)((const dcpi_pooled *)b_)->stem;
    for (;; a++, b++) {
        const int x = *a >= 'A' && *a <= 'Z' ? *a + 32 : *a, y = *b >= 'A' && *b <= 'Z' ? *b + 32 : *b;
        if (x != y) return x < y ? -1 : 1;
        if (x == 0) return 0;
    }
}
static int dcpi_pool_collides(const dcpi_pooled *const *order, size_t count, size_t i) {
    return (i > 0 && dcpi_pool_stem_compare(order[i - 1], order[i]) == 0) ||
           (i + 1 < count && dcpi_pool_stem_compare(order[i], order[i + 1]) == 0);
}
static dcp_status dcpi_pool_name_all(dcpi_save *s, dcp_error *err) {
    const dcpi_pooled **order = (const dcpi_pooled **)dcpi_alloc_array(s->entry_count, sizeof *order, err);
    uint8_t *longer = order ? (uint8_t *)dcpi_alloc_array(s->entry_count, 1, err) : NULL;
    int round, again = 1;
    dcp_status status = longer ? DCP_OK : DCP_E_MEMORY;
    size_t i;
    for (i = 0; i < s->entry_count && !status; i++) status = dcpi_pool_name(s, i, err);
    for (round = DCPI_POOL_SHORT; round < DCPI_POOL_HASHED && again && !status; round++) {
        for (i = 0; i < s->entry_count; i++) order[i] = &s->pooled[i];
        status = dcpi_sort((const void **)(void *)order, s->entry_count, dcpi_pool_stem_compare, err);
        for (i = 0; i < s->entry_count && !status; i++)
            longer[order[i] - s->pooled] = (uint8_t)dcpi_pool_collides(order, s->entry_count, i);
        for (again = 0, i = 0; i < s->entry_count && !status; i++) {
            if (!longer[i] || s->pooled[i].form == DCPI_POOL_HASHED) continue;
            s->pooled[i].form++;
            again = 1;
            status = dcpi_pool_name(s, i, err);
        }
    }
    dcpi_free(longer);
    dcpi_free((void *)order);
    return status;
}
/* The pieces of one tensor, counted in the order of their offsets, and the base's entries for them. */
static dcp_status dcpi_pool_tensor(dcpi_save *s, const dcpi_grouping *g, const dcpi_namesakes *group, dcp_error *err) {
    dcpi_fit *fits = (dcpi_fit *)dcpi_alloc_array(group->count, sizeof *fits, err);
    dcpi_fit **order = fits ? (dcpi_fit **)dcpi_alloc_array(group->count, sizeof *order, err) : NULL;
    dcp_status status = order ? DCP_OK : DCP_E_MEMORY;
    size_t i, at = group->first;
    for (i = 0; i < group->count && !status; i++, at = g->next[at - 1]) {
        const dcpi_entry *entry = &s->entries[at - 1];
        const dcpi_part *part = &s->parts[entry->rank];
        (void)dcpi_listed_read(entry->record, part->list + part->list_size, &fits[i].record);
        fits[i].entry = at - 1;
        fits[i].rank = entry->rank;
        order[i] = &fits[i];
        status = dcpi_pool_check_tier(s, &fits[i].record, entry->rank, err);
    }
    if (!status) status = dcpi_sort((const void **)(void *)order, group->count, dcpi_fit_compare, err);
    for (i = 0; i < group->count && !status; i++) {
        dcpi_pooled *pooled = &s->pooled[order[i]->entry];
        dcp_manifest_shard shard;
        pooled->index = (uint32_t)i;
        pooled->count = (uint32_t)group->count;
        pooled->version = order[i]->record.version;
        dcpi_pool_describe(s, &s->entries[order[i]->entry], &order[i]->record, &shard);
        dcpi_pool_find_base(s, &order[i]->record, &shard, pooled);
    }
    dcpi_free((void *)order);
    dcpi_free(fits);
    return status;
}
static dcp_status dcpi_plan_pool(dcpi_save *s, dcp_error *err) {
    dcpi_grouping g;
    dcp_status status;
    size_t i;
    s->pooled = (dcpi_pooled *)dcpi_alloc_array(s->entry_count, sizeof *s->pooled, err);
    if (!s->pooled) return DCP_E_MEMORY;
    status = dcpi_plan_group(s, &g, err);
    for (i = 0; i < g.group_count && !status; i++) {
        if ((i & 1023) == 1023) status = dcpi_op_check(&s->op, err);
        if (!status) status = dcpi_pool_tensor(s, &g, &g.groups[i], err);
    }
    dcpi_grouping_free(&g);
    return status ? status : dcpi_pool_name_all(s, err);
}
/* What a rank must know of a file: the version of a new one (8 bytes), the base's checksum (32; zeros: none), and with
 * their NULs the base's path and the new stem. */
static void dcpi_pool_tell(const dcpi_save *s, const dcpi_pooled *pooled, dcpi_buffer *message) {
    const char *path = pooled->base ? pooled->base->path : "";
    uint8_t head[8 + 32] = {0};
    dcpi_store64(head, (uint64_t)pooled->version);
    if (pooled->base) (void)dcpi_pool_checksum(s, pooled->base->checksum, head + 8);
    dcpi_buffer_add(message, head, sizeof head);
    dcpi_buffer_add(message, path, strlen(path) + 1);
    dcpi_buffer_add(message, pooled->stem, strlen(pooled->stem) + 1);
}
static const char *dcpi_pool_text(const char **at, const char *end) {   /* NULL: there is none */
    const char *text = *at, *nul = *at < end ? (const char *)memchr(*at, 0, (size_t)(end - *at)) : NULL;
    if (nul) *at = nul + 1;
    return nul ? text : NULL;
}
static dcp_status dcpi_pool_listen(dcpi_save *s, const uint8_t *body, size_t size, dcp_error *err) {
    char *copy = (char *)dcpi_arena_alloc(&s->texts, size, err);
    const char *at = copy, *end;
    size_t i;
    if (!copy) return DCP_E_MEMORY;
    end = copy + size;
    memcpy(copy, body, size);
    s->files = (dcpi_pool_file *)dcpi_alloc_array(s->placed_count, sizeof *s->files, err);
    if (!s->files) return DCP_E_MEMORY;
    for (i = 0; i < s->placed_count; i++) {
        dcpi_pool_file *file = &s->files[i];
        if (end - at < 8 + 32) return dcpi_fail(err, DCP_E_COMM, "save: rank 0 sent a plan for another list");
        file->version = (int64_t)dcpi_load64((const uint8_t *)at);
        memcpy(file->base_checksum, at + 8, 32);
        at += 8 + 32;
        file->base_path = dcpi_pool_text(&at, end);
        file->stem = file->base_path ? dcpi_pool_text(&at, end) : NULL;
        if (!file->stem) return dcpi_fail(err, DCP_E_COMM, "save: rank 0 sent a plan for another list");
        if (file->base_path[0] == '\0') file->base_path = NULL;
        file->has_id = s->desc->unique_names || !(s->place.storage->flags & DCP_STORAGE_EXCLUSIVE_PUBLISH);
    }
    return DCP_OK;
}

/* ---- plan: each rank's part: block size, offset of its region, where the next one starts (8 bytes each), and for each
 * piece of its list a bit: whether it writes it; in the manifest layout, then, of each that it writes, what
 * dcpi_pool_tell says */
static int64_t dcpi_region_end(const dcpi_save *s, int rank) {          /* of the last one: where its bytes end */
    if (rank + 1 < s->op.team.world_size) return s->parts[rank + 1].data_offset;
    return s->parts[rank].data_offset + s->parts[rank].file_size;
}
static dcp_status dcpi_part_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)user;
    const dcpi_part *part = &s->parts[rank];
    const uint8_t *at = part->list + DCPI_TEAM_HEADER + 8, *end = part->list + part->list_size;
    size_t count = (size_t)dcpi_load64(part->list + DCPI_TEAM_HEADER), i, next = part->first;
    uint8_t head[24], bits = 0;
    dcpi_listed record;
    (void)err;
    dcpi_store64(head, (uint64_t)s->block_size);
    dcpi_store64(head + 8, (uint64_t)part->data_offset);
    dcpi_store64(head + 16, (uint64_t)dcpi_region_end(s, rank));
    dcpi_buffer_add(message, head, sizeof head);
    for (i = 0; i < count; i++) {
        if (next < part->first + part->count && s->entries[next].record == at) {
            bits = (uint8_t)(bits | 1 << i % 8);
            next++;
        }
        if (i % 8 == 7 || i + 1 == count) {
            dcpi_buffer_add(message, &bits, 1);
            bits = 0;
        }
        at = dcpi_listed_read(at, end, &record);
    }
    for (i = part->first; i < next && dcpi_save_is_manifest(s); i++) dcpi_pool_tell(s, &s->pooled[i], message);
    return DCP_OK;
}
static dcp_status dcpi_part_take(dcpi_save *s, const uint8_t *body, size_t size, dcp_error *err) {
    const size_t bits = 24 + (s->desc->tensor_count + 7) / 8;
    int64_t at = 0;
    size_t i;
    if (size < bits || (size > bits && !dcpi_save_is_manifest(s)))
        return dcpi_fail(err, DCP_E_COMM, "save: rank 0 sent a plan for another list");
    s->block_size = (int64_t)dcpi_load64(body);
    s->data_offset = (int64_t)dcpi_load64(body + 8);
    s->region_end = (int64_t)dcpi_load64(body + 16);
    s->placed = (dcpi_placed *)dcpi_alloc_array(s->desc->tensor_count, sizeof *s->placed, err);
    if (!s->placed) return DCP_E_MEMORY;
    for (i = 0; i < s->desc->tensor_count; i++) {
        dcpi_placed *p = &s->placed[s->placed_count];
        if (!(body[24 + i / 8] >> i % 8 & 1)) continue;
        p->tensor = &s->desc->tensors[i];
        p->size = dcpi_tensor_bytes(p->tensor);
        p->first_block = s->block_total;
        if (!dcpi_plan_offset(s, p->size, &at, &p->offset))
            return dcpi_fail(err, DCP_E_INVALID, "save: the tensors exceed 2^63 bytes");
        if (p->size > 0) s->file_size = at;
        s->block_total += dcpi_block_count(p->size, s->block_size);
        s->placed_count++;
    }
    s->digests = (uint8_t (*)[32])dcpi_alloc_array(s->block_total, 32, err);
    if (!s->digests) return DCP_E_MEMORY;
    return dcpi_save_is_manifest(s) ? dcpi_pool_listen(s, body + bits, size - bits, err) : DCP_OK;
}
/* A begin may block for long too. */
typedef struct dcpi_beginning {
    const dcpi_save *save;
    const char *key, *temporary;
    int64_t size;
    void *object;
} dcpi_beginning;
static dcp_status dcpi_save_begin_now(void *beginning, dcp_error *err) {
    dcpi_beginning *b = (dcpi_beginning *)beginning;
    return dcpi_storage_begin(b->save->place.storage, b->key, b->temporary, b->size, &b->object, err);
}
static dcp_status dcpi_save_begin_file(dcpi_save *s, const char *key, const char *temporary, int64_t size,
                                       void **object, dcp_error *err) {
    dcpi_beginning beginning;
    dcp_status status;
    beginning.save = s;
    beginning.key = key;
    beginning.temporary = temporary;
    beginning.size = size;
    beginning.object = NULL;
    status = dcpi_op_errand(&s->op, dcpi_save_begin_now, &beginning, err);
    *object = beginning.object;
    return status;
}
/* The single file's temporary, under the name that all ranks can tell. */
static dcp_status dcpi_single_begin(dcpi_save *s, int attempt, dcp_error *err) {
    const dcpi_part *last = &s->parts[s->op.team.world_size - 1];
    dcpi_free(s->document_temporary);
    s->document_temporary = dcpi_temporary_name(s->commit_key, s->report.save_id, attempt, err);
    if (!s->document_temporary) return DCP_E_MEMORY;
    return dcpi_save_begin_file(s, s->commit_key, s->document_temporary, last->data_offset + last->file_size,
                                &s->single_object, err);
}
static dcp_status dcpi_save_plan(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    dcpi_buffer own;
    memset(&own, 0, sizeof own);
    status = dcpi_team_up(&s->op, status, &s->list, err);
    if (!status && s->beacon_key) status = dcpi_op_errand(&s->op, dcpi_beacon_remove, s, err);
    if (!status && t->rank == 0) status = dcpi_plan_all(s, err);
    /* others may join it then */
    if (!status && t->rank == 0 && s->kind->layout == DCP_LAYOUT_SINGLE) status = dcpi_single_begin(s, 0, err);
    status = dcpi_team_down(&s->op, status, dcpi_part_make, s, 0, err);
    if (status) return status;
    if (t->rank != 0)
        return dcpi_part_take(s, t->peers[0].message + DCPI_TEAM_HEADER, t->peers[0].size - DCPI_TEAM_HEADER, err);
    status = dcpi_part_make(s, 0, &own, err);
    if (own.failed) status = dcpi_no_memory(err, own.size);
    if (!status) status = dcpi_part_take(s, (const uint8_t *)own.data, own.size, err);
    dcpi_buffer_free(&own);
    return status;
}

/* ---- the document, streamed out of the plan ---------------------------------------------------------------------- */
static dcp_status dcpi_save_shard_name(const dcpi_save *s, int rank, int is_plain, char *name, size_t capacity,
                                       dcp_error *err) {
    if (s->kind->layout != DCP_LAYOUT_SHARDED) {
        /* of a manifest: for messages only, its files have names of their own */
        (void)snprintf(name, capacity, "%s", s->commit_name);
        return DCP_OK;
    }
    return dcp_shard_name(s->place.name, rank, is_plain ? NULL : s->report.save_id, name, capacity, err);
}
/* user: a dcpi_emission */
typedef struct dcpi_emission {
    const dcpi_save *save;
    char name[DCP_LIMIT_PREFIX + 64];
    dcpi_listed record;
} dcpi_emission;

static dcp_status dcpi_save_emit_shard(void *user, size_t index, dcp_shard_metadata *out, dcp_error *err) {
    dcpi_emission *e = (dcpi_emission *)user;
    const dcpi_part *part = &e->save->parts[index];
    dcp_status status = dcpi_save_shard_name(e->save, (int)index, part->is_plain, e->name, sizeof e->name, err);
    memset(out, 0, sizeof *out);
    out->rank = (int)index;
    out->file_path = e->name;
    out->file_size = part->file_size;
    out->tensor_count = part->count;
    out->checksum = part->checksum;
    out->data_offset = part->data_offset;
    return status;
}
static dcp_status dcpi_save_emit_tensor(void *user, size_t shard, size_t index, dcp_tensor_metadata *out,
                                        dcp_error *err) {
    dcpi_emission *e = (dcpi_emission *)user;
    const dcpi_save *s = e->save;
    const dcpi_part *part = &s->parts[shard];
    const dcpi_entry *entry = &s->entries[part->first + index];
    const dcpi_listed *record = &e->record;
    (void)err;
    (void)dcpi_listed_read(entry->record, part->list + part->list_size, &e->record);
    memset(out, 0, sizeof *out);
    out->name = record->name;
    out->ndim = record->ndim;
    out->data_type = dcp_dtype_name(record->dtype);
    out->offset = part->data_offset + entry->offset;
    out->size = entry->size;
    out->placement = dcpi_placement_words[record->placement];
    out->extra = record->extra;
    memcpy(out->shape, record->shape, sizeof out->shape);
    memcpy(out->global_shape, record->global_shape, sizeof out->global_shape);
    memcpy(out->global_offset, record->global_offset, sizeof out->global_offset);
    if (s->desc->checksum == DCP_CHECKSUM_FLAT) return DCP_OK;
    out->block_size = s->block_size;
    out->block_checksums = part->digests + 32 * entry->first_block;
    out->block_count = dcpi_block_count(entry->size, s->block_size);
    return DCP_OK;
}
/* What the sharding says where the caller does not: the type that most bytes have, and whether anything is cut. */
static const char *dcpi_save_precision(const dcpi_save *s) {
    int64_t bytes[DCP_OPAQUE + 1] = {0};
    int best = DCP_FP32;
    size_t i;
    for (i = 0; i < s->entry_count; i++) {
        const int dtype = s->entries[i].record[0];
        if (!dcpi_add(bytes[dtype], s->entries[i].size, &bytes[dtype])) bytes[dtype] = INT64_MAX;
        if (bytes[dtype] > bytes[best]) best = dtype;
    }
    return dcp_dtype_name((dcp_dtype)best);
}
static const char *dcpi_save_strategy(const dcpi_save *s) {
    size_t i;
    for (i = 0; i < s->entry_count; i++) if (s->entries[i].record[2] == DCP_PLACE_SHARDED) return "sharded";
    return "none";
}
static void dcpi_save_head(const dcpi_save *s, dcp_metadata *head) {
    memset(head, 0, sizeof *head);
    head->version = DCP_FORMAT_VERSION;
    head->timestamp = s->timestamp;
    head->save_id = s->report.save_id;
    head->sequence = s->report.sequence;
    head->world_size = s->op.team.world_size;
    if (s->desc->sharding) head->sharding = *s->desc->sharding;
    if (!head->sharding.strategy) head->sharding.strategy = dcpi_save_strategy(s);
    if (!head->sharding.precision) head->sharding.precision = dcpi_save_precision(s);
    head->sharding.shard_count = head->world_size;
    head->shard_count = (size_t)head->world_size;
    if (s->desc->training) {
        head->has_training = 1;
        head->training = *s->desc->training;
    }
    head->fields = (dcp_field *)s->desc->fields;        /* only read */
    head->field_count = s->desc->field_count;
    head->extra = s->desc->extra;
}
static void dcpi_save_source(const dcpi_save *s, dcpi_emission *e, dcp_metadata *head, dcpi_meta_source *source) {
    dcpi_save_head(s, head);
    e->save = s;
    source->head = head;
    source->shard_count = head->shard_count;
    source->user = e;
    source->shard = dcpi_save_emit_shard;
    source->tensor = dcpi_save_emit_tensor;
}
#define DCPI_POOL_DONE (1 + 32)                /* what a rank says of a file: 1 kept, 2 has the save id; its checksum */
enum { DCPI_POOL_KEPT = 1, DCPI_POOL_HAS_ID = 2 };

static void dcpi_pool_path(const dcpi_save *s, const char *stem, int64_t version, int has_id, char *path,
                           size_t capacity) {
    if (has_id) (void)snprintf(path, capacity, "%s.v%" PRId64 ".%s.bin", stem, version, s->report.save_id);
    else if (version > 0) (void)snprintf(path, capacity, "%s.v%" PRId64 ".bin", stem, version);
    else (void)snprintf(path, capacity, "%s.bin", stem);
}
static void dcpi_pool_path_of(const dcpi_save *s, const dcpi_pooled *pooled, char *path, size_t capacity) {
    if (pooled->done[0] & DCPI_POOL_KEPT) (void)snprintf(path, capacity, "%s", pooled->base->path);
    else dcpi_pool_path(s, pooled->stem, pooled->version, pooled->done[0] & DCPI_POOL_HAS_ID, path, capacity);
}

/* ---- the manifest, streamed out of the plan ---------------------------------------------------------------------- */
/* Its lists: entries in the order of ranks, first parameters and experts, then the optimizer's, then the router's,
 * layer by layer. */
typedef struct dcpi_manifesto {
    const dcpi_save *save;
    size_t *order, counts[3];                           /* entries; how many of each of the three */
    dcp_manifest_layer *layers; size_t layer_count;     /* of the router, sorted; `shard_count` are their entries */
    char path[DCP_LIMIT_PATH + 64], checksum[80];       /* what the last shard's texts point to */
} dcpi_manifesto;

static dcp_role dcpi_entry_role(const dcpi_entry *entry) {
    return (dcp_role)((entry->record[3] & DCPI_LISTED_ROLE_BITS) >> 2);
}
static int dcpi_entry_list(const dcpi_entry *entry) {
    const dcp_role role = dcpi_entry_role(entry);
    return role == DCP_ROLE_ROUTER ? 2 : role == DCP_ROLE_OPTIMIZER ? 1 : 0;
}
static void dcpi_entry_read(const dcpi_save *s, const dcpi_entry *entry, dcpi_listed *record) {
    const dcpi_part *part = &s->parts[entry->rank];
    (void)dcpi_listed_read(entry->record, part->list + part->list_size, record);
}
typedef struct dcpi_layered { size_t entry; int64_t layer; } dcpi_layered;
static int dcpi_layered_compare(const void *a_, const void *b_) {
    const dcpi_layered *a = (const dcpi_layered *)a_, *b = (const dcpi_layered *)b_;
    if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}
static int dcpi_seed_compare(const void *a_, const void *b_) {
    const dcp_router_seed *a = (const dcp_router_seed *)a_, *b = (const dcp_router_seed *)b_;
    return a->layer < b->layer ? -1 : a->layer > b->layer;
}
/* The router's layers: those that have weights, and those that have a seed; both sorted. */
static dcp_status dcpi_manifesto_merge(dcpi_manifesto *m, const dcpi_layered *const *items, size_t count,
                                       const dcp_router_seed *const *seeds, size_t seed_count, dcp_error *err) {
    size_t i = 0, k = 0;
    m->layers = (dcp_manifest_layer *)dcpi_alloc_array(count + seed_count, sizeof *m->layers, err);
    if (!m->layers) return DCP_E_MEMORY;
    while (i < count || k < seed_count) {
        dcp_manifest_layer *layer = &m->layers[m->layer_count++];
        layer->layer = k == seed_count || (i < count && items[i]->layer < seeds[k]->layer) ? items[i]->layer
                       : seeds[k]->layer;
        for (; i < count && items[i]->layer == layer->layer; i++) layer->shard_count++;
        if (k == seed_count || seeds[k]->layer != layer->layer) continue;
        layer->has_seed = 1;
        layer->seed = seeds[k]->seed;
        if (m->save->desc->router_seed_extras)
            layer->extra = m->save->desc->router_seed_extras[seeds[k] - m->save->desc->router_seeds];
        k++;
        if (k < seed_count && seeds[k]->layer == layer->layer)
            return dcpi_fail(err, DCP_E_INVALID, "save: router_seeds has layer %" PRId64 " twice", layer->layer);
    }
    return DCP_OK;
}
static dcp_status dcpi_manifesto_layers(dcpi_manifesto *m, dcp_error *err) {
    const dcp_save_desc *desc = m->save->desc;
    const size_t count = m->counts[2], first = m->counts[0] + m->counts[1];
    dcpi_layered *items = (dcpi_layered *)dcpi_alloc_array(count, sizeof *items, err);
    const void **order = items ? (const void **)dcpi_alloc_array(count, sizeof *order, err) : NULL;
    const void **seeds = order ? (const void **)dcpi_alloc_array(desc->router_seed_count, sizeof *seeds, err) : NULL;
    dcp_status status = seeds ? DCP_OK : DCP_E_MEMORY;
    dcpi_listed record;
    size_t i;
    for (i = 0; i < count && !status; i++) {
        items[i].entry = m->order[first + i];
        dcpi_entry_read(m->save, &m->save->entries[items[i].entry], &record);
        items[i].layer = record.expert_key[0];
        order[i] = &items[i];
    }
    for (i = 0; i < desc->router_seed_count && !status; i++) seeds[i] = &desc->router_seeds[i];
    if (!status) status = dcpi_sort(order, count, dcpi_layered_compare, err);
    if (!status) status = dcpi_sort(seeds, desc->router_seed_count, dcpi_seed_compare, err);
    if (!status)
        status = dcpi_manifesto_merge(m, (const dcpi_layered *const *)order, count,
                                      (const dcp_router_seed *const *)seeds, desc->router_seed_count, err);
    for (i = 0; i < count && !status; i++) m->order[first + i] = ((const dcpi_layered *)order[i])->entry;
    dcpi_free((void *)seeds);
    dcpi_free((void *)order);
    dcpi_free(items);
    return status;
}
/* count: of entries; 0 for a look at all that is not a shard */
static dcp_status dcpi_manifesto_begin(dcpi_manifesto *m, const dcpi_save *s, size_t count, dcp_error *err) {
    size_t i, n = 0;
    int list;
    memset(m, 0, sizeof *m);
    m->save = s;
    m->order = (size_t *)dcpi_alloc_array(count, sizeof *m->order, err);
    if (!m->order) return DCP_E_MEMORY;
    for (list = 0; list < 3; list++) {
        for (i = 0; i < count; i++) {
            if (dcpi_entry_list(&s->entries[i]) != list) continue;
            m->order[n++] = i;
            m->counts[list]++;
        }
    }
    return dcpi_manifesto_layers(m, err);
}
static void dcpi_manifesto_free(dcpi_manifesto *m) {
    dcpi_free(m->order);
    dcpi_free(m->layers);
}
static dcp_status dcpi_manifesto_shard(void *user, size_t i, dcp_manifest_shard *out, dcp_error *err) {
    static const char tree[] = "sha256-tree:";
    dcpi_manifesto *m = (dcpi_manifesto *)user;
    const dcpi_save *s = m->save;
    const dcpi_entry *entry = &s->entries[m->order[i]];
    const dcpi_pooled *pooled = &s->pooled[m->order[i]];
    char *digits = m->checksum;
    dcpi_listed record;
    (void)err;
    dcpi_entry_read(s, entry, &record);
    dcpi_pool_describe(s, entry, &record, out);
    dcpi_pool_path_of(s, pooled, m->path, sizeof m->path);
    if (s->desc->checksum == DCP_CHECKSUM_TREE) {
        memcpy(digits, tree, sizeof tree - 1);
        digits += sizeof tree - 1;
    }
    dcpi_hex_encode(pooled->done + 1, 32, digits);
    digits[64] = '\0';
    out->path = m->path;
    out->checksum = m->checksum;
    out->version = pooled->done[0] & DCPI_POOL_KEPT ? pooled->base->version : pooled->version;
    if (out->block_size) out->block_checksums = s->parts[entry->rank].digests + 32 * entry->first_block;
    return DCP_OK;
}
static dcp_status dcpi_manifesto_optimizer(void *user, size_t i, dcp_manifest_shard *out, dcp_error *err) {
    return dcpi_manifesto_shard(user, ((const dcpi_manifesto *)user)->counts[0] + i, out, err);
}
static dcp_status dcpi_manifesto_layer(void *user, size_t l, dcp_manifest_layer *out, dcp_error *err) {
    (void)err;
    *out = ((const dcpi_manifesto *)user)->layers[l];
    return DCP_OK;
}
static dcp_status dcpi_manifesto_layer_shard(void *user, size_t l, size_t i, dcp_manifest_shard *out, dcp_error *err) {
    const dcpi_manifesto *m = (const dcpi_manifesto *)user;
    size_t first = m->counts[0] + m->counts[1], k;
    for (k = 0; k < l; k++) first += m->layers[k].shard_count;
    return dcpi_manifesto_shard(user, first + i, out, err);
}
static dcp_status dcpi_manifesto_head(const dcpi_save *s, const dcpi_manifesto *m, dcp_manifest *head, dcp_error *err) {
    const dcp_save_desc *desc = s->desc;
    dcp_metadata like;
    size_t i;
    dcpi_save_head(s, &like);
    memset(head, 0, sizeof *head);
    head->model_id = desc->model_id ? desc->model_id : s->place.name;
    head->metadata_version = DCP_MANIFEST_VERSION;
    head->save_id = like.save_id;
    head->timestamp = like.timestamp;
    head->sequence = like.sequence;
    head->world_size = like.world_size;
    head->sharding = like.sharding;
    head->has_sharding = 1;
    head->has_training = like.has_training;
    head->training = like.training;
    head->epoch = like.training.epoch;
    head->step = like.training.step;
    head->fields = like.fields;
    head->field_count = like.field_count;
    head->extra = like.extra;
    head->optim_state.is_there = m->counts[1] > 0;
    head->optim_state.extra = desc->optim_extra;
    head->router_state.is_there = m->layer_count > 0;
    head->router_state.extra = desc->router_extra;
    head->tiers = (dcp_manifest_tier *)dcpi_alloc_array(desc->tier_count, sizeof *head->tiers, err);
    if (!head->tiers) return DCP_E_MEMORY;
    head->tier_count = desc->tier_count;
    for (i = 0; i < desc->tier_count; i++) {
        head->tiers[i].tier = desc->tiers[i];
        if (desc->tier_extras) head->tiers[i].extra = desc->tier_extras[i];
    }
    return DCP_OK;
}
/* All that is not a shard: what an open would refuse is not saved. */
static dcp_status dcpi_manifesto_check(const dcpi_manifesto *m, dcp_manifest *head, dcp_error *err) {
    dcp_validation found;
    dcp_status status;
    head->router_state.layers = m->layers;
    head->router_state.layer_count = m->layer_count;
    status = dcp_manifest_validate(head, &found);
    if (status == DCP_E_FORMAT) status = dcpi_fail(err, DCP_E_INVALID, "save: %s", found.errors[0]);
    else if (status) (void)dcpi_fail(err, status, "save: out of memory while checking the document");
    dcp_validation_free(&found);
    return status;
}
/* sink NULL: only to see whether it can be written */
static dcp_status dcpi_save_emit_manifest(const dcpi_save *s, size_t count, dcpi_sink sink, void *user,
                                          dcp_error *err) {
    dcpi_manifesto m;
    dcpi_manifest_source source;
    dcp_manifest head;
    dcp_status status = dcpi_manifesto_begin(&m, s, count, err);
    head.tiers = NULL;
    if (!status) status = dcpi_manifesto_head(s, &m, &head, err);
    source.head = &head;
    source.shard_count = m.counts[0];
    source.optimizer_count = m.counts[1];
    source.layer_count = m.layer_count;
    source.user = &m;
    source.shard = dcpi_manifesto_shard;
    source.optimizer_shard = dcpi_manifesto_optimizer;
    source.layer = dcpi_manifesto_layer;
    source.layer_shard = dcpi_manifesto_layer_shard;
    if (!status) status = dcpi_manifest_emit(&source, s->desc->yaml, s->desc->signer, sink, user, NULL, err);
    if (!status && !sink) status = dcpi_manifesto_check(&m, &head, err);
    dcpi_free(head.tiers);
    dcpi_manifesto_free(&m);
    return status;
}
static dcp_status dcpi_save_emit(const dcpi_save *s, dcpi_sink sink, void *user, dcp_error *err) {
    dcp_metadata head;
    dcpi_meta_source source;
    dcpi_emission e;
    dcpi_save_source(s, &e, &head, &source);
    if (dcpi_save_is_manifest(s)) return dcpi_save_emit_manifest(s, s->entry_count, sink, user, err);
    if (s->kind->layout == DCP_LAYOUT_SHARDED)
        return dcpi_meta_emit(&source, "metadata/json", s->desc->signer, sink, user, NULL, err);
    return dcpi_file_emit(&source, s->json_size, s->parts[0].data_offset, s->desc->signer, sink, user, err);
}
/* The checksum of a shard: over all block digests in document order, or the hash of the file. */
static void dcpi_save_checksum(int is_flat, const uint8_t *digests, size_t count, const uint8_t *flat_digest,
                               char text[80]) {
    static const char tree[] = "sha256-tree:";
    uint8_t digest[32];
    if (is_flat) memcpy(digest, flat_digest, sizeof digest);
    else {
        dcp_sha256(digests, count * 32, digest);
        memcpy(text, tree, sizeof tree - 1);
        text += sizeof tree - 1;
    }
    dcpi_hex_encode(digest, sizeof digest, text);
    text[64] = '\0';
}
/* The document without its shards: what is wrong with the caller's texts shows now, not after the data has been
 * written. */
static dcp_status dcpi_plan_document(dcpi_save *s, dcp_error *err) {
    dcp_metadata head;
    dcpi_meta_source source;
    dcpi_emission e;
    if (dcpi_save_is_manifest(s)) return dcpi_save_emit_manifest(s, 0, NULL, NULL, err);
    dcpi_save_source(s, &e, &head, &source);
    source.shard_count = 0;
    return dcpi_meta_emit(&source, "metadata/json", s->desc->signer, NULL, NULL, NULL, err);
}
/* Regions one behind another, from `start` on. */
static dcp_status dcpi_plan_regions(dcpi_save *s, int64_t start, int64_t alignment, dcp_error *err) {
    int64_t at = start;
    int r;
    for (r = 0; r < s->op.team.world_size; r++)
        if (!dcpi_align_up(at, alignment, &s->parts[r].data_offset) ||
            !dcpi_add(s->parts[r].data_offset, s->parts[r].file_size,
                      &at)) return dcpi_fail(err, DCP_E_INVALID, "save: the tensors exceed 2^63 bytes");
    return DCP_OK;
}
/* The single file's header stands before the data, and its size depends on the offsets in it: counted, with digests of
 * the right width, until the first region's offset no longer grows. */
static dcp_status dcpi_plan_header_size(dcpi_save *s, dcp_error *err) {
    const int64_t alignment = dcpi_max(s->alignment, DCPI_OS_DIRECT_ALIGN);
    dcp_metadata head;
    dcpi_meta_source source;
    dcpi_emission e;
    int64_t records, total, wanted, start = 0;
    dcp_status status;
    dcpi_save_source(s, &e, &head, &source);
    status = dcpi_file_records_size(&source, &records, err);
    while (!status) {
        status = dcpi_plan_regions(s, start, alignment, err);
        if (!status)
            status = dcpi_meta_emit(&source, "checkpoint/json", s->desc->signer, NULL, NULL, &s->json_size, err);
        if (status) break;
        if (s->json_size > INT32_MAX)
            return dcpi_fail(err, DCP_E_LIMIT, "the single file's document would have %" PRId64
                             " bytes, but its format ends at 2 GiB; " "use the sharded layout or a larger block_size",
                             s->json_size);
        if (!dcpi_add(records, s->json_size, &total) || !dcpi_align_up(total, alignment, &wanted))
            return dcpi_fail(err, DCP_E_LIMIT, "the single file's header is too large");
        if (wanted <= start) break;
        start = wanted;
    }
    return status;
}
static dcp_status dcpi_plan_single_header(dcpi_save *s, dcp_error *err) {
    const uint8_t no_digest[32] = {0};                  /* only the width of a digest counts */
    size_t most = 0;
    uint8_t *digests;
    dcp_status status;
    int r;
    for (r = 0; r < s->op.team.world_size; r++) {
        if (s->parts[r].block_total > most) most = s->parts[r].block_total;
        dcpi_save_checksum(s->desc->checksum == DCP_CHECKSUM_FLAT, no_digest, 1, no_digest, s->parts[r].checksum);
    }
    digests = (uint8_t *)dcpi_alloc_array(most, 32, err);
    if (!digests) return DCP_E_MEMORY;
    for (r = 0; r < s->op.team.world_size; r++) s->parts[r].digests = digests;
    status = dcpi_plan_header_size(s, err);
    dcpi_free(digests);
    return status;
}

/* ---- write ------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_save_stream(dcpi_save *s, dcp_storage *storage, void *object, const char *key, int is_serial,
                                   dcp_error *err) {
    dcpi_stream *t = (dcpi_stream *)dcpi_alloc_array(1, sizeof *t, err);
    dcpi_stream_part *parts = t ? (dcpi_stream_part *)dcpi_alloc_array(s->placed_count, sizeof *parts, err) : NULL;
    dcp_status status = DCP_E_MEMORY;
    size_t i;
    for (i = 0; parts && i < s->placed_count; i++) {
        parts[i].tensor = s->placed[i].tensor;
        parts[i].offset = s->data_offset + s->placed[i].offset;
        parts[i].size = s->placed[i].size;
        parts[i].digests = s->digests + s->placed[i].first_block;
    }
    if (parts) {
        t->op = &s->op;
        t->storage = storage;
        t->object = object;
        t->key = key;
        t->parts = parts;
        t->part_count = s->placed_count;
        t->start = s->data_offset;
        t->end = s->data_offset + s->file_size;
        t->block_size = s->block_size;
        t->image = s->image;
        t->is_flat = s->desc->checksum == DCP_CHECKSUM_FLAT;
        t->is_serial = is_serial;
        t->taken = s->taken;
        t->taken_user = s->watcher;
        status = dcpi_stream_run(t, err);
        dcpi_save_checksum(t->is_flat, (const uint8_t *)s->digests, s->block_total, t->flat_digest, s->checksum);
        s->report.bytes_written = t->bytes_written;
    }
    dcpi_free(parts);
    dcpi_free(t);
    return status;
}

/* ---- write: the single file (seed 002) ------------------------------------------------------------------------------
 * Where the storage is shared, every rank writes its region into the file that rank 0 has begun, all at once. A rank
 * that cannot (it says so when the ranks meet) sends its region to rank 0, one rank after the other, a chunk for each
 * credit that rank 0 has given: so no more than DCPI_RELAY_AHEAD chunks are on the way, and memory stays bounded. */
#define DCPI_RELAY_AHEAD 4
typedef struct dcpi_relay { dcpi_op *op; uint32_t credits; uint8_t *message; dcp_error failure; } dcpi_relay;

/* The write function of the storage that a rank streams its region to. */
static dcp_status dcpi_relay_write(void *context, void *object, int64_t offset, const void *data, size_t size,
                                   dcp_error *err) {
    dcpi_relay *relay = (dcpi_relay *)context;
    size_t done, n;
    dcp_status status = DCP_OK;
    (void)object;
    for (done = 0; done < size && !status; done += n) {
        n = size - done < DCPI_RELAY_CHUNK ? size - done : DCPI_RELAY_CHUNK;
        while (relay->credits == 0 && !status) {
            uint8_t *message;
            size_t length;
            status = dcpi_relay_receive(relay->op, 0, &message, &length, err);
            if (!status) { relay->credits += dcpi_load32(message + 4); dcpi_free(message); }
        }
        if (status) break;
        relay->credits--;
        memcpy(relay->message + DCPI_RELAY_HEADER, (const uint8_t *)data + done, n);
        status = dcpi_relay_send(relay->op, 0, relay->message, 0, offset + (int64_t)done, n, err);
    }
    if (status) relay->failure = *err;
    return status;
}
/* A write may block for long, and the other ranks must see that this one lives. */
typedef struct dcpi_region_chunk {
    const dcpi_save *save;
    void *object;
    int64_t offset;
    const void *data;
    size_t size;
} dcpi_region_chunk;
static dcp_status dcpi_region_chunk_write(void *chunk, dcp_error *err) {
    const dcpi_region_chunk *c = (const dcpi_region_chunk *)chunk;
    return dcpi_storage_write(c->save->place.storage, c->save->commit_key, c->object, c->offset, c->data, c->size, err);
}
static dcp_status dcpi_region_put(dcpi_save *s, void *object, int64_t offset, const void *data, size_t size,
                                  dcp_error *err) {
    dcpi_region_chunk chunk;
    chunk.save = s;
    chunk.object = object;
    chunk.offset = offset;
    chunk.data = data;
    chunk.size = size;
    return dcpi_op_errand(&s->op, dcpi_region_chunk_write, &chunk, err);
}
/* The zeros between a region and the next are written by the one who writes the region, so that the file ends where its
 * last region does, even if that is empty. */
static dcp_status dcpi_region_gap(dcpi_save *s, int64_t from, int64_t to, void *object, dcp_error *err) {
    uint8_t *zeros = to > from ? (uint8_t *)dcpi_alloc_array((size_t)(to - from), 1, err) : NULL;
    dcp_status status;
    if (to <= from) return DCP_OK;
    if (!zeros) return DCP_E_MEMORY;
    status = dcpi_region_put(s, object, from, zeros, (size_t)(to - from), err);
    dcpi_free(zeros);
    return status;
}
enum { DCPI_REGION_JOINED = 1, DCPI_REGION_RELAYED = 2 };
static dcp_status dcpi_region_announce(dcpi_save *s, uint32_t way, dcp_error *err) {
    uint8_t message[DCPI_RELAY_HEADER];
    return dcpi_relay_send(&s->op, 0, message, way, 0, 0, err);
}
typedef struct dcpi_leaving { dcpi_save *save; void *object; } dcpi_leaving;
static dcp_status dcpi_region_leave(void *leaving, dcp_error *err) {
    dcpi_leaving *l = (dcpi_leaving *)leaving;
    return dcpi_storage_leave(l->save->place.storage, l->save->commit_key, l->object, err);
}
static dcp_status dcpi_region_write(dcpi_save *s, void *object, dcp_error *err) {
    dcpi_leaving leaving;
    dcp_error ignored;
    dcp_status status, left;
    leaving.save = s;
    leaving.object = object;
    status = dcpi_save_stream(s, s->place.storage, object, s->commit_key, 0, err);
    if (!status) status = dcpi_region_gap(s, s->data_offset + s->file_size, s->region_end, object, err);
    left = dcpi_op_errand(&s->op, dcpi_region_leave, &leaving, status ? &ignored : err);
    return status ? status : left;
}
static dcp_status dcpi_region_relay(dcpi_save *s, dcp_error *err) {
    dcp_storage storage;
    dcpi_relay relay;
    dcp_status status = DCP_E_MEMORY;
    memset(&storage, 0, sizeof storage);
    memset(&relay, 0, sizeof relay);
    storage.context = &relay;
    storage.flags = DCP_STORAGE_RANDOM_WRITE;
    storage.write = dcpi_relay_write;
    relay.op = &s->op;
    relay.message = (uint8_t *)dcpi_alloc(DCPI_RELAY_HEADER + DCPI_RELAY_CHUNK, err);
    if (relay.message) status = dcpi_save_stream(s, &storage, NULL, s->commit_key, 1, err);
    dcpi_free(relay.message);
    if (!status || !relay.failure.status) return status;
    *err = relay.failure;                               /* a rank's failure, which is none of a storage's */
    return err->status;
}
static dcp_status dcpi_region_own(dcpi_save *s, dcp_error *err) {       /* every rank but 0 */
    void *object = s->region_object;
    s->region_object = NULL;
    return s->region_way == DCPI_REGION_RELAYED ? dcpi_region_relay(s, err) : dcpi_region_write(s, object, err);
}
typedef struct dcpi_joining { dcpi_save *save; char *temporary; } dcpi_joining;
static dcp_status dcpi_region_open(void *joining, dcp_error *err) {
    dcpi_joining *j = (dcpi_joining *)joining;
    dcpi_save *s = j->save;
    return dcpi_storage_join(s->place.storage, s->commit_key, j->temporary, s->file_size, &s->region_object, err);
}
static dcp_status dcpi_region_join(dcpi_save *s, dcp_error *err) {
    dcpi_joining joining;
    dcp_status status = DCP_E_UNSUPPORTED;
    joining.save = s;
    joining.temporary = dcpi_storage_can_join(s->place.storage)
        ? dcpi_temporary_name(s->commit_key, s->report.save_id, 0, err) : NULL;
    if (joining.temporary) status = dcpi_op_errand(&s->op, dcpi_region_open, &joining, err);
    dcpi_free(joining.temporary);
    s->region_way = status ? DCPI_REGION_RELAYED : DCPI_REGION_JOINED;
    return dcpi_region_announce(s, s->region_way, err);
}
/* The single file: each rank tells rank 0 how its bytes get there. */
static dcp_status dcpi_save_meet(dcpi_save *s, dcp_error *err) {
    dcp_status status = DCP_OK;
    int r;
    if (s->kind->layout != DCP_LAYOUT_SINGLE) return DCP_OK;
    if (s->op.team.rank != 0) return dcpi_region_join(s, err);
    for (r = 1; r < s->op.team.world_size && !status; r++) {
        uint8_t *message = NULL;
        size_t size;
        status = dcpi_relay_receive(&s->op, r, &message, &size, err);
        if (!status) s->parts[r].way = dcpi_load32(message + 4);
        dcpi_free(message);
    }
    return status;
}
/* Whether this rank's writing takes messages between the ranks. */
static int dcpi_save_relays(const dcpi_save *s) {
    int r;
    if (s->op.team.rank != 0) return s->region_way == DCPI_REGION_RELAYED;
    for (r = 1; r < s->op.team.world_size; r++) if (s->parts[r].way == DCPI_REGION_RELAYED) return 1;
    return 0;
}
/* Rank 0: another rank's region, if that rank cannot write it. */
static dcp_status dcpi_region_take(dcpi_save *s, int rank, void *object, dcp_error *err) {
    const dcpi_part *part = &s->parts[rank];
    uint8_t credit[DCPI_RELAY_HEADER], *message = NULL;
    int64_t at = part->data_offset, end = at + part->file_size;
    size_t size;
    dcp_status status = DCP_OK;
    if (part->way == DCPI_REGION_JOINED) return DCP_OK;
    if (at < end) status = dcpi_relay_send(&s->op, rank, credit, DCPI_RELAY_AHEAD, 0, 0, err);
    while (at < end && !status) {
        status = dcpi_relay_receive(&s->op, rank, &message, &size, err);
        if (status) break;
        size -= DCPI_RELAY_HEADER;
        if (size == 0 || (int64_t)size > end - at || (int64_t)dcpi_load64(message + 8) != at)
            status = dcpi_fail(err, DCP_E_COMM, "rank %d sent other bytes of its tensors than those that come next",
                               rank);
        if (!status) status = dcpi_region_put(s, object, at, message + DCPI_RELAY_HEADER, size, err);
        at += (int64_t)size;
        s->report.bytes_written += (int64_t)size;
        dcpi_op_report(&s->op, s->report.bytes_written, 0);
        dcpi_free(message);
        if (!status && at < end) status = dcpi_relay_send(&s->op, rank, credit, 1, 0, 0, err);
    }
    return status ? status : dcpi_region_gap(s, end, dcpi_region_end(s, rank), object, err);
}

/* ---- write: one file */
/* The file that holds this rank's bytes: the single file itself, or a shard file, plain or with the save id in its
 * name. */
static dcp_status dcpi_save_name_shard(dcpi_save *s, dcp_error *err) {
    char name[DCP_LIMIT_PREFIX + 64];
    dcp_status status = dcpi_save_shard_name(s, s->op.team.rank, s->plain_names, name, sizeof name, err);
    if (status) return status;
    dcpi_free(s->shard_name);
    s->shard_name = dcpi_copy_text(name, err);
    return s->shard_name ? DCP_OK : DCP_E_MEMORY;
}
/* From here on a failed save has to remove the file, even without memory: so its key is kept. */
typedef struct dcpi_publishing { dcpi_save *save; void *object; char **key; } dcpi_publishing;
static dcp_status dcpi_save_publish(void *publishing, dcp_error *err) {
    dcpi_publishing *p = (dcpi_publishing *)publishing;
    dcpi_save *s = p->save;
    dcp_status status = dcpi_storage_commit(s->place.storage, *p->key, p->object, 0, err);
    /* it may have happened all the same: a name with our save id is nobody else's, so take it back */
    if (status) {
        if (!s->plain_names) (void)dcpi_storage_remove(s->place.storage, *p->key, NULL);
        return status;
    }
    s->shard_key = *p->key;
    *p->key = NULL;
    return dcpi_place_sync(&s->place, err);
}
/* One attempt at this rank's shard: a new temporary file, filled and published. */
static dcp_status dcpi_shard_write(dcpi_save *s, int attempt, dcp_error *err) {
    char *key = dcpi_place_key(&s->place, s->shard_name, err);
    char *temporary = key ? dcpi_temporary_name(key, s->report.save_id, attempt, err) : NULL;
    dcpi_publishing publishing;
    void *object = NULL;
    dcp_status status = temporary ? dcpi_save_begin_file(s, key, temporary, s->file_size, &object, err) : DCP_E_MEMORY;
    if (!status) {
        status = dcpi_save_stream(s, s->place.storage, object, key, 0, err);
        if (status) dcpi_storage_abort(s->place.storage, object);
    }
    if (!status) {
        publishing.save = s;
        publishing.object = object;
        publishing.key = &key;
        status = dcpi_op_errand(&s->op, dcpi_save_publish, &publishing, err);
    }
    dcpi_free(temporary);
    dcpi_free(key);
    return status;
}
/* Rank 0's attempt at the single file: its own region, and those that others cannot write; left open for the header. */
static dcp_status dcpi_single_write(dcpi_save *s, int attempt, dcp_error *err) {
    int r;
    dcp_status status = s->single_object ? DCP_OK : dcpi_single_begin(s, attempt, err);
    if (!status) status = dcpi_save_stream(s, s->place.storage, s->single_object, s->commit_key, 0, err);
    if (!status) status = dcpi_region_gap(s, s->data_offset + s->file_size, s->region_end, s->single_object, err);
    for (r = 1; r < s->op.team.world_size && !status; r++) status = dcpi_region_take(s, r, s->single_object, err);
    if (status && s->single_object) {
        dcpi_storage_abort(s->place.storage, s->single_object);
        s->single_object = NULL;
    }
    return status;
}
/* ---- write, manifest layout: each piece is hashed first if the base may have it, and kept if it has -------------- */
/* object NULL: only hashed */
static dcp_status dcpi_pool_stream(dcpi_save *s, size_t index, void *object, const char *key, dcp_error *err) {
    const dcpi_placed *placed = &s->placed[index];
    dcpi_stream *t = (dcpi_stream *)dcpi_alloc_array(1, sizeof *t, err);
    dcpi_stream_part part;
    dcp_status status;
    if (!t) return DCP_E_MEMORY;
    part.tensor = placed->tensor;
    part.offset = 0;
    part.size = placed->size;
    part.digests = s->digests + placed->first_block;
    t->op = &s->op;
    t->storage = s->place.storage;
    t->object = object;
    t->is_hashed_only = object == NULL;
    t->key = key;
    t->parts = &part;
    t->part_count = 1;
    t->end = placed->size;
    t->block_size = s->block_size;
    t->is_flat = s->desc->checksum == DCP_CHECKSUM_FLAT;
    t->done_before = s->report.bytes_written + s->report.bytes_reused;
    status = dcpi_stream_run(t, err);
    if (t->is_flat) memcpy(s->files[index].checksum, t->flat_digest, 32);
    else dcp_sha256(part.digests, dcpi_block_count(placed->size, s->block_size) * 32, s->files[index].checksum);
    dcpi_free(t);
    return status;
}
/* Whether the base's file has the same bytes, and is there. */
static dcp_status dcpi_pool_keep(dcpi_save *s, size_t index, dcp_error *err) {
    dcpi_pool_file *file = &s->files[index];
    dcp_object_info info;
    char *key;
    dcp_status status = dcpi_pool_stream(s, index, NULL, file->base_path, err);
    if (status || memcmp(file->checksum, file->base_checksum, 32) != 0) return status;
    key = dcpi_place_key(&s->place, file->base_path, err);
    status = key ? dcpi_op_stat(&s->op, s->place.storage, key, &info, err) : DCP_E_MEMORY;
    dcpi_free(key);
    file->is_kept = !status && info.size == s->placed[index].size;
    if (file->is_kept) s->report.bytes_reused += info.size;
    return status == DCP_E_MEMORY ? status : dcpi_succeed(err);    /* one that cannot be looked at is as good as gone */
}
typedef struct dcpi_pooling { dcpi_save *save; const char *key; void *object; } dcpi_pooling;
static dcp_status dcpi_pool_publish(void *pooling, dcp_error *err) {
    dcpi_pooling *p = (dcpi_pooling *)pooling;
    return dcpi_storage_commit(p->save->place.storage, p->key, p->object, 0, err);
}
/* A failed save has to remove what is published, even without memory: so the name is noted before, and struck out if
 * nothing came of it. */
static dcp_status dcpi_pool_note(dcpi_save *s, const char *key, void *object, dcp_error *err) {
    dcp_status status = dcpi_names_add(&s->published, key, err);
    if (status) dcpi_storage_abort(s->place.storage, object);
    return status;
}
static void dcpi_pool_strike_out(dcpi_save *s) { dcpi_free(s->published.items[--s->published.count]); }

static dcp_status dcpi_pool_write_as(dcpi_save *s, size_t index, int attempt, const char *path, dcp_error *err) {
    char *key = dcpi_place_key(&s->place, path, err), *temporary = key
                ? dcpi_temporary_name(key, s->report.save_id, attempt, err) : NULL;
    dcpi_pooling pooling;
    void *object = NULL;
    dcp_status status = temporary ? dcpi_save_begin_file(s, key, temporary, s->placed[index].size, &object,
                                                         err) : DCP_E_MEMORY;
    if (!status) {
        status = dcpi_pool_stream(s, index, object, key, err);
        if (status) dcpi_storage_abort(s->place.storage, object);
        else status = dcpi_pool_note(s, key, object, err);
    }
    if (!status) {
        pooling.save = s;
        pooling.key = key;
        pooling.object = object;
        status = dcpi_op_errand(&s->op, dcpi_pool_publish, &pooling, err);
        /* it may have happened all the same: a name with our save id is nobody else's, so take it back */
        if (status && s->files[index].has_id) (void)dcpi_storage_remove(s->place.storage, key, NULL);
        if (status) dcpi_pool_strike_out(s);
    }
    dcpi_free(temporary);
    dcpi_free(key);
    return status;
}
static dcp_status dcpi_pool_write_file(dcpi_save *s, size_t index, dcp_error *err) {
    dcpi_pool_file *file = &s->files[index];
    char path[DCP_LIMIT_PATH + 64];
    int attempt;
    for (attempt = 0;; attempt++) {
        dcp_status status;
        dcpi_pool_path(s, file->stem, file->version, file->has_id, path, sizeof path);
        status = dcpi_pool_write_as(s, index, attempt, path, err);
        if (!status) { s->report.bytes_written += s->placed[index].size; return DCP_OK; }
        /* whosever it is: never replaced, never taken for ours */
        if (status == DCP_E_EXISTS && !file->has_id) { file->has_id = 1; continue; }
        if (!dcpi_op_again(&s->op, attempt + 1, "writing the tensors", err)) return err->status;
    }
}
/* The names of this rank's files. */
static dcp_status dcpi_pool_sync(void *save, dcp_error *err) {
    const dcpi_save *s = (const dcpi_save *)save;
    return dcpi_names_sync(&s->place, &s->published, err);
}
static dcp_status dcpi_pool_write(dcpi_save *s, dcp_error *err) {
    dcp_status status = DCP_OK;
    int64_t taken = 0;
    size_t i;
    for (i = 0; i < s->placed_count && !status; i++) {
        if (s->files[i].base_path) status = dcpi_pool_keep(s, i, err);
        if (!status && !s->files[i].is_kept) status = dcpi_pool_write_file(s, i, err);
        /* not while its file may be tried again, or written after it was hashed */
        taken += s->placed[i].size;
        if (!status && s->taken) s->taken(s->watcher, taken);
    }
    if (!status) status = dcpi_op_errand(&s->op, dcpi_pool_sync, s, err);
    dcpi_op_report(&s->op, s->report.bytes_written + s->report.bytes_reused, 1);
    return status;
}
/* A plain name may be somebody else's by now if this process stood still for long, or if somebody has swept with no
 * respect for saves under way: then it is left to sweep. One with our save id is ours. */
static void dcpi_pool_take_back(dcpi_save *s, int only_ids) {
    dcp_error ignored;
    size_t i;
    if (s->intent_key && dcpi_intent_check(&s->place, s->intent_key, &ignored) == DCP_E_INCOMPLETE) only_ids = 1;
    for (i = 0; i < s->published.count; i++)
        if ((!only_ids || strstr(s->published.items[i], s->report.save_id)) &&
            dcpi_storage_remove(s->place.storage, s->published.items[i], &ignored)) dcpi_op_log(&s->op, DCP_LOG_WARNING,
                    "the failed save left %s for sweep: %s", s->published.items[i], ignored.message);
}
static void dcpi_pool_report(const dcpi_save *s, dcpi_buffer *message) {
    size_t i;
    for (i = 0; i < s->placed_count; i++) {
        const uint8_t flags = (uint8_t)((s->files[i].is_kept ? DCPI_POOL_KEPT : 0) |
                                        (s->files[i].has_id ? DCPI_POOL_HAS_ID : 0));
        dcpi_buffer_add(message, &flags, 1);
        dcpi_buffer_add(message, s->files[i].checksum, 32);
    }
}
static void dcpi_pool_learn(dcpi_save *s, const dcpi_part *part, const uint8_t *done) {
    size_t i;
    for (i = 0; i < part->count; i++, done += DCPI_POOL_DONE) s->pooled[part->first + i].done = done;
}
/* Every file that the manifest will name is there, with its size. */
static dcp_status dcpi_pool_check(dcpi_save *s, dcp_error *err) {
    char path[DCP_LIMIT_PATH + 64];
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < s->entry_count && !status; i++) {
        dcp_object_info info;
        char *key;
        if ((i & 255) == 255 && (status = dcpi_op_check(&s->op, err)) != DCP_OK) return status;
        if ((s->pooled[i].done[0] & DCPI_POOL_KEPT) && !s->pooled[i].base)
            return dcpi_fail(err, DCP_E_COMM, "save: rank %d kept a file that the base does not have",
                             s->entries[i].rank);
        dcpi_pool_path_of(s, &s->pooled[i], path, sizeof path);
        key = dcpi_place_key(&s->place, path, err);
        status = key ? dcpi_storage_stat(s->place.storage, key, &info, err) : DCP_E_MEMORY;
        dcpi_free(key);
        if (status == DCP_E_NOT_FOUND) err->status = status = DCP_E_INCOMPLETE;
        if (!status && info.size != s->entries[i].size)
            status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s%s has %" PRId64 " bytes, not the %" PRId64
                               " that it was saved with", s->place.shown, path, info.size, s->entries[i].size);
        if (status) err->rank = s->entries[i].rank;
    }
    return status;
}
static void dcpi_pool_free(dcpi_save *s) {
    dcpi_names_free(&s->published);
    dcpi_free((void *)s->base_order);
    dcpi_document_free(&s->base);
    dcpi_free(s->base_name);
    dcpi_free(s->intent_key);
    dcpi_free(s->pooled);
    dcpi_free(s->files);
    dcpi_arena_free(&s->texts);
}

static dcp_status dcpi_save_write(dcpi_save *s, dcp_error *err) {
    const int is_single = s->kind->layout == DCP_LAYOUT_SINGLE;
    dcp_status status = dcpi_save_name_shard(s, err);
    int attempt;
    s->write_began_ms = dcpi_os_monotonic_ms();
    if (!status && dcpi_save_is_manifest(s)) return dcpi_pool_write(s, err);
    if (!status && is_single && s->op.team.rank != 0) return dcpi_region_own(s, err);
    for (attempt = 0; !status; attempt++) {
        int taken;
        status = is_single ? dcpi_single_write(s, attempt, err) : dcpi_shard_write(s, attempt, err);
        taken = status == DCP_E_EXISTS && s->plain_names;  /* somebody made that file meanwhile: it is never replaced */
        /* other ranks have sent their bytes */
        if (!status || s->shard_key || (is_single && s->op.team.world_size > 1)) break;
        if (s->again && (taken || dcpi_storage_is_transient(err)) && !s->again(s->watcher)) {
            dcpi_fail_context(err, "not tried again, since there is no copy of the tensors beyond snapshot_budget: ");
            break;
        }
        if (!taken && !dcpi_op_again(&s->op, attempt + 1, "writing the tensors", err)) { status = err->status; break; }
        s->plain_names = 0;
        status = dcpi_save_name_shard(s, err);
    }
    dcpi_op_report(&s->op, s->report.bytes_written, 1);
    return status;
}

/* ---- acknowledge: every shard is there; from here on a rank waits for rank 0's verdict (G5) -------------------------
 * A rank's word: size of its shard, bytes written (8 bytes each), whether the name is plain (1), its checksum as text
 * (80), its digests. */
#define DCPI_DONE_SIZE (8 + 8 + 1 + 80)
static void dcpi_done_make(const dcpi_save *s, dcpi_buffer *message) {
    uint8_t body[DCPI_DONE_SIZE];
    dcpi_store64(body, (uint64_t)s->file_size);
    dcpi_store64(body + 8, (uint64_t)s->report.bytes_written);
    body[16] = (uint8_t)s->plain_names;
    memcpy(body + 17, s->checksum, sizeof s->checksum);
    dcpi_buffer_add(message, body, sizeof body);
    dcpi_buffer_add(message, s->digests, s->block_total * 32);
    if (dcpi_save_is_manifest(s)) dcpi_pool_report(s, message);
}
static dcp_status dcpi_done_take(dcpi_save *s, dcpi_part *part, int rank, uint8_t *message, size_t size,
                                 dcp_error *err) {
    const uint8_t *body = message + DCPI_TEAM_HEADER;
    const size_t blocks = part->block_total * 32, files = dcpi_save_is_manifest(s) ? part->count * DCPI_POOL_DONE : 0;
    part->done = message;
    if (size != DCPI_TEAM_HEADER + DCPI_DONE_SIZE + blocks + files || (int64_t)dcpi_load64(body) != part->file_size)
        return dcpi_fail(err, DCP_E_COMM, "save: rank %d wrote something else than was planned", rank);
    part->is_plain = body[16];
    memcpy(part->checksum, body + 17, sizeof part->checksum);
    part->checksum[sizeof part->checksum - 1] = '\0';
    part->digests = body + DCPI_DONE_SIZE;
    if (files) dcpi_pool_learn(s, part, part->digests + blocks);
    if (rank > 0 && s->kind->layout != DCP_LAYOUT_SINGLE) s->report.bytes_written += (int64_t)dcpi_load64(body + 8);
    return DCP_OK;
}
/* DCP_PENDING on rank 0: dcpi_team_collect until it says something else. */
static dcp_status dcpi_save_acknowledge(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_op_phase(&s->op, DCP_PHASE_GATHER, 0);
    if (!status) status = dcpi_op_check(&s->op, err);
    if (!status) status = dcpi_op_check_awake(&s->op, err);
    if (!status) {
        dcpi_team_message_start(&s->done);
        dcpi_done_make(s, &s->done);
        s->op.team.is_promised = !s->done.failed;       /* without memory for its word it has not given it */
    }
    return dcpi_team_up_begin(&s->op, status, &s->done, err);
}
/* Rank 0: all have spoken. */
static dcp_status dcpi_save_gathered(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_team *t = &s->op.team;
    int r;
    if (!status && t->rank == 0) {
        if (s->done.failed) status = dcpi_no_memory(err, s->done.size);
        for (r = 0; r < t->world_size && !status; r++) {
            status = dcpi_done_take(s, &s->parts[r], r, r ? t->peers[r].message : (uint8_t *)s->done.data,
                                    r ? t->peers[r].size : s->done.size, err);
            if (r) t->peers[r].message = NULL;
            else memset(&s->done, 0, sizeof s->done);
        }
    }
    dcpi_buffer_free(&s->done);
    dcpi_op_phase(&s->op, DCP_PHASE_COMMIT, 0);
    return status;
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */
static dcp_status dcpi_save_tell(dcpi_save *s, dcp_status status, dcp_error *err);
static dcp_status dcpi_commit_run(void *save, dcp_error *err);
static dcp_status dcpi_commit_check(dcpi_save *s, dcp_error *err);
static dcp_status dcpi_commit_document(dcpi_save *s, void **object, dcp_error *err);
static dcp_status dcpi_commit_lock(dcpi_save *s, dcpi_lock *lock, dcp_error *err);
static dcp_status dcpi_commit_last_look(dcpi_save *s, dcp_error *err);
/* Likewise: there was no document to rename, and another one has the lock now, who removed it (L3). A server may have
 * moved it and lost the answer: then somebody has replaced ours since, and its files go only when that is durable
 * (G2). */
static int dcpi_commit_was_fenced(dcpi_save *s, dcpi_lock *lock, int may_have_been_there, const dcp_error *err) {
    if (may_have_been_there && dcpi_os_status(err->sys) != DCP_E_NOT_FOUND) return 0;
    s->is_taken_over = dcpi_lock_is_lost(&s->op, lock) && dcpi_place_sync(&s->place, NULL) == DCP_OK;
    return s->is_taken_over;
}
static dcp_status dcpi_commit_rename(dcpi_save *s, dcpi_lock *lock, void *object, dcp_error *err);
static dcp_status dcpi_commit_sync(dcpi_save *s, dcp_error *err);
static void dcpi_commit_clean(dcpi_save *s, dcpi_lock *lock);

static dcp_status dcpi_save_commit(dcpi_save *s, dcp_status status, dcp_error *err) {
    status = dcpi_save_acknowledge(s, status, err);
    while (status == DCP_PENDING) status = dcpi_team_collect(&s->op, DCPI_TEAM_SLICE_MS, err);
    status = dcpi_save_gathered(s, status, err);
    if (!status && s->op.team.rank == 0) status = dcpi_op_errand(&s->op, dcpi_commit_run, s, err);
    status = dcpi_save_tell(s, status, err);
    while (status == DCP_PENDING) status = dcpi_team_follow(&s->op, DCPI_TEAM_SLICE_MS, err);
    return status;
}
/* Rank 0 tells the verdict; others: DCP_PENDING, and dcpi_team_follow until it says something else. */
static dcp_status dcpi_save_tell(dcpi_save *s, dcp_status status, dcp_error *err) {
    dcpi_op_phase(&s->op, DCP_PHASE_FINISH, s->file_size);
    return dcpi_team_down_begin(&s->op, status, NULL, NULL, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
}
/* This save has written all of it, or kept files of a base of which that is known: it has not read those. */
static int dcpi_commit_is_proven(const dcpi_save *s) {
    return s->base_count == 0 || dcpi_proven_has(&s->place, s->base_name, s->base.digest);
}
/* G1, G3: check, write, lock, look, rename, sync the directory; nothing else here. Before the rename a failure leaves
 * what was there; from the rename on nothing is taken back, and what cannot be known is DCP_E_UNKNOWN. */
static dcp_status dcpi_commit_run(void *save, dcp_error *err) {
    dcpi_save *s = (dcpi_save *)save;
    dcpi_lock lock;
    void *object = NULL;
    dcp_status status = dcpi_commit_check(s, err);
    memset(&lock, 0, sizeof lock);
    if (!status) status = dcpi_commit_document(s, &object, err);
    if (!status) status = dcpi_commit_lock(s, &lock, err);
    if (!status) status = dcpi_commit_last_look(s, err);
    if (status) dcpi_storage_abort(s->place.storage, object);
    else status = dcpi_commit_rename(s, &lock, object, err);
    if (!status) status = dcpi_commit_sync(s, err);
    s->op.is_committed = !status;
    if (!status && dcpi_commit_is_proven(s)) dcpi_proven_add(&s->place, s->commit_name, s->digest);
    if (!status) dcpi_commit_clean(s, &lock);
    dcpi_lock_release(&lock);
    return status;
}
/* A shard is there, with its size. */
static dcp_status dcpi_commit_check_shard(const dcpi_save *s, int rank, dcp_error *err) {
    const dcpi_part *part = &s->parts[rank];
    char name[DCP_LIMIT_PREFIX + 64], *key;
    dcp_object_info info;
    dcp_status status = dcpi_save_shard_name(s, rank, part->is_plain, name, sizeof name, err);
    key = status ? NULL : dcpi_place_key(&s->place, name, err);
    if (!key) return err->status;
    status = dcpi_storage_stat(s->place.storage, key, &info, err);
    dcpi_free(key);
    if (status == DCP_E_NOT_FOUND) status = DCP_E_INCOMPLETE;
    if (!status && info.size != part->file_size)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s%s has %" PRId64 " bytes just after %" PRId64
                           " were written to it", s->place.shown, name, info.size, part->file_size);
    if (status) { err->status = status; err->rank = rank; }
    return status;
}
static dcp_status dcpi_commit_check_time(dcpi_save *s, dcp_error *err) {
    dcp_status status = dcpi_op_check(&s->op, err);
    if (!status && dcpi_os_monotonic_ms() - s->write_began_ms > (int64_t)DCP_GRACE_SECONDS * 1000 / 2)
        return dcpi_fail(err, DCP_E_TIMEOUT,
                         "this save is older than half the grace time of sweep (%d s); its files may be swept any time",
                         (int)DCP_GRACE_SECONDS);
    return status;
}
/* Everything that the commit file will name is there; no sweep may be after our files yet. */
static dcp_status dcpi_commit_check(dcpi_save *s, dcp_error *err) {
    dcp_status status = dcpi_commit_check_time(s, err);
    int r;
    for (r = 0; r < s->op.team.world_size && !status && s->kind->layout == DCP_LAYOUT_SHARDED; r++)
        status = dcpi_commit_check_shard(s, r, err);
    if (!status && dcpi_save_is_manifest(s)) status = dcpi_pool_check(s, err);
    return status;
}

/* The document's bytes; with the single file, all that stands before its data. What an open would refuse is not
 * committed. */
static dcp_status dcpi_commit_make(dcpi_save *s, dcpi_buffer *bytes, dcp_error *err) {
    const dcpi_part *last = &s->parts[s->op.team.world_size - 1];
    const int is_single = s->kind->layout == DCP_LAYOUT_SINGLE;
    dcp_status status = dcpi_save_emit(s, dcpi_buffer_sink, bytes, err);
    if (status) return status;
    status = dcpi_document_accept(s->kind->layout, s->commit_name, bytes->data, bytes->size,
                                  is_single ? last->data_offset + last->file_size : (int64_t)bytes->size, s->digest,
                                  err);
    if (status == DCP_E_FORMAT || status == DCP_E_CHECKSUM || status == DCP_E_VERSION || status == DCP_E_INCOMPLETE)
        status = DCP_E_INVALID;
    if (status) {
        dcpi_fail_context(err, "save: nobody could open what would be committed: ");
        err->status = status;
    }
    return status;
}
/* One attempt at the document, in a new temporary file; the single file has one already, and its header goes to the
 * front. */
static dcp_status dcpi_commit_document_once(dcpi_save *s, int attempt, const dcpi_buffer *bytes, void **out,
                                            dcp_error *err) {
    dcp_storage *storage = s->place.storage;
    void *object = s->single_object;
    dcp_status status = DCP_OK;
    size_t at, n;
    s->single_object = NULL;
    if (!object) {
        dcpi_free(s->document_temporary);
        s->document_temporary = dcpi_temporary_name(s->commit_key, s->report.save_id, attempt, err);
        status = DCP_E_MEMORY;
        if (s->document_temporary)
            status = dcpi_storage_begin(storage, s->commit_key, s->document_temporary, 0, &object, err);
    }
    for (at = 0; at < bytes->size && !status; at += n) {
        n = bytes->size - at < (size_t)DCPI_CHUNK ? bytes->size - at : (size_t)DCPI_CHUNK;
        status = dcpi_storage_write(storage, s->commit_key, object, (int64_t)at, bytes->data + at, n, err);
    }
    if (status) dcpi_storage_abort(storage, object);
    else *out = object;
    if (!status) s->report.bytes_written += (int64_t)bytes->size;
    return status;
}
static dcp_status dcpi_commit_document(dcpi_save *s, void **object, dcp_error *err) {
    /* the single file's bytes would have to be written again as well */
    const int retries = s->single_object == NULL;
    dcpi_buffer bytes = {NULL, 0, 0, 0};
    dcp_status status = dcpi_commit_make(s, &bytes, err);
    int attempt;
    for (attempt = 0; !status; attempt++) {
        status = dcpi_commit_document_once(s, attempt, &bytes, object, err);
        if (!status || !retries) break;
        status = dcpi_op_again(&s->op, attempt + 1, "writing the document", err) ? DCP_OK : err->status;
    }
    dcpi_buffer_free(&bytes);
    return status;
}
/* L2: once the lock's note says which document comes, and until it is let go, nobody else changes what is there. */
static dcp_status dcpi_commit_lock(dcpi_save *s, dcpi_lock *lock, dcp_error *err) {
    const char *document = dcpi_place_name(&s->place, s->document_temporary);
    dcp_status status = dcpi_lock_take(&s->op, &s->place, s->place.name, 1, lock, err);
    if (!status) status = dcpi_lock_note(&s->op, lock, document, err);
    if (lock->is_missing) s->report.not_durable |= DCP_STORAGE_COMMIT_LOCK;
    return status;
}
/* With overwrite: the commit file is the one that was found in prepare. */
static dcp_status dcpi_commit_is_same(dcpi_save *s, dcp_error *err) {
    uint8_t now[32];
    const dcp_status status = dcpi_document_digest(&s->op, &s->place, s->commit_name, now, err);
    if (dcpi_is_trouble(status)) return status;
    if (memcmp(now, s->displaced_digest, sizeof now) == 0) return dcpi_succeed(err);
    return dcpi_fail(err, DCP_E_EXISTS,
                     "%s was replaced by somebody else during this save; save again to replace that one",
                     s->report.path);
}
/* Nobody has committed at P meanwhile, in any layout; no deadline has passed while the lock was waited for; and, in the
 * manifest layout, no sweep has taken files in spite of the intent. */
static dcp_status dcpi_commit_last_look(dcpi_save *s, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    int count = 0, i;
    dcp_status status = dcpi_commit_check_time(s, err);
    /* the others may have saved again: that must not be displaced */
    if (!status) status = dcpi_op_check_awake(&s->op, err);
    if (!status) status = dcpi_commit_find(&s->place, s->place.name, found, &count, err);
    for (i = 0; i < count && i < 2 && !status; i++)
        if (found[i] != s->kind || !s->displaces)
            status = dcpi_fail(err, DCP_E_EXISTS, "another save has committed there meanwhile%s: %s%s%s",
                               found[i] == s->kind ? "" : ", in another layout", s->place.shown, s->place.name,
                               found[i]->suffix);
    if (!status && s->displaces) status = dcpi_commit_is_same(s, err);
    return status || !dcpi_save_is_manifest(s) ? status : dcpi_intent_check(&s->place, s->intent_key, err);
}
/* After a rename that reported an error: is the commit file there ours? 1 yes, 0 no, -1 cannot be known. */
static int dcpi_commit_is_ours(dcpi_save *s) {
    dcpi_document now;
    dcp_status status = dcpi_document_read(&s->op, &s->place, s->commit_name, NULL, &now, NULL);
    int ours = !status && now.metadata->save_id && strcmp(now.metadata->save_id, s->report.save_id) == 0;
    dcpi_document_free(&now);
    if (!status) return ours;
    return dcpi_is_trouble(status) ? -1 : 0;
}
/* Likewise: what was there before still is, so ours never was. Another one proves nothing: it may have replaced ours
 * since. None, where there was none, may mean that somebody has removed ours: if it may have been there, its plain
 * names may be those of a new first save by now; if not, that it is gone is made durable before its files go (G2), for
 * a storage may not have known. */
static int dcpi_commit_is_as_before(dcpi_save *s, int may_have_been_there) {
    uint8_t now[32];
    const dcp_status status = dcpi_document_digest(&s->op, &s->place, s->commit_name, now, NULL);
    if (!s->displaces)
        return !may_have_been_there && status == DCP_E_NOT_FOUND && dcpi_place_sync(&s->place, NULL) == DCP_OK;
    return !dcpi_is_trouble(status) && memcmp(now, s->displaced_digest, sizeof now) == 0;
}
static dcp_status dcpi_commit_rename(dcpi_save *s, dcpi_lock *lock, void *object, dcp_error *err) {
    int may_be_there, ours, removed;
    const dcp_status status = dcpi_storage_publish(s->place.storage, s->commit_key, object, s->displaces, &may_be_there,
                                                   err);
    char reason[200];
    if (!status) return DCP_OK;
    removed = dcpi_storage_remove(s->place.storage, s->document_temporary, NULL) == DCP_OK;
    ours = dcpi_commit_is_ours(s);
    if (ours == 1) return dcpi_succeed(err);            /* it happened, whatever was reported */
    if (ours == 0 && dcpi_commit_was_fenced(s, lock, may_be_there, err)) return dcpi_lock_lost(s->report.path, err);
    if (status == DCP_E_EXISTS && ours == 0) dcpi_fail_context(err, "another save committed there meanwhile: ");
    if (ours == 0 && removed && (status == DCP_E_EXISTS || dcpi_commit_is_as_before(s, may_be_there))) return status;
    (void)snprintf(reason, sizeof reason, "%.190s", err->message);
    return dcpi_fail_sys(err, DCP_E_UNKNOWN, err->sys,
                         "whether %s was replaced is not known; nothing was removed; open it to see (save id %s): %s",
                         s->report.path,
            s->report.save_id, reason);
}

static dcp_status dcpi_commit_sync(dcpi_save *s, dcp_error *err) {
    const dcp_status status = dcpi_place_sync(&s->place, err);
    if (!status) return DCP_OK;
    return dcpi_fail_sys(err, DCP_E_UNKNOWN, err->sys,
                         "%s is there, but its directory could not be synced: it may vanish in a power cut; nothing "
                         "was removed", s->report.path);
}
/* What the displaced document named by plain names, with the lock that has been held since that document was seen. A
 * server may have given the lock away while this process stood still: so not after long. What is left is sweep's. */
static void dcpi_commit_clean(dcpi_save *s, dcpi_lock *lock) {
    dcp_error ignored;
    if (s->displaced_plain.count == 0 || dcpi_lock_note(&s->op, lock, DCPI_LOCK_REMOVES, &ignored)) return;
    if (dcpi_os_monotonic_ms() - lock->taken_ms > s->op.io.timeout_ms) return;
    dcpi_refs_remove_displaced(&s->op, &s->place, s->commit_name, NULL, 1, &s->displaced_plain);
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */
/* A plain name may be somebody else's by now if this process stood still for long: then it is left to sweep. */
static void dcpi_finish_take_back(dcpi_save *s) {
    dcp_error ignored;
    int only_ids;
    dcpi_op_note_time(&s->op);
    only_ids = s->is_taken_over || s->op.longest_gap_ms > s->op.io.timeout_ms;
    dcpi_storage_abort(s->place.storage, s->single_object);
    if (s->region_object) (void)dcpi_storage_leave(s->place.storage, s->commit_key, s->region_object, &ignored);
    dcpi_pool_take_back(s, only_ids);
    if (!s->shard_key || (s->plain_names && only_ids)) return;
    if (dcpi_storage_remove(s->place.storage, s->shard_key, &ignored))
        dcpi_op_log(&s->op, DCP_LOG_WARNING, "the failed save left %s%s for sweep: %s", s->place.shown, s->shard_name,
                    ignored.message);
}
/* G9. A known failure removes what it made; UNKNOWN removes nothing; success removes what the displaced document named
 * and no document names any more. */
static dcp_status dcpi_save_finish(dcpi_save *s, dcp_status verdict) {
    dcp_error ignored;
    int r;
    (void)dcpi_beacon_remove(s, &ignored);
    if (verdict != DCP_OK && verdict != DCP_E_UNKNOWN) dcpi_finish_take_back(s);
    dcpi_op_note_time(&s->op);
    if (verdict == DCP_OK && s->displaced.count > 0 && s->op.longest_gap_ms <= s->op.io.timeout_ms)
        dcpi_refs_remove_displaced(&s->op, &s->place, dcpi_save_is_manifest(s) ? NULL : s->commit_name,
                                   dcpi_save_is_manifest(s) ? s->report.save_id : NULL, 0, &s->displaced);
    if (verdict != DCP_E_UNKNOWN) dcpi_intent_remove(&s->op, &s->place, s->intent_key);
    s->report.seconds = (double)(dcpi_os_monotonic_ms() - s->op.started_ms) / 1000.0;
    if (verdict == DCP_OK) dcpi_op_report(&s->op, s->op.progress.bytes_total, 1);
    dcpi_save_tell_report(s, s->desc->report);
    for (r = 0; s->parts && r < s->op.team.world_size; r++) {
        dcpi_free(s->parts[r].list);
        dcpi_free(s->parts[r].done);
    }
    dcpi_team_end(&s->op);
    dcpi_free(s->parts);
    dcpi_free(s->entries);
    dcpi_buffer_free(&s->list);
    dcpi_names_free(&s->displaced);
    dcpi_names_free(&s->displaced_plain);
    dcpi_free(s->shard_name);
    dcpi_free(s->commit_name);
    dcpi_free(s->shard_key);
    dcpi_free(s->commit_key);
    dcpi_free(s->document_temporary);
    dcpi_free(s->placed);
    dcpi_free(s->digests);
    dcpi_pool_free(s);
    dcpi_place_close(&s->place);
    return verdict;
}

