 *
 * >>layout      Numbers are little-endian; names inside documents are relative to the document's directory.
 *
 *   P.metadata.json      the commit file of the sharded layout: UTF-8 JSON; for each shard its file, size, checksum,
 *                        and for each tensor name, shape, type, byte range, place in the global tensor, and one digest
 *                        a block
 *   P_shard_<rank>.bin   tensor bytes, row-major, each tensor at a multiple of the alignment (64 by default), gaps
 *                        zero; with `.<save id>` before `.bin` where the plain name is or was in use
 *   P.checkpoint         the single file (MLCP): magic 50 43 4C 4D; version (7-bit varint length, UTF-8); int32 length
 *                        and the same JSON; for each shard int32 number of tensors, and for each tensor int32 name
 *                        length, name, type as varint string, int32 number of dimensions, int64 each, int64 bytes;
 *                        zeros; then the shards' bytes, each region at a multiple of max(alignment, 4096)
 *   P.manifest.json      the commit file of the manifest layout (or P.manifest.yaml, the same members): the model,
 *                        tiers, and for each piece of each tensor its file, role, expert key, tier, version, checksum;
 *                        state of the optimizer and of the router
 *   dense/<tensor>_<i>_of_<n>.bin, experts/tier_<t>/group_<g>/expert_<e>.bin, optim/..., router/...
 *                        one piece each, shared by the manifests of a directory: what a save finds unchanged it names
 *                        again; what has changed is a new file, with `.v<version>` before `.bin`, and
 *                        `.v<version>.<save id>` where that name is in use
 *   P.manifest.<save id>.intent.tmp      a manifest is being saved: until that is gone or old, nobody removes files of
 *                                        manifests
 *   P.commit.lock        a save is committing at P, or its files are being removed; gone with its holder, unless that
 *                        was killed: then it is free, disturbs nobody, and is dcp_sweep's. 512 bytes: "dcp commit lock,
 *                        turn <n>", a new line, the name of the document that is about to be renamed, new lines.
 *                        dcp-pool.commit.lock: for the files that the manifests of a directory share
 *   checksums            leaf = SHA-256 of 256 KiB of a tensor; block digest = its leaf, or SHA-256 of its leaves'
 *                        digests; shard checksum = "sha256-tree:" and SHA-256 of all its block digests; or, flat, the
 *                        SHA-256 of the whole file
 *   integrity            the last member of the document: V = SHA-256(T), T = "dcp-integrity-v1\n" type "\n" algorithm
 *                        "\n" key "\n" decimal length of the body "\n" hex SHA-256 of the body "\n"; body = the bytes
 *                        before the member's own leading comma; type = "metadata/json", "checkpoint/json",
 *                        "manifest/json" or "manifest/yaml". A signature member before it is HMAC-SHA256(key, T) or a
 *                        signer's output on T. In YAML both are lines, and the body ends before the line.
 *   <name>.<save id>[-<attempt>].tmp     what is being written
 */
#ifndef DCP_H
#define DCP_H
#ifdef DCP_IMPLEMENTATION       /* must stand before any system header; without the implementation nothing is touched */
/* musl */
#if defined(__linux__) && !defined(_GNU_SOURCE) && defined(__STRICT_ANSI__) && defined(_FEATURES_H) && \
    !defined(__GLIBC__)
#error "include dcp.h first in the file that defines DCP_IMPLEMENTATION, or compile with -D_GNU_SOURCE"
#endif
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#if defined(__NetBSD__) && !defined(_NETBSD_SOURCE)
#define _NETBSD_SOURCE
#endif
#if !defined(_WIN32) && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#endif
#include <stddef.h>
#include <stdint.h>

