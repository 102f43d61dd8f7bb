/* generations.h - checkpoints whose bytes tell their generation, and what must hold of a directory of them. After
 * dcp.h, with DCP_IMPLEMENTATION, and test.h.
 *
 *     generation g;
 *     generation_make(&g, 60000, 7);                 // three tensors; the first has 60,000 bytes
 *     desc.tensors = g.list; ...                     // or generation_save(storage, layout, "p", 60000, 7, &err)
 *     generation_free(&g);
 *     generation_at(storage, "p")                    // 7; 0: there is none; -1: damaged, generation_why says how
 *     nothing_else_is_there(storage)                 // 0: a file that no checkpoint names; generation_why says which
 *
 * Nothing here leaves by longjmp: it may be used in forked children and while something is mounted. */
#ifndef DCP_TEST_GENERATIONS_H
#define DCP_TEST_GENERATIONS_H

enum { GENERATION_TENSORS = 3, GENERATION_SMALL = 100, GENERATION_FIXED = 50 };
typedef struct generation {
    /* fixed never changes: a manifest keeps its file */
    size_t size; unsigned char *large, small[GENERATION_SMALL], fixed[GENERATION_FIXED];
    dcp_tensor list[GENERATION_TENSORS];
    dcp_training training;              /* its step is the generation */
} generation;
static char generation_why[900];

static inline void generation_make(generation *g, size_t size, int number) {
    const int64_t large = (int64_t)size, small = GENERATION_SMALL, fixed = GENERATION_FIXED;
    size_t i;
    memset(g, 0, sizeof *g);
    g->size = size;
    g->large = (unsigned char *)malloc(size + 1);
    if (!g->large) abort();
    for (i = 0; i < size; i++)
        g->large[i] = (unsigned char)((uint64_t)(number * 977 + 1) * (i + 1) * 2654435761u >> 13);
    for (i = 0; i < GENERATION_SMALL; i++)
        g->small[i] = (unsigned char)((uint64_t)(number * 977 + 5) * (i + 1) * 2654435761u >> 13);
    memset(g->fixed, 77, sizeof g->fixed);
    g->list[0] = dcp_array("large", DCP_UINT8, g->large, 1, &large);
    g->list[1] = dcp_array("small", DCP_UINT8, g->small, 1, &small);
    g->list[2] = dcp_array("layer/fixed", DCP_UINT8, g->fixed, 1, &fixed);
    g->training.step = number;
}
static inline void generation_free(generation *g) { free(g->large); }

static inline dcp_save_desc generation_desc(const generation *g, dcp_storage *storage, dcp_layout layout,
                                            const char *path) {
    dcp_save_desc desc = DCP_ZERO;
    desc.path = path;
    desc.tensors = g->list;
    desc.tensor_count = GENERATION_TENSORS;
    desc.layout = layout;
    desc.overwrite = 1;
    desc.training = &g->training;
    desc.io.storage = storage;
    desc.io.threads = 1;
    desc.io.memory_budget = (size_t)1 << 20;       /* no huge pages: to zero them would take longer than all the rest */
    desc.io.retry.first_ms = 1;
    desc.io.retry.max_ms = 2;
    return desc;
}
static inline dcp_status generation_save(dcp_storage *storage, dcp_layout layout, const char *path, size_t size,
                                         int number, dcp_error *err) {
    generation g;
    dcp_save_desc desc;
    dcp_status status;
    generation_make(&g, size, number);
    desc = generation_desc(&g, storage, layout, path);
    status = dcp_save(&desc, err);
    generation_free(&g);
    return status;
}

/* ---- what is there ----------------------------------------------------------------------------------------------- */
static inline int generation_wrong(const char *path, const char *what, const char *message) {
    (void)snprintf(generation_why, sizeof generation_why, "%.200s %.100s: %.500s", path, what, message);
    return -1;
}
static inline int generation_compare(const generation *got, int number, const char *path) {
    generation want;
    int same;
    generation_make(&want, got->size, number);
    same = memcmp(got->large, want.large, want.size) == 0 && memcmp(got->small, want.small, GENERATION_SMALL) == 0 &&
           memcmp(got->fixed, want.fixed, GENERATION_FIXED) == 0;
    generation_free(&want);
    return same ? number : generation_wrong(path, "is a mixture", "");
}
static inline int generation_read(dcp_checkpoint *c, const char *path) {
    const dcp_tensor_info *large = dcp_checkpoint_find(c, "large");
    const dcp_training *training = dcp_checkpoint_training(c);
    generation g;
    dcp_error err;
    dcp_status status;
    int number;
    if (!large || !training || training->step < 1) return generation_wrong(path, "is another checkpoint", "");
    status = dcp_verify(c, &err);
    if (status) return generation_wrong(path, "does not verify", err.message);
    generation_make(&g, (size_t)large->size, 0);
    memset(g.fixed, 0, sizeof g.fixed);
    status = dcp_read(c, g.list, GENERATION_TENSORS, &err);
    number = status ? generation_wrong(path, "does not load", err.message) : generation_compare(&g, (int)training->step,
            path);
    generation_free(&g);
    return number;
}
static inline int generation_at(dcp_storage *storage, const char *path) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    dcp_status status;
    int number;
    desc.path = path;
    desc.io.storage = storage;
    desc.io.threads = 1;
    desc.io.memory_budget = (size_t)1 << 20;
    desc.io.retry.attempts = 1;
    status = dcp_open(&desc, &c, &err);
    if (status == DCP_E_NOT_FOUND) return 0;
    if (status) return generation_wrong(path, "does not open", err.message);
    number = generation_read(c, path);
    dcp_close(c);
    return number;
}
/* The generation of the newest valid checkpoint; 0: there is none. */
static inline int generation_latest(dcp_storage *storage) {
    dcp_latest_desc desc = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    char *path = NULL;
    int number;
    desc.io.storage = storage;
    status = dcp_latest(&desc, &path, &err);
    if (status == DCP_E_NOT_FOUND) return 0;
    number = status ? generation_wrong("dcp_latest", "fails", err.message) : generation_at(storage, path);
    dcp_free(path);
    return number;
}
/* Everything that is not in use, as when nobody else saves there. */
static inline dcp_status generation_sweep(dcp_storage *storage, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    desc.grace_seconds = -1;
    desc.plain_names = 1;
    desc.io.storage = storage;
    desc.io.retry.first_ms = 1;
    desc.io.retry.max_ms = 2;
    return dcp_sweep(&desc, NULL, err);
}

/* ---- that nothing else is there ---------------------------------------------------------------------------------- */
enum { GENERATION_FILES = 2000 };
typedef struct generation_files {
    dcp_storage *storage;
    dcp_status status;
    int count;
    char *name[GENERATION_FILES];
    int64_t bytes;
} generation_files;

static inline dcp_status generation_note_file(void *user, const char *path, const dcp_object_info *info) {
    generation_files *files = (generation_files *)user;
    if (files->count == GENERATION_FILES) abort();
    files->name[files->count] = (char *)malloc(strlen(path) + 1);
    if (!files->name[files->count]) abort();
    strcpy(files->name[files->count++], path);
    files->bytes += info ? info->size : 0;
    return DCP_OK;
}
static inline dcp_status generation_note_below(void *user, const char *path, const dcp_object_info *info) {
    generation_files *files = (generation_files *)user;
    dcp_storage *s = files->storage;
    dcp_status status = s->list(s->context, path, DCP_LIST_OBJECTS, generation_note_file, files, NULL);
    (void)info;
    if (!status) status = s->list(s->context, path, DCP_LIST_DIRECTORIES, generation_note_below, files, NULL);
    return status;
}
/* All files below the storage's base. */
static inline void generation_files_find(generation_files *files, dcp_storage *storage) {
    memset(files, 0, sizeof *files);
    files->storage = storage;
    files->status = generation_note_below(files, "", NULL);
}
static inline void generation_files_free(generation_files *files) {
    int i;
    for (i = 0; i < files->count; i++) free(files->name[i]);
}
static inline void generation_files_use(generation_files *files, const char *name) {
    int i;
    for (i = 0; i < files->count; i++) if (strcmp(files->name[i], name) == 0) files->name[i][0] = '\0';
}
/* Takes a commit file and what it names off the list. */
static inline int generation_files_use_commit(generation_files *files, const char *commit) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    char path[300];
    size_t i;
    (void)snprintf(path, sizeof path, "%s", commit);
    desc.path = path;
    desc.io.storage = files->storage;
    if (dcp_open(&desc, &c, &err) != DCP_OK) { (void)generation_wrong(path, "does not open", err.message); return 0; }
    for (i = 0; i < dcp_checkpoint_metadata(c)->shard_count; i++)
        generation_files_use(files, dcp_checkpoint_metadata(c)->shards[i].file_path);
    dcp_close(c);
    generation_files_use(files, path);
    return 1;
}
static inline int nothing_else_is_there(dcp_storage *storage) {
    static generation_files files;
    int i, is_clean = 1;
    generation_files_find(&files, storage);
    if (files.status) {
        (void)generation_wrong("the directory", "cannot be listed", dcp_status_name(files.status));
        is_clean = 0;
    }
    for (i = 0; i < files.count && is_clean; i++)
        if (dcpi_commit_kind_of(files.name[i]) && !strchr(files.name[i], '/'))
            is_clean = generation_files_use_commit(&files, files.name[i]);
    for (i = 0; i < files.count && is_clean; i++)
        if (files.name[i][0]) { (void)generation_wrong(files.name[i], "is left over", ""); is_clean = 0; }
    generation_files_free(&files);
    return is_clean;
}

#endif
