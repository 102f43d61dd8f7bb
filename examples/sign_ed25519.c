/* sign_ed25519.c - signs checkpoints with Ed25519, so that whoever loads them needs only a public key; OpenSSL
 * (libcrypto) does the cryptography.
 *
 * Shows dcp_signer and dcp_verifier: two callbacks over a few bytes, which have the digest of the document and so cover
 * every byte of the checkpoint. A manifest and a sharded checkpoint are signed, and loaded with the public key alone;
 * what somebody changed, stripped of its signature, signed with another key, or put back from an older step is refused.
 * Where the private key lives (a file, a hardware module, a signing service) is the callback's business. Does not show
 * HMAC, which is built in: dcp_hmac_signer.
 *
 * Build: cc -O2 sign_ed25519.c -I.. -o sign_ed25519 -lcrypto -lm -pthread
 * Run:   ./sign_ed25519 [directory]    (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIGNATURE_SIZE = 64 };
static dcp_error err;

static void check(dcp_status status, const char *what) {
    if (status == DCP_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}
static void expect(dcp_status status, dcp_status wanted, const char *what) {
    printf("%s: %s\n", what, dcp_status_name(status));
    if (status != wanted) { fprintf(stderr, "%s\n", err.message); exit(1); }
}

static dcp_status refuse(dcp_error *e, const char *why) {
    if (e) snprintf(e->message, sizeof e->message, "Ed25519: %s", why);
    if (e) e->status = DCP_E_SIGNATURE;
    return DCP_E_SIGNATURE;
}
static dcp_status sign(void *key, const void *message, size_t size, uint8_t *signature, dcp_error *e) {
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    size_t length = SIGNATURE_SIZE;
    int fine = c && EVP_DigestSignInit(c, NULL, NULL, NULL, (EVP_PKEY *)key) == 1 &&
        EVP_DigestSign(c, signature, &length, (const unsigned char *)message, size) == 1 && length == SIGNATURE_SIZE;
    EVP_MD_CTX_free(c);
    return fine ? DCP_OK : refuse(e, "the key cannot sign");
}
/* key_id says which key it was signed with: a program with several looks it up here. It is not trusted: another key
 * fails below. */
static dcp_status verify(void *key, const char *key_id, const void *message, size_t size, const uint8_t *signature,
                         dcp_error *e) {
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    int fine = c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, (EVP_PKEY *)key) == 1 &&
        EVP_DigestVerify(c, signature, SIGNATURE_SIZE, (const unsigned char *)message, size) == 1;
    (void)key_id;
    EVP_MD_CTX_free(c);
    return fine ? DCP_OK : refuse(e, "not signed by this key");
}

/* From a fixed seed, so that the example always prints the same; yours comes from EVP_PKEY_keygen, and stays secret. */
static void make_keys(unsigned char first, EVP_PKEY **secret, EVP_PKEY **open) {
    unsigned char seed[32], raw[32];
    size_t length = sizeof raw;
    for (int i = 0; i < 32; i++) seed[i] = (unsigned char)(first + i);
    *secret = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
    if (!*secret || EVP_PKEY_get_raw_public_key(*secret, raw, &length) != 1) exit(1);
    *open = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, length);
    if (!*open) exit(1);
}

static void save(const char *path, dcp_layout layout, int64_t step, const dcp_signer *signer) {
    const float weights[4] = {1, 2, 3, (float)step};
    const int64_t shape[] = {4};
    dcp_tensor tensor = dcp_array("weights", DCP_FP32, weights, 1, shape);
    dcp_training training = DCP_ZERO;
    dcp_save_desc desc = DCP_ZERO;
    training.step = step;
    desc.path = path; desc.layout = layout; desc.overwrite = 1; desc.io.log = dcp_log_stderr;
    desc.tensors = &tensor; desc.tensor_count = 1;
    desc.training = &training;
    desc.signer = signer;
    check(dcp_save(&desc, &err), "save");
}
static dcp_status load(const char *path, const dcp_verifier *verifier, int64_t minimum_step) {
    float weights[4] = {0};
    const int64_t shape[] = {4};
    dcp_tensor tensor = dcp_array("weights", DCP_FP32, weights, 1, shape);
    dcp_load_desc desc = DCP_ZERO;
    desc.path = path; desc.tensors = &tensor; desc.tensor_count = 1; desc.io.log = dcp_log_stderr;
    desc.verifier = verifier; desc.minimum_step = minimum_step;
    return dcp_load(&desc, &err);
}

int main(int argc, char **argv) {
    EVP_PKEY *secret, *open, *other_secret, *other_open;
    dcp_manifest *manifest;
    char sharded[512], moe[512], document[600];
    snprintf(sharded, sizeof sharded, "%s/signed", argc > 1 ? argv[1] : "checkpoints");
    snprintf(moe, sizeof moe, "%s/signed_manifest", argc > 1 ? argv[1] : "checkpoints");
    snprintf(document, sizeof document, "%s.manifest.json", moe);
    make_keys(1, &secret, &open);
    make_keys(77, &other_secret, &other_open);
    const dcp_signer signer = {secret, "ed25519", "run-2026", SIGNATURE_SIZE, sign, 0};
    const dcp_signer stranger = {other_secret, "ed25519", "run-2026", SIGNATURE_SIZE, sign, 0};
    const dcp_verifier verifier = {open, "ed25519", SIGNATURE_SIZE, verify, 0};

    save(sharded, DCP_LAYOUT_SHARDED, 100, &signer);
    save(moe, DCP_LAYOUT_MANIFEST, 100, &signer);
    expect(load(sharded, &verifier, 0), DCP_OK, "metadata, signed");
    expect(load(moe, &verifier, 0), DCP_OK, "manifest, signed");
    expect(load(moe, &verifier, 101), DCP_E_SIGNATURE, "manifest of an older step");

    check(dcp_manifest_read_file(NULL, document, &verifier, NULL, &manifest, &err), "read");
    manifest->shards[0].version++;                      /* somebody edits it: the digest is right, but not signed */
    check(dcp_manifest_write_file(NULL, document, manifest, NULL, NULL, &err), "write");
    expect(load(moe, &verifier, 0), DCP_E_SIGNATURE, "manifest, edited and stripped");
    check(dcp_manifest_write_file(NULL, document, manifest, &stranger, NULL, &err), "write");
    expect(load(moe, &verifier, 0), DCP_E_SIGNATURE, "manifest, signed by another key");
    dcp_manifest_free(manifest);
    save(sharded, DCP_LAYOUT_SHARDED, 100, NULL);
    expect(load(sharded, &verifier, 0), DCP_E_SIGNATURE, "metadata, not signed");
    expect(load(sharded, NULL, 0), DCP_OK, "the same, if nobody asks");

    EVP_PKEY_free(secret); EVP_PKEY_free(open); EVP_PKEY_free(other_secret); EVP_PKEY_free(other_open);
    printf("proved: only what the key has signed is loaded, whatever else the files say\n");
    return 0;
}
