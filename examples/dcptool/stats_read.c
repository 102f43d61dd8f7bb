/* stats_read.c - the numbers of tensors, read and counted: one buffer is read while several threads look at another. */
#include "stats.h"

enum { BLOCK = 2048, WORKERS = 8 };

typedef struct worker {
    const tool_decoder *decoder;
    const unsigned char *data;
    int64_t begins, ends;                               /* numbers */
    tool_thread *thread;
    stats_sums sums;
} worker;

struct stats_reader {
    tool_state *t;
    dcp_checkpoint *c;
    tool_buffer buffers[2];
    worker *workers;
    int worker_count, busy;
    tool_decoder decoder;
};

stats_reader *stats_reader_open(tool_state *t, dcp_checkpoint *c) {
    stats_reader *r = tool_need(calloc(1, sizeof *r));
    r->t = t;
    r->c = c;
    r->worker_count = tool_processors() < WORKERS ? tool_processors() : WORKERS;
    r->workers = tool_need(calloc((size_t)r->worker_count, sizeof *r->workers));
    return r;
}

void stats_reader_close(stats_reader *r) {
    free(r->buffers[0].bytes);
    free(r->buffers[1].bytes);
    free(r->workers);
    free(r);
}

static void work(void *argument) {
    worker *w = argument;
    double values[BLOCK];
    int64_t at, count;
    for (at = w->begins; at < w->ends; at += count) {
        count = w->ends - at < BLOCK ? w->ends - at : BLOCK;
        tool_numbers(w->decoder, w->data, at, count, values);
        stats_add(&w->sums, values, count);
    }
}

static void join(stats_reader *r) {
    for (; r->busy > 0; r->busy--) {
        worker *w = &r->workers[r->busy - 1];
        if (w->thread) tool_thread_join(w->thread);
    }
}

/* A worker for each part of a buffer. Little, and what there is no thread for, is done here. */
static void start(stats_reader *r, const unsigned char *data, int64_t count) {
    const int64_t share = (count / r->worker_count + BLOCK) / BLOCK * BLOCK;
    int64_t at;
    for (at = 0; at < count; at += share) {
        worker *w = &r->workers[r->busy++];
        w->decoder = &r->decoder;
        w->data = data;
        w->begins = at;
        w->ends = count - at < share ? count : at + share;
        w->thread = count > 8 * BLOCK ? tool_thread_start(work, w) : NULL;
        if (!w->thread) work(w);
    }
}

dcp_status stats_read(stats_reader *r, const tool_part *part, stats_sums *sums, dcp_error *err) {
    tool_boxes b = tool_boxes_of(part, TOOL_CHUNK);
    dcp_status status = DCP_OK;
    int64_t left = tool_numbers_each(part->info->dtype);
    int i, turn = 0, d;
    if (r->decoder.dtype != part->info->dtype) r->decoder = tool_decoder_of(part->info->dtype);
    for (d = 0; d < part->ndim; d++) left *= part->shape[d];    /* a last half byte may hold none */
    for (i = 0; i < 2 && !status; i++) status = tool_buffer_fit(&r->buffers[i], b.largest, err);
    for (i = 0; i < r->worker_count; i++) memset(&r->workers[i].sums, 0, sizeof r->workers[i].sums);
    r->t->progress.total = part->size;
    while (!status && tool_boxes_next(&b)) {
        const int64_t held = tool_numbers_in(part->info->dtype, b.size), count = held < left ? held : left;
        r->t->progress.done = b.at;
        status = tool_boxes_read(&b, r->c, r->buffers[turn].bytes, err);
        join(r);
        if (!status) start(r, r->buffers[turn].bytes, count);
        left -= count;
        turn = !turn;
    }
    join(r);
    r->t->progress.total = 0;
    for (i = 0; i < r->worker_count; i++) stats_merge(sums, &r->workers[i].sums);
    return status;
}
