/* test_interleave.c - every interleaving of the storage calls of savers that overwrite one path, of a sweep, and of
 * saves that are cancelled or fail, each at every one of its calls: no checkpoint that is committed, or that a power
 * cut would bring back, ever loses a file.
 *
 * An actor is one call of the library (a save, a sweep, a removal) on a storage that all actors share. Between two
 * calls of the storage it sees nothing of the others, so what it does next follows from the answers that it has had:
 * clock, random numbers and threads are taken away from it. So it is learnt like a machine: a `node` is what an actor
 * has been answered so far, and the call that it makes then. To find out what comes after a new answer, the library
 * runs again, alone, gets the answers known from before and then the new one, and is stopped at its next call by
 * failing that one and all later ones. A run that makes another call than it made before with the same answers fails
 * the test.
 *
 * A `world` is where each actor stands (its node, which says all that it has seen) and what the storage holds. The
 * search goes through all worlds, depth first: from each, every actor that has not ended makes its call, and what comes
 * of it is looked at unless it has been seen. Names have the save id of their actor and no other random part, so that
 * equal worlds are equal. Nothing is sampled: complete means complete.
 *
 * Which calls are steps of the search: those that look at names or change them, or read a commit file: begin, publish,
 * abort, open, stat, list, remove, and sync_directory. Which are not, because they commute with every call of every
 * other actor:
 *   - write: goes into a file that only its writer opens until it is published (the storage watches that nobody does),
 *     and whose size nobody asks for;
 *   - read and close of an open file: what has been published is never written to again (the storage has no such call);
 *   - the calls for the lock that says that a save lives: nobody else asks for it (that it is lost is test_lock's);
 *   - stat and open of the commit files of other layouts, if no actor of the scene makes them (a begin of such a name
 *     fails the test).
 *
 * The storage has locks, unless the scene says otherwise. Whoever asks for one that is held waits; a sweep does not. A
 * scene may have holders `given up`: at any instant, so many times, a lock is free though its holder lives, stands
 * still and will go on, just as when it is taken over, or lost to a server's lease. What the holder had noted stays.
 * Not from one who removes: that it is not taken over is test_lock's. Writing and syncing bytes cannot fail here, nor
 * be torn: that is test_crash's. That a writer fails is a failure of its begin or of its publish.
 *
 * After every step: each commit file that may be there after a power cut (the last one that was synced, and all since)
 * names files that are there and, if it is the last, durable; loaded with and without verification it is all of one
 * saver's tensors, byte for byte. Whenever an actor ends: DCP_OK if and only if it has committed, and then what it
 * displaced cannot come back; a failure only if it never showed. When all have ended: one sweep leaves the last
 * committed checkpoint and nothing else, and another save works.
 *
 * DCP_TEST_INTERLEAVE=1: larger searches as well (`make soak-interleave`); 2: the largest, which take gigabytes of
 * memory and many minutes. DCP_TEST_VERBOSE=1: more figures. */
#if defined(__linux__)
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int played_clock(clockid_t clock, struct timespec *now);
static int played_sleep(const struct timespec *time, struct timespec *left);
static long played_syscall(long number, ...);
#define clock_gettime played_clock
#define nanosleep played_sleep
#define syscall played_syscall
#endif
#define DCP_NO_THREADS 1
#define DCP_IMPLEMENTATION
#include "dcp.h"
#undef clock_gettime
#undef nanosleep
#undef syscall
#include "test.h"
#include "doing.h"

#if !defined(__linux__)
int main(void) {
    puts("skipped test_interleave: takes the clock and the random numbers of Linux away\n"
         "0 passed, 0 failed, 1 skipped");
    return 0;
}
#else
#include "crash_storage.h"

static void must(int is_right, const char *what) {
    if (is_right) return;
    printf("FAILED %s: %s\n", test_state.name, what);
    exit(1);
}
#define MUST(condition) must((condition) != 0, #condition)

/* ---- texts, bytes and answers by number -------------------------------------------------------------------------- */
typedef struct item { char *bytes; size_t size; uint64_t hash; int value; } item;
typedef struct table { item *items; int count; int *slots; int slot_count; } table;

static void table_grow(table *t) {
    int i, at;
    free(t->slots);
    t->slot_count = t->slot_count ? 2 * t->slot_count : 1024;
    t->slots = (int *)calloc((size_t)t->slot_count, sizeof *t->slots);
    MUST(t->slots);
    for (i = 0; i < t->count; i++) {
        for (at = (int)(t->items[i].hash & (uint64_t)(t->slot_count - 1)); t->slots[at];
             at = (at + 1) & (t->slot_count - 1)) continue;
        t->slots[at] = i + 1;
    }
}
/* The number of these bytes, the same each time; *is_new, if asked for: whether they had none yet. */
static int table_number(table *t, const void *bytes, size_t size, int *is_new) {
    const uint64_t hash = crash_hash((const char *)bytes, size, 1);
    int at;
    if (2 * (t->count + 1) > t->slot_count) table_grow(t);
    for (at = (int)(hash & (uint64_t)(t->slot_count - 1)); t->slots[at]; at = (at + 1) & (t->slot_count - 1)) {
        const item *found = &t->items[t->slots[at] - 1];
        if (found->hash != hash || found->size != size || (size && memcmp(found->bytes, bytes, size) != 0)) continue;
        if (is_new) *is_new = 0;
        return t->slots[at] - 1;
    }
    t->items = (item *)crash_more(t->items, t->count, sizeof *t->items);
    t->items[t->count].bytes = crash_copy((const char *)bytes, size);
    t->items[t->count].size = size;
    t->items[t->count].hash = hash;
    t->items[t->count].value = -1;
    t->slots[at] = ++t->count;
    if (is_new) *is_new = 1;
    return t->count - 1;
}
static void table_free(table *t) {
    int i;
    for (i = 0; i < t->count; i++) free(t->items[i].bytes);
    free(t->items);
    free(t->slots);
    memset(t, 0, sizeof *t);
}
static table names, blobs, answers, moves, listings;            /* moves: value is the node that comes of a node and an
                                                         * answer; listings: a node that has been told less than all
                                                         * that was there, and all of it */
static int name_number(const char *name) { return table_number(&names, name, strlen(name), NULL); }
static const char *name_text(int name) { return names.items[name].bytes; }

/* ---- calls, and what the storage holds --------------------------------------------------------------------------- */
typedef enum call_kind { CALL_BEGIN, CALL_PUBLISH, CALL_ABORT, CALL_OPEN, CALL_STAT, CALL_LIST, CALL_REMOVE, CALL_SYNC,
                         CALL_SEND, CALL_RECEIVE, CALL_LOCK, CALL_NOTE, CALL_UNLOCK } call_kind;
static const char *const call_names[] = { "begin", "publish", "abort", "open", "stat", "list", "remove", "sync", "send",
                                          "receive", "lock", "note", "unlock" };
typedef struct call { call_kind kind; int name, temporary, blob, replace; } call;

enum { ACTORS = 8, ENTRIES = 40, COMMITS = 8, MAIL = 6, LOCKS = 3, BEING_WRITTEN = -1, NO_COMMIT = -2, NOBODY_HAS = -1,
       NO_NOTE = -1 };
typedef struct entry { int name, blob; short is_old, is_durable; } entry;
/* is_own: the note is the holder's, or there is none */
typedef struct padlock { int name, holder, note, is_own; } padlock;
typedef struct letter { int to, tag, blob; } letter;    /* tag: as a name */
typedef struct world {
    int node[ACTORS];
    unsigned committed;                                 /* actors whose document has been at P, a bit each */
    int last_turn, switches;          /* bounded searches: whose step was the last; how often it changed without need */
    /* which documents (blobs, or none) may be at P after a power cut, the last one is there now */
    int commit_count; int commits[COMMITS];
    /* with a holder, or what one had noted from whom it was taken; sorted by name */
    int lock_count; padlock locks[LOCKS];
    unsigned given_up; int give_ups;                  /* actors that have lost a lock, a bit each; how often that was */
    /* between the ranks of a save, sent and not received; sorted by receiver, the oldest first */
    int letter_count; letter letters[MAIL];
    int count; entry entries[ENTRIES];                  /* sorted by name */
} world;
typedef enum fault { FINE, CANCEL, FAIL_BEFORE, FAIL_AFTER, NO_SPACE, FAULTS, GIVEN_UP = FAULTS } fault;
static const char *const fault_names[] = { "", ", cancelled just before", ", fails with EIO", ", does it and says EIO",
                                           ", fails with ENOSPC", ": it is given up" };
static const int fault_errno[] = { 0, 0, EIO, EIO, ENOSPC };

/* an item: name, blob, is_old */
enum { ANSWER_STATUS, ANSWER_ERRNO, ANSWER_CANCEL, ANSWER_ITEMS, ANSWER_MOST = ANSWER_ITEMS + 3 * ENTRIES };
typedef struct answer { int count, values[ANSWER_MOST]; } answer;

/* peer: 0, or of a save by two ranks: 1 for rank 0, whose rank 1 is the next actor, and -1 for that one */
typedef enum act { NOBODY, SAVE, SWEEP, REMOVE } act;
/* may come to it once, at any call: a cancel; that, or a call that fails in any way */
typedef enum harm { NONE, CANCELS, FAILS } harm;
/* is_other: saves in the other layout */
typedef struct actor { act what; harm harm; int peer, generation, is_other; } actor;
static actor cast[ACTORS];
static int cast_count;
static int lead_of(int who) { return cast[who].peer < 0 ? who - 1 : who; }

/* names of P's commit file, and of that in the other layout (-1: no actor makes it) */
static int commit_key, other_key;
static int shards_tell;                       /* whether savers may see no commit file, and then look for shard files */
static int some_shard;                                  /* a name in place of any young shard file's in a listing */
static int give_up_most, has_locks;                     /* of the scene */
static int forbidden[4], forbidden_count;               /* P's commit files in other layouts: no actor makes them */

static int world_find(const world *w, int name) {
    int i;
    for (i = 0; i < w->count && w->entries[i].name != name; i++) continue;
    return i < w->count ? i : -1;
}
static void world_drop(world *w, int at) {
    memmove(&w->entries[at], &w->entries[at + 1], (size_t)(--w->count - at) * sizeof w->entries[0]);
}
static void world_put(world *w, int name, int blob) {
    int at = world_find(w, name);
    if (at >= 0) world_drop(w, at);
    for (at = w->count; at > 0 && w->entries[at - 1].name > name; at--) w->entries[at] = w->entries[at - 1];
    MUST(w->count < ENTRIES);
    w->count++;
    memset(&w->entries[at], 0, sizeof w->entries[at]);
    w->entries[at].name = name;
    w->entries[at].blob = blob;
}
/* The actor whose id is in the name of a temporary file; -1: it is none, or nobody's who is on. All of these are young:
 * no listing tells of them, but as shards to be. */
static int owner_of(int name) {
    const char *text = name_text(name), *id = strstr(text, "00000000000001.tmp");
    return id && id >= text + 2 && id[-2] == '0' && id[-1] >= '1' && id[-1] <= '9' ? id[-1] - '1' : -1;
}
static int is_own_temporary(int name) { return owner_of(name) >= 0; }
static int is_forbidden(int name) {
    int i;
    for (i = 0; i < forbidden_count; i++) if (forbidden[i] == name) return 1;
    return 0;
}
static int is_commit(int name) { return name == commit_key || name == other_key; }
static void commit_note(world *w, int blob) {
    if (w->commits[w->commit_count - 1] == blob) return;
    MUST(w->commit_count < COMMITS);
    w->commits[w->commit_count++] = blob;
}
static void answer_item(answer *a, int name, int blob_or_size, int is_old) {
    MUST(a->count + 3 <= ANSWER_MOST);
    a->values[a->count++] = name;
    a->values[a->count++] = blob_or_size;
    a->values[a->count++] = is_old;
}
static int size_of(const entry *e) { return e->blob == BEING_WRITTEN ? 0 : (int)blobs.items[e->blob].size; }
static dcp_status world_publish(world *w, const call *c, int actor) {
    const int from = world_find(w, c->temporary), to = world_find(w, c->name);
    if (from < 0) return DCP_E_NOT_FOUND;
    MUST(w->entries[from].blob == BEING_WRITTEN);
    world_drop(w, from);
    if (to >= 0 && !c->replace) return DCP_E_EXISTS;
    world_put(w, c->name, c->blob);
    if (!is_commit(c->name)) return DCP_OK;
    if (actor >= 0) w->committed |= 1u << lead_of(actor);
    commit_note(w, c->blob);
    return DCP_OK;
}
static dcp_status world_look(const world *w, const call *c, answer *a) {
    const int at = world_find(w, c->name);
    if (at < 0) return DCP_E_NOT_FOUND;
    MUST(c->kind == CALL_STAT || w->entries[at].blob != BEING_WRITTEN);
    answer_item(a, c->name, c->kind == CALL_OPEN ? w->entries[at].blob : size_of(&w->entries[at]),
                w->entries[at].is_old);
    return DCP_OK;
}
/* What an actor can make use of in a listing. A sweep's first two are for the locks of dead saves, and for what is
 * older than the grace time; whoever lists later, or is none, looks for commit files and intents. Of the rest savers
 * see, if they have seen no commit file, whether there is a shard file of P, or one to be. That the library makes no
 * use of more is watched: check_listings. */
typedef enum listing { LIST_COMMITS, LIST_OLD, LIST_ALL } listing;
static int is_telling(const entry *e, listing which) {
    const char *name = name_text(e->name);
    if (which == LIST_ALL) return 1;
    return which == LIST_OLD ? e->is_old : dcpi_commit_kind_of(name) || dcpi_is_intent(name);
}
static int is_shard(int name) { return strncmp(name_text(name), "x_shard_", 8) == 0; }
static dcp_status world_list(const world *w, const call *c, listing which, answer *a) {
    int i, told = !shards_tell || which == LIST_OLD, shard = -1;
    if (name_text(c->name)[0] != '\0') return DCP_OK;   /* there are no other folders */
    for (i = 0; i < w->count; i++) {
        if (is_shard(w->entries[i].name)) shard = i;
        if (!is_telling(&w->entries[i], which)) continue;
        told |= is_shard(w->entries[i].name);
        answer_item(a, w->entries[i].name, size_of(&w->entries[i]), w->entries[i].is_old);
    }
    if (shard >= 0 && !told) answer_item(a, some_shard, 0, 0);
    return DCP_OK;
}
static void world_forget(world *w, int name) {
    const int at = world_find(w, name);
    if (at >= 0) world_drop(w, at);
    if (at >= 0 && is_commit(name)) commit_note(w, NO_COMMIT);
}
static void world_sync(world *w) {
    int i;
    for (i = 0; i < w->count; i++) w->entries[i].is_durable = !is_own_temporary(w->entries[i].name);
    w->commits[0] = w->commits[w->commit_count - 1];
    w->commit_count = 1;
}
static void world_send(world *w, const call *c, int to) {
    int at;
    MUST(w->letter_count < MAIL);
    for (at = w->letter_count++; at > 0 && w->letters[at - 1].to > to; at--) w->letters[at] = w->letters[at - 1];
    w->letters[at].to = to;
    w->letters[at].tag = c->name;
    w->letters[at].blob = c->blob;
}
static int world_letter(const world *w, const call *c, int to) {        /* -1: there is none */
    int i;
    for (i = 0; i < w->letter_count; i++) if (w->letters[i].to == to && w->letters[i].tag == c->name) return i;
    return -1;
}
static void world_receive(world *w, const call *c, int to, answer *a) {
    const int at = world_letter(w, c, to);
    MUST(at >= 0);
    answer_item(a, c->name, w->letters[at].blob, 0);
    memmove(&w->letters[at], &w->letters[at + 1], (size_t)(--w->letter_count - at) * sizeof w->letters[0]);
}
static padlock *world_lock(world *w, int name) {        /* NULL: nobody has it, and nothing is noted */
    int i;
    for (i = 0; i < w->lock_count; i++) if (w->locks[i].name == name) return &w->locks[i];
    return NULL;
}
static int is_held(const world *w, int name) {
    const padlock *l = world_lock((world *)(uintptr_t)w, name);
    return l && l->holder != NOBODY_HAS;
}
static dcp_status world_take_lock(world *w, const call *c, int actor, answer *a) {
    padlock *l = world_lock(w, c->name);
    int at;
    if (l && l->holder != NOBODY_HAS) {
        MUST(actor < 0 || cast[actor].what == SWEEP);   /* the others wait */
        return DCP_PENDING;
    }
    if (!l) {
        MUST(w->lock_count < LOCKS);
        for (at = w->lock_count++; at > 0 && w->locks[at - 1].name > c->name; at--) w->locks[at] = w->locks[at - 1];
        l = &w->locks[at];
        l->name = c->name;
        l->note = NO_NOTE;
    }
    l->holder = actor < 0 ? ACTORS : actor;
    l->is_own = l->note == NO_NOTE;
    if (l->note != NO_NOTE) answer_item(a, l->note, 0, 0);
    return DCP_OK;
}
static int has_lock(world *w, const call *c, int actor) {
    const padlock *l = world_lock(w, c->name);
    return l && l->holder == (actor < 0 ? ACTORS : actor);
}
static dcp_status world_note(world *w, const call *c, int actor) {
    if (!has_lock(w, c, actor)) return DCP_E_EXISTS;
    world_lock(w, c->name)->note = c->temporary;
    world_lock(w, c->name)->is_own = 1;
    return DCP_OK;
}
static void world_unlock(world *w, const call *c, int actor) {
    const int at = has_lock(w, c, actor) ? (int)(world_lock(w, c->name) - w->locks) : -1;
    if (at >= 0 && !w->locks[at].is_own) w->locks[at].holder = NOBODY_HAS;
    else if (at >= 0) memmove(&w->locks[at], &w->locks[at + 1], (size_t)(--w->lock_count - at) * sizeof w->locks[0]);
}
static dcp_status world_do(world *w, const call *c, int actor, listing which, answer *a) {
    switch (c->kind) {
        case CALL_LOCK: return world_take_lock(w, c, actor, a);
        case CALL_NOTE: return world_note(w, c, actor);
        case CALL_UNLOCK: world_unlock(w, c, actor); return DCP_OK;
        case CALL_BEGIN:
            MUST(!is_forbidden(c->name));
            if (world_find(w, c->temporary) >= 0) return DCP_E_EXISTS;
            world_put(w, c->temporary, BEING_WRITTEN);
            return DCP_OK;
        case CALL_PUBLISH: return world_publish(w, c, actor);
        case CALL_ABORT: world_forget(w, c->temporary); return DCP_OK;
        case CALL_OPEN: case CALL_STAT: return world_look(w, c, a);
        case CALL_LIST: return world_list(w, c, which, a);
        case CALL_REMOVE: world_forget(w, c->name); return DCP_OK;
        case CALL_SEND: world_send(w, c, actor + cast[actor].peer); return DCP_OK;
        case CALL_RECEIVE: world_receive(w, c, actor, a); return DCP_OK;
        default: world_sync(w); return DCP_OK;
    }
}
/* One call of an actor, perhaps a faulty one. The number of the answer. */
static int world_call(world *w, const call *c, int actor, fault f, listing which) {
    answer a;
    /* which fences */
    MUST(actor < 0 || owner_of(c->name) < 0 || owner_of(c->name) == lead_of(actor) || c->kind == CALL_REMOVE);
    memset(&a, 0, sizeof a);
    a.count = ANSWER_ITEMS;
    a.values[ANSWER_CANCEL] = f == CANCEL;
    a.values[ANSWER_ERRNO] = fault_errno[f];
    /* the contract: a failure holds nothing, and leaves the note as it was */
    if (f == FAIL_AFTER && c->kind == CALL_LOCK) f = FAIL_BEFORE;
    if (f != FAIL_BEFORE && f != NO_SPACE) a.values[ANSWER_STATUS] = world_do(w, c, actor, which, &a);
    else if (c->kind == CALL_PUBLISH) world_forget(w, c->temporary);    /* it ends the object, on failure too */
    if (fault_errno[f]) {                 /* what has left its temporary name may have been moved: as `local` says it */
        a.values[ANSWER_STATUS] = f == FAIL_AFTER && c->kind == CALL_PUBLISH ? DCP_E_UNKNOWN
                                  : dcpi_os_status(fault_errno[f]);
        a.count = ANSWER_ITEMS;
    }
    return table_number(&answers, a.values, (size_t)a.count * sizeof a.values[0], NULL);
}
static const int *answer_values(int number) { return (const int *)(const void *)answers.items[number].bytes; }
static int answer_items(int number) { return (int)(answers.items[number].size / sizeof(int) - ANSWER_ITEMS) / 3; }

/* ---- nodes: what an actor has been answered, and what it does then ----------------------------------------------- */
/* child: one that has been learnt, 0: none */
typedef struct node {
    int actor, parent, answer;
    call next;
    int is_faulty, listings, has_ended;
    dcp_status status;
    int child;
} node;
static node *nodes;
static int node_count;
static dcp_layout the_layout;
static int64_t library_runs;

/* Who is on: an actor with answers from before, or (on NULL) one that works on a world of its own, with nobody
 * beside. */
static struct {
    world *on;
    const int *path; int length, at;           /* nodes from the first one on; the call that comes next is path[at]'s */
    int is_stopped, id, draws;
    int instead_of, instead;              /* check_listings: the node whose answer is another one, and which; 0: none */
    dcp_cancel cancel;
} player;

static int played_clock(clockid_t clock, struct timespec *now) {        /* stands still */
    now->tv_sec = clock == CLOCK_REALTIME ? 1800000000 : 1000;
    now->tv_nsec = 0;
    return 0;
}
static int played_sleep(const struct timespec *time, struct timespec *left) { (void)time; (void)left; return 0; }
static long played_syscall(long number, ...) {
    /* random bytes that tell who drew them, and the how manieth of his they are */
    va_list arguments;
    unsigned char *bytes;
    size_t size, i;
    MUST(number == SYS_getrandom);
    va_start(arguments, number);
    bytes = va_arg(arguments, unsigned char *);
    size = va_arg(arguments, size_t);
    va_end(arguments);
    memset(bytes, 0, size);
    for (i = 0; i < size; i += 8) bytes[i] = (unsigned char)(player.id + 1);
    bytes[size - 1] = (unsigned char)++player.draws;
    return (long)size;
}
static int same_call(const call *a, const call *b) {
    return a->kind == b->kind && a->name == b->name && a->temporary == b->temporary && a->blob == b->blob &&
           a->replace == b->replace;
}
/* The number of the answer; -1: the run ends here. */
static int player_call(const call *c) {
    node *here;
    int answered;
    if (player.on) return world_call(player.on, c, -1, FINE, LIST_ALL);
    if (player.is_stopped) return -1;
    here = &nodes[player.path[player.at]];
    if (player.at + 1 == player.length) {
        here->next = *c;
        player.is_stopped = 1;
        return -1;
    }
    MUST(same_call(&here->next, c));                    /* the same answers, the same calls */
    answered = nodes[player.path[++player.at]].answer;
    if (player.instead_of && player.path[player.at] == player.instead_of) answered = player.instead;
    if (answer_values(answered)[ANSWER_CANCEL]) dcp_cancel_request(&player.cancel);
    return answered;
}
static dcp_status player_stop(dcp_error *err) { return dcpi_fail_sys(err, DCP_E_IO, EROFS, "the run ends here"); }
static dcp_status player_status(int answered, const call *c, dcp_error *err) {
    const int *values;
    if (answered < 0) return player_stop(err);
    values = answer_values(answered);
    if (values[ANSWER_STATUS] == DCP_OK) return DCP_OK;
    return dcpi_fail_sys(err, (dcp_status)values[ANSWER_STATUS], values[ANSWER_ERRNO], "%s of \"%s\": %s",
                         call_names[c->kind], name_text(c->name), dcp_status_name((dcp_status)values[ANSWER_STATUS]));
}

/* ---- the storage of the library ---------------------------------------------------------------------------------- */
typedef struct object { int name, temporary, blob; char *bytes; size_t size, capacity; } object;

static call call_make(call_kind kind, const char *key) {
    call c;
    memset(&c, 0, sizeof c);
    c.kind = kind;
    c.name = name_number(key);
    c.temporary = c.blob = -1;
    return c;
}
static int64_t time_of(int is_old) { return INT64_C(1700000000000000000) - (is_old ? 3 : 0) * INT64_C(86400000000000); }
static void info_fill(const int *found, dcp_object_info *info) {        /* name, size, is_old */
    memset(info, 0, sizeof *info);
    info->size = found[1];
    info->modified_ns = time_of(found[2]);
}
static dcp_status play_begin(void *context, const dcp_begin_request *request, void **out, dcp_error *err) {
    call c = call_make(CALL_BEGIN, request->path);
    object *o;
    dcp_status status;
    (void)context;
    c.temporary = name_number(request->temporary);
    status = player_status(player_call(&c), &c, err);
    if (status) return status;
    o = (object *)calloc(1, sizeof *o);
    MUST(o);
    o->name = c.name;
    o->temporary = c.temporary;
    *out = o;
    return DCP_OK;
}
static dcp_status play_write(void *context, void *object_, int64_t offset, const void *data, size_t size,
                             dcp_error *err) {
    object *o = (object *)object_;
    const size_t end = (size_t)offset + size;
    (void)context; (void)err;
    if (end > o->capacity) {
        o->bytes = (char *)realloc(o->bytes, end + 4096);
        MUST(o->bytes);
        memset(o->bytes + o->capacity, 0, end + 4096 - o->capacity);
        o->capacity = end + 4096;
    }
    if (size) memcpy(o->bytes + offset, data, size);
    if (end > o->size) o->size = end;
    return DCP_OK;
}
static void object_free(object *o) {
    free(o->bytes);
    free(o);
}
static call object_call(const object *o, call_kind kind) {
    call c;
    memset(&c, 0, sizeof c);
    c.kind = kind;
    c.name = o->name;
    c.temporary = o->temporary;
    c.blob = -1;
    return c;
}
static dcp_status play_commit(void *context, void *object_, const dcp_commit_request *request, dcp_error *err) {
    object *o = (object *)object_;
    call c = object_call(o, CALL_PUBLISH);
    dcp_status status;
    (void)context;
    c.replace = request->replace;
    c.blob = table_number(&blobs, o->bytes, o->size, NULL);
    status = player_status(player_call(&c), &c, err);
    object_free(o);
    return status;
}
static void play_abort(void *context, void *object_) {
    const call c = object_call((object *)object_, CALL_ABORT);
    (void)context;
    (void)player_call(&c);
    object_free((object *)object_);
}
static dcp_status play_open(void *context, const char *path, void **out, dcp_object_info *info, dcp_error *err) {
    const call c = call_make(CALL_OPEN, path);
    const int answered = player_call(&c);
    dcp_status status = player_status(answered, &c, err);
    object *o;
    (void)context;
    if (status) return status;
    info_fill(answer_values(answered) + ANSWER_ITEMS, info);
    o = (object *)calloc(1, sizeof *o);
    MUST(o);
    o->blob = answer_values(answered)[ANSWER_ITEMS + 1];
    info->size = (int64_t)blobs.items[o->blob].size;
    *out = o;
    return DCP_OK;
}
static dcp_status play_read(void *context, void *object_, int64_t offset, void *data, size_t size, dcp_error *err) {
    const item *bytes = &blobs.items[((object *)object_)->blob];
    (void)context;
    if ((size_t)offset > bytes->size || size > bytes->size - (size_t)offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the file ends too early");
    if (size) memcpy(data, bytes->bytes + offset, size);
    return DCP_OK;
}
static void play_close(void *context, void *object_) {
    (void)context;
    object_free((object *)object_);
}
static dcp_status play_stat(void *context, const char *path, dcp_object_info *info, dcp_error *err) {
    const call c = call_make(CALL_STAT, path);
    const int answered = player_call(&c);
    dcp_status status = player_status(answered, &c, err);
    (void)context;
    if (!status) info_fill(answer_values(answered) + ANSWER_ITEMS, info);
    return status;
}
static dcp_status play_list(void *context, const char *directory, dcp_list_kind what, dcpi_storage_each each,
                            void *user, dcp_error *err) {
    call c;
    int answered, i;
    dcp_status status;
    (void)context;
    if (what != DCP_LIST_OBJECTS) return DCP_OK;
    c = call_make(CALL_LIST, directory);
    answered = player_call(&c);
    status = player_status(answered, &c, err);
    for (i = 0; !status && i < answer_items(answered); i++) {
        const int *found = answer_values(answered) + ANSWER_ITEMS + 3 * i;
        dcp_object_info info = DCP_ZERO;
        info_fill(found, &info);
        status = each(user, name_text(found[0]), &info);
    }
    return status;
}
static dcp_status play_remove(void *context, const char *path, const char *token, dcp_error *err) {
    const call c = call_make(CALL_REMOVE, path);
    (void)context; (void)token;
    return player_status(player_call(&c), &c, err);
}
static dcp_status play_sync(void *context, const char *directory, dcp_error *err) {
    const call c = call_make(CALL_SYNC, directory);
    (void)context;
    return player_status(player_call(&c), &c, err);
}
static dcp_status play_lock(void *context, const char *path, uint64_t *holder, char *note, void **out, dcp_error *err) {
    call c = call_make(CALL_LOCK, path);
    const int is_live = dcpi_live_prefix(path) > 0, answered = is_live ? 0 : player_call(&c);
    object *o;
    dcp_status status = DCP_OK;
    (void)context;
    *holder = 0;
    if (!is_live && answered >= 0 && answer_values(answered)[ANSWER_STATUS] == DCP_PENDING) return DCP_PENDING;
    if (!is_live) status = player_status(answered, &c, err);
    if (status) return status;
    if (!is_live && answer_items(answered))
        (void)snprintf(note, DCP_LOCK_NOTE, "%s", name_text(answer_values(answered)[ANSWER_ITEMS]));
    o = (object *)calloc(1, sizeof *o);
    MUST(o);
    o->name = c.name;
    o->temporary = -1;
    *out = o;
    return DCP_OK;
}
static dcp_status play_lock_note(void *context, void *lock, const char *note, dcp_error *err) {
    call c = object_call((object *)lock, CALL_NOTE);
    (void)context;
    if (dcpi_live_prefix(name_text(c.name))) return DCP_OK;
    c.temporary = name_number(note);
    return player_status(player_call(&c), &c, err);
}
static void play_unlock(void *context, void *lock) {
    const call c = object_call((object *)lock, CALL_UNLOCK);
    (void)context;
    if (!dcpi_live_prefix(name_text(c.name))) (void)player_call(&c);
    object_free((object *)lock);
}
/* ---- the coordinator of a save by two ranks. A probe, which waits for nothing, finds nothing: the message is
 * late. */
static call letter_call(call_kind kind, int tag) {
    char text[40];
    (void)snprintf(text, sizeof text, "a message, tag 0x%X", (unsigned)tag);
    return call_make(kind, text);
}
static dcp_status play_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                            dcp_error *err) {
    call c = letter_call(CALL_SEND, tag);
    (void)context; (void)to; (void)timeout_ms;
    c.blob = table_number(&blobs, data, size, NULL);
    return player_status(player_call(&c), &c, err);
}
static dcp_status play_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                               dcp_error *err) {
    const call c = letter_call(CALL_RECEIVE, tag);
    const item *bytes;
    dcp_status status;
    int answered;
    (void)context;
    *data = NULL;
    *size = 0;
    if (timeout_ms == 0) return DCP_PENDING;
    answered = player_call(&c);
    status = player_status(answered, &c, err);
    if (status) return status;
    bytes = &blobs.items[answer_values(answered)[ANSWER_ITEMS + 1]];
    *from = cast[player.id].peer > 0;
    *size = bytes->size;
    if (bytes->size) *data = crash_copy(bytes->bytes, bytes->size);
    return DCP_OK;
}
static void coordinator_make(dcp_coordinator *c, int rank) {
    memset(c, 0, sizeof *c);
    c->rank = rank;
    c->world_size = 2;
    c->send = play_send;
    c->receive = play_receive;
}
static dcp_storage the_storage;
static void storage_make(dcp_storage *s) {
    memset(s, 0, sizeof *s);
    s->flags = DCP_STORAGE_RANDOM_WRITE | DCP_STORAGE_ATOMIC_REPLACE | DCP_STORAGE_EXCLUSIVE_PUBLISH |
               DCP_STORAGE_SYNC | DCP_STORAGE_SYNC_DIRECTORY;
    s->begin = play_begin; s->write = play_write; s->commit = play_commit; s->abort = play_abort;
    s->open = play_open; s->read = play_read; s->close = play_close;
    s->stat = play_stat; s->list = play_list; s->remove = play_remove; s->sync_directory = play_sync;
    if (!has_locks) return;
    s->flags |= DCP_STORAGE_COMMIT_LOCK;
    s->lock = play_lock; s->lock_note = play_lock_note; s->unlock = play_unlock;
}

/* ---- what the actors do ------------------------------------------------------------------------------------------ */
enum { WIDE = 6, NARROW = 3 };
static const char *const P = "x";

static uint32_t value_of(int generation, int tensor, int i) { return (uint32_t)(generation * 1000 + tensor * 100 + i); }
/* rank -1: one process. Rank 0 has the first half of "w", rank 1 the second; "b" is the same on both. */
static dcp_status save_in(dcp_layout layout, int generation, int rank, dcp_cancel *cancel, dcp_error *err) {
    const int64_t wide = WIDE, narrow = NARROW, part = rank < 0 ? WIDE : WIDE / 2, at = rank > 0 ? WIDE / 2 : 0;
    uint32_t w[WIDE], b[NARROW];
    dcp_coordinator coordinator;
    dcp_save_desc desc = DCP_ZERO;
    dcp_tensor tensors[2];
    dcp_status status;
    int i;
    for (i = 0; i < WIDE; i++) w[i] = value_of(generation, 0, i);
    for (i = 0; i < NARROW; i++) b[i] = value_of(generation, 1, i);
    tensors[0] = dcp_array("w", DCP_UINT32, w + at, 1, &part);
    tensors[1] = dcp_array("b", DCP_UINT32, b, 1, &narrow);
    desc.path = P;
    desc.layout = layout;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.overwrite = 1;
    desc.io.storage = &the_storage;
    desc.io.cancel = cancel;
    desc.io.retry.attempts = 2;
    if (rank < 0) return dcp_save(&desc, err);
    dcp_piece(&tensors[0], &wide, &at);
    tensors[1].placement = DCP_PLACE_REPLICATED;
    coordinator_make(&coordinator, rank);
    desc.io.coordinator = &coordinator;
    status = dcp_save(&desc, err);
    dcp_coordinator_close(&coordinator);
    return status;
}
static dcp_status save(int generation, int rank, dcp_cancel *cancel, dcp_error *err) {
    return save_in(the_layout, generation, rank, cancel, err);
}
static dcp_layout other_layout(void) {
    return the_layout == DCP_LAYOUT_SINGLE ? DCP_LAYOUT_SHARDED : DCP_LAYOUT_SINGLE;
}
static dcp_status sweep(int64_t grace_seconds, int plain_names, dcp_cancel *cancel, dcp_error *err) {
    dcp_sweep_desc desc = DCP_ZERO;
    desc.grace_seconds = grace_seconds;
    desc.plain_names = plain_names;
    desc.io.storage = &the_storage;
    desc.io.cancel = cancel;
    return dcp_sweep(&desc, NULL, err);
}
static dcp_status removal(dcp_cancel *cancel, dcp_error *err) {
    dcp_remove_desc desc = DCP_ZERO;
    desc.path = P;
    desc.io.storage = &the_storage;
    desc.io.cancel = cancel;
    return dcp_remove(&desc, NULL, err);
}
static dcp_status actor_run(const actor *a, dcp_error *err) {
    switch (a->what) {
        case SAVE:
            return save_in(a->is_other ? other_layout() : the_layout, a->generation, a->peer ? a->peer < 0 : -1,
                           &player.cancel, err);
        case SWEEP: return sweep(0, 0, &player.cancel, err);
        default: return removal(&player.cancel, err);
    }
}
static void player_begin(world *on, int id) {
    memset(&player, 0, sizeof player);
    player.on = on;
    player.id = id;
}
/* Runs the library with the answers on the way to a node. */
static dcp_status node_run(int number, int instead_of, int instead) {
    enum { DEEPEST = 400 };
    int path[DEEPEST], length = 1, at;
    for (at = number; nodes[at].parent >= 0; at = nodes[at].parent) length++;
    MUST(length <= DEEPEST);
    player_begin(NULL, nodes[number].actor);
    player.length = length;
    player.path = path;
    player.instead_of = instead_of;
    player.instead = instead;
    for (at = number; at >= 0; at = nodes[at].parent) path[--length] = at;
    library_runs++;
    return actor_run(&cast[nodes[number].actor], NULL);
}
/* Finds out which call comes at this node. */
static void node_learn(int number) {
    const dcp_status status = node_run(number, 0, 0);
    if (player.is_stopped) return;
    MUST(player.at + 1 == player.length);
    nodes[number].has_ended = 1;
    nodes[number].status = status;
}
/* The library makes no more use of a listing than is_telling says: with all that was there in its place it makes the
 * same calls to the end, and returns the same. */
static void check_listing(int number, int raw) {
    int leaf = number;
    while (nodes[leaf].child) leaf = nodes[leaf].child;
    if (!nodes[leaf].has_ended) return;                 /* a bounded search has not been there */
    MUST(node_run(leaf, number, raw) == nodes[leaf].status && !player.is_stopped && player.at + 1 == player.length);
}
static void check_listings(void) {
    int i;
    for (i = 0; i < listings.count; i++) {
        const int *key = (const int *)(const void *)listings.items[i].bytes;
        check_listing(key[0], key[1]);
    }
}
static int node_new(int who, int parent, int answered) {
    nodes = (node *)crash_more(nodes, node_count, sizeof *nodes);
    memset(&nodes[node_count], 0, sizeof nodes[0]);
    nodes[node_count].actor = who;
    nodes[node_count].parent = parent;
    nodes[node_count].answer = answered;
    node_learn(node_count++);
    return node_count - 1;
}
static listing listing_of(int who, const node *n) {
    return cast[who].what == SWEEP && n->listings < 2 ? LIST_OLD : LIST_COMMITS;
}
static int node_after(int number, int answered) {
    int key[2], is_new, move, next;
    key[0] = number;
    key[1] = answered;
    move = table_number(&moves, key, sizeof key, &is_new);
    if (!is_new) return moves.items[move].value;
    next = node_new(nodes[number].actor, number, answered);
    nodes[next].is_faulty = nodes[number].is_faulty || answer_values(answered)[ANSWER_CANCEL] ||
                            answer_values(answered)[ANSWER_ERRNO];
    nodes[number].child = next;
    nodes[next].listings = nodes[number].listings + (nodes[number].next.kind == CALL_LIST);
    moves.items[move].value = next;
    return next;
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */
enum { FILES = 4 };
typedef struct document { int blob, count, names[FILES]; } document;    /* the files that a commit file names */
static document documents[64];
static int document_count;
static table images;             /* a commit file and its files, blobs; value: whose generation they are, 0: nobody's */

/* What failed, and the schedule that leads there. */
typedef struct step { int actor; fault f; call made; } step;
enum { DEPTH = 600 };
static step steps[DEPTH];
static int step_count;
static int64_t library_loads;

static const char *actor_name(int a) {
    static const char *const whats[] = { "", "save", "sweep", "remove" };
    static char text[40];
    (void)snprintf(text, sizeof text, "%s %d", whats[cast[a].what], a);
    return text;
}
TEST_NORETURN static void wrong(const world *w, const char *what, const char *detail) {
    char text[1200];
    int i;
    for (i = 0; i < step_count; i++)
        printf("    %3d %s: %s %s%s\n", i, actor_name(steps[i].actor), call_names[steps[i].made.kind],
               name_text(steps[i].made.kind == CALL_BEGIN || steps[i].made.kind == CALL_ABORT ? steps[i].made.temporary
                         : steps[i].made.name),
               fault_names[steps[i].f]);
    for (i = 0; i < cast_count; i++)
        if (nodes[w->node[i]].has_ended)
            printf("    %s has returned %s\n", actor_name(i), dcp_status_name(nodes[w->node[i]].status));
    for (i = 0; i < w->count; i++) printf("    there is: %s\n", name_text(w->entries[i].name));
    (void)snprintf(text, sizeof text, " %.1000s", detail);
    test_fail(__FILE__, __LINE__, what, text);
}
static dcp_status open_at(dcp_verify_policy verify, dcp_checkpoint **c, dcp_error *err) {
    dcp_open_desc desc = DCP_ZERO;
    desc.path = P;
    desc.verify = verify;
    desc.io.storage = &the_storage;
    desc.io.retry.attempts = 1;
    return dcp_open(&desc, c, err);
}
/* The generation that all tensors are of; 0: not all of one. */
static int generation_of(const uint32_t *w, const uint32_t *b) {
    const int generation = (int)(w[0] / 1000);
    int i, is_right = 1;
    for (i = 0; i < WIDE; i++) is_right &= w[i] == value_of(generation, 0, i);
    for (i = 0; i < NARROW; i++) is_right &= b[i] == value_of(generation, 1, i);
    return is_right ? generation : 0;
}
static int load(dcp_verify_policy verify, dcp_error *err) {
    const int64_t wide = WIDE, narrow = NARROW;
    uint32_t w[WIDE] = { 0 }, b[NARROW] = { 0 };
    dcp_tensor tensors[2];
    dcp_checkpoint *c;
    dcp_status status = open_at(verify, &c, err);
    library_loads++;
    tensors[0] = dcp_array("w", DCP_UINT32, w, 1, &wide);
    tensors[1] = dcp_array("b", DCP_UINT32, b, 1, &narrow);
    if (!status) status = dcp_read(c, tensors, 2, err);
    if (!status && verify == DCP_VERIFY_ALL) status = dcp_verify(c, err);
    dcp_close(c);
    return status ? 0 : generation_of(w, b);
}
static int key_of(int blob) {
    return (blobs.items[blob].bytes[0] == '{') == (the_layout == DCP_LAYOUT_SHARDED) ? commit_key : other_key;
}
static const document *document_of(int blob) {
    document *d;
    dcp_checkpoint *c;
    const dcp_metadata *m;
    dcp_error err;
    world alone;
    size_t k;
    int i;
    for (i = 0; i < document_count; i++) if (documents[i].blob == blob) return &documents[i];
    MUST(document_count < (int)DCPI_COUNT(documents));
    memset(&alone, 0, sizeof alone);
    alone.commit_count = 1;
    world_put(&alone, key_of(blob), blob);
    player_begin(&alone, 200);
    d = &documents[document_count++];
    memset(d, 0, sizeof *d);
    d->blob = blob;
    if (open_at(DCP_VERIFY_NONE, &c, &err)) wrong(&alone, "a document does not open:", err.message);
    m = dcp_checkpoint_metadata(c);
    for (k = 0; k < m->shard_count && dcp_checkpoint_layout(c) == DCP_LAYOUT_SHARDED; k++) {
        MUST(d->count < FILES);
        d->names[d->count++] = name_number(m->shards[k].file_path);
    }
    dcp_close(c);
    return d;
}
/* Of the checkpoint that this document makes with the files that are there; each set of bytes is loaded once. */
static int generation_at(const world *w, int blob) {
    const document *d = document_of(blob);
    int key[1 + FILES], is_new, image, i;
    world alone;
    dcp_error err;
    key[0] = blob;
    for (i = 0; i < d->count; i++) {
        const int at = world_find(w, d->names[i]);
        if (at < 0) wrong(w, "a checkpoint has lost a file:", name_text(d->names[i]));
        if (!w->entries[at].is_durable)
            wrong(w, "a commit file names a file that a power cut may take:", name_text(d->names[i]));
        key[1 + i] = w->entries[at].blob;
    }
    image = table_number(&images, key, (size_t)(1 + d->count) * sizeof key[0], &is_new);
    if (!is_new) return images.items[image].value;
    memset(&alone, 0, sizeof alone);
    alone.commit_count = 1;
    world_put(&alone, key_of(blob), blob);
    for (i = 0; i < d->count; i++) world_put(&alone, d->names[i], key[1 + i]);
    player_begin(&alone, 200);
    images.items[image].value = load(DCP_VERIFY_ALL, &err);
    if (images.items[image].value == 0)
        wrong(w, "a committed checkpoint does not load as one save's tensors:", err.message);
    if (load(DCP_VERIFY_NONE, &err) != images.items[image].value)
        wrong(w, "it does not load without verification:", err.message);
    return images.items[image].value;
}
static void check_world(const world *w) {
    int i;
    for (i = 0; i < w->commit_count; i++) if (w->commits[i] != NO_COMMIT) (void)generation_at(w, w->commits[i]);
    i = world_find(w, commit_key);
    if (i >= 0 && other_key >= 0 && world_find(w, other_key) >= 0) wrong(w, "two commit files at one path", "");
    if (i < 0 && other_key >= 0) i = world_find(w, other_key);
    MUST((i < 0 ? NO_COMMIT : w->entries[i].blob) == w->commits[w->commit_count - 1]);
}
static int others_changed(const world *w, int who) {    /* the commit file */
    int i;
    if (w->given_up >> who & 1) return 1;               /* or keep it from doing so */
    for (i = 0; i < cast_count; i++)
        if (lead_of(i) != lead_of(who) && (cast[i].what == REMOVE || (w->committed >> i & 1))) return 1;
    return 0;
}
static int is_faulty(const world *w, int who) {         /* it, or the other rank of its save */
    return nodes[w->node[who]].is_faulty || nodes[w->node[who + cast[who].peer]].is_faulty;
}
/* Somebody has removed this save's checkpoint, for good. */
static int was_removed(const world *w, int who) {
    int i, removers = 0;
    for (i = 0; i < cast_count; i++) removers += cast[i].what == REMOVE;
    for (i = 0; i < w->commit_count; i++)
        if (w->commits[i] != NO_COMMIT && generation_at(w, w->commits[i]) == cast[who].generation) return 0;
    return removers > 0;
}
/* An actor has just ended. */
static void check_verdict(const world *w, int who) {
    const node *n = &nodes[w->node[who]];
    const int has_committed = (int)(w->committed >> lead_of(who) & 1), other = who + cast[who].peer;
    int i;
    if (!is_faulty(w, who) && n->status && (cast[who].what == SWEEP ||
                                            (cast[who].what == SAVE && n->status != DCP_E_EXISTS) ||
                                            (cast[who].what == REMOVE && n->status != DCP_E_NOT_FOUND &&
                                             !(n->status == DCP_E_EXISTS && (w->given_up >> who & 1)))))
        wrong(w, "an actor failed, though nothing of its own did:", actor_name(who));
    if (cast[who].what != SAVE) return;
    if (nodes[w->node[other]].has_ended && (n->status == DCP_OK) != (nodes[w->node[other]].status == DCP_OK) &&
        n->status != DCP_E_UNKNOWN && nodes[w->node[other]].status != DCP_E_UNKNOWN)
        wrong(w, "DCP_OK on one rank, a failure on the other:", actor_name(who));
    if (!is_faulty(w, who) && n->status == DCP_E_EXISTS && !others_changed(w, who))
        wrong(w, "displaced by nobody:", actor_name(who));
    if (n->status == DCP_OK && !has_committed) wrong(w, "DCP_OK, but never committed:", actor_name(who));
    if (n->status != DCP_OK && n->status != DCP_E_UNKNOWN && has_committed && !was_removed(w, who))
        wrong(w, "it has failed, but its checkpoint was there:", actor_name(who));
    for (i = 1; i < w->commit_count && n->status == DCP_OK; i++)
        if (w->commits[i] != NO_COMMIT && generation_at(w, w->commits[i]) == cast[who].generation)
            wrong(w, "DCP_OK, but a power cut would bring back what it displaced:", actor_name(who));
}
/* Nobody goes on: a sweep leaves what is committed and nothing else, and the next save works. */
static void check_end(const world *w) {
    const int last = w->commits[w->commit_count - 1], generation = last == NO_COMMIT ? 0 : generation_at(w, last);
    world now = *w;
    dcp_error err;
    int i, k;
    for (i = 0; i < w->lock_count; i++)
        if (w->locks[i].holder != NOBODY_HAS)
            wrong(w, "a lock is held by nobody who goes on:", name_text(w->locks[i].name));
    player_begin(&now, 201);
    if (sweep(-1, 1, NULL, &err)) wrong(&now, "the last sweep fails:", err.message);
    if (now.commits[now.commit_count - 1] != last || (generation && generation_at(&now, last) != generation))
        wrong(&now, "the last sweep took a checkpoint", "");
    for (i = 0; i < now.count; i++) {
        int is_named = is_commit(now.entries[i].name);
        for (k = 0; generation && k < document_of(last)->count; k++)
            is_named |= document_of(last)->names[k] == now.entries[i].name;
        if (!is_named) wrong(&now, "left behind by the last sweep:", name_text(now.entries[i].name));
    }
    now = *w;                                           /* and without a sweep: */
    player_begin(&now, 202);
    if (save_in(generation && key_of(last) == other_key ? other_layout() : the_layout, 99, -1, NULL, &err))
        wrong(&now, "the next save fails:", err.message);
    check_world(&now);
    if (generation_at(&now, now.commits[now.commit_count - 1]) != 99)
        wrong(&now, "the next save is not what is there", "");
}

/* ---- the search -------------------------------------------------------------------------------------------------- */
typedef struct search {
    crash_search seen, ends, outcomes;                  /* worlds; storages that nobody works on any more; verdicts */
    int64_t worlds, steps;
    int bound;                                 /* switches away from an actor that could have gone on; -1: any number */
    int64_t verdicts[64];                               /* how often each status was returned */
} search;

static uint64_t hash_storage(const world *w) {
    return crash_hash((const char *)w->entries, (size_t)w->count * sizeof w->entries[0], 3) ^
           crash_hash((const char *)w->commits, (size_t)w->commit_count * sizeof w->commits[0], 4);
}
static uint64_t hash_letters(const world *w) {
    return crash_hash((const char *)w->letters, (size_t)w->letter_count * sizeof w->letters[0], 5);
}
static uint64_t hash_world(const world *w, const search *s) {
    uint64_t hash = crash_hash((const char *)w->node, (size_t)cast_count * sizeof w->node[0],
                               w->committed + ((uint64_t)w->given_up << 32));
    hash = crash_mix(hash + crash_hash((const char *)w->locks, (size_t)w->lock_count * sizeof w->locks[0],
                                       (uint64_t)w->give_ups + 6));
    if (s->bound >= 0) hash = crash_mix(hash + (uint64_t)(w->last_turn * 1000 + w->switches));
    return crash_mix(hash + hash_storage(w) + 3 * hash_letters(w));
}
/* What no other actor can see, and no other can change. */
static int is_private(const call *c) {
    if (c->kind == CALL_SEND || c->kind == CALL_RECEIVE) return 1;
    if (is_forbidden(c->name)) return c->kind == CALL_STAT || c->kind == CALL_OPEN;
    if (c->kind == CALL_LOCK || c->kind == CALL_NOTE || c->kind == CALL_UNLOCK) return 0;
    if (is_own_temporary(c->name)) return give_up_most == 0;        /* else whoever comes next removes it */
    return (c->kind == CALL_BEGIN || c->kind == CALL_ABORT) && !(shards_tell && is_shard(c->temporary));
}

static void search_note_end(search *s, const world *w) {
    uint64_t hash = (uint64_t)(w->commits[w->commit_count - 1] + 5);
    int i;
    for (i = 0; i < cast_count; i++) {
        s->verdicts[nodes[w->node[i]].status & 63]++;
        hash = crash_mix(hash * 31 + (uint64_t)nodes[w->node[i]].status);
    }
    (void)crash_is_new(&s->outcomes, hash);
    if (crash_is_new(&s->ends, hash_storage(w))) check_end(w);
}
static void search_from(search *s, const world *w);
static int is_waiting(const world *w, int who);
/* A save is about to publish its document: it replaces one if and only if there was one at its first look (a stat), and
 * then it has seen the same one each time when it read it (unless reading failed). */
static void check_commit(const world *w, int who, const call *c) {
    int was_there = 0, first = -1, last = -1, at;
    for (at = w->node[who]; nodes[at].parent >= 0; at = nodes[at].parent) {
        const call *asked = &nodes[nodes[at].parent].next;
        const int *values = answer_values(nodes[at].answer);
        if (asked->name != c->name || values[ANSWER_ERRNO]) continue;
        if (asked->kind == CALL_STAT) was_there = values[ANSWER_STATUS] == DCP_OK;
        if (asked->kind != CALL_OPEN) continue;
        first = values[ANSWER_STATUS] ? NO_COMMIT : values[ANSWER_ITEMS + 1];
        if (last == -1) last = first;
    }
    if (has_locks && c->replace && last != w->commits[w->commit_count - 1] && world_find(w, c->temporary) >= 0 &&
        !is_faulty(w, who)) wrong(w, "it replaces a checkpoint that came after its last look:", actor_name(who));
    if (c->replace != was_there)
        wrong(w, "it replaces what it has not seen, or does not replace what it has:", actor_name(who));
    if (was_there && first != last && !is_faulty(w, who))
        wrong(w, "it replaces another checkpoint than the one that it found:", actor_name(who));
}
static void note_listing(world *w, int who, const call *c, fault f) {
    int key[2];
    key[0] = w->node[who];
    key[1] = world_call(w, c, who, f, LIST_ALL);
    if (key[1] != nodes[key[0]].answer) (void)table_number(&listings, key, sizeof key, NULL);
}
static void search_step(search *s, const world *from, int who, fault f) {
    const call c = nodes[from->node[who]].next;
    const listing which = listing_of(who, &nodes[from->node[who]]);
    world w = *from;
    s->steps++;
    if (c.kind == CALL_PUBLISH && is_commit(c.name)) check_commit(from, who, &c);
    MUST(step_count < DEPTH);
    steps[step_count].actor = who;
    steps[step_count].f = f;
    steps[step_count++].made = c;
    w.node[who] = node_after(w.node[who], world_call(&w, &c, who, f, which));
    if (c.kind == CALL_LIST && (f == FINE || f == CANCEL)) note_listing(&w, who, &c, f);
    if (!is_private(&c)) {
        w.switches += from->last_turn >= 0 && from->last_turn != who && !nodes[from->node[from->last_turn]].has_ended &&
            !is_waiting(from, from->last_turn);
        w.last_turn = who;
    }
    if (crash_is_new(&s->seen, hash_world(&w, s))) {
        s->worlds++;
        check_world(&w);
        if (nodes[w.node[who]].has_ended) check_verdict(&w, who);
        search_from(s, &w);
    }
    step_count--;
}
static int may_fault(const world *w, int who, fault f) {
    const node *n = &nodes[w->node[who]];
    if (f == FINE) return 1;
    if (cast[who].harm == NONE || is_faulty(w, who) || (cast[who].harm == CANCELS && f != CANCEL)) return 0;
    return f == CANCEL || (n->next.kind != CALL_ABORT && n->next.kind != CALL_UNLOCK && n->next.kind != CALL_SEND &&
                           n->next.kind != CALL_RECEIVE);
}
static void search_actor(search *s, const world *w, int who) {
    int f;
    for (f = FINE; f < FAULTS; f++) if (may_fault(w, who, (fault)f)) search_step(s, w, who, (fault)f);
}
static int is_waiting(const world *w, int who) {
    const node *n = &nodes[w->node[who]];
    if (n->next.kind == CALL_LOCK && cast[who].what != SWEEP) return is_held(w, n->next.name);
    return n->next.kind == CALL_RECEIVE && world_letter(w, &n->next, who) < 0;
}
/* The holder of that lock stands still and is given up. */
static void search_give_up(search *s, const world *from, int at) {
    world w = *from;
    const int who = w.locks[at].holder;
    if (who == NOBODY_HAS || cast[who].what == SWEEP || w.give_ups == give_up_most) return;
    if (w.locks[at].note != NO_NOTE && strcmp(name_text(w.locks[at].note), DCPI_LOCK_REMOVES) == 0) return;
    w.locks[at].holder = NOBODY_HAS;
    w.given_up |= 1u << who;
    w.give_ups++;
    MUST(step_count < DEPTH);
    memset(&steps[step_count], 0, sizeof steps[0]);
    steps[step_count].actor = who;
    steps[step_count].made.kind = CALL_UNLOCK;
    steps[step_count].made.name = w.locks[at].name;
    steps[step_count++].f = GIVEN_UP;
    if (crash_is_new(&s->seen, hash_world(&w, s))) {
        s->worlds++;
        search_from(s, &w);
    }
    step_count--;
}
static int is_free(const search *s, const world *w, int who) {          /* to make the next step */
    const int last = w->last_turn;
    if (nodes[w->node[who]].has_ended || is_waiting(w, who)) return 0;
    return s->bound < 0 || w->switches < s->bound || last < 0 || last == who || nodes[w->node[last]].has_ended ||
           is_waiting(w, last);
}
static void search_from(search *s, const world *w) {
    int who, running = 0, going = 0, alone = -1;
    for (who = 0; who < cast_count; who++) {
        if (nodes[w->node[who]].has_ended) continue;
        running++;
        if (is_waiting(w, who)) continue;
        going++;
        if (alone < 0 && is_private(&nodes[w->node[who]].next)) alone = who;
    }
    if (running == 0) search_note_end(s, w);
    else if (going == 0) wrong(w, "all wait for each other", "");
    if (alone >= 0) { search_actor(s, w, alone); return; }
    for (who = 0; who < w->lock_count; who++) search_give_up(s, w, who);
    for (who = 0; who < cast_count; who++) if (is_free(s, w, who)) search_actor(s, w, who);
}

/* ---- scenes ------------------------------------------------------------------------------------------------------ */
/* start: 0, LITTERED; 1, NOTHING is there yet; 2, ALONE: a checkpoint and nothing that a listing would take for its
 * files. bound: switches away from an actor that could go on; 0: any number */
enum { LITTERED, NOTHING, ALONE };
typedef struct scene { const char *name; int start, bound; actor actors[ACTORS]; int give_ups, without_locks; } scene;

static void tables_begin(dcp_layout layout, int has_other) {
    static const char *const suffixes[] = { ".metadata.json", ".checkpoint", ".manifest.json", ".manifest.yaml" };
    const int own = layout == DCP_LAYOUT_SINGLE;
    char key[40];
    int i;
    the_layout = layout;
    storage_make(&the_storage);
    forbidden_count = 0;
    other_key = -1;
    some_shard = name_number("x_shard_0.ffffffffffffffff.bin");
    for (i = 0; i < 4; i++) {
        (void)snprintf(key, sizeof key, "%s%s", P, suffixes[i]);
        if (i == own) commit_key = name_number(key);
        else if (i == !own && has_other) other_key = name_number(key);
        else forbidden[forbidden_count++] = name_number(key);
    }
}
static void tables_end(void) {
    table_free(&names);
    table_free(&blobs);
    table_free(&answers);
    table_free(&moves);
    table_free(&listings);
    table_free(&images);
    free(nodes);
    nodes = NULL;
    node_count = document_count = 0;
    library_runs = library_loads = 0;
}
static void put_litter(world *w, const char *name) {
    world_put(w, name_number(name), table_number(&blobs, "litter", 6, NULL));
}
/* A checkpoint of generation 1, and what a save that was killed long ago left, all durable and older than a sweep's
 * grace time. */
static void scene_world(const scene *s, world *w) {
    dcp_error err;
    int i;
    memset(w, 0, sizeof *w);
    w->last_turn = -1;
    w->commit_count = 1;
    w->commits[0] = NO_COMMIT;
    player_begin(w, 199);
    if (s->start != NOTHING) CHECK_OK_MESSAGE(save(1, -1, NULL, &err), err.message);
    if (s->start == LITTERED) {
        put_litter(w, "x_shard_0.00000000000000aa.bin");
        put_litter(w, "x_shard_0.00000000000000bb.bin.00000000000000bb.tmp");
    }
    world_sync(w);
    for (i = 0; i < w->count; i++) w->entries[i].is_old = 1;
}
static void scene_cast(const scene *sc) {
    int i, is_first = sc->start == NOTHING;
    for (i = 0; i < ACTORS && sc->actors[i].what != NOBODY; i++) {
        cast[i] = sc->actors[i];
        cast[i].generation = 10 + lead_of(i);
        if (cast[i].what == REMOVE) is_first = 1;
    }
    cast_count = i;
    shards_tell = is_first;
}
static int64_t all_worlds, all_runs;
static void scene_report(const search *s, const char *what) {
    size_t i;
    printf("# %s: %lld worlds, %lld steps, %lld outcomes, %lld storages at the end, %lld runs of the library\n", what,
           (long long)s->worlds, (long long)s->steps, (long long)s->outcomes.seen_count, (long long)s->ends.seen_count,
           (long long)library_runs);
    for (i = 0; getenv("DCP_TEST_VERBOSE") && i < DCPI_COUNT(s->verdicts); i++)
        if (s->verdicts[i]) printf("#     %s: %lld\n", dcp_status_name((dcp_status)i), (long long)s->verdicts[i]);
    all_worlds += s->worlds;
    all_runs += library_runs;
}
static void scene_run(const scene *sc, dcp_layout layout) {
    char what[120];
    search s;
    world w;
    int i, has_other = 0;
    (void)snprintf(what, sizeof what, "%s, %s%s", layout == DCP_LAYOUT_SINGLE ? "single file" : "sharded", sc->name,
                   sc->bound ? ", bounded" : sc->without_locks ? ", without locks" : "");
    doing("%s", what);
    tables_end();                                       /* of a test that has failed */
    for (i = 0; i < ACTORS; i++) has_other |= sc->actors[i].is_other;
    give_up_most = sc->give_ups;
    has_locks = !sc->without_locks;
    tables_begin(layout, has_other);
    memset(&s, 0, sizeof s);
    s.bound = sc->bound ? sc->bound : -1;
    step_count = 0;
    scene_cast(sc);
    scene_world(sc, &w);
    for (i = 0; i < cast_count; i++) w.node[i] = node_new(i, -1, -1);
    search_from(&s, &w);
    check_listings();
    scene_report(&s, what);
    crash_search_end(&s.seen);
    crash_search_end(&s.ends);
    crash_search_end(&s.outcomes);
    tables_end();
    done_doing();
}
/* In both layouts, but those with two ranks: the bytes of a single file's second rank go through the first one, who
 * does all the calls. */
static void scenes_run(const scene *scenes, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        scene_run(&scenes[i], DCP_LAYOUT_SHARDED);
        if (scenes[i].actors[0].peer == 0) scene_run(&scenes[i], DCP_LAYOUT_SINGLE);
    }
}
#define SCENES(list) scenes_run(list, DCPI_COUNT(list))
#define SAVER { SAVE, NONE, 0, 0, 0 }
#define OTHER_SAVER { SAVE, NONE, 0, 0, 1 }
#define CANCELLED { SAVE, CANCELS, 0, 0, 0 }
#define ABORTED { SAVE, FAILS, 0, 0, 0 }
#define SWEEPER { SWEEP, NONE, 0, 0, 0 }
#define REMOVER { REMOVE, NONE, 0, 0, 0 }
#define TWO_RANKS { SAVE, NONE, 1, 0, 0 }, { SAVE, NONE, -1, 0, 0 }
#define TWO_ABORTED { SAVE, FAILS, 1, 0, 0 }, { SAVE, FAILS, -1, 0, 0 }
static int depth(void) { return getenv("DCP_TEST_INTERLEAVE") ? atoi(getenv("DCP_TEST_INTERLEAVE")) : 0; }

TEST(two_at_a_time) {
    static const scene scenes[] = {
        { "2 saves", 0, 0, { SAVER, SAVER }, 0, 0 },
        { "a save and a sweep", 0, 0, { SAVER, SWEEPER }, 0, 0 },
        { "2 sweeps", 0, 0, { SWEEPER, SWEEPER }, 0, 0 },
        { "2 first saves", 1, 0, { SAVER, SAVER }, 0, 0 },
        { "a save by 2 ranks that fails", 0, 0, { TWO_ABORTED }, 0, 0 },
        { "2 saves by 2 ranks", 0, 0, { TWO_RANKS, TWO_RANKS }, 0, 0 }
    };
    SCENES(scenes);
}
TEST(a_save_that_fails_anywhere_beside_another) {
    static const scene scenes[] = {
        { "a save and one that fails", 0, 0, { SAVER, ABORTED }, 0, 0 },
        { "a first save and one that fails", 1, 0, { SAVER, ABORTED }, 0, 0 },
        { "a sweep and a save that fails", 0, 0, { SWEEPER, ABORTED }, 0, 0 },
        { "2 saves that fail", 0, 0, { ABORTED, ABORTED }, 0, 0 },
        { "2 first saves that fail", 1, 0, { ABORTED, ABORTED }, 0, 0 },
        { "saves by 2 ranks, one of which fails", 0, 0, { TWO_RANKS, TWO_ABORTED }, 0, 0 }
    };
    SCENES(scenes);
}
TEST(three_saves_of_one_path) {
    static const scene scenes[] = { { "3 saves", 0, 0, { SAVER, SAVER, SAVER }, 0, 0 },
                                    { "3 first saves", 1, 0, { SAVER, SAVER, SAVER }, 0, 0 } };
    static const scene ranks = { "3 saves by 2 ranks", 0, 0, { TWO_RANKS, TWO_RANKS, TWO_RANKS }, 0, 0 };
    SCENES(scenes);
    if (!getenv("DCP_TEST_FEWER")) scene_run(&ranks, DCP_LAYOUT_SHARDED);
}
TEST(two_saves_and_a_sweep) {
    static const scene scenes[] = { { "2 saves and a sweep", 0, 0, { SAVER, SAVER, SWEEPER }, 0, 0 } };
    static const scene ranks = { "2 saves by 2 ranks and a sweep", 0, 0, { TWO_RANKS, TWO_RANKS, SWEEPER }, 0, 0 };
    SCENES(scenes);
    if (!getenv("DCP_TEST_FEWER")) scene_run(&ranks, DCP_LAYOUT_SHARDED);
}
TEST(three_saves_one_of_which_is_cancelled) {
    static const scene scenes[] = { { "2 saves and one that is cancelled", 0, 0, { SAVER, SAVER, CANCELLED }, 0, 0 } };
    static const scene soak[] = { { "2 saves and one that fails", 0, 0, { SAVER, SAVER, ABORTED }, 0, 0 } };
    if (getenv("DCP_TEST_FEWER")) SKIP("runs where the counts are full");
    SCENES(scenes);
    if (depth() >= 1) SCENES(soak);
}
TEST(a_removal_beside_saves) {
    static const scene scenes[] = {
        { "a save and a removal", 0, 0, { SAVER, REMOVER }, 0, 0 },
        { "a save that fails and a removal", 0, 0, { ABORTED, REMOVER }, 0, 0 },
        { "a first save that fails and a removal", 1, 0, { ABORTED, REMOVER }, 0, 0 }
    };
    static const scene three[] = { { "2 saves and a removal", 0, 0, { SAVER, SAVER, REMOVER }, 0, 0 } };
    /* once all is gone, a first save may use a plain name again */
    static const scene again[] = { { "a save and 2 removals", ALONE, 0, { SAVER, REMOVER, REMOVER }, 0, 0 } };
    static const scene soak_again[] = { { "2 saves and a removal, alone", ALONE, 0, { SAVER, SAVER, REMOVER }, 0, 0 },
                                        { "2 saves and 2 removals", ALONE, 2, { SAVER, SAVER, REMOVER, REMOVER }, 0,
                                          0 },
                                        { "a save, a removal and a sweep, alone", ALONE, 0, { SAVER, REMOVER, SWEEPER },
                                          0, 0 } };
    static const scene soak[] = { { "a save, one that fails and a removal", 0, 0, { SAVER, ABORTED, REMOVER }, 0, 0 },
                                  { "a save, a removal and a sweep", 0, 0, { SAVER, REMOVER, SWEEPER }, 0, 0 } };
    /* a first save whose rename fails, perhaps after all, while its checkpoint is removed and another first save takes
     * the plain names */
    static const scene first = { "2 first saves, one of which fails, and a removal", 1, 0, { ABORTED, SAVER, REMOVER },
                                 0, 0 };
    SCENES(scenes);
    if (!getenv("DCP_TEST_FEWER")) { SCENES(three); SCENES(again); scene_run(&first, DCP_LAYOUT_SHARDED); }
    if (depth() >= 1) { SCENES(soak); SCENES(soak_again); }
}
TEST(three_saves_one_of_which_fails_and_a_sweep) {
    static const scene bounded = { "2 saves, one that fails and a sweep", 0, 1, { SAVER, SAVER, ABORTED, SWEEPER }, 0,
                                   0 };
    static const scene soak[] = { { "a save, one that fails and a sweep", 0, 0, { SAVER, ABORTED, SWEEPER }, 0, 0 } };
    static const scene large[] = { { "3 saves and a sweep", 0, 0, { SAVER, SAVER, SAVER, SWEEPER }, 0, 0 },
                                   { "2 saves, one that fails and a sweep", 0, 2, { SAVER, SAVER, ABORTED, SWEEPER }, 0,
                                     0 } };
    if (getenv("DCP_TEST_FEWER")) SKIP("runs where the counts are full");
    scene_run(&bounded, DCP_LAYOUT_SHARDED);
    if (depth() >= 1) SCENES(soak);
    if (depth() >= 2) SCENES(large);
}

TEST(a_holder_that_stands_still_at_each_call_and_wakes_at_each_later_one) {
    static const scene scenes[] = {
        { "2 saves, a holder given up", 0, 0, { SAVER, SAVER }, 1, 0 },
        { "2 first saves, a holder given up", 1, 0, { SAVER, SAVER }, 1, 0 },
        { "2 saves, 2 holders given up", 0, 0, { SAVER, SAVER }, 2, 0 },
        { "a save and a removal, a holder given up", ALONE, 0, { SAVER, REMOVER }, 2, 0 },
        { "a save and a sweep, a holder given up", 0, 0, { SAVER, SWEEPER }, 1, 0 },
        { "a save and one that fails, a holder given up", 0, 0, { SAVER, ABORTED }, 1, 0 },
        { "a first save and one that fails, a holder given up", 1, 0, { SAVER, ABORTED }, 1, 0 }
    };
    static const scene three[] = { { "3 saves, 2 holders given up", 0, 0, { SAVER, SAVER, SAVER }, 2, 0 } };
    SCENES(scenes);
    if (!getenv("DCP_TEST_FEWER")) SCENES(three);
}
TEST(removals_whose_holder_stands_still) {
    static const scene scenes[] = { { "a first save and 2 removals, a holder given up", ALONE, 0,
                                      { SAVER, REMOVER, REMOVER }, 1, 0 } };
    SCENES(scenes);
}
TEST(first_saves_in_two_layouts) {
    static const scene scenes[] = {
        { "2 first saves in two layouts", NOTHING, 0, { SAVER, OTHER_SAVER }, 0, 0 },
        { "2 first saves in two layouts, holders given up", NOTHING, 0, { SAVER, OTHER_SAVER }, 2, 0 },
        { "3 first saves in two layouts, a holder given up", NOTHING, 0, { SAVER, OTHER_SAVER, OTHER_SAVER }, 1, 0 },
        { "a first save and one that fails in another layout", NOTHING, 0, { ABORTED, OTHER_SAVER }, 1, 0 },
        { "2 first saves in two layouts and a removal", NOTHING, 0, { SAVER, OTHER_SAVER, REMOVER }, 0, 0 }
    };
    SCENES(scenes);
}
TEST(where_there_are_no_locks_no_file_is_lost_all_the_same) {
    static const scene scenes[] = {
        { "2 saves", 0, 0, { SAVER, SAVER }, 0, 1 },
        { "2 first saves", 1, 0, { SAVER, SAVER }, 0, 1 },
        { "a save and a sweep", 0, 0, { SAVER, SWEEPER }, 0, 1 },
        { "a save and one that fails", 0, 0, { SAVER, ABORTED }, 0, 1 },
        { "3 saves", 0, 0, { SAVER, SAVER, SAVER }, 0, 1 }
    };
    SCENES(scenes);
}

int main(void) {
    RUN(a_holder_that_stands_still_at_each_call_and_wakes_at_each_later_one);
    RUN(removals_whose_holder_stands_still);
    RUN(first_saves_in_two_layouts);
    RUN(where_there_are_no_locks_no_file_is_lost_all_the_same);
    RUN(two_at_a_time);
    RUN(a_save_that_fails_anywhere_beside_another);
    RUN(three_saves_of_one_path);
    RUN(two_saves_and_a_sweep);
    RUN(three_saves_one_of_which_is_cancelled);
    RUN(a_removal_beside_saves);
    RUN(three_saves_one_of_which_fails_and_a_sweep);
    printf("%lld worlds, each one different, and %lld runs of the library to find out what its calls do in them\n",
           (long long)all_worlds, (long long)all_runs);
    return test_finish();
}
#endif
