#!/bin/sh
# test_packaging.sh - make dist, make lib, make install, pkg-config and CMake: what programs use that do not copy dcp.h.
#
#     sh tests/test_packaging.sh [text]                 only tests whose name contains the text (or DCP_TEST_FILTER)
#
# Everything is built from the tarball that `make dist` makes, unpacked, not optimized. Words for DCP_REQUIRE: cmake,
# pkgconfig. Prints `ok name`, `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N skipped`.

cd "$(dirname "$0")/.." || exit 1
. tests/harness.sh
MAKE=${MAKE:-make}
if have clang; then CC=clang CXX=clang++; else CC=${CC:-cc} CXX=${CXX:-g++}; fi
export CC CXX
unset MAKEFLAGS MFLAGS MAKELEVEL
version=$(sed -n 's/^#define DCP_VERSION "\([^"]*\)".*/\1/p' dcp.h)
tree=$work/dcp-$version tarball=build/dcp-$version.tar.gz

quiet() {
    "$@" >"$work/log" 2>&1 || fail "$*: $(tail -n 4 "$work/log")"
}
is_elf() { case $(uname -s) in Linux | *BSD) ;; *) skip "shared libraries are made otherwise here" ;; esac; }
# from_dist: the unpacked tarball in $tree
from_dist() {
    [ ! -d "$tree" ] || return 0
    tar --version 2>/dev/null | grep -q GNU || skip "GNU tar is missing; install tar"
    quiet "$MAKE" -s -C "$root" dist
    quiet tar -xzf "$root/$tarball"
}
make_there() { quiet "$MAKE" -s -C "$tree" CFLAGS=-O0 "$@"; }
# installed: everything with its own place as PREFIX, $work/prefix
installed() {
    from_dist
    is_elf
    [ -f "$work/prefix/bin/dcptool" ] || make_there -j2 install PREFIX="$work/prefix"
}
# A program of two lines more than nothing: saves, and loads what it saved.
program() {
    cat >"$1" <<'END'
#include "dcp.h"
#include <stdio.h>
int main(void) {
    double saved = 42, loaded = 0;
    dcp_tensor out = dcp_scalar("x", DCP_FP64, &saved), in = dcp_scalar("x", DCP_FP64, &loaded);
    dcp_save_desc save = DCP_ZERO;
    dcp_load_desc load = DCP_ZERO;
    dcp_error err;
    save.path = load.path = "packaged"; save.tensors = &out; load.tensors = &in; save.tensor_count = 1;
    load.tensor_count = 1; save.overwrite = 1;
    if (dcp_save(&save, &err) || dcp_load(&load, &err)) return puts(err.message), 1;
    printf("%g with %s\n", loaded, dcp_version());
    return 0;
}
END
}
says() { [ "$1" = "42 with $version" ] || fail "the program says '$1'"; }

# The tarball of the unpacked tarball is the same, without git, by a user with another umask, zone and language.
dist_is_reproducible() {
    from_dist
    (umask 077 && TZ=Asia/Kolkata && LC_ALL=C.UTF-8 && export TZ LC_ALL && make_there dist) || exit 1
    cmp "$root/$tarball" "$tree/$tarball" || fail "not the same bytes"
    for file in dcp.h Makefile README.md LICENSE tests/run.sh .ci/run; do
        cmp "$root/$file" "$tree/$file" || fail "$file is another one"
    done
    [ -x "$tree/.ci/run" ] || fail ".ci/run cannot be run"
}

library_exports_what_is_declared() {
    installed
    have nm || skip "nm is missing; install binutils"
    nm -D --defined-only "$work/prefix/lib/libdcp.so" | awk '{ print $3 }' | sort >exported
    { sed -n 's/^DCPDEF [^(]*[ *]\(dcp_[a-z0-9_]*\)(.*/\1/p' "$root/dcp.h"
        echo "dcp_abi_$(sed -n 's/^#define DCP_VERSION_NUMBER \([0-9]*\).*/\1/p' "$root/dcp.h")"; } | sort -u >declared
    [ "$(wc -l <declared)" -gt 100 ] || fail "found $(wc -l <declared) declarations only"
    difference=$(comm -3 exported declared)
    [ -z "$difference" ] || fail "exported or declared, not both: $difference"
}
library_has_its_version() {
    installed
    have readelf || skip "readelf is missing; install binutils"
    readelf -d "$work/prefix/lib/libdcp.so" | grep -q "soname: \[libdcp.so.$version\]" || fail "no soname of $version"
    [ "$(readlink "$work/prefix/lib/libdcp.so")" = "libdcp.so.$version" ] || fail "libdcp.so is no link to it"
}
# A shared library that embeds libdcp.a shows nothing of it.
static_library_stays_hidden() {
    installed
    have nm || skip "nm is missing; install binutils"
    echo '#include "dcp.h"
        const char *plug(void); const char *plug(void) { return dcp_version(); }' >plug.c
    quiet "$CC" -fPIC -shared -I"$work/prefix/include" plug.c "$work/prefix/lib/libdcp.a" -o plug.so -pthread
    shown=$(nm -D --defined-only plug.so | grep ' dcp')
    [ -z "$shown" ] || fail "it shows $shown"
}
# With DESTDIR everything goes below it, and nothing names it.
destdir_is_a_stage() {
    installed
    make_there install DESTDIR="$work/stage" PREFIX=/opt/dcp
    (cd stage && find . -type f -o -type l) | sort >list
    cat >expected <<END
./opt/dcp/bin/dcptool
./opt/dcp/include/dcp.h
./opt/dcp/include/dcp_cuda.h
./opt/dcp/include/dcp_mpi.h
./opt/dcp/lib/cmake/dcp/dcpConfig.cmake
./opt/dcp/lib/cmake/dcp/dcpConfigVersion.cmake
./opt/dcp/lib/libdcp.a
./opt/dcp/lib/libdcp.so
./opt/dcp/lib/libdcp.so.$version
./opt/dcp/lib/pkgconfig/dcp.pc
./opt/dcp/share/bash-completion/completions/dcptool
./opt/dcp/share/man/man1/dcptool.1
END
    difference=$(comm -3 list expected)
    [ -z "$difference" ] || fail "there, or expected, not both: $difference"
    ! grep -rl -e "$work" -e '@[a-z]*@' stage/opt/dcp/lib/cmake stage/opt/dcp/lib/pkgconfig || fail "names the stage"
    grep -q '^prefix=/opt/dcp$' stage/opt/dcp/lib/pkgconfig/dcp.pc || fail "dcp.pc is for another place"
    head -n 3 stage/opt/dcp/share/man/man1/dcptool.1 | grep -q '^\.TH' || fail "no man page"
    [ "$(stage/opt/dcp/bin/dcptool --version | grep -c "$version")" = 1 ] || fail "dcptool is not of $version"
}
pkg_config_builds_a_program() {
    installed
    need pkg-config pkgconfig pkg-config
    PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
    export PKG_CONFIG_PATH
    [ "$(pkg-config --modversion dcp)" = "$version" ] || fail "dcp.pc is not of $version"
    program two.c
    # shellcheck disable=SC2046
    quiet "$CC" two.c $(pkg-config --cflags --libs dcp) -o two
    says "$(LD_LIBRARY_PATH=$work/prefix/lib ./two)"
    ! ./two >/dev/null 2>&1 || fail "it does not use the shared library"
    # shellcheck disable=SC2046
    quiet "$CC" two.c $(pkg-config --cflags dcp) "$work/prefix/lib/libdcp.a" -pthread -o two_static
    says "$(./two_static)"
}

# cmake_project DIRECTORY: with what README.md says, piped in
cmake_project() {
    mkdir -p "$1"
    program "$1/game.c"
    { printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(game C)' 'add_executable(game game.c)'; cat; } \
        >"$1/CMakeLists.txt"
}
# cmake_block N: the n-th block of README.md for CMake
cmake_block() {
    awk -v n="$1" '/^```cmake$/ { block++; inside = block == n; next } /^```$/ { inside = 0 } inside' "$root/README.md"
}
cmake_builds() {
    quiet cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$work/prefix"
    ! grep -i warning "$work/log" || fail "cmake warns: $(grep -i -A3 warning "$work/log")"
    quiet cmake --build "$1/build"
    says "$("$1/build/game")"
}
cmake_fetches() {
    need cmake cmake cmake
    from_dist
    cmake_block 1 | cmake_project fetched
    [ "$(wc -l <fetched/CMakeLists.txt)" -ge 6 ] || fail "README.md has no block for CMake"
    ln -s "$tree" fetched/dcp
    cmake_builds fetched
}
cmake_finds_what_is_installed() {
    need cmake cmake cmake
    installed
    cmake_block 2 | cmake_project found
    grep -q find_package found/CMakeLists.txt || fail "README.md has no second block for CMake"
    cmake_builds found
}
# The header alone, with the implementation in a file of the program; in C++ too.
cmake_header_alone() {
    need cmake cmake cmake
    installed
    mkdir -p alone
    program alone/game.cpp
    printf '#define DCP_IMPLEMENTATION\n#include "dcp.h"\n' >alone/dcp.c
    printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(game C CXX)' \
        "find_package(dcp ${version%.*} REQUIRED)" 'add_executable(game game.cpp dcp.c)' \
        'target_link_libraries(game PRIVATE dcp::dcp Threads::Threads)' >alone/CMakeLists.txt
    cmake_builds alone
}
cmake_refuses_another_version() {
    need cmake cmake cmake
    installed
    for wanted in 0.1 99.0 "$version.1"; do
        mkdir -p "v$wanted"
        printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(game NONE)' \
            "find_package(dcp $wanted REQUIRED)" >"v$wanted/CMakeLists.txt"
        ! cmake -S "v$wanted" -B "v$wanted/build" -DCMAKE_PREFIX_PATH="$work/prefix" >log 2>&1 ||
            fail "$version passes for $wanted"
        grep -q 'considered but not accepted' log || fail "$wanted: $(tail -n 9 log)"
    done
}

t dist_is_reproducible dist_is_reproducible
t library_exports_what_is_declared library_exports_what_is_declared
t library_has_its_version library_has_its_version
t static_library_stays_hidden static_library_stays_hidden
t destdir_is_a_stage destdir_is_a_stage
t pkg_config_builds_a_program pkg_config_builds_a_program
t cmake_fetches cmake_fetches
t cmake_finds_what_is_installed cmake_finds_what_is_installed
t cmake_header_alone cmake_header_alone
t cmake_refuses_another_version cmake_refuses_another_version
finish
