/* test_repair.c - dcp_repair: damaged and missing files are made again from copies of the checkpoint, whatever is wrong
 * with them, and nothing else is touched; also when storages and allocations fail, when the process is killed, and when
 * others save or repair at the same time. What dcptool repair says of it is in test_tool.sh. */
#define DCP_LIMIT_FIELDS 100
#include "failing_allocator.h"
#include "doing.h"
#include "fault_storage.h"
#include "generations.h"
#include "rank_threads.h"
#ifndef _WIN32
#include <sys/wait.h>
#endif

enum { SIZE = 5000, LAYOUTS = 3 };
static const char *const commits[] = { "p.metadata.json", "p.checkpoint", "p.manifest.json" };
static const unsigned char secret[] = "a key of many bytes", other_secret[] = "another key of many bytes";

/* ---- a checkpoint here, and an intact copy of it ----------------------------------------------------------------- */
typedef struct scene {
    dcp_storage *here, *copy; dcp_layout layout; dcp_checksum checksum;
    char dir[TEST_PATH];                /* of `here`; "": in memory */
    generation_files files;             /* the names of the copy's files */
} scene;
static dcp_error err;

static void *get(dcp_storage *storage, const char *name, size_t *size) {
    void *data;
    CHECK_OK_MESSAGE(dcp_storage_read_all(storage, name, &data, size, NULL, &err), err.message);
    return data;
}
static void put(dcp_storage *storage, const char *name, const void *data, size_t size) {
    CHECK_OK_MESSAGE(dcp_storage_write_all(storage, name, data, size, NULL, &err), err.message);
}
static void copy_one(dcp_storage *from, dcp_storage *to, const char *name) {
    size_t size;
    void *data = get(from, name, &size);
    put(to, name, data, size);
    dcp_free(data);
}
static void copy_all(scene *s, dcp_storage *from, dcp_storage *to) {
    int i;
    generation_files_free(&s->files);
    generation_files_find(&s->files, from);
    CHECK_OK(s->files.status);
    for (i = 0; i < s->files.count; i++)
        if (!strstr(s->files.name[i], ".lock")) copy_one(from, to, s->files.name[i]);
}
static int is_as_copied(const scene *s, const char *name) {
    size_t size, want_size;
    void *want = get(s->copy, name, &want_size), *data = NULL;
    const int same = dcp_storage_read_all(s->here, name, &data, &size, NULL, NULL) == DCP_OK && size == want_size &&
                     memcmp(data, want, size) == 0;
    dcp_free(data);
    dcp_free(want);
    return same;
}
static int is_mended(const scene *s) {
    int i;
    for (i = 0; i < s->files.count; i++)
        if (!strstr(s->files.name[i], ".lock") && !is_as_copied(s, s->files.name[i])) return 0;
    return 1;
}
static void check_clean(const scene *s) {
    CHECK_OK_MESSAGE(generation_sweep(s->here, &err), err.message);
    if (!nothing_else_is_there(s->here)) CHECK_STR(generation_why, "");
}
static dcp_save_desc scene_save(const scene *s, const generation *g, const char *path) {
    dcp_save_desc desc = generation_desc(g, s->here, s->layout, path);
    desc.checksum = s->checksum;
    return desc;
}
static void save_one(const scene *s, const char *path, size_t size, int number, size_t block,
                     const dcp_signer *signer) {
    generation g;
    dcp_save_desc desc;
    dcp_status status;
    generation_make(&g, size, number);
    desc = scene_save(s, &g, path);
    desc.block_size = block;
    desc.signer = signer;
    status = dcp_save(&desc, &err);
    generation_free(&g);
    CHECK_OK_MESSAGE(status, err.message);
}
static void scene_open(scene *s, int layout, int checksum, const char *dir) {
    memset(s, 0, sizeof *s);
    s->layout = (dcp_layout)layout;
    s->checksum = (dcp_checksum)checksum;
    if (dir) {
        (void)snprintf(s->dir, sizeof s->dir, "%s", dir);
        CHECK_OK_MESSAGE(dcp_storage_local(dir, &s->here, &err), err.message);
    } else CHECK_OK(dcp_storage_memory(&s->here, NULL));
    CHECK_OK(dcp_storage_memory(&s->copy, NULL));
}
/* "p" of generation 1, and "q" of generation 2, which in a pool names one of p's files, too. */
static void scene_begin(scene *s, int layout, int checksum, const char *dir) {
    scene_open(s, layout, checksum, dir);
    save_one(s, "p", SIZE, 1, 0, NULL);
    save_one(s, "q", SIZE, 2, 0, NULL);
    copy_all(s, s->here, s->copy);
}
static void scene_end(scene *s) {
    generation_files_free(&s->files);
    dcp_storage_close(s->here);
    dcp_storage_close(s->copy);
    done_doing();
}
static void drop(const scene *s, const char *name) {
    CHECK_OK_MESSAGE(dcp_storage_remove(s->here, name, NULL, &err), err.message);
}
/* The commit file of "p", or the nth file that it names. */
static int file_of_p(const scene *s, int nth, char name[300]) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    int found;
    (void)snprintf(name, 300, "%s", commits[s->layout]);
    if (nth == 0) return 1;
    desc.path = "p";
    desc.io.storage = s->copy;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    found = s->layout != DCP_LAYOUT_SINGLE && nth <= (int)dcp_checkpoint_metadata(c)->shard_count;
    if (found) (void)snprintf(name, 300, "%s", dcp_checkpoint_metadata(c)->shards[nth - 1].file_path);
    dcp_close(c);
    return found;
}

typedef enum harm { FLIP_FIRST, FLIP_MIDDLE, FLIP_LAST, CUT, EMPTY, GROW, MISSING, HARMS } harm;
static void flip(dcp_storage *storage, const char *name, int64_t at) {
    size_t size;
    char *data = (char *)get(storage, name, &size);
    CHECK(at < (int64_t)size);
    data[at < 0 ? (int64_t)size + at : at] ^= 0x10;
    put(storage, name, data, size);
    dcp_free(data);
}
static void hurt(const scene *s, const char *name, harm how) {
    size_t size;
    char *data = (char *)get(s->here, name, &size), *longer = (char *)malloc(size + 1);
    if (!longer) abort();
    memcpy(longer, data, size);
    longer[size] = 0;
    if (how == FLIP_FIRST) longer[0] ^= 0x10;
    if (how == FLIP_MIDDLE) longer[size / 2] ^= 0x10;
    if (how == FLIP_LAST) longer[size - 1] ^= 0x10;
    put(s->here, name, longer, how == CUT ? size - 1 : how == EMPTY ? 0 : how == GROW ? size + 1 : size);
    if (how == MISSING) drop(s, name);
    free(longer);
    dcp_free(data);
}

/* ---- repairs ----------------------------------------------------------------------------------------------------- */
typedef struct repair { dcp_repair_desc desc; dcp_source sources[2]; dcp_repair_report report; } repair;
static void repair_of(repair *r, dcp_storage *here, dcp_storage *first, dcp_storage *second) {
    memset(r, 0, sizeof *r);
    r->sources[0].storage = first;
    r->sources[1].storage = second;
    r->desc.path = "p";
    r->desc.sources = r->sources;
    r->desc.source_count = (size_t)(first != NULL) + (second != NULL);
    r->desc.report = &r->report;
    r->desc.io.storage = here;
    r->desc.io.threads = 1;
    r->desc.io.memory_budget = (size_t)1 << 20;
    r->desc.io.retry.first_ms = 1;
    r->desc.io.retry.max_ms = 2;
}
static dcp_status run_repair(repair *r) { return dcp_repair(&r->desc, &err); }
static dcp_status mend(const scene *s, dcp_storage *here) {
    repair r;
    repair_of(&r, here, s->copy, NULL);
    return run_repair(&r);
}
#define CHECK_STATUS(call, want, words) check_status(call, want, words, __LINE__, #call)
static void check_status(dcp_status got, dcp_status want, const char *words, int line, const char *call) {
    char detail[900];
    if (got == want && err.status == want && strstr(err.message, words)) return;
    (void)snprintf(detail, sizeof detail, " (got %s \"%s\", want %s with \"%s\")", dcp_status_name(got),
                   got ? err.message : "", dcp_status_name(want), words);
    test_fail(__FILE__, line, call, detail);
}

/* ---- every file, every damage ------------------------------------------------------------------------------------ */
static void repair_damage(int layout, int checksum, int nth, harm how) {
    scene s;
    repair r;
    char name[300];
    scene_begin(&s, layout, checksum, NULL);
    if (file_of_p(&s, nth, name)) {
        doing("layout %d, checksum %d, %s, harm %d", layout, checksum, name, how);
        hurt(&s, name, how);
        repair_of(&r, s.here, s.copy, NULL);
        r.desc.dry_run = 1;
        CHECK_OK_MESSAGE(run_repair(&r), err.message);
        CHECK_INT(r.report.repaired, 1);
        CHECK(!is_mended(&s));
        r.desc.dry_run = 0;
        CHECK_OK_MESSAGE(run_repair(&r), err.message);
        CHECK_INT(r.report.missing, how == MISSING);
        CHECK_INT(r.report.damaged, how != MISSING);
        CHECK_INT(r.report.repaired, 1);
        CHECK_STR(r.report.path, commits[layout]);
        CHECK(is_mended(&s));
        CHECK_INT(generation_at(s.here, "p"), 1);
        CHECK_INT(generation_at(s.here, "q"), 2);
        CHECK_OK_MESSAGE(run_repair(&r), err.message);
        CHECK_INT(r.report.damaged + r.report.missing + r.report.repaired + r.report.bytes_fetched, 0);
        check_clean(&s);
    }
    scene_end(&s);
}
TEST(each_file_is_made_again_however_it_is_damaged) {
    int layout, checksum, nth, how;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (checksum = DCP_CHECKSUM_TREE; checksum <= DCP_CHECKSUM_FLAT; checksum++)
            for (nth = 0; nth <= 3; nth++)
                for (how = 0; how < HARMS; how++)
                    /* what says which save it was is lost with the document */
                    if (nth > 0 || how != EMPTY) repair_damage(layout, checksum, nth, (harm)how);
}
TEST(everything_is_lost_but_the_copy) {
    int layout, i;
    for (layout = 0; layout < LAYOUTS; layout++) {
        scene s;
        scene_begin(&s, layout, 0, NULL);
        for (i = 0; i < s.files.count; i++) if (s.files.name[i][0] != 'q' || layout == 2) drop(&s, s.files.name[i]);
        doing("layout %d", layout);
        CHECK_OK_MESSAGE(mend(&s, s.here), err.message);
        CHECK_INT(generation_at(s.here, "p"), 1);
        scene_end(&s);
    }
}

/* ---- what is not touched ----------------------------------------------------------------------------------------- */
static void note_call(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    (void)key; (void)call;
    if (!is_done && (kind == FAULT_BEGIN || kind == FAULT_COMMIT || kind == FAULT_REMOVE)) ++*(int *)user;
}
TEST(nothing_is_written_where_all_is_right_nor_in_a_dry_run) {
    int layout, dry, writes;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (dry = 0; dry < 2; dry++) {
            scene s;
            repair r;
            fault_storage f;
            char name[300];
            scene_begin(&s, layout, 0, NULL);
            CHECK(file_of_p(&s, layout != 1, name));
            if (dry) hurt(&s, name, FLIP_LAST);
            fault_open(&f, s.here);
            f.hook = note_call;
            f.user = &writes;
            writes = 0;
            repair_of(&r, &f.storage, s.copy, NULL);
            r.desc.dry_run = dry;
            CHECK_OK_MESSAGE(run_repair(&r), err.message);
            CHECK_INT(r.report.repaired, dry);
            CHECK_INT(writes, 0);
            CHECK_INT(f.calls[FAULT_LOCK], 0);
            fault_close(&f);
            scene_end(&s);
        }
}
#ifndef _WIN32
TEST(what_is_intact_keeps_its_file) {
    int layout, i, same = 0, replaced = 0;
    for (layout = 0; layout < LAYOUTS; layout++) {
        scene s;
        struct stat before[40], now;
        char name[300], path[TEST_PATH + 300];
        scene_begin(&s, layout, 0, test_dir());
        CHECK(file_of_p(&s, layout != 1, name) && s.files.count <= 40);
        hurt(&s, name, FLIP_MIDDLE);
        for (i = 0; i < s.files.count; i++) {
            (void)snprintf(path, sizeof path, "%s/%s", s.dir, s.files.name[i]);
            CHECK(stat(path, &before[i]) == 0);
        }
        CHECK_OK_MESSAGE(mend(&s, s.here), err.message);
        for (i = 0; i < s.files.count; i++) {
            (void)snprintf(path, sizeof path, "%s/%s", s.dir, s.files.name[i]);
            CHECK(stat(path, &now) == 0);
            if (strcmp(s.files.name[i], name) == 0) { replaced += now.st_ino != before[i].st_ino; continue; }
            if (strstr(name, ".lock")) continue;
            CHECK(now.st_ino == before[i].st_ino && now.st_mtime == before[i].st_mtime);
            same++;
        }
        scene_end(&s);
    }
    CHECK_INT(replaced, LAYOUTS);
    CHECK(same > 6);
}
TEST(a_directory_in_a_files_place_stays_and_the_rest_is_repaired) {
    scene s;
    repair r;
    char name[300];
    scene_begin(&s, DCP_LAYOUT_MANIFEST, 0, test_dir());
    CHECK(file_of_p(&s, 1, name));
    drop(&s, name);
    (void)strcat(name, "/x");
    put(s.here, name, "mine", 4);
    CHECK(file_of_p(&s, 2, name));
    hurt(&s, name, FLIP_LAST);
    repair_of(&r, s.here, s.copy, NULL);
    CHECK_INT(run_repair(&r), DCP_E_INVALID);
    CHECK_INT(r.report.damaged, 2);
    CHECK_INT(r.report.repaired, 1);
    CHECK(is_as_copied(&s, name));
    CHECK(file_of_p(&s, 1, name));
    (void)strcat(name, "/x");
    drop(&s, name);
    scene_end(&s);
}
#endif
/* A document gives no right to the files of other checkpoints: here "p" is a copy of "q", whose files it names. */
TEST(files_of_others_are_not_replaced_whatever_a_document_names) {
    scene s;
    size_t size;
    void *data;
    scene_begin(&s, DCP_LAYOUT_SHARDED, 0, NULL);
    data = get(s.here, "q.metadata.json", &size);
    put(s.here, "p.metadata.json", data, size);
    dcp_free(data);
    hurt(&s, "q_shard_0.bin", FLIP_FIRST);
    CHECK_STATUS(mend(&s, s.here), DCP_E_EXISTS, "not known to be of this checkpoint");
    CHECK(!is_as_copied(&s, "q_shard_0.bin"));
    scene_end(&s);
}
TEST(a_directory_with_checkpoints_of_its_own_is_left_alone) {
    scene s;
    char name[300], commit[320];
    scene_begin(&s, DCP_LAYOUT_MANIFEST, 0, NULL);
    CHECK(file_of_p(&s, 1, name));
    (void)snprintf(commit, sizeof commit, "%.*s/z.metadata.json", (int)strcspn(name, "/"), name);
    put(s.here, commit, "{}", 2);
    hurt(&s, name, FLIP_FIRST);
    CHECK_STATUS(mend(&s, s.here), DCP_E_EXISTS, "not known to be of this checkpoint");
    CHECK(!is_as_copied(&s, name));
    scene_end(&s);
}

/* ---- several copies ---------------------------------------------------------------------------------------------- */
enum { BLOCK = 8 << 20, BIG = 2 * BLOCK + 1000 };
static void two_halves(int layout, size_t block, size_t size) {
    scene s;
    repair r;
    dcp_storage *third;
    char name[300];
    const int64_t at = layout == DCP_LAYOUT_SINGLE ? 30000 : 0;
    scene_open(&s, layout, 0, NULL);
    CHECK_OK(dcp_storage_memory(&third, NULL));
    save_one(&s, "p", size, 1, block, NULL);
    copy_all(&s, s.here, s.copy);
    copy_all(&s, s.here, third);
    doing("layout %d, blocks of %d", layout, (int)block);
    CHECK(file_of_p(&s, layout != DCP_LAYOUT_SINGLE, name));
    flip(s.here, name, at + 5);
    flip(s.here, name, at + (int64_t)block + 5);
    flip(third, name, at + 6);
    flip(third, name, at + 2 * (int64_t)block + 7);
    repair_of(&r, s.here, third, NULL);
    r.desc.dry_run = 1;
    CHECK_STATUS(run_repair(&r), DCP_E_CHECKSUM, "nor are they in a source");
    r.desc.dry_run = 0;
    CHECK_STATUS(run_repair(&r), DCP_E_CHECKSUM, "nor are they in a source");
    flip(third, name, at + 6);
    CHECK_OK_MESSAGE(run_repair(&r), err.message);      /* here the third block is right, there the others */
    CHECK(r.report.bytes_fetched == 2 * (int64_t)block);
    CHECK(is_mended(&s));
    dcp_storage_close(third);
    scene_end(&s);
}
TEST(copies_that_are_damaged_in_different_places_make_a_whole_one) {
    int layout;
    for (layout = 0; layout < LAYOUTS; layout++) two_halves(layout, 256 << 10, 600000);
}
/* Checked in one pass, written in a second one. */
TEST(a_block_may_be_larger_than_the_memory_budget) {
    scene s;
    repair r;
    two_halves(DCP_LAYOUT_SHARDED, BLOCK, BIG);
    scene_open(&s, DCP_LAYOUT_SHARDED, DCP_CHECKSUM_FLAT, NULL);
    save_one(&s, "p", BIG, 1, 0, NULL);
    copy_all(&s, s.here, s.copy);
    flip(s.here, "p_shard_0.bin", 7000000);
    repair_of(&r, s.here, s.copy, NULL);
    CHECK_OK_MESSAGE(run_repair(&r), err.message);
    CHECK(is_mended(&s));
    scene_end(&s);
}
/* The source changes, in place, between the pass that checks and the one that writes. */
typedef struct spoiler { char path[TEST_PATH + 20]; int is_done; } spoiler;
static void spoil_source(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    spoiler *s = (spoiler *)user;
    FILE *file;
    (void)key; (void)call;
    if (kind != FAULT_WRITE || is_done || s->is_done) return;
    s->is_done = 1;
    file = fopen(s->path, "r+b");
    if (!file || fseek(file, 900000, SEEK_SET) != 0 || fputs("other", file) < 0 || fclose(file) != 0) abort();
}
TEST(what_changes_before_it_is_written_is_not_taken) {
    scene s;
    repair r;
    fault_storage f;
    spoiler spoil = DCP_ZERO;
    const char *dir = test_dir();
    scene_open(&s, DCP_LAYOUT_SHARDED, 0, NULL);
    dcp_storage_close(s.copy);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &s.copy, &err), err.message);
    save_one(&s, "p", 2 << 20, 1, 1 << 20, NULL);
    copy_all(&s, s.here, s.copy);
    flip(s.here, "p_shard_0.bin", 3);
    fault_open(&f, s.here);
    (void)snprintf(spoil.path, sizeof spoil.path, "%s/p_shard_0.bin", dir);
    f.hook = spoil_source;
    f.user = &spoil;
    repair_of(&r, &f.storage, s.copy, NULL);
    r.desc.io.retry.attempts = 1;
    CHECK_STATUS(run_repair(&r), DCP_E_IO, "changed while they were read");
    CHECK_INT(f.calls[FAULT_COMMIT], 0);
    flip(s.here, "p_shard_0.bin", 3);
    CHECK_INT(generation_at(s.here, "p"), 1);           /* as it was, but for that byte */
    check_clean(&s);
    fault_close(&f);
    scene_end(&s);
}

/* ---- which save it was ------------------------------------------------------------------------------------------- */
TEST(copies_of_other_saves_are_refused) {
    int layout, how;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (how = 0; how < 2; how++) {
            scene s, other;
            repair r;
            void *before;
            size_t size, now_size;
            scene_begin(&s, layout, 0, NULL);
            scene_open(&other, layout, 0, NULL);
            save_one(&other, "p", SIZE, how ? 1 : 5, 0, NULL);      /* the same state, or another one */
            doing("layout %d, how %d", layout, how);
            flip(s.here, commits[layout], layout == DCP_LAYOUT_SINGLE ? 900 : -40);
            before = get(s.here, commits[layout], &size);
            repair_of(&r, s.here, other.here, NULL);
            CHECK_STATUS(run_repair(&r), DCP_E_MISMATCH, "does not say that it is");
            {
                void *now = get(s.here, commits[layout], &now_size);
                CHECK(now_size == size && memcmp(now, before, size) == 0);
                dcp_free(now);
            }
            repair_of(&r, s.here, other.here, s.copy);
            CHECK_OK_MESSAGE(run_repair(&r), err.message);
            CHECK(is_mended(&s));
            drop(&s, commits[layout]);
            CHECK_STATUS(run_repair(&r), DCP_E_MISMATCH, "different saves");
            CHECK_INT(generation_at(s.here, "p"), 0);
            CHECK_OK_MESSAGE(mend(&s, s.here), err.message);
            CHECK(is_mended(&s));
            dcp_free(before);
            scene_end(&other);
            scene_end(&s);
        }
}
/* Documents without our additions have no save id; one of them names a file outside. */
TEST(documents_of_others_are_not_taken_from_a_copy) {
    static const char *const paths[] = { "p_shard_0.bin", "../p_shard_0.bin", "/etc/passwd" };
    int i;
    for (i = 0; i < 3; i++) {
        scene s;
        char text[1000];
        const int size = snprintf(text, sizeof text, "{ \"version\": \"1.0.0\", \"worldSize\": 1, \"ddpRank\": 0, "
            "\"sharding\": { \"strategy\": \"ddp\", \"shardCount\": 1, \"precision\": \"fp32\" }, \"shards\": [ "
            "{ \"rank\": 0, \"filePath\": \"%s\", \"fileSize\": 4, \"tensors\": [ { \"name\": \"t\", \"shape\": [1], "
            "\"dataType\": \"fp32\", \"offset\": 0, \"size\": 4 } ] } ] }", paths[i]);
        scene_open(&s, DCP_LAYOUT_SHARDED, 0, NULL);
        put(s.copy, commits[0], text, (size_t)size);
        doing("path %s", paths[i]);
        CHECK_STATUS(mend(&s, s.here), i ? DCP_E_NOT_FOUND : DCP_E_MISMATCH, i ? "" : "no save id");
        generation_files_find(&s.files, s.here);
        CHECK_INT(s.files.count, 0);
        scene_end(&s);
    }
}
TEST(a_signed_commit_file_is_taken_only_with_its_key) {
    const dcp_signer signer = dcp_hmac_signer(secret, sizeof secret, "k");
    const dcp_verifier right = dcp_hmac_verifier(secret, sizeof secret),
                       wrong = dcp_hmac_verifier(other_secret, sizeof other_secret);
    int layout;
    for (layout = 0; layout < LAYOUTS; layout++) {
        scene s;
        repair r;
        scene_open(&s, layout, 0, NULL);
        save_one(&s, "p", SIZE, 1, 0, &signer);
        copy_all(&s, s.here, s.copy);
        doing("layout %d", layout);
        flip(s.here, commits[layout], layout == DCP_LAYOUT_SINGLE ? 900 : 100);
        repair_of(&r, s.here, s.copy, NULL);
        CHECK_STATUS(run_repair(&r), DCP_E_SIGNATURE, "is signed");
        r.desc.verifier = &wrong;
        CHECK_INT(run_repair(&r), DCP_E_SIGNATURE);
        CHECK(!is_mended(&s));
        r.desc.verifier = &right;
        CHECK_OK_MESSAGE(run_repair(&r), err.message);
        CHECK(is_mended(&s));
        scene_end(&s);
    }
}

/* ---- what fails -------------------------------------------------------------------------------------------------- */
enum { DATA, DOCUMENT, BOTH, WHATS };                   /* what is damaged */
static void hurt_some(const scene *s, int what) {
    char name[300];
    if (what != DOCUMENT && file_of_p(s, 1, name)) hurt(s, name, FLIP_MIDDLE);
    if (what == DATA && s->layout == DCP_LAYOUT_SINGLE) hurt(s, commits[s->layout], FLIP_LAST);
    if (what != DATA) hurt(s, commits[s->layout], s->layout == DCP_LAYOUT_SINGLE ? CUT : FLIP_LAST);
}
/* Whatever happened: "q" is whole, "p" is whole or not there to be loaded, never anything else; another repair mends
 * all, and leaves nothing. */
static void check_after(const scene *s) {
    CHECK_INT(generation_at(s->here, "q"), 2);
    CHECK(generation_at(s->here, "p") == 1 || generation_at(s->here, "p") == -1);
    CHECK_OK_MESSAGE(mend(s, s->here), err.message);
    CHECK(is_mended(s));
    CHECK_INT(generation_at(s->here, "p"), 1);
    check_clean(s);
}
static int64_t fail_call(int layout, int what, int64_t nth, int sys, fault_how how) {
    scene s;
    repair r;
    fault_storage f;
    int64_t failed;
    dcp_status status;
    scene_begin(&s, layout, 0, NULL);
    hurt_some(&s, what);
    doing("layout %d, what %d, call %d fails with %d, how %d", layout, what, (int)nth, sys, (int)how);
    fault_open(&f, s.here);
    fault_set(&f, FAULT_ANY, nth, 1, sys);
    f.how = how;
    repair_of(&r, &f.storage, s.copy, NULL);
    status = run_repair(&r);
    failed = f.failed;
    CHECK_INT(err.status, status);
    CHECK((status == DCP_OK) == (err.message[0] == '\0'));
    if (status == DCP_OK) CHECK(is_mended(&s));
    check_after(&s);
    fault_close(&f);
    scene_end(&s);
    return failed;
}
TEST(each_call_of_the_storage_fails_once) {
    static const int errors[] = { EIO, EACCES, ENOSPC };
    int layout, what, e, how;
    int64_t nth;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (what = 0; what < WHATS; what++)
            for (e = 0; e < 3; e++)
                for (how = FAULT_BEFORE; how <= FAULT_LITTERS; how++)
                    for (nth = 1; fail_call(layout, what, nth, errors[e], (fault_how)how) > 0; nth++) continue;
}
TEST(each_allocation_fails_once) {
    int layout, what, tripped;
    int64_t nth;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (what = 0; what < WHATS; what++)
            for (nth = 1, tripped = 1; tripped; nth++) {
                scene s;
                int64_t live;
                dcp_status status;
                scene_begin(&s, layout, 0, NULL);
                hurt_some(&s, what);
                doing("layout %d, what %d, allocation %d", layout, what, (int)nth);
                live = hungry_live();
                hungry_fail(nth, 0);
                status = mend(&s, s.here);
                tripped = hungry.tripped;
                hungry_fail(0, 0);
                if (status) CHECK_INT(status, DCP_E_MEMORY);
                else CHECK(is_mended(&s));
                if (status) CHECK(hungry_live() <= live + 4);       /* what a storage in memory has come to hold */
                check_after(&s);
                scene_end(&s);
            }
}
#ifndef _WIN32
typedef struct killer { int64_t die_at, points; } killer;
static void die(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    killer *k = (killer *)user;
    (void)kind; (void)key; (void)call; (void)is_done;
    if (++k->points == k->die_at) (void)kill(getpid(), SIGKILL);
}
static int is_killed(const scene *s, int64_t point) {
    int status = 0;
    pid_t pid;
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        static fault_storage f;
        killer k = { 0, 0 };
        dcp_storage *own;
        if (dcp_storage_local(s->dir, &own, NULL)) _exit(100);
        fault_open(&f, own);
        k.die_at = point;
        f.hook = die;
        f.user = &k;
        _exit((int)mend(s, &f.storage));
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) { CHECK_INT(WTERMSIG(status), SIGKILL); return 1; }
    CHECK_INT(status, 0);
    return 0;
}
TEST(a_repair_that_is_killed_is_as_one_that_did_not_begin_or_ended) {
    int layout, what, killed, kills = 0;
    int64_t point, step = test_is_whole() ? 1 : 3;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (what = 0; what < WHATS; what++)
            for (point = 1 + (int64_t)test_random_below((size_t)step), killed = 1; killed; point += step) {
                scene s;
                scene_begin(&s, layout, 0, test_ram_dir());
                hurt_some(&s, what);
                doing("layout %d, what %d, killed at %d", layout, what, (int)point);
                kills += killed = is_killed(&s, point);
                check_after(&s);
                scene_end(&s);
                test_rm_rf(test_state.dir[--test_state.dirs]);
            }
    CHECK(kills > 100);
}
#endif

/* G3; and what is replaced is replaced with the lock. */
typedef struct order { int is_locked, is_new, commits; } order;
static void note_order(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    order *o = (order *)user;
    (void)call;
    if (strstr(key, ".intent.") || strstr(key, ".commit.lock")) {
        if (kind == FAULT_LOCK && is_done) o->is_locked = 1;
        if (kind == FAULT_UNLOCK && !is_done) o->is_locked = 0;
        if (kind == FAULT_UNLOCK && !is_done) CHECK_INT(o->is_new, 0);
        return;
    }
    if (kind == FAULT_COMMIT && !is_done) { CHECK_INT(o->is_locked, 1); o->commits++; }
    if (kind == FAULT_COMMIT && is_done) o->is_new = 1;
    if (kind == FAULT_SYNC_DIRECTORY && is_done) o->is_new = 0;
}
TEST(each_replacement_is_synced_under_the_lock) {
    int layout, what;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (what = 0; what < WHATS; what++) {
            scene s;
            fault_storage f;
            order o = { 0, 0, 0 };
            scene_begin(&s, layout, 0, test_dir());
            hurt_some(&s, what);
            doing("layout %d, what %d", layout, what);
            fault_open(&f, s.here);
            f.hook = note_order;
            f.user = &o;
            CHECK_OK_MESSAGE(mend(&s, &f.storage), err.message);
            CHECK_INT(o.commits, 1 + (what == BOTH && layout != DCP_LAYOUT_SINGLE));
            CHECK_INT(o.is_new, 0);
            fault_close(&f);
            scene_end(&s);
        }
}

/* ---- others at the same time ------------------------------------------------------------------------------------- */
/* At a call of the repair another program saves, removes the checkpoint, or repairs it. */
typedef enum other { SAVES, REMOVES, REPAIRS, OTHERS } other;
typedef struct meddler { scene *s; other what; fault_kind kind; int is_done; dcp_status status; } meddler;
static void meddle(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    meddler *m = (meddler *)user;
    dcp_error ignored;
    (void)key; (void)call;
    if (is_done || m->is_done || kind != m->kind) return;
    m->is_done = 1;
    if (m->what == SAVES) m->status = generation_save(m->s->here, m->s->layout, "p", SIZE, 7, &ignored);
    if (m->what == REPAIRS) m->status = mend(m->s, m->s->here);
    if (m->what == REMOVES) {
        dcp_remove_desc desc = DCP_ZERO;
        desc.path = "p";
        desc.io.storage = m->s->here;
        m->status = dcp_remove(&desc, NULL, &ignored);
    }
}
static void meddle_at(int layout, int harmed, other what, fault_kind kind) {
    scene s;
    fault_storage f;
    meddler m;
    dcp_status status;
    int now;
    scene_begin(&s, layout, 0, NULL);
    hurt_some(&s, harmed);
    doing("layout %d, harmed %d, other %d at %s", layout, harmed, (int)what, fault_kind_name(kind));
    memset(&m, 0, sizeof m);
    m.s = &s;
    m.what = what;
    m.kind = kind;
    fault_open(&f, s.here);
    f.hook = meddle;
    f.user = &m;
    status = mend(&s, &f.storage);
    CHECK_INT(m.is_done, 1);
    now = generation_at(s.here, "p");
    if (what == SAVES && m.status == DCP_OK) CHECK_INT(now, 7);
    if (what == SAVES && m.status == DCP_OK) CHECK_INT(status, DCP_E_EXISTS);
    if (what == REMOVES && m.status == DCP_OK) CHECK(now == 0 && status == DCP_E_EXISTS);
    if (what == REPAIRS) CHECK(status == DCP_OK && m.status == DCP_OK && is_mended(&s));
    CHECK_INT(generation_at(s.here, "q"), 2);
    check_clean(&s);
    fault_close(&f);
    scene_end(&s);
}
/* Before it takes the lock: what was saved or removed meanwhile stays so. */
TEST(what_another_one_does_meanwhile_is_kept) {
    int layout, harmed, what;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (harmed = 0; harmed < WHATS; harmed++)
            for (what = 0; what < OTHERS; what++) {
                if (harmed != DATA && what == REMOVES) continue;       /* a damaged one cannot be removed */
                meddle_at(layout, harmed, (other)what, FAULT_WRITE);
                meddle_at(layout, harmed, (other)what, FAULT_LOCK);
            }
}
TEST(a_restored_manifest_whose_files_may_be_swept_is_not_committed) {
    scene s;
    fault_storage f;
    fault_spoiling spoiling;
    scene_begin(&s, DCP_LAYOUT_MANIFEST, 0, NULL);
    drop(&s, commits[DCP_LAYOUT_MANIFEST]);
    fault_open(&f, s.here);
    spoiling.storage = s.here;
    spoiling.prefix = "p.manifest.";
    spoiling.text = NULL;
    f.hook = fault_spoil;
    f.user = &spoiling;
    CHECK_INT(mend(&s, &f.storage), DCP_E_INCOMPLETE);
    CHECK_INT(generation_at(s.here, "p"), 0);
    f.hook = NULL;
    CHECK_OK_MESSAGE(mend(&s, &f.storage), err.message);
    CHECK(is_mended(&s));
    fault_close(&f);
    scene_end(&s);
}
#if !DCP_NO_THREADS
typedef struct crowd { scene *s; dcp_status status[4]; dcp_error err[4]; } crowd;
static void one_of_crowd(void *user, int rank) {
    crowd *c = (crowd *)user;
    repair r;
    repair_of(&r, c->s->here, c->s->copy, NULL);
    c->status[rank] = dcp_repair(&r.desc, &c->err[rank]);
}
TEST(several_repairs_at_once_all_succeed) {
    int layout, round, rank;
    for (layout = 0; layout < LAYOUTS; layout++)
        for (round = 0; round < test_times(20); round++) {
            scene s;
            crowd c;
            scene_begin(&s, layout, 0, NULL);
            hurt_some(&s, round % WHATS);
            c.s = &s;
            doing("layout %d, round %d", layout, round);
            run_ranks(4, one_of_crowd, &c);
            for (rank = 0; rank < 4; rank++) CHECK_OK_MESSAGE(c.status[rank], c.err[rank].message);
            CHECK(is_mended(&s));
            check_clean(&s);
            scene_end(&s);
        }
}
#endif

int main(void) {
    RUN(each_file_is_made_again_however_it_is_damaged);
    RUN(everything_is_lost_but_the_copy);
    RUN(nothing_is_written_where_all_is_right_nor_in_a_dry_run);
#ifndef _WIN32
    RUN(what_is_intact_keeps_its_file);
    RUN(a_directory_in_a_files_place_stays_and_the_rest_is_repaired);
#endif
    RUN(files_of_others_are_not_replaced_whatever_a_document_names);
    RUN(a_directory_with_checkpoints_of_its_own_is_left_alone);
    RUN(copies_that_are_damaged_in_different_places_make_a_whole_one);
    RUN(a_block_may_be_larger_than_the_memory_budget);
    RUN(what_changes_before_it_is_written_is_not_taken);
    RUN(copies_of_other_saves_are_refused);
    RUN(documents_of_others_are_not_taken_from_a_copy);
    RUN(a_signed_commit_file_is_taken_only_with_its_key);
    RUN(each_call_of_the_storage_fails_once);
    RUN(each_allocation_fails_once);
#ifndef _WIN32
    RUN(a_repair_that_is_killed_is_as_one_that_did_not_begin_or_ended);
#endif
    RUN(each_replacement_is_synced_under_the_lock);
    RUN(what_another_one_does_meanwhile_is_kept);
    RUN(a_restored_manifest_whose_files_may_be_swept_is_not_committed);
#if !DCP_NO_THREADS
    RUN(several_repairs_at_once_all_succeed);
#endif
    return test_finish();
}
