# SPDX-License-Identifier: Apache-2.0
"""A job from elsewhere: its user has nothing of the node but a broker, a file with a key, and later the record.

Two sandboxes, which share no directory: `node`, where the job runs, and `self.box`, where its user is.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import brokertest
import jobtest
import mpitest
import recordtest
import scrytest
from scrytest import wait_until


class AnywhereCase(jobtest.JobCase):
    def setUp(self):
        super().setUp()
        self.node = scrytest.Sandbox()
        self.addCleanup(self.node.close)
        self.broker = brokertest.Mosquitto(self.node)
        self.addCleanup(self.broker.close)
        self.addCleanup(self.end_node)
        self.user = self.node.run(["id", "-un"]).stdout.strip()
        config = self.box.path("home", ".config", "scry")
        os.makedirs(config, 0o700)
        with open(os.path.join(config, "brokers"), "w", encoding="ascii") as file:
            file.write(f"site {self.broker.tcp_url}\n")
        self.reader = self.broker.client("scry/v1/#")

    def end_node(self):
        """As if it burnt down: all that comes from the job, and its scry, at once."""
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody says that another one has died
            for pid in self.node.processes():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                        open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                    if file.read().strip() != "mosquitto":
                        os.kill(pid, number)

    def on_node(self, *arguments):
        done = self.node.run(self.node.scry(*arguments))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def bring_key(self):
        """A key made on the node, brought over as its user would."""
        self.on_node("keys", "init")
        self.on_node("keys", "issue", "--name", "laptop", "--rights", "observe,control", "-o", self.node.path("tmp", "laptop.pem"))
        keys = self.box.path("home", ".config", "scry", "keys")
        os.makedirs(keys, 0o700)
        shutil.copy(self.node.path("tmp", "laptop.pem"), os.path.join(keys, "own.pem"))

    def start_job(self, *command, name="job", options=(), **keywords):
        """What it prints goes to a file, as a batch system would have it."""
        output = open(self.node.path("work", "output"), "w", encoding="utf-8")
        self.addCleanup(output.close)
        self.run_ = self.node.start(self.node.scry("run", "--broker", self.broker.url, "--name", name, *options, "--", *command),
                                    stdout=output, stderr=output, **keywords)
        self.reader.wait(lambda: self.reader.of("/state") and self.state()["info"].get("command"))
        self.job = f"@site/{self.user}/{name}"

    def state(self):
        return json.loads(self.reader.of("/state")[-1].payload)

    def json(self, *arguments, status=0):
        return json.loads(self.scry(*arguments, status=status).stdout)


class FigureOne(AnywhereCase):
    """examples/job: a shell script, Python, a library in C, MPI."""

    case_seconds = 120

    def figure_one(self, mpi):
        if not mpitest.available(mpi):
            self.skipTest(f"needs {mpi}")
        programs = self.node.path("work", "programs")
        os.mkdir(programs)
        source = os.path.join(scrytest.SOURCE, "examples", "mpi_deadlock.c")
        shutil.copy(mpitest.compile_program(mpi, source, "-finstrument-functions", name="anywhere_deadlock"),
                    os.path.join(programs, "mpi_deadlock"))
        launcher, work = self.node.path("work", "mpirun"), self.node.path("work", "files")
        os.mkdir(work)
        with open(launcher, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {" ".join(mpitest.MPIS[mpi]["run"])} "$@"\n')
        os.chmod(launcher, 0o755)
        self.bring_key()
        recorder = self.box.start(self.box.scry("record", "--broker", "@site"), stderr=subprocess.STDOUT)
        self.start_job(scrytest.built("examples", "job", "job.sh"), "deadlock", name="figure-1",
                       options=("--sample", "0.2", "--script", "calls"),
                       env={"WORK": work, "MPIRUN": launcher, "PROGRAMS": programs, **mpitest.QUIET})
        watching = self.box.path("work", "watched")
        with open(watching, "w", encoding="utf-8") as file:
            watch = self.box.start(self.box.scry("watch", "--json", self.job), stdout=file)
        self.seen_while_it_runs()
        self.steered(watching)
        self.ended_from_here()
        self.assertEqual(watch.wait(20), 0)
        self.explained_by_the_record(recorder)

    def seen_while_it_runs(self):
        # A mirror that `scry watch` has just made has not heard of the job yet.
        wait_until(lambda: [(job.get("name"), job["state"]) for job in self.json("ps", "--json", "@site")["jobs"]] == [("figure-1", "running")],
                   10, "the job runs")
        answers = []

        def stuck():
            done = self.box.run(self.box.scry("why", "--json", self.job))
            answers.append(done.stdout + done.stderr)
            return done.returncode == 3
        wait_until(stuck, 60, lambda: f"scry why says so: {answers[-1]}")
        (finding,) = json.loads(answers[-1])["mpi"]["findings"]
        self.assertEqual((finding["kind"], sorted(finding["ranks"])), ("deadlock", [0, 1]))
        self.assertIn("MPI_Send of 7.6 MB to rank 1, tag 7 on MPI_COMM_WORLD, at exchange (mpi_deadlock.c:17)",
                      self.scry("why", self.job, status=3).stdout)
        top = self.scry("top", "--once", self.job).stdout
        for part in ("figure-1  running", "mpi_deadlock", "job.sh"):
            self.assertIn(part, top)
        report = self.json("report", "--json", self.job)
        self.assertEqual((report["status"], len(report["mpi"]["ranks"])), ("running", 2))
        self.assertIn("physics", {row["function"] for row in report["scripts"]["python_functions"]})

    def steered(self, watching):
        """What is set shows on the node, and in what comes through the broker."""
        self.scry("set", self.job, "sample=0.05")
        self.scry("set", self.job, "trace=fn:exchange", "args=yes")
        settings = self.json("set", "--json", self.job)
        self.assertEqual((settings["sample"], settings["trace"], settings["args"]), ("0.05", "fn:exchange", "yes"))
        settings = json.loads(self.on_node("set", "--json", "figure-1"))
        self.assertEqual((settings["sample"], settings["trace"]), ("0.05", "fn:exchange"))

        def watched():
            with open(watching, encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]

        def denser():
            times = [record["t"] for record in watched() if record["type"] == "sample" and record["stream"] == "node"]
            return len(times) > 4 and times[-1] - times[-4] < 0.45
        wait_until(denser, 20, "samples come more often")
        who = {record["who"] for record in watched() if record["type"] == "request"}
        self.assertEqual(who, {"laptop"})

    def ended_from_here(self):
        """SIGTERM for the script. Its ranks are left as they are, until the node is gone."""
        script = self.state()["info"]["command"]["pid"]
        self.scry("omis", "--connect", self.job, "-c", f': proc_attach3([], {script}, "") proc_send_signal([], 15)')
        self.assertEqual(self.run_.wait(20 * scrytest.SCALE), 143)

    def explained_by_the_record(self, recorder):
        """Nothing else is there any more: no publisher, no broker, no job directory, no mirror."""
        record = recordtest.Sqlite(self.box)
        wait_until(lambda: record.query("SELECT 1 FROM jobs WHERE complete = 1"), 30, "the record has all of it")
        wait_until(lambda: not list(self.node.processes("scry-publisher")), 30, "the publisher's end")
        recorder.terminate()
        self.assertEqual(recorder.wait(20), 0)
        self.end_node()
        self.broker.stop()
        shutil.rmtree(self.node.path("jobs"))
        shutil.rmtree(self.box.path("home", ".cache"))
        (job,) = self.json("ps", "--all", "--json")["jobs"]
        self.assertEqual((job["name"], job["signal"]), ("figure-1", signal.SIGTERM))
        report = self.scry("report", "figure-1").stdout
        for part in ("from       record", "probably stuck in MPI, until it was ended", ": deadlock: ranks 0 and 1 wait for each other", "laptop sent SIGTERM to processes",
                     "job.sh:37", "in ocean", "MPI_Send", "exchange (mpi_deadlock.c:17)",
                     "python3", "steer.py", "mpi_deadlock"):
            self.assertIn(part, report)
        self.assertIn("deadlock: ranks 0 and 1 wait for each other", self.scry("why", "figure-1", status=3).stdout)
        self.assertIn("laptop", self.scry("watch", "--stream", "setting", "figure-1").stdout)

    def test_open_mpi(self):
        self.figure_one("openmpi")

    @scrytest.thorough
    def test_mpich(self):
        self.figure_one("mpich")


class States(AnywhereCase):
    """What `scry ps BROKER` says of jobs that were on a node of which nothing else is left. (test_broker_mirror.py has the
    same of jobs that are published by a test, and lost.)"""

    def states(self):
        jobs = self.json("ps", "--json", "@site")["jobs"]
        return {job["name"]: (job["state"], job["exit_code"], job["signal"]) for job in jobs}

    def test_all(self):
        ends = {"finished": ("exit 0", 0, None), "failed": ("exit 3", 3, None), "crashed": ("kill -SEGV $$", 139, signal.SIGSEGV),
                "killed": ("kill -TERM $$", 143, signal.SIGTERM)}
        expected = {name: ("ended", code, number) for name, (_, code, number) in ends.items()}
        for name, (script, _, _) in ends.items():
            self.node.run(self.node.scry("run", "-q", "--broker", self.broker.url, "--name", name, "--", "sh", "-c", script))
        self.start_job("sleep", "600", name="unreachable")
        wait_until(lambda: self.states().get("unreachable", "")[:1] == ("running",), 20, "the job runs")
        self.end_node()
        expected["unreachable"] = ("unreachable", None, None)
        published = {json.loads(m.payload)["info"]["name"]: json.loads(m.payload)["state"] for m in self.reader.of("/state")}
        self.assertEqual(published, {**{name: name for name in ends}, "unreachable": "running"})
        wait_until(lambda: self.states() == expected, 20, lambda: str(self.states()))
        self.assertIn("out of reach", self.scry("report", f"@site/{self.user}/unreachable").stdout)

    def test_left_by_its_publisher(self):
        """A job that has ended, of which only the broker knows: what it retains is shown, with one line that says so."""
        self.node.run(self.node.scry("run", "-q", "--broker", self.broker.url, "--name", "over", "--", "sh", "-c", "exit 3"))
        wait_until(lambda: not list(self.node.processes("scry-publisher")), 30, "the publisher's end")
        done = self.scry("report", f"@site/{self.user}/over")
        self.assertIn("exit status 3", done.stdout)
        self.assertNotIn("spool", done.stdout + done.stderr)


if __name__ == "__main__":
    scrytest.main()
