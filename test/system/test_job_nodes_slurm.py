# SPDX-License-Identifier: Apache-2.0
"""Jobs over several nodes of a Slurm."""

import json
import os
import time

import labtest
import mpitest
import scrytest
import slurmtest
from jobnodestest import Nodes


class Slurm(labtest.LabCase):
    """Tasks of srun make the parts, and what they have recorded comes home without ssh."""
    hosts = ("n1", "n2", "n3")
    options = {"visible": True, "ssh": False}
    one_lab = True
    slurm = None

    def make_daemons(self):
        cls = type(self)
        cls.slurm = slurmtest.Slurm(self.lab.host(self.hosts[0]), hosts=self.lab)
        cls.addClassCleanup(cls.slurm.close)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.slurm.take_back)
        self.job = self.lab.here("work", "job")

    def run_job(self, *command):
        return self.box.run(self.box.scry("run", "-q", "-o", self.job, "--", *command))

    def report(self):
        return json.loads(self.box.run(self.box.scry("report", "--json", self.job)).stdout)

    def test_parts_come_without_ssh(self):
        done = self.run_job("srun", "-N", 3, "-n", 3, self.lab.here("bin", "scry"), "exec", scrytest.example("threads"), 2, 0.1)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        parts = self.report()["parts"]
        self.assertEqual([part["name"] for part in parts], list(self.hosts))
        for part in parts:
            self.assertIsNone(part["incomplete"])
            self.assertIn("threads", [process["name"] for process in part["processes"]])
        for part in parts[1:]:
            clock = part["clock"]
            self.assertLessEqual(abs(clock["offset_ns"]), clock["bound_ns"])
        # nothing listens for them any more
        scrytest.wait_until(lambda: not [*self.box.processes("scry-link"), *self.box.processes("scry-parts")], 20)

    def test_two_steps_on_one_node(self):
        step = f"srun -N 1 -n 1 -w n2 --overlap --mem 0 {self.lab.here('bin', 'scry')} exec {scrytest.example('threads')} 2"
        done = self.run_job("salloc", "-Q", "-N", 1, "-w", "n2", "sh", "-c", f"{step} 0.1 & {step} 0.2; wait")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        parts = self.report()["parts"]
        self.assertEqual([part["name"] for part in parts], ["n2", "n2"])
        for part in parts:
            self.assertIsNone(part["incomplete"])
        self.assertEqual(sorted(process["argv"][-1] for part in parts for process in part["processes"] if process["name"] == "threads"),
                         ["0.1", "0.2"])

    start_job_when_told, set_and_go = Nodes.start_job_when_told, Nodes.set_and_go

    @scrytest.thorough
    def test_begins_after_scry_set(self):
        """A part that nobody here starts is told when it comes."""
        scry = self.lab.here("bin", "scry")
        job = self.box.start(self.box.scry("run", "-q", "-o", self.job, "--", "salloc", "-Q", "-N", 1, "-w", "n2", "sh", "-c",
                                           f"until [ -e {self.lab.here('work', 'go')} ]; do sleep 0.05; done; srun {scry} exec sleep 600"))
        self.set_and_go("sample=0.25")
        spool = self.box.path("work", "job", "parts", "n2", "spool", "records.jsonl")
        def told():
            if not os.path.exists(spool):
                return False
            with open(spool, encoding="utf-8") as file:
                return any(record["type"] == "setting" and record["value"] == "0.25" for record in map(json.loads, file.read().split("\n")[:-1]))
        scrytest.wait_until(told, 60, self.slurm.said)
        job.terminate()
        job.wait(60)

    def test_step_is_a_part(self):
        """With --scry, the tasks of a step in a followed job are of that job, whatever has started srun."""
        script = self.box.path("work", "steps.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"srun --scry=sample=0.5 -N 2 -n 4 -w n2,n3 sh -c 'echo $(basename $SCRY_JOB); sleep 0.1'\n")
        done = self.run_job("sh", self.lab.here("work", "steps.sh"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = self.report()
        self.assertEqual(done.stdout.split(), [report["id"]] * 4)
        self.assertEqual([part["name"] for part in report["parts"]], ["n2", "n3"])
        for part in report["parts"]:
            self.assertIn("sleep", [process["name"] for process in part["processes"]])
        for name in ("n2", "n3"):
            with open(self.box.path("work", "job", "parts", name, "job.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["sample_seconds"], 0.5)
            listed = json.loads(self.lab.host(name).run(self.box.scry("ps", "--all", "--json")).stdout)["jobs"]
            self.assertEqual([job["id"] for job in listed], [report["id"]])

    def need_mpi(self, mpi):
        if not mpitest.available(mpi):
            self.skipTest(f"needs {mpi}")

    def in_allocation(self, *command):
        done = self.run_job("sh", "-c", f"salloc -Q -N 2 -n 2 -w n2,n3 --mem 0 {' '.join(map(str, command))}")
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["n2", "n3"]), done.stderr)
        return self.report()

    def test_mpich_in_an_allocation(self):
        """MPICH finds out by itself that it is in one, and uses srun; what it was told before was in place of ssh."""
        self.need_mpi("mpich")
        report = self.in_allocation("mpirun.mpich", "-n", 2, "hostname")
        self.assertEqual([part["name"] for part in report["parts"]], ["n2", "n3"])

    def test_open_mpi_in_an_allocation(self):
        self.need_mpi("openmpi")
        report = self.in_allocation("mpirun.openmpi", "--allow-run-as-root", "-n", 2, "sh", "-c", "'hostname; sleep 2'")
        self.assertEqual([note["fields"]["node"] for note in report["warnings"] if note["note"] == "node_unwatched"], ["n2", "n3"])
        self.job = self.lab.here("work", "other")
        report = self.in_allocation("mpirun.openmpi", "--allow-run-as-root", "-n", 2, self.lab.here("bin", "scry"), "exec", "hostname")
        self.assertEqual([part["name"] for part in report["parts"]], ["n2", "n3"])
        self.assertEqual([note for note in report["warnings"] if note["note"] == "node_unwatched"], [])

    def test_within_a_batch_script(self):
        """The script has the number of a task, and srun with it; and the first node has a part beside the job itself."""
        script = f"#!/bin/sh\n{self.lab.here('bin', 'scry')} run -q -o {self.job} -- srun --scry -N 3 -n 3 sleep 600\n"
        number = self.slurm.submit("-N", "3", "-n", "3", script=script)
        said = []
        def asleep():
            said.append(self.box.run(self.box.scry("snapshot", self.job)).stdout)
            return "ranks 0-2 (3)  sleep" in said[-1]
        scrytest.wait_until(asleep, 60, lambda: f"{said[-1]}\n{self.slurm.said()}")
        self.assertIn(": 3 threads of 3 ranks on 3 of 3 nodes", said[-1])
        why = self.box.run(self.box.scry("why", self.job)).stdout
        self.assertRegex(why, r"(?s)Processes\n.*\(srun\).*\nits processes on n1, n2, n3 are not among these: scry snapshot \S+ says where they are$")
        self.slurm.run("scancel", str(number))
        self.slurm.ended(number, 60)
        scrytest.wait_until(lambda: "running" not in self.box.run(self.box.scry("ps")).stdout, 60, self.slurm.said)

    def test_ranks_beside_the_job(self):
        """Those of the first node's part are the job's, as those of the others."""
        self.need_mpi("mpich")
        program = mpitest.over_hosts("mpich", os.path.join(mpitest.TARGETS, "steady.c"), *self.hosts)[-1]
        script = f"#!/bin/sh\n{self.lab.here('bin', 'scry')} run -q -o {self.job} -- srun --scry -N 3 -n 3 {program}\n"
        number = self.slurm.submit("-N", "3", "-n", "3", script=script)
        said = []

        def hosts(*command):
            said.append(self.box.run(self.box.scry(*command)).stdout)
            found = json.loads(said[-1] or "{}")
            return sorted(rank["host"] for rank in found.get("jobs", [found])[0].get("ranks", []))

        for command in (("ps", "--json"), ("top", "--once", "--json", self.job)):
            scrytest.wait_until(lambda: os.path.exists(self.box.path("work", "job", "job.json")) and hosts(*command) == list(self.hosts), 60,
                                lambda: f"{said}\n{self.slurm.said()}")
        self.assertRegex(self.box.run(self.box.scry("ps")).stdout, r"(?m)^ +0 +n1 +\d+ [A-Z] +\d+% ")
        self.slurm.run("scancel", str(number))
        self.slurm.ended(number, 60)

    def test_lost_node(self):
        """Nothing comes from a node any more, and Slurm ends the step: the reason is the node, not the signal that the others got."""
        job = self.box.start(self.box.scry("run", "-q", "-o", self.job, "--", "srun", "--scry", "-N", 3, "-n", 3, "sleep", 600))
        spool = self.box.path("work", "job", "parts", "n3", "spool", "records.jsonl")
        def begun():
            if not os.path.exists(spool):
                return False
            with open(spool, encoding="utf-8") as file:
                return '"sleep"' in file.read()
        scrytest.wait_until(begun, 60, self.slurm.said)
        self.lab.cut("n3")
        self.addCleanup(self.slurm.run, "scontrol", "update", "NodeName=n3", "State=RESUME")
        self.addCleanup(self.lab.heal, "n3")
        scrytest.wait_until(lambda: time.time() - os.path.getmtime(spool) > 6, 60, "nothing comes from n3")
        self.slurm.run("scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=power")
        self.assertNotEqual(job.wait(120), 0)
        reason = self.report()["last"]["reason"]
        self.assertRegex(reason["text"], r"^probably node n3 was lost at [\d.]+ s: nothing was heard from it any more$")

    def test_step_with_jobs_of_its_own(self):
        done = self.run_job("srun", "--scry=each", "-N", 1, "-n", 3, "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([process["name"] for process in self.report()["processes"]], ["srun", "srun"])
        self.assertEqual(self.report()["parts"], [])


del Nodes
scrytest.main()
