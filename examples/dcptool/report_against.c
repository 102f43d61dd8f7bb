/* report_against.c - what dcptool report says of another checkpoint: the findings of dcptool diff, by tensor. */
#include "report.h"
#include "diff.h"

/* Of several findings about one tensor the first of these is kept. */
static int weight_of(const char *kind) {
    static const char *const kinds[] = { "content", "unknown" };
    size_t i;
    if (!kind) return 0;
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) if (strcmp(kinds[i], kind) == 0) return 3 - (int)i;
    for (i = 0; i < 3; i++) {
        static const char *const described[] = { "role", "tier", "key" };
        if (strcmp(described[i], kind) == 0) return 1;
    }
    return 4;                                           /* type, shape, placement, ... */
}

static char *kept(const char *text) { return text ? tool_text_of(text, strlen(text)) : NULL; }

static size_t index_of(dcp_checkpoint *c, const char *name) {
    size_t low = 0, high = dcp_checkpoint_tensor_count(c);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(dcp_checkpoint_tensor(c, middle)->name, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void add_values(report_difference *d, const tool_values *v) {
    d->numbers += v->count;
    d->different += v->different;
    if (v->absolute > d->absolute) d->absolute = v->absolute;
    if (v->relative > d->relative) d->relative = v->relative;
}

static void on_difference(diff_job *k, const char *kind, const char *name, const char *a, const char *b,
                          const char *detail) {
    report_against *against = k->user;
    report_difference *d;
    if (strcmp(kind, "tensor") == 0 && !a) {
        against->only_there[against->only_there_count++] = dcp_checkpoint_find(k->b.c, name);
        return;
    }
    d = &against->tensors[index_of(k->a.c, name)];
    if (k->values && weight_of(d->kind) <= weight_of(kind)) add_values(d, k->values);
    if (weight_of(kind) <= weight_of(d->kind)) return;
    d->kind = kept(kind);
    d->a = kept(a);
    d->b = kept(b);
    d->detail = kept(detail);
}

int report_compare(report *r, int64_t may_read, report_against *against) {
    tool_state *t = r->t;
    diff_job k = DCP_ZERO;
    dcp_error err;
    int code;
    k.t = t;
    k.has_values = 1;
    k.may_read = may_read;
    k.heard = on_difference;
    k.user = against;
    code = diff_open(t, t->operands[0], &k.a);
    if (!code) code = diff_open(t, t->against, &k.b);
    if (!code) {
        against->tensors = tool_new(dcp_checkpoint_tensor_count(k.a.c) + 1, sizeof *against->tensors);
        against->only_there = tool_new(dcp_checkpoint_tensor_count(k.b.c) + 1, sizeof *against->only_there);
        against->path = kept(dcp_checkpoint_path(k.b.c));
        against->name = tool_stem_text(against->path);
        if (diff_tensors(&k, &err)) code = tool_fail(t, &err);
        against->same = k.same;
        r->there = k.b.c;
        k.b.c = NULL;                                   /* only_there points into it */
    }
    diff_close(&k);
    return code;
}
