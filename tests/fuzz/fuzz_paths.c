/* fuzz_paths.c - what may be a name: file paths of documents, tensors' names and the files that are made of them, names
 * that sweep takes for ours, patterns, times, size budgets, data types. Checked against the same rules written down a
 * second time. The input is text; NUL ends one and begins another.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_paths.c -o fuzz_paths && ./fuzz_paths
 *     -max_len=4096 tests/corpus/paths */
#include "fuzz.h"

static const char *const paths_tokens[] = {"/", "//", ".", "..", "../", "/..", "\\", ":", "C:", "CON", "con.", "aux",
                                           "nul.txt", "COM1", "lpt9", "com0", ".bin", "_shard_0", "_shard_",
                                           ".0123456789abcdef", ".v1", "_0_of_1", "/expert_0", "dense/", "experts/",
                                           "optim/", "router/", ".tmp", "-1.tmp", ".metadata.json", ".checkpoint",
                                           ".manifest.json",
    ".manifest.yaml", "\xC3\xA4", "\xE2\x80\xA8", "\xF0\x9F\x98\x80", "\xED\xA0\x80", "\xC0\xAF", "\xC2\x85",
    "\xF4\x90\x80\x80", "\x7F", "\x01", " ", "%2F", "*", "?", "**", "*?*",
    "2026-11-20T12:00:00", ".123456789", "Z", "+23:59", "-00:01", "40GB", "8EiB", "_0", "fp8_e4m3", "F32",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

/* ---- the rules once more ----------------------------------------------------------------------------------------- */
/* The code point at text, by RFC 3629; *length 0: none. */
static uint32_t paths_code(const char *text, size_t rest, size_t *length) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *s = (const uint8_t *)text;
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF8 ? 4 : 0;
    uint32_t code = n == 1 ? s[0] : n ? s[0] & (0x7Fu >> n) : 0;
    size_t i;
    *length = 0;
    if (n == 0 || n > rest) return 0;
    for (i = 1; i < n; i++) { if ((s[i] & 0xC0) != 0x80) return 0; code = code << 6 | (s[i] & 0x3F); }
    if (code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    *length = n;
    return code;
}
static int paths_is_printable(const char *text) {
    size_t rest = strlen(text), n;
    for (; rest > 0; text += n, rest -= n) {
        uint32_t code = paths_code(text, rest, &n);
        if (n == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0)) return 0;
    }
    return 1;
}
static int paths_is_key(const char *text) {
    static char padded[FUZZ_MOST + 3];
    (void)snprintf(padded, sizeof padded, "/%s/", text);
    return paths_is_printable(text) && !strpbrk(text, "\\:") && !strstr(padded, "//") && !strstr(padded, "/./") &&
           !strstr(padded, "/../");
}
/* `*` and `?` by the table of all pairs of their beginnings; short ones only. */
static int paths_matches(const char *pattern, const char *text) {
    static char row[65];
    size_t p, t, n = strlen(text);
    memset(row, 0, sizeof row);
    row[0] = 1;
    for (p = 0; pattern[p]; p++) {
        char before = row[0];
        row[0] = (char)(row[0] && pattern[p] == '*');
        for (t = 1; t <= n; t++) {
            const char here = row[t];
            row[t] = (char)(pattern[p] == '*' ? here || row[t - 1] : before &&
                            (pattern[p] == '?' || pattern[p] == text[t - 1]));
            before = here;
        }
    }
    return row[n];
}
/* No system has trouble with it: no reserved character, device, dot or space at an end, nor a part that is too long. */
static void paths_check_portable(const char *name) {
    const char *part = name;
    for (;;) {
        size_t n = strcspn(part, "/"), i;
        FUZZ_CHECK(n > 0 && n <= 255 && part[0] != '.' && part[n - 1] != '.');
        FUZZ_CHECK(!dcpi_part_is_device(part, n));
        for (i = 0; i < n; i++)
            FUZZ_CHECK(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-%", part[i]) != NULL);
        if (part[n] == '\0') return;
        part += n + 1;
    }
}

/* ---- one text ---------------------------------------------------------------------------------------------------- */
static int paths_file_name(const char *tensor, dcp_role role, int64_t version, char name[DCPI_MANIFEST_NAME]) {
    static const int64_t key[3] = {1, 2, 3};
    dcpi_manifest_file file = DCP_ZERO;
    dcp_error err;
    file.role = role;
    file.tensor_name = tensor;
    file.expert_key = key;
    file.count = 1;
    file.version = version;
    fuzz_told(dcpi_manifest_file_name(&file, name, &err), &err);
    FUZZ_CHECK((err.status == DCP_OK) == (tensor[0] != '\0' && strlen(tensor) <= DCP_LIMIT_NAME &&
                                          paths_is_printable(tensor)));
    return err.status == DCP_OK;
}
static void paths_tensor(const char *tensor) {
    static const char *const folders[] = {"dense/", "experts/tier_1/group_2/expert_3.", "optim/", "router/"};
    char name[DCPI_MANIFEST_NAME];
    const size_t role = strlen(tensor) % FUZZ_COUNT(folders);
    if (!paths_file_name(tensor, (dcp_role)role, (int64_t)role, name)) return;
    FUZZ_CHECK(dcpi_starts_with(name, folders[role]) && dcpi_ends_with(name, ".bin") && paths_is_key(name));
    FUZZ_CHECK(dcpi_is_pool_name(name, 1) && !dcpi_is_temporary(name) && !dcpi_commit_kind_of(name));
    paths_check_portable(name);
}
static void paths_text(const char *text) {
    char name[DCP_LIMIT_PATH + 64], again[DCPI_TIME_TEXT];
    dcp_error err;
    int64_t seconds, other;
    int nanoseconds;
    const struct dcpi_commit_kind *kind = dcpi_commit_kind_of(text);
    FUZZ_CHECK(dcpi_key_is_valid(text) == paths_is_key(text));
    FUZZ_CHECK(dcpi_is_name(text, DCP_LIMIT_NAME) == (text[0] && strlen(text) <= DCP_LIMIT_NAME &&
                                                      paths_is_printable(text)));
    paths_tensor(text);
    FUZZ_CHECK(!kind || dcpi_ends_with(text, kind->suffix));
    (void)dcpi_is_intent(text);
    if (dcpi_is_temporary(text))
        FUZZ_CHECK(dcpi_ends_with(text, ".tmp") && !dcpi_is_shard_name(text, 1) && !dcpi_is_pool_name(text, 1));
    if (dcpi_is_shard_name(text, 0)) FUZZ_CHECK(dcpi_is_shard_name(text, 1) && !kind);
    if (dcpi_is_pool_name(text, 0)) FUZZ_CHECK(dcpi_is_pool_name(text, 1) && strchr(text, '/') && !kind);
    if (dcp_shard_name(text, 7, "0123456789abcdef", name, sizeof name, &err) == DCP_OK)
        FUZZ_CHECK(dcpi_is_shard_name(name, 0) == (text[0] != '\0'));
    if (dcpi_time_parse(text, &seconds, &nanoseconds)) {
        FUZZ_CHECK(nanoseconds >= 0 && nanoseconds < 1000000000);
        if (seconds >= 0 && seconds <= 253402300799) {
            dcpi_time_format(seconds * 1000000 + nanoseconds / 1000, again);
            FUZZ_CHECK(dcpi_time_parse(again, &other, &nanoseconds) && other == seconds);
        }
    }
    FUZZ_CHECK(dcpi_manifest_budget(text) >= -1);
    if (dcp_dtype_parse(text) != DCP_OPAQUE)
        FUZZ_CHECK(dcp_dtype_bits(dcp_dtype_parse(text)) > 0 &&
                   dcp_dtype_parse(dcp_dtype_name(dcp_dtype_parse(text))) == dcp_dtype_parse(text));
    dcpi_message_clean(strcpy(name, strlen(text) < sizeof name ? text : ""), sizeof name);
    FUZZ_CHECK(strpbrk(name, "\n\r\t\x1B\x7F") == NULL);
}
/* Two texts: a pattern and a name; two tensors. */
static void paths_pair(const char *a, const char *b) {
    char a_name[DCPI_MANIFEST_NAME], b_name[DCPI_MANIFEST_NAME];
    if (strlen(a) <= 64 && strlen(b) <= 64) FUZZ_CHECK(dcpi_text_matches(a, b) == paths_matches(a, b));
    if (strcmp(a, b) == 0 || !paths_file_name(a, DCP_ROLE_PARAMETER, 0, a_name) ||
        !paths_file_name(b, DCP_ROLE_PARAMETER, 0, b_name)) return;
    FUZZ_CHECK(strcmp(a_name, b_name) != 0);
}
static void paths_one(const uint8_t *data, size_t size) {
    char *text = (char *)malloc(size + 1), *at = text, *before = NULL;
    int count = 0;
    if (!text) abort();
    if (size) memcpy(text, data, size);
    for (text[size] = '\0'; at <= text + size && count < 6; count++, before = at, at += strlen(at) + 1) {
        char *one = fuzz_exact(at, strlen(at) + 1);
        paths_text(one);
        if (before) paths_pair(before, one);
        free(one);
    }
    free(text);
}
static const fuzz_target fuzz_paths = {"paths", paths_one, NULL, paths_tokens, FUZZ_COUNT(paths_tokens), 4096, 16};
FUZZ_ENTRY(fuzz_paths)
