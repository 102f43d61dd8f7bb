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

# ---- Fortran ---------------------------------------------------------------------------------------------------------
fortran() { gfortran -std=f2018 -O1 -Wall -Wextra -Wno-compare-reals -Wno-unused-parameter "$@"; }
# of_fortran [FLAGS]: dcp_fortran.c without the implementation, which is in dcp.o
of_fortran() {
    need gfortran fortran gfortran
    library
    sed 's/^#define DCP_IMPLEMENTATION/#define DCP_MPI_IMPLEMENTATION/' "$root/examples/fortran/dcp_fortran.c" >bridge.c
}
fortran_program() {
    of_fortran
    quiet cc -D_GNU_SOURCE -Wall -Wextra -I"$root" -c bridge.c -o bridge.o
    quiet fortran "$root/examples/fortran/dcp.f90" "$root/tests/languages.f90" bridge.o dcp.o -o languages -pthread
    rm -rf fortran && mkdir fortran
    (cd fortran && ../languages) >layouts || fail "$(cat layouts)"
}
fortran_types_and_pieces() { fortran_program; }
# Each member is where dcp.h has it, and as long; no struct has another size, and none lacks members at its end.
fortran_layouts_are_those_of_c() {
    fortran_program
    [ "$(wc -l <layouts)" -gt 90 ] || fail "$(wc -l <layouts) members only"
    {
        printf '#include "dcp.h"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) { int bad = 0;\n'
        awk '$2 == "." { printf "if (sizeof(%s) != %d) bad = printf(\"%s\\n\");\n", $1, $4, $1; next }
            { printf "if (offsetof(%s, %s) != %d || sizeof(((%s *)0)->%s) != %d) bad = printf(\"%s.%s\\n\");\n",
                $1, $2, $3, $1, $2, $4, $1, $2 }' layouts
        echo 'return bad != 0; }'
    } >layouts.c
    quiet cc -DDCP_NO_LINK_CHECK=1 -I"$root" layouts.c -o check_layouts
    why=$(./check_layouts) || fail "not as in dcp.h: $(echo "$why" | tr '\n' ' ')"
}
# What Fortran stores as a(3, 2) others see as [2, 3].
fortran_order_is_reversed() {
    fortran_program
    grep -A 9 '"a2"' fortran/ranks.metadata.json | tr -d ' \n' | grep -q '"shape":\[2,3\]' ||
        fail "$(grep -A 9 '"a2"' fortran/ranks.metadata.json)"
}
fortran_heat_on_other_ranks() {
    need mpif90 mpi libopenmpi-dev
    need mpirun mpi openmpi-bin
    of_fortran
    quiet mpicc -DDCP_MPI -D_GNU_SOURCE -I"$root" -c bridge.c -o mpi_bridge.o
    rm -rf heat && mkdir heat && cp "$root"/examples/fortran/*.f90 heat
    (cd heat && quiet mpif90 -O1 dcp.f90 heat.f90 ../mpi_bridge.o ../dcp.o -o heat -pthread) || exit 1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export OMPI_MCA_btl_base_warn_component_unused=0 UCX_LOG_LEVEL=error
    (cd heat && mpirun -n 4 ./heat && mpirun -n 3 ./heat) >out 2>&1 || fail "$(cat out)"
    for line in 'proved: step 100 is bit for bit that of a run that never stopped' \
        'resumed at step 100 on 3 ranks' 'proved: step 200 is bit for bit that of a run that never stopped'; do
        grep -qxF "$line" out || fail "no line '$line': $(cat out)"
    done
}
t fortran_types_and_pieces fortran_types_and_pieces
t fortran_layouts_are_those_of_c fortran_layouts_are_those_of_c
t fortran_order_is_reversed fortran_order_is_reversed
t fortran_heat_on_other_ranks fortran_heat_on_other_ranks
finish
