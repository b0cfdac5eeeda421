# SPDX-License-Identifier: Apache-2.0
"""Jobs over several nodes: MPI programs on four hosts, started by the launchers of Open MPI and MPICH by ssh. What comes of
them is what comes without scry, and all ranks are in one report, with exact counts.

Over TCP, MPICH 4.0 with UCX may hang in MPI_Finalize, with and without scry. So its ranks exchange nothing with each other."""

import json
import os
import re
import shutil

import labtest
import mpitest
import scrytest
import slurmtest
import viewtest

HOSTS = ("n1", "n2", "n3", "n4")
LAUNCH = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--host", ",".join(HOSTS), "--mca", "btl_tcp_if_include", "10.77.0.0/16"],
    "mpich": ["mpirun.mpich", "-hosts", ",".join(HOSTS)],
}
STEPS = 100
SELF_MESSAGES = 10


def sorted_lines(text):
    """What a program says, without the times of stommel; lines of ranks come in any order."""
    return sorted(re.sub(r" +\d+\.\d+ s$", "", text, flags=re.MULTILINE).splitlines())


class Nodes(labtest.LabCase):
    mpi = None
    hosts = HOSTS
    one_lab = True

    def setUp(self):
        mpitest.need(self)
        super().setUp()
        self.over_hosts = mpitest.target(self, "over_hosts.c")
        self.job = self.lab.here("work", "job")

    def launch(self, *program):
        return [*LAUNCH[self.mpi], "-n", str(len(HOSTS)), *map(str, program)]

    def plain(self, *program):
        return self.box.run(self.launch(*program), env=mpitest.QUIET)

    def run_job(self, *program, options=()):
        return self.box.run(self.box.scry("run", "-o", self.job, *options, "--", *self.launch(*program)), env=mpitest.QUIET)

    def until_unwatched(self, program):
        """The program, which on n1 does not end before it is known of which node nothing comes: at its end scry run waits for that
        3 s, and a busy machine may take longer."""
        return ["sh", "-c", f"""{program}; status=$?
[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 0 ] && for look in $(seq 600); do [ -s {self.job}/parts/.unwatched ] && break; sleep 0.1; done
exit $status"""]

    def start_job(self, *program, options=()):
        return self.box.start(self.box.scry("run", "-q", "-o", self.job, *options, "--", *self.launch(*program)),
                              env=mpitest.QUIET)

    def start_job_when_told(self, command):
        return self.box.start(self.box.scry("run", "-q", "-o", self.job, "--", "sh", "-c",
                                            f"until [ -e {self.lab.here('work', 'go')} ]; do sleep 0.05; done; exec {command}"),
                              env=mpitest.QUIET)

    def set_and_go(self, *settings):
        scrytest.wait_until(lambda: self.box.run(self.box.scry("set", self.job, *settings)).returncode == 0, 60, "scry set")
        changed = self.box.path("work", "job", "parts", ".options")
        scrytest.wait_until(lambda: os.path.exists(changed), 60, "the job has the setting")
        with open(self.box.path("work", "go"), "w", encoding="ascii"):
            pass

    def report(self):
        done = self.box.run(self.box.scry("report", "--json", self.job))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_whole(self, report, program, calls):
        """Four ranks on four nodes, each process known to its end, with these calls of MPI."""
        mpi = report["mpi"]
        self.assertEqual([(rank["rank"], rank["node"]) for rank in mpi["ranks"]], list(enumerate(HOSTS)))
        self.assertEqual([part["name"] for part in report["parts"]], list(HOSTS[1:]))
        for part in report["parts"]:
            self.assertIsNone(part["incomplete"])
            self.assertEqual(part["job"]["id"], report["id"])
            self.assertTrue(part["health"]["curves"])
            process, = (each for each in part["processes"] if each["name"] == program[:15])
            self.assertEqual((process["node"], process["exit_code"]), (part["name"], 0))
        counted = {row["name"]: row["calls"] for row in mpi["calls"]}
        self.assertEqual({name: counted[name] for name in calls}, calls)
        self.assertEqual(report["left_running"], 0)


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
        self.assertRegex(done.stderr, r"time .* cpu .* on all nodes .*\n +memory .* as the sum of the nodes' peaks\n")
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

    @mpitest.both
    def test_failure_is_as_without_scry(self):
        plain = self.plain(self.over_hosts, 3)
        done = self.run_job(self.over_hosts, 3)
        self.assertEqual(done.returncode, plain.returncode)
        self.assertEqual({part["failed"]["count"] for part in self.report()["parts"]} - {0, 1, 2, 3}, set())

    @mpitest.both
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

    @mpitest.both
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


class OrdinaryUser(Nodes):
    """Nothing of it needs root, on any node."""
    options = {"ordinary": True}

    @mpitest.both
    def test_each_rank(self):
        done = self.run_job(self.over_hosts)
        self.assertEqual((done.returncode, sorted_lines(done.stdout)), (0, [f"rank {i} got 9" for i in range(4)]), done.stderr)
        scrytest.wait_until(lambda: len(self.report()["parts"]) == 3 and not any(part["incomplete"] for part in self.report()["parts"]), 60)
        self.check_whole(self.report(), os.path.basename(self.over_hosts), {"MPI_Init": 4, "MPI_Sendrecv": 4 * SELF_MESSAGES})
        self.assertEqual({part["job"]["user"] for part in self.report()["parts"]}, {self.lab.user.pw_name})


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

    def test_step_with_jobs_of_its_own(self):
        done = self.run_job("srun", "--scry=each", "-N", 1, "-n", 3, "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([process["name"] for process in self.report()["processes"]], ["srun", "srun"])
        self.assertEqual(self.report()["parts"], [])


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
mpitest.for_each_mpi(OwnFiles, globals())
mpitest.for_each_mpi(OrdinaryUser, globals())
del Nodes
scrytest.main()
