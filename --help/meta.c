/* =====================================================================================================================
 * >>meta        The metadata document: names and times, building it in memory, every rule that it must keep, writing,
 *               parsing.
 *
 * One shape of data, dcp_metadata, stands between all of these. A parsed or built one owns its memory through
 * `internal` (a dcpi_meta); one that a program filled by hand owns nothing, and all functions but the builders and
 * dcp_metadata_free treat it alike. Parsing answers "is this a document", validation "does it keep the rules": a broken
 * document can be loaded and looked at, not used.
 * ================================================================================================================== */

/* ---- names ------------------------------------------------------------------------------------------------------- */
DCPDEF const char *dcp_layout_extension(dcp_layout layout) {
    if (layout == DCP_LAYOUT_SHARDED) return ".metadata.json";
    if (layout == DCP_LAYOUT_SINGLE) return ".checkpoint";
    return layout == DCP_LAYOUT_MANIFEST ? ".manifest.json" : NULL;
}
static int dcpi_starts_with_id(const char *text) {                      /* 16 lower-case hex digits */
    int i;
    for (i = 0; i < 16; i++) if (!dcpi_is_lower_hex(text[i])) return 0;
    return 1;
}
static int dcpi_is_save_id(const char *text) { return dcpi_starts_with_id(text) && text[16] == '\0'; }
DCPDEF dcp_status dcp_shard_name(const char *prefix, int rank, const char *save_id, char *name, size_t capacity,
                                 dcp_error *err) {
    int length;
    if (name && capacity > 0) name[0] = '\0';
    if (!prefix || !name || capacity == 0)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: prefix and name must not be NULL");
    if (rank < 0) return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: rank is %d; it must not be negative", rank);
    if (save_id && !dcpi_is_save_id(save_id))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: save_id must be 16 lower-case hex digits");
    length = snprintf(name, capacity, "%s_shard_%d%s%s.bin", prefix, rank, save_id ? "." : "", save_id ? save_id : "");
    if (length >= 0 && (size_t)length < capacity) return dcpi_succeed(err);
    name[0] = '\0';
    return dcpi_fail(err, DCP_E_INVALID, "dcp_shard_name: the name does not fit into %" PRIu64 " bytes",
                     (uint64_t)capacity);
}
DCPDEF int dcp_shard_owner(int shard_rank, int world_size) {
    return world_size > 0 && shard_rank >= 0 ? shard_rank % world_size : 0;
}

/* One part of a key, text[0..length): printable UTF-8 without '\' and ':', not "." or "..". */
static int dcpi_key_part_is_valid(const char *text, size_t length) {
    size_t i = 0;
    if (length == 0 || (length <= 2 && text[0] == '.' && text[length - 1] == '.')) return 0;
    while (i < length) {
        size_t n = dcpi_utf8_length(text + i, length - i);
        unsigned char c = (unsigned char)text[i];
        if (n == 0 || c < 0x20 || c == 0x7F || c == '\\' || c == ':') return 0;
        if (n == 2 && c == 0xC2 && (unsigned char)text[i + 1] < 0xA0) return 0;     /* C1 controls */
        i += n;
    }
    return 1;
}
/* May a document name this file, may a storage be asked for it? It must not be able to leave the base directory
 * (G8). */
static int dcpi_key_is_valid(const char *key) {
    for (;;) {
        const char *slash = strchr(key, '/');
        if (!dcpi_key_part_is_valid(key, slash ? (size_t)(slash - key) : strlen(key))) return 0;
        if (!slash) return 1;
        key = slash + 1;
    }
}

/* Can the file have this name everywhere (G10), and is it shown as what it is? */
static int dcpi_key_is_portable(const char *key) {
    const char *part = key;
    for (;; part++) {
        const size_t length = strcspn(part, "/");
        if (!dcpi_part_is_portable(part, length)) return 0;
        part += length;
        if (*part == '\0') return !dcpi_has_orders(key);
    }
}
static const char dcpi_portable_words[] =
    "it cannot be on every system, or is not shown as it is: a part is a device's name (NUL, con.txt), ends in a dot "
    "or "
    "a space, or has one of <>\"|?* or a character that turns the direction of writing";

/* ---- whose a file is, by its name alone: the one grammar that remove, prune, a save's clean-up, sweep and sync go
 * by, and the rules of paths in documents. In a directory of checkpoints, P being a checkpoint's name:
 *
 *     P.metadata.json  P.checkpoint  P.manifest.json  P.manifest.yaml     commit files
 *     P.commit.lock    P.manifest.<save id>.intent.tmp                    locks and intents
 *     P_shard_<rank>[.<save id>].bin                                      data of P.metadata.json
 *     dense/ experts/ optim/ router/ and below (dcpi_is_pool_name)        data of all manifests there: the pool
 *     <any of these>.<save id>[-<attempt>].tmp                            what is being written
 */
static const struct dcpi_commit_kind { const char *suffix; dcp_layout layout; } dcpi_commit_kinds[] = {
    { ".metadata.json", DCP_LAYOUT_SHARDED }, { ".checkpoint", DCP_LAYOUT_SINGLE },
    { ".manifest.json", DCP_LAYOUT_MANIFEST }, { ".manifest.yaml", DCP_LAYOUT_MANIFEST }
};
/* The kind of commit file that a name is; NULL if it is none. */
static const struct dcpi_commit_kind *dcpi_commit_kind_of(const char *name) {
    size_t i;
    for (i = 0; i < DCPI_COUNT(dcpi_commit_kinds); i++)
        if (dcpi_ends_with(name, dcpi_commit_kinds[i].suffix) && strlen(name) > strlen(dcpi_commit_kinds[i].suffix))
            return &dcpi_commit_kinds[i];
    return NULL;
}
static size_t dcpi_trailing_digits(const char *name, size_t end) {
    size_t digits = 0;
    while (digits < end && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9') digits++;
    return digits;
}
/* How long the name is to which `.<16 hex>.tmp` or `.<16 hex>-<digits>.tmp` was added; 0: to none. */
static size_t dcpi_temporary_of(const char *name) {
    size_t end = strlen(name), digits;
    if (end < 4 || strcmp(name + end - 4, ".tmp") != 0) return 0;
    end -= 4;
    digits = dcpi_trailing_digits(name, end);
    if (digits > 0 && digits < end && name[end - digits - 1] == '-') end -= digits + 1;
    return end > 17 && name[end - 17] == '.' && dcpi_starts_with_id(name + end - 16) ? end - 17 : 0;
}
static int dcpi_is_temporary(const char *name) { return dcpi_temporary_of(name) > 0; }

static int dcpi_is_intent(const char *name) {
    static const char middle[] = ".manifest.", end[] = ".intent.tmp";
    const size_t size = strlen(name), tail = 16 + sizeof end - 1;
    if (size < tail + sizeof middle || strcmp(name + size - (sizeof end - 1), end) != 0) return 0;
    return dcpi_starts_with_id(name + size - tail) && memcmp(name + size - tail - (sizeof middle - 1), middle,
                                                             sizeof middle - 1) == 0;
}
static const char dcpi_lock_suffix[] = ".commit.lock";
static int dcpi_is_lock(const char *name) {
    return dcpi_ends_with(name, dcpi_lock_suffix) && strlen(name) >= sizeof dcpi_lock_suffix;
}

/* The length of P in `<P>_shard_<rank>.<16 hex>.bin`, with `plain` in `<P>_shard_<rank>.bin` too; 0: it is no such
 * name. */
static size_t dcpi_shard_prefix(const char *name, size_t end, int plain) {
    size_t digits;
    if (end < 4 || memcmp(name + end - 4, ".bin", 4) != 0) return 0;
    end -= 4;
    if (end > 17 && name[end - 17] == '.' && dcpi_starts_with_id(name + end - 16)) end -= 17;
    else if (!plain) return 0;
    digits = dcpi_trailing_digits(name, end);
    end -= digits;
    return digits > 0 && digits <= 10 && end > 7 && memcmp(name + end - 7, "_shard_", 7) == 0 ? end - 7 : 0;
}
static int dcpi_is_shard_name(const char *name, int plain) { return dcpi_shard_prefix(name, strlen(name), plain) > 0; }

static const char *const dcpi_pool_folders[] = { "dense", "experts", "optim", "router" };

/* A file of a manifest: `<stem>.v<version>.<16 hex>.bin`; with `plain`, `<stem>.v<version>.bin` and `<stem>.bin` too.
 * The stem ends in `_<i>_of_<n>` or is `expert_<e>`, in one of the folders. */
static int dcpi_is_pool_name(const char *path, int plain) {
    size_t end = strlen(path), digits, i, has_id = 0;
    for (i = 0; i < DCPI_COUNT(dcpi_pool_folders); i++) {
        const size_t length = strlen(dcpi_pool_folders[i]);
        if (strncmp(path, dcpi_pool_folders[i], length) == 0 && path[length] == '/') break;
    }
    if (i == DCPI_COUNT(dcpi_pool_folders) || end < 5 || strcmp(path + end - 4, ".bin") != 0) return 0;
    end -= 4;
    if (end > 17 && path[end - 17] == '.' && dcpi_starts_with_id(path + end - 16)) { end -= 17; has_id = 1; }
    if (!has_id && !plain) return 0;
    digits = dcpi_trailing_digits(path, end);
    if (digits > 0 && end - digits >= 2 && memcmp(path + end - digits - 2, ".v", 2) == 0) end -= digits + 2;
    else if (has_id) return 0;
    digits = dcpi_trailing_digits(path, end);
    if (digits == 0) return 0;
    end -= digits;
    if (end >= 8 && memcmp(path + end - 8, "/expert_", 8) == 0) return 1;
    if (end < 4 || memcmp(path + end - 4, "_of_", 4) != 0) return 0;
    digits = dcpi_trailing_digits(path, end - 4);
    return digits > 0 && end - 4 > digits && path[end - 5 - digits] == '_';
}
/* `optim/state_<n>.bin`, `router/state_<n>.bin`: the seed's names, which no save of ours makes. */
static int dcpi_is_state_name(const char *path) {
    const size_t start = dcpi_starts_with(path, "optim/state_") ? 12 : dcpi_starts_with(path, "router/state_") ? 13 : 0;
    const size_t end = strlen(path);
    return start > 0 && end > start + 4 && strcmp(path + end - 4, ".bin") == 0 &&
           dcpi_trailing_digits(path, end - 4) == end - 4 - start;
}
/* Whether a file that this commit file names is the checkpoint's, or the pool's, and not something else that the
 * document lays claim to. A single file has all its data in itself. */
static int dcpi_is_data_of(const char *commit, const char *path) {
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(commit);
    const size_t prefix = kind ? strlen(commit) - strlen(kind->suffix) : 0;
    if (!kind || kind->layout == DCP_LAYOUT_SINGLE) return 0;
    if (kind->layout == DCP_LAYOUT_MANIFEST) return dcpi_is_pool_name(path, 1) || dcpi_is_state_name(path);
    return dcpi_shard_prefix(path, strlen(path), 1) == prefix && memcmp(path, commit, prefix) == 0;
}
/* A name that only a directory of checkpoints has, and no folder of a pool. */
static int dcpi_is_of_directory(const char *name) {
    char final_name[2 * DCP_LIMIT_PREFIX];
    const size_t length = dcpi_temporary_of(name);
    if (dcpi_is_intent(name) || dcpi_is_lock(name) || dcpi_commit_kind_of(name) || dcpi_is_shard_name(name, 1))
        return 1;
    if (length == 0 || length >= sizeof final_name) return 0;
    memcpy(final_name, name, length);
    final_name[length] = '\0';
    return dcpi_is_lock(final_name) || dcpi_commit_kind_of(final_name) || dcpi_is_shard_name(final_name, 1);
}
/* Names that no document may give its data, in whatever case: to many file systems it is all the same. */
static int dcpi_is_reserved(const char *path, int is_single) {
    const size_t kinds = DCPI_COUNT(dcpi_commit_kinds);
    const char *suffix;
    size_t size = strlen(path), i, k, length;
    while (size > 0 && (path[size - 1] == '.' || path[size - 1] == ' ')) size--;        /* Windows does not see these */
    for (i = 0; i < kinds + 2; i++) {
        suffix = i < kinds ? dcpi_commit_kinds[i].suffix : i == kinds ? dcpi_lock_suffix : ".tmp";
        if (is_single && strcmp(suffix, ".checkpoint") == 0) continue;
        length = strlen(suffix);
        for (k = 0; k < length && k < size; k++) {
            const char c = path[size - 1 - k];
            if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != suffix[length - 1 - k]) break;
        }
        if (k == length) return 1;
    }
    return 0;
}

/* ---- times: civil dates without the C library, whose functions depend on locale and time zone -------------------- */
#define DCPI_TIME_TEXT 28               /* "2026-11-20T12:00:00.123456Z" and a NUL */

/* Days since 1970-01-01 of a date, and back. Years are counted from March, so that a leap day is the last of its year;
 * 400 years ("an era") always have 146,097 days. */
static int64_t dcpi_time_days(int64_t year, int64_t month, int64_t day) {
    int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}
static void dcpi_time_date(int64_t days, int *year, int *month, int *day) {
    int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097, of_era = shifted -
                      era * 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100), m = (5 * of_year + 2) / 153;
    *day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(year_of_era + era * 400 + (*month <= 2));
}
static void dcpi_time_format(int64_t microseconds, char text[DCPI_TIME_TEXT]) {
    /* the end of the year 9999; a clock beyond it is wrong anyway */
    const int64_t latest = (int64_t)253402300799 * 1000000 + 999999;
    int64_t us = dcpi_min(dcpi_max(microseconds, 0), latest), seconds = us / 1000000, of_day = seconds % 86400;
    int year, month, day;
    dcpi_time_date(seconds / 86400, &year, &month, &day);
    (void)snprintf(text, DCPI_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)year % 10000,
                   (unsigned)month % 100, (unsigned)day % 100,
                   (unsigned)(of_day / 3600) % 100, (unsigned)(of_day / 60 % 60), (unsigned)(of_day % 60),
                   (unsigned)(us % 1000000));
}
/* The number that `digits` decimal digits at *text make, or -1. *text moves on behind them and the character `after`
 * (0: none). */
static int64_t dcpi_time_number(const char **text, int digits, char after) {
    int64_t value = 0;
    int i;
    for (i = 0; i < digits; i++) {
        char c = (*text)[i];
        if (c < '0' || c > '9') return -1;
        value = value * 10 + (c - '0');
    }
    if (after && (*text)[digits] != after) return -1;
    *text += digits + (after ? 1 : 0);
    return value;
}
static int dcpi_time_fraction(const char **text, int *nanoseconds) {    /* "", or '.' and 1 to 9 digits */
    int scale = 100000000;
    *nanoseconds = 0;
    if (**text != '.') return 1;
    (*text)++;
    if (**text < '0' || **text > '9') return 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (scale == 0) return 0;
        *nanoseconds += (**text - '0') * scale;
        scale /= 10;
    }
    return 1;
}
static int dcpi_time_zone(const char *text, int64_t *seconds) {        /* "Z", "+hh:mm", "-hh:mm", or "" which is UTC */
    int64_t hours, minutes;
    char sign = *text;
    *seconds = 0;
    if (sign == '\0') return 1;
    text++;
    if (sign == 'Z') return *text == '\0';
    if (sign != '+' && sign != '-') return 0;
    hours = dcpi_time_number(&text, 2, ':');
    minutes = hours < 0 ? -1 : dcpi_time_number(&text, 2, '\0');
    if (hours > 23 || minutes < 0 || minutes > 59 || *text != '\0') return 0;
    *seconds = (hours * 60 + minutes) * (sign == '-' ? -60 : 60);
    return 1;
}
/* Reads an ISO 8601 time with 0 to 9 digits of a fraction. Seconds since 1970-01-01T00:00:00Z; 0: it is none. */
static int dcpi_time_parse(const char *text, int64_t *seconds, int *nanoseconds) {
    static const char before[6] = {'-', '-', 'T', ':', ':', '\0'};
    static const int digits[6] = {4, 2, 2, 2, 2, 2};
    static const int64_t highest[6] = {9999, 12, 31, 23, 59, 59}, lowest[6] = {1, 1, 1, 0, 0, 0};
    int64_t part[6], zone, days;
    int i, year, month, day;
    for (i = 0; i < 6; i++) {
        part[i] = dcpi_time_number(&text, digits[i], before[i]);
        if (part[i] < lowest[i] || part[i] > highest[i]) return 0;
    }
    days = dcpi_time_days(part[0], part[1], part[2]);
    dcpi_time_date(days, &year, &month, &day);
    if (day != part[2]) return 0;                                       /* the 30th of February */
    if (!dcpi_time_fraction(&text, nanoseconds) || !dcpi_time_zone(text, &zone)) return 0;
    *seconds = days * 86400 + part[3] * 3600 + part[4] * 60 + part[5] - zone;
    return 1;
}

/* ---- building: a dcp_metadata that owns its memory --------------------------------------------------------------- */
typedef struct dcpi_meta {
    dcp_metadata metadata;              /* first: what the program holds */
    dcpi_arena arena;                   /* strings, digests */
    int is_parsed;                      /* absent members are missing, not defaults */
    dcp_shard_metadata *shards; size_t shard_capacity;    /* = metadata.shards, unless the program has put in its own */
    dcp_tensor_metadata **tensors;      /* per shard: = shards[s].tensors, unless ... */
    size_t *tensor_capacities;
    size_t owned_shards;                /* entries of the two arrays above */
    dcp_field *fields; size_t field_capacity;
    /* what this document's texts belong to, if they are another's; NULL: none */
    void *kept; void (*free_kept)(void *kept);
} dcpi_meta;

static dcpi_meta *dcpi_meta_of(const dcp_metadata *metadata) { return (dcpi_meta *)metadata->internal; }

DCPDEF dcp_status dcp_metadata_new(dcp_metadata **out, dcp_error *err) {
    dcpi_meta *meta;
    if (!out) return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_new: out must not be NULL");
    *out = NULL;
    meta = (dcpi_meta *)dcpi_alloc_array(1, sizeof *meta, err);
    if (!meta) return DCP_E_MEMORY;
    meta->metadata.internal = meta;
    *out = &meta->metadata;
    return dcpi_succeed(err);
}
DCPDEF void dcp_metadata_free(dcp_metadata *metadata) {
    dcpi_meta *meta = metadata ? dcpi_meta_of(metadata) : NULL;
    size_t s;
    if (!meta) return;                                                  /* filled by hand: nothing here is ours */
    for (s = 0; s < meta->owned_shards; s++) dcpi_free(meta->tensors[s]);
    dcpi_free((void *)meta->tensors);
    dcpi_free(meta->tensor_capacities);
    dcpi_free(meta->shards);
    dcpi_free(meta->fields);
    dcpi_arena_free(&meta->arena);
    if (meta->kept) meta->free_kept(meta->kept);
    dcpi_free(meta);
}
static dcp_status dcpi_meta_builder(dcp_metadata *metadata, const void *argument, const char *function,
                                    dcp_error *err) {
    if (!metadata || !argument) return dcpi_fail(err, DCP_E_INVALID, "%s: an argument is NULL", function);
    if (!dcpi_meta_of(metadata))
        return dcpi_fail(err, DCP_E_INVALID,
                         "%s: this dcp_metadata was filled by hand; the builders need one of dcp_metadata_new",
                         function);
    return DCP_OK;
}
/* Copies *text, if any, into the arena. 0: out of memory. */
static int dcpi_meta_copy(dcpi_meta *meta, const char **text, dcp_error *err) {
    if (!*text) return 1;
    *text = dcpi_arena_text(&meta->arena, *text, strlen(*text), err);
    return *text != NULL;
}
DCPDEF dcp_status dcp_metadata_set_sharding(dcp_metadata *metadata, const dcp_sharding *sharding, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, sharding, "dcp_metadata_set_sharding", err);
    dcp_sharding copy;
    dcpi_meta *meta;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    copy = *sharding;
    if (!dcpi_meta_copy(meta, &copy.strategy, err) || !dcpi_meta_copy(meta, &copy.precision, err) ||
        !dcpi_meta_copy(meta, &copy.info, err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    metadata->sharding = copy;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_set_training(dcp_metadata *metadata, const dcp_training *training, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, training, "dcp_metadata_set_training", err);
    dcp_training copy;
    dcpi_meta *meta;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    copy = *training;
    if (!dcpi_meta_copy(meta, &copy.optimizer_type, err) || !dcpi_meta_copy(meta, &copy.optimizer_state, err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    metadata->training = copy;
    metadata->has_training = 1;
    return dcpi_succeed(err);
}
static size_t dcpi_meta_field(const dcp_metadata *metadata, const char *key) {     /* field_count: absent */
    size_t f;
    for (f = 0; f < metadata->field_count; f++) if (dcpi_same_text(metadata->fields[f].key, key)) break;
    return f;
}
DCPDEF const char *dcp_field_find(const dcp_metadata *metadata, const char *key) {
    size_t f;
    if (!metadata || !key) return NULL;
    f = dcpi_meta_field(metadata, key);
    return f < metadata->field_count ? metadata->fields[f].value : NULL;
}
/* Appends a field whose text is the arena's already. */
static dcp_status dcpi_meta_add_field(dcpi_meta *meta, const char *key, const char *value, dcp_error *err) {
    dcp_metadata *metadata = &meta->metadata;
    void *fields = meta->fields;
    if (!dcpi_grow(&fields, &meta->field_capacity, metadata->field_count + 1, sizeof *meta->fields, err))
        return DCP_E_MEMORY;
    meta->fields = metadata->fields = (dcp_field *)fields;
    metadata->fields[metadata->field_count].key = key;
    metadata->fields[metadata->field_count].value = value;
    metadata->field_count++;
    return DCP_OK;
}
DCPDEF dcp_status dcp_metadata_set_field(dcp_metadata *metadata, const char *key, const char *value, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, key, "dcp_metadata_set_field", err);
    dcpi_meta *meta;
    size_t f;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    f = dcpi_meta_field(metadata, key);
    if (!value) {
        if (f == metadata->field_count) return dcpi_succeed(err);
        metadata->field_count--;
        memmove(metadata->fields + f, metadata->fields + f + 1, (metadata->field_count - f) * sizeof *metadata->fields);
        return dcpi_succeed(err);
    }
    if (!dcpi_meta_copy(meta, &value, err)) return DCP_E_MEMORY;
    if (f < metadata->field_count) {
        metadata->fields[f].value = value;
        return dcpi_succeed(err);
    }
    if (!dcpi_meta_copy(meta, &key, err)) return DCP_E_MEMORY;
    status = dcpi_meta_add_field(meta, key, value, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}
/* Room for one more shard, in all three arrays. */
static dcp_status dcpi_meta_grow_shards(dcpi_meta *meta, dcp_error *err) {
    size_t count = meta->owned_shards, old = meta->shard_capacity, shard_capacity = old, tensor_capacity = old,
                   size_capacity = old;
    void *shards = meta->shards, *tensors = (void *)meta->tensors, *sizes = meta->tensor_capacities;
    int ok;
    ok = dcpi_grow(&shards, &shard_capacity, count + 1, sizeof *meta->shards, err);
    meta->shards = meta->metadata.shards = (dcp_shard_metadata *)shards;
    ok = ok && dcpi_grow(&tensors, &tensor_capacity, count + 1, sizeof *meta->tensors, err);
    meta->tensors = (dcp_tensor_metadata **)tensors;
    ok = ok && dcpi_grow(&sizes, &size_capacity, count + 1, sizeof *meta->tensor_capacities, err);
    meta->tensor_capacities = (size_t *)sizes;
    if (!ok) return DCP_E_MEMORY;                     /* shard_capacity is set last: it is what all three surely hold */
    meta->shard_capacity = shard_capacity;
    return DCP_OK;
}
/* Appends an empty shard. */
static dcp_status dcpi_meta_add_shard(dcpi_meta *meta, dcp_shard_metadata **out, dcp_error *err) {
    dcp_metadata *metadata = &meta->metadata;
    size_t s = metadata->shard_count;
    if (s >= (size_t)DCP_LIMIT_SHARDS)
        return dcpi_fail(err, DCP_E_LIMIT, "more than %d shards (DCP_LIMIT_SHARDS)", (int)DCP_LIMIT_SHARDS);
    if (dcpi_meta_grow_shards(meta, err) != DCP_OK) return DCP_E_MEMORY;
    memset(&metadata->shards[s], 0, sizeof metadata->shards[s]);
    meta->tensors[s] = NULL;
    meta->tensor_capacities[s] = 0;
    meta->owned_shards = metadata->shard_count = s + 1;
    *out = &metadata->shards[s];
    return DCP_OK;
}
/* Appends an empty tensor to a shard. */
static dcp_status dcpi_meta_add_tensor(dcpi_meta *meta, size_t s, dcp_tensor_metadata **out, dcp_error *err) {
    dcp_shard_metadata *shard = &meta->metadata.shards[s];
    void *tensors = meta->tensors[s];
    if (shard->tensor_count >= (size_t)DCP_LIMIT_TENSORS)
        return dcpi_fail(err, DCP_E_LIMIT, "more than %d tensors (DCP_LIMIT_TENSORS)", (int)DCP_LIMIT_TENSORS);
    if (!dcpi_grow(&tensors, &meta->tensor_capacities[s], shard->tensor_count + 1, sizeof **out, err))
        return DCP_E_MEMORY;
    shard->tensors = meta->tensors[s] = (dcp_tensor_metadata *)tensors;
    *out = &shard->tensors[shard->tensor_count++];
    memset(*out, 0, sizeof **out);
    return DCP_OK;
}
static dcp_status dcpi_meta_copy_tensor(dcpi_meta *meta, size_t s, const dcp_tensor_metadata *tensor, dcp_error *err) {
    dcp_tensor_metadata copy = *tensor, *added;
    uint8_t *digests;
    size_t bytes;
    if (!dcpi_meta_copy(meta, &copy.name, err) || !dcpi_meta_copy(meta, &copy.data_type, err) ||
        !dcpi_meta_copy(meta, &copy.placement, err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    if (copy.block_checksums) {
        if (!dcpi_mul_size(copy.block_count, 32, &bytes)) return dcpi_no_memory(err, SIZE_MAX);
        digests = (uint8_t *)dcpi_arena_alloc(&meta->arena, bytes, err);
        if (!digests) return DCP_E_MEMORY;
        memcpy(digests, copy.block_checksums, bytes);
        copy.block_checksums = digests;
    }
    if (dcpi_meta_add_tensor(meta, s, &added, err) != DCP_OK) return err ? err->status : DCP_E_MEMORY;
    *added = copy;
    return DCP_OK;
}
DCPDEF dcp_status dcp_metadata_add_tensor(dcp_metadata *metadata, size_t shard_index, const dcp_tensor_metadata *tensor,
                                          dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, tensor, "dcp_metadata_add_tensor", err);
    if (status != DCP_OK) return status;
    if (shard_index >= metadata->shard_count)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_add_tensor: shard_index is %" PRIu64 ", and there are %"
                         PRIu64 " shards", (uint64_t)shard_index, (uint64_t)metadata->shard_count);
    status = dcpi_meta_copy_tensor(dcpi_meta_of(metadata), shard_index, tensor, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}
DCPDEF dcp_status dcp_metadata_add_shard(dcp_metadata *metadata, const dcp_shard_metadata *shard, dcp_error *err) {
    dcp_status status = dcpi_meta_builder(metadata, shard, "dcp_metadata_add_shard", err);
    dcp_shard_metadata copy, *added;
    dcpi_meta *meta;
    size_t t;
    if (status != DCP_OK) return status;
    meta = dcpi_meta_of(metadata);
    copy = *shard;
    copy.tensors = NULL;
    copy.tensor_count = 0;
    if (!dcpi_meta_copy(meta, &copy.file_path, err) || !dcpi_meta_copy(meta, &copy.checksum, err) ||
        !dcpi_meta_copy(meta, &copy.extra, err)) return DCP_E_MEMORY;
    status = dcpi_meta_add_shard(meta, &added, err);
    if (status != DCP_OK) return status;
    *added = copy;
    for (t = 0; t < shard->tensor_count && status == DCP_OK; t++)
        status = dcpi_meta_copy_tensor(meta, metadata->shard_count - 1, &shard->tensors[t], err);
    if (status == DCP_OK) return dcpi_succeed(err);
    metadata->shard_count--;                                            /* all of it or nothing */
    return status;
}

/* ---- findings: what a validation collects ------------------------------------------------------------------------ */
/* Appends a copy. The array has room for 8, 16, 32, ... texts, so its capacity follows from the count. */
static dcp_status dcpi_validation_add(char ***list, size_t *count, const char *message) {
    size_t length = strlen(message), bytes;
    char *copy;
    if (*count == 0 || (*count >= 8 && dcpi_is_power_of_two(*count))) {
        char **grown;
        if (!dcpi_mul_size(*count == 0 ? 8 : *count * 2, sizeof **list, &bytes)) return DCP_E_MEMORY;
        grown = (char **)DCP_REALLOC((void *)*list, bytes);
        if (!grown) return DCP_E_MEMORY;
        *list = grown;
    }
    copy = (char *)dcpi_alloc(length + 1, NULL);
    if (!copy) return DCP_E_MEMORY;
    memcpy(copy, message, length + 1);
    (*list)[(*count)++] = copy;
    return DCP_OK;
}
DCPDEF dcp_status dcp_validation_error(dcp_validation *validation, const char *message) {
    if (!validation || !message) return DCP_E_INVALID;
    return dcpi_validation_add(&validation->errors, &validation->error_count, message);
}
DCPDEF dcp_status dcp_validation_warning(dcp_validation *validation, const char *message) {
    if (!validation || !message) return DCP_E_INVALID;
    return dcpi_validation_add(&validation->warnings, &validation->warning_count, message);
}
DCPDEF void dcp_validation_free(dcp_validation *validation) {
    size_t i;
    if (!validation) return;
    for (i = 0; i < validation->error_count; i++) dcpi_free(validation->errors[i]);
    for (i = 0; i < validation->warning_count; i++) dcpi_free(validation->warnings[i]);
    dcpi_free((void *)validation->errors);
    dcpi_free((void *)validation->warnings);
    memset(validation, 0, sizeof *validation);
}

/* ---- validation: every rule of the format. It reports and goes on, and assumes nothing of what another rule has found
 * wrong -- */
#define DCPI_META_NONE SIZE_MAX
#define DCPI_META_GAP ((int64_t)2 * 1024 * 1024)        /* the largest alignment: gaps are smaller */
#define DCPI_META_REGION 4096                           /* regions of a single file start at its multiples */
static const char dcpi_tree_prefix[] = "sha256-tree:";

typedef struct dcpi_member_words {       /* the members that have another name in a manifest */
    const char *type, *global_shape, *global_offset, *block_size, *block_checksums, *fields;
} dcpi_member_words;
static const dcpi_member_words dcpi_check_metadata_words = {"dataType", "globalShape", "globalOffset", "blockSize",
                                                            "blockChecksums", "customFields"};

typedef struct dcpi_checker {
    const dcpi_member_words *say;
    char prefix[64];     /* where the shards or members stand that are looked at: "router_state.layers[3]"; mostly "" */
    const dcp_metadata *metadata;
    dcp_validation *out;
    size_t shard, tensor;               /* what is looked at; DCPI_META_NONE: the whole document, the whole shard */
    int is_parsed;                      /* not built: absent members are missing, not defaults */
    int is_ours;         /* a save of ours wrote it (it has a save id): the rules that only our writer keeps hold too */
    int is_single;                      /* one file: the shards are regions of it */
    int no_memory;
    size_t more_errors, more_warnings;  /* beyond DCP_LIMIT_FINDINGS */
    const char *type_text; dcp_dtype type;      /* the data type looked up last: mostly they are all the same */
} dcpi_checker;

static void dcpi_check_report(dcpi_checker *c, int is_error, const char *member, const char *format,
                              va_list arguments) {
    size_t *count = is_error ? &c->out->error_count : &c->out->warning_count, used = 0;
    char message[768];
    if (*count >= (size_t)DCP_LIMIT_FINDINGS) {
        if (is_error) c->more_errors++; else c->more_warnings++;
        return;
    }
    used += (size_t)snprintf(message, sizeof c->prefix, "%s", c->prefix);
    if (c->shard != DCPI_META_NONE)
        used += (size_t)snprintf(message + used, 64, "%sshards[%" PRIu64 "]", used > 0 ? "." : "", (uint64_t)c->shard);
    if (c->tensor != DCPI_META_NONE)
        used += (size_t)snprintf(message + used, 64, ".tensors[%" PRIu64 "]", (uint64_t)c->tensor);
    used += (size_t)snprintf(message + used, 128, "%s%s: ", used > 0 && member[0] != '\0' ? "." : "", member);
    (void)vsnprintf(message + used, sizeof message - used, format, arguments);
    dcpi_message_clean(message, sizeof message);
    if (dcpi_validation_add(is_error ? &c->out->errors : &c->out->warnings, count, message) != DCP_OK) c->no_memory = 1;
}
static void dcpi_check_error(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_error(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, 1, member, format, arguments);
    va_end(arguments);
}
static void dcpi_check_warning(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_warning(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, 0, member, format, arguments);
    va_end(arguments);
}
/* An error in a document of ours, a warning in one of other writers. */
static void dcpi_check_strict(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_strict(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, c->is_ours, member, format, arguments);
    va_end(arguments);
}
/* An error in a document that is built, a warning in one that is there already: what is committed stays loadable. */
static void dcpi_check_doubt(dcpi_checker *c, const char *member, const char *format, ...) DCPI_PRINTF(3, 4);
static void dcpi_check_doubt(dcpi_checker *c, const char *member, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dcpi_check_report(c, !c->is_parsed, member, format, arguments);
    va_end(arguments);
}
static void dcpi_check_shown(dcpi_checker *c, const char *member, const char *name) {
    if (name && dcpi_has_orders(name))
        dcpi_check_doubt(c, member, "a character in it turns the direction of writing: it is shown as another name");
}
/* A NULL text is fine only where it stands for a default, which is: in a document that was built, not parsed. */
static int dcpi_meta_is_parsed(const dcp_metadata *metadata) {
    return metadata->internal && dcpi_meta_of(metadata)->is_parsed;
}

/* ---- one tensor */
static dcp_dtype dcpi_check_type_of(dcpi_checker *c, const char *text) {
    if (text == c->type_text) return c->type;
    c->type_text = text;
    c->type = dcp_dtype_parse(text);
    return c->type;
}
/* Elements of a shape; 0 if it is none. Dimensions of 0 must not hide that the others are too large: strides are made
 * of them. */
static int dcpi_check_elements(int ndim, const int64_t *shape, int64_t *elements) {
    int64_t count = 1, product = 1;
    int d;
    if (ndim < 0 || ndim > DCP_MAX_DIMS) return 0;
    for (d = 0; d < ndim; d++) {
        if (!dcpi_mul(product, dcpi_max(shape[d], 1), &product) || shape[d] < 0) return 0;
        count *= shape[d];
    }
    *elements = count;
    return 1;
}
static void dcpi_check_shape(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    int64_t elements, size;
    dcp_dtype type;
    int d;
    if (tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS) {
        dcpi_check_error(c, "shape", "%d dimensions; 0 to %d are possible", tensor->ndim, DCP_MAX_DIMS);
        return;
    }
    for (d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0) {
            dcpi_check_error(c, "shape", "dimension %d is negative: %" PRId64, d, tensor->shape[d]);
            return;
        }
    if (!dcpi_check_elements(tensor->ndim, tensor->shape, &elements)) {
        dcpi_check_error(c, "shape", "the number of elements does not fit in 64 bits");
        return;
    }
    type = dcpi_check_type_of(c, tensor->data_type);
    if (type == DCP_OPAQUE || tensor->size < 0) return;
    if (!dcpi_dtype_size(type, elements, &size)) {
        dcpi_check_error(c, "shape", "the size in bytes does not fit in 64 bits");
        return;
    }
    if (size != tensor->size)
        dcpi_check_error(c, "size", "%" PRId64 " bytes, but %" PRId64 " elements of %s have %" PRId64, tensor->size,
                         elements, tensor->data_type, size);
}
static void dcpi_check_type(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    if (!tensor->data_type || tensor->data_type[0] == '\0') {
        dcpi_check_error(c, c->say->type, "a data type is required");
        return;
    }
    if (dcpi_check_type_of(c, tensor->data_type) != DCP_OPAQUE) return;
    if (!dcpi_is_name(tensor->data_type, DCP_LIMIT_NAME)) {
        dcpi_check_error(c, c->say->type, "not a printable name");
        return;
    }
    dcpi_check_warning(c, c->say->type, "\"%.64s\" is unknown to this version; its size is not checked",
                       tensor->data_type);
}
static int dcpi_check_is_placement(const char *text) {
    return strcmp(text, "sharded") == 0 || strcmp(text, "replicated") == 0 || strcmp(text, "private") == 0;
}
/* One dimension of a piece in its whole. */
static int dcpi_check_global(dcpi_checker *c, const dcp_tensor_metadata *tensor, int d) {
    int64_t whole = tensor->global_shape[d], from = tensor->global_offset[d], count = tensor->shape[d], end;
    if (whole < 0) dcpi_check_error(c, c->say->global_shape, "dimension %d is negative: %" PRId64, d, whole);
    else if (from < 0) dcpi_check_error(c, c->say->global_offset, "dimension %d is negative: %" PRId64, d, from);
    else if (count >= 0 && (!dcpi_add(from, count, &end) || end > whole))
        dcpi_check_error(c, c->say->global_offset, "dimension %d: %" PRId64 " elements from %" PRId64
                         " on do not fit into %s's %" PRId64, d, count, from, c->say->global_shape, whole);
    else return count >= 0;
    return 0;
}
static void dcpi_check_placement(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    int64_t elements;
    int d, ndim = tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS ? 0 : tensor->ndim;
    if (!tensor->placement) {
        for (d = 0; d < ndim; d++) {
            if (tensor->global_shape[d] == 0 && tensor->global_offset[d] == 0) continue;
            dcpi_check_error(c, "placement", "a placement is required beside %s and %s", c->say->global_shape,
                             c->say->global_offset);
            return;
        }
        return;
    }
    if (!dcpi_check_is_placement(tensor->placement))
        dcpi_check_error(c, "placement", "\"%.64s\" is none of sharded, replicated, private", tensor->placement);
    for (d = 0; d < ndim; d++) if (!dcpi_check_global(c, tensor, d)) return;
    if (!dcpi_check_elements(ndim, tensor->global_shape, &elements))
        dcpi_check_error(c, c->say->global_shape, "the number of elements does not fit in 64 bits");
    if (strcmp(tensor->placement, "private") == 0 && ndim > 0 && memcmp(tensor->shape, tensor->global_shape,
                                                                        (size_t)ndim * sizeof tensor->shape[0]) != 0)
        dcpi_check_error(c, c->say->global_shape, "a private tensor is whole: it must equal the shape");
}
static void dcpi_check_blocks(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    int64_t size = tensor->block_size, wanted;
    if (size == 0) {
        if (tensor->block_count > 0)
            dcpi_check_error(c, c->say->block_size, "a block size is required beside %s", c->say->block_checksums);
        return;
    }
    if (size < 262144 || size > ((int64_t)1 << 30) || !dcpi_is_power_of_two((uint64_t)size)) {
        dcpi_check_error(c, c->say->block_size, "%" PRId64 " is not a power of two from 256 KiB to 1 GiB", size);
        return;
    }
    if (tensor->size < 0) return;
    wanted = tensor->size / size + (tensor->size % size != 0);
    if ((uint64_t)wanted != (uint64_t)tensor->block_count)
        dcpi_check_error(c, c->say->block_checksums, "%" PRIu64 " digests, but %" PRId64 " bytes have %" PRId64
                         " blocks of %" PRId64, (uint64_t)tensor->block_count,
                         tensor->size, wanted, size);
    else if (wanted > 0 && !tensor->block_checksums)
        dcpi_check_error(c, c->say->block_checksums, "the digests are missing");
}
static void dcpi_check_tensor(dcpi_checker *c, const dcp_tensor_metadata *tensor) {
    if (!tensor->name || tensor->name[0] == '\0') dcpi_check_error(c, "name", "a name is required");
    else if (!dcpi_is_name(tensor->name, DCP_LIMIT_NAME))
        dcpi_check_error(c, "name", "a name is UTF-8 without control characters, of at most %d bytes",
                         (int)DCP_LIMIT_NAME);
    else dcpi_check_shown(c, "name", tensor->name);
    if (tensor->offset < 0) dcpi_check_error(c, "offset", "must not be negative: %" PRId64, tensor->offset);
    if (tensor->size < 0) dcpi_check_error(c, "size", "must not be negative: %" PRId64, tensor->size);
    dcpi_check_type(c, tensor);
    dcpi_check_shape(c, tensor);
    dcpi_check_placement(c, tensor);
    dcpi_check_blocks(c, tensor);
}

/* ---- one shard */
static int dcpi_check_by_offset(const void *a, const void *b) {
    const dcp_tensor_metadata *x = (const dcp_tensor_metadata *)a, *y = (const dcp_tensor_metadata *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}
/* A shard's tensors in the order of their offsets: NULL where they stand so already, which our writer's always do. */
static dcp_status dcpi_check_offset_order(dcpi_checker *c, const dcp_shard_metadata *shard,
                                          const dcp_tensor_metadata ***out) {
    const dcp_tensor_metadata **order;
    size_t t;
    *out = NULL;
    for (t = 1; t < shard->tensor_count; t++) if (shard->tensors[t].offset < shard->tensors[t - 1].offset) break;
    if (t >= shard->tensor_count) return DCP_OK;
    c->tensor = t;
    dcpi_check_strict(c, "offset", "%" PRId64
                      " is before that of the tensor before it: tensors stand in the order of their offsets",
                      shard->tensors[t].offset);
    c->tensor = DCPI_META_NONE;
    order = (const dcp_tensor_metadata **)dcpi_alloc_array(shard->tensor_count, sizeof *order, NULL);
    if (!order) return DCP_E_MEMORY;
    for (t = 0; t < shard->tensor_count; t++) order[t] = &shard->tensors[t];
    if (dcpi_sort((const void **)order, shard->tensor_count, dcpi_check_by_offset, NULL) == DCP_OK) {
        *out = order;
        return DCP_OK;
    }
    dcpi_free((void *)order);
    return DCP_E_MEMORY;
}
/* One tensor's place: behind the end of those before it, inside the region, and for our writer aligned and without a
 * large gap. */
static void dcpi_check_place(dcpi_checker *c, const dcp_tensor_metadata *tensor, int64_t before, int64_t region_end) {
    int64_t end;
    if (tensor->offset < 0 || tensor->size < 0) return;                 /* said already */
    if (!dcpi_add(tensor->offset, tensor->size, &end)) {
        dcpi_check_error(c, "offset", "the tensor's end does not fit in 64 bits");
        return;
    }
    if (tensor->size > 0 && end > region_end)
        dcpi_check_error(c, "offset", "bytes %" PRId64 " to %" PRId64 " are beyond the shard's end at %" PRId64,
                         tensor->offset, end, region_end);
    if (tensor->size > 0 && tensor->offset < before)
        dcpi_check_error(c, "offset", "%" PRId64 " overlaps what is before it, which ends at %" PRId64, tensor->offset,
                         before);
    if (!c->is_ours) return;
    if (tensor->offset % 64 != 0) dcpi_check_error(c, "offset", "%" PRId64 " is not a multiple of 64", tensor->offset);
    if (tensor->offset >= before && tensor->offset - before >= DCPI_META_GAP)
        dcpi_check_error(c, "offset", "the gap before it, %" PRId64 " bytes, is larger than any alignment needs",
                         tensor->offset - before);
}
static void dcpi_check_places(dcpi_checker *c, const dcp_shard_metadata *shard) {
    const dcp_tensor_metadata **order;
    int64_t region = shard->data_offset, region_end, before = region, last = region, end;
    size_t t;
    if (region < 0 || shard->file_size < 0 || !dcpi_add(region, shard->file_size, &region_end)) return;
    if (dcpi_check_offset_order(c, shard, &order) != DCP_OK) { c->no_memory = 1; return; }
    for (t = 0; t < shard->tensor_count; t++) {
        const dcp_tensor_metadata *tensor = order ? order[t] : &shard->tensors[t];
        c->tensor = (size_t)(tensor - shard->tensors);
        dcpi_check_place(c, tensor, before, region_end);
        if (tensor->offset < 0 || tensor->size < 0 || !dcpi_add(tensor->offset, tensor->size, &end)) continue;
        if (tensor->size > 0) before = dcpi_max(before, end);
        last = dcpi_max(last, end);                       /* as before, or the aligned offset of an empty last tensor */
    }
    c->tensor = DCPI_META_NONE;
    dcpi_free((void *)order);
    if (c->is_ours && region_end != before && region_end != last)
        dcpi_check_error(c, "fileSize", "%" PRId64 " bytes, but the last tensor ends at %" PRId64, shard->file_size,
                         before - region);
}
/* The digest over all block digests of a shard. 0: some are missing, which has been said. */
static int dcpi_check_tree(dcpi_checker *c, const dcp_shard_metadata *shard, uint8_t digest[32]) {
    dcpi_sha sha;
    size_t t;
    dcpi_sha_init(&sha);
    for (t = 0; t < shard->tensor_count; t++) {
        const dcp_tensor_metadata *tensor = &shard->tensors[t];
        if (tensor->size > 0 && tensor->block_size == 0) {
            c->tensor = t;
            dcpi_check_error(c, "blockChecksums", "block digests are required with a sha256-tree checksum");
            c->tensor = DCPI_META_NONE;
            return 0;
        }
        if (tensor->block_count > 0 && !tensor->block_checksums) return 0;
        dcpi_sha_update(&sha, tensor->block_checksums, tensor->block_count * 32);
    }
    dcpi_sha_final(&sha, digest);
    return 1;
}
static void dcpi_check_no_blocks(dcpi_checker *c, const dcp_shard_metadata *shard) {
    size_t t;
    for (t = 0; t < shard->tensor_count; t++) {
        if (shard->tensors[t].block_count == 0) continue;
        c->tensor = t;
        dcpi_check_error(c, "blockChecksums", "block digests stand only beside a sha256-tree checksum of the shard");
        c->tensor = DCPI_META_NONE;
        return;
    }
}
static void dcpi_check_checksum(dcpi_checker *c, const dcp_shard_metadata *shard) {
    const size_t prefix = sizeof dcpi_tree_prefix - 1;
    uint8_t stated[32], digest[32];
    const char *digits = shard->checksum;
    int is_tree;
    if (!digits || digits[0] == '\0') {
        dcpi_check_warning(c, "checksum", "shard %d is missing its checksum", shard->rank);
        return;
    }
    is_tree = dcpi_starts_with(digits, dcpi_tree_prefix);
    if (is_tree) digits += prefix;
    if (strlen(digits) != 64 || !dcpi_hex_decode(digits, 64, stated)) {
        dcpi_check_error(c, "checksum", "\"%.96s\" is neither 64 hex digits nor sha256-tree: and 64 hex digits",
                         shard->checksum);
        return;
    }
    if (c->is_ours && strpbrk(digits, "ABCDEF")) dcpi_check_error(c, "checksum", "hex digits must be lower case");
    if (!is_tree) { dcpi_check_no_blocks(c, shard); return; }
    if (dcpi_check_tree(c, shard, digest) && !dcpi_sha_equal(digest, stated, 32))
        dcpi_check_error(c, "checksum", "it is not the SHA-256 of the shard's block digests");
}
/* ---- what digests cover: with a verifier, and when signing, every byte that a document names (DESIGN 2.6) */
/* bytes of blocks; others have no digest of their own */
typedef struct dcpi_cover { int64_t blocks; int is_bare; } dcpi_cover;

static void dcpi_cover_add(dcpi_cover *cover, int64_t size, int64_t block_size) {
    if (block_size <= 0) cover->is_bare |= size != 0;
    else if (!dcpi_add(cover->blocks, size, &cover->blocks)) cover->is_bare = 1;
}
/* A flat checksum is of the whole file. That of a tree is of the blocks, and what is between them is zero. Without
 * one, the blocks are the whole file, or it is not covered. size -1: not known. */
static int dcpi_cover_is_whole(const dcpi_cover *cover, const char *checksum, int64_t size) {
    const int is_tree = checksum && dcpi_starts_with(checksum, dcpi_tree_prefix);
    const char *digits = !checksum ? "" : is_tree ? checksum + sizeof dcpi_tree_prefix - 1 : checksum;
    uint8_t digest[32];
    if (strlen(digits) == 64 && dcpi_hex_decode(digits, 64, digest)) return !is_tree || !cover->is_bare;
    return !cover->is_bare && size == cover->blocks;
}
static const char dcpi_cover_words[] =
    "not every byte of it is covered by a checksum or by block digests, so a signature would vouch for bytes that "
    "anybody can change";

static void dcpi_check_path(dcpi_checker *c, const char *member, const char *path, int is_single) {
    if (!path || path[0] == '\0') dcpi_check_error(c, member, "a file path is required");
    else if (strlen(path) > (size_t)DCP_LIMIT_PATH)
        dcpi_check_error(c, member, "longer than %d bytes", (int)DCP_LIMIT_PATH);
    else if (!dcpi_key_is_valid(path))
        dcpi_check_error(c, member,
                         "\"%.200s\" is not a relative path that stays beside the document (parts joined by '/', none "
                         "empty, \".\" or "
                         "\"..\", no '\\', ':' or control characters)", path);
    else if (dcpi_is_reserved(path, is_single))
        dcpi_check_error(c, member, "\"%.200s\" has the name of a commit file, a lock or a temporary file, not of data",
                         path);
    else if (!dcpi_key_is_portable(path)) dcpi_check_doubt(c, member, "\"%.200s\": %s", path, dcpi_portable_words);
}
static void dcpi_check_shard(dcpi_checker *c, const dcp_shard_metadata *shard) {
    size_t t;
    dcpi_check_path(c, "filePath", shard->file_path, shard->data_offset != 0);
    if (shard->file_size < 0) dcpi_check_error(c, "fileSize", "must not be negative: %" PRId64, shard->file_size);
    if (shard->tensor_count > 0 && !shard->tensors) {
        dcpi_check_error(c, "tensors", "the tensors are missing");
        return;
    }
    for (t = 0; t < shard->tensor_count; t++) {
        c->tensor = t;
        dcpi_check_tensor(c, &shard->tensors[t]);
    }
    c->tensor = DCPI_META_NONE;
    dcpi_check_places(c, shard);
    dcpi_check_checksum(c, shard);
}

/* ---- the shards beside each other */
static void dcpi_check_ranks(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    uint8_t *seen = (uint8_t *)dcpi_alloc_array(m->shard_count, 1, NULL);
    size_t s;
    if (!seen) { c->no_memory = 1; return; }
    for (s = 0; s < m->shard_count; s++) {
        int rank = m->shards[s].rank;
        c->shard = s;
        if (rank < 0 || (size_t)rank >= m->shard_count)
            dcpi_check_error(c, "rank", "%d is not from 0 to %" PRIu64 ", the number of shards less one", rank,
                             (uint64_t)(m->shard_count - 1));
        else if (seen[rank]) dcpi_check_error(c, "rank", "%d stands there twice", rank);
        else seen[rank] = 1;
    }
    c->shard = DCPI_META_NONE;
    dcpi_free(seen);
}
static int dcpi_check_by_path(const void *a, const void *b) {
    const dcp_shard_metadata *x = (const dcp_shard_metadata *)a, *y = (const dcp_shard_metadata *)b;
    return strcmp(x->file_path, y->file_path);
}
/* One file may stand for several shards only if it is the same bytes each time. */
static void dcpi_check_paths(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    const dcp_shard_metadata **order = (const dcp_shard_metadata **)dcpi_alloc_array(m->shard_count, sizeof *order,
            NULL);
    size_t count = 0, s;
    if (!order) { c->no_memory = 1; return; }
    for (s = 0; s < m->shard_count; s++) if (m->shards[s].file_path) order[count++] = &m->shards[s];
    if (dcpi_sort((const void **)order, count, dcpi_check_by_path, NULL) != DCP_OK) c->no_memory = 1;
    for (s = 1; s < count && !c->no_memory; s++) {
        const dcp_shard_metadata *a = order[s - 1], *b = order[s];
        if (strcmp(a->file_path, b->file_path) != 0) continue;
        if (a->file_size == b->file_size && dcpi_same_text(a->checksum, b->checksum)) continue;
        c->shard = (size_t)(b - m->shards);
        dcpi_check_error(c, "filePath", "\"%.200s\" stands in shards[%" PRIu64 "] too, with another size or checksum",
                         b->file_path, (uint64_t)(a - m->shards));
    }
    c->shard = DCPI_META_NONE;
    dcpi_free((void *)order);
}
/* A single file: regions that follow each other, all in the one file. */
static void dcpi_check_regions(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    int64_t end = 0;
    size_t s;
    for (s = 0; s < m->shard_count; s++) {
        const dcp_shard_metadata *shard = &m->shards[s];
        c->shard = s;
        if (shard->data_offset <= 0) {
            dcpi_check_error(c, "dataOffset", "all shards have one, or none has");
            continue;
        }
        if (shard->data_offset % DCPI_META_REGION != 0)
            dcpi_check_error(c, "dataOffset", "%" PRId64 " is not a multiple of %d", shard->data_offset,
                             DCPI_META_REGION);
        if (shard->data_offset < end)
            dcpi_check_error(c, "dataOffset", "%" PRId64 " overlaps the region before it, which ends at %" PRId64,
                             shard->data_offset, end);
        else if (c->is_ours && end > 0 && shard->data_offset - end >= DCPI_META_GAP)
            dcpi_check_error(c, "dataOffset", "the gap before it, %" PRId64
                             " bytes, is larger than any alignment needs", shard->data_offset - end);
        if (!dcpi_same_text(shard->file_path, m->shards[0].file_path))
            dcpi_check_error(c, "filePath", "all regions of a single file have its name as their filePath");
        if (!dcpi_add(shard->data_offset, dcpi_max(shard->file_size, 0), &end)) {
            dcpi_check_error(c, "fileSize", "the region's end does not fit in 64 bits");
            end = INT64_MAX;
        }
    }
    c->shard = DCPI_META_NONE;
}

/* ---- tensors beside each other: a table by name. Somebody may have made names that collide, so the hash has a random
 * key: SipHash-1-3 */
/* tensor NULL: free */
typedef struct dcpi_name_slot { const dcp_tensor_metadata *tensor; uint32_t shard, tag; } dcpi_name_slot;
typedef struct dcpi_name_table {
    dcpi_name_slot *slots;
    size_t mask;
    uint64_t key[2];
    volatile uint32_t looked_at;
} dcpi_name_table;

static uint64_t dcpi_sip_rotate(uint64_t v, int bits) { return (v << bits) | (v >> (64 - bits)); }
static void dcpi_sip_round(uint64_t v[4]) {
    v[0] += v[1]; v[1] = dcpi_sip_rotate(v[1], 13); v[1] ^= v[0]; v[0] = dcpi_sip_rotate(v[0], 32);
    v[2] += v[3]; v[3] = dcpi_sip_rotate(v[3], 16); v[3] ^= v[2];
    v[0] += v[3]; v[3] = dcpi_sip_rotate(v[3], 21); v[3] ^= v[0];
    v[2] += v[1]; v[1] = dcpi_sip_rotate(v[1], 17); v[1] ^= v[2]; v[2] = dcpi_sip_rotate(v[2], 32);
}
static uint64_t dcpi_sip_hash(const uint64_t key[2], const char *text, size_t size) {
    uint64_t v[4], word;
    size_t i;
    v[0] = key[0] ^ 0x736f6d6570736575u; v[1] = key[1] ^ 0x646f72616e646f6du;
    v[2] = key[0] ^ 0x6c7967656e657261u; v[3] = key[1] ^ 0x7465646279746573u;
    for (i = 0; size - i >= 8; i += 8) {
        memcpy(&word, text + i, 8);                         /* in any byte order: the value never leaves this process */
        v[3] ^= word; dcpi_sip_round(v); v[0] ^= word;
    }
    word = 0;
    memcpy(&word, text + i, size - i);
    word ^= (uint64_t)size << 56;
    v[3] ^= word; dcpi_sip_round(v); v[0] ^= word;
    v[2] ^= 0xFF;
    dcpi_sip_round(v); dcpi_sip_round(v); dcpi_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
static int dcpi_name_table_make(dcpi_name_table *table, size_t count) {
    size_t slots = 16;
    while (slots < count || slots - count < slots / 2) {                /* at most half of the slots are taken */
        if (slots > SIZE_MAX / 2 / sizeof *table->slots) return 0;
        slots *= 2;
    }
    if (dcpi_os_random(table->key, sizeof table->key) != 0) table->key[0] = table->key[1] = (uint64_t)dcpi_os_wall_us();
    table->mask = slots - 1;
    table->slots = (dcpi_name_slot *)dcpi_alloc_array(slots, sizeof *table->slots, NULL);
    return table->slots != NULL;
}
static uint64_t dcpi_name_table_hash(const dcpi_name_table *table,
                                     const char *name) { return dcpi_sip_hash(table->key, name, strlen(name)); }

/* The slot of a name: with the tensor that stands there, or a free one. */
static dcpi_name_slot *dcpi_name_table_find(dcpi_name_table *table, const char *name, uint64_t hash) {
    size_t at = (size_t)hash & table->mask;
    for (;; at = (at + 1) & table->mask) {
        dcpi_name_slot *slot = &table->slots[at];
        if (slot->tensor && (slot->tag != (uint32_t)(hash >> 32) || strcmp(slot->tensor->name, name) != 0)) continue;
        slot->tag = (uint32_t)(hash >> 32);
        return slot;
    }
}
static int dcpi_check_same_type(const char *a, const char *b) {
    if (dcpi_same_text(a, b)) return 1;
    return a && b && dcp_dtype_parse(a) != DCP_OPAQUE && dcp_dtype_parse(a) == dcp_dtype_parse(b);
}
/* Two pieces of one tensor. What is private to a rank is that rank's own affair. */
static void dcpi_check_agreement(dcpi_checker *c, const dcp_tensor_metadata *a, const dcp_tensor_metadata *b) {
    int d;
    if (!dcpi_same_text(a->placement, b->placement)) {
        dcpi_check_error(c, "placement", "another piece of \"%.200s\" is %.32s, this one %.32s", b->name,
                         a->placement ? a->placement : "without placement",
                         b->placement ? b->placement : "without");
        return;
    }
    if (!b->placement || strcmp(b->placement, "private") == 0) return;
    if (!dcpi_check_same_type(a->data_type, b->data_type))
        dcpi_check_error(c, "dataType", "another piece of \"%.200s\" is %.32s, this one %.32s", b->name,
                         a->data_type ? a->data_type : "?", b->data_type ? b->data_type : "?");
    for (d = 0; a->ndim == b->ndim && d < DCP_MAX_DIMS && d < a->ndim; d++)
        if (a->global_shape[d] != b->global_shape[d]) break;
    if (a->ndim != b->ndim || (d < a->ndim && d < DCP_MAX_DIMS))
        dcpi_check_error(c, "globalShape", "another piece of \"%.200s\" has another one", b->name);
}
static int dcpi_check_by_piece(const void *a, const void *b) {          /* by name, then by place */
    const dcp_tensor_metadata *x = (const dcp_tensor_metadata *)a, *y = (const dcp_tensor_metadata *)b;
    int order = strcmp(x->name, y->name), d;
    for (d = 0; order == 0 && d < DCP_MAX_DIMS && d < x->ndim && d < y->ndim; d++)
        if (x->global_offset[d] != y->global_offset[d]) order = x->global_offset[d] < y->global_offset[d] ? -1 : 1;
    return order;
}
/* A shard in which a name stands more than once: then each time at another place. */
static void dcpi_check_repeats(dcpi_checker *c, const dcp_shard_metadata *shard) {
    const dcp_tensor_metadata **order = (const dcp_tensor_metadata **)dcpi_alloc_array(
            shard->tensor_count, sizeof *order, NULL);
    size_t count = 0, t;
    if (!order) { c->no_memory = 1; return; }
    for (t = 0; t < shard->tensor_count; t++) if (shard->tensors[t].name) order[count++] = &shard->tensors[t];
    if (dcpi_sort((const void **)order, count, dcpi_check_by_piece, NULL) != DCP_OK) c->no_memory = 1;
    for (t = 1; t < count && !c->no_memory; t++) {
        if (dcpi_check_by_piece(order[t - 1], order[t]) != 0) continue;
        c->tensor = (size_t)(order[t] - shard->tensors);
        dcpi_check_error(c, "name", "\"%.200s\" stands in tensors[%" PRIu64 "] too, at the same place", order[t]->name,
                         (uint64_t)(order[t - 1] - shard->tensors));
    }
    c->tensor = DCPI_META_NONE;
    dcpi_free((void *)order);
}
/* One tensor against those before it; 1: its name has stood in this shard already. */
static int dcpi_check_name_of(dcpi_checker *c, dcpi_name_table *table, const dcp_tensor_metadata *tensor,
                              uint64_t hash) {
    dcpi_name_slot *slot = dcpi_name_table_find(table, tensor->name, hash);
    int repeats = 0;
    if (slot->tensor) {
        dcpi_check_agreement(c, slot->tensor, tensor);
        repeats = slot->shard == (uint32_t)c->shard;
    }
    slot->tensor = tensor;
    slot->shard = (uint32_t)c->shard;
    return repeats;
}
/* The table is larger than a cache, and a slot is anywhere in it. So names are taken 32 at a time: all their slots are
 * looked at, which the processor does at once, and then used. */
static void dcpi_check_names_of(dcpi_checker *c, dcpi_name_table *table, size_t s) {
    const dcp_shard_metadata *shard = &c->metadata->shards[s];
    size_t count = shard->tensors ? shard->tensor_count : 0, from, t;
    uint64_t hash[32];
    uint32_t looked_at = 0;
    int repeats = 0;
    c->shard = s;
    for (from = 0; from < count; from += DCPI_COUNT(hash)) {
        size_t end = count - from < DCPI_COUNT(hash) ? count : from + DCPI_COUNT(hash);
        for (t = from; t < end; t++)
            hash[t - from] = shard->tensors[t].name ? dcpi_name_table_hash(table, shard->tensors[t].name) : 0;
        for (t = from; t < end; t++) looked_at |= table->slots[(size_t)hash[t - from] & table->mask].tag;
        for (t = from; t < end; t++) {
            c->tensor = t;
            if (shard->tensors[t].name) repeats |= dcpi_check_name_of(c, table, &shard->tensors[t], hash[t - from]);
        }
    }
    c->tensor = DCPI_META_NONE;
    table->looked_at = looked_at;                                       /* kept, or a compiler drops the looking */
    if (repeats) dcpi_check_repeats(c, shard);
    c->shard = DCPI_META_NONE;
}
static void dcpi_check_names(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    dcpi_name_table table;
    size_t count = 0, s;
    for (s = 0; s < m->shard_count; s++)
        if (m->shards[s].tensors && !dcpi_add_size(count, m->shards[s].tensor_count, &count)) count = SIZE_MAX;
    if (count > (size_t)DCP_LIMIT_TENSORS) {
        dcpi_check_error(c, "shards", "more than %d tensors (DCP_LIMIT_TENSORS)", (int)DCP_LIMIT_TENSORS);
        return;
    }
    if (!dcpi_name_table_make(&table, count)) { c->no_memory = 1; return; }
    for (s = 0; s < m->shard_count; s++) dcpi_check_names_of(c, &table, s);
    dcpi_free(table.slots);
}

/* ---- the document */
/* The major number of a version such as "1.0.0"; -1: it is none. */
static int64_t dcpi_version_major(const char *version) {
    int64_t major = -1, part = 0;
    const char *text = version;
    if (strlen(version) > 31) return -1;
    for (;;) {
        if (*text < '0' || *text > '9') return -1;
        for (part = 0; *text >= '0' && *text <= '9'; text++) part = dcpi_min(part * 10 + (*text - '0'), INT32_MAX);
        if (major < 0) major = part;
        if (*text == '\0') return major;
        if (*text++ != '.') return -1;
    }
}
static int dcpi_version_is_newer(const char *version) {
    return dcpi_version_major(version) > dcpi_version_major(DCP_FORMAT_VERSION);
}

static void dcpi_check_head(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    int64_t seconds;
    int nanoseconds;
    if (m->version ? m->version[0] == '\0' : c->is_parsed) dcpi_check_error(c, "version", "a version is required");
    else if (m->version && dcpi_version_major(m->version) < 0)
        dcpi_check_error(c, "version", "\"%.64s\" is not a version such as " DCP_FORMAT_VERSION, m->version);
    else if (m->version && dcpi_version_is_newer(m->version))
        dcpi_check_error(c, "version", "\"%s\" is newer than this program, which knows " DCP_FORMAT_VERSION,
                         m->version);
    if (!m->timestamp) { if (c->is_parsed) dcpi_check_strict(c, "timestamp", "a timestamp is required"); }
    else if (!dcpi_time_parse(m->timestamp, &seconds, &nanoseconds))
        dcpi_check_error(c, "timestamp", "\"%.64s\" is not a time such as 2026-11-20T12:00:00.123456Z", m->timestamp);
    if (m->world_size < 1) dcpi_check_strict(c, "worldSize", "must be at least 1: %d", m->world_size);
    if (m->ddp_rank < 0 || (m->world_size >= 1 && m->ddp_rank >= m->world_size))
        dcpi_check_strict(c, "ddpRank", "%d is not from 0 to the world size less one", m->ddp_rank);
    if (m->save_id && !dcpi_is_save_id(m->save_id))
        dcpi_check_error(c, "saveId", "\"%.64s\" is not 16 lower-case hex digits", m->save_id);
    if (m->sequence < 0) dcpi_check_error(c, "sequence", "must not be negative: %" PRId64, m->sequence);
    if (m->has_training && !dcpi_double_is_finite(m->training.learning_rate))
        dcpi_check_error(c, "training.learningRate", "must be finite");
}
static void dcpi_check_sharding(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    int64_t expected = m->sharding.shard_count;
    int is_default = expected == 0 && !c->is_parsed;         /* the number of shards there are */
    if (!m->sharding.strategy) dcpi_check_error(c, "sharding", "sharding metadata is required");
    else if (m->sharding.strategy[0] == '\0') dcpi_check_warning(c, "sharding.strategy", "no strategy is given");
    if (m->shard_count == 0 || !m->shards) { dcpi_check_error(c, "shards", "at least one shard is required"); return; }
    if (is_default) expected = (int64_t)m->shard_count;
    if ((m->sharding.strategy || expected != 0) && (uint64_t)expected != (uint64_t)m->shard_count)
        dcpi_check_error(c, "sharding.shardCount", "shard count mismatch: expected %" PRId64 ", found %" PRIu64,
                         expected, (uint64_t)m->shard_count);
    else if (c->is_ours && expected != m->world_size)
        dcpi_check_error(c, "sharding.shardCount", "%" PRId64 " shards, but worldSize is %d", expected, m->world_size);
}
static int dcpi_check_by_key(const void *a, const void *b) {
    return strcmp(((const dcp_field *)a)->key, ((const dcp_field *)b)->key);
}

static void dcpi_check_fields(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    const dcp_field **order;
    size_t count = 0, f;
    if (m->field_count > 0 && !m->fields) { dcpi_check_error(c, c->say->fields, "the fields are missing"); return; }
    order = (const dcp_field **)dcpi_alloc_array(m->field_count, sizeof *order, NULL);
    if (!order) { c->no_memory = 1; return; }
    for (f = 0; f < m->field_count; f++) {
        if (m->fields[f].key && m->fields[f].value) order[count++] = &m->fields[f];
        else
            dcpi_check_error(c, c->say->fields, "field %" PRIu64 " has no %s", (uint64_t)f,
                             m->fields[f].key ? "value" : "key");
    }
    if (dcpi_sort((const void **)order, count, dcpi_check_by_key, NULL) != DCP_OK) c->no_memory = 1;
    for (f = 1; f < count && !c->no_memory; f++)
        if (strcmp(order[f - 1]->key, order[f]->key) == 0)
            dcpi_check_error(c, c->say->fields, "the key \"%.200s\" stands there twice", order[f]->key);
    dcpi_free((void *)order);
}
static void dcpi_check_shards(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    size_t s;
    if (m->shard_count == 0 || !m->shards) return;
    for (s = 0; s < m->shard_count; s++) {
        c->shard = s;
        dcpi_check_shard(c, &m->shards[s]);
        if (m->shards[s].data_offset != 0) c->is_single = 1;
    }
    c->shard = DCPI_META_NONE;
    dcpi_check_ranks(c);
    dcpi_check_names(c);
    if (c->is_single) dcpi_check_regions(c); else dcpi_check_paths(c);
}
static void dcpi_check_more(dcpi_checker *c) {                          /* the last line of a list that was cut */
    char message[64];
    int failed = 0;
    if (c->more_errors > 0) {
        (void)snprintf(message, sizeof message, "... and %" PRIu64 " more errors", (uint64_t)c->more_errors);
        failed |= dcp_validation_error(c->out, message) != DCP_OK;
    }
    if (c->more_warnings > 0) {
        (void)snprintf(message, sizeof message, "... and %" PRIu64 " more warnings", (uint64_t)c->more_warnings);
        failed |= dcp_validation_warning(c->out, message) != DCP_OK;
    }
    if (failed) c->no_memory = 1;
}
/* The JSON text that a program has put into a built document. Defined with the writer, which refuses the same. */
static void dcpi_check_texts(dcpi_checker *c);

DCPDEF dcp_status dcp_metadata_validate(const dcp_metadata *metadata, dcp_validation *out) {
    dcpi_checker c;
    if (out) memset(out, 0, sizeof *out);
    if (!metadata || !out) return DCP_E_INVALID;
    memset(&c, 0, sizeof c);
    c.say = &dcpi_check_metadata_words;
    c.metadata = metadata;
    c.out = out;
    c.shard = c.tensor = DCPI_META_NONE;
    c.is_parsed = dcpi_meta_is_parsed(metadata);
    c.is_ours = metadata->save_id != NULL;
    c.type = DCP_OPAQUE;
    dcpi_check_head(&c);
    dcpi_check_sharding(&c);
    dcpi_check_shards(&c);
    dcpi_check_fields(&c);
    dcpi_check_texts(&c);
    dcpi_check_more(&c);
    if (c.no_memory) return DCP_E_MEMORY;
    return out->error_count > 0 ? DCP_E_FORMAT : DCP_OK;
}
/* What a validation has found, for an operation that needs a good document: the first error, and how many more there
 * are. */
static dcp_status dcpi_meta_checked(dcp_status status, const char *path, const dcp_validation *found, dcp_error *err) {
    if (status == DCP_E_FORMAT && found->error_count > 1)
        (void)dcpi_fail(err, status, "%s: %s (and %" PRIu64 " more errors)", path, found->errors[0],
                        (uint64_t)(found->error_count - 1));
    else if (status == DCP_E_FORMAT) (void)dcpi_fail(err, status, "%s: %s", path, found->errors[0]);
    else if (status == DCP_E_MEMORY)
        (void)dcpi_fail(err, status, "%s: out of memory while checking the document", path);
    else if (status != DCP_OK) (void)dcpi_fail(err, status, "%s: there is no document to check", path);
    else (void)dcpi_succeed(err);
    return status;
}
/* Validates for such an operation; the warnings are in *found, which is freed in any case. */
static dcp_status dcpi_meta_check(const dcp_metadata *metadata, const char *path, dcp_validation *found,
                                  dcp_error *err) {
    return dcpi_meta_checked(dcp_metadata_validate(metadata, found), path, found, err);
}

/* ---- the schema: which members each object has. Reading goes by these tables, and writing refuses an `extra` member
 * that is in them  */
typedef enum dcpi_kind {                /* what is read, and into what */
    DCPI_KIND_TEXT,                     /* const char * in the arena */
    DCPI_KIND_VERSION,                  /* the same; a newer one ends the parsing */
    DCPI_KIND_TYPE, DCPI_KIND_PLACEMENT,/* const char *, one of ours where it is known */
    DCPI_KIND_INT, DCPI_KIND_INT64, DCPI_KIND_NUMBER,
    DCPI_KIND_OBJECT,                   /* const char *: the text of an object */
    DCPI_KIND_SHAPE, DCPI_KIND_GLOBAL_SHAPE, DCPI_KIND_GLOBAL_OFFSET, DCPI_KIND_DIGESTS,
    DCPI_KIND_SHARDING, DCPI_KIND_TRAINING, DCPI_KIND_FIELDS, DCPI_KIND_SHARDS, DCPI_KIND_TENSORS,
    DCPI_KIND_SIGNATURE, DCPI_KIND_INTEGRITY,           /* read before, as bytes */
    DCPI_KIND_TIERS, DCPI_KIND_POOL, DCPI_KIND_OPTIMIZER, DCPI_KIND_ROUTER, DCPI_KIND_LAYERS, DCPI_KIND_READER,
        DCPI_KIND_EXPERT_KEY,
    DCPI_KIND_BUDGET, DCPI_KIND_SEED                    /* of a manifest */
} dcpi_kind;
/* addition: to the seed's format */
typedef struct dcpi_member { dcpi_kind kind; size_t offset; int is_addition; } dcpi_member;
typedef struct dcpi_record {
    const char *path;                   /* of its members, in messages, before the name */
    const char *const *names; const dcpi_member *members; int count;    /* in the same order, at most 64 */
    size_t extra;                       /* offset of `extra` */
    int depth;                          /* arrays and objects around it */
} dcpi_record;

static const char *const dcpi_top_names[] = {
    "version", "timestamp", "worldSize", "ddpRank", "saveId", "sequence", "sharding", "shards", "training",
        "customFields",
    "signature", "integrity"
};
static const dcpi_member dcpi_top_members[] = {
    {DCPI_KIND_VERSION, offsetof(dcp_metadata, version), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_metadata, timestamp), 0},
    {DCPI_KIND_INT, offsetof(dcp_metadata, world_size), 0},
    {DCPI_KIND_INT, offsetof(dcp_metadata, ddp_rank), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_metadata, save_id), 1},
    {DCPI_KIND_INT64, offsetof(dcp_metadata, sequence), 1},
    {DCPI_KIND_SHARDING, offsetof(dcp_metadata, sharding), 0},
    {DCPI_KIND_SHARDS, 0, 0},
    {DCPI_KIND_TRAINING, offsetof(dcp_metadata, training), 0},
    {DCPI_KIND_FIELDS, 0, 0},
    {DCPI_KIND_SIGNATURE, 0, 1},
    {DCPI_KIND_INTEGRITY, 0, 1}
};
static const char *const dcpi_sharding_names[] = {
    "strategy", "shardCount", "precision", "strategySpecificInfo"
};
static const dcpi_member dcpi_sharding_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_sharding, strategy), 0},
    {DCPI_KIND_INT64, offsetof(dcp_sharding, shard_count), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_sharding, precision), 0},
    {DCPI_KIND_OBJECT, offsetof(dcp_sharding, info), 0}
};
static const char *const dcpi_shard_names[] = {
    "rank", "filePath", "fileSize", "dataOffset", "tensors", "checksum"
};
static const dcpi_member dcpi_shard_members[] = {
    {DCPI_KIND_INT, offsetof(dcp_shard_metadata, rank), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_shard_metadata, file_path), 0},
    {DCPI_KIND_INT64, offsetof(dcp_shard_metadata, file_size), 0},
    {DCPI_KIND_INT64, offsetof(dcp_shard_metadata, data_offset), 1},
    {DCPI_KIND_TENSORS, 0, 0},
    {DCPI_KIND_TEXT, offsetof(dcp_shard_metadata, checksum), 0}
};
static const char *const dcpi_tensor_names[] = {
    "name", "shape", "dataType", "offset", "size", "globalShape", "globalOffset", "placement", "blockSize",
        "blockChecksums"
};
static const dcpi_member dcpi_tensor_members[] = {
    {DCPI_KIND_TEXT, offsetof(dcp_tensor_metadata, name), 0},
    {DCPI_KIND_SHAPE, offsetof(dcp_tensor_metadata, shape), 0},
    {DCPI_KIND_TYPE, offsetof(dcp_tensor_metadata, data_type), 0},
    {DCPI_KIND_INT64, offsetof(dcp_tensor_metadata, offset), 0},
    {DCPI_KIND_INT64, offsetof(dcp_tensor_metadata, size), 0},
    {DCPI_KIND_GLOBAL_SHAPE, offsetof(dcp_tensor_metadata, global_shape), 1},
    {DCPI_KIND_GLOBAL_OFFSET, offsetof(dcp_tensor_metadata, global_offset), 1},
    {DCPI_KIND_PLACEMENT, offsetof(dcp_tensor_metadata, placement), 1},
    {DCPI_KIND_INT64, offsetof(dcp_tensor_metadata, block_size), 1},
    {DCPI_KIND_DIGESTS, 0, 1}
};
static const char *const dcpi_training_names[] = {
    "epoch", "step", "learningRate", "optimizerType", "optimizerState"
};
static const dcpi_member dcpi_training_members[] = {
    {DCPI_KIND_INT64, offsetof(dcp_training, epoch), 0},
    {DCPI_KIND_INT64, offsetof(dcp_training, step), 0},
    {DCPI_KIND_NUMBER, offsetof(dcp_training, learning_rate), 0},
    {DCPI_KIND_TEXT, offsetof(dcp_training, optimizer_type), 0},
    {DCPI_KIND_OBJECT, offsetof(dcp_training, optimizer_state), 0}
};
static const dcpi_record dcpi_top_record = {"", dcpi_top_names, dcpi_top_members, (int)DCPI_COUNT(dcpi_top_members),
                                               offsetof(dcp_metadata, extra), 0};
static const dcpi_record dcpi_sharding_record = {"sharding.", dcpi_sharding_names, dcpi_sharding_members,
                                                 (int)DCPI_COUNT(dcpi_sharding_members),
                                               offsetof(dcp_sharding, extra), 1};
static const dcpi_record dcpi_training_record = {"training.", dcpi_training_names, dcpi_training_members,
                                                 (int)DCPI_COUNT(dcpi_training_members),
                                               offsetof(dcp_training, extra), 1};
static const dcpi_record dcpi_shard_record = {"", dcpi_shard_names, dcpi_shard_members,
                                              (int)DCPI_COUNT(dcpi_shard_members), offsetof(dcp_shard_metadata, extra),
                                              2};
static const dcpi_record dcpi_tensor_record = {"", dcpi_tensor_names, dcpi_tensor_members,
                                               (int)DCPI_COUNT(dcpi_tensor_members),
                                               offsetof(dcp_tensor_metadata, extra), 4};

/* ---- JSON text that a program has put in: checked as strictly as what is read, as deep as it will stand ---------- */
/* `text` must be members that the record does not have. */
static int dcpi_text_check_members(dcpi_json_reader *r, const dcpi_record *record) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(r, &o, record->names, record->count);
    while (done && dcpi_json_member(r, &o)) {
        if (o.member >= 0) return dcpi_json_fail(r, o.key_at, "\"%s\" is a field of its own", record->names[o.member]);
        done = dcpi_json_skip(r, NULL);
    }
    if (done && !r->status && o.count == 1) return dcpi_json_fail(r, r->at, "there is no member");
    return done && !r->status;
}
/* One object (record NULL), or members of the record's object. depth: arrays and objects around the text. */
/* is_given: by a program, which dcp_json_parse must be able to read again; what another writer's document had is kept
 * as it was. */
static dcp_status dcpi_text_check(const char *text, int depth, const dcpi_record *record, int is_given,
                                  dcp_error *err) {
    dcpi_buffer braced = {NULL, 0, 0, 0};
    dcpi_arena arena = {NULL};
    dcpi_json_reader r;
    int done;
    if (record) dcpi_buffer_add(&braced, "{", 1);
    dcpi_buffer_text(&braced, text);
    if (record) dcpi_buffer_add(&braced, "}", 1);
    if (braced.failed) { dcpi_buffer_free(&braced); return dcpi_no_memory(err, strlen(text)); }

    dcpi_json_begin(&r, braced.data ? braced.data : "", braced.size, &arena, err);
    r.depth = depth;
    r.finite = is_given;
    if (record) done = dcpi_text_check_members(&r, record);
    else done = dcpi_json_peek(&r) == '{' ? dcpi_json_skip(&r, NULL) : dcpi_json_fail(&r, r.at, "expected an object");
    if (done) (void)dcpi_json_end(&r);
    dcpi_json_close(&r);
    dcpi_arena_free(&arena);
    dcpi_buffer_free(&braced);
    if (r.status != DCP_E_FORMAT) return r.status;
    if (err) err->status = DCP_E_INVALID;                               /* it is an argument's text, not a file's */
    return DCP_E_INVALID;
}
static void dcpi_check_text(dcpi_checker *c, const char *member, const char *text, int depth,
                            const dcpi_record *record) {
    dcp_error err;
    dcp_status status = text ? dcpi_text_check(text, depth, record, !c->is_parsed, &err) : DCP_OK;
    if (status == DCP_E_MEMORY) c->no_memory = 1;
    else if (status != DCP_OK)
        dcpi_check_error(c, member, "not a JSON %s: %s", record ? "member list" : "object", err.message);
}
static void dcpi_check_words(dcpi_checker *c, const char *member, const char *text) {
    if (text && !dcpi_is_utf8(text)) dcpi_check_error(c, member, "not valid UTF-8");
}
static void dcpi_check_texts_of_shard(dcpi_checker *c, size_t s) {
    const dcp_shard_metadata *shard = &c->metadata->shards[s];
    size_t t;
    c->shard = s;
    dcpi_check_text(c, "extra", shard->extra, dcpi_shard_record.depth, &dcpi_shard_record);
    for (t = 0; shard->tensors && t < shard->tensor_count; t++) {
        if (!shard->tensors[t].extra) continue;
        c->tensor = t;
        dcpi_check_text(c, "extra", shard->tensors[t].extra, dcpi_tensor_record.depth, &dcpi_tensor_record);
        c->tensor = DCPI_META_NONE;
    }
    c->shard = DCPI_META_NONE;
}
static void dcpi_check_texts(dcpi_checker *c) {
    const dcp_metadata *m = c->metadata;
    size_t i;
    dcpi_check_words(c, "sharding.strategy", m->sharding.strategy);
    dcpi_check_words(c, "sharding.precision", m->sharding.precision);
    dcpi_check_text(c, "sharding.strategySpecificInfo", m->sharding.info, 2, NULL);
    dcpi_check_text(c, "sharding.extra", m->sharding.extra, dcpi_sharding_record.depth, &dcpi_sharding_record);
    if (m->has_training) {
        dcpi_check_words(c, "training.optimizerType", m->training.optimizer_type);
        dcpi_check_text(c, "training.optimizerState", m->training.optimizer_state, 2, NULL);
        dcpi_check_text(c, "training.extra", m->training.extra, dcpi_training_record.depth, &dcpi_training_record);
    }
    for (i = 0; m->fields && i < m->field_count; i++) {
        dcpi_check_words(c, "customFields", m->fields[i].key);
        dcpi_check_words(c, "customFields", m->fields[i].value);
    }
    dcpi_check_text(c, "extra", m->extra, dcpi_top_record.depth, &dcpi_top_record);
    for (i = 0; m->shards && i < m->shard_count; i++) dcpi_check_texts_of_shard(c, i);
}

/* A tensor as it is written, part by part. */
#define DCPI_TENSOR_NAME "{ \"name\": "
#define DCPI_TENSOR_SHAPE ", \"shape\": "
#define DCPI_TENSOR_TYPE ", \"dataType\": "
#define DCPI_TENSOR_OFFSET ", \"offset\": "
#define DCPI_TENSOR_SIZE ", \"size\": "
#define DCPI_TENSOR_GLOBAL_SHAPE ",\n          \"globalShape\": "
#define DCPI_TENSOR_GLOBAL_OFFSET ", \"globalOffset\": "
#define DCPI_TENSOR_PLACEMENT ", \"placement\": "
#define DCPI_TENSOR_BLOCK_SIZE " \"blockSize\": "
#define DCPI_TENSOR_BLOCKS ", \"blockChecksums\": "
#define DCPI_TENSOR_END " }"

/* ---- writing: one function per record, in the order of the schema ------------------------------------------------ */
/* Where a document's shards and tensors come from while it is written: the structs of a dcp_metadata, or a save's own
 * compact lists, one at a time. What the functions hand out needs to live until the next call. */
typedef struct dcpi_meta_source {
    const dcp_metadata *head;           /* all but shards and shard_count */
    size_t shard_count; void *user;
    /* out comes zeroed; `tensors` is not used */
    dcp_status (*shard)(void *user, size_t s, dcp_shard_metadata *out, dcp_error *err);
    dcp_status (*tensor)(void *user, size_t s, size_t t, dcp_tensor_metadata *out, dcp_error *err);
} dcpi_meta_source;

static dcp_status dcpi_meta_source_shard(void *user, size_t s, dcp_shard_metadata *out, dcp_error *err) {
    *out = ((const dcp_metadata *)user)->shards[s];
    return dcpi_succeed(err);
}
static dcp_status dcpi_meta_source_tensor(void *user, size_t s, size_t t, dcp_tensor_metadata *out, dcp_error *err) {
    *out = ((const dcp_metadata *)user)->shards[s].tensors[t];
    return dcpi_succeed(err);
}
static void dcpi_meta_source_of(const dcp_metadata *metadata, dcpi_meta_source *out) {
    out->head = metadata;
    out->shard_count = metadata->shards ? metadata->shard_count : 0;
    out->user = (void *)metadata;
    out->shard = dcpi_meta_source_shard;
    out->tensor = dcpi_meta_source_tensor;
}

typedef struct dcpi_emitter {
    dcpi_writer json;
    char chunk[16384];
    const dcpi_meta_source *source;
    dcp_error *err;
    size_t shard, tensor;               /* what is being written, for messages; DCPI_META_NONE */
    const char *member;
    int is_parsed;                      /* the document was: its free-form texts are another writer's */
    int is_signed; dcpi_cover cover;    /* cover: of the shard that is being written */
} dcpi_emitter;

#define DCPI_PUT(e, literal) dcpi_write_raw(&(e)->json, literal, sizeof(literal) - 1)
#define DCPI_LITERAL(text) text, sizeof(text) - 1
#define DCPI_EMIT_RUN 1024         /* more than what is put down after one dcpi_emit_room: two shapes and their names */

/* Millions of tensors are written: short parts go down one after another, in room that was made for all of them. */
static char *dcpi_emit_room(dcpi_emitter *e) {
    if (e->json.capacity - e->json.used < DCPI_EMIT_RUN) dcpi_writer_flush(&e->json);
    return e->json.buffer + e->json.used;
}
static void dcpi_emit_took(dcpi_emitter *e, const char *end) { e->json.used = (size_t)(end - e->json.buffer); }
static char *dcpi_put(char *to, const char *text, size_t size) {
    memcpy(to, text, size);
    return to + size;
}
static char *dcpi_put_int(char *to, int64_t value) {
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, scale;
    size_t digits = 1, i;
    if (value < 0) *to++ = '-';
    for (scale = rest; scale >= 10; scale /= 10) digits++;
    for (i = digits; i-- > 0; rest /= 10) to[i] = (char)('0' + rest % 10);
    return to + digits;
}
static char *dcpi_put_numbers(char *to, const int64_t *values, int count) {
    int i;
    *to++ = '[';
    for (i = 0; i < count; i++) {
        if (i > 0) to = dcpi_put(to, DCPI_LITERAL(", "));
        to = dcpi_put_int(to, values[i]);
    }
    *to++ = ']';
    return to;
}
/* Neither quotes, backslashes and control characters nor anything beyond ASCII. */
static int dcpi_text_is_plain(const char *text, size_t length) {
    size_t i = 0;
    for (; length - i >= 8; i += 8) if (dcpi_json_is_special(text + i)) return 0;
    for (; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x80 || text[i] == '"' || text[i] == '\\')
            return 0;
    return 1;
}
static dcp_status dcpi_emit_fail(dcpi_emitter *e, const char *member, const char *what) {
    e->member = member;
    if (e->json.status == DCP_OK) e->json.status = dcpi_fail(e->err, DCP_E_INVALID, "%s", what);
    return e->json.status;
}
static dcp_status dcpi_emit_covered(dcpi_emitter *e, const char *checksum, int64_t size) {
    if (!e->is_signed || e->json.status != DCP_OK || dcpi_cover_is_whole(&e->cover, checksum, size))
        return e->json.status;
    e->member = "checksum";
    e->json.status = dcpi_fail(e->err, DCP_E_SIGNATURE, "the document cannot be signed: %s", dcpi_cover_words);
    return e->json.status;
}
static void dcpi_emit_text(dcpi_emitter *e, const char *member, const char *text) {
    size_t length;
    if (e->json.status != DCP_OK) return;
    if (!text) { (void)dcpi_emit_fail(e, member, "it must not be NULL"); return; }
    length = strlen(text);
    if (!dcpi_text_is_plain(text, length)) {
        if (dcpi_is_utf8(text)) dcpi_write_string(&e->json, text, length);
        else (void)dcpi_emit_fail(e, member, "it is not valid UTF-8");
        return;
    }
    DCPI_PUT(e, "\"");
    dcpi_write_raw(&e->json, text, length);
    DCPI_PUT(e, "\"");
}
static void dcpi_emit_json(dcpi_emitter *e, const char *member, const char *text, int depth,
                           const dcpi_record *record) {
    dcp_error reason;
    if (e->json.status != DCP_OK) return;
    e->json.status = dcpi_text_check(text, depth, record, !e->is_parsed, &reason);
    e->member = member;
    if (e->json.status == DCP_OK) dcpi_write_text(&e->json, text);
    else
        (void)dcpi_fail(e->err, e->json.status, "not a JSON %s: %s", record ? "member list" : "object", reason.message);
}
static void dcpi_emit_extra(dcpi_emitter *e, const char *between, const char *text, const char *member,
                            const dcpi_record *record) {
    if (!text) return;
    dcpi_write_text(&e->json, between);
    dcpi_emit_json(e, member, text, record->depth, record);
}
static void dcpi_emit_digests(dcpi_emitter *e, const uint8_t *digests, size_t count) {
    size_t i;
    DCPI_PUT(e, "[");
    for (i = 0; i < count; i++) {
        char *to = dcpi_emit_room(e);
        to = i > 0 ? dcpi_put(to, DCPI_LITERAL(", \"")) : dcpi_put(to, DCPI_LITERAL("\""));
        dcpi_hex_encode(digests + 32 * i, 32, to);
        to[64] = '"';
        dcpi_emit_took(e, to + 65);
    }
    DCPI_PUT(e, "]");
}
static void dcpi_emit_global(dcpi_emitter *e, const dcp_tensor_metadata *tensor) {
    char *to = dcpi_emit_room(e);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_SHAPE));
    to = dcpi_put_numbers(to, tensor->global_shape, tensor->ndim);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_OFFSET));
    to = dcpi_put_numbers(to, tensor->global_offset, tensor->ndim);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_PLACEMENT));
    dcpi_emit_took(e, to);
    dcpi_emit_text(e, "placement", tensor->placement);
}
static void dcpi_emit_blocks(dcpi_emitter *e, const dcp_tensor_metadata *tensor) {
    char *to = dcpi_emit_room(e);
    to = dcpi_put(to, ",\n         ", tensor->placement ? 1 : 11);    /* on the second line, which a placement begins */
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_BLOCK_SIZE));
    to = dcpi_put_int(to, tensor->block_size);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_BLOCKS));
    dcpi_emit_took(e, to);
    dcpi_emit_digests(e, tensor->block_checksums, tensor->block_count);
}
static dcp_status dcpi_emit_tensor(dcpi_emitter *e, const dcp_tensor_metadata *tensor) {
    char *to;
    if (tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS)
        return dcpi_emit_fail(e, "shape", "an impossible number of dimensions");
    if (tensor->block_count > 0 && !tensor->block_checksums)
        return dcpi_emit_fail(e, "blockChecksums", "it must not be NULL");
    dcpi_cover_add(&e->cover, tensor->size, tensor->block_size);
    DCPI_PUT(e, DCPI_TENSOR_NAME);
    dcpi_emit_text(e, "name", tensor->name);
    to = dcpi_emit_room(e);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_SHAPE));
    to = dcpi_put_numbers(to, tensor->shape, tensor->ndim);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_TYPE));
    dcpi_emit_took(e, to);
    dcpi_emit_text(e, "dataType", tensor->data_type);
    to = dcpi_emit_room(e);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_OFFSET));
    to = dcpi_put_int(to, tensor->offset);
    to = dcpi_put(to, DCPI_LITERAL(DCPI_TENSOR_SIZE));
    to = dcpi_put_int(to, tensor->size);
    dcpi_emit_took(e, to);
    if (tensor->placement) dcpi_emit_global(e, tensor);
    if (tensor->block_size != 0) dcpi_emit_blocks(e, tensor);
    dcpi_emit_extra(e, ", ", tensor->extra, "extra", &dcpi_tensor_record);
    DCPI_PUT(e, DCPI_TENSOR_END);
    return e->json.status;
}
static dcp_status dcpi_emit_tensors(dcpi_emitter *e, size_t count) {
    const dcpi_meta_source *source = e->source;
    dcp_tensor_metadata tensor;
    dcp_status status;
    size_t t;
    if (count == 0) DCPI_PUT(e, "      \"tensors\": []");
    if (count == 0 || e->json.status != DCP_OK) return e->json.status;
    DCPI_PUT(e, "      \"tensors\": [\n        ");
    for (t = 0; t < count; t++) {
        if (t > 0) DCPI_PUT(e, ",\n        ");
        e->tensor = t;
        memset(&tensor, 0, sizeof tensor);
        status = source->tensor(source->user, e->shard, t, &tensor, e->err);
        if (status == DCP_OK) status = dcpi_emit_tensor(e, &tensor);
        if (status != DCP_OK) return status;
    }
    e->tensor = DCPI_META_NONE;
    DCPI_PUT(e, "\n      ]");
    return e->json.status;
}
static dcp_status dcpi_emit_shard(dcpi_emitter *e, size_t s) {
    dcp_shard_metadata shard;
    dcp_status status;
    memset(&shard, 0, sizeof shard);
    memset(&e->cover, 0, sizeof e->cover);
    e->shard = s;
    status = e->source->shard(e->source->user, s, &shard, e->err);
    if (status != DCP_OK) return status;
    dcpi_write_text(&e->json, s > 0 ? ",\n    {\n      \"rank\": " : "\n    {\n      \"rank\": ");
    dcpi_write_int(&e->json, shard.rank);
    DCPI_PUT(e, ",\n      \"filePath\": ");
    dcpi_emit_text(e, "filePath", shard.file_path);
    DCPI_PUT(e, ",\n      \"fileSize\": ");
    dcpi_write_int(&e->json, shard.file_size);
    if (shard.data_offset != 0) {
        DCPI_PUT(e, ",\n      \"dataOffset\": ");
        dcpi_write_int(&e->json, shard.data_offset);
    }
    DCPI_PUT(e, ",\n");
    status = dcpi_emit_tensors(e, shard.tensor_count);
    if (status == DCP_OK) status = dcpi_emit_covered(e, shard.checksum, shard.file_size);
    if (status != DCP_OK) return status;
    if (shard.checksum) {
        DCPI_PUT(e, ",\n      \"checksum\": ");
        dcpi_emit_text(e, "checksum", shard.checksum);
    }
    dcpi_emit_extra(e, ",\n      ", shard.extra, "extra", &dcpi_shard_record);
    DCPI_PUT(e, "\n    }");
    return e->json.status;
}
static dcp_status dcpi_emit_shards(dcpi_emitter *e) {
    dcp_status status = e->json.status;
    size_t s = 0;
    DCPI_PUT(e, "  \"shards\": [");
    for (; s < e->source->shard_count && status == DCP_OK; s++) status = dcpi_emit_shard(e, s);
    if (status != DCP_OK) return status;
    e->shard = DCPI_META_NONE;
    dcpi_write_text(&e->json, s > 0 ? "\n  ],\n" : "],\n");
    return e->json.status;
}
static void dcpi_emit_sharding(dcpi_emitter *e) {
    const dcp_sharding *sharding = &e->source->head->sharding;
    DCPI_PUT(e, "  \"sharding\": { ");
    if (sharding->strategy && sharding->strategy[0] != '\0') {       /* "" is how a parsed one says that it is absent */
        DCPI_PUT(e, "\"strategy\": ");
        dcpi_emit_text(e, "sharding.strategy", sharding->strategy);
        DCPI_PUT(e, ", ");
    }
    DCPI_PUT(e, "\"shardCount\": ");
    dcpi_write_int(&e->json, sharding->shard_count != 0 ? sharding->shard_count : (int64_t)e->source->shard_count);
    if (sharding->precision) {
        DCPI_PUT(e, ", \"precision\": ");
        dcpi_emit_text(e, "sharding.precision", sharding->precision);
    }
    DCPI_PUT(e, ", \"strategySpecificInfo\": ");
    dcpi_emit_json(e, "sharding.strategySpecificInfo", sharding->info ? sharding->info : "{}", 2, NULL);
    dcpi_emit_extra(e, ", ", sharding->extra, "sharding.extra", &dcpi_sharding_record);
    DCPI_PUT(e, " },\n");
}
static void dcpi_emit_training(dcpi_emitter *e) {
    const dcp_training *training = &e->source->head->training;
    if (!e->source->head->has_training) return;
    if (!dcpi_double_is_finite(training->learning_rate)) {
        (void)dcpi_emit_fail(e, "training.learningRate", "it must be finite");
        return;
    }
    DCPI_PUT(e, "  \"training\": { \"epoch\": ");
    dcpi_write_int(&e->json, training->epoch);
    DCPI_PUT(e, ", \"step\": ");
    dcpi_write_int(&e->json, training->step);
    DCPI_PUT(e, ", \"learningRate\": ");
    dcpi_write_double(&e->json, training->learning_rate);
    if (training->optimizer_type) {
        DCPI_PUT(e, ", \"optimizerType\": ");
        dcpi_emit_text(e, "training.optimizerType", training->optimizer_type);
    }
    DCPI_PUT(e, ", \"optimizerState\": ");
    dcpi_emit_json(e, "training.optimizerState", training->optimizer_state ? training->optimizer_state : "{}", 2, NULL);
    dcpi_emit_extra(e, ", ", training->extra, "training.extra", &dcpi_training_record);
    DCPI_PUT(e, " },\n");
}
static void dcpi_emit_fields(dcpi_emitter *e) {
    const dcp_metadata *head = e->source->head;
    size_t f;
    DCPI_PUT(e, "  \"customFields\": {");
    for (f = 0; f < head->field_count; f++) {
        dcpi_write_text(&e->json, f > 0 ? ", " : " ");
        dcpi_emit_text(e, "customFields", head->fields[f].key);
        DCPI_PUT(e, ": ");
        dcpi_emit_text(e, "customFields", head->fields[f].value);
    }
    dcpi_write_text(&e->json, head->field_count > 0 ? " }" : "}");
}
static void dcpi_emit_head(dcpi_emitter *e) {
    const dcp_metadata *head = e->source->head;
    char now[DCPI_TIME_TEXT];
    DCPI_PUT(e, "{\n  \"version\": ");
    dcpi_emit_text(e, "version", head->version ? head->version : DCP_FORMAT_VERSION);
    if (!head->timestamp) dcpi_time_format(dcpi_os_wall_us(), now);
    DCPI_PUT(e, ",\n  \"timestamp\": ");
    dcpi_emit_text(e, "timestamp", head->timestamp ? head->timestamp : now);
    DCPI_PUT(e, ",\n  \"worldSize\": ");
    dcpi_write_int(&e->json, head->world_size);
    DCPI_PUT(e, ",\n  \"ddpRank\": ");
    dcpi_write_int(&e->json, head->ddp_rank);
    if (head->save_id) {
        DCPI_PUT(e, ",\n  \"saveId\": ");
        dcpi_emit_text(e, "saveId", head->save_id);
        DCPI_PUT(e, ",\n  \"sequence\": ");
        dcpi_write_int(&e->json, head->sequence);
    }
    DCPI_PUT(e, ",\n");
}
/* The path of what a message is about, in front of it. */
static void dcpi_meta_locate(dcp_error *err, size_t shard, size_t tensor, const char *member) {
    const char *dot = member[0] != '\0' ? "." : "";
    if (shard == DCPI_META_NONE) dcpi_fail_context(err, "%s%s", member, member[0] != '\0' ? ": " : "");
    else if (tensor == DCPI_META_NONE)
        dcpi_fail_context(err, "shards[%" PRIu64 "]%s%s: ", (uint64_t)shard, dot, member);
    else
        dcpi_fail_context(err, "shards[%" PRIu64 "].tensors[%" PRIu64 "]%s%s: ", (uint64_t)shard, (uint64_t)tensor, dot,
                          member);
}
static dcp_status dcpi_emit_body(dcpi_emitter *e) {
    dcp_status status;
    dcpi_emit_head(e);
    dcpi_emit_sharding(e);
    status = dcpi_emit_shards(e);
    if (status != DCP_OK) return status;
    dcpi_emit_training(e);
    dcpi_emit_fields(e);
    dcpi_emit_extra(e, ",\n  ", e->source->head->extra, "extra", &dcpi_top_record);
    dcpi_writer_flush(&e->json);
    return e->json.status;
}
/* Streams the whole document. sink NULL: only counts its bytes. bytes may be NULL. */
static dcp_status dcpi_meta_emit(const dcpi_meta_source *source, const char *type, const dcp_signer *signer,
                                 dcpi_sink sink, void *user, int64_t *bytes, dcp_error *err) {
    dcpi_emitter e;
    dcpi_integrity stream;
    dcp_error failure;
    dcp_status status;
    if (bytes) *bytes = 0;
    if (!err) err = &failure;                                           /* what went wrong is needed below */
    status = dcpi_integrity_begin(&stream, type, signer, sink, user, err);
    if (status != DCP_OK) return status;
    e.source = source;
    e.is_parsed = dcpi_meta_is_parsed(source->head);
    e.is_signed = signer != NULL;
    e.err = err;
    e.shard = e.tensor = DCPI_META_NONE;
    e.member = "";
    dcpi_writer_begin(&e.json, e.chunk, sizeof e.chunk, dcpi_integrity_write, &stream, err);
    status = dcpi_emit_body(&e);
    if ((status == DCP_E_INVALID || status == DCP_E_SIGNATURE) && e.member[0] != '\0')
        dcpi_meta_locate(err, e.shard, e.tensor, e.member);
    if (status == DCP_OK) status = dcpi_integrity_end(&stream, err);
    if (status != DCP_OK) return status;
    if (bytes) *bytes = stream.size;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_write_signed(const dcp_metadata *metadata, const dcp_signer *signer, char **text,
                                            size_t *size, dcp_error *err) {
    dcpi_buffer buffer = {NULL, 0, 0, 0};
    dcpi_meta_source source;
    dcp_status status;
    if (text) *text = NULL;
    if (size) *size = 0;
    if (!metadata || !text || !size)
        return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_write: metadata, text and size must not be NULL");
    dcpi_meta_source_of(metadata, &source);
    status = dcpi_meta_emit(&source, DCPI_TYPE_METADATA, signer, dcpi_buffer_sink, &buffer, NULL, err);
    if (status == DCP_OK) status = dcpi_buffer_sink(&buffer, "", 1, err);
    if (status != DCP_OK) { dcpi_buffer_free(&buffer); return status; }
    *text = buffer.data;
    *size = buffer.size - 1;                                            /* a NUL follows, for those who print it */
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_write(const dcp_metadata *metadata, char **text, size_t *size, dcp_error *err) {
    return dcp_metadata_write_signed(metadata, NULL, text, size, err);
}

/* ---- parsing: straight into the structs, by the schema ----------------------------------------------------------- */
/* objects of the schema that are open at once: a manifest, its router_state, a layer, a shard */
#define DCPI_PARSE_LEVELS 4
/* bytes that a shard or tensor has at least, on the average: real ones have three times as many */
#define DCPI_PARSE_ENTRY 24

typedef struct dcpi_parser {
    dcpi_json_reader json;              /* its arena is the document's */
    dcpi_meta *meta;
    void *manifest;                     /* instead, if it is one: a dcpi_manifest_own, */
    /* and who reads what only it has */
    int (*of_manifest)(struct dcpi_parser *p, const dcpi_member *member, void *record);
    const char *const *name;            /* of the tensor that is read */
    size_t size, entries;               /* bytes of the document; shards and tensors so far */
    size_t shard, tensor;               /* what is being read; DCPI_META_NONE */
    const char *path, *member;          /* likewise, for messages */
    char prefix[64];                 /* in a manifest: where the shards stand that are read: "router_state.layers[3]" */
    int has_additions, has_signature, has_sharding;
    int ndim[3];                        /* of the tensor: of shape, globalShape, globalOffset; -1: absent */
    const char *type; size_t type_length;       /* the last data type */
    dcpi_buffer digests;
    dcpi_buffer extra[DCPI_PARSE_LEVELS];       /* unknown members of the objects that are open */
    int level;                          /* how many those are */
} dcpi_parser;

static int dcpi_parse_record(dcpi_parser *p, const dcpi_record *record, void *to);

static int dcpi_parse_fail(dcpi_parser *p, const char *what) {
    return dcpi_json_fail(&p->json, p->json.at, "%s", what);
}
static int dcpi_parse_limit(dcpi_parser *p, const char *what) {
    if (!p->json.status) p->json.status = dcpi_fail(p->json.err, DCP_E_LIMIT, "%s", what);
    return 0;
}
static int dcpi_parse_failed(dcpi_parser *p, dcp_status status) {       /* the message is there already */
    if (!p->json.status) p->json.status = status;
    return 0;
}
static int dcpi_parse_object_text(dcpi_parser *p, const char **to) {
    dcpi_json_span raw;
    if (dcpi_json_peek(&p->json) != '{') return dcpi_parse_fail(p, "expected an object");
    if (!dcpi_json_skip(&p->json, &raw)) return 0;
    *to = dcpi_arena_text(p->json.arena, raw.text, raw.length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
/* An integer; in a manifest, 10_000 too, which is a string in YAML 1.2. */
static int dcpi_parse_int64(dcpi_parser *p, int64_t *to) {
    dcpi_json_span text;
    uint64_t value = 0;
    size_t i;
    int has_joint = 0;
    if (!p->manifest || dcpi_json_peek(&p->json) != '"') return dcpi_json_int64(&p->json, to);
    if (!dcpi_json_string(&p->json, &text)) return 0;
    for (i = 0; i < text.length; i++) {
        const unsigned digit = (unsigned)((unsigned char)text.text[i] - '0');
        const int is_joint = text.text[i] == '_' && i > 0 && i + 1 < text.length && text.text[i - 1] != '_';
        has_joint |= is_joint;
        if (is_joint) continue;
        if (digit > 9) break;
        if (value > ((uint64_t)INT64_MAX - digit) / 10) return dcpi_parse_fail(p, "the integer does not fit 64 bits");
        value = value * 10 + digit;
    }
    if (i < text.length || !has_joint) return dcpi_parse_fail(p, "expected an integer, found a string");
    *to = (int64_t)value;
    return 1;
}
static int dcpi_parse_int(dcpi_parser *p, int *to) {
    int64_t value;
    if (!dcpi_parse_int64(p, &value)) return 0;
    if (value < INT_MIN || value > INT_MAX) return dcpi_parse_fail(p, "the number does not fit 32 bits");
    *to = (int)value;
    return 1;
}
/* A document of a newer major version is refused at once: what follows may mean something else. */
static int dcpi_parse_version(dcpi_parser *p, const char **to) {
    if (!dcpi_json_text(&p->json, to)) return 0;
    if (!dcpi_version_is_newer(*to)) return 1;
    return dcpi_parse_failed(p, dcpi_fail(p->json.err, DCP_E_VERSION,
                                          "version %.64s is needed to read this document; this program knows "
                                          DCP_FORMAT_VERSION, *to));
}
/* Words that stand in every tensor are kept once: a data type is mostly that of the tensor before, a placement one of
 * three. */
static int dcpi_parse_type(dcpi_parser *p, const dcpi_json_span *text, const char **to) {
    dcp_dtype exact;
    if (!p->type || p->type_length != text->length || memcmp(p->type, text->text, text->length) != 0) {
        exact = dcpi_dtype_exact(text->text, text->length);
        p->type = exact != DCP_OPAQUE ? dcp_dtype_name(exact) : dcpi_arena_text(p->json.arena, text->text, text->length,
                p->json.err);
        p->type_length = text->length;
        if (!p->type) return dcpi_json_no_memory(&p->json);
    }
    *to = p->type;
    return 1;
}
static int dcpi_parse_placement(dcpi_parser *p, const dcpi_json_span *text, const char **to) {
    static const char *const words[] = {"sharded", "replicated", "private"};
    size_t i;
    for (i = 0; i < DCPI_COUNT(words); i++) {
        if (strlen(words[i]) != text->length || memcmp(words[i], text->text, text->length) != 0) continue;
        *to = words[i];
        return 1;
    }
    *to = dcpi_arena_text(p->json.arena, text->text, text->length, p->json.err);
    return *to ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_parse_shape(dcpi_parser *p, int64_t *to, int *ndim) {
    int64_t count;
    *ndim = 0;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        if (*ndim == DCP_MAX_DIMS)
            return dcpi_json_fail(&p->json, p->json.at, "tensor \"%.200s\" has more than %d dimensions",
                                  *p->name ? *p->name : "", DCP_MAX_DIMS);
        if (!dcpi_parse_int64(p, &to[*ndim])) return 0;
        (*ndim)++;
    }
    return p->json.status == DCP_OK;
}
static int dcpi_parse_digest(const char *digits, uint8_t digest[32]) {  /* 64 hex digits, without a branch for each */
    uint8_t value[64], is_wrong = 0;
    int i;
    for (i = 0; i < 64; i++) {
        uint8_t digit = (uint8_t)(digits[i] - '0'), letter = (uint8_t)((digits[i] | 0x20) - 'a');
        value[i] = (uint8_t)(digit < 10 ? digit : letter + 10);
        is_wrong = (uint8_t)(is_wrong | ((digit > 9) & (letter > 5)));
    }
    for (i = 0; i < 32; i++) digest[i] = (uint8_t)(value[2 * i] * 16 + value[2 * i + 1]);
    return !is_wrong;
}
static int dcpi_parse_keep_digests(dcpi_parser *p, const uint8_t **to, size_t *count) {
    uint8_t *copy;
    if (p->digests.failed) return dcpi_json_no_memory(&p->json);
    if (p->digests.size == 0) return 1;
    copy = (uint8_t *)dcpi_arena_alloc(p->json.arena, p->digests.size, p->json.err);
    if (!copy) return dcpi_json_no_memory(&p->json);
    memcpy(copy, p->digests.data, p->digests.size);
    *to = copy;
    *count = p->digests.size / 32;
    return 1;
}
static int dcpi_parse_digests(dcpi_parser *p, const uint8_t **to, size_t *digests) {
    dcpi_json_span text;
    uint8_t digest[32];
    int64_t count;
    p->digests.size = 0;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        if (!dcpi_json_string(&p->json, &text)) return 0;
        if (text.length != 64 || !dcpi_parse_digest(text.text, digest))
            return dcpi_parse_fail(p, "a digest has 64 hex digits");
        dcpi_buffer_add(&p->digests, digest, sizeof digest);
    }
    return !p->json.status && dcpi_parse_keep_digests(p, to, digests);
}
static int dcpi_parse_field(dcpi_parser *p, const dcpi_json_span *span) {
    const char *value = "", *key = dcpi_arena_text(p->json.arena, span->text, span->length, p->json.err);
    if (!key) return dcpi_json_no_memory(&p->json);
    if (p->meta->metadata.field_count >= (size_t)DCP_LIMIT_FIELDS)
        return dcpi_parse_limit(p, "more fields than DCP_LIMIT_FIELDS");
    if (!dcpi_json_null(&p->json) && !dcpi_json_text(&p->json, &value)) return 0;
    return dcpi_meta_add_field(p->meta, key, value, p->json.err) == DCP_OK ? 1 : dcpi_json_no_memory(&p->json);
}
static int dcpi_parse_fields(dcpi_parser *p) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(&p->json, &o, NULL, 0);
    while (done && dcpi_json_member(&p->json, &o)) done = dcpi_parse_field(p, &o.key);
    return done && !p->json.status;
}
/* One more shard or tensor. Each takes a struct, so there must not be more of them than the bytes of the document pay
 * for (G8). */
static int dcpi_parse_entry(dcpi_parser *p) {
    p->entries++;
    if (p->entries <= (size_t)DCP_LIMIT_FREE_ENTRIES || p->entries <= p->size / DCPI_PARSE_ENTRY) {
        if (p->entries <= (size_t)DCP_LIMIT_TENSORS + (size_t)DCP_LIMIT_SHARDS) return 1;
        return dcpi_parse_limit(p, "more tensors than DCP_LIMIT_TENSORS");
    }
    return dcpi_parse_limit(p, "more shards and tensors than a document of this size can describe");
}
/* ---- a tensor exactly as dcpi_emit_tensor writes it, without unknown members: read in a quarter of the time. Whatever
 *      else it is, the reader of all JSON takes it, from its first byte. */
typedef struct dcpi_quick { const char *at, *end; } dcpi_quick;

static int dcpi_quick_literal(dcpi_quick *q, const char *literal, size_t size) {
    if ((size_t)(q->end - q->at) < size || memcmp(q->at, literal, size) != 0) return 0;
    q->at += size;
    return 1;
}
static int dcpi_quick_text(dcpi_quick *q, dcpi_json_span *out) {        /* of plain characters only */
    const char *at = q->at, *start;
    if (at == q->end || *at++ != '"') return 0;
    start = at;
    while (q->end - at >= 8 && !dcpi_json_is_special(at)) at += 8;
    while (at < q->end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\') at++;
    if (at == q->end || *at != '"') return 0;
    out->text = start;
    out->length = (size_t)(at - start);
    q->at = at + 1;
    return 1;
}
static int dcpi_quick_int(dcpi_quick *q, int64_t *value) {              /* not negative, at most 18 digits */
    const char *start = q->at, *at = start;
    int64_t sum = 0;
    while (at < q->end && *at >= '0' && *at <= '9' && at - start < 18) sum = sum * 10 + (*at++ - '0');
    if (at == start || (*start == '0' && at - start > 1)) return 0;
    *value = sum;
    q->at = at;
    return 1;
}
static int dcpi_quick_numbers(dcpi_quick *q, int64_t *values, int *count) {
    *count = 0;
    if (!dcpi_quick_literal(q, "[", 1)) return 0;
    if (dcpi_quick_literal(q, "]", 1)) return 1;
    do {
        if (*count == DCP_MAX_DIMS || !dcpi_quick_int(q, &values[(*count)++])) return 0;
    } while (dcpi_quick_literal(q, ", ", 2));
    return dcpi_quick_literal(q, "]", 1);
}
static int dcpi_quick_digests(dcpi_parser *p, dcpi_quick *q) {
    uint8_t digest[32];
    if (!dcpi_quick_literal(q, "[", 1)) return 0;
    if (dcpi_quick_literal(q, "]", 1)) return 1;
    do {
        if (q->end - q->at < 66 || q->at[0] != '"' || q->at[65] != '"' || !dcpi_parse_digest(q->at + 1, digest))
            return 0;
        q->at += 66;
        dcpi_buffer_add(&p->digests, digest, sizeof digest);
    } while (dcpi_quick_literal(q, ", ", 2));
    return dcpi_quick_literal(q, "]", 1);
}
static int dcpi_quick_global(dcpi_parser *p, dcpi_quick *q, dcp_tensor_metadata *tensor) {
    dcpi_json_span placement;
    int shape, offset;
    if (!dcpi_quick_numbers(q, tensor->global_shape, &shape)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_OFFSET)) ||
        !dcpi_quick_numbers(q, tensor->global_offset, &offset)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_PLACEMENT)) || !dcpi_quick_text(q, &placement)) return 0;
    return shape == tensor->ndim && offset == tensor->ndim && dcpi_parse_placement(p, &placement, &tensor->placement);
}
static int dcpi_quick_blocks(dcpi_parser *p, dcpi_quick *q, dcp_tensor_metadata *tensor) {
    if (!dcpi_quick_int(q, &tensor->block_size) || !dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_BLOCKS))) return 0;
    return dcpi_quick_digests(p, q);
}
static int dcpi_quick_parts(dcpi_parser *p, dcpi_quick *q, dcp_tensor_metadata *tensor, dcpi_json_span *name) {
    dcpi_json_span type;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_NAME)) || !dcpi_quick_text(q, name)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_SHAPE)) || !dcpi_quick_numbers(q, tensor->shape, &tensor->ndim))
        return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_TYPE)) || !dcpi_quick_text(q, &type)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_OFFSET)) || !dcpi_quick_int(q, &tensor->offset)) return 0;
    if (!dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_SIZE)) || !dcpi_quick_int(q, &tensor->size)) return 0;
    if (!dcpi_parse_type(p, &type, &tensor->data_type)) return 0;
    if (dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_GLOBAL_SHAPE)) && !dcpi_quick_global(p, q, tensor)) return 0;
    if (dcpi_quick_literal(q, DCPI_LITERAL("," DCPI_TENSOR_BLOCK_SIZE)) && !dcpi_quick_blocks(p, q, tensor)) return 0;
    return dcpi_quick_literal(q, DCPI_LITERAL(DCPI_TENSOR_END));
}
/* 1: read. 0: it is written in another way, and nothing has happened; or there is no memory, which the status says. */
static int dcpi_quick_tensor(dcpi_parser *p, dcp_tensor_metadata *tensor) {
    dcpi_json_span name;
    dcpi_quick q;
    q.at = p->json.at;
    q.end = p->json.end;
    p->digests.size = 0;
    if (!dcpi_quick_parts(p, &q, tensor, &name)) { memset(tensor, 0, sizeof *tensor); return 0; }
    tensor->name = dcpi_arena_text(p->json.arena, name.text, name.length, p->json.err);
    if (!tensor->name || !dcpi_parse_keep_digests(p, &tensor->block_checksums, &tensor->block_count))
        return dcpi_json_no_memory(&p->json);
    p->has_additions |= tensor->placement != NULL || tensor->block_size != 0;
    p->json.at = q.at;
    return 1;
}
static int dcpi_parse_tensor(dcpi_parser *p) {
    dcp_tensor_metadata *tensor = NULL;
    dcp_status status;
    int i;
    if (!dcpi_parse_entry(p)) return 0;
    status = dcpi_meta_add_tensor(p->meta, p->shard, &tensor, p->json.err);
    if (status != DCP_OK) return dcpi_parse_failed(p, status);
    if (dcpi_quick_tensor(p, tensor)) return 1;
    for (i = 0; i < 3; i++) p->ndim[i] = -1;
    p->name = &tensor->name;
    if (p->json.status || !dcpi_parse_record(p, &dcpi_tensor_record, tensor)) return 0;
    tensor->ndim = p->ndim[0] > 0 ? p->ndim[0] : 0;
    for (i = 1; i < 3; i++) {
        if (p->ndim[i] < 0 || p->ndim[i] == tensor->ndim) continue;
        p->member = i == 1 ? "globalShape" : "globalOffset";
        return dcpi_parse_fail(p, "its number of dimensions is not that of shape");
    }
    return 1;
}
/* Gives back what the array has grown beyond the shard's last tensor. */
static void dcpi_parse_trim(dcpi_parser *p) {
    dcp_shard_metadata *shard = &p->meta->metadata.shards[p->shard];
    void *exact;
    if (shard->tensor_count == 0 || shard->tensor_count == p->meta->tensor_capacities[p->shard]) return;
    exact = DCP_REALLOC((void *)shard->tensors, shard->tensor_count * sizeof *shard->tensors);
    if (!exact) return;                                                 /* then it stays larger */
    shard->tensors = p->meta->tensors[p->shard] = (dcp_tensor_metadata *)exact;
    p->meta->tensor_capacities[p->shard] = shard->tensor_count;
}
static int dcpi_parse_tensors(dcpi_parser *p) {
    int64_t count;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        p->tensor = (size_t)count - 1;
        p->member = "";
        if (!dcpi_parse_tensor(p)) return 0;
    }
    if (p->json.status) return 0;
    p->tensor = DCPI_META_NONE;
    dcpi_parse_trim(p);
    return 1;
}
static int dcpi_parse_shards(dcpi_parser *p) {
    dcp_shard_metadata *shard = NULL;
    dcp_status status;
    int64_t count;
    if (!dcpi_json_array(&p->json, &count)) return 0;
    while (dcpi_json_item(&p->json, &count)) {
        p->shard = (size_t)count - 1;
        p->member = "";
        if (!dcpi_parse_entry(p)) return 0;
        status = dcpi_meta_add_shard(p->meta, &shard, p->json.err);
        if (status != DCP_OK) return dcpi_parse_failed(p, status);
        if (!dcpi_parse_record(p, &dcpi_shard_record, shard)) return 0;
    }
    p->shard = DCPI_META_NONE;
    return p->json.status == DCP_OK;
}
static int dcpi_parse_value(dcpi_parser *p, const dcpi_member *member, void *record) {
    dcp_metadata *metadata = p->meta ? &p->meta->metadata : NULL;
    dcp_tensor_metadata *tensor = (dcp_tensor_metadata *)record;
    void *to = (char *)record + member->offset;
    dcpi_json_span word;
    switch (member->kind) {
    case DCPI_KIND_TEXT:          return dcpi_json_text(&p->json, (const char **)to);
    case DCPI_KIND_VERSION:       return dcpi_parse_version(p, (const char **)to);
    case DCPI_KIND_TYPE:
        return dcpi_json_string(&p->json, &word) && dcpi_parse_type(p, &word, (const char **)to);
    case DCPI_KIND_PLACEMENT:
        return dcpi_json_string(&p->json, &word) && dcpi_parse_placement(p, &word, (const char **)to);
    case DCPI_KIND_INT:           return dcpi_parse_int(p, (int *)to);
    case DCPI_KIND_INT64:         return dcpi_parse_int64(p, (int64_t *)to);
    case DCPI_KIND_NUMBER:        return dcpi_json_real(&p->json, (double *)to);
    case DCPI_KIND_OBJECT:        return dcpi_parse_object_text(p, (const char **)to);
    case DCPI_KIND_SHAPE:         return dcpi_parse_shape(p, (int64_t *)to, &p->ndim[0]);
    case DCPI_KIND_GLOBAL_SHAPE:  return dcpi_parse_shape(p, (int64_t *)to, &p->ndim[1]);
    case DCPI_KIND_GLOBAL_OFFSET: return dcpi_parse_shape(p, (int64_t *)to, &p->ndim[2]);
    case DCPI_KIND_SIGNATURE:     p->has_signature = 1; return dcpi_json_skip(&p->json, NULL);
    case DCPI_KIND_INTEGRITY:     return dcpi_json_skip(&p->json, NULL);
    case DCPI_KIND_TIERS: case DCPI_KIND_POOL: case DCPI_KIND_OPTIMIZER: case DCPI_KIND_ROUTER: case DCPI_KIND_LAYERS:
    case DCPI_KIND_READER: case DCPI_KIND_EXPERT_KEY: case DCPI_KIND_BUDGET: case DCPI_KIND_SEED:
    case DCPI_KIND_DIGESTS: case DCPI_KIND_SHARDING: case DCPI_KIND_TRAINING: case DCPI_KIND_FIELDS: case DCPI_KIND_SHARDS:
    case DCPI_KIND_TENSORS: break;
    }
    if (!metadata) return p->of_manifest(p, member, record);
    switch (member->kind) {
    case DCPI_KIND_DIGESTS:       return dcpi_parse_digests(p, &tensor->block_checksums, &tensor->block_count);
    case DCPI_KIND_SHARDING:
        p->has_sharding = 1; return dcpi_parse_record(p, &dcpi_sharding_record, &metadata->sharding);
    case DCPI_KIND_TRAINING:
        metadata->has_training = 1; return dcpi_parse_record(p, &dcpi_training_record, &metadata->training);
    case DCPI_KIND_FIELDS:        return dcpi_parse_fields(p);
    case DCPI_KIND_SHARDS:        return dcpi_parse_shards(p);
    case DCPI_KIND_TENSORS:       return dcpi_parse_tensors(p);
    default:                      return 0;
    }
}
static int dcpi_span_is(const dcpi_json_span *span, const char *word) {
    return span->length == strlen(word) && memcmp(span->text, word, span->length) == 0;
}
/* A member that the schema does not have: its text is kept as it stands (G12). */
static int dcpi_parse_unknown(dcpi_parser *p, dcpi_json_object *o) {
    dcpi_buffer *extra = &p->extra[p->level - 1];
    const char *version, *start = o->key_at;
    int done;
    p->member = "an unknown member";
    if (p->level == 1 && dcpi_span_is(&o->key, "minReaderVersion")) p->member = "minReaderVersion";
    if (p->level == 1 && dcpi_span_is(&o->key, "min_reader_version")) p->member = "min_reader_version";
    if (dcpi_starts_with(p->member, "min")) {
        done = dcpi_json_peek(&p->json) == '"' ? dcpi_parse_version(p, &version) : dcpi_json_skip(&p->json, NULL);
    } else {
        done = dcpi_json_skip(&p->json, NULL);
    }
    if (!done) return 0;
    if (extra->size > 0) dcpi_buffer_text(extra, ", ");
    dcpi_buffer_add(extra, start, (size_t)(p->json.at - start));
    return extra->failed ? dcpi_json_no_memory(&p->json) : 1;
}
static int dcpi_parse_members(dcpi_parser *p, const dcpi_record *record, void *to) {
    dcpi_json_object o;
    int done = dcpi_json_object_begin(&p->json, &o, record->names, record->count);
    while (done && dcpi_json_member(&p->json, &o)) {
        const dcpi_member *member = &record->members[o.member >= 0 ? o.member : 0];
        p->path = record->path;
        if (o.member < 0) { done = dcpi_parse_unknown(p, &o); continue; }
        p->member = record->names[o.member];
        p->has_additions |= member->is_addition;
        done = dcpi_json_null(&p->json) || dcpi_parse_value(p, member, to);     /* null: as if absent */
    }
    return done && !p->json.status;
}
/* An object of the schema. */
static int dcpi_parse_record(dcpi_parser *p, const dcpi_record *record, void *to) {
    const char **kept = (const char **)(void *)((char *)to + record->extra);
    dcpi_buffer *extra = &p->extra[p->level++];
    int done;
    extra->size = 0;
    done = dcpi_parse_members(p, record, to);
    p->level--;
    if (!done || extra->size == 0) return done;
    *kept = dcpi_arena_text(p->json.arena, extra->data, extra->size, p->json.err);
    return *kept ? 1 : dcpi_json_no_memory(&p->json);
}
/* What the document says of itself against what was found in its bytes. */
static dcp_status dcpi_parse_finish(dcpi_parser *p, const dcpi_tail *tail, dcp_error *err) {
    dcp_metadata *metadata = &p->meta->metadata;
    if (!tail->present && p->has_additions)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "the document is damaged: its last members are not the integrity member in its exact form");
    if (tail->present && p->has_signature != tail->is_signed)
        return dcpi_fail(err, DCP_E_CHECKSUM,
                         "the document is damaged: its signature member is not in its place or not in its exact form");
    if (p->has_sharding && !metadata->sharding.strategy) metadata->sharding.strategy = "";
    metadata->is_foreign = !tail->present;
    if (!tail->is_signed) return DCP_OK;
    metadata->signature_algorithm = dcpi_arena_text(&p->meta->arena, tail->algorithm, strlen(tail->algorithm), err);
    metadata->signature_key = dcpi_arena_text(&p->meta->arena, tail->key, strlen(tail->key), err);
    return metadata->signature_algorithm && metadata->signature_key ? DCP_OK : DCP_E_MEMORY;
}
static dcp_status dcpi_parse_document(dcpi_parser *p, const dcpi_tail *tail, dcp_error *err) {
    char member[64];
    int i, done = dcpi_parse_record(p, &dcpi_top_record, &p->meta->metadata);
    (void)snprintf(member, sizeof member, "%s%s", p->path, done ? "" : p->member);
    if (done) (void)dcpi_json_end(&p->json);
    dcpi_json_close(&p->json);
    for (i = 0; i < DCPI_PARSE_LEVELS; i++) dcpi_buffer_free(&p->extra[i]);
    dcpi_buffer_free(&p->digests);
    if (!p->json.status) return dcpi_parse_finish(p, tail, err);
    if (p->json.status != DCP_E_MEMORY) dcpi_meta_locate(err, p->shard, p->tensor, member);
    return p->json.status;
}
static dcp_status dcpi_meta_check_covered(const dcp_metadata *m, dcp_error *err) {
    size_t s, t;
    for (s = 0; s < m->shard_count; s++) {
        const dcp_shard_metadata *shard = &m->shards[s];
        dcpi_cover cover = {0, 0};
        for (t = 0; t < shard->tensor_count; t++)
            dcpi_cover_add(&cover, shard->tensors[t].size, shard->tensors[t].block_size);
        if (dcpi_cover_is_whole(&cover, shard->checksum, shard->file_size)) continue;
        return dcpi_fail(err, DCP_E_SIGNATURE,
                         "shards[%" PRIu64 "].checksum: %s; it must not be loaded with a verifier",
                         (uint64_t)s, dcpi_cover_words);
    }
    return DCP_OK;
}
/* Checks a document's integrity, then parses it. A verifier that is set must accept, and then each byte that it names
 * is covered. What else its fields say is dcpi_meta_check's business. */
static dcp_status dcpi_meta_parse(const char *text, size_t size, const char *type, const dcp_verifier *verifier,
                                  dcp_metadata **out, dcp_error *err) {
    const uint64_t bytes = size;
    dcpi_parser p;
    dcpi_tail tail;
    dcp_metadata *metadata;
    dcp_status status;
    *out = NULL;
    if (bytes > (uint64_t)DCP_LIMIT_DOCUMENT)
        return dcpi_fail(err, DCP_E_LIMIT, "the document has %" PRIu64 " bytes (DCP_LIMIT_DOCUMENT)", bytes);
    status = dcpi_integrity_check(type, text, size, verifier, &tail, err);
    if (status == DCP_OK) status = dcp_metadata_new(&metadata, err);
    if (status != DCP_OK) return status;

    memset(&p, 0, sizeof p);
    p.meta = dcpi_meta_of(metadata);
    p.meta->is_parsed = 1;
    p.size = size;
    p.shard = p.tensor = DCPI_META_NONE;
    p.path = p.member = "";
    dcpi_json_begin(&p.json, text, size, &p.meta->arena, err);
    status = dcpi_parse_document(&p, &tail, err);
    if (status == DCP_OK && verifier) status = dcpi_meta_check_covered(metadata, err);
    if (status != DCP_OK) { dcp_metadata_free(metadata); return status; }
    *out = metadata;
    return dcpi_succeed(err);
}
DCPDEF dcp_status dcp_metadata_parse(const char *text, size_t size, dcp_metadata **out, dcp_error *err) {
    if (out) *out = NULL;
    if (!out || (!text && size > 0))
        return dcpi_fail(err, DCP_E_INVALID, "dcp_metadata_parse: text and out must not be NULL");
    return dcpi_meta_parse(text ? text : "", size, DCPI_TYPE_METADATA, NULL, out, err);
}

