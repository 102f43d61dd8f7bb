/* fault_coordinator.h - a coordinator that delays, drops and fails the calls of another one, by a seeded schedule, and
 * counts them.
 *
 *     fault_plan plan = { 0 };
 *     plan.seed = test_random(); plan.delay_percent = 20; plan.delay_ms = 5; plan.drop_percent = 1;
 *     dcp_coordinator *c = fault_wrap(inner, &plan);     // owns inner and closes it; the plan must outlive it
 *     ... plan.calls, plan.dropped, plan.after_failure ...
 *
 * The same seed gives a rank the same schedule, call by call. As thread-safe as what it wraps. After dcp.h with
 * DCP_IMPLEMENTATION. */
#ifndef DCP_FAULT_COORDINATOR_H
#define DCP_FAULT_COORDINATOR_H

typedef struct fault_plan {
    uint64_t seed;
    int delay_percent, delay_ms;        /* of sends and receives: so many wait up to delay_ms first */
    int drop_percent;                   /* of sends: so many say DCP_OK and send nothing */
    int drop_at;                        /* this send does so (1: the first) */
    int fail_percent, fail_at;          /* of all calls: so many, and this one (1: the first), fail with `failure` */
    dcp_status failure;                 /* 0: DCP_E_COMM */
    int deaf_after;                     /* after this send (1: the first) each receive fails with `failure` */
    int lies_at;                        /* this send (1: the first) arrives, and fails with `failure` all the same */
    int reluctant_percent;              /* of sends that may not wait: so many are DCP_PENDING */
    int only_tag;                       /* 0: any */
    volatile int dead;                  /* set by the test: from then on every call fails, and nothing is sent */
    int calls, sends, delayed, dropped;                     /* what happened */
    volatile int failed;                /* of them; with dcpi_flag_get while calls may run */
    int after_failure;                  /* calls after one that failed */
} fault_plan;
typedef struct fault_context {
    dcp_coordinator *inner, *self;
    fault_plan *plan;
    uint64_t random;
    dcpi_mutex lock;
} fault_context;
enum { FAULT_NONE, FAULT_DROP, FAULT_FAIL, FAULT_LIE };

static int fault_below(fault_context *f, int n) {           /* splitmix64, as in test.h */
    uint64_t z = f->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)(n > 0 ? n : 1));
}
static int fault_choose(fault_context *f, int tag, int is_send) {
    fault_plan *p = f->plan;
    int wait = 0, what = FAULT_NONE, is_deaf;
    dcpi_mutex_lock(&f->lock);
    if (p->failed) p->after_failure++;
    if (!p->only_tag || p->only_tag == tag) {
        const int delays = fault_below(f, 100) < p->delay_percent, fails = fault_below(f, 100) < p->fail_percent;
        /* all three are drawn each time: a schedule that stays */
        const int drops = fault_below(f, 100) < p->drop_percent;
        p->calls++;
        p->sends += is_send;
        is_deaf = !is_send && p->deaf_after && p->sends >= p->deaf_after;
        if (delays) { wait = 1 + fault_below(f, p->delay_ms); p->delayed++; }
        if (fails || is_deaf || p->calls == p->fail_at) { what = FAULT_FAIL; dcpi_flag_set(&p->failed, p->failed + 1); }
        else if (is_send && (drops || p->sends == p->drop_at)) { what = FAULT_DROP; p->dropped++; }
        else if (is_send && p->sends == p->lies_at) { what = FAULT_LIE; dcpi_flag_set(&p->failed, p->failed + 1); }
    }
    if (dcpi_flag_get(&p->dead)) what = FAULT_FAIL;
    dcpi_mutex_unlock(&f->lock);
    if (wait) dcpi_os_sleep_ms(wait);
    return what;
}
static dcp_status fault_fail(const fault_context *f, dcp_error *err) {
    return dcpi_fail(err, f->plan->failure ? f->plan->failure : DCP_E_COMM, "a fault that the test asked for");
}
static dcp_status fault_send(void *context, int to, int tag, const void *data, size_t size, int timeout_ms,
                             dcp_error *err) {
    fault_context *f = (fault_context *)context;
    const int what = fault_choose(f, tag, 1);
    if (what == FAULT_FAIL) return fault_fail(f, err);
    if (what == FAULT_DROP) return DCP_OK;
    if (what == FAULT_LIE && f->inner->send(f->inner->context, to, tag, data, size, timeout_ms, err) == DCP_OK)
        return fault_fail(f, err);
    if (timeout_ms == 0 && f->plan->reluctant_percent > 0) {
        int refuses;
        dcpi_mutex_lock(&f->lock);
        refuses = fault_below(f, 100) < f->plan->reluctant_percent;
        dcpi_mutex_unlock(&f->lock);
        if (refuses) return DCP_PENDING;
    }
    return f->inner->send(f->inner->context, to, tag, data, size, timeout_ms, err);
}
static dcp_status fault_receive(void *context, int *from, int tag, void **data, size_t *size, int timeout_ms,
                                dcp_error *err) {
    fault_context *f = (fault_context *)context;
    if (fault_choose(f, tag, 0) == FAULT_FAIL) return fault_fail(f, err);
    return f->inner->receive(f->inner->context, from, tag, data, size, timeout_ms, err);
}
static void fault_destroy(void *context) {
    fault_context *f = (fault_context *)context;
    dcp_coordinator_close(f->inner);
    dcp_free(f->self);
    dcpi_mutex_destroy(&f->lock);
    free(f);
}
static inline dcp_coordinator *fault_wrap(dcp_coordinator *inner, fault_plan *plan) {
    fault_context *f = (fault_context *)calloc(1, sizeof *f);
    dcp_coordinator *c = (dcp_coordinator *)DCP_MALLOC(sizeof *c);
    if (!f || !c || dcpi_mutex_init(&f->lock)) abort();
    memset(c, 0, sizeof *c);
    f->inner = inner;
    f->self = c;
    f->plan = plan;
    f->random = plan->seed + (uint64_t)inner->rank * 1000003u;
    c->context = f;
    c->rank = inner->rank;
    c->world_size = inner->world_size;
    c->thread_safe = inner->thread_safe;
    c->internal = inner->internal;                      /* it may have been used already */
    memset(&inner->internal, 0, sizeof inner->internal);
    c->send = fault_send;
    c->receive = fault_receive;
    c->destroy = fault_destroy;
    return c;
}

#endif
