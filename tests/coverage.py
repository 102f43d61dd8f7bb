#!/usr/bin/env python3
"""coverage.py - which lines and branches of dcp.h the tests reach; `make coverage`.

    make coverage                       runs all suites, prints a table of the chapters of dcp.h; fails below the goals
    make coverage SHOW="json save"      and what was not reached there: lines, and sides of conditions
    make coverage SHOW=strict           the same for all that the stricter goal is for
    make coverage SUITES="json meta"    only some suites (what the others found before is left out)
    make coverage KEEP=1                the table again, from the last runs

Clang counts in the source (-fcoverage-mapping), each program keeps its counters in a file that it maps into memory:
they are right also for children that are killed. Here the counters of all programs are added, by place in dcp.h. With
DCP_STATIC a program has only what it calls, but the mapping names the rest too: what no program calls is not hidden.
What the preprocessor leaves out here (Windows, other processors) does not count, and neither do conditions that are
constant.

The goals: every line and 95 % of the branches of the code that commits, parses and verifies, 90 % of both of all. That
code is

    parses    the chapters json, yaml, integrity, meta, manifest and file
    commits   of save: from the ranks' acknowledgements to the end, and the check of the pool's files; of index: names
              and intents, and the locks of removals
    verifies  of index: what opens and checks a document; of load: the checks of what was read, and dcp_verify

A branch is one direction of one condition: `a && b` has four."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

DIRECTORY = 'build/coverage'
PARSE = ['json', 'yaml', 'integrity', 'names', 'schema', 'meta', 'manifest', 'file']
COMMIT = re.compile(r'(dcpi_)?((commit|done|finish|document_sink|names|intents?|removal)_\w+'
                    r'|save_(acknowledge|gathered|commit|tell|finish)|pool_check)$')
VERIFY = re.compile(r'(dcpi_|dcp_)?((document|open|verify|flat|item|select)_\w+'
                    r'|load_verdict|load_was_replaced|load_check_exact|verify)$')
GOALS = [('parse, commit, verify', 100, 95), ('all', 90, 90)]

# Lines that no test reaches, with the reason: (function, what the line has, why). A line that is reached after all, or
# is not there, is an error.
ALLOWED = [
    ('dcpi_parse_value', 'default: ', 'every kind of member has its case: for compilers that warn without'),
    ('dcpi_manifest_parse_value', 'default: ', 'the same'),
    ('dcpi_manifest_file_name', "name[0] = '\\0';\n    return",
     'the parts of a name are bounded, and test_manifest has the longest: for who changes one'),
    ('dcpi_manifest_file_name', 'the file name does not fit', 'the same'),
    ('dcpi_select_is_tier', 'return 0;', 'tiers that the manifest does not have are refused before'),
    ('dcpi_pool_learn', 'from->failed = 1;', 'a rank that says so runs another program than this one'),
    ('dcpi_done_take', 'wrote something else than was planned', 'the same'),
]


def chapters_and_functions(text):
    """The chapter and the function of each line of dcp.h (numbered from 1); '' where there is none."""
    chapters, functions = [''], ['']
    chapter = function = ''
    for i, line in enumerate(text):
        if line.startswith('/* =====') and i + 1 < len(text):
            banner = re.match(r' \* >>(\w+) ', text[i + 1])
            if banner:
                chapter = banner.group(1)
        head = re.match(r'[A-Za-z][^;=(]*?(\w+)\(', line)
        if head and not line.rstrip().endswith(';'):
            function = head.group(1)
        chapters.append(chapter)
        functions.append(function)
        if line.startswith('}') or (function and line.rstrip().endswith('}') and re.match(r'[A-Za-z]', line)):
            function = ''
    return chapters, functions


def parses_or_commits(chapter, function):
    return chapter in PARSE or (chapter in ('save', 'index', 'refs') and bool(COMMIT.match(function)))


def is_core(chapter, function):
    """Whether a line is of the code that the stricter goal is for."""
    return parses_or_commits(chapter, function) or chapter in ('index', 'refs', 'load') and bool(VERIFY.match(function))


# ---- building, running, reading the counters -------------------------------------------------------------------------
def run_suite(suite):
    """Builds and runs one suite; what went wrong, or None."""
    program = f'{DIRECTORY}/{suite}'
    if subprocess.run(['make', '-s', '--no-print-directory', program]).returncode:
        return f'{suite} does not build: see {program}.log'
    profile = f'{program}.profraw'
    if os.path.exists(profile):
        os.remove(profile)
    environment = {**os.environ, 'LLVM_PROFILE_FILE': '%c' + os.path.abspath(profile), 'DCP_TEST_FEWER': '1',
                   'DCP_TEST_SLOW': '1',
                   'DCP_TEST_TIMEOUT': '0'}
    with open(f'{program}.out', 'w') as out:
        status = subprocess.run([program], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment).returncode
    with open(f'{program}.out') as out:
        lines = out.read().splitlines()
    print(f'{suite[5:]:12} {lines[-1] if lines else "printed nothing"}', flush=True)
    return f'{suite} failed: see {program}.out' if status else None


def export(suite):
    """What llvm-cov knows of dcp.h from one suite."""
    program = f'{DIRECTORY}/{suite}'
    subprocess.run(['llvm-profdata', 'merge', '-sparse', f'{program}.profraw', '-o', f'{program}.profdata'], check=True)
    found = subprocess.run(['llvm-cov', 'export', '--skip-expansions', '--skip-functions',
                            f'--instr-profile={program}.profdata', program],
                           check=True, capture_output=True).stdout
    return [file for file in json.loads(found)['data'][0]['files'] if os.path.basename(file['filename']) == 'dcp.h']


def line_counts(segments):
    """How often each line ran, by LLVM's own rule: the highest count of the regions that begin in it, or of the one
    that it lies in; None for what the preprocessor left out."""
    by_line = {}
    for segment in segments:
        by_line.setdefault(segment[0], []).append(segment)
    around, counts = None, {}
    for line in range(segments[0][0], segments[-1][0] + 1) if segments else []:
        here = by_line.get(line, [])
        entries = [s for s in here if s[3] and s[4] and not (len(s) > 5 and s[5])]
        is_skipped = bool(here) and not here[0][3] and here[0][4]
        if is_skipped or (around and not around[3] and around[4] and not entries):
            counts[line] = None
        elif entries or (around and around[3]):
            counts[line] = max([s[2] for s in entries] + ([around[2]] if around else []))
        around = here[-1] if here else around
    return counts


def add_up(suites):
    """Counts by line, [times true, times false] by the place of a condition, and counts by the place where a region
    begins, over all suites. Of a function that a program does not call its mapping has the body as one region: what the
    others left out in it is left out."""
    lines, branches, regions, left_out = {}, {}, {}, set()
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
        for files in pool.map(export, suites):
            for file in files:
                for line, count in line_counts(file['segments']).items():
                    if count is None:
                        left_out.add(line)
                    else:
                        lines[line] = lines.get(line, 0) + count
                for line, column, count, has_count, *_ in file['segments']:
                    if has_count:
                        regions[line, column] = regions.get((line, column), 0) + count
                for branch in file['branches']:
                    sides = branches.setdefault(tuple(branch[:4]), [0, 0])
                    sides[0] += branch[4]
                    sides[1] += branch[5]
    return {line: count for line, count in lines.items() if count or line not in left_out}, branches, regions


def jobs():
    return int(os.environ.get('JOBS') or 2)


# ---- the table -------------------------------------------------------------------------------------------------------
class Sum:
    def __init__(self):
        self.lines = self.lines_hit = self.branches = self.branches_hit = 0

    def add_line(self, count):
        self.lines += 1
        self.lines_hit += count > 0

    def add_branch(self, sides):
        self.branches += 2
        self.branches_hit += (sides[0] > 0) + (sides[1] > 0)

    def percents(self):
        pairs = (self.lines_hit, self.lines), (self.branches_hit, self.branches)
        return [100.0 * hit / of if of else 100.0 for hit, of in pairs]

    def row(self, name):
        lines, branches = self.percents()
        return (f'{name:24} {self.lines_hit:6} of {self.lines:6} {lines:6.2f} %    '
                f'{self.branches_hit:6} of {self.branches:6} {branches:6.2f} %')


def allowed_lines(text, functions, lines):
    """The lines of ALLOWED; complaints about entries that are not so."""
    found, complaints = set(), []
    for function, part, _ in ALLOWED:
        places = [n for n in range(1, len(text) + 1)
                  if functions[n] == function and part.split('\n')[0] in text[n - 1]
                  and part in '\n'.join(text[n - 1:n + 1])]
        if not places:
            complaints.append(f'ALLOWED: no line of {function} has "{part}"')
        if any(lines.get(n, 0) > 0 for n in places):
            complaints.append(f'ALLOWED: a test reaches "{part}" of {function}: take it from the list')
        found.update(places)
    return found, complaints


def show(text, chosen, where, lines, branches):
    """Lists what was not reached in the chapters and functions of `chosen`; `strict`: in all that the strict goal is
    for."""
    chapters, functions = where
    missed = {}
    for line, count in lines.items():
        if count == 0:
            missed[line] = ['not run']
    for (line, column, _, end), sides in sorted(branches.items()):
        if lines.get(line, 0) == 0 or (sides[0] and sides[1]):
            continue
        never = 'never evaluated' if not sides[0] and not sides[1] else 'never false' if sides[0] else 'never true'
        missed.setdefault(line, []).append(f'{text[line - 1][column - 1:end - 1]}: {never}')
    for line in sorted(missed):
        names = {chapters[line], functions[line]} | ({'strict'} if is_core(chapters[line], functions[line]) else set())
        if names & chosen:
            print(f'{line:6} {functions[line]}: {text[line - 1].strip()[:110]}\n           {"; ".join(missed[line])}')


def report(suites):
    with open('dcp.h') as file:
        text = file.read().splitlines()
    where = chapters, functions = chapters_and_functions(text)
    lines, branches, _ = add_up(suites)
    allowed, complaints = allowed_lines(text, functions, lines)
    sums = {chapter: Sum() for chapter in dict.fromkeys(chapters) if chapter}
    core, whole = Sum(), Sum()
    for line, count in lines.items():
        counted = count or line in allowed
        for part in [sums[chapters[line]], whole] + ([core] if is_core(chapters[line], functions[line]) else []):
            part.add_line(counted)
    for (line, *_), sides in branches.items():
        for part in [sums[chapters[line]], whole] + ([core] if is_core(chapters[line], functions[line]) else []):
            part.add_branch(sides)
    chosen = set(os.environ.get('SHOW', '').split())
    if chosen:
        show(text, chosen, where, lines, branches)
    print(f'\n{"":24} {"lines":>25}    {"branches":>25}')
    for chapter, part in sums.items():
        if part.lines:
            print(part.row(chapter))
    for (name, want_lines, want_branches), part in zip(GOALS, (core, whole)):
        print(part.row(name))
        for what, percent, want in zip(('lines', 'branches'), part.percents(), (want_lines, want_branches)):
            if percent < want:
                complaints.append(f'{name}: {percent:.2f} % of the {what}, wanted are {want} %')
    if allowed:
        print(f'{len(ALLOWED)} lines that no test can reach are named in tests/coverage.py, with the reasons')
    return complaints


def main():
    suites = sorted(name[:-2] for name in os.listdir('tests') if re.match(r'test_\w+\.c$', name))
    wanted = os.environ.get('SUITES', '').split()
    suites = [suite for suite in suites if not wanted or suite[5:] in wanted]
    complaints = []
    if not os.environ.get('KEEP'):
        with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
            complaints = [complaint for complaint in pool.map(run_suite, suites) if complaint]
    complaints += report([suite for suite in suites if os.path.exists(f'{DIRECTORY}/{suite}.profraw')])
    for complaint in complaints:
        print('FAILED ' + complaint)
    return 1 if complaints else 0


if __name__ == '__main__':
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.exit(main())
