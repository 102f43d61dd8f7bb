/* =====================================================================================================================
 * >>api_model   Tensors and their pieces; what a checkpoint says about training.
 * ================================================================================================================== */
typedef enum dcp_dtype {
    DCP_FP32 = 1, DCP_FP64, DCP_FP16, DCP_BF16, DCP_FP8_E4M3, DCP_FP8_E5M2,
    DCP_INT64, DCP_INT32, DCP_INT16, DCP_INT8, DCP_UINT64, DCP_UINT32, DCP_UINT16, DCP_UINT8, DCP_BOOL,
    DCP_COMPLEX64, DCP_COMPLEX128,
    /* two to a byte, element 0 in the low nibble; no strides, no cut inside a byte */
    DCP_FP4_E2M1, DCP_INT4, DCP_UINT4,
    DCP_OPAQUE                          /* read only: a type this version does not know; its bytes, whole */
} dcp_dtype;
DCPDEF const char *dcp_dtype_name(dcp_dtype dtype);     /* "bf16"; NULL for a number that is none */
/* our names and the usual aliases (float32, F32, bfloat16, I64, ...); else DCP_OPAQUE */
DCPDEF dcp_dtype dcp_dtype_parse(const char *name);
DCPDEF int dcp_dtype_bits(dcp_dtype dtype);             /* 4 to 128; 0 for DCP_OPAQUE */

typedef enum dcp_placement {
    DCP_PLACE_AUTO,            /* sharded if global_shape is set; else, with one rank, replicated; with many, private */
    DCP_PLACE_REPLICATED,               /* every rank has the same bytes; stored once, loads anywhere */
    DCP_PLACE_PRIVATE,                  /* belongs to the rank that saved it */
    DCP_PLACE_SHARDED                   /* a box of a global tensor */
} dcp_placement;
typedef enum dcp_role { DCP_ROLE_PARAMETER, DCP_ROLE_EXPERT, DCP_ROLE_OPTIMIZER, DCP_ROLE_ROUTER } dcp_role;
typedef enum dcp_layout {
    DCP_LAYOUT_SHARDED,                 /* P.metadata.json and one P_shard_<rank>.bin a rank */
    /* P.checkpoint, one file (MLCP). A storage needs DCP_STORAGE_RANDOM_WRITE, for the header comes last; without both
     * EXCLUSIVE_PUBLISH and COMMIT_LOCK the second of two first saves replaces the first */
    DCP_LAYOUT_SINGLE,
    DCP_LAYOUT_MANIFEST                 /* P.manifest.json or .yaml, and one file for each piece, shared with the
                                         * manifests beside it */
} dcp_layout;
typedef enum dcp_checksum {
    /* a digest a block: partial reads verify just what they touch, and hashing runs at full speed */
    DCP_CHECKSUM_TREE,
    DCP_CHECKSUM_FLAT             /* one SHA-256 a file, as sha256sum prints it; the first touch reads the whole file */
} dcp_checksum;
typedef enum dcp_verify_policy {
    DCP_VERIFY_TOUCHED,                 /* every block that is read, before its bytes are used */
    DCP_VERIFY_ALL,                     /* open checks every byte of every file first */
    DCP_VERIFY_NONE                     /* sizes and documents only */
} dcp_verify_policy;

typedef struct dcp_tensor {
    /* 1 to 1,024 bytes, no control characters; unique in a rank's list, together with global_offset */
    const char *name;
    dcp_dtype dtype;
    int ndim;                           /* 0: a scalar. Entries at and beyond ndim in the four arrays must be 0 */
    int64_t shape[DCP_MAX_DIMS];        /* this piece */
    int64_t global_shape[DCP_MAX_DIMS]; /* the whole tensor; all zero: the piece is the whole */
    int64_t global_offset[DCP_MAX_DIMS];/* where the piece starts in the whole */
    int64_t stride[DCP_MAX_DIMS];       /* in memory; all zero: row-major without gaps; negative or aliasing: refused */
    dcp_placement placement;
    void *data;                         /* may be NULL when the piece has no bytes; read only for a save */
    const dcp_device *device;           /* NULL: data is host memory */
    /* manifest layout. role EXPERT: expert_key is tier, group, expert; ROUTER: expert_key[0] is the layer; tier NULL:
     * none */
    dcp_role role; const char *tier; int64_t expert_key[3];
    int optional;                       /* load: absent is fine, data stays untouched */
    dcp_status status;                  /* load, out: DCP_OK, or DCP_E_NOT_FOUND for an absent optional one */
    /* save, manifest layout: of a file that is written the least version (a converted one goes on counting) */
    int64_t version;
    /* save: members for the piece's entry in the document, as in dcp_save_desc.extra */
    const char *extra;
} dcp_tensor;

DCPDEF dcp_tensor dcp_array(const char *name, dcp_dtype dtype, const void *data, int ndim, const int64_t *shape);
DCPDEF dcp_tensor dcp_scalar(const char *name, dcp_dtype dtype, const void *data);
/* uint8, one dimension: any state that is bytes */
DCPDEF dcp_tensor dcp_bytes(const char *name, const void *data, size_t size);
/* both of tensor->ndim entries */
DCPDEF void dcp_piece(dcp_tensor *tensor, const int64_t *global_shape, const int64_t *global_offset);

typedef struct dcp_training {
    int64_t epoch, step;
    double learning_rate;               /* finite */
    const char *optimizer_type;         /* NULL: absent */
    const char *optimizer_state;        /* JSON object text; NULL: {} */
    /* members that this version does not know: `"key": value, ...`; kept in a rewrite; NULL: none */
    const char *extra;
} dcp_training;

typedef struct dcp_sharding {
    const char *strategy;               /* "fsdp", "ddp", "tensor_parallel", ...; NULL: derived from the placements */
    int64_t shard_count;                /* 0 or the world size */
    const char *precision;              /* "bf16", ...; NULL: the type that most bytes have */
    const char *info;                   /* JSON object text (strategySpecificInfo); NULL: {} */
    const char *extra;                  /* as in dcp_training */
} dcp_sharding;

typedef struct dcp_tier {
    int64_t tier_id;
    const char *name;
    const char *size_budget;
    const char *placement_policy;
} dcp_tier;

