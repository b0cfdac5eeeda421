#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_values.py COMPILE HOOKS PROGRAM...: values captured by scry against what the programs print of themselves.

COMPILE makes capture programs of a PROGRAM's debug information, HOOKS runs them at its hooks and prints what they
captured. Each line must be the one that the program printed, but for values that are said to be optimised out or not
available: those are counted, and there may be none in programs that gcc did not optimise.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

# what conditions see: function, expression, type (0 signed, 1 unsigned, 2 floating, 3 float, 4 not to be had), value
NUMBERS = (
    ("> integers", "b", 0, -5), ("> integers", "i", 1, 18000000000000000000 - 2**64), ("> integers", "k", 1, 1),
    ("> structs", "p.x", 0, 1), ("> structs", "b.a[2]", 0, 3), ("> structs", "b.p.y", 2, 7.5),
    ("> pointers", "p->y", 2, 2.5), ("> pointers", "*i", 0, 42), ("> pointers", "**ii", 0, 42),
    ("> pointers", "null->x", 4, 0), ("> pointers", "bad->x", 4, 0), ("> pointers", "null", 1, 0),
    ("> bit_fields", "by_value.middle", 0, -3), ("> bit_fields", "pointer->high", 1, 123456789012),
    ("> functions", "h.counts[1]", 0, 22), ("> functions", "h.name[1]", 0, 111),
    ("> floats", "a", 3, 1.5), ("> floats", "c", 2, 3.125), ("> enums", "c", 1, 7),
    ("> lists", "list->next->value", 0, 2), ("> odd_structs", "u.t", 0, 2), ("> odd_structs", "(*at).i", 0, 12),
    ("> twice", "nothing", 4, 0), ("< twice", "result", 0, 42), ("< twice", "doubled", 0, 42),
    ("< results", "even", 1, 1), ("< statics", "calls", 0, 2),
    ("> structs", "f.v", 3, 1.5), ("> enums", "BLUE", 1, 7), ("> twice", "RED", 1, 0),
    ("> structs", "b.a[p.x]", 0, 2), ("> structs", "b.a[ l.second * 3-1 ]", 0, 3), ("> structs", "b.a[s.b + 4]", 0, 3),
    ("> structs", "b.a[(unsigned char)s.b - 252]", 0, 3), ("> structs", "b.a[-(l.first)]", 0, 2),
    ("> structs", "b.a[m.i % 5 - GREEN]", 0, 4), ("> structs", "b.a[(m.i + sizeof(s.b)) / 4]", 0, 3),
    ("> structs", "b.a[" + " + ".join(["p.x * l.second % m.i"] * 4) + "]", 0, 5),
    ("> structs", "b.a[p.x + p.x * (m.i - (l.second + s.b * (p.x - m.i)) / 8 - 7)]", 0, 2),
    ("> structs", "b.a[b.a[b.a[b.a[p.x - 1] - p.x] + l.second - 1] % 5]", 0, 3),
    ("> structs", "b.a[(bool)m.i << 1 | 1]", 0, 4), ("> structs", "b.a[b.a[0] ^ 1]", 0, 1), ("> structs", "b.a['d' - 99]", 0, 2),
    ("> structs", "b.a[p.x / (p.x - 1)]", 4, 0), ("> structs", "b.a[p.x % 0]", 4, 0), ("> structs", "b.a[p.y]", 4, 0),
    ("> structs", "b.a[1 << 40]", 4, 0), ("> structs", "b.a[p.x * 1099511627776]", 4, 0), ("> structs", "b.a[nothing]", 4, 0),
    ("> structs", "sizeof(b)", 1, 56), ("> structs", "sizeof ( b.p ) ", 1, 16), ("> structs", "sizeof(unsigned)", 1, 4),
    ("> functions", "h.counts[h.counts[0] - 20]", 0, 22), ("> functions", "h.name[h.counts[1] % 3]", 0, 111),
)

# programs of which all values are shown
COMPLETE = "gcc-O0|values-fortran-O0"
MISSING = ("<optimised out>", "<not available>")


def outside(text, wanted):
    """Where this character stands outside brackets and strings."""
    depth, quoted, i = 0, False, 0
    while i < len(text):
        c = text[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in "{(":
            depth += 1
        elif c in "})":
            depth -= 1
        elif c == wanted and depth == 0:
            yield i
        i += 1


def fields(text):
    """Splits at the commas that are not in brackets or strings."""
    parts, begin = [], 0
    for at in outside(text, ","):
        parts.append(text[begin:at].strip())
        begin = at + 1
    last = text[begin:].strip()
    return parts + [last] if last else parts


def parse(line):
    """(kind, function, fields); a result is the field "= VALUE"."""
    kind, rest = line[0], line[2:]
    if kind == ">":
        name, _, inside = rest.partition("(")
        return kind, name, fields(inside.rstrip()[:-1])
    name, _, inside = rest.partition(":")
    parts = fields(inside)
    if parts:
        head, found, result = rsplit_result(parts[-1])
        if found:
            parts = parts[:-1] + ([head] if head else []) + [" = " + result]
    return kind, name, parts


def rsplit_result(text):
    """`sum = 3 = 3` and `= 3` have a result, `sum = 3` has none: the result is behind the last = outside brackets."""
    cuts = list(outside(text, "="))
    if len(cuts) == 2 or (len(cuts) == 1 and cuts[0] == 0):
        at = cuts[-1]
        return text[:at].strip(), True, text[at + 1:].strip()
    return text, False, ""


class Comparison:
    def __init__(self):
        self.shown = self.missing = 0
        self.wrong = []

    def field(self, where, expected, got):
        if expected == got:
            self.shown += 1
        elif got is not None and any(word in got for word in MISSING):
            self.missing += 1
        else:
            self.wrong.append("%s: printed %r, captured %r" % (where, expected, got))

    def line(self, expected, got):
        kind, name, want = parse(expected)
        have = parse(got)[2]
        where = "%s %s" % (kind, name)
        if have == ["<none>"]:  # nothing was recorded there
            self.missing += len(want)
            return
        captured = {one.partition(" = ")[0]: one for one in have}
        if len(want) != len(captured) or len(have) != len(captured):
            self.wrong.append("printed %r, captured %r" % (expected, got))
            return
        for one in want:  # compilers list locals in orders of their own
            self.field(where, one, captured.get(one.partition(" = ")[0]))


def capture(compile_tool, hooks, program, **variables):
    """(the lines that were captured, the lines that the program printed)"""
    with tempfile.TemporaryDirectory() as directory:
        captures, captured = os.path.join(directory, "captures"), os.path.join(directory, "captured")
        with open(captures, "wb") as out:
            subprocess.run([compile_tool, program], stdout=out, stderr=subprocess.DEVNULL, check=True,
                           env=dict(os.environ, **variables))
        env = dict(os.environ, **variables, VALUES_FILE=captures, VALUES_OUT=captured, LD_PRELOAD=hooks)
        printed = subprocess.run([program], env=env, stdout=subprocess.PIPE, check=True, timeout=60).stdout
        with open(captured, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines(), printed.decode().splitlines()


def run(compile_tool, hooks, program):
    lines, expected = capture(compile_tool, hooks, program)
    functions = {(line[0], parse(line)[1]) for line in expected}
    lines = [line for line in lines if line[:2] in ("> ", "< ") and (line[0], parse(line)[1]) in functions]
    comparison = Comparison()
    if len(expected) != len(lines):
        comparison.wrong.append("%d lines printed, %d captured" % (len(expected), len(lines)))
    for one, other in zip(expected, lines):
        if parse(one)[:2] != parse(other)[:2]:
            comparison.wrong.append("printed %r, captured %r: out of step" % (one, other))
            break
        comparison.line(one, other)
    return comparison


def numbers(compile_tool, hooks, program):
    """Numbers for conditions: what is wrong with them."""
    expressions = [expression for _, expression, _, _ in NUMBERS]
    lines, _ = capture(compile_tool, hooks, program, VALUES_PARAMS=";".join(expressions))
    for where, expression, kind, value in NUMBERS:
        found = False
        for before, line in zip(lines, lines[1:]):
            if line.startswith(where) and not line[len(where)].isalnum() and before.startswith("? "):
                words = before.split()[2:]
                at = 2 * expressions.index(expression)
                got = (int(words[at]), float(words[at + 1]))
                if got != (kind, float(value)):
                    yield "%s %s: %r instead of %r" % (where, expression, got, (kind, value))
                found = True
                break
        if not found:
            yield "%s: no numbers" % where


def callers(compile_tool, hooks, program):
    """The caller's locals: what is wrong with them."""
    lines, _ = capture(compile_tool, hooks, program, VALUES_CALLER="1")
    checked = 0
    for before, line in zip(lines, lines[1:]):
        for n in range(1, 5):
            if line == "> factorial(n = %d)" % n:
                checked += 1
                if not before.startswith("^ n = %d" % (n + 1)):
                    yield "caller of factorial(%d): %r" % (n, before)
        if line == "> twice(n = 21)":  # called by a pointer
            checked += 1
            if not before.startswith("^ function = 0x") or "counts = {21, 22, 23}" not in before:
                yield "caller of twice: %r" % before
    if checked != 5:
        yield "%d callers instead of 5" % checked


def ctf(compile_tool, hooks, program):
    """babeltrace2 on a trace whose events are the layouts: what is wrong with it."""
    with tempfile.TemporaryDirectory() as directory:
        lines, _ = capture(compile_tool, hooks, program, VALUES_CTF=directory, VALUES_CALLER="1")
        shown = subprocess.run(["babeltrace2", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if shown.returncode:
        yield shown.stderr.decode(errors="replace").splitlines()[0]
    events = shown.stdout.decode(errors="replace").splitlines()
    with_values = sum(1 for line in lines if not line.startswith("@") and not line.endswith(("()", "<none>")))
    if abs(len(events) - with_values) > 2:
        yield "%d events, %d captures" % (len(events), with_values)
    for text in ("n = 5", 'text = "text"', '"BLUE"', "even = 1"):
        if not any(text in event for event in events):
            yield "no event has " + text


THROWS = """volatile int count;
__attribute__((noinline)) int inner(int n) { if (n > 0) throw n; return n + 3; }
__attribute__((noinline)) int outer(int n) { return inner(n) * 2 + count; }
__attribute__((noinline)) int after(int n) { count += n; return 7; }
int main() { for (int i = 0; i < 2; i++) { try { outer(i); } catch (int) {} after(i); } }
"""


def exceptions(compile_tool, hooks, program):
    """Calls that an exception leaves have no result, though gcc's hooks see them: what is wrong with it."""
    with tempfile.TemporaryDirectory() as directory:
        source, program = os.path.join(directory, "throws.cc"), os.path.join(directory, "throws")
        with open(source, "w", encoding="utf-8") as file:
            file.write(THROWS)
        for level in ("-O0", "-O1", "-O2", "-Os"):
            subprocess.run(["g++", "-g", level, "-finstrument-functions", source, "-o", program], check=True)
            lines, _ = capture(compile_tool, hooks, program)
            got = [line.rpartition(" = ")[2] for line in lines if line.startswith(("< inner", "< outer"))]
            if got != ["3", "6", "<not available>", "<not available>"]:
                yield "%s: %r" % (level, got)


def main():
    compile_tool, hooks, programs = sys.argv[1], sys.argv[2], sys.argv[3:]
    print("1..%d" % (len(programs) + 4))
    failed = False
    for number, program in enumerate(programs, 1):
        name = os.path.basename(program)
        comparison = run(compile_tool, hooks, program)
        if re.search(COMPLETE, name) and comparison.missing:
            comparison.wrong.append("%d values are missing" % comparison.missing)
        for text in comparison.wrong:
            print("# " + text)
        total = comparison.shown + comparison.missing
        print("%s %d - %s: %d of %d values shown" %
              ("not ok" if comparison.wrong or not total else "ok", number, name, comparison.shown, total))
        failed |= bool(comparison.wrong) or not total
    program = [name for name in programs if name.endswith("c-gcc-O0")][0]
    for number, (what, check) in enumerate((("numbers for conditions", numbers), ("callers", callers),
                                            ("exceptions", exceptions), ("layouts as CTF", ctf)), len(programs) + 1):
        if check is ctf and not shutil.which("babeltrace2"):
            print("ok %d - %s # SKIP babeltrace2 is not installed" % (number, what))
            continue
        if check is exceptions and not shutil.which("g++"):
            print("ok %d - %s # SKIP g++ is not installed" % (number, what))
            continue
        wrong = list(check(compile_tool, hooks, program))
        for text in wrong:
            print("# " + text)
        print("%s %d - %s" % ("not ok" if wrong else "ok", number, what))
        failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
