/* =====================================================================================================================
 * >>file        The header of a single file, P.checkpoint (MLCP): all that stands before the tensor bytes.
 *
 *     4            magic 0x4D4C4350, on disk 50 43 4C 4D
 *     1 + n        version: its length as a varint of 7 bits a byte, lowest first (a .NET string), and its UTF-8
 *     4 + m        length of the metadata document as int32, and the document (>>meta)
 *     records      for each shard an int32, its number of tensors, and for each tensor
 *                  int32 length of the name, the name; data type as a varint string; int32 number of dimensions; int64
 *                  each; int64 size in bytes
 *     padding      zeros up to the first dataOffset
 *
 * Everything but the document repeats what the document says, so reading is writing once more: the bytes are rebuilt
 * and compared. That leaves no room for a second reading of a file, for non-minimal lengths or for bytes that nobody
 * looks at (G4).
 * ================================================================================================================== */
#define DCPI_FILE_PREFIX 4096           /* of so many first bytes of a file dcpi_file_prefix needs no more */
#define DCPI_FILE_VERSION 32            /* a version and a NUL */
static const uint8_t dcpi_file_magic[4] = {0x50, 0x43, 0x4C, 0x4D};

/* ---- writing ----------------------------------------------------------------------------------------------------- */
typedef struct dcpi_file_out {          /* gathers small pieces for a sink */
    dcpi_sink sink; void *user;         /* sink NULL: only count */
    int64_t size;                       /* bytes so far */
    size_t used;
    dcp_status status; dcp_error *err;  /* after a failure nothing more is written */
    uint8_t bytes[8192];
} dcpi_file_out;

static void dcpi_file_begin(dcpi_file_out *out, dcpi_sink sink, void *user, dcp_error *err) {
    out->sink = sink;
    out->user = user;
    out->size = 0;
    out->used = 0;
    out->status = DCP_OK;
    out->err = err;
}
static void dcpi_file_flush(dcpi_file_out *out) {
    if (out->status == DCP_OK && out->used > 0 && out->sink)
        out->status = out->sink(out->user, out->bytes, out->used, out->err);
    out->used = 0;
}
static void dcpi_file_put(dcpi_file_out *out, const void *data, size_t size) {
    const uint8_t *from = (const uint8_t *)data;
    out->size += (int64_t)size;
    while (size > 0) {
        size_t n = size < sizeof out->bytes - out->used ? size : sizeof out->bytes - out->used;
        memcpy(out->bytes + out->used, from, n);
        out->used += n;
        from += n;
        size -= n;
        if (out->used == sizeof out->bytes) dcpi_file_flush(out);
    }
}
static void dcpi_file_put32(dcpi_file_out *out, uint32_t value) {
    uint8_t bytes[4];
    dcpi_store32(bytes, value);
    dcpi_file_put(out, bytes, sizeof bytes);
}
static void dcpi_file_put64(dcpi_file_out *out, int64_t value) {
    uint8_t bytes[8];
    dcpi_store64(bytes, (uint64_t)value);
    dcpi_file_put(out, bytes, sizeof bytes);
}
static void dcpi_file_put_string(dcpi_file_out *out, const char *text) {  /* as BinaryWriter.Write(string) does */
    size_t length = strlen(text), rest = length, n = 0;
    uint8_t varint[10];
    for (; rest >= 0x80; rest >>= 7) varint[n++] = (uint8_t)((rest & 0x7F) | 0x80);
    varint[n++] = (uint8_t)rest;
    dcpi_file_put(out, varint, n);
    dcpi_file_put(out, text, length);
}
static void dcpi_file_put_zeros(dcpi_file_out *out, int64_t count) {
    static const uint8_t zeros[512] = {0};
    for (; count > 0 && out->status == DCP_OK; count -= dcpi_min(count, (int64_t)sizeof zeros))
        dcpi_file_put(out, zeros, (size_t)dcpi_min(count, (int64_t)sizeof zeros));
}
static dcp_status dcpi_file_put_tensor(dcpi_file_out *out, const dcp_tensor_metadata *tensor) {
    int d;
    if (!tensor->name || !tensor->data_type || tensor->ndim < 0 || tensor->ndim > DCP_MAX_DIMS)
        return dcpi_fail(out->err, DCP_E_INVALID,
                         "a tensor without name, data type or a possible number of dimensions cannot be written");
    dcpi_file_put32(out, (uint32_t)strlen(tensor->name));
    dcpi_file_put(out, tensor->name, strlen(tensor->name));
    dcpi_file_put_string(out, tensor->data_type);
    dcpi_file_put32(out, (uint32_t)tensor->ndim);
    for (d = 0; d < tensor->ndim; d++) dcpi_file_put64(out, tensor->shape[d]);
    dcpi_file_put64(out, tensor->size);
    return out->status;
}
static dcp_status dcpi_file_put_shard(dcpi_file_out *out, const dcpi_meta_source *source, size_t s) {
    dcp_shard_metadata shard;
    dcp_tensor_metadata tensor;
    size_t t;
    dcp_status status;
    memset(&shard, 0, sizeof shard);
    status = source->shard(source->user, s, &shard, out->err);
    if (status != DCP_OK) return status;
    if (shard.tensor_count > (size_t)DCP_LIMIT_TENSORS)
        return dcpi_fail(out->err, DCP_E_LIMIT, "more than %d tensors in a shard", (int)DCP_LIMIT_TENSORS);
    dcpi_file_put32(out, (uint32_t)shard.tensor_count);
    for (t = 0; t < shard.tensor_count && out->status == DCP_OK; t++) {
        memset(&tensor, 0, sizeof tensor);
        status = source->tensor(source->user, s, t, &tensor, out->err);
        if (status == DCP_OK) status = dcpi_file_put_tensor(out, &tensor);
        if (status != DCP_OK) return status;
    }
    return out->status;
}
/* Once something could not be put, the source is not asked any more: its success would wipe out the error. */
static dcp_status dcpi_file_put_records(dcpi_file_out *out, const dcpi_meta_source *source) {
    dcp_status status = out->status;
    size_t s;
    for (s = 0; s < source->shard_count && status == DCP_OK; s++) status = dcpi_file_put_shard(out, source, s);
    return status;
}
static void dcpi_file_put_prefix(dcpi_file_out *out, const dcpi_meta_source *source, int64_t json_size) {
    dcpi_file_put(out, dcpi_file_magic, sizeof dcpi_file_magic);
    dcpi_file_put_string(out, source->head->version ? source->head->version : DCP_FORMAT_VERSION);
    dcpi_file_put32(out, (uint32_t)json_size);
}
/* Bytes of everything before the data but the document and the padding. */
static dcp_status dcpi_file_records_size(const dcpi_meta_source *source, int64_t *size, dcp_error *err) {
    dcpi_file_out out;
    dcp_status status;
    *size = 0;
    dcpi_file_begin(&out, NULL, NULL, err);
    dcpi_file_put_prefix(&out, source, 0);
    status = dcpi_file_put_records(&out, source);
    if (status != DCP_OK) return status;
    *size = out.size;
    return dcpi_succeed(err);
}
static dcp_status dcpi_file_check_json_size(int64_t json_size, dcp_error *err) {
    if (json_size >= 0 && json_size <= INT32_MAX) return DCP_OK;
    return dcpi_fail(err, DCP_E_LIMIT,
                     "the metadata document has %" PRId64
                     " bytes; a single file holds at most 2 GiB of it (use the sharded layout)",
                     json_size);
}
/* Writes everything before the data. json_size: of the document, as dcpi_meta_emit yields it. data_offset 0: no
 * padding. */
static dcp_status dcpi_file_emit(const dcpi_meta_source *source, int64_t json_size, int64_t data_offset,
                                 const dcp_signer *signer, dcpi_sink sink, void *user, dcp_error *err) {
    dcpi_file_out out;
    int64_t written = 0;
    dcp_status status = dcpi_file_check_json_size(json_size, err);
    if (status != DCP_OK) return status;
    dcpi_file_begin(&out, sink, user, err);
    dcpi_file_put_prefix(&out, source, json_size);
    dcpi_file_flush(&out);
    if (out.status != DCP_OK) return out.status;

    status = dcpi_meta_emit(source, DCPI_TYPE_CHECKPOINT, signer, sink, user, &written, err);
    if (status != DCP_OK) return status;
    if (written != json_size)
        return dcpi_fail(err, DCP_E_INVALID, "internal: the metadata document has %" PRId64 " bytes, %" PRId64
                         " were expected", written, json_size);
    out.size += written;

    status = dcpi_file_put_records(&out, source);
    if (status != DCP_OK) return status;
    if (data_offset > 0 && out.size > data_offset)
        return dcpi_fail(err, DCP_E_INVALID, "internal: the header has %" PRId64 " bytes, the data begins at %" PRId64,
                         out.size, data_offset);
    dcpi_file_put_zeros(&out, data_offset - out.size);
    dcpi_file_flush(&out);
    return out.status == DCP_OK ? dcpi_succeed(err) : out.status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
/* A varint at bytes[*at]; 0: cut off, longer than it need be, or above INT32_MAX. */
static int dcpi_file_varint(const uint8_t *bytes, size_t count, size_t *at, uint32_t *value) {
    uint64_t sum = 0;
    int shift = 0;
    for (; *at < count && shift <= 28; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        sum |= (uint64_t)(byte & 0x7F) << shift;
        if (byte & 0x80) continue;
        if ((byte == 0 && shift > 0) || sum > INT32_MAX) return 0;
        *value = (uint32_t)sum;
        return 1;
    }
    return 0;
}
static dcp_status dcpi_file_read_version(const uint8_t *bytes, size_t count, size_t *at,
                                         char version[DCPI_FILE_VERSION], dcp_error *err) {
    uint32_t length;
    if (!dcpi_file_varint(bytes, count, at, &length))
        return dcpi_fail(err, DCP_E_FORMAT,
                         "corrupted checkpoint file: the length of its version, at byte 4, is not a minimal varint");
    if (length == 0 || length >= DCPI_FILE_VERSION || length > count - *at)
        return dcpi_fail(err, DCP_E_FORMAT,
                         "corrupted checkpoint file: its version, at byte %" PRIu64 ", has an impossible length of %"
                         PRIu32, (uint64_t)*at,
                         length);
    memcpy(version, bytes + *at, length);
    version[length] = '\0';
    if (strlen(version) != length || dcpi_version_major(version) < 0) {
        version[0] = '\0';
        return dcpi_fail(err, DCP_E_FORMAT,
                         "corrupted checkpoint file: at byte %" PRIu64 " there is no version such as "
                         DCP_FORMAT_VERSION, (uint64_t)*at);
    }
    *at += length;
    if (!dcpi_version_is_newer(version)) return DCP_OK;
    return dcpi_fail(err, DCP_E_VERSION, "the checkpoint file has format version %s; this program knows "
                     DCP_FORMAT_VERSION, version);
}
/* Where the document of a single file is, from the first bytes of the file: DCPI_FILE_PREFIX of them, or all if it is
 * shorter. */
static dcp_status dcpi_file_prefix(const uint8_t *bytes, size_t count, int64_t file_size, int64_t *json_offset,
                                   int64_t *json_size, char version[DCPI_FILE_VERSION], dcp_error *err) {
    size_t at = sizeof dcpi_file_magic;
    uint32_t length;
    dcp_status status;
    *json_offset = *json_size = 0;
    version[0] = '\0';
    if (count < sizeof dcpi_file_magic || memcmp(bytes, dcpi_file_magic, sizeof dcpi_file_magic) != 0)
        return dcpi_fail(err, DCP_E_FORMAT,
                         "not a checkpoint file: magic number mismatch (it must begin with the bytes 50 43 4C 4D)");
    status = dcpi_file_read_version(bytes, count, &at, version, err);
    if (status != DCP_OK) return status;
    if (count - at < 4)
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: it ends at byte %" PRIu64 ", inside its header",
                         (uint64_t)count);
    length = (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 |
             (uint32_t)bytes[at + 3] << 24;
    at += 4;
    if (length > INT32_MAX || (int64_t)length > file_size - (int64_t)at)
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: its metadata would have %" PRIu32
                         " bytes, but %" PRId64 " follow", length,
                         file_size - (int64_t)at);
    *json_offset = (int64_t)at;
    *json_size = (int64_t)length;
    return dcpi_succeed(err);
}

/* A sink that compares with a file what is written to it. */
typedef dcp_status (*dcpi_file_read)(void *user, int64_t offset, void *data, size_t size, dcp_error *err);
typedef struct dcpi_file_compare {
    dcpi_file_read read; void *user;
    int64_t offset, file_size;
    int is_foreign;
    uint8_t bytes[8192];
} dcpi_file_compare;

static dcp_status dcpi_file_compare_some(dcpi_file_compare *compare, const uint8_t *expected, size_t size,
                                         dcp_error *err) {
    dcp_status status;
    size_t i;
    if ((int64_t)size > compare->file_size - compare->offset)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the checkpoint file is cut short: it ends at byte %" PRId64
                         ", inside its header", compare->file_size);
    status = compare->read(compare->user, compare->offset, compare->bytes, size, err);
    if (status != DCP_OK) return status;
    if (memcmp(expected, compare->bytes, size) != 0) {
        for (i = 0; expected[i] == compare->bytes[i];) i++;
        return dcpi_fail(err, compare->is_foreign ? DCP_E_FORMAT : DCP_E_CHECKSUM,
                         "corrupted checkpoint file: byte %" PRId64 " of its header is not what its "
                         "metadata says", compare->offset + (int64_t)i);
    }
    compare->offset += (int64_t)size;
    return DCP_OK;
}
static dcp_status dcpi_file_compare_sink(void *user, const void *data, size_t size, dcp_error *err) {
    dcpi_file_compare *compare = (dcpi_file_compare *)user;
    const uint8_t *expected = (const uint8_t *)data;
    while (size > 0) {
        size_t n = size < sizeof compare->bytes ? size : sizeof compare->bytes;
        dcp_status status = dcpi_file_compare_some(compare, expected, n, err);
        if (status != DCP_OK) return status;
        expected += n;
        size -= n;
    }
    return DCP_OK;
}
/* The file ends with its last region; one without data (the seed's own) with its records. */
static dcp_status dcpi_file_check_end(const dcp_metadata *metadata, int64_t header, int64_t file_size, dcp_error *err) {
    const dcp_shard_metadata *last = metadata->shard_count > 0 ? &metadata->shards[metadata->shard_count - 1] : NULL;
    int64_t end = header;
    if (last && last->data_offset > 0 && !dcpi_add(last->data_offset, last->file_size, &end))
        return dcpi_fail(err, DCP_E_FORMAT,
                         "corrupted checkpoint file: the end of its last region does not fit in 64 bits");
    if (file_size < end)
        return dcpi_fail(err, DCP_E_INCOMPLETE, "the checkpoint file is cut short: it has %" PRId64 " bytes of %"
                         PRId64, file_size, end);
    if (file_size > end)
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: %" PRId64 " bytes follow its end at byte %"
                         PRId64, file_size - end, end);
    return dcpi_succeed(err);
}
/* Compares every byte before the data with what the document says, and the file's size. metadata: parsed from json, and
 * checked. */
static dcp_status dcpi_file_check(const dcp_metadata *metadata, const char *json, size_t json_size, dcpi_file_read read,
                                  void *user, int64_t file_size,
                                  dcp_error *err) {
    dcpi_meta_source source;
    dcpi_file_compare compare;
    dcpi_file_out out;
    int64_t data_offset = metadata->shard_count > 0 ? metadata->shards[0].data_offset : 0;
    dcp_status status = dcpi_file_check_json_size((int64_t)json_size, err);
    if (status != DCP_OK) return status;
    compare.read = read;
    compare.user = user;
    compare.offset = 0;
    compare.file_size = file_size;
    compare.is_foreign = metadata->is_foreign;
    dcpi_meta_source_of(metadata, &source);
    dcpi_file_begin(&out, dcpi_file_compare_sink, &compare, err);
    dcpi_file_put_prefix(&out, &source, (int64_t)json_size);
    dcpi_file_put(&out, json, json_size);
    status = dcpi_file_put_records(&out, &source);
    if (status != DCP_OK) return status;
    if (data_offset != 0 && (out.size > data_offset || data_offset - out.size >= DCPI_META_GAP))
        return dcpi_fail(err, DCP_E_FORMAT, "corrupted checkpoint file: its header has %" PRId64
                         " bytes, and its data begins at %" PRId64, out.size, data_offset);
    dcpi_file_put_zeros(&out, data_offset - out.size);
    dcpi_file_flush(&out);
    if (out.status != DCP_OK) return out.status;
    return dcpi_file_check_end(metadata, out.size, file_size, err);
}

