/* cuda_test.c - dcp_cuda.h: against the stand-in of cuda_stub/ on any machine, or with the toolkit on a real GPU (make
 * test-gpu). Built by test_cuda.sh. What only a stand-in can do (errors by schedule, counts) is left out on a GPU. */
#include <stddef.h>
static int scarce_calls;                /* the allocation after so many fails; 0: none */
static void *scarce(void *memory, size_t size);
#define DCP_MALLOC(size) scarce(NULL, size)
#define DCP_REALLOC(memory, size) scarce(memory, size)
#define DCP_FREE(memory) free(memory)
#ifdef CUDA_TEST_WHOLE                  /* dcp.h too in this file; otherwise it is linked */
#define DCP_IMPLEMENTATION
#define DCP_CUDA
#include "dcp.h"
#else
#define DCP_CUDA_IMPLEMENTATION
#include "dcp_cuda.h"
#endif
#include "test.h"
#include <pthread.h>
#include <sys/wait.h>
#ifdef CUDA_STUB
#include "cuda_stub.h"
#endif
static void *scarce(void *memory, size_t size) {
    return scarce_calls && --scarce_calls == 0 ? NULL : realloc(memory, size);
}

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)
#define CUDA_OK(call) do { \
        cudaError_t code_ = (call); \
        if (code_ != cudaSuccess) test_fail(__FILE__, __LINE__, #call, cudaGetErrorString(code_)); \
    } while (0)
#define CHECK_FAILS(call, wanted, words) do { \
        dcp_status failed_ = (call); \
        CHECK_STR(dcp_status_name(failed_), dcp_status_name(wanted)); \
        if (!strstr(err.message, words)) test_fail(__FILE__, __LINE__, words, err.message); \
    } while (0)

static dcp_error err;
static dcp_storage *files;
static int device_count;

/* ---- bytes that only the right copy has */
static uint8_t *room(size_t size) {
    uint8_t *bytes = (uint8_t *)malloc(size ? size : 1);
    CHECK(bytes != NULL);
    memset(bytes, 0xEE, size);
    return bytes;
}
static void fill(uint8_t *bytes, size_t size, uint64_t seed) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    size_t i;
    for (i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(x >> 56);
    }
}
static uint8_t *filled(size_t size, uint64_t seed) {
    uint8_t *bytes = room(size);
    fill(bytes, size, seed);
    return bytes;
}
static void *on_device(int device, const uint8_t *bytes, size_t size) {
    void *memory = NULL;
    int before;
    CUDA_OK(cudaGetDevice(&before));
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaMalloc(&memory, size ? size : 1));
    if (size) CUDA_OK(cudaMemcpy(memory, bytes, size, cudaMemcpyHostToDevice));
    CUDA_OK(cudaSetDevice(before));
    return memory;
}
static void check_on_device(const void *memory, const uint8_t *bytes, size_t size, int line) {
    uint8_t *got = room(size);
    size_t i;
    CUDA_OK(cudaMemcpy(got, memory, size, cudaMemcpyDefault));
    for (i = 0; i < size && got[i] == bytes[i]; i++) {}
    free(got);
    if (i < size) test_fail(__FILE__, line, "bytes on the device", " (are not those that were saved)");
}
#define CHECK_ON_DEVICE(memory, bytes, size) check_on_device(memory, bytes, size, __LINE__)

/* ---- each test: a storage in memory, and at its end nothing left over */
static void begin(void) {
#ifdef CUDA_STUB
    cuda_stub_reset(test_random());
#endif
    CUDA_OK(cudaSetDevice(0));
    CHECK_OK_MESSAGE(dcp_storage_memory(&files, &err), err.message);
}
static void end(void) {
    dcp_storage_close(files);
    files = NULL;
#ifdef CUDA_STUB
    CHECK_STR(cuda_stub_violation(), "");
    CHECK_INT(cuda_stub_alive().pinned, 0);
    CHECK_INT(cuda_stub_alive().device, 0);
    CHECK_INT(cuda_stub_alive().events, 0);
#endif
    CHECK_INT(cudaGetLastError(), cudaSuccess);
}
static dcp_device *opened(int device) {
    dcp_device *d;
    CHECK_OK_MESSAGE(dcp_cuda_open(device, &d, &err), err.message);
    return d;
}
static dcp_device *opened_with(int device, size_t snapshot_bytes) {
    dcp_cuda_desc desc;
    dcp_device *d;
    memset(&desc, 0, sizeof desc);
    desc.device = device;
    desc.snapshot_bytes = snapshot_bytes;
    CHECK_OK_MESSAGE(dcp_cuda_open_with(&desc, &d, &err), err.message);
    return d;
}
static dcp_save_desc saving(const char *path, const dcp_tensor *t, size_t count) {
    dcp_save_desc save = DCP_ZERO;
    save.path = path;
    save.tensors = t;
    save.tensor_count = count;
    save.overwrite = 1;
    save.io.storage = files;
    return save;
}
static dcp_load_desc loading(const char *path, dcp_tensor *t, size_t count) {
    dcp_load_desc load = DCP_ZERO;
    load.path = path;
    load.tensors = t;
    load.tensor_count = count;
    load.io.storage = files;
    return load;
}
static void save_all(const dcp_tensor *t, size_t count, size_t budget) {
    dcp_save_desc save = saving("x", t, count);
    save.io.memory_budget = budget;
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
}
static void load_all(dcp_tensor *t, size_t count, size_t budget) {
    dcp_load_desc load = loading("x", t, count);
    load.io.memory_budget = budget;
    load.io.threads = 3;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
}

/* ---- data there and back */
static void round_trip(dcp_device *gpu, size_t size, size_t budget) {
    uint8_t *bytes = filled(size, size), *host = room(size), *nothing = room(size);
    void *memory = on_device(0, bytes, size), *back = on_device(0, nothing, size);
    dcp_tensor t = dcp_bytes("a", memory, size);
    t.device = gpu;
    save_all(&t, 1, budget);
    t.data = host;
    t.device = NULL;
    load_all(&t, 1, budget);
    CHECK(memcmp(host, bytes, size) == 0);
    t.data = back;
    t.device = gpu;
    load_all(&t, 1, budget);
    CHECK_ON_DEVICE(back, bytes, size);
    CUDA_OK(cudaFree(memory));
    CUDA_OK(cudaFree(back));
    free(bytes);
    free(host);
    free(nothing);
}
TEST(tensors_come_from_the_device_and_go_back) {
    dcp_device *gpu;
    begin();
    gpu = opened(0);
    round_trip(gpu, 1, 0);
    round_trip(gpu, 4097, 0);
    round_trip(gpu, 9 * MIB + 5, 0);
    round_trip(gpu, 3 * MIB + 77, MIB);
    dcp_device_close(gpu);
    end();
}
/* Many tensors, of host and device in turns, of all sizes: buffers end inside them and carry bytes over. */
TEST(tensors_of_host_and_device_in_one_save) {
    enum { COUNT = 120 };
    static char names[COUNT][16];
    uint8_t *bytes[COUNT], *back[COUNT];
    dcp_tensor t[COUNT];
    size_t size[COUNT];
    dcp_device *gpu;
    int i, round;
    begin();
    gpu = opened(DCP_CUDA_CURRENT);
    for (i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        size[i] = i % 10 == 9 ? MIB + test_random_below(MIB) : test_random_below(9000);
        bytes[i] = filled(size[i], (uint64_t)i);
        back[i] = room(size[i]);
        t[i] = dcp_bytes(names[i], i % 3 ? on_device(0, bytes[i], size[i]) : bytes[i], size[i]);
        if (i % 3) t[i].device = gpu;
    }
    for (round = 0; round < 2; round++) {
        save_all(t, COUNT, round ? MIB : 0);
        for (i = 0; i < COUNT; i++) if (i % 3) {
            CUDA_OK(cudaMemcpy(t[i].data, back[i], size[i], cudaMemcpyHostToDevice));
        } else t[i].data = back[i];
        load_all(t, COUNT, round ? MIB : 0);
        for (i = 0; i < COUNT; i++) {
            if (i % 3) CHECK_ON_DEVICE(t[i].data, bytes[i], size[i]);
            else CHECK(memcmp(back[i], bytes[i], size[i]) == 0);
            if (i % 3 == 0) { memset(back[i], 0xEE, size[i]); t[i].data = bytes[i]; }
        }
    }
    for (i = 0; i < COUNT; i++) {
        if (i % 3) CUDA_OK(cudaFree(t[i].data));
        free(bytes[i]);
        free(back[i]);
    }
    dcp_device_close(gpu);
    end();
}

/* ---- strides */
typedef struct strided { int ndim; int64_t shape[4], stride[4]; } strided;
static int64_t place(const strided *s, int64_t element) {
    int64_t at = 0;
    int d;
    for (d = s->ndim - 1; d >= 0; d--) {
        at += element % s->shape[d] * s->stride[d];
        element /= s->shape[d];
    }
    return at;
}
/* Saved from the device with strides, loaded row-major; saved row-major, loaded to the device with strides, and the
 * gaps stay as they were. */
static void strided_case(dcp_device *gpu, const strided *s, size_t width, size_t budget) {
    const dcp_dtype types[9] = { DCP_UINT8, DCP_UINT8, DCP_UINT16, DCP_UINT8, DCP_FP32, DCP_UINT8, DCP_UINT8, DCP_UINT8,
                                 DCP_FP64 };
    int64_t count = 1, last, i, d;
    size_t span;
    uint8_t *flat, *wide, *back, *expected;
    dcp_tensor t = DCP_ZERO;
    void *memory;
    for (d = 0; d < s->ndim; d++) count *= s->shape[d];
    last = place(s, count - 1);
    span = ((size_t)last + 1) * width;
    flat = filled((size_t)count * width, (uint64_t)count);
    back = room((size_t)count * width);
    wide = room(span);
    expected = room(span);
    for (i = 0; i < count; i++) memcpy(expected + (size_t)place(s, i) * width, flat + (size_t)i * width, width);
    memory = on_device(0, expected, span);
    t = dcp_array("s", types[width], memory, s->ndim, s->shape);
    for (d = 0; d < s->ndim; d++) t.stride[d] = s->stride[d];
    t.device = gpu;
    save_all(&t, 1, budget);
    t = dcp_array("s", types[width], back, s->ndim, s->shape);
    load_all(&t, 1, budget);
    CHECK(memcmp(back, flat, (size_t)count * width) == 0);
    CUDA_OK(cudaMemcpy(memory, wide, span, cudaMemcpyHostToDevice));
    t.data = memory;
    for (d = 0; d < s->ndim; d++) t.stride[d] = s->stride[d];
    t.device = gpu;
    load_all(&t, 1, budget);
    CHECK_ON_DEVICE(memory, expected, span);
    CUDA_OK(cudaFree(memory));
    free(flat);
    free(back);
    free(wide);
    free(expected);
}
static void all_strides(dcp_device *gpu, int has_large) {
    static const strided cases[] = {
        { 2, { 300, 50, 0, 0 }, { 64, 1, 0, 0 } },                              /* rows with a gap behind each */
        { 2, { 37, 91, 0, 0 }, { 1, 37, 0, 0 } },                               /* transposed */
        { 1, { 777, 0, 0, 0 }, { 3, 0, 0, 0 } },                                /* elements apart */
        { 3, { 6, 10, 14, 0 }, { 200, 20, 1, 0 } },                             /* two dimensions that are one */
        { 3, { 6, 10, 14, 0 }, { 1000, 16, 1, 0 } },
        { 3, { 6, 10, 14, 0 }, { 1, 100, 7, 0 } },                              /* permuted */
        { 3, { 5, 7, 9, 0 }, { 63, 9, 1, 0 } },                                 /* row-major after all */
        { 4, { 4, 1, 5, 6 }, { 100, 7, 20, 3 } },
        { 4, { 3, 4, 5, 6 }, { 6, 90, 18, 1 } },
        { 2, { 1, 1, 0, 0 }, { 5, 9, 0, 0 } }
    };
    static const strided large[] = { { 2, { 3000, 700, 0, 0 }, { 704, 1, 0, 0 } },
                                     { 3, { 40, 300, 100, 0 }, { 40000, 101, 1, 0 } } };
    static const size_t widths[4] = { 1, 2, 4, 8 };
    size_t c, w;
    for (c = 0; c < sizeof cases / sizeof *cases; c++)
        for (w = 0; w < 4; w++) strided_case(gpu, &cases[c], widths[w], 0);
    for (c = 0; has_large && c < 2; c++) strided_case(gpu, &large[c], 4, c ? MIB : 0);
}
TEST(strided_tensors) {
    dcp_device *gpu;
    begin();
    gpu = opened(0);
    all_strides(gpu, 1);
#ifdef CUDA_STUB
    CHECK(cuda_stub_calls("cudaMemcpy2DAsync") > 40);
#endif
    dcp_device_close(gpu);
    end();
}
/* Boxes of a tensor that was saved whole, into rows that lie apart on the device. */
TEST(boxes_into_strided_tensors) {
    enum { ROWS = 60, COLUMNS = 70, HIGH = 21, WIDE = 33, PITCH = 40 };
    int64_t whole[2] = { ROWS, COLUMNS }, shape[2] = { HIGH, WIDE }, where[2] = { 17, 29 };
    uint8_t *bytes = filled(ROWS * COLUMNS * 4, 3), *expected = room(HIGH * PITCH * 4),
                     *nothing = room(HIGH * PITCH * 4);
    void *memory, *box;
    dcp_tensor t;
    dcp_device *gpu;
    int r;
    begin();
    gpu = opened(0);
    memory = on_device(0, bytes, ROWS * COLUMNS * 4);
    box = on_device(0, nothing, HIGH * PITCH * 4);
    t = dcp_array("m", DCP_FP32, memory, 2, whole);
    t.device = gpu;
    save_all(&t, 1, 0);
    t = dcp_array("m", DCP_FP32, box, 2, shape);
    dcp_piece(&t, whole, where);
    t.stride[0] = PITCH;
    t.stride[1] = 1;
    t.device = gpu;
    load_all(&t, 1, 0);
    for (r = 0; r < HIGH; r++) memcpy(expected + r * PITCH * 4, bytes + ((17 + r) * COLUMNS + 29) * 4, WIDE * 4);
    CHECK_ON_DEVICE(box, expected, HIGH * PITCH * 4);
    CUDA_OK(cudaFree(memory));
    CUDA_OK(cudaFree(box));
    dcp_device_close(gpu);
    free(bytes);
    free(expected);
    free(nothing);
    end();
}

/* ---- several devices */
TEST(tensors_of_several_devices_in_one_save) {
    enum { COUNT = 12 };
    static char names[COUNT][16];
    const size_t size = 700 * KIB + 3;
    dcp_device *gpus[4];
    uint8_t *bytes[COUNT], *nothing = room(size);
    dcp_tensor t[COUNT];
    int i, now;
    begin();
    if (device_count < 2) { end(); free(nothing); SKIP("needs two GPUs"); }
    for (i = 0; i < device_count && i < 4; i++) gpus[i] = opened(i);
    CUDA_OK(cudaSetDevice(1));
    for (i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        bytes[i] = filled(size, (uint64_t)i);
        t[i] = dcp_bytes(names[i], on_device(i % device_count % 4, bytes[i], size), size);
        t[i].device = gpus[i % device_count % 4];
    }
    save_all(t, COUNT, 0);
    CUDA_OK(cudaGetDevice(&now));
    CHECK_INT(now, 1);
    for (i = 0; i < COUNT; i++) CUDA_OK(cudaMemcpy(t[i].data, nothing, size, cudaMemcpyHostToDevice));
    load_all(t, COUNT, 0);
    CUDA_OK(cudaGetDevice(&now));
    CHECK_INT(now, 1);
    for (i = 0; i < COUNT; i++) {
        CHECK_ON_DEVICE(t[i].data, bytes[i], size);
        CUDA_OK(cudaFree(t[i].data));
        free(bytes[i]);
    }
    for (i = 0; i < device_count && i < 4; i++) dcp_device_close(gpus[i]);
    CUDA_OK(cudaGetDevice(&now));
    CHECK_INT(now, 1);
    free(nothing);
    end();
}

/* ---- order behind the caller's work */
static void CUDART_CB slow(void *user) {
    struct timespec span;
    span.tv_sec = 0;
    span.tv_nsec = (long)(size_t)user * 1000000;
    (void)nanosleep(&span, NULL);
}
/* The caller's work takes until somebody waits for it, or has begun so many copies, which come too early if they are
 * carried out now: machines can be busy, and then everybody comes late. */
static int copies_to_come;
static void CUDART_CB until_begun(void *user) {
#ifdef CUDA_STUB
    const long copies = cuda_stub_calls("cudaMemcpyAsync"), waits = cuda_stub_calls("cudaDeviceSynchronize");
    int i;
    for (i = 0; i < 10000 && cuda_stub_calls("cudaDeviceSynchronize") == waits &&
        cuda_stub_calls("cudaMemcpyAsync") - copies < copies_to_come; i++) slow((void *)(size_t)1);
#endif
    slow(user);
}
enum { NONE, WAITED, DEFAULT_STREAM };
/* The tensor gets its value on a stream that is slow; the save must see it, and so must a load that writes over it. */
static void ordered_case(int device, int how, int is_blocking) {
    const size_t size = 300 * KIB;
    uint8_t *old = filled(size, 1), *host = room(size), *fresh = filled(size, 2);
    void *memory = on_device(device, old, size);
    cudaStream_t work = NULL;
    dcp_device *gpu;
    dcp_tensor t = dcp_bytes("a", memory, size);
    copies_to_come = 1;
    CUDA_OK(cudaSetDevice(device));
    gpu = opened(device);
    if (how != DEFAULT_STREAM) CUDA_OK(cudaStreamCreateWithFlags(&work, is_blocking ? 0 : cudaStreamNonBlocking));
    t.device = gpu;
    CUDA_OK(cudaLaunchHostFunc(work, until_begun, (void *)(size_t)30));
    CUDA_OK(cudaMemsetAsync(memory, 0x5A, size, work));
    CUDA_OK(cudaSetDevice(0));
    if (how != NONE) CHECK_OK_MESSAGE(dcp_cuda_wait_stream(gpu, work, &err), err.message);
    save_all(&t, 1, 0);
    t.data = host;
    t.device = NULL;
    load_all(&t, 1, 0);
    memset(old, 0x5A, size);
    CHECK(memcmp(host, old, size) == 0);
    t.data = fresh;
    save_all(&t, 1, 0);
    t.data = memory;
    t.device = gpu;
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaLaunchHostFunc(work, until_begun, (void *)(size_t)30));
    CUDA_OK(cudaMemsetAsync(memory, 0x11, size, work));
    if (how != NONE) CHECK_OK_MESSAGE(dcp_cuda_wait_stream(gpu, work, &err), err.message);
    load_all(&t, 1, 0);
    CUDA_OK(cudaStreamSynchronize(work));
    CHECK_ON_DEVICE(memory, fresh, size);
#ifdef CUDA_STUB
    if (how != NONE) CHECK_INT(cuda_stub_calls("cudaDeviceSynchronize"), 0);
#endif
    if (work) CUDA_OK(cudaStreamDestroy(work));
    CUDA_OK(cudaFree(memory));
    CUDA_OK(cudaSetDevice(0));
    dcp_device_close(gpu);
    free(old);
    free(host);
    free(fresh);
}
static void ordered(int device, int how) {
    int is_blocking;
    for (is_blocking = 0; is_blocking < 2; is_blocking++) {
        begin();
        ordered_case(device, how, is_blocking);
        end();
    }
}
TEST(copies_wait_for_the_stream_that_they_are_told) { ordered(0, WAITED); }
TEST(copies_wait_for_the_default_stream) {
    begin();
    ordered_case(0, DEFAULT_STREAM, 0);
    end();
}
TEST(copies_wait_for_the_device_when_they_are_told_nothing) { ordered(0, NONE); }
TEST(copies_of_another_device_wait_too) {
    if (device_count < 2) SKIP("needs two GPUs");
    ordered(1, WAITED);
    ordered(1, NONE);
}
/* What one save was told to wait for says nothing about the next one. */
typedef struct changing {
    dcp_device *gpu;
    cudaStream_t work;
    void *memory; size_t size;
    dcp_status status; dcp_error err;
} changing;
static void change_slowly(changing *c, int value) {
    CUDA_OK(cudaLaunchHostFunc(c->work, slow, (void *)(size_t)60));
    CUDA_OK(cudaMemsetAsync(c->memory, value, c->size, c->work));
}
static void *save_changing(void *argument) {
    changing *c = (changing *)argument;
    dcp_tensor t = dcp_bytes("a", c->memory, c->size);
    dcp_save_desc save = saving("x", &t, 1);
    t.device = c->gpu;
    c->status = dcp_save(&save, &c->err);
    return NULL;
}
static void check_saved(changing *c, int value) {
    uint8_t *host = room(c->size), *expected = room(c->size);
    dcp_tensor t = dcp_bytes("a", host, c->size);
    CHECK_OK_MESSAGE(c->status, c->err.message);
    load_all(&t, 1, 0);
    memset(expected, value, c->size);
    CHECK(memcmp(host, expected, c->size) == 0);
    free(host);
    free(expected);
}
static void changing_open(changing *c) {
    memset(c, 0, sizeof *c);
    c->size = 300 * KIB;
    c->gpu = opened(0);
    CUDA_OK(cudaMalloc(&c->memory, c->size));
    CUDA_OK(cudaStreamCreateWithFlags(&c->work, cudaStreamNonBlocking));
}
static void changing_close(changing *c) {
    CUDA_OK(cudaStreamDestroy(c->work));
    CUDA_OK(cudaFree(c->memory));
    dcp_device_close(c->gpu);
}
TEST(a_stream_is_waited_for_once) {
    changing c;
    int round;
    begin();
    changing_open(&c);
    for (round = 0; round < 2; round++) {
        change_slowly(&c, 1);
        CHECK_OK_MESSAGE(dcp_cuda_wait_stream(c.gpu, c.work, &err), err.message);
        (void)save_changing(&c);
        check_saved(&c, 1);
        change_slowly(&c, 2);
        (void)save_changing(&c);
        check_saved(&c, 2);
    }
    change_slowly(&c, 3);                               /* two streams, one save */
    CHECK_OK_MESSAGE(dcp_cuda_wait_stream(c.gpu, c.work, &err), err.message);
    CHECK_OK_MESSAGE(dcp_cuda_wait_stream(c.gpu, NULL, &err), err.message);
    (void)save_changing(&c);
    check_saved(&c, 3);
    change_slowly(&c, 4);
    (void)save_changing(&c);
    check_saved(&c, 4);
    changing_close(&c);
    end();
}
TEST(a_stream_is_waited_for_by_the_thread_that_said_so) {
    pthread_t thread;
    changing c;
    begin();
    changing_open(&c);
    CHECK_OK_MESSAGE(dcp_cuda_wait_stream(c.gpu, c.work, &err), err.message);
    change_slowly(&c, 1);
    CHECK_INT(pthread_create(&thread, NULL, save_changing, &c), 0);     /* for its save nobody has said anything */
    (void)pthread_join(thread, NULL);
    check_saved(&c, 1);
    change_slowly(&c, 2);                               /* and what was said before is over */
    (void)save_changing(&c);
    check_saved(&c, 2);
    changing_close(&c);
    end();
}
/* An event of the capture would draw the streams of the device into it: the capture could not end, and no copy would be
 * carried out. */
TEST(a_stream_that_is_capturing_is_refused) {
    cudaGraph_t graph = NULL;
    changing c;
    begin();
    changing_open(&c);
    change_slowly(&c, 1);
    CUDA_OK(cudaStreamBeginCapture(c.work, cudaStreamCaptureModeRelaxed));
    CHECK_FAILS(dcp_cuda_wait_stream(c.gpu, c.work, &err), DCP_E_INVALID, "capturing a graph");
    CUDA_OK(cudaStreamEndCapture(c.work, &graph));
    if (graph) CUDA_OK(cudaGraphDestroy(graph));
    CHECK_OK_MESSAGE(dcp_cuda_wait_stream(c.gpu, c.work, &err), err.message);
    (void)save_changing(&c);
    check_saved(&c, 1);
    changing_close(&c);
    end();
}
/* Several workers of a load begin at once: none may overtake the synchronisation. */
TEST(no_worker_overtakes_the_synchronisation) {
    enum { COUNT = 9 };
    static char names[COUNT][16];
    const size_t size = 2 * MIB;
    uint8_t *bytes = filled(size, 7);
    cudaStream_t work;
    dcp_device *gpu;
    dcp_tensor t[COUNT];
    dcp_load_desc load;
    int i;
    begin();
    gpu = opened(0);
    CUDA_OK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
    for (i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        t[i] = dcp_bytes(names[i], bytes, size);
    }
    save_all(t, COUNT, 0);
    copies_to_come = COUNT;
    CUDA_OK(cudaLaunchHostFunc(work, until_begun, (void *)(size_t)300));
    for (i = 0; i < COUNT; i++) {
        CUDA_OK(cudaMalloc(&t[i].data, size));
        CUDA_OK(cudaMemsetAsync(t[i].data, 0x11, size, work));
        t[i].device = gpu;
    }
    load = loading("x", t, COUNT);
    load.io.threads = 4;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    CUDA_OK(cudaStreamSynchronize(work));
    for (i = 0; i < COUNT; i++) {
        CHECK_ON_DEVICE(t[i].data, bytes, size);
        CUDA_OK(cudaFree(t[i].data));
    }
    CUDA_OK(cudaStreamDestroy(work));
    dcp_device_close(gpu);
    free(bytes);
    end();
}

/* ---- kinds of memory */
static void memory_kind(dcp_device *gpu, void *memory, size_t size) {
    uint8_t *bytes = filled(size, 5), *host = room(size);
    dcp_tensor t = dcp_bytes("a", memory, size);
    memcpy(memory, bytes, size);
    t.device = gpu;
    save_all(&t, 1, 0);
    memset(memory, 0, size);
    load_all(&t, 1, 0);
    CHECK(memcmp(memory, bytes, size) == 0);
    t.data = host;
    t.device = NULL;
    load_all(&t, 1, 0);
    CHECK(memcmp(host, bytes, size) == 0);
    free(bytes);
    free(host);
}
TEST(managed_and_pinned_memory) {
    const size_t size = 5 * MIB + 11;
    void *managed, *pinned;
    dcp_device *gpu;
    begin();
    gpu = opened(0);
    CUDA_OK(cudaMallocManaged(&managed, size, cudaMemAttachGlobal));
    CUDA_OK(cudaHostAlloc(&pinned, size, cudaHostAllocPortable));
    memory_kind(gpu, managed, size);
    memory_kind(gpu, pinned, size);
    CUDA_OK(cudaFree(managed));
    CUDA_OK(cudaFreeHost(pinned));
    dcp_device_close(gpu);
    end();
}
TEST(memory_that_is_not_the_devices_is_refused) {
    uint8_t *bytes = filled(100, 1);
    dcp_device *gpu, *other;
    dcp_save_desc save;
    dcp_tensor t;
    begin();
    gpu = opened(0);
    t = dcp_bytes("a", bytes, 100);
    t.device = gpu;
    save = saving("x", &t, 1);
    CHECK_FAILS(dcp_save(&save, &err), DCP_E_INVALID, "tensor \"a\": its data is ordinary host memory");
    t.data = NULL;
    CHECK_FAILS(dcp_save(&save, &err), DCP_E_INVALID, "data is NULL");
    if (device_count > 1) {
        other = opened(1);
        t.data = on_device(0, bytes, 100);
        t.device = other;
        CHECK_FAILS(dcp_save(&save, &err), DCP_E_INVALID, "on GPU 0, but its dcp_device was opened for GPU 1");
        CUDA_OK(cudaFree(t.data));
        dcp_device_close(other);
    }
    dcp_device_close(gpu);
    free(bytes);
    end();
}
TEST(wrong_arguments) {
    dcp_device *gpu = NULL, fake;
    dcp_cuda_desc desc;
    cudaStream_t work;
    begin();
    CHECK_FAILS(dcp_cuda_open(0, NULL, &err), DCP_E_INVALID, "out is NULL");
    CHECK_FAILS(dcp_cuda_open(99, &gpu, &err), DCP_E_DEVICE, "invalid device ordinal");
    CHECK(gpu == NULL);
    CHECK_FAILS(dcp_cuda_open(-7, &gpu, &err), DCP_E_DEVICE, "invalid device ordinal");
    CHECK(dcp_cuda_open(99, &gpu, NULL) == DCP_E_DEVICE);
    CHECK_FAILS(dcp_cuda_open_with(NULL, NULL, &err), DCP_E_INVALID, "out is NULL");
    memset(&desc, 0, sizeof desc);
    desc.device = 99;
    CHECK_FAILS(dcp_cuda_open_with(&desc, &gpu, &err), DCP_E_DEVICE, "invalid device ordinal");
    scarce_calls = 1;
    CHECK_FAILS(dcp_cuda_open(0, &gpu, &err), DCP_E_MEMORY, "out of memory");
    scarce_calls = 1;
    CHECK_FAILS(dcp_cuda_open_with(NULL, &gpu, &err), DCP_E_MEMORY, "out of memory");
    CHECK_OK_MESSAGE(dcp_cuda_open_with(NULL, &gpu, &err), err.message);
    dcp_device_close(gpu);
    memset(&fake, 0, sizeof fake);
    CHECK_FAILS(dcp_cuda_wait_stream(&fake, NULL, &err), DCP_E_INVALID, "no device of dcp_cuda_open");
    CHECK_FAILS(dcp_cuda_wait_stream(NULL, NULL, &err), DCP_E_INVALID, "no device of dcp_cuda_open");
    dcp_device_close(NULL);
    if (device_count > 1) {
        CUDA_OK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
        gpu = opened(1);
        CHECK_FAILS(dcp_cuda_wait_stream(gpu, work, &err), DCP_E_DEVICE, "cudaErrorInvalidResourceHandle");
        CUDA_OK(cudaStreamDestroy(work));
        dcp_device_close(gpu);
    }
    end();
}

/* ---- what must not happen */
TEST(damaged_bytes_do_not_reach_the_device) {
    const size_t size = 3 * MIB;
    uint8_t *bytes = filled(size, 1), *nothing = room(size);
    dcp_tensor t = dcp_bytes("a", bytes, size);
    dcp_load_desc load;
    dcp_device *gpu;
    void *file = NULL;
    size_t file_size;
    begin();
    gpu = opened(0);
    save_all(&t, 1, 0);
    CHECK_OK_MESSAGE(dcp_storage_read_all(files, "x_shard_0.bin", &file, &file_size, NULL, &err), err.message);
    ((uint8_t *)file)[2 * MIB + 7] ^= 4;
    CHECK_OK_MESSAGE(dcp_storage_write_all(files, "x_shard_0.bin", file, file_size, NULL, &err), err.message);
    dcp_free(file);
    t.data = on_device(0, nothing, size);
    t.device = gpu;
    load = loading("x", &t, 1);
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_CHECKSUM, "tensor \"a\"");
    CHECK_ON_DEVICE(t.data, nothing, size);
    CUDA_OK(cudaFree(t.data));
    dcp_device_close(gpu);
    free(bytes);
    free(nothing);
    end();
}
static int cancel_at;
static void cancelling(void *user, const dcp_progress *progress) {
    if (progress->bytes_done >= (int64_t)cancel_at * (int64_t)MIB) dcp_cancel_request((dcp_cancel *)user);
}
TEST(cancelled_with_copies_under_way) {
    const size_t size = 12 * MIB;
    uint8_t *bytes = filled(size, 1);
    dcp_device *gpu;
    dcp_tensor t;
    begin();
    gpu = opened(0);
    t = dcp_bytes("a", on_device(0, bytes, size), size);
    t.device = gpu;
    for (cancel_at = 0; cancel_at < 12; cancel_at += 3) {
        dcp_cancel cancel = DCP_ZERO;
        dcp_save_desc save = saving("y", &t, 1);
        dcp_status status;
        save.io.cancel = &cancel;
        save.io.progress = cancelling;
        save.io.progress_user = &cancel;
        status = dcp_save(&save, &err);
        CHECK(status == DCP_E_CANCELLED || status == DCP_OK);
    }
    CUDA_OK(cudaFree(t.data));
    dcp_device_close(gpu);
    free(bytes);
    end();
}

/* ---- many saves, many threads, many ranks */
static int count_lines(const char *path, const char *word) {
    char line[300];
    FILE *file = fopen(path, "r");
    int n = -1;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, word, strlen(word)) == 0) n = atoi(line + strlen(word));
    if (file) (void)fclose(file);
    return n;
}
static int count_files(const char *path) {
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) (void)closedir(dir);
    return n;
}
TEST(two_hundred_saves_take_no_more_than_one) {
    const size_t size = 300 * KIB;
    const char *directory = test_dir();
    uint8_t *bytes = filled(size, 1);
    const int times = test_times(200);
    int i, threads = 0, descriptors = 0, resident = 0;
#ifdef CUDA_STUB
    cuda_stub_counts alive = { 0, 0, 0, 0, 0, 0, 0 };
#endif
    char path[1200];
    dcp_device *gpu;
    dcp_tensor t;
    begin();
    gpu = opened(0);
    t = dcp_bytes("a", on_device(0, bytes, size), size);
    t.device = gpu;
    (void)snprintf(path, sizeof path, "%s/x", directory);
    for (i = 0; i < times; i++) {
        dcp_save_desc save = saving(path, &t, 1);
        dcp_load_desc load = loading(path, &t, 1);
        save.io.storage = load.io.storage = NULL;
        CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
        if (i % 20 < 2) CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
        if (i == times / 5) {
            threads = count_lines("/proc/self/status", "Threads:");
            descriptors = count_files("/proc/self/fd");
            resident = count_lines("/proc/self/status", "VmRSS:");
#ifdef CUDA_STUB
            alive = cuda_stub_alive();
#endif
        }
    }
    CHECK_INT(count_lines("/proc/self/status", "Threads:"), threads);
    CHECK_INT(count_files("/proc/self/fd"), descriptors);
    if (!test_is_sanitized()) CHECK(count_lines("/proc/self/status", "VmRSS:") < resident + 2000);
#ifdef CUDA_STUB
    CHECK((alive.pinned > 0 || !DCP_CUDA_KEEP) && alive.events > 0);
    CHECK_INT(cuda_stub_alive().pinned, alive.pinned);
    CHECK_INT(cuda_stub_alive().events, alive.events);
    CHECK_INT(cuda_stub_alive().streams, alive.streams);
    CHECK(alive.pinned <= 4 && alive.events <= 64);
    /* pinning takes long: memory is kept from save to save */
    CHECK(!DCP_CUDA_KEEP || cuda_stub_calls("cudaHostAlloc") <= 6);
#endif
    CUDA_OK(cudaFree(t.data));
    dcp_device_close(gpu);
    free(bytes);
    end();
}
typedef struct worker {
    pthread_t thread;
    dcp_device *gpu;
    dcp_coordinator *ranks;
    int number, device;
    dcp_status status;
    dcp_error err;
    int is_wrong;
} worker;
static void *one_worker(void *argument) {
    worker *w = (worker *)argument;
    const size_t size = 900 * KIB + (size_t)w->number * 4099;
    uint8_t *bytes = (uint8_t *)malloc(size), *back = (uint8_t *)malloc(size);
    void *memory = NULL;
    char path[20];
    int round, now = -1;
    if (!bytes || !back || cudaSetDevice(w->number % 2 ? w->device : 0) != cudaSuccess) abort();
    fill(bytes, size, (uint64_t)w->number);
    (void)snprintf(path, sizeof path, "p%d", w->number);
    if (cudaSetDevice(w->device) != cudaSuccess || cudaMalloc(&memory, size) != cudaSuccess) abort();
    if (cudaMemcpy(memory, bytes, size, cudaMemcpyHostToDevice) != cudaSuccess || cudaSetDevice(0) != cudaSuccess)
        abort();
    for (round = 0; round < 4 && !w->status; round++) {
        dcp_tensor t = dcp_bytes("a", memory, size);
        dcp_save_desc save = saving(path, &t, 1);
        dcp_load_desc load = loading(path, &t, 1);
        t.device = w->gpu;
        w->status = dcp_cuda_wait_stream(w->gpu, NULL, &w->err);
        if (!w->status) w->status = dcp_save(&save, &w->err);
        if (cudaMemcpy(memory, back, size, cudaMemcpyHostToDevice) != cudaSuccess) abort();
        if (!w->status) w->status = dcp_load(&load, &w->err);
        if (cudaMemcpy(back, memory, size, cudaMemcpyDeviceToHost) != cudaSuccess) abort();
        w->is_wrong |= memcmp(back, bytes, size) != 0;
    }
    if (cudaGetDevice(&now) != cudaSuccess || now != 0) w->is_wrong = 1;
    (void)cudaFree(memory);
    free(bytes);
    free(back);
    return NULL;
}
TEST(several_threads_use_one_device_and_another) {
    enum { WORKERS = 6 };
    worker w[WORKERS];
    dcp_device *gpus[2];
    int i;
    begin();
    gpus[0] = opened(0);
    gpus[1] = opened(device_count > 1 ? 1 : 0);
    memset(w, 0, sizeof w);
    for (i = 0; i < WORKERS; i++) {
        w[i].gpu = gpus[i % 3 == 2];
        w[i].device = i % 3 == 2 && device_count > 1;
        w[i].number = i;
        CHECK_INT(pthread_create(&w[i].thread, NULL, one_worker, &w[i]), 0);
    }
    for (i = 0; i < WORKERS; i++) (void)pthread_join(w[i].thread, NULL);
    for (i = 0; i < WORKERS; i++) {
        CHECK_OK_MESSAGE(w[i].status, w[i].err.message);
        CHECK(!w[i].is_wrong);
    }
    dcp_device_close(gpus[0]);
    dcp_device_close(gpus[1]);
    end();
}
/* Ranks with a device each save parts of one tensor; then each loads all of it, read by one rank for all. */
static const size_t rank_part = 1500 * KIB;
static void *one_rank(void *argument) {
    worker *w = (worker *)argument;
    int64_t shape[1], whole[1], where[1];
    const int n = w->ranks->world_size;
    uint8_t *bytes = (uint8_t *)malloc(rank_part * (size_t)n), *back = (uint8_t *)malloc(rank_part * (size_t)n);
    void *memory = NULL;
    dcp_save_desc save;
    dcp_load_desc load;
    dcp_tensor t;
    if (!bytes || !back || cudaSetDevice(w->device) != cudaSuccess || cudaMalloc(&memory, rank_part * (size_t)n) !=
        cudaSuccess) abort();
    fill(bytes, rank_part * (size_t)n, 9);
    shape[0] = (int64_t)rank_part;
    whole[0] = shape[0] * n;
    where[0] = shape[0] * w->number;
    if (cudaMemcpy(memory, bytes + where[0], rank_part, cudaMemcpyHostToDevice) != cudaSuccess) abort();
    t = dcp_array("a", DCP_UINT8, memory, 1, shape);
    dcp_piece(&t, whole, where);
    t.device = w->gpu;
    save = saving("x", &t, 1);
    save.io.coordinator = w->ranks;
    w->status = dcp_save(&save, &w->err);
    t = dcp_array("a", DCP_UINT8, memory, 1, whole);
    t.device = w->gpu;
    load = loading("x", &t, 1);
    load.io.coordinator = w->ranks;
    load.share_reads = 1;
    if (!w->status) w->status = dcp_load(&load, &w->err);
    if (cudaMemcpy(back, memory, rank_part * (size_t)n, cudaMemcpyDeviceToHost) != cudaSuccess) abort();
    w->is_wrong = memcmp(back, bytes, rank_part * (size_t)n) != 0;
    (void)cudaFree(memory);
    free(bytes);
    free(back);
    return NULL;
}
TEST(ranks_with_a_device_each) {
    enum { WORKERS = 3 };
    dcp_coordinator *ranks[WORKERS];
    worker w[WORKERS];
    int i;
    begin();
    memset(w, 0, sizeof w);
    CHECK_OK_MESSAGE(dcp_thread_group_open(WORKERS, ranks, &err), err.message);
    for (i = 0; i < WORKERS; i++) {
        w[i].device = i % device_count;
        w[i].number = i;
        w[i].gpu = opened(w[i].device);
        w[i].ranks = ranks[i];
        CHECK_INT(pthread_create(&w[i].thread, NULL, one_rank, &w[i]), 0);
    }
    for (i = 0; i < WORKERS; i++) (void)pthread_join(w[i].thread, NULL);
    for (i = 0; i < WORKERS; i++) {
        CHECK_OK_MESSAGE(w[i].status, w[i].err.message);
        CHECK(!w[i].is_wrong);
        dcp_device_close(w[i].gpu);
        dcp_coordinator_close(ranks[i]);
    }
    end();
}

/* ---- saves in the background: the tensors get their values on a stream that is slow, and others as soon as begin has
 * returned */
enum { PARTS = 5, ROWS_APART = 300, ROW = 50, ROW_PITCH = 64 };
typedef struct background {
    const char *path;
    dcp_device *gpu;
    dcp_saver *saver;
    cudaStream_t work;
    dcp_tensor t[PARTS];                                /* large, strided, on the host, small, large again */
    size_t size[PARTS], span[PARTS];                    /* span: with the gaps */
    uint8_t *source[PARTS];                             /* pinned, so that copies from it are carried out late */
} background;
static void background_open(background *b, int device, size_t snapshot_bytes) {
    static const char *const names[PARTS] = { "large", "strided", "host", "small", "last" };
    int64_t shape[2] = { ROWS_APART, ROW };
    int i;
    memset(b, 0, sizeof *b);
    b->path = "x";
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaStreamCreateWithFlags(&b->work, cudaStreamNonBlocking));
    b->gpu = opened_with(device, snapshot_bytes);
    CHECK_OK_MESSAGE(dcp_saver_open(NULL, &b->saver, &err), err.message);
    for (i = 0; i < PARTS; i++) {
        b->size[i] = i == 0 ? MIB + 7 : i == 1 ? ROWS_APART * ROW * 4 : i == 2 ? 70 * KIB : i == 3 ? 11 : 600 * KIB + 1;
        b->span[i] = i == 1 ? ROWS_APART * ROW_PITCH * 4 : b->size[i];
        b->t[i] = i == 1 ? dcp_array(names[i], DCP_FP32, NULL, 2, shape) : dcp_bytes(names[i], NULL, b->size[i]);
        CUDA_OK(cudaHostAlloc((void **)&b->source[i], b->span[i], cudaHostAllocPortable));
        if (i == 2) { b->t[i].data = room(b->size[i]); continue; }
        CUDA_OK(cudaMalloc(&b->t[i].data, b->span[i]));
        b->t[i].device = b->gpu;
    }
    b->t[1].stride[0] = ROW_PITCH;
    b->t[1].stride[1] = 1;
    CUDA_OK(cudaSetDevice(0));
}
static void background_close(background *b) {
    int i;
    CHECK_OK_MESSAGE(dcp_saver_close(b->saver, &err), err.message);
    CUDA_OK(cudaStreamDestroy(b->work));
    for (i = 0; i < PARTS; i++) {
        CUDA_OK(cudaFreeHost(b->source[i]));
        if (i == 2) free(b->t[i].data);
        else CUDA_OK(cudaFree(b->t[i].data));
    }
    dcp_device_close(b->gpu);
}
static dcp_status background_begin_as_it_is(background *b) {
    dcp_save_desc save = saving(b->path, b->t, PARTS);
    save.io.memory_budget = MIB;
    return dcp_save_begin(b->saver, &save, &err);
}
static void background_fill(background *b, uint64_t generation) {
    int i;
    CUDA_OK(cudaStreamSynchronize(b->work));
    CUDA_OK(cudaLaunchHostFunc(b->work, slow, (void *)(size_t)5));
    for (i = 0; i < PARTS; i++) {
        fill(b->source[i], b->span[i], generation * 10 + (uint64_t)i);
        if (i == 2) memcpy(b->t[i].data, b->source[i], b->size[i]);
        else CUDA_OK(cudaMemcpyAsync(b->t[i].data, b->source[i], b->span[i], cudaMemcpyHostToDevice, b->work));
    }
}
static dcp_status background_begin(background *b, uint64_t generation, int is_told) {
    dcp_status status;
    int i;
    background_fill(b, generation);
    if (is_told) CHECK_OK_MESSAGE(dcp_cuda_wait_stream(b->gpu, b->work, &err), err.message);
    status = background_begin_as_it_is(b);
    for (i = 0; i < PARTS; i++) {
        if (i == 2) memset(b->t[i].data, 0x66, b->size[i]);
#ifdef CUDA_STUB                        /* a kernel that runs at once */
        else memset(cuda_stub_bytes(b->t[i].data), 0x66, b->span[i]);
#else
        else CUDA_OK(cudaMemsetAsync(b->t[i].data, 0x66, b->span[i], b->work));
#endif
    }
    return status;
}
static dcp_status background_wait(background *b) { return dcp_save_wait(b->saver, 60000, &err); }
static void background_check(const background *b, uint64_t generation) {
    dcp_load_desc load;
    dcp_tensor back[PARTS];
    uint8_t *expected = room(2 * MIB);
    size_t row;
    int i;
    memcpy(back, b->t, sizeof back);
    for (i = 0; i < PARTS; i++) {
        memset(back[i].stride, 0, sizeof back[i].stride);
        back[i].device = NULL;
        back[i].data = room(b->size[i]);
    }
    load = loading(b->path, back, PARTS);
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    for (i = 0; i < PARTS; i++) {
        fill(expected, b->span[i], generation * 10 + (uint64_t)i);
        for (row = 0; i == 1 && row < ROWS_APART; row++)
            memmove(expected + row * ROW * 4, expected + row * ROW_PITCH * 4, ROW * 4);
        if (memcmp(back[i].data, expected, b->size[i]) != 0)
            test_fail(__FILE__, __LINE__, back[i].name, " is not what it was when begin was called");
        free(back[i].data);
    }
    free(expected);
}
static const size_t no_own = 0, some_own = 700 * KIB, all_own = 16 * MIB;
static void several_in_the_background(int device, size_t snapshot_bytes) {
    const int saves = test_times(6);
    background b;
    int i;
#ifdef CUDA_STUB
    long own = 0, pinned = 0;
    size_t before;
#endif
    begin();
    background_open(&b, device, snapshot_bytes);
#ifdef CUDA_STUB
    before = cuda_stub_alive().device_bytes;
#endif
    for (i = 1; i <= saves; i++) {
        CHECK_OK_MESSAGE(background_begin(&b, (uint64_t)i, snapshot_bytes != all_own), err.message);
        CHECK_OK_MESSAGE(background_wait(&b), err.message);
        background_check(&b, (uint64_t)i);
#ifdef CUDA_STUB
        if (i > 1) CHECK_INT(cuda_stub_calls("cudaMalloc"), own);
        if (i > 2 && DCP_CUDA_KEEP > 0) CHECK_INT(cuda_stub_calls("cudaHostAlloc"), pinned);
        own = cuda_stub_calls("cudaMalloc");
        pinned = cuda_stub_calls("cudaHostAlloc");
        CHECK((cuda_stub_alive().device_bytes > before) == (snapshot_bytes > 0) && cuda_stub_alive().device_bytes -
              before <= snapshot_bytes);
#endif
    }
    background_close(&b);
    end();
}
TEST(in_the_background_through_pinned_memory) { several_in_the_background(0, no_own); }
TEST(in_the_background_through_memory_of_the_device) { several_in_the_background(0, all_own); }
TEST(in_the_background_through_both) { several_in_the_background(device_count > 1, some_own); }
/* What the program does on its device after begin has returned does not concern the save, told or not. */
static int may_go_on;
static void CUDART_CB until_told(void *user) {
    (void)user;
    while (!__atomic_load_n(&may_go_on, __ATOMIC_ACQUIRE)) slow((void *)(size_t)1);
}
TEST(the_background_does_not_wait_for_the_program) {
    dcp_status status;
    background b;
    int is_told;
    for (is_told = 0; is_told < 2; is_told++) {
        begin();
        background_open(&b, 0, all_own);
        CHECK_OK_MESSAGE(background_begin(&b, 1, is_told), err.message);
        __atomic_store_n(&may_go_on, 0, __ATOMIC_RELEASE);
        CUDA_OK(cudaLaunchHostFunc(b.work, until_told, NULL));
        status = dcp_save_wait(b.saver, 10000, &err);
        __atomic_store_n(&may_go_on, 1, __ATOMIC_RELEASE);
        CHECK_OK(status);
        background_check(&b, 1);
        background_close(&b);
        end();
    }
}
/* A save while another one's copy comes from the device in the background: it has work of its own to wait for. */
TEST(a_save_beside_one_in_the_background_is_ordered_too) {
    const size_t size = 300 * KIB;
    uint8_t *bytes = filled(size, 1), *host = room(size);
    dcp_tensor t;
    void *memory;
    background b;
    int i = 0;
    begin();
    background_open(&b, 0, all_own);
    memory = on_device(0, bytes, size);
    t = dcp_bytes("a", memory, size);
    t.device = b.gpu;
    CHECK_OK_MESSAGE(background_begin(&b, 1, 0), err.message);
#ifdef CUDA_STUB
    cuda_stub_delay(100000);
    {                                                   /* until the first bytes are on their way to the host */
        const long calls = cuda_stub_calls("cudaMemcpyAsync");
        for (i = 0; i < 5000 && cuda_stub_calls("cudaMemcpyAsync") == calls; i++) slow((void *)(size_t)1);
    }
#endif
    CUDA_OK(cudaLaunchHostFunc(b.work, slow, (void *)(size_t)900));
    CUDA_OK(cudaMemsetAsync(memory, 0x5A, size, b.work));
    {
        dcp_save_desc save = saving("y", &t, 1);
        dcp_load_desc load = loading("y", &t, 1);
        CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
#ifdef CUDA_STUB
        cuda_stub_delay(100);
#endif
        CHECK_OK_MESSAGE(background_wait(&b), err.message);
        t.data = host;
        t.device = NULL;
        CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    }
    memset(bytes, 0x5A, size);
    CHECK(i < 5000 && memcmp(host, bytes, size) == 0);
    background_check(&b, 1);
    CUDA_OK(cudaFree(memory));
    background_close(&b);
    free(bytes);
    free(host);
    end();
}
TEST(two_savers_of_one_device) {
    dcp_saver *savers[2];
    background b;
    int i, round;
    begin();
    background_open(&b, 0, all_own);
    savers[0] = b.saver;
    CHECK_OK_MESSAGE(dcp_saver_open(NULL, &savers[1], &err), err.message);
    for (round = 0; round < 2; round++) {
#ifdef CUDA_STUB
        cuda_stub_delay(5000);                          /* so that both are under way */
#endif
        for (i = 0; i < 2; i++) {
            b.path = i ? "y" : "x";
            b.saver = savers[i];
            CHECK_OK_MESSAGE(background_begin(&b, (uint64_t)(2 * round + i), 1), err.message);
        }
        for (i = 0; i < 2; i++) CHECK_OK_MESSAGE(dcp_save_wait(savers[i], 60000, &err), err.message);
        for (i = 0; i < 2; i++) {
            b.path = i ? "y" : "x";
            background_check(&b, (uint64_t)(2 * round + i));
        }
    }
    CHECK_OK_MESSAGE(dcp_saver_close(savers[0], &err), err.message);
    background_close(&b);
    end();
}
TEST(cancelled_in_the_background) {
    background b;
    int i, cancelled = 0;
    begin();
    background_open(&b, 0, some_own);
    for (i = 0; i < 8; i++) {
        dcp_status status;
        CHECK_OK_MESSAGE(background_begin(&b, 3, 1), err.message);
        slow((void *)(size_t)i);
        dcp_save_cancel(b.saver);
        status = background_wait(&b);
        CHECK(status == DCP_E_CANCELLED || status == DCP_OK);
        cancelled += status == DCP_E_CANCELLED;
    }
    CHECK(cancelled > 0);
    CHECK_OK_MESSAGE(background_begin(&b, 4, 1), err.message);
    CHECK_OK_MESSAGE(background_wait(&b), err.message);
    background_check(&b, 4);
    background_close(&b);
    end();
}

#ifdef CUDA_STUB
/* ---- errors by schedule */
TEST(no_driver_no_device) {
    dcp_device *gpu;
    begin();
    cuda_stub_driver(cudaErrorInsufficientDriver);
    CHECK_FAILS(dcp_cuda_open(0, &gpu, &err), DCP_E_DEVICE,
                "CUDA driver version is insufficient for CUDA runtime version");
    CHECK(strstr(err.message, "install or update") && gpu == NULL);
    cuda_stub_driver(cudaSuccess);
    cuda_stub_devices(0);
    CHECK_FAILS(dcp_cuda_open(0, &gpu, &err), DCP_E_DEVICE, "no CUDA-capable device is detected");
    cuda_stub_devices(1);
    CHECK_FAILS(dcp_cuda_open(1, &gpu, &err), DCP_E_DEVICE, "invalid device ordinal");
    end();
}
TEST(open_fails_at_each_call) {
    static const char *const calls[] = { "cudaGetDeviceCount", "cudaGetDevice", "cudaGetDriverEntryPointByVersion",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cudaStreamCreateWithFlags", "cudaDeviceGetAttribute" };
    size_t c;
    int nth;
    for (c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (nth = 1; nth <= 2; nth++) {
            dcp_device *gpu;
            dcp_status status;
            begin();
            cuda_stub_fail(calls[c], nth, cudaErrorMemoryAllocation, 0);
            status = dcp_cuda_open(1, &gpu, &err);
            if (status) {
                CHECK_STR(dcp_status_name(status), "DCP_E_DEVICE");
                CHECK(strstr(err.message, "out of memory (cudaErrorMemoryAllocation)") && gpu == NULL);
            }
            CHECK(status || nth == 2);
            CHECK_INT(cudaGetLastError(), cudaSuccess);
            dcp_device_close(gpu);
            CHECK_INT(cuda_stub_alive().streams, 0);
            end();
        }
    }
}
static char logged[700];
static void log_warning(void *user, dcp_log_level level, const char *message) {
    (void)user;
    if (level == DCP_LOG_WARNING) (void)snprintf(logged, sizeof logged, "%s", message);
}
/* Each call of a save and a load fails once, in turn: the error is told, nothing is left behind, and the next save and
 * load succeed. */
TEST(each_call_fails_in_saves_and_loads) {
    static const char *const calls[] = { "cudaGetDevice", "cuCtxPushCurrent", "cudaPointerGetAttributes",
        "cudaEventCreateWithFlags", "cudaDeviceSynchronize",
        "cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaEventRecord", "cudaEventSynchronize", "cudaHostAlloc" };
    const size_t size = 2 * MIB + 9;
    uint8_t *bytes = filled(size, 1);
    int64_t shape[2] = { 500, 1000 };
    size_t c;
    const int every = test_is_sanitized() || test_times(10) < 10 ? 3 : 1;
    int nth, failures = 0;
    for (c = 0; c < sizeof calls / sizeof *calls; c++) {
        for (nth = 1; nth <= 7; nth += every) {
            dcp_tensor t[2];
            dcp_device *gpu;
            dcp_status status;
            dcp_save_desc save;
            dcp_load_desc load;
            begin();
            cuda_stub_delay(50);
            gpu = opened(1);
            t[0] = dcp_bytes("a", on_device(1, bytes, size), size);
            t[1] = dcp_array("b", DCP_FP32, on_device(1, bytes, size), 2, shape);
            t[1].stride[0] = 1040;
            t[1].stride[1] = 1;
            t[0].device = t[1].device = gpu;
            logged[0] = '\0';
            save = saving("x", t, 2);
            save.io.memory_budget = MIB;
            save.io.log = log_warning;
            cuda_stub_fail(calls[c], nth, cudaErrorMemoryAllocation, 0);
            status = dcp_save(&save, &err);
            cuda_stub_fail("none", 1, cudaSuccess, 0);
            failures += status != DCP_OK;
            if (status) CHECK_STR(dcp_status_name(status), "DCP_E_DEVICE");
            if (status) CHECK(strstr(err.message, "out of memory (cudaErrorMemoryAllocation)"));
            if (strcmp(calls[c], "cudaHostAlloc") == 0) CHECK(status == DCP_OK);
            CHECK_INT(cudaGetLastError(), cudaSuccess);
            CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
            load = loading("x", t, 2);
            load.io.memory_budget = MIB;
            load.io.log = log_warning;
            cuda_stub_fail(calls[c], nth, cudaErrorLaunchFailure, 0);
            status = dcp_load(&load, &err);
            cuda_stub_fail("none", 1, cudaSuccess, 0);
            failures += status != DCP_OK;
            if (status) CHECK_STR(dcp_status_name(status), "DCP_E_DEVICE");
            if (status) CHECK(strstr(err.message, "GPU 1, cu"));
            CHECK_INT(cudaGetLastError(), cudaSuccess);
            CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
            CHECK_ON_DEVICE(t[0].data, bytes, size);
            CUDA_OK(cudaFree(t[0].data));
            CUDA_OK(cudaFree(t[1].data));
            dcp_device_close(gpu);
            end();
        }
    }
    CHECK(failures > 40 / every);
    free(bytes);
}
/* Copies slower than everything else: no buffer is used anew before its copy has ended, nor freed, though what follows
 * could not be begun. */
TEST(copies_that_take_long) {
    const size_t size = 2 * MIB + 9;
    uint8_t *bytes = filled(size, 1), *nothing = room(size);
    dcp_device *gpu;
    dcp_save_desc save;
    dcp_load_desc load;
    dcp_tensor t;
    begin();
    cuda_stub_delay(8000);
    gpu = opened(0);
    t = dcp_bytes("a", on_device(0, bytes, size), size);
    t.device = gpu;
    save_all(&t, 1, MIB);
    CUDA_OK(cudaMemcpy(t.data, nothing, size, cudaMemcpyHostToDevice));
    load = loading("x", &t, 1);
    load.io.memory_budget = MIB;
    load.io.threads = 1;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    CHECK_ON_DEVICE(t.data, bytes, size);
    save = saving("y", &t, 1);
    save.io.memory_budget = MIB;
    cuda_stub_fail("cudaPointerGetAttributes", 3, cudaErrorMemoryAllocation, 0);
    CHECK_FAILS(dcp_save(&save, &err), DCP_E_DEVICE, "cudaPointerGetAttributes");
    CHECK_STR(cuda_stub_violation(), "");
    cuda_stub_fail("cudaPointerGetAttributes", 3, cudaErrorMemoryAllocation, 0);
    CHECK_FAILS(dcp_load(&load, &err), DCP_E_DEVICE, "cudaPointerGetAttributes");
    CUDA_OK(cudaFree(t.data));
    dcp_device_close(gpu);
    free(bytes);
    free(nothing);
    end();
}
TEST(without_pinned_memory_it_goes_slowly_and_says_so) {
    const size_t size = 5 * MIB;
    uint8_t *bytes = filled(size, 1);
    dcp_device *gpu;
    dcp_save_desc save;
    dcp_tensor t;
    void *memory;
    begin();
    gpu = opened(0);
    memory = on_device(0, bytes, size);
    t = dcp_bytes("a", memory, size);
    t.device = gpu;
    save = saving("x", &t, 1);
    save.io.log = log_warning;
    logged[0] = '\0';
    cuda_stub_fail("cudaHostAlloc", 1, cudaErrorLaunchFailure, 0);
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    CHECK(strstr(logged, "ordinary memory") && strstr(logged, "cudaHostAlloc"));
    t.device = NULL;
    t.data = room(size);
    load_all(&t, 1, 0);
    CHECK(memcmp(t.data, bytes, size) == 0);
    free(t.data);
    CUDA_OK(cudaFree(memory));
    dcp_device_close(gpu);
    free(bytes);
    end();
}
/* Each call of a save in the background fails once, in begin or later. */
TEST(each_call_fails_in_the_background) {
    static const char *const calls[] = { "cudaPointerGetAttributes", "cudaEventCreateWithFlags",
                                         "cudaDeviceSynchronize", "cudaMemcpyAsync", "cudaMemcpy2DAsync",
                                         "cudaEventRecord", "cudaEventSynchronize", "cudaMalloc", "cudaHostAlloc" };
    const int every = test_is_sanitized() ? 5 : 2;
    size_t c;
    int nth, failures = 0, later = 0;
    background b;
    begin();
    cuda_stub_delay(50);
    for (c = 0; c < sizeof calls / sizeof *calls; c++) {
        /* other memory does */
        const int is_memory = strcmp(calls[c], "cudaMalloc") == 0 || strcmp(calls[c], "cudaHostAlloc") == 0;
        for (nth = 1; nth <= (is_memory ? 1 : 11); nth += every) {
            dcp_status begun, status;
            background_open(&b, 1, all_own);
            background_fill(&b, 1);
            cuda_stub_fail(calls[c], nth, cudaErrorMemoryAllocation, 0);
            begun = background_begin_as_it_is(&b);
            status = begun == DCP_OK ? background_wait(&b) : begun;
            cuda_stub_fail("none", 1, cudaSuccess, 0);
            failures += status != DCP_OK;
            later += begun == DCP_OK && status != DCP_OK;
            if (status) CHECK_STR(dcp_status_name(status), "DCP_E_DEVICE");
            if (status) CHECK(strstr(err.message, "out of memory (cudaErrorMemoryAllocation)"));
            CHECK(!is_memory || status == DCP_OK);
            CHECK_INT(cudaGetLastError(), cudaSuccess);
            CHECK_OK_MESSAGE(background_begin(&b, 2, 0), err.message);
            CHECK_OK_MESSAGE(background_wait(&b), err.message);
            background_check(&b, 2);
            background_close(&b);
        }
    }
    CHECK(failures > 20 / every && later > 0);
    end();
}
TEST(without_memory_on_the_device_it_goes_to_the_host_and_says_so) {
    dcp_saver *other;
    dcp_save_desc save;
    size_t before;
    background b;
    begin();
    background_open(&b, 0, 2500 * KIB);                 /* enough for one saver */
    save = saving("x", b.t, PARTS);
    save.io.log = log_warning;
    before = cuda_stub_alive().device_bytes;
    cuda_stub_fail("cudaMalloc", 1, cudaErrorMemoryAllocation, 0);
    logged[0] = '\0';
    CHECK_OK_MESSAGE(dcp_save_begin(b.saver, &save, &err), err.message);
    CHECK_OK_MESSAGE(background_wait(&b), err.message);
    CHECK(strstr(logged, "host memory") && strstr(logged, "GPU 0, cudaMalloc"));
    CHECK_INT(cuda_stub_alive().device_bytes, before);
    CHECK_OK_MESSAGE(background_begin(&b, 5, 1), err.message);          /* tried again with the next save */
    CHECK_OK_MESSAGE(background_wait(&b), err.message);
    background_check(&b, 5);
    CHECK(cuda_stub_alive().device_bytes > before);
    CHECK_OK_MESSAGE(dcp_saver_open(NULL, &other, &err), err.message);
    logged[0] = '\0';
    CHECK_OK_MESSAGE(dcp_save_begin(other, &save, &err), err.message);
    CHECK_OK_MESSAGE(dcp_save_wait(other, -1, &err), err.message);
    CHECK(strstr(logged, "another saver"));
    CHECK_OK_MESSAGE(dcp_saver_close(other, &err), err.message);
    background_close(&b);
    end();
}
/* A kernel's bad access kills the context: every call fails from then on, saves end in an error, what was saved before
 * is intact. */
TEST(an_error_that_stays) {
    const size_t size = 9 * MIB;
    uint8_t *bytes = filled(size, 1), *host = room(size);
    int nth;
    for (nth = 1; nth <= 5; nth += 2) {
        dcp_device *gpu;
        dcp_save_desc save;
        dcp_load_desc load;
        dcp_tensor t;
        void *memory;
        begin();
        gpu = opened(0);
        memory = on_device(0, bytes, size);
        t = dcp_bytes("a", memory, size);
        t.device = gpu;
        save_all(&t, 1, MIB);
        cuda_stub_fail_async(nth, cudaErrorIllegalAddress);
        save = saving("x", &t, 1);
        save.io.memory_budget = MIB;
        CHECK_FAILS(dcp_save(&save, &err), DCP_E_DEVICE, "an illegal memory access was encountered");
        CHECK(strstr(err.message, "stays until the process is started anew"));
        CHECK_FAILS(dcp_save(&save, &err), DCP_E_DEVICE, "an illegal memory access was encountered");
        load = loading("x", &t, 1);
        CHECK_FAILS(dcp_load(&load, &err), DCP_E_DEVICE, "an illegal memory access was encountered");
        t.data = host;
        t.device = NULL;
        memset(host, 0xEE, size);
        load_all(&t, 1, 0);
        CHECK(memcmp(host, bytes, size) == 0);
        dcp_device_close(gpu);
        CHECK_STR(cuda_stub_violation(), "");
        cuda_stub_reset(1);                             /* frees what nobody can free any more */
        dcp_storage_close(files);
    }
    free(bytes);
    free(host);
}
TEST(an_error_that_stays_in_the_background) {
    int nth;
    for (nth = 2; nth <= 8; nth += 3) {                 /* of the copies on the device, and of those from there */
        dcp_status status;
        background b;
        begin();
        background_open(&b, 0, all_own);
        CHECK_OK_MESSAGE(background_begin(&b, 1, 1), err.message);
        CHECK_OK_MESSAGE(background_wait(&b), err.message);
        CUDA_OK(cudaStreamSynchronize(b.work));
        cuda_stub_fail_async(nth, cudaErrorIllegalAddress);
        status = background_begin_as_it_is(&b);
        if (!status) status = background_wait(&b);
        CHECK_STR(dcp_status_name(status), "DCP_E_DEVICE");
        CHECK(strstr(err.message, "an illegal memory access was encountered"));
        background_check(&b, 1);
        CHECK_OK_MESSAGE(dcp_saver_close(b.saver, &err), err.message);
        dcp_device_close(b.gpu);
        free(b.t[2].data);
        CHECK_STR(cuda_stub_violation(), "");
        cuda_stub_reset(1);
        dcp_storage_close(files);
    }
}
TEST(rows_further_apart_than_a_copy_can) {
    dcp_device *gpu;
    begin();
    cuda_stub_max_pitch(100);
    cuda_stub_delay(0);                                 /* as many copies as rows */
    gpu = opened(0);
    all_strides(gpu, 0);
    dcp_device_close(gpu);
    end();
}
/* The workers of a load never chose a device: theirs is 0 by default, where nobody in this process has a context. */
TEST(no_context_is_made_on_other_devices) {
    enum { COUNT = 9 };
    static char names[COUNT][16];
    const size_t size = 2 * MIB;
    uint8_t *bytes = filled(size, 7);
    dcp_device *gpu;
    dcp_tensor t[COUNT];
    dcp_load_desc load;
    int i;
    begin();
    cuda_stub_reset(1);
    CUDA_OK(cudaSetDevice(2));
    gpu = opened(2);
    for (i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%d", i);
        t[i] = dcp_bytes(names[i], on_device(2, bytes, size), size);
        t[i].device = gpu;
    }
    save_all(t, COUNT, 0);
    load = loading("x", t, COUNT);
    load.io.threads = 4;
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    CHECK(cuda_stub_has_context(2) && !cuda_stub_has_context(0) && !cuda_stub_has_context(1));
    for (i = 0; i < COUNT; i++) CUDA_OK(cudaFree(t[i].data));
    dcp_device_close(gpu);
    CHECK(!cuda_stub_has_context(0) && !cuda_stub_has_context(1));
    free(bytes);
    end();
}
/* The caller's own thread never chose a device either, and what it uses is one that is not the first. */
static void *memory_on_2(void *memory) {
    if (cudaSetDevice(2) != cudaSuccess || cudaMalloc((void **)memory, 1000) != cudaSuccess) abort();
    return NULL;
}
TEST(no_context_is_made_on_the_callers_device) {
    void *memory = NULL;
    dcp_save_desc save;
    dcp_load_desc load;
    pthread_t thread;
    dcp_device *gpu;
    dcp_tensor t;
    int now = -1;
    begin();
    cuda_stub_reset(1);
    CHECK_INT(pthread_create(&thread, NULL, memory_on_2, &memory), 0);
    (void)pthread_join(thread, NULL);
    gpu = opened_with(2, MIB);
    t = dcp_bytes("a", memory, 1000);
    t.device = gpu;
    save = saving("x", &t, 1);
    load = loading("x", &t, 1);
    CHECK_OK_MESSAGE(dcp_save(&save, &err), err.message);
    CHECK_OK_MESSAGE(dcp_cuda_wait_stream(gpu, NULL, &err), err.message);
    CHECK_OK_MESSAGE(dcp_load(&load, &err), err.message);
    dcp_device_close(gpu);
    CUDA_OK(cudaGetDevice(&now));
    CHECK_INT(now, 0);
    CHECK(cuda_stub_has_context(2) && !cuda_stub_has_context(0) && !cuda_stub_has_context(1));
    CUDA_OK(cudaFree(memory));
    end();
}
/* The stand-in itself: the host cannot touch a device's memory. */
TEST(the_host_cannot_touch_device_memory) {
    void *memory;
    int status = 0;
    pid_t child;
    begin();
    CUDA_OK(cudaMalloc(&memory, 100));
    child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)close(2);
        *(volatile char *)memory = 1;
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CUDA_OK(cudaFree(memory));
    end();
}
#endif

int main(void) {
    if (cudaGetDeviceCount(&device_count) != cudaSuccess || device_count == 0) {
        puts("skipped cuda_test: no GPU can be reached from here (nvidia-smi lists them)\n"
             "0 passed, 0 failed, 1 skipped");
        return 0;
    }
    RUN(tensors_come_from_the_device_and_go_back);
    RUN(tensors_of_host_and_device_in_one_save);
    RUN(strided_tensors);
    RUN(boxes_into_strided_tensors);
    RUN(tensors_of_several_devices_in_one_save);
    RUN(copies_wait_for_the_stream_that_they_are_told);
    RUN(copies_wait_for_the_default_stream);
    RUN(copies_wait_for_the_device_when_they_are_told_nothing);
    RUN(copies_of_another_device_wait_too);
    RUN(a_stream_is_waited_for_once);
    RUN(a_stream_is_waited_for_by_the_thread_that_said_so);
    RUN(a_stream_that_is_capturing_is_refused);
    RUN(no_worker_overtakes_the_synchronisation);
    RUN(managed_and_pinned_memory);
    RUN(memory_that_is_not_the_devices_is_refused);
    RUN(wrong_arguments);
    RUN(damaged_bytes_do_not_reach_the_device);
    RUN(cancelled_with_copies_under_way);
    RUN(two_hundred_saves_take_no_more_than_one);
    RUN(several_threads_use_one_device_and_another);
    RUN(ranks_with_a_device_each);
    RUN(in_the_background_through_pinned_memory);
    RUN(in_the_background_through_memory_of_the_device);
    RUN(in_the_background_through_both);
    RUN(the_background_does_not_wait_for_the_program);
    RUN(a_save_beside_one_in_the_background_is_ordered_too);
    RUN(two_savers_of_one_device);
    RUN(cancelled_in_the_background);
#ifdef CUDA_STUB
    RUN(each_call_fails_in_the_background);
    RUN(without_memory_on_the_device_it_goes_to_the_host_and_says_so);
    RUN(an_error_that_stays_in_the_background);
    RUN(no_driver_no_device);
    RUN(open_fails_at_each_call);
    RUN(each_call_fails_in_saves_and_loads);
    RUN(copies_that_take_long);
    RUN(without_pinned_memory_it_goes_slowly_and_says_so);
    RUN(an_error_that_stays);
    RUN(rows_further_apart_than_a_copy_can);
    RUN(no_context_is_made_on_other_devices);
    RUN(no_context_is_made_on_the_callers_device);
    RUN(the_host_cannot_touch_device_memory);
#endif
    return test_finish();
}
