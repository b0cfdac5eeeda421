# SPDX-License-Identifier: Apache-2.0
"""scry snapshot, scry why and scry set of a job on several nodes: each says of all nodes what it says of one."""

import glob
import json
import os
import re
import shutil
import subprocess

import labtest
import mpitest
import schematest
import screentest
import scrytest

HOSTS = ("n1", "n2", "n3")
LAUNCH = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--mca", "btl_tcp_if_include", "10.77.0.0/16", "--map-by", "node",
                "--host", ",".join(f"{name}:4" for name in HOSTS)],
    "mpich": ["mpirun.mpich", "-hosts", ",".join(HOSTS)],
}
MAIN = ("--thread", "main")

PYTHON = """\
from mpi4py import MPI
def busy():
    while True:
        pass
def main():
    if MPI.COMM_WORLD.rank == 1:
        busy()
    else:
        MPI.COMM_WORLD.Barrier()
main()
"""


class Nodes(labtest.LabCase):
    mpi = "openmpi"
    hosts = HOSTS
    one_lab = True

    def setUp(self):
        mpitest.need(self)
        super().setUp()
        self.path = self.lab.here("work", "job")

    def start_ranks(self, *program, ranks=len(HOSTS), options=()):
        command = [*LAUNCH[self.mpi], "-n", str(ranks), *map(str, program)]
        self.job = self.box.start(self.box.scry("run", "-q", "-o", self.path, *options, "--", *command), env=mpitest.QUIET)
        for host in self.lab:
            self.addCleanup(host.kill_case)

    def not_shared(self):
        """What ranks say does not depend on where their job directory is."""
        if self.lab.shared and not scrytest.THOROUGH:
            self.skipTest("in thorough runs: it is as without a shared file system")

    def ask(self, command, *options):
        done = self.box.run(self.box.scry(command, *options, self.path))
        return done.stdout + done.stderr

    def lines(self, command, *patterns, options=()):
        """What it prints, once it has a line that matches each pattern."""
        said = []

        def found():
            said.append(self.ask(command, *options))
            return all(re.search(each, said[-1], re.M) for each in patterns)

        scrytest.wait_until(found, 40, lambda: f"{patterns}:\n{said[-1]}\n{self.lab.said()}")
        return said[-1]

    def answer(self, command, *options):
        done = self.box.run(self.box.scry(command, "--json", *options, self.path))
        self.assertTrue(done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(list(schematest.violations(answer, schematest.schema(command))), [])
        return answer

    def program(self, name):
        return mpitest.example(name, self.mpi)


@scrytest.hasten(3)
class Apart(Nodes):
    """No file system is shared."""

    def test_straggler(self):
        if self.mpi == "mpich":
            self.not_shared()
        self.start_ranks(self.program("mpi_straggler"), options=["--trace", "fn:nothing"])
        text = self.lines("snapshot", r"^ranks 0,2 \(2\)  main \(mpi_straggler.c:\d+\) > MPI_Allreduce",
                          r"^rank 1  .*large_part .*, runs$", options=MAIN)
        self.assertIn("3 threads of 3 ranks on 3 of 3 nodes", text)
        answer = self.answer("snapshot")
        self.assertEqual([(each["rank"], each["host"]) for each in answer["processes"]][:3], list(enumerate(HOSTS)))
        self.assertEqual([each["problem"] for each in answer["hosts"]], [None] * 3)
        self.check_why()
        if self.mpi == "openmpi":  # whose library it is does not matter
            self.check_values_and_files()
            self.check_cut()

    def check_why(self):
        text = self.lines("why", r"^2 ranks wait for rank 1, which computes$", r"rank 1 \(n2, .*computes: in large_part \(mpi_straggler.c:\d+\)")
        self.assertNotIn("note:", text)
        self.assertIn("MPI_Allreduce of 8 B on MPI_COMM_WORLD (collective 1), at main (mpi_straggler.c:49)", text)

    def check_values_and_files(self):
        text = self.lines("snapshot", r"^ranks 0,2 \(2\)  main .*MPI_Allreduce", r"rank: 0, 2; .*slow = 1 \(all\)",
                          r"^ranks 0-2 \(3\)  \d+ sockets$", options=("--values", "--files", "--rank", "0-2", *MAIN))
        self.assertIn("on 3 of 3 nodes", text)
        self.assertNotIn("note:", text)

    def check_cut(self):
        """All ask at the same time: each waits for the node that is cut off as long as the others."""
        self.lab.cut("n3")
        asked = {command[0]: self.box.start(self.box.scry(*command), stderr=subprocess.STDOUT)
                 for command in (("snapshot", *MAIN, self.path), ("why", self.path), ("set", self.path, "trace=fn:main"))}
        said = {name: process.communicate(timeout=40 * scrytest.SCALE)[0] for name, process in asked.items()}
        if "(callers are not known)" in said["snapshot"]:  # of a thread that runs while it is read, at times
            said["snapshot"] = self.lines("snapshot", r"^rank 0  main ", options=MAIN)
        self.lab.heal("n3")
        self.assertRegex(said["snapshot"], r"(?m)^rank 0  main \(mpi_straggler.c:\d+\) > MPI_Allreduce")
        self.assertRegex(said["snapshot"], r"(?m)^rank 1  .*large_part .*, runs$")
        self.assertIn("on 2 of 3 nodes", said["snapshot"])
        self.assertRegex(said["snapshot"], r"(?m)^note: node n3 is missing: ")
        self.assertRegex(said["why"], r"note: node n3 ")
        self.assertEqual(asked["set"].returncode, 1)
        self.assertRegex(said["set"], r"^scry set: .*node n3 .*answer")
        self.assertEqual({name: value for name, value in self.selections().items() if name != "n3"}, {"n1": "fn:main", "n2": "fn:main"})
        self.lines("snapshot", r"on 3 of 3 nodes", options=MAIN)

    @mpitest.only("openmpi")
    def test_ps(self):
        """Ranks of other nodes are there soon, not only when their nodes write what has changed."""
        self.start_ranks(self.program("mpi_straggler"))
        said = []

        def count():
            done = self.box.run(self.box.scry("ps", "--json"))
            self.assertEqual(done.returncode, 0, done.stderr)
            said.append([(rank["rank"], rank["host"]) for job in json.loads(done.stdout)["jobs"] for rank in job.get("ranks", ())])
            return done.stderr or len(said[-1])  # a node that is slow to begin may be told as missing

        scrytest.wait_until(lambda: count() == len(HOSTS), 40, lambda: said[-1])
        self.assertEqual(said[-1], list(enumerate(HOSTS)))

    @mpitest.only("openmpi")
    def test_live(self):
        """ps and top say of all nodes what is now, in sums, too; and of one that is silent that it is."""
        self.start_ranks(self.program("mpi_straggler"), options=["--sample", "0.2"])
        said = [None]

        def top():
            if not all(os.path.exists(self.box.path("work", "job", *each)) for each in (("job.json",), ("spool", "records.jsonl"))):
                return None
            said[0] = self.answer("top")
            return said[0]

        def live():
            if not top():
                return False
            ranks, tree = said[0]["ranks"], said[0]["tree"]
            return [(rank["host"], rank["state"] in ("in_call", "computing"), rank["old_seconds"]) for rank in ranks] == \
                [(host, True, 0) for host in HOSTS] and tree["processes"] == len(said[0]["processes"]) and \
                {process["node"] for process in said[0]["processes"]} == {None, *HOSTS[1:]}

        scrytest.wait_until(live, 60, lambda: said[0])
        self.assertEqual(said[0]["silent"], [])
        text = self.box.run(self.box.scry("top", "--once", self.path)).stdout
        self.assertRegex(text, r"(?m)^cpu +\d+\.\d\d now +mem .* now +on 3 nodes$")
        listed, = json.loads(self.box.run(self.box.scry("ps", "--json")).stdout)["jobs"]
        self.assertEqual([(rank["host"], rank["old_seconds"]) for rank in listed["ranks"]], [(host, 0) for host in HOSTS])
        # of a rank that has just begun its node may not have said more than what it does
        shown = []

        def used():
            shown.append(self.box.run(self.box.scry("ps")).stdout)
            return re.search(r"(?m)^ +1 +n2 .* [A-Z] +\d+% .*computing", shown[-1])
        scrytest.wait_until(used, message=lambda: shown[-1])
        # what is shown of a node that is silent is what it brought last
        scrytest.wait_until(lambda: glob.glob(self.box.path("work", "job", "parts", "n3", "stats", "n3", "*.json")), 60)
        self.lab.cut("n3")
        self.check_not_held_up()
        done = self.box.run(self.box.scry("ps"))
        self.assertRegex(done.stderr, r"^scry ps: warning: job \S+: node n3 (cannot be asked|does not answer): ")
        self.assertRegex(done.stdout, r"(?m)^ +2 +n3 .* ago\)$")
        # What n3 writes down is on a disk that both share.
        silent = [] if self.lab.shared else ["n3"]
        scrytest.wait_until(lambda: [each["node"] for each in top()["silent"]] == silent, 60, lambda: said[0])

        def told():
            """The round in which n3 turns out to be silent may make n2 late, once."""
            shown.append(self.box.run(self.box.scry("top", "--once", self.path)).stdout)
            return re.findall(r"(?m)^node +(n\d) .* not heard for ", shown[-1]) == silent
        scrytest.wait_until(told, message=lambda: shown[-1])
        self.assertRegex(shown[-1], r"(?m)^node n3 (cannot be asked|does not answer): ")
        self.lab.heal("n3")
        scrytest.wait_until(live, 60, lambda: said[0])

    def check_not_held_up(self):
        """Pictures go on while a node that is cut off is asked, which takes seconds."""
        screen = screentest.Screen(self.box, "top", self.path)
        self.addCleanup(screen.close)

        def drawn():
            screen.read()
            return len(screen.pictures()) >= 4
        scrytest.wait_until(drawn, 60, "four pictures")
        self.assertEqual([picture for picture in screen.pictures()[:4] if re.search(rb"cannot be asked|does not answer", picture)], [])
        scrytest.wait_until(lambda: screen.read() or re.search(r"(?m)^node n3 (cannot be asked|does not answer): ", screen.picture()), 60,
                            lambda: screen.picture())
        screen.type(b"q")

    @mpitest.only("openmpi")
    def test_queues(self):
        self.not_shared()
        self.start_ranks(scrytest.built("test", "system", "targets", "mpi_served"), self.lab.here("work", "release"))
        text = self.lines("snapshot", r"^rank 0  MPI_Irecv from any rank, tag 7, 64 B, begun ", r"on 3 of 3 nodes",
                          options=("--queues", *MAIN))
        self.assertEqual(text.count("note:"), 1, text)  # messages are not counted

    @mpitest.only("openmpi")
    def test_deadlock(self):
        self.not_shared()
        self.start_ranks(self.program("mpi_deadlock"))
        text = self.lines("why", r"^deadlock: 3 ranks wait for each other in a circle$",
                          r"^  rank 1 \(n2, .*MPI_Send of 7.6 MB to rank 2, tag 7 on MPI_COMM_WORLD, at exchange \(mpi_deadlock.c:17\)")
        self.assertNotIn("note:", text)
        answer = self.answer("why")
        self.assertEqual([each["kind"] for each in answer["mpi"]["findings"]], ["deadlock"])
        self.assertEqual([each["node"] for each in answer["mpi"]["ranks"]], list(HOSTS))
        self.check_request()

    def check_request(self):
        """Any tool that has the nodes gets one graph, from one request; one that has not gets that of this node."""
        request = f': mpi_get_wait_graph("{os.path.basename(self.path)}")'
        with self.box.omis() as omis:
            here = omis.request(request).result()
            self.assertTrue(omis.request(": " + " ".join(f'node_attach2("{name}")' for name in HOSTS), timeout=60).ok())
            graph = []

            def found():
                graph.append(omis.request(request, timeout=60).result())
                return '"deadlock",[' in graph[-1]

            scrytest.wait_until(found, 40, lambda: graph[-1])
            self.assertNotIn("note:", graph[-1])
            self.assertEqual(sorted(re.findall(r'n_\d+,"(n\d)",(\d+),\d+,"(.*?)"', graph[-1])), [(name, "1", "") for name in HOSTS])
            self.assertRegex(here, r'\[n_1,"n1",1,\d+,""\]$')
            # Each node knows its part by the name of the job.
            for name in (self.box.run(["realpath", self.path]).stdout.strip(), os.path.basename(self.path)):
                reply = omis.request(f': mpi_get_ranks("{name}")', timeout=60)
                self.assertTrue(reply.ok(), reply)
                rows = [entry["result"] for entry in reply.results(1)]
                self.assertEqual(sorted(re.findall(r'"(n\d)",\d+,"openmpi"', " ".join(rows))), list(HOSTS), rows)
                self.assertTrue(omis.request(f': mpi_flush("{name}")', timeout=60).ok())

    @mpitest.only("openmpi")
    def test_python(self):
        self.not_shared()
        if self.mpi != "openmpi":
            self.skipTest("Debian's python3-mpi4py is for Open MPI")
        if self.box.run(["/usr/bin/python3", "-c", "import mpi4py"]).returncode:
            self.skipTest("needs python3-mpi4py")
        path = self.lab.path("wait.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(PYTHON)
        for host in self.lab:
            shutil.copy(path, host.path("work"))
        self.start_ranks("/usr/bin/python3", self.lab.here("work", "wait.py"))
        self.lines("snapshot", r"^ranks 0-2 \(3\)  <module> \(wait.py:10\)$", r"^  ranks 0,2 .*main \(wait.py:9\) > MPI_Barrier",
                   r"^  rank 1  .*> busy \(wait.py:\d\)", options=MAIN)
        self.lines("why", r"^2 ranks wait for rank 1, which computes$", r"rank 1 \(n2, .*computes: in busy \(wait.py:\d\)",
                   r"MPI_Barrier .*, called by main \(wait.py:9\)")

    @mpitest.only("openmpi")
    def test_set(self):
        """Each node begins to trace, and stops."""
        self.start_ranks(scrytest.example("stommel"), 42, 42, 10 ** 7, options=["--trace", "fn:nothing", "--sample", "0.1"])
        self.lines("snapshot", "solve", "on 3 of 3 nodes")
        done = self.box.run(self.box.scry("set", self.path, "trace=fn:do_transfer"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(self.selections(), {name: "fn:do_transfer" for name in HOSTS})

    def selections(self):
        """What each node's monitor has."""
        found = {}
        for host in self.lab:
            part = os.path.join(self.path, "parts", host.name) if self.lab.shared else "@last"
            done = host.run(host.scry("set", "--json", self.path if host is self.box else part))
            self.assertEqual(done.returncode, 0, done.stderr)
            found[host.name] = json.loads(done.stdout)["trace"]
        return found


class Shared(Apart):
    """The job directory is seen on all nodes, and with it that of each part."""

    options = {"shared": True}

    @mpitest.only("openmpi")
    def test_from_another_node(self):
        """Whoever asks on another node is told of all nodes, that of the job itself among them, and of each once."""
        self.start_ranks(self.program("mpi_straggler"))
        self.lines("snapshot", r"^rank 1  .*large_part .*, runs$", options=MAIN)
        other = self.lab.host("n3")
        text = other.run(other.scry("snapshot", *MAIN, self.path), env={"SCRY_TEST_HASTE": "1"}).stdout  # it has to log in
        self.assertIn(": 3 threads of 3 ranks on 3 of 3 nodes", text)
        self.assertRegex(other.run(other.scry("set", self.path, "sample=0.5")).stderr, r" runs on n1: change it there$")


mpitest.for_each_mpi(Apart, globals())
mpitest.for_each_mpi(Shared, globals())
del Nodes
scrytest.main()
