#!/bin/sh
# run.sh - what `make fuzz` runs: the targets of tests/fuzz with libFuzzer, AddressSanitizer and UBSan, two at a time,
# each for its share of the time.
#
#     make fuzz MINUTES=60 TARGETS="json yaml"      no MINUTES: 10; no TARGETS: all
#     make fuzz RUNS=10000000                       so many executions of each, however long that takes
#
# New inputs are kept in build/fuzz/corpus/<target>, findings in build/fuzz/findings. At the end: executions and
# findings, and what the corpus, old and new, covers of the chapters of dcp.h that read other people's bytes. Needs
# clang, and for the coverage llvm-cov and llvm-profdata.
cd "$(dirname "$0")/../.." || exit 1
out=build/fuzz
all="json yaml metadata manifest checkpoint paths integrity diff"
TARGETS=${TARGETS:-$all}
JOBS=${JOBS:-2}
version=$(clang --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p;q')
if [ -z "$version" ]; then
    echo 'clang is missing: install clang' >&2
    exit 3
fi
mkdir -p "$out/corpus" "$out/findings" "$out/log"
# fuzz.h counts what is not given back. Who requested the memory of a finding is not recorded: replayed without this,
# the input tells.
ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0:malloc_context_size=1:quarantine_size_mb=16"
export ASAN_OPTIONS

# -O2, and no tracing of comparisons: twice as many executions, which find more here than the traces do, since the
# tokens are listed in the targets.
build() {
    clang -g -O2 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -fno-sanitize-coverage=trace-cmp \
        -fsanitize-coverage-ignorelist=tests/fuzz/quiet.txt -I. "tests/fuzz/fuzz_$1.c" -o "$out/fuzz_$1" -lm
}
# fuzz TARGET
fuzz() {
    entropic=1
    case $1 in
    checkpoint) length=8192 entropic=0 ;;       # with this many features the weights take longer than the runs
    metadata | manifest | diff) length=4096 ;;
    *) length=1024 ;;
    esac
    mkdir -p "$out/corpus/$1" "tests/regress/fuzz_$1"
    nice "$out/fuzz_$1" -max_len=$length -entropic=$entropic "$limit" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 \
        -artifact_prefix="$out/findings/$1-" "$out/corpus/$1" "tests/corpus/$1" \
            "tests/regress/fuzz_$1" >"$out/log/$1" 2>&1
    rmdir "tests/regress/fuzz_$1" 2>/dev/null
}
count() { set -- $1; echo $#; }

for target in $TARGETS; do build "$target" || exit 1; done
if [ -n "$RUNS" ]; then
    limit=-runs=$RUNS
    echo "$RUNS executions each of: $TARGETS"
else
    seconds=$(awk -v m="${MINUTES:-10}" -v n="$(count "$TARGETS")" -v jobs="$JOBS" \
        'BEGIN { if (jobs > n) jobs = n; s = int(60 * m * jobs / n); print s < 1 ? 1 : s }')
    limit=-max_total_time=$seconds
    echo "$seconds s for each of: $TARGETS"
fi
# Each lane takes every JOBS-th target.
lane=0 pids=
while [ "$lane" -lt "$JOBS" ]; do
    (
        at=0
        for target in $TARGETS; do
            if [ $((at % JOBS)) -eq "$lane" ]; then fuzz "$target"; fi
            at=$((at + 1))
        done
    ) &
    pids="$pids $!"
    lane=$((lane + 1))
done
# shellcheck disable=SC2086
trap 'kill $pids 2>/dev/null' INT TERM
wait

# ---- what came of it -------------------------------------------------------------------------------------------------
failed=0
printf '\n%-12s %12s %8s %8s  %s\n' target executions inputs edges findings
for target in $TARGETS; do
    log=$out/log/$target
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    found=$(find "$out/findings" -name "$target-*" | tr '\n' ' ')
    printf '%-12s %12s %8s %8s  %s\n' "$target" "${executions:-?}" "$(find "$out/corpus/$target" -type f | wc -l)" \
        "${edges:-?}" "${found:-none}"
    if [ -n "$found" ] || [ -z "$executions" ]; then
        failed=1
        sed -n '/^==.*ERROR\|^tests\/fuzz\|^dcp.h.*runtime error\|bytes of memory/p' "$log" | head -n 5 |
            sed 's/^/    /'
    fi
done

# ---- coverage: all inputs replayed, by chapter -----------------------------------------------------------------------
tool() { command -v "$1" || command -v "$1-$version" || command -v "/usr/lib/llvm-$version/bin/$1"; }
cov=$(tool llvm-cov) profdata=$(tool llvm-profdata)
if [ -z "$cov" ] || [ -z "$profdata" ]; then
    echo "llvm-cov or llvm-profdata is missing: no coverage; install llvm"
    exit $failed
fi
clang -g -O1 -w -fprofile-instr-generate -fcoverage-mapping -DDCP_STATIC -I. tests/test_fuzz.c -o "$out/coverage" -lm ||
    exit 1
DCP_TEST_FILTER=every_input DCP_FUZZ_CORPUS=$out/corpus LLVM_PROFILE_FILE=$out/coverage.profraw \
    "$out/coverage" >"$out/log/coverage" || failed=1
"$profdata" merge -o "$out/coverage.profdata" "$out/coverage.profraw" || exit 1
"$cov" export -format=lcov -instr-profile="$out/coverage.profdata" "$out/coverage" dcp.h >"$out/coverage.lcov"
"$cov" report -show-functions -instr-profile="$out/coverage.profdata" "$out/coverage" dcp.h >"$out/coverage.functions"
# The chapter of a function is that of its line; lines and regions are counted by function.
grep -n '^ \* >>[a-z_]* ' dcp.h | sed 's/^\([0-9]*\): \* >>\([a-z_0-9]*\).*/chapter \1 \2/' >"$out/chapters"
printf '\ncovered by all inputs, corpus and new:\n'
awk '
    $1 == "chapter" { start[++chapters] = $2; name[chapters] = $3; next }
    /^FN:/ { split(substr($0, 4), f, ","); for (i = 1; i < chapters && start[i + 1] <= f[1];) i++
        of[f[2]] = name[i]; next }
    $1 in of && NF >= 7 { c = of[$1]; regions[c] += $2; missed[c] += $3; lines[c] += $5; unread[c] += $6 }
    END { n = split("json yaml integrity meta manifest file index", list, " ")
        for (i = 1; i <= n; i++) { c = list[i]
            if (lines[c]) printf "%-12s lines %5.1f %% of %5d   regions %5.1f %% of %5d\n", c,
                100 * (lines[c] - unread[c]) / lines[c], lines[c],
                100 * (regions[c] - missed[c]) / regions[c], regions[c] } }
' "$out/chapters" "$out/coverage.lcov" "$out/coverage.functions" | tee "$out/coverage.txt"
exit $failed
