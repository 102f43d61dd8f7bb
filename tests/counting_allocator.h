/* counting_allocator.h - dcp.h implemented with an allocator that counts what is taken and can be made to fail, and
 * test.h. The first include of a test; macros for dcp.h stand before it. Not for threads. */
#ifndef DCP_TEST_COUNTING_ALLOCATOR_H
#define DCP_TEST_COUNTING_ALLOCATOR_H
#include <stddef.h>                     /* not yet <stdlib.h>: dcp.h comes first */

static long alloc_countdown = -1;       /* so many succeed, then one fails; negative: none fails */
static size_t alloc_live, alloc_peak, alloc_count;      /* bytes now and at most; calls that asked for memory */
/* bytes of an arena's largest block; 1: each piece is an allocation, which can fail */
static int alloc_arena = 1024 * 1024;
static void *hook_realloc(void *memory, size_t size);
static void hook_free(void *memory);
#define DCP_MALLOC(size) hook_realloc(NULL, size)
#define DCP_REALLOC(memory, size) hook_realloc(memory, size)
#define DCP_FREE(memory) hook_free(memory)
#define DCPI_ARENA_LARGEST alloc_arena
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"

static void *hook_realloc(void *memory, size_t size) {
    size_t *block = memory ? (size_t *)memory - 2 : NULL, old = block ? block[0] : 0;
    alloc_count++;
    if (alloc_countdown == 0) { alloc_countdown = -1; return NULL; }
    if (alloc_countdown > 0) alloc_countdown--;
    block = (size_t *)realloc(block, size + 2 * sizeof *block);
    if (!block) return NULL;
    block[0] = size;
    alloc_live += size - old;
    if (alloc_live > alloc_peak) alloc_peak = alloc_live;
    return block + 2;
}
static void hook_free(void *memory) {
    if (!memory) return;
    alloc_live -= ((size_t *)memory)[-2];
    free((size_t *)memory - 2);
}

#endif
