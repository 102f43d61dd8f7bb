#!/bin/sh
# matrix.sh - test_golden.c with every compiler, optimisation and language that dcp.h promises, each built and run: it
# saves, loads and compares every layout, type and checksum with the golden files; and dcp.h by itself, as users build
# it, with all warnings. By hand (`make matrix`), for it takes a long time.
#
#     sh tests/matrix.sh [text]                         only combinations whose name contains the text
#
# Prints `ok name`, `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if
# any failed.

cd "$(dirname "$0")/.." || exit 1
filter=${1:-}
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/dcp_matrix.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${MAKE:-make}" -s build/statuses.h || exit 1

# one COMPILER LANGUAGE STANDARD FLAGS...
one() {
    name=$(echo "$*" | tr -d ' ')
    case $name in *"$filter"*) ;; *) return ;; esac
    compiler=$1 language=$2 standard=$3
    shift 3
    if ! command -v "$compiler" >/dev/null 2>&1; then
        skipped=$((skipped + 1)) && echo "skipped $name: $compiler is missing"; return
    fi
    if "$compiler" -x "$language" "-std=$standard" -Wall -Wextra -Werror "$@" -DDCP_STATIC -I. tests/test_golden.c \
        -o "$work/test" -lm -pthread >"$work/log" 2>&1 &&
        "$work/test" >"$work/log" 2>&1; then passed=$((passed + 1)) && echo "ok $name"
    else failed=$((failed + 1)) && echo "FAILED $name: $(grep -v '^ok ' "$work/log" | head -n 3 | tr '\n' ' ')"; fi
}
# alone COMPILER LANGUAGE STANDARD FLAGS...: all of dcp.h in one object, with every function external, and nothing to
# say about it
printf '#define DCP_IMPLEMENTATION\n#include "dcp.h"\n' >"$work/alone.c"
alone() {
    name=alone$(echo "$*" | tr -d ' ')
    case $name in *"$filter"*) ;; *) return ;; esac
    compiler=$1 language=$2 standard=$3
    shift 3
    if ! command -v "$compiler" >/dev/null 2>&1; then
        skipped=$((skipped + 1)) && echo "skipped $name: $compiler is missing"; return
    fi
    if "$compiler" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
        -Wundef -Wvla -Werror "$@" -I. \
        -c "$work/alone.c" -o "$work/alone.o" >"$work/log" 2>&1; then passed=$((passed + 1)) && echo "ok $name"
    else failed=$((failed + 1)) && echo "FAILED $name: $(grep -m 3 -e error -e warning "$work/log" | tr '\n' ' ')"; fi
}
for level in -O0 -O1 -O2 -O3 '-O3 -march=native'; do
    for compiler in gcc clang; do
        # shellcheck disable=SC2086
        for standard in c99 c11 c17 gnu17; do
            one $compiler c $standard $level
            alone $compiler c $standard $level
        done
    done
    for compiler in g++ clang++; do
        # shellcheck disable=SC2086
        for standard in c++11 c++17; do
            one $compiler c++ $standard $level
            alone $compiler c++ $standard $level
        done
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
