/* test_pool_faults.c - what becomes of the pool of files that manifests share when others remove, save and sync beside
 * a save, and when memory and storages fail.
 *
 * Whatever happens, each manifest that is there must load, every file of it, with the bytes of its own step; a save
 * that says DCP_OK must be one of them; and a sweep must leave what they name, and nothing else. */
#include "failing_allocator.h"
#include "doing.h"
#include "fault_storage.h"

/* ---- a state: some tensors change with each generation, some with every second one, one never -------------------- */
enum { TENSORS = 6, PIECES = 7, LENGTH = 24, EMPTY = 5 };
static const char *const names[TENSORS] = { "layer/w", "layer/b", "expert", "adam/m", "router", "nothing" };
typedef struct state { uint8_t bytes[TENSORS][LENGTH]; dcp_tensor list[PIECES]; } state;

static int generation_of(int t, int generation) {
    if (t == 1) return generation / 2;
    if (t == 2) return (generation + 1) / 2;
    return t == 3 ? 1 : generation;
}
static void state_bytes(state *s, int generation) {
    int t, i;
    for (t = 0; t < TENSORS; t++)
        for (i = 0; i < LENGTH; i++) s->bytes[t][i] = (uint8_t)(generation_of(t, generation) * 37 + t * 11 + i);
}
static void state_make(state *s, int generation) {      /* "layer/b" is two pieces */
    const int64_t shape[1] = { LENGTH }, half[1] = { LENGTH / 2 }, none[1] = { 0 }, whole[1] = { LENGTH },
                             offsets[2][1] = { { 0 }, { LENGTH / 2 } };
    int t;
    memset(s, 0, sizeof *s);
    state_bytes(s, generation);
    for (t = 0; t < TENSORS; t++)
        s->list[t] = dcp_array(names[t], DCP_UINT8, s->bytes[t], 1, t == EMPTY ? none : shape);
    s->list[1] = dcp_array(names[1], DCP_UINT8, s->bytes[1], 1, half);
    s->list[TENSORS] = dcp_array(names[1], DCP_UINT8, s->bytes[1] + LENGTH / 2, 1, half);
    dcp_piece(&s->list[1], whole, offsets[0]);
    dcp_piece(&s->list[TENSORS], whole, offsets[1]);
    s->list[2].role = DCP_ROLE_EXPERT;
    s->list[3].role = DCP_ROLE_OPTIMIZER;
    s->list[4].role = DCP_ROLE_ROUTER;
}
static int state_is(const state *got, int generation) {
    state want;
    state_bytes(&want, generation);
    return memcmp(got->bytes, want.bytes, EMPTY * sizeof want.bytes[0]) == 0;
}

/* ---- saving and loading ------------------------------------------------------------------------------------------ */
typedef struct form { const char *name; int yaml, is_signed; dcp_checksum checksum; } form;
static const form forms[] = { { "json", 0, 0, DCP_CHECKSUM_TREE }, { "yaml signed", 1, 1, DCP_CHECKSUM_TREE },
                              { "json flat", 0, 0, DCP_CHECKSUM_FLAT } };
#define FORMS ((int)DCPI_COUNT(forms))
static const form *the_form = &forms[0];
static dcp_cancel *the_cancel;
static const char hmac_key[] = "0123456789abcdef0123456789abcdef";

static int the_timeout_ms;     /* of acts within acts: who has the commit lock stands still meanwhile; 0: the default */
static void io_make(dcp_io *io, dcp_storage *storage) {
    io->storage = storage;
    io->timeout_ms = the_timeout_ms;
    io->cancel = the_cancel;
    io->retry.first_ms = io->retry.max_ms = 1;
}
static dcp_status save(dcp_storage *storage, const char *path, int generation, int overwrite, dcp_error *err) {
    dcp_signer signer = dcp_hmac_signer(hmac_key, sizeof hmac_key - 1, "key-1");
    dcp_save_desc desc = DCP_ZERO;
    dcp_training training = DCP_ZERO;
    state s;
    state_make(&s, generation);
    training.step = generation;
    desc.path = path;
    desc.tensors = s.list;
    desc.tensor_count = PIECES;
    desc.layout = DCP_LAYOUT_MANIFEST;
    desc.yaml = the_form->yaml;
    desc.checksum = the_form->checksum;
    if (the_form->is_signed) desc.signer = &signer;
    desc.training = &training;
    desc.overwrite = overwrite;
    io_make(&desc.io, storage);
    return dcp_save(&desc, err);
}
static void must_save(dcp_storage *storage, const char *path, int generation, int overwrite) {
    dcp_error err;
    CHECK_OK_MESSAGE(save(storage, path, generation, overwrite, &err), err.message);
}
static dcp_status open_at(dcp_storage *storage, const char *path, dcp_checkpoint **c, dcp_error *err) {
    dcp_verifier verifier = dcp_hmac_verifier(hmac_key, sizeof hmac_key - 1);
    dcp_open_desc desc = DCP_ZERO;
    desc.path = path;
    desc.verify = the_form->is_signed ? DCP_VERIFY_TOUCHED : DCP_VERIFY_ALL;
    if (the_form->is_signed) desc.verifier = &verifier;
    io_make(&desc.io, storage);
    return dcp_open(&desc, c, err);
}
/* Loads all that is at a path. *generation: its step, 0 if its bytes are not that step's. */
static dcp_status load(dcp_storage *storage, const char *path, int *generation, dcp_error *err) {
    dcp_checkpoint *c;
    dcp_tensor whole[TENSORS];
    state s;
    int t;
    dcp_status status = open_at(storage, path, &c, err);
    *generation = 0;
    if (status) return status;
    state_make(&s, 7777);
    for (t = 0; t < TENSORS; t++) {
        const int64_t shape[1] = { t == EMPTY ? 0 : LENGTH };
        whole[t] = dcp_array(names[t], DCP_UINT8, s.bytes[t], 1, shape);
    }
    status = dcp_read(c, whole, TENSORS, err);
    if (!status) status = dcp_verify(c, err);
    if (!status && state_is(&s, (int)dcp_checkpoint_training(c)->step))
        *generation = (int)dcp_checkpoint_training(c)->step;
    dcp_close(c);
    return status;
}
static int generation_at(dcp_storage *storage, const char *path) {      /* negative: the status */
    int generation;
    dcp_status status = load(storage, path, &generation, NULL);
    return status ? -(int)status : generation;
}
#define NONE (-(int)DCP_E_NOT_FOUND)

/* ---- what a storage holds ---------------------------------------------------------------------------------------- */
#define FILES 200
typedef struct files { int count; char key[FILES][160]; } files;

static dcp_status note_file(void *user, const char *path, const dcp_object_info *info) {
    files *f = (files *)user;
    (void)info;
    if (f->count == FILES) return DCP_E_LIMIT;
    (void)snprintf(f->key[f->count++], sizeof f->key[0], "%s", path);
    return DCP_OK;
}
static int compare_keys(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }
static void list_all(dcp_storage *storage, files *f) {  /* all folders, sorted */
    static files unlisted;
    memset(f, 0, sizeof *f);
    unlisted.count = 1;
    unlisted.key[0][0] = '\0';
    while (unlisted.count > 0) {
        char at[160];
        (void)snprintf(at, sizeof at, "%s", unlisted.key[--unlisted.count]);
        CHECK_OK(storage->list(storage->context, at, DCP_LIST_OBJECTS, note_file, f, NULL));
        CHECK_OK(storage->list(storage->context, at, DCP_LIST_DIRECTORIES, note_file, &unlisted, NULL));
    }
    qsort(f->key, (size_t)f->count, sizeof f->key[0], compare_keys);
}
static void check_same_files(const files *now, const files *before) {
    int i;
    for (i = 0; i < now->count || i < before->count; i++)
        CHECK_STR(i < now->count ? now->key[i] : NULL, i < before->count ? before->key[i] : NULL);
}
static int is_commit(const char *key) {
    const size_t n = strlen(key);
    return n > 14 && (strcmp(key + n - 14, ".manifest.json") == 0 || strcmp(key + n - 14, ".manifest.yaml") == 0);
}
static int has(const files *f, const char *key) {
    int i;
    for (i = 0; i < f->count; i++) if (strcmp(f->key[i], key) == 0) return 1;
    return 0;
}
static void empty(dcp_storage *storage) {
    static files f;
    int i;
    list_all(storage, &f);
    for (i = 0; i < f.count; i++) CHECK_OK(storage->remove(storage->context, f.key[i], NULL, NULL));
}
static dcp_status sweep(dcp_storage *storage, int64_t grace, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    desc.grace_seconds = grace;
    desc.plain_names = 1;
    io_make(&desc.io, storage);
    return dcp_sweep(&desc, NULL, err);
}
/* Each manifest that is there loads, with the bytes of its step; returns how many there are. */
static int check_all_load(dcp_storage *storage) {
    static files f;
    int i, commits = 0;
    list_all(storage, &f);
    for (i = 0; i < f.count; i++) {
        dcp_error err;
        int generation;
        if (!is_commit(f.key[i])) continue;
        CHECK_OK_MESSAGE(load(storage, f.key[i], &generation, &err), err.message);
        CHECK(generation > 0);
        commits++;
    }
    return commits;
}
/* After a sweep there are the manifests, what they name, and nothing else. */
static void check_clean_after_sweep(dcp_storage *storage) {
    static files named, now;
    dcp_error err;
    size_t k;
    int i;
    CHECK_OK_MESSAGE(sweep(storage, -1, &err), err.message);
    (void)check_all_load(storage);
    list_all(storage, &now);
    named.count = 0;
    for (i = 0; i < now.count; i++) {
        dcp_checkpoint *c;
        const dcp_metadata *m;
        if (!is_commit(now.key[i])) continue;
        CHECK_OK_MESSAGE(open_at(storage, now.key[i], &c, &err), err.message);
        m = dcp_checkpoint_metadata(c);
        for (k = 0; k < m->shard_count; k++)
            if (!has(&named, m->shards[k].file_path)) CHECK_OK(note_file(&named, m->shards[k].file_path, NULL));
        dcp_close(c);
        CHECK_OK(note_file(&named, now.key[i], NULL));
    }
    qsort(named.key, (size_t)named.count, sizeof named.key[0], compare_keys);
    check_same_files(&now, &named);
}
static dcp_storage *in_memory(void) {
    dcp_storage *storage = NULL;
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    return storage;
}

/* A directory in memory where there is one: quick, and its temporary files can be seen. */
static dcp_storage *on_disk(void) {
    static char dir[TEST_PATH];
    dcp_storage *storage = NULL;
    const char *old = getenv("TMPDIR");
    char kept[TEST_PATH] = "";
    if (old) (void)snprintf(kept, sizeof kept, "%s", old);
#ifdef __linux__
    if (access("/dev/shm", W_OK) == 0) (void)setenv("TMPDIR", "/dev/shm", 1);
#endif
    (void)snprintf(dir, sizeof dir, "%s", test_dir());
#ifdef __linux__
    if (old) (void)setenv("TMPDIR", kept, 1);
    else (void)unsetenv("TMPDIR");
#endif
    CHECK_OK(dcp_storage_local(dir, &storage, NULL));
    return storage;
}

/* ---- acts: what one process does to a directory with "a" (generation 1) and "b" (2) ------------------------------ */
typedef enum act { SAVE_C, OVERWRITE_B, OVERWRITE_A, SYNC_B, SYNC_C, PRUNE, REMOVE_A, REMOVE_B, SWEEP, SWEEP_ALL,
                   REMOVE_B_SWEEP_ALL, SAVE_D, SAVE_D_REMOVE_B, FAIL_C, ACTS } act;
static const char *const act_names[] = { "save c", "overwrite b", "overwrite a", "sync b", "sync c", "prune",
                                         "remove a", "remove b", "sweep", "sweep all", "remove b, sweep all", "save d",
                                         "save d, remove b", "fail to save c" };
static dcp_storage *sync_source;        /* has "a" and "b" too, but has gone on: "b" is of generation 6, "c" of 7 */

static dcp_status remove_at(dcp_storage *storage, const char *path, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = path;
    io_make(&desc.io, storage);
    return dcp_remove(&desc, NULL, err);
}
static dcp_status sync_at(dcp_storage *storage, const char *path, dcp_error *err) {
    dcp_sync_desc desc = DCP_ZERO;
    desc.source = sync_source;
    desc.path = path;
    desc.target = storage;
    desc.io.timeout_ms = the_timeout_ms;
    desc.io.cancel = the_cancel;
    desc.io.retry.first_ms = desc.io.retry.max_ms = 1;
    return dcp_sync(&desc, err);
}
static dcp_status prune(dcp_storage *storage, dcp_error *err) {
    dcp_prune_desc desc = DCP_ZERO;
    io_make(&desc.io, storage);
    return dcp_prune(&desc, NULL, err);
}
/* Its files may be those of the c that is synced. */
static dcp_status fail_to_save(dcp_storage *storage, const char *path, int generation, dcp_error *err) {
    fault_storage f;
    dcp_status status;
    fault_open(&f, storage);
    fault_set(&f, FAULT_LOCK, 1, INT64_MAX / 2, EIO);
    status = save(&f.storage, path, generation, 0, err);
    fault_close(&f);
    CHECK(status != DCP_OK);
    return status == DCP_E_IO ? dcpi_succeed(err) : status;
}
static dcp_status act_run(act what, dcp_storage *storage, dcp_error *err) {
    dcp_status status;
    switch (what) {
        case SAVE_C: return save(storage, "c", 3, 0, err);
        case OVERWRITE_B: return save(storage, "b", 4, 1, err);
        case OVERWRITE_A: return save(storage, "a", 4, 1, err);
        case SYNC_B: return sync_at(storage, "b", err);
        case FAIL_C: return fail_to_save(storage, "c", 7, err);
        case SYNC_C: return sync_at(storage, "c", err);
        case PRUNE: return prune(storage, err);
        case REMOVE_A: return remove_at(storage, "a", err);
        case REMOVE_B: return remove_at(storage, "b", err);
        case SWEEP: return sweep(storage, 0, err);
        case SWEEP_ALL: return sweep(storage, -1, err);
        case REMOVE_B_SWEEP_ALL:
            status = remove_at(storage, "b", err);
            return status ? status : sweep(storage, -1, err);
        case SAVE_D_REMOVE_B:
            status = save(storage, "d", 5, 0, err);
            return status ? status : remove_at(storage, "b", err);
        default: return save(storage, "d", 5, 0, err);
    }
}
static void scene_set(dcp_storage *storage) {
    empty(storage);
    must_save(storage, "a", 1, 0);
    must_save(storage, "b", 2, 0);
}
static void source_make(void) {
    sync_source = in_memory();
    must_save(sync_source, "a", 1, 0);
    must_save(sync_source, "b", 2, 0);
    must_save(sync_source, "b", 6, 1);
    must_save(sync_source, "c", 7, 0);
}
/* What may come of an act beside which others worked: it succeeds, or says that somebody was in its way. */
static int is_clean(dcp_status status) {
    return status == DCP_OK || status == DCP_E_EXISTS || status == DCP_E_INCOMPLETE || status == DCP_E_NOT_FOUND ||
           status == DCP_E_CHECKSUM;
}

/* ---- an act with another whole one at each of its calls ---------------------------------------------------------- */
typedef struct between {
    act what;
    int64_t at, calls;
    dcp_storage *storage;
    struct between *inner;
    dcp_status status;
    int ran;
} between;

static void between_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    between *b = (between *)user;
    (void)kind; (void)key; (void)call;
    if (is_done || ++b->calls != b->at) return;
    b->ran = 1;
    if (!b->inner) { b->status = act_run(b->what, b->storage, NULL); return; }
    {   /* the act in between has one in between itself */
        fault_storage f;
        fault_open(&f, b->storage);
        f.hook = between_hook;
        f.user = b->inner;
        b->status = act_run(b->what, &f.storage, NULL);
        fault_close(&f);
    }
}
static dcp_status run_with(act what, between *b, dcp_error *err) {
    fault_storage f;
    dcp_status status;
    fault_open(&f, b->storage);
    f.hook = between_hook;
    f.user = b;
    the_timeout_ms = 2;
    status = act_run(what, &f.storage, err);
    the_timeout_ms = 0;
    fault_close(&f);
    return status;
}
static int is_swept(dcp_status status, const dcp_error *err) { return status == DCP_E_IO && err->sys == ENOENT; }
/* A sweep that leaves no time takes the temporary files of whatever is under way, where they can be seen; in memory
 * there are none. */
static int is_ruthless(act what) { return what == SWEEP_ALL || what == REMOVE_B_SWEEP_ALL; }
static int is_first_save(act what) { return what == SAVE_C || what == SAVE_D || what == SAVE_D_REMOVE_B; }
static void judge(act what, const between *b, dcp_status status, const dcp_error *err) {
    dcp_storage *storage = b->storage;
    const act beside = b->what;
    const int c = generation_at(storage, "c");
    /* its temporary file was swept, so the rename says that it is not there; what it was to replace is gone, or never
     * was: whether it had happened cannot be told */
    const int is_untold = status == DCP_E_UNKNOWN && ((what == OVERWRITE_B && beside == REMOVE_B_SWEEP_ALL) ||
                                                      (is_first_save(what) && is_ruthless(beside)));
    if (!is_clean(status) && !is_untold && !(is_ruthless(beside) && is_swept(status, err))) CHECK_OK_MESSAGE(status,
        err->message);
    (void)check_all_load(storage);
    /* a sync replaces */
    if (what == SAVE_C && !(beside == SYNC_C && c == 7)) CHECK_INT(c, status == DCP_OK || beside == SAVE_C ? 3 : NONE);
    if (what == OVERWRITE_B && status == DCP_OK && beside != REMOVE_B && beside != PRUNE &&
        beside != REMOVE_B_SWEEP_ALL && beside != SAVE_D_REMOVE_B && beside != SYNC_B)
        CHECK_INT(generation_at(storage, "b"), 4);
    check_clean_after_sweep(storage);
}
typedef void (*between_judge)(act what, const between *b, dcp_status status, const dcp_error *err);
/* Returns how many rounds there were. */
static int64_t each_call(dcp_storage *storage, act what, act beside, int64_t step, between_judge judges) {
    between b;
    int64_t at;
    memset(&b, 0, sizeof b);
    b.ran = 1;
    for (at = 1 + (int64_t)test_random_below((size_t)step); b.ran; at += step) {
        dcp_status status;
        dcp_error err;
        memset(&b, 0, sizeof b);
        b.what = beside;
        b.at = at;
        b.storage = storage;
        scene_set(storage);
        doing("%s: %s, at call %d %s", the_form->name, act_names[what], (int)at, act_names[beside]);
        status = run_with(what, &b, &err);
        if (!b.ran) CHECK_OK_MESSAGE(status, err.message);
        judges(what, &b, status, &err);
    }
    done_doing();
    return at;
}
/* Every n-th call of each, from another one on in each run; all of them where WHOLE is set. */
static int64_t step_of(int one_in) { return test_is_whole() ? 1 : one_in * (60 / test_times(60)); }

static void each_pair(int form_index, int one_in) {
    int what, beside;
    int64_t rounds = 0, step = step_of(one_in);
    dcp_storage *memory = in_memory(), *disk = on_disk();
    the_form = &forms[form_index];
    source_make();
    for (what = 0; what < ACTS; what++)
        for (beside = 0; beside < ACTS; beside++) {
            rounds += each_call(is_ruthless((act)beside) ? disk : memory, (act)what, (act)beside, step,
                                judge);
        }
    dcp_storage_close(sync_source);
    dcp_storage_close(memory);
    dcp_storage_close(disk);
    the_form = &forms[0];
    printf("# %s: %d rounds\n", forms[form_index].name, (int)(rounds / step));
}
TEST(each_act_at_each_call_of_each_other_one) { each_pair(0, 10); }
/* A sync whose source is the copy itself, with a save of that path in between: the save stays. */
static int saves_in_between;
static void judge_sync_onto_itself(act what, const between *b, dcp_status status, const dcp_error *err) {
    (void)what;
    if (!is_clean(status)) CHECK_OK_MESSAGE(status, err->message);
    if (b->ran && b->status == DCP_OK) {
        CHECK_INT(generation_at(b->storage, "b"), 4);
        saves_in_between++;
    }
    check_clean_after_sweep(b->storage);
}
TEST(a_sync_onto_itself_brings_nothing_back) {
    dcp_storage *storage = in_memory();
    the_form = &forms[0];
    sync_source = storage;
    saves_in_between = 0;
    (void)each_call(storage, SYNC_B, OVERWRITE_B, 1, judge_sync_onto_itself);
    CHECK(saves_in_between > 10);
    dcp_storage_close(storage);
}
/* A sync finds a file that it wants, of a save that fails afterwards. */
TEST(a_sync_does_not_count_on_what_a_save_may_take_back) {
    dcp_storage *memory = in_memory();
    the_form = &forms[0];
    source_make();
    CHECK(each_call(memory, FAIL_C, SYNC_C, 1, judge) > 10);
    dcp_storage_close(sync_source);
    dcp_storage_close(memory);
}
TEST(the_same_with_signed_yaml) { each_pair(1, 100); }

/* Three at once: at each call of the first the second begins, and at each of its calls the third one runs. */
static void three(act first, act second, act third, int one_in) {
    dcp_storage *storage = in_memory();
    between outer, inner;
    int64_t n, m, step = step_of(one_in), rounds = 0;
    memset(&outer, 0, sizeof outer);
    outer.ran = 1;
    for (n = 1 + (int64_t)test_random_below((size_t)step); outer.ran; n += step) {
        int ran = 1;
        for (m = 1 + (int64_t)test_random_below((size_t)step); ran; m += step) {
            dcp_status status;
            dcp_error err;
            memset(&outer, 0, sizeof outer);
            memset(&inner, 0, sizeof inner);
            outer.what = second;
            outer.at = n;
            outer.inner = &inner;
            outer.storage = inner.storage = storage;
            inner.what = third;
            inner.at = m;
            scene_set(storage);
            doing("%s, at call %d %s, at its call %d %s", act_names[first], (int)n, act_names[second], (int)m,
                  act_names[third]);
            status = run_with(first, &outer, &err);
            if (!is_clean(status)) CHECK_OK_MESSAGE(status, err.message);
            if (!is_clean(outer.status)) CHECK_OK(outer.status);
            (void)check_all_load(storage);
            if (second == SAVE_C && outer.ran && outer.status == DCP_OK && first != PRUNE)
                CHECK_INT(generation_at(storage, "c"), 3);
            rounds++;
            ran = inner.ran;
        }
    }
    check_clean_after_sweep(storage);
    dcp_storage_close(storage);
    done_doing();
    printf("# %s, %s, %s: %d rounds\n", act_names[first], act_names[second], act_names[third], (int)rounds);
}
TEST(a_removal_around_a_save_around_a_removal) {
    source_make();
    three(REMOVE_A, SAVE_C, REMOVE_B, 4);
    three(PRUNE, SAVE_C, REMOVE_B, 6);
    three(OVERWRITE_A, SAVE_C, REMOVE_B, 6);
    three(SWEEP_ALL, SAVE_C, REMOVE_B, 6);
    three(REMOVE_A, SYNC_C, REMOVE_B, 6);
    dcp_storage_close(sync_source);
}

/* ---- acts that take turns -------------------------------------------------------------------------------------------
 * Each act in a thread of its own, but only one at a time goes on: the schedule says who, and for how many calls. */
#if !DCP_NO_THREADS
enum { ACTORS = 3, TURNS = 40 };
typedef struct stage {
    dcpi_mutex lock; dcpi_cond changed;
    int actors, turn; int64_t left;                     /* whose turn it is, and for how many calls more */
    int order[TURNS]; int64_t calls[TURNS]; int turns, at;  /* the schedule; after it, one after the other to the end */
    int ended[ACTORS]; int64_t made[ACTORS];
} stage;
typedef struct actor {
    stage *on;
    int number;
    act what;
    fault_storage f;
    dcpi_thread thread;
    dcp_status status;
    dcp_error err;
} actor;

static void stage_next(stage *s) {                      /* under the lock */
    int k;
    while (s->at < s->turns && s->ended[s->order[s->at]]) s->at++;
    if (s->at < s->turns) {
        s->turn = s->order[s->at];
        s->left = s->calls[s->at++];
    } else {
        for (k = 0; k < s->actors - 1 && s->ended[k];) k++;
        s->turn = k;
        s->left = INT64_MAX;
    }
    dcpi_cond_wake_all(&s->changed);
}
static void stage_wait(stage *s, int number) {
    dcpi_mutex_lock(&s->lock);
    while (s->turn != number) dcpi_cond_wait_ms(&s->changed, &s->lock, 1000);
    dcpi_mutex_unlock(&s->lock);
}
static void actor_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    /* before each call */
    actor *a = (actor *)user;
    stage *s = a->on;
    (void)kind; (void)key; (void)call;
    if (is_done) return;
    dcpi_mutex_lock(&s->lock);
    s->made[a->number]++;
    if (s->left-- <= 0) stage_next(s);
    dcpi_mutex_unlock(&s->lock);
    stage_wait(s, a->number);
}
static void actor_main(void *user) {
    actor *a = (actor *)user;
    stage_wait(a->on, a->number);
    a->status = act_run(a->what, &a->f.storage, &a->err);
    dcpi_mutex_lock(&a->on->lock);
    a->on->ended[a->number] = 1;
    stage_next(a->on);
    dcpi_mutex_unlock(&a->on->lock);
}
static void perform(stage *s, actor *actors, int count, dcp_storage *storage) {
    int k, has_ruthless = 0;
    s->actors = count;
    s->at = 0;
    memset(s->ended, 0, sizeof s->ended);
    memset(s->made, 0, sizeof s->made);
    CHECK_INT(dcpi_mutex_init(&s->lock), 0);
    CHECK_INT(dcpi_cond_init(&s->changed), 0);
    s->turn = -1;
    the_timeout_ms = 2;                                 /* who is not on turn may have the lock */
    for (k = 0; k < count; k++) {
        actors[k].on = s;
        actors[k].number = k;
        fault_open(&actors[k].f, storage);
        actors[k].f.hook = actor_hook;
        actors[k].f.user = &actors[k];
        CHECK_INT(dcpi_thread_start(&actors[k].thread, actor_main, &actors[k]), 0);
    }
    dcpi_mutex_lock(&s->lock);
    stage_next(s);
    dcpi_mutex_unlock(&s->lock);
    for (k = 0; k < count; k++) dcpi_thread_join(&actors[k].thread);
    the_timeout_ms = 0;
    for (k = 0; k < count; k++) fault_close(&actors[k].f);
    dcpi_cond_destroy(&s->changed);
    dcpi_mutex_destroy(&s->lock);
    for (k = 0; k < count; k++) has_ruthless |= is_ruthless(actors[k].what);
    for (k = 0; k < count; k++) {
        if (actors[k].status == DCP_E_UNKNOWN && has_ruthless) continue;   /* as in judge: a temporary file was swept */
        if (has_ruthless && is_swept(actors[k].status, &actors[k].err)) continue;
        if (!is_clean(actors[k].status)) CHECK_OK_MESSAGE(actors[k].status, actors[k].err.message);
    }
    (void)check_all_load(storage);
}
/* A makes n calls, B makes m, then A ends, then B does. */
static void take_turns(act first, act second, int one_in) {
    static stage s;
    static actor actors[2];
    dcp_storage *storage = in_memory();
    int64_t step = step_of(one_in), n, m, last_n = step, last_m, rounds = 0;
    for (n = 1 + (int64_t)test_random_below((size_t)step); n <= last_n; n += step) {
        for (m = 1 + (int64_t)test_random_below((size_t)step), last_m = m; m <= last_m; m += step, rounds++) {
            memset(&s, 0, sizeof s);
            memset(actors, 0, sizeof actors);
            scene_set(storage);
            actors[0].what = first;
            actors[1].what = second;
            s.turns = 3;
            s.order[1] = 1;
            s.calls[0] = n;
            s.calls[1] = m;
            s.calls[2] = INT64_MAX;
            doing("%s makes %d calls, %s %d", act_names[first], (int)n, act_names[second], (int)m);
            perform(&s, actors, 2, storage);
            if (first == second) CHECK_INT((actors[0].status == DCP_OK) + (actors[1].status == DCP_OK), 1);
            if (first == SAVE_C && second == SAVE_D) CHECK(actors[0].status == DCP_OK && actors[1].status == DCP_OK);
            if (s.made[0] > last_n) last_n = s.made[0];
            if (s.made[1] > last_m) last_m = s.made[1];
        }
    }
    check_clean_after_sweep(storage);
    dcp_storage_close(storage);
    done_doing();
    printf("# %s and %s: %d rounds\n", act_names[first], act_names[second], (int)rounds);
}
TEST(two_savers_of_the_same_next_version_at_each_two_of_their_calls) {
    source_make();
    take_turns(SAVE_C, SAVE_D, 5);                      /* both want the versions after those of "b" */
    take_turns(SAVE_C, SAVE_C, 5);
    take_turns(SAVE_C, OVERWRITE_B, 6);
    take_turns(SAVE_C, SYNC_C, 6);
    take_turns(SYNC_B, SYNC_C, 6);
    dcp_storage_close(sync_source);
}
TEST(three_of_all_acts_in_random_turns) {
    static stage s;
    static actor actors[ACTORS];
    dcp_storage *storage = on_disk();
    int round, k, rounds = test_is_whole() ? 20000 : test_times(600);
    source_make();
    for (round = 0; round < rounds; round++) {
        memset(&s, 0, sizeof s);
        memset(actors, 0, sizeof actors);
        scene_set(storage);
        for (k = 0; k < ACTORS; k++) actors[k].what = k == 0 ? SAVE_C : (act)test_random_below(ACTS);
        /* it breaks the lock of whoever removes */
        if (is_ruthless(actors[1].what) || is_ruthless(actors[2].what)) actors[1].what = SAVE_D;
        s.turns = 2 + (int)test_random_below(TURNS - 2);
        for (k = 0; k < s.turns; k++) {
            s.order[k] = (int)test_random_below(ACTORS);
            s.calls[k] = (int64_t)test_random_below(25);
        }
        doing("round %d: save c, %s, %s", round, act_names[actors[1].what], act_names[actors[2].what]);
        perform(&s, actors, ACTORS, storage);
        if (round % 10 == 0) check_clean_after_sweep(storage);
    }
    dcp_storage_close(sync_source);
    dcp_storage_close(storage);
    done_doing();
}
#endif

/* ---- storages and memory that fail, cancels ---------------------------------------------------------------------- */
typedef struct fault_way { const char *name; int sys; fault_how how; int64_t times; } fault_way;
static const fault_way ways[] = {
    { "EIO once", EIO, FAULT_BEFORE, 1 }, { "EIO once, after doing it", EIO, FAULT_AFTER, 1 },
        { "EIO for ever", EIO, FAULT_BEFORE, INT64_MAX },
    { "ENOSPC once", ENOSPC, FAULT_BEFORE, 1 }, { "ENOSPC, after doing it", ENOSPC, FAULT_AFTER, 1 },
    { "EIO once, and litter", EIO, FAULT_LITTERS, 1 }
};
/* What the act leaves is all that it wanted, or what was there before; what lies about goes with a sweep. */
static void judge_alone(dcp_storage *storage, act what, dcp_status status, const files *before, int is_tidy) {
    static files now;
    if (status == DCP_OK && what == SAVE_C) CHECK_INT(generation_at(storage, "c"), 3);
    if (status == DCP_OK && what == OVERWRITE_B) CHECK_INT(generation_at(storage, "b"), 4);
    if (status == DCP_OK && what == SYNC_B) CHECK_INT(generation_at(storage, "b"), 6);
    (void)check_all_load(storage);
    if (is_tidy) {
        list_all(storage, &now);
        check_same_files(&now, before);
    }
    check_clean_after_sweep(storage);
    if (status == DCP_OK || status == DCP_E_UNKNOWN || what == PRUNE || what == REMOVE_B) return;
    list_all(storage, &now);
    check_same_files(&now, before);
    CHECK_INT(generation_at(storage, "a"), 1);
    CHECK_INT(generation_at(storage, "b"), 2);
}
static int is_save(act what) { return what == SAVE_C || what == OVERWRITE_B; }

static int64_t storage_fails_in(dcp_storage *storage, act what, const fault_way *way, fault_kind kind) {
    static files before;
    fault_storage f;
    int64_t n;
    int fails = 1;
    for (n = 1; fails; n++) {
        dcp_error err;
        dcp_status status;
        doing("%s: %s, %s at %s %d", the_form->name, act_names[what], way->name, fault_kind_name(kind), (int)n);
        scene_set(storage);
        list_all(storage, &before);
        fault_open(&f, storage);
        fault_set(&f, kind, n, way->times, way->sys);
        f.how = way->how;
        status = act_run(what, &f.storage, &err);
        fails = f.failed > 0;
        fault_close(&f);
        if (!fails) CHECK_OK_MESSAGE(status, err.message);
        CHECK(status == DCP_OK || status == DCP_E_UNKNOWN || status == (way->sys == ENOSPC ? DCP_E_SPACE : DCP_E_IO));
        judge_alone(storage, what, status, &before,
                    is_save(what) && status != DCP_OK && status != DCP_E_UNKNOWN && way->times == 1 &&
                    way->how == FAULT_BEFORE);
    }
    done_doing();
    return n;
}
static const act alone[] = { SAVE_C, OVERWRITE_B, SYNC_B, PRUNE, REMOVE_B, SWEEP_ALL };
TEST(storage_fails_at_each_call) {
    /* what can run out of space */
    static const fault_kind writing[] = { FAULT_BEGIN, FAULT_WRITE, FAULT_COMMIT, FAULT_SYNC_DIRECTORY };
    dcp_storage *storage = in_memory();
    size_t i, k, way;
    int form_index;
    for (form_index = 0; form_index < FORMS; form_index++) {
        the_form = &forms[form_index];
        source_make();
        for (way = 0; way < DCPI_COUNT(ways); way++)
            for (i = 0; i < DCPI_COUNT(alone); i++) {
                if (form_index > 0 && !is_save(alone[i])) continue;
                /* each way in some form besides the first */
                if (form_index > 0 && (way + (size_t)form_index) % 2 && !test_is_whole()) continue;
                if (ways[way].sys != ENOSPC) CHECK(storage_fails_in(storage, alone[i], &ways[way], FAULT_ANY) > 20);
                for (k = 0; k < DCPI_COUNT(writing) && ways[way].sys == ENOSPC; k++)
                    (void)storage_fails_in(storage, alone[i], &ways[way], writing[k]);
            }
        dcp_storage_close(sync_source);
    }
    the_form = &forms[0];
    dcp_storage_close(storage);
}
TEST(memory_fails_at_each_request) {
    static files before;
    dcp_storage *storage = on_disk();
    size_t i;
    int64_t live, n, step = step_of(3);
    int form_index;
    for (form_index = 0; form_index < 2; form_index++) {
        the_form = &forms[form_index];
        source_make();
        for (i = 0; i < DCPI_COUNT(alone); i++) {
            int tripped = 1;
            for (n = 1 + (int64_t)test_random_below((size_t)step); tripped; n += step) {
                dcp_error err;
                dcp_status status;
                doing("%s: %s, request %d", the_form->name, act_names[alone[i]], (int)n);
                scene_set(storage);
                list_all(storage, &before);
                live = hungry_live();
                hungry_fail(n, 0);
                status = act_run(alone[i], storage, &err);
                tripped = hungry.tripped;
                hungry_fail(0, 0);
                CHECK_INT(hungry_live(), live);
                if (!tripped) CHECK_OK_MESSAGE(status, err.message);
                CHECK(status == DCP_OK || status == DCP_E_MEMORY);
                judge_alone(storage, alone[i], status, &before, is_save(alone[i]) && status != DCP_OK);
            }
        }
        dcp_storage_close(sync_source);
    }
    done_doing();
    the_form = &forms[0];
    dcp_storage_close(storage);
}
static void cancel_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    int64_t *left = (int64_t *)user;
    (void)kind; (void)key; (void)call;
    if (!is_done && --*left == 0) dcp_cancel_request(the_cancel);
}
/* Just before the commit the files are looked at: one is gone, or of another size. */
TEST(a_file_that_is_not_as_it_was_written_is_not_committed) {
    static const char *const texts[] = { NULL, "short" }, *const words[] = { "dense/", "has 5 bytes, not the" };
    size_t i;
    for (i = 0; i < DCPI_COUNT(texts); i++) {
        fault_spoiling s = { NULL, "dense/", NULL };
        fault_storage f;
        dcp_error err;
        s.storage = in_memory();
        s.text = texts[i];
        fault_open(&f, s.storage);
        f.hook = fault_spoil;
        f.user = &s;
        CHECK_INT(save(&f.storage, "fresh", 1, 0, &err), DCP_E_INCOMPLETE);
        CHECK_INT(err.rank, 0);
        CHECK_STR(strstr(err.message, words[i]) ? "" : err.message, "");
        CHECK_INT(generation_at(s.storage, "fresh"), NONE);
        fault_close(&f);
        dcp_storage_close(s.storage);
    }
}
TEST(cancelled_at_each_call) {
    static files before;
    dcp_storage *storage = in_memory();
    size_t i;
    source_make();
    for (i = 0; i < DCPI_COUNT(alone); i++) {
        int64_t n, left = 0;
        for (n = 1; left <= 0; n++) {
            dcp_cancel cancel = DCP_ZERO;
            dcp_error err;
            dcp_status status;
            fault_storage f;
            doing("%s, cancelled at call %d", act_names[alone[i]], (int)n);
            scene_set(storage);
            list_all(storage, &before);
            fault_open(&f, storage);
            f.hook = cancel_hook;
            f.user = &left;
            left = n;
            the_cancel = &cancel;
            status = act_run(alone[i], &f.storage, &err);
            the_cancel = NULL;
            fault_close(&f);
            CHECK(status == DCP_OK || status == DCP_E_CANCELLED);
            judge_alone(storage, alone[i], status, &before, is_save(alone[i]) && status != DCP_OK);
        }
    }
    done_doing();
    dcp_storage_close(sync_source);
    dcp_storage_close(storage);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */
static void put(dcp_storage *storage, const char *key, const void *data, size_t size) {
    CHECK_OK(dcp_storage_write_all(storage, key, data, size, NULL, NULL));
}

static void damage_file(dcp_storage *storage, const char *path, const char *key) {
    void *data;
    uint8_t *bytes;
    size_t size, i;
    int generation, bit;
    CHECK_OK(dcp_storage_read_all(storage, key, &data, &size, NULL, NULL));
    bytes = (uint8_t *)data;
    for (i = 0; i < size; i++) {
        for (bit = is_commit(key) ? (int)test_random_below(8) : 0; bit < 8; bit += is_commit(key) ? 8 : 1) {
            doing("%s: bit %d of byte %d of %s", the_form->name, bit, (int)i, key);
            bytes[i] = (uint8_t)(bytes[i] ^ 1 << bit);
            put(storage, key, bytes, size);
            CHECK(load(storage, path, &generation, NULL) != DCP_OK);
            bytes[i] = (uint8_t)(bytes[i] ^ 1 << bit);
        }
        if (is_commit(key) && i % 8 != 0) continue;
        doing("%s: the first %d bytes of %s", the_form->name, (int)i, key);
        put(storage, key, bytes, i);
        CHECK(load(storage, path, &generation, NULL) != DCP_OK);
    }
    put(storage, key, bytes, size);
    CHECK_INT(generation_at(storage, path), 2);
    dcp_free(data);
    done_doing();
}
TEST(every_bit_and_every_length_of_every_file) {
    static files f;
    int form_index, i;
    for (form_index = 0; form_index < FORMS; form_index++) {
        dcp_storage *storage = in_memory();
        the_form = &forms[form_index];
        scene_set(storage);
        CHECK_OK(remove_at(storage, "a", NULL));
        list_all(storage, &f);
        CHECK_INT(f.count, 1 + PIECES);
        for (i = 0; i < f.count; i++) damage_file(storage, "b", f.key[i]);
        dcp_storage_close(storage);
    }
    the_form = &forms[0];
}

/* ---- readers beside a writer ------------------------------------------------------------------------------------- */
#if !DCP_NO_THREADS
typedef struct reader {
    dcp_storage *storage;
    dcpi_thread thread;
    volatile int stop;
    int loads, mixtures;
    dcp_error err;
    dcp_status status;
} reader;
static void read_often(void *user) {
    reader *r = (reader *)user;
    while (!dcpi_flag_get(&r->stop)) {
        dcp_load_desc desc = DCP_ZERO;
        dcp_tensor whole[TENSORS];
        state s;
        int t, generation;
        dcp_status status;
        state_make(&s, 77);
        for (t = 0; t < TENSORS; t++) {
            const int64_t shape[1] = { t == EMPTY ? 0 : LENGTH };
            whole[t] = dcp_array(names[t], DCP_UINT8, s.bytes[t], 1, shape);
        }
        desc.path = "b";
        desc.tensors = whole;
        desc.tensor_count = TENSORS;
        io_make(&desc.io, r->storage);
        status = dcp_load(&desc, &r->err);
        if (status == DCP_E_INCOMPLETE || status == DCP_E_CHECKSUM) continue;   /* replaced again and again */
        if (status) r->status = status;
        for (generation = 0; generation < 256 && !state_is(&s, generation);) generation++;
        r->mixtures += generation == 256;
        r->loads++;
    }
}
TEST(readers_never_see_a_mixture) {
    reader r;
    dcp_error err;
    dcp_status status = DCP_OK;
    int i, times = test_times(400);
    memset(&r, 0, sizeof r);
    r.storage = in_memory();
    scene_set(r.storage);
    CHECK_INT(dcpi_thread_start(&r.thread, read_often, &r), 0);
    for (i = 0; i < times && !status; i++) status = save(r.storage, "b", 3 + i % 200, 1, &err);
    dcpi_flag_set(&r.stop, 1);
    dcpi_thread_join(&r.thread);
    CHECK_OK_MESSAGE(status, err.message);
    CHECK_OK_MESSAGE(r.status, r.err.message);
    CHECK_INT(r.mixtures, 0);
    CHECK(r.loads > 0);
    check_clean_after_sweep(r.storage);
    dcp_storage_close(r.storage);
}

/* ---- many ranks: each save changes what some of them have -------------------------------------------------------- */
enum { RANKS = 4, SAVES = 5 };
typedef struct rank_of_job { dcp_storage *storage; dcp_coordinator *coordinator; dcpi_thread thread; int rank, ranks,
                             step, is_load; dcp_status status;
                             dcp_error err; dcp_save_report report; int wrong; } rank_of_job;
/* A replicated, a private and a sharded tensor. The replicated one changes with every second step, a rank's own ones
 * when the step is its turn. */
static int changed_at(int what, int rank, int step) {
    if (what == 0) return step - step % 2;
    for (; step > 0; step--) if (step % RANKS == rank) return step;
    return 0;
}
static void rank_fill(uint8_t bytes[3][LENGTH], int rank, int step) {
    int what, i;
    for (what = 0; what < 3; what++)
        for (i = 0; i < LENGTH; i++)
            bytes[what][i] = (uint8_t)(changed_at(what, rank, step) * 29 + (what ? rank * 53 : 0) + what * 7 + i);
}
static void rank_run(void *user) {
    rank_of_job *r = (rank_of_job *)user;
    const int64_t shape[1] = { LENGTH }, whole[1] = { LENGTH * r->ranks }, offset[1] = { LENGTH * r->rank };
    uint8_t bytes[3][LENGTH], want[3][LENGTH];
    dcp_tensor list[3];
    dcp_io io = DCP_ZERO;
    char path[8];
    int what;
    rank_fill(want, r->rank, r->step);
    memset(bytes, 0, sizeof bytes);
    if (!r->is_load) memcpy(bytes, want, sizeof bytes);
    for (what = 0; what < 3; what++)
        list[what] = dcp_array(what == 0 ? "shared" : what == 1 ? "own" : "cut", DCP_UINT8, bytes[what], 1, shape);
    list[0].placement = DCP_PLACE_REPLICATED;
    list[1].placement = DCP_PLACE_PRIVATE;
    dcp_piece(&list[2], whole, offset);
    io_make(&io, r->storage);
    io.coordinator = r->coordinator;
    (void)snprintf(path, sizeof path, "s%d", r->step);
    if (r->is_load) {
        dcp_load_desc desc = DCP_ZERO;
        desc.path = path;
        desc.tensors = list;
        desc.tensor_count = 3;
        desc.verify = DCP_VERIFY_ALL;
        desc.io = io;
        r->status = dcp_load(&desc, &r->err);
        r->wrong = memcmp(bytes, want, sizeof want) != 0;
    } else {
        dcp_save_desc desc = DCP_ZERO;
        desc.path = path;
        desc.tensors = list;
        desc.tensor_count = 3;
        desc.layout = DCP_LAYOUT_MANIFEST;
        desc.yaml = the_form->yaml;
        desc.report = &r->report;
        desc.io = io;
        r->status = dcp_save(&desc, &r->err);
    }
}
static void ranks_run(rank_of_job *jobs, dcp_storage *storage, int ranks, int step, int is_load) {
    dcp_coordinator *coordinators[RANKS];
    int r;
    CHECK_OK(dcp_thread_group_open(ranks, coordinators, NULL));
    memset(jobs, 0, RANKS * sizeof *jobs);
    for (r = 0; r < ranks; r++) {
        jobs[r].storage = storage;
        jobs[r].coordinator = coordinators[r];
        jobs[r].rank = r;
        jobs[r].ranks = ranks;
        jobs[r].step = step;
        jobs[r].is_load = is_load;
        CHECK_INT(dcpi_thread_start(&jobs[r].thread, rank_run, &jobs[r]), 0);
    }
    for (r = 0; r < ranks; r++) dcpi_thread_join(&jobs[r].thread);
    for (r = 0; r < ranks; r++) dcp_coordinator_close(coordinators[r]);
    for (r = 0; r < ranks; r++) CHECK_OK_MESSAGE(jobs[r].status, jobs[r].err.message);
    for (r = 0; r < ranks; r++) CHECK_INT(jobs[r].wrong, 0);
}
TEST(ranks_keep_what_they_did_not_change) {
    static rank_of_job jobs[RANKS];
    int ranks, step, r, what, form_index;
    for (form_index = 0; form_index < 2; form_index++)
        for (ranks = 1; ranks <= RANKS; ranks++) {
            dcp_storage *storage = in_memory();
            the_form = &forms[form_index];
            for (step = 0; step < SAVES; step++) {
                int64_t kept = 0, reused = 0;
                doing("%s: %d ranks, step %d", the_form->name, ranks, step);
                ranks_run(jobs, storage, ranks, step, 0);
                for (r = 0; r < ranks; r++) reused += jobs[r].report.bytes_reused;
                for (r = 0; r < ranks && step > 0; r++)
                    for (what = r ? 1 : 0; what < 3; what++)
                        kept += changed_at(what, r, step) == changed_at(what, r, step - 1) ? LENGTH : 0;
                CHECK_INT(reused, kept);
            }
            for (step = 0; step < SAVES; step++) ranks_run(jobs, storage, ranks, step, 1);
            CHECK_OK(prune(storage, NULL));
            ranks_run(jobs, storage, ranks, SAVES - 1, 1);
            dcp_storage_close(storage);
        }
    the_form = &forms[0];
    done_doing();
}
#endif

int main(void) {
    RUN(each_act_at_each_call_of_each_other_one);
    RUN(a_sync_onto_itself_brings_nothing_back);
    RUN(a_sync_does_not_count_on_what_a_save_may_take_back);
    RUN(the_same_with_signed_yaml);
    RUN(a_removal_around_a_save_around_a_removal);
#if !DCP_NO_THREADS
    RUN(two_savers_of_the_same_next_version_at_each_two_of_their_calls);
    RUN(three_of_all_acts_in_random_turns);
    RUN(readers_never_see_a_mixture);
    RUN(ranks_keep_what_they_did_not_change);
#endif
    RUN(storage_fails_at_each_call);
    RUN(memory_fails_at_each_request);
    RUN(a_file_that_is_not_as_it_was_written_is_not_committed);
    RUN(cancelled_at_each_call);
    RUN(every_bit_and_every_length_of_every_file);
    return test_finish();
}
