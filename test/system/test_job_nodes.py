# SPDX-License-Identifier: Apache-2.0
"""Jobs over several nodes that share a file system; and of one on one machine, for which nothing listens. Where nothing is shared:
test_job_nodes_apart.py; by Slurm: test_job_nodes_slurm.py."""

import json
import os
import shutil

import mpitest
import scrytest
import viewtest
from jobnodestest import HOSTS, SELF_MESSAGES, STEPS, Nodes, sorted_lines


class Shared(Nodes):
    options = {"shared": True}

    @mpitest.only("openmpi")
    def test_result_and_report(self):
        if self.mpi != "openmpi":
            self.skipTest("MPICH may hang in MPI_Finalize")
        stommel = [scrytest.example("stommel"), 40, 40, STEPS]
        plain = self.plain(*stommel)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        done = self.run_job(*stommel, options=["--trace=file:stommel.c", "--mpi=trace"])
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, sorted_lines(plain.stdout)), done.stderr)
        self.assertIn("nodes      4: n1, n2, n3, n4\n", done.stderr)
        self.assertRegex(done.stderr, r"time .* cpu .* on all nodes .*\n +memory .* as the sum of the nodes' peaks( \(.* if shared pages count for each process\))?\n")
        self.assertRegex(done.stderr, r"processes  \d+ on all nodes, at most \d+ at once on one")
        self.assertRegex(done.stderr, r"commands .*stommel x 4 ")
        report = self.report()
        nodes = [report, *(part["job"] for part in report["parts"])]
        for total, each in ("cpu_seconds", "cpu_seconds"), ("process_count", "process_count"), ("sum_of_peaks_bytes", "peak_tree_rss_bytes"):
            self.assertAlmostEqual(report["all_nodes"][total], sum(node[each] for node in nodes))
        self.check_whole(report, "stommel", {"MPI_Init": 4, "MPI_Sendrecv": 16 * STEPS})
        functions = {row["name"]: row["calls"] for row in report["functions"]}
        self.assertEqual(functions["do_transfer"], 4 * STEPS)
        self.assertEqual((report["mpi_trace"]["unreceived"], report["mpi_trace"]["unsent"]), (0, 0))
        text = self.box.run(self.box.scry("watch", "--stream", "process", self.job)).stdout
        for node in HOSTS[1:]:
            self.assertRegex(text, rf"process   {node}: \d+ stommel ended: ")
        self.box.run(self.box.scry("rm", self.job))
        self.assertFalse(os.path.exists(self.lab.path("shared", "work", "job")))

    @mpitest.both
    def test_each_rank(self):
        done = self.run_job(self.over_hosts, options=["--log", "out.log=step"])
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        self.assertNotIn("--log was watched", done.stderr)
        self.check_whole(self.report(), os.path.basename(self.over_hosts), {"MPI_Init": 4, "MPI_Sendrecv": 4 * SELF_MESSAGES})
        for arguments, said in ((("--rank", "2", self.job), r"no file of rank 2 is here \(it ran on n3: look there, too\)"),
                                ((os.path.join(self.job, "parts", "n2"),), rf"goes to the launcher, where the job began: scry logs {self.job}\n")):
            self.assertRegex(self.box.run(self.box.scry("logs", *arguments)).stderr, said)

    @mpitest.both
    def test_said(self):
        """Numbers that ranks say themselves are heard on each node, also of MPICH, which gives all of them the environment of the first."""
        source = os.path.join(scrytest.SOURCE, "test", "system", "targets", "says.c")
        says = scrytest.compiled("says", ["cc", "-O2", "-I", os.path.join(scrytest.SOURCE, "include"), source, "-lpthread"], source)
        done = self.run_job(says, "10")
        self.assertEqual(done.returncode, 0, done.stderr)
        for job in self.job, *(os.path.join(self.job, "parts", name) for name in HOSTS[1:]):
            report = json.loads(self.box.run(self.box.scry("report", "--json", job)).stdout)
            self.assertEqual({one["name"]: one["values"] for one in report["logs"]["metrics"]}, {"loss": 10, "energy": 4, "signals": 1, "odd": 0}, job)

    @scrytest.thorough
    @mpitest.only("openmpi")
    def test_clocks(self):
        """Parts that nobody has to bring have their clocks compared all the same."""
        if self.mpi != "openmpi":
            self.skipTest("one launcher is enough")
        self.hasten_home(4)
        job = self.start_job("sleep", 600)
        clocks = [self.lab.path("shared", "work", "job", "parts", name, "clock.json") for name in HOSTS[1:]]
        scrytest.wait_until(lambda: all(map(os.path.exists, clocks)), 60, lambda: f"{clocks}\n{self.lab.said()}")
        for part in self.report()["parts"]:
            self.assertGreater(part["clock"]["bound_ns"], 0)
            self.assertLessEqual(abs(part["clock"]["offset_ns"]), part["clock"]["bound_ns"])
            self.assertIsNone(part["job"]["mirror"])
        job.terminate()
        job.wait(60)

    @scrytest.thorough
    @mpitest.both
    def test_failure_is_as_without_scry(self):
        plain = self.plain(self.over_hosts, 3)
        done = self.run_job(self.over_hosts, 3)
        self.assertEqual(done.returncode, plain.returncode)
        self.assertEqual({part["failed"]["count"] for part in self.report()["parts"]} - {0, 1, 2, 3}, set())

    @mpitest.only("openmpi")
    def test_reason_elsewhere(self):
        """A rank crashes, and the launcher ends the others: the reason is the former."""
        script = os.path.join(self.box.path("work"), "rank.sh")
        with open(script, "w", encoding="ascii") as file:
            # One that is seen while it lives: of others a container does not say how they ended.
            file.write(f'[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 2 ] && exec {scrytest.example("crash")} null main 1\nsleep 60\n')
        done = self.run_job("sh", self.lab.here("work", "rank.sh"))
        self.assertIn("reason     on node n3: crash crashed by SIGSEGV", done.stderr)
        self.assertRegex(done.stderr, r"failed     crash \(pid \d+\) SIGSEGV at .* on node n3")
        report = self.report()
        there = report["failed_elsewhere"]
        self.assertEqual((there["node"], there["chain"][0]["name"]), ("n3", "crash"))
        self.assertEqual(there["chain"][-1]["pid"], 0)
        self.assertEqual(report["last"]["reason"]["note"], "cause_crash")

    @mpitest.only("openmpi")
    def test_rank_elsewhere(self):
        """The first rank that failed is named with its node, also where its launcher says nothing of it."""
        script = os.path.join(self.box.path("work"), "rank.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write(f'[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 2 ] && exec {self.over_hosts} crash\nexec {self.over_hosts} wait\n')
        self.run_job("sh", self.lab.here("work", "rank.sh"))
        report = self.report()
        self.assertRegex(report["last"]["reason"]["text"], r"^rank 2 of 4 on node n3 was killed by SIGSEGV")
        self.assertEqual((report["failed_elsewhere"]["node"], report["failed_elsewhere"]["chain"][0]["signal"]), ("n3", 11))

    @mpitest.only("openmpi")
    def test_lost_node(self):
        """All that runs on a node is gone at once: the reason names the node and its ranks, not the launcher's ssh."""
        job = self.start_job(self.over_hosts, "wait")
        for _ in HOSTS:
            self.assertRegex(job.stdout.readline(), "rank . got 9")
        spool = self.box.path("work", "job", "parts", "n3", "spool", "records.jsonl")
        scrytest.wait_until(lambda: os.path.exists(spool) and os.path.getsize(spool), 60, "n3 is known")
        self.lab.host("n3").kill_all()
        self.assertNotEqual(job.wait(120), 0)
        report = self.report()
        reason = report["last"]["reason"]
        self.assertEqual(reason["note"], "cause_node_lost", reason)
        self.assertEqual([rank["rank"] for rank in report["mpi"]["ranks"] if rank["state"] == "running" or (rank["end"] or {}).get("first")], [],
                         [{key: rank[key] for key in ("rank", "node", "state", "end")} for rank in report["mpi"]["ranks"]] +
                         [{key: part.get(key) for key in ("name", "state", "ended")} for part in report["parts"]])
        self.assertRegex(reason["text"], r"^node n3 was lost at [\d.]+ s: nothing was heard from it any more, with rank 2$")
        self.assertNotRegex(self.box.run(self.box.scry("report", self.job)).stdout, "it still r[au]n|the first of|inside of MPI_Init")

    @mpitest.only("mpich")
    def test_exec_makes_a_part(self):
        """Where the launcher's daemons are not started by scry-rsh: the programs have the environment of the job."""
        if self.mpi != "mpich":
            self.skipTest("Open MPI hands on no environment")
        launch = self.launch(self.lab.here("bin", "scry"), "exec", self.over_hosts)
        launch[launch.index("-n") + 1] = "6"
        done = self.box.run(self.box.scry("run", "-q", "-o", self.job, "--", "env", "-u", "HYDRA_LAUNCHER_EXEC", *launch))
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(6)]), done.stderr)
        report = self.report()
        self.assertEqual([part["name"] for part in report["parts"]], list(HOSTS[1:]))
        self.assertEqual([rank["rank"] for rank in report["mpi"]["ranks"]], list(range(6)))

    @scrytest.thorough
    @mpitest.both
    def test_without_scry_elsewhere(self):
        """A node on which there is no scry does its part of the job all the same."""
        for name in ("n1", "n4"):
            os.unlink(self.lab.host(name).path("bin", "scry"))
        shutil.copy(scrytest.built("src", "cli", "scry"), self.box.path("bin", "scry"))  # a path that no other node has
        done = self.run_job(*self.until_unwatched(self.over_hosts))
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        self.assertRegex(done.stderr, r"what ran on node n4 was not watched: .*scry doctor --node n4 says")
        report = self.report()
        self.assertEqual([part["name"] for part in report["parts"]], ["n2", "n3"])
        self.assertEqual([rank["rank"] for rank in report["mpi"]["ranks"]], [0, 1, 2])
        self.assertEqual([note["fields"]["node"] for note in report["warnings"] if note["note"] == "node_unwatched"], ["n4"])


class Pictures(Nodes):
    options = {"shared": True, "walls": {"n3": -3}}

    @mpitest.only("openmpi")
    def test_pictures(self):
        """The ranks of all nodes are in one picture, by clocks that agree; what of it is missing is said, and the rest is there."""
        if self.mpi != "openmpi":
            self.skipTest("MPICH may hang in MPI_Finalize")
        done = self.run_job(scrytest.example("stommel"), 40, 40, STEPS, options=["--trace=file:stommel.c", "--mpi=trace"])
        self.assertEqual(done.returncode, 0, done.stderr)
        with viewtest.View(self.box, self.job) as view:
            picture = view.picture()
            self.assertEqual([(lane["rank"], lane["node"]) for lane in picture["lanes"][:4]], list(enumerate(HOSTS)))
            self.assertEqual((picture["messages"], picture["notes"]), (8 * STEPS, []))
            self.assertGreater(picture["clock_bound_ns"], 0)
            self.assertLess(picture["clock_bound_ns"], 10 ** 9)
            flat = view.ask("tiles", level=0, index=0)["messages"]
            self.assertTrue(flat)
            for sent, received in zip(flat[2::5], flat[3::5]):
                self.assertLess(picture["from_ns"], sent)
                self.assertLess(sent, received + 2 * picture["clock_bound_ns"])
                self.assertLess(received - sent, 10 ** 9)  # the clock of n3 is three seconds behind
        part = self.lab.path("shared", "work", "job", "parts", "n3")
        stream = next(os.path.join(folder, name) for folder, _, names in os.walk(part) for name in names if name.startswith("stream-"))
        with open(stream, "rb") as file:
            whole = file.read()
        for damaged in (b"", whole[:len(whole) // 3], whole[:100] + bytes(byte ^ 0x5a for byte in whole[100:])):
            with open(stream, "wb") as file:
                file.write(damaged)
            self.check_rest()
        shutil.rmtree(part)
        self.check_rest("1 of 4 ranks have no trace in the job directory: they are left out")

    def check_rest(self, note=None):
        """Without what n3 has."""
        with viewtest.View(self.box, self.job) as view:
            picture = view.picture()
            ranks = [(lane["rank"], lane["node"]) for lane in picture["lanes"] if lane["rank"] in (0, 1, 3)]
            self.assertEqual(ranks, [(0, "n1"), (1, "n2"), (3, "n4")])
            self.assertTrue(picture["notes"] == [note] if note else picture["notes"], picture["notes"])
            self.assertGreater(picture["messages"], 0)
            for question, members in (("selection", {}), ("profile", {}), ("volume", {}), ("tree", {}), ("search", {"function": "MPI_*"})):
                view.ask(question, **members)


class OneMachine(scrytest.TestCase):
    def test_nothing_listens(self):
        job = self.box.start(self.box.scry("run", "-q", "--", "sleep", 60))
        scrytest.wait_until(lambda: self.box.monitor_pid())
        environment = scrytest.wait_until(lambda: self.environment_of_sleep(job), message="the command is started")
        self.assertNotIn(b"SCRY_JOIN=", environment)
        self.assertEqual([*self.box.processes("scry-link"), *self.box.processes("scry-parts")], [])
        job.terminate()
        job.wait()

    def environment_of_sleep(self, job):
        for pid in scrytest.children(job.pid):
            if scrytest.process_command_line(pid).startswith(b"sleep"):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    return file.read()
        return None


mpitest.for_each_mpi(Shared, globals())
mpitest.for_each_mpi(Pictures, globals())
del Nodes
scrytest.main()
