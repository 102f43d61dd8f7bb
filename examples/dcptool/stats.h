/* stats.h - numbers of tensors, counted: what the files of dcptool stats share, and dcptool report uses. */
#ifndef DCPTOOL_STATS_H
#define DCPTOOL_STATS_H
#include "dcptool.h"

enum { STATS_BINS = 1024, STATS_COLUMNS = 20 };

/* Of finite numbers, but for nans and infinities. */
typedef struct stats_sums {
    int64_t count, nans, infinities, zeros;
    double minimum, maximum, mean, squares;             /* squares: the sum of squared distances from the mean */
    int exponent;
    int64_t first, bins[STATS_BINS];                    /* bin i begins at (first + i) * 2^exponent */
} stats_sums;

void stats_add(stats_sums *s, double *values, int64_t count);           /* changes values */
void stats_merge(stats_sums *s, stats_sums *other);                     /* changes other */
double stats_deviation(const stats_sums *s);
void stats_histogram(const stats_sums *s, int64_t *counts, int columns);        /* from minimum to maximum */

/* stats_read.c */
typedef struct stats_reader stats_reader;
stats_reader *stats_reader_open(tool_state *t, dcp_checkpoint *c);
dcp_status stats_read(stats_reader *r, const tool_part *part, stats_sums *sums, dcp_error *err);        /* adds */
void stats_reader_close(stats_reader *r);
#endif
