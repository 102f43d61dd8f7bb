/* mpi_checkpoint.c - one rank of the tests of saving and loading that test_mpi.sh runs under mpirun:
 *
 *     mpi_checkpoint all DIR LEVEL                     saves, loads, failures of one rank; leaves step_4 (sharded) and
 *                                                      step_5 (single) in DIR
 *     mpi_checkpoint load DIR LEVEL                    loads what `all` left, on any number of ranks
 *     mpi_checkpoint async DIR LEVEL                   saves in the background, polled once a step between collectives
 *                                                      of the program's own
 *     mpi_checkpoint next DIR LOW HIGH LAYOUT          a program's start: the newest checkpoint, of generation LOW to
 *                                                      HIGH (0: none), is loaded and what killed saves left is swept;
 *                                                      then the next generation is saved
 *     mpi_checkpoint next DIR LOW HIGH LAYOUT SIGNAL RANK CALL NTH before|after [STATUS END]
 *                                                      but in that save's NTH CALL (write, commit, list, stat, leave,
 *                                                      send) RANK gets STOP or KILL; the others must return STATUS in
 *                                                      time and name it, and end the job by END: abort or exit
 *     mpi_checkpoint background DIR LOW HIGH LAYOUT KILL RANK CALL NTH before|after LEVEL
 *                                                      the same in a save in the background, which the program polls
 *
 * LEVEL: single (MPI_Init), funneled, multiple (then a second thread makes all calls). LAYOUT: sharded or single.
 * Prints `fine RANK` last, or `wrong RANK: line N: ...` and ends the job. C99 that is also C++11. */
#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp.h"
#include "within.h"
#include "test.h"                       /* only for what it says of statuses */

static int rank, ranks;
static dcp_error err;
static dcp_storage *storage;
static dcp_coordinator *all_ranks;
static char **args;

#define EXPECT(condition) do { if (!(condition)) wrong(__LINE__, #condition); } while (0)

static void wrong(int line, const char *what) {
    printf("wrong %d: line %d: %s; %s: %s\n", rank, line, what, dcp_status_name(err.status), err.message);
    (void)fflush(stdout);
    dcpi_mpi_sleep(200000);
    _exit(3);
}

/* ---- a state, whose bytes tell its generation: each rank has its part of it -------------------------------------- */
enum { HIGH = 37, WIDE = 23, FEW = 6, WEIGHTS = 300000, OWN = 500, TENSORS = 6 };
/* MINE last: it is private, and loads on the same number of ranks only */
enum { GRID, COLUMNS, COUNTS, WEIGHT, STEP, MINE };
static const char *const names[TENSORS] = { "grid", "columns", "counts", "weights", "step", "mine" };
static const size_t widths[TENSORS] = { 4, 2, 8, 1, 8, 2 };
typedef struct state {
    dcp_tensor tensors[TENSORS];
    unsigned char *memory[TENSORS]; size_t size[TENSORS];
} state;

static unsigned char byte_of(int generation, int tensor, int64_t element, size_t b) {
    return (unsigned char)(((uint64_t)generation * 977 + (uint64_t)tensor * 131 + (uint64_t)element * 8 + b + 1) *
                           2654435761u >> 13);
}
/* Calls each element of a rank's piece with its place in the whole: writes it, or returns how many bytes of the piece
 * are not as they should be. */
static size_t state_bytes(const state *s, int tensor, int generation, int is_fill) {
    const dcp_tensor *t = &s->tensors[tensor];
    const int64_t rows = t->ndim == 2 ? t->shape[0] : 1, columns = t->ndim == 0 ? 1 : t->shape[t->ndim - 1];
    const int64_t row_step = t->ndim == 2 ? t->stride[0] : 0, wide = t->ndim == 2 ? WIDE : 0;
    const int64_t first = t->ndim == 2 ? t->global_offset[0] : 0, left = t->ndim ? t->global_offset[t->ndim - 1] : 0;
    int64_t i, k;
    size_t b, bad = 0;
    for (i = 0; i < rows; i++) for (k = 0; k < columns; k++) for (b = 0; b < widths[tensor]; b++) {
        unsigned char *at = (unsigned char *)t->data + (size_t)(i * row_step + k) * widths[tensor] + b;
        const unsigned char is = byte_of(generation, tensor, (first + i) * wide + left + k, b);
        if (is_fill) *at = is;
        else if (*at != is) bad++;
        if (!is_fill) *at = 0xEE;                       /* so that state_check finds halo cells that were written to */
    }
    return bad;
}
static void state_piece(state *s, int tensor, dcp_dtype dtype, int ndim, const int64_t *shape, const int64_t *whole,
                        const int64_t *offset, size_t room) {
    dcp_tensor *t = &s->tensors[tensor];
    s->size[tensor] = room * widths[tensor] + 1;
    s->memory[tensor] = (unsigned char *)malloc(s->size[tensor]);
    EXPECT(s->memory[tensor] != NULL);
    memset(s->memory[tensor], 0xEE, s->size[tensor]);
    *t = dcp_array(names[tensor], dtype, s->memory[tensor], ndim, shape);
    if (whole) dcp_piece(t, whole, offset);
}
static int64_t share(int64_t n, int r) { return n * r / ranks; }

/* The part of `who` (of a private tensor; else this rank's). generation 0: empty memory for a load. */
static void state_make(state *s, int generation, int who) {
    const int64_t top = share(HIGH, rank), rows = share(HIGH, rank + 1) - top, left = share(WIDE, rank),
                        wide = share(WIDE, rank + 1) - left;
    const int64_t each = (FEW + ranks - 1) / ranks, first = dcpi_min(FEW, rank * each),
                         few = dcpi_min(FEW, first + each) - first;
    const int64_t whole[2] = { HIGH, WIDE }, six[1] = { FEW }, weights[1] = { WEIGHTS };
    int64_t shape[2], offset[2];
    int t;
    memset(s, 0, sizeof *s);
    shape[0] = rows; shape[1] = WIDE; offset[0] = top; offset[1] = 0;            /* a strip of rows inside halo cells */
    state_piece(s, GRID, DCP_FP32, 2, shape, whole, offset, (size_t)((rows + 2) * (WIDE + 2)));
    s->tensors[GRID].stride[0] = WIDE + 2;
    s->tensors[GRID].stride[1] = 1;
    s->tensors[GRID].data = s->memory[GRID] + (WIDE + 3) * widths[GRID];
    /* some columns of an array that is there as a whole */
    shape[0] = HIGH; shape[1] = wide; offset[0] = 0; offset[1] = left;
    state_piece(s, COLUMNS, DCP_INT16, 2, shape, whole, offset, HIGH * WIDE);
    s->tensors[COLUMNS].stride[0] = WIDE;
    s->tensors[COLUMNS].stride[1] = 1;
    s->tensors[COLUMNS].data = s->memory[COLUMNS] + (size_t)left * widths[COLUMNS];
    shape[0] = few; offset[0] = first;                                              /* 2, 2, 2 and 0 on 4 ranks */
    state_piece(s, COUNTS, DCP_INT64, 1, shape, six, offset, (size_t)few);
    state_piece(s, WEIGHT, DCP_UINT8, 1, weights, NULL, NULL, WEIGHTS);
    state_piece(s, STEP, DCP_INT64, 0, NULL, NULL, NULL, 1);
    shape[0] = OWN;
    state_piece(s, MINE, DCP_FP16, 1, shape, NULL, NULL, OWN);
    s->tensors[WEIGHT].placement = s->tensors[STEP].placement = DCP_PLACE_REPLICATED;
    s->tensors[MINE].placement = DCP_PLACE_PRIVATE;
    for (t = 0; t < TENSORS && generation; t++)
        (void)state_bytes(s, t, t == MINE ? generation + 1000 * (who + 1) : generation, 1);
}
/* Whether every byte is that of the generation, and no byte beside the pieces has changed. */
static void state_check(state *s, int generation, int who, int count) {
    int t;
    size_t i;
    for (t = 0; t < count; t++) {
        if (state_bytes(s, t, t == MINE ? generation + 1000 * (who + 1) : generation, 0)) {
            printf("%s of generation %d has wrong bytes\n", names[t], generation);
            wrong(__LINE__, "state_check");
        }
        for (i = 0; i < s->size[t]; i++) EXPECT(s->memory[t][i] == 0xEE);
    }
}
static void state_free(state *s) {
    int t;
    for (t = 0; t < TENSORS; t++) free(s->memory[t]);
}
static const char *path_of(int generation) {
    static char path[40];
    (void)snprintf(path, sizeof path, "step_%d", generation);
    return path;
}

/* ---- all ranks agree --------------------------------------------------------------------------------------------- */
static void same_everywhere(const void *data, size_t size, int line) {
    unsigned char first[600];
    EXPECT(size <= sizeof first);
    memcpy(first, data, size);
    EXPECT(MPI_Bcast(first, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (memcmp(first, data, size) != 0) wrong(line, "ranks disagree");
}
#define SAME(value) same_everywhere(&(value), sizeof (value), __LINE__)

/* ---- save and load ----------------------------------------------------------------------------------------------- */
static dcp_layout layout_of(const char *name) {
    return strcmp(name, "single") == 0 ? DCP_LAYOUT_SINGLE : DCP_LAYOUT_SHARDED;
}

typedef struct saving { state s; dcp_save_desc desc; dcp_training training; dcp_save_report report; } saving;
static void saving_make(saving *v, int generation, dcp_layout layout) {
    memset(v, 0, sizeof *v);
    state_make(&v->s, generation, rank);
    v->training.step = generation;
    v->desc.path = path_of(generation);
    v->desc.tensors = v->s.tensors;
    v->desc.tensor_count = TENSORS;
    v->desc.layout = layout;
    v->desc.training = &v->training;
    v->desc.report = &v->report;
    v->desc.io.storage = storage;
    v->desc.io.coordinator = all_ranks;
    v->desc.io.timeout_ms = 30000;
}
static void save(int generation, dcp_layout layout) {
    saving v;
    saving_make(&v, generation, layout);
    EXPECT(dcp_save(&v.desc, &err) == DCP_OK);
    EXPECT(v.report.not_durable == 0);
    SAME(v.report.save_id);
    state_free(&v.s);
}
/* Private ones of another number of ranks: dealt round robin, each rank with as many reads as any. */
static void load_dealt(dcp_checkpoint *c, int generation, int shards) {
    int r;
    for (r = 0; r < shards; r++) {
        const int is_mine = dcp_shard_owner(r, ranks) == rank;
        state s;
        state_make(&s, 0, 0);
        EXPECT(dcp_read_rank(c, r, &s.tensors[MINE], is_mine ? 1 : 0, &err) == DCP_OK);
        if (is_mine) {
            EXPECT(state_bytes(&s, MINE, generation + 1000 * (r + 1), 0) == 0);
        }
        state_free(&s);
    }
}
static void load(const char *path, int generation, int share_reads) {
    dcp_open_desc open = DCP_ZERO;
    dcp_load_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    int saved;
    state s;
    open.path = desc.path = path;
    open.share_reads = desc.share_reads = share_reads;
    open.io.storage = desc.io.storage = storage;
    open.io.coordinator = desc.io.coordinator = all_ranks;
    open.io.timeout_ms = desc.io.timeout_ms = 30000;
    EXPECT(dcp_open(&open, &c, &err) == DCP_OK);
    EXPECT(dcp_checkpoint_training(c) && dcp_checkpoint_training(c)->step == generation);
    saved = dcp_checkpoint_metadata(c)->world_size;
    EXPECT(dcp_verify(c, &err) == DCP_OK);
    if (saved != ranks) load_dealt(c, generation, saved);
    dcp_close(c);
    state_make(&s, 0, rank);
    desc.tensors = s.tensors;
    desc.tensor_count = saved == ranks ? (size_t)TENSORS : (size_t)MINE;
    EXPECT(dcp_load(&desc, &err) == DCP_OK);
    state_check(&s, generation, rank, (int)desc.tensor_count);
    state_free(&s);
}
/* 0: there is none. */
static int latest(char **path) {
    dcp_latest_desc desc = DCP_ZERO;
    dcp_status status;
    int generation = 0;
    desc.io.storage = storage;
    desc.io.coordinator = all_ranks;
    desc.io.timeout_ms = 30000;
    status = dcp_latest(&desc, path, &err);
    SAME(status);
    EXPECT(status == DCP_OK || status == DCP_E_NOT_FOUND);
    EXPECT((status == DCP_OK) == (*path != NULL));
    if (*path) EXPECT(sscanf(*path, "step_%d", &generation) == 1);
    SAME(generation);
    return generation;
}
/* How many files it takes. */
static size_t sweep(int64_t grace_seconds) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    size_t count, i;
    desc.grace_seconds = grace_seconds;
    desc.plain_names = 1;
    desc.io.storage = storage;
    desc.io.coordinator = all_ranks;
    desc.io.timeout_ms = 30000;
    EXPECT(dcp_sweep(&desc, &removal, &err) == DCP_OK);
    for (count = 0, i = 0; i < removal.path_count; i++)     /* a lock that nobody holds goes, however young */
        count += grace_seconds < 0 || !strstr(removal.paths[i], ".commit.lock");
    SAME(count);
    dcp_removal_free(&removal);
    return count;
}
static dcp_status count_file(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(size_t *)user;
    return DCP_OK;
}
/* Every checkpoint is valid, and there is no file that belongs to none. */
static void check_clean(void) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    size_t count, i, files = 0, wanted = 0;
    desc.io.storage = storage;
    desc.io.coordinator = all_ranks;
    desc.io.timeout_ms = 30000;
    EXPECT(dcp_list(&desc, &entries, &count, &err) == DCP_OK);
    SAME(count);
    for (i = 0; i < count; i++) {
        EXPECT(entries[i].status == DCP_OK);
        wanted += entries[i].layout == DCP_LAYOUT_SINGLE ? 1 : 1 + (size_t)entries[i].world_size;
    }
    dcp_free(entries);
    EXPECT(dcp_barrier(all_ranks, WITHIN(30000), &err) == DCP_OK);
    EXPECT(storage->list(storage->context, "", DCP_LIST_OBJECTS, count_file, &files, &err) == DCP_OK);
    if (files != wanted) printf("%d files, %d wanted\n", (int)files, (int)wanted);
    EXPECT(files == wanted);
    EXPECT(dcp_barrier(all_ranks, WITHIN(30000), &err) == DCP_OK);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */
enum { BAD_TENSOR, BAD_DATA, BAD_SHAPE, CANCELLED, OTHER_PATH, OVERLAP, PROBLEMS };
static const dcp_status problem_status[PROBLEMS] = { DCP_E_INVALID, DCP_E_INVALID, DCP_E_MISMATCH, DCP_E_CANCELLED,
                                                     DCP_E_MISMATCH, DCP_E_MISMATCH };

/* One rank alone cannot save: all have the same status within a second or so, which names it, and nothing is left of
 * it. */
static void fail_alone(int problem, int who, dcp_layout layout) {
    dcp_cancel cancel = DCP_ZERO;
    dcp_status status;
    char name[24];
    saving v;
    double begun;
    saving_make(&v, 9, layout);
    (void)snprintf(name, sizeof name, "rank %d", who);
    if (rank == who) {
        if (problem == BAD_TENSOR) v.s.tensors[GRID].stride[0] = -5;
        if (problem == BAD_DATA) v.s.tensors[MINE].data = NULL;
        if (problem == BAD_SHAPE) v.s.tensors[GRID].global_shape[1]++;
        if (problem == OVERLAP) {
            v.s.tensors[COLUMNS].shape[1]++;
            v.s.tensors[COLUMNS].global_offset[1] -= rank == ranks - 1;
        }
        if (problem == OTHER_PATH) v.desc.path = "step_10";
        if (problem == CANCELLED) dcp_cancel_request(&cancel);
        v.desc.io.cancel = &cancel;
    }
    EXPECT(dcp_barrier(all_ranks, WITHIN(30000), &err) == DCP_OK);
    begun = dcpi_mpi_now();
    status = dcp_save(&v.desc, &err);
    if (dcpi_mpi_now() - begun > 1.5)
        printf("rank %d: problem %d took %.2f s\n", rank, problem, dcpi_mpi_now() - begun);
    EXPECT(dcpi_mpi_now() - begun < 5.0);
    SAME(status);
    if (status != problem_status[problem]) printf("problem %d of rank %d\n", problem, who);
    EXPECT(status == problem_status[problem]);
    if (problem < BAD_SHAPE || problem == CANCELLED) EXPECT(err.rank == who);   /* the others are found out by rank 0 */
    if ((problem < BAD_SHAPE || problem == CANCELLED) && rank != who) EXPECT(strstr(err.message, name) != NULL);
    EXPECT(!dcp_coordinator_is_broken(all_ranks));
    state_free(&v.s);
}
static void run_all(void) {
    char *path;
    int layout, problem;
    EXPECT(latest(&path) == 0);
    for (layout = 0; layout < 2; layout++) {
        save(1 + layout, (dcp_layout)layout);
        load(path_of(1 + layout), 1 + layout, 0);
        load(path_of(1 + layout), 1 + layout, 1);
    }
    for (problem = 0; problem < PROBLEMS; problem++) {
        if (ranks == 1 && problem >= OTHER_PATH) continue;
        if (ranks == 1 && problem == BAD_SHAPE) continue;
        fail_alone(problem, problem % 3 == 0 ? ranks - 1 : problem % 3 == 1 ? 0 : ranks / 2, (dcp_layout)(problem % 2));
        if (problem % 3 == 2) save(3, DCP_LAYOUT_SHARDED);
        if (problem % 3 == 2) {
            dcp_remove_desc desc = DCP_ZERO;
            dcp_removal removal;
            desc.path = path_of(3);
            desc.io.storage = storage;
            desc.io.coordinator = all_ranks;
            EXPECT(dcp_remove(&desc, &removal, &err) == DCP_OK);
            dcp_removal_free(&removal);
        }
    }
    check_clean();
    save(4, DCP_LAYOUT_SHARDED);
    save(5, DCP_LAYOUT_SINGLE);
    EXPECT(latest(&path) == 5);
    load(path, 5, 1);
    dcp_free(path);
    EXPECT(sweep(-1) == 0);
    check_clean();
}
static void run_load(void) {
    char *path;
    EXPECT(latest(&path) == 5);
    load(path, 5, 0);
    dcp_free(path);
    load(path_of(4), 4, 0);
    load(path_of(4), 4, 1);
    EXPECT(sweep(-1) == 0);
    check_clean();
}

/* ---- async: a step is a poll and a collective of the program; a poll that waited for another rank would never end  */
enum { MANY = 6000 };                 /* small tensors: their digests are more than an MPI sends without the receiver */
static dcp_saver *saver;
static int steps;
/* Until all ranks know; the verdicts differ in nothing. */
static dcp_status program_steps(int cancel_at) {
    dcp_status status = DCP_PENDING;
    int knows = 0, all = 0;
    double sum, ones = 1.0;
    for (steps = 0; !all; steps++) {
        if (steps == cancel_at) dcp_save_cancel(saver);
        if (!knows) status = dcp_save_poll(saver, &err);
        knows = status != DCP_PENDING;
        EXPECT(dcpi_async_check(saver) == NULL);
        EXPECT(MPI_Allreduce(&ones, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && (int)sum == ranks);
        EXPECT(MPI_Allreduce(&knows, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS);
        dcpi_mpi_sleep(rank == steps % ranks ? 1500 : 10);              /* never in step with each other */
    }
    SAME(status);
    return status;
}
static void save_async(int generation, dcp_layout layout) {
    dcp_save_report begun;
    saving v;
    int t;
    saving_make(&v, generation, layout);
    v.desc.overwrite = 1;
    v.desc.report = &begun;
    EXPECT(dcp_save_begin(saver, &v.desc, &err) == DCP_OK);
    EXPECT(begun.bytes_in_begin == 0);
    for (t = 0; t < TENSORS; t++) { memset(v.s.memory[t], 0x5A, v.s.size[t]); free(v.s.memory[t]); }
    memset(&v, 0x5A, sizeof v);
    EXPECT(program_steps(-1) == DCP_OK);
    EXPECT(strcmp(dcp_saver_report(saver)->save_id, begun.save_id) == 0);
    SAME(begun.save_id);
    load(path_of(generation), generation, generation % 2);
}
/* 300 KB of digests and names from each rank. */
static void save_many(void) {
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor *tensors = (dcp_tensor *)calloc(MANY, sizeof *tensors);
    char (*labels)[24] = (char (*)[24])calloc(MANY, 24);
    int64_t *values = (int64_t *)calloc(MANY, 8);
    int i;
    EXPECT(tensors && labels && values);
    for (i = 0; i < MANY; i++) {
        (void)snprintf(labels[i], 24, "t%d", i);
        values[i] = i * 7 + rank;
        tensors[i] = dcp_scalar(labels[i], DCP_INT64, &values[i]);
        tensors[i].placement = DCP_PLACE_PRIVATE;
    }
    desc.path = "many";
    desc.tensors = tensors;
    desc.tensor_count = MANY;
    desc.io.storage = storage;
    desc.io.coordinator = all_ranks;
    desc.io.timeout_ms = 30000;
    EXPECT(dcp_save_begin(saver, &desc, &err) == DCP_OK);
    memset(values, 0x5A, MANY * 8);
    memset(labels, 0x5A, MANY * 24);
    memset(tensors, 0x5A, MANY * sizeof *tensors);
    EXPECT(program_steps(-1) == DCP_OK);
    for (i = 0; i < MANY; i++) {
        (void)snprintf(labels[i], 24, "t%d", i);
        tensors[i] = dcp_scalar(labels[i], DCP_INT64, &values[i]);
        tensors[i].placement = DCP_PLACE_PRIVATE;
    }
    {
        dcp_load_desc back = DCP_ZERO;
        back.path = "many";
        back.tensors = tensors;
        back.tensor_count = MANY;
        back.io.storage = storage;
        back.io.coordinator = all_ranks;
        EXPECT(dcp_load(&back, &err) == DCP_OK);
    }
    for (i = 0; i < MANY; i++) EXPECT(values[i] == i * 7 + rank);
    free(tensors);
    free(labels);
    free(values);
}
static void run_async(void) {
    dcp_saver_desc desc = DCP_ZERO;
    int generation, first_steps = 0, cancelled = 0, refused;
    dcp_status status;
    saving v;
    EXPECT(dcp_saver_open(NULL, &saver, &err) == DCP_OK);
    for (generation = 1; generation <= 6; generation++) {
        save_async(generation, (dcp_layout)(generation % 2));
        first_steps += steps;
    }
    if (rank == 0)
        printf("%d steps in 6 saves, %s\n", first_steps, all_ranks->thread_safe ? "in the background" : "polled");
    save_async(5, DCP_LAYOUT_SINGLE);                   /* over it */
    save_many();
    for (generation = 20; generation < 26; generation++) {              /* one rank alone cancels, sooner or later */
        saving_make(&v, generation, (dcp_layout)(generation % 2));
        EXPECT(dcp_save_begin(saver, &v.desc, &err) == DCP_OK);
        state_free(&v.s);
        status = program_steps(rank == generation % ranks ? generation - 20 : -1);
        EXPECT(status == DCP_OK || status == DCP_E_CANCELLED);
        cancelled += status == DCP_E_CANCELLED;
        if (status == DCP_OK) load(path_of(generation), generation, 0);
    }
    if (rank == 0) printf("%d of 6 were cancelled\n", cancelled);
    saving_make(&v, 6, DCP_LAYOUT_SHARDED);             /* begin's own failure, on all ranks */
    EXPECT(dcp_save_begin(saver, &v.desc, &err) == DCP_E_EXISTS);
    EXPECT(dcp_save_poll(saver, &err) == DCP_OK);
    state_free(&v.s);
    EXPECT(dcp_saver_close(saver, &err) == DCP_OK);
    desc.when_busy = DCP_BUSY_REFUSE;
    EXPECT(dcp_saver_open(&desc, &saver, &err) == DCP_OK);
    saving_make(&v, 30, DCP_LAYOUT_SHARDED);
    EXPECT(dcp_save_begin(saver, &v.desc, &err) == DCP_OK);
    v.desc.path = "step_31";
    v.training.step = 31;
    status = dcp_save_begin(saver, &v.desc, &err);
    SAME(status);
    EXPECT(status == DCP_OK || status == DCP_PENDING);
    refused = status == DCP_PENDING;
    state_free(&v.s);
    if (rank == 0) printf("the second begin was %s\n", refused ? "refused" : "taken");
    EXPECT(dcp_saver_close(saver, &err) == DCP_OK);     /* waits */
    EXPECT(dcp_barrier(all_ranks, WITHIN(30000), &err) == DCP_OK);
    load("step_30", 30, 0);
    check_clean();
}

/* ---- next: a rank is stopped or killed in a call of the storage or the coordinator ------------------------------- */
static struct {
    const char *call;
    int nth, after, signal;
    dcp_storage *inner;
    dcp_coordinator *ranks;
    dcpi_mutex lock;
} trap;
static struct dcp_coordinator inner_ranks;

static void spring(void) {
    printf("%s %d\n", trap.signal == SIGKILL ? "killed" : "stopped", rank);
    (void)fflush(stdout);
    dcpi_mpi_sleep(100000);                             /* mpirun forwards the line */
    (void)kill(getpid(), trap.signal);
    dcpi_mpi_sleep(1000);
}
/* 1: the signal comes after the call. */
static int trapped(const char *call) {
    int is_now;
    if (!trap.call || strcmp(call, trap.call) != 0) return 0;
    dcpi_mutex_lock(&trap.lock);
    is_now = --trap.nth == 0;
    dcpi_mutex_unlock(&trap.lock);
    if (is_now && !trap.after) spring();
    return is_now && trap.after;
}
static dcp_status trap_write(void *context, void *object, int64_t offset, const void *data, size_t size, dcp_error *e) {
    const int after = trapped("write");
    const dcp_status status = trap.inner->write(context, object, offset, data, size, e);
    if (after) spring();
    return status;
}
static dcp_status trap_commit(void *context, void *object, const dcp_commit_request *request, dcp_error *e) {
    const int after = trapped("commit");
    const dcp_status status = trap.inner->commit(context, object, request, e);
    if (after) spring();
    return status;
}
static dcp_status trap_list(void *context, const char *directory, dcp_list_kind what,
                            dcp_status (*each)(void *user, const char *path, const dcp_object_info *info), void *user,
                            dcp_error *e) {
    const int after = what == DCP_LIST_OBJECTS && trapped("list");
    const dcp_status status = trap.inner->list(context, directory, what, each, user, e);
    if (after) spring();
    return status;
}
static dcp_status trap_stat(void *context, const char *path, dcp_object_info *info, dcp_error *e) {
    const int after = trapped("stat");
    const dcp_status status = trap.inner->stat(context, path, info, e);
    if (after) spring();
    return status;
}
static dcp_status trap_leave(void *context, void *object, dcp_error *e) {
    const int after = trapped("leave");
    const dcp_status status = trap.inner->leave(context, object, e);
    if (after) spring();
    return status;
}
static dcp_status trap_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                            dcp_error *e) {
    const int after = trapped("send");
    const dcp_status status = inner_ranks.send(context, to, tag, data, size, timeout_ms, e);
    if (after) spring();
    return status;
}
static void set_trap(saving *v, dcp_storage *wrapped) {
    EXPECT(dcpi_mutex_init(&trap.lock) == 0);
    trap.inner = storage;
    *wrapped = *storage;
    wrapped->write = trap_write;
    wrapped->commit = trap_commit;
    wrapped->list = trap_list;
    wrapped->stat = trap_stat;
    wrapped->leave = trap_leave;
    v->desc.io.storage = wrapped;
    inner_ranks = *all_ranks;
    all_ranks->send = trap_send;
    trap.signal = strcmp(args[6], "KILL") == 0 ? SIGKILL : SIGSTOP;
    trap.nth = atoi(args[9]);
    trap.after = strcmp(args[10], "after") == 0;
    trap.call = args[8];
}
static dcp_status status_of(const char *name) { return strcmp(name, "UNKNOWN") == 0 ? DCP_E_UNKNOWN : DCP_E_TIMEOUT; }

/* The living have the same verdict in time, which names who is silent; then they end the job, as they must. */
static void stop_verdict(dcp_status status, double seconds, int who, MPI_Comm living) {
    char name[24];
    (void)snprintf(name, sizeof name, "rank %d", who);
    EXPECT(status == status_of(args[11]));
    EXPECT(strstr(err.message, name) != NULL);
    EXPECT(err.rank == who);
    EXPECT(seconds < 2.0 * 1.2 + 0.7);
    EXPECT(dcp_coordinator_is_broken(all_ranks));
    dcp_coordinator_close(all_ranks);
    printf("fine %d\n", rank);
    if (rank == (who + 1) % ranks) printf("after %.2f s: %s\n", seconds, err.message);
    (void)fflush(stdout);
    EXPECT(MPI_Barrier(living) == MPI_SUCCESS);
    if (rank != (who + 1) % ranks) { dcpi_mpi_sleep(900000); dcpi_mpi_sleep(900000); dcpi_mpi_sleep(900000); }
    dcpi_mpi_sleep(300000);
    if (strcmp(args[12], "abort") == 0) (void)MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}
/* The program polls until mpirun ends it. Begin may be where a rank is killed; the verdict can be any: those who get
 * one have not long to live. */
static void background_save(saving *v) {
    int i;
    EXPECT(dcp_saver_open(NULL, &saver, &err) == DCP_OK);
    (void)dcp_save_begin(saver, &v->desc, &err);
    state_free(&v->s);
    for (i = 0; i < 10000; i++) {
        (void)dcp_save_poll(saver, &err);
        dcpi_mpi_sleep(1000);
    }
}
static void struck_save(int generation, dcp_layout layout) {
    const int who = atoi(args[7]), is_stop = strcmp(args[6], "STOP") == 0;
    dcp_storage wrapped;
    MPI_Comm living;
    saving v;
    double begun;
    dcp_status status;
    EXPECT(MPI_Comm_split(MPI_COMM_WORLD, rank == who, rank, &living) == MPI_SUCCESS);
    saving_make(&v, generation, layout);
    if (rank == who) set_trap(&v, &wrapped);
    v.desc.io.timeout_ms = 2000;
    EXPECT(dcp_barrier(all_ranks, WITHIN(30000), &err) == DCP_OK);
    begun = dcpi_mpi_now();
    if (strcmp(args[1], "background") == 0) { background_save(&v); _exit(4); }
    status = dcp_save(&v.desc, &err);
    if (is_stop && rank != who) stop_verdict(status, dcpi_mpi_now() - begun, who, living);
    /* Who is struck in this save does not come through, unless the end of the job wakes it where the others were told
     * that they cannot know. */
    EXPECT(status != DCP_OK || rank != who || (is_stop && status_of(args[11]) == DCP_E_UNKNOWN));
    dcpi_mpi_sleep(900000);                             /* mpirun ends this process here at the latest */
    _exit(4);
}
static void run_next(int has_signal) {
    char *path;
    const int generation = latest(&path);
    if (generation < atoi(args[3]) || generation > atoi(args[4]))
        printf("the newest is of generation %d\n", generation);
    EXPECT(generation >= atoi(args[3]) && generation <= atoi(args[4]));
    if (path) load(path, generation, generation % 2);
    {
        /* young files may be a save's that runs, unless its process on this machine is known to be dead */
        size_t swept = sweep(3600);
        EXPECT(sweep(3600) == 0);
        swept += sweep(-1);
        if (rank == 0) printf("found generation %d, swept %d files\n", generation, (int)swept);
    }
    check_clean();
    if (path) load(path, generation, 0);
    dcp_free(path);
    if (has_signal) struck_save(generation + 1, layout_of(args[5]));
    save(generation + 1, layout_of(args[5]));
    load(path_of(generation + 1), generation + 1, 0);
    EXPECT(latest(&path) == generation + 1);
    dcp_free(path);
    check_clean();
}

/* ---- the program ------------------------------------------------------------------------------------------------- */
static int argument_count;
static void work(void *ignored) {
    const char *what = args[1];
    (void)ignored;
    if (strcmp(what, "all") == 0) run_all();
    if (strcmp(what, "load") == 0) run_load();
    if (strcmp(what, "async") == 0) run_async();
    if (strcmp(what, "next") == 0 || strcmp(what, "background") == 0) run_next(argument_count > 10);
}
int main(int argc, char **argv) {
    const char *level = argc > 11 && strcmp(argv[1], "background") == 0 ? argv[11] : argc > 3 ? argv[3] : "single";
    int wanted, provided = MPI_THREAD_SINGLE;
    dcpi_thread thread;
    (void)alarm(100);
    args = argv;
    argument_count = argc;
    if (argc < 4) return 2;
    wanted = strcmp(level, "multiple") == 0 ? MPI_THREAD_MULTIPLE : strcmp(level, "funneled") == 0 ? MPI_THREAD_FUNNELED
             : MPI_THREAD_SINGLE;
    if (wanted == MPI_THREAD_SINGLE) EXPECT(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    else EXPECT(MPI_Init_thread(&argc, &argv, wanted, &provided) == MPI_SUCCESS);
    EXPECT(provided >= wanted);
    EXPECT(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS && MPI_Comm_size(MPI_COMM_WORLD, &ranks) == MPI_SUCCESS);
    EXPECT(dcp_storage_local(argv[2], &storage, &err) == DCP_OK);
    EXPECT(dcp_mpi_open(MPI_COMM_WORLD, &all_ranks, &err) == DCP_OK);
    if (wanted != MPI_THREAD_SINGLE) EXPECT(all_ranks->thread_safe == (provided == MPI_THREAD_MULTIPLE));
    if (wanted == MPI_THREAD_MULTIPLE) {
        EXPECT(dcpi_thread_start(&thread, work, NULL) == 0);
        dcpi_thread_join(&thread);
    } else work(NULL);
    EXPECT(dcp_barrier(all_ranks, WITHIN(30000), &err) == DCP_OK);
    dcp_coordinator_close(all_ranks);
    dcp_storage_close(storage);
    EXPECT(MPI_Finalize() == MPI_SUCCESS);
    EXPECT(test_returns_are_listed());
    test_returns_write();
    printf("fine %d\n", rank);
    return 0;
}
