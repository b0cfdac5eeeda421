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
from jobtest import JobCase, pythons, traces_of

LEVELS = {
    "default": [],
    "trace all": ["--trace", "all"],
    "trace all with arguments": ["--trace", "all", "--args"],
    "MPI": ["--mpi", "trace"],
}
# The default, "outside", is among those above.
SCRIPTS = {
    "script calls": ["--script", "calls"],
    "script lines": ["--script", "lines"],
}
# {suite: levels}, where these are not LEVELS
LEVELS_OF = {
    "bash": {**LEVELS, **SCRIPTS},
    "interpreter": {"default": [], **SCRIPTS},
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
    "interpreter": [
        Mask("*", r"\b0x[0-9a-f]{6,}", "0x...", "an address"),
        Mask("test_dis", r"^\S*_(specialize\w*|loop_quicken|super_instructions|show_caches|.*_with_caches).*$", "",
             "it looks at instructions as the interpreter has changed them"),
        Mask("test_opcache", r"^\S*(TestRacesDoNotCrash|TestSpecializer).*$", "", "the same"),
        Mask("test_frame", r"^\S*test_sneaky_frame_object .*$", "", "it needs the next allocation to be its own"),
    ],
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

    def assert_seen(self, name, job, level, said):
        if name != "interpreter":
            self.assertTrue(traces_of(job), f"nothing of {name} was traced: {said}")
        elif level in SCRIPTS:
            self.assertIn('"type":"python_calls"', self.scry("watch", "--json", job).stdout.replace(" ", ""))

    def outcomes(self, name, tree, tests, level=None, env=()):
        """{test: its output}, without scry if there is no level."""
        out, job = self.box.path("work", "out"), self.box.path("work", "job")
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        scry = [] if level is None else self.box.scry("run", "-q", "-o", job, "--max-size", "200M",
                                                      *LEVELS_OF.get(name, LEVELS)[level], "--")
        done = self.box.run([*scry, *suites.command(name, "run", *tests)], cwd=tree, env={"OUT": out, **dict(env)}, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr)
        if level is not None:
            self.assert_seen(name, job, level, done.stderr)
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

    def check(self, name, tree=None, env=()):
        tree = tree or suites.built(name)
        tests = self.box.run(suites.command(name, "list"), cwd=tree, env=dict(env)).stdout.split()
        alone = self.outcomes(name, tree, tests, env=env)
        self.assertEqual(sorted(alone), sorted(tests))
        good = [test for test in tests if alone[test].endswith("status 0\n")]
        self.assertGreater(len(good), len(tests) / 2, "hardly anything of the suite works here")
        for level in LEVELS_OF.get(name, LEVELS):
            with self.subTest(level=level):
                different = self.difference(alone, self.outcomes(name, tree, tests, level, env), tests)
                for _ in range(AGAIN):
                    if different:
                        again = list(different)
                        different = self.difference(self.outcomes(name, tree, again, env=env),
                                                    self.outcomes(name, tree, again, level, env), again)
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

    def configured(self, script, place, scry):
        """{file: its text} of all that a configure script makes, with what it prints."""
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place)
        done = self.box.run([*scry, "bash", script, "--disable-nls"], cwd=place, env={"CONFIG_SHELL": "/bin/bash"}, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {"(output)": done.stdout, "(errors)": done.stderr}
        for folder, _, names in os.walk(place):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    found[os.path.relpath(file.name, place)] = re.sub(r"/cc\w{6}\b", "/cc", file.read())  # files of the compiler
        return found

    def test_configure(self):
        """Some thousand commands and tests of what works: each file is the same, with config.log and config.status."""
        script = os.path.join(suites.SOURCES.fetch("bash"), "configure")
        place = self.box.path("work", "configured")
        alone = self.configured(script, place, [])
        self.assertGreater(len(alone["config.h"]), 10000)
        for level, options in {"default": [], **SCRIPTS}.items():
            with self.subTest(level=level):
                watched = self.configured(script, place, self.box.scry("run", "-q", *options, "--"))
                self.assertEqual(watched.keys(), alone.keys())
                for name, text in alone.items():
                    self.assertEqual(watched[name].splitlines(), text.splitlines(), name)
                self.assertIn('"script_line"', self.scry("watch", "--json", "@last").stdout)

    def test_interpreters(self):
        """What each Python that is here has of CPython's own tests, as it is installed. They are reached by another path,
        for scry does not follow functions of the standard library."""
        for version, python in pythons().items():
            found = self.box.run([python, "-c", "import test; print(*test.__path__)"]).stdout.strip()
            if not os.path.exists(os.path.join(found, "test_sys.py")):
                continue  # a distribution has only parts of them
            with self.subTest(python=version):
                tree = self.box.path("work", f"python{version}")
                os.mkdir(tree)
                os.symlink(found, os.path.join(tree, "test"))
                shutil.copy(os.path.join(suites.RECIPES, "outcomes.py"), tree)
                self.check("interpreter", tree, {"PYTHON": python})


if __name__ == "__main__":
    scrytest.main()
