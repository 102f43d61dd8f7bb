#!/bin/sh
# test_mpi.sh - dcp_mpi.h with Open MPI and MPICH, whichever are there: 1 to 8 ranks, stopped and killed ranks, large
# messages, C++, warnings; mpi_coord.c is about the coordinator, mpi_checkpoint.c about saving and loading with it.
#
#     sh tests/test_mpi.sh [text]                       only tests whose name contains the text (or DCP_TEST_FILTER)
#
# What is missing is a skip, or a failure if DCP_REQUIRE has the word mpi. DCP_TEST_LARGE=1: a message of more than 2^31
# bytes too (5 GiB of memory). Prints `ok name`, `skipped name: why` or `FAILED name: why`; last `N passed, N failed, N
# skipped`; exit status 1 if any failed.

cd "$(dirname "$0")/.." || exit 1
. tests/harness.sh
wanted() { case $1 in *"$filter"* | *_compiles*) ;; *) return 1 ;; esac; }              # what is compiled may be needed
# As root, more ranks than processors, and quietly.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_btl_base_warn_component_unused=0
export UCX_LOG_LEVEL="${UCX_LOG_LEVEL:-error}"
# of MPICH, whose ranks spin while they wait: others have to work then
export MPIR_CVAR_POLLS_BEFORE_YIELD=1

# What a compiler wrapper adds: -isystem for the headers, so that their warnings are not ours; and what to link.
includes() {
    case $1 in
    openmpi) "$2".openmpi --showme:compile ;;
    mpich) "$2".mpich -compile_info | sed 's/^[^ ]* //' ;;
    esac | tr ' ' '\n' | sed -n 's/^-I/-isystem /p' | tr '\n' ' '
}
libraries() {
    case $1 in
    openmpi) "$2".openmpi --showme:link ;;
    mpich) "$2".mpich -link_info | sed 's/^[^ ]* //' ;;
    esac
}
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Werror'

# compiles SOURCE MPI NAME COMMAND...: a test program, as one more option or another compiler makes it
compiles() {
    source=$1 mpi=$2 name=$3
    wrapper=mpicc
    case $* in *'-x c++'*) wrapper=mpicxx ;; esac
    shift 3
    # With DCP_STATIC what is not called is left out, which halves the time.
    # shellcheck disable=SC2046
    "$@" -O0 -DDCP_STATIC -I"$root" $(includes "$mpi" $wrapper) "$root/tests/$source" -x none -o "$work/$mpi.$name" \
        $(libraries "$mpi" $wrapper) -lm -pthread ||
        fail "$* does not compile $source"
}
# The header as programs include it: each way, each compiler, without a warning.
silent() {
    mpi=$1
    echo '#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp.h"
int main(void) { return 0; }' >pulled_in.c
    echo '#define DCP_MPI_IMPLEMENTATION
#include "dcp_mpi.h"
#include "dcp.h"
#include "dcp_mpi.h"' >alone.c
    echo '#define DCP_IMPLEMENTATION
#define DCP_MPI
#include "dcp_mpi.h"
int main(void) { return 0; }' >first.c
    echo '#define DCP_MPI
#include "dcp.h"
int main(void) { dcp_coordinator *c; return dcp_mpi_open(MPI_COMM_NULL, &c, NULL) == DCP_E_INVALID; }' >declared.c
    for compiler in 'gcc -std=c99' 'clang -std=c11' 'g++ -std=c++11 -x c++'; do
        command -v "${compiler%% *}" >/dev/null 2>&1 || continue
        case ${compiler%% *}.$mpi in
        gcc.openmpi) files="pulled_in alone declared ${WHOLE:+first}" ;;
        clang.openmpi) files=alone ;;
        g++.openmpi) files=pulled_in ;;
        *) files="alone ${WHOLE:+pulled_in}" ;;         # what the other MPI's header may add
        esac
        for file in $files; do
            # shellcheck disable=SC2046,SC2086
            $compiler $warnings -fsyntax-only -I"$root" $(includes "$mpi" mpicc) $file.c ||
                fail "$compiler warns about $file.c"
        done
    done
}
# Two units, one with dcp.h and one with dcp_mpi.h alone, linked by the wrapper itself.
two_units() {
    mpi=$1
    object unit_a.o                     # which knows nothing of MPI
    cat >unit_b.c <<'END'
#define DCP_MPI_IMPLEMENTATION
#include "dcp_mpi.h"
int main(int argc, char **argv) {
    dcp_coordinator *c;
    dcp_error err;
    MPI_Init(&argc, &argv);
    if (dcp_mpi_open(MPI_COMM_WORLD, &c, &err) || dcp_barrier(c, NULL, &err)) { puts(err.message); return 1; }
    printf("fine %d\n", c->rank);
    dcp_coordinator_close(c);
    return MPI_Finalize();
}
END
    "mpicc.$mpi" -I"$root" unit_a.o unit_b.c -o two_units -lm -pthread || fail "does not link"
    cp two_units "$mpi.two_units"
    runs "$mpi" two_units 2
}
# The example at the head of the header: what stands between the first and the last line of its code, without the
# saving.
example() {
    mpi=$1
    sed -n '/^ \*     #define DCP_IMPLEMENTATION/,/^ \*     }$/s/^ \*     //p' "$root/dcp_mpi.h" |
        sed 's|// save.io.*||' >example.c
    grep -q 'int main' example.c || fail "there is no example"
    "mpicc.$mpi" -O0 -DDCP_STATIC -I"$root" example.c -o "$mpi.example" -lm -pthread || fail "does not compile"
    launch "$mpi" example 3 || fail "does not run"
}
launch() {
    mpi=$1 program=$2 n=$3
    shift 3
    count=-np
    [ "$mpi" = openmpi ] || count=-n
    timeout -k 5 150 "mpirun.$mpi" $count "$n" "$work/$mpi.$program" "$@" </dev/null >"$work/log" 2>&1
}
# runs MPI PROGRAM RANKS ARGUMENT...: each rank must say that it is fine; the launcher's status alone would not tell
runs() {
    n=$3
    launch "$@" || fail "$(grep -v '^fine' "$work/log" | head -n 5)"
    [ "$(grep -c '^fine ' "$work/log")" -eq "$n" ] || fail "not all ranks are fine: $(head -n 5 "$work/log")"
}

# ---- checkpoints
# saves MPI RANKS LEVEL: all that mpi_checkpoint does in one job; what it leaves is for loads MPI RANKS LEVEL SAVED
saves() { runs "$1" checkpoint "$2" all "$work/$1.saved.$2" "$3"; }
# saves_in_background MPI RANKS LEVEL
saves_in_background() { rm -rf "$work/$1.async" && runs "$1" checkpoint "$2" async "$work/$1.async" "$3"; }
loads() {
    [ -d "$work/$1.saved.$4" ] || saves "$1" "$4" single
    runs "$1" checkpoint "$2" load "$work/$1.saved.$4" "$3"
}
# struck MPI RANKS LOW HIGH LAYOUT SIGNAL RANK CALL NTH WHEN [STATUS END]: a start that finds what the one before left,
# and ends in its save
struck() { struck_in next "$@"; }
# killed_in_background MPI RANKS LOW HIGH LAYOUT KILL RANK CALL NTH WHEN LEVEL
killed_in_background() { struck_in background "$@"; }
struck_in() {
    what=$1 mpi=$2 n=$3
    shift 3
    launch "$mpi" checkpoint "$n" "$what" "$work/$mpi.next" "$@"
    rc=$?
    case $rc.$4 in
    124.* | 137.STOP) fail "$n ranks, $*: the job did not end: $(head -n 5 "$work/log")" ;;
    esac
    if grep -q '^wrong' "$work/log"; then fail "$n ranks, $*: $(grep -v '^fine' "$work/log" | head -n 5)"; fi
    case $4 in
    KILL) grep -q "^killed $5\$" "$work/log" || fail "$n ranks, $*: nobody was killed: $(head -n 5 "$work/log")" ;;
    STOP)
        grep -q "^stopped $5\$" "$work/log" || fail "$n ranks, $*: nobody was stopped: $(head -n 5 "$work/log")"
        [ "$(grep -c '^fine ' "$work/log")" -eq $((n - 1)) ] ||
            fail "$n ranks, $*: not all others are fine: $(head -n 5 "$work/log")" ;;
    esac
}
# starts MPI RANKS LOW HIGH LAYOUT: one that is left alone
starts() {
    mpi=$1 n=$2
    shift 2
    runs "$mpi" checkpoint "$n" next "$work/$mpi.next" "$@"
}
# A rank stops during a save; the others end the job; the next start goes on with the checkpoint before.
stopped_saves() {
    mpi=$1 a=$2 b=$3
    rm -rf "$mpi.next"
    starts "$mpi" "$a" 0 0 sharded
    struck "$mpi" "$a" 1 1 sharded STOP $((a - 1)) write 1 before TIMEOUT abort
    struck "$mpi" "$b" 1 1 single STOP 0 list 1 before TIMEOUT exit
    struck "$mpi" "$a" 1 1 sharded STOP 0 commit 2 before UNKNOWN abort
    # Open MPI's abort may wake the stopped rank for an instant, in which it commits: that is what UNKNOWN means
    starts "$mpi" "$b" 1 2 single
}
# A rank is killed at some phase of a save, and mpirun kills the others. What was committed counts, and nothing else.
killed_saves() {
    mpi=$1 a=$2 b=$3
    rm -rf "$mpi.next"
    starts "$mpi" "$a" 0 0 single
    case $mpi in
    openmpi)
        struck "$mpi" "$a" 1 1 sharded KILL 0 list 1 after
        struck "$mpi" "$a" 1 1 sharded KILL $((a - 1)) write 1 after
        struck "$mpi" "$b" 1 1 single KILL $((b - 1)) leave 1 before
        struck "$mpi" "$a" 1 1 sharded KILL 0 commit 3 before
        killed_in_background "$mpi" "$a" 1 1 sharded KILL $((a - 1)) write 1 before multiple
        killed_in_background "$mpi" "$a" 1 1 sharded KILL 0 commit 3 before multiple
        killed_in_background "$mpi" "$a" 1 1 single KILL 1 write 1 after single
        killed_in_background "$mpi" "$a" 1 1 sharded KILL 0 commit 3 before single
        struck "$mpi" "$a" 1 1 sharded KILL 0 commit 3 after
        killed_in_background "$mpi" "$a" 2 2 sharded KILL 0 commit 3 after single
        starts "$mpi" "$a" 3 3 sharded ;;
    mpich)
        struck "$mpi" "$a" 1 1 sharded KILL 1 send 1 before
        struck "$mpi" "$a" 1 1 sharded KILL 1 commit 1 after
        struck "$mpi" "$a" 1 1 single KILL 0 commit 1 before
        struck "$mpi" "$a" 1 1 single KILL 0 commit 1 after
        killed_in_background "$mpi" "$a" 2 2 sharded KILL $((a - 1)) write 1 after multiple
        killed_in_background "$mpi" "$a" 2 2 sharded KILL 0 commit 3 before single
        killed_in_background "$mpi" "$a" 2 2 sharded KILL 1 commit 1 before single
        killed_in_background "$mpi" "$a" 2 2 sharded KILL 0 commit 3 after multiple
        struck "$mpi" "$a" 3 3 sharded KILL $((a - 1)) send 3 after
        starts "$mpi" "$a" 3 4 sharded ;;
    esac
}

# The programs with clang, where it is, which takes a third of the time.
"${MAKE:-make}" -s build/statuses.h || exit 1
cc=gcc cxx=g++
if have clang; then
    cc=clang cxx=clang++
    export OMPI_CC=clang MPICH_CC=clang
fi
for mpi in openmpi mpich; do
    packages='openmpi-bin libopenmpi-dev'
    [ $mpi = openmpi ] || packages='mpich libmpich-dev'
    if ! command -v mpicc.$mpi >/dev/null 2>&1 || ! command -v mpirun.$mpi >/dev/null 2>&1; then
        t "$mpi" missing "mpicc.$mpi" mpi "$packages"
        continue
    fi
    t ${mpi}_without_warnings silent $mpi
    # shellcheck disable=SC2086
    t ${mpi}_compiles compiles mpi_coord.c $mpi plain $cc -std=c99 $warnings
    has_cxx=0
    if command -v $cxx >/dev/null 2>&1; then has_cxx=1; fi
    # The same as C++, and with chunks so small that all messages have many.
    small='-DDCP_MPI_CHUNK=1000 -DDCPI_COORD_PIECE=3000'
    if [ $has_cxx = 1 ]; then
        # shellcheck disable=SC2086
        t ${mpi}_compiles_as_cxx_small_chunks compiles mpi_coord.c $mpi small_cxx $cxx -std=c++11 $warnings $small \
            -x c++
    else
        # shellcheck disable=SC2086
        t ${mpi}_compiles_small_chunks compiles mpi_coord.c $mpi small_cxx $cc -std=c99 $small
    fi
    t ${mpi}_two_units two_units $mpi
    # What takes long is not done twice: numbers of ranks, the example, checkpoints in C and in C++.
    if [ $mpi = openmpi ] || [ $has_cxx = 0 ]; then
        # shellcheck disable=SC2086
        t ${mpi}_checkpoint_compiles compiles mpi_checkpoint.c $mpi checkpoint $cc -std=c99 $warnings
    else
        # shellcheck disable=SC2086
        t ${mpi}_checkpoint_compiles_as_cxx compiles mpi_checkpoint.c $mpi checkpoint $cxx -std=c++11 $warnings -x c++
    fi
    case $mpi in
    openmpi)
        t ${mpi}_example example $mpi
        for n in 1 3 8; do t ${mpi}_${n}_ranks runs $mpi plain $n all; done
        t ${mpi}_small_chunks_3_ranks runs $mpi small_cxx 3 all
        t ${mpi}_stopped_root_of_4 runs $mpi plain 4 stop 0
        t ${mpi}_stopped_middle_of_8 runs $mpi plain 8 stop 4
        t ${mpi}_saves_1_rank saves $mpi 1 single
        t ${mpi}_saves_3_ranks saves $mpi 3 multiple
        t ${mpi}_saves_8_ranks saves $mpi 8 funneled
        t ${mpi}_async_1_single saves_in_background $mpi 1 single
        t ${mpi}_async_4_single saves_in_background $mpi 4 single
        t ${mpi}_async_4_multiple saves_in_background $mpi 4 multiple
        t ${mpi}_loads_1_as_3 loads $mpi 3 single 1
        t ${mpi}_loads_3_as_8 loads $mpi 8 multiple 3
        t ${mpi}_loads_8_as_3 loads $mpi 3 funneled 8
        t ${mpi}_loads_8_as_8 loads $mpi 8 single 8
        t ${mpi}_stopped_saves stopped_saves $mpi 3 8
        t ${mpi}_killed_saves killed_saves $mpi 3 8 ;;
    mpich)
        for n in 2 4 7; do t ${mpi}_${n}_ranks runs $mpi plain $n all; done
        t ${mpi}_small_chunks_6_ranks runs $mpi small_cxx 6 all
        t ${mpi}_stopped_leaf_of_4 runs $mpi plain 4 stop 3
        t ${mpi}_stopped_of_2 runs $mpi plain 2 stop 1
        t ${mpi}_saves_4_ranks saves $mpi 4 multiple
        t ${mpi}_async_3_funneled saves_in_background $mpi 3 funneled
        [ -z "${WHOLE:-}" ] || t ${mpi}_async_4_single saves_in_background $mpi 4 single
        [ -z "${WHOLE:-}" ] || t ${mpi}_async_4_multiple saves_in_background $mpi 4 multiple
        t ${mpi}_loads_4_as_4 loads $mpi 4 single 4
        t ${mpi}_loads_4_as_3 loads $mpi 3 funneled 4
        t ${mpi}_stopped_saves stopped_saves $mpi 4 3
        t ${mpi}_killed_saves killed_saves $mpi 4 3 ;;
    esac
    t ${mpi}_threads runs $mpi plain 3 threads
    t ${mpi}_before_and_after_mpi runs $mpi plain 1 outside
done

finish
