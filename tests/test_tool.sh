#!/bin/sh
# test_tool.sh - tests of build/dcptool, from the outside: commands, all layouts, --json, exit codes, messages,
# terminals and pipes. What it shows is in tool_look.sh, its numbers (stats, diff by value) in tool_numbers.sh,
# parts of tensors in tool_parts.sh, edits in tool_edit.sh, dcptool report, repair and watch in tool_report.sh,
# tool_repair.sh and tool_watch.sh; terminal.py is the terminal.
#
#     DCPTOOL=build/dcptool sh tests/test_tool.sh [text]       only tests whose name contains the text
#
# Needs a C compiler ($CC, default cc) for make_checkpoints.c, which saves what is looked at (or $MAKE_CHECKPOINTS,
# built). python3 (for JSON and terminals), numpy and chromium are used where they are; missing they are a skip, or a
# failure if DCP_REQUIRE has the word python or chromium. Prints `ok name`, `skipped name: why`, `FAILED name: why`;
# last `N passed, N failed, N skipped`; exit status 1 if any failed.

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
. tests/tools.sh
DCPTOOL=${DCPTOOL:-$root/build/dcptool}
case $DCPTOOL in /*) ;; *) DCPTOOL=$(pwd)/$DCPTOOL ;; esac
filter=${1:-}
passed=0 failed=0 skipped=0
# The python that has numpy, if one has it: what apt installs is for the system's own, which need not be the first in
# the path.
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

# ---- harness ---------------------------------------------------------------------------------------------------------
# A test is a function; it runs in a subshell with -e off, and ends with `fail why` or by returning. What it prints is
# the reason.
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
assert eval("(" + sys.argv[2] + ")"), (sys.argv[2], j)' "$work/out" "$1" 2>"$work/json.err" ||
        fail "$1: $(tail -c 500 "$work/json.err")"
}
# the tool's arguments; stdin, stdout and stderr are a terminal of $columns; out holds what it showed
columns=80
on_terminal() {
    need_python
    out=$("$python" "$root/tests/terminal.py" "$columns" "${tool:-$DCPTOOL}" "$@" </dev/null)
    got=$?
    out=$(printf '%s\n' "$out" | sed "s|$(printf '\\r')$||")
}
# A tool that holds 64 bytes of a tensor at a time and shows its bar at once.
impatient_tool() {
    command -v "${CC:-cc}" >/dev/null 2>&1 || skip "no C compiler"
    [ ! -x "$work/small" ] || return 0
    object=$root/build/tool/dcp.o
    [ -f "$object" ] || object=$root/examples/dcptool/dcp.c
    sources=$(ls "$root"/examples/dcptool/*.c | grep -v '/dcp\.c$')
    # shellcheck disable=SC2086
    ${CC:-cc} -O0 -DTOOL_CHUNK=64 -DTOOL_BAR_AFTER=0 -I"$root" -o "$work/small" $sources "$object" -lm -pthread ||
        fail "it does not compile"
}

# ---- usage -----------------------------------------------------------------------------------------------------------
version() { run 0 --version; has "$out" "dcptool "; lines "$out" 1; is "$err" ""; }
help_overall() {
    run 0 --help
    for c in ls info verify stats diff report cat extract convert sign sync repair watch latest prune sweep; do
        has "$out" "  $c "
    done
    has "$out" "Exit codes:"
    is "$(printf '%s\n' "$out" | head -n 4 | grep -c '^  dcptool ')" 3
    is "$(printf '%s\n' "$out" | awk 'length > 80 || / $/')" ""
    whole=$out
    run 0 help
    is "$out" "$whole"
    run 0 -h
    is "$err" ""
}
help_commands() {
    for c in ls info verify stats diff report cat extract convert sign sync repair watch latest prune sweep; do
        run 0 "$c" --help
        has "$out" "usage: dcptool $c"
        has "$out" "Exit codes:"
        has "$out" "Example:    "
        has "$out" "dcptool $c"
        has "$out" "--json"
        is "$err" ""
        is "$(printf '%s\n' "$out" | awk 'length > 80 || / $/')" ""
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
    has "$err" "ls info verify stats diff report cat extract convert sign sync repair watch latest prune sweep"
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

# ---- ls --------------------------------------------------------------------------------------------------------------
ls_tensors() {
    for path in s/run/step_100 s/run/step_100.metadata.json s/one s/one.checkpoint; do
        run 0 ls "$path"
        is "$out" "NAME  TYPE  SHAPE   SIZE  PLACEMENT   PIECES
bias  fp64  [4]     32 B  replicated       1
w     fp32  [3, 4]  48 B  replicated       1
2 tensors, 80 bytes"
        is "$err" ""
    done
}
ls_pieces() {
    run 0 ls s/ranks w
    is "$out" "NAME  TYPE  SHAPE   SIZE  PLACEMENT  PIECES
w     fp32  [4, 3]  48 B  sharded         2
1 tensor, 48 bytes"
    run 0 ls -qv s/ranks w
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
    run 0 ls -q s/types 'type.int*'
    lines "$out" 5
    run 0 ls -q s/types 'type.?p[36]*'
    lines "$out" 2
    run 0 ls -q s/types 'type.[!a-t]*'
    lines "$out" 5
    has "$out" "type.uint8"
    run 0 ls -q s/types '*a b*'
    lines "$out" 1
    run 0 ls s/types '*e*.*1*6*'
    run 0 ls -q s/types scalar
    lines "$out" 1
    run 1 ls s/types 'scala'
    is "$out" ""
    has "$err" "scala"
    has "$err" "types.metadata.json"
    run 1 ls s/types '[s'
    run 1 ls s/types 'scalar?'
    run 0 ls -q s/run '*_200.metadata*'
    lines "$out" 1
    run 1 ls s/run 'nothing*'
}
ls_directory() {
    run 0 ls s/run
    lines "$out" 5
    is "$(echo "$out" | sed -e 's/  .*//' -e 's/4\.[0-9]/4.X/' | tr '\n' ' ')" \
        "NAME step_300 step_200 step_100 3 checkpoints, 4.X KiB "
    has "$out" "step_300  sharded         3   300  "
    has "$out" "complete"
    run 1 ls s/empty
    has "$err" "s/empty"
    is "$out" ""
}
ls_directory_json() {
    run 0 ls --json s/run
    json '[c["step"] for c in j["checkpoints"]] == [300, 200, 100]'
    json 'all(c["complete"] and c["status"] == "DCP_OK" and c["layout"] == "sharded" and c["bytes"] > 96
        for c in j["checkpoints"])'
    run 1 ls --json s/empty
    json 'j["checkpoints"] == []'
}
ls_directory_damaged() {
    copy s/run damaged
    flip damaged/step_200.metadata.json 300
    rm damaged/step_100_shard_0.bin
    cp s/newer/newer.metadata.json damaged
    run 0 ls damaged
    lines "$out" 6
    has "$(echo "$out" | grep step_300)" "  complete"
    has "$(echo "$out" | grep step_200)" "  corrupt  "
    has "$(echo "$out" | grep step_100)" "  incomplete  "
    has "$(echo "$out" | grep step_100)" "step_100_shard_0.bin"
    has "$(echo "$out" | grep newer)" "  newer format  "
    has "$out" "3 bad"
    run 0 ls --json damaged
    json 'sorted(c["status"] for c in j["checkpoints"])
        == ["DCP_E_CHECKSUM", "DCP_E_INCOMPLETE", "DCP_E_VERSION", "DCP_OK"]'
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

# ---- info ------------------------------------------------------------------------------------------------------------
info_text() {
    for path in s/run/step_300 s/one; do
        run 0 info "$path"
        has "$out" "version:       1.0.0"
        has "$out" "epoch 3, step 300, learning rate 0.0003"
        has "$out" 'adamw {"beta1": 0.9}'
        has "$out" "git = abc123"
        has "$out" "world size:    1"
        has "$out" "sha256-tree:"
        is "$(printf '%s\n' "$out" | grep -c '[0-9a-f]\{17\}')" 0
        has "$out" "2 tensors in 2 pieces, 80 bytes"
        has "$out" "signature:     none"
    done
    has "$out" "layout:        single"
    run 0 info s/flat
    has "$out" "$(sha256sum s/flat_shard_0.bin | cut -c 1-8)"
    run 0 info -v s/flat
    has "$out" "$(sha256sum s/flat_shard_0.bin | cut -c 1-64)"
    run 0 info s/foreign
    has "$out" "not written by dcp.h"
}
info_json() {
    run 0 info --json s/run/step_300
    json 'j["training"] == {"epoch": 3, "step": 300, "learning_rate": 0.0003, "optimizer_type": "adamw",
        "optimizer_state": {"beta1": 0.9}}'
    json 'j["custom_fields"] == {"git": "abc123", "note": "Gr\u00fc\u00dfe"}'
    json 'j["sequence"] == 3 and len(j["save_id"]) == 16 and j["world_size"] == 1 and j["tensors"] == 2
        and j["bytes"] == 80'
    json 'j["shards"][0]["file"] == "step_300_shard_0.bin" and j["shards"][0]["checksum"].startswith("sha256-tree:")'
    json 'not j["foreign"] and j["signature"] is None'
    run 0 info --json s/one
    json 'j["layout"] == "single" and j["shards"][0]["data_offset"] == 4096'
    run 0 info --json s/ranks
    json 'j["world_size"] == 2 and len(j["shards"]) == 2 and j["training"] is None
        and j["sharding"]["strategy"] == "fsdp"'
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
    json 'j["custom_fields"] == {"escape": "\x1b[31mred\x1b[0m", "lines": "one\ntwo\ttab",
        "quote": "say \"hi\" \\ there",
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
# foreign NAME STATE: a copy of s/foreign whose optimizer state is that text
foreign_with() {
    cp s/foreign_shard_0.bin "$1_shard_0.bin"
    training='{"epoch": 1, "step": 2, "learningRate": 0.5, "optimizerState": STATE}'
    sed "s/\"training\": null/\"training\": $training/;s/foreign_shard/$1_shard/" s/foreign.metadata.json |
        awk -v state="$2" '{ i = index($0, "STATE")
            if (i) $0 = substr($0, 1, i - 1) state substr($0, i + 5); print }' \
        >"$1.metadata.json"
}
info_free_form() {
    foreign_with orders "$(printf '{ "c1": "\302\2332J", "turn": "\342\200\256abc\342\200\217", "fine": "\303\274" }')"
    run 0 info --json orders
    json 'j["training"]["optimizer_state"] == {"c1": "\x9b2J", "turn": "\u202eabc\u200f", "fine": "\xfc"}'
    has "$out" '\u009b2J'
    has "$out" '\u202eabc\u200f'
    hasnt "$out" "$(printf '\302\233')"
    hasnt "$out" "$(printf '\342\200')"
    has "$out" "$(printf '\303\274')"
    run 0 info orders
    hasnt "$out" "$(printf '\302\233')"
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

# ---- verify ----------------------------------------------------------------------------------------------------------
verify_fine() {
    run 0 verify s/run/step_100 s/one s/flat s/ranks
    is "$out" "OK s/run/step_100
OK s/one
OK s/flat
OK s/ranks
4 checkpoints, 304 bytes: 4 intact, 0 bad, 0 not readable"
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
    lines "$out" 4
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
        lines "$out" 4
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

# ---- diff ------------------------------------------------------------------------------------------------------------
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
    json 'j["same"] and j["differences"] == [] and j["tensors_same"] == 2 and j["compared_by_digest"] == 2
        and j["compared_by_data"] == 0'
}
# By digest, no data is read: the shard may be gone.
diff_free_form() {
    foreign_with tight '{"a":[1,2],"b":"x \\\\\\" y"}'
    foreign_with loose '{ "a": [ 1,'"$(printf '\t')"'2 ], "b" : "x \\\\\\" y" }'
    foreign_with other '{ "a": [ 1, 2 ], "b" : "x  \\\\\\" y" }'
    foreign_with longer '{"a":[1,2],"b":"x \\\\\\" y","c":0}'
    run 0 diff tight loose
    run 1 diff tight other
    has "$out" "optimizer state"
    run 1 diff loose longer
    run 1 diff longer loose
}
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
    json '[(d["kind"], d["name"]) for d in j["differences"]]
        == [("training", "epoch"), ("training", "step"), ("content", "w")]'
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

# ---- extract ---------------------------------------------------------------------------------------------------------
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
    [ -f "$(printf '_._a_b_\303\251.npy')" ] || fail "no file: $(ls)"
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
    json 'j["file"] == "j.npy" and j["bytes"] == 176 and j["data_offset"] == 128 and j["shape"] == [3, 4]
        and j["format"] == "npy"'
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
    impatient_tool
    run 0 ls -q s/shapes
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
    sed -e 's/foreign_shard/huge_shard/' -e 's/"shape": \[2\]/"shape": [1073741824]/' \
        -e 's/ize": 8/ize": 1073741824/g' -e 's/float32/uint8/' \
        -e 's/"checksum": "[0-9a-f]*"/"checksum": null/' s/foreign.metadata.json >huge.metadata.json
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

# ---- latest, prune, sweep --------------------------------------------------------------------------------------------
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
    run 0 ls -q old
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
    temporary=step_400_shard_0.bin.0123456789abcdef.tmp orphan=step_400_shard_0.0123456789abcdef.bin \
        plain=step_400_shard_0.bin
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

# ---- manifests -------------------------------------------------------------------------------------------------------
manifest_ls() {
    run 0 ls s/moe
    is "$(echo "$out" | sed 's/  .*//' | tr '\n' ' ')" "NAME step_300 step_200 step_100 3 checkpoints, 17.6 KiB "
    has "$out" "step_200  manifest         2   200  "
    for path in s/moe/step_200 s/moe/step_200.manifest.yaml; do
        run 0 ls "$path"
        is "$out" "NAME    TYPE  SHAPE     SIZE  PLACEMENT   PIECES  ROLE              TIER  VERSION
a       fp32  [8, 12]  384 B  replicated       1  dense             hot         0
adam/m  fp32  [8, 12]  384 B  replicated       1  optimizer                     0
b       fp32  [8, 12]  384 B  replicated       1  dense             hot         1
r       fp32  [8, 12]  384 B  replicated       1  router 3                      0
x       fp32  [8, 12]  384 B  replicated       1  expert [1, 0, 0]  hot         0
y       fp32  [8, 12]  384 B  replicated       1  expert [2, 0, 7]  warm        0
6 tensors, 2.2 KiB"
        is "$err" ""
    done
    run 0 ls -v s/moe/step_300 x
    has "$out" "experts/tier_1/group_0/expert_0.v1.bin"
    run 0 ls -q --tier warm s/moe/step_300
    lines "$out" 1
    run 0 ls -q --tier 2 --tier hot s/moe/step_300
    lines "$out" 4
    run 1 ls --tier cold s/moe/step_300
    has "$err" "cold"
    run 3 ls --tier hot s/one
    run 0 ls --json -v s/moe/step_300
    json '[(t["name"], t["role"], t["tier"], t["version"]) for t in j["tensors"]]
        == [("a", "dense", "hot", 0), ("adam/m", "optimizer", None, 0),
          ("b", "dense", "hot", 1), ("r", "router", None, 0), ("x", "expert", "hot", 1), ("y", "expert", "warm", 0)]'
    json 'j["layout"] == "manifest" and j["tensors"][5]["expert_key"] == [2, 0, 7] and j["tensors"][3]["layer"] == 3'
    json 'j["tensors"][4]["piece_list"][0]["version"] == 1
        and j["tensors"][4]["piece_list"][0]["checksum"].startswith("sha256-tree:")'
}
manifest_info() {
    run 0 info s/moe/step_200
    has "$out" "layout:        manifest"
    has "$out" "model:         moe-small"
    has "$out" "manifest:      YAML, metadata_version 1"
    has "$out" "  hot         1  40GB        3  1.1 KiB  prioritized"
    run 0 info --bytes s/moe/step_200
    has "$out" "  hot         1  40GB        3  1152  prioritized"
    has "$out" "2 dense, 2 expert, 1 optimizer, 1 router"
    has "$out" "versions:      0 to 1"
    has "$out" "router layer:  0, 0 files, seed 18446744073709551615"
    has "$out" "epoch 5, step 200"
    run 0 info --json s/moe/step_300
    json 'j["manifest"]["format"] == "json" and j["manifest"]["files"] == {"dense": 2, "expert": 2, "optimizer": 1,
        "router": 1}'
    json '[(t["name"], t["tier_id"], t["budget_bytes"], t["files"], t["bytes"]) for t in j["manifest"]["tiers"]] ==
          [("hot", 1, 40000000000, 3, 1152), ("warm", 2, 200000000000, 1, 384)]'
    json 'j["manifest"]["router_layers"] == [{"layer": 0, "seed": 18446744073709551615, "files": 0},
        {"layer": 3, "seed": 5, "files": 1}]'
    json 'j["custom_fields"] == {"git": "abc123"} and len(j["shards"]) == 6'
}
manifest_verify() {
    run 0 verify s/moe
    lines "$out" 4
    copy s/moe moe
    flip moe/experts/tier_2/group_0/expert_7.bin 100
    run 1 verify moe/step_300
    has "$out" "expert_7.bin"
    has "$out" 'tensor "y"'
    run 0 verify --tier hot moe
    rm moe/experts/tier_2/group_0/expert_7.bin
    run 0 verify --tier hot moe/step_300
    run 1 verify --tier warm moe/step_300
    run 1 verify moe/step_300
    has "$out" "expert_7.bin"
    copy s/moe moe
    flip moe/step_200.manifest.yaml 300
    run 1 verify moe
    has "$out" "BAD moe/step_200.manifest.yaml: "
    copy s/moe moe
    cp moe/step_300.manifest.json moe/step_200.manifest.json
    run 2 verify moe/step_200
    has "$out" "two commit files"
    run 0 verify moe/step_200.manifest.yaml
    run 1 verify --minimum-step 301 s/moe/step_300
    has "$out" "--minimum-step is 301"
    run 0 verify --minimum-step 300 s/moe/step_300
}
manifest_diff() {
    run 1 diff s/moe/step_200 s/moe/step_300
    is "$out" "training: step: 200 in A, 300 in B
content: x: differs within bytes 0 to 383 of the piece of rank 0 (by digest)"
    run 1 diff s/moe/step_300 s/other_moe/step_300
    is "$out" "model: model_id: moe-small in A, moe-large in B
tier budget: warm: 200GB in A, 600 in B
router seed: layer 3: 5 in A, 6 in B
tier: x: hot in A, warm in B"
}
manifest_directory() {
    copy s/moe moe
    run 0 latest moe
    is "$out" "moe/step_300.manifest.json"
    run 1 latest moe --minimum-step 301
    run 0 extract moe/step_100 x --raw -o x1 -q
    run 0 extract moe/step_300 x --raw -o x3 -q
    cmp -s x1 x3 && fail "x has not changed"
    run 0 extract s/moe/step_200 x --raw -o - && cmp -s "$work/out" x1 || fail "x of step 200 is another"
    run 0 prune moe --keep 1 --dry-run
    has "$out" "would remove moe/step_100.manifest.json"
    run 0 prune moe --keep 1
    is "$(echo "$out" | sort | tr '\n' ' ')" \
        "removed moe/dense/b_0_of_1.bin removed moe/experts/tier_1/group_0/expert_0.bin \
removed moe/step_100.manifest.json removed moe/step_200.manifest.yaml "
    run 0 verify moe
    lines "$out" 1
    echo x >moe/dense/c_0_of_1.bin
    echo x >moe/step_400.manifest.0123456789abcdef.intent.tmp
    run 0 sweep moe --grace 0 --dry-run
    is "$out" "would remove moe/step_400.manifest.0123456789abcdef.intent.tmp"
    run 0 sweep moe --grace 0 --plain-names --json
    json 'sorted(j["removed"]) == ["moe/dense/c_0_of_1.bin", "moe/step_400.manifest.0123456789abcdef.intent.tmp"]'
    run 0 verify -q moe
}
manifest_of_the_seed() {
    mkdir -p seed
    cat >seed/lite.manifest.yaml <<'END'
model_id: lite‑llm‑base
epoch: 5
step: 10_000
tiers:
  - tier_id: 1
    name: hot
    size_budget: 40GB
    placement_policy: prioritized
  - tier_id: 2
    name: warm
    size_budget: 200GB
    placement_policy: lru
shards:
  - path: dense/layer_0/attention_q_0_0_of_2.bin
    type: dense
    tensor_name: attention_q
    shape: [512, 1024]
    dtype: bf16
    tier_hint: hot
    checksum: "abc123"
    version: 1
  - path: experts/tier_2/group_0/expert_1.bin
    type: expert
    expert_key: [2,0,1]
    shape: [4096, 512]
    dtype: bf16
    tier_hint: warm
    checksum: "def456"
    version: 0
optim_state:
  path: optim/state_0.bin
router_state:
  path: router/state_0.bin
metadata_version: 1
END
    run 0 ls -q seed/lite
    is "$out" \
        "attention_q    bf16  [512, 1024]  1.0 MiB  replicated  1  dense             hot   1
experts/2/0/1  bf16  [4096, 512]  4.0 MiB  replicated  1  expert [2, 0, 1]  warm  0"
    run 0 info -q seed/lite
    has "$out" "epoch 5, step 10000"
    has "$out" "not written by dcp.h"
    run 1 verify seed/lite
    mkdir -p seed/dense/layer_0 seed/experts/tier_2/group_0
    head -c 1048576 /dev/zero >seed/dense/layer_0/attention_q_0_0_of_2.bin
    head -c 4194304 /dev/zero >seed/experts/tier_2/group_0/expert_1.bin
    run 1 verify seed/lite
    run 1 convert seed/lite seed/out --to single
    absent seed/out.checkpoint
    # With checksums that are right.
    sum=$(sha256sum <seed/dense/layer_0/attention_q_0_0_of_2.bin | cut -c 1-64) \
        other=$(sha256sum <seed/experts/tier_2/group_0/expert_1.bin | cut -c 1-64)
    sed -i.old -e "s/abc123/$sum/" -e "s/def456/$other/" seed/lite.manifest.yaml
    run 1 verify seed/lite                              # the files of the states are part of it
    has "$out$err" "optim/state_0.bin"
    mkdir -p seed/optim seed/router
    echo state >seed/optim/state_0.bin
    echo state >seed/router/state_0.bin
    run 0 verify -q seed/lite
    run 0 convert seed/lite seed/out --to sharded
    has "$err" "only gives the path"
    run 0 verify -q seed/out
    run 0 convert -q seed/out seed/again --to manifest-yaml
    run 0 diff -q seed/lite seed/again
}

# ---- convert ---------------------------------------------------------------------------------------------------------
convert_round_trips() {
    for to in sharded single manifest manifest-yaml; do
        run 0 convert s/moe/step_300 "via/$to/step_300" --to $to
        has "$err" "6 pieces of 1 rank, 2.2 KiB"
        is "$out" ""
        run 0 diff s/moe/step_300 "via/$to/step_300"
        run 0 verify -q "via/$to/step_300"
        run 0 convert -q "via/$to/step_300" "back/$to/step_300" --to manifest
        run 0 diff s/moe/step_300 "back/$to/step_300"
        for f in s/moe back/$to; do
            sed -e '/^  "\(save_id\|sequence\|timestamp\|integrity\)":/d' \
                $f/step_300.manifest.json >"$(echo $f | tr / _).txt"
        done
        cmp s_moe.txt back_$to.txt || fail "by way of $to the manifest says something else"
        no_temporaries "via/$to"
    done
    is "$(cd back/single && find . -type f | sort)" "$(cd via/manifest && find . -type f | sort)"
    [ -f back/sharded/experts/tier_1/group_0/expert_0.v1.bin ] || fail "the version is lost: $(find back -name '*.bin')"
}
convert_keeps_ranks_and_types() {
    for name in ranks types odd flat foreign; do
        for to in sharded single manifest; do
            run 0 convert -q s/$name via/$to/$name --to $to
            run 0 verify -q via/$to/$name
            run 0 diff -q s/$name via/$to/$name
            run 0 convert -q via/$to/$name back/$to/$name --to sharded
            run 0 diff -q s/$name back/$to/$name
        done
    done
    run 0 ls -v s/ranks
    ranks=$out
    run 0 ls -v back/manifest/ranks
    is "$out" "$ranks"
    cmp s/flat_shard_0.bin back/manifest/flat_shard_0.bin || fail "other bytes"
    run 0 info -v back/single/flat
    has "$out" "$(sha256sum s/flat_shard_0.bin | cut -c 1-64)"
    run 0 convert --json -q s/ranks via/json --to manifest
    json 'j["world_size"] == 2 and j["pieces"] == 6 and j["bytes"] == 80 and j["layout"] == "manifest"
        and len(j["save_id"]) == 16'
    run 0 convert -q --flat s/one via/flat --to sharded
    cmp via/flat_shard_0.bin s/flat_shard_0.bin || fail "--flat"
    run 0 convert -q s/moe/step_300 via/warm --to sharded --tier warm
    run 0 ls -q via/warm
    is "$out" "y  fp32  [8, 12]  384 B  replicated  1"
}
convert_ranks_without_rows() {
    for to in sharded single manifest manifest-yaml; do
        run 0 convert -q s/few_rows few/$to/w --to $to
        run 0 verify -q few/$to/w
        run 0 diff -q s/few_rows few/$to/w
        run 0 convert -q few/$to/w one_few/$to/w --to $to --one-rank
        run 0 verify -q one_few/$to/w
        run 0 diff -q s/few_rows one_few/$to/w
    done
    run 0 ls -v few/manifest/w
    has "$out" "sharded         4"
    run 0 extract -q one_few/manifest/w w -o rows --raw
    is "$(od -An -tfF rows | tr -s ' \n' ' ')" " 0 1 2 3 4 5 "
}
# Members that this version does not know come back from every layout, as they stood.
convert_keeps_unknown_members() {
    sed -e '/^  "\(save_id\|sequence\|timestamp\|integrity\)":/d' s/extras/m.manifest.json >source.txt
    grep -q '"also": 1e2' source.txt || fail "the source has none"
    for to in manifest manifest-yaml; do
        run 0 convert s/extras/m via/extras_$to/m --to $to
        hasnt "$err" warning
        run 0 convert via/extras_$to/m back/extras_$to/m --to manifest
        hasnt "$err" warning
        sed -e '/^  "\(save_id\|sequence\|timestamp\|integrity\)":/d' back/extras_$to/m.manifest.json >back.txt
        # YAML writes them anew, with other white space.
        tr -d ' ' <source.txt >a.txt
        tr -d ' ' <back.txt >b.txt
        cmp a.txt b.txt || fail "by way of $to: $(diff a.txt b.txt)"
    done
    # In metadata "worldSize" is a field.
    sed 's/, *"worldSize": 3//' source.txt >less.txt
    for to in sharded single; do
        run 0 convert s/extras/m via/extras_$to/m --to $to
        has "$err" '"worldSize": 3'
        is "$(printf '%s\n' "$err" | grep -c warning)" 1
        run 0 verify -q via/extras_$to/m
        grep -aq '"codec": {"name": "none, yet", "level": 18446744073709551616}' via/extras_$to/m.* ||
            fail "the piece's are lost"
        run 0 convert via/extras_$to/m back/extras_$to/m --to manifest
        hasnt "$err" warning
        sed -e '/^  "\(save_id\|sequence\|timestamp\|integrity\)":/d' back/extras_$to/m.manifest.json >back.txt
        cmp less.txt back.txt || fail "by way of $to: $(diff less.txt back.txt)"
        run 0 convert via/extras_$to/m again/extras_$to/m --to sharded
        run 0 convert again/extras_$to/m again/extras_$to/n --to manifest
        sed -e '/^  "\(save_id\|sequence\|timestamp\|integrity\)":/d' again/extras_$to/n.manifest.json >back.txt
        cmp less.txt back.txt || fail "by way of $to and sharded: $(diff less.txt back.txt)"
    done
    # Those of a shard, which is a file of a rank, have no place elsewhere; fields of a manifest none there.
    need_python
    cp s/foreign_shard_0.bin . && "$python" -c '
import json
j = json.load(open("s/foreign.metadata.json"))
j["tiers"] = [1]
j["shards"][0]["colour"] = "green"
j["shards"][0]["tensors"][0].update({"path": "x", "odd": 1})
json.dump(j, open("foreign.metadata.json", "w"))' || fail "python"
    run 0 convert foreign odd/x --to manifest
    has "$err" '"tiers": [1] has another meaning'
    has "$err" '"path": "x" has another meaning'
    has "$err" 'shards[0] has members that cannot be carried over: "colour": "green"'
    grep -q '"odd": 1' odd/x.manifest.json || fail "lost"
    run 0 convert foreign odd/y --to single
    grep -aq '"tiers": \[1\]' odd/y.checkpoint || fail "lost"
    state='"optim_state": {"path": "o.bin", "kind": "sgd"}, "metadata_version": 1'
    printf '{"model_id": "m", "epoch": 0, "step": 1, "shards": [%s], %s}\n' \
        '{"path": "foreign_shard_0.bin", "type": "dense", "tensor_name": "w", "shape": [8], "dtype": "uint8"}' \
            "$state" \
        >m.manifest.json
    printf x >o.bin
    run 0 convert m odd/z --to manifest-yaml
    has "$err" '"kind": "sgd"'
}
parts_of_a_seed() {
    mkdir parts
    printf 'abcd' >parts/0.bin
    printf 'efgh' >parts/1.bin
    printf '{"model_id": "m", "epoch": 0, "step": 1, "shards": [%s, %s], "metadata_version": 1}\n' \
        '{"path": "0.bin", "type": "dense", "tensor_name": "w", "shape": [4], "dtype": "uint8"}' \
        '{"path": "1.bin", "type": "dense", "tensor_name": "w", "shape": [4], "dtype": "uint8"}' >parts/m.manifest.json
    run 1 extract parts/m w --raw -o -
    has "$err" "2 parts"
    has "$err" "--rank"
    is "$out" ""
    run 0 extract parts/m w --raw --rank 0 -o -
    is "$out" abcd
    run 0 extract parts/m w --raw --rank 1 -o -
    is "$out" efgh
    run 1 extract parts/m w --raw --rank 2 -o -
    run 0 convert parts/m parts/one --to sharded
    has "$err" "does not say how the 2 parts"
    run 0 extract parts/one w --raw --rank 1 -o -
    is "$out" efgh
    run 1 extract parts/one w --raw -o -
    run 2 convert parts/m parts/flat --to single --one-rank
    absent parts/flat.checkpoint
}
convert_little_memory() {
    run 0 convert -q s/shapes via/shapes --to manifest --memory 4MiB
    run 0 diff -q s/shapes via/shapes
    run 2 convert s/ranks via/one --to single --one-rank
    has "$err" '"mine"'
    absent via/one.checkpoint
}
convert_refuses() {
    run 2 convert s/one
    run 2 convert s/one x
    has "$err" "--to"
    run 2 convert s/one x --to tar
    has "$err" "manifest-yaml"
    for size in 0 1 3MiB 4mb MiB -1 99999999999999999999GiB; do run 2 convert s/one x --to single --memory $size; done
    run 2 convert s/one x --to single --key-id k
    run 2 convert s/one x --to single --sign-key-file s/key.bin --key-id 'a b'
    run 2 convert s/run x --to single
    has "$err" "directory"
    run 3 convert s/nothing x --to single
    run 3 convert s/unknown x --to single
    has "$err" "posit32"
    has "$err" '"t"'
    absent x.checkpoint
    run 0 convert -q s/one there --to single
    run 3 convert s/one there --to single
    has "$err" "there.checkpoint"
    has "$err" "--force replaces it"
    hasnt "$err" overwrite
    run 3 convert s/one there --to sharded --force
    has "$err" "there.checkpoint"
    hasnt "$err" overwrite
    run 2 convert s/one model.safetensors --to single
    has "$err" model.safetensors.checkpoint
    absent model.safetensors.checkpoint
    run 0 convert -q s/run/step_100 there --to single --force
    run 0 diff s/run/step_100 there
    printf x >file
    run 2 convert s/one file/x --to single
}
# What is kept of a manifest may have been edited, or made up.
convert_hostile() {
    run 0 convert -q s/moe/step_300 kept --to sharded
    for edit in 's/"role":"optimizer"/"role":"wizard"/' 's/"tensor":"a"/"tensor":"z"/' 's/"version":1/"version":-1/' \
        's/"key":\[2,0,7\]/"key":[2,0,-7]/' \
        's/"seed":"5"/"seed":"99999999999999999999"/' 's/"tier":"warm"/"tier":"cold"/' 's/"pieces":\[/"pieces":[{},/' \
        's/"manifest":{/"manifest":{"x":[[[]]],/'; do
        "$python" - kept.metadata.json "$edit" <<'END' || skip "no python"
import json, re, sys
text = open(sys.argv[1]).read()
a, b = re.match("s/(.*)/(.*)/$", sys.argv[2]).groups()
text = text.replace(a.replace("\\", ""), b)
j = json.loads(text)
for key in ("saveId", "sequence", "integrity"): j.pop(key, None)
for s in j["shards"]:
    del s["checksum"]
    for t in s["tensors"]:
        for key in ("globalShape", "globalOffset", "placement", "blockSize", "blockChecksums"): del t[key]
json.dump(j, open("hostile.metadata.json", "w"))
END
        run 0 convert hostile "hostile_out/$(printf %s "$edit" | cksum | cut -d ' ' -f 1)" --to manifest
        case $edit in *'"x"'*) hasnt "$err" "left out" ;; *) has "$err" "does not fit its tensors" ;; esac
    done
    run 0 verify -q hostile_out
}
convert_corrupt() {
    copy s/moe bad
    flip bad/dense/a_0_of_1.bin 5
    for to in sharded single manifest; do
        run 1 convert bad/step_300 broken/x --to $to
        has "$err" "a_0_of_1.bin"
        run 1 ls broken
        no_temporaries broken
    done
    run 1 convert --json bad/step_300 broken/x --to single
    json 'j["error"]["status"] == "DCP_E_CHECKSUM"'
    run 0 convert -q bad/step_300 broken/warm --to single --tier warm
    copy s/run bad
    flip bad/step_300_shard_0.bin 0
    run 1 convert bad/step_300 broken/x --to manifest
    has "$err" "step_300_shard_0.bin"
    is "$(find broken -name '*.bin' | tr -d ' ')" ""
}
convert_signed() {
    run 0 convert -q s/signed signed/a --to manifest --key-file s/key.bin
    run 1 convert s/signed signed/x --to manifest --key-file s/badkey.bin
    absent signed/x.manifest.json
    run 1 verify --key-file s/key.bin signed/a
    for to in single sharded manifest manifest-yaml; do
        run 0 convert -q signed/a signed/$to --to $to --sign-key-file s/key.bin --key-id k2
        run 0 verify -q --key-file s/key.bin signed/$to
        run 1 verify -q --key-file s/badkey.bin signed/$to
    done
    run 0 info --json signed/single
    json 'j["signature"]["key"] == "k2"'
}
# 68 MiB; what is in memory does not depend on that.
convert_memory() {
    need_python
    nm "$DCPTOOL" 2>/dev/null | grep -q __asan && skip "AddressSanitizer takes more memory"
    for to in single manifest; do
        "$python" -c '
import resource, subprocess, sys
assert subprocess.call(sys.argv[1:]) == 0
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
peak = peak // 1024 if sys.platform == "darwin" else peak
assert peak < 32000, "%d KiB" % peak' "$DCPTOOL" convert -q s/big memory/big --to $to --memory 16MiB ||
        fail "$to: $(tail -n 1 "$work/trace")"
        run 0 diff -q s/big memory/big
        rm -rf memory
    done
}
# Killed in the middle: there is no target, the source is whole, sweep takes what was left, and the next try succeeds.
convert_killed() {
    for to in sharded single manifest; do
        mkdir -p killed
        "$DCPTOOL" convert -q s/big killed/big --to $to --memory 4MiB >/dev/null 2>&1 &
        pid=$!
        tries=0
        until [ -n "$(find killed -name '*.tmp' -size +2000 2>/dev/null)" ] || [ $tries -gt 300 ] ||
            ! kill -0 $pid 2>/dev/null; do
            tries=$((tries + 1))
            sleep 0.02
        done
        kill -KILL $pid 2>/dev/null || fail "$to: it was faster than we"
        wait $pid 2>/dev/null
        [ -n "$(find killed -type f)" ] || fail "$to: nothing was left behind"
        run 3 verify killed/big
        run 0 sweep killed --grace 0 --plain-names -q
        is "$(find killed -type f)" ""
    done
    run 0 convert -q s/big killed/big --to single
    run 0 diff -q s/big killed/big
    rm -rf killed
    run 0 verify -q s/big
}
# Told to stop, it removes what it made.
convert_interrupted() {
    mkdir -p stopped
    "$DCPTOOL" convert -q s/big stopped/big --to sharded --memory 4MiB >/dev/null 2>"$work/err" &
    pid=$!
    tries=0
    until [ -n "$(find stopped -name '*.tmp' 2>/dev/null)" ] || [ $tries -gt 300 ]; do tries=$((tries + 1)) &&
        sleep 0.02; done
    kill -TERM $pid
    wait $pid
    is $? 143
    [ -s "$work/err" ] || fail "no message"
    is "$(find stopped -type f)" ""
}

# ---- sign ------------------------------------------------------------------------------------------------------------
sign() {
    copy s/moe moe
    cp s/ranks*.* moe
    for path in moe/step_300 moe/step_200.manifest.yaml moe/ranks; do
        run 1 verify --key-file s/key.bin $path
        run 0 sign $path --key-file s/key.bin --key-id k-1
        has "$out" "signed $path"
        run 0 verify --key-file s/key.bin $path
        run 1 verify --key-file s/badkey.bin $path
        run 0 verify $path
        run 0 info $path
        has "$out" 'hmac-sha256, key "k-1", not checked'
    done
    run 0 diff s/moe/step_300 moe/step_300
    run 0 sign --json moe/step_300 --key-file s/badkey.bin
    json 'j["replaced"] == "k-1" and j["key"] == "" and j["path"] == "moe/step_300.manifest.json"'
    run 1 verify --key-file s/key.bin moe/step_300
    no_temporaries moe
    # Replayed: the older manifest, signed too, under the name of the newer one.
    run 0 sign moe/step_100 --key-file s/key.bin
    cp moe/step_100.manifest.json moe/step_300.manifest.json
    run 0 verify --key-file s/key.bin moe/step_300
    run 1 verify --key-file s/key.bin --minimum-step 300 moe/step_300
    has "$out" "step 100"
    # Stripped, truncated, edited.
    grep -v '"signature"' moe/step_100.manifest.json >moe/bad.manifest.json
    run 1 verify --key-file s/key.bin moe/bad
    head -c 900 moe/step_100.manifest.json >moe/bad.manifest.json
    run 1 verify --key-file s/key.bin moe/bad
    sed 's/moe-small/moe-larg/' moe/step_100.manifest.json >moe/bad.manifest.json
    run 1 verify --key-file s/key.bin moe/bad
    run 1 verify moe/bad
}
sign_keeps_unknown_members() {
    need_python
    cp s/foreign_shard_0.bin . && "$python" -c '
import json, sys
j = json.load(open("s/foreign.metadata.json"))
j["fromTheFuture"] = {"a": [1, 2]}
j["shards"][0]["colour"] = "green"
json.dump(j, open("foreign.metadata.json", "w"))' || fail "python"
    run 0 sign -q foreign --key-file s/key.bin
    run 0 verify -q --key-file s/key.bin foreign
    "$python" -c '
import json
j = json.load(open("foreign.metadata.json"))
assert j["fromTheFuture"] == {"a": [1, 2]} and j["shards"][0]["colour"] == "green", j
assert j["signature"]["algorithm"] == "hmac-sha256", j' \
        || fail "lost: $(cat foreign.metadata.json)"
    run 0 diff -q s/foreign foreign
}
sign_covers_every_byte() {
    mkdir bare
    cp s/foreign* bare
    sed 's/, "checksum": "[0-9a-f]*"//' s/foreign.metadata.json >bare/foreign.metadata.json
    run 0 verify bare/foreign
    cp bare/foreign.metadata.json before
    run 1 sign bare/foreign --key-file s/key.bin
    has "$err" "shards[0].checksum"
    has "$err" "cannot be signed"
    cmp before bare/foreign.metadata.json || fail "it was changed"
    run 1 verify --key-file s/key.bin bare/foreign
    cp s/foreign* bare
    run 0 sign bare/foreign --key-file s/key.bin
    run 0 verify --key-file s/key.bin bare/foreign
    flip bare/foreign_shard_0.bin 3
    run 1 verify --key-file s/key.bin bare/foreign
    # A manifest that no save of ours wrote, and the file of a state of which only the path is given.
    mkdir -p seed/dense
    printf abcd >seed/dense/a.bin
    sum=$(sha256sum seed/dense/a.bin | cut -c 1-64)
    manifest() {
        printf 'model_id: m\nepoch: 0\nstep: 1\nshards:\n  - path: dense/a.bin\n    type: dense\n    tensor_name: a\n' \
            >seed/m.manifest.yaml
        printf '    shape: [4]\n    dtype: uint8\n%smetadata_version: 1\n' "$1" >>seed/m.manifest.yaml
    }
    manifest ''
    run 1 sign seed/m --key-file s/key.bin
    has "$err" "shards[0].checksum"
    manifest "    checksum: abc123
"
    run 1 sign seed/m --key-file s/key.bin
    manifest "    checksum: \"$sum\"
optim_state:
  path: dense/b.bin
"
    run 1 sign seed/m --key-file s/key.bin
    has "$err" "optim_state.path"
    manifest "    checksum: \"$sum\"
"
    run 0 sign seed/m --key-file s/key.bin
    run 0 verify --key-file s/key.bin seed/m
}
sign_refuses() {
    run 2 sign s/one
    has "$err" "--key-file"
    run 2 sign s/moe/step_300 --key-file s/shortkey.bin
    run 3 sign s/moe/step_300 --key-file s/nokey.bin
    run 2 sign s/moe/step_300 --key-file s/key.bin --key-id 'a/b'
    run 3 sign s/nothing --key-file s/key.bin
    run 2 sign s/moe --key-file s/key.bin
    cp s/one.checkpoint one.checkpoint
    run 3 sign one --key-file s/key.bin
    has "$err" "--sign-key-file"
    cmp s/one.checkpoint one.checkpoint || fail "it was changed"
    copy s/moe bad
    flip bad/step_300.manifest.json 500
    run 1 sign bad/step_300 --key-file s/key.bin
    has "$err" "step_300.manifest.json"
    cp s/moe/step_300.manifest.json bad
    run 0 sign -q bad/step_300 --key-file s/key.bin
}

# ---- sync ------------------------------------------------------------------------------------------------------------
sync_copy() {
    copy s/moe far && rm -rf near
    run 0 sync far/step_100 near
    has "$out" "copied:    6 files, 2.2 KiB (6 missing, 0 stale, 0 corrupt)"
    has "$out" "near/step_100.manifest.json"
    run 0 verify near
    run 0 sync far/step_100 near
    has "$out" "copied:    0 files, 0 bytes"
    has "$out" "kept:      6 files, 2.2 KiB"
    flip near/dense/a_0_of_1.bin 7
    run 0 sync far/step_100 near
    has "$out" "copied:    0 files"
    run 0 sync --full far/step_100 near --dry-run
    has "$out" "to copy:   1 file, 384 bytes (0 missing, 0 stale, 1 corrupt)"
    run 1 verify near
    run 0 sync --full far/step_100 near
    run 0 verify near
    # A newer manifest of the same name: what has a higher version is stale.
    run 0 convert -q --force s/moe/step_300 far/step_100 --to manifest
    run 0 sync --json far/step_100 near
    json 'j["stale"] == 2 and j["copied"] == 2 and j["kept"] == 4 and j["bytes_copied"] == 768
        and j["path"] == "near/step_100.manifest.json"'
    run 0 diff s/moe/step_300 near/step_100
    no_temporaries near
}
sync_tiers() {
    rm -rf near
    run 0 sync s/moe/step_300 near --tier hot --json
    json 'j["copied"] == 5 and j["not_selected"] == 1'
    absent near/experts/tier_2
    run 0 verify --tier hot near/step_300
    run 1 verify near/step_300
    run 0 sync s/moe/step_300 near --tier 2
    has "$out" "copied:    1 file, 384 bytes"
    run 0 verify near/step_300
    run 1 sync s/moe/step_300 near2 --tier cold
    has "$err" "cold"
    absent near2/step_300.manifest.json
    # A budget of 600 bytes takes one of two files; which, the warning says.
    rm -rf near
    run 0 sync s/other_moe/step_300 near
    has "$out" "left out:  1 file, 384 bytes"
    has "$err" "expert_7.bin"
    run 0 verify near/step_300 --tier hot
    run 1 verify near/step_300
}
sync_refuses() {
    run 2 sync s/moe/step_300
    run 3 sync s/nothing near3
    run 3 sync s/one near3
    copy s/moe bad
    flip bad/dense/a_0_of_1.bin 0
    run 1 sync bad/step_300 near3
    has "$err" "a_0_of_1.bin"
    absent near3/step_300.manifest.json
    rm bad/dense/a_0_of_1.bin
    run 1 sync bad/step_300 near3
    run 1 sync s/moe/step_100 near3 --minimum-step 200
    run 1 sync s/moe/step_300 near3 --key-file s/key.bin
    absent near3/step_300.manifest.json
    run 1 sync --json bad/step_300 near3
    json 'j["error"]["status"] == "DCP_E_INCOMPLETE" and j["missing"] >= 1'
}

# ---- exit codes ------------------------------------------------------------------------------------------------------
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

# ---- terminals, pipes, signals ---------------------------------------------------------------------------------------
no_bar_without_terminal() {
    TERM=xterm
    export TERM
    run 0 verify s/big
    is "$err" ""
    is "$out" "OK s/big"
}
bar_on_terminal() {
    impatient_tool
    tool=$work/small esc=$(printf '\033') TERM=xterm
    export TERM
    for columns in 40 80 200; do
        case $columns in 80) sample=s/big ;; *) sample=s/shapes ;; esac
        on_terminal verify $sample
        is "$got" 0
        has "$out" "verify ["
        has "$out" "100%"
        case $columns in 80) has "$out" "of 68.0 MiB"; has "$out" "/s"; has "$out" " left" ;; esac
        # no line of the bar is longer than the terminal is wide
        is "$(printf '%s' "$out" | tr '\r' '\n' | sed "s/$esc\[[0-9;]*[mK]//g" | awk -v c=$columns 'length > c')" ""
    done
    on_terminal verify -q s/shapes
    hasnt "$out" "verify ["
    on_terminal verify s/run                            # a name for each of a directory
    has "$out" "step_300 ["
    has "$out" "step_100 ["
    TERM=dumb
    on_terminal verify s/shapes
    hasnt "$out" "verify ["
    hasnt "$out" "$esc"
    unset TERM
    on_terminal verify s/shapes
    hasnt "$out" "verify ["
    hasnt "$out" "$esc"
    TERM=xterm tool=
    on_terminal verify s/one                            # nothing within half a second
    hasnt "$out" "verify ["
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
into_closed_pipe() {                # code, arguments of the tool: the reader is gone before it starts, for sure
    code=$1
    shift
    mkfifo gate || skip "no mkfifo"
    { read -r go <gate; "$DCPTOOL" "$@" 2>"$work/err"; echo $? >"$work/code"; } | { exec <&-; echo go >gate; }
    rm gate
    is "$(cat "$work/code")" "$code"
    case $code in 0) is "$(cat "$work/err")" "" ;; *) has "$(cat "$work/err")" "standard output" ;; esac
}
# Who reads a listing may have enough of it; a tensor must be whole.
closed_pipe() {
    into_closed_pipe 0 ls s/types
    into_closed_pipe 0 info --json s/one
    into_closed_pipe 0 verify s/one
    into_closed_pipe 0 --help
    into_closed_pipe 3 extract s/one w -o -
    into_closed_pipe 3 extract s/big a -o -
    "$DCPTOOL" ls s/types >&- 2>"$work/err"
    is $? 3
    "$DCPTOOL" extract -q s/one w -o closed.npy >&- 2>&- <&-
    is $? 0
    is "$(size closed.npy)" 176
}
full_disk() {
    [ -c /dev/full ] || skip "no /dev/full here"
    for c in "ls s/types" "info s/one" "verify --json s/one" "latest s/run" "extract -o - s/one w" "--help" \
        "--version"; do
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
    # it waits for us, with most of the first box unwritten
    { head -c 1 >/dev/null; kill -TERM $pid; cat >/dev/null; } <fifo
    wait $pid
    is $? 143                                           # as the signal ends a program
    [ -s "$work/err" ] || fail "no message"
    rm fifo
}

# shellcheck source=tests/tool_look.sh
. "$root/tests/tool_look.sh"
# shellcheck source=tests/tool_numbers.sh
. "$root/tests/tool_numbers.sh"
# shellcheck source=tests/tool_report.sh
. "$root/tests/tool_report.sh"
# shellcheck source=tests/tool_parts.sh
. "$root/tests/tool_parts.sh"
# shellcheck source=tests/tool_edit.sh
. "$root/tests/tool_edit.sh"
# shellcheck source=tests/tool_repair.sh
. "$root/tests/tool_repair.sh"
# shellcheck source=tests/tool_watch.sh
. "$root/tests/tool_watch.sh"

# ---- all of them -----------------------------------------------------------------------------------------------------
if [ ! -x "$DCPTOOL" ]; then
    echo "FAILED tool: $DCPTOOL is not there; make builds it"
    failed=1
    summary
fi
if [ -z "${MAKE_CHECKPOINTS:-}" ]; then
    MAKE_CHECKPOINTS=$work/make_checkpoints
    # shellcheck disable=SC2086
    if ! ${CC:-cc} ${CFLAGS:--O2} -I"$root" -o "$MAKE_CHECKPOINTS" "$root/tests/make_checkpoints.c" -lm \
        -pthread 2>"$work/trace"; then
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
    info_text info_json info_escapes info_free_form path_escapes info_signature \
    verify_fine verify_directory verify_flipped verify_names_tensor verify_flipped_single verify_length verify_missing \
        verify_key \
    diff_same diff_free_form diff_reads_no_data diff_content diff_structure diff_trouble \
    extract_raw extract_default_names extract_no_overwrite extract_failures extract_corrupt extract_rank \
        extract_npy_header extract_json \
    extract_numpy extract_big extract_boxes extract_memory latest latest_skips prune sweep \
    manifest_ls manifest_info manifest_verify manifest_diff manifest_directory manifest_of_the_seed \
    convert_round_trips convert_keeps_ranks_and_types convert_ranks_without_rows convert_keeps_unknown_members \
    parts_of_a_seed convert_little_memory convert_refuses convert_hostile convert_corrupt convert_signed \
    convert_memory convert_killed convert_interrupted sign sign_covers_every_byte \
    sign_keeps_unknown_members sign_refuses sync_copy sync_tiers sync_refuses \
    missing_checkpoint newer_format corrupt_document unreadable \
    look_of_tensors look_of_directory look_of_info look_fits sizes ls_verify \
    control_c ls_of_other_files manual completion \
    stats_types stats_look stats_fail_on stats_memory diff_values diff_says_how \
    report_json report_file report_of_damage report_reads_no_more report_page report_in_browser report_of_many \
    cat_text cat_slices cat_numbers slice_numpy slice_reads_a_part \
    convert_edits_names convert_edits_ranks convert_edits_refuse convert_edits_step convert_casts \
    repair_every_layout repair_manifests repair_of_two_halves repair_refuses_other_saves \
        repair_leaves_what_is_others repair_at_once \
    watch_says_what_comes watch_looks watch_ends watch_interrupted watch_reads_what_is_new \
    no_bar_without_terminal bar_on_terminal no_color no_bytes_on_terminal closed_pipe full_disk interrupted; do
    t "$name"
done
summary
