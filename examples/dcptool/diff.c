/* diff.c - dcptool diff: what is different in two checkpoints. */
#include "diff.h"

static int run(tool_state *t);

const tool_command tool_diff = {
    "diff", run, 2, 2, 0, TOOL_VERBOSE | TOOL_VALUES | TOOL_RTOL | TOOL_ATOL, "A B", "compare two checkpoints",
    "Tensors that only one has, different types, shapes and contents; training and\n"
    "custom fields; of two manifests also the model, tiers, roles, keys and router\n"
    "seeds, but not versions. The layout, and how tensors are cut into pieces, does\n"
    "not matter.\n"
    "\n"
    "Where pieces are cut alike, their digests in the documents are compared and no\n"
    "data is read (`verify` proves that data and digests agree); otherwise both are\n"
    "read, up to the first difference. -v says how each tensor was compared.\n"
    "\n"
    "--values reads all of the tensors whose digests differ, and says how many\n"
    "numbers do, where the first is, and how far they are apart at most, also in\n"
    "relation to the larger one. With --rtol and --atol those that are close enough\n"
    "are the same. NaN is the same as NaN, and a complex number is two.\n"
    "\n"
    "Exit codes: 0 same, 1 different (or one is corrupt), 2 usage,\n"
    "            3 could not look (missing, I/O, newer format)\n"
    "Example:    dcptool diff runs/a/step_100 runs/b/step_100 --rtol 1e-5\n"
};

enum same { SAME, DIFFERENT, CANNOT_TELL };
enum { DETAIL = 256 };                                  /* characters of what is different, and where */

static int compare(diff_job *k);

static int run(tool_state *t) {
    diff_job k = DCP_ZERO;
    int code;
    k.t = t;
    k.may_read = -1;
    k.has_values = (t->options & (TOOL_VALUES | TOOL_RTOL | TOOL_ATOL)) != 0;
    code = diff_open(t, t->operands[0], &k.a);
    if (!code) code = diff_open(t, t->operands[1], &k.b);
    if (!code) code = compare(&k);
    diff_close(&k);
    return code;
}

int diff_open(tool_state *t, const char *path, diff_side *s) {
    int code = tool_open(t, path, &s->c);
    if (code) return code;
    s->m = dcp_checkpoint_metadata(s->c);
    s->manifest = dcp_checkpoint_manifest(s->c);
    s->pieces = tool_pieces_of(s->c);
    return TOOL_FINE;
}

void diff_close(diff_job *k) {
    free(k->a.buffer.bytes);
    free(k->b.buffer.bytes);
    dcp_close(k->a.c);
    dcp_close(k->b.c);
}

static void say_how(const diff_job *k) {
    const char *alone = k->by_data || !k->by_digest ? "" : "; by their digests alone, no data was read";
    tool_note(k->t, "%" PRId64 " tensor%s the same, %" PRId64 " difference%s%s", k->same,
              k->same == 1 ? " is" : "s are", k->differences, tool_plural(k->differences), alone);
}

static int compare(diff_job *k) {
    tool_state *t = k->t;
    dcp_error err;
    dcp_status status;
    int code = TOOL_FINE;
    tool_json_begin(t);
    tool_json_text(t, "a", dcp_checkpoint_path(k->a.c));
    tool_json_text(t, "b", dcp_checkpoint_path(k->b.c));
    tool_json_open(t, "differences", '[');
    diff_documents(k);
    status = diff_tensors(k, &err);
    tool_json_close(t, ']');
    tool_json_flag(t, "same", !status && k->differences == 0);
    tool_json_number(t, "tensors_same", k->same);
    tool_json_number(t, "compared_by_digest", k->by_digest);
    tool_json_number(t, "compared_by_data", k->by_data);
    if (status) code = tool_fail(t, &err);
    else if (!(t->options & TOOL_JSON)) say_how(k);
    tool_json_end(t);
    return code ? code : k->differences ? TOOL_NO : TOOL_FINE;
}

/* ---- one difference ---------------------------------------------------------------------------------------------- */
static void json_values(tool_state *t, const tool_part *p, const tool_values *v) {
    char place[TOOL_SHAPE];
    if (p->rank >= 0) tool_json_number(t, "rank", p->rank);
    tool_json_number(t, "numbers", v->count);
    tool_json_number(t, "different", v->different);
    tool_json_raw(t, "first_at", tool_place_text(p, v->first, place));
    if (v->absolute <= 1e308) tool_json_double(t, "largest_absolute", v->absolute);
    else tool_json_raw(t, "largest_absolute", "null");  /* one is infinite, or NaN */
    tool_json_raw(t, "largest_absolute_at", tool_place_text(p, v->absolute_at, place));
    if (v->relative <= 1e308) tool_json_double(t, "largest_relative", v->relative);
    else tool_json_raw(t, "largest_relative", "null");
    tool_json_raw(t, "largest_relative_at", tool_place_text(p, v->relative_at, place));
}

void diff_report(diff_job *k, const char *kind, const char *name, const char *a, const char *b,
                 const char *detail) {
    tool_state *t = k->t;
    k->differences++;
    if (k->heard) {
        k->heard(k, kind, name, a, b, detail);
        return;
    }
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "kind", kind);
    tool_json_text(t, "name", name);
    tool_json_text(t, "a", a);
    tool_json_text(t, "b", b);
    tool_json_text(t, "detail", detail);
    if (k->values) json_values(t, k->part, k->values);
    tool_json_close(t, '}');
    if (a && b) tool_print(t, "%s: %s: %s in A, %s in B\n", kind, name, a, b);
    else if (a || b) {
        const char *one = a ? a : b;
        tool_print(t, "only in %s: %s %s%s%s\n", a ? "A" : "B", kind, name, one[0] ? ": " : "", one);
    } else tool_print(t, "%s: %s: %s\n", kind, name, detail);
}

static void report_content(diff_job *k, const dcp_tensor_info *info, enum same same, const char *way,
                           const char *detail) {
    if (same == DIFFERENT) diff_report(k, "content", info->name, NULL, NULL, detail);
    if (same != SAME) return;
    k->same++;
    if ((k->t->options & TOOL_VERBOSE) && !k->heard) tool_print(k->t, "same: %s (%s)\n", info->name, way);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
static dcp_status compare_tensor(diff_job *k, const dcp_tensor_info *x, const dcp_tensor_info *y, dcp_error *err);
static dcp_status compare_content(diff_job *k, const dcp_tensor_info *x, const dcp_tensor_info *y, dcp_error *err);

/* Both are sorted by name. */
dcp_status diff_tensors(diff_job *k, dcp_error *err) {
    const dcp_tensor_info *x = dcp_checkpoint_tensor(k->a.c, 0), *y = dcp_checkpoint_tensor(k->b.c, 0);
    size_t i = 0, j = 0;
    dcp_status status = DCP_OK;
    while (!status && (x || y)) {
        const int order = !x ? 1 : !y ? -1 : strcmp(x->name, y->name);
        if (tool_interrupted.requested) return tool_error(err, DCP_E_CANCELLED, "interrupted");
        status = compare_tensor(k, order <= 0 ? x : NULL, order >= 0 ? y : NULL, err);
        if (order <= 0) x = dcp_checkpoint_tensor(k->a.c, ++i);
        if (order >= 0) y = dcp_checkpoint_tensor(k->b.c, ++j);
    }
    return status;
}

/* What only manifests say of a tensor. */
static void compare_origin(diff_job *k, const dcp_tensor_info *x, const dcp_tensor_info *y) {
    char key_a[TOOL_SHAPE], key_b[TOOL_SHAPE];
    if (!k->a.manifest || !k->b.manifest) return;
    diff_text(k, "role", x->name, tool_role_name(x->role), tool_role_name(y->role));
    diff_text(k, "tier", x->name, tool_or(x->tier, "none"), tool_or(y->tier, "none"));
    if (x->role == y->role)
        diff_text(k, "key", x->name, tool_shape_text(3, x->expert_key, key_a),
                  tool_shape_text(3, y->expert_key, key_b));
}

/* x and y have one name; one of them may be NULL. */
static dcp_status compare_tensor(diff_job *k, const dcp_tensor_info *x, const dcp_tensor_info *y, dcp_error *err) {
    char shape_a[TOOL_SHAPE], shape_b[TOOL_SHAPE], text[512];
    const dcp_tensor_info *one = x ? x : y;
    tool_shape_text(one->ndim, one->shape, shape_a);
    if (!x || !y) {
        snprintf(text, sizeof text, "%.200s %s", tool_dtype_text(one), shape_a);
        diff_report(k, "tensor", one->name, x ? text : NULL, y ? text : NULL, NULL);
    } else if (strcmp(tool_dtype_text(x), tool_dtype_text(y)) != 0) {
        diff_text(k, "type", x->name, tool_dtype_text(x), tool_dtype_text(y));
    } else if (x->ndim != y->ndim || memcmp(x->shape, y->shape, sizeof x->shape) != 0) {
        diff_text(k, "shape", x->name, shape_a, tool_shape_text(y->ndim, y->shape, shape_b));
    } else {
        compare_origin(k, x, y);
        if (x->size == y->size) return compare_content(k, x, y, err);
        diff_number(k, "bytes", x->name, x->size, y->size);          /* of an unknown type */
    }
    return DCP_OK;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */
static enum same compare_digests(tool_pieces a, tool_pieces b, int by_rank, char detail[DETAIL]);
static dcp_status compare_data(diff_job *k, const tool_part *p, enum same *same, char detail[DETAIL], dcp_error *err);
static dcp_status compare_numbers(diff_job *k, const tool_part *p, enum same *same, dcp_error *err);
static dcp_status compare_ranks(diff_job *k, const dcp_tensor_info *info, tool_pieces a, tool_pieces b,
                                dcp_error *err);

/* Whether both may be read to find out more; then they count as read. */
static int may_read(diff_job *k, const dcp_tensor_info *info, size_t pieces) {
    const int64_t parts = info->placement == DCP_PLACE_PRIVATE && pieces > 1 ? (int64_t)pieces : 1;
    if (k->may_read < 0) return 1;
    if (info->size > k->may_read / 2 / parts) return 0;
    k->may_read -= 2 * parts * info->size;
    return 1;
}

static dcp_status compare_content(diff_job *k, const dcp_tensor_info *x, const dcp_tensor_info *y, dcp_error *err) {
    const tool_pieces a = tool_pieces_named(k->a.pieces, x->name), b = tool_pieces_named(k->b.pieces, y->name);
    const int private_a = x->placement == DCP_PLACE_PRIVATE, private_b = y->placement == DCP_PLACE_PRIVATE;
    const tool_part whole = tool_part_whole(x);
    char detail[DETAIL];
    enum same same;
    dcp_status status = DCP_OK;
    int is_read;
    if (private_a != private_b && (a.count > 1 || b.count > 1)) {
        diff_text(k, "placement", x->name, tool_placement_name(x->placement), tool_placement_name(y->placement));
        return DCP_OK;
    }
    same = compare_digests(a, b, private_a && a.count > 1, detail);
    is_read = same == CANNOT_TELL || (same == DIFFERENT && k->has_values);
    if (is_read && !may_read(k, x, a.count)) {
        if (same == CANNOT_TELL) diff_report(k, "unknown", x->name, NULL, NULL, "cut into other pieces, and not read");
        else report_content(k, x, same, "by digest", detail);
        return DCP_OK;
    }
    if (!is_read) {
        k->by_digest++;
        report_content(k, x, same, "by digest", detail);
        return DCP_OK;
    }
    k->by_data++;
    if (private_a && private_b) return compare_ranks(k, x, a, b, err);
    if (k->has_values && x->dtype != DCP_OPAQUE) return compare_numbers(k, &whole, &same, err);
    status = compare_data(k, &whole, &same, detail, err);
    if (!status) report_content(k, x, same, "by data", detail);
    return status;
}

/* As numbers; a part that differs is reported. */
static dcp_status compare_numbers(diff_job *k, const tool_part *p, enum same *same, dcp_error *err) {
    char text[4 * DETAIL], of_rank[TOOL_NUMBER + 16] = "", first[TOOL_SHAPE], at[TOOL_SHAPE], also_at[TOOL_SHAPE];
    tool_values v;
    dcp_status status = tool_compare_values(k->t, k->a.c, &k->a.buffer, k->b.c, &k->b.buffer, p, &v, err);
    if (status) return status;
    *same = v.different ? DIFFERENT : SAME;
    if (p->rank >= 0) snprintf(of_rank, sizeof of_rank, "of rank %" PRId64 " ", p->rank);
    if (v.different == 0 && v.absolute > 0)
        snprintf(text, sizeof text, "by value: at most %.4g apart", v.absolute);
    else snprintf(text, sizeof text, "by value");
    if (v.different == 0) {
        if (p->rank < 0) report_content(k, p->info, SAME, text, NULL);
        return DCP_OK;
    }
    snprintf(text, sizeof text, "%s%" PRId64 " of %" PRId64 " numbers differ, first at %s; at most by %.4g at %s, "
             "relatively %.4g at %s", of_rank, v.different, v.count, tool_place_text(p, v.first, first), v.absolute,
             tool_place_text(p, v.absolute_at, at), v.relative, tool_place_text(p, v.relative_at, also_at));
    k->values = &v;
    k->part = p;
    report_content(k, p->info, DIFFERENT, NULL, text);
    k->values = NULL;
    return DCP_OK;
}

static int have_same_shape(const dcp_tensor_metadata *x, const dcp_tensor_metadata *y) {
    return x->ndim == y->ndim && memcmp(x->shape, y->shape, sizeof x->shape) == 0;
}

/* Whether the digests of both cover the same bytes. */
static int are_comparable(const tool_piece *a, const tool_piece *b, int by_rank) {
    const dcp_tensor_metadata *x = a->meta, *y = b->meta;
    return x->block_size != 0 && x->block_size == y->block_size && x->block_count == y->block_count &&
           x->size == y->size && have_same_shape(x, y) &&
           memcmp(x->global_offset, y->global_offset, sizeof x->global_offset) == 0 &&
           (!by_rank || a->shard->rank == b->shard->rank);
}

static enum same compare_digests(tool_pieces a, tool_pieces b, int by_rank, char detail[DETAIL]) {
    size_t i, block;
    if (a.count != b.count) return CANNOT_TELL;
    for (i = 0; i < a.count; i++) if (!are_comparable(&a.items[i], &b.items[i], by_rank)) return CANNOT_TELL;
    for (i = 0; i < a.count; i++) {
        const dcp_tensor_metadata *x = a.items[i].meta, *y = b.items[i].meta;
        for (block = 0; block < x->block_count; block++) {
            const int64_t first = (int64_t)block * x->block_size, rest = x->size - first;
            const int64_t end = first + (rest < x->block_size ? rest : x->block_size);
            if (memcmp(x->block_checksums + 32 * block, y->block_checksums + 32 * block, 32) == 0) continue;
            snprintf(detail, DETAIL, "differs within bytes %" PRId64 " to %" PRId64
                     " of the piece of rank %d (by digest)", first, end - 1, a.items[i].shard->rank);
            return DIFFERENT;
        }
    }
    return SAME;
}

/* Reads both, box by box, up to the first difference. */
static dcp_status compare_data(diff_job *k, const tool_part *p, enum same *same, char detail[DETAIL],
                               dcp_error *err) {
    tool_boxes b = tool_boxes_of(p, TOOL_CHUNK);
    tool_progress *progress = &k->t->progress;
    dcp_status status = tool_buffer_fit(&k->a.buffer, b.largest, err);
    if (!status) status = tool_buffer_fit(&k->b.buffer, b.largest, err);
    *same = SAME;
    progress->total = 2 * p->size;
    while (!status && *same == SAME && tool_boxes_next(&b)) {
        const unsigned char *x = k->a.buffer.bytes, *y = k->b.buffer.bytes;
        progress->done = 2 * b.at;
        status = tool_boxes_read(&b, k->a.c, k->a.buffer.bytes, err);
        progress->done += b.size;
        if (!status) status = tool_boxes_read(&b, k->b.c, k->b.buffer.bytes, err);
        if (!status && memcmp(x, y, (size_t)b.size) != 0) {
            int64_t i = 0;
            while (x[i] == y[i]) i++;
            snprintf(detail, DETAIL, "differs first at byte %" PRId64 " of %" PRId64 " (by data)", b.at + i, p->size);
            *same = DIFFERENT;
        }
    }
    progress->total = 0;
    return status;
}

static dcp_status compare_rank_numbers(diff_job *k, const dcp_tensor_info *info, tool_pieces a, dcp_error *err) {
    enum same same, all = SAME;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < a.count && !status; i++) {
        const tool_part p = tool_part_of_rank(&a.items[i]);
        status = compare_numbers(k, &p, &same, err);
        if (!status && same == DIFFERENT) all = DIFFERENT;
    }
    if (!status && all == SAME) report_content(k, info, SAME, "by value", NULL);
    return status;
}

/* What every rank stored of a tensor that is private in both. */
static dcp_status compare_ranks(diff_job *k, const dcp_tensor_info *info, tool_pieces a, tool_pieces b,
                                dcp_error *err) {
    char detail[DETAIL], with_rank[DETAIL + 32] = "";
    enum same same = SAME;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < a.count && i < b.count; i++) {
        const tool_piece *x = &a.items[i], *y = &b.items[i];
        if (x->shard->rank != y->shard->rank || !have_same_shape(x->meta, y->meta)) break;
    }
    if (i < a.count || i < b.count) {
        diff_report(k, "ranks", info->name, NULL, NULL, "it was stored by different ranks, or in different shapes");
        return DCP_OK;
    }
    if (k->has_values && info->dtype != DCP_OPAQUE) return compare_rank_numbers(k, info, a, err);
    for (i = 0; i < a.count && same == SAME && !status; i++) {
        const tool_part p = tool_part_of_rank(&a.items[i]);
        status = compare_data(k, &p, &same, detail, err);
        if (same == DIFFERENT) snprintf(with_rank, sizeof with_rank, "of rank %" PRId64 " %s", p.rank, detail);
    }
    if (!status) report_content(k, info, same, "by data", with_rank);
    return status;
}
