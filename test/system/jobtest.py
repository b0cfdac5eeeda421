# SPDX-License-Identifier: Apache-2.0
"""What the tests of `scry run` share: running and starting jobs, what scry says of them, what their traces hold."""

import collections
import glob
import json
import os
import re
import subprocess
import textwrap

import scrytest


# What all agents of a monitor share, in RUNTIME/rings: all that is left there when no process has an area any more.
SHARED_FILES = {"doorbell", "cells"}


def pythons():
    """{version: path} of the interpreters that --script calls and lines know: Debian's, and those of a version manager; if this is no
    thorough run, of those the oldest and the newest."""
    found = {"Debian's": "/usr/bin/python3"}
    for path in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))):
        minor = int(path.split("/versions/3.")[1].split(".")[0])
        if 9 <= minor <= 13 and os.access(path, os.X_OK):
            found[f"3.{minor}"] = path
    managed = sorted(found.keys() - {"Debian's"}, key=lambda version: int(version[2:]))
    return found if scrytest.THOROUGH else {version: path for version, path in found.items() if version not in managed[1:-1]}


def target(name="traced"):
    """A program of targets/."""
    return scrytest.built("test", "system", "targets", name)


def calls_said(text):
    """How often each function was called, as the program itself has counted and printed it."""
    said = collections.Counter()
    for name, count in re.findall(r"^calls (\w+) (\d+)$", text, re.M):
        said[name] += int(count)
    return dict(said)


def traces_of(job):
    """The trace directories of a job."""
    return sorted(glob.glob(os.path.join(job, "trace", "*", "*")))


def trace_process(path):
    """.process of a trace: {key: [values]}."""
    values = collections.defaultdict(list)
    with open(os.path.join(path, ".process"), encoding="utf-8") as file:
        for line in file:
            key, _, value = line.rstrip("\n").partition("\t")
            values[key].append(value)
    return values


def count_lines(box, traces, *patterns):
    """How many lines of babeltrace2 fit each pattern of grep -E, and what it warns of; of millions of lines, so it prints as little
    as may be, and Python reads none."""
    with open(box.path("tmp", "lines"), "w+b") as lines:
        done = subprocess.run(["babeltrace2", "--no-delta", "--clock-cycles", "--names", "none", *traces], check=False,
                              stdout=lines, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise AssertionError(done.stderr[-2000:])
        counts = [int(subprocess.run(["grep", "-cE", pattern, lines.name], check=False, stdout=subprocess.PIPE,
                                     env={**os.environ, "LC_ALL": "C"}).stdout) for pattern in patterns]
    return counts, done.stderr


def flush(box, *jobs):
    """Flushes the records of these jobs (default: all) to the disk now, not within a second."""
    for path in [path for job in jobs or glob.glob(box.path("jobs", "2*")) for path in traces_of(job)]:
        pid = os.path.basename(path).partition("-")[0]
        box.run(box.scry("omis", "-c", f': node_attach2("localhost") proc_attach3([n_1], {pid}, "") ct_flush([])'))


def areas_left(box):
    """What is left in RUNTIME/rings beside that; a monitor that went, for it was idle, takes all of it along."""
    try:
        return set(os.listdir(box.path("run", "rings"))) - SHARED_FILES
    except FileNotFoundError:
        return set()


class JobCase(scrytest.TestCase):
    def scry(self, *arguments, status=0, **options):
        done = self.box.run(self.box.scry(*arguments), **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def scry_run(self, *arguments, **options):
        return self.box.run(self.box.scry("run", *arguments), **options)

    def start_run(self, *arguments, **options):
        return self.box.start(self.box.scry("run", *arguments), **options)

    def script(self, text, name="script.sh"):
        """The path of a file with this text, indented as it may be."""
        path = self.box.path("work", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def program(self, text, name="program.py"):
        return self.script(text, name)

    def records(self, *types):
        """Those of the last job, which has ended; all, or of these types."""
        lines = self.scry("watch", "--json", "@last").stdout.splitlines()
        return [record for record in map(json.loads, lines) if not types or record["type"] in types]

    def report(self, job="@last"):
        return json.loads(self.scry("report", "--json", job).stdout)

    def calls(self, report=None):
        """{function: calls} over all processes of the last job."""
        return {row["name"]: row["calls"] for row in (report or self.report())["functions"]}
