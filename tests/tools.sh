# tools.sh - the commands that the tests' scripts need and that small systems lack; each script sources it first, so
# that a missing one is named, and is no failure of the library.
missing_tools=
for needed in awk:gawk cmp:diffutils diff:diffutils find:findutils grep:grep sed:sed mktemp:coreutils sort:coreutils; do
    command -v "${needed%:*}" >/dev/null 2>&1 || missing_tools="$missing_tools ${needed%:*} (install ${needed#*:})"
done
if [ -n "$missing_tools" ]; then
    echo "FAILED tools: the tests need$missing_tools"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
