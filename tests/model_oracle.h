/* model_oracle.h - what must hold after each step of a program of test_model.c. After model_world.h.
 *
 * A place holds one generation or none. A step that may end in several ways (a process that was killed, a verdict that
 * is not known yet, several writers at once) leaves a set of legal generations; what is there is then looked at, must
 * be one of them, and is what the model goes on with. */
#ifndef DCP_TEST_MODEL_ORACLE_H
#define DCP_TEST_MODEL_ORACLE_H

/* ---- which statuses a call may return, as its public comment says ------------------------------------------------ */
#define MODEL_S(name) (1u << DCP_##name)
/* The statuses that the public comment of a function lists (statuses.h). */
static unsigned model_of(const char *function) {
    size_t i;
    for (i = 0; i < TEST_FUNCTIONS; i++)
        if (strcmp(test_listed[i].name, function) == 0) return (unsigned)test_listed[i].statuses;
    abort();
}
static unsigned model_listed(const model_op *op) {
    static const char *const functions[MODEL_KINDS] = {
        "dcp_save", "dcp_save_wait", NULL, NULL, NULL, NULL, "dcp_load", NULL, "dcp_latest", "dcp_prune", "dcp_sweep",
            "dcp_remove", "dcp_sync"
    };
    switch (op->step.kind) {
    case MODEL_BEGIN: return model_of("dcp_save_begin") | (op->is_late ? model_of("dcp_save_wait") : 0);
    case MODEL_MAP: return model_of("dcp_open") | model_of("dcp_map");
    case MODEL_CONVERT: return model_of("dcp_open") | model_of("dcp_read") | model_of("dcp_save");
    case MODEL_MEET: return MODEL_S(OK) | MODEL_S(E_MISMATCH);
    default: return functions[op->step.kind] ? model_of(functions[op->step.kind]) : MODEL_S(OK);
    }
}
static const char *model_target(const model_op *op, char out[MODEL_PATH]) {     /* the place that it writes; "": none */
    const char *last = strrchr(op->step.path, '/');
    last = last ? last + 1 : op->step.path;
    out[0] = '\0';
    if (op->step.kind == MODEL_SAVE || op->step.kind == MODEL_BEGIN || op->step.kind == MODEL_REMOVE)
        (void)snprintf(out, MODEL_PATH, "%s", op->step.path);
    if (op->step.kind == MODEL_CONVERT) (void)snprintf(out, MODEL_PATH, "%s", op->step.to);
    if (op->step.kind == MODEL_SYNC)
        (void)snprintf(out, MODEL_PATH, "%.50s%s%.40s", op->step.to, op->step.to[0] ? "/" : "", last);
    return out;
}
/* Something was done to it: it may fail in any of the listed ways. */
static int model_is_disturbed(const model_op *op) {
    const model_step *s = &op->step;
    return s->call || s->kill_at || s->kill_us || s->stop_at || s->cancel_at || s->dead_at || s->memory_at ||
           s->arrives_at || s->other_world || s->deadline_ms;
}

/* ---- what is at a place ------------------------------------------------------------------------------------------ */
typedef struct model_sight {
    dcp_status status; dcp_error err;   /* of dcp_open */
    int generation, layout, yaml, world; int64_t sequence, step; char timestamp[40], commit[MODEL_KEY];
    int own_count; char own[MODEL_OWN][MODEL_KEY];
    const char *label; char why[700];   /* NULL: read wholly, and right */
} model_sight;

/* The oracle's own looks are no loads of the program: what it loads stays (dcp_save_desc.keep_last). */
static dcpi_deeds model_loads(const dcpi_deeds *to) {
    dcpi_deeds was;
    dcpi_mutex_lock(&dcpi_life.lock);
    was = dcpi_life.loaded;
    if (to) dcpi_life.loaded = *to;
    dcpi_mutex_unlock(&dcpi_life.lock);
    return was;
}
static dcp_checkpoint *model_sight_open(model_world *w, const char *path, model_sight *out) {
    const dcpi_deeds loads = model_loads(NULL);
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    const dcp_metadata *m;
    const char *name;
    char directory[MODEL_PATH];
    size_t i;
    memset(out, 0, offsetof(model_sight, own));
    out->label = NULL;
    desc.path = path;
    desc.io.storage = w->storage;
    desc.io.threads = 1;
    desc.io.memory_budget = (size_t)1 << 20;
    desc.io.retry.attempts = 1;
    out->status = dcp_open(&desc, &c, &out->err);
    (void)model_loads(&loads);
    if (out->status) return NULL;
    m = dcp_checkpoint_metadata(c);
    out->generation = model_generation_of(m);
    out->layout = dcp_checkpoint_layout(c);
    out->yaml = dcp_checkpoint_manifest(c) ? dcp_checkpoint_manifest(c)->is_yaml : 0;
    out->world = m->world_size;
    out->sequence = m->sequence;
    out->step = dcp_checkpoint_training(c) ? dcp_checkpoint_training(c)->step : -1;
    (void)snprintf(out->timestamp, sizeof out->timestamp, "%s", m->timestamp ? m->timestamp : "");
    (void)snprintf(out->commit, sizeof out->commit, "%s", dcp_checkpoint_path(c));
    model_directory_of(path, directory);
    for (i = 0; i < m->shard_count && out->layout != DCP_LAYOUT_SINGLE; i++) {
        name = m->shards[i].file_path;
        if (out->own_count == MODEL_OWN) abort();
        (void)snprintf(out->own[out->own_count++], MODEL_KEY, "%s%s%s", directory, directory[0] ? "/" : "", name);
    }
    return c;
}
static void model_sight_wrong(model_sight *s, const char *label, const char *format, ...) DCPI_PRINTF(3, 4);
static void model_sight_wrong(model_sight *s, const char *label, const char *format, ...) {
    va_list arguments;
    if (s->label) return;
    s->label = label;
    va_start(arguments, format);
    (void)vsnprintf(s->why, sizeof s->why, format, arguments);
    va_end(arguments);
}
static void model_sight_read(dcp_checkpoint *c, const model_state *state, model_sight *s) {
    model_pieces *p = (model_pieces *)malloc(sizeof *p);
    dcp_error err;
    dcp_status status = dcp_verify(c, &err);
    int r;
    if (!p) abort();
    if (status) model_sight_wrong(s, "does not verify", "%s", err.message);
    for (r = -1; r < state->world && !s->label; r++) {
        /* all that anybody may load, and then what each rank has alone */
        if (r < 0) model_pieces_want(p, state, 0, 1);
        else model_pieces_own(p, state, r);
        if (r < 0) status = dcp_read(c, p->list, (size_t)p->count, &err);
        else status = state->world > 1 && p->count ? dcp_read_rank(c, r, p->list, (size_t)p->count, &err) : DCP_OK;
        if (status) model_sight_wrong(s, "does not load", "%s: %s", dcp_status_name(status), err.message);
        else if (r < 0 || (state->world > 1 && p->count)) {
            if (model_pieces_wrong(p))
                model_sight_wrong(s, "wrong bytes", "DCP_OK, and the bytes of %s are wrong", model_pieces_wrong(p));
        }
        model_pieces_free(p);
    }
    free(p);
}
static uint64_t model_look_of(const model_world *w, const model_place *p) {
    const model_file *f = model_tree_find(&w->tree, p->commit);
    uint64_t hash = f ? model_hash(1, &f->size, sizeof *f - offsetof(model_file, size)) : 0;
    int i;
    for (i = 0; i < p->own_count; i++) {
        f = model_tree_find(&w->tree, p->own[i]);
        hash = f ? model_hash(hash, &f->size, 3 * sizeof f->size) : 0;
    }
    return hash | 1;
}
/* The checkpoint of the model is at the place, byte for byte. */
static int model_check_place(model_world *w, model_place *p, int wholly) {
    static model_sight sight;
    const int hurt = model_is_hurt(w, p);
    dcp_checkpoint *c;
    if (!wholly && p->seen == model_look_of(w, p)) return 1;
    c = model_sight_open(w, p->path, &sight);
    if (!c && hurt && sight.status != DCP_E_NOT_FOUND) return 1;
    if (!c)
        return model_fail(w, sight.status == DCP_E_NOT_FOUND ? "a checkpoint is gone" : "a checkpoint does not open",
                          "%s (generation %d) is %s: %s", p->path, p->state.number, dcp_status_name(sight.status),
                          sight.err.message);
    if (sight.generation != p->state.number)
        model_sight_wrong(&sight, "another generation", "generation %d is there, not %d", sight.generation,
                          p->state.number);
    if (sight.world != p->state.world)
        model_sight_wrong(&sight, "another world size", "%d, not %d", sight.world, p->state.world);
    model_sight_read(c, &p->state, &sight);
    dcp_close(c);
    if (hurt == 1 && !sight.label)
        return model_fail(w, "damage not noticed", "%s: a byte was changed, and it verifies and loads", p->path);
    if (hurt && sight.label && (strcmp(sight.label, "does not verify") == 0 || strcmp(sight.label, "does not load") ==
                                0)) return 1;
    if (sight.label) return model_fail(w, sight.label, "%s (generation %d): %s", p->path, p->state.number, sight.why);
    p->seen = model_look_of(w, p);
    return 1;
}
static void model_place_take(model_world *w, model_place *p, const model_sight *s) {
    const model_state *state = model_world_state(s->generation);
    p->is_there = s->status == DCP_OK;
    p->seen = 0;
    if (!p->is_there || !state) return;
    p->state = *state;
    p->layout = s->layout;
    p->yaml = s->yaml;
    p->sequence = s->sequence;
    p->step = s->step;
    memcpy(p->timestamp, s->timestamp, sizeof p->timestamp);
    memcpy(p->commit, s->commit, sizeof p->commit);
    p->own_count = s->own_count;
    memcpy(p->own, s->own, (size_t)s->own_count * sizeof p->own[0]);
    (void)w;
}

/* ---- files: all are a checkpoint's, or somebody else's, as they were --------------------------------------------- */
static int model_is_explained(model_world *w, const model_file *f) {
    int i, j;
    for (i = 0; i < w->place_count; i++) {
        const model_place *p = &w->place[i];
        if (!p->is_there) continue;
        if (strcmp(p->commit, f->path) == 0) return 1;
        for (j = 0; j < p->own_count; j++) if (strcmp(p->own[j], f->path) == 0) return 1;
    }
    return model_stranger_find(w, f->path) != NULL || dcpi_ends_with(f->path, ".commit.lock");
}
/* Whether a folder shows by a name in it that it is a directory of checkpoints. */
static int model_is_directory(const model_world *w, const char *folder) {
    const size_t n = strlen(folder);
    int i;
    for (i = 0; i < w->tree.count; i++) {
        const char *path = w->tree.file[i].path;
        if (w->tree.file[i].type != 'd' && strncmp(path, folder, n) == 0 && path[n] == '/' &&
            !strchr(path + n + 1, '/') && dcpi_is_of_directory(path + n + 1)) return 1;
    }
    return 0;
}
static int model_is_pool_folder(const char *last) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(dcpi_pool_folders); i++) if (strcmp(last, dcpi_pool_folders[i]) == 0) return 1;
    return 0;
}
/* It lies in a folder of manifests that is a directory of checkpoints itself: that directory's, and so nobody else
 * removes it. */
static int model_is_owned(const model_world *w, const model_file *f) {
    char folder[MODEL_KEY], *slash;
    (void)snprintf(folder, sizeof folder, "%s", f->path);
    do {
        slash = strrchr(folder, '/');
        if (!slash) return 0;
        *slash = '\0';
    } while (!model_is_directory(w, folder));
    for (;;) {                                          /* one of the folders, or below one */
        slash = strrchr(folder, '/');
        if (model_is_pool_folder(slash ? slash + 1 : folder)) return 1;
        if (!slash) return 0;
        *slash = '\0';
    }
}
/* A part of the path is a file, so that there is no directory, and never will be. */
static int model_is_under_file(const model_world *w, const char *path) {
    char folder[MODEL_KEY], *slash;
    const model_file *f;
    (void)snprintf(folder, sizeof folder, "%s", path);
    while ((slash = strrchr(folder, '/')) != NULL) {
        *slash = '\0';
        f = model_tree_find(&w->tree, folder);
        if (f) return f->type != 'd';
    }
    return 0;
}
static const model_file *model_unexplained(model_world *w, int with_owned) {
    int i;
    for (i = 0; i < w->tree.count; i++)
        if (w->tree.file[i].type == 'f' && !model_is_explained(w, &w->tree.file[i]) &&
            (with_owned || !model_is_owned(w, &w->tree.file[i]))) return &w->tree.file[i];
    return NULL;
}
static int model_check_files(model_world *w) {
    const model_file *f;
    int i;
    for (i = 0; i < w->stranger_count; i++) {
        const model_stranger *s = &w->stranger[i];
        const uint64_t digest = model_digest(w, s->path);
        if (digest == s->digest) continue;
        return model_fail(w, digest ? "a foreign file was changed" : "a foreign file was removed", "%s", s->path);
    }
    for (i = 0; i < w->tree.count; i++) {
        char key[MODEL_KEY];
        const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(w->tree.file[i].path);
        if (!kind || model_is_explained(w, &w->tree.file[i])) continue;
        (void)snprintf(key, sizeof key, "%.*s", (int)(strlen(w->tree.file[i].path) - strlen(kind->suffix)),
                       w->tree.file[i].path);
        if (model_is_pending(w, key)) continue;
        return model_fail(w, "a checkpoint too many", "%s", w->tree.file[i].path);
    }
    if (w->is_dirty || w->pending_count) return 1;
    f = model_unexplained(w, 0);
    w->is_dirty = f || model_unexplained(w, 1);         /* what is another directory's may be nobody's later */
    return f ? model_fail(w, "a file is left over", "%s", f->path) : 1;
}

static int model_is_no_directory(const model_world *w, const char *path) {
    const model_file *f = model_tree_find(&w->tree, path);
    return (f && f->type != 'd') || model_is_under_file(w, path);
}

/* ---- listings: exactly the model's checkpoints, the newest first ------------------------------------------------- */
static int model_compare(const model_place *a, const model_place *b) {  /* greater than 0: a is newer */
    int order;
    if (a->sequence != b->sequence) return a->sequence > b->sequence ? 1 : -1;
    if (a->step != b->step) return a->step > b->step ? 1 : -1;
    order = strcmp(a->timestamp, b->timestamp);
    return order ? order : strcmp(a->commit, b->commit);
}
/* Its document is intact and its files have their sizes: what was cut or lost shows, and what was changed with
 * DCP_VERIFY_ALL only. */
static int model_is_valid(const model_world *w, const model_place *p, int all) {
    int i;
    if (!p->is_there || model_is_broken(w, p) || (all && model_is_hurt(w, p))) return 0;
    for (i = 0; i < p->own_count; i++) {
        int how;
        const model_damage *damage = model_damage_of(w, p->own[i], p->state.number, &how);
        if (damage && damage->is_cut) return 0;
    }
    return 1;
}
static const model_place *model_newest(const model_world *w, const char *directory, int all) {
    const model_place *newest = NULL;
    int i;
    for (i = 0; i < w->place_count; i++) {
        const model_place *p = &w->place[i];
        if (!p->is_there || !model_is_in(p->path, directory) || !model_is_valid(w, p, all)) continue;
        if (!newest || model_compare(p, newest) > 0) newest = p;
    }
    return newest;
}
static int model_has_damage_in(const model_world *w, const char *directory) {
    int i;
    for (i = 0; i < w->place_count; i++)
        if (w->place[i].is_there && model_is_in(w->place[i].path, directory) && model_is_hurt(w, &w->place[i]))
            return 1;
    return 0;
}
static int model_check_latest(model_world *w, const char *directory, dcp_status status, const char *path,
                              const char *message, int all) {
    const model_place *newest = model_newest(w, directory, all);
    int i, others = 0, doubtful = model_has_damage_in(w, directory);
    for (i = 0; i < w->stranger_count; i++) {
        const model_stranger *s = &w->stranger[i];
        if (!s->is_commit || !model_is_in(s->path, directory)) continue;
        others++;
        doubtful |= s->is_secret || ((s->what == FOREIGN_LINK || s->what == FOREIGN_DIRECTORY) && !newest) ||
            (s->is_valid && !newest);
    }
    if (doubtful) return 1;
    if (newest && status == DCP_OK && strcmp(path, newest->commit) == 0) return 1;
    if (newest)
        return model_fail(w, "not the newest", "dcp_latest of \"%s\" is %s %s%s; the newest is %s, sequence %d",
                          directory, dcp_status_name(status), path, message, newest->commit, (int)newest->sequence);
    if (status == DCP_OK)
        return model_fail(w, "not the newest", "dcp_latest of \"%s\" is %s; there is none", directory, path);
    if ((status == DCP_E_NOT_FOUND) == (others == 0)) return 1;
    return model_fail(w, "not the newest", "dcp_latest of \"%s\": %s, and there are %d other commit files", directory,
                      dcp_status_name(status), others);
}
/* dcp_load_latest takes the same one, be it without tensors; nothing that loads is passed over. */
static int model_check_load_latest(model_world *w, const char *directory) {
    static dcp_load_latest_report report;
    const dcpi_deeds loads = model_loads(NULL);
    dcp_load_latest_desc desc = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    desc.directory = directory;
    desc.report = &report;
    desc.io.storage = w->storage;
    desc.io.memory_budget = (size_t)1 << 20;
    desc.io.threads = 1;
    status = dcp_load_latest(&desc, &err);
    (void)model_loads(&loads);
    if ((status == DCP_OK) != (report.path[0] != '\0'))
        return model_fail(w, "a wrong report", "dcp_load_latest: %s, of \"%s\"", dcp_status_name(status), report.path);
    return model_check_latest(w, directory, status, report.path, err.message, 0);
}
static int model_check_entry(model_world *w, const dcp_list_entry *e) {
    int i;
    for (i = 0; i < w->place_count; i++) {
        const model_place *p = &w->place[i];
        if (!p->is_there || strcmp(p->commit, e->path) != 0) continue;
        if (model_is_hurt(w, p)) return 1;
        if (e->status) return model_fail(w, "listed as damaged", "%s: %s", e->path, e->message);
        if (e->sequence != p->sequence || e->world_size != p->state.world || (int)e->layout != p->layout)
            return model_fail(w, "listed wrongly", "%s: sequence %d, %d ranks", e->path, (int)e->sequence,
                              e->world_size);
        return 1;
    }
    if (model_stranger_find(w, e->path)) return 1;
    return model_fail(w, "a checkpoint too many", "%s is listed", e->path);
}
static int model_check_list(model_world *w, const char *directory) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    dcp_status status;
    char *path;
    size_t count, i, ours = 0, want = 0;
    int j, is_fine = 1;
    if (model_has_pending_in(w, directory) || model_is_no_directory(w, directory)) return 1;
    desc.directory = latest.directory = directory;
    desc.io.storage = latest.io.storage = w->storage;
    desc.io.memory_budget = latest.io.memory_budget = (size_t)1 << 20;
    desc.io.threads = latest.io.threads = 1;
    status = dcp_list(&desc, &entries, &count, &err);
    if (status == DCP_E_NOT_FOUND) count = 0;
    else if (status) return model_fail(w, "dcp_list fails", "dcp_list of \"%s\": %s", directory, err.message);
    for (j = 0; j < w->place_count; j++) want += w->place[j].is_there && model_is_in(w->place[j].path, directory);
    for (i = 0; i < count && is_fine; i++) {
        is_fine = model_check_entry(w, &entries[i]);
        ours += model_stranger_find(w, entries[i].path) == NULL;
    }
    if (is_fine && ours != want)
        is_fine = model_fail(w, "not all are listed", "dcp_list of \"%s\" has %d of %d", directory, (int)ours,
                             (int)want);
    dcp_free(entries);
    if (!is_fine) return 0;
    status = dcp_latest(&latest, &path, &err);
    is_fine = model_check_latest(w, directory, status, path ? path : "", err.message, 0);
    dcp_free(path);
    return is_fine && model_check_load_latest(w, directory);
}
static int model_check_all(model_world *w, int wholly) {
    int i;
    model_tree_scan(&w->tree, w->base);
    for (i = 0; i < w->place_count; i++)
        if (w->place[i].is_there && !model_is_pending(w, w->place[i].path) &&
            !model_check_place(w, &w->place[i], wholly)) return 0;
    return model_check_files(w);
}

/* ---- what a call must return ------------------------------------------------------------------------------------- */
static unsigned model_expects_save(model_world *w, const model_op *op, const char *path) {
    const model_step *s = &op->step;
    const model_place *p = model_place_find(w, path);
    unsigned wrong = 0;
    if (s->forgets && s->tensors[0]) return MODEL_S(E_INVALID);
    if (s->lacks) wrong |= MODEL_S(E_UNSUPPORTED);
    if (strchr(op->state.tensors, 'h') && op->ranks > 1) wrong |= MODEL_S(E_MISMATCH);
    if (strchr(op->state.tensors, 'i')) wrong |= MODEL_S(E_INCOMPLETE);
    if (s->state == 1) wrong |= MODEL_S(E_INVALID) | MODEL_S(E_FORMAT);
    if (s->model_id && s->layout == DCP_LAYOUT_MANIFEST) wrong |= MODEL_S(E_INVALID) | MODEL_S(E_LIMIT);
    if (model_stranger_at(w, path)) return wrong | MODEL_S(OK) | MODEL_S(E_EXISTS);
    if (p && p->is_there && (!s->overwrite || p->layout != s->layout || p->yaml != s->yaml))
        return wrong | MODEL_S(E_EXISTS);
    return wrong & ~MODEL_S(E_UNSUPPORTED) && s->state != 1 && !s->model_id ? wrong : wrong | MODEL_S(OK);
}
static unsigned model_expects_load(model_world *w, const model_op *op) {
    const model_step *s = &op->step;
    const model_place *p = model_place_find(w, s->path);
    if (s->verifier && s->verify == DCP_VERIFY_NONE) return MODEL_S(E_INVALID);
    if (model_stranger_at(w, s->path)) return model_listed(op) & ~MODEL_S(E_NOT_FOUND);
    if (!p || !p->is_there) return MODEL_S(E_NOT_FOUND);
    if (model_is_hurt(w, p)) return model_listed(op) & ~MODEL_S(E_NOT_FOUND);
    if (s->verifier && !p->is_signed) return MODEL_S(E_SIGNATURE);
    return s->exact ? MODEL_S(OK) | MODEL_S(E_MISMATCH) : MODEL_S(OK);
}
static int model_has_secret_in(const model_world *w, const char *directory) {
    int i;
    for (i = 0; i < w->stranger_count; i++)
        if (w->stranger[i].is_secret && model_is_in(w->stranger[i].path, directory)) return 1;
    return 0;
}
static unsigned model_expects(model_world *w, const model_op *op) {
    const model_step *s = &op->step;
    const model_place *p = model_place_find(w, s->path);
    char target[MODEL_PATH];
    const int is_of_directory = s->kind == MODEL_LATEST || s->kind == MODEL_PRUNE || s->kind == MODEL_SWEEP;
    if (is_of_directory ? model_is_no_directory(w, s->path) : model_is_under_file(w, s->path))
        return model_listed(op) & ~(MODEL_S(OK) | (s->kind == MODEL_REMOVE ? 0 : MODEL_S(E_NOT_FOUND)));
    if (model_is_under_file(w, model_target(op, target)))           /* the source is looked at first */
        return model_listed(op) & ~(MODEL_S(OK) | (p && p->is_there ? MODEL_S(E_NOT_FOUND) : 0));
    switch (s->kind) {
    case MODEL_SAVE: case MODEL_BEGIN: return model_expects_save(w, op, s->path);
    case MODEL_LOAD: case MODEL_MAP: return model_expects_load(w, op);
    case MODEL_REMOVE:
        if (model_stranger_at(w, s->path)) return model_listed(op);
        return p && p->is_there ? MODEL_S(OK) | (model_is_hurt(w, p) ? model_listed(op) : 0) : MODEL_S(E_NOT_FOUND) |
               MODEL_S(OK);
    case MODEL_PRUNE: case MODEL_SWEEP: return model_has_broken_in(w, s->path) ? model_listed(op) : MODEL_S(OK) |
        MODEL_S(E_NOT_FOUND);
    case MODEL_CONVERT:
        if (!p || !p->is_there) return MODEL_S(E_NOT_FOUND);
        if (model_is_hurt(w, p)) return model_expects_load(w, op) | MODEL_S(E_EXISTS);
        return model_expects_save(w, op, s->to);
    case MODEL_SYNC:
        if (model_stranger_at(w, s->path)) return model_listed(op);
        if (!p || !p->is_there) return MODEL_S(E_NOT_FOUND);
        if (p->layout != DCP_LAYOUT_MANIFEST) return model_listed(op) & ~(MODEL_S(OK) | MODEL_S(E_NOT_FOUND));
        if (model_is_hurt(w, p)) return model_listed(op);
        p = model_place_find(w, model_target(op, target));
        /* it may own what is there */
        if (model_has_secret_in(w, s->to)) return MODEL_S(OK) | MODEL_S(E_EXISTS) | MODEL_S(E_DENIED);
        return MODEL_S(OK) | MODEL_S(E_EXISTS) | (p && model_is_hurt(w, p) ? model_listed(op) : 0);
    case MODEL_MEET: return s->what == s->odd ? MODEL_S(OK) : MODEL_S(E_MISMATCH);
    default: return model_listed(op);
    }
}

/* ---- one call's own account -------------------------------------------------------------------------------------- */
/* What all ranks together say: OK if one says so, UNKNOWN before failures. */
static dcp_status model_verdict(const model_op *op) {
    dcp_status verdict = op->out->status[0];
    int r;
    for (r = 0; r < op->ranks; r++) {
        if (op->step.dead_at && dcpi_flag_get(&op->plan[op->step.rank].dead) && r == op->step.rank) continue;
        if (op->out->status[r] == DCP_OK) return DCP_OK;
        if (op->out->status[r] == DCP_E_UNKNOWN) verdict = DCP_E_UNKNOWN;
    }
    return verdict;
}
static int model_is_dead(const model_op *op, int rank) {
    return op->step.dead_at && rank == op->step.rank && dcpi_flag_get(&op->plan[rank].dead);
}
static int model_judge_rank(model_world *w, const model_op *op, int r) {
    const model_outcome *out = op->out;
    const dcp_status status = out->status[r];
    char label[80];
    if (status < 0 || status > DCP_E_DENIED || !(model_listed(op) >> status & 1)) {
        (void)snprintf(label, sizeof label, "%s returns %s", model_kind_names[op->step.kind], dcp_status_name(status));
        return model_fail(w, label, "rank %d: %s, which its comment does not list: %s", r, dcp_status_name(status),
                          out->err[r].message);
    }
    if (out->err[r].status != status || (out->err[r].message[0] == '\0') != (status == DCP_OK || status == DCP_PENDING))
        return model_fail(w, "an error without its message", "rank %d: %s, error %d \"%s\"", r, dcp_status_name(status),
                          (int)out->err[r].status, out->err[r].message);
    return 1;
}
static int model_judge_ranks(model_world *w, const model_op *op) {
    int r, fine = 0, failed = 0;
    for (r = 0; r < op->ranks; r++) {
        if (model_is_dead(op, r)) continue;
        if (!model_judge_rank(w, op, r)) return 0;
        fine += op->out->status[r] == DCP_OK;
        failed += op->out->status[r] != DCP_OK && op->out->status[r] != DCP_E_UNKNOWN;
    }
    if (fine && failed && op->step.kind != MODEL_MEET) {
        for (r = 0; op->out->status[r] == DCP_OK || op->out->status[r] == DCP_E_UNKNOWN; r++) continue;
        return model_fail(w, "two verdicts", "DCP_OK on one rank, and on rank %d %s: %s", r,
                          dcp_status_name(op->out->status[r]), op->out->err[r].message);
    }
    return 1;
}
static int64_t model_bound_ms(const model_op *op) {
    const model_step *s = &op->step;
    const int64_t base = test_is_sanitized() ? 20000 : 5000;
    return base + model_time_scale * (4 * (int64_t)(s->timeout_ms ? s->timeout_ms : 1000) + 3 * s->slow_ms +
                                      3 * s->retry_ms);
}
static int model_judge_call(model_world *w, const model_op *op, unsigned want) {
    const int64_t budget = op->step.budget == 1 || op->step.budget == 2 ? 70 << 20 : 4 << 20;
    const dcp_status verdict = model_verdict(op);
    char label[80];
    if (op->out->wrong[0]) return model_fail(w, "a call hands over what is wrong", "%s", op->out->wrong);
    if (!model_judge_ranks(w, op)) return 0;
    if (op->out->took_ms > model_bound_ms(op))
        return model_fail(w, "took too long", "%s of %s: %d ms; the bound is %d; rank 0: %s: %s",
                          model_kind_names[op->step.kind], op->step.path, (int)op->out->took_ms,
                          (int)model_bound_ms(op), dcp_status_name(op->out->status[0]), op->out->err[0].message);
    if (op->step.kind != MODEL_BEGIN && op->step.kind != MODEL_MAP && !op->step.process && !w->pending_count &&
        op->out->peak > (int64_t)op->ranks * (budget + (16 << 20)))
        return model_fail(w, "too much memory", "%d MiB", (int)(op->out->peak >> 20));
    if (want >> verdict & 1) return 1;
    (void)snprintf(label, sizeof label, "%s is %s", model_kind_names[op->step.kind], dcp_status_name(verdict));
    return model_fail(w, label, "%s%s", op->out->err[0].message[0] ? "" : "nothing is wrong, it says, and something is",
                      op->out->err[0].message);
}

#endif
