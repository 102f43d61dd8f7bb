/* sums.c - what stats says of numbers, gathered a block at a time and by several threads. */
#include "stats.h"
#include <float.h>
#include <math.h>

enum { LANES = 4, PRECISION = 50 };     /* sums that do not wait for each other; bits of the largest index of a bin */

/* ---- bins: each is 2^exponent wide, and begins at a multiple of that, so that two bins can be made one ----------- */
static int64_t index_of(const stats_sums *s, double value) {
    const double at = value * ldexp(1, -s->exponent) - (double)s->first;
    return at < 1 ? 0 : at < STATS_BINS - 1 ? (int64_t)at : STATS_BINS - 1;
}

static int64_t halve(int64_t index, int times) {        /* rounded down */
    if (times > 62) times = 62;
    return index >= 0 ? index >> times : -((-index - 1) >> times) - 1;
}

/* How wide bins must be to hold what is between low and high. */
static int exponent_for(double low, double high) {
    const double width = high / (STATS_BINS - 2) - low / (STATS_BINS - 2), size = fabs(low) > fabs(high) ? low : high;
    int narrow = -1000, precise = -1000;
    if (width > 0) (void)frexp(width, &narrow);
    if (size > 0 || size < 0) (void)frexp(size, &precise);
    precise -= PRECISION;
    return narrow > precise ? narrow > -1000 ? narrow : -1000 : precise > -1000 ? precise : -1000;
}

/* Makes the bins begin at low, and at least that wide. */
static void cover(stats_sums *s, double low, int exponent) {
    int64_t old[STATS_BINS], first;
    const int before = s->exponent;
    int i;
    if (s->count && s->exponent > exponent) exponent = s->exponent;
    first = (int64_t)floor(low * ldexp(1, -exponent));
    if (s->count && exponent == before && first == s->first) return;
    memcpy(old, s->bins, sizeof old);
    memset(s->bins, 0, sizeof s->bins);
    for (i = 0; i < STATS_BINS; i++) {
        int64_t to;
        if (old[i] == 0) continue;
        to = halve(s->first + i, exponent - before) - first;
        s->bins[to < 0 ? 0 : to < STATS_BINS ? to : STATS_BINS - 1] += old[i];
    }
    s->exponent = exponent;
    s->first = first;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
/* Takes out what is not finite; returns how many are left. */
static int64_t take_out(stats_sums *s, double *values, int64_t count) {
    int64_t i, kept = 0, bad = 0;
    for (i = 0; i < count; i++) bad += !(fabs(values[i]) <= DBL_MAX);
    if (bad == 0) return count;
    for (i = 0; i < count; i++) {
        if (fabs(values[i]) <= DBL_MAX) values[kept++] = values[i];
        else if (values[i] != values[i]) s->nans++;
        else s->infinities++;
    }
    return kept;
}

static double sum_of(const double *values, int64_t count, double from, int is_square) {
    double sums[LANES] = { 0 };
    int64_t i;
    int lane;
    for (i = 0; i + LANES <= count; i += LANES)
        for (lane = 0; lane < LANES; lane++) {
            const double v = values[i + lane] - from;
            sums[lane] += is_square ? v * v : v;
        }
    for (; i < count; i++) sums[0] += is_square ? (values[i] - from) * (values[i] - from) : values[i] - from;
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* The means and squares of two sets as those of one. */
static void merge_moments(stats_sums *s, int64_t count, double mean, double squares) {
    const double whole = (double)(s->count + count), distance = mean - s->mean;
    s->squares += squares + distance * distance * ((double)s->count * (double)count / whole);
    s->mean += distance * ((double)count / whole);
}

void stats_add(stats_sums *s, double *values, int64_t count) {
    double low, high, mean;
    int64_t i, zeros = 0;
    count = take_out(s, values, count);
    if (count == 0) return;
    low = high = values[0];
    for (i = 0; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
        zeros += !(values[i] < 0) && !(values[i] > 0);
    }
    mean = values[0] + sum_of(values, count, values[0], 0) / (double)count;
    if (s->count && s->minimum < low) low = s->minimum;
    if (s->count && s->maximum > high) high = s->maximum;
    cover(s, low, exponent_for(low, high));
    merge_moments(s, count, mean, sum_of(values, count, mean, 1));
    for (i = 0; i < count; i++) s->bins[index_of(s, values[i])]++;
    s->minimum = low;
    s->maximum = high;
    s->zeros += zeros;
    s->count += count;
}

void stats_merge(stats_sums *s, stats_sums *other) {
    double low = other->minimum, high = other->maximum;
    int exponent, i;
    s->nans += other->nans;
    s->infinities += other->infinities;
    if (other->count == 0) return;
    if (s->count && s->minimum < low) low = s->minimum;
    if (s->count && s->maximum > high) high = s->maximum;
    exponent = exponent_for(low, high);
    if (other->exponent > exponent) exponent = other->exponent;
    cover(s, low, exponent);
    cover(other, low, s->exponent);
    for (i = 0; i < STATS_BINS; i++) s->bins[i] += other->bins[i];
    merge_moments(s, other->count, other->mean, other->squares);
    s->minimum = low;
    s->maximum = high;
    s->zeros += other->zeros;
    s->count += other->count;
}

double stats_deviation(const stats_sums *s) { return s->count ? sqrt(s->squares / (double)s->count) : 0; }

void stats_histogram(const stats_sums *s, int64_t *counts, int columns) {
    const double width = s->maximum / columns - s->minimum / columns;
    int i;
    memset(counts, 0, (size_t)columns * sizeof counts[0]);
    for (i = 0; i < STATS_BINS; i++) {
        const double middle = ldexp((double)(s->first + i) + 0.5, s->exponent);
        const double column = width > 0 ? middle / width - s->minimum / width : 0;
        counts[column < 0 ? 0 : column < columns ? (int)column : columns - 1] += s->bins[i];
    }
}
