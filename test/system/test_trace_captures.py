# SPDX-License-Identifier: Apache-2.0
"""What to record of functions is compiled once for a program: other processes of it, at other addresses, get the same."""

import glob
import os
import re
import signal

import scrytest
from jobtest import JobCase, target, traces_of


class CompiledOnce(JobCase):
    def setUp(self):
        super().setUp()
        self.log = self.box.path("work", "started")
        helper = self.box.path("libexec", "scry-symbols")
        real = os.path.realpath(helper)
        os.remove(helper)
        with open(helper, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\necho "$1" >>{self.log}\nexec {real} "$@"\n')
        os.chmod(helper, 0o755)

    def compilations(self):
        """How often the helper was started for one since the last look."""
        try:
            with open(self.log, encoding="ascii") as file:
                words = file.read().split()
            os.remove(self.log)
        except FileNotFoundError:
            words = []
        return words.count("compile")

    def kept(self):
        return glob.glob(os.path.join(self.box.path("home", ".cache", "scry", "symbols"), "*.captures"))

    def traced(self, processes, *options):
        """Runs this many of them, one after the other; their values as scry replay shows them."""
        program = f"{target('traced')} calls 2"
        done = self.scry_run("--trace", "fn:leaf", *options, "--", "sh", "-c", "; ".join([program] * processes))
        self.assertEqual((done.returncode, done.stdout), (0, "calls work 2\ncalls leaf 4\n" * processes), done.stderr)
        self.assertEqual(self.calls(), {"leaf": 4 * processes}, done.stderr)
        text = self.scry("replay", "@last").stdout
        self.assertEqual(len([line for line in text.splitlines() if "leaf(n = 1, text = " in line]), processes, text)

    def test_second_process(self):
        with self.box.omis():  # the monitor stays
            self.traced(3, "--args")
            self.assertEqual(self.compilations(), 1)
            self.traced(1, "--args")
            self.assertEqual(self.compilations(), 0)
            self.traced(1, "--args", "--depth", "2")
            self.assertEqual(self.compilations(), 1)

    def test_end_of_job(self):
        """Compilation for a job stops with the job. It does not delay the job that waits."""
        with self.box.omis(), self.box.pause("symbols.compile") as pause:
            run = self.start_run("-q", "--args", "--", target("traced"), "calls", 2)
            helper = pause.reached()
            self.assertEqual(os.getpriority(os.PRIO_PROCESS, helper), os.getpriority(os.PRIO_PROCESS, 0))
            self.assertFalse(scrytest.process_gone(helper))
            run.kill()
            for pid in self.box.processes("traced"):
                os.kill(pid, signal.SIGKILL)
            scrytest.wait_until(lambda: scrytest.process_gone(helper), 10, "the helper ends with the job")
        self.traced(1, "--args")

    def test_goes_on(self):
        """What was compiled until the end of a job is kept: the next one has the rest compiled."""
        with self.box.omis() as omis, self.box.pause("symbols.function") as pause:
            run = self.start_run("-q", "--args", "--", target("traced"), "calls", 2)
            helper = pause.reached()
            self.assertTrue(omis.request(": version()").ok())  # the monitor has heard what the helper said before
            run.kill()
            for pid in self.box.processes("traced"):
                os.kill(pid, signal.SIGKILL)
            scrytest.wait_until(lambda: scrytest.process_gone(helper), 10, "the helper ends with the job")
        self.assertEqual(len(self.kept()), 1)
        for times in (2, 0):  # the one that was ended and the one that goes on; nothing is left for a third
            self.scry_run("-q", "--args", "--", target("traced"), "calls", 2)
            text = self.scry("replay", "@last").stdout
            self.assertEqual(text.count("leaf(n = 1, text = "), 1, text)
            self.assertEqual(self.compilations(), times)
            self.box.stop_monitor()

    def test_children_of_fork(self):
        done = self.scry_run("--trace", "fn:child_*", "--args", "--", target("forks"), 5)
        self.assertEqual(self.calls(), {"child_work": 6}, done.stderr)
        self.assertEqual(self.compilations(), 1)

    def test_metadata(self):
        """Other readers get the values that exist, not all that could have been."""
        self.scry_run("--trace", "all", "--args", "--", target("traced"), "calls", 2)
        [trace] = traces_of(glob.glob(self.box.path("jobs", "2*"))[0])
        with open(os.path.join(trace, ".layouts"), encoding="utf-8") as file:
            known = {line.partition("\t")[0] for line in file}
        with open(os.path.join(trace, "metadata"), encoding="utf-8") as file:
            told = set(re.findall(r" L(\d+);", file.read()))
        self.assertTrue(told and told < known, (told, known))

    def test_next_monitor(self):
        for times in (1, 0):
            self.traced(1, "--args")
            self.assertEqual(self.compilations(), times)
            self.box.stop_monitor()

    def test_cache_is_damaged(self):
        cache = self.box.path("home", ".cache", "scry", "symbols")
        self.traced(1, "--args")
        self.box.stop_monitor()
        [path] = [os.path.join(cache, name) for name in os.listdir(cache) if name.endswith(".captures")]
        os.truncate(path, os.path.getsize(path) - 1)
        self.compilations()
        for times in (1, 0):
            self.traced(1, "--args")
            self.assertEqual(self.compilations(), times)
            self.box.stop_monitor()


scrytest.main()
