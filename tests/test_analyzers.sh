#!/bin/sh
# test_analyzers.sh - dcp.h, dcp_mpi.h and dcp_cuda.h as static analysers see them: nothing that they find is left open.
#
#     make analyze
#     sh tests/test_analyzers.sh [text]                 only tests whose name contains the text

#
# Minutes of processor time: in `make test-all`, not in `make test`. A check is left out by its name, with the reason,
# or not at all. An analyser that is missing is a skip, or a failure if DCP_REQUIRE has the word analyzers. Prints `ok
# name`, `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N skipped`; exit status 1 if any failed.

cd "$(dirname "$0")/.." || exit 1
. tests/harness.sh
fail() { echo "$*" | head -n 30; exit 1; }           # findings have many lines

# ---- what is looked at -----------------------------------------------------------------------------------------------
source_file() { file=$1 && shift && printf '%s\n' "$@" >"$work/$file"; }
source_file dcp.c '#define DCP_IMPLEMENTATION' '#include "dcp.h"' 'int main(void) { return 0; }'
source_file mpi.c '#define DCP_MPI_IMPLEMENTATION' '#include "dcp_mpi.h"' 'int main(void) { return 0; }'
source_file cuda.c '#define DCP_CUDA_IMPLEMENTATION' '#include "dcp_cuda.h"' 'int main(void) { return 0; }'
mpi_headers=$(for directory in /usr/lib/*/openmpi/include /usr/include/*/mpich /usr/lib/*/mpich/include; do
    [ ! -f "$directory/mpi.h" ] || { echo "$directory" && break; }; done)
# flags_of NAME: what the compiler is to be told beside the language
flags_of() {
    case $1 in
    mpi) [ -n "$mpi_headers" ] || skip 'mpi.h is missing; install libopenmpi-dev'; echo "-isystem $mpi_headers" ;;
    cuda) echo "-isystem $root/tests/cuda_stub" ;;
    windows)
        [ -d /usr/x86_64-w64-mingw32/include ] ||
            skip 'the headers of Windows are missing; install gcc-mingw-w64-x86-64'
        echo '--target=x86_64-w64-mingw32 -isystem /usr/x86_64-w64-mingw32/include' ;;
    esac
}
# Whatever stands in our own headers is a finding; what else an analyser says is not.
no_findings() {
    grep -E '/dcp[a-z_]*\.h:[0-9]+' "$1" | grep -E "$2" | sed "s|$root/||" >findings
    [ ! -s findings ] || fail "$(wc -l <findings) findings: $(cat findings)"
}

# ---- clang-tidy ------------------------------------------------------------------------------------------------------
# Left out, and why:
#   bugprone-easily-swappable-parameters             any two neighbours of one type: offset and size, rank and count. A
#                                                    matter of taste; no bug was found by it.
#   bugprone-sizeof-expression                       takes each array of pointers that is allocated or sorted for a
#                                                    mistake: the size of a pointer is meant
#   bugprone-implicit-widening-of-multiplication-result   products of constants, and of indexes below 64 in the kernels
#                                                         of SHA-256; -Wconversion sees the others
#   bugprone-narrowing-conversions   in C a character literal is an int, also in `i < count ? digits[i] : '0'`;
#                                    -Wconversion sees the others
#   clang-analyzer-optin.performance.Padding   members stand in the order in which they are read, not in that of their
#                                              sizes
#   bugprone-reserved-identifier, cert-dcl37-c, cert-dcl51-cpp   the feature macros, _GNU_SOURCE and the
#                                                                like, have such names
left_out='-bugprone-easily-swappable-parameters,-bugprone-sizeof-expression'
left_out="$left_out,-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions"
left_out="$left_out,-clang-analyzer-optin.performance.Padding"
left_out="$left_out,-bugprone-reserved-identifier,-cert-dcl37-c,-cert-dcl51-cpp"
tidy() {
    need clang-tidy analyzers clang-tidy
    flags=$(flags_of "$1") || { status=$?; echo "$flags"; exit $status; }
    case $1 in windows) file=dcp.c ;; *) file=$1.c ;; esac
    # shellcheck disable=SC2086
    clang-tidy "$file" --quiet --header-filter='dcp.*\.h' --checks="-*,bugprone-*,cert-*,clang-analyzer-*,$left_out" \
        -- -std=c99 -I"$root" $flags >tidy.log 2>&1 ||
        fail "$(grep -m 5 error: tidy.log)"
    no_findings tidy.log 'warning:|error:'
}
for what in dcp windows mpi cuda; do t "clang_tidy_$what" tidy $what; done

# ---- cppcheck --------------------------------------------------------------------------------------------------------
# It is given no system headers, only the macros that ours ask for. Left out, and why:
#   uninitStructMember     does not see that the callee begins with a memset of the struct; MSan and valgrind do see
#                          what is not set
#   ctunullpointer         takes a pointer that is NULL in calls for host memory for one in calls for a device's, which
#                          check tensor->device first
#   ctuuninitvar           the same about variables that the callee sets, and only looks at members that are
#   missingIncludeSystem, unmatchedSuppression, normalCheckLevelMaxBranches, toomanyconfigs
#                          about itself, not about the source
suppressed='uninitStructMember ctunullpointer ctuuninitvar
missingIncludeSystem unmatchedSuppression normalCheckLevelMaxBranches toomanyconfigs'
posix='-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DSYNC_FILE_RANGE_WRITE=2 -DCLOCK_MONOTONIC=1 -D__linux__=1 -D__x86_64__=1'
check() {
    need cppcheck analyzers cppcheck
    file=$1
    shift
    for id in $suppressed; do set -- "$@" "--suppress=$id"; done
    cppcheck --enable=warning,performance,portability --std=c99 -q \
        --template='{file}:{line}: {severity} {id}: {message}' \
        "$@" -D__STDC_VERSION__=199901L -I"$root" "$file" >cppcheck.log 2>&1
    no_findings cppcheck.log ': (error|warning|performance|portability) '
    [ ! -s cppcheck.log ] || fail "$(head -n 5 cppcheck.log)"
}
# shellcheck disable=SC2086
{
    t cppcheck_dcp check dcp.c $posix -D__GNUC__=12
    t cppcheck_other_compilers check dcp.c $posix -D__TINYC__=1
    t cppcheck_windows check dcp.c -D_WIN32=1 -D_WIN64=1 -D_WIN32_WINNT=0x0600 -D__GNUC__=12 -D__x86_64__=1 \
        -D__MINGW32__=1
    t cppcheck_mpi check mpi.c $posix -D__GNUC__=12 -DMPI_VERSION=3
    t cppcheck_cuda check cuda.c $posix -D__GNUC__=12 -DCUDART_VERSION=12000
}

# ---- gcc -fanalyzer --------------------------------------------------------------------------------------------------
# One program for each entry point: of the whole header at once gcc 12 makes nothing but 11 GB of states, and of
# dcp_save or dcp_load alone as well. So it looks at what reads and writes documents, and at storage and coordination by
# themselves. Left out, and why:
#   malloc-leak                 takes an arena whose root lies in itself for lost; LeakSanitizer and the tests' own
#                               allocators watch
#   in the last three also null-dereference, use-of-uninitialized-value
#                               it does not follow that a status which is not DCP_OK came with what a callback gave (err
#                               written, no memory), nor that a list which is not empty has a first one; MSan and ASan
#                               run those
gcc_analyzer() {
    need gcc analyzers gcc
    gcc -fanalyzer -x c -c /dev/null -o /dev/null 2>/dev/null ||
        skip 'gcc has no -fanalyzer; it is there from version 10 on'
    printf '%s\n' '#define DCP_STATIC' '#define DCP_IMPLEMENTATION' '#include "dcp.h"' \
        'int main(int argc, char **argv) {' '    dcp_error err;' \
        "    (void)argc; (void)argv; (void)err; $1" '    return 0;' '}' >unit.c
    shift
    (ulimit -v 8000000; ulimit -t 400; gcc -std=c99 -O1 -fno-inline -fanalyzer -Wno-analyzer-malloc-leak "$@" \
        -I"$root" -c unit.c -o unit.o) >gcc.log 2>&1 ||
        fail "exit status $?: $(tail -n 3 gcc.log)"
    no_findings gcc.log 'warning:'
}
g() { name=gcc_analyzer_$1 && shift && t "$name" gcc_analyzer "$@"; }
g sha256 'uint8_t d[32]; dcp_sha256(argv[0], 5, d); dcp_hmac_sha256(argv[0], 5, argv[0], 5, d); return d[0];'
g json 'dcp_json *j; if (dcp_json_parse(argv[0], 5, &j, &err)) return 1; dcp_json_free(j);'
g json_write 'char *text; size_t n; dcp_json *j = dcp_json_new_object(&err); if (!j) return 1;
    dcp_json_add_string(j, "a", argv[0]);
    dcp_json_add_double(j, "d", argc); if (!dcp_json_write(j, 1, &text, &n, &err)) dcp_free(text); dcp_json_free(j);'
g yaml 'dcp_manifest *m; if (dcp_manifest_parse("a: [ 1 ]", 8, &m, &err)) return 1; dcp_manifest_free(m);'
g metadata 'dcp_metadata *m; dcp_validation v; if (dcp_metadata_parse(argv[0], 5, &m, &err)) return 1;
    dcp_metadata_validate(m, &v); dcp_validation_free(&v); dcp_metadata_free(m);'
g metadata_write 'dcp_metadata *m; char *text; size_t n; if (dcp_metadata_new(&m, &err)) return 1;
    if (!dcp_metadata_write(m, NULL, &text, &n, &err)) dcp_free(text); dcp_metadata_free(m);'
g manifest 'dcp_manifest *m; dcp_validation v; if (dcp_manifest_parse(argv[0], 5, &m, &err)) return 1;
    dcp_manifest_validate(m, &v); dcp_validation_free(&v); dcp_manifest_free(m);'
for what in 'storage_memory(' 'storage_local(argv[0], '; do
    g "${what%%(*}" "dcp_storage *s; void *data; size_t n; if (dcp_$what&s, &err)) return 1;
        dcp_storage_write_all(s, argv[0], argv[0], 1, NULL, &err);
        if (!dcp_storage_read_all(s, argv[0], &data, &n, NULL, &err)) dcp_free(data); dcp_storage_close(s);" \
        -Wno-analyzer-null-dereference -Wno-analyzer-use-of-uninitialized-value
done
g coordination 'dcp_coordinator *c[2]; dcp_io io = { .timeout_ms = 1 };
    if (dcp_thread_group_open(2, c, &err)) return 1; dcp_barrier(c[0], &io, &err);
    dcp_coordinator_close(c[0]);
    dcp_coordinator_close(c[1]);' -Wno-analyzer-null-dereference -Wno-analyzer-use-of-uninitialized-value

finish
