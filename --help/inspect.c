/* =====================================================================================================================
 * >>inspect     A directory of checkpoints: list, latest, prune, sweep, remove. What removes takes commit files first,
 *               syncs the directory, and only then takes data, so that a crash in between leaves files that no document
 *               names, never a document that names missing files.
 * ================================================================================================================== */

/* ---- list -------------------------------------------------------------------------------------------------------- */
/* One allocation holds the entries and their texts: a first pass collects, a second copies. */
typedef struct dcpi_listing { dcp_list_entry *entries; size_t count, capacity; dcpi_arena texts; } dcpi_listing;

static void dcpi_listing_free(dcpi_listing *listing) {
    dcpi_free(listing->entries);
    dcpi_arena_free(&listing->texts);
    memset(listing, 0, sizeof *listing);
}
static int dcpi_time_compare(const char *a, const char *b) {  /* as points in time; what is none comes first, as text */
    int64_t a_seconds = INT64_MIN, b_seconds = INT64_MIN;
    int a_rest = 0, b_rest = 0;
    if (!dcpi_time_parse(a, &a_seconds, &a_rest)) a_seconds = INT64_MIN;
    if (!dcpi_time_parse(b, &b_seconds, &b_rest)) b_seconds = INT64_MIN;
    if (a_seconds != b_seconds) return a_seconds < b_seconds ? -1 : 1;
    if (a_seconds != INT64_MIN) return a_rest < b_rest ? -1 : a_rest > b_rest;
    return strcmp(a, b);
}
static int dcpi_list_compare(const void *a_, const void *b_) {     /* newest first: (sequence, step, timestamp, name) */
    const dcp_list_entry *a = (const dcp_list_entry *)a_, *b = (const dcp_list_entry *)b_;
    int order;
    if (a->sequence != b->sequence) return a->sequence > b->sequence ? -1 : 1;
    if (a->step != b->step) return a->step > b->step ? -1 : 1;
    order = dcpi_time_compare(b->timestamp, a->timestamp);
    return order ? order : strcmp(b->path, a->path);
}
static dcp_status dcpi_list_describe(dcpi_listing *listing, dcp_list_entry *entry, const dcp_metadata *m,
                                     dcp_error *err) {
    size_t s;
    entry->sequence = m->sequence;
    entry->epoch = m->has_training ? m->training.epoch : -1;
    entry->step = m->has_training ? m->training.step : -1;
    entry->timestamp = dcpi_arena_text(&listing->texts, m->timestamp ? m->timestamp : "",
                                       m->timestamp ? strlen(m->timestamp) : 0, err);
    entry->save_id = dcpi_arena_text(&listing->texts, m->save_id ? m->save_id : "", m->save_id ? strlen(m->save_id) : 0,
                                     err);
    if (!entry->timestamp || !entry->save_id) return DCP_E_MEMORY;
    entry->world_size = m->world_size;
    for (s = 0; s < m->shard_count; s++) {
        entry->tensors += (int64_t)m->shards[s].tensor_count;
        if (entry->layout == DCP_LAYOUT_SINGLE || m->shards[s].file_size < 0) continue;
        if (!dcpi_add(entry->bytes, m->shards[s].file_size, &entry->bytes)) entry->bytes = INT64_MAX;
    }
    return DCP_OK;
}
/* Valid: the document is intact and every file is there with its size; with DCP_VERIFY_ALL every byte is checked
 * too. */
static dcp_status dcpi_list_check_files(dcp_checkpoint *c, int trusts_proven, dcp_error *err) {
    size_t s;
    if (c->verify == DCP_VERIFY_ALL && !(trusts_proven && dcpi_proven_has(&c->place, c->commit_name, c->digest))) {
        const dcp_status status = dcpi_verify_run(c, err);
        if (!status) dcpi_proven_add(&c->place, c->commit_name, c->digest);
        return status;
    }
    for (s = 0; s < c->metadata->shard_count; s++) {
        dcpi_data_file *file;
        int attempt = 0;
        while (dcpi_data_file_acquire(c, (int)s, &file, err) != DCP_OK)
            if (!dcpi_op_again(&c->op, ++attempt, "opening a file", err)) return err->status;
        dcpi_data_file_release(c, file);
    }
    return DCP_OK;
}
typedef struct dcpi_list_order {
    dcpi_op *op;
    const dcpi_place *place;
    dcp_verify_policy verify;
    const dcp_verifier *verifier;
    int64_t minimum_step;
    int trusts_proven;                                  /* DCP_VERIFY_ALL reads only what is not known to be whole */
} dcpi_list_order;

/* Fills one entry: what its document says, and whether it is valid. The result is for what ends the listing itself. */
enum { DCPI_LIST_ATTEMPTS = 20 };
static dcp_status dcpi_list_one(const dcpi_list_order *o, dcpi_listing *listing, dcp_list_entry *entry,
                                const char *name, dcp_error *err) {
    dcp_open_desc open;
    dcp_checkpoint *c;
    dcp_error why;
    dcp_status status;
    int replaced, attempt = 0;
    dcp_object_info info;
    char *key = dcpi_place_key(o->place, name, err);
    if (!key) return DCP_E_MEMORY;
    memset(&open, 0, sizeof open);
    open.path = key;
    open.verify = o->verify;
    open.verifier = o->verifier;
    open.minimum_step = o->minimum_step;
    open.io = o->op->io;
    open.io.storage = o->place->storage;
    open.io.coordinator = NULL;                         /* this rank looks alone */
    if (open.io.deadline_ms > 0)                        /* of all that is looked at together */
        open.io.deadline_ms = dcpi_max(1, open.io.deadline_ms - (dcpi_os_monotonic_ms() - o->op->started_ms));
    if (o->op->team.has_errand) open.io.progress = NULL;                /* that is the calling thread's */
    do {                                                /* replaced while it is looked at: look again */
        replaced = 0;
        entry->tensors = 0;
        entry->bytes = dcpi_storage_stat(o->place->storage, key, &info, NULL) == DCP_OK ? info.size : 0;
        status = dcpi_open_phase(&open, "open", 0, &c, &why);
        if (!status) status = dcpi_list_describe(listing, entry, c->metadata, &why);
        if (!status) status = dcpi_list_check_files(c, o->trusts_proven, &why);
        if (c && status != DCP_E_IO) replaced = dcpi_load_was_replaced(c, status);
        dcp_close(c);
    } while (replaced && ++attempt < DCPI_LIST_ATTEMPTS);
    dcpi_free(key);
    if (dcpi_ends_all(status)) { if (err) *err = why; return status; }
    entry->status = status;
    entry->sys = why.sys;
    entry->message = "";
    if (status) entry->message = dcpi_arena_text(&listing->texts, why.message, strlen(why.message), err);
    return entry->message ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_list_add(const dcpi_list_order *o, dcpi_listing *listing, const char *name, dcp_error *err) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(name);
    void *memory = listing->entries;
    dcp_list_entry *entry;
    size_t size = strlen(o->place->shown) + strlen(name) + 1;
    char *path;
    if (!dcpi_grow(&memory, &listing->capacity, listing->count + 1, sizeof *entry, err)) return DCP_E_MEMORY;
    listing->entries = (dcp_list_entry *)memory;
    entry = &listing->entries[listing->count];
    memset(entry, 0, sizeof *entry);
    path = (char *)dcpi_arena_alloc(&listing->texts, size, err);
    if (!path) return DCP_E_MEMORY;
    (void)snprintf(path, size, "%s%s", o->place->shown, name);
    entry->path = path;
    entry->layout = kind->layout;
    entry->step = entry->epoch = -1;
    entry->timestamp = entry->save_id = entry->message = "";
    listing->count++;
    return dcpi_list_one(o, listing, entry, name, err);
}
static dcp_status dcpi_list_sort(dcpi_listing *listing, dcp_error *err) {
    const dcp_list_entry **order = (const dcp_list_entry **)dcpi_alloc_array(listing->count, sizeof *order, err);
    dcp_list_entry *sorted = order ? (dcp_list_entry *)dcpi_alloc_array(listing->count, sizeof *sorted, err) : NULL;
    dcp_status status;
    size_t i;
    if (!sorted) { dcpi_free((void *)order); return DCP_E_MEMORY; }
    for (i = 0; i < listing->count; i++) order[i] = &listing->entries[i];
    status = dcpi_sort((const void **)order, listing->count, dcpi_list_compare, err);
    for (i = 0; i < listing->count && !status; i++) sorted[i] = *order[i];
    dcpi_free((void *)order);
    dcpi_free(listing->entries);
    listing->entries = sorted;
    return status;
}
static dcp_status dcpi_listing_make(const dcpi_list_order *o, dcpi_listing *listing, dcp_error *err) {
    dcpi_names names;
    dcp_status status = dcpi_names_list(o->place, 1, &names, err);
    size_t i;
    memset(listing, 0, sizeof *listing);
    for (i = 0; i < names.count && !status; i++) status = dcpi_list_add(o, listing, names.items[i], err);
    dcpi_names_free(&names);
    if (!status) status = dcpi_list_sort(listing, err);
    if (status) dcpi_listing_free(listing);
    return status;
}
static const char *dcpi_list_pack(char **at, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = *at;
    memcpy(copy, text, size);
    *at += size;
    return copy;
}
static dcp_status dcpi_listing_pack(const dcpi_listing *listing, dcp_list_entry **out, dcp_error *err) {
    size_t size = (listing->count ? listing->count : 1) * sizeof **out, i;
    char *at;
    for (i = 0; i < listing->count; i++) {
        const dcp_list_entry *e = &listing->entries[i];
        size += strlen(e->path) + strlen(e->timestamp) + strlen(e->save_id) + strlen(e->message) + 4;
    }
    *out = (dcp_list_entry *)dcpi_alloc(size, err);
    if (!*out) return DCP_E_MEMORY;
    at = (char *)(*out + listing->count);
    for (i = 0; i < listing->count; i++) {
        dcp_list_entry *e = &(*out)[i];
        *e = listing->entries[i];
        e->path = dcpi_list_pack(&at, e->path);
        e->timestamp = dcpi_list_pack(&at, e->timestamp);
        e->save_id = dcpi_list_pack(&at, e->save_id);
        e->message = dcpi_list_pack(&at, e->message);
    }
    return DCP_OK;
}
static dcp_status dcpi_directory_open(dcpi_op *op, dcpi_place *place, const char *directory, dcp_error *err) {
    dcp_status status = dcpi_op_check(op, err);
    memset(place, 0, sizeof *place);
    if (status) return status;
    dcpi_op_phase(op, DCP_PHASE_OPEN, 0);
    return dcpi_place_open_directory(place, op->io.storage, directory ? directory : "", 0, err);
}
DCPDEF dcp_status dcp_list(const dcp_list_desc *desc, dcp_list_entry **entries, size_t *count, dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcpi_place place;
    dcpi_list_order o;
    dcpi_listing listing;
    dcp_status status;
    *entries = NULL;
    *count = 0;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_list: desc is NULL");
    dcpi_report_clear(desc->report);
    memset(&o, 0, sizeof o);
    o.op = &op;
    o.place = &place;
    o.verify = desc->verify;
    o.verifier = desc->verifier;
    memset(&place, 0, sizeof place);
    status = dcpi_op_begin(&op, &desc->io, &local);
    if (!status) status = dcpi_directory_open(&op, &place, desc->directory, &local);
    if (!status) status = dcpi_listing_make(&o, &listing, &local);
    if (!status) {
        status = dcpi_listing_pack(&listing, entries, &local);
        if (!status) *count = listing.count;
        dcpi_listing_free(&listing);
    }
    dcpi_place_close(&place);
    dcpi_op_tell_warnings(&op, desc->report);
    return dcpi_report_error(status, &local, err);
}

/* ---- latest ------------------------------------------------------------------------------------------------------ */
/* A candidate that is not valid: returned where it might be the newest, else skipped. */
static dcp_status dcpi_latest_skip(const dcpi_list_order *o, const char *name, dcp_status status, int sys,
                                   const char *message,
                                   dcp_error *newest, dcp_error *err) {
    if (status == DCP_E_IO || status == DCP_E_VERSION || status == DCP_E_UNSUPPORTED)
        return dcpi_fail_sys(err, status, sys, "%s", message);
    if (status == DCP_E_NOT_FOUND) return dcpi_succeed(err);            /* removed since it was listed */
    if (newest->status == DCP_OK) (void)dcpi_fail_sys(newest, status, sys, "%s", message);
    dcpi_op_log(o->op, DCP_LOG_WARNING, "skipped %s%s: %s", o->place->shown, name, message);
    return dcpi_succeed(err);
}
/* Looks at one group of equal sequence numbers, the newest first: documents need to be read in full only until a valid
 * one is found. */
static dcp_status dcpi_latest_group(const dcpi_list_order *o, dcpi_candidate **group, size_t count, char **path,
                                    dcp_error *newest, dcp_error *err) {
    dcpi_listing listing;
    dcp_status status = DCP_OK;
    size_t i;
    memset(&listing, 0, sizeof listing);
    for (i = 0; i < count && !status; i++) status = dcpi_list_add(o, &listing, group[i]->name, err);
    if (!status) status = dcpi_list_sort(&listing, err);
    for (i = 0; i < listing.count && !status && !*path; i++) {
        const dcp_list_entry *e = &listing.entries[i];
        if (e->status == DCP_OK) { *path = dcpi_copy_text(e->path, err); if (!*path) status = DCP_E_MEMORY; break; }
        status = dcpi_latest_skip(o, e->path + strlen(o->place->shown), e->status, e->sys, e->message, newest, err);
    }
    dcpi_listing_free(&listing);
    return status;
}
/* Those that claim nothing get their number from the whole document. */
static dcp_status dcpi_latest_ask(const dcpi_list_order *o, dcpi_candidates *all, dcp_error *newest, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = all->count; i-- > 0 && !status;) {
        dcpi_candidate *c = all->order[i];
        dcp_error why;
        if (c->number != DCPI_CLAIM_UNKNOWN) continue;
        status = dcpi_candidate_read(o->op, o->place, o->verifier, c, &why);
        if (!status) continue;
        if (dcpi_is_trouble(status) && status != DCP_E_IO) { *err = why; return status; }
        status = dcpi_latest_skip(o, c->name, status, why.sys, why.message, newest, err);
        dcpi_candidates_drop(all, i);
    }
    return status ? status : dcpi_candidates_sort(all, err);
}
static dcp_status dcpi_latest_search(const dcpi_list_order *o, const dcpi_names *names, char **path, dcp_error *err) {
    dcpi_candidates all;
    dcp_error newest, other;
    size_t i, end;
    dcp_status status = dcpi_candidates_make(o->op, o->place, names, 0, &all, err);
    (void)dcpi_succeed(&newest);
    (void)dcpi_succeed(&other);
    if (!status) status = dcpi_latest_ask(o, &all, &other, err);
    for (i = 0; i < all.count && !status && !*path; i = end) {
        for (end = i + 1; end < all.count && all.order[end]->number == all.order[i]->number;) end++;
        status = dcpi_latest_group(o, all.order + i, end - i, path, &newest, err);
    }
    dcpi_candidates_free(&all);
    if (status || *path) return status;
    if (newest.status || other.status) { *err = newest.status ? newest : other; return err->status; }
    return dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint in \"%s\"",
                     o->place->shown[0] ? o->place->shown : ".");
}
/* ---- led calls: rank 0 works, all ranks learn the outcome */
static dcp_status dcpi_led_begin(dcpi_op *op, const dcp_io *io, const char *call, const char *where, dcp_error *err) {
    dcp_error team;
    dcp_status status = dcpi_op_begin(op, io, err), joined = dcpi_team_begin(op, call, &team);
    dcpi_team_same(&op->team, where, 0);
    if (!status && joined) *err = team;
    return status ? status : joined;
}
/* Rank 0's work, which may take long. */
typedef struct dcpi_led { dcpi_op *op; const void *desc; void *out; } dcpi_led;
static dcp_status dcpi_led_run(dcpi_op *op, dcpi_errand_fn fn, const void *desc, void *out, dcp_error *err) {
    dcpi_led led;
    led.op = op;
    led.desc = desc;
    led.out = out;
    return dcpi_op_errand(op, fn, &led, err);
}
static int dcpi_led_is_mine(const dcpi_op *op) { return op->team.rank == 0; }
static dcp_status dcpi_led_tell(dcpi_op *op, dcp_status status, dcpi_team_make make, void *user, dcp_error *err) {
    return dcpi_team_down(op, status, make, user, DCPI_DOWN_LAST | DCPI_DOWN_SAME, err);
}

static dcp_status dcpi_latest_run(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    const dcp_latest_desc *desc = (const dcp_latest_desc *)((dcpi_led *)led)->desc;
    char **path = (char **)((dcpi_led *)led)->out;
    dcpi_place place;
    dcpi_list_order o;
    dcpi_names names;
    dcp_status status;
    memset(&o, 0, sizeof o);
    o.op = op;
    o.place = &place;
    o.verify = desc->verify;
    o.verifier = desc->verifier;
    o.minimum_step = desc->minimum_step;
    status = dcpi_directory_open(op, &place, desc->directory, err);
    if (status == DCP_E_NOT_FOUND)
        (void)dcpi_fail(err, status, "there is no checkpoint in \"%s\": no such directory",
                        desc->directory ? desc->directory : "");
    if (!status) status = dcpi_names_list(&place, 1, &names, err);
    if (!status) {
        status = dcpi_latest_search(&o, &names, path, err);
        dcpi_names_free(&names);
    }
    dcpi_place_close(&place);
    return status;
}
static dcp_status dcpi_latest_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    char *const *path = (char *const *)user;
    (void)rank; (void)err;
    dcpi_buffer_add(message, *path, strlen(*path) + 1);
    return DCP_OK;
}
/* The verdict is DCP_OK already: nothing may fail any more, so the path takes over the message's memory. */
static void dcpi_latest_take(dcpi_team *t, char **path) {
    char *message = (char *)t->peers[0].message;
    const size_t size = t->peers[0].size - DCPI_TEAM_HEADER;
    t->peers[0].message = NULL;
    memmove(message, message + DCPI_TEAM_HEADER, size);
    message[size > 0 ? size - 1 : 0] = '\0';
    *path = message;
}
DCPDEF dcp_status dcp_latest(const dcp_latest_desc *desc, char **path, dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcp_status status;
    *path = NULL;
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_latest: desc is NULL");
    dcpi_report_clear(desc->report);
    status = dcpi_led_begin(&op, &desc->io, "latest", desc->directory, &local);
    dcpi_team_same(&op.team, NULL, (uint64_t)desc->verify);
    status = dcpi_team_done(&op, status, &local);
    if (!status && dcpi_led_is_mine(&op)) status = dcpi_led_run(&op, dcpi_latest_run, desc, path, &local);
    status = dcpi_led_tell(&op, status, dcpi_latest_make, path, &local);
    if (!status && !dcpi_led_is_mine(&op)) dcpi_latest_take(&op.team, path);
    dcpi_team_end(&op);
    dcpi_op_tell_warnings(&op, desc->report);
    if (status) { dcp_free(*path); *path = NULL; }
    return dcpi_report_error(status, &local, err);
}

/* ---- what was removed -------------------------------------------------------------------------------------------- */
DCPDEF void dcp_removal_free(dcp_removal *removal) {
    size_t i;
    if (!removal) return;
    for (i = 0; i < removal->path_count; i++) dcpi_free(removal->paths[i]);
    dcpi_free(removal->paths);
    memset(removal, 0, sizeof *removal);
}
/* Removes a file of the place (or, in a dry run, does not) and notes it. */
static dcp_status dcpi_removal_take(dcp_removal *removal, const dcpi_place *place, const char *name, int dry_run,
                                    dcp_error *err) {
    dcp_object_info info;
    char **paths, *path;
    size_t size = strlen(place->shown) + strlen(name) + 1;
    char *key = dcpi_place_key(place, name, err);
    dcp_status status = key ? dcpi_storage_stat(place->storage, key, &info, err) : DCP_E_MEMORY;
    if (status == DCP_E_NOT_FOUND) { dcpi_free(key); return dcpi_succeed(err); }
    if (!status && !dry_run) status = dcpi_storage_remove(place->storage, key, err);
    dcpi_free(key);
    if (status) return status;
    paths = (char **)DCP_REALLOC(removal->paths, (removal->path_count + 1) * sizeof *paths);
    path = paths ? (char *)dcpi_alloc(size, err) : NULL;
    if (paths) removal->paths = paths;
    if (!path) return dcpi_no_memory(err, size);
    (void)snprintf(path, size, "%s%s", place->shown, name);
    removal->paths[removal->path_count++] = path;
    removal->bytes += info.size;
    return DCP_OK;
}

/* For the other ranks: bytes, checkpoints (8 bytes each), the paths, each with its NUL. */
static dcp_status dcpi_removal_make(void *user, int rank, dcpi_buffer *message, dcp_error *err) {
    const dcp_removal *removal = (const dcp_removal *)user;
    uint8_t head[16];
    size_t i;
    (void)rank; (void)err;
    dcpi_store64(head, (uint64_t)removal->bytes);
    dcpi_store64(head + 8, (uint64_t)removal->checkpoints);
    dcpi_buffer_add(message, head, sizeof head);
    for (i = 0; i < removal->path_count; i++)
        dcpi_buffer_add(message, removal->paths[i], strlen(removal->paths[i]) + 1);
    return DCP_OK;
}
static dcp_status dcpi_removal_paths(const char *at, const char *end, dcp_removal *removal, dcp_error *err) {
    size_t count = 0;
    const char *c;
    for (c = at; c < end; c++) count += *c == '\0';
    removal->paths = (char **)dcpi_alloc_array(count, sizeof *removal->paths, err);
    if (!removal->paths) return DCP_E_MEMORY;
    for (; at < end; at += strlen(at) + 1) {
        removal->paths[removal->path_count] = dcpi_copy_text(at, err);
        if (!removal->paths[removal->path_count]) return DCP_E_MEMORY;
        removal->path_count++;
    }
    return DCP_OK;
}
/* The verdict is DCP_OK already, so nothing may fail any more: without memory for the paths there are none, and a
 * warning. */
static void dcpi_removal_learn(dcpi_op *op, dcp_removal *removal) {
    const uint8_t *message = op->team.peers[0].message;
    const size_t size = op->team.peers[0].size, head = DCPI_TEAM_HEADER + 16;
    dcp_error err;
    if (size < head || (size > head && message[size - 1] != '\0')) return;
    removal->bytes = (int64_t)dcpi_load64(message + DCPI_TEAM_HEADER);
    removal->checkpoints = (size_t)dcpi_load64(message + DCPI_TEAM_HEADER + 8);
    if (dcpi_removal_paths((const char *)message + head, (const char *)message + size, removal, &err) == DCP_OK) return;
    dcpi_op_log(op, DCP_LOG_WARNING, "the files are removed, but their list is not whole on rank %d: %s", op->team.rank,
                err.message);
}
/* What prune, remove and sweep have in common once their arguments are looked at: rank 0 works, and all ranks know what
 * went. */
static dcp_status dcpi_removal_run(dcpi_op *op, dcp_status status, dcpi_errand_fn fn, const void *desc,
                                   dcp_removal *removal, dcp_error *err) {
    status = dcpi_team_done(op, status, err);
    if (!status && dcpi_led_is_mine(op)) status = dcpi_led_run(op, fn, desc, removal, err);
    status = dcpi_led_tell(op, status, dcpi_removal_make, removal, err);
    if (!status && !dcpi_led_is_mine(op)) dcpi_removal_learn(op, removal);
    dcpi_team_end(op);
    return status;
}

/* ---- prune and remove: commit files, directory sync, data that nobody names -------------------------------------- */
enum { DCPI_REMOVE_AT_ONCE = 128 };                 /* commit files that go together: each one's lock is an open file */
typedef struct dcpi_remover {
    dcpi_op *op;
    const dcpi_place *place;
    int dry_run;
    /* prune: what was chosen. Where somebody is saving, or has saved since, the checkpoint stays. NULL: whatever is
     * there goes */
    const dcpi_listing *chosen;
    dcpi_names commits, data, prefixes;                 /* that go; what they name; whose locks are held */
    dcpi_lock locks[DCPI_REMOVE_AT_ONCE];
} dcpi_remover;

/* The lock of that commit file's prefix, unless it is held already: a prefix may have two. DCP_PENDING: it stays, and
 * so does the commit file. */
static dcp_status dcpi_remove_lock(dcpi_remover *r, const char *commit, dcp_error *err) {
    char prefix[DCP_LIMIT_PATH + 1];
    const size_t length = strlen(commit) - strlen(dcpi_commit_kind_of(commit)->suffix);
    size_t i;
    dcp_status status;
    if (r->dry_run || length >= sizeof prefix) return DCP_OK;
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)length, commit);
    for (i = 0; i < r->prefixes.count; i++) if (strcmp(r->prefixes.items[i], prefix) == 0) return DCP_OK;
    status = dcpi_lock_take_to_remove(r->op, r->place, prefix, 1, &r->locks[r->prefixes.count], err);
    if (status == DCP_E_EXISTS && r->chosen) {
        dcpi_op_log(r->op, DCP_LOG_WARNING, "%s stays: %s", commit, err->message);
        (void)dcpi_succeed(err);
        return DCP_PENDING;
    }
    if (status) return status;
    status = dcpi_names_add(&r->prefixes, prefix, err);
    if (status) dcpi_lock_release(&r->locks[r->prefixes.count]);
    return status;
}
static int dcpi_remove_is_chosen(const dcpi_remover *r, const char *commit, const dcp_metadata *m) {
    size_t i;
    if (!r->chosen) return 1;
    for (i = 0; i < r->chosen->count; i++) {
        const dcp_list_entry *e = &r->chosen->entries[i];
        if (strcmp(e->path + strlen(r->place->shown), commit) != 0) continue;
        return e->sequence == m->sequence && strcmp(e->save_id, m->save_id ? m->save_id : "") == 0 &&
               strcmp(e->timestamp, m->timestamp ? m->timestamp : "") == 0;
    }
    return 0;
}
/* A commit file that is about to go: what it names is added to data, with the lock held and while it can still be
 * read. */
static dcp_status dcpi_remove_note(dcpi_remover *r, const char *commit, dcp_error *err) {
    const int is_single = dcpi_commit_kind_of(commit)->layout == DCP_LAYOUT_SINGLE;
    dcpi_document document;
    int goes = 1;
    dcp_status status = dcpi_op_check(r->op, err), looked;
    if (!status) status = dcpi_remove_lock(r, commit, err);
    if (status) return status == DCP_PENDING ? DCP_OK : status;
    if (is_single && !r->chosen) return dcpi_names_add(&r->commits, commit, err);
    looked = dcpi_document_read(r->op, r->place, commit, NULL, &document, err);
    if (r->chosen) goes = !looked && dcpi_remove_is_chosen(r, commit, document.metadata);
    if (!looked && goes && !is_single) status = dcpi_names_add_data(&r->data, commit, document.metadata, err);
    dcpi_document_free(&document);
    if (looked == DCP_E_MEMORY || looked == DCP_E_IO) return looked;
    if (!status && goes) status = dcpi_names_add(&r->commits, commit, err);
    if (!goes)
        dcpi_op_log(r->op, DCP_LOG_WARNING, "%s stays: somebody has saved there since the checkpoints were listed",
                    commit);
    else if (looked)
        dcpi_op_log(r->op, DCP_LOG_WARNING, "cannot tell which files %s names; they are left to sweep: %s", commit,
                    err->message);
    return status ? status : dcpi_succeed(err);
}
/* With the locks held: the commit files, then those of `data` that nobody names. */
static dcp_status dcpi_remove_files(dcpi_remover *r, dcp_removal *removal, dcp_error *err) {
    dcpi_op *op = r->op;
    const dcpi_place *place = r->place;
    /* those that are there again are other ones */
    const dcpi_names *commits = &r->commits, *going = r->dry_run ? commits : NULL;
    dcpi_names *data = &r->data;
    dcpi_names refs;
    dcpi_lock lock;
    int unread = 0, has_pool = 0, pending = 0;
    dcp_status status = DCP_OK;
    size_t i;
    memset(&refs, 0, sizeof refs);
    memset(&lock, 0, sizeof lock);
    /* what stays must be durable before what goes does: who saved it may have died between its rename and its sync
     * (G1) */
    if (!r->dry_run && commits->count > 0) status = dcpi_place_sync(place, err);
    for (i = 0; i < commits->count && !status; i++) {
        has_pool |= dcpi_commit_kind_of(commits->items[i])->layout == DCP_LAYOUT_MANIFEST;
        status = dcpi_removal_take(removal, place, commits->items[i], r->dry_run, err);
        if (!status) removal->checkpoints++;
    }
    if (!status && !r->dry_run && commits->count > 0) status = dcpi_place_sync(place, err);
    if (!status && has_pool && data->count > 0 && !r->dry_run) {
        if (dcpi_pool_lock_take(op, place, &lock, &status, err)) dcpi_removal_present(place, data);
        else if (!status) dcpi_names_free(data);        /* nothing to do any more */
    }
    if (!status && has_pool && data->count > 0)
        status = dcpi_refs_settle(op, place, going, NULL, DCP_GRACE_SECONDS, NULL, &refs, &unread, &pending, err);
    else if (!status && data->count > 0) status = dcpi_refs_collect(op, place, going, NULL, &refs, &unread, err);
    if (unread > 0)
        dcpi_op_log(op, DCP_LOG_WARNING, "%d commit files could not be read, so no data files were removed", unread);
    if (!status) status = dcpi_names_sort(data, err);
    for (i = 0; i < data->count && !status && unread == 0 && !pending; i++) {
        if (i > 0 && strcmp(data->items[i], data->items[i - 1]) == 0) continue;         /* two of them shared it */
        if (dcpi_refs_may_go(&refs, data->items[i]))
            status = dcpi_removal_take(removal, place, data->items[i], r->dry_run, err);
    }
    dcpi_lock_release(&lock);
    dcpi_names_free(&refs);
    return status;
}
/* Some at a time, but for a dry run: the documents that stay are read once each time. */
static dcp_status dcpi_remove_some(dcpi_remover *r, char *const *commits, size_t count, dcp_removal *removal,
                                   dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < count && !status; i++) status = dcpi_remove_note(r, commits[i], err);
    if (!status) status = dcpi_own_strike(r->op, r->place, &r->data, err);
    if (!status) status = dcpi_remove_files(r, removal, err);
    for (i = 0; i < r->prefixes.count; i++) dcpi_lock_release(&r->locks[i]);
    dcpi_names_free(&r->prefixes);
    dcpi_names_free(&r->commits);
    dcpi_names_free(&r->data);
    return status;
}
/* commits: names of the commit files that go, sorted: all who remove ask for locks in one order, so none waits for
 * ever. */
static dcp_status dcpi_remove_checkpoints(dcpi_op *op, const dcpi_place *place, const dcpi_names *commits, int dry_run,
                                          const dcpi_listing *chosen, dcp_removal *removal, dcp_error *err) {
    dcpi_remover *r = (dcpi_remover *)dcpi_alloc_array(1, sizeof *r, err);
    const size_t most = dry_run ? SIZE_MAX : (size_t)DCPI_REMOVE_AT_ONCE;
    size_t at, n;
    dcp_status status = r ? DCP_OK : DCP_E_MEMORY;
    if (!r) return status;
    r->op = op;
    r->place = place;
    r->dry_run = dry_run;
    r->chosen = chosen;
    for (at = 0; at < commits->count && !status; at += n) {
        n = commits->count - at < most ? commits->count - at : most;
        status = dcpi_remove_some(r, commits->items + at, n, removal, err);
    }
    dcpi_free(r);
    return status;
}
/* Of the valid entries, newest first: which go. */
static dcp_status dcpi_prune_choose(const dcp_prune_desc *desc, const dcpi_place *place, const dcpi_listing *listing,
                                    dcpi_names *going, dcp_error *err) {
    int kept = 0, keep_last = desc->keep_last > 0 ? desc->keep_last : 1;
    size_t i;
    dcp_status status = DCP_OK;
    for (i = 0; i < listing->count && !status; i++) {
        const dcp_list_entry *e = &listing->entries[i];
        if (e->status != DCP_OK) continue;
        if (kept++ < keep_last) continue;
        if (desc->keep_every > 0 && e->step >= 0 && e->step % desc->keep_every == 0) continue;
        status = dcpi_names_add(going, e->path + strlen(place->shown), err);
    }
    return status;
}
/* Before anything older goes, what is kept instead has been read and verified once, or was written by this process.
 * What turns out to be damaged is not kept instead of anything. */
static dcp_status dcpi_prune_prove(const dcpi_list_order *order, const dcp_prune_desc *desc, dcpi_listing *listing,
                                   dcp_error *err) {
    const int keep_last = desc->keep_last > 0 ? desc->keep_last : 1;
    dcpi_list_order o = *order;
    dcp_status status = DCP_OK;
    int kept = 0;
    size_t i;
    o.verify = DCP_VERIFY_ALL;
    o.trusts_proven = 1;
    for (i = 0; i < listing->count && kept < keep_last && !status; i++) {
        dcp_list_entry *e = &listing->entries[i];
        dcp_list_entry again = *e;
        if (e->status != DCP_OK) continue;
        status = dcpi_list_one(&o, listing, &again, e->path + strlen(o.place->shown), err);
        if (status) break;
        e->status = again.status;
        if (!e->status) kept++;
        else dcpi_op_log(o.op, DCP_LOG_WARNING, "%s does not count as kept: %s", e->path, again.message);
    }
    return status;
}
static dcp_status dcpi_prune_run(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    const dcp_prune_desc *desc = (const dcp_prune_desc *)((dcpi_led *)led)->desc;
    dcp_removal *removal = (dcp_removal *)((dcpi_led *)led)->out;
    dcpi_place place;
    dcpi_list_order o;
    dcpi_listing listing;
    dcpi_names going;
    dcp_status status;
    memset(&going, 0, sizeof going);
    memset(&listing, 0, sizeof listing);
    memset(&o, 0, sizeof o);
    o.op = op;
    o.place = &place;
    o.verify = desc->verify;
    o.verifier = desc->verifier;
    status = dcpi_directory_open(op, &place, desc->directory, err);
    if (!status) status = dcpi_listing_make(&o, &listing, err);
    if (!status) status = dcpi_prune_choose(desc, &place, &listing, &going, err);
    if (!status && going.count > 0 && desc->verify == DCP_VERIFY_TOUCHED) {
        dcpi_names_free(&going);
        status = dcpi_prune_prove(&o, desc, &listing, err);
        if (!status) status = dcpi_prune_choose(desc, &place, &listing, &going, err);
    }
    if (!status) status = dcpi_names_sort(&going, err);
    if (!status) status = dcpi_remove_checkpoints(op, &place, &going, desc->dry_run, &listing, removal, err);
    dcpi_names_free(&going);
    dcpi_listing_free(&listing);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_prune(const dcp_prune_desc *desc, dcp_removal *removal, dcp_error *err) {
    dcp_error local;
    dcp_removal unasked = DCP_ZERO, *out = removal ? removal : &unasked;
    dcpi_op op;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_prune: desc is NULL");
    dcpi_report_clear(desc->report);
    status = dcpi_led_begin(&op, &desc->io, "prune", desc->directory, &local);
    dcpi_team_same(&op.team, NULL, ((uint64_t)desc->keep_last << 32) ^ (uint64_t)desc->keep_every ^ (uint64_t)(
            desc->dry_run != 0) << 63);
    if (!status && (desc->keep_last < 0 || desc->keep_every < 0))
        status = dcpi_fail(&local, DCP_E_INVALID, "dcp_prune: keep_last and keep_every must not be negative");
    status = dcpi_removal_run(&op, status, dcpi_prune_run, desc, out, &local);
    dcpi_op_tell_warnings(&op, desc->report);
    dcp_removal_free(&unasked);
    return dcpi_report_error(status, &local, err);
}
/* The commit file or files that a path means, whatever state they are in. */
static dcp_status dcpi_remove_find(const dcpi_place *place, dcpi_names *commits, dcp_error *err) {
    const struct dcpi_commit_kind *found[2] = { NULL, NULL };
    dcp_object_info info;
    int count = 0, i;
    char *name;
    dcp_status status;
    if (dcpi_commit_kind_of(place->name)) {
        char *key = dcpi_place_key(place, place->name, err);
        status = key ? dcpi_storage_stat(place->storage, key, &info, err) : DCP_E_MEMORY;
        dcpi_free(key);
        if (status) return dcpi_storage_absent(status, err->sys, err);
        return dcpi_names_add(commits, place->name, err);
    }
    status = dcpi_commit_find(place, place->name, found, &count, err);
    if (!status && count == 0)
        status = dcpi_fail(err, DCP_E_NOT_FOUND, "there is no checkpoint \"%s%s\"", place->shown, place->name);
    for (i = 0; i < count && i < 2 && !status; i++) {
        name = dcpi_commit_name(place->name, found[i], err);
        status = name ? dcpi_names_add(commits, name, err) : DCP_E_MEMORY;
        dcpi_free(name);
    }
    return status;
}
static dcp_status dcpi_remove_run(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    const dcp_remove_desc *desc = (const dcp_remove_desc *)((dcpi_led *)led)->desc;
    dcp_removal *removal = (dcp_removal *)((dcpi_led *)led)->out;
    dcpi_place place;
    dcpi_names commits;
    dcp_status status = dcpi_op_check(op, err);
    memset(&place, 0, sizeof place);
    memset(&commits, 0, sizeof commits);
    if (!status) status = dcpi_place_open(&place, desc->io.storage, desc->path, 0, err);
    if (!status) status = dcpi_remove_find(&place, &commits, err);
    if (!status) status = dcpi_names_sort(&commits, err);
    if (!status) status = dcpi_remove_checkpoints(op, &place, &commits, 0, NULL, removal, err);
    dcpi_names_free(&commits);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_remove(const dcp_remove_desc *desc, dcp_removal *removal, dcp_error *err) {
    dcp_error local;
    dcp_removal unasked = DCP_ZERO, *out = removal ? removal : &unasked;
    dcpi_op op;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_remove: desc is NULL");
    dcpi_report_clear(desc->report);
    status = dcpi_led_begin(&op, &desc->io, "remove", desc->path, &local);
    if (!status && !desc->path) status = dcpi_fail(&local, DCP_E_INVALID, "dcp_remove: path is not set");
    status = dcpi_removal_run(&op, status, dcpi_remove_run, desc, out, &local);
    dcpi_op_tell_warnings(&op, desc->report);
    dcp_removal_free(&unasked);
    return dcpi_report_error(status, &local, err);
}

/* ---- sweep: what killed saves left ------------------------------------------------------------------------------- */
typedef struct dcpi_sweep {
    const dcp_sweep_desc *desc;
    const dcpi_place *place;
    dcpi_age age;
    dcpi_lock lock; int has_lock;       /* of the pool; has_lock 0: somebody else has it, or nothing is to be removed */
    dcpi_names locks;                                   /* prefixes that have a lock file */
    dcpi_names found, folders;                          /* folders: still to be looked into */
    dcp_error *err;
} dcpi_sweep;
static int dcpi_sweep_is_data(const char *name) { return !dcpi_is_temporary(name) && !dcpi_is_intent(name); }

/* Of a lock's file the age says nothing: whether somebody holds it does. */
static int dcpi_sweep_is_lock(const dcpi_sweep *sweep, const char *name, const dcp_object_info *info) {
    if (!dcpi_is_lock(name) || strchr(name, '/') || info->size > DCPI_LOCK_TEXT) return 0;
    return !sweep->desc->dry_run || !dcpi_age_protects(&sweep->age, info->modified_ns);
}
static dcp_status dcpi_sweep_look(void *user, const char *key, const dcp_object_info *info) {
    dcpi_sweep *sweep = (dcpi_sweep *)user;
    const char *name = dcpi_place_name(sweep->place, key);
    if (dcpi_sweep_is_lock(sweep, name, info)) return dcpi_names_add(&sweep->locks, name, sweep->err);
    if (dcpi_age_protects(&sweep->age, info->modified_ns)) return DCP_OK;
    if (dcpi_sweep_is_data(name) && !dcpi_is_pool_name(name, sweep->desc->plain_names) &&
        (strchr(name, '/') || !dcpi_is_shard_name(name, sweep->desc->plain_names))) return DCP_OK;
    return dcpi_names_add(&sweep->found, name, sweep->err);
}
static dcp_status dcpi_sweep_folder(void *user, const char *key, const dcp_object_info *info) {
    dcpi_sweep *sweep = (dcpi_sweep *)user;
    (void)info;
    return dcpi_names_add(&sweep->folders, key, sweep->err);
}
/* The folders of manifests, and all below them but directories of checkpoints. */
static dcp_status dcpi_sweep_pool(dcpi_op *op, dcpi_sweep *sweep, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < DCPI_COUNT(dcpi_pool_folders) && !status; i++) {
        char *key = dcpi_place_key(sweep->place, dcpi_pool_folders[i], err);
        status = key ? dcpi_names_add(&sweep->folders, key, err) : DCP_E_MEMORY;
        dcpi_free(key);
    }
    while (sweep->folders.count > 0 && !status) {
        char *folder = sweep->folders.items[--sweep->folders.count];
        int is_own = 0;
        status = dcpi_op_check(op, err);
        if (!status) status = dcpi_own_directory(sweep->place, folder, &is_own, err);
        if (!status && !is_own) status = dcpi_storage_list(sweep->place->storage, folder, dcpi_sweep_look, sweep, err);
        if (!status && !is_own)
            status = dcpi_storage_list_directories(sweep->place->storage, folder, dcpi_sweep_folder, sweep, err);
        /* not there, or a link: not ours */
        if (status == DCP_E_NOT_FOUND || status == DCP_E_INVALID) status = dcpi_succeed(err);
        dcpi_free(folder);
    }
    return status;
}
static int dcpi_sweep_prefix(const char *shard_name, char prefix[DCP_LIMIT_PREFIX + 1]) {
    /* 0: no checkpoint has such a name */
    const size_t end = dcpi_shard_prefix(shard_name, strlen(shard_name), 1);
    if (end == 0 || end > DCP_LIMIT_PREFIX) return 0;
    memcpy(prefix, shard_name, end);
    prefix[end] = '\0';
    return 1;
}
/* Counts the commit file that may name this shard file if it is there, but is none that a listing shows (a symbolic
 * link, say) or that can be looked at: what it names, nobody knows. */
static dcp_status dcpi_sweep_count_hidden(const dcpi_sweep *sweep, const char *shard_name, int *unread,
                                          dcp_error *err) {
    const struct dcpi_commit_kind *kinds[2];
    char prefix[DCP_LIMIT_PREFIX + 1];
    int count;
    dcp_status status;
    if (!dcpi_sweep_prefix(shard_name, prefix)) return DCP_OK;
    status = dcpi_commit_find(sweep->place, prefix, kinds, &count, err);
    if (status == DCP_OK || status == DCP_E_MEMORY) return status;
    ++*unread;
    return dcpi_succeed(err);
}
static dcp_status dcpi_sweep_temporaries(dcpi_op *op, const dcpi_sweep *sweep, dcp_removal *removal, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < sweep->found.count && !status; i++) {
        status = dcpi_op_check(op, err);
        if (status || dcpi_sweep_is_data(sweep->found.items[i])) continue;
        status = dcpi_removal_take(removal, sweep->place, sweep->found.items[i], sweep->desc->dry_run, err);
    }
    return status;
}

/* A save whose intent went looks for it between writing its document and the rename. It has looked too early, and its
 * document's temporary file is there by now, or it will look too late: so these files go once more. */
static dcp_status dcpi_sweep_temporaries_again(dcpi_op *op, const dcpi_sweep *sweep, int64_t grace,
                                               dcp_removal *removal, dcp_error *err) {
    dcpi_sweep again;
    int64_t now_ns = 0;
    size_t i = 0;
    dcp_status status;
    while (i < sweep->found.count && !dcpi_is_intent(sweep->found.items[i])) i++;
    if (i == sweep->found.count || sweep->desc->dry_run) return DCP_OK;
    memset(&again, 0, sizeof again);
    again.desc = sweep->desc;
    again.place = sweep->place;
    again.err = err;
    status = dcpi_place_now(op, sweep->place, &now_ns, err);
    again.age = dcpi_age_of(now_ns, grace);
    if (!status)
        status = dcpi_storage_list(sweep->place->storage, sweep->place->directory, dcpi_sweep_look, &again, err);
    if (!status) status = dcpi_sweep_temporaries(op, &again, removal, err);
    dcpi_names_free(&again.found);
    dcpi_names_free(&again.locks);
    return status;
}
/* Whether it has a lock's text, as far as a killed process came with it, or what a power cut leaves of it: nothing,
 * zeros, as many bytes of any kind. The name alone may be another program's. */
static dcp_status dcpi_sweep_lock_text(const dcpi_sweep *sweep, const char *key, int *is_ours, dcp_error *err) {
    dcp_storage *s = sweep->place->storage;
    char text[DCPI_LOCK_TEXT] = { 0 };
    dcp_object_info info;
    void *object;
    size_t i, size;
    dcp_status status = dcpi_storage_open_object(s, key, &object, &info, err);
    *is_ours = 0;
    if (status) return status;
    size = (size_t)dcpi_max(0, dcpi_min(info.size, DCPI_LOCK_TEXT));
    if (size > 0) status = dcpi_storage_read(s, key, object, 0, text, size, err);
    dcpi_storage_close_object(s, object);
    for (i = 0; i < size && text[i] == '\0'; i++) { }
    *is_ours = i == size || info.size == DCPI_LOCK_TEXT ||
               memcmp(text, dcpi_lock_words, (size_t)dcpi_min((int64_t)size, sizeof dcpi_lock_words - 1)) == 0;
    return status;
}
/* L7. One lock file, if nobody holds it: it goes when the lock is let go. */
static dcp_status dcpi_sweep_lock(dcpi_op *op, const dcpi_sweep *sweep, const char *name, const char *prefix,
                                  dcp_removal *removal, dcp_error *err) {
    const int dry_run = sweep->desc->dry_run;
    dcpi_lock lock;
    char *key = dcpi_place_key(sweep->place, name, err);
    int is_ours = 0;
    dcp_status status = key ? dcpi_sweep_lock_text(sweep, key, &is_ours, err) : DCP_E_MEMORY;
    dcpi_free(key);
    memset(&lock, 0, sizeof lock);
    if (!status && is_ours && !dry_run) status = dcpi_lock_take(op, sweep->place, prefix, 0, &lock, err);
    if (!status && is_ours && (dry_run || lock.held)) status = dcpi_removal_take(removal, sweep->place, name, 1, err);
    dcpi_lock_release(&lock);
    if (status == DCP_OK || status == DCP_E_MEMORY) return status;
    if (status != DCP_E_NOT_FOUND && status != DCP_PENDING)
        dcpi_op_log(op, DCP_LOG_WARNING, "%s stays: %s", name, err->message);
    return dcpi_succeed(err);
}
static dcp_status dcpi_sweep_locks(dcpi_op *op, const dcpi_sweep *sweep, dcp_removal *removal, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < sweep->locks.count && !status; i++) {
        const char *name = sweep->locks.items[i];
        const size_t length = strlen(name) - (sizeof dcpi_lock_suffix - 1);
        char prefix[DCP_LIMIT_PREFIX + 1];
        if (length >= sizeof prefix) continue;
        memcpy(prefix, name, length);
        prefix[length] = '\0';
        status = dcpi_op_check(op, err);
        /* the one that this sweep has had */
        if (status || (sweep->has_lock && strcmp(prefix, dcpi_pool_lock) == 0)) continue;
        status = dcpi_sweep_lock(op, sweep, name, prefix, removal, err);
    }
    return status;
}
/* A plain name that no document names: with its lock held, it is still the old file, or it is a new one, which
 * stays. */
static dcp_status dcpi_sweep_plain(dcpi_op *op, const dcpi_sweep *sweep, const char *name, dcp_removal *removal,
                                   dcp_error *err) {
    char prefix[DCP_LIMIT_PREFIX + 1], *key;
    dcp_object_info info;
    dcpi_lock lock;
    dcp_status status;
    if (!dcpi_sweep_prefix(name, prefix)) return dcpi_removal_take(removal, sweep->place, name, 0, err);
    status = dcpi_lock_take_to_remove(op, sweep->place, prefix, 0, &lock, err);
    if (status) return status == DCP_PENDING ? dcpi_succeed(err) : status;
    key = dcpi_place_key(sweep->place, name, err);
    status = key ? dcpi_storage_stat(sweep->place->storage, key, &info, err) : DCP_E_MEMORY;
    if (!status && !dcpi_age_protects(&sweep->age, info.modified_ns))
        status = dcpi_removal_take(removal, sweep->place, name, 0, err);
    else if (status == DCP_E_NOT_FOUND) status = dcpi_succeed(err);
    dcpi_free(key);
    dcpi_lock_release(&lock);
    return status;
}
static dcp_status dcpi_sweep_data(dcpi_op *op, const dcpi_sweep *sweep, int64_t grace, dcp_removal *removal,
                                  dcp_error *err) {
    const int dry_run = sweep->desc->dry_run;
    dcpi_names refs;
    int unread = 0, pending = 0;
    size_t i;
    dcp_status status = dcpi_refs_settle(op, sweep->place, NULL, sweep->desc->verifier, grace, NULL, &refs, &unread,
                                         &pending, err);
    if (!sweep->has_lock && !dry_run) pending = 1;
    for (i = 0; i < sweep->found.count && !status; i++)
        if (dcpi_sweep_is_data(sweep->found.items[i]))
            status = dcpi_sweep_count_hidden(sweep, sweep->found.items[i], &unread, err);
    if (!status && unread > 0)
        dcpi_op_log(op, DCP_LOG_WARNING,
                    "%d commit files could not be read and verified: only temporary files are swept, since those may "
                    "name any data file",
                unread);
    for (i = 0; i < sweep->found.count && !status && unread == 0; i++) {
        const char *name = sweep->found.items[i];
        status = dcpi_op_check(op, err);
        if (status || !dcpi_sweep_is_data(name) || !dcpi_refs_may_go(&refs, name) ||
            (pending && dcpi_is_pool_name(name, 1))) continue;
        if (!dry_run && dcpi_removal_needs_lock(name)) status = dcpi_sweep_plain(op, sweep, name, removal, err);
        else status = dcpi_removal_take(removal, sweep->place, name, dry_run, err);
    }
    dcpi_names_free(&refs);
    return status;
}
/* Candidates first, documents after them: a file that a save has just begun to name is too young to be a candidate.
 * Temporary files and intents before data: a save that is swept while it is under way then cannot commit any more, or
 * has committed, and its document shows. */
static dcp_status dcpi_sweep_run(dcpi_op *op, dcpi_sweep *sweep, dcp_removal *removal, dcp_error *err) {
    int64_t grace = sweep->desc->grace_seconds ? dcpi_max(sweep->desc->grace_seconds, 0) : (int64_t)DCP_GRACE_SECONDS,
                    now_ns = 0;
    dcp_status status = dcpi_place_now(op, sweep->place, &now_ns, err);
    sweep->age = dcpi_age_of(now_ns, grace);
    sweep->err = err;
    if (!status && !sweep->desc->dry_run)
        sweep->has_lock = dcpi_pool_lock_take(op, sweep->place, &sweep->lock, &status, err);
    if (!status)
        status = dcpi_storage_list(sweep->place->storage, sweep->place->directory, dcpi_sweep_look, sweep, err);
    if (!status) status = dcpi_sweep_pool(op, sweep, err);
    /* a commit file that is gone must stay gone before its data goes (G2) */
    if (!status) status = dcpi_place_sync(sweep->place, err);
    if (!status) status = dcpi_sweep_temporaries(op, sweep, removal, err);
    if (!status) status = dcpi_sweep_temporaries_again(op, sweep, grace, removal, err);
    if (!status) status = dcpi_sweep_data(op, sweep, grace, removal, err);
    dcpi_lock_release(&sweep->lock);
    if (!status) status = dcpi_sweep_locks(op, sweep, removal, err);
    if (!status && !sweep->desc->dry_run && removal->path_count > 0) status = dcpi_place_sync(sweep->place, err);
    return status;
}
static dcp_status dcpi_sweep_directory(void *led, dcp_error *err) {
    dcpi_op *op = ((dcpi_led *)led)->op;
    dcpi_place place;
    dcpi_sweep sweep;
    dcp_status status;
    memset(&sweep, 0, sizeof sweep);
    sweep.desc = (const dcp_sweep_desc *)((dcpi_led *)led)->desc;
    sweep.place = &place;
    status = dcpi_directory_open(op, &place, sweep.desc->directory, err);
    if (!status) status = dcpi_sweep_run(op, &sweep, (dcp_removal *)((dcpi_led *)led)->out, err);
    dcpi_names_free(&sweep.found);
    dcpi_names_free(&sweep.locks);
    dcpi_names_free(&sweep.folders);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_sweep(const dcp_sweep_desc *desc, dcp_removal *removal, dcp_error *err) {
    dcp_error local;
    dcp_removal unasked = DCP_ZERO, *out = removal ? removal : &unasked;
    dcpi_op op;
    dcp_status status;
    memset(out, 0, sizeof *out);
    if (!desc) return dcpi_fail(err, DCP_E_INVALID, "dcp_sweep: desc is NULL");
    dcpi_report_clear(desc->report);
    status = dcpi_led_begin(&op, &desc->io, "sweep", desc->directory, &local);
    dcpi_team_same(&op.team, NULL, ((uint64_t)desc->grace_seconds << 2) ^ (uint64_t)(desc->dry_run != 0) ^ (uint64_t)(
            desc->plain_names != 0) << 1);
    status = dcpi_removal_run(&op, status, dcpi_sweep_directory, desc, out, &local);
    dcpi_op_tell_warnings(&op, desc->report);
    dcp_removal_free(&unasked);
    return dcpi_report_error(status, &local, err);
}

/* ---- documents through a storage (declared in >>api_documents) --------------------------------------------------- */
static dcp_status dcpi_file_place(dcp_storage *storage, const char *path, int create, dcpi_op *op, dcpi_place *place,
                                  dcp_error *err) {
    dcp_io io = DCP_ZERO;
    dcp_status status = dcpi_op_begin(op, &io, err);
    memset(place, 0, sizeof *place);
    if (!path) return dcpi_fail(err, DCP_E_INVALID, "path is NULL");
    return status ? status : dcpi_place_open(place, storage, path, create, err);
}
DCPDEF dcp_status dcp_metadata_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier,
                                         dcp_metadata **out, dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcpi_place place;
    dcpi_document document;
    dcp_status status = dcpi_file_place(storage, path, 0, &op, &place, &local);
    *out = NULL;
    memset(&document, 0, sizeof document);
    if (!status) status = dcpi_document_read(&op, &place, place.name, verifier, &document, &local);
    if (!status) *out = document.metadata;
    dcpi_place_close(&place);
    return dcpi_report_error(status, &local, err);
}
/* Replaces a file, atomically and durably. */
static dcp_status dcpi_file_publish(dcp_storage *storage, const char *path, const char *text, size_t size,
                                    dcp_error *err) {
    dcpi_op op;
    dcpi_place place;
    dcp_status status = dcpi_file_place(storage, path, 1, &op, &place, err);
    char *key = status ? NULL : dcpi_place_key(&place, place.name, err);
    if (!status) status = key ? dcpi_place_sync_all(&place, err) : DCP_E_MEMORY;
    if (!status) status = dcpi_object_publish(&op, place.storage, key, text, size, err);
    dcpi_free(key);
    dcpi_place_close(&place);
    return status;
}
DCPDEF dcp_status dcp_metadata_write_file(dcp_storage *storage, const char *path, const dcp_metadata *metadata,
                                          const dcp_signer *signer, dcp_error *err) {
    dcp_error local;
    char *text = NULL;
    size_t size;
    dcp_status status = dcp_metadata_write_signed(metadata, signer, &text, &size, &local);
    if (!status) status = dcpi_file_publish(storage, path, text, size, &local);
    dcpi_free(text);
    return dcpi_report_error(status, &local, err);
}
static dcp_status dcpi_manifest_file_read(dcpi_op *op, const dcpi_place *place, const char *key,
                                          const dcp_verifier *verifier, dcp_manifest **out, dcp_error *err) {
    dcp_validation found;
    dcpi_document document;
    dcpi_reading r;
    size_t i;
    dcp_status status;
    memset(&document, 0, sizeof document);
    memset(&r, 0, sizeof r);
    r.storage = place->storage;
    r.key = key;
    status = dcpi_storage_open_object(place->storage, key, &r.object, &document.info, err);
    if (status) return status;
    status = dcpi_document_fetch(op, &r, DCP_LAYOUT_MANIFEST, verifier, &document, err);
    dcpi_storage_close_object(place->storage, r.object);
    if (!status) status = dcpi_manifest_parse(document.text, document.size, verifier, out, err);
    dcpi_document_free(&document);
    if (status) { dcpi_fail_context(err, "%s%s: ", place->shown, place->name); return status; }
    status = dcpi_manifest_check(*out, place->name, &found, err);
    for (i = 0; i < found.warning_count && !status; i++)
        dcpi_op_log(op, DCP_LOG_WARNING, "%s%s: %s", place->shown, place->name, found.warnings[i]);
    dcp_validation_free(&found);
    if (!status) return status;
    dcpi_fail_context(err, "%s", place->shown);
    dcp_manifest_free(*out);
    *out = NULL;
    return status;
}
DCPDEF dcp_status dcp_manifest_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier,
                                         dcp_manifest **out, dcp_error *err) {
    dcp_error local;
    dcpi_op op;
    dcpi_place place;
    dcp_status status = dcpi_file_place(storage, path, 0, &op, &place, &local);
    char *key = status ? NULL : dcpi_place_key(&place, place.name, &local);
    *out = NULL;
    if (!status) status = key ? dcpi_manifest_file_read(&op, &place, key, verifier, out, &local) : DCP_E_MEMORY;
    dcpi_free(key);
    dcpi_place_close(&place);
    return dcpi_report_error(status, &local, err);
}
DCPDEF dcp_status dcp_manifest_write_file(dcp_storage *storage, const char *path, const dcp_manifest *manifest,
                                          const dcp_signer *signer, dcp_error *err) {
    const int yaml = path && (dcpi_ends_with(path, ".yaml") || dcpi_ends_with(path, ".yml"));
    dcp_error local;
    char *text = NULL;
    size_t size;
    dcp_status status = dcp_manifest_write(manifest, yaml, signer, &text, &size, &local);
    if (!status) status = dcpi_file_publish(storage, path, text, size, &local);
    dcpi_free(text);
    return dcpi_report_error(status, &local, err);
}

