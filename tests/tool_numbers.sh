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
# the same with NaN of other bits, one number a little more, one much more, one infinite, and a 64-bit integer by one
at = {t["name"]: t["offset"] for t in tensors}
other = bytearray(whole)
def put(name, form, index, value):
    struct.pack_into("<" + form, other, at[name] + struct.calcsize(form) * index, value)
put("fp8_e4m3", "B", 0x7f, 0xff)
put("fp16", "H", 0x7c01, 0x7e00)
put("fp64", "d", 7, wave[7] + 1e-7)
put("fp32", "f", 10, wave[10] + 50)
put("fp32", "f", 20000, 1.0)
put("complex64", "f", 9, 0.0)
put("int64", "B", 8 * 31, 249)
put("int4", "B", 3, 0x31)
write("other", bytes(other))
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

diff_values() {
    make_numbers
    impatient_tool
    TERM=dumb
    for tool in "$DCPTOOL" "$work/small"; do
        "$tool" diff --json --values numbers/all numbers/other >out 2>err && fail "they are the same"
        "$python" - <<'END' || fail "$tool: $(tail -n 1 "$work/trace")"
import json, math
j = json.load(open("out"))
d = {x["name"]: x for x in j["differences"]}
assert sorted(d) == ["complex64", "fp32", "fp64", "int4", "int64"], sorted(d)     # NaN is NaN, of whatever bits
def is_(name, numbers, different, first, absolute, absolute_at):
    x = d[name]
    got = (x["numbers"], x["different"], x["first_at"], x["largest_absolute_at"])
    assert got == (numbers, different, first, absolute_at), (name, got)
    assert x["largest_absolute"] == absolute or math.isclose(x["largest_absolute"], absolute, rel_tol=1e-3), (name, x)
is_("fp64", 20004, 1, [7], 1e-7, [7])
is_("fp32", 20004, 2, [10], None, [20000])
assert d["fp32"]["largest_relative"] is None
is_("complex64", 20004, 1, [4], abs(1e3 * math.sin(9)), [4])
is_("int64", 32, 1, [31], 1, [31])
is_("int4", 33, 1, [6], 2, [6])
assert d["int64"]["largest_relative"] < 1e-14 and d["complex64"]["largest_relative"] == 1
END
    done
    run 1 diff --rtol 1e-9 --atol 60 numbers/all numbers/other
    is "$(printf '%s\n' "$out" | cut -d ' ' -f 2 | tr '\n' ' ')" "complex64: fp32: "
    has "$out" "1 of 20004 numbers differ, first at [20000]; at most by inf at [20000], relatively inf at [20000]"
    run 0 diff -v --atol 1000 s/run/step_300 s/blocks
    has "$out" "same: w (by value)"
    run 1 diff --atol 100 s/run/step_100 s/run/step_200
    hasnt "$out" content
    run 1 diff --atol 99 s/run/step_100 s/run/step_200
    has "$out" "12 of 12 numbers differ, first at [0, 0]; at most by 100 at [0, 0], relatively 0.5 at [0, 0]"
    for bad in x -1 '' nan inf 1e 1e999; do run 2 diff --rtol "$bad" s/one s/one; done
}
diff_says_how() {
    run 1 diff s/run/step_100 s/run/step_200
    has "$err" "1 tensor is the same, 3 differences; by their digests alone, no data was read"
    run 1 diff --values s/run/step_100 s/run/step_200
    hasnt "$err" "digests alone"
    run 0 diff s/run/step_300 s/one
    has "$err" "2 tensors are the same, 0 differences; by their digests alone"
    run 0 diff s/run/step_300 s/blocks
    hasnt "$err" "digests alone"
    run 0 diff -q s/run/step_300 s/one
    is "$err" ""
    copy s/run bad
    rm bad/step_300_shard_0.bin
    run 1 diff --values bad/step_300 s/run/step_100
    has "$err" "step_300_shard_0.bin"
    run 0 convert -q s/ranks other_ranks --to sharded
    run 0 diff --values s/ranks other_ranks
}
