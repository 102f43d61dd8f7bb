# tool_look.sh - part of test_tool.sh: what dcptool shows on terminals of several widths, and where there is none.

# A directory whose times, names and sizes are the same every time: an intact checkpoint with a long name, one without
# its shard, one of a newer format.
make_look() {
    [ ! -d look ] || return 0
    mkdir look
    for name in layers.of_the_old_model_with_a_long_name x newer; do
        cp s/foreign_shard_0.bin "look/${name}_shard_0.bin"
        sed "s/foreign_shard/${name}_shard/" s/foreign.metadata.json >"look/$name.metadata.json"
    done
    rm look/x_shard_0.bin
    sed 's/"1\.0\.0"/"2.0.0"/' s/foreign.metadata.json >look/newer.metadata.json
}
# seen COLUMNS ARGUMENTS...: what the tool shows there is what standard input says, colours as [31m, and only the
# first 110 bytes of a line
seen() {
    columns=$1 expected=$(cat)
    shift
    on_terminal "$@" 2>/dev/null
    out=$(printf '%s\n' "$out" | sed -e 's/\([ (]\)[1-9] y/\1N y/' -e "s/$(printf '\033')//g" -e '/warning: /d' |
        cut -c 1-110 | sed 's/ *$//')
    [ "$out" = "$expected" ] || fail "at $columns columns '$*' shows: $out"
}

look_of_tensors() {
    TERM=dumb
    export TERM
    seen 40 ls s/moe/step_200 <<'END'
NAME    TYPE  SHAPE     SIZE  TIER
a       fp32  [8, 12]  384 B  hot
adam/m  fp32  [8, 12]  384 B
b       fp32  [8, 12]  384 B  hot
r       fp32  [8, 12]  384 B
x       fp32  [8, 12]  384 B  hot
y       fp32  [8, 12]  384 B  warm
6 tensors, 2.2 KiB
END
    seen 80 ls s/moe/step_200 <<'END'
NAME    TYPE  SHAPE     SIZE  PIECES  ROLE              TIER  VERSION
a       fp32  [8, 12]  384 B       1  dense             hot         0
adam/m  fp32  [8, 12]  384 B       1  optimizer                     0
b       fp32  [8, 12]  384 B       1  dense             hot         1
r       fp32  [8, 12]  384 B       1  router 3                      0
x       fp32  [8, 12]  384 B       1  expert [1, 0, 0]  hot         0
y       fp32  [8, 12]  384 B       1  expert [2, 0, 7]  warm        0
6 tensors, 2.2 KiB
END
    seen 200 ls s/moe/step_200 <<'END'
NAME    TYPE  SHAPE     SIZE  PLACEMENT   PIECES  ROLE              TIER  VERSION
a       fp32  [8, 12]  384 B  replicated       1  dense             hot         0
adam/m  fp32  [8, 12]  384 B  replicated       1  optimizer                     0
b       fp32  [8, 12]  384 B  replicated       1  dense             hot         1
r       fp32  [8, 12]  384 B  replicated       1  router 3                      0
x       fp32  [8, 12]  384 B  replicated       1  expert [1, 0, 0]  hot         0
y       fp32  [8, 12]  384 B  replicated       1  expert [2, 0, 7]  warm        0
6 tensors, 2.2 KiB
END
    run 0 ls s/moe/step_200                             # a pipe gets all of it
    is "$out" "$expected"
}
look_of_directory() {
    make_look
    TERM=xterm
    export TERM
    seen 40 ls look <<'END'
[1mNAME[0m                  [1mSIZE[0m  [1mSTATE[0m
x                    452 B  [31mincomplete[0m
    x.metadata.json names
    "x_shard_0.bin" (shard 0), which is
    not there
layers.of…long_name  491 B  complete
newer                450 B  [33mnewer format[0m
    version: version 2.0.0 is needed to
    read this document; this program
    knows 1.0.0
3 checkpoints, 1.4 KiB, 2 bad
END
    seen 80 ls look <<'END'
[1mNAME[0m                                 [1mLAYOUT[0m   [1mSEQUENCE[0m  [1mAGE[0m   [1mSIZE[0m  [1mSTATE[0m
x                                    sharded         0  N y  452 B  [31mincomplete[0m
    x.metadata.json names "x_shard_0.bin" (shard 0), which is not there
layers.of_the_old…_with_a_long_name  sharded         0  N y  491 B  complete
newer                                sharded         0       450 B  [33mnewer format[0m
    version: version 2.0.0 is needed to read this document; this program knows
    1.0.0
3 checkpoints, 1.4 KiB, 2 bad
END
    seen 200 ls look <<'END'
[1mNAME[0m                                      [1mLAYOUT[0m   [1mSEQUENCE[0m  [1mAGE[0m   [1mSIZE[0m  [1mSTAT
x                                         sharded         0  N y  452 B  [31mincomplete[0m    x.metadata.json
layers.of_the_old_model_with_a_long_name  sharded         0  N y  491 B  complete
newer                                     sharded         0       450 B  [33mnewer format[0m  version: version
3 checkpoints, 1.4 KiB, 2 bad
END
    run 0 ls look
    hasnt "$out" "$(printf '\033')"
    lines "$out" 5
}
look_of_info() {
    make_look
    TERM=dumb
    export TERM
    seen 40 info look/layers.of_the_old_model_with_a_long_name <<'END'
path:
    look/layers.of_the_old_model_with_a_long_name.metadata.json
layout:        sharded, not written by
               dcp.h (no integrity)
version:       1.0.0
timestamp:     2024-01-02T03:04:05Z (N y
               old)
save id:       none
sequence:      0
world size:    1
sharding:      fsdp, 1 shard, precision
               fp32
training:      none
custom fields: none
shards:
  RANK  SIZE  FILE
     0   8 B  layers.of_th…e_shard_0.bin
total:         1 tensor in 1 piece, 8
               bytes
signature:     none
END
    seen 80 info -q look/layers.of_the_old_model_with_a_long_name <<'END'
path:          look/layers.of_the_old_model_with_a_long_name.metadata.json
layout:        sharded, not written by dcp.h (no integrity)
version:       1.0.0
timestamp:     2024-01-02T03:04:05Z (N y old)
save id:       none
sequence:      0
world size:    1
sharding:      fsdp, 1 shard, precision fp32
training:      none
custom fields: none
shards:
  0  8 B  layers.of_the_old_model_with_a_long_name_shard_0.bin  0  66840dda…
total:         1 tensor in 1 piece, 8 bytes
signature:     none
END
}
# However narrow or strange: nothing that the tool breaks into lines is wider than the terminal.
look_fits() {
    TERM=dumb
    export TERM
    for columns in 40 57; do
        for c in "ls s/types" "ls -v s/ranks" "ls s/run" "info s/moe/step_300" "info s/odd" "verify s/one s/flat" \
            "prune -q s/run --keep 1 --dry-run"; do
            # shellcheck disable=SC2086
            on_terminal $c
            is "$(printf '%s' "$out" | sed 's/…/./g' | awk -v c=$columns 'length > c && NF > 1')" ""
            is "$(printf '%s\n' "$out" | grep ' $')" ""
        done
    done
    COLUMNS=44 && export COLUMNS                        # a terminal that does not say how wide it is
    columns=0
    on_terminal ls s/moe/step_200
    hasnt "$out" PLACEMENT
    unset COLUMNS
    on_terminal ls s/moe/step_200
    has "$out" PIECES
    hasnt "$out" PLACEMENT
}
sizes() {
    run 0 ls s/big
    has "$out" " 68.0 MiB "
    has "$out" "2 tensors, 68.0 MiB"
    run 0 ls --bytes s/big
    has "$out" "  71303168  "
    has "$out" "2 tensors, 71303176 bytes"
    run 0 ls --bytes s/run
    sum=$(($(size s/run/step_300.metadata.json) + $(size s/run/step_300_shard_0.bin)))
    has "$(echo "$out" | grep step_300)" "  $sum  "
    run 0 ls -q s/one
    lines "$out" 2
    hasnt "$out" NAME
}
ls_verify() {
    copy s/run bad
    flip bad/step_200_shard_0.bin 0
    run 0 ls bad
    lines "$(echo "$out" | grep complete)" 3
    run 0 ls --verify bad
    lines "$(echo "$out" | grep intact)" 2
    has "$(echo "$out" | grep step_200)" corrupt
    has "$out" "1 bad"
    run 0 ls --verify --json bad
    json '[c["intact"] for c in j["checkpoints"]] == [True, False, True]'
    run 0 ls --verify bad/step_300
    has "$out" "every byte is intact"
    run 1 ls --verify bad/step_200
    has "$err" "step_200_shard_0.bin"
    flip bad/step_300_shard_0.bin 0
    run 0 latest bad
    is "$out" bad/step_300.metadata.json
    run 0 latest --verify bad
    is "$out" bad/step_100.metadata.json
}

# ^C ends a loop of the shell: the signal ends the tool, after it has cleaned up and said so.
control_c() {
    need_python
    "$python" -c '
import signal, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
p.stdout.read(1)
p.send_signal(signal.SIGINT)
said = p.communicate()[1]
assert p.returncode == -signal.SIGINT and said, (p.returncode, said)' "$DCPTOOL" extract s/big a -o - ||
        fail "$(tail -n 1 "$work/trace")"
}
ls_of_other_files() {
    run 2 ls s/run/step_100_shard_0.bin
    has "$err" "the data of rank 0 of a checkpoint"
    has "$err" "dcptool ls s/run/step_100"
    printf '\020\0\0\0\0\0\0\0{"__metadata__":{}}' >model.safetensors
    printf 'PK\003\004rest' >model.pt
    printf 'GGUF' >model.gguf
    : >nothing
    echo text >notes.txt
    for pair in "model.safetensors a safetensors file" "model.pt a zip archive, as torch.save" \
        "model.gguf a GGUF file" "nothing an empty file" "notes.txt a file of another kind"; do
        run 2 ls "${pair%% *}"
        has "$err" "${pair%% *} is ${pair#* }"
        run 2 info --json "${pair%% *}"
        has "$out" DCP_E_INVALID
    done
    printf '{}' >broken.metadata.json                   # what has the name of a checkpoint is a corrupt one
    run 1 ls broken.metadata.json
    run 3 ls nowhere
}
manual() {
    run 0 help --man
    for c in ls info verify stats diff report cat extract convert sign sync repair watch latest prune sweep; do
        has "$out" ".SS \"dcptool $c "
    done
    has "$out" '\fB\-\-minimum\-step\fR \fIN\fR'
    command -v man >/dev/null 2>&1 || return 0
    errors=$(man --warnings -l "$work/out" 2>&1 >/dev/null | grep -v locale)
    is "$errors" ""
}
completion() {
    run 0 help --bash
    command -v bash >/dev/null 2>&1 || skip "no bash"
    complete='. ./out; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _dcptool; echo "${COMPREPLY[@]}"'
    is "$(bash -c "$complete" - dcptool lat)" latest
    is "$(bash -c "$complete" - dcptool ls --ver)" "--verbose --verify"
    is "$(bash -c "$complete" - dcptool convert --to manifest-)" manifest-yaml
    is "$(bash -c "$complete" - dcptool extract s/one w -o wq)" ""
}
