/* text.h - text that grows; its owner frees `data`. After dcp.h and test.h. */
#ifndef DCP_TEST_TEXT_H
#define DCP_TEST_TEXT_H

typedef struct text { char *data; size_t size, capacity; } text;      /* NUL-terminated; NULL while nothing was added */
static inline void text_add(text *t, const void *data, size_t size) {
    if (t->size + size + 1 > t->capacity) {
        t->capacity = t->size + size + 1;
        if (t->capacity > 65536) t->capacity *= 2;     /* what is short is exact: sanitizers see what reads beyond it */
        t->data = (char *)realloc(t->data, t->capacity);
        CHECK(t->data != NULL);
    }
    memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = '\0';
}
static inline void text_say(text *t, const char *words) { text_add(t, words, strlen(words)); }
static inline text text_of(const char *words) {
    text t = { NULL, 0, 0 };
    text_say(&t, words);
    return t;
}
static inline dcp_status text_sink(void *user, const void *data, size_t size, dcp_error *err) {
    text_add((text *)user, data, size);
    return dcpi_succeed(err);
}
static inline void text_free(text *t) {
    free(t->data);
    memset(t, 0, sizeof *t);
}

#endif
