/* convert_windows.c - the device that a conversion saves from: it reads the bytes of the source when they are asked
 * for, and keeps those that it read last. */
#include "convert.h"

/* A box of the part that has byte `at`. */
static dcp_status fill_window(convert_job *v, convert_window *w, const tool_part *part, int64_t at, dcp_error *err) {
    tool_boxes b = tool_boxes_of(part, v->window_size);
    int64_t *counted = &v->counted[part - v->parts], overflows = 0;
    dcp_status status;
    tool_boxes_seek(&b, at);
    w->of = NULL;
    status = tool_buffer_fit(&w->buffer, b.size > v->window_size ? b.size : v->window_size, err);
    if (!status) status = convert_read(v, &b, w->buffer.bytes, &overflows, err);
    if (status) return status;
    if (b.at >= *counted) {                             /* a box may be read again, for a digest or after a failure */
        v->overflows += overflows;
        *counted = b.at + b.size;
    }
    w->of = part;
    w->begins = b.at;
    w->size = b.size;
    return DCP_OK;
}

/* The window that has byte `at` of the part: an existing one, or the least recently used, filled again. */
static dcp_status find_window(convert_job *v, const tool_part *part, int64_t at, convert_window **out, dcp_error *err) {
    convert_window *w, *oldest = v->windows;
    for (w = v->windows; w < v->windows + v->window_count; w++) {
        if (w->of == part && w->begins <= at && at - w->begins < w->size) {
            *out = w;
            return DCP_OK;
        }
        if (w->used < oldest->used) oldest = w;
    }
    *out = oldest;
    return fill_window(v, oldest, part, at, err);
}

static dcp_status copy_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                           uint64_t *ticket, dcp_error *err) {
    convert_job *v = context;
    unsigned char *to = host;
    dcp_status status = DCP_OK;
    dcp_error failed;
    *ticket = 0;
    tool_lock_take(v->busy);
    while (size > 0 && !status) {
        convert_window *w;
        size_t n;
        status = find_window(v, tensor->data, offset, &w, &failed);
        if (status) break;
        w->used = ++v->clock;
        n = (size_t)(w->begins + w->size - offset) < size ? (size_t)(w->begins + w->size - offset) : size;
        memcpy(to, w->buffer.bytes + (offset - w->begins), n);
        to += n;
        offset += (int64_t)n;
        size -= n;
        v->copied += (int64_t)n;
    }
    if (status && !v->failed.status) v->failed = failed;
    tool_lock_give(v->busy);
    return status ? tool_error(err, DCP_E_DEVICE, "%s", failed.message) : DCP_OK;
}

static dcp_status wait(void *context, uint64_t ticket, dcp_error *err) {
    (void)context; (void)ticket; (void)err;
    return DCP_OK;
}

void convert_open_windows(convert_job *v) {
    v->device.context = v;
    v->device.copy_out = copy_out;
    v->device.wait = wait;
    v->busy = tool_lock_new();
    v->window_count = v->world < 4 ? 4 : v->world < CONVERT_WINDOWS ? v->world : CONVERT_WINDOWS;
    v->window_size = v->t->memory / 4 / v->window_count;
}

void convert_close_windows(convert_job *v) {
    int i;
    for (i = 0; i < CONVERT_WINDOWS; i++) free(v->windows[i].buffer.bytes);
    tool_lock_free(v->busy);
}
