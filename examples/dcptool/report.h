/* report.h - what the files of dcptool report share. */
#ifndef DCPTOOL_REPORT_H
#define DCPTOOL_REPORT_H
#include "stats.h"

#ifndef TOOL_REPORT_READS
#define TOOL_REPORT_READS (INT64_C(1) << 30)            /* bytes of values that are read unasked; tests make it tiny */
#endif

enum { REPORT_COLUMNS = 32, REPORT_PIECES = 200000 };   /* of a histogram; that a page draws, of all tensors */

/* What a report says, gathered once and written as JSON: for people, into a page, or both. */
typedef struct report {
    tool_state *t;
    void (*put)(const struct report *r);
    const char *name;                                   /* of the checkpoint or directory */
    void *of;                                           /* what put writes */
    dcp_checkpoint *here, *there;                       /* what it points into */
    dcp_list_entry *entries;
    int64_t damaged;                                    /* tensors or checkpoints */
} report;

/* report_checkpoint.c, report_directory.c: an exit code; what was read lives until the command ends */
int report_checkpoint(report *r);
int report_directory(report *r);
/* seven digits; null if it is not finite; a list, of whichever there is, is on one line */
void report_put_number(tool_state *t, const char *key, double number);
void report_put_list(tool_state *t, const char *key, const int64_t *counts, const double *numbers, size_t count);
double report_norm(const stats_sums *s);
/* all of a tensor; of one that is private to ranks, what each has */
dcp_status report_read(stats_reader *reader, const dcp_tensor_info *info, tool_pieces pieces, stats_sums *sums,
                       dcp_error *err);

/* report_against.c */
typedef struct report_difference {
    const char *kind, *a, *b, *detail;                  /* kind NULL: the same; a: here, b: there */
    int64_t numbers, different;                         /* numbers 0: not compared by value */
    double absolute, relative;
} report_difference;
typedef struct report_against {
    const char *path, *name;
    int64_t same;
    report_difference *tensors;                         /* by index, as dcp_checkpoint_tensor */
    const dcp_tensor_info **only_there;
    size_t only_there_count;
} report_against;
int report_compare(report *r, int64_t may_read, report_against *against);

/* report_page.c: writes a page whose data r->put writes */
void report_put_page(const report *r, tool_sink *s);
/* the parts of a page, each a list of lines that NULL ends */
extern const char *const report_style[], *const report_body[];
extern const char *const report_script_base[], *const report_script_map[], *const report_script_tensor[],
                  *const report_script_table[], *const report_script_steps[], *const report_script_start[];
#endif
