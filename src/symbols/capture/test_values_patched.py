#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_values_patched.py COMPILE HOOKS PROGRAM...: values at the beginning of functions, and where they have returned.

As test_values.py, with programs without hooks. Functions that were inlined have no calls. What is at returns is the result
only.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import test_values
from test_values import Comparison, parse

# all values of these programs are shown, but for the one result that is on the x87 stack
COMPLETE = "O0|c-gcc|cc-gcc"
ON_X87 = "< result_long_double"

# What is not what it seems: variables that are set by the first statement, interfaces that the compiler changes, arguments
# that nobody passes. Of each function the calls, and what is to be seen by gcc and by clang; "": anything that is not wrong.
TRAPS = """#define APART __attribute__((noinline))
typedef struct { long a[4]; } big; typedef struct { long a; double b; } two;
volatile int sink, counter = 1;
APART void keep(int *at) { sink = *at; }
APART int use(int n) { sink += n; return n + sink * 0; }
APART int set_to_other(int a, int b) { a = b; return use(a) + use(a) + b; }
APART int set_to_sum(int a, int b) { a = a + 1; return use(a) + use(b) + a; }
APART int set_to_constant(int a, int b) { a = 5; return use(a) + use(b); }
APART int address_taken(int a) { a += 2; keep(&a); return a; }
APART long in_memory(big b, int x) { return b.a[1] + x; }
APART double in_both(two t) { return t.a + t.b; }
static APART int unused_first(int none, int b) { return use(b) + 1; }
static APART int constant(int a, int k) { return use(a) + use(k) * k; }
static APART int by_pointer(const int *p, const int *q) { return use(*p) + *q; }
static APART int result_unused(int a) { use(a); return sink * 3; }
static APART int result_constant(int a) { use(a); return 77; }
static APART void set_then_passed(int a, int b) { a = b; use(a); use(a); }
APART int passed_on(int a, int none) { return use(a); }
__attribute__((ms_abi)) APART two other_convention(long a, double b, long c) {
    two t = {use((int)(a + c)) + (int)b, b}; return t; }
int main(void) {
    int v = counter + 41, w = counter + 8;
    big b = {{1, 2, 3, 4}}; two t = {3, 1.5};
    v += set_to_other(1, v) * 0 + set_to_sum(v, 2) * 0 + set_to_constant(v, 2) * 0 + address_taken(v) * 0;
    v += (int)in_memory(b, v) - 44 + (int)in_both(t) - 4;
    v += unused_first(w, v) * 0 + unused_first(7, v + 1) * 0 + constant(v, 5) * 0 + constant(v + 1, 5) * 0;
    v += by_pointer(&v, &w) * 0 + by_pointer(&w, &v) * 0;
    v += (int)other_convention(1, 2, 3).a - 6;
    result_unused(v); result_unused(w); set_then_passed(w, v); set_then_passed(1, w);
    return result_constant(v) + result_constant(w) + passed_on(v, w) - passed_on(w, v) - 154 - v + w;
}
"""
SHOWN = """> set_to_other(a = 1, b = 42)|< set_to_other: = 126
> set_to_sum(a = 42, b = 2)|< set_to_sum: = 88
> set_to_constant(a = 42, b = 2)|< set_to_constant: = 7
> address_taken(a = 42)|< address_taken: = 44
> in_memory(b = {a = {1, 2, 3, 4}}, x = 42)|< in_memory: = 44
> in_both(t = {a = 3, b = 1.5})|< in_both: = 4.5
> unused_first(none = 9, b = 42)|< unused_first: = 43
> unused_first(none = 7, b = 43)|< unused_first: = 44
> constant(a = 42, k = 5)|< constant: = 67
> constant(a = 43, k = 5)|< constant: = 68
> by_pointer(p = -> 42, q = -> 9)|< by_pointer: = 51
> by_pointer(p = -> 9, q = -> 42)|< by_pointer: = 51
> other_convention(a = 1, b = 2, c = 3)|< other_convention: =
> result_unused(a = 42)|< result_unused: =
> result_unused(a = 9)|< result_unused: =
> set_then_passed(a = 9, b = 42)|< set_then_passed:
> set_then_passed(a = 1, b = 9)|< set_then_passed:
> result_constant(a = 42)|< result_constant: = 77
> result_constant(a = 9)|< result_constant: = 77
> passed_on(a = 42, none = 9)|< passed_on: = 42
> passed_on(a = 9, none = 42)|< passed_on: = 9"""


def captured(compile_tool, hooks, program):
    lines, printed = test_values.capture(compile_tool, hooks, program)
    return [line for line in lines if line[:2] in ("> ", "< ")], [line for line in printed if line[:2] in ("> ", "< ")]


def result_only(line):
    results = [field for field in parse(line)[2] if field.startswith(" = ")]
    return "< %s: %s" % (parse(line)[1], results[0] if results else "")


def run(compile_tool, hooks, program):
    lines, expected = captured(compile_tool, hooks, program)
    functions = {(line[0], parse(line)[1]) for line in expected}
    lines = [line for line in lines if (line[0], parse(line)[1]) in functions]
    comparison, inlined, at = Comparison(), 0, 0
    for one in expected:
        if at == len(lines) or parse(one)[:2] != parse(lines[at])[:2]:
            inlined += 1
            continue
        if one[0] == ">":
            comparison.line(one, lines[at])
        elif result_only(one).endswith(": "):
            if not lines[at].endswith((": ", "<none>")):
                comparison.wrong.append("no result, captured %r" % lines[at])
        elif not one.startswith(ON_X87):
            comparison.line(result_only(one), lines[at])
        elif "<not available>" not in lines[at]:
            comparison.wrong.append("captured %r" % lines[at])
        at += 1
    if at != len(lines) or inlined > 4:
        comparison.wrong.append("%d calls seen of %d, %d are not in step" % (at, len(expected), len(lines) - at))
    if re.search(COMPLETE, os.path.basename(program)) and comparison.missing:
        comparison.wrong.append("%d values are missing" % comparison.missing)
    return comparison


def traps(compile_tool, hooks, compiler, level, least):
    """What is wrong with the values of TRAPS; at least so many are to be shown."""
    comparison = Comparison()
    with tempfile.TemporaryDirectory() as directory:
        source, program = os.path.join(directory, "traps.c"), os.path.join(directory, "traps")
        with open(source, "w", encoding="utf-8") as file:
            file.write(TRAPS)
        subprocess.run([compiler, "-g", level, source, "-o", program], check=True)
        lines, _ = captured(compile_tool, hooks, program)
    for line in SHOWN.splitlines():
        for one in line.split("|"):
            kind, name, want = parse(one)
            at = next((i for i, other in enumerate(lines) if parse(other)[:2] == (kind, name)), None)
            if at is None:
                comparison.wrong.append("%s %s: not seen" % (kind, name))
                continue
            have = parse(re.sub(r"0x[0-9a-f]+ ", "", lines.pop(at)))[2]
            for field in want:
                got = next((other for other in have if other.split(" =")[0] == field.split(" =")[0]), None)
                if field.strip() != "=":
                    comparison.field("%s %s" % (kind, name), field, got)
    if comparison.shown < least:
        comparison.wrong.append("only %d values are shown" % comparison.shown)
    return comparison


def numbers(compile_tool, hooks, program):
    comparison = Comparison()
    test_values.NUMBERS = [one for one in test_values.NUMBERS if one[1] not in ("doubled", "even")]  # locals
    comparison.wrong = list(test_values.numbers(compile_tool, hooks, program))
    comparison.shown = len(test_values.NUMBERS)
    return comparison


def main():
    os.environ.update(VALUES_PATCHED="1", VALUES_TRAPS="1")
    compile_tool, hooks, programs = sys.argv[1], sys.argv[2], sys.argv[3:]
    checks = [(os.path.basename(program), lambda program=program: run(compile_tool, hooks, program))
              for program in programs]
    for compiler, level, least in (("gcc", "-O0", 50), ("gcc", "-O2", 30), ("clang", "-O0", 50), ("clang", "-O2", 26)):
        found = shutil.which(compiler) or shutil.which(compiler + "-14")
        if found:
            checks.append(("traps " + compiler + level, lambda found=found, level=level, least=least:
                           traps(compile_tool, hooks, found, level, least)))
    plain = [program for program in programs if program.endswith("c-gcc-O0")][0]
    checks.append(("numbers for conditions", lambda: numbers(compile_tool, hooks, plain)))
    print("1..%d" % len(checks))
    failed = False
    for number, (name, check) in enumerate(checks, 1):
        comparison = check()
        for text in comparison.wrong:
            print("# " + text)
        bad = bool(comparison.wrong) or not comparison.shown
        print("%s %d - %s: %d of %d values shown" %
              ("not ok" if bad else "ok", number, name, comparison.shown, comparison.shown + comparison.missing))
        failed |= bad
    return failed


if __name__ == "__main__":
    sys.exit(main())
