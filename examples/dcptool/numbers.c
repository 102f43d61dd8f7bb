/* numbers.c - elements of tensors as numbers: a complex one is two of them. */
#include "dcptool.h"
#include <math.h>

int tool_numbers_each(dcp_dtype dtype) { return dtype == DCP_COMPLEX64 || dtype == DCP_COMPLEX128 ? 2 : 1; }

int64_t tool_numbers_in(dcp_dtype dtype, int64_t bytes) {
    const int bits = dcp_dtype_bits(dtype) / tool_numbers_each(dtype);
    return bits >= 8 ? bytes / (bits / 8) : bits ? bytes * (8 / bits) : 0;
}

/* ---- types of at most 8 bits are looked up ----------------------------------------------------------------------- */
/* A sign, an exponent and a fraction; the caller knows what is NaN or infinite. */
static double small_float(int code, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1, fraction = code & ((1 << fraction_bits) - 1);
    const int exponent = (code >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double size = exponent ? ldexp((double)(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits)
                                 : ldexp((double)fraction, 1 - bias - fraction_bits);
    return code >> (exponent_bits + fraction_bits) ? -size : size;
}

static double small_number(dcp_dtype dtype, int code) {
    switch (dtype) {
    case DCP_FP8_E4M3: return (code & 0x7F) == 0x7F ? (double)NAN : small_float(code, 4, 3);
    case DCP_FP8_E5M2:
        if ((code & 0x7C) != 0x7C) return small_float(code, 5, 2);
        return (code & 3) ? (double)NAN : code & 0x80 ? -(double)INFINITY : (double)INFINITY;
    case DCP_FP4_E2M1: return small_float(code & 15, 2, 1);
    case DCP_INT4: return (code & 15) < 8 ? code & 15 : (code & 15) - 16;
    case DCP_UINT4: return code & 15;
    case DCP_INT8: return code < 128 ? code : code - 256;
    default: return code;
    }
}

tool_decoder tool_decoder_of(dcp_dtype dtype) {
    tool_decoder d;
    int code;
    d.dtype = dtype;
    for (code = 0; code < 256; code++) d.table[code] = dcp_dtype_bits(dtype) <= 8 ? small_number(dtype, code) : 0;
    return d;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */
static double half_number(uint16_t half) {
    const uint32_t is_special = (half & 0x7C00) == 0x7C00;
    uint32_t bits = (uint32_t)(half & 0x7FFF) << 13;
    float size;
    if (is_special) bits |= 0x7F800000;
    memcpy(&size, &bits, sizeof size);
    if (!is_special) size *= 5.192296858534828e33f;     /* 2 to the 112th: the exponents are 112 apart */
    return half & 0x8000 ? -(double)size : (double)size;
}

static double bf16_number(uint16_t brain) {
    const uint32_t bits = (uint32_t)brain << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

#define CONVERT(type, expression) \
    for (i = 0; i < count; i++) { \
        type v; \
        memcpy(&v, data + (size_t)(at + i) * sizeof v, sizeof v); \
        out[i] = (double)(expression); \
    } \
    return

/* Numbers `at` to `at + count` of those that begin at data. */
void tool_numbers(const tool_decoder *d, const unsigned char *data, int64_t at, int64_t count, double *out) {
    int64_t i;
    switch (d->dtype) {
    case DCP_FP32: case DCP_COMPLEX64: CONVERT(float, v);
    case DCP_FP64: case DCP_COMPLEX128: CONVERT(double, v);
    case DCP_FP16: CONVERT(uint16_t, half_number(v));
    case DCP_BF16: CONVERT(uint16_t, bf16_number(v));
    case DCP_INT64: CONVERT(int64_t, v);
    case DCP_INT32: CONVERT(int32_t, v);
    case DCP_INT16: CONVERT(int16_t, v);
    case DCP_UINT64: CONVERT(uint64_t, v);
    case DCP_UINT32: CONVERT(uint32_t, v);
    case DCP_UINT16: CONVERT(uint16_t, v);
    case DCP_FP4_E2M1: case DCP_INT4: case DCP_UINT4:
        for (i = 0; i < count; i++) out[i] = d->table[(data[(at + i) / 2] >> ((at + i) % 2 * 4)) & 15];
        return;
    default: CONVERT(uint8_t, d->table[v]);
    }
}
