"""dcp.py - the checkpoints of dcp.h in Python. One file: copy it beside your program.

    import dcp
    state = dcp.load("run/step_100")              # {"layers.0.wq": array, ...}, from any number of ranks, any layout
    state = dcp.load(dcp.latest("run"), "layers.*")
    with dcp.open("run/step_100") as checkpoint:
        rows = checkpoint["layers.0.wq"][10:20]   # reads and verifies those blocks, not the rest
        print(checkpoint.step, checkpoint.fields)

    python -m dcp ls run/step_100
    python -m dcp verify run/step_100

Reading needs Python 3.8 or newer, its standard library and numpy; nothing of it is compiled. Every byte that is
returned has been compared with its SHA-256 before, unless verify=False. Numbers that numpy has no type for (bf16, fp8,
4 bits) are those of ml_dtypes, where that is installed, and integers with a warning where it is not. With torch=True
the values are torch tensors.

A tensor of a megabyte or more that is one piece of one file is mapped into memory, copy on write: what is done to the
array does not change the file. The file must not be truncated while the array lives (dcp.h never does that).

Writing, and reading at full speed, go through the C library (`make lib` in dcp.h's tree), in the same process:

    lib = dcp.Library("build/libdcp.so")          # or the one that the environment's DCP_LIBRARY names
    lib.save("run/step_100", {"wq": array, "bias": tensor}, step=100, fields={"git": "abc123"})
    state = lib.load("run/step_100")

Errors: NotFound: no such checkpoint. Damaged: not the bytes that were saved, or some are missing. SignatureError: a key
was given, and the document was not signed with it. Error: all of these, and whatever else is wrong with a checkpoint.
"""
import builtins
import ctypes
import fnmatch
import hashlib
import hmac
import json
import math
import mmap
import os
import re
import struct
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

__all__ = ["load", "open", "latest", "verify", "Library", "Checkpoint", "Tensor", "Error", "NotFound", "Damaged",
           "SignatureError"]

SUFFIXES = (".metadata.json", ".checkpoint", ".manifest.json", ".manifest.yaml")
LEAF = 256 * 1024
MAPPED = 1 << 20                # smaller tensors are read: a mapping costs more
MAGIC = b"PCLM"                 # 0x4D4C4350, little-endian
BITS = {"fp32": 32, "fp64": 64, "fp16": 16, "bf16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8, "int64": 64, "int32": 32,
        "int16": 16, "int8": 8, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "bool": 8, "complex64": 64,
        "complex128": 128, "fp4_e2m1": 4, "int4": 4, "uint4": 4}
ALIASES = {"fp32": "float32 float f32 single", "fp64": "float64 double f64", "fp16": "float16 half f16",
           "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn float8_e4m3 f8_e4m3fn f8_e4m3 fp8_e4m3fn",
           "fp8_e5m2": "float8_e5m2 f8_e5m2", "int64": "i64 long", "int32": "i32 int", "int16": "i16 short",
           "int8": "i8 sbyte", "uint64": "u64 ulong", "uint32": "u32 uint", "uint16": "u16 ushort", "uint8": "u8 byte",
           "bool": "boolean bool_", "complex64": "c64 cfloat", "complex128": "c128 cdouble",
           "fp4_e2m1": "float4_e2m1fn float4_e2m1 f4_e2m1 fp4"}
NAMES = {alias: name for name, aliases in ALIASES.items() for alias in aliases.split()}
NUMPY = {"fp64": "<f8", "fp32": "<f4", "fp16": "<f2", "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "i1",
         "uint64": "<u8", "uint32": "<u4", "uint16": "<u2", "uint8": "u1", "bool": "?", "complex64": "<c8",
         "complex128": "<c16"}
# What numpy lacks: the type of ml_dtypes, and the integer that holds its bits.
EXTENDED = {"bf16": ("bfloat16", "<u2"), "fp8_e4m3": ("float8_e4m3fn", "u1"), "fp8_e5m2": ("float8_e5m2", "u1"),
            "fp4_e2m1": ("float4_e2m1fn", "u1"), "int4": ("int4", "i1"), "uint4": ("uint4", "u1")}


class Error(Exception):
    """A checkpoint cannot be read; the message says what is wrong, and where."""


class NotFound(Error):
    """There is no such checkpoint, and nothing else is wrong."""


class Damaged(Error):
    """Bytes are not those that were saved, or are missing."""


class SignatureError(Error):
    """A key was given, and the document was not signed with it."""


# ---- types -----------------------------------------------------------------------------------------------------------
def _type_of(name):
    """Our name of a data type; None for one that this version does not know."""
    lower = name.lower()
    return lower if lower in BITS else NAMES.get(lower)


def _numpy_type(name):
    if name in NUMPY:
        return np.dtype(NUMPY[name])
    extended, plain = EXTENDED[name]
    try:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, extended))
    except (ImportError, AttributeError):
        warnings.warn("%s comes as %s, its bits: numpy has no such type; pip install ml_dtypes" %
                      (name, np.dtype(plain).name), stacklevel=3)
        return np.dtype(plain)


def _unpack(raw, name, count):
    """Two numbers of four bits from each byte, the first in the low half."""
    codes = np.empty(raw.size * 2, np.uint8)
    codes[0::2], codes[1::2] = raw & 15, raw >> 4
    codes = codes[:count]
    if name == "int4":
        codes = ((codes ^ 8).astype(np.int8) - 8).astype(np.int8)
    kind = _numpy_type(name)
    if kind.kind in "iu" and kind.itemsize == 1 and kind.name in ("int8", "uint8"):
        return codes.view(kind)
    return codes.astype(kind) if name in ("int4", "uint4") else codes.view(kind)


def _to_torch(array, name):
    import torch
    plain = {"bf16": (np.int16, "bfloat16"), "fp8_e4m3": (np.uint8, "float8_e4m3fn"),
             "fp8_e5m2": (np.uint8, "float8_e5m2")}
    if name in plain:
        bits, kind = plain[name]
        return torch.from_numpy(array.reshape(-1).view(bits)).view(getattr(torch, kind)).reshape(array.shape)
    if name in EXTENDED:                # four bits: torch has no such type
        array = array.astype(np.int8 if name == "int4" else np.uint8) if name != "fp4_e2m1" else array.view(np.uint8)
    return torch.from_numpy(array)


# ---- documents: JSON, the YAML that dcp.h writes, and their integrity ------------------------------------------------
def _unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Error("a key stands twice in an object of the document")
    return members


def _parse_json(text, where):
    try:
        document = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Damaged("%s: not a JSON document: %s" % (where, error)) from None
    if not isinstance(document, dict):
        raise Damaged("%s: not a JSON object" % where)
    return document


class _Yaml:
    """Block maps and sequences, one-line flow values, plain and quoted scalars: all that dcp.h writes."""

    def __init__(self, text, where):
        self.where, self.lines = where, []
        for number, line in enumerate(text.decode("utf-8").split("\n"), 1):
            bare = line.strip(" \r")
            if bare and not bare.startswith("#"):
                self.lines.append([len(line) - len(line.lstrip(" ")), bare, number])
        self.at = 0

    def fail(self, number, what):
        raise Error("%s, line %d: %s; this reader takes the YAML that dcp.h writes: `dcptool convert` makes a document "
                    "that it reads" % (self.where, number, what))

    def block(self, indent):
        is_list = self.lines[self.at][1].startswith("- ") or self.lines[self.at][1] == "-"
        result = [] if is_list else {}
        while self.at < len(self.lines) and self.lines[self.at][0] == indent:
            text, number = self.lines[self.at][1:]
            if is_list:
                if not text.startswith("- "):
                    self.fail(number, "expected '- '")
                inner = text[2:].lstrip()
                if re.match(r'("(?:[^"\\]|\\.)*"|[^\s"\'\[{][^:#]*):( |$)', inner):
                    self.lines[self.at][:2] = [indent + len(text) - len(inner), inner]
                    result.append(self.block(indent + len(text) - len(inner)))
                else:
                    self.at += 1
                    result.append(self.value(inner, number))
                continue
            key, rest = self.key(text, number)
            if key in result:
                self.fail(number, "the key %r stands twice" % key)
            self.at += 1
            if rest:
                result[key] = self.value(rest, number)
            elif self.at < len(self.lines) and (self.lines[self.at][0] > indent or (
                    self.lines[self.at][0] == indent and self.lines[self.at][1].startswith("- "))):
                result[key] = self.block(self.lines[self.at][0])
            else:
                result[key] = None
        if self.at < len(self.lines) and self.lines[self.at][0] > indent:
            self.fail(self.lines[self.at][2], "unexpected indentation")
        return result

    def key(self, text, number):
        found = re.match(r'("(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'|[^\s"\'\[{&*!|>%@`][^:]*):(?: +(.*))?$', text)
        if not found:
            self.fail(number, "expected `key: value`")
        return str(self.scalar(found.group(1), number, True)), (found.group(2) or "").strip()

    def value(self, text, number):
        result, end = self.flow(text, 0, number, False)
        rest = text[end:].strip()
        if rest and not rest.startswith("#"):
            self.fail(number, "unexpected %r" % rest)
        return result

    def flow(self, text, at, number, inside, depth=0):
        if depth > 64:
            self.fail(number, "nested too deeply")
        if text[at] in "[{":
            return self.collection(text, at, number, depth)
        if text[at] in "\"'":
            pattern = r'"(?:[^"\\]|\\.)*"' if text[at] == '"' else r"'(?:[^']|'')*'"
            found = re.compile(pattern).match(text, at)
            if not found:
                self.fail(number, "a quote is not closed")
            return self.scalar(found.group(), number, False), found.end()
        plain = r"[^,\[\]{}:#]+(?::(?=[^ ,\]}])[^,\[\]{}:#]*)*" if inside else r"(?:[^#]|(?<! )#)+"
        found = re.compile(plain).match(text, at)
        if not found or text[at] in "&*!|>%@`":
            self.fail(number, "unexpected %r" % text[at])
        return self.scalar(found.group().strip(), number, False), found.end()

    def collection(self, text, at, number, depth):
        close, result = ("]", []) if text[at] == "[" else ("}", {})
        skip = re.compile(r" *")
        at = skip.match(text, at + 1).end()
        while at < len(text) and text[at] != close:
            value, at = self.flow(text, at, number, True, depth + 1)
            at = skip.match(text, at).end()
            if close == "}":
                if text[at:at + 1] != ":" or value in result:
                    self.fail(number, "expected `key: value`, each key once")
                result[str(value)], at = self.flow(text, skip.match(text, at + 1).end(), number, True, depth + 1)
                at = skip.match(text, at).end()
            else:
                result.append(value)
            if text[at:at + 1] == ",":
                at = skip.match(text, at + 1).end()
            elif text[at:at + 1] != close:
                self.fail(number, "expected ',' or '%s'" % close)
        if at >= len(text):
            self.fail(number, "'%s' is missing" % close)
        return result, at + 1

    def scalar(self, text, number, is_key):
        if text[0] == '"':
            try:
                return json.loads(text)
            except ValueError:
                self.fail(number, "a string with an escape that JSON does not have")
        if text[0] == "'":
            return text[1:-1].replace("''", "'")
        if is_key:
            return text.strip()
        if text in ("null", "~"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if re.match(r"[-+]?[0-9]+$", text):
            return int(text)
        if re.match(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$", text):
            return float(text)
        return text


def _parse_yaml(text, where):
    try:
        reader = _Yaml(text, where)
        document = reader.block(reader.lines[0][0]) if reader.lines else None
    except (UnicodeDecodeError, RecursionError, IndexError) as error:
        raise Damaged("%s: not a YAML document: %s" % (where, error)) from None
    if not isinstance(document, dict) or reader.at != len(reader.lines):
        raise Damaged("%s: not a YAML map" % where)
    return document


_INTEGRITY = re.compile(rb',\n  "integrity": \{ "algorithm": "sha256", "value": "([0-9a-f]{64})" \}\n\}\n\Z')
_SIGNATURE = re.compile(rb',\n  "signature": \{ "algorithm": "([a-z0-9-]{1,32})", "key": "([A-Za-z0-9._-]{0,128})", '
                        rb'"value": "([0-9a-f]*)" \}\Z')
_INTEGRITY_YAML = re.compile(rb'(?<=\n)integrity: \{ algorithm: "sha256", value: "([0-9a-f]{64})" \}\n\Z')
_SIGNATURE_YAML = re.compile(rb'(?<=\n)signature: \{ algorithm: "([a-z0-9-]{1,32})", key: "([A-Za-z0-9._-]{0,128})", '
                             rb'value: "([0-9a-f]*)" \}\n\Z')
# Members that only dcp.h writes: a document that has one must end in its digest.
_OURS = re.compile(rb'"(saveId|save_id|globalShape|global_shape|globalOffset|global_offset|blockSize|block_size|'
                   rb'blockChecksums|block_checksums|integrity|signature)" *:|^ *(- )?(save_id|global_shape|'
                   rb'global_offset|block_size|block_checksums|integrity|signature):', re.M)


def _vouching_text(kind, algorithm, key, body):
    lines = ("dcp-integrity-v1", kind, algorithm, key, str(len(body)), hashlib.sha256(body).hexdigest())
    return "".join(line + "\n" for line in lines).encode("ascii")


def _check_document(text, kind, key, where):
    """Compares a document with the digest that it ends in, and with the key, its signature."""
    is_yaml = kind.endswith("yaml")
    tail = (_INTEGRITY_YAML if is_yaml else _INTEGRITY).search(text)
    if not tail:
        if key is not None:
            raise SignatureError("%s: the document is not signed, cut short, or not ours" % where)
        if _OURS.search(text):
            raise Damaged("%s: the document does not end in its digest: it was changed or cut short" % where)
        warnings.warn("%s: written by another program: the document has no digest of its own" % where, stacklevel=4)
        return
    body = text[:tail.start()]
    if hashlib.sha256(_vouching_text(kind, "sha256", "", body)).hexdigest().encode() != tail.group(1):
        kind = Damaged if key is None else SignatureError
        raise kind("%s: the document was changed: its digest is another" % where)
    if key is None:
        return
    signature = (_SIGNATURE_YAML if is_yaml else _SIGNATURE).search(body)
    if not signature or signature.group(1) != b"hmac-sha256":
        raise SignatureError("%s: the document is not signed with hmac-sha256" % where)
    text = _vouching_text(kind, "hmac-sha256", signature.group(2).decode(), body[:signature.start()])
    if not hmac.compare_digest(hmac.new(key, text, hashlib.sha256).hexdigest().encode(), signature.group(3)):
        raise SignatureError("%s: signed with another key" % where)


def _varint(raw, at):
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 28:
            return value, at


def _document_of_single_file(file, size, where):
    """The JSON inside P.checkpoint."""
    head = file.read(64)
    try:
        if head[:4] != MAGIC:
            raise Damaged("%s: not a checkpoint: it begins with %r" % (where, head[:4]))
        length, at = _varint(head, 4)
        at += length
        count = struct.unpack_from("<i", head, at)[0]
    except (IndexError, struct.error):
        raise Damaged("%s: cut short, or not a checkpoint" % where) from None
    if not 0 < count <= size - at - 4:
        raise Damaged("%s: cut short: its document has %d bytes, the file %d" % (where, count, size))
    file.seek(at + 4)
    return file.read(count)


def _varint_text(text):
    raw, length = text.encode(), b""
    count = len(raw)
    while count > 127:
        length, count = length + bytes([count & 127 | 128]), count >> 7
    return length + bytes([count]) + raw


def _header_of_single_file(document, text):
    """The bytes before the first tensor, less the zeros at their end: all of it follows from the document."""
    parts = [MAGIC, _varint_text(document["version"]), struct.pack("<i", len(text)), text]
    for shard in document["shards"]:
        parts.append(struct.pack("<i", len(shard["tensors"])))
        for tensor in shard["tensors"]:
            name, shape = tensor["name"].encode(), tensor["shape"]
            parts += [struct.pack("<i", len(name)), name, _varint_text(tensor["dataType"]),
                      struct.pack("<i%dqq" % len(shape), len(shape), *shape, tensor["size"])]
    return b"".join(parts)


# ---- pieces: where each part of each tensor is -----------------------------------------------------------------------
class _File:
    """A shard: a range of a file, what digests the document has of it, and what was verified already."""

    def __init__(self, path, offset, size, checksum):
        self.path, self.offset, self.size, self.checksum = path, offset, size, checksum
        self.is_flat = checksum is not None and not checksum.startswith("sha256-tree:")
        self.is_verified = False
        self._bytes = None

    def bytes(self):
        """The whole file as unsigned bytes, mapped read-only."""
        if self._bytes is None:
            try:
                file = builtins.open(self.path, "rb")
            except FileNotFoundError:
                raise Damaged("%s is not there" % self.path) from None
            with file:
                size = os.fstat(file.fileno()).st_size
                if size < self.offset + self.size:
                    raise Damaged("%s: %d bytes, the document says %d" % (self.path, size, self.offset + self.size))
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            self._bytes = np.frombuffer(data, np.uint8)
        return self._bytes

    def copy_on_write(self, offset, size):
        with builtins.open(self.path, "rb") as file:
            before = offset % mmap.ALLOCATIONGRANULARITY
            data = mmap.mmap(file.fileno(), before + size, access=mmap.ACCESS_COPY, offset=offset - before)
        return np.frombuffer(data, np.uint8, size, before)


class _Piece:
    def __init__(self, file, offset, size, shape, start, rank, block_size, digests):
        self.file, self.offset, self.size, self.shape, self.start = file, offset, size, shape, start
        self.rank, self.block_size, self.digests = rank, block_size, digests
        self.verified = bytearray(len(digests or ()))

    def raw(self):
        return self.file.bytes()[self.offset:self.offset + self.size]

    def check_block(self, number):
        data = self.raw()[number * self.block_size:(number + 1) * self.block_size]
        leaves = [hashlib.sha256(data[at:at + LEAF]).digest() for at in range(0, data.size, LEAF)]
        digest = leaves[0] if len(leaves) == 1 else hashlib.sha256(b"".join(leaves)).digest()
        if digest.hex() != self.digests[number]:
            at = self.offset + number * self.block_size
            raise Damaged("%s: bytes %d to %d are not those that were saved" % (self.file.path, at, at + data.size - 1))
        self.verified[number] = 1

    def touched(self, box):
        """The numbers of the blocks that a box of the piece lies in, [(start, stop), ...] in elements of the piece."""
        count = math.prod(self.shape)
        if not self.digests or not count:
            return range(len(self.digests or ()))
        bits = self.size * 8 // count if count else 8
        inner, dim = 1, len(self.shape)
        while dim and box[dim - 1] == (0, self.shape[dim - 1]):         # the dimensions that are there whole
            dim -= 1
            inner *= self.shape[dim]
        if dim == 0:
            return range(len(self.digests))
        begin, end = box[dim - 1]
        first, run = begin * inner, (end - begin) * inner
        starts = np.array([first], np.int64)
        stride = inner * self.shape[dim - 1]
        for begin, end, extent in reversed([(*box[d], self.shape[d]) for d in range(dim - 1)]):
            starts = (np.arange(begin, end, dtype=np.int64)[:, None] * stride + starts[None, :]).reshape(-1)
            stride *= extent
        low = starts * bits // 8 // self.block_size
        high = ((starts + run) * bits + 7) // 8 - 1
        high //= self.block_size
        marks = np.zeros(len(self.digests) + 1, np.int64)
        np.add.at(marks, low, 1)
        np.add.at(marks, high + 1, -1)
        return np.nonzero(np.cumsum(marks[:-1]))[0].tolist()


def _natural(value, where):
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Damaged("%s: %r is not a size" % (where, value))
    return value


def _naturals(values, where):
    if not isinstance(values, list) or len(values) > 64:
        raise Damaged("%s: %r is not a shape" % (where, values))
    return tuple(_natural(value, where) for value in values)


def _text(value, where):
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)                       # a digest of digits, unquoted in YAML
    if not isinstance(value, str) or not value or "\0" in value:
        raise Damaged("%s: %r is not a text" % (where, value))
    return value


def _beside(directory, name, where):
    """A path inside the directory of the document, and nowhere else."""
    parts = _text(name, where).split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or ":" in name:
        raise Damaged("%s: refused: the path %r leaves the directory" % (where, name))
    return os.path.join(directory, *parts)


class Tensor:
    """One stored tensor: name, dtype (a name such as "bf16"), shape, nbytes. `tensor[10:20]` and numpy(tensor) read."""

    def __init__(self, checkpoint, name, dtype, shape, is_private):
        self._checkpoint, self.name, self.shape, self.is_private = checkpoint, name, shape, is_private
        self.dtype = _type_of(dtype) or dtype
        self._pieces = []

    @property
    def nbytes(self):
        if self.dtype not in BITS:
            return self._pieces[0].size
        return (math.prod(self.shape) * BITS[self.dtype] + 7) // 8

    def __repr__(self):
        return "<dcp.Tensor %r %s %s>" % (self.name, self.dtype, list(self.shape))

    def __len__(self):
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        array = self[...]
        return array if dtype is None else array.astype(dtype)

    def numpy(self):
        return self[...]

    def __getitem__(self, index):
        return self._checkpoint._read(self, index)


def _box(shape, index):
    """An index of numpy's as a box, and what is to be done with the box's array: [(start, stop)], slices, shape."""
    index = index if isinstance(index, tuple) else (index,)
    dots = sum(part is Ellipsis for part in index)
    if dots > 1 or len(index) - dots > len(shape):
        raise IndexError("too many indices for a tensor of %d dimensions" % len(shape))
    at = next((i for i, part in enumerate(index) if part is Ellipsis), len(index))
    fill = len(shape) - (len(index) - (1 if at < len(index) else 0))
    index = index[:at] + (slice(None),) * fill + index[at + 1:]
    box, steps = [], []
    for part, extent in zip(index, shape):
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            count = len(range(start, stop, step))
            low = start if step > 0 else start + (count - 1) * step
            box.append((low, low + (count - 1) * abs(step) + 1) if count else (0, 0))
            steps.append(slice(None, None, step))
        else:
            number = part.__index__()
            if not -extent <= number < extent:
                raise IndexError("index %d is out of bounds for a dimension of %d" % (number, extent))
            box.append((number % extent, number % extent + 1))
            steps.append(0)
    return box, tuple(steps)


class Checkpoint:
    """An open checkpoint: a mapping of names to Tensor. Its members say what the document says."""

    def __init__(self, path, *, key=None, verify=True, rank=None):
        self._is_verifying, self._key, self._rank = verify, key, rank
        self.path = _commit_file(path)
        self.prefix = self.path[:-len(next(s for s in SUFFIXES if self.path.endswith(s)))]
        self._tensors, self._files = {}, []
        self._pool = None
        self._open()

    # -- what is in the document
    def _open(self):
        where, directory = self.path, os.path.dirname(self.path)
        is_manifest = where.endswith((".manifest.json", ".manifest.yaml"))
        try:
            with builtins.open(where, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                text = _document_of_single_file(file, size, where) if where.endswith(".checkpoint") else file.read()
        except FileNotFoundError:
            raise NotFound("%s: no such checkpoint" % where) from None
        kind = "checkpoint/json" if where.endswith(".checkpoint") else "metadata/json" if not is_manifest else \
            "manifest/" + where[-4:]
        _check_document(text, kind, self._key, where)
        document = _parse_yaml(text, where) if kind.endswith("yaml") else _parse_json(text, where)
        try:
            if is_manifest:
                self._index_manifest(document, directory)
            else:
                self._index_metadata(document, directory, text)
        except (KeyError, TypeError, AttributeError, struct.error) as error:
            raise Damaged("%s: a member is missing or of another type: %s" % (where, error)) from None
        for tensor in self._tensors.values():
            tensor._pieces.sort(key=lambda piece: piece.rank if piece.rank is not None else 0)

    def _common(self, document, names):
        def member(key):
            return document.get(names.get(key, key))
        self.document = document
        self.training = member("training") or {}
        self.fields = member("customFields") or {}
        self.timestamp, self.save_id = member("timestamp"), member("saveId")
        self.sequence = member("sequence") or 0
        self.world_size = member("worldSize") or 1
        self.step = self.training.get("step", document.get("step", 0)) or 0
        self.epoch = self.training.get("epoch", document.get("epoch", 0)) or 0

    def _check_header(self, document, text):
        """The head of a single file repeats the document, then zeros; and nothing follows its last byte."""
        header, size = _header_of_single_file(document, text), os.path.getsize(self.path)
        begin = min([shard["dataOffset"] for shard in document["shards"] if "dataOffset" in shard] + [size])
        end = max([shard["dataOffset"] + shard["fileSize"] for shard in document["shards"] if "dataOffset" in shard]
                  + [len(header)])
        if not len(header) <= begin <= len(header) + (1 << 22):
            raise Damaged("%s: its bytes begin at %d; the head has %d" % (self.path, begin, len(header)))
        with builtins.open(self.path, "rb") as file:
            if file.read(begin) != header + bytes(begin - len(header)):
                raise Damaged("%s: the head of the file is not what its document says" % self.path)
        if size != end:
            raise Damaged("%s: %d bytes, the document says %d" % (self.path, size, end))

    def _index_metadata(self, document, directory, text):
        self._common(document, {})
        version = str(document["version"])
        if not version.startswith("1."):
            raise Error("%s: written by version %s; this reader knows version 1" % (self.path, version))
        is_single = self.path.endswith(".checkpoint")
        if is_single:
            self._check_header(document, text)
        for shard in document["shards"]:
            rank = _natural(shard["rank"], self.path)
            offset = _natural(shard.get("dataOffset") or 0, self.path)
            if is_single and "dataOffset" not in shard and any(t["size"] for t in shard["tensors"]):
                raise Damaged("%s: it names tensors, and has none of their bytes" % self.path)
            path = self.path if is_single else self._shard_path(directory, shard["filePath"], rank)
            file = _File(path, offset, _natural(shard["fileSize"], self.path), shard.get("checksum") or None)
            if file.checksum and file.is_flat:
                file.checksum = file.checksum.lower()
            self._files.append(file)
            for t in shard["tensors"]:
                name = _text(t["name"], self.path)
                self._add(name, t["dataType"], t.get("shape"), t.get("globalShape"), t.get("globalOffset"),
                          t.get("placement"), rank, file, _natural(t["offset"], name), _natural(t["size"], name),
                          t.get("blockSize"), t.get("blockChecksums"))

    def _shard_path(self, directory, name, rank):
        path = _beside(directory, name, self.path)
        other = "%s_shard_%d.bin" % (self.prefix, rank)
        return path if os.path.exists(path) or not os.path.exists(other) else other

    def _index_manifest(self, document, directory):
        self._common(document, {"customFields": "custom_fields", "saveId": "save_id", "worldSize": "world_size"})
        self.model_id, self.tiers = document.get("model_id"), document.get("tiers") or []
        needs = document.get("min_reader_version") or 0
        if needs > 1:
            raise Error("%s: needs a reader of version %s; this one is version 1" % (self.path, needs))
        state, router = document.get("optim_state") or {}, document.get("router_state") or {}
        entries = [entry for entry in document.get("shards") or []] + list(state.get("shards") or [])
        for layer in router.get("layers") or []:
            entries += layer.get("shards") or []
        for entry in entries:
            key = entry.get("expert_key")
            name = entry.get("tensor_name") or "experts/%d/%d/%d" % _naturals(key, self.path)
            path = _beside(directory, entry["path"], self.path)
            shape = _naturals(entry.get("shape") or [], name)
            dtype = _text(entry.get("dtype") or "opaque", name)
            size = entry.get("size")
            if size is None:
                size = (math.prod(shape) * BITS[_type_of(dtype)] + 7) // 8 if _type_of(dtype) else os.path.getsize(path)
            checksum = entry.get("checksum")
            file = _File(path, 0, _natural(size, name), None if checksum is None else str(checksum))
            self._files.append(file)
            self._add(name, dtype, list(shape), entry.get("global_shape"), entry.get("global_offset"),
                      entry.get("placement"), entry.get("rank"), file, 0, file.size, entry.get("block_size"),
                      entry.get("block_checksums"))

    def _add(self, name, dtype, shape, global_shape, start, placement, rank, file, offset, size, block_size, digests):
        shape = _naturals(shape, name)
        kind = _type_of(_text(dtype, name))
        whole = _naturals(global_shape, name) if global_shape is not None else shape
        start = _naturals(start, name) if start is not None else (0,) * len(shape)
        if len(whole) != len(shape) or len(start) != len(shape) or \
                any(a + b > c for a, b, c in zip(start, shape, whole)):
            raise Damaged("%s: %s: the piece %s at %s is not inside %s" % (self.path, name, shape, start, whole))
        if kind and size != (math.prod(shape) * BITS[kind] + 7) // 8:
            raise Damaged("%s: %s: %d bytes for %s of %s" % (self.path, name, size, list(shape), kind))
        if offset < file.offset or offset + size > file.offset + file.size:
            raise Damaged("%s: %s: bytes %d to %d are outside its shard" % (self.path, name, offset, offset + size))
        if digests is not None:
            block_size = _natural(block_size, name)
            if block_size < LEAF or block_size & (block_size - 1) or len(digests) != -(-size // block_size):
                raise Damaged("%s: %s: %d digests of blocks of %s bytes for %d bytes" %
                              (self.path, name, len(digests), block_size, size))
            digests = [_text(digest, name) for digest in digests]
        if self._key is not None and digests is None and not file.checksum and size:
            raise SignatureError("%s: %s: no digest covers its bytes" % (self.path, name))
        tensor = self._tensors.get(name)
        if tensor is None:
            tensor = self._tensors[name] = Tensor(self, name, dtype, whole, placement == "private")
        elif (tensor.shape != whole and not tensor.is_private) or tensor.dtype != (kind or dtype):
            raise Damaged("%s: the pieces of %s do not agree on shape and type" % (self.path, name))
        tensor._pieces.append(_Piece(file, offset, size, shape, start, rank, block_size, digests))
        tensor._is_whole = global_shape is not None or len(tensor._pieces) == 1 or tensor.is_private

    # -- a mapping
    def __getitem__(self, name):
        return self._tensors[name]

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def __contains__(self, name):
        return name in self._tensors

    def keys(self):
        return self._tensors.keys()

    def values(self):
        return self._tensors.values()

    def items(self):
        return self._tensors.items()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Lets go of the files. Arrays that were read stay."""
        for file in self._files:
            file._bytes = None
        if self._pool:
            self._pool.shutdown()
            self._pool = None

    # -- verifying
    def _check(self, jobs):
        """jobs: [(piece, number of a block)]; those that were not verified yet, on all processors."""
        jobs = [job for job in jobs if not job[0].verified[job[1]]]
        if len(jobs) > 1 and self._pool is None:
            self._pool = ThreadPoolExecutor(min(16, os.cpu_count() or 1))
        for _ in (self._pool.map if len(jobs) > 1 else map)(lambda job: job[0].check_block(job[1]), jobs):
            pass

    def _check_file(self, file):
        """The digest of a whole file, where there is one that blocks do not make."""
        if file.is_verified or not file.checksum or not file.is_flat:
            return
        if hashlib.sha256(file.bytes()[file.offset:file.offset + file.size]).hexdigest() != file.checksum:
            raise Damaged("%s: not the bytes that were saved: its SHA-256 is not that of the document" % file.path)
        file.is_verified = True

    def verify(self):
        """Every byte of every file against the document. Returns how many bytes that were; raises Damaged."""
        pieces = [piece for tensor in self._tensors.values() for piece in tensor._pieces]
        jobs = [(piece, number) for piece in pieces for number in range(len(piece.digests or ()))]
        self._check(jobs)
        for file in self._files:
            self._check_file(file)
            of_file = sorted((p for p in pieces if p.file is file), key=lambda piece: piece.offset)
            self._check_gaps(file, of_file)
            if file.checksum and not file.is_flat:
                digests = b"".join(bytes.fromhex(digest) for piece in of_file for digest in piece.digests or ())
                if "sha256-tree:" + hashlib.sha256(digests).hexdigest() != file.checksum:
                    raise Damaged("%s: the checksum of the shard is not that of its blocks" % file.path)
        return sum(file.size for file in self._files)

    def _check_gaps(self, file, pieces):
        data, end = file.bytes(), file.offset
        if not self.path.endswith(".checkpoint") and data.size != file.size:
            raise Damaged("%s: %d bytes, the document says %d" % (file.path, data.size, file.size))
        for piece in pieces:
            if piece.size and piece.offset > end and data[end:piece.offset].any():
                raise Damaged("%s: bytes %d to %d are not zero" % (file.path, end, piece.offset - 1))
            end = max(end, piece.offset + piece.size)

    # -- reading
    def _pieces_of(self, tensor):
        """Those that make up the tensor, for this rank: each box once."""
        pieces = tensor._pieces
        if tensor.is_private:
            own = [piece for piece in pieces if piece.rank == self._rank]
            if self._rank is not None and not own:
                raise Error("%s: rank %d has no tensor of this name; it is private" % (tensor.name, self._rank))
            contents = {(piece.shape, tuple(piece.digests or (id(piece),))) for piece in pieces}
            if self._rank is None and len(contents) > 1:
                raise Error("%s: each of ranks %s has one of its own: say which, dcp.open(path, rank=n)" %
                            (tensor.name, ", ".join(str(piece.rank) for piece in pieces)))
            return (own or pieces)[:1]
        if not tensor._is_whole:
            raise Error("%s: stored in %d parts, and nothing says how they fit together" % (tensor.name, len(pieces)))
        return list({(piece.start, piece.shape): piece for piece in pieces}.values())

    def _is_of_others(self, tensor):
        """A private tensor that a load of everything leaves out, with a warning."""
        try:
            self._pieces_of(tensor)
            return False
        except Error as error:
            if not tensor.is_private:
                raise
            warnings.warn("left out: %s" % error, stacklevel=4)
            return True

    def _read(self, tensor, index):
        pieces = self._pieces_of(tensor)
        if tensor.dtype not in BITS:                    # its bytes, whole
            return self._bytes_of(pieces[0], None)[()] if index is Ellipsis else self._bytes_of(pieces[0], None)[index]
        shape = pieces[0].shape if tensor.is_private else tensor.shape
        box, steps = _box(shape, index)
        extents = tuple(end - begin for begin, end in box)
        parts = []
        for piece in pieces:
            begin = [max(b[0], s) for b, s in zip(box, piece.start)]
            end = [min(b[1], s + n) for b, s, n in zip(box, piece.start, piece.shape)]
            if all(b < e for b, e in zip(begin, end)):
                parts.append((piece, begin, end))
        count = sum(math.prod(e - b for b, e in zip(begin, end)) for _, begin, end in parts)
        if count != math.prod(extents):
            raise Damaged("%s: %d of %d elements are stored" % (tensor.name, count, math.prod(extents)))
        if len(parts) == 1 and parts[0][0].shape == extents:
            array = self._array(tensor.dtype, parts[0][0], None)
            return array[steps] if steps else array
        out = np.empty(extents, _numpy_type(tensor.dtype))
        for piece, begin, end in parts:
            inside = [(b - s, e - s) for b, e, s in zip(begin, end, piece.start)]
            place = tuple(slice(b - o[0], e - o[0]) for b, e, o in zip(begin, end, box))
            out[place] = self._array(tensor.dtype, piece, inside)[tuple(slice(*part) for part in inside)]
        return out[steps]

    def _bytes_of(self, piece, box):
        """The piece's bytes, those of the box (None: all) verified."""
        if self._is_verifying:
            if piece.digests is not None:
                self._check([(piece, n) for n in (piece.touched(box) if box else range(len(piece.digests)))])
            elif piece.file.checksum:
                self._check_file(piece.file)
            elif piece.size:
                warnings.warn("%s: the document has no digest of it: not verified" % piece.file.path, stacklevel=5)
        if box is None and piece.size >= MAPPED:
            piece.raw()                                 # the file is as long as the document says
            return piece.file.copy_on_write(piece.offset, piece.size)
        return piece.raw() if box else piece.raw().copy()

    def _array(self, dtype, piece, box):
        raw = self._bytes_of(piece, box)
        if BITS[dtype] == 4:
            return _unpack(raw, dtype, math.prod(piece.shape)).reshape(piece.shape)
        return raw.view(_numpy_type(dtype)).reshape(piece.shape)

    def load(self, names=None, torch=False):
        """{name: array} of all tensors, or of those that match a glob, or any of a list of globs."""
        patterns = [names] if isinstance(names, str) else list(names) if names is not None else ["*"]
        chosen = [name for name in self if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        if names is None:
            chosen = [name for name in chosen if not self._is_of_others(self[name])]
        for pattern in patterns:
            if pattern != "*" and not any(fnmatch.fnmatchcase(name, pattern) for name in chosen):
                raise Error("%s: no tensor matches %r" % (self.path, pattern))
        if self._is_verifying:                          # those of all tensors at once: more to do for each processor
            self._check([(piece, number) for name in chosen for piece in self._pieces_of(self[name])
                         for number in range(len(piece.digests or ()))])
        state = {name: self[name][...] for name in chosen}
        return {name: _to_torch(array, self[name].dtype) for name, array in state.items()} if torch else state


# ---- the functions ---------------------------------------------------------------------------------------------------
def _commit_file(path):
    path = os.fspath(path)
    if path.endswith(SUFFIXES):
        return path
    found = [path + suffix for suffix in SUFFIXES if os.path.isfile(path + suffix)]
    if not found:
        raise NotFound("%s: no such checkpoint" % path)
    if len(found) > 1:
        raise Error("%s: more than one commit file: %s" % (path, ", ".join(found)))
    return found[0]


def open(path, *, key=None, verify=True, rank=None):
    """Opens a checkpoint: a mapping of names to Tensor.

    path    the prefix that it was saved as, or its commit file
    key     bytes: the document must be signed with it (hmac-sha256)
    verify  compare what is read with its digests; False: sizes only
    rank    whose private tensors; None: those that are the same on all ranks
    """
    return Checkpoint(path, key=key, verify=verify, rank=rank)


def load(path, names=None, *, key=None, verify=True, rank=None, torch=False):
    """{name: array} of a checkpoint, whole tensors assembled from all ranks' parts. names: a glob or several."""
    with open(path, key=key, verify=verify, rank=rank) as checkpoint:
        return checkpoint.load(names, torch)


def _is_complete(checkpoint):
    for file in checkpoint._files:
        try:
            size = os.path.getsize(file.path)
        except FileNotFoundError:
            raise Damaged("%s is not there" % file.path) from None
        if size < file.offset + file.size or (file.path != checkpoint.path and size != file.size):
            raise Damaged("%s: %d bytes, the document says %d" % (file.path, size, file.offset + file.size))
    return checkpoint


def latest(directory, *, key=None, verify=False):
    """The prefix of the newest checkpoint of a directory whose files are all there, or None. Warns of what it skips.

    verify  read and compare every byte too. Raises the newest one's error if there are checkpoints and none is valid.
    """
    try:
        names = [name for name in os.listdir(directory) if name.endswith(SUFFIXES)]
    except FileNotFoundError:
        return None
    best = None
    failed = []
    for name in names:
        try:
            with open(os.path.join(directory, name), key=key) as checkpoint:
                _is_complete(checkpoint)
                order = (checkpoint.sequence, checkpoint.step, str(checkpoint.timestamp), checkpoint.prefix)
                if best is None or order > best[0]:
                    if verify:
                        checkpoint.verify()
                    best = order, checkpoint.prefix
        except (Damaged, SignatureError) as error:
            failed.append(error)
            warnings.warn("skipped: %s" % error, stacklevel=2)
    if best is None and failed:
        raise failed[-1]
    return best and best[1]


def verify(path, *, key=None):
    """Compares every byte of a checkpoint with its digests; returns how many. Raises Damaged, or another Error."""
    with open(path, key=key) as checkpoint:
        return checkpoint.verify()


# ---- the C library ---------------------------------------------------------------------------------------------------
_VERSION = "0.3.0"              # of dcp.h, whose structs these are; its next versions may have others
_DIMS = 8
_DTYPES = ("fp32", "fp64", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "int64", "int32", "int16", "int8", "uint64",
           "uint32", "uint16", "uint8", "bool", "complex64", "complex128", "fp4_e2m1", "int4", "uint4",
           "opaque")            # numbered from 1 on
_LAYOUTS = {"sharded": (0, 0), "single": (1, 0), "manifest": (2, 0), "yaml": (2, 1)}


def _struct(name, *members):
    """A struct of dcp.h; members: (type, names)."""
    fields = [(member, kind) for kind, names in members for member in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_int, _int64, _size = ctypes.c_int, ctypes.c_int64, ctypes.c_size_t
_chars, _pointer = ctypes.c_char_p, ctypes.c_void_p
_dims = _int64 * _DIMS
_error = _struct("dcp_error", (_int, "status sys rank is_transient"), (ctypes.c_char * 512, "message"))
_field = _struct("dcp_field", (_chars, "key value"))
_retry = _struct("dcp_retry", (_int, "attempts first_ms max_ms"))
_io = _struct("dcp_io", (_pointer, "storage coordinator"), (_size, "memory_budget"), (_int, "threads timeout_ms"),
              (_int64, "deadline_ms"), (_retry, "retry"), (_pointer, "cancel progress progress_user log log_user"))
_tensor = _struct("dcp_tensor", (_chars, "name"), (_int, "dtype ndim"),
                  (_dims, "shape global_shape global_offset stride"), (_int, "placement"), (_pointer, "data device"),
                  (_int, "role"), (_chars, "tier"), (_int64 * 3, "expert_key"), (_int, "optional status"),
                  (_int64, "version"), (_chars, "extra stored_name"), (_pointer, "allocate allocate_user"),
                  (_int, "convert"))
_training = _struct("dcp_training", (_int64, "epoch step"), (ctypes.c_double, "learning_rate"),
                    (_chars, "optimizer_type optimizer_state extra"))
_signer = _struct("dcp_signer", (_pointer, "context"), (_chars, "algorithm key_id"), (_size, "size"),
                  (_pointer, "sign"), (_size, "key_size"))
_verifier = _struct("dcp_verifier", (_pointer, "context"), (_chars, "algorithm"), (_size, "size"), (_pointer, "verify"),
                    (_size, "key_size"))
_save = _struct("dcp_save_desc", (_chars, "path"), (ctypes.POINTER(_tensor), "tensors"), (_size, "tensor_count"),
                (_int64, "step"), (_int, "keep_last"), (_int64, "keep_every"), (ctypes.POINTER(_verifier), "verifier"),
                (_int, "layout checksum"), (_size, "alignment block_size"),
                (_int, "overwrite allow_holes unique_names"), (ctypes.POINTER(_training), "training"),
                (_pointer, "sharding"), (ctypes.POINTER(_field), "fields"), (_size, "field_count"),
                (_chars, "model_id"), (_pointer, "tiers"), (_size, "tier_count"), (_int, "yaml"),
                (ctypes.POINTER(_signer), "signer"), (_pointer, "report"), (_io, "io"), (_pointer, "router_seeds"),
                (_size, "router_seed_count"), (_chars, "extra optim_extra router_extra"),
                (_pointer, "tier_extras router_seed_extras"))
_open = _struct("dcp_open_desc", (_chars, "path"), (_int, "verify"), (ctypes.POINTER(_verifier), "verifier"),
                (_int64, "minimum_step"), (_int, "share_reads"), (_pointer, "select"), (_io, "io"),
                (_pointer, "sources"), (_size, "source_count"), (_pointer, "report"))
_info = _struct("dcp_tensor_info", (_chars, "name"), (_int, "dtype"), (_chars, "dtype_name"), (_int, "ndim"),
                (_dims, "shape"), (_int64, "size"), (_int, "placement piece_count role"), (_chars, "tier"),
                (_int64 * 3, "expert_key"), (_int64, "version"))
STRUCTS = (_error, _field, _retry, _io, _tensor, _training, _signer, _verifier, _save, _open, _info)


def _array_of(value):
    """(array, our name of its type) of a numpy array, a torch tensor, a number, a list, or (its bits, the name)."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        return np.ascontiguousarray(value[0]).reshape(value[0].shape), value[1]
    if type(value).__module__.split(".")[0] == "torch":
        value = value.detach().cpu().contiguous()
        kind = str(value.dtype).split(".")[1]
        if _type_of(kind) in EXTENDED:
            import torch
            bits = value.view(torch.int16 if value.element_size() == 2 else torch.uint8)
            return bits.numpy(), _type_of(kind)
        value = value.numpy()
    array = np.asarray(value)
    name = _type_of(array.dtype.name)
    if name is None or BITS[name] == 4:
        raise Error("numbers of type %s cannot be saved from here" % array.dtype)
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape), name


class Library:
    """dcp.h as a shared library. path None: the environment's DCP_LIBRARY, or libdcp.so where the system finds it.

    Its calls block, let other Python threads run, and may be made from several threads at once.
    """

    def __init__(self, path=None):
        self._c = ctypes.CDLL(path or os.environ.get("DCP_LIBRARY") or "libdcp.so")
        for name, result in (("dcp_version", _chars), ("dcp_status_name", _chars), ("dcp_close", None),
                             ("dcp_checkpoint_tensor_count", _size), ("dcp_checkpoint_tensor", ctypes.POINTER(_info)),
                             ("dcp_hmac_signer", _signer), ("dcp_hmac_verifier", _verifier)):
            getattr(self._c, name).restype = result
        version = self._c.dcp_version().decode()
        if version != _VERSION:
            raise Error("libdcp is version %s, and this dcp.py knows %s: copy the one beside that header" %
                        (version, _VERSION))

    def _must(self, status, error):
        if status == 0:
            return
        name = self._c.dcp_status_name(status).decode()
        kind = {"DCP_E_NOT_FOUND": NotFound, "DCP_E_CHECKSUM": Damaged, "DCP_E_FORMAT": Damaged,
                "DCP_E_INCOMPLETE": Damaged, "DCP_E_SIGNATURE": SignatureError}.get(name, Error)
        raise kind("%s (%s)" % (error.message.decode("utf-8", "replace"), name))

    def save(self, path, state, *, step=0, epoch=0, fields=None, layout="sharded", overwrite=False, key=None,
             key_id="", keep_last=0, keep_every=0, threads=0, memory_budget=0):
        """Saves {name: array, torch tensor or number}: when it returns, the checkpoint is whole and durable.

        A value may also be (array of integers, "bf16"): the bits of numbers that numpy has no type for.

        layout  "sharded", "single", "manifest" or "yaml"
        key     bytes: signs the document with hmac-sha256
        keep_last, keep_every   of this series the newest so many stay, and the steps that the other one divides
        """
        arrays = {name: _array_of(value) for name, value in state.items()}
        tensors = (_tensor * max(len(arrays), 1))()
        for tensor, (name, (array, kind)) in zip(tensors, arrays.items()):
            tensor.name, tensor.dtype, tensor.ndim = name.encode(), _DTYPES.index(kind) + 1, array.ndim
            tensor.shape[:array.ndim] = array.shape
            tensor.data = array.ctypes.data
        members = (_field * max(len(fields or ()), 1))(*[(k.encode(), v.encode()) for k, v in (fields or {}).items()])
        training = _training(epoch=epoch)
        desc, error = _save(path=os.fsencode(path), tensor_count=len(arrays)), _error()
        desc.tensors = tensors if arrays else None
        desc.layout, desc.yaml = _LAYOUTS[layout]
        desc.training, desc.fields, desc.field_count = ctypes.pointer(training), members, len(fields or ())
        desc.step, desc.keep_last, desc.keep_every = step, keep_last, keep_every
        desc.overwrite, desc.io.threads, desc.io.memory_budget = overwrite, threads, memory_budget
        if key is not None:
            signer = self._c.dcp_hmac_signer(key, _size(len(key)), key_id.encode())
            desc.signer = ctypes.pointer(signer)
        self._must(self._c.dcp_save(ctypes.byref(desc), ctypes.byref(error)), error)

    def load(self, path, names=None, *, key=None, verify=True, torch=False, threads=0, memory_budget=0):
        """As dcp.load, by all processors; private tensors of several ranks are left out."""
        desc, error, checkpoint = _open(path=os.fsencode(path), verify=0 if verify else 2), _error(), _pointer()
        desc.io.threads, desc.io.memory_budget = threads, memory_budget
        if key is not None:
            verifier = self._c.dcp_hmac_verifier(key, _size(len(key)))
            desc.verifier = ctypes.pointer(verifier)
        self._must(self._c.dcp_open(ctypes.byref(desc), ctypes.byref(checkpoint), ctypes.byref(error)), error)
        try:
            return self._read(checkpoint, names, torch)
        finally:
            self._c.dcp_close(checkpoint)

    def _read(self, checkpoint, names, torch):
        patterns = [names] if isinstance(names, str) else list(names) if names is not None else ["*"]
        count = self._c.dcp_checkpoint_tensor_count(checkpoint)
        infos = [self._c.dcp_checkpoint_tensor(checkpoint, _size(i)).contents for i in range(count)]
        infos = [info for info in infos if any(fnmatch.fnmatchcase(info.name.decode(), p) for p in patterns)]
        if names is None:
            infos = [info for info in infos if info.placement != 2 or info.piece_count == 1]
        buffers, tensors, error = [], (_tensor * max(len(infos), 1))(), _error()
        for tensor, info in zip(tensors, infos):
            kind = _DTYPES[info.dtype - 1]
            shape = tuple(info.shape[:info.ndim])
            is_plain = kind in BITS and BITS[kind] > 4
            buffers.append(np.empty(shape, _numpy_type(kind)) if is_plain else np.empty(info.size, np.uint8))
            tensor.name, tensor.dtype, tensor.ndim, tensor.shape = info.name, info.dtype, info.ndim, info.shape
            tensor.data = buffers[-1].ctypes.data
        self._must(self._c.dcp_read(checkpoint, tensors, _size(len(infos)), ctypes.byref(error)), error)
        state = {}
        for info, buffer in zip(infos, buffers):
            kind, shape = _DTYPES[info.dtype - 1], tuple(info.shape[:info.ndim])
            array = _unpack(buffer, kind, math.prod(shape)).reshape(shape) if BITS.get(kind) == 4 else buffer
            state[info.name.decode()] = _to_torch(array, kind) if torch and kind in BITS else array
        return state


# ---- python -m dcp ---------------------------------------------------------------------------------------------------
def _human(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return "%d B" % size if unit == "B" else "%.1f %s" % (size, unit)
        size /= 1024
    return "%.1f TiB" % size


def _list(path):
    if os.path.isdir(path):
        for name in sorted(name for name in os.listdir(path) if name.endswith(SUFFIXES)):
            with open(os.path.join(path, name)) as checkpoint:
                print("%-30s step %-10d %d tensors, %s" % (os.path.basename(checkpoint.prefix), checkpoint.step,
                      len(checkpoint), _human(sum(file.size for file in checkpoint._files))))
        return
    with open(path) as checkpoint:
        width = max([len(repr(name)) - 2 for name in checkpoint] + [4])
        print("%-*s  %-10s  %-20s  %s" % (width, "name", "type", "shape", "size"))
        for name, tensor in checkpoint.items():
            print("%-*s  %-10s  %-20s  %s" % (width, repr(name)[1:-1], tensor.dtype, list(tensor.shape),
                                              _human(tensor.nbytes)))


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("ls", "verify"):
        print("usage: python -m dcp ls PATH...\n       python -m dcp verify PATH...", file=sys.stderr)
        return 2
    status = 0
    for path in arguments[1:]:
        try:
            if arguments[0] == "ls":
                _list(path)
            else:
                print("%s: OK, %s" % (path, _human(verify(path))))
        except (Damaged, SignatureError, NotFound) as error:
            print("dcp: %s" % error, file=sys.stderr)
            status = max(status, 1)
        except (Error, OSError) as error:
            print("dcp: %s" % error, file=sys.stderr)
            status = 3
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
