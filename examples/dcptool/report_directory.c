/* report_directory.c - what dcptool report says of the checkpoints of a directory. */
#include "report.h"
#include <math.h>

typedef struct row {
    const dcp_list_entry *entry;
    const char *name;
    int64_t reused;                                     /* bytes of files that the one before it has too */
    const char *damage;                                 /* of what --norms read */
} row;

typedef struct norm { char *name; size_t row; double value; int64_t bad; } norm;        /* bad: NaN and infinite */

typedef struct gathered {
    dcp_list_entry *entries;
    row *rows;                                          /* the oldest first */
    size_t count;
    norm *norms;
    size_t norm_count, norm_capacity;
} gathered;

/* Files of a manifest, by path. */
typedef struct files { const dcp_shard_metadata **items; size_t count; dcp_checkpoint *c; } files;

static int gather(report *r, gathered *g);
static int look_into(report *r, gathered *g);
static void put_directory(const report *r);

int report_directory(report *r) {
    tool_state *t = r->t;
    gathered *g = tool_new(1, sizeof *g);
    int code;
    r->of = g;
    r->put = put_directory;
    code = gather(r, g);
    if (!code && g->count == 0) {
        tool_note(t, "no checkpoint in directory %s", t->operands[0]);
        code = TOOL_NO;
    }
    return code ? code : look_into(r, g);
}

static int gather(report *r, gathered *g) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_error err;
    size_t i;
    desc.directory = r->t->operands[0];
    desc.verifier = r->t->verifier;
    desc.io = r->t->io;
    if (dcp_list(&desc, &g->entries, &g->count, &err)) return tool_fail(r->t, &err);
    r->entries = g->entries;
    g->rows = tool_new(g->count + 1, sizeof *g->rows);
    for (i = 0; i < g->count; i++) {
        g->rows[i].entry = &g->entries[g->count - 1 - i];
        g->rows[i].name = tool_stem_text(g->rows[i].entry->path);
    }
    return TOOL_FINE;
}

/* ---- what manifests share ---------------------------------------------------------------------------------------- */
static int by_path(const void *a_, const void *b_) {
    const dcp_shard_metadata *a = *(const dcp_shard_metadata *const *)a_, *b = *(const dcp_shard_metadata *const *)b_;
    return strcmp(a->file_path, b->file_path);
}

static void close_files(files *f) {
    free((void *)f->items);
    dcp_close(f->c);
    memset(f, 0, sizeof *f);
}

/* Takes c over. */
static files files_of(dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_checkpoint_metadata(c);
    files f;
    size_t i;
    f.c = c;
    f.count = m->shard_count;
    f.items = tool_need(calloc(f.count + 1, sizeof *f.items));
    for (i = 0; i < f.count; i++) f.items[i] = &m->shards[i];
    qsort((void *)f.items, f.count, sizeof *f.items, by_path);
    return f;
}

static int64_t shared(const files *f, const files *before) {
    int64_t bytes = 0;
    size_t i = 0, k = 0;
    while (i < f->count && k < before->count) {
        const int order = strcmp(f->items[i]->file_path, before->items[k]->file_path);
        if (order == 0 && f->items[i]->file_size > 0) bytes += f->items[i]->file_size;
        i += order <= 0;
        k += order >= 0;
    }
    return bytes;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */
static void add_norm(gathered *g, const char *name, size_t at, const stats_sums *s) {
    norm *n;
    if (g->norm_count == g->norm_capacity) {
        norm *grown = tool_new(2 * g->norm_capacity + 64, sizeof *grown);
        if (g->norm_count) memcpy(grown, g->norms, g->norm_count * sizeof *grown);
        g->norms = grown;
        g->norm_capacity = 2 * g->norm_capacity + 64;
    }
    n = &g->norms[g->norm_count++];
    n->name = tool_text_of(name, strlen(name));
    n->row = at;
    n->value = report_norm(s);
    n->bad = s->nans + s->infinities;
}

static dcp_status read_norms(report *r, gathered *g, size_t at, dcp_checkpoint *c, dcp_error *err) {
    const tool_pieces all = tool_pieces_of(c);
    stats_reader *reader = stats_reader_open(r->t, c);
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < dcp_checkpoint_tensor_count(c) && !status; i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(c, i);
        stats_sums sums = DCP_ZERO;
        if (info->dtype == DCP_OPAQUE || !tool_glob_matches(r->t->norms, info->name)) continue;
        status = report_read(reader, info, tool_pieces_named(all, info->name), &sums, err);
        if (!status) add_norm(g, info->name, at, &sums);
    }
    stats_reader_close(reader);
    return status;
}

/* ---- each of them ------------------------------------------------------------------------------------------------ */
static int look_into(report *r, gathered *g) {
    tool_state *t = r->t;
    files before = DCP_ZERO;
    int code = TOOL_FINE;
    dcp_error err;
    size_t i;
    for (i = 0; i < g->count && !code; i++) {
        row *x = &g->rows[i];
        const dcp_open_desc desc = tool_opening(t, x->entry->path);
        dcp_checkpoint *c;
        dcp_status status = x->entry->status;
        if (status || (x->entry->layout != DCP_LAYOUT_MANIFEST && !t->norms)) continue;
        t->progress.name = x->name;
        status = dcp_open(&desc, &c, &err);
        if (!status && t->norms) status = read_norms(r, g, i, c, &err);
        if (status) {
            code = tool_code_of(status) == TOOL_NO ? TOOL_FINE : tool_fail(t, &err);
            if (!code) tool_note(t, "%s", err.message);
            x->damage = tool_text_of(err.message, strlen(err.message));
            r->damaged++;
        }
        if (c && x->entry->layout == DCP_LAYOUT_MANIFEST) {
            files now = files_of(c);
            x->reused = shared(&now, &before);
            close_files(&before);
            before = now;
        } else dcp_close(c);
    }
    t->progress.name = NULL;
    close_files(&before);
    return code;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */
static void put_row(tool_state *t, const row *x) {
    const dcp_list_entry *e = x->entry;
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "name", x->name);
    tool_json_text(t, "path", e->path);
    tool_json_text(t, "layout", tool_layout_name(e->layout));
    tool_json_number(t, "sequence", e->sequence);
    tool_json_optional(t, "epoch", e->epoch);
    tool_json_optional(t, "step", e->step);
    tool_json_text(t, "timestamp", e->timestamp[0] ? e->timestamp : NULL);
    tool_json_optional(t, "seconds", tool_time_of(e->timestamp));
    tool_json_number(t, "bytes", e->bytes);
    tool_json_number(t, "bytes_reused", x->reused);
    tool_json_number(t, "bytes_written", e->bytes > x->reused ? e->bytes - x->reused : 0);
    tool_json_number(t, "world_size", e->world_size);
    tool_json_number(t, "tensors", e->tensors);
    tool_json_text(t, "status", dcp_status_name(e->status));
    if (e->status) tool_json_text(t, "message", tool_without_path(e->message, e->path));
    if (x->damage) tool_json_text(t, "damage", tool_without_path(x->damage, e->path));
    tool_json_close(t, '}');
}

static int by_name(const void *a_, const void *b_) {
    const norm *a = a_, *b = b_;
    const int order = strcmp(a->name, b->name);
    return order ? order : a->row < b->row ? -1 : a->row > b->row;
}

/* Two lists with a number for each checkpoint; of norms null where the tensor is not there. */
static void put_series(tool_state *t, const gathered *g, const norm *first, size_t count) {
    double *norms = tool_need(calloc(g->count, sizeof *norms));
    int64_t *bad = tool_need(calloc(g->count, sizeof *bad));
    size_t i;
    for (i = 0; i < g->count; i++) norms[i] = HUGE_VAL;
    for (i = 0; i < count; i++) {
        norms[first[i].row] = first[i].value;
        bad[first[i].row] = first[i].bad;
    }
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "name", first->name);
    report_put_list(t, "norms", NULL, norms, g->count);
    report_put_list(t, "not_finite", bad, NULL, g->count);
    tool_json_close(t, '}');
    free(norms);
    free(bad);
}

static void put_norms(tool_state *t, const gathered *g) {
    size_t i, end;
    if (!t->norms) {
        tool_json_raw(t, "norms", "null");
        return;
    }
    if (g->norm_count) qsort(g->norms, g->norm_count, sizeof *g->norms, by_name);
    tool_json_open(t, "norms", '{');
    tool_json_text(t, "glob", t->norms);
    tool_json_open(t, "tensors", '[');
    for (i = 0; i < g->norm_count; i = end) {
        for (end = i + 1; end < g->norm_count && strcmp(g->norms[end].name, g->norms[i].name) == 0;) end++;
        put_series(t, g, &g->norms[i], end - i);
    }
    tool_json_close(t, ']');
    tool_json_close(t, '}');
}

static void put_directory(const report *r) {
    const gathered *g = r->of;
    tool_state *t = r->t;
    size_t i;
    tool_json_begin(t);
    tool_json_text(t, "kind", "directory");
    tool_json_text(t, "path", t->operands[0]);
    tool_json_text(t, "name", r->name);
    tool_json_number(t, "damaged", r->damaged);
    tool_json_open(t, "checkpoints", '[');
    for (i = 0; i < g->count; i++) put_row(t, &g->rows[i]);
    tool_json_close(t, ']');
    put_norms(t, g);
    tool_json_end(t);
}
