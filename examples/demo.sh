#!/bin/sh
# demo.sh - the main job on real input: train a small language model on 4 ranks, kill it in the middle of saves,
# resume with 3 ranks and then with 6, and show that not one bit was lost. Run by `make demo` and
# `make demo-mpi`, or by hand: sh examples/demo.sh [--mpi] [work directory].
#
# --mpi           the ranks are processes of MPI, started by mpirun; otherwise threads of one process
# CC, CFLAGS      compiler and flags (default: cc -O2)
# MPICC, MPIRUN   default: mpicc, mpirun; of the same MPI
# DCPTOOL         an existing dcptool; otherwise it is built here
#
# Needs a C compiler and a POSIX shell; Open MPI or MPICH for --mpi. Everything is written below the work directory
# (default: build/demo).
# The last line says how many claims held; the exit status is 1 if one did not.

mpi=
if [ "$1" = --mpi ]; then mpi=1; shift; fi
work=${1:-build/demo${mpi:+_mpi}}
case $1 in '' | /*) ;; *) work=$(pwd)/$1 ;; esac
cd "$(dirname "$0")/.." || exit 1
MPICC=${MPICC:-mpicc} MPIRUN=${MPIRUN:-mpirun}
# Open MPI: as root too, and more ranks than processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_base_warn_component_unused=0 UCX_LOG_LEVEL="${UCX_LOG_LEVEL:-error}"
steps=800 every=100
claims=0 failed=0 table=

say() { printf '\n== %s\n' "$*"; }
stop() { printf 'demo: %s\n' "$*" >&2; exit 1; }
claim() {               # claim TEXT COMMAND...: the command's status decides
    text=$1; shift
    claims=$((claims + 1))
    if "$@"; then result=held; else result=FAILED; failed=$((failed + 1)); fi
    table="$table$(printf '  %-72s %s' "$text" "$result")
"
}
not() { if "$@"; then return 1; fi; }
same_text() { [ "$1" = "$2" ] && [ -n "$1" ]; }
contains() { case $1 in *"$2"*) ;; *) return 1 ;; esac; }
has_file() { [ -n "$(find "$1" -name "$2")" ]; }
value_of() { sed -n "s/^$2 //p" "$1" | tail -n 1; }     # value_of LOG PREFIX: what follows it
less_than() { awk -v a="$1" -v b="$2" -v f="$3" 'BEGIN { exit !(a != "" && a + 0 < f * b) }'; }   # a < f b

started=$(date +%s)
rm -rf "$work/run_whole" "$work/run_killed" "$work/damaged_copy"
mkdir -p "$work" || stop "cannot create $work"

if [ -n "$mpi" ]; then
    for command in "$MPICC" "$MPIRUN"; do
        command -v "$command" >/dev/null 2>&1 ||
            stop "$command is missing; install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev"
    done
fi

say "build"
# shellcheck disable=SC2086
${CC:-cc} ${CFLAGS:--O2} examples/demo_charlm.c -I. -o "$work/demo_charlm" -lm -pthread ||
    stop "no demo_charlm"
if [ -n "$mpi" ]; then
    # shellcheck disable=SC2086
    "$MPICC" ${CFLAGS:--O2} -DDCP_MPI examples/demo_charlm.c -I. -o "$work/demo_charlm_mpi" -lm -pthread ||
        stop "no demo_charlm_mpi"
fi
tool=${DCPTOOL:-}
if [ -z "$tool" ]; then
    tool=$work/dcptool
    # shellcheck disable=SC2086
    ${CC:-cc} ${CFLAGS:--O2} examples/dcptool/*.c -I. -o "$tool" -lm -pthread || stop "no dcptool"
fi
# The model learns from the words in this repository: README.md and the comments of dcp.h.
set -- --text dcp.h
[ -f README.md ] && set -- --text README.md --text dcp.h
train() {               # train DIRECTORY RANKS ARGUMENT...
    directory=$1 ranks=$2; shift 2
    if [ -n "$mpi" ]; then
        "$MPIRUN" -np "$ranks" "$work/demo_charlm_mpi" train --dir "$directory" --steps $steps \
            --save-every $every "$@" </dev/null
    else
        "$work/demo_charlm" train --dir "$directory" --steps $steps --save-every $every --ranks "$ranks" "$@"
    fi
}
# train_and_kill DIRECTORY RANKS SAVE ARGUMENT...: killed in the middle of that save. The program takes care of that
# itself, except with MPI, where a rank dies: then we look whether the save was done before that, and try the next.
train_and_kill() {
    directory=$1 ranks=$2 save=$3; shift 3
    if [ -z "$mpi" ]; then train "$directory" "$ranks" "$@" --kill-in-save "$save"; return; fi
    while [ $((save * every)) -lt $steps ]; do
        at=$(printf step_%06d $((save * every)))
        train "$directory" "$ranks" "$@" --kill-in-save "$save" 2>"$work/mpirun.log"
        left=$(find "$directory" -name "$at*.tmp" | head -n 1)
        if [ -n "$left" ] && [ ! -f "$directory/$at.metadata.json" ]; then
            echo "killed by SIGKILL in the save of step $((save * every)); it left $(basename "$left")"
            return
        fi
        [ -f "$directory/$at.metadata.json" ] || { cat "$work/mpirun.log"; return 1; }
        echo "the save of step $((save * every)) was done before the kill came; trying the next one"
        save=$((save + 1))
    done
    echo "no save could be hit"
    return 1
}

say "1. an undisturbed run: 4 ranks, $steps steps, a checkpoint every $every"
train "$work/run_whole" 4 "$@" | tee "$work/whole.log"

say "2. the same run, killed by SIGKILL in the middle of its third save"
train_and_kill "$work/run_killed" 4 3 "$@" | tee "$work/killed.log"
claim "SIGKILL came in the middle of a save (its temporary file is there)" has_file "$work/run_killed" '*.tmp'
newest=$("$tool" latest "$work/run_killed")
printf 'dcptool latest: %s\n' "$newest"
killed_at=$(sed -n 's/^killed by SIGKILL in the save of step \([0-9]*\).*/\1/p' "$work/killed.log")
claim "the newest valid checkpoint is the previous one" contains "$newest" \
    "$(printf step_%06d $((killed_at - every)))"
claim "and every byte of it verifies" "$tool" verify -q "$newest"

say "3. it resumes with 3 ranks, is killed in its sixth save, and resumes with 6 to its end"
train_and_kill "$work/run_killed" 3 6 "$@" | tee -a "$work/killed.log"
train "$work/run_killed" 6 "$@" | tee -a "$work/killed.log"
claim "it was killed twice, and each time resumed from the previous save" same_text "2 2" "$(
    awk -v every=$every '
    /^killed/ { kills++; at = $9 + 0 }
    /^resumed/ && $4 + every == at { resumed++; at = 0 }
    END { print kills, resumed }' "$work/killed.log")"
claim "4 ranks saved what 3 resumed, 3 ranks what 6 resumed" same_text "4 on 3, 3 on 6, " "$(
    sed -n 's/^resumed .* saved by \([0-9]*\), on \([0-9]*\) ranks$/\1 on \2, /p' "$work/killed.log" | tr -d '\n')"
claim "all $steps losses are the same as in the undisturbed run" \
    cmp "$work/run_whole/losses.txt" "$work/run_killed/losses.txt"
claim "so are the final parameters, bit for bit (SHA-256)" same_text \
    "$(value_of "$work/whole.log" 'parameters sha256')" "$(value_of "$work/killed.log" 'parameters sha256')"
last=step_$(printf %06d $steps)
claim "and all tensors of the last checkpoint, Adam's too (dcptool diff)" \
    "$tool" diff "$work/run_whole/$last" "$work/run_killed/$last"

say "4. what is in the directory now"
"$tool" ls "$work/run_killed"
for checkpoint in "$work/run_killed"/step_*.metadata.json; do
    claim "verified: $(basename "$checkpoint")" "$tool" verify "$checkpoint"
done

say "5. what the kills left, and sweep"
find "$work/run_killed" -name '*.tmp' -exec ls -l {} \;
"$tool" sweep --grace 0 --plain-names "$work/run_killed"
claim "sweep removed all temporary files that the kills left" not has_file "$work/run_killed" '*.tmp'
claim "shards that no checkpoint names any more, too" not has_file "$work/run_killed" 'step_000300*'
claim "and no checkpoint suffered" "$tool" verify -q "$work/run_killed/$last"

say "6. a copy in which one bit is flipped"
mkdir -p "$work/damaged_copy"
cp "$work/run_killed/$last"[._]* "$work/damaged_copy/"
shard=$(find "$work/damaged_copy" -name '*_shard_0*.bin')
offset=1234567
byte=$(od -An -tu1 -j $offset -N 1 "$shard" | tr -d ' ')
# shellcheck disable=SC2059
printf "\\$(printf %03o $((byte ^ 16)))" | dd of="$shard" bs=1 seek=$offset conv=notrunc 2>/dev/null
printf 'bit 4 of byte %s of %s: %s became %s\n' $offset "$(basename "$shard")" "$byte" $((byte ^ 16))
claim "dcptool verify finds it" not "$tool" verify "$work/damaged_copy/$last"
claim "a run that would resume from it stops and says so" not train "$work/damaged_copy" 4 "$@"
rm -rf "$work/damaged_copy"

say "7. what the model writes, after $steps steps"
"$work/demo_charlm" sample --dir "$work/run_killed" --length 500 | tee "$work/sample.txt"
entropy=$(value_of "$work/killed.log" 'unigram entropy') loss=$(value_of "$work/killed.log" 'final loss')
claim "it has learned: loss ${loss%% *}, by letter frequency alone ${entropy%% *}" \
    less_than "${loss%% *}" "${entropy%% *}" 0.7

say "summary"
printf '%s' "$table"
printf '  %s seconds; everything is in %s\n' $(($(date +%s) - started)) "$work"
if [ $failed -gt 0 ]; then
    printf 'demo: %s of %s claims FAILED\n' $failed $claims
    exit 1
fi
printf 'demo: all %s claims held\n' $claims
