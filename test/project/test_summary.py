# SPDX-License-Identifier: Apache-2.0
"""tools/test-summary counts every case and loses no failure: a program that crashed, broke its plan or ran too long."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import scrytest  # noqa: E402

TOOL = os.path.join(scrytest.SOURCE, "tools", "test-summary")

HEAD = """project('scry')
sh = find_program('sh')
"""
ONE = "test('{name}', sh, args: ['-c', '{script}'], suite: {suite}, protocol: '{protocol}', timeout: 1)\n"


class Summary(unittest.TestCase):
    def summary(self, *tests):
        """Runs tests (name, script, protocol, suites) by meson; returns (exit status, lines) of the summary."""
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, "meson.build"), "w", encoding="utf-8") as file:
                file.write(HEAD)
                for name, script, protocol, *suites in tests:
                    file.write(ONE.format(name=name, script=script, protocol=protocol, suite=suites))
            build = os.path.join(root, "build")
            subprocess.run(["meson", "setup", build, root], capture_output=True, check=True)
            subprocess.run(["meson", "test", "-C", build, "--no-rebuild"], capture_output=True, check=False)
            done = subprocess.run([sys.executable, TOOL, os.path.join(build, "meson-logs", "testlog")],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout.splitlines()

    def test_all_passed(self):
        self.assertEqual(self.summary(("one", "true", "exitcode"), ("two", "echo 1..2; echo ok 1; echo ok 2", "tap")),
                         (0, ["3 passed, 0 failed"]))

    def test_suites_do_not_matter(self):
        tap = "echo 1..2; echo ok 1 - a; echo not ok 2 - b"
        for suites in ((), ("x",), ("x", "y")):
            status, lines = self.summary(("t", tap, "tap", *suites), ("u", "true", "exitcode", "z"))
            self.assertEqual((status, lines), (1, ["FAILED   t: 2 - b", "2 passed, 1 failed"]))

    def test_failures_are_explained(self):
        _, lines = self.summary(("t", "echo 1..2; echo ok 1; echo not ok 2 - b; echo \\# 1 is not 2", "tap"))
        self.assertEqual(lines, ["FAILED   t: 2 - b", "    # 1 is not 2", "1 passed, 1 failed"])

    def test_skips_have_their_reason(self):
        status, lines = self.summary(("t", "echo 1..2; echo ok 1; echo ok 2 - b \\\\# SKIP no gdb", "tap"),
                                     ("u", "exit 77", "exitcode"))
        self.assertEqual(status, 0)
        self.assertEqual(sorted(lines[:-1]), ["skipped  t: 2 - b: no gdb", "skipped  u: no reason given"])
        self.assertEqual(lines[-1], "1 passed, 0 failed, 2 skipped")

    def test_failures_without_a_failed_case(self):
        status, lines = self.summary(("crash", "echo 1..1; echo ok 1; kill -9 $$", "tap"),
                                     ("plan", "echo 1..3; echo ok 1", "tap"),
                                     ("slow", "exec sleep 10", "exitcode"),
                                     ("status", "exit 3", "exitcode"))
        self.assertEqual(status, 1)
        self.assertEqual(sorted(line.split(":")[0] for line in lines[:-1]),
                         ["FAILED   " + name for name in ("crash", "plan", "slow", "status")])
        self.assertEqual(lines[-1], "2 passed, 4 failed")

    def test_nothing_is_no_success(self):
        self.assertEqual(self.summary(("t", "exit 77", "exitcode"))[0], 1)
        done = subprocess.run([sys.executable, TOOL, "/nonexistent/log"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 1 failed"))


scrytest.main()
