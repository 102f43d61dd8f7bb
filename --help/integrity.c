/* =====================================================================================================================
 * >>integrity   The last members of a document: its digest and, if it is signed, its signature.
 *
 * A document ends, byte for byte, in
 *     ,\n  "signature": { "algorithm": "A", "key": "K", "value": "H" },\n  "integrity": { "algorithm": "sha256",
 *          "value": "V" }\n}\n
 * where the signature member is there only if the document is signed. Each of the two covers a text T that names what
 *     it is about: T = "dcp-integrity-v1\n" type "\n" algorithm "\n" key "\n" decimal(len(body)) "\n"
 *     hex(SHA-256(body)) "\n"
 * body: the bytes before that member's own leading comma, so the integrity covers the signature. V = SHA-256(T) with
 * algorithm "sha256" and an empty key; H = HMAC-SHA-256(key, T), or what a signer makes of T. So one pass streams a
 * document of any size, and a signer sees a few hundred bytes.
 *
 * A document in YAML ends in the lines
 *     signature: { algorithm: "A", key: "K", value: "H" }\nintegrity: { algorithm: "sha256", value: "V" }\n
 * and the body is what stands before the line.
 *
 * A reader looks for that exact tail in the raw bytes and checks it before anything is parsed: a parser never sees
 * bytes that are damaged. A newline cannot stand inside a JSON string, so in a document that parses, a tail that is
 * found is the end of its outermost object. Nor can a YAML scalar or flow collection that has begun before that line
 * end in it, so there it is a member of the outermost map.
 * ================================================================================================================== */
typedef struct dcpi_tail_form {         /* the literal parts of a tail, between what varies */
    const char *signature_open, *signature_key, *signature_value, *signature_close, *integrity_open, *integrity_close;
} dcpi_tail_form;
static const dcpi_tail_form dcpi_tail_json = {
    ",\n  \"signature\": { \"algorithm\": \"", "\", \"key\": \"", "\", \"value\": \"", "\" }",
    ",\n  \"integrity\": { \"algorithm\": \"sha256\", \"value\": \"", "\" }\n}\n"
};
static const dcpi_tail_form dcpi_tail_yaml = {
    "signature: { algorithm: \"", "\", key: \"", "\", value: \"", "\" }\n",
    "integrity: { algorithm: \"sha256\", value: \"", "\" }\n"
};
#define DCPI_INTEGRITY_TEXT 384         /* more than the longest T */

#define DCPI_TYPE_METADATA "metadata/json"
#define DCPI_TYPE_CHECKPOINT "checkpoint/json"
#define DCPI_TYPE_MANIFEST "manifest/json"
#define DCPI_TYPE_MANIFEST_YAML "manifest/yaml"
static const char dcpi_hmac_name[] = "hmac-sha256";

/* Takes bytes that are being made, in order. */
typedef dcp_status (*dcpi_sink)(void *user, const void *data, size_t size, dcp_error *err);

typedef struct dcpi_tail {
    int present;                        /* an integrity member stands at the end, in its exact form */
    int is_signed;                      /* and a signature member before it */
    size_t body;                        /* bytes that the integrity covers */
    size_t signed_body;                 /* bytes that the signature covers; = body if there is none */
    char algorithm[33], key[129];       /* of the signature; "" if there is none */
    const char *signature;              /* its hex digits, in the document */
    size_t signature_digits;
} dcpi_tail;

/* ---- signers and verifiers --------------------------------------------------------------------------------------- */
DCPDEF dcp_signer dcp_hmac_signer(const void *key, size_t key_size, const char *key_id) {
    dcp_signer signer;
    memset(&signer, 0, sizeof signer);
    signer.context = (void *)key;
    signer.algorithm = dcpi_hmac_name;
    signer.key_id = key_id;
    signer.size = 32;
    signer.key_size = key_size;
    return signer;
}
DCPDEF dcp_verifier dcp_hmac_verifier(const void *key, size_t key_size) {
    dcp_verifier verifier;
    memset(&verifier, 0, sizeof verifier);
    verifier.context = (void *)key;
    verifier.algorithm = dcpi_hmac_name;
    verifier.size = 32;
    verifier.key_size = key_size;
    return verifier;
}
static int dcpi_is_algorithm_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }
static int dcpi_is_key_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}
static int dcpi_is_algorithm(const char *text) {                        /* [a-z0-9-]{1,32} */
    size_t length = strlen(text), i;
    for (i = 0; i < length; i++) if (!dcpi_is_algorithm_char(text[i])) return 0;
    return length >= 1 && length <= 32;
}
static int dcpi_is_key_id(const char *text) {                           /* [A-Za-z0-9._-]{0,128} */
    size_t length = strlen(text), i;
    for (i = 0; i < length; i++) if (!dcpi_is_key_char(text[i])) return 0;
    return length <= 128;
}
/* What a signer and a verifier have in common. built_in: HMAC with the key at context. */
static dcp_status dcpi_signing_check(const char *what, int built_in, const void *context, size_t key_size,
                                     const char *algorithm, size_t size, dcp_error *err) {
    if (!algorithm || !dcpi_is_algorithm(algorithm))
        return dcpi_fail(err, DCP_E_INVALID, "%s.algorithm must be 1 to 32 of the characters a-z, 0-9 and '-'", what);
    if (size == 0 || size > DCP_LIMIT_SIGNATURE)
        return dcpi_fail(err, DCP_E_INVALID, "%s.size is %" PRIu64 ": a signature has 1 to %d bytes", what,
                         (uint64_t)size, (int)DCP_LIMIT_SIGNATURE);
    if (!built_in) return DCP_OK;
    if (strcmp(algorithm, dcpi_hmac_name) != 0 || size != 32)
        return dcpi_fail(err, DCP_E_INVALID,
                         "%s: without a callback the algorithm is hmac-sha256 with 32 bytes (use dcp_hmac_%s)", what,
                         what);
    if (!context || key_size < 16)
        return dcpi_fail(err, DCP_E_INVALID, "%s: the key has %" PRIu64 " bytes; at least 16 are needed", what,
                         (uint64_t)(context ? key_size : 0));
    return DCP_OK;
}
static dcp_status dcpi_signer_check(const dcp_signer *signer, dcp_error *err) {
    dcp_status status;
    if (!signer) return dcpi_succeed(err);
    status = dcpi_signing_check("signer", signer->sign == NULL, signer->context, signer->key_size, signer->algorithm,
                                signer->size, err);
    if (status != DCP_OK) return status;
    if (signer->key_id && !dcpi_is_key_id(signer->key_id))
        return dcpi_fail(err, DCP_E_INVALID,
                         "signer.key_id must be at most 128 of the characters A-Z, a-z, 0-9, '.', '_' and '-'");
    return dcpi_succeed(err);
}
static dcp_status dcpi_verifier_check(const dcp_verifier *verifier, dcp_error *err) {
    dcp_status status;
    if (!verifier) return dcpi_succeed(err);
    status = dcpi_signing_check("verifier", verifier->verify == NULL, verifier->context, verifier->key_size,
                                verifier->algorithm, verifier->size, err);
    return status == DCP_OK ? dcpi_succeed(err) : status;
}

static const dcpi_tail_form *dcpi_tail_form_of(const char *type) {
    return dcpi_ends_with(type, "/yaml") ? &dcpi_tail_yaml : &dcpi_tail_json;
}

/* ---- the text T -------------------------------------------------------------------------------------------------- */
static size_t dcpi_integrity_text(char text[DCPI_INTEGRITY_TEXT], const char *type, const char *algorithm,
                                  const char *key, uint64_t size, const uint8_t body[32]) {
    char digits[65];
    int length;
    dcpi_hex_encode(body, 32, digits);
    digits[64] = '\0';
    length = snprintf(text, DCPI_INTEGRITY_TEXT, "dcp-integrity-v1\n%s\n%s\n%s\n%" PRIu64 "\n%s\n", type, algorithm,
                      key, size, digits);
    return (size_t)length;
}
static void dcpi_integrity_value(const char *type, uint64_t size, const uint8_t body[32], uint8_t value[32]) {   /* V */
    char text[DCPI_INTEGRITY_TEXT];
    size_t length = dcpi_integrity_text(text, type, "sha256", "", size, body);
    dcp_sha256(text, length, value);
}
/* The digest of what a stream has taken so far; the stream goes on. */
static void dcpi_integrity_digest(const dcpi_sha *sha, uint8_t digest[32]) {
    dcpi_sha copy = *sha;
    dcpi_sha_final(&copy, digest);
}

/* ---- writing: a stream that hashes what goes through it ---------------------------------------------------------- */
typedef struct dcpi_integrity {
    const char *type;
    const dcp_signer *signer;           /* NULL: unsigned */
    dcpi_sink sink; void *user;         /* NULL: only count; then nothing is hashed or signed */
    dcpi_sha sha;
    int64_t size;                       /* bytes so far */
} dcpi_integrity;

static dcp_status dcpi_integrity_begin(dcpi_integrity *stream, const char *type, const dcp_signer *signer,
                                       dcpi_sink sink, void *user, dcp_error *err) {
    memset(stream, 0, sizeof *stream);
    stream->type = type;
    stream->signer = signer;
    stream->sink = sink;
    stream->user = user;
    dcpi_sha_init(&stream->sha);
    return dcpi_signer_check(signer, err);
}
/* A dcpi_sink for a document's bytes up to its tail; user: the dcpi_integrity. */
static dcp_status dcpi_integrity_write(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_integrity *stream = (dcpi_integrity *)user;
    stream->size += (int64_t)size;
    if (!stream->sink) return dcpi_succeed(err);
    dcpi_sha_update(&stream->sha, data, size);
    return stream->sink(stream->user, data, size, err);
}
static int64_t dcpi_integrity_tail_size(const char *type, const dcp_signer *signer) {
    const dcpi_tail_form *form = dcpi_tail_form_of(type);
    size_t size = strlen(form->integrity_open) + 64 + strlen(form->integrity_close);
    if (!signer) return (int64_t)size;
    size += strlen(form->signature_open) + strlen(signer->algorithm) + strlen(form->signature_key);
    size += (signer->key_id ? strlen(signer->key_id) : 0) + strlen(form->signature_value);
    size += 2 * signer->size + strlen(form->signature_close);
    return (int64_t)size;
}
static dcp_status dcpi_integrity_make_signature(const dcpi_integrity *stream, uint8_t *signature, dcp_error *err) {
    const dcp_signer *signer = stream->signer;
    char text[DCPI_INTEGRITY_TEXT];
    uint8_t body[32];
    size_t length;
    dcp_status status;
    dcpi_integrity_digest(&stream->sha, body);
    length = dcpi_integrity_text(text, stream->type, signer->algorithm, signer->key_id ? signer->key_id : "",
                                 (uint64_t)stream->size, body);
    if (!signer->sign) {
        dcp_hmac_sha256(signer->context, signer->key_size, text, length, signature);
        return DCP_OK;
    }
    memset(signature, 0, signer->size);                /* a callback that fills too little must not leak memory (G11) */
    (void)dcpi_succeed(err);
    status = dcpi_callback_status(&dcpi_by_signer, signer->sign(signer->context, text, length, signature, err), err,
                                  "failed");
    if (status != DCP_OK) dcpi_fail_context(err, "signing: ");
    return status;
}
static dcp_status dcpi_integrity_write_signature(dcpi_integrity *stream, dcp_error *err) {
    const dcp_signer *signer = stream->signer;
    const dcpi_tail_form *form = dcpi_tail_form_of(stream->type);
    dcpi_buffer member = {NULL, 0, 0, 0};
    dcp_status status;
    uint8_t *signature;
    char *digits;
    signature = (uint8_t *)dcpi_alloc(3 * signer->size, err);
    if (!signature) return DCP_E_MEMORY;
    digits = (char *)signature + signer->size;
    status = dcpi_integrity_make_signature(stream, signature, err);
    if (status != DCP_OK) { dcpi_free(signature); return status; }
    dcpi_hex_encode(signature, signer->size, digits);

    dcpi_buffer_text(&member, form->signature_open);
    dcpi_buffer_text(&member, signer->algorithm);
    dcpi_buffer_text(&member, form->signature_key);
    dcpi_buffer_text(&member, signer->key_id ? signer->key_id : "");
    dcpi_buffer_text(&member, form->signature_value);
    dcpi_buffer_add(&member, digits, 2 * signer->size);
    dcpi_buffer_text(&member, form->signature_close);
    status = member.failed ? dcpi_no_memory(err, member.size) : dcpi_integrity_write(stream, member.data, member.size,
            err);
    dcpi_buffer_free(&member);
    dcpi_free(signature);
    return status;
}
/* The tail: all that is missing after the last member of the outermost object, its closing brace included. */
static dcp_status dcpi_integrity_end(dcpi_integrity *stream, dcp_error *err) {
    const dcpi_tail_form *form = dcpi_tail_form_of(stream->type);
    char member[160], digits[65];
    uint8_t body[32], value[32];
    int length;
    dcp_status status;
    if (!stream->sink) {
        stream->size += dcpi_integrity_tail_size(stream->type, stream->signer);
        return dcpi_succeed(err);
    }
    if (stream->signer) {
        status = dcpi_integrity_write_signature(stream, err);
        if (status != DCP_OK) return status;
    }
    dcpi_integrity_digest(&stream->sha, body);
    dcpi_integrity_value(stream->type, (uint64_t)stream->size, body, value);
    dcpi_hex_encode(value, 32, digits);
    digits[64] = '\0';
    length = snprintf(member, sizeof member, "%s%s%s", form->integrity_open, digits, form->integrity_close);
    stream->size += length;
    return stream->sink(stream->user, member, (size_t)length, err);
}

/* ---- reading: the tail is read backwards ------------------------------------------------------------------------- */
static int dcpi_is_lower_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/* If text[0..*end) ends in `literal`, *end moves before it. */
static int dcpi_tail_literal(const char *text, size_t *end, const char *literal) {
    size_t length = strlen(literal);
    if (*end < length || memcmp(text + *end - length, literal, length) != 0) return 0;
    *end -= length;
    return 1;
}
/* *end moves before the characters of a kind, at most `limit`, that text[0..*end) ends in; returns how many they
 * are. */
static size_t dcpi_tail_run(const char *text, size_t *end, int (*is_kind)(char), size_t limit) {
    size_t count = 0;
    while (count < limit && *end > 0 && is_kind(text[*end - 1])) {
        count++;
        (*end)--;
    }
    return count;
}
/* The beginning of a member of the tail. In YAML it begins a line. */
static int dcpi_tail_open(const char *text, size_t *end, const dcpi_tail_form *form, const char *literal) {
    return dcpi_tail_literal(text, end, literal) && (form == &dcpi_tail_json || *end == 0 || text[*end - 1] == '\n');
}
static void dcpi_tail_find_signature(const char *text, const dcpi_tail_form *form, dcpi_tail *tail) {
    size_t end = tail->body, digits, key, key_length, algorithm, algorithm_length;
    tail->signed_body = tail->body;
    if (!dcpi_tail_literal(text, &end, form->signature_close)) return;
    digits = dcpi_tail_run(text, &end, dcpi_is_lower_hex, 2 * (size_t)DCP_LIMIT_SIGNATURE);
    tail->signature = text + end;
    if (digits == 0 || digits % 2 != 0 || !dcpi_tail_literal(text, &end, form->signature_value)) return;
    key_length = dcpi_tail_run(text, &end, dcpi_is_key_char, 128);
    key = end;
    if (!dcpi_tail_literal(text, &end, form->signature_key)) return;
    algorithm_length = dcpi_tail_run(text, &end, dcpi_is_algorithm_char, 32);
    algorithm = end;
    if (algorithm_length == 0 || !dcpi_tail_open(text, &end, form, form->signature_open)) return;
    memcpy(tail->key, text + key, key_length);
    memcpy(tail->algorithm, text + algorithm, algorithm_length);
    tail->signature_digits = digits;
    tail->signed_body = end;
    tail->is_signed = 1;
}
static void dcpi_tail_find(const char *text, size_t size, const dcpi_tail_form *form, dcpi_tail *tail,
                           uint8_t value[32]) {
    size_t end = size;
    memset(tail, 0, sizeof *tail);
    if (!dcpi_tail_literal(text, &end, form->integrity_close)) return;
    if (dcpi_tail_run(text, &end, dcpi_is_lower_hex, 64) != 64) return;
    (void)dcpi_hex_decode(text + end, 64, value);
    if (!dcpi_tail_open(text, &end, form, form->integrity_open)) return;
    tail->present = 1;
    tail->body = end;
    dcpi_tail_find_signature(text, form, tail);
}
/* Which of the format's kinds of document has this digest? Only for a message: NULL if none. */
static const char *dcpi_tail_type(uint64_t size, const uint8_t body[32], const uint8_t value[32]) {
    static const char *const types[] = {DCPI_TYPE_METADATA, DCPI_TYPE_CHECKPOINT, DCPI_TYPE_MANIFEST,
                                        DCPI_TYPE_MANIFEST_YAML};
    uint8_t other[32];
    size_t i;
    for (i = 0; i < DCPI_COUNT(types); i++) {
        dcpi_integrity_value(types[i], size, body, other);
        if (dcpi_sha_equal(other, value, 32)) return types[i];
    }
    return NULL;
}
static dcp_status dcpi_tail_check_value(const char *type, const dcpi_tail *tail, const uint8_t body[32],
                                        const uint8_t value[32], dcp_status failure, dcp_error *err) {
    uint8_t expected[32];
    const char *other;
    dcpi_integrity_value(type, tail->body, body, expected);
    if (dcpi_sha_equal(expected, value, 32)) return DCP_OK;
    other = dcpi_tail_type(tail->body, body, value);
    if (other)
        return dcpi_fail(err, failure, "this is a document of type %s where one of type %s belongs", other, type);
    return dcpi_fail(err, failure,
                     "the document is damaged or was edited: its integrity member does not match its bytes");
}
/* What the verifier needs is there: a signature of its algorithm and size. */
static dcp_status dcpi_tail_check_kind(const dcpi_tail *tail, const dcp_verifier *verifier, dcp_error *err) {
    if (!tail->is_signed)
        return dcpi_fail(err, DCP_E_SIGNATURE, "the document is not signed, or its signature was stripped");
    if (strcmp(tail->algorithm, verifier->algorithm) != 0)
        return dcpi_fail(err, DCP_E_SIGNATURE,
                         "the document is signed with %s (key \"%s\"), and the verifier is for %s", tail->algorithm,
                         tail->key, verifier->algorithm);
    if (tail->signature_digits != 2 * verifier->size)
        return dcpi_fail(err, DCP_E_SIGNATURE, "the signature has %" PRIu64 " bytes, %s has %" PRIu64,
                         (uint64_t)(tail->signature_digits / 2), verifier->algorithm, (uint64_t)verifier->size);
    return DCP_OK;
}
static dcp_status dcpi_tail_verify(const char *type, const dcpi_tail *tail, const uint8_t body[32],
                                   const dcp_verifier *verifier, dcp_error *err) {
    char text[DCPI_INTEGRITY_TEXT];
    size_t length = dcpi_integrity_text(text, type, tail->algorithm, tail->key, tail->signed_body, body);
    uint8_t expected[32], *signature;
    dcp_error reason;
    dcp_status status;
    signature = (uint8_t *)dcpi_alloc(verifier->size, err);
    if (!signature) return DCP_E_MEMORY;
    (void)dcpi_hex_decode(tail->signature, tail->signature_digits, signature);
    if (verifier->verify) {
        (void)dcpi_succeed(&reason);
        status = verifier->verify(verifier->context, tail->key, text, length, signature, &reason);
        status = dcpi_callback_status(&dcpi_by_verifier, status, &reason, "failed");
    } else {
        dcp_hmac_sha256(verifier->context, verifier->key_size, text, length, expected);
        status = dcpi_sha_equal(expected, signature, 32) ? DCP_OK : DCP_E_SIGNATURE;
    }
    dcpi_free(signature);
    if (status == DCP_OK) return dcpi_succeed(err);
    /* it could not look, which says nothing about the document */
    if (status != DCP_E_SIGNATURE)
        return dcpi_fail_sys(err, status, reason.sys, "the %s signature (key \"%s\") could not be verified: %s",
                             tail->algorithm, tail->key, reason.message);
    return dcpi_fail(err, DCP_E_SIGNATURE,
                     "the %s signature (key \"%s\") does not match: another key, or the document was changed",
                     tail->algorithm, tail->key);
}
/* Checks the tail of a document. No tail and no verifier: DCP_OK with tail->present 0, and the caller, once it has
 * parsed, decides whether the document may lack one. A tail that does not match is DCP_E_CHECKSUM. With a verifier
 * whatever is wrong is DCP_E_SIGNATURE, but that the verifier itself could not look (dcpi_by_verifier). */
static dcp_status dcpi_integrity_check(const char *type, const char *text, size_t size, const dcp_verifier *verifier,
                                       dcpi_tail *tail, dcp_error *err) {
    uint8_t value[32], signed_body[32], body[32];
    dcp_status status = dcpi_verifier_check(verifier, err);
    dcpi_sha sha;
    memset(tail, 0, sizeof *tail);
    if (status != DCP_OK) return status;
    dcpi_tail_find(text, size, dcpi_tail_form_of(type), tail, value);
    if (!tail->present) {
        if (!verifier) return dcpi_succeed(err);
        return dcpi_fail(err, DCP_E_SIGNATURE,
                         "the document does not end in an integrity member: it is not signed, cut short, or not ours");
    }
    dcpi_sha_init(&sha);
    dcpi_sha_update(&sha, text, tail->signed_body);
    dcpi_integrity_digest(&sha, signed_body);
    dcpi_sha_update(&sha, text + tail->signed_body, tail->body - tail->signed_body);
    dcpi_integrity_digest(&sha, body);

    status = dcpi_tail_check_value(type, tail, body, value, verifier ? DCP_E_SIGNATURE : DCP_E_CHECKSUM, err);
    if (status != DCP_OK) return status;
    if (!verifier) return dcpi_succeed(err);
    status = dcpi_tail_check_kind(tail, verifier, err);
    return status == DCP_OK ? dcpi_tail_verify(type, tail, signed_body, verifier, err) : status;
}

