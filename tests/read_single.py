#!/usr/bin/env python3
"""Reads a single-file checkpoint with nothing but struct and json, and compares it with what it should hold.

    read_single.py P.checkpoint EXPECTED.json

EXPECTED: {"tensors": {NAME: {"dataType": T, "shape": [...], "values": [...]}, ...}, "training": {...}, "customFields":
{...}}; a complex number is [real, imaginary]. Checks the whole layout of the file besides: the records before the data
say what the JSON says, gaps are zero, and nothing stands behind the last tensor. Exit status: 0 all is as expected, 1
something is not, 2 wrong usage. """
import json
import struct
import sys

MAGIC = 0x4D4C4350
REGION = 4096
ALIGNMENT = 64
UNPACK = {"fp64": "d", "fp32": "f", "fp16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
          "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?", "complex64": "f", "complex128": "d"}


class Wrong(Exception):
    pass


def must(condition, what, *values):
    if not condition:
        raise Wrong(what % values if values else what)


# ---- the header ------------------------------------------------------------------------------------------------------
class Reader:
    """The file's bytes from the front, as .NET's BinaryReader takes them."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        must(0 <= count <= len(self.data) - self.at, "%d bytes wanted at %d of %d", count, self.at, len(self.data))
        self.at += count
        return self.data[self.at - count:self.at]

    def int32(self):
        return struct.unpack("<i", self.bytes(4))[0]

    def int64(self):
        return struct.unpack("<q", self.bytes(8))[0]

    def text(self, count):
        return self.bytes(count).decode("utf-8")

    def varint_text(self):
        length = shift = 0
        while True:
            byte = self.bytes(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return self.text(length)
            must(shift < 35, "a length of more than five bytes")


def read_record(reader):
    name = reader.text(reader.int32())
    data_type = reader.varint_text()
    shape = [reader.int64() for _ in range(reader.int32())]
    return {"name": name, "dataType": data_type, "shape": shape, "size": reader.int64()}


def read_header(data):
    reader = Reader(data)
    must(reader.int32() == MAGIC, "no MLCP file")
    version = reader.varint_text()
    document = json.loads(reader.text(reader.int32()))
    must(version == document["version"], "version %s before the JSON, %s in it", version, document["version"])
    for shard in document["shards"]:
        records = [read_record(reader) for _ in range(reader.int32())]
        stored = [{key: tensor[key] for key in ("name", "dataType", "shape", "size")} for tensor in shard["tensors"]]
        must(records == stored, "the records of shard %d are not those of the JSON: %s, %s", shard["rank"], records,
             stored)
    return document, reader.at


# ---- the data --------------------------------------------------------------------------------------------------------
def nibbles(data, count, signed):
    values = [data[i // 2] >> i % 2 * 4 & 15 for i in range(count)]
    return [v - 16 if signed and v > 7 else v for v in values]


def unpack(data, data_type, count):
    if data_type in ("int4", "uint4"):
        return nibbles(data, count, data_type == "int4")
    if data_type == "bf16":                             # the upper half of a float
        return [struct.unpack("<f", b"\0\0" + data[2 * i:2 * i + 2])[0] for i in range(count)]
    if data_type not in UNPACK:
        return list(data)
    pairs = data_type.startswith("complex")
    values = list(struct.unpack("<%d%s" % (count * (2 if pairs else 1), UNPACK[data_type]), data))
    return [values[i:i + 2] for i in range(0, len(values), 2)] if pairs else values


def read_tensors(data, document, header_end):
    """Every tensor's values; every byte that belongs to none must be zero."""
    tensors, end = {}, header_end
    for shard in document["shards"]:
        begin = shard["dataOffset"]
        must(begin % REGION == 0 and begin >= end, "shard %d begins at %d, after %d", shard["rank"], begin, end)
        for tensor in shard["tensors"]:
            name, offset, size = tensor["name"], tensor["offset"], tensor["size"]
            must(offset % ALIGNMENT == 0 and offset >= begin, "%s: at %d", name, offset)
            must(size == 0 or offset >= end, "%s: at %d, after %d", name, offset, end)
            must(offset + size <= max(len(data), offset), "%s: ends behind the file", name)
            count = 1
            for extent in tensor["shape"]:
                count *= extent
            tensors[name] = {"dataType": tensor["dataType"], "shape": tensor["shape"],
                             "values": unpack(data[offset:offset + size], tensor["dataType"], count)}
            if size:
                must(not any(data[end:offset]), "%s: the gap before it is not zero", name)
                end = offset + size
        must(end == begin + shard["fileSize"] or shard["fileSize"] == 0, "shard %d ends at %d", shard["rank"], end)
    must(end == len(data), "%d bytes behind the last tensor", len(data) - end)
    return tensors


def compare(what, got, want):
    must(got == want, "%s: got %s, want %s", what, json.dumps(got), json.dumps(want))


def check(path, expected_path):
    with open(path, "rb") as file:
        data = file.read()
    with open(expected_path, "rb") as file:
        expected = json.loads(file.read().decode("utf-8"))
    document, header_end = read_header(data)
    tensors = read_tensors(data, document, header_end)
    compare("names", sorted(tensors), sorted(expected["tensors"]))
    for name, want in expected["tensors"].items():
        compare(name, tensors[name], want)
    for member in ("training", "customFields"):
        compare(member, document.get(member), expected.get(member))
    print("%s: right: %d tensors, %d bytes" % (path, len(tensors), len(data)))


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        check(*arguments)
    except (Wrong, ValueError, KeyError, TypeError, IndexError, OSError, struct.error) as error:
        print("%s: WRONG: %s %s" % (arguments[0], "" if isinstance(error, Wrong) else type(error).__name__, error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
