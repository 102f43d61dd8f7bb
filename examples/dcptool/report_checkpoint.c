/* report_checkpoint.c - what dcptool report says of a checkpoint. */
#include "report.h"
#include <math.h>

typedef struct numbers {
    int64_t finite, nans, infinities, zeros;
    double minimum, maximum, mean, deviation, norm;
    int64_t histogram[REPORT_COLUMNS];
} numbers;

typedef struct tensor {
    const dcp_tensor_info *info;
    tool_pieces pieces;
    int64_t bytes;                                      /* of all pieces */
    int has_pieces;                                     /* they are written */
    numbers *values;                                    /* NULL: not read */
    const char *damage;
} tensor;

typedef struct gathered {
    dcp_checkpoint *c;
    const dcp_metadata *m;
    tensor *tensors;
    size_t count;
    int64_t bytes, pieces;
    int has_values;
    report_against *against;                            /* NULL: not asked for */
} gathered;

static void gather_tensors(gathered *g);
static void choose_pieces(gathered *g);
static int read_values(report *r, gathered *g);
static void put_checkpoint(const report *r);

int report_checkpoint(report *r) {
    tool_state *t = r->t;
    gathered *g = tool_new(1, sizeof *g);
    const int64_t most = (t->options & TOOL_STATS) ? -1 : TOOL_REPORT_READS;
    char size[TOOL_NUMBER];
    int code = tool_open(t, t->operands[0], &g->c);
    if (code) return code;
    r->here = g->c;
    g->m = dcp_checkpoint_metadata(g->c);
    r->of = g;
    r->put = put_checkpoint;
    r->name = tool_stem_text(dcp_checkpoint_path(g->c));
    gather_tensors(g);
    choose_pieces(g);
    g->has_values = most < 0 || g->bytes <= most;
    if (g->has_values) code = read_values(r, g);
    else tool_note(t, "values were not read: there are %s of them; --stats reads them",
                   tool_size_text(t, g->bytes, size));
    if (!code && (t->options & TOOL_AGAINST)) {
        g->against = tool_new(1, sizeof *g->against);
        code = report_compare(r, most, g->against);
    }
    return code;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
static void gather_tensors(gathered *g) {
    const tool_pieces all = tool_pieces_of(g->c);
    size_t i, k;
    g->count = dcp_checkpoint_tensor_count(g->c);
    g->tensors = tool_new(g->count + 1, sizeof *g->tensors);
    for (i = 0; i < g->count; i++) {
        tensor *x = &g->tensors[i];
        x->info = dcp_checkpoint_tensor(g->c, i);
        x->pieces = tool_pieces_named(all, x->info->name);
        for (k = 0; k < x->pieces.count; k++) x->bytes += x->pieces.items[k].meta->size;
        g->bytes += x->bytes;
        g->pieces += (int64_t)x->pieces.count;
    }
}

static int larger_first(const void *a_, const void *b_) {
    const tensor *a = *(tensor *const *)a_, *b = *(tensor *const *)b_;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b;
}

/* Those of the largest tensors, as long as a page of them stays small. */
static void choose_pieces(gathered *g) {
    tensor **order = tool_new(g->count + 1, sizeof *order);
    size_t i, left = REPORT_PIECES > g->count ? REPORT_PIECES : g->count;       /* a piece of each is no burden */
    for (i = 0; i < g->count; i++) order[i] = &g->tensors[i];
    qsort((void *)order, g->count, sizeof *order, larger_first);
    for (i = 0; i < g->count; i++) {
        order[i]->has_pieces = order[i]->pieces.count <= left;
        if (order[i]->has_pieces) left -= order[i]->pieces.count;
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
double report_norm(const stats_sums *s) { return sqrt(s->squares + (double)s->count * s->mean * s->mean); }

static numbers *numbers_of(const stats_sums *s) {
    numbers *n = tool_new(1, sizeof *n);
    n->finite = s->count;
    n->nans = s->nans;
    n->infinities = s->infinities;
    n->zeros = s->zeros;
    n->minimum = s->minimum;
    n->maximum = s->maximum;
    n->mean = s->mean;
    n->deviation = stats_deviation(s);
    n->norm = report_norm(s);
    if (s->count) stats_histogram(s, n->histogram, REPORT_COLUMNS);
    return n;
}

dcp_status report_read(stats_reader *reader, const dcp_tensor_info *info, tool_pieces pieces, stats_sums *sums,
                       dcp_error *err) {
    const tool_part whole = tool_part_whole(info);
    dcp_status status = DCP_OK;
    size_t i;
    if (info->placement != DCP_PLACE_PRIVATE || pieces.count < 2) return stats_read(reader, &whole, sums, err);
    for (i = 0; i < pieces.count && !status; i++) {
        const tool_part part = tool_part_of_rank(&pieces.items[i]);
        status = stats_read(reader, &part, sums, err);
    }
    return status;
}

/* Damage is what a report is to show; what leaves it unknown ends it. */
static int read_values(report *r, gathered *g) {
    stats_reader *reader = stats_reader_open(r->t, g->c);
    int code = TOOL_FINE;
    dcp_error err;
    size_t i;
    for (i = 0; i < g->count && (code == TOOL_FINE || code == TOOL_NO); i++) {
        tensor *x = &g->tensors[i];
        stats_sums sums = DCP_ZERO;
        if (x->info->dtype == DCP_OPAQUE) continue;
        code = tool_code_of(report_read(reader, x->info, x->pieces, &sums, &err));
        if (code == TOOL_FINE) x->values = numbers_of(&sums);
        if (code != TOOL_NO) continue;
        x->damage = tool_text_of(err.message, strlen(err.message));
        r->damaged++;
        tool_note(r->t, "%s", err.message);
    }
    stats_reader_close(reader);
    return code == TOOL_NO || code == TOOL_FINE ? TOOL_FINE : tool_fail(r->t, &err);
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */
static void put_values(tool_state *t, const numbers *n) {
    tool_json_open(t, "values", '{');
    tool_json_number(t, "finite", n->finite);
    tool_json_number(t, "nan", n->nans);
    tool_json_number(t, "inf", n->infinities);
    tool_json_number(t, "zeros", n->zeros);
    if (n->finite) {
        report_put_number(t, "minimum", n->minimum);
        report_put_number(t, "maximum", n->maximum);
        report_put_number(t, "mean", n->mean);
        report_put_number(t, "standard_deviation", n->deviation);
        report_put_number(t, "norm", n->norm);
        report_put_list(t, "histogram", n->histogram, NULL, REPORT_COLUMNS);
    }
    tool_json_close(t, '}');
}

static int is_whole(const tensor *x, const dcp_tensor_metadata *m) {
    int d;
    for (d = 0; d < m->ndim; d++) if (m->global_offset[d] || m->shape[d] != x->info->shape[d]) return 0;
    return m->ndim == x->info->ndim;
}

/* [file, offset in it], and of one that is not the whole tensor: [..., offset in the tensor, shape]. */
static void put_pieces(tool_state *t, const tensor *x, const dcp_metadata *m) {
    char place[2 * TOOL_NUMBER + 2 * TOOL_SHAPE], offset[TOOL_SHAPE], shape[TOOL_SHAPE];
    size_t i;
    tool_json_count(t, "piece_count", x->pieces.count);
    if (!x->has_pieces) return;
    tool_json_open(t, "pieces", '[');
    for (i = 0; i < x->pieces.count; i++) {
        const tool_piece *p = &x->pieces.items[i];
        int length = snprintf(place, sizeof place, "[%" PRId64 ", %" PRId64, (int64_t)(p->shard - m->shards),
                              p->meta->offset);
        if (is_whole(x, p->meta)) snprintf(place + length, sizeof place - (size_t)length, "]");
        else snprintf(place + length, sizeof place - (size_t)length, ", %s, %s]",
                      tool_shape_text(p->meta->ndim, p->meta->global_offset, offset),
                      tool_shape_text(p->meta->ndim, p->meta->shape, shape));
        tool_json_raw(t, NULL, place);
    }
    tool_json_close(t, ']');
}

static void put_difference(tool_state *t, const report_difference *d) {
    if (!d->kind) {
        tool_json_raw(t, "difference", "null");
        return;
    }
    tool_json_open(t, "difference", '{');
    tool_json_text(t, "kind", d->kind);
    tool_json_text(t, "here", d->a);
    tool_json_text(t, "there", d->b);
    tool_json_text(t, "detail", d->detail);
    if (d->numbers) {
        tool_json_number(t, "numbers", d->numbers);
        tool_json_number(t, "different", d->different);
        report_put_number(t, "largest_absolute", d->absolute);
        report_put_number(t, "largest_relative", d->relative);
    }
    tool_json_close(t, '}');
}

static void put_info(tool_state *t, const dcp_tensor_info *info) {
    tool_json_text(t, "name", info->name);
    tool_json_text(t, "type", tool_dtype_text(info));
    tool_json_shape(t, "shape", info->ndim, info->shape);
}

static void put_tensor(tool_state *t, const gathered *g, size_t i) {
    const tensor *x = &g->tensors[i];
    tool_json_open(t, NULL, '{');
    put_info(t, x->info);
    tool_json_number(t, "bytes", x->bytes);
    tool_json_text(t, "placement", tool_placement_name(x->info->placement));
    if (dcp_checkpoint_manifest(g->c)) {
        tool_json_text(t, "role", tool_role_name(x->info->role));
        tool_json_text(t, "tier", x->info->tier);
    }
    put_pieces(t, x, g->m);
    if (x->values) put_values(t, x->values);
    if (x->damage) tool_json_text(t, "damage", x->damage);
    if (g->against) put_difference(t, &g->against->tensors[i]);
    tool_json_close(t, '}');
}

static void put_shards(tool_state *t, const dcp_metadata *m) {
    size_t i;
    tool_json_open(t, "shards", '[');
    for (i = 0; i < m->shard_count; i++) {
        tool_json_open(t, NULL, '{');
        tool_json_number(t, "rank", m->shards[i].rank);
        tool_json_text(t, "file", m->shards[i].file_path);
        tool_json_optional(t, "bytes", m->shards[i].file_size);
        tool_json_close(t, '}');
    }
    tool_json_close(t, ']');
}

static void put_against(tool_state *t, const report_against *against) {
    size_t i;
    if (!against) {
        tool_json_raw(t, "against", "null");
        return;
    }
    tool_json_open(t, "against", '{');
    tool_json_text(t, "path", against->path);
    tool_json_text(t, "name", against->name);
    tool_json_number(t, "same", against->same);
    tool_json_open(t, "only_there", '[');
    for (i = 0; i < against->only_there_count; i++) {
        const dcp_tensor_info *info = against->only_there[i];
        tool_json_open(t, NULL, '{');
        put_info(t, info);
        tool_json_number(t, "bytes", info->size);
        tool_json_close(t, '}');
    }
    tool_json_close(t, ']');
    tool_json_close(t, '}');
}

static void put_head(const report *r, const gathered *g) {
    const dcp_training *training = tool_training_of(g->c);
    const dcp_manifest *manifest = dcp_checkpoint_manifest(g->c);
    tool_state *t = r->t;
    tool_json_text(t, "kind", "checkpoint");
    tool_json_text(t, "path", dcp_checkpoint_path(g->c));
    tool_json_text(t, "name", r->name);
    tool_json_text(t, "layout", tool_layout_name(dcp_checkpoint_layout(g->c)));
    tool_json_text(t, "model", manifest ? manifest->model_id : NULL);
    tool_json_text(t, "timestamp", g->m->timestamp);
    tool_json_text(t, "save_id", g->m->save_id);
    tool_json_number(t, "sequence", g->m->sequence);
    tool_json_optional(t, "epoch", training ? training->epoch : -1);
    tool_json_optional(t, "step", training ? training->step : -1);
    tool_json_number(t, "world_size", g->m->world_size);
    tool_json_text(t, "strategy", g->m->sharding.strategy);
    tool_json_number(t, "bytes", g->bytes);
    tool_json_number(t, "pieces", g->pieces);
    tool_json_flag(t, "values_read", g->has_values);
    tool_json_number(t, "damaged", r->damaged);
}

static void put_checkpoint(const report *r) {
    const gathered *g = r->of;
    size_t i;
    tool_json_begin(r->t);
    put_head(r, g);
    put_shards(r->t, g->m);
    put_against(r->t, g->against);
    tool_json_open(r->t, "tensors", '[');
    for (i = 0; i < g->count; i++) put_tensor(r->t, g, i);
    tool_json_close(r->t, ']');
    tool_json_end(r->t);
}
