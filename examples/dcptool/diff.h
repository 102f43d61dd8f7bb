/* diff.h - what the files of dcptool diff share, and dcptool report uses. */
#ifndef DCPTOOL_DIFF_H
#define DCPTOOL_DIFF_H
#include "dcptool.h"

typedef struct diff_side {
    dcp_checkpoint *c;
    const dcp_metadata *m;
    const dcp_manifest *manifest;
    tool_pieces pieces;
    tool_buffer buffer;
} diff_side;

typedef struct diff_job {
    tool_state *t;
    diff_side a, b;
    const tool_values *values;                          /* of the content that is reported; NULL: not known */
    const tool_part *part;
    int has_values;                                     /* --values, --rtol or --atol */
    int64_t may_read;                                   /* bytes: more are not read to find out; negative: any number */
    int64_t differences, same, by_digest, by_data;
    /* who takes what diff_report is told; NULL: it is printed */
    void (*heard)(struct diff_job *k, const char *kind, const char *name, const char *a, const char *b,
                  const char *detail);
    void *user;
} diff_job;

int diff_open(tool_state *t, const char *path, diff_side *s);
dcp_status diff_tensors(diff_job *k, dcp_error *err);
void diff_close(diff_job *k);

/* a and b: what each side has; NULL where there is nothing to say. */
void diff_report(diff_job *k, const char *kind, const char *name, const char *a, const char *b, const char *detail);

/* diff_documents.c */
void diff_text(diff_job *k, const char *kind, const char *name, const char *a, const char *b);
void diff_number(diff_job *k, const char *kind, const char *name, int64_t a, int64_t b);
void diff_documents(diff_job *k);
#endif
