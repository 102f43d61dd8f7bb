/* cuda_stub.h - what a test can tell the stand-in of cuda_stub.c, and ask it. */
#ifndef CUDA_STUB_H
#define CUDA_STUB_H
#include <cuda_runtime_api.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Before each test: all devices are there, nothing fails, nothing is counted. What a test left on streams is waited
 * for. */
void cuda_stub_reset(uint64_t seed);
void cuda_stub_devices(int count);                      /* 0 to 4; 3 after a reset */
void cuda_stub_driver(cudaError_t code);                /* what cudaGetDeviceCount says, without setting the number */
void cuda_stub_delay(unsigned microseconds);  /* each operation of a stream begins up to that late; 300 after a reset */
void cuda_stub_max_pitch(int bytes);
/* The nth next call of that name (1: the next) returns `code`; `stays`: and everything after it. */
void cuda_stub_fail(const char *call, int nth, cudaError_t code, int stays);
/* The nth next operation that a stream carries out fails, as a kernel's bad access does: known at the next
 * synchronisation, and it stays. */
void cuda_stub_fail_async(int nth, cudaError_t code);
long cuda_stub_calls(const char *call);                 /* since the reset */
/* Alive: streams, events, allocations of each kind, and the bytes of two of them. */
typedef struct cuda_stub_counts {
    int streams, events, device, pinned, managed;
    size_t device_bytes, pinned_bytes;
} cuda_stub_counts;
cuda_stub_counts cuda_stub_alive(void);
int cuda_stub_has_context(int device);                  /* whether any call has made one since the reset */
/* where its bytes are, for what runs as a kernel would; other memory is what it is */
void *cuda_stub_bytes(void *device_memory);
const char *cuda_stub_violation(void);     /* the first thing that CUDA does not allow and may not notice; "" is none */

#ifdef __cplusplus
}
#endif
#endif
