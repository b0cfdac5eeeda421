# SPDX-License-Identifier: Apache-2.0
"""The laboratory itself (labtest.py): if these fail, other tests with several hosts tell nothing about scry."""

import os
import subprocess
import time

import labtest
import mpitest
import scrytest
import slurmtest


class Hosts(labtest.LabCase):
    hosts = ("n1", "n2", "n3", "n4")
    options = {"clocks": {"n2": 5000}, "walls": {"n3": -100}}

    def say(self, host, *command, status=0, **options):
        done = self.lab.host(host).run(command, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_own_view(self):
        print(f"# 4 hosts in {self.lab.seconds:.2f} s")
        for host in self.lab:
            self.assertEqual(self.say(host.name, "hostname"), host.name + "\n")
            self.assertEqual(self.say(host.name, "ls", "/tmp").split(),
                             sorted({each.split("/")[2] for each in (self.lab.root, *labtest.KEPT) if each.startswith("/tmp/")}))
            self.assertEqual(sorted(self.say(host.name, "ls", self.lab.root).split()), ["here", host.name])
            self.assertEqual(self.say(host.name, "ls", "/dev/shm"), "")
            program = host.start_example("threads", "2", "60")
            self.assertLess(program.inside, 100)
            self.assertIn(f" {program.inside} ", self.say(host.name, "ps", "-eo", "pid,comm"))
            program.terminate()
            self.assertEqual(program.wait(10), -15)
        with open(self.lab.host("n2").path("work", "file"), "w", encoding="ascii") as file:
            file.write("of n2")
        self.assertEqual(self.say("n2", "cat", self.lab.here("work", "file")), "of n2")
        self.say("n1", "cat", self.lab.here("work", "file"), status=1)

    def test_clocks(self):
        look = ["/usr/bin/python3", "-c", "import time; print(time.monotonic(), time.time())"]
        ups, walls = zip(*(map(float, self.say(host.name, *look).split()) for host in self.lab))
        self.assertAlmostEqual(ups[1] - ups[0], 5000, delta=30)
        self.assertAlmostEqual(ups[3] - ups[0], 0, delta=30)
        self.assertAlmostEqual(walls[2] - walls[0], -100, delta=30)
        self.assertAlmostEqual(walls[3] - walls[0], 0, delta=30)

    def test_ssh(self):
        for here in self.lab:
            for there in self.lab:
                self.assertEqual(self.say(here.name, "ssh", there.name, "hostname; pwd; echo $SCRY_RUNTIME_DIR"),
                                 f"{there.name}\n{self.lab.here('home')}\n{self.lab.here('run')}\n")
        self.assertEqual(self.say("n1", "ssh", "n2", "scry", "--version"), self.say("n1", "scry", "--version"))

    def test_wires(self):
        quick = ["ssh", "-o", "ConnectTimeout=1", "n2", "echo here"]
        self.say("n1", *quick)
        self.lab.cut("n2")
        self.say("n1", *quick, status=255)
        self.say("n1", "ssh", "n3", "true")
        self.lab.heal("n2")
        quick[2] = "ConnectTimeout=9"
        self.say("n1", *quick)
        connect = ["/usr/bin/python3", "-c", "import socket, time; t = time.monotonic(); "
                   "socket.create_connection(('n2', 22)); print(time.monotonic() - t)"]
        self.lab.delay("n2", 100)
        self.assertGreater(float(self.say("n1", *connect)), 0.2)
        self.lab.delay("n2", 1, loss=0.02)
        sent = os.urandom(1 << 20).hex()
        self.assertEqual(self.say("n1", "ssh", "n2", "cat", input=sent), sent)
        self.lab.cut("n2")
        self.lab.heal("n2")
        self.say("n1", *quick)

    def test_nothing_left(self):
        """A crash of the test ends everything; so does power loss of a host for its own part."""
        host = self.lab.host("n1")
        host.start(["sh", "-c", "setsid sleep 1000 & setsid sleep 1000"])
        scrytest.wait_until(lambda: len(list(host.processes("sleep"))) == 2)
        host.kill_all()
        self.assertEqual(list(host.processes()), [])
        script = ("import labtest, os, scrytest; lab = labtest.Lab('a', 'b'); print(lab.root, *[each.pid for each in lab], flush=True)\n"
                  "program = lab.host('a').start(['sleep', '1000']); print(program.outside, *lab.host('a').processes(), flush=True)\n"
                  "os.kill(os.getpid(), 9)")
        done = subprocess.run([os.sys.executable, "-c", script], capture_output=True, text=True, cwd=os.path.dirname(labtest.__file__),
                              check=False)
        root, *pids = done.stdout.split()
        self.addCleanup(subprocess.run, ["rm", "-rf", root], check=True)
        self.assertGreater(len(pids), 4, done.stderr)
        scrytest.wait_until(lambda: all(scrytest.process_gone(int(pid)) for pid in pids))


class OneView(labtest.LabCase):
    """Numbers of processes are the same everywhere, files too."""
    options = {"own_pids": False, "shared": True}

    def test_one_view(self):
        n1, n2 = self.lab
        program = n2.start(["sh", "-c", "echo $$; echo text > file; sleep 1000"])
        self.assertEqual(int(program.stdout.readline()), program.pid)
        scrytest.wait_until(lambda: n1.run(["cat", "file"]).stdout == "text\n")
        self.assertEqual(n1.run(["ssh", "n2", "cat", self.lab.here("work", "file")]).stdout, "text\n")


class Mpi(labtest.LabCase):
    """Without scry: what several ranks compute over the network is what one computes."""
    hosts = ("n1", "n2", "n3", "n4")
    one_lab = True

    def check(self, mpi):
        if not mpitest.available(mpi):
            self.skipTest(f"needs {mpi}")
        stommel = os.path.join(scrytest.SOURCE, "examples", "stommel.c")
        done = self.box.run([*mpitest.over_hosts(mpi, stommel, *self.hosts), 40, 40, 20], env=mpitest.QUIET)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("equal", done.stdout)
        said = self.box.run([*mpitest.over_hosts(mpi, stommel, *self.hosts)[:-1], "hostname"]).stdout
        self.assertEqual(sorted(said.split()), list(self.hosts))

    def test_openmpi(self):
        self.check("openmpi")

    @scrytest.thorough
    def test_mpich(self):
        self.check("mpich")


class Slurm(labtest.LabCase):
    """Without scry: tasks of a step and of a batch script on three nodes."""
    hosts = ("n1", "n2", "n3")
    options = {"own_pids": False, "visible": True, "ssh": False}

    def test_three_nodes(self):
        slurm = slurmtest.Slurm(self.box, hosts=self.lab)
        self.addCleanup(slurm.close)
        done = slurm.run("srun", "-N", 3, "-n", 3, "hostname", timeout=30)
        self.assertEqual(sorted(done.stdout.split()), list(self.hosts), f"{done.stderr}\n{slurm.said()}")
        job = slurm.submit("-N", "3", script="#!/bin/sh\nsrun -n 3 hostname\n")
        self.assertEqual(slurm.ended(job)["JobState"], "COMPLETED", slurm.said())
        self.assertEqual(sorted(slurm.output(job).split()), list(self.hosts))


scrytest.main()
