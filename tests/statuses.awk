# statuses.awk - makes build/statuses.h, which test.h includes, from the comments in the headers:
#
#     awk -f tests/statuses.awk dcp.h dcp_mpi.h dcp_cuda.h >build/statuses.h
#     awk -v lines=1 -f tests/statuses.awk ...          instead, lines such as `dcp_save DCP_E_IO`, for run.sh
#
# The comment at a public function that returns a dcp_status, before it or after it in its line, ends with the list of
# what it can return besides DCP_OK: `Status: DCP_E_INVALID any words | (storage) | as dcp_open`. A word in parentheses
# is a group, which >>api_base defines in lines such as `(storage)   DCP_E_IO | DCP_E_SPACE`; `as f` stands for all that
# f can return. A function without such a list is an error, as is one that names what there is not.

function complain(what) {
    print FILENAME ":" FNR ": " what >"/dev/stderr"
    wrong = 1
}
function trim(text) {
    gsub(/^[ \t*]+|[ \t]+$/, "", text)
    return text
}

# ---- reading ---------------------------------------------------------------------------------------------------------
# What is code and what is comment: a comment belongs to the code before it in its line, or else to what follows it.
FNR == 1 { is_public = 1; inside = 0; before = declaration = current = "" }
/^#endif \/\* DCP_([A-Z]+_)?H \*\// { is_public = 0 }
!is_public { next }

/^typedef enum dcp_status/ { in_enum = 1 }
in_enum && match($0, /^ +DCP_[A-Z_]+/) {
    name = trim(substr($0, 1, RLENGTH))
    number[name] = statuses
    names[statuses++] = name
}
/^} dcp_status;/ { in_enum = 0 }

# The lines of a group: its name, then its list, which goes on where lines are indented as far.
match($0, /^ \* +\([a-z]+\) +/) && substr($0, RLENGTH + 1) ~ /^(DCP_|\()/ {
    group = $2
    column = RLENGTH + 1
    if (group in groups) complain(group " is defined twice")
    groups[group] = substr($0, column)
    next_line = FNR + 1
}
group != "" && FNR == next_line && substr($0, 1, 2) == " *" && substr($0, 3, column - 3) ~ /^ *$/ {
    groups[group] = groups[group] " " substr($0, column)
    next_line++
}

function code(part) {
    if (declaration == "") {
        current = ""
        if (part ~ /^DCPDEF dcp_status /) { declaration = part; of_declaration = before }
        before = ""
    } else declaration = declaration part
    if (declaration == "" || declaration !~ /;[ \t]*$/) return
    current = declaration
    sub(/^DCPDEF dcp_status /, "", current)
    sub(/\(.*/, "", current)
    functions[count++] = current
    comment[current] = of_declaration
    where[current] = FILENAME ":" FNR
    header[current] = FILENAME
    declaration = ""
}
function comment_ends() {
    if (trails) { if (current != "") comment[current] = comment[current] " " text }
    else { current = ""; before = text }
}
{
    line = $0
    has_code = 0
    while (line != "") {
        at = index(line, inside ? "*/" : "/*")
        part = at ? substr(line, 1, at - 1) : line
        line = at ? substr(line, at + 2) : ""
        if (inside) text = text " " trim(part)
        else if (part ~ /[^ \t]/) { has_code = 1; code(part) }
        if (!at) break
        if (inside) comment_ends()
        else { text = ""; trails = has_code }
        inside = !inside
    }
}

# ---- the lists -------------------------------------------------------------------------------------------------------
# Adds to listed[f, status] what the list says, and what it refers to.
function add(f, list, place,    parts, n, i, item, word, j, inner) {
    n = split(list, parts, "|")
    for (i = 1; i <= n; i++) {
        item = trim(parts[i])
        if (match(item, /^DCP_[A-Z_]+/)) {
            word = substr(item, 1, RLENGTH)
            if (!(word in number)) complain(place ": there is no " word)
            else if (word == "DCP_OK") complain(place ": DCP_OK goes without saying")
            else listed[f, number[word]] = 1
        } else if (match(item, /^\([a-z]+\)/)) {
            word = substr(item, 1, RLENGTH)
            if (!(word in groups)) complain(place ": there is no group " word)
            else add(f, groups[word], ">>api_base: " word)
        } else if (match(item, /^as dcp_[a-z0-9_]+/)) {
            word = substr(item, 4, RLENGTH - 3)
            if (!(word in comment) || depth > 4) complain(place ": no list of " word)
            else { depth++; add(f, list_of(word), place); depth-- }
        } else complain(place ": what is '" item "'?")
    }
}
function list_of(f,    list) {
    list = comment[f]
    if (!sub(/.*Status: /, "", list)) return ""
    sub(/\.[ \t]*$/, "", list)
    return list
}
function check_all(    i, f) {
    for (i = 0; i < count; i++) {
        f = functions[i]
        if (list_of(f) == "")
            complain(where[f] ": the comment of " f " has no list of statuses: 'Status: DCP_E_INVALID | (storage)'")
        else add(f, list_of(f), where[f] ": " f)
        listed[f, 0] = 1
    }
}
function print_lines(    i, j) {
    for (i = 0; i < count; i++)
        for (j = 0; j < statuses; j++) if ((functions[i], j) in listed) print functions[i], names[j]
}
function print_header(    i, j, f, mask, last, guard) {
    print "/* Made by tests/statuses.awk from the comments of dcp.h: what each public function can return. */"
    print "static const char *const test_status_names[] = {"
    for (j = 0; j < statuses; j++) print "    \"" names[j] "\","
    print "};\nstatic const struct { const char *name; unsigned long statuses; } test_listed[] = {"
    for (i = 0; i < count; i++) {
        mask = 0
        for (j = 0; j < statuses; j++) if ((functions[i], j) in listed) mask += 2 ^ j
        printf "    { \"%s\", 0x%xul },\n", functions[i], mask
    }
    print "};"
    for (i = 0; i < count; i++) {
        f = functions[i]
        if (header[f] != last) {
            if (last != "" && last != header[functions[0]]) print "#endif"
            last = header[f]
            guard = toupper(last)
            sub(/.*\//, "", guard)
            sub(/\./, "_", guard)
            if (i > 0) print "#ifdef " guard
        }
        printf "#define %s(...) test_returned(%d, %s(__VA_ARGS__))\n", f, i, f
    }
    if (last != header[functions[0]]) print "#endif"
}
END {
    check_all()
    if (lines) print_lines()
    else print_header()
    exit wrong
}
