/* arguments.c - the command line: options, help, and what is wrong with it. */
#include "dcptool.h"
#include <stdarg.h>

typedef struct option { unsigned bit; char letter; const char *name, *value, *help; } option;

static const option all_options[] = {
    { TOOL_VERBOSE, 'v', "verbose", NULL, "say more" },
    { TOOL_OUTPUT, 'o', "output", "FILE", "write to FILE; - is standard output" },
    { TOOL_NPY, 0, "npy", NULL, "write a .npy file (the default)" },
    { TOOL_RAW, 0, "raw", NULL, "write the tensor's bytes and nothing else" },
    { TOOL_RANK, 0, "rank", "N", "what rank N stored, of a tensor that is private to ranks" },
    { TOOL_FORCE, 0, "force", NULL, "replace what exists" },
    { TOOL_KEEP, 0, "keep", "N", "how many of the newest checkpoints to keep, at least 1" },
    { TOOL_KEEP_EVERY, 0, "keep-every", "K", "also keep those whose step is a multiple of K" },
    { TOOL_GRACE, 0, "grace", "TIME",
      "spare files younger than TIME: seconds, or 90s, 30m, 24h, 7d (default 24h; 0 spares none)" },
    { TOOL_PLAIN_NAMES, 0, "plain-names", NULL,
      "also unreferenced P_shard_<rank>.bin and files of manifests; other programs may use such names" },
    { TOOL_DRY_RUN, 0, "dry-run", NULL, "change nothing, only say what would be done" },
    { TOOL_TO, 0, "to", "LAYOUT", "sharded, single, manifest or manifest-yaml" },
    { TOOL_TIER, 0, "tier", "TIER", "only this tier of a manifest, by name or id; may be given several times" },
    { TOOL_FULL, 0, "full", NULL, "hash every file of the copy" },
    { TOOL_MEMORY, 0, "memory", "SIZE",
      "how much data to hold in memory: bytes, or 16MiB, 1GiB (default 64MiB, at least 4MiB)" },
    { TOOL_FLAT, 0, "flat", NULL, "one SHA-256 per file, as sha256sum prints it, instead of one per block" },
    { TOOL_ONE_RANK, 0, "one-rank", NULL,
      "store all pieces as those of one rank; not possible with tensors that are private to several" },
    { TOOL_MINIMUM_STEP, 0, "minimum-step", "N", "refuse checkpoints of an earlier step" },
    { TOOL_SIGN_KEY_FILE, 0, "sign-key-file", "FILE", "sign the target: HMAC-SHA-256 with the bytes of FILE" },
    { TOOL_KEY_ID, 0, "key-id", "ID", "the signing key's name, for those who verify: [A-Za-z0-9._-]" },
    { TOOL_KEY_FILE, 0, "key-file", "FILE",
      "the HMAC-SHA-256 key: `sign` signs with it, other commands demand a signature made with it" },
    { TOOL_JSON, 0, "json", NULL, "print one JSON object" },
    { TOOL_QUIET, 'q', "quiet", NULL, "no progress, no notes, no warnings" },
    { TOOL_HELP, 'h', "help", NULL, "show this help" }
};
enum { OPTION_COUNT = sizeof all_options / sizeof all_options[0], COLUMNS = 80 };

static int takes(const tool_command *c, const option *o) {
    const unsigned common = TOOL_HELP | TOOL_QUIET | TOOL_JSON | TOOL_KEY_FILE;
    return ((c->required | c->options | common) & o->bit) != 0;
}

/* ---- help -------------------------------------------------------------------------------------------------------- */
/* Up to the next space outside brackets. */
static int word_length(const char *text) {
    int length = 0, depth = 0;
    for (; text[length] && (depth > 0 || text[length] != ' '); length++)
        depth += text[length] == '[' ? 1 : text[length] == ']' ? -1 : 0;
    return length;
}

/* `column` characters are already on the line. */
static void print_wrapped(FILE *file, int column, int indent, const char *text) {
    while (*text) {
        const int length = word_length(text);
        if (column + 1 + length > COLUMNS) {
            fprintf(file, "\n%*s", indent - 1, "");
            column = indent - 1;
        }
        fprintf(file, " %.*s", length, text);
        column += 1 + length;
        text += length + (text[length] != '\0');
    }
    fputc('\n', file);
}

static void append(char text[1024], const char *format, ...) TOOL_PRINTF(2, 3);
static void append(char text[1024], const char *format, ...) {
    const size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, 1024 - length, format, arguments);
    va_end(arguments);
}

static void print_command_line(FILE *file, const tool_command *c) {
    char text[1024] = "";
    size_t i;
    append(text, "%s", c->operands);
    for (i = 0; i < OPTION_COUNT; i++)
        if (c->required & all_options[i].bit) append(text, " --%s %s", all_options[i].name, all_options[i].value);
    for (i = 0; i < OPTION_COUNT; i++) {
        const option *o = &all_options[i];
        const char *space = o->value ? " " : "", *value = tool_or(o->value, "");
        if (!takes(c, o) || (c->required & o->bit)) continue;
        if (o->letter) append(text, " [-%c%s%s]", o->letter, space, value);
        else append(text, " [--%s%s%s]", o->name, space, value);
    }
    print_wrapped(file, fprintf(file, "usage: dcptool %s", c->name), 4, text);
}

void tool_print_help(const tool_command *c) {
    size_t i;
    printf("dcptool %s: %s\n\n", c->name, c->summary);
    print_command_line(stdout, c);
    printf("\n%s\n", c->help);
    for (i = 0; i < OPTION_COUNT; i++) {
        const option *o = &all_options[i];
        char names[64];
        if (!takes(c, o)) continue;
        snprintf(names, sizeof names, "%c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ',' : ' ', o->name, o->value ? " " : "", tool_or(o->value, ""));
        print_wrapped(stdout, printf("  %-24s", names), 27, o->help);
    }
}

void tool_print_overview(FILE *file) {
    const tool_command *const *c;
    fprintf(file, "usage: dcptool COMMAND [OPTION]... PATH...\n\n");
    for (c = tool_commands; *c; c++) fprintf(file, "  %-8s %s\n", (*c)->name, (*c)->summary);
    fprintf(file, "  %-8s %s\n", "help", "show this, or all about the command that it is given");
    fprintf(file, "\nAll commands take --json, -q and --help. `dcptool --version` prints the version.\n"
            "Exit codes: 0 fine, 1 the answer is no (corrupt, different, nothing found),\n"
            "            2 usage, 3 could not look (missing, I/O, newer format)\n"
            "Example:    dcptool ls runs/a/step_100\n");
}

int tool_usage(const tool_command *c, const char *format, ...) {
    const tool_command *const *other;
    va_list arguments;
    char text[1024];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tool_say(c, text);
    if (c) {
        print_command_line(stderr, c);
        fprintf(stderr, "`dcptool help %s` says more\n", c->name);
        return TOOL_USAGE;
    }
    fprintf(stderr, "valid commands:");
    for (other = tool_commands; *other; other++) fprintf(stderr, " %s", (*other)->name);
    fprintf(stderr, " help; valid options without a command: --help --version\n");
    return TOOL_USAGE;
}

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

/* To the library 0 is the default and -1 is no grace; it may count in nanoseconds. */
static int parse_grace(const char *text, int64_t *out) {
    static const unit units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 }, { NULL, 0 } };
    if (!parse_units(text, units, INT64_MAX / 1000000000, out)) return 0;
    if (*out == 0) *out = -1;
    return 1;
}

static int is_key_id(const char *text) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return text[0] && strlen(text) <= 128 && text[strspn(text, allowed)] == '\0';
}

static int set_text(const char **member, const char *value) {
    *member = value;
    return value[0] != '\0';
}

static int set_value(tool_state *t, unsigned bit, const char *value) {
    switch (bit) {
    case TOOL_OUTPUT: return set_text(&t->output, value);
    case TOOL_KEY_FILE: return set_text(&t->key_file, value);
    case TOOL_SIGN_KEY_FILE: return set_text(&t->sign_key_file, value);
    case TOOL_KEY_ID: return set_text(&t->key_id, value) && is_key_id(value);
    case TOOL_TO: return (t->to = tool_target_named(value)) != NULL;
    case TOOL_TIER:
        return t->tier_count < sizeof t->tiers / sizeof t->tiers[0] && set_text(&t->tiers[t->tier_count++], value);
    case TOOL_MINIMUM_STEP: return parse_count(value, INT64_MAX, &t->minimum_step);
    case TOOL_MEMORY: return parse_size(value, &t->memory) && t->memory >= 4 << 20;
    case TOOL_RANK: return parse_count(value, INT32_MAX, &t->rank);
    case TOOL_KEEP: return parse_count(value, INT32_MAX, &t->keep) && t->keep > 0;
    case TOOL_KEEP_EVERY: return parse_count(value, INT64_MAX, &t->keep_every) && t->keep_every > 0;
    case TOOL_GRACE: return parse_grace(value, &t->grace_seconds);
    default: return 1;
    }
}

/* ---- options and operands ---------------------------------------------------------------------------------------- */
static int set_option(tool_state *t, const option *o, const char *value) {
    t->options |= o->bit;
    if (set_value(t, o->bit, value)) return TOOL_FINE;
    return tool_usage(t->command, "--%s: '%s' is not a valid %s (%s)", o->name, value, o->value, o->help);
}

static int unknown_option(const tool_state *t, const char *text) {
    char list[1024] = "";
    size_t i;
    for (i = 0; i < OPTION_COUNT; i++)
        if (takes(t->command, &all_options[i])) append(list, " --%s", all_options[i].name);
    return tool_usage(t->command, "unknown option '%s'; valid options:%s", text, list);
}

/* --name, --name=value or --name value. *next: the argument that follows, or NULL; set to NULL when it was used. */
static int parse_long(tool_state *t, const char *text, const char **next) {
    const size_t length = strcspn(text + 2, "=");
    const char *value = text[2 + length] ? text + 2 + length + 1 : NULL;
    const option *o = all_options, *end = all_options + OPTION_COUNT;
    while (o < end && !(takes(t->command, o) && strlen(o->name) == length && !memcmp(o->name, text + 2, length))) o++;
    if (o == end) return unknown_option(t, text);
    if (!o->value) return value ? tool_usage(t->command, "--%s takes no value", o->name) : set_option(t, o, NULL);
    if (!value) {
        value = *next;
        *next = NULL;
    }
    return value ? set_option(t, o, value) : tool_usage(t->command, "--%s needs a value: %s", o->name, o->value);
}

/* -v, -qv, -oFILE or -o FILE. */
static int parse_short(tool_state *t, const char *text, const char **next) {
    const option *end = all_options + OPTION_COUNT;
    const char *p;
    for (p = text + 1; *p; p++) {
        const option *o = all_options;
        int code;
        while (o < end && !(o->letter == *p && takes(t->command, o))) o++;
        if (o == end) return unknown_option(t, text);
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
    int i;
    if (t->operand_count < c->least) return tool_usage(c, "missing argument");
    if (c->most >= 0 && t->operand_count > c->most)
        return tool_usage(c, "one argument too many: '%s'", t->operands[c->most]);
    for (i = 0; i < t->operand_count; i++)
        if (t->operands[i][0] == '\0') return tool_usage(c, "an argument is empty");
    for (i = 0; i < OPTION_COUNT; i++) {
        const option *o = &all_options[i];
        if (c->required & o->bit & ~t->options)
            return tool_usage(c, "missing option --%s %s: %s", o->name, o->value, o->help);
    }
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
