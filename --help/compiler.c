/* =====================================================================================================================
 * >>compiler    What differs between compilers, each thing once. System calls and threads differ in >>platform, nowhere
 *               else.
 * ================================================================================================================== */
#ifndef DCP_NO_THREADS
#define DCP_NO_THREADS 0
#endif
#ifndef DCP_NO_SIMD
#define DCP_NO_SIMD 0
#endif

#if defined(DCP_MALLOC) && defined(DCP_REALLOC) && defined(DCP_FREE)
#elif !defined(DCP_MALLOC) && !defined(DCP_REALLOC) && !defined(DCP_FREE)
#define DCP_MALLOC(size) malloc(size)
#define DCP_REALLOC(memory, size) realloc(memory, size)
#define DCP_FREE(memory) free(memory)
#else
#error "dcp.h: define all three of DCP_MALLOC, DCP_REALLOC and DCP_FREE, or none of them"
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
#define DCPI_GNUC 1
#else
#define DCPI_GNUC 0
#endif

#if !DCP_NO_SIMD && (DCPI_GNUC || defined(_MSC_VER)) && (defined(__x86_64__) || defined(__i386__) || defined(_M_X64))
#define DCPI_X86 1
#else
#define DCPI_X86 0
#endif
#if !DCP_NO_SIMD && DCPI_GNUC && defined(__aarch64__) && !defined(__AARCH64EB__)
#define DCPI_ARM64 1
#else
#define DCPI_ARM64 0
#endif

#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__)
#define DCPI_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#else
#define DCPI_BIG_ENDIAN 0           /* every compiler that lacks the macro (MSVC, tcc) targets little-endian machines */
#endif

#if DCPI_GNUC && defined(__MINGW32__)
#define DCPI_PRINTF(text, first) __attribute__((__format__(gnu_printf, text, first)))
#elif DCPI_GNUC
#define DCPI_PRINTF(text, first) __attribute__((__format__(printf, text, first)))
#else
#define DCPI_PRINTF(text, first)
#endif

#define DCPI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DCPI_KIB ((size_t)1024)
#define DCPI_MIB ((size_t)1024 * 1024)

#if DCPI_X86 && DCPI_GNUC
#include <cpuid.h>
#include <immintrin.h>
#elif DCPI_X86
#include <immintrin.h>
#include <intrin.h>
#endif
#if DCPI_ARM64
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* A flag that another thread or a signal handler may set. */
static int dcpi_flag_get(const volatile int *flag) {
#if DCPI_GNUC
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#else
    return *flag;
#endif
}
static void dcpi_flag_set(volatile int *flag, int value) {
#if DCPI_GNUC
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
#else
    *flag = value;
#endif
}

