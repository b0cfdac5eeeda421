# SPDX-License-Identifier: Apache-2.0
"""Who waited for whom in calls of all kinds, by the traces of programs: rank 0 comes 120 ms after rank 1 to everything, so
rank 1 waits about that long in each call, and never longer than the call took by the counters."""

import collections
import re
import subprocess

import mpitest
import scrytest

LATE_NS = 70_000_000
# function, call that waited, kind, call that it waited for
WAITS = (
    ("in_probe", "MPI_Probe", "late_sender", "MPI_Ssend"),
    ("in_mprobe", "MPI_Mprobe", "late_sender", "MPI_Send"),
    ("wait_for_receive", "MPI_Wait", "late_sender", "MPI_Send"),
    ("wait_for_send", "MPI_Wait", "late_receiver", "MPI_Recv"),
    ("wait_for_all", "MPI_Waitall", "late_sender", "MPI_Send"),  # which began behind the receive
    ("for_nonblocking_receive", "MPI_Ssend", "late_receiver", "MPI_Irecv"),
    ("wait_for_root", "MPI_Wait", "root", "MPI_Ibcast"),
    ("wait_for_barrier", "MPI_Wait", "collective", "MPI_Ibarrier"),
    ("communicators", "MPI_Comm_dup", "collective", "MPI_Comm_dup"),
    ("communicators", "MPI_Comm_split", "collective", "MPI_Comm_split"),
    ("communicators", "MPI_Cart_create", "collective", "MPI_Cart_create"),
    ("windows", "MPI_Win_create", "collective", "MPI_Win_create"),
    ("windows", "MPI_Win_fence", "collective", "MPI_Win_fence"),
    ("windows", "MPI_Win_free", "collective", "MPI_Win_free"),
    ("files", "MPI_File_open", "collective", "MPI_File_open"),
)


def function_of(place):
    return place["where"].split(" ")[0]


def traced(case, ranks, *program):
    """The report of such a job."""
    done = case.job(ranks, *program, options=["-q", "--mpi", "trace", "-o", case.box.path("work", "job")])
    case.assertEqual(done.returncode, 0, done.stderr)
    return case.report(case.box.path("work", "job"))


class Waits(mpitest.MpiCase):
    def check(self, report):
        """Each of WAITS is there, lasted as long as rank 0 was late, and no longer than the calls from there. [(call, ns)]"""
        trace, sites, lasted = report["mpi_trace"], {}, []
        for site in report["mpi"]["sites"]:
            key = site["function"], site["name"]
            sites[key] = sites.get(key, 0) + site["total_ns"]
        for function, call, kind, cause in WAITS:
            with self.subTest(function=function, call=call):
                found = [wait for wait in trace["waits"]
                         if (function_of(wait["waits"]), wait["waits"]["call"]) == (function, call)]
                self.assertTrue(found, trace["waits"])
                wait = max(found, key=lambda wait: wait["total_ns"])
                self.assertEqual((wait["kind"], wait["for"]["call"], function_of(wait["for"]), wait["for_rank"]),
                                 (kind, cause, function, 0))
                # rank 1 may come late by itself, on a busy machine: then its call is as much shorter
                self.assertGreaterEqual(wait["max_ns"], min(LATE_NS, sites[function, call] // 2))
                self.assertLessEqual(sum(wait["total_ns"] for wait in found), sites[function, call])
                lasted.append((call, wait["max_ns"]))
        return lasted

    @mpitest.both
    def test_all(self):
        report = traced(self, 2, self.target("late_more.c"), self.box.path("work"))
        lasted = self.check(report)
        trace = report["mpi_trace"]
        missing = {row["call"]: row for row in trace["waits_not_judged"]}
        self.assertFalse(missing["MPI_Iprobe"]["blocks"])
        blocked = sum(row["total_ns"] for row in missing.values() if row["blocks"])
        self.assertLess(blocked, trace["waits_judged_ns"] // 4, missing)
        self.assertGreaterEqual(trace["waits_judged_ns"], sum(wait["total_ns"] for wait in trace["waits"]))
        text = self.box.run(self.box.scry("report", self.box.path("work", "job"))).stdout
        self.assertRegex(text, r"\n  not judged: [0-9.]+ \w+ in calls that looked in vain: MPI_Iprobe ")
        self.check_picture(lasted)

    def check_picture(self, lasted):
        """Each of them is orange until rank 0 came."""
        done = self.box.run(self.box.scry("export", "--format", "spacetime", "-o", "-", self.box.path("work", "job")))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        waits = re.findall(r'class="c2"><title>waiting for rank 0 in (MPI_\w+), ([0-9.]+) (m?s)<', done.stdout)
        shown = collections.defaultdict(list)
        for call, waited, unit in waits:
            shown[call].append(float(waited) * (1e6 if unit == "ms" else 1e9))
        for call, ns in sorted(lasted, key=lambda one: -one[1]):  # each is another one of the picture; its text is rounded
            longest = max(shown[call], default=0)
            self.assertGreaterEqual(longest, 0.9 * ns, (call, waits))
            shown[call].remove(longest)


class Python(mpitest.MpiCase):
    mpi = "openmpi"
    SCRIPT = """
from mpi4py import MPI
import os
import time
comm = MPI.COMM_WORLD
pids = comm.allgather(os.getpid())
if comm.rank == 0:
    while open(f"/proc/{pids[1]}/comm").read() != "at its call\\n":
        time.sleep(0.001)
    time.sleep(0.12)
    comm.send({"a": 1}, dest=1, tag=3)
else:
    with open("/proc/self/comm", "w") as name:
        name.write("at its call")
    assert comm.recv(source=0, tag=3) == {"a": 1}
"""

    def test_recv(self):
        """Objects are received by MPI_Mprobe and MPI_Mrecv."""
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import mpi4py"], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("needs python3-mpi4py")
        script = self.box.path("work", "late.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(self.SCRIPT)
        report = traced(self, 2, python, script)
        waits = {wait["waits"]["call"]: wait for wait in reversed(report["mpi_trace"]["waits"])}
        wait = waits["MPI_Mprobe"]
        self.assertEqual((wait["kind"], wait["for"]["call"], wait["for_rank"]), ("late_sender", "MPI_Send", 0))
        self.assertGreaterEqual(wait["max_ns"], LATE_NS)
        calls = mpitest.calls_of(report["mpi"]["ranks"][1])
        self.assertLessEqual(wait["total_ns"], calls["MPI_Mprobe"]["total_ns"])


mpitest.for_each_mpi(Waits, globals())
scrytest.main()
