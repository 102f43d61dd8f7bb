/* model_tensors.h - the tensors of test_model.c: which pieces a rank has, and the bytes that tell their generation.
 * After model_program.h. */
#ifndef DCP_TEST_MODEL_TENSORS_H
#define DCP_TEST_MODEL_TENSORS_H

/* How the rows are dealt: `f` floor(r * rows / n), so that pieces without rows start where others start; `c` in chunks,
 * the last ranks have none; `u` unevenly, the ranks between have none; `e` as f, but ranks without rows do not mention
 * it; `k` columns; `m` two pieces each; `o` all on rank 0; `h` as f and a row too many; `i` as f, and the first row is
 * nobody's; `-` every rank has the whole. */
typedef struct model_tensor_kind {
    char letter, split;
    dcp_dtype dtype; int bits;
    int ndim; int64_t rows, columns;
    dcp_placement placement; dcp_role role;
    int is_fixed, gap;                  /* the same in all generations; elements between two rows in memory */
} model_tensor_kind;
static const model_tensor_kind model_tensors[] = {
    { 's', 'f', DCP_FP32, 32, 2, 5, 3, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'c', 'c', DCP_UINT8, 8, 2, 5, 3, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'u', 'u', DCP_INT16, 16, 2, 7, 2, DCP_PLACE_SHARDED, DCP_ROLE_PARAMETER, 0, 0 },
    { 'e', 'e', DCP_FP32, 32, 1, 4, 1, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'k', 'k', DCP_UINT8, 8, 2, 3, 8, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'm', 'm', DCP_UINT8, 8, 2, 8, 2, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'w', 'o', DCP_FP64, 64, 1, 9, 1, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'r', '-', DCP_FP32, 32, 1, 6, 1, DCP_PLACE_REPLICATED, DCP_ROLE_PARAMETER, 0, 0 },
    { 'F', '-', DCP_UINT8, 8, 1, 100, 1, DCP_PLACE_REPLICATED, DCP_ROLE_PARAMETER, 1, 0 },
    { 'f', 'f', DCP_FP32, 32, 2, 5, 3, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 1, 0 },
    { 'a', '-', DCP_INT32, 32, 1, 4, 1, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'p', '-', DCP_UINT8, 8, 1, 50, 1, DCP_PLACE_PRIVATE, DCP_ROLE_PARAMETER, 0, 0 },
    { 'z', 'f', DCP_FP32, 32, 2, 0, 4, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'd', '-', DCP_INT64, 64, 0, 1, 1, DCP_PLACE_REPLICATED, DCP_ROLE_PARAMETER, 0, 0 },
    { 't', 'f', DCP_UINT8, 8, 2, 4, 5, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 2 },
    { 'x', '-', DCP_FP32, 32, 1, 6, 1, DCP_PLACE_REPLICATED, DCP_ROLE_EXPERT, 0, 0 },
    { 'o', 'f', DCP_FP32, 32, 2, 5, 3, DCP_PLACE_AUTO, DCP_ROLE_OPTIMIZER, 0, 0 },
    { 'R', '-', DCP_FP32, 32, 1, 6, 1, DCP_PLACE_REPLICATED, DCP_ROLE_ROUTER, 0, 0 },
    { 'q', '-', DCP_INT4, 4, 2, 2, 8, DCP_PLACE_REPLICATED, DCP_ROLE_PARAMETER, 0, 0 },
    { 'b', 'f', DCP_UINT8, 8, 2, 300, 1024, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'B', 'f', DCP_UINT8, 8, 2, 1500, 1024, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'h', 'h', DCP_UINT8, 8, 2, 6, 2, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 },
    { 'i', 'i', DCP_UINT8, 8, 2, 6, 2, DCP_PLACE_AUTO, DCP_ROLE_PARAMETER, 0, 0 }
};
static const model_tensor_kind *model_tensor_kind_of(char letter) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(model_tensors); i++) if (model_tensors[i].letter == letter) return &model_tensors[i];
    return &model_tensors[0];
}

/* What was saved: its tensors, how many ranks had them, and whose bytes they have: a converted checkpoint has those of
 * another generation. */
typedef struct model_state { char tensors[MODEL_TENSORS + 1]; int number, bytes, world; } model_state;

typedef struct model_piece {
    const model_tensor_kind *kind;
    char name[32];
    int64_t row, rows, column, columns; /* of the whole; a whole has them all */
    uint64_t seed;                      /* of its bytes */
    unsigned char *memory; size_t size; /* with the gaps; NULL: no bytes */
    int is_changed; dcp_dtype as;       /* loaded as that type; 0: its own */
} model_piece;
enum { MODEL_PIECES = 2 * MODEL_TENSORS };
typedef struct model_pieces { int count; model_piece piece[MODEL_PIECES]; dcp_tensor list[MODEL_PIECES]; } model_pieces;

static void model_tensor_name(const char *tensors, int index, char name[32]) {
    int i, same = 0;
    for (i = 0; i < index; i++) same += tensors[i] == tensors[index];
    (void)snprintf(name, 32, "%s%c%d", tensors[index] == 'F' ? "layer/" : tensors[index] == 'k' ? "K " : "",
                   tensors[index], same);
}
static int model_is_private(const model_tensor_kind *kind, int world) {
    return kind->placement == DCP_PLACE_PRIVATE || (kind->placement == DCP_PLACE_AUTO && kind->split == '-' &&
                                                    world > 1);
}
static uint64_t model_seed(const model_state *s, int index, int rank) {
    const model_tensor_kind *kind = model_tensor_kind_of(s->tensors[index]);
    const int owner = model_is_private(kind, s->world) ? rank + 1 : 0;
    uint64_t seed = (uint64_t)(kind->is_fixed ? 1 : 2 + s->bytes) * 1000003u + (uint64_t)owner * 7919;
    int i;
    for (i = 0; i <= index; i++) if (s->tensors[i] == s->tensors[index]) seed += 101 + (uint64_t)kind->letter * 10007;
    return model_mix(seed) | 1;
}
static void model_rows(const model_tensor_kind *k, int rank, int world, int part, int64_t *from, int64_t *end) {
    const int64_t rows = k->rows, chunk = (rows + world - 1) / world;
    *from = rows * rank / world;
    *end = rows * (rank + 1) / world;
    if (k->split == 'c') { *from = dcpi_min(rank * chunk, rows); *end = dcpi_min((rank + 1) * chunk, rows); }
    if (k->split == 'u') { *from = rank > 0; *end = rank == world - 1 ? rows : 1; }
    if (k->split == 'm') {
        *from = rows / 2 * rank / world + part * (rows / 2);
        *end = rows / 2 * (rank + 1) / world + part * (rows / 2);
    }
    if (k->split == 'h' && *from > 0) --*from;
    if (k->split == 'i' && *from == 0) ++*from;
    if (*end < *from) *end = *from;
    if (k->split == '-' || k->split == 'k' || k->split == 'o') { *from = 0; *end = rows; }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */
static size_t model_row_bytes(const model_piece *p) { return (size_t)(p->columns * p->kind->bits / 8); }
static size_t model_row_pitch(const model_piece *p) {
    return (size_t)((p->columns + p->kind->gap) * p->kind->bits / 8);
}
static void model_row_fill(const model_piece *p, int64_t row, unsigned char *out) {
    const size_t bytes = model_row_bytes(p);
    uint64_t at = (uint64_t)(((p->row + row) * p->kind->columns + p->column) * p->kind->bits / 8) + 1;
    size_t i;
    for (i = 0; i < bytes; i++) out[i] = (unsigned char)((p->seed * (at + i)) >> 29);
}
static void model_piece_fill(model_piece *p) {
    int64_t row;
    for (row = 0; row < p->rows; row++) model_row_fill(p, row, p->memory + (size_t)row * model_row_pitch(p));
}
/* The same for a piece that was loaded as another type: it has no gaps. */
static int model_piece_is_converted(const model_piece *p) {
    const dcpi_convert c = dcpi_convert_make(p->kind->dtype, p->as);
    const size_t bytes = (size_t)(p->columns * c.write);
    unsigned char stored[2048], want[4096];
    int64_t row;
    for (row = 0; row < p->rows; row++) {
        model_row_fill(p, row, stored);
        (void)dcpi_convert_run(&c, stored, want, p->columns);
        if (memcmp(p->memory + (size_t)row * bytes, want, bytes) != 0) return 0;
    }
    return 1;
}
/* Whether the memory has the bytes of the generation, and between the rows what was there before. */
static int model_piece_is(const model_piece *p, int before) {
    const size_t bytes = model_row_bytes(p), pitch = model_row_pitch(p);
    unsigned char want[2048];
    int64_t row;
    size_t i;
    if (p->as) return model_piece_is_converted(p);
    for (row = 0; row < p->rows; row++) {
        const unsigned char *got = p->memory + (size_t)row * pitch;
        model_row_fill(p, row, want);
        if (memcmp(got, want, bytes) != 0) return 0;
        for (i = bytes; i < pitch && before >= 0 && row + 1 < p->rows; i++)
            if (got[i] != (unsigned char)before) return 0;
    }
    return 1;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */
static dcp_tensor model_piece_tensor(const model_piece *p, int index) {
    const model_tensor_kind *k = p->kind;
    const int64_t shape[2] = { p->rows, p->columns }, whole[2] = { k->rows, k->columns }, at[2] = { p->row, p->column };
    dcp_tensor t = dcp_array(p->name, k->dtype, p->memory, k->ndim, shape);
    if (k->split != '-') dcp_piece(&t, whole, at);
    t.placement = k->placement;
    t.role = k->role;
    if (k->role == DCP_ROLE_EXPERT) { t.tier = "hot"; t.expert_key[2] = index; }
    if (k->role == DCP_ROLE_ROUTER) t.expert_key[0] = index;
    if (k->gap) { t.stride[0] = p->columns + k->gap; t.stride[1] = 1; }
    return t;
}
static void model_pieces_add(model_pieces *out, const model_state *s, int index, int rank, int world, int part,
                             int owner) {
    model_piece *p = &out->piece[out->count];
    int64_t end;
    memset(p, 0, sizeof *p);
    p->kind = model_tensor_kind_of(s->tensors[index]);
    model_tensor_name(s->tensors, index, p->name);
    model_rows(p->kind, rank, world, part, &p->row, &end);
    p->rows = end - p->row;
    p->columns = p->kind->columns;
    if (p->kind->split == 'k') {
        p->column = p->kind->columns * rank / world;
        p->columns = p->kind->columns * (rank + 1) / world - p->column;
    }
    if ((p->kind->split == 'e' && p->rows == 0) || (p->kind->split == 'o' && rank > 0)) return;
    p->seed = model_seed(s, index, owner);
    p->size = p->rows ? (size_t)(p->rows - 1) * model_row_pitch(p) + model_row_bytes(p) : 0;
    if (p->size) p->memory = (unsigned char *)malloc(p->size);
    if (p->size && !p->memory) abort();
    if (p->size) memset(p->memory, 0xEE, p->size);
    out->list[out->count] = model_piece_tensor(p, index);
    out->count++;
}
/* What `rank` of `world` ranks has of the state when it saves. */
static void model_pieces_make(model_pieces *out, const model_state *s, int rank, int world) {
    int i, part;
    out->count = 0;
    for (i = 0; s->tensors[i]; i++)
        for (part = 0; part < (s->tensors[i] == 'm' ? 2 : 1); part++)
            model_pieces_add(out, s, i, rank, world, part, rank);
}
/* What it asks for when it loads: the boxes that it would have had; private tensors only if there are as many ranks as
 * saved it. */
static void model_pieces_want(model_pieces *out, const model_state *s, int rank, int world) {
    char all[MODEL_TENSORS + 1];
    int i, part;
    out->count = 0;
    (void)snprintf(all, sizeof all, "%s", s->tensors);
    for (i = 0; all[i]; i++) {
        const model_tensor_kind *kind = model_tensor_kind_of(all[i]);
        if (model_is_private(kind, s->world) && s->world != world) continue;
        if (kind->split == 'h' || kind->split == 'i') continue;
        for (part = 0; part < (all[i] == 'm' ? 2 : 1); part++) model_pieces_add(out, s, i, rank, world, part, rank);
    }
}
static void *model_piece_memory(void *user, const dcp_tensor_info *info) {
    model_piece *p = (model_piece *)user;
    return (size_t)info->size == p->size ? p->memory : NULL;
}
/* As a program that has changed asks for it: under another name, as another type, without knowing how large it is. */
static void model_piece_change(model_piece *p, dcp_tensor *t, uint64_t how) {
    static const dcp_dtype types[] = { DCP_FP64, DCP_FP16, DCP_BF16 };
    if (p->is_changed || how % 2 == 0) return;
    p->is_changed = 1;
    t->stored_name = t->name;
    t->name = "renamed";
    t->convert = 1;
    if (p->kind->split == '-' && p->size && how / 2 % 2) {
        const dcp_tensor sized = *t;
        *t = dcp_unsized(sized.name, sized.dtype, model_piece_memory, p);
        t->stored_name = sized.stored_name;
    } else if (p->kind->dtype == DCP_FP32 && p->size) {
        p->as = types[how / 4 % 3];
        p->size = p->size / 4 * (size_t)dcp_dtype_bits(p->as) / 8;
        p->memory = (unsigned char *)realloc(p->memory, p->size);
        if (!p->memory) abort();
        memset(p->memory, 0xEE, p->size);
        t->dtype = p->as;
        t->data = p->memory;
    }
}
/* The private tensors of one rank. */
static void model_pieces_own(model_pieces *out, const model_state *s, int rank) {
    int i;
    out->count = 0;
    for (i = 0; s->tensors[i]; i++)
        if (model_is_private(model_tensor_kind_of(s->tensors[i]), s->world))
            model_pieces_add(out, s, i, rank, s->world, 0, rank);
}
static void model_pieces_fill(model_pieces *p) {
    int i;
    for (i = 0; i < p->count; i++) model_piece_fill(&p->piece[i]);
}
/* NULL, or the name of a tensor whose bytes are wrong. */
static const char *model_pieces_wrong(const model_pieces *p) {
    int i;
    for (i = 0; i < p->count; i++) if (!model_piece_is(&p->piece[i], 0xEE)) return p->piece[i].name;
    return NULL;
}
static void model_pieces_spoil(model_pieces *p) {
    int i;
    for (i = 0; i < p->count; i++) if (p->piece[i].size) memset(p->piece[i].memory, 0x5A, p->piece[i].size);
}
static void model_pieces_free(model_pieces *p) {
    int i;
    for (i = 0; i < p->count; i++) free(p->piece[i].memory);
    p->count = 0;
}

#endif
