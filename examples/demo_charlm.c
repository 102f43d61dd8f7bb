/* demo_charlm.c - trains a small neural language model on several ranks, and survives being killed, on any
 * other number of ranks.
 *
 * Shows dcp.h in its main job: every rank has the parameters (DCP_PLACE_REPLICATED: stored once), and its own
 * part of both moments of Adam (dcp_piece: sharded); with the random numbers, the step and all losses so far
 * they are one checkpoint every few steps. A run resumes where dcp_latest says, on as many ranks as there are.
 * Each rank computes its part of the batch; what the samples contribute to the gradient goes to all, and the
 * owner of a parameter sums it in the order of the samples, whoever computed them. So every sum has one
 * order, and all parameters are the same bit for bit on 1, 3, 4 or 6 ranks, interrupted or not.
 * The ranks are threads of this process (dcp_thread_group_open) or, built with -DDCP_MPI, processes of MPI.
 * `--kill-in-save N` sends a real SIGKILL as soon as a temporary file of the N-th save appears: to a fork that
 * trains or, with MPI, from the last rank to itself. Not a good model: one hidden layer reads 8 characters.
 * Needs POSIX. demo.sh runs it and judges the outcome.
 *
 * Build: cc -O2 demo_charlm.c -I.. -o demo_charlm -lm -pthread          (with MPI: mpicc -DDCP_MPI -O2 ...)
 * Run:   ./demo_charlm train --dir D --text FILE [--text FILE...] --steps N --save-every K [--ranks R]
 *                      [--kill-in-save S]                (mpirun -n R ./demo_charlm train ...)
 *        ./demo_charlm sample --dir D [--length N] [--prompt TEXT]
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"                            /* with -DDCP_MPI, dcp_mpi.h too */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SYMBOLS = 96, CONTEXT = 8, HIDDEN = 640, BATCH = 48, PRINT_EVERY = 100, RECENT = 50, KEEP = 3 };
enum { TEXT_LIMIT = 60000, MOST_STEPS = 100000, MOST_RANKS = 64, PATIENCE_MS = 60000 };
static dcp_io patient;                      /* set by main */
static const float LEARNING_RATE = 0.003f, BETA1 = 0.9f, BETA2 = 0.99f, EPSILON = 1e-8f;

typedef struct weights {
    float in[CONTEXT][SYMBOLS][HIDDEN];     /* a row for each symbol at each place; reading adds up rows */
    float hidden_bias[HIDDEN];
    float out[HIDDEN][SYMBOLS];
    float out_bias[SYMBOLS];
} weights;
enum { PARTS = 4, WEIGHTS = (int)(sizeof(weights) / sizeof(float)) };

typedef struct sample_result {              /* what one sample contributes: its gradient is made of these three */
    float loss, hidden[HIDDEN], slope[SYMBOLS], back[HIDDEN];
} sample_result;

typedef struct rank {
    dcp_coordinator *ranks;                 /* NULL: alone */
    int index, count;
    dcp_error err;
    /* everything that the next step depends on */
    weights now;                            /* the same on all ranks */
    float *mean, *square;                   /* Adam's moments of the gradient: of the parameters that are this rank's */
    uint64_t random;
    int64_t step;
    float losses[MOST_STEPS];               /* of every step so far */
    /* of one step */
    int64_t first, end;                     /* which parameters are this rank's; all of them as one row of WEIGHTS */
    float *gradient;
    sample_result samples[BATCH];
} rank;

typedef struct text { unsigned char symbols[TEXT_LIMIT]; int count, training; char sha256[65]; } text;

typedef struct options {
    const char *directory, *files[8], *prompt;
    int file_count, steps, save_every, kill_in_save, length, ranks;
} options;

static options chosen;
static text words;
static int bar_wanted, colour_wanted;

static void die(const char *what, const char *why) {    /* only the first thread prints */
    static pthread_mutex_t last_words = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&last_words);
    fprintf(stderr, "%sdemo_charlm: %s: %s\n", bar_wanted ? "\r\033[K" : "", what, why);
    exit(1);
}
static void check(const rank *r, dcp_status status, const char *what) {
    if (status != DCP_OK) die(what, r->err.message);
}
/* Where the part of rank `index` starts if `total` things are dealt out. */
static int64_t part_start(int64_t total, int index, int count) { return total * index / count; }

static rank *rank_new(dcp_coordinator *ranks) {
    rank *r = (rank *)calloc(1, sizeof *r);
    if (!r) die("memory", "there is not enough");
    r->ranks = ranks;
    r->index = ranks ? ranks->rank : 0;
    r->count = ranks ? ranks->world_size : 1;
    r->first = part_start(WEIGHTS, r->index, r->count);
    r->end = part_start(WEIGHTS, r->index + 1, r->count);
    r->mean = (float *)calloc(3 * (size_t)(r->end - r->first), sizeof(float));
    if (!r->mean) die("memory", "there is not enough");
    r->square = r->mean + (r->end - r->first);
    r->gradient = r->square + (r->end - r->first);
    return r;
}
static void rank_free(rank *r) {
    free(r->mean);
    free(r);
}

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

static uint64_t next_random(rank *r) {                      /* splitmix64 */
    uint64_t z = r->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
static float uniform(rank *r) { return (float)(next_random(r) >> 40) / 16777216.0f; }       /* in [0, 1) */

static void start_afresh(rank *r) {                         /* all ranks draw the same parameters */
    float *in = &r->now.in[0][0][0], *out = &r->now.out[0][0];
    r->random = 2026;
    for (int i = 0; i < CONTEXT * SYMBOLS * HIDDEN; i++) in[i] = (uniform(r) - 0.5f) * 0.4f;
    for (int i = 0; i < HIDDEN * SYMBOLS; i++) out[i] = (uniform(r) - 0.5f) * 0.06f;
}

/* Fills `hidden` and the probabilities of the symbol that follows context[0 .. CONTEXT). */
static void forward(const weights *w, const unsigned char *context, float hidden[HIDDEN], float chances[SYMBOLS]) {
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

/* One prediction, forward and back. */
static void learn(const weights *w, const unsigned char *context, sample_result *sample) {
    float *hidden = sample->hidden, *slope = sample->slope, *back = sample->back;
    int right = context[CONTEXT];
    forward(w, context, hidden, slope);
    sample->loss = -logf(slope[right] + 1e-30f) / (float)BATCH;
    slope[right] -= 1;
    for (int s = 0; s < SYMBOLS; s++) slope[s] /= (float)BATCH;
    for (int h = 0; h < HIDDEN; h++) {
        float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        back[h] = 0;
        if (hidden[h] <= 0) continue;
        for (int s = 0; s < SYMBOLS; s += 8)
            for (int i = 0; i < 8; i++) sums[i] += w->out[h][s + i] * slope[s + i];
        for (int i = 0; i < 8; i++) back[h] += sums[i];
    }
}

/* Every rank has its part of `items` things in `all`, and gets those of the others. */
static void share(rank *r, void *all, int64_t items, size_t item_size) {
    int64_t first = part_start(items, r->index, r->count), end = part_start(items, r->index + 1, r->count);
    char *bytes = (char *)all;
    void **parts;
    size_t *sizes;
    check(r, dcp_gather(r->ranks, bytes + (size_t)first * item_size, (size_t)(end - first) * item_size, &parts,
                        &sizes, 0, &patient, &r->err), "gather");
    for (int i = 0; parts && i < r->count; i++)
        if (sizes[i] > 0) memcpy(bytes + (size_t)part_start(items, i, r->count) * item_size, parts[i], sizes[i]);
    dcp_free(parts);
    dcp_free(sizes);
    check(r, dcp_broadcast(r->ranks, all, (size_t)items * item_size, 0, &patient, &r->err), "broadcast");
}

/* gradient += scale * values, for `count` parameters from number `at` on, as far as they are this rank's. */
static void add_gradient(rank *r, int64_t at, const float *values, int count, float scale) {
    int64_t from = at > r->first ? at : r->first, end = at + count < r->end ? at + count : r->end;
    float *gradient = r->gradient - r->first;
    for (int64_t i = from; i < end; i++) gradient[i] += scale * values[i - at];
}
static int64_t number_of(const rank *r, const float *parameter) { return parameter - (const float *)&r->now; }

static void add_sample(rank *r, const unsigned char *context, const sample_result *sample) {
    const weights *w = &r->now;
    for (int c = 0; c < CONTEXT; c++) add_gradient(r, number_of(r, w->in[c][context[c]]), sample->back, HIDDEN, 1);
    add_gradient(r, number_of(r, w->hidden_bias), sample->back, HIDDEN, 1);
    for (int h = 0; h < HIDDEN; h++)
        if (sample->hidden[h] > 0) add_gradient(r, number_of(r, w->out[h]), sample->slope, SYMBOLS, sample->hidden[h]);
    add_gradient(r, number_of(r, w->out_bias), sample->slope, SYMBOLS, 1);
}

static void adam(rank *r) {                                 /* each rank its part of the parameters */
    float *w = (float *)&r->now + r->first, *m = r->mean, *v = r->square, *g = r->gradient;
    float m_scale = (float)(1 / (1 - pow(BETA1, (double)r->step)));
    float v_scale = (float)(1 / (1 - pow(BETA2, (double)r->step)));
    for (int64_t i = 0; i < r->end - r->first; i++) {
        m[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
        v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i];
        w[i] -= LEARNING_RATE * (m[i] * m_scale) / (sqrtf(v[i] * v_scale) + EPSILON);
    }
}

static void train_one_step(rank *r, const text *t) {
    const unsigned char *contexts[BATCH];
    float loss = 0;
    for (int b = 0; b < BATCH; b++)                         /* all ranks know the whole batch, and do their part */
        contexts[b] = t->symbols + next_random(r) % (uint64_t)(t->training - CONTEXT);
    for (int64_t b = part_start(BATCH, r->index, r->count); b < part_start(BATCH, r->index + 1, r->count); b++)
        learn(&r->now, contexts[b], &r->samples[b]);
    share(r, r->samples, BATCH, sizeof r->samples[0]);
    memset(r->gradient, 0, (size_t)(r->end - r->first) * sizeof(float));
    for (int b = 0; b < BATCH; b++) {                       /* always in this order: the same sums on any ranks */
        loss += r->samples[b].loss;
        add_sample(r, contexts[b], &r->samples[b]);
    }
    r->losses[r->step++] = loss;
    adam(r);
    share(r, &r->now, WEIGHTS, sizeof(float));
}

static double held_out_loss(const rank *r, const text *t) {
    float hidden[HIDDEN], chances[SYMBOLS];
    double sum = 0;
    int count = 0;
    for (int i = t->training; i + CONTEXT < t->count; i++, count++) {
        forward(&r->now, t->symbols + i, hidden, chances);
        sum -= log((double)chances[t->symbols[i + CONTEXT]] + 1e-30);
    }
    return count > 0 ? sum / count : 0;
}

static double recent_loss(const rank *r) {
    int64_t from = r->step > RECENT ? r->step - RECENT : 0;
    double sum = 0;
    for (int64_t i = from; i < r->step; i++) sum += r->losses[i];
    return r->step > 0 ? sum / (double)(r->step - from) : 0;
}

/* ---- checkpoints --------------------------------------------------------------------------------------- */

typedef struct tensor_list { dcp_tensor tensors[PARTS + 5]; size_t count; } tensor_list;

static void list_weights(tensor_list *list, weights *w) {                  /* every rank has them all */
    static const int64_t in[] = {CONTEXT, SYMBOLS, HIDDEN}, hidden_bias[] = {HIDDEN};
    static const int64_t out[] = {HIDDEN, SYMBOLS}, out_bias[] = {SYMBOLS};
    list->tensors[0] = dcp_array("model.in", DCP_FP32, w->in, 3, in);
    list->tensors[1] = dcp_array("model.hidden_bias", DCP_FP32, w->hidden_bias, 1, hidden_bias);
    list->tensors[2] = dcp_array("model.out", DCP_FP32, w->out, 2, out);
    list->tensors[3] = dcp_array("model.out_bias", DCP_FP32, w->out_bias, 1, out_bias);
    list->count = PARTS;
}
static void list_state(tensor_list *list, rank *r, const int64_t *losses) {             /* for save and load */
    static const int64_t whole[] = {WEIGHTS};
    const int64_t part[] = {r->end - r->first};
    dcp_tensor *t = list->tensors + PARTS;
    list_weights(list, &r->now);
    t[0] = dcp_scalar("random", DCP_UINT64, &r->random);
    t[1] = dcp_scalar("step", DCP_INT64, &r->step);
    t[2] = dcp_array("losses", DCP_FP32, r->losses, 1, losses);
    for (int i = 0; i < PARTS + 3; i++) list->tensors[i].placement = DCP_PLACE_REPLICATED;
    t[3] = dcp_array("adam.mean", DCP_FP32, r->mean, 1, part);
    t[4] = dcp_array("adam.square", DCP_FP32, r->square, 1, part);
    dcp_piece(&t[3], whole, &r->first);                                     /* this rank's part of the whole */
    dcp_piece(&t[4], whole, &r->first);
    list->count = PARTS + 5;
}
static dcp_io io_of(const rank *r) {                        /* all ranks make every call together */
    dcp_io io = DCP_ZERO;
    if (r->index == 0) io.log = dcp_log_stderr;             /* one rank's warnings are enough */
    io.coordinator = r->ranks;
    io.timeout_ms = PATIENCE_MS;
    return io;
}

static void save_checkpoint(rank *r, const options *o, const text *t) {
    char path[600], adam_state[100];
    const dcp_field fields[] = {{"textSha256", t->sha256}, {"program", "demo_charlm"}};
    dcp_training training = DCP_ZERO;
    dcp_save_desc save = DCP_ZERO;
    tensor_list list;

    list_state(&list, r, &r->step);
    snprintf(path, sizeof path, "%s/step_%06lld", o->directory, (long long)r->step);
    snprintf(adam_state, sizeof adam_state, "{\"beta1\": %g, \"beta2\": %g, \"epsilon\": %g}", (double)BETA1,
             (double)BETA2, (double)EPSILON);
    training.epoch = r->step * BATCH / t->training;
    training.learning_rate = (double)LEARNING_RATE;
    training.optimizer_type = "adam";
    training.optimizer_state = adam_state;
    save.path = path;
    save.tensors = list.tensors;
    save.tensor_count = list.count;
    save.step = r->step;
    save.training = &training;
    save.keep_last = KEEP;
    save.fields = fields;
    save.field_count = 2;
    save.io = io_of(r);
    check(r, dcp_save(&save, &r->err), "save");
}

/* Resumes from the newest valid checkpoint, whatever number of ranks saved it; only DCP_E_NOT_FOUND means a
 * fresh start. */
static void resume(rank *r, const options *o, const text *t) {
    dcp_latest_desc latest = DCP_ZERO;
    dcp_open_desc open = DCP_ZERO;
    dcp_checkpoint *checkpoint;
    tensor_list list;
    char *path;

    latest.directory = o->directory;
    latest.io = io_of(r);
    dcp_status status = dcp_latest(&latest, &path, &r->err);
    if (status == DCP_E_NOT_FOUND) {
        start_afresh(r);
        if (r->index == 0)
            printf("fresh start: %d parameters, %d characters of text, %d ranks\n", WEIGHTS, t->count, r->count);
        return;
    }
    check(r, status, "looking for the latest checkpoint");
    open.path = path;
    open.io = io_of(r);
    check(r, dcp_open(&open, &checkpoint, &r->err), "open");
    const dcp_tensor_info *losses = dcp_checkpoint_find(checkpoint, "losses");
    const char *sha256 = dcp_metadata_field(dcp_checkpoint_metadata(checkpoint), "textSha256");
    if (!losses || losses->ndim != 1 || losses->shape[0] > MOST_STEPS || !sha256)
        die(path, "was not saved by this program");
    if (strcmp(sha256, t->sha256) != 0) die(path, "was trained on another text; use an empty --dir");
    list_state(&list, r, &losses->shape[0]);
    check(r, dcp_read(checkpoint, list.tensors, list.count, &r->err), "read");
    if (r->index == 0)
        printf("resumed at step %lld from %s, saved by %d, on %d ranks\n", (long long)r->step, path,
               (int)dcp_checkpoint_metadata(checkpoint)->world_size, r->count);
    dcp_close(checkpoint);
    dcp_free(path);
}

/* ---- train --------------------------------------------------------------------------------------------- */

static void show_bar(const rank *r, int steps, double started, int64_t first_step) {
    char bar[31];
    int filled = (int)(r->step * 30 / steps);
    double seconds = (double)time(NULL) - started;
    if (!bar_wanted) return;
    for (int i = 0; i < 30; i++) bar[i] = i < filled ? '#' : '.';
    bar[30] = '\0';
    fprintf(stderr, "\r\033[K%s[%s]%s %lld/%d  loss %.3f  %.0f steps/s", colour_wanted ? "\033[32m" : "", bar,
            colour_wanted ? "\033[0m" : "", (long long)r->step, steps, recent_loss(r),
            (double)(r->step - first_step) / (seconds > 0 ? seconds : 1));
    fflush(stderr);
}
static void clear_bar(void) { if (bar_wanted) fprintf(stderr, "\r\033[K"); }

static void write_losses(const rank *r, const options *o) { /* nine digits are enough for every float32 */
    char path[600];
    snprintf(path, sizeof path, "%s/losses.txt", o->directory);
    FILE *file = fopen(path, "wb");
    if (!file) die(path, "cannot be created");
    for (int64_t i = 0; i < r->step; i++) fprintf(file, "%lld %.9g\n", (long long)i + 1, (double)r->losses[i]);
    if (fclose(file) != 0) die(path, "cannot be written");
}

static void train(rank *r, const options *o, const text *t) {
    char hex[65];
    double started = (double)time(NULL);
    resume(r, o, t);
    for (int64_t first = r->step; r->step < o->steps;) {
        train_one_step(r, t);
        if (r->index == 0) show_bar(r, o->steps, started, first);
        if (r->index == 0 && r->step % PRINT_EVERY == 0) {
            clear_bar();
            printf("step %5lld  loss %.9g\n", (long long)r->step, (double)r->losses[r->step - 1]);
            fflush(stdout);
        }
        if (r->step % o->save_every == 0 || r->step == o->steps) save_checkpoint(r, o, t);
    }
    if (r->index > 0) return;
    clear_bar();
    write_losses(r, o);
    hex_of(&r->now, sizeof r->now, hex);
    printf("unigram entropy %.4f nats\n", unigram_entropy(t));
    printf("final loss %.4f nats (mean of the last %d steps)\n", recent_loss(r), RECENT);
    printf("held-out loss %.4f nats\nparameters sha256 %s\n", held_out_loss(r, t), hex);
}

/* ---- the ranks, and the kill ---------------------------------------------------------------------------- */

/* The largest entry that starts with `prefix` and ends with `suffix`, or -1; copies its name. */
static long long find_entry(const char *directory, const char *prefix, const char *suffix, char name[256]) {
    char path[700];
    DIR *d = opendir(directory);
    struct dirent *entry;
    struct stat status;
    long long size = -1;
    while (d && (entry = readdir(d)) != NULL) {
        size_t length = strlen(entry->d_name), tail = strlen(suffix);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || length < tail || length > 255) continue;
        if (strcmp(entry->d_name + length - tail, suffix) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (stat(path, &status) != 0 || (long long)status.st_size <= size) continue;
        size = (long long)status.st_size;
        memcpy(name, entry->d_name, length + 1);
    }
    if (d) closedir(d);
    return size;
}
static void nap(void) {
    const struct timespec time = {0, 200000};
    nanosleep(&time, NULL);
}

#ifdef DCP_MPI
/* The last rank kills itself as soon as there are bytes of the N-th save; mpirun then ends the others. */
static void *watch(void *unused) {
    char prefix[40], name[256];
    (void)unused;
    snprintf(prefix, sizeof prefix, "step_%06d", chosen.kill_in_save * chosen.save_every);
    while (find_entry(chosen.directory, prefix, ".tmp", name) <= 0) nap();
    kill(getpid(), SIGKILL);
    return NULL;
}
static int train_on_ranks(int argc, char **argv) {
    dcp_coordinator *ranks;
    dcp_error err;
    pthread_t watcher;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (dcp_mpi_open(MPI_COMM_WORLD, &ranks, &err) != DCP_OK) die("MPI", err.message);
    rank *r = rank_new(ranks);
    if (chosen.kill_in_save > 0 && r->index == r->count - 1 && pthread_create(&watcher, NULL, watch, NULL) != 0)
        die("thread", "cannot be created");
    train(r, &chosen, &words);
    rank_free(r);
    if (dcp_barrier(ranks, &patient, &err) != DCP_OK) die("barrier", err.message);
    dcp_coordinator_close(ranks);
    return MPI_Finalize();
}
#else
static void *train_as_thread(void *ranks) {
    rank *r = rank_new((dcp_coordinator *)ranks);
    train(r, &chosen, &words);
    rank_free(r);
    return NULL;
}
static int train_here(void) {
    dcp_coordinator *ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    dcp_error err;
    if (dcp_thread_group_open(chosen.ranks, ranks, &err) != DCP_OK) die("ranks", err.message);
    for (int i = 0; i < chosen.ranks; i++)
        if (pthread_create(&threads[i], NULL, train_as_thread, ranks[i]) != 0) die("thread", "cannot be created");
    for (int i = 0; i < chosen.ranks; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < chosen.ranks; i++) dcp_coordinator_close(ranks[i]);
    return 0;
}
/* Trains in a child and kills it in the middle of its N-th save or, if that wins the race, of the next. */
static int train_and_kill(const options *o) {
    for (int save = o->kill_in_save; save * o->save_every < o->steps; save++) {
        int how = 0, gone = 0, step = save * o->save_every;
        char prefix[40], name[256], other[256];
        long long size;
        snprintf(prefix, sizeof prefix, "step_%06d", step);
        if (find_entry(o->directory, prefix, "", name) >= 0) continue;  /* done, or hit, in an earlier run */
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) die("fork", "failed");
        if (child == 0) exit(train_here());
        while (!gone && find_entry(o->directory, prefix, ".tmp", name) <= 0) {  /* until there are bytes */
            nap();
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
static int train_on_ranks(int argc, char **argv) {
    (void)argc; (void)argv;
    return chosen.kill_in_save > 0 ? train_and_kill(&chosen) : train_here();
}
#endif

/* ---- sample -------------------------------------------------------------------------------------------- */

static int sample(const options *o) {                       /* one rank, which loads only the parameters */
    unsigned char window[CONTEXT];
    float hidden[HIDDEN], chances[SYMBOLS];
    rank *r = rank_new(NULL);
    tensor_list list;
    dcp_load_latest_desc load = DCP_ZERO;

    list_weights(&list, &r->now);
    load.directory = o->directory;
    load.io.log = dcp_log_stderr;
    load.tensors = list.tensors;
    load.tensor_count = list.count;
    check(r, dcp_load_latest(&load, &r->err), "load");

    memset(window, 0, sizeof window);
    for (const char *p = o->prompt; *p; p++) {
        memmove(window, window + 1, CONTEXT - 1);
        window[CONTEXT - 1] = (unsigned char)(symbol_of(*p) < 0 ? 0 : symbol_of(*p));
    }
    printf("%s", o->prompt);
    r->random = 7;
    for (int i = 0; i < o->length; i++) {
        float sum = 0, pick;
        int symbol = 0;
        forward(&r->now, window, hidden, chances);
        for (int s = 0; s < SYMBOLS; s++) sum += chances[s] = chances[s] * chances[s];   /* temperature 1/2 */
        pick = uniform(r) * sum;
        while (symbol < SYMBOLS - 1 && (pick -= chances[symbol]) >= 0) symbol++;
        putchar(character_of(symbol));
        memmove(window, window + 1, CONTEXT - 1);
        window[CONTEXT - 1] = (unsigned char)symbol;
    }
    putchar('\n');
    rank_free(r);
    return 0;
}

/* ---- the command line ---------------------------------------------------------------------------------- */

static int usage(void) {
    fprintf(stderr, "usage: demo_charlm train --dir D --text FILE... --steps N --save-every K [--ranks R] "
                    "[--kill-in-save S]\n"
                    "       demo_charlm sample --dir D [--length N] [--prompt TEXT]\n");
    return 2;
}

/* Returns 0 if they are wrong. */
static int parse_options(options *o, int argc, char **argv) {
    o->prompt = "A checkpoint ";
    o->length = 400;
    o->steps = 800;
    o->save_every = 100;
    o->ranks = 4;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--dir") == 0) o->directory = value;
        else if (strcmp(name, "--text") == 0 && o->file_count < 8) o->files[o->file_count++] = value;
        else if (strcmp(name, "--prompt") == 0) o->prompt = value;
        else if (strcmp(name, "--length") == 0) o->length = atoi(value);
        else if (strcmp(name, "--steps") == 0) o->steps = atoi(value);
        else if (strcmp(name, "--save-every") == 0) o->save_every = atoi(value);
        else if (strcmp(name, "--ranks") == 0) o->ranks = atoi(value);
        else if (strcmp(name, "--kill-in-save") == 0) o->kill_in_save = atoi(value);
        else return 0;
    }
    return argc >= 4 && argc % 2 == 0 && o->directory && o->ranks >= 1 && o->ranks <= MOST_RANKS && o->steps >= 1 &&
           o->steps <= MOST_STEPS && o->save_every >= 1;
}

int main(int argc, char **argv) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    if (!parse_options(&chosen, argc, argv)) return usage();
    patient.timeout_ms = PATIENCE_MS;
    bar_wanted = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
    colour_wanted = bar_wanted && !(no_colour && *no_colour);
    if (strcmp(argv[1], "sample") == 0) return sample(&chosen);
    if (strcmp(argv[1], "train") != 0 || chosen.file_count == 0) return usage();
    read_text(&words, &chosen);
    return train_on_ranks(argc, argv);
}
