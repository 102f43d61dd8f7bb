/* part.c - which part of a tensor extract and cat are asked for: --rank, --slice, or all of it. */
#include "dcptool.h"

typedef struct range { int64_t start, stop; int is_index; } range;      /* of one dimension */

/* ---- --slice ----------------------------------------------------------------------------------------------------- */
/* Decimal digits, after a minus sign or not; what is beyond 2^60 stays there. 0: there are none. */
static int take_number(const char **at, int64_t *out) {
    const int is_negative = **at == '-';
    const char *p = *at + is_negative;
    if (*p < '0' || *p > '9') return 0;
    for (*out = 0; *p >= '0' && *p <= '9'; p++)
        if (*out < INT64_C(1) << 56) *out = *out * 10 + (*p - '0');
    if (is_negative) *out = -*out;
    *at = p;
    return 1;
}

/* `3`, `-1`, `:`, `2:`, `:-2`, `0:10`; a stop that is not given is INT64_MAX. 0: something else. */
static int take_range(const char **at, range *r) {
    *at += strspn(*at, " ");
    r->start = 0;
    r->stop = INT64_MAX;
    r->is_index = take_number(at, &r->start);
    *at += strspn(*at, " ");
    if (**at == ':') {
        r->is_index = 0;
        *at += 1 + strspn(*at + 1, " ");
        (void)take_number(at, &r->stop);
        *at += strspn(*at, " ");
        return **at == ',' || **at == '\0';
    }
    return r->is_index && (**at == ',' || **at == '\0');
}

/* As numpy has it: from the end if negative, and cut to what there is. */
static int64_t place_of(int64_t number, int64_t count) {
    if (number < 0) number += count;
    return number < 0 ? 0 : number < count ? number : count;
}

static int set_range(tool_state *t, tool_part *p, int d, range r, int64_t *offset, int64_t *shape) {
    const int64_t count = shape[d];
    if (r.is_index) {
        if (r.start >= count || r.start < -count)
            return tool_trouble(t, DCP_E_INVALID, "--slice %s: dimension %d of tensor \"%s\" has %" PRId64
                                " element%s, and no index %" PRId64, t->slice, d, p->info->name, count,
                                tool_plural(count), r.start);
        r.stop = r.start == -1 ? INT64_MAX : r.start + 1;
    }
    r.start = place_of(r.start, count);
    r.stop = place_of(r.stop, count);
    offset[d] = r.start;
    shape[d] = r.stop > r.start ? r.stop - r.start : 0;
    return TOOL_FINE;
}

/* Bytes, of which elements of 4 bits share some. */
static int64_t bytes_of(const tool_part *p) {
    int64_t count = 1;
    int d;
    for (d = 0; d < p->ndim; d++) count *= p->shape[d];
    return (count * dcp_dtype_bits(p->info->dtype) + 7) / 8;
}

static int slice(tool_state *t, tool_part *p) {
    int64_t *offset = tool_new(DCP_MAX_DIMS, sizeof *offset), *shape = tool_new(DCP_MAX_DIMS, sizeof *shape);
    int64_t *shown = tool_new(DCP_MAX_DIMS, sizeof *shown);
    const char *at = t->slice, *from = at;
    int d, code, shown_ndim = 0;
    range r;
    if (p->info->dtype == DCP_OPAQUE)
        return tool_trouble(t, DCP_E_INVALID, "tensor \"%s\" is of type %s, which this version does not know and "
                            "cannot slice", p->info->name, p->info->dtype_name);
    memcpy(shape, p->shape, sizeof *shape * DCP_MAX_DIMS);
    for (d = 0;; d++, at++, from = at) {
        if (d == p->ndim)
            return tool_trouble(t, DCP_E_INVALID, "--slice %s has more dimensions than tensor \"%s\", which has %d",
                                t->slice, p->info->name, p->ndim);
        if (!take_range(&at, &r))
            return tool_trouble(t, DCP_E_INVALID, "--slice %s: dimension %d: '%.*s' is neither an index nor start:stop",
                                t->slice, d, (int)strcspn(from, ","), from);
        code = set_range(t, p, d, r, offset, shape);
        if (code) return code;
        if (!r.is_index) shown[shown_ndim++] = shape[d];
        if (*at == '\0') break;
    }
    while (++d < p->ndim) shown[shown_ndim++] = shape[d];
    p->shape = shape;
    p->offset = offset;
    p->shown = shown;
    p->shown_ndim = shown_ndim;
    p->size = bytes_of(p);
    return TOOL_FINE;
}

/* ---- --rank ------------------------------------------------------------------------------------------------------ */
static int choose_rank(tool_state *t, const dcp_checkpoint *c, const dcp_tensor_info *info, tool_part *part) {
    const tool_pieces pieces = tool_pieces_named(tool_pieces_of(c), info->name);
    const char *path = dcp_checkpoint_path(c);
    size_t i;
    if (info->placement != DCP_PLACE_PRIVATE)
        return tool_trouble(t, DCP_E_INVALID, "tensor \"%s\" of %s is %s, not private to ranks: omit --rank",
                            info->name, path, tool_placement_name(info->placement));
    for (i = 0; i < pieces.count; i++) {
        if (pieces.items[i].shard->rank != t->rank) continue;
        *part = tool_part_of_rank(&pieces.items[i]);
        return TOOL_FINE;
    }
    return tool_trouble(t, DCP_E_MISMATCH, "rank %" PRId64 " stored no tensor \"%s\" in %s", t->rank, info->name, path);
}

/* A private tensor can do without --rank if all ranks stored the same. */
int tool_part_chosen(tool_state *t, const dcp_checkpoint *c, const char *name, tool_part *part) {
    const dcp_tensor_info *info = dcp_checkpoint_find(c, name);
    int code = TOOL_FINE;
    if (!info)
        return tool_trouble(t, DCP_E_MISMATCH, "%s has no tensor \"%s\"; dcptool ls lists those it has",
                            dcp_checkpoint_path(c), name);
    *part = tool_part_whole(info);
    if (t->options & TOOL_RANK) code = choose_rank(t, c, info, part);
    return !code && (t->options & TOOL_SLICE) ? slice(t, part) : code;
}

int tool_part_failed(tool_state *t, const tool_part *part, const dcp_error *err) {
    const int code = tool_fail(t, err);
    if (err->status == DCP_E_MISMATCH && part->info->placement == DCP_PLACE_PRIVATE)
        tool_note(t, "--rank N takes what rank N stored");
    return code;
}
