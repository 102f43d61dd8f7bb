# tool_edit.sh - part of test_tool.sh: dcptool convert that edits: --only, --drop, --rename, --cast, --step.

names_in() {                        # checkpoint
    run 0 ls -q "$1"
    printf '%s\n' "$out" | sed 's/ .*//' | tr '\n' ' '
}
# In every layout; what a manifest says of a tensor goes with it, under its new name, there and back.
convert_edits_names() {
    mkdir edited
    for to in sharded single manifest manifest-yaml; do
        run 0 convert s/moe/step_200 "edited/$to" --to $to --drop 'ad*' --drop y --rename x=zz --rename '*=m.*' \
            --rename b=bb
        has "$err" "left out: 2 tensors"
        has "$err" "renamed: 4 tensors"
        is "$(names_in "edited/$to")" "bb m.a m.r m.x "
        run 0 verify "edited/$to"
        run 0 convert "edited/$to" edited/back --to manifest --rename 'm.*=*' --force --json
        json 'j["renamed"] == 3 and j["left_out"] == 0 and j["pieces"] == 4'
        is "$(names_in edited/back)" "a bb r x "
        run 0 ls --json edited/back
        json '[(t["role"], t["tier"], t["version"]) for t in j["tensors"]] == [("dense", "hot", 0), ("dense", "hot", 1),
            ("router", None, 0), ("expert", "hot", 0)]'
        run 0 info --json edited/back
        json '[t["name"] for t in j["manifest"]["tiers"]] == ["hot", "warm"]
            and len(j["manifest"]["router_layers"]) == 2'
        run 0 cat edited/back bb
        bytes=$out
        run 0 cat s/moe/step_200 b
        is "$bytes" "$out"
    done
    run 0 convert edited/sharded edited/part --to sharded --only 'm.[ax]' --rename 'm.*=n.*.weight'
    is "$(names_in edited/part)" "n.a.weight n.x.weight "
    run 0 convert edited/part edited/again --to manifest
    run 0 ls --json edited/again
    json '[(t["name"], t["role"], t["tier"]) for t in j["tensors"]] ==
        [("n.a.weight", "dense", "hot"), ("n.x.weight", "expert", "hot")]'
}
convert_edits_ranks() {
    run 0 convert s/ranks edited_ranks --to single --drop ours --rename 'm*=part/m*'
    has "$err" "of 2 ranks"
    run 0 cat edited_ranks part/mine --rank 1
    is "$out" "10
11"
    run 0 convert s/few_rows edited_rows --to manifest --rename w=other
    run 0 cat edited_rows other
    rows=$out
    run 0 cat s/few_rows w
    is "$rows" "$out"
}
# Found before anything is written.
convert_edits_refuse() {
    mkdir refused
    run 2 convert s/one refused/x --to single --rename w=bias
    has "$err" '"bias" and "w" of s/one.checkpoint would both be called "bias"'
    run 2 convert s/types refused/x --to single --rename 'type.*=*' --rename type.int4=scalar
    run 1 convert s/one refused/x --to single --only nosuch
    has "$err" "--only nosuch: s/one.checkpoint has no such tensor"
    run 1 convert s/one refused/x --to single --drop 'no*'
    run 1 convert s/one refused/x --to single --rename 'x*=y*'
    run 1 convert s/one refused/x --to single --drop '*'
    has "$err" "leave no tensor"
    for rule in a b= =b 'a*=b' 'a=b*' 'a**=b**' ''; do run 2 convert s/one refused/x --to single --rename "$rule"; done
    run 2 convert s/one refused/x --to single --step x
    is "$(ls refused)" ""
    run 0 convert s/one refused/x --to single --rename w=bias --rename bias=w     # an exchange is no clash
    is "$(names_in refused/x)" "bias w "
}
convert_edits_step() {
    run 0 convert s/one stepped --to sharded --step 12345
    run 0 info --json stepped
    json 'j["training"]["step"] == 12345 and j["training"]["epoch"] == 3'
    run 0 convert s/other stepped_other --to manifest --step 7
    run 0 info --json stepped_other
    json 'j["training"]["step"] == 7'
}
# Against what python makes of the numbers; in every layout, and a window of few numbers at a time.
convert_casts() {
    make_numbers
    for to in sharded single manifest; do
        run 0 convert numbers/all "cast/$to" --to $to --cast bf16 --cast 'fp64=fp16' --cast 'fp16=fp64' --memory 4MiB
        has "$err" "cast: 3 tensors"
        run 0 verify "cast/$to"
        run 0 ls --json "cast/$to"
        json '{t["name"]: t["dtype"] for t in j["tensors"] if t["name"] != t["dtype"]} ==
            {"fp32": "bf16", "fp64": "fp16", "fp16": "fp64"}'
        run 0 extract "cast/$to" fp32 --raw -o cast.fp32 --force
        run 0 extract "cast/$to" fp64 --raw -o cast.fp64 --force
        run 0 extract "cast/$to" fp16 --raw -o cast.fp16 --force
        "$python" - <<'END' || fail "$(tail -n 1 "$work/trace")"
import math, struct
def unpack(form, name): return [x[0] for x in struct.iter_unpack("<" + form, open(name, "rb").read())]
wave = [1e3 * math.sin(i) for i in range(20000)]
def bf16(v):                                            # to the nearest, ties to even
    b = struct.unpack("<I", struct.pack("<f", v))[0]
    return b + 0x7fff + (b >> 16 & 1) >> 16
got = unpack("H", "cast.fp32")
assert got[:20000] == [bf16(v) for v in wave] and got[20000:20002] == [0x7f80, 0xff80], "bf16"
assert got[20002] & 0x7fff > 0x7f80 and got[20003] == 0
got = unpack("e", "cast.fp64")
assert got[:20000] == [struct.unpack("<e", struct.pack("<e", v))[0] for v in wave], "fp16"
assert got[20000:20002] == [math.inf, -math.inf] and math.isnan(got[20002])
halves = [struct.unpack("<e", struct.pack("<H", c))[0] for c in range(65536)]
assert all(a == b or a != a and b != b for a, b in zip(unpack("d", "cast.fp16"), halves)), "fp64"
END
    done
    run 0 diff -q cast/sharded cast/manifest
    run 0 convert s/one cast/over --to single --cast fp16 --json          # bias has 1e300
    json 'j["cast"] == 2 and j["overflows"] == 1'
    has "$err" "1 number is too large"
    run 0 cat cast/over bias
    is "$(printf '%s' "$out" | tr '\n' ' ')" "0.5 -1 inf 0"
    run 0 convert s/few_rows cast/rows --to manifest --cast fp64
    run 0 cat cast/rows w
    rows=$out
    run 0 cat s/few_rows w
    is "$rows" "$out"
    run 1 convert s/types cast/none --to single --cast 'type.int*=bf16'
    has "$err" "no such tensor of fp64"
    run 2 convert s/types cast/none --to single --cast int8
    run 0 convert s/types cast/all --to single --cast fp32 -q
    run 0 extract cast/all type.int64 --raw -o -
    cp out first
    run 0 extract s/types type.int64 --raw -o -
    cmp out first || fail "integers changed"
}
