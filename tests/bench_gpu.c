/* bench_gpu.c - what staging costs on a real GPU, beside what the machine can do (make bench-gpu):
 *
 *     build/bench_gpu [GIB [DIRECTORY]]       default: 8 GiB; DIRECTORY, where saves go: $TMPDIR; memory (/dev/shm)
 *     shows staging without a disk
 *
 * Each line is a rate and its ratio to plain copies into pinned memory. Run twice; the first run warms the driver
 * up. */
#define DCP_IMPLEMENTATION
#define DCP_CUDA
#include "dcp.h"

enum { TENSORS = 8 };
static const size_t chunk = (size_t)4 << 20;
static double pinned_rate;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void must_cuda(cudaError_t code, const char *what) {
    if (code == cudaSuccess) return;
    (void)fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}
static void must(dcp_status status, const dcp_error *err) {
    if (status == DCP_OK) return;
    (void)fprintf(stderr, "%s\n", err->message);
    exit(status == DCP_E_DEVICE ? 3 : 1);
}
static void line(const char *what, double seconds, size_t bytes) {
    const double rate = (double)bytes / seconds / 1e9;
    printf("%-52s %8.3f s %8.2f GB/s", what, seconds, rate);
    if (pinned_rate > 0) printf("   %5.2f of pinned", rate / pinned_rate);
    printf("\n");
    (void)fflush(stdout);
}
/* Plain copies of all tensors into host memory that is as large as one of them. */
static double plain_copies(dcp_tensor *t, size_t size, int is_pinned, int is_out) {
    void *host = NULL;
    double start;
    int i;
    if (is_pinned) must_cuda(cudaHostAlloc(&host, size, cudaHostAllocPortable), "cudaHostAlloc");
    else host = malloc(size);
    if (!host) exit(1);
    memset(host, 1, size);
    start = now();
    for (i = 0; i < TENSORS; i++) {
        if (is_out) must_cuda(cudaMemcpyAsync(host, t[i].data, size, cudaMemcpyDeviceToHost, NULL), "cudaMemcpyAsync");
        else must_cuda(cudaMemcpyAsync(t[i].data, host, size, cudaMemcpyHostToDevice, NULL), "cudaMemcpyAsync");
    }
    must_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    start = now() - start;
    if (is_pinned) must_cuda(cudaFreeHost(host), "cudaFreeHost");
    else free(host);
    return start;
}
/* What dcp.h asks of the device, without hashing and writing: chunks into a ring of buffers, each begun before the one
 * before is waited for. */
static double staged_copies(dcp_device *gpu, const dcp_tensor *t, size_t size, int is_out) {
    uint64_t tickets[2] = { 0, 0 };
    void *memory;
    dcp_error err;
    double start;
    size_t at, n = 0, i;
    must(gpu->allocate_host(gpu->context, 2 * chunk, &memory, &err), &err);
    start = now();
    for (i = 0; i < TENSORS; i++) {
        for (at = 0; at < size; at += chunk, n++) {
            char *host = (char *)memory + n % 2 * chunk;
            const size_t bytes = size - at < chunk ? size - at : chunk;
            if (n >= 2) must(gpu->wait(gpu->context, tickets[n % 2], &err), &err);
            if (is_out) must(gpu->copy_out(gpu->context, host, &t[i], (int64_t)at, bytes, &tickets[n % 2], &err), &err);
            else must(gpu->copy_in(gpu->context, &t[i], (int64_t)at, host, bytes, &tickets[n % 2], &err), &err);
        }
    }
    for (i = n < 2 ? 0 : n - 2; i < n; i++) must(gpu->wait(gpu->context, tickets[i % 2], &err), &err);
    start = now() - start;
    gpu->free_host(gpu->context, memory);
    return start;
}
static double saved(dcp_tensor *t, const char *path) {
    dcp_save_desc save = DCP_ZERO;
    dcp_error err;
    double start = now();
    save.path = path;
    save.tensors = t;
    save.tensor_count = TENSORS;
    save.overwrite = 1;
    must(dcp_save(&save, &err), &err);
    return now() - start;
}
/* What the program loses to a save in the background. The first one makes the saver's memory; the median of the three
 * after it is returned. */
static double stalled(dcp_tensor *t, const char *path) {
    dcp_save_desc save = DCP_ZERO;
    dcp_saver *saver;
    dcp_error err;
    double seconds[4], swap;
    int i, k;
    save.path = path;
    save.tensors = t;
    save.tensor_count = TENSORS;
    save.overwrite = 1;
    must(dcp_saver_open(NULL, &saver, &err), &err);
    for (i = 0; i < 4; i++) {
        must_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        seconds[i] = now();
        must(dcp_save_begin(saver, &save, &err), &err);
        seconds[i] = now() - seconds[i];
        must(dcp_save_wait(saver, -1, &err), &err);
    }
    for (i = 1; i < 4; i++) for (k = i + 1; k < 4; k++) if (seconds[k] < seconds[i]) {
        swap = seconds[i];
        seconds[i] = seconds[k];
        seconds[k] = swap;
    }
    must(dcp_saver_close(saver, &err), &err);
    return seconds[2];
}
/* The same on a device that may keep the snapshot, as far as it has the memory. */
static double stalled_on_device(dcp_tensor *t, const char *path, size_t bytes) {
    dcp_cuda_desc desc = { 0, 0 };
    dcp_device *gpu, *before = (dcp_device *)(uintptr_t)t[0].device;
    dcp_error err;
    double seconds;
    int i;
    desc.snapshot_bytes = bytes + 64 * TENSORS;
    must(dcp_cuda_open_with(&desc, &gpu, &err), &err);
    for (i = 0; i < TENSORS; i++) t[i].device = gpu;
    seconds = stalled(t, path);
    for (i = 0; i < TENSORS; i++) t[i].device = before;
    dcp_device_close(gpu);
    return seconds;
}
static double loaded(dcp_tensor *t, const char *path) {
    dcp_load_desc load = DCP_ZERO;
    dcp_error err;
    double start = now();
    load.path = path;
    load.tensors = t;
    load.tensor_count = TENSORS;
    must(dcp_load(&load, &err), &err);
    return now() - start;
}
int main(int argc, char **argv) {
    const double gib = argc > 1 ? atof(argv[1]) : 8;
    const char *temporary = getenv("TMPDIR"), *directory = argc > 2 ? argv[2] : temporary && *temporary ? temporary
                            : ".";
    const size_t size = (size_t)(gib * 1073741824.0) / TENSORS / 512 * 512, bytes = size * TENSORS;
    static const char *const names[TENSORS] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    dcp_tensor t[TENSORS], host[TENSORS];
    char path[1000];
    dcp_device *gpu;
    dcp_error err;
    int i;
    if (size == 0) { (void)fprintf(stderr, "bench_gpu [GIB [DIRECTORY]]\n"); return 2; }
    must(dcp_cuda_open(0, &gpu, &err), &err);
    for (i = 0; i < TENSORS; i++) {
        t[i] = dcp_bytes(names[i], NULL, size);
        t[i].device = gpu;
        must_cuda(cudaMalloc(&t[i].data, size), "cudaMalloc");
        must_cuda(cudaMemsetAsync(t[i].data, i + 1, size, NULL), "cudaMemsetAsync");
    }
    (void)snprintf(path, sizeof path, "%s/dcp_bench_gpu", directory);
    printf("%.2f GiB in %d tensors on GPU 0; files in %s\n", (double)bytes / 1073741824.0, (int)TENSORS, directory);
    (void)plain_copies(t, size, 1, 1);
    pinned_rate = (double)bytes / plain_copies(t, size, 1, 1) / 1e9;
    line("device to host, plain copies, pinned", (double)bytes / pinned_rate / 1e9, bytes);
    line("device to host, plain copies, pageable", plain_copies(t, size, 0, 1), bytes);
    line("device to host, dcp_device", staged_copies(gpu, t, size, 1), bytes);
    line("host to device, plain copies, pinned", plain_copies(t, size, 1, 0), bytes);
    line("host to device, dcp_device", staged_copies(gpu, t, size, 0), bytes);
    line("dcp_save from the device (the stall of a plain save)", saved(t, path), bytes);
    line("the same again", saved(t, path), bytes);
    line("dcp_load to the device", loaded(t, path), bytes);
    line("dcp_save_begin, to pinned memory (goal: 1 / 1.1)", stalled(t, path), bytes);
    line("dcp_save_begin, to memory of the device", stalled_on_device(t, path, bytes), bytes);
    for (i = 0; i < TENSORS; i++) {
        host[i] = dcp_bytes(names[i], malloc(size), size);
        if (!host[i].data) return 1;
        memset(host[i].data, i + 1, size);
    }
    line("dcp_save of the same from host memory", saved(host, path), bytes);
    for (i = 0; i < TENSORS; i++) free(host[i].data);
    for (i = 0; i < TENSORS; i++) must_cuda(cudaFree(t[i].data), "cudaFree");
    {
        dcp_remove_desc gone = DCP_ZERO;
        gone.path = path;
        (void)dcp_remove(&gone, NULL, &err);
    }
    dcp_device_close(gpu);
    return 0;
}
