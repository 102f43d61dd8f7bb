/* sink.c - where results go that are a file: standard output, or an object of the library's storage, which writes under
 * a temporary name, publishes it whole, durably and without replacing, and leaves nothing when it fails. */
#include "dcptool.h"
#include <errno.h>

enum { HELD = 1 << 16 };                                /* bytes that are written at once */

struct tool_sink {
    dcp_storage *storage;                               /* NULL: standard output */
    void *object;
    int64_t at;
    dcp_error err;                                      /* the first */
    size_t held;
    unsigned char bytes[HELD];
};

int tool_check_output(tool_state *t, const char *path) {
    const enum tool_kind kind = tool_kind_of(path);
    if (strcmp(path, "-") == 0) return TOOL_FINE;
    if (kind == TOOL_DIRECTORY || kind == TOOL_OTHER)
        return tool_trouble(t, DCP_E_INVALID, "%s is not a regular file%s", path,
                            (t->command->options & TOOL_OUTPUT) ? "; -o - writes to standard output" : "");
    if (kind == TOOL_FILE && !(t->options & TOOL_FORCE))
        return tool_trouble(t, DCP_E_EXISTS, "%s already exists; --force replaces it", path);
    return TOOL_FINE;
}

static dcp_status begin(tool_sink *s, const char *path, int64_t size_hint) {
    const char *name = tool_base_name(path);
    char *directory = tool_text_of(path, (size_t)(name - path)), *temporary = tool_new(strlen(name) + 64, 1);
    dcp_status status;
    int attempt;
    if (directory[0] == '\0') directory = tool_text_of(".", 1);
    if (tool_kind_of(directory) != TOOL_DIRECTORY)      /* the storage would create it; a typing error should not */
        return tool_error(&s->err, DCP_E_NOT_FOUND, "there is no directory %s for %s", directory, name);
    status = dcp_storage_local(directory, &s->storage, &s->err);
    for (attempt = 0; !status && !s->object; attempt++) {
        const dcp_begin_request request = { name, temporary, size_hint };
        snprintf(temporary, strlen(name) + 64, "%s.dcptool-%u-%d.tmp", name, tool_process_id(), attempt);
        status = s->storage->begin(s->storage->context, &request, &s->object, &s->err);
        if (status) s->object = NULL;
        if (status == DCP_E_EXISTS && attempt < 9) status = DCP_OK;     /* left by one that was killed */
    }
    return status;
}

tool_sink *tool_sink_open(const char *path, int64_t size_hint) {
    tool_sink *s = tool_new(1, sizeof *s);
    if (strcmp(path, "-") == 0) tool_binary_stdout();
    else s->err.status = begin(s, path, size_hint);
    return s;
}

static dcp_status put(tool_sink *s, const void *data, size_t size) {
    if (size == 0) return DCP_OK;
    if (s->storage) s->err.status = s->storage->write(s->storage->context, s->object, s->at, data, size, &s->err);
    else if (fwrite(data, 1, size, stdout) != size)
        tool_error(&s->err, DCP_E_IO, "cannot write to standard output: %s", strerror(errno));
    s->at += (int64_t)size;
    return s->err.status;
}

static dcp_status flush(tool_sink *s) {
    const size_t size = s->held;
    s->held = 0;
    return put(s, s->bytes, size);
}

dcp_status tool_sink_write(tool_sink *s, const void *data, size_t size) {
    if (s->err.status) return s->err.status;
    if (size > HELD - s->held && flush(s)) return s->err.status;
    if (size > HELD) return put(s, data, size);
    memcpy(s->bytes + s->held, data, size);
    s->held += size;
    return DCP_OK;
}

int64_t tool_sink_size(const tool_sink *s) { return s->at + (int64_t)s->held; }

dcp_status tool_sink_close(tool_sink *s, dcp_status status, int replace, dcp_error *err) {
    const dcp_commit_request request = { replace, NULL };
    if (!status && !s->err.status) (void)flush(s);
    if (!status && !s->err.status && !s->storage && fflush(stdout) != 0)
        tool_error(&s->err, DCP_E_IO, "cannot write to standard output: %s", strerror(errno));
    if (s->err.status) {
        *err = s->err;
        status = s->err.status;
    }
    if (s->object && status) s->storage->abort(s->storage->context, s->object);
    else if (s->object) status = s->storage->commit(s->storage->context, s->object, &request, err);
    dcp_storage_close(s->storage);
    return status;
}
