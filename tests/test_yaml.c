/* test_yaml.c - the chapter >>yaml: what it reads, what it refuses and by which name, and that the tree is the one that
 * JSON gives. */
#include "counting_allocator.h"
#include "yaml_tree.h"
#if !defined(_WIN32)
#include <dirent.h>
#define HAS_DIRENT 1
#else
#define HAS_DIRENT 0
#endif

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
static dcp_error last;
/* Parses from an allocation of exactly that size, so that a sanitizer sees a byte read too many. */
static dcp_json *yaml_of(const char *text, size_t size) {
    char *copy = (char *)malloc(size ? size : 1);
    dcp_json *json;
    dcp_status status;
    CHECK(copy != NULL);
    if (size) memcpy(copy, text, size);
    status = yaml_tree(copy, size, &json, &last);
    CHECK((status == DCP_OK) == (json != NULL));
    CHECK((status == DCP_OK) == (last.message[0] == '\0'));
    CHECK(status == DCP_OK || status == last.status);
    free(copy);
    return json;
}
static int same_tree(const dcp_json *a, const dcp_json *b) {
    size_t i;
    double x, y;
    /* 1.0 and 1 are one number to the suite */
    if (!dcp_json_double(a, &x) && !dcp_json_double(b, &y)) return !(x < y) && !(x > y);
    if (dcp_json_kind_of(a) != dcp_json_kind_of(b) || dcp_json_count(a) != dcp_json_count(b)) return 0;
    if (dcp_json_kind_of(a) == DCP_JSON_BOOL) return dcp_json_bool(a) == dcp_json_bool(b);
    if (dcp_json_kind_of(a) == DCP_JSON_STRING) return strcmp(dcp_json_string(a, NULL), dcp_json_string(b, NULL)) == 0;
    for (i = 0; i < dcp_json_count(a); i++) {
        if (dcp_json_key(a, i) && strcmp(dcp_json_key(a, i), dcp_json_key(b, i)) != 0) return 0;
        if (!same_tree(dcp_json_at(a, i), dcp_json_at(b, i))) return 0;
    }
    return 1;
}
/* The YAML text gives exactly this compact JSON. */
static void gives(const char *yaml, const char *json) {
    dcp_json *tree = yaml_of(yaml, strlen(yaml));
    char *text;
    if (!tree) printf("refused: %s\n%s\n", last.message, yaml);
    CHECK(tree != NULL);
    CHECK_OK(dcp_json_write(tree, 0, &text, NULL, NULL));
    CHECK_STR(text, json);
    dcp_free(text);
    dcp_json_free(tree);
}
/* The text is refused at this line and column, and the message says so, with these words. */
static void refuses_bytes(const char *yaml, size_t size, int line, int column, const char *words) {
    char place[64];
    dcp_json *tree = yaml_of(yaml, size);
    (void)snprintf(place, sizeof place, "line %d, column %d (byte ", line, column);
    if (tree || strstr(last.message, place) != last.message || !strstr(last.message, words))
        printf("of %s\nwant: %s... %s\ngot:  %s\n", yaml, place, words, tree ? "accepted" : last.message);
    CHECK(tree == NULL && strstr(last.message, place) == last.message && strstr(last.message, words) != NULL);
    CHECK_INT(last.status, DCP_E_FORMAT);
}
static void refuses(const char *yaml, int line, int column, const char *words) {
    refuses_bytes(yaml, strlen(yaml), line, column, words);
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */
TEST(block_collections) {
    gives("a: 1\nb:\n  c: 2\n  d: 3\ne: 4\n", "{\"a\":1,\"b\":{\"c\":2,\"d\":3},\"e\":4}");
    gives("- 1\n- 2", "[1,2]");
    gives("a:\n- 1\n- 2\nb: 3", "{\"a\":[1,2],\"b\":3}");
    gives("a:\n  - 1\n  - 2\nb: 3", "{\"a\":[1,2],\"b\":3}");
    gives("- a: 1\n  b: 2\n- c: 3", "[{\"a\":1,\"b\":2},{\"c\":3}]");
    gives("-   a: 1\n    b:\n    - x\n    - y\n-\n  c: 3\n- - 1\n  - - 2\n",
          "[{\"a\":1,\"b\":[\"x\",\"y\"]},{\"c\":3},[1,[2]]]");
    gives("a:\nb:\n- \n-\nc: # nothing\n", "{\"a\":null,\"b\":[null,null],\"c\":null}");
    gives("\n# first\n---   # document\n  # and\n  a: 1\n  b: 2\n\n\n", "{\"a\":1,\"b\":2}");
    gives("text", "\"text\"");
    gives("a:\r\n  - 1\r\n  - 'x\r\n    y'\r\nb: c\r\n", "{\"a\":[1,\"x y\"],\"b\":\"c\"}");
    gives("\"a b\": 1\n'c''d' : 2\n\"\\u0065\":\t3\n", "{\"a b\":1,\"c'd\":2,\"e\":3}");
}
TEST(flow_collections) {
    gives("{}", "{}");
    gives("[ ]", "[]");
    gives("a: {b: 1, c: [2, 3], \"d\":4, 'e' : 5, f}\n", "{\"a\":{\"b\":1,\"c\":[2,3],\"d\":4,\"e\":5,\"f\":null}}");
    gives("a: [1, 2,\n    3 ,   # three\n\n    {b:\n      4}, ]\nb: 5", "{\"a\":[1,2,3,{\"b\":4}],\"b\":5}");
    gives("[a b, c d: e, \"f\": g, h: , -1, :x, a:b]",
          "[\"a b\",{\"c d\":\"e\"},{\"f\":\"g\"},{\"h\":null},-1,\":x\",\"a:b\"]");
    gives("[{a: {}}, [[]], {b: []}]", "[{\"a\":{}},[[]],{\"b\":[]}]");
    gives("{a: b\n c, d: \"e\n f\"}", "{\"a\":\"b c\",\"d\":\"e f\"}");
}
TEST(scalars) {
    gives("- null\n- ~\n- Null\n- NULL\n- nULL\n- nil", "[null,null,null,null,\"nULL\",\"nil\"]");
    gives("[true, True, TRUE, false, False, FALSE, tRUE, yes, no, on, off, y, n]",
          "[true,true,true,false,false,false,\"tRUE\",\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\"]");
    gives("[0, -0, +7, 007, -012, 9223372036854775807, -9223372036854775808, 18446744073709551615]",
          "[0,0,7,7,-12,9223372036854775807,-9223372036854775808,18446744073709551615]");
    gives("[9007199254740993, 10_000, 1_0.5, 0o17, 0x1F, 0xffffffffffffffff, 0o, 0x, 0b11, -0x1, 0o18, 12e03]",
          "[9007199254740993,\"10_000\",\"1_0.5\",15,31,18446744073709551615,\"0o\",\"0x\",\"0b11\",\"-0x1\",\"0o18\","
          "12000.0]");
    gives("[1.5, .5, -.5, 5., +1.25e2, 1e3, 1.e1, 1.2.3, 1e, e1, ., +, +., 1-2, 2026-11-20]",
          "[1.5,0.5,-0.5,5.0,125.0,1000.0,10.0,\"1.2.3\",\"1e\",\"e1\",\".\",\"+\",\"+.\",\"1-2\",\"2026-11-20\"]");
    gives("a: b#c # comment\nd: e:f\ng: -x ?y :z\nh: a\"b'c\\d\ne: http://x/\n",
          "{\"a\":\"b#c\",\"d\":\"e:f\",\"g\":\"-x ?y :z\",\"h\":\"a\\\"b'c\\\\d\",\"e\":\"http://x/\"}");
    gives("a: \"null\"\nb: '1'\nc: \"\"\nd: ''\n1: x\ntrue: y\n\"<<\": z",
        "{\"a\":\"null\",\"b\":\"1\",\"c\":\"\",\"d\":\"\",\"1\":\"x\",\"true\":\"y\",\"<<\":\"z\"}");
    gives("a: lite\xE2\x80\x91llm\xE2\x80\x91" "base", "{\"a\":\"lite\xE2\x80\x91llm\xE2\x80\x91" "base\"}");
}
TEST(scalars_over_several_lines) {
    gives("a: one\n  two\n\n  three\n\n\n   four\nb: c", "{\"a\":\"one two\\nthree\\n\\nfour\",\"b\":\"c\"}");
    gives("a:\n  one\n  - two # end\nb: c", "{\"a\":\"one - two\",\"b\":\"c\"}");
    gives("a: 'one \n  two\n\n  it''s'\n", "{\"a\":\"one two\\nit's\"}");
    gives("a: \"one \n  two\\\n  three \\\n\n  \\ four\\t\n  five\"\n", "{\"a\":\"one twothree \\n four\\t five\"}");
    gives("- 1\n  2\n- true\n", "[\"1 2\",true]");
}
TEST(escapes) {
    gives("\"\\a\\b\\t\\n\\v\\f\\r\\e\\ \\\"\\/\\\\\\x41\\u00e9\\U0001F600\\ud83d\\ude00\"",
          "\"\\u0007\\b\\t\\n\\u000b\\f\\r\\u001b \\\"/\\\\A\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80\"");
    gives("\"\\N\\_\\L\\P\\\t\"", "\"\xC2\x85\xC2\xA0\xE2\x80\xA8\xE2\x80\xA9\\t\"");
    gives("'\\n\\x'", "\"\\\\n\\\\x\"");
    refuses("a: \"b\\0\"", 1, 6, "NUL");
    refuses("a: \"\\x00\"", 1, 5, "NUL");
    refuses("a: \"\\u0000\"", 1, 5, "NUL");
    refuses("\"\\q\"", 1, 2, "an escape that YAML does not have");
    refuses("\"\\x4\"", 1, 2, "\\x needs two hexadecimal digits");
    refuses("\"\\u12", 1, 2, "\\u needs four hexadecimal digits");
    refuses("\"\\U00110000\"", 1, 2, "U+10FFFF");
    refuses("a:\n  \"x\\ud800\"", 2, 5, "a high surrogate without its low one");
    refuses("\"\\ud800\\u0041\"", 1, 2, "a high surrogate without its low one");
    refuses("\"\\udc00\"", 1, 2, "a low surrogate without its high one");
    refuses("\"\\U0000d800\\udc00\"", 1, 2, "a high surrogate");
    refuses("\"\\ud800-u0041\"", 1, 2, "a high surrogate without its low one");
    refuses("\"\\ud800\\n0041\"", 1, 2, "a high surrogate without its low one");
    refuses("\"\\ud800\\ue000\"", 1, 2, "a high surrogate without its low one");
    refuses("\"\\ud800\\udc0x\"", 1, 2, "a high surrogate without its low one");
    /* the first and the last of them */
    gives("\"\\ud800\\udc00\\udbff\\udfff\"", "\"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\"");
}

/* ---- what is refused, by its name -------------------------------------------------------------------------------- */
TEST(constructs_are_refused_by_name) {
    refuses("a: &x 1\nb: 2", 1, 4, "anchors");
    refuses("a: 1\nb: *x", 2, 4, "aliases");
    refuses("a:\n  - !!str 1", 2, 5, "tags");
    refuses("a: !x\n  b: 1", 1, 4, "tags");
    refuses("a:\n  <<: b", 2, 3, "merge keys");
    refuses("{<<: b}", 1, 2, "merge keys");
    refuses("[<<: b]", 1, 2, "merge keys");
    refuses("b: 1\n<<: b", 2, 1, "merge keys");
    refuses("%YAML 1.2\n---\na: 1", 1, 1, "directives");
    refuses("---\na: 1\n---\nb: 1", 3, 1, "a further document");
    refuses("a: 1\n...\n", 2, 1, "\"...\"");
    refuses("--- a\n", 1, 5, "on the line of '---'");
    refuses("--- |\n a", 1, 5, "block scalars (|)");
    refuses("a: |\n  text", 1, 4, "block scalars (|)");
    refuses("- >-\n  text", 1, 3, "block scalars (>)");
    refuses("a:\n\tb: 1", 2, 1, "a tab as indentation");
    refuses("a:\n  \tb: 1", 2, 3, "a tab as indentation");
    refuses("-\t- a", 1, 3, "a tab as indentation");
    refuses("- \ta: 1", 1, 4, "a tab as indentation");
    refuses("? a\n: b", 1, 1, "complex keys");
    refuses("[a]: b", 1, 1, "complex keys");
    refuses("x:\n  {a: b}: c", 2, 3, "complex keys");
    refuses("{[a]: b}", 1, 2, "complex keys");
    refuses("[{a: 1}: b]", 1, 2, "complex keys");
    refuses("{? a: b}", 1, 2, "complex keys");
    refuses(": b", 1, 1, "an empty key");
    refuses("a: @b", 1, 4, "reserved");
    refuses("a: `b`", 1, 4, "reserved");
    refuses("a: .inf", 1, 4, "numbers are finite");
    refuses("a: [1, -.INF]", 1, 8, "numbers are finite");
    refuses("a: .nan", 1, 4, "numbers are finite");
    refuses("a: 1\nb: [1, 1e400]", 2, 8, "out of range for a double");
    refuses("- 0x1ffffffffffffffff", 1, 3, "does not fit 64 bits");
    refuses("\xEF\xBB\xBF" "a: 1", 1, 1, "byte order mark");
    refuses("", 1, 1, "empty");
    refuses("# only a comment\n", 2, 1, "empty");
    refuses("# a comment\r\n\r\n  # another\r\n", 4, 1, "empty");
    refuses("# \x01\n", 1, 3, "control character");
    refuses("---", 1, 4, "empty");
    refuses("--- # \xFF\n", 1, 7, "not UTF-8");
    refuses("--- ?", 1, 5, "on the line of '---'");
    CHECK_INT(alloc_live, 0);
}
TEST(bytes_are_refused_by_name) {
    refuses_bytes("a: b\0c", 6, 1, 5, "NUL");
    refuses_bytes("a: \"b\0\"", 7, 1, 6, "NUL");
    refuses_bytes("a: 'b\0'", 7, 1, 6, "NUL");
    refuses_bytes("a: 1 # \0", 8, 1, 8, "NUL");
    refuses("a: b\x01", 1, 5, "control character");
    refuses("a: b\rc: d", 1, 5, "carriage return");
    refuses("a: \xFFx", 1, 4, "not UTF-8");
    refuses("a: b\n# \xC0\x80", 2, 3, "not UTF-8");
    refuses("a: \"\xED\xA0\x80\"", 1, 5, "not UTF-8");
    refuses("a: '\xF4\x90\x80\x80'", 1, 5, "not UTF-8");
    refuses("a: \xE2\x80", 1, 4, "not UTF-8");
}
TEST(duplicate_keys) {
    refuses("a: 1\nb: 2\na: 3", 3, 1, "duplicate key \"a\"");
    refuses("x:\n  - k: 1\n    'k': 3", 3, 5, "duplicate key \"k\"");
    refuses("{a: 1, \"a\": 2}", 1, 8, "duplicate key \"a\"");
    refuses("a: 1\n\"\\x61\": 2", 2, 1, "duplicate key \"a\"");
    refuses("1: 1\n\"1\": 2", 2, 1, "duplicate key \"1\"");
}
TEST(structure_is_refused) {
    refuses("a: b: c", 1, 5, "a second ': '");
    refuses("a: 'b': c", 1, 7, "':' after a value");
    refuses("a: b\n  c: d", 2, 3, "a key that is indented more");
    refuses("a: - b", 1, 4, "'-' begins an item");
    refuses("a:\n    b: 1\n  c: 2", 3, 3, "indentation fits none");
    refuses("- a\nb: c", 2, 1, "indentation fits none");
    refuses("a: 1\nb\n", 2, 1, "expected a key");
    refuses("a: 'b' c", 1, 8, "'c' after a value");
    refuses("a: [b] c", 1, 8, "'c' after a value");
    refuses("a: [b]#c", 1, 7, "a comment needs a space");
    refuses("a: \"b", 1, 6, "ends inside a quoted scalar");
    refuses("a: 'b\n", 2, 1, "ends inside a quoted scalar");
    refuses("a: \"b\nc\"", 2, 1, "indented deeper");
    refuses("a: [b\n", 2, 1, "ends inside [ ] or { }");
    refuses("a: [b,\nc]", 2, 1, "indented deeper");
    refuses("a: [b c,, d]", 1, 9, "','");
    refuses("a: [b}", 1, 6, "where ',' or ']' was expected");
    refuses("{a: 1", 1, 6, "ends inside");
    refuses("{a: 1 b: 2}", 1, 8, "" "':'");
    refuses("[a\n: b]", 2, 1, "on one line");
    refuses("[\"a\"\n : b]", 2, 2, "on one line");
    refuses("[ [a] : b]", 1, 3, "complex keys");
    refuses("[a, b\n\x01]", 2, 1, "control character");
    refuses("{a: b\n  \xFF}", 2, 3, "not UTF-8");
    refuses("[[b]: c]", 1, 2, "complex keys");
    refuses("{a: [b: c: d]}", 1, 10, "");
    refuses("{a: 'b\x01'}", 1, 7, "control character");
    refuses("[{a: \"\\q\"}]", 1, 7, "an escape that YAML does not have");
    refuses("a: 'b'\r\n 'c'", 2, 2, "");
    refuses("a: 'b' \x7F", 1, 8, "byte 0x7F after a value");
    refuses("[-]", 1, 2, "'-'");
    refuses("\"a\nb\": c", 2, 3, "on one line");
    refuses("x: 1\n\"a\n b\": c", 2, 1, "on one line");
    refuses("a: 1\n- b", 2, 1, "");
}

/* ---- size and depth ---------------------------------------------------------------------------------------------- */
static char *repeated(const char *text, size_t times, const char *end, size_t *size) {
    size_t n = strlen(text), i;
    char *all = (char *)malloc(n * times + strlen(end) + 1);
    CHECK(all != NULL);
    for (i = 0; i < times; i++) memcpy(all + n * i, text, n);
    memcpy(all + n * times, end, strlen(end) + 1);
    *size = n * times + strlen(end);
    return all;
}
TEST(depth_is_limited) {
    static const char *const opens[] = {"[", "{a: ", "- ", "- a:\n ", "[a: "};
    size_t i, size;
    for (i = 0; i < DCPI_COUNT(opens); i++) {
        char *text = repeated(opens[i], 100000, "", &size);
        dcp_json *tree = yaml_of(text, size);
        CHECK(tree == NULL);
        if (i < 3) CHECK(strstr(last.message, "nested deeper than 64") != NULL);
        free(text);
    }
    for (i = 62; i <= 64; i++) {                                        /* the map inside all of them counts too */
        char *text = repeated("- ", i, "a: x", &size);
        dcp_json *tree = yaml_of(text, size);
        CHECK((tree != NULL) == (i <= 63));
        if (!tree) CHECK(strstr(last.message, "nested deeper than 64") != NULL);
        dcp_json_free(tree);
        free(text);
    }
    for (i = 63; i <= 65; i++) {
        char *text = repeated("- ", i, "x", &size);
        dcp_json *tree = yaml_of(text, size);
        CHECK((tree != NULL) == (i <= 64));
        dcp_json_free(tree);
        free(text);
    }
    CHECK_INT(alloc_live, 0);
}
/* Time grows with the text, memory with a small multiple of it, whatever the text is. */
TEST(time_and_memory_are_bounded) {
    static const char *const parts[] = {
        "\n", " \n", "# comment\n", "a\n", "a\n\n", "- \n", "-\n", "[], ", "a: ", "'", "''", "\"\\\n", "a\n# b\n", "{",
            "\\", "? ", "- - ", "\t", ": ", "\\a",
        "[\n", "[a: ", ",", "&a ", "k: 'x\n  y'\n", "x \n  y\n"
    };
    static const char *const starts[] = {"", "a: ", "a: \"", "a: '", "[", "- ", "{a: ", "x:\n  "};
    const size_t want = test_is_sanitized() || test_is_slow() ? 100000 : 1000000;
    size_t i, s, size;
    for (i = 0; i < DCPI_COUNT(parts); i++) {
        for (s = 0; s < DCPI_COUNT(starts); s++) {
            char *body = repeated(parts[i], want / strlen(parts[i]), "", &size), *text = (char *)malloc(size + 16);
            dcp_json *tree;
            CHECK(text != NULL);
            memcpy(text, starts[s], strlen(starts[s]));
            memcpy(text + strlen(starts[s]), body, size);
            alloc_peak = alloc_live;
            tree = yaml_of(text, size + strlen(starts[s]));
            CHECK(alloc_peak < 200 * size + 65536);     /* the tree takes about 100 bytes a value */
            dcp_json_free(tree);
            free(body);
            free(text);
        }
    }
    CHECK_INT(alloc_live, 0);
}
TEST(no_memory) {
    static const char text[] = "a: [1, 'b', {c: d}]\n\"e\\n\": \"f\n  g\"\nlist:\n- x: 1\n  y: 2\n";
    dcp_json *tree;
    dcp_error err;
    long n;
    alloc_arena = 1;
    for (n = 0;; n++) {
        alloc_countdown = n;
        if (yaml_tree(text, sizeof text - 1, &tree, &err) == DCP_OK && alloc_countdown > 0) break;
        alloc_countdown = -1;
        if (tree) { dcp_json_free(tree); CHECK_INT(alloc_live, 0); continue; }     /* it goes on with less at once */
        CHECK_INT(err.status, DCP_E_MEMORY);
        CHECK(strstr(err.message, "out of memory") != NULL);
        CHECK_INT(alloc_live, 0);
    }
    CHECK(n >= 20);
    alloc_countdown = -1;
    alloc_arena = 1024 * 1024;
    dcp_json_free(tree);
    CHECK_INT(alloc_live, 0);
    CHECK_INT(yaml_tree("a: [", 4, &tree, NULL), DCP_E_FORMAT);
}

/* ---- JSON is YAML ------------------------------------------------------------------------------------------------ */
static void json_is_yaml(const char *text, size_t size, const char *name) {
    dcp_json *json, *yaml = yaml_of(text, size);
    dcp_error err;
    if (dcp_json_parse(text, size, &json, &err)) { dcp_json_free(yaml); return; }
    if (!yaml) printf("%s: %s\n", name, last.message);
    CHECK(yaml != NULL);
    CHECK(same_tree(json, yaml));
    dcp_json_free(yaml);
    dcp_json_free(json);
}
TEST(json_is_yaml_and_gives_the_same_tree) {
    static const char *const texts[] = {
        "{\"a\":1,\"b\":[true,false,null,-1.5e3],\"c\":{\"d\":\"\\u00e9\\n\\/\\ud83d\\ude00\"}}",
            "{ \"a\" : { } , \"b\" : [ ] }", "[1,2.0,3e-5]", "\"x\"",
        "-0",
        "[18446744073709551616]", "{\n  \"shape\": [512, 1024],\n  \"k\": \"a: b # c\"\n}"
    };
    size_t i;
    for (i = 0; i < DCPI_COUNT(texts); i++) json_is_yaml(texts[i], strlen(texts[i]), texts[i]);
}

/* ---- mutations --------------------------------------------------------------------------------------------------- */
static const char seed_text[] =
    "model_id: lite\xE2\x80\x91llm\xE2\x80\x91"
    "base\nepoch: 5\nstep: 10_000\ntiers:\n  - tier_id: 1\n    name: hot\n    size_budget: 40GB\n"
    "shards:\n  - path: dense/layer_0/q_0_of_2.bin\n    shape: [512, 1024]\n    checksum: \"abc\\n123\"\n  - path: "
    "'x''y'\n    expert_key: [2,\n      0,1]\n"
    "    note: several\n      lines # and\nstate: { a: b, \"c\": [d, e: f] }\n";
TEST(mutations_do_no_harm) {
    static const char interesting[] = "\n\t :-?[]{},#&*!|>'\"%@`\\\r\0\xFF\xC3\x80<~.0x";
    char text[600];
    int round, rounds = test_times(60000), i;
    for (round = 0; round < rounds; round++) {
        size_t size = sizeof seed_text - 1;
        memcpy(text, seed_text, size);
        for (i = 1 + (int)test_random_below(4); i > 0; i--) {
            size_t at = test_random_below(size), n;
            switch (test_random_below(4)) {
            case 0: text[at] = interesting[test_random_below(sizeof interesting - 1)]; break;
            case 1: size = at + 1; break;
            case 2:                                     /* insert */
                memmove(text + at + 1, text + at, size - at);
                text[at] = interesting[test_random_below(sizeof interesting - 1)];
                size++;
                break;
            default:                                    /* repeat a part elsewhere */
                n = test_random_below(20);
                if (n > size - at) n = size - at;
                if (size + n > sizeof text - 8) break;
                memmove(text + at + n, text + at, size - at);
                size += n;
            }
        }
        {
            dcp_json *tree = yaml_of(text, size);
            if (!tree) CHECK(last.status == DCP_E_FORMAT && strncmp(last.message, "line ", 5) == 0);
            dcp_json_free(tree);
        }
    }
    CHECK_INT(alloc_live, 0);
}
TEST(every_length_is_read_or_refused) {
    size_t n;
    for (n = 0; n < sizeof seed_text; n++) {
        dcp_json *tree = yaml_of(seed_text, n);
        dcp_json_free(tree);
    }
    CHECK_INT(alloc_live, 0);
}

/* ---- yaml-test-suite --------------------------------------------------------------------------------------------- */
#if HAS_DIRENT
typedef struct suite_counts { int cases, must_fail, accepted, equal; } suite_counts;

static char *suite_read(const char *folder, const char *name, size_t *size) {      /* NULL: not there */
    char path[1200], *text;
    FILE *file;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file) return NULL;
    text = (char *)malloc(1 << 18);
    CHECK(text != NULL);
    *size = fread(text, 1, 1 << 18, file);
    (void)fclose(file);
    return text;
}
static void suite_case(const char *folder, suite_counts *counts) {
    size_t size, json_size, ignored;
    int line, column;
    char *yaml = suite_read(folder, "in.yaml", &size), *json = suite_read(folder, "in.json", &json_size),
                 *error = suite_read(folder, "error", &ignored);
    if (yaml) {
        dcp_json *tree = yaml_of(yaml, size), *want = NULL;
        counts->cases++;
        counts->must_fail += error != NULL;
        counts->accepted += tree != NULL;
        if (error && tree) test_fail(__FILE__, __LINE__, folder, " must fail and is accepted");
        if (!tree && sscanf(last.message, "line %d, column %d", &line, &column) != 2)
            test_fail(__FILE__, __LINE__, folder, last.message);
        if (!tree && !strstr(last.message, "): ")) test_fail(__FILE__, __LINE__, folder, last.message);
        if (tree && json) {
            CHECK_OK(dcp_json_parse(json, json_size, &want, &last));
            if (!same_tree(tree, want)) test_fail(__FILE__, __LINE__, folder, " is not in.json");
            counts->equal++;
        }
        dcp_json_free(tree);
        dcp_json_free(want);
    }
    free(yaml);
    free(json);
    free(error);
}
static void suite_folder(const char *folder, int depth, suite_counts *counts) {
    struct dirent *entry;
    DIR *dir = opendir(folder);
    if (!dir) return;
    suite_case(folder, counts);
    while (depth > 0 && (entry = readdir(dir)) != NULL) {
        char path[1100];
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof path, "%.700s/%.300s", folder, entry->d_name);
        suite_folder(path, depth - 1, counts);
    }
    (void)closedir(dir);
}
TEST(yaml_test_suite) {
    const char *base = getenv("DCP_TEST_DATA");
    char path[1024];
    suite_counts counts;
    memset(&counts, 0, sizeof counts);
    (void)snprintf(path, sizeof path, "%.900s/yaml-test-suite", base ? base : "../shared/data");
    suite_folder(path, 2, &counts);
    if (counts.cases == 0)
        SKIP_MISSING("data", "yaml-test-suite not found, set DCP_TEST_DATA to the directory that holds it");
    CHECK_INT(counts.cases, 402);
    CHECK_INT(counts.must_fail, 94);
    CHECK(counts.equal >= 100);
    CHECK(counts.accepted - counts.equal <= 1);         /* one case has no in.json: a key that is a list of nothing */
    CHECK_INT(alloc_live, 0);
}
static void json_suite_file(const char *folder, const char *name) {
    size_t size;
    char *text = suite_read(folder, name, &size);
    CHECK(text != NULL);
    json_is_yaml(text, size, name);
    free(text);
}
/* What JSON accepts is accepted as YAML, as the same tree; but for tabs where YAML sees indentation. */
TEST(json_test_suite_as_yaml) {
    const char *base = getenv("DCP_TEST_DATA");
    char path[1024];
    struct dirent *entry;
    DIR *dir;
    (void)snprintf(path, sizeof path, "%.900s/JSONTestSuite/test_parsing", base ? base : "../shared/data");
    dir = opendir(path);
    if (!dir) SKIP_MISSING("data", "JSONTestSuite not found, set DCP_TEST_DATA to the directory that holds it");
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] == 'y' && !strstr(entry->d_name, "whitespace")) json_suite_file(path, entry->d_name);
    (void)closedir(dir);
}
#else
TEST(yaml_test_suite) { SKIP("no readdir here"); }
TEST(json_test_suite_as_yaml) { SKIP("no readdir here"); }
#endif

int main(void) {
    RUN(block_collections);
    RUN(flow_collections);
    RUN(scalars);
    RUN(scalars_over_several_lines);
    RUN(escapes);
    RUN(constructs_are_refused_by_name);
    RUN(bytes_are_refused_by_name);
    RUN(duplicate_keys);
    RUN(structure_is_refused);
    RUN(depth_is_limited);
    RUN(time_and_memory_are_bounded);
    RUN(no_memory);
    RUN(json_is_yaml_and_gives_the_same_tree);
    RUN(mutations_do_no_harm);
    RUN(every_length_is_read_or_refused);
    RUN(yaml_test_suite);
    RUN(json_test_suite_as_yaml);
    return test_finish();
}
