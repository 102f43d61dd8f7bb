/* fuzz_yaml.c - the chapter >>yaml: any bytes as YAML. What is accepted is a tree that JSON can say, what is refused is
 * refused with its line.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_yaml.c -o fuzz_yaml && ./fuzz_yaml
 *     -max_len=4096 tests/corpus/yaml */
#include "fuzz.h"
#include "../yaml_tree.h"

static const char *const yaml_tokens[] = {"- ", "-\n", ": ", ":\n", "? ", "|\n", ">\n", "&a ", "*a", "!t ", "!!str ",
                                          "%YAML 1.2\n", "---\n", "...\n", "<<: ", "# ", " #", "#", "\"", "'", "''",
                                          "\\\n", "\\x41", "\\u00e4", "\\U0001F600", "\\ud83d\\ude00", "\\0", "\\N",
                                          "\\_", "\\L", "\\e", "[", "]", "{", "}", ",", ", ", "[[[[[[[[[[[[[[[[",
                                          "{a: {b: ",
    "a: b\n", "- - - ", "\n  ", "\n    ", "\n", "\n\n", "\r\n", "\r", "\t", "  ", "0o17", "0x1F", "0b1", "1_000",
    ".inf", "-.INF", ".nan", "~", "null", "Null", "true", "yes", "no",
    "on", "1e3", "+1", "-0", "0.5", ".5", "5.", "2026-11-20", "\xC3\xA4", "\xEF\xBB\xBF", "\xC2\x85", "\xE2\x80\xA8",
    "\xE2\x80\x91", "\xED\xA0\x80", "\x7F", "@", "`", "\"a\": ",
    "'a': ", "\"\\\n  "};

static void yaml_one(const uint8_t *data, size_t size) {
    char *exact = fuzz_exact(data, size);
    dcp_json *json = (dcp_json *)&json;
    dcp_error err;
    dcp_status status = yaml_tree(exact, size, &json, &err);
    free(exact);
    fuzz_told(status, &err);
    FUZZ_CHECK((status == DCP_OK) == (json != NULL));
    if (status) FUZZ_CHECK(status == DCP_E_FORMAT && dcpi_starts_with(err.message, "line "));
    else FUZZ_CHECK(fuzz_walk(json, 0) <= 2 * size + 1);
    dcp_json_free(json);
}
static const fuzz_target fuzz_yaml = {"yaml", yaml_one, NULL, yaml_tokens, FUZZ_COUNT(yaml_tokens), 16384, 400};
FUZZ_ENTRY(fuzz_yaml)
