# SPDX-License-Identifier: Apache-2.0
"""What the tests of the C-Tracer (test_ctracer_*.py) share: programs compiled with hooks in the sandbox, and what
replay and report say of a run of them."""

import contextlib
import glob
import json
import os
import shutil

import scrytest
from jobtest import JobCase, traces_of

HOOKS = ["-g", "-finstrument-functions"]
TARGETS = os.path.join(scrytest.SOURCE, "test", "system", "targets")


def compiler(*names):
    """The first of these compilers that is installed, or None."""
    return next((name for name in names if shutil.which(name)), None)


class TracerCase(JobCase):
    def compile(self, source, *options, name=None, compiler="gcc", hooks=True):
        """Compiles a program of targets/ (or one at a path) with hooks; skips the test if that compiler cannot."""
        if not shutil.which(compiler):
            self.skipTest(f"{compiler} is not installed")
        program = self.box.path("work", name or os.path.basename(source).partition(".")[0])
        path = os.path.join(TARGETS, source)
        if path.startswith(self.box.root):
            path = scrytest.kept(path)
        command = [compiler, *(HOOKS if hooks else []), *options, path, "-pthread", "-lm"]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(program)  # one that runs cannot be written to
        shutil.copy2(scrytest.compiled(os.path.basename(program), command, path), program)
        return program

    def replayed(self, *arguments, numbers_as_text=False, names_once=False):
        """The calls (and signals, marks, gaps) that replay lists."""
        reading = {"parse_int": str, "parse_float": str} if numbers_as_text else {}
        if names_once:
            reading["object_pairs_hook"] = self.without_repetition
        out = self.scry("replay", "--json", *arguments, "@last").stdout
        return [json.loads(line, **reading) for line in out.splitlines()]

    def without_repetition(self, pairs):
        names = [name for name, _ in pairs]
        self.assertEqual(len(names), len(set(names)), names)
        return dict(pairs)

    def traces(self):
        """The trace directories of the last job."""
        return traces_of(max(glob.glob(self.box.path("jobs", "2*")), key=os.path.getctime))

    def babeltrace(self, *paths):
        """Lines of babeltrace2, or None if it is not installed."""
        if not shutil.which("babeltrace2"):
            return None
        done = self.box.run(["babeltrace2", *(paths or self.traces())])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def lines_said(self, text, *words):
        """The lines that contain all these words."""
        return [line for line in text.splitlines() if all(word in line for word in words)]


def note(text):
    """A comment in the test's output."""
    print(f"# {text}", flush=True)
