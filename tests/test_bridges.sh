#!/bin/sh
# test_bridges.sh - checkpoints in other languages and formats: Python, numpy's files, PyTorch, GGUF.
#
#     sh tests/test_bridges.sh [text]                   only tests whose name contains the text (or DCP_TEST_FILTER)
#
# CC, CFLAGS       compiler and flags (default: cc -O2)
# PYTHON           a python3 with numpy (default: the first of python3 and /usr/bin/python3 that has it)
# DCP_REQUIRE      with the word python in it, a missing python3 or numpy is a failure, not a skip; pypi: gguf; torch

cd "$(dirname "$0")/.." || exit 1
. tests/harness.sh
python=
for other in ${PYTHON:-python3 /usr/bin/python3}; do
    if "$other" -c 'import numpy' 2>/dev/null; then python=$other && break; fi
done
need_numpy() { [ -n "$python" ] || missing "numpy for python3" python python3-numpy; }
check() { need_numpy && "$python" -B "$root/tests/bridge_check.py" "$@" >log 2>&1 || fail "$(tail -n 4 log)"; }

samples() {
    object dcp.o
    grep -v '^#define DCP_IMPLEMENTATION' "$root/tests/bridge_samples.c" >samples.c
    # shellcheck disable=SC2086
    ${CC:-cc} ${CFLAGS:--O2} -I"$root" samples.c dcp.o -o bridge_samples -lm -pthread || fail "does not compile"
    mkdir samples && ./bridge_samples samples
}
wanted() { case $1 in *"$filter"* | samples_are_written) ;; *) return 1 ;; esac; }     # all others need them
t samples_are_written samples
[ "$failed" -eq 0 ] || finish

# ---- examples/python/dcp.py ------------------------------------------------------------------------------------------
t python_reads_every_type_layout_and_slice check reads samples
t python_finds_every_damage check damage samples
t python_refuses_hostile_documents check refuses

command_line() {
    need_numpy
    PYTHONPATH=$root/examples/python
    export PYTHONPATH
    "$python" -B -m dcp ls samples/yaml/tree >log || fail "ls fails"
    grep -q '^grid  *int32  *\[700, 300\]  *820.3 KiB$' log || fail "no line for grid: $(cat log)"
    "$python" -B -m dcp ls samples/yaml | grep -q '^tree  *step 1000  *28 tensors' || fail "no line for tree"
    "$python" -B -m dcp verify samples/single/tree | grep -q ': OK, ' || fail "does not verify"
    printf x >>samples/single/flat.checkpoint
    if "$python" -B -m dcp verify samples/single/flat 2>log; then fail "a byte more: verifies"; fi
    grep -q 'the document says' log || fail "$(cat log)"
    "$python" -B -m dcp verify samples/none 2>log
    [ $? -eq 1 ] || fail "a checkpoint that is not there: $(cat log)"
}
t python_command_line command_line

structs_are_those_of_the_header() {
    need_numpy
    "$python" -B "$root/tests/bridge_check.py" structs >structs.c || fail "prints no program"
    # shellcheck disable=SC2086
    ${CC:-cc} ${CFLAGS:--O2} -DDCP_NO_LINK_CHECK=1 -I"$root" structs.c -o structs || fail "does not compile"
    ./structs || fail "dcp.py declares other structs than dcp.h: $(./structs)"
}
# As make lib builds it, but not optimized; test_packaging.sh tests make lib.
shared_library() {
    [ -f "$work/libdcp.so" ] ||
        ${CC:-cc} -O0 -fPIC -shared '-DDCPDEF=extern __attribute__((visibility("default")))' \
            "$root/examples/dcptool/dcp.c" -o "$work/libdcp.so" -pthread || fail "no shared library"
}
library_saves_and_loads() {
    need_numpy
    shared_library
    cp -R samples others && check library "$work/libdcp.so" others
}
t python_library_saves_and_loads library_saves_and_loads
# with_package NAME COMMAND...: the environment's library, and a package of PyPI
with_package() {
    need_numpy
    word=pypi
    [ "$1" != torch ] || word=torch                     # gigabytes: .ci/run does not install it
    "$python" -c "import $1" 2>/dev/null || missing "$1 for python3" "$word" "it with pip"
    shared_library
    DCP_LIBRARY=$work/libdcp.so
    export DCP_LIBRARY
    rm -rf here && mkdir here && cd here || exit 1
    shift
    check "$@"
}
t python_readme with_package numpy readme "$root/examples/python/README.md" "$work/libdcp.so"
npz_there_and_back() {
    need_numpy
    "${MAKE:-make}" -s -C "$root" build/dcptool >log 2>&1 || fail "make build/dcptool: $(cat log)"
    rm -rf here && mkdir here && cd here && check npz "$root/build/dcptool" ../samples
}
t npz_there_and_back npz_there_and_back
t gguf_there_and_back with_package gguf gguf
t torch_there_and_back with_package torch torch ../samples
t python_structs_are_those_of_the_header structs_are_those_of_the_header

finish
