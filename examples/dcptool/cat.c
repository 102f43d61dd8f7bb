/* cat.c - dcptool cat: the numbers of a tensor, as text. */
#include "dcptool.h"
#include <float.h>
#include <math.h>

static int run(tool_state *t);

const tool_command tool_cat = {
    "cat", run, 2, 2, 0, TOOL_RANK | TOOL_SLICE, "PATH NAME", "print the numbers of a tensor",
    "Each row is a line, with an empty line between matrices; of a tensor with one\n"
    "dimension each number is a line, as with numpy.savetxt. Numbers have as many\n"
    "digits as it takes to read them back. --json prints nested lists: a complex\n"
    "number is a list of two, and what JSON has no number for is a string.\n"
    "\n"
    "--slice 0:10,5 prints a part, and reads no more than it needs: for each\n"
    "dimension start:stop or an index, which counts from the end if negative.\n"
    "Dimensions that it does not name are printed whole.\n"
    "\n"
    "Exit codes: 0 printed, 1 no such tensor or corrupt, 2 usage,\n"
    "            3 could not read\n"
    "Example:    dcptool cat runs/a/step_100 layers.0.wq --slice 0:2,-3:\n"
};

enum { BLOCK = 1024 };

typedef struct printing {
    tool_state *t;
    tool_part part;
    tool_decoder decoder;
    int each;                                           /* numbers of an element */
    int64_t at;                                         /* elements printed */
} printing;

/* ---- one number -------------------------------------------------------------------------------------------------- */
/* The shortest text that reads back as the same number. */
static void number_text(dcp_dtype dtype, double value, char text[TOOL_NUMBER]) {
    const int is_double = dtype == DCP_FP64 || dtype == DCP_COMPLEX128;
    int digits, last = is_double ? 17 : 9;
    if (value != value || fabs(value) > DBL_MAX) {
        snprintf(text, TOOL_NUMBER, "%s", value != value ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    for (digits = is_double ? 15 : 6; digits <= last; digits++) {
        double back;
        snprintf(text, TOOL_NUMBER, "%.*g", digits, value);
        back = strtod(text, NULL);
        if (!is_double) back = (double)(float)back;
        if (!(back < value) && !(back > value)) return;
    }
}

/* Number i of the block; integers of 64 bits do not fit into doubles. */
static void block_text(dcp_dtype dtype, const unsigned char *data, const double *numbers, int64_t from, int64_t i,
                       char text[TOOL_NUMBER]) {
    uint64_t whole;
    switch (dtype) {
    case DCP_INT64: case DCP_UINT64:
        memcpy(&whole, data + 8 * (from + i), 8);
        if (dtype == DCP_UINT64) snprintf(text, TOOL_NUMBER, "%" PRIu64, whole);
        else snprintf(text, TOOL_NUMBER, "%" PRId64, (int64_t)whole);
        return;
    case DCP_INT32: case DCP_UINT32: snprintf(text, TOOL_NUMBER, "%.0f", numbers[i]); return;
    default: number_text(dtype, numbers[i], text);
    }
}

static void print_element(const printing *p, char first[TOOL_NUMBER], char second[TOOL_NUMBER]) {
    if (p->each == 1) fputs(first, stdout);
    else printf("%s%s%sj", first, strchr("-", second[0]) ? "" : "+", second);
}

static void json_number(tool_state *t, const char *key, const char *text) {
    if (strpbrk(text, "ni")) tool_json_text(t, key, text);
    else tool_json_raw(t, key, text);
}

static void json_element(const printing *p, const char *first, const char *second) {
    const char *key = p->part.shown_ndim == 0 ? "values" : NULL;
    if (p->each == 1) {
        json_number(p->t, key, first);
        return;
    }
    tool_json_open(p->t, key, '[');
    json_number(p->t, NULL, first);
    json_number(p->t, NULL, second);
    tool_json_close(p->t, ']');
}

/* ---- rows and lists ---------------------------------------------------------------------------------------------- */
/* How many of the last dimensions begin with element `at`, or, for at + 1, end with it. */
static int edges(const tool_part *p, int64_t at) {
    int64_t row = 1;
    int d, count = 0;
    for (d = p->shown_ndim - 1; d >= 0; d--, count++) {
        row *= p->shown[d];
        if (at % row) break;
    }
    return count;
}

static void print_one(printing *p, char first[TOOL_NUMBER], char second[TOOL_NUMBER]) {
    const tool_part *part = &p->part;
    const int before = edges(part, p->at), after = edges(part, ++p->at);
    int i;
    const int64_t last = part->shown_ndim ? part->shown[part->shown_ndim - 1] : 1;
    if (p->t->options & TOOL_JSON) {
        for (i = 0; i < before; i++) tool_json_open(p->t, p->at == 1 && i == 0 ? "values" : NULL, '[');
        json_element(p, first, second);
        for (i = 0; i < after; i++) tool_json_close(p->t, ']');
        return;
    }
    if (part->shown_ndim > 2 && before > 1 && p->at > 1) putchar('\n');
    print_element(p, first, second);
    putchar(part->shown_ndim < 2 || p->at % last == 0 ? '\n' : ' ');
}

/* A box of the part. Ends early where the reader had enough. */
static dcp_status print_box(printing *p, const unsigned char *data, int64_t count, dcp_error *err) {
    const dcp_dtype dtype = p->part.info->dtype;
    char first[TOOL_NUMBER], second[TOOL_NUMBER];
    double numbers[BLOCK];
    int64_t at, i, n;
    for (at = 0; at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        if (tool_interrupted.requested) return tool_error(err, DCP_E_CANCELLED, "interrupted");
        if (ferror(stdout)) return DCP_OK;
        tool_numbers(&p->decoder, data, at, n, numbers);
        for (i = 0; i < n; i += p->each) {
            block_text(dtype, data, numbers, at, i, first);
            if (p->each == 2) block_text(dtype, data, numbers, at, i + 1, second);
            print_one(p, first, second);
        }
    }
    return DCP_OK;
}

static dcp_status print_all(printing *p, dcp_checkpoint *c, dcp_error *err) {
    tool_boxes b = tool_boxes_of(&p->part, TOOL_CHUNK);
    tool_buffer buffer = DCP_ZERO;
    dcp_status status = tool_buffer_fit(&buffer, b.largest, err);
    int64_t left = p->each;
    int d;
    for (d = 0; d < p->part.ndim; d++) left *= p->part.shape[d];
    while (!status && !ferror(stdout) && tool_boxes_next(&b)) {
        const int64_t held = tool_numbers_in(p->part.info->dtype, b.size), count = held < left ? held : left;
        status = tool_boxes_read(&b, c, buffer.bytes, err);
        if (!status) status = print_box(p, buffer.bytes, count, err);
        left -= count;
    }
    free(buffer.bytes);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */
static void json_head(tool_state *t, const dcp_checkpoint *c, const tool_part *p) {
    tool_json_begin(t);
    tool_json_text(t, "path", dcp_checkpoint_path(c));
    tool_json_text(t, "tensor", p->info->name);
    tool_json_text(t, "dtype", tool_dtype_text(p->info));
    tool_json_shape(t, "shape", p->shown_ndim, p->shown);
    if (p->size > 0) return;
    tool_json_open(t, "values", '[');                   /* no element will do so */
    tool_json_close(t, ']');
}

static int run(tool_state *t) {
    dcp_checkpoint *c;
    printing p = DCP_ZERO;
    dcp_error err;
    int code = tool_open(t, t->operands[0], &c);
    p.t = t;
    t->progress.width = 0;
    if (!code) code = tool_part_chosen(t, c, t->operands[1], &p.part);
    if (!code && p.part.info->dtype == DCP_OPAQUE)
        code = tool_trouble(t, DCP_E_INVALID, "tensor \"%s\" is of type %s, which this version does not know; extract "
                            "--raw writes its bytes", p.part.info->name, p.part.info->dtype_name);
    if (!code) {
        p.decoder = tool_decoder_of(p.part.info->dtype);
        p.each = tool_numbers_each(p.part.info->dtype);
        json_head(t, c, &p.part);
        if (print_all(&p, c, &err)) {
            while (t->json_depth > 1) tool_json_close(t, ']');
            code = tool_part_failed(t, &p.part, &err);
        }
        tool_json_end(t);
    }
    dcp_close(c);
    return code;
}
