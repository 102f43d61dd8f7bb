/* watch.c - dcptool watch: the checkpoints that come into a directory, as they come. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_watch = {
    "watch", run, 1, 1, 0, TOOL_VERIFY | TOOL_COUNT | TOOL_TIMEOUT | TOOL_MINIMUM_STEP, "DIR",
    "print a line for each checkpoint that comes into a directory",
    "Looks twice a second at which commit files there are, and reads only those that\n"
    "are new or were replaced. A line says whether the checkpoint is complete (with\n"
    "--verify: intact, since every byte was read), its step, size, age and name. One\n"
    "whose files are still being copied is `incomplete`, and has another line when\n"
    "they are there.\n"
    "\n"
    "Ends with ^C, after --count checkpoints (incomplete ones do not count) or after\n"
    "--timeout.\n"
    "\n"
    "Exit codes: 0 all that came are fine, 1 one is not, none came, or fewer than\n"
    "            --count, 2 usage, 3 could not look\n"
    "Example:    dcptool watch runs/a --verify --count 1 --timeout 30m\n"
};

enum { CHANGED = 1, INCOMPLETE = 2 };
static const double interval = 0.5;

/* A commit file: its name begins at `name` in the names. */
typedef struct sight { size_t name; int64_t size, modified_ns; int flags; } sight;
typedef struct view { char *names; size_t used, room; sight *items; size_t count, capacity; } view;

typedef struct watch {
    tool_state *t;
    dcp_storage *storage, only_new;     /* the directory; the same, where no commit files are seen but those CHANGED */
    view before, now;
    const view *sorting;
    int64_t said, bad, incomplete;                      /* checkpoints: with a verdict, with a bad one; without one */
} watch;

static watch *watching;                                 /* a storage's list has the context of its other functions */

/* ---- which commit files there are -------------------------------------------------------------------------------- */
static const char *name_of(const view *v, const sight *s) { return v->names + s->name; }

static void *grow(void *memory, size_t count, size_t size, size_t *capacity) {
    if (count <= *capacity) return memory;
    *capacity = 2 * count;
    return tool_need(realloc(memory, *capacity * size));
}

static dcp_status add_sight(void *user, const char *path, const dcp_object_info *info) {
    view *v = user;
    const size_t size = strlen(path) + 1;
    sight *s;
    if (!tool_is_commit_name(path)) return DCP_OK;
    v->names = grow(v->names, v->used + size, 1, &v->room);
    v->items = grow(v->items, v->count + 1, sizeof *v->items, &v->capacity);
    s = &v->items[v->count++];
    s->name = v->used;
    s->size = info->size;
    s->modified_ns = info->modified_ns;
    s->flags = 0;
    memcpy(v->names + v->used, path, size);
    v->used += size;
    return DCP_OK;
}

static int sight_compare(const void *a, const void *b) {
    return strcmp(name_of(watching->sorting, a), name_of(watching->sorting, b));
}

/* Both views are sorted. Returns how many have to be looked at. */
static size_t compare_views(watch *w) {
    size_t i, k = 0, changed = 0;
    for (i = 0; i < w->now.count; i++) {
        sight *s = &w->now.items[i];
        const sight *old;
        int order = 1;
        while (k < w->before.count &&
               (order = strcmp(name_of(&w->before, &w->before.items[k]), name_of(&w->now, s))) < 0) k++;
        old = k < w->before.count && order == 0 ? &w->before.items[k] : NULL;
        if (old && old->size == s->size && old->modified_ns == s->modified_ns) s->flags = old->flags & INCOMPLETE;
        if (!old || old->size != s->size || old->modified_ns != s->modified_ns || s->flags) {
            s->flags |= CHANGED;
            changed++;
        }
    }
    return changed;
}

static int look(watch *w) {
    const view old = w->before;
    dcp_error err;
    int code = tool_need_directory(w->t, w->t->operands[0]);            /* a storage lists nothing where none is */
    if (code) return code;
    w->before = w->now;
    w->now = old;
    w->now.count = w->now.used = 0;
    if (w->storage->list(w->storage->context, "", DCP_LIST_OBJECTS, add_sight, &w->now, &err))
        return tool_fail(w->t, &err);
    w->sorting = &w->now;
    if (w->now.count > 0) qsort(w->now.items, w->now.count, sizeof *w->now.items, sight_compare);
    return TOOL_FINE;
}

/* ---- what is new among them -------------------------------------------------------------------------------------- */
static sight *find(watch *w, const char *name) {
    size_t low = 0, high = w->now.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name_of(&w->now, &w->now.items[middle]), name);
        if (order == 0) return &w->now.items[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

typedef struct filter { dcp_status (*each)(void *user, const char *path, const dcp_object_info *info); void *user; }
    filter;

static dcp_status pass_new(void *user, const char *path, const dcp_object_info *info) {
    const filter *f = user;
    const sight *s = find(watching, path);
    if (tool_is_commit_name(path) && !(s && (s->flags & CHANGED))) return DCP_OK;
    return f->each(f->user, path, info);
}

static dcp_status list_new(void *context, const char *directory, dcp_list_kind what,
                           dcp_status (*each)(void *user, const char *path, const dcp_object_info *info), void *user,
                           dcp_error *err) {
    filter f;
    f.each = each;
    f.user = user;
    return watching->storage->list(context, directory, what, pass_new, &f, err);
}

/* A narrow terminal has no room for the age, which is short. */
static void print_line(tool_state *t, const char *colour, const char *state, const char *step, const char *size,
                       const char *age, const char *name) {
    char mark[16];
    snprintf(mark, sizeof mark, "%-10s", state);
    if (t->width && t->width < 60) tool_print_marked(t, colour, mark, "%7s %10s %s", step, size, name);
    else tool_print_marked(t, colour, mark, "%7s %10s %6s %s", step, size, age, name);
}

static void say(watch *w, const dcp_list_entry *e) {
    tool_state *t = w->t;
    const int is_bad = e->status != DCP_OK;
    const char *colour = is_bad ? tool_code_of(e->status) == TOOL_NO ? TOOL_RED : TOOL_YELLOW : "";
    char step[TOOL_NUMBER] = "", age[TOOL_NUMBER], size[TOOL_NUMBER];
    tool_json_checkpoint(t, e);
    if (e->step >= 0) snprintf(step, sizeof step, "%" PRId64, e->step);
    print_line(t, colour, tool_state_text(t, e->status), step, tool_size_text(t, e->bytes, size),
               tool_age_text(e->timestamp, age), tool_stem_text(e->path));
    if (is_bad) tool_print(t, "   %s\n", tool_without_path(tool_in_our_words(e->message), e->path));
    fflush(stdout);
}

/* An incomplete one is said once, and then not before its files are there. */
static void judge(watch *w, const dcp_list_entry *e) {
    sight *s = find(w, e->path);
    const int was_incomplete = s && (s->flags & INCOMPLETE), is_incomplete = e->status == DCP_E_INCOMPLETE;
    if (s) s->flags = is_incomplete ? INCOMPLETE : 0;
    if (is_incomplete && was_incomplete) return;
    w->incomplete += is_incomplete - was_incomplete;
    if (!is_incomplete) w->said++;
    if (!is_incomplete && e->status) w->bad++;
    say(w, e);
}

static int look_at_new(watch *w) {
    dcp_list_desc desc = DCP_ZERO;
    dcp_list_entry *entries;
    dcp_error err;
    size_t i, count;
    desc.directory = "";
    desc.verify = (w->t->options & TOOL_VERIFY) ? DCP_VERIFY_ALL : DCP_VERIFY_TOUCHED;
    desc.verifier = w->t->verifier;
    desc.io = w->t->io;
    desc.io.storage = &w->only_new;
    if (dcp_list(&desc, &entries, &count, &err)) return tool_fail(w->t, &err);
    for (i = count; i > 0; i--) judge(w, &entries[i - 1]);              /* the newest comes first there */
    dcp_free(entries);
    return TOOL_FINE;
}

/* ---- until when -------------------------------------------------------------------------------------------------- */
static int is_over(const watch *w) {
    const tool_state *t = w->t;
    if (t->count > 0 && w->said >= t->count) return 1;
    if ((t->options & TOOL_TIMEOUT) && tool_seconds() - t->progress.begun >= (double)t->timeout_seconds) return 1;
    return tool_interrupted.requested || ferror(stdout) || tool_reader_is_gone(1);
}

static int watch_on(watch *w) {
    int code = look(w);
    while (!code && !is_over(w)) {
        tool_sleep(interval);
        code = look(w);
        if (!code && compare_views(w) > 0) code = look_at_new(w);
    }
    if (code || w->bad || w->incomplete) return code ? code : TOOL_NO;
    return w->said == 0 || w->said < w->t->count ? TOOL_NO : TOOL_FINE;
}

static int run(tool_state *t) {
    watch w = DCP_ZERO;
    dcp_error err;
    int code = tool_need_directory(t, t->operands[0]);
    if (code) return code;
    w.t = t;
    watching = &w;
    if (dcp_storage_local(t->operands[0], &w.storage, &err)) return tool_fail(t, &err);
    w.only_new = *w.storage;
    w.only_new.list = list_new;
    tool_json_begin(t);
    tool_json_text(t, "directory", t->operands[0]);
    tool_json_open(t, "checkpoints", '[');
    if (!(t->options & TOOL_QUIET)) print_line(t, TOOL_BOLD, "STATE", "STEP", "SIZE", "AGE", "NAME");
    fflush(stdout);
    code = watch_on(&w);
    tool_json_close(t, ']');
    tool_json_end(t);
    dcp_storage_close(w.storage);
    free(w.before.names);
    free(w.before.items);
    free(w.now.names);
    free(w.now.items);
    return code;
}
