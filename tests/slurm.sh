#!/bin/sh
# slurm.sh - stands in for Slurm, under the names sbatch, srun and scontrol: enough for examples/slurm.
#
# sbatch runs a script at once, as often as it is requeued, and shows its output. srun starts the ranks with mpirun; in
# the job's first run, once it has saved, each rank gets SIGTERM at another moment, as if the time were nearly over. A
# requeued job has one rank less. DCP_SLURM: a directory for its notes.
set -eu
notes=${DCP_SLURM:?}
option() { sed -n "s/^#SBATCH --$1=//p" "$2"; }

case $(basename "$0") in
sbatch)
    if [ "$(option signal "$1")" != TERM@300 ] || ! grep -q '^#SBATCH --requeue$' "$1"; then
        echo "it asks for no signal, or not to be requeued"
        exit 1
    fi
    output=$(option output "$1") SLURM_NTASKS=$(option ntasks "$1") SLURM_JOB_ID=7
    export SLURM_NTASKS SLURM_JOB_ID
    while :; do
        rm -f "$notes/requeue"
        status=0
        bash "$1" >>"$output" 2>&1 || status=$?
        [ -f "$notes/requeue" ] || break
        SLURM_NTASKS=$((SLURM_NTASKS - 1))
    done
    echo "Submitted batch job 7"
    cat "$output"
    exit "$status"
    ;;
scontrol)
    [ "$*" = "requeue 7" ] || exit 1
    : >"$notes/requeue"
    ;;
srun)
    rm -f "$notes"/rank.*
    # shellcheck disable=SC2016
    mpirun -np "$SLURM_NTASKS" sh -c 'echo $$ >"$DCP_SLURM/rank.$$"; exec "$@"' srun "$@" &
    ranks=$!
    if [ ! -f "$notes/signalled" ]; then
        : >"$notes/signalled"
        while [ -z "$(find "$2" -name '*.metadata.json' 2>/dev/null)" ] && kill -0 $ranks 2>/dev/null; do
            sleep 0.02
        done
        for rank in "$notes"/rank.*; do
            kill -TERM "$(cat "$rank")" 2>/dev/null || :
            sleep 0.05
        done
    fi
    wait $ranks
    ;;
esac
