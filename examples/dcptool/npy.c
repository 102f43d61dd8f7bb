/* npy.c - the head of a .npy file. */
#include "npy.h"

static const struct { dcp_dtype dtype; const char *type; } types[] = {
    { DCP_FP16, "f2" }, { DCP_FP32, "f4" }, { DCP_FP64, "f8" }, { DCP_INT8, "i1" }, { DCP_INT16, "i2" },
    { DCP_INT32, "i4" }, { DCP_INT64, "i8" }, { DCP_UINT8, "u1" }, { DCP_UINT16, "u2" }, { DCP_UINT32, "u4" },
    { DCP_UINT64, "u8" }, { DCP_BOOL, "b1" }, { DCP_COMPLEX64, "c8" }, { DCP_COMPLEX128, "c16" }
};
enum { TYPES = sizeof types / sizeof types[0] };        /* numpy has no bf16, fp8, or types of 4 bits */

size_t npy_make_header(char header[NPY_HEADER], dcp_dtype dtype, int ndim, const int64_t *shape) {
    char text[TOOL_SHAPE];
    size_t length, size;
    int i;
    for (i = 0; i < TYPES && types[i].dtype != dtype;) i++;
    if (i == TYPES) return 0;
    tool_shape_text(ndim, shape, text);                 /* in brackets */
    memset(header, ' ', NPY_HEADER);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    length = 10 + (size_t)snprintf(header + 10, NPY_HEADER - 10,
                                   "{'descr': '%c%s', 'fortran_order': False, 'shape': (%.*s%s), }",
                                   dcp_dtype_bits(dtype) == 8 ? '|' : '<', types[i].type, (int)strlen(text) - 2,
                                   text + 1, ndim == 1 ? "," : "");
    size = (length + 1 + 63) / 64 * 64;
    header[length] = ' ';
    header[size - 1] = '\n';
    header[8] = (char)((size - 10) & 0xFF);
    header[9] = (char)((size - 10) >> 8);
    return size;
}

/* ---- reading: a dict of Python with the members descr, fortran_order and shape ----------------------------------- */
int64_t npy_header_size(const unsigned char *bytes) {
    if (memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3) return 0;
    if (bytes[6] == 1) return 10 + bytes[8] + bytes[9] * 256;
    return 12 + bytes[8] + bytes[9] * 256 + bytes[10] * 65536 + ((int64_t)bytes[11] << 24);
}

static const char *skip(const char *at) { return at + strspn(at, " \t\n"); }

/* Goes past a text in quotes; NULL: there is none. */
static const char *take_text(const char *at, char *text, size_t size) {
    const char quote = *at;
    const char *end = quote == '\'' || quote == '"' ? strchr(at + 1, quote) : NULL;
    if (!end || (size_t)(end - at) > size) return NULL;
    memcpy(text, at + 1, (size_t)(end - at - 1));
    text[end - at - 1] = '\0';
    return skip(end + 1);
}

static const char *take_shape(const char *at, npy_header *h) {
    if (*at++ != '(') return NULL;
    for (at = skip(at); *at != ')'; at = skip(at)) {
        char *end;
        if (*at < '0' || *at > '9' || h->ndim == DCP_MAX_DIMS) return NULL;
        h->shape[h->ndim] = strtoll(at, &end, 10);
        if (h->shape[h->ndim++] == INT64_MAX) return NULL;
        at = skip(end + (*end == 'L'));
        if (*at == ',') at++;
        else if (*at != ')') return NULL;
    }
    return skip(at + 1);
}

static const char *take_member(const char *at, npy_header *h, char type[16]) {
    char key[32];
    at = take_text(at, key, sizeof key);
    if (!at || *at != ':') return NULL;
    at = skip(at + 1);
    if (strcmp(key, "descr") == 0) return take_text(at, type, 16);
    if (strcmp(key, "shape") == 0) return take_shape(at, h);
    if (strcmp(key, "fortran_order") != 0) return NULL;
    h->is_fortran = strncmp(at, "True", 4) == 0;
    return strncmp(at, "False", 5) == 0 ? skip(at + 5) : h->is_fortran ? skip(at + 4) : NULL;
}

static int take_dict(const char *at, npy_header *h, char type[16]) {
    int members = 0;
    at = skip(at);
    if (*at++ != '{') return 0;
    for (at = skip(at); *at != '}'; members++) {
        at = take_member(at, h, type);
        if (!at) return 0;
        if (*at == ',') at = skip(at + 1);
        else if (*at != '}') return 0;
    }
    return members == 3 && *skip(at + 1) == '\0';
}

static int is_big_endian(void) {
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 0;
}

/* "<f4": the order of the bytes, the kind, the bytes of a number. */
static int take_type(const char *type, npy_header *h) {
    int i;
    for (i = 0; i < TYPES && strcmp(types[i].type, type + 1) != 0;) i++;
    if (!type[0] || !strchr("<>|=", type[0]) || i == TYPES) return 0;
    h->dtype = types[i].dtype;
    h->is_swapped = dcp_dtype_bits(h->dtype) > 8 && ((type[0] == '>' && !is_big_endian()) ||
                                                     (type[0] == '<' && is_big_endian()));
    return 1;
}

/* 0: more than there can be. */
static int count_bytes(npy_header *h) {
    int d;
    h->data_size = dcp_dtype_bits(h->dtype) / 8;
    for (d = 0; d < h->ndim; d++) if (h->shape[d] == 0) return (h->data_size = 0) == 0;
    for (d = 0; d < h->ndim; d++) {
        if (h->data_size > INT64_MAX / h->shape[d]) return 0;
        h->data_size *= h->shape[d];
    }
    return 1;
}

dcp_status npy_parse(const char *name, const unsigned char *bytes, int64_t size, npy_header *out, dcp_error *err) {
    const int64_t begins = size >= 12 && bytes[6] > 1 ? 12 : 10;
    char type[16] = "", *text;
    int is_dict;
    memset(out, 0, sizeof *out);
    out->data_at = size >= 12 ? npy_header_size(bytes) : 0;
    if (out->data_at <= begins || out->data_at > size || out->data_at > 1 << 20)
        return tool_error(err, DCP_E_FORMAT, "%s is no .npy file of version 1, 2 or 3", name);
    text = tool_text_of((const char *)bytes + begins, (size_t)(out->data_at - begins));
    is_dict = take_dict(text, out, type);
    if (is_dict && type[0] && !take_type(type, out))
        return tool_error(err, DCP_E_UNSUPPORTED, "%s is of numpy's type %s, which a checkpoint cannot have", name,
                          type);
    if (!is_dict || !type[0] || !count_bytes(out))
        return tool_error(err, DCP_E_FORMAT, "%s: its head is none of an array of numbers: %.100s", name, text);
    return DCP_OK;
}

/* ---- the order of bytes ------------------------------------------------------------------------------------------ */
void npy_swap(dcp_dtype dtype, unsigned char *data, int64_t size) {
    int width = dcp_dtype_bits(dtype) / 8, i;
    int64_t at;
    if (dtype == DCP_COMPLEX64 || dtype == DCP_COMPLEX128) width /= 2;
    for (at = 0; at < size && width > 1; at += width) {
        for (i = 0; i < width / 2; i++) {
            const unsigned char byte = data[at + i];
            data[at + i] = data[at + width - 1 - i];
            data[at + width - 1 - i] = byte;
        }
    }
}

void npy_little_endian(dcp_dtype dtype, unsigned char *data, int64_t size) {
    if (is_big_endian()) npy_swap(dtype, data, size);
}
