/* diff_documents.c - training, fields and what only manifests say, in two documents. */
#include "diff.h"

void diff_text(diff_job *k, const char *kind, const char *name, const char *a, const char *b) {
    if (a == b || (a && b && strcmp(a, b) == 0)) return;
    diff_report(k, kind, name, tool_or(a, "nothing"), tool_or(b, "nothing"), NULL);
}

void diff_number(diff_job *k, const char *kind, const char *name, int64_t a, int64_t b) {
    char text_a[TOOL_NUMBER], text_b[TOOL_NUMBER];
    snprintf(text_a, sizeof text_a, "%" PRId64, a);
    snprintf(text_b, sizeof text_b, "%" PRId64, b);
    diff_text(k, kind, name, text_a, text_b);
}

/* Objects of JSON: white space outside of strings makes no difference. */
static void compare_json(diff_job *k, const char *kind, const char *name, const char *a, const char *b) {
    const char *x = tool_or(a, "{}"), *y = tool_or(b, "{}");
    int is_string = 0;
    for (;; x++, y++) {
        if (!is_string) {
            x += strspn(x, " \t\r\n");
            y += strspn(y, " \t\r\n");
        }
        if (*x != *y || *x == '\0') break;
        if (*x == '"') is_string = !is_string;
        if (*x != '\\') continue;
        x++, y++;                                       /* an escape's second character, which may be a quote */
        if (*x != *y || *x == '\0') break;
    }
    if (*x != *y) diff_report(k, kind, name, tool_or(a, "{}"), tool_or(b, "{}"), NULL);
}

static void compare_training(diff_job *k) {
    const dcp_training *a = tool_training_of(k->a.c), *b = tool_training_of(k->b.c);
    char rate_a[TOOL_NUMBER], rate_b[TOOL_NUMBER];
    if (!a || !b) {
        diff_text(k, "training", "metadata", a ? "present" : NULL, b ? "present" : NULL);
        return;
    }
    diff_number(k, "training", "epoch", a->epoch, b->epoch);
    diff_number(k, "training", "step", a->step, b->step);
    diff_text(k, "training", "learning rate", tool_double_text(a->learning_rate, rate_a),
              tool_double_text(b->learning_rate, rate_b));
    diff_text(k, "training", "optimizer type", a->optimizer_type, b->optimizer_type);
    compare_json(k, "training", "optimizer state", a->optimizer_state, b->optimizer_state);
}

static int field_compare(const void *a, const void *b) {
    return strcmp(((const dcp_field *)a)->key, ((const dcp_field *)b)->key);
}

static dcp_field *sorted_fields(const dcp_metadata *m) {
    dcp_field *fields = tool_new(m->field_count + 1, sizeof *fields);
    if (m->field_count) memcpy(fields, m->fields, m->field_count * sizeof *fields);
    qsort(fields, m->field_count, sizeof *fields, field_compare);
    return fields;
}

static void compare_fields(diff_job *k) {
    const dcp_field *a = sorted_fields(k->a.m), *b = sorted_fields(k->b.m);
    const dcp_field *end_a = a + k->a.m->field_count, *end_b = b + k->b.m->field_count;
    while (a < end_a || b < end_b) {
        const int order = a == end_a ? 1 : b == end_b ? -1 : strcmp(a->key, b->key);
        if (order < 0) diff_report(k, "field", a->key, a->value, NULL, NULL);
        else if (order > 0) diff_report(k, "field", b->key, NULL, b->value, NULL);
        else diff_text(k, "field", a->key, a->value, b->value);
        a += order <= 0;
        b += order >= 0;
    }
}

static void compare_tiers(diff_job *k, const dcp_manifest *a, const dcp_manifest *b) {
    size_t i;
    for (i = 0; i < a->tier_count || i < b->tier_count; i++) {
        const dcp_tier *x = i < a->tier_count ? &a->tiers[i].tier : NULL;
        const dcp_tier *y = i < b->tier_count ? &b->tiers[i].tier : NULL;
        if (!x || !y) {
            diff_report(k, "tier", x ? x->name : y->name, x ? "" : NULL, y ? "" : NULL, NULL);
            continue;
        }
        diff_text(k, "tier name", x->name, x->name, y->name);
        diff_number(k, "tier id", x->name, x->tier_id, y->tier_id);
        diff_text(k, "tier budget", x->name, x->size_budget, y->size_budget);
        diff_text(k, "tier policy", x->name, x->placement_policy, y->placement_policy);
    }
}

/* The seeds of a: with is_second only those of layers that b does not have. */
static void compare_seeds(diff_job *k, const dcp_manifest *a, const dcp_manifest *b, int is_second) {
    char name[TOOL_NUMBER], text_a[TOOL_NUMBER], text_b[TOOL_NUMBER];
    uint64_t x, y;
    size_t i;
    for (i = 0; i < a->router_state.layer_count; i++) {
        const int64_t layer = a->router_state.layers[i].layer;
        if (dcp_manifest_router_seed(a, layer, &x)) continue;
        snprintf(name, sizeof name, "layer %" PRId64, layer);
        snprintf(text_a, sizeof text_a, "%" PRIu64, x);
        if (dcp_manifest_router_seed(b, layer, &y))
            diff_report(k, "router seed", name, is_second ? NULL : text_a, is_second ? text_a : NULL, NULL);
        else if (!is_second) {
            snprintf(text_b, sizeof text_b, "%" PRIu64, y);
            diff_text(k, "router seed", name, text_a, text_b);
        }
    }
}

static void compare_manifests(diff_job *k) {
    const dcp_manifest *a = k->a.manifest, *b = k->b.manifest;
    if (!a || !b) return;
    diff_text(k, "model", "model_id", a->model_id, b->model_id);
    compare_tiers(k, a, b);
    compare_seeds(k, a, b, 0);
    compare_seeds(k, b, a, 1);
}

void diff_documents(diff_job *k) {
    compare_training(k);
    compare_manifests(k);
    compare_fields(k);
}
