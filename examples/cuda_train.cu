/* cuda_train.cu - a small network trained on a GPU, saved while it trains; killed and started again, it ends with the
 * same bits.
 *
 *     nvcc -O2 cuda_train.cu -I.. -o cuda_train -Xcompiler -pthread
 *     ./cuda_train run 2000                   # trains to step 2000, a checkpoint every 100 steps
 *     ./cuda_train twice 2000 1234            # kills itself after step 1234
 *     ./cuda_train twice 2000                 # resumes from step 1200: its last line is that of the first run
 *
 * Every sum runs in a fixed order in one thread, without atomic additions, and the samples depend on the step alone:
 * that is what makes runs identical. Weights and momentum stay on the GPU; dcp_cuda.h copies them out while they are
 * hashed and written. */
#define DCP_IMPLEMENTATION
#define DCP_CUDA
#include "dcp.h"
#include <signal.h>

enum { HIDDEN = 256, BATCH = 512, EVERY = 100 };
enum { W1 = 0, B1 = 2 * HIDDEN, W2 = 3 * HIDDEN, B2 = 4 * HIDDEN, PARAMETERS = 4 * HIDDEN + 1 };

__device__ static float noise(unsigned a, unsigned b) {                 /* from -1 to 1, the same in each run */
    unsigned x = a * 0x9e3779b9u ^ b * 0x85ebca6bu;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return (float)((x ^ x >> 16) >> 8) / 8388608.0f - 1.0f;
}
__global__ static void begin(float *p, float *momentum) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PARAMETERS) return;
    p[i] = noise(i, 12345) * (i < B1 ? 1.0f : 0.1f);
    momentum[i] = 0;
}
/* A thread for each sample: its inputs x, its hidden values h, and the error of its output against sin(3 x0) x1. */
__global__ static void forward(const float *p, unsigned step, float *x, float *h, float *error) {
    unsigned b = blockIdx.x * blockDim.x + threadIdx.x;
    float y = p[B2];
    if (b >= BATCH) return;
    x[2 * b] = noise(step, 2 * b);
    x[2 * b + 1] = noise(step, 2 * b + 1);
    for (unsigned j = 0; j < HIDDEN; j++) {
        h[b * HIDDEN + j] = tanhf(p[W1 + j] * x[2 * b] + p[W1 + HIDDEN + j] * x[2 * b + 1] + p[B1 + j]);
        y += p[W2 + j] * h[b * HIDDEN + j];
    }
    error[b] = y - sinf(3 * x[2 * b]) * x[2 * b + 1];
}
/* A thread for each parameter: its gradient over the batch, in order. */
__global__ static void backward(const float *p, const float *x, const float *h, const float *error, float *gradient) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, j = i % HIDDEN;
    float sum = 0;
    if (i >= PARAMETERS) return;
    for (unsigned b = 0; b < BATCH; b++) {
        float hidden = h[b * HIDDEN + j], inner = error[b] * p[W2 + j] * (1 - hidden * hidden);
        sum += i < W1 + HIDDEN ? inner * x[2 * b] : i < B1 ? inner * x[2 * b + 1]
             : i < W2 ? inner : i < B2 ? error[b] * hidden : error[b];
    }
    gradient[i] = sum / BATCH;
}
__global__ static void update(float *p, float *momentum, const float *gradient) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PARAMETERS) return;
    momentum[i] = 0.9f * momentum[i] + gradient[i];
    p[i] -= 0.02f * momentum[i];
}

static void must(dcp_status status, const dcp_error *err) {
    if (status == DCP_OK) return;
    (void)fprintf(stderr, "%s\n", err->message);
    exit(1);
}
static void must(cudaError_t code) {
    if (code == cudaSuccess) return;
    (void)fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(code));
    exit(1);
}
static float *on_gpu(size_t count) {
    void *memory = NULL;
    must(cudaMalloc(&memory, count * sizeof(float)));
    return (float *)memory;
}

int main(int argc, char **argv) {
    const char *directory = argc > 1 ? argv[1] : "cuda_train_run";
    const int64_t last = argc > 2 ? atoll(argv[2]) : 1000, killed_at = argc > 3 ? atoll(argv[3]) : -1;
    const int blocks = (PARAMETERS + 255) / 256;
    int64_t step = 0, shape_w1[] = { 2, HIDDEN }, shape_b1[] = { HIDDEN }, shape_all[] = { PARAMETERS };
    dcp_device *gpu;
    dcp_error err;
    must(dcp_cuda_open(0, &gpu, &err), &err);
    float *p = on_gpu(PARAMETERS), *momentum = on_gpu(PARAMETERS), *gradient = on_gpu(PARAMETERS);
    float *x = on_gpu(2 * BATCH), *h = on_gpu(BATCH * HIDDEN), *error = on_gpu(BATCH), errors[BATCH], host[PARAMETERS];
    cudaStream_t work;
    must(cudaStreamCreate(&work));

    dcp_tensor tensors[6] = { dcp_array("w1", DCP_FP32, p + W1, 2, shape_w1),
                              dcp_array("b1", DCP_FP32, p + B1, 1, shape_b1),
                              dcp_array("w2", DCP_FP32, p + W2, 1, shape_b1), dcp_scalar("b2", DCP_FP32, p + B2),
                              dcp_array("momentum", DCP_FP32, momentum, 1, shape_all),
                              dcp_scalar("step", DCP_INT64, &step) };     /* host memory may be in the same save */
    for (int i = 0; i < 5; i++) tensors[i].device = gpu;

    char *newest = NULL;
    dcp_latest_desc latest = DCP_ZERO;
    latest.directory = directory;
    latest.io.log = dcp_log_stderr;
    dcp_status status = dcp_latest(&latest, &newest, &err);
    if (status == DCP_OK) {
        dcp_load_desc load = DCP_ZERO;
        load.path = newest; load.tensors = tensors; load.tensor_count = 6;
        load.io.log = dcp_log_stderr;
        must(dcp_load(&load, &err), &err);
        printf("resumed at step %lld\n", (long long)step);
    } else {
        if (status != DCP_E_NOT_FOUND) must(status, &err);             /* something is wrong: not a first start */
        begin<<<blocks, 256, 0, work>>>(p, momentum);
    }
    dcp_free(newest);

    while (step < last) {
        forward<<<BATCH / 256, 256, 0, work>>>(p, (unsigned)step, x, h, error);
        backward<<<blocks, 256, 0, work>>>(p, x, h, error, gradient);
        update<<<blocks, 256, 0, work>>>(p, momentum, gradient);
        must(cudaGetLastError());
        step++;
        if (step == killed_at) { must(cudaStreamSynchronize(work)); (void)raise(SIGKILL); }
        if (step % EVERY != 0 && step != last) continue;
        char path[1000];
        (void)snprintf(path, sizeof path, "%s/step_%lld", directory, (long long)step);
        dcp_save_desc save = DCP_ZERO;
        save.path = path; save.tensors = tensors; save.tensor_count = 6; save.overwrite = 1;
        save.io.log = dcp_log_stderr;
        must(dcp_cuda_wait_stream(gpu, work, &err), &err);         /* the copies wait for update(), the host does not */
        must(dcp_save(&save, &err), &err);
        float loss = 0;
        must(cudaMemcpy(errors, error, sizeof errors, cudaMemcpyDeviceToHost));
        for (int b = 0; b < BATCH; b++) loss += errors[b] * errors[b] / BATCH;
        if (step % 500 == 0) printf("step %lld, loss %.5f\n", (long long)step, loss);
    }
    uint8_t digest[32];
    must(cudaStreamSynchronize(work));
    must(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    dcp_sha256(host, sizeof host, digest);
    printf("parameters sha256 ");
    for (int i = 0; i < 32; i++) printf("%02x", digest[i]);
    printf("\n");
    float *all[] = { p, momentum, gradient, x, h, error };
    for (float *memory : all) must(cudaFree(memory));
    must(cudaStreamDestroy(work));
    dcp_device_close(gpu);
    return 0;
}
