/* custom_storage.c - a storage of your own, opened by its name: it scrambles all bytes on their way to disk.
 *
 * Shows the table of functions, a provider, and the easiest way to keep the contract of dcp_storage (threads,
 * nothing visible before commit, exclusive publishing, errors): stand on a storage that keeps it, change one
 * thing. XOR hides nothing; a real cipher would take its place. Does not show a storage from the ground up.
 *
 * Build: cc -O2 custom_storage.c -I.. -lm -pthread    Run: ./a.out [directory]
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef dcp_status (*each_fn)(void *user, const char *path, const dcp_object_info *info);
static dcp_storage *in(void *c) { return (dcp_storage *)c; }   /* our context: the storage below */
static void scramble(char *out, const char *bytes, int64_t at, size_t size) {
    for (size_t i = 0; i < size; i++) out[i] = (char)(bytes[i] ^ "open sesame"[((uint64_t)at + i) % 11]);
}
static dcp_status write_at(void *c, void *o, int64_t at, const void *data, size_t size, dcp_error *err) {
    char part[16384];                                                  /* the caller's stay as they are */
    dcp_status status = DCP_OK;
    for (size_t done = 0, n; done < size && status == DCP_OK; done += n) {
        n = size - done < sizeof part ? size - done : sizeof part;
        scramble(part, (const char *)data + done, at + (int64_t)done, n);
        status = in(c)->write(in(c)->context, o, at + (int64_t)done, part, n, err);
    }
    return status;
}
static dcp_status read_at(void *c, void *o, int64_t at, void *data, size_t size, dcp_error *err) {
    dcp_status status = in(c)->read(in(c)->context, o, at, data, size, err);
    if (status == DCP_OK) scramble((char *)data, (const char *)data, at, size);
    return status;
}
/* The rest is the disk's business; map stays NULL, since the pages of the file are not the plain bytes. */
static dcp_status begin(void *c, const char *path, const char *temp, int64_t hint, void **o, dcp_error *err) {
    return in(c)->begin(in(c)->context, path, temp, hint, o, err);
}
static dcp_status commit(void *c, void *o, int replace, dcp_error *err) {
    return in(c)->commit(in(c)->context, o, replace, err);
}
static void abandon(void *c, void *o) { in(c)->abort(in(c)->context, o); }
static dcp_status open_it(void *c, const char *path, void **o, dcp_object_info *info, dcp_error *err) {
    return in(c)->open(in(c)->context, path, o, info, err);
}
static void close_it(void *c, void *o) { in(c)->close(in(c)->context, o); }
static dcp_status look(void *c, const char *path, dcp_object_info *info, dcp_error *err) {
    return in(c)->stat(in(c)->context, path, info, err);
}
static dcp_status list(void *c, const char *directory, each_fn each, void *user, dcp_error *err) {
    return in(c)->list(in(c)->context, directory, each, user, err);
}
static dcp_status folders(void *c, const char *directory, each_fn each, void *user, dcp_error *err) {
    return in(c)->list_directories(in(c)->context, directory, each, user, err);
}
static dcp_status links(void *c, const char *directory, each_fn each, void *user, dcp_error *err) {
    return in(c)->list_links(in(c)->context, directory, each, user, err);
}
static dcp_status drop(void *c, const char *p, dcp_error *e) { return in(c)->remove(in(c)->context, p, e); }
static dcp_status sync_names(void *c, const char *directory, dcp_error *err) {
    return in(c)->sync_directory(in(c)->context, directory, err);
}
static dcp_status lock(void *c, const char *p, uint64_t *holder, char *note, void **out, dcp_error *e) {
    return in(c)->lock(in(c)->context, p, holder, note, out, e);
}
static dcp_status lock_note(void *c, void *o, const char *note, dcp_error *e) {
    return in(c)->lock_note(in(c)->context, o, note, e);
}
static void unlock(void *c, void *o) { in(c)->unlock(in(c)->context, o); }
static void destroy(void *c) { dcp_storage_close(in(c)); }

static dcp_status open_scrambled(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    dcp_storage_options local = *options;               /* our settings are those of `local` */
    local.provider = "local";
    dcp_status status = dcp_storage_open(&local, out, err);
    if (status != DCP_OK) return status;
    const dcp_storage table = {*out, (*out)->flags, begin, write_at, commit, abandon, open_it, read_at, NULL,
                               close_it, look, list, drop, sync_names, NULL, destroy, NULL, NULL, NULL, folders, links,
                               lock, lock_note, unlock};
    dcp_storage *mine = (dcp_storage *)malloc(sizeof *mine);            /* dcp_storage_close frees it */
    if (mine) *mine = table; else dcp_storage_close(*out);
    if (!mine && err) { err->status = DCP_E_MEMORY; strcpy(err->message, "out of memory"); }
    *out = mine;
    return mine ? DCP_OK : DCP_E_MEMORY;
}

int main(int argc, char **argv) {
    double secret = 42.125, back = 0;
    dcp_tensor mine = dcp_scalar("secret", DCP_FP64, &secret), wanted = dcp_scalar("secret", DCP_FP64, &back);
    const dcp_field base = {"basePath", argc > 1 ? argv[1] : "."};
    const dcp_storage_options options = {"Scrambled", &base, 1};        /* case does not matter */
    dcp_save_desc save = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_error err;
    void *raw = NULL; size_t size = 0;
    save.path = load.path = "custom_storage";                      /* with a storage, a path is its key */
    save.io.log = load.io.log = dcp_log_stderr;
    save.tensors = &mine, load.tensors = &wanted, save.tensor_count = load.tensor_count = 1;
    save.overwrite = 1;
    dcp_status status = dcp_storage_register("scrambled", open_scrambled, &err);
    if (status == DCP_OK) status = dcp_storage_open(&options, &save.io.storage, &err);
    dcp_storage *s = load.io.storage = save.io.storage;
    if (status == DCP_OK) status = dcp_save(&save, &err);
    if (status == DCP_OK) status = dcp_load(&load, &err);
    if (status == DCP_OK) status = dcp_storage_read_all(in(s->context), "custom_storage.metadata.json",
                                                        &raw, &size, &err);
    int same = status == DCP_OK && back == secret && memcmp(raw, "{", 1) != 0;
    dcp_free(raw);
    dcp_storage_close(s);
    if (!same) return fprintf(stderr, "%s\n", err.message), 1;
    printf("proved: saved and loaded through a storage of our own; on disk all bytes are scrambled\n");
    return 0;
}
