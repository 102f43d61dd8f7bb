/* doing.h - where a test stands: a failure inside a loop says which round it was. After dcp.h and test.h. */
#ifndef DCP_TEST_DOING_H
#define DCP_TEST_DOING_H
#include <stdarg.h>

static char doing_text[300];
static const char *doing_test;
static void doing(const char *format, ...) DCPI_PRINTF(1, 2);
static void doing(const char *format, ...) {
    va_list arguments;
    int length;
    if (test_state.name != doing_text) doing_test = test_state.name;
    length = snprintf(doing_text, sizeof doing_text, "%s [", doing_test);
    va_start(arguments, format);
    (void)vsnprintf(doing_text + length, sizeof doing_text - (size_t)length - 1, format, arguments);
    va_end(arguments);
    (void)snprintf(doing_text + strlen(doing_text), 2, "]");
    test_state.name = doing_text;
}
static void done_doing(void) { if (test_state.name == doing_text) test_state.name = doing_test; }

#endif
