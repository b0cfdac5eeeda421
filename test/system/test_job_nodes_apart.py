# SPDX-License-Identifier: Apache-2.0
"""Jobs over several nodes that share no file system, and of an ordinary user."""

import json
import os
import re
import shutil

import mpitest
import scrytest
from jobnodestest import HOSTS, SELF_MESSAGES, Nodes, sorted_lines


class OwnFiles(Nodes):
    """No file system is shared: the parts are brought over the network."""

    @mpitest.both
    def test_each_rank(self):
        done = self.run_job(self.over_hosts, options=["--log", "out.log=step"])
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        self.assertIn("warning    --log was watched on the node of scry run only: 3 other nodes of the job share no file system with it, "
                      "and out.log is not read there\n", done.stderr)
        scrytest.wait_until(self.is_whole, message=lambda: self.report()["parts"])
        self.check_whole(self.report(), os.path.basename(self.over_hosts), {"MPI_Init": 4, "MPI_Sendrecv": 4 * SELF_MESSAGES})
        for part in self.report()["parts"]:
            self.assertTrue(part["job"]["mirror"]["complete"])
            clock = part["clock"]  # hosts of a lab are one machine: the truth is no offset at all
            self.assertGreater(clock["bound_ns"], 0)
            self.assertLessEqual(abs(clock["offset_ns"]), clock["bound_ns"])

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_no_part(self):
        """What cannot come is not waited for, and the summary says whose it is."""
        if self.mpi != "openmpi":
            self.skipTest("one launcher is enough")
        for name in ("n1", "n4"):
            os.unlink(self.lab.host(name).path("bin", "scry"))
        shutil.copy(scrytest.built("src", "cli", "scry"), self.box.path("bin", "scry"))  # a path that no other node has
        done = self.run_job(*self.until_unwatched(self.over_hosts))
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        self.assertRegex(done.stderr, r"what ran on node n4 was not watched: .*scry doctor --node n4 says")
        note, = (note for note in self.report()["warnings"] if note["note"] == "node_unwatched")
        self.assertEqual(note["fields"]["node"], "n4")
        self.box.run(self.box.scry("rm", self.job))
        self.assertFalse(os.path.exists(self.box.path("work", "job")))

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_full_disk_on_a_node(self):
        """It stays full: the result is right, and the node is named."""
        if self.mpi != "openmpi":
            self.skipTest("one launcher is enough")
        node, jobs = self.lab.host("n2"), self.lab.here("jobs")
        for command in (["mount", "-t", "tmpfs", "-o", "size=40k", "full", jobs], ["sh", "-c", f"cat /dev/zero >{jobs}/all 2>/dev/null || :"]):
            self.assertEqual(node.run(command).returncode, 0)
        self.addCleanup(node.run, ["umount", "-l", jobs])
        done = self.run_job(*self.until_unwatched(self.over_hosts))
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        self.assertRegex(done.stderr, r"what ran on node n2 was not watched: nothing of the job was recorded there")
        self.assertEqual([part["name"] for part in self.report()["parts"]], ["n3", "n4"])

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_begins_after_scry_set(self):
        """A part has the options of the moment at which it begins."""
        if self.mpi != "openmpi":
            self.skipTest("one launcher is enough")
        launch = " ".join(self.launch("sleep", 600))
        job = self.start_job_when_told(launch)
        self.set_and_go("sample=0.25")
        descriptions = [self.box.path("work", "job", "parts", name, "job.json") for name in HOSTS[1:]]
        scrytest.wait_until(lambda: all(map(os.path.exists, descriptions)), 60, "the parts come")
        for path in descriptions:
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["sample_seconds"], 0.25)
        job.terminate()
        job.wait(60)

    @scrytest.thorough
    def test_program_missing_on_a_node(self):
        """What the launcher says of it is the reason, not how it ended the other ranks."""
        for name in HOSTS[:3]:
            os.symlink("/bin/sleep", self.lab.path(name, "work", "tool"))
        with open(self.box.path("work", "log"), "wb") as log:
            done = self.box.start(self.box.scry("run", "-q", "-o", self.job, "--", *self.launch(self.lab.here("work", "tool"), 3)),
                                  env=mpitest.QUIET, stdout=log, stderr=log).wait(90)
        self.assertNotEqual(done, 0)
        reason = self.report()["last"]["reason"]
        self.assertEqual(reason["note"], "cause_said", reason)
        self.assertRegex(reason["text"], "probably a program was not found: .*(unable to launch|execvp error)")

    def is_whole(self):
        parts = self.report()["parts"]
        return len(parts) == 3 and all(part["incomplete"] is None for part in parts)

    def spool(self, name):
        return self.box.path("work", "job", "parts", name, "spool", "records.jsonl")

    @mpitest.only("openmpi")
    def test_node_dies(self):
        """What was brought until then is reported, and what is missing is said."""
        if self.mpi != "openmpi":
            self.skipTest("MPICH may hang")
        self.hasten_home(5)
        job = self.start_job(scrytest.example("stommel"), 40, 40, 10 ** 7, options=["--sample", "0.1"])
        for name in HOSTS[1:]:
            scrytest.wait_until(lambda: os.path.exists(self.spool(name)) and "stommel" in open(self.spool(name), encoding="utf-8").read(),
                                30, f"something comes from {name}")
        self.lab.host("n3").kill_all()
        self.assertNotEqual(job.wait(60), 0)
        missing = lambda: [part["name"] for part in self.report()["parts"] if part["incomplete"]]
        scrytest.wait_until(lambda: missing() == ["n3"], 40, missing)
        parts = {part["name"]: part for part in self.report()["parts"]}
        self.assertEqual(sorted(parts), list(HOSTS[1:]))
        self.assertIn("stommel", [process["name"] for process in parts["n3"]["processes"]])
        text = self.box.run(self.box.scry("report", self.job)).stdout
        self.assertRegex(text, r"incomplete n3: its records end at ")
        self.assertNotIn("OMIS_", text)
        row, = json.loads(self.box.run(self.box.scry("ps", "--all", "--json")).stdout)["jobs"]
        self.assertEqual(row["cpu_seconds"], self.report()["all_nodes"]["cpu_seconds"])


    @mpitest.only("openmpi")
    def test_why_of_a_node_that_is_cut_off(self):
        """Those that wait for its ranks are told once, and what these did before is not said to be so now."""
        if self.mpi != "openmpi":
            self.skipTest("MPICH may hang")
        job = self.start_job(mpitest.target(self, "stuck.c", "-Wno-stringop-overflow"), "silent")
        why = lambda: self.box.run(self.box.scry("why", self.job)).stdout
        scrytest.wait_until(lambda: re.search(r"(?m)^3 ranks wait for rank 1, which is in sleep", why()), 60, why)
        self.lab.cut("n2")
        said = why()
        self.lab.heal("n2")
        self.assertRegex(said, r"(?m)^4 ranks: 3 wait, 0 compute, 1 is on nodes that do not answer$")
        self.assertRegex(said, r"(?m)^3 ranks wait for rank 1 on node n2, which does not answer: for [\d.]+ s nothing is known of it$")
        self.assertRegex(said, r"(?m)^  rank 1 \(n2, process \d+\): computes \(when it was heard of last\)")
        self.assertRegex(said, r"(?m)^note: node n2 cannot be asked: [^;]*; node n2: what 1 rank is in is [\d.]+ s old$")
        job.terminate()
        job.wait(60)


class OrdinaryUser(Nodes):
    """Nothing of it needs root, on any node."""
    options = {"ordinary": True}

    @mpitest.only("openmpi")
    def test_each_rank(self):
        done = self.run_job(self.over_hosts)
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        scrytest.wait_until(lambda: len(self.report()["parts"]) == 3 and not any(part["incomplete"] for part in self.report()["parts"]), 60)
        self.check_whole(self.report(), os.path.basename(self.over_hosts), {"MPI_Init": 4, "MPI_Sendrecv": 4 * SELF_MESSAGES})
        self.assertEqual({part["job"]["user"] for part in self.report()["parts"]}, {self.lab.user.pw_name})


mpitest.for_each_mpi(OwnFiles, globals())
mpitest.for_each_mpi(OrdinaryUser, globals())
del Nodes
scrytest.main()
