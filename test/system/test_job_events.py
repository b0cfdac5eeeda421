# SPDX-License-Identifier: Apache-2.0
"""Rules on what scry run records: job_warned and the events beside it."""

import json
import os
import signal
import subprocess

import scrytest
from jobtest import JobCase
from scrytest import wait_until


class JobEvents(JobCase):
    def fired(self):
        """[how often each rule fired], in their order"""
        return [row["fired"] for row in self.report()["rules"]]

    def spool(self):
        jobs = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        if not jobs:
            return ""
        with open(os.path.join(jobs[0]["path"], "spool", "records.jsonl"), encoding="utf-8") as file:
            return file.read()

    @staticmethod
    def child_of(run, name):
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as file:
            return next(int(pid) for pid in file.read().split() if scrytest.process_status(pid).get("Name") == name)

    def test_a_rule_fires_on_a_warning(self):
        """The observer is killed, which is a warning. Other rules wait for what does not come."""
        run = self.start_run("-q", "--rule", 'job_warned("", "observer_*"): print([$note, $kind, $fields, $job])',
                             "--rule", 'job_warned("@last", "*"): print([$note])',
                             "--rule", 'job_log_matched("", "error"): print([$text])',
                             "--", "sh", "-c", "echo started; read line; exit 3", stdin=subprocess.PIPE)
        self.assertEqual(run.stdout.readline(), "started\n")
        os.kill(self.child_of(run, "job-observer"), signal.SIGKILL)
        wait_until(lambda: '"rule"' in self.spool())
        run.stdin.close()
        self.assertEqual(run.wait(), 3)
        self.assertEqual(self.fired(), [1, 0, 0])
        result = json.loads(self.scry("watch", "--json", "--stream", "rule", "@last").stdout.splitlines()[0])["results"][0]["result"]
        self.assertRegex(result, r'^4,\["observer_lost","observer",".*signal.*9.*","/.*"\]$')

    def test_a_rule_ends_the_job(self):
        """What a warning leads to: a signal to all traced processes."""
        run = self.start_run("-q", "--trace", "all", "--sample", "0.1", "--rule", 'job_warned("", "observer_lost"): proc_send_signal([], 15)',
                             "--", scrytest.example("newton"), "0", "10")
        wait_until(lambda: '"functions"' in self.spool(), timeout=40)
        os.kill(self.child_of(run, "job-observer"), signal.SIGKILL)
        self.assertEqual(run.wait(), 128 + signal.SIGTERM)
        self.assertEqual(self.fired(), [1])

    def test_rules_on_lines_of_logs(self):
        """Also on the last one, which comes just before the job ends."""
        if "--log FILE" not in self.scry("run", "--help").stdout:
            self.skipTest("this scry run does not follow logs")
        done = self.scry_run("-q", "--log", r"out.log=step (?<n>\d+) of (?<total>\d+):info", "--log", "out.log=lost:error",
                             "--rule", 'job_log_matched("", "error"): print([$file, $line, $text])',
                             "--rule", 'job_log_matched("", "*.log"): print([$fields])',
                             "--rule", 'job_progress(""): print([$done, $total])',
                             "--rule", 'job_log_matched("another", ""): print([$text])',
                             "--", "sh", "-c", "echo 'step 1 of 2' >>out.log; echo 'all is lost' >>out.log")
        self.assertEqual(done.returncode, 0, done.stderr)
        fired = self.fired()
        self.assertEqual((fired[0], fired[1], fired[3]), (1, 2, 0))
        self.assertGreaterEqual(fired[2], 1)
        rules = [json.loads(line) for line in self.scry("watch", "--json", "--stream", "rule", "@last").stdout.splitlines()]
        results = [row["results"][0]["result"] for row in rules if row["type"] == "rule"]
        self.assertIn('3,["out.log",2,"all is lost"]', results)
        self.assertIn("2,[1.0,2.0]", results)

    def test_wrong_rules_are_refused(self):
        """Before the command starts."""
        for rule in ('job_log_matched(1): print([1])', 'job_log_matched("", ""): print([$no_such])', 'job_no_event(""): print([1])'):
            done = self.scry_run("--rule", rule, "--", "echo", "started")
            self.assertNotIn("started", done.stdout)
            self.assertIn(f"rule '{rule}'", done.stderr)


scrytest.main()
