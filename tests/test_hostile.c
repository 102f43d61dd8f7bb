/* test_hostile.c - files that somebody has made to hurt, directories that hold more than checkpoints, and memory that
 * ends.
 *
 * 1. Real documents of every layout. Each number, each string, each member in turn is replaced by every value that is
 *    known to break readers, and the document's digest is made good again: no checksum helps, only the rules of the
 *    format do. Then everything is done with it that a program can do. It is refused, with the status that the format
 *    asks for and a message that names the place, or every tensor comes back as it was saved.
 * 2. Documents that lie consistently: shapes whose product wraps around to the right number, tensors that overlap,
 *    regions beyond the file's end.
 * 3. Directories: links, FIFOs, files that change between two calls, a hundred thousand entries, names that no terminal
 *    should see.
 * 4. Memory: each request of each workload fails, once and from then on. */
#include "failing_allocator.h"
#include "doing.h"
#include "fault_storage.h"
#include "text.h"
#include "rank_threads.h"
#ifndef _WIN32
#include <sys/socket.h>
#include <sys/un.h>
#endif

/* ---- a state on two ranks: a piece each of one tensor, replicated ones, private ones ----------------------------- */
enum { RANKS = 2, TENSORS = 5, SHARED = 4, LARGEST = 128 };
static const struct {
    const char *name;
    dcp_dtype dtype;
    int ndim;
    int64_t shape[2];
    size_t size;
    dcp_role role;
} tensors_of[TENSORS] = {
    { "layer/w", DCP_FP32, 2, { 8, 3 }, 96, DCP_ROLE_PARAMETER },
    { "odd", DCP_UINT8, 1, { 65, 0 }, 65, DCP_ROLE_EXPERT },
    { "nibbles", DCP_INT4, 1, { 5, 0 }, 3, DCP_ROLE_OPTIMIZER },
    { "none", DCP_BF16, 2, { 0, 3 }, 0, DCP_ROLE_ROUTER },
    { "own", DCP_INT16, 1, { 3, 0 }, 6, DCP_ROLE_PARAMETER }      /* private */
};
typedef struct state { uint8_t bytes[TENSORS][LARGEST]; dcp_tensor list[TENSORS]; } state;

static uint8_t byte_of(int t, int rank, size_t i) {
    return (uint8_t)(i * 7 + (size_t)t * 31 + (t == TENSORS - 1 ? (size_t)rank * 11 : 0) + 1);
}
static void state_make(state *s, int rank, int is_filled) {
    size_t i;
    int t;
    memset(s, 0, sizeof *s);
    for (t = 0; t < TENSORS; t++) {
        for (i = 0; i < tensors_of[t].size; i++) s->bytes[t][i] = (uint8_t)(is_filled ? byte_of(t, rank, i) : 0xA5);
        s->list[t] = dcp_array(tensors_of[t].name, tensors_of[t].dtype, s->bytes[t], tensors_of[t].ndim,
                               tensors_of[t].shape);
        s->list[t].role = tensors_of[t].role;
        s->list[t].placement = t < SHARED ? DCP_PLACE_REPLICATED : DCP_PLACE_PRIVATE;
    }
    if (is_filled) s->bytes[2][2] &= 15;                /* half a byte of padding, which is zero */
    s->list[1].tier = "hot";
    s->list[1].expert_key[0] = 1;
    s->list[1].expert_key[2] = 2;
}
static int is_saved(const state *got, int t, int rank) {
    state want;
    state_make(&want, rank, 1);
    return memcmp(got->bytes[t], want.bytes[t], tensors_of[t].size) == 0;
}
/* Of "layer/w" rank 0 holds rows 0 to 4, rank 1 the rest. */
static void state_cut(state *s, int rank) {
    const int64_t first[2] = { 0, 0 }, second[2] = { 5, 0 };
    s->list[0].placement = DCP_PLACE_SHARDED;
    s->list[0].shape[0] = rank ? 3 : 5;
    s->list[0].data = s->bytes[0] + (rank ? 60 : 0);
    dcp_piece(&s->list[0], tensors_of[0].shape, rank ? second : first);
}

/* ---- saved in every form ----------------------------------------------------------------------------------------- */
typedef struct form {
    const char *name, *commit;
    dcp_layout layout;
    int yaml;
    dcp_checksum checksum;
    const char *type;
} form;
static const form forms[] = {
    { "sharded", "p.metadata.json", DCP_LAYOUT_SHARDED, 0, DCP_CHECKSUM_TREE, "metadata/json" },
    { "sharded flat", "p.metadata.json", DCP_LAYOUT_SHARDED, 0, DCP_CHECKSUM_FLAT, "metadata/json" },
    { "single", "p.checkpoint", DCP_LAYOUT_SINGLE, 0, DCP_CHECKSUM_TREE, "checkpoint/json" },
    { "manifest", "p.manifest.json", DCP_LAYOUT_MANIFEST, 0, DCP_CHECKSUM_TREE, "manifest/json" },
    { "manifest yaml", "p.manifest.yaml", DCP_LAYOUT_MANIFEST, 1, DCP_CHECKSUM_TREE, "manifest/yaml" }
};
enum { FORMS = (int)(sizeof forms / sizeof forms[0]) };
typedef struct saving {
    const form *f;
    dcp_storage *storage;
    const char *path;
    int ranks;
    dcp_coordinator *coordinators[RANKS];
    dcp_status status[RANKS];
    dcp_error err[RANKS];
} saving;

static void save_rank(void *user, int rank) {
    static const dcp_tier tiers[2] = { { 1, "hot", "40GB", "lru" }, { 2, "warm", NULL, NULL } };
    static const dcp_router_seed seeds[2] = { { 0, UINT64_MAX }, { 3, 9 } };
    static const dcp_field field = { "git", "abc123" };
    saving *v = (saving *)user;
    dcp_save_desc desc = DCP_ZERO;
    dcp_training training = DCP_ZERO;
    state s;
    state_make(&s, rank, 1);
    state_cut(&s, rank);
    training.epoch = 5;
    training.step = 100;
    training.learning_rate = 0.5;
    training.optimizer_state = "{\"beta\": 0.9}";
    desc.path = v->path;
    desc.tensors = s.list;
    desc.tensor_count = TENSORS;
    desc.layout = v->f->layout;
    desc.yaml = v->f->yaml;
    desc.checksum = v->f->checksum;
    desc.training = &training;
    desc.fields = &field;
    desc.field_count = 1;
    desc.tiers = tiers;
    desc.tier_count = v->f->layout == DCP_LAYOUT_MANIFEST ? 2 : 0;
    desc.router_seeds = seeds;
    desc.router_seed_count = v->f->layout == DCP_LAYOUT_MANIFEST ? 2 : 0;
    if (v->f->layout != DCP_LAYOUT_MANIFEST) s.list[1].tier = NULL;
    desc.io.storage = v->storage;
    desc.io.coordinator = v->coordinators[rank];
    v->status[rank] = dcp_save(&desc, &v->err[rank]);
}
static void save_form(const form *f, dcp_storage *storage, const char *path) {
    saving v;
    dcp_error err;
    int r;
    memset(&v, 0, sizeof v);
    v.f = f;
    v.ranks = RANKS;
    v.storage = storage;
    v.path = path;
    CHECK_OK_MESSAGE(dcp_thread_group_open(RANKS, v.coordinators, &err), err.message);
    run_ranks(RANKS, save_rank, &v);
    for (r = 0; r < RANKS; r++) dcp_coordinator_close(v.coordinators[r]);
    check_all(&v, DCP_OK, "");
}
static dcp_storage *in_memory(void) {
    dcp_storage *storage;
    CHECK_OK(dcp_storage_memory(&storage, NULL));
    return storage;
}
static void put(dcp_storage *storage, const char *key, const void *data, size_t size) {
    dcp_error err;
    CHECK_OK_MESSAGE(dcp_storage_write_all(storage, key, data, size, NULL, &err), err.message);
}

/* ---- text, and the places in a document -------------------------------------------------------------------------- */
/* of a value; the key's start; one of an array has none */
typedef struct place { char path[96]; size_t key, start, end; int is_member; } place;
typedef struct places { place list[600]; int count; } places;

static place *places_add(places *p, const char *path, size_t key, size_t start, size_t end, int is_member) {
    place *at = &p->list[p->count++];
    CHECK(p->count < (int)DCPI_COUNT(p->list));
    (void)snprintf(at->path, sizeof at->path, "%s", path);
    at->key = key;
    at->start = start;
    at->end = end;
    at->is_member = is_member;
    return at;
}
static size_t skip_blank(const char *t, size_t at) {
    while (t[at] == ' ' || t[at] == '\n') at++;
    return at;
}
static size_t string_end(const char *t, size_t at) {    /* from its opening quote */
    for (at++; t[at] != '"'; at++) at += t[at] == '\\';
    return at + 1;
}
/* All values of a document, the containers before what is in them. As written by dcp.h: no more than that is
 * understood. Returns the value's end. */
static size_t scan_json(const char *t, size_t at, const char *path, size_t key, int is_member, places *out) {
    int mine = out->count, index = 0;
    size_t start = at;
    char below[96];
    (void)places_add(out, path, key, at, at, is_member);
    if (t[at] == '"') at = string_end(t, at);
    else if (t[at] != '{' && t[at] != '[') at += strcspn(t + at, ",]} \n");
    else {
        char close = t[at] == '{' ? '}' : ']';
        for (at = skip_blank(t, at + 1); t[at] != close; index++) {
            size_t name = at, from = at;
            if (close == '}') {
                size_t end = string_end(t, at);
                (void)snprintf(below, sizeof below, "%s%s%.*s", path, path[0] ? "." : "", (int)(end - at - 2),
                               t + at + 1);
                from = skip_blank(t, end + 1);
            } else (void)snprintf(below, sizeof below, "%s[%d]", path, index);
            at = skip_blank(t, scan_json(t, from, below, name, close == '}', out));
            if (t[at] == ',') at = skip_blank(t, at + 1);
        }
        at++;
    }
    out->list[mine].start = start;
    out->list[mine].end = at;
    return at;
}
/* The same of block YAML, whose flow collections are read as JSON. */
typedef struct yaml_level { size_t column; char path[96]; int index; } yaml_level;           /* index -1: a map */
static void scan_yaml(const char *t, places *out) {
    yaml_level levels[16];
    char last[96] = "", path[96];
    int depth = 0;
    size_t at = 0;
    while (t[at]) {
        size_t line = at, end = at + strcspn(t + at, "\n"), column, colon;
        while (t[at] == ' ') at++;
        column = at - line;
        if (t[at] == '-' && t[at + 1] == ' ') {
            while (depth > 0 && levels[depth - 1].column > column) depth--;
            if (depth == 0 || levels[depth - 1].column < column) {
                levels[depth].column = column;
                levels[depth].index = -1;
                memcpy(levels[depth].path, last, sizeof last);
                depth++;
            }
            levels[depth - 1].index++;
            (void)snprintf(last, sizeof last, "%.80s[%d]", levels[depth - 1].path, levels[depth - 1].index);
            memcpy(levels[depth].path, last, sizeof last);
            levels[depth].column = column + 2;
            depth++;
            at += 2;
            column += 2;
        }
        while (depth > 0 && levels[depth - 1].column > column) depth--;
        if (depth == 0 || levels[depth - 1].column < column) {
            levels[depth].column = column;
            (void)snprintf(levels[depth].path, sizeof last, "%s", last);
            depth++;
        }
        colon = at + strcspn(t + at, ":");
        (void)snprintf(path, sizeof path, "%.60s%s%.*s", levels[depth - 1].path, levels[depth - 1].path[0] ? "." : "",
                       (int)(colon - at), t + at);
        (void)snprintf(last, sizeof last, "%s", path);
        if (colon + 1 < end) {
            size_t value = colon + 2;
            if (strchr("[\"{", t[value])) (void)scan_json(t, value, path, at, 1, out);
            else (void)places_add(out, path, at, value, end, 1);
        }
        at = end + (t[end] == '\n');
    }
}
static const char *last_name(const char *path) {  /* "size" of "shards[0].tensors[1].size" and of "shards[0].size[2]" */
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}
static int is_named(const char *path, const char *name) {
    size_t n = strlen(name);
    path = last_name(path);
    return strncmp(path, name, n) == 0 && (path[n] == '\0' || path[n] == '[');
}

/* ---- a document whose digest is good, and the file that it stands in --------------------------------------------- */
static void hex_of(const uint8_t digest[32], char to[65]) {
    int i;
    for (i = 0; i < 32; i++) (void)snprintf(to + 2 * i, 3, "%02x", digest[i]);
}
static void sha_hex(const void *data, size_t size, char to[65]) {
    uint8_t digest[32];
    dcp_sha256(data, size, digest);
    hex_of(digest, to);
}
/* DESIGN 2.2, by hand. */
static void seal(text *t, const char *type) {
    char body[65], value[65], said[300];
    int length;
    sha_hex(t->data, t->size, body);
    length = snprintf(said, sizeof said, "dcp-integrity-v1\n%s\nsha256\n\n%u\n%s\n", type, (unsigned)t->size, body);
    sha_hex(said, (size_t)length, value);
    text_say(t, strcmp(type, "manifest/yaml") == 0 ? "integrity: { algorithm: \"sha256\", value: \""
             : ",\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \"");
    text_say(t, value);
    text_say(t, strcmp(type, "manifest/yaml") == 0 ? "\" }\n" : "\" }\n}\n");
}
static void put32(text *t, uint32_t v) {
    uint8_t b[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
    text_add(t, b, 4);
}
static void put64(text *t, int64_t v) {
    put32(t, (uint32_t)v);
    put32(t, (uint32_t)((uint64_t)v >> 32));
}
static int64_t int_of(const dcp_json *object, const char *key) {
    int64_t value = 0;
    (void)dcp_json_int(dcp_json_get(object, key), &value);
    return value;
}
static const char *string_of(const dcp_json *object, const char *key) {
    const char *found = dcp_json_string(dcp_json_get(object, key), NULL);
    return found ? found : "";
}
/* The records of a single file's header, from its document, as far as that has them. */
static void put_records(text *file, const dcp_json *document) {
    const dcp_json *shards = dcp_json_get(document, "shards");
    size_t s, t, d;
    for (s = 0; s < dcp_json_count(shards); s++) {
        const dcp_json *tensors = dcp_json_get(dcp_json_at(shards, s), "tensors");
        put32(file, (uint32_t)dcp_json_count(tensors));
        for (t = 0; t < dcp_json_count(tensors); t++) {
            const dcp_json *tensor = dcp_json_at(tensors, t), *shape = dcp_json_get(tensor, "shape");
            const char *name = string_of(tensor, "name"), *type = string_of(tensor, "dataType");
            char length = (char)strlen(type);
            put32(file, (uint32_t)strlen(name));
            text_say(file, name);
            text_add(file, &length, 1);
            text_say(file, type);
            put32(file, (uint32_t)dcp_json_count(shape));
            for (d = 0; d < dcp_json_count(shape); d++) {
                int64_t value = 0;
                (void)dcp_json_int(dcp_json_at(shape, d), &value);
                put64(file, value);
            }
            put64(file, int_of(tensor, "size"));
        }
    }
}
typedef struct subject {                /* a saved checkpoint that is changed and put back */
    const form *f;
    dcp_storage *storage;
    text body;                          /* of its document: without the tail */
    text data;                          /* single file: from the first region on */
    places at;
} subject;
static void subject_make(subject *s, const form *f) {
    void *file;
    size_t size, from = 0;
    char *tail = NULL, *next;
    memset(s, 0, sizeof *s);
    s->f = f;
    s->storage = in_memory();
    save_form(f, s->storage, "p");
    CHECK_OK(dcp_storage_read_all(s->storage, f->commit, &file, &size, NULL, NULL));
    if (f->layout == DCP_LAYOUT_SINGLE) {
        from = 14;                                      /* magic, "1.0.0" and its length, the document's length */
        size = from + dcpi_load32((uint8_t *)file + 10);
    }
    text_add(&s->body, (char *)file + from, size - from);
    for (next = s->body.data; (next = strstr(next, f->yaml ? "integrity: {" : ",\n  \"integrity\"")) != NULL; next++)
        tail = next;
    CHECK(tail != NULL);
    s->body.size = (size_t)(tail - s->body.data);
    *tail = '\0';
    if (f->yaml) scan_yaml(s->body.data, &s->at);
    else {
        s->body.data[s->body.size] = '}';               /* for the scan only: there is room for the tail */
        (void)scan_json(s->body.data, 0, "", 0, 0, &s->at);
        s->body.data[s->body.size] = '\0';
    }
    dcp_free(file);
    if (f->layout == DCP_LAYOUT_SINGLE) {
        CHECK_OK(dcp_storage_read_all(s->storage, f->commit, &file, &size, NULL, NULL));
        text_add(&s->data, (char *)file + 4096, size - 4096);
        dcp_free(file);
    }
}
static void subject_end(subject *s) {
    text_free(&s->body);
    text_free(&s->data);
    dcp_storage_close(s->storage);
    done_doing();
}
static const place *place_of(const subject *s, const char *path) {
    int i;
    for (i = 0; i < s->at.count; i++) if (strcmp(s->at.list[i].path, path) == 0) return &s->at.list[i];
    printf("no %s in the document\n", path);
    CHECK(i < s->at.count);
    return NULL;
}
static int documents_put;
/* Puts a body in the checkpoint's place, sealed; in a single file with the header that goes with it. */
static void subject_put(const subject *s, const text *body) {
    text sealed = { NULL, 0, 0 }, file = { NULL, 0, 0 };
    dcp_json *document;
    documents_put++;
    text_add(&sealed, body->data, body->size);
    seal(&sealed, s->f->type);
    if (s->f->layout != DCP_LAYOUT_SINGLE) put(s->storage, s->f->commit, sealed.data, sealed.size);
    else {
        text_add(&file, "PCLM\5" "1.0.0", 10);
        put32(&file, (uint32_t)sealed.size);
        text_add(&file, sealed.data, sealed.size);
        if (dcp_json_parse(sealed.data, sealed.size, &document, NULL) == DCP_OK) put_records(&file, document);
        dcp_json_free(document);
        while (file.size < 4096) text_add(&file, "", 1);
        text_add(&file, s->data.data, s->data.size);
        put(s->storage, s->f->commit, file.data, file.size);
    }
    text_free(&sealed);
    text_free(&file);
}
/* The document with other text in place of what stands from `start` to `end`. */
static void subject_change(const subject *s, size_t start, size_t end, const char *words) {
    text body = { NULL, 0, 0 };
    text_add(&body, s->body.data, start);
    text_say(&body, words);
    text_add(&body, s->body.data + end, s->body.size - end);
    subject_put(s, &body);
    text_free(&body);
}

/* ---- everything that a program may do with it -------------------------------------------------------------------- */
#define KIB ((int64_t)1024)
/* Whether a terminal would take a character for an order: controls, and what turns the direction of writing or ends a
 * line. */
static int is_order(const unsigned char *c, size_t n) {
    unsigned code = n == 1 ? c[0] : n == 2 ? (c[0] & 31u) << 6 | (c[1] & 63u) : (c[0] & 15u) << 12 | (c[1] & 63u) << 6 |
                    (c[2 * (n == 3)] & 63u);
    if (n == 4) return 0;
    return code < 32 || (code >= 127 && code < 160) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}
/* A message is there, is UTF-8, and writes nothing to a terminal but itself. */
static void check_words(const char *words) {
    size_t at, n, length = strlen(words);
    for (at = 0; at < length; at += n) {
        n = dcpi_utf8_length(words + at, length - at);
        if (n == 0 || is_order((const unsigned char *)words + at, n)) printf("%s\n", words);
        CHECK(n > 0);
        CHECK(!is_order((const unsigned char *)words + at, n));
    }
}
static void check_message(const dcp_error *err, dcp_status status) {
    CHECK_INT(err->status, status);
    CHECK((err->message[0] != '\0') == (status != DCP_OK));
    check_words(err->message);
}
static void hear(void *user, dcp_log_level level, const char *message) {
    (void)user; (void)level;
    check_words(message);
}
static dcp_io the_io(dcp_storage *storage) {
    dcp_io io = DCP_ZERO;
    io.storage = storage;
    io.retry.attempts = 1;
    io.memory_budget = 1 << 20;
    io.log = hear;
    return io;
}
/* What came of a checkpoint: the first error, or DCP_OK: then every tensor is what was saved, however it is asked
 * for. */
typedef struct verdict { dcp_status status; dcp_error err; const char *call; } verdict;
static dcp_status first_of(verdict *v, dcp_status status, const dcp_error *err, const char *call) {
    check_message(err, status);
    if (status == DCP_OK || v->status != DCP_OK) return status;
    v->status = status;
    v->err = *err;
    v->call = call;
    return status;
}
/* A load of what the ranks share, wholly, into the memory of s. */
static void load_make(dcp_load_desc *desc, state *s, dcp_storage *storage, dcp_verify_policy verify) {
    int t;
    state_make(s, 0, 0);
    for (t = 0; t < SHARED; t++) s->list[t].placement = DCP_PLACE_AUTO;
    memset(desc, 0, sizeof *desc);
    desc->path = "p";
    desc->tensors = s->list;
    desc->tensor_count = SHARED;
    desc->verify = verify;
    desc->io = the_io(storage);
}
static void use_load(dcp_storage *storage, dcp_verify_policy verify, verdict *v) {
    dcp_load_desc desc;
    dcp_error err;
    state s;
    int t;
    load_make(&desc, &s, storage, verify);
    if (first_of(v, dcp_load(&desc, &err), &err, "load") != DCP_OK) return;
    for (t = 0; t < SHARED; t++) CHECK(is_saved(&s, t, 0));
}
static void use_tensors(dcp_checkpoint *c, verdict *v) {
    dcp_error err;
    state s;
    int t, rank;
    for (rank = 0; rank < RANKS; rank++) {
        state_make(&s, 0, 0);
        if (first_of(v, dcp_read_rank(c, rank, &s.list[SHARED], 1, &err), &err, "read_rank") == DCP_OK)
            CHECK(is_saved(&s, SHARED, rank));
    }
    state_make(&s, 0, 1);
    for (t = 0; t < (int)dcp_checkpoint_tensor_count(c); t++) {
        const dcp_tensor_info *info = dcp_checkpoint_tensor(c, (size_t)t);
        const void *data;
        size_t size;
        dcp_tensor fresh;
        int k = 0;
        while (k < TENSORS && strcmp(tensors_of[k].name, info->name) != 0) k++;
        if (dcp_map(c, info->name, &data, &size, &err) != DCP_OK) {
            check_message(&err, err.status);
            if (err.status != DCP_E_UNSUPPORTED && err.status != DCP_E_MISMATCH)
                (void)first_of(v, err.status, &err, "map");
        } else if (k < SHARED) {
            CHECK(size == (size_t)info->size);
            if (size > 0 && size == tensors_of[k].size) CHECK(memcmp(data, s.bytes[k], size) == 0);
        }
        if (info->placement == DCP_PLACE_PRIVATE) continue;
        if (first_of(v, dcp_read_new(c, info->name, &fresh, &err), &err, "read_new") != DCP_OK) continue;
        CHECK(k == TENSORS || memcmp(fresh.data, s.bytes[k], tensors_of[k].size) == 0);
        dcp_free(fresh.data);
    }
}
static dcp_status count_one(void *user, const char *path, const dcp_object_info *info) {
    (void)path; (void)info;
    ++*(int *)user;
    return DCP_OK;
}
static void use_directory(dcp_storage *storage, const verdict *v) {
    dcp_list_desc list = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_removal removal;
    dcp_error err;
    size_t count;
    char *path;
    list.io = latest.io = sweep.io = the_io(storage);
    list.verify = latest.verify = DCP_VERIFY_ALL;
    CHECK_OK_MESSAGE(dcp_list(&list, &entries, &count, &err), err.message);
    CHECK_INT(count, 1);
    check_words(entries[0].message);
    CHECK(v->status != DCP_OK || entries[0].status == DCP_OK);
    dcp_free(entries);
    CHECK(dcp_latest(&latest, &path, &err) == DCP_OK || v->status != DCP_OK);
    check_message(&err, err.status);
    dcp_free(path);
    sweep.grace_seconds = -1;
    sweep.plain_names = sweep.dry_run = 1;
    CHECK_OK_MESSAGE(dcp_sweep(&sweep, &removal, &err), err.message);
    CHECK_INT(v->status == DCP_OK ? removal.path_count : 0, 0);
    dcp_removal_free(&removal);
}
static void use_sync(dcp_storage *storage, const char *commit, verdict *v) {
    dcp_storage *copy = in_memory();
    dcp_sync_desc desc = DCP_ZERO;
    dcp_error err;
    dcp_status status;
    int files = 0;
    desc.source = storage;
    desc.path = commit;
    desc.target = copy;
    desc.directory = "";
    desc.io = the_io(NULL);
    status = first_of(v, dcp_sync(&desc, &err), &err, "sync");
    if (status == DCP_OK) use_load(copy, DCP_VERIFY_ALL, v);
    else {                                              /* nothing of it has been committed */
        CHECK_OK(dcp_storage_exists(copy, commit, &files, NULL, &err));
        CHECK_INT(files, 0);
    }
    dcp_storage_close(copy);
}
/* All of it. Memory stays in proportion to the document, whatever it claims. */
static verdict use_everything(const subject *s) {
    verdict v;
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    int64_t from = hungry.bytes, live = hungry_live();
    memset(&v, 0, sizeof v);
    hungry_watch();
    desc.path = "p";
    desc.io = the_io(s->storage);
    if (first_of(&v, dcp_open(&desc, &c, &err), &err, "open") == DCP_OK) {
        (void)first_of(&v, dcp_verify(c, &err), &err, "verify");
        use_tensors(c, &v);
        use_load(s->storage, DCP_VERIFY_TOUCHED, &v);
        if (v.status == DCP_OK) use_load(s->storage, DCP_VERIFY_ALL, &v);
    }
    dcp_close(c);
    use_directory(s->storage, &v);
    if (s->f->layout == DCP_LAYOUT_MANIFEST) use_sync(s->storage, s->f->commit, &v);
    CHECK_INT(hungry_live(), live);
    if (hungry.peak - from > 2048 * KIB || hungry.largest > 1024 * KIB)
        printf("%s: peak %ld largest %ld\n", v.call ? v.call : "", (long)(hungry.peak - from), (long)hungry.largest);
    CHECK(hungry.peak - from <= 2048 * KIB && hungry.largest <= 1024 * KIB);       /* one buffer to hash a file with */
    return v;
}

/* =====================================================================================================================
 * 1. Every number of every document
 * ================================================================================================================== */
/* What a number may become, made from what it is: v, and numbers that a reader of 31, 32, 53, 63 or 64 bits takes for v
 * or for something small. */
/* is_int: it is an integer of 64 bits, written as JSON does */
typedef struct number { char text[80]; int is_int; int64_t value; } number;
typedef struct numbers { number list[80]; int count; } numbers;
static void numbers_add(numbers *n, const char *words, int is_int, int64_t value) {
    number *at = &n->list[n->count++];
    (void)snprintf(at->text, sizeof at->text, "%s", words);
    at->is_int = is_int;
    at->value = value;
}
static void numbers_add_int(numbers *n, int64_t value) {
    char words[40];
    (void)snprintf(words, sizeof words, "%" PRId64, value);
    numbers_add(n, words, 1, value);
}
static int64_t wrapped(int64_t v, uint64_t more) { return (int64_t)((uint64_t)v + more); }
static void numbers_around(numbers *n, int64_t v) {
    static const int64_t bounds[] = { 0, 1, 63, 64, 65, INT32_MAX, (int64_t)1 << 32, (int64_t)1 << 40, (int64_t)1 << 53,
                                      (int64_t)1 << 62, INT64_MAX - 1 };
    static const char *const others[] = { "9223372036854775808", "9223372036854775809", "18446744073709551615",
                                          "18446744073709551616", "-9223372036854775809",
                                          "340282366920938463463374607431768211456", "1e400", "0.5", "-0.5", "1e-3",
                                          "99999999999999999999999999999999999999999999999999", "\"1\"", "null",
        "true", "[]", "{}", "[1]" };
    static const char *const forms_of_it[] = { "%" PRId64 ".0", "%" PRId64 "e0", "%" PRId64 "0e-1", "%" PRId64 "E+0" };
    char words[80];
    size_t i;
    n->count = 0;
    for (i = 0; i < DCPI_COUNT(bounds); i++) {
        numbers_add_int(n, bounds[i]);
        numbers_add_int(n, bounds[i] + 1);
        numbers_add_int(n, -bounds[i] - 1);
    }
    numbers_add_int(n, INT64_MIN);
    numbers_add_int(n, wrapped(v, 1));
    if (v > 0) numbers_add_int(n, v - 1);
    numbers_add_int(n, -v);
    numbers_add_int(n, ~v);
    numbers_add_int(n, wrapped(v, (uint64_t)1 << 31));
    numbers_add_int(n, wrapped(v, (uint64_t)1 << 32));
    numbers_add_int(n, wrapped(v, (uint64_t)1 << 63));
    (void)snprintf(words, sizeof words, "%" PRIu64, (uint64_t)v + ((uint64_t)1 << 63));
    numbers_add(n, words, 0, 0);
    (void)snprintf(words, sizeof words, "1844674407370955%d", 1616 + (int)(v % 8000));        /* 2^64 + v */
    numbers_add(n, words, 0, 0);
    for (i = 0; i < DCPI_COUNT(others); i++) numbers_add(n, others[i], 0, 0);
    for (i = 0; i < DCPI_COUNT(forms_of_it); i++) {
        (void)snprintf(words, sizeof words, forms_of_it[i], v);
        numbers_add(n, words, 0, 0);
    }
}

static int is_integer(const char *words, size_t length) {
    size_t i = words[0] == '-';
    if (i == length) return 0;
    for (; i < length; i++) if (words[i] < '0' || words[i] > '9') return 0;
    return 1;
}
/* What other numbers a member may hold, for all that the rest of the document says, and how a wrong one comes out. Of
 * members that are not here: none, DCP_E_FORMAT. */
typedef enum allowed {
    NO_OTHER, ANY, NOT_NEGATIVE, FROM_ONE, TO_ONE, BLOCKS, ALONE /* not negative; another entry may have it */
} allowed;
typedef struct allowance { const char *path; allowed what; int statuses; } allowance;       /* path: how it ends */
#define OR(status) (1 << (status))
static const allowance allowances[] = {
    { "sequence", NOT_NEGATIVE, 0 }, { "training.epoch", ANY, 0 }, { "training.step", ANY, 0 },
        { "epoch", NOT_NEGATIVE, 0 }, { "step", NOT_NEGATIVE, 0 },
    { "ddpRank", TO_ONE, 0 }, { "blockSize", BLOCKS, 0 }, { "block_size", BLOCKS, 0 }, { "version", NOT_NEGATIVE, 0 },
    { "metadata_version", FROM_ONE, 0 },
    { "shard_count", ANY, 0 }, { "expert_key", NOT_NEGATIVE, 0 }, { "tier_id", ALONE, 0 }, { "layer", ALONE, 0 },
    /* the header, read before the rules are looked at, ends where the first of them says */
    { "dataOffset", NO_OTHER, OR(DCP_E_CHECKSUM) | OR(DCP_E_INCOMPLETE) },
        { "fileSize", NO_OTHER, OR(DCP_E_INCOMPLETE) },
    /* a tensor of which a part is missing, or that is not the one that was wanted */
    { "globalShape", NO_OTHER, OR(DCP_E_INCOMPLETE) | OR(DCP_E_MISMATCH) },
        { "global_shape", NO_OTHER, OR(DCP_E_INCOMPLETE) | OR(DCP_E_MISMATCH) },
    /* in a manifest these may be absent, for which 0 and -1 stand */
    { "world_size", NO_OTHER, OR(DCP_E_INVALID) | OR(DCP_E_MISMATCH) }, { ".rank", NO_OTHER, OR(DCP_E_MISMATCH) }
};
static const allowance *allowance_of(const char *path) {
    static const allowance none = { "", NO_OTHER, 0 };
    size_t i, n = strcspn(last_name(path), "["), from = (size_t)(last_name(path) - path) + n;
    for (i = 0; i < DCPI_COUNT(allowances); i++) {
        size_t length = strlen(allowances[i].path);
        const char *end = path + from - length;
        if (length <= from && memcmp(end, allowances[i].path, length) == 0 &&
            (end == path || end[0] == '.' || end[-1] == '.')) return &allowances[i];
    }
    return &none;
}
/* 1: that value must do; 0: it must not; -1: it may, if every tensor comes out right. */
static int may_be(allowed what, int64_t value) {
    switch (what) {
        case ANY: return 1;
        case NOT_NEGATIVE: return value >= 0;
        case FROM_ONE: return value >= 1;
        case TO_ONE: return value == 0 || value == 1;
        case BLOCKS: return value >= 256 * KIB && value <= 1024 * 1024 * KIB && (value & (value - 1)) == 0;
        case ALONE: return value < 0 ? 0 : -1;
        default: return 0;
    }
}
/* Numbers of a tensor without elements, and those that stand for "absent", say little. */
static int says_little(const subject *s, const place *at, int64_t value) {
    char tensor[96], *end;
    const char *name;
    int i;
    if (is_named(at->path, "rank") || is_named(at->path, "world_size"))
        return s->f->layout == DCP_LAYOUT_MANIFEST || value == 0 || value == 1;
    if (is_named(at->path, "global_shape") && value == 0) return 1;
    (void)snprintf(tensor, sizeof tensor, "%s", at->path);
    end = strrchr(tensor, '.');
    if (!end || s->f->layout == DCP_LAYOUT_MANIFEST) return strncmp(at->path, "router_state.layers[0].shards", 29) == 0;
    (void)snprintf(end, sizeof tensor - (size_t)(end - tensor), ".name");
    for (i = 0; i < s->at.count; i++) {
        name = s->body.data + s->at.list[i].start;
        if (strcmp(s->at.list[i].path, tensor) == 0) return strncmp(name, "\"none\"", 6) == 0;
    }
    return 0;
}
/* Where a syntax error is said to be. */
static long byte_said(const char *message) {
    const char *at = strstr(message, "(byte ");
    return at ? strtol(at + 6, NULL, 10) : -1;
}
/* Whether the words say where: the member, the one around it, a shard, a tensor, or what of a single file does not
 * fit. */
static int says_where(const char *words, const char *path) {
    static const char *const others[] = { "shards[", "tensor \"", "its data begins", "bytes follow",
                                          "its last region" };
    char copy[96], *dot;
    size_t i;
    for (i = 0; i < DCPI_COUNT(others); i++) if (strstr(words, others[i])) return 1;
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (i = 0; i < 2; i++) {
        char *name;
        dot = strrchr(copy, '.');
        name = dot ? dot + 1 : copy;
        name[strcspn(name, "[")] = '\0';
        if (strstr(words, name)) return 1;
        if (dot) *dot = '\0';
    }
    return 0;
}
static void check_refusal(const subject *s, const place *at, const verdict *v, size_t length, int is_syntax,
                          int statuses) {
    const long byte = byte_said(v->err.message);
    const int is_there = byte >= (long)at->start && byte <= (long)(at->start + length);
    const int is_said = v->status != DCP_E_FORMAT || (is_syntax ? is_there &&
                                                      says_where(v->err.message, at->path) : is_there ||
                                                      says_where(v->err.message, at->path));
    if ((v->status != DCP_E_FORMAT && (statuses & OR(v->status)) == 0) || !is_said)
        printf("%s: %s: %s\n", v->call, dcp_status_name(v->status), v->err.message);
    CHECK(v->status == DCP_E_FORMAT || (statuses & OR(v->status)) != 0);
    CHECK(strstr(v->err.message, s->f->commit) != NULL || strstr(v->err.message, "tensor \"") != NULL);
    CHECK(is_said);
}
static void judge_number(const subject *s, const place *at, int64_t now, const number *n, const verdict *v) {
    const allowance *a = allowance_of(at->path);
    const int is_seed = is_named(at->path, "seed"), is_absent = strcmp(n->text, "null") == 0;
    int wanted = n->is_int ? n->value == now ? 1 : may_be(a->what, n->value) : 0;
    int statuses = a->statuses;
    if (is_absent || (n->is_int && wanted == 0 && says_little(s, at, n->value))) wanted = -1;
    if (is_seed)
        wanted = n->text[0] == '-' || strchr(n->text, 'e') || strchr(n->text, 'E') || strchr(n->text, '.') ||
                 strpbrk(n->text, "\"tn{[") ? 0 : strtoull(n->text, NULL, 10) < UINT64_MAX ||
                 strcmp(n->text, "18446744073709551615") == 0;
    if (is_seed && is_absent) wanted = 1;
    if (is_absent || wanted < 0) statuses |= OR(DCP_E_MISMATCH) | OR(DCP_E_INVALID) | OR(DCP_E_INCOMPLETE);
    if (wanted >= 0 && (v->status == DCP_OK) != wanted) printf("%s: %s\n", v->call ? v->call : "", v->err.message);
    if (wanted >= 0) CHECK_INT(v->status == DCP_OK, wanted);
    if (v->status != DCP_OK) check_refusal(s, at, v, strlen(n->text), !n->is_int && !is_absent && !is_seed, statuses);
}
/* The first of its kind ("shards[].tensors[].size") in the document. */
static void kind_of(const char *path, char to[96]) {
    for (; *path; path++) {
        *to++ = *path;
        if (*path == '[') path += strcspn(path, "]") - 1;
    }
    *to = '\0';
}
static int is_first(const subject *s, int i) {
    char mine[96], other[96];
    int k;
    kind_of(s->at.list[i].path, mine);
    for (k = 0; k < i; k++) {
        kind_of(s->at.list[k].path, other);
        if (strcmp(mine, other) == 0) return 0;
    }
    return 1;
}
/* How many of several values to leave out: of the first of a kind none. */
static int stride_of(const subject *s, int i) {
    return test_times(40) < 40 ? (is_first(s, i) ? 4 : 24) : is_first(s, i) ? 1 : 9;
}

static int each_number(const form *f) {
    subject s;
    verdict v;
    numbers n;
    int i, k, cases = 0;
    subject_make(&s, f);
    subject_put(&s, &s.body);
    v = use_everything(&s);
    CHECK_OK_MESSAGE(v.status, v.err.message);
    for (i = 0; i < s.at.count; i++) {
        const place *at = &s.at.list[i];
        const char *words = s.body.data + at->start;
        const int step = stride_of(&s, i);
        int64_t now = (int64_t)strtoll(words, NULL, 10);
        if (!is_integer(words, at->end - at->start)) continue;
        numbers_around(&n, now);
        for (k = i % step; k < n.count; k += step, cases++) {
            doing("%s: %s is %s", f->name, at->path, n.list[k].text);
            subject_change(&s, at->start, at->end, n.list[k].text);
            v = use_everything(&s);
            judge_number(&s, at, now, &n.list[k], &v);
        }
    }
    subject_end(&s);
    return cases;
}
TEST(each_number_at_each_bound_sharded) { CHECK(each_number(&forms[0]) > test_times(500)); }
TEST(each_number_at_each_bound_sharded_flat) { CHECK(each_number(&forms[1]) > test_times(500)); }
TEST(each_number_at_each_bound_single) { CHECK(each_number(&forms[2]) > test_times(500)); }
TEST(each_number_at_each_bound_manifest) { CHECK(each_number(&forms[3]) > test_times(500)); }
TEST(each_number_at_each_bound_manifest_yaml) { CHECK(each_number(&forms[4]) > test_times(500)); }

/* ---- duplicate members, values of another kind, strings --------------------------------------------------- */
/* a program's own JSON */
static int is_free(const char *path) { return strstr(path, "ptimizerState.") || strstr(path, "optimizer_state."); }

TEST(each_member_twice) {
    int f, i;
    for (f = 0; f < FORMS; f++) {
        subject s;
        subject_make(&s, &forms[f]);
        for (i = 0; i < s.at.count; i++) {
            const place *at = &s.at.list[i];
            text words = { NULL, 0, 0 };
            verdict v;
            if (!at->is_member || i % stride_of(&s, i) != 0) continue;
            doing("%s: %s twice", forms[f].name, at->path);
            text_add(&words, s.body.data + at->key, at->end - at->key);
            if (!forms[f].yaml || is_free(at->path)) text_say(&words, ", ");
            else {                                      /* as far to the right as the first */
                size_t column = at->key, blank;
                while (column > 0 && s.body.data[column - 1] != '\n') column--;
                text_say(&words, "\n");
                for (blank = column; blank < at->key; blank++) text_say(&words, " ");
            }
            subject_change(&s, at->key, at->key, words.data);
            v = use_everything(&s);
            CHECK_INT(v.status, DCP_E_FORMAT);
            CHECK(strstr(v.err.message, "duplicate key") != NULL);
            CHECK_INT(byte_said(v.err.message), at->key + words.size);
            text_free(&words);
        }
        subject_end(&s);
    }
}
static char kind_at(const char *words) {
    /* a plain scalar of YAML */
    if (strncmp(words, "null", 4) != 0 && strncmp(words, "true", 4) != 0 && words[0] >= 'a') return '"';
    return strchr("\"[{nt", words[0]) ? words[0] : '0';
}
static void judge_kind(const subject *s, const place *at, char old, const char *words, const verdict *v) {
    const int is_checksum = strstr(s->f->name, "yaml") && is_named(at->path, "checksum");  /* digits need no quotes */
    const char now = is_checksum && words[0] == '5' ? '"' : kind_at(words);
    const int others = OR(DCP_E_MISMATCH) | OR(DCP_E_INVALID) | OR(DCP_E_INCOMPLETE) | OR(DCP_E_CHECKSUM);
    if (is_free(at->path)) { CHECK_OK_MESSAGE(v->status, v->err.message); return; }
    if (v->status == DCP_OK) { CHECK(now == 'n' || now == old || is_named(at->path, "size_budget")); return; }
    check_refusal(s, at, v, strlen(words), now != 'n' && now != old && !is_named(at->path, "size_budget"), others);
}
TEST(each_value_of_another_kind) {
    static const char *const values[] = { "null", "true", "5", "\"x\"", "[]", "{}", "[[]]", "{\"a\": []}" };
    int f, i;
    size_t k;
    for (f = 0; f < FORMS; f++) {
        subject s;
        subject_make(&s, &forms[f]);
        for (i = f < 4; i < s.at.count; i++) {          /* in JSON the first is the document itself */
            const place *at = &s.at.list[i];
            const char *words = s.body.data + at->start;
            const int step = stride_of(&s, i);
            const char old = kind_at(words);
            for (k = (size_t)(i % step); k < DCPI_COUNT(values); k += (size_t)step) {
                verdict v;
                doing("%s: %s is %s", forms[f].name, at->path, values[k]);
                subject_change(&s, at->start, at->end, values[k]);
                v = use_everything(&s);
                judge_kind(&s, at, old, values[k], &v);
            }
        }
        subject_end(&s);
    }
}
/* Texts: what would leave the directory, stop a terminal, overrun a buffer, or be a format. */
TEST(each_string_a_hostile_one) {
    static char longest[6000] = "\"";
    static const char *const values[] = {
        "\"\"", "\"x\"", "\"\\u001b[2J\\u0007\"", "\"a\\nb\\tc\"", "\"\xE2\x80\xAE" "gnp.x\"", "\"a\xE2\x81\xA6z\"",
            "\"\\u0085\\u009b2J\"", "\"\\u2028\"", "\"\\u0000\"",
        "\"\\ud800\"", "\"\xC0\xAF\"", "\"../../p\"", "\"/etc/passwd\"", "\"%s%n%s%n%s%n\"", "\"a\\\\b\"", "\"C:x\"",
        "\".\"", "\"..\"", "\"a//b\"", "\"p.metadata.json\"",
        "\"p.checkpoint\"", "\"p.manifest.json\"", "\"p_shard_1.bin\"", "\"p_shard_0.bin/\"", "\"sha256-tree:\"",
        "\"18446744073709551616\"", "\"99999999999.0.0\"", longest
    };
    int f, i;
    size_t k;
    memset(longest + 1, 'a', sizeof longest - 3);
    longest[sizeof longest - 2] = '"';
    for (f = 0; f < FORMS; f++) {
        subject s;
        subject_make(&s, &forms[f]);
        for (i = 0; i < s.at.count; i++) {
            const place *at = &s.at.list[i];
            const char *words = s.body.data + at->start;
            const int step = stride_of(&s, i);
            if (words[0] != '"' && !(forms[f].yaml && words[0] >= 'a' && words[0] <= 'z')) continue;
            for (k = (size_t)(i % step); k < DCPI_COUNT(values); k += (size_t)step) {
                verdict v;
                if (strncmp(words, values[k], strlen(values[k])) == 0) continue;
                doing("%s: %s is %.40s", forms[f].name, at->path, values[k]);
                subject_change(&s, at->start, at->end, values[k]);
                v = use_everything(&s);
                if (v.status != DCP_OK && !is_free(at->path))
                    check_refusal(&s, at, &v, strlen(values[k]), 0, OR(DCP_E_MISMATCH) | OR(DCP_E_INCOMPLETE) |
                                  OR(DCP_E_CHECKSUM) | OR(DCP_E_VERSION));
                if (is_named(at->path, "filePath") || is_named(at->path, "path")) CHECK(v.status != DCP_OK);
                if (k >= 8 && k <= 10) CHECK(v.status != DCP_OK);
            }
        }
        subject_end(&s);
    }
}
/* Keys too: a hostile one is unknown, or refused; its owner's member is missing. */
TEST(each_key_a_hostile_one) {
    static const char *const keys[] = { "\"\"", "\"\\u0000\"", "\"\xE2\x80\xAE\"", "\"\\u001b[31m\"", "\"%n\"",
                                        "\"\xFF\"" };
    int f, i;
    for (f = 0; f < FORMS - 1; f++) {
        subject s;
        subject_make(&s, &forms[f]);
        for (i = 0; i < s.at.count; i++) {
            const place *at = &s.at.list[i];
            size_t k = (size_t)i % DCPI_COUNT(keys);
            verdict v;
            if (!at->is_member || is_free(at->path) || i % stride_of(&s, i) != 0) continue;
            doing("%s: the key of %s is %s", forms[f].name, at->path, keys[k]);
            subject_change(&s, at->key, string_end(s.body.data, at->key), keys[k]);
            v = use_everything(&s);
            CHECK(v.status == DCP_OK || v.status == DCP_E_FORMAT || v.status == DCP_E_MISMATCH ||
                  v.status == DCP_E_INVALID || v.status == DCP_E_INCOMPLETE || v.status == DCP_E_CHECKSUM);
            if (k == 1 || k == 5) CHECK_INT(v.status, DCP_E_FORMAT);
        }
        subject_end(&s);
    }
}

/* =====================================================================================================================
 * 2. Documents whose members agree with each other, and lie
 * ================================================================================================================== */
enum { CHANGES = 6 };
typedef struct change { const char *path, *words; } change;
typedef struct lie {
    int form; const char *what;
    change changes[CHANGES];
    dcp_status status; const char *words;               /* DCP_OK: all is well */
} lie;
/* In form[0] and form[1] shard 0 has layer/w (60 bytes from 0), nibbles (3 from 64), none, own (6 from 128), and shard
 * 1 layer/w (36), odd (65 from 64) and own (6 from 192). */
#define N(i, member) "shards[0].tensors[" #i "]." member
#define O(member) "shards[1].tensors[1]." member
#define M(member) "shards[3]." member
static const lie lies[] = {
    /* 3 times (2^64 + 65) / 3: the product wraps around to 65 */
    { 1, "wrapping elements", { { O("shape"), "[3, 6148914691236517227]" },
        { O("globalShape"), "[3, 6148914691236517227]" }, { O("globalOffset"), "[0, 0]" } }, DCP_E_FORMAT, "64 bits" },
    { 3, "wrapping elements", { { M("shape"), "[3, 6148914691236517227]" },
        { M("global_shape"), "[3, 6148914691236517227]" }, { M("global_offset"), "[0, 0]" } }, DCP_E_FORMAT,
        "64 bits" },
    { 2, "wrapping elements", { { O("shape"), "[3, 6148914691236517227]" },
        { O("globalShape"), "[3, 6148914691236517227]" }, { O("globalOffset"), "[0, 0]" } }, DCP_E_FORMAT, "64 bits" },
    { 1, "wrapping in 8 dimensions", { { O("shape"), "[256, 256, 256, 256, 256, 256, 256, 256]" },
        { O("globalShape"), "[256, 256, 256, 256, 256, 256, 256, 256]" },
        { O("globalOffset"), "[0, 0, 0, 0, 0, 0, 0, 0]" } }, DCP_E_FORMAT, "64 bits" },
    { 1, "wrapping to nothing", { { N(2, "shape"), "[4294967296, 4294967296]" },
        { N(2, "globalShape"), "[4294967296, 4294967296]" } }, DCP_E_FORMAT, "64 bits" },
    { 1, "an empty tensor whose strides do not fit", { { N(2, "shape"), "[0, 4611686018427387904, 4]" },
        { N(2, "globalShape"), "[0, 4611686018427387904, 4]" }, { N(2, "globalOffset"), "[0, 0, 0]" } }, DCP_E_FORMAT,
        "64 bits" },
    /* 2^62 + 15 elements of 4 bytes, 2^62 + 5 of 4 bits */
    { 1, "wrapping bytes", { { N(0, "shape"), "[4611686018427387919]" },
        { N(0, "globalShape"), "[4611686018427387919]" }, { N(0, "globalOffset"), "[0]" } }, DCP_E_FORMAT,
        "does not fit" },
    { 0, "wrapping bits", { { N(1, "shape"), "[4611686018427387909]" },
        { N(1, "globalShape"), "[4611686018427387909]" } }, DCP_E_FORMAT, "tensors[1].size" },
    { 0, "a whole that wraps", { { N(1, "placement"), "\"sharded\"" }, { N(1, "shape"), "[5, 1]" },
        { N(1, "globalShape"), "[4294967301, 4294967296]" }, { N(1, "globalOffset"), "[0, 0]" } }, DCP_E_FORMAT,
        "64 bits" },
    /* a box at the far end of a tensor of 2^63 - 1 bytes is one; the rest is missing */
    { 0, "a corner of 2^63 bytes", { { O("placement"), "\"sharded\"" }, { O("globalShape"), "[9223372036854775807]" },
        { O("globalOffset"), "[9223372036854775742]" } }, DCP_E_INCOMPLETE, "tensor \"odd\"" },
    { 4, "a corner of 2^63 bytes", { { M("placement"), "sharded" }, { M("global_shape"), "[9223372036854775807]" },
        { M("global_offset"), "[9223372036854775742]" } }, DCP_E_INCOMPLETE, "tensor \"odd\"" },
    { 0, "one byte beyond that", { { O("placement"), "\"sharded\"" }, { O("globalShape"), "[9223372036854775807]" },
        { O("globalOffset"), "[9223372036854775743]" } }, DCP_E_FORMAT, "shards[1].tensors[1].globalOffset" },
    { 0, "a row too many in both", { { N(0, "globalShape"), "[9, 3]" },
        { "shards[1].tensors[0].globalShape", "[9, 3]" } }, DCP_E_INCOMPLETE,
        "tensor \"layer/w\": no rank stored [8:9, 0:3]" },
    { 0, "pieces that overlap", { { "shards[1].tensors[0].globalOffset", "[4, 0]" } }, DCP_E_FORMAT,
      "tensor \"layer/w\" overlap" },
    { 0, "a type of another width", { { N(0, "dataType"), "\"fp64\"" } }, DCP_E_FORMAT,
      "tensors[0].size: 60 bytes, but 15 elements of fp64 have 120" },
    { 0, "a type of the same width", { { N(0, "dataType"), "\"int32\"" } }, DCP_E_FORMAT, "dataType" },
    { 0, "an alias", { { N(1, "offset"), "0" } }, DCP_E_FORMAT, "tensors[1].offset: 0 overlaps" },
    { 0, "another order", { { N(0, "offset"), "64" }, { N(1, "offset"), "0" } }, DCP_E_FORMAT, "tensors[1].offset" },
    { 1, "an overlap of one byte", { { O("shape"), "[129]" }, { O("globalShape"), "[129]" }, { O("size"), "129" } },
      DCP_E_FORMAT, "shards[1].tensors[2].offset: 192 overlaps" },
    { 1, "no byte between", { { O("shape"), "[128]" }, { O("globalShape"), "[128]" }, { O("size"), "128" } },
      DCP_E_MISMATCH, "tensor \"odd\" is stored with shape [128]" },
    { 1, "the last tensor beyond the end", { { "shards[1].tensors[2].shape", "[4]" },
        { "shards[1].tensors[2].globalShape", "[4]" }, { "shards[1].tensors[2].size", "8" } }, DCP_E_FORMAT,
        "beyond the shard's end" },
    { 1, "and the file longer", { { "shards[1].tensors[2].shape", "[4]" },
        { "shards[1].tensors[2].globalShape", "[4]" }, { "shards[1].tensors[2].size", "8" },
        { "shards[1].fileSize", "200" } }, DCP_E_INCOMPLETE, "p_shard_1.bin" },
    { 1, "by a terabyte", { { "shards[1].tensors[2].shape", "[1099511627776]" },
        { "shards[1].tensors[2].globalShape", "[1099511627776]" }, { "shards[1].tensors[2].size", "2199023255552" },
        { "shards[1].fileSize", "2199023255744" } }, DCP_E_INCOMPLETE, "p_shard_1.bin" },
    { 1, "a tensor of 2^62 bytes", { { O("shape"), "[4611686018427387904]" },
        { O("globalShape"), "[4611686018427387904]" }, { O("size"), "4611686018427387904" },
        { "shards[1].tensors[2].offset", "4611686018427387968" }, { "shards[1].fileSize", "4611686018427387974" } },
        DCP_E_INCOMPLETE, "p_shard_1.bin" },
    { 1, "a wide hole", { { "shards[1].tensors[2].offset", "4194304" }, { "shards[1].fileSize", "4194310" } },
      DCP_E_FORMAT, "gap" },
    { 1, "a file twice", { { "shards[1].filePath", "\"p_shard_0.bin\"" } }, DCP_E_FORMAT,
      "shards[0], with another size or checksum" },
    { 1, "files exchanged", { { "shards[0].filePath", "\"p_shard_1.bin\"" },
        { "shards[1].filePath", "\"p_shard_0.bin\"" } }, DCP_E_INCOMPLETE, "p_shard_" },
    { 0, "a flat checksum beside block digests",
      { { "shards[1].checksum", "\"1111111111111111111111111111111111111111111111111111111111111111\"" } },
      DCP_E_FORMAT, "blockChecksums" },
    { 0, "no checksum", { { "shards[1].checksum", "null" } }, DCP_OK, "" },
    { 2, "regions that are one", { { "shards[1].dataOffset", "4096" } }, DCP_E_FORMAT, "" },
    { 2, "a tensor in another region", { { O("offset"), "4160" } }, DCP_E_FORMAT, "shards[1].tensors[1].offset" },
    { 2, "renamed by hand", { { "shards[0].filePath", "\"q.checkpoint\"" },
        { "shards[1].filePath", "\"q.checkpoint\"" } }, DCP_OK, "" },
    { 2, "a name of another file", { { "shards[0].filePath", "\"q.checkpoint\"" } }, DCP_E_FORMAT, "filePath" },
    { 3, "no global shape of a replica", { { "optim_state.shards[0].global_shape", "null" },
        { "optim_state.shards[0].global_offset", "null" } }, DCP_OK, "" },
    { 4, "no global shape of what is private", { { "shards[1].global_shape", "null" },
        { "shards[1].global_offset", "null" } }, DCP_OK, "" },
    { 3, "a shard of 2^62 bytes", { { M("shape"), "[4611686018427387904]" },
        { M("global_shape"), "[4611686018427387904]" }, { M("size"), "4611686018427387904" } }, DCP_E_FORMAT, "block" },
    { 3, "one of 2^62 bytes with a flat checksum", { { M("shape"), "[4611686018427387904]" },
        { M("global_shape"), "[4611686018427387904]" }, { M("size"), "4611686018427387904" },
        { M("block_size"), "null" }, { M("block_checksums"), "null" },
        { M("checksum"), "\"1111111111111111111111111111111111111111111111111111111111111111\"" } }, DCP_E_INCOMPLETE,
        "experts/" },
    { 4, "tiers larger than anything", { { "tiers[0].size_budget", "\"9223372036854775807\"" } }, DCP_OK, "" },
    { 4, "and a byte larger", { { "tiers[0].size_budget", "\"9223372036854775808\"" } }, DCP_E_FORMAT, "size_budget" },
    { 4, "exbibytes", { { "tiers[0].size_budget", "\"8EiB\"" } }, DCP_E_FORMAT, "size_budget" }
};
static verdict use_lie(const subject *s, const lie *l) {
    text body = { NULL, 0, 0 };
    verdict v;
    int i = s->at.count, k, c;
    const place *order[CHANGES];
    const char *words[CHANGES];
    for (i = 0, c = 0; i < s->at.count; i++)            /* in the order of the document */
        for (k = 0; k < CHANGES && l->changes[k].path; k++)
            if (strcmp(s->at.list[i].path, l->changes[k].path) == 0) {
                order[c] = &s->at.list[i];
                words[c++] = l->changes[k].words;
            }
    for (k = 0; k < CHANGES && l->changes[k].path; k++) (void)place_of(s, l->changes[k].path);
    for (i = 0, k = 0; k < c; k++) {
        text_add(&body, s->body.data + i, order[k]->start - (size_t)i);
        text_say(&body, words[k]);
        i = (int)order[k]->end;
    }
    text_add(&body, s->body.data + i, s->body.size - (size_t)i);
    subject_put(s, &body);
    v = use_everything(s);
    text_free(&body);
    return v;
}
TEST(members_that_agree_and_lie) {
    int f;
    size_t i;
    for (f = 0; f < FORMS; f++) {
        subject s;
        subject_make(&s, &forms[f]);
        for (i = 0; i < DCPI_COUNT(lies); i++) {
            verdict v;
            if (lies[i].form != f) continue;
            doing("%s: %s", forms[f].name, lies[i].what);
            v = use_lie(&s, &lies[i]);
            if (v.status != lies[i].status || !strstr(v.err.message, lies[i].words))
                printf("%s: %s: %s\n", v.call ? v.call : "", dcp_status_name(v.status), v.err.message);
            CHECK_INT(v.status, lies[i].status);
            CHECK(strstr(v.err.message, lies[i].words) != NULL);
        }
        subject_end(&s);
    }
}

/* A byte in a gap that the file's own checksum covers: what reads the tensors does not see it, what looks at every byte
 * does. */
TEST(gaps_that_are_not_zero_under_a_good_checksum) {
    subject s;
    text body = { NULL, 0, 0 };
    const place *at;
    verdict v;
    void *data;
    size_t size;
    char digest[65];
    subject_make(&s, &forms[1]);
    CHECK_OK(dcp_storage_read_all(s.storage, "p_shard_1.bin", &data, &size, NULL, NULL));
    CHECK_INT(size, 198);
    ((char *)data)[150] = 1;
    put(s.storage, "p_shard_1.bin", data, size);
    sha_hex(data, size, digest);
    dcp_free(data);
    at = place_of(&s, "shards[1].checksum");
    text_add(&body, s.body.data, at->start + 1);
    text_say(&body, digest);
    text_add(&body, s.body.data + at->end - 1, s.body.size - at->end + 1);
    subject_put(&s, &body);
    v = use_everything(&s);
    CHECK_STR(v.call, "verify");
    CHECK_INT(v.status, DCP_E_CHECKSUM);
    CHECK(strstr(v.err.message, "p_shard_1.bin") && strstr(v.err.message, "between 129 and 192"));
    memset(&v, 0, sizeof v);
    use_load(s.storage, DCP_VERIFY_TOUCHED, &v);
    CHECK_OK_MESSAGE(v.status, v.err.message);
    use_load(s.storage, DCP_VERIFY_ALL, &v);
    CHECK_INT(v.status, DCP_E_CHECKSUM);
    text_free(&body);
    subject_end(&s);
}
/* Deeper than the limit: refused at the limit, however deep it goes on. */
TEST(nesting_ends_at_the_limit) {
    static const int depths[] = { DCP_LIMIT_DEPTH - 1, DCP_LIMIT_DEPTH, DCP_LIMIT_DEPTH + 1, 100000 };
    int f, i, kind, d;
    for (f = 0; f < FORMS; f++) {
        subject s;
        const place *first;
        subject_make(&s, &forms[f]);
        first = &s.at.list[forms[f].yaml ? 0 : 1];
        for (i = 0; i < (int)DCPI_COUNT(depths); i++) {
            for (kind = 0; kind < 2; kind++) {
                text words = { NULL, 0, 0 };
                verdict v;
                doing("%s: %d %s", forms[f].name, depths[i], kind ? "objects" : "arrays");
                text_say(&words, forms[f].yaml ? "x: " : "\"x\": ");
                for (d = 0; d < depths[i]; d++) text_say(&words, kind ? "{\"a\": " : "[");
                text_say(&words, "1");
                for (d = 0; d < depths[i]; d++) text_say(&words, kind ? "}" : "]");
                text_say(&words, forms[f].yaml ? "\n" : ", ");
                subject_change(&s, first->key, first->key, words.data);
                v = use_everything(&s);
                if (v.status) CHECK_INT(v.status, DCP_E_FORMAT);
                CHECK_INT(v.status == DCP_OK, depths[i] < DCP_LIMIT_DEPTH);
                if (v.status) CHECK(byte_said(v.err.message) <= (long)first->key + 5 + 6 * (DCP_LIMIT_DEPTH + 1));
                text_free(&words);
            }
        }
        subject_end(&s);
    }
}
/* The header of a single file says again what its document says: any number of it, at any bound. Every 4 bytes are one,
 * somewhere. */
TEST(each_number_of_a_header) {
    static const uint64_t bounds[] = { 0, 1, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu, (uint64_t)1 << 32, INT64_MAX,
                                       (uint64_t)1 << 63, UINT64_MAX };
    subject s;
    void *file;
    uint8_t kept[8], *bytes;
    size_t size, at, k, json_end, width;
    subject_make(&s, &forms[2]);
    CHECK_OK(dcp_storage_read_all(s.storage, "p.checkpoint", &file, &size, NULL, NULL));
    bytes = (uint8_t *)file;
    json_end = 14 + dcpi_load32(bytes + 10);
    for (at = 0; at + 8 <= 4096; at++) {
        if (at == 14) at = json_end - 4;
        if (at > json_end && (at - json_end) % (size_t)(test_times(40) < 40 ? 3 : 1) != 0) continue;
        memcpy(kept, bytes + at, 8);
        for (k = 0; k < DCPI_COUNT(bounds); k++) {
            dcp_checkpoint *c;
            dcp_open_desc desc = DCP_ZERO;
            dcp_error err;
            for (width = k < 5 ? 4 : 8; width > 0; width--)
                bytes[at + width - 1] = (uint8_t)(bounds[k] >> 8 * (width - 1));
            doing("byte %d is %" PRIx64, (int)at, bounds[k]);
            if (memcmp(kept, bytes + at, 8) == 0) continue;
            put(s.storage, "p.checkpoint", bytes, size);
            desc.path = "p";
            desc.io = the_io(s.storage);
            CHECK(dcp_open(&desc, &c, &err) != DCP_OK && c == NULL);
            check_message(&err, err.status);
            CHECK(err.status == DCP_E_FORMAT || err.status == DCP_E_CHECKSUM || err.status == DCP_E_VERSION);
            CHECK(strstr(err.message, "p.checkpoint: ") != NULL);
            if (at >= json_end) CHECK(strstr(err.message, "of its header is not what its metadata says") != NULL);
            memcpy(bytes + at, kept, 8);
        }
        memcpy(bytes + at, kept, 8);
    }
    dcp_free(file);
    subject_end(&s);
}

/* =====================================================================================================================
 * 3. Directories
 * ================================================================================================================== */
#ifndef _WIN32
#define ID "0123456789abcdef"
typedef struct yard {              /* a directory of checkpoints, and one outside with a file that must stay as it is */
    dcp_storage *storage;
    char dir[TEST_PATH], outside[TEST_PATH];
} yard;
static const char precious[] = "precious";

/* In memory where that is possible: these tests make many files. */
static void in_ram(char dir[TEST_PATH]) {
    const char *old = getenv("TMPDIR");
    char kept[TEST_PATH] = "";
    if (old) (void)snprintf(kept, sizeof kept, "%s", old);
    if (access("/dev/shm", W_OK) == 0) (void)setenv("TMPDIR", "/dev/shm", 1);
    (void)snprintf(dir, TEST_PATH, "%s", test_dir());
    if (old) (void)setenv("TMPDIR", kept, 1);
    else (void)unsetenv("TMPDIR");
}
static const char *in_dir(const char *dir, const char *name) {          /* valid for three more calls */
    static char path[4][TEST_PATH + 300];
    static int turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], sizeof path[0], "%s/%s", dir, name);
    return path[turn];
}
static void yard_open(yard *y) {
    dcp_storage *outside;
    dcp_error err;
    in_ram(y->dir);
    in_ram(y->outside);
    CHECK_OK_MESSAGE(dcp_storage_local(y->dir, &y->storage, &err), err.message);
    CHECK_OK_MESSAGE(dcp_storage_local(y->outside, &outside, &err), err.message);
    put(outside, "precious", precious, sizeof precious);
    dcp_storage_close(outside);
}
static void check_precious(const yard *y, nlink_t links) {
    char bytes[sizeof precious + 1];
    struct stat info;
    FILE *file = fopen(in_dir(y->outside, "precious"), "rb");
    CHECK(file != NULL);
    CHECK_INT(fread(bytes, 1, sizeof bytes, file), sizeof precious);
    CHECK_INT(fclose(file), 0);
    CHECK(memcmp(bytes, precious, sizeof precious) == 0);
    CHECK_INT(stat(in_dir(y->outside, "precious"), &info), 0);
    CHECK_INT(info.st_nlink, links);
}
static void yard_close(yard *y) {                       /* some tests have many */
    dcp_storage_close(y->storage);
    while (test_state.dirs > 0) test_rm_rf(test_state.dir[--test_state.dirs]);
    done_doing();
}
static int is_there(dcp_storage *storage, const char *key) {
    int exists = -1;
    CHECK_OK(dcp_storage_exists(storage, key, &exists, NULL, NULL));
    return exists;
}
static size_t sweep_all(dcp_storage *storage) {
    dcp_sweep_desc desc = DCP_ZERO;
    dcp_removal removal;
    dcp_error err;
    size_t count;
    desc.grace_seconds = -1;
    desc.plain_names = 1;
    desc.io = the_io(storage);
    CHECK_OK_MESSAGE(dcp_sweep(&desc, &removal, &err), err.message);
    count = removal.path_count;
    dcp_removal_free(&removal);
    return count;
}
static dcp_status load_path(dcp_storage *storage, const char *path, dcp_error *err) {
    dcp_load_desc desc = DCP_ZERO;
    dcp_status status;
    state s;
    int t;
    state_make(&s, 0, 0);
    for (t = 0; t < SHARED; t++) s.list[t].placement = DCP_PLACE_AUTO;
    desc.path = path;
    desc.tensors = s.list;
    desc.tensor_count = SHARED;
    desc.verify = DCP_VERIFY_ALL;
    desc.io = the_io(storage);
    status = dcp_load(&desc, err);
    check_message(err, status);
    for (t = 0; t < SHARED && !status; t++) CHECK(is_saved(&s, t, 0));
    return status;
}
static void check_loads(dcp_storage *storage, const char *path) {
    dcp_error err;
    CHECK_OK_MESSAGE(load_path(storage, path, &err), err.message);
}
static dcp_status remove_path(dcp_storage *storage, const char *path, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = path;
    desc.io = the_io(storage);
    return dcp_remove(&desc, NULL, err);
}
static size_t list_count(dcp_storage *storage) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t count, i;
    desc.io = the_io(storage);
    CHECK_OK_MESSAGE(dcp_list(&desc, &entries, &count, &err), err.message);
    for (i = 0; i < count; i++) check_words(entries[i].message);
    dcp_free(entries);
    return count;
}

/* `ln -s step_1.metadata.json latest.metadata.json`, by hand: no checkpoint of its own, and in nobody's way. */
TEST(a_link_to_the_newest_is_in_nobodys_way) {
    int is_absolute, f;
    for (is_absolute = 0; is_absolute <= 1; is_absolute++) {
        for (f = 0; f < FORMS; f++) {
            yard y;
            dcp_latest_desc latest = DCP_ZERO;
            dcp_error err;
            char link[40], *path;
            yard_open(&y);
            doing("%s, %s", forms[f].name, is_absolute ? "absolute" : "relative");
            save_form(&forms[f], y.storage, "p");
            (void)snprintf(link, sizeof link, "latest%s", forms[f].commit + 1);
            CHECK_INT(symlink(is_absolute ? in_dir(y.dir, forms[f].commit) : forms[f].commit, in_dir(y.dir, link)), 0);
            put(y.storage, "x_shard_0." ID ".bin", "left", 4);
            put(y.storage, "dense/x_0_of_1.v1." ID ".bin", "left", 4);
            put(y.storage, "x.metadata.json." ID ".tmp", "left", 4);
            CHECK_INT(sweep_all(y.storage), 3);
            check_loads(y.storage, "p");
            CHECK_INT(load_path(y.storage, "latest", &err), DCP_E_INVALID);
            CHECK(strstr(err.message, "latest") && strstr(err.message, "link"));
            CHECK_INT(list_count(y.storage), 1);
            latest.io = the_io(y.storage);
            CHECK_OK_MESSAGE(dcp_latest(&latest, &path, &err), err.message);
            CHECK_STR(path, forms[f].commit);
            dcp_free(path);
            /* with the data: the link names nothing else */
            CHECK_OK_MESSAGE(remove_path(y.storage, "p", &err), err.message);
            CHECK(readlink(in_dir(y.dir, link), link, sizeof link) > 0);            /* still there: it is not ours */
            CHECK_INT(list_count(y.storage), 0);
            put(y.storage, "x_shard_0." ID ".bin", "left", 4);
            CHECK_INT(sweep_all(y.storage), 0);         /* a link to what is gone, or elsewhere, may name anything */
            check_precious(&y, 1);
            yard_close(&y);
        }
    }
}
/* A commit file that was moved elsewhere and left a link: what it names stays, whatever is removed beside it. */
TEST(what_a_linked_commit_file_may_name_stays) {
    int f;
    for (f = 0; f < FORMS; f++) {
        yard y;
        dcp_error err;
        char other[40];
        if (forms[f].layout == DCP_LAYOUT_SINGLE) continue;
        yard_open(&y);
        doing("%s", forms[f].name);
        save_form(&forms[f], y.storage, "p");
        (void)snprintf(other, sizeof other, "q%s", forms[f].commit + 1);
        if (forms[f].layout == DCP_LAYOUT_MANIFEST) save_form(&forms[f], y.storage, "q");   /* of the same files */
        else {                                 /* the same document under another name: the files bear another prefix */
            void *data;
            size_t size;
            CHECK_OK(dcp_storage_read_all(y.storage, forms[f].commit, &data, &size, NULL, NULL));
            put(y.storage, other, data, size);
            dcp_free(data);
        }
        CHECK_INT(rename(in_dir(y.dir, other), in_dir(y.outside, other)) == 0 || errno == EXDEV, 1);
        CHECK_INT(symlink(in_dir(y.outside, other), in_dir(y.dir, other)), 0);
        CHECK_INT(sweep_all(y.storage), 0);
        check_loads(y.storage, "p");
        CHECK_OK_MESSAGE(remove_path(y.storage, "p", &err), err.message);
        CHECK_INT(sweep_all(y.storage), 0);
        CHECK_INT(unlink(in_dir(y.dir, other)), 0);
        CHECK_INT(rename(in_dir(y.outside, other), in_dir(y.dir, other)), 0);
        check_loads(y.storage, "q");
        yard_close(&y);
    }
}

/* ---- what stands in the place of a data file --------------------------------------------------------------------- */
typedef enum oddity { LINK, HARD_LINK, FIFO, DIRECTORY, SOCKET, DEVICE, ODDITIES } oddity;
static const char *const oddity_names[] = { "a link", "a hard link", "a FIFO", "a directory", "a socket", "a device" };

static int make_socket(const char *path) {
    struct sockaddr_un at;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), made = 0;
    memset(&at, 0, sizeof at);
    at.sun_family = AF_UNIX;
    if (fd >= 0 && strlen(path) < sizeof at.sun_path) {
        memcpy(at.sun_path, path, strlen(path));
        made = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    }
    if (fd >= 0) (void)close(fd);
    return made;
}
static int make_oddity(const yard *y, oddity kind, const char *path) {
    switch (kind) {
        case LINK: return symlink(in_dir(y->outside, "precious"), path) == 0;
        case HARD_LINK: return link(in_dir(y->outside, "precious"), path) == 0;
        case FIFO: return mkfifo(path, 0600) == 0;
        case DIRECTORY: return mkdir(path, 0700) == 0;
        case SOCKET: return make_socket(path);
#ifdef __linux__
        default: return mknod(path, S_IFCHR | 0600, (dev_t)0x105) == 0;     /* /dev/zero; needs root */
#else
        default: return 0;
#endif
    }
}
/* What somebody's file of another kind does to each call: an error that names it, at once; nothing outside is
 * touched. */
static void use_oddity(const yard *y, const form *f, const char *key, oddity kind) {
    struct stat before, now;
    verdict v;
    dcp_error err;
    memset(&v, 0, sizeof v);
    CHECK_INT(lstat(in_dir(y->dir, key), &before), 0);
    use_load(y->storage, DCP_VERIFY_TOUCHED, &v);
    CHECK(v.status == DCP_E_INVALID || v.status == DCP_E_INCOMPLETE || v.status == DCP_E_IO ||
          v.status == DCP_E_UNSUPPORTED);
    CHECK(strstr(v.err.message, key) != NULL);
    if (f->layout == DCP_LAYOUT_MANIFEST) use_sync(y->storage, f->commit, &v);
    CHECK_INT(list_count(y->storage), 1);
    CHECK_INT(sweep_all(y->storage), 0);
    CHECK_INT(lstat(in_dir(y->dir, key), &now), 0);
    CHECK(now.st_ino == before.st_ino && now.st_mode == before.st_mode);
    (void)remove_path(y->storage, "p", &err);
    check_message(&err, err.status);
    (void)sweep_all(y->storage);
    check_precious(y, kind == HARD_LINK && lstat(in_dir(y->dir, key), &now) == 0 ? 2 : 1);
}
TEST(data_files_that_are_something_else) {
    static const char *const keys[FORMS] = { "p_shard_1.bin", "p_shard_0.bin", "p.checkpoint",
                                             "experts/tier_1/group_0/expert_2.bin", "dense/layer/w_0_of_2.bin" };
    int f, kind;
    for (f = 0; f < FORMS; f++) {
        /* test_faults.c: commit_files_that_are_no_files_are_refused */
        if (forms[f].layout == DCP_LAYOUT_SINGLE) continue;
        for (kind = 0; kind < ODDITIES; kind++) {
            yard y;
            yard_open(&y);
            doing("%s: %s is %s", forms[f].name, keys[f], oddity_names[kind]);
            save_form(&forms[f], y.storage, "p");
            CHECK_INT(unlink(in_dir(y.dir, keys[f])), 0);
            if (make_oddity(&y, (oddity)kind, in_dir(y.dir, keys[f]))) use_oddity(&y, &forms[f], keys[f], (oddity)kind);
            yard_close(&y);
        }
    }
}
/* The folder of a manifest's files leads elsewhere: nothing is read there, written there, or removed there. */
TEST(folders_that_are_links) {
    yard y;
    dcp_error err;
    saving v;
    yard_open(&y);
    save_form(&forms[3], y.storage, "p");
    CHECK_INT(mkdir(in_dir(y.outside, "dense"), 0700), 0);
    CHECK_INT(rename(in_dir(y.dir, "dense/layer"), in_dir(y.outside, "dense/layer")), 0);
    CHECK(rename(in_dir(y.dir, "dense"), in_dir(y.outside, "old")) == 0 &&
          symlink(in_dir(y.outside, "dense"), in_dir(y.dir, "dense")) == 0);
    CHECK(load_path(y.storage, "p", &err) != DCP_OK);
    CHECK(strstr(err.message, "dense/layer/w_0_of_2.bin") != NULL);
    CHECK_INT(sweep_all(y.storage), 0);
    memset(&v, 0, sizeof v);
    v.f = &forms[3];
    v.storage = y.storage;
    v.path = "q";
    save_rank(&v, 0);
    CHECK(v.status[0] != DCP_OK && v.status[0] != DCP_E_UNKNOWN);
    CHECK_INT(remove_path(y.storage, "p", &err), DCP_E_INVALID);     /* the files in that folder are not there for it */
    CHECK(strstr(err.message, "dense/layer/w_") != NULL);
    CHECK_INT(is_there(y.storage, forms[3].commit), 0);
    CHECK_INT(access(in_dir(y.outside, "dense/layer/w_0_of_2.bin"), F_OK), 0);
    CHECK_INT(access(in_dir(y.outside, "dense/layer/w_1_of_2.bin"), F_OK), 0);
    {                                                   /* and nothing has come to them */
        DIR *dir = opendir(in_dir(y.outside, "dense/layer"));
        int entries = 0;
        while (dir && readdir(dir)) entries++;
        if (dir) (void)closedir(dir);
        CHECK_INT(entries, 4);
    }
    check_precious(&y, 1);
    yard_close(&y);
}

/* ---- files that change between two calls ------------------------------------------------------------------------- */
typedef struct swap { const yard *y; const char *key; int64_t at, calls; int kind; } swap;
static void swap_hook(void *user, fault_kind kind, const char *key, int64_t call, int is_done) {
    swap *s = (swap *)user;
    (void)kind; (void)key; (void)call; (void)is_done;
    if (++s->calls != s->at) return;
    if (s->kind == 0) (void)rename(in_dir(s->y->dir, "other"), in_dir(s->y->dir, s->key));
    else if (s->kind == 1) {
        (void)unlink(in_dir(s->y->dir, s->key));
        (void)symlink(in_dir(s->y->outside, "precious"), in_dir(s->y->dir, s->key));
    } else {
        (void)unlink(in_dir(s->y->dir, s->key));
        (void)mkfifo(in_dir(s->y->dir, s->key), 0600);
    }
}
/* At each call, before and after it, the file becomes another one of the same size, a link, or a FIFO: what is loaded
 * is what was verified. */
TEST(files_that_are_exchanged_at_any_call) {
    static const char *const keys[2] = { "p_shard_0.bin", "dense/layer/w_0_of_2.bin" };
    int which, kind;
    for (which = 0; which < 2; which++) {
        for (kind = 0; kind < 3; kind++) {
            swap s;
            memset(&s, 0, sizeof s);
            for (s.at = 1; s.at <= s.calls || s.at == 1; s.at += kind == 0 ? 1 : 3) {
                yard y;
                fault_storage f;
                verdict v;
                dcp_checkpoint *c;
                dcp_open_desc desc = DCP_ZERO;
                dcp_error err;
                uint8_t other[256];
                yard_open(&y);
                save_form(&forms[which * 3], y.storage, "p");
                memset(other, 0x5A, sizeof other);
                put(y.storage, "other", other, which ? 60 : 134);
                doing("%s becomes %s at call %d", keys[which], kind == 0 ? "another" : kind == 1 ? "a link" : "a FIFO",
                      (int)s.at);
                fault_open(&f, y.storage);
                s.y = &y;
                s.key = keys[which];
                s.kind = kind;
                s.calls = 0;
                f.hook = swap_hook;
                f.user = &s;
                memset(&v, 0, sizeof v);
                use_load(&f.storage, DCP_VERIFY_TOUCHED, &v);
                desc.path = "p";
                desc.io = the_io(&f.storage);
                if (first_of(&v, dcp_open(&desc, &c, &err), &err, "open") == DCP_OK) use_tensors(c, &v);
                dcp_close(c);
                if (v.status != DCP_OK)
                    CHECK(v.status == DCP_E_CHECKSUM || v.status == DCP_E_INCOMPLETE || v.status == DCP_E_INVALID ||
                          v.status == DCP_E_IO);
                fault_close(&f);
                check_precious(&y, 1);
                yard_close(&y);
            }
            CHECK(s.at > 20);
        }
    }
    done_doing();
}
/* Sizes that are the right one modulo 2^31 and 2^32, a byte more, a byte less; sparse, so that they take no space. */
TEST(files_of_any_other_size) {
    static const int64_t more[] = { -1, 1, (int64_t)1 << 31, (int64_t)1 << 32, (int64_t)1 << 40, -134 };
    size_t i;
    for (i = 0; i < DCPI_COUNT(more); i++) {
        yard y;
        verdict v;
        subject s;
        yard_open(&y);
        doing("%" PRId64 " bytes more", more[i]);
        save_form(&forms[0], y.storage, "p");
        if (truncate(in_dir(y.dir, "p_shard_0.bin"), (off_t)(134 + more[i])) != 0) SKIP("no sparse files here");
        memset(&s, 0, sizeof s);
        s.f = &forms[0];
        s.storage = y.storage;
        v = use_everything(&s);
        CHECK_INT(v.status, DCP_E_INCOMPLETE);
        CHECK(strstr(v.err.message, "\"p_shard_0.bin\"") && strstr(v.err.message, "134"));
        yard_close(&y);
    }
}
/* What may not be read is trouble, never "there is none": nobody starts from scratch because of it. */
TEST(files_that_may_not_be_read) {
    static const int errors[] = { EACCES, EPERM, ENAMETOOLONG, EMFILE };
    dcp_storage *storage = in_memory();
    size_t i;
    int n;
    save_form(&forms[0], storage, "p");
    for (i = 0; i < DCPI_COUNT(errors); i++) {
        for (n = 1; n <= 3; n++) {
            fault_storage f;
            dcp_error err;
            dcp_latest_desc latest = DCP_ZERO;
            dcp_status status;
            char *path;
            doing("error %d at the open %d", errors[i], n);
            fault_open(&f, storage);
            fault_set(&f, FAULT_OPEN, n, 1, errors[i]);
            status = load_path(&f.storage, "p", &err);
            CHECK(status != DCP_OK && status != DCP_E_NOT_FOUND);
            fault_set(&f, FAULT_OPEN, n, 1, errors[i]);
            latest.verify = DCP_VERIFY_ALL;
            latest.io = the_io(&f.storage);
            status = dcp_latest(&latest, &path, &err);
            if (f.failed) CHECK(status != DCP_OK && status != DCP_E_NOT_FOUND);
            dcp_free(path);
            fault_close(&f);
        }
    }
    done_doing();
    dcp_storage_close(storage);
}

/* ---- many, and with strange names -------------------------------------------------------------------------------- */
/* Listed, swept over and reported without an order to a terminal. */
TEST(names_that_turn_the_text_around) {
    static const char *const names[] = { "a\xE2\x80\xAE" "nosj.atadatem.metadata.json", "\xE2\x81\xA6" "b.checkpoint",
                                         "c\xE2\x80\xA8" "d.manifest.yaml", "e\nf.metadata.json", "g\x1b[2J.checkpoint",
                                         "h\xC2\x9B" "2J.metadata.json", "\xC3\xA4.manifest.json", "i\tj_shard_0."
                                         ID ".bin", "k\xE2\x80\xAEl_shard_0." ID ".bin" };
    yard y;
    dcp_error err;
    size_t i;
    yard_open(&y);
    save_form(&forms[0], y.storage, "p");
    for (i = 0; i < DCPI_COUNT(names); i++) {
        FILE *file = fopen(in_dir(y.dir, names[i]), "wb");
        CHECK(file != NULL && fputs("hostile", file) >= 0 && fclose(file) == 0);
    }
    CHECK_INT(list_count(y.storage), 5);                /* those that a key can be */
    CHECK_INT(sweep_all(y.storage), 0);                 /* what the others name is not known */
    for (i = 0; i < DCPI_COUNT(names); i++) {
        dcp_storage *plain = NULL;
        CHECK(load_path(y.storage, names[i], &err) != DCP_OK);
        CHECK(load_path(plain, in_dir(y.dir, names[i]), &err) != DCP_OK);
    }
    check_loads(y.storage, "p");
    yard_close(&y);
}
/* Files of other programs: their number costs time in proportion, and nothing else. Most of them are there only for who
 * lists them. */
typedef struct crowd { dcp_storage storage, *inner; int count; } crowd;
static crowd the_crowd;
static dcp_status crowded_list(void *context, const char *directory, dcp_list_kind what,
                               dcp_status (*each)(void *user, const char *path, const dcp_object_info *info),
                               void *user, dcp_error *err) {
    static const char *const patterns[] = { "%d.metadata.jsom", "p_%d.bin", "x%d_shard_0." ID ".bim", "%d.tmp",
                                            "p.metadata.json.%d" };
    dcp_object_info info = { 1, 1, "" };
    dcp_status status = the_crowd.inner->list(context, directory, what, each, user, err);
    char name[60];
    int i;
    for (i = 0; i < the_crowd.count && !status && !what && directory[0] == '\0'; i++) {
        (void)snprintf(name, sizeof name, patterns[i % (int)DCPI_COUNT(patterns)], i);
        status = each(user, name, &info);
    }
    return status;
}
static int64_t time_of_all(dcp_storage *storage) {
    dcp_latest_desc latest = DCP_ZERO;
    int64_t started;
    dcp_error err;
    char *path;
    struct timespec now;
    CHECK_INT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);        /* others use the machine too */
    started = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    latest.io = the_io(storage);
    CHECK_INT(list_count(storage), 1);
    CHECK_INT(sweep_all(storage), 0);
    CHECK_OK_MESSAGE(dcp_latest(&latest, &path, &err), err.message);
    dcp_free(path);
    check_loads(storage, "p");
    CHECK_INT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - started;
}
TEST(a_hundred_thousand_foreign_entries) {
    const int many = 100000, on_disk = test_times(5000);
    int64_t first, last, from;
    char path[40];
    yard y;
    int i;
    yard_open(&y);
    save_form(&forms[0], y.storage, "p");
    put(y.storage, "foreign", "x", 1);
    for (i = 0; i < on_disk; i++) {
        (void)snprintf(path, sizeof path, i % 2 ? "%d.bin" : "p_shard_0." ID ".bin.%d", i);
        CHECK_INT(link(in_dir(y.dir, "foreign"), in_dir(y.dir, path)), 0);
    }
    the_crowd.storage = *y.storage;
    the_crowd.inner = y.storage;
    the_crowd.storage.list = crowded_list;
    the_crowd.count = many / 10;
    first = time_of_all(&the_crowd.storage);
    the_crowd.count = many;
    from = hungry.bytes;
    hungry_watch();
    last = time_of_all(&the_crowd.storage);
    CHECK(hungry.peak - from <= 2048 * KIB);
    if (last > 30 * first + 200000)
        printf("  %d entries take %d us, %d take %d us\n", many / 10, (int)first, many, (int)last);
    CHECK(last <= 30 * first + 200000);
    yard_close(&y);
}
#endif

/* =====================================================================================================================
 * 4. Memory that ends: what test_faults.c, test_pool_faults.c, test_async.c and test_rank_faults.c do not starve
 * ================================================================================================================== */
/* There are "p" of each form, each in a storage of its own, and an empty storage for what the work makes. */
typedef struct larder { dcp_storage *at[FORMS], *target; int f; } larder;
typedef dcp_status (*larder_work)(larder *l, dcp_error *err);

static dcp_save_desc whole_save(state *s, const form *f, dcp_storage *storage, const char *path) {
    static const dcp_tier tier = { 1, "hot", "1GB", "lru" };
    static const dcp_router_seed seed = { 3, 9 };
    static dcp_training training;
    dcp_save_desc desc = DCP_ZERO;
    const int is_manifest = f->layout == DCP_LAYOUT_MANIFEST;
    state_make(s, 0, 1);
    training.step = 7;
    if (!is_manifest) s->list[1].tier = NULL;
    desc.path = path;
    desc.tensors = s->list;
    desc.tensor_count = TENSORS;
    desc.layout = f->layout;
    desc.yaml = f->yaml;
    desc.checksum = f->checksum;
    desc.training = &training;
    if (is_manifest) {
        desc.tiers = &tier;
        desc.tier_count = 1;
        desc.router_seeds = &seed;
        desc.router_seed_count = 1;
    }
    desc.io.storage = storage;
    desc.io.retry.attempts = 1;
    return desc;
}
static dcp_status open_larder(larder *l, const dcp_select *select, const dcp_source *source, dcp_storage *storage,
                              dcp_checkpoint **c, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    dcp_status status;
    desc.path = "p";
    desc.select = select;
    desc.sources = source;
    desc.source_count = source ? 1 : 0;
    desc.io = the_io(storage ? storage : l->at[l->f]);
    status = dcp_open(&desc, c, err);
    CHECK((*c == NULL) == (status != DCP_OK));
    return status;
}
static dcp_status work_save(larder *l, dcp_error *err) {
    state s;
    dcp_save_desc desc = whole_save(&s, &forms[l->f], l->target, "made");
    return dcp_save(&desc, err);
}
static dcp_status work_saver(larder *l, dcp_error *err) {
    dcp_saver *saver;
    state s;
    dcp_save_desc desc = whole_save(&s, &forms[l->f], l->target, "made");
    dcp_status status = dcp_saver_open(NULL, &saver, err);
    if (!status) status = dcp_save_begin(saver, &desc, err);
    if (!status) status = dcp_save_wait(saver, -1, err);
    (void)dcp_saver_close(saver, NULL);                 /* wait has said it, or nothing began */
    return status;
}
static dcp_status work_load_pieces(larder *l, dcp_error *err) {
    /* two ranks' pieces, by one; flat files are hashed, blocks verified */
    dcp_load_desc desc;
    dcp_metadata *m;
    dcp_status status;
    state s;
    int t;
    load_make(&desc, &s, l->at[l->f], DCP_VERIFY_ALL);
    desc.metadata = &m;
    status = dcp_load(&desc, err);
    for (t = 0; t < SHARED && !status; t++) CHECK(is_saved(&s, t, 0));
    CHECK((m == NULL) == (status != DCP_OK));
    dcp_metadata_free(m);
    return status;
}
static dcp_status work_strided(larder *l, dcp_error *err) {
    /* a box of both pieces, into every second element; a private tensor */
    const int64_t offset[2] = { 4, 1 }, shape[2] = { 3, 2 };
    float box[3][8] = {{0}};
    state s;
    dcp_checkpoint *c;
    dcp_tensor t = dcp_array("layer/w", DCP_FP32, box, 2, shape);
    dcp_status status = open_larder(l, NULL, NULL, NULL, &c, err);
    int row, column;
    state_make(&s, 0, 1);
    dcp_piece(&t, tensors_of[0].shape, offset);
    t.stride[0] = 8;
    t.stride[1] = 2;
    if (!status) status = dcp_read(c, &t, 1, err);
    for (row = 0; row < 3 && !status; row++)
        for (column = 0; column < 2; column++)
            CHECK(memcmp(&box[row][2 * column], s.bytes[0] + ((4 + row) * 3 + 1 + column) * 4, 4) == 0);
    if (!status) status = dcp_read_rank(c, 1, &s.list[SHARED], 1, err);
    if (!status) CHECK(is_saved(&s, SHARED, 1));
    dcp_close(c);
    return status;
}
static dcp_status work_select(larder *l, dcp_error *err) {
    static const dcp_role roles[2] = { DCP_ROLE_PARAMETER, DCP_ROLE_EXPERT };
    static const char *const tiers[1] = { "hot" };
    dcp_select select = DCP_ZERO, all = DCP_ZERO;
    const dcp_tensor_info **found = NULL;
    dcp_checkpoint *c;
    size_t count;
    dcp_status status;
    select.roles = roles;
    select.role_count = 2;
    select.name_pattern = "*d*";
    all.tiers = tiers;
    all.tier_count = forms[l->f].layout == DCP_LAYOUT_MANIFEST;
    if (forms[l->f].layout != DCP_LAYOUT_MANIFEST) select.role_count = 0;
    status = open_larder(l, &select, NULL, NULL, &c, err);
    if (!status) status = dcp_checkpoint_select(c, &all, &found, &count, err);
    CHECK((found == NULL) == (status != DCP_OK));
    if (!status) CHECK(count > 0 && dcp_checkpoint_find(c, "odd") != NULL);
    dcp_free((void *)found);
    if (!status) status = dcp_verify(c, err);
    dcp_close(c);
    return status;
}
static dcp_status work_prefetch(larder *l, dcp_error *err) {
    dcp_checkpoint *c;
    const void *data;
    size_t size;
    state s;
    dcp_status status = open_larder(l, NULL, NULL, NULL, &c, err);
    state_make(&s, 0, 1);
    if (!status) status = dcp_prefetch(c, NULL, 0, err);
    if (!status) status = dcp_prefetch_wait(c, 0, err);
    if (!status) status = dcp_map(c, "odd", &data, &size, err);
    if (!status) {
        CHECK(size == 65 && memcmp(data, s.bytes[1], size) == 0);
        dcp_release(c, "odd");
    }
    dcp_close(c);
    return status;
}
static dcp_status work_fetch(larder *l, dcp_error *err) {               /* the document is here, its files are not */
    dcp_source source = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_tensor fresh;
    state s;
    dcp_status status;
    memset(&fresh, 0, sizeof fresh);
    state_make(&s, 0, 1);
    source.storage = l->at[l->f];
    source.directory = "";
    status = open_larder(l, NULL, &source, l->target, &c, err);
    if (!status) status = dcp_read_new(c, "layer/w", &fresh, err);
    if (!status) CHECK(memcmp(fresh.data, s.bytes[0], 96) == 0);
    dcp_free(fresh.data);
    dcp_close(c);
    return status;
}
static dcp_status work_sync(larder *l, dcp_error *err) {         /* a dry run, a copy, and a look at every byte of it */
    static const char *const tiers[1] = { "hot" };
    dcp_sync_desc desc = DCP_ZERO;
    dcp_sync_report report;
    dcp_status status;
    desc.source = l->at[l->f];
    desc.path = "p";
    desc.target = l->target;
    desc.tiers = tiers;
    desc.tier_count = 1;
    desc.dry_run = 1;
    desc.report = &report;
    desc.io.memory_budget = 1 << 20;
    status = dcp_sync(&desc, err);
    desc.dry_run = 0;
    if (!status) status = dcp_sync(&desc, err);
    desc.verify = DCP_VERIFY_ALL;
    if (!status) status = dcp_sync(&desc, err);
    if (!status) CHECK_INT(report.copied, 0);
    return status;
}
static dcp_status work_directory(larder *l, dcp_error *err) {
    dcp_prune_desc prune = DCP_ZERO;
    dcp_sweep_desc sweep = DCP_ZERO;
    dcp_latest_desc latest = DCP_ZERO;
    dcp_removal removal;
    char *path;
    dcp_status status;
    prune.io = sweep.io = latest.io = the_io(l->at[l->f]);
    latest.verify = prune.verify = DCP_VERIFY_ALL;
    latest.minimum_step = 50;
    prune.keep_every = 50;
    prune.dry_run = sweep.dry_run = 1;
    sweep.plain_names = 1;
    sweep.grace_seconds = -1;
    status = dcp_latest(&latest, &path, err);
    if (!status) CHECK_STR(path, forms[l->f].commit);
    dcp_free(path);
    if (status) return status;
    status = dcp_prune(&prune, &removal, err);
    CHECK_INT(removal.path_count, 0);
    dcp_removal_free(&removal);
    if (status) return status;
    status = dcp_sweep(&sweep, &removal, err);
    CHECK_INT(removal.path_count, 0);
    dcp_removal_free(&removal);
    return status;
}
static dcp_status work_manifest(larder *l, dcp_error *err) {       /* read, changed, written in both syntaxes, signed */
    static const char key[] = "0123456789abcdef0123456789abcdef";
    dcp_signer signer = dcp_hmac_signer(key, sizeof key - 1, "k");
    dcp_manifest *m, *again = NULL;
    dcp_manifest_shard shard;
    char *words = NULL;
    size_t size;
    const uint64_t seed = 5;
    uint64_t got = 0;
    dcp_validation found;
    dcp_status status = dcp_manifest_read_file(l->at[l->f], forms[l->f].commit, NULL, NULL, &m, err);
    CHECK((m == NULL) == (status != DCP_OK));
    if (status) return status;
    shard = m->shards[0];
    shard.path = "dense/other_0_of_1.bin";
    shard.tensor_name = "other";
    if (!status) status = dcp_manifest_set_field(m, "a key", "a value", err);
    if (!status) status = dcp_manifest_add_shard(m, &shard, err);
    if (!status) status = dcp_manifest_add_optimizer_shard(m, &shard, err);
    if (!status) status = dcp_manifest_add_router(m, 17, &seed, NULL, err);
    if (!status) status = dcp_manifest_router_seed(m, 17, &got);
    if (!status) CHECK(got == 5);
    if (!status) {
        status = dcp_manifest_validate(m, &found);
        if (status == DCP_E_FORMAT) status = dcpi_succeed(err);         /* it has a shard twice now */
        else if (status) (void)dcpi_fail(err, status, "no memory to validate");
        dcp_validation_free(&found);
    }
    if (!status) status = dcp_manifest_write(m, !forms[l->f].yaml, &signer, &words, &size, err);
    CHECK((words == NULL) == (status != DCP_OK));
    if (!status) status = dcp_manifest_parse(words, size, &again, err);
    if (!status) CHECK_INT(again->shard_count, m->shard_count);
    if (!status) status = dcp_manifest_write_file(l->target, "other.manifest.yaml", m, &signer, NULL, err);
    dcp_free(words);
    dcp_manifest_free(again);
    dcp_manifest_free(m);
    return status;
}
static dcp_status work_objects(larder *l, dcp_error *err) {
    dcp_io io = the_io(NULL);
    void *data = NULL;
    size_t size;
    dcp_status status = dcp_storage_write_all(l->target, "a/b", "hello", 5, &io, err);
    if (!status) status = dcp_storage_read_all(l->target, "a/b", &data, &size, &io, err);
    if (!status) CHECK(size == 5 && memcmp(data, "hello", 5) == 0);
    dcp_free(data);
    return status;
}
static dcp_status work_group(larder *l, dcp_error *err) {
    dcp_coordinator *ranks[3];
    dcp_status status = dcp_thread_group_open(3, ranks, err);
    int r;
    (void)l;
    for (r = 0; r < 3; r++) {
        CHECK((ranks[r] == NULL) == (status != DCP_OK));
        dcp_coordinator_close(ranks[r]);
    }
    return status;
}
static dcp_status work_hostile(larder *l, dcp_error *err) {
    /* what is wrong with it is told, or that there is no memory to find out */
    dcp_checkpoint *c;
    dcp_status status;
    static const char words[] = "{\"version\": \"1.0.0\", \"worldSize\": -1, \"shards\": [{\"rank\": 7, \"filePath\": "
                                "\"../x\", \"fileSize\": -3, \"tensors\": [{\"name\": \"a\\nb\", "
                                "\"shape\": [-1, 9223372036854775807], \"dataType\": \"fp32\", \"offset\": -5, "
                                "\"size\": 1}, {\"name\": \"\"}], \"checksum\": \"x\"}]}";
    CHECK(l->target != NULL);
    status = dcp_storage_write_all(l->target, "p.metadata.json", words, sizeof words - 1, NULL, err);
    if (!status) status = open_larder(l, NULL, NULL, l->target, &c, err);
    return status;
}
/* forms: which, as bits; other: a status that is as good as DCP_OK; commit: what the work commits in the target. */
typedef struct starving {
    const char *name;
    larder_work work;
    int forms;
    dcp_status other;
    const char *made;
    int keeps;
} starving;
#define ALL_FORMS ((1 << FORMS) - 1)
#define MANIFESTS (OR(3) | OR(4))
static const starving workloads[] = {
    { "save", work_save, ALL_FORMS, DCP_OK, "made", 1 }, { "saver", work_saver, ALL_FORMS, DCP_OK, "made", 1 },
    { "load of two ranks' pieces", work_load_pieces, ALL_FORMS, DCP_OK, NULL, 0 },
    { "strided box, private tensor", work_strided, ALL_FORMS, DCP_OK, NULL, 0 },
    { "select, find, verify", work_select, ALL_FORMS, DCP_OK, NULL, 0 },
    { "prefetch, map, release", work_prefetch, ALL_FORMS, DCP_OK, NULL, 0 },
    { "fetch from a source", work_fetch, MANIFESTS, DCP_OK, NULL, 0 }, { "sync", work_sync, MANIFESTS, DCP_OK, "p", 1 },
    { "latest, prune, sweep, dry", work_directory, ALL_FORMS, DCP_OK, NULL, 0 },
    { "manifest, rewritten", work_manifest, MANIFESTS, DCP_OK, NULL, 1 },
    { "objects", work_objects, 1, DCP_OK, NULL, 1 }, { "group", work_group, 1, DCP_OK, NULL, 0 },
    { "hostile document", work_hostile, 1, DCP_E_FORMAT, NULL, 1 }
};
/* What is there is whole; what is not there has left nothing behind that a sweep does not take. A sync that came first
 * may have been done. */
static void judge_made(const larder *l, const starving *s, dcp_status status) {
    char commit[40];
    if (!s->made || status == DCP_E_UNKNOWN) return;
    (void)snprintf(commit, sizeof commit, "%s%s", s->made, forms[l->f].commit + 1);
    if (status != DCP_OK && s->work != work_sync) CHECK_INT(is_there(l->target, commit), 0);
    if (status == DCP_OK || is_there(l->target, commit)) check_loads(l->target, s->made);
    else {
        (void)sweep_all(l->target);
        CHECK_INT(list_count(l->target), 0);
    }
}
static int times_starved;
static int starve_once(larder *l, const starving *s, int64_t n, int for_ever) {
    dcp_error err;
    dcp_status status;
    int64_t live;
    int tripped, files = 0;
    void *document;
    size_t size;
    l->target = in_memory();
    if (s->work == work_fetch) {
        CHECK_OK(dcp_storage_read_all(l->at[l->f], forms[l->f].commit, &document, &size, NULL, &err));
        put(l->target, forms[l->f].commit, document, size);
        dcp_free(document);
    }
    live = hungry_live();
    memset(&err, 0x5A, sizeof err);
    hungry_fail(n, for_ever);
    status = s->work(l, &err);
    tripped = hungry.tripped;
    hungry_fail(0, 0);
    check_message(&err, status);
    CHECK(status == DCP_E_MEMORY || status == DCP_OK || status == s->other ||
          (status == DCP_E_UNKNOWN && s->made && for_ever));
    if (!tripped) CHECK_INT(status, s->other);
    if (status == DCP_E_MEMORY) CHECK(strstr(err.message, "memory") != NULL);
    if (!s->keeps) CHECK_INT(hungry_live(), live);
    judge_made(l, s, status);
    CHECK_OK(l->target->list(l->target->context, "", DCP_LIST_OBJECTS, count_one, &files, NULL));
    dcp_storage_close(l->target);
    times_starved += tripped;
    return tripped;
}
static void starve(larder *l, const starving *s) {
    const int step = test_times(100) < 100 ? 13 : l->f == 0 || l->f == 3 ? 1 : 4;
    int64_t n, live = hungry_live();
    int for_ever;
    for (for_ever = 0; for_ever <= 1; for_ever++) {
        doing("%s, %s", s->name, forms[l->f].name);
        (void)starve_once(l, s, 0, 0);                  /* it works */
        for (n = 1; ; n += step) {
            doing("%s, %s: request %d %s", s->name, forms[l->f].name, (int)n, for_ever ? "and all after it" : "once");
            if (!starve_once(l, s, n, for_ever)) break;
        }
        CHECK(n > 1);
        CHECK_INT(hungry_live(), live);                 /* all that the target held is gone with it */
    }
}
TEST(memory_ends_in_each_workload) {
    larder l;
    int64_t live = hungry_live();
    size_t i;
    int f;
    for (f = 0; f < FORMS; f++) {
        l.at[f] = in_memory();
        save_form(&forms[f], l.at[f], "p");
    }
    for (i = 0; i < DCPI_COUNT(workloads); i++)
        for (l.f = 0; l.f < FORMS; l.f++) if (workloads[i].forms & OR(l.f)) starve(&l, &workloads[i]);
    for (f = 0; f < FORMS; f++) {
        check_loads(l.at[f], "p");
        dcp_storage_close(l.at[f]);
    }
    CHECK_INT(hungry_live(), live);
    done_doing();
}

/* ---- the same on ranks that are threads: any request of any of them ---------------------------------------------- */
enum { READERS = 3 };
typedef struct reading {
    dcp_storage *storage;
    dcp_coordinator *ranks[READERS];
    dcp_status status[READERS];
    dcp_error err[READERS];
    state got[READERS];
} reading;
static void read_rank(void *user, int rank) {
    reading *v = (reading *)user;
    state *s = &v->got[rank];
    dcp_load_desc desc = DCP_ZERO;
    int t;
    state_make(s, 0, 0);
    for (t = 0; t < SHARED; t++) s->list[t].placement = DCP_PLACE_AUTO;
    desc.path = "p";
    desc.tensors = s->list;
    desc.tensor_count = SHARED;
    desc.share_reads = 1;
    desc.io.storage = v->storage;
    desc.io.coordinator = v->ranks[rank];
    desc.io.timeout_ms = 1000;
    desc.io.retry.attempts = 1;
    v->status[rank] = dcp_load(&desc, &v->err[rank]);
}
static int read_on_ranks(dcp_storage *storage, int64_t n, int for_ever) {
    reading *v = (reading *)calloc(1, sizeof *v);
    dcp_error err;
    int r, t, tripped;
    CHECK(v != NULL);
    v->storage = storage;
    CHECK_OK_MESSAGE(dcp_thread_group_open(READERS, v->ranks, &err), err.message);
    hungry_fail(n, for_ever);
    run_ranks(READERS, read_rank, v);
    tripped = hungry.tripped;
    hungry_fail(0, 0);
    for (r = 0; r < READERS; r++) dcp_coordinator_close(v->ranks[r]);
    for (r = 0; r < READERS; r++) {
        check_message(&v->err[r], v->status[r]);
        CHECK(v->status[r] == DCP_OK || v->status[r] == DCP_E_MEMORY || v->status[r] == DCP_E_COMM ||
              v->status[r] == DCP_E_TIMEOUT || v->status[r] == DCP_E_UNKNOWN);
        if (v->status[r] == DCP_OK) CHECK(v->status[0] == DCP_OK || v->status[0] == DCP_E_UNKNOWN);       /* G5 */
        for (t = 0; t < SHARED && v->status[r] == DCP_OK; t++) CHECK(is_saved(&v->got[r], t, 0));
    }
    free(v);
    return tripped;
}
TEST(memory_ends_on_ranks_that_share_their_reads) {
    const int64_t step = test_times(100) < 100 ? 23 : 5;
    int f;
    for (f = 0; f < FORMS; f += 2) {
        dcp_storage *storage = in_memory();
        int64_t n = 0, live;
        save_form(&forms[f], storage, "p");
        live = hungry_live();
        CHECK_INT(read_on_ranks(storage, 0, 0), 0);
        for (n = 1; ; n += step) {
            doing("%s: request %d", forms[f].name, (int)n);
            if (!read_on_ranks(storage, n, 0)) break;
            CHECK_INT(hungry_live(), live);
        }
        CHECK(n > 50);
        dcp_storage_close(storage);
    }
    done_doing();
}

int main(void) {
    RUN(each_number_at_each_bound_sharded);
    RUN(each_number_at_each_bound_sharded_flat);
    RUN(each_number_at_each_bound_single);
    RUN(each_number_at_each_bound_manifest);
    RUN(each_number_at_each_bound_manifest_yaml);
    RUN(each_member_twice);
    RUN(each_value_of_another_kind);
    RUN(each_string_a_hostile_one);
    RUN(each_key_a_hostile_one);
    RUN(members_that_agree_and_lie);
    RUN(gaps_that_are_not_zero_under_a_good_checksum);
    RUN(nesting_ends_at_the_limit);
    RUN(each_number_of_a_header);
#ifndef _WIN32
    RUN(a_link_to_the_newest_is_in_nobodys_way);
    RUN(what_a_linked_commit_file_may_name_stays);
    RUN(data_files_that_are_something_else);
    RUN(folders_that_are_links);
    RUN(files_that_are_exchanged_at_any_call);
    RUN(files_of_any_other_size);
    RUN(files_that_may_not_be_read);
    RUN(names_that_turn_the_text_around);
    RUN(a_hundred_thousand_foreign_entries);
#endif
    RUN(memory_ends_in_each_workload);
    RUN(memory_ends_on_ranks_that_share_their_reads);
    printf("# %d documents, each with a good digest; memory failed %d times\n", documents_put, times_starved);
    return test_finish();
}
