/* schema_change.c - a program that has changed loads what its first version saved.
 *
 * Shows one way for each kind of change: a tensor that is new, gone, renamed, reshaped, larger, of another type; a
 * struct that has grown; a meaning that has changed; text and lists whose size only the checkpoint knows. Does not show
 * several ranks: nothing is different for them.
 *
 * Build: cc -O2 schema_change.c -I../.. -o schema_change -lm -pthread
 * Run:   ./schema_change [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dcp_error err;
static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static void must(int holds, const char *what) {
    if (!holds) { fprintf(stderr, "wrong: %s\n", what); exit(1); }
    printf("%s\n", what);
}

/* ---- version 1 --------------------------------------------------------------------------------------------------- */
enum { UNITS = 3 };
typedef struct unit_1 { float health; float position[2]; } unit_1;

static void save_version_1(const char *path) {
    static float bias[4] = {1, 2, 3, 4}, momentum[4], grid[6] = {0, 1, 2, 3, 4, 5};
    static float vocabulary[2][3] = {{1, 2, 3}, {4, 5, 6}};
    static double rates[3] = {0.1, 70000, -1e-9}, angle = 180;
    static const unit_1 units[UNITS] = {{10, {1, 2}}, {20, {3, 4}}, {30, {5, 6}}};
    static const char title[] = "The harbour";
    static const int32_t items[] = {7, 11, 13, 17, 19};
    const int64_t rows[] = {2, 3}, each[] = {UNITS}, pairs[] = {UNITS, 2};
    const dcp_field schema = {"schema", "1"};
    dcp_tensor t[10];
    dcp_save_desc save = DCP_ZERO;
    t[0] = dcp_vector("bias", DCP_FP32, bias, 4);
    t[1] = dcp_vector("momentum", DCP_FP32, momentum, 4);
    t[2] = dcp_vector("grid", DCP_FP32, grid, 6);
    t[3] = dcp_array("vocabulary", DCP_FP32, vocabulary, 2, rows);
    t[4] = dcp_vector("rates", DCP_FP64, rates, 3);
    t[5] = dcp_scalar("angle", DCP_FP64, &angle);
    t[6] = dcp_array("units.health", DCP_FP32, &units[0].health, 1, each);     /* a member of all units: one tensor */
    t[6].stride[0] = sizeof(unit_1) / sizeof(float);
    t[7] = dcp_array("units.position", DCP_FP32, units[0].position, 2, pairs);
    t[7].stride[0] = sizeof(unit_1) / sizeof(float);
    t[7].stride[1] = 1;
    t[8] = dcp_bytes("title", title, sizeof title - 1);
    t[9] = dcp_vector("items", DCP_INT32, items, sizeof items / sizeof *items);
    save.path = path; save.tensors = t; save.tensor_count = 10;
    save.fields = &schema; save.field_count = 1;
    save.overwrite = 1;
    check(dcp_save(&save, &err), "save");
}

/* ---- version 2 --------------------------------------------------------------------------------------------------- */
typedef struct unit_2 { int32_t team; float health, shield; float position[2]; } unit_2;
typedef struct list { void *data; size_t size; } list;                  /* std::vector, std::string */

static void *resize(void *user, const dcp_tensor_info *info) {
    list *l = (list *)user;
    void *memory = realloc(l->data, (size_t)info->size + 1);            /* called again if the load starts again */
    if (!memory) return NULL;
    l->data = memory;
    l->size = (size_t)info->size;
    return memory;
}
static dcp_tensor member(const char *name, void *first) {               /* of all units, wherever it is in the struct */
    dcp_tensor t = dcp_vector(name, DCP_FP32, first, UNITS);
    t.stride[0] = sizeof(unit_2) / sizeof(float);
    return t;
}

int main(int argc, char **argv) {
    static float head_bias[4], grid[2][3], vocabulary[4][5];
    static unit_2 units[UNITS];
    float scale[2] = {1, 1}, rates[3];
    double angle = 0;
    list title = {NULL, 0}, items = {NULL, 0};
    const int64_t six[] = {6}, rows[] = {2, 3}, pairs[] = {UNITS, 2};
    char path[512];
    const char *schema;
    dcp_tensor t[10];
    dcp_metadata *metadata;
    dcp_report report;
    dcp_load_desc load = DCP_ZERO;
    int i;
    snprintf(path, sizeof path, "%s/schema_change", argc > 1 ? argv[1] : "checkpoints");
    save_version_1(path);

    for (i = 0; i < UNITS; i++) { units[i].team = 1; units[i].shield = 50; }    /* defaults, before the load */
    t[0] = dcp_vector("scale", DCP_FP32, scale, 2);                     /* new */
    t[0].optional = 1;
    t[1] = dcp_vector("head.bias", DCP_FP32, head_bias, 4);             /* renamed */
    t[1].stored_name = "bias";
    t[2] = dcp_array("grid", DCP_FP32, grid, 1, six);                   /* reshaped: as it is stored, the same bytes */
    t[3] = dcp_array("vocabulary", DCP_FP32, vocabulary, 2, rows);      /* larger: the part that is stored, with gaps */
    t[3].stride[0] = 5; t[3].stride[1] = 1;
    t[4] = dcp_vector("rates", DCP_FP32, rates, 3);                     /* another type */
    t[4].convert = 1;
    t[5] = dcp_scalar("angle", DCP_FP64, &angle);
    t[6] = member("units.health", &units[0].health);                    /* a struct that has grown */
    t[7] = dcp_array("units.position", DCP_FP32, units[0].position, 2, pairs);
    t[7].stride[0] = sizeof(unit_2) / sizeof(float); t[7].stride[1] = 1;
    t[8] = dcp_unsized("title", DCP_UINT8, resize, &title);             /* text, and a list of any length */
    t[9] = dcp_unsized("items", DCP_INT32, resize, &items);
    load.path = path; load.tensors = t; load.tensor_count = 10;
    load.metadata = &metadata; load.report = &report;
    check(dcp_load(&load, &err), "load");
    schema = dcp_metadata_field(metadata, "schema");
    if (schema && atoi(schema) < 2) angle *= 3.14159265358979 / 180;    /* a meaning that has changed */
    dcp_metadata_free(metadata);

    must(t[0].status == DCP_E_NOT_FOUND && scale[0] == 1 && scale[1] == 1, "new: scale has its default");
    must(strstr(report.warning, "\"scale\"") && strstr(report.warning, "\"momentum\""), "gone: momentum is not read");
    must(head_bias[0] == 1 && head_bias[3] == 4, "renamed: head.bias is what was bias");
    must(grid[0][2] == 2 && grid[1][0] == 3 && grid[1][2] == 5, "reshaped: 6 are now 2 x 3");
    must(vocabulary[1][2] == 6 && vocabulary[0][3] == 0 && vocabulary[2][0] == 0, "larger: 2 x 3 lie in 4 x 5");
    must(rates[0] == 0.1f && rates[1] == 70000 && report.overflow_count == 0, "another type: fp64 is now fp32");
    must(units[2].health == 30 && units[2].position[1] == 6 && units[2].shield == 50 && units[0].team == 1,
         "a struct that grew: old members loaded, new ones have their defaults");
    must(angle > 3.14159 && angle < 3.1416, "another meaning: degrees of schema 1 are now radians");
    must(title.size == 11 && memcmp(title.data, "The harbour", 11) == 0, "text: its length came from the checkpoint");
    must(items.size == 5 * 4 && ((int32_t *)items.data)[4] == 19 && t[9].shape[0] == 5, "a list: so did its length");
    free(title.data);
    free(items.data);
    printf("proved: version 2 has loaded all that version 1 saved\n");
    return 0;
}
