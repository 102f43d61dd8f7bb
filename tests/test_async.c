/* test_async.c: saves in the background (dcp_saver): one process, ranks that are threads, ranks that are processes and
 * poll.
 *
 * What each save must do is written in >>api_save: the tensors are the program's when begin returns, poll waits for
 * nobody, one verdict for all, nothing left behind, memory and threads flat. After every call the saver is held against
 * the diagram of >>async (dcpi_async_check). */
#include "failing_allocator.h"
#include "fault_storage.h"
#include "fault_coordinator.h"
#include "rank_threads.h"
#include "within.h"
#ifndef _WIN32
#include "process_group.h"
#endif

/* ---- a state whose bytes tell its generation ------------------------------------------------------------------------
 * Each rank has a box of `big` (rows of a matrix; strided in memory on odd ranks), a replicated `same`, a private
 * `own`, an empty tensor. */
enum { ROWS = 24, COLUMNS = 8192, SAME = 70000, OWN = 3000, TENSORS = 4, RANKS = 6 };

typedef struct state {
    int rank, ranks;
    dcp_tensor tensors[TENSORS];
    uint32_t *big; size_t big_count;
    uint32_t *same, *own;
} state;

static uint32_t value(uint32_t generation, int tensor, int64_t i) {
    return (generation * 2654435761u) ^ ((uint32_t)tensor * 40503u) ^ ((uint32_t)i * 2246822519u);
}
static int64_t pitch(const state *s) { return s->rank % 2 ? COLUMNS + 3 : COLUMNS; }
static void state_fill(state *s, uint32_t generation) {
    int64_t row, column, i;
    for (row = 0; row < ROWS; row++)
        for (column = 0; column < COLUMNS; column++)
            s->big[row * pitch(s) + column] = value(generation, 0, ((int64_t)s->rank * ROWS + row) * COLUMNS + column);
    for (i = 0; i < SAME; i++) s->same[i] = value(generation, 1, i);
    for (i = 0; i < OWN; i++) s->own[i] = value(generation, 2 + s->rank, i);
}
static void state_make(state *s, int rank, int ranks) {
    int64_t shape[2] = { ROWS, COLUMNS }, whole[2] = { 0, COLUMNS }, at[2] = { 0, 0 }, n;
    memset(s, 0, sizeof *s);
    s->rank = rank;
    s->ranks = ranks;
    whole[0] = (int64_t)ROWS * ranks;
    at[0] = (int64_t)ROWS * rank;
    s->big_count = (size_t)(ROWS * pitch(s));
    s->big = (uint32_t *)must(calloc(s->big_count, 4));
    s->same = (uint32_t *)must(calloc(SAME, 4));
    s->own = (uint32_t *)must(calloc(OWN, 4));
    s->tensors[0] = dcp_array("big", DCP_UINT32, s->big, 2, shape);
    dcp_piece(&s->tensors[0], whole, at);
    if (rank % 2) { s->tensors[0].stride[0] = pitch(s); s->tensors[0].stride[1] = 1; }
    n = SAME;
    s->tensors[1] = dcp_array("same", DCP_UINT32, s->same, 1, &n);
    s->tensors[1].placement = DCP_PLACE_REPLICATED;
    n = OWN;
    s->tensors[2] = dcp_array("own", DCP_UINT32, s->own, 1, &n);
    s->tensors[2].placement = DCP_PLACE_PRIVATE;
    n = 0;
    s->tensors[3] = dcp_array("empty", DCP_FP32, NULL, 1, &n);
    s->tensors[3].placement = DCP_PLACE_REPLICATED;
}
static void state_scribble(state *s) {
    memset(s->big, 0x5A, s->big_count * 4);
    memset(s->same, 0x5A, SAME * 4);
    memset(s->own, 0x5A, OWN * 4);
    memset(s->tensors, 0x5A, sizeof s->tensors);
}
static void state_free(state *s) {
    free(s->big);
    free(s->same);
    free(s->own);
}
/* Loads all of it, as one process: whether every byte is of that generation. */
static dcp_status check_generation(dcp_storage *storage, const char *path, uint32_t generation, int ranks,
                                   dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_tensor big = DCP_ZERO, same = DCP_ZERO;
    dcp_status status;
    int64_t i;
    int r, wrong = 0;
    desc.path = path;
    desc.verify = DCP_VERIFY_ALL;
    desc.io.storage = storage;
    status = dcp_open(&desc, &c, err);
    if (status) return status;
    status = dcp_read_new(c, "big", &big, err);
    if (!status) status = dcp_read_new(c, "same", &same, err);
    if (!status) {
        const uint32_t *a = (const uint32_t *)big.data, *b = (const uint32_t *)same.data;
        wrong |= big.shape[0] != (int64_t)ROWS * ranks;
        for (i = 0; i < (int64_t)ROWS * ranks * COLUMNS && !wrong; i++) wrong |= a[i] != value(generation, 0, i);
        for (i = 0; i < SAME && !wrong; i++) wrong |= b[i] != value(generation, 1, i);
    }
    for (r = 0; r < ranks && !status && !wrong; r++) {
        static const int64_t shape[1] = { OWN };
        uint32_t *own = (uint32_t *)must(calloc(OWN, 4));
        dcp_tensor t = dcp_array("own", DCP_UINT32, own, 1, shape);
        t.placement = DCP_PLACE_PRIVATE;
        status = dcp_read_rank(c, r, &t, 1, err);
        for (i = 0; i < OWN; i++) wrong |= own[i] != value(generation, 2 + r, i);
        free(own);
    }
    dcp_free(big.data);
    dcp_free(same.data);
    dcp_close(c);
    if (!status && wrong)
        status = dcpi_fail(err, DCP_E_CHECKSUM, "test: the bytes are not of generation %u", generation);
    return status;
}
static void must_hold_at(dcp_storage *storage, const char *path, uint32_t generation, int ranks, int line) {
    dcp_error err;
    if (check_generation(storage, path, generation, ranks, &err)) test_fail(__FILE__, line, path, err.message);
}
#define must_hold(storage, path, generation, ranks) must_hold_at(storage, path, generation, ranks, __LINE__)

static dcp_status count_one(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(int *)user;
    return DCP_OK;
}
static int count_files(dcp_storage *storage, const char *directory) {
    int count = 0;
    dcp_status status = storage->list(storage->context, directory, DCP_LIST_OBJECTS, count_one, &count, NULL);
    return status == DCP_E_NOT_FOUND ? 0 : count;
}

/* ---- one process ------------------------------------------------------------------------------------------------- */
typedef struct bench {
    state s;
    dcp_saver *saver;
    dcp_save_desc desc;
    dcp_storage *storage;
    fault_storage fault;
    dcp_error err;
} bench;

static void bench_open(bench *b, const char *directory, const dcp_saver_desc *saver) {
    memset(b, 0, sizeof *b);
    if (directory) CHECK_OK(dcp_storage_local(directory, &b->storage, &b->err));
    else CHECK_OK(dcp_storage_memory(&b->storage, &b->err));
    fault_open(&b->fault, b->storage);
    CHECK_OK_MESSAGE(dcp_saver_open(saver, &b->saver, &b->err), b->err.message);
    state_make(&b->s, 0, 1);
    b->desc.path = "run/x";
    b->desc.io.storage = &b->fault.storage;
    b->desc.io.memory_budget = (size_t)DCPI_MIB;
    b->desc.io.retry.first_ms = 1;
    b->desc.io.retry.max_ms = 2;
}
static void bench_close(bench *b) {
    CHECK_OK_MESSAGE(dcp_saver_close(b->saver, &b->err), b->err.message);
    b->saver = NULL;
    fault_close(&b->fault);
    dcp_storage_close(b->storage);
    state_free(&b->s);
}
static void check_saver_at(dcp_saver *saver, int line) {
    const char *wrong = dcpi_async_check(saver);
    if (wrong) test_fail(__FILE__, line, wrong, "");
}
#define check_saver(saver) check_saver_at(saver, __LINE__)
/* Fills, begins, scribbles; the tensors of the desc are made anew for the next one. */
static dcp_status bench_begin(bench *b, uint32_t generation) {
    dcp_save_desc desc = b->desc;
    dcp_status status;
    state_free(&b->s);
    state_make(&b->s, 0, 1);
    state_fill(&b->s, generation);
    desc.tensors = b->s.tensors;
    desc.tensor_count = TENSORS;
    status = dcp_save_begin(b->saver, &desc, &b->err);
    check_saver(b->saver);
    state_scribble(&b->s);
    memset(&desc, 0x5A, sizeof desc);
    return status;
}
static dcp_status bench_wait(bench *b) {
    dcp_status status = dcp_save_wait(b->saver, -1, &b->err);
    check_saver(b->saver);
    return status;
}
/* Nothing is there but the files of `checkpoints` one-rank checkpoints in the sharded layout. */
#define check_files(b, checkpoints) CHECK_INT(count_files((b)->storage, "run"), 2 * (checkpoints))

TEST(the_tensors_are_the_callers_when_begin_returns) {
    bench b;
    int layout;
    bench_open(&b, test_dir(), NULL);
    for (layout = 0; layout < 2; layout++) {
        b.desc.layout = layout ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        b.desc.path = layout ? "run/single" : "run/x";
        CHECK_OK_MESSAGE(bench_begin(&b, 7), b.err.message);
        state_free(&b.s);
        state_make(&b.s, 0, 1);
        CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
        CHECK_STR(b.err.message, "");
        must_hold(b.storage, b.desc.path, 7, 1);
        CHECK_INT(dcp_save_poll(b.saver, &b.err), DCP_OK);
        CHECK_INT(dcp_save_wait(b.saver, 0, &b.err), DCP_OK);
    }
    CHECK_INT(count_files(b.storage, "run"), 3);
    bench_close(&b);
}
TEST(poll_is_pending_and_then_says_it_once) {
    bench b;
    int64_t polls = 0;
    dcp_status status;
    bench_open(&b, test_dir(), NULL);
    CHECK_INT(dcp_save_poll(b.saver, &b.err), DCP_OK);
    CHECK_OK(bench_begin(&b, 1));
    while ((status = dcp_save_poll(b.saver, &b.err)) == DCP_PENDING) {
        CHECK_INT(b.err.status, DCP_PENDING);
        CHECK_STR(b.err.message, "");
        check_saver(b.saver);
        dcpi_os_sleep_ms(1);
        CHECK(++polls < 60000);
    }
    CHECK_OK(status);
    check_saver(b.saver);
    must_hold(b.storage, "run/x", 1, 1);
    CHECK_INT(bench_begin(&b, 2), DCP_E_EXISTS);        /* begin's own failure: nothing runs */
    CHECK_INT(b.err.status, DCP_E_EXISTS);
    CHECK_OK(dcp_save_poll(b.saver, &b.err));
    b.desc.overwrite = 1;
    CHECK_OK(bench_begin(&b, 3));
    while ((status = dcp_save_wait(b.saver, 1, &b.err)) == DCP_PENDING) check_saver(b.saver);
    CHECK_OK(status);
    must_hold(b.storage, "run/x", 3, 1);
    check_files(&b, 1);
    bench_close(&b);
}
TEST(wrong_arguments) {
    dcp_saver_desc desc = DCP_ZERO;
    dcp_saver *saver = (dcp_saver *)&desc;
    dcp_error err;
    bench b;
    desc.when_busy = (dcp_when_busy)7;
    CHECK_INT(dcp_saver_open(&desc, &saver, &err), DCP_E_INVALID);
    CHECK(saver == NULL);
    CHECK_INT(dcp_saver_open(NULL, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_save_begin(NULL, NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_save_poll(NULL, &err), DCP_E_INVALID);
    CHECK_INT(dcp_save_wait(NULL, 1, NULL), DCP_E_INVALID);
    CHECK(dcp_saver_report(NULL) == NULL);
    dcp_save_cancel(NULL);
    CHECK_OK(dcp_saver_close(NULL, &err));
    bench_open(&b, NULL, NULL);
    CHECK_INT(dcp_save_begin(b.saver, NULL, &b.err), DCP_E_INVALID);
    b.desc.path = "";
    CHECK_INT(bench_begin(&b, 1), DCP_E_INVALID);
    b.desc.path = "run/x";
    b.desc.alignment = 3;
    CHECK_INT(bench_begin(&b, 1), DCP_E_INVALID);
    CHECK(strstr(b.err.message, "alignment") != NULL);
    b.desc.alignment = 0;
    dcp_save_cancel(b.saver);                           /* of nothing */
    CHECK_OK(bench_begin(&b, 1));
    CHECK_OK(bench_wait(&b));
    bench_close(&b);
}
/* All texts that the document needs, gone after begin. */
TEST(everything_of_the_desc_is_copied) {
    static const unsigned char key[32] = "0123456789abcdef0123456789abcde";
    dcp_verifier verifier = dcp_hmac_verifier(key, 32);
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *c;
    char texts[12][40];
    dcp_training training = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_field fields[2];
    dcp_signer signer;
    dcp_save_report report;
    dcp_save_desc desc;
    bench b;
    (void)snprintf(texts[0], 40, "adamw");
    (void)snprintf(texts[1], 40, "{\"beta\": 0.9}");
    (void)snprintf(texts[2], 40, "fsdp");
    (void)snprintf(texts[3], 40, "bf16");
    (void)snprintf(texts[4], 40, "{\"degree\": 1}");
    (void)snprintf(texts[5], 40, "git");
    (void)snprintf(texts[6], 40, "abc123");
    (void)snprintf(texts[7], 40, "host");
    (void)snprintf(texts[8], 40, "n1");
    (void)snprintf(texts[9], 40, "key-1");
    (void)snprintf(texts[10], 40, "run/all");
    bench_open(&b, test_dir(), NULL);
    desc = b.desc;
    training.epoch = 3;
    training.step = 99;
    training.learning_rate = 0.5;
    training.optimizer_type = texts[0];
    training.optimizer_state = texts[1];
    sharding.strategy = texts[2];
    sharding.precision = texts[3];
    sharding.info = texts[4];
    fields[0].key = texts[5];
    fields[0].value = texts[6];
    fields[1].key = texts[7];
    fields[1].value = texts[8];
    signer = dcp_hmac_signer(key, 32, texts[9]);
    desc.path = texts[10];
    desc.training = &training;
    desc.sharding = &sharding;
    desc.fields = fields;
    desc.field_count = 2;
    desc.signer = &signer;
    desc.report = &report;
    state_fill(&b.s, 5);
    desc.tensors = b.s.tensors;
    desc.tensor_count = TENSORS;
    CHECK_OK_MESSAGE(dcp_save_begin(b.saver, &desc, &b.err), b.err.message);
    CHECK_INT(strlen(report.save_id), 16);
    CHECK_INT(report.sequence, 1);
    CHECK(strstr(report.path, "all.metadata.json") != NULL);
    CHECK_INT(report.bytes_in_begin, DCPI_THREADS ? 0 : report.bytes_in_begin);
    CHECK_STR(dcp_saver_report(b.saver)->save_id, report.save_id);
    memset(texts, 'x', sizeof texts);
    memset(&training, 0x5A, sizeof training);
    memset(&sharding, 0x5A, sizeof sharding);
    memset(fields, 0x5A, sizeof fields);
    memset(&signer, 0x5A, sizeof signer);
    memset(&desc, 0x5A, sizeof desc);
    state_scribble(&b.s);
    CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
    CHECK_STR(dcp_saver_report(b.saver)->save_id, report.save_id);
    CHECK(dcp_saver_report(b.saver)->bytes_written >= 4 * (ROWS * COLUMNS + SAME + OWN));
    CHECK(dcp_saver_report(b.saver)->seconds >= 0.0);
    open.path = "run/all";
    open.verifier = &verifier;
    open.io.storage = b.storage;
    CHECK_OK_MESSAGE(dcp_open(&open, &c, &b.err), b.err.message);
    CHECK_INT(dcp_checkpoint_training(c)->step, 99);
    CHECK_STR(dcp_checkpoint_training(c)->optimizer_type, "adamw");
    CHECK(strstr(dcp_checkpoint_training(c)->optimizer_state, "0.9") != NULL);
    CHECK_STR(dcp_checkpoint_metadata(c)->sharding.strategy, "fsdp");
    CHECK_STR(dcp_checkpoint_metadata(c)->sharding.precision, "bf16");
    CHECK(strstr(dcp_checkpoint_metadata(c)->sharding.info, "degree") != NULL);
    CHECK_STR(dcp_metadata_field(dcp_checkpoint_metadata(c), "git"), "abc123");
    CHECK_STR(dcp_metadata_field(dcp_checkpoint_metadata(c), "host"), "n1");
    dcp_close(c);
    must_hold(b.storage, "run/all", 5, 1);
    bench_close(&b);
}

/* ---- the same bytes as dcp_save's -------------------------------------------------------------------------------- */
/* Whatever the saver's memory held before: gaps between tensors too, which it writes from there. */
TEST(the_files_are_those_of_dcp_save) {
    static const size_t alignments[] = { 64, 256, 4096, 65536 };
    static const dcp_checksum checksums[] = { DCP_CHECKSUM_TREE, DCP_CHECKSUM_FLAT };
    int i, round;
    bench b;
    bench_open(&b, NULL, NULL);
    b.desc.overwrite = 1;
    for (round = 0; round < 2; round++)
        for (i = 0; i < (int)DCPI_COUNT(alignments); i++) {
            char path[40], file[60];
            void *bytes[2];
            size_t size[2];
            int k;
            b.desc.alignment = alignments[i];
            b.desc.checksum = checksums[round];
            CHECK_OK(bench_begin(&b, (uint32_t)i + 1));             /* fills the memory with other bytes */
            CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
            for (k = 0; k < 2; k++) {
                dcp_save_desc desc = b.desc;
                state_free(&b.s);
                state_make(&b.s, 0, 1);
                state_fill(&b.s, 77);
                b.s.tensors[0].shape[0] -= 3;           /* gaps elsewhere than before */
                b.s.tensors[0].global_shape[0] -= 3;
                b.s.tensors[1].shape[0] -= 5;
                (void)snprintf(path, sizeof path, "run/%c%d%d", "ab"[k], round, i);
                desc.path = path;
                desc.tensors = b.s.tensors;
                desc.tensor_count = TENSORS;
                if (k) CHECK_OK_MESSAGE(dcp_save(&desc, &b.err), b.err.message);
                else CHECK_OK_MESSAGE(dcp_save_begin(b.saver, &desc, &b.err), b.err.message);
                state_scribble(&b.s);
                CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
                (void)snprintf(file, sizeof file, "%s_shard_0.bin", path);
                CHECK_OK_MESSAGE(dcp_storage_read_all(b.storage, file, &bytes[k], &size[k], NULL, &b.err),
                                 b.err.message);
            }
            CHECK_INT(size[0], size[1]);
            CHECK(memcmp(bytes[0], bytes[1], size[0]) == 0);
            dcp_free(bytes[0]);
            dcp_free(bytes[1]);
        }
    bench_close(&b);
}

/* ---- the budget of the copy -------------------------------------------------------------------------------------- */
static void slow_write(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    (void)key; (void)call;
    if (kind == FAULT_WRITE && !is_done) dcpi_os_sleep_ms(*(const int *)user);
}
TEST(what_is_beyond_the_budget_is_written_in_begin) {
    static const int64_t sizes[TENSORS] = { 4 * ROWS * COLUMNS, 4 * SAME, 4 * OWN, 0 };
    static const size_t budgets[] = { 1, 4 * OWN - 1, 4 * OWN, 4 * (OWN + SAME), 4 * (OWN + SAME) + 1, 100000000 };
    static const int kept[] = { 0, 0, 1, 2, 2, 3 };
    int pause = 5, i, k, layout;
    for (i = 0; i < (int)DCPI_COUNT(budgets); i++) {
        dcp_saver_desc desc = DCP_ZERO;
        int64_t in_begin = 0;
        bench b;
        desc.snapshot_budget = budgets[i];
        bench_open(&b, test_dir(), &desc);
        b.fault.hook = slow_write;
        b.fault.user = &pause;
        for (k = 0; k < TENSORS - 1 - kept[i]; k++) in_begin += sizes[k];
        for (layout = 0; layout < 3; layout++) {
            static const char *const paths[] = { "run/x", "run/single", "run/pool" };
            b.desc.layout = (dcp_layout)layout;
            b.desc.path = paths[layout];
            CHECK_OK(bench_begin(&b, 4));
            state_free(&b.s);                           /* not a byte of it is looked at again */
            state_make(&b.s, 0, 1);
            if (DCPI_THREADS) CHECK_INT(dcp_saver_report(b.saver)->bytes_in_begin, in_begin);
            CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
            if (DCPI_THREADS) CHECK_INT(dcp_saver_report(b.saver)->bytes_in_begin, in_begin);
            must_hold(b.storage, b.desc.path, 4, 1);
        }
        CHECK_INT(count_files(b.storage, "run"), 4);
        bench_close(&b);
    }
}
/* After begin the caller's tensors cannot be read again: then a transient error is final; before that it is not. */
TEST(retries_end_where_the_callers_memory_does) {
    dcp_saver_desc desc = DCP_ZERO;
    int failed = 0, saved = 0, nth;
    for (nth = 1; nth < 12; nth++) {
        dcp_status status;
        bench b;
        desc.snapshot_budget = 1;
        bench_open(&b, NULL, &desc);
        fault_set(&b.fault, FAULT_WRITE, nth, 1, EIO);
        CHECK_OK(bench_begin(&b, 2));
        status = bench_wait(&b);
        if (status == DCP_OK) {
            must_hold(b.storage, "run/x", 2, 1);
            saved++;
        } else {
            CHECK_INT(status, DCP_E_IO);
            CHECK(strstr(b.err.message, "snapshot_budget") != NULL);
            CHECK_INT(count_files(b.storage, "run"), 0);
            failed++;
        }
        bench_close(&b);
    }
    CHECK(saved > 0);
    (void)failed;                                       /* depends on who is faster */
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */
typedef struct logged { dcpi_mutex lock; int count, errors, retries; char last[700]; } logged;
static void log_one(void *user, dcp_log_level level, const char *message) {
    logged *l = (logged *)user;
    dcpi_mutex_lock(&l->lock);
    l->count++;
    l->errors += level == DCP_LOG_ERROR;
    l->retries += strstr(message, "again in") != NULL;
    if (level == DCP_LOG_ERROR) (void)snprintf(l->last, sizeof l->last, "%s", message);
    dcpi_mutex_unlock(&l->lock);
}
TEST(errors_in_the_background_surface) {
    static const fault_kind kinds[] = { FAULT_BEGIN, FAULT_WRITE, FAULT_COMMIT, FAULT_SYNC_DIRECTORY, FAULT_STAT };
    size_t k;
    int nth;
    bench b;
    logged l;
    memset(&l, 0, sizeof l);
    CHECK_INT(dcpi_mutex_init(&l.lock), 0);
    bench_open(&b, NULL, NULL);
    b.desc.overwrite = 1;
    b.desc.io.log = log_one;
    b.desc.io.log_user = &l;
    CHECK_OK(bench_begin(&b, 1));
    CHECK_OK(bench_wait(&b));
    for (k = 0; k < DCPI_COUNT(kinds); k++)
        for (nth = 1; nth < 5; nth++) {
            dcp_status status;
            fault_set(&b.fault, kinds[k], nth, 1, ENOSPC);
            status = bench_begin(&b, 2);
            if (status == DCP_OK) status = bench_wait(&b);
            b.fault.nth = 0;
            if (b.fault.failed && status != DCP_OK) {
                CHECK(status == DCP_E_SPACE || status == DCP_E_UNKNOWN);
                CHECK(strstr(b.err.message, "injected") != NULL || status == DCP_E_UNKNOWN);
            }
            if (status == DCP_OK) {
                must_hold(b.storage, "run/x", 2, 1);
                CHECK_OK(bench_begin(&b, 1));
                CHECK_OK(bench_wait(&b));
            } else if (status != DCP_E_UNKNOWN) {
                must_hold(b.storage, "run/x", 1, 1);
                check_files(&b, 1);
            }
            CHECK_OK(dcp_save_poll(b.saver, &b.err));   /* said once */
            b.fault.failed = 0;
        }
    CHECK_INT(l.errors, 0);                             /* a failure is returned, not logged */
    bench_close(&b);
    dcpi_mutex_destroy(&l.lock);
}
/* A program that never polls, on a full disk: begin says that the save before failed, and close what the last one came
 * to. */
TEST(a_verdict_that_nobody_fetched_is_returned) {
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SINGLE, DCP_LAYOUT_MANIFEST };
    size_t k;
    for (k = 0; k < DCPI_COUNT(layouts); k++) {
        const int first = layouts[k] == DCP_LAYOUT_MANIFEST ? 2 : 1;    /* the intent is written in begin */
        char save_id[17];
        bench b;
        int busy;
        for (busy = DCP_BUSY_WAIT; busy <= DCP_BUSY_REFUSE; busy++) {
            dcp_saver_desc desc = DCP_ZERO;
            desc.when_busy = (dcp_when_busy)busy;
            bench_open(&b, NULL, &desc);
            b.desc.layout = layouts[k];
            CHECK_OK(bench_begin(&b, 1));
            dcpi_async_await(b.saver, -1);              /* it has ended well, and nobody asks */
            b.desc.path = "run/y";
            fault_set(&b.fault, FAULT_WRITE, first, 1000000, ENOSPC);
            CHECK_OK_MESSAGE(bench_begin(&b, 2), b.err.message);
            dcpi_async_await(b.saver, -1);
            (void)snprintf(save_id, sizeof save_id, "%s", dcp_saver_report(b.saver)->save_id);
            b.fault.nth = 0;
            b.desc.path = "run/z";
            CHECK_INT(bench_begin(&b, 3), DCP_E_SPACE);         /* that of the save before */
            CHECK_INT(b.err.status, DCP_E_SPACE);
            CHECK(strstr(b.err.message, "the save before") != NULL && strstr(b.err.message, "injected") != NULL);
            CHECK_STR(dcp_saver_report(b.saver)->save_id, save_id);
            CHECK_OK(dcp_save_wait(b.saver, -1, &b.err));       /* nothing runs, and it is said once */
            CHECK_INT(check_generation(b.storage, "run/z", 3, 1, &b.err), DCP_E_NOT_FOUND);
            CHECK_OK_MESSAGE(bench_begin(&b, 3), b.err.message);
            CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
            must_hold(b.storage, "run/x", 1, 1);
            must_hold(b.storage, "run/z", 3, 1);
            b.desc.path = "run/w";
            fault_set(&b.fault, FAULT_WRITE, first, 1000000, ENOSPC);
            CHECK_OK_MESSAGE(bench_begin(&b, 4), b.err.message);
            CHECK_INT(dcp_saver_close(b.saver, &b.err), DCP_E_SPACE);
            CHECK(strstr(b.err.message, "injected") != NULL);
            b.saver = NULL;
            bench_close(&b);
        }
    }
}
/* Warnings are in the report, with and without a log. */
TEST(warnings_are_in_the_report) {
    int with_log, asynchronous;
    for (with_log = 0; with_log < 2; with_log++)
        for (asynchronous = 0; asynchronous < 2; asynchronous++) {
            dcp_save_report report;
            bench b;
            logged l;
            memset(&l, 0, sizeof l);
            CHECK_INT(dcpi_mutex_init(&l.lock), 0);
            bench_open(&b, NULL, NULL);
            if (with_log) { b.desc.io.log = log_one; b.desc.io.log_user = &l; }
            fault_set(&b.fault, FAULT_WRITE, 1, 2, EIO);
            if (asynchronous) {
                CHECK_OK(bench_begin(&b, 1));
                CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
                report = *dcp_saver_report(b.saver);
            } else {
                state_fill(&b.s, 1);
                b.desc.tensors = b.s.tensors;
                b.desc.tensor_count = TENSORS;
                b.desc.report = &report;
                memset(&report, 0x5A, sizeof report);
                CHECK_OK_MESSAGE(dcp_save(&b.desc, &b.err), b.err.message);
            }
            CHECK(report.warning_count == 1 || report.warning_count == 2);
            CHECK(strstr(report.warning, "attempt 1 of 3") != NULL && strstr(report.warning, "injected") != NULL);
            if (with_log) CHECK_INT(l.count, report.warning_count);
            b.desc.path = "run/y";
            b.desc.report = NULL;
            CHECK_OK(bench_begin(&b, 2));
            CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
            CHECK_INT(dcp_saver_report(b.saver)->warning_count, 0);
            CHECK_STR(dcp_saver_report(b.saver)->warning, "");
            bench_close(&b);
            dcpi_mutex_destroy(&l.lock);
        }
}
TEST(transient_errors_are_tried_again_and_logged) {
    bench b;
    logged l;
    memset(&l, 0, sizeof l);
    CHECK_INT(dcpi_mutex_init(&l.lock), 0);
    bench_open(&b, NULL, NULL);
    b.desc.io.log = log_one;
    b.desc.io.log_user = &l;
    fault_set(&b.fault, FAULT_WRITE, 1, 2, EIO);
    CHECK_OK(bench_begin(&b, 1));
    CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
    CHECK(l.retries >= 1);
    CHECK_INT(b.fault.reused, 0);
    must_hold(b.storage, "run/x", 1, 1);
    check_files(&b, 1);
    bench_close(&b);
    dcpi_mutex_destroy(&l.lock);
}
TEST(a_deadline_that_is_missed_leaves_the_checkpoint_before) {
    int pause = 60;
    bench b;
    bench_open(&b, NULL, NULL);
    b.desc.overwrite = 1;
    CHECK_OK(bench_begin(&b, 1));
    CHECK_OK(bench_wait(&b));
    b.fault.hook = slow_write;
    b.fault.user = &pause;
    b.desc.io.deadline_ms = 100;
    CHECK_OK(bench_begin(&b, 2));
    CHECK_INT(bench_wait(&b), DCP_E_TIMEOUT);
    CHECK(strstr(b.err.message, "deadline") != NULL && strstr(b.err.message, "bytes") != NULL);
    must_hold(b.storage, "run/x", 1, 1);
    check_files(&b, 1);
    bench_close(&b);
}
TEST(cancelled_at_random_times) {
    int times = test_times(60), i, cancelled = 0;
    dcp_cancel cancel = DCP_ZERO;
    uint32_t held = 1;
    bench b;
    int pause = 1;
    bench_open(&b, NULL, NULL);
    b.desc.overwrite = 1;
    b.desc.io.cancel = &cancel;
    CHECK_OK(bench_begin(&b, held));
    CHECK_OK(bench_wait(&b));
    b.fault.hook = slow_write;
    b.fault.user = &pause;
    for (i = 0; i < times; i++) {
        dcp_status status;
        cancel.requested = 0;
        status = bench_begin(&b, (uint32_t)i + 2);
        CHECK_OK(status);
        dcpi_os_sleep_ms((int)test_random_below(12));
        if (i % 2) dcp_save_cancel(b.saver);
        else dcp_cancel_request(&cancel);
        status = bench_wait(&b);
        CHECK(status == DCP_OK || status == DCP_E_CANCELLED);
        if (status == DCP_OK) held = (uint32_t)i + 2;
        else cancelled++;
        must_hold(b.storage, "run/x", held, 1);
        check_files(&b, 1);
    }
    if (DCPI_THREADS) CHECK(cancelled > 0);
    cancel.requested = 1;                               /* before begin: begin's own failure */
    CHECK_INT(bench_begin(&b, 99), DCP_E_CANCELLED);
    cancel.requested = 0;
    bench_close(&b);
}

/* The commit file has its name, and then the save is cancelled, or its deadline passes: it is DCP_OK, and what it has
 * displaced goes all the same. */
typedef struct late_end { dcp_cancel cancel; int sleeps_ms, has_ended; } late_end;
static void end_after_the_commit(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    late_end *l = (late_end *)user;
    (void)call;
    if (kind != FAULT_COMMIT || !is_done || l->has_ended) return;
    if (!strstr(key, ".json") && !strstr(key, ".checkpoint")) return;
    if (strstr(key, "intent")) return;
    l->has_ended = 1;
    if (l->sleeps_ms) dcpi_os_sleep_ms(l->sleeps_ms);
    else dcp_cancel_request(&l->cancel);
}
TEST(a_cancel_after_the_commit_leaves_nothing) {
    int layout, asynchronous, by_deadline, plain;
    for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++)
        for (asynchronous = 0; asynchronous < 2; asynchronous++)
            for (by_deadline = 0; by_deadline < 2; by_deadline++)
                /* the displaced files' names: with their save's id, or without */
                for (plain = 0; plain < 2; plain++) {
                    late_end late;
                    int wanted, before;
                    bench b;
                    memset(&late, 0, sizeof late);
                    bench_open(&b, NULL, NULL);
                    b.desc.layout = (dcp_layout)layout;
                    b.desc.overwrite = 1;
                    b.desc.unique_names = !plain;
                    b.desc.path = "run/beside";                 /* its document is read before files go */
                    CHECK_OK(bench_begin(&b, 9));
                    CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
                    b.desc.path = "run/x";
                    CHECK_OK(bench_begin(&b, 1));
                    CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
                    wanted = count_files(b.storage, "run");
                    before = count_files(b.storage, "run/dense");
                    b.desc.io.cancel = &late.cancel;
                    b.desc.io.deadline_ms = by_deadline ? 1500 : 0;
                    late.sleeps_ms = by_deadline ? 1600 : 0;
                    b.fault.hook = end_after_the_commit;
                    b.fault.user = &late;
                    if (asynchronous) {
                        CHECK_OK_MESSAGE(bench_begin(&b, 2), b.err.message);
                        CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
                    } else {
                        state_free(&b.s);
                        state_make(&b.s, 0, 1);
                        state_fill(&b.s, 2);
                        b.desc.tensors = b.s.tensors;
                        b.desc.tensor_count = TENSORS;
                        CHECK_OK_MESSAGE(dcp_save(&b.desc, &b.err), b.err.message);
                    }
                    CHECK(late.has_ended);
                    CHECK_INT(count_files(b.storage, "run"), wanted);
                    CHECK_INT(count_files(b.storage, "run/dense"), before);
                    must_hold(b.storage, "run/beside", 9, 1);
                    must_hold(b.storage, "run/x", 2, 1);
                    bench_close(&b);
                }
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */
typedef struct seen {
    int calls;
    int64_t last_ms, first_ms, done;
    int too_fast, other_thread;
    void *thread;
    int phases;
} seen;
#if defined(_WIN32) || DCP_NO_THREADS
static void *this_thread(void) { return NULL; }
#else
static void *this_thread(void) { static __thread char one; return &one; }
#endif
static void see(void *user, const dcp_progress *progress) {
    seen *s = (seen *)user;
    if (this_thread() != s->thread) s->other_thread++;
    s->calls++;
    s->done = progress->bytes_done;
    s->phases |= 1 << progress->phase;
    if (!s->first_ms) s->first_ms = dcpi_os_monotonic_ms();
    s->last_ms = dcpi_os_monotonic_ms();
}
TEST(progress_comes_on_the_calling_thread) {
    seen s;
    int pause = 30;
    bench b;
    memset(&s, 0, sizeof s);
    s.thread = this_thread();
    bench_open(&b, NULL, NULL);
    b.fault.hook = slow_write;
    b.fault.user = &pause;
    b.desc.io.progress = see;
    b.desc.io.progress_user = &s;
    CHECK_OK(bench_begin(&b, 1));
    while (dcp_save_poll(b.saver, &b.err) == DCP_PENDING) dcpi_os_sleep_ms(1);
    CHECK_INT(s.other_thread, 0);
    CHECK(s.calls > 0);
    CHECK(s.calls <= 3 + (s.last_ms - s.first_ms) / 100);
    CHECK_INT(s.done, 4 * (ROWS * COLUMNS + SAME + OWN));
    bench_close(&b);
}

/* ---- one after another, two at a time, in each other's way ------------------------------------------------------- */
#ifdef __linux__
static long status_line(const char *name) {             /* of /proc/self/status */
    FILE *f = fopen("/proc/self/status", "r");
    char line[200];
    long number = -1;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) number = strtol(line + strlen(name), NULL, 10);
    if (f) (void)fclose(f);
    return number;
}
static int open_files(void) {
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (dir && readdir(dir)) count++;
    if (dir) (void)closedir(dir);
    return count;
}
#else
static long status_line(const char *name) { (void)name; return 0; }
static int open_files(void) { return 0; }
#endif
TEST(two_hundred_saves_in_a_row) {
    int saves = test_times(200), i, files = 0;
    long threads = 0, memory = 0;
    int64_t live = 0;
    char path[40];
    bench b;
    bench_open(&b, test_dir(), NULL);
    for (i = 0; i < saves; i++) {
        (void)snprintf(path, sizeof path, "run/step_%d", i % 3);
        b.desc.path = path;
        b.desc.overwrite = 1;
        CHECK_OK_MESSAGE(bench_begin(&b, (uint32_t)i), b.err.message);
        CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
        if (i != 20 && i != saves - 1) continue;
        if (i == 20) {
            files = open_files();
            threads = status_line("Threads:");
            memory = status_line("VmRSS:");
            live = hungry_live();
        } else if (i > 20) {
            CHECK_INT(open_files(), files);
            CHECK_INT(status_line("Threads:"), threads);
            CHECK_INT(hungry_live(), live);
            if (!test_is_sanitized()) CHECK(status_line("VmRSS:") < memory + 3000);
        }
        must_hold(b.storage, path, (uint32_t)i, 1);
    }
    check_files(&b, 3);
    bench_close(&b);
}
TEST(begin_waits_for_the_save_before) {
    int pause = 10, i;
    char path[40];
    bench b;
    bench_open(&b, NULL, NULL);
    b.fault.hook = slow_write;
    b.fault.user = &pause;
    for (i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "run/step_%d", i);
        b.desc.path = path;
        CHECK_OK(bench_begin(&b, (uint32_t)i));
    }
    CHECK_OK(bench_wait(&b));
    for (i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "run/step_%d", i);
        must_hold(b.storage, path, (uint32_t)i, 1);
    }
    bench_close(&b);
}
static void held_write(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    /* until somebody lets it go on */
    (void)key; (void)call;
    while (kind == FAULT_WRITE && !is_done && dcpi_flag_get((volatile int *)user)) dcpi_os_sleep_ms(1);
}
TEST(begin_is_refused_while_one_runs) {
    dcp_saver_desc desc = DCP_ZERO;
    volatile int is_held = 1;
    bench b;
    if (!DCPI_THREADS) SKIP("without threads nothing is in the way");
    desc.when_busy = DCP_BUSY_REFUSE;
    bench_open(&b, NULL, &desc);
    b.fault.hook = held_write;
    b.fault.user = (void *)(uintptr_t)&is_held;
    CHECK_OK(bench_begin(&b, 1));
    b.desc.path = "run/y";
    CHECK_INT(bench_begin(&b, 2), DCP_PENDING);
    CHECK_INT(b.err.status, DCP_PENDING);
    CHECK_STR(b.err.message, "");
    CHECK_INT(bench_begin(&b, 3), DCP_PENDING);
    CHECK_INT(dcp_save_poll(b.saver, &b.err), DCP_PENDING);
    CHECK_INT(dcp_save_wait(b.saver, 1, &b.err), DCP_PENDING);
    dcpi_flag_set(&is_held, 0);
    CHECK_OK(bench_wait(&b));
    CHECK_OK(bench_begin(&b, 4));
    CHECK_OK(bench_wait(&b));
    must_hold(b.storage, "run/x", 1, 1);
    must_hold(b.storage, "run/y", 4, 1);
    check_files(&b, 2);
    bench_close(&b);
}
TEST(two_savers_at_a_time) {
    int i;
    bench b[2];
    for (i = 0; i < 2; i++) bench_open(&b[i], NULL, NULL);
    for (i = 0; i < 10; i++) {
        b[0].desc.overwrite = b[1].desc.overwrite = 1;
        CHECK_OK(bench_begin(&b[0], (uint32_t)i));
        CHECK_OK(bench_begin(&b[1], (uint32_t)i + 100));
        CHECK_OK(bench_wait(&b[1]));
        CHECK_OK(bench_wait(&b[0]));
    }
    must_hold(b[0].storage, "run/x", 9, 1);
    must_hold(b[1].storage, "run/x", 109, 1);
    for (i = 0; i < 2; i++) bench_close(&b[i]);
}
TEST(close_waits) {
    dcp_storage *storage;
    dcp_error err;
    int pause = 20;
    bench b;
    bench_open(&b, NULL, NULL);
    storage = b.storage;
    b.fault.hook = slow_write;
    b.fault.user = &pause;
    CHECK_OK(bench_begin(&b, 6));
    CHECK_OK_MESSAGE(dcp_saver_close(b.saver, &b.err), b.err.message);
    b.saver = NULL;
    CHECK_OK_MESSAGE(check_generation(storage, "run/x", 6, 1, &err), err.message);
    bench_close(&b);
}
/* Every allocation fails once, in begin and in the background, on any thread: then nothing is lost, nothing leaks, and
 * the next save works. */
static void any_allocation_fails_in(dcp_layout layout) {
    const int64_t step = test_is_sampled() || test_is_sanitized() ? 11 : layout == DCP_LAYOUT_MANIFEST ? 3 : 2;
    int64_t live = hungry_live(), nth;
    int tripped = 1;
    for (nth = 1; tripped && nth < 5000; nth += step) {
        dcp_status status;
        bench b;
        bench_open(&b, NULL, NULL);
        b.desc.overwrite = 1;
        b.desc.layout = layout;
        CHECK_OK(bench_begin(&b, 1));
        CHECK_OK(bench_wait(&b));
        hungry_fail(nth, 0);
        status = bench_begin(&b, 2);
        if (status == DCP_OK) status = bench_wait(&b);
        tripped = hungry.tripped;
        hungry_fail(0, 0);
        CHECK(status == DCP_OK || status == DCP_E_MEMORY || status == DCP_E_UNKNOWN);
        if (status != DCP_E_UNKNOWN) must_hold(b.storage, "run/x", status == DCP_OK ? 2 : 1, 1);
        CHECK_OK_MESSAGE(bench_begin(&b, 3), b.err.message);
        CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
        must_hold(b.storage, "run/x", 3, 1);
        bench_close(&b);
        CHECK_INT(hungry_live(), live);
    }
    CHECK(!tripped);
}
TEST(any_allocation_fails) {
    any_allocation_fails_in(DCP_LAYOUT_SHARDED);
    any_allocation_fails_in(DCP_LAYOUT_MANIFEST);       /* no memory for the copy: all is written in begin */
}

/* ---- tensors of a device: memory that only its copies may read (all its addresses are off by one); done late, in
 * order  */
typedef struct odd_device {
    dcp_device device;
    uint64_t issued, waited;
    /* allocated: of the host; own: bytes of the device's */
    int fail_at, calls, allocated, refuses; size_t own; uint8_t *own_memory;
    struct { const uint8_t *from; void *to; size_t size; } late[64];
} odd_device;
static dcp_status odd_allocate(void *context, size_t size, void **memory, dcp_error *err) {
    ((odd_device *)context)->allocated++;
    *memory = malloc(size);
    return *memory ? DCP_OK : dcpi_no_memory(err, size);
}
static void odd_free(void *context, void *memory) { ((odd_device *)context)->allocated--; free(memory); }
static dcp_status odd_allocate_own(void *context, size_t size, void **memory, dcp_error *err) {
    odd_device *d = (odd_device *)context;
    if (d->refuses || size > d->device.own_bytes || d->own)
        return dcpi_fail(err, DCP_E_MEMORY, "the device has no room");
    d->own = size;
    d->own_memory = (uint8_t *)must(malloc(size));
    *memory = d->own_memory - 1;
    return DCP_OK;
}
static void odd_free_own(void *context, void *memory) {
    odd_device *d = (odd_device *)context;
    if ((uint8_t *)memory + 1 != d->own_memory) abort();
    free(d->own_memory);
    d->own = 0;
}
static dcp_status odd_copy(odd_device *d, const dcp_tensor *tensor, int64_t offset, void *to, size_t size,
                           uint64_t *ticket, dcp_error *err) {
    if (++d->calls == d->fail_at) return dcpi_fail(err, DCP_E_DEVICE, "the device is gone");
    d->late[d->issued % 64].from = (const uint8_t *)tensor->data + 1 + offset;
    d->late[d->issued % 64].to = to;
    d->late[d->issued % 64].size = size;
    *ticket = d->issued++;
    return DCP_OK;
}
static dcp_status odd_copy_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                               uint64_t *ticket, dcp_error *err) {
    return odd_copy((odd_device *)context, tensor, offset, host, size, ticket, err);
}
static dcp_status odd_copy_own(void *context, void *own, const dcp_tensor *tensor, size_t size, uint64_t *ticket,
                               dcp_error *err) {
    return odd_copy((odd_device *)context, tensor, 0, (uint8_t *)own + 1, size, ticket, err);
}
static dcp_status odd_wait(void *context, uint64_t ticket, dcp_error *err) {
    odd_device *d = (odd_device *)context;
    if (ticket != d->waited++) return dcpi_fail(err, DCP_E_DEVICE, "waited for ticket %d out of order", (int)ticket);
    memcpy(d->late[ticket % 64].to, d->late[ticket % 64].from, d->late[ticket % 64].size);
    return DCP_OK;
}
static void odd_open(odd_device *d, size_t own_bytes) {
    memset(d, 0, sizeof *d);
    d->device.context = d;
    d->device.allocate_host = odd_allocate;
    d->device.free_host = odd_free;
    d->device.copy_out = odd_copy_out;
    d->device.wait = odd_wait;
    d->device.own_bytes = own_bytes;
    if (!own_bytes) return;
    d->device.allocate_own = odd_allocate_own;
    d->device.free_own = odd_free_own;
    d->device.copy_own = odd_copy_own;
}
/* `big` and `same` are the device's. */
static dcp_status odd_begin(bench *b, odd_device *d, uint32_t generation) {
    dcp_save_desc desc = b->desc;
    dcp_status status;
    int i;
    state_free(&b->s);
    state_make(&b->s, 0, 1);
    state_fill(&b->s, generation);
    for (i = 0; i < 2; i++) {
        b->s.tensors[i].device = &d->device;
        b->s.tensors[i].data = (uint8_t *)b->s.tensors[i].data - 1;
    }
    desc.tensors = b->s.tensors;
    desc.tensor_count = TENSORS;
    status = dcp_save_begin(b->saver, &desc, &b->err);
    state_scribble(&b->s);
    return status;
}
TEST(tensors_of_a_device_are_staged) {
    int fail_at;
    for (fail_at = 0; fail_at < 4; fail_at++) {
        odd_device d;
        dcp_status status;
        bench b;
        odd_open(&d, 0);
        bench_open(&b, NULL, NULL);
        d.fail_at = fail_at;
        CHECK_OK_MESSAGE(odd_begin(&b, &d, 8), b.err.message);
        status = bench_wait(&b);
        if (DCPI_THREADS) CHECK_INT(status, fail_at == 0 || fail_at == 3 ? DCP_OK : DCP_E_DEVICE);
        CHECK_INT(d.waited, d.issued);
        if (status) CHECK_INT(count_files(b.storage, "run"), 0);
        else must_hold(b.storage, "run/x", 8, 1);
        if (DCPI_THREADS) CHECK_INT(d.allocated, 1);
        bench_close(&b);
        CHECK_INT(d.allocated, 0);
    }
}
/* Layout, budget, device, what is kept of the base, errors that are tried again: what is stored is what was there when
 * begin was called, and the tensors' memory is freed after it. */
TEST(nothing_is_read_after_begin) {
    static const size_t budgets[] = { 0, 1, 4 * OWN, 4 * (OWN + SAME) };
    const int few = test_is_sampled() || test_is_sanitized();
    int layout, budget, on_device, transient, pause = 3, saved = 0;
    for (layout = 0; layout < 3; layout++)
        for (budget = 0; budget < (int)DCPI_COUNT(budgets); budget++)
            for (on_device = 0; on_device < 2; on_device++)
                for (transient = 0; transient < (few ? 2 : 5); transient++) {
                    dcp_saver_desc desc = DCP_ZERO;
                    uint32_t held = 0, generation;
                    odd_device d;
                    bench b;
                    desc.snapshot_budget = budgets[budget];
                    odd_open(&d, on_device && budget % 2 ? 4 * SAME + 64 : 0);
                    bench_open(&b, NULL, &desc);
                    b.desc.layout = (dcp_layout)layout;
                    b.desc.overwrite = 1;
                    b.fault.hook = slow_write;
                    b.fault.user = &pause;
                    for (generation = 1; generation < 4; generation++) {
                        dcp_status status;
                        if (transient && generation > 1) fault_set(&b.fault, FAULT_WRITE, transient, 1, EIO);
                        status = on_device ? odd_begin(&b, &d, generation) : bench_begin(&b, generation);
                        CHECK_OK_MESSAGE(status, b.err.message);
                        state_free(&b.s);
                        state_make(&b.s, 0, 1);
                        status = bench_wait(&b);
                        b.fault.nth = 0;
                        if (status == DCP_OK) held = generation;
                        else if (layout != DCP_LAYOUT_SINGLE)
                            CHECK(budget > 0 && strstr(b.err.message, "snapshot_budget") != NULL);
                        CHECK(status == DCP_OK || (status == DCP_E_IO && transient));
                        saved += status == DCP_OK;
                        must_hold(b.storage, "run/x", held, 1);
                    }
                    bench_close(&b);
                }
    CHECK(saved > (few ? 100 : 250));
}
/* First to the device's own memory, as far as it goes, and from there while the program goes on. */
TEST(tensors_of_a_device_are_kept_on_it) {
    static const int64_t sizes[2] = { 4 * ROWS * COLUMNS, 4 * SAME };
    static const size_t limits[] = { 1000, 4 * SAME + 64, 4 * ROWS * COLUMNS, 4 * (ROWS * COLUMNS + SAME) + 128 };
    int i, refuses, fail_at, failed = 0;
    if (!DCPI_THREADS) SKIP("without threads nothing is copied");
    for (i = 0; i < (int)DCPI_COUNT(limits); i++)
        for (refuses = 0; refuses < 2; refuses++)
            for (fail_at = 0; fail_at < 8; fail_at++) {
                const int fits_big = !refuses && (size_t)sizes[0] <= limits[i];
                const int fits_same = !refuses && (size_t)sizes[1] <= limits[i] - (size_t)(fits_big ? sizes[0] : 0);
                dcp_status status;
                odd_device d;
                bench b;
                odd_open(&d, limits[i]);
                d.refuses = refuses;
                d.fail_at = fail_at;
                bench_open(&b, NULL, NULL);
                b.desc.overwrite = 1;
                CHECK_OK_MESSAGE(odd_begin(&b, &d, 8), b.err.message);
                CHECK_INT(d.own, (fits_big ? sizes[0] : 0) + (fits_same ? (sizes[1] + 63) / 64 * 64 : 0));
                CHECK_INT(dcp_saver_report(b.saver)->bytes_in_begin, 0);
                status = bench_wait(&b);
                CHECK(status == DCP_OK || (fail_at > 0 && status == DCP_E_DEVICE));
                CHECK(status != DCP_OK || fail_at == 0 || fail_at > d.calls);
                CHECK_INT(d.waited, d.issued);
                failed += status != DCP_OK;
                if (status) CHECK_INT(count_files(b.storage, "run"), 0);
                else must_hold(b.storage, "run/x", 8, 1);
                d.refuses = d.fail_at = 0;              /* with the next save it is asked again */
                CHECK_OK_MESSAGE(odd_begin(&b, &d, 9), b.err.message);
                CHECK(d.own > 0 || limits[i] == 1000);
                CHECK_OK_MESSAGE(bench_wait(&b), b.err.message);
                must_hold(b.storage, "run/x", 9, 1);
                bench_close(&b);
                CHECK(d.own == 0 && d.allocated == 0);
            }
    CHECK(failed > 10);
}

/* ---- ranks that are threads: a job ----------------------------------------------------------------------------------
 * Each step of the program polls and takes part in a collective of its own, so a poll that waited for another rank
 * would never end. */
#if !DCP_NO_THREADS
typedef struct job job;
typedef void (*rank_fn)(job *j, int rank);
struct job {
    int ranks;
    rank_fn fn;
    dcp_storage *storage;
    fault_storage *faults;                              /* NULL, or one for each rank */
    dcp_coordinator *c[RANKS], *app[RANKS];             /* of the saves; of the program */
    dcp_saver *saver[RANKS];
    dcp_saver_desc saver_desc;
    dcp_save_desc desc;                                 /* what all ranks have in common */
    uint32_t generation;
    int pause_ms[RANKS];                                /* between two steps */
    int cancels, cancel_step;                           /* this rank (plus one) cancels in that step */
    const dcp_device *device; int device_rank;          /* where the private tensor of this rank (plus one) is */
    int asks;                                           /* the rank that asks for the verdict */
    int steps;
    dcp_status begun[RANKS], status[RANKS], closed[RANKS];
    dcp_error err[RANKS];
};
static void job_rank(void *user, int rank) {
    job *j = (job *)user;
    j->fn(j, rank);
}
static void job_run(job *j, rank_fn fn) {
    j->fn = fn;
    run_ranks(j->ranks, job_rank, j);
}
enum { BACKGROUND, POLLED, MIXED, MODES };     /* which ranks have a thread-safe coordinator: all, none, the odd ones */
static void job_open(job *j, int ranks, int mode) {
    dcp_error err;
    int r;
    memset(j, 0, sizeof *j);
    j->ranks = ranks;
    j->desc.path = "run/x";
    j->desc.io.timeout_ms = 30000;
    j->desc.io.memory_budget = (size_t)DCPI_MIB;
    j->desc.io.retry.first_ms = 1;
    CHECK_OK(dcp_thread_group_open(ranks, j->c, &err));
    CHECK_OK(dcp_thread_group_open(ranks, j->app, &err));
    for (r = 0; r < ranks; r++) j->c[r]->thread_safe = mode == BACKGROUND || (mode == MIXED && r % 2);
}
static void close_saver(job *j, int rank) { j->closed[rank] = dcp_saver_close(j->saver[rank], &j->err[rank]); }
static void job_close(job *j) {
    int r;
    job_run(j, close_saver);
    for (r = 0; r < j->ranks; r++) {
        dcp_coordinator_close(j->c[r]);
        dcp_coordinator_close(j->app[r]);
    }
}
static void rank_check(dcp_saver *saver) {              /* in a rank thread */
    const char *wrong = dcpi_async_check(saver);
    if (wrong) { printf("the saver: %s\n", wrong); abort(); }
}
static void smaller(void *inout, const void *in, size_t size, void *user) {
    int a, b;
    (void)user;
    memcpy(&a, inout, sizeof a);
    memcpy(&b, in, size);
    if (b < a) memcpy(inout, &b, sizeof b);
}
static void rank_begin(job *j, int rank) {
    dcp_save_desc desc = j->desc;
    state s;
    if (!j->saver[rank] && dcp_saver_open(&j->saver_desc, &j->saver[rank], NULL)) abort();
    state_make(&s, rank, j->ranks);
    state_fill(&s, j->generation);
    desc.tensors = s.tensors;
    desc.tensor_count = TENSORS;
    desc.io.storage = j->faults ? &j->faults[rank].storage : j->storage;
    desc.io.coordinator = j->c[rank];
    if (j->device_rank == rank + 1) s.tensors[2].device = j->device;
    j->begun[rank] = dcp_save_begin(j->saver[rank], &desc, &j->err[rank]);
    rank_check(j->saver[rank]);
    state_scribble(&s);
    state_free(&s);
}
/* Steps, in which rank 0 computes for a millisecond, until all ranks know the result. The last one in common is that
 * all do. */
static void rank_steps(job *j, int rank) {
    int all = 0, step = 0, knows = 0;
    dcp_error ignored;
    while (!all) {
        if (j->cancels == rank + 1 && step == j->cancel_step) dcp_save_cancel(j->saver[rank]);
        if (!knows) {
            j->status[rank] = dcp_save_poll(j->saver[rank], &j->err[rank]);
            rank_check(j->saver[rank]);
            knows = j->status[rank] != DCP_PENDING;
        }
        if (rank == 0 || j->pause_ms[rank] > 0) dcpi_os_sleep_ms(j->pause_ms[rank] > 0 ? j->pause_ms[rank] : 1);
        all = knows;
        if (dcp_allreduce(j->app[rank], &all, sizeof all, smaller, NULL, WITHIN(60000), &ignored)) abort();
        step++;
    }
    if (rank == 0) j->steps = step;
}
static void rank_save(job *j, int rank) {
    dcp_error begun;
    rank_begin(j, rank);
    begun = j->err[rank];
    rank_steps(j, rank);                              /* where begin failed, idle: another rank may find that in poll */
    if (j->begun[rank] == DCP_OK) return;
    j->status[rank] = j->begun[rank];
    j->err[rank] = begun;
}

TEST(ranks_save_while_they_compute) {
    static const int sizes[] = { 1, 2, 3, 4 };
    const int few = test_is_slow() || test_is_sanitized();
    int mode, i, layout, budget;
    uint32_t generation = 0;
    for (mode = 0; mode < MODES; mode++)
        for (i = few ? 2 : 0; i < (int)DCPI_COUNT(sizes) - few; i++)
            for (budget = 0; budget < 2; budget++) {
                job j;
                dcp_error err;
                job_open(&j, sizes[i], mode);
                if (budget) j.saver_desc.snapshot_budget = 20000;
                for (layout = 0; layout < 4; layout++) {               /* the single file: through rank 0, and by all */
                    if (layout == 2) CHECK_OK(dcp_storage_memory(&j.storage, &err));
                    if (layout == 0)
                        CHECK_OK(dcp_storage_local(test_state.dirs < 12 ? test_dir() : test_state.dir[11], &j.storage,
                                                   &err));
                    j.desc.layout = layout % 2 ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
                    j.desc.path = layout % 2 ? "run/single" : "run/x";
                    j.desc.overwrite = 1;
                    j.generation = ++generation;
                    job_run(&j, rank_save);
                    check_all(&j, DCP_OK, NULL);
                    must_hold(j.storage, j.desc.path, generation, sizes[i]);
                    j.generation = ++generation;                        /* over it */
                    job_run(&j, rank_save);
                    check_all(&j, DCP_OK, NULL);
                    must_hold(j.storage, j.desc.path, generation, sizes[i]);
                    if (layout % 2) CHECK_INT(count_files(j.storage, "run"), sizes[i] + 2);
                    if (layout == 3) dcp_storage_close(j.storage);
                    if (layout == 1) dcp_storage_close(j.storage);
                }
                job_close(&j);
            }
}
static void open_faults(job *j, fault_storage *faults) {
    int r;
    for (r = 0; r < j->ranks; r++) fault_open(&faults[r], j->storage);
    j->faults = faults;
}
static void close_faults(job *j) {
    int r;
    for (r = 0; r < j->ranks; r++) fault_close(&j->faults[r]);
    j->faults = NULL;
}
/* The same of manifests: what is beyond the budget is hashed, and written, before begin returns on that rank; over a
 * base whose files are kept. */
TEST(ranks_save_manifests_while_they_compute) {
    static const size_t budgets[] = { 0, 1, 20000 };
    const int few = test_is_slow() || test_is_sanitized();
    int mode, ranks, i, pause = 2, r;
    for (mode = 0; mode < MODES; mode++)
        for (ranks = few ? 2 : 1; ranks <= (few ? 2 : 3); ranks++)
            for (i = 0; i < (int)DCPI_COUNT(budgets); i++) {
                static const uint32_t generations[] = { 1, 1, 2, 3 };
                fault_storage faults[RANKS];
                size_t g;
                job j;
                dcp_error err;
                job_open(&j, ranks, mode);
                j.saver_desc.snapshot_budget = budgets[i];
                CHECK_OK(dcp_storage_memory(&j.storage, &err));
                open_faults(&j, faults);
                for (r = 0; r < ranks; r++) { faults[r].hook = slow_write; faults[r].user = &pause; }
                j.desc.layout = DCP_LAYOUT_MANIFEST;
                j.desc.overwrite = 1;
                for (g = 0; g < DCPI_COUNT(generations); g++) {
                    j.generation = generations[g];
                    if (g == 3) fault_set(&faults[ranks - 1], FAULT_WRITE, 3, 1, EIO);
                    job_run(&j, rank_save);
                    check_all(&j, DCP_OK, NULL);
                    must_hold(j.storage, "run/x", j.generation, ranks);
                }
                close_faults(&j);
                job_close(&j);
                dcp_storage_close(j.storage);
            }
}
/* One rank's failure in the background is everyone's, the checkpoint before stays, and the next save works. */
TEST(one_ranks_failure_is_everyones) {
    static const fault_kind kinds[] = { FAULT_BEGIN, FAULT_WRITE, FAULT_COMMIT, FAULT_STAT };
    int round, mode, who;
    size_t k;
    for (round = 0; round < 2 * MODES; round += test_is_slow() ? 3 : 1) {
        /* the single file goes through rank 0 here */
        fault_storage faults[RANKS];
        uint32_t held;
        job j;
        dcp_error err;
        mode = round / 2;
        job_open(&j, 3, mode);
        j.desc.layout = round % 2 ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        open_faults(&j, faults);
        j.desc.overwrite = 1;
        held = j.generation = 1;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        for (who = 0; who < 3; who++)
            for (k = 0; k < DCPI_COUNT(kinds); k++) {
                if (kinds[k] == FAULT_STAT && who > 0) continue;
                j.generation++;
                fault_set(&faults[who], kinds[k], 1, 1, ENOSPC);
                job_run(&j, rank_save);
                faults[who].nth = 0;
                if (faults[who].failed == 0) { check_all(&j, DCP_OK, NULL); held = j.generation; }
                else check_all(&j, DCP_E_SPACE, "injected");
                faults[who].failed = 0;
                must_hold(j.storage, "run/x", held, 3);
                CHECK_INT(count_files(j.storage, "run"), round % 2 ? 1 : 4);
            }
        j.generation++;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        must_hold(j.storage, "run/x", j.generation, 3);
        close_faults(&j);
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
/* A rank that still has much to write when another one has failed stops soon, whoever sends the messages. */
enum { LONG = 8 << 20 };
static void rank_save_long(job *j, int rank) {
    static const int64_t shape[1] = { LONG };
    dcp_save_desc desc = j->desc;
    uint8_t *bytes = (uint8_t *)must(calloc(LONG, 1));
    dcp_tensor t = dcp_array("long", DCP_UINT8, bytes, 1, shape);
    t.placement = DCP_PLACE_PRIVATE;
    if (!j->saver[rank] && dcp_saver_open(NULL, &j->saver[rank], NULL)) abort();
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = &j->faults[rank].storage;
    desc.io.coordinator = j->c[rank];
    if (dcp_save_begin(j->saver[rank], &desc, &j->err[rank])) abort();
    free(bytes);
    rank_steps(j, rank);
}
TEST(nobody_writes_on_when_a_rank_has_failed) {
    int pause = 100, mode, who, r;                  /* long, so that all ranks have their turns on a busy machine too */
    for (mode = 0; mode < MODES; mode++)
        for (who = 0; who < 2; who++) {
            fault_storage faults[RANKS];
            int64_t writes = 0;
            job j;
            dcp_error err;
            job_open(&j, 3, mode);
            CHECK_OK(dcp_storage_memory(&j.storage, &err));
            j.desc.overwrite = 1;
            open_faults(&j, faults);
            if (who == 0) {
                job_run(&j, rank_save_long);
                check_all(&j, DCP_OK, NULL);
                writes = faults[2].calls[FAULT_WRITE];
            }
            for (r = 0; r < 3; r++) {
                faults[r].calls[FAULT_WRITE] = 0;
                faults[r].hook = slow_write;
                faults[r].user = &pause;
            }
            fault_set(&faults[who], FAULT_WRITE, 1, 1, ENOSPC);
            job_run(&j, rank_save_long);
            check_all(&j, DCP_E_SPACE, "injected");
            if (who == 0) CHECK(writes > 30);
            for (r = 0; r < 3; r++) CHECK(faults[r].calls[FAULT_WRITE] < 28);   /* of more than 30 */
            close_faults(&j);
            job_close(&j);
            dcp_storage_close(j.storage);
        }
}
/* The single file through rank 0: a rank that waits in begin to send its bytes hears of another rank's failure, though
 * rank 0 is in its program. */
static dcp_status broken_copy_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                                  uint64_t *ticket, dcp_error *err) {
    (void)context; (void)host; (void)tensor; (void)offset; (void)size; (void)ticket;
    return dcpi_fail(err, DCP_E_DEVICE, "the device is gone");
}
TEST(a_failure_reaches_ranks_that_wait_in_begin) {
    int round;
    for (round = 0; round < 3 * MODES; round++) {
        dcp_device device;
        job j;
        dcp_error err;
        memset(&device, 0, sizeof device);
        device.copy_out = broken_copy_out;
        device.wait = odd_wait;
        job_open(&j, 3, round / 3);
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        j.desc.layout = DCP_LAYOUT_SINGLE;
        j.device = &device;
        j.device_rank = 1 + round % 3;
        j.generation = 1;
        job_run(&j, rank_save);
        check_all(&j, DCP_E_DEVICE, "gone");
        CHECK_INT(count_files(j.storage, "run"), 0);
        j.device_rank = 0;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        must_hold(j.storage, "run/x", 1, 3);
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
TEST(one_rank_cancels_at_random_times) {
    int times = test_times(40), i, cancelled = 0, pause = 2;
    fault_storage faults[RANKS];
    uint32_t held = 1;
    for (i = 0; i < times; i++) {
        const int ranks = 1 + (int)test_random_below(4), mode = (int)test_random_below(MODES);
        job j;
        dcp_error err;
        int r;
        job_open(&j, ranks, mode);
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        open_faults(&j, faults);
        j.desc.overwrite = 1;
        j.desc.layout = test_random_below(2) ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        held = j.generation = 1;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        for (r = 0; r < ranks; r++) {
            faults[r].hook = slow_write;
            faults[r].user = &pause;
            j.pause_ms[r] = 1;
        }
        j.cancels = 1 + (int)test_random_below((size_t)ranks);
        j.cancel_step = (int)test_random_below(12);
        j.generation = 2;
        job_run(&j, rank_save);
        if (j.status[0] == DCP_OK) { check_all(&j, DCP_OK, NULL); held = 2; }
        else { check_all(&j, DCP_E_CANCELLED, "cancelled"); cancelled++; }
        must_hold(j.storage, "run/x", held, ranks);
        CHECK_INT(count_files(j.storage, "run"), j.desc.layout == DCP_LAYOUT_SINGLE ? 1 : ranks + 1);
        close_faults(&j);
        job_close(&j);
        dcp_storage_close(j.storage);
    }
    CHECK(cancelled > 0);
}
/* What begin finds out is begin's on all ranks, and the saver works on. */
TEST(begin_fails_on_all_ranks_alike) {
    int mode;
    for (mode = 0; mode < MODES; mode++) {
        job j;
        dcp_error err;
        int r;
        job_open(&j, 4, mode);
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        j.generation = 1;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        job_run(&j, rank_save);                         /* it is there already */
        check_all(&j, DCP_E_EXISTS, "overwrite");
        for (r = 0; r < 4; r++) CHECK_INT(j.begun[r], DCP_E_EXISTS);
        j.desc.overwrite = 1;
        j.generation = 2;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        must_hold(j.storage, "run/x", 2, 4);
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
/* One rank has asked for the verdict and the others have not: the next begin says it on all ranks and begins nothing;
 * close says it to each. */
static void rank_only_one_asks(job *j, int rank) {
    dcpi_async_await(j->saver[rank], -1);
    if (rank == j->asks) j->status[rank] = dcp_save_poll(j->saver[rank], &j->err[rank]);
}
TEST(an_unfetched_verdict_is_that_of_all_ranks) {
    int mode, who, layout, r;
    for (mode = 0; mode < MODES; mode++)
        for (who = 0; who < 3; who++)
            for (layout = DCP_LAYOUT_SHARDED; layout <= DCP_LAYOUT_MANIFEST; layout++) {
                const int at = layout != DCP_LAYOUT_SINGLE;             /* rank 0 publishes a file in begin */
                fault_storage faults[RANKS];
                job j;
                dcp_error err;
                job_open(&j, 3, mode);
                CHECK_OK(dcp_storage_memory(&j.storage, &err));
                open_faults(&j, faults);
                j.desc.layout = (dcp_layout)layout;
                j.generation = 1;
                fault_set(&faults[at], FAULT_COMMIT, 1, 1000, ENOSPC);
                job_run(&j, rank_begin);
                for (r = 0; r < 3; r++) CHECK_OK(j.begun[r]);
                j.asks = who;
                job_run(&j, rank_only_one_asks);
                CHECK_INT(j.status[who], DCP_E_SPACE);
                faults[at].nth = 0;
                job_run(&j, rank_begin);
                for (r = 0; r < 3; r++) {
                    CHECK_INT(j.begun[r], DCP_E_SPACE);
                    CHECK(strstr(j.err[r].message, "the save before") != NULL);
                    CHECK(strstr(j.err[r].message, "injected") != NULL);
                }
                CHECK_INT(count_files(j.storage, "run"), 0);
                job_run(&j, rank_save);
                check_all(&j, DCP_OK, NULL);
                must_hold(j.storage, "run/x", 1, 3);
                j.desc.path = "run/y";
                j.generation = 2;
                fault_set(&faults[at], FAULT_COMMIT, 1, 1000, ENOSPC);
                job_run(&j, rank_begin);
                job_run(&j, rank_only_one_asks);
                job_close(&j);
                for (r = 0; r < 3; r++) CHECK_INT(j.closed[r], r == who ? DCP_OK : DCP_E_SPACE);
                close_faults(&j);
                dcp_storage_close(j.storage);
            }
}
/* A second begin at once, on each rank at another time: all are refused, or none. */
static void rank_begin_twice(job *j, int rank) {
    dcp_status first;
    rank_begin(j, rank);
    first = j->begun[rank];
    if (rank == 1) dcpi_os_sleep_ms(30);
    rank_begin(j, rank);
    if (first) abort();
    rank_steps(j, rank);
}
TEST(begin_is_refused_on_all_ranks_alike) {
    int mode, busy, pause, refused = 0, i;
    for (mode = 0; mode < MODES; mode++)
        for (busy = DCP_BUSY_WAIT; busy <= DCP_BUSY_REFUSE; busy++)
            for (i = 0; i < 3; i++) {
                fault_storage faults[RANKS];
                job j;
                dcp_error err;
                int r;
                pause = i == 0 ? 0 : 20;
                job_open(&j, 3, mode);
                CHECK_OK(dcp_storage_memory(&j.storage, &err));
                open_faults(&j, faults);
                for (r = i == 2 ? 2 : 0; r < 3; r++) { faults[r].hook = slow_write; faults[r].user = &pause; }
                j.desc.overwrite = 1;
                j.saver_desc.when_busy = (dcp_when_busy)busy;
                j.generation = 1;
                job_run(&j, rank_begin_twice);
                for (r = 1; r < 3; r++) CHECK_INT(j.begun[r], j.begun[0]);
                CHECK(j.begun[0] == DCP_OK || (busy == DCP_BUSY_REFUSE && j.begun[0] == DCP_PENDING));
                refused += j.begun[0] == DCP_PENDING;
                check_all(&j, DCP_OK, NULL);
                must_hold(j.storage, "run/x", 1, 3);
                CHECK_INT(count_files(j.storage, "run"), 4);
                close_faults(&j);
                job_close(&j);
                dcp_storage_close(j.storage);
            }
    CHECK(refused > 0);
}
/* Another operation on the coordinator of a save in the background comes after it; a barrier does not. */
static void rank_load_at_once(job *j, int rank) {
    dcp_load_desc load = DCP_ZERO;
    state s;
    dcp_error err;
    int64_t i;
    rank_begin(j, rank);
    if (j->begun[rank]) abort();
    if (dcp_barrier(j->c[rank], WITHIN(30000), &err)) abort();
    state_make(&s, rank, j->ranks);
    load.path = j->desc.path;
    load.tensors = s.tensors;
    load.tensor_count = TENSORS;
    load.io.storage = j->faults ? &j->faults[rank].storage : j->storage;
    load.io.coordinator = j->c[rank];
    j->status[rank] = dcp_load(&load, &j->err[rank]);
    for (i = 0; i < OWN && j->status[rank] == DCP_OK; i++) if (s.own[i] != value(j->generation, 2 + rank, i)) abort();
    state_free(&s);
    if (dcp_save_poll(j->saver[rank], &err)) abort();   /* it has ended, and its verdict is still there */
}
TEST(a_load_on_the_same_coordinator_comes_after_the_save) {
    int mode, pause = 10;
    for (mode = 0; mode < MODES; mode++) {
        fault_storage faults[RANKS];
        job j;
        dcp_error err;
        int r;
        job_open(&j, 3, mode);
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        open_faults(&j, faults);
        for (r = 0; r < 3; r++) { faults[r].hook = slow_write; faults[r].user = &pause; }
        j.generation = 3;
        job_run(&j, rank_load_at_once);
        check_all(&j, DCP_OK, NULL);
        close_faults(&j);
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
/* A coordinator that often does not take at once what a poll sends, and is late. */
TEST(reluctant_coordinators) {
    int times = test_times(30), i;
    for (i = 0; i < times; i++) {
        const int ranks = 2 + (int)test_random_below(3);
        fault_plan plans[RANKS];
        job j;
        dcp_error err;
        int r;
        job_open(&j, ranks, POLLED);
        memset(plans, 0, sizeof plans);
        for (r = 0; r < ranks; r++) {
            plans[r].seed = test_random();
            plans[r].reluctant_percent = 80;
            plans[r].delay_percent = 5;
            plans[r].delay_ms = 2;
            j.c[r] = fault_wrap(j.c[r], &plans[r]);
            j.pause_ms[r] = (int)test_random_below(3);
        }
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        j.desc.layout = i % 2 ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
        j.generation = (uint32_t)i + 1;
        if (i % 5 == 4) { j.cancels = 1 + i % ranks; j.cancel_step = i % 3; }
        job_run(&j, rank_save);
        if (j.status[0] == DCP_E_CANCELLED) check_all(&j, DCP_E_CANCELLED, NULL);
        else { check_all(&j, DCP_OK, NULL); must_hold(j.storage, "run/x", j.generation, ranks); }
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
/* Polls that are further apart than the timeout: what all ranks do together is no silence. */
TEST(polls_further_apart_than_the_timeout) {
    int r;
    job j;
    dcp_error err;
    job_open(&j, 3, POLLED);
    CHECK_OK(dcp_storage_memory(&j.storage, &err));
    j.desc.io.timeout_ms = 300 * (test_is_slow() ? 10 : test_is_sanitized() ? 3 : 1);
    j.generation = 1;
    for (r = 0; r < 3; r++) j.pause_ms[r] = 2 * j.desc.io.timeout_ms;
    job_run(&j, rank_save);
    check_all(&j, DCP_OK, NULL);
    CHECK(j.steps < 8);
    must_hold(j.storage, "run/x", 1, 3);
    job_close(&j);
    dcp_storage_close(j.storage);
}
/* A write that takes longer than the timeout: who polls, or works in the background, is alive. */
TEST(slow_is_not_dead) {
    int mode, pause, r;
    for (mode = 0; mode < MODES; mode++) {
        fault_storage faults[RANKS];
        job j;
        dcp_error err;
        job_open(&j, 3, mode);
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        open_faults(&j, faults);
        j.desc.io.timeout_ms = 1000 * (test_is_slow() ? 5 : test_is_sanitized() ? 3 : 1);
        pause = 2 * j.desc.io.timeout_ms;
        /* a step: seconds without one would only keep the processors busy */
        for (r = 0; r < 3; r++) j.pause_ms[r] = 5;
        faults[mode].hook = slow_write;
        faults[mode].user = &pause;
        j.generation = 1;
        job_run(&j, rank_save);
        check_all(&j, DCP_OK, NULL);
        must_hold(j.storage, "run/x", 1, 3);
        close_faults(&j);
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
/* One rank does not poll for longer than the timeout, and the others do: it is taken for dead, and finds that out when
 * it polls again. */
static void rank_one_sleeps(job *j, int rank) {
    rank_begin(j, rank);
    if (j->begun[rank]) abort();
    if (rank == j->cancels - 1) dcpi_os_sleep_ms(4 * j->desc.io.timeout_ms);
    j->status[rank] = dcp_save_wait(j->saver[rank], -1, &j->err[rank]);
    rank_check(j->saver[rank]);
}
TEST(a_rank_that_does_not_poll_is_taken_for_dead) {
    int who;
    for (who = 0; who < 3; who += 2) {
        job j;
        dcp_error err;
        int r;
        job_open(&j, 3, POLLED);
        CHECK_OK(dcp_storage_memory(&j.storage, &err));
        j.desc.io.timeout_ms = 1000 * (test_is_slow() ? 10 : test_is_sanitized() ? 3 : 1);
        j.generation = 1;
        j.cancels = who + 1;
        job_run(&j, rank_one_sleeps);
        if (who == 2) check_all(&j, DCP_E_TIMEOUT, "rank 2");
        for (r = 1; r < 3 && who == 0; r++) {           /* they had done their part: rank 0 alone knows */
            CHECK_INT(j.status[r], DCP_E_UNKNOWN);
            CHECK(strstr(j.err[r].message, "rank 0") != NULL);
        }
        if (who == 0 && j.status[0] == DCP_OK) must_hold(j.storage, "run/x", 1, 3);
        /* a plain name, which by then could have been another save's */
        if (who == 2) CHECK(count_files(j.storage, "run") <= 1);
        for (r = 0; r < 3; r++) CHECK(dcpi_coord_status(j.c[r]) != DCP_OK || (who == 0 && r == 0));
        job_close(&j);
        dcp_storage_close(j.storage);
    }
}
/* Lost memory on any thread of any rank: one verdict, no leak, nothing of a mixture. */
TEST(any_allocation_fails_on_some_rank) {
    int64_t live = hungry_live(), nth;
    int mode;
    for (mode = 0; mode < 2; mode++)
        for (nth = 1; nth < 700; nth += test_is_slow() || test_is_sanitized() ? 41 : 7) {
            job j;
            dcp_error err;
            int r;
            job_open(&j, 3, mode);
            CHECK_OK(dcp_storage_memory(&j.storage, &err));
            j.desc.io.timeout_ms = 5000;
            j.generation = 1;
            for (r = 0; r < 3; r++) CHECK_OK(dcp_saver_open(NULL, &j.saver[r], &err));
            for (r = 0; r < 3; r++) dcpi_coord_break(j.app[r], DCP_OK);     /* the test's own have their memory */
            hungry_fail(nth + (int64_t)test_random_below(7), 0);
            job_run(&j, rank_begin);
            hungry_fail(0, 0);
            job_run(&j, rank_steps);
            for (r = 0; r < 3; r++) if (j.begun[r]) j.status[r] = j.begun[r];
            for (r = 0; r < 3; r++) {
                CHECK(j.status[r] == DCP_OK || j.status[r] == DCP_E_MEMORY || j.status[r] == DCP_E_COMM ||
                      j.status[r] == DCP_E_TIMEOUT || j.status[r] == DCP_E_UNKNOWN);
                CHECK((j.status[r] == DCP_OK) == (j.status[0] == DCP_OK) || j.status[r] == DCP_E_UNKNOWN ||
                      j.status[0] == DCP_E_UNKNOWN);
            }
            if (j.status[0] == DCP_OK) must_hold(j.storage, "run/x", 1, 3);
            job_close(&j);
            dcp_storage_close(j.storage);
            CHECK_INT(hungry_live(), live);
        }
}
#endif

/* ---- processes: killed, stopped, polling ------------------------------------------------------------------------- */
#if !DCP_NO_THREADS && !defined(_WIN32)
static const char *process_dir;
static struct { uint32_t generation; int timeout_ms, pause_ms; dcp_layout layout; } process_plan;

static dcp_status process_save(dcp_coordinator *c, process_record *out, int poll_pause_ms) {
    dcp_storage *storage;
    dcp_save_desc desc = DCP_ZERO;
    dcp_saver *saver;
    dcp_status status;
    state s;
    int pause = process_plan.pause_ms;
    fault_storage fault;
    if (dcp_storage_local(process_dir, &storage, &out->err)) abort();
    fault_open(&fault, storage);
    fault.hook = slow_write;
    fault.user = &pause;
    if (dcp_saver_open(NULL, &saver, &out->err)) abort();
    state_make(&s, c ? c->rank : 0, c ? c->world_size : 1);
    state_fill(&s, process_plan.generation);
    desc.path = "run/x";
    desc.overwrite = 1;
    desc.layout = process_plan.layout;
    desc.tensors = s.tensors;
    desc.tensor_count = TENSORS;
    desc.io.storage = &fault.storage;
    desc.io.coordinator = c;
    desc.io.timeout_ms = process_plan.timeout_ms;
    desc.io.memory_budget = (size_t)DCPI_MIB;
    status = dcp_save_begin(saver, &desc, &out->err);
    state_scribble(&s);
    process_stage(out, 1);
    while (status == DCP_OK && (status = dcp_save_poll(saver, &out->err)) == DCP_PENDING) {
        if (poll_pause_ms < 0) { process_stage(out, 2); poll_pause_ms = 1; }
        dcpi_os_sleep_ms(poll_pause_ms);
        status = DCP_OK;
    }
    process_stage(out, 3);
    if (dcp_saver_close(saver, NULL)) abort();          /* poll has said it */
    fault_close(&fault);
    dcp_storage_close(storage);
    state_free(&s);
    return status;
}
static void process_rank(dcp_coordinator *c, process_record *out, void *user) {
    const int64_t began = dcpi_os_monotonic_ms();
    (void)user;
    out->status = process_save(c, out, 1);
    out->took_ms = dcpi_os_monotonic_ms() - began;
}
static void process_all_ok(int ranks, uint32_t generation) {
    process_group g;
    dcp_storage *storage;
    dcp_error err;
    int r;
    process_plan.generation = generation;
    process_plan.timeout_ms = 30000;
    process_plan.pause_ms = 0;
    process_group_start(&g, ranks, process_rank, NULL);
    CHECK(process_await_end(&g, 0, 60000));
    for (r = 0; r < ranks; r++) CHECK_OK_MESSAGE(g.shared->record[r].status, g.shared->record[r].err.message);
    process_group_end(&g);
    CHECK_OK(dcp_storage_local(process_dir, &storage, &err));
    must_hold(storage, "run/x", generation, ranks);
    dcp_storage_close(storage);
}
TEST(processes_that_poll) {
    int ranks, layout;
    for (layout = 0; layout < 2; layout++)
        for (ranks = 1; ranks <= 4; ranks++) {
            process_dir = test_dir();
            process_plan.layout = layout ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
            process_all_ok(ranks, 1);
            process_all_ok(ranks, 2);
        }
}
/* A rank is killed or stopped while all write: the others have one verdict in time, and the checkpoint before is
 * there. */
TEST(a_rank_dies_or_stops_in_the_background) {
    static const int signals[] = { SIGKILL, SIGSTOP };
    const int slowness = test_is_slow() ? 10 : test_is_sanitized() ? 4 : 1;
    int i, who, r;
    process_dir = test_dir();
    process_plan.layout = DCP_LAYOUT_SHARDED;
    process_all_ok(3, 1);
    for (i = 0; i < 2; i++)
        for (who = 0; who < 3; who++) {
            process_group g;
            dcp_storage *storage;
            dcp_error err;
            process_plan.generation = 2;
            process_plan.timeout_ms = 1000;
            process_plan.pause_ms = 60;
            process_group_start(&g, 3, process_rank, NULL);
            process_await_stage(&g, who, 1);
            process_signal(&g, who, signals[i]);
            CHECK(process_await_end(&g, 1u << who, 10000 * slowness));
            for (r = 0; r < 3; r++) {
                const process_record *record = &g.shared->record[r];
                if (r == who) continue;
                if (record->status != DCP_E_TIMEOUT && record->status != DCP_E_COMM && record->status != DCP_E_UNKNOWN)
                    test_fail(__FILE__, __LINE__, dcp_status_name(record->status), record->err.message);
                CHECK(strlen(record->err.message) > 0);
                CHECK(record->took_ms < 5000 * slowness);
            }
            process_group_end(&g);
            CHECK_OK(dcp_storage_local(process_dir, &storage, &err));
            must_hold(storage, "run/x", 1, 3);
            dcp_storage_close(storage);
        }
    process_all_ok(3, 3);
}
/* One process is killed while it saves in the background: the old checkpoint or the new one, wholly; a sweep leaves
 * only its files. */
TEST(killed_during_background_saves) {
    int times = test_times(60), i, news = 0, olds = 0;
    uint32_t held = 1;
    dcp_storage *storage;
    dcp_error err;
    process_dir = test_dir();
    CHECK_OK(dcp_storage_local(process_dir, &storage, &err));
    process_plan.layout = DCP_LAYOUT_SHARDED;
    process_all_ok(1, held);
    for (i = 0; i < times; i++) {
        dcp_sweep_desc sweep = DCP_ZERO;
        dcp_removal removal;
        process_group g;
        uint32_t next = (uint32_t)i + 2;
        process_plan.layout = DCP_LAYOUT_SHARDED;
        process_plan.generation = next;
        process_plan.pause_ms = 0;
        process_group_start(&g, 1, process_rank, NULL);
        process_await_stage(&g, 0, 1);
        if (i % 3) dcpi_os_sleep_ms((int)test_random_below(12));
        if (g.pid[0] > 0) { (void)kill(g.pid[0], SIGKILL); }
        process_group_end(&g);
        if (check_generation(storage, "run/x", next, 1, &err) == DCP_OK) { held = next; news++; }
        else { must_hold(storage, "run/x", held, 1); olds++; }
        sweep.directory = "run";
        sweep.grace_seconds = -1;
        sweep.plain_names = 1;
        sweep.io.storage = storage;
        CHECK_OK_MESSAGE(dcp_sweep(&sweep, &removal, &err), err.message);
        dcp_removal_free(&removal);
        CHECK_INT(count_files(storage, "run"), 2);
        must_hold(storage, "run/x", held, 1);
    }
    CHECK(olds > 0);
    (void)news;
    dcp_storage_close(storage);
}
#endif

int main(void) {
    RUN(the_tensors_are_the_callers_when_begin_returns);
    RUN(poll_is_pending_and_then_says_it_once);
    RUN(wrong_arguments);
    RUN(everything_of_the_desc_is_copied);
    RUN(the_files_are_those_of_dcp_save);
    RUN(what_is_beyond_the_budget_is_written_in_begin);
    RUN(retries_end_where_the_callers_memory_does);
    RUN(errors_in_the_background_surface);
    RUN(a_verdict_that_nobody_fetched_is_returned);
    RUN(warnings_are_in_the_report);
    RUN(transient_errors_are_tried_again_and_logged);
    RUN(a_deadline_that_is_missed_leaves_the_checkpoint_before);
    RUN(cancelled_at_random_times);
    RUN(a_cancel_after_the_commit_leaves_nothing);
    RUN(progress_comes_on_the_calling_thread);
    RUN(two_hundred_saves_in_a_row);
    RUN(begin_waits_for_the_save_before);
    RUN(begin_is_refused_while_one_runs);
    RUN(two_savers_at_a_time);
    RUN(close_waits);
    RUN(any_allocation_fails);
    RUN(tensors_of_a_device_are_staged);
    RUN(tensors_of_a_device_are_kept_on_it);
    RUN(nothing_is_read_after_begin);
#if !DCP_NO_THREADS
    RUN(ranks_save_while_they_compute);
    RUN(ranks_save_manifests_while_they_compute);
    RUN(one_ranks_failure_is_everyones);
    RUN(nobody_writes_on_when_a_rank_has_failed);
    RUN(a_failure_reaches_ranks_that_wait_in_begin);
    RUN(one_rank_cancels_at_random_times);
    RUN(begin_fails_on_all_ranks_alike);
    RUN(an_unfetched_verdict_is_that_of_all_ranks);
    RUN(begin_is_refused_on_all_ranks_alike);
    RUN(a_load_on_the_same_coordinator_comes_after_the_save);
    RUN(reluctant_coordinators);
    RUN(polls_further_apart_than_the_timeout);
    RUN(slow_is_not_dead);
    RUN(a_rank_that_does_not_poll_is_taken_for_dead);
    RUN(any_allocation_fails_on_some_rank);
#ifndef _WIN32
    RUN(processes_that_poll);
    RUN(a_rank_dies_or_stops_in_the_background);
    RUN(killed_during_background_saves);
#endif
#endif
    return test_finish();
}
