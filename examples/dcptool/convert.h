/* convert.h - what the files of dcptool convert share. */
#ifndef DCPTOOL_CONVERT_H
#define DCPTOOL_CONVERT_H
#include "dcptool.h"

enum { CONVERT_RANKS = 512, CONVERT_WINDOWS = 8 };

/* What only a manifest can say of a piece. */
typedef struct convert_origin { dcp_role role; const char *tier; int64_t expert_key[3], version; } convert_origin;

/* What becomes of a tensor (convert_edit.c). */
typedef struct convert_edit { const char *name; dcp_dtype dtype; int is_kept; } convert_edit;

/* Bytes of a part, as they were read last. */
typedef struct convert_window {
    const tool_part *of;                                /* NULL: it has none */
    int64_t begins, size;
    uint64_t used;
    tool_buffer buffer;
} convert_window;

/* A conversion is a save whose tensors are on a device, which reads them from the source when the save asks for their
 * bytes. */
typedef struct convert_job {
    tool_state *t;
    dcp_checkpoint *c;                                  /* the source */
    const dcp_metadata *m;
    const dcp_manifest *manifest;                       /* NULL: not a manifest */
    tool_pieces all, pieces;                            /* of the source; those that are converted, by new name */
    convert_edit *edits;                                /* by a piece's order, as what follows */
    size_t *place;                                      /* in all */
    int64_t left_out, renamed, cast;                    /* tensors */
    int64_t overflows, *counted;        /* numbers that a cast made infinite; of each part, up to which byte they are */
    int64_t bytes;                                      /* of all of them */
    int world;
    tool_part *parts;                                   /* the pieces by rank: those of rank r begin at first[r] */
    dcp_tensor *tensors;
    size_t *first;
    dcp_sharding sharding;
    dcp_training training;
    int has_training;
    dcp_save_report report;

    /* what a manifest says, be it the source or one that the source was converted from (convert_manifest.c) */
    const char *model_id;
    dcp_tier *tiers;
    size_t tier_count;
    dcp_router_seed *seeds;
    size_t seed_count;
    convert_origin *origins;                            /* by a piece's order */
    dcp_json *kept;                                     /* the members of sharding, if one of them is a manifest */

    /* members that this version does not know, as text (convert_members.c) */
    const char *root_extra, *optim_extra, *router_extra, **tier_extras, **seed_extras, **piece_extras;

    /* of a source that is a .npz (npz.c) */
    char *beside;                                       /* a file for what had to be unpacked, and that file mapped */
    const unsigned char *unpacked;
    int64_t unpacked_size;

    /* the device; a checkpoint is used by one thread at a time (convert_windows.c) */
    dcp_device device;
    tool_lock *busy;                                    /* of what follows */
    convert_window windows[CONVERT_WINDOWS];
    int window_count;
    int64_t window_size;
    uint64_t clock;
    int64_t copied;                                     /* bytes, to all ranks */
    dcp_error failed;                                   /* the first read that did, if one did */
} convert_job;

int convert_edit_pieces(convert_job *v);
/* Reads a box of a part. *overflows: how many of its numbers were too large for the type that they are cast to. */
dcp_status convert_read(convert_job *v, const tool_boxes *box, void *data, int64_t *overflows, dcp_error *err);

void convert_take_manifest(convert_job *v);             /* from a source that is a manifest */
void convert_take_kept(convert_job *v);                 /* from another source, that keeps what a manifest said */
const char *convert_keep(const convert_job *v);         /* a member for other targets; NULL: nothing to keep */

void convert_members(convert_job *v);
const char *convert_next_member(const char **at);       /* of `"key": value, ...`; NULL: there is no other */
const char *convert_join(const char *members, const char *member);      /* members may be NULL */

void convert_open_windows(convert_job *v);
void convert_close_windows(convert_job *v);

int npz_is_source(const char *path);
int npz_read(convert_job *v);                           /* then npz_close, in any case */
void npz_close(convert_job *v);
int npz_write(convert_job *v);
#endif
