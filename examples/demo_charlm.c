/* demo_charlm.c - trains a small neural language model, character by character, and survives being killed.
 *
 * Shows dcp.h in its main job: parameters, both moments of Adam, the state of the random numbers, the step
 * and all losses so far are one checkpoint (some 23 MB) every few steps; a run starts where dcp_latest says,
 * and what comes out is bit for bit what one long run gives. `--kill-in-save N` forks the training, watches
 * its directory, and sends a real SIGKILL as soon as a temporary file of the N-th save appears.
 * Does not show several ranks, or a good model: one hidden layer reads 8 characters, in one thread, so that
 * every sum has one order. Needs POSIX. demo.sh runs it and judges the outcome.
 *
 * Build: cc -O2 demo_charlm.c -I.. -lm -pthread
 * Run:   ./a.out train --dir D --text FILE [--text FILE...] --steps N --save-every K [--kill-in-save S]
 *        ./a.out sample --dir D [--length N] [--prompt TEXT]
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SYMBOLS = 96, CONTEXT = 8, HIDDEN = 2240, BATCH = 48, PRINT_EVERY = 100, RECENT = 50, KEEP = 3 };
enum { TEXT_LIMIT = 60000, MOST_STEPS = 100000 };
static const float LEARNING_RATE = 0.003f, BETA1 = 0.9f, BETA2 = 0.99f, EPSILON = 1e-8f;

typedef struct weights {
    float in[CONTEXT][SYMBOLS][HIDDEN];     /* a row for each symbol at each place; reading adds up rows */
    float hidden_bias[HIDDEN];
    float out[HIDDEN][SYMBOLS];
    float out_bias[SYMBOLS];
} weights;
enum { PARTS = 4, WEIGHTS = (int)(sizeof(weights) / sizeof(float)) };

typedef struct model {                      /* everything that the next step depends on */
    weights now, mean, square;              /* the parameters, and Adam's two moments of their gradients */
    uint64_t random;
    int64_t step;
    float losses[MOST_STEPS];               /* of every step so far */
} model;

typedef struct text { unsigned char symbols[TEXT_LIMIT]; int count, training; char sha256[65]; } text;

typedef struct options {
    const char *directory, *files[8], *prompt;
    int file_count, steps, save_every, kill_in_save, length;
} options;

static model *state;
static weights *gradient;
static dcp_error err;
static int bar_wanted, colour_wanted;

static void die(const char *what, const char *why) {
    fprintf(stderr, "%sdemo_charlm: %s: %s\n", bar_wanted ? "\r\033[K" : "", what, why);
    exit(1);
}
static void check(dcp_status status, const char *what) { if (status != DCP_OK) die(what, err.message); }

/* ---- the text: comments of C files, other files as they are -------------------------------------------- */

static int symbol_of(int c) { return c == '\n' ? 0 : c >= 32 && c <= 126 ? c - 31 : -1; }
static int character_of(int symbol) { return symbol == 0 ? '\n' : symbol + 31; }

static void add_character(text *t, int c) {
    int symbol = symbol_of(c == '\t' ? ' ' : c), last = t->count > 0 ? t->symbols[t->count - 1] : 0;
    int space = symbol_of(' ');
    if (symbol < 0 || t->count == TEXT_LIMIT) return;
    if (symbol == space && (last == space || last == 0)) return;        /* no indents, no columns */
    if (symbol == last && (symbol == 0 || c == '-')) return;                /* no empty lines, no rules */
    t->symbols[t->count++] = (unsigned char)symbol;
}

static void add_file(text *t, const char *path) {
    size_t length = strlen(path);
    int is_c = length > 2 && (strcmp(path + length - 2, ".h") == 0 || strcmp(path + length - 2, ".c") == 0);
    int inside = !is_c, c, before = 0;
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be opened");
    while ((c = getc(file)) != EOF) {
        if (is_c && !inside && before == '/' && c == '*') { inside = 1; c = 0; }
        else if (is_c && inside && before == '*' && c == '/') { inside = 0; add_character(t, '\n'); }
        else if (inside && c != '*' && c != '=' && c != '`' && c != '|') add_character(t, c);
        before = c;
    }
    if (ferror(file)) die(path, "cannot be read");
    fclose(file);
}

static void hex_of(const void *data, size_t size, char hex[65]) {
    uint8_t digest[32];
    dcp_sha256(data, size, digest);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static void read_text(text *t, const options *o) {
    t->count = 0;
    for (int i = 0; i < o->file_count; i++) add_file(t, o->files[i]);
    if (t->count < 2000) die("text", "there are fewer than 2,000 characters");
    t->training = t->count - t->count / 10;                             /* the last tenth is held out */
    hex_of(t->symbols, (size_t)t->count, t->sha256);
}

static double unigram_entropy(const text *t) {      /* what guessing by frequency alone costs, in nats */
    double counts[SYMBOLS] = {0}, entropy = 0;
    for (int i = 0; i < t->training; i++) counts[t->symbols[i]] += 1;
    for (int s = 0; s < SYMBOLS; s++)
        if (counts[s] > 0) entropy -= counts[s] / t->training * log(counts[s] / t->training);
    return entropy;
}

/* ---- the model ----------------------------------------------------------------------------------------- */

static uint64_t next_random(void) {                         /* splitmix64 */
    uint64_t z = state->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static float uniform(void) { return (float)(next_random() >> 40) / 16777216.0f; }   /* in [0, 1) */

static void start_afresh(void) {
    float *in = &state->now.in[0][0][0], *out = &state->now.out[0][0];
    memset(state, 0, sizeof *state);
    state->random = 2026;
    for (int i = 0; i < CONTEXT * SYMBOLS * HIDDEN; i++) in[i] = (uniform() - 0.5f) * 0.4f;
    for (int i = 0; i < HIDDEN * SYMBOLS; i++) out[i] = (uniform() - 0.5f) * 0.06f;
}

/* Fills `hidden` and the probabilities of the symbol that follows context[0 .. CONTEXT). */
static void forward(const unsigned char *context, float hidden[HIDDEN], float chances[SYMBOLS]) {
    const weights *w = &state->now;
    float highest, sum = 0;
    memcpy(hidden, w->hidden_bias, sizeof w->hidden_bias);
    for (int c = 0; c < CONTEXT; c++) {
        const float *row = w->in[c][context[c]];
        for (int h = 0; h < HIDDEN; h++) hidden[h] += row[h];
    }
    memcpy(chances, w->out_bias, sizeof w->out_bias);
    for (int h = 0; h < HIDDEN; h++) {
        if (hidden[h] <= 0) { hidden[h] = 0; continue; }
        for (int s = 0; s < SYMBOLS; s++) chances[s] += hidden[h] * w->out[h][s];
    }
    highest = chances[0];
    for (int s = 1; s < SYMBOLS; s++) if (chances[s] > highest) highest = chances[s];
    for (int s = 0; s < SYMBOLS; s++) sum += chances[s] = expf(chances[s] - highest);
    for (int s = 0; s < SYMBOLS; s++) chances[s] /= sum;
}

/* Adds the gradient of one prediction to `gradient`; returns its loss. */
static float learn(const unsigned char *context) {
    float hidden[HIDDEN], slope[SYMBOLS], back[HIDDEN];
    int right = context[CONTEXT];
    forward(context, hidden, slope);
    float loss = -logf(slope[right] + 1e-30f);
    slope[right] -= 1;
    for (int s = 0; s < SYMBOLS; s++) gradient->out_bias[s] += slope[s] /= (float)BATCH;
    for (int h = 0; h < HIDDEN; h++) {
        float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        back[h] = 0;
        if (hidden[h] <= 0) continue;
        for (int s = 0; s < SYMBOLS; s++) gradient->out[h][s] += hidden[h] * slope[s];
        for (int s = 0; s < SYMBOLS; s += 8)
            for (int i = 0; i < 8; i++) sums[i] += state->now.out[h][s + i] * slope[s + i];
        for (int i = 0; i < 8; i++) back[h] += sums[i];
        gradient->hidden_bias[h] += back[h];
    }
    for (int c = 0; c < CONTEXT; c++) {
        float *row = gradient->in[c][context[c]];
        for (int h = 0; h < HIDDEN; h++) row[h] += back[h];
    }
    return loss;
}

static void adam(void) {
    float *w = (float *)&state->now, *m = (float *)&state->mean, *v = (float *)&state->square;
    const float *g = (const float *)gradient;
    float m_scale = (float)(1 / (1 - pow(BETA1, (double)state->step)));
    float v_scale = (float)(1 / (1 - pow(BETA2, (double)state->step)));
    for (int i = 0; i < WEIGHTS; i++) {
        m[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
        v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i];
        w[i] -= LEARNING_RATE * (m[i] * m_scale) / (sqrtf(v[i] * v_scale) + EPSILON);
    }
}

static void train_one_step(const text *t) {
    float loss = 0;
    memset(gradient, 0, sizeof *gradient);
    for (int b = 0; b < BATCH; b++)
        loss += learn(t->symbols + next_random() % (uint64_t)(t->training - CONTEXT)) / (float)BATCH;
    state->losses[state->step++] = loss;
    adam();
}

static double held_out_loss(const text *t) {
    float hidden[HIDDEN], chances[SYMBOLS];
    double sum = 0;
    int count = 0;
    for (int i = t->training; i + CONTEXT < t->count; i++, count++) {
        forward(t->symbols + i, hidden, chances);
        sum -= log((double)chances[t->symbols[i + CONTEXT]] + 1e-30);
    }
    return count > 0 ? sum / count : 0;
}

static double recent_loss(void) {
    int64_t from = state->step > RECENT ? state->step - RECENT : 0;
    double sum = 0;
    for (int64_t i = from; i < state->step; i++) sum += state->losses[i];
    return state->step > 0 ? sum / (double)(state->step - from) : 0;
}

/* ---- checkpoints --------------------------------------------------------------------------------------- */

static int list_weights(dcp_tensor *tensors, const char *prefix, char names[PARTS][40], weights *w) {
    static const char *const parts[PARTS] = {"in", "hidden_bias", "out", "out_bias"};
    static const int64_t in[] = {CONTEXT, SYMBOLS, HIDDEN}, hidden_bias[] = {HIDDEN};
    static const int64_t out[] = {HIDDEN, SYMBOLS}, out_bias[] = {SYMBOLS};
    for (int i = 0; i < PARTS; i++) snprintf(names[i], 40, "%s.%s", prefix, parts[i]);
    tensors[0] = dcp_array(names[0], DCP_FP32, w->in, 3, in);
    tensors[1] = dcp_array(names[1], DCP_FP32, w->hidden_bias, 1, hidden_bias);
    tensors[2] = dcp_array(names[2], DCP_FP32, w->out, 2, out);
    tensors[3] = dcp_array(names[3], DCP_FP32, w->out_bias, 1, out_bias);
    return PARTS;
}

typedef struct tensor_list {
    dcp_tensor tensors[3 * PARTS + 3];
    char names[3][PARTS][40];
    size_t count;
} tensor_list;

static void list_state(tensor_list *list, const int64_t *losses) {          /* the same for save and load */
    int n = list_weights(list->tensors, "model", list->names[0], &state->now);
    n += list_weights(list->tensors + n, "adam.mean", list->names[1], &state->mean);
    n += list_weights(list->tensors + n, "adam.square", list->names[2], &state->square);
    list->tensors[n++] = dcp_scalar("random", DCP_UINT64, &state->random);
    list->tensors[n++] = dcp_scalar("step", DCP_INT64, &state->step);
    list->tensors[n++] = dcp_array("losses", DCP_FP32, state->losses, 1, losses);
    list->count = (size_t)n;
}

static void save_checkpoint(const options *o, const text *t) {
    char path[600], adam_state[100];
    const dcp_field fields[] = {{"textSha256", t->sha256}, {"program", "demo_charlm"}};
    dcp_training training = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    dcp_prune_desc prune = DCP_ZERO;
    tensor_list list;

    list_state(&list, &state->step);
    snprintf(path, sizeof path, "%s/step_%06lld", o->directory, (long long)state->step);
    snprintf(adam_state, sizeof adam_state, "{\"beta1\": %g, \"beta2\": %g, \"epsilon\": %g}", (double)BETA1,
             (double)BETA2, (double)EPSILON);
    training.step = state->step;
    training.epoch = state->step * BATCH / t->training;
    training.learning_rate = (double)LEARNING_RATE;
    training.optimizer_type = "adam";
    training.optimizer_state = adam_state;
    save.path = path;
    save.tensors = list.tensors;
    save.tensor_count = list.count;
    save.training = &training;
    save.fields = fields;
    save.field_count = 2;
    check(dcp_save(&save, &err), "save");
    prune.directory = o->directory;
    prune.keep_last = KEEP;
    check(dcp_prune(&prune, NULL, &err), "prune");
}

/* Goes on from the newest valid checkpoint; only DCP_E_NOT_FOUND means a fresh start. */
static void resume(const options *o, const text *t) {
    dcp_latest_desc latest = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    tensor_list list;
    char *path;

    latest.directory = o->directory;
    dcp_status status = dcp_latest(&latest, &path, &err);
    if (status == DCP_E_NOT_FOUND) {
        start_afresh();
        printf("fresh start: %d parameters, %d characters of text\n", WEIGHTS, t->count);
        return;
    }
    check(status, "looking for the latest checkpoint");
    open.path = path;
    check(dcp_open(&open, &checkpoint, &err), "open");
    const dcp_tensor_info *losses = dcp_tensor_find(checkpoint, "losses");
    const char *sha256 = dcp_field_find(dcp_metadata_of(checkpoint), "textSha256");
    if (!losses || losses->ndim != 1 || losses->shape[0] > MOST_STEPS || !sha256)
        die(path, "is not of this program");
    if (strcmp(sha256, t->sha256) != 0) die(path, "was trained on another text; use an empty --dir");
    list_state(&list, &losses->shape[0]);
    check(dcp_read(checkpoint, list.tensors, list.count, &err), "read");
    printf("resumed at step %lld from %s\n", (long long)state->step, path);
    dcp_close(checkpoint);
    dcp_free(path);
}

/* ---- train --------------------------------------------------------------------------------------------- */

static void show_bar(int steps, double started, int64_t first_step) {
    char bar[31];
    int filled = (int)(state->step * 30 / steps);
    double seconds = (double)clock() / CLOCKS_PER_SEC - started;
    if (!bar_wanted) return;
    for (int i = 0; i < 30; i++) bar[i] = i < filled ? '#' : '.';
    bar[30] = '\0';
    fprintf(stderr, "\r\033[K%s[%s]%s %lld/%d  loss %.3f  %.0f steps/s", colour_wanted ? "\033[32m" : "", bar,
            colour_wanted ? "\033[0m" : "", (long long)state->step, steps, recent_loss(),
            (double)(state->step - first_step) / (seconds > 0 ? seconds : 1));
    fflush(stderr);
}
static void clear_bar(void) { if (bar_wanted) fprintf(stderr, "\r\033[K"); }

static void write_losses(const options *o) {                /* nine digits are enough for every float32 */
    char path[600];
    snprintf(path, sizeof path, "%s/losses.txt", o->directory);
    FILE *file = fopen(path, "wb");
    if (!file) die(path, "cannot be made");
    for (int64_t i = 0; i < state->step; i++)
        fprintf(file, "%lld %.9g\n", (long long)i + 1, (double)state->losses[i]);
    if (fclose(file) != 0) die(path, "cannot be written");
}

static int train(const options *o, const text *t) {
    char hex[65];
    double started = (double)clock() / CLOCKS_PER_SEC;
    resume(o, t);
    for (int64_t first = state->step; state->step < o->steps;) {
        train_one_step(t);
        show_bar(o->steps, started, first);
        if (state->step % PRINT_EVERY == 0) {
            clear_bar();
            printf("step %5lld  loss %.9g\n", (long long)state->step, (double)state->losses[state->step - 1]);
            fflush(stdout);
        }
        if (state->step % o->save_every == 0 || state->step == o->steps) save_checkpoint(o, t);
    }
    clear_bar();
    write_losses(o);
    hex_of(&state->now, sizeof state->now, hex);
    printf("unigram entropy %.4f nats\n", unigram_entropy(t));
    printf("final loss %.4f nats (mean of the last %d steps)\n", recent_loss(), RECENT);
    printf("held-out loss %.4f nats\nparameters sha256 %s\n", held_out_loss(t), hex);
    return 0;
}

/* ---- the kill ------------------------------------------------------------------------------------------ */

/* The size of an entry that starts with `prefix` and ends with `suffix`, or -1; copies its name. */
static long long find_entry(const char *directory, const char *prefix, const char *suffix, char name[256]) {
    char path[700];
    DIR *d = opendir(directory);
    struct dirent *entry;
    struct stat status;
    long long size = -1;
    while (d && size < 0 && (entry = readdir(d)) != NULL) {
        size_t length = strlen(entry->d_name), tail = strlen(suffix);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || length < tail || length > 255) continue;
        if (strcmp(entry->d_name + length - tail, suffix) != 0) continue;
        memcpy(name, entry->d_name, length + 1);
        snprintf(path, sizeof path, "%s/%s", directory, name);
        if (stat(path, &status) == 0) size = (long long)status.st_size;
    }
    if (d) closedir(d);
    return size;
}

/* Trains in a child and kills it in the middle of its N-th save or, if that wins the race, of the next. */
static int train_and_kill(const options *o, const text *t) {
    const struct timespec nap = {0, 200000};
    for (int save = o->kill_in_save; save * o->save_every < o->steps; save++) {
        int how = 0, gone = 0, step = save * o->save_every;
        char prefix[40], name[256], other[256];
        long long size;
        snprintf(prefix, sizeof prefix, "step_%06d", step);
        if (find_entry(o->directory, prefix, "", name) >= 0) continue;  /* done, or hit, in an earlier run */
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) die("fork", "failed");
        if (child == 0) exit(train(o, t));
        while (!gone && find_entry(o->directory, prefix, ".tmp", name) <= 0) {  /* until there are bytes */
            nanosleep(&nap, NULL);
            gone = waitpid(child, &how, WNOHANG) == child;
        }
        if (!gone) {
            kill(child, SIGKILL);
            waitpid(child, &how, 0);
        }
        clear_bar();
        if (WIFEXITED(how) && WEXITSTATUS(how) != 0) return 1;
        size = find_entry(o->directory, prefix, ".tmp", name);
        if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL && size > 0 &&
            find_entry(o->directory, prefix, ".metadata.json", other) < 0) {
            printf("killed by SIGKILL in the save of step %d; it left %s (%lld bytes)\n", step, name, size);
            return 0;
        }
        printf("the save of step %d was done before the kill came; trying the next one\n", step);
    }
    die("kill", "no save could be hit; use more steps");
    return 1;
}

/* ---- sample -------------------------------------------------------------------------------------------- */

static int sample(const options *o) {                       /* loads the parameters alone */
    unsigned char window[CONTEXT];
    float hidden[HIDDEN], chances[SYMBOLS];
    char names[PARTS][40], *path;
    dcp_tensor tensors[PARTS];
    dcp_latest_desc latest = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;

    latest.directory = o->directory;
    check(dcp_latest(&latest, &path, &err), "looking for the latest checkpoint");
    load.path = path;
    load.tensors = tensors;
    load.tensor_count = (size_t)list_weights(tensors, "model", names, &state->now);
    check(dcp_load(&load, &err), "load");
    dcp_free(path);

    memset(window, 0, sizeof window);
    for (const char *p = o->prompt; *p; p++) {
        memmove(window, window + 1, CONTEXT - 1);
        window[CONTEXT - 1] = (unsigned char)(symbol_of(*p) < 0 ? 0 : symbol_of(*p));
    }
    printf("%s", o->prompt);
    state->random = 7;
    for (int i = 0; i < o->length; i++) {
        float sum = 0, pick;
        int symbol = 0;
        forward(window, hidden, chances);
        for (int s = 0; s < SYMBOLS; s++) sum += chances[s] = chances[s] * chances[s];   /* temperature 1/2 */
        pick = uniform() * sum;
        while (symbol < SYMBOLS - 1 && (pick -= chances[symbol]) >= 0) symbol++;
        putchar(character_of(symbol));
        memmove(window, window + 1, CONTEXT - 1);
        window[CONTEXT - 1] = (unsigned char)symbol;
    }
    putchar('\n');
    return 0;
}

/* ---- the command line ---------------------------------------------------------------------------------- */

static int usage(void) {
    fprintf(stderr, "usage: demo_charlm train --dir D --text FILE... --steps N --save-every K "
                    "[--kill-in-save S]\n"
                    "       demo_charlm sample --dir D [--length N] [--prompt TEXT]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    options o = DCP_ZERO;
    static text t;

    o.prompt = "A checkpoint ";
    o.length = 400;
    o.steps = 800;
    o.save_every = 100;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--dir") == 0) o.directory = value;
        else if (strcmp(name, "--text") == 0 && o.file_count < 8) o.files[o.file_count++] = value;
        else if (strcmp(name, "--prompt") == 0) o.prompt = value;
        else if (strcmp(name, "--length") == 0) o.length = atoi(value);
        else if (strcmp(name, "--steps") == 0) o.steps = atoi(value);
        else if (strcmp(name, "--save-every") == 0) o.save_every = atoi(value);
        else if (strcmp(name, "--kill-in-save") == 0) o.kill_in_save = atoi(value);
        else return usage();
    }
    if (argc < 4 || argc % 2 != 0 || !o.directory) return usage();
    if (o.steps < 1 || o.steps > MOST_STEPS || o.save_every < 1) return usage();
    bar_wanted = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
    colour_wanted = bar_wanted && !(no_colour && *no_colour);
    state = (model *)calloc(1, sizeof *state);
    gradient = (weights *)calloc(1, sizeof *gradient);
    if (!state || !gradient) die("memory", "there is none");
    if (strcmp(argv[1], "sample") == 0) return sample(&o);
    if (strcmp(argv[1], "train") != 0 || o.file_count == 0) return usage();
    read_text(&t, &o);
    return o.kill_in_save > 0 ? train_and_kill(&o, &t) : train(&o, &t);
}
