# SPDX-License-Identifier: Apache-2.0
"""tools/ci measures its stages, daemons included, and holds them to their budgets. tools/tidy checks what has changed, and
only that."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

TOOLS = os.path.join(scrytest.SOURCE, "tools")
sys.path.insert(0, TOOLS)


def load_tool(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(TOOLS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


ci = load_tool("ci")
BUDGET = {"compute": 1.0, "start": 0.5, "check": 100.0, "tidy": 50.0}
BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


class Budget(unittest.TestCase):
    def verdict(self, seconds, compute=1.0, start=0.5, stage="check"):
        return ci.judge_budget(BUDGET, stage, seconds, {"compute": compute, "start": start})[2]

    def test_limits(self):
        self.assertEqual([self.verdict(seconds) for seconds in (10, 114, 116, 149, 151)], ["", "", "over", "over", "fails"])

    def test_a_slow_machine_is_no_fault(self):
        self.assertEqual(self.verdict(170, 1.7, 0.85), "")
        self.assertEqual(self.verdict(80, 0.5, 0.25), "fails")
        self.assertEqual(self.verdict(200, start=2), "")
        self.assertEqual(self.verdict(85, start=2, stage="tidy"), "fails")  # it starts next to nothing

    def test_each_stage_has_a_budget(self):
        self.assertEqual(self.verdict(1, stage="new"), "fails")
        budget = ci.read_budget(os.path.join(scrytest.SOURCE, ".ci", "budget"))
        self.assertEqual(set(budget), {"compute", "start", "check", "sanitize", "fuzzers", "tidy", "format"})

    def test_calibration_is_processor_time(self):
        self.assertGreater(min(ci.calibrate().values()), 0.01)


class Stages(unittest.TestCase):
    def finish(self, *stages, **found):
        """What a run says at its end whose stages used so many seconds; (exit status, lines)."""
        run = ci.Run(budget=BUDGET)
        run.passed = 1
        run.stages = [(name, 1, seconds, {"compute": 1.0, "start": 0.5}) for name, seconds in stages]
        vars(run).update(found)
        with contextlib.redirect_stdout(io.StringIO()) as text:
            status = run.finish()
        return status, text.getvalue().splitlines()

    def test_within(self):
        status, lines = self.finish(("check", 90), ("tidy", 50))
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))
        self.assertRegex("\n".join(lines), r"check +1 s +90 s +90 %\ntidy +1 s +50 s +100 %\nall +0 s +140 s\n"
                                            r"compute +1\.00 s +\(1\.00 s on the reference machine\)\nstart +0\.50 s ")

    def test_over(self):
        status, lines = self.finish(("check", 120), ("tidy", 50))
        self.assertEqual((status, lines[-2:]), (0, ["notice   budget: check: 120 s of processor on the reference machine; "
                                                    ".ci/budget has 100", "1 passed, 0 failed"]))

    def test_fails(self):
        status, lines = self.finish(("check", 90), ("tidy", 76))
        self.assertEqual((status, lines[-2:]), (1, ["FAILED   budget: tidy: 76 s of processor on the reference machine; "
                                                    ".ci/budget has 50", "1 passed, 1 failed"]))

    def test_what_a_suite_says(self):
        run = ci.Run(budget=BUDGET)
        run.take_suite("check", ["slowest    9.0 s,   1.0 s of processor: t", "waits    t: 60 s of 61 s", "flaky    u: c (once)",
                                 "FAILED   v: d", "3 passed, 1 failed, 2 skipped"], "log")
        self.assertEqual((run.passed, run.failed, run.skipped), (3, 1, 2))
        self.assertEqual((run.slowest, run.remarks, run.flaky, run.problems),
                         (["slowest    9.0 s,   1.0 s of processor: t"], ["check: t: 60 s of 61 s"],
                          ["check: u: c (once)"], ["check: v: d"]))
        run.take_suite("sanitize", ["0 passed, 0 failed"], "log")
        run.take_suite("sanitize", ["Killed"], "log")
        self.assertEqual(run.problems[1:], ["sanitize: no tests ran", "sanitize: did not come to its end (see log)"])

    def test_six_flaky_cases_are_a_failure(self):
        self.assertEqual(self.finish(flaky=[f"t: {n}" for n in range(6)])[1][-1], "1 passed, 1 failed")

    def test_daemons_are_measured(self):
        """One that has ended, and one that goes on. In a process of its own: orphans come to it."""
        done = subprocess.run([sys.executable, "-I", "-c", DAEMONS, TOOLS], capture_output=True, text=True, check=True)
        self.assertGreater(float(done.stdout), 0.55)


DAEMONS = f"""
import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
import used
used.adopt_orphans()
for then in ("os._exit(0)", "signal.pause()"):
    # its standard output says when it has done its work
    daemon = "import os, signal, time\\nif os.fork(): os._exit(0)\\n" + {BURN!r} + "\\nprint('done', flush=True)\\n" + then
    process = subprocess.Popen([sys.executable, "-I", "-c", daemon], stdout=subprocess.PIPE)
    process.stdout.readline()
    process.wait()
seconds = used.processor_seconds()
for pid in used.children_of(os.getpid()):
    os.kill(pid, signal.SIGKILL)
print(seconds)
"""


class Tidy(unittest.TestCase):
    """A tree of three files, one with a header of its own, and a program in place of clang-tidy that dislikes BAD."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.build = folder.name, os.path.join(folder.name, "build")
        for path in ("tools", "src/a", "build"):
            os.makedirs(os.path.join(self.root, path))
        os.symlink(os.path.join(TOOLS, "tidy"), os.path.join(self.root, "tools", "tidy"))
        self.write(".clang-tidy", "Checks: x\n")
        self.write("src/a/a.h", "int a;\n")
        self.write("src/a/one.c", '#include "a.h"\n')
        self.write("src/a/two.c", "int two;\n")
        self.write("src/a/test_two.c", "int three;\n")
        self.write("checker", f'#!/bin/sh\nfor file; do :; done\necho "$file" >>{self.root}/seen\n! grep BAD "$file"\n')
        os.chmod(os.path.join(self.root, "checker"), 0o755)
        names = ("one", "two", "test_two")
        self.write("build/build.ninja", "rule cc\n command = gcc -MD -MF $out.d -c -o $out $in $more\n depfile = $out.d\n deps = gcc\n"
                   + "".join(f"build {name}.o: cc ../src/a/{name}.c\n" for name in names))
        self.write_commands(names)
        self.compile()

    def write_commands(self, names, more=""):
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": self.build, "command": f"gcc -c {more} -o {name}.o ../src/a/{name}.c", "file": f"../src/a/{name}.c",
              "output": f"{name}.o"} for name in names]))

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def compile(self):
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)

    def tidy(self):
        """(the names of the files that it checked, the last line)."""
        seen = os.path.join(self.root, "seen")
        with contextlib.suppress(FileNotFoundError):
            os.remove(seen)
        done = subprocess.run([os.path.join(self.root, "tools", "tidy"), "--build", self.build, "--tidy",
                               os.path.join(self.root, "checker")], capture_output=True, text=True, check=False)
        self.lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, int(" 0 failed" not in self.lines[-1]), done.stderr)
        names = ""
        with contextlib.suppress(FileNotFoundError), open(seen, encoding="utf-8") as file:
            names = file.read()
        return sorted(os.path.basename(name) for name in names.split()), self.lines[-1]

    def test_only_what_has_changed(self):
        self.assertEqual(self.tidy(), (["one.c", "two.c"], "2 clean, 0 failed, 0 unchanged"))
        self.assertEqual(self.tidy(), ([], "0 clean, 0 failed, 2 unchanged"))
        self.write("src/a/a.h", "int a; // NOLINT\n")
        self.assertEqual(self.tidy(), (["one.c"], "1 clean, 0 failed, 1 unchanged"))
        self.write_commands(("one", "two"), "-DX")
        self.assertEqual(self.tidy(), (["one.c", "two.c"], "2 clean, 0 failed, 0 unchanged"))
        self.write(".clang-tidy", "Checks: y\n")
        self.assertEqual(self.tidy(), (["one.c", "two.c"], "2 clean, 0 failed, 0 unchanged"))
        os.utime(os.path.join(self.root, "checker"), (1, 1))  # another version
        self.assertEqual(self.tidy(), (["one.c", "two.c"], "2 clean, 0 failed, 0 unchanged"))

    def test_what_failed_is_checked_again(self):
        self.write("src/a/two.c", "int BAD;\n")
        self.compile()
        self.assertEqual(self.tidy(), (["one.c", "two.c"], "1 clean, 1 failed, 0 unchanged"))
        self.assertEqual(self.lines[-2], "tidy failed src/a/two.c")
        self.assertEqual(self.tidy(), (["two.c"], "0 clean, 1 failed, 1 unchanged"))

    def test_a_header_that_is_new_to_a_file(self):
        self.tidy()
        self.write("src/a/two.c", '#include "b.h"\n')
        self.write("src/a/b.h", "int b;\n")
        self.compile()
        self.assertEqual(self.tidy()[0], ["two.c"])
        self.write("src/a/b.h", "int BAD;\n")
        self.assertEqual(self.tidy()[0], ["two.c"])

    def test_what_was_not_compiled_is_checked(self):
        self.tidy()
        os.remove(os.path.join(self.build, ".ninja_deps"))
        self.assertEqual(self.tidy()[0], ["one.c", "two.c"])


if __name__ == "__main__":
    scrytest.main()
