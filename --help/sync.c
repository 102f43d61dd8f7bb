/* =====================================================================================================================
 * >>sync        dcp_sync: brings a local copy of a manifest and its files up to date. The stages:
 *
 *   read       the source's manifest; an intent in the copy, as for a save; then what the manifests there name
 *   decide     of each selected file: is it there, of the same version, whole? what does not fit its tier's size_budget
 *              stays away
 *   copy       what is missing, stale or corrupt, hashed as it passes; published only if it is what the manifest says
 *              G4 A file that is there is replaced only if no manifest there names it with another checksum, the copy's
 *              own included: that one is a checkpoint until the new one is committed
 *              G2
 *   commit     the source's document, byte for byte, by one rename: a sync that is killed before it leaves the old copy
 *              G1, G2
 * ================================================================================================================== */
enum { DCPI_SYNC_LEFT_OUT, DCPI_SYNC_THERE, DCPI_SYNC_MISSING, DCPI_SYNC_STALE, DCPI_SYNC_CORRUPT,
       DCPI_SYNC_IS_THERE = 8 };
typedef struct dcpi_sync {
    const dcp_sync_desc *desc;
    dcp_sync_report *report;
    dcpi_op op;
    dcpi_place from, to;
    char *commit_name, *prefix;
    int has_committed;                                  /* the copy's manifest is the source's */
    dcpi_document document, own;                        /* the source's; what the copy has, metadata NULL: none */
    const dcpi_origin **own_order; size_t own_count;    /* by piece */
    const char **own_paths;                             /* sorted */
    char *intent_key;                                   /* in the copy: nobody removes what this sync finds there */
    /* "path\nchecksum", and paths, that the manifests in the copy's directory name; sorted */
    dcpi_names named, named_paths;
    uint8_t commits[32];                                /* which ones those are */
    int unread;                                       /* how many of them cannot be read: what they name is not known */
    uint8_t *states;                                    /* for each of document.origins: DCPI_SYNC_ */
    int64_t *tier_bytes;
    dcpi_names displaced, files;                      /* files: keys of those that the copy's manifest will name here */
    uint8_t *buffer; size_t capacity;
} dcpi_sync;

/* ---- hashing a file as its shard's checksum does ----------------------------------------------------------------- */
typedef struct dcpi_folding {
    int64_t block_size, in_block, block_left;
    int is_flat;
    dcpi_sha all, block;
    uint8_t first[32];
    int64_t left;
} dcpi_folding;

static void dcpi_folding_begin(dcpi_folding *f, const dcp_shard_metadata *shard) {
    memset(f, 0, sizeof *f);
    f->is_flat = dcpi_is_flat(shard);
    f->block_size = shard->tensor_count > 0 ? shard->tensors[0].block_size : 0;
    if (f->block_size <= 0) f->block_size = DCPI_CHUNK;
    f->left = shard->file_size;
    dcpi_sha_init(&f->all);
    dcpi_sha_init(&f->block);
}
static void dcpi_folding_leaf(dcpi_folding *f, const uint8_t leaf[32], int64_t size) {
    uint8_t digest[32];
    if (f->in_block == 0) memcpy(f->first, leaf, 32);
    dcpi_sha_update(&f->block, leaf, 32);
    f->in_block += size;
    f->left -= size;
    if (f->in_block < f->block_size && f->left > 0) return;
    dcpi_sha_final(&f->block, digest);
    dcpi_sha_update(&f->all, f->in_block <= DCPI_LEAF ? f->first : digest, 32);
    dcpi_sha_init(&f->block);
    f->in_block = 0;
}
/* size: a multiple of a leaf, but for the file's last bytes */
static void dcpi_folding_add(dcpi_folding *f, const uint8_t *data, size_t size) {
    dcpi_sha_job jobs[16];
    uint8_t leaves[16][32];
    size_t at = 0, n, i;
    if (f->is_flat) { dcpi_sha_update(&f->all, data, size); return; }
    while (at < size) {
        for (n = 0; n < DCPI_COUNT(jobs) && at < size; n++, at += jobs[n - 1].size) {
            jobs[n].data = data + at;
            jobs[n].size = (size_t)dcpi_min((int64_t)(size - at), DCPI_LEAF);
            jobs[n].digest = leaves[n];
        }
        dcpi_sha_many(jobs, n);
        for (i = 0; i < n; i++) dcpi_folding_leaf(f, leaves[i], (int64_t)jobs[i].size);
    }
}
static int dcpi_folding_is(dcpi_folding *f, const char *checksum) {      /* no checksum: nothing to compare with */
    uint8_t digest[32], stated[32];
    dcpi_sha_final(&f->all, digest);
    if (!checksum) return 1;
    if (!f->is_flat) checksum += sizeof dcpi_tree_prefix - 1;
    if (strlen(checksum) != 64 || !dcpi_hex_decode(checksum, 64, stated)) return 0;
    return dcpi_sha_equal(digest, stated, sizeof digest);
}

/* ---- read -------------------------------------------------------------------------------------------------------- */
/* What is but a path in the source's manifest has the size that its file has there. */
static dcp_status dcpi_sync_sizes(dcpi_sync *y, dcp_error *err) {
    dcp_metadata *m = y->document.metadata;
    dcp_object_info info;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < m->shard_count && !status; i++) {
        char *key;
        if (m->shards[i].file_size >= 0) continue;
        key = dcpi_place_key(&y->from, m->shards[i].file_path, err);
        status = key ? dcpi_storage_stat(y->from.storage, key, &info, err) : DCP_E_MEMORY;
        dcpi_free(key);
        if (status == DCP_E_NOT_FOUND)
            return dcpi_fail(err, DCP_E_INCOMPLETE, "%s%s is not there, though its manifest names it", y->from.shown,
                             m->shards[i].file_path);
        m->shards[i].file_size = info.size;
    }
    return status;
}
static dcp_status dcpi_sync_open(dcpi_sync *y, dcp_error *err) {
    const dcp_sync_desc *d = y->desc;
    dcp_status status = dcpi_place_open(&y->from, d->source, d->path, 0, err);
    if (!status) status = dcpi_commit_meant(&y->from, &y->commit_name, err);
    if (status) return status;
    if (dcpi_commit_kind_of(y->commit_name)->layout != DCP_LAYOUT_MANIFEST)
        return dcpi_fail(err, DCP_E_UNSUPPORTED, "sync: %s%s is no manifest; dcptool convert makes one of it",
                         y->from.shown, y->commit_name);
    status = dcpi_document_read_from(&y->op, &y->from, y->commit_name, d->verifier, &y->document, NULL, err);
    if (!status && d->minimum_step > 0 && y->document.manifest->step < d->minimum_step)
        status = dcpi_fail(err, d->verifier ? DCP_E_SIGNATURE : DCP_E_MISMATCH, "%s%s is of step %" PRId64
                           ", but minimum_step is %" PRId64, y->from.shown, y->commit_name, y->document.manifest->step,
                           d->minimum_step);
    if (status) return status;
    status = dcpi_sync_sizes(y, err);
    if (!status) status = dcpi_place_open_directory(&y->to, d->target, d->directory ? d->directory : "", 1, err);
    if (!status) status = dcpi_place_report(&y->to, y->commit_name, y->report->path, err);
    if (!status) y->report->not_durable = ~y->to.storage->flags & DCPI_STORAGE_PROMISES;
    return status ? status : dcpi_place_sync_all(&y->to, err);
}
static int dcpi_sync_path_compare(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }

/* A copy that has another kind of commit file would have two, and neither would load. */
static dcp_status dcpi_sync_check_kinds(const dcpi_sync *y, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(y->commit_name), *found[2] = { NULL, NULL };
    int count = 0, i;
    dcp_status status = dcpi_commit_find(&y->to, y->prefix, found, &count, err);
    for (i = 0; i < count && i < 2 && !status; i++)
        if (found[i] != kind)
            status = dcpi_fail(err, DCP_E_EXISTS,
                               "%s%s%s is there, a checkpoint in another layout or syntax: remove it first",
                               y->to.shown, y->prefix, found[i]->suffix);
    return status;
}
static dcp_status dcpi_sync_announce(dcpi_sync *y, dcp_error *err) {
    const dcp_metadata *m = y->document.metadata;
    dcp_status status;
    y->prefix = dcpi_text_range(y->commit_name, strlen(y->commit_name) -
                                strlen(dcpi_commit_kind_of(y->commit_name)->suffix), err);
    if (!y->prefix) return DCP_E_MEMORY;
    status = dcpi_sync_check_kinds(y, err);
    if (status || y->desc->dry_run) return status;
    return dcpi_intent_publish(&y->op, &y->to, y->prefix, y->report->save_id, y->commit_name,
                               m->save_id ? m->save_id : "", &y->intent_key, err);
}
/* What the copy's own manifest says of its files; a copy that cannot be read says nothing, and every file there is
 * looked at. */
static dcp_status dcpi_sync_take_own(dcpi_sync *y, dcp_error *err) {
    size_t i;
    dcp_status status;
    y->own_count = y->own.metadata->shard_count;
    y->own_order = (const dcpi_origin **)dcpi_alloc_array(y->own_count, sizeof *y->own_order, err);
    y->own_paths = y->own_order ? (const char **)dcpi_alloc_array(y->own_count, sizeof *y->own_paths, err) : NULL;
    if (!y->own_paths) return DCP_E_MEMORY;
    for (i = 0; i < y->own_count; i++) {
        y->own_order[i] = &y->own.origins[i];
        y->own_paths[i] = y->own.origins[i].shard->path;
    }
    status = dcpi_sort((const void **)(void *)y->own_order, y->own_count, dcpi_pool_base_compare, err);
    return status ? status : dcpi_sort((const void **)(void *)y->own_paths, y->own_count, dcpi_sync_path_compare, err);
}
/* "path\nchecksum", whatever the case of its digits. */
enum { DCPI_SYNC_LINE = DCP_LIMIT_PATH + 128 };
static void dcpi_sync_line(char line[DCPI_SYNC_LINE], const dcp_shard_metadata *shard) {
    char *c = line + strlen(shard->file_path);
    (void)snprintf(line, DCPI_SYNC_LINE, "%s\n%s", shard->file_path, shard->checksum ? shard->checksum : "");
    for (; *c; c++) if (*c >= 'A' && *c <= 'F') *c = (char)(*c - 'A' + 'a');
}
static dcp_status dcpi_sync_add_named(dcpi_sync *y, const dcp_metadata *m, dcp_error *err) {
    char line[DCPI_SYNC_LINE];
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < m->shard_count && !status; i++) {
        dcpi_sync_line(line, &m->shards[i]);
        status = dcpi_names_add(&y->named, line, err);
        if (!status) status = dcpi_names_add(&y->named_paths, m->shards[i].file_path, err);
    }
    return status;
}
/* The checkpoints in the copy's directory, the copy among them: what they name must stay as it is. */
static dcp_status dcpi_sync_read_named(dcpi_sync *y, dcp_error *err) {
    dcpi_names commits;
    dcp_status status = dcpi_commits_digest(&y->to, y->commits, err);
    size_t i;
    memset(&commits, 0, sizeof commits);
    if (!status) status = dcpi_names_list(&y->to, 1, &commits, err);
    for (i = 0; i < commits.count && !status; i++) {
        const int is_own = strcmp(commits.items[i], y->commit_name) == 0;
        dcpi_document document;
        status = dcpi_document_read(&y->op, &y->to, commits.items[i], NULL, &document, err);
        if (!status) status = dcpi_sync_add_named(y, document.metadata, err);
        else if (!dcpi_is_trouble(status)) {
            if (status != DCP_E_NOT_FOUND && !is_own) y->unread++;
            if (is_own) memcpy(y->own.digest, document.digest, sizeof y->own.digest);
            status = dcpi_succeed(err);
            continue;
        }
        if (!status && is_own && document.manifest) y->own = document;
        else dcpi_document_free(&document);
    }
    dcpi_names_free(&commits);
    if (!status && y->own.metadata) status = dcpi_sync_take_own(y, err);
    if (!status) status = dcpi_names_sort(&y->named, err);
    return status ? status : dcpi_names_sort(&y->named_paths, err);
}
/* What the manifests in the copy's directory say of a path: nothing; that the file is as the source's is; or that it is
 * another. Two that disagree are wrong, one of them, and nobody knows which. */
enum { DCPI_SYNC_UNNAMED, DCPI_SYNC_SAME, DCPI_SYNC_OTHER };
static int dcpi_sync_named(const dcpi_sync *y, const dcp_shard_metadata *shard) {
    char line[DCPI_SYNC_LINE];
    if (!dcpi_names_has(&y->named_paths, shard->file_path)) return DCPI_SYNC_UNNAMED;
    dcpi_sync_line(line, shard);
    return dcpi_names_has(&y->named, line) ? DCPI_SYNC_SAME : DCPI_SYNC_OTHER;
}

/* ---- decide ------------------------------------------------------------------------------------------------------ */
static int dcpi_sync_tier_of(const dcpi_sync *y, const dcp_manifest_shard *shard) {
    /* index in the manifest's tiers; -1: none */
    const dcp_manifest *m = y->document.manifest;
    size_t i;
    for (i = 0; i < m->tier_count; i++) {
        const dcp_tier *tier = &m->tiers[i].tier;
        if (shard->tier_hint ? dcpi_tier_is(tier, shard->tier_hint) : shard->has_expert_key &&
            shard->expert_key[0] == tier->tier_id) return (int)i;
    }
    return -1;
}
static int dcpi_sync_is_wanted(const dcpi_sync *y, int tier) {
    size_t i;
    if (tier < 0 || y->desc->tier_count == 0) return 1;
    for (i = 0; i < y->desc->tier_count; i++)
        if (dcpi_tier_is(&y->document.manifest->tiers[tier].tier, y->desc->tiers[i])) return 1;
    return 0;
}
/* The copy's manifest names the same file with the same content. */
static int dcpi_sync_is_known(const dcpi_sync *y, const dcpi_origin *origin, int *stale) {
    const dcp_manifest_shard *own = dcpi_pool_base_search(y->own_order, y->own_count, origin), *wanted = origin->shard;
    *stale = own && (wanted->version > own->version ||
                     !dcpi_same_word(own->checksum ? own->checksum : "", wanted->checksum ? wanted->checksum : ""));
    return own && !*stale && strcmp(own->path, wanted->path) == 0;
}
static dcp_status dcpi_sync_hash(dcpi_sync *y, const dcp_shard_metadata *shard, const char *key, int *same,
                                 dcp_error *err) {
    dcp_object_info info;
    dcpi_folding folding;
    void *object;
    int64_t at, n;
    dcp_status status = dcpi_storage_open_object(y->to.storage, key, &object, &info, err);
    *same = 0;
    if (status == DCP_E_NOT_FOUND) return dcpi_succeed(err);            /* removed since it was looked at */
    if (status) return status;
    dcpi_folding_begin(&folding, shard);
    for (at = 0; at < shard->file_size && !status; at += n) {
        n = dcpi_min(shard->file_size - at, (int64_t)y->capacity);
        status = dcpi_op_check(&y->op, err);
        if (!status) status = dcpi_storage_read(y->to.storage, key, object, at, y->buffer, (size_t)n, err);
        if (!status) dcpi_folding_add(&folding, y->buffer, (size_t)n);
    }
    dcpi_storage_close_object(y->to.storage, object);
    *same = !status && dcpi_folding_is(&folding, shard->checksum);
    return status == DCP_E_INCOMPLETE ? dcpi_succeed(err) : status;
}
/* A file without a checksum: its bytes, beside the source's. */
static dcp_status dcpi_sync_compare(dcpi_sync *y, const dcp_shard_metadata *shard, const char *key, int *same,
                                    dcp_error *err) {
    const size_t half = y->capacity / 2;
    char *from_key = dcpi_place_key(&y->from, shard->file_path, err);
    dcp_object_info info;
    void *from = NULL, *to = NULL;
    int64_t at, n;
    dcp_status status = from_key ? dcpi_storage_open_object(y->from.storage, from_key, &from, &info, err)
        : DCP_E_MEMORY;
    if (!status) status = dcpi_storage_open_object(y->to.storage, key, &to, &info, err);
    *same = !status;
    for (at = 0; at < shard->file_size && *same && !status; at += n) {
        n = dcpi_min(shard->file_size - at, (int64_t)half);
        status = dcpi_op_check(&y->op, err);
        if (!status) status = dcpi_storage_read(y->from.storage, from_key, from, at, y->buffer, (size_t)n, err);
        if (!status) status = dcpi_storage_read(y->to.storage, key, to, at, y->buffer + half, (size_t)n, err);
        *same = !status && memcmp(y->buffer, y->buffer + half, (size_t)n) == 0;
    }
    dcpi_storage_close_object(y->from.storage, from);
    dcpi_storage_close_object(y->to.storage, to);
    dcpi_free(from_key);
    return status == DCP_E_NOT_FOUND || status == DCP_E_INCOMPLETE ? dcpi_succeed(err) : status;
}
static dcp_status dcpi_sync_look(dcpi_sync *y, size_t index, uint8_t *state, dcp_error *err) {
    const dcpi_origin *origin = &y->document.origins[index];
    const dcp_shard_metadata *shard = &y->document.metadata->shards[index];
    dcp_object_info info;
    char *key = dcpi_place_key(&y->to, shard->file_path, err);
    int stale, same, is_known = dcpi_sync_is_known(y, origin, &stale) && dcpi_sync_named(y, shard) == DCPI_SYNC_SAME;
    const int is_vouched = is_known && shard->checksum; /* else the copy's manifest says nothing of the content */
    dcp_status status = key ? dcpi_storage_stat(y->to.storage, key, &info, err) : DCP_E_MEMORY;
    *state = DCPI_SYNC_THERE;
    if (status == DCP_E_NOT_FOUND) {
        *state = stale ? DCPI_SYNC_STALE : DCPI_SYNC_MISSING;
        status = dcpi_succeed(err);
    } else if (!status && info.size != shard->file_size)
        *state = (stale ? DCPI_SYNC_STALE : DCPI_SYNC_CORRUPT) | DCPI_SYNC_IS_THERE;
    else if (!status && (!is_vouched || y->desc->verify == DCP_VERIFY_ALL)) {
        if (shard->checksum) status = dcpi_sync_hash(y, shard, key, &same, err);
        else status = dcpi_sync_compare(y, shard, key, &same, err);
        if (!same) *state = (stale ? DCPI_SYNC_STALE : DCPI_SYNC_CORRUPT) | DCPI_SYNC_IS_THERE;
    }
    if (!status) status = dcpi_names_add(&y->files, key, err);
    dcpi_free(key);
    return status;
}
/* In the order of the manifest, tier by tier: what does not fit stays away; nothing that is there is thrown out for
 * it. */
static dcp_status dcpi_sync_decide(dcpi_sync *y, dcp_error *err) {
    const dcp_manifest *m = y->document.manifest;
    const dcp_metadata *all = y->document.metadata;
    dcp_status status = DCP_OK;
    size_t i;
    y->states = (uint8_t *)dcpi_alloc_array(all->shard_count, 1, err);
    y->tier_bytes = y->states ? (int64_t *)dcpi_alloc_array(m->tier_count, sizeof *y->tier_bytes, err) : NULL;
    if (!y->tier_bytes) return DCP_E_MEMORY;
    for (i = 0; i < y->desc->tier_count; i++)
        if (!dcpi_tier_exists(m, y->desc->tiers[i]))
            return dcpi_fail(err, DCP_E_MISMATCH, "the manifest has no tier \"%s\"", y->desc->tiers[i]);
    dcpi_op_phase(&y->op, DCP_PHASE_PLAN, 0);
    for (i = 0; i < all->shard_count && !status; i++) {
        const int64_t size = all->shards[i].file_size;
        const int tier = dcpi_sync_tier_of(y, y->document.origins[i].shard);
        const int64_t budget = tier < 0 ? -1 : m->tiers[tier].budget_bytes;
        if (!dcpi_sync_is_wanted(y, tier)) { y->report->not_selected++; continue; }
        if (budget >= 0 && (size > budget || y->tier_bytes[tier] > budget - size)) {
            y->report->left_out++;
            y->report->bytes_left_out += size;
            dcpi_op_log(&y->op, DCP_LOG_WARNING, "%s (%" PRId64 " bytes) does not fit: tier \"%s\" has %" PRId64
                        " of %s", all->shards[i].file_path, size, m->tiers[tier].tier.name, y->tier_bytes[tier],
                        m->tiers[tier].tier.size_budget);
            continue;
        }
        if (tier >= 0) y->tier_bytes[tier] += size;
        if ((i & 63) == 63) status = dcpi_op_check(&y->op, err);
        if (!status) status = dcpi_sync_look(y, i, &y->states[i], err);
        if (y->states[i] == DCPI_SYNC_THERE) { y->report->kept++; y->report->bytes_kept += size; }
        else y->report->bytes_to_copy += size;
    }
    return status;
}

/* ---- copy -------------------------------------------------------------------------------------------------------- */
static dcp_status dcpi_sync_stream(dcpi_sync *y, const dcp_shard_metadata *shard, const char *from_key, void *from,
                                   const char *key, void *to, dcp_error *err) {
    dcpi_folding folding;
    int64_t at, n;
    dcp_status status = DCP_OK;
    dcpi_folding_begin(&folding, shard);
    for (at = 0; at < shard->file_size && !status; at += n) {
        n = dcpi_min(shard->file_size - at, (int64_t)y->capacity);
        status = dcpi_op_check(&y->op, err);
        if (!status) status = dcpi_storage_read(y->from.storage, from_key, from, at, y->buffer, (size_t)n, err);
        if (!status) dcpi_folding_add(&folding, y->buffer, (size_t)n);
        if (!status) status = dcpi_storage_write(y->to.storage, key, to, at, y->buffer, (size_t)n, err);
        dcpi_op_report(&y->op, y->report->bytes_copied + at + n, 0);
    }
    if (!status && !dcpi_folding_is(&folding, shard->checksum))
        status = dcpi_fail(err, DCP_E_CHECKSUM,
                           "%s%s is not what its manifest says (checksum %s): the source is damaged", y->from.shown,
                           shard->file_path, shard->checksum);
    return status;
}
static dcp_status dcpi_sync_copy_once(dcpi_sync *y, const dcp_shard_metadata *shard, int attempt, int replace,
                                      dcp_error *err) {
    char *from_key = dcpi_place_key(&y->from, shard->file_path, err), *key = from_key
                     ? dcpi_place_key(&y->to, shard->file_path, err) : NULL;
    char *temporary = key ? dcpi_temporary_name(key, y->report->save_id, attempt, err) : NULL;
    dcp_object_info info;
    void *from = NULL, *to = NULL;
    dcp_status status = temporary ? dcpi_storage_open_object(y->from.storage, from_key, &from, &info,
                                                             err) : DCP_E_MEMORY;
    if (status == DCP_E_NOT_FOUND)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s%s is not there, though its manifest names it", y->from.shown,
                           shard->file_path);
    if (!status && info.size != shard->file_size)
        status = dcpi_fail(err, DCP_E_INCOMPLETE, "%s%s has %" PRId64 " bytes, but its manifest says %" PRId64,
                           y->from.shown, shard->file_path, info.size, shard->file_size);
    if (!status) status = dcpi_storage_begin(y->to.storage, key, temporary, shard->file_size, &to, err);
    if (!status) {
        status = dcpi_sync_stream(y, shard, from_key, from, key, to, err);
        if (status) dcpi_storage_abort(y->to.storage, to);
        else status = dcpi_storage_commit(y->to.storage, key, to, replace, err);
    }
    if (from) dcpi_storage_close_object(y->from.storage, from);
    dcpi_free(temporary);
    dcpi_free(key);
    dcpi_free(from_key);
    return status;
}
/* Whether what is there may be replaced at all: the pool's by its name, or the copy's, whose manifest names it. */
static dcp_status dcpi_sync_is_ours(dcpi_sync *y, const char *path, int *is_ours, dcp_error *err) {
    dcpi_names names;
    dcp_status status = DCP_OK;
    size_t low = 0, high = y->own_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(y->own_paths[middle], path);
        if (order == 0) break;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    *is_ours = low < high;
    if (*is_ours || !dcpi_is_data_of(y->commit_name, path)) return DCP_OK;
    memset(&names, 0, sizeof names);
    status = dcpi_names_add(&names, path, err);
    if (!status) status = dcpi_own_strike(&y->op, &y->to, &names, err);
    *is_ours = names.count > 0;
    dcpi_names_free(&names);
    return status;
}
/* Whether a name may be taken (G2). What is there and is not what it should be is damaged if a manifest names it as it
 * should be; if none names it, a killed sync or save has left it, unless somebody is saving there just now, or has done
 * so since the manifests were read: then it may be theirs. */
static dcp_status dcpi_sync_may_take(dcpi_sync *y, const dcp_shard_metadata *shard, int is_there, dcp_error *err) {
    int named = dcpi_sync_named(y, shard);
    uint8_t now[32];
    int pending = 0, is_ours = 1;
    dcp_status status = is_there ? dcpi_sync_is_ours(y, shard->file_path, &is_ours, err) : DCP_OK;
    if (status) return status;
    if (!is_ours)
        return dcpi_fail(err, DCP_E_EXISTS,
                         "%s%s is there with other bytes, and is not known to be a file of a manifest: it "
                         "is not replaced; move it away, or sync into a directory of its own", y->to.shown,
                         shard->file_path);
    /* nobody can tell damage from change */
    if (named == DCPI_SYNC_SAME && !shard->checksum && is_there) named = DCPI_SYNC_OTHER;
    if (named == DCPI_SYNC_SAME || (named == DCPI_SYNC_UNNAMED && !is_there)) return DCP_OK;
    if (named == DCPI_SYNC_OTHER)
        return dcpi_fail(err, DCP_E_EXISTS, "%s%s belongs to a checkpoint there, with other bytes; sync into a "
                                            "directory of its own, or remove that one first", y->to.shown,
                                            shard->file_path);
    if (y->unread == 0)
        status = dcpi_intents_pending(&y->op, &y->to, DCP_GRACE_SECONDS, y->report->save_id, &pending, err);
    if (!status && y->unread == 0 && !pending) {
        status = dcpi_commits_digest(&y->to, now, err);
        pending = memcmp(now, y->commits, sizeof now) != 0;
    }
    if (status || (y->unread == 0 && !pending)) return status;
    return dcpi_fail(err, DCP_E_EXISTS, "%s%s is there with other bytes, and may belong to a checkpoint that %s",
                     y->to.shown, shard->file_path, pending ? "is being saved there, or has just been; sync again later"
                     : "cannot be read; sync into a directory of its own");
}
/* A name where nothing was is taken without replacing; if somebody was faster, or a lost answer was ours, the same
 * bytes are as good. */
static dcp_status dcpi_sync_copy_file(dcpi_sync *y, const dcp_shard_metadata *shard, int is_there, dcp_error *err) {
    dcp_status status = dcpi_sync_may_take(y, shard, is_there, err);
    int attempt = 0, same = 0;
    char *key;
    if (status || y->desc->dry_run) return status;
    do status = dcpi_sync_copy_once(y, shard, attempt, is_there, err);
    while (status && dcpi_op_again(&y->op, ++attempt, "copying a shard", err));
    if (status) status = err->status;
    if (status != DCP_E_EXISTS) return status;
    key = dcpi_place_key(&y->to, shard->file_path, err);
    status = key ? dcpi_sync_hash(y, shard, key, &same, err) : DCP_E_MEMORY;
    if (!status && !same)
        status = dcpi_fail(err, DCP_E_EXISTS, "somebody has put %s%s there meanwhile, with other bytes; sync again",
                           y->to.shown, shard->file_path);
    dcpi_free(key);
    return status;
}
static dcp_status dcpi_sync_copy(dcpi_sync *y, dcp_error *err) {
    const dcp_metadata *all = y->document.metadata;
    int64_t *const counts[] = { NULL, NULL, &y->report->missing, &y->report->stale, &y->report->corrupt };
    dcp_status status = DCP_OK;
    size_t i;
    dcpi_op_phase(&y->op, DCP_PHASE_WRITE, y->report->bytes_to_copy);
    for (i = 0; i < all->shard_count && !status; i++) {
        const int state = y->states[i] & ~DCPI_SYNC_IS_THERE;
        if (state < DCPI_SYNC_MISSING) continue;
        ++*counts[state];
        status = dcpi_sync_copy_file(y, &all->shards[i], (y->states[i] & DCPI_SYNC_IS_THERE) != 0, err);
        if (status || y->desc->dry_run) continue;
        y->report->copied++;
        y->report->bytes_copied += all->shards[i].file_size;
    }
    return status;
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */
/* Every file that was found or copied is there. */
static dcp_status dcpi_sync_check_all(dcpi_sync *y, dcp_error *err) {
    const dcp_metadata *all = y->document.metadata;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < all->shard_count && !status; i++) {
        const dcp_shard_metadata *shard = &all->shards[i];
        dcp_object_info info;
        char *key;
        if (y->states[i] == DCPI_SYNC_LEFT_OUT) continue;
        if ((i & 255) == 255 && (status = dcpi_op_check(&y->op, err)) != DCP_OK) break;
        key = dcpi_place_key(&y->to, shard->file_path, err);
        status = key ? dcpi_storage_stat(y->to.storage, key, &info, err) : DCP_E_MEMORY;
        dcpi_free(key);
        if (status == DCP_E_NOT_FOUND || (!status && info.size != shard->file_size))
            status = dcpi_fail(err, DCP_E_INCOMPLETE, "somebody has removed %s%s during the sync; sync again",
                               y->to.shown, shard->file_path);
    }
    return status;
}
/* The copy's manifest is still the one that was read, or that of an attempt before whose answer was lost; and no sweep
 * has come in between. */
static dcp_status dcpi_sync_last_look(dcpi_sync *y, dcp_error *err) {
    uint8_t now[32];
    dcp_status status = dcpi_document_digest(&y->op, &y->to, y->commit_name, now, err);
    if (dcpi_is_trouble(status)) return status;
    if (memcmp(now, y->own.digest, sizeof now) != 0 && memcmp(now, y->document.digest, sizeof now) != 0)
        return dcpi_fail(err, DCP_E_EXISTS, "somebody has saved or removed %s%s during the sync; sync again",
                         y->to.shown, y->commit_name);
    status = dcpi_sync_check_kinds(y, err);
    return status ? status : dcpi_intent_check(&y->to, y->intent_key, err);
}
/* After a rename that reported an error: the copy's manifest may be the new one all the same. */
static dcp_status dcpi_sync_is_done(dcpi_sync *y, dcp_status status, dcp_error *err) {
    uint8_t now[32];
    dcp_error ignored;
    const dcp_status looked = dcpi_document_digest(&y->op, &y->to, y->commit_name, now, &ignored);
    if (!looked && memcmp(now, y->document.digest, sizeof now) == 0) return dcpi_succeed(err);
    return status;
}
/* The rename and its sync, with the lock of that path as a save has it. */
static dcp_status dcpi_sync_publish(dcpi_sync *y, const char *key, const char *temporary, void *object,
                                    dcp_error *err) {
    dcpi_lock lock;
    dcp_status status = dcpi_lock_take(&y->op, &y->to, y->prefix, 1, &lock, err);
    if (lock.is_missing) y->report->not_durable |= DCP_STORAGE_COMMIT_LOCK;
    if (!status) status = dcpi_lock_note(&y->op, &lock, dcpi_place_name(&y->to, temporary), err);
    if (!status) status = dcpi_sync_last_look(y, err);
    if (status) dcpi_storage_abort(y->to.storage, object);
    else if ((status = dcpi_storage_commit(y->to.storage, key, object, 1, err)) != DCP_OK) {
        status = dcpi_sync_is_done(y, status, err);
        if (status && dcpi_lock_is_lost(&y->op, &lock)) status = dcpi_lock_lost(y->report->path, err);
    }
    y->has_committed = !status;
    if (!status) status = dcpi_place_sync(&y->to, err);         /* G3: this one is not tried again */
    dcpi_lock_release(&lock);
    return status;
}
static dcp_status dcpi_sync_commit_once(dcpi_sync *y, const char *key, int attempt, dcp_error *err) {
    char *temporary = dcpi_temporary_name(key, y->report->save_id, attempt, err);
    void *object = NULL;
    dcp_status status = temporary ? dcpi_storage_begin(y->to.storage, key, temporary, (int64_t)y->document.size,
                                                       &object, err) : DCP_E_MEMORY;
    if (!status)
        status = dcpi_object_write_chunks(&y->op, y->to.storage, key, object, y->document.text, y->document.size, err);
    if (status) dcpi_storage_abort(y->to.storage, object);
    else status = dcpi_sync_publish(y, key, temporary, object, err);
    dcpi_free(temporary);
    return status;
}
/* All names that the document relies on, and its own, whoever put them there: a sync before this one may have died
 * before it synced them. */
static dcp_status dcpi_sync_commit(dcpi_sync *y, dcp_error *err) {
    char *key = dcpi_place_key(&y->to, y->commit_name, err);
    int attempt = 0;
    dcp_status status = key ? dcpi_names_add(&y->files, key, err) : DCP_E_MEMORY;
    if (!status) status = dcpi_names_sync(&y->to, &y->files, err);
    dcpi_op_phase(&y->op, DCP_PHASE_COMMIT, 0);
    if (!status) status = dcpi_sync_check_all(y, err);
    if (!status && memcmp(y->own.digest, y->document.digest, 32) != 0) {
        do status = dcpi_sync_commit_once(y, key, attempt, err);
        while (status && !y->has_committed && dcpi_op_again(&y->op, ++attempt, "writing the manifest", err));
        if (status) status = err->status;
    } else if (!status) status = dcpi_place_sync(&y->to, err);
    dcpi_free(key);
    return status;
}
/* Files that only the copy's old manifest named go, as after an overwrite. */
static dcp_status dcpi_sync_displace(dcpi_sync *y, dcp_error *err) {
    dcp_status status = DCP_OK;
    if (y->own.metadata) status = dcpi_names_add_data(&y->displaced, y->commit_name, y->own.metadata, err);
    if (!status && y->displaced.count > 0)
        dcpi_refs_remove_displaced(&y->op, &y->to, NULL, y->report->save_id, 0, &y->displaced);
    return dcpi_succeed(err);
}
static void dcpi_sync_free(dcpi_sync *y) {
    dcpi_free((void *)y->own_order);
    dcpi_free((void *)y->own_paths);
    dcpi_free(y->states);
    dcpi_free(y->tier_bytes);
    dcpi_free(y->buffer);
    dcpi_free(y->commit_name);
    dcpi_free(y->prefix);
    dcpi_intent_remove(&y->op, &y->to, y->intent_key);
    dcpi_free(y->intent_key);
    dcpi_names_free(&y->named);
    dcpi_names_free(&y->named_paths);
    dcpi_names_free(&y->displaced);
    dcpi_names_free(&y->files);
    dcpi_document_free(&y->document);
    dcpi_document_free(&y->own);
    dcpi_place_close(&y->from);
    dcpi_place_close(&y->to);
}
static dcp_status dcpi_sync_run(dcpi_sync *y, dcp_error *err) {
    dcp_status status = dcpi_sync_open(y, err);
    y->capacity = (size_t)(dcpi_min((int64_t)y->op.io.memory_budget / 2, DCPI_CHUNK) / DCPI_LEAF * DCPI_LEAF);
    if (!status) y->buffer = (uint8_t *)dcpi_alloc(y->capacity, err);
    if (!status && !y->buffer) status = DCP_E_MEMORY;
    if (!status) status = dcpi_sync_announce(y, err);
    if (!status) status = dcpi_sync_read_named(y, err);
    if (!status) status = dcpi_sync_decide(y, err);
    if (!status) status = dcpi_sync_copy(y, err);
    if (status || y->desc->dry_run) return status;
    status = dcpi_sync_commit(y, err);
    y->op.is_committed = !status;
    return status ? status : dcpi_sync_displace(y, err);
}
static dcp_status dcpi_sync_check(const dcp_sync_desc *desc, dcp_error *err) {
    size_t i;
    if (!desc->path || !desc->path[0]) return dcpi_fail(err, DCP_E_INVALID, "sync: path is not set");
    if (!desc->target && (!desc->directory || !desc->directory[0]))
        return dcpi_fail(err, DCP_E_INVALID, "sync: neither target nor directory is set");
    if (desc->tier_count > 0 && !desc->tiers)
        return dcpi_fail(err, DCP_E_INVALID, "sync: tier_count is set, but tiers is NULL");
    if (desc->io.coordinator)
        return dcpi_fail(err, DCP_E_INVALID,
                         "sync: io.coordinator must be NULL: one process of those that share the copy syncs it");
    for (i = 0; i < desc->tier_count; i++)
        if (!desc->tiers[i]) return dcpi_fail(err, DCP_E_INVALID, "sync: tiers[%" PRIu64 "] is NULL", (uint64_t)i);
    return DCP_OK;
}
DCPDEF dcp_status dcp_sync(const dcp_sync_desc *desc, dcp_error *err) {
    dcp_error local;
    dcp_sync_report unasked;
    dcp_report warnings;
    dcpi_sync y;
    dcp_status status;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_sync: desc is NULL");
    memset(&y, 0, sizeof y);
    memset(&warnings, 0, sizeof warnings);
    memset(&unasked, 0, sizeof unasked);
    y.desc = desc;
    y.report = desc->report ? desc->report : &unasked;
    memset(y.report, 0, sizeof *y.report);
    status = dcpi_sync_check(desc, &local);
    if (!status) status = dcpi_op_begin(&y.op, &desc->io, &local);
    if (!status) status = dcpi_random_id(y.report->save_id, &local);
    if (!status) status = dcpi_sync_run(&y, &local);
    dcpi_sync_free(&y);
    dcpi_op_tell_warnings(&y.op, &warnings);
    y.report->warning_count = warnings.warning_count;
    memcpy(y.report->warning, warnings.warning, sizeof warnings.warning);
    return dcpi_report_error(status, &local, err);
}

#ifdef __cplusplus
}
#endif
#endif /* DCP_IMPLEMENTATION */

#ifdef DCP_MPI                 /* the ranks of an MPI job; in the file with DCP_IMPLEMENTATION this implements it too */
#include "dcp_mpi.h"
#endif
#ifdef DCP_CUDA                         /* memory of NVIDIA GPUs; likewise */
#include "dcp_cuda.h"
#endif

