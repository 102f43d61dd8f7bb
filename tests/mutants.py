#!/usr/bin/env python3
"""mutants.py - small errors put into the parsers and the commit code of dcp.h, one at a time: the suites must notice; `make mutants`.

    make mutants                        300 mutants, drawn by chance; the seed is printed
    make mutants MUTANTS=50 SEED=7      so many, and drawn so
    make mutants SHOW=12,35             prints these mutants of the seed, and runs only them

A mutant changes one place of one line: a condition is negated, < becomes <= (and so on), + becomes -, && becomes ||, a number is one more or one
less, a statement or a guard is dropped, `return x` of a function that returns a status becomes `return DCP_OK`. Drawn are only lines that the
suites run, as `make coverage` found: its counters must be there. TinyCC builds a suite in a tenth of a second; the suites of a mutant's chapter run one after
the other until one fails, crashes, or takes ten times as long as it should (of processor time: machines can be busy). A mutant that does not build is not one;
another is drawn. At least 85 % must be killed."""
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import coverage     # noqa: E402, the one of this directory

GOAL = 85
# The suites of a chapter, the one that finds most for its time first.
SUITES = {
    'json': ['json', 'meta', 'manifest', 'yaml'],
    'yaml': ['yaml', 'manifest'],
    'integrity': ['meta', 'manifest', 'file_format', 'sha256'],
    'meta': ['meta', 'manifest', 'file_format', 'directory', 'pool'],
    'manifest': ['manifest', 'pool', 'directory'],
    'file': ['file_format', 'directory'],
    'save': ['directory', 'pool', 'pool_faults', 'ranks', 'rank_faults', 'crash'],
    'index': ['directory', 'pool', 'ranks', 'rank_faults', 'crash'],
}
ALL_SUITES = sorted({suite for suites in SUITES.values() for suite in suites})
# Mutants that are no errors: (function, the line as it is, what it became, why nothing can tell them apart).
EQUIVALENT = []


# ---- operators: each gives (begin, end, replacement) for a line --------------------------------------------------------------------------------
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
    tokens = {' < ': ' <= ', ' <= ': ' < ', ' > ': ' >= ', ' >= ': ' > ', ' == ': ' != ', ' != ': ' == ', ' && ': ' || ', ' || ': ' && ',
              ' + ': ' - ', ' - ': ' + ', ' += ': ' -= ', ' -= ': ' += ', '++': '--', ' & ': ' | ', ' | ': ' & ', ' << ': ' >> ', ' >> ': ' << '}
    for token, other in tokens.items():
        for match in re.finditer(re.escape(token), code):
            yield match.start(), match.end(), other
    for match in re.finditer(r'(?<![\w.\[])(\d+)(?![\w.])', code):
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
        if returns_status and match.group(1).strip() != 'DCP_OK':
            yield match.start(), match.end(), 'return DCP_OK;'
    statement = re.match(r'\s*(\(void\))?[a-z*][\w.>\[\]*-]*(\(.*\)| [-+|&^]?= .*|\+\+|--);\s*$', code)
    if statement and code.count('(') == code.count(')') and not re.match(r'\s*(return|if|for|while|else|do|case)\b', code):
        yield statement.start() + len(code) - len(code.lstrip()), len(code.rstrip()), ';'


def mutations(line, returns_status):
    """All mutants of a line, as (the new line, what was done)."""
    code, found = code_only(line), []
    if code.lstrip().startswith(('#', '*', 'static const', 'typedef')) or not code.strip():
        return []
    for begin, end, new in [*replacements_of_tokens(code), *replacements_of_statements(code, returns_status)]:
        if new == 'NEGATED':
            new = '(!' + line[begin:end] + ')'
        found.append(line[:begin] + new + line[end:])
    return found


# ---- drawing them ------------------------------------------------------------------------------------------------------------------------------
def candidates(text):
    """By chapter: the numbers of the lines that may be changed, with whether their function returns a status."""
    chapters, functions = coverage.chapters_and_functions(text)
    suites = sorted(name[:-8] for name in os.listdir(coverage.DIRECTORY) if name.endswith('.profraw')) if os.path.isdir(coverage.DIRECTORY) else []
    if not suites:
        sys.exit('make coverage first: only lines that the suites run are changed')
    lines, _ = coverage.add_up(suites)
    statuses = {functions[n] for n, line in enumerate(text, 1) if re.match(r'(static |DCPDEF )*dcp_status \w+\(', line)}
    return [(n, chapters[n], functions[n], functions[n] in statuses) for n in sorted(lines)
            if lines[n] > 0 and functions[n] and chapters[n] in SUITES and coverage.is_core(chapters[n], functions[n])]


def draw(text, places, chance):
    """Mutants without end: first a line by chance, then one of its mutants."""
    seen = set()
    while True:
        n, chapter, function, returns_status = chance.choice(places)
        found = mutations(text[n - 1], returns_status)
        if not found:
            continue
        new = chance.choice(found)
        if (n, new) not in seen:
            seen.add((n, new))
            yield n, chapter, function, new


def is_equivalent(function, old, new):
    return any(function == f and o in old and e in new for f, o, e, _ in EQUIVALENT)


# ---- running a suite with a header ----------------------------------------------------------------------------------------------------------------
class Runner:
    def __init__(self, work):
        self.work = work
        self.limit = {}

    def write(self, text):
        with open(f'{self.work}/dcp.h', 'w') as file:
            file.write('\n'.join(text) + '\n')

    def build(self, suite):
        command = ['tcc', '-w', '-DDCP_STATIC', f'-I{self.work}', '-Itests', f'tests/test_{suite}.c', '-o', f'{self.work}/test_{suite}', '-lm', '-pthread']
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def run(self, suite):
        """Why the suite fails, or None. It ends at its first failure."""
        seconds = self.limit.get(suite, 120)
        home = tempfile.mkdtemp(dir=self.work)

        def limits():
            os.setsid()
            os.nice(10)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))
        environment = {**os.environ, 'TMPDIR': home, 'DCP_TEST_FEWER': '1', 'DCP_TEST_SLOW': '1', 'DCP_TEST_CRASH_STATES': '0',
                       'DCP_TEST_TIMEOUT': '300', 'DCP_TEST_DATA': os.path.abspath(os.environ.get('DCP_TEST_DATA', '../shared/data'))}
        process = subprocess.Popen([f'{self.work}/test_{suite}'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env=environment, preexec_fn=limits, text=True, errors='replace')
        why = None
        for line in process.stdout:
            if line.startswith('FAILED '):
                why = line[7:].split()[0].rstrip(':')
                break
        if why:
            os.killpg(process.pid, 9)
        status = process.wait()
        try:
            os.killpg(process.pid, 9)       # what it may have left running
        except ProcessLookupError:
            pass
        shutil.rmtree(home, ignore_errors=True)
        return why or (f'status {status}' if status else None)

    def baseline(self, suites):
        """What the suites take without a mutant; they must pass."""
        for suite in suites:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            if not self.build(suite) or self.run(suite):
                sys.exit(f'test_{suite} fails without a mutant')
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.limit[suite] = 10 + 10 * int(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def kill(self, chapter):
        """Which suite kills the mutant, and why; ('', '') if none does, None if it does not build."""
        for suite in SUITES[chapter]:
            if not self.build(suite):
                return None
            why = self.run(suite)
            if why:
                return suite, why
        return '', ''


def main():
    seed = int(os.environ.get('SEED') or time.time())
    shown = {int(n) for n in re.findall(r'\d+', os.environ.get('SHOW', ''))}
    wanted = max(shown) if shown else int(os.environ.get('MUTANTS') or 300)
    with open('dcp.h') as file:
        text = file.read().splitlines()
    places = [place for place in candidates(text) if not os.environ.get('CHAPTERS') or place[1] in os.environ['CHAPTERS'].split()]
    killed = equivalent = count = 0
    survivors = []
    print(f'seed {seed}: {wanted} mutants of {len(places)} lines', flush=True)
    with tempfile.TemporaryDirectory(prefix='dcp_mutants.', dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None) as work:
        for name in os.listdir('.'):
            if name.endswith('.h') and name != 'dcp.h':
                shutil.copy(name, work)
        runner = Runner(work)
        runner.write(text)
        runner.baseline([suite for suite in ALL_SUITES if any(suite in SUITES[place[1]] for place in places)])
        for n, chapter, function, new in draw(text, places, random.Random(seed)):
            if count == wanted:
                break
            old = text[n - 1]
            runner.write(text[:n - 1] + [new] + text[n:])
            if not runner.build(SUITES[chapter][0]):
                continue
            count += 1
            if shown and count not in shown:
                continue
            found = runner.kill(chapter)
            place = f'{count}: dcp.h:{n} {chapter} {function}:\n      - {old.strip()}\n      + {new.strip()}'
            if found is None or found[0]:
                killed += 1
                if shown:
                    print(f'killed {place}\n      by test_{found[0]}: {found[1]}', flush=True)
            elif is_equivalent(function, old, new):
                equivalent += 1
            else:
                survivors.append(place)
                print(f'survived {place}', flush=True)
    total = len(shown) if shown else count
    percent = 100.0 * killed / max(1, total - equivalent)
    print(f'seed {seed}: {killed} of {total - equivalent} mutants killed, {percent:.1f} %; {equivalent} more are equivalent; wanted are {GOAL} %')
    return 0 if shown or percent >= GOAL else 1


if __name__ == '__main__':
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.exit(main())
