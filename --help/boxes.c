/* =====================================================================================================================
 * >>boxes       Data types, and N-dimensional boxes: where they meet, whether they tile a tensor, and how one is copied
 *               between a file and memory. Pure functions; shapes come in as validated numbers (>= 0, product below
 *               2^63).
 * ================================================================================================================== */

/* ---- data types -------------------------------------------------------------------------------------------------- */
/* aliases: a space before and after each */
typedef struct dcpi_dtype { const char *name; int bits; const char *aliases; } dcpi_dtype;

static const dcpi_dtype dcpi_dtypes[] = {                             /* in the order of dcp_dtype, which begins at 1 */
    {"fp32", 32, " float32 float f32 single "},
    {"fp64", 64, " float64 double f64 "},
    {"fp16", 16, " float16 half f16 "},
    {"bf16", 16, " bfloat16 "},
    {"fp8_e4m3", 8, " float8_e4m3fn float8_e4m3 f8_e4m3fn f8_e4m3 fp8_e4m3fn "},
    {"fp8_e5m2", 8, " float8_e5m2 f8_e5m2 "},
    {"int64", 64, " i64 long "},
    {"int32", 32, " i32 int "},
    {"int16", 16, " i16 short "},
    {"int8", 8, " i8 sbyte "},
    {"uint64", 64, " u64 ulong "},
    {"uint32", 32, " u32 uint "},
    {"uint16", 16, " u16 ushort "},
    {"uint8", 8, " u8 byte "},
    {"bool", 8, " boolean bool_ "},
    {"complex64", 64, " c64 cfloat "},
    {"complex128", 128, " c128 cdouble "},
    {"fp4_e2m1", 4, " float4_e2m1fn float4_e2m1 f4_e2m1 fp4 "},
    {"int4", 4, ""},
    {"uint4", 4, ""},
    {"opaque", 0, ""}
};
static const dcpi_dtype *dcpi_dtype_of(dcp_dtype dtype) {
    size_t index = (size_t)((int)dtype - 1);
    return (int)dtype >= 1 && index < DCPI_COUNT(dcpi_dtypes) ? &dcpi_dtypes[index] : NULL;
}
DCPDEF const char *dcp_dtype_name(dcp_dtype dtype) {
    const dcpi_dtype *entry = dcpi_dtype_of(dtype);
    return entry ? entry->name : NULL;
}
DCPDEF int dcp_dtype_bits(dcp_dtype dtype) {
    const dcpi_dtype *entry = dcpi_dtype_of(dtype);
    return entry ? entry->bits : 0;
}
static dcp_dtype dcpi_dtype_exact(const char *name, size_t length) {  /* our own names only; DCP_OPAQUE: none of them */
    size_t i;
    for (i = 0; i + 1 < DCPI_COUNT(dcpi_dtypes); i++) {
        const char *own = dcpi_dtypes[i].name;
        if (strlen(own) == length && memcmp(own, name, length) == 0) return (dcp_dtype)(i + 1);
    }
    return DCP_OPAQUE;
}
DCPDEF dcp_dtype dcp_dtype_parse(const char *name) {
    char word[34] = " ";                                                /* lower case, with a space on both sides */
    size_t length, i;
    dcp_dtype exact;
    if (!name) return DCP_OPAQUE;
    if (dcpi_starts_with(name, "torch.")) name += 6;
    length = strlen(name);
    if (length == 0 || length > 31 || strchr(name, ' ')) return DCP_OPAQUE;
    for (i = 0; i < length; i++) word[i + 1] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    exact = dcpi_dtype_exact(word + 1, length);
    if (exact != DCP_OPAQUE) return exact;
    word[length + 1] = ' ';
    word[length + 2] = '\0';
    for (i = 0; i < DCPI_COUNT(dcpi_dtypes); i++) if (strstr(dcpi_dtypes[i].aliases, word)) return (dcp_dtype)(i + 1);
    return DCP_OPAQUE;
}
/* Bytes of so many elements; 0 if that does not fit. Types of four bits stand two to a byte. */
static int dcpi_dtype_size(dcp_dtype dtype, int64_t elements, int64_t *size) {
    int bits = dcp_dtype_bits(dtype);
    if (bits >= 8) return dcpi_mul(elements, bits / 8, size);
    *size = elements / 2 + elements % 2;
    return elements >= 0;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */
static int64_t dcpi_box_elements(int ndim, const int64_t *shape) {
    int64_t count = 1;
    int d;
    for (d = 0; d < ndim; d++) count *= shape[d];
    return count;
}
/* The part that two boxes have in common; 0 if there is none. A scalar is a box of one element. */
static int dcpi_box_meet(int ndim, const int64_t *offset_a, const int64_t *shape_a, const int64_t *offset_b,
                         const int64_t *shape_b, int64_t *offset, int64_t *shape) {
    int d;
    for (d = 0; d < ndim; d++) {
        int64_t low = dcpi_max(offset_a[d], offset_b[d]), high = dcpi_min(offset_a[d] + shape_a[d],
                                                                          offset_b[d] + shape_b[d]);
        if (high <= low) return 0;
        offset[d] = low;
        shape[d] = high - low;
    }
    return 1;
}
/* "[0:4, 2:8]", for messages. */
static const char *dcpi_box_text(int ndim, const int64_t *offset, const int64_t *shape, char *text, size_t capacity) {
    size_t used = 0;
    int d;
    (void)snprintf(text, capacity, "[");
    for (d = 0; d < ndim; d++) {
        used = strlen(text);
        (void)snprintf(text + used, capacity - used, "%s%" PRId64 ":%" PRId64, d ? ", " : "", offset[d],
                       offset[d] + shape[d]);
    }
    used = strlen(text);
    (void)snprintf(text + used, capacity - used, "]");
    return text;
}
static const char *dcpi_shape_text(int ndim, const int64_t *shape, char *text, size_t capacity) {
    size_t used = 0;
    int d;
    (void)snprintf(text, capacity, "[");
    for (d = 0; d < ndim; d++) {
        used = strlen(text);
        (void)snprintf(text + used, capacity - used, "%s%" PRId64, d ? ", " : "", shape[d]);
    }
    used = strlen(text);
    (void)snprintf(text + used, capacity - used, "]");
    return text;
}

/* ---- tiling: do boxes cover a region exactly? -----------------------------------------------------------------------
 * Problem: n boxes may overlap or leave holes, and comparing them pairwise takes minutes for a million. Solution: cut
 * the region along one dimension wherever no box straddles the cut, and look at each slab by itself; a slab with one
 * box that fills it is done. Grids of any kind fall apart at once, n log n in all. Where every cut straddles a box (a
 * pinwheel), cut at the median edge and let both sides see the straddlers; the work is bounded, so boxes made up by a
 * hostile file end in DCPI_TILES_IRREGULAR, not in a hang. */
/* tag: the caller's number of the box */
typedef struct dcpi_tile { const int64_t *offset, *shape; int64_t key; size_t tag; } dcpi_tile;
typedef enum dcpi_tiles { DCPI_TILES_OK, DCPI_TILES_OVERLAP, DCPI_TILES_IRREGULAR, DCPI_TILES_NO_MEMORY } dcpi_tiles;
typedef struct dcpi_tiling {
    int ndim, depth;
    int64_t work;                            /* boxes looked at so far may still be: at 0 the boxes are too irregular */
    size_t overlap[2];                                  /* tags, after DCPI_TILES_OVERLAP */
    int has_hole; int64_t hole_offset[DCP_MAX_DIMS], hole_shape[DCP_MAX_DIMS];         /* the first one found */
} dcpi_tiling;

static dcpi_tiles dcpi_tile_region(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low,
                                   const int64_t *high);

static int dcpi_tile_compare(const void *a, const void *b) {
    int64_t x = ((const dcpi_tile *)a)->key, y = ((const dcpi_tile *)b)->key;
    return x < y ? -1 : x > y;
}
static int64_t dcpi_tile_end(const dcpi_tile *tile, int d) { return tile->offset[d] + tile->shape[d]; }

static void dcpi_tile_hole(dcpi_tiling *t, const int64_t *low, const int64_t *high) {
    int d;
    if (t->has_hole) return;
    t->has_hole = 1;
    for (d = 0; d < t->ndim; d++) {
        t->hole_offset[d] = low[d];
        t->hole_shape[d] = high[d] - low[d];
    }
}
/* The same region with other bounds in dimension d. */
static dcpi_tiles dcpi_tile_slab(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low,
                                 const int64_t *high, int d, int64_t from, int64_t to) {
    int64_t slab_low[DCP_MAX_DIMS], slab_high[DCP_MAX_DIMS];
    memcpy(slab_low, low, sizeof slab_low);
    memcpy(slab_high, high, sizeof slab_high);
    slab_low[d] = from;
    slab_high[d] = to;
    if (count == 0) { dcpi_tile_hole(t, slab_low, slab_high); return DCPI_TILES_OK; }
    return dcpi_tile_region(t, tiles, count, slab_low, slab_high);
}
/* Cuts along d between boxes. *cut says whether there was anything to cut: else every box reaches another and they span
 * the region. */
static dcpi_tiles dcpi_tile_cut_between(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low,
                                        const int64_t *high, int d, int *cut) {
    size_t i, first = 0;
    int64_t end = low[d];
    for (i = 0; i < count; i++) tiles[i]->key = dcpi_max(tiles[i]->offset[d], low[d]);
    if (dcpi_sort((const void **)tiles, count, dcpi_tile_compare, NULL)) return DCPI_TILES_NO_MEMORY;
    *cut = tiles[0]->key > low[d];
    for (i = 0; i < count && !*cut; i++) {
        if (i > 0 && tiles[i]->key >= end) *cut = 1;
        end = dcpi_max(end, dcpi_min(dcpi_tile_end(tiles[i], d), high[d]));
    }
    if (!*cut && end >= high[d]) return DCPI_TILES_OK;
    *cut = 1;
    for (end = low[d]; first < count;) {
        int64_t start = tiles[first]->key, reach = start;
        dcpi_tiles result;
        if (start > end && dcpi_tile_slab(t, NULL, 0, low, high, d, end, start)) return DCPI_TILES_IRREGULAR;
        for (i = first; i < count && (i == first || tiles[i]->key < reach); i++)
            reach = dcpi_max(reach, dcpi_min(dcpi_tile_end(tiles[i], d), high[d]));
        result = dcpi_tile_slab(t, tiles + first, i - first, low, high, d, start, reach);
        if (result) return result;
        first = i;
        end = reach;
    }
    if (end < high[d]) return dcpi_tile_slab(t, NULL, 0, low, high, d, end, high[d]);
    return DCPI_TILES_OK;
}
/* A value of dimension d where some box ends or starts inside the region: the median start, else the lowest end; low if
 * there is none. */
static int64_t dcpi_tile_edge(dcpi_tile **tiles, size_t count, const int64_t *low, const int64_t *high, int d) {
    int64_t edge = low[d];
    size_t i;
    for (i = count / 2; i < count; i++) if (tiles[i]->key > low[d]) return tiles[i]->key;
    for (i = 0; i < count; i++) {
        int64_t end = dcpi_tile_end(tiles[i], d);
        if (tiles[i]->key > low[d]) return tiles[i]->key;
        if (end < high[d] && (edge == low[d] || end < edge)) edge = end;
    }
    return edge;
}
static dcpi_tiles dcpi_tile_cut_through(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low,
                                        const int64_t *high, int d, int64_t edge) {
    dcpi_tile **side = (dcpi_tile **)dcpi_alloc_array(count, sizeof *side, NULL);
    dcpi_tiles result = DCPI_TILES_NO_MEMORY;
    size_t i, n;
    if (!side) return result;
    for (n = 0, i = 0; i < count; i++) if (tiles[i]->offset[d] < edge) side[n++] = tiles[i];
    result = dcpi_tile_slab(t, side, n, low, high, d, low[d], edge);
    if (!result) {
        for (n = 0, i = 0; i < count; i++) if (dcpi_tile_end(tiles[i], d) > edge) side[n++] = tiles[i];
        result = dcpi_tile_slab(t, side, n, low, high, d, edge, high[d]);
    }
    dcpi_free(side);
    return result;
}
static dcpi_tiles dcpi_tile_region(dcpi_tiling *t, dcpi_tile **tiles, size_t count, const int64_t *low,
                                   const int64_t *high) {
    int64_t edge;
    int d, cut = 0;
    dcpi_tiles result = DCPI_TILES_OK;
    t->work -= (int64_t)count;
    if (t->work < 0 || t->depth >= 200) return DCPI_TILES_IRREGULAR;
    t->depth++;
    for (d = 0; d < t->ndim && !cut && !result; d++)
        result = dcpi_tile_cut_between(t, tiles, count, low, high, d, &cut);
    for (d = t->ndim - 1; d >= 0 && !cut && !result; d--) {     /* no cut without straddlers: through the boxes, then */
        size_t i;
        for (i = 0; i < count; i++) tiles[i]->key = dcpi_max(tiles[i]->offset[d], low[d]);
        if (dcpi_sort((const void **)tiles, count, dcpi_tile_compare, NULL)) result = DCPI_TILES_NO_MEMORY;
        edge = dcpi_tile_edge(tiles, count, low, high, d);
        if (!result && edge > low[d]) { cut = 1; result = dcpi_tile_cut_through(t, tiles, count, low, high, d, edge); }
    }
    t->depth--;
    if (result || cut || count < 2) return result;
    t->overlap[0] = tiles[0]->tag;                                   /* nothing to cut: each of them fills the region */
    t->overlap[1] = tiles[1]->tag;
    return DCPI_TILES_OVERLAP;
}
/* tiles: boxes that all meet the region low..high. After OK has_hole tells whether they cover it. Their order
 * changes. */
static dcpi_tiles dcpi_tiling_check(dcpi_tiling *t, int ndim, dcpi_tile **tiles, size_t count, const int64_t *offset,
                                    const int64_t *shape) {
    int64_t low[DCP_MAX_DIMS] = {0}, high[DCP_MAX_DIMS] = {0};
    size_t n;
    int d;
    memset(t, 0, sizeof *t);
    t->ndim = ndim;
    for (t->work = 1000, n = count; n > 0; n /= 2) t->work += 16 * (int64_t)count;
    for (d = 0; d < ndim; d++) {
        low[d] = offset[d];
        high[d] = offset[d] + shape[d];
    }
    if (count == 0) { if (dcpi_box_elements(ndim, shape) > 0) dcpi_tile_hole(t, low, high); return DCPI_TILES_OK; }
    return dcpi_tile_region(t, tiles, count, low, high);
}

/* ---- walk: one box that lies row-major in a piece's file and, perhaps strided, in memory ------------------------- */
typedef struct dcpi_walk {
    int ndim;                                    /* at least 1; the last dimension is one run of bytes in both places */
    int64_t count[DCP_MAX_DIMS + 1];
    int64_t file_step[DCP_MAX_DIMS + 1], memory_step[DCP_MAX_DIMS + 1];                 /* bytes */
    int64_t file_start, memory_start;                   /* bytes from the piece's first byte, from the tensor's data */
} dcpi_walk;

static void dcpi_row_major(int ndim, const int64_t *shape, int64_t *stride) {
    int64_t step = 1;
    int d;
    for (d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape[d];
    }
}
static int dcpi_is_row_major(int ndim, const int64_t *shape, const int64_t *stride) {
    int64_t dense[DCP_MAX_DIMS];
    int d;
    dcpi_row_major(ndim, shape, dense);
    for (d = 0; d < ndim; d++) if (shape[d] > 1 && stride[d] != dense[d]) return 0;
    return 1;
}
/* Joins neighbouring dimensions that are one run in both places, drops those of one element, so that few, long copies
 * remain. */
static void dcpi_walk_collapse(dcpi_walk *w, int ndim, const int64_t *count, const int64_t *file_step,
                               const int64_t *memory_step, int64_t unit) {
    int d, n = 0;
    for (d = 0; d < ndim; d++) {
        if (count[d] == 1) continue;
        if (n > 0 && w->file_step[n - 1] == count[d] * file_step[d] && w->memory_step[n - 1] == count[d] *
            memory_step[d]) {
            w->count[n - 1] *= count[d];
        } else {
            w->count[n++] = count[d];
        }
        w->file_step[n - 1] = file_step[d];
        w->memory_step[n - 1] = memory_step[d];
    }
    if (n == 0 || w->file_step[n - 1] != unit || w->memory_step[n - 1] != unit) {
        /* elements apart: a run is one element */
        w->count[n] = 1;
        w->file_step[n] = unit;
        w->memory_step[n] = unit;
        n++;
    }
    w->count[n - 1] *= unit;                            /* the last dimension counts bytes */
    w->ndim = n;
}
/* Types of 4 bits: 1 where every run starts and ends at a byte, or where the piece of so many elements ends. Steps and
 * counts come in half bytes and leave in bytes. */
static int dcpi_walk_halve(dcpi_walk *w, int64_t elements) {
    int d, last = w->ndim - 1, to_the_end = w->ndim == 1 && w->file_start + w->count[0] == elements;
    if (w->file_start % 2 || w->memory_start % 2 || (w->count[last] % 2 && !to_the_end)) return 0;
    for (d = 0; d < last; d++) {
        if (w->file_step[d] % 2 || w->memory_step[d] % 2) return 0;
        w->file_step[d] /= 2;
        w->memory_step[d] /= 2;
    }
    w->count[last] = (w->count[last] + 1) / 2;
    w->file_start /= 2;
    w->memory_start /= 2;
    return 1;
}
/* box: shape `count`, at `in_piece` within a piece of shape `piece`, at `in_memory` within memory of these strides
 * (elements). bits: of an element. 0: the box cuts a byte (types of 4 bits). */
static int dcpi_walk_make(dcpi_walk *w, int ndim, int bits, const int64_t *count, const int64_t *piece,
                          const int64_t *in_piece, const int64_t *in_memory, const int64_t *stride) {
    int64_t file_step[DCP_MAX_DIMS], memory_step[DCP_MAX_DIMS], unit = bits < 8 ? 1 : bits / 8;
    int d;
    memset(w, 0, sizeof *w);
    dcpi_row_major(ndim, piece, file_step);
    for (d = 0; d < ndim; d++) {
        file_step[d] *= unit;
        memory_step[d] = stride[d] * unit;
        w->file_start += in_piece[d] * file_step[d];
        w->memory_start += in_memory[d] * memory_step[d];
    }
    dcpi_walk_collapse(w, ndim, count, file_step, memory_step, unit);
    return bits >= 8 || dcpi_walk_halve(w, dcpi_box_elements(ndim, piece));
}
/* Whether the box is one run, the same bytes in the same order in both places. */
static int dcpi_walk_is_run(const dcpi_walk *w) { return w->ndim == 1; }

/* A place on the walk: run number r, its offsets, and the odometer that leads to the next. */
typedef struct dcpi_step { int64_t index[DCP_MAX_DIMS + 1]; int64_t file, memory; } dcpi_step;

static void dcpi_step_to(const dcpi_walk *w, int64_t run, dcpi_step *s) {
    int d;
    s->file = w->file_start;
    s->memory = w->memory_start;
    for (d = w->ndim - 2; d >= 0; d--) {
        s->index[d] = run % w->count[d];
        run /= w->count[d];
        s->file += s->index[d] * w->file_step[d];
        s->memory += s->index[d] * w->memory_step[d];
    }
}
static void dcpi_step_next(const dcpi_walk *w, dcpi_step *s) {
    int d;
    for (d = w->ndim - 2; d >= 0; d--) {
        s->file += w->file_step[d];
        s->memory += w->memory_step[d];
        if (++s->index[d] < w->count[d]) return;
        s->index[d] = 0;
        s->file -= w->count[d] * w->file_step[d];
        s->memory -= w->count[d] * w->memory_step[d];
    }
}
static int64_t dcpi_walk_runs(const dcpi_walk *w) {
    int64_t runs = 1;
    int d;
    for (d = 0; d < w->ndim - 1; d++) runs *= w->count[d];
    return runs;
}
/* The first run that ends beyond byte `begin` of the piece: runs rise in the file, so a binary search finds it. */
static int64_t dcpi_walk_seek(const dcpi_walk *w, int64_t begin, int64_t runs) {
    int64_t low = 0, high = runs, run = w->count[w->ndim - 1];
    dcpi_step s;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        dcpi_step_to(w, middle, &s);
        if (s.file + run > begin) high = middle;
        else low = middle + 1;
    }
    return low;
}
/* The bytes [begin, end) of the piece that belong to the box, as the range from the first to the last of them; 0 if
 * there are none. */
static int dcpi_walk_range(const dcpi_walk *w, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
    int64_t runs = dcpi_walk_runs(w), run = w->count[w->ndim - 1], at;
    dcpi_step s;
    if (begin >= end || runs == 0 || run == 0) return 0;
    at = dcpi_walk_seek(w, begin, runs);
    if (at == runs) return 0;
    dcpi_step_to(w, at, &s);
    if (s.file >= end) return 0;
    *first = dcpi_max(s.file, begin);
    /* the first run that ends beyond `end`; it or the one before reaches the range last */
    at = dcpi_walk_seek(w, end, runs);
    if (at == runs) at--;
    dcpi_step_to(w, at, &s);
    if (s.file >= end) dcpi_step_to(w, at - 1, &s);
    *last = dcpi_min(s.file + run, end);
    return 1;
}
/* Copies the bytes [begin, end) of the piece that belong to the box; `file` holds byte `begin` first. Other bytes are
 * left alone. */
static void dcpi_walk_copy(const dcpi_walk *w, int64_t begin, int64_t end, uint8_t *file, uint8_t *memory,
                           int to_memory) {
    int64_t runs = dcpi_walk_runs(w), run = w->count[w->ndim - 1], at;
    dcpi_step s;
    if (runs == 0 || run == 0) return;
    at = dcpi_walk_seek(w, begin, runs);
    dcpi_step_to(w, at, &s);
    for (; at < runs && s.file < end; at++, dcpi_step_next(w, &s)) {
        int64_t low = dcpi_max(s.file, begin), high = dcpi_min(s.file + run, end);
        uint8_t *in_file = file + (low - begin), *in_memory = memory + s.memory + (low - s.file);
        if (to_memory) memcpy(in_memory, in_file, (size_t)(high - low));
        else memcpy(in_file, in_memory, (size_t)(high - low));
    }
}

/* Files are little-endian; `width` is the size of a number in bytes. A complex element is two numbers. */
static int dcpi_dtype_width(dcp_dtype dtype) {
    int bits = dcp_dtype_bits(dtype);
    if (dtype == DCP_COMPLEX64 || dtype == DCP_COMPLEX128) bits /= 2;
    return bits < 8 ? 1 : bits / 8;
}
static void dcpi_swap_bytes(uint8_t *bytes, int64_t size, int width) {
    const int64_t end = DCPI_BIG_ENDIAN && width > 1 ? size : 0;
    int64_t i;
    int j;
    for (i = 0; i + width <= end; i += width) {
        for (j = 0; j < width / 2; j++) {
            uint8_t swapped = bytes[i + j];
            bytes[i + j] = bytes[i + width - 1 - j];
            bytes[i + width - 1 - j] = swapped;
        }
    }
}

/* ---- the caller's tensors ---------------------------------------------------------------------------------------- */
static int dcpi_has_global(const dcp_tensor *t) {
    int d;
    for (d = 0; d < t->ndim; d++) if (t->global_shape[d] != 0) return 1;
    return 0;
}
static const int64_t *dcpi_global_shape(const dcp_tensor *t) { return dcpi_has_global(t) ? t->global_shape : t->shape; }

static void dcpi_effective_stride(const dcp_tensor *t, int64_t *stride) {
    int d;
    for (d = 0; d < t->ndim; d++) if (t->stride[d] != 0) break;
    if (d == t->ndim) dcpi_row_major(t->ndim, t->shape, stride);
    else memcpy(stride, t->stride, sizeof t->stride);
}
/* The bytes of a checked tensor's own piece. */
static int64_t dcpi_tensor_bytes(const dcp_tensor *t) {
    int64_t bytes = 0;
    if (t->dtype == DCP_OPAQUE) return 0;
    (void)dcpi_dtype_size(t->dtype, dcpi_box_elements(t->ndim, t->shape), &bytes);
    return bytes;
}
static dcp_status dcpi_tensor_check_shape(const dcp_tensor *t, dcp_error *err) {
    int64_t elements = 1, whole = 1, bytes;
    int d, global;
    if (t->ndim < 0 || t->ndim > DCP_MAX_DIMS)
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": ndim is %d; 0 to %d are possible", t->name, t->ndim,
                         DCP_MAX_DIMS);
    global = dcpi_has_global(t);
    for (d = 0; d < DCP_MAX_DIMS; d++) {
        if (d >= t->ndim && (t->shape[d] || t->global_shape[d] || t->global_offset[d] || t->stride[d]))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": ndim is %d, but entry %d of shape, global_shape, global_offset or stride "
                             "is not 0; is ndim right?",
                             t->name, t->ndim, d);
        if (t->shape[d] < 0 || t->global_shape[d] < 0 || t->global_offset[d] < 0)
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": entry %d of shape, global_shape or global_offset is negative", t->name, d);
        if (d >= t->ndim) continue;
        if (!global && t->global_offset[d] != 0)
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": global_offset is set, but global_shape is not (dcp_piece sets both)",
                             t->name);
        if (global && (t->global_offset[d] > t->global_shape[d] ||
                       t->shape[d] > t->global_shape[d] - t->global_offset[d]))
            return dcpi_fail(err, DCP_E_INVALID,
                             "tensor \"%s\": in dimension %d the piece ends at %" PRId64 " + %" PRId64
                             ", beyond global_shape %" PRId64,
                             t->name, d, t->global_offset[d], t->shape[d], t->global_shape[d]);
        if (!dcpi_mul(elements, dcpi_max(t->shape[d], 1), &elements) ||
            !dcpi_mul(whole, dcpi_max(dcpi_global_shape(t)[d], 1), &whole)) return dcpi_fail(
                    err, DCP_E_INVALID, "tensor \"%s\": its number of elements exceeds 2^63", t->name);
    }
    if (t->dtype != DCP_OPAQUE && (!dcpi_dtype_size(t->dtype, elements, &bytes) ||
                                   !dcpi_dtype_size(t->dtype, whole, &bytes))) return dcpi_fail(
                                           err, DCP_E_INVALID, "tensor \"%s\": its size exceeds 2^63 bytes", t->name);
    return DCP_OK;
}
/* Strides that let no two elements share memory: from the smallest up, each steps over all that the smaller ones
 * span. */
static dcp_status dcpi_tensor_check_stride(const dcp_tensor *t, dcp_error *err) {
    int64_t stride[DCP_MAX_DIMS], span = 0, reach, end;
    int d, n, done[DCP_MAX_DIMS] = {0}, bits = dcp_dtype_bits(t->dtype);
    for (d = 0; d < t->ndim; d++) {
        if (t->stride[d] < 0) return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": stride[%d] is negative", t->name, d);
        if (t->shape[d] == 0) return DCP_OK;
    }
    dcpi_effective_stride(t, stride);
    if (bits < 8 && !dcpi_is_row_major(t->ndim, t->shape, stride))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": elements of %s cannot be strided", t->name,
                         dcp_dtype_name(t->dtype));
    for (n = 0; n < t->ndim; n++) {
        int smallest = 0;
        while (done[smallest]) smallest++;
        for (d = smallest + 1; d < t->ndim; d++) if (!done[d] && stride[d] < stride[smallest]) smallest = d;
        done[smallest] = 1;
        if (t->shape[smallest] == 1) continue;
        if (stride[smallest] <= span)
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": stride[%d] = %" PRId64 " makes elements share memory",
                             t->name, smallest, stride[smallest]);
        if (!dcpi_mul(t->shape[smallest] - 1, stride[smallest], &reach) || !dcpi_add(span, reach, &span) ||
            !dcpi_mul(span, 16, &end))
            return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its strides exceed 2^63 bytes", t->name);
    }
    return DCP_OK;
}
/* What a tensor must fulfil by itself, to be saved or wanted. */
static dcp_status dcpi_tensor_check(const dcp_tensor *t, int saving, dcp_error *err) {
    dcp_status status;
    if (!t->name || !dcpi_is_name(t->name, DCP_LIMIT_NAME))
        return dcpi_fail(err, DCP_E_INVALID,
                         "a tensor's name is missing, empty, longer than %d bytes, not UTF-8, or has control "
                         "characters: \"%.80s\"",
                (int)DCP_LIMIT_NAME, t->name ? t->name : "");
    if (saving && dcpi_has_orders(t->name))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%.80s\": a character of its name turns the direction of "
                         "writing (U+202E and its "
                         "like), so it is shown as another one", t->name);
    if (dcp_dtype_bits(t->dtype) == 0 && !(t->dtype == DCP_OPAQUE && !saving))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": dtype %d is none that can be %s", t->name, (int)t->dtype,
                         saving ? "saved" : "wanted");
    if ((int)t->placement < 0 || t->placement > DCP_PLACE_SHARDED)
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": placement %d is none", t->name, (int)t->placement);
    status = dcpi_tensor_check_shape(t, err);
    if (!status && t->dtype != DCP_OPAQUE) status = dcpi_tensor_check_stride(t, err);
    if (status) return status;
    if (t->device && (!t->device->wait || (saving ? !t->device->copy_out : !t->device->copy_in)))
        return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": its device lacks %s or wait", t->name,
                         saving ? "copy_out" : "copy_in");
    return DCP_OK;
}
static dcp_status dcpi_tensor_check_data(const dcp_tensor *t, dcp_error *err) {
    if (t->data || t->device || (t->dtype != DCP_OPAQUE && dcpi_tensor_bytes(t) == 0)) return DCP_OK;
    return dcpi_fail(err, DCP_E_INVALID, "tensor \"%s\": data is NULL", t->name);
}

DCPDEF dcp_tensor dcp_array(const char *name, dcp_dtype dtype, const void *data, int ndim, const int64_t *shape) {
    dcp_tensor t;
    int d;
    memset(&t, 0, sizeof t);
    t.name = name;
    t.dtype = dtype;
    t.ndim = ndim;
    t.data = (void *)data;                              /* a save only reads it */
    for (d = 0; d < ndim && d < DCP_MAX_DIMS; d++) t.shape[d] = shape[d];
    return t;
}
DCPDEF dcp_tensor dcp_scalar(const char *name, dcp_dtype dtype, const void *data) {
    return dcp_array(name, dtype, data, 0, NULL);
}
DCPDEF dcp_tensor dcp_bytes(const char *name, const void *data, size_t size) {
    const int64_t shape[] = { (int64_t)size };
    return dcp_array(name, DCP_UINT8, data, 1, shape);
}
DCPDEF void dcp_piece(dcp_tensor *tensor, const int64_t *global_shape, const int64_t *global_offset) {
    int d;
    for (d = 0; d < tensor->ndim && d < DCP_MAX_DIMS; d++) {
        tensor->global_shape[d] = global_shape[d];
        tensor->global_offset[d] = global_offset[d];
    }
}

