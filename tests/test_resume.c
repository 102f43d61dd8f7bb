/* test_resume.c - the series of checkpoints of a run: a save that removes old ones (keep_last, keep_every), and a load
 * of the newest one that verifies. */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "place.h"
#include "rank_threads.h"
#include "watching_storage.h"

enum { SIZE = 1000, RANKS = 3 };

static char log_text[8000];                             /* warnings */
static void hear(void *user, dcp_log_level level, const char *message) {
    size_t used = strlen(log_text);
    (void)user;
    if (level <= DCP_LOG_WARNING) (void)snprintf(log_text + used, sizeof log_text - used, "%s\n", message);
}

/* ---- saves ------------------------------------------------------------------------------------------------------- */
static uint8_t state[SIZE];
static dcp_tensor the_state(int64_t step) {
    memset(state, (int)step, sizeof state);
    return dcp_bytes("state", state, sizeof state);
}
static dcp_save_desc saving(const char *name, int64_t step, const dcp_tensor *tensor) {
    dcp_save_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.tensors = tensor;
    desc.tensor_count = 1;
    desc.step = step;
    desc.io.storage = store;
    desc.io.log = hear;
    log_text[0] = '\0';
    return desc;
}
static dcp_save_report keep(const char *name, int64_t step, int last, int64_t every) {
    dcp_tensor tensor = the_state(step);
    dcp_save_desc desc = saving(name, step, &tensor);
    dcp_save_report report;
    desc.keep_last = last;
    desc.keep_every = every;
    desc.overwrite = 1;
    desc.report = &report;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    return report;
}
static void save(const char *name, int64_t step) { (void)keep(name, step, 0, 0); }
static dcp_status try_load(const char *name) {
    dcp_tensor tensor = the_state(0);
    dcp_load_desc desc = DCP_ZERO;
    desc.path = at(name);
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.io.storage = store;
    return dcp_load(&desc, &err);
}
/* The names of what is listed, without what follows the first dot, oldest first. */
static const char *there(void) {
    static char text[600];
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *e;
    size_t count;
    text[0] = '\0';
    desc.directory = here();
    desc.io.storage = store;
    CHECK_OK_MESSAGE(dcp_list(&desc, &e, &count, &err), err.message);
    while (count-- > 0) {
        const char *name = strrchr(e[count].path, '/') ? strrchr(e[count].path, '/') + 1 : e[count].path;
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", text[0] ? " " : "",
                       (int)strcspn(name, "."), name);
    }
    dcp_free(e);
    return text;
}

/* ==== step: one truth ============================================================================================= */
static int64_t step_of(const char *name) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    const dcp_training *training;
    int64_t step;
    desc.path = at(name);
    desc.io.storage = store;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    training = dcp_checkpoint_training(c);
    step = training ? training->step : -1;
    dcp_close(c);
    return step;
}
static void step_body(void) {
    const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    size_t i;
    for (i = 0; i < 3; i++) {
        dcp_tensor tensor = the_state(1);
        dcp_save_desc desc = saving("a", 7, &tensor);
        dcp_training training = DCP_ZERO;
        desc.layout = layouts[i];
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK_INT(step_of("a"), 7);                     /* without training */
        desc.path = at("b");
        desc.training = &training;
        training.epoch = 3;
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK_INT(step_of("b"), 7);                     /* training says nothing of it */
        desc.path = at("c");
        training.step = 7;
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK_INT(step_of("c"), 7);                     /* both say the same */
        desc.path = at("d");
        desc.step = 0;
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK_INT(step_of("d"), 7);                     /* training alone */
        desc.path = at("e");
        desc.training = NULL;
        CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
        CHECK_INT(step_of("e"), layouts[i] == DCP_LAYOUT_MANIFEST ? 0 : -1);          /* nobody */
        desc.training = &training;
        desc.step = 8;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "step and training.step differ");
        desc.step = -1;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "step must not be negative");
        desc.step = 7;
        desc.keep_last = -1;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "keep_last");
        desc.keep_last = 1;
        desc.keep_every = -1;
        CHECK_FAILS(dcp_save(&desc, &err), DCP_E_INVALID, "keep_every");
        CHECK_STR(there(), "a b c d e");
        done();
        use_memory();
    }
}
TEST(a_step_is_said_once) {
    use_memory();
    step_body();
    done();
}

/* ==== retention =================================================================================================== */
static void retention_body(void) {
    dcp_save_report report;
    int64_t bytes;
    char name[20];
    int i;
    for (i = 1; i <= 3; i++) {
        (void)snprintf(name, sizeof name, "step_%d", i);
        report = keep(name, i, 3, 0);
        CHECK_INT(report.checkpoints_removed, 0);
    }
    bytes = size_of("step_1.metadata.json") + size_of("step_1_shard_0.bin");
    report = keep("step_4", 4, 3, 0);
    CHECK_STR(there(), "step_2 step_3 step_4");
    CHECK(!is_there("step_1_shard_0.bin"));
    CHECK_INT(report.checkpoints_removed, 1);
    CHECK_INT(report.bytes_removed, bytes);
    CHECK(report.warning_count == 0 && log_text[0] == '\0');
    (void)keep("step_5", 5, 0, 0);                      /* 0: all stay */
    CHECK_STR(there(), "step_2 step_3 step_4 step_5");
    report = keep("step_6", 6, 1, 2);
    CHECK_STR(there(), "step_2 step_4 step_6");
    CHECK_INT(report.checkpoints_removed, 2);
    (void)keep("step_6", 6, 1, 0);                      /* and an overwrite */
    CHECK_STR(there(), "step_6");
}
TEST(a_save_keeps_the_newest_and_every_so_many) { on_each(retention_body); }

static void series_body(void) {
    static const char *const others[] = { "best", "step", "step_x", "my_step_1", "st", "step_1_old", "7", "step_0x1" };
    char name[20];
    int i;
    for (i = 0; i < 8; i++) save(others[i], 1000 + i);
    save("other/step_1", 1);
    for (i = 8; i <= 12; i++) {                         /* one digit and two */
        (void)snprintf(name, sizeof name, "step_%d", i);
        (void)keep(name, i, 2, 0);
    }
    CHECK(is_there("other/step_1.metadata.json"));
    CHECK_STR(there(), "best step step_x my_step_1 st step_1_old 7 step_0x1 step_11 step_12");
    (void)keep("best", 13, 1, 0);                       /* a series of one */
    (void)keep("8", 14, 1, 0);                          /* only digits */
    CHECK_STR(there(), "step step_x my_step_1 st step_1_old step_0x1 step_11 step_12 best 8");
}
TEST(retention_keeps_to_its_series) { on_each(series_body); }

TEST(retention_in_every_layout) {
    const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    int i, l;
    for (l = 0; l < 3; l++) {
        use_local();
        for (i = 1; i <= 5; i++) {
            static uint8_t same[SIZE];
            dcp_tensor tensors[2];
            dcp_save_desc desc;
            dcp_save_report report;
            char name[20];
            (void)snprintf(name, sizeof name, "step_%d", i);
            tensors[0] = the_state(i);
            tensors[1] = dcp_bytes("same", same, sizeof same);          /* one file for all manifests */
            desc = saving(name, i, tensors);
            desc.tensor_count = 2;
            desc.layout = layouts[l];
            desc.keep_last = 2;
            desc.report = &report;
            CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
            CHECK_INT(report.warning_count, 0);
        }
        CHECK_STR(there(), "step_4 step_5");
        CHECK_OK_MESSAGE(try_load("step_4"), err.message);
        CHECK_OK_MESSAGE(try_load("step_5"), err.message);
        if (layouts[l] == DCP_LAYOUT_MANIFEST) CHECK_INT(count_files("dense"), 3);      /* same, and two states */
        CHECK_INT(count_files(""), layouts[l] == DCP_LAYOUT_SHARDED ? 4 : 2);
        done();
    }
}

/* What is kept must load: a damaged one does not count, and is left alone. */
static void damaged_body(void) {
    save("step_1", 1);
    save("step_2", 2);
    save("step_3", 3);
    flip("step_3_shard_0.bin", 500);
    dcpi_life.proven.count = 0;                              /* as in a new process */
    CHECK_INT(keep("step_4", 4, 2, 0).checkpoints_removed, 1);
    CHECK_STR(there(), "step_2 step_3 step_4");
    CHECK(strstr(log_text, "step_3.metadata.json does not count as kept"));
    CHECK_OK_MESSAGE(try_load("step_2"), err.message);
    flip("step_4.metadata.json", 300);
    (void)keep("step_5", 5, 2, 0);                      /* nor one whose document is damaged */
    CHECK_STR(there(), "step_4 step_2 step_3 step_5");
}
TEST(retention_counts_only_what_verifies) { on_each(damaged_body); }

/* The one that was loaded is what the run goes back to, until keep_last newer ones are there. */
static void loaded_body(void) {
    save("step_1", 1);
    save("step_2", 2);
    save("step_3", 3);
    CHECK_OK_MESSAGE(try_load("step_1"), err.message);  /* the others are of a run that went wrong */
    (void)keep("step_4", 4, 2, 0);
    CHECK_STR(there(), "step_1 step_3 step_4");
    (void)keep("step_5", 5, 2, 0);
    CHECK_STR(there(), "step_4 step_5");
    CHECK_OK_MESSAGE(try_load("step_5"), err.message);
    (void)keep("step_6", 6, 1, 0);                      /* one is enough, if one is to be kept */
    CHECK_STR(there(), "step_6");
    CHECK_INT(step_of("step_6"), 6);                    /* to open it is to use it */
    save("step_7", 7);
    (void)keep("step_8", 8, 3, 0);
    (void)keep("step_9", 9, 3, 0);
    CHECK_STR(there(), "step_7 step_8 step_9");
}
TEST(retention_spares_the_one_that_was_loaded) { on_each(loaded_body); }

static void stepless_body(void) {
    dcp_prune_desc prune = DCP_ZERO;
    dcp_report warned;
    dcp_save_report report;
    save("step_1", 0);
    save("step_2", 0);
    save("step_3", 3);
    report = keep("step_4", 4, 1, 1000);
    CHECK_STR(there(), "step_1 step_2 step_4");         /* nobody knows whether they are multiples */
    CHECK(report.warning_count == 1 && strstr(report.warning, "without a step, and they stay: ") &&
          strstr(report.warning, "step_2.metadata.json and others;") &&
          strstr(report.warning, "dcp_save_desc.step"));
    prune.directory = here();
    prune.keep_last = 1;
    prune.keep_every = 10;
    prune.io.storage = store;
    prune.report = &warned;
    prune.dry_run = 1;
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK(warned.warning_count == 1 && strstr(warned.warning, "without a step, and they go: "));
    prune.keep_every = 0;
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK_INT(warned.warning_count, 0);                 /* it was not asked for */
    CHECK_STR(there(), "step_1 step_2 step_4");
}
TEST(keep_every_warns_of_checkpoints_without_a_step) { on_each(stepless_body); }

static void prune_series_body(void) {
    dcp_prune_desc prune = DCP_ZERO;
    save("best", 1);
    save("step_1", 1);
    save("step_2", 2);
    save("step_3", 3);
    prune.directory = here();
    prune.series = "step_";
    prune.io.storage = store;
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK_STR(there(), "best step_3");
    save("step_4", 4);
    prune.series = "step_17";
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK_STR(there(), "best step_4");
}
TEST(prune_of_one_series) { on_each(prune_series_body); }

/* What goes wrong there is only warned of; nothing goes before the commit, or because of a save that failed. */
static dcp_status refuse_remove(void *c, const char *path, const char *token, dcp_error *error) {
    if (strstr(path, "metadata.json") && !strstr(path, ".tmp")) return dcpi_fail(error, DCP_E_IO, "the test says no");
    return eye_remove(c, path, token, error);
}
static void see_all_before_the_commit(const char *path) {
    if (strcmp(path, "step_6.metadata.json") == 0)
        CHECK(is_there("step_1.metadata.json") && is_there("step_1_shard_0.bin") && is_there("step_4_shard_0.bin"));
}
TEST(retention_comes_after_the_commit) {
    dcp_tensor tensor;
    dcp_save_desc desc;
    dcp_save_report report;
    char name[20];
    int i;
    use_local();
    use_watch();
    for (i = 1; i <= 4; i++) {
        (void)snprintf(name, sizeof name, "step_%d", i);
        save(name, i);
    }
    tensor = the_state(4);
    desc = saving("step_4", 4, &tensor);
    desc.keep_last = 1;
    CHECK_FAILS(dcp_save(&desc, &err), DCP_E_EXISTS, "step_4");
    CHECK_STR(there(), "step_1 step_2 step_3 step_4");
    store->remove = refuse_remove;
    report = keep("step_5", 5, 1, 0);
    CHECK_STR(there(), "step_1 step_2 step_3 step_4 step_5");
    CHECK(report.warning_count >= 1 && strstr(report.warning, "older checkpoints that should go may still be there") &&
          strstr(report.warning, "the test says no"));
    CHECK_INT(report.checkpoints_removed, 0);
    store->remove = eye_remove;
    eye.on_commit = see_all_before_the_commit;
    (void)keep("step_6", 6, 2, 0);                      /* the next one takes them */
    eye.on_commit = NULL;
    CHECK_STR(there(), "step_5 step_6");
    done();
}

/* A cancel that comes while it verifies ends the removing, not the save. */
static dcp_cancel late;
static void cancel_late(const char *path) { if (strcmp(path, "step_2_shard_0.bin") == 0) dcp_cancel_request(&late); }
TEST(a_cancel_ends_the_removing_not_the_save) {
    dcp_tensor tensor;
    dcp_save_desc desc;
    dcp_save_report report;
    use_local();
    use_watch();
    save("step_1", 1);
    save("step_2", 2);
    dcpi_life.proven.count = 0;
    tensor = the_state(3);
    desc = saving("step_3", 3, &tensor);
    desc.keep_last = 2;
    desc.report = &report;
    desc.io.cancel = &late;
    dcpi_flag_set(&late.requested, 0);
    eye.on_open = cancel_late;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    eye.on_open = NULL;
    CHECK(late.requested);
    CHECK_STR(there(), "step_1 step_2 step_3");
    CHECK(strstr(report.warning, "cancelled"));
    done();
}

/* Where documents are signed, only what the verifier accepts counts, and goes. */
static void signed_body(void) {
    const char *key = "0123456789abcdef0123456789abcdef";
    const dcp_signer signer = dcp_hmac_signer(key, 32, "k");
    int i;
    save("step_1", 1);                                  /* not signed */
    for (i = 2; i <= 6; i++) {
        dcp_tensor tensor = the_state(i);
        char name[20];
        dcp_save_desc desc;
        dcp_verifier verifier = dcp_hmac_verifier(key, 32);
        dcp_saver *saver;
        (void)snprintf(name, sizeof name, "step_%d", i);
        desc = saving(name, i, &tensor);
        desc.signer = &signer;
        desc.verifier = &verifier;
        desc.keep_last = 2;
        CHECK_OK_MESSAGE(dcp_saver_open(NULL, &saver, &err), err.message);
        CHECK_OK_MESSAGE(dcp_save_begin(saver, &desc, &err), err.message);
        memset(&verifier, 0xEE, sizeof verifier);       /* the caller's again */
        memset(&desc, 0xEE, sizeof desc);
        CHECK_OK_MESSAGE(dcp_saver_close(saver, &err), err.message);
        if (i == 4) { copy("step_1.metadata.json", "step_9.metadata.json"); dcpi_life.proven.count = 0; }
    }
    CHECK_STR(there(), "step_1 step_9 step_5 step_6");
}
TEST(retention_where_documents_are_signed) { on_local_and_memory(signed_body); }

/* ---- ranks ------------------------------------------------------------------------------------------------------- */
typedef struct job {
    int ranks; dcp_status status[RANKS]; dcp_error err[RANKS];
    dcp_coordinator *coordinators[RANKS];
    dcp_save_report report[RANKS];
    int64_t step; int last, in_background;
    char path[PLACE_TEXT];
} job;
static void save_on_rank(void *user, int rank) {
    job *j = (job *)user;
    uint8_t rows[2] = {0};
    const int64_t shape[] = { 2 }, whole[] = { 2 * RANKS }, where[] = { 2 * rank };
    dcp_tensor tensor = dcp_array("rows", DCP_UINT8, rows, 1, shape);
    dcp_save_desc desc = DCP_ZERO;
    dcp_saver *saver = NULL;
    rows[0] = rows[1] = (uint8_t)j->step;
    dcp_piece(&tensor, whole, where);
    desc.path = j->path;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.step = j->step;
    desc.keep_last = rank == 0 ? j->last : 0;           /* rank 0's counts */
    desc.report = &j->report[rank];
    desc.io.storage = store;
    desc.io.coordinator = j->coordinators[rank];
    desc.io.timeout_ms = 60000;
    if (!j->in_background) { j->status[rank] = dcp_save(&desc, &j->err[rank]); return; }
    j->status[rank] = dcp_saver_open(NULL, &saver, &j->err[rank]);
    if (!j->status[rank]) j->status[rank] = dcp_save_begin(saver, &desc, &j->err[rank]);
    if (!j->status[rank]) j->status[rank] = dcp_save_wait(saver, -1, &j->err[rank]);
    if (saver) j->report[rank] = *dcp_saver_report(saver);
    if (dcp_saver_close(saver, NULL)) abort();
}
/* in_background 2: driven by polls */
static void ranks_body(int in_background) {
    job j;
    int r;
    memset(&j, 0, sizeof j);
    j.ranks = RANKS;
    j.last = 2;
    j.in_background = in_background;
    CHECK_OK_MESSAGE(dcp_thread_group_open(RANKS, j.coordinators, &err), err.message);
    for (r = 0; r < RANKS && in_background == 2; r++) j.coordinators[r]->thread_safe = 0;
    for (j.step = 1; j.step <= 4; j.step++) {
        char name[20];
        (void)snprintf(name, sizeof name, "step_%d", (int)j.step);
        (void)snprintf(j.path, sizeof j.path, "%s", at(name));
        if (j.step == 4) dcpi_life.proven.count = 0;         /* rank 0 reads what it keeps */
        run_ranks(RANKS, save_on_rank, &j);
        check_all(&j, DCP_OK, "");
        CHECK_INT(j.report[0].checkpoints_removed, j.step > 2 ? 1 : 0);
        CHECK(j.report[1].checkpoints_removed == 0 && j.report[0].warning_count == 0);
    }
    CHECK_STR(there(), "step_3 step_4");
    CHECK_INT(count_files(""), 2 * (1 + RANKS));
    for (r = 0; r < RANKS; r++) dcp_coordinator_close(j.coordinators[r]);
}
TEST(retention_with_several_ranks) {
    int how;
    if (DCP_NO_THREADS) SKIP("no threads");
    for (how = 0; how <= 2; how++) {
        use_memory();
        ranks_body(how);
        done();
        use_local();
        ranks_body(how);
        done();
    }
}

/* ==== dcp_load_latest ============================================================================================= */
static uint8_t extra[SIZE], loaded_state[SIZE];
static int64_t loaded_step;
static dcp_load_latest_report latest_report;
/* state, a scalar, and an optional tensor that only some checkpoints have */
static dcp_tensor *wanted(void) {
    static dcp_tensor tensors[3];
    memset(loaded_state, 0xEE, sizeof loaded_state);
    memset(extra, 0xEE, sizeof extra);
    loaded_step = -7;
    tensors[0] = dcp_bytes("state", loaded_state, sizeof loaded_state);
    tensors[1] = dcp_scalar("step", DCP_INT64, &loaded_step);
    tensors[2] = dcp_bytes("extra", extra, sizeof extra);
    tensors[2].optional = 1;
    return tensors;
}
static dcp_load_latest_desc resuming(void) {
    dcp_load_latest_desc desc = DCP_ZERO;
    desc.directory = here();
    desc.tensors = wanted();
    desc.tensor_count = 3;
    desc.io.storage = store;
    desc.io.log = hear;
    desc.report = &latest_report;
    log_text[0] = '\0';
    return desc;
}
static int is_all(const uint8_t *data, int value) {
    size_t i;
    for (i = 0; i < SIZE; i++) if (data[i] != (uint8_t)value) return 0;
    return 1;
}
static void save_three(const char *name, int64_t step, int has_extra, dcp_layout layout) {
    static uint8_t more[SIZE];
    dcp_tensor tensors[3];
    dcp_save_desc desc;
    memset(more, 0x55, sizeof more);
    tensors[0] = the_state(step);
    tensors[1] = dcp_scalar("step", DCP_INT64, &step);
    tensors[2] = dcp_bytes("extra", more, sizeof more);
    desc = saving(name, step, tensors);
    desc.tensor_count = has_extra ? 3 : 2;
    desc.layout = layout;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
}
static void check_resumed(int64_t step, int extra_is, int64_t skipped) {
    dcp_load_latest_desc desc = resuming();
    char name[40];
    CHECK_OK_MESSAGE(dcp_load_latest(&desc, &err), err.message);
    CHECK(is_all(loaded_state, (int)step) && loaded_step == step);
    CHECK(is_all(extra, extra_is) && (desc.tensors[2].status == DCP_OK) == (extra_is == 0x55));
    (void)snprintf(name, sizeof name, "step_%d.", (int)step);
    CHECK(strstr(latest_report.path, name) && latest_report.step == step);
    CHECK_INT(latest_report.skipped_count, skipped);
}
static const char *file_of(dcp_layout layout, int64_t step) {
    static char text[80];
    (void)snprintf(text, sizeof text, layout == DCP_LAYOUT_SINGLE ? "step_%d.checkpoint" : "step_%d_shard_0.bin",
                   (int)step);
    return text;
}
static dcp_layout resume_layout;
static void resume_body(void) {
    const dcp_layout layout = resume_layout;
    dcp_load_latest_desc desc = resuming();
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_NOT_FOUND, "no checkpoint in");
    CHECK(is_all(loaded_state, 0xEE) && is_all(extra, 0xEE) && loaded_step == -7 && latest_report.step == -1);
    save_three("step_1", 1, 0, layout);
    save_three("step_2", 2, 0, layout);
    save_three("step_3", 3, 1, layout);
    check_resumed(3, 0x55, 0);
    CHECK_INT(latest_report.warning_count, 0);
    flip(file_of(layout, 3), size_of(file_of(layout, 3)) - 1);          /* of the last tensor */
    check_resumed(2, 0xEE, 1);                          /* what only the damaged one has is as it was */
    CHECK(latest_report.skipped[0].status == DCP_E_CHECKSUM && strstr(latest_report.skipped[0].name, "step_3.") &&
          latest_report.skipped[0].message[0]);
CHECK(latest_report.warning_count >= 1 && strstr(latest_report.warning, "step_3") && strstr(log_text, "step_3"));
    flip(layout == DCP_LAYOUT_SINGLE ? "step_2.checkpoint" : "step_2.metadata.json", 300);      /* a document */
    check_resumed(1, 0xEE, 2);
    if (layout == DCP_LAYOUT_SINGLE) put_text("step_1.checkpoint", "cut");
    else drop("step_1_shard_0.bin");
    desc = resuming();
    CHECK(dcp_load_latest(&desc, &err) != DCP_E_NOT_FOUND && err.status == DCP_E_CHECKSUM);    /* the newest one's */
    CHECK(strstr(err.message, "none of the checkpoints in") && latest_report.skipped_count == 3);
    CHECK(is_all(loaded_state, 0) && is_all(extra, 0xEE) && loaded_step == 0);
    CHECK(latest_report.path[0] == '\0');
    save_three("step_4", 4, 1, layout);
    check_resumed(4, 0x55, layout == DCP_LAYOUT_SINGLE);                /* nobody knows which number the cut one had */
}
/* What has its size from the checkpoint, another type, another name: nothing of a damaged one stays in that either. */
typedef struct grown { uint8_t bytes[2 * SIZE]; int64_t size; int calls; } grown;
static void *grow(void *user, const dcp_tensor_info *info) {
    grown *g = (grown *)user;
    g->calls++;
    g->size = info->size;
    memset(g->bytes, 0xEE, sizeof g->bytes);
    return g->bytes;
}
static void changed_body(void) {
    static grown list, more;
    double numbers[2], number = 0;
    dcp_load_latest_desc desc = resuming();
    dcp_tensor t[3];
    int step;
    for (step = 1; step <= 2; step++) {                 /* "more" is in the second alone, which is damaged there */
        dcp_save_desc save_one = saving(step == 1 ? "step_1" : "step_2", step, t);
        memset(state, step, sizeof state);
        numbers[0] = numbers[1] = step == 1 ? 1e9 : 2e9;
        t[0] = dcp_bytes("list", state, (size_t)(step * 100));
        t[1] = dcp_vector("old", DCP_FP64, numbers, 1);
        t[2] = dcp_bytes("more", state, SIZE);
        save_one.tensor_count = (size_t)(step + 1);
        CHECK_OK_MESSAGE(dcp_save(&save_one, &err), err.message);
    }
    memset(&list, 0, sizeof list);
    memset(&more, 0, sizeof more);
    flip("step_2_shard_0.bin", size_of("step_2_shard_0.bin") - 1);
    t[0] = dcp_unsized("list", DCP_UINT8, grow, &list);
    t[1] = dcp_vector("new", DCP_FP16, &number, 1);
    t[1].stored_name = "old";
    t[1].convert = 1;
    t[2] = dcp_unsized("more", DCP_UINT8, grow, &more);
    t[2].optional = 1;
    desc.tensors = t;
    CHECK_OK_MESSAGE(dcp_load_latest(&desc, &err), err.message);
    CHECK(latest_report.step == 1 && latest_report.overflow_count == 1 && list.size == 100 && list.calls == 2);
    CHECK(list.bytes[0] == 1 && list.bytes[99] == 1 && list.bytes[100] == 0xEE && t[0].data == list.bytes);
    CHECK(t[2].status == DCP_E_NOT_FOUND && t[2].data == NULL && more.calls == 1 && more.size == SIZE);
    CHECK(is_all(more.bytes, 0) && more.bytes[SIZE] == 0xEE);
    CHECK(memcmp(&number, "\x00\x7c", 2) == 0 || memcmp(&number, "\x7c\x00", 2) == 0);
    flip("step_1_shard_0.bin", 0);
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_CHECKSUM, "step_2_shard_0.bin");
    CHECK(list.bytes[0] == 0 && list.bytes[99] == 0 && latest_report.overflow_count == 0 && number == 0);
    desc.tensors = wanted();
}
TEST(load_latest_undoes_what_was_allocated_and_converted) { on_local_and_memory(changed_body); }
TEST(load_latest_takes_the_newest_that_verifies) {
    resume_layout = DCP_LAYOUT_SHARDED;
    on_each(resume_body);
    resume_layout = DCP_LAYOUT_SINGLE;
    on_each(resume_body);
}

/* Nothing but damage is skipped. */
static void returned_body(void) {
    const char *key = "0123456789abcdef0123456789abcdef";
    const dcp_verifier verifier = dcp_hmac_verifier(key, 32);
    dcp_load_latest_desc desc;
    static char long_text[6000];
    save_three("step_1", 1, 0, DCP_LAYOUT_SHARDED);
    save("best", 2);
    desc = resuming();                                  /* the newest has no "step" */
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_MISMATCH, "best");
    CHECK(is_all(loaded_state, 0xEE) && latest_report.skipped_count == 0);
    desc.series = "step_";
    CHECK_OK_MESSAGE(dcp_load_latest(&desc, &err), err.message);
    CHECK(loaded_step == 1);
    desc = resuming();
    desc.series = "other_1";
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_NOT_FOUND, "other_1");
    desc.series = "step_";
    desc.verifier = &verifier;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_SIGNATURE, "step_1");
    desc.verifier = NULL;
    desc.minimum_step = 5;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_MISMATCH, "step");
    desc.minimum_step = 0;
    desc.tensors[0].dtype = DCP_OPAQUE;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_INVALID, "type is not known");
    desc.tensors[0].name = NULL;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_INVALID, "name");
    CHECK_FAILS(dcp_load_latest(NULL, &err), DCP_E_INVALID, "desc is NULL");
    (void)snprintf(long_text, sizeof long_text, "{\"by\": \"%05000d", 0);
    put_text("step_2.metadata.json", long_text);        /* cut before its number */
    desc = resuming();
    desc.series = "step_";
    CHECK_OK_MESSAGE(dcp_load_latest(&desc, &err), err.message);
CHECK(latest_report.skipped_count == 1 && strstr(latest_report.skipped[0].name, "step_2.metadata.json"));
}
TEST(load_latest_returns_what_is_no_damage) { on_each(returned_body); }

/* The bytes of a damaged checkpoint are read until the damage is found, those of the next one once. */
TEST(load_latest_reads_no_byte_twice) {
    use_local();
    use_watch();
    save_three("step_1", 1, 1, DCP_LAYOUT_SHARDED);
    save_three("step_2", 2, 1, DCP_LAYOUT_SHARDED);
    forget_counts();
    check_resumed(2, 0x55, 0);
    CHECK(eye.bytes_read >= 2 * SIZE + 8 && eye.bytes_read <= size_of("step_2_shard_0.bin"));
    flip("step_2_shard_0.bin", 5);
    forget_counts();
    check_resumed(1, 0x55, 1);
    CHECK(eye.bytes_read <= size_of("step_2_shard_0.bin") + size_of("step_1_shard_0.bin"));
    eye.failing_reads = -1;                             /* an I/O error says nothing of the checkpoint */
    {
        dcp_load_latest_desc desc = resuming();
        desc.io.retry.attempts = 1;
        CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_IO, "the test says no");
    }
    CHECK_INT(latest_report.skipped_count, 0);
    done();
}

/* Somebody's retention takes the newest, or it is replaced, while it is about to be opened. */
static int vanish_after;
static void vanish(const char *path) {
    dcp_error ignored;
    if (!strstr(path, "step_3.metadata.json") || vanish_after < 0 || vanish_after-- > 0) return;
    vanish_after = -1;
    (void)dcp_storage_remove(eye.inner, path, NULL, &ignored);
}
TEST(load_latest_looks_again_when_one_vanishes) {
    for (vanish_after = 0; vanish_after < 3;) {
        const int after = vanish_after;
        use_local();
        use_watch();
        save_three("step_2", 2, 1, DCP_LAYOUT_SHARDED);
        save_three("step_3", 3, 1, DCP_LAYOUT_SHARDED);
        CHECK_OK(dcp_storage_write_all(eye.inner, "junk.metadata.json", "junk", 4, NULL, NULL));
        eye.on_open = vanish;
        check_resumed(after == 2 ? 3 : 2, 0x55, 1);     /* at first its number, then the document is read */
        eye.on_open = NULL;
        done();
        vanish_after = after + 1;
    }
}

/* Retention at work: while the directory is listed, one checkpoint comes and the one before it goes. */
static int goes_on;                                     /* in so many listings */
static int64_t newest;
static void go_on(void) {
    dcp_storage *through = store;
    char name[40];
    if (goes_on-- <= 0) return;
    store = eye.inner;
    (void)snprintf(name, sizeof name, "step_%d", (int)newest + 1);
    save_three(name, newest + 1, 1, DCP_LAYOUT_SHARDED);
    (void)snprintf(name, sizeof name, "step_%d.metadata.json", (int)newest++);
    CHECK_OK(dcp_storage_remove(eye.inner, name, NULL, NULL));
    store = through;
}
/* Two programs that save one series take the same old ones: what the other one has taken is nothing to warn of. */
static void vanish_first(const char *path) {
    if (!strstr(path, "step_1.metadata.json") || vanish_after < 0 || vanish_after-- > 0) return;
    vanish_after = -1;
    (void)dcp_storage_remove(eye.inner, path, NULL, NULL);
}
TEST(retention_does_not_warn_of_what_another_one_took) {
    int after;
    for (after = 0; after < 8; after++) {
        use_local();
        use_watch();
        save("step_1", 1);
        save("step_2", 2);
        vanish_after = after;
        eye.on_open = vanish_first;
        (void)keep("step_3", 3, 1, 0);
        eye.on_open = NULL;
        CHECK_STR(log_text, "");
        CHECK_STR(there(), "step_3");
        done();
    }
}
static void check_newest(int who, int times) {          /* an older one stays, or none does */
    dcp_latest_desc desc = DCP_ZERO;
    char *path;
    use_local();
    use_watch();
    if (times == 1) save_three("step_1", 1, 1, DCP_LAYOUT_SHARDED);
    save_three("step_2", 2, 1, DCP_LAYOUT_SHARDED);
    newest = 2;
    goes_on = times;
    eye.on_list = go_on;
    desc.directory = here();
    desc.io.storage = store;
    if (who == 0) check_resumed(2 + times, 0x55, 0);
    else if (who == 1) CHECK_STR(there(), times == 1 ? "step_1 step_3" : "step_4");
    else {
        CHECK_OK_MESSAGE(dcp_latest(&desc, &path, &err), err.message);
        CHECK_STR(path, times == 1 ? "step_3.metadata.json" : "step_4.metadata.json");
        dcp_free(path);
    }
    eye.on_list = NULL;
    done();
}
TEST(who_asks_while_one_comes_and_one_goes_gets_the_newest) {
    int who, times;
    for (who = 0; who < 3; who++) for (times = 1; times <= 2; times++) check_newest(who, times);
}

/* The loop of the README: after a damaged one the run comes by its step again, and replaces it. */
static void again_body(void) {
    save_three("step_1", 1, 0, DCP_LAYOUT_SHARDED);
    save_three("step_2", 2, 0, DCP_LAYOUT_SHARDED);
    save_three("step_3", 3, 0, DCP_LAYOUT_SHARDED);
    flip("step_2_shard_0.bin", 5);
    flip("step_3.metadata.json", 300);
    check_resumed(1, 0xEE, 2);
    (void)keep("step_2", 2, 2, 0);
    CHECK(!strstr(log_text, "step_2"));
    CHECK_OK_MESSAGE(try_load("step_2"), err.message);
    (void)keep("step_3", 3, 2, 0);
    CHECK_OK_MESSAGE(try_load("step_3"), err.message);
    (void)keep("step_4", 4, 2, 0);
    CHECK_STR(there(), "step_3 step_4");
}
TEST(a_run_goes_on_where_the_newest_are_damaged) { on_each(again_body); }

static void strided_body(void) {
    float grid[4][4];
    int64_t shape[] = { 4, 2 };
    float values[4][2] = {0};
    dcp_tensor tensor = dcp_array("grid", DCP_FP32, values, 2, shape);
    dcp_load_latest_desc desc;
    int i, k;
    for (i = 0; i < 8; i++) values[i / 2][i % 2] = (float)i + 1;
    save_three("step_1", 1, 0, DCP_LAYOUT_SHARDED);
    {
        dcp_save_desc save_it = saving("step_2", 2, &tensor);
        CHECK_OK_MESSAGE(dcp_save(&save_it, &err), err.message);
    }
    flip("step_2_shard_0.bin", 31);
    desc = resuming();
    tensor = dcp_array("grid", DCP_FP32, grid, 2, shape);
    tensor.stride[0] = 4;
    tensor.stride[1] = 1;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    for (i = 0; i < 16; i++) grid[i / 4][i % 4] = -1;
    tensor.optional = 1;
    CHECK_OK_MESSAGE(dcp_load_latest(&desc, &err), err.message);
    for (i = 0; i < 16; i++) CHECK(grid[i / 4][i % 4] == -1);           /* step_1 has none */
    tensor.optional = 0;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_MISMATCH, "grid");
    for (i = 0; i < 4; i++) for (k = 0; k < 4; k++) CHECK(grid[i][k] == (k < 2 ? 0.0F : -1.0F));
}
TEST(load_latest_takes_out_what_it_put_in) { on_local_and_memory(strided_body); }

/* A device whose memory is the host's; it may refuse. */
static dcp_status device_refuses;
static dcp_status device_out(void *c, void *host, const dcp_tensor *t, int64_t offset, size_t size, uint64_t *ticket,
                             dcp_error *error) {
    (void)c; (void)ticket; (void)error;
    memcpy(host, (const uint8_t *)t->data + offset, size);
    return DCP_OK;
}
static dcp_status device_in(void *c, const dcp_tensor *t, int64_t offset, const void *host, size_t size,
                            uint64_t *ticket, dcp_error *error) {
    (void)c; (void)ticket;
    if (device_refuses) return dcpi_fail(error, device_refuses, "the device says no");
    memcpy((uint8_t *)t->data + offset, host, size);
    return DCP_OK;
}
static dcp_status device_wait(void *c, uint64_t ticket, dcp_error *error) {
    (void)c; (void)ticket; (void)error;
    return DCP_OK;
}
static void device_body(void) {
    dcp_device device = DCP_ZERO;
    dcp_load_latest_desc desc;
    device.copy_out = device_out;
    device.copy_in = device_in;
    device.wait = device_wait;
    save_three("step_1", 1, 0, DCP_LAYOUT_SHARDED);
    save_three("step_2", 2, 1, DCP_LAYOUT_SHARDED);
    flip("step_2_shard_0.bin", 5);
    desc = resuming();
    desc.tensors[0].device = desc.tensors[2].device = &device;
    CHECK_OK_MESSAGE(dcp_load_latest(&desc, &err), err.message);
    CHECK(is_all(loaded_state, 1) && is_all(extra, 0xEE));
    device_refuses = DCP_E_DEVICE;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_DEVICE, "the device says no");
    device_refuses = DCP_OK;
    drop("step_1_shard_0.bin");
    drop("step_2_shard_0.bin");
    desc = resuming();
    desc.tensors[0].device = desc.tensors[2].device = &device;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_INCOMPLETE, "step_2_shard_0.bin");
    save_three("step_3", 3, 1, DCP_LAYOUT_SHARDED);
    flip("step_3_shard_0.bin", 5);
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_CHECKSUM, "step_3");
    CHECK(is_all(loaded_state, 0) && is_all(extra, 0xEE));
    device.copy_out = NULL;
    CHECK_FAILS(dcp_load_latest(&desc, &err), DCP_E_INVALID, "lacks copy_out");
}
TEST(load_latest_to_a_device) { on_local_and_memory(device_body); }

/* ---- ranks ------------------------------------------------------------------------------------------------------- */
typedef struct resuming_job {
    int ranks; dcp_status status[RANKS]; dcp_error err[RANKS];
    dcp_coordinator *coordinators[RANKS];
    dcp_load_latest_report report[RANKS];
    int share, dead, bad_argument; uint8_t rows[RANKS][2];
    char directory[PLACE_TEXT];
} resuming_job;
static void resume_on_rank(void *user, int rank) {
    resuming_job *j = (resuming_job *)user;
    const int64_t shape[] = { 2 }, whole[] = { 2 * RANKS }, where[] = { 2 * rank };
    dcp_load_latest_desc desc = DCP_ZERO;
    dcp_tensor tensor = dcp_array("rows", DCP_UINT8, j->rows[rank], 1, shape);
    dcp_piece(&tensor, whole, where);
    if (j->dead == rank) return;
    if (j->bad_argument == rank) tensor.data = NULL;
    desc.directory = j->directory;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.share_reads = j->share;
    desc.report = &j->report[rank];
    desc.io.storage = store;
    desc.io.coordinator = j->coordinators[rank];
    desc.io.timeout_ms = j->dead < RANKS ? 200 : 60000;
    j->status[rank] = dcp_load_latest(&desc, &j->err[rank]);
}
static resuming_job *resume_ranks(int share, int dead, int bad_argument) {
    static resuming_job j;
    int r;
    memset(&j, 0, sizeof j);
    j.ranks = RANKS;
    j.share = share;
    j.dead = dead;
    j.bad_argument = bad_argument;
    (void)snprintf(j.directory, sizeof j.directory, "%s", here());
    CHECK_OK_MESSAGE(dcp_thread_group_open(RANKS, j.coordinators, &err), err.message);
    run_ranks(RANKS, resume_on_rank, &j);
    for (r = 0; r < RANKS; r++) dcp_coordinator_close(j.coordinators[r]);
    return &j;
}
static void resume_ranks_body(void) {
    resuming_job *r;
    job j;
    int rank, share;
    memset(&j, 0, sizeof j);
    j.ranks = RANKS;
    CHECK_OK_MESSAGE(dcp_thread_group_open(RANKS, j.coordinators, &err), err.message);
    check_all(resume_ranks(0, RANKS, RANKS), DCP_E_NOT_FOUND, "no checkpoint in");
    for (j.step = 1; j.step <= 3; j.step++) {
        char name[20];
        (void)snprintf(name, sizeof name, "step_%d", (int)j.step);
        (void)snprintf(j.path, sizeof j.path, "%s", at(name));
        run_ranks(RANKS, save_on_rank, &j);
        check_all(&j, DCP_OK, "");
    }
    for (rank = 0; rank < RANKS; rank++) dcp_coordinator_close(j.coordinators[rank]);
    flip("step_3_shard_1.bin", 0);                      /* one rank alone reads that */
    for (share = 0; share <= 1; share++) {
        r = resume_ranks(share, RANKS, RANKS);
        check_all(r, DCP_OK, "");
        for (rank = 0; rank < RANKS; rank++) {
            CHECK(r->rows[rank][0] == 2 && r->rows[rank][1] == 2 && r->report[rank].step == 2);
            CHECK(r->report[rank].skipped_count == 1 && strstr(r->report[rank].skipped[0].name, "step_3.") &&
                  r->report[rank].skipped[0].status == DCP_E_CHECKSUM);
            CHECK_INT(r->report[rank].warning_count, rank == 0);
        }
    }
    check_all(resume_ranks(0, RANKS, 2), DCP_E_INVALID, "data is NULL");
    drop("step_1_shard_2.bin");
    flip("step_2_shard_0.bin", 1);
    r = resume_ranks(0, RANKS, RANKS);
    check_all(r, DCP_E_CHECKSUM, "none of the checkpoints in");
    for (rank = 0; rank < RANKS; rank++) CHECK(r->rows[rank][0] == 0 && r->report[rank].skipped_count == 3);
}
TEST(load_latest_of_several_ranks) {
    resuming_job *r;
    if (DCP_NO_THREADS) SKIP("no threads");
    on_local_and_memory(resume_ranks_body);
    use_memory();
    save("step_1", 1);
    r = resume_ranks(0, 2, RANKS);
    CHECK(r->status[0] == DCP_E_TIMEOUT && r->status[1] == DCP_E_TIMEOUT && strstr(r->err[0].message, "2"));
    done();
}

int main(void) {
    RUN(a_step_is_said_once);
    RUN(a_save_keeps_the_newest_and_every_so_many);
    RUN(retention_keeps_to_its_series);
    RUN(retention_in_every_layout);
    RUN(retention_counts_only_what_verifies);
    RUN(retention_spares_the_one_that_was_loaded);
    RUN(keep_every_warns_of_checkpoints_without_a_step);
    RUN(prune_of_one_series);
    RUN(retention_comes_after_the_commit);
    RUN(a_cancel_ends_the_removing_not_the_save);
    RUN(retention_where_documents_are_signed);
    RUN(retention_with_several_ranks);
    RUN(load_latest_takes_the_newest_that_verifies);
    RUN(load_latest_undoes_what_was_allocated_and_converted);
    RUN(load_latest_returns_what_is_no_damage);
    RUN(load_latest_reads_no_byte_twice);
    RUN(load_latest_looks_again_when_one_vanishes);
    RUN(retention_does_not_warn_of_what_another_one_took);
    RUN(who_asks_while_one_comes_and_one_goes_gets_the_newest);
    RUN(a_run_goes_on_where_the_newest_are_damaged);
    RUN(load_latest_takes_out_what_it_put_in);
    RUN(load_latest_to_a_device);
    RUN(load_latest_of_several_ranks);
    return test_finish();
}
