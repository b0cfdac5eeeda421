# SPDX-License-Identifier: Apache-2.0
"""Programs whose pointers lead nowhere are traced with everything switched on, and come to their own end; under the
address sanitizer, under gdb and gdb under scry, too."""

import glob
import json
import os
import re
import shutil
import unittest

import scrytest
from ctracertest import TracerCase

# Each call has a pointer to another page that cannot be read.
PAGES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int points(char *text) { return text != 0; }
int main(int argc, char **argv)
{
    int pages = atoi(argv[1]), sum = 0;
    char *at = mmap(0, 4096L * pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < pages; i++) {
        sum += points(at + 4096L * i);
        usleep(500);
    }
    printf("%d\n", sum);
    return 0;
}
"""
EVERYTHING = ["--args", "--locals", "--depth", "5"]


class Pointers(TracerCase):
    def check_values(self, pointers):
        """Readable memory is shown; what cannot be read is shown as invalid, with its address."""
        calls = {}
        for call in self.replayed():
            calls.setdefault(call["function"], []).append(call)
        self.assertEqual(calls["null"][0]["args"]["node"], "0x0")
        self.assertIn("value = 5", calls["misaligned"][0]["args"]["node"])

        def invalid(function, name, pointer, at=0):
            self.assertEqual(calls[function][at]["args"][name], f"<invalid {pointers[pointer]}>", function)
        invalid("unmapped", "node", "unmapped")
        invalid("unmapped", "text", "low")
        invalid("unmapped", "number", "top")
        invalid("kernel", "node", "kernel")
        invalid("kernel", "text", "canonical")
        invalid("kernel", "pointer", "last")
        invalid("gone", "node", "gone")
        invalid("guarded", "node", "guarded")
        invalid("behind_file", "node", "behind")
        self.assertEqual(calls["behind_file"][0]["args"]["inside"], '"file"')
        self.assertIn(pointers["across"], calls["across"][0]["args"]["node"])
        self.assertIn("end!", calls["across"][0]["args"]["text"])
        cycle = calls["cycle"][0]["args"]
        self.assertIn("value = 1", cycle["ring"])
        self.assertIn("value = 3", cycle["ring"])
        self.assertIn("value = 7", cycle["self"])
        bad = calls["leads_to_bad"][0]["args"]["list"]
        for part in ('"first"', '"second"', pointers["guarded"], f"<invalid {pointers['behind']}>"):
            self.assertIn(part, bad)
        self.assertEqual([len(calls[name]) for name in ("unmapped", "own_fault")], [5, 7])
        self.assertEqual([call["args"]["node"] for call in calls["unmapped"]],
                         [f"<invalid {pointers['unmapped']}>"] * 5)

    def run_both(self, program, *options):
        alone = self.box.run([program])
        self.assertEqual(alone.returncode, 42, alone.stderr)
        result = self.lines_said(alone.stdout, "result")
        done = self.scry_run("-q", "--trace", "file:badptr.c", *EVERYTHING, *options, "--", program)
        self.assertEqual((done.returncode, done.stderr, self.lines_said(done.stdout, "result")), (42, "", result))
        return dict(re.findall(r"^pointer (\w+) (\S+)$", done.stdout, re.M))

    def test_directly(self):
        program = self.compile("badptr.c", "-O0", "-w")
        self.check_values(self.run_both(program))

    def test_by_system_calls(self):
        program = self.compile("badptr.c", "-O0", "-w")
        self.check_values(self.run_both(program, "--read-by", "syscall"))

    def test_by_a_victim(self):
        program = self.compile("badptr.c", "-O0", "-w")
        self.check_values(self.run_both(program, "--read-by", "victim"))

    def test_victims_are_not_the_jobs(self):
        """A job that needs hundreds of victims has one process, and scry run ends with it."""
        source = self.box.path("work", "pages.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(PAGES)
        program = self.compile(source, "-O0")
        for _ in range(5):
            done = self.scry_run("-q", "--sample", "0.01", "--args", "--read-by", "victim", "--", program, "400")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "400\n", ""))
            report = self.report()
            self.assertEqual([report[key] for key in ("process_count", "processes_at_once", "left_running")], [1, 1, 0])
            with open(glob.glob(os.path.join(report["path"], "spool", "*.jsonl"))[0], encoding="utf-8") as file:
                records = [json.loads(line) for line in file]
            self.assertEqual([record["name"] for record in records
                              if record["type"] == "process" and record["name"] != "pages"], [])
            ended = next(record["t"] for record in records if record["type"] == "process_end")
            after = [record for record in records if record["t"] > ended]
            self.assertEqual([record for record in after if record["type"] not in ("sample", "health", "end")], [])
            self.assertLess(after[-1]["t"] - ended, 1 * scrytest.SCALE)

    def test_optimised(self):
        """Whatever is known of the values then, the program ends as it does."""
        program = self.compile("badptr.c", "-O2", "-w")
        for way in ("direct", "syscall", "victim"):
            with self.subTest(way=way):
                self.run_both(program, "--read-by", way)

    def test_clang(self):
        program = self.compile("badptr.c", "-O0", "-w", compiler="clang-14")
        self.check_values(self.run_both(program))

    def test_address_sanitizer(self):
        """With libasan, whose own handler the program has replaced; reading freed memory is no error of the program."""
        source = os.path.join(scrytest.SOURCE, "test", "system", "targets", "badptr.c")
        if self.box.run(["gcc", "-g", "-fsanitize=address", "-finstrument-functions", "-w", "-o", "asan", source]).returncode:
            self.skipTest("no compiler with the address sanitizer")
        for way in ("direct", "syscall"):
            with self.subTest(way=way):
                # what it keeps at its end is not to the point
                done = self.scry_run("-q", "--trace", "file:badptr.c", *EVERYTHING, "--read-by", way, "--",
                                     self.box.path("work", "asan"), env={"ASAN_OPTIONS": "detect_leaks=0"})
                self.assertEqual((done.returncode, done.stderr), (42, ""))
                self.check_values(dict(re.findall(r"^pointer (\w+) (\S+)$", done.stdout, re.M)))


@unittest.skipUnless(shutil.which("valgrind"), "needs valgrind")
class Valgrind(TracerCase):
    """What the hooks read is no error of the program's, and what the program reads is."""

    def memcheck(self, program, *options, scry=()):
        return self.box.run([*scry, "valgrind", "-q", "--error-exitcode=9", program, *options])

    def check(self, program):
        for way in ("direct", "syscall"):
            with self.subTest(program=program, way=way):
                scry = self.box.scry("run", "-q", "--trace", "all", *EVERYTHING, "--read-by", way, "--")
                done = self.memcheck(program, scry=scry)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "sum 1\n", ""))
                self.assertEqual(self.calls()["fill"], 1)
                done = self.memcheck(program, "wrong", scry=scry)
                self.assertEqual(done.returncode, 9, done.stderr)
                [report] = re.findall("Conditional jump.*\n.*", done.stderr)
                self.assertIn(": look (unset.c:", report)

    def test_not_optimised(self):
        program = self.compile("unset.c", "-O0", "-w")
        self.assertEqual([self.memcheck(program).returncode, self.memcheck(program, "wrong").returncode], [0, 9])
        self.check(program)

    @scrytest.thorough
    def test_optimised(self):
        self.check(self.compile("unset.c", "-O1", "-w"))

    @scrytest.thorough
    def test_deep(self):
        """Valgrind maps no memory again, which is how shadow stacks grow elsewhere."""
        source = self.box.path("work", "deep.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <stdio.h>\nstatic int down(int n)\n{\n    return n ? 1 + down(n - 1) : 0;\n}\n"
                       "int main(void)\n{\n    printf(\"%d\\n\", down(2000));\n}\n")
        done = self.memcheck(self.compile(source, "-O0"), scry=self.box.scry("run", "-q", "--trace", "all", "--"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "2000\n", ""))
        self.assertEqual(self.calls()["down"], 2001)


@unittest.skipUnless(shutil.which("gdb"), "needs gdb")
class Gdb(TracerCase):
    def gdb(self, *command, scry=()):
        return self.box.run([*scry, "gdb", "-batch", "-nx", "-ex", "set startup-with-shell off", "-ex", "run", "-ex",
                             "bt", "--args", *command])

    def test_scry_under_gdb(self):
        """gdb runs `scry run`, and follows it, not the program."""
        program = self.compile("badptr.c", "-O0", "-w")
        done = self.gdb(*self.box.scry("run", "-q", "--trace", "file:badptr.c", *EVERYTHING, "--", program))
        self.assertIn("exited with code 052", done.stdout, done.stderr)
        self.assertEqual(self.calls()["unmapped"], 5)

    def test_gdb_under_scry(self):
        """gdb watches the traced program: it crashes where it would have, and gdb sees it there."""
        program = scrytest.built("test", "system", "targets", "traced")
        done = self.gdb(program, "crash", "5", scry=self.box.scry("run", "-q", "--trace", "file:traced.c", *EVERYTHING, "--"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"received signal SIGSEGV")
        frames = re.findall(r"^#\d+ .*\bdeep \(", done.stdout, re.M)
        self.assertEqual(len(frames), 6, done.stdout)
        self.assertEqual(self.calls()["deep"], 6)

    @scrytest.thorough
    def test_break_in_a_traced_function(self):
        program = scrytest.built("test", "system", "targets", "traced")
        done = self.box.run([*self.box.scry("run", "-q", "--trace", "file:traced.c", *EVERYTHING, "--"), "gdb", "-batch", "-nx",
                             "-ex", "set startup-with-shell off", "-ex", "break leaf", "-ex", "run", "-ex", "finish",
                             "-ex", "delete", "-ex", "continue", "--args", program, "calls", "4"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Value returned is $1 = 4", done.stdout)
        self.assertIn("exited normally", done.stdout)
        self.assertEqual((self.calls()["work"], self.calls()["leaf"]), (4, 8))


scrytest.main()
