#!/bin/sh
# test_python.sh - our files as somebody else reads them: Python programs that were written from the description of the
# format alone.
#
#     sh tests/test_python.sh [text]                    only tests whose name contains the text (or DCP_TEST_FILTER)
#
# CC, CFLAGS       compiler and flags (default: cc -O2)
# DCP_REQUIRE      with the word python in it, a missing python3 is a failure, not a skip
# Prints `ok name`, `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if
# any failed.

cd "$(dirname "$0")/.." || exit 1
. tests/harness.sh
# The python that has numpy, if one has it: what apt installs is for the system's own, which need not be the first in
# the path.
python=${PYTHON:-python3}
for other in "$python" /usr/bin/python3; do
    if "$other" -c 'import numpy' 2>/dev/null; then python=$other && break; fi
done
no_python() {
    filter=                                             # it is all of them that cannot run
    t python missing python3 python python3
    finish
}
"$python" -c 'import hashlib, hmac, json, struct' 2>/dev/null || no_python

wanted() { case $1 in *"$filter"* | samples_compile) ;; *) return 1 ;; esac; }         # all others need them
# shellcheck disable=SC2086
samples() {
    object dcp.o
    grep -v '^#define DCP_IMPLEMENTATION' "$root/tests/python_samples.c" >samples.c
    ${CC:-cc} ${CFLAGS:--O2} -I"$root" samples.c dcp.o -o python_samples -pthread ||
        fail "python_samples.c does not compile"
    mkdir samples && ./python_samples samples
}
t samples_compile samples
[ "$failed" -eq 0 ] || finish

enter() { rm -rf now && cp -R samples now && cd now; }  # each test has copies of the samples

check() { "$python" "$root/tests/check_checkpoint.py" "$@" >log 2>&1; }
right() { check "$@" || fail "$(cat log)"; cat log; }
# wrong WHAT ARGUMENTS...: must be found, and for a reason
wrong() {
    what=$1
    shift
    check "$@"
    status=$?
    if [ $status -ne 1 ] || ! grep -q 'WRONG: ' log; then fail "$what: exit status $status: $(cat log)"; fi
}
size() { wc -c <"$1" | tr -d ' '; }
# flip FILE BYTE: inverts its lowest bit
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    [ -n "$byte" ] || fail "$1 has no byte $2"
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
# wrong_after_flips FILE COMMAND...: each of some bytes from the first to the last, flipped and flipped back
wrong_after_flips() {
    file=$1 last=$(($(size "$1") - 1))
    shift
    for part in 0 1 2 3 4 5 6 7 8 9 10 11; do
        at=$((last * part / 11))
        flip "$file" $at
        "$@" "bit 0 of byte $at of $file"
        flip "$file" $at
    done
}

# ---- sharded ---------------------------------------------------------------------------------------------------------
checks() {
    want=$1
    shift
    right "$@" | grep -q "right: $want" || fail "not '$want': $(cat log)"
}
t tree checks '1 shards, 4 tensors, 13 blocks, 24 leaves' tree.metadata.json
t tree_with_default_blocks checks '1 shards, 4 tensors, 4 blocks, 24 leaves' tree_2.metadata.json
t signed checks '1 shards, 1 tensors, .*; V; signed with hmac-sha256 key-1, H$' --key key.bin signed.metadata.json
t flat checks '1 shards, 2 tensors, 453 bytes; V$' flat.metadata.json

flat_is_what_sha256sum_prints() {
    command -v sha256sum >/dev/null 2>&1 || skip "sha256sum is missing; install coreutils"
    sum=$(sha256sum flat_shard_0.bin | cut -d' ' -f1)
    grep -q "\"checksum\": \"$sum\"" flat.metadata.json ||
        fail "sha256sum prints $sum, the document has $(grep '"checksum"' flat.metadata.json)"
}
t flat_is_what_sha256sum_prints flat_is_what_sha256sum_prints

# More checkpoints, those that test_tool.sh looks at; two shards among them.
checkpoints_of_the_tool() {
    [ -f "$root/tests/make_checkpoints.c" ] || skip "no tests/make_checkpoints.c"
    # shellcheck disable=SC2086
    ${CC:-cc} ${CFLAGS:--O2} -I"$root" "$root/tests/make_checkpoints.c" -o make_checkpoints -lm -pthread ||
        fail "does not build"
    mkdir made && ./make_checkpoints made || fail "does not run"
    cd made && right types.metadata.json blocks.metadata.json ranks.metadata.json flat.metadata.json odd.metadata.json \
        run/*.metadata.json
}
t checkpoints_of_the_tool checkpoints_of_the_tool

# ---- sharded and damaged ---------------------------------------------------------------------------------------------
wrong_tree() { wrong "$1" tree.metadata.json; }
wrong_flat() { wrong "$1" flat.metadata.json; }
wrong_signed() { wrong "$1" --key key.bin signed.metadata.json; }
t flips_in_a_shard wrong_after_flips tree_shard_0.bin wrong_tree
t flips_in_a_flat_shard wrong_after_flips flat_shard_0.bin wrong_flat
t flips_in_a_document wrong_after_flips tree.metadata.json wrong_tree
t flips_in_a_signed_document wrong_after_flips signed.metadata.json wrong_signed

flip_in_a_gap() {
    gap=$("$python" -c 'import json
tensors = json.load(open("tree.metadata.json"))["shards"][0]["tensors"]
ends = [(a["offset"] + a["size"], b["offset"]) for a, b in zip(tensors, tensors[1:])]
print(next(end for end, begin in ends if end < begin))') || fail "no gap"
    flip tree_shard_0.bin "$gap"
    wrong_tree "a gap that is not zero"
}
t flip_in_a_gap flip_in_a_gap
other_shard() {
    [ "$(size tree_shard_0.bin)" = "$(size tree_2_shard_0.bin)" ] || fail "the samples have other sizes"
    cp tree_2_shard_0.bin tree_shard_0.bin
    wrong_tree "another checkpoint's shard"
}
t other_shard other_shard
longer_and_shorter() {
    printf x >>tree_shard_0.bin
    wrong_tree "a byte more"
    head -c 1000000 tree_2_shard_0.bin >tree_shard_0.bin
    wrong_tree "cut short"
    rm tree_shard_0.bin
    wrong_tree "no shard"
}
t longer_and_shorter longer_and_shorter
document_cut_short() {
    head -c $(($(size tree.metadata.json) - 3)) tree.metadata.json >cut && mv cut tree.metadata.json
    wrong_tree "a document cut short"
}
t document_cut_short document_cut_short
wrong_key() {
    wrong "another key" --key wrong.bin signed.metadata.json
    wrong "unsigned" --key key.bin tree.metadata.json
}
t wrong_key wrong_key

# ---- single file -----------------------------------------------------------------------------------------------------
# The values are those of save_types in python_samples.c. fp8 is compared as bytes; bytes 0x21, 0xF8, 0x03 hold the five
# numbers of four bits.
cat >"$work/samples/expected.json" <<'END'
{ "tensors": {
  "fp64": { "dataType": "fp64", "shape": [3], "values": [0.5, -1e300, 3.141592653589793] },
  "fp32": { "dataType": "fp32", "shape": [3], "values": [1.5, -2.25, 16777216] },
  "fp16": { "dataType": "fp16", "shape": [3], "values": [1, -2.5, 65504] },
  "bf16": { "dataType": "bf16", "shape": [3], "values": [1, -2.25, 3.140625] },
  "int64": { "dataType": "int64", "shape": [3], "values": [-9223372036854775808, -1, 9223372036854775807] },
  "int32": { "dataType": "int32", "shape": [3], "values": [-2147483648, 7, 2147483647] },
  "int16": { "dataType": "int16", "shape": [3], "values": [-32768, 0, 32767] },
  "int8": { "dataType": "int8", "shape": [3], "values": [-128, 0, 127] },
  "uint64": { "dataType": "uint64", "shape": [2], "values": [0, 18446744073709551615] },
  "uint32": { "dataType": "uint32", "shape": [2, 1], "values": [0, 4294967295] },
  "uint16": { "dataType": "uint16", "shape": [2], "values": [1, 65535] },
  "uint8": { "dataType": "uint8", "shape": [3], "values": [0, 128, 255] },
  "bool": { "dataType": "bool", "shape": [4], "values": [true, false, true, true] },
  "complex64": { "dataType": "complex64", "shape": [2], "values": [[1, -2], [0.5, 0.25]] },
  "complex128": { "dataType": "complex128", "shape": [1], "values": [[1e-300, -0.5]] },
  "int4": { "dataType": "int4", "shape": [5], "values": [1, 2, -8, -1, 3] },
  "uint4": { "dataType": "uint4", "shape": [5], "values": [1, 2, 8, 15, 3] },
  "fp8": { "dataType": "fp8_e4m3", "shape": [3], "values": [0, 128, 255] },
  "scalar": { "dataType": "int32", "shape": [], "values": [42] },
  "empty": { "dataType": "fp32", "shape": [0, 3], "values": [] },
  "nam\u00e9/../x": { "dataType": "int8", "shape": [1], "values": [-128] } },
  "training": { "epoch": 5, "step": 100, "learningRate": 0.0003, "optimizerType": "adamw",
    "optimizerState": { "beta1": 0.9 } },
  "customFields": { "git": "abc123", "note": "Gr\u00fc\u00dfe" } }
END
read_single() { "$python" "$root/tests/read_single.py" types.checkpoint expected.json >log 2>&1; }
single_file() { read_single || fail "$(cat log)"; }
wrong_single() {
    read_single
    status=$?
    if [ $status -ne 1 ] || ! grep -q 'WRONG: ' log; then fail "$1: exit status $status: $(cat log)"; fi
}
t single_file single_file

# Without digests it sees only what differs from what it expects: the magic number, the records, a gap, values, what is
# too much or missing.
single_file_damaged() {
    records=$(($("$python" -c 'import struct
print(14 + struct.unpack("<i", open("types.checkpoint", "rb").read()[10:14])[0])')))
    for at in 0 5 "$records" $((records + 8)) 8191 8192 8250 8256 $(($(size types.checkpoint) - 1)); do
        flip types.checkpoint "$at"
        wrong_single "bit 0 of byte $at"
        flip types.checkpoint "$at"
    done
    single_file
    cp types.checkpoint whole
    printf x >>types.checkpoint
    wrong_single "a byte more"
    head -c 9000 whole >types.checkpoint
    wrong_single "cut short"
}
t single_file_damaged single_file_damaged

finish
