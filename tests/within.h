/* within.h - an io with nothing but a timeout, for the collectives: dcp_barrier(c, WITHIN(1000), &err). After dcp.h. */
#ifndef DCP_TEST_WITHIN_H
#define DCP_TEST_WITHIN_H

#ifdef __cplusplus
struct within_io {
    dcp_io io;
    explicit within_io(int timeout_ms) : io() { io.timeout_ms = timeout_ms; }
    const dcp_io *get() const { return &io; }
};
#define WITHIN(ms) (within_io(ms).get())
#else
#define WITHIN(ms) (&(const dcp_io){ .timeout_ms = (ms) })
#endif

#endif
