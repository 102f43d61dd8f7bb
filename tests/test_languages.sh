#!/bin/sh
# test_languages.sh - dcp.h from C++17 (examples/cpp) and Fortran (examples/fortran).
#
#     sh tests/test_languages.sh [text]                 only tests whose name contains the text (or DCP_TEST_FILTER)
#
# Words for DCP_REQUIRE: cxx, clang, fortran, mpi. Prints `ok name`, `skipped name: why` or `FAILED name: why`; last
# `N passed, N failed, N skipped`; exit status 1 if any failed.

cd "$(dirname "$0")/.." || exit 1
. tests/harness.sh

quiet() {
    "$@" >log 2>&1 || fail "$*: $(grep -m 3 -i error log || tail -n 4 log)"
    [ ! -s log ] || fail "$*: says $(head -n 6 log)"
}
library() { [ -f dcp.o ] || object dcp.o; }
strict='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast'

# ---- C++ -------------------------------------------------------------------------------------------------------------
# cxx COMPILER FLAGS: tests/languages.cpp says nothing to the compiler, and finds nothing wrong
cxx() {
    need "$1" cxx "${1%++}"
    library
    rm -rf cxx && mkdir cxx
    # shellcheck disable=SC2086
    quiet $1 $2 $strict -O0 -I"$root" -I"$root/examples/cpp" "$root/tests/languages.cpp" dcp.o -o cxx/program -pthread
    why=$(cd cxx && ./program) || fail "$why"
}
t cxx_17_gcc cxx g++ -std=c++17
t cxx_20_gcc_without_exceptions cxx g++ '-std=c++20 -fno-exceptions'
t cxx_17_clang_without_exceptions cxx clang++ '-std=c++17 -fno-exceptions'
t cxx_20_clang cxx clang++ -std=c++20
if [ -n "${WHOLE:-}" ]; then
    t cxx_20_gcc cxx g++ -std=c++20
    t cxx_17_gcc_without_exceptions cxx g++ '-std=c++17 -fno-exceptions'
    t cxx_17_clang cxx clang++ -std=c++17
    t cxx_20_clang_without_exceptions cxx clang++ '-std=c++20 -fno-exceptions'
fi
cxx_sanitized() {
    need clang++ clang clang
    cxx clang++ '-std=c++20 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined'
}
t cxx_sanitized cxx_sanitized
# What must not compile: an object that is gone before the state is used, a type that no dtype is for.
cxx_refuses() {
    need g++ cxx g++
    for line in 'state.add("x", std::vector<float>(3))' 'state.add("x", 1.0f)' 'long double x = 0; state.add("x", x)' \
        'std::vector<bool> x; state.add("x", x)' 'const std::string x; state.load(x), static_cast<void>(e)'; do
        printf '#include "dcp.hpp"\nint main() { dcp::state state; dcp_error e; %s; return e.rank; }\n' "$line" >no.cpp
        flags=-std=c++17
        case $line in *load*) flags="$flags -fno-exceptions" ;; esac
        # shellcheck disable=SC2086
        ! g++ $flags -I"$root" -I"$root/examples/cpp" -fsyntax-only no.cpp >log 2>&1 || fail "it compiles: $line"
    done
}
t cxx_refuses cxx_refuses
cxx_is_short() {
    lines=$(wc -l <"$root/examples/cpp/dcp.hpp")
    [ "$lines" -le 250 ] || fail "dcp.hpp has $lines lines"
}
t cxx_is_short cxx_is_short
cxx_example() {
    need g++ cxx g++
    library
    cp "$root"/examples/cpp/* .
    line=$(sed -n 's/^ \* Build: //p' simulation.cpp)
    [ "$line" = 'c++ -std=c++17 -O2 simulation.cpp -I../.. -o simulation -pthread' ] || fail "its build line is $line"
    sed -i.all '/^#define DCP_IMPLEMENTATION/d' simulation.cpp
    # shellcheck disable=SC2086
    quiet g++ -std=c++17 $strict simulation.cpp dcp.o -I"$root" -o simulation -pthread
    for last in 30 60; do
        ./simulation >out || fail "it fails: $(cat out)"
        tail -n 1 out | grep -q "^proved: at step $last " || fail "its last line is $(tail -n 1 out)"
    done
    grep -q '^resumed at step 30 with 20 particles$' out || fail "it did not resume: $(head -n 1 out)"
    [ -d checkpoints/simulation ] || fail "it writes elsewhere"
}
t cxx_example cxx_example
finish
