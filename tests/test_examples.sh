#!/bin/sh
# test_examples.sh - builds and runs every example and every code block of the documents (README.md and others), as a
# user would.
#
# Each example is built without a word from the compiler, in a copy of examples/, by the very line that its head comment
# gives, and run there; it must exit with 0, end with a line that says what was proven, and leave nothing that git would
# take. Its `cc` is a script: the first example is built as it stands; the others share one implementation of dcp.h,
# build/dcp.o, as the files of one program would, since that takes most of the compiler's time. A ```c block of a
# document with a main is a program and is run; any other block is compiled: alone if it has the implementation, else at
# file scope or inside a function that has the variables err, status, save, load, tensors, and what a comment
# `<!-- needs: DECLARATIONS -->` before it asks for.
#
# CC, CFLAGS, CXX, CXXFLAGS   compilers and flags; default: clang (half the time; g++ reads all of them too) or cc, -O2;
# g++ -std=c++11
# MPICC, MPIRUN               of one MPI; default: mpicc, mpirun
# DCP_REQUIRE                 with the word cxx (mpi, cuda) in it, what is missing for that is a failure, not a skip
# DCP_TEST_FILTER             only tests whose name contains this

cd "$(dirname "$0")/.." || exit 1
. tests/tools.sh
root=$(pwd)
"${MAKE:-make}" -s build/dcp.o || exit 1
if [ -z "${CC:-}" ] && command -v clang >/dev/null 2>&1; then export CC=clang OMPI_CC=clang MPICH_CC=clang; fi
CC=${CC:-cc} CFLAGS=${CFLAGS:--O2} CXX=${CXX:-g++} CXXFLAGS=${CXXFLAGS:--std=c++11}
MPICC=${MPICC:-mpicc} MPIRUN=${MPIRUN:-mpirun}
# Open MPI: as root too, more ranks than processors, and quietly.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_base_warn_component_unused=0 UCX_LOG_LEVEL="${UCX_LOG_LEVEL:-error}"
passed=0 failed=0 skipped=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/dcp_examples.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

wanted() { case $1 in *"${DCP_TEST_FILTER:-}"*) ;; *) return 1 ;; esac; }
ok() { echo "ok $1"; passed=$((passed + 1)); }
bad() { echo "FAILED $1: $2"; failed=$((failed + 1)); }
missing() {             # missing NAME WORD WHAT: a skip, unless DCP_REQUIRE has the word
    case " ${DCP_REQUIRE:-} " in
    *" $2 "*) bad "$1" "$3, and DCP_REQUIRE asks for $2" ;;
    *) echo "skipped $1: $3"; skipped=$((skipped + 1)) ;;
    esac
}
have() { command -v "${1%% *}" >/dev/null 2>&1; }
first_of() { sed -n "/[^ ]/{p;q;}" "$1"; }
# build NAME COMMAND...: reports and returns 1 unless it succeeds without a word
build() {
    name=$1; shift
    if ! "$@" >"$scratch/build.txt" 2>&1; then
        bad "$name" "does not build: $(grep -m 1 error "$scratch/build.txt" || first_of "$scratch/build.txt")"; return 1
    fi
    if [ -s "$scratch/build.txt" ]; then bad "$name" "compiler says: $(first_of "$scratch/build.txt")"; return 1; fi
}
# run_in NAME DIRECTORY PATTERN COMMAND...: must exit with 0, and its last line must match
run_in() {
    name=$1 directory=$2 pattern=$3; shift 3
    mkdir -p "$directory"
    (cd "$directory" && "$@") >"$scratch/out.txt" 2>"$scratch/err.txt" </dev/null
    status=$?
    if [ $status -ne 0 ]; then bad "$name" "exit status $status: $(first_of "$scratch/err.txt")"; return 1; fi
    if [ -s "$scratch/err.txt" ]; then bad "$name" "on stderr: $(first_of "$scratch/err.txt")"; return 1; fi
    if [ -n "$pattern" ] && ! tail -n 1 "$scratch/out.txt" | grep -q "$pattern"; then
        bad "$name" "the last line is not a proof: $(tail -n 1 "$scratch/out.txt")"
        return 1
    fi
}
# The flags are lists of words.
# shellcheck disable=SC2086
compile() { $CC $CFLAGS -Wall -Wextra "$1" -I"$root" -o "$2" -lm -pthread; }
# shellcheck disable=SC2086
compile_cxx() { $CXX $CXXFLAGS -Wall -Wextra -x c++ "$1" -I"$root" -o "$2" -lm -pthread; }

# ---- the examples -----------------------------------------------------------------------------------------------

# A copy of the tree, a repository where there is git, whose dcp.h is without the implementation. `cc` and `mpicc` are
# the compilers under test, with what the implementation compiles to instead; or, with DCP_WHOLE, as a user has them.
tree=$scratch/tree
mkdir -p "$tree/bin" "$tree/examples"
cp .gitignore dcp_mpi.h dcp_cuda.h "$tree"
cp -R examples/* "$tree/examples"
rm -rf "$tree/examples/checkpoints"
cat >"$tree/dcp.h" <<END
#ifdef DCP_IMPLEMENTATION
#undef DCP_IMPLEMENTATION
#define DCP_MPI_IMPLEMENTATION
#endif
#include "$root/dcp.h"
END
# as_user NAME COMPILER: the script tree/bin/NAME, which must not find itself
as_user() {
    compiler=$(command -v "${2%% *}") || return 0
    case $2 in *' '*) compiler="$compiler ${2#* }" ;; esac
    cat >"$tree/bin/$1" <<END
#!/bin/sh
if [ -n "\${DCP_WHOLE:-}" ]; then exec $compiler $CFLAGS -Wall -Wextra -I"$root" "\$@"; fi
exec $compiler $CFLAGS -D_GNU_SOURCE -Wall -Wextra "\$@" "$root/build/dcp.o"
END
    chmod +x "$tree/bin/$1"
}
as_user cc "$CC"
as_user mpicc "$MPICC"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$MPIRUN")" >"$tree/bin/mpirun"
for name in sbatch srun scontrol; do cp tests/slurm.sh "$tree/bin/$name"; done
chmod +x "$tree/bin"/*
if have git; then (cd "$tree" && git init -q && git add -A) >/dev/null 2>&1; fi
# What git would take besides what it has.
untracked() { ! have git || (cd "$tree" && git status --porcelain | sed -n 's/^?? //p'); }
# build_line SOURCE: what its head comment says
build_line() { sed -n 's/^ \* Build: *\([^ ].*[^ ]\)  *(.*/\1/p; t; s/^ \* Build: *//p' "$1" | head -n 1; }
# build_as_said SOURCE: in its directory, by its line
build_as_said() {
    line=$(build_line "$1")
    [ -n "$line" ] || { echo "error: no line 'Build:' in the head of $1"; return 1; }
    (cd "$(dirname "$1")" && PATH=$tree/bin:$PATH && export PATH && sh -c "$line")
}

for source in quickstart.c game_save.c single_file.c resume_loop.c slices.c custom_storage.c custom_json_state.c \
    own_coordinator.c async_loop.c preempt.c moe_tiers.c; do
    example=$(basename "$source" .c) source=$tree/examples/$source here=$tree/examples
    program=./$example
    wanted "$example" || continue
    if [ ! -f "$source" ]; then bad "$example" "examples/$example.c is not there"; continue; fi
    lines=$(wc -l <"$source")
    least=25 most=90
    [ $example = custom_storage ] && most=105
    case $example in own_coordinator | moe_tiers) most=130 ;; esac
    if [ "$lines" -lt $least ] || [ "$lines" -gt $most ]; then
        bad "$example" "$((lines)) lines, not $least to $most"
        continue
    fi
    if [ $example = quickstart ] || [ -n "${WHOLE:-}" ]; then export DCP_WHOLE=1; fi
    if ! build "$example" build_as_said "$source"; then unset DCP_WHOLE; continue; fi
    unset DCP_WHOLE
    run_in "$example" "$here" '^proved: ' "$program" || continue
    cp "$scratch/out.txt" "$scratch/first.txt"
    mkdir "$scratch/$example.e"
    if [ $example = resume_loop ]; then
        run_in "$example" "$here" 'at step 60 ' "$program" || continue
        if ! grep -q '^resumed at step 30$' "$scratch/out.txt"; then
            bad "$example" "the second run did not resume: $(first_of "$scratch/out.txt")"
            continue
        fi
    elif ! run_in "$example" "$here" '^proved: ' "$program"; then
        continue                                        # it must run again where it has run before
    fi
    left=$(untracked)
    if [ -n "$left" ]; then bad "$example" "leaves what git would take: $left"; continue; fi
    program=$here/$example
    # a directory of our choice
    run_in "$example" "$scratch" '^proved: ' "$program" "$scratch/$example.e" || continue
    for file in first out; do sed -i.with_times '/ ms /d' "$scratch/$file.txt"; done
    if ! cmp -s "$scratch/first.txt" "$scratch/out.txt"; then
        bad "$example" "a fresh run prints something else"; continue
    fi
    if [ -z "$(ls "$scratch/$example.e")" ]; then bad "$example" "wrote nothing below its argument"; continue; fi
    ok "$example"
done

if wanted demo_charlm && build demo_charlm build_as_said "$tree/examples/demo_charlm.c"; then
    cp "$tree/examples/demo_charlm" "$scratch"
    # Two steps on 4 ranks, then two more on 3; the same four at once on 1; what comes out must be the same.
    set -- --text "$root/dcp.h" --save-every 2
    if run_in demo_charlm "$scratch/a" '^parameters sha256 ' "$scratch/demo_charlm" train --dir . --steps 2 "$@" &&
        run_in demo_charlm "$scratch/a" '^parameters sha256 ' "$scratch/demo_charlm" train --dir . --steps 4 --ranks 3 \
            "$@" &&
        cp "$scratch/out.txt" "$scratch/resumed.txt" &&
        run_in demo_charlm "$scratch/b" '^parameters sha256 ' "$scratch/demo_charlm" train --dir . --steps 4 --ranks 1 \
            "$@"; then
        if [ "$(tail -n 1 "$scratch/resumed.txt")" = "$(tail -n 1 "$scratch/out.txt")" ]; then ok demo_charlm
        else bad demo_charlm "the resumed run ends with other parameters"; fi
    fi
fi

# With OpenSSL.
name=sign_ed25519 program=$scratch/sign_ed25519
if wanted $name; then
    if ! printf '#include <openssl/evp.h>\nint main(void) { return EVP_PKEY_ED25519 == 0; }\n' |
        $CC -x c - -o "$program.probe" -lcrypto 2>/dev/null; then
        missing $name openssl "OpenSSL is not there; install libssl-dev"
    elif build $name build_as_said "$tree/examples/$name.c" &&
        run_in $name "$tree/examples" '^proved: ' ./$name &&
        run_in $name "$tree/examples" '^proved: ' ./$name; then
        refused=$(grep -c ': DCP_E_SIGNATURE$' "$scratch/out.txt") lines=$(wc -l <"$root/examples/$name.c")
        if [ "$refused" != 4 ]; then bad $name "refused $refused forgeries, not 4"
        elif [ "$lines" -gt 130 ]; then bad $name "$((lines)) lines, not up to 130"
        else ok $name; fi
    fi
fi

# As C++ the first one runs, and all are read by the compiler, each in a namespace of one unit.
all_as_cxx() {
    # shellcheck disable=SC2086
    $CXX $CXXFLAGS -Wall -Wextra -fsyntax-only "$scratch/all.cc" -I"$root"
}
if ! have "$CXX"; then
    for name in quickstart_cxx examples_cxx; do ! wanted $name ||
        missing $name cxx "no C++ compiler ($CXX); install g++"; done
else
    name=quickstart_cxx program=$scratch/quickstart_cxx
    if wanted $name && build $name compile_cxx "$root/examples/quickstart.c" "$program" &&
        run_in $name "$program.d" '^proved: ' "$program"; then
        ok $name
    fi
    name=examples_cxx
    set -- quickstart game_save single_file resume_loop slices custom_storage custom_json_state own_coordinator \
        async_loop preempt moe_tiers demo_charlm
    {
        echo '#define DCP_IMPLEMENTATION'
        echo '#include "dcp.h"'
        for example; do grep '^#include <' "$root/examples/$example.c"; done | sort -u
        for example; do printf 'namespace %s {\n#include "%s"\n}\n' "$example" "$root/examples/$example.c"; done
    } >"$scratch/all.cc"
    if wanted $name && build $name all_as_cxx; then ok $name; fi
fi

# ---- the examples for MPI: each with one number of ranks, then with another ----------------------------------------

mpi_is_there() {        # mpi_is_there NAME
    if have "$MPICC" && have "$MPIRUN"; then return 0; fi
    missing "$1" mpi "$MPICC or $MPIRUN is not there; install openmpi-bin libopenmpi-dev, or mpich libmpich-dev"
    return 1
}
# ranks NAME N PATTERN COMMAND...
ranks() {
    name=$1 n=$2 pattern=$3; shift 3
    run_in "$name" "$scratch/$name.d" "$pattern" timeout -k 5 120 "$MPIRUN" -np "$n" "$@"
}
name=mpi_stencil program=$tree/examples/mpi_stencil
if wanted $name && mpi_is_there $name; then
    lines=$(wc -l <"$root/examples/mpi_stencil.c")
    if [ "$lines" -gt 130 ]; then bad $name "$((lines)) lines, not up to 130"
    elif build $name build_as_said "$program.c" &&
        ranks "$name" 4 '^step 300$' "$program" whole 2x2 300 &&
        ranks "$name" 4 '^step 150$' "$program" parts 2x2 150 &&
        ranks "$name" 3 '^proved: ' "$program" parts 1x3 300 whole; then
        if grep -q '^resumed at step 150$' "$scratch/out.txt"; then ok $name
        else bad $name "it did not resume at step 150"; fi
    fi
fi
name=demo_charlm_mpi program=$scratch/demo_charlm_mpi
compile_demo_mpi() {
    (cd "$tree/examples" && PATH=$tree/bin:$PATH && export PATH &&
        mpicc -DDCP_MPI demo_charlm.c -I.. -o "$1" -lm -pthread 2>&1 | grep -v 'mpi\.h'; [ -x "$1" ])
}
if wanted $name && mpi_is_there $name && build $name compile_demo_mpi "$program"; then
    set -- --dir . --text "$root/dcp.h" --save-every 2
    if ranks "$name" 3 '^parameters sha256 ' "$program" train --steps 2 "$@" &&
        ranks "$name" 2 '^parameters sha256 ' "$program" train --steps 4 "$@"; then
        # The threads' four steps, if they were run, are these.
        if [ ! -s "$scratch/resumed.txt" ] ||
            [ "$(tail -n 1 "$scratch/resumed.txt")" = "$(tail -n 1 "$scratch/out.txt")" ]; then ok $name
        else bad $name "processes of MPI end with other parameters than threads"; fi
    fi
fi

# ---- the recipes: examples/<topic>/README.md, each ```sh block as it stands, and each line of its ```text ------------

blocks() { awk -v kind="$1" '$0 == "```" kind { inside = 1; next } /^```/ { inside = 0 } inside' "$2"; }
# as_written TOPIC: in $tree/examples/TOPIC; what it prints is in out.txt
as_written() {
    blocks sh "examples/$1/README.md" >"$scratch/recipe.sh"
    mkdir -p "$scratch/slurm"
    (cd "$tree/examples/$1" && PATH=$tree/bin:$PATH && DCP_SLURM=$scratch/slurm && export PATH DCP_SLURM &&
        if have timeout; then timeout -k 5 200 sh -e "$scratch/recipe.sh"; else sh -e "$scratch/recipe.sh"; fi) \
        >"$scratch/out.txt" 2>&1 </dev/null || { echo "exit status $?: $(tail -n 3 "$scratch/out.txt")"; return 1; }
    ! grep 'warning:' "$scratch/out.txt" || return 1
    lines=0
    blocks text "examples/$1/README.md" >"$scratch/expected.txt"
    while IFS= read -r line; do
        lines=$((lines + 1))
        grep -qF -e "$line" "$scratch/out.txt" || { echo "does not print: $line"; return 1; }
    done <"$scratch/expected.txt"
    [ $lines -gt 0 ] || { echo "README.md does not say what it prints"; return 1; }
    left=$(untracked)
    [ -z "$left" ] || { echo "leaves what git would take: $left"; return 1; }
}
topics="slurm mpi_halo crash_loop game_slots ml_training schema_change"
[ -z "${WHOLE:-}" ] || ! have mpif90 || topics="$topics fortran"        # compiled whole; test_languages.sh has it too
for topic in $topics; do
    wanted "recipe_$topic" || continue
    if blocks sh "examples/$topic/README.md" | grep -q '^mpi'; then mpi_is_there "recipe_$topic" || continue; fi
    [ -z "${WHOLE:-}" ] || export DCP_WHOLE=1
    if why=$(as_written "$topic"); then ok "recipe_$topic"; else bad "recipe_$topic" "$why"; fi
    unset DCP_WHOLE
done

# ---- the code blocks of the documents ----------------------------------------------------------------------------

# a_block FILE NAME: compiles the block in the file, and runs it if it is a program
a_block() {
    block=$1 name=$2
    if grep -q 'DCP_MPI' "$block"; then
        if ! have "$MPICC"; then
            missing "$name" mpi "$MPICC is not there; install libopenmpi-dev or libmpich-dev"
        elif build "$name" "$MPICC" -x c "$block" -I"$root" -c -o "$scratch/block.o"; then ok "$name"; fi
    elif grep -q 'DCP_CUDA' "$block"; then
        if ! have nvcc; then missing "$name" cuda "nvcc is not there; install the CUDA toolkit"
        else
            # dcp.h as CUDA takes long; test_cuda.sh compiles it so
            sed 's/^#define DCP_IMPLEMENTATION$/#define DCP_CUDA_IMPLEMENTATION/' "$block" >"$block.x"
            build "$name" nvcc -x cu "$block.x" -I"$root" -c -o "$scratch/block.o" && ok "$name"
        fi
    elif grep -q '[ \t*]main *(' "$block"; then
        build "$name" compile "$block" "$scratch/block" &&
            run_in "$name" "$scratch/$name.d" '' "$scratch/block" && ok "$name"
    elif grep -q 'DCP_IMPLEMENTATION' "$block"; then
        # shellcheck disable=SC2086
        if build "$name" $CC $CFLAGS -Wall -Wextra -I"$root" -c "$block" -o "$scratch/block.o"; then ok "$name"; fi
    else
        needs=$(sed -n 's|^.*// needs: *||p' "$block")
        { echo '#include "dcp.h"'; printf '%s\n' "$needs"; cat "$block"; } >"$scratch/file_scope.c"
        {
            echo '#include "dcp.h"'
            echo '#include <stdio.h>'
            grep '^#' "$block"
            echo 'int block(void);'
            echo 'int block(void) {'
            echo 'dcp_error err; dcp_status status = DCP_OK; dcp_tensor tensors[1] = {DCP_ZERO};'
            echo 'dcp_save_desc save = DCP_ZERO; dcp_load_desc load = DCP_ZERO;'
            printf '%s\n{\n' "$needs"
            grep -v '^#' "$block"
            printf '}\nreturn (int)status;\n}\n'
        } >"$scratch/in_function.c"
        # shellcheck disable=SC2086
        if $CC $CFLAGS -w -I"$root" -fsyntax-only "$scratch/in_function.c" >"$scratch/build.txt" 2>&1 ||
            $CC $CFLAGS -w -I"$root" -fsyntax-only "$scratch/file_scope.c" >/dev/null 2>&1; then
            ok "$name"
        else
            bad "$name" "does not compile: $(grep -m 1 error "$scratch/build.txt")"
        fi
    fi
}
# examples/README.md, line N: the test examples_readme_line_N
for document in README.md examples/*.md examples/*/*.md tests/*.md; do
    if [ ! -f "$document" ]; then bad "$document" "is not there"; continue; fi
    prefix=$(echo "${document%.md}" | tr '/A-Z' '_a-z')
    rm -f "$scratch"/block_*.c
    awk -v to="$scratch/block_" '
        !inside && sub(/^<!-- needs: */, "") { sub(/ *-->$/, ""); needs = needs "// needs: " $0 "\n"; next }
        !inside && /^```c($|[ \t])/ { inside = 1; file = to NR ".c"; printf "%s", needs > file; needs = ""; next }
        inside && /^```/ { inside = 0; close(file); next }
        inside { print > file }' "$document"
    for block in "$scratch"/block_*.c; do
        [ -f "$block" ] || continue
        line=${block##*_} line=${line%.c}
        if wanted "${prefix}_line_$line"; then a_block "$block" "${prefix}_line_$line"; fi
    done
done
# What readers see in a narrow window, and the length of the first thing that they read.
lines_of_code() {
    long=$(awk '/^```[a-z]/ { code = 1; next } /^```/ { code = 0 }
        (code || /^    /) && length > 90 { print FILENAME ":" FNR }' README.md examples/*.md examples/*/*.md)
    [ -z "$long" ] || { echo "more than 90 columns: $long"; return 1; }
    ! grep -n '^// needs' README.md examples/*.md examples/*/*.md || return 1           # readers are not the compiler
    first=$(grep -v '^#' README.md | grep -m 1 -w 'ranks\{0,1\}')
    case $first in *'A rank is'*) ;; *) echo "what a rank is, is not said first: $first"; return 1 ;; esac
    [ "$(wc -c <README.md)" -le 14000 ] || { echo "README.md has more than 14,000 bytes"; return 1; }
}
if wanted readme_size; then
    if why=$(lines_of_code); then ok readme_size; else bad readme_size "$why"; fi
fi
# A link leads to a file of the repository, and to a heading in it.
links() {
    for document in README.md examples/*.md examples/*/*.md tests/*.md; do
        grep -o ']([^)]*)' "$document" | sed 's/^](//; s/)$//' | grep -v '^http' | while read -r link; do
            target=$(dirname "$document")/${link%%#*}
            [ -n "${link%%#*}" ] || target=$document
            if [ ! -f "$target" ]; then echo "$document: $link"; continue; fi
            case $link in *'#'*) sed -n 's/^#* //p' "$target" | tr 'A-Z ' 'a-z-' | grep -qx "${link#*#}" ||
                echo "$document: $link" ;; esac
        done
    done
}
if wanted links; then
    lost=$(links)
    if [ -z "$lost" ]; then ok links; else bad links "lead nowhere: $(echo "$lost" | tr '\n' ' ')"; fi
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
