/* test_pool.c: checkpoints in the manifest layout: their files, versions, tiers; selection, other sources, lazy loads,
 * sync. */
static int grace_seconds = 86400;       /* none in a_save_that_takes_too_long_gives_up */
#define DCP_GRACE_SECONDS grace_seconds
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "fault_storage.h"
#ifndef _WIN32
#include <utime.h>
#endif

/* ---- a small model: two dense layers, four experts in two tiers, optimizer and router state ---------------------- */
enum { DENSE = 2, EXPERTS = 4, TENSORS = 10, LENGTH = 96 };
typedef struct model { float values[TENSORS][LENGTH]; dcp_tensor list[TENSORS]; } model;
static const dcp_tier tiers[2] = { { 1, "hot", "40GB", "prioritized" }, { 2, "warm", "200GB", "lru" } };
static const dcp_router_seed seeds[3] = { { 1, 77 }, { 0, UINT64_MAX }, { 5, 9 } };

static void model_fill(model *m, int t, int generation) {
    int i;
    for (i = 0; i < LENGTH; i++) m->values[t][i] = (float)(1000 * generation + 10 * t) + (float)i / 128;
}
static void model_make(model *m, int generation) {
    static const char *const names[TENSORS] = { "layer_0/attention_q", "layer_0/mlp", "expert_a", "expert_b",
                                                "expert_c", "expert_d", "adam/m", "adam/v", "router_0", "router_1" };
    const int64_t shape[2] = { 8, LENGTH / 8 };
    int t;
    memset(m, 0, sizeof *m);
    for (t = 0; t < TENSORS; t++) {
        model_fill(m, t, generation);
        m->list[t] = dcp_array(names[t], DCP_FP32, m->values[t], 2, shape);
        m->list[t].tier = t < DENSE ? "hot" : NULL;
    }
    for (t = DENSE; t < DENSE + EXPERTS; t++) {
        m->list[t].role = DCP_ROLE_EXPERT;
        m->list[t].expert_key[0] = t < DENSE + 2 ? 1 : 2;
        m->list[t].expert_key[1] = 0;
        m->list[t].expert_key[2] = t - DENSE;
        m->list[t].tier = t < DENSE + 2 ? "hot" : "warm";
    }
    m->list[6].role = m->list[7].role = DCP_ROLE_OPTIMIZER;
    m->list[8].role = m->list[9].role = DCP_ROLE_ROUTER;
    m->list[9].expert_key[0] = 1;
}
static dcp_save_report report;
static dcp_save_desc saving(model *m, dcp_storage *storage, const char *path, int64_t step) {
    static dcp_training training;
    dcp_save_desc desc = DCP_ZERO;
    memset(&training, 0, sizeof training);
    training.epoch = 5;
    training.step = step;
    training.learning_rate = 0.5;
    desc.path = path;
    desc.tensors = m->list;
    desc.tensor_count = TENSORS;
    desc.layout = DCP_LAYOUT_MANIFEST;
    desc.training = &training;
    desc.tiers = tiers;
    desc.tier_count = 2;
    desc.router_seeds = seeds;
    desc.router_seed_count = 3;
    desc.model_id = "moe-small";
    desc.report = &report;
    desc.io.storage = storage;
    return desc;
}
static void save_model(model *m, dcp_storage *storage, const char *path, int64_t step) {
    dcp_error err;
    dcp_save_desc desc = saving(m, storage, path, step);
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
}
static void save_yaml(model *m, dcp_storage *storage, const char *path, int64_t step) {
    dcp_error err;
    dcp_save_desc desc = saving(m, storage, path, step);
    desc.yaml = 1;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
}
/* Loads all and compares with the model that was saved. */
static void check_loads(dcp_storage *storage, const char *path, const model *want) {
    model *got = (model *)calloc(1, sizeof *got);
    dcp_load_desc desc = DCP_ZERO;
    dcp_error err;
    CHECK(got != NULL);
    model_make(got, 0);
    desc.path = path;
    desc.tensors = got->list;
    desc.tensor_count = TENSORS;
    desc.verify = DCP_VERIFY_ALL;
    desc.exact = 1;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_load(&desc, &err), err.message);
    CHECK(memcmp(got->values, want->values, sizeof want->values) == 0);
    free(got);
}
static dcp_storage *in_memory(void) {
    dcp_storage *storage;
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    return storage;
}
static int is_there(dcp_storage *storage, const char *key) {
    int exists = 0;
    CHECK_OK(dcp_storage_exists(storage, key, &exists, NULL, NULL));
    return exists;
}
static dcp_checkpoint *open_at(dcp_storage *storage, const char *path, const dcp_select *select) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    desc.path = path;
    desc.select = select;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    return c;
}
static void flip(dcp_storage *storage, const char *key, size_t at) {
    void *data;
    size_t size;
    CHECK_OK(dcp_storage_read_all(storage, key, &data, &size, NULL, NULL));
    CHECK(at < size);
    ((uint8_t *)data)[at] ^= 1;
    CHECK_OK(dcp_storage_write_all(storage, key, data, size, NULL, NULL));
    dcp_free(data);
}
static dcp_status count_one(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(int *)user;
    return DCP_OK;
}

/* ---- files, documents -------------------------------------------------------------------------------------------- */
static const char *const files[TENSORS] = {
    "dense/layer_0/attention_q_0_of_1.bin", "dense/layer_0/mlp_0_of_1.bin",
    "experts/tier_1/group_0/expert_0.bin", "experts/tier_1/group_0/expert_1.bin",
    "experts/tier_2/group_0/expert_2.bin", "experts/tier_2/group_0/expert_3.bin",
    "optim/adam/m_0_of_1.bin", "optim/adam/v_0_of_1.bin", "router/router_0_0_of_1.bin", "router/router_1_0_of_1.bin"
};
static void files_and_fields(int yaml) {
    dcp_storage *storage = in_memory();
    model m;
    dcp_checkpoint *c;
    const dcp_manifest *manifest;
    const dcp_tensor_info *info;
    uint64_t seed;
    int i;
    model_make(&m, 1);
    if (yaml) save_yaml(&m, storage, "runs/s1", 100);
    else save_model(&m, storage, "runs/s1", 100);
    CHECK_STR(report.path, yaml ? "runs/s1.manifest.yaml" : "runs/s1.manifest.json");
    for (i = 0; i < TENSORS; i++) {
        char key[200];
        (void)snprintf(key, sizeof key, "runs/%s", files[i]);
        if (!is_there(storage, key)) test_fail(__FILE__, __LINE__, key, "");
    }
    check_loads(storage, "runs/s1", &m);
    check_loads(storage, report.path, &m);
    c = open_at(storage, "runs/s1", NULL);
    CHECK_INT(dcp_checkpoint_layout(c), DCP_LAYOUT_MANIFEST);
    manifest = dcp_checkpoint_manifest(c);
    CHECK(manifest != NULL);
    CHECK_STR(manifest->model_id, "moe-small");
    CHECK_INT(manifest->epoch, 5);
    CHECK_INT(manifest->step, 100);
    CHECK_INT(manifest->tier_count, 2);
    CHECK_INT(manifest->tiers[0].budget_bytes, INT64_C(40000000000));
    CHECK_INT(manifest->shard_count, DENSE + EXPERTS);
    CHECK_INT(manifest->optim_state.shard_count, 2);
    CHECK_INT(manifest->router_state.layer_count, 3);
    CHECK_INT(manifest->metadata_version, DCP_MANIFEST_VERSION);
    CHECK_OK(dcp_manifest_router_seed(manifest, 0, &seed));
    CHECK(seed == UINT64_MAX);
    CHECK_OK(dcp_manifest_router_seed(manifest, 5, &seed));
    CHECK(seed == 9);
    CHECK_INT(dcp_manifest_router_seed(manifest, 2, &seed), DCP_E_NOT_FOUND);
    CHECK_INT(dcp_checkpoint_training(c)->step, 100);
    CHECK_INT(dcp_checkpoint_tensor_count(c), TENSORS);
    info = dcp_checkpoint_find(c, "expert_c");
    CHECK(info != NULL);
    CHECK_INT(info->role, DCP_ROLE_EXPERT);
    CHECK_STR(info->tier, "warm");
    CHECK_INT(info->expert_key[0], 2);
    CHECK_INT(info->expert_key[2], 2);
    CHECK_INT(info->version, 0);
    CHECK_INT(dcp_checkpoint_find(c, "adam/v")->role, DCP_ROLE_OPTIMIZER);
    CHECK_INT(dcp_checkpoint_find(c, "router_1")->role, DCP_ROLE_ROUTER);
    CHECK_INT(dcp_checkpoint_find(c, "router_1")->expert_key[0], 1);
    dcp_close(c);
    dcp_storage_close(storage);
}
TEST(files_and_fields_in_json) { files_and_fields(0); }
TEST(files_and_fields_in_yaml) { files_and_fields(1); }

TEST(the_documents_of_a_save_validate_without_a_word) {
    dcp_storage *storage = in_memory();
    model m;
    int yaml;
    model_make(&m, 1);
    for (yaml = 0; yaml < 2; yaml++) {
        dcp_manifest *manifest;
        dcp_validation found;
        dcp_error err;
        if (yaml) save_yaml(&m, storage, "b", 1);
        else save_model(&m, storage, "a", 1);
        CHECK_OK_MESSAGE(dcp_manifest_read_file(storage, report.path, NULL, NULL, &manifest, &err), err.message);
        CHECK_OK_MESSAGE(dcp_manifest_validate(manifest, &found), found.error_count ? found.errors[0] : "");
        CHECK_STR(found.warning_count ? found.warnings[0] : "", "");
        dcp_validation_free(&found);
        dcp_manifest_free(manifest);
    }
    dcp_storage_close(storage);
}
TEST(options_of_the_layout_are_checked) {
    dcp_storage *storage = in_memory();
    dcp_router_seed twice[2] = { { 1, 2 }, { 1, 3 } };
    model m;
    dcp_error err;
    dcp_save_desc desc;
    model_make(&m, 1);
    desc = saving(&m, storage, "p", 1);
    m.list[0].tier = "cold";
    CHECK_INT(dcp_save(&desc, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "cold") != NULL);
    m.list[0].tier = NULL;
    m.list[3].expert_key[1] = -1;
    CHECK_INT(dcp_save(&desc, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "expert_key[1]") != NULL);
    m.list[3].expert_key[1] = 0;
    desc.router_seeds = twice;
    desc.router_seed_count = 2;
    CHECK_INT(dcp_save(&desc, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "layer 1 twice") != NULL);
    CHECK(!is_there(storage, "p.manifest.json"));
    dcp_storage_close(storage);
}
/* A document that an open would refuse is an error of the save, before anything is written. */
static void check_save_is_refused(const dcp_save_desc *desc, const char *words) {
    dcp_error err;
    CHECK_INT(dcp_save(desc, &err), DCP_E_INVALID);
    if (!strstr(err.message, words)) test_fail(__FILE__, __LINE__, words, err.message);
    CHECK(!is_there(desc->io.storage, "p.manifest.json"));
    CHECK(!is_there(desc->io.storage, "dense/layer_0/mlp_0_of_1.bin"));
}
TEST(what_could_not_be_opened_is_not_saved) {
    dcp_storage *storage = in_memory();
    dcp_router_seed seed = { -1, 5 };
    dcp_training training = DCP_ZERO;
    dcp_tier list[2];
    model m;
    dcp_save_desc desc;
    model_make(&m, 1);
    desc = saving(&m, storage, "p", 1);
    desc.tiers = list;
#define REFUSED(member, value, words) do { \
        memcpy(list, tiers, sizeof list); \
        list[1].member = value; \
        check_save_is_refused(&desc, words); \
        memcpy(list, tiers, sizeof list); \
    } while (0)
    REFUSED(size_budget, "1.5TB", "tiers[1].size_budget: \"1.5TB\" is not a number of bytes");
    REFUSED(size_budget, "", "tiers[1].size_budget");
    REFUSED(tier_id, -2, "tiers[1].tier_id: must not be negative");
    REFUSED(tier_id, 1, "tiers[1].tier_id: tiers[0] has the same one");
    m.list[4].tier = m.list[5].tier = "hot";            /* so that nothing is in the other one */
    REFUSED(name, "hot", "tiers[1].name: tiers[0] has the same one");
    REFUSED(name, "", "tiers[1].name");
    REFUSED(name, NULL, "tiers[1].name");
    desc.router_seeds = &seed;
    desc.router_seed_count = 1;
    check_save_is_refused(&desc, "layer: must not be negative: -1");
    desc.router_seed_count = 0;
    desc.training = &training;
    training.step = -1;
    check_save_is_refused(&desc, "step: must not be negative");
    training.step = 0;
    training.epoch = -1;
    check_save_is_refused(&desc, "epoch: must not be negative");
    dcp_storage_close(storage);
}
TEST(names_that_differ_by_case_get_files_of_their_own) {
    dcp_storage *storage = in_memory();
    const float a = 1, b = 2;
    float x = 0, y = 0;
    dcp_tensor list[2], wanted[2];
    dcp_save_desc desc = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_error err;
    list[0] = dcp_scalar("Weight", DCP_FP32, &a);
    list[1] = dcp_scalar("weight", DCP_FP32, &b);
    desc.path = "p";
    desc.layout = DCP_LAYOUT_MANIFEST;
    desc.tensors = list;
    desc.tensor_count = 2;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK(!is_there(storage, "dense/weight_0_of_1.bin") && !is_there(storage, "dense/Weight_0_of_1.bin"));
    wanted[0] = dcp_scalar("Weight", DCP_FP32, &x);
    wanted[1] = dcp_scalar("weight", DCP_FP32, &y);
    load.path = "p";
    load.tensors = wanted;
    load.tensor_count = 2;
    load.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    CHECK(x == 1 && y == 2);
    dcp_storage_close(storage);
}

/* Paths of the system, as a program gives them: beyond ASCII, and longer than the 260 characters that Windows has
 * without further ado. */
static void save_and_load_at(model *m, const char *path, dcp_layout layout) {
    dcp_save_desc desc = saving(m, NULL, path, 1);
    dcp_checkpoint *c;
    dcp_error err;
    desc.layout = layout;
    if (layout != DCP_LAYOUT_MANIFEST) {
        desc.model_id = NULL;
        desc.tiers = NULL;
        desc.router_seeds = NULL;
        desc.tier_count = desc.router_seed_count = 0;
    }
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK_INT(dcp_save(&desc, &err), DCP_E_EXISTS);
    desc.overwrite = 1;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK(strlen(report.path) > 260);
    check_loads(NULL, path, m);
    check_loads(NULL, report.path, m);
    c = open_at(NULL, path, NULL);
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    CHECK_STR(dcp_checkpoint_path(c), report.path);
    dcp_close(c);
}
TEST(paths_may_be_long_and_beyond_ascii) {
    static const char part[] = "/Gr\xC3\xBC\xC3\x9F" "e \xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x98\x80 and more than sixty "
                                                     "characters, so that it takes but a few";
    static const char *const names[] = { "\xC3\xA4 sharded", "\xE6\xBC\xA2 single", "\xF0\x9F\x98\x80 manifest" };
    char directory[TEST_PATH], path[TEST_PATH + 64];
    dcp_list_desc list = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_removal removal;
    dcp_error err;
    size_t count, i;
    model m;
    model_make(&m, 1);
    (void)snprintf(directory, sizeof directory, "%s%s%s%s", test_dir(), part, part, part);
    for (i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        save_and_load_at(&m, path, (dcp_layout)i);
    }
    list.directory = directory;
    CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
    CHECK_INT(count, 3);
    for (i = 0; i < count; i++) {
        dcp_remove_desc remove_one = DCP_ZERO;
        CHECK_INT(entries[i].status, DCP_OK);
        remove_one.path = entries[i].path;
        CHECK_OK_MESSAGE(dcp_remove(&remove_one, &removal, &err), err.message);
        dcp_removal_free(&removal);
    }
    dcp_free(entries);
    CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
    CHECK_INT(count, 0);
    dcp_free(entries);
}

/* ---- versions: what is unchanged is kept ------------------------------------------------------------------------- */
TEST(unchanged_files_are_kept_and_changed_ones_get_a_version) {
    dcp_storage *storage = in_memory();
    model one, two, three;
    dcp_checkpoint *c;
    int i;
    model_make(&one, 1);
    model_make(&two, 1);
    model_fill(&two, 3, 2);
    model_make(&three, 1);
    model_fill(&three, 3, 3);
    model_fill(&three, 7, 3);
    save_model(&one, storage, "s1", 1);
    CHECK_INT(report.bytes_reused, 0);
    save_model(&two, storage, "s2", 2);
    CHECK_INT(report.bytes_reused, 9 * sizeof one.values[0]);
    CHECK(is_there(storage, "experts/tier_1/group_0/expert_1.v1.bin"));
    save_yaml(&three, storage, "s3", 3);
    CHECK_INT(report.bytes_reused, 8 * sizeof one.values[0]);
    CHECK(is_there(storage, "experts/tier_1/group_0/expert_1.v2.bin"));
    CHECK(is_there(storage, "optim/adam/v_0_of_1.v1.bin"));
    check_loads(storage, "s1", &one);
    check_loads(storage, "s2", &two);
    check_loads(storage, "s3", &three);
    c = open_at(storage, "s3", NULL);
    for (i = 0; i < TENSORS; i++)
        CHECK_INT(dcp_checkpoint_find(c, three.list[i].name)->version, i == 3 ? 2 : i == 7 ? 1 : 0);
    dcp_close(c);
    dcp_storage_close(storage);
}
TEST(a_version_that_is_asked_for_is_the_least) {
    dcp_storage *storage = in_memory();
    model m;
    dcp_checkpoint *c;
    dcp_error err;
    dcp_save_desc desc;
    model_make(&m, 1);
    m.list[0].version = 7;
    m.list[3].version = INT64_MAX;
    save_model(&m, storage, "s1", 1);
    CHECK(is_there(storage, "dense/layer_0/attention_q_0_of_1.v7.bin"));
    model_fill(&m, 0, 2);
    model_fill(&m, 1, 2);
    m.list[0].version = 3;                              /* lower than what the base has: it goes on counting */
    m.list[1].version = 1;
    m.list[2].version = 9;                              /* unchanged: the file is kept, and its version */
    save_model(&m, storage, "s2", 2);
    c = open_at(storage, "s2", NULL);
    CHECK_INT(dcp_checkpoint_find(c, m.list[0].name)->version, 8);
    CHECK_INT(dcp_checkpoint_find(c, m.list[1].name)->version, 1);
    CHECK_INT(dcp_checkpoint_find(c, m.list[2].name)->version, 0);
    CHECK(dcp_checkpoint_find(c, m.list[3].name)->version == INT64_MAX);
    dcp_close(c);
    m.list[4].version = -1;
    desc = saving(&m, storage, "s3", 3);
    CHECK_INT(dcp_save(&desc, &err), DCP_E_INVALID);
    CHECK(strstr(err.message, "version is negative") != NULL);
    dcp_storage_close(storage);
}
TEST(a_second_save_of_which_one_percent_changed_writes_one_percent) {
    enum { MANY = 200, SIZE = 4096 };
    dcp_storage *storage = in_memory();
    uint8_t *bytes = (uint8_t *)malloc((size_t)MANY * SIZE);
    dcp_tensor list[MANY];
    char names[MANY][16];
    dcp_save_desc desc = DCP_ZERO;
    dcp_error err;
    dcp_object_info info;
    int i;
    CHECK(bytes != NULL);
    for (i = 0; i < MANY * SIZE; i++) bytes[i] = (uint8_t)(i * 31 + i / SIZE);
    for (i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        list[i] = dcp_bytes(names[i], bytes + (size_t)i * SIZE, SIZE);
    }
    desc.path = "a";
    desc.layout = DCP_LAYOUT_MANIFEST;
    desc.tensors = list;
    desc.tensor_count = MANY;
    desc.report = &report;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    bytes[7 * SIZE] ^= 1;
    bytes[90 * SIZE + 5] ^= 1;
    desc.path = "b";
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK_OK(dcp_storage_info(storage, "b.manifest.json", &info, NULL, NULL));
    CHECK_INT(report.bytes_reused, (MANY - 2) * SIZE);
    CHECK_INT(report.bytes_written - info.size, 2 * SIZE);
    free(bytes);
    dcp_storage_close(storage);
}
TEST(a_kept_file_that_vanished_is_written_anew) {
    dcp_storage *storage = in_memory();
    model m;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    CHECK_OK(dcp_storage_remove(storage, files[4], NULL, NULL));
    CHECK_OK(dcp_storage_write_all(storage, files[5], "short", 5, NULL, NULL));
    save_model(&m, storage, "s2", 2);
    CHECK_INT(report.bytes_reused, 8 * sizeof m.values[0]);
    check_loads(storage, "s2", &m);
    dcp_storage_close(storage);
}
TEST(names_that_are_taken_are_never_replaced) {
    dcp_storage *storage = in_memory();
    model m;
    void *data;
    size_t size;
    model_make(&m, 1);
    CHECK_OK(dcp_storage_write_all(storage, files[0], "mine", 4, NULL, NULL));
    save_model(&m, storage, "s1", 1);
    check_loads(storage, "s1", &m);
    CHECK_OK(dcp_storage_read_all(storage, files[0], &data, &size, NULL, NULL));
    CHECK_INT(size, 4);
    dcp_free(data);
    dcp_storage_close(storage);
}
TEST(an_overwritten_manifest_leaves_what_others_name) {
    dcp_storage *storage = in_memory();
    model one, two;
    dcp_save_desc desc;
    dcp_error err;
    model_make(&one, 1);
    model_make(&two, 1);
    model_fill(&two, 0, 2);
    save_model(&one, storage, "s1", 1);
    save_model(&one, storage, "s2", 2);
    desc = saving(&two, storage, "s2", 3);
    desc.overwrite = 1;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    check_loads(storage, "s1", &one);
    check_loads(storage, "s2", &two);
    model_fill(&two, 0, 3);
    desc = saving(&two, storage, "s2", 4);
    desc.overwrite = 1;
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK(!is_there(storage, "dense/layer_0/attention_q_0_of_1.v1.bin"));       /* only the displaced one named it */
    check_loads(storage, "s1", &one);
    check_loads(storage, "s2", &two);
    dcp_storage_close(storage);
}

/* ---- removal: what a manifest names stays ------------------------------------------------------------------------ */
static void sweep_at(dcp_storage *storage, int64_t grace, int plain, size_t expected) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_error err;
    desc.grace_seconds = grace;
    desc.plain_names = plain;
    desc.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_sweep(&desc, &removal, &err), err.message);
    if (removal.path_count != expected && removal.path_count > 0) printf("# swept %s ...\n", removal.paths[0]);
    CHECK_INT(removal.path_count, expected);
    dcp_removal_free(&removal);
}
TEST(prune_and_remove_know_what_manifests_share) {
    dcp_storage *storage = in_memory();
    model m;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_remove_desc remove = DCP_ZERO;
    dcp_error err;
    int i;
    model_make(&m, 1);
    for (i = 1; i <= 4; i++) {
        char path[8];
        (void)snprintf(path, sizeof path, "s%d", i);
        model_fill(&m, 1, i);
        save_model(&m, storage, path, i);
    }
    prune.keep_last = 2;
    prune.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK(!is_there(storage, "s1.manifest.json") && !is_there(storage, "s2.manifest.json"));
    CHECK(!is_there(storage, files[1]) && !is_there(storage, "dense/layer_0/mlp_0_of_1.v1.bin"));
    CHECK(is_there(storage, files[0]));
    check_loads(storage, "s4", &m);
    model_fill(&m, 1, 3);
    check_loads(storage, "s3", &m);
    remove.path = "s4";
    remove.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_remove(&remove, NULL, &err), err.message);
    check_loads(storage, "s3", &m);
    remove.path = "s3.manifest.json";
    CHECK_OK_MESSAGE(dcp_remove(&remove, NULL, &err), err.message);
    for (i = 0; i < TENSORS; i++) CHECK(!is_there(storage, files[i]));
    dcp_storage_close(storage);
}
TEST(nothing_of_the_pool_goes_while_a_manifest_is_being_saved) {
    const char *intent = "s9.manifest.0123456789abcdef.intent.tmp";
    dcp_storage *storage = in_memory();
    model m;
    dcp_remove_desc remove = DCP_ZERO;
    dcp_error err;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    CHECK_OK(dcp_storage_write_all(storage, intent, "{}", 2, NULL, NULL));
    remove.path = "s1";
    remove.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_remove(&remove, NULL, &err), err.message);
    CHECK(!is_there(storage, "s1.manifest.json") && is_there(storage, files[0]));
    sweep_at(storage, 3600, 1, 0);                      /* younger than the grace time, all of it */
    sweep_at(storage, -1, 0, 1);                        /* the intent; plain names only on request */
    CHECK(!is_there(storage, intent));
    sweep_at(storage, -1, 1, TENSORS);
    dcp_storage_close(storage);
}
/* A file with a time in the future is not kept forever. */
TEST(an_intent_from_the_future_expires) {
#ifdef _WIN32
    SKIP("needs utime");
#else
    static const char intent[] = "s9.manifest.0123456789abcdef.intent.tmp",
        lost[] = "dense/x_0_of_1.v3.0123456789abcdef.bin";
    const char *dir = test_dir();
    dcp_storage *storage;
    dcp_remove_desc removing = DCP_ZERO;
    dcp_error err;
    struct utimbuf times;
    char path[TEST_PATH + 100];
    int count = 0;
    model m;
    model_make(&m, 1);
    CHECK_OK_MESSAGE(dcp_storage_local(dir, &storage, &err), err.message);
    CHECK_OK(dcp_storage_write_all(storage, intent, "{}", 2, NULL, NULL));
    CHECK_OK(dcp_storage_write_all(storage, lost, "left", 4, NULL, NULL));
    (void)snprintf(path, sizeof path, "%s/%s", dir, intent);
    times.actime = times.modtime = time(NULL) + 3600;   /* a clock may be wrong by that much */
    CHECK_INT(utime(path, &times), 0);
    save_model(&m, storage, "s1", 1);
    removing.path = "s1";
    removing.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_remove(&removing, NULL, &err), err.message);
    CHECK(is_there(storage, files[0]));
    sweep_at(storage, 0, 0, 0);
    times.actime = times.modtime = time(NULL) + 30 * 86400;
    CHECK_INT(utime(path, &times), 0);
    save_model(&m, storage, "s2", 2);
    removing.path = "s2";
    CHECK_OK_MESSAGE(dcp_remove(&removing, NULL, &err), err.message);
    CHECK_OK(storage->list(storage->context, "dense/layer_0", DCP_LIST_OBJECTS, count_one, &count, NULL));
    CHECK(count == 2 && is_there(storage, intent));     /* those of s1, from before */
    sweep_at(storage, INT64_MAX, 1, 0);
    (void)snprintf(path, sizeof path, "%s/%s", dir, lost);
    CHECK_INT(utime(path, &times), 0);
    sweep_at(storage, 0, 0, 2);
    CHECK(!is_there(storage, intent) && !is_there(storage, lost));
    dcp_storage_close(storage);
#endif
}
TEST(sweep_takes_what_a_killed_save_left_in_the_folders) {
    static const char *const left[] = { "dense/layer_0/x_0_of_1.v3.0123456789abcdef.bin",
                                        "dense/layer_0/x_0_of_1.bin.0123456789abcdef.tmp",
                                        "experts/tier_0/group_3/expert_7.v1.0123456789abcdef.bin",
                                        "p.manifest.0123456789abcdef.intent.tmp" };
    static const char *const others[] = { "dense/notes.bin", "dense/x.v3.0123456789abcdef.bin",
                                          "data/x_0_of_1.v3.0123456789abcdef.bin",
                                          "dense/x_0_of_1.v.0123456789abcdef.bin", "optim/state_0.bin" };
    dcp_storage *storage = in_memory();
    model m;
    size_t i;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    for (i = 0; i < DCPI_COUNT(left); i++) CHECK_OK(dcp_storage_write_all(storage, left[i], "x", 1, NULL, NULL));
    for (i = 0; i < DCPI_COUNT(others); i++) CHECK_OK(dcp_storage_write_all(storage, others[i], "x", 1, NULL, NULL));
    sweep_at(storage, 3600, 1, 0);
    sweep_at(storage, -1, 0, DCPI_COUNT(left));
    for (i = 0; i < DCPI_COUNT(others); i++) CHECK(is_there(storage, others[i]));
    CHECK_OK(dcp_storage_write_all(storage, "dense/layer_0/attention_q_0_of_1.v5.bin", "x", 1, NULL, NULL));
    sweep_at(storage, -1, 0, 0);
    sweep_at(storage, -1, 1, 1);
    check_loads(storage, "s1", &m);
    dcp_storage_close(storage);
}
TEST(sweep_finds_the_folders_on_a_disk) {
    dcp_storage *storage;
    model m;
    int count = 0;
    CHECK_OK(dcp_storage_local(test_dir(), &storage, NULL));
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    check_loads(storage, "s1", &m);
    CHECK_OK(dcp_storage_write_all(storage, "dense/a/b/c_0_of_1.v1.0123456789abcdef.bin", "x", 1, NULL, NULL));
    sweep_at(storage, -1, 0, 1);
    CHECK_OK(dcp_storage_remove(storage, "s1.manifest.json", NULL, NULL));
    sweep_at(storage, -1, 1, TENSORS);
    CHECK_OK(storage->list(storage->context, "dense/layer_0", DCP_LIST_OBJECTS, count_one, &count, NULL));
    CHECK_INT(count, 0);
    dcp_storage_close(storage);
}

/* ---- selection --------------------------------------------------------------------------------------------------- */
static size_t selected(dcp_storage *storage, const dcp_select *select) {
    dcp_checkpoint *c = open_at(storage, "s1", NULL), *part = open_at(storage, "s1", select);
    const dcp_tensor_info **found;
    size_t count, i;
    CHECK_OK(dcp_checkpoint_select(c, select, &found, &count, NULL));
    CHECK_INT(dcp_checkpoint_tensor_count(part), count);
    for (i = 0; i < count; i++) CHECK_STR(dcp_checkpoint_tensor(part, i)->name, found[i]->name);
    dcp_free((void *)found);
    dcp_close(part);
    dcp_close(c);
    return count;
}
static int keep_adam(void *user, const char *name) { ++*(int *)user; return strncmp(name, "adam", 4) == 0; }

TEST(tensors_are_selected_by_tier_role_key_name_part_and_predicate) {
    static const char *const warm[] = { "warm" }, *const by_id[] = { "1", "2" }, *const unknown[] = { "cold" };
    static const dcp_role roles[] = { DCP_ROLE_OPTIMIZER, DCP_ROLE_ROUTER };
    static const int64_t keys[2][3] = { { 1, 0, -1 }, { -1, -1, 3 } };
    dcp_storage *storage = in_memory();
    dcp_select select = DCP_ZERO, none = DCP_ZERO;
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    model m;
    int calls = 0, part;
    size_t sum = 0;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    CHECK_INT(selected(storage, &none), TENSORS);
    select.tiers = warm; select.tier_count = 1;
    CHECK_INT(selected(storage, &select), 2);
    select.tiers = by_id; select.tier_count = 2;
    CHECK_INT(selected(storage, &select), DENSE + EXPERTS);
    select = none;
    select.roles = roles; select.role_count = 2;
    CHECK_INT(selected(storage, &select), 4);
    select = none;
    select.expert_keys = keys; select.expert_count = 2;
    CHECK_INT(selected(storage, &select), 3);
    select = none;
    select.name_pattern = "*_a*n_?";
    CHECK_INT(selected(storage, &select), 0);
    select.name_pattern = "layer_?/*";
    CHECK_INT(selected(storage, &select), 2);
    select = none;
    for (part = 0; part < 3; part++) {
        select.part = part;
        select.part_count = 3;
        sum += selected(storage, &select);
    }
    CHECK_INT(sum, TENSORS);
    select = none;
    select.keep = keep_adam; select.user = &calls;
    CHECK_INT(selected(storage, &select), 2);
    CHECK_INT(calls, 2 * TENSORS);
    desc.path = "s1";
    desc.io.storage = storage;
    desc.select = &select;
    select = none;
    select.tiers = unknown; select.tier_count = 1;
    CHECK_INT(dcp_open(&desc, &c, &err), DCP_E_MISMATCH);
    CHECK(c == NULL && strstr(err.message, "cold") != NULL);
    select = none;
    select.part = 3; select.part_count = 3;
    CHECK_INT(dcp_open(&desc, &c, &err), DCP_E_INVALID);
    dcp_storage_close(storage);
}
TEST(files_of_tiers_that_are_not_selected_need_not_be_there) {
    static const char *const hot[] = { "hot" };
    dcp_storage *storage = in_memory();
    dcp_select select = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    model m, got;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    CHECK_OK(dcp_storage_remove(storage, files[4], NULL, NULL));
    flip(storage, files[5], 3);
    select.tiers = hot; select.tier_count = 1;
    c = open_at(storage, "s1", &select);
    model_make(&got, 0);
    CHECK_OK_MESSAGE(dcp_read(c, got.list, DENSE + 2, &err), err.message);
    CHECK(memcmp(got.values, m.values, (DENSE + 2) * sizeof m.values[0]) == 0);
    CHECK_INT(dcp_read(c, got.list + 4, 1, &err), DCP_E_MISMATCH);
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_close(c);
    c = open_at(storage, "s1", NULL);
    CHECK_INT(dcp_read(c, got.list + 4, 1, &err), DCP_E_INCOMPLETE);
    CHECK(strstr(err.message, files[4]) != NULL);
    CHECK_INT(dcp_read(c, got.list + 5, 1, &err), DCP_E_CHECKSUM);
    CHECK(dcp_verify(c, &err) != DCP_OK);
    dcp_close(c);
    dcp_storage_close(storage);
}

/* ---- other sources ----------------------------------------------------------------------------------------------- */
static void copy_all(dcp_storage *from, dcp_storage *to) {
    int i;
    for (i = 0; i < TENSORS; i++) {
        void *data;
        size_t size;
        CHECK_OK(dcp_storage_read_all(from, files[i], &data, &size, NULL, NULL));
        CHECK_OK(dcp_storage_write_all(to, files[i], data, size, NULL, NULL));
        dcp_free(data);
    }
}
static void fetched_from_elsewhere(dcp_checksum checksum, dcp_verify_policy verify) {
    dcp_storage *storage = in_memory(), *bad = in_memory(), *good = in_memory();
    dcp_source sources[2];
    dcp_open_desc desc = DCP_ZERO;
    dcp_save_desc save;
    dcp_checkpoint *c;
    dcp_error err;
    const void *data;
    size_t size;
    model m, got;
    memset(sources, 0, sizeof sources);
    sources[0].storage = bad;
    sources[1].storage = good;
    model_make(&m, 1);
    save = saving(&m, storage, "s1", 1);
    save.checksum = checksum;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    copy_all(storage, good);
    copy_all(storage, bad);
    CHECK_OK(dcp_storage_remove(storage, files[0], NULL, NULL));
    flip(storage, files[1], 5);
    flip(bad, files[1], 6);
    CHECK_OK(dcp_storage_write_all(storage, files[2], "short", 5, NULL, NULL));
    CHECK_OK(dcp_storage_remove(bad, files[2], NULL, NULL));
    desc.path = "s1";
    desc.verify = verify;
    desc.io.storage = storage;
    desc.sources = sources;
    desc.source_count = 2;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    model_make(&got, 0);
    CHECK_OK_MESSAGE(dcp_read(c, got.list, TENSORS, &err), err.message);
    CHECK(memcmp(got.values, m.values, sizeof m.values) == 0);
    CHECK_OK_MESSAGE(dcp_map(c, "layer_0/mlp", &data, &size, &err), err.message);
    CHECK(size == sizeof m.values[1] && memcmp(data, m.values[1], size) == 0);
    CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
    dcp_close(c);
    desc.source_count = 1;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);
    CHECK_INT(dcp_read(c, got.list + 1, 1, &err), DCP_E_CHECKSUM);
    CHECK_INT(dcp_read(c, got.list + 2, 1, &err), DCP_E_INCOMPLETE);
    dcp_close(c);
    dcp_storage_close(storage);
    dcp_storage_close(good);
    dcp_storage_close(bad);
}
TEST(what_is_missing_or_damaged_is_fetched_from_a_source) {
    fetched_from_elsewhere(DCP_CHECKSUM_TREE, DCP_VERIFY_TOUCHED);
}
TEST(flat_checksums_are_fetched_from_a_source_too) { fetched_from_elsewhere(DCP_CHECKSUM_FLAT, DCP_VERIFY_TOUCHED); }

TEST(sources_that_cannot_be_used) {
    dcp_storage *storage = in_memory();
    const char *dir = test_dir();
    char nowhere[TEST_PATH + 16];
    dcp_source source = DCP_ZERO;
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    model m;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    desc.path = "s1";
    desc.io.storage = storage;
    desc.source_count = 1;
    CHECK_INT(dcp_open(&desc, &c, &err), DCP_E_INVALID);
    CHECK(c == NULL && strstr(err.message, "source_count is set, but sources is NULL") != NULL);
    desc.sources = &source;
    (void)snprintf(nowhere, sizeof nowhere, "%s/nowhere", dir);
    source.directory = nowhere;
    CHECK_OK_MESSAGE(dcp_open(&desc, &c, &err), err.message);  /* one that is not there cannot help, and does no harm */
    CHECK_OK(dcp_verify(c, &err));
    dcp_close(c);
    source.storage = storage;
    source.directory = "../above";
    CHECK_INT(dcp_open(&desc, &c, &err), DCP_E_INVALID);
    CHECK(c == NULL && strncmp(err.message, "open: sources[0]: ", 18) == 0);
    dcp_storage_close(storage);
}
static void check_not_opened(dcp_open_desc desc, dcp_status want, const char *words) {
    dcp_checkpoint *c = (dcp_checkpoint *)&desc;
    dcp_error err;
    CHECK_INT(dcp_open(&desc, &c, &err), want);
    CHECK(c == NULL && err.status == want);
    if (!strstr(err.message, words)) printf("got %s\n", err.message);
    CHECK(strstr(err.message, words) != NULL);
}
TEST(what_cannot_be_opened_or_selected) {
    static const char *const nameless[] = { NULL }, *const unknown[] = { "cold" };
    dcp_storage *storage = in_memory();
    dcp_open_desc desc = DCP_ZERO;
    dcp_select select = DCP_ZERO;
    model m;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    desc.io.storage = storage;
    check_not_opened(desc, DCP_E_INVALID, "path is not set");
    desc.path = "";
    check_not_opened(desc, DCP_E_INVALID, "path is not set");
    desc.path = "s1";
    desc.verify = (dcp_verify_policy)99;
    check_not_opened(desc, DCP_E_INVALID, "99 is not a verify policy");
    desc.verify = (dcp_verify_policy)-1;
    check_not_opened(desc, DCP_E_INVALID, "is not a verify policy");
    desc.verify = DCP_VERIFY_TOUCHED;
    desc.select = &select;
    select.tier_count = 1;
    check_not_opened(desc, DCP_E_INVALID, "a count is set, but its list is NULL");
    select.tiers = nameless;
    check_not_opened(desc, DCP_E_MISMATCH, "has no tier \"(null)\"");
    select.tiers = unknown;
    check_not_opened(desc, DCP_E_MISMATCH, "has no tier \"cold\"");
    select.tier_count = 0;
    select.role_count = 1;
    check_not_opened(desc, DCP_E_INVALID, "its list is NULL");
    select.role_count = 0;
    select.expert_count = 1;
    check_not_opened(desc, DCP_E_INVALID, "its list is NULL");
    select.expert_count = 0;
    select.part_count = -1;
    check_not_opened(desc, DCP_E_INVALID, "there is no part 0 of -1");
    select.part_count = 2;
    select.part = 2;
    check_not_opened(desc, DCP_E_INVALID, "there is no part 2 of 2");
    select.part = -1;
    check_not_opened(desc, DCP_E_INVALID, "there is no part -1 of 2");
    dcp_storage_close(storage);
}

/* ---- what happens beside a save, between its data and its commit ------------------------------------------------- */
/* When the file `after` has its name, `key` becomes `text`, or goes (NULL), or time passes (no key). */
typedef struct meddler {
    dcp_storage *storage;
    const char *after, *key, *text;
    int is_done;
    dcp_status status;
} meddler;

static void meddle(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    meddler *m = (meddler *)user;
    const int64_t begun = dcpi_os_monotonic_ms();
    (void)call;
    if (kind != FAULT_COMMIT || !is_done || m->is_done || strcmp(key, m->after) != 0) return;
    m->is_done = 1;
    if (m->text) m->status = dcp_storage_write_all(m->storage, m->key, m->text, strlen(m->text), NULL, NULL);
    else if (m->key) m->status = dcp_storage_remove(m->storage, m->key, NULL, NULL);
    else while (dcpi_os_monotonic_ms() == begun) continue;
}
static void check_meddled(dcp_layout layout, const char *key, const char *text, dcp_status want, const char *words) {
    const int is_sharded = layout == DCP_LAYOUT_SHARDED;
    fault_storage storage;
    meddler beside;
    dcp_save_desc desc;
    dcp_error err;
    model m;
    memset(&beside, 0, sizeof beside);
    beside.storage = in_memory();
    beside.after = is_sharded ? "s2_shard_0.bin" : files[3];
    beside.key = key; beside.text = text;
    fault_open(&storage, beside.storage);
    storage.hook = meddle;
    storage.user = &beside;
    model_make(&m, 1);
    desc = saving(&m, &storage.storage, "s2", 2);
    if (is_sharded) {
        memset(&desc, 0, sizeof desc);
        m.list[0].tier = NULL;
        desc.path = "s2"; desc.tensors = m.list; desc.tensor_count = 1; desc.io.storage = &storage.storage;
    }
    CHECK_INT(dcp_save(&desc, &err), want);
    CHECK(beside.is_done && beside.status == DCP_OK);
    if (!strstr(err.message, words)) printf("got %s\n", err.message);
    CHECK(strstr(err.message, words) != NULL);
    CHECK(!is_there(beside.storage, is_sharded ? "s2.metadata.json" : "s2.manifest.json"));
    fault_close(&storage);
    dcp_storage_close(beside.storage);
}
TEST(files_that_change_before_the_commit_are_found) {
    check_meddled(DCP_LAYOUT_MANIFEST, files[3], "short", DCP_E_INCOMPLETE,
                  "expert_1.bin has 5 bytes, not the 384 that it was saved with");
    check_meddled(DCP_LAYOUT_MANIFEST, files[3], NULL, DCP_E_INCOMPLETE, "expert_1.bin");
    check_meddled(DCP_LAYOUT_SHARDED, "s2_shard_0.bin", "short", DCP_E_INCOMPLETE, "s2_shard_0.bin");
    check_meddled(DCP_LAYOUT_SHARDED, "s2_shard_0.bin", NULL, DCP_E_INCOMPLETE, "s2_shard_0.bin");
}
TEST(a_commit_in_another_layout_meanwhile_is_not_joined) {
    check_meddled(DCP_LAYOUT_MANIFEST, "s2.metadata.json", "somebody else's", DCP_E_EXISTS,
                  "in another layout: s2.metadata.json");
    check_meddled(DCP_LAYOUT_MANIFEST, "s2.checkpoint", "somebody else's", DCP_E_EXISTS,
                  "in another layout: s2.checkpoint");
    check_meddled(DCP_LAYOUT_SHARDED, "s2.manifest.yaml", "somebody else's", DCP_E_EXISTS,
                  "in another layout: s2.manifest.yaml");
}
TEST(a_save_that_takes_too_long_gives_up) {
    grace_seconds = 0;
    check_meddled(DCP_LAYOUT_MANIFEST, NULL, NULL, DCP_E_TIMEOUT, "older than half the grace time of sweep");
    grace_seconds = 86400;
}

/* ---- lazy -------------------------------------------------------------------------------------------------------- */
TEST(opening_touches_no_file_and_a_map_touches_one) {
    dcp_storage *storage = in_memory();
    dcp_checkpoint *c;
    dcp_error err;
    const void *data, *again;
    size_t size;
    model m;
    int i;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    for (i = 1; i < TENSORS; i++) CHECK_OK(dcp_storage_remove(storage, files[i], NULL, NULL));
    c = open_at(storage, "s1", NULL);
    CHECK_OK_MESSAGE(dcp_map(c, "layer_0/attention_q", &data, &size, &err), err.message);
    CHECK(size == sizeof m.values[0] && memcmp(data, m.values[0], size) == 0);
    CHECK_OK(dcp_map(c, "layer_0/attention_q", &again, &size, &err));
    CHECK(again == data);
    CHECK_INT(dcp_map(c, "layer_0/mlp", &data, &size, &err), DCP_E_INCOMPLETE);
    dcp_release(c, "layer_0/attention_q");
    CHECK(memcmp(again, m.values[0], sizeof m.values[0]) == 0);          /* mapped twice, released once */
    dcp_release(c, "layer_0/attention_q");
    flip(storage, files[0], 9);
    dcp_close(c);                                    /* an open one may still have the file open that is replaced now */
    c = open_at(storage, "s1", NULL);
    CHECK_INT(dcp_map(c, "layer_0/attention_q", &data, &size, &err), DCP_E_CHECKSUM);
    dcp_release(c, "layer_0/attention_q");
    dcp_release(c, "nobody");
    dcp_release(NULL, NULL);
    dcp_close(c);
    dcp_storage_close(storage);
}
#if !DCP_NO_THREADS
typedef struct mapper { dcp_checkpoint *c; const model *m; dcpi_thread thread; int seed, wrong; } mapper;
static void map_often(void *user) {
    mapper *p = (mapper *)user;
    uint64_t state = (uint64_t)p->seed;
    int i;
    for (i = 0; i < 300; i++) {
        const void *data;
        size_t size;
        int t;
        state = state * 6364136223846793005u + 1442695040888963407u;
        t = (int)((state >> 33) % TENSORS);
        if (dcp_map(p->c, p->m->list[t].name, &data, &size, NULL) != DCP_OK || memcmp(data, p->m->values[t], size) != 0)
            p->wrong++;
        dcp_release(p->c, p->m->list[t].name);
    }
}
/* The one that lets go last and the one that brings it anew are never in each other's way. */
static void map_one(void *user) {
    mapper *p = (mapper *)user;
    int i;
    for (i = 0; i < 500; i++) {
        const void *data;
        size_t size;
        if (dcp_map(p->c, p->m->list[0].name, &data, &size, NULL) != DCP_OK || !data ||
            memcmp(data, p->m->values[0], size) != 0) p->wrong++;
        dcp_release(p->c, p->m->list[0].name);
    }
}
static void many_threads_map_one(dcp_storage *storage) {
    enum { MAPPERS = 4 };
    dcp_checkpoint *c;
    mapper mappers[MAPPERS];
    model m;
    int i;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    c = open_at(storage, "s1", NULL);
    for (i = 0; i < MAPPERS; i++) {
        mappers[i].c = c;
        mappers[i].m = &m;
        mappers[i].wrong = 0;
        CHECK_INT(dcpi_thread_start(&mappers[i].thread, map_one, &mappers[i]), 0);
    }
    for (i = 0; i < MAPPERS; i++) dcpi_thread_join(&mappers[i].thread);
    for (i = 0; i < MAPPERS; i++) CHECK_INT(mappers[i].wrong, 0);
    dcp_close(c);
    dcp_storage_close(storage);
}
TEST(many_threads_map_and_release_one_tensor) {
    dcp_storage *storage;
    CHECK_OK(dcp_storage_local(test_dir(), &storage, NULL));
    many_threads_map_one(storage);
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    storage->map = NULL;                                /* copies */
    many_threads_map_one(storage);
}
TEST(many_threads_map_release_and_prefetch) {
    enum { MAPPERS = 4 };
    dcp_storage *storage;
    dcp_checkpoint *c;
    dcp_error err;
    mapper mappers[MAPPERS];
    model m;
    int i;
    CHECK_OK(dcp_storage_local(test_dir(), &storage, NULL));
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    c = open_at(storage, "s1", NULL);
    for (i = 0; i < MAPPERS; i++) {
        mappers[i].c = c;
        mappers[i].m = &m;
        mappers[i].seed = i + 1;
        mappers[i].wrong = 0;
        CHECK_INT(dcpi_thread_start(&mappers[i].thread, map_often, &mappers[i]), 0);
    }
    for (i = 0; i < 20; i++) {
        dcp_status status = dcp_prefetch(c, NULL, 0, &err);
        if (!status) status = dcp_prefetch_wait(c, i & 1, &err);
        if (status) break;
    }
    {
        int k;
        for (k = 0; k < MAPPERS; k++) dcpi_thread_join(&mappers[k].thread);
        for (k = 0; k < MAPPERS; k++) CHECK_INT(mappers[k].wrong, 0);
    }
    CHECK_INT(i, 20);
    dcp_close(c);
    dcp_storage_close(storage);
}
#endif
TEST(prefetch_is_bounded_and_reports_what_it_met) {
    dcp_storage *storage = in_memory();
    dcp_checkpoint *c;
    dcp_error err;
    dcp_select select = DCP_ZERO;
    const void *data;
    size_t size;
    model m;
    model_make(&m, 1);
    save_model(&m, storage, "s1", 1);
    flip(storage, files[6], 9);                         /* adam/m, the first of the names */
    c = open_at(storage, "s1", NULL);
    CHECK_OK(dcp_prefetch(c, NULL, 0, &err));
    CHECK_INT(dcp_prefetch_wait(c, 0, &err), DCP_E_CHECKSUM);
    CHECK(strstr(err.message, "adam/m") != NULL);
    select.name_pattern = "expert_*";
    CHECK_OK(dcp_prefetch(c, &select, 2 * (int64_t)sizeof m.values[0], &err));
    CHECK_OK_MESSAGE(dcp_prefetch_wait(c, 0, &err), err.message);
    flip(storage, files[2], 1);                     /* what was brought stays as it is; what was not is looked at now */
    CHECK_OK_MESSAGE(dcp_map(c, "expert_a", &data, &size, &err), err.message);
    CHECK(memcmp(data, m.values[2], size) == 0);
    flip(storage, files[5], 1);
    CHECK_INT(dcp_map(c, "expert_d", &data, &size, &err), DCP_E_CHECKSUM);
    CHECK_INT(dcp_prefetch(c, NULL, -1, &err), DCP_E_INVALID);
    CHECK_OK(dcp_prefetch_wait(c, 1, &err));
    dcp_close(c);
    dcp_storage_close(storage);
}

/* ---- sync: a local copy ------------------------------------------------------------------------------------------ */
static dcp_sync_report synced;
static dcp_status sync_to(dcp_storage *from, dcp_storage *to, dcp_sync_desc *given, dcp_error *err) {
    dcp_sync_desc desc = DCP_ZERO;
    if (given) desc = *given;
    desc.source = from;
    desc.path = "s1";
    desc.target = to;
    desc.directory = "nvme";
    desc.report = &synced;
    return dcp_sync(&desc, err);
}
TEST(sync_copies_what_is_missing_stale_or_corrupt) {
    dcp_storage *from = in_memory(), *to = in_memory();
    dcp_sync_desc desc = DCP_ZERO;
    dcp_save_desc save;
    dcp_error err;
    model m;
    char key[200];
    model_make(&m, 1);
    save_model(&m, from, "s1", 1);
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    CHECK_INT(synced.copied, TENSORS);
    CHECK_INT(synced.missing, TENSORS);
    CHECK_INT(synced.bytes_copied, sizeof m.values);
    CHECK_STR(synced.path, "nvme/s1.manifest.json");
    check_loads(to, "nvme/s1", &m);
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    CHECK_INT(synced.copied, 0);
    CHECK_INT(synced.kept, TENSORS);
    /* one changed, one vanished here, one damaged here with its size as it was: only a full look finds that */
    model_fill(&m, 4, 2);
    save = saving(&m, from, "s1", 2);
    save.overwrite = 1;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    (void)snprintf(key, sizeof key, "nvme/%s", files[0]);
    CHECK_OK(dcp_storage_remove(to, key, NULL, NULL));
    (void)snprintf(key, sizeof key, "nvme/%s", files[7]);
    flip(to, key, 77);
    desc.dry_run = 1;
    desc.verify = DCP_VERIFY_ALL;
    CHECK_OK_MESSAGE(sync_to(from, to, &desc, &err), err.message);
    CHECK(synced.stale == 1 && synced.missing == 1 && synced.corrupt == 1 && synced.copied == 0);
    desc.dry_run = 0;
    CHECK_OK_MESSAGE(sync_to(from, to, &desc, &err), err.message);
    CHECK(synced.stale == 1 && synced.missing == 1 && synced.corrupt == 1 && synced.copied == 3);
    check_loads(to, "nvme/s1", &m);
    (void)snprintf(key, sizeof key, "nvme/%s", files[4]);
    CHECK(!is_there(to, key));                          /* version 0, which only the old copy named */
    dcp_storage_close(from);
    dcp_storage_close(to);
}
/* The copy's manifest is there, and then the sync is cancelled: it has happened, and what only the old copy named
 * goes. */
static dcp_cancel too_late;
static void cancel_after_the_commit(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    (void)user; (void)call;
    if (kind == FAULT_COMMIT && is_done && strcmp(key, "nvme/s1.manifest.json") == 0) dcp_cancel_request(&too_late);
}
TEST(a_cancel_after_a_syncs_commit_leaves_nothing) {
    dcp_storage *from = in_memory(), *to = in_memory();
    fault_storage target;
    dcp_sync_desc desc = DCP_ZERO;
    dcp_save_desc save;
    dcp_error err;
    model m;
    char key[200];
    model_make(&m, 1);
    save_model(&m, from, "s1", 1);
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    model_fill(&m, 4, 2);
    save = saving(&m, from, "s1", 2);
    save.overwrite = 1;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    fault_open(&target, to);
    target.hook = cancel_after_the_commit;
    desc.io.cancel = &too_late;
    CHECK_OK_MESSAGE(sync_to(from, &target.storage, &desc, &err), err.message);
    CHECK(too_late.requested);
    check_loads(to, "nvme/s1", &m);
    (void)snprintf(key, sizeof key, "nvme/%s", files[4]);
    CHECK(!is_there(to, key));
    fault_close(&target);
    dcp_storage_close(from);
    dcp_storage_close(to);
}
TEST(sync_respects_tiers_and_their_budgets) {
    static const char *const warm[] = { "2" };
    static const dcp_tier small[2] = { { 1, "hot", "1000", "prioritized" }, { 2, "warm", "0B", "lru" } };
    dcp_storage *from = in_memory(), *to = in_memory();
    dcp_sync_desc desc = DCP_ZERO;
    dcp_save_desc save;
    dcp_error err;
    model m;
    model_make(&m, 1);
    save_model(&m, from, "s1", 1);
    desc.tiers = warm;
    desc.tier_count = 1;
    CHECK_OK_MESSAGE(sync_to(from, to, &desc, &err), err.message);
    CHECK_INT(synced.copied, 6);                        /* the warm experts, and what has no tier */
    CHECK_INT(synced.not_selected, 4);
    save = saving(&m, from, "s1", 2);
    save.overwrite = 1;
    save.tiers = small;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    CHECK_INT(synced.copied, 2);                        /* 384 bytes each: two fit into 1,000 */
    CHECK_INT(synced.left_out, 4);
    CHECK_INT(synced.bytes_left_out, 4 * sizeof m.values[0]);
    dcp_storage_close(from);
    dcp_storage_close(to);
}
TEST(sync_never_publishes_damaged_bytes_nor_touches_what_others_own) {
    dcp_storage *from = in_memory(), *to = in_memory();
    dcp_error err;
    dcp_sync_desc desc = DCP_ZERO;
    dcp_cancel cancel = DCP_ZERO;
    model m, other;
    model_make(&m, 1);
    model_make(&other, 2);
    save_model(&m, from, "s1", 1);
    flip(from, files[3], 1);
    CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_CHECKSUM);
    CHECK(strstr(err.message, files[3]) != NULL);
    CHECK(!is_there(to, "nvme/s1.manifest.json"));
    flip(from, files[3], 1);
    cancel.requested = 1;
    desc.io.cancel = &cancel;
    CHECK_INT(sync_to(from, to, &desc, &err), DCP_E_CANCELLED);
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    CHECK_INT(synced.kept, 3);                          /* it went on where it was */
    CHECK_INT(synced.copied, TENSORS - 3);
    dcp_storage_close(to);
    to = in_memory();
    save_model(&other, to, "nvme/mine", 1);
    CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_EXISTS);
    check_loads(to, "nvme/mine", &other);
    save_model(&m, from, "plain", 1);
    dcp_storage_close(from);
    dcp_storage_close(to);
}
/* The first tensor of a manifest under another path, wherever its file was. */
static void repath(dcp_storage *storage, const char *manifest, const char *from, const char *to) {
    dcp_manifest *m;
    dcp_error err;
    void *data;
    size_t size;
    CHECK_OK(dcp_storage_read_all(storage, from, &data, &size, NULL, NULL));
    CHECK_OK(dcp_storage_write_all(storage, to, data, size, NULL, NULL));
    dcp_free(data);
    CHECK_OK_MESSAGE(dcp_manifest_read_file(storage, manifest, NULL, NULL, &m, &err), err.message);
    m->shards[0].path = to;
    CHECK_OK_MESSAGE(dcp_manifest_write_file(storage, manifest, m, NULL, NULL, &err), err.message);
    dcp_manifest_free(m);
}
static const char *const not_of_a_pool[] = {
    "train.py", "src/main.c", "s1_shard_0.bin", "s9_shard_0.bin", "dense/notes.txt", "dense/w.bin",
        "densely/w_0_of_1.bin",
    "dense/w_0_of_1.bin.old", "dense/inner/dense/w_0_of_1.bin"
};
static const char *text_at(dcp_storage *storage, const char *key) {
    static char text[100];
    void *data;
    size_t size;
    CHECK_OK(dcp_storage_read_all(storage, key, &data, &size, NULL, NULL));
    (void)snprintf(text, sizeof text, "%.*s", (int)(size < 99 ? size : 99), (const char *)data);
    dcp_free(data);
    return text;
}
/* A well sealed manifest may name anything below its directory. What is not of the pool by its name, or lies in another
 * directory of checkpoints, does not go with it. */
TEST(nothing_goes_because_a_manifest_lays_claim_to_it) {
    dcp_storage *storage = in_memory();
    dcp_save_desc inner, again;
    dcp_error err;
    model m, later;
    size_t i;
    int how;
    model_make(&m, 1);
    model_make(&later, 2);
    inner = saving(&m, storage, "dense/inner/q", 1);
    inner.layout = DCP_LAYOUT_SHARDED;
    CHECK_OK_MESSAGE(dcp_save(&inner, &err), err.message);
    for (i = 0; i < sizeof not_of_a_pool / sizeof *not_of_a_pool; i++) {
        for (how = 0; how < 3; how++) {
            dcp_remove_desc removing = DCP_ZERO;
            dcp_prune_desc pruning = DCP_ZERO;
            save_model(&m, storage, "s1", 1);
            repath(storage, "s1.manifest.json", files[0], not_of_a_pool[i]);
            removing.path = "s1";
            removing.io.storage = pruning.io.storage = storage;
            if (how == 0) CHECK_OK_MESSAGE(dcp_remove(&removing, NULL, &err), err.message);
            else {
                again = saving(&later, storage, how == 1 ? "s1" : "s2", 2);
                again.overwrite = 1;
                CHECK_OK_MESSAGE(dcp_save(&again, &err), err.message);
            }
            if (how == 2) CHECK_OK_MESSAGE(dcp_prune(&pruning, NULL, &err), err.message);
            CHECK(is_there(storage, not_of_a_pool[i]) && !is_there(storage, files[2]));
            CHECK(how != 2 || !is_there(storage, "s1.manifest.json"));
            if (how == 2) removing.path = "s2";
            if (how > 0) CHECK_OK_MESSAGE(dcp_remove(&removing, NULL, &err), err.message);
            CHECK_OK(dcp_storage_remove(storage, files[0], NULL, NULL));      /* nobody's since it was renamed */
            CHECK_OK(dcp_storage_remove(storage, not_of_a_pool[i], NULL, NULL));
        }
    }
    check_loads(storage, "dense/inner/q", &m);
    dcp_storage_close(storage);
}
/* From whatever source: what is not known to be a file of a manifest stays as it is. */
TEST(sync_replaces_nothing_that_is_not_ours) {
    dcp_storage *from = in_memory(), *to = in_memory();
    dcp_error err;
    model m;
    char key[100];
    void *data;
    size_t size, i;
    model_make(&m, 1);
    CHECK_OK(dcp_storage_write_all(to, "nvme/dense/inner/q.metadata.json", "{}", 2, NULL, NULL));
    for (i = 0; i < sizeof not_of_a_pool / sizeof *not_of_a_pool; i++) {
        const char *path = not_of_a_pool[i];
        (void)snprintf(key, sizeof key, "nvme/%s", path);
        save_model(&m, from, "s1", 1);
        repath(from, "s1.manifest.json", files[0], path);
        CHECK_OK(dcp_storage_write_all(to, key, "mine", 4, NULL, NULL));
        CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_EXISTS);
        CHECK(strstr(err.message, path) != NULL);
        CHECK_STR(text_at(to, key), "mine");
        /* another manifest there says the same of it: whoever put that there */
        CHECK_OK(dcp_storage_read_all(from, "s1.manifest.json", &data, &size, NULL, NULL));
        CHECK_OK(dcp_storage_write_all(to, "nvme/third.manifest.json", data, size, NULL, NULL));
        dcp_free(data);
        CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_EXISTS);
        CHECK_STR(text_at(to, key), "mine");
        CHECK_OK(dcp_storage_remove(to, "nvme/third.manifest.json", NULL, NULL));
        /* nothing is there: it comes, and then it is the copy's */
        CHECK_OK(dcp_storage_remove(to, key, NULL, NULL));
        CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
        CHECK_OK(dcp_storage_write_all(to, key, "damaged", 7, NULL, NULL));
        CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
        check_loads(to, "nvme/s1", &m);
        dcp_storage_close(from);
        dcp_storage_close(to);
        from = in_memory();
        to = in_memory();
        CHECK_OK(dcp_storage_write_all(to, "nvme/dense/inner/q.metadata.json", "{}", 2, NULL, NULL));
    }
    save_model(&m, from, "s1", 1);
    repath(from, "s1.manifest.json", files[0], "victim.metadata.json");
    CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_FORMAT);
    CHECK(!is_there(to, "nvme/victim.metadata.json"));
    dcp_storage_close(from);
    dcp_storage_close(to);
}
/* A manifest as the seed has them: upper-case digits, and the state of the optimizer and of the router in files that
 * the document says nothing of but their paths. */
static void put_seed(dcp_storage *storage, const char *directory, const char *name) {
    static const char *const paths[] = { "dense/layer_0/attention_q_0_of_1.bin", "experts/tier_2/group_0/expert_1.bin",
                                         "optim/state_0.bin", "router/state_0.bin" };
    uint8_t bytes[32];
    char text[1200], hex[2][65], path[200];
    uint8_t digest[32];
    size_t i, k;
    for (i = 0; i < 4; i++) {
        memset(bytes, (int)i + 1, sizeof bytes);
        (void)snprintf(path, sizeof path, "%s%s", directory, paths[i]);
        CHECK_OK(dcp_storage_write_all(storage, path, bytes, sizeof bytes, NULL, NULL));
        dcp_sha256(bytes, sizeof bytes, digest);
        for (k = 0; k < 32 && i < 2; k++) (void)snprintf(hex[i] + 2 * k, 3, "%02X", digest[k]);
    }
    (void)snprintf(text, sizeof text, "model_id: lite\nepoch: 5\nstep: 10_000\ntiers: []\nshards:\n"
                   "  - path: %s\n    type: dense\n    tensor_name: q\n    shape: [2, 4]\n    dtype: fp32\n    "
                       "checksum: \"%s\"\n"
                   "    version: 1\n"
                   "  - path: %s\n    type: expert\n    expert_key: [2, 0, 1]\n    shape: [8]\n    dtype: fp32\n"
                   "    checksum: \"%s\"\n    version: 0\n"
                   "optim_state:\n  path: %s\nrouter_state:\n  path: %s\nmetadata_version: 1\n",
                   paths[0], hex[0], paths[1], hex[1], paths[2], paths[3]);
    (void)snprintf(path, sizeof path, "%s%s.manifest.yaml", directory, name);
    CHECK_OK(dcp_storage_write_all(storage, path, text, strlen(text), NULL, NULL));
}
static dcp_status latest_in(dcp_storage *storage, const char *directory, dcp_error *err) {
    dcp_latest_desc desc = DCP_ZERO;
    char *path;
    dcp_status status;
    desc.directory = directory;
    desc.io.storage = storage;
    status = dcp_latest(&desc, &path, err);
    dcp_free(path);
    return status;
}
TEST(the_files_of_a_seeds_states_belong_to_it) {
    static const char *const states[] = { "optim/state_0.bin", "router/state_0.bin" };
    dcp_storage *from = in_memory(), *to = in_memory();
    dcp_sync_desc whole = DCP_ZERO;
    dcp_remove_desc removing = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    char key[100];
    int i;
    whole.verify = DCP_VERIFY_ALL;
    put_seed(from, "", "s1");
    for (i = 0; i < 2; i++) {
        CHECK_OK_MESSAGE(latest_in(from, "", &err), err.message);
        c = open_at(from, "s1", NULL);
        CHECK_OK_MESSAGE(dcp_verify(c, &err), err.message);
        CHECK_INT(dcp_checkpoint_tensor_count(c), 2);
        CHECK_OK(dcp_storage_remove(from, states[i], NULL, NULL));
        CHECK_INT(latest_in(from, "", &err), DCP_E_INCOMPLETE);
        CHECK(strstr(err.message, states[i]) != NULL);
        dcp_close(c);
        c = open_at(from, "s1", NULL);
        CHECK_INT(dcp_verify(c, &err), DCP_E_INCOMPLETE);
        dcp_close(c);
        CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_INCOMPLETE);
        CHECK(strstr(err.message, states[i]) && !is_there(to, "nvme/s1.manifest.yaml"));
        put_seed(from, "", "s1");
    }
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    CHECK(synced.copied == 4 && synced.bytes_copied == 4 * 32);
    CHECK_OK_MESSAGE(sync_to(from, to, &whole, &err), err.message);
    CHECK_INT(synced.kept, 4);
    CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
    CHECK_INT(synced.kept, 4);
    CHECK_OK_MESSAGE(latest_in(to, "nvme", &err), err.message);
    for (i = 0; i < 2; i++) {
        (void)snprintf(key, sizeof key, "nvme/%s", states[i]);
        CHECK_OK(dcp_storage_remove(to, key, NULL, NULL));
        CHECK_OK_MESSAGE(sync_to(from, to, NULL, &err), err.message);
        CHECK(synced.copied == 1 && synced.missing == 1 && is_there(to, key));
        flip(from, states[i], 3);                       /* no checksum tells damage there from a new state here */
        CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_EXISTS);
        flip(from, states[i], 3);
    }
    put_seed(to, "nvme/", "s2");                        /* names the same files */
    removing.path = "nvme/s1";
    removing.io.storage = to;
    CHECK_OK_MESSAGE(dcp_remove(&removing, NULL, &err), err.message);
    CHECK_OK_MESSAGE(latest_in(to, "nvme", &err), err.message);
    removing.path = "nvme/s2";
    CHECK_OK_MESSAGE(dcp_remove(&removing, NULL, &err), err.message);
    for (i = 0; i < 2; i++) {
        (void)snprintf(key, sizeof key, "nvme/%s", states[i]);
        CHECK(!is_there(to, key));
    }
    CHECK(!is_there(to, "nvme/dense/layer_0/attention_q_0_of_1.bin"));
    sweep_at(from, -1, 1, 0);
    CHECK_OK(dcp_storage_remove(from, "s1.manifest.yaml", NULL, NULL));
    sweep_at(from, -1, 0, 0);
    sweep_at(from, -1, 1, 2);                           /* what states are called, other programs may call theirs */
    dcp_storage_close(from);
    dcp_storage_close(to);
}
TEST(sync_says_what_it_cannot_do) {
    dcp_storage *from = in_memory(), *to = in_memory();
    dcp_error err;
    dcp_save_desc save;
    dcp_verifier verifier = dcp_hmac_verifier("0123456789abcdef", 16);
    const char *const cold[] = { "cold" };
    dcp_sync_desc desc = DCP_ZERO;
    model m;
    model_make(&m, 1);
    CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_NOT_FOUND);
    save = saving(&m, from, "s1", 1);
    save.layout = DCP_LAYOUT_SHARDED;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    CHECK_INT(sync_to(from, to, NULL, &err), DCP_E_UNSUPPORTED);
    CHECK_OK(dcp_storage_remove(from, "s1.metadata.json", NULL, NULL));
    save_model(&m, from, "s1", 7);
    desc.verifier = &verifier;
    CHECK_INT(sync_to(from, to, &desc, &err), DCP_E_SIGNATURE);
    desc.verifier = NULL;
    desc.minimum_step = 8;
    CHECK_INT(sync_to(from, to, &desc, &err), DCP_E_MISMATCH);
    desc.minimum_step = 0;
    desc.tiers = cold;
    desc.tier_count = 1;
    CHECK_INT(sync_to(from, to, &desc, &err), DCP_E_MISMATCH);
    CHECK(strstr(err.message, "no tier \"cold\"") != NULL);
    CHECK(!is_there(to, "s1.manifest.json"));
    CHECK_INT(dcp_sync(NULL, &err), DCP_E_INVALID);
    dcp_storage_close(from);
    dcp_storage_close(to);
}

int main(void) {
    RUN(files_and_fields_in_json);
    RUN(files_and_fields_in_yaml);
    RUN(the_documents_of_a_save_validate_without_a_word);
    RUN(options_of_the_layout_are_checked);
    RUN(what_could_not_be_opened_is_not_saved);
    RUN(names_that_differ_by_case_get_files_of_their_own);
    RUN(paths_may_be_long_and_beyond_ascii);
    RUN(unchanged_files_are_kept_and_changed_ones_get_a_version);
    RUN(a_version_that_is_asked_for_is_the_least);
    RUN(a_second_save_of_which_one_percent_changed_writes_one_percent);
    RUN(a_kept_file_that_vanished_is_written_anew);
    RUN(names_that_are_taken_are_never_replaced);
    RUN(an_overwritten_manifest_leaves_what_others_name);
    RUN(prune_and_remove_know_what_manifests_share);
    RUN(nothing_of_the_pool_goes_while_a_manifest_is_being_saved);
    RUN(an_intent_from_the_future_expires);
    RUN(sweep_takes_what_a_killed_save_left_in_the_folders);
    RUN(sweep_finds_the_folders_on_a_disk);
    RUN(tensors_are_selected_by_tier_role_key_name_part_and_predicate);
    RUN(files_of_tiers_that_are_not_selected_need_not_be_there);
    RUN(what_is_missing_or_damaged_is_fetched_from_a_source);
    RUN(flat_checksums_are_fetched_from_a_source_too);
    RUN(sources_that_cannot_be_used);
    RUN(what_cannot_be_opened_or_selected);
    RUN(files_that_change_before_the_commit_are_found);
    RUN(a_commit_in_another_layout_meanwhile_is_not_joined);
    RUN(a_save_that_takes_too_long_gives_up);
    RUN(opening_touches_no_file_and_a_map_touches_one);
#if !DCP_NO_THREADS
    RUN(many_threads_map_and_release_one_tensor);
    RUN(many_threads_map_release_and_prefetch);
#endif
    RUN(prefetch_is_bounded_and_reports_what_it_met);
    RUN(sync_copies_what_is_missing_stale_or_corrupt);
    RUN(a_cancel_after_a_syncs_commit_leaves_nothing);
    RUN(sync_respects_tiers_and_their_budgets);
    RUN(sync_never_publishes_damaged_bytes_nor_touches_what_others_own);
    RUN(nothing_goes_because_a_manifest_lays_claim_to_it);
    RUN(sync_replaces_nothing_that_is_not_ours);
    RUN(the_files_of_a_seeds_states_belong_to_it);
    RUN(sync_says_what_it_cannot_do);
    return test_finish();
}
