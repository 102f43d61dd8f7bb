/* moe_tiers.c - a mixture of experts in two tiers: one group of experts loaded alone, a save of what changed, a stale
 * copy brought up to date.
 *
 * Shows DCP_LAYOUT_MANIFEST: a file for each tensor, in folders that say what it is; tiers, expert keys and the
 * router's seeds in the document; dcp_select, with which a node opens only its experts; a second save that writes only
 * what changed; dcp_sync, which copies to local disks only what is stale there. Does not show ranks, with
 * which all of this works, or lazy loads (dcp_map, dcp_prefetch).
 *
 * Build: cc -O2 moe_tiers.c -I.. -o moe_tiers -lm -pthread
 * Run:   ./moe_tiers [directory]       (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, EXPERTS = 8, PER_GROUP = 4, ADAM = LAYERS + EXPERTS, ALL = ADAM + 1, WIDTH = 64 };
static const dcp_tier tiers[] = {{1, "hot", "40GB", "pinned"}, {2, "warm", "200GB", "lru"}};
static const dcp_router_seed seeds[] = {{0, 1234567}, {1, 7654321}};
static float model[ALL][WIDTH][WIDTH], loaded[ALL][WIDTH][WIDTH];
static char names[ALL][32];
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

/* Experts 0 to 3 are group 0 in the hot tier, 4 to 7 are group 1 in the warm one; the dense layers are hot, the
 * optimizer is in no tier. */
static void describe(dcp_tensor *t, int i, void *data) {
    const int64_t shape[] = {WIDTH, WIDTH};
    const int expert = i - LAYERS, group = expert / PER_GROUP;
    snprintf(names[i], sizeof names[i], i < LAYERS ? "layer_%d/attention" : i < ADAM ? "expert_%d" : "adam/m",
             i < LAYERS ? i : expert);
    *t = dcp_array(names[i], DCP_FP32, data, 2, shape);
    if (i == ADAM) t->role = DCP_ROLE_OPTIMIZER;
    else t->tier = i < LAYERS || group == 0 ? "hot" : "warm";
    if (i < LAYERS || i == ADAM) return;
    t->role = DCP_ROLE_EXPERT;
    const int64_t key[] = {group + 1, group, expert};   /* tier, group, expert */
    memcpy(t->expert_key, key, sizeof key);
}

static void save(const char *path, int64_t step) {
    dcp_tensor tensors[ALL];
    dcp_training training = DCP_ZERO;
    dcp_save_report report;
    dcp_save_desc desc = DCP_ZERO;
    for (int i = 0; i < ALL; i++) describe(&tensors[i], i, model[i]);
    training.step = step;
    desc.path = path; desc.io.log = dcp_log_stderr;
    desc.layout = DCP_LAYOUT_MANIFEST;
    desc.overwrite = 1;
    desc.model_id = "moe-small";
    desc.tensors = tensors; desc.tensor_count = ALL;
    desc.tiers = tiers; desc.tier_count = 2;
    desc.router_seeds = seeds; desc.router_seed_count = 2;
    desc.training = &training;
    desc.report = &report;
    check(dcp_save(&desc, &err), "save");
    printf("step %" PRId64 ": %d tensors of %d bytes, %" PRId64 " bytes were already there\n", step, (int)ALL,
           (int)sizeof model[0], report.bytes_reused);
}

/* What a node that serves group 1 opens: the files of the other tensors need not even be there. */
static void load_group(const char *path) {
    static const int64_t keys[][3] = {{-1, 1, -1}};
    dcp_select select = DCP_ZERO;
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    uint64_t seed;
    select.expert_keys = keys; select.expert_count = 1;
    desc.path = path; desc.select = &select; desc.io.log = dcp_log_stderr;
    check(dcp_open(&desc, &c, &err), "open");
    for (size_t i = 0; i < dcp_checkpoint_tensor_count(c); i++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(c, i);
        const int at = LAYERS + (int)info->expert_key[2];
        dcp_tensor wanted;
        describe(&wanted, at, loaded[at]);
        check(dcp_read(c, &wanted, 1, &err), "read");
        if (memcmp(loaded[at], model[at], sizeof model[at]) != 0) {
            fprintf(stderr, "%s differs from the model\n", info->name);
            exit(1);
        }
    }
    check(dcp_manifest_router_seed(dcp_checkpoint_manifest(c), 1, &seed), "seed");
    printf("group 1: %d experts of tier %s loaded, router seed %" PRIu64 "\n", (int)dcp_checkpoint_tensor_count(c),
           dcp_checkpoint_tensor(c, 0)->tier, seed);
    dcp_close(c);
}

static int64_t update(const char *path, const char *copy) {
    dcp_sync_report report;
    dcp_sync_desc desc = DCP_ZERO;
    desc.path = path; desc.directory = copy; desc.report = &report; desc.io.log = dcp_log_stderr;
    check(dcp_sync(&desc, &err), "sync");
    printf("sync: %" PRId64 " files missing, %" PRId64 " stale, %" PRId64 " kept, %" PRId64 " bytes copied\n",
           report.missing, report.stale, report.kept, report.bytes_copied);
    return report.bytes_copied;
}

int main(int argc, char **argv) {
    char path[512], copy[512], local[600];
    dcp_tensor wanted[ALL];
    dcp_load_desc load = DCP_ZERO;
    snprintf(path, sizeof path, "%s/moe", argc > 1 ? argv[1] : "checkpoints");
    snprintf(copy, sizeof copy, "%s/local", argc > 1 ? argv[1] : "checkpoints");
    snprintf(local, sizeof local, "%s/moe", copy);
    for (int i = 0; i < ALL; i++)
        for (int k = 0; k < WIDTH * WIDTH; k++) model[i][k / WIDTH][k % WIDTH] = (float)(i * 10000 + k);
    save(path, 100);
    load_group(path);
    update(path, copy);
    model[LAYERS + 5][0][0] = -1;                       /* one expert learns */
    save(path, 200);
    const int64_t copied = update(path, copy);

    for (int i = 0; i < ALL; i++) describe(&wanted[i], i, loaded[i]);
    load.path = local; load.io.log = dcp_log_stderr;
    load.tensors = wanted; load.tensor_count = ALL;
    load.minimum_step = 200;
    check(dcp_load(&load, &err), "load");
    if (memcmp(model, loaded, sizeof model) != 0 || copied != sizeof model[0]) return 1;
    printf("proved: one expert changed, one file was written and copied, and the local copy is the model\n");
    return 0;
}
