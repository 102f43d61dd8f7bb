/* convert_edit.c - which tensors are converted, what they are called, and their types: --only, --drop, --rename,
 * --cast. All globs are of names that the source has; of several rules that fit a tensor the last one counts. */
#include "convert.h"

/* ---- one rule ---------------------------------------------------------------------------------------------------- */
static const char *part_of(const char *text, const char *end) { return tool_text_of(text, (size_t)(end - text)); }

/* OLD=NEW, each with one * or none. NULL: it does not fit. */
static const char *renamed(const char *rule, const char *name) {
    const char *equals = strchr(rule, '='), *old = part_of(rule, equals), *new_name = equals + 1;
    const char *star = strchr(old, '*'), *new_star = strchr(new_name, '*');
    const size_t before = star ? (size_t)(star - old) : 0, after = star ? strlen(star + 1) : 0, length = strlen(name);
    size_t size;
    char *text;
    if (!star) return strcmp(old, name) == 0 ? new_name : NULL;
    if (length < before + after || memcmp(old, name, before) != 0 ||
        memcmp(star + 1, name + length - after, after) != 0) return NULL;
    size = strlen(new_name) + length + 1;
    text = tool_new(size, 1);
    snprintf(text, size, "%.*s%.*s%s", (int)(new_star - new_name), new_name, (int)(length - before - after),
             name + before, new_star + 1);
    return text;
}

/* TYPE or GLOB=TYPE. */
static const char *glob_of_cast(const char *rule) {
    const char *equals = strrchr(rule, '=');
    return equals ? part_of(rule, equals) : "*";
}

static dcp_dtype type_of_cast(const char *rule) {
    const char *equals = strrchr(rule, '=');
    return dcp_dtype_parse(equals ? equals + 1 : rule);
}

static int is_castable(dcp_dtype dtype) {
    return dtype == DCP_FP64 || dtype == DCP_FP32 || dtype == DCP_FP16 || dtype == DCP_BF16;
}

/* ---- all rules, and one tensor ----------------------------------------------------------------------------------- */
static int matches_any(const tool_texts *globs, const char *name) {
    size_t i;
    for (i = 0; i < globs->count && !tool_glob_matches(globs->items[i], name);) i++;
    return i < globs->count;
}

static convert_edit edit_of(const tool_state *t, const dcp_tensor_info *info) {
    convert_edit e;
    const char *name;
    size_t i;
    e.name = info->name;
    e.dtype = info->dtype;
    e.is_kept = (t->only.count == 0 || matches_any(&t->only, info->name)) && !matches_any(&t->drop, info->name);
    for (i = 0; i < t->rename.count; i++)
        if ((name = renamed(t->rename.items[i], info->name)) != NULL) e.name = name;
    for (i = 0; i < t->cast.count && is_castable(info->dtype); i++)
        if (tool_glob_matches(glob_of_cast(t->cast.items[i]), info->name)) e.dtype = type_of_cast(t->cast.items[i]);
    return e;
}

/* A rule that fits nothing is a typing error. */
static int check_rule(const convert_job *v, const char *option, const char *rule, int is_used, const char *what) {
    if (is_used) return TOOL_FINE;
    return tool_trouble(v->t, DCP_E_MISMATCH, "--%s %s: %s has no such tensor%s", option, rule,
                        dcp_checkpoint_path(v->c), what);
}

static int rule_is_used(const convert_job *v, char kind, const char *rule) {
    const size_t count = dcp_checkpoint_tensor_count(v->c);
    size_t i;
    for (i = 0; i < count; i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(v->c, i);
        if (kind == 'g' && tool_glob_matches(rule, info->name)) return 1;
        if (kind == 'r' && renamed(rule, info->name)) return 1;
        if (kind == 'c' && is_castable(info->dtype) && tool_glob_matches(glob_of_cast(rule), info->name)) return 1;
    }
    return kind == 'c' && !strchr(rule, '=');           /* all, be there any or not */
}

static int check_rules(const convert_job *v) {
    const tool_state *t = v->t;
    const struct { const char *name; const tool_texts *rules; char kind; const char *what; } options[] = {
        { "only", &t->only, 'g', "" }, { "drop", &t->drop, 'g', "" }, { "rename", &t->rename, 'r', "" },
        { "cast", &t->cast, 'c', " of fp64, fp32, fp16 or bf16" }
    };
    size_t o, i;
    int code = TOOL_FINE;
    for (o = 0; o < sizeof options / sizeof options[0] && !code; o++)
        for (i = 0; i < options[o].rules->count && !code; i++)
            code = check_rule(v, options[o].name, options[o].rules->items[i],
                              rule_is_used(v, options[o].kind, options[o].rules->items[i]), options[o].what);
    return code;
}

/* ---- the pieces -------------------------------------------------------------------------------------------------- */
static const convert_job *sorting;

/* As they will be in the target: by name; those of a tensor stay in their order. */
static int new_name_compare(const void *a_, const void *b_) {
    const tool_piece *a = a_, *b = b_;
    const int order = strcmp(sorting->edits[a->order].name, sorting->edits[b->order].name);
    if (order) return order;
    return sorting->place[a->order] < sorting->place[b->order] ? -1 : 1;
}

static int check_names(const convert_job *v) {
    const dcp_tensor_info *before = NULL;
    const char *name = "";
    size_t i;
    for (i = 0; i < v->pieces.count; i++) {
        const tool_piece *p = &v->pieces.items[i];
        if (before && before != p->info && strcmp(name, v->edits[p->order].name) == 0)
            return tool_trouble(v->t, DCP_E_INVALID, "tensors \"%s\" and \"%s\" of %s would both be called \"%s\"",
                                before->name, p->info->name, dcp_checkpoint_path(v->c), name);
        before = p->info;
        name = v->edits[p->order].name;
    }
    return TOOL_FINE;
}

static void count_edits(convert_job *v) {
    size_t i;
    for (i = 0; i < dcp_checkpoint_tensor_count(v->c); i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(v->c, i);
        const convert_edit e = edit_of(v->t, info);
        v->left_out += !e.is_kept;
        v->renamed += e.is_kept && strcmp(e.name, info->name) != 0;
        v->cast += e.is_kept && e.dtype != info->dtype;
    }
}

/* Makes v->pieces of v->all: those that are kept, in the order of the target. */
int convert_edit_pieces(convert_job *v) {
    size_t i;
    int code = check_rules(v);
    if (code) return code;
    v->edits = tool_new(v->all.count + 1, sizeof *v->edits);
    v->place = tool_new(v->all.count + 1, sizeof *v->place);
    v->pieces.items = tool_new(v->all.count + 1, sizeof *v->pieces.items);
    for (i = 0; i < v->all.count; i++) {
        const tool_piece *p = &v->all.items[i];
        v->place[p->order] = i;
        if (!p->info) continue;
        v->edits[p->order] = i > 0 && p[-1].info == p->info ? v->edits[p[-1].order] : edit_of(v->t, p->info);
        if (v->edits[p->order].is_kept) v->pieces.items[v->pieces.count++] = *p;
    }
    count_edits(v);
    if (v->pieces.count == 0 && v->left_out > 0)
        return tool_trouble(v->t, DCP_E_MISMATCH, "--only and --drop leave no tensor of %s", dcp_checkpoint_path(v->c));
    sorting = v;
    if (v->pieces.count > 0) qsort(v->pieces.items, v->pieces.count, sizeof *v->pieces.items, new_name_compare);
    return check_names(v);
}

/* ---- the numbers ------------------------------------------------------------------------------------------------- */
dcp_status convert_read(convert_job *v, const tool_boxes *box, void *data, int64_t *overflows, dcp_error *err) {
    dcp_report before, after;
    dcp_status status;
    dcp_checkpoint_warnings(v->c, &before);
    status = tool_boxes_read(box, v->c, data, err);
    dcp_checkpoint_warnings(v->c, &after);
    *overflows = after.overflow_count - before.overflow_count;
    return status;
}

/* ---- the options ------------------------------------------------------------------------------------------------- */
static int stars_in(const char *text, const char *end) {
    int count = 0;
    for (; text < end; text++) count += *text == '*';
    return count;
}

int convert_is_rename(const char *text) {
    const char *equals = strchr(text, '='), *end = text + strlen(text);
    return equals && equals > text && equals[1] && stars_in(text, equals) <= 1 &&
           stars_in(text, equals) == stars_in(equals, end);
}

int convert_is_cast(const char *text) { return text[0] != '=' && is_castable(type_of_cast(text)); }
