#!/bin/sh
# run.sh - what `make test` runs: finds out what this machine can test with, has make build and run it, and sums up.
#
#     make test                                         everything
#     make test SUITES="json kill" VARIANTS="plain"     some of it
#     make test DCP_TEST_FILTER=text                    only tests whose name contains the text

#
# A suite is tests/test_x.c or tests/test_x.sh; it prints `ok name`, `skipped name: why` or `FAILED name: why` for each
# test, and `N passed, N failed, N skipped` last. Each is a job of make's; its output is in
# build/result/<variant>/test_x.log. One that crashes, takes longer than the limit or prints no such last line counts as
# a failure.
#
# DCP_REQUIRE      words of the table below, and of the suites; what is missing for one of them is a failure, not a skip
# DCP_TEST_DATA    where the public test data is (default: ../shared/data)
# DCP_TEST_LIMIT   seconds that a suite may take (default 900); DCP_TEST_TIMEOUT: that one test may take (default 300:
#                  machines can be busy)
# JOBS             how many at a time (default: three more than there are processors: many suites wait more than they
#                  compute)

# ---- which suites run in which variant -------------------------------------------------------------------------------
# `all`, or names; `~x`: x runs there only in `make test-all`, or if SUITES and VARIANTS ask for it; `!x`: x runs there
# only in `make test`. The commands are in the Makefile. To keep the whole below eight minutes on two processors each
# suite runs plain, and elsewhere where that variant finds most for its time; `make test-all` runs the rest too. What
# takes long in emulators and under sanitizers repeats less there (test_times, test_is_slow, test_is_sanitized in
# test.h). `engine` is several suites as one program, which is built in the time of one.
table() {
    # a line that is indented goes on with the one before it
    awk '/^#/ { next } /^ / { line = line $0; next } { if (line) print line; line = $0 } END { print line }' <<'END'
# variant   word      Debian package              suites
plain       -         gcc                         all
asan        asan      libasan8
            platform json sha256 ~meta manifest yaml file_format !engine ~roundtrip ~slices ~buffers ~calls ~documents
            ~storage ~pool ~fuzz ~hostile ~ranks ~async ~faults ~coord ~directory ~kill ~rank_faults ~crash
            ~pool_faults ~golden ~model ~statuses ~lock ~resume ~convert ~tree ~repair
asan0       clang     clang+libclang-rt-14-dev    storage pool fuzz meta
tsan0       clang     clang+libclang-rt-14-dev    pool ranks
tsan        tsan      libtsan2
            ~ranks ~storage ~async ~coord ~pool ~roundtrip ~slices ~buffers ~calls ~documents ~faults ~rank_faults
            ~pool_faults ~golden ~model ~statuses ~lock ~resume ~convert ~tree
msan        msan      clang+libclang-rt-14-dev
            yaml ~file_format ~golden ~json ~meta ~manifest ~platform ~storage ~sha256 ~roundtrip ~slices ~buffers
            ~calls ~documents ~pool ~directory ~ranks ~async ~convert
m32         m32       gcc-12-multilib
            platform json sha256 meta manifest file_format storage pool ~roundtrip ~slices ~buffers ~calls ~documents
            ~yaml ~ranks ~directory ~coord ~async ~faults ~kill ~rank_faults ~crash ~pool_faults ~golden ~hostile ~fuzz
            ~lock ~convert
windows     windows   gcc-mingw-w64-x86-64+wine64
            platform storage pool ~roundtrip ~slices ~buffers ~calls ~documents ~json ~meta ~ranks ~sha256 ~file_format
            ~directory ~coord ~yaml ~manifest ~golden ~convert
s390x       cross     gcc-s390x-linux-gnu+libc6-dev-s390x-cross+qemu-user-static
            golden ~storage ~pool ~json ~meta ~file_format ~ranks ~sha256 ~yaml ~manifest ~fuzz ~convert
aarch64     cross     gcc-aarch64-linux-gnu+libc6-dev-arm64-cross+qemu-user-static
            storage ~sha256 ~file_format ~ranks ~pool ~golden ~convert
valgrind    valgrind  valgrind                    ~file_format ~meta ~pool ~async ~golden
clang       clang     clang
            ~storage ~platform ~json ~sha256 ~meta ~file_format ~roundtrip ~slices ~buffers ~calls ~documents ~directory
            ~faults ~ranks ~coord ~pool ~async ~crash ~golden ~fuzz ~lock ~convert
cxx         cxx       g++
            pool ~json ~storage ~platform ~sha256 ~meta ~file_format ~roundtrip ~slices ~buffers ~calls ~documents
            ~directory ~faults ~ranks ~coord ~async ~crash ~golden ~statuses ~lock ~convert
small       -         gcc statuses async ~storage ~roundtrip ~slices ~buffers ~calls ~documents ~sha256 ~pool ~golden
            ~resume ~convert
musl        musl      musl-tools
            storage ~platform ~json ~sha256 ~meta ~file_format ~roundtrip ~slices ~buffers ~calls ~documents ~directory
            ~faults ~ranks ~coord ~pool ~crash ~golden ~lock ~convert
tcc         tcc       tcc platform json storage ~sha256 ~directory ~yaml ~ranks ~meta ~pool golden ~convert
END
}

cd "$(dirname "$0")/.." || exit 1
. tests/tools.sh
root=$(pwd)
MAKE=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL        # of the make that called us; its variables come through the environment
LC_ALL=C
export LC_ALL
export DCP_TEST_LIMIT="${DCP_TEST_LIMIT:-900}" DCP_TEST_TIMEOUT="${DCP_TEST_TIMEOUT:-300}"
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

# ---- one suite in one variant: called by make ------------------------------------------------------------------------
export WINEPREFIX="$root/build/wine" WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=
of_wine() { PATH=$PATH:/usr/lib/wine command -v "$1" || echo "$1"; }      # Debian keeps its programs there
# What comes before a program's name to run it.
runner() {
    case $1 in
    valgrind) echo valgrind -q --error-exitcode=9 ;;
    s390x) echo qemu-s390x-static ;;
    aarch64) echo qemu-aarch64-static ;;
    windows) of_wine wine64 ;;
    sh) echo sh ;;
    esac
}
program() {
    case $1 in
    windows) echo "build/windows/$2.exe" ;;
    sh) echo "tests/$2.sh" ;;
    *) echo "build/$1/$2" ;;
    esac
}
# run_program VARIANT SUITE
run_program() {
    # The full counts are those of the plain variant; `make test-all` has them under sanitizers too. What takes ten
    # times as long in an emulator is done even less there.
    case $1${WHOLE:+-all} in
    plain* | sh* | asan*-all | tsan*-all | small-all) unset DCP_TEST_FEWER ;;
    *) export DCP_TEST_FEWER=1 ;;
    esac
    case $1 in valgrind | s390x | aarch64 | windows) export DCP_TEST_SLOW=1 ;; *) unset DCP_TEST_SLOW ;; esac
    if [ "$1" = windows ]; then export LC_ALL=C.UTF-8; fi               # wine keeps names in the locale's characters
    # The scripts compile much and compute little.
    if [ "$1" = sh ]; then CFLAGS="${CFLAGS:-} -O0"; fi
    # shellcheck disable=SC2046
    set -- $(runner "$1") "$(program "$1" "$2")"
    if command -v timeout >/dev/null 2>&1; then set -- timeout -k 10 "$DCP_TEST_LIMIT" "$@"; fi
    "$@" </dev/null
}
# A container may have next to no memory there.
has_room() { [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt 1000000 ] 2>/dev/null; }
# The same with a directory of its own for what it writes, in memory where it is not about disks.
run_apart() {
    apart=/dev/shm
    case $1/${2#test_} in
    sh/* | plain/storage | plain/platform | plain/pool | plain/kill | plain/disasters | \
        plain/roundtrip | plain/slices | plain/buffers | plain/calls | plain/documents) apart=${TMPDIR:-/tmp} ;;
    esac
    if [ "$apart" = /dev/shm ] && ! has_room; then apart=${TMPDIR:-/tmp}; fi
    { [ -w "$apart" ] && apart=$(mktemp -d "$apart/dcp_suite.XXXXXX"); } ||
        apart=$(mktemp -d "${TMPDIR:-/tmp}/dcp_suite.XXXXXX") || return
    chmod 755 "$apart"                                  # a test goes on as another user
    (TMPDIR=$apart && export TMPDIR && run_program "$@")
    status=$?
    rm -rf "$apart"
    return $status
}
# cpu_seconds FILE: sets cpu, the seconds of processor time that the children of this shell have had. In a pipe or $()
# they were another shell's.
cpu_seconds() {
    times >"$1"
    cpu=$(awk 'NR == 2 { for (i = 1; i < 3; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] }
        printf "%.1f", s }' "$1")
}

# count LOG STATUS: sets passed, failed, skipped, why; what the suite says of itself holds only if its exit status
# agrees.
count() {
    why=
    summary=$(tail -n 1 "$1" | tr -d '\r' |
        sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
    set -- "$1" "$2" $summary
    if [ $# -eq 5 ]; then
        passed=$3 failed=$4 skipped=$5
        if [ "$2" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1 why=", exit status $2"; fi
        return
    fi
    passed=$(grep -c '^ok ' "$1") failed=$(($(grep -c '^FAILED ' "$1") + 1)) skipped=$(grep -c '^skipped ' "$1")
    case $2 in
    124 | 137) why=", took more than $DCP_TEST_LIMIT s or was killed" ;;
    *) why=", ended without a summary, exit status $2" ;;
    esac
}
# report VARIANT SUITE: prints the line of a suite, and the log if something failed; leaves the counts for the sum
report() {
    result=build/result/$1/$2
    cpu_seconds "$result"
    echo "$1 $passed $failed $skipped $cpu" >"$result"
    verdict=ok
    [ "$failed" -eq 0 ] || verdict=FAILED
    printf '%-6s %-8s %-14s %4s passed, %s failed, %s skipped%s  (%s s, processor %s s with building)\n' \
        $verdict "$1" "${2#test_}" "$passed" "$failed" "$skipped" "$why" $(($(date +%s) - begun)) "$cpu"
    [ "$failed" -eq 0 ] || sed 's/^/    /' "$result.log"
}
# build VARIANT SUITE: what the compiler says goes into the log
build() {
    passed=0 failed=0 skipped=0 why= begun=$(date +%s)
    mkdir -p "build/result/$1"
    if [ "$1" = sh ]; then return; fi
    if "$MAKE" -s --no-print-directory "build/$1/$2" >"build/result/$1/$2.log" 2>&1; then
        if ! [ -s "build/$1/$2.log" ] || [ "$1" != plain ]; then return; fi
        failed=1 why=', the compiler warns'     # of our own programs, as strictly as a user's build may be
    else
        failed=1 why=', does not build'
    fi
    cat "build/$1/$2.log" >>"build/result/$1/$2.log"
    return 1
}
run_suite() {
    if build "$1" "$2"; then
        rm -f "build/result/$1/$2.statuses"
        DCP_TEST_STATUSES=$root/build/result/$1/$2.statuses
        export DCP_TEST_STATUSES
        run_apart "$1" "$2" >"build/result/$1/$2.log" 2>&1
        count "build/result/$1/$2.log" $?
    fi
    report "$1" "$2"
}
build_suite() {
    if build "$1" "$2"; then passed=1 why=', only built'; fi
    report "$1" "$2"
}
case ${1:-} in
run) run_suite "$2" "$3"; exit ;;
build) build_suite "$2" "$3"; exit ;;
esac

# ---- what there is ---------------------------------------------------------------------------------------------------
passed=0 failed=0 skipped=0 skips= jobs=
has_word() { case " $(echo "${DCP_REQUIRE:-}" | tr , ' ') " in *" $1 "*) ;; *) return 1 ;; esac; }
# selected LIST WORD: an empty list has all
selected() { [ -z "$1" ] || case " $1 " in *" $2 "*) ;; *) return 1 ;; esac; }
# missing VARIANT WORD WHY
missing() {
    if has_word "$2"; then
        failed=$((failed + 1))
        echo "FAILED $1: $3 (DCP_REQUIRE asks for $2)"
    else
        skipped=$((skipped + 1))
        skips="$skips    $1: $3
"
    fi
}
# Whether the variant's compiler, libraries and runner work: its smallest program is built already.
works() {
    [ "$1" != windows ] || wait "$wine"
    (run_program "$1" probe) >"build/$1/probe.out" 2>"build/$1/probe.err" &&
        [ "$(tr -d '\r' <"build/$1/probe.out")" = works ]
}

# suites_of PATTERN...: the names of the suites
suites_of() {
    for path in tests/test_*.c tests/test_engine.c; do
        name=${path#tests/test_} name=${name%.c} found=
        for pattern in "$@"; do
            case $pattern/${WHOLE:+whole} in
            all/*) [ "$name" = engine ] || found=$name ;;
            "$name"/* | "~$name"/whole | "!$name"/) found=$name ;;
            "~$name"/) [ -z "$SUITES" ] || [ -z "$VARIANTS" ] || found=$name ;;
            esac
        done
        [ -z "$found" ] || echo "$found"
    done
}

# ---- the jobs: build/result/<variant>/test_x to build and run, build/only/<variant>/test_x to build ------------------
# add_jobs VARIANT WORD PACKAGES PATTERN...
add_jobs() {
    variant=$1 word=$2 packages=$(echo "$3" | tr + ' ') goal=result
    shift 3
    if ! [ -f "build/$variant/probe" ]; then
        missing "$variant" "$word" "does not build here; install $packages"
        return
    fi
    if ! works "$variant"; then
        missing "$variant" "$word" \
            "builds, but does not run here; install $packages ($(head -n 1 "build/$variant/probe.err"))"
        case $variant in windows | s390x | aarch64) goal=only ;; *) return ;; esac
    fi
    for name in $(suites_of "$@"); do
        if selected "$SUITES" "$name"; then jobs="$jobs build/$goal/$variant/test_$name"; fi
    done
}
add_scripts() {
    for path in tests/test_*.sh; do
        name=${path#tests/test_} name=${name%.sh}
        case $name in analyzers | exchange) [ -n "${WHOLE:-}${SUITES:-}" ] || continue ;; esac    # take long
        if [ -f "$path" ] && selected "$SUITES" "$name"; then jobs="$jobs build/result/sh/test_$name"; fi
    done
}
run_make() {
    "$MAKE" -k --no-print-directory -j "${JOBS:-$((3 + $(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)))}" "$@"
}

# One wineserver for all suites, started and ended here: what wine starts by itself outlives its program, holds the
# files that the program had open (so nothing may read a pipe to its end that wine can write to), and several at once
# would make the prefix several times.
wine_begin() {
    mkdir -p "$WINEPREFIX"
    {
        timeout -k 10 60 "$(of_wine wineserver64)" -p           # stays until it is told to go
        timeout -k 10 200 "$(of_wine wine64)" wineboot -i       # makes the prefix
    } </dev/null >build/wine.log 2>&1
}
wine_end() { timeout -k 10 60 "$(of_wine wineserver64)" -k </dev/null >>build/wine.log 2>&1; }

SUITES=${SUITES:-} VARIANTS=${VARIANTS:-} begun=$(date +%s)
rm -rf build/result
mkdir -p build
table >build/variants
probes=$(while read -r variant rest; do
    ! selected "$VARIANTS" "$variant" || echo "build/$variant/probe"
done <build/variants)
if selected "$VARIANTS" windows; then
    trap wine_end EXIT
    trap 'exit 1' HUP INT TERM
    wine_begin &                # takes seconds, in which compilers can work
    wine=$!
fi
# shellcheck disable=SC2086
run_make $probes build/dcptool build/dcp.o build/statuses.h >build/make.log 2>&1
while read -r variant word packages patterns; do
    selected "$VARIANTS" "$variant" || continue
    # The scripts take longest, do one thing at a time, and wait a lot: they start first.
    if [ "$variant" = plain ] && selected "$VARIANTS" sh; then add_scripts; fi
    # shellcheck disable=SC2086
    add_jobs "$variant" "$word" "$packages" $patterns
done <build/variants
if [ "$VARIANTS" = sh ]; then add_scripts; fi

# shellcheck disable=SC2086
[ -z "$jobs" ] || run_make -O $jobs 2>build/make.log

# ---- adding up -------------------------------------------------------------------------------------------------------
# Of each suite: variant, passed, failed, skipped, processor seconds.
for job in $jobs; do
    job=build/result/${job#build/*/}
    if [ -f "$job" ]; then cat "$job"; else echo "${job#build/result/} 0 1 0 0" | sed 's|/[^ ]*||' &&
        echo "FAILED $job: nothing came of it" >&2; fi
done >build/result.txt
echo
awk '{ n[$1]++; p[$1] += $2; f[$1] += $3; s[$1] += $4; c[$1] += $5; if (!seen[$1]++) order[++k] = $1 }
    END { for (i = 1; i <= k; i++) { v = order[i]
        printf "%-9s %3d suites: %5d passed, %d failed, %d skipped  (processor %.0f s)\n",
            v, n[v], p[v], f[v], s[v], c[v] } }' build/result.txt
# Each status that a public comment lists was returned in some test, if all of them ran: lines `dcp_f DCP_E_IO`.
# Functions of the opt-in headers that nothing called at all are those of suites that were skipped.
if [ -z "$SUITES$VARIANTS${DCP_TEST_FILTER:-}" ]; then
    cat build/result/*/*.statuses | tr -d '\r' | sort -u >build/statuses.seen
    awk -v lines=1 -f tests/statuses.awk dcp.h dcp_mpi.h dcp_cuda.h >build/statuses.listed
    unseen=$(awk 'NR == FNR { seen[$0] = called[$1] = 1; next }
        !($0 in seen) && (called[$1] || $1 !~ /^dcp_(mpi|cuda)_/) { printf "%s%s", comma, $0; comma = ", " }' \
        build/statuses.seen build/statuses.listed)
    if [ -z "$unseen" ] && [ -s build/statuses.listed ]; then passed=$((passed + 1)) && echo 'ok statuses'
    else failed=$((failed + 1)) && echo "FAILED statuses: listed in comments, and no test returns them: $unseen"; fi
fi
skips=$skips$(cat build/result/*/*.log 2>/dev/null | sed -n 's/^skipped /    /p' | sort -u)
[ -z "$skips" ] || printf 'skipped:\n%s\n' "$skips"
failures=$(grep -h '^FAILED ' build/result/*/*.log /dev/null | sed 's/^/    /')
[ -z "$failures" ] || printf 'failed:\n%s\n' "$failures"
cpu_seconds build/times
printf '%s s, processor %s s with building; the output of each suite is in build/result\n' $(($(date +%s) - begun)) \
    "$cpu"
set -- $(awk -v p="$passed" -v f="$failed" -v s="$skipped" '{ p += $2; f += $3; s += $4 }
    END { print p + 0, f + 0, s + 0 }' build/result.txt)
echo "$1 passed, $2 failed, $3 skipped"
[ "$2" -eq 0 ]
