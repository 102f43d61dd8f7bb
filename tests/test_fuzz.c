/* test_fuzz.c - the fuzz targets of tests/fuzz without libFuzzer: every file of tests/corpus and tests/regress, and
 * seeded mutations of them. Any compiler.
 *
 *     build/plain/test_fuzz json FILE...             replays inputs of one target, as libFuzzer leaves them
 *     DCP_FUZZ_ROUNDS=100000 build/asan/test_fuzz    so many mutations of each target (default: some thousand)
 *     DCP_FUZZ_TARGETS="json yaml"                   only these
 *     DCP_FUZZ_CORPUS=build/fuzz/corpus              another directory, with one of the target's name in it, besides */
#define FUZZ_SUITE
#include "fuzz/fuzz_json.c"
#include "fuzz/fuzz_yaml.c"
#include "fuzz/fuzz_metadata.c"
#include "fuzz/fuzz_manifest.c"
#include "fuzz/fuzz_checkpoint.c"
#include "fuzz/fuzz_paths.c"
#include "fuzz/fuzz_integrity.c"
#include "fuzz/fuzz_diff.c"

static const fuzz_target *const targets[] = {&fuzz_json, &fuzz_yaml, &fuzz_metadata, &fuzz_manifest, &fuzz_checkpoint,
                                             &fuzz_paths, &fuzz_integrity, &fuzz_diff};

typedef struct input { char *path; uint8_t *data; size_t size; } input;
typedef struct inputs { input *items; size_t count; } inputs;

/* ---- files ------------------------------------------------------------------------------------------------------- */
static void read_input(const char *path, inputs *all) {
    FILE *file = fopen(path, "rb");
    input *in;
    if (!file) return;
    all->items = (input *)realloc(all->items, (all->count + 1) * sizeof *all->items);
    in = &all->items[all->count++];
    in->path = strcpy((char *)malloc(strlen(path) + 1), path);
    in->data = (uint8_t *)malloc(FUZZ_MOST);
    in->size = fread(in->data, 1, FUZZ_MOST, file);
    (void)fclose(file);
}
static int by_path(const void *a, const void *b) { return strcmp(((const input *)a)->path, ((const input *)b)->path); }

/* In the order of their names, which is the same on every machine: a seed stands for the same mutations. */
static void read_directory(const char *directory, const char *name, inputs *all) {
    char path[TEST_PATH];
    const size_t before = all->count;
    struct dirent *entry;
    DIR *dir;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && (size_t)snprintf(path, sizeof path, "%s/%s/%s", directory, name, entry->d_name) <
            sizeof path) read_input(path, all);
    if (dir) (void)closedir(dir);
    if (all->count > before) qsort(all->items + before, all->count - before, sizeof *all->items, by_path);
}
static inputs read_inputs(const char *name) {
    static char fuzz[32];
    inputs all = {NULL, 0};
    (void)snprintf(fuzz, sizeof fuzz, "fuzz_%s", name);
    read_directory("tests/corpus", name, &all);
    read_directory("tests/regress", fuzz, &all);
    if (getenv("DCP_FUZZ_CORPUS")) read_directory(getenv("DCP_FUZZ_CORPUS"), name, &all);
    return all;
}
static void free_inputs(inputs *all) {
    size_t i;
    for (i = 0; i < all->count; i++) {
        free(all->items[i].path);
        free(all->items[i].data);
    }
    free(all->items);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static const fuzz_target *target;
static char running[TEST_PATH];         /* what is run just now */

static void run_input(const uint8_t *data, size_t size, const char *what, unsigned seed) {
    char *exact = fuzz_exact(data, size);
    (void)snprintf(running, sizeof running, "%s, seed %u", what, seed);
    fuzz_run(target, (const uint8_t *)exact, size);
    free(exact);
}
static int is_chosen(const fuzz_target *one) {
    const char *names = getenv("DCP_FUZZ_TARGETS");
    return !names || strstr(names, one->name) != NULL;
}
TEST(every_input_of_the_corpus) {
    size_t t, i;
    for (t = 0; t < FUZZ_COUNT(targets); t++) {
        inputs all = read_inputs(targets[t]->name);
        target = targets[t];
        CHECK(all.count > 0);                           /* tests/corpus is where make test runs */
        for (i = 0; i < all.count && is_chosen(target); i++)
            run_input(all.items[i].data, all.items[i].size, all.items[i].path, 0);
        free_inputs(&all);
    }
}
static void mutate(int rounds) {
    static uint8_t data[8192];
    inputs all = read_inputs(target->name);
    int i;
    for (i = 0; i < rounds; i++) {
        const input *in = &all.items[test_random_below(all.count)];
        const unsigned seed = (unsigned)test_random();
        size_t size = in->size < sizeof data ? in->size : sizeof data;
        memcpy(data, in->data, size);
        (void)snprintf(running, sizeof running, "mutating %s, seed %u", in->path, seed);
        size = fuzz_mutate(target, data, size, sizeof data, seed);
        run_input(data, size, in->path, seed);
    }
    free_inputs(&all);
}
TEST(mutations_of_the_corpus) {
    const char *text = getenv("DCP_FUZZ_ROUNDS");
    size_t t;
    for (t = 0; t < FUZZ_COUNT(targets); t++) {
        target = targets[t];
        if (is_chosen(target)) mutate(text ? atoi(text) : test_times(target == &fuzz_checkpoint ? 2000 : 8000));
    }
}
/* A failure names its input; so does a crash, through the message that is still in `running`. */
static void on_crash(int signal_number) {
    size_t length = strlen(running);
    running[length] = '\n';
    if (write(2, running, length + 1) < 0) _exit(2);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}
static int replay_files(int count, char **arguments) {
    inputs all = {NULL, 0};
    size_t i;
    for (i = 0; i < FUZZ_COUNT(targets) && strcmp(targets[i]->name, arguments[0]) != 0;) i++;
    if (i == FUZZ_COUNT(targets)) return 2;
    target = targets[i];
    for (i = 1; i < (size_t)count; i++) read_input(arguments[i], &all);
    test_begin("files");
    if (setjmp(test_state.leave)) return 1;
    for (i = 0; i < all.count; i++) run_input(all.items[i].data, all.items[i].size, all.items[i].path, 0);
    printf("%lu inputs of %s: fine\n", (unsigned long)all.count, target->name);
    free_inputs(&all);
    return 0;
}
int main(int argc, char **argv) {
    (void)signal(SIGABRT, on_crash);
    (void)signal(SIGFPE, on_crash);
    if (!test_is_sanitized()) (void)signal(SIGSEGV, on_crash);
    if (argc > 2) return replay_files(argc - 1, argv + 1);
    RUN(every_input_of_the_corpus);
    RUN(mutations_of_the_corpus);
    if (test_state.failed) printf("  the last input: %s\n", running);
    return test_finish();
}
