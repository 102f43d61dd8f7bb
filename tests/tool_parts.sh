# tool_parts.sh - part of test_tool.sh: dcptool cat, and extract --slice.

cat_text() {
    run 0 cat s/one w
    is "$out" "300 300.25 300.5 300.75
301 301.25 301.5 301.75
302 302.25 302.5 302.75"
    is "$err" ""
    run 0 cat s/one bias
    is "$out" "0.5
-1
1e+300
0"
    run 0 cat s/types scalar
    is "$out" 42
    run 0 cat s/types nothing
    is "$out" ""
    run 0 cat s/types type.int4 --slice 2:4
    is "$out" "-5
1"
    run 0 cat s/ranks mine --rank 1
    is "$out" "10
11"
    run 1 cat s/ranks mine
    has "$err" "--rank N"
    run 0 cat s/ranks mine --rank 1 --slice -1
    is "$out" 11
    run 1 cat s/one nosuch
    run 2 cat s/unknown t
    has "$err" "posit32"
    copy s/run bad
    flip bad/step_300_shard_0.bin 0
    run 1 cat bad/step_300 w
    is "$out" ""
    run 1 cat bad/step_300 w --json
    json 'j["error"]["status"] == "DCP_E_CHECKSUM"'
}
# Three dimensions: an empty line between matrices.
cat_slices() {
    run 0 cat s/shapes "$(cd s && "$DCPTOOL" ls -q shapes | awk '/\[3, 5, 7\]/ && /uint8/ { print $1 }')" \
        --slice -2:,1:3,0:2
    is "$(printf '%s\n' "$out" | sed 's/[0-9][0-9]*/N/g')" "N N
N N

N N
N N"
    run 0 cat s/one w --slice 1:,-1
    is "$out" "301.75
302.75"
    run 0 cat s/one w --slice 1,1
    is "$out" 301.25
    run 0 cat s/one w --slice 2:1
    is "$out" ""
    run 0 cat s/one w --slice '1:99, 0:-3'              # cut to what there is, as numpy does
    is "$out" "301
302"
    for pair in "3 dimension 0 of tensor \"w\" has 3 elements, and no index 3" "0,-5 dimension 1 of tensor" \
        "1:2:3 dimension 0: '1:2:3' is neither" ",1 dimension 0: '' is neither" "0,x dimension 1: 'x'" \
        "0,1,2 more dimensions than tensor \"w\", which has 2" "99999999999999999999 no index"; do
        run 2 cat s/one w --slice "${pair%% *}"
        has "$err" "${pair#* }"
        is "$out" ""
    done
    run 2 cat s/types scalar --slice 0
    run 2 cat s/one w --slice ''
    run 2 cat s/types type.int4 --slice 1:3
    has "$err" "cuts a byte"
}
# All types, against what numpy and python say; whole, and 64 bytes at a time.
cat_numbers() {
    make_numbers
    impatient_tool
    for tool in "$DCPTOOL" "$work/small"; do
        for name in $("$DCPTOOL" ls -q numbers/all | sed 's/ .*//'); do
            "$tool" cat numbers/all "$name" >"cat.$name" || fail "$name: exit code $?"
            "$tool" cat numbers/all "$name" --json >"cat.$name.json" || fail "$name: exit code $?"
        done
        "$python" - <<'END' || fail "$(tail -n 1 "$work/trace")"
import json, math, struct
expected = json.load(open("numbers/expected.json"))
def flat(x): return [z for y in x for z in flat(y)] if isinstance(x, list) else \
    [x if isinstance(x, int) else float(x)]
for name, e in expected.items():
    text = open("cat." + name).read()
    number = int if "int" in name else float            # integers of 64 bits to the last digit
    values = [number(w) for w in text.split()] if name != "complex64" else \
        [f for w in text.split() for f in (complex(w).real, complex(w).imag)]
    j = json.load(open("cat.%s.json" % name))
    again = flat(j["values"])
    assert len(values) == len(again) and all(a == b or a != a and b != b for a, b in zip(values, again)), name
    if name[:2] == "bf" or name in ("fp16", "fp32", "complex64"):       # enough digits for 32 bits
        values = [struct.unpack("f", struct.pack("f", v))[0] for v in values]
    finite = [v for v in values if not math.isnan(v) and not math.isinf(v)]
    assert len(finite) == e["finite"] and min(finite) == e["minimum"] and max(finite) == e["maximum"], name
    assert sum(map(math.isnan, values)) == e["nan"] and sum(map(math.isinf, values)) == e["inf"], name
    assert abs(math.fsum(finite) / len(finite) - e["mean"]) <= 1e-9 * max(map(abs, finite)), name
    n, rows = j["shape"], text.split("\n")[:-1]
    assert len(rows) == n[0] and (len(n) == 1 or all(len(r.split()) == n[1] for r in rows)), (name, n, len(rows))
END
    done
}
# --slice against numpy's own.
slice_numpy() {
    need_numpy
    impatient_tool
    "$python" - "$DCPTOOL" "$work/small" <<'END' || fail "$(tail -n 3 "$work/trace")"
import json, subprocess, sys
import numpy as np
names = [t for t in json.loads(subprocess.check_output([sys.argv[1], "ls", "--json", "s/shapes"]))["tensors"]
         if t["dtype"] in ("fp32", "uint8", "complex128") and len(t["shape"]) > 1]
cuts = {2: ["1", ":,-1", "0:1,1:", "-3:-1,0", "5:2"], 3: ["-1", ":,2:4,-3:", "0,0,0", "0:1,:,5", ":,-1"],
        4: ["8,:,0:2", "1:5:,0"[:3], ":,:,:,-1", "2:7,1:-1,3:,0:5"], 5: ["0,0,0,0,7:70", ":,:,:,:,-9:"]}
for tool in sys.argv[1:]:
    for t in names:
        out = ["-q", "-o", "sliced.npy", "--force"]
        subprocess.check_call([tool, "extract", "s/shapes", t["name"], *out])
        whole = np.load("sliced.npy")
        for cut in cuts[whole.ndim][:2 if tool == sys.argv[1] else 9]:
            try: want = eval("whole[%s]" % cut)
            except IndexError: continue
            subprocess.check_call([tool, "extract", "s/shapes", t["name"], "--slice=" + cut, *out])
            got = np.load("sliced.npy")
            assert got.shape == want.shape and (got.tobytes() == want.tobytes()), (t, cut, got.shape, want.shape)
END
    run 0 extract s/one w --slice 1,1:3 --raw -o - --force
    is "$(od -An -tf4 out | tr -s ' ')" " 301.25 301.5"
    run 0 extract s/one w --slice 1,1:3 -o sliced.npy --force
    has "$err" 'fp32 [2]'
    run 0 extract s/one w --slice 0 -o sliced.npy --force --json
    json 'j["shape"] == [4] and j["bytes"] == 128 + 16'
}
# A part of 68 MiB with a damaged byte elsewhere: what is not needed is not read.
slice_reads_a_part() {
    mkdir part
    cp s/big.metadata.json s/big_shard_0.bin part
    flip part/big_shard_0.bin 71000000
    run 0 cat part/big a --slice 0,0:3
    lines "$out" 3
    run 1 cat part/big a --slice 1,-400000:-399999
    has "$err" "big_shard_0.bin"
    rm -r part
}
