#!/usr/bin/env python3
"""Reads what bridge_samples.c wrote with examples/python/dcp.py, and compares each byte with the rule of its pattern.

    bridge_check.py reads DIR             every checkpoint, whole, in slices, through the pool, the newest
    bridge_check.py damage DIR            every kind of damage is found: flipped bits, cut files, missing files
    bridge_check.py refuses               hostile documents, made here
    bridge_check.py structs               prints a C program that compares the structs of dcp.py with those of dcp.h
    bridge_check.py library SO DIR        saves and loads through the C library
    bridge_check.py readme FILE SO        runs the blocks of Python code of a document
    bridge_check.py npz TOOL DIR          dcptool convert to .npz and back, numpy's own files, damaged ones
    bridge_check.py gguf                  there and back: the same file
    bridge_check.py torch DIR             there and back, nested; torch DCP; what the samples hold

Prints what was compared; exit status 1, with a line that says what, if something is not as it should be.
"""
import hashlib
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "python")
sys.path.insert(0, EXAMPLES)
sys.dont_write_bytecode = True
import dcp                      # noqa: E402
import numpy as np              # noqa: E402

LAYOUTS = ("sharded", "single", "manifest", "yaml")
SHAPES = {"big": [1500, 1024], "empty": [0, 3], "scalar": [], "one": [1], "many": [3, 5, 7, 11],
          "layers.0/na\u00efve \"name\": #1": [1], "true": [1], "grid": [700, 300]}
TYPES = {"big": "uint8", "empty": "fp32", "scalar": "int64", "one": "fp64", "many": "int16",
         "layers.0/na\u00efve \"name\": #1": "fp32", "true": "fp32", "grid": "int32"}
KEY = b"a key of thirty-two bytes, or so."[:32]


def must(condition, what):
    if not condition:
        raise SystemExit("FAILED " + what)


def pattern(name, dtype, shape):
    """The bytes of a tensor of bridge_samples.c."""
    count = math.prod(shape)
    i = np.arange((count * dcp.BITS[dtype] + 7) // 8, dtype=np.uint64)
    raw = name.encode()
    values = (i * 131 + (i >> 8) * 7 + (i >> 16) * 5 + len(raw) * 17 + raw[0]).astype(np.uint8)
    if dtype == "bool":
        values &= 1
    if dcp.BITS[dtype] == 4 and count % 2:
        values[-1] &= 15
    return values


def bits_of(array, dtype):
    """The stored bytes of an array that dcp.py returned."""
    if dcp.BITS[dtype] != 4:
        return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    codes = array.view(np.uint8).reshape(-1) & 15
    codes = np.append(codes, np.zeros(codes.size % 2, np.uint8))
    return codes[0::2] | codes[1::2] << 4


def expected():
    return {**{"types/" + name: (name, [13] if bits == 4 else [3, 4]) for name, bits in dcp.BITS.items()},
            **{name: (TYPES[name], SHAPES[name]) for name in SHAPES}}


def index_of(shape, draw):
    index = []
    for extent in shape:
        start, stop = sorted((draw.randint(0, extent), draw.randint(0, extent)))
        index.append(draw.choice([slice(start, stop), slice(None), slice(None, None, -2), slice(start, stop, 3)]
                                 + ([draw.randrange(-extent, extent)] if extent else [])))
    if len(index) > 1 and draw.random() < 0.3:
        index = index[:1] + [Ellipsis]
    return tuple(index)


def compare_slices(tensor, whole, draw, times):
    for _ in range(times):
        index = index_of(tensor.shape, draw)
        part = tensor[index]
        must(part.shape == whole[index].shape and part.tobytes() == whole[index].tobytes(),
             "%s[%s]: %s" % (tensor.name, index, part.shape))


def reads(directory):
    draw = random.Random(int(os.environ.get("DCP_TEST_SEED", "2026")))
    compared = 0
    for layout in LAYOUTS:
        for kind in ("tree", "flat", "signed"):
            path = os.path.join(directory, layout, kind)
            with dcp.open(path, key=KEY if kind == "signed" else None) as checkpoint:
                must(set(checkpoint) == set(expected()), "%s: other names: %s" % (path, list(checkpoint)))
                must((checkpoint.step, checkpoint.epoch) == (1000, 3), "%s: training" % path)
                must(checkpoint.fields == {"git": "abc123", "note": "Gr\u00fc\u00dfe: #1"},
                     "%s: fields: %s" % (path, checkpoint.fields))
                state = checkpoint.load()
                for name, (dtype, shape) in expected().items():
                    must(list(checkpoint[name].shape) == shape and checkpoint[name].dtype == dtype, name)
                    must(np.array_equal(bits_of(state[name], dtype), pattern(name, dtype, shape)),
                         "%s: %s: other bytes" % (path, name))
                    compared += checkpoint[name].nbytes
            with dcp.open(path) as checkpoint:                      # nothing of it verified yet
                for name in ("grid", "many", "big", "types/bf16", "types/int4", "types/fp8_e5m2"):
                    compare_slices(checkpoint[name], state[name], draw, 40)
            must(dcp.verify(path) > 0, path)
            state["big"][...] = 0                                   # copy on write
            must(dcp.load(path, "big")["big"].any(), "%s: writing to an array changed the file" % path)
            must(sorted(dcp.load(path, ["types/i*", "one"])) == ["one"] + ["types/int" + bits for bits in
                 ("16", "32", "4", "64", "8")], "%s: names by glob" % path)
        must(dcp.latest(os.path.join(directory, layout)) == os.path.join(directory, layout, "signed"), "latest")
    print("%d checkpoints, %d bytes compared" % (3 * len(LAYOUTS), compared))


def is_damaged(path):
    try:
        dcp.verify(path)
        return False
    except dcp.Damaged:
        return True


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def damage(directory):
    draw = random.Random(2026)
    flips = 0
    for layout in LAYOUTS:
        for kind in ("tree", "flat"):
            path = os.path.join(directory, layout, kind)
            with dcp.open(path) as checkpoint:
                files = {file.path: file for file in checkpoint._files}
            data = sorted(files)
            for name in [path + next(s for s in dcp.SUFFIXES if os.path.isfile(path + s))] + data[:3]:
                size = os.path.getsize(name)
                for at in {0, size - 1, size // 2, *(draw.randrange(size) for _ in range(12)),
                           *(draw.randrange(min(size, 40000)) for _ in range(12))} if size else ():
                    flip(name, at)
                    must(is_damaged(path), "%s, byte %d of %d flipped: not seen" % (name, at, size))
                    flip(name, at)
                    flips += 1
                os.rename(name, name + ".away")
                shutil.copy(name + ".away", name)
                with open(name, "ab") as file:
                    file.write(b"x")
                if name.endswith(".checkpoint") or name in data:
                    must(is_damaged(path), "%s: a byte more: not seen" % name)
                if size:
                    os.truncate(name, size - 1)
                    must(is_damaged(path), "%s: cut short: not seen" % name)
                os.remove(name)
                if name in data and not name.endswith(".checkpoint"):
                    must(is_damaged(path), "%s: not there: not seen" % name)
                os.rename(name + ".away", name)
            must(not is_damaged(path), path)
    print("%d flipped bits, each found" % flips)


def written(directory, document):
    with open(os.path.join(directory, "x.metadata.json"), "w") as file:
        file.write(document if isinstance(document, str) else json.dumps(document))
    return os.path.join(directory, "x")


def refuses():
    """What a document of another program may not make this reader do."""
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "secret"), "wb") as file:
            file.write(b"12345678")
        os.mkdir(os.path.join(directory, "in"))
        with open(os.path.join(directory, "in", "x.bin"), "wb") as file:
            file.write(b"12345678")
        inside = os.path.join(directory, "in")

        def document(**changes):
            tensor = {"name": "t", "shape": [2], "dataType": "fp32", "offset": 0, "size": 8}
            shard = {"rank": 0, "filePath": "x.bin", "fileSize": 8, "checksum": hashlib.sha256(b"12345678").hexdigest()}
            tensor.update({key: value for key, value in changes.items() if key in tensor or key[0] == "g"})
            shard.update({key: value for key, value in changes.items() if key in shard})
            shard["tensors"] = [tensor]
            return {"version": changes.get("version", "1.0.0"), "worldSize": 1, "shards": [shard]}

        must(dcp.load(written(inside, document()))["t"].tobytes() == b"12345678", "a plain document loads")
        hostile = [{"filePath": "../secret"}, {"filePath": "/etc/passwd"}, {"filePath": "a\\b"}, {"filePath": "c:x"},
                   {"filePath": ""}, {"filePath": 7.5}, {"size": -8}, {"offset": -8}, {"offset": 1 << 62},
                   {"size": 1 << 62}, {"shape": [1 << 40, 1 << 40]}, {"shape": [-2]}, {"shape": "2"},
                   {"shape": [True, 2]},
                   {"fileSize": 1 << 62, "offset": 1 << 61}, {"version": "2.0.0"}, {"checksum": "0" * 64},
                   {"dataType": ""}, {"name": ""}, {"fileSize": -1}]
        for changes in hostile:
            try:
                dcp.load(written(inside, document(**changes)))
            except dcp.Error:
                continue
            must(False, "accepted: %s" % changes)
        for text in ("", "[]", "{", '{"version": "1.0.0"}', '{"a": 1, "a": 2}', "[" * 100000, "\0",
                     '{"version": "1.0.0", "saveId": "0123456789abcdef", "worldSize": 1, "shards": []}',
                     '{"version": 1e999, "shards": 3}'):
            try:
                dcp.load(written(inside, text))
            except dcp.Error:
                continue
            must(False, "accepted: %.40s" % text)
        try:
            dcp.load(os.path.join(directory, "none"))
            must(False, "a checkpoint that is not there")
        except dcp.NotFound:
            pass
        try:
            dcp.load(written(inside, document()), key=b"key")
            must(False, "an unsigned document with a key")
        except dcp.SignatureError:
            pass
    print("%d hostile documents refused" % (len(hostile) + 9))


def structs():
    """Each member's place and size."""
    print('#include "dcp.h"\n#include <stdio.h>\nint main(void) {\n    int bad = 0;')
    for struct in dcp.STRUCTS:
        name = struct.__name__
        print('    if (sizeof(%s) != %d) bad = printf("%s has %%d bytes\\n", (int)sizeof(%s));' %
              (name, dcp.ctypes.sizeof(struct), name, name))
        for member, _ in struct._fields_:
            at = getattr(struct, member)
            print('    if (offsetof(%s, %s) != %d || sizeof(((%s *)0)->%s) != %d) bad = printf("%s.%s\\n");' %
                  (name, member, at.offset, name, member, at.size, name, member))
    print("    return bad != 0;\n}")


def library(path, directory):
    lib, compared = dcp.Library(path), 0
    for layout in LAYOUTS:
        state = dcp.load(os.path.join(directory, layout, "tree"))
        for name, array in lib.load(os.path.join(directory, layout, "signed"), key=KEY).items():
            must(array.dtype == state[name].dtype and array.shape == state[name].shape
                 and array.tobytes() == state[name].tobytes(), "%s: %s through the library" % (layout, name))
            compared += array.nbytes
        given = {name: array for name, array in state.items() if dcp.BITS[expected()[name][0]] > 4
                 and (array.dtype.name in dcp.NAMES or array.dtype.name in dcp.BITS)}
        given["transposed"], given["swapped"] = state["many"].transpose(2, 0, 3, 1), state["many"].astype(">i2")
        given["number"] = 7
        saved = os.path.join(directory, layout, "saved")
        lib.save(saved, given, step=5000, epoch=2, fields={"a": "\u00e4"}, layout=layout, key=KEY, key_id="k")
        with dcp.open(saved, key=KEY) as checkpoint:
            must((checkpoint.step, checkpoint.epoch, checkpoint.fields) == (5000, 2, {"a": "\u00e4"}), "what was saved")
            must(set(checkpoint) == set(given), "names: %s" % list(checkpoint))
            for name, array in given.items():
                must(np.array_equal(checkpoint[name][...].view(np.uint8) if name.startswith("types") else
                                    checkpoint[name][...], array.view(np.uint8) if name.startswith("types") else array),
                     "%s: %s: other numbers" % (layout, name))
        for kind, call in ((dcp.NotFound, lambda: lib.load(saved + "x")), (dcp.SignatureError, lambda: lib.load(
                os.path.join(directory, layout, "tree"), key=KEY)), (dcp.Error, lambda: lib.save(saved, {"": 1}))):
            try:
                call()
            except kind:
                continue
            must(False, "%s was expected" % kind.__name__)
    print("%d bytes through the library compared" % compared)


def readme(document, path):
    with open(document) as file:
        blocks = [part.split("```")[0] for part in file.read().split("```python\n")[1:]]
    dcp.Library(path).save("run/step_300", {"layers.0.wq": np.ones((32, 8), np.float32), "bias": np.zeros(3)}, step=300)
    os.makedirs("build/lib")
    shutil.copy(path, "build/lib/libdcp.so")
    names = {"array": np.ones((2, 3)), "tensor": np.zeros(4, np.float16)}
    for block in blocks:
        exec(compile(block, document, "exec"), names)
    must(names["rows"].shape == (10, 8) and set(names["state"]) == {"wq", "bias"}, "the blocks did other things")
    print("%d blocks ran" % len(blocks))


def script(name, *arguments):
    command = [sys.executable, "-B", os.path.join(EXAMPLES, name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    must(done.returncode == 0, "%s: %s" % (name, done.stderr))


def gguf():
    import gguf
    kinds = gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter("a.gguf", "llama")
    writer.add_string("general.name", "n\u00e4me")
    writer.add_uint64("big", (1 << 63) + 1)
    writer.add_bool("yes", True)
    writer.add_float32("small", 0.1)
    writer.add_array("tokens", ["a", "b \u00fc", ""])
    writer.add_array("numbers", [1, 2, 3])
    numbers = np.random.RandomState(1).randn(8, 64).astype(np.float32)
    for kind in (np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8):
        writer.add_tensor(np.dtype(kind).name, (numbers * 50).astype(kind))
    writer.add_tensor("bf16", numbers.view(np.uint8)[:, ::2].copy(), raw_dtype=kinds.BF16)
    for kind in (kinds.Q8_0, kinds.Q4_0):
        writer.add_tensor(kind.name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    script("from_gguf.py", "a.gguf", "run/x")
    script("to_gguf.py", "run/x", "b.gguf")
    with open("a.gguf", "rb") as first, open("b.gguf", "rb") as second:
        must(first.read() == second.read(), "another file came back")
    must(dcp.load("run/x", "int32")["int32"].tobytes() == (numbers * 50).astype(np.int32).tobytes(), "int32")
    print("gguf: 10 tensors, 8 pairs, the same file")


def tool(path, *arguments):
    done = subprocess.run([path, "convert", "-q", *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr


def arrays():
    draw = np.random.RandomState(3)
    state = {"a/%s" % kind: (draw.randn(5, 7, 3) * 50).astype(kind) for kind in (
        "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16")}
    state.update({"big/%s" % kind: (draw.randn(3, 40000) * 50).astype(kind) for kind in (">f4", ">i8", ">c16", ">u2")})
    state["fortran"] = np.asfortranarray(draw.randn(30, 20, 10))
    state["fortran big"] = np.asfortranarray(draw.randn(300, 200).astype(">f8"))
    state["scalar"], state["none"], state["n\u00e4me"] = np.float32(3), np.zeros((0, 4)), np.arange(7)
    state["long"] = np.repeat(np.arange(1000, dtype=np.int32), 300)         # it deflates well
    state["noise"] = draw.bytes(200000)
    state["noise"] = np.frombuffer(state["noise"], np.uint8)
    return state


def npz(path, directory):
    compared = 0
    state = arrays()
    for save in (np.savez, np.savez_compressed):
        save("a.npz", **state)
        for layout in ("single", "sharded", "manifest-yaml"):
            name = "run/%s_%s" % (save.__name__, layout)
            done = tool(path, "a.npz", name, "--to", layout)
            must(done == (0, ""), "convert a.npz: %s" % (done,))
            loaded = dcp.load(name)
            must(set(loaded) == set(state), "other names: %s" % list(loaded))
            for key, array in state.items():
                must(loaded[key].shape == np.shape(array) and np.array_equal(loaded[key], array), key)
                compared += loaded[key].nbytes
        must(tool(path, name, "b.npz", "--to", "npz", "--force") == (0, ""), "convert to npz")
        with np.load("b.npz") as back:
            must(set(back.files) == set(state), "numpy reads other names: %s" % back.files)
            for key, array in state.items():
                must(back[key].shape == np.shape(array) and np.array_equal(back[key], array), key)
    for version in ((1, 0), (2, 0), (3, 0)):
        with open("v.npy", "wb") as file:
            np.lib.format.write_array(file, state["fortran"], version)
        must(tool(path, "v.npy", "run/v%d" % version[0], "--to", "single") == (0, ""), "npy %s" % (version,))
        must(np.array_equal(dcp.load("run/v%d" % version[0])["v"], state["fortran"]), "npy %s" % (version,))
    plain = [name for name, (kind, _) in expected().items() if kind in dcp.NUMPY]
    only = [word for name in plain for word in ("--only", name)]
    done = tool(path, os.path.join(directory, "sharded", "tree"), "s.npz", "--to", "npz", *only)
    must(done == (0, ""), "samples to npz: %s" % (done,))
    with np.load("s.npz") as back:
        for name in plain:
            must(np.array_equal(bits_of(back[name], expected()[name][0]), pattern(name, *expected()[name])), name)
    code, text = tool(path, os.path.join(directory, "sharded", "tree"), "t.npz", "--to", "npz")
    must(code != 0 and "numpy does not have" in text and not os.path.exists("t.npz"), "bf16 to npz: %s" % text)
    hostile_npz(path)
    print("npz: %d bytes compared, %d damaged files refused" % (compared, damaged_npz(path)))


def hostile_npz(path):
    """Heads of arrays that say more than there is, so much that sums overflow, or less, or nothing."""
    def convert(kind, shape, data):
        head = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, shape)).encode().ljust(117) + b"\n"
        with zipfile.ZipFile("h.npz", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)
        return tool(path, "h.npz", "run/h", "--to", "single", "--force")
    for kind, shape, size in (("<f4", 2**61 - 1, 4), ("|u1", 2**63 - 2, 4), ("|u1", 8, 20 << 20), ("<f4", 3, 4)):
        code, text = convert(kind, shape, bytes(size))
        must(code == 1 and "h.npz: x has %d bytes of numbers" % size in text, "hostile .npz: %s %s" % (code, text))
        must(not os.path.exists("run/h.checkpoint"), "a hostile .npz was converted")
    must(convert("<f4", "0, 3", b"") == (0, ""), "an array without numbers")


def damaged_npz(path):
    """Each is refused, or is a checkpoint of the same numbers; and nothing is left of it."""
    draw, refused = random.Random(5), 0
    small = {"x": np.arange(50.0), "y": np.repeat(np.arange(20), 9)}
    for save in (np.savez, np.savez_compressed):
        save("d.npz", **small)
        with open("d.npz", "rb") as file:
            whole = file.read()
        for turn in range(60 if os.environ.get("WHOLE") else 25):
            raw = bytearray(whole[:draw.randrange(len(whole))] if turn % 5 == 0 else whole)
            for _ in range(draw.randint(1, 3)) if turn % 5 and raw else ():
                raw[draw.randrange(len(raw))] = draw.choice((0, 255, draw.randrange(256)))
            with open("e.npz", "wb") as file:
                file.write(raw)
            code, text = tool(path, "e.npz", "run/e", "--to", "single", "--force")
            must(code in (0, 1, 3), "exit status %s: %s" % (code, text))
            left = [name for name in os.listdir("run") + os.listdir(".") if name.endswith(".tmp")]
            must(not left, "a temporary file stays: %s" % left)
            refused += code != 0
            if code == 0:
                loaded = dcp.load("run/e")
                must(all(name in small and np.array_equal(small[name], array) or name not in small
                         for name, array in loaded.items()), "damage number %d is accepted" % turn)
    return refused


def equal(a, b):
    import torch
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and \
            torch.equal(a.contiguous().view(-1).view(torch.uint8) if a.numel() else a,
                        b.contiguous().view(-1).view(torch.uint8) if b.numel() else b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


def torch(directory):
    import torch
    import torch.distributed.checkpoint
    draw = torch.Generator().manual_seed(1)
    state = {str(kind): torch.randn(5, 7, generator=draw).mul(9).to(kind) for kind in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128)}
    state["transposed"] = torch.randn(300, 2000, generator=draw).T
    state["scalar"], state["empty"] = torch.tensor(3), torch.zeros(0, 3)
    nested = {"model": state, "optimizer": {"state": {0: {"step": torch.tensor(3.0)}, 1: {}},
              "param_groups": [{"lr": 0.1, "betas": (0.9, 0.95), "params": [0, 1]}]},
              "epoch": 3, "name": "\u00fc", "no": None}
    torch.save(nested, "a.pt")
    script("from_torch.py", "a.pt", "run/a")
    script("to_torch.py", "run/a", "b.pt")
    must(equal(nested, torch.load("b.pt", weights_only=True)), "torch.save: something else came back")
    torch.distributed.checkpoint.save({"model": {key: state[key] for key in list(state)[:6]}}, checkpoint_id="dcp",
                                      no_dist=True)
    script("from_torch.py", "dcp", "run/d")
    loaded = dcp.load("run/d", torch=True)
    must(all(equal(state[key], loaded["model." + key]) for key in list(state)[:6]), "torch DCP: other tensors")
    for layout in LAYOUTS:
        path = os.path.join(directory, layout, "tree")
        for name, tensor in dcp.load(path, torch=True).items():
            dtype, shape = expected()[name]
            raw = tensor.contiguous().view(-1).view(torch.uint8).numpy() if tensor.numel() else np.zeros(0, np.uint8)
            must(dcp.BITS[dtype] == 4 or np.array_equal(raw, pattern(name, dtype, shape)), "%s: %s" % (layout, name))
    print("torch: nested, DCP and %d samples" % len(LAYOUTS))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    globals()[sys.argv[1]](*sys.argv[2:])
