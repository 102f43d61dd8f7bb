#!/bin/sh
# sizes.sh - `make sizes`: what the implementation costs with each combination of the two large switches, and with all
# four: bytes at -Os and -O2, and the processor's seconds to compile it at -O1.
#
#   code     machine code                       all      with constants, texts, data and tables for unwinding: what the
#                                                        program grows by if it calls everything
#
# A linker with --gc-sections, or DCP_STATIC, leaves out what is not called.
cd "$(dirname "$0")/.." || exit 1
CC=${CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# compile LEVEL: by $CC, with $flags
compile() {
    # shellcheck disable=SC2086
    $CC -std=c99 "$1" $flags -DDCP_IMPLEMENTATION -x c -c dcp.h -o "$work/dcp.o"
}
# kB of code, and of all
kilobytes() {
    size -A "$work/dcp.o" | awk '/^\.(text|rodata|data|eh_frame|bss)/ { all += $2 } /^\.text/ { code += $2 }
        END { printf "%5.0f %5.0f", code / 1000, all / 1000 }'
}
seconds() {
    # the second line that `times` prints: 0m1.234000s 0m0.056000s, of the compiler
    { compile -O1; times; } | awk 'NR == 2 { gsub(/s/, ""); split($1, user, "m"); split($2, kernel, "m")
        printf "%5.1f", 60 * user[1] + user[2] + 60 * kernel[1] + kernel[2] }'
}
printf '%-64s %11s   %11s   %s\n' '' '-Os: kB' '-O2: kB' '-O1'
printf '%-64s %5s %5s   %5s %5s   %s\n' switches code all code all seconds
for flags in '' -DDCP_NO_MANIFEST=1 -DDCP_NO_RANKS=1 '-DDCP_NO_MANIFEST=1 -DDCP_NO_RANKS=1' \
    '-DDCP_NO_MANIFEST=1 -DDCP_NO_RANKS=1 -DDCP_NO_THREADS=1 -DDCP_NO_SIMD=1'; do
    compile -Os || exit 1
    small=$(kilobytes)
    compile -O2 || exit 1
    names=$(echo "${flags:-none}" | sed 's/-D//g; s/=1//g')
    printf '%-64s %s   %s   %s\n' "$names" "$small" "$(kilobytes)" "$(seconds)"
done
