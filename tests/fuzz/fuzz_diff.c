/* fuzz_diff.c - written and read again: whatever a parser accepts, its writer writes, and reading that gives the same.
 * JSON, YAML and JSON, metadata, manifests in both syntaxes. The first byte chooses; the rest is the document.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz/fuzz_diff.c -o fuzz_diff && ./fuzz_diff
 *     -max_len=4096 tests/corpus/diff */
#include "fuzz.h"
#include "../yaml_tree.h"

static const char *const diff_tokens[] = {"{", "}", "[", "]", ",", ":", "\"", "\\u0001", "\\n", "\\\"", "\\\\", "- ",
                                          ": ", "# ", "'", "\"\"", "null", "true", "1e308", "5e-324", "0.1", "1e21",
                                          "123456789012345678", "\xC3\xA4", "\xE2\x80\xA8", "\xC2\x85", "\"extra\": 1,",
                                          "\"x\": {\"y\": [null, -0.0]},", "\"extra\": \"a: b # c\",", "\n  ", "~",
                                          "no"};

typedef struct diff_text { char *data; size_t size; } diff_text;

static dcp_json *diff_read(const char *text, size_t size, int yaml) {
    dcp_json *json;
    dcp_error err;
    dcp_status status = yaml ? yaml_tree(text, size, &json, &err) : dcp_json_parse(text, size, &json, &err);
    FUZZ_CHECK(status == DCP_OK && json);
    return json;
}
/* What a tree is written as must be the same tree, as JSON and as YAML, and be written so again. */
static void diff_tree(const dcp_json *json, int indent) {
    diff_text text, again;
    dcp_json *same;
    dcp_error err;
    int yaml;
    FUZZ_CHECK(dcp_json_write(json, indent, &text.data, &text.size, &err) == DCP_OK);
    for (yaml = 0; yaml < 2; yaml++) {
        same = diff_read(text.data, text.size, yaml);
        FUZZ_CHECK(fuzz_same_tree(json, same));
        FUZZ_CHECK(dcp_json_write(same, indent, &again.data, &again.size, &err) == DCP_OK);
        FUZZ_CHECK(fuzz_same_text(text.data, text.size, again.data, again.size));
        dcp_free(again.data);
        dcp_json_free(same);
    }
    dcp_free(text.data);
}
static void diff_document(const char *data, size_t size, int yaml) {
    dcp_json *json, *other;
    dcp_error err;
    if ((yaml ? yaml_tree(data, size, &json, &err) : dcp_json_parse(data, size, &json, &err)) != DCP_OK) return;
    diff_tree(json, 0);
    diff_tree(json, 2);
    if (!yaml && yaml_tree(data, size, &other, &err) == DCP_OK) {  /* JSON is YAML, but for tabs */
        FUZZ_CHECK(fuzz_same_tree(json, other));
        dcp_json_free(other);
    }
    dcp_json_free(json);
}

/* ---- metadata: what is written the first time is written the second time too ------------------------------------- */
static diff_text diff_write_metadata(const dcp_metadata *m, dcp_status *status) {
    diff_text text = {NULL, 0};
    dcp_error err;
    *status = dcp_metadata_write(m, NULL, &text.data, &text.size, &err);
    fuzz_told(*status, &err);
    return text;
}
static void diff_metadata(const char *data, size_t size) {
    dcp_metadata *m, *same;
    diff_text text, again;
    dcp_error err;
    dcp_status status;
    dcp_validation found, found_again;
    if (dcp_metadata_parse(data, size, &m, &err)) return;
    text = diff_write_metadata(m, &status);
    if (!status) {
        FUZZ_CHECK(dcp_metadata_parse(text.data, text.size, &same, &err) == DCP_OK);
        FUZZ_CHECK(!same->is_foreign && same->shard_count == m->shard_count && same->field_count == m->field_count);
        again = diff_write_metadata(same, &status);
        FUZZ_CHECK(status == DCP_OK && fuzz_same_text(text.data, text.size, again.data, again.size));
        if (dcp_metadata_validate(m, &found) == DCP_OK) {
            /* what keeps the rules keeps them (else a default may have replaced it) */
            FUZZ_CHECK(dcp_metadata_validate(same, &found_again) == DCP_OK);
            dcp_validation_free(&found_again);
        }
        dcp_validation_free(&found);
        dcp_free(again.data);
        dcp_metadata_free(same);
    } else {                                            /* never a document that keeps the rules */
        FUZZ_CHECK(dcp_metadata_validate(m, &found) != DCP_OK);
        dcp_validation_free(&found);
    }
    dcp_free(text.data);
    dcp_metadata_free(m);
}

/* ---- manifests: the same through the other syntax ---------------------------------------------------------------- */
static diff_text diff_write_manifest(const dcp_manifest *m, int yaml, dcp_status *status) {
    diff_text text = {NULL, 0};
    dcp_error err;
    *status = dcp_manifest_write(m, yaml, NULL, &text.data, &text.size, &err);
    fuzz_told(*status, &err);
    return text;
}
static dcp_manifest *diff_read_manifest(const diff_text *text, int yaml) {
    dcp_manifest *m;
    dcp_error err;
    FUZZ_CHECK(dcp_manifest_parse(text->data, text->size, &m, &err) == DCP_OK);
    FUZZ_CHECK(m->is_yaml == yaml && !m->is_foreign);
    return m;
}
static void diff_manifest(const char *data, size_t size) {
    dcp_manifest *m, *same, *other;
    diff_text text, across, again;
    dcp_validation found;
    dcp_error err;
    dcp_status status;
    int yaml;
    if (dcp_manifest_parse(data, size, &m, &err)) return;
    yaml = m->is_yaml;
    text = diff_write_manifest(m, yaml, &status);
    if (!status) {
        same = diff_read_manifest(&text, yaml);
        again = diff_write_manifest(same, yaml, &status);
        FUZZ_CHECK(status == DCP_OK && fuzz_same_text(text.data, text.size, again.data, again.size));
        dcp_free(again.data);
        across = diff_write_manifest(same, !yaml, &status);
        FUZZ_CHECK(status == DCP_OK);
        other = diff_read_manifest(&across, !yaml);
        FUZZ_CHECK(other->shard_count == same->shard_count && other->tier_count == same->tier_count &&
                   other->field_count == same->field_count);
        dcp_free(across.data);
        dcp_manifest_free(other);
        dcp_manifest_free(same);
    } else {
        FUZZ_CHECK(dcp_manifest_validate(m, &found) != DCP_OK);
        dcp_validation_free(&found);
    }
    dcp_free(text.data);
    dcp_manifest_free(m);
}
static void diff_one(const uint8_t *data, size_t size) {
    char *exact = size ? fuzz_exact(data + 1, size - 1) : NULL;
    if (size == 0) return;
    switch (data[0] % 4) {
    case 0: diff_document(exact, size - 1, 0); break;
    case 1: diff_document(exact, size - 1, 1); break;
    case 2: diff_metadata(exact, size - 1); break;
    default: diff_manifest(exact, size - 1); break;
    }
    free(exact);
}
static size_t diff_repair(uint8_t *data, size_t size, size_t capacity, uint64_t how) {
    (void)how;
    if (size == 0 || data[0] % 4 < 2) return size;
    if (data[0] % 4 == 2) return 1 + fuzz_seal(data + 1, size - 1, capacity - 1, DCPI_TYPE_METADATA);
    return 1 + fuzz_seal(data + 1, size - 1, capacity - 1, size > 1 && data[1] == '{' ? DCPI_TYPE_MANIFEST
                         : DCPI_TYPE_MANIFEST_YAML);
}
static const fuzz_target fuzz_diff = {"diff", diff_one, diff_repair, diff_tokens, FUZZ_COUNT(diff_tokens), 65536, 1000};
FUZZ_ENTRY(fuzz_diff)
