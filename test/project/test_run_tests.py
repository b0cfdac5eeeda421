# SPDX-License-Identifier: Apache-2.0
"""tools/run-tests counts every case and loses no failure: a program that crashed, broke its plan or ran too long. What
fails once and passes alone is flaky. What takes longest is listed, what waits too long is named. One test alone is found by a
part of its name, and built with what it needs."""

import contextlib
import importlib.machinery
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

TOOL = os.path.join(scrytest.SOURCE, "tools", "run-tests")

WRAPPER = os.path.join(scrytest.SOURCE, "tools", "run-test")
loader = importlib.machinery.SourceFileLoader("run_tests", TOOL)
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(run_tests)

HEAD = """project('scry'LANGUAGE)
sh = find_program('sh')
"""
ONE = "test('{name}', sh, args: ['-c', '''{script}'''], suite: {suite}, protocol: '{protocol}', timeout: {seconds})\n"
CASES = """import sys, unittest
sys.path.insert(0, '{0}')
import scrytest
class Cases(unittest.TestCase):
    def test_good(self): pass
    def test_goods(self): pass
    def test_bad(self): self.fail()
scrytest.main()
"""
# `seen NAME` is true but for the first time.
SEEN = "seen() {{ test -e {0}/$1 || {{ : >{0}/$1; false; }}; }}; "


class Run(unittest.TestCase):
    """What is said of one run of `tests`, (name, script, protocol, suites): each start of meson takes half a second, so the cases
    of a class share one."""

    tests = ()
    options = ()
    more = ""  # of the meson.build

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root, cls.build = folder.name, os.path.join(folder.name, "build")
        with open(os.path.join(cls.root, "main.c"), "w", encoding="utf-8") as file:
            file.write("int main(void) { return 0; }\n")
        with open(os.path.join(cls.root, "test_cases.py"), "w", encoding="utf-8") as file:
            file.write(CASES.format(os.path.join(scrytest.SOURCE, "test", "system")))
        with open(os.path.join(cls.root, "meson.build"), "w", encoding="utf-8") as file:
            file.write(HEAD.replace("LANGUAGE", ", 'c'" if ".c'" in cls.more else "") + cls.more)
            for name, script, protocol, *suites in cls.tests:
                file.write(ONE.format(name=name, script=SEEN.format(cls.root) + script, protocol=protocol,
                                      suite=suites, seconds=1 if "sleep 20" in script else 60))
        subprocess.run(["meson", "setup", cls.build, cls.root], capture_output=True, check=True)
        done = subprocess.run([sys.executable, TOOL, "--build", cls.build, *cls.options], capture_output=True, text=True, check=False)
        cls.status, cls.output = done.returncode, done.stdout
        cls.lines = [line for line in done.stdout.rpartition("\n\n")[2].splitlines() if not line.startswith("    ")]

    def kept(self, program):
        with open(os.path.join(self.build, "first-failures", f"{program}.txt"), encoding="utf-8") as file:
            return file.read()

    def said(self, kind):
        """The lines of a kind, without it and what is in parentheses."""
        return sorted(line.removeprefix(kind).partition(" (")[0].strip() for line in self.lines if line.startswith(f"{kind} "))


class Outcomes(Run):
    """Of all kinds; what failed is run once more."""

    tests = (
        ("one", "true", "exitcode"),
        ("two", "echo 1..2; echo ok 1; echo ok 2", "tap", "z"),
        ("t", "echo 1..2; echo ok 1 - a; echo not ok 2 - b; echo \"# 1 is not 2\"; echo why >&2", "tap"),
        ("v", "printf \"1..2\\nok 1 - a\\n# \\033[31m \\001 \\377\\n\"; printf \"\\033 \\377\" >&2; echo not ok 2 - b", "tap", "x", "y"),
        ("node", "printf \"TAP version 13\\n    not ok 1 - part\\n    1..1\\nnot ok 1 - a\\n  ---\\n  error: |-\\n    one\\n\\n"
                 "    ...two\\n  ...\\nok 2 - b\\n  ---\\n  ms: 1\\n  ...\\n1..2\\n\"", "tap"),
        ("parser", "echo 1..2; echo ok 1 - a; echo \"ok 2 - b # SKIP no gdb\"", "tap"),
        ("skips", "exit 77", "exitcode"),
        ("crash", "echo 1..1; echo ok 1; kill -9 $$", "tap"),
        ("plan", "echo 1..3; echo ok 1", "tap"),
        ("hangs", "exec sleep 20", "exitcode"),
        ("parsed", "exit 3", "exitcode"),
        ("left", "sleep 3 & echo 1..1; echo why >&2; echo ok 1 - a", "tap"),
        ("slow", "sleep 1", "exitcode"),
    )
    more = ("test('unit', executable('test_unit', 'main.c'))\nexecutable('product', 'main.c')\n"
            "test('other', executable('test_other', 'main.c'))\n"
            "test('test_cases', find_program('python3'), args: meson.project_source_root() / 'test_cases.py', protocol: 'tap')\n")
    options = ("--times", "2")

    def test_all_are_counted(self):
        """Also the cases before a crash, and those of programs in one, several and no suites."""
        self.assertEqual((self.status, self.lines[-1]), (1, "15 passed, 8 failed, 2 skipped"))
        self.assertEqual(self.said("FAILED"), ["crash: error", "hangs: timeout", "node: a", "parsed: fail", "plan: error", "t: b",
                                               "test_cases: Cases.test_bad", "v: b"])
        self.assertEqual(self.said("flaky"), [])

    def test_failures_are_explained(self):
        self.assertIn("FAILED   t: b\n    # 1 is not 2\n    whole output: ", self.output)
        self.assertIn("why", self.kept("t"))

    def test_failures_of_node_are_explained(self):
        self.assertIn("    #   error: |-\n    #     one\n", self.output)

    def test_skips_have_their_reason(self):
        self.assertEqual(self.said("skipped"), ["parser: b: no gdb", "skips: no reason given"])

    def test_the_slowest_are_listed(self):
        slowest = re.findall(r"^slowest +(\S+) s, +\S+ s of processor: (\S+)$", self.output, re.MULTILINE)
        times = [float(time) for time, _ in slowest]
        self.assertEqual((len(times), times), (10, sorted(times, reverse=True)))
        self.assertGreaterEqual(dict(map(reversed, slowest))["slow"], "1.0")

    def one(self, *arguments):
        done = subprocess.run([sys.executable, TOOL, "--build", self.build, "--one", *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_one_is_run(self):
        status, out, _ = self.one("parser")
        self.assertEqual((status, out.splitlines()[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("ok 1 - a\n", out)
        self.assertEqual(self.one("parsed")[0], 1)
        self.assertEqual(self.one("pars"), (2, "", "check: 'pars' means 2 tests: parsed, parser\n"))
        self.assertRegex(self.one("nothing")[2], "^check: 'nothing' is no test; ")
        self.assertRegex(self.one("parser", "a")[2], "^check: cases can be chosen of a test_.*not of parser")
        for words, last in ((["cases"], "2 passed, 1 failed"), (["test/system/test_cases.py", "goo"], "2 passed, 0 failed"),
                            (["test_cases", "bad"], "0 passed, 1 failed")):
            self.assertEqual(self.one(*words)[1].splitlines()[-1], last)
        status, _, errors = self.one("test_cases", "worse")
        self.assertEqual(status, 1)
        self.assertIn("no case is named like worse; there are Cases.test_bad, Cases.test_good, Cases.test_goods", errors)

    def test_only_what_is_needed_is_built(self):
        """A unit program has all it needs; a script may run all that is no test."""
        options = run_tests.argparse.Namespace(build=self.build)
        tests = {test["name"]: test for test in run_tests.about(options, "tests")}
        self.assertEqual(run_tests.targets_of(options, [tests["unit"]]), ["test_unit"])
        self.assertEqual(run_tests.targets_of(options, [tests["one"]]), ["product"])
        self.assertEqual(sorted(run_tests.targets_of(options, [tests["one"], tests["unit"]])), ["product", "test_unit"])
        self.assertEqual(run_tests.targets_of(options, list(tests.values()))[0], "all")


class Flaky(Run):
    """As many as may be: the run is a success."""

    tests = (
        ("case", "echo 1..2; echo ok 1 - a; "
         "if seen case; then echo ok 2 - b; else echo not ok 2 - b; echo \"# late\"; fi", "tap"),
        ("crash", "echo 1..1; echo ok 1 - c; seen crash", "tap"),
        ("hang", "echo 1..1; echo ok 1 - h; seen hang || exec sleep 20", "tap"),
        ("part", "echo 1..1; if seen part; then echo ok 1 - a.b; else echo \"not ok 1 - a.b (n=2)\"; fi", "tap"),
        ("twice", "seen first && seen second", "exitcode"),
        ("good", "true", "exitcode"),
    )

    def test_flaky_cases_are_no_failures(self):
        """A part passes with its case."""
        self.assertEqual((self.status, self.lines[-2:]), (0, ["5 flaky", "9 passed, 0 failed"]))
        self.assertEqual(self.said("flaky"), ["case: b", "crash: the program", "hang: the program", "part: a.b", "twice: the program"])
        self.assertIn("# late", self.kept("case"))
        for program, times in ("part: a.b (n=2)", 1), ("twice: the program", 2):
            self.assertIn(f"flaky    {program} (failed {times} of up to 3 times; ", self.output)


@scrytest.thorough
class TooFlaky(Run):
    """One more, of programs that do not fail the same way again."""

    tests = (
        ("always", "echo 1..3; echo ok 1 - a; if seen b; then echo ok 2 - b; else echo not ok 2 - b; fi; kill -9 $$", "tap"),
        ("then", "echo 1..2; if seen crash; then echo not ok 1 - a; echo ok 2 - b; else kill -9 $$; fi", "tap"),
        ("skips", "seen fail && exit 77; exit 1", "exitcode"),
        ("both", "echo 1..2; if seen both; then echo ok 1 - a; echo not ok 2 - b; else echo not ok 1 - a; echo ok 2 - b; fi", "tap"),
        ("fifth", "seen fifth", "exitcode"),
        ("sixth", "seen sixth", "exitcode"),
    )
    options = ("--times", "2")

    def test_six_flaky_cases_are_a_failure(self):
        self.assertEqual((self.status, self.lines[-2:]), (1, ["FAILED   6 flaky cases, more than 5 in one run", "6 passed, 4 failed"]))

    def test_what_comes_behind_a_crash_was_not_run(self):
        self.assertEqual(self.said("FAILED"), ["6 flaky cases, more than 5 in one run", "always: error", "skips: fail", "then: error"])
        self.assertEqual([line for line in self.said("flaky") if "th: " not in line], ["always: b", "then: a"])

    def test_one_that_fails_only_when_run_again_is_flaky(self):
        self.assertEqual([line for line in self.said("flaky") if "th: " in line],
                         ["both: a", "both: b", "fifth: the program", "sixth: the program"])


class Ended(Run):
    tests = (("one", "kill $(ps -o ppid= -p $PPID)", "exitcode"), ("two", "true", "exitcode"))

    def test_a_run_that_is_ended_is_a_failure(self):
        self.assertEqual((self.status, self.lines), (1, ["FAILED   the tests did not run, or not to their end", "0 passed, 1 failed"]))


class Broken(Run):
    tests = (("t", "echo 1..21; for n in $(seq 21); do echo not ok $n - c$n; done; seen one || exit 1; echo again", "tap"),)

    def test_of_many_failures_none_is_run_again(self):
        self.assertEqual((self.status, self.lines[-1]), (1, "0 passed, 21 failed"))
        self.assertNotIn("again", self.kept("t"))


class Nothing(Run):
    tests = (("t", "exit 77", "exitcode"),)

    def test_nothing_is_no_success(self):
        self.assertEqual((self.status, self.lines[-1]), (1, "0 passed, 0 failed, 1 skipped"))
        done = subprocess.run([sys.executable, TOOL, "--build", "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 1 failed"))


class Times(unittest.TestCase):
    """run-test says what a program took, run-tests what is wrong with it."""

    def computed(self, daemon):
        """What run-test says of a program whose daemon writes a line when it has done its work."""
        with tempfile.TemporaryDirectory() as folder:
            script = f"mkfifo f; (setsid {daemon} >f 2>/dev/null & echo $! >pid); read line <f || true"
            done = subprocess.run([WRAPPER, "sh", "-c", script], capture_output=True, text=True, check=True, cwd=folder)
            with contextlib.suppress(ProcessLookupError), open(os.path.join(folder, "pid"), encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGKILL)
        return run_tests.Program({"result": "OK", "stdout": done.stdout}, {}).computed

    def test_daemons_count(self):
        """Whether they have ended or go on."""
        burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
        for then in ("", "print(flush=True); time.sleep(60)"):
            self.assertGreater(self.computed(f"{sys.executable} -I -c '{burn}{then}'"), 0.29)

    def test_a_sleep_is_named(self):
        def said(seconds, *times):
            output = "1..1\nok 1\n# took {} s, {} s of processor, waited {} s\n".format(*times)
            return run_tests.overdue(run_tests.Program({"result": "OK", "stdout": output}, {"a": ("passed", "")}), seconds)

        self.assertIsNone(said(0, 16, 1, 14))
        self.assertEqual(said(0, 61, 1, 60), "60 s of 61 s; its meson.build says that it takes 0 s")
        self.assertIsNone(said(40, 45, 10, 30))
        self.assertIsNotNone(said(40, 105, 10, 90))
        self.assertIsNone(said(40, 400, 300, 30))  # a busy machine
        self.assertEqual(said(100, 20, 5, 10), "took only 20 s; its meson.build says 100 s")


scrytest.main()
