# SPDX-License-Identifier: Apache-2.0
"""The example job of all layers (examples/job): a shell script, Python, a library in C, MPI. All of them on one time line, and
of a failure in each of them what happened last, with the reason."""

import json
import os
import shutil
import signal
import unittest

import mpitest
import schematest
import scrytest
from jobtest import JobCase
from scrytest import wait_until


class Layers(JobCase):
    def setUp(self):
        super().setUp()
        if not mpitest.available("openmpi"):
            self.skipTest("needs Open MPI, with which the examples are built")
        self.work = self.box.path("work", "files")
        os.mkdir(self.work)

    def need(self, *options):
        for option in options:
            if f" --{option} " not in self.scry("run", "--help").stdout:
                self.skipTest(f"this build of scry run has no --{option}")

    def command(self, fail=""):
        return [scrytest.built("examples", "job", "job.sh"), *filter(None, [fail])]

    def options(self, **more):
        """As a batch system runs it: what it prints goes to files."""
        launcher = self.box.path("work", "mpirun")
        with open(launcher, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nexec mpirun.openmpi --oversubscribe "$@"\n')
        os.chmod(launcher, 0o755)
        for name in ("out", "err"):
            file = open(self.box.path("work", f"job.{name}"), "w", encoding="ascii")
            self.addCleanup(file.close)
            more[f"std{name}"] = file
        env = {"WORK": self.work, "MPIRUN": launcher, **mpitest.QUIET, **more.pop("env", {})}
        return {"cwd": self.box.path("work"), "env": env, **more}

    def run_job(self, fail="", *options, **more):
        process = self.start_run("--sample", "0.1", *options, "--", *self.command(fail), **self.options(**more))
        return process.wait(60 * scrytest.SCALE)

    def last(self):
        """What happened last, with the layers of its events; the summary said the reason, too."""
        report = self.report()
        self.assertEqual(list(schematest.violations(report, schematest.schema("report"))), [])
        last = report["last"]
        if not last and not report["health"]["curves"]:
            self.skipTest("this build of scry run looks at nothing but processes")
        self.assertIsNotNone(last)
        times = [-event["before_end_seconds"] for event in last["events"]]
        self.assertEqual(times, sorted(times))
        reason = last["reason"]
        self.assertIsNotNone(reason, last)
        with open(self.box.path("work", "job.err"), encoding="utf-8") as file:
            said = file.read()
        self.assertIn(f"  reason     {reason['text']}\n", said)
        self.assertLessEqual(said.count(" s  ") + 1, 12)
        sequence = {record["seq"]: record["type"] for record in self.records()}
        return reason, [sequence[seq] for seq in reason["evidence"]], last

    def test_all_layers(self):
        """It goes well: the records of all layers come in the order of their times, and the report has its sections."""
        self.need("log", "script", "stall")
        self.assertEqual(self.run_job("", "--log", r"job.out=step (?<n>\d+) of (?<total>\d+):info",
                                      "--script", "calls", "--trace", "lib:*physics*"), 0)
        records = self.records()
        times = [record["t"] for record in records]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual({"job", "node", "process", "script", "python", "log"}, {each["stream"] for each in records})
        report = self.report()
        self.assertEqual(list(schematest.violations(report, schematest.schema("report"))), [])
        self.assertIsNone(report["last"])
        self.assertIn("physics_run", {row["name"] for row in report["functions"]})
        self.assertEqual(len(report["mpi"]["ranks"]), 2)
        self.assertEqual(report["logs"]["progress"][0]["total"], 200)
        self.assertIn("job.sh", {os.path.basename(row["file"]) for row in report["scripts"]["lines"]})
        self.assertIn("physics", {row["function"] for row in report["scripts"]["python_functions"]})
        self.assertIn("cpu", {curve["name"] for curve in report["health"]["curves"]})
        text = self.scry("report", "@last").stdout
        for title in ("Lines of scripts", "Functions of Python", "Patterns of logs", "Health of the node"):
            self.assertIn(f"\n{title}", text)

    def test_command(self):
        """Seen from outside: what the command itself said."""
        self.assertEqual(self.run_job("command"), 2)
        reason, evidence, _ = self.last()
        self.assertEqual((reason["note"], reason["sure"], evidence), ("cause_log", False, ["log"]))
        self.assertRegex(reason["fields"]["text"], r"^sort: .*no-such-input")

    def test_command_inside(self):
        self.assertEqual(self.run_job("command", "--script", "calls"), 2)
        if "command_failed" not in {record["type"] for record in self.records()}:
            self.skipTest("this build does not look inside shell scripts")
        reason, evidence, _ = self.last()
        self.assertEqual((reason["note"], reason["sure"]), ("cause_command", True))
        self.assertTrue(reason["fields"]["place"].startswith("job.sh:"))
        self.assertIn("sort ", reason["fields"]["command"])
        self.assertEqual(evidence, ["command_failed"])

    def test_exception(self):
        self.need("script", "stall")
        self.assertEqual(self.run_job("exception", "--script", "calls"), 1)
        reason, evidence, last = self.last()
        self.assertEqual((reason["note"], reason["sure"]), ("cause_exception", True))
        self.assertEqual(reason["fields"]["exception"], "ValueError: no place 2 on the rod")
        self.assertTrue(reason["fields"]["place"].startswith("steer.py:"))
        self.assertEqual(evidence, ["python_exception"])
        stacks = [event["stack"] for event in last["events"] if event["stream"] == "python" and "stack" in event]
        self.assertTrue(any("temperature" in frames[0] for frames in stacks), last)

    def test_segfault(self):
        self.assertEqual(self.run_job("segfault", "--crash-stack"), 128 + signal.SIGSEGV)
        reason, evidence, last = self.last()
        self.assertEqual((reason["note"], reason["sure"]), ("cause_crash", True))
        self.assertEqual(reason["fields"]["signal"], "SIGSEGV")
        self.assertRegex(reason["fields"]["place"], r"in step at physics\.c:\d+")
        self.assertEqual(evidence, ["crash"])
        stack, = (event["stack"] for event in last["events"] if "crashed" in event["text"])
        self.assertRegex(stack[0], r"^step at physics\.c")  # both halves
        self.assertTrue(any(frame.startswith("main at steer.py") for frame in stack), stack)
        self.assertIn("process", {event["stream"] for event in last["events"]})

    def test_deadlock(self):
        """Until somebody does not wait any longer."""
        run = self.start_run("--sample", "0.1", "--mpi-stall", "0.5", "--", *self.command("deadlock"), **self.options())
        wait_until(lambda: any(record["type"] == "stall" for record in self.running_records()), 30)
        run.terminate()
        run.wait(60)
        reason, evidence, last = self.last()
        self.assertEqual((reason["note"], reason["sure"], evidence[0]), ("cause_mpi_stall", False, "stall"))
        self.assertEqual(reason["fields"]["ranks"], 2)
        self.assertIn("mpi", {event["stream"] for event in last["events"]})

    def running_records(self):
        jobs = json.loads(self.scry("ps", "--json").stdout)["jobs"]
        if not jobs:
            return []
        try:
            with open(os.path.join(jobs[0]["path"], "spool", "records.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a small disk")
    def test_disk_full(self):
        done = self.box.run(["mount", "-t", "tmpfs", "-o", "size=4m", "scry-test", self.work])
        if done.returncode:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        self.addCleanup(self.box.run, ["umount", "-l", self.work])
        self.assertNotEqual(self.run_job("disk", cwd=self.work), 0)
        reason, evidence, _ = self.last()
        self.assertEqual((reason["note"], reason["sure"]), ("cause_disk_full", True))
        self.assertEqual(reason["fields"]["path"], self.work)
        self.assertEqual(evidence, ["log", "health"])

    @scrytest.thorough
    def test_file_limit(self):
        """A file grows beyond a limit: there is room on the disk, so nobody says that it is full."""
        limited = ["sh", "-c", 'ulimit -f 40960; exec "$@"', "sh", *self.command("disk")]
        run = self.start_run("--sample", "0.1", "--", *limited, **self.options())
        self.assertNotEqual(run.wait(60), 0)
        reason, _, _ = self.last()
        self.assertEqual((reason["note"], reason["sure"]), ("cause_limit", False))
        self.assertEqual(reason["fields"]["program"], "dd")

    @scrytest.thorough
    def test_expired_proxy(self):
        proxy, key, request = (self.box.path("work", name) for name in ("proxy", "key", "request"))
        for command in (["req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", "/CN=user", "-out", request],
                        ["x509", "-req", "-in", request, "-signkey", key, "-days", "-1", "-out", proxy]):
            if not shutil.which("openssl") or self.box.run(["openssl", *command]).returncode:
                self.skipTest("openssl makes no expired certificate here")
        self.assertEqual(self.run_job("proxy", env={"X509_USER_PROXY": proxy}), 3)
        reason, evidence, _ = self.last()
        self.assertEqual(reason["note"], "cause_credential")
        self.assertEqual(reason["fields"]["path"], proxy)
        self.assertIn("warning", evidence)

    def test_old_job(self):
        """Of a job without such records, nothing more is said than before."""
        self.scry_run("-q", "--", "sh", "-c", "exit 3")
        path = json.loads(self.scry("ps", "--json").stdout)["jobs"][0]["path"]
        spool = os.path.join(path, "spool", "records.jsonl")
        with open(spool, encoding="utf-8") as file:
            new = {"health", "functions", "progress"}
            old = [line for line in file if json.loads(line)["type"] not in new
                   and not json.loads(line)["type"].startswith(("script_", "python_", "command_", "log"))]
        with open(spool, "w", encoding="utf-8") as file:
            file.writelines(old)
        self.assertIsNone(self.report()["last"])
        text = self.scry("report", "@last").stdout
        for title in ("  last ", "  reason ", "Scripts", "Health", "logs"):
            self.assertNotIn(title, text)


scrytest.main()
