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


class RunTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def run_tests(self, *tests, more=""):
        """Runs tests (name, script, protocol, suites); returns (exit status, lines) of what is said at the end."""
        with open(os.path.join(self.root, "meson.build"), "w", encoding="utf-8") as file:
            file.write(HEAD.replace("LANGUAGE", ", 'c'" if ".c'" in more else "") + more)
            for name, script, protocol, *suites in tests:
                file.write(ONE.format(name=name, script=SEEN.format(self.root) + script, protocol=protocol,
                                      suite=suites, seconds=1 if "sleep 20" in script else 60))
        build = os.path.join(self.root, "build")
        subprocess.run(["meson", "setup", build, self.root], capture_output=True, check=True)
        done = subprocess.run([TOOL, "--build", build], capture_output=True, text=True,
                              check=False)
        self.output = done.stdout
        lines = [line for line in done.stdout.rpartition("\n\n")[2].splitlines() if not line.startswith("    ")]
        return done.returncode, lines

    def kept(self, program):
        with open(os.path.join(self.root, "build", "first-failures", f"{program}.txt"), encoding="utf-8") as file:
            return file.read()

    def test_all_passed(self):
        self.assertEqual(self.run_tests(("one", "true", "exitcode"), ("two", "echo 1..2; echo ok 1; echo ok 2", "tap")),
                         (0, ["3 passed, 0 failed"]))

    def test_suites_do_not_matter(self):
        tap = "echo 1..2; echo ok 1 - a; echo not ok 2 - b"
        status, lines = self.run_tests(("t", tap, "tap"), ("u", "true", "exitcode", "z"), ("v", tap, "tap", "x", "y"))
        self.assertEqual(status, 1)
        self.assertEqual(sorted(lines), ["3 passed, 2 failed", "FAILED   t: b", "FAILED   v: b"])

    def test_failures_are_explained(self):
        self.run_tests(("t", "echo 1..2; echo ok 1; echo not ok 2 - b; echo \"# 1 is not 2\"; echo why >&2", "tap"))
        self.assertIn("FAILED   t: b\n    # 1 is not 2\n    whole output: ", self.output)
        self.assertIn("why", self.kept("t"))

    def test_failures_of_node_are_explained(self):
        tap = ("printf \"TAP version 13\\n    not ok 1 - part\\n    1..1\\nnot ok 1 - a\\n  ---\\n  error: |-\\n    one\\n\\n"
               "    ...two\\n  ...\\nok 2 - b\\n  ---\\n  ms: 1\\n  ...\\n1..2\\n\"")
        status, lines = self.run_tests(("t", tap, "tap"))
        self.assertEqual((status, lines), (1, ["FAILED   t: a", "1 passed, 1 failed"]))
        self.assertIn("    #   error: |-\n    #     one\n", self.output)

    def test_skips_have_their_reason(self):
        status, lines = self.run_tests(("t", "echo 1..2; echo ok 1; echo \"ok 2 - b # SKIP no gdb\"", "tap"),
                                       ("u", "exit 77", "exitcode"))
        self.assertEqual(status, 0)
        self.assertEqual(sorted(lines[:-1]), ["skipped  t: b: no gdb", "skipped  u: no reason given"])
        self.assertEqual(lines[-1], "1 passed, 0 failed, 2 skipped")

    def test_failures_without_a_failed_case(self):
        status, lines = self.run_tests(("crash", "echo 1..1; echo ok 1; kill -9 $$", "tap"),
                                       ("plan", "echo 1..3; echo ok 1", "tap"),
                                       ("hangs", "exec sleep 20", "exitcode"),
                                       ("status", "exit 3", "exitcode"))
        self.assertEqual(status, 1)
        self.assertEqual(sorted(line.split(":")[0] for line in lines[:-1]),
                         ["FAILED   " + name for name in ("crash", "hangs", "plan", "status")])
        self.assertIn("FAILED   hangs: timeout", lines)
        self.assertEqual(lines[-1], "2 passed, 4 failed")

    def test_what_comes_behind_a_crash_was_not_run(self):
        status, lines = self.run_tests(
            ("always", "echo 1..3; echo ok 1 - a; if seen b; then echo ok 2 - b; else echo not ok 2 - b; fi; "
             "kill -9 $$", "tap"),
            ("then", "echo 1..2; if seen crash; then echo not ok 1 - a; echo ok 2 - b; else kill -9 $$; fi", "tap"),
            ("skips", "seen fail && exit 77; exit 1", "exitcode"))
        self.assertEqual(status, 1)
        self.assertEqual(sorted(line.partition(" (")[0] for line in lines[:-1]),
                         ["2 flaky", "FAILED   always: error", "FAILED   skips: fail", "FAILED   then: error",
                          "flaky    always: b", "flaky    then: a"])

    def test_a_run_that_is_ended_is_a_failure(self):
        status, lines = self.run_tests(("one", "kill $(ps -o ppid= -p $PPID)", "exitcode"),
                                       ("two", "true", "exitcode"))
        self.assertEqual((status, lines), (1, ["FAILED   the tests did not run, or not to their end",
                                               "0 passed, 1 failed"]))

    def test_output_of_all_kinds(self):
        tap = "printf \"1..1\\n# \\033[31m \\001 \\377\\n\"; printf \"\\033 \\377\" >&2; echo not ok 1 - a"
        status, lines = self.run_tests(("t", tap, "tap"))
        self.assertEqual((status, lines), (1, ["FAILED   t: a", "0 passed, 1 failed"]))

    def test_flaky_cases_are_no_failures(self):
        status, lines = self.run_tests(
            ("case", "echo 1..2; echo ok 1 - a; "
             "if seen case; then echo ok 2 - b; else echo not ok 2 - b; echo \"# late\"; fi", "tap"),
            ("crash", "echo 1..1; echo ok 1 - c; seen crash", "tap"),
            ("hang", "echo 1..1; echo ok 1 - h; seen hang || exec sleep 20", "tap"),
            ("twice", "seen first && seen second", "exitcode"),
            ("good", "true", "exitcode"))
        self.assertEqual(status, 0)
        self.assertEqual(sorted(line.partition(" (")[0] for line in lines),
                         ["4 flaky", "8 passed, 0 failed", "flaky    case: b", "flaky    crash: the program",
                          "flaky    hang: the program", "flaky    twice: the program"])
        self.assertIn("# late", self.kept("case"))

    def test_one_that_fails_only_when_run_again_is_flaky(self):
        both = ("echo 1..2; if seen both; then echo ok 1 - a; echo not ok 2 - b; "
                "else echo not ok 1 - a; echo ok 2 - b; fi")
        status, lines = self.run_tests(("both", both, "tap"))
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed"))
        self.assertEqual([line.partition(" (")[0] for line in lines[:-1]],
                         ["flaky    both: a", "flaky    both: b", "2 flaky"])

    def test_nobody_waits_for_what_a_test_left_behind(self):
        status, lines = self.run_tests(("t", "sleep 3 & echo 1..1; echo why >&2; echo ok 1 - a", "tap"))
        self.assertEqual((status, lines), (0, ["1 passed, 0 failed"]))

    def test_a_part_passes_with_its_case(self):
        tap = "echo 1..1; if seen part; then echo ok 1 - a.b; else echo \"not ok 1 - a.b (n=2)\"; fi"
        status, lines = self.run_tests(("t", tap, "tap"))
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))
        self.assertTrue(lines[0].startswith("flaky    t: a.b (n=2) (failed 1 of"), lines)

    def test_six_flaky_cases_are_a_failure(self):
        status, lines = self.run_tests(*((f"f{n}", f"seen f{n}", "exitcode") for n in range(6)))
        self.assertEqual(status, 1)
        self.assertEqual(sum(line.startswith("flaky ") for line in lines), 6)
        self.assertEqual(lines[-2:], ["FAILED   6 flaky cases, more than 5 in one run", "6 passed, 1 failed"])

    def test_of_many_failures_none_is_run_again(self):
        tap = "echo 1..21; for n in $(seq 21); do echo not ok $n - c$n; done; seen one || exit 1; echo again"
        status, lines = self.run_tests(("t", tap, "tap"))
        self.assertEqual((status, lines[-1]), (1, "0 passed, 21 failed"))
        self.assertNotIn("again", self.kept("t"))

    def test_the_slowest_are_listed(self):
        self.run_tests(*((f"t{n}", "sleep 0.5" if n == 7 else "true", "exitcode") for n in range(12)))
        slowest = re.findall(r"^slowest +\S+ s, +\S+ s of processor: (\S+)$", self.output, re.MULTILINE)
        self.assertEqual((len(slowest), slowest[0]), (10, "t7"))

    def one(self, *arguments):
        done = subprocess.run([TOOL, "--build", os.path.join(self.root, "build"), "--one", *arguments], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_one_is_run(self):
        script = os.path.join(self.root, "test_cases.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(CASES.format(os.path.join(scrytest.SOURCE, "test", "system")))
        self.run_tests(("parser", "echo 1..2; echo ok 1 - a; echo ok 2 - b '#' SKIP no gdb", "tap"), ("parsed", "exit 3", "exitcode"),
                       more=f"test('test_cases', find_program('python3'), args: '{script}', protocol: 'tap')\n")
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
        with open(os.path.join(self.root, "main.c"), "w", encoding="utf-8") as file:
            file.write("int main(void) { return 0; }\n")
        more = ("test('unit', executable('test_unit', 'main.c'))\nexecutable('product', 'main.c')\n"
                "test('other', executable('test_other', 'main.c'))\n")
        self.run_tests(("script", "true", "exitcode"), more=more)
        options = run_tests.argparse.Namespace(build=os.path.join(self.root, "build"))
        tests = {test["name"]: test for test in run_tests.about(options, "tests")}
        self.assertEqual(run_tests.targets_of(options, [tests["unit"]]), ["test_unit"])
        self.assertEqual(run_tests.targets_of(options, [tests["script"]]), ["product"])
        self.assertEqual(sorted(run_tests.targets_of(options, [tests["script"], tests["unit"]])), ["product", "test_unit"])
        self.assertEqual(run_tests.targets_of(options, list(tests.values()))[0], "all")

    def test_nothing_is_no_success(self):
        self.assertEqual(self.run_tests(("t", "exit 77", "exitcode"))[0], 1)
        done = subprocess.run([TOOL, "--build", "/nonexistent"], capture_output=True, text=True, check=False)
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
