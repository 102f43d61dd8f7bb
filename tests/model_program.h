/* model_program.h - programs for test_model.c: lists of steps as plain data, drawn at random, printed as C. After
 * dcp.h, test.h and fault_storage.h.
 *
 * In every field 0 is the simplest choice, so a step says only what is special about it:
 *
 *     STEP(SAVE, .path = "runs/a", .tensors = "sr", .ranks = 3, .layout = DCP_LAYOUT_MANIFEST)
 *
 * Each letter of `tensors` is a tensor of the kind that the table in model_tensors.h lists. */
#ifndef DCP_TEST_MODEL_PROGRAM_H
#define DCP_TEST_MODEL_PROGRAM_H

enum { MODEL_STEPS = 32, MODEL_RANKS = 5, MODEL_TENSORS = 8, MODEL_PATH = 96 };

typedef enum model_kind {
    MODEL_SAVE,                         /* dcp_save: path, tensors, and most of what follows */
    MODEL_BEGIN,                        /* dcp_save_begin with saver `slot`; the tensors are spoilt or freed at once */
    MODEL_POLL, MODEL_WAIT, MODEL_CANCEL, MODEL_CLOSE,      /* of saver `slot` */
    MODEL_LOAD,                         /* dcp_load of all that was saved, on `ranks` */
    MODEL_MAP,                          /* dcp_map, dcp_prefetch and dcp_release of all tensors, from two threads */
    MODEL_LATEST, MODEL_PRUNE, MODEL_SWEEP,                 /* of directory `path` */
    MODEL_REMOVE,
    MODEL_SYNC,                         /* of manifest `path` into directory `to` */
    MODEL_CONVERT,                      /* what `path` has, read and saved at `to` in another layout */
    MODEL_RENAME,                       /* directory `path` becomes `to` */
    MODEL_FOREIGN,                      /* what is not the library's, in directory `path`: `what` */
    MODEL_FLIP, MODEL_CUT, MODEL_LOSE,  /* file number `what` of checkpoint `path` (0: its commit file) is damaged */
    MODEL_WAKE,                         /* a process that was stopped goes on */
    MODEL_MEET,                         /* collectives of one coordinator: `what` on rank 0, `odd` on the others */
    MODEL_KINDS
} model_kind;
static const char *const model_kind_names[] = {
    "SAVE", "BEGIN", "POLL", "WAIT", "CANCEL", "CLOSE", "LOAD", "MAP", "LATEST", "PRUNE", "SWEEP", "REMOVE", "SYNC",
        "CONVERT", "RENAME",
    "FOREIGN", "FLIP", "CUT", "LOSE", "WAKE", "MEET"
};
/* What somebody else put into the directory. Those from FOREIGN_NUMBER on look like commit files. */
typedef enum model_foreign {
    FOREIGN_TEXT, FOREIGN_PROGRAM, FOREIGN_BELOW, FOREIGN_PLAIN_SHARD, FOREIGN_TEMPORARY, FOREIGN_INTENT, FOREIGN_LOCK,
    FOREIGN_NUMBER, FOREIGN_NUMBER_DEEP, FOREIGN_YAML, FOREIGN_EMPTY, FOREIGN_SINGLE, FOREIGN_DIRECTORY, FOREIGN_LINK,
    FOREIGN_SECRET,
    FOREIGN_SPARSE,
    FOREIGN_SEED, FOREIGN_PARTS, FOREIGN_CLAIM, FOREIGN_CLAIM_OTHERS, FOREIGN_CLAIM_MANIFEST, FOREIGN_UNCOVERED,
    FOREIGN_KINDS
} model_foreign;
static const char *const model_foreign_names[] = {
    "FOREIGN_TEXT", "FOREIGN_PROGRAM", "FOREIGN_BELOW", "FOREIGN_PLAIN_SHARD", "FOREIGN_TEMPORARY", "FOREIGN_INTENT",
        "FOREIGN_LOCK",
    "FOREIGN_NUMBER", "FOREIGN_NUMBER_DEEP", "FOREIGN_YAML", "FOREIGN_EMPTY", "FOREIGN_SINGLE", "FOREIGN_DIRECTORY",
    "FOREIGN_LINK",
    "FOREIGN_SECRET", "FOREIGN_SPARSE", "FOREIGN_SEED", "FOREIGN_PARTS", "FOREIGN_CLAIM", "FOREIGN_CLAIM_OTHERS",
    "FOREIGN_CLAIM_MANIFEST", "FOREIGN_UNCOVERED"
};

typedef struct model_step {
    model_kind kind;
    char path[MODEL_PATH], to[MODEL_PATH], tensors[MODEL_TENSORS + 1];
    int ranks;                          /* 0: one process without a coordinator; n: n ranks, each a thread */
    int layout, yaml, flat, sign, overwrite, unique, alignment, block, budget, threads, holes, forgets, state, model_id;
    int slot, snapshot, refuse, free_tensors, shy;          /* of a saver; shy: the coordinator is not thread-safe */
    int verify, verifier, share, exact, by_file;
    int keep, every, grace, plain, dry;                     /* keep, every: of a prune, and of a save */
    int step;                           /* of a save: 0: in training; 1: in the desc; 2: nowhere */
    int what, odd, nth;
    int system;                         /* paths of the operating system, no storage */
    int lacks;                          /* flags that the storage does not have */
    /* what goes wrong, on rank `rank`; calls of the storage are counted twice, before and after each */
    int rank, fault, call, times, sys, how;
    int kill_at, kill_us, stop_at, cancel_at, dead_at, slow, slow_ms, memory_at, for_ever, arrives_at, other_world;
    int timeout_ms, deadline_ms, retry_ms;
    int process;                        /* runs in a process of its own */
    int at_once;                        /* at the same time as the step after it */
} model_step;
typedef struct model_program { int count; model_step step[MODEL_STEPS]; } model_program;

/* ---- the fields, for printing and for making a program smaller --------------------------------------------------- */
static const char *const model_layout_names[] = { "DCP_LAYOUT_SHARDED", "DCP_LAYOUT_SINGLE", "DCP_LAYOUT_MANIFEST" };
static const char *const model_verify_names[] = { "DCP_VERIFY_TOUCHED", "DCP_VERIFY_ALL", "DCP_VERIFY_NONE" };
static const char *const model_fault_names[] = {
    "FAULT_BEGIN", "FAULT_WRITE", "FAULT_COMMIT", "FAULT_ABORT", "FAULT_OPEN", "FAULT_READ", "FAULT_MAP", "FAULT_CLOSE",
        "FAULT_STAT",
    "FAULT_LIST", "FAULT_REMOVE", "FAULT_SYNC_DIRECTORY", "FAULT_SPACE", "FAULT_INFO", "FAULT_LOCK",
    "FAULT_LOCK_NOTE", "FAULT_UNLOCK", "FAULT_ANY"
};
static const char *const model_how_names[] = { "FAULT_BEFORE", "FAULT_AFTER", "FAULT_LITTERS" };

typedef struct model_field { const char *name; size_t offset; const char *const *values; size_t count; } model_field;
#define MODEL_FIELD(name) { #name, offsetof(model_step, name), NULL, 0 }
#define MODEL_NAMED(name, values) { #name, offsetof(model_step, name), values, sizeof values / sizeof values[0] }
static const model_field model_fields[] = {
    MODEL_FIELD(at_once), MODEL_FIELD(process), MODEL_FIELD(kill_at), MODEL_FIELD(kill_us), MODEL_FIELD(stop_at),
        MODEL_FIELD(cancel_at),
    MODEL_FIELD(dead_at), MODEL_FIELD(memory_at), MODEL_FIELD(for_ever), MODEL_FIELD(arrives_at),
    MODEL_FIELD(other_world),
    MODEL_FIELD(call), MODEL_FIELD(times), MODEL_FIELD(sys), MODEL_NAMED(fault, model_fault_names),
    MODEL_NAMED(how, model_how_names),
    MODEL_NAMED(slow, model_fault_names), MODEL_FIELD(slow_ms), MODEL_FIELD(rank), MODEL_FIELD(ranks),
    MODEL_NAMED(layout, model_layout_names), MODEL_FIELD(yaml), MODEL_FIELD(flat), MODEL_FIELD(sign),
    MODEL_FIELD(overwrite),
    MODEL_FIELD(unique), MODEL_FIELD(alignment), MODEL_FIELD(block), MODEL_FIELD(budget), MODEL_FIELD(threads),
    MODEL_FIELD(holes),
    MODEL_FIELD(forgets), MODEL_FIELD(state), MODEL_FIELD(model_id), MODEL_FIELD(slot), MODEL_FIELD(snapshot),
    MODEL_FIELD(refuse),
    MODEL_FIELD(free_tensors), MODEL_FIELD(shy), MODEL_NAMED(verify, model_verify_names), MODEL_FIELD(verifier),
    MODEL_FIELD(share),
    MODEL_FIELD(exact), MODEL_FIELD(by_file), MODEL_FIELD(step), MODEL_FIELD(keep), MODEL_FIELD(every),
    MODEL_FIELD(grace),
    MODEL_FIELD(plain),
    MODEL_FIELD(dry), MODEL_NAMED(what, model_foreign_names), MODEL_FIELD(odd), MODEL_FIELD(nth), MODEL_FIELD(system),
    MODEL_FIELD(lacks), MODEL_FIELD(timeout_ms), MODEL_FIELD(deadline_ms),
    MODEL_FIELD(retry_ms)
};
enum { MODEL_FIELDS = sizeof model_fields / sizeof model_fields[0] };
static int *model_field_of(model_step *step, int i) { return (int *)((char *)step + model_fields[i].offset); }

static void model_print_field(FILE *out, const model_step *step, int i) {
    const model_field *field = &model_fields[i];
    const int value = *(const int *)((const char *)step + field->offset);
    const int is_named = field->values && value >= 0 && (size_t)value < field->count &&
                         (field->values != model_foreign_names || step->kind == MODEL_FOREIGN);
    if (value == 0) return;
    if (is_named) (void)fprintf(out, ", .%s = %s", field->name, field->values[value]);
    else (void)fprintf(out, ", .%s = %d", field->name, value);
}
/* As it goes into tests/regress/model.h. */
static void model_print(FILE *out, const char *name, const model_program *p) {
    int i, f;
    (void)fprintf(out, "PROGRAM(%s", name);
    for (i = 0; i < p->count; i++) {
        const model_step *s = &p->step[i];
        (void)fprintf(out, ",\n    STEP(%s, .path = \"%s\"", model_kind_names[s->kind], s->path);
        if (s->to[0]) (void)fprintf(out, ", .to = \"%s\"", s->to);
        if (s->tensors[0]) (void)fprintf(out, ", .tensors = \"%s\"", s->tensors);
        for (f = 0; f < MODEL_FIELDS; f++) model_print_field(out, s, f);
        (void)fprintf(out, ")");
    }
    (void)fprintf(out, ")\n");
}

/* What programs leave out, since it is known to fail; DCP_MODEL_WITHOUT names more, DCP_MODEL_WITH=all leaves nothing
 * out. */
static const char model_known[] = " other_world ";
static int model_is_out(const char *word) {
    const char *more = getenv("DCP_MODEL_WITHOUT");
    char spaced[40];
    if (more && strstr(more, word)) return 1;
    (void)snprintf(spaced, sizeof spaced, " %s ", word);
    return !getenv("DCP_MODEL_WITH") && strstr(model_known, spaced) != NULL;
}

/* ---- programs at random ------------------------------------------------------------------------------------------ */
/* A family has its own features; whatever the family, most steps are saves and what destroys. */
typedef enum model_family {
    FAMILY_PLAIN, FAMILY_FOREIGN, FAMILY_RANKS, FAMILY_BACKGROUND, FAMILY_FAULTS, FAMILY_AT_ONCE, FAMILY_SLOW
} model_family;
static const char *const model_family_names[] = { "plain", "foreign", "ranks", "background", "faults", "at_once",
                                                  "slow" };

typedef struct model_dice {
    uint64_t state;
    model_family family;
    int path_count, dir_count;
    const char *path[6];
    char dir[8][MODEL_PATH];
    int is_series;                      /* the paths are of two series, and saves keep the last */
} model_dice;
static uint64_t model_mix(uint64_t z) {                 /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int model_draw(model_dice *d, int n) {
    return (int)(model_mix(d->state += 0x9e3779b97f4a7c15u) % (uint64_t)(n > 0 ? n : 1));
}
static int model_chance(model_dice *d, int percent) { return model_draw(d, 100) < percent; }

static const char *const model_paths[] = {
    "a", "b", "step_1", "step_2", "dense", "runs/a", "runs/b", "runs/step_1",
    "dense/a", "dense/s0_0_of_1", "experts/a", "optim/step_1", "router/a", "runs/dense/a", "runs/experts/b",
    "experts/tier_0/group_1/a",
    "step_1_shard_0.bin/a", "dense/layer/b", "a_shard_0", "runs/optim/a", "a.v1", "runs/router/step_1", "runs/runs/a"
};
/* Of two series in two directories. */
static const char *const model_series_paths[] = {
    "step_1", "step_2", "step_3", "step_10", "best", "best2", "runs/step_1", "runs/step_2", "step_x"
};
static void model_directory_of(const char *path, char out[MODEL_PATH]) {
    const char *slash = strrchr(path, '/');
    (void)snprintf(out, MODEL_PATH, "%.*s", slash ? (int)(slash - path) : 0, path);
}
/* A few names, so that the steps meet. */
static void model_draw_names(model_dice *d) {
    int i;
    d->is_series = model_chance(d, 35) && !model_is_out("series");
    d->path_count = d->is_series ? 3 + model_draw(d, 4) : 1 + model_draw(d, 4);
    for (i = 0; i < d->path_count; i++)
        d->path[i] = d->is_series ? model_series_paths[model_draw(d, (int)DCPI_COUNT(model_series_paths))]
                     : model_paths[model_draw(d, model_is_out("nested") ? 8 : (int)DCPI_COUNT(model_paths))];
    d->dir_count = 0;
    for (i = 0; i < d->path_count; i++) model_directory_of(d->path[i], d->dir[d->dir_count++]);
    for (i = 0; i < 2; i++) model_directory_of(d->dir[i % d->path_count], d->dir[d->dir_count++]);
}
static const char *model_draw_path(model_dice *d) { return d->path[model_draw(d, d->path_count)]; }
static const char *model_draw_directory(model_dice *d) { return d->dir[model_draw(d, d->dir_count)]; }

static void model_draw_tensors(model_dice *d, char *out) {
    static const char common[] = "srFs", all[] = "sscukmwrFfapzdtxoRqbe", wrong[] = "hi";
    const int n = model_chance(d, 2) ? 0 : 1 + model_draw(d, 4);
    int i;
    for (i = 0; i < n; i++) {
        out[i] = model_chance(d, 50) ? common[model_draw(d, 4)] : all[model_draw(d, (int)sizeof all - 1)];
        if (model_chance(d, 1)) out[i] = wrong[model_draw(d, 2)];
        if (model_chance(d, 1)) out[i] = 'B';
    }
    out[n] = '\0';
}
static int model_draw_budget(model_dice *d, int percent) {
    const int budget = model_chance(d, percent) ? 1 + model_draw(d, 3) : 0;
    return budget == 2 && model_is_out("budget") ? 0 : budget;
}
static void model_draw_retention(model_dice *d, model_step *s) {
    if (!model_chance(d, d->is_series ? 60 : 3)) return;
    s->keep = 1 + model_draw(d, 3);
    s->every = model_chance(d, 20) ? 2 + model_draw(d, 3) : 0;
    s->step = model_chance(d, 20) ? 1 + model_draw(d, 2) : 0;
    s->verifier = model_chance(d, 8);
    if (s->verifier) s->sign = model_chance(d, 80);
}
/* What a save and a save in the background have in common. */
static void model_draw_save(model_dice *d, model_step *s) {
    (void)snprintf(s->path, sizeof s->path, "%s", model_draw_path(d));
    model_draw_tensors(d, s->tensors);
    s->layout = model_chance(d, 40) ? DCP_LAYOUT_MANIFEST : model_draw(d, 3);
    s->yaml = s->layout == DCP_LAYOUT_MANIFEST && model_chance(d, 15);
    s->flat = model_chance(d, 10);
    s->sign = model_chance(d, 8);
    s->overwrite = model_chance(d, 70);
    s->unique = model_chance(d, 10);
    s->alignment = model_chance(d, 8) ? 64 << model_draw(d, 7) : 0;
    s->block = model_chance(d, 5) ? 262144 : 0;
    s->budget = model_draw_budget(d, 4);
    s->threads = model_chance(d, 10) ? 2 + model_draw(d, 2) : 0;
    s->forgets = model_chance(d, 1) && !model_is_out("forgets");
    s->state = model_chance(d, 4) ? 1 + model_draw(d, 3) : 0;
    s->model_id = model_chance(d, 3) && !model_is_out("model_id");
    s->system = model_chance(d, 8);
    if (model_chance(d, 4)) s->lacks = 4 << model_draw(d, 7);
    if (s->lacks == DCP_STORAGE_EXCLUSIVE_PUBLISH && model_is_out("exclusive")) s->lacks = 0;
    if (s->state == 1 && model_is_out("state")) s->state = 0;
    model_draw_retention(d, s);
    if (s->step == 2) s->state = 0;
}
/* What is known to fail only where two choices meet. */
static void model_avoid(model_step *s) {
    const int is_manifest = s->layout == DCP_LAYOUT_MANIFEST;
    if (is_manifest && s->ranks > 1 && model_is_out("empties")) {
        (void)snprintf(s->tensors, sizeof s->tensors, "rF");
        if (s->ranks == 2) (void)snprintf(s->tensors, sizeof s->tensors, "srF");
    }
    if (is_manifest && s->kind == MODEL_BEGIN && model_is_out("snapshot")) s->snapshot = 0;
    if (model_is_out("cancel")) s->cancel_at = 0;
    if (model_is_out("arrives")) s->arrives_at = 0;
    if (model_is_out("other_world")) s->other_world = 0;
    if (model_is_out("dead")) s->dead_at = 0;
    if (model_is_out("for_ever")) s->for_ever = 0;
    if (model_is_out("slow_load") && s->kind == MODEL_LOAD) s->slow_ms = s->retry_ms = s->call = 0;
    if (model_is_out("commit_lock")) s->stop_at = s->at_once = 0;
    if (model_is_out("meet") && s->kind == MODEL_MEET) s->odd = s->what;
    if (model_is_out("load_arrives") && s->kind != MODEL_SAVE) s->arrives_at = 0;
    if (model_is_out("led_memory") && s->kind >= MODEL_LATEST && s->ranks > 1) s->memory_at = 0;
    if (model_is_out("hurt") && s->kind >= MODEL_FLIP && s->kind <= MODEL_LOSE) {
        s->kind = MODEL_LATEST;
        s->what = s->nth = s->path[0] = 0;
    }
    if (model_is_out("sync_directory") && s->lacks == DCP_STORAGE_SYNC_DIRECTORY) s->lacks = 0;
}
static void model_draw_ranks(model_dice *d, model_step *s) {
    static const int worlds[] = { 1, 2, 2, 3, 4, 5, 5 };
    const int is_slow = d->family == FAMILY_SLOW;
    if (d->family <= FAMILY_FOREIGN || (!is_slow && model_chance(d, d->family == FAMILY_RANKS ? 20 : 60))) return;
    s->ranks = is_slow ? 2 : worlds[model_draw(d, 7)];
    s->share = s->kind == MODEL_LOAD && model_chance(d, 20);
    if (d->family == FAMILY_RANKS && model_chance(d, 2)) s->other_world = 1;
    s->rank = model_draw(d, s->ranks);
}
static void model_draw_faults(model_dice *d, model_step *s) {
    static const int errors[] = { 5 /* EIO */, 28 /* ENOSPC */, 13 /* EACCES */, 2 /* ENOENT */, 116 /* ESTALE */ };
    const int is_save = s->kind == MODEL_SAVE || s->kind == MODEL_BEGIN, reach = is_save ? 60 : 30;
    if (d->family != FAMILY_FAULTS || s->kind == MODEL_MAP) return;
    switch (model_draw(d, 9)) {
    case 0: case 1: case 2:
        s->fault = model_chance(d, 40) ? FAULT_ANY : model_chance(d, 50) ? FAULT_COMMIT : model_draw(d, FAULT_ANY);
        s->call = 1 + model_draw(d, s->fault == FAULT_ANY ? 30 : 4);
        s->times = model_chance(d, 60) ? 1 : model_chance(d, 50) ? 3 : 1000000;
        do s->sys = errors[model_draw(d, 5)]; while (s->sys == ENOENT && model_is_out("enoent"));
        if (s->sys == 28 && !is_save) s->sys = EIO;     /* what reads needs no space */
        s->how = model_chance(d, 40) ? FAULT_AFTER : FAULT_BEFORE;
        break;
    case 3: s->cancel_at = 1 + model_draw(d, reach); break;
    case 4: if (is_save) s->kill_at = 1 + model_draw(d, reach); break;
    case 5: if (s->kind == MODEL_SAVE) s->kill_us = 1 + model_draw(d, 800); break;
    case 6: s->memory_at = 1 + model_draw(d, model_chance(d, 50) ? 60 : 600); s->for_ever = model_chance(d, 40); break;
    case 7: if (s->ranks > 1 && model_chance(d, 30)) s->arrives_at = 1 + model_draw(d, 8); break;
    default: break;
    }
    if (s->kill_at || s->kill_us) s->process = 1;
}
static void model_draw_slowness(model_dice *d, model_step *s) {
    if (d->family != FAMILY_SLOW) return;
    s->timeout_ms = 300;
    if (model_chance(d, 50)) {
        s->slow = model_chance(d, 40) ? FAULT_READ : model_draw(d, FAULT_SPACE);
        s->slow_ms = 700;
    }
    else if (model_chance(d, 50)) {
        s->fault = model_chance(d, 60) ? FAULT_READ : FAULT_WRITE;
        s->call = s->times = 1;
        s->sys = EIO;
        s->retry_ms = 2000;
    }
    else if (s->ranks > 1 && s->kind == MODEL_SAVE) s->dead_at = 1 + model_draw(d, 40);
}
static void model_draw_directory_step(model_dice *d, model_step *s) {
    (void)snprintf(s->path, sizeof s->path, "%s", model_draw_directory(d));
    s->keep = model_draw(d, 3);
    s->every = s->kind == MODEL_PRUNE && model_chance(d, 10) ? 2 + model_draw(d, 3) : 0;
    s->verify = s->kind != MODEL_SWEEP && model_chance(d, 20) ? DCP_VERIFY_ALL : 0;
    s->verifier = s->kind == MODEL_LATEST && model_chance(d, 10);
    s->dry = s->kind != MODEL_LATEST && model_chance(d, 5);
    if (s->kind != MODEL_SWEEP) return;
    s->grace = model_chance(d, 60) ? -1 : 0;
    s->plain = model_chance(d, 50);
}
static model_kind model_draw_kind(model_dice *d) {
    static const struct { model_kind kind; unsigned char of[7]; } weights[] = {         /* in each family */
        { MODEL_SAVE, { 34, 30, 34, 20, 40, 44, 50 } }, { MODEL_BEGIN, { 0, 0, 0, 26, 8, 4, 0 } },
            { MODEL_POLL, { 0, 0, 0, 4, 0, 0, 0 } },
        { MODEL_WAIT, { 0, 0, 0, 14, 4, 2, 0 } }, { MODEL_CANCEL, { 0, 0, 0, 3, 0, 0, 0 } },
        { MODEL_CLOSE, { 0, 0, 0, 4, 1, 0, 0 } },
        { MODEL_LOAD, { 8, 8, 16, 4, 10, 14, 40 } }, { MODEL_MAP, { 3, 3, 0, 0, 0, 2, 0 } },
        { MODEL_LATEST, { 4, 8, 4, 2, 4, 5, 0 } },
        { MODEL_PRUNE, { 7, 8, 5, 3, 6, 8, 0 } }, { MODEL_SWEEP, { 9, 9, 5, 3, 6, 6, 3 } },
        { MODEL_REMOVE, { 6, 5, 4, 3, 6, 8, 0 } },
        { MODEL_SYNC, { 7, 5, 2, 2, 5, 4, 0 } }, { MODEL_CONVERT, { 5, 3, 3, 2, 0, 0, 0 } },
        { MODEL_RENAME, { 3, 2, 1, 1, 1, 0, 0 } },
        { MODEL_FOREIGN, { 0, 26, 2, 1, 2, 1, 0 } }, { MODEL_FLIP, { 2, 2, 1, 1, 0, 0, 0 } },
        { MODEL_CUT, { 1, 1, 0, 0, 0, 0, 0 } },
        { MODEL_LOSE, { 1, 1, 0, 0, 0, 0, 0 } }, { MODEL_WAKE, { 0, 0, 0, 0, 0, 6, 0 } },
        { MODEL_MEET, { 0, 0, 1, 0, 0, 0, 2 } }
    };
    int sum = 0, at;
    size_t i;
    for (i = 0; i < DCPI_COUNT(weights); i++) sum += weights[i].of[d->family];
    at = model_draw(d, sum);
    for (i = 0; at >= weights[i].of[d->family]; i++) at -= weights[i].of[d->family];
    return weights[i].kind;
}
static void model_draw_rest(model_dice *d, model_step *s) {
    (void)snprintf(s->path, sizeof s->path, "%s", model_draw_path(d));
    if (s->kind == MODEL_LOAD) {
        s->verify = model_chance(d, 40) ? model_draw(d, 3) : 0;
        s->verifier = model_chance(d, 6);
        s->exact = model_chance(d, 10);
        s->by_file = model_chance(d, 10);
        s->budget = model_draw_budget(d, 5);
        s->system = model_chance(d, 10);
    }
    if (s->kind == MODEL_SYNC) {
        (void)snprintf(s->to, sizeof s->to, "%s", model_chance(d, 50) ? "copy" : model_draw_directory(d));
        s->verify = model_chance(d, 20) ? DCP_VERIFY_ALL : 0;
    }
    if (s->kind == MODEL_CONVERT) {
        (void)snprintf(s->to, sizeof s->to, "%s", model_draw_path(d));
        s->layout = model_draw(d, 3);
        s->overwrite = model_chance(d, 50);
    }
    if (s->kind == MODEL_RENAME) {
        (void)snprintf(s->path, sizeof s->path, "%s", model_draw_directory(d));
        (void)snprintf(s->to, sizeof s->to, "%s", model_chance(d, 50) ? "moved" : "runs/moved");
    }
    if (s->kind == MODEL_FOREIGN) {
        (void)snprintf(s->path, sizeof s->path, "%s", model_draw_directory(d));
        do s->what = model_draw(d, FOREIGN_KINDS); while (model_is_out(model_foreign_names[s->what]));
        if (s->what == FOREIGN_SPARSE && model_chance(d, 80)) s->what = FOREIGN_TEXT;       /* takes long */
    }
    if (s->kind == MODEL_FLIP || s->kind == MODEL_CUT || s->kind == MODEL_LOSE) {
        s->what = model_chance(d, 30) ? 0 : 1 + model_draw(d, 4);
        s->nth = model_draw(d, 5000);
    }
    if (s->kind == MODEL_MEET) { s->what = model_draw(d, 3); s->odd = model_draw(d, 3); s->timeout_ms = 300; }
    s->slot = model_chance(d, 30);
}
static void model_draw_step(model_dice *d, model_step *s) {
    memset(s, 0, sizeof *s);
    s->kind = model_draw_kind(d);
    if (s->kind == MODEL_SAVE || s->kind == MODEL_BEGIN) model_draw_save(d, s);
    else if (s->kind == MODEL_LATEST || s->kind == MODEL_PRUNE || s->kind == MODEL_SWEEP)
        model_draw_directory_step(d, s);
    else model_draw_rest(d, s);
    if (s->kind == MODEL_BEGIN) {
        s->slot = model_chance(d, 30);
        s->snapshot = model_chance(d, 50) ? 0 : model_chance(d, 50) ? 1 : 1 + model_draw(d, 400000);
        s->refuse = model_chance(d, 15);
        s->free_tensors = model_chance(d, 50);
        s->shy = model_chance(d, 40);
    }
    if (s->kind == MODEL_RENAME || s->kind == MODEL_FOREIGN || (s->kind >= MODEL_FLIP && s->kind <= MODEL_WAKE)) return;
    if (s->kind == MODEL_MEET) { s->ranks = 2 + model_draw(d, 2); return; }
    if (s->kind != MODEL_MAP && s->kind != MODEL_CONVERT && s->kind != MODEL_POLL && s->kind != MODEL_SYNC)
        model_draw_ranks(d, s);
    if (s->kind > MODEL_BEGIN && s->kind < MODEL_LOAD) return;
    model_draw_faults(d, s);
    model_draw_slowness(d, s);
    /* somebody who is stopped may have the lock */
    if (d->family == FAMILY_AT_ONCE && s->kind == MODEL_BEGIN) s->timeout_ms = 1000;
    if (d->family != FAMILY_AT_ONCE || s->kind == MODEL_BEGIN) return;
    s->at_once = model_chance(d, 55);
    s->process = model_chance(d, 30);
    if (s->process && model_chance(d, 15)) s->kill_at = 1 + model_draw(d, 60);
    else if (s->process && model_chance(d, 20) && s->kind == MODEL_SAVE) s->stop_at = 1 + model_draw(d, 60);
}
static void model_draw_program(uint64_t seed, model_family family, model_program *p) {
    model_dice d;
    int i;
    memset(&d, 0, sizeof d);
    d.state = seed;
    d.family = family;
    model_draw_names(&d);
    p->count = family == FAMILY_SLOW ? 2 + model_draw(&d, 4) : 3 +
               model_draw(&d, model_chance(&d, 50) ? 8 : MODEL_STEPS - 3);
    for (i = 0; i < p->count; i++) {
        model_draw_step(&d, &p->step[i]);
        model_avoid(&p->step[i]);
    }
}

#endif
