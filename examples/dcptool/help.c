/* help.c - the options, and all that is said of them and of the commands. */
#include "dcptool.h"

const tool_option tool_options[] = {
    { TOOL_VERBOSE, 'v', "verbose", NULL, "say more" },
    { TOOL_VERIFY, 0, "verify", NULL, "read and check every byte" },
    { TOOL_FAIL_ON, 0, "fail-on", "LIST", "exit with 1 if there are any: nan, inf, or nan,inf" },
    { TOOL_VALUES, 0, "values", NULL, "read tensors whose digests differ, and say how much they do" },
    { TOOL_RTOL, 0, "rtol", "R", "numbers a and b are the same if |a - b| <= A + R * |b| (default 0); means --values" },
    { TOOL_ATOL, 0, "atol", "A", "see --rtol" },
    { TOOL_AGAINST, 0, "against", "OTHER", "show what is different in checkpoint OTHER" },
    { TOOL_STATS, 0, "stats", NULL, "read all values, even if they are more than 1 GiB" },
    { TOOL_NORMS, 0, "norms", "GLOB", "read the tensors that match in each checkpoint, and show their norms" },
    { TOOL_OUTPUT, 'o', "output", "FILE", "write to FILE; - is standard output" },
    { TOOL_NPY, 0, "npy", NULL, "write a .npy file (the default)" },
    { TOOL_RAW, 0, "raw", NULL, "write the tensor's bytes and nothing else" },
    { TOOL_RANK, 0, "rank", "N", "what rank N stored, of a tensor that is private to ranks" },
    { TOOL_SLICE, 0, "slice", "PART",
      "only a part: 0:10,5 is elements 0 to 9 of dimension 0, and of each of them element 5" },
    { TOOL_FORCE, 0, "force", NULL, "replace what exists" },
    { TOOL_KEEP, 0, "keep", "N", "how many of the newest checkpoints to keep, at least 1" },
    { TOOL_KEEP_EVERY, 0, "keep-every", "K", "also keep those whose step is a multiple of K" },
    { TOOL_GRACE, 0, "grace", "TIME",
      "spare files younger than TIME: seconds, or 90s, 30m, 24h, 7d (default 24h; 0 spares none)" },
    { TOOL_COUNT, 0, "count", "N", "end after N checkpoints" },
    { TOOL_TIMEOUT, 0, "timeout", "TIME", "end after TIME: seconds, or 90s, 30m, 24h, 7d" },
    { TOOL_PLAIN_NAMES, 0, "plain-names", NULL,
      "also unreferenced P_shard_<rank>.bin and files of manifests; other programs may use such names" },
    { TOOL_DRY_RUN, 'n', "dry-run", NULL, "change nothing, only say what would be done" },
    { TOOL_TO, 0, "to", "LAYOUT", "sharded, single, manifest, manifest-yaml or npz" },
    { TOOL_ONLY, 0, "only", "GLOB", "only tensors of such names; may be given several times, as what follows" },
    { TOOL_DROP, 0, "drop", "GLOB", "no tensors of such names" },
    { TOOL_RENAME, 0, "rename", "OLD=NEW", "call tensor OLD NEW; both may have a *, which stands for the same text" },
    { TOOL_CAST, 0, "cast", "[GLOB=]TYPE",
      "convert the numbers of all tensors, or of such names, to fp64, fp32, fp16 or bf16" },
    { TOOL_STEP, 0, "step", "N", "say that it is the checkpoint of step N" },
    { TOOL_TIER, 0, "tier", "TIER", "only this tier of a manifest, by name or id; may be given several times" },
    { TOOL_FROM, 0, "from", "DIR", "a directory with a copy; may be given several times" },
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
    { TOOL_BYTES, 0, "bytes", NULL, "exact sizes: 2254857830 instead of 2.1 GiB" },
    { TOOL_JSON, 0, "json", NULL, "print one JSON object" },
    { TOOL_QUIET, 'q', "quiet", NULL, "no header, total, notes, warnings, progress" },
    { TOOL_HELP, 'h', "help", NULL, "show this help" },
    { 0, 0, NULL, NULL, NULL }
};
enum { COLUMNS = 80, LONGEST = 2048 };

int tool_takes(const tool_command *c, const tool_option *o) {
    return ((c->required | c->options | TOOL_COMMON) & o->bit) != 0;
}

static void append(char text[LONGEST], const char *format, ...) TOOL_PRINTF(2, 3);
static void append(char text[LONGEST], const char *format, ...) {
    const size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, LONGEST - length, format, arguments);
    va_end(arguments);
}

/* ---- of one command ---------------------------------------------------------------------------------------------- */
static void print_command_line(FILE *file, const tool_command *c) {
    const tool_option *o;
    char text[LONGEST] = "";
    append(text, "%s", c->operands);
    for (o = tool_options; o->name; o++) if (c->required & o->bit) append(text, " --%s %s", o->name, o->value);
    for (o = tool_options; o->name; o++) {
        const char *space = o->value ? " " : "", *value = tool_or(o->value, "");
        if (!tool_takes(c, o) || (c->required & o->bit)) continue;
        if (o->letter) append(text, " [-%c%s%s]", o->letter, space, value);
        else append(text, " [--%s%s%s]", o->name, space, value);
    }
    tool_put_wrapped(file, fprintf(file, "usage: dcptool %s", c->name), 4, COLUMNS, text);
}

void tool_print_help(const tool_command *c) {
    const tool_option *o;
    printf("dcptool %s: %s\n\n", c->name, c->summary);
    print_command_line(stdout, c);
    printf("\n%s\n", c->help);
    for (o = tool_options; o->name; o++) {
        char names[64];
        if (!tool_takes(c, o)) continue;
        snprintf(names, sizeof names, "%c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ',' : ' ', o->name, o->value ? " " : "", tool_or(o->value, ""));
        tool_put_wrapped(stdout, printf("  %-24s", names), 27, COLUMNS, o->help);
    }
}

/* ---- of all ------------------------------------------------------------------------------------------------------ */
const char tool_examples[] =
    "  dcptool ls runs/a                    # the checkpoints of a directory\n"
    "  dcptool verify runs/a/step_100       # every byte of one of them\n"
    "  dcptool diff runs/a/step_100 runs/a/step_200\n";

const char tool_exit_codes[] =
    "Exit codes: 0 fine, 1 the answer is no (corrupt, different, nothing found),\n"
    "            2 usage, 3 could not look (missing, I/O, newer format)\n";

void tool_print_overview(FILE *file) {
    const tool_command *const *c;
    fprintf(file, "Examples:\n%s\nusage: dcptool COMMAND [OPTION]... PATH...\n\n", tool_examples);
    for (c = tool_commands; *c; c++) fprintf(file, "  %-8s %s\n", (*c)->name, (*c)->summary);
    fprintf(file, "  %-8s %s\n", "help", "show this, or all about the command that it is given");
    fprintf(file, "\nAll commands take --json, --bytes, -q and --help. `dcptool --version` prints the\n"
            "version, `dcptool help --man` the man page, and `dcptool help --bash` what bash\n"
            "needs to complete commands and options.\n\n%s", tool_exit_codes);
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */
int tool_unknown_option(const tool_command *c, const char *name) {
    const tool_option *o;
    char list[LONGEST] = "";
    for (o = tool_options; o->name; o++) if (tool_takes(c, o)) append(list, " --%s", o->name);
    return tool_usage(c, "unknown option '%s'; valid options:%s", name, list);
}

int tool_usage(const tool_command *c, const char *format, ...) {
    const tool_command *const *other;
    va_list arguments;
    char *text;
    va_start(arguments, format);
    text = tool_format(format, arguments);
    va_end(arguments);
    tool_say(c, text);
    free(text);
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
