/* memory.c - memory that a command needs until it ends, and buffers for the bytes of tensors. */
#include "dcptool.h"

typedef union block { union block *next; int64_t number; double real; void *pointer; char bytes[16]; } block;
static block *blocks;

void *tool_need(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "dcptool: out of memory\n");
    exit(TOOL_TROUBLE);
}

void *tool_new(size_t count, size_t size) {
    block *b = size == 0 || count < SIZE_MAX / 2 / size ? calloc(1, sizeof *b + count * size) : NULL;
    b = tool_need(b);
    b->next = blocks;
    blocks = b;
    return b + 1;
}

char *tool_text_of(const char *text, size_t length) { return memcpy(tool_new(length + 1, 1), text, length); }

void tool_free_all(void) {
    while (blocks) {
        block *b = blocks;
        blocks = b->next;
        free(b);
    }
}

dcp_status tool_buffer_fit(tool_buffer *b, int64_t size, dcp_error *err) {
    if (size <= b->capacity) return DCP_OK;
    free(b->bytes);
    b->bytes = (uint64_t)size <= SIZE_MAX ? malloc((size_t)size) : NULL;
    b->capacity = b->bytes ? size : 0;
    return b->bytes ? DCP_OK : tool_error(err, DCP_E_MEMORY, "no memory for %" PRId64 " bytes of a tensor", size);
}
