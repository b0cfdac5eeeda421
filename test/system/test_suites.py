# SPDX-License-Identifier: Apache-2.0
"""Test suites of others, built with hooks, come to the same without scry and under each level of it: test by test, by what
each said and its status. Only in thorough runs: the first fetches and builds the sources (suites.py), and each takes
minutes.

    SCRY_TEST_THOROUGH=1 SCRY_BUILD=$PWD/build python3 test/system/test_suites.py Suites.test_sed

A test that differs is run again, without and with scry, up to twice: many look at clocks. It is the same if it is so once."""

import collections
import difflib
import fnmatch
import os
import re
import shutil
import unittest

import scrytest
import suites
from jobtest import JobCase, traces_of

LEVELS = {
    "default": [],
    "trace all": ["--trace", "all"],
    "trace all with arguments": ["--trace", "all", "--args"],
    "MPI": ["--mpi", "trace"],
}
AGAIN = 2

# What differs from run to run without scry, too, or by nature: tests (a glob), pattern, replacement, why.
Mask = collections.namedtuple("Mask", "tests pattern replacement why")
MASKS = {
    "zlib": [],
    "sed": [
        Mask("panic-tests.sh", r"^(---|\+\+\+) (\S+)\t.*$", r"\1 \2", "diff shows when files were made"),
    ],
    "bash": [
        Mask("run-execscript", r"process group \(\d+\)", "process group (PID)", "a process id"),
        Mask("run-read", r"^.*\n(?=unset or null 1$)", "", "a time limit of 10 us is over before the end of input is seen, or after"),
    ],
    "sqlite": [
        Mask("*", r"^(Memory used|Allocation count|Page-cache used|Page-cache overflow|Maximum memory usage):.*$", r"\1",
             "what malloc rounds up depends on the number of variables in the environment, the rest on what threads do when"),
    ],
    "python": [],
}


class Lists(unittest.TestCase):
    """Lines for sources, of what a machine has for packages."""

    def test_one_line_a_source(self):
        text = ("# deb http://no/debian bookworm main\ndeb [signed-by=/key arch=amd64] http://a/debian bookworm main contrib\n"
                "deb http://b/debian bookworm-updates main\ndeb-src http://c/debian bookworm main\ndeb http://d/x bookworm free\n")
        self.assertEqual(suites.sources("bookworm", [text], []),
                         ["deb-src [signed-by=/key arch=amd64] http://a/debian bookworm main"])

    def test_stanzas(self):
        text = ("Types: deb\n# a remark\nURIs: http://a/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
                "Signed-By: /key\n\nTypes: deb\nURIs: http://b/debian-security\nSuites: bookworm-security\nComponents: main\n")
        self.assertEqual(suites.sources("bookworm", [], [text, "Types: deb\nEnabled: no\nURIs: http://c\nSuites: bookworm\n"
                                                                "Components: main\n"]),
                         ["deb-src [signed-by=/key] http://a/debian bookworm main"])


class Suites(JobCase):
    case_seconds = 3600

    @classmethod
    def setUpClass(cls):
        if not scrytest.THOROUGH:
            raise unittest.SkipTest("test suites of others, for thorough runs")
        if scrytest.sanitizers():
            raise unittest.SkipTest("what is inside the programs is not sanitized: the other build has run them")

    def masked(self, name, test, text):
        for mask in MASKS[name]:
            if fnmatch.fnmatch(test, mask.tests):
                text = re.sub(mask.pattern, mask.replacement, text, flags=re.M)
        return text

    def outcomes(self, name, tree, tests, level=None):
        """{test: its output}, without scry if there is no level."""
        out, job = self.box.path("work", "out"), self.box.path("work", "job")
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        scry = [] if level is None else self.box.scry("run", "-q", "-o", job, "--max-size", "200M", *LEVELS[level], "--")
        done = self.box.run([*scry, *suites.command(name, "run", *tests)], cwd=tree, env={"OUT": out}, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr)
        if level is not None:
            self.assertTrue(traces_of(job), f"nothing of {name} was traced: {done.stderr}")
            shutil.rmtree(job)
        found = {}
        for test in os.listdir(out):
            with open(os.path.join(out, test), encoding="utf-8", errors="replace") as file:
                found[test] = self.masked(name, test, file.read())
        return found

    def difference(self, alone, watched, tests):
        """{test: what differs}"""
        return {test: "\n".join(difflib.unified_diff(alone.get(test, "(nothing)").splitlines(),
                                                     watched.get(test, "(nothing)").splitlines(), "alone", "watched", lineterm=""))
                for test in tests if test not in alone or alone[test] != watched.get(test)}

    def check(self, name):
        tree = suites.built(name)
        tests = self.box.run(suites.command(name, "list"), cwd=tree).stdout.split()
        alone = self.outcomes(name, tree, tests)
        self.assertEqual(sorted(alone), sorted(tests))
        good = [test for test in tests if alone[test].endswith("status 0\n")]
        self.assertGreater(len(good), len(tests) / 2, "hardly anything of the suite works here")
        for level in LEVELS:
            with self.subTest(level=level):
                different = self.difference(alone, self.outcomes(name, tree, tests, level), tests)
                for _ in range(AGAIN):
                    if different:
                        again = list(different)
                        different = self.difference(self.outcomes(name, tree, again),
                                                    self.outcomes(name, tree, again, level), again)
                self.assertEqual(different, {}, "".join(f"\n{test}:\n{text}" for test, text in different.items()))

    def test_zlib(self):
        self.check("zlib")

    def test_sed(self):
        self.check("sed")

    def test_bash(self):
        self.check("bash")

    def test_sqlite(self):
        self.check("sqlite")

    def test_python(self):
        self.check("python")


if __name__ == "__main__":
    scrytest.main()
