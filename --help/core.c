/* =====================================================================================================================
 * >>core        Checked arithmetic, memory, buffers, text, errors, sorting. Everything below stands on these.
 * ================================================================================================================== */

/* ---- checked arithmetic: 0 when the result does not fit, and then *out is untouched ------------------------------ */
static int dcpi_add_size(size_t a, size_t b, size_t *out) {
    if (b > SIZE_MAX - a) return 0;
    *out = a + b;
    return 1;
}
static int dcpi_mul_size(size_t a, size_t b, size_t *out) {
    if (b != 0 && a > SIZE_MAX / b) return 0;
    *out = a * b;
    return 1;
}
/* The three below are for sizes and offsets in files: both operands must be >= 0. */
static int dcpi_add(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || b > INT64_MAX - a) return 0;
    *out = a + b;
    return 1;
}
static int dcpi_mul(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b)) return 0;
    *out = a * b;
    return 1;
}
static int dcpi_align_up(int64_t value, int64_t alignment, int64_t *out) {     /* alignment: a power of two */
    int64_t sum;
    if (!dcpi_add(value, alignment - 1, &sum)) return 0;
    *out = sum & ~(alignment - 1);
    return 1;
}
static int64_t dcpi_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t dcpi_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int dcpi_is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

/* ---- names ------------------------------------------------------------------------------------------------------- */
DCPDEF const char *dcp_version(void) { return DCP_VERSION; }
DCPDEF void DCPI_ABI_NAME(DCP_VERSION_NUMBER)(void) {}
DCPDEF const char *dcp_status_name(dcp_status status) {
    static const char *const names[] = {
        "DCP_OK", "DCP_PENDING", "DCP_E_INVALID", "DCP_E_MEMORY", "DCP_E_IO", "DCP_E_SPACE", "DCP_E_NOT_FOUND",
            "DCP_E_EXISTS", "DCP_E_FORMAT", "DCP_E_VERSION",
        "DCP_E_CHECKSUM", "DCP_E_SIGNATURE", "DCP_E_MISMATCH", "DCP_E_INCOMPLETE", "DCP_E_LIMIT", "DCP_E_TIMEOUT",
        "DCP_E_CANCELLED", "DCP_E_COMM", "DCP_E_DEVICE",
        "DCP_E_UNSUPPORTED", "DCP_E_UNKNOWN"
    };
    return (int)status >= 0 && (size_t)status < DCPI_COUNT(names) ? names[status] : "DCP_E_?";
}
DCPDEF const char *dcp_phase_name(dcp_phase phase) {
    static const char *const names[] = { "check", "prepare", "plan", "write", "gather", "commit", "finish", "open",
                                         "read", "verify" };
    return (int)phase >= 0 && (size_t)phase < DCPI_COUNT(names) ? names[phase] : "?";
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
/* Bytes of the character at text if a terminal may take it for an order: a control character, or one that ends a line
 * or turns the direction of writing (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069); else 0. */
static size_t dcpi_terminal_order(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x20 || c[0] == 0x7F) return 1;
    if (c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0) return 2;
    if (c[0] == 0xD8 && c[1] == 0x9C) return 2;
    if (c[0] == 0xE2 && c[1] == 0x80 && ((c[2] >= 0xA8 && c[2] <= 0xAE) || c[2] == 0x8E || c[2] == 0x8F)) return 3;
    return c[0] == 0xE2 && c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9 ? 3 : 0;
}
/* Ends a message where the last whole UTF-8 character ends, and takes out of it what a hostile file's name may say to a
 * terminal. */
static void dcpi_message_clean(char *message, size_t capacity) {
    size_t length = strlen(message), i, n;
    if (length == capacity - 1) {                             /* perhaps cut: drop a last character that is not whole */
        size_t start = length;
        while (start > 0 && ((unsigned char)message[start - 1] & 0xC0) == 0x80) start--;
        if (start > 0 && ((unsigned char)message[start - 1] & 0x80) != 0) message[start - 1] = '\0';
    }
    for (i = 0; message[i] != '\0'; i++)
        for (n = dcpi_terminal_order(message + i); n > 0; n--) message[i + n - 1] = '?';
}
static dcp_status dcpi_succeed(dcp_error *err) {
    if (err) { err->status = DCP_OK; err->sys = 0; err->rank = 0; err->message[0] = '\0'; }
    return DCP_OK;
}
static dcp_status dcpi_fail_list(dcp_error *err, dcp_status status, int sys, const char *format,
                                 va_list arguments) DCPI_PRINTF(4, 0);
static dcp_status dcpi_fail_list(dcp_error *err, dcp_status status, int sys, const char *format, va_list arguments) {
    if (!err) return status;
    err->status = status;
    err->sys = sys;
    err->rank = 0;
    (void)vsnprintf(err->message, sizeof err->message, format, arguments);
    err->message[sizeof err->message - 1] = '\0';
    dcpi_message_clean(err->message, sizeof err->message);
    return status;
}
static dcp_status dcpi_fail(dcp_error *err, dcp_status status, const char *format, ...) DCPI_PRINTF(3, 4);
static dcp_status dcpi_fail(dcp_error *err, dcp_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    status = dcpi_fail_list(err, status, 0, format, arguments);
    va_end(arguments);
    return status;
}
static dcp_status dcpi_fail_sys(dcp_error *err, dcp_status status, int sys, const char *format, ...) DCPI_PRINTF(4, 5);
static dcp_status dcpi_fail_sys(dcp_error *err, dcp_status status, int sys, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    status = dcpi_fail_list(err, status, sys, format, arguments);
    va_end(arguments);
    return status;
}
/* Puts words before a message that is there already: which file, which tensor. */
static void dcpi_fail_context(dcp_error *err, const char *format, ...) DCPI_PRINTF(2, 3);
static void dcpi_fail_context(dcp_error *err, const char *format, ...) {
    char inner[sizeof err->message];
    va_list arguments;
    int used;
    if (!err || err->status == DCP_OK) return;
    memcpy(inner, err->message, sizeof inner);
    va_start(arguments, format);
    used = vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    if (used < 0) used = 0;
    if ((size_t)used < sizeof err->message)
        (void)snprintf(err->message + used, sizeof err->message - (size_t)used, "%s", inner);
    dcpi_message_clean(err->message, sizeof err->message);
}
/* ---- what callbacks return: the one place that judges it ----------------------------------------------------- */
/* Each kind of callback may fail with some statuses, since callers rely on what they mean; any other number counts as
 * `instead`. */
typedef struct dcpi_callback { const char *who; uint32_t may_be; dcp_status instead; } dcpi_callback;
#define DCPI_MAY(status) (UINT32_C(1) << (status))
#define DCPI_MAY_FAIL (DCPI_MAY(DCP_E_MEMORY) | DCPI_MAY(DCP_E_IO) | DCPI_MAY(DCP_E_TIMEOUT) | \
                       DCPI_MAY(DCP_E_CANCELLED) | \
                       DCPI_MAY(DCP_E_COMM) | DCPI_MAY(DCP_E_DEVICE))
#define DCPI_MAY_REFUSE (DCPI_MAY(DCP_E_INVALID) | DCPI_MAY(DCP_E_UNSUPPORTED))
#define DCPI_MAY_STORE (DCPI_MAY_REFUSE | DCPI_MAY(DCP_E_MEMORY) | DCPI_MAY(DCP_E_IO) | DCPI_MAY(DCP_E_SPACE))
static const dcpi_callback dcpi_by_signer = { "the signer", DCPI_MAY_FAIL, DCP_E_SIGNATURE };
static const dcpi_callback dcpi_by_verifier = { "the verifier", DCPI_MAY_FAIL, DCP_E_SIGNATURE };
/* DCP_E_NOT_FOUND answers the question whether an object is there. Whoever writes it, or reads it after opening it, has
 * met an error: no call may take that for "there is no checkpoint". */
static const dcpi_callback dcpi_by_finder = { "the storage", DCPI_MAY_STORE | DCPI_MAY(DCP_E_NOT_FOUND), DCP_E_IO };
static const dcpi_callback dcpi_by_reader = { "the storage", DCPI_MAY_STORE | DCPI_MAY(DCP_E_INCOMPLETE), DCP_E_IO };
static const dcpi_callback dcpi_by_writer = { "the storage", DCPI_MAY_STORE, DCP_E_IO };
static const dcpi_callback dcpi_by_publisher = { "the storage", DCPI_MAY_STORE | DCPI_MAY(DCP_E_EXISTS), DCP_E_IO };
static const dcpi_callback dcpi_by_device = {
    "the device", (DCPI_MAY_FAIL & ~DCPI_MAY(DCP_E_COMM)) | DCPI_MAY_REFUSE, DCP_E_DEVICE
};
static const dcpi_callback dcpi_by_coordinator = {
    "the coordinator", (DCPI_MAY_FAIL & ~DCPI_MAY(DCP_E_DEVICE)) | DCPI_MAY_REFUSE, DCP_E_COMM
};

/* *err, which was cleared before the call, keeps the callback's words if they are about this status; else it says what
 * failed: `format`, such as "could not write \"x\"". */
static dcp_status dcpi_callback_status(const dcpi_callback *by, dcp_status status, dcp_error *err, const char *format,
                                       ...) DCPI_PRINTF(4, 5);
static dcp_status dcpi_callback_status(const dcpi_callback *by, dcp_status status, dcp_error *err, const char *format,
                                       ...) {
    const int number = (int)status, is_status = number > DCP_PENDING && number <= DCP_E_UNKNOWN;
    const dcp_status means = is_status && (by->may_be >> number & 1) ? status : by->instead;
    char what[300];
    va_list arguments;
    if (status == DCP_OK) return dcpi_succeed(err);
    if (!err) return means;
    if (err->status == status && err->message[0] != '\0') { err->status = means; return means; }
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (is_status)
        return dcpi_fail(err, means, "%s %s and gave no reason (%s)", by->who, what, dcp_status_name(status));
    return dcpi_fail(err, means, "%s %s and gave no reason (%d, no status of a failure)", by->who, what, number);
}
static dcp_status dcpi_no_memory(dcp_error *err, size_t size) {
    return dcpi_fail(err, DCP_E_MEMORY, "out of memory: could not allocate %" PRIu64 " bytes", (uint64_t)size);
}

/* ---- memory: every allocation of the library goes through these four --------------------------------------------- */
static void *dcpi_alloc(size_t size, dcp_error *err) {                  /* uninitialised; NULL sets err */
    void *memory = DCP_MALLOC(size ? size : 1);
    if (!memory) (void)dcpi_no_memory(err, size);
    return memory;
}
static void *dcpi_alloc_array(size_t count, size_t size, dcp_error *err) {
    /* zeroed: no uninitialised byte is ever written (G11) */
    size_t total;
    void *memory;
    if (!dcpi_mul_size(count, size, &total)) { (void)dcpi_no_memory(err, SIZE_MAX); return NULL; }
    memory = dcpi_alloc(total, err);
    if (memory) memset(memory, 0, total);
    return memory;
}
/* Grows an array to hold at least `needed` items: by half again, so that a run of appends costs O(n). 0: out of memory,
 * array unchanged. */
static int dcpi_grow(void **array, size_t *capacity, size_t needed, size_t item, dcp_error *err) {
    size_t wanted = *capacity, bytes;
    void *grown;
    if (needed <= *capacity) return 1;
    while (wanted < needed) {
        if (!dcpi_add_size(wanted, wanted / 2 + 8, &wanted)) { (void)dcpi_no_memory(err, SIZE_MAX); return 0; }
    }
    if (!dcpi_mul_size(wanted, item, &bytes)) { (void)dcpi_no_memory(err, SIZE_MAX); return 0; }
    grown = DCP_REALLOC(*array, bytes);
    if (!grown) { (void)dcpi_no_memory(err, bytes); return 0; }
    *array = grown;
    *capacity = wanted;
    return 1;
}
static void dcpi_free(void *memory) { if (memory) DCP_FREE(memory); }

DCPDEF void dcp_free(void *memory) { dcpi_free(memory); }

/* Many small things that live and die together: a document's strings and structs. */
typedef struct dcpi_arena_block { struct dcpi_arena_block *next; size_t used, capacity; } dcpi_arena_block;
typedef struct dcpi_arena { dcpi_arena_block *head; } dcpi_arena;       /* zero is an empty arena */

#ifndef DCPI_ARENA_LARGEST
#define DCPI_ARENA_LARGEST (1024 * DCPI_KIB)            /* bytes of a block; with 1 each piece has a block of its own */
#endif
/* alignment: a power of two, at most 16 */
static void *dcpi_arena_take(dcpi_arena *arena, size_t size, size_t alignment, dcp_error *err) {
    const size_t header = (sizeof(dcpi_arena_block) + 15) & ~(size_t)15;
    dcpi_arena_block *block = arena->head;
    size_t capacity, total, gap = block ? (0 - block->used) & (alignment - 1) : 0;
    if (!block || gap > block->capacity - block->used || size > block->capacity - block->used - gap) {
        capacity = (size_t)dcpi_min(block ? (int64_t)block->capacity * 2 : (int64_t)(4 * DCPI_KIB),
                                    (int64_t)DCPI_ARENA_LARGEST);
        if (capacity < size) capacity = size;
        if (!dcpi_add_size(capacity, header, &total)) { (void)dcpi_no_memory(err, size); return NULL; }
        block = (dcpi_arena_block *)dcpi_alloc(total, err);
        if (!block) return NULL;
        block->next = arena->head;
        block->used = 0;
        block->capacity = capacity;
        arena->head = block;
        gap = 0;
    }
    block->used += gap + size;
    return (char *)block + header + block->used - size;
}
static void *dcpi_arena_alloc(dcpi_arena *arena, size_t size, dcp_error *err) {
    return dcpi_arena_take(arena, size, 16, err);
}
static void *dcpi_arena_array(dcpi_arena *arena, size_t count, size_t size, dcp_error *err) {    /* of zeros */
    size_t bytes;
    void *memory;
    if (!dcpi_mul_size(count, size, &bytes)) { (void)dcpi_no_memory(err, SIZE_MAX); return NULL; }
    memory = dcpi_arena_take(arena, bytes, 16, err);
    if (memory) memset(memory, 0, bytes);
    return memory;
}
static void *dcpi_arena_zero(dcpi_arena *arena, size_t size, dcp_error *err) {
    void *memory = dcpi_arena_alloc(arena, size, err);
    if (memory) memset(memory, 0, size);
    return memory;
}
static char *dcpi_arena_text(dcpi_arena *arena, const char *text, size_t length, dcp_error *err) {
    /* a copy that ends in NUL; packed */
    char *copy;
    if (length == SIZE_MAX) { (void)dcpi_no_memory(err, length); return NULL; }
    copy = (char *)dcpi_arena_take(arena, length + 1, 1, err);
    if (!copy) return NULL;
    if (length) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}
static void dcpi_arena_free(dcpi_arena *arena) {
    dcpi_arena_block *block = arena->head;
    while (block) {
        dcpi_arena_block *next = block->next;
        dcpi_free(block);
        block = next;
    }
    arena->head = NULL;
}

/* Bytes that grow. After a failed append `failed` is set and further appends do nothing, so a writer checks once, at
 * the end. */
/* zero is an empty buffer */
typedef struct dcpi_buffer { char *data; size_t size, capacity; int failed; } dcpi_buffer;

static void dcpi_buffer_add(dcpi_buffer *buffer, const void *data, size_t size) {
    size_t needed;
    void *memory = buffer->data;
    if (buffer->failed || size == 0) return;
    if (!dcpi_add_size(buffer->size, size, &needed) || !dcpi_grow(&memory, &buffer->capacity, needed, 1, NULL)) {
        buffer->failed = 1;
        return;
    }
    buffer->data = (char *)memory;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}
static void dcpi_buffer_text(dcpi_buffer *buffer, const char *text) { dcpi_buffer_add(buffer, text, strlen(text)); }
static void dcpi_buffer_free(dcpi_buffer *buffer) {
    dcpi_free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */
static const char dcpi_hex_digits[] = "0123456789abcdef";

static void dcpi_hex_encode(const uint8_t *bytes, size_t count, char *text) {     /* 2 * count characters, no NUL */
    size_t i;
    for (i = 0; i < count; i++) {
        text[2 * i] = dcpi_hex_digits[bytes[i] >> 4];
        text[2 * i + 1] = dcpi_hex_digits[bytes[i] & 15];
    }
}
static int dcpi_hex_value(char c) {                                   /* upper case too: the seed's readers take both */
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}
static int dcpi_hex_decode(const char *text, size_t length, uint8_t *bytes) {     /* length / 2 bytes; 0: not hex */
    size_t i;
    if (length % 2) return 0;
    for (i = 0; i < length; i += 2) {
        int high = dcpi_hex_value(text[i]), low = dcpi_hex_value(text[i + 1]);
        if (high < 0 || low < 0) return 0;
        bytes[i / 2] = (uint8_t)(high * 16 + low);
    }
    return 1;
}
/* Bytes of the UTF-8 character at text[0..length): 1 to 4, or 0 where it is none (overlong, surrogate, beyond U+10FFFF,
 * cut). */
static size_t dcpi_utf8_length(const char *text, size_t length) {
    const unsigned char *s = (const unsigned char *)text;
    size_t n, i;
    if (length == 0) return 0;
    if (s[0] < 0x80) return 1;
    n = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : s[0] >= 0xE0 && s[0] <= 0xEF ? 3 : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : 0;
    if (n == 0 || n > length) return 0;
    for (i = 1; i < n; i++) if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;                          /* overlong */
    if (s[0] == 0xED && s[1] > 0x9F) return 0;                          /* surrogate */
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;                          /* overlong */
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;                          /* beyond U+10FFFF */
    return n;
}
/* UTF-8 without control characters, of 1 to `limit` bytes: what a tensor's name may be. */
static int dcpi_is_name(const char *text, size_t limit) {
    size_t length = strlen(text), i = 0;
    if (length == 0 || length > limit) return 0;
    while (i < length) {
        size_t n = dcpi_utf8_length(text + i, length - i);
        if (n == 0 || (unsigned char)text[i] < 0x20 || (unsigned char)text[i] == 0x7F) return 0;
        if (n == 2 && (unsigned char)text[i] == 0xC2 && (unsigned char)text[i + 1] < 0xA0) return 0;   /* C1 controls */
        i += n;
    }
    return 1;
}
/* On Windows CON, NUL, COM1 and so on are devices in every directory, also with an extension and with spaces before
 * it. */
static int dcpi_part_is_device(const char *part, size_t length) {
    static const char *const names[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "COM#", "LPT#"};
    size_t stem = 0, i, k;
    while (stem < length && part[stem] != '.') stem++;
    while (stem > 0 && part[stem - 1] == ' ') stem--;
    /* superscripts too */
    if (stem == 5 && (unsigned char)part[3] == 0xC2 && strchr("\xB9\xB2\xB3", part[4])) stem = 4;
    for (i = 0; i < DCPI_COUNT(names); i++) {
        if (strlen(names[i]) != stem) continue;
        for (k = 0; k < stem; k++) {
            const char c = part[k] >= 'a' && part[k] <= 'z' ? (char)(part[k] - 'a' + 'A') : part[k];
            if (names[i][k] == '#' ? !((c >= '0' && c <= '9') || (unsigned char)c == 0xC2) : c != names[i][k]) break;
        }
        if (k == stem) return 1;
    }
    return 0;
}
/* One part of a path that every system can have. */
static int dcpi_part_is_portable(const char *part, size_t length) {
    size_t i;
    if (length == 0 || part[length - 1] == '.' || part[length - 1] == ' ') return 0;
    for (i = 0; i < length; i++) if ((unsigned char)part[i] < 0x20 || strchr("<>:\"\\|?*", part[i])) return 0;
    return !dcpi_part_is_device(part, length);
}
/* Control characters, and those that turn the direction of writing: a name that has one is read as another one. */
static int dcpi_has_orders(const char *text) {
    for (; *text; text++) if (dcpi_terminal_order(text) > 0) return 1;
    return 0;
}
static int dcpi_starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }
static int dcpi_ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), n = strlen(suffix);
    return length >= n && memcmp(text + length - n, suffix, n) == 0;
}
static int dcpi_same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* ---- little-endian numbers --------------------------------------------------------------------------------------- */
static void dcpi_store32(uint8_t *to, uint32_t v) {
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
    to[2] = (uint8_t)(v >> 16);
    to[3] = (uint8_t)(v >> 24);
}
static uint32_t dcpi_load32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static uint64_t dcpi_load64(const uint8_t *p) { return dcpi_load32(p) | (uint64_t)dcpi_load32(p + 4) << 32; }
static void dcpi_store64(uint8_t *to, uint64_t v) {
    dcpi_store32(to, (uint32_t)v);
    dcpi_store32(to + 4, (uint32_t)(v >> 32));
}

/* ---- sorting: pointers, stable, n log n whatever the input (a hostile file may choose it) ------------------------ */
typedef int (*dcpi_compare)(const void *a, const void *b);

static void dcpi_sort_merge(const void **items, const void **scratch, size_t low, size_t middle, size_t high,
                            dcpi_compare compare) {
    size_t left = low, right = middle, to = low;
    if (compare(items[middle - 1], items[middle]) <= 0) return;         /* in order already: the common case */
    while (left < middle && right < high)
        scratch[to++] = compare(items[right], items[left]) < 0 ? items[right++] : items[left++];
    while (left < middle) scratch[to++] = items[left++];
    while (right < high) scratch[to++] = items[right++];
    memcpy(items + low, scratch + low, (high - low) * sizeof *items);
}
/* items: an array of count pointers to what compare compares. */
static dcp_status dcpi_sort(const void **items, size_t count, dcpi_compare compare, dcp_error *err) {
    const void **scratch;
    size_t width, low;
    if (count < 2) return DCP_OK;
    scratch = (const void **)dcpi_alloc_array(count, sizeof *scratch, err);
    if (!scratch) return DCP_E_MEMORY;
    for (width = 1; width < count; width *= 2) {
        for (low = 0; low + width < count; low += 2 * width) {
            size_t high = low + 2 * width < count ? low + 2 * width : count;
            dcpi_sort_merge(items, scratch, low, low + width, high, compare);
        }
        if (width > SIZE_MAX / 2) break;
    }
    dcpi_free((void *)scratch);
    return DCP_OK;
}

