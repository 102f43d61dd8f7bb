/* npy.h - the head of a .npy file, versions 1.0 to 3.0, as numpy's format module describes it. */
#ifndef DCPTOOL_NPY_H
#define DCPTOOL_NPY_H
#include "dcptool.h"

enum { NPY_HEADER = 512 };
/* Magic, version 1.0, length as uint16, and a Python dict padded with spaces, so that the data starts at a multiple of
 * 64. Returns its bytes, or 0: numpy has no such type. */
size_t npy_make_header(char header[NPY_HEADER], dcp_dtype dtype, int ndim, const int64_t *shape);

typedef struct npy_header {
    dcp_dtype dtype;
    int is_swapped, is_fortran, ndim;                   /* the bytes of a number are not as this machine has them */
    int64_t shape[DCP_MAX_DIMS], data_at, data_size;    /* bytes */
} npy_header;
/* How many bytes the head has, from the first 12 of a file; 0: it is none. */
int64_t npy_header_size(const unsigned char *bytes);
/* DCP_E_FORMAT, or DCP_E_UNSUPPORTED: a type that a checkpoint cannot have. `name` is for the message. */
dcp_status npy_parse(const char *name, const unsigned char *bytes, int64_t size, npy_header *out, dcp_error *err);
/* Turns the bytes of each number around; each component of a complex number is one. */
void npy_swap(dcp_dtype dtype, unsigned char *data, int64_t size);
/* Files are little-endian, and memory is the machine's. */
void npy_little_endian(dcp_dtype dtype, unsigned char *data, int64_t size);
#endif
