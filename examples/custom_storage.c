/* custom_storage.c - a storage of your own, opened by its name: it scrambles all bytes on their way to disk.
 *
 * Shows a provider, and the easiest way to keep the contract of dcp_storage (threads, nothing visible before
 * commit, exclusive publishing, locks, errors): take a storage that keeps it, and change what is yours. XOR
 * hides nothing; a real cipher would take its place. Does not show a storage from the ground up.
 *
 * Build: cc -O2 custom_storage.c -I.. -o custom_storage -lm -pthread
 * Run:   ./custom_storage [directory]   (default: checkpoints/scrambled)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dcp_storage plain;               /* what a storage of `local` does; its functions are the same for all */
static void scramble(char *out, const char *bytes, int64_t at, size_t size) {
    for (size_t i = 0; i < size; i++) out[i] = (char)(bytes[i] ^ "open sesame"[((uint64_t)at + i) % 11]);
}
static dcp_status write_at(void *c, void *o, int64_t at, const void *data, size_t size, dcp_error *err) {
    char part[16384];                                                  /* the caller's bytes stay unchanged */
    dcp_status status = DCP_OK;
    for (size_t done = 0, n; done < size && status == DCP_OK; done += n) {
        n = size - done < sizeof part ? size - done : sizeof part;
        scramble(part, (const char *)data + done, at + (int64_t)done, n);
        status = plain.write(c, o, at + (int64_t)done, part, n, err);
    }
    return status;
}
static dcp_status read_at(void *c, void *o, int64_t at, void *data, size_t size, dcp_error *err) {
    dcp_status status = plain.read(c, o, at, data, size, err);
    if (status == DCP_OK) scramble((char *)data, (const char *)data, at, size);
    return status;
}
static dcp_status open_scrambled(const dcp_storage_options *options, dcp_storage **out, dcp_error *err) {
    dcp_storage_options local = *options;               /* our settings are those of `local` */
    local.provider = "local";
    dcp_status status = dcp_storage_open(&local, out, err);
    if (status != DCP_OK) return status;
    plain = **out;
    (*out)->write = write_at;
    (*out)->read = read_at;
    (*out)->map = NULL;                                 /* the pages of the file are not the plain bytes, */
    (*out)->batch = NULL;                               /* nor would what it reads be */
    return DCP_OK;
}

int main(int argc, char **argv) {
    double secret = 42.125, back = 0;
    dcp_tensor mine = dcp_scalar("secret", DCP_FP64, &secret), wanted = dcp_scalar("secret", DCP_FP64, &back);
    const dcp_field base = {"basePath", argc > 1 ? argv[1] : "checkpoints/scrambled"};
    const dcp_storage_options options = {"Scrambled", &base, 1};        /* case does not matter */
    dcp_save_desc save = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_error err;
    void *raw = NULL; size_t size = 0;
    dcp_storage *disk = NULL;
    save.path = load.path = "custom_storage";                      /* with a storage, a path is its key */
    save.io.log = load.io.log = dcp_log_stderr;
    save.tensors = &mine, load.tensors = &wanted, save.tensor_count = load.tensor_count = 1;
    save.overwrite = 1;
    dcp_status status = dcp_storage_register("scrambled", open_scrambled, &err);
    if (status == DCP_OK) status = dcp_storage_open(&options, &save.io.storage, &err);
    dcp_storage *s = load.io.storage = save.io.storage;
    if (status == DCP_OK) status = dcp_save(&save, &err);
    if (status == DCP_OK) status = dcp_load(&load, &err);
    if (status == DCP_OK) status = dcp_storage_local(base.value, &disk, &err);      /* without our storage */
    if (status == DCP_OK) status = dcp_storage_read_all(disk, "custom_storage.metadata.json", &raw, &size, NULL, &err);
    int same = status == DCP_OK && back == secret && memcmp(raw, "{", 1) != 0;
    dcp_free(raw);
    dcp_storage_close(disk);
    dcp_storage_close(s);
    if (!same) return fprintf(stderr, "%s\n", err.message), 1;
    printf("proved: saved and loaded through a storage of our own; on disk all bytes are scrambled\n");
    return 0;
}
