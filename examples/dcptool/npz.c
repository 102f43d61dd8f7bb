/* npz.c - dcptool convert, to and from numpy's .npz (and from .npy). */
#include "convert.h"
#include "npy.h"
#include "zip.h"
#include <errno.h>

/* ---- to .npz: each tensor whole, as the entry NAME.npy ----------------------------------------------------------- */
static dcp_status write_tensor(convert_job *v, zip_writer *w, const tool_piece *p, tool_buffer *buffer,
                               dcp_error *err) {
    tool_part part = tool_part_whole(p->info);
    const char *name = v->edits[p->order].name;
    const dcp_dtype dtype = v->edits[p->order].dtype;
    const size_t length = strlen(name) + 5;
    char header[NPY_HEADER], *entry = tool_new(length, 1);
    const size_t header_size = npy_make_header(header, dtype, p->info->ndim, p->info->shape);
    tool_boxes b;
    int64_t overflows;
    dcp_status status;
    tool_part_cast(&part, dtype);
    b = tool_boxes_of(&part, TOOL_CHUNK);
    status = tool_buffer_fit(buffer, b.largest, err);
    if (!header_size)
        return tool_error(err, DCP_E_UNSUPPORTED, "tensor \"%s\" is %s, a type that numpy does not have: --cast fp32 "
                          "converts bf16, --drop leaves it out", p->info->name, tool_dtype_text(p->info));
    snprintf(entry, length, "%s.npy", name);
    zip_begin(w, entry, part.size + (int64_t)header_size);
    if (!status) status = zip_write(w, header, header_size);
    while (!status && tool_boxes_next(&b)) {
        status = convert_read(v, &b, buffer->bytes, &overflows, err);
        if (status) return status;
        v->overflows += overflows;
        npy_little_endian(dtype, buffer->bytes, b.size);
        status = zip_write(w, buffer->bytes, (size_t)b.size);
        v->t->progress.done += b.size;
    }
    zip_end(w);
    v->bytes += part.size;
    return status;
}

static int is_private(const tool_piece *p) {
    return p->info->placement == DCP_PLACE_PRIVATE && p->info->piece_count > 1;
}

int npz_write(convert_job *v) {
    const char *path = v->t->operands[1];
    const dcp_tensor_info *before = NULL;
    zip_writer w = DCP_ZERO;
    tool_buffer buffer = DCP_ZERO;
    dcp_error err = DCP_ZERO;
    dcp_status status = DCP_OK;
    size_t i;
    int code = tool_check_output(v->t, path);
    if (code) return code;
    w.sink = tool_sink_open(path, v->bytes);
    v->t->progress.total = v->bytes;
    v->bytes = 0;
    for (i = 0; i < v->pieces.count && !status; i++) {
        const tool_piece *p = &v->pieces.items[i];
        if (p->info == before) continue;
        before = p->info;
        if (is_private(p))
            status = tool_error(&err, DCP_E_INVALID, "tensor \"%s\" is private to %d ranks: --drop leaves it out, and "
                                "extract --rank N writes that of one", before->name, before->piece_count);
        else status = write_tensor(v, &w, p, &buffer, &err);
    }
    if (!status) status = zip_close(&w);
    status = tool_sink_close(w.sink, status, (v->t->options & TOOL_FORCE) != 0, &err);
    v->t->progress.total = 0;
    free(buffer.bytes);
    snprintf(v->report.path, sizeof v->report.path, "%s", path);
    return status ? tool_fail(v->t, &err) : TOOL_FINE;
}

/* ---- from .npz: entries are mapped where they lie; what is deflated, or has the bytes of numbers the other way
 * around, is unpacked into a file beside the target first ---------------------------------------------------------- */
typedef struct array {
    const char *name;
    const zip_entry *entry;
    npy_header head;
    unsigned char *start;                               /* of the entry, up to the end of the array's head */
    int64_t start_size, at;                             /* in the file beside; -1: it stays where it is */
} array;
typedef struct unpacking {
    array *a;
    FILE *beside;
    int64_t *size;                                      /* of the file beside */
    unsigned char held[16];                             /* of a number that goes on in the next call */
    size_t held_size;
    unsigned char *swapped;
} unpacking;

enum { HEAD_MOST = (1 << 20) + 12, SWAPPED = 1 << 16 };

static int is_suffix(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length > size && strcmp(text + length - size, end) == 0;
}

int npz_is_source(const char *path) {
    return (is_suffix(path, ".npz") || is_suffix(path, ".npy")) && tool_kind_of(path) == TOOL_FILE;
}

static dcp_status put_beside(unpacking *u, const unsigned char *bytes, size_t size, dcp_error *err) {
    if (size > 0 && fwrite(bytes, 1, size, u->beside) != size)
        return tool_error(err, DCP_E_SPACE, "%s: cannot unpack it beside the target", u->a->name);
    *u->size += (int64_t)size;
    return DCP_OK;
}

/* The numbers of the array, in the machine's order of bytes. */
static dcp_status put_numbers(unpacking *u, const unsigned char *bytes, size_t size, dcp_error *err) {
    const size_t width = (size_t)dcp_dtype_bits(u->a->head.dtype) / 8;
    dcp_status status = DCP_OK;
    if (!u->a->head.is_swapped) return put_beside(u, bytes, size, err);
    while (size > 0 && !status) {
        size_t room = SWAPPED - u->held_size, n = size < room ? size : room, whole;
        memcpy(u->swapped, u->held, u->held_size);
        memcpy(u->swapped + u->held_size, bytes, n);
        n += u->held_size;
        whole = n / width * width;
        npy_swap(u->a->head.dtype, u->swapped, (int64_t)whole);
        status = put_beside(u, u->swapped, whole, err);
        bytes += n - u->held_size;
        size -= n - u->held_size;
        u->held_size = n - whole;
        memcpy(u->held, u->swapped + whole, u->held_size);
    }
    return status;
}

/* zip_put: keeps the head, and gives the rest to put_numbers where it has to be unpacked. */
static dcp_status take_bytes(void *user, const unsigned char *bytes, size_t size, dcp_error *err) {
    unpacking *u = user;
    array *a = u->a;
    dcp_status status = DCP_OK;
    while (size > 0 && !a->head.data_at && !status) {
        const int64_t need = a->start_size < 12 ? 12 : npy_header_size(a->start);
        const size_t left = need > a->start_size ? (size_t)(need - a->start_size) : 0, n = size < left ? size : left;
        if (need > HEAD_MOST) return tool_error(err, DCP_E_FORMAT, "%s is no .npy file of version 1, 2 or 3", a->name);
        memcpy(a->start + a->start_size, bytes, n);
        a->start_size += (int64_t)n;
        bytes += n;
        size -= n;
        if (a->start_size < 12 || a->start_size < npy_header_size(a->start)) continue;
        status = npy_parse(a->name, a->start, a->start_size, &a->head, err);
        if (!status && a->head.data_size != a->entry->size - a->head.data_at)           /* before it fills a disk */
            return tool_error(err, DCP_E_FORMAT, "%s has %" PRId64 " bytes of numbers, and its head says %" PRId64,
                              a->name, a->entry->size - a->head.data_at, a->head.data_size);
        if (!status && !a->entry->is_deflated && !a->head.is_swapped) a->at = -1;
    }
    if (tool_interrupted.requested) return tool_error(err, DCP_E_CANCELLED, "interrupted");
    return status || a->at < 0 ? status : put_numbers(u, bytes, size, err);
}

/* Checks the entry's CRC-32, and finds out what is in it. */
static dcp_status take_array(const char *path, array *a, FILE *beside, int64_t *beside_size, dcp_error *err) {
    unpacking u = DCP_ZERO;
    unsigned char zeros[64] = {0};
    dcp_status status;
    u.a = a;
    u.beside = beside;
    u.size = beside_size;
    u.swapped = tool_need(malloc(SWAPPED));
    a->start = tool_need(malloc(HEAD_MOST));
    status = put_beside(&u, zeros, (size_t)(-*beside_size & 63), err);
    a->at = *beside_size;
    if (!status) status = zip_unpack(a->entry, take_bytes, &u, err);
    if (!status && !a->head.data_at) status = tool_error(err, DCP_E_FORMAT, "%s is no .npy file", a->name);
    if (status == DCP_E_FORMAT)
        (void)tool_error(err, status, "%s: %s", path, tool_text_of(err->message, strlen(err->message)));
    free(u.swapped);
    free(a->start);
    return status;
}

static dcp_tensor tensor_of(const array *a, const unsigned char *beside) {
    const npy_header *h = &a->head;
    const unsigned char *data = h->data_size == 0 ? NULL : a->at < 0 ? a->entry->bytes + h->data_at : beside + a->at;
    dcp_tensor tensor = dcp_array(a->name, h->dtype, data, h->ndim, h->shape);
    int d;
    for (d = 0; h->is_fortran && h->ndim > 1 && h->data_size && d < h->ndim; d++)       /* columns first */
        tensor.stride[d] = d == 0 ? 1 : tensor.stride[d - 1] * h->shape[d - 1];
    return tensor;
}

/* The arrays of a file; of a .npy the one, named after the file. */
static dcp_status list_arrays(tool_state *t, const char *path, zip_file *z, dcp_error *err) {
    int64_t size = 0;
    const unsigned char *bytes = tool_map(path, &size, err);
    size_t i, n = 0;
    dcp_status status;
    if (!bytes) return err->status;
    if (is_suffix(path, ".npy")) {
        z->entries = tool_new(1, sizeof *z->entries);
        z->count = 1;
        z->entries->name = tool_base_name(path);
        z->entries->bytes = bytes;
        z->entries->packed = z->entries->size = size;
        return DCP_OK;
    }
    status = zip_list(bytes, size, z, err);
    if (status) return tool_error(err, status, "%s: %s", path, tool_text_of(err->message, strlen(err->message)));
    for (i = 0; i < z->count; i++) {
        if (is_suffix(z->entries[i].name, ".npy")) z->entries[n++] = z->entries[i];
        else tool_note(t, "warning: %s of %s is no array: left out", z->entries[i].name, path);
    }
    z->count = n;
    return DCP_OK;
}

static dcp_status take_arrays(convert_job *v, const char *path, FILE *beside, int64_t *size, array *arrays,
                              const zip_file *z, dcp_error *err) {
    dcp_status status = DCP_OK;
    size_t i;
    for (i = 0; i < z->count && !status; i++) {
        array *a = &arrays[i];
        a->entry = &z->entries[i];
        a->name = tool_text_of(a->entry->name, strlen(a->entry->name) - 4);
        status = take_array(path, a, beside, size, err);
        if (!status) v->bytes += a->head.data_size;
    }
    return status ? status : fflush(beside) ? tool_error(err, DCP_E_SPACE, "cannot unpack %s", path) : DCP_OK;
}

/* In the target's directory, or the nearest above it that is there. */
static FILE *open_beside(const tool_state *t, char **path, dcp_error *err) {
    const char *target = t->operands[1];
    size_t length = strlen(target), size = length + 40;
    FILE *file;
    *path = tool_new(size, 1);
    while (length > 0 && !(tool_is_separator(target[length - 1]) &&
                           tool_kind_of(tool_text_of(target, length)) == TOOL_DIRECTORY)) length--;
    snprintf(*path, size, "%.*sdcptool-%u.tmp", (int)length, target, tool_process_id());
    file = tool_open_for_writing(*path);
    if (!file) (void)tool_error(err, DCP_E_IO, "cannot write %s: %s", *path, strerror(errno));
    return file;
}

/* What npz_read left for the save. */
void npz_close(convert_job *v) {
    if (v->unpacked) tool_unmap(v->unpacked, v->unpacked_size);
    if (v->beside) tool_remove(v->beside);
}

/* Makes v->tensors, as if a rank had them in memory. */
int npz_read(convert_job *v) {
    const char *path = v->t->operands[0];
    zip_file z = DCP_ZERO;
    int64_t size = 0;
    array *arrays;
    FILE *beside;
    dcp_error err = DCP_ZERO;
    dcp_status status = list_arrays(v->t, path, &z, &err);
    size_t i;
    if (status) return tool_fail(v->t, &err);
    beside = open_beside(v->t, &v->beside, &err);
    if (!beside) return tool_fail(v->t, &err);
    arrays = tool_new(z.count + 1, sizeof *arrays);
    status = take_arrays(v, path, beside, &size, arrays, &z, &err);
    if (fclose(beside) && !status) status = tool_error(&err, DCP_E_SPACE, "cannot write %s", v->beside);
    if (!status && size > 0 && !(v->unpacked = tool_map(v->beside, &v->unpacked_size, &err))) status = err.status;
    if (status) return tool_fail(v->t, &err);
    v->tensors = tool_new(z.count + 1, sizeof *v->tensors);
    for (i = 0; i < z.count; i++) v->tensors[i] = tensor_of(&arrays[i], v->unpacked);
    v->first = tool_new(2, sizeof *v->first);
    v->first[1] = z.count;
    v->world = 1;
    return TOOL_FINE;
}
