/* extract.c - dcptool extract: one tensor, as a file. */
#include "npy.h"

static int run(tool_state *t);

const tool_command tool_extract = {
    "extract", run, 2, 2, 0, TOOL_OUTPUT | TOOL_RAW | TOOL_NPY | TOOL_RANK | TOOL_SLICE | TOOL_FORCE,
    "PATH NAME", "write one tensor to a file",
    "Writes tensor NAME as .npy (numpy.load reads it), or with --raw only its bytes,\n"
    "row-major and little-endian. Without -o the file is named after the tensor, in\n"
    "the current directory. It appears whole or not at all, and replaces nothing\n"
    "without --force. What goes to standard output with -o - may end early; then the\n"
    "exit code says so.\n"
    "\n"
    "--slice 0:10,5 writes a part, and reads no more than it needs: for each\n"
    "dimension start:stop or an index, which counts from the end if negative and\n"
    "drops its dimension, as in numpy. Those that it does not name are whole.\n"
    "\n"
    "Exit codes: 0 written, 1 no such tensor or corrupt,\n"
    "            2 usage, or .npy has no such type, 3 could not read or write\n"
    "Example:    dcptool extract runs/a/step_100 layers.0.wq -o wq.npy\n"
};

typedef struct extraction {
    dcp_checkpoint *c;
    tool_part part;
    char output[600];
    char header[NPY_HEADER];                            /* 0 bytes with --raw */
    size_t header_size;
} extraction;

static int make_header(tool_state *t, extraction *e);
static int choose_output(tool_state *t, extraction *e);
static dcp_status copy_part(tool_state *t, const extraction *e, tool_sink *s, dcp_error *err);
static void report(tool_state *t, const extraction *e);

static int run(tool_state *t) {
    const int to_stdout = t->output && strcmp(t->output, "-") == 0;
    extraction e = DCP_ZERO;
    tool_sink *s;
    dcp_error err;
    dcp_status status;
    int code;
    if ((t->options & TOOL_RAW) && (t->options & TOOL_NPY))
        return tool_usage(t->command, "--raw and --npy exclude each other");
    if (to_stdout && (t->options & TOOL_JSON))
        return tool_usage(t->command, "--json and -o - both write to standard output");
    if (to_stdout && tool_is_terminal(1))
        return tool_usage(t->command, "standard output is a terminal; redirect it or give -o FILE");
    code = tool_open(t, t->operands[0], &e.c);
    if (!code) code = tool_part_chosen(t, e.c, t->operands[1], &e.part);
    if (!code && !(t->options & TOOL_RAW)) code = make_header(t, &e);
    if (!code) code = choose_output(t, &e);
    if (!code) {
        s = tool_sink_open(e.output, e.part.size + (int64_t)e.header_size);
        status = copy_part(t, &e, s, &err);
        status = tool_sink_close(s, status, (t->options & TOOL_FORCE) != 0, &err);
        if (status) code = tool_part_failed(t, &e.part, &err);
        else if (!to_stdout) report(t, &e);
    }
    dcp_close(e.c);
    return code;
}

/* ---- the header -------------------------------------------------------------------------------------------------- */
static int make_header(tool_state *t, extraction *e) {
    const dcp_tensor_info *info = e->part.info;
    e->header_size = npy_make_header(e->header, info->dtype, e->part.shown_ndim, e->part.shown);
    if (e->header_size) return TOOL_FINE;
    return tool_trouble(t, DCP_E_INVALID, "tensor \"%s\" of %s is %s, a type that .npy does not have; --raw writes its "
                        "bytes", info->name, dcp_checkpoint_path(e->c), tool_dtype_text(info));
}

/* The tensor's name as the name of a file; not hidden, and not like an option. Letters of all languages stay. */
static void name_output(extraction *e, const char *extension) {
    const unsigned char *p = (const unsigned char *)e->part.info->name;
    char *out = e->output;
    int length;
    for (; *p && out < e->output + 200; p += length) {
        const int32_t code = tool_utf8_at(p, &length);
        int is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (out > e->output && (*p == '.' || *p == '-')) is_plain = 1;
        if (code >= 0xA0 && !tool_is_unsafe(code)) is_plain = 1;
        memcpy(out, is_plain ? (const char *)p : "_", is_plain ? (size_t)length : 1);
        out += is_plain ? length : 1;
    }
    if (e->part.rank >= 0) out += snprintf(out, 32, ".rank%" PRId64, e->part.rank);
    snprintf(out, 8, "%s", extension);
}

static int choose_output(tool_state *t, extraction *e) {
    if (t->output && strlen(t->output) >= sizeof e->output)
        return tool_trouble(t, DCP_E_INVALID, "the path of the output is too long");
    if (t->output) snprintf(e->output, sizeof e->output, "%s", t->output);
    else name_output(e, (t->options & TOOL_RAW) ? ".bin" : ".npy");
    return tool_check_output(t, e->output);
}

/* ---- the bytes --------------------------------------------------------------------------------------------------- */
static dcp_status copy_part(tool_state *t, const extraction *e, tool_sink *s, dcp_error *err) {
    tool_boxes b = tool_boxes_of(&e->part, TOOL_CHUNK);
    tool_buffer buffer = DCP_ZERO;
    dcp_status status = tool_sink_write(s, e->header, e->header_size);
    if (!status) status = tool_buffer_fit(&buffer, b.largest, err);
    t->progress.total = e->part.size;
    while (!status && tool_boxes_next(&b)) {
        t->progress.done = b.at;
        status = tool_boxes_read(&b, e->c, buffer.bytes, err);
        if (status) break;
        npy_little_endian(e->part.info->dtype, buffer.bytes, b.size);
        status = tool_sink_write(s, buffer.bytes, (size_t)b.size);
    }
    t->progress.total = 0;
    free(buffer.bytes);
    return status;
}

static void report(tool_state *t, const extraction *e) {
    const tool_part *p = &e->part;
    const int64_t bytes = p->size + (int64_t)e->header_size;
    char shape[TOOL_SHAPE], size[TOOL_NUMBER];
    tool_json_begin(t);
    tool_json_text(t, "path", dcp_checkpoint_path(e->c));
    tool_json_text(t, "tensor", p->info->name);
    tool_json_text(t, "dtype", tool_dtype_text(p->info));
    tool_json_shape(t, "shape", p->shown_ndim, p->shown);
    tool_json_text(t, "file", e->output);
    tool_json_text(t, "format", (t->options & TOOL_RAW) ? "raw" : "npy");
    tool_json_count(t, "data_offset", e->header_size);
    tool_json_number(t, "bytes", bytes);
    tool_json_end(t);
    if (t->options & TOOL_JSON) return;
    tool_note(t, "wrote %s: \"%s\", %s %s, %s", e->output, p->info->name, tool_dtype_text(p->info),
              tool_shape_text(p->shown_ndim, p->shown, shape), tool_size_text(t, bytes, size));
}
