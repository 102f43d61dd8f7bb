/* test_ranks.c: saves and loads over many ranks, each a thread of this process (dcp_thread_group_open). */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "rank_threads.h"

#if DCP_NO_THREADS
int main(void) { puts("skipped test_ranks: built without threads\n0 passed, 0 failed, 1 skipped"); return 0; }
#else

/* ---- a job: n ranks that run one function ------------------------------------------------------------------------ */
enum { RANKS = MOST_RANK_THREADS };
typedef struct job job;
typedef void (*rank_fn)(job *j, int rank, dcp_coordinator *c);
struct job {
    int ranks;
    rank_fn fn;
    void *user;
    dcp_storage *storage;
    dcp_coordinator *coordinators[RANKS];
    dcp_status status[RANKS];
    dcp_error err[RANKS];
};
static void job_rank(void *user, int rank) {
    job *j = (job *)user;
    j->fn(j, rank, j->coordinators[rank]);
}
static void job_run(job *j, int ranks, rank_fn fn) {
    dcp_error err;
    int r;
    j->ranks = ranks;
    j->fn = fn;
    CHECK_OK_MESSAGE(dcp_thread_group_open(ranks, j->coordinators, &err), err.message);
    run_ranks(ranks, job_rank, j);
    for (r = 0; r < ranks; r++) dcp_coordinator_close(j->coordinators[r]);
}

/* ---- the property test: random tensors, grids, world sizes ------------------------------------------------------- */
enum { TENSORS = 6, PIECES = 8 };
typedef struct whole {                                  /* one tensor of a case */
    char name[16];
    dcp_dtype dtype;
    int ndim, placement;                                /* dcp_placement */
    int64_t shape[DCP_MAX_DIMS];
    uint8_t *bytes; size_t size;                   /* row-major; private ones: one after another for each saving rank */
} whole;
typedef struct piece { int64_t offset[DCP_MAX_DIMS], shape[DCP_MAX_DIMS]; int owner[2]; int owners; } piece;
typedef struct cut { piece pieces[64]; int count; } cut;
typedef struct world {
    whole tensors[TENSORS]; int count;
    cut saved[TENSORS];
    int save_ranks, load_ranks;
    dcp_layout layout; dcp_checksum checksum;
    int yaml;
    uint64_t seed;
    dcp_verify_policy verify;
    int share_reads;
} world;

static uint64_t mix(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static int below(uint64_t *state, int n) { return (int)(mix(state) % (uint64_t)n); }

static int share_an_owner(const piece *a, const piece *b) {
    int i, k;
    for (i = 0; i < a->owners; i++) for (k = 0; k < b->owners; k++) if (a->owner[i] == b->owner[k]) return 1;
    return 0;
}
/* Cuts a box into a grid of uneven pieces, some empty, and deals them to ranks, some to two. */
static void make_cut(uint64_t *state, const whole *w, int ranks, cut *out) {
    int64_t at[DCP_MAX_DIMS][5];
    int parts[DCP_MAX_DIMS], total = 1, d, i;
    memset(out, 0, sizeof *out);
    for (d = 0; d < w->ndim; d++) {
        int p, n = 1 + below(state, d < 3 ? 4 : 1);
        if (total * n > 64) n = 1;
        parts[d] = n;
        total *= n;
        at[d][0] = 0;
        at[d][n] = w->shape[d];
        for (p = 1; p < n; p++) at[d][p] = below(state, (int)w->shape[d] + 1);
        for (p = 1; p < n; p++) for (i = p; i > 1 && at[d][i] < at[d][i - 1]; i--) {
            int64_t swap = at[d][i];
            at[d][i] = at[d][i - 1];
            at[d][i - 1] = swap;
        }
    }
    for (i = 0; i < total; i++) {
        piece *p = &out->pieces[out->count];
        int rest = i, other, known = 0;
        memset(p, 0, sizeof *p);
        for (d = 0; d < w->ndim; d++) {
            int k = rest % parts[d];
            rest /= parts[d];
            p->offset[d] = at[d][k];
            p->shape[d] = at[d][k + 1] - at[d][k];
        }
        /* empty pieces share corners with others; only the same box is the same piece */
        for (other = 0; other < out->count; other++)
            if (memcmp(out->pieces[other].offset, p->offset, sizeof p->offset) == 0 &&
                memcmp(out->pieces[other].shape, p->shape, sizeof p->shape) == 0) known = 1;
        if (known) continue;
        p->owner[p->owners++] = below(state, ranks);
        if (below(state, 4) == 0) {
            p->owner[1] = below(state, ranks);
            if (p->owner[1] != p->owner[0]) p->owners = 2;
        }
        /* empty pieces share corners with others, which other ranks must hold */
        for (other = 0; other < out->count; other++)
            if (memcmp(out->pieces[other].offset, p->offset, sizeof p->offset) == 0)
                known |= share_an_owner(&out->pieces[other], p);
        if (known && dcpi_box_elements(w->ndim, p->shape) == 0) continue;
        for (other = 0; other < out->count; other++)
            if (memcmp(out->pieces[other].offset, p->offset, sizeof p->offset) == 0 &&
                share_an_owner(&out->pieces[other], p))
                out->pieces[other].owners = 0;
        out->count++;
    }
}
static int owns(const piece *p, int rank) {
    return (p->owners > 0 && p->owner[0] == rank) || (p->owners > 1 && p->owner[1] == rank);
}
static size_t width_of(const whole *w) { return (size_t)dcp_dtype_bits(w->dtype) / 8; }

/* Copies between a box's memory (with the tensor's strides) and the whole, element by element: slow, and nothing of the
 * library's. */
static void move_box(const whole *w, uint8_t *all, const dcp_tensor *t, int to_whole) {
    int64_t index[DCP_MAX_DIMS] = {0}, n = dcpi_box_elements(w->ndim, t->shape), i;
    size_t width = width_of(w);
    int d;
    for (i = 0; i < n; i++) {
        int64_t from = 0, at = 0, dense = 1, step = 1;
        for (d = w->ndim - 1; d >= 0; d--) {
            at += (t->global_offset[d] + index[d]) * dense;
            from += index[d] * (t->stride[0] ? t->stride[d] : step);
            dense *= w->shape[d];
            step *= t->shape[d];
        }
        if (to_whole) memcpy(all + (size_t)at * width, (uint8_t *)t->data + (size_t)from * width, width);
        else memcpy((uint8_t *)t->data + (size_t)from * width, all + (size_t)at * width, width);
        for (d = w->ndim - 1; d >= 0 && ++index[d] == t->shape[d]; d--) index[d] = 0;
    }
}
/* Memory for a box, sometimes with strides wider than it. */
static dcp_tensor make_box(uint64_t *state, const whole *w, const int64_t *offset, const int64_t *shape) {
    dcp_tensor t = dcp_array(w->name, w->dtype, NULL, w->ndim, shape);
    int64_t step = 1, elements = dcpi_box_elements(w->ndim, shape);
    int d, strided = w->ndim > 0 && elements > 0 && below(state, 3) == 0;
    if (offset) dcp_piece(&t, w->shape, offset);
    for (d = w->ndim - 1; d >= 0 && strided; d--) {
        if (d == w->ndim - 1 && below(state, 2)) step = 2;
        t.stride[d] = step;
        step *= shape[d] + below(state, 3);
        if (step == 0) step = 1;
    }
    t.data = must(malloc((size_t)((strided ? step * 2 : elements) + 1) * width_of(w) + 64));
    memset(t.data, 0xEE, (size_t)((strided ? step * 2 : elements) + 1) * width_of(w));
    return t;
}
static void make_world(world *w, uint64_t seed) {
    static const dcp_dtype types[] = { DCP_FP32, DCP_FP64, DCP_FP16, DCP_BF16, DCP_FP8_E4M3, DCP_FP8_E5M2, DCP_INT64,
                                       DCP_INT32, DCP_INT16, DCP_INT8, DCP_UINT64, DCP_UINT32, DCP_UINT16, DCP_UINT8,
                                       DCP_BOOL, DCP_COMPLEX64, DCP_COMPLEX128 };
    static const dcp_layout layouts[] = { DCP_LAYOUT_SHARDED, DCP_LAYOUT_SHARDED, DCP_LAYOUT_MANIFEST,
                                          DCP_LAYOUT_SINGLE };
    uint64_t state = seed;
    int i, d;
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->save_ranks = 1 + below(&state, 9);
    w->load_ranks = 1 + below(&state, 9);
    w->layout = layouts[below(&state, (int)DCPI_COUNT(layouts))];
    w->yaml = w->layout == DCP_LAYOUT_MANIFEST && below(&state, 2);
    w->checksum = below(&state, 5) ? DCP_CHECKSUM_TREE : DCP_CHECKSUM_FLAT;
    w->verify = (dcp_verify_policy)below(&state, 3);
    w->share_reads = below(&state, 3) == 0;
    w->count = 1 + below(&state, TENSORS);
    for (i = 0; i < w->count; i++) {
        whole *t = &w->tensors[i];
        int64_t elements;
        size_t b;
        (void)snprintf(t->name, sizeof t->name, "t%d", i);
        t->dtype = types[below(&state, (int)DCPI_COUNT(types))];
        t->placement = 1 + below(&state, 3);
        if (below(&state, 2)) t->placement = DCP_PLACE_SHARDED;
        t->ndim = t->placement == DCP_PLACE_SHARDED ? 1 + below(&state, 4) : below(&state, 4);
        for (d = 0; d < t->ndim; d++) t->shape[d] = below(&state, 20) ? 1 + below(&state, t->ndim < 3 ? 23 : 7) : 0;
        elements = dcpi_box_elements(t->ndim, t->shape);
        if (elements == 0 && t->placement == DCP_PLACE_SHARDED) {
            t->shape[0] = 3;
            for (d = 1; d < t->ndim; d++) t->shape[d] = 2;
        }
        elements = dcpi_box_elements(t->ndim, t->shape);
        t->size = (size_t)elements * width_of(t);
        t->bytes = (uint8_t *)malloc(t->size * (t->placement == DCP_PLACE_PRIVATE ? 9 : 1) + 1);
        CHECK(t->bytes != NULL);
        for (b = 0; b < t->size * (t->placement == DCP_PLACE_PRIVATE ? 9u : 1u); b++)
            t->bytes[b] = (uint8_t)mix(&state);
        if (t->placement == DCP_PLACE_SHARDED) make_cut(&state, t, w->save_ranks, &w->saved[i]);
    }
}
static void free_world(world *w) {
    int i;
    for (i = 0; i < w->count; i++) free(w->tensors[i].bytes);
}
static void free_list(dcp_tensor *list, size_t count) {
    while (count > 0) free(list[--count].data);
}
enum { LIST = TENSORS * 64 };
static void save_world(job *j, int rank, dcp_coordinator *c) {
    world *w = (world *)j->user;
    dcp_tensor *list = (dcp_tensor *)must(calloc(LIST, sizeof *list));
    dcp_save_desc desc = DCP_ZERO;
    uint64_t state = w->seed * 31 + (uint64_t)rank;
    size_t n = 0;
    int i, p;
    for (i = 0; i < w->count; i++) {
        whole *t = &w->tensors[i];
        for (p = 0; p < w->saved[i].count; p++) {
            const piece *box = &w->saved[i].pieces[p];
            if (!owns(box, rank)) continue;
            list[n] = make_box(&state, t, box->offset, box->shape);
            move_box(t, t->bytes, &list[n++], 0);
        }
        if (t->placement == DCP_PLACE_SHARDED) continue;
        /* not every rank has it */
        if (t->placement == DCP_PLACE_REPLICATED && rank > 0 && below(&state, 3) == 0) continue;
        list[n] = make_box(&state, t, NULL, t->shape);
        list[n].placement = (dcp_placement)t->placement;
        move_box(t, t->bytes + (t->placement == DCP_PLACE_PRIVATE ? (size_t)rank * t->size : 0), &list[n++], 0);
    }
    desc.path = "p/x";
    desc.tensors = n > 0 ? list : NULL;                 /* tensors that no rank counts were forgotten */
    desc.tensor_count = n;
    desc.layout = w->layout;
    desc.yaml = w->yaml;
    desc.checksum = w->checksum;
    desc.overwrite = 1;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    desc.io.timeout_ms = 60000;
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
    free_list(list, n);
    free(list);
}
static void load_world(job *j, int rank, dcp_coordinator *c) {
    world *w = (world *)j->user;
    dcp_tensor list[2 * TENSORS];
    dcp_load_desc desc = DCP_ZERO;
    uint64_t state = w->seed * 77 + (uint64_t)rank;
    size_t n = 0, k;
    int i, d, which[2 * TENSORS];
    for (i = 0; i < w->count; i++) {
        whole *t = &w->tensors[i];
        int64_t offset[DCP_MAX_DIMS] = {0}, shape[DCP_MAX_DIMS] = {0};
        if (t->placement == DCP_PLACE_PRIVATE && w->save_ranks != w->load_ranks) continue;
        if (below(&state, 5) == 0) continue;            /* a rank need not want everything */
        for (d = 0; d < t->ndim; d++) {
            offset[d] = t->placement == DCP_PLACE_SHARDED ? below(&state, (int)t->shape[d] + 1) : 0;
            shape[d] = t->placement == DCP_PLACE_SHARDED ? below(&state, (int)(t->shape[d] - offset[d]) +
                                                                 1) : t->shape[d];
        }
        which[n] = i;
        list[n++] = make_box(&state, t, t->placement == DCP_PLACE_SHARDED ? offset : NULL, shape);
    }
    desc.path = "p/x";
    desc.tensors = n > 0 ? list : NULL;                 /* tensors that no rank counts were forgotten */
    desc.tensor_count = n;
    desc.verify = w->verify;
    desc.share_reads = w->share_reads;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    desc.io.timeout_ms = 60000;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
    for (k = 0; k < n && j->status[rank] == DCP_OK; k++) {
        whole *t = &w->tensors[which[k]];
        uint8_t *expected = t->bytes + (t->placement == DCP_PLACE_PRIVATE ? (size_t)rank * t->size : 0);
        uint8_t *all = (uint8_t *)must(malloc(t->size + 1));
        memcpy(all, expected, t->size);
        move_box(t, all, &list[k], 1);                  /* what was loaded over what was saved: no byte may change */
        if (memcmp(all, expected, t->size) != 0) {
            j->status[rank] = DCP_E_CHECKSUM;
            (void)dcpi_fail(&j->err[rank], DCP_E_CHECKSUM, "test: wrong bytes in %s", t->name);
        }
        free(all);
    }
    free_list(list, n);
}
static void property_case(uint64_t seed, const char *directory) {
    world w;
    job j;
    dcp_error err;
    memset(&j, 0, sizeof j);
    make_world(&w, seed);
    if (getenv("DCP_TEST_VERBOSE"))
        printf("seed %llu: %d ranks save, %d load\n", (unsigned long long)seed, w.save_ranks, w.load_ranks);
    j.user = &w;
    if (directory) {                                    /* there ranks may write one file at once */
        CHECK_OK_MESSAGE(dcp_storage_local(directory, &j.storage, &err), err.message);
    } else {
        CHECK_OK_MESSAGE(dcp_storage_memory(&j.storage, &err), err.message);
    }
    job_run(&j, w.save_ranks, save_world);
    check_all(&j, DCP_OK, NULL);
    job_run(&j, w.load_ranks, load_world);
    check_all(&j, DCP_OK, NULL);
    dcp_storage_close(j.storage);
    free_world(&w);
}
TEST(any_world_size_loads_what_any_saved) {
    int cases = test_times(test_is_sanitized() ? 200 : 2000), i;
    uint64_t seed = test_random();
    char directory[TEST_PATH + 16];
    const char *base = test_dir();
    for (i = 0; i < cases; i++) {
        (void)snprintf(directory, sizeof directory, "%s/%d", base, i);
        property_case(seed + (uint64_t)i, i % 10 == 0 ? directory : NULL);
        if (i % 10 == 0) test_rm_rf(directory);
    }
}

/* ---- pieces without elements: rows dealt evenly, of which there may be fewer than ranks */
enum { ROWS = 9, COLUMNS = 3 };
typedef struct split {
    int rows, yaml, is_other_way; dcp_layout layout;
    float values[ROWS][COLUMNS];
    dcp_save_report report[8];
} split;

/* The rows of a rank. The other way the later ranks have none. */
static void split_rows(const split *s, int rank, int ranks, int64_t *first, int64_t *count) {
    const int each = (s->rows + ranks - 1) / ranks;
    *first = s->is_other_way ? dcpi_min(rank * each, s->rows) : (int64_t)rank * s->rows / ranks;
    *count = (s->is_other_way ? dcpi_min((rank + 1) * each, s->rows) : (int64_t)(rank + 1) * s->rows / ranks) - *first;
}
static dcp_tensor split_piece(const split *s, int rank, int ranks, float *values) {
    int64_t whole[2] = { 0, COLUMNS }, shape[2] = { 0, COLUMNS }, offset[2] = { 0, 0 };
    dcp_tensor t;
    split_rows(s, rank, ranks, &offset[0], &shape[0]);
    whole[0] = s->rows;
    t = dcp_array("rows", DCP_FP32, values, 2, shape);
    dcp_piece(&t, whole, offset);
    return t;
}
static void save_split(job *j, int rank, dcp_coordinator *c) {
    split *s = (split *)j->user;
    dcp_save_desc desc = DCP_ZERO;
    int64_t first, count;
    dcp_tensor t;
    split_rows(s, rank, j->ranks, &first, &count);
    t = split_piece(s, rank, j->ranks, s->values[first]);
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.layout = s->layout;
    desc.yaml = s->yaml;
    desc.overwrite = 1;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    desc.report = &s->report[rank];
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
}
static void load_split(job *j, int rank, dcp_coordinator *c) {
    const split *s = (const split *)j->user;
    float values[ROWS][COLUMNS];
    dcp_load_desc desc = DCP_ZERO;
    int64_t first, count;
    dcp_tensor t = split_piece(s, rank, j->ranks, values[0]);
    memset(values, 0, sizeof values);
    split_rows(s, rank, j->ranks, &first, &count);
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.verify = DCP_VERIFY_ALL;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
    if (!j->status[rank] && memcmp(values, s->values[first], (size_t)count * sizeof values[0]) != 0)
        j->status[rank] = dcpi_fail(&j->err[rank], DCP_E_CHECKSUM, "test: wrong bytes");
}
/* Twice, so that the second replaces the first and, in a manifest, keeps its files. */
static void check_split(split *s, int ranks) {
    job j;
    dcp_error err;
    int64_t reused = 0;
    int i;
    memset(&j, 0, sizeof j);
    CHECK_OK_MESSAGE(dcp_storage_memory(&j.storage, &err), err.message);
    j.user = s;
    for (i = 0; i < 2; i++) {
        job_run(&j, ranks, save_split);
        check_all(&j, DCP_OK, NULL);
        job_run(&j, ranks, load_split);
        check_all(&j, DCP_OK, NULL);
        job_run(&j, 1 + (ranks + i) % 5, load_split);
        check_all(&j, DCP_OK, NULL);
    }
    for (i = 0; i < ranks; i++) reused += s->report[i].bytes_reused;
    if (s->layout == DCP_LAYOUT_MANIFEST) CHECK_INT(reused, s->rows * (int)sizeof s->values[0]);
    dcp_storage_close(j.storage);
}
TEST(ranks_without_rows) {
    const int step = test_is_sampled() ? 3 : 1;
    split s;
    int ranks, form, i;
    memset(&s, 0, sizeof s);
    for (i = 0; i < ROWS * COLUMNS; i++) s.values[i / COLUMNS][i % COLUMNS] = (float)i + 0.5f;
    for (form = 0; form < 8; form++) {
        s.layout = form / 2 < 2 ? DCP_LAYOUT_MANIFEST : form / 2 == 2 ? DCP_LAYOUT_SHARDED : DCP_LAYOUT_SINGLE;
        s.yaml = form / 2 == 1;
        s.is_other_way = form % 2;
        for (s.rows = 1; s.rows < ROWS; s.rows += 2)
            for (ranks = 1 + form % step; ranks <= 8; ranks += step) check_split(&s, ranks);
    }
}

/* ---- share_reads: one rank reads what several need --------------------------------------------------------------- */
typedef struct counting { dcp_storage *inner; dcpi_mutex lock; int64_t bytes_read; } counting;
static dcp_status counting_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *err) {
    counting *c = (counting *)context;
    dcpi_mutex_lock(&c->lock);
    c->bytes_read += (int64_t)size;
    dcpi_mutex_unlock(&c->lock);
    return c->inner->read(c->inner->context, object, offset, data, size, err);
}
static dcp_status counting_open(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *err) {
    counting *c = (counting *)context;
    return c->inner->open(c->inner->context, path, object, info, err);
}
static void counting_close(void *context, void *object) {
    counting *c = (counting *)context;
    c->inner->close(c->inner->context, object);
}
static dcp_status counting_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    counting *c = (counting *)context;
    return c->inner->stat(c->inner->context, path, info, err);
}
enum { SHARED_SIZE = 3 << 20 };
static void save_shared(job *j, int rank, dcp_coordinator *c) {
    dcp_tensor t = dcp_bytes("w", j->user, SHARED_SIZE);
    dcp_save_desc desc = DCP_ZERO;
    t.placement = DCP_PLACE_REPLICATED;
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.block_size = 256 * 1024;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
}
static int sharing;
static void load_shared(job *j, int rank, dcp_coordinator *c) {
    uint8_t *got = (uint8_t *)must(calloc(1, SHARED_SIZE));
    dcp_tensor t = dcp_bytes("w", got, SHARED_SIZE);
    dcp_load_desc desc = DCP_ZERO;
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.share_reads = sharing;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
    if (j->status[rank] == DCP_OK && memcmp(got, j->user, SHARED_SIZE) != 0)
        j->status[rank] = dcpi_fail(&j->err[rank], DCP_E_CHECKSUM, "test: wrong bytes");
    free(got);
}
TEST(shared_reads_read_the_file_once) {
    counting c;
    dcp_storage storage;
    dcp_error err;
    job j;
    size_t i;
    memset(&j, 0, sizeof j);
    memset(&c, 0, sizeof c);
    memset(&storage, 0, sizeof storage);
    CHECK_OK(dcp_storage_memory(&c.inner, &err));
    CHECK_INT(dcpi_mutex_init(&c.lock), 0);
    storage.context = &c;
    storage.flags = c.inner->flags;
    storage.open = counting_open;
    storage.read = counting_read;
    storage.close = counting_close;
    storage.stat = counting_stat;
    j.user = must(malloc(SHARED_SIZE));
    for (i = 0; i < SHARED_SIZE; i++) ((uint8_t *)j.user)[i] = (uint8_t)(i * 7 + i / 1000);
    j.storage = c.inner;
    job_run(&j, 3, save_shared);
    check_all(&j, DCP_OK, NULL);
    j.storage = &storage;
    sharing = 0;
    job_run(&j, 5, load_shared);
    check_all(&j, DCP_OK, NULL);
    CHECK(c.bytes_read >= 5 * (int64_t)SHARED_SIZE);
    c.bytes_read = 0;
    sharing = 1;
    job_run(&j, 5, load_shared);
    check_all(&j, DCP_OK, NULL);
    CHECK(c.bytes_read >= SHARED_SIZE && c.bytes_read < SHARED_SIZE + 65536);
    dcp_storage_close(c.inner);
    dcpi_mutex_destroy(&c.lock);
    free(j.user);
}

/* ---- seed 003: whole shards dealt round robin -------------------------------------------------------------------- */
static void save_private(job *j, int rank, dcp_coordinator *c) {
    int32_t mine[3] = {100 * rank, 100 * rank + 1, 100 * rank + 2};
    dcp_tensor t = dcp_bytes("state", mine, sizeof mine);
    dcp_save_desc desc = DCP_ZERO;
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
}
/* Each rank takes the shards that it owns; the calls are collective, so those with fewer shards read nothing in the
 * last round. */
static void load_dealt(job *j, int rank, dcp_coordinator *c) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    int shards = *(int *)j->user, round, seen = 0;
    desc.path = "p/x";
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    j->status[rank] = dcp_open(&desc, &checkpoint, &j->err[rank]);
    for (round = 0; j->status[rank] == DCP_OK && round * j->ranks < shards; round++) {
        const int shard = round * j->ranks + rank;
        int32_t got[3] = {0};
        dcp_tensor t = dcp_bytes("state", got, sizeof got);
        const int has = shard < shards;
        if (has && dcp_shard_owner(shard, j->ranks) != rank) abort();
        j->status[rank] = dcp_read_rank(checkpoint, has ? shard : 0, &t, has ? 1 : 0, &j->err[rank]);
        if (has && j->status[rank] == DCP_OK && (got[0] != 100 * shard || got[2] != 100 * shard + 2))
            j->status[rank] = dcpi_fail(&j->err[rank], DCP_E_CHECKSUM, "test: shard %d has %d", shard, (int)got[0]);
        if (has && j->status[rank] == DCP_OK) {         /* its bytes as well, which no other rank has to ask for */
            void *bytes;
            size_t size;
            j->status[rank] = dcp_read_shard(checkpoint, (size_t)shard, &bytes, &size, &j->err[rank]);
            if (j->status[rank] == DCP_OK && (size != sizeof got || memcmp(bytes, got, size) != 0)) abort();
            dcp_free(bytes);
        }
        seen += has;
    }
    if (seen != (shards - rank + j->ranks - 1) / j->ranks) abort();
    dcp_close(checkpoint);
}
static void load_private(job *j, int rank, dcp_coordinator *c) {
    int32_t got[3] = {0};
    dcp_tensor t = dcp_bytes("state", got, sizeof got);
    dcp_load_desc desc = DCP_ZERO;
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = j->storage;
    desc.io.coordinator = c;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
    if (j->status[rank] == DCP_OK && got[0] != 100 * rank) j->status[rank] = DCP_E_CHECKSUM;
}
TEST(whole_shards_are_dealt_round_robin) {
    static const int worlds[] = { 1, 2, 3, 4, 5, 7 };
    dcp_error err;
    int shards = 5;
    job j;
    size_t i;
    memset(&j, 0, sizeof j);
    j.user = &shards;
    CHECK_OK(dcp_storage_memory(&j.storage, &err));
    job_run(&j, shards, save_private);
    check_all(&j, DCP_OK, NULL);
    for (i = 0; i < DCPI_COUNT(worlds); i++) {
        job_run(&j, worlds[i], load_dealt);
        check_all(&j, DCP_OK, NULL);
        /* comes back by itself to as many ranks as saved it; else the message says what would work */
        job_run(&j, worlds[i], load_private);
        if (worlds[i] == shards) check_all(&j, DCP_OK, NULL);
        else check_all(&j, DCP_E_MISMATCH, "dcp_read_rank");
    }
    dcp_storage_close(j.storage);
}

/* ---- what rank 0 has found is gone when another rank looks: all of them open it again, or none ------------------- */
static dcp_storage *meddled;
static dcp_status open_too_late(void *context, const char *path, void **object, dcp_object_info *info, dcp_error *err) {
    (void)meddled->remove(context, path, NULL, err);
    return meddled->open(context, path, object, info, err);
}
static void load_too_late(job *j, int rank, dcp_coordinator *c) {
    int32_t got[3] = {0};
    dcp_tensor t = dcp_bytes("state", got, sizeof got);
    dcp_load_desc desc = DCP_ZERO;
    dcp_storage late = *j->storage;
    late.open = open_too_late;
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.share_reads = *(int *)j->user;
    desc.io.storage = rank == 1 ? &late : j->storage;
    desc.io.coordinator = c;
    desc.io.timeout_ms = 2000;
    j->status[rank] = dcp_load(&desc, &j->err[rank]);
}
TEST(a_checkpoint_that_goes_while_ranks_open_it) {
    dcp_error err;
    int shares;
    job j;
    memset(&j, 0, sizeof j);
    j.user = &shares;
    CHECK_OK(dcp_storage_memory(&j.storage, &err));
    meddled = j.storage;
    for (shares = 0; shares < 2; shares++) {
        int32_t state[3] = { 1, 2, 3 };
        dcp_tensor t = dcp_bytes("state", state, sizeof state);
        dcp_save_desc desc = DCP_ZERO;
        desc.path = "p/x";
        desc.layout = DCP_LAYOUT_SINGLE;
        desc.tensors = &t;
        desc.tensor_count = 1;
        desc.io.storage = j.storage;
        CHECK_OK(dcp_save(&desc, &err));
        job_run(&j, 3, load_too_late);
        check_all(&j, DCP_E_NOT_FOUND, NULL);
    }
    dcp_storage_close(j.storage);
}

/* ---- a callback that fails without a word: its error is clear when it is called, so nothing unset is read -------- */
typedef struct mute { dcp_coordinator *inner; int fails, calls, unclear; } mute;
static dcp_status mute_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                            dcp_error *err) {
    mute *m = (mute *)context;
    m->calls++;
    if (err->status != DCP_OK || err->sys != 0 || err->message[0] != '\0') m->unclear++;
    return m->fails ? DCP_E_IO : m->inner->send(m->inner->context, to, tag, data, size, timeout_ms, err);
}
static dcp_status mute_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                               dcp_error *err) {
    dcp_coordinator *inner = ((mute *)context)->inner;
    return inner->receive(inner->context, from, tag, data, size, timeout_ms, err);
}
static void save_mutely(job *j, int rank, dcp_coordinator *c) {
    float value = 1;
    dcp_tensor t = dcp_scalar("t", DCP_FP32, &value);
    dcp_coordinator wrapped = *c;
    dcp_save_desc desc = DCP_ZERO;
    mute *m = (mute *)j->user;
    if (rank == 1) m->inner = c;
    wrapped.context = m;
    wrapped.send = mute_send;
    wrapped.receive = mute_receive;
    desc.path = "p/x";
    desc.tensors = &t;
    desc.tensor_count = 1;
    desc.io.storage = j->storage;
    desc.io.coordinator = rank == 1 ? &wrapped : c;
    desc.io.timeout_ms = 1000;
    if (rank == 0 && !m->fails) dcpi_os_sleep_ms(700);  /* meanwhile the other one shows that it lives */
    j->status[rank] = dcp_save(&desc, &j->err[rank]);
}
TEST(a_send_that_fails_without_a_word) {
    mute m;
    job j;
    dcp_error err;
    memset(&j, 0, sizeof j);
    memset(&m, 0, sizeof m);
    j.user = &m;
    CHECK_OK(dcp_storage_memory(&j.storage, &err));
    job_run(&j, 2, save_mutely);
    check_all(&j, DCP_OK, NULL);
    CHECK(m.calls > 3);
    m.fails = 1;
    job_run(&j, 2, save_mutely);
    CHECK(j.status[0] != DCP_OK);
    CHECK_INT(j.status[1], DCP_E_IO);
    CHECK(strstr(j.err[1].message, "DCP_E_IO") != NULL);
    CHECK_INT(m.unclear, 0);
    dcp_storage_close(j.storage);
}

/* ---- rank 0 leaves as soon as it has given its verdict ----------------------------------------------------------- */
typedef struct leaving { dcp_coordinator *inner; volatile int *has_left; } leaving;
static dcp_status leaving_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                               dcp_error *err) {
    dcp_coordinator *inner = ((leaving *)context)->inner;
    return inner->send(inner->context, to, tag, data, size, timeout_ms, err);
}
/* Messages come when they are probed for, and one from rank 0 only when that has left or seems to wait for us. */
static dcp_status leaving_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                  dcp_error *err) {
    leaving *l = (leaving *)context;
    int waited = 0;
    dcp_status status;
    if (timeout_ms > 0) {
        *data = NULL;
        *size = 0;
        dcpi_os_sleep_ms(2);
        return DCP_PENDING;
    }
    status = l->inner->receive(l->inner->context, from, tag, data, size, 0, err);
    while (status == DCP_OK && !dcpi_flag_get(l->has_left) && waited++ < 30) dcpi_os_sleep_ms(5);
    return status;
}
static void save_and_leave(job *j, int rank, dcp_coordinator *c) {
    float value = 1;
    const int64_t shape[] = { 1 };
    volatile int *has_left = (volatile int *)j->user;
    dcp_tensor t = dcp_array("t", DCP_FP32, &value, 1, shape);
    dcp_save_desc save = DCP_ZERO;
    dcp_coordinator mine = *c;
    leaving l;
    l.inner = c;
    l.has_left = has_left;
    mine.context = &l;
    mine.send = leaving_send;
    mine.receive = leaving_receive;
    t.placement = DCP_PLACE_REPLICATED;
    save.path = "left";
    save.tensors = &t;
    save.tensor_count = 1;
    save.overwrite = 1;
    save.io.storage = j->storage;
    save.io.coordinator = rank == 0 ? c : &mine;
    j->status[rank] = dcp_save(&save, &j->err[rank]);
    if (!j->status[rank]) {
        dcp_load_desc load = DCP_ZERO;
        load.path = "left";
        load.tensors = &t;
        load.tensor_count = 1;
        load.io = save.io;
        if (j->ranks == 2) j->status[rank] = dcp_load(&load, &j->err[rank]);
    }
    if (rank != 0) return;
    dcp_coordinator_close(c);
    j->coordinators[0] = NULL;
    dcpi_flag_set(has_left, 1);
}
TEST(rank_0_may_leave_after_its_verdict) {
    volatile int has_left;
    dcp_error err;
    int ranks;
    job j;
    memset(&j, 0, sizeof j);
    CHECK_OK(dcp_storage_memory(&j.storage, &err));
    for (ranks = 2; ranks <= 3; ranks++) {              /* after a load, after a save */
        has_left = 0;
        j.user = (void *)(uintptr_t)&has_left;
        job_run(&j, ranks, save_and_leave);
        check_all(&j, DCP_OK, NULL);
    }
    dcp_storage_close(j.storage);
}

int main(void) {
    RUN(rank_0_may_leave_after_its_verdict);
    RUN(whole_shards_are_dealt_round_robin);
    RUN(shared_reads_read_the_file_once);
    RUN(any_world_size_loads_what_any_saved);
    RUN(ranks_without_rows);
    RUN(a_checkpoint_that_goes_while_ranks_open_it);
    RUN(a_send_that_fails_without_a_word);
    return test_finish();
}
#endif
