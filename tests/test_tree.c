/* test_tree.c - what goes down from rank 0 to all others: loads with many ranks, slow messages, and ranks that die.
 *
 * White-box: pieces can be small, so that a short document travels in many of them. */
#include <stddef.h>
static size_t piece = 300;
#define DCPI_COORD_PIECE piece
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"
#include "doing.h"

#if DCPI_THREADS
#define NEED_THREADS()
#else
#define NEED_THREADS() SKIP("a build without threads")
#endif

enum { MOST = 200, TENSORS = 12, TIMEOUT_MS = 1000 };

/* ---- ranks that are threads, with a coordinator that counts, is slow and dies ------------------------------------ */
enum { LIVES, DIES_SILENTLY, DIES_AND_IS_KNOWN, DIES_WHEN_DONE };
typedef struct rank {
    dcp_coordinator c, *inner;
    dcp_storage *storage;
    int delay_ms, death, dies_at, timeout_ms;           /* dies_at: this send (1: the first) is not made any more */
    int is_reluctant, calls;                            /* takes only every third message without waiting */
    int sends, ups, is_dead;
    int64_t bytes;
    dcp_status status; dcp_error err; int64_t took_ms, ended_ms, died_ms;
    float values[4];
    dcpi_thread thread;
} rank;

static dcp_status rank_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                            dcp_error *err) {
    rank *r = (rank *)context;
    const int is_up = tag == DCPI_TAG_OPERATION && dcpi_load32((const uint8_t *)data + 4) == DCPI_MESSAGE_UP;
    if (r->is_reluctant && timeout_ms == 0 && !r->is_dead && ++r->calls % 3) return DCP_PENDING;
    r->sends++;
    r->ups += is_up;
    if (r->death == DIES_WHEN_DONE) r->is_dead |= r->ups == 2 && !is_up;
    else if (r->death && r->sends >= r->dies_at && !r->is_dead) {
        r->is_dead = 1;
        r->died_ms = dcpi_os_monotonic_ms();
        if (r->death == DIES_AND_IS_KNOWN) dcp_coordinator_close(r->inner);
    }
    if (r->is_dead) return dcpi_fail(err, DCP_E_COMM, "this rank is dead");
    r->bytes += (int64_t)size;
    if (r->delay_ms) dcpi_os_sleep_ms(r->delay_ms);
    return r->inner->send(r->inner->context, to, tag, data, size, timeout_ms, err);
}
static dcp_status rank_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                               dcp_error *err) {
    rank *r = (rank *)context;
    if (r->is_dead) return dcpi_fail(err, DCP_E_COMM, "this rank is dead");
    return r->inner->receive(r->inner->context, from, tag, data, size, timeout_ms, err);
}
static dcp_storage *checkpoint(void) {
    static float values[TENSORS][4];
    static char names[TENSORS][8];
    dcp_storage *storage;
    dcp_save_desc save = DCP_ZERO;
    dcp_tensor tensors[TENSORS];
    const int64_t four = 4;
    dcp_error err;
    int i, k;
    CHECK_OK_MESSAGE(dcp_storage_memory(&storage, &err), err.message);
    for (i = 0; i < TENSORS; i++) {
        for (k = 0; k < 4; k++) values[i][k] = (float)(10 * i + k);
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        tensors[i] = dcp_array(names[i], DCP_FP32, values[i], 1, &four);
        tensors[i].placement = DCP_PLACE_REPLICATED;
    }
    save.path = "run/x";
    save.tensors = tensors;
    save.tensor_count = TENSORS;
    save.io.storage = storage;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    return storage;
}
static void rank_load(void *argument) {
    rank *r = (rank *)argument;
    const int64_t began = dcpi_os_monotonic_ms(), four = 4;
    dcp_load_desc load = DCP_ZERO;
    char name[8];
    dcp_tensor t;
    (void)snprintf(name, sizeof name, "t%d", r->c.rank % TENSORS);
    t = dcp_array(name, DCP_FP32, r->values, 1, &four);
    load.path = "run/x";
    load.tensors = &t;
    load.tensor_count = 1;
    load.io.storage = r->storage;
    load.io.coordinator = &r->c;
    load.io.timeout_ms = r->timeout_ms;
    load.io.threads = 1;
    r->status = dcp_load(&load, &r->err);
    r->ended_ms = dcpi_os_monotonic_ms();
    r->took_ms = r->ended_ms - began;
}
static void ranks_open(rank *ranks, int count, dcp_storage *storage, int timeout_ms) {
    static dcp_coordinator *inner[MOST];
    dcp_error err;
    int i;
    CHECK_OK_MESSAGE(dcp_thread_group_open(count, inner, &err), err.message);
    memset(ranks, 0, (size_t)count * sizeof *ranks);
    for (i = 0; i < count; i++) {
        rank *r = &ranks[i];
        r->inner = inner[i];
        r->c = *inner[i];
        r->c.context = r;
        r->c.send = rank_send;
        r->c.receive = rank_receive;
        r->c.destroy = NULL;
        r->storage = storage;
        r->timeout_ms = timeout_ms;
    }
}
static void ranks_start(rank *ranks, int count) {
    int i;
    for (i = 0; i < count; i++) CHECK_INT(dcpi_thread_start(&ranks[i].thread, rank_load, &ranks[i]), 0);
}
static void ranks_join(rank *ranks, int count) {
    int i;
    for (i = 0; i < count; i++) dcpi_thread_join(&ranks[i].thread);
}
static void ranks_close(rank *ranks, int count) {
    int i;
    for (i = 0; i < count; i++)
        if (!ranks[i].is_dead || ranks[i].death != DIES_AND_IS_KNOWN) dcp_coordinator_close(ranks[i].inner);
}
static void check_loaded(const rank *ranks, int count) {
    int i;
    for (i = 0; i < count; i++) {
        CHECK_OK_MESSAGE(ranks[i].status, ranks[i].err.message);
        CHECK(ranks[i].values[3] == (float)(10 * (i % TENSORS) + 3));
        CHECK(!dcp_coordinator_is_broken(&ranks[i].c));
    }
}

/* ---- when all goes well ------------------------------------------------------------------------------------------ */
TEST(slow_messages_are_no_silence) {
    static rank ranks[32];
    dcp_storage *storage;
    int i;
    NEED_THREADS();
    storage = checkpoint();
    piece = 1u << 20;
    ranks_open(ranks, 32, storage, 2000);
    for (i = 0; i < 32; i++) ranks[i].delay_ms = 100;
    ranks_start(ranks, 32);
    ranks_join(ranks, 32);
    check_loaded(ranks, 32);
    ranks_close(ranks, 32);
    dcp_storage_close(storage);
    piece = 300;
}
TEST(two_hundred_ranks_load_and_rank_0_sends_to_two) {
    static rank ranks[MOST];
    dcp_storage *storage;
    int i;
    NEED_THREADS();
    storage = checkpoint();
    ranks_open(ranks, MOST, storage, 60000);
    ranks_start(ranks, MOST);
    ranks_join(ranks, MOST);
    check_loaded(ranks, MOST);
    for (i = 0; i < MOST; i++) CHECK(ranks[i].bytes < 64 * 1024);
    ranks_close(ranks, MOST);
    dcp_storage_close(storage);
}

TEST(messages_that_are_not_taken_at_once_arrive_all_the_same) {
    static rank ranks[33];
    dcp_storage *storage;
    int i;
    NEED_THREADS();
    storage = checkpoint();
    ranks_open(ranks, 33, storage, 20000);
    for (i = 0; i < 33; i++) ranks[i].is_reluctant = 1;
    ranks_start(ranks, 33);
    ranks_join(ranks, 33);
    check_loaded(ranks, 33);
    for (i = 0; i < 33; i++) CHECK(ranks[i].took_ms < 10000);
    ranks_close(ranks, 33);
    dcp_storage_close(storage);
}

/* ---- deaths ------------------------------------------------------------------------------------------------------ */
static void show_and_fail(const rank *ranks, int count, const char *wanted) {
    int r;
    for (r = 0; r < count; r++)
        printf("rank %d, %d ms: %s %s\n", r, (int)ranks[r].took_ms, dcp_status_name(ranks[r].status),
               ranks[r].err.message);
    test_fail(__FILE__, __LINE__, "the verdict is not ", wanted);
}
/* One verdict: all have it, or none; a death of rank 0 while it tells it leaves those that cannot know. The error names
 * the dead rank, and no other. */
static void check_death(const rank *ranks, int count, int who) {
    const int living = who < 0 ? count : count - 1;
    int i, ok = 0, failed = 0;
    for (i = 0; i < count; i++) {
        const rank *r = &ranks[i];
        if (i == who) continue;
        ok += r->status == DCP_OK;
        failed += r->status != DCP_OK && r->status != DCP_E_UNKNOWN;
        if (who >= 0 && r->ended_ms - ranks[who].died_ms > r->timeout_ms * 12 / 10 + (test_is_sanitized() ? 1200 : 300))
            show_and_fail(ranks, count, "one in time");
        if (r->status == DCP_OK) continue;
        if (r->err.rank != who) show_and_fail(ranks, count, "one that names the dead rank");
        if (r->status != DCP_E_UNKNOWN && r->status != DCP_E_COMM && r->status != DCP_E_TIMEOUT)
            show_and_fail(ranks, count, "a rank that is missing");
    }
    if (who == 0 ? ok && failed : ok != living && failed != living) show_and_fail(ranks, count, "one verdict");
}
/* Rank 1 has done its part and falls silent, and rank 5 still reads: the ranks below rank 1 wait for longer than the
 * timeout, and hear from rank 0 meanwhile. */
static dcp_status (*quick_read)(void *, void *, int64_t, void *, size_t, dcp_error *);
static dcp_status slow_read(void *context, void *object, int64_t offset, void *data, size_t size, dcp_error *err) {
    dcpi_os_sleep_ms(5 * TIMEOUT_MS / 2);
    return quick_read(context, object, offset, data, size, err);
}
TEST(a_rank_that_has_done_its_part_may_die_while_others_work) {
    static rank ranks[9];
    dcp_storage *storage, slow;
    int i;
    NEED_THREADS();
    storage = checkpoint();
    slow = *storage;
    quick_read = storage->read;
    slow.read = slow_read;
    ranks_open(ranks, 9, storage, TIMEOUT_MS);
    ranks[1].death = DIES_WHEN_DONE;
    ranks[5].storage = &slow;
    ranks_start(ranks, 9);
    ranks_join(ranks, 9);
    for (i = 0; i < 9; i++)
        if (i != 1 && ranks[i].status != DCP_OK) show_and_fail(ranks, 9, "a success");
    CHECK(ranks[1].status != DCP_OK && ranks[3].took_ms > 2 * TIMEOUT_MS);
    ranks_close(ranks, 9);
    dcp_storage_close(storage);
}
/* Each rank dies at each of its messages; cases run side by side. */
static void die_everywhere(int count, int death, int at_once, int is_reluctant) {
    enum { CASES = 24 };
    static rank groups[CASES][33];
    dcp_storage *storage = checkpoint();
    int who = 0, at = 0, base = 1, is_over, i;
    for (who = 0; who < count; who++)
        for (base = 1, is_over = 0; !is_over; base += at_once) {
            for (at = 0; at < at_once; at++) {
                ranks_open(groups[at], count, storage, TIMEOUT_MS);
                for (i = 0; i < count; i++) groups[at][i].is_reluctant = is_reluctant;
                groups[at][who].death = death;
                groups[at][who].dies_at = base + at;
            }
            for (i = 0; i < at_once; i++) ranks_start(groups[i], count);
            for (i = 0; i < at_once; i++) ranks_join(groups[i], count);
            for (i = 0; i < at_once; i++) {
                doing("rank %d of %d dies at its message %d", who, count, base + i);
                check_death(groups[i], count, groups[i][who].is_dead ? who : -1);
                is_over |= !groups[i][who].is_dead;
                ranks_close(groups[i], count);
            }
        }
    done_doing();
    dcp_storage_close(storage);
}
TEST(a_rank_that_dies_at_any_message_of_a_load_and_is_known) {
    NEED_THREADS();
    die_everywhere(9, DIES_AND_IS_KNOWN, 4, 0);
    die_everywhere(5, DIES_AND_IS_KNOWN, 4, 1);
    if (test_is_whole()) die_everywhere(33, DIES_AND_IS_KNOWN, 2, 0);
}
TEST(a_rank_that_falls_silent_at_any_message_of_a_load) {
    NEED_THREADS();
    die_everywhere(9, DIES_SILENTLY, 24, 0);
    if (test_is_whole()) die_everywhere(33, DIES_SILENTLY, 8, 0);
}

/* ---- the model ----------------------------------------------------------------------------------------------------
 * What "the tree" in >>coord says, small enough to go through every order of its steps: a load of two words (the
 * document; the verdict, once all have done their part, or that it is over). A step is one message sent or taken, a
 * rank that dies between any two of them, a child that gives its parent up, rightly or not, rank 0 that finds a silence
 * or stops waiting for confirmations. Whether a send to a dead rank fails or seems to succeed is open each time. */
enum { M_MOST = 5, M_QUEUE = 6, M_WAITS = 0, M_WORKS, M_SAID_ALL, M_TELLS, M_GONE };        /* of step[] */
enum { M_NONE, M_OK, M_OVER, M_UNKNOWN, M_FAILED };                                         /* of verdict[] */
enum { WORD_DOCUMENT = 1, WORD_OK, WORD_OVER, WORD_FAILED, WORD_UP, WORD_ASK, WORD_HEARD = WORD_ASK + 4,
       WORD_LOST };                                                                     /* ASK + step, LOST + who */
typedef struct model {
    uint8_t step[M_MOST], verdict[M_MOST], dead[M_MOST], orphan[M_MOST], todo[M_MOST], says[M_MOST];
    uint8_t queue[M_MOST][M_MOST][M_QUEUE], length[M_MOST][M_MOST];
    uint8_t children, up, heard, answered, blamed, deaths, alarms;
} model;
/* Rules that can be left out, so that the search shows that it would see it. */
enum { ALL_RULES, NOT_SAID_TO_WHO_MISSES_IT, CONFIRMED_BEFORE_PASSED_ON, NEVER_UNKNOWN, OVER_AFTER_OK };
static struct { int ranks, without; uint64_t *seen; size_t room, count, ends; const char *wrong; } m;

static uint64_t m_hash(const model *s) {
    const uint8_t *at = (const uint8_t *)s;
    uint64_t h = 1469598103934665603u;
    size_t i;
    for (i = 0; i < sizeof *s; i++) h = (h ^ at[i]) * 1099511628211u;
    h = (h ^ h >> 29) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32 ? h ^ h >> 32 : 1;
}
static int m_is_new(const model *s) {
    const uint64_t h = m_hash(s);
    size_t i = (size_t)h & (m.room - 1);
    for (; m.seen[i]; i = (i + 1) & (m.room - 1)) if (m.seen[i] == h) return 0;
    m.seen[i] = h;
    if (++m.count > m.room / 4 * 3) abort();
    return 1;
}
static uint8_t m_below(int r) {
    int k, mask = 0;
    for (k = 2 * r + 1; k <= 2 * r + 2; k++) if (k < m.ranks) mask |= 1 << k;
    return (uint8_t)mask;
}
static void m_put(model *s, int from, int to, int what) {
    if (s->length[from][to] == M_QUEUE) { m.wrong = "too many messages"; return; }
    s->queue[from][to][s->length[from][to]++] = (uint8_t)what;
}
static int m_take(model *s, int from, int to) {
    const int what = s->queue[from][to][0];
    memmove(s->queue[from][to], s->queue[from][to] + 1, M_QUEUE - 1);
    s->queue[from][to][M_QUEUE - 1] = 0;
    s->length[from][to]--;
    return what;
}
static void m_bypass(model *s, int gone) {
    s->children = (uint8_t)(s->children | m_below(gone));
    s->heard = (uint8_t)(s->heard | 1 << gone);
}
static void m_end(model *s, int r, int verdict, int says) {
    s->verdict[r] = (uint8_t)verdict;
    s->step[r] = M_TELLS;
    s->says[r] = (uint8_t)says;
    s->todo[r] = r ? m_below(r) : s->children;
    if (r == 0) s->answered = 0;
}
static void m_over(model *s, int who) {                         /* rank 0 */
    if (s->step[0] >= M_TELLS && m.without != OVER_AFTER_OK) return;
    s->blamed = (uint8_t)who;
    m_end(s, 0, M_OVER, WORD_OVER);
}
static void m_rank_0_takes(model *s, int from, int what) {
    if (what == WORD_UP) s->up = (uint8_t)(s->up | 1 << from);
    else if (what == WORD_HEARD) s->heard = (uint8_t)(s->heard | 1 << from);
    else if (what >= WORD_LOST) {
        m_bypass(s, what - WORD_LOST);
        if (!(s->up >> (what - WORD_LOST) & 1)) m_over(s, what - WORD_LOST);
    } else {
        const int step = what - WORD_ASK, is_due = s->step[0] == M_TELLS ? step != M_WAITS || s->says[0] == WORD_OVER
                                                                       : step == M_WAITS;
        s->children = (uint8_t)(s->children | 1 << from);
        if (!is_due || s->answered >> from & 1) return;
        s->answered = (uint8_t)(s->answered | 1 << from);
        m_put(s, 0, from, s->says[0]);
    }
}
static int m_without_rank_0(int step) {
    return step == M_SAID_ALL && m.without != NEVER_UNKNOWN ? M_UNKNOWN : M_FAILED;
}
static void m_other_takes(model *s, int r, int what) {
    if (s->step[r] >= M_TELLS) return;
    if (what == WORD_DOCUMENT && s->step[r] == M_WAITS) {
        s->step[r] = M_WORKS;
        s->says[r] = WORD_DOCUMENT;
        s->todo[r] = m_below(r);
    } else if (what == WORD_OK && s->step[r] != M_SAID_ALL) m.wrong = "a verdict before this rank has said all";
    else if (what == WORD_OK) m_end(s, r, M_OK, WORD_OK);
    else if (what == WORD_OVER) m_end(s, r, M_OVER, WORD_OVER);
    else if (what == WORD_FAILED) m_end(s, r, m_without_rank_0(s->step[r]), WORD_FAILED);
}
static void m_visit(const model *s);

/* One message to the next of those that `r` has to tell. */
static void m_tell(const model *now, int r) {
    model s = *now;
    int c = 1, known;
    while (!(now->todo[r] >> c & 1)) c++;
    for (known = 0; known <= now->dead[c]; known++) {
        s = *now;
        s.todo[r] = (uint8_t)(s.todo[r] & ~(1 << c));
        if (!now->dead[c]) m_put(&s, r, c, s.says[r]);
        else if (known && r) m_put(&s, r, 0, WORD_LOST + c);
        else if (known) {
            s.todo[0] = (uint8_t)(s.todo[0] | m_below(c));
            m_bypass(&s, c);
            if (!(s.up >> c & 1)) m_over(&s, c);
        }
        m_visit(&s);
    }
}
static int m_visit_rank_0(const model *now) {
    const uint8_t all = (uint8_t)((1 << m.ranks) - 2);
    model s;
    int r, events = 0;
    for (r = 1; r < m.ranks; r++) {
        if (now->length[r][0] && now->step[0] <= M_TELLS) {
            s = *now;
            m_rank_0_takes(&s, r, m_take(&s, r, 0));
            m_visit(&s);
            events++;
        } else if (now->dead[r] && !(now->up >> r & 1) && now->step[0] < M_TELLS) {         /* a silence is found */
            s = *now;
            m_bypass(&s, r);
            m_over(&s, r);
            m_visit(&s);
            events++;
        }
    }
    s = *now;
    if (now->step[0] < M_TELLS && now->up == all) {
        m_end(&s, 0, M_OK, WORD_OK);
        m_visit(&s);
        return events + 1;
    }
    if (now->step[0] != M_TELLS) return events;
    for (r = 1; r < m.ranks; r++)                                                           /* any time from then on */
        if (!(s.heard >> r & 1) && m.without != NOT_SAID_TO_WHO_MISSES_IT) m_put(&s, 0, r, s.says[0]);
    s.step[0] = M_GONE;
    m_visit(&s);
    return events + 1;
}
static int m_visit_other(const model *now, int r) {
    const int parent = now->orphan[r] ? 0 : (r - 1) / 2, waits = now->step[r] < M_TELLS;
    model s = *now;
    int events = 0;
    if (now->step[r] == M_WORKS || (now->step[r] == M_TELLS && now->says[r] != WORD_FAILED)) {
        m_put(&s, r, 0, now->step[r] == M_WORKS ? WORD_UP : WORD_HEARD);
        s.step[r] = (uint8_t)(now->step[r] == M_WORKS ? M_SAID_ALL : M_GONE);
        m_visit(&s);
        events++;
    }
    if (waits && now->length[parent][r]) {
        s = *now;
        m_other_takes(&s, r, m_take(&s, parent, r));
        m_visit(&s);
        events++;
    }
    if (waits && parent && now->length[0][r]) {
        s = *now;
        m_other_takes(&s, r, m_take(&s, 0, r));
        m_visit(&s);
        events++;
    }
    if (waits && parent && ((now->dead[parent] && !now->length[parent][r]) || now->alarms)) {
        int known;
        for (known = 0; known <= now->dead[parent]; known++) {
            s = *now;
            s.orphan[r] = 1;
            if (!now->dead[parent]) s.alarms--;
            m_put(&s, r, 0, WORD_ASK + now->step[r]);
            if (known) m_put(&s, r, 0, WORD_LOST + parent);
            m_visit(&s);
        }
        events++;
    }
    if (waits && !parent && now->dead[0] && !now->length[0][r]) {                          /* rank 0 is lost */
        s = *now;
        m_end(&s, r, m_without_rank_0(now->step[r]), WORD_FAILED);
        m_visit(&s);
        events++;
    }
    return events;
}
/* Nothing can happen any more. */
static void m_check_end(const model *s) {
    int r, got[M_FAILED + 1] = {0};
    m.ends++;
    for (r = 0; r < m.ranks; r++) {
        if (s->dead[r]) continue;
        got[s->verdict[r]]++;
        if (!s->dead[0] && s->verdict[r] != s->verdict[0]) m.wrong = "another verdict than that of rank 0";
    }
    if (got[M_NONE]) m.wrong = "a rank that waits for ever";
    if (got[M_OK] && (got[M_OVER] || got[M_FAILED])) m.wrong = "a success beside a failure";
    if (got[M_OVER] && !s->dead[s->blamed]) m.wrong = "a living rank is blamed";
}
static void m_visit(const model *now) {
    int r, events = 0;
    if (m.wrong || !m_is_new(now)) return;
    for (r = 0; r < m.ranks; r++) {
        if (now->dead[r]) continue;
        if (now->todo[r]) { m_tell(now, r); events++; }
        if (m.without == CONFIRMED_BEFORE_PASSED_ON && r && now->step[r] == M_TELLS && now->todo[r]) {
            model s = *now;
            m_put(&s, r, 0, WORD_HEARD);
            m_visit(&s);
        }
        if (!now->todo[r]) events += r ? m_visit_other(now, r) : m_visit_rank_0(now);
        if (now->deaths && now->step[r] != M_GONE) {
            model s = *now;
            s.deaths--;
            s.dead[r] = 1;
            m_visit(&s);                                /* no event: it need not die */
        }
    }
    if (!events) m_check_end(now);
}
static void m_search(int ranks, int deaths, int alarms, int without) {
    model s;
    memset(&s, 0, sizeof s);
    memset(&m, 0, sizeof m);
    m.ranks = ranks;
    m.without = without;
    m.room = (size_t)1 << 24;
    m.seen = (uint64_t *)calloc(m.room, sizeof *m.seen);
    CHECK(m.seen != NULL);
    s.deaths = (uint8_t)deaths;
    s.alarms = (uint8_t)alarms;
    s.children = s.todo[0] = m_below(0);
    s.says[0] = WORD_DOCUMENT;
    m_visit(&s);
    free(m.seen);
    if (without) { CHECK(m.wrong != NULL); return; }
    if (m.wrong) CHECK_STR(m.wrong, "one verdict");
    CHECK(m.ends > 0);
    printf("note: %d ranks, %d deaths, %d false alarms: %lu states\n", ranks, deaths, alarms, (unsigned long)m.count);
}
TEST(every_order_of_messages_and_deaths_ends_in_one_verdict) {
    m_search(4, 1, 1, ALL_RULES);
    m_search(4, 2, 0, ALL_RULES);
    m_search(5, 1, 0, ALL_RULES);
    if (test_is_whole()) m_search(5, 2, 0, ALL_RULES);
}
TEST(the_search_sees_each_rule_that_is_left_out) {
    int without;
    for (without = ALL_RULES + 1; without <= OVER_AFTER_OK; without++) {
        doing("rule %d", without);
        m_search(4, 1, 0, without);
    }
    done_doing();
}

int main(void) {
    RUN(every_order_of_messages_and_deaths_ends_in_one_verdict);
    RUN(the_search_sees_each_rule_that_is_left_out);
    RUN(slow_messages_are_no_silence);
    RUN(two_hundred_ranks_load_and_rank_0_sends_to_two);
    RUN(messages_that_are_not_taken_at_once_arrive_all_the_same);
    RUN(a_rank_that_has_done_its_part_may_die_while_others_work);
    RUN(a_rank_that_dies_at_any_message_of_a_load_and_is_known);
    RUN(a_rank_that_falls_silent_at_any_message_of_a_load);
    return test_finish();
}
