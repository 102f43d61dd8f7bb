/* bench_scale.c: what the plans and documents of many ranks cost rank 0 and one that loads, without any data (`make
 * bench-scale`).
 *
 *   build/bench_scale [RANKSxTENSORS...]       default: 1024x1024 10000x1000; each also with a tenth of the ranks
 *
 * Every tensor is sharded over all ranks, so there are RANKS x TENSORS pieces, each with one block digest. The
 * functions of dcp.h are called as dcp_save, dcp_open and dcp_load call them, in one thread, on messages that are made
 * here. Times are the processor's, and the least of three rounds (up to 2 million pieces; else one). Memory is what
 * goes through DCP_MALLOC. A document whose parsing would take more than 12 GiB is only written; parse, index and load
 * are then those of the tenth. Exit code: 0, also when a target is missed; 1 when something failed; 2 wrong usage. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include <stddef.h>
#include <stdint.h>
static void *count_alloc(size_t size);
static void *count_realloc(void *memory, size_t size);
static void count_free(void *memory);
#define DCP_MALLOC(size) count_alloc(size)
#define DCP_REALLOC(memory, size) count_realloc(memory, size)
#define DCP_FREE(memory) count_free(memory)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- memory: how much there is, and the most there was */
static int64_t held, most_held;
enum { BEFORE = 16 };                                   /* bytes that hold the size; keeps the alignment */
static void *count_realloc(void *memory, size_t size) {
    int64_t old = memory ? *(int64_t *)(void *)((char *)memory - BEFORE) : 0;
    char *now = (char *)realloc(memory ? (char *)memory - BEFORE : NULL, size + BEFORE);
    if (!now) return NULL;
    *(int64_t *)(void *)now = (int64_t)size;
    held += (int64_t)size - old;
    if (held > most_held) most_held = held;
    return now + BEFORE;
}
static void *count_alloc(size_t size) { return count_realloc(NULL, size); }
static void count_free(void *memory) {
    if (!memory) return;
    held -= *(int64_t *)(void *)((char *)memory - BEFORE);
    free((char *)memory - BEFORE);
}
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- what is measured */
enum { ENCODE, LISTS, PIECES, PLACES, PARTS, EMIT, PARSE, INDEX, LOAD, STAGES };
static const char *const stage_names[STAGES] = {
    "encode the lists (all ranks)", "read the lists", "group, check, choose writers", "offsets, blocks, document head",
        "each rank's part",
    "write the document", "parse the document", "index it", "one rank's load plan"
};
typedef struct figures {
    int64_t ranks, tensors, pieces, document, list_bytes, part_bytes;
    double time[STAGES];
    /* the most; what parse holds at its end */
    int64_t memory_plan, memory_save, memory_document, memory_index, memory_load;
    int is_parsed;
} figures;
typedef struct document { char *text; size_t size, capacity; int keep; } document;

static dcp_error err;
static int is_wrong;
static void must(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "bench_scale: %s: %s: %s\n", what, dcp_status_name(status), err.message);
    exit(1);
}
static void *must_have(void *memory) {
    if (!memory) { fprintf(stderr, "bench_scale: out of memory\n"); exit(1); }
    return memory;
}
static dcp_status take_text(void *user, const void *data, size_t size, dcp_error *e) {
    document *d = (document *)user;
    (void)e;
    if (d->keep) {
        if (d->size + size > d->capacity) {          /* by realloc itself: this is the file, not the library's memory */
            d->capacity = 2 * d->capacity + size + (1 << 20);
            d->text = (char *)must_have(realloc(d->text, d->capacity));
        }
        memcpy(d->text + d->size, data, size);
    }
    d->size += size;
    return DCP_OK;
}

/* The tensors of one rank of so many: a row of each, or several. */
static void fill_tensors(dcp_tensor *tensors, char (*names)[48], int64_t count, int64_t rows, int64_t rank,
                         int64_t world) {
    int64_t i, shape[2], whole[2], offset[2];
    offset[0] = rows * rank / world;
    offset[1] = 0;
    shape[0] = rows * (rank + 1) / world - offset[0];
    shape[1] = whole[1] = 1024;
    whole[0] = rows;
    for (i = 0; i < count; i++) {
        tensors[i] = dcp_array(names[i], DCP_BF16, tensors, 2, shape);
        dcp_piece(&tensors[i], whole, offset);
    }
}

/* ---- a save, as rank 0 sees it */
static void encode(dcpi_save *s, figures *f, dcp_tensor *tensors, char (*names)[48]) {
    double begun;
    int64_t r, i;
    for (r = 0; r < f->ranks; r++) {
        dcpi_buffer list;
        uint8_t *message;
        memset(&list, 0, sizeof list);
        fill_tensors(tensors, names, f->tensors, f->ranks, r, f->ranks);
        begun = seconds();
        dcpi_message_start(&list);
        dcpi_put64(&list, f->tensors);
        for (i = 0; i < f->tensors; i++) dcpi_record_put(&list, &tensors[i], (int)f->ranks, 0);
        f->time[ENCODE] += seconds() - begun;
        message = (uint8_t *)must_have(count_alloc(list.size));         /* as a coordinator hands it over */
        memcpy(message, list.data, list.size);
        f->list_bytes += (int64_t)list.size;
        if (r == 0) {
            s->list.data = (char *)message;
            s->list.size = s->list.capacity = list.size;
        } else {
            s->op.team.peers[r].message = message;
            s->op.team.peers[r].size = list.size;
        }
        dcpi_buffer_free(&list);
    }
}
/* The stages of dcpi_plan_all. */
static void plan(dcpi_save *s, figures *f) {
    double begun = seconds();
    int r;
    must(dcpi_plan_take_lists(s, &err), "take the lists");
    for (r = 0; r < (int)f->ranks; r++) must(dcpi_plan_read_list(s, r, &err), "read a list");
    f->time[LISTS] = seconds() - begun;
    begun = seconds();
    must(dcpi_plan_pieces(s, &err), "plan the pieces");
    f->time[PIECES] = seconds() - begun;
    begun = seconds();
    must(dcpi_plan_offsets(s, &err), "plan the offsets");
    dcpi_plan_blocks(s);
    must(s->layout->emit(s, NULL, NULL, &err), "plan the document");
    f->time[PLACES] = seconds() - begun;
    begun = seconds();
    for (r = 0; r < (int)f->ranks; r++) {
        dcpi_buffer part;
        memset(&part, 0, sizeof part);
        must(dcpi_part_make(s, r, &part, &err), "make a part");
        f->part_bytes += (int64_t)part.size;
        dcpi_buffer_free(&part);
    }
    f->time[PARTS] = seconds() - begun;
}
/* What each rank says when it has written: its digests come with it. */
static void acknowledge(dcpi_save *s, const figures *f) {
    uint64_t random = 1;
    int64_t r;
    size_t i;
    for (r = 0; r < f->ranks; r++) {
        dcpi_part *part = &s->parts[r];
        dcpi_buffer word;
        uint8_t digest[32], *message;
        memset(&word, 0, sizeof word);
        dcpi_message_start(&word);
        dcpi_put64(&word, part->file_size);
        dcpi_put64(&word, part->file_size);
        dcpi_put32(&word, 1);
        for (i = 0; i <= part->block_total; i++) {      /* the shard's checksum, then its blocks' */
            size_t k;
            for (k = 0; k < sizeof digest; k++)
                digest[k] = (uint8_t)((random = random * 6364136223846793005u + 1442695040888963407u) >> 56);
            dcpi_buffer_add(&word, digest, sizeof digest);
        }
        message = (uint8_t *)must_have(count_alloc(word.size));
        memcpy(message, word.data, word.size);
        must(dcpi_done_take(s, part, (int)r, message, word.size, &err), "take what a rank says");
        dcpi_buffer_free(&word);
    }
}
static void save(figures *f, document *d, int keep, dcp_tensor *tensors, char (*names)[48]) {
    static dcp_storage storage;                         /* cannot tell how much space there is */
    static char place_name[] = "step_1";
    dcp_save_desc desc = DCP_ZERO;
    int64_t before = held;
    double begun;
    dcpi_save s;
    int r;
    dcpi_save_init(&s, &desc);
    s.block_size = DCPI_CHUNK;
    must(dcpi_op_begin(&s.op, &desc.io, &err), "begin");
    s.op.team.world_size = (int)f->ranks;
    s.op.team.state = DCPI_RANK_IS_OVER;                              /* nobody is there to talk to */
    s.op.team.peers = (dcpi_peer *)must_have(calloc((size_t)f->ranks, sizeof(dcpi_peer)));
    s.place.storage = &storage;
    s.place.name = place_name;
    s.kind = &dcpi_commit_kinds[0];
    s.alignment = 64;
    memcpy(s.report.save_id, "0123456789abcdef", 17);
    s.report.sequence = 1;
    dcpi_time_format(dcpi_os_wall_us(), s.timestamp);
    encode(&s, f, tensors, names);
    most_held = held;
    plan(&s, f);
    f->memory_plan = most_held - before;
    acknowledge(&s, f);
    most_held = held;
    begun = seconds();
    must(s.layout->emit(&s, take_text, d, &err), "write the document");
    f->time[EMIT] = seconds() - begun;
    f->document = (int64_t)d->size;
    f->memory_save = most_held - before;
    d->size = 0;                      /* once more, to be parsed: fresh memory would have cost as much as the writing */
    d->keep = keep;
    if (keep) must(s.layout->emit(&s, take_text, d, &err), "write the document again");
    for (r = 0; r < (int)f->ranks; r++) {
        count_free(s.parts[r].list);
        count_free(s.parts[r].done);
    }
    free(s.op.team.peers);
    dcpi_free(s.parts);
    dcpi_free(s.entries);
    if (held != before) {
        fprintf(stderr, "bench_scale: %lld bytes were not freed\n", (long long)(held - before));
        is_wrong = 1;
    }
}

/* ---- open and load: another number of ranks than saved it */
static void load(figures *f, document *d, dcp_tensor *tensors, char (*names)[48]) {
    int64_t before = held, world = f->ranks / 2 > 0 ? f->ranks / 2 : 1;
    double begun = seconds();
    dcp_checkpoint c;
    dcpi_load l;
    memset(&c, 0, sizeof c);
    memset(&l, 0, sizeof l);
    must(dcp_metadata_parse(d->text, d->size, &c.metadata, &err), "parse");
    f->time[PARSE] = seconds() - begun;
    f->memory_document = held - before;
    most_held = held;
    begun = seconds();
    must(dcpi_index_pieces(&c, &err), "index the pieces");
    must(dcpi_index_tensors(&c, &err), "index the tensors");
    must(dcpi_index_files(&c, &err), "index the files");
    f->time[INDEX] = seconds() - begun;
    f->memory_index = most_held - before - f->memory_document;
    if ((int64_t)c.piece_count != f->pieces || (int64_t)c.tensor_count != f->tensors) is_wrong = 1;
    fill_tensors(tensors, names, f->tensors, f->ranks, world / 2, world);
    c.path = names[0];
    l.checkpoint = &c;
    l.op = &c.op;
    l.wanted = tensors;
    l.wanted_count = (size_t)f->tensors;
    l.rank = -1;
    l.check = 1;
    before = most_held = held;
    begun = seconds();
    must(dcpi_load_match(&l, &err), "match");
    must(dcpi_load_plan(&l, &err), "plan the load");
    f->time[LOAD] = seconds() - begun;
    f->memory_load = most_held - before;
    if ((int64_t)l.item_count < f->tensors * (f->ranks / world)) is_wrong = 1;
    dcpi_free(l.sources);
    dcpi_free(l.items);
    dcpi_free((void *)l.order);
    dcpi_free(c.files);
    dcpi_free(c.tensors);
    dcpi_free(c.pieces);
    dcp_metadata_free(c.metadata);
    f->is_parsed = 1;
}

static void measure(figures *f, int64_t ranks, int64_t tensors, int keep) {
    dcp_tensor *pieces = (dcp_tensor *)must_have(calloc((size_t)tensors, sizeof *pieces));
    char (*names)[48] = (char (*)[48])must_have(calloc((size_t)tensors, sizeof *names));
    document d;
    int64_t i;
    memset(f, 0, sizeof *f);
    memset(&d, 0, sizeof d);
    f->ranks = ranks;
    f->tensors = tensors;
    f->pieces = ranks * tensors;
    for (i = 0; i < tensors; i++)
        (void)snprintf(names[i], sizeof names[i], "layers.%lld.feed_forward.weight", (long long)i);
    save(f, &d, keep, pieces, names);
    if (keep) load(f, &d, pieces, names);
    free(d.text);
    free(names);
    free(pieces);
}

/* ---- the table */
static void row(const char *name, double tenth, double full, double growth, const char *unit) {
    printf("  %-34s %12.3f %12.3f %s", name, tenth, full, unit);
    if (tenth > 0 && full > 0)
        printf("   x %5.2f for x %.2f pieces%s", full / tenth, growth, full / tenth > 1.5 * growth &&
               full > 0.05 ? "  MORE THAN LINEAR" : "");
    printf("\n");
}
static void target(const char *what, double value, double limit, const char *unit) {
    printf("  %-60s %8.3f %s, target %.0f: %s\n", what, value, unit, limit, value <= limit ? "met" : "MISSED");
}
static void measure_least(figures *f, int64_t ranks, int64_t tensors, int keep) {
    figures again;
    int round, i;
    measure(f, ranks, tensors, keep);
    for (round = 1; round < 3 && f->pieces <= 2000000; round++) {
        measure(&again, ranks, tensors, keep);
        for (i = 0; i < STAGES; i++) if (again.time[i] < f->time[i]) f->time[i] = again.time[i];
    }
}
static void scale(int64_t ranks, int64_t tensors) {
    figures tenth, full;
    double growth, all;
    int64_t guess, i;
    measure_least(&tenth, ranks / 10 > 0 ? ranks / 10 : 1, tensors, 1);
    guess = (tenth.memory_document + tenth.memory_index + tenth.document) / tenth.pieces * (ranks * tensors);
    measure_least(&full, ranks, tensors, guess < ((int64_t)12 << 30));
    growth = (double)full.pieces / (double)tenth.pieces;
    printf("\n%lld ranks x %lld tensors, %lld pieces; before it a tenth of the ranks\n", (long long)ranks,
           (long long)tensors, (long long)full.pieces);
    for (i = 0; i < STAGES; i++) row(stage_names[i], tenth.time[i], full.time[i], growth, "s");
    row("the lists", (double)tenth.list_bytes / 1e6, (double)full.list_bytes / 1e6, growth, "MB");
    row("the document", (double)tenth.document / 1e6, (double)full.document / 1e6, growth, "MB");
    row("rank 0 while it plans", (double)tenth.memory_plan / 1e6, (double)full.memory_plan / 1e6, growth, "MB");
    row("rank 0 while it writes", (double)tenth.memory_save / 1e6, (double)full.memory_save / 1e6, growth, "MB");
    row("the parsed document", (double)tenth.memory_document / 1e6, (double)full.memory_document / 1e6, growth, "MB");
    row("its index, while it is made", (double)tenth.memory_index / 1e6, (double)full.memory_index / 1e6, growth, "MB");
    row("one rank's load plan", (double)tenth.memory_load / 1e6, (double)full.memory_load / 1e6, growth, "MB");
    if (!full.is_parsed)
        printf("  not parsed: that would take about %.1f GiB; parse, index and load are those of the tenth\n",
               (double)guess / (double)(1 << 30));
    all = full.time[LISTS] + full.time[PIECES] + full.time[PLACES] + full.time[PARTS] + full.time[EMIT];
    if (full.pieces <= 1024 * 1024) target("validation, plan and document, one core, in all", all, 1, "s");
    else
        printf("  validation, plan and document, one core, in all: %.3f s, %.3f s for a million pieces\n", all,
               all * 1e6 / (double)full.pieces);
    target("rank 0 while it plans, a piece", (double)full.memory_plan / (double)full.pieces, 200, "bytes");
    target("rank 0 while it writes, a piece", (double)full.memory_save / (double)full.pieces, 200, "bytes");
}

int main(int argc, char **argv) {
    long long ranks, tensors;
    int i;
    for (i = 1; i < argc; i++) {
        if (sscanf(argv[i], "%lldx%lld", &ranks, &tensors) != 2 || ranks < 1 || tensors < 1 || ranks > 1000000 ||
            tensors > 1000000) {
            fprintf(stderr, "usage: bench_scale [RANKSxTENSORS...]\n");
            return 2;
        }
        scale(ranks, tensors);
    }
    if (argc < 2) {
        scale(1024, 1024);
        scale(10000, 1000);
    }
    if (is_wrong) fprintf(stderr, "bench_scale: something is wrong with the counts\n");
    return is_wrong;
}
