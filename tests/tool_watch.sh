# tool_watch.sh - part of test_tool.sh: dcptool watch.

# What came before is not said; what is still being copied is said twice; then a bad one, and one that is replaced.
watch_says_what_comes() {
    mkdir watched
    cp s/run/step_100* watched
    "$DCPTOOL" watch watched --count 3 --timeout 60 >"$work/out" 2>"$work/err" &
    pid=$!
    wait_for_line STATE
    cp s/run/step_200.metadata.json watched
    wait_for_line incomplete
    cp s/run/step_200_shard_0.bin watched
    wait_for_line complete
    cp s/one.checkpoint watched/arriving && printf x >>watched/arriving && mv watched/arriving watched/one.checkpoint
    wait_for_line corrupt
    cp s/one.checkpoint watched/arriving && mv watched/arriving watched/one.checkpoint
    wait $pid
    is $? 1
    is "$(sed '/^   /d; s/ *[0-9.]* KiB  *[0-9a-z]* *[a-z]* /|/; s/  */ /g' "$work/out")" "STATE STEP SIZE AGE NAME
incomplete 200|step_200
complete 200|step_200
corrupt|one
complete 300|one"
    has "$(cat "$work/out")" "step_200_shard_0.bin"
    is "$(cat "$work/err")" ""
}
# from to: copies are moved there at once, again and again until the file `stop` is there, or the directory is not;
# silent, since a test that fails ends only when all that it began has let go of its output
keep_coming() {
    rm -f stop
    while [ ! -e stop ] && [ -d "$2" ]; do
        rm -rf coming && cp -R "$1" coming && mv coming/* "$2"
        sleep 0.8
    done
}
watch_looks() {
    mkdir seen both
    cp s/run/step_200* both && cp s/one.checkpoint both/long_name_of_one.checkpoint
    keep_coming both seen >/dev/null 2>&1 &
    TERM=dumb columns=40
    export TERM
    on_terminal watch seen --count 2 --timeout 60
    is "$(printf '%s\n' "$out" | sed 's/ [0-9.]* KiB/ N.N KiB/')" "STATE         STEP       SIZE NAME
complete       300    N.N KiB
           long_name_of_one
complete       200    N.N KiB step_200"
    : >stop
    wait
}
wait_for_line() {                   # that begins with this word
    tries=0
    until grep -q "^$1 " "$work/out"; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "no line '$1': $(cat "$work/out")"
        sleep 0.1
    done
}
watch_ends() {
    mkdir ending
    run 1 watch ending --timeout 0
    run 1 watch ending --timeout 1s -q
    is "$out" ""
    run 3 watch nowhere --timeout 1
    run 2 watch ending --count 0
    run 2 watch ending --timeout soon
    mkdir watched_damaged
    cp s/one.checkpoint watched_damaged && flip watched_damaged/one.checkpoint 4100
    keep_coming watched_damaged ending >/dev/null 2>&1 &
    run 1 watch ending --count 1 --timeout 60 --verify --json
    : >stop
    json 'len(j["checkpoints"]) == 1 and not j["checkpoints"][0]["intact"]'
    wait
    rm -r ending
    mkdir ending
    # a reader that has enough of it
    "$DCPTOOL" watch ending --timeout 60 | head -n 1 | grep -q STATE || fail "no header in a pipe"
    (sleep 0.3; rm -r ending) &
    run 3 watch ending --timeout 60
    wait
}
watch_interrupted() {
    need_python
    mkdir quiet
    "$python" -c '
import json, signal, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
first = p.stdout.readline()
p.send_signal(signal.SIGINT)
out = first + p.communicate()[0]
assert p.returncode == -signal.SIGINT, p.returncode
assert json.loads(out)["checkpoints"] == [], out' "$DCPTOOL" watch quiet --json || fail "$(tail -n 1 "$work/trace")"
}
# Half a thousand checkpoints are not read at each look: six looks take less than two listings.
watch_reads_what_is_new() {
    need_python
    mkdir many
    for i in 0 1 2 3 4; do
        for k in 0 1 2 3 4 5 6 7 8 9; do
            for l in 0 1 2 3 4 5 6 7 8 9; do cp s/one.checkpoint "many/$i$k$l.checkpoint"; done
        done
    done
    "$python" - "$DCPTOOL" <<'END' || fail "$(tail -n 1 "$work/trace")"
import resource, subprocess, sys
def seconds(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([sys.argv[1], *arguments], stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out
listing, out = seconds("ls", "many")
assert b"500 checkpoints" in out
watching, out = seconds("watch", "-q", "many", "--timeout", "3")
assert out == b"" and watching < 2 * listing, (watching, listing)
END
    rm -r many
}
