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
