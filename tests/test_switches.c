/* test_switches.c - what works where a switch leaves something out, and what is said of the rest: DCP_NO_MANIFEST,
 * DCP_NO_RANKS, and with them DCP_NO_THREADS and DCP_NO_SIMD. test_build.sh builds it with each; as a suite it has
 * none of them. */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"

#define COUNT 1000

static int16_t state[COUNT];
static char path[TEST_PATH + 32];
static dcp_error err;

static const char *step(const char *name) {
    (void)snprintf(path, sizeof path, "%s/%s", test_state.dir[0], name);
    return path;
}
static dcp_save_desc saving(dcp_tensor *tensor, dcp_layout layout) {
    static const int64_t shape[] = { COUNT };
    dcp_save_desc desc = DCP_ZERO;
    *tensor = dcp_array("w", DCP_INT16, state, 1, shape);
    desc.path = path;
    desc.tensors = tensor;
    desc.tensor_count = 1;
    desc.layout = layout;
    return desc;
}
static dcp_status save(const char *name, dcp_layout layout) {
    dcp_tensor tensor;
    dcp_save_desc desc;
    int i;
    (void)step(name);
    for (i = 0; i < COUNT; i++) state[i] = (int16_t)(i + name[0]);
    desc = saving(&tensor, layout);
    return dcp_save(&desc, &err);
}
static dcp_status load(const char *name) {
    dcp_tensor tensor;
    dcp_load_desc desc = DCP_ZERO;
    (void)step(name);
    (void)saving(&tensor, DCP_LAYOUT_SHARDED);
    memset(state, 0, sizeof state);
    desc.path = path;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    return dcp_load(&desc, &err);
}
static int is_loaded(const char *name) {
    int i = 0;
    while (i < COUNT && state[i] == (int16_t)(i + name[0])) i++;
    return i == COUNT;
}
static void copy(const char *golden, const char *name) {
    char bytes[65536];
    size_t size;
    FILE *from = fopen(golden, "rb"), *to = fopen(step(name), "wb");
    CHECK(from && to);
    size = fread(bytes, 1, sizeof bytes, from);
    CHECK(size > 0 && size < sizeof bytes && fwrite(bytes, 1, size, to) == size);
    CHECK_INT(fclose(from) | fclose(to), 0);
}
static int64_t sequence(const char *name) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    int64_t number;
    desc.path = step(name);
    CHECK_OK_MESSAGE(dcp_open(&desc, &checkpoint, &err), err.message);
    number = dcp_checkpoint_metadata(checkpoint)->sequence;
    dcp_close(checkpoint);
    return number;
}

/* ---- in every build ---------------------------------------------------------------------------------------------- */
TEST(layouts_without_manifests_are_whole) {
    dcp_latest_desc latest = DCP_ZERO;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_prune_desc prune = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    const void *bytes;
    size_t size;
    char *newest;
    latest.directory = sweep.directory = prune.directory = test_dir();
    CHECK_OK_MESSAGE(save("a", DCP_LAYOUT_SHARDED), err.message);
    CHECK_OK_MESSAGE(save("b", DCP_LAYOUT_SINGLE), err.message);
    CHECK_OK_MESSAGE(load("a"), err.message);
    CHECK(is_loaded("a"));
    CHECK_OK_MESSAGE(dcp_latest(&latest, &newest, &err), err.message);
    CHECK(strstr(newest, "b.checkpoint") != NULL);
    open.path = newest;
    CHECK_OK_MESSAGE(dcp_open(&open, &checkpoint, &err), err.message);
    dcp_free(newest);
    CHECK_OK_MESSAGE(dcp_verify(checkpoint, &err), err.message);
    CHECK_OK_MESSAGE(dcp_map(checkpoint, "w", &bytes, &size, &err), err.message);
    CHECK(size == sizeof state && memcmp(bytes, state, 2) != 0);
    dcp_close(checkpoint);
    CHECK_OK_MESSAGE(dcp_prune(&prune, NULL, &err), err.message);
    CHECK_INT(load("a"), DCP_E_NOT_FOUND);
    CHECK_OK_MESSAGE(dcp_sweep(&sweep, NULL, &err), err.message);
    CHECK_OK_MESSAGE(load("b"), err.message);
    CHECK(is_loaded("b"));
}
TEST(a_save_in_the_background) {
    dcp_tensor tensor;
    dcp_save_desc desc;
    dcp_saver *saver;
    (void)test_dir();
    (void)step("c");
    desc = saving(&tensor, DCP_LAYOUT_SHARDED);
    CHECK_OK_MESSAGE(dcp_saver_open(NULL, &saver, &err), err.message);
    CHECK_OK_MESSAGE(dcp_save_begin(saver, &desc, &err), err.message);
    CHECK_OK_MESSAGE(dcp_save_wait(saver, -1, &err), err.message);
    CHECK_OK_MESSAGE(dcp_saver_close(saver, &err), err.message);
    CHECK_OK_MESSAGE(load("c"), err.message);
}
TEST(a_document) {
    dcp_metadata *metadata, *again;
    char *text;
    size_t size;
    CHECK_OK_MESSAGE(dcp_metadata_new(&metadata, &err), err.message);
    CHECK_OK_MESSAGE(dcp_metadata_set_field(metadata, "key", "no", &err), err.message);
    CHECK_OK_MESSAGE(dcp_metadata_write(metadata, NULL, &text, &size, &err), err.message);
    CHECK_OK_MESSAGE(dcp_metadata_parse(text, size, &again, &err), err.message);
    CHECK_STR(dcp_metadata_field(again, "key"), "no");
    dcp_free(text);
    dcp_metadata_free(again);
    dcp_metadata_free(metadata);
}

/* ---- manifests --------------------------------------------------------------------------------------------------- */
TEST(a_manifest_is_saved_or_refused) {
    (void)test_dir();
#if DCP_NO_MANIFEST
    CHECK_INT(save("m", DCP_LAYOUT_MANIFEST), DCP_E_UNSUPPORTED);
    CHECK(strstr(err.message, "DCP_NO_MANIFEST") != NULL);
    CHECK_INT(load("m"), DCP_E_NOT_FOUND);
#else
    CHECK_OK_MESSAGE(save("m", DCP_LAYOUT_MANIFEST), err.message);
    CHECK_OK_MESSAGE(load("m"), err.message);
    CHECK(is_loaded("m"));
#endif
}
/* The document alone: its files are not needed to see what it is. */
TEST(a_manifest_that_is_there) {
    dcp_open_desc open = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    char *newest;
    latest.directory = test_dir();
    copy("tests/golden/v1/manifest/step_1.manifest.json", "step_1.manifest.json");
    open.path = step("step_1");
#if DCP_NO_MANIFEST
    CHECK_INT(dcp_open(&open, &checkpoint, &err), DCP_E_UNSUPPORTED);
    CHECK(strstr(err.message, "step_1.manifest.json") != NULL && strstr(err.message, "DCP_NO_MANIFEST") != NULL);
    CHECK_INT(dcp_latest(&latest, &newest, &err), DCP_E_UNSUPPORTED);
#else
    CHECK_OK_MESSAGE(dcp_open(&open, &checkpoint, &err), err.message);
    dcp_close(checkpoint);
    CHECK_INT(dcp_latest(&latest, &newest, &err), DCP_E_INCOMPLETE);
#endif
    CHECK(newest == NULL);
}
/* A save beside manifests is newer than they are, or is refused: nobody may take the older for the newer. */
TEST(a_save_beside_manifests) {
    dcp_sweep_desc sweep = DCP_ZERO;
    sweep.directory = test_dir();
    sweep.grace_seconds = -1;
    copy("tests/golden/v1/manifest/step_1.manifest.json", "step_1.manifest.json");
    CHECK_OK_MESSAGE(save("a", DCP_LAYOUT_SHARDED), err.message);
    CHECK(sequence("a") > 1);
    copy("tests/golden/v1/manifest/step_2.manifest.yaml", "step_2.manifest.yaml");
#if DCP_NO_MANIFEST
    CHECK_INT(save("b", DCP_LAYOUT_SHARDED), DCP_E_UNSUPPORTED);
    CHECK(strstr(err.message, "step_2.manifest.yaml") != NULL && strstr(err.message, "DCP_NO_MANIFEST") != NULL);
#else
    CHECK_OK_MESSAGE(save("b", DCP_LAYOUT_SHARDED), err.message);
    CHECK(sequence("b") > sequence("a"));
#endif
    CHECK_OK_MESSAGE(load("a"), err.message);
    CHECK_OK_MESSAGE(dcp_sweep(&sweep, NULL, &err), err.message);
    CHECK_OK_MESSAGE(load("a"), err.message);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */
static dcp_status say(void *context, int to, int tag, const void *data, size_t size, int timeout_ms, dcp_error *why) {
    (void)context; (void)to; (void)tag; (void)data; (void)size; (void)timeout_ms; (void)why;
    return DCP_E_COMM;
}
static dcp_status hear(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms, dcp_error *why) {
    (void)context; (void)from; (void)tag; (void)data; (void)size; (void)timeout_ms; (void)why;
    return DCP_E_COMM;
}
/* Nobody answers: without the switch the coordinator is what fails. */
static dcp_coordinator *fresh(dcp_coordinator *coordinator, int world_size) {
    const dcp_coordinator none = DCP_ZERO;
    dcp_coordinator_close(coordinator);
    *coordinator = none;
    coordinator->world_size = world_size;
    coordinator->rank = world_size - 1;
    coordinator->send = say;
    coordinator->receive = hear;
    return coordinator;
}
TEST(a_coordinator_of_two_ranks) {
    const dcp_status refused = DCP_NO_RANKS ? DCP_E_UNSUPPORTED : DCP_E_COMM;
    dcp_coordinator ranks = DCP_ZERO;
    dcp_tensor tensor;
    dcp_save_desc desc;
    dcp_load_desc loading = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    dcp_saver *saver;
    (void)test_dir();
    (void)step("b");
    desc = saving(&tensor, DCP_LAYOUT_SHARDED);
    desc.io.coordinator = loading.io.coordinator = open.io.coordinator = &ranks;
    loading.path = open.path = desc.path;
    loading.tensors = &tensor;
    loading.tensor_count = 1;
    (void)fresh(&ranks, 2);
    CHECK_INT(dcp_save(&desc, &err), refused);
    CHECK(!DCP_NO_RANKS || strstr(err.message, "DCP_NO_RANKS") != NULL);
    (void)fresh(&ranks, 2);
    CHECK_INT(dcp_load(&loading, &err), refused);
    (void)fresh(&ranks, 2);
    CHECK_INT(dcp_open(&open, &checkpoint, &err), refused);
    (void)fresh(&ranks, 2);
    CHECK_OK_MESSAGE(dcp_saver_open(NULL, &saver, &err), err.message);
    CHECK_INT(dcp_save_begin(saver, &desc, &err), refused);
    CHECK_OK_MESSAGE(dcp_saver_close(saver, &err), err.message);
    (void)fresh(&ranks, 1);
    CHECK_OK_MESSAGE(dcp_save(&desc, &err), err.message);
    CHECK_OK_MESSAGE(dcp_load(&loading, &err), err.message);
    dcp_coordinator_close(&ranks);
}

int main(void) {
    RUN(layouts_without_manifests_are_whole);
    RUN(a_save_in_the_background);
    RUN(a_document);
    RUN(a_manifest_is_saved_or_refused);
    RUN(a_manifest_that_is_there);
    RUN(a_save_beside_manifests);
    RUN(a_coordinator_of_two_ranks);
    return test_finish();
}
