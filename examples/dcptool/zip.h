/* zip.h - zip files as numpy writes them: entries stored or deflated, of any size (zip64). The format is that of
 * PKWARE's APPNOTE.TXT 6.3; deflate that of RFC 1951. */
#ifndef DCPTOOL_ZIP_H
#define DCPTOOL_ZIP_H
#include "dcptool.h"

typedef struct zip_entry {
    const char *name;
    const unsigned char *bytes;                         /* in the file, as they are stored */
    int64_t packed, size;                               /* as they are stored; as they were */
    uint32_t crc;
    int is_deflated, has_crc;
} zip_entry;
typedef struct zip_file { const unsigned char *bytes; int64_t size; zip_entry *entries; size_t count; } zip_file;

/* Of a file in memory, which has to stay. Not a zip file, or one of a kind that is not read: DCP_E_FORMAT. */
dcp_status zip_list(const unsigned char *bytes, int64_t size, zip_file *out, dcp_error *err);

/* Gives the entry's bytes in order; DCP_E_CHECKSUM: they are not those that its CRC-32 is of. */
typedef dcp_status (*zip_put)(void *user, const unsigned char *bytes, size_t size, dcp_error *err);
dcp_status zip_unpack(const zip_entry *e, zip_put put, void *user, dcp_error *err);

/* Writes one, entry by entry, stored. */
typedef struct zip_writer {
    tool_sink *sink;
    struct zip_written { const char *name; int64_t at, size; uint32_t crc; } *entries;
    size_t count, capacity;
    int64_t at;
} zip_writer;
void zip_begin(zip_writer *w, const char *name, int64_t size);          /* bytes that zip_write will get */
dcp_status zip_write(zip_writer *w, const void *data, size_t size);
void zip_end(zip_writer *w);
dcp_status zip_close(zip_writer *w);                    /* the directory; the sink stays open */
#endif
