#!/bin/sh
# test_tool.sh - tests of build/dcptool, from the outside: commands, both layouts, --json, exit codes, messages, terminals and pipes.
#
#     DCPTOOL=build/dcptool sh tests/test_tool.sh [text]       only tests whose name contains the text
#
# Needs a C compiler ($CC, default cc) for make_checkpoints.c, which saves what is looked at (or $MAKE_CHECKPOINTS, built). python3 (for
# JSON and terminals) and numpy are used where they are; missing they are a skip, or a failure if DCP_REQUIRE has the word python.
# Prints `ok name`, `skipped name: why`, `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if any failed.

root=$(cd "$(dirname "$0")/.." && pwd)
DCPTOOL=${DCPTOOL:-$root/build/dcptool}
case $DCPTOOL in /*) ;; *) DCPTOOL=$(pwd)/$DCPTOOL ;; esac
filter=${1:-}
passed=0 failed=0 skipped=0
# The python that has numpy, if one has it: what apt installs is for the system's own, which need not be the first in the path.
python=${PYTHON:-python3}
for other in "$python" /usr/bin/python3; do
    if "$other" -c 'import numpy' 2>/dev/null; then python=$other && break; fi
done
unset NO_COLOR
LC_ALL=C
export LC_ALL

work=$(mktemp -d "${TMPDIR:-/tmp}/dcptool.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# ---- harness -----------------------------------------------------------------------------------------------------------------------------
# A test is a function; it runs in a subshell with -e off, and ends with `fail why` or by returning. What it prints is the reason.
fail() { echo "$*" | tr '\n' ' '; exit 1; }
skip() { echo "$*"; exit 77; }
missing() {                         # word of DCP_REQUIRE, what is missing
    case " $(echo "${DCP_REQUIRE:-}" | tr ',' ' ') " in *" $1 "*) fail "$2, and DCP_REQUIRE asks for $1" ;; esac
    skip "$2"
}
t() {                               # name
    case $1 in *"$filter"*) ;; *) return ;; esac
    why=$(cd "$work" && "$1" 2>"$work/trace")
    case $? in
    0) passed=$((passed + 1)); echo "ok $1" ;;
    77) skipped=$((skipped + 1)); echo "skipped $1: $why" ;;
    *) failed=$((failed + 1)); echo "FAILED $1: $why $(head -c 300 "$work/trace" | tr '\n' ' ')" ;;
    esac
}
summary() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" = 0 ]; exit; }

run() {                             # expected exit code, arguments of the tool; out and err hold what it printed
    want=$1
    shift
    "$DCPTOOL" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    out=$(cat "$work/out") err=$(cat "$work/err")
    [ "$got" = "$want" ] || fail "dcptool $*: exit code $got, not $want: $out $err"
}
has() { case $1 in *"$2"*) ;; *) fail "no '$2' in: $1" ;; esac; }
hasnt() { case $1 in *"$2"*) fail "'$2' in: $1" ;; esac; }
is() { [ "$1" = "$2" ] || fail "got '$1', want '$2'"; }
lines() { is "$(printf '%s\n' "$1" | wc -l | tr -d ' ')" "$2"; }
absent() { [ ! -e "$1" ] || fail "$1 is there"; }
no_temporaries() { for f in "${1:-.}"/*.tmp; do absent "$f"; done; }
copy() { rm -rf "$2" && cp -R "$1" "$2"; }
size() { wc -c <"$1" | tr -d ' '; }
flip() {                            # file, byte: inverts its bits
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    [ -n "$byte" ] || fail "$1 has no byte $2"
    printf "\\$(printf %03o $((255 - byte)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
need_python() { command -v "$python" >/dev/null 2>&1 || missing python "python3 is missing"; }
need_numpy() {
    need_python
    "$python" -c "import numpy" 2>/dev/null || missing python "numpy is missing (pip install numpy)"
}
json() {                            # expression over j, the object in $out, that must be true
    need_python
    "$python" -c '
import json, sys
def unique(pairs):
    keys = [k for k, v in pairs]
    assert len(keys) == len(set(keys)), keys
    return dict(pairs)
with open(sys.argv[1], "rb") as f: j = json.loads(f.read().decode("utf-8"), object_pairs_hook=unique)
assert isinstance(j, dict) and "command" in j, j
assert eval("(" + sys.argv[2] + ")"), (sys.argv[2], j)' "$work/out" "$1" 2>"$work/json.err" || fail "$1: $(tail -c 500 "$work/json.err")"
}
on_terminal() {                     # the tool's arguments; stdin, stdout and stderr are a terminal; out holds what it showed
    need_python
    out=$("$python" -c '
import os, pty, sys
got = []
def read(fd):
    data = os.read(fd, 65536)
    got.append(data)
    return data
status = pty.spawn(sys.argv[1:], read)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 99)' "$DCPTOOL" "$@" </dev/null)
    got=$?
}

# ---- usage -------------------------------------------------------------------------------------------------------------------------------
version() { run 0 --version; has "$out" "dcptool "; lines "$out" 1; is "$err" ""; }
help_overall() {
    run 0 --help
    for c in ls info verify diff extract convert sign sync latest prune sweep; do has "$out" "  $c "; done
    has "$out" "Exit codes:"
    has "$out" "Example:"
    whole=$out
    run 0 help
    is "$out" "$whole"
    run 0 -h
    is "$err" ""
}
help_commands() {
    for c in ls info verify diff extract convert sign sync latest prune sweep; do
        run 0 "$c" --help
        has "$out" "usage: dcptool $c"
        has "$out" "Exit codes:"
        has "$out" "Example:    "
        has "$out" "dcptool $c"
        has "$out" "--json"
        is "$err" ""
        whole=$out
        run 0 help "$c"
        is "$out" "$whole"
    done
}
usage_command() {
    run 2
    has "$err" "usage:"
    run 2 frobnicate
    has "$err" "'frobnicate'"
    has "$err" "ls info verify diff extract convert sign sync latest prune sweep"
    is "$out" ""
    run 2 --frobnicate
    run 2 help frobnicate
    run 2 help ls info
}
usage_options() {
    run 2 ls --frobnicate s/one
    has "$err" "'--frobnicate'"
    has "$err" "--json"
    has "$err" "usage: dcptool ls"
    is "$out" ""
    run 2 ls -x s/one
    run 2 ls --js s/one
    run 2 ls --json=yes s/one
    run 2 ls --output=x s/one
    run 2 extract s/one w -o
    run 2 extract s/one w --rank x
    run 2 prune s/run --keep
    run 2 prune s/run --keep 0
    run 2 prune s/run --keep -1
    run 2 prune s/run --keep 99999999999999999999
    run 2 prune s/run
    has "$err" "--keep"
    for grace in 5x h "" 1h2 -1 1e9 99999999999999999999; do run 2 sweep s/run --grace "$grace"; done
    has "$err" "24h"
}
usage_operands() {
    for c in ls info verify latest prune sweep; do run 2 "$c"; has "$err" "missing"; done
    run 2 diff s/one
    run 2 extract s/one
    run 2 info s/one s/flat
    run 2 ls a b c
    has "$err" "'c'"
    run 2 ls ""
}
options_anywhere() {
    run 0 ls s/run/step_100 --json
    is "$err" ""
    first=$out
    run 0 ls --json -- s/run/step_100
    is "$out" "$first"
    run 0 ls -qv s/run/step_100 w
    run 0 extract s/one w --output=anywhere.npy -q
    is "$err" ""
    run 0 extract -qoanywhere2.npy s/one w
    cmp anywhere.npy anywhere2.npy || fail "other bytes"
    run 3 ls -- -x
    has "$err" "-x"
}

# ---- ls ----------------------------------------------------------------------------------------------------------------------------------
ls_tensors() {
    for path in s/run/step_100 s/run/step_100.metadata.json s/one s/one.checkpoint; do
        run 0 ls "$path"
        is "$out" "bias  fp64  [4]     32 bytes  replicated  1 piece
w     fp32  [3, 4]  48 bytes  replicated  1 piece"
        is "$err" ""
    done
}
ls_pieces() {
    run 0 ls s/ranks w
    is "$out" "w  fp32  [4, 3]  48 bytes  sharded  2 pieces"
    run 0 ls -v s/ranks w
    lines "$out" 3
    has "$out" "rank 1"
    has "$out" "at [2, 0]"
    has "$out" "ranks_shard_1.bin"
    run 0 ls -v --json s/ranks mine
    json 'j["tensors"][0]["placement"] == "private"'
    json '[(p["rank"], p["file"], p["file_offset"], p["bytes"]) for p in j["tensors"][0]["piece_list"]] ==
          [(0, "ranks_shard_0.bin", 64, 8), (1, "ranks_shard_1.bin", 64, 8)]'
}
ls_glob() {
    run 0 ls s/types 'type.int*'
    lines "$out" 5
    run 0 ls s/types 'type.?p[36]*'
    lines "$out" 2
    run 0 ls s/types 'type.[!a-t]*'
    lines "$out" 5
    has "$out" "type.uint8"
    run 0 ls s/types '*a b*'
    lines "$out" 1
    run 0 ls s/types '*e*.*1*6*'
    run 0 ls s/types scalar
    lines "$out" 1
    run 1 ls s/types 'scala'
    is "$out" ""
    has "$err" "scala"
    has "$err" "types.metadata.json"
    run 1 ls s/types '[s'
    run 1 ls s/types 'scalar?'
    run 0 ls s/run '*_200*'
    lines "$out" 1
    run 1 ls s/run 'nothing*'
}
ls_directory() {
    run 0 ls s/run
    lines "$out" 3
    is "$(echo "$out" | sed -e 's/  .*//' -e 's/.*step_//' | tr '\n' ' ')" "300.metadata.json 200.metadata.json 100.metadata.json "
    has "$out" "sequence 3  step 300"
    has "$out" "valid"
    run 1 ls s/empty
    has "$err" "s/empty"
    is "$out" ""
}
ls_directory_json() {
    run 0 ls --json s/run
    json '[c["step"] for c in j["checkpoints"]] == [300, 200, 100]'
    json 'all(c["valid"] and c["status"] == "DCP_OK" and c["layout"] == "sharded" and c["bytes"] > 96 for c in j["checkpoints"])'
    run 1 ls --json s/empty
    json 'j["checkpoints"] == []'
}
ls_directory_damaged() {
    copy s/run damaged
    flip damaged/step_200.metadata.json 300
    rm damaged/step_100_shard_0.bin
    cp s/newer/newer.metadata.json damaged
    run 0 ls damaged
    lines "$out" 4
    has "$(echo "$out" | grep step_300)" "  valid"
    has "$(echo "$out" | grep step_200)" "not valid: "
    has "$(echo "$out" | grep step_100)" "step_100_shard_0.bin"
    has "$(echo "$out" | grep newer)" "not readable: "
    run 0 ls --json damaged
    json 'sorted(c["status"] for c in j["checkpoints"]) == ["DCP_E_CHECKSUM", "DCP_E_INCOMPLETE", "DCP_E_VERSION", "DCP_OK"]'
}
ls_json() {
    run 0 ls --json s/types
    json 'j["command"] == "ls" and j["layout"] == "sharded" and len(j["tensors"]) == 23'
    json '[t for t in j["tensors"] if t["name"] == "scalar"][0] ==
          {"name": "scalar", "dtype": "int32", "shape": [], "bytes": 4, "placement": "replicated", "pieces": 1}'
    json 'j["tensors"][0]["name"] == "../a b/\u00e9"'
    json '[t["shape"] for t in j["tensors"] if t["name"] == "nothing"] == [[3, 0]]'
    run 0 ls --json s/one
    json 'j["layout"] == "single" and j["path"] == "s/one.checkpoint"'
}

# ---- info --------------------------------------------------------------------------------------------------------------------------------
info_text() {
    for path in s/run/step_300 s/one; do
        run 0 info "$path"
        has "$out" "version:       1.0.0"
        has "$out" "epoch 3, step 300, learning rate 0.0003"
        has "$out" 'adamw {"beta1": 0.9}'
        has "$out" "git = abc123"
        has "$out" "world size:    1"
        has "$out" "sha256-tree:"
        has "$out" "2 tensors in 2 pieces, 80 bytes"
        has "$out" "signature:     none"
    done
    has "$out" "layout:        single"
    run 0 info s/flat
    has "$out" "$(sha256sum s/flat_shard_0.bin | cut -c 1-64)"
    run 0 info s/foreign
    has "$out" "not written by dcp.h"
}
info_json() {
    run 0 info --json s/run/step_300
    json 'j["training"] == {"epoch": 3, "step": 300, "learning_rate": 0.0003, "optimizer_type": "adamw", "optimizer_state": {"beta1": 0.9}}'
    json 'j["custom_fields"] == {"git": "abc123", "note": "Gr\u00fc\u00dfe"}'
    json 'j["sequence"] == 3 and len(j["save_id"]) == 16 and j["world_size"] == 1 and j["tensors"] == 2 and j["bytes"] == 80'
    json 'j["shards"][0]["file"] == "step_300_shard_0.bin" and j["shards"][0]["checksum"].startswith("sha256-tree:")'
    json 'not j["foreign"] and j["signature"] is None'
    run 0 info --json s/one
    json 'j["layout"] == "single" and j["shards"][0]["data_offset"] == 4096'
    run 0 info --json s/ranks
    json 'j["world_size"] == 2 and len(j["shards"]) == 2 and j["training"] is None and j["sharding"]["strategy"] == "fsdp"'
    run 0 info --json s/foreign
    json 'j["foreign"] and j["save_id"] is None'
}
info_escapes() {
    run 0 info s/odd
    esc=$(printf '\033') c1=$(printf '\302\233') turn=$(printf '\342\200\256')
    hasnt "$out" "$esc"
    hasnt "$out" "$c1"
    hasnt "$out" "$turn"
    has "$out" 'escape = \x1b[31mred\x1b[0m'
    has "$out" 'lines = one\ntwo\ttab'
    run 0 info --json s/odd
    json 'j["custom_fields"] == {"escape": "\x1b[31mred\x1b[0m", "lines": "one\ntwo\ttab", "quote": "say \"hi\" \\ there",
                                 "c1": "\x9b2J", "turn": "\u202eabc"}'
}
path_escapes() {
    esc=$(printf '\033') bad=$(printf '\377') name=$(printf 'no\033such\377directory/x')
    run 3 info "$name"
    has "$err" 'such\xffdirectory'
    hasnt "$err" "$esc"
    hasnt "$err" "$bad"
    run 3 info --json "$name"
    json 'j["error"]["status"] == "DCP_E_NOT_FOUND" and "such\ufffddirectory" in j["error"]["message"]'
}
info_signature() {
    run 0 info s/signed
    has "$out" 'hmac-sha256, key "k1", not checked'
    run 0 info --key-file s/key.bin s/signed
    has "$out" "accepted"
    run 0 info --json --key-file s/key.bin s/signed
    json 'j["signature"] == {"algorithm": "hmac-sha256", "key": "k1", "accepted": True}'
    run 1 info --key-file s/badkey.bin s/signed
    has "$err" "signed.metadata.json"
    run 1 info --key-file s/key.bin s/one
    run 2 info --key-file s/shortkey.bin s/signed
    run 3 info --key-file s/nokey.bin s/signed
    has "$err" "s/nokey.bin"
}

# ---- verify ------------------------------------------------------------------------------------------------------------------------------
verify_fine() {
    run 0 verify s/run/step_100 s/one s/flat s/ranks
    is "$out" "OK s/run/step_100
OK s/one
OK s/flat
OK s/ranks"
    is "$err" ""
    run 0 verify s/foreign          # may warn
    is "$out" "OK s/foreign"
    run 0 verify -q s/one
    is "$out" ""
    run 0 verify --json s/one s/flat
    json 'j["checked"] == 2 and j["bad"] == 0 and j["errors"] == 0 and all(r["ok"] for r in j["results"])'
}
verify_directory() {
    run 0 verify s/run
    lines "$out" 3
    run 1 verify s/empty
    has "$err" "s/empty"
    run 3 verify s/newer
    has "$out" "ERROR s/newer/newer.metadata.json: "
}
# Every byte of these files counts (G4): flip each in turn would take long; a few of each kind.
verify_flipped() {
    for at in 0 40 64 95; do
        copy s/run bad
        flip bad/step_200_shard_0.bin "$at"
        run 1 verify bad
        has "$out" "BAD bad/step_200.metadata.json: "
        has "$out" "step_200_shard_0.bin"
        has "$out" "OK bad/step_300.metadata.json"
        lines "$out" 3
    done
    for at in 0 100 1000; do
        copy s/run bad
        flip bad/step_200.metadata.json "$at"
        run 1 verify bad/step_200
        has "$out" "BAD bad/step_200: "
        has "$out" "step_200.metadata.json"
    done
}
verify_names_tensor() {
    copy s/run bad
    flip bad/step_200_shard_0.bin 0
    run 1 verify bad/step_200
    has "$out" 'tensor "w"'
    has "$out" "step_200_shard_0.bin"
    run 1 verify bad/step_200.metadata.json
    hasnt "$out" "step_200.metadata.json: bad/step_200.metadata.json:"
}
verify_flipped_single() {
    last=$(($(size s/one.checkpoint) - 1))
    for at in 0 4 5 20 700 2000 4000 4096 $last; do
        cp s/one.checkpoint single.checkpoint
        flip single.checkpoint "$at"
        run 1 verify single
        has "$out" "BAD single: "
    done
    rm single.checkpoint
}
verify_length() {
    copy s/run bad
    printf x >>bad/step_200_shard_0.bin
    run 1 verify bad/step_200
    copy s/run bad
    dd if=s/run/step_200_shard_0.bin of=bad/step_200_shard_0.bin bs=1 count=95 2>/dev/null
    run 1 verify bad/step_200
    rm bad/step_200_shard_0.bin
    run 1 verify bad/step_200
    has "$out" "step_200_shard_0.bin"
    cp s/one.checkpoint long.checkpoint
    printf x >>long.checkpoint
    run 1 verify long.checkpoint
    : >long.checkpoint
    run 1 verify long.checkpoint
    rm long.checkpoint
}
verify_missing() {
    run 3 verify s/nothing
    has "$out" "ERROR s/nothing: "
    run 3 verify s/nothing/at/all
    copy s/run bad
    flip bad/step_200_shard_0.bin 0
    run 3 verify bad s/nothing
    has "$out" "BAD bad/step_200.metadata.json: "
    has "$out" "ERROR s/nothing: "
    run 3 verify --json bad s/nothing
    json 'j["checked"] == 4 and j["bad"] == 1 and j["errors"] == 1'
    json '[r["status"] for r in j["results"] if not r["ok"]] == ["DCP_E_CHECKSUM", "DCP_E_NOT_FOUND"]'
}
verify_key() {
    run 0 verify --key-file s/key.bin s/signed
    run 1 verify --key-file s/badkey.bin s/signed
    has "$out" "BAD s/signed: "
    run 1 verify --key-file=s/key.bin s/one
}

# ---- diff --------------------------------------------------------------------------------------------------------------------------------
diff_same() {
    run 0 diff s/run/step_300 s/one
    is "$out" ""
    run 0 diff -v s/run/step_300 s/one
    is "$out" "same: bias (by digest)
same: w (by digest)"
    run 0 diff -v s/run/step_300 s/blocks
    is "$out" "same: bias (by data)
same: w (by data)"
    run 0 diff -v s/flat s/one
    has "$out" "by data"
    run 0 diff s/ranks s/ranks
    run 0 diff s/unknown s/unknown
    run 0 diff --json s/run/step_300 s/one
    json 'j["same"] and j["differences"] == [] and j["tensors_same"] == 2 and j["compared_by_digest"] == 2 and j["compared_by_data"] == 0'
}
# By digest, no data is read: the shard may be gone.
diff_reads_no_data() {
    copy s/run bad
    rm bad/step_300_shard_0.bin
    run 0 diff bad/step_300 s/one
    run 1 diff bad/step_300 s/blocks
    has "$err" "step_300_shard_0.bin"
    run 1 diff --json bad/step_300 s/blocks
    json 'j["error"]["status"] == "DCP_E_INCOMPLETE" and not j["same"]'
}
diff_content() {
    run 1 diff s/run/step_100 s/run/step_200
    is "$out" "training: epoch: 1 in A, 2 in B
training: step: 100 in A, 200 in B
content: w: differs within bytes 0 to 47 of the piece of rank 0 (by digest)"
    run 1 diff s/run/step_100 s/blocks
    has "$out" "content: w: differs first at byte 2 of 48 (by data)"
    hasnt "$out" "bias"
    run 1 diff --json s/run/step_100 s/run/step_200
    json '[(d["kind"], d["name"]) for d in j["differences"]] == [("training", "epoch"), ("training", "step"), ("content", "w")]'
}
diff_structure() {
    run 1 diff s/run/step_300 s/other
    has "$out" "only in B: tensor extra: uint8 [3]"
    has "$out" "type: bias: fp64 in A, fp32 in B"
    has "$out" "shape: w: [3, 4] in A, [4, 4] in B"
    has "$out" "only in A: field git: abc123"
    has "$out" "training: metadata: present in A"
    run 1 diff s/other s/run/step_300
    has "$out" "only in A: tensor extra"
    run 1 diff --json s/run/step_300 s/other
    json 'sorted(d["kind"] for d in j["differences"]) == ["field", "field", "shape", "tensor", "training", "type"]'
}
diff_trouble() {
    run 3 diff s/one s/nothing
    has "$err" "s/nothing"
    run 3 diff --json s/one s/newer/newer
    json 'j["error"]["status"] == "DCP_E_VERSION"'
}

# ---- extract -----------------------------------------------------------------------------------------------------------------------------
extract_raw() {
    for path in s/run/step_300 s/one s/blocks s/flat; do
        run 0 extract "$path" w --raw -o w.raw --force
        has "$err" "w.raw"
        is "$(size w.raw)" 48
        run 0 extract "$path" w --raw -o -
        cmp out w.raw || fail "$path: -o - gives other bytes"
        dd if=s/flat_shard_0.bin bs=1 count=48 2>/dev/null | cmp - w.raw || fail "$path: not the bytes of w"
    done
    run 0 extract s/types type.int4 --raw -o -
    is "$(od -An -tu1 out | tr -s ' ')" " 20 27 34"
    run 0 extract s/unknown t --raw -o -
    is "$(size out)" 8
    run 0 extract s/foreign t --raw -o -
    is "$(od -An -tu1 out | tr -s ' ')" " 1 2 3 4 5 6 7 8"
}
extract_default_names() {
    mkdir -p names && cd names || fail "no directory"
    run 0 extract ../s/types "$(printf '../a b/\303\251')" -q
    [ -f _._a_b___.npy ] || fail "no file: $(ls)"
    run 0 extract ../s/types type.bf16 --raw
    is "$(size type.bf16.bin)" 12
    run 0 extract ../s/ranks mine --rank 1
    [ -f mine.rank1.npy ] || fail "no file: $(ls)"
    no_temporaries
}
extract_no_overwrite() {
    echo precious >there.npy
    run 3 extract s/one w -o there.npy
    has "$err" "--force"
    is "$(cat there.npy)" precious
    run 0 extract s/one w -o there.npy --force
    is "$(size there.npy)" 176
    no_temporaries
}
extract_failures() {
    run 1 extract s/one nosuch
    has "$err" '"nosuch"'
    has "$err" "one.checkpoint"
    run 1 extract --json s/one nosuch
    json 'j["error"]["status"] == "DCP_E_MISMATCH"'
    run 3 extract s/nothing w
    run 2 extract s/one w --raw --npy
    run 2 extract s/one w --json -o -
    for type in bf16 fp8_e4m3 fp8_e5m2 fp4_e2m1 int4 uint4; do
        run 2 extract s/types type.$type -o refused.npy
        has "$err" "--raw"
        has "$err" "type.$type"
    done
    run 2 extract s/unknown t -o refused.npy
    has "$err" "posit32"
    absent refused.npy
    run 3 extract s/one w -o no/such/directory/w.npy
    absent no
    run 2 extract s/one w -o s --force
    run 2 extract s/one w -o /dev/null --force
    [ -c /dev/null ] || fail "/dev/null was replaced"
}
extract_corrupt() {
    copy s/run bad
    flip bad/step_300_shard_0.bin 0
    run 1 extract bad/step_300 w -o corrupt.npy
    has "$err" "step_300_shard_0.bin"
    absent corrupt.npy
    no_temporaries
    run 0 extract bad/step_300 bias -o intact.npy
}
extract_rank() {
    run 1 extract s/ranks mine -o mine.npy
    has "$err" "--rank"
    absent mine.npy
    run 0 extract s/ranks mine --rank 0 --raw -o -
    is "$(od -An -tu1 out | tr -s ' ')" " 0 0 0 0 1 0 0 0"
    run 0 extract s/ranks mine --rank 1 --raw -o -
    is "$(od -An -tu1 out | tr -s ' ')" " 10 0 0 0 11 0 0 0"
    run 0 extract s/ranks ours --raw -o -
    is "$(od -An -tu1 out | tr -s ' ')" " 7 0 0 0 8 0 0 0"
    run 0 extract s/ranks w --raw -o -
    is "$(size out)" 48
    run 2 extract s/ranks w --rank 0
    run 1 extract s/ranks mine --rank 2
    has "$err" "rank 2"
}
extract_npy_header() {
    run 0 extract s/one w -o -
    is "$(head -c 10 out | od -An -tx1 | tr -d ' \n')" "934e554d505901007600"
    has "$(head -c 128 out | tail -c 118)" "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"
    is "$(size out)" 176
    run 0 extract s/one bias -o -
    has "$(head -c 128 out | tail -c 118)" "'shape': (4,), }"
    run 0 extract s/types scalar -o -
    has "$(head -c 128 out | tail -c 118)" "'descr': '<i4', 'fortran_order': False, 'shape': (), }"
}
extract_json() {
    run 0 extract s/one w -o j.npy --force --json
    json 'j["file"] == "j.npy" and j["bytes"] == 176 and j["data_offset"] == 128 and j["shape"] == [3, 4] and j["format"] == "npy"'
    is "$err" ""
}
extract_numpy() {
    need_numpy
    for type in fp16 fp32 fp64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128; do
        run 0 extract s/types type.$type -q -o type.$type.npy
        run 0 extract s/types type.$type -q -o type.$type.raw --raw
    done
    run 0 extract s/types nothing -q -o nothing.npy
    run 0 extract s/types scalar -q -o scalar.npy
    run 0 extract s/one w -q -o numpy_w.npy
    "$python" -c '
import numpy as np
names = dict(fp16="float16", fp32="float32", fp64="float64")
for t in "fp16 fp32 fp64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split():
    a = np.load("type.%s.npy" % t)
    assert a.dtype == np.dtype(names.get(t, t)).newbyteorder("<") and a.shape == (6,), (t, a.dtype, a.shape)
    assert a.tobytes() == open("type.%s.raw" % t, "rb").read(), t
assert np.load("scalar.npy") == 42 and np.load("scalar.npy").shape == ()
assert np.load("nothing.npy").shape == (3, 0)
assert (np.load("numpy_w.npy") == 300 + np.arange(12, dtype="f4").reshape(3, 4) / 4).all()
' || fail "numpy reads something else"
}
# 68 MiB in rows of 34: more than the tool holds at a time, so it goes in boxes.
extract_big() {
    run 0 extract s/big a --raw -o big.raw
    is "$(size big.raw)" 71303168
    head -c 71303168 s/big_shard_0.bin | cmp - big.raw || fail "other bytes"
    run 0 extract s/big a -o big.npy -q
    tail -c 71303168 big.npy | cmp - big.raw || fail "other bytes in .npy"
    run 0 extract s/big nibbles --raw -o -
    is "$(size out)" 8
    rm -f big.raw big.npy
}
# The same boxes in small: a tool that holds 64 bytes at a time against one that holds it all.
extract_boxes() {
    command -v "${CC:-cc}" >/dev/null 2>&1 || skip "no C compiler"
    # shellcheck disable=SC2086
    ${CC:-cc} ${CFLAGS:--O1} -DTOOL_CHUNK=64 -I"$root" -o small "$root/examples/dcptool.c" -lm -pthread || fail "it does not compile"
    run 0 ls s/shapes
    lines "$out" 32
    for name in $(echo "$out" | sed 's/ .*//'); do
        run 0 extract s/shapes "$name" --raw -q -o whole.raw --force
        ./small extract s/shapes "$name" --raw -q -o boxes.raw --force || fail "$name: exit code $?"
        cmp whole.raw boxes.raw || fail "$name: other bytes"
    done
    ./small diff -v s/shapes s/shapes_flat >boxes.txt || fail "exit code $?: $(cat boxes.txt)"
    is "$(grep -c 'by data' boxes.txt)" 32
}
# 1 GiB, as a file with a hole: what the tool holds does not grow with the tensor.
extract_memory() {
    need_python
    nm "$DCPTOOL" 2>/dev/null | grep -q __asan && skip "AddressSanitizer takes more memory"
    dd if=/dev/null of=huge_shard_0.bin bs=1 seek=1073741824 2>/dev/null || skip "no sparse files here"
    sed -e 's/foreign_shard/huge_shard/' -e 's/"shape": \[2\]/"shape": [1073741824]/' -e 's/ize": 8/ize": 1073741824/g' \
        -e 's/float32/uint8/' -e 's/"checksum": "[0-9a-f]*"/"checksum": null/' s/foreign.metadata.json >huge.metadata.json
    "$python" -c '
import resource, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
n = 0
while True:
    data = p.stdout.read(1 << 20)
    if not data: break
    n += len(data)
assert p.wait() == 0 and n == 1 << 30, n
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
peak = peak // 1024 if sys.platform == "darwin" else peak
assert peak < 200000, "%d KiB" % peak' "$DCPTOOL" extract -q huge t --raw -o - || fail "$(tail -n 1 "$work/trace")"
    rm huge_shard_0.bin
}

# ---- latest, prune, sweep ----------------------------------------------------------------------------------------------------------------
latest() {
    run 0 latest s/run
    is "$out" "s/run/step_300.metadata.json"
    run 0 latest --json s/run/
    json 'j["path"].endswith("step_300.metadata.json")'
    run 1 latest s/empty
    is "$out" ""
    has "$err" "s/empty"
    run 1 latest --json s/empty
    json 'j["error"]["status"] == "DCP_E_NOT_FOUND"'
    run 3 latest s/nothing
    run 3 latest s/one.checkpoint
    run 3 latest s/newer
}
latest_skips() {
    copy s/run bad
    flip bad/step_300.metadata.json 500
    run 0 latest bad
    is "$out" "bad/step_200.metadata.json"
    has "$err" "step_300.metadata.json"
    run 0 latest -q bad
    is "$err" ""
    rm bad/step_100.metadata.json bad/step_200.metadata.json
    run 1 latest bad
    is "$out" ""
    has "$err" "step_300.metadata.json"
}
prune() {
    copy s/run old
    run 0 prune old --keep 1 --keep-every 100 --dry-run
    is "$out" ""
    run 0 prune old --keep 1 --dry-run
    lines "$out" 4
    has "$out" "would remove old/step_100.metadata.json"
    run 0 ls old
    lines "$out" 3
    run 0 prune old --keep 2 --json
    json 'j["checkpoints"] == 1 and sorted(j["removed"]) == ["old/step_100.metadata.json", "old/step_100_shard_0.bin"]'
    json 'not j["dry_run"] and j["bytes"] > 96'
    run 0 prune old --keep=1
    has "$out" "removed old/step_200.metadata.json"
    hasnt "$out" "step_300"
    run 0 verify old
    lines "$out" 1
    is "$(ls old | tr '\n' ' ')" "step_300.metadata.json step_300_shard_0.bin "
    run 0 prune old --keep 1
    is "$out" ""
    run 3 prune s/nothing --keep 1
}
sweep() {
    copy s/run old
    temporary=step_400_shard_0.bin.0123456789abcdef.tmp orphan=step_400_shard_0.0123456789abcdef.bin plain=step_400_shard_0.bin
    echo x >old/$temporary
    echo x >old/$orphan
    echo x >old/$plain
    echo x >old/mine.txt
    run 0 sweep old
    is "$out" ""
    touch -t 202001010000 old/$temporary
    run 0 sweep old --grace 7d --dry-run
    is "$out" "would remove old/$temporary"
    run 0 sweep old --dry-run --grace 0
    has "$out" "old/$temporary"
    has "$out" "old/$orphan"
    lines "$out" 2
    [ -f old/$temporary ] || fail "a dry run removed it"
    run 0 sweep old --json
    json 'j["removed"] == ["old/step_400_shard_0.bin.0123456789abcdef.tmp"] and j["bytes"] == 2'
    run 0 sweep old --grace 0s --plain-names
    lines "$out" 2
    rm old/mine.txt
    is "$(ls old)" "$(ls s/run)"
    run 3 sweep s/nothing
    run 0 verify -q old
}

# ---- exit codes --------------------------------------------------------------------------------------------------------------------------
missing_checkpoint() {
    for c in ls info verify; do run 3 $c s/nothing; has "$out$err" "s/nothing"; done
    run 3 info --json s/nothing
    json 'j["command"] == "info" and j["error"]["status"] == "DCP_E_NOT_FOUND" and "s/nothing" in j["error"]["message"]'
    run 2 info s/run
    has "$err" "directory"
    run 2 info s/empty
}
newer_format() {
    for c in ls info verify; do run 3 $c s/newer/newer; has "$out$err" "2.0.0"; done
    run 3 extract s/newer/newer t
    run 3 diff s/newer/newer s/one
}
corrupt_document() {
    copy s/run bad
    flip bad/step_200.metadata.json 200
    for c in ls info verify; do run 1 $c bad/step_200; has "$out$err" "step_200.metadata.json"; done
    run 1 extract bad/step_200 w
    run 1 diff bad/step_200 bad/step_300
    printf '{}' >bad/short.metadata.json
    run 1 info bad/short
    printf '{"version": ' >bad/short.metadata.json
    run 1 info bad/short
    : >bad/short.metadata.json
    run 1 info bad/short
}
unreadable() {
    [ "$(id -u)" != 0 ] || skip "root reads everything"
    copy s/run bad
    chmod 0 bad/step_200.metadata.json
    run 3 info bad/step_200
    has "$err" "step_200.metadata.json"
}

# ---- terminals, pipes, signals -----------------------------------------------------------------------------------------------------------
no_bar_without_terminal() {
    TERM=xterm
    export TERM
    run 0 verify s/big
    is "$err" ""
    is "$out" "OK s/big"
}
bar_on_terminal() {
    esc=$(printf '\033') cr=$(printf '\r')
    TERM=xterm
    export TERM
    on_terminal verify s/big
    is "$got" 0
    has "$out" "$cr"
    has "$out" "verify ["
    on_terminal verify -q s/big
    hasnt "$out" "verify ["
    TERM=dumb
    on_terminal verify s/big
    hasnt "$out" "verify ["
    hasnt "$out" "$esc"
    unset TERM
    on_terminal verify s/big
    hasnt "$out" "verify ["
    hasnt "$out" "$esc"
}
no_color() {
    green=$(printf '\033[32m')
    TERM=xterm
    export TERM
    on_terminal verify s/one
    has "$out" "$green"
    NO_COLOR='' && export NO_COLOR
    on_terminal verify s/one
    has "$out" "$green"
    NO_COLOR=1
    on_terminal verify s/one
    hasnt "$out" "$green"
    run 0 verify s/one
    hasnt "$out" "$green"
}
no_bytes_on_terminal() {
    on_terminal extract s/one w -o -
    is "$got" 2
    has "$out" "terminal"
}
into_closed_pipe() {                # arguments of the tool: the reader is gone before it starts, for sure
    mkfifo gate || skip "no mkfifo"
    { read -r go <gate; "$DCPTOOL" "$@" 2>"$work/err"; echo $? >"$work/code"; } | { exec <&-; echo go >gate; }
    rm gate
    is "$(cat "$work/code")" 3
    has "$(cat "$work/err")" "standard output"
}
closed_pipe() {
    into_closed_pipe ls s/types
    into_closed_pipe info --json s/one
    into_closed_pipe verify s/one
    into_closed_pipe extract s/one w -o -
    into_closed_pipe extract s/big a -o -
    "$DCPTOOL" ls s/types >&- 2>"$work/err"
    is $? 3
    "$DCPTOOL" extract -q s/one w -o closed.npy >&- 2>&- <&-
    is $? 0
    is "$(size closed.npy)" 176
}
full_disk() {
    [ -c /dev/full ] || skip "no /dev/full here"
    for c in "ls s/types" "info s/one" "verify --json s/one" "latest s/run" "extract -o - s/one w" "--help" "--version"; do
        # shellcheck disable=SC2086
        "$DCPTOOL" $c >/dev/full 2>"$work/err"
        is $? 3
        has "$(cat "$work/err")" "standard output"
    done
}
interrupted() {
    mkfifo fifo || skip "no mkfifo"
    "$DCPTOOL" extract s/big a -o - >fifo 2>"$work/err" &
    pid=$!
    { head -c 1 >/dev/null; kill -TERM $pid; cat >/dev/null; } <fifo       # it waits for us, with most of the first box unwritten
    wait $pid
    is $? 3
    [ -s "$work/err" ] || fail "no message"
    rm fifo
}

# ---- all of them -------------------------------------------------------------------------------------------------------------------------
if [ ! -x "$DCPTOOL" ]; then
    echo "FAILED tool: $DCPTOOL is not there; make builds it"
    failed=1
    summary
fi
if [ -z "${MAKE_CHECKPOINTS:-}" ]; then
    MAKE_CHECKPOINTS=$work/make_checkpoints
    # shellcheck disable=SC2086
    if ! ${CC:-cc} ${CFLAGS:--O2} -I"$root" -o "$MAKE_CHECKPOINTS" "$root/tests/make_checkpoints.c" -lm -pthread 2>"$work/trace"; then
        echo "FAILED build: $(head -c 500 "$work/trace")"
        failed=1
        summary
    fi
fi
case $MAKE_CHECKPOINTS in /*) ;; *) MAKE_CHECKPOINTS=$(pwd)/$MAKE_CHECKPOINTS ;; esac
mkdir "$work/s"
if ! "$MAKE_CHECKPOINTS" "$work/s" big 2>"$work/trace"; then
    echo "FAILED samples: $(head -c 500 "$work/trace")"
    failed=1
    summary
fi

for name in version help_overall help_commands usage_command usage_options usage_operands options_anywhere \
    ls_tensors ls_pieces ls_glob ls_directory ls_directory_json ls_directory_damaged ls_json \
    info_text info_json info_escapes path_escapes info_signature \
    verify_fine verify_directory verify_flipped verify_names_tensor verify_flipped_single verify_length verify_missing verify_key \
    diff_same diff_reads_no_data diff_content diff_structure diff_trouble \
    extract_raw extract_default_names extract_no_overwrite extract_failures extract_corrupt extract_rank extract_npy_header extract_json \
    extract_numpy extract_big extract_boxes extract_memory latest latest_skips prune sweep \
    missing_checkpoint newer_format corrupt_document unreadable \
    no_bar_without_terminal bar_on_terminal no_color no_bytes_on_terminal closed_pipe full_disk interrupted; do
    t "$name"
done
summary
