# harness.sh - what the test scripts share; each sources it, with its own arguments, in the root of the repository.
#
# Sets root, filter (the first argument, or DCP_TEST_FILTER) and work, a directory of its own that goes with the script.
# A test is a command that runs in a subshell in $work, and fails by its status; what it prints is the reason. A script
# may define `wanted`, `enter` or `fail` anew.
. tests/tools.sh
root=$(pwd)
LC_ALL=C
export LC_ALL
filter=${1:-${DCP_TEST_FILTER:-}}
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/dcp_script.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fail() { echo "$*" | head -n 6 | tr '\n' ' '; exit 1; }
skip() { echo "$*"; exit 77; }
have() { command -v "$1" >/dev/null 2>&1; }
# missing COMMAND WORD PACKAGE: a skip, or a failure if DCP_REQUIRE has the word
missing() {
    case " $(echo "${DCP_REQUIRE:-}" | tr , ' ') " in
    *" $2 "*) fail "$1 is missing, and DCP_REQUIRE asks for $2; install $3" ;;
    esac
    skip "$1 is missing; install $3"
}
# need COMMAND WORD PACKAGE
need() { have "$1" || missing "$1" "$2" "$3"; }
wanted() { case $1 in *"$filter"*) ;; *) return 1 ;; esac; }
enter() { :; }          # before each test, in $work: may go to a directory below it
# t NAME COMMAND...
t() {
    name=$1
    shift
    wanted "$name" || return 0
    why=$(cd "$work" && enter && "$@" 2>&1)
    case $? in
    0) passed=$((passed + 1)) && echo "ok $name" ;;
    77) skipped=$((skipped + 1)) && echo "skipped $name: $why" ;;
    *) failed=$((failed + 1)) && echo "FAILED $name: $why" ;;
    esac
}
# object FILE: puts an object file with all of dcp.h there; make keeps one, since it takes most of a compiler's time
object() {
    "${MAKE:-make}" -s -C "$root" build/dcp.o >log 2>&1 && cp "$root/build/dcp.o" "$1" ||
        fail "dcp.h does not compile: $(cat log "$root/build/dcp.o.log")"
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}
