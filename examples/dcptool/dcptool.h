/* dcptool.h - what the files of dcptool share.
 *
 * dcptool lists, checks, compares, converts, signs and copies checkpoints, extracts tensors and tidies directories.
 * It shows how far the public API goes: all of it is dcp.h, libc, and in system.c a little of the system.
 *
 * Each command is a file that reads from top to bottom: its help, its options, what it does. main.c lists them:
 *     ls.c  info.c  verify.c  cat.c  extract.c  sign.c  sync.c  repair.c  watch.c
 *     directory.c (latest, prune, sweep)
 *     stats.c, with stats_read.c and sums.c; diff.c, with diff_documents.c and values.c
 *     report.c, with report_checkpoint.c, report_against.c, report_directory.c and report_page.c;
 *         what pages are made of: report_style.c, report_body.c, report_script_*.c
 *     convert.c, with convert_manifest.c, convert_members.c, convert_edit.c and convert_windows.c;
 *         npz.c, with zip.c and npy.c
 * They share arguments.c (the command line), help.c (the options, and all that is said of them and of the commands),
 * manual.c (man page, completion), output.c (messages, results, the bar), table.c (listings), json.c, text.c (names and
 * numbers as text), checkpoint.c (opening, pieces, reading in parts), part.c (--rank, --slice), numbers.c (elements as
 * numbers), sink.c (files that are written), foreign.c (files of others), memory.c and system.c. dcp.c is the library.
 *
 * Results go to standard output, messages and progress to standard error. Text from documents and paths is escaped, so
 * that a terminal does not obey it.
 *
 * Build, in this directory: cc -O2 *.c -o dcptool -lm -pthread           Run: ./dcptool help
 */
#ifndef DCPTOOL_H
#define DCPTOOL_H
#include "../../dcp.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef TOOL_CHUNK
#define TOOL_CHUNK ((int64_t)32 * 1024 * 1024)          /* bytes of a tensor in memory at a time; tests make it tiny */
#endif

#ifndef TOOL_BAR_AFTER
#define TOOL_BAR_AFTER 0.5                              /* seconds; tests do not wait */
#endif

#if defined(__MINGW32__) && !defined(__clang__)
#define TOOL_PRINTF(format_at, first_at) __attribute__((format(gnu_printf, format_at, first_at)))
#elif defined(__GNUC__)
#define TOOL_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define TOOL_PRINTF(format_at, first_at)
#endif

/* Exit codes: 1 says that the answer is no (corrupt, different, nothing found), 3 that there is no answer. */
enum { TOOL_FINE, TOOL_NO, TOOL_USAGE, TOOL_TROUBLE };

/* A bit for each option, so that a command can say which it takes. */
#define TOOL_BIT(n) (UINT64_C(1) << (n))
#define TOOL_HELP TOOL_BIT(0)
#define TOOL_QUIET TOOL_BIT(1)
#define TOOL_JSON TOOL_BIT(2)
#define TOOL_BYTES TOOL_BIT(3)
#define TOOL_KEY_FILE TOOL_BIT(4)
#define TOOL_COMMON (TOOL_HELP | TOOL_QUIET | TOOL_JSON | TOOL_BYTES | TOOL_KEY_FILE)      /* of every command */
#define TOOL_VERBOSE TOOL_BIT(5)
#define TOOL_DRY_RUN TOOL_BIT(6)
#define TOOL_FORCE TOOL_BIT(7)
#define TOOL_TIER TOOL_BIT(8)
#define TOOL_MINIMUM_STEP TOOL_BIT(9)
#define TOOL_OUTPUT TOOL_BIT(10)
#define TOOL_RAW TOOL_BIT(11)
#define TOOL_NPY TOOL_BIT(12)
#define TOOL_RANK TOOL_BIT(13)
#define TOOL_KEEP TOOL_BIT(14)
#define TOOL_KEEP_EVERY TOOL_BIT(15)
#define TOOL_GRACE TOOL_BIT(16)
#define TOOL_PLAIN_NAMES TOOL_BIT(17)
#define TOOL_TO TOOL_BIT(18)
#define TOOL_MEMORY TOOL_BIT(19)
#define TOOL_FLAT TOOL_BIT(20)
#define TOOL_ONE_RANK TOOL_BIT(21)
#define TOOL_SIGN_KEY_FILE TOOL_BIT(22)
#define TOOL_KEY_ID TOOL_BIT(23)
#define TOOL_FULL TOOL_BIT(24)
#define TOOL_VERIFY TOOL_BIT(25)
#define TOOL_FAIL_ON TOOL_BIT(26)
#define TOOL_VALUES TOOL_BIT(27)
#define TOOL_RTOL TOOL_BIT(28)
#define TOOL_ATOL TOOL_BIT(29)
#define TOOL_SLICE TOOL_BIT(30)
#define TOOL_COUNT TOOL_BIT(31)
#define TOOL_TIMEOUT TOOL_BIT(32)
#define TOOL_ONLY TOOL_BIT(33)
#define TOOL_DROP TOOL_BIT(34)
#define TOOL_RENAME TOOL_BIT(35)
#define TOOL_CAST TOOL_BIT(36)
#define TOOL_STEP TOOL_BIT(37)
#define TOOL_FROM TOOL_BIT(38)
#define TOOL_AGAINST TOOL_BIT(50)
#define TOOL_STATS TOOL_BIT(51)
#define TOOL_NORMS TOOL_BIT(52)

enum { TOOL_FAIL_NAN = 1, TOOL_FAIL_INF = 2 };

typedef struct tool_option { uint64_t bit; char letter; const char *name, *value, *help; } tool_option;

typedef struct tool_state tool_state;
typedef struct tool_sink tool_sink;

typedef struct tool_command {
    const char *name;
    int (*run)(tool_state *t);
    int least, most;                                    /* operands; most -1: any number */
    uint64_t required, options;                         /* besides TOOL_COMMON */
    const char *operands, *summary, *help;
} tool_command;

typedef struct tool_texts { const char **items; size_t count; } tool_texts;

typedef struct tool_key { unsigned char bytes[4096]; size_t size; } tool_key;

typedef struct tool_progress {
    int width;                                          /* of the terminal; 0: no bar */
    const char *name;                                   /* what is at work now; NULL: the command */
    int64_t done, total;                                /* of a loop around library calls; total 0: the library's own */
    double begun;
    int is_drawn;
} tool_progress;

/* One run of one command. */
struct tool_state {
    const tool_command *command;
    char **operands;
    int operand_count;
    uint64_t options;                                   /* those given; the values of those that have one: */
    const char *output, *key_file, *sign_key_file, *key_id, *slice, *against, *norms;
    const struct tool_target *to;
    int fail_on;                                        /* TOOL_FAIL_ bits */
    double rtol, atol;
    int64_t rank, keep, keep_every, grace_seconds, minimum_step, memory, count, timeout_seconds, step;
    tool_texts tiers, only, drop, rename, cast, from;
    tool_key key, sign_key;
    dcp_verifier hmac;
    const dcp_verifier *verifier;                       /* NULL without --key-file */
    dcp_select select;                                  /* what --tier means */
    dcp_io io;
    int width;                                          /* of the terminal; 0: standard output is none */
    int has_colour, json_depth, json_has_items;
    tool_sink *json_sink;                               /* a page that gets the object; NULL: standard output */
    tool_progress progress;
};

/* main.c */
extern const tool_command *const tool_commands[];       /* NULL ends it */
extern const tool_command tool_ls, tool_info, tool_verify, tool_stats, tool_diff, tool_report, tool_cat, tool_extract,
                          tool_convert, tool_sign, tool_sync, tool_repair, tool_watch, tool_latest, tool_prune,
                          tool_sweep;
extern dcp_cancel tool_interrupted;                     /* global, because a signal handler sets it */

/* arguments.c */
int tool_parse(tool_state *t, int count, char **arguments);

/* convert_edit.c */
int convert_is_rename(const char *text);                /* OLD=NEW */
int convert_is_cast(const char *text);                  /* TYPE, GLOB=TYPE */

/* help.c */
extern const tool_option tool_options[];                /* a name of NULL ends it */
int tool_takes(const tool_command *c, const tool_option *o);
int tool_unknown_option(const tool_command *c, const char *name);
extern const char tool_examples[], tool_exit_codes[];
void tool_print_overview(FILE *file);
void tool_print_help(const tool_command *c);
int tool_usage(const tool_command *c, const char *format, ...) TOOL_PRINTF(2, 3);  /* c NULL: no command is known yet */

/* manual.c */
void tool_print_manual(void);
void tool_print_completion(void);

/* output.c: results are silent with --json, notes with --quiet */
void tool_print(tool_state *t, const char *format, ...) TOOL_PRINTF(2, 3);
void tool_note(tool_state *t, const char *format, ...) TOOL_PRINTF(2, 3);
void tool_say(const tool_command *c, const char *text); /* to standard error, a line: "dcptool verify: ..." */
int tool_code_of(dcp_status status);
int tool_fail(tool_state *t, const dcp_error *err);     /* reports it; returns the exit code */
int tool_trouble(tool_state *t, dcp_status status, const char *format, ...) TOOL_PRINTF(3, 4);
dcp_status tool_error(dcp_error *err, dcp_status status, const char *format, ...) TOOL_PRINTF(3, 4);
int32_t tool_utf8_at(const unsigned char *p, int *length);
int tool_is_unsafe(int32_t code_point);

#define TOOL_RED "\x1b[31m"
#define TOOL_GREEN "\x1b[32m"
#define TOOL_YELLOW "\x1b[33m"
#define TOOL_BOLD "\x1b[1m"
#define TOOL_PLAIN "\x1b[0m"
const char *tool_paint(const tool_state *t, const char *colour);        /* "" where there are no colours */
void tool_print_marked(tool_state *t, const char *colour, const char *mark, const char *format, ...)
    TOOL_PRINTF(4, 5);                                  /* a line that begins with a coloured word */
void tool_print_total(tool_state *t, const char *format, ...) TOOL_PRINTF(2, 3);        /* silent with --quiet too */

char *tool_format(const char *format, va_list arguments);               /* in new memory */
char *tool_escape(const char *text, size_t size);       /* likewise */
int tool_columns(const char *text);                     /* that it takes on a terminal, escaped */
const char *tool_cut(const char *text, int columns);    /* where the text has gone through that many */
/* Breaks lines at spaces before `width` (0: never); `column` characters are already on the line. */
void tool_put_wrapped(FILE *file, int column, int indent, int width, const char *text);

/* table.c */
typedef struct tool_column {
    const char *title;
    char kind;              /* l left, r right, m left and shortened in the middle, n left or below its row */
    int spare;                                          /* where there is no room, the highest goes first; 0 stays */
} tool_column;
typedef struct tool_cell { char *text; const char *colour; size_t column; } tool_cell;
typedef struct tool_table {
    tool_state *t;
    const tool_column *columns;
    size_t column_count, next;
    tool_cell *cells;
    size_t count, capacity;
} tool_table;
enum { TOOL_COLUMNS = 16 };
tool_table tool_table_begin(tool_state *t, const tool_column *columns, size_t count);
void tool_table_add(tool_table *table, const char *format, ...) TOOL_PRINTF(2, 3);
void tool_table_add_size(tool_table *table, int64_t bytes);
void tool_table_paint(tool_table *table, const char *colour);           /* the cell that was added last */
void tool_table_add_line(tool_table *table, const char *format, ...) TOOL_PRINTF(2, 3); /* below the last row */
void tool_table_end(tool_table *table);                 /* prints it in columns */

void tool_on_progress(void *user, const dcp_progress *p);
void tool_progress_clear(tool_state *t);

/* json.c: one object, written as it comes; all silent without --json, but for a page */
void tool_json_begin(tool_state *t);
void tool_json_end(tool_state *t);
void tool_json_open(tool_state *t, const char *key, char bracket);      /* key NULL: an item of an array */
void tool_json_close(tool_state *t, char bracket);
void tool_json_text(tool_state *t, const char *key, const char *text);  /* NULL: null */
void tool_json_number(tool_state *t, const char *key, int64_t number);
void tool_json_optional(tool_state *t, const char *key, int64_t number);        /* negative: null */
void tool_json_count(tool_state *t, const char *key, size_t count);
void tool_json_double(tool_state *t, const char *key, double number);
void tool_json_flag(tool_state *t, const char *key, int flag);
void tool_json_raw(tool_state *t, const char *key, const char *value);
void tool_json_object(tool_state *t, const char *key, const char *value);       /* as a document has it; NULL: {} */
void tool_json_shape(tool_state *t, const char *key, int ndim, const int64_t *shape);

/* text.c */
enum { TOOL_SHAPE = 192, TOOL_NUMBER = 32 };            /* characters */
const char *tool_dtype_text(const dcp_tensor_info *info);
const char *tool_placement_name(dcp_placement placement);
const char *tool_role_name(dcp_role role);
const char *tool_layout_name(dcp_layout layout);
char *tool_shape_text(int ndim, const int64_t *shape, char text[TOOL_SHAPE]);
char *tool_double_text(double value, char text[TOOL_NUMBER]);
char *tool_bytes_text(double bytes, char text[TOOL_NUMBER]);            /* 2.1 GiB, 80 bytes */
char *tool_size_text(const tool_state *t, int64_t bytes, char text[TOOL_NUMBER]);      /* exact with --bytes */
int64_t tool_time_of(const char *timestamp);            /* seconds since 1970; -1: it is none */
char *tool_age_text(const char *timestamp, char text[TOOL_NUMBER]);     /* "" where the time is not known */
char *tool_digest_text(const tool_state *t, const char *checksum, char text[TOOL_SHAPE]);       /* all of it with -v */
int tool_is_commit_name(const char *name);
char *tool_stem_text(const char *path);                 /* the name of a checkpoint, without directory and extension */
const char *tool_plural(int64_t count);
const char *tool_or(const char *text, const char *otherwise);           /* text, unless it is NULL */
typedef struct tool_target { const char *name; dcp_layout layout; int is_yaml, is_npz; } tool_target;
const tool_target *tool_target_named(const char *name);                /* as --to takes it; NULL: unknown */
int tool_glob_matches(const char *glob, const char *text);
const char *tool_base_name(const char *path);
const char *tool_without_path(const char *message, const char *path);

const char *tool_in_our_words(const char *message);     /* with names of options for those of the library */

/* foreign.c */
const char *tool_what_is(const char *path);             /* of a file that has no name of a checkpoint's; else NULL */

/* numbers.c */
typedef struct tool_decoder { dcp_dtype dtype; double table[256]; } tool_decoder;
tool_decoder tool_decoder_of(dcp_dtype dtype);
int tool_numbers_each(dcp_dtype dtype);                 /* of an element */
int64_t tool_numbers_in(dcp_dtype dtype, int64_t bytes);
void tool_numbers(const tool_decoder *d, const unsigned char *data, int64_t at, int64_t count, double *out);

/* memory.c */
void *tool_new(size_t count, size_t size);              /* zeroed; lives until the command ends; never NULL */
char *tool_text_of(const char *text, size_t length);    /* likewise */
void *tool_need(void *memory);                          /* ends the program where it is NULL */
void tool_free_all(void);
typedef struct tool_buffer { unsigned char *bytes; int64_t capacity; } tool_buffer;
dcp_status tool_buffer_fit(tool_buffer *b, int64_t size, dcp_error *err);       /* loses what is in it */

/* sink.c */
int tool_check_output(tool_state *t, const char *path); /* that it can be written, and replaces nothing unasked */
tool_sink *tool_sink_open(const char *path, int64_t size_hint);         /* "-": standard output; a failure is kept */
dcp_status tool_sink_write(tool_sink *s, const void *data, size_t size);        /* the first failure so far */
int64_t tool_sink_size(const tool_sink *s);             /* bytes that it was given */
/* With a status other than DCP_OK nothing appears. Sets err if one of the sink's own calls failed. */
dcp_status tool_sink_close(tool_sink *s, dcp_status status, int replace, dcp_error *err);

/* checkpoint.c */
int tool_read_keys(tool_state *t);
dcp_open_desc tool_opening(const tool_state *t, const char *path);
int tool_open_with(tool_state *t, const dcp_open_desc *desc, dcp_checkpoint **out);
int tool_open(tool_state *t, const char *path, dcp_checkpoint **out);
int tool_need_directory(tool_state *t, const char *path);
size_t tool_tier_of(const dcp_manifest *m, const char *hint);           /* an index; the count: none */
const dcp_training *tool_training_of(const dcp_checkpoint *c);          /* NULL: it says nothing */

typedef struct tool_piece {
    const dcp_tensor_info *info;                        /* NULL: --tier left it out */
    const dcp_tensor_metadata *meta;
    const dcp_shard_metadata *shard;
    const dcp_manifest_shard *file;                     /* of a manifest, else NULL */
    size_t order;                                       /* in the document */
} tool_piece;
typedef struct tool_pieces { tool_piece *items; size_t count; } tool_pieces;    /* by name, offset and rank */
tool_pieces tool_pieces_of(const dcp_checkpoint *c);
tool_pieces tool_pieces_named(tool_pieces all, const char *name);

/* What can be read as one array: a tensor, a box of one, or what one rank stored of a private one. */
typedef struct tool_part {
    const dcp_tensor_info *info;
    dcp_dtype dtype;                                    /* as it is read: the tensor's, unless it is cast */
    int64_t rank;                                       /* -1: not of one rank */
    int ndim;
    const int64_t *shape, *offset, *whole;              /* it begins at offset of an array of shape whole */
    int shown_ndim;                                     /* without the dimensions that a slice took an index of */
    const int64_t *shown;
    int64_t size;
} tool_part;
tool_part tool_part_whole(const dcp_tensor_info *info);
tool_part tool_part_of_rank(const tool_piece *piece);
tool_part tool_part_of_piece(const tool_piece *piece);
void tool_part_cast(tool_part *part, dcp_dtype dtype);  /* among those that the library converts */
/* ls.c */
const char *tool_state_text(const tool_state *t, dcp_status status);    /* of a checkpoint: complete, corrupt, ... */
void tool_json_checkpoint(tool_state *t, const dcp_list_entry *e);

/* part.c: what of a tensor the options ask for; what reading it failed with, and a hint */
int tool_part_chosen(tool_state *t, const dcp_checkpoint *c, const char *name, tool_part *part);
int tool_part_failed(tool_state *t, const tool_part *part, const dcp_error *err);

/* A part cut into boxes of at most `limit` bytes, each a run of bytes in row-major order. */
typedef struct tool_boxes {
    const tool_part *part;
    int bits, split, is_whole;              /* a box has one index of each dimension before split, `step` of that one */
    int64_t step, offset[DCP_MAX_DIMS], shape[DCP_MAX_DIMS];
    int64_t largest, at, size;                          /* bytes: of the largest box; where this one begins; of it */
} tool_boxes;
tool_boxes tool_boxes_of(const tool_part *part, int64_t limit);
int tool_boxes_next(tool_boxes *b);                     /* 0: that was the last */
void tool_boxes_seek(tool_boxes *b, int64_t at);        /* to the box that holds byte `at` of the part */
dcp_status tool_boxes_read(const tool_boxes *b, dcp_checkpoint *c, void *data, dcp_error *err);

/* values.c: places are counted in numbers */
typedef struct tool_values {
    int64_t count, different, first;
    double absolute, relative;                          /* the largest differences */
    int64_t absolute_at, relative_at;
} tool_values;
dcp_status tool_compare_values(tool_state *t, dcp_checkpoint *a, tool_buffer *x, dcp_checkpoint *b, tool_buffer *y,
                               const tool_part *p, tool_values *v, dcp_error *err);
char *tool_place_text(const tool_part *p, int64_t number, char text[TOOL_SHAPE]);

/* system.c */
enum tool_kind { TOOL_NONE, TOOL_FILE, TOOL_DIRECTORY, TOOL_OTHER };
enum tool_kind tool_kind_of(const char *path);
int tool_is_separator(char c);
int tool_is_terminal(int descriptor);
int tool_terminal_width(int descriptor);                /* 0: it is no terminal */
int tool_reader_is_gone(int descriptor);                /* of a pipe */
double tool_seconds(void);
void tool_sleep(double seconds);                        /* less if a signal comes */
int tool_processors(void);
void tool_binary_stdout(void);
unsigned tool_process_id(void);
FILE *tool_open_for_reading(const char *path);
FILE *tool_open_for_writing(const char *path);          /* a new file */
void tool_remove(const char *path);
/* A file's bytes, until tool_unmap; NULL, and err says why. */
const unsigned char *tool_map(const char *path, int64_t *size, dcp_error *err);
void tool_unmap(const unsigned char *bytes, int64_t size);
char **tool_prepare_process(int *argc, char **argv);
typedef struct tool_thread tool_thread;
tool_thread *tool_thread_start(void (*body)(void *), void *argument);   /* NULL: the system has no more */
void tool_thread_join(tool_thread *thread);
typedef struct tool_lock tool_lock;
tool_lock *tool_lock_new(void);
void tool_lock_take(tool_lock *lock);
void tool_lock_give(tool_lock *lock);
void tool_lock_free(tool_lock *lock);
#endif
