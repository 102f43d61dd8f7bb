/* test_crash.c: power cuts. Every workload is recorded operation by operation (crash_storage.h), and every disk that a
 * cut may leave after each of them is opened, verified, loaded, swept, and loaded again: what loads is one whole
 * generation, byte for byte; after DCP_OK the new one, before it the old or the new. What recovers from a cut (the
 * sweep, the next save) is cut as well.
 *
 * DCP_TEST_CRASH_STATES: how many different states at least (default 20,000); `make soak` takes 250,000. */
#ifdef __linux__
#define fdatasync crash_fdatasync       /* see local_syncs */
#endif
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "crash_storage.h"

#if DCP_NO_THREADS
int main(void) { puts("skipped test_crash: built without threads\n0 passed, 0 failed, 1 skipped"); return 0; }
#else

/* ---- what is saved: four tensors, of which generations differ in some -------------------------------------------- */
enum { TENSORS = 4, ROW = 40, MOST_RANKS = 4, PATHS = 4, CLAIMS = 40 };
enum { ABSENT = 1, ONE = 2, TWO = 4, THREE = 8, FOUR = 16, NEXT = 9 };  /* what may load: bit g is generation g */
static const char *const tensor_names[TENSORS] = { "sharded", "layer_0/bias", "constant", "expert" };
static const uint8_t key[16] = "crash test key.";

typedef struct values { float of[TENSORS][ROW * MOST_RANKS]; dcp_tensor list[TENSORS]; } values;
static float value_of(int tensor, int generation, int i) {
    if (tensor == 2) generation = 0;                    /* never changes: what a manifest keeps */
    if (tensor == 3) generation /= 2;
    return (float)(10000 * generation + 1000 * tensor) + (float)i / 8;
}
/* rank -1: everything, to be loaded */
static void values_make(values *v, dcp_layout layout, int ranks, int rank, int generation) {
    const int64_t row = ROW, all = (int64_t)ROW * ranks, offset = (int64_t)ROW * (rank < 0 ? 0 : rank);
    int t, i;
    memset(v, 0, sizeof *v);
    for (t = 0; t < TENSORS; t++) {
        for (i = 0; i < ROW * MOST_RANKS; i++) v->of[t][i] = value_of(t, generation, i);
        v->list[t] = dcp_array(tensor_names[t], DCP_FP32, v->of[t], 1, &row);
        if (rank >= 0) v->list[t].placement = DCP_PLACE_REPLICATED;
    }
    v->list[0].placement = DCP_PLACE_AUTO;
    if (rank < 0) v->list[0].shape[0] = all;
    else {
        v->list[0].data = v->of[0] + offset;
        dcp_piece(&v->list[0], &all, &offset);
    }
    if (layout != DCP_LAYOUT_MANIFEST) return;
    v->list[3].role = DCP_ROLE_EXPERT;
    v->list[3].expert_key[1] = 7;
}

/* ---- a scene: a disk, what is done to it, and what must load meanwhile ------------------------------------------- */
enum { SOME = -1 };                                     /* a claim of no path: something must load */
typedef struct claim { int from, path; unsigned may; } claim;           /* from that operation on */
typedef struct scene {
    const char *name;
    dcp_layout layout;
    int ranks, is_signed, is_flat, is_yaml, is_async, is_unique;
    const char *directory;                              /* what is swept */
    const char *paths[PATHS]; int path_count;
    crash_disk disk;
    claim claims[CLAIMS]; int claim_count;
    int64_t last_deadline_ms;                           /* of the last rank; 0: none */
    int first_ok;                                       /* operations when the first rank was told DCP_OK */
    int depth;                                          /* 1: the scene is a recovery */
    int64_t judged;                                     /* states so far */
    char why[1200];                                     /* of a state that is not as it must be */
} scene;

static void claims(scene *s, int path, unsigned may, int from) {
    if (s->claim_count == CLAIMS) abort();
    s->claims[s->claim_count].from = from;
    s->claims[s->claim_count].path = path;
    s->claims[s->claim_count++].may = may;
}
/* From now on. */
static void expect(scene *s, int path, unsigned may) { claims(s, path, may, s->disk.op_count); }
static unsigned allowed(const scene *s, int path, int index) {
    unsigned may = path == SOME ? 0 : ABSENT;
    int i;
    for (i = 0; i < s->claim_count; i++)
        if (s->claims[i].path == path && s->claims[i].from <= index) may = s->claims[i].may;
    return may;
}
static uint64_t expectation(void *user, int index) {
    const scene *s = (const scene *)user;
    uint64_t all = 0;
    int p;
    for (p = SOME; p < s->path_count; p++) all = 31 * all + allowed(s, p, index);
    return all;
}
/* Everything so far is durable. */
static void settle(scene *s, unsigned a, unsigned b, unsigned c) {
    crash_settle(&s->disk);
    s->claim_count = 0;
    expect(s, 0, a);
    expect(s, 1, b);
    expect(s, 2, c);
}

/* ---- saving, on one rank or several ------------------------------------------------------------------------------ */
typedef struct saving {
    scene *s;
    int path, generation, overwrite;
    dcp_coordinator *ranks[MOST_RANKS];
    dcp_status status;
    dcp_error err;
} saving;
typedef struct saver_thread { saving *of; int rank; dcpi_thread thread; } saver_thread;

static dcp_status save_in_background(const dcp_save_desc *desc, dcp_error *err) {
    dcp_saver *saver;
    dcp_status status = dcp_saver_open(NULL, &saver, err);
    if (!status) status = dcp_save_begin(saver, desc, err);
    if (!status) status = dcp_save_wait(saver, -1, err);
    (void)dcp_saver_close(saver, NULL);                 /* wait has said it, or nothing began */
    return status;
}
static void save_rank(void *argument) {
    const saver_thread *t = (const saver_thread *)argument;
    saving *v = t->of;
    scene *s = v->s;
    const dcp_signer signer = dcp_hmac_signer(key, sizeof key, "k");
    dcp_training training = DCP_ZERO;
    dcp_save_desc desc = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    values *state = (values *)malloc(sizeof *state);
    if (!state) abort();
    values_make(state, s->layout, s->ranks, t->rank, v->generation);
    training.step = v->generation;
    desc.path = s->paths[v->path];
    desc.tensors = state->list;
    desc.tensor_count = TENSORS;
    desc.layout = s->layout;
    desc.checksum = s->is_flat ? DCP_CHECKSUM_FLAT : DCP_CHECKSUM_TREE;
    desc.overwrite = v->overwrite;
    desc.unique_names = s->is_unique;
    desc.yaml = s->is_yaml;
    desc.training = &training;
    desc.signer = s->is_signed ? &signer : NULL;
    desc.io.storage = &s->disk.storage;
    desc.io.coordinator = s->ranks > 1 ? v->ranks[t->rank] : NULL;
    desc.io.threads = 1;
    desc.io.deadline_ms = t->rank == s->ranks - 1 ? s->last_deadline_ms : 0;
    desc.io.memory_budget = (size_t)1 << 20;
    status = s->is_async ? save_in_background(&desc, &err) : dcp_save(&desc, &err);
    dcpi_mutex_lock(&s->disk.lock);
    if (status == DCP_OK && s->disk.op_count < s->first_ok) s->first_ok = s->disk.op_count;
    if (t->rank == 0) { v->status = status; v->err = err; }
    dcpi_mutex_unlock(&s->disk.lock);
    free(state);
}
static dcp_status save(scene *s, int path, int generation, int overwrite, dcp_error *err) {
    saver_thread threads[MOST_RANKS];
    saving v;
    int r;
    memset(threads, 0, sizeof threads);
    memset(&v, 0, sizeof v);
    v.s = s;
    v.path = path;
    v.generation = generation;
    v.overwrite = overwrite;
    s->first_ok = INT_MAX;
    if (s->ranks > 1) CHECK_OK(dcp_thread_group_open(s->ranks, v.ranks, NULL));
    for (r = 0; r < s->ranks; r++) {
        threads[r].of = &v;
        threads[r].rank = r;
        if (s->ranks == 1) save_rank(&threads[r]);
        else CHECK_INT(dcpi_thread_start(&threads[r].thread, save_rank, &threads[r]), 0);
    }
    for (r = 0; r < s->ranks && s->ranks > 1; r++) dcpi_thread_join(&threads[r].thread);
    for (r = 0; r < s->ranks && s->ranks > 1; r++) dcp_coordinator_close(v.ranks[r]);
    *err = v.err;
    return v.status;
}
/* A save that succeeds: before it `before` may load, then that or the new one, and after DCP_OK the new one. */
static void saves(scene *s, int path, int generation, unsigned before) {
    dcp_error err;
    expect(s, path, before | 1u << generation);
    CHECK_OK_MESSAGE(save(s, path, generation, (before & ABSENT) == 0, &err), err.message);
    claims(s, path, 1u << generation, s->first_ok);
}

/* ---- what a state must be: each path loads what it may, before and after a sweep --------------------------------- */
static dcp_status wrong(scene *s, const char *what, const char *path, const char *message) {
    (void)snprintf(s->why, sizeof s->why, "%.200s: %.300s: %.600s", path, what, message);
    return DCP_E_MISMATCH;
}
/* Opens, verifies and reads: 0 if there is none, its generation, or -1 and why. */
static int look(scene *s, crash_disk *d, const char *path) {
    const dcp_verifier verifier = dcp_hmac_verifier(key, sizeof key);
    static values got, want;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    dcp_status status;
    int generation = -1, t;
    open.path = path;
    open.verifier = s->is_signed ? &verifier : NULL;
    open.io.storage = &d->storage;
    open.io.threads = 1;
    open.io.memory_budget = (size_t)1 << 20;       /* no huge pages: to zero them would take longer than all the rest */
    status = dcp_open(&open, &c, &err);
    if (status == DCP_E_NOT_FOUND) return 0;
    values_make(&got, s->layout, s->ranks, -1, 0);
    if (!status) status = dcp_verify(c, &err);
    if (!status && !dcp_checkpoint_training(c)) status = dcpi_fail(&err, DCP_E_FORMAT, "no step");
    if (!status) generation = (int)dcp_checkpoint_training(c)->step;
    if (!status) status = dcp_read(c, got.list, TENSORS, &err);
    dcp_close(c);
    if (status) { (void)wrong(s, "does not load", path, err.message); return -1; }
    values_make(&want, s->layout, s->ranks, -1, generation);
    for (t = 0; t < TENSORS; t++)
        if (memcmp(got.of[t], want.of[t], (size_t)(t ? ROW : ROW * s->ranks) * sizeof(float)) != 0) {
            (void)wrong(s, "is a mixture", path, tensor_names[t]);
            return -1;
        }
    return generation;
}
static int is_commit(const char *name) { return dcpi_commit_kind_of(name) != NULL; }
/* After a sweep there are commit files, and what they name. */
static dcp_status no_litter(scene *s, crash_disk *d) {
    char used[1000];
    size_t i;
    int n, at;
    memset(used, 0, sizeof used);
    if (d->name_count > (int)sizeof used) abort();
    for (n = 0; n < d->name_count; n++) {
        const dcp_verifier verifier = dcp_hmac_verifier(key, sizeof key);
        dcp_open_desc open = DCP_ZERO;
        dcp_checkpoint *c;
        char *directory, file[1000];
        if (!is_commit(d->names[n].key)) continue;
        used[n] = 1;
        open.path = d->names[n].key;
        open.verifier = s->is_signed ? &verifier : NULL;
        open.io.storage = &d->storage;
        if (dcp_open(&open, &c, NULL) != DCP_OK) return wrong(s, "cannot be opened after the sweep", open.path, "");
        directory = crash_directory_of(open.path);
        for (i = 0; i < dcp_checkpoint_metadata(c)->shard_count; i++) {
            (void)snprintf(file, sizeof file, "%s%s%s", directory, directory[0] ? "/" : "",
                           dcp_checkpoint_metadata(c)->shards[i].file_path);
            at = crash_find(d, file);
            if (at >= 0) used[at] = 1;
        }
        free(directory);
        dcp_close(c);
    }
    for (n = 0; n < d->name_count; n++)
        if (!used[n]) return wrong(s, "is still there after the sweep", d->names[n].key, "");
    return DCP_OK;
}
static dcp_status latest_agrees(scene *s, crash_disk *d, const int *generations) {
    dcp_latest_desc desc = DCP_ZERO;
    dcp_error err;
    char *path = NULL;
    int p, any = 0;
    dcp_status status;
    desc.directory = s->directory;
    desc.io.storage = &d->storage;
    status = dcp_latest(&desc, &path, &err);
    dcp_free(path);
    for (p = 0; p < s->path_count; p++) any |= generations[p] > 0;
    if (status == (any ? DCP_OK : DCP_E_NOT_FOUND)) return DCP_OK;
    return wrong(s, "dcp_latest", s->directory, err.message);
}
static dcp_status sweep(scene *s, crash_disk *d, dcp_error *err) {
    const dcp_verifier verifier = dcp_hmac_verifier(key, sizeof key);
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_status status;
    desc.directory = s->directory;
    desc.grace_seconds = -1;
    desc.plain_names = 1;
    desc.verifier = s->is_signed ? &verifier : NULL;
    desc.io.storage = &d->storage;
    status = dcp_sweep(&desc, NULL, err);
    return status == DCP_E_NOT_FOUND ? DCP_OK : status; /* of the directory nothing is left */
}
static dcp_status judge(scene *s, crash_disk *d, int index, int generations[PATHS]) {
    dcp_error err;
    dcp_status status;
    int p;
    for (p = 0; p < s->path_count; p++) {
        char text[100];
        generations[p] = look(s, d, s->paths[p]);
        if (generations[p] < 0) return DCP_E_MISMATCH;
        (void)snprintf(text, sizeof text, "generation %d loads; allowed are the bits of %#x", generations[p],
                       allowed(s, p, index));
        if (!(allowed(s, p, index) >> generations[p] & 1)) return wrong(s, "old and new", s->paths[p], text);
    }
    for (p = 0; p < s->path_count && allowed(s, SOME, index) && generations[p] == 0; p++) continue;
    if (p == s->path_count) return wrong(s, "nothing is left to load", s->directory, "");
    status = latest_agrees(s, d, generations);
    if (status) return status;
    if (sweep(s, d, &err)) return wrong(s, "sweep", s->directory, err.message);
    for (p = 0; p < s->path_count; p++) {
        int again = look(s, d, s->paths[p]);
        if (again < 0) return DCP_E_MISMATCH;
        if (again != generations[p]) return wrong(s, "another generation loads after the sweep", s->paths[p], "");
    }
    return no_litter(s, d);
}

/* ---- the search -------------------------------------------------------------------------------------------------- */
static struct {
    int64_t states[CRASH_MODELS], enumerated, checked, of_workloads, recovered, operations;
    int scenes;
} total;
static int64_t recoveries = 1;          /* about so many of a scene, from states all over it, with a log of their own */
static uint64_t seed_of_all;
static int64_t wanted_states = 20000;

static dcp_status search(scene *s, int64_t *found);
/* From this disk on: a sweep, then the next save, both cut everywhere. */
static dcp_status recover(scene *s, const crash_state *state, const int generations[PATHS]) {
    static scene r;
    dcp_error err;
    dcp_status status;
    int64_t found = 0;
    int p;
    r = *s;
    r.depth = 1;
    r.claim_count = 0;
    r.is_async = 0;
    r.last_deadline_ms = 0;
    crash_materialise(state, &r.disk);
    r.disk.storage.context = &r.disk;
    crash_settle(&r.disk);
    for (p = 0; p < r.path_count; p++) expect(&r, p, 1u << generations[p]);
    status = sweep(&r, &r.disk, &err);
    if (status) status = wrong(&r, "the sweep of the recovery", s->directory, err.message);
    if (!status) {
        expect(&r, 0, 1u << generations[0] | 1u << NEXT);
        if (save(&r, 0, NEXT, generations[0] > 0, &err)) status = wrong(&r, "the next save", s->paths[0], err.message);
        claims(&r, 0, 1u << NEXT, r.first_ok);
    }
    if (!status) status = search(&r, &found);
    if (status) memcpy(s->why, r.why, sizeof s->why);
    total.recovered++;
    crash_close(&r.disk);
    return status;
}
/* About `recoveries` and, of the states behind so many, ever fewer. */
static int chooses(scene *s, const crash_state *state) {
    const uint64_t seen = 3 * (uint64_t)++s->judged;
    return crash_mix(state->hash ^ seed_of_all) % ((uint64_t)recoveries + seen) < (uint64_t)recoveries;
}
static dcp_status check_state(void *user, const crash_state *state) {
    scene *s = (scene *)user;
    int generations[PATHS];
    crash_disk d;
    dcp_status status;
    crash_materialise(state, &d);
    status = judge(s, &d, state->index, generations);
    crash_close(&d);
    if (!status && s->depth == 0 && chooses(s, state)) status = recover(s, state, generations);
    if (status) {
        printf("%s%s, %s\n", s->depth ? "    in a recovery of " : "", s->name, s->why);
        crash_describe(state);
    }
    return status;
}
static dcp_status search(scene *s, int64_t *found) {
    crash_search all;
    dcp_status status;
    int m;
    memset(&all, 0, sizeof all);
    all.expectation = expectation;
    all.seed = test_random();
    /* make test-all and make soak-crash take every subset of up to 12 operations that are pending */
    all.exhaustive = s->depth ? (test_is_whole() ? 5 : 4) : test_is_whole() ? 0 : 7;
    all.samples = s->depth ? (test_is_whole() ? 20 : 8) : test_is_whole() ? 0 : 80;
    status = crash_enumerate(&s->disk, &all, check_state, s);
    for (m = 0; m < CRASH_MODELS; m++) total.states[m] += all.states[m];
    total.enumerated += all.enumerated;
    total.checked += all.checked;
    total.operations += s->disk.op_count;
    *found = all.checked;
    crash_search_end(&all);
    return status;
}

/* ---- workloads --------------------------------------------------------------------------------------------------- */
static void scene_open(scene *s, const char *name, dcp_layout layout, int ranks) {
    memset(s, 0, sizeof *s);
    s->name = name;
    s->layout = layout;
    s->ranks = ranks;
    s->directory = "runs/a";
    s->paths[0] = "runs/a/x";
    s->paths[1] = "runs/a/y";
    s->paths[2] = "runs/a/z";
    s->path_count = 3;
    crash_open(&s->disk);
}
static void scene_run(scene *s) {
    const int64_t before = total.checked, recovered = total.recovered;
    int64_t found = 0;
    dcp_status status;
    seed_of_all = test_random();
    status = search(s, &found);
    total.scenes++;
    total.of_workloads += found;
    printf("    %-34s %d rank%s %3d operations, %5ld states, %5ld more in %ld recoveries\n", s->name, s->ranks,
           s->ranks > 1 ? "s," : ", ", s->disk.op_count, (long)found, (long)(total.checked - before - found),
           (long)(total.recovered - recovered));
    crash_close(&s->disk);
    CHECK_STR(s->why, "");
    CHECK_OK(status);
}
#define SHARDED DCP_LAYOUT_SHARDED
#define SINGLE DCP_LAYOUT_SINGLE
#define MANIFEST DCP_LAYOUT_MANIFEST
/* A disk with generation 1 of x, durable. */
static void scene_with_one(scene *s, const char *name, dcp_layout layout, int ranks) {
    scene_open(s, name, layout, ranks);
    saves(s, 0, 1, ABSENT);
    settle(s, ONE, ABSENT, ABSENT);
}
static void first_save(const char *name, dcp_layout layout, int ranks) {
    scene s;
    scene_open(&s, name, layout, ranks);
    saves(&s, 0, 1, ABSENT);
    scene_run(&s);
}
static void next_save(const char *name, dcp_layout layout, int ranks) {
    scene s;
    scene_with_one(&s, name, layout, ranks);
    saves(&s, 1, 2, ABSENT);
    scene_run(&s);
}
static void overwrite(const char *name, dcp_layout layout, int ranks) {
    scene s;
    scene_with_one(&s, name, layout, ranks);
    saves(&s, 0, 2, ONE);
    scene_run(&s);
}
TEST(first_saves) {
    first_save("first save", SHARDED, 1);
    first_save("first save", SHARDED, 2);
    first_save("first save", SHARDED, 3);
    first_save("first save, single file", SINGLE, 1);
    first_save("first save, single file", SINGLE, 2);
    first_save("first save, manifest", MANIFEST, 1);
    first_save("first save, manifest", MANIFEST, 2);
}
TEST(next_saves) {
    next_save("next save", SHARDED, 1);
    next_save("next save", SHARDED, 2);
    next_save("next save, single file", SINGLE, 1);
    next_save("next save, manifest incremental", MANIFEST, 1);
    next_save("next save, manifest incremental", MANIFEST, 2);
}
TEST(overwrites) {
    overwrite("overwrite", SHARDED, 1);
    overwrite("overwrite", SHARDED, 2);
    overwrite("overwrite", SHARDED, 4);
    overwrite("overwrite, single file", SINGLE, 1);
    overwrite("overwrite, single file", SINGLE, 3);
    overwrite("overwrite, manifest", MANIFEST, 1);
    overwrite("overwrite, manifest", MANIFEST, 2);
}
/* Several saves in a row, of which nothing is durable but what they themselves make so. */
static void chain(const char *name, dcp_layout layout, int ranks) {
    scene s;
    scene_open(&s, name, layout, ranks);
    saves(&s, 0, 1, ABSENT);
    saves(&s, 1, 2, ABSENT);
    saves(&s, 0, 3, ONE);
    scene_run(&s);
}
TEST(saves_in_a_row) {
    chain("three saves", SHARDED, 1);
    chain("three saves", SHARDED, 2);
    chain("three saves, single file", SINGLE, 1);
    chain("three saves, manifest", MANIFEST, 1);
}
TEST(options) {
    static const char *const names[] = { "signed", "flat checksums", "unique names", "signed manifest",
                                         "YAML manifest" };
    int i;
    for (i = 0; i < 5; i++) {
        scene s;
        scene_open(&s, names[i], i < 3 ? SHARDED : MANIFEST, 1);
        s.is_signed = i == 0 || i == 3;
        s.is_flat = i == 1;
        s.is_unique = i == 2;
        s.is_yaml = i == 4;
        saves(&s, 0, 1, ABSENT);
        saves(&s, 0, 2, ONE);
        scene_run(&s);
    }
}
TEST(saves_in_the_background) {
    static const struct { const char *name; dcp_layout layout; int ranks; } of[] = {
        { "asynchronous", SHARDED, 1 }, { "asynchronous", SHARDED, 2 }, { "asynchronous, single file", SINGLE, 2 },
            { "asynchronous, manifest", MANIFEST, 1 } };
    int i;
    for (i = 0; i < 4; i++) {
        scene s;
        scene_open(&s, of[i].name, of[i].layout, of[i].ranks);
        s.is_async = 1;
        saves(&s, 0, 1, ABSENT);
        saves(&s, 0, 2, ONE);
        scene_run(&s);
    }
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */
static void removes(scene *s, int path, unsigned before) {
    dcp_remove_desc desc = DCP_ZERO;
    dcp_error err;
    desc.path = s->paths[path];
    desc.io.storage = &s->disk.storage;
    expect(s, path, before | ABSENT);
    CHECK_OK_MESSAGE(dcp_remove(&desc, NULL, &err), err.message);
    expect(s, path, ABSENT);
}
static void prunes(scene *s, int keep_last) {
    dcp_prune_desc desc = DCP_ZERO;
    dcp_error err;
    desc.directory = s->directory;
    desc.keep_last = keep_last;
    desc.io.storage = &s->disk.storage;
    CHECK_OK_MESSAGE(dcp_prune(&desc, NULL, &err), err.message);
}
static void removal(const char *name, dcp_layout layout, int ranks, int is_prune) {
    scene s;
    scene_open(&s, name, layout, ranks);
    saves(&s, 0, 1, ABSENT);
    saves(&s, 1, 2, ABSENT);
    saves(&s, 2, 3, ABSENT);
    settle(&s, ONE, TWO, THREE);
    if (is_prune) {
        expect(&s, 0, ONE | ABSENT);
        expect(&s, 1, TWO | ABSENT);
        prunes(&s, 1);
        expect(&s, 0, ABSENT);
        expect(&s, 1, ABSENT);
    } else {
        removes(&s, 1, TWO);
        removes(&s, 0, ONE);
    }
    scene_run(&s);
}
TEST(removals) {
    removal("remove", SHARDED, 2, 0);
    removal("remove, single file", SINGLE, 1, 0);
    removal("remove, manifest", MANIFEST, 1, 0);
    removal("prune", SHARDED, 2, 1);
    removal("prune, single file", SINGLE, 1, 1);
    removal("prune, manifest", MANIFEST, 1, 1);
}
/* What was removed, under the same name again: a name of a file that may still be there must not be taken for the new
 * one's. */
static void again(const char *name, dcp_layout layout, int ranks) {
    scene s;
    scene_with_one(&s, name, layout, ranks);
    removes(&s, 0, ONE);
    saves(&s, 0, 2, ABSENT);
    removes(&s, 0, TWO);
    scene_run(&s);
}
TEST(removed_and_saved_again) {
    again("removed and saved again", SHARDED, 1);
    again("removed and saved again", SHARDED, 2);
    again("removed and saved again, single", SINGLE, 1);
    again("removed and saved again, manifest", MANIFEST, 1);
}

/* ---- a process that dies, and a cut later: what it left is not durable yet --------------------------------------- */
/* dies: what the first process does, until it dies after some operation; then: what the next one does */
typedef dcp_status (*doing)(scene *s, dcp_error *err);
static dcp_status first_to_last(scene *s, doing one, doing two, int at) {
    dcp_error err;
    dcp_status status;
    s->disk.dies_at = at;
    status = one(s, &err);
    s->disk.dies_at = 0;
    if (!status) return DCP_E_EXISTS;                   /* it lived: all points have been tried */
    status = two(s, &err);
    CHECK_OK_MESSAGE(status, err.message);
    return DCP_OK;
}
static void dies(const char *name, dcp_layout layout, int ranks, int is_empty, int step, doing one, doing two) {
    dcp_status status = DCP_OK;
    int at;
    for (at = 1; !status; at += step ? 1 + (int)test_random_below((size_t)step) : 1) {
        scene s;
        if (is_empty) scene_open(&s, name, layout, ranks);
        else scene_with_one(&s, name, layout, ranks);
        if (!is_empty) expect(&s, SOME, 1);
        status = first_to_last(&s, one, two, at);
        if (status) crash_close(&s.disk);
        else scene_run(&s);
    }
}
static dcp_status new_y(scene *s, dcp_error *err) {
    expect(s, 1, ABSENT | TWO);
    return save(s, 1, 2, 0, err);
}
static dcp_status new_x(scene *s, dcp_error *err) {
    expect(s, 0, ONE | TWO);
    return save(s, 0, 2, 1, err);
}
static dcp_status then_z(scene *s, dcp_error *err) {
    dcp_status status;
    expect(s, 2, ABSENT | 1u << 4);
    status = save(s, 2, 4, 0, err);
    claims(s, 2, 1u << 4, s->first_ok);
    return status;
}
static dcp_status then_x(scene *s, dcp_error *err) {
    dcp_status status;
    expect(s, 0, ONE | TWO | 1u << 4);
    status = save(s, 0, 4, 1, err);
    claims(s, 0, 1u << 4, s->first_ok);
    return status;
}
static dcp_status no_x(scene *s, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = s->paths[0];
    desc.io.storage = &s->disk.storage;
    s->claim_count = 0;                                 /* nothing need be left */
    expect(s, 0, ONE | ABSENT);
    return dcp_remove(&desc, NULL, err);
}
static dcp_status then_x_anew(scene *s, dcp_error *err) {
    const int is_there = crash_find(&s->disk, "runs/a/x.metadata.json") >= 0 ||
                         crash_find(&s->disk, "runs/a/x.manifest.json") >= 0;
    dcp_status status;
    expect(s, 0, ONE | ABSENT | 1u << 4);
    status = save(s, 0, 4, is_there, err);
    claims(s, 0, 1u << 4, s->first_ok);
    return status;
}
static dcp_status then_prune(scene *s, dcp_error *err) {
    (void)dcpi_succeed(err);
    expect(s, 0, ONE | ABSENT);
    prunes(s, 1);
    return DCP_OK;
}
TEST(processes_that_die) {
    dies("a first save dies, another", SHARDED, 1, 1, 0, new_y, then_z);
    dies("a save dies, the next", SHARDED, 1, 0, 0, new_y, then_z);
    dies("a save dies, the next", SHARDED, 2, 0, 5, new_y, then_z);
    dies("a save dies, an overwrite", SHARDED, 1, 0, 0, new_y, then_x);
    dies("an overwrite dies, another", SHARDED, 1, 0, 0, new_x, then_x);
    dies("an overwrite dies, another", SINGLE, 1, 0, 3, new_x, then_x);
    dies("a save dies, a prune", SHARDED, 1, 0, 0, new_y, then_prune);
    dies("a save dies, a prune", SINGLE, 1, 0, 0, new_y, then_prune);
    dies("a removal dies, a save", SHARDED, 1, 0, 0, no_x, then_x_anew);
}
TEST(processes_with_manifests_that_die) {
    dies("a first save dies, another", MANIFEST, 1, 1, 50, new_y, then_z);
    dies("an overwrite dies, another", MANIFEST, 1, 0, 40, new_x, then_x);
    dies("a save dies, the next", MANIFEST, 1, 0, 40, new_y, then_z);
    dies("a save dies, a prune", MANIFEST, 1, 0, 3, new_y, then_prune);
    dies("a removal dies, a save", MANIFEST, 1, 0, 4, no_x, then_x_anew);
}

/* ---- sync: the copy of a manifest -------------------------------------------------------------------------------- */
static dcp_status sync_from(scene *s, crash_disk *source, dcp_error *err) {
    dcp_sync_desc desc = DCP_ZERO;
    desc.source = &source->storage;
    desc.path = s->paths[0];
    desc.target = &s->disk.storage;
    desc.directory = s->directory;
    desc.io.memory_budget = (size_t)1 << 20;
    return dcp_sync(&desc, err);
}
static void syncs(scene *s, crash_disk *source, unsigned before, int generation) {
    dcp_error err;
    expect(s, 0, before | 1u << generation);
    CHECK_OK_MESSAGE(sync_from(s, source, &err), err.message);
    expect(s, 0, 1u << generation);
}
TEST(syncs_of_a_copy) {
    scene source, s;
    scene_open(&source, "source", MANIFEST, 1);
    scene_open(&s, "sync, and again", MANIFEST, 1);
    saves(&source, 0, 1, ABSENT);
    syncs(&s, &source.disk, ABSENT, 1);
    saves(&source, 0, 2, ONE);
    syncs(&s, &source.disk, ONE, 2);
    crash_close(&source.disk);
    scene_run(&s);
}
TEST(syncs_that_die) {
    scene source;
    dcp_error err;
    int at, lived = 0;
    scene_open(&source, "source", MANIFEST, 1);
    saves(&source, 0, 1, ABSENT);
    for (at = 1; !lived; at++) {
        scene s;
        scene_open(&s, "a sync dies, another", MANIFEST, 1);
        expect(&s, 0, ABSENT | ONE);
        s.disk.dies_at = at;
        lived = sync_from(&s, &source.disk, &err) == DCP_OK;
        s.disk.dies_at = 0;
        if (!lived) syncs(&s, &source.disk, ABSENT, 1);
        if (!lived) scene_run(&s);
        else crash_close(&s.disk);
    }
    crash_close(&source.disk);
}

/* ---- what others do meanwhile: at one moment of an operation, another process does something --------------------- */
typedef struct moment {
    scene *s;
    const char *call, *words;
    int is_over;
    int (*act)(struct moment *m);
    dcp_status status;
    int64_t until_ms;
} moment;
static int at_moment(void *user, const char *call, const char *words) {
    moment *m = (moment *)user;
    if (m->is_over || strcmp(call, m->call) != 0 || !strstr(words, m->words)) return 0;
    m->is_over = 1;
    return m->act(m);
}
static void meanwhile(scene *s, moment *m, const char *call, const char *words, int (*act)(moment *m)) {
    memset(m, 0, sizeof *m);
    m->s = s;
    m->call = call;
    m->words = words;
    m->act = act;
    s->disk.hook = at_moment;
    s->disk.hook_user = m;
}
static int act_unlink(moment *m) {
    CHECK_OK(dcp_storage_remove(&m->s->disk.storage, "runs/a/x.metadata.json", NULL, NULL));
    return 0;
}
static int act_delete_kept(moment *m) {
    CHECK_OK(dcp_storage_remove(&m->s->disk.storage, "runs/a/dense/constant_0_of_1.bin", NULL, NULL));
    return 0;
}
static int act_remove_x(moment *m) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = m->s->paths[0];
    desc.io.storage = &m->s->disk.storage;
    m->status = dcp_remove(&desc, NULL, NULL);
    return 0;
}
static int act_save_x(moment *m) {
    dcp_error err;
    const int overwrites = crash_find(&m->s->disk, "runs/a/x.metadata.json") >= 0;
    m->status = save(m->s, 0, 3, overwrites, &err);
    return 0;
}
/* A remove has unlinked the commit file, and did not sync the directory yet: its data must not go before it. */
TEST(a_sweep_beside_a_removal) {
    scene s;
    moment m;
    dcp_error err;
    scene_with_one(&s, "sweep beside a removal", SHARDED, 1);
    expect(&s, 0, ONE | ABSENT);
    meanwhile(&s, &m, "list", "runs/a", act_unlink);    /* the sweep looks for candidates */
    CHECK_OK_MESSAGE(sweep(&s, &s.disk, &err), err.message);
    s.disk.hook = NULL;
    CHECK(m.is_over);
    scene_run(&s);
}
/* A removal beside a manifest save that keeps files: what is kept stays, whenever the other one looks. */
TEST(a_removal_beside_a_save_that_keeps_files) {
    static const char *const moments[][2] = { { "begin", "runs/a/x.manifest" }, { "begin", "intent" },
                                              { "begin", "dense/sharded" }, { "sync_directory", "dense" },
                                              { "begin", "runs/a/y.manifest.json" } };
    size_t i;
    for (i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        scene s;
        moment m;
        dcp_error err;
        dcp_status status;
        scene_with_one(&s, "removal beside a save, manifest", MANIFEST, 1);
        expect(&s, 0, ONE | ABSENT);
        expect(&s, 1, ABSENT | TWO);
        meanwhile(&s, &m, moments[i][0], moments[i][1], act_remove_x);
        status = save(&s, 1, 2, 0, &err);
        s.disk.hook = NULL;
        CHECK(m.is_over == (i > 0));
        CHECK_OK(m.status);
        CHECK_OK_MESSAGE(status, err.message);
        claims(&s, 1, TWO, s.first_ok);
        scene_run(&s);
    }
}
/* The same, and the removal, which has looked for intents before there was one, takes the data only after the save has
 * ended. */
typedef struct slow_removal {
    moment m;
    dcp_storage storage;
    dcpi_mutex lock; dcpi_cond changed;
    const char *words;                                  /* of the names at which it waits */
    int is_waiting, may_go;
    dcpi_thread thread;
} slow_removal;
static slow_removal slow;
static dcp_status slow_remove(void *context, const char *path, const char *token, dcp_error *err) {
    if (strstr(path, slow.words)) {
        dcpi_mutex_lock(&slow.lock);
        slow.is_waiting = 1;
        dcpi_cond_wake_all(&slow.changed);
        while (!slow.may_go) dcpi_cond_wait_ms(&slow.changed, &slow.lock, 1000);
        dcpi_mutex_unlock(&slow.lock);
    }
    return crash_remove(context, path, token, err);
}
static void slow_main(void *argument) {
    dcp_remove_desc desc = DCP_ZERO;
    (void)argument;
    desc.path = "runs/a/x";
    desc.io.storage = &slow.storage;
    slow.m.status = dcp_remove(&desc, NULL, NULL);
}
static int act_begin_removal(moment *m) {
    slow.storage = m->s->disk.storage;
    slow.storage.remove = slow_remove;
    CHECK_INT(dcpi_thread_start(&slow.thread, slow_main, NULL), 0);
    dcpi_mutex_lock(&slow.lock);
    while (!slow.is_waiting) dcpi_cond_wait_ms(&slow.changed, &slow.lock, 1000);
    dcpi_mutex_unlock(&slow.lock);
    return 0;
}
static void removal_goes_on(void) {
    dcpi_mutex_lock(&slow.lock);
    slow.may_go = 1;
    dcpi_cond_wake_all(&slow.changed);
    dcpi_mutex_unlock(&slow.lock);
    dcpi_thread_join(&slow.thread);
}
static void removal_waits_at(const char *words) {
    memset(&slow, 0, sizeof slow);
    CHECK_INT(dcpi_mutex_init(&slow.lock), 0);
    CHECK_INT(dcpi_cond_init(&slow.changed), 0);
    slow.words = words;
}
TEST(a_removal_that_takes_its_time) {
    scene s;
    dcp_error err;
    dcp_status status;
    removal_waits_at("/dense/");
    scene_with_one(&s, "slow removal beside a save", MANIFEST, 1);
    expect(&s, 0, ONE | ABSENT);
    expect(&s, 1, ABSENT | TWO);
    meanwhile(&s, &slow.m, "begin", "intent", act_begin_removal);
    status = save(&s, 1, 2, 0, &err);
    s.disk.hook = NULL;
    removal_goes_on();
    CHECK_OK_MESSAGE(status, err.message);
    claims(&s, 1, TWO, s.first_ok);
    scene_run(&s);
}
/* It has begun before the save, and unlinks the document when the save has decided what to keep. */
static int act_go_on(moment *m) {
    m->s->disk.hook = NULL;
    removal_goes_on();
    return 0;
}
TEST(a_removal_that_began_before) {
    scene s;
    moment m;
    dcp_error err;
    dcp_status status;
    removal_waits_at("x.manifest.json");
    scene_with_one(&s, "removal that began before a save", MANIFEST, 1);
    slow.m.s = &s;
    (void)act_begin_removal(&slow.m);
    expect(&s, 0, ONE | ABSENT);
    expect(&s, 1, ABSENT | TWO);
    meanwhile(&s, &m, "begin", "y.manifest.json", act_go_on);
    status = save(&s, 1, 2, 0, &err);
    s.disk.hook = NULL;
    CHECK_OK_MESSAGE(status, err.message);
    CHECK_OK(slow.m.status);
    claims(&s, 1, TWO, s.first_ok);
    scene_run(&s);
}
/* Somebody deletes a kept file by hand. */
TEST(a_kept_file_that_goes_ends_the_save) {
    scene s;
    moment m;
    dcp_error err;
    scene_with_one(&s, "a kept file goes", MANIFEST, 1);
    meanwhile(&s, &m, "sync_directory", "dense", act_delete_kept);
    CHECK_INT(save(&s, 1, 2, 0, &err), DCP_E_INCOMPLETE);
    CHECK(m.is_over);
    crash_close(&s.disk);
}
/* Another save of the same path: the one that commits second finds it out, and changes nothing. */
static void beside(const char *name, int is_overwrite, const char *call, const char *words) {
    scene s;
    moment m;
    dcp_error err;
    scene_open(&s, name, SHARDED, 1);
    if (is_overwrite) saves(&s, 0, 1, ABSENT);
    settle(&s, is_overwrite ? ONE : ABSENT, ABSENT, ABSENT);
    meanwhile(&s, &m, call, words, act_save_x);
    expect(&s, 0, (is_overwrite ? ONE : ABSENT) | THREE);
    CHECK_INT(save(&s, 0, 2, is_overwrite, &err), DCP_E_EXISTS);
    CHECK(m.is_over);
    CHECK_OK(m.status);
    s.disk.hook = NULL;
    claims(&s, 0, THREE, s.disk.op_count);
    scene_run(&s);
}
TEST(saves_of_one_path_beside_each_other) {
    beside("two first saves", 0, "begin", "x_shard_0");
    beside("two first saves", 0, "begin", "x.metadata.json");
    beside("two overwrites", 1, "begin", "x_shard_0");
}

/* An overwrite is about to unlink the old data, under its plain name; before it does, others sweep that away, and save
 * again: under another name. Where there are no locks. */
static int act_sweep_and_save(moment *m) {
    dcp_error err;
    m->status = sweep(m->s, &m->s->disk, &err);
    if (!m->status) m->status = save(m->s, 0, 3, 1, &err);
    return 0;
}
TEST(an_unlink_that_comes_late) {
    scene s;
    moment m;
    dcp_error err;
    scene_with_one(&s, "late unlink of a plain name", SHARDED, 1);
    s.disk.storage.flags &= ~(uint32_t)DCP_STORAGE_COMMIT_LOCK;        /* with the lock nobody comes in between */
    expect(&s, 0, ONE | TWO | THREE);
    meanwhile(&s, &m, "remove", "x_shard_0.bin", act_sweep_and_save);
    CHECK_OK_MESSAGE(save(&s, 0, 2, 1, &err), err.message);
    s.disk.hook = NULL;
    CHECK(m.is_over);
    CHECK_OK(m.status);
    expect(&s, 0, THREE);
    scene_run(&s);
}

/* ---- what is not known, and what comes too late ------------------------------------------------------------------ */
static int act_fail_after_rename(moment *m) {           /* the sync behind the rename that commits */
    m->is_over = crash_find(&m->s->disk, "runs/a/x.metadata.json") >= 0;
    return m->is_over;
}
TEST(unknown_removes_nothing) {
    scene s;
    moment m;
    dcp_error err;
    scene_open(&s, "the last sync fails", SHARDED, 1);
    expect(&s, 0, ABSENT | ONE);
    meanwhile(&s, &m, "sync_directory", "runs/a", act_fail_after_rename);
    CHECK_INT(save(&s, 0, 1, 0, &err), DCP_E_UNKNOWN);
    s.disk.hook = NULL;
    scene_run(&s);
}
/* Its directory is synced when its deadline is over: the bytes are there, but the others may have given up. */
static int act_wait(moment *m) {
    m->is_over = 0;                                     /* the other rank may sync the same directory just before it */
    if (crash_find(&m->s->disk, "runs/a/x_shard_1.bin") < 0) return 0;
    while (dcpi_os_monotonic_ms() < m->until_ms) dcpi_os_sleep_ms(20);
    return 0;
}
TEST(a_rank_whose_deadline_is_over_acknowledges_nothing) {
    scene s;
    moment m;
    dcp_error err;
    scene_open(&s, "a late rank", SHARDED, 2);
    s.last_deadline_ms = 1000;
    meanwhile(&s, &m, "sync_directory", "runs/a", act_wait);
    m.until_ms = dcpi_os_monotonic_ms() + 1500;
    CHECK_INT(save(&s, 0, 1, 0, &err), DCP_E_TIMEOUT);
    s.disk.hook = NULL;
    scene_run(&s);
}

/* ---- the local storage: what is recorded here is what it does ---------------------------------------------------- */
#ifdef __linux__
/* Of each fdatasync, what the descriptor is at that moment. */
static char synced[40][300];
static int synced_count;
int fdatasync(int fd) {                                 /* the macro above makes this the one that dcp.h calls */
    char link[64];
    ssize_t n = 0;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (synced_count < 40) n = readlink(link, synced[synced_count], sizeof synced[0] - 1);
    if (n > 0) synced[synced_count++][n] = '\0';
    return (int)syscall(SYS_fdatasync, fd);
}
static int synced_after(int from, const char *begin, const char *end) { /* index of the first after `from` */
    int i;
    for (i = from + 1; i < synced_count; i++) {
        const char *name = strstr(synced[i], begin);
        if (name && strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0) return i;
    }
    return -1;
}
static void local_syncs(const char *base, dcp_layout layout, const char *data, const char *folder) {
    scene s;
    dcp_storage *storage;
    dcp_error err;
    values v;
    dcp_save_desc desc = DCP_ZERO;
    int at;
    memset(&s, 0, sizeof s);
    synced_count = 0;
    CHECK_OK_MESSAGE(dcp_storage_local(base, &storage, &err), err.message);
    CHECK(synced_after(-1, "", "") >= 0);               /* the directory above the base */
    values_make(&v, layout, 1, 0, 1);
    desc.path = "runs/a/x";
    desc.tensors = v.list;
    desc.tensor_count = TENSORS;
    desc.layout = layout;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    at = synced_after(synced_after(-1, base, base), "/runs", "/runs");
    CHECK(at >= 0);
    at = synced_after(at, data, ".tmp");                /* the bytes under the temporary name, then the names */
    CHECK(at >= 0);
    at = synced_after(at, folder, folder);
    CHECK(at >= 0);
    at = synced_after(at, layout == MANIFEST ? "x.manifest.json." : "x.metadata.json.", ".tmp");
    CHECK(at >= 0);
    CHECK(synced_after(at, "/runs/a", "/runs/a") >= 0);
    dcp_storage_close(storage);
}
TEST(the_local_storage_does_what_is_recorded) {
    local_syncs(test_dir(), SHARDED, "x_shard_0.bin.", "/runs/a");
    local_syncs(test_dir(), MANIFEST, "bias_0_of_1.bin.", "/dense/layer_0");
}
#else
TEST(the_local_storage_does_what_is_recorded) { SKIP("its calls are watched on Linux only"); }
#endif

/* ---- documents that are written again ---------------------------------------------------------------------------- */
TEST(a_document_rewritten) {
    scene s;
    dcp_metadata *metadata;
    dcp_error err;
    scene_with_one(&s, "document written again", SHARDED, 1);
    CHECK_OK_MESSAGE(dcp_metadata_read_file(&s.disk.storage, "runs/a/x.metadata.json", NULL, NULL, &metadata, &err),
                     err.message);
    CHECK_OK_MESSAGE(dcp_metadata_write_file(&s.disk.storage, "runs/a/x.metadata.json", metadata, NULL, NULL, &err),
                     err.message);
    dcp_metadata_free(metadata);
    scene_run(&s);
}
/* Whole objects of a storage, in folders that were not there: the old bytes or the new, and after DCP_OK the new. */
typedef struct object_search { int first_done, second_done; } object_search;
static uint64_t object_expectation(void *user, int index) {
    const object_search *o = (const object_search *)user;
    return (uint64_t)(index >= o->first_done) + (index >= o->second_done);
}
static dcp_status check_object(void *user, const crash_state *state) {
    const object_search *o = (const object_search *)user;
    const char *data = NULL;
    size_t size = 0;
    int i;
    for (i = 0; i < state->count; i++) if (strcmp(state->left[i].key, "p/q/object") == 0) {
        data = state->left[i].data;
        size = state->left[i].size;
    }
    if (size == 9 && memcmp(data, "new bytes", 9) == 0) return DCP_OK;
    if (size == 3 && memcmp(data, "old", 3) == 0 && state->index < o->second_done) return DCP_OK;
    if (!data && state->index < o->first_done) return DCP_OK;
    crash_describe(state);
    return DCP_E_MISMATCH;
}
TEST(whole_objects) {
    crash_disk disk;
    crash_search all;
    object_search o;
    dcp_status status;
    memset(&all, 0, sizeof all);
    all.expectation = object_expectation;
    crash_open(&disk);
    CHECK_OK(dcp_storage_write_all(&disk.storage, "p/q/object", "old", 3, NULL, NULL));
    o.first_done = disk.op_count;
    CHECK_OK(dcp_storage_write_all(&disk.storage, "p/q/object", "new bytes", 9, NULL, NULL));
    o.second_done = disk.op_count;
    status = crash_enumerate(&disk, &all, check_object, &o);
    crash_search_end(&all);
    crash_close(&disk);
    CHECK_OK(status);
}
TEST(enough_different_disks) {
    if (getenv("DCP_TEST_FILTER")) SKIP("only part of the tests ran");
    CHECK(total.checked >= wanted_states);
}

static void report(double seconds) {
    printf("%ld different disks after power cuts: %ld of %d workloads, %ld of %ld recoveries; %ld operations, %ld "
           "subsets of what was pending\n", (long)total.checked, (long)total.of_workloads, total.scenes,
           (long)(total.checked - total.of_workloads), (long)total.recovered,
           (long)total.operations, (long)total.enumerated);
    printf("by model: any subset %ld, directories in order %ld, as ext4 %ld; %.1f s\n", (long)total.states[CRASH_ANY],
           (long)total.states[CRASH_ORDERED], (long)total.states[CRASH_EXT4], seconds);
}
int main(void) {
    const clock_t start = clock();
    if (getenv("DCP_TEST_CRASH_STATES")) wanted_states = strtol(getenv("DCP_TEST_CRASH_STATES"), NULL, 10);
    recoveries = (wanted_states + 19999) / 20000;
    RUN(first_saves);
    RUN(next_saves);
    RUN(overwrites);
    RUN(saves_in_a_row);
    RUN(options);
    RUN(saves_in_the_background);
    RUN(removals);
    RUN(removed_and_saved_again);
    RUN(processes_that_die);
    RUN(processes_with_manifests_that_die);
    RUN(syncs_of_a_copy);
    RUN(syncs_that_die);
    RUN(a_sweep_beside_a_removal);
    RUN(a_removal_beside_a_save_that_keeps_files);
    RUN(a_removal_that_takes_its_time);
    RUN(a_removal_that_began_before);
    RUN(an_unlink_that_comes_late);
    RUN(unknown_removes_nothing);
    RUN(a_rank_whose_deadline_is_over_acknowledges_nothing);
    RUN(the_local_storage_does_what_is_recorded);
    RUN(a_kept_file_that_goes_ends_the_save);
    RUN(saves_of_one_path_beside_each_other);
    RUN(a_document_rewritten);
    RUN(whole_objects);
    RUN(enough_different_disks);
    report((double)(clock() - start) / CLOCKS_PER_SEC);
    return test_finish();
}
#endif
