/* dcp_cuda.h - tensors in the memory of NVIDIA GPUs for dcp.h - MIT or public domain, as dcp.h
 *
 * Do this:
 *     #define DCP_CUDA
 * before you include dcp.h, everywhere, and DCP_IMPLEMENTATION too in *one* file, as its first include. Or include this
 * header beside dcp.h, and define DCP_CUDA_IMPLEMENTATION in one file. That file may be C99, C++11 or CUDA (nvcc).
 * Needs the headers of CUDA 11.3 or newer, and -lcudart; nothing of the driver's library (three of its functions are
 * asked of the runtime).
 *
 *     #define DCP_IMPLEMENTATION
 *     #define DCP_CUDA
 *     #include "dcp.h"
 *     int main(void) {
 *         int64_t shape[2] = { 1024, 1024 };
 *         float *weights = NULL;                         // on the GPU
 *         cudaStream_t work = NULL;                      // the stream that your kernels run on
 *         dcp_device *gpu;
 *         dcp_error err;
 *         if (dcp_cuda_open(0, &gpu, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
 *         if (cudaMalloc((void **)&weights, sizeof(float) << 20) != cudaSuccess) return 1;
 *         dcp_tensor tensor = dcp_array("weights", DCP_FP32, weights, 2, shape);
 *         tensor.device = gpu;
 *         // kernel<<<1024, 1024, 0, work>>>(weights);
 *         dcp_save_desc save = DCP_ZERO;
 *         save.path = "run/step_1"; save.tensors = &tensor; save.tensor_count = 1; save.overwrite = 1;
 *         if (dcp_cuda_wait_stream(gpu, work, &err) || dcp_save(&save, &err)) {
 *             fprintf(stderr, "%s\n", err.message);
 *             return 1;
 *         }
 *         cudaFree(weights);
 *         dcp_device_close(gpu);
 *         return 0;
 *     }
 *
 * How it behaves
 *   - Copies run on two non-blocking streams of its own, one in each direction, through pinned memory, while other
 *     bytes are hashed, written or read. A load copies only what has been verified (blocks of more than 4 MiB: as far
 *     as it has been read).
 *   - dcp_cuda_wait_stream orders them behind your work by an event: the host does not wait, the device does. Call it
 *     before each save and each load, once for every stream with work on the tensors, on the thread that saves or
 *     loads. It counts for that one operation. One for which it was not called has the whole device synchronised when
 *     it begins, which is right, and slower.
 *   - When a load has returned, its tensors are there for any stream. Do not change tensors while a save reads them:
 *     for a save that runs in the background, that is over when the call that begins it returns.
 *   - A save in the background (dcp_save_begin) copies its tensors into pinned memory before it returns, at the bus's
 *     speed; the saver keeps that memory. With dcp_cuda_desc.snapshot_bytes the copy is made on the device, at the
 *     speed of its memory, and goes to the host while you compute; a tensor that does not fit in what is left of those
 *     bytes, or of the device's memory, goes to pinned memory at once.
 *   - Strided tensors are copied row by row with 2-D copies; one whose elements lie apart is right, but slow.
 *   - Memory of this device, managed (unified) and pinned host memory can be saved and loaded with it. Ordinary host
 *     memory and memory of another device are DCP_E_INVALID: tensors of several GPUs take one dcp_device each, in the
 *     same call if you like.
 *   - The calling thread's current device is what it was when a call returns, and no context is made on any device but
 *     the one that was opened.
 *   - A stream that is capturing a graph cannot be waited for: dcp_cuda_wait_stream refuses it; the capture goes on.
 *   - A device may be used by several threads at once. Open and close it, and close it only when no save and load uses
 *     it any more.
 *   - Errors are DCP_E_DEVICE with CUDA's own text and what to do. After an error that stays (a kernel's bad access,
 *     say) every call fails until the process is started anew; what was saved before is intact. cudaGetLastError does
 *     not report an error that was reported here.
 *   - Pinned memory is kept from call to call, up to DCP_CUDA_KEEP bytes (64 MiB) a device.
 *   - Memory: DCP_MALLOC, DCP_REALLOC and DCP_FREE. If you define them for dcp.h, define them where this is implemented
 *     too. */
#ifndef DCP_CUDA_H
#define DCP_CUDA_H
#if defined(DCP_CUDA_IMPLEMENTATION) && defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE                     /* nanosleep; must stand before any system header */
#endif
#include "dcp.h"
#include <cuda_runtime_api.h>
#ifdef __cplusplus
extern "C" {
#endif

#define DCP_CUDA_CURRENT (-1)           /* for dcp_cuda_open: the calling thread's current device */

typedef struct dcp_cuda_desc {
    int device;                         /* 0 is the first; or DCP_CUDA_CURRENT */
    size_t snapshot_bytes;              /* of the device's memory, for what saves in the background copy; 0: none */
} dcp_cuda_desc;

/* *out: dcp_device_close.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_DEVICE no driver, one that is too old, no such device, or CUDA reported
 * another error. */
DCPDEF dcp_status dcp_cuda_open(int device, dcp_device **out, dcp_error *err);
/* desc may be NULL: all defaults. Status: as dcp_cuda_open. */
DCPDEF dcp_status dcp_cuda_open_with(const dcp_cuda_desc *desc, dcp_device **out, dcp_error *err);
/* The copies of the next save, load or read on this device, if this thread calls it, wait for the work that is on
 * `stream` now; a stream of the same device, NULL for its default stream. Does not wait itself. An operation that
 * another thread begins first synchronises the device, and so does then that of this thread.
 * Status: DCP_E_INVALID the stream is capturing a graph, or `device` is none of dcp_cuda_open | DCP_E_DEVICE. */
DCPDEF dcp_status dcp_cuda_wait_stream(dcp_device *device, cudaStream_t stream, dcp_error *err);

#ifdef __cplusplus
}
#endif
#define DCPI_CUDA_DECLARED
#endif /* DCP_CUDA_H */

#if (defined(DCP_IMPLEMENTATION) || defined(DCP_CUDA_IMPLEMENTATION)) && defined(DCPI_CUDA_DECLARED) && \
    !defined(DCP_CUDA_IMPLEMENTED)
#define DCP_CUDA_IMPLEMENTED
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#elif !defined(CLOCK_MONOTONIC)
#error "include dcp_cuda.h first in the file that defines DCP_CUDA_IMPLEMENTATION, or compile with -D_GNU_SOURCE"
#endif
#if CUDART_VERSION < 11030
#error "dcp_cuda.h needs CUDA 11.3 or newer"
#endif
#ifndef DCP_MALLOC
#define DCP_MALLOC(size) malloc(size)
#define DCP_REALLOC(memory, size) realloc(memory, size)
#define DCP_FREE(memory) free(memory)
#endif
#ifndef DCP_CUDA_KEEP
#define DCP_CUDA_KEEP ((size_t)64 << 20)        /* bytes of pinned memory that a device keeps for the next call */
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ---- state ------------------------------------------------------------------------------------------------------- */
typedef struct dcpi_cuda_ticket {       /* a copy under way: its event follows it on its stream */
    struct dcpi_cuda_ticket *next;      /* of those to spare */
    cudaEvent_t event;
    cudaStream_t stream;
} dcpi_cuda_ticket;
typedef struct dcpi_cuda_block { struct dcpi_cuda_block *next; void *memory; size_t size; int in_use; } dcpi_cuda_block;
/* The driver's cuDevicePrimaryCtxRetain, cuCtxPushCurrent, cuCtxPopCurrent. Their results have the numbers of the
 * runtime's errors. */
typedef int (*dcpi_cuda_retain_fn)(void **context, int device);
typedef int (*dcpi_cuda_push_fn)(void *context);
typedef int (*dcpi_cuda_pop_fn)(void **context);

#define DCPI_CUDA_TOLD 64
typedef struct dcpi_cuda {
    int device;
    size_t most_pitch;                  /* of a 2-D copy */
    cudaStream_t out, in;               /* from the device, to it */
    void *context;                      /* the device's primary one, which stays, as that of cudaSetDevice does */
    dcpi_cuda_push_fn push; dcpi_cuda_pop_fn pop;
    volatile int lock;                  /* of all below */
    /* the threads that have said by dcp_cuda_wait_stream what their next operation has to wait for; who finds no room
     * counts as one that has not */
    const void *told[DCPI_CUDA_TOLD]; int told_count;
    dcpi_cuda_ticket *spare;
    dcpi_cuda_block *blocks; size_t kept;       /* pinned memory; kept: bytes of those not in use */
    dcpi_cuda_block *own; size_t own_left;      /* memory of the device; bytes that there may be more of it */
} dcpi_cuda;

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static dcp_status dcpi_cuda_fail(dcp_error *err, dcp_status status, const char *format, ...) {
    va_list arguments;
    if (!err) return status;
    memset(err, 0, sizeof *err);
    err->status = status;
    va_start(arguments, format);
    (void)vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return status;
}
static dcp_status dcpi_cuda_succeed(dcp_error *err) {
    if (err) memset(err, 0, sizeof *err);
    return DCP_OK;
}
static dcp_status dcpi_cuda_no_memory(dcp_error *err, size_t size) {
    return dcpi_cuda_fail(err, DCP_E_MEMORY, "out of memory: could not allocate %.0f bytes", (double)size);
}
static const char *dcpi_cuda_advice(cudaError_t code) {
    switch (code) {
    case cudaErrorNoDevice: return "no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorInsufficientDriver:
        return "the NVIDIA driver is missing, or too old for this program's CUDA: install or update it "
               "(see nvidia-smi)";
    case cudaErrorInvalidDevice: return "devices count from 0; see nvidia-smi -L and CUDA_VISIBLE_DEVICES";
    case cudaErrorDevicesUnavailable: return "another process may hold the device: see its compute mode in nvidia-smi";
    case cudaErrorMemoryAllocation: return "free memory of the GPU and pinned host memory, or lower io.memory_budget";
    case cudaErrorInvalidResourceHandle: return "is the stream one of this device, and still there?";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureImplicit: return "end the capture of the graph first";
    default: return "see the documentation of CUDA's errors";
    }
}
/* What a call of CUDA's said. The error was of our call: the caller's next cudaGetLastError must not find it. One that
 * stays is told apart by asking again (m NULL: nothing to ask). */
static dcp_status dcpi_cuda_error(const dcpi_cuda *m, int device, const char *call, cudaError_t code, dcp_error *err) {
    cudaError_t again = cudaSuccess;
    (void)cudaGetLastError();
    if (m && m->out) again = cudaStreamQuery(m->out);
    (void)cudaGetLastError();
    if (again != cudaSuccess && again != cudaErrorNotReady && again != cudaErrorStreamCaptureUnsupported)
        return dcpi_cuda_fail(err, DCP_E_DEVICE, "GPU %d, %s: %s (%s); the error stays until the process is started "
                                                 "anew; earlier checkpoints are intact", device, call,
                                                 cudaGetErrorString(code), cudaGetErrorName(code));
    return dcpi_cuda_fail(err, DCP_E_DEVICE, "GPU %d, %s: %s (%s); %s", device, call, cudaGetErrorString(code),
                          cudaGetErrorName(code), dcpi_cuda_advice(code));
}

/* ---- the lock: held for some instructions, and while the device is synchronised ---------------------------------- */
static void dcpi_cuda_sleep(void) {
#ifdef _WIN32
    Sleep(1);
#else
    struct timespec span;
    span.tv_sec = 0;
    span.tv_nsec = 20000;
    (void)nanosleep(&span, NULL);
#endif
}
#if defined(__GNUC__) || defined(__clang__)
static void dcpi_cuda_lock(dcpi_cuda *m) {
    while (__atomic_exchange_n(&m->lock, 1, __ATOMIC_ACQUIRE)) dcpi_cuda_sleep();
}
static void dcpi_cuda_unlock(dcpi_cuda *m) { __atomic_store_n(&m->lock, 0, __ATOMIC_RELEASE); }
#elif defined(_MSC_VER)
static void dcpi_cuda_lock(dcpi_cuda *m) {
    while (InterlockedExchange((volatile LONG *)&m->lock, 1)) dcpi_cuda_sleep();
}
static void dcpi_cuda_unlock(dcpi_cuda *m) { (void)InterlockedExchange((volatile LONG *)&m->lock, 0); }
#else
#error "dcp_cuda.h knows no atomic exchange of this compiler"
#endif

/* ---- the current device: ours during a call, then the thread's own again ----------------------------------------- */
/* By the driver's API: cudaSetDevice would make a context on the thread's own device, on the way back. */
static cudaError_t dcpi_cuda_enter(const dcpi_cuda *m, int *before) {
    cudaError_t code = cudaGetDevice(before);
    if (code == cudaSuccess && *before != m->device) code = (cudaError_t)m->push(m->context);
    if (code != cudaSuccess) *before = m->device;
    return code;
}
static void dcpi_cuda_leave(const dcpi_cuda *m, int before) {
    void *ours;
    if (before != m->device) (void)m->pop(&ours);
}
static cudaError_t dcpi_cuda_find_driver(const char *name, void **symbol) {
    *symbol = NULL;
#if CUDART_VERSION >= 12050
    return cudaGetDriverEntryPointByVersion(name, symbol, 11030, cudaEnableDefault, NULL);
#elif CUDART_VERSION >= 12000
    return cudaGetDriverEntryPoint(name, symbol, cudaEnableDefault, NULL);
#else
    return cudaGetDriverEntryPoint(name, symbol, cudaEnableDefault);
#endif
}
static cudaError_t dcpi_cuda_find_context(dcpi_cuda *m) {
    void *retain_at, *push_at, *pop_at;
    dcpi_cuda_retain_fn retain;
    cudaError_t code = dcpi_cuda_find_driver("cuDevicePrimaryCtxRetain", &retain_at);
    if (code == cudaSuccess) code = dcpi_cuda_find_driver("cuCtxPushCurrent", &push_at);
    if (code == cudaSuccess) code = dcpi_cuda_find_driver("cuCtxPopCurrent", &pop_at);
    if (code != cudaSuccess) return code;
    if (!retain_at || !push_at || !pop_at) return cudaErrorSymbolNotFound;
    memcpy(&retain, &retain_at, sizeof retain);         /* C has no cast for this */
    memcpy(&m->push, &push_at, sizeof m->push);
    memcpy(&m->pop, &pop_at, sizeof m->pop);
    return (cudaError_t)retain(&m->context, m->device);
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */
static cudaError_t dcpi_cuda_ticket_take(dcpi_cuda *m, dcpi_cuda_ticket **out) {
    dcpi_cuda_ticket *ticket;
    cudaError_t code;
    dcpi_cuda_lock(m);
    ticket = m->spare;
    if (ticket) m->spare = ticket->next;
    dcpi_cuda_unlock(m);
    *out = ticket;
    if (ticket) return cudaSuccess;
    ticket = (dcpi_cuda_ticket *)DCP_MALLOC(sizeof *ticket);
    if (!ticket) return cudaErrorMemoryAllocation;
    memset(ticket, 0, sizeof *ticket);
    /* who waits sleeps: others hash */
    code = cudaEventCreateWithFlags(&ticket->event, cudaEventDisableTiming | cudaEventBlockingSync);
    if (code == cudaSuccess) *out = ticket;
    else DCP_FREE(ticket);
    return code;
}
static void dcpi_cuda_ticket_give(dcpi_cuda *m, dcpi_cuda_ticket *ticket) {
    dcpi_cuda_lock(m);
    ticket->next = m->spare;
    m->spare = ticket;
    dcpi_cuda_unlock(m);
}

/* ---- pinned memory ----------------------------------------------------------------------------------------------- */
/* A kept block that is large enough, and not much too large. */
static void *dcpi_cuda_block_reuse(dcpi_cuda *m, size_t size) {
    dcpi_cuda_block *block;
    dcpi_cuda_lock(m);
    for (block = m->blocks; block; block = block->next)
        if (!block->in_use && block->size >= size && block->size / 2 <= size) break;
    if (block) {
        block->in_use = 1;
        m->kept -= block->size;
    }
    dcpi_cuda_unlock(m);
    return block ? block->memory : NULL;
}
static cudaError_t dcpi_cuda_block_free(dcpi_cuda_block *block) {
    cudaError_t code = cudaFreeHost(block->memory);
    DCP_FREE(block);
    return code;
}
/* Frees what is kept; `all`: what is in use too. */
static void dcpi_cuda_blocks_free(dcpi_cuda *m, int all) {
    dcpi_cuda_block *going = NULL, **link = &m->blocks;
    dcpi_cuda_lock(m);
    while (*link) {
        dcpi_cuda_block *block = *link;
        if (block->in_use && !all) { link = &block->next; continue; }
        *link = block->next;
        block->next = going;
        going = block;
    }
    m->kept = 0;
    dcpi_cuda_unlock(m);
    while (going) {
        dcpi_cuda_block *next = going->next;
        if (dcpi_cuda_block_free(going) != cudaSuccess) (void)cudaGetLastError();
        going = next;
    }
}
static dcp_status dcpi_cuda_block_new(dcpi_cuda *m, size_t size, void **memory, dcp_error *err) {
    dcpi_cuda_block *block = (dcpi_cuda_block *)DCP_MALLOC(sizeof *block);
    cudaError_t code;
    if (!block) return dcpi_cuda_no_memory(err, sizeof *block);
    memset(block, 0, sizeof *block);
    code = cudaHostAlloc(&block->memory, size, cudaHostAllocPortable);        /* pinned for the other devices as well */
    if (code == cudaErrorMemoryAllocation) {            /* blocks of the wrong size may be in the way */
        (void)cudaGetLastError();
        dcpi_cuda_blocks_free(m, 0);
        code = cudaHostAlloc(&block->memory, size, cudaHostAllocPortable);
    }
    if (code != cudaSuccess) {
        DCP_FREE(block);
        return dcpi_cuda_error(m, m->device, "cudaHostAlloc", code, err);
    }
    block->size = size;
    block->in_use = 1;
    *memory = block->memory;
    dcpi_cuda_lock(m);
    block->next = m->blocks;
    m->blocks = block;
    dcpi_cuda_unlock(m);
    return DCP_OK;
}
static dcp_status dcpi_cuda_allocate_host(void *context, size_t size, void **memory, dcp_error *err) {
    dcpi_cuda *m = (dcpi_cuda *)context;
    dcp_status status;
    int before;
    cudaError_t code;
    *memory = dcpi_cuda_block_reuse(m, size);
    if (*memory) return dcpi_cuda_succeed(err);
    code = dcpi_cuda_enter(m, &before);
    if (code == cudaSuccess) status = dcpi_cuda_block_new(m, size, memory, err);
    else status = dcpi_cuda_error(m, m->device, "cuCtxPushCurrent", code, err);
    dcpi_cuda_leave(m, before);
    return status ? status : dcpi_cuda_succeed(err);
}
static void dcpi_cuda_free_host(void *context, void *memory) {
    dcpi_cuda *m = (dcpi_cuda *)context;
    dcpi_cuda_block **link, *block;
    int before;
    dcpi_cuda_lock(m);
    for (link = &m->blocks; *link && (*link)->memory != memory; link = &(*link)->next) {}
    block = *link;
    if (block && block->size <= DCP_CUDA_KEEP - m->kept) {
        block->in_use = 0;
        m->kept += block->size;
        block = NULL;
    } else if (block) {
        *link = block->next;
    }
    dcpi_cuda_unlock(m);
    if (!block) return;
    if (dcpi_cuda_enter(m, &before) != cudaSuccess) (void)cudaGetLastError();
    if (dcpi_cuda_block_free(block) != cudaSuccess) (void)cudaGetLastError();
    dcpi_cuda_leave(m, before);
}

/* ---- memory of the device, for snapshots ------------------------------------------------------------------------- */
static void dcpi_cuda_own_give(dcpi_cuda *m, size_t size) {
    dcpi_cuda_lock(m);
    m->own_left += size;
    dcpi_cuda_unlock(m);
}
static int dcpi_cuda_own_take(dcpi_cuda *m, size_t size) {
    int is_there;
    dcpi_cuda_lock(m);
    is_there = size <= m->own_left;
    if (is_there) m->own_left -= size;
    dcpi_cuda_unlock(m);
    return is_there;
}
static dcp_status dcpi_cuda_own_new(dcpi_cuda *m, size_t size, void **memory, dcp_error *err) {
    dcpi_cuda_block *block = (dcpi_cuda_block *)DCP_MALLOC(sizeof *block);
    cudaError_t code;
    if (!block) return dcpi_cuda_no_memory(err, sizeof *block);
    memset(block, 0, sizeof *block);
    code = cudaMalloc(&block->memory, size);
    if (code != cudaSuccess) {
        DCP_FREE(block);
        return dcpi_cuda_error(m, m->device, "cudaMalloc", code, err);
    }
    block->size = size;
    *memory = block->memory;
    dcpi_cuda_lock(m);
    block->next = m->own;
    m->own = block;
    dcpi_cuda_unlock(m);
    return dcpi_cuda_succeed(err);
}
static dcp_status dcpi_cuda_allocate_own(void *context, size_t size, void **memory, dcp_error *err) {
    dcpi_cuda *m = (dcpi_cuda *)context;
    dcp_status status;
    int before;
    cudaError_t code;
    *memory = NULL;
    if (!dcpi_cuda_own_take(m, size))
        return dcpi_cuda_fail(err, DCP_E_MEMORY, "GPU %d: another saver has the memory of dcp_cuda_desc.snapshot_bytes",
                              m->device);
    code = dcpi_cuda_enter(m, &before);
    if (code == cudaSuccess) status = dcpi_cuda_own_new(m, size, memory, err);
    else status = dcpi_cuda_error(m, m->device, "cuCtxPushCurrent", code, err);
    dcpi_cuda_leave(m, before);
    if (status) dcpi_cuda_own_give(m, size);
    return status;
}
static void dcpi_cuda_free_own(void *context, void *memory) {
    dcpi_cuda *m = (dcpi_cuda *)context;
    dcpi_cuda_block **link, *block;
    int before;
    dcpi_cuda_lock(m);
    for (link = &m->own; *link && (*link)->memory != memory; link = &(*link)->next) {}
    block = *link;
    if (block) *link = block->next;
    dcpi_cuda_unlock(m);
    if (!block) return;
    if (dcpi_cuda_enter(m, &before) != cudaSuccess) (void)cudaGetLastError();
    if (cudaFree(block->memory) != cudaSuccess) (void)cudaGetLastError();
    dcpi_cuda_leave(m, before);
    dcpi_cuda_own_give(m, block->size);
    DCP_FREE(block);
}
/* ---- a tensor in memory: runs of `width` bytes without a gap, and how the dimensions around them repeat ---------- */
/* unit: bytes of one index, in the piece's row-major order */
typedef struct dcpi_cuda_dim { size_t count, stride, unit; } dcpi_cuda_dim;
/* dim[0]: the innermost */
typedef struct dcpi_cuda_shape { size_t width; int ndim; dcpi_cuda_dim dim[DCP_MAX_DIMS]; } dcpi_cuda_shape;
/* to the host, from it, to our own memory */
typedef enum dcpi_cuda_way { DCPI_CUDA_OUT, DCPI_CUDA_IN, DCPI_CUDA_WITHIN } dcpi_cuda_way;
typedef struct dcpi_cuda_copy {
    const dcpi_cuda *m;
    dcpi_cuda_shape shape;
    enum cudaMemcpyKind kind;
    cudaStream_t stream;
    dcpi_cuda_way way;
} dcpi_cuda_copy;

static void dcpi_cuda_shape_add(dcpi_cuda_shape *s, size_t count, size_t stride) {
    dcpi_cuda_dim *inner = s->ndim ? &s->dim[s->ndim - 1] : NULL;
    if (count == 1) return;
    if (!inner && stride == s->width) { s->width *= count; return; }
    if (inner && stride == inner->stride * inner->count) { inner->count *= count; return; }
    s->dim[s->ndim].count = count;
    s->dim[s->ndim].stride = stride;
    s->dim[s->ndim].unit = inner ? inner->unit * inner->count : s->width;
    s->ndim++;
}
/* ndim 0: all of it is one run. */
static void dcpi_cuda_shape_of(const dcp_tensor *t, dcpi_cuda_shape *s) {
    const size_t element = (size_t)dcp_dtype_bits(t->dtype) / 8;
    int d, is_strided = 0;
    memset(s, 0, sizeof *s);
    for (d = 0; d < t->ndim; d++) is_strided |= t->stride[d] != 0;
    if (!is_strided || element == 0) return;            /* smaller than a byte, or unknown: never strided */
    s->width = element;
    for (d = t->ndim - 1; d >= 0; d--) dcpi_cuda_shape_add(s, (size_t)t->shape[d], (size_t)t->stride[d] * element);
}
/* `host`: our own memory, with WITHIN. */
static cudaError_t dcpi_cuda_copy_run(const dcpi_cuda_copy *c, char *device, char *host, size_t size) {
    if (c->way == DCPI_CUDA_IN) return cudaMemcpyAsync(device, host, size, c->kind, c->stream);
    return cudaMemcpyAsync(host, device, size, c->kind, c->stream);
}
/* `rows` whole runs, `pitch` bytes apart on the device. */
static cudaError_t dcpi_cuda_copy_rows(const dcpi_cuda_copy *c, char *device, size_t pitch, char *host, size_t rows) {
    const size_t width = c->shape.width;
    cudaError_t code = cudaSuccess;
    const int is_one_copy = rows > 1 && pitch <= c->m->most_pitch;
    size_t i;
    if (is_one_copy && c->way == DCPI_CUDA_IN)
        return cudaMemcpy2DAsync(device, pitch, host, width, width, rows, c->kind, c->stream);
    if (is_one_copy) return cudaMemcpy2DAsync(host, width, device, pitch, width, rows, c->kind, c->stream);
    for (i = 0; i < rows && code == cudaSuccess; i++)
        code = dcpi_cuda_copy_run(c, device + i * pitch, host + i * width, width);
    return code;
}
/* Bytes [begin, end) of the box of the `ndim` innermost dimensions that lies at `device`: the rest of an index, whole
 * ones, a part of one. */
static cudaError_t dcpi_cuda_copy_box(const dcpi_cuda_copy *c, int ndim, char *device, char *host, size_t begin,
                                      size_t end) {
    cudaError_t code = cudaSuccess;
    if (ndim == 0) return dcpi_cuda_copy_run(c, device + begin, host, end - begin);
    while (begin < end && code == cudaSuccess) {
        const dcpi_cuda_dim *dim = &c->shape.dim[ndim - 1];
        char *at = device + begin / dim->unit * dim->stride;
        const size_t in_unit = begin % dim->unit, rest = dim->unit - in_unit;
        size_t size = rest < end - begin ? rest : end - begin;
        if (ndim == 1 && size == dim->unit) {
            size = (end - begin) / dim->unit * dim->unit;
            code = dcpi_cuda_copy_rows(c, at, dim->stride, host, size / dim->unit);
        } else {
            code = dcpi_cuda_copy_box(c, ndim - 1, at, host, in_unit, in_unit + size);
        }
        host += size;
        begin += size;
    }
    return code;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
/* Whose memory is it? Managed and pinned memory are left to CUDA to tell apart from the staging memory. */
static dcp_status dcpi_cuda_recognise(const dcpi_cuda *m, const dcp_tensor *t, dcpi_cuda_copy *c, dcp_error *err) {
    static const enum cudaMemcpyKind kinds[] = { cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice,
                                                 cudaMemcpyDeviceToDevice };
    struct cudaPointerAttributes memory;
    cudaError_t code;
    memset(&memory, 0, sizeof memory);
    if (!t->data) return dcpi_cuda_fail(err, DCP_E_INVALID, "data is NULL");
    code = cudaPointerGetAttributes(&memory, t->data);
    if (code != cudaSuccess) return dcpi_cuda_error(m, m->device, "cudaPointerGetAttributes", code, err);
    if (memory.type == cudaMemoryTypeUnregistered)
        return dcpi_cuda_fail(err, DCP_E_INVALID, "its data is ordinary host memory, or was freed; for host memory "
                                                  "leave dcp_tensor.device NULL");
    if (memory.type == cudaMemoryTypeDevice && memory.device != m->device)
        return dcpi_cuda_fail(err, DCP_E_INVALID, "its data is on GPU %d, but its dcp_device was opened for GPU %d",
                              memory.device, m->device);
    c->kind = memory.type != cudaMemoryTypeDevice ? cudaMemcpyDefault : kinds[c->way];
    return DCP_OK;
}
/* After a failure nothing of it is under way: what had been begun is waited for. */
static dcp_status dcpi_cuda_issue(dcpi_cuda *m, dcpi_cuda_copy *c, dcpi_cuda_ticket *ticket, const dcp_tensor *t,
                                  size_t offset, char *host, size_t size, dcp_error *err) {
    const char *call = "cudaMemcpyAsync";
    cudaError_t code = dcpi_cuda_copy_box(c, c->shape.ndim, (char *)t->data, host, offset, offset + size);
    if (code == cudaSuccess) {
        call = "cudaEventRecord";
        code = cudaEventRecord(ticket->event, c->stream);
    }
    ticket->stream = c->stream;
    if (code == cudaSuccess) return dcpi_cuda_succeed(err);
    (void)cudaStreamSynchronize(c->stream);
    dcpi_cuda_ticket_give(m, ticket);
    return dcpi_cuda_error(m, m->device, call, code, err);
}
static dcp_status dcpi_cuda_copy_begin(dcpi_cuda *m, dcpi_cuda_way way, const dcp_tensor *t, int64_t offset, void *host,
                                       size_t size, uint64_t *ticket, dcp_error *err) {
    dcpi_cuda_ticket *taken = NULL;
    dcpi_cuda_copy c;
    dcp_status status;
    int before;
    cudaError_t code = dcpi_cuda_enter(m, &before);
    if (code != cudaSuccess) return dcpi_cuda_error(m, m->device, "cuCtxPushCurrent", code, err);
    memset(&c, 0, sizeof c);
    c.m = m;
    c.way = way;
    c.stream = way == DCPI_CUDA_IN ? m->in : m->out;
    dcpi_cuda_shape_of(t, &c.shape);
    status = dcpi_cuda_recognise(m, t, &c, err);
    if (!status) {
        code = dcpi_cuda_ticket_take(m, &taken);
        if (code != cudaSuccess) status = dcpi_cuda_error(m, m->device, "cudaEventCreate", code, err);
    }
    if (!status) status = dcpi_cuda_issue(m, &c, taken, t, (size_t)offset, (char *)host, size, err);
    if (!status) *ticket = (uint64_t)(uintptr_t)taken;
    dcpi_cuda_leave(m, before);
    return status;
}
static dcp_status dcpi_cuda_copy_out(void *context, void *host, const dcp_tensor *tensor, int64_t offset, size_t size,
                                     uint64_t *ticket, dcp_error *err) {
    return dcpi_cuda_copy_begin((dcpi_cuda *)context, DCPI_CUDA_OUT, tensor, offset, host, size, ticket, err);
}
static dcp_status dcpi_cuda_copy_in(void *context, const dcp_tensor *tensor, int64_t offset, const void *host,
                                    size_t size, uint64_t *ticket, dcp_error *err) {
    void *source;
    memcpy(&source, &host, sizeof source);              /* only read; without a cast that drops const */
    return dcpi_cuda_copy_begin((dcpi_cuda *)context, DCPI_CUDA_IN, tensor, offset, source, size, ticket, err);
}
static dcp_status dcpi_cuda_copy_own(void *context, void *own, const dcp_tensor *tensor, size_t size, uint64_t *ticket,
                                     dcp_error *err) {
    return dcpi_cuda_copy_begin((dcpi_cuda *)context, DCPI_CUDA_WITHIN, tensor, 0, own, size, ticket, err);
}
/* Even after an error the copy does not touch the host's memory any more: the stream is empty, or its context is
 * gone. */
static dcp_status dcpi_cuda_wait(void *context, uint64_t ticket, dcp_error *err) {
    dcpi_cuda *m = (dcpi_cuda *)context;
    dcpi_cuda_ticket *taken = (dcpi_cuda_ticket *)(uintptr_t)ticket;
    dcp_status status = DCP_OK;
    int before;
    cudaError_t entered = dcpi_cuda_enter(m, &before), code = cudaEventSynchronize(taken->event);
    if (entered != cudaSuccess && code == cudaSuccess) (void)cudaGetLastError();
    if (code != cudaSuccess) {
        (void)cudaStreamSynchronize(taken->stream);
        status = dcpi_cuda_error(m, m->device, "cudaEventSynchronize", code, err);
    }
    dcpi_cuda_ticket_give(m, taken);
    dcpi_cuda_leave(m, before);
    return status ? status : dcpi_cuda_succeed(err);
}

/* ---- order behind the caller's work ------------------------------------------------------------------------------ */
#ifdef _MSC_VER
#define DCPI_CUDA_THREAD_LOCAL __declspec(thread)
#else
#define DCPI_CUDA_THREAD_LOCAL __thread
#endif
static const void *dcpi_cuda_this_thread(void) {        /* an address that no other thread has */
    static DCPI_CUDA_THREAD_LOCAL char here;
    return &here;
}
static void dcpi_cuda_tell(dcpi_cuda *m) {
    const void *thread = dcpi_cuda_this_thread();
    int i;
    dcpi_cuda_lock(m);
    for (i = 0; i < m->told_count && m->told[i] != thread; i++) {}
    if (i == m->told_count && i < DCPI_CUDA_TOLD) m->told[m->told_count++] = thread;
    dcpi_cuda_unlock(m);
}
/* Whether this thread has said what its operation, which begins, has to wait for. If not, nobody else's word counts any
 * more either: it may have been meant for this one. */
static int dcpi_cuda_was_told(dcpi_cuda *m) {
    const void *thread = dcpi_cuda_this_thread();
    int i, was_told;
    dcpi_cuda_lock(m);
    for (i = 0; i < m->told_count && m->told[i] != thread; i++) {}
    was_told = i < m->told_count;
    if (was_told) m->told[i] = m->told[--m->told_count];
    else m->told_count = 0;
    dcpi_cuda_unlock(m);
    return was_told;
}
static dcp_status dcpi_cuda_begin(void *context, dcp_error *err) {
    dcpi_cuda *m = (dcpi_cuda *)context;
    const char *call = "cuCtxPushCurrent";
    dcp_status status;
    int before;
    cudaError_t code;
    if (dcpi_cuda_was_told(m)) return dcpi_cuda_succeed(err);
    code = dcpi_cuda_enter(m, &before);
    if (code == cudaSuccess) {
        call = "cudaDeviceSynchronize";
        code = cudaDeviceSynchronize();
    }
    status = code == cudaSuccess ? dcpi_cuda_succeed(err) : dcpi_cuda_error(m, m->device, call, code, err);
    dcpi_cuda_leave(m, before);
    return status;
}
/* Both streams wait for what is on `stream` now. An event of a capture would draw them into it. */
static cudaError_t dcpi_cuda_follow(dcpi_cuda *m, cudaStream_t stream, int *is_capturing) {
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    dcpi_cuda_ticket *ticket;
    cudaError_t code = cudaStreamIsCapturing(stream, &capture);
    *is_capturing = code == cudaSuccess && capture != cudaStreamCaptureStatusNone;
    if (code != cudaSuccess || *is_capturing) return code;
    code = dcpi_cuda_ticket_take(m, &ticket);
    if (code != cudaSuccess) return code;
    code = cudaEventRecord(ticket->event, stream);
    if (code == cudaSuccess) code = cudaStreamWaitEvent(m->out, ticket->event, 0);
    if (code == cudaSuccess) code = cudaStreamWaitEvent(m->in, ticket->event, 0);
    dcpi_cuda_ticket_give(m, ticket);   /* a wait is for the record that it found: the event is free again */
    return code;
}
DCPDEF dcp_status dcp_cuda_wait_stream(dcp_device *device, cudaStream_t stream, dcp_error *err) {
    dcpi_cuda *m;
    dcp_status status = DCP_OK;
    int before, is_capturing = 0;
    cudaError_t code;
    if (!device || device->begin != dcpi_cuda_begin)
        return dcpi_cuda_fail(err, DCP_E_INVALID, "dcp_cuda_wait_stream: this is no device of dcp_cuda_open");
    m = (dcpi_cuda *)device->context;
    code = dcpi_cuda_enter(m, &before);
    if (code == cudaSuccess) code = dcpi_cuda_follow(m, stream, &is_capturing);
    if (code != cudaSuccess) status = dcpi_cuda_error(m, m->device, "dcp_cuda_wait_stream", code, err);
    dcpi_cuda_leave(m, before);
    if (status) return status;
    if (is_capturing)
        return dcpi_cuda_fail(err, DCP_E_INVALID, "dcp_cuda_wait_stream: the stream is capturing a graph, whose "
                              "work is not done yet: end the capture, launch the graph, wait for its stream");
    dcpi_cuda_tell(m);
    return dcpi_cuda_succeed(err);
}

/* ---- opening, closing ------------------------------------------------------------------------------------------- */
static void dcpi_cuda_free(dcpi_cuda *m) {
    cudaError_t code = cudaSuccess;
    if (m->out) code = cudaStreamSynchronize(m->out);
    if (m->in && code == cudaSuccess) code = cudaStreamSynchronize(m->in);
    while (m->spare) {
        dcpi_cuda_ticket *ticket = m->spare;
        m->spare = ticket->next;
        (void)cudaEventDestroy(ticket->event);
        DCP_FREE(ticket);
    }
    dcpi_cuda_blocks_free(m, 1);
    while (m->own) dcpi_cuda_free_own(m, m->own->memory);
    if (m->out) (void)cudaStreamDestroy(m->out);
    if (m->in) (void)cudaStreamDestroy(m->in);
    if (code != cudaSuccess) (void)cudaGetLastError();
    DCP_FREE(m);
}
static void dcpi_cuda_destroy(void *context) {
    dcpi_cuda *m = (dcpi_cuda *)context, copy = *m;
    int before;
    if (dcpi_cuda_enter(m, &before) != cudaSuccess) (void)cudaGetLastError();
    dcpi_cuda_free(m);
    dcpi_cuda_leave(&copy, before);
}
static dcp_status dcpi_cuda_streams(dcpi_cuda *m, dcp_error *err) {
    int pitch = 0;
    const char *call = "cudaStreamCreateWithFlags";
    cudaError_t code = cudaStreamCreateWithFlags(&m->out, cudaStreamNonBlocking);
    if (code == cudaSuccess) code = cudaStreamCreateWithFlags(&m->in, cudaStreamNonBlocking);
    if (code == cudaSuccess) {
        call = "cudaDeviceGetAttribute";
        code = cudaDeviceGetAttribute(&pitch, cudaDevAttrMaxPitch, m->device);
    }
    if (code != cudaSuccess) return dcpi_cuda_error(NULL, m->device, call, code, err);
    m->most_pitch = pitch > 0 ? (size_t)pitch : 0;
    return DCP_OK;
}
static dcp_status dcpi_cuda_new(int device, dcpi_cuda **out, dcp_error *err) {
    dcpi_cuda *m = (dcpi_cuda *)DCP_MALLOC(sizeof *m), made;
    dcp_status status;
    int before;
    cudaError_t code;
    if (!m) return dcpi_cuda_no_memory(err, sizeof *m);
    memset(m, 0, sizeof *m);
    m->device = device;
    code = dcpi_cuda_find_context(m);
    if (code != cudaSuccess) {
        DCP_FREE(m);
        return dcpi_cuda_error(NULL, device, "cuDevicePrimaryCtxRetain", code, err);
    }
    code = dcpi_cuda_enter(m, &before);
    if (code == cudaSuccess) status = dcpi_cuda_streams(m, err);
    else status = dcpi_cuda_error(NULL, device, "cuCtxPushCurrent", code, err);
    made = *m;
    if (status) dcpi_cuda_free(m);
    else *out = m;
    dcpi_cuda_leave(&made, before);
    return status;
}
DCPDEF dcp_status dcp_cuda_open_with(const dcp_cuda_desc *desc, dcp_device **out, dcp_error *err) {
    dcpi_cuda *m = NULL;
    dcp_device *d;
    dcp_status status;
    int count = 0;                                      /* CUDA leaves it alone when there is no driver */
    int device = desc ? desc->device : 0;
    cudaError_t code;
    if (!out) return dcpi_cuda_fail(err, DCP_E_INVALID, "dcp_cuda_open: out is NULL");
    *out = NULL;
    code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count == 0) code = cudaErrorNoDevice;
    if (code != cudaSuccess) return dcpi_cuda_error(NULL, device, "cudaGetDeviceCount", code, err);
    if (device == DCP_CUDA_CURRENT) code = cudaGetDevice(&device);
    else if (device < 0 || device >= count) code = cudaErrorInvalidDevice;
    if (code != cudaSuccess) return dcpi_cuda_error(NULL, device, "dcp_cuda_open", code, err);
    d = (dcp_device *)DCP_MALLOC(sizeof *d);
    if (!d) return dcpi_cuda_no_memory(err, sizeof *d);
    status = dcpi_cuda_new(device, &m, err);
    if (status) { DCP_FREE(d); return status; }
    memset(d, 0, sizeof *d);
    d->context = m;
    d->allocate_host = dcpi_cuda_allocate_host;
    d->free_host = dcpi_cuda_free_host;
    d->copy_out = dcpi_cuda_copy_out;
    d->copy_in = dcpi_cuda_copy_in;
    d->wait = dcpi_cuda_wait;
    d->destroy = dcpi_cuda_destroy;
    d->begin = dcpi_cuda_begin;
    d->own_bytes = m->own_left = desc ? desc->snapshot_bytes : 0;
    if (d->own_bytes) {
        d->allocate_own = dcpi_cuda_allocate_own;
        d->free_own = dcpi_cuda_free_own;
        d->copy_own = dcpi_cuda_copy_own;
    }
    *out = d;
    return dcpi_cuda_succeed(err);
}
DCPDEF dcp_status dcp_cuda_open(int device, dcp_device **out, dcp_error *err) {
    dcp_cuda_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.device = device;
    return dcp_cuda_open_with(&desc, out, err);
}

#ifdef __cplusplus
}
#endif
#endif /* DCP_CUDA_IMPLEMENTED */
