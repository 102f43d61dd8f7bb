# tool_repair.sh - part of test_tool.sh: dcptool repair.

# A set of checkpoints of every layout, and a copy of it.
make_repair() {
    rm -rf good hurt
    mkdir good
    cp s/one.checkpoint s/flat* s/ranks* s/few_rows* s/signed* good
    cp -R s/moe good
    copy good hurt
}
inode() { ls -i "$1" | sed 's/^ *//; s/ .*//'; }
same_trees() {                      # hurt is good again, and has nothing besides
    command -v diff >/dev/null 2>&1 || skip "no diff (package diffutils)"
    diff -r good hurt >trees 2>&1 || fail "not as it was: $(cat trees)"
}
# checkpoint, file of it: damaged, cut, too long and missing
repair_one() {
    for harm in flip cut grow remove; do
        case $harm in
        flip) flip "hurt/$2" $(($(size "hurt/$2") - 1)) ;;
        cut) head -c $(($(size "good/$2") - 7)) "good/$2" >"hurt/$2" ;;
        grow) printf x >>"hurt/$2" ;;
        remove) rm "hurt/$2" ;;
        esac
        case $harm$2 in removeone*) run 3 verify "hurt/$1" ;; *) run 1 verify "hurt/$1" ;; esac
        run 1 repair "hurt/$1" --from "good/${1%/*}" -n
        has "$out" "would repair ${2##*/}"
        run 0 repair "hurt/$1" --from "good/${1%/*}"
        has "$out" "1 repaired"
        run 0 verify "hurt/$1"
    done
    same_trees
}
repair_every_layout() {
    make_repair
    for f in one.checkpoint flat_shard_0.bin ranks_shard_1.bin few_rows_shard_1.bin; do
        kept=$(inode hurt/ranks_shard_0.bin)
        case $f in one*) c=one ;; *) c=${f%_shard*} ;; esac
        repair_one "./$c" "$f" || exit 1
        is "$(inode hurt/ranks_shard_0.bin)" "$kept"    # what is intact is not touched
    done
    rm hurt/few_rows_shard_0.bin                        # of a rank that had no row
    run 0 repair hurt/few_rows --from good
    same_trees
    run 0 repair hurt/ranks --from good
    is "$out" "OK hurt/ranks.metadata.json
3 files: 0 damaged, 0 missing, 0 repaired, 0 bytes fetched"
}
# Files of the pool belong to several checkpoints; documents in JSON and YAML, and those of the other layouts.
repair_manifests() {
    make_repair
    pool=$(cd good/moe && ls dense | grep '^a' | head -n 1)
    flip "hurt/moe/dense/$pool" 5
    run 1 verify hurt/moe
    run 0 repair hurt/moe/step_100 --from good/moe
    run 0 verify hurt/moe
    rm -r hurt/moe/experts
    run 0 repair hurt/moe/step_200 --from good/moe --json
    json 'j["ok"] and j["missing"] == 2 and j["repaired"] == 2 and all(f["repaired"] for f in j["damage"])'
    run 0 repair hurt/moe/step_300 --from good/moe
    run 0 verify hurt/moe
    same_trees
    for f in moe/step_100.manifest.json moe/step_200.manifest.yaml ranks.metadata.json; do
        c=${f%%.*}
        d=${f%/*}
        [ "$d" != "$f" ] || d=.
        flip "hurt/$f" $(($(size "hurt/$f") - 40))
        run 1 repair "hurt/$c" --from "good/$d" -n
        run 0 repair "hurt/$c" --from "good/$d"
        rm "hurt/$f"
        run 0 repair "hurt/$c" --from "good/$d"
        has "$out" "1 missing, 1 repaired"
        same_trees
    done
    [ ! -e hurt/moe/*.intent.tmp ] || fail "an intent was left"
    rm hurt/moe/step_100.manifest.json hurt/moe/dense/*
    run 0 repair hurt/moe/step_100 --from good/moe
    run 0 verify hurt/moe/step_100
}
# Neither copy is whole: blocks come from where they are right.
repair_of_two_halves() {
    make_repair
    cp s/big* hurt
    mkdir other third
    cp s/big* hurt/one.checkpoint other
    cp s/big.metadata.json third
    for at in 3 30000000 71303160; do flip hurt/big_shard_0.bin $at; done
    for at in 10000000 50000000; do flip other/big_shard_0.bin $at; done
    run 0 repair hurt/big --from third --from other
    has "$out" "12.0 MiB fetched"
    cmp hurt/big_shard_0.bin s/big_shard_0.bin || fail "big is not as it was"
    flip hurt/one.checkpoint 4100
    flip other/one.checkpoint 4170
    run 0 repair hurt/one --from other
    flip hurt/one.checkpoint 4100
    run 1 repair hurt/one --from other --from third -n
    flip other/one.checkpoint 4100
    run 1 repair hurt/one --from other
    has "$out" "BAD one.checkpoint: hurt/one.checkpoint: bytes 4096 to 4143 are not those that were saved, nor are"
    flip hurt/ranks_shard_0.bin 0                       # what can be repaired is
    rm hurt/ranks_shard_1.bin
    cp good/ranks_shard_1.bin other
    run 1 repair hurt/ranks --from other
    has "$out" "1 damaged, 1 missing, 1 repaired"
    cmp hurt/ranks_shard_1.bin good/ranks_shard_1.bin || fail "shard 1 is not as it was"
    no_temporaries hurt
}
# The commit file of another save does not come into its place, nor one that is not signed as it should be.
repair_refuses_other_saves() {
    make_repair
    mkdir wrong
    run 0 convert s/one wrong/one --to single
    run 0 convert s/ranks wrong/ranks --to sharded --drop ours
    flip hurt/one.checkpoint 600
    cp hurt/one.checkpoint before
    run 1 repair hurt/one --from wrong
    has "$err" "does not say that it is"
    cmp before hurt/one.checkpoint || fail "it was touched"
    run 0 repair hurt/one --from wrong --from good
    same_trees
    rm hurt/ranks.metadata.json
    run 1 repair hurt/ranks --from wrong --from good
    has "$err" "are of different saves"
    run 1 repair hurt/ranks --from wrong                # the files here are not its: none is replaced
    has "$out" "the commit file is missing; move it away"
    absent hurt/ranks.metadata.json
    cmp hurt/ranks_shard_0.bin good/ranks_shard_0.bin || fail "a file of another save was replaced"
    run 0 repair hurt/ranks --from good
    flip hurt/signed.metadata.json 200
    run 1 repair hurt/signed --from good
    has "$err" "is signed"
    run 1 repair hurt/signed --from good --key-file s/badkey.bin
    run 0 repair hurt/signed --from good --key-file s/key.bin
    flip hurt/signed_shard_0.bin 0                      # data only need their digests
    run 0 repair hurt/signed --from good
    same_trees
    run 3 repair hurt/nosuch --from good
    run 3 repair hurt/one --from nowhere
    run 2 repair hurt/one
    run 2 repair hurt --from good
    mkdir new
    run 0 repair new/ranks --from good                  # nothing is there: all of it is missing
    run 0 verify new/ranks
}
# A file that another manifest names with other bytes stays, whatever this one says.
repair_leaves_what_is_others() {
    make_repair
    pool=$(cd good/moe && ls dense | grep '^a' | head -n 1)
    cp good/moe/step_300.manifest.json mine.json
    printf other >"hurt/moe/dense/$pool"
    cat >hurt/moe/alien.manifest.json <<END
{"model_id": "x", "epoch": 0, "step": 0, "tiers": [], "shards": [{"path": "dense/$pool", "type": "dense",
"tensor_name": "a", "shape": [5], "dtype": "uint8", "checksum": "$(printf other | sha256sum | cut -c 1-64)",
"version": 0}], "optim_state": {}, "router_state": {}, "metadata_version": 1}
END
    run 0 verify hurt/moe/alien
    run 1 repair hurt/moe/step_300 --from good/moe
    has "$out" "alien.manifest.json, too, with other bytes"
    is "$(cat "hurt/moe/dense/$pool")" other
}
# Two at once, and one that is killed: what is there in the end is whole, and nothing is left that sweep does not know.
repair_at_once() {
    make_repair
    cp s/big* hurt
    for round in 1 2 3; do
        rm -f hurt/ranks_shard_1.bin hurt/one.checkpoint
        flip hurt/big_shard_0.bin 123456
        for c in big ranks one; do
            "$DCPTOOL" repair hurt/$c --from good --from s -q 2>first &
            first=$!
            "$DCPTOOL" repair hurt/$c --from s --from good -q 2>second &
            second=$!
            wait $first || fail "the first: $(cat first)"
            wait $second || fail "the second: $(cat second)"
            run 0 verify hurt/$c
        done
    done
    no_temporaries hurt
    flip hurt/big_shard_0.bin 123456
    "$DCPTOOL" repair hurt/big --from s &
    pid=$!
    sleep 0.05
    kill -9 $pid
    wait $pid 2>/dev/null
    run 0 repair hurt/big --from s
    run 0 verify hurt/big
    run 0 sweep hurt --grace 0
    no_temporaries hurt
}
