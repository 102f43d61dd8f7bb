/* failing_allocator.h - dcp.h implemented with an allocator that counts what lives and fails when told, from any
 * thread, and test.h. The first include of a test; macros for dcp.h stand before it. counting_allocator.h is the one
 * for a single thread.
 *
 *     int64_t live = hungry_live();
 *     hungry_fail(7, 0);                              // the 7th request from now on fails; 7, 1: and all after it
 *     status = dcp_save(&desc, &err);
 *     tripped = hungry.tripped;                       // whether there were as many
 *     hungry_fail(0, 0);                              // nothing fails
 *     CHECK_INT(hungry_live(), live); */
#ifndef DCP_TEST_FAILING_ALLOCATOR_H
#define DCP_TEST_FAILING_ALLOCATOR_H
#include <stddef.h>                     /* not yet <stdlib.h>: dcp.h comes first */

static void *hungry_malloc(size_t size);
static void *hungry_realloc(void *memory, size_t size);
static void hungry_free(void *memory);
#define DCP_MALLOC(size) hungry_malloc(size)
#define DCP_REALLOC(memory, size) hungry_realloc(memory, size)
#define DCP_FREE(memory) hungry_free(memory)
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include "test.h"

#ifndef HUNGRY_POISON
#define HUNGRY_POISON (-1)              /* what fresh memory is full of; negative: it is left as it comes */
#endif
#define HUNGRY_HEAD 16                  /* before each block: its size; keeps the alignment that malloc gives */
static struct {
    dcpi_mutex lock;
    int64_t calls, live, bytes, peak, largest;          /* of blocks; `largest`: the greatest size that was asked for */
    int64_t fail_at; int for_ever, tripped;        /* the fail_at-th call fails (0: none), or that and all later ones */
    int poison;
} hungry = { DCPI_MUTEX_INITIALIZER, 0, 0, 0, 0, 0, 0, 0, 0, HUNGRY_POISON };

static int hungry_refuses(size_t size) {                /* under the lock */
    hungry.calls++;
    if ((int64_t)size > hungry.largest) hungry.largest = (int64_t)size;
    if (hungry.fail_at == 0 || hungry.calls < hungry.fail_at || (hungry.calls > hungry.fail_at && !hungry.for_ever))
        return 0;
    return hungry.tripped = 1;
}
static void hungry_count(int64_t blocks, int64_t bytes) {
    hungry.live += blocks;
    hungry.bytes += bytes;
    if (hungry.bytes > hungry.peak) hungry.peak = hungry.bytes;
}
static void *hungry_realloc(void *memory, size_t size) {
    char *old = memory ? (char *)memory - HUNGRY_HEAD : NULL, *block = NULL;
    size_t old_size = 0;
    if (old) memcpy(&old_size, old, sizeof old_size);
    dcpi_mutex_lock(&hungry.lock);
    if (!hungry_refuses(size)) block = (char *)realloc(old, HUNGRY_HEAD + size);
    if (block) hungry_count(old ? 0 : 1, (int64_t)size - (int64_t)old_size);
    dcpi_mutex_unlock(&hungry.lock);
    if (!block) return NULL;
    memcpy(block, &size, sizeof size);
    if (hungry.poison >= 0 && size > old_size) memset(block + HUNGRY_HEAD + old_size, hungry.poison, size - old_size);
    return block + HUNGRY_HEAD;
}
static void *hungry_malloc(size_t size) { return hungry_realloc(NULL, size); }
static void hungry_free(void *memory) {
    char *block;
    size_t size;
    if (!memory) return;
    block = (char *)memory - HUNGRY_HEAD;
    memcpy(&size, block, sizeof size);
    dcpi_mutex_lock(&hungry.lock);
    hungry_count(-1, -(int64_t)size);
    dcpi_mutex_unlock(&hungry.lock);
    free(block);
}
/* Counting begins anew; 0: nothing fails. */
static inline void hungry_fail(int64_t at, int for_ever) {
    dcpi_mutex_lock(&hungry.lock);
    hungry.calls = 0;
    hungry.tripped = 0;
    hungry.fail_at = at;
    hungry.for_ever = for_ever;
    dcpi_mutex_unlock(&hungry.lock);
}
static inline int64_t hungry_live(void) {               /* blocks */
    int64_t live;
    dcpi_mutex_lock(&hungry.lock);
    live = hungry.live;
    dcpi_mutex_unlock(&hungry.lock);
    return live;
}
/* From now on `peak` and `largest` are those of what follows. */
static inline void hungry_watch(void) {
    dcpi_mutex_lock(&hungry.lock);
    hungry.peak = hungry.bytes;
    hungry.largest = 0;
    dcpi_mutex_unlock(&hungry.lock);
}
static inline int64_t hungry_peak(void) {               /* bytes */
    int64_t peak;
    dcpi_mutex_lock(&hungry.lock);
    peak = hungry.peak;
    dcpi_mutex_unlock(&hungry.lock);
    return peak;
}

#endif
