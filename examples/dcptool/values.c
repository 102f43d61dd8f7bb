/* values.c - two tensors compared number by number. */
#include "dcptool.h"
#include <float.h>
#include <math.h>

enum { BLOCK = 1024 };

/* Of integers of 64 bits, which doubles do not hold, it is exact. */
static double distance(dcp_dtype dtype, const unsigned char *x, const unsigned char *y, int64_t at, double a,
                       double b) {
    uint64_t i, k;
    int is_less;
    if (dtype != DCP_INT64 && dtype != DCP_UINT64) {
        if (a == b || (a != a && b != b)) return 0;     /* NaN is NaN, whatever its bits */
        return fabs(a - b) <= DBL_MAX ? fabs(a - b) : (double)INFINITY;
    }
    memcpy(&i, x + 8 * at, 8);
    memcpy(&k, y + 8 * at, 8);
    is_less = dtype == DCP_UINT64 ? i < k : (i ^ UINT64_C(1) << 63) < (k ^ UINT64_C(1) << 63);
    return (double)(is_less ? k - i : i - k);
}

static double relative_to(double apart, double a, double b) {
    const double size = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    if (!(apart > 0)) return 0;
    return apart <= DBL_MAX && size > 0 && size <= DBL_MAX ? apart / size : (double)INFINITY;
}

/* One box of both; `from`: the numbers before it. */
static void compare_box(const tool_state *t, const tool_decoder *d, const unsigned char *x, const unsigned char *y,
                        int64_t count, int64_t from, tool_values *v) {
    double a[BLOCK], b[BLOCK];
    int64_t at, i, n;
    for (at = 0; at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        tool_numbers(d, x, at, n, a);
        tool_numbers(d, y, at, n, b);
        for (i = 0; i < n; i++) {
            const double apart = distance(d->dtype, x, y, at + i, a[i], b[i]);
            const double relative = relative_to(apart, a[i], b[i]);
            const double allowed = t->atol + (fabs(b[i]) <= DBL_MAX ? t->rtol * fabs(b[i]) : 0);
            if (apart > v->absolute) v->absolute = apart, v->absolute_at = from + at + i;
            if (relative > v->relative) v->relative = relative, v->relative_at = from + at + i;
            if (apart <= allowed) continue;
            if (v->different++ == 0) v->first = from + at + i;
        }
    }
}

dcp_status tool_compare_values(tool_state *t, dcp_checkpoint *a, tool_buffer *x, dcp_checkpoint *b, tool_buffer *y,
                               const tool_part *p, tool_values *v, dcp_error *err) {
    const tool_decoder decoder = tool_decoder_of(p->info->dtype);
    tool_boxes boxes = tool_boxes_of(p, TOOL_CHUNK);
    dcp_status status = tool_buffer_fit(x, boxes.largest, err);
    int64_t from = 0;
    int d;
    memset(v, 0, sizeof *v);
    v->count = tool_numbers_each(p->info->dtype);
    for (d = 0; d < p->ndim; d++) v->count *= p->shape[d];
    if (!status) status = tool_buffer_fit(y, boxes.largest, err);
    t->progress.total = 2 * p->size;
    while (!status && tool_boxes_next(&boxes)) {
        const int64_t held = tool_numbers_in(p->info->dtype, boxes.size);
        const int64_t count = held < v->count - from ? held : v->count - from;
        t->progress.done = 2 * boxes.at;
        status = tool_boxes_read(&boxes, a, x->bytes, err);
        t->progress.done += boxes.size;
        if (!status) status = tool_boxes_read(&boxes, b, y->bytes, err);
        if (!status && memcmp(x->bytes, y->bytes, (size_t)boxes.size) != 0)
            compare_box(t, &decoder, x->bytes, y->bytes, count, from, v);
        from += count;
    }
    t->progress.total = 0;
    return status;
}

char *tool_place_text(const tool_part *p, int64_t number, char text[TOOL_SHAPE]) {
    int64_t place[DCP_MAX_DIMS] = { 0 };
    int d;
    number /= tool_numbers_each(p->info->dtype);
    for (d = p->ndim - 1; d >= 0; d--) {
        place[d] = number % p->shape[d];
        number /= p->shape[d];
    }
    return tool_shape_text(p->ndim, place, text);
}
