/* sign.c - dcptool sign: a signature in a checkpoint's document. */
#include "dcptool.h"

static int run(tool_state *t);

const tool_command tool_sign = {
    "sign", run, 1, 1, TOOL_KEY_FILE, TOOL_KEY_ID, "PATH", "sign a checkpoint's document",
    "Rewrites the document, in one atomic step, with an HMAC-SHA-256 signature made\n"
    "with the bytes of FILE. What the document says stays, including members that\n"
    "this version does not know; an existing signature is replaced.\n"
    "\n"
    "Through its digests the signature covers every byte of the checkpoint. A\n"
    "document that names bytes without a digest is refused (`convert` writes one with\n"
    "all digests). A single file has its document inside and cannot be signed in\n"
    "place: `convert --to single --sign-key-file` writes a signed copy.\n"
    "\n"
    "Exit codes: 0 signed, 1 the document is corrupt or leaves bytes without a\n"
    "            digest, 2 usage, 3 could not read or write, or a single file\n"
    "Example:    dcptool sign runs/a/step_100 --key-file run.key --key-id 2026 &&\n"
    "            dcptool verify --key-file run.key runs/a/step_100\n"
};

static int sign_document(tool_state *t, const char *path, dcp_layout layout);
static int report(tool_state *t, const char *path, const char *replaced);

/* Opened before, so that only a document that holds is signed, and after, as any reader will open it. */
static int run(tool_state *t) {
    const dcp_metadata *m;
    const char *path, *replaced = NULL, *key;
    dcp_checkpoint *c;
    dcp_layout layout;
    int code;
    t->verifier = NULL;
    code = tool_open(t, t->operands[0], &c);
    if (code) return code;
    m = dcp_checkpoint_metadata(c);
    layout = dcp_checkpoint_layout(c);
    path = tool_text_of(dcp_checkpoint_path(c), strlen(dcp_checkpoint_path(c)));
    key = tool_or(m->signature_key, "");
    if (m->signature_algorithm) replaced = tool_text_of(key, strlen(key));
    dcp_close(c);
    if (layout == DCP_LAYOUT_SINGLE)
        return tool_trouble(t, DCP_E_UNSUPPORTED, "%s has its document inside, which cannot be rewritten in place; "
                            "`dcptool convert %s TARGET --to single --sign-key-file FILE` writes a signed copy", path,
                            t->operands[0]);
    code = sign_document(t, path, layout);
    if (code) return code;
    t->verifier = &t->hmac;
    code = tool_open(t, path, &c);
    if (code) return code;
    dcp_close(c);
    return report(t, path, replaced);
}

static int sign_document(tool_state *t, const char *path, dcp_layout layout) {
    const dcp_signer signer = dcp_hmac_signer(t->key.bytes, t->key.size, tool_or(t->key_id, ""));
    dcp_manifest *manifest = NULL;
    dcp_metadata *metadata = NULL;
    dcp_error err;
    dcp_status status;
    if (layout == DCP_LAYOUT_MANIFEST) {
        status = dcp_manifest_read_file(NULL, path, NULL, NULL, &manifest, &err);
        if (!status) status = dcp_manifest_write_file(NULL, path, manifest, &signer, NULL, &err);
    } else {
        status = dcp_metadata_read_file(NULL, path, NULL, NULL, &metadata, &err);
        if (!status) status = dcp_metadata_write_file(NULL, path, metadata, &signer, NULL, &err);
    }
    dcp_manifest_free(manifest);
    dcp_metadata_free(metadata);
    return status ? tool_fail(t, &err) : TOOL_FINE;
}

static int report(tool_state *t, const char *path, const char *replaced) {
    tool_json_begin(t);
    tool_json_text(t, "path", path);
    tool_json_text(t, "algorithm", "hmac-sha256");
    tool_json_text(t, "key", tool_or(t->key_id, ""));
    tool_json_text(t, "replaced", replaced);
    tool_json_end(t);
    if (replaced) tool_print(t, "signed %s (replacing the signature of key \"%s\")\n", path, replaced);
    else tool_print(t, "signed %s\n", path);
    return TOOL_FINE;
}
