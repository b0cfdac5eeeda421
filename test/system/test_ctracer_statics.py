# SPDX-License-Identifier: Apache-2.0
"""Static variables of chosen files (--statics): globals, static locals, static members, those of namespaces and of
Fortran modules, at each return, with the values that the program itself prints, and those that gdb sees."""

import re
import shutil

import scrytest
from ctracertest import TracerCase

C = """#include <stdio.h>
int total = 5;
static long grid[3] = {1, 2, 3};
extern int elsewhere;
int elsewhere = 1;
__attribute__((noinline)) int step(int n)
{
    static int calls = 40;
    calls++;
    total += n;
    grid[1] = 10 * n;
    printf("step calls=%d total=%d grid={1,%ld,3}\\n", calls, total, grid[1]);
    return calls;
}
__attribute__((noinline)) void last(void)
{
    printf("last total=%d grid={1,%ld,3}\\n", total, grid[1]);
}
int main(void)
{
    int sum = 0;
    for (int i = 0; i < 3; i++)
        sum += step(i);
    last();
    return sum ? 0 : 1;
}
"""
CXX = """#include <cstdio>
#include "counter.h"
int Counter::made = 40;
namespace deep { long total = 5; static double ratio = 0.5; }
__attribute__((noinline)) void step(int n)
{
    static int calls;
    calls++;
    deep::total += n;
    deep::ratio *= 2;
    Counter counter;
    std::printf("step calls=%d Counter::made=%d deep::total=%ld deep::ratio=%g\\n", calls, Counter::made, deep::total,
                deep::ratio);
}
__attribute__((noinline)) void last()
{
    std::printf("last Counter::made=%d deep::total=%ld deep::ratio=%g\\n", Counter::made, deep::total, deep::ratio);
}
int main()
{
    for (int i = 0; i < 3; i++)
        step(i);
    last();
    return 0;
}
"""
HEADER = """struct Counter {
    static int made;
    Counter() { made++; }
};
"""
OBJECTS = """#include <map>
#include <string>
struct Owner { int number; explicit Owner(int n) : number(n) {} ~Owner() { number = -1; } };
static std::map<int, std::string> table{{1, "one"}};
Owner owner(7);
int step(int n)
{
    static std::string last = "none";
    last = "seen";
    table[2] = "two";
    Owner own(n);
    return own.number;
}
int main() { return step(0); }
"""
FORTRAN = """module state
    integer :: steps = 0
    real(8), save :: grid(3) = [1d0, 2d0, 3d0]
contains
    subroutine advance(k)
        integer, intent(in) :: k
        integer, save :: inner = 10
        inner = inner + k
        steps = steps + 1
        grid(2) = grid(2) + k
    end subroutine
end module
program outer
    use state
    call advance(2)
    call advance(3)
end program
"""


class Statics(TracerCase):
    def write(self, name, text):
        path = self.box.path("work", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_with(self, program, *options):
        done = self.scry_run("-q", *options, "--", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def check(self, text, name, *options, compiler):
        program = self.compile(self.write(name, text), *options, compiler=compiler)
        said = [line.split() for line in self.run_with(program, "--statics", name)]
        calls = [call for call in self.replayed(numbers_as_text=True)
                 if call["function"].partition("(")[0] in ("step", "last")]
        calls.sort(key=lambda call: float(call["start_seconds"]))
        self.assertEqual(len(calls), len(said))
        for (function, *values), call in zip(said, calls):
            self.assertEqual(call["function"].partition("(")[0], function)
            shown = {key: re.sub(" ", "", str(value)) for key, value in call["statics"].items()}
            self.assertLessEqual(set(dict(value.split("=") for value in values).items()), set(shown.items()))
        return program, shown

    def as_gdb(self, program, shown):
        """What there was at the last return is what gdb has when that function begins: it changes nothing."""
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        asked = [argument for name in shown for argument in ("-ex", f"print {name}")]
        done = self.box.run(["gdb", "-batch", "-nx", "-ex", "set confirm off", "-ex", "break last", "-ex", "run", *asked, program])
        values = [value.replace(" ", "") for value in re.findall(r"^\$\d+ = (.*)$", done.stdout, re.MULTILINE)]
        self.assertEqual(values, list(shown.values()), done.stdout + done.stderr)

    def test_c(self):
        for options in (["-O0"], ["-O2", "-fno-optimize-sibling-calls"]):
            with self.subTest(options):
                program, shown = self.check(C, "statics.c", *options, compiler="gcc")
                if options == ["-O0"]:
                    self.assertEqual(set(shown), {"total", "grid", "elsewhere"})
                    self.as_gdb(program, shown)

    def test_cpp(self):
        self.write("counter.h", HEADER)
        for compiler, options in (("g++", ["-O0"]), ("g++", ["-O2", "-fno-optimize-sibling-calls"]), ("clang++", ["-O1", "-fno-optimize-sibling-calls"])):
            with self.subTest(compiler=compiler, options=options):
                if shutil.which(compiler):
                    program, shown = self.check(CXX, "statics.cc", f"-I{self.box.path('work')}", *options, compiler=compiler)
                    if compiler == "g++":
                        self.as_gdb(program, shown)

    @scrytest.thorough
    def test_objects_with_destructors(self):
        """They live on when the function returns."""
        program = self.compile(self.write("objects.cc", OBJECTS), "-O0", compiler="g++")
        self.run_with(program, "--statics", "objects.cc")
        statics, = [call["statics"] for call in self.replayed() if call["function"].startswith("step")]
        self.assertEqual(statics, {"last": '"seen"', "table": '{[1] = "one", [2] = "two"}', "owner": "{number = 7}"})

    def test_fortran(self):
        program = self.compile(self.write("statics.f90", FORTRAN), "-O0", compiler="gfortran")
        self.run_with(program, "--statics", "*.f90")
        calls = [call["statics"] for call in self.replayed() if "advance" in call["function"]]
        self.assertEqual(calls, [{"inner": 12, "steps": 1, "grid": "{1, 4, 3}"}, {"inner": 15, "steps": 2, "grid": "{1, 7, 3}"}])

    def test_shown(self):
        """In the tree and in CSV; of other files' functions none; with arguments, too."""
        program = self.compile(self.write("statics.c", C), "-O0")
        self.run_with(program, "--args", "--statics", "*")
        tree = self.scry("replay", "@last").stdout
        self.assertRegex(tree, r" step\(n = 0\).*  = 41  static \{calls = 41, total = 5, grid = \{1, 0, 3\}, elsewhere = 1\}  ")
        out = self.scry("export", "--format", "csv", "-o", "-", "@last").stdout
        self.assertIn('"calls = 43, total = 8, grid = {1, 20, 3}, elsewhere = 1"', out)
        self.run_with(program, "--args", "--statics", "other*.c,more/statics.c")
        self.assertNotIn("static {", self.scry("replay", "@last").stdout)
        done = self.scry_run("--statics", "", "--", program)
        self.assertEqual(done.returncode, 125)

scrytest.main()
