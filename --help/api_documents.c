/* =====================================================================================================================
 * >>api_documents   The documents, for programs that build, read, check or rewrite them without saving tensors.
 *                   DCP_LAYOUT_SHARDED's P.metadata.json and
 *               the JSON inside P.checkpoint are the same document. A dcp_metadata that a program fills by hand
 *               (internal NULL) is as good as a parsed one.
 * ================================================================================================================== */
typedef struct dcp_tensor_metadata {
    const char *name; int ndim; int64_t shape[DCP_MAX_DIMS]; const char *data_type;
    int64_t offset, size;               /* bytes, in the shard's file */
    int64_t global_shape[DCP_MAX_DIMS], global_offset[DCP_MAX_DIMS];
    const char *placement;         /* "sharded", "replicated", "private"; NULL: absent, the piece is the whole tensor */
    int64_t block_size;                 /* 0: no block digests */
    const uint8_t *block_checksums; size_t block_count;     /* 32 bytes each */
    const char *extra;                  /* unknown members, `"key": value, ...`; NULL: none */
} dcp_tensor_metadata;
typedef struct dcp_shard_metadata {
    int rank; const char *file_path; int64_t file_size;
    dcp_tensor_metadata *tensors; size_t tensor_count;
    const char *checksum;               /* "sha256-tree:<64 hex>" or "<64 hex>"; NULL: absent */
    int64_t data_offset;                /* single file: where the region starts; else 0 */
    const char *extra;
} dcp_shard_metadata;
struct dcp_metadata {
    const char *version, *timestamp;    /* NULL in a built one: DCP_FORMAT_VERSION, now */
    const char *save_id;                /* NULL: absent */
    int64_t sequence; int world_size, ddp_rank;
    dcp_sharding sharding;              /* strategy NULL: the document has no sharding member, which is an error */
    dcp_shard_metadata *shards; size_t shard_count;
    dcp_training training; int has_training;
    dcp_field *fields; size_t field_count;
    void *internal;                     /* owns the memory; NULL in a struct filled by hand */
    const char *extra;
    /* of the signature that stood in the parsed document; NULL: none */
    const char *signature_algorithm, *signature_key;
    int is_foreign;                     /* parsed: has none of our additions (a seed document) */
};

/* Empty, to be built; dcp_metadata_free. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_metadata_new(dcp_metadata **out, dcp_error *err);
/* these copy. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_metadata_set_sharding(dcp_metadata *metadata, const dcp_sharding *sharding, dcp_error *err);
/* Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_metadata_set_training(dcp_metadata *metadata, const dcp_training *training, dcp_error *err);
/* value NULL removes. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_metadata_set_field(dcp_metadata *metadata, const char *key, const char *value, dcp_error *err);
/* Its tensors too, if any. Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_metadata_add_shard(dcp_metadata *metadata, const dcp_shard_metadata *shard, dcp_error *err);
/* Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_metadata_add_tensor(dcp_metadata *metadata, size_t shard_index, const dcp_tensor_metadata *tensor,
                                          dcp_error *err);
/* Parses a document and checks its integrity member where it has one. Syntax, types of known members, sizes against
 * limits: DCP_E_FORMAT, DCP_E_LIMIT. What the fields say is dcp_metadata_validate's business. DCP_E_CHECKSUM: a
 * document of ours whose integrity member is missing or wrong.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_FORMAT | DCP_E_LIMIT | DCP_E_VERSION | DCP_E_CHECKSUM. */
DCPDEF dcp_status dcp_metadata_parse(const char *text, size_t size, dcp_metadata **out, dcp_error *err);
/* With integrity; dcp_free the text. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_metadata_write(const dcp_metadata *metadata, char **text, size_t *size, dcp_error *err);
/* Some bytes that have no digest are DCP_E_SIGNATURE. Status: DCP_E_INVALID | DCP_E_MEMORY | (signer). */
DCPDEF dcp_status dcp_metadata_write_signed(const dcp_metadata *metadata, const dcp_signer *signer, char **text,
                                            size_t *size, dcp_error *err);
/* The same through a storage (NULL: path is an OS path). A verifier that is set must accept. write_file replaces
 * atomically and durably. Status: (storage) | (document) | DCP_E_NOT_FOUND | DCP_E_INCOMPLETE. */
DCPDEF dcp_status dcp_metadata_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier,
                                         dcp_metadata **out, dcp_error *err);
/* Status: (storage) | (signer). */
DCPDEF dcp_status dcp_metadata_write_file(dcp_storage *storage, const char *path, const dcp_metadata *metadata,
                                          const dcp_signer *signer, dcp_error *err);
DCPDEF const char *dcp_field_find(const dcp_metadata *metadata, const char *key);               /* NULL: absent */
DCPDEF void dcp_metadata_free(dcp_metadata *metadata);

typedef struct dcp_validation {
    char **errors;
    size_t error_count;
    char **warnings;
    size_t warning_count;
} dcp_validation;
/* Every rule of the format. `out` is initialised here; DCP_E_FORMAT when there are errors; dcp_validation_free in any
 * case. Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_FORMAT. */
DCPDEF dcp_status dcp_metadata_validate(const dcp_metadata *metadata, dcp_validation *out);
/* Appends a copy: for checks of a program's own. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_validation_error(dcp_validation *validation, const char *message);
/* Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_validation_warning(dcp_validation *validation, const char *message);
DCPDEF void dcp_validation_free(dcp_validation *validation);

/* ".metadata.json", ".checkpoint", ".manifest.json" */
DCPDEF const char *dcp_layout_extension(dcp_layout layout);
/* save_id NULL: the plain name. Status: DCP_E_INVALID. */
DCPDEF dcp_status dcp_shard_name(const char *prefix, int rank, const char *save_id, char *name, size_t capacity,
                                 dcp_error *err);

/* ---- the manifest of DCP_LAYOUT_MANIFEST (seed: SPEC-029): P.manifest.json or P.manifest.yaml, the same fields in
 * both. A dcp_manifest that a program fills by hand (internal NULL) is as good as a parsed one. Unknown members are
 * kept, as `extra`, and written again. ---- */
typedef struct dcp_manifest_shard {     /* one file of the pool, and what it holds */
    const char *path;                   /* beside the manifest, parts joined by '/' */
    const char *type;                /* "dense" or "expert"; NULL in optim_state and router_state, where it is absent */
    const char *tensor_name;            /* NULL: absent; then expert_key stands for it */
    int has_expert_key; int64_t expert_key[3];      /* tier, group, expert */
    int ndim; int64_t shape[DCP_MAX_DIMS];          /* ndim -1: absent */
    const char *dtype, *tier_hint, *checksum;       /* NULL: absent */
    int64_t version;                    /* 0 when it is first written, one more for each change of its content */
    int64_t size;                       /* bytes; -1: absent, follows from shape and dtype */
    /* all zero: absent, the piece is the whole tensor */
    int64_t global_shape[DCP_MAX_DIMS], global_offset[DCP_MAX_DIMS];
    const char *placement;              /* as in dcp_tensor_metadata */
    int rank;                           /* that wrote it; -1: absent */
    int64_t block_size; const uint8_t *block_checksums; size_t block_count; /* 0: none; 32 bytes each */
    const char *extra;                  /* unknown members, `"key": value, ...` as JSON; NULL: none */
} dcp_manifest_shard;
typedef struct dcp_manifest_tier {
    dcp_tier tier;
    int64_t budget_bytes;
    /* parsed size_budget; -1: none */ const char *extra;
} dcp_manifest_tier;
typedef struct dcp_manifest_layer {     /* of the router: its weights, and the seed of its random choices */
    int64_t layer; int has_seed; uint64_t seed;
    dcp_manifest_shard *shards; size_t shard_count;
    const char *extra;
} dcp_manifest_layer;
/* optim_state: `shards`; router_state: `layers`; the seed's documents have a path only */
typedef struct dcp_manifest_state {
    int is_there;
    const char *path;                   /* NULL: absent */
    dcp_manifest_shard *shards; size_t shard_count;
    dcp_manifest_layer *layers; size_t layer_count;
    const char *extra;
} dcp_manifest_state;
struct dcp_manifest {
    const char *model_id; int64_t epoch, step;
    dcp_manifest_tier *tiers; size_t tier_count;
    dcp_manifest_shard *shards; size_t shard_count;
    dcp_manifest_state optim_state, router_state;
    int64_t metadata_version;           /* 1; a higher one loads, what is unknown in it is ignored */
    int64_t min_reader_version;      /* 0: absent; beyond DCP_MANIFEST_VERSION the document is refused: DCP_E_VERSION */
    const char *save_id, *timestamp;    /* NULL: absent; in a built one timestamp NULL is now */
    int64_t sequence; int world_size;   /* 0: absent */
    dcp_sharding sharding; int has_sharding;
    dcp_training training; int has_training;
    dcp_field *fields; size_t field_count;
    void *internal;                     /* owns the memory; NULL in a struct filled by hand */
    const char *extra;
    /* of the signature that stood in the parsed document; NULL: none */
    const char *signature_algorithm, *signature_key;
    int is_foreign;                     /* parsed: has none of our additions (a seed document) */
    int is_yaml;                        /* parsed: what it was written in */
};
/* the metadata_version that this version writes, and the min_reader_version that it reads */
#define DCP_MANIFEST_VERSION 1

/* Empty, to be built; dcp_manifest_free. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_manifest_new(dcp_manifest **out, dcp_error *err);
/* these copy. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_manifest_set_model(dcp_manifest *manifest, const char *model_id, int64_t epoch, int64_t step,
                                         dcp_error *err);
/* Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_manifest_add_tier(dcp_manifest *manifest, const dcp_tier *tier, dcp_error *err);
/* Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_manifest_add_shard(dcp_manifest *manifest, const dcp_manifest_shard *shard, dcp_error *err);
/* Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_manifest_add_optimizer_shard(dcp_manifest *manifest, const dcp_manifest_shard *shard,
                                                   dcp_error *err);
/* Of the router's layer, which is made if it is not there; shard NULL: only the seed; seed NULL: only the shard.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_LIMIT. */
DCPDEF dcp_status dcp_manifest_add_router(dcp_manifest *manifest, int64_t layer, const uint64_t *seed,
                                          const dcp_manifest_shard *shard, dcp_error *err);
/* value NULL removes. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_manifest_set_field(dcp_manifest *manifest, const char *key, const char *value, dcp_error *err);
/* JSON or YAML, told apart by the first character: JSON begins with '{'. Checks the integrity member where there is
 * one. DCP_E_VERSION: min_reader_version is beyond this version.
 * Status: as dcp_metadata_parse. */
DCPDEF dcp_status dcp_manifest_parse(const char *text, size_t size, dcp_manifest **out, dcp_error *err);
/* with integrity; signer NULL: unsigned; dcp_free the text. Status: as dcp_metadata_write_signed. */
DCPDEF dcp_status dcp_manifest_write(const dcp_manifest *manifest, int yaml, const dcp_signer *signer, char **text,
                                     size_t *size, dcp_error *err);
/* As dcp_metadata_validate. Only warnings: a tier_hint that names no tier, a newer metadata_version, no model_id; and
 * in a document without save_id, which other programs wrote, a checksum that is none, and pieces of one tensor of which
 * nothing says how they fit together. Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_FORMAT. */
DCPDEF dcp_status dcp_manifest_validate(const dcp_manifest *manifest, dcp_validation *out);
/* Status: as dcp_metadata_read_file. */
DCPDEF dcp_status dcp_manifest_read_file(dcp_storage *storage, const char *path, const dcp_verifier *verifier,
                                         dcp_manifest **out, dcp_error *err);
/* YAML if path ends in .yaml or .yml. Status: as dcp_metadata_write_file. */
DCPDEF dcp_status dcp_manifest_write_file(dcp_storage *storage, const char *path, const dcp_manifest *manifest,
                                          const dcp_signer *signer, dcp_error *err);
/* Status: DCP_E_INVALID | DCP_E_NOT_FOUND no such layer, or no seed in it. */
DCPDEF dcp_status dcp_manifest_router_seed(const dcp_manifest *manifest, int64_t layer, uint64_t *seed);
DCPDEF void dcp_manifest_free(dcp_manifest *manifest);

DCPDEF void dcp_sha256(const void *data, size_t size, uint8_t digest[32]);
DCPDEF void dcp_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t digest[32]);

/* ---- JSON: for the free-form parts (strategySpecificInfo, optimizerState, a program's own files). Strict RFC 8259;
 * integers exact in 64 bits; members in order; duplicate keys, lone surrogates, NUL and nesting beyond DCP_LIMIT_DEPTH
 * are refused. A tree is freed through its root. Reading one from several threads is fine. Accessors take NULL, so that
 * look-ups chain. ---- */
typedef enum dcp_json_kind { DCP_JSON_NULL, DCP_JSON_BOOL, DCP_JSON_INT, DCP_JSON_DOUBLE, DCP_JSON_STRING,
                             DCP_JSON_ARRAY, DCP_JSON_OBJECT } dcp_json_kind;
/* DCP_E_FORMAT with line, column and byte; DCP_E_MEMORY. A tree takes about 100 bytes a value beside its text; the text
 * is the caller's again on return.
 * Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_FORMAT. */
DCPDEF dcp_status dcp_json_parse(const char *text, size_t size, dcp_json **out, dcp_error *err);
/* The same tree from YAML: the subset that says what JSON can say. Refused by name: anchors, aliases, tags, merge keys,
 * directives, further documents, the end mark `...`, a value on the line of `---`, block scalars (| and >), tabs as
 * indentation, complex keys, duplicate keys. 0o17 and 0x1F are integers, as YAML 1.2 has them; `no`, `on` and 1_000 are
 * strings. Status: DCP_E_INVALID | DCP_E_MEMORY | DCP_E_FORMAT. */
DCPDEF dcp_status dcp_yaml_parse(const char *text, size_t size, dcp_json **out, dcp_error *err);
DCPDEF void dcp_json_free(dcp_json *root);
DCPDEF dcp_json_kind dcp_json_kind_of(const dcp_json *json);                            /* DCP_JSON_NULL for NULL too */
DCPDEF int dcp_json_bool(const dcp_json *json);                                                 /* 1 for true, else 0 */
/* Status: DCP_E_MISMATCH no integer, or beyond int64. */
DCPDEF dcp_status dcp_json_int(const dcp_json *json, int64_t *value);
/* Status: DCP_E_MISMATCH. */
DCPDEF dcp_status dcp_json_uint(const dcp_json *json, uint64_t *value);
/* of an integer too, rounded to nearest. Status: DCP_E_MISMATCH no number. */
DCPDEF dcp_status dcp_json_double(const dcp_json *json, double *value);
/* NUL-terminated; NULL if it is no string; length may be NULL */
DCPDEF const char *dcp_json_string(const dcp_json *json, size_t *length);
DCPDEF size_t dcp_json_count(const dcp_json *json);                                  /* of an array or object, else 0 */
/* element or member value; NULL beyond the end */
DCPDEF const dcp_json *dcp_json_at(const dcp_json *json, size_t index);
DCPDEF const char *dcp_json_key(const dcp_json *json, size_t index);          /* key of a member; NULL beyond the end */
DCPDEF const dcp_json *dcp_json_get(const dcp_json *object, const char *key);                   /* NULL: absent */
DCPDEF dcp_json *dcp_json_new_object(dcp_error *err);                           /* roots to build on; NULL: no memory */
DCPDEF dcp_json *dcp_json_new_array(dcp_error *err);
/* Append a value to a container of a tree that is being built; key is NULL in an array. They return the new value,
 * which belongs to the tree, or NULL: no memory, a key that is there already, text that is not UTF-8 or holds NUL, a
 * number that is not finite, or nesting beyond the limit. */
DCPDEF dcp_json *dcp_json_add_object(dcp_json *parent, const char *key);
DCPDEF dcp_json *dcp_json_add_array(dcp_json *parent, const char *key);
DCPDEF dcp_json *dcp_json_add_string(dcp_json *parent, const char *key, const char *value);
DCPDEF dcp_json *dcp_json_add_int(dcp_json *parent, const char *key, int64_t value);
DCPDEF dcp_json *dcp_json_add_double(dcp_json *parent, const char *key, double value);
DCPDEF dcp_json *dcp_json_add_bool(dcp_json *parent, const char *key, int value);
DCPDEF dcp_json *dcp_json_add_null(dcp_json *parent, const char *key);
/* indent: spaces a level; 0: one line without spaces. The text ends in NUL, which size (may be NULL) does not count;
 * dcp_free it. Status: DCP_E_INVALID | DCP_E_MEMORY. */
DCPDEF dcp_status dcp_json_write(const dcp_json *json, int indent, char **text, size_t *size, dcp_error *err);

