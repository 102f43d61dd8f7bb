/* =====================================================================================================================
 * >>config      Every limit and switch, in one place. A program may define any of them before it includes dcp.h with
 *               DCP_IMPLEMENTATION.
 *
 *   DCP_NO_THREADS 0|1    1: no threads at all; saves and loads run in the calling thread, nothing is linked but libc
 *                         While a storage call blocks, a rank shows no sign of life then: io.timeout_ms must be longer
 *                         than any such call (G6)
 *   DCP_NO_SIMD 0|1       1: portable C only
 *   DCP_MALLOC(size) DCP_REALLOC(memory, size) DCP_FREE(memory)     all three or none; thread-safe
 *   DCP_STATIC            public functions are static: a private copy in this file
 *   DCPDEF                linkage of the public functions, the same in all files. Not defined: extern, and hidden where
 *                         the compiler can (ELF, macOS), so that two shared libraries with a copy each do not get at
 *                         each other's. A shared library that offers them to others is compiled with -DDCPDEF=extern,
 *                         and what uses it too
 *   DCP_NO_LINK_CHECK 0|1 1, in every file that needs the types alone: it links without an implementation. Otherwise a
 *                         file that includes dcp.h needs one of the same version in the program, even if it calls
 *                         nothing ("undefined reference to dcp_abi_...")
 * ================================================================================================================== */
#if !defined(__cplusplus) && defined(__STRICT_ANSI__) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "dcp.h needs C99: compile the file that defines DCP_IMPLEMENTATION with -std=c99 (or gnu89, or newer)"
#endif
#ifndef DCP_LIMIT_DEPTH
#define DCP_LIMIT_DEPTH 64              /* nesting of JSON */
#endif
#ifndef DCP_LIMIT_PREFIX
#define DCP_LIMIT_PREFIX 180            /* bytes of a checkpoint's name, the last part of its path */
#endif
#ifndef DCP_GRACE_SECONDS
#define DCP_GRACE_SECONDS 86400         /* sweep leaves younger files alone, and a save gives up after half of it */
#endif
/* ---- limits of documents: each can be lowered (tests do) or raised; what is beyond one is DCP_E_LIMIT or DCP_E_FORMAT
 * ---- */
#ifndef DCP_LIMIT_NAME
#define DCP_LIMIT_NAME 1024             /* bytes of a tensor's name */
#endif
#ifndef DCP_LIMIT_PATH
#define DCP_LIMIT_PATH 4096             /* bytes of a filePath */
#endif
#ifndef DCP_LIMIT_SHARDS
#define DCP_LIMIT_SHARDS 1048576        /* shards of a document */
#endif
#ifndef DCP_LIMIT_TENSORS
#define DCP_LIMIT_TENSORS 67108864      /* tensors of a document, over all its shards; at most 2^30 */
#endif
#ifndef DCP_LIMIT_FIELDS
#define DCP_LIMIT_FIELDS 1048576        /* customFields of a document */
#endif
#ifndef DCP_LIMIT_DOCUMENT
#define DCP_LIMIT_DOCUMENT ((int64_t)16 << 30)   /* bytes of a document that is read */
#endif
#ifndef DCP_LIMIT_SIGNATURE
#define DCP_LIMIT_SIGNATURE 65536       /* bytes of a signature */
#endif
#ifndef DCP_LIMIT_FINDINGS
#define DCP_LIMIT_FINDINGS 1000         /* errors, and warnings, that a validation lists; the rest is counted */
#endif
#ifndef DCP_LIMIT_FREE_ENTRIES
/* shards and tensors of a document that may be of any length; beyond, 24 bytes each at least */
#define DCP_LIMIT_FREE_ENTRIES 4096
#endif

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN             /* who needs the rest of <windows.h> in this file includes it before dcp.h */
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <process.h>
#if _WIN32_WINNT < 0x0600
#error "dcp.h needs Windows Vista or newer: compile the file that defines DCP_IMPLEMENTATION with -D_WIN32_WINNT=0x0601"
#endif
#else
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if !(defined(DCP_NO_THREADS) && DCP_NO_THREADS)
#include <pthread.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif
#if (defined(__GLIBC__) && !defined(__USE_GNU)) || (defined(__linux__) && !defined(SYNC_FILE_RANGE_WRITE)) || \
    (defined(__GLIBC__) && __WORDSIZE == 32 && !defined(__USE_FILE_OFFSET64))
#error "include dcp.h first where DCP_IMPLEMENTATION is defined, or compile with -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64"
#endif
typedef char dcpi_off_t_has_64_bits[sizeof(off_t) >= 8 ? 1 : -1];      /* fails? compile with -D_FILE_OFFSET_BITS=64 */
#endif
