/* test_model.c - random programs over the whole library, beside a model of what a directory of checkpoints is.
 *
 * A program is a list of steps (model_program.h): saves of all layouts, on ranks, in the background, by several at
 * once; loads; whatever removes, copies or moves; what other programs put there; and all that goes wrong. model_calls.h
 * runs a step, model_oracle.h has what must hold after it: exactly the model's checkpoints are there and load byte for
 * byte, whatever else is there is as it was, every call says what its comment lists, nothing is left over, no wait is
 * longer than it may be. A program that fails is made smaller while it fails in the same way, and printed; it belongs
 * into tests/regress/model.h, which is replayed here.
 *
 *     DCP_TEST_SEED=7 DCP_TEST_FILTER=ranks build/plain/test_model      the same programs (in one thread: exactly)
 *     DCP_MODEL_SECONDS=60                                              of processor time, for each family
 *     DCP_MODEL_PROGRAM=1234567 DCP_TEST_FILTER=ranks                   one program, by its seed */
#if defined(_WIN32)
#include <stdio.h>
int main(void) { puts("skipped test_model: needs fork\n0 passed, 0 failed, 1 skipped"); return 0; }
#else
#include "failing_allocator.h"
#if DCP_NO_THREADS
int main(void) { puts("skipped test_model: needs threads\n0 passed, 0 failed, 1 skipped"); return 0; }
#else
#include "fault_storage.h"
#include "fault_coordinator.h"
#include "model_program.h"
#include "model_tensors.h"
#include "model_calls.h"
#include "model_world.h"
#include "model_oracle.h"
#include <sys/resource.h>

/* TSan: what forks while it has threads may start none in the child, and a process of a program may end while a save of
 * its own runs, which is what such programs are for. */
#if defined(__SANITIZE_THREAD__)
enum { MODEL_FORKS_BESIDE_THREADS = 0 };
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "report_thread_leaks=0"; }
#else
enum { MODEL_FORKS_BESIDE_THREADS = 1 };
#endif

/* ---- a group: the steps that run at the same time ---------------------------------------------------------------- */
typedef struct model_group { int count; model_op *op[MODEL_OPS]; unsigned want[MODEL_OPS]; } model_group;

static int model_is_save(const model_op *op) {
    return op->step.kind == MODEL_SAVE || op->step.kind == MODEL_BEGIN || op->step.kind == MODEL_CONVERT ||
           op->step.kind == MODEL_SYNC;
}
static int model_is_removal(const model_op *op) {
    return op->step.kind == MODEL_REMOVE || op->step.kind == MODEL_PRUNE;
}

static int model_may_be_save(const model_step *s) { return s->kind == MODEL_SAVE || s->kind == MODEL_BEGIN; }
/* What it saves is a new generation; what it loads is what the model has there; what it converts, both. */
static void model_choose_state(model_world *w, const model_step *s, model_state *state) {
    const model_place *p = model_place_find(w, s->path);
    int i, kept = 0;
    memset(state, 0, sizeof *state);
    state->world = 1;
    if (p && p->is_there) *state = p->state;
    if (s->kind == MODEL_SAVE || s->kind == MODEL_BEGIN) {
        memcpy(state->tensors, s->tensors, sizeof state->tensors);
        state->bytes = w->state_count + 1;
        state->world = s->ranks ? s->ranks : 1;
    } else if (s->kind == MODEL_CONVERT) {              /* what belongs to single ranks is left out */
        for (i = 0; state->tensors[i]; i++)
            if (state->world == 1 || !model_is_private(model_tensor_kind_of(state->tensors[i]), state->world))
                state->tensors[kept++] = state->tensors[i];
        state->tensors[kept] = '\0';
        state->world = 1;
    } else return;
    state->number = w->state_count + 1;
    w->state[w->state_count++] = *state;
}
static model_op *model_op_make(model_world *w, const model_step *step, int is_alone) {
    model_step s = *step;
    model_state state;
    model_op *op;
    int r;
    if (s.kind == MODEL_SWEEP && (w->pending_count || !is_alone)) s.grace = 0;  /* a save that is swept may fail */
    if (w->pending_count) s.memory_at = 0;              /* it would be missing there */
    if (w->pending_count && !MODEL_FORKS_BESIDE_THREADS) s.process = s.kill_at = s.kill_us = s.stop_at = 0;
    if (s.lacks || s.kind == MODEL_SYNC || s.kind == MODEL_BEGIN || s.call || s.cancel_at || s.kill_at || s.stop_at)
        s.system = 0;
    if (s.kind == MODEL_LOAD && model_place_find(w, s.path) && model_is_hurt(w, model_place_find(w, s.path)))
        s.verify %= DCP_VERIFY_NONE;
    if ((s.kind == MODEL_PRUNE || (model_may_be_save(&s) && s.keep)) && w->damage_count && w->pending_count == 0) {
        /* as in another process than the one that saved */
        dcpi_mutex_lock(&dcpi_life.lock);
        dcpi_life.proven.count = 0;
        dcpi_mutex_unlock(&dcpi_life.lock);
    }
    model_choose_state(w, &s, &state);
    op = model_op_open(&s, &state, w->base, w->storage, &w->outcomes[w->outcome_count++ % (4 * MODEL_OPS)]);
    if (s.by_file && model_place_find(w, s.path) && model_place_find(w, s.path)->is_there)
        (void)snprintf(op->suffix, sizeof op->suffix, "%s",
                       dcpi_commit_kind_of(model_place_find(w, s.path)->commit)->suffix);
    for (r = 0; r < op->ranks; r++) {
        if (s.kind == MODEL_SAVE || s.kind == MODEL_BEGIN) {
            model_pieces_make(&op->pieces[r], &op->state, r, op->ranks);
            model_pieces_fill(&op->pieces[r]);
        } else if (s.kind == MODEL_LOAD || s.kind == MODEL_MAP || s.kind == MODEL_CONVERT)
            model_pieces_want(&op->pieces[r], &op->state, r, op->ranks);
    }
    if (s.kind != MODEL_BEGIN) model_coordinators_open(op);
    return op;
}
static int model_op_start_process(model_op *op) {
    (void)fflush(stdout);
    dcpi_mutex_lock(&hungry.lock);                      /* so that no thread that the child lacks holds it there */
    op->pid = fork();
    dcpi_mutex_unlock(&hungry.lock);
    if (op->pid < 0) abort();
    if (op->pid == 0) model_op_child(op);
    return 1;
}
/* Waits until it has ended or stopped. 0: it crashed. */
static int model_op_await(model_world *w, model_op *op) {
    int status = 0;
    if (op->step.kill_us) {
        struct timespec pause;
        pause.tv_sec = 0;
        pause.tv_nsec = op->step.kill_us * 1000;
        (void)nanosleep(&pause, NULL);
        (void)kill(op->pid, SIGKILL);
    }
    if (waitpid(op->pid, &status, WUNTRACED) != op->pid) abort();
    op->is_stopped = WIFSTOPPED(status);
    if (op->is_stopped || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return 1;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (op->step.kill_at || op->step.kill_us)) return 1;
    return model_fail(w, "a process crashed", "wait status %d", status);
}
static void model_group_run(model_world *w, model_group *g) {
    int i;
    for (i = 0; i < g->count; i++) if (g->op[i]->step.process) (void)model_op_start_process(g->op[i]);
    for (i = 0; i < g->count; i++) {
        model_op *op = g->op[i];
        if (op->step.process) continue;
        if (g->count == 1) model_op_run(op);
        else if (pthread_create(&op->thread, NULL, model_op_thread, op)) abort();
    }
    for (i = 0; i < g->count; i++) {
        if (g->op[i]->step.process) (void)model_op_await(w, g->op[i]);
        else if (g->count > 1) (void)pthread_join(g->op[i]->thread, NULL);
    }
}

/* ---- what has come of it ----------------------------------------------------------------------------------------- */
typedef enum model_end { END_DONE, END_FAILED, END_UNKNOWN } model_end;
static model_end model_end_of(const model_op *op) {
    if (!op->out->is_over || op->is_stopped) return END_UNKNOWN;
    if (model_verdict(op) == DCP_OK) return END_DONE;
    /* perhaps it went that far */
    if (model_is_removal(op) && model_verdict(op) != DCP_E_NOT_FOUND) return END_UNKNOWN;
    return model_verdict(op) == DCP_E_UNKNOWN ? END_UNKNOWN : END_FAILED;
}
/* Whether it touches the place, and may put this generation there. */
static int model_may_be(const model_op *op, const char *path, int generation) {
    char target[MODEL_PATH];
    return model_is_save(op) && strcmp(model_target(op, target), path) == 0 && op->state.number == generation;
}
static int model_may_remove(const model_op *op, const char *path) {
    return (op->step.kind == MODEL_REMOVE && strcmp(op->step.path, path) == 0) ||
           (op->step.kind == MODEL_PRUNE && model_is_in(path, op->step.path)) ||
           model_retains(&op->step, path);              /* another save may just have put it there, of any step */
}
/* Only after its commit: not where rank 0 says that it does not know of one. */
static int model_has_removed(const model_op *op, model_end end) {
    if (!model_is_save(op)) return 1;
    if (end == END_FAILED) return 0;
    return !op->out->is_over || op->step.dead_at || op->step.kind == MODEL_BEGIN ||
           op->out->status[0] != DCP_E_UNKNOWN;
}
/* Of an operation whose verdict is still to come: what else writes or removes at its place meanwhile. */
static void model_note_rivals(const model_group *g, model_op *op) {
    char path[MODEL_PATH];
    int i;
    (void)model_target(op, path);
    for (i = 0; i < g->count; i++) {
        const model_op *other = g->op[i];
        const int removes = model_may_remove(other, path);
        if (other == op || model_end_of(other) == END_FAILED ||
            (!removes && !model_may_be(other, path, other->state.number))) continue;
        op->has_rivals = 1;
        op->has_removals |= removes;
    }
}
/* Whether the group, or one that is still under way, has saved it at the path. */
static int model_is_source(const model_world *w, const model_group *g, const char *path, int generation) {
    int i;
    for (i = 0; i < w->pending_count; i++) if (model_may_be(w->pending[i], path, generation)) return 1;
    for (i = 0; i < g->count; i++) if (model_may_be(g->op[i], path, generation)) return 1;
    return 0;
}
/* What is there after the group is one of what may be; the model takes it over. */
static int model_settle(model_world *w, const model_group *g, const char *path) {
    static model_sight sight;
    model_place *p = model_place_at(w, path);
    const int old = p->is_there ? p->state.number : 0;
    int i, j, saved = 0, unknown = 0, removed = 0, legal, generation, try_again;
    int64_t highest = 0;
    for (try_again = 3; try_again > 0; try_again--) {
        dcp_close(model_sight_open(w, path, &sight));
        if (sight.status == DCP_OK || sight.status == DCP_E_NOT_FOUND || !model_is_pending(w, path)) break;
    }
    if (sight.status == DCP_E_INVALID) {                /* a file may have come where it would have a directory */
        model_tree_scan(&w->tree, w->base);
        if (model_is_under_file(w, path)) sight.status = DCP_E_NOT_FOUND;
    }
    generation = sight.status ? 0 : sight.generation;
    legal = 0;
    for (i = 0; i < g->count + w->pending_count; i++) {
        const model_op *op = i < g->count ? g->op[i] : w->pending[i - g->count];
        const model_end end = i < g->count ? model_end_of(op) : END_UNKNOWN;
        char target[MODEL_PATH];
        if (model_may_remove(op, path) && model_has_removed(op, end)) {
            removed += end != END_FAILED;
            legal |= generation == 0;
        }
        if (!model_is_save(op) || strcmp(model_target(op, target), path) != 0) continue;
        if (end == END_DONE && op->is_late && op->has_rivals) {
            legal |= generation == op->state.number || generation == old;
            continue;
        }
        saved += end == END_DONE;
        unknown += end == END_UNKNOWN;
        if (end != END_FAILED) legal |= generation == op->state.number;
        if (end != END_FAILED && op->step.kind == MODEL_SYNC) legal |= model_is_source(w, g, op->step.path, generation);
        if (end == END_DONE && op->out->report.sequence > highest) highest = op->out->report.sequence;
    }
    legal |= generation == old && (saved == 0 || removed);
    if (sight.status && sight.status != DCP_E_NOT_FOUND) {
        if (saved == 0 && old && model_is_hurt(w, p)) return 1;
        return model_fail(w, "a checkpoint does not open", "%s: %s", path, sight.err.message);
    }
    for (j = 0; j < w->pending_count; j++) model_note_rivals(g, w->pending[j]);
    if (!legal)
        return model_fail(w, generation == 0 ? "a checkpoint is gone" : "another generation",
                          "%s has generation %d; before, it was %d%s", path, generation, old, saved
                          ? ", and a save said DCP_OK" : "");
    for (i = 0; i < g->count; i++) {                    /* G2: who has not seen the other's commit may not replace it */
        const model_op *op = g->op[i];
        if (!model_may_be(op, path, op->state.number) || model_end_of(op) != END_DONE || op->step.kind == MODEL_SYNC ||
            removed) continue;
        for (j = 0; j < i; j++)
            if (model_may_be(g->op[j], path, g->op[j]->state.number) && model_end_of(g->op[j]) == END_DONE &&
                g->op[j]->step.kind != MODEL_SYNC && g->op[j]->out->report.sequence == op->out->report.sequence)
                return model_fail(w, "a lost update", "%s: two saves say DCP_OK, both with sequence %d", path,
                                  (int)op->out->report.sequence);
        for (j = 0; j < w->pending_count; j++)
            if (model_may_be(w->pending[j], path, w->pending[j]->state.number) && !w->pending[j]->has_removals &&
                !op->has_removals && w->pending[j]->out->report.sequence == op->out->report.sequence)
                w->pending[j]->is_lost = 1;
    }
    for (i = 0; i < w->pending_count; i++)
        if (generation && model_may_be(w->pending[i], path, generation)) w->pending[i]->was_seen = 1;
    if (saved && !removed && unknown == 0 && sight.sequence != highest && g->count > 1 && generation != 0) {
        for (i = 0; i < g->count; i++) if (g->op[i]->step.kind == MODEL_SYNC) break;
        if (i == g->count)
            return model_fail(w, "a lost update", "%s has sequence %d; a save of %d said DCP_OK", path,
                              (int)sight.sequence, (int)highest);
    }
    /* what a damaged document named, nobody knows */
    if (old && generation != old && model_is_hurt(w, p)) w->is_dirty = 1;
    model_place_take(w, p, &sight);
    for (i = 0; i < g->count && p->is_there; i++) {
        const model_op *op = g->op[i];
        const model_place *source = op->step.kind == MODEL_SYNC ? model_place_find(w, op->step.path) : NULL;
        if (!model_is_save(op) || !model_may_be(op, path, generation)) continue;
        p->is_signed = source ? source->is_signed : op->step.sign;
    }
    return 1;
}

/* ---- what the model expects of numbers and of a prune, where nothing disturbs ------------------------------------ */
static int64_t model_next_sequence(const model_world *w, const char *directory) {
    int64_t highest = 0;
    int i;
    for (i = 0; i < w->place_count; i++)
        if (w->place[i].is_there && model_is_in(w->place[i].path, directory) && w->place[i].sequence > highest)
            highest = w->place[i].sequence;
    return highest + 1;
}
/* The k newest of those that load. */
static int model_is_kept(const model_world *w, const model_place *p, const model_step *s) {
    int i, newer = 0;
    /* 0 may be that of a manifest without a step */
    if (s->every && p->step >= (p->layout == DCP_LAYOUT_MANIFEST) && p->step % s->every == 0) return 1;
    for (i = 0; i < w->place_count; i++) {
        const model_place *q = &w->place[i];
        newer += q->is_there && q != p && model_is_in(q->path, s->path) && !model_is_hurt(w, q) &&
            model_compare(q, p) > 0;
    }
    return newer < (s->keep > 1 ? s->keep : 1);
}
typedef struct model_before {
    int64_t sequence;
    char kept[MODEL_PLACES], gone[MODEL_PLACES];
    char was[MODEL_PLACES], is_valid[MODEL_PLACES];     /* there; and what retention counts */
    int has_damage;
    int was_dirty;
} model_before;
static void model_look_ahead(const model_world *w, const model_op *op, model_before *b) {
    char directory[MODEL_PATH], target[MODEL_PATH];
    int i;
    memset(b, 0, sizeof *b);
    b->was_dirty = w->is_dirty;
    model_directory_of(model_target(op, target), directory);
    if (op->step.kind == MODEL_SWEEP) (void)snprintf(directory, sizeof directory, "%s", op->step.path);
    if (model_is_save(op) && op->step.kind != MODEL_SYNC && !model_has_damage_in(w, directory))
        b->sequence = model_next_sequence(w, directory);
    b->has_damage = model_has_damage_in(w, directory) || model_has_broken_in(w, directory);
    for (i = 0; i < w->place_count; i++) {
        b->was[i] = (char)w->place[i].is_there;
        b->is_valid[i] = w->place[i].is_there && !model_is_hurt(w, &w->place[i]) &&
                         (!op->step.verifier || w->place[i].is_signed);
    }
    for (i = 0; i < w->place_count && op->step.kind == MODEL_PRUNE; i++) {
        const model_place *p = &w->place[i];
        if (!p->is_there || !model_is_in(p->path, op->step.path) || model_is_hurt(w, p)) continue;
        if (op->step.dry || model_is_kept(w, p, &op->step)) b->kept[i] = 1;
        else b->gone[i] = !(op->step.every && p->step == 0) &&
                            !model_has_damage_in(w, op->step.path) && !model_has_broken_in(w, op->step.path);
    }
}
static int model_check_prune(model_world *w, const model_before *b, int is_done) {
    int i;
    for (i = 0; i < MODEL_PLACES; i++) {
        if (b->kept[i] && !w->place[i].is_there)
            return model_fail(w, "pruned too much", "%s is gone", w->place[i].path);
        if (is_done && b->gone[i] && w->place[i].is_there)
            return model_fail(w, "pruned too little", "%s is still there", w->place[i].path);
    }
    return 1;
}
/* ---- and of the retention of a save ----------------------------------------------------------------------------- */
/* How many of its series retention counts that are newer; or, with a time, that this process has saved since then. */
static int model_newer(const model_world *w, const model_step *s, const model_before *b, const model_place *p,
                       int since, int is_sure) {
    int i, newer = 0;
    for (i = 0; i < w->place_count; i++) {
        const model_place *q = &w->place[i];
        const model_life *life = &w->life[q->state.number];
        if (strcmp(q->path, s->path) == 0) { newer += !s->verifier || s->sign; continue; }
        if (!b->is_valid[i] || q == p || !model_is_of_series(q->path, s->path)) continue;
        newer += since ? (is_sure ? life->saved : life->saved_perhaps) > since : model_compare(q, p) > 0;
    }
    return newer;
}
/* 1: it stays; 0: it goes; -1: perhaps. */
static int model_is_retained(const model_world *w, const model_step *s, const model_before *b, const model_place *p) {
    const model_life *life = &w->life[p->state.number];
    if (s->verifier && !p->is_signed) return 1;
    if (!model_may_retain(s, p) || model_newer(w, s, b, p, 0, 1) < s->keep) return 1;
    if (life->loaded && model_newer(w, s, b, p, life->loaded, 0) < s->keep) return 1;
    return life->loaded_perhaps && model_newer(w, s, b, p, life->loaded_perhaps, 1) < s->keep ? -1 : 0;
}
/* is_done: without a fault and a warning. */
static int model_check_retained(model_world *w, const model_op *op, const model_before *b, int is_done) {
    const model_step *s = &op->step;
    int i, retained;
    for (i = 0; i < MODEL_PLACES; i++) {
        const model_place *p = &w->place[i];
        if (!b->was[i] || !model_is_of_series(p->path, s->path) || strcmp(p->path, s->path) == 0) continue;
        retained = model_is_retained(w, s, b, p);
        if (retained == 1 && !p->is_there && (b->is_valid[i] || (s->verifier && !p->is_signed)))
            return model_fail(w, "retained too little", "%s is gone, and should stay", p->path);
        if (retained == 0 && is_done && p->is_there && b->is_valid[i] && !b->has_damage)
            return model_fail(w, "retained too much", "%s is still there", p->path);
    }
    return 1;
}
/* What the calls of a group have done in this process. */
static void model_note_life(model_world *w, const model_op *op) {
    model_life *life = &w->life[op->state.number];
    const int is_load = op->step.kind == MODEL_LOAD || op->step.kind == MODEL_MAP || op->step.kind == MODEL_SYNC;
    const model_place *source = op->step.kind == MODEL_CONVERT ? model_place_find(w, op->step.path) : NULL;
    if (op->step.process) return;
    if (is_load) life->loaded_perhaps = w->clock;
    if (is_load && op->step.kind != MODEL_SYNC && model_verdict(op) == DCP_OK) life->loaded = w->clock;
    if (source) w->life[source->state.number].loaded_perhaps = w->clock;
    if (!model_is_save(op) || op->step.kind == MODEL_SYNC) return;
    life->saved_perhaps = w->clock;
    if (model_verdict(op) == DCP_OK && op->step.kind != MODEL_BEGIN) life->saved = w->clock;
}
static int model_check_sequence(model_world *w, const model_op *op, const model_before *b) {
    char directory[MODEL_PATH], target[MODEL_PATH];
    int i;
    model_directory_of(model_target(op, target), directory);
    if (b->sequence == 0 || op->out->report.sequence == b->sequence) return 1;
    /* who knows what number it has */
    for (i = 0; i < w->stranger_count && op->out->report.sequence > b->sequence; i++)
        if (w->stranger[i].is_secret && model_is_in(w->stranger[i].path, directory)) return 1;
    return model_fail(w, "another sequence number", "%s has %d; the highest of the directory and 1 is %d",
                      op->step.path, (int)op->out->report.sequence, (int)b->sequence);
}

/* ---- what may lie about ------------------------------------------------------------------------------------------ */
static int model_leaves_files(const model_world *w, const model_op *op) {
    const model_step *s = &op->step;
    const dcp_status verdict = model_verdict(op);
    const int may_remove = model_is_removal(op) || s->kind == MODEL_SWEEP || s->kind == MODEL_SYNC;
    const int retains = model_is_save(op) && s->keep > 0;
    char directory[MODEL_PATH], target[MODEL_PATH];
    model_directory_of(model_target(op, target), directory);
    if (!op->out->is_over || verdict == DCP_E_UNKNOWN || s->dead_at || op->is_stopped) return 1;
    if (s->call && op->out->faults && (s->fault == FAULT_ANY || s->fault >= FAULT_OPEN || s->how != FAULT_BEFORE ||
                                       may_remove || verdict == DCP_OK)) return 1;
    if (s->memory_at && (verdict == DCP_OK || may_remove)) return 1;
    if ((s->cancel_at || s->deadline_ms || s->arrives_at) && (may_remove || retains)) return 1;
    if (s->kind == MODEL_SYNC || s->lacks) return 1;
    if (may_remove && verdict != DCP_OK) return 1;
    return (may_remove || retains || s->overwrite) &&
           (model_has_broken_in(w, directory) || model_has_damage_in(w, directory) || model_has_broken_in(w, s->path));
}
/* A live rank takes back what it made when it knows that the save has failed, whatever has become of the others
 * (G9). */
static int model_check_taken_back(model_world *w, const model_op *op) {
    char shard[MODEL_PATH + 40];
    const char *last = strrchr(op->step.path, '/');
    int r;
    if (op->step.kind != MODEL_SAVE || !op->step.dead_at || op->step.layout != DCP_LAYOUT_SHARDED || w->pending_count)
        return 1;
    for (r = 0; r < op->ranks; r++)
        if (!model_is_dead(op, r) && (op->out->status[r] == DCP_OK || op->out->status[r] == DCP_E_UNKNOWN)) return 1;
    for (r = 0; r < op->ranks; r++) {
        const model_file *f;
        if (model_is_dead(op, r)) continue;
        (void)last;
        (void)snprintf(shard, sizeof shard, "%s_shard_%d.bin", op->step.path, r);
        f = model_tree_find(&w->tree, shard);
        if (f && f->type == 'f' && !model_is_explained(w, f))
            return model_fail(w, "a live rank leaves its file", "%s, though %s", shard, op->out->err[r].message);
    }
    return 1;
}
static int model_is_ours_to_sweep(const char *name, int plain) {
    return dcpi_is_temporary(name) || dcpi_is_intent(name) || dcpi_is_shard_name(name, plain) ||
           dcpi_is_pool_name(name, plain);
}
/* Of the pool, or on its way there. */
static int model_is_pool_file(const char *name) {
    char final_name[MODEL_KEY];
    const size_t length = dcpi_temporary_of(name);
    (void)snprintf(final_name, sizeof final_name, "%.*s", (int)(length ? length : strlen(name)), name);
    return dcpi_is_pool_name(final_name, 1);
}
/* Its storage has said that there is no such file, or directory, or that it has done what it has not: nothing that it
 * asked for need have happened. */
static int model_was_lied_to(const model_op *op) {
    return op->step.call && op->out->faults && (op->step.sys == ENOENT || op->step.sys == 0);
}
/* The list of what a killed save was to write stays with that save's lock while some of it must stay (V6). */
static int model_is_dead_list(const model_world *w, const char *path) {
    static const char mark[] = ".commit.lock.";
    const char *at = strstr(path, mark);
    char lock[MODEL_KEY];
    if (!at || strlen(at) != strlen(mark) + 16 + strlen(".tmp")) return 0;
    (void)snprintf(lock, sizeof lock, "%.*s.%.16s.commit.lock", (int)(at - path), path, at + strlen(mark));
    return model_tree_find(&w->tree, lock) != NULL;
}
/* Nothing is left of what nobody names, in the directory and in its pool, unless the pool is a directory of checkpoints
 * itself. */
static int model_check_swept(model_world *w, const char *directory, int plain) {
    const size_t n = strlen(directory);
    const int is_broken = model_has_broken_in(w, directory);
    const model_file *f;
    int i;
    for (i = 0; i < w->tree.count; i++) {
        const char *name;
        f = &w->tree.file[i];
        if (f->type != 'f' || !model_is_below(f->path, directory) || model_is_explained(w, f)) continue;
        name = f->path + n + (n > 0);
        if ((strchr(name, '/') && (model_is_owned(w, f) || !model_is_pool_file(name))) ||
            !model_is_ours_to_sweep(name, plain)) continue;
        if (is_broken && ((!dcpi_is_temporary(name) && !dcpi_is_intent(name)) || model_is_dead_list(w, f->path)))
            continue;
        return model_fail(w, "a sweep leaves a file", "%s", f->path);
    }
    return 1;
}

/* ---- strangers that a call may take along: commit files that are whole checkpoints, and plain shard names, which
 * anybody may use ------------------ */
/* Data that was left when its document was pruned, since another document could not be read. */
static int model_is_orphan(const model_world *w, const model_stranger *s) {
    char document[MODEL_KEY];
    if (!dcpi_ends_with(s->path, "seed_shard_0.bin")) return 0;
    (void)snprintf(document, sizeof document, "%.*s.metadata.json",
                   (int)(strlen(s->path) - strlen("_shard_0.bin")), s->path);
    return !model_tree_find(&w->tree, document);
}
static void model_forget_strangers(model_world *w, const model_op *op) {
    int i, kept = 0;
    for (i = 0; i < w->stranger_count; i++) {
        const model_stranger *s = &w->stranger[i];
        int may_go = 0;
        if (op->step.kind == MODEL_SWEEP && op->step.plain)
            may_go = s->what == FOREIGN_PLAIN_SHARD || model_is_orphan(w, s);
        if (model_is_removal(op)) may_go = (s->is_commit && s->is_valid) || dcpi_ends_with(s->path, "seed_shard_0.bin");
        if (model_is_save(op) && op->step.overwrite)
            may_go = s == model_stranger_at(w, op->step.path) || dcpi_ends_with(s->path, "seed_shard_0.bin");
        if (may_go && model_digest(w, s->path) != s->digest) continue;
        memmove(&w->stranger[kept++], s, sizeof *s);
    }
    w->stranger_count = kept;
}

/* ---- what killed saves left -------------------------------------------------------------------------------------- */
static const char *model_name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
/* A save was killed, and nothing else runs: its lock is free. */
static void model_note_dead(model_world *w, const model_op *op) {
    const size_t n = strlen(op->step.path);
    int i, j;
    for (i = 0; i < w->tree.count; i++) {
        const char *path = w->tree.file[i].path;
        for (j = 0; j < w->dead_count && strcmp(w->dead[j], path) != 0; j++) continue;
        if (j < w->dead_count || j == MODEL_DEAD || strncmp(path, op->step.path, n) != 0 ||
            dcpi_live_prefix(model_name_of(path)) != strlen(model_name_of(op->step.path))) continue;
        (void)snprintf(w->dead[w->dead_count++], MODEL_KEY, "%s", path);
    }
}
/* The next save of the series, and a sweep, removes all of it. */
static int model_goes_with(const model_step *s, const char *dead) {
    char prefix[MODEL_KEY];
    const char *name = model_name_of(dead);
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)((size_t)(name - dead) + dcpi_live_prefix(name)), dead);
    return s->kind == MODEL_SWEEP ? model_is_in(dead, s->path) && !s->dry : model_is_of_series(prefix, s->path);
}
static int model_check_dead(model_world *w, const model_op *op) {
    int i, j;
    for (i = 0; i < w->dead_count; i++) {
        const char *dead = w->dead[i], *name = model_name_of(dead);
        char id[17], directory[MODEL_PATH];
        (void)snprintf(id, sizeof id, "%s", name + dcpi_live_prefix(name) + 1);
        model_directory_of(dead, directory);
        if (!model_goes_with(&op->step, dead)) continue;
        if (model_tree_find(&w->tree, dead)) return model_fail(w, "a killed save's lock stays", "%s", dead);
        for (j = 0; j < w->tree.count; j++) {
            const model_file *f = &w->tree.file[j];
            if (f->type == 'f' && model_is_below(f->path, directory) && dcpi_name_has_id(f->path, id) &&
                !model_is_explained(w, f) && !model_is_owned(w, f))
                return model_fail(w, "a killed save's file stays", "%s", f->path);
        }
    }
    return 1;
}

/* ---- one group, judged ------------------------------------------------------------------------------------------- */
static void model_keep_pending(model_world *w, model_op *op) {
    if (w->pending_count == MODEL_OPS) abort();
    w->pending[w->pending_count++] = op;
}
static void model_drop_pending(model_world *w, const model_op *op) {
    int i, kept = 0;
    for (i = 0; i < w->pending_count; i++) if (w->pending[i] != op) w->pending[kept++] = w->pending[i];
    w->pending_count = kept;
}
static int model_group_settle(model_world *w, const model_group *g) {
    char path[MODEL_PATH];
    int i, j, n = w->place_count;
    for (i = 0; i < g->count; i++) {
        const char *target = model_target(g->op[i], path);
        if (target[0] && (model_is_save(g->op[i]) || model_place_find(w, target)) && !model_stranger_at(w, target) &&
            !model_settle(w, g, target)) return 0;
        for (j = 0; j < n && g->op[i]->step.kind == MODEL_PRUNE; j++)
            if (model_is_in(w->place[j].path, g->op[i]->step.path) && !model_settle(w, g, w->place[j].path)) return 0;
    }
    for (j = 0; j < n; j++) {                           /* what retention may have removed */
        int may_go = 0;
        for (i = 0; i < g->count; i++) may_go |= model_may_retain(&g->op[i]->step, &w->place[j]);
        for (i = 0; i < w->pending_count; i++) may_go |= model_may_retain(&w->pending[i]->step, &w->place[j]);
        if (may_go && w->place[j].is_there && !model_settle(w, g, w->place[j].path)) return 0;
    }
    for (i = 0; i < w->pending_count; i++) if (!model_settle(w, g, model_target(w->pending[i], path))) return 0;
    return 1;
}
static int model_lists_of(model_world *w, const model_op *op) {
    char directory[MODEL_PATH], target[MODEL_PATH];
    model_directory_of(model_target(op, target), directory);
    if (target[0] && !model_check_list(w, directory)) return 0;
    if (op->step.kind == MODEL_PRUNE || op->step.kind == MODEL_SWEEP || op->step.kind == MODEL_LATEST)
        return model_check_list(w, op->step.path);
    return 1;
}
/* With others about it may also meet what they do. */
static unsigned model_want(model_world *w, const model_op *op, int is_alone) {
    unsigned want = model_expects(w, op);
    if (model_is_disturbed(op)) return want | model_listed(op);
    if (!is_alone)
        want |= model_listed(op) & ~(MODEL_S(E_MEMORY) | MODEL_S(E_TIMEOUT) | MODEL_S(E_COMM) | MODEL_S(E_SPACE) |
                                     MODEL_S(E_CANCELLED) | MODEL_S(E_CHECKSUM) | MODEL_S(E_FORMAT));
    if (op->step.retry_ms) want |= model_listed(op) & ~MODEL_S(E_TIMEOUT);
    return want;
}
static int model_group_judge(model_world *w, model_group *g, const model_before *before) {
    const int is_alone = g->count == 1 && w->pending_count == 0;
    int i;
    for (i = 0; i < g->count; i++) {
        model_op *op = g->op[i];
        if (model_leaves_files(w, op) ||
            (!is_alone && (model_is_removal(op) || op->step.keep || op->step.layout == DCP_LAYOUT_MANIFEST)))
            w->is_dirty = 1;
        if (op->out->is_over && !op->is_stopped && !model_judge_call(w, op, g->want[i])) return 0;
        model_forget_strangers(w, op);
        model_note_life(w, op);
    }
    if (!model_group_settle(w, g)) return 0;
    if (is_alone && g->op[0]->out->is_over) {
        const model_op *op = g->op[0];
        const int is_done = model_verdict(op) == DCP_OK && !model_is_disturbed(op);
        if (model_is_save(op) && is_done && op->step.kind != MODEL_SYNC && !model_stranger_at(w, op->step.path) &&
            !model_check_sequence(w, op, before)) return 0;
        if (op->step.kind == MODEL_PRUNE && !model_check_prune(w, before, is_done)) return 0;
        if (op->step.kind == MODEL_SAVE && op->step.keep && model_verdict(op) == DCP_OK &&
            !model_check_retained(w, op, before, is_done && op->out->report.warning_count == 0)) return 0;
        if (op->step.kind == MODEL_LATEST && is_done && !op->step.verifier &&
            !model_check_latest(w, op->step.path, model_verdict(op), op->out->path, op->out->err[0].message,
                                op->step.verify)) return 0;
    }
    if (!model_check_all(w, 0)) return 0;
    if (is_alone && !model_check_taken_back(w, g->op[0])) return 0;
    if (is_alone && g->op[0]->step.kind == MODEL_SAVE && !g->op[0]->out->is_over) model_note_dead(w, g->op[0]);
    if (is_alone && (g->op[0]->step.kind == MODEL_SAVE || g->op[0]->step.kind == MODEL_SWEEP) &&
        g->op[0]->out->is_over && model_verdict(g->op[0]) == DCP_OK && !model_is_disturbed(g->op[0]) &&
        !g->op[0]->step.lacks && !before->has_damage && !model_check_dead(w, g->op[0])) return 0;
    if (is_alone && g->op[0]->step.kind == MODEL_SWEEP && g->op[0]->step.grace < 0 && !g->op[0]->step.dry &&
        g->op[0]->out->is_over && model_verdict(g->op[0]) == DCP_OK && !model_was_lied_to(g->op[0])) {
        if (!model_check_swept(w, g->op[0]->step.path, g->op[0]->step.plain)) return 0;
        if (w->is_dirty && w->pending_count == 0 && !model_unexplained(w, 1)) w->is_dirty = 0;
    }
    for (i = 0; i < g->count; i++) if (!model_lists_of(w, g->op[i])) return 0;
    return 1;
}
static int model_run_group(model_world *w, const model_step *steps, int count) {
    model_group g;
    model_before before;
    int i, is_fine, stops = w->pending_count;
    memset(&g, 0, sizeof g);
    for (i = 0; i < count; i++) {
        model_op *op = model_op_make(w, &steps[i], count == 1);
        g.op[g.count++] = op;
        stops |= op->step.stop_at || op->step.kill_at;
    }
    for (i = 0; i < count; i++) if (stops && g.op[i]->step.timeout_ms == 0) g.op[i]->step.timeout_ms = 300;
    for (i = 0; i < g.count; i++) g.want[i] = model_want(w, g.op[i], count == 1 && w->pending_count == 0);
    model_look_ahead(w, g.op[0], &before);
    model_group_run(w, &g);
    is_fine = !w->label[0] && model_group_judge(w, &g, &before);
    for (i = 0; i < g.count; i++) if (g.op[i]->is_stopped) model_note_rivals(&g, g.op[i]);
    for (i = 0; i < g.count; i++) {
        if (g.op[i]->step.kind != MODEL_BEGIN) model_coordinators_close(g.op[i]);
        if (g.op[i]->is_stopped) model_keep_pending(w, g.op[i]);
        else model_op_close(g.op[i]);
    }
    return is_fine;
}

/* ---- savers ------------------------------------------------------------------------------------------------------ */
/* The verdict of the slot's save has come. */
static int model_slot_end(model_world *w, model_slot *slot) {
    model_op *op = slot->op;
    model_group g;
    unsigned want;
    int is_fine;
    slot->op = NULL;
    model_drop_pending(w, op);
    memset(&g, 0, sizeof g);
    g.count = 1;
    g.op[0] = op;
    op->is_late = 1;
    model_note_life(w, op);
    model_count_faults(op);
    want = model_want(w, op, 0);
    if (model_leaves_files(w, op) || op->step.keep || op->step.layout == DCP_LAYOUT_MANIFEST) w->is_dirty = 1;
    is_fine = model_judge_call(w, op, want);
    if (is_fine && model_verdict(op) == DCP_OK && op->is_lost && !op->was_seen && !op->has_removals)
        is_fine = model_fail(w, "a lost update",
                             "%s: the save in the background says DCP_OK, and so did another with its sequence",
                             op->step.path);
    is_fine = is_fine && model_group_settle(w, &g) && model_check_all(w, 0);
    model_op_close(op);
    return is_fine;
}
/* Calls poll, wait or close on all ranks. */
static int model_slot_call(model_world *w, model_slot *slot, model_kind kind) {
    static model_outcome out;
    model_step step;
    model_state state;
    model_op *op;
    int r, pending = 0, is_fine = 1;
    memset(&step, 0, sizeof step);
    memset(&state, 0, sizeof state);
    step.kind = kind;
    step.ranks = slot->ranks;
    op = model_op_open(&step, &state, w->base, w->storage, &out);
    op->saver = slot->saver;
    if (kind == MODEL_POLL)
        for (r = 0; r < op->ranks; r++) out.status[r] = dcp_save_poll(slot->saver[r], &out.err[r]);
    else model_op_run(op);
    for (r = 0; r < op->ranks && slot->op && kind != MODEL_CLOSE; r++) {
        if (slot->op->is_resolved >> r & 1) continue;
        if (out.status[r] == DCP_PENDING) { pending = 1; continue; }
        slot->op->is_resolved |= 1 << r;
        slot->op->out->status[r] = out.status[r];
        slot->op->out->err[r] = out.err[r];
    }
    if (kind == MODEL_WAIT && pending)
        is_fine = model_fail(w, "took too long", "dcp_save_wait is pending after %d ms", (int)out.took_ms);
    model_op_close(op);
    if (is_fine && slot->op && !pending && kind != MODEL_CLOSE) is_fine = model_slot_end(w, slot);
    return is_fine;
}
static int model_slot_close(model_world *w, model_slot *slot) {
    int r, is_fine = 1;
    if (slot->ranks == 0) return 1;
    if (slot->op) is_fine = model_slot_call(w, slot, MODEL_WAIT);
    if (slot->op) { model_drop_pending(w, slot->op); }
    if (is_fine) is_fine = model_slot_call(w, slot, MODEL_CLOSE);
    for (r = 0; r < slot->ranks; r++) dcp_coordinator_close(slot->coordinator[r]);
    memset(slot, 0, sizeof *slot);
    return is_fine;
}
static int model_slot_open(model_world *w, model_slot *slot, const model_step *s) {
    dcp_saver_desc desc = DCP_ZERO;
    dcp_error err;
    int r;
    (void)w;
    slot->ranks = s->ranks ? s->ranks : 1;
    slot->step = *s;
    desc.when_busy = s->refuse ? DCP_BUSY_REFUSE : DCP_BUSY_WAIT;
    desc.snapshot_budget = (size_t)s->snapshot;
    for (r = 0; r < slot->ranks; r++) if (dcp_saver_open(&desc, &slot->saver[r], &err)) abort();
    if (s->ranks == 0) return 1;
    if (dcp_thread_group_open(s->ranks, slot->coordinator, &err)) abort();
    for (r = 0; r < s->ranks; r++) if (s->shy) slot->coordinator[r]->thread_safe = 0;
    return 1;
}
static int model_begin(model_world *w, const model_step *step) {
    model_slot *slot = &w->slot[step->slot & 1];
    const model_step *s = &slot->step;
    model_step begin = *step;
    model_group g;
    model_op *op;
    unsigned want;
    int r;
    begin.arrives_at = begin.dead_at = begin.other_world = begin.kill_at = begin.stop_at = begin.process =
        begin.kill_us = 0;
    if (slot->op && !model_slot_call(w, slot, MODEL_WAIT)) return 0;
    if (slot->ranks && (s->ranks != begin.ranks || s->shy != begin.shy || s->refuse != begin.refuse ||
                        s->snapshot != begin.snapshot) && !model_slot_close(w, slot)) return 0;
    if (slot->ranks == 0 && !model_slot_open(w, slot, &begin)) return 0;
    op = model_op_make(w, &begin, 1);
    want = model_want(w, op, w->pending_count == 0);
    op->saver = slot->saver;
    for (r = 0; r < op->ranks; r++) op->coordinator[r] = slot->coordinator[r];
    memset(&g, 0, sizeof g);
    g.count = 1;
    g.op[0] = op;
    g.want[0] = want;
    model_op_run(op);
    if (model_verdict(op) == DCP_OK) {        /* it has begun; how it ends is not known yet, but to ranks that failed */
        for (r = 0; r < op->ranks; r++) {
            if (op->out->status[r]) op->is_resolved |= 1 << r;
            if (!model_judge_rank(w, op, r)) return 0;
        }

        slot->op = op;
        model_note_life(w, op);
        model_keep_pending(w, op);
        g.count = 0;
        return model_group_settle(w, &g) && model_check_all(w, 0);
    }
    if (model_leaves_files(w, op)) w->is_dirty = 1;
    if (!model_judge_call(w, op, want) || !model_group_settle(w, &g)) return 0;
    model_op_close(op);
    return model_check_all(w, 0);
}

/* ---- the other steps --------------------------------------------------------------------------------------------- */
static int model_wake(model_world *w) {
    model_op *op = NULL;
    model_group g;
    int i, is_fine;
    for (i = 0; i < w->pending_count && !op; i++) if (w->pending[i]->is_stopped) op = w->pending[i];
    if (!op) return 1;
    op->step.stop_at = 0;
    op->is_late = 1;
    (void)kill(op->pid, SIGCONT);
    if (!model_op_await(w, op)) return 0;
    model_drop_pending(w, op);
    w->is_dirty = 1;
    memset(&g, 0, sizeof g);
    g.count = 1;
    g.op[0] = op;
    is_fine = !op->out->is_over || model_judge_call(w, op, model_listed(op));
    if (is_fine && op->out->is_over && model_verdict(op) == DCP_OK && op->is_lost && !op->was_seen && !op->has_removals)
        is_fine = model_fail(w, "a lost update",
                             "%s: a save that had stood still says DCP_OK, and so did another with its sequence",
                             op->step.path);
    is_fine = is_fine && model_group_settle(w, &g) && model_check_all(w, 0);
    model_op_close(op);
    return is_fine;
}
static void model_rename_in(char *path, size_t size, const char *from, const char *to) {
    char rest[MODEL_KEY];
    if (!model_is_below(path, from)) return;
    (void)snprintf(rest, sizeof rest, "%s", path + strlen(from));
    (void)snprintf(path, size, "%s%s", to, rest);
}
static int model_rename(model_world *w, const model_step *s) {
    char from[TEST_PATH + MODEL_KEY], to[TEST_PATH + MODEL_KEY];
    int i, j;
    const model_file *f = model_tree_find(&w->tree, s->path);
    if (!f || f->type != 'd' || w->pending_count || model_is_below(s->to, s->path) || model_tree_find(&w->tree, s->to))
        return 1;
    for (i = 0; i < w->place_count; i++)                /* a path that the model knows already, or that is too long */
        if (model_is_below(w->place[i].path, s->to) || strlen(w->place[i].path) + strlen(s->to) > MODEL_PATH - 2)
            return 1;
    model_full(w, s->path, from);
    model_full(w, s->to, to);
    model_make_directories(w, s->to);
    if (rename(from, to) != 0) return 1;
    for (i = 0; i < w->place_count; i++) {
        model_place *p = &w->place[i];
        if (!model_is_below(p->path, s->path)) {        /* a manifest of a directory above may have lost its pool */
            for (j = 0; j < p->own_count && p->is_there; j++)
                if (model_is_below(p->own[j], s->path) && !model_tree_find(&w->tree, s->to) &&
                    w->damage_count < MODEL_FILES / 4) {
                    model_damage *damage = &w->damage[w->damage_count++];
                    (void)snprintf(damage->path, sizeof damage->path, "%s", p->own[j]);
                    damage->inode = 0;
                    damage->number = w->state_count;
                    damage->is_cut = 1;
                }
            continue;
        }
        model_rename_in(p->path, sizeof p->path, s->path, s->to);
        model_rename_in(p->commit, sizeof p->commit, s->path, s->to);
        for (j = 0; j < p->own_count; j++) model_rename_in(p->own[j], sizeof p->own[j], s->path, s->to);
    }
    for (i = 0; i < w->stranger_count; i++)
        model_rename_in(w->stranger[i].path, sizeof w->stranger[i].path, s->path, s->to);
    for (i = 0, j = w->damage_count; i < j; i++) {    /* a file that was gone is so for both, who stays and who moves */
        if (w->damage[i].inode == 0 && w->damage_count < MODEL_FILES / 4) w->damage[w->damage_count++] = w->damage[i];
        model_rename_in(w->damage[i].path, sizeof w->damage[i].path, s->path, s->to);
    }
    w->is_dirty = 1;
    w->dead_count = 0;
    return model_check_all(w, 1);
}
static int model_harm(model_world *w, const model_step *s) {
    model_place *p = model_place_find(w, s->path);
    char full[TEST_PATH + MODEL_KEY];
    const char *path;
    const model_file *f;
    model_damage *damage;
    unsigned char byte;
    int fd;
    if (!p || !p->is_there || model_is_pending(w, s->path) || w->damage_count == MODEL_FILES / 4) return 1;
    path = s->what == 0 || p->own_count == 0 ? p->commit : p->own[(s->what - 1) % p->own_count];
    f = model_tree_find(&w->tree, path);
    if (!f || f->size == 0 || model_is_damaged(w, path, p->state.number)) return 1;
    if (s->kind == MODEL_LOSE && path == p->commit) return 1;
    model_full(w, path, full);
    damage = &w->damage[w->damage_count++];
    (void)snprintf(damage->path, sizeof damage->path, "%s", path);
    damage->number = w->state_count;
    damage->inode = s->kind == MODEL_LOSE ? 0 : f->inode;
    damage->is_cut = s->kind != MODEL_FLIP;
    if (s->kind == MODEL_LOSE) { if (unlink(full)) abort(); return model_check_all(w, 0); }
    if (s->kind == MODEL_CUT) {
        if (truncate(full, (off_t)(f->size - 1 - s->nth % f->size))) abort();
        return model_check_all(w, 0);
    }
    fd = open(full, O_RDWR);
    if (fd < 0 || pread(fd, &byte, 1, (off_t)(s->nth % f->size)) != 1) abort();
    byte = (unsigned char)(byte ^ (1 << s->nth % 8));
    if (pwrite(fd, &byte, 1, (off_t)(s->nth % f->size)) != 1) abort();
    (void)close(fd);
    for (fd = 0; fd < w->place_count; fd++) w->place[fd].seen = 0;
    return model_check_all(w, 0);
}
/* A document that lies must not load. */
static int model_check_stranger(model_world *w, const char *directory, int what) {
    const dcp_verifier verifier = dcp_hmac_verifier(model_key, sizeof model_key - 1);
    dcp_open_desc desc = DCP_ZERO;
    dcp_checkpoint *c;
    dcp_error err;
    unsigned char bytes[64] = {0};
    int64_t two = 2;
    dcp_tensor t = dcp_array("w", DCP_FP32, bytes, 1, &two);
    char path[MODEL_KEY];
    dcp_status status;
    if (what != FOREIGN_PARTS && what != FOREIGN_UNCOVERED) return 1;
    (void)snprintf(path, sizeof path, "%s%s%s", directory, directory[0] ? "/" : "",
                   what == FOREIGN_PARTS ? "parts.manifest.json" : "uncovered.metadata.json");
    if (!model_stranger_find(w, path)) return 1;
    desc.path = path;
    desc.io.storage = w->storage;
    if (what == FOREIGN_UNCOVERED) { desc.verifier = &verifier; desc.verify = DCP_VERIFY_ALL; }
    status = dcp_open(&desc, &c, &err);
    if (!status && what == FOREIGN_PARTS) status = dcp_read(c, &t, 1, &err);
    dcp_close(c);
    if (status) return 1;
    return model_fail(w, what == FOREIGN_PARTS ? "part of a tensor is loaded for the whole"
                      : "a signed document without digests is accepted", "%s", path);
}
static int model_run_foreign(model_world *w, const model_step *s) {
    const int before = w->stranger_count;
    int i;
    if (w->pending_count) return 1;
    model_put_what(w, s->path, s->what);
    for (i = before; i < w->stranger_count; i++) w->stranger[i].what = s->what;
    model_tree_scan(&w->tree, w->base);
    return model_check_stranger(w, s->path, s->what) && model_check_list(w, s->path) && model_check_all(w, 0);
}
static int model_run_step(model_world *w, const model_program *p, int *at) {
    const model_step *s = &p->step[*at];
    model_slot *slot = &w->slot[s->slot & 1];
    int end = *at + 1, i;
    if (model_is_out("commit_lock") && (s->kind == MODEL_SAVE || s->kind == MODEL_BEGIN || s->kind >= MODEL_PRUNE))
        for (i = 0; i < 2; i++) if (w->slot[i].op && !model_slot_call(w, &w->slot[i], MODEL_WAIT)) return 0;
    switch (s->kind) {
    case MODEL_BEGIN: return model_begin(w, s);
    case MODEL_POLL: return slot->op ? model_slot_call(w, slot, MODEL_POLL) : 1;
    case MODEL_WAIT: return slot->op ? model_slot_call(w, slot, MODEL_WAIT) : 1;
    case MODEL_CLOSE: return model_slot_close(w, slot);
    case MODEL_CANCEL:
        if (slot->op) { slot->op->step.cancel_at = 1000000; dcp_save_cancel(slot->saver[s->nth % slot->ranks]); }
        return 1;
    case MODEL_RENAME: return model_rename(w, s);
    case MODEL_FOREIGN: return model_run_foreign(w, s);
    case MODEL_FLIP: case MODEL_CUT: case MODEL_LOSE: return model_harm(w, s);
    case MODEL_WAKE: return model_wake(w);
    default: break;
    }
    while (p->step[end - 1].at_once && end < p->count && end - *at < 5) {       /* those that can be */
        const model_kind kind = p->step[end].kind;
        if (kind == MODEL_BEGIN || (kind > MODEL_BEGIN && kind < MODEL_LOAD) ||
            (kind >= MODEL_RENAME && kind <= MODEL_WAKE)) break;
        end++;
    }
    i = *at;
    *at = end - 1;
    return model_run_group(w, s, end - i);
}

/* ---- a program --------------------------------------------------------------------------------------------------- */
/* Everybody has gone, and all directories are swept: nothing is left but the checkpoints and what is foreign. */
static int model_finish(model_world *w) {
    dcp_error err;
    int i, turn;
    while (w->pending_count) {
        const int count = w->pending_count;
        for (i = 0; i < 2; i++) if (w->slot[i].op && !model_slot_call(w, &w->slot[i], MODEL_WAIT)) return 0;
        if (!model_wake(w)) return 0;
        if (w->pending_count == count) abort();
    }
    for (i = 0; i < 2; i++) if (!model_slot_close(w, &w->slot[i])) return 0;
    if (!model_check_all(w, 1)) return 0;
    for (turn = 0; turn < 3; turn++)          /* a killed save's files make a pool's folder a directory until they go */
        for (i = -1; i < w->tree.count; i++) {
            dcp_sweep_desc desc = DCP_ZERO;
            if (i >= 0 && w->tree.file[i].type != 'd') continue;
            desc.directory = i < 0 ? "" : w->tree.file[i].path;
            desc.grace_seconds = -1;
            desc.plain_names = turn > 0;
            desc.io.storage = w->storage;
            if (dcp_sweep(&desc, NULL, &err))
                return model_fail(w, "a sweep fails", "of \"%s\": %s", desc.directory, err.message);
        }
    for (i = 0; i < w->stranger_count; i++)
        if (w->stranger[i].what == FOREIGN_PLAIN_SHARD || dcpi_ends_with(w->stranger[i].path, "seed_shard_0.bin"))
            w->stranger[i].digest = model_digest(w, w->stranger[i].path);
    model_tree_scan(&w->tree, w->base);
    if (!model_check_all(w, 1) || !model_check_swept(w, "", 1)) return 0;
    for (i = 0; i < w->tree.count; i++)
        if (w->tree.file[i].type == 'd' && !model_check_swept(w, w->tree.file[i].path, 1)) return 0;
    return 1;
}
static void model_world_close(model_world *w) {
    int i;
    for (i = 0; i < w->pending_count; i++) if (w->pending[i]->is_stopped) {
        (void)kill(w->pending[i]->pid, SIGKILL);
        (void)waitpid(w->pending[i]->pid, NULL, 0);
    }
    dcp_storage_close(w->storage);
    test_rm_rf(w->base);
    (void)munmap(w->outcomes, 4 * MODEL_OPS * sizeof *w->outcomes);
    free(w);
}
/* 1: all held. Else the label and what is wrong, and the step at which it was found. After a failure this process is
 * not fit for another program. */
static int model_run(const model_program *p, const char *dir, char label[80], char *why, size_t why_size, int *step) {
    model_world *w = (model_world *)calloc(1, sizeof *w);
    const int64_t live = hungry_live();
    dcp_error err;
    int at, is_fine = 1;
    static int count;
    if (!w) abort();
    model_now = w;
    model_state_of = model_world_state;
    (void)snprintf(w->base, sizeof w->base, "%s/m%d_%d", dir, (int)getpid(), ++count);
    w->outcomes = (model_outcome *)mmap(NULL, 4 * MODEL_OPS * sizeof *w->outcomes, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((void *)w->outcomes == MAP_FAILED || dcp_storage_local(w->base, &w->storage, &err)) abort();
    for (at = 0; at < p->count && is_fine; at++) { *step = at; w->clock++; is_fine = model_run_step(w, p, &at); }
    if (is_fine) { *step = p->count; is_fine = model_finish(w); }
    (void)snprintf(label, 80, "%s", w->label);
    (void)snprintf(why, why_size, "%s", w->why);
    if (is_fine || w->pending_count == 0) model_world_close(w);
    if (is_fine && hungry_live() != live) {
        is_fine = 0;
        (void)snprintf(label, 80, "memory is lost");
        (void)snprintf(why, why_size, "%d blocks", (int)(hungry_live() - live));
    }
    return is_fine;
}

/* ---- programs run in a process of their own, so that a crash or a wait without end is a failure like others ------ */
typedef struct model_report {
    volatile int64_t programs;
    uint64_t seed;
    model_program program;
    int has_failed, step;
    char label[80], why[1500];
} model_report;
static model_report *model_shared(void) {
    static model_report *shared;
    if (!shared)
        shared = (model_report *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((void *)shared == MAP_FAILED) abort();
    return shared;
}
/* With DCP_MODEL_STACKS, where the threads of a process are that hangs, and those of its children. */
static void model_show_stacks(pid_t pid) {
    char command[300];
    if (!getenv("DCP_MODEL_STACKS")) return;
    (void)snprintf(command, sizeof command,
                   "for p in %d $(pgrep -P %d); do echo \"process $p\"; gdb -p $p -batch -ex 'thread apply all bt 16' "
                   "2>/dev/null | grep '^#\\|^Thread' | cut -c 1-150; done", (int)pid, (int)pid);
    (void)fflush(stdout);
    if (system(command) != 0) printf("no stacks\n");
}
static int model_await(pid_t pid, const model_report *r, int limit_s, char label[80]) {        /* 0: it has failed */
    int64_t programs = -1, since = 0;
    int status;
    for (;;) {
        const pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) break;
        if (r->programs != programs) { programs = r->programs; since = dcpi_os_monotonic_ms(); }
        if (dcpi_os_monotonic_ms() - since > (int64_t)limit_s * 1000) {
            model_show_stacks(pid);
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            (void)snprintf(label, 80, "hangs");
            return 0;
        }
        dcpi_os_sleep_ms(1);
    }
    if (r->has_failed) { (void)snprintf(label, 80, "%s", r->label); return 0; }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 1;
    (void)snprintf(label, 80, "crashes");
    return 0;
}
/* 1: it holds. */
static int model_try(const model_program *p, const char *dir, char label[80]) {
    model_report *r = model_shared();
    pid_t pid;
    memset(r, 0, sizeof *r);
    r->program = *p;
    (void)fflush(stdout);
    pid = fork();
    if (pid < 0) abort();
    if (pid == 0) {
        test_timeout(0);
        r->has_failed = !model_run(p, dir, r->label, r->why, sizeof r->why, &r->step);
        _exit(r->has_failed);
    }
    return model_await(pid, r, test_is_sanitized() ? 120 : 40, label);
}

/* ---- made smaller ------------------------------------------------------------------------------------------------ */
typedef struct model_shrinking {
    const char *dir;
    char label[80];
    int times;
    int64_t until;
    model_program best;
} model_shrinking;
static int model_still_fails(model_shrinking *s, const model_program *p) {
    char label[80];
    int i;
    for (i = 0; i < s->times && dcpi_os_monotonic_ms() < s->until; i++)
        if (!model_try(p, s->dir, label) && strcmp(label, s->label) == 0) { s->best = *p; return 1; }
    return 0;
}
static int model_shrink_steps(model_shrinking *s) {
    int size, at, smaller = 0;
    for (size = s->best.count / 2; size > 0; size /= 2) {
        for (at = 0; at + size <= s->best.count;) {
            model_program p = s->best;
            memmove(&p.step[at], &p.step[at + size], (size_t)(p.count - at - size) * sizeof p.step[0]);
            p.count -= size;
            if (p.count > 0 && model_still_fails(s, &p)) smaller = 1;
            else at++;
        }
    }
    return smaller;
}
static int model_shrink_step(model_shrinking *s, int at) {
    int i, smaller = 0, value;
    for (i = 0; i < MODEL_FIELDS; i++) {
        model_program p = s->best;
        int *field = model_field_of(&p.step[at], i);
        value = *field;
        if (value == 0) continue;
        *field = 0;
        if (model_still_fails(s, &p)) { smaller = 1; continue; }
        for (*field = value / 2; value > 2 && *field > 0 && *field < value; *field = value / 2) {
            if (!model_still_fails(s, &p)) break;
            smaller = 1;
            value = *field;
        }
    }
    for (i = 0; s->best.step[at].tensors[i];) {
        model_program p = s->best;
        memmove(&p.step[at].tensors[i], &p.step[at].tensors[i + 1], strlen(&p.step[at].tensors[i]));
        if (model_still_fails(s, &p)) { smaller = 1; continue; }
        p = s->best;
        if (p.step[at].tensors[i] != 'r') {
            p.step[at].tensors[i] = 'r';
            smaller |= model_still_fails(s, &p);
        }
        i++;
    }
    return smaller;
}
static void model_shrink(model_shrinking *s) {
    int at, smaller = 1;
    while (smaller && dcpi_os_monotonic_ms() < s->until) {
        smaller = model_shrink_steps(s);
        for (at = 0; at < s->best.count; at++) smaller |= model_shrink_step(s, at);
    }
}
/* It has failed so; makes it smaller, and says it all. 0: it does not fail again, with more time for everything: it was
 * the machine. */
static int model_explain(const char *dir, model_family family, uint64_t seed, const model_program *p, const char *label,
                         const char *why, int step) {
    model_shrinking s;
    char now[80], name[80];
    model_report *r = model_shared();
    int i, failed = 0;
    const int shrink_s = getenv("DCP_MODEL_SHRINK") ? atoi(getenv("DCP_MODEL_SHRINK")) : 30;
    const int is_a_wait = strstr(label, "TIMEOUT") != NULL || strcmp(label, "took too long") == 0 ||
                          strcmp(label, "hangs") == 0;
    memset(&s, 0, sizeof s);
    s.dir = dir;
    s.best = *p;
    (void)snprintf(s.label, sizeof s.label, "%s", label);
    if (is_a_wait) model_time_scale = 4;
    for (i = 0; i < (is_a_wait ? 3 : shrink_s ? 20 : 0) && failed < 3; i++)
        failed += !model_try(p, dir, now) && strcmp(now, label) == 0;
    if (is_a_wait && failed == 0) { model_time_scale = 1; return 0; }
    s.times = failed == 3 && i == 3 ? 1 : failed ? 1 + 3 * i / failed : 0;
    s.until = dcpi_os_monotonic_ms() + shrink_s * 1000;
    if (failed && shrink_s) model_shrink(&s);
    printf("/* %s: %s [step %d of program %llu of the family %s; failed %d times of %d again] */\n", label, why,
           step + 1, (unsigned long long)seed, model_family_names[family], failed, i);
    for (i = 0; i < 10 * s.times; i++) if (!model_try(&s.best, dir, now) && strcmp(now, label) == 0) break;
    if (failed && i < 10 * s.times) printf("/* made smaller: %s [step %d] */\n", r->why, r->step + 1);
    (void)snprintf(name, sizeof name, "program_%llu", (unsigned long long)seed);
    model_print(stdout, name, &s.best);
    model_time_scale = 1;
    return 1;
}

/* ---- programs that have found something -------------------------------------------------------------------------- */
#define STEP(name, ...) { .kind = MODEL_##name, __VA_ARGS__ }
#define PROGRAM(name, ...) static const model_step model_of_##name[] = { __VA_ARGS__ };
#include "regress/model.h"
#undef PROGRAM
#define PROGRAM(name, ...) { #name, model_of_##name, (int)(sizeof model_of_##name / sizeof model_of_##name[0]) },
static const struct { const char *name; const model_step *steps; int count; } model_found[] = {
#include "regress/model.h"
};
/* Whether it may go one way or another, so that it is run several times. */
static int model_is_random(const model_step *steps, int count) {
    int i;
    for (i = 0; i < count; i++) if (steps[i].at_once || steps[i].kind == MODEL_BEGIN || steps[i].kill_us) return 1;
    return 0;
}
TEST(programs_that_have_found_something) {
    const char *dir = test_ram_dir(), *only = getenv("DCP_MODEL_FOUND");
    size_t i;
    int times;
    for (i = 0; i < DCPI_COUNT(model_found); i++) {
        model_program p;
        char label[80];
        memset(&p, 0, sizeof p);
        if (only && !strstr(model_found[i].name, only)) continue;
        p.count = model_found[i].count;
        memcpy(p.step, model_found[i].steps, (size_t)p.count * sizeof p.step[0]);
        for (times = model_is_random(p.step, p.count) ? test_times(20) : 1; times > 0; times--) {
            if (model_try(&p, dir, label)) continue;
            printf("note: %s [step %d]: %s\n", label, model_shared()->step + 1, model_shared()->why);
            test_fail(__FILE__, __LINE__, model_found[i].name, " does not hold");
        }
    }
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */
static double model_processor(int who) {
    struct rusage usage;
    (void)getrusage(who, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}
/* Runs programs until the time is over: of processor, or of the clock where they mostly wait. */
static void model_child(const char *dir, model_family family, uint64_t seed, double seconds) {
    model_report *r = model_shared();
    const int64_t began = dcpi_os_monotonic_ms();
    test_timeout(0);
    do {
        r->seed = model_mix(seed + 1000003u * (uint64_t)r->programs);
        model_draw_program(r->seed, family, &r->program);
        r->has_failed = !model_run(&r->program, dir, r->label, r->why, sizeof r->why, &r->step);
        r->programs++;
        if (family == FAMILY_SLOW && (double)(dcpi_os_monotonic_ms() - began) > 1000 * seconds) break;
    } while (!r->has_failed && model_processor(RUSAGE_SELF) + model_processor(RUSAGE_CHILDREN) < seconds);
    _exit(r->has_failed);
}
static void model_family_holds(model_family family, double share) {
    const char *dir = test_ram_dir(), *seconds = getenv("DCP_MODEL_SECONDS"), *one = getenv("DCP_MODEL_PROGRAM");
    const int limit_s = test_is_sanitized() ? 120 : 40;
    model_report *r = model_shared();
    const char *minutes = getenv("DCP_MODEL_MINUTES");  /* of all families together */
    double left = minutes ? atof(minutes) * 60 / (FAMILY_SLOW + 1) : seconds
                  ? atof(seconds) : share * (getenv("DCP_TEST_FEWER") ? 0.3 : 1);
    uint64_t seed = test_random();
    char label[80];
    int flakes = 0;
    if (one) { seed = strtoull(one, NULL, 10); left = 0; }
    test_timeout(0);
    for (;;) {
        pid_t pid;
        model_report failed;
        memset(r, 0, sizeof *r);
        (void)fflush(stdout);
        pid = fork();
        if (pid < 0) abort();
        if (pid == 0 && one) {
            r->seed = seed;
            model_draw_program(seed, family, &r->program);
            r->has_failed = !model_run(&r->program, dir, r->label, r->why, sizeof r->why, &r->step);
            _exit(r->has_failed);
        }
        if (pid == 0) model_child(dir, family, seed, left);
        if (model_await(pid, r, limit_s, label)) break;
        failed = *r;
        if (model_explain(dir, family, failed.seed, &failed.program, label, failed.why, failed.step)) {
            char text[200];
            (void)snprintf(text, sizeof text, "a program of %s: %s", model_family_names[family], label);
            test_fail(__FILE__, __LINE__, text, "");
        }
        printf("note: %s: %s, once and not again [step %d of program %llu]\n", label, failed.why, failed.step + 1,
               (unsigned long long)failed.seed);
        (void)fflush(stdout);
        if (++flakes == (minutes ? 100 : 3)) break;
        seed++;
    }
    printf("note: %s: %d programs\n", model_family_names[family], (int)r->programs);
}
TEST(programs_of_one_process) { model_family_holds(FAMILY_PLAIN, 9); }
TEST(programs_beside_foreign_files) { model_family_holds(FAMILY_FOREIGN, 10); }
TEST(programs_on_ranks) { model_family_holds(FAMILY_RANKS, 9); }
TEST(programs_in_the_background) { model_family_holds(FAMILY_BACKGROUND, 9); }
TEST(programs_with_faults) { model_family_holds(FAMILY_FAULTS, 10); }
TEST(programs_at_once) { model_family_holds(FAMILY_AT_ONCE, 10); }
TEST(programs_that_are_slow) { model_family_holds(FAMILY_SLOW, 8); }

int main(void) {
    /* The same programs in each `make test`; others in test-all and the soak. */
    if (!test_is_whole() && !getenv("DCP_MODEL_SECONDS") && !getenv("DCP_MODEL_MINUTES"))
        (void)setenv("DCP_TEST_SEED", "2026", 0);
    RUN(programs_that_have_found_something);
    RUN(programs_of_one_process);
    RUN(programs_beside_foreign_files);
    RUN(programs_on_ranks);
    RUN(programs_in_the_background);
    RUN(programs_with_faults);
    RUN(programs_at_once);
    RUN(programs_that_are_slow);
    return test_finish();
}
#endif
#endif
