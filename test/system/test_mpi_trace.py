# SPDX-License-Identifier: Apache-2.0
"""`--mpi trace`: each MPI call is a call of the trace, with values for people, and each message and collective operation a
record in it. What is expected the programs say themselves (targets/mpi/traced.c)."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess

import mpitest
import scrytest
from mpitest import matrix_of

MESSAGE = re.compile(
    r'mpi_message: .*kind = \( "(\w+)" : .*call = \( "(\w+)" : container = \d+ \), comm = (\w+), peer = (-?\d+), '
    r"tag = (-?\d+), bytes = (\d+), order = (\d+)"
)


class Trace(mpitest.MpiCase):
    def traced(self, ranks, way, *more, options=(), hooks=False, **keywords):
        program = self.target("traced.c", *(["-finstrument-functions"] if hooks else []),
                              name="traced-hooks" if hooks else None)
        done = self.job(ranks, program, way, self.box.path("work", "said"), *more,
                        options=["-q", "-o", self.box.path("work", "job"), "--mpi", "trace", *options], **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def said(self, rank):
        with open(self.box.path("work", f"said.{rank}"), encoding="utf-8") as file:
            return [line.split() for line in file]

    def traces(self):
        """{rank: trace directory}"""
        found = {}
        for path in glob.glob(os.path.join(self.box.path("work", "job"), "trace", "*", "*", ".process")):
            with open(path, encoding="utf-8") as file:
                keys = dict(line.rstrip("\n").split("\t", 1) for line in file)
            if "mpi_rank" in keys:
                found[int(keys["mpi_rank"])] = os.path.dirname(path)
        return found

    def babeltrace(self, path):
        if not shutil.which("babeltrace2"):
            self.skipTest("babeltrace2 is not installed")
        done = self.box.run(["babeltrace2", path])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def messages(self, path):
        lines = [line for line in self.babeltrace(path) if "mpi_message:" in line]
        found = [MESSAGE.search(line) for line in lines]
        self.assertTrue(all(found), lines)
        return [match.groups() for match in found]

    def calls(self, *options):
        done = self.box.run(self.box.scry("replay", "--json", *options, self.box.path("work", "job")))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def replayed(self):
        done = self.box.run(self.box.scry("replay", self.box.path("work", "job")))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_symbols_are_not_waited_for(self):
        """Calls of MPI have their names: their traces are complete before the symbols of any library are read."""
        helper = self.box.path("libexec", "scry-symbols")
        whole, gate = os.path.realpath(helper), self.box.path("work", "gate")
        os.mkfifo(gate)
        os.unlink(helper)
        with open(helper, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nread -r line < "{gate}"\nexec "{whole}" "$@"\n')
        os.chmod(helper, 0o755)
        try:
            self.traced(2, "messages", options=("--trace", "off"))
            text = self.box.run(self.box.scry("report", self.box.path("work", "job"))).stdout
            self.assertNotIn("not complete", text)
            self.assertNotIn("not written to its end", text)
            self.assertIn("MPI_Send(", self.replayed())
        finally:
            os.unlink(helper)
            os.symlink(whole, helper)
            os.close(os.open(gate, os.O_RDWR | os.O_NONBLOCK))

    @mpitest.both
    def test_messages(self):
        self.traced(2, "messages")
        traces = self.traces()
        self.assertEqual(sorted(traces), [0, 1])
        names = {}
        for rank, path in traces.items():
            # where a send is complete is recorded if the call took long, which nobody can know before
            found = [message for message in self.messages(path) if message[0] != "sent_done"]
            expected = self.said(rank)
            comms = {"0x1": "world", "0x2": "self"}
            for _, _, comm, *_ in found:
                comms.setdefault(comm, "twin")
            names[rank] = comms
            # the last collective is that of MPI_Finalize, if it is one
            self.assertEqual([[kind, call, comms[comm], *rest[:-1]] for kind, call, comm, *rest in found], expected)
            for kind in ("sent", "received"):
                orders = [int(order) for what, *_, order in found if what == kind]
                self.assertTrue(all(orders) and len(set(orders)) == len(orders), orders)
            posted = [int(order) for what, *_, order in found if what in ("sent", "received")]
            # each post has a number, but for PROC_NULL; one was cancelled
            self.assertEqual(sorted(posted), sorted(set(range(1, len(posted) + 2)) - {self.cancelled(posted)}))
        self.assertEqual(names[0], names[1])
        self.assertEqual(len(names[0]), 3)

    def cancelled(self, posted):
        (missing,) = set(range(1, len(posted) + 2)) - set(posted)
        return missing

    def test_values(self):
        self.traced(2, "messages")
        text = self.replayed()
        for pattern in (
            r"MPI_Ssend\(dest = 1, tag = 12, comm = 0, bytes = 32\)",
            r"MPI_Recv\(source = MPI_ANY_SOURCE, tag = MPI_ANY_TAG, comm = 0, bytes = 512\)",
            r"\{source = 0, tag = 12, bytes = 32\}  = MPI_SUCCESS",
            r"MPI_Bcast\(root = 1, comm = 0, bytes = 16\)",
            r"MPI_Comm_rank\(comm = 0\)",
            # a call of a millisecond and more has a line for its end
            r"MPI_Waitall\(count = 2\)[^\n]*(\n[^\n]*  end of MPI_Waitall[^\n]*)?completed = 2\}",
            r"MPI_Sendrecv\(dest = 1, sendtag = 13, source = 1, recvtag = 13, comm = 0, bytes = 40\)",
        ):
            self.assertTrue(re.search(pattern, text), f"{pattern} in {text[:4000]}")

    def test_nested(self):
        """In traced functions, whose calls the MPI calls are nested in; and under a reduction, a function of ours whose
        calls of MPI are inside of another one and not told."""
        self.traced(1, "callback", hooks=True)
        text = self.replayed()
        self.assertRegex(text, r"(?m)^ +[\d.]+    callback\(\)")
        self.assertRegex(text, r"(?m)^ +[\d.]+      MPI_Op_create\(")
        self.assertRegex(text, r"(?m)^ +[\d.]+      MPI_Allreduce\(comm = 0, bytes = 32")
        self.assertNotIn("MPI_Type_size", text)

    @scrytest.thorough
    def test_failed(self):
        self.traced(1, "fails")
        self.assertRegex(self.replayed(), r"MPI_Send\(dest = -3, tag = 1, .*(\n.*  end of MPI_Send)?  = \d+ ")
        self.assertEqual([message for message in self.messages(self.traces()[0]) if message[0] == "sent"], [])

    def test_jump(self):
        """Calls left by longjmp are ended, like functions, and the next ones have the right depth."""
        for hooks in (False, True):
            shutil.rmtree(self.box.path("work", "job"), ignore_errors=True)
            self.traced(1, "jump", hooks=hooks)
            path = self.traces()[0]
            lines = self.babeltrace(path)
            unwound = [int(re.search(r"count = (\d+)", line)[1]) for line in lines if " unwound: " in line]
            # each time MPI_Send, and with hooks bad_send, which called it, and the handler
            self.assertEqual(sum(unwound), 15 if hooks else 5)
            text = self.replayed()
            self.assertEqual(len(re.findall(r"MPI_Send\(", text)), 5)
            self.assertTrue(re.search(rf"(?m)^ +[\d.]+  {'  ' if hooks else ''}MPI_Finalize\(", text), text)

    def test_fork(self):
        self.traced(2, "fork")
        self.assertEqual(sorted(self.traces()), [0, 1])
        self.assertEqual(len(re.findall(r"MPI_Barrier\(", self.replayed())), 2)

    @scrytest.thorough
    def test_threads(self):
        threads, steps = 4, 200
        program = self.target("hammer.c", "-Wno-stringop-overflow")
        done = self.job(2, program, threads, steps,
                        options=["-q", "-o", self.box.path("work", "job"), "--mpi", "trace"])
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank, path in self.traces().items():
            found = self.messages(path)
            for kind in ("sent", "received"):
                self.assertEqual(sum(what == kind and call in ("MPI_Isend", "MPI_Irecv", "MPI_Sendrecv")
                                     for what, call, *_ in found), threads * steps, (rank, kind))

    @scrytest.thorough
    def test_many(self):
        """Nothing is lost, and the summary's numbers are those of the calls."""
        count = 20000
        self.traced(1, "loop", count)
        report = self.report(self.box.path("work", "job"))
        rows = {row["name"]: row["calls"] for row in report["functions"]}
        self.assertEqual(rows["MPI_Sendrecv"], count)
        self.assertEqual(sum(message[0] == "sent" for message in self.messages(self.traces()[0])), count)

    def test_fortran(self):
        program = self.target("calls_mpif.f")
        done = self.job(2, program, options=["-q", "-o", self.box.path("work", "job"), "--mpi", "trace"])
        self.assertEqual(done.returncode, 0, done.stderr)
        report = self.report(self.box.path("work", "job"))
        traced = {row["name"]: row["calls"] for row in report["functions"] if row["name"].startswith("MPI_")}
        counted = {row["name"]: row["calls"] for row in report["mpi"]["calls"]}
        for name, calls in counted.items():
            if calls:
                self.assertEqual(traced.get(name), calls, name)

    def test_killed(self):
        """What was recorded before is there."""
        self.job(2, self.target("ending.c"), "kill", options=["-q", "-o", self.box.path("work", "job"), "--mpi", "trace"])
        traces = self.traces()
        self.assertEqual(sorted(traces), [0, 1])
        for path in traces.values():
            self.assertEqual(sum(message[0] == "sent" for message in self.messages(path)), 100)

    @scrytest.thorough
    def test_abort(self):
        self.job(2, self.target("ending.c"), "abort", options=["-q", "-o", self.box.path("work", "job"), "--mpi", "trace"])
        self.assertIn("MPI_Abort(", self.replayed())

    def test_not_traced(self):
        """Statistics only: no trace is made, nor an area for one."""
        done = self.job(2, self.target("ending.c"), options=["-q", "-o", self.box.path("work", "job")])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(glob.glob(os.path.join(self.box.path("work", "job"), "trace", "*", "*")), [])

    def waiting(self, *options):
        """A job whose ranks have sent all and wait: it, and their process ids."""
        job = self.start_job(2, self.target("ending.c"), "wait", options=options, stderr=subprocess.DEVNULL)
        return job, [int(job.stdout.readline().split()[2]) for _ in range(2)]

    def set(self, *pairs):
        done = self.box.run(self.box.scry("set", self.box.path("work", "job"), *pairs))
        self.assertEqual(done.returncode, 0, done.stderr)

    def go(self):
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass

    def test_switched_on(self):
        """While the job runs: traced from then on."""
        job, _ = self.waiting()
        self.set("mpi=trace")
        self.go()
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)
        self.assertEqual(sorted(set(re.findall(r"MPI_\w+\(", self.replayed()))), ["MPI_Barrier(", "MPI_Finalize("])

    @scrytest.thorough
    def test_switched_off(self):
        job, _ = self.waiting("--mpi", "trace")
        self.set("mpi=stats")
        self.go()
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)
        found = set(re.findall(r"MPI_\w+\(", self.replayed()))
        self.assertIn("MPI_Sendrecv(", found)
        self.assertNotIn("MPI_Finalize(", found)
        self.assertEqual(matrix_of(self.mpi_report(self.box.path("work", "job")))[0, 1], (100, 800))

    @scrytest.thorough
    def test_switched_twice(self):
        job, _ = self.waiting("--mpi", "trace")
        for how in ("stats", "off", "trace"):
            self.set(f"mpi={how}")
        self.go()
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)
        found = set(re.findall(r"MPI_\w+\(", self.replayed()))
        self.assertTrue({"MPI_Sendrecv(", "MPI_Barrier(", "MPI_Finalize("} <= found, found)

    @scrytest.thorough
    def test_calls_left_out(self):
        """Neither --min-time, --rate nor --max-depth leaves out messages, and nothing is reported as missing."""
        for options in (["--min-time", "1s"], ["--rate", "5"], ["--max-depth", "1"]):
            done = self.job(2, self.target("ending.c"), options=["--mpi", "trace", *options])
            self.assertEqual(done.returncode, 0, done.stderr)
            report = self.report()
            self.assertEqual(report["mpi_trace"]["messages"], 200)
            self.assertEqual([rank["missing_records"] for rank in report["mpi_trace"]["ranks"]], [0, 0])
            text = self.box.run(self.box.scry("report", "@last")).stdout
            self.assertIn("  calls of 2 ranks were left out (--min-time, --rate, --max-depth), but none of their messages", text)
            self.assertNotIn("are missing", text)
            self.assertEqual("but those of MPI that have messages are not" in text, options[0] == "--min-time")

    def test_killed_monitor(self):
        """The next monitor records the values of later calls, and knows the names of earlier ones."""
        job, _ = self.waiting("--mpi", "trace")
        self.box.stop_monitor(signal.SIGKILL)
        scrytest.wait_until(self.box.monitor_pid, 20, "scry run starts the next one")
        scrytest.wait_until(lambda: "mpi" in self.box.run(self.box.scry("set", self.box.path("work", "job"))).stdout, 20)
        self.go()
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)
        text = self.replayed()
        self.assertTrue(re.search(r"MPI_Sendrecv\(dest = 1, ", text), text[:2000])
        self.assertEqual(len(re.findall(r"MPI_Barrier\(comm = 0\W", text)), 4, text[-2000:])
        for path in glob.glob(os.path.join(self.box.path("work", "job"), "trace", "*", "*")):
            self.babeltrace(path)

    def test_hung_monitor(self):
        """The ranks wait for it no longer than they may."""
        job, pids = self.waiting()
        self.set("mpi=trace")
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        try:
            self.go()
            scrytest.wait_until(lambda: all(scrytest.process_gone(pid) for pid in pids), 30, "the ranks have ended")
        finally:
            os.kill(monitor, signal.SIGCONT)
        self.assertEqual(job.wait(60 * scrytest.SCALE), 0)


mpitest.for_each_mpi(Trace, globals())

if __name__ == "__main__":
    scrytest.main()
