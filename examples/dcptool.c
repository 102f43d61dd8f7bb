/* dcptool.c - looks at checkpoints, compares, converts, signs and copies them, takes tensors out and tidies
 * directories, from the command line.
 *
 * Shows how far the public API goes: everything here is dcp.h and libc, and a little of the system for what a terminal
 * needs. Reads from top to bottom: the commands, main, one function per command with its parts below it, then the
 * helpers (arguments, opening, boxes, tables, JSON, messages and progress), and at the end the few lines that differ
 * between systems.
 *
 * Exit codes: 0 fine, 1 the answer is no (corrupt, different, nothing found), 2 usage, 3 could not look or not write.
 * Results go to stdout, messages and progress to stderr; text from documents and paths is escaped before a terminal
 * sees it.
 *
 * Build: cc -O2 dcptool.c -I.. -lm -pthread           Run: ./a.out help
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef TOOL_CHUNK
#define TOOL_CHUNK ((int64_t)32 * 1024 * 1024)         /* bytes of a tensor in memory at a time; a test makes it tiny */
#endif
#define TOOL_RED "\x1b[31m"
#define TOOL_GREEN "\x1b[32m"
#define TOOL_PLAIN "\x1b[0m"

#if defined(__MINGW32__) && !defined(__clang__)
#define TOOL_PRINTF(format_at, first_at) __attribute__((format(gnu_printf, format_at, first_at)))
#elif defined(__GNUC__)
#define TOOL_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define TOOL_PRINTF(format_at, first_at)
#endif

enum { CODE_FINE, CODE_NO, CODE_USAGE, CODE_TROUBLE };

enum {                                               /* options: a bit each, so that a command can say which it takes */
    O_HELP = 1, O_QUIET = 2, O_JSON = 4, O_KEY_FILE = 8, O_VERBOSE = 16, O_OUTPUT = 32, O_RAW = 64, O_NPY = 128,
             O_RANK = 256,
    O_FORCE = 512, O_KEEP = 1024, O_KEEP_EVERY = 2048, O_GRACE = 4096, O_PLAIN_NAMES = 8192, O_DRY_RUN = 16384,
              O_TIER = 1 << 15,
    O_MINIMUM_STEP = 1 << 16, O_FULL = 1 << 17, O_KEY_ID = 1 << 18, O_TO = 1 << 19, O_MEMORY = 1 << 20,
                     O_SIGN_KEY_FILE = 1 << 21,
    O_FLAT = 1 << 22, O_ONE_RANK = 1 << 23,
    O_COMMON = O_HELP | O_QUIET | O_JSON | O_KEY_FILE
};

typedef struct json_state { int depth, has_items; } json_state;    /* has_items: the next one needs a comma */

enum show { SHOW_NOTHING, SHOW_BAR, SHOW_LINES };
typedef struct progress_state {
    enum show mode;
    const char *what;                                   /* the command's name */
    int64_t done, total;                        /* of a loop around library calls; total 0: the library's own numbers */
    time_t last_line;
    int is_drawn;
} progress_state;

typedef struct hmac_key { unsigned char bytes[4096]; size_t size; } hmac_key;

typedef struct tool {
    const struct command *command;
    char **operands; int operand_count;
    unsigned options;                                /* O_... that were given, and the values of those that have one: */
    const char *output, *key_file, *sign_key_file, *key_id, *to;
    int64_t rank, keep, keep_every, grace_seconds, minimum_step, memory;
    const char *tiers[64]; size_t tier_count;
    int has_colour;
    json_state json;
    progress_state progress;
    hmac_key key, sign_key;
    dcp_verifier hmac; const dcp_verifier *verifier;    /* NULL: no key was given */
    dcp_select select;                                  /* what --tier means */
    dcp_io io;
} tool;

typedef struct command {
    const char *name;
    int (*run)(tool *t);
    int least, most;                                    /* operands; most -1: any number */
    unsigned options;                                   /* besides O_COMMON */
    const char *operands, *summary, *help;
} command;

typedef struct option { unsigned bit; char letter; const char *name, *value, *help; } option;

/* ---- the commands ------------------------------------------------------------------------------------------------ */
static int run_ls(tool *t);
static int run_info(tool *t);
static int run_verify(tool *t);
static int run_diff(tool *t);
static int run_extract(tool *t);
static int run_convert(tool *t);
static int run_sign(tool *t);
static int run_sync(tool *t);
static int run_latest(tool *t);
static int run_prune(tool *t);
static int run_sweep(tool *t);

static const command commands[] = {
    { "ls", run_ls, 1, 2, O_VERBOSE | O_TIER, "PATH [GLOB]",
      "list the tensors of a checkpoint, or the checkpoints of a directory",
      "PATH is a checkpoint (prefix or commit file): one line per tensor, with name, type, shape, bytes, placement and "
      "pieces, of a\n"
      "manifest also role, tier and version; -v adds where each piece lies (rank, file, byte offset); --tier shows "
      "only what is of that tier.\n"
      "PATH is a directory: one line per checkpoint, newest first, valid or not.\n"
      "GLOB (* ? [a-z] [!a-z]; * matches anything) selects tensors by name, or checkpoints by file name.\n"
      "\n"
      "Exit codes: 0 listed, 1 nothing found or the document is corrupt, 2 usage, 3 could not look (missing, I/O, "
      "newer format)\n"
      "Example:    dcptool ls runs/a/step_100 'layers.*.wq'\n" },
    { "info", run_info, 1, 1, 0, "PATH", "show what a checkpoint says about itself",
      "Version, time, save id, sequence, world size, sharding, training, custom fields, shards with file, size and "
      "checksum, totals, of a\n"
      "manifest also the model, its tiers with what is in each, roles, the versions of files and the seeds of the "
      "router, and whether\n"
      "there is a signature (with --key-file it has been accepted). Reads the document only.\n"
      "\n"
      "Exit codes: 0 shown, 1 the document is corrupt, 2 usage, 3 could not look (missing, I/O, newer format)\n"
      "Example:    dcptool info --json runs/a/step_100 | jq .training.step\n" },
    { "verify", run_verify, 1, -1, O_TIER | O_MINIMUM_STEP, "PATH...", "check every byte of checkpoints",
      "Prints `OK path`, `BAD path: why` or, where it could not look, `ERROR path: why`. A PATH that is a directory "
      "stands for all\n"
      "checkpoints in it. With -q only BAD and ERROR lines are printed. --tier looks only at the files of that tier "
      "(give it several times\n"
      "for several), so that a copy of some tiers can be checked. --key-file demands a signature, and --minimum-step "
      "that nobody has put an\n"
      "older checkpoint in the place of this one.\n"
      "\n"
      "Exit codes: 0 all are whole, 1 one is corrupt or there is none, 2 usage, 3 could not look at one (missing, I/O, "
      "newer format)\n"
      "Example:    dcptool verify runs/a && rsync -a runs/a backup:\n" },
    { "diff", run_diff, 2, 2, O_VERBOSE, "A B", "compare two checkpoints",
      "Tensors that only one has, other types and shapes, other content; training and custom fields. How the tensors "
      "are cut and which\n"
      "layout they have does not matter; of two manifests the model, tiers, roles, keys and router seeds are compared "
      "too (not versions).\n"
      "Content is compared through the digests in the documents where the pieces are cut alike (no data is read; "
      "`verify` proves that data\n"
      "and digests agree), else by reading both; -v tells which way, for each tensor.\n"
      "\n"
      "Exit codes: 0 same, 1 different (or one is corrupt), 2 usage, 3 could not look (missing, I/O, newer format)\n"
      "Example:    dcptool diff runs/a/step_100 runs/b/step_100\n" },
    { "extract", run_extract, 2, 2, O_OUTPUT | O_RAW | O_NPY | O_RANK | O_FORCE, "PATH NAME",
      "write one tensor to a file", "Writes tensor NAME as .npy (numpy.load reads it), or with --raw its bytes alone, "
                                    "row-major and little-endian. Without -o the file\n"
      "gets the tensor's name, in the current directory. It appears whole or not at all, and replaces nothing without "
      "--force; what\n"
      "goes to standard output with -o - may end early, and then the exit code says so.\n"
      "\n"
      "Exit codes: 0 written, 1 no such tensor or corrupt, 2 usage, or .npy cannot hold the type, 3 could not read or "
      "write\n"
      "Example:    dcptool extract runs/a/step_100 layers.0.wq -o wq.npy\n" },
    { "convert", run_convert, 2, 2, O_TO | O_TIER | O_MEMORY | O_FORCE | O_FLAT | O_ONE_RANK | O_SIGN_KEY_FILE |
      O_KEY_ID | O_MINIMUM_STEP, "SOURCE TARGET --to LAYOUT", "write a checkpoint again in another layout",
      "LAYOUT is sharded (TARGET.metadata.json and a file for each rank), single (TARGET.checkpoint), manifest or "
      "manifest-yaml\n"
      "(TARGET.manifest.json or .yaml and a file for each piece, shared with the manifests beside it). Ranks, pieces "
      "and placements,\n"
      "training and custom fields stay as they are. Tiers, roles, expert keys, versions and router seeds of a manifest "
      "are kept in the\n"
      "other layouts too, and come back when those are converted to a manifest. So do members that this version does "
      "not know: of the\n"
      "document, of sharding and training, of each piece, and in a manifest of tiers, optim_state, router_state and "
      "layers with seeds.\n"
      "What cannot be carried over is named in a warning: members of a shard (the file of a rank) and of a layer "
      "without a seed, and a\n"
      "member that is a field of its own in the target's kind of document. Every byte is checked as it is read; what "
      "is in memory\n"
      "is bounded by --memory (default 64MiB, and 2MiB a rank at least) beside the documents. TARGET appears whole or "
      "not at all. A source\n"
      "that is signed gives an unsigned target, unless --sign-key-file signs it anew.\n"
      "\n"
      "Exit codes: 0 written, 1 the source is corrupt, 2 usage, 3 could not read or write (or TARGET is there and "
      "there is no --force)\n"
      "Example:    dcptool convert runs/a/step_100 export/step_100 --to single\n" },
    { "sign", run_sign, 1, 1, O_KEY_ID, "PATH --key-file FILE", "sign a checkpoint's document",
      "Rewrites the document with an HMAC-SHA-256 signature made with the bytes of FILE, in one atomic step; what it "
      "says stays, members\n"
      "that this version does not know too, and a signature that was there is replaced. Through its digests the "
      "signature covers every byte\n"
      "of the checkpoint: a document that names bytes without a digest is refused (`convert` gives each one). The "
      "document\n"
      "of a single file lies inside it: `convert --to single --sign-key-file` writes a signed copy.\n"
      "\n"
      "Exit codes: 0 signed, 1 the document is corrupt or leaves bytes without a digest, 2 usage, 3 could not read "
      "or write, or a single file\n"
      "Example:    dcptool sign runs/a/step_100 --key-file run.key --key-id 2026 && dcptool verify --key-file run.key "
      "runs/a/step_100\n" },
    { "sync", run_sync, 2, 2, O_TIER | O_FULL | O_DRY_RUN | O_MINIMUM_STEP, "SOURCE DIR",
      "bring a local copy of a manifest up to date", "Copies to directory DIR the files of manifest SOURCE that are "
                                                     "missing there, stale (of a lower version) or corrupt, each "
                                                     "checked on the\n"
      "way, and then the manifest itself, by one rename. Killed before that, it leaves the old copy, and goes on when "
      "it is called again.\n"
      "With --tier only files of that tier and those without a tier come (give it several times for several tiers). "
      "What exceeds a tier's\n"
      "size_budget is left out, with a warning. --full hashes what is there, too; else what DIR's own manifest vouches "
      "for is trusted.\n"
      "\n"
      "Exit codes: 0 up to date (as far as budgets allow), 1 the source is corrupt, 2 usage, 3 could not read or "
      "write\n"
      "Example:    dcptool sync /pfs/runs/a/step_100 /local/a --tier hot\n" },
    { "latest", run_latest, 1, 1, O_MINIMUM_STEP, "DIR", "print the path of the newest valid checkpoint",
      "Newest by sequence, step, time and name, as documents say, never by file time. Corrupt and incomplete ones are "
      "skipped with a\n"
      "warning; an I/O error or a newer format ends the search, since it might hide the newest.\n"
      "\n"
      "Exit codes: 0 printed, 1 there is none (or none is valid), 2 usage, 3 could not look (no such directory, I/O, "
      "newer format)\n"
      "Example:    path=$(dcptool latest runs/a) && train --resume \"$path\"\n" },
    { "prune", run_prune, 1, 1, O_KEEP | O_KEEP_EVERY | O_DRY_RUN, "DIR --keep N", "remove old checkpoints",
      "Keeps the newest N valid checkpoints and, with --keep-every K, those whose step is a multiple of K. Corrupt "
      "ones are left for a\n"
      "person to look at. Prints the files that are (or with --dry-run would be) removed.\n"
      "\n"
      "Exit codes: 0 done, 1 a checkpoint that decides is corrupt, 2 usage, 3 could not look or remove\n"
      "Example:    dcptool prune runs/a --keep 3 --keep-every 10000 --dry-run\n" },
    { "sweep", run_sweep, 1, 1, O_GRACE | O_PLAIN_NAMES | O_DRY_RUN, "DIR", "remove what killed saves left behind",
      "Removes temporary files and shard files that no checkpoint names and that are older than the grace time, for a "
      "save may be\n"
      "running. If a checkpoint of the directory cannot be read, only temporary files go. Prints what is (or would be) "
      "removed.\n"
      "\n"
      "Exit codes: 0 done, 1 a document stands in the way, 2 usage, 3 could not look or remove\n"
      "Example:    dcptool sweep runs/a --grace 2h --dry-run\n" }
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static const option all_options[] = {
    { O_VERBOSE, 'v', "verbose", NULL, "say more" },
    { O_OUTPUT, 'o', "output", "FILE", "write to FILE; - is standard output" },
    { O_NPY, 0, "npy", NULL, "write a .npy file (the default)" },
    { O_RAW, 0, "raw", NULL, "write the bytes alone" },
    { O_RANK, 0, "rank", "N", "what rank N stored, of a tensor that is private to ranks" },
    { O_FORCE, 0, "force", NULL, "replace an existing file" },
    { O_KEEP, 0, "keep", "N", "how many of the newest to keep, at least 1" },
    { O_KEEP_EVERY, 0, "keep-every", "K", "also keep steps that are multiples of K" },
    { O_GRACE, 0, "grace", "TIME", "spare younger files: seconds, or 90s, 30m, 24h, 7d (default 24h; 0: spare none)" },
    { O_PLAIN_NAMES, 0, "plain-names", NULL,
      "also unreferenced P_shard_<rank>.bin and files of manifests: other programs may use such names" },
    { O_DRY_RUN, 0, "dry-run", NULL, "remove nothing, only say what would be" },
    { O_TO, 0, "to", "LAYOUT", "sharded, single, manifest or manifest-yaml" },
    { O_TIER, 0, "tier", "TIER", "only this tier of a manifest, a name or an id; may be given several times" },
    { O_FULL, 0, "full", NULL, "hash every file that is there" },
    { O_MEMORY, 0, "memory", "SIZE", "what may be in memory: bytes, or 16MiB, 1GiB (default 64MiB; at least 4MiB)" },
    { O_FLAT, 0, "flat", NULL, "one SHA-256 a file, as sha256sum prints it, instead of a digest a block" },
    { O_ONE_RANK, 0, "one-rank", NULL,
      "store all pieces as of one rank; not possible with tensors private to several" },
    { O_MINIMUM_STEP, 0, "minimum-step", "N", "refuse a checkpoint of an older step" },
    { O_SIGN_KEY_FILE, 0, "sign-key-file", "FILE", "sign what is written: HMAC-SHA-256 with the bytes of FILE" },
    { O_KEY_ID, 0, "key-id", "ID", "the name of the signing key, for whoever verifies: [A-Za-z0-9._-]" },
    { O_KEY_FILE, 0, "key-file", "FILE",
      "the HMAC-SHA-256 key: sign signs with it, other commands demand a signature made with it" },
    { O_JSON, 0, "json", NULL, "print one JSON object" },
    { O_QUIET, 'q', "quiet", NULL, "no progress, no notes, no warnings" },
    { O_HELP, 'h', "help", NULL, "show this help" }
};
#define OPTION_COUNT (sizeof all_options / sizeof all_options[0])

/* ---- helpers that the commands use; each is explained where it is defined ---------------------------------------- */
static dcp_cancel interrupted;              /* the only global state: a signal handler has nothing else to hold on to */

static int code_of(dcp_status status);
static int fail(tool *t, const dcp_error *err);
static int usage(const command *command, const char *format, ...) TOOL_PRINTF(2, 3);
static int trouble(tool *t, dcp_status status, const char *format, ...) TOOL_PRINTF(3, 4);
static void set_error(dcp_error *err, dcp_status status, const char *format, ...) TOOL_PRINTF(3, 4);
static void note(tool *t, const char *format, ...) TOOL_PRINTF(2, 3);
static void print(const char *format, ...) TOOL_PRINTF(1, 2);

static int parse_arguments(tool *t, int count, char **arguments);
static int prepare(tool *t);
static dcp_open_desc opening(const tool *t, const char *path);
static int open_checkpoint(tool *t, const char *path, dcp_checkpoint **out);
static int need_directory(tool *t, const char *path);
static int glob_matches(const char *glob, const char *text);
static const char *base_name(const char *path);
static const char *plural(int64_t count);
static const char *without_path(const char *message, const char *path);
static const char *dtype_text(const dcp_tensor_info *info);
static const char *placement_name(dcp_placement placement);
static const char *role_name(dcp_role role);
static const char *layout_name(dcp_layout layout);
typedef struct layout_choice { const char *name; dcp_layout layout; int yaml; } layout_choice;
static const layout_choice *layout_find(const char *name);             /* as --to takes it; NULL: there is none */
static char *shape_text(int ndim, const int64_t *shape, char text[192]);
static char *double_text(double value, char text[32]);

typedef struct piece {
    const dcp_tensor_metadata *meta; const dcp_shard_metadata *shard;
    const dcp_manifest_shard *file;                     /* of a manifest, else NULL */
    size_t order;                                       /* where it stands in the document */
} piece;
typedef struct piece_list { piece *items; size_t count; } piece_list;    /* of a checkpoint, by name, offset and rank */
static void pieces_make(piece_list *list, const dcp_checkpoint *c);
static piece_list pieces_of(const piece_list *list, const char *name);          /* a view: nothing to free */

typedef struct part {                      /* what can be read as one array: a tensor, or one rank's of a private one */
    const dcp_tensor_info *info;
    int ndim; const int64_t *shape; int64_t size;
    int64_t rank;                                       /* -1: not of one rank */
} part;
static part part_whole(const dcp_tensor_info *info);
/* also of a piece that is a box of a larger tensor */
static part part_of_rank(const dcp_tensor_info *info, const piece *of);

typedef struct boxes {                           /* a tensor cut into boxes that are runs of bytes in row-major order */
    /* a box has one index of each dimension before `split`, `step` of that one */
    int ndim, bits, split, is_whole, is_done;
    int64_t step, shape[DCP_MAX_DIMS], offset[DCP_MAX_DIMS], box[DCP_MAX_DIMS];
    int64_t largest, size, whole_size;                  /* bytes: of the largest box, of this one, of all */
} boxes;
static void boxes_begin(boxes *b, const part *p, int64_t limit);                /* bytes of a box */
static int boxes_next(boxes *b);
static int64_t boxes_find(boxes *b, int64_t at);
static dcp_status boxes_read(const boxes *b, dcp_checkpoint *c, const part *p, void *data, dcp_error *err);

/* align: l or r per column */
typedef struct table { int columns; const char *align; char **cells; size_t count, capacity; } table;
static void table_add(table *t, const char *format, ...) TOOL_PRINTF(2, 3);
static void table_print(table *t);

static void json_open(json_state *j, const char *key, char bracket);
static void json_close(json_state *j, char bracket);
static void json_text(json_state *j, const char *key, const char *text);
static void json_number(json_state *j, const char *key, int64_t number);
static void json_double(json_state *j, const char *key, double number);
static void json_flag(json_state *j, const char *key, int flag);
static void json_raw(json_state *j, const char *key, const char *value);
static void json_free_form(json_state *j, const char *key, const char *value);
static void json_shape(json_state *j, const char *key, int ndim, const int64_t *shape);
static void json_error(json_state *j, dcp_status status, const char *message);
static void json_begin(tool *t);

static void on_progress(void *user, const dcp_progress *p);
static void progress_clear(tool *t);
static void *need(void *memory);
static char *copy_text(const char *text);
static void put_text(FILE *file, const char *text);
static const char *paint(const tool *t, const char *sequence);         /* a TOOL_ colour; "" where there are none */

enum path_kind { PATH_NONE, PATH_FILE, PATH_DIRECTORY, PATH_OTHER };
static enum path_kind path_kind(const char *path);
static int is_separator(char c);
static int is_terminal(int descriptor);
static void binary_stdout(void);
static unsigned process_id(void);
static FILE *open_for_reading(const char *path);
static char **prepare_process(int *argc, char **argv);
typedef struct thread thread;
static thread *thread_start(void (*body)(void *), void *argument);      /* NULL: there is none to be had */
static void thread_join(thread *t);
typedef struct lock lock;
static lock *lock_new(void);
static void lock_take(lock *l);
static void lock_give(lock *l);
static void lock_free(lock *l);

/* ---- main -------------------------------------------------------------------------------------------------------- */
static void on_signal(int number) {
    dcp_cancel_request(&interrupted);
    signal(number, SIG_DFL);                            /* whoever asks twice does not want to wait */
}

static const command *find_command(const char *name) {
    size_t i;
    for (i = 0; i < COMMAND_COUNT; i++) if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static void print_usage(FILE *file) {
    size_t i;
    fprintf(file, "usage: dcptool COMMAND [OPTION]... PATH...\n\n");
    for (i = 0; i < COMMAND_COUNT; i++) fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(file, "  %-8s %s\n", "help", "show this, or with the name of a command all about it");
    fprintf(file, "\nEvery command takes --json, -q and --help; `dcptool --version` prints the version.\n"
            "Exit codes: 0 fine, 1 the answer is no (corrupt, different, nothing found), 2 usage,\n"
            "            3 could not look (missing, I/O, newer format)\n"
            "Example:    dcptool ls runs/a/step_100\n");
}

/* An option that has to be there stands among the operands. */
static int is_in_operands(const command *c, const option *o) {
    const char *found = strstr(c->operands, o->name);
    return found && found > c->operands + 1 && found[-1] == '-' && found[strlen(o->name)] == ' ';
}

static void print_command_line(FILE *file, const command *c) {
    size_t i;
    fprintf(file, "usage: dcptool %s %s", c->name, c->operands);
    for (i = 0; i < OPTION_COUNT; i++) {
        const option *o = &all_options[i];
        if (!((c->options | O_COMMON) & o->bit) || is_in_operands(c, o)) continue;
        if (o->letter) fprintf(file, " [-%c%s%s]", o->letter, o->value ? " " : "", o->value ? o->value : "");
        else fprintf(file, " [--%s%s%s]", o->name, o->value ? " " : "", o->value ? o->value : "");
    }
    fprintf(file, "\n");
}

static void print_help(const command *c) {
    size_t i;
    printf("dcptool %s: %s\n\n", c->name, c->summary);
    print_command_line(stdout, c);
    printf("\n%s\n", c->help);
    for (i = 0; i < OPTION_COUNT; i++) {
        const option *o = &all_options[i];
        char text[64];
        if (!((c->options | O_COMMON) & o->bit)) continue;
        snprintf(text, sizeof text, "%c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ',' : ' ', o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-22s %s\n", text, o->help);
    }
}

static int help(int count, char **arguments) {
    const command *c;
    if (count == 0) {
        print_usage(stdout);
        return CODE_FINE;
    }
    if (count > 1) return usage(NULL, "help takes the name of one command");
    c = find_command(arguments[0]);
    if (!c) return usage(NULL, "unknown command '%s'", arguments[0]);
    print_help(c);
    return CODE_FINE;
}

static int run(int count, char **arguments) {
    tool t = DCP_ZERO;
    int code;
    if (count == 0) {
        print_usage(stderr);
        return CODE_USAGE;
    }
    if (strcmp(arguments[0], "help") == 0) return help(count - 1, arguments + 1);
    if (strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0) return help(0, NULL);
    if (strcmp(arguments[0], "--version") == 0) {
        printf("dcptool %s (dcp.h %s, writes format %s)\n", DCP_VERSION, dcp_version(), DCP_FORMAT_VERSION);
        return CODE_FINE;
    }
    t.command = find_command(arguments[0]);
    if (!t.command) return usage(NULL, "unknown %s '%s'", arguments[0][0] == '-' ? "option" : "command", arguments[0]);
    code = parse_arguments(&t, count - 1, arguments + 1);
    if (!code && (t.options & O_HELP)) {
        print_help(t.command);
        return CODE_FINE;
    }
    if (!code) code = prepare(&t);
    if (!code) code = t.command->run(&t);
    progress_clear(&t);
    return code;
}

/* A full disk or a closed pipe shows when the last bytes go out; results that nobody got are no success. */
static int finish(int code) {
    int failed = ferror(stdout);
    errno = 0;
    if (fclose(stdout) == 0 && !failed) return code;
    fprintf(stderr, "dcptool: cannot write to standard output: %s\n",
            errno ? strerror(errno) : "an earlier write failed");
    return CODE_TROUBLE;
}

int main(int argc, char **argv) {
    argv = prepare_process(&argc, argv);
    /* ignored by whoever started us (nohup, &): so it stays */
    if (signal(SIGINT, SIG_IGN) != SIG_IGN) signal(SIGINT, on_signal);
    if (signal(SIGTERM, SIG_IGN) != SIG_IGN) signal(SIGTERM, on_signal);
#ifdef SIGPIPE
    signal(SIGPIPE, SIG_IGN);                           /* so that a closed pipe is an error like any other */
#endif
    return finish(run(argc > 0 ? argc - 1 : 0, argv + 1));
}

/* ---- ls ---------------------------------------------------------------------------------------------------------- */
static void ls_pieces_json(tool *t, const piece_list pieces) {
    size_t i;
    json_open(&t->json, "piece_list", '[');
    for (i = 0; i < pieces.count; i++) {
        const dcp_tensor_metadata *m = pieces.items[i].meta;
        json_open(&t->json, NULL, '{');
        json_number(&t->json, "rank", pieces.items[i].shard->rank);
        json_text(&t->json, "file", pieces.items[i].shard->file_path);
        json_number(&t->json, "file_offset", m->offset);
        json_number(&t->json, "bytes", m->size);
        json_shape(&t->json, "shape", m->ndim, m->shape);
        json_shape(&t->json, "global_offset", m->ndim, m->global_offset);
        if (pieces.items[i].file) {
            json_number(&t->json, "version", pieces.items[i].file->version);
            json_text(&t->json, "checksum", pieces.items[i].file->checksum);
        }
        json_close(&t->json, '}');
    }
    json_close(&t->json, ']');
}

/* What only manifests say of a tensor. */
static void ls_origin_json(tool *t, const dcp_tensor_info *info) {
    json_text(&t->json, "role", role_name(info->role));
    json_text(&t->json, "tier", info->tier);
    if (info->role == DCP_ROLE_EXPERT) json_shape(&t->json, "expert_key", 3, info->expert_key);
    if (info->role == DCP_ROLE_ROUTER && info->expert_key[0] >= 0) json_number(&t->json, "layer", info->expert_key[0]);
    json_number(&t->json, "version", info->version);
}

static void ls_tensor_json(tool *t, const dcp_tensor_info *info, const piece_list *list, int is_manifest) {
    json_open(&t->json, NULL, '{');
    json_text(&t->json, "name", info->name);
    json_text(&t->json, "dtype", dtype_text(info));
    json_shape(&t->json, "shape", info->ndim, info->shape);
    json_number(&t->json, "bytes", info->size);
    json_text(&t->json, "placement", placement_name(info->placement));
    json_number(&t->json, "pieces", info->piece_count);
    if (is_manifest) ls_origin_json(t, info);
    if (t->options & O_VERBOSE) ls_pieces_json(t, pieces_of(list, info->name));
    json_close(&t->json, '}');
}

static void ls_origin_text(table *lines, const dcp_tensor_info *info) {
    char text[192];
    if (info->role == DCP_ROLE_EXPERT) table_add(lines, "expert %s", shape_text(3, info->expert_key, text));
    else if (info->role == DCP_ROLE_ROUTER && info->expert_key[0] >= 0)
        table_add(lines, "router, layer %" PRId64, info->expert_key[0]);
    else table_add(lines, "%s", role_name(info->role));
    if (info->tier) table_add(lines, "tier %s", info->tier);
    else table_add(lines, "no tier");
    table_add(lines, "version %" PRId64, info->version);
}

static void ls_pieces_text(table *lines, const piece_list pieces, int is_manifest) {
    char shape[192];
    size_t i;
    for (i = 0; i < pieces.count; i++) {
        const dcp_tensor_metadata *m = pieces.items[i].meta;
        table_add(lines, "  rank %d", pieces.items[i].shard->rank);
        table_add(lines, "at %s", shape_text(m->ndim, m->global_offset, shape));
        table_add(lines, "%s", shape_text(m->ndim, m->shape, shape));
        table_add(lines, "%" PRId64 " bytes", m->size);
        table_add(lines, "%s", pieces.items[i].shard->file_path);
        table_add(lines, "from byte %" PRId64, m->offset);
        if (!is_manifest) continue;
        table_add(lines, "%s", "");
        table_add(lines, "%s", "");
        if (pieces.items[i].file) table_add(lines, "version %" PRId64, pieces.items[i].file->version);
        else table_add(lines, "%s", "");
    }
}

static void ls_tensor_text(tool *t, table *lines, const dcp_tensor_info *info, const piece_list *list,
                           int is_manifest) {
    char shape[192];
    table_add(lines, "%s", info->name);
    table_add(lines, "%s", dtype_text(info));
    table_add(lines, "%s", shape_text(info->ndim, info->shape, shape));
    table_add(lines, "%" PRId64 " bytes", info->size);
    table_add(lines, "%s", placement_name(info->placement));
    table_add(lines, "%d piece%s", info->piece_count, plural(info->piece_count));
    if (is_manifest) ls_origin_text(lines, info);
    if (t->options & O_VERBOSE) ls_pieces_text(lines, pieces_of(list, info->name), is_manifest);
}

static int ls_checkpoint(tool *t, const char *path, const char *glob) {
    table lines = { 6, "lllrlr", NULL, 0, 0 };
    piece_list list = DCP_ZERO;
    dcp_checkpoint *c;
    size_t i, shown = 0;
    int code = open_checkpoint(t, path, &c), is_manifest;
    if (code) return code;
    is_manifest = dcp_manifest_of(c) != NULL;
    if (is_manifest) {
        lines.columns = 9;
        lines.align = "lllrlrlll";
    }
    if (t->options & O_VERBOSE) pieces_make(&list, c);
    if (t->options & O_JSON) {
        json_begin(t);
        json_text(&t->json, "path", dcp_path_of(c));
        json_text(&t->json, "layout", layout_name(dcp_layout_of(c)));
        json_open(&t->json, "tensors", '[');
    }
    for (i = 0; i < dcp_tensor_count(c); i++) {
        const dcp_tensor_info *info = dcp_tensor_at(c, i);
        if (glob && !glob_matches(glob, info->name)) continue;
        shown++;
        if (t->options & O_JSON) ls_tensor_json(t, info, &list, is_manifest);
        else ls_tensor_text(t, &lines, info, &list, is_manifest);
    }
    if (t->options & O_JSON) {
        json_close(&t->json, ']');
        json_close(&t->json, '}');
    }
    table_print(&lines);
    if (shown == 0 && glob) note(t, "no tensor of %s matches '%s'", dcp_path_of(c), glob);
    free(list.items);
    dcp_close(c);
    return shown || !glob ? CODE_FINE : CODE_NO;        /* a checkpoint without tensors is a fine one */
}

static void ls_entry_json(tool *t, const dcp_list_entry *e) {
    json_state *j = &t->json;
    json_open(j, NULL, '{');
    json_text(j, "path", e->path);
    json_text(j, "layout", layout_name(e->layout));
    json_number(j, "sequence", e->sequence);
    if (e->epoch >= 0) json_number(j, "epoch", e->epoch); else json_text(j, "epoch", NULL);
    if (e->step >= 0) json_number(j, "step", e->step); else json_text(j, "step", NULL);
    json_text(j, "timestamp", e->timestamp[0] ? e->timestamp : NULL);
    json_text(j, "save_id", e->save_id[0] ? e->save_id : NULL);
    json_number(j, "bytes", e->bytes);
    json_number(j, "world_size", e->world_size);
    json_number(j, "tensors", e->tensors);
    json_flag(j, "valid", e->status == DCP_OK);
    json_text(j, "status", dcp_status_name(e->status));
    json_text(j, "message", e->message);
    json_close(j, '}');
}

static void ls_entry_text(table *lines, const dcp_list_entry *e) {
    table_add(lines, "%s", e->path);
    table_add(lines, "%s", layout_name(e->layout));
    table_add(lines, "sequence %" PRId64, e->sequence);
    if (e->step >= 0) table_add(lines, "step %" PRId64, e->step);
    else table_add(lines, "%s", "no step");
    table_add(lines, "%s", e->timestamp[0] ? e->timestamp : "no time");
    table_add(lines, "%" PRId64 " bytes", e->bytes);
    if (e->status == DCP_OK) table_add(lines, "%s", "valid");
    else
        table_add(lines, "%s: %s", code_of(e->status) == CODE_NO ? "not valid" : "not readable",
                  without_path(e->message, e->path));
}

static int ls_directory(tool *t, const char *directory, const char *glob) {
    table lines = { 7, "llrrlrl", NULL, 0, 0 };
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t i, count, shown = 0;
    desc.directory = directory;
    desc.verifier = t->verifier;
    desc.io = t->io;
    if (dcp_list(&desc, &entries, &count, &err)) return fail(t, &err);
    progress_clear(t);
    if (t->options & O_JSON) {
        json_begin(t);
        json_text(&t->json, "directory", directory);
        json_open(&t->json, "checkpoints", '[');
    }
    for (i = 0; i < count; i++) {
        if (glob && !glob_matches(glob, base_name(entries[i].path))) continue;
        shown++;
        if (t->options & O_JSON) ls_entry_json(t, &entries[i]);
        else ls_entry_text(&lines, &entries[i]);
    }
    if (t->options & O_JSON) {
        json_close(&t->json, ']');
        json_close(&t->json, '}');
    }
    table_print(&lines);
    dcp_free(entries);
    if (shown == 0) note(t, "no checkpoint%s%s in directory %s", glob ? " matches " : "", glob ? glob : "", directory);
    return shown ? CODE_FINE : CODE_NO;
}

static int run_ls(tool *t) {
    const char *path = t->operands[0], *glob = t->operand_count > 1 ? t->operands[1] : NULL;
    return path_kind(path) == PATH_DIRECTORY ? ls_directory(t, path, glob) : ls_checkpoint(t, path, glob);
}

/* ---- info -------------------------------------------------------------------------------------------------------- */
static void info_totals(const dcp_metadata *m, int64_t *pieces, int64_t *bytes) {
    size_t s, i;
    *pieces = *bytes = 0;
    for (s = 0; s < m->shard_count; s++) {
        *pieces += (int64_t)m->shards[s].tensor_count;
        for (i = 0; i < m->shards[s].tensor_count; i++) *bytes += m->shards[s].tensors[i].size;
    }
}

static void info_json_training(json_state *j, const dcp_metadata *m) {
    const dcp_training *training = &m->training;
    size_t i;
    if (!m->has_training) json_text(j, "training", NULL);
    else {
        json_open(j, "training", '{');
        json_number(j, "epoch", training->epoch);
        json_number(j, "step", training->step);
        json_double(j, "learning_rate", training->learning_rate);
        json_text(j, "optimizer_type", training->optimizer_type);
        json_free_form(j, "optimizer_state", training->optimizer_state);
        json_close(j, '}');
    }
    json_open(j, "custom_fields", '{');
    for (i = 0; i < m->field_count; i++) json_text(j, m->fields[i].key, m->fields[i].value);
    json_close(j, '}');
}

static void info_json_shards(json_state *j, const dcp_metadata *m) {
    size_t s;
    json_open(j, "shards", '[');
    for (s = 0; s < m->shard_count; s++) {
        json_open(j, NULL, '{');
        json_number(j, "rank", m->shards[s].rank);
        json_text(j, "file", m->shards[s].file_path);
        if (m->shards[s].file_size >= 0) json_number(j, "bytes", m->shards[s].file_size);
        json_text(j, "checksum", m->shards[s].checksum);
        json_number(j, "data_offset", m->shards[s].data_offset);
        json_number(j, "tensors", (int64_t)m->shards[s].tensor_count);
        json_close(j, '}');
    }
    json_close(j, ']');
}

/* What a manifest says beyond the metadata of the other layouts. */
typedef struct manifest_sums {
    int64_t files[4], bytes[4];                         /* by role */
    int64_t *tier_files, *tier_bytes;                   /* by tier, and what has none behind the last */
    int64_t oldest, newest;                             /* versions */
} manifest_sums;

static size_t tier_of(const dcp_manifest *m, const char *hint) {
    char id[24];
    size_t i;
    for (i = 0; i < m->tier_count && hint; i++) {
        snprintf(id, sizeof id, "%" PRId64, m->tiers[i].tier.tier_id);
        if (strcmp(m->tiers[i].tier.name, hint) == 0 || strcmp(id, hint) == 0) return i;
    }
    return m->tier_count;
}

static void info_sums(const dcp_checkpoint *c, manifest_sums *sums) {
    const dcp_manifest *m = dcp_manifest_of(c);
    piece_list list;
    size_t i;
    memset(sums, 0, sizeof *sums);
    sums->tier_files = (int64_t *)need(calloc(m->tier_count + 1, sizeof *sums->tier_files));
    sums->tier_bytes = (int64_t *)need(calloc(m->tier_count + 1, sizeof *sums->tier_bytes));
    sums->oldest = INT64_MAX;
    pieces_make(&list, c);
    for (i = 0; i < list.count; i++) {
        const dcp_tensor_info *info = dcp_tensor_find(c, list.items[i].meta->name);
        const dcp_manifest_shard *file = list.items[i].file;
        size_t tier;
        if (!info || !file) continue;
        tier = tier_of(m, file->tier_hint);
        sums->files[info->role]++;
        sums->bytes[info->role] += list.items[i].meta->size;
        sums->tier_files[tier]++;
        sums->tier_bytes[tier] += list.items[i].meta->size;
        if (file->version < sums->oldest) sums->oldest = file->version;
        if (file->version > sums->newest) sums->newest = file->version;
    }
    if (sums->oldest == INT64_MAX) sums->oldest = 0;
    free(list.items);
}

static void info_json_tiers(json_state *j, const dcp_manifest *m, const manifest_sums *sums) {
    size_t i;
    json_open(j, "tiers", '[');
    for (i = 0; i < m->tier_count; i++) {
        json_open(j, NULL, '{');
        json_number(j, "tier_id", m->tiers[i].tier.tier_id);
        json_text(j, "name", m->tiers[i].tier.name);
        json_text(j, "size_budget", m->tiers[i].tier.size_budget);
        if (m->tiers[i].budget_bytes >= 0) json_number(j, "budget_bytes", m->tiers[i].budget_bytes);
        json_text(j, "placement_policy", m->tiers[i].tier.placement_policy);
        json_number(j, "files", sums->tier_files[i]);
        json_number(j, "bytes", sums->tier_bytes[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void info_json_manifest(json_state *j, const dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_manifest_of(c);
    manifest_sums sums;
    char seed[24];
    size_t i;
    info_sums(c, &sums);
    json_open(j, "manifest", '{');
    json_text(j, "model_id", m->model_id);
    json_text(j, "format", m->is_yaml ? "yaml" : "json");
    json_number(j, "metadata_version", m->metadata_version);
    info_json_tiers(j, m, &sums);
    json_open(j, "files", '{');
    for (i = 0; i < 4; i++) json_number(j, role_name((dcp_role)i), sums.files[i]);
    json_close(j, '}');
    json_number(j, "oldest_version", sums.oldest);
    json_number(j, "newest_version", sums.newest);
    json_open(j, "router_layers", '[');
    for (i = 0; i < m->router_state.layer_count; i++) {
        const dcp_manifest_layer *layer = &m->router_state.layers[i];
        snprintf(seed, sizeof seed, "%" PRIu64, layer->seed);
        json_open(j, NULL, '{');
        json_number(j, "layer", layer->layer);
        json_raw(j, "seed", layer->has_seed ? seed : "null");
        json_number(j, "files", (int64_t)layer->shard_count);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
    free(sums.tier_files);
    free(sums.tier_bytes);
}

static void info_json(tool *t, const dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_metadata_of(c);
    json_state *j = &t->json;
    int64_t pieces, bytes;
    info_totals(m, &pieces, &bytes);
    json_begin(t);
    json_text(j, "path", dcp_path_of(c));
    json_text(j, "layout", layout_name(dcp_layout_of(c)));
    json_text(j, "version", m->version);
    json_text(j, "timestamp", m->timestamp);
    json_text(j, "save_id", m->save_id);
    json_number(j, "sequence", m->sequence);
    json_number(j, "world_size", m->world_size);
    json_number(j, "ddp_rank", m->ddp_rank);
    json_flag(j, "foreign", m->is_foreign);
    json_open(j, "sharding", '{');
    json_text(j, "strategy", m->sharding.strategy);
    json_number(j, "shard_count", m->sharding.shard_count);
    json_text(j, "precision", m->sharding.precision);
    json_free_form(j, "info", m->sharding.info);
    json_close(j, '}');
    info_json_training(j, m);
    info_json_shards(j, m);
    if (dcp_manifest_of(c)) info_json_manifest(j, c);
    json_number(j, "tensors", (int64_t)dcp_tensor_count(c));
    json_number(j, "pieces", pieces);
    json_number(j, "bytes", bytes);
    if (!m->signature_algorithm) json_text(j, "signature", NULL);
    else {
        json_open(j, "signature", '{');
        json_text(j, "algorithm", m->signature_algorithm);
        json_text(j, "key", m->signature_key);
        json_flag(j, "accepted", t->verifier != NULL);
        json_close(j, '}');
    }
    json_close(j, '}');
}

static void info_text_training(const dcp_metadata *m) {
    const dcp_training *training = &m->training;
    char rate[32];
    size_t i;
    if (!m->has_training) print("training:      none\n");
    else {
        print("training:      epoch %" PRId64 ", step %" PRId64 ", learning rate %s\n", training->epoch, training->step,
              double_text(training->learning_rate, rate));
        print("optimizer:     %s %s\n", training->optimizer_type ? training->optimizer_type : "(none)",
              training->optimizer_state ? training->optimizer_state : "{}");
    }
    print("custom fields: %s\n", m->field_count ? "" : "none");
    for (i = 0; i < m->field_count; i++) print("  %s = %s\n", m->fields[i].key, m->fields[i].value);
}

static void info_text_shards(const dcp_metadata *m) {
    table lines = { 5, "lrlrl", NULL, 0, 0 };
    size_t s;
    print("shards:\n");
    for (s = 0; s < m->shard_count; s++) {
        table_add(&lines, "  rank %d", m->shards[s].rank);
        if (m->shards[s].file_size < 0) table_add(&lines, "of any size");
        else table_add(&lines, "%" PRId64 " bytes", m->shards[s].file_size);
        table_add(&lines, "%s", m->shards[s].file_path);
        table_add(&lines, "from byte %" PRId64, m->shards[s].data_offset);
        table_add(&lines, "%s", m->shards[s].checksum ? m->shards[s].checksum : "no checksum");
    }
    table_print(&lines);
}

static void info_text_tiers(const dcp_manifest *m, const manifest_sums *sums) {
    table lines = { 6, "lllrrl", NULL, 0, 0 };
    size_t i;
    for (i = 0; i <= m->tier_count; i++) {
        const dcp_tier *tier = i < m->tier_count ? &m->tiers[i].tier : NULL;
        if (!tier && sums->tier_files[i] == 0) continue;
        if (tier) table_add(&lines, "  %s", tier->name);
        else table_add(&lines, "  (no tier)");
        if (tier) table_add(&lines, "id %" PRId64, tier->tier_id);
        else table_add(&lines, "%s", "");
        table_add(&lines, "%s%s", tier ? "budget " : "", !tier ? "" : tier->size_budget ? tier->size_budget : "none");
        table_add(&lines, "%" PRId64 " file%s", sums->tier_files[i], plural(sums->tier_files[i]));
        table_add(&lines, "%" PRId64 " bytes", sums->tier_bytes[i]);
        table_add(&lines, "%s", tier && tier->placement_policy ? tier->placement_policy : "");
    }
    table_print(&lines);
}

static void info_text_manifest(const dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_manifest_of(c);
    manifest_sums sums;
    size_t i;
    info_sums(c, &sums);
    print("model:         %s\n", m->model_id ? m->model_id : "none");
    print("manifest:      %s, metadata_version %" PRId64 "\n", m->is_yaml ? "YAML" : "JSON", m->metadata_version);
    print("tiers:         %s\n", m->tier_count ? "" : "none");
    info_text_tiers(m, &sums);
    print("files:         ");
    for (i = 0; i < 4; i++) print("%s%" PRId64 " %s", i ? ", " : "", sums.files[i], role_name((dcp_role)i));
    printf("\n");
    print("versions:      %" PRId64 " to %" PRId64 "\n", sums.oldest, sums.newest);
    for (i = 0; i < m->router_state.layer_count; i++) {
        const dcp_manifest_layer *layer = &m->router_state.layers[i];
        print("router layer:  %" PRId64 ", %" PRId64 " file%s, ", layer->layer, (int64_t)layer->shard_count,
              plural((int64_t)layer->shard_count));
        if (layer->has_seed) print("seed %" PRIu64 "\n", layer->seed);
        else print("no seed\n");
    }
    free(sums.tier_files);
    free(sums.tier_bytes);
}

static void info_text(tool *t, const dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_metadata_of(c);
    int64_t pieces, bytes;
    info_totals(m, &pieces, &bytes);
    print("path:          %s\n", dcp_path_of(c));
    print("layout:        %s%s\n", layout_name(dcp_layout_of(c)),
          m->is_foreign ? ", not written by dcp.h (no integrity)" : "");
    print("version:       %s\n", m->version ? m->version : "none");
    print("timestamp:     %s\n", m->timestamp ? m->timestamp : "none");
    print("save id:       %s\n", m->save_id ? m->save_id : "none");
    print("sequence:      %" PRId64 "\n", m->sequence);
    print("world size:    %d\n", m->world_size);
    print("sharding:      %s, %" PRId64 " shard%s, precision %s\n", m->sharding.strategy ? m->sharding.strategy
          : "none", m->sharding.shard_count, plural(m->sharding.shard_count), m->sharding.precision
          ? m->sharding.precision : "not given");
    if (m->sharding.info && strcmp(m->sharding.info, "{}") != 0) print("sharding info: %s\n", m->sharding.info);
    info_text_training(m);
    if (dcp_manifest_of(c)) info_text_manifest(c);
    info_text_shards(m);
    print("total:         %" PRId64 " tensor%s in %" PRId64 " piece%s, %" PRId64 " bytes\n",
          (int64_t)dcp_tensor_count(c), plural((int64_t)dcp_tensor_count(c)), pieces, plural(pieces), bytes);
    if (!m->signature_algorithm) print("signature:     none\n");
    else print("signature:     %s, key \"%s\", %s\n", m->signature_algorithm, m->signature_key ? m->signature_key : "",
               t->verifier ? "accepted" : "not checked (--key-file checks it)");
}

static int run_info(tool *t) {
    dcp_checkpoint *c;
    int code = open_checkpoint(t, t->operands[0], &c);
    if (code) return code;
    if (t->options & O_JSON) info_json(t, c);
    else info_text(t, c);
    dcp_close(c);
    return CODE_FINE;
}

/* ---- verify ------------------------------------------------------------------------------------------------------ */
typedef struct tally { int64_t checked, bad, errors; int code; } tally;

static void verify_report(tool *t, tally *sum, const char *path, dcp_status status, const char *message) {
    int code = code_of(status);
    progress_clear(t);
    sum->checked++;
    if (code == CODE_NO) sum->bad++;
    else if (code) sum->errors++;
    if (code > sum->code) sum->code = code;
    if (t->options & O_JSON) {
        json_open(&t->json, NULL, '{');
        json_text(&t->json, "path", path);
        json_flag(&t->json, "ok", code == CODE_FINE);
        json_text(&t->json, "status", dcp_status_name(status));
        json_text(&t->json, "message", message);
        json_close(&t->json, '}');
    } else if (code) {
        printf("%s%s%s ", paint(t, TOOL_RED), code == CODE_NO ? "BAD" : "ERROR", paint(t, TOOL_PLAIN));
        print("%s: %s\n", path, without_path(message, path));
    } else if (!(t->options & O_QUIET)) {
        printf("%sOK%s ", paint(t, TOOL_GREEN), paint(t, TOOL_PLAIN));
        print("%s\n", path);
    }
    fflush(stdout);                                     /* the next one may take an hour; finish() looks at ferror */
}

static void verify_one(tool *t, tally *sum, const char *path) {
    const dcp_open_desc desc = opening(t, path);
    dcp_checkpoint *c;
    dcp_error err;
    dcp_status status;
    status = dcp_open(&desc, &c, &err);
    if (!status) status = dcp_verify(c, &err);
    verify_report(t, sum, path, status, err.message);
    dcp_close(c);
}

static void verify_directory(tool *t, tally *sum, const char *directory) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t i, count;
    desc.directory = directory;
    desc.io = t->io;
    if (dcp_list(&desc, &entries, &count, &err)) {
        verify_report(t, sum, directory, err.status, err.message);
        return;
    }
    if (count == 0) {
        note(t, "no checkpoint in directory %s", directory);
        if (sum->code < CODE_NO) sum->code = CODE_NO;
    }
    for (i = 0; i < count && !interrupted.requested; i++) verify_one(t, sum, entries[i].path);
    dcp_free(entries);
}

static int run_verify(tool *t) {
    tally sum = DCP_ZERO;
    int i;
    if (t->options & O_JSON) {
        json_begin(t);
        json_open(&t->json, "results", '[');
    }
    for (i = 0; i < t->operand_count && !interrupted.requested; i++) {
        if (path_kind(t->operands[i]) == PATH_DIRECTORY) verify_directory(t, &sum, t->operands[i]);
        else verify_one(t, &sum, t->operands[i]);
    }
    if (t->options & O_JSON) {
        json_close(&t->json, ']');
        json_number(&t->json, "checked", sum.checked);
        json_number(&t->json, "bad", sum.bad);
        json_number(&t->json, "errors", sum.errors);
        json_close(&t->json, '}');
    }
    return interrupted.requested ? CODE_TROUBLE : sum.code;
}

/* ---- diff -------------------------------------------------------------------------------------------------------- */
enum same { SAME, DIFFERENT, CANNOT_TELL };

typedef struct side { dcp_checkpoint *c; const dcp_metadata *m; const dcp_manifest *manifest; piece_list pieces; } side;

typedef struct comparison {
    tool *t;
    side a, b;
    unsigned char *memory_a, *memory_b;                 /* made for the first tensor that has to be read */
    int64_t capacity;
    int64_t differences, same, by_digest, by_data;
} comparison;

/* One difference. a and b: what each side has; NULL where there is nothing to say. */
static void diff_report(comparison *k, const char *kind, const char *name, const char *a, const char *b,
                        const char *detail) {
    json_state *j = &k->t->json;
    k->differences++;
    progress_clear(k->t);
    if (k->t->options & O_JSON) {
        json_open(j, NULL, '{');
        json_text(j, "kind", kind);
        json_text(j, "name", name);
        json_text(j, "a", a);
        json_text(j, "b", b);
        json_text(j, "detail", detail);
        json_close(j, '}');
    } else if (a && b) print("%s: %s: %s in A, %s in B\n", kind, name, a, b);
    else if (a) print("only in A: %s %s%s%s\n", kind, name, a[0] ? ": " : "", a);
    else if (b) print("only in B: %s %s%s%s\n", kind, name, b[0] ? ": " : "", b);
    else print("%s: %s: %s\n", kind, name, detail);
}

static void diff_same(comparison *k, const char *name, const char *way) {
    k->same++;
    if ((k->t->options & O_VERBOSE) && !(k->t->options & O_JSON)) print("same: %s (%s)\n", name, way);
}

static void diff_text(comparison *k, const char *kind, const char *name, const char *a, const char *b) {
    if (a == b || (a && b && strcmp(a, b) == 0)) return;
    diff_report(k, kind, name, a ? a : "nothing", b ? b : "nothing", NULL);
}

/* Objects of JSON, which say the same with any white space between what they say. */
static void diff_json(comparison *k, const char *kind, const char *name, const char *a, const char *b) {
    const char *x = a ? a : "{}", *y = b ? b : "{}";
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
    if (*x != *y) diff_report(k, kind, name, a ? a : "{}", b ? b : "{}", NULL);
}

static void diff_number(comparison *k, const char *kind, const char *name, int64_t a, int64_t b) {
    char text_a[32], text_b[32];
    snprintf(text_a, sizeof text_a, "%" PRId64, a);
    snprintf(text_b, sizeof text_b, "%" PRId64, b);
    diff_text(k, kind, name, text_a, text_b);
}

/* A manifest always has an epoch and a step; if they are 0 and it says no more, it says nothing. */
static const dcp_training *training_of(const dcp_checkpoint *c) {
    const dcp_manifest *m = dcp_manifest_of(c);
    return m && !m->has_training && m->epoch == 0 && m->step == 0 ? NULL : dcp_training_of(c);
}

static void diff_training(comparison *k) {
    const dcp_training *a = training_of(k->a.c), *b = training_of(k->b.c);
    char rate_a[32], rate_b[32];
    if (!a || !b) {
        diff_text(k, "training", "metadata", a ? "present" : NULL, b ? "present" : NULL);
        return;
    }
    diff_number(k, "training", "epoch", a->epoch, b->epoch);
    diff_number(k, "training", "step", a->step, b->step);
    diff_text(k, "training", "learning rate", double_text(a->learning_rate, rate_a),
              double_text(b->learning_rate, rate_b));
    diff_text(k, "training", "optimizer type", a->optimizer_type, b->optimizer_type);
    diff_json(k, "training", "optimizer state", a->optimizer_state, b->optimizer_state);
}

static int field_compare(const void *a, const void *b) {
    return strcmp(((const dcp_field *)a)->key, ((const dcp_field *)b)->key);
}

static dcp_field *fields_sorted(const dcp_metadata *m) {
    dcp_field *fields = (dcp_field *)need(calloc(m->field_count + 1, sizeof *fields));
    if (m->field_count) memcpy(fields, m->fields, m->field_count * sizeof *fields);
    qsort(fields, m->field_count, sizeof *fields, field_compare);
    return fields;
}

static void diff_fields(comparison *k) {
    dcp_field *a = fields_sorted(k->a.m), *b = fields_sorted(k->b.m);
    size_t i = 0, j = 0;
    while (i < k->a.m->field_count || j < k->b.m->field_count) {
        int order = i == k->a.m->field_count ? 1 : j == k->b.m->field_count ? -1 : strcmp(a[i].key, b[j].key);
        if (order < 0) diff_report(k, "field", a[i].key, a[i].value, NULL, NULL);
        else if (order > 0) diff_report(k, "field", b[j].key, NULL, b[j].value, NULL);
        else diff_text(k, "field", a[i].key, a[i].value, b[j].value);
        if (order <= 0) i++;
        if (order >= 0) j++;
    }
    free(a);
    free(b);
}

static void diff_tiers(comparison *k, const dcp_manifest *a, const dcp_manifest *b) {
    size_t i;
    for (i = 0; i < a->tier_count || i < b->tier_count; i++) {
        const dcp_tier *x = i < a->tier_count ? &a->tiers[i].tier : NULL, *y = i < b->tier_count ? &b->tiers[i].tier
                            : NULL;
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

/* Seeds of layers that both have, and layers that only one has. */
static void diff_router(comparison *k, const dcp_manifest *a, const dcp_manifest *b, int is_second) {
    char name[32], text_a[32], text_b[32];
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

/* What only manifests say, if both are. */
static void diff_manifests(comparison *k) {
    const dcp_manifest *a = k->a.manifest, *b = k->b.manifest;
    if (!a || !b) return;
    diff_text(k, "model", "model_id", a->model_id, b->model_id);
    diff_tiers(k, a, b);
    diff_router(k, a, b, 0);
    diff_router(k, b, a, 1);
}

static void diff_origin(comparison *k, const dcp_tensor_info *x, const dcp_tensor_info *y) {
    char key_a[192], key_b[192];
    if (!k->a.manifest || !k->b.manifest) return;
    diff_text(k, "role", x->name, role_name(x->role), role_name(y->role));
    diff_text(k, "tier", x->name, x->tier ? x->tier : "none", y->tier ? y->tier : "none");
    if (x->role == y->role)
        diff_text(k, "key", x->name, shape_text(3, x->expert_key, key_a), shape_text(3, y->expert_key, key_b));
}

/* What the digests say of a tensor's pieces. They cannot tell where they cover other bytes on the other side. */
static enum same diff_digests(const piece_list *a, const piece_list *b, int by_rank, char detail[256]) {
    size_t i, block;
    if (a->count != b->count) return CANNOT_TELL;
    for (i = 0; i < a->count; i++) {
        const dcp_tensor_metadata *x = a->items[i].meta, *y = b->items[i].meta;
        if (x->block_size == 0 || x->block_size != y->block_size || x->block_count != y->block_count)
            return CANNOT_TELL;
        if (x->size != y->size) return CANNOT_TELL;
        if (x->ndim != y->ndim || memcmp(x->shape, y->shape, sizeof x->shape) != 0) return CANNOT_TELL;
        if (memcmp(x->global_offset, y->global_offset, sizeof x->global_offset) != 0) return CANNOT_TELL;
        if (by_rank && a->items[i].shard->rank != b->items[i].shard->rank) return CANNOT_TELL;
    }
    for (i = 0; i < a->count; i++) {
        const dcp_tensor_metadata *x = a->items[i].meta, *y = b->items[i].meta;
        for (block = 0; block < x->block_count; block++) {
            int64_t first = (int64_t)block * x->block_size, last = x->size - first < x->block_size ? x->size
                            : first + x->block_size;
            if (memcmp(x->block_checksums + 32 * block, y->block_checksums + 32 * block, 32) == 0) continue;
            snprintf(detail, 256, "differs within bytes %" PRId64 " to %" PRId64 " of the piece of rank %d (by digest)",
                     first, last - 1, a->items[i].shard->rank);
            return DIFFERENT;
        }
    }
    return SAME;
}

static dcp_status diff_memory(comparison *k, int64_t size, dcp_error *err) {
    if (size <= k->capacity) return DCP_OK;
    free(k->memory_a);
    free(k->memory_b);
    k->memory_a = (uint64_t)size <= SIZE_MAX ? (unsigned char *)malloc((size_t)size) : NULL;
    k->memory_b = k->memory_a ? (unsigned char *)malloc((size_t)size) : NULL;
    k->capacity = k->memory_b ? size : 0;
    if (!k->memory_b) set_error(err, DCP_E_MEMORY, "no memory: 2 x %" PRId64 " bytes", size);
    return k->memory_b ? DCP_OK : DCP_E_MEMORY;
}

/* Reads both, box by box, up to the first difference. */
static dcp_status diff_data(comparison *k, const part *p, enum same *same, char detail[256], dcp_error *err) {
    boxes b;
    int64_t at = 0;
    dcp_status status;
    boxes_begin(&b, p, TOOL_CHUNK);
    status = diff_memory(k, b.largest, err);
    *same = SAME;
    k->t->progress.total = 2 * p->size;
    while (!status && *same == SAME && boxes_next(&b)) {
        k->t->progress.done = 2 * at;
        status = boxes_read(&b, k->a.c, p, k->memory_a, err);
        k->t->progress.done = 2 * at + b.size;
        if (!status) status = boxes_read(&b, k->b.c, p, k->memory_b, err);
        if (!status && memcmp(k->memory_a, k->memory_b, (size_t)b.size) != 0) {
            int64_t i = 0;
            while (k->memory_a[i] == k->memory_b[i]) i++;
            snprintf(detail, 256, "differs first at byte %" PRId64 " of %" PRId64 " (by data)", at + i, p->size);
            *same = DIFFERENT;
        }
        at += b.size;
    }
    k->t->progress.total = 0;
    return status;
}

/* Of a tensor that is private to ranks, in both: every rank's. */
static dcp_status diff_private(comparison *k, const dcp_tensor_info *info, const piece_list *a, const piece_list *b,
                               dcp_error *err) {
    char detail[256], with_rank[300];
    enum same same = SAME;
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < a->count && i < b->count; i++) {
        const dcp_tensor_metadata *x = a->items[i].meta, *y = b->items[i].meta;
        if (a->items[i].shard->rank != b->items[i].shard->rank) break;
        if (x->ndim != y->ndim || memcmp(x->shape, y->shape, sizeof x->shape) != 0) break;
    }
    if (i < a->count || i < b->count) {
        diff_report(k, "ranks", info->name, NULL, NULL, "the ranks that stored it, or their shapes, are not the same");
        return DCP_OK;
    }
    for (i = 0; i < a->count && same == SAME && !status; i++) {
        part p = part_of_rank(info, &a->items[i]);
        status = diff_data(k, &p, &same, detail, err);
        if (same == SAME) continue;
        snprintf(with_rank, sizeof with_rank, "of rank %" PRId64 " %s", p.rank, detail);
        diff_report(k, "content", info->name, NULL, NULL, with_rank);
    }
    if (!status && same == SAME) diff_same(k, info->name, "by data");
    k->by_data++;
    return status;
}

static dcp_status diff_content(comparison *k, const dcp_tensor_info *x, const dcp_tensor_info *y, dcp_error *err) {
    const piece_list a = pieces_of(&k->a.pieces, x->name), b = pieces_of(&k->b.pieces, y->name);
    const int private_a = x->placement == DCP_PLACE_PRIVATE, private_b = y->placement == DCP_PLACE_PRIVATE;
    const part whole = part_whole(x);
    char detail[256];
    enum same same;
    dcp_status status;
    if (private_a != private_b && (a.count > 1 || b.count > 1)) {
        diff_text(k, "placement", x->name, placement_name(x->placement), placement_name(y->placement));
        return DCP_OK;
    }
    same = diff_digests(&a, &b, private_a && a.count > 1, detail);
    if (same != CANNOT_TELL) {
        k->by_digest++;
        if (same == SAME) diff_same(k, x->name, "by digest");
        else diff_report(k, "content", x->name, NULL, NULL, detail);
        return DCP_OK;
    }
    if (private_a && private_b) return diff_private(k, x, &a, &b, err);
    status = diff_data(k, &whole, &same, detail, err);
    if (status) return status;
    k->by_data++;
    if (same == SAME) diff_same(k, x->name, "by data");
    else diff_report(k, "content", x->name, NULL, NULL, detail);
    return DCP_OK;
}

/* x and y have one name; one of them may be NULL. */
static dcp_status diff_tensor(comparison *k, const dcp_tensor_info *x, const dcp_tensor_info *y, dcp_error *err) {
    char shape_a[192], shape_b[192], text[512];
    const dcp_tensor_info *one = x ? x : y;
    shape_text(one->ndim, one->shape, shape_a);
    if (!x || !y) {
        snprintf(text, sizeof text, "%.200s %s", dtype_text(one), shape_a);
        diff_report(k, "tensor", one->name, x ? text : NULL, y ? text : NULL, NULL);
        return DCP_OK;
    }
    if (strcmp(dtype_text(x), dtype_text(y)) != 0) {
        diff_text(k, "type", x->name, dtype_text(x), dtype_text(y));
        return DCP_OK;
    }
    if (x->ndim != y->ndim || memcmp(x->shape, y->shape, sizeof x->shape) != 0) {
        diff_text(k, "shape", x->name, shape_a, shape_text(y->ndim, y->shape, shape_b));
        return DCP_OK;
    }
    diff_origin(k, x, y);
    if (x->size != y->size) {                           /* of an unknown type: the shape does not tell the size */
        diff_number(k, "bytes", x->name, x->size, y->size);
        return DCP_OK;
    }
    return diff_content(k, x, y, err);
}

static dcp_status diff_tensors(comparison *k, dcp_error *err) {
    const dcp_tensor_info *x = dcp_tensor_at(k->a.c, 0), *y = dcp_tensor_at(k->b.c, 0);
    size_t i = 0, j = 0;
    dcp_status status = DCP_OK;
    while (!status && (x || y)) {                       /* both are sorted by name */
        int order = !x ? 1 : !y ? -1 : strcmp(x->name, y->name);
        if (interrupted.requested) {
            set_error(err, DCP_E_CANCELLED, "interrupted");
            return DCP_E_CANCELLED;
        }
        status = diff_tensor(k, order <= 0 ? x : NULL, order >= 0 ? y : NULL, err);
        if (order <= 0) x = dcp_tensor_at(k->a.c, ++i);
        if (order >= 0) y = dcp_tensor_at(k->b.c, ++j);
    }
    return status;
}

static int diff_all(comparison *k) {
    json_state *j = &k->t->json;
    dcp_error err;
    dcp_status status;
    int code = CODE_FINE;
    if (k->t->options & O_JSON) {
        json_begin(k->t);
        json_text(j, "a", dcp_path_of(k->a.c));
        json_text(j, "b", dcp_path_of(k->b.c));
        json_open(j, "differences", '[');
    }
    diff_training(k);
    diff_manifests(k);
    diff_fields(k);
    status = diff_tensors(k, &err);
    if (k->t->options & O_JSON) {
        json_close(j, ']');
        json_flag(j, "same", !status && k->differences == 0);
        json_number(j, "tensors_same", k->same);
        json_number(j, "compared_by_digest", k->by_digest);
        json_number(j, "compared_by_data", k->by_data);
    }
    if (status) code = fail(k->t, &err);
    if (k->t->options & O_JSON) json_close(j, '}');
    return code ? code : k->differences ? CODE_NO : CODE_FINE;
}

static int side_open(tool *t, const char *path, side *s) {
    int code = open_checkpoint(t, path, &s->c);
    if (code) return code;
    s->m = dcp_metadata_of(s->c);
    s->manifest = dcp_manifest_of(s->c);
    pieces_make(&s->pieces, s->c);
    return CODE_FINE;
}

static int run_diff(tool *t) {
    comparison k = DCP_ZERO;
    int code;
    k.t = t;
    code = side_open(t, t->operands[0], &k.a);
    if (!code) code = side_open(t, t->operands[1], &k.b);
    if (!code) code = diff_all(&k);
    free(k.memory_a);
    free(k.memory_b);
    free(k.a.pieces.items);
    free(k.b.pieces.items);
    dcp_close(k.a.c);
    dcp_close(k.b.c);
    return code;
}

/* ---- extract ----------------------------------------------------------------------------------------------------- */
typedef struct extraction {
    dcp_checkpoint *c;
    part what;
    char output[600];
    char header[512]; size_t header_size;               /* of .npy; 0 bytes with --raw */
} extraction;

/* Where the bytes go: standard output, or an object of the library's storage, which writes under a temporary name,
 * publishes it whole, durably and without replacing, and leaves nothing behind when it fails. */
typedef struct sink { dcp_storage *storage; void *object; int64_t at; } sink;

static const char *npy_type(dcp_dtype dtype) {
    switch (dtype) {
    case DCP_FP16: return "<f2";        case DCP_FP32: return "<f4";        case DCP_FP64: return "<f8";
    case DCP_INT8: return "|i1";        case DCP_INT16: return "<i2";
    case DCP_INT32: return "<i4";       case DCP_INT64: return "<i8";
    case DCP_UINT8: return "|u1";       case DCP_UINT16: return "<u2";
    case DCP_UINT32: return "<u4";      case DCP_UINT64: return "<u8";
    case DCP_BOOL: return "|b1";        case DCP_COMPLEX64: return "<c8";   case DCP_COMPLEX128: return "<c16";
    default: return NULL;               /* bf16, fp8, 4 bits, unknown: numpy has none of them */
    }
}

/* Magic, version 1.0, length as uint16, a Python dict padded with spaces so that the data starts at a multiple of
 * 64. */
static void npy_header(extraction *e) {
    char shape[192];
    size_t length;
    shape_text(e->what.ndim, e->what.shape, shape);     /* in brackets */
    memset(e->header, ' ', sizeof e->header);
    memcpy(e->header, "\x93NUMPY\x01\x00", 8);
    length = 10 + (size_t)snprintf(e->header + 10, sizeof e->header - 10,
                                   "{'descr': '%s', 'fortran_order': False, 'shape': (%.*s%s), }",
                                   npy_type(e->what.info->dtype), (int)strlen(shape) - 2, shape + 1, e->what.ndim == 1
                                   ? "," : "");
    e->header_size = (length + 1 + 63) / 64 * 64;
    e->header[length] = ' ';
    e->header[e->header_size - 1] = '\n';
    e->header[8] = (char)((e->header_size - 10) & 0xFF);
    e->header[9] = (char)((e->header_size - 10) >> 8);
}

/* Files are little-endian and memory is the machine's; a component of a complex number is swapped by itself. */
static void to_little_endian(dcp_dtype dtype, unsigned char *data, int64_t size) {
    const uint16_t one = 1;
    int width = dcp_dtype_bits(dtype) / 8, i;
    int64_t at;
    if (*(const unsigned char *)&one == 1) return;
    if (dtype == DCP_COMPLEX64 || dtype == DCP_COMPLEX128) width /= 2;
    for (at = 0; at < size && width > 1; at += width) {
        for (i = 0; i < width / 2; i++) {
            unsigned char byte = data[at + i];
            data[at + i] = data[at + width - 1 - i];
            data[at + width - 1 - i] = byte;
        }
    }
}

/* The tensor's name as the name of a file in the current directory. */
static void extract_default_output(extraction *e, const char *extension) {
    size_t n = 0;
    const char *p;
    for (p = e->what.info->name; *p && n < 200; p++) {
        int is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (n > 0 && (*p == '.' || *p == '-')) is_plain = 1;            /* not at the front: hidden files, options */
        e->output[n++] = is_plain ? *p : '_';
    }
    e->output[n] = '\0';
    if (e->what.rank >= 0) snprintf(e->output + n, sizeof e->output - n, ".rank%" PRId64 "%s", e->what.rank, extension);
    else snprintf(e->output + n, sizeof e->output - n, "%s", extension);
}

/* What is meant: the tensor, or one rank's. A private one can be read without --rank, too, where all ranks stored the
 * same. */
static int extract_choose(tool *t, extraction *e) {
    const dcp_tensor_info *info = dcp_tensor_find(e->c, t->operands[1]);
    const char *path = dcp_path_of(e->c);
    piece_list all, pieces;
    size_t i;
    if (!info)
        return trouble(t, DCP_E_MISMATCH, "%s has no tensor \"%s\"; dcptool ls lists those it has", path,
                       t->operands[1]);
    e->what = part_whole(info);
    if (!(t->options & O_RANK)) return CODE_FINE;
    if (info->placement != DCP_PLACE_PRIVATE) {
        return trouble(t, DCP_E_INVALID, "tensor \"%s\" of %s is %s, not private to ranks: leave --rank out",
                       info->name, path, placement_name(info->placement));
    }
    pieces_make(&all, e->c);
    pieces = pieces_of(&all, info->name);
    for (i = 0; i < pieces.count && e->what.rank < 0; i++)
        if (pieces.items[i].shard->rank == t->rank) e->what = part_of_rank(info, &pieces.items[i]);
    free(all.items);
    if (e->what.rank >= 0) return CODE_FINE;
    return trouble(t, DCP_E_MISMATCH, "rank %" PRId64 " stored no tensor \"%s\" in %s", t->rank, info->name, path);
}

static int extract_check_output(tool *t, extraction *e) {
    enum path_kind kind;
    if (t->output && strlen(t->output) >= sizeof e->output)
        return trouble(t, DCP_E_INVALID, "the path of the output is too long");
    if (t->output) snprintf(e->output, sizeof e->output, "%s", t->output);
    else extract_default_output(e, (t->options & O_RAW) ? ".bin" : ".npy");
    if (strcmp(e->output, "-") == 0) return CODE_FINE;
    kind = path_kind(e->output);
    if (kind == PATH_DIRECTORY || kind == PATH_OTHER)
        return trouble(t, DCP_E_INVALID, "%s is not a regular file; -o - writes to standard output", e->output);
    if (kind == PATH_FILE && !(t->options & O_FORCE))
        return trouble(t, DCP_E_EXISTS, "%s is there already; --force replaces it", e->output);
    return CODE_FINE;
}

static int extract_check(tool *t, extraction *e) {
    int code = extract_choose(t, e);
    if (code) return code;
    if (!(t->options & O_RAW)) {
        if (!npy_type(e->what.info->dtype)) {
            return trouble(t, DCP_E_INVALID,
                           "tensor \"%s\" of %s is %s, which .npy has no type for; --raw writes its bytes",
                           e->what.info->name, dcp_path_of(e->c), dtype_text(e->what.info));
        }
        npy_header(e);
    }
    return extract_check_output(t, e);
}

static dcp_status sink_open(sink *s, const char *path, int64_t size, dcp_error *err) {
    const char *name = base_name(path);
    char directory[600], temporary[700];
    dcp_status status;
    int attempt;
    s->storage = NULL;
    s->object = NULL;
    s->at = 0;
    if (strcmp(path, "-") == 0) {
        binary_stdout();
        return DCP_OK;
    }
    snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
    if (directory[0] == '\0') snprintf(directory, sizeof directory, ".");
    if (path_kind(directory) != PATH_DIRECTORY) {     /* the storage would make it; a slip of the keyboard should not */
        set_error(err, DCP_E_NOT_FOUND, "there is no directory %s for %s", directory, name);
        return DCP_E_NOT_FOUND;
    }
    status = dcp_storage_local(directory, &s->storage, err);
    for (attempt = 0; !status && !s->object; attempt++) {
        snprintf(temporary, sizeof temporary, "%s.dcptool-%u-%d.tmp", name, process_id(), attempt);
        status = s->storage->begin(s->storage->context, name, temporary, size, &s->object, err);
        if (status) s->object = NULL;
        if (status == DCP_E_EXISTS && attempt < 9) status = DCP_OK;                    /* left by one that was killed */
    }
    return status;
}

static dcp_status sink_write(sink *s, const void *data, size_t size, dcp_error *err) {
    dcp_status status = DCP_OK;
    if (s->storage) status = s->storage->write(s->storage->context, s->object, s->at, data, size, err);
    else if (fwrite(data, 1, size, stdout) != size) {
        set_error(err, DCP_E_IO, "cannot write to standard output: %s", strerror(errno));
        status = DCP_E_IO;
    }
    s->at += (int64_t)size;
    return status;
}

static dcp_status sink_close(sink *s, dcp_status status, int replace, dcp_error *err) {
    if (s->object && status) s->storage->abort(s->storage->context, s->object);
    else if (s->object) status = s->storage->commit(s->storage->context, s->object, replace, err);
    dcp_storage_close(s->storage);
    return status;
}

static dcp_status extract_copy(tool *t, const extraction *e, sink *s, dcp_error *err) {
    unsigned char *memory;
    boxes b;
    dcp_status status = sink_write(s, e->header, e->header_size, err);
    boxes_begin(&b, &e->what, TOOL_CHUNK);
    memory = (uint64_t)b.largest < SIZE_MAX ? (unsigned char *)malloc((size_t)b.largest + 1) : NULL;
    if (!status && !memory) {
        set_error(err, DCP_E_MEMORY, "no memory: %" PRId64 " bytes for a part of tensor \"%s\"", b.largest,
                  e->what.info->name);
        status = DCP_E_MEMORY;
    }
    t->progress.done = 0;
    t->progress.total = e->what.size;
    while (!status && boxes_next(&b)) {
        status = boxes_read(&b, e->c, &e->what, memory, err);
        if (status) break;
        to_little_endian(e->what.info->dtype, memory, b.size);
        status = sink_write(s, memory, (size_t)b.size, err);
        t->progress.done += b.size;
    }
    t->progress.total = 0;
    free(memory);
    return status;
}

static void extract_report(tool *t, const extraction *e) {
    json_state *j = &t->json;
    char shape[192];
    progress_clear(t);
    if (!(t->options & O_JSON)) {
        note(t, "wrote %s: \"%s\", %s %s, %" PRId64 " bytes", e->output, e->what.info->name, dtype_text(e->what.info),
             shape_text(e->what.ndim, e->what.shape, shape), e->what.size + (int64_t)e->header_size);
        return;
    }
    json_begin(t);
    json_text(j, "path", dcp_path_of(e->c));
    json_text(j, "tensor", e->what.info->name);
    json_text(j, "dtype", dtype_text(e->what.info));
    json_shape(j, "shape", e->what.ndim, e->what.shape);
    json_text(j, "file", e->output);
    json_text(j, "format", (t->options & O_RAW) ? "raw" : "npy");
    json_number(j, "data_offset", (int64_t)e->header_size);
    json_number(j, "bytes", e->what.size + (int64_t)e->header_size);
    json_close(j, '}');
}

static int run_extract(tool *t) {
    extraction e = DCP_ZERO;
    sink s = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int to_stdout = t->output && strcmp(t->output, "-") == 0, code;
    if ((t->options & O_RAW) && (t->options & O_NPY)) return usage(t->command, "--raw and --npy exclude each other");
    if (to_stdout && (t->options & O_JSON)) return usage(t->command, "--json and -o - both write to standard output");
    if (to_stdout && is_terminal(1))
        return usage(t->command, "standard output is a terminal; redirect it or give -o FILE");
    code = open_checkpoint(t, t->operands[0], &e.c);
    if (!code) code = extract_check(t, &e);
    if (!code) {
        status = sink_open(&s, e.output, e.what.size + (int64_t)e.header_size, &err);
        if (!status) status = extract_copy(t, &e, &s, &err);
        status = sink_close(&s, status, (t->options & O_FORCE) != 0, &err);
        if (status) code = fail(t, &err);
        else if (!to_stdout) extract_report(t, &e);
        if (status == DCP_E_MISMATCH && e.what.info->placement == DCP_PLACE_PRIVATE)
            note(t, "--rank N takes what rank N stored");
    }
    dcp_close(e.c);
    return code;
}

/* ---- convert: a save whose tensors are a device, which reads them from the source when the save asks for their bytes
 * ------------------ */
enum { CONVERT_RANKS = 512, CONVERT_WINDOWS = 8 };
typedef struct source_piece { const dcp_tensor_info *info; const dcp_tensor_metadata *meta; int rank; } source_piece;
typedef struct window {
    const source_piece *of;
    int64_t begins, size, capacity;
    uint64_t used;
    unsigned char *bytes;
} window;
/* What only a manifest can say of a piece. */
typedef struct origin { dcp_role role; const char *tier; int64_t expert_key[3], version; } origin;

typedef struct conversion {
    tool *t;
    const layout_choice *to;
    dcp_checkpoint *c; const dcp_metadata *m; const dcp_manifest *manifest;
    piece_list pieces;                                  /* those that are converted */
    origin *origins;                                    /* of each of them */
    source_piece *sources; dcp_tensor *tensors;         /* the same by rank: those of rank r begin at first[r] */
    size_t *first;
    int world;
    int64_t bytes;
    dcp_device device;
    lock *busy;                                      /* of what follows: a checkpoint is used by one thread at a time */
    window windows[CONVERT_WINDOWS]; int window_count; int64_t window_size; uint64_t clock;
    dcp_error failed;                                   /* the first read that did, if one did */
    int64_t copied;                                     /* bytes, to all ranks */
    dcp_json *kept; const dcp_json *extra;              /* of a source that came from a manifest: what it said */
    const char *model_id;
    dcp_tier *tiers; size_t tier_count;
    dcp_router_seed *seeds; size_t seed_count;
    dcp_sharding sharding; char *sharding_extra;
    dcp_training training; int has_training; char *training_extra;
    char *root_extra, **piece_extras;                   /* members that this version does not know; of each piece */
    const char *optim_extra, *router_extra, **tier_extras, **seed_extras;       /* the source's */
    dcp_save_report report;
} conversion;

/* Where members that this version does not know stand, of those that both kinds of document have. */
typedef enum level { AT_ROOT, AT_PIECE, AT_SHARDING, AT_TRAINING } level;

typedef struct rank_save { dcp_save_desc desc; dcp_status status; dcp_error err; } rank_save;

static int convert_open(conversion *v);
static int convert_select(conversion *v);
static void convert_take_manifest(conversion *v);
static void convert_take_kept(conversion *v);
static void convert_head(conversion *v);
static void convert_members(conversion *v);
static int convert_list(conversion *v);
static void convert_save(conversion *v, rank_save *ranks);
static int convert_report(conversion *v);
static void convert_free(conversion *v);

static int run_convert(tool *t) {
    conversion v = DCP_ZERO;
    rank_save *ranks = NULL;
    int code;
    if (!(t->options & O_TO))
        return usage(t->command, "--to LAYOUT is missing: sharded, single, manifest or manifest-yaml");
    if ((t->options & O_KEY_ID) && !(t->options & O_SIGN_KEY_FILE))
        return usage(t->command, "--key-id is the name of the key of --sign-key-file");
    v.t = t;
    v.to = layout_find(t->to);
    v.busy = lock_new();
    code = convert_open(&v);
    if (!code) code = convert_select(&v);
    if (!code && v.manifest) convert_take_manifest(&v);
    else if (!code) convert_take_kept(&v);
    if (!code) convert_head(&v);
    if (!code) convert_members(&v);
    if (!code) code = convert_list(&v);
    if (!code) {
        ranks = (rank_save *)need(calloc((size_t)v.world, sizeof *ranks));
        convert_save(&v, ranks);
        if (ranks[0].status) code = fail(t, v.failed.status ? &v.failed : &ranks[0].err);
        else code = convert_report(&v);
    }
    free(ranks);
    convert_free(&v);
    return code;
}

/* A quarter of the memory is the source's, a quarter the windows', the rest the save's. */
static int convert_open(conversion *v) {
    tool *t = v->t;
    dcp_open_desc desc = opening(t, t->operands[0]);
    dcp_error err;
    if (t->memory == 0) t->memory = 64 << 20;
    desc.io.memory_budget = (size_t)(t->memory / 4);
    desc.io.progress = NULL;
    if (dcp_open(&desc, &v->c, &err)) {
        if (err.status != DCP_E_CHECKSUM && path_kind(t->operands[0]) == PATH_DIRECTORY)
            return trouble(t, DCP_E_INVALID, "%s is a directory; dcptool ls %s lists the checkpoints in it",
                           t->operands[0], t->operands[0]);
        return fail(t, &err);
    }
    v->m = dcp_metadata_of(v->c);
    v->manifest = dcp_manifest_of(v->c);
    return CODE_FINE;
}

/* Of one rank, a piece without elements only takes the place of another. `before`: the last one that stays, or NULL. */
static int piece_is_spare(const piece *p, const dcp_tensor_info *info, const piece *before) {
    int d;
    for (d = 0; d < p->meta->ndim && p->meta->shape[d] > 0;) d++;
    if (d == p->meta->ndim) return 0;
    return info->size > 0 || (before && strcmp(before->meta->name, p->meta->name) == 0);
}

/* One of several that a document of other writers lists without saying where each is in the whole. */
static int is_part(const conversion *v, const piece *p, const dcp_tensor_info *info) {
    return info->piece_count > 1 && !p->meta->placement && (v->manifest || info->piece_count > v->m->world_size);
}

/* The pieces of all tensors that were asked for. */
static int convert_select(conversion *v) {
    size_t i, n = 0;
    int ranks = v->m->world_size > 1 ? v->m->world_size : 1;
    pieces_make(&v->pieces, v->c);
    for (i = 0; i < v->pieces.count; i++) {
        const piece *p = &v->pieces.items[i];
        const dcp_tensor_info *info = dcp_tensor_find(v->c, p->meta->name);
        if (!info) continue;
        if (info->dtype == DCP_OPAQUE) {
            return trouble(v->t, DCP_E_UNSUPPORTED,
                           "tensor \"%s\" of %s is of type %s, which this version does not know and cannot write",
                           info->name, dcp_path_of(v->c), info->dtype_name);
        }
        if ((v->t->options & O_ONE_RANK) && info->placement == DCP_PLACE_PRIVATE && info->piece_count > 1) {
            return trouble(v->t, DCP_E_INVALID, "tensor \"%s\" of %s is private to %d ranks: leave --one-rank out",
                           info->name, dcp_path_of(v->c), info->piece_count);
        }
        if ((v->t->options & O_ONE_RANK) && piece_is_spare(p, info, n > 0 ? &v->pieces.items[n - 1] : NULL)) continue;
        if (is_part(v, p, info) && (n == 0 || strcmp(v->pieces.items[n - 1].meta->name, info->name) != 0))
            note(v->t, "warning: %s does not say how the %d parts of tensor \"%s\" fit together: each is stored as "
                       "private to a rank",
                 dcp_path_of(v->c), info->piece_count, info->name);
        if (p->shard->rank >= ranks) ranks = p->shard->rank + 1;
        v->bytes += p->meta->size;
        v->pieces.items[n++] = *p;
    }
    v->pieces.count = n;
    v->world = (v->t->options & O_ONE_RANK) ? 1 : ranks;
    v->origins = (origin *)need(calloc(n + 1, sizeof *v->origins));
    if (v->world <= CONVERT_RANKS) return CODE_FINE;
    return trouble(v->t, DCP_E_LIMIT,
                   "%s is of %d ranks; as many as %d can be kept, --one-rank stores all pieces as of one",
                   dcp_path_of(v->c), v->world, (int)CONVERT_RANKS);
}

/* ---- convert: what only manifests say, from one or kept in another layout ---------------------------------------- */
static void convert_take_manifest(conversion *v) {
    const dcp_manifest *m = v->manifest;
    size_t i;
    v->model_id = m->model_id;
    v->tiers = (dcp_tier *)need(calloc(m->tier_count + 1, sizeof *v->tiers));
    v->seeds = (dcp_router_seed *)need(calloc(m->router_state.layer_count + 1, sizeof *v->seeds));
    v->tier_extras = (const char **)need(calloc(m->tier_count + 1, sizeof *v->tier_extras));
    v->seed_extras = (const char **)need(calloc(m->router_state.layer_count + 1, sizeof *v->seed_extras));
    v->optim_extra = m->optim_state.extra;
    v->router_extra = m->router_state.extra;
    for (i = 0; i < m->tier_count; i++) {
        v->tier_extras[v->tier_count] = m->tiers[i].extra;
        v->tiers[v->tier_count++] = m->tiers[i].tier;
    }
    for (i = 0; i < m->router_state.layer_count; i++) {
        const char *extra = m->router_state.layers[i].extra;
        if (!m->router_state.layers[i].has_seed) {
            if (extra)
                note(v->t, "warning: layer %" PRId64 " of router_state has no seed, and its members %s are left out",
                            m->router_state.layers[i].layer, extra);
            continue;
        }
        v->seed_extras[v->seed_count] = extra;
        v->seeds[v->seed_count].layer = m->router_state.layers[i].layer;
        v->seeds[v->seed_count++].seed = m->router_state.layers[i].seed;
    }
    for (i = 0; i < v->pieces.count; i++) {
        const piece *p = &v->pieces.items[i];
        const dcp_tensor_info *info = dcp_tensor_find(v->c, p->meta->name);
        const size_t tier = tier_of(m, info->tier);
        origin *o = &v->origins[i];
        int k;
        o->role = info->role;
        for (k = 0; k < 3; k++) o->expert_key[k] = info->expert_key[k] > 0 ? info->expert_key[k] : 0;
        o->version = p->file ? p->file->version : 0;
        if (tier < m->tier_count) o->tier = m->tiers[tier].tier.name;
        else if (info->tier)
            note(v->t, "warning: tensor \"%s\" is of tier \"%s\", which %s does not define: left out", info->name,
                 info->tier, dcp_path_of(v->c));
    }
    if ((m->optim_state.path && !m->optim_state.shard_count) || (m->router_state.path && !m->router_state.layer_count))
        note(v->t,
             "warning: %s has optimizer or router state of which it only gives the path: that file is not converted",
             dcp_path_of(v->c));
}

/* a is freed; may be NULL: then without separator */
static char *joined(char *a, const char *separator, const char *b, const char *c) {
    const size_t size = (a ? strlen(a) + strlen(separator) : 0) + strlen(b) + strlen(c) + 1;
    char *text = (char *)need(malloc(size));
    snprintf(text, size, "%s%s%s%s", a ? a : "", a ? separator : "", b, c);
    free(a);
    return text;
}

/* Text that the documents keep in the member "manifest" of "sharding", and read back. */
static void keep_piece(dcp_json *list, const piece *p, const origin *o) {
    dcp_json *entry = dcp_json_add_object(list, NULL), *key;
    int k;
    dcp_json_add_string(entry, "tensor", p->meta->name);
    dcp_json_add_string(entry, "role", role_name(o->role));
    if (o->tier) dcp_json_add_string(entry, "tier", o->tier);
    if (o->role == DCP_ROLE_EXPERT || o->role == DCP_ROLE_ROUTER) {
        key = dcp_json_add_array(entry, "key");
        for (k = 0; k < 3; k++) dcp_json_add_int(key, NULL, o->expert_key[k]);
    }
    if (o->version) dcp_json_add_int(entry, "version", o->version);
}

static void keep_tiers(dcp_json *list, const conversion *v) {
    size_t i;
    for (i = 0; i < v->tier_count; i++) {
        dcp_json *entry = dcp_json_add_object(list, NULL);
        dcp_json_add_int(entry, "id", v->tiers[i].tier_id);
        dcp_json_add_string(entry, "name", v->tiers[i].name);
        if (v->tiers[i].size_budget) dcp_json_add_string(entry, "sizeBudget", v->tiers[i].size_budget);
        if (v->tiers[i].placement_policy) dcp_json_add_string(entry, "placementPolicy", v->tiers[i].placement_policy);
        if (v->tier_extras[i]) dcp_json_add_string(entry, "extra", v->tier_extras[i]);
    }
}

/* `"manifest": {...}`, in new memory. */
static char *keep_write(const conversion *v) {
    dcp_json *root = (dcp_json *)need(dcp_json_new_object(NULL)), *manifest = dcp_json_add_object(root, "manifest"),
                     *list;
    char seed[24], *text = NULL, *member;
    size_t i, size = 0;
    if (v->model_id) dcp_json_add_string(manifest, "modelId", v->model_id);
    if (v->optim_extra) dcp_json_add_string(manifest, "optimExtra", v->optim_extra);
    if (v->router_extra) dcp_json_add_string(manifest, "routerExtra", v->router_extra);
    keep_tiers(dcp_json_add_array(manifest, "tiers"), v);
    list = dcp_json_add_array(manifest, "routerSeeds");
    for (i = 0; i < v->seed_count; i++) {
        dcp_json *entry = dcp_json_add_object(list, NULL);
        snprintf(seed, sizeof seed, "%" PRIu64, v->seeds[i].seed);
        dcp_json_add_int(entry, "layer", v->seeds[i].layer);
        dcp_json_add_string(entry, "seed", seed);       /* many readers of JSON have 53 bits */
        if (v->seed_extras[i]) dcp_json_add_string(entry, "extra", v->seed_extras[i]);
    }
    list = dcp_json_add_array(manifest, "pieces");
    for (i = 0; i < v->pieces.count; i++) keep_piece(list, &v->pieces.items[i], &v->origins[i]);
    if (dcp_json_write(root, 0, &text, &size, NULL) || dcp_json_count(list) != v->pieces.count) need(NULL);
    dcp_json_free(root);
    member = copy_text(text + 1);
    member[size - 2] = '\0';
    dcp_free(text);
    return member;
}

static const char *kept_text(const dcp_json *object, const char *key) {
    return dcp_json_string(dcp_json_get(object, key), NULL);
}

/* Members as text; NULL where somebody has put in what is none. */
static const char *kept_members(const conversion *v, const dcp_json *object, const char *key) {
    const char *text = kept_text(object, key);
    char *braced = text ? joined(NULL, "", "{", text) : NULL;
    dcp_json *parsed = NULL;
    if (!text) return NULL;
    braced = joined(braced, "", "}", "");
    if (dcp_json_parse(braced, strlen(braced), &parsed, NULL) || dcp_json_count(parsed) == 0) {
        note(v->t, "warning: what %s keeps as \"%s\" is no member list: left out", dcp_path_of(v->c), key);
        text = NULL;
    }
    dcp_json_free(parsed);
    free(braced);
    return text;
}

/* 0: it is there, but none. */
static int kept_count(const dcp_json *value, int64_t *out) {
    *out = 0;
    return !value || (dcp_json_int(value, out) == DCP_OK && *out >= 0);
}

static int kept_piece(const conversion *v, const dcp_json *entry, const piece *p, origin *o) {
    const char *name = kept_text(entry, "tensor"), *role = kept_text(entry, "role"), *tier = kept_text(entry, "tier");
    const dcp_json *key = dcp_json_get(entry, "key");
    size_t i;
    int k;
    if (!name || !role || strcmp(name, p->meta->name) != 0) return 0;
    for (k = DCP_ROLE_PARAMETER; k <= DCP_ROLE_ROUTER && strcmp(role, role_name((dcp_role)k)) != 0;) k++;
    if (k > DCP_ROLE_ROUTER) return 0;
    o->role = (dcp_role)k;
    for (i = 0; i < v->tier_count && tier; i++) if (strcmp(v->tiers[i].name, tier) == 0) o->tier = v->tiers[i].name;
    for (k = 0; k < 3; k++) if (!kept_count(dcp_json_at(key, (size_t)k), &o->expert_key[k])) return 0;
    return (!tier || o->tier) && kept_count(dcp_json_get(entry, "version"), &o->version);
}

static int kept_seed(const dcp_json *entry, dcp_router_seed *out) {
    const char *text = kept_text(entry, "seed");
    if (!text || strlen(text) > 20 || text[0] == '\0' || text[strspn(text, "0123456789")]) return 0;
    errno = 0;
    out->seed = strtoull(text, NULL, 10);
    return errno == 0 && kept_count(dcp_json_get(entry, "layer"), &out->layer);
}

static int kept_read(conversion *v, const dcp_json *kept) {
    const dcp_json *tiers = dcp_json_get(kept, "tiers"), *seeds = dcp_json_get(kept, "routerSeeds"),
                            *pieces = dcp_json_get(kept, "pieces");
    size_t i;
    if (dcp_json_kind_of(kept) != DCP_JSON_OBJECT || dcp_json_count(pieces) != v->pieces.count) return 0;
    v->tiers = (dcp_tier *)need(calloc(dcp_json_count(tiers) + 1, sizeof *v->tiers));
    v->seeds = (dcp_router_seed *)need(calloc(dcp_json_count(seeds) + 1, sizeof *v->seeds));
    v->tier_extras = (const char **)need(calloc(dcp_json_count(tiers) + 1, sizeof *v->tier_extras));
    v->seed_extras = (const char **)need(calloc(dcp_json_count(seeds) + 1, sizeof *v->seed_extras));
    for (i = 0; i < dcp_json_count(tiers); i++) {
        dcp_tier *tier = &v->tiers[v->tier_count];
        tier->name = kept_text(dcp_json_at(tiers, i), "name");
        tier->size_budget = kept_text(dcp_json_at(tiers, i), "sizeBudget");
        tier->placement_policy = kept_text(dcp_json_at(tiers, i), "placementPolicy");
        v->tier_extras[i] = kept_members(v, dcp_json_at(tiers, i), "extra");
        if (!tier->name || !kept_count(dcp_json_get(dcp_json_at(tiers, i), "id"), &tier->tier_id)) return 0;
        v->tier_count++;
    }
    for (i = 0; i < dcp_json_count(seeds); i++) {
        v->seed_extras[i] = kept_members(v, dcp_json_at(seeds, i), "extra");
        if (!kept_seed(dcp_json_at(seeds, i), &v->seeds[v->seed_count++])) return 0;
    }
    for (i = 0; i < v->pieces.count; i++)
        if (!kept_piece(v, dcp_json_at(pieces, i), &v->pieces.items[i], &v->origins[i])) return 0;
    v->model_id = kept_text(kept, "modelId");
    v->optim_extra = kept_members(v, kept, "optimExtra");
    v->router_extra = kept_members(v, kept, "routerExtra");
    return 1;
}

/* Whoever rewrote the document since may have added or removed tensors: then nothing of it can be trusted. */
static void convert_take_kept(conversion *v) {
    const char *extra = v->m->sharding.extra;
    char *object;
    if (!extra || !strstr(extra, "\"manifest\"")) return;
    object = (char *)need(malloc(strlen(extra) + 3));
    snprintf(object, strlen(extra) + 3, "{%s}", extra);
    if (dcp_json_parse(object, strlen(object), &v->kept, NULL) == DCP_OK) v->extra = v->kept;
    free(object);
    if (!dcp_json_get(v->extra, "manifest") || kept_read(v, dcp_json_get(v->extra, "manifest"))) return;
    note(v->t, "warning: what %s keeps of a manifest does not fit its tensors: left out", dcp_path_of(v->c));
    v->tier_count = v->seed_count = 0;
    v->model_id = NULL;
    memset(v->origins, 0, v->pieces.count * sizeof *v->origins);
}

/* ---- convert: members that this version does not know: as text, as they stand ------------------------------------ */
/* The next of `"key": value, ...`, which has been read by the library; NULL: there is no other. */
static const char *member_next(const char **at, size_t *length) {
    const char *start, *c;
    int depth = 0, is_string = 0;
    if (!*at) return NULL;
    start = *at + strspn(*at, ", \t\r\n");
    for (c = start; *c && (is_string || depth > 0 || *c != ','); c++) {
        if (is_string && *c == '\\' && c[1]) c++;
        else if (*c == '"') is_string = !is_string;
        else if (!is_string && (*c == '{' || *c == '[')) depth++;
        else if (!is_string && (*c == '}' || *c == ']')) depth--;
    }
    *length = (size_t)(c - start);
    *at = c;
    return *length > 0 ? start : NULL;
}

static char *text_of(const char *start, size_t length) {
    char *text = (char *)need(malloc(length + 1));
    memcpy(text, start, length);
    text[length] = '\0';
    return text;
}

static int is_written_to_metadata(level where, const char *member) {
    dcp_metadata m = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    dcp_tensor_metadata tensor = DCP_ZERO;
    char *text;
    size_t size;
    dcp_status status;
    shard.file_path = tensor.name = tensor.data_type = m.sharding.strategy = "x";
    shard.tensors = &tensor;
    shard.tensor_count = 1;
    m.world_size = m.has_training = 1;
    m.shards = &shard;
    m.shard_count = 1;
    *(where == AT_ROOT ? &m.extra : where == AT_PIECE ? &tensor.extra
      : where == AT_SHARDING ? &m.sharding.extra : &m.training.extra) = member;
    status = dcp_metadata_write(&m, &text, &size, NULL);
    dcp_free(text);
    return status == DCP_OK;
}

static int is_written_to_manifest(level where, const char *member) {
    dcp_manifest m = DCP_ZERO;
    dcp_manifest_shard shard = DCP_ZERO;
    char *text;
    size_t size;
    dcp_status status;
    shard.path = shard.tensor_name = "x";
    m.shards = &shard;
    m.shard_count = 1;
    m.has_sharding = m.has_training = 1;
    *(where == AT_ROOT ? &m.extra : where == AT_PIECE ? &shard.extra
      : where == AT_SHARDING ? &m.sharding.extra : &m.training.extra) = member;
    status = dcp_manifest_write(&m, 0, NULL, &text, &size, NULL);
    dcp_free(text);
    return status == DCP_OK;
}

/* In new memory, those that the target's document can have there; a warning names each other one, which is a field of
 * its own there. */
static char *carried(const conversion *v, level where, const char *what, const char *extra) {
    const int is_manifest = v->to->layout == DCP_LAYOUT_MANIFEST;
    char *all = NULL, *member;
    const char *start;
    size_t length;
    while ((start = member_next(&extra, &length)) != NULL) {
        member = text_of(start, length);
        if (is_manifest ? is_written_to_manifest(where, member) : is_written_to_metadata(where, member))
            all = joined(all, ", ", member, "");
        else note(v->t, "warning: %s: %s has another meaning in the target, or cannot be written: left out", what,
                  member);
        free(member);
    }
    return all;
}

static void convert_members(conversion *v) {
    const char *extra = v->manifest ? v->manifest->extra : v->m->extra;
    int roles[DCP_ROLE_ROUTER + 1] = { 0 };             /* which of them the pieces have */
    char *text;
    size_t i;
    v->root_extra = carried(v, AT_ROOT, "the document", extra);
    text = carried(v, AT_SHARDING, "sharding", v->sharding_extra);
    free(v->sharding_extra);
    v->sharding.extra = v->sharding_extra = text;
    if (v->has_training) v->training.extra = v->training_extra = carried(v, AT_TRAINING, "training", v->training.extra);
    v->piece_extras = (char **)need(calloc(v->pieces.count + 1, sizeof *v->piece_extras));
    for (i = 0; i < v->pieces.count; i++) {
        const piece *p = &v->pieces.items[i];
        extra = p->file ? p->file->extra : p->meta->extra;
        if (extra) v->piece_extras[i] = carried(v, AT_PIECE, p->meta->name, extra);
    }
    for (i = 0; i < v->pieces.count; i++) roles[v->origins[i].role] = 1;
    if (v->optim_extra && !roles[DCP_ROLE_OPTIMIZER])
        note(v->t, "warning: optim_state has no tensors, and its members %s are left out", v->optim_extra);
    if (v->router_extra && !roles[DCP_ROLE_ROUTER] && v->seed_count == 0)
        note(v->t, "warning: router_state has neither tensors nor seeds, and its members %s are left out",
             v->router_extra);
    for (i = 0; i < v->m->shard_count && !v->manifest; i++) {
        if (!v->m->shards[i].extra) continue;
        note(v->t, "warning: shards[%" PRIu64 "] has members that no other file takes over: %s are left out",
             (uint64_t)i, v->m->shards[i].extra);
    }
}

/* ---- convert: the save ------------------------------------------------------------------------------------------- */

/* The members of sharding that nobody knows, without what was kept of a manifest. */
static char *other_extra(const conversion *v) {
    const char *at = v->m->sharding.extra, *start;
    char *all = NULL, *member;
    size_t i, length;
    for (i = 0; (start = member_next(&at, &length)) != NULL; i++) {
        if (v->extra && strcmp(dcp_json_key(v->extra, i), "manifest") == 0) continue;
        member = text_of(start, length);
        all = joined(all, ", ", member, "");
        free(member);
    }
    return all;
}

static void convert_head(conversion *v) {
    const int has_more = v->manifest || v->tier_count || v->seed_count || v->model_id;
    v->sharding = v->m->sharding;
    if (v->sharding.shard_count != v->world) v->sharding.shard_count = 0;
    v->sharding_extra = other_extra(v);
    if (v->to->layout != DCP_LAYOUT_MANIFEST && has_more) {
        char *member = keep_write(v);
        v->sharding_extra = joined(v->sharding_extra, ", ", member, "");
        free(member);
    }
    v->sharding.extra = v->sharding_extra;
    v->has_training = training_of(v->c) != NULL;
    if (v->has_training) v->training = *training_of(v->c);
}

static dcp_status convert_copy_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                                   uint64_t *ticket, dcp_error *err);
static dcp_status convert_wait(void *context, uint64_t ticket, dcp_error *err) {
    (void)context; (void)ticket; (void)err;
    return DCP_OK;
}

static void convert_tensor(conversion *v, size_t i, dcp_tensor *t, source_piece *s) {
    const piece *p = &v->pieces.items[i];
    const origin *o = &v->origins[i];
    s->info = dcp_tensor_find(v->c, p->meta->name);
    s->meta = p->meta;
    s->rank = p->shard->rank;
    t->name = s->info->name;
    t->dtype = s->info->dtype;
    t->ndim = p->meta->ndim;
    memcpy(t->shape, p->meta->shape, sizeof t->shape);
    t->placement = s->info->placement;
    if (t->placement == DCP_PLACE_SHARDED) dcp_piece(t, s->info->shape, p->meta->global_offset);
    t->data = s;
    t->device = &v->device;
    t->extra = v->piece_extras[i];
    if (v->to->layout != DCP_LAYOUT_MANIFEST) return;
    t->role = o->role;
    t->tier = o->tier;
    t->version = o->version;
    if (o->role == DCP_ROLE_EXPERT || o->role == DCP_ROLE_ROUTER)
        memcpy(t->expert_key, o->expert_key, sizeof t->expert_key);
}

static int listed_compare(const void *a_, const void *b_) {
    const piece *a = *(const piece *const *)a_, *b = *(const piece *const *)b_;
    if (a->shard->rank != b->shard->rank) return a->shard->rank < b->shard->rank ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* The tensors by rank, in the order of the document. */
static int convert_list(conversion *v) {
    const piece **listed = (const piece **)need(calloc(v->pieces.count + 1, sizeof *listed));
    size_t i;
    int r;
    v->sources = (source_piece *)need(calloc(v->pieces.count + 1, sizeof *v->sources));
    v->tensors = (dcp_tensor *)need(calloc(v->pieces.count + 1, sizeof *v->tensors));
    v->first = (size_t *)need(calloc((size_t)v->world + 1, sizeof *v->first));
    for (i = 0; i < v->pieces.count; i++) listed[i] = &v->pieces.items[i];
    qsort((void *)listed, v->pieces.count, sizeof *listed, listed_compare);
    for (i = 0; i < v->pieces.count; i++) {
        convert_tensor(v, (size_t)(listed[i] - v->pieces.items), &v->tensors[i], &v->sources[i]);
        v->first[(v->world > 1 ? listed[i]->shard->rank : 0) + 1]++;
    }
    for (r = 0; r < v->world; r++) v->first[r + 1] += v->first[r];
    free((void *)listed);
    v->device.context = v;
    v->device.copy_out = convert_copy_out;
    v->device.wait = convert_wait;
    v->window_count = v->world < 4 ? 4 : v->world < CONVERT_WINDOWS ? v->world : CONVERT_WINDOWS;
    v->window_size = v->t->memory / 4 / v->window_count;
    return CODE_FINE;
}

/* Rank 0 speaks for all. */
static void convert_progress(void *user, const dcp_progress *p) {
    conversion *v = (conversion *)user;
    dcp_progress all = *p;
    lock_take(v->busy);
    all.bytes_done = v->copied;
    lock_give(v->busy);
    all.bytes_total = v->bytes;
    if (p->bytes_done > 0) all.bytes_per_second = p->bytes_per_second * (double)all.bytes_done / (double)p->bytes_done;
    on_progress(v->t, &all);
}

/* Digests stay comparable where the blocks stay as large. */
static void convert_digests(const conversion *v, dcp_save_desc *desc) {
    int64_t size = v->pieces.count ? v->pieces.items[0].meta->block_size : 0;
    size_t i;
    for (i = 1; i < v->pieces.count; i++) if (v->pieces.items[i].meta->block_size != size) size = -1;
    if ((v->t->options & O_FLAT) || (size == 0 && v->bytes > 0 && !v->m->is_foreign))
        desc->checksum = DCP_CHECKSUM_FLAT;
    if (size >= 256 << 10 && size <= 1 << 30 && (size & (size - 1)) == 0) desc->block_size = (size_t)size;
}

static dcp_save_desc convert_desc(conversion *v, int rank) {
    dcp_save_desc desc = DCP_ZERO;
    const int64_t share = v->t->memory / 2 / v->world;
    desc.path = v->t->operands[1];
    desc.tensor_count = v->first[rank + 1] - v->first[rank];
    desc.tensors = desc.tensor_count > 0 ? v->tensors + v->first[rank] : NULL;
    desc.layout = v->to->layout;
    desc.yaml = v->to->yaml;
    desc.overwrite = (v->t->options & O_FORCE) != 0;
    desc.allow_holes = 1;                               /* the source has none, or was allowed them */
    desc.training = v->has_training ? &v->training : NULL;
    desc.sharding = &v->sharding;
    desc.fields = v->m->fields;
    desc.field_count = v->m->field_count;
    desc.extra = v->root_extra;
    desc.report = rank == 0 ? &v->report : NULL;
    desc.io = v->t->io;
    desc.io.progress = convert_progress;
    desc.io.progress_user = v;
    desc.io.memory_budget = (size_t)(share > 1 << 20 ? share : 1 << 20);
    convert_digests(v, &desc);
    if (v->world > 1) desc.io.threads = 1;
    if (rank > 0) {
        desc.io.progress = NULL;
        desc.io.log = NULL;
    }
    if (v->to->layout != DCP_LAYOUT_MANIFEST) return desc;
    desc.model_id = v->model_id;
    desc.tiers = v->tiers;
    desc.tier_count = v->tier_count;
    desc.router_seeds = v->seeds;
    desc.router_seed_count = v->seed_count;
    desc.optim_extra = v->optim_extra;
    desc.router_extra = v->router_extra;
    desc.tier_extras = v->tier_extras;
    desc.router_seed_extras = v->seed_extras;
    return desc;
}

static void rank_run(void *rank) {
    rank_save *r = (rank_save *)rank;
    r->status = dcp_save(&r->desc, &r->err);
}

/* A thread for each rank, so that each piece is stored as of the rank that it was of. */
static void convert_save(conversion *v, rank_save *ranks) {
    dcp_coordinator **group = (dcp_coordinator **)need(calloc((size_t)v->world, sizeof *group));
    thread **threads = (thread **)need(calloc((size_t)v->world, sizeof *threads));
    dcp_signer signer = dcp_hmac_signer(v->t->sign_key.bytes, v->t->sign_key.size, v->t->key_id ? v->t->key_id : "");
    int r;
    if (v->world > 1) ranks[0].status = dcp_thread_group_open(v->world, group, &ranks[0].err);
    for (r = 0; r < v->world && !ranks[0].status; r++) {
        ranks[r].desc = convert_desc(v, r);
        ranks[r].desc.io.coordinator = group[r];
        if (v->t->options & O_SIGN_KEY_FILE) ranks[r].desc.signer = &signer;
    }
    if (!ranks[0].status) {
        for (r = 1; r < v->world; r++) threads[r] = (thread *)need(thread_start(rank_run, &ranks[r]));
        rank_run(&ranks[0]);
        for (r = 1; r < v->world; r++) thread_join(threads[r]);
    }
    for (r = 0; r < v->world; r++) dcp_coordinator_close(group[r]);
    free((void *)threads);
    free((void *)group);
}

/* A piece's part, or with --one-rank and all that is not private a box of the tensor, read into a window. */
static dcp_status window_read(conversion *v, window *w, const source_piece *s, const boxes *b, const part *p,
                              dcp_error *err) {
    dcp_tensor wanted = DCP_ZERO;
    int64_t offset[DCP_MAX_DIMS];
    int d;
    w->of = NULL;
    if (b->size > w->capacity) {
        free(w->bytes);
        w->capacity = b->size > v->window_size ? b->size : v->window_size;
        w->bytes = (uint64_t)w->capacity <= SIZE_MAX ? (unsigned char *)malloc((size_t)w->capacity) : NULL;
        if (!w->bytes) {
            w->capacity = 0;
            set_error(err, DCP_E_MEMORY, "no memory: %" PRId64 " bytes for a part of tensor \"%s\"", b->size,
                      s->info->name);
            return DCP_E_MEMORY;
        }
    }
    if (s->info->placement == DCP_PLACE_PRIVATE) return boxes_read(b, v->c, p, w->bytes, err);
    wanted.name = s->info->name;
    wanted.dtype = s->info->dtype;
    wanted.ndim = b->ndim;
    wanted.data = w->bytes;
    memcpy(wanted.shape, b->box, sizeof wanted.shape);
    for (d = 0; d < DCP_MAX_DIMS; d++) offset[d] = s->meta->global_offset[d] + b->offset[d];
    dcp_piece(&wanted, s->info->shape, offset);
    return dcp_read(v->c, &wanted, 1, err);
}

/* The window that has byte `at` of the piece: one that is there, or the one used longest ago, filled anew. */
static dcp_status window_at(conversion *v, const source_piece *s, int64_t at, window **out, dcp_error *err) {
    window *oldest = v->windows;
    piece of = DCP_ZERO;
    dcp_shard_metadata shard = DCP_ZERO;
    boxes b;
    part p;
    int i;
    dcp_status status;
    for (i = 0; i < v->window_count; i++) {
        window *w = &v->windows[i];
        if (w->of == s && w->begins <= at && at - w->begins < w->size) {
            *out = w;
            return DCP_OK;
        }
        if (w->used < oldest->used) oldest = w;
    }
    shard.rank = s->rank;
    of.meta = s->meta;
    of.shard = &shard;
    p = part_of_rank(s->info, &of);
    boxes_begin(&b, &p, v->window_size);
    oldest->begins = boxes_find(&b, at);
    oldest->size = b.size;
    status = window_read(v, oldest, s, &b, &p, err);
    if (!status) oldest->of = s;
    *out = oldest;
    return status;
}

static dcp_status convert_copy_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                                   uint64_t *ticket, dcp_error *err) {
    conversion *v = (conversion *)context;
    unsigned char *to = (unsigned char *)host;
    dcp_status status = DCP_OK;
    dcp_error failed;
    *ticket = 0;
    lock_take(v->busy);
    while (size > 0 && !status) {
        window *w = NULL;
        size_t n = 0;
        status = window_at(v, (const source_piece *)tensor->data, offset, &w, &failed);
        if (status) break;
        w->used = ++v->clock;
        n = (size_t)(w->begins + w->size - offset) < size ? (size_t)(w->begins + w->size - offset) : size;
        memcpy(to, w->bytes + (offset - w->begins), n);
        to += n;
        offset += (int64_t)n;
        size -= n;
        v->copied += (int64_t)n;
    }
    if (status && !v->failed.status) v->failed = failed;
    lock_give(v->busy);
    if (status) set_error(err, DCP_E_DEVICE, "%s", failed.message);
    return status ? DCP_E_DEVICE : DCP_OK;
}

static int convert_report(conversion *v) {
    tool *t = v->t;
    json_state *j = &t->json;
    progress_clear(t);
    if (!(t->options & O_JSON)) {
        note(t, "wrote %s: %" PRId64 " piece%s of %d rank%s, %" PRId64 " bytes", v->report.path,
             (int64_t)v->pieces.count, plural((int64_t)v->pieces.count), v->world, plural(v->world), v->bytes);
        return CODE_FINE;
    }
    json_begin(t);
    json_text(j, "source", dcp_path_of(v->c));
    json_text(j, "target", v->report.path);
    json_text(j, "layout", t->to);
    json_text(j, "save_id", v->report.save_id);
    json_number(j, "sequence", v->report.sequence);
    json_number(j, "world_size", v->world);
    json_number(j, "pieces", (int64_t)v->pieces.count);
    json_number(j, "bytes", v->bytes);
    json_number(j, "bytes_reused", v->report.bytes_reused);
    json_close(j, '}');
    return CODE_FINE;
}

static void convert_free(conversion *v) {
    int i;
    for (i = 0; i < CONVERT_WINDOWS; i++) free(v->windows[i].bytes);
    free(v->pieces.items);
    free(v->origins);
    free(v->sources);
    free(v->tensors);
    free(v->first);
    free(v->tiers);
    free(v->seeds);
    free((void *)v->tier_extras);
    free((void *)v->seed_extras);
    for (i = 0; v->piece_extras && i < (int)v->pieces.count; i++) free(v->piece_extras[i]);
    free(v->piece_extras);
    free(v->root_extra);
    free(v->training_extra);
    free(v->sharding_extra);
    dcp_json_free(v->kept);
    dcp_close(v->c);
    lock_free(v->busy);
}

/* ---- sign -------------------------------------------------------------------------------------------------------- */
static dcp_status sign_document(const char *path, dcp_layout layout, const dcp_signer *signer, dcp_error *err) {
    dcp_manifest *manifest = NULL;
    dcp_metadata *metadata = NULL;
    dcp_status status;
    if (layout == DCP_LAYOUT_MANIFEST) {
        status = dcp_manifest_read_file(NULL, path, NULL, &manifest, err);
        if (!status) status = dcp_manifest_write_file(NULL, path, manifest, signer, err);
    } else {
        status = dcp_metadata_read_file(NULL, path, NULL, &metadata, err);
        if (!status) status = dcp_metadata_write_file(NULL, path, metadata, signer, err);
    }
    dcp_manifest_free(manifest);
    dcp_metadata_free(metadata);
    return status;
}

static int sign_report(tool *t, const char *path, const char *replaced) {
    json_state *j = &t->json;
    progress_clear(t);
    if (t->options & O_JSON) {
        json_begin(t);
        json_text(j, "path", path);
        json_text(j, "algorithm", "hmac-sha256");
        json_text(j, "key", t->key_id ? t->key_id : "");
        json_text(j, "replaced", replaced);
        json_close(j, '}');
    } else print("signed %s%s%s%s\n", path, replaced ? " (a signature by key \"" : "", replaced ? replaced : "",
                 replaced ? "\" was replaced)" : "");
    return CODE_FINE;
}

/* Opened before, so that only a document that holds is signed, and after: the signature is accepted as anybody will
 * read it. */
static int run_sign(tool *t) {
    dcp_signer signer;
    dcp_checkpoint *c;
    dcp_error err;
    dcp_layout layout;
    char *path, *replaced;
    int code;
    if (!(t->options & O_KEY_FILE)) return usage(t->command, "--key-file FILE is missing: the key to sign with");
    t->verifier = NULL;
    code = open_checkpoint(t, t->operands[0], &c);
    if (code) return code;
    layout = dcp_layout_of(c);
    path = copy_text(dcp_path_of(c));
    replaced = dcp_metadata_of(c)->signature_algorithm
               ? copy_text(dcp_metadata_of(c)->signature_key ? dcp_metadata_of(c)->signature_key : "") : NULL;
    dcp_close(c);
    if (layout == DCP_LAYOUT_SINGLE) {
        code = trouble(t, DCP_E_UNSUPPORTED, "%s has its document inside, which cannot be rewritten in place; `dcptool "
                                             "convert %s TARGET --to single "
                                             "--sign-key-file FILE` writes a signed copy", path, t->operands[0]);
    } else {
        signer = dcp_hmac_signer(t->key.bytes, t->key.size, t->key_id ? t->key_id : "");
        if (sign_document(path, layout, &signer, &err)) code = fail(t, &err);
        t->verifier = &t->hmac;
        if (!code) code = open_checkpoint(t, path, &c);
        if (!code) dcp_close(c);
        if (!code) code = sign_report(t, path, replaced);
    }
    free(path);
    free(replaced);
    return code;
}

/* ---- sync -------------------------------------------------------------------------------------------------------- */
static void sync_json(tool *t, const dcp_sync_report *r) {
    json_state *j = &t->json;
    json_text(j, "source", t->operands[0]);
    json_text(j, "directory", t->operands[1]);
    json_text(j, "path", r->path);
    json_flag(j, "dry_run", (t->options & O_DRY_RUN) != 0);
    json_number(j, "copied", r->copied);
    json_number(j, "bytes_copied", r->bytes_copied);
    json_number(j, "bytes_to_copy", r->bytes_to_copy);
    json_number(j, "missing", r->missing);
    json_number(j, "stale", r->stale);
    json_number(j, "corrupt", r->corrupt);
    json_number(j, "kept", r->kept);
    json_number(j, "bytes_kept", r->bytes_kept);
    json_number(j, "left_out", r->left_out);
    json_number(j, "bytes_left_out", r->bytes_left_out);
    json_number(j, "not_selected", r->not_selected);
}

static void sync_text(tool *t, const dcp_sync_report *r) {
    const int is_dry = (t->options & O_DRY_RUN) != 0;
    const int64_t wrong = r->missing + r->stale + r->corrupt, copied = is_dry ? wrong : r->copied;
    print("%-11s%" PRId64 " file%s, %" PRId64 " bytes (%" PRId64 " missing, %" PRId64 " stale, %" PRId64 " corrupt)\n",
          is_dry ? "to copy:" : "copied:", copied, plural(copied), is_dry ? r->bytes_to_copy : r->bytes_copied,
          r->missing, r->stale, r->corrupt);
    print("kept:      %" PRId64 " file%s, %" PRId64 " bytes\n", r->kept, plural(r->kept), r->bytes_kept);
    if (r->left_out)
        print("left out:  %" PRId64 " file%s, %" PRId64 " bytes, beyond a size_budget\n", r->left_out,
              plural(r->left_out), r->bytes_left_out);
    if (r->not_selected)
        print("not asked: %" PRId64 " file%s of other tiers\n", r->not_selected, plural(r->not_selected));
    if (!is_dry) print("%s\n", r->path);
}

static int run_sync(tool *t) {
    dcp_sync_desc desc = DCP_ZERO;
    dcp_sync_report report = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int code = CODE_FINE;
    desc.path = t->operands[0];
    desc.directory = t->operands[1];
    desc.tiers = t->tiers;
    desc.tier_count = t->tier_count;
    desc.verify = (t->options & O_FULL) ? DCP_VERIFY_ALL : DCP_VERIFY_TOUCHED;
    desc.verifier = t->verifier;
    desc.minimum_step = t->minimum_step;
    desc.dry_run = (t->options & O_DRY_RUN) != 0;
    desc.report = &report;
    desc.io = t->io;
    status = dcp_sync(&desc, &err);
    progress_clear(t);
    if (t->options & O_JSON) {
        json_begin(t);
        sync_json(t, &report);
    } else if (!status) sync_text(t, &report);
    if (status) code = fail(t, &err);
    if (t->options & O_JSON) json_close(&t->json, '}');
    return code;
}

/* ---- latest, prune, sweep ---------------------------------------------------------------------------------------- */
static int run_latest(tool *t) {
    dcp_latest_desc desc = DCP_ZERO;
    dcp_error err;
    char *path;
    int code = need_directory(t, t->operands[0]);
    if (code) return code;
    desc.directory = t->operands[0];
    desc.verifier = t->verifier;
    desc.minimum_step = t->minimum_step;
    desc.io = t->io;
    if (dcp_latest(&desc, &path, &err)) {
        code = fail(t, &err);
        return err.status == DCP_E_NOT_FOUND ? CODE_NO : code;
    }
    progress_clear(t);
    if (t->options & O_JSON) {
        json_begin(t);
        json_text(&t->json, "directory", t->operands[0]);
        json_text(&t->json, "path", path);
        json_close(&t->json, '}');
    } else if (is_terminal(1)) print("%s\n", path);
    else printf("%s\n", path);                          /* for $(...): as it is, not escaped */
    dcp_free(path);
    return CODE_FINE;
}

/* What prune and sweep removed, also when they ended early. */
static int report_removal(tool *t, dcp_removal *removal, dcp_status status, const dcp_error *err) {
    const int is_dry = (t->options & O_DRY_RUN) != 0;
    json_state *j = &t->json;
    int code = CODE_FINE;
    size_t i;
    progress_clear(t);
    if (t->options & O_JSON) {
        json_begin(t);
        json_text(j, "directory", t->operands[0]);
        json_flag(j, "dry_run", is_dry);
        json_number(j, "checkpoints", (int64_t)removal->checkpoints);
        json_number(j, "bytes", removal->bytes);
        json_open(j, "removed", '[');
        for (i = 0; i < removal->path_count; i++) json_text(j, NULL, removal->paths[i]);
        json_close(j, ']');
    } else for (i = 0; i < removal->path_count; i++)
        print("%s %s\n", is_dry ? "would remove" : "removed", removal->paths[i]);
    if (status) code = fail(t, err);
    else
        note(t, "%s %" PRId64 " file%s, %" PRId64 " bytes", is_dry ? "would remove" : "removed",
             (int64_t)removal->path_count, plural((int64_t)removal->path_count), removal->bytes);
    if (t->options & O_JSON) json_close(j, '}');
    dcp_removal_free(removal);
    return code;
}

static int run_prune(tool *t) {
    dcp_prune_desc desc = DCP_ZERO;
    dcp_removal removal = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int code;
    if (!(t->options & O_KEEP)) return usage(t->command, "--keep N is missing: how many of the newest to keep");
    code = need_directory(t, t->operands[0]);
    if (code) return code;
    desc.directory = t->operands[0];
    desc.keep_last = (int)t->keep;
    desc.keep_every = t->keep_every;
    desc.dry_run = (t->options & O_DRY_RUN) != 0;
    desc.verifier = t->verifier;
    desc.io = t->io;
    status = dcp_prune(&desc, &removal, &err);
    return report_removal(t, &removal, status, &err);
}

static int run_sweep(tool *t) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int code = need_directory(t, t->operands[0]);
    if (code) return code;
    desc.directory = t->operands[0];
    desc.grace_seconds = t->grace_seconds;              /* parse_grace has made -1, none, of a 0 that was typed */
    desc.plain_names = (t->options & O_PLAIN_NAMES) != 0;
    desc.dry_run = (t->options & O_DRY_RUN) != 0;
    desc.verifier = t->verifier;
    desc.io = t->io;
    status = dcp_sweep(&desc, &removal, &err);
    return report_removal(t, &removal, status, &err);
}

/* ---- statuses, exit codes, messages ------------------------------------------------------------------------------ */
static int code_of(dcp_status status) {
    switch (status) {
    case DCP_OK: return CODE_FINE;
    case DCP_E_CHECKSUM: case DCP_E_SIGNATURE: case DCP_E_FORMAT: case DCP_E_INCOMPLETE: case DCP_E_MISMATCH: return CODE_NO;
    case DCP_E_INVALID: return CODE_USAGE;
    default: return CODE_TROUBLE;       /* not there, I/O, newer, beyond a limit, interrupted, ...: nobody could look */
    }
}

/* Formats into new memory. */
static char *format_text(const char *format, va_list arguments) {
    va_list again;
    int length;
    char *text;
    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text = (char *)need(malloc(length > 0 ? (size_t)length + 1 : 1));
    text[0] = '\0';
    if (length > 0) vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

static void print(const char *format, ...) {
    va_list arguments;
    char *text;
    va_start(arguments, format);
    text = format_text(format, arguments);
    va_end(arguments);
    put_text(stdout, text);
    free(text);
}

/* To stderr, as a line of its own: "dcptool verify: ...". */
static void say(const command *c, const char *text) {
    fflush(stdout);
    fprintf(stderr, "dcptool%s%s: ", c ? " " : "", c ? c->name : "");
    put_text(stderr, text);
    fputc('\n', stderr);
}

static void note(tool *t, const char *format, ...) {
    va_list arguments;
    char *text;
    if (t->options & O_QUIET) return;
    progress_clear(t);
    va_start(arguments, format);
    text = format_text(format, arguments);
    va_end(arguments);
    say(t->command, text);
    free(text);
}

static void set_error(dcp_error *err, dcp_status status, const char *format, ...) {
    va_list arguments;
    memset(err, 0, sizeof *err);
    err->status = status;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
}

/* The message goes to stderr; with --json the object says it too, as its only content or, if it has begun, as one more
 * member. */
static int fail(tool *t, const dcp_error *err) {
    progress_clear(t);
    say(t->command, err->message);
    if (t->options & O_JSON) {
        int is_new = t->json.depth == 0;
        if (is_new) json_begin(t);
        json_error(&t->json, err->status, err->message);
        if (is_new) json_close(&t->json, '}');
    }
    return code_of(err->status);
}

static int trouble(tool *t, dcp_status status, const char *format, ...) {
    va_list arguments;
    dcp_error err;
    char *text;
    va_start(arguments, format);
    text = format_text(format, arguments);
    va_end(arguments);
    set_error(&err, status, "%s", text);
    free(text);
    return fail(t, &err);
}

/* A wrong command line: what is wrong, and what would be right. command NULL: it is the command that is wrong. */
static int usage(const command *c, const char *format, ...) {
    va_list arguments;
    char *text;
    size_t i;
    va_start(arguments, format);
    text = format_text(format, arguments);
    va_end(arguments);
    say(c, text);
    free(text);
    if (c) {
        print_command_line(stderr, c);
        fprintf(stderr, "`dcptool help %s` says more\n", c->name);
    } else {
        fprintf(stderr, "valid commands:");
        for (i = 0; i < COMMAND_COUNT; i++) fprintf(stderr, " %s", commands[i].name);
        fprintf(stderr, " help; valid options without a command: --help --version\n");
    }
    return CODE_USAGE;
}

static char *copy_text(const char *text) {
    const size_t size = strlen(text) + 1;
    return (char *)memcpy(need(malloc(size)), text, size);
}

static void *need(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "dcptool: no memory\n");
    exit(CODE_TROUBLE);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static int parse_count(const char *text, int64_t most, int64_t *out) {
    *out = 0;
    if (*text == '\0') return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || *out > (most - (*text - '0')) / 10) return 0;
        *out = *out * 10 + (*text - '0');
    }
    return 1;
}

/* Seconds, or a number with s, m, h or d. The library takes 0 for its default, so that none is -1. */
static int parse_grace(const char *text, int64_t *out) {
    static const struct { char letter; int64_t seconds; } units[] = {{ 's', 1 }, { 'm', 60 }, { 'h', 3600 },
                                                                     { 'd', 86400 }};
    char digits[24];
    size_t length = strlen(text), i;
    int64_t unit = 1;
    if (length == 0 || length >= sizeof digits) return 0;
    memcpy(digits, text, length + 1);
    for (i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (digits[length - 1] != units[i].letter) continue;
        unit = units[i].seconds;
        digits[length - 1] = '\0';
        break;
    }
    if (!parse_count(digits, INT64_MAX / 1000000000 / unit, out)) return 0;   /* the library may count in nanoseconds */
    *out = *out == 0 ? -1 : *out * unit;
    return 1;
}

/* Bytes, or a number with KiB, MiB or GiB. */
static int parse_size(const char *text, int64_t *out) {
    static const char *const units[] = { "", "KiB", "MiB", "GiB" };
    const size_t digits = strspn(text, "0123456789");
    char number[24];
    int i = 0;
    if (digits >= sizeof number) return 0;
    memcpy(number, text, digits);
    number[digits] = '\0';
    while (i < 4 && strcmp(text + digits, units[i]) != 0) i++;
    if (i == 4 || !parse_count(number, INT64_C(1) << 32, out)) return 0;
    *out <<= 10 * i;
    return 1;
}

static int is_key_id(const char *text) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return text[0] && strlen(text) <= 128 && text[strspn(text, allowed)] == '\0';
}

static int set_option(tool *t, const option *o, const char *value) {
    int fine = 1;
    t->options |= o->bit;
    switch (o->bit) {
    case O_OUTPUT: t->output = value; fine = value[0] != '\0'; break;
    case O_KEY_FILE: t->key_file = value; fine = value[0] != '\0'; break;
    case O_SIGN_KEY_FILE: t->sign_key_file = value; fine = value[0] != '\0'; break;
    case O_KEY_ID: t->key_id = value; fine = is_key_id(value); break;
    case O_TO: t->to = value; fine = layout_find(value) != NULL; break;
    case O_TIER:
        fine = value[0] != '\0' && t->tier_count < sizeof t->tiers / sizeof t->tiers[0];
        if (fine) t->tiers[t->tier_count++] = value; break;
    case O_MINIMUM_STEP: fine = parse_count(value, INT64_MAX, &t->minimum_step); break;
    case O_MEMORY: fine = parse_size(value, &t->memory) && t->memory >= 4 << 20; break;
    case O_RANK: fine = parse_count(value, INT32_MAX, &t->rank); break;
    case O_KEEP: fine = parse_count(value, INT32_MAX, &t->keep) && t->keep > 0; break;
    case O_KEEP_EVERY: fine = parse_count(value, INT64_MAX, &t->keep_every) && t->keep_every > 0; break;
    case O_GRACE: fine = parse_grace(value, &t->grace_seconds); break;
    default: break;
    }
    return fine ? CODE_FINE : usage(t->command, "--%s: '%s' is no %s (%s)", o->name, value, o->value, o->help);
}

static int unknown_option(tool *t, const char *text) {
    const unsigned valid = t->command->options | O_COMMON;
    char list[512] = "";
    size_t i;
    for (i = 0; i < OPTION_COUNT; i++)
        if (valid & all_options[i].bit)
            snprintf(list + strlen(list), sizeof list - strlen(list), " --%s", all_options[i].name);
    return usage(t->command, "unknown option '%s'; valid options:%s", text, list);
}

/* --name, --name=value or --name value. *next: the argument behind this one, NULL if there is none; set to NULL when it
 * was used. */
static int parse_long(tool *t, const char *text, const char **next) {
    size_t length = strcspn(text + 2, "="), i;
    const char *value = text[2 + length] ? text + 2 + length + 1 : NULL;
    for (i = 0; i < OPTION_COUNT; i++) {
        const option *o = &all_options[i];
        if (!((t->command->options | O_COMMON) & o->bit) || strlen(o->name) != length ||
            memcmp(o->name, text + 2, length) != 0) continue;
        if (!o->value) return value ? usage(t->command, "--%s takes no value", o->name) : set_option(t, o, NULL);
        if (!value) {
            value = *next;
            *next = NULL;
        }
        return value ? set_option(t, o, value) : usage(t->command, "--%s needs a value: %s", o->name, o->value);
    }
    return unknown_option(t, text);
}

/* -v, -qv, -oFILE or -o FILE. */
static int parse_short(tool *t, const char *text, const char **next) {
    const char *p;
    for (p = text + 1; *p; p++) {
        const option *o = all_options, *end = all_options + OPTION_COUNT;
        int code;
        while (o < end && !(o->letter == *p && ((t->command->options | O_COMMON) & o->bit))) o++;
        if (o == end) return unknown_option(t, text);
        if (o->value) {
            const char *value = p[1] ? p + 1 : *next;
            if (!p[1]) *next = NULL;
            return value ? set_option(t, o, value) : usage(t->command, "-%c needs a value: %s", o->letter, o->value);
        }
        code = set_option(t, o, NULL);
        if (code) return code;
    }
    return CODE_FINE;
}

static int parse_arguments(tool *t, int count, char **arguments) {
    int i, only_operands = 0;
    t->operands = arguments;                            /* options are taken out from between them */
    for (i = 0; i < count; i++) {
        char *text = arguments[i];
        const char *next = i + 1 < count ? arguments[i + 1] : NULL, *had = next;
        int code = CODE_FINE;
        if (only_operands || text[0] != '-' || text[1] == '\0') t->operands[t->operand_count++] = text;
        else if (strcmp(text, "--") == 0) only_operands = 1;
        else if (text[1] == '-') code = parse_long(t, text, &next);
        else code = parse_short(t, text, &next);
        if (code) return code;
        if (had && !next) i++;
    }
    if (t->options & O_HELP) return CODE_FINE;
    if (t->operand_count < t->command->least) return usage(t->command, "missing argument");
    if (t->command->most >= 0 && t->operand_count > t->command->most)
        return usage(t->command, "one argument too many: '%s'", t->operands[t->command->most]);
    for (i = 0; i < t->operand_count; i++)
        if (t->operands[i][0] == '\0') return usage(t->command, "an argument is empty");
    return CODE_FINE;
}

/* ---- what all commands share ------------------------------------------------------------------------------------- */
static void on_log(void *user, dcp_log_level level, const char *message) {
    if (level <= DCP_LOG_WARNING) note((tool *)user, "%s%s", level == DCP_LOG_WARNING ? "warning: " : "", message);
}

static int read_key(tool *t, const char *path, hmac_key *k) {
    FILE *file = open_for_reading(path);
    size_t size = file ? fread(k->bytes, 1, sizeof k->bytes, file) : 0;
    int failed = !file || ferror(file), sys = errno;
    if (file) fclose(file);
    if (failed) return trouble(t, DCP_E_IO, "cannot read the key file %s: %s", path, strerror(sys));
    if (size == sizeof k->bytes)
        return trouble(t, DCP_E_INVALID, "the key file %s has %d bytes or more", path, (int)sizeof k->bytes);
    if (size < 16)
        return trouble(t, DCP_E_INVALID, "the key file %s has %d bytes; an HMAC key needs 16 at least", path,
                       (int)size);
    k->size = size;
    return CODE_FINE;
}

static int read_keys(tool *t) {
    int code = CODE_FINE;
    if (t->options & O_KEY_FILE) {
        code = read_key(t, t->key_file, &t->key);
        t->hmac = dcp_hmac_verifier(t->key.bytes, t->key.size);
        t->verifier = &t->hmac;
    }
    if (!code && (t->options & O_SIGN_KEY_FILE)) code = read_key(t, t->sign_key_file, &t->sign_key);
    return code;
}

static int prepare(tool *t) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    const int has_terminal = term && term[0] && strcmp(term, "dumb") != 0;
    t->has_colour = has_terminal && is_terminal(1) && !(no_color && no_color[0]);
    t->progress.what = t->command->name;
    t->progress.last_line = time(NULL);
    if (t->options & O_QUIET) t->progress.mode = SHOW_NOTHING;
    else t->progress.mode = has_terminal && is_terminal(2) ? SHOW_BAR : SHOW_LINES;
    t->io.cancel = &interrupted;
    t->io.progress = on_progress;
    t->io.progress_user = t;
    t->io.log = on_log;
    t->io.log_user = t;
    t->select.tiers = t->tiers;
    t->select.tier_count = t->tier_count;
    return read_keys(t);
}

static dcp_open_desc opening(const tool *t, const char *path) {
    dcp_open_desc desc = DCP_ZERO;
    desc.path = path;
    desc.verifier = t->verifier;
    desc.minimum_step = t->minimum_step;
    desc.select = t->tier_count ? &t->select : NULL;
    desc.io = t->io;
    return desc;
}

static int open_checkpoint(tool *t, const char *path, dcp_checkpoint **out) {
    const dcp_open_desc desc = opening(t, path);
    dcp_error err;
    if (dcp_open(&desc, out, &err) == DCP_OK) {
        progress_clear(t);
        return CODE_FINE;
    }
    if ((err.status == DCP_E_NOT_FOUND || err.status == DCP_E_INVALID) && path_kind(path) == PATH_DIRECTORY)
        return trouble(t, DCP_E_INVALID, "%s is a directory; dcptool ls %s lists the checkpoints in it", path, path);
    return fail(t, &err);
}

/* dcp_latest and its like take a directory that is not there for an empty one, or do not; for a person it is a slip of
 * the keyboard. */
static int need_directory(tool *t, const char *path) {
    enum path_kind kind = path_kind(path);
    if (kind == PATH_DIRECTORY) return CODE_FINE;
    return trouble(t, DCP_E_NOT_FOUND, kind == PATH_NONE ? "there is no directory %s" : "%s is not a directory", path);
}

/* [set]: p stands behind the bracket. Sets *past to what follows the set, or to NULL if the set is not closed. */
static int glob_set_matches(const char *p, char c, const char **past) {
    int matches = 0, negated = *p == '!' || *p == '^', is_first = 1;
    if (negated) p++;
    for (*past = NULL; *p && (*p != ']' || is_first); p++, is_first = 0) {
        char low = *p, high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            high = p[2];
            p += 2;
        }
        if ((unsigned char)low <= (unsigned char)c && (unsigned char)c <= (unsigned char)high) matches = 1;
    }
    if (*p) *past = p + 1;
    return matches != negated;
}

/* Goes back to the last star only, so that the time is at most the product of the lengths. */
static int glob_matches(const char *glob, const char *text) {
    const char *star = NULL, *from = NULL, *past;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            from = text;
        } else if (*glob == '[' && glob_set_matches(glob + 1, *text, &past) && past) {
            glob = past;
            text++;
        } else if (*glob == '?' || (*glob == *text && (*glob != '[' || !strchr(glob, ']')))) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = ++from;
        } else return 0;
    }
    while (*glob == '*') glob++;
    return *glob == '\0';
}

static const char *base_name(const char *path) {
    const char *name = path;
    for (; *path; path++) if (is_separator(*path)) name = path + 1;
    return name;
}

/* A message that begins with the path, for a line that does so, too. */
static const char *without_path(const char *message, const char *path) {
    size_t length = strlen(path);
    if (strncmp(message, path, length) != 0 && strncmp(message, base_name(path), length = strlen(base_name(path))) != 0)
        return message;
    return message[length] == ':' && message[length + 1] == ' ' ? message + length + 2 : message;
}

static const char *dtype_text(const dcp_tensor_info *info) {
    return info->dtype == DCP_OPAQUE || !dcp_dtype_name(info->dtype) ? info->dtype_name : dcp_dtype_name(info->dtype);
}

static const char *placement_name(dcp_placement placement) {
    static const char *const names[] = { "auto", "replicated", "private", "sharded" };
    return (unsigned)placement < sizeof names / sizeof names[0] ? names[placement] : "unknown";
}

static const char *role_name(dcp_role role) {
    static const char *const names[] = { "dense", "expert", "optimizer", "router" };
    return (unsigned)role < sizeof names / sizeof names[0] ? names[role] : "unknown";
}

static const char *layout_name(dcp_layout layout) {
    static const char *const names[] = { "sharded", "single", "manifest" };
    return (unsigned)layout < sizeof names / sizeof names[0] ? names[layout] : "unknown";
}

static const layout_choice *layout_find(const char *name) {
    static const layout_choice choices[] = {{ "sharded", DCP_LAYOUT_SHARDED, 0 }, { "single", DCP_LAYOUT_SINGLE, 0 },
                                            { "manifest", DCP_LAYOUT_MANIFEST, 0 },
                                            { "manifest-yaml", DCP_LAYOUT_MANIFEST, 1 }};
    size_t i;
    for (i = 0; i < sizeof choices / sizeof choices[0]; i++) if (strcmp(choices[i].name, name) == 0) return &choices[i];
    return NULL;
}

static char *shape_text(int ndim, const int64_t *shape, char text[192]) {
    size_t used = 1;
    int d;
    snprintf(text, 192, "[");
    for (d = 0; d < ndim; d++) {
        snprintf(text + used, 192 - used, "%s%" PRId64, d ? ", " : "", shape[d]);
        used = strlen(text);
    }
    snprintf(text + used, 192 - used, "]");
    return text;
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

/* The shortest that reads back as the same number. */
static char *double_text(double value, char text[32]) {
    int digits;
    for (digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value)) break;
    }
    return text;
}

static char *bytes_text(double bytes, char text[32]) {
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++) bytes /= 1024;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */
static int piece_compare(const void *a_, const void *b_) {
    const piece *a = (const piece *)a_, *b = (const piece *)b_;
    int order = strcmp(a->meta->name, b->meta->name), d;
    if (order) return order;
    for (d = 0; d < DCP_MAX_DIMS; d++)
        if (a->meta->global_offset[d] != b->meta->global_offset[d])
            return a->meta->global_offset[d] < b->meta->global_offset[d] ? -1 : 1;
    return a->shard->rank < b->shard->rank ? -1 : a->shard->rank > b->shard->rank;
}

/* A manifest's entries in the order in which its metadata has them, before states that are only paths; out may be NULL,
 * to count. */
static size_t manifest_files(const dcp_manifest *m, const dcp_manifest_shard **out) {
    const dcp_manifest_state *const states[] = { &m->optim_state, &m->router_state };
    size_t n = 0, s, i, l;
    for (i = 0; i < m->shard_count; i++, n++) if (out) out[n] = &m->shards[i];
    for (s = 0; s < 2; s++) {
        for (i = 0; i < states[s]->shard_count; i++, n++) if (out) out[n] = &states[s]->shards[i];
        for (l = 0; l < states[s]->layer_count; l++)
            for (i = 0; i < states[s]->layers[l].shard_count; i++, n++)
                if (out) out[n] = &states[s]->layers[l].shards[i];
    }
    return n;
}

static void pieces_make(piece_list *list, const dcp_checkpoint *c) {
    const dcp_metadata *m = dcp_metadata_of(c);
    const dcp_manifest *manifest = dcp_manifest_of(c);
    const dcp_manifest_shard **files = NULL;
    size_t s, i, count = 0;
    if (manifest) {
        files = (const dcp_manifest_shard **)need(calloc(m->shard_count + 1, sizeof *files));
        if (manifest_files(manifest, NULL) <= m->shard_count) (void)manifest_files(manifest, files);
    }
    for (s = 0; s < m->shard_count; s++) count += m->shards[s].tensor_count;
    list->items = (piece *)need(calloc(count + 1, sizeof *list->items));
    list->count = 0;
    for (s = 0; s < m->shard_count; s++) {
        for (i = 0; i < m->shards[s].tensor_count; i++) {
            list->items[list->count].meta = &m->shards[s].tensors[i];
            list->items[list->count].file = files ? files[s] : NULL;
            list->items[list->count].order = list->count;
            list->items[list->count++].shard = &m->shards[s];
        }
    }
    free((void *)files);
    qsort(list->items, list->count, sizeof *list->items, piece_compare);
}

static piece_list pieces_of(const piece_list *list, const char *name) {
    size_t low = 0, high = list->count, end;
    piece_list found;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list->items[middle].meta->name, name) < 0) low = middle + 1;
        else high = middle;
    }
    for (end = low; end < list->count && strcmp(list->items[end].meta->name, name) == 0;) end++;
    found.items = list->items + low;
    found.count = end - low;
    return found;
}

static part part_whole(const dcp_tensor_info *info) {
    part p;
    p.info = info;
    p.ndim = info->ndim;
    p.shape = info->shape;
    p.size = info->size;
    p.rank = -1;
    return p;
}

static part part_of_rank(const dcp_tensor_info *info, const piece *of) {
    part p;
    p.info = info;
    p.ndim = of->meta->ndim;
    p.shape = of->meta->shape;
    p.size = of->meta->size;
    p.rank = of->shard->rank;
    return p;
}

/* ---- boxes: a tensor in parts of at most TOOL_CHUNK bytes, each of them a run in row-major order ----------------- */
/* What cannot be cut is one box, however large: bytes of an unknown type, and elements of 4 bits where a cut would go
 * through a byte. */
static void boxes_begin(boxes *b, const part *p, int64_t limit) {
    int64_t inner = 1;                                  /* elements: behind one index of dimension `split`; in a box */
    int d;
    memset(b, 0, sizeof *b);
    b->ndim = p->ndim;
    b->bits = dcp_dtype_bits(p->info->dtype);
    b->whole_size = b->largest = p->size;
    b->is_whole = 1;
    memcpy(b->shape, p->shape, sizeof b->shape);
    if (p->size <= limit || b->bits == 0) return;
    limit = limit * 8 / b->bits;
    if (b->bits < 8) limit /= 2;                        /* so that two indices fit, see below */
    for (d = b->ndim - 1; d > 0 && inner <= limit / b->shape[d]; d--) inner *= b->shape[d];
    if (b->bits < 8 && inner % 2 && b->shape[d] % 2) return;
    b->split = d;
    b->step = limit / inner;
    if (b->bits < 8) b->step *= 2;                      /* an even number: every box ends with a byte */
    if (b->step > b->shape[d]) b->step = b->shape[d];
    b->largest = b->step * inner * b->bits / 8;
    b->is_whole = 0;
}

/* To the first box, then to the next; 0 behind the last. */
static int boxes_next(boxes *b) {
    int64_t elements = 1;
    int d = b->split;
    if (b->is_done || b->whole_size == 0) return 0;
    if (b->is_whole) {
        memcpy(b->box, b->shape, sizeof b->box);
        b->size = b->whole_size;
        b->is_done = 1;
        return 1;
    }
    if (b->size > 0) {                                  /* not the first: one step on, and carry */
        b->offset[d] += b->step;
        while (d > 0 && b->offset[d] >= b->shape[d]) {
            b->offset[d] = 0;
            b->offset[--d]++;
        }
        if (b->offset[0] >= b->shape[0]) return 0;
    }
    for (d = 0; d < b->ndim; d++) {
        int64_t left = b->shape[d] - b->offset[d];
        b->box[d] = d < b->split ? 1 : d > b->split ? b->shape[d] : left < b->step ? left : b->step;
        elements *= b->box[d];
    }
    b->size = elements * b->bits / 8;
    return 1;
}

/* To the box that holds byte `at` of the run of all boxes; returns where it begins. */
static int64_t boxes_find(boxes *b, int64_t at) {
    int64_t inner = b->bits, row, full, index;
    int d;
    memcpy(b->box, b->shape, sizeof b->box);
    b->size = b->whole_size;
    if (b->is_whole) return 0;
    for (d = b->split + 1; d < b->ndim; d++) inner *= b->shape[d];
    row = b->shape[b->split] * inner / 8;               /* bytes of all boxes in a row */
    full = b->step * inner / 8;                         /* of each but the last of them */
    index = at / row;
    b->offset[b->split] = at % row / full * b->step;
    at = index * row + at % row / full * full;
    for (d = b->split - 1; d >= 0; d--) {
        b->offset[d] = index % b->shape[d];
        b->box[d] = 1;
        index /= b->shape[d];
    }
    if (b->step < b->shape[b->split] - b->offset[b->split]) b->box[b->split] = b->step;
    else b->box[b->split] = b->shape[b->split] - b->offset[b->split];
    b->size = b->box[b->split] * inner / 8;
    return at;
}

static dcp_status boxes_read(const boxes *b, dcp_checkpoint *c, const part *p, void *data, dcp_error *err) {
    dcp_tensor wanted = DCP_ZERO;
    wanted.name = p->info->name;
    wanted.dtype = p->info->dtype;
    wanted.ndim = b->ndim;
    wanted.data = data;
    memcpy(wanted.shape, b->box, sizeof wanted.shape);
    if (!b->is_whole) dcp_piece(&wanted, b->shape, b->offset);
    return p->rank >= 0 ? dcp_read_rank(c, (int)p->rank, &wanted, 1, err) : dcp_read(c, &wanted, 1, err);
}

/* ---- text for people: escaped, in columns ------------------------------------------------------------------------ */
/* The code point at p and its length in bytes; -1 and 1 for a byte that is not UTF-8. */
static int32_t utf8_at(const unsigned char *p, int *length) {
    static const int32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    int n = *p < 0x80 ? 1 : *p >= 0xF0 && *p < 0xF8 ? 4 : *p >= 0xE0 && *p < 0xF0 ? 3 : *p >= 0xC0 && *p < 0xE0 ? 2 : 0,
            i;
    int32_t code = n == 1 ? *p : n > 1 ? *p & (0x7F >> n) : -1;
    *length = 1;
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) return -1;           /* a NUL is none either, so nothing behind the end is read */
        code = code << 6 | (p[i] & 0x3F);
    }
    if (n == 0 || code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return -1;
    *length = n;
    return code;
}

/* Whether a terminal could take it for more than a character: control characters, and those that turn the writing
 * direction. */
static int is_unsafe(int32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/* Writes text, escaped, and returns its width in characters; file NULL: only the width. */
static int escape_text(FILE *file, const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    int width = 0, length, i;
    for (; *p; p += length) {
        int32_t code = utf8_at(p, &length);
        if (!is_unsafe(code)) {
            width++;
            if (file) fwrite(p, 1, (size_t)length, file);
        } else if (code == '\n' || code == '\t') {
            width += 2;
            if (file) fputs(code == '\n' ? "\\n" : "\\t", file);
        } else {
            for (i = 0; i < length; i++, width += 4) if (file) fprintf(file, "\\x%02x", p[i]);
        }
    }
    return width;
}

/* A newline that ends the text is one of ours; all others come out escaped. */
static void put_text(FILE *file, const char *text) {
    size_t length = strlen(text);
    char *line = (char *)need(malloc(length + 1));
    memcpy(line, text, length + 1);
    if (length > 0 && line[length - 1] == '\n') line[length - 1] = '\0';
    escape_text(file, line);
    if (length > 0 && text[length - 1] == '\n') fputc('\n', file);
    free(line);
}

static const char *paint(const tool *t, const char *sequence) { return t->has_colour ? sequence : ""; }

static void table_add(table *t, const char *format, ...) {
    va_list arguments;
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 64;
        if (t->capacity > SIZE_MAX / 2 / sizeof *t->cells) need(NULL);
        t->cells = (char **)need(realloc(t->cells, t->capacity * sizeof *t->cells));
    }
    va_start(arguments, format);
    t->cells[t->count++] = format_text(format, arguments);
    va_end(arguments);
}

/* Prints the rows in aligned columns, and frees them. */
static void table_print(table *t) {
    int width[16] = {0}, column;
    size_t i;
    for (i = 0; i < t->count; i++) {
        int cell = escape_text(NULL, t->cells[i]);
        column = (int)(i % (size_t)t->columns);
        if (cell > width[column]) width[column] = cell;
    }
    for (i = 0; i < t->count; i++) {
        int is_last;
        column = (int)(i % (size_t)t->columns);
        is_last = column + 1 == t->columns;
        if (t->align[column] == 'r') printf("%*s", width[column] - escape_text(NULL, t->cells[i]), "");
        escape_text(stdout, t->cells[i]);
        if (t->align[column] == 'l' && !is_last) printf("%*s", width[column] - escape_text(NULL, t->cells[i]), "");
        fputs(is_last ? "\n" : "  ", stdout);
        free(t->cells[i]);
    }
    free(t->cells);
}

/* ---- JSON: one object, written as it comes ----------------------------------------------------------------------- */
static void json_string(const char *text) {
    const unsigned char *p = (const unsigned char *)text;
    int length;
    putchar('"');
    for (; *p; p += length) {
        int32_t code = utf8_at(p, &length);
        if (code < 0) fputs("\\ufffd", stdout);         /* JSON is UTF-8, a path may be anything */
        else if (code == '"' || code == '\\') printf("\\%c", (char)code);
        else if (code < 0x10000 && is_unsafe(code)) printf("\\u%04x", (unsigned)code);
        else fwrite(p, 1, (size_t)length, stdout);
    }
    putchar('"');
}

static void json_item(json_state *j, const char *key) {
    if (j->has_items) putchar(',');
    if (j->depth) printf("\n%*s", 2 * j->depth, "");
    j->has_items = 1;
    if (!key) return;
    json_string(key);
    fputs(": ", stdout);
}

static void json_open(json_state *j, const char *key, char bracket) {
    json_item(j, key);
    putchar(bracket);
    j->depth++;
    j->has_items = 0;
}

static void json_close(json_state *j, char bracket) {
    j->depth--;
    if (j->has_items) printf("\n%*s", 2 * j->depth, "");
    putchar(bracket);
    if (j->depth == 0) putchar('\n');
    j->has_items = 1;
}

static void json_text(json_state *j, const char *key, const char *text) {
    json_item(j, key);
    if (text) json_string(text);
    else fputs("null", stdout);
}

static void json_raw(json_state *j, const char *key, const char *value) {
    json_item(j, key);
    fputs(value, stdout);
}

/* An object of a document: what a terminal may take for an order is in strings there, and escaped. */
static void json_free_form(json_state *j, const char *key, const char *value) {
    const unsigned char *p = (const unsigned char *)(value ? value : "{}");
    int length;
    json_item(j, key);
    for (; *p; p += length) {
        int32_t code = utf8_at(p, &length);
        if (code >= 0x7F && is_unsafe(code)) printf("\\u%04x", (unsigned)code);
        else fwrite(p, 1, (size_t)length, stdout);
    }
}

static void json_number(json_state *j, const char *key, int64_t number) {
    json_item(j, key);
    printf("%" PRId64, number);
}

static void json_double(json_state *j, const char *key, double number) {
    char text[32];
    json_raw(j, key, double_text(number, text));
}

static void json_flag(json_state *j, const char *key, int flag) { json_raw(j, key, flag ? "true" : "false"); }

static void json_shape(json_state *j, const char *key, int ndim, const int64_t *shape) {
    char text[192];
    json_raw(j, key, shape_text(ndim, shape, text));
}

static void json_error(json_state *j, dcp_status status, const char *message) {
    json_open(j, "error", '{');
    json_text(j, "status", dcp_status_name(status));
    json_text(j, "message", message);
    json_close(j, '}');
}

static void json_begin(tool *t) {
    json_open(&t->json, NULL, '{');
    json_text(&t->json, "command", t->command->name);
}

/* ---- progress: a bar on a terminal, else a line now and then ----------------------------------------------------- */
static void progress_clear(tool *t) {
    if (!t->progress.is_drawn) return;
    fputs("\r\x1b[K", stderr);
    fflush(stderr);
    t->progress.is_drawn = 0;
}

static void on_progress(void *user, const dcp_progress *p) {
    static const char full[] = "####################", empty[] = "....................";
    tool *t = (tool *)user;
    const progress_state *whole = &t->progress;
    double total = whole->total ? (double)whole->total : (double)p->bytes_total;
    double done = whole->total ? (double)whole->done + (double)p->bytes_done : (double)p->bytes_done;
    double share = total > 0 && done < total ? done / total : total > 0 ? 1 : 0;
    char done_text[32], total_text[32], speed_text[32];
    int marks = (int)(share * 20);
    if (whole->mode == SHOW_NOTHING || total <= 0) return;
    bytes_text(done < total ? done : total, done_text);
    bytes_text(total, total_text);
    bytes_text(p->bytes_per_second, speed_text);
    if (whole->mode == SHOW_BAR) {
        fprintf(stderr, "\r%s [%.*s%.*s] %3.0f%%  %s of %s, %s/s\x1b[K", whole->what, marks, full, 20 - marks, empty,
                share * 100, done_text, total_text, speed_text);
        fflush(stderr);
        t->progress.is_drawn = 1;
    } else if (time(NULL) - whole->last_line >= 10) {
        fprintf(stderr, "dcptool %s: %.0f%%, %s of %s, %s/s\n", whole->what, share * 100, done_text, total_text,
                speed_text);
        t->progress.last_line = time(NULL);
    }
}

/* ---- what differs between systems -------------------------------------------------------------------------------- */
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <shellapi.h>

struct thread { HANDLE handle; void (*body)(void *); void *argument; };
struct lock { CRITICAL_SECTION section; };

static unsigned __stdcall thread_main(void *argument) {
    thread *t = (thread *)argument;
    t->body(t->argument);
    return 0;
}
static thread *thread_start(void (*body)(void *), void *argument) {
    thread *t = (thread *)need(calloc(1, sizeof *t));
    t->body = body;
    t->argument = argument;
    t->handle = (HANDLE)_beginthreadex(NULL, 0, thread_main, t, 0, NULL);
    if (t->handle) return t;
    free(t);
    return NULL;
}
static void thread_join(thread *t) {
    (void)WaitForSingleObject(t->handle, INFINITE);
    (void)CloseHandle(t->handle);
    free(t);
}
static lock *lock_new(void) {
    lock *l = (lock *)need(calloc(1, sizeof *l));
    InitializeCriticalSection(&l->section);
    return l;
}
static void lock_take(lock *l) { EnterCriticalSection(&l->section); }
static void lock_give(lock *l) { LeaveCriticalSection(&l->section); }
static void lock_free(lock *l) {
    DeleteCriticalSection(&l->section);
    free(l);
}

static wchar_t *to_wide(const char *text) {
    int length = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = (wchar_t *)need(calloc((size_t)length + 1, sizeof *wide));
    MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, length);
    return wide;
}

static enum path_kind path_kind(const char *path) {
    wchar_t *wide = to_wide(path);
    DWORD attributes = GetFileAttributesW(wide);
    free(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) return PATH_NONE;
    return (attributes & FILE_ATTRIBUTE_DIRECTORY) ? PATH_DIRECTORY : PATH_FILE;
}

static int is_separator(char c) { return c == '/' || c == '\\' || c == ':'; }
static int is_terminal(int descriptor) { return _isatty(descriptor) != 0; }
static void binary_stdout(void) { (void)_setmode(1, _O_BINARY); }
static unsigned process_id(void) { return (unsigned)_getpid(); }

static FILE *open_for_reading(const char *path) {
    wchar_t *wide = to_wide(path);
    FILE *file = _wfopen(wide, L"rb");
    free(wide);
    return file;
}

/* The arguments in UTF-8, as the library takes paths. */
static char **prepare_process(int *argc, char **argv) {
    int count, i;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **arguments;
    if (!wide) return argv;
    arguments = (char **)need(calloc((size_t)count + 1, sizeof *arguments));
    for (i = 0; i < count; i++) {
        int length = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        arguments[i] = (char *)need(calloc((size_t)length + 1, 1));
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, arguments[i], length, NULL, NULL);
    }
    LocalFree(wide);
    *argc = count;
    return arguments;
}
#else
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

struct thread { pthread_t handle; void (*body)(void *); void *argument; };
struct lock { pthread_mutex_t mutex; };

static void *thread_main(void *argument) {
    thread *t = (thread *)argument;
    t->body(t->argument);
    return NULL;
}
static thread *thread_start(void (*body)(void *), void *argument) {
    thread *t = (thread *)need(calloc(1, sizeof *t));
    t->body = body;
    t->argument = argument;
    if (pthread_create(&t->handle, NULL, thread_main, t) == 0) return t;
    free(t);
    return NULL;
}
static void thread_join(thread *t) {
    (void)pthread_join(t->handle, NULL);
    free(t);
}
static lock *lock_new(void) {
    lock *l = (lock *)need(calloc(1, sizeof *l));
    if (pthread_mutex_init(&l->mutex, NULL) != 0) need(NULL);
    return l;
}
static void lock_take(lock *l) { (void)pthread_mutex_lock(&l->mutex); }
static void lock_give(lock *l) { (void)pthread_mutex_unlock(&l->mutex); }
static void lock_free(lock *l) {
    (void)pthread_mutex_destroy(&l->mutex);
    free(l);
}

static enum path_kind path_kind(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return PATH_NONE;
    return S_ISDIR(info.st_mode) ? PATH_DIRECTORY : S_ISREG(info.st_mode) ? PATH_FILE : PATH_OTHER;
}

static int is_separator(char c) { return c == '/'; }
static int is_terminal(int descriptor) { return isatty(descriptor); }
static void binary_stdout(void) {}
static unsigned process_id(void) { return (unsigned)getpid(); }
static FILE *open_for_reading(const char *path) { return fopen(path, "rb"); }

/* A program started with a standard descriptor closed would get that for a file, and print into it. What stands in
 * fails when used. */
static char **prepare_process(int *argc, char **argv) {
    int descriptor;
    (void)argc;
    for (descriptor = 0; descriptor < 3; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
            exit(CODE_TROUBLE);
    return argv;
}
#endif
