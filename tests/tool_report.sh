# tool_report.sh - part of test_tool.sh: dcptool report. report_page.py looks at its pages in Chromium.

# evil/names: tensors whose names would end a script, turn the writing direction, or be markup.
make_evil() {
    need_python
    [ ! -d evil ] || return 0
    mkdir evil
    "$python" - <<'END' || fail "$(tail -n 1 "$work/trace")"
import hashlib, json
names = ["</script><script>window.broken = 1</script>", "<!--<script>", "<b>bold</b>", "a\u202eb.c", "x\u2066y",
         "\u05d0\u05d1.weight", "zero\ufeffwidth\u200f", "'\"&amp;\\", "]]>", "<img src=x onerror=broken=1>"]
whole, tensors = b"", []
for i, name in enumerate(names):
    tensors.append({"name": name, "shape": [2 + i], "dataType": "uint8", "offset": len(whole), "size": 2 + i})
    whole += bytes(range(64))[:2 + i].ljust(64, b"\0")
whole = whole[:tensors[-1]["offset"] + tensors[-1]["size"]]
open("evil/names_shard_0.bin", "wb").write(whole)
json.dump({"version": "1.0.0", "timestamp": "2024-01-02T03:04:05Z", "worldSize": 1, "ddpRank": 0,
    "sharding": {"strategy": "</title><b>", "shardCount": 1, "precision": "fp32", "strategySpecificInfo": {}},
    "shards": [{"rank": 0, "filePath": "names_shard_0.bin", "fileSize": len(whole),
                "checksum": hashlib.sha256(whole).hexdigest(), "tensors": tensors}], "training": None},
    open("evil/names.metadata.json", "w"))
END
}
# a page and what --json prints for it: NAME ARGUMENTS...
report() {
    made=$1
    shift
    run "${code:-0}" report -q --force -o "$made.html" "$@"
    run "${code:-0}" report -q --json "$@"
    cp out "$made.json"
}

report_json() {
    run 0 report --json s/run/step_300 --against s/run/step_100
    json 'j["kind"] == "checkpoint" and j["step"] == 300 and j["bytes"] == 80 and j["values_read"]'
    json '[t["name"] for t in j["tensors"]] == ["bias", "w"]'
    json 'j["tensors"][0]["difference"] is None and j["tensors"][1]["difference"]["different"] == 12'
    json 'j["tensors"][1]["difference"]["largest_absolute"] == 200 and j["against"]["same"] == 1'
    json 'j["tensors"][1]["values"]["norm"] == 1043.998 and sum(j["tensors"][1]["values"]["histogram"]) == 12'
    absent step_300.html
    run 0 report --json s/other --against s/one
    json '[t["difference"]["kind"] for t in j["tensors"]] == ["type", "tensor", "shape"]'
    run 0 report --json s/one --against s/other
    json '[t["name"] for t in j["against"]["only_there"]] == ["extra"]'
    run 0 report --json s/ranks
    json '[p[2:] for t in j["tensors"] if t["name"] == "w" for p in t["pieces"]] ==
        [[[0, 0], [2, 3]], [[2, 0], [2, 3]]]'
    run 0 report --json s/moe --norms '[ab]'
    json '[c["step"] for c in j["checkpoints"]] == [100, 200, 300]'
    json 'all(c["bytes_reused"] + c["bytes_written"] == c["bytes"] for c in j["checkpoints"])'
    json '[c["bytes_reused"] for c in j["checkpoints"]] == [0, 5 * 384, 5 * 384]'
    json '[t["name"] for t in j["norms"]["tensors"]] == ["a", "b"] and len(j["norms"]["tensors"][0]["norms"]) == 3'
    for c in s/types s/shapes s/odd s/unknown s/foreign s/moe/step_200; do run 0 report -q --json $c; done
}
report_file() {
    run 0 report s/run/step_300
    has "$err" "wrote step_300.html"
    run 3 report s/run/step_300
    has "$err" "--force"
    run 0 report -q --force s/run/step_300.metadata.json
    run 0 report -q s/run/
    [ -s run.html ] || fail "no run.html"
    run 3 report s/one -o nowhere/x.html
    run 2 report s/one -o s
    run 2 report --against s/one s/run
    run 2 report --stats s/run
    run 2 report --norms '*' s/one
    run 1 report s/empty
    run 3 report nowhere
    no_temporaries
    "$DCPTOOL" report s/one -o - >piped.html 2>/dev/null || fail "not to standard output"
    "$DCPTOOL" report -q s/one -o one.html
    cmp -s piped.html one.html || fail "another page through a pipe"
    [ ! -c /dev/full ] || { "$DCPTOOL" report s/one -o - >/dev/full 2>"$work/err"; is $? 3; }
}
# What is damaged is marked, and the rest is shown.
report_of_damage() {
    copy s/run bad
    flip bad/step_300_shard_0.bin 0
    run 1 report --json bad/step_300
    json 'j["damaged"] == 1 and ["damage" in t for t in j["tensors"]] == [False, True]'
    json '["values" in t for t in j["tensors"]] == [True, False]'
    run 1 report -q bad/step_300 -o damage.html
    [ -s damage.html ] || fail "no page"
    run 1 report --json bad --norms '*'
    json 'j["damaged"] == 1 and "damage" in j["checkpoints"][2] and len(j["norms"]["tensors"]) == 2'
    rm bad/step_200_shard_0.bin
    run 0 report --json bad
    json '[c["status"] for c in j["checkpoints"]] == ["DCP_OK", "DCP_E_INCOMPLETE", "DCP_OK"]'
    rm bad/step_300_shard_0.bin
    run 1 report -q bad/step_300 --force -o damage.html
}
# More than 1 GiB: nothing is read unless --stats asks for it, nor to compare.
report_reads_no_more() {
    dd if=/dev/null of=vast_shard_0.bin bs=1 seek=1073741828 2>/dev/null || skip "no sparse files here"
    sed -e 's/foreign_shard/vast_shard/' -e 's/"shape": \[2\]/"shape": [268435457]/' -e 's/ize": 8/ize": 1073741828/g' \
        -e 's/"checksum": "[0-9a-f]*"/"checksum": null/' s/foreign.metadata.json >vast.metadata.json
    run 0 report --json vast --against vast
    has "$err" "values were not read"
    has "$err" "--stats"
    json 'not j["values_read"] and "values" not in j["tensors"][0]'
    json 'j["tensors"][0]["difference"]["kind"] == "unknown"'
    rm vast_shard_0.bin
}
# The page has what --json prints, no name ends its script, and its policy lets its own script run and nothing else.
report_page() {
    make_evil
    report evil_page evil/names
    report plain_page s/types
    "$python" - evil_page plain_page <<'END' || fail "$(tail -n 1 "$work/trace")"
import base64, hashlib, json, re, sys
for name in sys.argv[1:]:
    page = open(name + ".html", encoding="utf-8", newline="").read()
    data = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(data) == json.load(open(name + ".json", encoding="utf-8")) and "<" not in data
    assert page.count("</script") == page.count("<script") == 2 and page.count("<title") == 1
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page).group(1)
    for tag in "style", "script":
        text = re.search("<%s>(.*?)</%s>" % (tag, tag), page, re.S).group(1)
        want = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert "%s-src 'sha256-%s'" % (tag, want) in policy, (tag, policy)
    assert "default-src 'none'" in policy and "http" not in page.replace("http-equiv", "").replace(
        "http://www.w3.org/2000/svg", "")
END
}
browser() { "$python" "$root/tests/report_page.py" "$chromium" "$@" || fail "$(tail -n 3 "$work/trace")"; }
need_chromium() {
    need_python
    for chromium in chromium chromium-browser google-chrome; do
        command -v "$chromium" >/dev/null 2>&1 && return
    done
    missing chromium "chromium is missing"
}
report_in_browser() {
    need_chromium
    make_evil
    report one s/run/step_300
    report two s/run/step_300 --against s/run/step_100
    report parts s/ranks
    report names evil/names
    report steps s/moe --norms '*'
    browser checkpoint one.html one.json difference two.html two.json ranks parts.html parts.json \
        hostile names.html names.json directory steps.html steps.json
}
report_of_many() {
    [ -n "${WHOLE:-}" ] || skip "make test-all opens 100,000 tensors"
    need_chromium
    "$python" - <<'END' || fail "$(tail -n 1 "$work/trace")"
import json
tensors = [{"name": "model.layers.%d.experts.%d.%s" % (i % 40, i // 200, "up down gate wq wo".split()[i // 40 % 5]),
            "shape": [4], "dataType": "fp32", "offset": 64 * i, "size": 16} for i in range(100000)]
open("hundred_shard_0.bin", "wb").write((b"\1" * 16).ljust(64, b"\0") * 99999 + b"\1" * 16)
json.dump({"version": "1.0.0", "timestamp": "2024-01-02T03:04:05Z", "worldSize": 1, "ddpRank": 0,
    "sharding": {"strategy": "x", "shardCount": 1, "precision": "fp32", "strategySpecificInfo": {}},
    "shards": [{"rank": 0, "filePath": "hundred_shard_0.bin", "fileSize": 6399952, "checksum": None,
                "tensors": tensors}], "training": None}, open("hundred.metadata.json", "w"))
END
    report hundred hundred
    browser many hundred.html hundred.json
}
