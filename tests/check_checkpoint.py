#!/usr/bin/env python3
"""Checks every byte of sharded checkpoints, with nothing of dcp.h: written from the description of the format alone.

    check_checkpoint.py [--key FILE] P.metadata.json...

Recomputes the digest of each leaf, block and shard, the text T that vouches for the document, its digest V and, with
the key, its HMAC H. Prints what was checked. Exit status: 0 all is as it should be, 1 something is not, 2 wrong usage.
"""
import hashlib
import hmac
import json
import os
import re
import sys

LEAF = 256 * 1024
ALIGNMENT = 64          # at least
BITS = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8, "int64": 64, "int32": 32,
        "int16": 16, "int8": 8, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "bool": 8, "complex64": 64,
        "complex128": 128, "fp4_e2m1": 4, "int4": 4, "uint4": 4}
ORDER = ["version", "timestamp", "worldSize", "ddpRank", "saveId", "sequence", "sharding", "shards", "training",
         "customFields", "signature", "integrity"]
ORDER_SHARD = ["rank", "filePath", "fileSize", "tensors", "checksum"]
ORDER_TENSOR = ["name", "shape", "dataType", "offset", "size", "globalShape", "globalOffset", "placement", "blockSize",
                "blockChecksums"]
INTEGRITY = re.compile(rb',\n  "integrity": \{ "algorithm": "(sha256)", "value": "([0-9a-f]{64})" \}\n\}\n\Z')
SIGNATURE = re.compile(rb',\n  "signature": \{ "algorithm": "([a-z0-9-]{1,32})", "key": "([A-Za-z0-9._-]{0,128})", '
                       rb'"value": "([0-9a-f]*)" \}\Z')


class Wrong(Exception):
    pass


def sha256(data):
    return hashlib.sha256(data)


def must(condition, what, *values):
    if not condition:
        raise Wrong(what % values if values else what)


def unique(pairs):
    names = [name for name, _ in pairs]
    must(len(set(names)) == len(names), "a duplicate key: %s", names)
    return dict(pairs)


def in_order(members, order, where):
    known = [name for name in members if name in order]
    must(known == sorted(known, key=order.index), "%s: the members are in the order %s", where, known)


# ---- the document: T, V and H ----------------------------------------------------------------------------------------
def vouching_text(kind, algorithm, key, body):
    lines = ["dcp-integrity-v1", kind, algorithm, key, str(len(body)), sha256(body).hexdigest()]
    return "".join(line + "\n" for line in lines).encode("ascii")


def check_integrity(raw, key):
    """Returns what was signed with, or None."""
    tail = INTEGRITY.search(raw)
    must(tail, "the document does not end with an integrity member")
    body = raw[:tail.start()]
    digest = sha256(vouching_text("metadata/json", "sha256", "", body)).hexdigest()
    must(digest == tail.group(2).decode(), "V is %s, the document says %s", digest, tail.group(2).decode())
    signature = SIGNATURE.search(body)
    if not signature:
        must(key is None, "the document is not signed")
        return None
    algorithm, key_id, value = (part.decode() for part in signature.groups())
    if key is not None:
        must(algorithm == "hmac-sha256", "signed with %s, which this program does not know", algorithm)
        digest = hmac.new(key, vouching_text("metadata/json", algorithm, key_id, body[:signature.start()]),
                          hashlib.sha256).hexdigest()
        must(hmac.compare_digest(digest, value), "H is %s, the document says %s", digest, value)
    return algorithm + " " + key_id


# ---- the shards: leaves, blocks, files -------------------------------------------------------------------------------
def block_digest(data):
    leaves = [sha256(data[at:at + LEAF]).digest() for at in range(0, len(data), LEAF)]
    return leaves[0] if len(leaves) == 1 else sha256(b"".join(leaves)).digest(), len(leaves)


def check_tensor(file, shard, tensor, end, counts):
    """Checks the gap before the tensor and its bytes; returns where it ends and its raw digests."""
    name, offset, size = tensor["name"], tensor["offset"], tensor["size"]
    elements = 1
    for extent in tensor["shape"]:
        elements *= extent
    must(size == (elements * BITS[tensor["dataType"]] + 7) // 8, "%s: %d bytes for %s of %s", name, size,
         tensor["dataType"], tensor["shape"])
    must(offset % ALIGNMENT == 0 and offset >= end, "%s: at %d, after %d", name, offset, end)
    file.seek(end)
    gap = file.read(offset - end) if size else b""
    must(not any(gap), "%s: the gap before it is not zero", name)
    if not shard["checksum"].startswith("sha256-tree:"):
        must("blockChecksums" not in tensor, "%s: block digests beside a flat checksum", name)
        return offset + size if size else end, []
    block_size, digests = tensor["blockSize"], []
    must(block_size >= LEAF and block_size & (block_size - 1) == 0, "%s: blocks of %d bytes", name, block_size)
    must(len(tensor["blockChecksums"]) == -(-size // block_size), "%s: %d digests for %d bytes", name,
         len(tensor["blockChecksums"]), size)
    for number, stored in enumerate(tensor["blockChecksums"]):
        file.seek(offset + number * block_size)
        digest, leaves = block_digest(file.read(min(block_size, size - number * block_size)))
        must(digest.hex() == stored, "%s, block %d: %s, the document says %s", name, number, digest.hex(), stored)
        digests.append(digest)
        counts["leaves"] += leaves
        counts["blocks"] += 1
    return offset + size if size else end, digests


def check_shard(directory, shard, counts):
    in_order(shard, ORDER_SHARD, "shard %d" % shard["rank"])
    must(re.match(r"^[^/\\:\0]+$", shard["filePath"]) and shard["filePath"] not in (".", ".."),
         "no name of a file: %s", shard["filePath"])
    path = os.path.join(directory, shard["filePath"])
    must(os.path.isfile(path), "%s is not there", shard["filePath"])
    must(os.path.getsize(path) == shard["fileSize"], "%s has %d bytes, the document says %d", shard["filePath"],
         os.path.getsize(path), shard["fileSize"])
    end, digests = 0, []
    with open(path, "rb") as file:
        for tensor in shard["tensors"]:
            in_order(tensor, ORDER_TENSOR, tensor["name"])
            end, of_tensor = check_tensor(file, shard, tensor, end, counts)
            digests += of_tensor
            counts["tensors"] += 1
        file.seek(0)
        whole = sha256(file.read())
    must(end == shard["fileSize"], "%s ends at %d, its last tensor at %d", shard["filePath"], shard["fileSize"], end)
    if shard["checksum"].startswith("sha256-tree:"):
        checksum = "sha256-tree:" + sha256(b"".join(digests)).hexdigest()
    else:
        checksum = whole.hexdigest()
    must(checksum == shard["checksum"], "%s: checksum %s, the document says %s", shard["filePath"], checksum,
         shard["checksum"])
    counts["shards"] += 1
    counts["bytes"] += shard["fileSize"]


def check(path, key):
    with open(path, "rb") as file:
        raw = file.read()
    signed = check_integrity(raw, key)
    document = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
    in_order(document, ORDER, "the document")
    must(document["version"].split(".")[0] == "1", "version %s", document["version"])
    must(re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$", document["timestamp"]), "timestamp %s",
         document["timestamp"])
    must(re.match(r"^[0-9a-f]{16}$", document["saveId"]), "save id %s", document["saveId"])
    must(document["sharding"]["shardCount"] == document["worldSize"] == len(document["shards"]),
         "the shard counts differ")
    must([shard["rank"] for shard in document["shards"]] == list(range(document["worldSize"])),
         "the ranks are not 0, 1, ...")
    counts = {"shards": 0, "tensors": 0, "blocks": 0, "leaves": 0, "bytes": 0}
    for shard in document["shards"]:
        check_shard(os.path.dirname(path), shard, counts)
    checked = ", ".join("%d %s" % (number, what) for what, number in counts.items() if number)
    signature = "" if signed is None else "; signed with " + signed + (", H" if key else ", H not checked")
    print("%s: right: %s; V%s" % (path, checked, signature))


def main(arguments):
    key = None
    if len(arguments) > 1 and arguments[0] == "--key":
        with open(arguments[1], "rb") as file:
            key = file.read()
        arguments = arguments[2:]
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    status = 0
    for path in arguments:
        try:
            check(path, key)
        except (Wrong, ValueError, KeyError, TypeError, OSError) as error:
            print("%s: WRONG: %s %s" % (path, "" if isinstance(error, Wrong) else type(error).__name__, error))
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
