#!/bin/sh
# test_exchange.sh - checkpoints that one platform writes are read on every other one: the program is test_golden.c,
# built for each and run there.
#
#     sh tests/test_exchange.sh [text]                  only tests whose name contains the text (or DCP_TEST_FILTER)
#
# In `make test-all`, for it takes a minute; `make test` has test_golden.c, which compares what each platform writes
# with the golden files. By itself this machine and the big-endian s390x, both ways; with WHOLE set also 32 bits,
# aarch64, musl, tcc and clang, each with each. (Windows is not among them: wine would outlive the script.) What is
# missing is a skip, or a failure if DCP_REQUIRE has its word of run.sh. Prints `ok name`, `skipped name: why` or
# `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if any failed.

cd "$(dirname "$0")/.." || exit 1
. tests/tools.sh
filter=${1:-${DCP_TEST_FILTER:-}}
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/dcp_exchange.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

has_word() { case " $(echo "${DCP_REQUIRE:-}" | tr , ' ') " in *" $1 "*) ;; *) return 1 ;; esac; }
command_of() {
    case $1 in
    here) echo "${CC:-cc} -std=c99 -O0 -DDCP_STATIC" ;;
    s390x | aarch64) echo "$1-linux-gnu-gcc -std=c99 -O0 -static -DDCP_STATIC" ;;
    m32)
        if ! command -v gcc-12 >/dev/null 2>&1; then echo 'gcc -m32 -std=c99 -O0 -DDCP_STATIC'
        else echo 'gcc-12 -m32 -std=c99 -O0 -isystem /usr/include/x86_64-linux-gnu -DDCP_STATIC'; fi
        ;;
    musl) echo 'musl-gcc -std=c99 -O0 -static -DDCP_STATIC' ;;
    tcc) echo 'tcc -DDCP_STATIC' ;;
    clang) echo 'clang -std=c11 -O2 -DDCP_STATIC' ;;
    esac
}
word_of() { case $1 in s390x | aarch64) echo cross ;; *) echo "$1" ;; esac; }
# run PLATFORM ARGUMENT...
run() {
    platform=$1
    shift
    case $platform in
    s390x | aarch64) "qemu-$platform-static" "$work/$platform" "$@" ;;
    *) "$work/$platform" "$@" ;;
    esac
}
say() { # say NAME STATUS LOG
    case $2 in
    0) passed=$((passed + 1)) && echo "ok $1" ;;
    *) failed=$((failed + 1)) && echo "FAILED $1: $(grep -v '^ok ' "$3" | head -n 5 | tr '\n' ' ')" ;;
    esac
}
# Builds the program for a platform and has it write there; tells whether it did.
writes() {
    mkdir "$work/$1.files"
    # shellcheck disable=SC2046
    if ! $(command_of "$1") -I. tests/test_golden.c -o "$work/$1" -lm -pthread >"$work/log" 2>&1 ||
        ! DCP_TEST_FILTER=none run "$1" >"$work/log" 2>&1; then
        if has_word "$(word_of "$1")"; then failed=$((failed + 1)) &&
            echo "FAILED $1: does not build or run here (DCP_REQUIRE asks for $(word_of "$1"))"
        else skipped=$((skipped + 1)) && echo "skipped $1: does not build or run here: $(head -n 1 "$work/log")"; fi
        return 1
    fi
    case ${1}_writes in *"$filter"*) ;; *) [ -z "$filter" ] || case $filter in *_reads_*) ;; *) return 0 ;; esac ;; esac
    DCP_TEST_FILTER='' run "$1" write "$work/$1.files" >"$work/log" 2>&1
    say "${1}_writes" $? "$work/log"
}

platforms=
for platform in here s390x ${WHOLE:+aarch64 m32 musl tcc clang}; do ! writes "$platform" ||
    platforms="$platforms $platform"; done
for reader in $platforms; do
    for writer in $platforms; do
        name=${reader}_reads_${writer}
        case $name in *"$filter"*) ;; *) continue ;; esac
        if [ "$reader" = "$writer" ]; then continue; fi
        DCP_TEST_FILTER='' run "$reader" read "$work/$writer.files" >"$work/log" 2>&1
        say "$name" $? "$work/log"
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
