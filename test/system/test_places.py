# SPDX-License-Identifier: Apache-2.0
"""Where each call comes from: file and line of the call, also from functions without hooks, out of inlined ones, and
where the library or the program is not there any more."""

import collections
import csv
import io
import json
import os
import subprocess

import scrytest
from ctracertest import TracerCase

PROGRAM = """#include <stdio.h>
#include <stdlib.h>
static int calls;
QUIET static void say(const char *name, int line) { printf("%s %d\\n", name, line); }
#define SAY(name) say(name, __LINE__)
NOINLINE int leaf(int x) { calls++; return x + calls; }
static inline __attribute__((always_inline)) int square(int x) { calls++; return x * x; }
NOINLINE int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
NOINLINE QUIET int silent(int x) {
    SAY("silent"); return leaf(x) + 1; }
NOINLINE int work(int n) {
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        SAY("work"); sum += leaf(i); }
    SAY("work"); sum += square(n);
    SAY("work"); sum += square(sum);
    return sum + silent(n); }
int main(void) {
    int both[2] = {2, 1};
    SAY("main"); both[0] += work(3);
    qsort(both, 2, sizeof *both, compare);
    return 0; }
"""
MACROS = ["-DQUIET=__attribute__((no_instrument_function))", "-DNOINLINE=__attribute__((noinline))"]

RECURSION = """static int down(int n) { return n ? down(n - 1) + 1 : 0; }
int main(void) { return down(50) != 50; }
"""

# -O3 makes a copy of it for the argument 3; the other stays for one whose argument is not known.
CLONE = """#include <stdio.h>
volatile int sum;
__attribute__((noinline)) static int scaled(int v, int k) {
    for (int i = 0; i < k; i++) { sum += v; printf("%s", i > 100 ? "x" : ""); }
    return sum; }
__attribute__((noinline)) static int one(int x) { return scaled(x, 3) + 1; }
int main(int argc, char **argv) {
    int r = one(argc);
    return scaled(r, r) + scaled(r, 3) == 0; }
"""

FORTRAN = """module deep
contains
    subroutine inner(k)
        integer, intent(inout) :: k
        k = k + 1
    end subroutine
    subroutine middle(k)
        integer, intent(inout) :: k
        integer :: before
        before = k
        call inner(k)
        if (before == k) stop 2
    end subroutine
end module
program outer
    use deep
    integer :: k
    k = 1
    call inner(k)
    call middle(k)
    if (k /= 3) stop 1
end program
"""


class Places(TracerCase):
    def run_program(self, text, name, *options, compiler="gcc", arguments=()):
        source = self.box.path("work", name)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        program = self.compile(source, *options, compiler=compiler)
        done = self.scry_run("-q", "--trace", "*", *arguments, "--", program)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return program, [tuple(line.split()) for line in done.stdout.splitlines()]

    def check(self, name, *options, compiler="gcc", arguments=()):
        """The program itself prints from which line each call comes."""
        program, said = self.run_program(PROGRAM, name, *MACROS, *options, compiler=compiler, arguments=arguments)
        calls = [call for call in self.replayed() if call["function"].partition("(")[0] not in ("main", "compare")]
        calls.sort(key=lambda call: call["start_seconds"])
        shown = [(call["from_function"].partition("(")[0], str(call["from_line"])) for call in calls]
        self.assertEqual(shown, said)
        self.assertEqual({os.path.basename(call["from_file"]) for call in calls}, {name})
        # qsort has no lines to be known everywhere, but it is not nowhere
        compare = next(call for call in self.replayed() if call["function"].startswith("compare"))
        self.assertRegex(compare["from_module"], "libc")
        return program, shown

    def test_c(self):
        for options in (["-O0"], ["-O2"], ["-O2", "-fno-omit-frame-pointer", "-DAGAIN"]):
            with self.subTest(options):
                self.check("places.c", *options)

    def test_cpp(self):
        self.check("places.cc", "-O2", compiler="g++")

    def test_values_and_minimum(self):
        """Entries with values have them, and those that waited for their end."""
        self.check("places.c", "-O0", arguments=["--args", "--locals"])
        self.check("places.c", "-O0", arguments=["--args", "--min-time", "1ns"])

    def test_fortran(self):
        """A procedure has one name, whether it is called or calls."""
        self.run_program(FORTRAN, "places.f90", "-O0", compiler="gfortran", arguments=["--locals", "--depth", "2"])
        calls = [call for call in self.replayed() if "inner" in call["function"]]
        self.assertEqual([call["from_line"] for call in calls], [19, 11])
        self.assertEqual(calls[1]["function"], "deep::inner")
        self.assertEqual(calls[1]["from_function"], "deep::middle")
        self.assertEqual(calls[1]["caller_locals_of"], "deep::middle")
        tree = self.scry("replay", "@last").stdout
        self.assertIn("in deep::middle {", tree)
        self.assertNotIn("_MOD_", tree + self.scry("report", "@last").stdout)
        csv_text = self.scry("export", "--format", "csv", "-o", "-", "@last").stdout
        self.assertNotIn("_MOD_", csv_text)

    def test_clone(self):
        """A copy that the compiler made of a function is called as the function is."""
        program, _ = self.run_program(CLONE, "clone.c", "-O3")
        if "scaled.constprop" not in subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout:
            self.skipTest("this compiler makes no copy of it")
        calls = [(call["from_function"], call["from_line"]) for call in self.replayed() if call["function"].startswith("scaled")]
        self.assertEqual(calls, [("one", 6), ("main", 9), ("main", 9)])

    def test_shown(self):
        """In the tree, in CSV; kept for when the program is gone; addresses where it went before anybody asked."""
        program, shown = self.check("places.c", "-O0")
        tree = self.scry("replay", "@last").stdout
        self.assertRegex(tree, rf"\n.* leaf\(\)  .*  places\.c:6 from places\.c:{shown[1][1]}\n")
        self.assertRegex(tree, r"\n.* leaf\(\)  .*  places\.c:6 from silent places\.c:10\n")
        rows = list(csv.DictReader(io.StringIO(self.scry("export", "--format", "csv", "-o", "-", "@last").stdout)))
        self.assertEqual([row["from_line"] for row in rows if row["function"] == "work"], [shown[0][1]])
        os.unlink(program)
        self.assertEqual(self.scry("replay", "@last").stdout, tree)
        program, _ = self.run_program(PROGRAM, "places.c", *MACROS, "-O0")
        os.unlink(program)
        done = self.box.run([scrytest.built("src", "cli", "scry"), "replay", "@last"])
        self.assertRegex(done.stdout, r"\n.* leaf\(\)  .*  places\.c:6 from places\+0x[0-9a-f]+\n")
        self.assertIn("callers are shown as addresses", done.stderr)

    def test_report(self):
        """The table of call sites has each place once, with its calls and their time."""
        _, shown = self.check("places.c", "-O0")
        report = json.loads(self.scry("report", "--json", "@last").stdout)
        counts = collections.Counter(shown)
        rows = report["call_sites"]
        self.assertEqual(rows, sorted(rows, key=lambda row: -row["total_ns"]))
        sites = {(row["from_function"], str(row["from_line"])): row["calls"] for row in rows if row["function"] != "main"}
        self.assertEqual({site: calls for site, calls in sites.items() if site in counts}, counts)
        totals = {row["name"]: row["total_ns"] for row in report["functions"]}
        self.assertEqual(sum(row["total_ns"] for row in rows if row["function"] == "work"), totals["work"])
        text = self.scry("report", "@last").stdout
        self.assertRegex(text, rf"\nCalls come from .*\n(.*\n)*? .* 2  leaf from places\.c:{shown[1][1]} in work\n")

    def test_recursion(self):
        """The time of calls inside each other from one place counts once."""
        self.run_program(RECURSION, "down.c", "-O0")
        report = json.loads(self.scry("report", "--json", "@last").stdout)
        row = next(row for row in report["call_sites"] if row["from_function"] == "down")
        self.assertEqual((row["function"], row["calls"]), ("down", 50))
        self.assertLess(row["total_ns"], next(each["total_ns"] for each in report["functions"] if each["name"] == "main"))


scrytest.main()
