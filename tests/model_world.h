/* model_world.h - what test_model.c knows of a directory: which checkpoints it has, which files are somebody else's,
 * and what is there. After model_calls.h. */
#ifndef DCP_TEST_MODEL_WORLD_H
#define DCP_TEST_MODEL_WORLD_H

enum { MODEL_PLACES = 64, MODEL_GENERATIONS = 80, MODEL_FILES = 900, MODEL_OWN = 80, MODEL_STRANGERS = 80,
       MODEL_OPS = 12, MODEL_KEY = 256 };

/* type: f, d, or o for others */
typedef struct model_file { char path[MODEL_KEY]; int64_t size, time, inode; char type; } model_file;
typedef struct model_tree { int count; model_file file[MODEL_FILES]; } model_tree;

/* A path at which there may be a checkpoint. */
typedef struct model_place {
    char path[MODEL_PATH];
    int is_there, layout, yaml, is_signed;
    model_state state;
    int64_t sequence, step; char timestamp[40];
    char commit[MODEL_KEY];
    int own_count; char own[MODEL_OWN][MODEL_KEY];      /* its data files */
    uint64_t seen;                      /* what its files looked like when all of it was last read */
} model_place;
/* A file that is not the library's. */
typedef struct model_stranger {
    char path[MODEL_KEY]; uint64_t digest; int what;
    /* looks like a commit file; is a whole checkpoint; cannot be read through a storage of ours */
    int is_commit, is_valid, is_secret;
    int64_t sequence;
} model_stranger;
/* A file of ours in which something was changed, or that is shorter, or gone (inode 0). */
/* number: of the newest generation then */
typedef struct model_damage { char path[MODEL_KEY]; int64_t inode; int is_cut, number; } model_damage;
typedef struct model_slot {
    dcp_saver *saver[MODEL_RANKS];
    model_step step;
    model_op *op;
    dcp_coordinator *coordinator[MODEL_RANKS];
    int ranks;
} model_slot;

/* When this process has saved and loaded a generation, in steps of the program: from the first that may have done it to
 * the last; 0: never. */
typedef struct model_life { int saved, saved_perhaps, loaded, loaded_perhaps; } model_life;

enum { MODEL_DEAD = 40 };

typedef struct model_world {
    char base[TEST_PATH]; dcp_storage *storage;
    int place_count; model_place place[MODEL_PLACES];
    int state_count; model_state state[MODEL_GENERATIONS];              /* by number - 1 */
    int stranger_count; model_stranger stranger[MODEL_STRANGERS];
    int damage_count; model_damage damage[MODEL_FILES / 4];
    model_op *pending[MODEL_OPS]; int pending_count;    /* that run in the background, or are stopped */
    model_slot slot[2];
    model_outcome *outcomes; int outcome_count;
    model_life life[MODEL_GENERATIONS + 1]; int clock;                  /* by number */
    int dead_count; char dead[MODEL_DEAD][MODEL_KEY];   /* locks of saves that were killed: P.<save id>.commit.lock */
    int is_dirty;                       /* files that nobody names may lie about */
    model_tree tree;
    int step; char label[80], why[1500];           /* what is wrong; the label stays the same while a program shrinks */
} model_world;
static model_world *model_now;          /* the one that runs */

static int model_fail(model_world *w, const char *label, const char *format, ...) DCPI_PRINTF(3, 4);
static int model_fail(model_world *w, const char *label, const char *format, ...) {
    va_list arguments;
    if (w->label[0]) return 0;
    va_start(arguments, format);
    (void)vsnprintf(w->why, sizeof w->why, format, arguments);
    va_end(arguments);
    (void)snprintf(w->label, sizeof w->label, "%s", label);
    return 0;
}
static const model_state *model_world_state(int number) {
    return number > 0 && number <= model_now->state_count ? &model_now->state[number - 1] : NULL;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static void model_tree_add(model_tree *t, const char *base, const char *path) {
    model_file *f = &t->file[t->count];
    char full[TEST_PATH + MODEL_KEY];
    struct stat info;
    (void)snprintf(full, sizeof full, "%s/%s", base, path);
    if (lstat(full, &info) != 0) return;
    if (t->count == MODEL_FILES) abort();
    t->count++;
    (void)snprintf(f->path, sizeof f->path, "%s", path);
    f->size = (int64_t)info.st_size;
    f->inode = (int64_t)info.st_ino;
    f->time = (int64_t)info.st_ctim.tv_sec * 1000000000 + info.st_ctim.tv_nsec;
    f->type = S_ISREG(info.st_mode) ? 'f' : S_ISDIR(info.st_mode) ? 'd' : 'o';
}
static void model_tree_scan(model_tree *t, const char *base) {
    int i;
    t->count = 0;
    for (i = -1; i < t->count; i++) {
        char directory[TEST_PATH + MODEL_KEY], child[MODEL_KEY];
        const char *path = i < 0 ? "" : t->file[i].path;
        struct dirent *entry;
        DIR *dir;
        if (i >= 0 && t->file[i].type != 'd') continue;
        (void)snprintf(directory, sizeof directory, "%s/%s", base, path);
        dir = opendir(directory);
        while (dir && (entry = readdir(dir)) != NULL) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            if ((size_t)snprintf(child, sizeof child, "%s%s%s", path, path[0] ? "/" : "", entry->d_name) < sizeof child)
                model_tree_add(t, base, child);
        }
        if (dir) (void)closedir(dir);
    }
}
static const model_file *model_tree_find(const model_tree *t, const char *path) {
    int i;
    for (i = 0; i < t->count; i++) if (strcmp(t->file[i].path, path) == 0) return &t->file[i];
    return NULL;
}
static void model_full(const model_world *w, const char *path, char full[TEST_PATH + MODEL_KEY]) {
    (void)snprintf(full, TEST_PATH + MODEL_KEY, "%s/%s", w->base, path);
}
static uint64_t model_hash(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}
static uint64_t model_digest(const model_world *w, const char *path) {  /* 0: not there */
    char full[TEST_PATH + MODEL_KEY], buffer[4096];
    struct stat info;
    uint64_t hash = 0xcbf29ce484222325u;
    ssize_t n;
    int fd;
    model_full(w, path, full);
    if (lstat(full, &info) != 0) return 0;
    if (!S_ISREG(info.st_mode)) return 1 + (uint64_t)S_ISDIR(info.st_mode);
    fd = open(full, O_RDONLY);
    if (fd < 0) return 3;
    while (info.st_size < 1000000 && (n = read(fd, buffer, sizeof buffer)) > 0)
        hash = model_hash(hash, buffer, (size_t)n);
    (void)close(fd);
    return hash ^ (uint64_t)info.st_size;
}
static void model_make_directories(const model_world *w, const char *path) {
    char full[TEST_PATH + MODEL_KEY];
    char *slash;
    model_full(w, path, full);
    for (slash = full + strlen(w->base) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(full, 0777);
        *slash = '/';
    }
}
static int model_put_file(const model_world *w, const char *path, const void *data, size_t size) {
    char full[TEST_PATH + MODEL_KEY];
    FILE *f;
    model_make_directories(w, path);
    model_full(w, path, full);
    f = fopen(full, "wb");
    if (!f) return 0;
    if (fwrite(data, 1, size, f) != size) abort();
    (void)fclose(f);
    return 1;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
static model_place *model_place_find(model_world *w, const char *path) {
    int i;
    for (i = 0; i < w->place_count; i++) if (strcmp(w->place[i].path, path) == 0) return &w->place[i];
    return NULL;
}
static model_place *model_place_at(model_world *w, const char *path) {
    model_place *p = model_place_find(w, path);
    if (p) return p;
    if (w->place_count == MODEL_PLACES) abort();
    p = &w->place[w->place_count++];
    memset(p, 0, sizeof *p);
    (void)snprintf(p->path, sizeof p->path, "%s", path);
    return p;
}
static int model_is_in(const char *path, const char *directory) {       /* directly */
    char of[MODEL_PATH];
    if (strlen(path) >= MODEL_PATH) return 0;
    model_directory_of(path, of);
    return strcmp(of, directory) == 0;
}
static int model_is_below(const char *path, const char *directory) {
    const size_t n = strlen(directory);
    return n == 0 || (strncmp(path, directory, n) == 0 && path[n] == '/');
}
/* 1: the bytes are not those that were saved; 2: the file was gone, and somebody has made one of its name. */
static int model_damage_at(const model_world *w, const model_damage *damage, int number) {
    const model_file *f = model_tree_find(&w->tree, damage->path);
    if (damage->inode) return f && f->inode == damage->inode;           /* one that was written anew is whole again */
    return !f ? 1 : number <= damage->number ? 2 : 0;
}
/* What was done to a file that a generation names, or NULL. */
static const model_damage *model_damage_of(const model_world *w, const char *file, int number, int *how) {
    int i;
    for (i = 0; i < w->damage_count; i++) {
        *how = strcmp(w->damage[i].path, file) == 0 ? model_damage_at(w, &w->damage[i], number) : 0;
        if (*how) return &w->damage[i];
    }
    *how = 0;
    return NULL;
}
static int model_is_damaged(const model_world *w, const char *file, int number) {
    int how;
    (void)model_damage_of(w, file, number, &how);
    return how;
}
static int model_is_broken(const model_world *w, const model_place *p) {
    return model_is_damaged(w, p->commit, p->state.number);
}
/* Some byte of it is not what was saved; 2: perhaps. */
static int model_is_hurt(const model_world *w, const model_place *p) {
    int i, how, hurt = model_is_broken(w, p);
    for (i = 0; i < p->own_count && hurt != 1; i++) {
        how = model_is_damaged(w, p->own[i], p->state.number);
        if (how) hurt = how;
    }
    return hurt;
}
/* The first bytes of a path that say which series it is of. */
static size_t model_stem(const char *path) {
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] >= '0' && path[n - 1] <= '9') n--;
    return n;
}
static int model_is_of_series(const char *path, const char *other) {
    return model_stem(path) == model_stem(other) && strncmp(path, other, model_stem(path)) == 0;
}
/* By its retention this save may remove a checkpoint at the path, if no other rule keeps it. */
static int model_retains(const model_step *s, const char *path) {
    return (s->kind == MODEL_SAVE || s->kind == MODEL_BEGIN) && s->keep > 0 && strcmp(s->path, path) != 0 &&
           model_is_of_series(path, s->path);
}
/* And what is at the path now. */
static int model_may_retain(const model_step *s, const model_place *p) {
    return model_retains(s, p->path) && !(s->every > 0 && (p->step <= 0 || p->step % s->every == 0));
}
static int model_is_pending(const model_world *w, const char *path) {
    int i, j;
    for (i = 0; i < w->pending_count; i++)
        for (j = 0; j < w->place_count; j++)
            if (strcmp(w->place[j].path, path) == 0 && model_may_retain(&w->pending[i]->step, &w->place[j])) return 1;
    for (i = 0; i < w->pending_count; i++)
        if (strcmp(w->pending[i]->step.path, path) == 0 || strcmp(w->pending[i]->step.to, path) == 0) return 1;
    return 0;
}
static int model_has_pending_in(const model_world *w, const char *directory) {
    int i;
    for (i = 0; i < w->pending_count; i++)
        if (model_is_in(w->pending[i]->step.path, directory) ||
            (w->pending[i]->step.to[0] && strcmp(w->pending[i]->step.to, directory) == 0)) return 1;
    return 0;
}
static model_stranger *model_stranger_find(model_world *w, const char *path) {
    int i;
    for (i = 0; i < w->stranger_count; i++) if (strcmp(w->stranger[i].path, path) == 0) return &w->stranger[i];
    return NULL;
}
/* A commit file of somebody else at this prefix. */
static model_stranger *model_stranger_at(model_world *w, const char *prefix) {
    int i;
    const size_t n = strlen(prefix);
    for (i = 0; i < w->stranger_count; i++)
        if (w->stranger[i].is_commit && strncmp(w->stranger[i].path, prefix, n) == 0 &&
            dcpi_commit_kind_of(w->stranger[i].path) && strcmp(w->stranger[i].path + n,
                                                               dcpi_commit_kind_of(w->stranger[i].path)->suffix) ==
                                                               0) return &w->stranger[i];
    return NULL;
}
/* Whether the directory has a commit file that is invalid or damaged. */
static int model_has_broken_in(const model_world *w, const char *directory) {
    int i;
    for (i = 0; i < w->stranger_count; i++)
        if (w->stranger[i].is_commit && w->stranger[i].is_valid != 1 && model_is_in(w->stranger[i].path, directory))
            return 1;
    for (i = 0; i < w->place_count; i++)
        if (w->place[i].is_there && model_is_in(w->place[i].path, directory) && model_is_broken(w, &w->place[i]))
            return 1;
    return 0;
}

/* ---- what is not the library's ----------------------------------------------------------------------------------- */
static model_stranger *model_stranger_add(model_world *w, const char *directory, const char *name, const void *data,
                                          size_t size) {
    char path[MODEL_KEY];
    model_stranger *s;
    (void)snprintf(path, sizeof path, "%s%s%s", directory, directory[0] ? "/" : "", name);
    s = model_stranger_find(w, path);
    if (s || model_tree_find(&w->tree, path) || w->stranger_count == MODEL_STRANGERS) return s;
    if (data && !model_put_file(w, path, data, size)) return NULL;
    s = &w->stranger[w->stranger_count++];
    memset(s, 0, sizeof *s);
    (void)snprintf(s->path, sizeof s->path, "%s", path);
    s->is_commit = dcpi_commit_kind_of(path) != NULL;
    s->digest = model_digest(w, path);
    return s;
}
static model_stranger *model_stranger_text(model_world *w, const char *directory, const char *name, const char *text) {
    return model_stranger_add(w, directory, name, text, strlen(text));
}
/* What looks like the library's own leftovers, with a time in the future. */
static void model_put_litter(model_world *w, const char *directory, const char *name) {
    char path[MODEL_KEY], full[TEST_PATH + MODEL_KEY];
    struct timespec times[2];
    (void)snprintf(path, sizeof path, "%s%s%s", directory, directory[0] ? "/" : "", name);
    if (model_tree_find(&w->tree, path) || !model_put_file(w, path, "leftover", 8)) return;
    model_full(w, path, full);
    times[0].tv_sec = times[1].tv_sec = time(NULL) + 400000000;
    times[0].tv_nsec = times[1].tv_nsec = 0;
    (void)utimensat(AT_FDCWD, full, times, 0);
    w->is_dirty = 1;
}
static void model_hex(const void *data, size_t size, char out[65]) {
    uint8_t digest[32];
    int i;
    dcp_sha256(data, size, digest);
    for (i = 0; i < 32; i++) (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
/* A document as the seed's own program wrote it: a whole checkpoint without any addition of ours. */
static void model_put_seed(model_world *w, const char *directory) {
    char text[1500], hex[65];
    model_stranger *s;
    model_hex("seedseed", 8, hex);
    (void)snprintf(text, sizeof text,
                   "{\"version\":\"1.0.0\",\"timestamp\":\"2025-01-01T00:00:00Z\",\"worldSize\":1,\"ddpRank\":0,"
                   "\"sharding\":{\"strategy\":\"ddp\",\"shardCount\":1,\"precision\":\"fp32\"},\"shards\":["
                   "{\"rank\":0,\"filePath\":"
                   "\"seed_shard_0.bin\",\"fileSize\":8,\"tensors\":[{\"name\":\"w\",\"shape\":[2],"
                   "\"dataType\":\"fp32\",\"offset\":0,"
                   "\"size\":8}],\"checksum\":\"%s\"}]}", hex);
    (void)model_stranger_text(w, directory, "seed_shard_0.bin", "seedseed");
    s = model_stranger_text(w, directory, "seed.metadata.json", text);
    if (s) s->is_valid = 1;
}
/* Such a manifest, with two files of one tensor and nothing that says how they fit together. */
static void model_put_parts(model_world *w, const char *directory) {
    char text[1500], hex[65];
    model_stranger *s;
    model_hex("partpart", 8, hex);
    (void)snprintf(text, sizeof text,
                   "{\"model_id\":\"m\",\"epoch\":0,\"step\":1,\"tiers\":[],\"shards\":["
                   "{\"path\":\"dense/w_1.bin\",\"type\":\"dense\",\"tensor_name\":\"w\",\"shape\":[2],"
                   "\"dtype\":\"fp32\",\"checksum\":\"%s\","
                   "\"version\":0},"
                   "{\"path\":\"dense/w_2.bin\",\"type\":\"dense\",\"tensor_name\":\"w\",\"shape\":[2],"
                   "\"dtype\":\"fp32\",\"checksum\":\"%s\","
                   "\"version\":0}],\"metadata_version\":1}", hex, hex);
    (void)model_stranger_text(w, directory, "dense/w_1.bin", "partpart");
    (void)model_stranger_text(w, directory, "dense/w_2.bin", "partpart");
    s = model_stranger_text(w, directory, "parts.manifest.json", text);
    if (s) s->is_valid = 2;
}
/* A well sealed document that names a file which is not the library's, or another checkpoint's. */
static void model_put_claim(model_world *w, const char *directory, const char *name, const char *victim,
                            const dcp_signer *signer, int has_sum) {
    dcp_shard_metadata shard;
    dcp_tensor_metadata tensor;
    dcp_sharding sharding = DCP_ZERO;
    dcp_metadata *m;
    dcp_error err;
    char full[TEST_PATH + MODEL_KEY], path[MODEL_KEY], checksum[65], *text, data[4096];
    size_t size = 0;
    model_stranger *s;
    FILE *f;
    (void)snprintf(path, sizeof path, "%s%s%s", directory, directory[0] ? "/" : "", victim);
    model_full(w, path, full);
    f = fopen(full, "rb");
    if (!f) return;
    size = fread(data, 1, sizeof data, f);
    (void)fclose(f);
    if (size == 0 || size == sizeof data) return;
    memset(&shard, 0, sizeof shard);
    memset(&tensor, 0, sizeof tensor);
    model_hex(data, size, checksum);
    tensor.name = "w";
    tensor.ndim = 1;
    tensor.shape[0] = (int64_t)size;
    tensor.data_type = "uint8";
    tensor.size = (int64_t)size;
    shard.file_path = victim;
    shard.file_size = (int64_t)size;
    shard.checksum = has_sum ? checksum : NULL;
    shard.tensors = &tensor;
    shard.tensor_count = 1;
    sharding.strategy = "ddp";
    sharding.shard_count = 1;
    sharding.precision = "uint8";
    if (dcp_metadata_new(&m, &err)) return;
    m->world_size = 1;
    m->save_id = "0123456789abcdef";
    if (dcp_metadata_set_sharding(m, &sharding, &err) || dcp_metadata_add_shard(m, &shard, &err)) abort();
    if (dcp_metadata_write(m, signer, &text, &size, &err)) { dcp_metadata_free(m); return; }
    s = model_stranger_add(w, directory, name, text, size);
    if (s) s->is_valid = 2;
    dcp_free(text);
    dcp_metadata_free(m);
}
/* The same as a manifest. */
static void model_put_claim_manifest(model_world *w, const char *directory, const char *victim) {
    char text[1500], hex[65], body[1200], t[400];
    model_stranger *s;
    const int n = snprintf(body, sizeof body,
                   "{\n  \"model_id\": \"m\",\n  \"epoch\": 0,\n  \"step\": 1,\n  \"tiers\": [],\n  \"shards\": [\n    "
                   "{ \"path\": \"%s\", "
                   "\"type\": \"dense\", \"tensor_name\": \"w\", \"shape\": [2], \"dtype\": \"fp32\", \"checksum\": "
                   "\"%s\", \"version\": 9, "
                   "\"size\": 8 }\n  ],\n  \"metadata_version\": 1,\n  \"save_id\": \"0123456789abcdef\"", victim,
                   "%s");
    char filled[1300], sum[65];
    (void)n;
    model_hex("evilevil", 8, sum);
    (void)snprintf(filled, sizeof filled, "%.*s%s%s", (int)(strstr(body, "%s") - body), body, sum, strstr(body, "%s") +
                   2);
    model_hex(filled, strlen(filled), hex);
    (void)snprintf(t, sizeof t, "dcp-integrity-v1\nmanifest/json\nsha256\n\n%u\n%s\n", (unsigned)strlen(filled), hex);
    model_hex(t, strlen(t), hex);
    (void)snprintf(text, sizeof text, "%s,\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \"%s\" }\n}\n",
                   filled, hex);
    (void)model_stranger_text(w, directory, victim, "evilevil");
    s = model_stranger_text(w, directory, "evil.manifest.json", text);
    if (s) s->is_valid = 2;
}
static void model_put_sparse(model_world *w, const char *directory) {
    char path[MODEL_KEY], full[TEST_PATH + MODEL_KEY];
    model_stranger *s = model_stranger_text(w, directory, "sparse.metadata.json", "{");
    (void)snprintf(path, sizeof path, "%s%s%s", directory, directory[0] ? "/" : "", "sparse.metadata.json");
    model_full(w, path, full);
    if (s && truncate(full, (off_t)256 << 20)) abort();
    if (s) s->digest = model_digest(w, path);
}
/* A shard of some checkpoint below this directory, as that directory would name it; NULL: there is none. */
static const char *model_victim(const model_world *w, const char *directory) {
    const size_t n = strlen(directory);
    int i;
    for (i = 0; i < w->place_count; i++) {
        const model_place *p = &w->place[i];
        if (p->is_there && p->own_count && p->layout != DCP_LAYOUT_SINGLE && model_is_below(p->own[0], directory))
            return p->own[0] + n + (n > 0);
    }
    return NULL;
}
static void model_put_what(model_world *w, const char *d, int what) {
    const dcp_signer signer = dcp_hmac_signer(model_key, sizeof model_key - 1, "k");
    char path[MODEL_KEY], full[TEST_PATH + MODEL_KEY];
    model_stranger *s;
    switch (what) {
    case FOREIGN_TEXT: (void)model_stranger_text(w, d, "thesis.tex", "\\documentclass{article}"); return;
    case FOREIGN_PROGRAM:
        (void)model_stranger_text(w, d, "train.py", "print()\n");
        (void)model_stranger_text(w, d, ".bashrc", "true\n");
        return;
    case FOREIGN_BELOW:
        (void)model_stranger_text(w, d, "src/main.c", "int main(void) { return 0; }\n");
        (void)model_stranger_text(w, d, "dense/notes.txt", "notes\n");
        return;
    case FOREIGN_PLAIN_SHARD: (void)model_stranger_text(w, d, "other_shard_0.bin", "of another program"); return;
    case FOREIGN_TEMPORARY: (void)model_stranger_text(w, d, "notes.tmp", "notes"); return;
    case FOREIGN_INTENT: model_put_litter(w, d, "old.manifest.0123456789abcdef.intent.tmp"); return;
    case FOREIGN_LOCK: (void)model_stranger_text(w, d, "z.commit.lock", "another program's"); return;
    case FOREIGN_NUMBER: (void)model_stranger_text(w, d, "x.metadata.json", "{\"sequence\": 9007199254740993}"); return;
    case FOREIGN_NUMBER_DEEP:
        (void)model_stranger_text(w, d, "x.manifest.json",
                                  "{\"sequence\":  77, \"shards\": [ {\"sequence\": 88}], \"sequence\" :99 }");
        return;
    case FOREIGN_YAML: (void)model_stranger_text(w, d, "y.manifest.yaml", "sequence: 9223372036854775807\n"); return;
    case FOREIGN_EMPTY: (void)model_stranger_text(w, d, "empty.manifest.json", ""); return;
    case FOREIGN_SINGLE: (void)model_stranger_text(w, d, "z.checkpoint", "PCLM but not really"); return;
    case FOREIGN_DIRECTORY:
        (void)snprintf(path, sizeof path, "%s%s%s", d, d[0] ? "/" : "", "dir.metadata.json");
        model_make_directories(w, path);
        model_full(w, path, full);
        if (mkdir(full, 0777) == 0) (void)model_stranger_add(w, d, "dir.metadata.json", NULL, 0);
        return;
    case FOREIGN_LINK:
        (void)snprintf(path, sizeof path, "%s%s%s", d, d[0] ? "/" : "", "link.checkpoint");
        model_make_directories(w, path);
        model_full(w, path, full);
        if (symlink("/nowhere", full) == 0) (void)model_stranger_add(w, d, "link.checkpoint", NULL, 0);
        return;
    case FOREIGN_SECRET:
        s = model_stranger_text(w, d, "secret.metadata.json", "{}");
        if (s) s->is_secret = 1;
        return;
    case FOREIGN_SPARSE: model_put_sparse(w, d); return;
    case FOREIGN_SEED: model_put_seed(w, d); return;
    case FOREIGN_PARTS: model_put_parts(w, d); return;
    case FOREIGN_CLAIM:
        (void)model_stranger_text(w, d, "thesis.tex", "\\documentclass{article}");
        model_put_claim(w, d, "claim.metadata.json", "thesis.tex", NULL, 1);
        return;
    case FOREIGN_CLAIM_OTHERS:
        if (model_victim(w, d)) model_put_claim(w, d, "claim.metadata.json", model_victim(w, d), NULL, 1);
        return;
    case FOREIGN_CLAIM_MANIFEST: model_put_claim_manifest(w, d, "train.py"); return;
    case FOREIGN_UNCOVERED:
        (void)model_stranger_text(w, d, "thesis.tex", "\\documentclass{article}");
        model_put_claim(w, d, "uncovered.metadata.json", "thesis.tex", &signer, 0);
        return;
    default: return;
    }
}

#endif
