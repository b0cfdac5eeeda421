# SPDX-License-Identifier: Apache-2.0
"""What tests of tasks share."""

import json
import os
import signal

import mpitest
import schematest
import scrytest

LONG = 90  # seconds: the machine may be busy
STOMMEL = ("64", "64", "300")


class TaskCase(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.box.env.update(mpitest.QUIET)

    def submit(self, *arguments, box=None, **options):
        """The ids of the tasks that were queued."""
        box = box or self.box
        done = box.run(box.scry("submit", *arguments), timeout=LONG, **options)
        self.assertNotEqual(done.returncode, 2, done.stderr)
        return done.stdout.split()

    def show(self, task, box=None):
        box = box or self.box
        done = box.run(box.scry("task", "show", "--json", task))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def task(self, *words, box=None):
        box = box or self.box
        return box.run(box.scry("task", *words), timeout=LONG)

    def waits_for(self, task, *states, box=None):
        """What is shown of the task once it is in one of the states."""
        shown = {}

        def reached():
            shown.update(self.show(task, box))
            return shown["state"] in states
        scrytest.wait_until(reached, LONG, lambda: json.dumps(shown, indent=1))
        return shown

    def fits(self, name, shown):
        self.assertEqual(list(schematest.violations(shown, schematest.schema(name))), [])

    def why(self, shown):
        """The reason that the report of the last run gives, or what it said last; not that it ended."""
        done = self.box.run(self.box.scry("report", "--json", shown["runs"][-1]["directory"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        reason = json.loads(done.stdout)["last"]["reason"] or {}
        return reason["fields"]["words"] or None if reason.get("note") == "cause_unknown" else reason.get("text")

    def kill_runner(self):
        for pid in self.box.processes("scry-tasks"):
            os.kill(pid, signal.SIGKILL)
            scrytest.wait_until(lambda: scrytest.process_gone(pid), LONG)

    def program(self, text, name="program"):
        path = self.box.path("work", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def first_calls(self, task):
        """The name of the first call of each process that was traced, by its rank; None: it has none."""
        shown = self.show(task)
        self.assertEqual((shown["state"], shown["error"], len(shown["runs"])), ("done", None, 1))
        self.fits("task", shown)
        done = self.box.run(self.box.scry("replay", "--json", shown["runs"][0]["directory"]), timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stderr)
        first = {}
        for line in done.stdout.splitlines():
            call = json.loads(line)
            if call["event"] == "call":
                here, rank = (call["start_seconds"], call["function"]), call.get("rank")
                first[rank] = min(here, first.get(rank, here))
        return {rank: function for rank, (_, function) in first.items()}
