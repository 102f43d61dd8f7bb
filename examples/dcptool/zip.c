/* zip.c - reads and writes the zip files of .npz. */
#include "zip.h"

/* ---- numbers in the file: little-endian -------------------------------------------------------------------------- */
static uint64_t get(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0) value = value << 8 | p[bytes];
    return value;
}

static unsigned char *put_number(unsigned char *p, uint64_t value, int bytes) {
    int i;
    for (i = 0; i < bytes; i++) p[i] = (unsigned char)(i < 8 ? value >> (8 * i) : 0);
    return p + bytes;
}

static uint32_t crc_of(uint32_t crc, const unsigned char *data, size_t size) {
    static uint32_t table[256];
    size_t i;
    if (!table[1]) {
        for (i = 256; i-- > 0;) {
            uint32_t value = (uint32_t)i;
            int bit;
            for (bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ UINT32_C(0xEDB88320) : value >> 1;
            table[i] = value;
        }
    }
    crc = ~crc;
    for (i = 0; i < size; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return ~crc;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */
enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50,
       DESCRIPTOR = 0x08074b50, LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, END64_SIZE = 56, LOCATOR64_SIZE = 20,
       ENCRYPTED = 1, DESCRIBED = 8, UTF8 = 0x800, STORED = 0, DEFLATED = 8 };

static dcp_status not_a_zip(dcp_error *err, const char *what) {
    return tool_error(err, DCP_E_FORMAT, "not a complete zip file: %s", what);
}

/* Is there a part of that size at `at`? */
static int has(const zip_file *z, uint64_t at, uint64_t size) {
    return at <= (uint64_t)z->size && size <= (uint64_t)z->size - at;
}

/* Where the directory is, and how much of it. */
static dcp_status find_directory(const zip_file *z, uint64_t *at, uint64_t *size, uint64_t *count, dcp_error *err) {
    int64_t end = z->size - END_SIZE, last = end > 65535 ? end - 65535 : 0;
    const unsigned char *p;
    for (; end >= last; end--)                          /* a comment may follow it */
        if (get(z->bytes + end, 4) == END && (int64_t)get(z->bytes + end + 20, 2) == z->size - end - END_SIZE) break;
    if (end < last) return not_a_zip(err, "it has no directory at its end");
    p = z->bytes + end;
    *count = get(p + 10, 2);
    *size = get(p + 12, 4);
    *at = get(p + 16, 4);
    if (*count != 0xFFFF && *size != 0xFFFFFFFF && *at != 0xFFFFFFFF) return DCP_OK;
    if (end < LOCATOR64_SIZE || get(p - LOCATOR64_SIZE, 4) != LOCATOR64) return DCP_OK;     /* they are the numbers */
    *at = get(p - LOCATOR64_SIZE + 8, 8);
    if (!has(z, *at, END64_SIZE) || get(z->bytes + *at, 4) != END64) return not_a_zip(err, "its end is damaged");
    p = z->bytes + *at;
    *count = get(p + 32, 8);
    *size = get(p + 40, 8);
    *at = get(p + 48, 8);
    return DCP_OK;
}

/* The numbers of 64 bits that stand for those that do not fit into 32. */
static int take_wide(const unsigned char *extra, uint64_t size, uint64_t *numbers[], int count) {
    int i;
    while (size >= 4) {
        const uint64_t id = get(extra, 2), length = get(extra + 2, 2);
        if (length > size - 4) return 0;
        if (id == 1) {
            const unsigned char *p = extra + 4;
            for (i = 0; i < count; i++) {
                if (*numbers[i] != 0xFFFFFFFF) continue;
                if (extra + 4 + length - p < 8) return 0;
                *numbers[i] = get(p, 8);
                p += 8;
            }
            return 1;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return 1;
}

static dcp_status list_entry(const zip_file *z, const unsigned char *p, zip_entry *e, dcp_error *err) {
    const uint64_t flags = get(p + 8, 2), method = get(p + 10, 2), length = get(p + 28, 2);
    uint64_t packed = get(p + 20, 4), size = get(p + 24, 4), at = get(p + 42, 4), *wide[3];
    wide[0] = &size;
    wide[1] = &packed;
    wide[2] = &at;
    e->name = tool_text_of((const char *)p + CENTRAL_SIZE, (size_t)length);
    if (strlen(e->name) != length) return not_a_zip(err, "a name of it has a NUL");
    if (!take_wide(p + CENTRAL_SIZE + length, get(p + 30, 2), wide, 3)) return not_a_zip(err, e->name);
    if ((flags & ENCRYPTED) || (method != STORED && method != DEFLATED))
        return tool_error(err, DCP_E_UNSUPPORTED, "%s is encrypted, or compressed by method %d: only stored and "
                          "deflated entries are read", e->name, (int)method);
    if (!has(z, at, LOCAL_SIZE) || get(z->bytes + at, 4) != LOCAL) return not_a_zip(err, e->name);
    at += LOCAL_SIZE + get(z->bytes + at + 26, 2) + get(z->bytes + at + 28, 2);
    if (!has(z, at, packed) || size > INT64_MAX || (method == STORED && packed != size))
        return tool_error(err, DCP_E_FORMAT, "%s goes beyond the end of the file", e->name);
    e->bytes = z->bytes + at;
    e->packed = (int64_t)packed;
    e->size = (int64_t)size;
    e->crc = (uint32_t)get(p + 16, 4);
    e->is_deflated = method == DEFLATED;
    e->has_crc = 1;
    return DCP_OK;
}

dcp_status zip_list(const unsigned char *bytes, int64_t size, zip_file *out, dcp_error *err) {
    uint64_t at = 0, left = 0, count = 0, i;
    dcp_status status;
    memset(out, 0, sizeof *out);
    out->bytes = bytes;
    out->size = size;
    if (size < END_SIZE) return not_a_zip(err, "it is too short");
    status = find_directory(out, &at, &left, &count, err);
    if (status) return status;
    if (!has(out, at, left) || count > left / CENTRAL_SIZE) return not_a_zip(err, "its directory is damaged");
    out->entries = tool_new((size_t)count + 1, sizeof *out->entries);
    for (i = 0; i < count && !status; i++) {
        const unsigned char *p = bytes + at;
        uint64_t length;
        if (left < CENTRAL_SIZE || get(p, 4) != CENTRAL) return not_a_zip(err, "its directory is damaged");
        length = CENTRAL_SIZE + get(p + 28, 2) + get(p + 30, 2) + get(p + 32, 2);
        if (length > left) return not_a_zip(err, "its directory is damaged");
        status = list_entry(out, p, &out->entries[out->count++], err);
        at += length;
        left -= length;
    }
    return status;
}

/* ---- inflate ----------------------------------------------------------------------------------------------------- */
enum { WINDOW = 32768, CODES = 288, LONGEST = 15 };

/* How many of each length; the symbols in the order of the codes. */
typedef struct codes { uint16_t count[LONGEST + 1], symbol[CODES]; } codes;

typedef struct inflation {
    const zip_entry *e;
    zip_put put;
    void *user;
    int64_t in, out;
    uint32_t bits, crc;
    int bit_count;
    unsigned char window[WINDOW];
    dcp_status status;
    dcp_error *err;
} inflation;

static int fail(inflation *f, const char *what) {
    if (!f->status) f->status = tool_error(f->err, DCP_E_CHECKSUM, "%s is damaged: %s", f->e->name, what);
    return -1;
}

static void give(inflation *f, const unsigned char *bytes, size_t size) {
    if (f->status || size == 0) return;
    f->crc = crc_of(f->crc, bytes, size);
    f->status = f->put(f->user, bytes, size, f->err);
}

static void put_byte(inflation *f, int byte) {
    if (f->out >= f->e->size) {
        (void)fail(f, "it has more bytes than it says");
        return;
    }
    f->window[f->out++ % WINDOW] = (unsigned char)byte;
    if (f->out % WINDOW == 0) give(f, f->window, WINDOW);
}

/* 0 once the input is at its end or something failed, which f->status says. */
static uint32_t take_bits(inflation *f, int count) {
    uint32_t value;
    while (f->bit_count < count) {
        if (f->in >= f->e->packed) {
            (void)fail(f, "it ends too early");
            return 0;
        }
        f->bits |= (uint32_t)f->e->bytes[f->in++] << f->bit_count;
        f->bit_count += 8;
    }
    value = f->bits & ((UINT32_C(1) << count) - 1);
    f->bits >>= count;
    f->bit_count -= count;
    return value;
}

/* The codes of canonical Huffman coding for symbols of such lengths; 0: there are too many. */
static int make_codes(codes *c, const unsigned char *lengths, int count) {
    uint16_t next[LONGEST + 2];
    int i, left = 1;
    memset(c, 0, sizeof *c);
    for (i = 0; i < count; i++) c->count[lengths[i]]++;
    c->count[0] = 0;
    next[1] = 0;
    for (i = 1; i <= LONGEST; i++) {
        left = left * 2 - c->count[i];
        if (left < 0) return 0;
        next[i + 1] = (uint16_t)(next[i] + c->count[i]);
    }
    for (i = 0; i < count; i++) if (lengths[i]) c->symbol[next[lengths[i]]++] = (uint16_t)i;
    return 1;
}

static int take_symbol(inflation *f, const codes *c) {
    int length, code = 0, first = 0, index = 0;
    for (length = 1; length <= LONGEST && !f->status; length++) {
        code |= (int)take_bits(f, 1);
        if (code - c->count[length] < first) return c->symbol[index + (code - first)];
        index += c->count[length];
        first = (first + c->count[length]) << 1;
        code <<= 1;
    }
    return fail(f, "a code that there is not");
}

static void copy_back(inflation *f, int length, int distance) {
    if (distance > f->out) {
        (void)fail(f, "it repeats what is before its beginning");
        return;
    }
    while (length-- > 0 && !f->status) put_byte(f, f->window[(f->out - distance) % WINDOW]);
}

static void take_block(inflation *f, const codes *lengths, const codes *distances) {
    static const uint16_t base[] = {
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227,
        258
    };
    static const unsigned char more[] = {
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0
    };
    static const uint16_t far_base[] = {
        1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097,
        6145, 8193, 12289, 16385, 24577
    };
    while (!f->status) {
        int symbol = take_symbol(f, lengths), length, distance;
        if (symbol < 0 || symbol == 256) return;
        if (symbol < 256) {
            put_byte(f, symbol);
            continue;
        }
        if (symbol > 285) {
            (void)fail(f, "a length that there is not");
            return;
        }
        length = base[symbol - 257] + (int)take_bits(f, more[symbol - 257]);
        symbol = take_symbol(f, distances);
        if (symbol < 0) return;
        if (symbol > 29) {
            (void)fail(f, "a distance that there is not");
            return;
        }
        distance = far_base[symbol] + (int)take_bits(f, symbol < 4 ? 0 : symbol / 2 - 1);
        copy_back(f, length, distance);
    }
}

static void take_stored(inflation *f) {
    int size, check;
    f->bits = 0;
    f->bit_count = 0;
    if (f->e->packed - f->in < 4) {
        (void)fail(f, "it ends too early");
        return;
    }
    size = (int)get(f->e->bytes + f->in, 2);
    check = (int)get(f->e->bytes + f->in + 2, 2);
    f->in += 4;
    if ((size ^ check) != 0xFFFF || f->e->packed - f->in < size) (void)fail(f, "a stored block has another length");
    while (size-- > 0 && !f->status) put_byte(f, f->e->bytes[f->in++]);
}

static void take_fixed(inflation *f) {
    unsigned char lengths[CODES + 30];
    codes symbols, distances;
    int i;
    for (i = 0; i < CODES; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    memset(lengths + CODES, 5, 30);
    (void)make_codes(&symbols, lengths, CODES);
    (void)make_codes(&distances, lengths + CODES, 30);
    take_block(f, &symbols, &distances);
}

/* The lengths of all codes, themselves coded: 16 repeats the last, 17 and 18 are runs of zeros. */
static int take_lengths(inflation *f, const codes *c, unsigned char *lengths, int count) {
    int i = 0;
    while (i < count && !f->status) {
        const int symbol = take_symbol(f, c);
        int times = 1, length = symbol;
        if (symbol < 0) return 0;
        if (symbol == 16 && i == 0) return fail(f, "it repeats nothing") > 0;
        if (symbol == 16) length = lengths[i - 1];
        if (symbol > 16) length = 0;
        if (symbol == 16) times = 3 + (int)take_bits(f, 2);
        if (symbol == 17) times = 3 + (int)take_bits(f, 3);
        if (symbol == 18) times = 11 + (int)take_bits(f, 7);
        if (times > count - i) return fail(f, "it has too many codes") > 0;
        memset(lengths + i, length, (size_t)times);
        i += times;
    }
    return !f->status;
}

static void take_dynamic(inflation *f) {
    static const unsigned char order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const int symbol_count = (int)take_bits(f, 5) + 257, distance_count = (int)take_bits(f, 5) + 1;
    const int length_count = (int)take_bits(f, 4) + 4;
    unsigned char lengths[CODES + 32] = {0};
    codes symbols, distances;
    int i;
    for (i = 0; i < length_count; i++) lengths[order[i]] = (unsigned char)take_bits(f, 3);
    if (f->status) return;
    if (!make_codes(&symbols, lengths, 19) || symbol_count > 286) {
        (void)fail(f, "its codes do not fit together");
        return;
    }
    memset(lengths, 0, sizeof lengths);
    if (!take_lengths(f, &symbols, lengths, symbol_count + distance_count)) return;
    if (make_codes(&symbols, lengths, symbol_count) && make_codes(&distances, lengths + symbol_count, distance_count))
        take_block(f, &symbols, &distances);
    else (void)fail(f, "its codes do not fit together");
}

static void inflate(inflation *f) {
    int is_last = 0;
    while (!is_last && !f->status) {
        is_last = (int)take_bits(f, 1);
        switch (take_bits(f, 2)) {
        case 0: take_stored(f); break;
        case 1: take_fixed(f); break;
        case 2: take_dynamic(f); break;
        default: (void)fail(f, "a block of a kind that there is not");
        }
    }
    give(f, f->window, (size_t)(f->out % WINDOW));
}

dcp_status zip_unpack(const zip_entry *e, zip_put put, void *user, dcp_error *err) {
    inflation *f = tool_need(calloc(1, sizeof *f));
    dcp_status status;
    f->e = e;
    f->put = put;
    f->user = user;
    f->err = err;
    if (e->is_deflated) inflate(f);
    else for (; f->out < e->size && !f->status;) {
        const int64_t size = e->size - f->out < TOOL_CHUNK ? e->size - f->out : TOOL_CHUNK;
        give(f, e->bytes + f->out, (size_t)size);
        f->out += size;
    }
    if (!f->status && f->out != e->size) (void)fail(f, "it has fewer bytes than it says");
    if (!f->status && e->has_crc && f->crc != e->crc) (void)fail(f, "its CRC-32 is another");
    status = f->status;
    free(f);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
static void send(zip_writer *w, const void *data, size_t size) {
    (void)tool_sink_write(w->sink, data, size);         /* the sink remembers the first failure */
    w->at += (int64_t)size;
}

/* What the local header and the directory have in common, from the version that is needed on; the time is the first
 * that a zip file can say, so that the same tensors give the same bytes. */
static unsigned char *put_common(unsigned char *p, const struct zip_written *e, uint32_t crc, int extra) {
    p = put_number(p, 45, 2);
    p = put_number(p, DESCRIBED | UTF8, 2);
    p = put_number(p, STORED, 2);
    p = put_number(p, 0, 2);
    p = put_number(p, 0x21, 2);
    p = put_number(p, crc, 4);
    p = put_number(p, 0xFFFFFFFF, 4);
    p = put_number(p, 0xFFFFFFFF, 4);
    p = put_number(p, strlen(e->name), 2);
    return put_number(p, (uint64_t)extra, 2);
}

/* The sizes, and in the directory the place, in 64 bits. */
static unsigned char *put_wide(unsigned char *p, const struct zip_written *e, int has_place) {
    p = put_number(p, 1, 2);
    p = put_number(p, has_place ? 24 : 16, 2);
    p = put_number(p, (uint64_t)e->size, 8);
    p = put_number(p, (uint64_t)e->size, 8);
    return has_place ? put_number(p, (uint64_t)e->at, 8) : p;
}

void zip_begin(zip_writer *w, const char *name, int64_t size) {
    unsigned char head[64], *p = put_number(head, LOCAL, 4);
    struct zip_written *e;
    if (w->count == w->capacity) {
        struct zip_written *more = tool_new(w->capacity * 2 + 16, sizeof *more);
        if (w->count) memcpy(more, w->entries, w->count * sizeof *more);
        w->entries = more;
        w->capacity = w->capacity * 2 + 16;
    }
    e = &w->entries[w->count++];
    e->name = name;
    e->at = w->at;
    e->size = size;
    p = put_common(p, e, 0, 20);
    send(w, head, (size_t)(p - head));
    send(w, name, strlen(name));
    send(w, head, (size_t)(put_wide(head, e, 0) - head));
}

dcp_status zip_write(zip_writer *w, const void *data, size_t size) {
    struct zip_written *e = &w->entries[w->count - 1];
    e->crc = crc_of(e->crc, data, size);
    w->at += (int64_t)size;
    return tool_sink_write(w->sink, data, size);
}

void zip_end(zip_writer *w) {
    const struct zip_written *e = &w->entries[w->count - 1];
    unsigned char tail[24], *p = put_number(tail, DESCRIPTOR, 4);
    p = put_number(p, e->crc, 4);
    p = put_number(p, (uint64_t)e->size, 8);
    send(w, tail, (size_t)(put_number(p, (uint64_t)e->size, 8) - tail));
}

static void send_end(zip_writer *w, int64_t begins) {
    const int64_t ends = w->at;
    unsigned char end[END64_SIZE + LOCATOR64_SIZE + END_SIZE], *p = put_number(end, END64, 4);
    p = put_number(p, END64_SIZE - 12, 8);
    p = put_number(p, 45, 2);
    p = put_number(p, 45, 2);
    p = put_number(p, 0, 8);                            /* the disks */
    p = put_number(p, w->count, 8);
    p = put_number(p, w->count, 8);
    p = put_number(p, (uint64_t)(ends - begins), 8);
    p = put_number(p, (uint64_t)begins, 8);
    p = put_number(p, LOCATOR64, 4);
    p = put_number(p, 0, 4);
    p = put_number(p, (uint64_t)ends, 8);
    p = put_number(p, 1, 4);
    p = put_number(p, END, 4);
    p = put_number(p, 0, 4);
    p = put_number(p, w->count < 0xFFFF ? w->count : 0xFFFF, 2);
    p = put_number(p, w->count < 0xFFFF ? w->count : 0xFFFF, 2);
    p = put_number(p, 0xFFFFFFFF, 4);
    p = put_number(p, 0xFFFFFFFF, 4);
    send(w, end, (size_t)(put_number(p, 0, 2) - end));
}

dcp_status zip_close(zip_writer *w) {
    const int64_t begins = w->at;
    size_t i;
    for (i = 0; i < w->count; i++) {
        const struct zip_written *e = &w->entries[i];
        unsigned char head[64], *p = put_number(head, CENTRAL, 4);
        p = put_number(p, 45, 2);
        p = put_common(p, e, e->crc, 28);
        p = put_number(p, 0, 10);                       /* comment, disk, attributes */
        p = put_number(p, 0xFFFFFFFF, 4);
        send(w, head, (size_t)(p - head));
        send(w, e->name, strlen(e->name));
        send(w, head, (size_t)(put_wide(head, e, 1) - head));
    }
    send_end(w, begins);
    return tool_sink_write(w->sink, "", 0);
}
