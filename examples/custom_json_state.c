/* custom_json_state.c - state that is not an array: nested settings, lists, names.
 *
 * Shows the three places for it: optimizer_state of dcp_training and info of dcp_sharding take any JSON
 * object, here built and read with the dcp_json functions, and the fields of a save are plain text under
 * keys. All of it is in the checkpoint's document, covered by its checksum, readable with any JSON tool.
 * Does not show big state: more than a few kilobytes are better stored as a tensor (dcp_bytes).
 * Build: cc -O2 custom_json_state.c -I.. -o custom_json_state -lm -pthread
 * Run:   ./custom_json_state [directory]   (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dcp_error err;

static void require(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "failed: %s: %s\n", what, err.message);
    exit(1);
}
static void check(dcp_status status, const char *what) { require(status == DCP_OK, what); }

static char *optimizer_state(void) {    /* {"betas": [0.9, 0.999], "groups": [{"name": "decay", ...}], ...} */
    dcp_json *root = dcp_json_new_object(&err), *betas = dcp_json_add_array(root, "betas"), *groups;
    char *text;
    size_t size;
    dcp_json_add_double(betas, NULL, 0.9);
    dcp_json_add_double(betas, NULL, 0.999);
    groups = dcp_json_add_array(root, "groups");
    for (int i = 0; i < 2; i++) {
        dcp_json *group = dcp_json_add_object(groups, NULL);
        dcp_json_add_string(group, "name", i == 0 ? "decay" : "no \"decay\"");
        dcp_json_add_bool(group, "frozen", i == 1);
    }
    require(dcp_json_add_int(root, "samplesSeen", INT64_C(9007199254740993)) != NULL, "the tree is complete");
    check(dcp_json_write(root, 0, &text, &size, &err), "write");
    dcp_json_free(root);
    return text;
}

int main(int argc, char **argv) {
    float weights[4] = {1, 2, 3, 4};
    const int64_t four = 4;
    dcp_tensor tensor = dcp_array("weights", DCP_FP32, weights, 1, &four);
    const dcp_field fields[] = {{"git", "9f86d08"}, {"note", "warm-up is over \xE2\x9C\x93"}};    /* UTF-8 */
    dcp_training training = DCP_ZERO;
    dcp_sharding sharding = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    char path[512], *text = optimizer_state();

    snprintf(path, sizeof path, "%s/custom_json_state", argc > 1 ? argv[1] : "checkpoints");
    training.step = 1200;
    training.optimizer_type = "adamw";
    training.optimizer_state = text;
    sharding.strategy = "fsdp";
    sharding.info = "{\"zeroStage\": 3, \"offload\": null}";            /* short text can be written by hand */
    save.path = open.path = path; save.io.log = open.io.log = dcp_log_stderr;
    save.tensors = &tensor;
    save.tensor_count = 1;
    save.training = &training;
    save.sharding = &sharding;
    save.fields = fields;
    save.field_count = 2;
    save.overwrite = 1;
    check(dcp_save(&save, &err), "save");
    dcp_free(text);

    check(dcp_open(&open, &checkpoint, &err), "open");
    const char *state = dcp_checkpoint_training(checkpoint)->optimizer_state;
    const char *note = dcp_metadata_field(dcp_checkpoint_metadata(checkpoint), "note");
    int64_t seen = 0;
    dcp_json *root;
    check(dcp_json_parse(state, strlen(state), &root, &err), "parse");
    const dcp_json *group = dcp_json_at(dcp_json_get(root, "groups"), 1);   /* NULL is fine on the way */
    const char *name = dcp_json_string(dcp_json_get(group, "name"), NULL);
    require(dcp_json_int(dcp_json_get(root, "samplesSeen"), &seen) == DCP_OK, "samplesSeen");
    require(seen == INT64_C(9007199254740993), "a 64-bit integer comes back exactly");
    require(name && strcmp(name, "no \"decay\"") == 0, "a name comes back");
    require(dcp_json_bool(dcp_json_get(group, "frozen")), "a flag comes back");
    require(note && strcmp(note, fields[1].value) == 0, "a field comes back");
    require(strstr(dcp_checkpoint_metadata(checkpoint)->sharding.info, "zeroStage") != NULL, "info comes back");
    dcp_json_free(root);
    dcp_close(checkpoint);
    printf("proved: nested state, 64-bit integers and text fields came back\n");
    return 0;
}
