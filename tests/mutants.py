#!/usr/bin/env python3
"""mutants.py - small errors put into the parsers and the commit code of dcp.h: the suites must notice; `make mutants`.

    make mutants                        300 mutants, drawn by chance; the seed is printed
    make mutants MUTANTS=50 SEED=7      so many, and drawn so
    make mutants SEED=7 SHOW=12,35      runs only these mutants of the seed, and prints what they are and who kills them
    make mutants CHAPTERS="json save"   only in these chapters

A mutant changes one place of one line: a condition is negated, < becomes <= (and so on), + becomes -, && becomes ||, a
number is one more or one less, a statement or a guard is dropped, `return x` of a function that returns a status
becomes `return DCP_OK`. Drawn are only lines that the suites run, as `make coverage` found: its counters must be there.
TinyCC builds a suite in a tenth of a second; the suites of a mutant's chapter run one after the other until one fails,
crashes, or takes ten times as long as it should (of processor time: machines can be busy). A mutant that does not build
is not one; another is drawn. At least 85 % must be killed."""
import collections
import concurrent.futures
import functools
import itertools
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import coverage     # noqa: E402, the one of this directory

GOAL = 85
# The suites of a chapter, the one that finds most for its time first; with a colon: only the tests whose name contains
# the word behind it.
SUITES = {
    'json': ['json', 'meta', 'manifest', 'fuzz:every_input'],
    'yaml': ['yaml', 'manifest', 'fuzz:every_input'],
    'integrity': ['meta', 'manifest', 'fuzz:every_input', 'hostile:memory_ends'],
    'names': ['meta', 'manifest', 'pool', 'directory'],
    'schema': ['meta', 'manifest', 'pool', 'fuzz:every_input', 'hostile:each_number', 'hostile:memory_ends'],
    'meta': ['meta', 'manifest', 'pool', 'fuzz:every_input', 'hostile:each_number', 'hostile:memory_ends'],
    'manifest': ['manifest', 'pool', 'fuzz:every_input', 'hostile:each_number', 'hostile:memory_ends'],
    'file': ['file_format', 'directory', 'fuzz:every_input'],
    'save': ['directory', 'pool', 'documents:another_layout', 'documents:overwrit', 'faults:rename',
             'faults:not_as_it_was', 'crash:first_saves', 'crash:overwrites', 'ranks',
             'faults:storage_fails_in_saves', 'hostile:memory_ends'],
    'index': ['directory', 'pool', 'faults:rename', 'crash:first_saves', 'crash:removals', 'ranks',
              'faults:storage_fails_in_saves'],
    'refs': ['directory', 'pool', 'faults:rename', 'crash:first_saves', 'crash:removals', 'ranks',
             'faults:storage_fails_in_saves'],
}
# Mutants that are no errors: (function, the line as it is, what it became, why nothing can tell them apart).
EQUIVALENT = [
    ('dcpi_manifest_check_hint', 'k->tier_hint = s->tier_hint;', ';', 'remembered to be quicker'),
    ('dcpi_quick_value', 'value > INT_MAX', 'value >= INT_MAX', 'the quick way gives up; the other reads the same'),
    ('dcpi_quick_name', '< DCPI_QUICK_NAME', '<= DCPI_QUICK_NAME', 'the same'),
    ('dcpi_quick_piece', 'q.end = p->json.end;', ';', 'the same'),
    ('dcpi_parse_word', 'return 1;', 'return 0;', 'the same'),
    ('dcpi_quick_int', 'q->at = at;', ';', 'the same'),
    ('dcpi_json_sort_members', 'err)) return 0;', 'return 1;',
     'what fails is memory; the reader has the status, and ends'),
    ('dcpi_set_make', 'SIZE_MAX', '', 'more slots than addresses'),
    ('dcpi_set_make', 'slots < count', 'slots <= count', 'the second condition holds then'),
    ('dcpi_parse_list', 'return 0;', ';', 'the reader has the status, and ends'),
    ('dcpi_json_skip', 'return 0;', ';', 'the same'),
    ('dcpi_yaml_flow_item', 'return 0;', '', 'the reader has the status, and ends'),
    ('dcpi_yaml_block_node', 'return 0;', ';', 'the same'),
    ('dcpi_parse_fields', 'done && !', 'done || !', 'the reader has the status in both cases'),
    ('dcpi_manifest_as_tensor', '? 0 : s->ndim', '? 1 : s->ndim', 'such a shape is an error already'),
    ('dcpi_check_blocks', 'size < 262144', 'size < 262143', 'no power of two'),
    ('dcp_shard_name', 'length >= 0', 'length >= 1', 'a name has letters'),
    ('dcpi_commit_name', '+ 1;', '+ 2;', 'a byte more than is needed'),
    ('dcpi_yaml_same_item', 'dcpi_yaml_digits(at, end);', ';', 'what is not known to be the same is read'),
    ('dcpi_yaml_same_list', 'y->at + 1', 'y->at - 1', 'the same'),
    ('dcpi_quick_piece', 'memset(', ';', 'the other way of reading sets all that the quick one has set'),
    ('dcpi_double_text', '>> 52 ? 15', '>> 51 ? 15', 'where the search begins'),
    ('dcpi_decimal_bits', 'dcpi_big_shift(&d->digits, 1);', ';',
     'the last of 64 bits: where it is lost something remains, which rounds in the same way'),
    ('dcpi_quick_literal', 'q->at += size;', ';', 'the quick way gives up; the other reads the same'),
    ('dcpi_quick_int', 'return 1;', 'return 0;', 'likewise'),
    ('dcpi_quick_digests', 'q->at += 66;', 'q->at += 67;', 'likewise'),
    ('dcpi_quick_text', "*q->at != '\"'", "*q->at == '\"'", 'likewise'),
    ('dcpi_json_short_int', 'at == r->end', 'at != r->end', 'likewise'),
    ('dcpi_time_format', '% 10000', '% 10001', 'a year has four digits'),
    ('dcpi_items_grow', 'capacity / 2', 'capacity * 2', 'a larger list'),
    ('dcpi_check_names', 'has_repeats = 0', 'has_repeats = 1', 'looked at once more, and found to be right'),
    ('dcpi_manifest_piece_hash', 'memcpy(words', ';', 'a hash that finds more to compare'),
    ('dcpi_sip_hash', '(uint64_t)size << 56', ';', 'another hash'),
    ('dcpi_sip_hash', 'v[3] ^= word;', ';', 'another hash'),
    ('dcpi_parse_piece', 'return 0;', ';', 'the reader has the status, and ends'),
    ('dcpi_parse_budget', 'return 0;', 'return 1;', 'likewise'),
    ('dcpi_json_tree_number', 'return 0;', 'return 1;', 'likewise'),
    ('dcpi_json_unicode', 'return 0;', ';', 'likewise'),
]


# ---- operators: each gives (begin, end, replacement) for a line ------------------------------------------------------
def code_only(line):
    """The line with its strings, characters and comments blanked, at the same places."""
    blank = lambda match: ' ' * len(match.group(0))
    return re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])+\'|/\*.*?(\*/|$)', blank, line)


def closing(code, at):
    """Where the parenthesis that opens at `at` closes; -1 if not in this line."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == '(') - (code[i] == ')')
        if depth == 0:
            return i
    return -1


def replacements_of_tokens(code):
    least = re.search(r'(\S+) ([<>]) (\S+) \? (\1 : \3|\3 : \1)', code)       # of two equal ones either will do
    tokens = {' < ': ' <= ', ' <= ': ' < ', ' > ': ' >= ', ' >= ': ' > ', ' == ': ' != ', ' != ': ' == ',
              ' && ': ' || ', ' || ': ' && ', ' & ': ' | ', ' | ': ' & ', ' << ': ' >> ', ' >> ': ' << ',
              ' + ': ' - ', ' - ': ' + ', ' += ': ' -= ', ' -= ': ' += ', '++': '--'}
    for token, other in tokens.items():
        for match in re.finditer(re.escape(token), code):
            if not (least and least.start(2) == match.start() + 1 and other.strip() == token.strip() + '='):
                yield match.start(), match.end(), other
    for match in re.finditer(r'(?<![\w.\[])(\d+)(?![\w.])', code):
        before = code[:match.start()]
        if re.search(r'snprintf\((\w|->|\.)+, $', before):             # the size of a text that fits
            continue
        if not (match.group(1) == '1' and re.search(r'(\w = |return |, |\? |: )$', before)):      # 2 would be as true
            yield match.start(), match.end(), str(int(match.group(1)) + 1)
        if int(match.group(1)) > 0:
            yield match.start(), match.end(), str(int(match.group(1)) - 1)


def replacements_of_statements(code, returns_status):
    for match in re.finditer(r'\bif \(', code):
        end = closing(code, match.end() - 1)
        if end < 0:
            continue
        yield match.end() - 1, end + 1, 'NEGATED'
        guard = re.match(r' (return\b[^;]*|continue|break|goto \w+);', code[end + 1:])
        if guard:
            yield end + 2, end + 1 + guard.end(), ';'
    for match in re.finditer(r'\breturn ([^;]+);', code):
        if returns_status and match.group(1).strip() not in ('DCP_OK', 'dcpi_succeed(err)'):        # which is DCP_OK
            yield match.start(), match.end(), 'return DCP_OK;'
    statement = re.match(r'\s*(\(void\))?[a-z*][\w.>\[\]*-]*(\(.*\)| [-+|&^]?= .*|\+\+|--);\s*$', code)
    is_other = re.match(r'\s*(return|if|for|while|else|do|case)\b', code)
    if statement and code.count('(') == code.count(')') and not is_other:
        yield statement.start() + len(code) - len(code.lstrip()), len(code.rstrip()), ';'


def replacements_of_guards(code, before):
    """A guard whose statement has a line of its own: the line before it ends with the parenthesis of its `if`."""
    guard = re.match(r'\s*(return\b[^;]*|continue|break|goto \w+);', code)
    if guard and re.search(r'\)\s*$', code_only(before)):
        yield guard.start(1), guard.end(), ';'


def mutations(line, before, returns_status, is_run):
    """All mutants of a line; `before` it is another. is_run(column): whether the suites ever ran what stands there."""
    code, found = code_only(line), []
    if code.lstrip().startswith(('#', '*', 'static const', 'typedef')) or not code.strip():
        return []
    for begin, end, new in [*replacements_of_tokens(code), *replacements_of_statements(code, returns_status),
                            *replacements_of_guards(code, before)]:
        if not is_run(begin + 1):
            continue
        if new == 'NEGATED':
            new = '(!' + line[begin:end] + ')'
        found.append(line[:begin] + new + line[end:])
    return found


# ---- drawing them ----------------------------------------------------------------------------------------------------
Place = collections.namedtuple('Place', 'line chapter function returns_status is_run')


def of_other_compilers(text):
    """The lines that TinyCC leaves out: those for GCC and Clang."""
    found, blocks = set(), []
    for n, line in enumerate(text, 1):
        if re.match(r'\s*#\s*if', line):
            blocks.append(bool(re.search(r'\bDCPI_GNUC\b|__GNUC__', line)))
        elif re.match(r'\s*#\s*(else|elif)', line):
            blocks[-1] = False
        elif re.match(r'\s*#\s*endif', line):
            blocks.pop()
        elif any(blocks):
            found.add(n)
    return found


def candidates(text):
    """The lines of the chapters, and what must be known of each."""
    chapters, functions = coverage.chapters_and_functions(text)
    files = os.listdir(coverage.DIRECTORY) if os.path.isdir(coverage.DIRECTORY) else []
    suites = sorted(name[:-8] for name in files if name.endswith('.profraw'))
    if not suites:
        sys.exit('make coverage first: only lines that the suites run are changed')
    lines, _, regions = coverage.add_up(suites)
    statuses = {functions[n] for n, line in enumerate(text, 1) if re.match(r'(static |DCPDEF )*dcp_status \w+\(', line)}
    left_out = of_other_compilers(text)
    columns = {}
    for (n, column), count in sorted(regions.items()):
        columns.setdefault(n, []).append((column, count))

    def is_run(n, column):
        before = [count for begin, count in columns.get(n, []) if begin <= column]
        return (before[-1] if before else lines.get(n, 0)) > 0
    return [Place(n, chapters[n], functions[n], functions[n] in statuses, functools.partial(is_run, n))
            for n in range(1, len(text) + 1)
            if functions[n] and n not in left_out and coverage.parses_or_commits(chapters[n], functions[n])]


def draw(text, places, chance):
    """Mutants without end: first a line by chance, then one of its mutants."""
    seen = set()
    while True:
        place = chance.choice(places)
        found = mutations(text[place.line - 1], text[place.line - 2], place.returns_status, place.is_run)
        if not found:
            continue
        new = chance.choice(found)
        if (place.line, new) not in seen:
            seen.add((place.line, new))
            yield place.line, place.chapter, place.function, new


def is_equivalent(function, old, new):
    return any(function == f and o in old and e in new for f, o, e, _ in EQUIVALENT)


# ---- running a suite with a header -----------------------------------------------------------------------------------
class Runner:
    """A directory with a dcp.h of its own, for one mutant at a time."""
    limit = {}                              # seconds of processor time that a suite may take

    def __init__(self, work):
        self.work = work
        shutil.copytree('tests', f'{work}/tests')
        subprocess.run(['make', '-s', 'build/statuses.h'], check=True)
        os.makedirs(f'{work}/build', exist_ok=True)
        shutil.copy('build/statuses.h', f'{work}/build')

    def write(self, text):
        with open(f'{self.work}/dcp.h', 'w') as file:
            file.write('\n'.join(text) + '\n')

    def build(self, suite):
        suite = suite.split(':')[0]
        command = ['tcc', '-w', '-DDCP_STATIC', f'-I{self.work}', f'{self.work}/tests/test_{suite}.c', '-o',
                   f'{self.work}/test_{suite}', '-lm', '-pthread']
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def run(self, suite):
        """Why the suite fails, or None. It ends at its first failure."""
        seconds = self.limit.get(suite, 120)
        program, _, words = suite.partition(':')
        home = tempfile.mkdtemp(dir=self.work)
        # `prlimit` rather than a function between fork and exec, which threads do not get on with.
        command = ['nice', 'prlimit', f'--cpu={seconds}', f'--as={8 << 30}', '--core=0', f'--fsize={4 << 30}',
                   f'{self.work}/test_{program}']
        data = os.path.abspath(os.environ.get('DCP_TEST_DATA', '../shared/data'))
        environment = {**os.environ, 'TMPDIR': home, 'DCP_TEST_FEWER': '1', 'DCP_TEST_SLOW': '1',
                       'DCP_TEST_CRASH_STATES': '0', 'DCP_TEST_FILTER': words, 'DCP_TEST_TIMEOUT': '300',
                       'DCP_TEST_DATA': data}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env=environment,
                                   text=True, errors='replace', start_new_session=True)
        why = None
        for line in process.stdout:
            if line.startswith('FAILED '):
                why = line[7:].split()[0].rstrip(':')
                break
        self.end(process)
        status = process.wait()
        shutil.rmtree(home, ignore_errors=True)
        return why or (f'status {status}' if status else None)

    @staticmethod
    def end(process):
        """Ends the suite, and what it may have left running."""
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass

    def baseline(self, suite):
        """What the suite takes without a mutant; it must pass."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        why = self.run(suite) if self.build(suite) else 'does not build'
        if why:
            sys.exit(f'test_{suite} fails without a mutant: {why}')
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.limit[suite] = 10 + 10 * int(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def killer(self, chapter):
        """Which suite kills the mutant that is written, and by what; None if none does."""
        for suite in SUITES[chapter]:
            why = self.run(suite) if self.build(suite) else 'does not build'
            if why:
                return f'test_{suite}: {why}'
        return None


class Hunt:
    """Draws mutants and kills them, in several threads; what came of it."""
    def __init__(self, text, places, seed, wanted, shown):
        self.text, self.wanted, self.shown = text, wanted, shown
        self.drawn = draw(text, places, random.Random(seed))
        self.lock = threading.Lock()
        self.count = self.killed = self.equivalent = 0

    def next(self, runner):
        """Writes the next mutant that builds; its number and what it is, or None after the last. One thread at a time:
        the seed says which come."""
        with self.lock:
            while self.count < self.wanted:
                n, chapter, function, new = next(self.drawn)
                runner.write(self.text[:n - 1] + [new] + self.text[n:])
                if not runner.build(SUITES[chapter][0]):
                    continue
                self.count += 1
                if not self.shown or self.count in self.shown:
                    return self.count, n, chapter, function, new
        return None

    def report(self, mutant, by):
        number, n, chapter, function, new = mutant
        old = self.text[n - 1]
        with self.lock:
            if by:
                self.killed += 1
            elif is_equivalent(function, old, new):
                self.equivalent += 1
            if not by and not is_equivalent(function, old, new) or self.shown:
                print(f'{"killed by " + by if by else "survived"}: {number}: dcp.h:{n} {chapter} {function}:'
                      f'\n    - {old.strip()}\n    + {new.strip()}', flush=True)

    def work(self, runner):
        for mutant in iter(lambda: self.next(runner), None):
            self.report(mutant, runner.killer(mutant[2]))


def main():
    seed = int(os.environ.get('SEED') or time.time())
    shown = {int(n) for n in re.findall(r'\d+', os.environ.get('SHOW', ''))}
    wanted = max(shown) if shown else int(os.environ.get('MUTANTS') or 300)
    with open('dcp.h') as file:
        text = file.read().splitlines()
    chapters = os.environ.get('CHAPTERS', '').split() or list(SUITES)
    places = [place for place in candidates(text) if place.chapter in chapters]
    hunt = Hunt(text, places, seed, wanted, shown)
    print(f'seed {seed}: {wanted} mutants of {len(places)} lines', flush=True)
    home = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix='dcp_mutants.', dir=home) as work:
        runners = [Runner(f'{work}/{i}') for i in range(coverage.jobs())]
        for runner in runners:
            runner.write(text)
        for suite in dict.fromkeys(itertools.chain(*(SUITES[chapter] for chapter in chapters))):
            runners[0].baseline(suite)
        with concurrent.futures.ThreadPoolExecutor(len(runners)) as pool:
            list(pool.map(hunt.work, runners))
    total = (len(shown) if shown else hunt.count) - hunt.equivalent
    percent = 100.0 * hunt.killed / max(1, total)
    print(f'seed {seed}: {hunt.killed} of {total} mutants killed, {percent:.1f} %; '
          f'{hunt.equivalent} more are equivalent; wanted are {GOAL} %')
    return 0 if shown or percent >= GOAL else 1


if __name__ == '__main__':
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.exit(main())
