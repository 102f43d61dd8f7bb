/* cuda_stub.c - a stand-in for the CUDA runtime, for tests on machines without a GPU. It does what CUDA promises, and
 * no more:
 *
 *   - Each stream is a thread that carries out its operations in order, each after a random delay (seeded): streams
 *     overtake each other, and nothing has happened yet when a call returns. The default stream waits for blocking
 *     streams and they for it, as in CUDA.
 *   - Memory of a device has an address that nobody can read or write (PROT_NONE): a host access is a crash. The bytes
 *     are elsewhere.
 *   - Pinned memory that a device copies into is filled with rubbish at the call, so what is read too early is wrong.
 *     What a device copies from is read when the operation is carried out, so what is overwritten too early is wrong.
 *     Ordinary memory is copied as CUDA does it: out of a device before the call returns, into a device from what it
 *     was at the call.
 *   - A wait for an event means the record that was current at the call. An event can only be recorded on a stream of
 *     its device.
 *   - Calls make a context on the thread's current device, cudaSetDevice too (as since CUDA 12). The driver's contexts
 *     can be pushed and popped.
 *   - What is issued on a stream that is capturing a graph is not carried out; a stream that waits for such an event
 *     captures with it, and the capture fails at its end if it has not come back.
 *
 * POSIX threads. Memory of streams and events stays until the process ends, so that what refers to them is never
 * lost. */
#define _GNU_SOURCE
#include "cuda_stub.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define DEVICES 4
#define DEPENDENCIES 24
#define RUBBISH 0xDB

typedef struct stub_dependency { struct CUstream_st *stream; uint64_t number; } stub_dependency;
typedef struct stub_region {            /* an allocation */
    struct stub_region *next;
    enum cudaMemoryType type;
    int device, pending;                /* pending: operations that use it */
    char *user, *bytes;                 /* the address that the program knows; where the bytes are */
    size_t size;
} stub_region;
typedef enum stub_kind { STUB_NOTHING, STUB_COPY, STUB_SET, STUB_CALL } stub_kind;
typedef struct stub_operation {
    struct stub_operation *next;
    stub_kind kind;
    uint64_t number;                    /* in its stream, from 1 */
    stub_dependency after[DEPENDENCIES]; int after_count;
    char *to, *own; const char *from;   /* own: a copy of ordinary memory */
    size_t to_pitch, from_pitch, width, height;
    int value;
    cudaHostFn_t function; void *user;
    stub_region *regions[2];
} stub_operation;

struct CUstream_st {
    struct CUstream_st *next;
    int device, is_blocking, is_default, is_dying, is_dead;
    int is_capturing;                   /* 2: since it waits for an event of one that does */
    pthread_t thread;
    stub_operation *first, **last;
    uint64_t issued, done, random;
};
struct CUevent_st { struct CUevent_st *next; int device, is_dead, is_captured; stub_dependency record; };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int devices, max_pitch, has_context[DEVICES];
    unsigned delay;
    cudaError_t driver, stays;          /* stays: an error that all calls return */
    uint64_t seed;
    struct CUstream_st *streams, *defaults[DEVICES];
    struct CUevent_st *events;
    stub_region *regions;
    cuda_stub_counts alive;
    struct { char call[40]; int nth, stays; cudaError_t code; } failing;
    int failing_async; cudaError_t failing_async_code;
    struct { char call[40]; long count; } calls[64]; int call_count;
    char violation[200];
} stub = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .devices = 3,
           .max_pitch = 0x7FFFFFFF, .delay = 300 };
static __thread int current_device;     /* as cudaSetDevice left it */
static __thread int pushed[8], pushed_count;            /* contexts that the driver's API has made current instead */
static __thread cudaError_t last_error;

static int device_now(void) { return pushed_count ? pushed[pushed_count - 1] : current_device; }
static cudaError_t say(cudaError_t code) { if (code != cudaSuccess) last_error = code; return code; }
static void violated(const char *what) {
    if (!stub.violation[0]) (void)snprintf(stub.violation, sizeof stub.violation, "%s", what);
}

/* ---- every call begins here: counted, made to fail; returns under the lock if it is to go on */
static cudaError_t enter(const char *call, int makes_context) {
    int i;
    pthread_mutex_lock(&stub.lock);
    for (i = 0; i < stub.call_count && strcmp(stub.calls[i].call, call) != 0; i++) {}
    if (i == stub.call_count) (void)snprintf(stub.calls[stub.call_count++].call, sizeof stub.calls[0].call, "%s", call);
    stub.calls[i].count++;
    if (makes_context) stub.has_context[device_now()] = 1;
    if (stub.stays == cudaSuccess && stub.failing.nth > 0 && strcmp(stub.failing.call, call) == 0 &&
        --stub.failing.nth == 0) {
        const cudaError_t code = stub.failing.code;
        if (stub.failing.stays) stub.stays = code;
        pthread_mutex_unlock(&stub.lock);
        return say(code);
    }
    if (stub.stays != cudaSuccess && makes_context) {
        pthread_mutex_unlock(&stub.lock);
        return say(stub.stays);
    }
    return cudaSuccess;
}
static cudaError_t leave(cudaError_t code) {
    pthread_mutex_unlock(&stub.lock);
    return say(code);
}

/* ---- memory */
static stub_region *region_of(const void *pointer) {
    stub_region *r;
    for (r = stub.regions; r; r = r->next)
        if ((const char *)pointer >= r->user && (const char *)pointer < r->user + r->size) return r;
    return NULL;
}
static void region_count(const stub_region *r, int is_new) {
    const int one = is_new ? 1 : -1;
    const size_t bytes = is_new ? r->size : 0 - r->size;
    switch (r->type) {
    case cudaMemoryTypeDevice: stub.alive.device += one; stub.alive.device_bytes += bytes; break;
    case cudaMemoryTypeHost: stub.alive.pinned += one; stub.alive.pinned_bytes += bytes; break;
    default: stub.alive.managed += one; break;
    }
}
static cudaError_t region_new(enum cudaMemoryType type, void **memory, size_t size) {
    stub_region *r = calloc(1, sizeof *r);
    void *user, *bytes = NULL;
    *memory = NULL;
    if (!r || size == 0) { free(r); return cudaErrorMemoryAllocation; }
    user = mmap(NULL, size, type == cudaMemoryTypeDevice ? PROT_NONE : PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (type == cudaMemoryTypeDevice)
        bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (user == MAP_FAILED || bytes == MAP_FAILED) { free(r); return cudaErrorMemoryAllocation; }
    r->type = type;
    r->device = device_now();
    r->user = user;
    r->bytes = bytes ? bytes : user;
    r->size = size;
    r->next = stub.regions;
    stub.regions = r;
    region_count(r, 1);
    *memory = user;
    return cudaSuccess;
}
static void region_drop(stub_region *r) {
    stub_region **link = &stub.regions;
    while (*link != r) link = &(*link)->next;
    *link = r->next;
    region_count(r, 0);
    if (r->bytes != r->user) (void)munmap(r->bytes, r->size);
    (void)munmap(r->user, r->size);
    free(r);
}
static cudaError_t region_free(void *memory, int is_host) {
    stub_region *r = region_of(memory);
    if (!memory) return cudaSuccess;
    if (!r || r->user != memory || (r->type == cudaMemoryTypeHost) != is_host) return cudaErrorInvalidValue;
    if (r->pending && is_host) violated("pinned memory is freed while a copy is under way");
    while (r->pending) pthread_cond_wait(&stub.changed, &stub.lock);
    region_drop(r);
    return cudaSuccess;
}
/* Where the bytes of [pointer, pointer + size) are; NULL if they begin in an allocation and end beyond it. */
static char *bytes_of(const void *pointer, size_t size, stub_region **region) {
    stub_region *r = *region = region_of(pointer);
    size_t at;
    char *bytes;
    if (!r) { memcpy(&bytes, &pointer, sizeof bytes); return bytes; }
    at = (size_t)((const char *)pointer - r->user);
    if (size > r->size - at) { violated("a copy ends beyond its allocation"); return NULL; }
    return r->bytes + at;
}

/* ---- streams */
static uint64_t random_of(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static void pause_for(uint64_t microseconds) {
    struct timespec span;
    span.tv_sec = (time_t)(microseconds / 1000000);
    span.tv_nsec = (long)(microseconds % 1000000) * 1000;
    (void)nanosleep(&span, NULL);
}
static void carry_out(const stub_operation *o) {
    size_t row;
    if (o->kind == STUB_CALL) o->function(o->user);
    if (o->kind == STUB_SET) memset(o->to, o->value, o->width);
    for (row = 0; o->kind == STUB_COPY && row < o->height; row++)
        memcpy(o->to + row * o->to_pitch, o->from + row * o->from_pitch, o->width);
}
static int is_ready(const stub_operation *o) {
    int i;
    for (i = 0; i < o->after_count; i++) if (o->after[i].stream->done < o->after[i].number) return 0;
    return 1;
}
static void *stream_run(void *argument) {
    struct CUstream_st *s = argument;
    pthread_mutex_lock(&stub.lock);
    for (;;) {
        stub_operation *o = s->first;
        int i, is_dropped;
        if (!o && s->is_dying) break;
        if (!o || !is_ready(o)) { pthread_cond_wait(&stub.changed, &stub.lock); continue; }
        if (stub.failing_async > 0 && o->kind == STUB_COPY && --stub.failing_async == 0)
            stub.stays = stub.failing_async_code;
        is_dropped = stub.stays != cudaSuccess;
        if (!is_dropped) {
            const uint64_t delay = stub.delay ? random_of(&s->random) % stub.delay : 0;
            pthread_mutex_unlock(&stub.lock);
            if (delay && o->kind != STUB_NOTHING) pause_for(delay);
            carry_out(o);
            pthread_mutex_lock(&stub.lock);
        }
        s->first = o->next;
        if (!s->first) s->last = &s->first;
        s->done = o->number;
        for (i = 0; i < 2; i++) if (o->regions[i]) o->regions[i]->pending--;
        free(o->own);
        free(o);
        pthread_cond_broadcast(&stub.changed);
    }
    s->is_dead = 1;
    pthread_mutex_unlock(&stub.lock);
    return NULL;
}
static struct CUstream_st *stream_new(int is_blocking) {
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->device = device_now();
    s->is_blocking = is_blocking;
    s->last = &s->first;
    s->random = stub.seed++;
    if (pthread_create(&s->thread, NULL, stream_run, s)) { free(s); return NULL; }
    s->next = stub.streams;
    stub.streams = s;
    return s;
}
/* NULL if it is not a stream; a null stream is the default one of the current device. */
static struct CUstream_st *stream_of(cudaStream_t stream) {
    struct CUstream_st *s;
    if (!stream) {
        if (!stub.defaults[device_now()]) {
            stub.defaults[device_now()] = stream_new(1);
            if (stub.defaults[device_now()]) stub.defaults[device_now()]->is_default = 1;
        }
        return stub.defaults[device_now()];
    }
    for (s = stub.streams; s && s != stream; s = s->next) {}
    return s && !s->is_dying ? s : NULL;
}
static void depend(stub_operation *o, struct CUstream_st *on, uint64_t number) {
    if (!on || on->done >= number) return;
    if (o->after_count == DEPENDENCIES) { violated("too many streams for the stand-in"); return; }
    o->after[o->after_count].stream = on;
    o->after[o->after_count++].number = number;
}
static uint64_t issue(struct CUstream_st *s, stub_operation *o) {
    struct CUstream_st *other;
    int i;
    if (s->is_capturing) { free(o->own); free(o); return s->done; }
    if (s->is_default)
        for (other = stub.streams; other; other = other->next)
            if (other != s && other->is_blocking && other->device == s->device) depend(o, other, other->issued);
    if (s->is_blocking && !s->is_default && stub.defaults[s->device])
        depend(o, stub.defaults[s->device], stub.defaults[s->device]->issued);
    o->number = ++s->issued;
    for (i = 0; i < 2; i++) if (o->regions[i]) o->regions[i]->pending++;
    *s->last = o;
    s->last = &o->next;
    pthread_cond_broadcast(&stub.changed);
    return o->number;
}
static void wait_for(struct CUstream_st *s, uint64_t number) {
    while (s->done < number) pthread_cond_wait(&stub.changed, &stub.lock);
}
static stub_operation *operation(stub_kind kind) {
    stub_operation *o = calloc(1, sizeof *o);
    if (!o) abort();
    o->kind = kind;
    return o;
}

/* ---- devices and errors */
cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t code = enter("cudaGetDeviceCount", 0);
    if (code != cudaSuccess) return code;
    if (stub.driver != cudaSuccess) return leave(stub.driver);
    *count = stub.devices;
    return leave(stub.devices ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *device) {
    cudaError_t code = enter("cudaGetDevice", 0);
    if (code != cudaSuccess) return code;
    *device = device_now();
    return leave(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
    cudaError_t code = enter("cudaSetDevice", 0);
    if (code != cudaSuccess) return code;
    if (device < 0 || device >= stub.devices) return leave(cudaErrorInvalidDevice);
    if (pushed_count) pushed[pushed_count - 1] = device;
    else current_device = device;
    stub.has_context[device] = 1;
    return leave(stub.stays);
}
cudaError_t cudaDeviceSynchronize(void) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaDeviceSynchronize", 1);
    if (code != cudaSuccess) return code;
    for (s = stub.streams; s; s = s->next) if (s->device == device_now()) wait_for(s, s->issued);
    return leave(stub.stays);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device) {
    cudaError_t code = enter("cudaDeviceGetAttribute", 0);
    if (code != cudaSuccess) return code;
    if (attr != cudaDevAttrMaxPitch || device < 0 || device >= stub.devices) return leave(cudaErrorInvalidValue);
    *value = stub.max_pitch;
    return leave(cudaSuccess);
}
cudaError_t cudaGetLastError(void) {
    cudaError_t code = last_error;
    pthread_mutex_lock(&stub.lock);
    last_error = stub.stays;
    pthread_mutex_unlock(&stub.lock);
    return code;
}
static const struct { cudaError_t code; const char *name, *text; } names[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
      "CUDA driver version is insufficient for CUDA runtime version" },
    { cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when stream is capturing" }
};
const char *cudaGetErrorString(cudaError_t error) {
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) if (names[i].code == error) return names[i].text;
    return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t error) {
    size_t i;
    for (i = 0; i < sizeof names / sizeof *names; i++) if (names[i].code == error) return names[i].name;
    return "unrecognized error code";
}
/* ---- the driver's API: its results have the runtime's numbers, and leave the last error alone */
static int driver_call(const char *call, int device, int is_push) {
    const cudaError_t last = last_error, code = enter(call, 0);
    last_error = last;
    if (code != cudaSuccess) return (int)code;
    if (device >= 0) stub.has_context[device] = 1;
    if (is_push) pushed[pushed_count++] = device;
    pthread_mutex_unlock(&stub.lock);
    return 0;
}
/* A context is its device's number and 1. */
static int context_retain(void **context, int device) {
    *context = (void *)(uintptr_t)(device + 1);
    return driver_call("cuDevicePrimaryCtxRetain", device, 0);
}
static int context_push(void *context) {
    if (pushed_count == (int)(sizeof pushed / sizeof *pushed)) abort();
    return driver_call("cuCtxPushCurrent", (int)(uintptr_t)context - 1, 1);
}
static int context_pop(void **context) {
    if (pushed_count == 0) violated("a context is popped that was not pushed");
    else *context = (void *)(uintptr_t)(pushed[--pushed_count] + 1);
    return driver_call("cuCtxPopCurrent", -1, 0);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
    int (*retain)(void **, int) = context_retain, (*push)(void *) = context_push, (*pop)(void **) = context_pop;
    cudaError_t code = enter("cudaGetDriverEntryPointByVersion", 0);
    if (code != cudaSuccess) return code;
    if (version < 7000 || flags != cudaEnableDefault) return leave(cudaErrorInvalidValue);
    *function = NULL;
    if (strcmp(symbol, "cuDevicePrimaryCtxRetain") == 0) memcpy(function, &retain, sizeof retain);
    if (strcmp(symbol, "cuCtxPushCurrent") == 0) memcpy(function, &push, sizeof push);
    if (strcmp(symbol, "cuCtxPopCurrent") == 0) memcpy(function, &pop, sizeof pop);
    if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return leave(*function ? cudaSuccess : cudaErrorSymbolNotFound);
}

/* ---- streams and events */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    cudaError_t code = enter("cudaStreamCreateWithFlags", 1);
    if (code != cudaSuccess) return code;
    *stream = stream_new(flags != cudaStreamNonBlocking);
    if (*stream) stub.alive.streams++;
    return leave(*stream ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t code = enter("cudaStreamDestroy", 1);
    if (code != cudaSuccess) return code;
    if (!stream || !stream_of(stream)) return leave(cudaErrorInvalidResourceHandle);
    stream->is_dying = 1;
    stub.alive.streams--;
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
    (void)pthread_join(stream->thread, NULL);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaStreamSynchronize", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s) return leave(cudaErrorInvalidResourceHandle);
    if (s->is_capturing) return leave(cudaErrorStreamCaptureUnsupported);
    if (s->is_default) (void)issue(s, operation(STUB_NOTHING));
    wait_for(s, s->issued);
    return leave(stub.stays);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaStreamQuery", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s) return leave(cudaErrorInvalidResourceHandle);
    if (s->is_capturing) return leave(cudaErrorStreamCaptureUnsupported);
    return leave(s->done < s->issued ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaStreamBeginCapture", 1);
    if (code != cudaSuccess) return code;
    s = stream ? stream_of(stream) : NULL;
    if (!s || s->is_capturing || mode != cudaStreamCaptureModeRelaxed) return leave(cudaErrorStreamCaptureUnsupported);
    s->is_capturing = 1;
    return leave(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaStreamEndCapture", 1), ended = cudaSuccess;
    *graph = NULL;
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s || s->is_capturing != 1) return leave(cudaErrorStreamCaptureUnsupported);
    for (s = stub.streams; s; s = s->next) {
        if (s->is_capturing == 2) ended = cudaErrorStreamCaptureUnjoined;
        s->is_capturing = 0;
    }
    return leave(ended);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaStreamIsCapturing", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s) return leave(cudaErrorInvalidResourceHandle);
    *status = s->is_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return leave(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return graph ? cudaErrorInvalidValue : cudaSuccess; }
static cudaEvent_t event_of(cudaEvent_t event) {
    cudaEvent_t e;
    for (e = stub.events; e && e != event; e = e->next) {}
    return e && !e->is_dead ? e : NULL;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    struct CUstream_st *s;
    stub_operation *o;
    cudaError_t code = enter("cudaStreamWaitEvent", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s || !event_of(event) || flags) return leave(cudaErrorInvalidResourceHandle);
    if (event->is_captured && !s->is_capturing) s->is_capturing = 2;
    o = operation(STUB_NOTHING);
    depend(o, event->record.stream, event->record.number);
    (void)issue(s, o);
    return leave(cudaSuccess);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    cudaError_t code = enter("cudaEventCreateWithFlags", 1);
    if (code != cudaSuccess) return code;
    if (flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming)) return leave(cudaErrorInvalidValue);
    *event = calloc(1, sizeof **event);
    if (!*event) return leave(cudaErrorMemoryAllocation);
    (*event)->device = device_now();
    (*event)->next = stub.events;
    stub.events = *event;
    stub.alive.events++;
    return leave(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t code = enter("cudaEventDestroy", 1);
    if (code != cudaSuccess) return code;
    if (!event_of(event)) return leave(cudaErrorInvalidResourceHandle);
    event->is_dead = 1;
    stub.alive.events--;
    return leave(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    struct CUstream_st *s;
    cudaError_t code = enter("cudaEventRecord", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s || !event_of(event) || s->device != event->device) return leave(cudaErrorInvalidResourceHandle);
    event->is_captured = s->is_capturing != 0;
    event->record.stream = s;
    event->record.number = issue(s, operation(STUB_NOTHING));
    return leave(cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    stub_dependency record;
    cudaError_t code = enter("cudaEventSynchronize", 1);
    if (code != cudaSuccess) return code;
    if (!event_of(event)) return leave(cudaErrorInvalidResourceHandle);
    if (event->is_captured) return leave(cudaErrorStreamCaptureUnsupported);
    record = event->record;
    if (record.stream) wait_for(record.stream, record.number);
    return leave(stub.stays);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user) {
    struct CUstream_st *s;
    stub_operation *o;
    cudaError_t code = enter("cudaLaunchHostFunc", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s) return leave(cudaErrorInvalidResourceHandle);
    o = operation(STUB_CALL);
    o->function = function;
    o->user = user;
    (void)issue(s, o);
    return leave(cudaSuccess);
}

/* ---- memory */
static cudaError_t allocate(const char *call, enum cudaMemoryType type, void **memory, size_t size) {
    cudaError_t code = enter(call, 1);
    return code != cudaSuccess ? code : leave(region_new(type, memory, size));
}
cudaError_t cudaMalloc(void **memory, size_t size) {
    return allocate("cudaMalloc", cudaMemoryTypeDevice, memory, size);
}
cudaError_t cudaMallocManaged(void **memory, size_t size, unsigned flags) {
    (void)flags;
    return allocate("cudaMallocManaged", cudaMemoryTypeManaged, memory, size);
}
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags) {
    if (flags != cudaHostAllocPortable) return say(cudaErrorInvalidValue);
    return allocate("cudaHostAlloc", cudaMemoryTypeHost, memory, size);
}
cudaError_t cudaFree(void *memory) {
    cudaError_t code = enter("cudaFree", 1);
    return code != cudaSuccess ? code : leave(region_free(memory, 0));
}
cudaError_t cudaFreeHost(void *memory) {
    cudaError_t code = enter("cudaFreeHost", 1);
    return code != cudaSuccess ? code : leave(region_free(memory, 1));
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    const stub_region *r;
    cudaError_t code = enter("cudaPointerGetAttributes", 1);
    if (code != cudaSuccess) return code;
    r = region_of(pointer);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = r ? r->type : cudaMemoryTypeUnregistered;
    attributes->device = r ? r->device : -1;
    return leave(cudaSuccess);
}
static int fits_kind(enum cudaMemcpyKind kind, const stub_region *to, const stub_region *from) {
    const int to_device = to && to->type != cudaMemoryTypeHost, from_device = from && from->type != cudaMemoryTypeHost;
    switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    default: return 1;
    }
}
/* Under the lock. */
static cudaError_t copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                        enum cudaMemcpyKind kind, cudaStream_t stream) {
    struct CUstream_st *s = stream_of(stream);
    const size_t to_size = to_pitch * (height - 1) + width, from_size = from_pitch * (height - 1) + width;
    stub_operation *o;
    size_t row;
    if (!s) return cudaErrorInvalidResourceHandle;
    if (width == 0 || height == 0) return cudaSuccess;
    o = operation(STUB_COPY);
    o->to = bytes_of(to, to_size, &o->regions[0]);
    o->from = bytes_of(from, from_size, &o->regions[1]);
    if (!o->to || !o->from || !fits_kind(kind, o->regions[0], o->regions[1])) { free(o); return cudaErrorInvalidValue; }
    o->to_pitch = to_pitch;
    o->from_pitch = from_pitch;
    o->width = width;
    o->height = height;
    if (!o->regions[1]) {               /* ordinary memory: what it is now */
        o->own = malloc(from_size);
        if (!o->own) abort();
        memcpy(o->own, o->from, from_size);
        o->from = o->own;
    }
    if (o->regions[0] && o->regions[0]->type == cudaMemoryTypeHost)
        for (row = 0; row < height; row++) memset(o->to + row * to_pitch, RUBBISH, width);
    if (!o->regions[0]) {
        wait_for(s, issue(s, o));
        return stub.stays;
    }
    (void)issue(s, o);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t code = enter("cudaMemcpyAsync", 1);
    return code != cudaSuccess ? code : leave(copy(to, size, from, size, size, 1, kind, stream));
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t code = enter("cudaMemcpy2DAsync", 1);
    if (code != cudaSuccess) return code;
    if (to_pitch > (size_t)stub.max_pitch || from_pitch > (size_t)stub.max_pitch || to_pitch < width ||
        from_pitch < width) return leave(cudaErrorInvalidPitchValue);
    return leave(copy(to, to_pitch, from, from_pitch, width, height, kind, stream));
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    cudaError_t code = enter("cudaMemcpy", 1);
    if (code != cudaSuccess) return code;
    code = copy(to, size, from, size, size, 1, kind, NULL);
    if (code != cudaSuccess) return leave(code);
    wait_for(stream_of(NULL), stream_of(NULL)->issued);
    return leave(stub.stays);
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream) {
    struct CUstream_st *s;
    stub_operation *o;
    cudaError_t code = enter("cudaMemsetAsync", 1);
    if (code != cudaSuccess) return code;
    s = stream_of(stream);
    if (!s) return leave(cudaErrorInvalidResourceHandle);
    o = operation(STUB_SET);
    o->to = bytes_of(memory, size, &o->regions[0]);
    if (!o->to || !o->regions[0]) { free(o); return leave(cudaErrorInvalidValue); }
    o->value = value;
    o->width = size;
    (void)issue(s, o);
    return leave(cudaSuccess);
}

/* ---- what tests tell and ask */
void cuda_stub_reset(uint64_t seed) {
    struct CUstream_st *s;
    pthread_mutex_lock(&stub.lock);
    for (s = stub.streams; s; s = s->next) wait_for(s, s->issued);
    while (stub.regions) region_drop(stub.regions);     /* what could not be freed after an error that stayed */
    memset(&stub.alive, 0, sizeof stub.alive);
    stub.devices = 3;
    stub.max_pitch = 0x7FFFFFFF;
    stub.delay = 300;
    stub.driver = stub.stays = cudaSuccess;
    stub.seed = seed;
    stub.call_count = 0;
    memset(stub.calls, 0, sizeof stub.calls);
    memset(&stub.failing, 0, sizeof stub.failing);
    memset(stub.has_context, 0, sizeof stub.has_context);
    stub.failing_async = 0;
    stub.violation[0] = '\0';
    pthread_mutex_unlock(&stub.lock);
    current_device = pushed_count = 0;
    last_error = cudaSuccess;
}
void cuda_stub_devices(int count) { stub.devices = count; }
void cuda_stub_driver(cudaError_t code) { stub.driver = code; }
void cuda_stub_delay(unsigned microseconds) {
    pthread_mutex_lock(&stub.lock);
    stub.delay = microseconds;
    pthread_mutex_unlock(&stub.lock);
}
void cuda_stub_max_pitch(int bytes) { stub.max_pitch = bytes; }
void cuda_stub_fail(const char *call, int nth, cudaError_t code, int stays) {
    pthread_mutex_lock(&stub.lock);
    (void)snprintf(stub.failing.call, sizeof stub.failing.call, "%s", call);
    stub.failing.nth = nth;
    stub.failing.code = code;
    stub.failing.stays = stays;
    pthread_mutex_unlock(&stub.lock);
}
void cuda_stub_fail_async(int nth, cudaError_t code) {
    pthread_mutex_lock(&stub.lock);
    stub.failing_async = nth;
    stub.failing_async_code = code;
    pthread_mutex_unlock(&stub.lock);
}
long cuda_stub_calls(const char *call) {
    long count = 0;
    int i;
    pthread_mutex_lock(&stub.lock);
    for (i = 0; i < stub.call_count; i++) if (strcmp(stub.calls[i].call, call) == 0) count = stub.calls[i].count;
    pthread_mutex_unlock(&stub.lock);
    return count;
}
cuda_stub_counts cuda_stub_alive(void) {
    cuda_stub_counts alive;
    pthread_mutex_lock(&stub.lock);
    alive = stub.alive;
    pthread_mutex_unlock(&stub.lock);
    return alive;
}
int cuda_stub_has_context(int device) { return stub.has_context[device]; }
const char *cuda_stub_violation(void) { return stub.violation; }
void *cuda_stub_bytes(void *device_memory) {
    stub_region *region;
    char *bytes;
    pthread_mutex_lock(&stub.lock);
    bytes = bytes_of(device_memory, 0, &region);
    pthread_mutex_unlock(&stub.lock);
    return bytes;
}
