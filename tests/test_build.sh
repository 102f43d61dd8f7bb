#!/bin/sh
# test_build.sh - dcp.h as compilers and linkers see it, and the rules that its text and this repository keep.
#
#     sh tests/test_build.sh [text]                     only tests whose name contains the text (or DCP_TEST_FILTER)
#
# Compilers that are missing are a skip, or a failure if DCP_REQUIRE has the word clang, cxx or valgrind. Prints `ok
# name`, `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if any failed.

cd "$(dirname "$0")/.." || exit 1
CC=${CC:-cc}
. tests/harness.sh

# ---- sources ---------------------------------------------------------------------------------------------------------
# source FILE LINE...
source_file() { file=$1 && shift && printf '%s\n' "$@" >"$work/$file"; }
main='int main(void) { uint8_t digest[32]; dcp_sha256("abc", 3, digest); return digest[0] == 0xba ? 0 : 1; }'
other='int other(void); int other(void) { uint8_t digest[32]; dcp_sha256("", 0, digest); return digest[0] == 0xe3; }'
calls_other='int main(void) { uint8_t digest[32]; dcp_sha256("abc", 3, digest);
    return digest[0] == 0xba && other() ? 0 : 1; }'
source_file implementation.c '#define DCP_IMPLEMENTATION' '#include "dcp.h"' "$main"
source_file declarations.c '#include "dcp.h"' '#include "dcp.h"' 'int main(void) { return DCP_OK; }'
source_file unit_a.c '#define DCP_IMPLEMENTATION' '#include "dcp.h"' '#ifdef __cplusplus' 'extern "C"' '#endif' \
    'int other(void);' "$calls_other"
source_file unit_b.c '#include "dcp.h"' '#ifdef __cplusplus' 'extern "C"' '#endif' "$other"
source_file static_a.c '#define DCP_STATIC' '#define DCP_IMPLEMENTATION' '#include "dcp.h"' 'int other(void);' \
    "$calls_other"
source_file static_b.c '#define DCP_STATIC' '#define DCP_IMPLEMENTATION' '#include "dcp.h"' "$other"
source_file plain_first.c '#include "dcp.h"' '#define DCP_IMPLEMENTATION' '#include "dcp.h"' '#include "dcp.h"' "$main"
source_file plain_after.c '#define DCP_IMPLEMENTATION' '#include "dcp.h"' '#undef DCP_IMPLEMENTATION' \
    '#include "dcp.h"' "$main"
source_file late.c '#include <stdio.h>' '#define DCP_IMPLEMENTATION' '#include "dcp.h"' "$main"
source_file types_only.c '#define DCP_NO_LINK_CHECK 1' '#include "dcp.h"' \
    'int main(void) { dcp_error err = DCP_ZERO; return err.status; }'
source_file plugin.c '#define DCP_IMPLEMENTATION' '#include "dcp.h"' \
    'const char *PLUGIN(void); const char *PLUGIN(void) { return dcp_version(); }'
source_file plugins.c '#include <stdio.h>' 'const char *old_copy(void); const char *new_copy(void);' \
    'int main(void) { printf("%s %s\n", old_copy(), new_copy()); return 0; }'
source_file malloc_only.c '#include <stdlib.h>' '#define DCP_MALLOC(size) malloc(size)' '#define DCP_IMPLEMENTATION' \
    '#include "dcp.h"' "$main"

# ---- compilers, languages, warnings ----------------------------------------------------------------------------------
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wvla -Werror'
quiet() {
    "$@" >"$work/log" 2>&1 && [ ! -s "$work/log" ] ||
        fail "$* says: $(grep -m 3 -E 'error|warning|undefined' "$work/log" || head -n 3 "$work/log")"
}
need_compiler() {
    case $1 in
    clang*) need "$1" clang clang ;;
    g++) need "$1" cxx g++ ;;
    *) need "$1" gcc gcc ;;
    esac
}
# silent COMPILER LANGUAGE STANDARD: the implementation and the declarations alone are read without a word
silent() {
    need_compiler "$1"
    # shellcheck disable=SC2086
    for file in implementation.c declarations.c; do
        quiet "$1" -x "$2" "-std=$3" $warnings -fsyntax-only -I"$root" $file
    done
}
# compile COMPILER LANGUAGE STANDARD FLAGS...: what optimizers warn of too, and the program runs; the declarations as
# well
compile() {
    compiler=$1 language=$2 standard=$3
    shift 3
    need_compiler "$compiler"
    # shellcheck disable=SC2086
    {
        quiet "$compiler" -x "$language" "-std=$standard" $warnings "$@" -I"$root" implementation.c -o implementation \
            -pthread
        quiet "$compiler" -x "$language" "-std=$standard" $warnings "$@" -I"$root" -c declarations.c -o declarations.o
    }
    ./implementation || fail "the program fails"
}
for compiler in gcc clang; do
    for standard in c99 ${WHOLE:+c11} c17; do t "${compiler}_$standard" silent $compiler c $standard; done
done
# Each combination of the switches is read without a word.
combinations() {
    for m in '' -DDCP_NO_MANIFEST=1; do for r in '' -DDCP_NO_RANKS=1; do
        for t in '' -DDCP_NO_THREADS=1; do for s in '' -DDCP_NO_SIMD=1; do echo "$m $r $t $s"; done; done
    done; done
}
switches_without_warnings() {
    need_compiler "$1"
    combinations >combinations
    while read -r flags; do
        # shellcheck disable=SC2086
        quiet "$1" -std=c99 $warnings $flags -fsyntax-only -I"$root" implementation.c
    done <combinations
    # shellcheck disable=SC2086
    quiet "$1" -x c++ -std=c++11 $warnings -DDCP_NO_MANIFEST=1 -DDCP_NO_RANKS=1 -fsyntax-only -I"$root" implementation.c
    # shellcheck disable=SC2086
    quiet "$1" -std=c99 $warnings -DDCP_NO_MANIFEST=1 -DDCP_NO_RANKS=1 -fsyntax-only -I"$root" declarations.c
}
# switches_work SWITCH,SWITCH
switches_work() {
    flags=$(echo "-D$1" | sed 's/,/ -D/g')
    # shellcheck disable=SC2086
    quiet "$quick" -std=c99 -Wall -Wextra -Werror -DDCP_STATIC $flags -I"$root" "$root/tests/test_switches.c" \
        -o switches_work -lm -pthread
    (cd "$root" && DCP_TEST_FILTER='' "$work/switches_work") >out || fail "$(grep -m 1 FAILED out)"
    # shellcheck disable=SC2086
    quiet "$quick" -std=c99 $flags -DDCP_IMPLEMENTATION -I"$root" -x c -c "$root/dcp.h" -o switched.o
    names=$(nm switched.o | grep ' U dcp')
    [ -z "$names" ] || fail "called, but left out: $names"
}
[ -z "${WHOLE:-}" ] || t switches_gcc switches_without_warnings gcc
t switches_clang switches_without_warnings clang
# What an optimizer warns of besides, in all of dcp.h.
optimized() {
    object optimized.o
    [ ! -s "$root/build/dcp.o.log" ] || fail "$(grep -m 3 -E 'error|warning' "$root/build/dcp.o.log")"
}
t optimized_without_warnings optimized
for compiler in g++ clang++; do
    for standard in c++11 c++17; do t "${compiler}_$standard" silent $compiler c++ $standard; done
done
if [ -n "${WHOLE:-}" ]; then
    t gcc_O2 compile gcc c c99 -O2
    t gcc_O3_static compile gcc c c99 -O3 -DDCP_STATIC
    t g++_O3 compile g++ c++ c++11 -O3
    t clang_O3 compile clang c c11 -O3
    t g++_O0 compile g++ c++ c++17 -O0
    t gcc_O3_native compile gcc c c11 -O3 -march=native
    t clang_O1 compile clang c c17 -O1
    t clang++_O2 compile clang++ c++ c++11 -O2
fi

# All that clang 14 can warn of (other versions have other lists), but for: padding and casts from const, which are no
# mistakes here; comparing doubles with 0, which is meant; formats passed on by our own checked functions; enums with a
# default; what clang only guesses to be uninitialised.
everything() {
    need clang clang clang
    clang --version | grep -q 'version 14\.' || skip "the list of warnings is made for clang 14"
    quiet clang -std=c99 -fsyntax-only -Werror -Weverything -Wno-padded -Wno-cast-qual -Wno-float-equal \
        -Wno-format-nonliteral -Wno-switch-enum \
        -Wno-conditional-uninitialized -Wno-declaration-after-statement -I"$root" implementation.c
}
t clang_everything everything

# Where no optimizer is asked for, by clang if it is there: a third of the time.
quick=$CC
if [ "$CC" = cc ] && have clang; then quick=clang; fi

for names in DCP_NO_MANIFEST=1 DCP_NO_RANKS=1 DCP_NO_MANIFEST=1,DCP_NO_RANKS=1 \
    DCP_NO_MANIFEST=1,DCP_NO_RANKS=1,DCP_NO_THREADS=1,DCP_NO_SIMD=1; do
    t "works_with_$names" switches_work $names
done

# The examples of 0.1, as programs were written for it: with DCP_OLD_NAMES they work as they did.
old_names() {
    quiet "$quick" -std=c11 -Wall -Werror -DDCP_OLD_NAMES=1 -I"$root" "$root/tests/old_names/$1.c" -o old -lm -pthread
    mkdir -p "old_$1.d"
    ./old "old_$1.d" >out 2>&1 || fail "exit status $?: $(tail -n 3 out)"
}
for path in tests/old_names/*.c; do
    name=${path##*/}
    t "old_names_${name%.c}" old_names "${name%.c}"
done

# Our own programs, as strictly as a user's build may be; the suites, the examples and those for MPI are watched where
# they are built.
programs_without_warnings() {
    for program in "$root"/tests/[!tmc]*.c "$root"/tests/make*.c; do
        case $program in */bench_gpu.c) continue ;; esac      # test_cuda.sh does, with what it needs
        quiet "$quick" -std=c99 -fsyntax-only -Wall -Wextra -Werror -I"$root" "$program"
    done
}
t programs_without_warnings programs_without_warnings

# dcptool as strictly as the library; dcp.c is the library, and watched above.
tool_without_warnings() {
    for command in 'gcc -std=c99' 'clang -std=c11' 'x86_64-w64-mingw32-gcc -std=c99' ${WHOLE:+'gcc -std=c11'}; do
        have "${command%% *}" || continue
        for source in "$root"/examples/dcptool/*.c; do
            case $source in */dcp.c) continue ;; esac
            # shellcheck disable=SC2086
            quiet $command -fsyntax-only $warnings "$source"
        done
    done
}
t tool_without_warnings tool_without_warnings

# ---- linking ---------------------------------------------------------------------------------------------------------
# The implementation in a unit of C, compiled once for the tests that look at it.
unit_a() { [ -f unit_a.o ] || quiet "$quick" -O0 -fPIC -I"$root" -c unit_a.c -o unit_a.o; }

two_units() {
    unit_a
    quiet "$CC" -I"$root" unit_a.o unit_b.c -o two_units -pthread
    ./two_units || fail "the program fails"
}
t two_units two_units

c_unit_and_cxx_unit() {
    need g++ cxx g++
    unit_a
    quiet g++ -std=c++11 -I"$root" -x c++ -c unit_b.c -o unit_b.o
    quiet g++ unit_a.o unit_b.o -o mixed -pthread
    ./mixed || fail "the program fails"
}
t c_unit_and_cxx_unit c_unit_and_cxx_unit

static_copies() {
    quiet "$quick" -std=c99 -O0 -Wall -Wextra -Werror -I"$root" static_a.c static_b.c -o static_copies -pthread
    ./static_copies || fail "the program fails"
    have nm || skip "nm is missing; install binutils"
    names=$(nm -g --defined-only static_copies | grep ' dcp')
    [ -z "$names" ] || fail "DCP_STATIC, and yet external: $names"
}
t static_copies static_copies

# ---- two versions ----------------------------------------------------------------------------------------------------
version=$(sed -n 's/^#define DCP_VERSION "\([^"]*\)".*/\1/p' dcp.h)
number=$(sed -n 's/^#define DCP_VERSION_NUMBER \([0-9]*\).*/\1/p' dcp.h)
# A header of another version, in the directory `other`.
other_version() {
    mkdir -p other
    sed -e 's/^#define DCP_VERSION "[^"]*"/#define DCP_VERSION "99.0.0"/' \
        -e 's/^#define DCP_VERSION_NUMBER [0-9]*/#define DCP_VERSION_NUMBER 990000/' \
        "$root/dcp.h" >other/dcp.h
    [ "$(grep -c -e 'DCP_VERSION "99.0.0"' -e 'DCP_VERSION_NUMBER 990000' other/dcp.h)" -eq 2 ] ||
        fail "the version is written otherwise now"
}
# mixed LANGUAGE COMMAND...: an object of the other version does not link with our implementation, and the linker names
# what it lacks
mixed() {
    language=$1
    shift
    quiet "$@" -Wall -Wextra -Iother -x "$language" -c unit_b.c -o other.o
    if "$@" other.o unit_a.o -o versions -Wl,--gc-sections -pthread >log 2>&1; then
        fail "$*: a unit of another version links"
    fi
    grep -q 'dcp_abi_990000' log || fail "$*: no dcp_abi_990000 in $(head -n 3 log)"
}
# Whether it is optimized or not, in C and in C++, though what is not used goes, though the file calls nothing; the same
# version links.
versions_do_not_mix() {
    other_version
    unit_a
    for optimize in -O0 '-O2 -ffunction-sections -fdata-sections'; do
        for compiler in gcc clang; do
            # shellcheck disable=SC2086
            if have $compiler; then mixed c $compiler $optimize; fi
        done
        # shellcheck disable=SC2086
        if have g++; then mixed c++ g++ -std=c++11 $optimize; fi
    done
    printf '%s\n' '#include "dcp.h"' 'int main(void) { return 0; }' >calls_nothing.c
    for command in "$CC -O2" 'clang -O0' tcc 'x86_64-w64-mingw32-gcc -O1'; do
        have "${command%% *}" || continue
        # shellcheck disable=SC2086
        if $command -I"$root" calls_nothing.c -o alone >log 2>&1; then
            fail "$command: links without the implementation"
        fi
        grep -q "dcp_abi_$number" log || fail "$command: no dcp_abi_$number in $(head -n 3 log)"
        # shellcheck disable=SC2086
        quiet $command -I"$root" types_only.c -o alone
    done
    quiet "$CC" -I"$root" -Dmain=other calls_nothing.c unit_a.o -o alone -pthread
}
t versions_do_not_mix versions_do_not_mix

# Two shared libraries with a copy each in one process: each calls its own, and shows nothing of it. DCPDEF makes a copy
# that others can use.
embedded_copies_are_hidden() {
    case $(uname -s) in Linux | *BSD) ;; *) skip "shared libraries are made otherwise here" ;; esac
    have nm || skip "nm is missing; install binutils"
    other_version
    unit_a
    printf '%s\n' '#include "dcp.h"' \
        'const char *old_copy(void); const char *old_copy(void) { return dcp_version(); }' \
        'int other(void); int other(void) { return 0; }' >old_copy.c
    quiet "$quick" -O0 -fPIC -shared -I"$root" unit_a.o old_copy.c -o libold.so -pthread
    quiet "$quick" -O0 -fPIC -shared -Iother -DPLUGIN=new_copy plugin.c -o libnew.so -pthread
    names=$(nm -D --defined-only libold.so | grep ' dcp')
    [ -z "$names" ] || fail "other libraries see $names"
    quiet "$CC" plugins.c -o plugins -L. -lold -lnew -Wl,-rpath,"$work"
    [ "$(./plugins)" = "$version 99.0.0" ] ||
        fail "the copies are of versions $version and 99.0.0, and say $(./plugins)"
    quiet "$quick" -O0 -fPIC -shared '-DDCPDEF=extern' -I"$root" -DPLUGIN=shared plugin.c -o libshared.so -pthread
    quiet "$CC" '-DDCPDEF=extern' -I"$root" -Dother=main unit_b.c -o shared -L. -lshared -Wl,-rpath,"$work"
    ./shared
    [ $? -eq 1 ] || fail "a program cannot use the shared library's copy"
}
t embedded_copies_are_hidden embedded_copies_are_hidden

# The declarations include <stdint.h>, so the feature macros come too late after them, unless the compiler's command
# line has them.
plain_include_first() {
    quiet "$quick" -O0 -DDCP_STATIC -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I"$root" plain_first.c -o plain_first -pthread
    ./plain_first || fail "the program fails"
    quiet "$quick" -O0 -DDCP_STATIC -I"$root" plain_after.c -o plain_after -pthread
    ./plain_after || fail "the program fails"
}
t plain_include_first plain_include_first

# refuses FILE TEXT [COMMAND...]: the first error is an #error that has the text
refuses() {
    file=$1 text=$2
    shift 2
    [ $# -gt 0 ] || set -- "$CC" -std=c99
    if "$@" -I"$root" -c "$file" -o refused.o >log 2>&1; then fail "$file compiles"; fi
    grep -m 1 -e ' error: ' -e ' warning: ' log | grep -q -- "$text" ||
        fail "$*: the first is not '$text' but $(grep -m 1 -e ' error' -e ' warning' log)"
}
refuses_on_musl() {
    need musl-gcc musl musl-tools
    for standard in c99 c11; do
        refuses late.c 'error.*include dcp.h first.*-D_GNU_SOURCE' musl-gcc "-std=$standard"
    done
    quiet musl-gcc -std=c99 -D_GNU_SOURCE -fsyntax-only -I"$root" late.c
}
# Only the implementation needs C99: other files may be older.
refuses_c89() {
    for compiler in gcc clang; do
        have $compiler || continue
        for standard in c89 iso9899:199409; do
            refuses implementation.c 'error.*dcp.h needs C99.*-std=c99' $compiler "-std=$standard"
            quiet $compiler "-std=$standard" -Wall -Wextra -fsyntax-only -I"$root" declarations.c
        done
        quiet $compiler -std=gnu89 -fsyntax-only -I"$root" implementation.c
    done
}
t late_include_names_the_fix refuses late.c '#error.*-D_GNU_SOURCE'
t plain_include_first_names_the_fix refuses plain_first.c '#error.*-D_GNU_SOURCE'
t late_include_on_musl_names_the_fix refuses_on_musl
t c89_names_the_fix refuses_c89
t malloc_alone_is_refused refuses malloc_only.c '#error.*DCP_REALLOC' "$CC" -std=c99 -D_GNU_SOURCE \
    -D_FILE_OFFSET_BITS=64

# External names of a program that holds the implementation, and all names of its functions.
external_names() {
    have nm || skip "nm is missing; install binutils"
    unit_a
    names=$(nm -g --defined-only unit_a.o | awk '{ print $NF }' | grep -v -e '^dcp_' -e '^main$')
    [ -z "$names" ] || fail "external: $names"
    # Names with a dot are variables inside functions, those with two underscores the compiler's own headers'.
    names=$(nm --defined-only unit_a.o | awk '$2 ~ /[A-Za-z]/ { print $NF }' |
        grep -v -e '^dcpi\{0,1\}_' -e '^main$' -e '\.' -e '^__' -e '\$')
    [ -z "$names" ] || fail "without the prefix dcpi_: $names"
}
t external_names external_names

needs_only_libc() {
    have readelf || skip "readelf is missing; install binutils"
    unit_a
    quiet "$CC" -I"$root" unit_a.o unit_b.c -o needs -pthread
    libraries=$(readelf -d needs 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -v -e '^libc\.' -e '^libpthread\.' -e '^ld-')
    [ -z "$libraries" ] || fail "needs $libraries"
}
t needs_only_libc needs_only_libc

# Valgrind sees what is read or written without having been set, also by the kernel: every byte of a checkpoint is one
# that somebody put there.
under_valgrind() {
    need valgrind valgrind valgrind
    object optimized.o                                  # it would take twenty times as long otherwise
    grep -v '^#define DCP_IMPLEMENTATION' "$root/$1" >checked.c
    quiet "$CC" -O1 -g -I"$root" checked.c optimized.o -o checked -lm -pthread
    mkdir checked.d
    valgrind -q --error-exitcode=9 --leak-check=full ./checked checked.d >out 2>log || fail "exit status $?: $(cat log)"
    rm -rf checked.d
}
t valgrind_samples under_valgrind tests/python_samples.c
[ -z "${WHOLE:-}" ] || t valgrind_slices under_valgrind examples/slices.c

# ---- the table of requirements in tests/README.md --------------------------------------------------------------------
# Each test that it names is in the file that it names: "`test_x.c`: `one`, `two`; `test_y.c`: `three`".
requirements() {
    awk '/^\|/ { n = split($0, part, "`"); file = ""
        for (i = 2; i <= n; i += 2)
            if (part[i] ~ /^test_.*\.(c|sh)$/) file = part[i]; else if (file) print file, part[i] }' \
        "$root/tests/README.md" >named
    [ "$(wc -l <named)" -gt 50 ] || fail "only $(wc -l <named) tests are named"
    while read -r file name; do
        case $file in
        *.c) grep -q "^TEST($name)" "$root/tests/$file" ;;
        *)
            grep -q -e "^ *[tm] $name " -e "^ *m ${name#finds_} " -e "^ *t \${[a-z]*}_$name " -e "^$name() {" \
                "$root/tests/$file"
            ;;
        esac || fail "tests/README.md names $name, which is not in $file"
    done <named
}
t requirements_have_their_tests requirements

# A test that its suite never runs finds nothing: after its definition each is named once more, by RUN(name), another
# macro, or a table.
every_test_is_run() {
    for path in "$root"/tests/test_*.c; do
        awk '{ line = $0; sub(/\/\*.*/, "", line) }
            match(line, /^TEST\([A-Za-z0-9_]+\)/) { defined[substr(line, 6, RLENGTH - 6)] = FNR; next }
            { while (match(line, /[A-Za-z_][A-Za-z0-9_]*/)) {
                named[substr(line, RSTART, RLENGTH)] = FNR
                line = substr(line, RSTART + RLENGTH) } }
            END { for (name in defined) { count++; if (!(named[name] > defined[name])) print name }
                if (!count && !("test_run" in named)) print "no TEST at all" }' "$path" >unused
        [ ! -s unused ] || fail "${path##*/} does not run $(tr '\n' ' ' <unused)"
    done
}
t every_test_is_run every_test_is_run

# ---- the text of the headers -----------------------------------------------------------------------------------------
# none FILE AWK-CONDITION WHAT: no line of the file for which the condition holds
none() {
    found=$(awk "$2"' { printf "line %d, ", FNR; if (++n == 8) exit }' "$root/$1")
    [ -z "$found" ] || fail "$1 has $3: ${found%, }"
}
# Every token of the contents has its banner, in the same order, and every banner stands in the contents.
contents() {
    awk '/^ \* >>contents/ { on = 1; next } /^ \* >>/ { on = 0 }
        on { while (match($0, />>[a-z0-9_]+/)) {
            print substr($0, RSTART, RLENGTH)
            $0 = substr($0, RSTART + RLENGTH) } }' "$root/$1" >listed
    sed -n 's/^ \* \(>>[a-z0-9_]*\).*/\1/p' "$root/$1" >banners
    [ -s listed ] || fail "no contents"
    cmp -s listed banners || fail "contents and banners differ: $(diff listed banners | grep '^[<>]')"
    unknown=$(grep -o '>>[a-z][a-z0-9_]*' "$root/$1" | sort -u | grep -vxF -f banners)
    [ -z "$unknown" ] || fail "no such chapter: $unknown"
}
# Functions, types and macros that begin in the first column. A macro of the system may be supplied where it is missing:
# right after the line that asks for it.
prefixes() {
    names=$(sed -n -e 's/^static [^=;(]*[ *]\([A-Za-z_0-9]*\)(.*/\1/p' \
        -e 's/^DCPI_INLINE [^=;(]*[ *]\([A-Za-z_0-9]*\)(.*/\1/p' \
        -e 's/^ *struct \([A-Za-z_0-9]*\) {.*/\1/p' -e 's/^ *enum \([A-Za-z_0-9]*\) {.*/\1/p' \
        -e 's/^ *union \([A-Za-z_0-9]*\) {.*/\1/p' -e 's/^} \([A-Za-z_0-9]*\);.*/\1/p' "$root/$1" |
        grep -v -e '^dcpi_' -e '^dcp_' -e '^DCPI_' -e '^__attribute__$' -e '^$' | sort -u)
    [ -z "$names" ] || fail "without the prefix dcpi_: $names"
    # Only with DCP_OLD_NAMES a macro has the name of a function.
    names=$(awk '/^#if defined\(DCP_OLD_NAMES\)/ { old = 1 }
        /^ *# *define/ { name = $0; sub(/^ *# *define */, "", name); sub(/[^A-Za-z_0-9].*/, "", name)
            if (name !~ /^(DCP_|DCPI_|DCPDEF$|_[A-Z_]*SOURCE$|_FILE_OFFSET_BITS$)/ && !(old && name ~ /^dcp_/) &&
                before !~ "^ *# *if.*def.*" name) print name }
        { before = $0 }' "$root/$1" | sort -u)
    [ -z "$names" ] || fail "macros without the prefix DCPI_: $names"
}
# Each chapter rests on earlier ones: it neither calls, names nor declares a function that a later one defines. Read
# twice: the first time says which chapter is a function's home.
cat >"$work/late.awk" <<'END'
FNR == 1 { pass++; chapter = inside = comment = 0; head = "" }
/^#if defined\(DCP_IMPLEMENTATION\) &&/ { inside = 1 }
/^ \* >>/ { title[++chapter] = $2 }
!inside { next }
{
    line = $0
    gsub(/\\./, "", line); gsub(/"[^"]*"/, "", line)
    if (comment && !sub(/^.*\*\//, "", line)) next
    gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
    comment = sub(/\/\*.*/, "", line)
}
pass == 1 {
    if (head != "" || line ~ /^(static|DCPI_INLINE|DCPDEF) .*dcpi?_[A-Za-z0-9_]*\(/) head = head line
    if (head !~ /[{;]/) next
    name = head; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
    if (head ~ /^[^;]*\{/ && head !~ /^[^(]*=/ && !(name in home)) home[name] = chapter
    head = ""
}
pass == 2 {
    for (; match(line, /dcpi?_[A-Za-z0-9_]+/); line = substr(line, RSTART + RLENGTH)) {
        name = substr(line, RSTART, RLENGTH)
        if (name in home && home[name] > chapter) print name " of " title[home[name]] " is used in " title[chapter]
    }
}
END
chapters_rest_on_earlier_ones() {
    late=$(awk -f "$work/late.awk" "$root/$1" "$root/$1" | sort -u)
    [ -z "$late" ] || fail "$late"
    # and it would see one
    awk '/^ \* >>core /{ core = 1 } { print } core && /^ \* =.*\*\/$/ { core = 0
            print "static void dcpi_early(void) { (void)dcp_json_free; }" }' "$root/$1" >late.h
    [ "$(awk -f "$work/late.awk" late.h late.h)" = "dcp_json_free of >>json is used in >>core" ] ||
        fail "it does not see what is used too early"
}
for header in dcp.h dcp_mpi.h dcp_cuda.h; do
    [ -f $header ] || continue
    t "ascii_$header" none $header '/[^ -~]/ && !/\t/' 'a character that is not ASCII'
    t "tabs_$header" none $header '/\t/' 'a tab'
    t "trailing_space_$header" none $header '/[ \t\r]$/' 'white space at the end'
    t "columns_$header" none $header 'length($0) > 120' 'more than 120 columns'
    t "prefixes_$header" prefixes $header
done
t contents_dcp.h contents dcp.h
# Each public function's comment ends with a list of the statuses that it can return; test.h checks it, and run.sh that
# each is returned.
statuses() {
    awk -v lines=1 -f "$root/tests/statuses.awk" "$root/dcp.h" "$root/dcp_mpi.h" "$root/dcp_cuda.h" >statuses 2>wrong ||
        fail "$(head -n 3 wrong)"
    [ "$(wc -l <statuses)" -gt 400 ] || fail "only $(wc -l <statuses) statuses are listed"
}
t statuses_are_listed statuses
t chapters_rest_on_earlier_ones chapters_rest_on_earlier_ones dcp.h

# ---- the repository --------------------------------------------------------------------------------------------------
# What git has or would take; without git, what is there.
files() {
    cd "$root" || exit 1
    { git ls-files --cached --others --exclude-standard 2>/dev/null ||
        find . -type f ! -path './.git/*' ! -path './build/*' | sed 's|^\./||'; } |
        while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}
top_level() {
    extra=$(files | cut -d/ -f1 | sort -u |
        grep -v -x -e 'dcp\.h' -e 'dcp_mpi\.h' -e 'dcp_cuda\.h' -e tests -e examples -e Makefile -e 'README\.md' \
            -e LICENSE -e '\..*')
    [ -z "$extra" ] || fail "more than there should be: $extra"
}
no_paths_of_one_machine() {
    found=$(files | grep -v '^tests/golden/' | while read -r file; do
        grep -n -I -H -E '/(tmp|home|root|work|farm|Users)/' "$root/$file" /dev/null
    done | sed "s|^$root/||" | cut -c1-120)
    [ -z "$found" ] || fail "$found"
}
clean_text() {
    # tests/old_names is as it was written for 0.1.
    found=$(files | grep -E '\.(c|h|cc|cpp|hpp|cu|f90|sh|py|awk|md)$|^Makefile$|^\.' | grep -v '^tests/old_names/' |
        while read -r file; do
        awk -v name="$file" '/[ \t\r]$/ { print name ":" FNR ": white space at the end" }
            /\t/ && name ~ /\.(c|h|sh|py)$/ { print name ":" FNR ": a tab" }
            length > 120 && !(/^\|/ && name ~ /\.md$/) { print name ":" FNR ": more than 120 columns" }' "$root/$file"
    done)
    [ -z "$found" ] || fail "$found"
}
# Without the commands that small systems lack the scripts say so, and stop.
missing_tools_are_named() {
    mkdir -p few
    for tool in sh awk grep sed mktemp sort dirname cat rm mkdir tail; do ln -sf "$(command -v $tool)" few; done
    for script in "$root"/tests/run.sh "$root"/tests/test_*.sh; do
        ! PATH=$work/few sh "$script" no_such_test >said 2>&1 || fail "$script goes on without cmp, diff and find"
        for tool in 'cmp (install diffutils)' 'diff (install diffutils)' 'find (install findutils)'; do
            grep -q "^FAILED tools: .* $tool" said || fail "$script does not name $tool: $(head -n 3 said)"
        done
        [ "$(tail -n 1 said)" = '0 passed, 1 failed, 0 skipped' ] || fail "$script has no last line"
    done
}
t missing_tools_are_named missing_tools_are_named
t top_level top_level
t no_paths_of_one_machine no_paths_of_one_machine
t clean_text clean_text

finish
