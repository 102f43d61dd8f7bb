# tool_numbers.sh - part of test_tool.sh: dcptool stats, and dcptool diff by value.

# numbers/all: a document as others write it, with every code of each small type and some numbers of the others, and
# what python says of them in numbers/expected.json.
make_numbers() {
    need_python
    [ ! -d numbers ] || return 0
    mkdir numbers
    "$python" - <<'END' || fail "$(tail -n 1 "$work/trace")"
import hashlib, json, math, struct
def small(code, exponent_bits, fraction_bits):
    bias = (1 << exponent_bits - 1) - 1
    e, f = code >> fraction_bits & (1 << exponent_bits) - 1, code & (1 << fraction_bits) - 1
    sign = -1 if code >> exponent_bits + fraction_bits else 1
    return sign * (math.ldexp((1 << fraction_bits) + f, e - bias - fraction_bits) if e else
                   math.ldexp(f, 1 - bias - fraction_bits))
def e5m2(c):
    if c & 0x7c != 0x7c: return small(c, 5, 2)
    return math.nan if c & 3 else math.copysign(math.inf, 64 - (c & 128))
def unpack(form, data): return [x[0] for x in struct.iter_unpack("<" + form, data)]
nibbles = bytes(range(0, 256, 17)) + b"\x01"
codes = bytes(range(256))
halves = b"".join(struct.pack("<H", c) for c in range(65536))
wave = [1e3 * math.sin(i) for i in range(20000)] + [math.inf, -math.inf, math.nan, 0.0]
both = [n & 15 for n in nibbles for n in (n, n >> 4)][:33]
data = {
    "fp8_e4m3": (codes, [256], [math.nan if c & 127 == 127 else small(c, 4, 3) for c in codes]),
    "fp8_e5m2": (codes, [256], [e5m2(c) for c in codes]),
    "fp4_e2m1": (nibbles, [33], [small(c, 2, 1) for c in both]),
    "uint4": (nibbles, [33], both),
    "int4": (nibbles, [33], [c - 16 if c > 7 else c for c in both]),
    "fp16": (halves, [256, 256], unpack("e", halves)),
    "bf16": (halves, [65536], [struct.unpack("<f", struct.pack("<I", c << 16))[0] for c in range(65536)]),
    "fp32": (struct.pack("<20004f", *wave), [20004], unpack("f", struct.pack("<20004f", *wave))),
    "fp64": (struct.pack("<20004d", *wave), [20004], wave),
    "complex64": (struct.pack("<20004f", *wave), [10002], unpack("f", struct.pack("<20004f", *wave))),
    "int8": (codes, [256], unpack("b", codes)), "uint8": (codes, [256], list(codes)),
    "int16": (halves, [65536], unpack("h", halves)), "uint16": (halves, [65536], unpack("H", halves)),
    "int32": (codes, [64], unpack("i", codes)), "uint32": (codes, [64], unpack("I", codes)),
    "int64": (codes, [32], unpack("q", codes)), "uint64": (codes, [32], unpack("Q", codes)),
    "bool": (b"\0\1\1\0\1", [5], [0, 1, 1, 0, 1]),
}
whole, tensors, expected = b"", [], {}
for name, (raw, shape, values) in sorted(data.items()):
    tensors.append({"name": name, "shape": shape, "dataType": name, "offset": len(whole), "size": len(raw)})
    whole += raw + b"\0" * (-len(raw) % 64)
    finite = [v for v in values if not math.isnan(v) and not math.isinf(v)]
    mean = math.fsum(finite) / len(finite)
    expected[name] = {"nan": sum(math.isnan(v) for v in values), "inf": sum(math.isinf(v) for v in values),
        "finite": len(finite), "zeros": finite.count(0), "minimum": min(finite), "maximum": max(finite), "mean": mean,
        "standard_deviation": math.sqrt(math.fsum((v - mean) ** 2 for v in finite) / len(finite))}
def write(name, whole):
    open("numbers/%s_shard_0.bin" % name, "wb").write(whole)
    json.dump({"version": "1.0.0", "timestamp": "2024-01-02T03:04:05Z", "worldSize": 1, "ddpRank": 0,
        "sharding": {"strategy": "x", "shardCount": 1, "precision": "fp32", "strategySpecificInfo": {}},
        "shards": [{"rank": 0, "filePath": "%s_shard_0.bin" % name, "fileSize": len(whole),
                    "checksum": hashlib.sha256(whole).hexdigest(), "tensors": tensors}], "training": None},
        open("numbers/%s.metadata.json" % name, "w"))
write("all", whole)
json.dump(expected, open("numbers/expected.json", "w"))
END
}
stats_types() {
    make_numbers
    impatient_tool
    for tool in "$DCPTOOL" "$work/small"; do            # whole, and 64 bytes at a time
        "$tool" stats --json numbers/all >out 2>err || fail "exit code $?: $(cat err)"
        "$python" - <<'END' || fail "$tool: $(tail -n 1 "$work/trace")"
import json, math
expected, got = json.load(open("numbers/expected.json")), json.load(open("out"))
assert [t["name"] for t in got["tensors"]] == sorted(expected)
for t in got["tensors"]:
    for key, want in expected[t["name"]].items():
        near = 1e-12 * max(abs(expected[t["name"]]["maximum"]), abs(expected[t["name"]]["minimum"]))
        assert t[key] == want or math.isclose(t[key], want, rel_tol=1e-9, abs_tol=near), (t["name"], key, t[key], want)
    assert len(t["histogram"]) == 20 and sum(t["histogram"]) == t["finite"], t
by = {t["name"]: t["histogram"] for t in got["tensors"]}
assert all(abs(n - 65536 / 20) < 330 for n in by["uint16"]), by["uint16"]
assert by["fp32"][0] > 2 * by["fp32"][10] < by["fp32"][19], by["fp32"]      # a sine is mostly at its ends
END
    done
}
stats_look() {
    TERM=dumb
    export TERM
    seen 40 stats s/types 'type.*int[48]' <<'END'
NAME        MAX  HISTOGRAM
type.int4     4  ▅            █ █   ▅
type.int8    46  █   █   █   █   █  █
type.uint4   12  █▅ ▅   ▅           ▅
type.uint8   50  █   █   █   █   █  █
4 tensors, 18 bytes, 0 NaN, 0 infinite
END
    seen 80 stats s/types 'type.*int[48]' <<'END'
NAME        TYPE   MIN  MAX    MEAN    STD  HISTOGRAM
type.int4   int4    -5    4  0.8333  2.794  ▅            █ █   ▅
type.int8   int8    11   46    28.5  11.95  █   █   █   █   █  █
type.uint4  uint4    1   12       4   3.83  █▅ ▅   ▅           ▅
type.uint8  uint8   15   50    32.5  11.95  █   █   █   █   █  █
4 tensors, 18 bytes, 0 NaN, 0 infinite
END
    seen 200 stats s/ranks <<'END'
NAME          TYPE   MIN  MAX  MEAN    STD  ZEROS  HISTOGRAM
mine, rank 0  int32    0    1   0.5    0.5    50%  █                  █
mine, rank 1  int32   10   11  10.5    0.5         █                  █
ours, rank 0  int32    7    8   7.5    0.5         █                  █
ours, rank 1  int32    7    8   7.5    0.5         █                  █
w             fp32     0   11   5.5  3.452  8.33%  ██ █ █ █ ██ █ █ █ ██
3 tensors, 80 bytes, 0 NaN, 0 infinite
END
    run 1 stats s/one 'nothing*'
    has "$err" "nothing*"
    run 0 stats s/types nothing                         # no elements
    run 0 stats s/unknown
}
stats_fail_on() {
    make_numbers
    run 1 stats --fail-on nan,inf numbers/all
    has "$out" " NaN, "
    run 1 stats --fail-on nan numbers/all fp8_e4m3
    run 0 stats --fail-on inf numbers/all fp8_e4m3
    run 1 stats --fail-on inf numbers/all fp8_e5m2
    run 0 stats --fail-on nan,inf numbers/all 'int*'
    run 2 stats --fail-on zero numbers/all
    copy s/run bad
    flip bad/step_300_shard_0.bin 0
    run 1 stats bad/step_300
    has "$err" "step_300_shard_0.bin"
}
# 1 GiB, as a file with a hole: what is held does not grow with the tensor.
stats_memory() {
    need_python
    nm "$DCPTOOL" 2>/dev/null | grep -q __asan && skip "AddressSanitizer takes more memory"
    dd if=/dev/null of=huge_shard_0.bin bs=1 seek=268435456 2>/dev/null || skip "no sparse files here"
    sed -e 's/foreign_shard/huge_shard/' -e 's/"shape": \[2\]/"shape": [67108864]/' -e 's/ize": 8/ize": 268435456/g' \
        -e 's/"checksum": "[0-9a-f]*"/"checksum": null/' s/foreign.metadata.json >huge.metadata.json
    "$python" -c '
import resource, subprocess, sys
assert subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
peak = peak // 1024 if sys.platform == "darwin" else peak
assert peak < 150000, "%d KiB" % peak' "$DCPTOOL" stats huge || fail "$(tail -n 1 "$work/trace")"
    rm huge_shard_0.bin
}
