# SPDX-License-Identifier: Apache-2.0
"""What ranks are in while the job runs: scry ps, scry top, the service mpi_get_activity."""

import contextlib
import json
import os
import re
import signal
import subprocess

import mpitest
import screentest
import scrytest


class Live(mpitest.MpiCase):
    def start(self, ranks, *program):
        self.run_ = self.box.start(self.box.scry("run", "-q", "--", *self.command(ranks, *program)), env=mpitest.QUIET,
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(self.end)
        scrytest.wait_until(self.jobs, 20, "the job is listed")
        self.path = self.jobs()[0]["path"]

    def end(self):
        def ended():
            for launcher in scrytest.children(self.run_.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(launcher, signal.SIGKILL)
            return self.run_.poll() is not None

        scrytest.wait_until(ended, 30, "the job ends")

    def shown(self, command, schema):
        done = self.box.run(self.box.scry(*command, "--json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.valid(schema, json.loads(done.stdout))

    def jobs(self):
        """Those that have begun: at first a job's directory is there, and nothing in it."""
        return [each for each in self.shown(["ps"], "ps")["jobs"] if each["state"] != "unreadable"]

    def ranks(self):
        (job,) = self.jobs()
        return job["ranks"], job["processes"]

    def until(self, states, holds=lambda ranks: True):
        """Ranks of scry ps, when they are in these (state, call)s for a second, and this holds of them."""
        last = []

        def is_so():
            last[:] = self.ranks()[0]
            return [(each["state"], each["call"]) for each in last] == states and \
                all(each["since_seconds"] >= 1 for each in last) and holds(last)

        scrytest.wait_until(is_so, 90, lambda: json.dumps(last, indent=1))
        return last

    @mpitest.both
    def test_ps(self):
        self.start(3, self.target("stuck.c", "-Wno-stringop-overflow"), "tag")
        ranks = self.until([("in_call", "MPI_Recv"), ("in_call", "MPI_Barrier"), ("in_call", "MPI_Barrier")],
                           lambda ranks: ranks[0]["mpi_share"] > 0.9)  # however long it took to come there
        # scry run looks at the processes once a second, and the monitor knows the ranks when they say hello
        scrytest.wait_until(lambda: {each["pid"] for each in ranks} <= {each["pid"] for each in self.ranks()[1]}, 20,
                            lambda: f"the ranks are among the processes: {json.dumps(self.ranks(), indent=1)}")
        host = os.uname().nodename
        for rank, each in enumerate(ranks):
            self.assertEqual((each["rank"], each["size"], each["host"], each["library"], each["spawned"], each["fault"],
                              each["old_seconds"]), (rank, 3, host, self.mpi, False, None, 0))
            with open(f"/proc/{each['pid']}/environ", "rb") as file:  # the launcher's own word for it
                found = re.search(rb"\0(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0", b"\0" + file.read())
            self.assertEqual(int(found[1]), rank)
        self.assertEqual((ranks[0]["peer"], ranks[0]["tag"], ranks[1]["peer"]), (1, 5, None))
        self.assertEqual(ranks[0]["doing"], "MPI_Recv of 8 B from rank 1, tag 5 on MPI_COMM_WORLD")
        self.assertGreater(ranks[0]["mpi_share"], 0.9)
        text = self.box.run(self.box.scry("ps")).stdout
        library = {"openmpi": "Open MPI", "mpich": "MPICH"}[self.mpi]
        self.assertIn(f"    3 ranks under {library}: 1 in MPI_Recv, 2 in MPI_Barrier\n", text)
        self.assertRegex(text, rf" +0  {host} +{ranks[0]['pid']} [RS] .* in MPI_Recv for \d.* s: 8 B from rank 1, tag 5 "
                               r"on MPI_COMM_WORLD\n")
        lines = [line for line in text.splitlines() if re.search(rf"\b{ranks[0]['pid']}\b", line)]
        self.assertEqual(len(lines), 1, "a rank is listed once, not as a process again")

    @scrytest.thorough
    def test_top(self):
        self.start(3, self.target("stuck.c", "-Wno-stringop-overflow"), "ibarrier")
        self.until([("in_call", "MPI_Wait"), ("computing", None), ("in_call", "MPI_Wait")],
                   lambda ranks: ranks[0]["mpi_share"] > 0.9 and ranks[1]["mpi_share"] < 0.09)
        ranks = self.shown(["top", self.path], "top")["ranks"]
        self.assertEqual([each["state"] for each in ranks], ["in_call", "computing", "in_call"])
        self.assertGreater(ranks[0]["mpi_share"], 0.9)
        self.assertLess(ranks[1]["mpi_share"], 0.1)
        text = self.box.run(self.box.scry("top", "--once", self.path)).stdout
        self.assertRegex(text, r"RANK  HOST +PID MPI %  NOW %  3 ranks: 2 in MPI_Wait, 1 computing\n")
        self.assertRegex(text, r"\n +1  \S+ +\d+ +\d\.\d +-  computing for \d.* s\n")

    def test_top_live(self):
        """The share of the time since the last look, and that it changes."""
        self.start(3, self.target("stuck.c", "-Wno-stringop-overflow"), "ibarrier")
        self.until([("in_call", "MPI_Wait"), ("computing", None), ("in_call", "MPI_Wait")])
        screen = screentest.Screen(self.box, "top", self.path)
        try:
            screen.until(r"\n +0  \S+ +\d+ +\d+\.\d  100\.0  in MPI_Wait for ")
            screen.until(r"\n +1  \S+ +\d+ +\d+\.\d    0\.0  computing for ")
            self.assertIn("CPU TIME", screen.picture())
            screen.type(b"r")  # ranks only
            screen.until(r"RANK  HOST", without="CPU TIME")
            screen.type(b"q")
            self.assertEqual(screen.process.wait(20 * scrytest.SCALE), 0)
        finally:
            screen.close()

    @scrytest.thorough
    def test_died(self):
        """A rank that is killed while others wait stays in the list, as dead. Open MPI's launcher would end all."""
        self.start(3, self.target("stuck.c", "-Wno-stringop-overflow"), "tag")
        ranks = self.until([("in_call", "MPI_Recv"), ("in_call", "MPI_Barrier"), ("in_call", "MPI_Barrier")])
        pids, launchers = {each["pid"] for each in ranks}, []
        parents = scrytest.children(self.run_.pid)
        while parents:
            launchers += [pid for pid in parents if pid not in pids]
            parents = [child for pid in parents for child in scrytest.children(pid) if pid not in pids]
        for launcher in launchers:  # so that it does not end the others
            os.kill(launcher, signal.SIGSTOP)
        try:
            os.kill(ranks[1]["pid"], signal.SIGKILL)
            scrytest.wait_until(lambda: [each["state"] for each in self.ranks()[0]] == ["in_call", "died", "in_call"],
                                20, lambda: json.dumps(self.ranks(), indent=1))
            self.assertIn("died without MPI_Finalize", self.box.run(self.box.scry("ps")).stdout)
        finally:
            for launcher in launchers:
                os.kill(launcher, signal.SIGCONT)


mpitest.for_each_mpi(Live, globals())


class NoRanks(scrytest.TestCase):
    def test_no_mpi(self):
        """Jobs of other programs have no ranks."""
        job = self.box.start(self.box.scry("run", "-q", "--", "sleep", "60"))
        try:
            scrytest.wait_until(lambda: "sleep 60" in self.box.run(self.box.scry("ps")).stdout, 20, "it is listed")
            done = json.loads(self.box.run(self.box.scry("ps", "--json")).stdout)
            self.assertEqual(done["jobs"][0]["ranks"], [])
        finally:
            job.terminate()
            job.wait(20 * scrytest.SCALE)


scrytest.main()
