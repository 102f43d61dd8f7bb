/* stats.c - dcptool stats: the numbers in tensors. */
#include "stats.h"

static int run(tool_state *t);

const tool_command tool_stats = {
    "stats", run, 1, 2, 0, TOOL_TIER | TOOL_FAIL_ON, "PATH [GLOB]", "show what numbers are in tensors",
    "One line per tensor, or for those whose names match GLOB: the smallest and\n"
    "largest number, mean and standard deviation, how many are NaN, infinite and\n"
    "zero, and a histogram from the smallest to the largest. All of it is of the\n"
    "finite numbers; a complex number is two. Of a tensor that is private to ranks\n"
    "there is a line for each rank. Integers of 64 bits are rounded to doubles.\n"
    "\n"
    "Reads all bytes once, and checks them; holds 64 MiB of them at a time.\n"
    "\n"
    "Exit codes: 0 shown, 1 --fail-on found something, nothing matches, or corrupt,\n"
    "            2 usage, 3 could not look (missing, I/O, newer format)\n"
    "Example:    dcptool stats runs/a/step_100 'layers.*' --fail-on nan,inf\n"
};

typedef struct job {
    tool_state *t;
    dcp_checkpoint *c;
    tool_pieces pieces;
    tool_table lines;
    stats_reader *reader;
    int64_t shown, bytes, nans, infinities;
} job;

static dcp_status look_at(job *j, const dcp_tensor_info *info, dcp_error *err);
static int report(job *j);

static int run(tool_state *t) {
    static const tool_column columns[] = {
        { "NAME", 'm', 0 }, { "TYPE", 'l', 6 }, { "MIN", 'r', 3 }, { "MAX", 'r', 2 }, { "MEAN", 'r', 4 },
        { "STD", 'r', 5 }, { "NAN", 'r', 0 }, { "INF", 'r', 0 }, { "ZEROS", 'r', 7 }, { "HISTOGRAM", 'l', 1 }
    };
    const char *glob = t->operand_count > 1 ? t->operands[1] : NULL;
    dcp_status status = DCP_OK;
    job j = DCP_ZERO;
    dcp_error err;
    size_t i;
    int code = tool_open(t, t->operands[0], &j.c);
    if (code) return code;
    j.t = t;
    j.lines = tool_table_begin(t, columns, sizeof columns / sizeof columns[0]);
    j.pieces = tool_pieces_of(j.c);
    j.reader = stats_reader_open(t, j.c);
    tool_json_begin(t);
    tool_json_text(t, "path", dcp_checkpoint_path(j.c));
    tool_json_open(t, "tensors", '[');
    for (i = 0; i < dcp_checkpoint_tensor_count(j.c) && !status; i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(j.c, i);
        if (!glob || tool_glob_matches(glob, info->name)) status = look_at(&j, info, &err);
    }
    tool_json_close(t, ']');
    tool_table_end(&j.lines);
    code = status ? tool_fail(t, &err) : report(&j);
    tool_json_end(t);
    if (!status && glob && j.shown == 0) tool_note(t, "no tensor of %s matches '%s'", dcp_checkpoint_path(j.c), glob);
    stats_reader_close(j.reader);
    dcp_close(j.c);
    return code;
}

/* ---- what is shown ----------------------------------------------------------------------------------------------- */
static const char *blocks_text(const int64_t counts[STATS_COLUMNS], char text[4 * STATS_COLUMNS]) {
    int64_t most = 1;
    char *out = text;
    int i, last = 0;
    for (i = 0; i < STATS_COLUMNS; i++) if (counts[i]) last = i;
    for (i = 0; i < STATS_COLUMNS; i++) if (counts[i] > most) most = counts[i];
    for (i = 0; i <= last; i++) {
        const int height = (int)((double)counts[i] * 7 / (double)most + 0.5);
        if (counts[i]) out += snprintf(out, 4, "\xe2\x96%c", (char)(0x81 + height));       /* U+2581 to U+2588 */
        else *out++ = ' ';
    }
    *out = '\0';
    return text;
}

static void add_bad(job *j, int64_t count) {
    if (count) tool_table_add(&j->lines, "%" PRId64, count);
    else tool_table_add(&j->lines, "%s", "");
    tool_table_paint(&j->lines, TOOL_RED);
}

static void show_numbers(job *j, const stats_sums *s, int64_t numbers) {
    char blocks[4 * STATS_COLUMNS];
    int64_t counts[STATS_COLUMNS];
    stats_histogram(s, counts, STATS_COLUMNS);
    if (s->count) {
        tool_table_add(&j->lines, "%.4g", s->minimum);
        tool_table_add(&j->lines, "%.4g", s->maximum);
        tool_table_add(&j->lines, "%.4g", s->mean);
        tool_table_add(&j->lines, "%.4g", stats_deviation(s));
    } else {
        int i;
        for (i = 0; i < 4; i++) tool_table_add(&j->lines, "%s", "");
    }
    add_bad(j, s->nans);
    add_bad(j, s->infinities);
    if (s->zeros) tool_table_add(&j->lines, "%.3g%%", 100 * (double)s->zeros / (double)numbers);
    else tool_table_add(&j->lines, "%s", "");
    tool_table_add(&j->lines, "%s", s->count ? blocks_text(counts, blocks) : "");
}

static void json_numbers(tool_state *t, const stats_sums *s) {
    int64_t counts[STATS_COLUMNS];
    int i;
    tool_json_number(t, "finite", s->count);
    tool_json_number(t, "nan", s->nans);
    tool_json_number(t, "inf", s->infinities);
    tool_json_number(t, "zeros", s->zeros);
    if (s->count == 0) return;
    stats_histogram(s, counts, STATS_COLUMNS);
    tool_json_double(t, "minimum", s->minimum);
    tool_json_double(t, "maximum", s->maximum);
    tool_json_double(t, "mean", s->mean);
    tool_json_double(t, "standard_deviation", stats_deviation(s));
    tool_json_open(t, "histogram", '[');
    for (i = 0; i < STATS_COLUMNS; i++) tool_json_number(t, NULL, counts[i]);
    tool_json_close(t, ']');
}

static dcp_status show_part(job *j, const tool_part *part, dcp_error *err) {
    tool_state *t = j->t;
    stats_sums sums = DCP_ZERO;
    dcp_status status = DCP_OK;
    if (part->info->dtype != DCP_OPAQUE) status = stats_read(j->reader, part, &sums, err);
    if (status) return status;
    tool_json_open(t, NULL, '{');
    tool_json_text(t, "name", part->info->name);
    if (part->rank >= 0) tool_json_number(t, "rank", part->rank);
    tool_json_text(t, "dtype", tool_dtype_text(part->info));
    tool_json_shape(t, "shape", part->ndim, part->shape);
    json_numbers(t, &sums);
    tool_json_close(t, '}');
    if (part->rank >= 0) tool_table_add(&j->lines, "%s, rank %" PRId64, part->info->name, part->rank);
    else tool_table_add(&j->lines, "%s", part->info->name);
    tool_table_add(&j->lines, "%s", tool_dtype_text(part->info));
    show_numbers(j, &sums, sums.count + sums.nans + sums.infinities);
    j->bytes += part->size;
    j->nans += sums.nans;
    j->infinities += sums.infinities;
    return DCP_OK;
}

static dcp_status look_at(job *j, const dcp_tensor_info *info, dcp_error *err) {
    const tool_pieces pieces = tool_pieces_named(j->pieces, info->name);
    const tool_part whole = tool_part_whole(info);
    dcp_status status = DCP_OK;
    size_t i;
    j->shown++;
    if (info->placement != DCP_PLACE_PRIVATE || pieces.count < 2) return show_part(j, &whole, err);
    for (i = 0; i < pieces.count && !status; i++) {
        const tool_part part = tool_part_of_rank(&pieces.items[i]);
        status = show_part(j, &part, err);
    }
    return status;
}

static int report(job *j) {
    tool_state *t = j->t;
    char size[TOOL_NUMBER];
    tool_json_number(t, "nan", j->nans);
    tool_json_number(t, "inf", j->infinities);
    if (j->shown)
        tool_print_total(t, "%" PRId64 " tensor%s, %s, %" PRId64 " NaN, %" PRId64 " infinite\n", j->shown,
                         tool_plural(j->shown), tool_size_text(t, j->bytes, size), j->nans, j->infinities);
    if ((t->fail_on & TOOL_FAIL_NAN) && j->nans) return TOOL_NO;
    if ((t->fail_on & TOOL_FAIL_INF) && j->infinities) return TOOL_NO;
    return j->shown || t->operand_count < 2 ? TOOL_FINE : TOOL_NO;
}
