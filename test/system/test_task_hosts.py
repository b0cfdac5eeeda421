# SPDX-License-Identifier: Apache-2.0
"""Tasks over several nodes, and of several machines with one home."""

import json
import os
import signal

import labtest
import mpitest
import scrytest
import slurmtest
from tasktest import LONG, TaskCase


class SharedHome(TaskCase, labtest.LabCase):
    """Two machines of a user with one home, and so one store."""
    hosts = ("n1", "n2")
    options = {"shared": True}
    one_lab = True

    def test_each_has_its_own(self):
        """A task is begun and ended where it was submitted, whoever asks for that, and says where it is; done again, it runs where
        that was asked for."""
        near, far = (self.lab.host(name) for name in self.hosts)
        where = self.lab.path("shared", "work", "where")
        program = self.program(f"#!/bin/sh\nuname -n >>{where}\nwhile ! [ -e {where}-go ]; do sleep 0.1; done\n")
        task, = self.submit("--by", "plain", "--file", program, "./program")
        behind, = self.submit("--by", "plain", "--file", program, "./program")
        scrytest.wait_until(lambda: os.path.exists(where) and os.path.getsize(where), LONG)
        other, = self.submit("--by", "plain", "--wait", "true", box=far)  # waits for none of n1's
        self.assertEqual([self.show(each, far)["host"] for each in (task, behind, other)], ["n1", "n1", "n2"])
        self.assertEqual([self.show(each)["state"] for each in (task, behind)], ["running", "queued"])
        self.assertIn("queued on n1", self.task("show", behind, box=far).stdout)
        refused = self.task("rm", task, box=far)
        self.assertIn("is running on n1: cancel it first", refused.stderr)
        self.kill_runner()
        said = self.task("cancel", task, box=far)
        self.assertEqual(said.returncode, 0)
        self.assertIn("it ends when its runner there sees it", said.stderr)
        self.assertEqual(self.task("cancel", behind, box=far).stderr, "")
        self.task("ls")  # on n1
        shown = self.waits_for(task, "cancelled", "failed")
        self.assertEqual((shown["state"], shown["runs"][0]["signal"]), ("cancelled", signal.SIGTERM))
        self.program("", "where-go")
        again = self.task("rerun", task, behind, box=far)
        self.assertEqual(again.returncode, 0, again.stderr)
        for each in (task, behind):
            self.assertEqual(self.waits_for(each, "done", "failed")["host"], "n2")
        with open(where, encoding="ascii") as file:
            self.assertEqual(file.read(), "n1\nn2\nn2\n")
        self.assertEqual(self.task("rm", task, behind, other).returncode, 0)


    def test_machine_is_gone(self):
        """A container has another name the next time: what ran in it is over when it is cancelled again and nothing is heard of it."""
        far = self.lab.host("n2")
        task, = self.submit("--by", "plain", "sleep", "1000")
        scrytest.wait_until(lambda: list(self.box.processes("sleep")), LONG)
        self.kill_runner()
        for _ in range(2):  # it writes what it uses
            self.assertIn("if there is no n1 any more, cancel it again", self.task("cancel", task, box=far).stderr)
        for name in ("scry", "sleep"):
            for pid in self.box.processes(name):
                os.kill(pid, signal.SIGKILL)
                scrytest.wait_until(lambda pid=pid: scrytest.process_gone(pid), LONG)
        records = os.path.join(self.show(task, far)["runs"][0]["directory"], "spool/records.jsonl")
        self.box.run(["touch", "-d", "10 minutes ago", records])
        said = self.task("cancel", task, box=far)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        shown = self.show(task, far)  # on n1 it would start the next runner
        self.assertEqual((shown["state"], shown["runs"][0]["state"]), ("cancelled", "cancelled"))
        self.fits("task", shown)
        self.assertEqual(self.task("rm", task, box=far).returncode, 0)


@scrytest.hasten(4)
class SlurmOverHosts(TaskCase, labtest.LabCase):
    """By sbatch over machines that share a home, without ssh."""
    hosts = ("n1", "n2", "n3")
    options = {"visible": True, "shared": True, "ssh": False}

    def test_open_mpi(self):
        slurm = slurmtest.Slurm(self.box, hosts=self.lab)
        self.addCleanup(slurm.close)
        if not mpitest.available("openmpi"):
            self.skipTest("no Open MPI")
        words = ("--by", "slurm", "-n", 4, "--hosts", "n2,n3", "--launcher=--ntasks-per-node=2")
        task, = self.submit(*words, "--trace", "all", "--wait", scrytest.example("stommel"), 16, 16, 2)
        self.assertEqual(self.first_calls(task), dict.fromkeys(range(4), "main"))
        report = json.loads(self.box.run(self.box.scry("report", "--json", self.show(task)["runs"][0]["job"])).stdout)
        self.assertEqual(report["host"], "n2")
        # without control groups Slurm may miss one whose parent it ends just then: so a rank ends with its parent
        task, = self.submit(*words, "sh", "-c", "trap '' TERM; exec setpriv --pdeathsig KILL sleep 1000")
        scrytest.wait_until(lambda: all(len(list(self.lab.host(name).processes("sleep"))) == 2 for name in ("n2", "n3")), LONG,
                            lambda: json.dumps(self.show(task)))
        self.assertEqual(self.task("cancel", task).returncode, 0)
        self.waits_for(task, "cancelled")
        scrytest.wait_until(lambda: not [host.name for host in self.lab for _ in host.processes("sleep")], LONG, slurm.said)


class OverHosts(TaskCase, labtest.LabCase):
    """Over machines that share no file system, by mpirun of either MPI."""
    hosts = ("n1", "n2", "n3")
    one_lab = True
    launchers = {"openmpi": ("--mca", "btl_tcp_if_include", "10.77.0.0/16"), "mpich": ()}

    def over(self, mpi, *words):
        if not mpitest.available(mpi):
            self.skipTest(f"no {mpi}")
        options = [f"--launcher={word}" for word in self.launchers[mpi]]
        return self.submit("-n", 4, "--hosts", "n2,n3", *options, *words)[0]

    def left(self):
        return [(host.name, pid) for host in self.lab for name in ("sleep", "orted", "hydra", "scry-parts")
                for pid in host.processes(name) if not scrytest.process_gone(pid)]

    def check(self, mpi, program, first="main"):
        """All ranks in one trace, each from its first call on; then all are ended, though they do not listen."""
        task = self.over(mpi, "--trace", "all", "--wait", program, 16, 16, 2)
        self.assertEqual(self.first_calls(task), dict.fromkeys(range(4), first))
        report = json.loads(self.box.run(self.box.scry("report", "--json", self.show(task)["runs"][0]["job"])).stdout)
        self.assertEqual([part["name"] for part in report["parts"]], ["n2", "n3"])
        task = self.over(mpi, "sh", "-c", "trap '' TERM; sleep 1000")
        scrytest.wait_until(lambda: all(len(list(self.lab.host(name).processes("sleep"))) == 2 for name in ("n2", "n3")), LONG,
                            lambda: json.dumps(self.show(task)))
        self.assertEqual(self.task("cancel", task).returncode, 0)
        self.waits_for(task, "cancelled")
        scrytest.wait_until(lambda: not self.left(), LONG, lambda: str(self.left()))

    def test_files_are_not_there(self):
        """Copied into the task, a program is only here."""
        program = scrytest.example("stommel")
        task = self.over("openmpi", "--file", program, "--wait", "stommel", 16, 16, 2)
        self.assertIn("; no rank began: its hosts need ", self.show(task)["error"]["text"])

    def test_open_mpi(self):
        self.check("openmpi", scrytest.example("stommel"))

    @scrytest.thorough
    def test_mpich(self):
        program = mpitest.over_hosts("mpich", os.path.join(scrytest.SOURCE, "examples", "stommel.c"))[-1]
        self.check("mpich", program, "MPI_Init")  # its functions are not instrumented


if __name__ == "__main__":
    scrytest.main()
