# SPDX-License-Identifier: Apache-2.0
"""The runtime directory is tidied up while a job runs: its sockets are removed, all that is in it, or the directory itself,
as systemd does at logout. One monitor serves it all the same; no call waits, no event is missing, nobody is left over."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import unittest

import scrytest
from jobtest import JobCase, target
from scrytest import process_gone, wait_until

LONGEST = 5.0  # seconds that a call may take


class Home:
    """The cases that differ by where the areas are."""

    def setUp(self):
        super().setUp()
        self.box.env["SCRY_IDLE"] = "0.2"
        self.go, self.progress = self.box.path("work", "go"), self.box.path("work", "progress")
        self.runtime = self.box.path("run")
        self.run_ = self.start_run("--rule", 'ct_function_called([], "step") : print(["x"])', "--", target("held"), self.go,
                                   self.progress, stderr=subprocess.DEVNULL)
        self.goes_on(20)
        (self.job,) = [name for name in os.listdir(self.box.path("jobs")) if name[0] == "2"]
        (self.monitor,) = self.monitors()

    def monitors(self):
        return list(self.box.processes("scry-monitor"))

    def alone(self):
        """No other monitor; those that were started and found the directory locked may just be ending."""
        wait_until(lambda: self.monitors() == [self.monitor], 10, self.monitors)

    def counted(self):
        """(calls, microseconds of the longest); (0, 0): it has not begun."""
        try:
            with open(self.progress, encoding="ascii") as file:
                return tuple(map(int, file.read().split())) or (0, 0)
        except FileNotFoundError:
            return 0, 0

    def goes_on(self, count=100):
        before = self.counted()[0]
        wait_until(lambda: self.counted()[0] >= before + count, 60, lambda: f"stays at {self.counted()}")

    def inode(self, name):
        try:
            return os.stat(self.box.path("run", name)).st_ino
        except FileNotFoundError:
            return None

    def remove(self, *names):
        """Removes files and folders of the runtime directory, and waits until the sockets among them are there again."""
        before = {name: self.inode(name) for name in names if name.endswith(".sock")}
        for name in names:
            path = self.box.path("run", name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        for name, inode in before.items():
            wait_until(lambda name=name, inode=inode: self.inode(name) not in (None, inode), 10, f"{name} is made anew")

    def remove_directory(self):
        """Like `rm -rf`, and again if the monitor was too early and has begun to make files again."""
        while os.path.exists(self.runtime):
            shutil.rmtree(self.runtime, ignore_errors=True)

    def tool(self):
        """Another tool, which finds the monitor of the job."""
        done = self.box.run(self.box.scry("omis", "-c", ": version()"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def other_job(self):
        """A job that starts now; its calls are recorded."""
        done = self.scry_run("--trace", "all", "--", target(), "calls", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("calls leaf", done.stdout)

    def end_job(self):
        """The job ends; each call was an event."""
        with open(self.go, "w", encoding="ascii"):
            pass
        self.assertEqual(self.run_.wait(30 * scrytest.SCALE), 0)
        (rule,) = self.report(self.job)["rules"]
        self.assertEqual(rule["fired"], self.counted()[0])

    def end(self):
        """So it does, no call took long, and nobody is left."""
        self.end_job()
        self.assertLess(self.counted()[1] / 1e6, LONGEST * scrytest.SCALE)
        wait_until(lambda: not list(self.box.processes("scry")), 20, "all monitors end")

    def test_emptied(self):
        self.remove(*os.listdir(self.runtime))
        self.tool()
        self.other_job()
        self.alone()
        self.goes_on()
        self.end()

    def test_removed(self):
        """The monitor makes the directory again, and serves later tools."""
        self.remove_directory()
        wait_until(lambda: self.inode("monitor.sock"), 10, "the monitor serves the new directory")
        self.tool()
        self.other_job()
        self.alone()
        self.goes_on()
        self.end()

    def test_taken(self):
        """Another monitor was faster: the first goes on with its job, and disturbs nothing of the other."""
        with self.box.pause("home.look") as pause:
            self.remove_directory()
            self.assertEqual(pause.reached(), self.monitor)
            os.makedirs(self.runtime, 0o700, exist_ok=True)
            with self.box.omis() as omis:
                self.assertTrue(omis.request(": version()").ok())
                pause.release()
                self.goes_on()
                self.other_job()
                files = {name: self.inode(name) for name in os.listdir(self.runtime)}
                self.end_job()
                wait_until(lambda: process_gone(self.monitor), 20, "the first ends")
                for name in ("monitor.sock", "monitor.pid", "agent.sock", "rings"):
                    self.assertEqual(self.inode(name), files[name])
                self.tool()
        self.assertIn("agent.sock was removed while the job ran", self.scry("report", self.job).stdout)
        wait_until(lambda: not list(self.box.processes("scry")), 20, "the other ends")


class OnDisk(Home, JobCase):
    """The areas are not in it, but in /dev/shm, and not removed with it."""


class InMemory(Home, JobCase):
    where = "/dev/shm"

    def test_sockets(self):
        for names in (["monitor.sock"], ["agent.sock"], ["monitor.sock", "agent.sock", "monitor.pid"]):
            self.remove(*names)
            self.tool()
            self.other_job()
            self.goes_on()
        self.alone()
        self.assertEqual(self.box.monitor_pid(), self.monitor)
        self.end()

    def test_again_and_again(self):
        """A tool comes each time before anybody could notice."""
        for _ in range(6):
            for name in ("monitor.sock", "monitor.pid", "starter.lock"):
                with contextlib.suppress(FileNotFoundError):  # it may not have been made anew yet
                    os.unlink(self.box.path("run", name))
            self.tool()
        self.alone()
        self.goes_on()
        self.end()

    def test_renamed(self):
        os.rename(self.runtime, self.box.path("former"))
        wait_until(lambda: self.inode("monitor.sock"), 10, "the monitor serves the new directory")
        self.tool()
        self.other_job()
        self.alone()
        self.end()

    def test_replaced(self):
        """Somebody else makes the directory again and starts a job at once: whoever serves it, both jobs succeed."""
        self.remove_directory()
        os.makedirs(self.runtime, 0o700, exist_ok=True)
        self.other_job()
        self.tool()
        self.goes_on()
        self.assertLessEqual(len(self.monitors()), 2)
        self.end()

    def test_gone_for_a_while(self):
        """Nobody can make the directory: the job goes on. When it becomes possible, the monitor is found again."""
        with self.box.pause("home.look") as pause:
            self.remove_directory()
            pause.reached()
            with open(self.runtime, "w", encoding="ascii"):
                pass
        self.goes_on()
        self.alone()
        os.unlink(self.runtime)
        wait_until(lambda: self.inode("monitor.sock"), 10, "the monitor serves the new directory")
        self.other_job()
        self.alone()
        self.end_job()

    def test_idle(self):
        """A monitor that nobody needs makes nothing again."""
        with open(self.go, "w", encoding="ascii"):
            pass
        self.assertEqual(self.run_.wait(30 * scrytest.SCALE), 0)
        wait_until(lambda: process_gone(self.monitor), 20, "it ends")
        idle = self.box.start(self.box.scry("monitor", "--idle", "3600"))
        wait_until(lambda: self.inode("monitor.sock"), 10)
        self.remove_directory()
        self.assertEqual(idle.wait(20 * scrytest.SCALE), 0)
        self.assertFalse(os.path.exists(self.runtime))


@unittest.skipUnless(os.getuid() == 0, "only root can be two other users")
class TakenName(JobCase):
    user = scrytest.Sandbox.ordinary_user()
    USER, OTHER = 852516353, 12345  # the first one is a user whom no machine has

    def test_traced(self):
        """Somebody else has made /tmp/scry-UID: jobs are traced all the same, and scry doctor says where."""
        taken = f"/tmp/scry-{self.USER}"
        os.mkdir(taken, 0o700)
        self.addCleanup(os.rmdir, taken)
        os.chown(taken, self.OTHER, self.OTHER)
        for folder, folders, names in os.walk(self.box.root):
            for name in [".", *folders, *names]:
                os.chown(os.path.join(folder, name), self.USER, self.USER, follow_symlinks=False)
        self.box.identity = {"user": self.USER, "group": self.USER, "extra_groups": []}
        del self.box.env["SCRY_RUNTIME_DIR"]
        self.box.env["SCRY_IDLE"] = "0.2"

        def here():
            return list(self.box.processes("scry", f"HOME={self.box.path('home')}"))
        self.addCleanup(wait_until, lambda: not here(), 20, "the monitor ends")
        done = self.scry_run("--trace", "all", "--", self.box.program(target()), "calls", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("no monitor", done.stderr)
        self.assertEqual(self.calls()["leaf"], 6)
        used = self.box.path("home", ".local", "state", "scry", f"run-{socket.gethostname()}")
        self.assertEqual(stat.S_IMODE(os.stat(used).st_mode), 0o700)
        self.assertIn(f"{used} is used: {taken} is somebody else's", " ".join(self.box.run(self.box.scry("doctor")).stdout.split()))


del Home
scrytest.main()
