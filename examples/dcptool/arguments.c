/* arguments.c - the command line: options, operands, and what is wrong with them. */
#include "dcptool.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */
static int parse_count(const char *text, int64_t most, int64_t *out) {
    *out = 0;
    if (*text == '\0') return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || *out > (most - (*text - '0')) / 10) return 0;
        *out = *out * 10 + (*text - '0');
    }
    return 1;
}

typedef struct unit { const char *name; int64_t size; } unit;

static int parse_units(const char *text, const unit *units, int64_t most, int64_t *out) {
    const size_t digits = strspn(text, "0123456789");
    char number[24];
    if (digits >= sizeof number) return 0;
    memcpy(number, text, digits);
    number[digits] = '\0';
    while (units->name && strcmp(text + digits, units->name) != 0) units++;
    if (!units->name || !parse_count(number, most / units->size, out)) return 0;
    *out *= units->size;
    return 1;
}

static int parse_size(const char *text, int64_t *out) {
    static const unit units[] = {
        { "", 1 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { NULL, 0 }
    };
    return parse_units(text, units, INT64_C(1) << 62, out);
}

/* Seconds; the library may count in nanoseconds. */
static int parse_time(const char *text, int64_t *out) {
    static const unit units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 }, { NULL, 0 } };
    return parse_units(text, units, INT64_MAX / 1000000000, out);
}

/* To the library 0 is the default and -1 is no grace. */
static int parse_grace(const char *text, int64_t *out) {
    if (!parse_time(text, out)) return 0;
    if (*out == 0) *out = -1;
    return 1;
}

static int is_key_id(const char *text) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return text[0] && strlen(text) <= 128 && text[strspn(text, allowed)] == '\0';
}

static int parse_fail_on(const char *text, int *out) {
    static const struct { const char *text; int bits; } lists[] = {
        { "nan", TOOL_FAIL_NAN }, { "inf", TOOL_FAIL_INF }, { "nan,inf", TOOL_FAIL_NAN | TOOL_FAIL_INF },
        { "inf,nan", TOOL_FAIL_NAN | TOOL_FAIL_INF }
    };
    size_t i;
    for (i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strcmp(lists[i].text, text) == 0) return *out |= lists[i].bits;
    return 0;
}

static int parse_tolerance(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return text[0] && strchr("0123456789.", text[0]) && *end == '\0' && *out <= 1e300;
}

static int set_text(const char **member, const char *value) {
    *member = value;
    return value[0] != '\0';
}

static int add_text(tool_texts *list, const char *value) {
    const char **items = tool_new(list->count + 1, sizeof *items);
    if (list->count > 0) memcpy((void *)items, (const void *)list->items, list->count * sizeof *items);
    items[list->count++] = value;
    list->items = items;
    return value[0] != '\0';
}

static int set_value(tool_state *t, uint64_t bit, const char *value) {
    switch (bit) {
    case TOOL_OUTPUT: return set_text(&t->output, value);
    case TOOL_KEY_FILE: return set_text(&t->key_file, value);
    case TOOL_SIGN_KEY_FILE: return set_text(&t->sign_key_file, value);
    case TOOL_AGAINST: return set_text(&t->against, value);
    case TOOL_NORMS: return set_text(&t->norms, value);
    case TOOL_SLICE: return set_text(&t->slice, value);
    case TOOL_KEY_ID: return set_text(&t->key_id, value) && is_key_id(value);
    case TOOL_TO: return (t->to = tool_target_named(value)) != NULL;
    case TOOL_FAIL_ON: return parse_fail_on(value, &t->fail_on);
    case TOOL_RTOL: return parse_tolerance(value, &t->rtol);
    case TOOL_ATOL: return parse_tolerance(value, &t->atol);
    case TOOL_TIER: return add_text(&t->tiers, value);
    case TOOL_ONLY: return add_text(&t->only, value);
    case TOOL_DROP: return add_text(&t->drop, value);
    case TOOL_RENAME: return add_text(&t->rename, value) && convert_is_rename(value);
    case TOOL_CAST: return add_text(&t->cast, value) && convert_is_cast(value);
    case TOOL_FROM: return add_text(&t->from, value);
    case TOOL_STEP: return parse_count(value, INT64_MAX, &t->step);
    case TOOL_MINIMUM_STEP: return parse_count(value, INT64_MAX, &t->minimum_step);
    case TOOL_MEMORY: return parse_size(value, &t->memory) && t->memory >= 4 << 20;
    case TOOL_RANK: return parse_count(value, INT32_MAX, &t->rank);
    case TOOL_KEEP: return parse_count(value, INT32_MAX, &t->keep) && t->keep > 0;
    case TOOL_KEEP_EVERY: return parse_count(value, INT64_MAX, &t->keep_every) && t->keep_every > 0;
    case TOOL_COUNT: return parse_count(value, INT64_MAX, &t->count) && t->count > 0;
    case TOOL_TIMEOUT: return parse_time(value, &t->timeout_seconds);
    case TOOL_GRACE: return parse_grace(value, &t->grace_seconds);
    default: return 1;
    }
}

/* ---- options and operands ---------------------------------------------------------------------------------------- */
static int set_option(tool_state *t, const tool_option *o, const char *value) {
    t->options |= o->bit;
    if (set_value(t, o->bit, value)) return TOOL_FINE;
    return tool_usage(t->command, "--%s: '%s' is not a valid %s (%s)", o->name, value, o->value, o->help);
}

/* --name, --name=value or --name value. *next: the argument that follows, or NULL; set to NULL when it was used. */
static int parse_long(tool_state *t, const char *text, const char **next) {
    const size_t length = strcspn(text + 2, "=");
    const char *value = text[2 + length] ? text + 2 + length + 1 : NULL;
    const tool_option *o = tool_options;
    while (o->name && !(tool_takes(t->command, o) && strlen(o->name) == length && !memcmp(o->name, text + 2, length)))
        o++;
    if (!o->name) return tool_unknown_option(t->command, text);
    if (!o->value) return value ? tool_usage(t->command, "--%s takes no value", o->name) : set_option(t, o, NULL);
    if (!value) {
        value = *next;
        *next = NULL;
    }
    return value ? set_option(t, o, value) : tool_usage(t->command, "--%s needs a value: %s", o->name, o->value);
}

/* -v, -qv, -oFILE or -o FILE. */
static int parse_short(tool_state *t, const char *text, const char **next) {
    const char *p;
    for (p = text + 1; *p; p++) {
        const tool_option *o = tool_options;
        int code;
        while (o->name && !(o->letter == *p && tool_takes(t->command, o))) o++;
        if (!o->name) return tool_unknown_option(t->command, text);
        if (o->value) {
            const char *value = p[1] ? p + 1 : *next;
            if (!p[1]) *next = NULL;
            if (value) return set_option(t, o, value);
            return tool_usage(t->command, "-%c needs a value: %s", o->letter, o->value);
        }
        code = set_option(t, o, NULL);
        if (code) return code;
    }
    return TOOL_FINE;
}

static int check_operands(const tool_state *t) {
    const tool_command *c = t->command;
    const tool_option *o;
    int i;
    if (t->operand_count < c->least) return tool_usage(c, "missing argument");
    if (c->most >= 0 && t->operand_count > c->most)
        return tool_usage(c, "one argument too many: '%s'", t->operands[c->most]);
    for (i = 0; i < t->operand_count; i++)
        if (t->operands[i][0] == '\0') return tool_usage(c, "an argument is empty");
    for (o = tool_options; o->name; o++)
        if (c->required & o->bit & ~t->options)
            return tool_usage(c, "missing option --%s %s: %s", o->name, o->value, o->help);
    return TOOL_FINE;
}

int tool_parse(tool_state *t, int count, char **arguments) {
    int i, only_operands = 0;
    t->operands = arguments;                            /* options are taken out from between them */
    for (i = 0; i < count; i++) {
        char *text = arguments[i];
        const char *next = i + 1 < count ? arguments[i + 1] : NULL, *had = next;
        int code = TOOL_FINE;
        if (only_operands || text[0] != '-' || text[1] == '\0') t->operands[t->operand_count++] = text;
        else if (strcmp(text, "--") == 0) only_operands = 1;
        else if (text[1] == '-') code = parse_long(t, text, &next);
        else code = parse_short(t, text, &next);
        if (code) return code;
        if (had && !next) i++;
    }
    return (t->options & TOOL_HELP) ? TOOL_FINE : check_operands(t);
}
