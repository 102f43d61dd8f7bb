/* foreign.c - what a file is that is no checkpoint, for people who gave it to us. */
#include "dcptool.h"

/* A part of a file's first bytes that tells what it is. */
typedef struct mark { int at; const char *bytes; int size; const char *what; } mark;

static const char *kind_of(const unsigned char *head, size_t size) {
    static const mark marks[] = {
        { 0, "\x89HDF\r\n\x1a\n", 8, "an HDF5 file" }, { 0, "CDF", 3, "a NetCDF file" },
        { 0, "PK\x03\x04", 4, "a zip archive, as torch.save and numpy.savez write them" },
        { 0, "\x93NUMPY", 6, "an array of NumPy" }, { 0, "\x80\x02", 2, "a pickle of Python" },
        { 0, "\x80\x04", 2, "a pickle of Python" }, { 8, "{\"", 2, "a safetensors file" },
        { 0, "GGUF", 4, "a GGUF file" }, { 0, "\x1f\x8b", 2, "compressed by gzip" },
        { 0, "\x28\xb5\x2f\xfd", 4, "compressed by zstd" }, { 0, "\x7f" "ELF", 4, "a program" }
    };
    size_t i;
    for (i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const mark *m = &marks[i];
        if ((size_t)(m->at + m->size) <= size && memcmp(head + m->at, m->bytes, (size_t)m->size) == 0) return m->what;
    }
    return NULL;
}

/* `<prefix>_shard_<rank>.bin` or `<prefix>_shard_<rank>.<save id>.bin`: the length of the prefix; 0: another name. */
static size_t shard_prefix(const char *path, const char **rank) {
    const char *name = tool_base_name(path), *found = NULL, *next = name;
    while ((next = strstr(next, "_shard_")) != NULL) found = next, next++;
    if (!found || found == name) return 0;
    *rank = found + strlen("_shard_");
    if (strspn(*rank, "0123456789") == 0 || strlen(path) < 4 || strcmp(path + strlen(path) - 4, ".bin") != 0) return 0;
    return (size_t)(found - path);
}

const char *tool_what_is(const char *path) {
    const size_t room = 2 * strlen(path) + 200;
    unsigned char head[16];
    const char *rank, *what;
    const size_t prefix = shard_prefix(path, &rank);
    char *text;
    size_t size;
    FILE *file;
    if (tool_kind_of(path) != TOOL_FILE || strcmp(tool_stem_text(path), tool_base_name(path)) != 0) return NULL;
    text = tool_new(room, 1);
    if (prefix) {
        snprintf(text, room, "the data of rank %.*s of a checkpoint; its tensors: dcptool ls %.*s",
                 (int)strspn(rank, "0123456789"), rank, (int)prefix, path);
        return text;
    }
    file = tool_open_for_reading(path);
    size = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    what = kind_of(head, size);
    snprintf(text, room, "%s, no checkpoint of dcp.h (.metadata.json, .manifest.json, .manifest.yaml or .checkpoint)",
             what ? what : size ? "a file of another kind" : "an empty file");
    return text;
}
