# SPDX-License-Identifier: Apache-2.0
"""The runtime directory is on a disk, as in batch jobs without XDG_RUNTIME_DIR: the areas are in memory all the same,
nothing is lost with the monitor, and nothing stays behind in /dev/shm."""

import glob
import os
import re
import shutil
import signal
import subprocess
import unittest

import scrytest
from jobtest import SHARED_FILES, calls_said, target, trace_process
from scrytest import wait_until
from test_trace_collect import BABELTRACE, CollectCase

SHARED = "/dev/shm"
LEAST = 512 << 20


def file_system(path):
    """The kind of file system of an existing path."""
    best = ("", "")
    path = os.path.realpath(path)
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            _, place, kind = line.split()[:3]
            if path == place or path.startswith(place.rstrip("/") + "/"):
                best = max(best, (place, kind), key=lambda found: len(found[0]))
    return best[1]


def has_room():
    if not os.path.isdir(SHARED) or file_system(SHARED) != "tmpfs":
        return False
    disk = os.statvfs(SHARED)
    return disk.f_blocks * disk.f_frsize >= LEAST and disk.f_bavail > 0.6 * disk.f_blocks


@unittest.skipUnless(has_room(), "/dev/shm is no tmpfs of 512 MB with room")
class Memory(CollectCase):
    def setUp(self):
        super().setUp()
        if file_system(self.box.root) in ("tmpfs", "ramfs"):
            self.skipTest("temporary files are in memory")
        self.rings = self.box.path("run", "rings")

    def start(self, *arguments):
        return self.box.start(self.box.scry("run", "-q", "-o", self.job, *arguments), stdin=subprocess.PIPE)

    def start_steps(self):
        run = self.start("--", target(), "step", 0)
        wait_until(lambda: self.found() > 50)
        return run

    def end_steps(self, run):
        run.stdin.close()
        out = run.stdout.read()
        self.assertEqual(run.wait(), 0)
        return int(re.search(r"calls step (\d+)", out).group(1))

    def found(self):
        """How many calls are on disk now."""
        if not self.traces():
            return 0
        done = subprocess.run([BABELTRACE, *self.traces()], capture_output=True, text=True, check=False)
        return self.entries(done.stdout.splitlines()).get("step", 0)

    def folder(self):
        return os.readlink(self.rings)

    def check_gone(self, folder):
        self.assertFalse(os.path.lexists(self.rings))
        self.assertFalse(os.path.lexists(folder))
        self.assertFalse(os.path.lexists(f"{folder}.of"))

    def test_in_memory(self):
        run = self.start_steps()
        folder = self.folder()
        self.assertEqual(os.path.dirname(folder), f"{SHARED}/scry-{os.getuid()}")
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(os.path.dirname(folder)).st_mode & 0o777, 0o700)
        self.assertEqual(os.readlink(f"{folder}.of"), os.path.realpath(self.box.path("run")))
        self.assertEqual(len([name for name in os.listdir(folder) if name[0].isdigit()]), 2)
        self.assertEqual(glob.glob(self.box.path("run", "rings.disk", "*")), [])
        steps = self.end_steps(run)
        self.assertEqual(self.entries(self.events()[0])["step"], steps)
        wait_until(lambda: set(os.listdir(folder)) == SHARED_FILES)
        self.box.stop_monitor()
        self.check_gone(folder)

    def test_monitor_killed(self):
        """The next one finds the same areas, and takes them away at its end."""
        run = self.start_steps()
        folder = self.folder()
        self.box.stop_monitor(signal.SIGKILL)
        wait_until(self.box.monitor_pid, 20)
        before = self.found()
        wait_until(lambda: self.found() > before + 50, 20)
        self.assertEqual(self.folder(), folder)
        steps = self.end_steps(run)
        wait_until(lambda: "running" not in [trace_process(path)["state"][0] for path in self.traces()])
        self.assertEqual(self.entries(self.events()[0])["step"], steps)
        self.box.stop_monitor()
        self.check_gone(folder)

    def test_swept(self):
        """What belongs to a runtime directory that is gone is removed by the next monitor of the user, not before."""
        self.assertEqual(self.scry_run("--", "true").returncode, 0)
        folder = self.folder()
        self.box.stop_monitor(signal.SIGKILL)
        other = scrytest.Sandbox()
        self.addCleanup(other.close)
        version = other.scry("omis", "-c", ": version()")
        self.assertEqual(other.run(version).returncode, 0)
        self.assertTrue(os.path.exists(folder))
        other.stop_monitor()
        shutil.rmtree(self.box.path("run"))
        self.assertEqual(other.run(version).returncode, 0)
        self.assertFalse(os.path.lexists(folder))
        self.assertFalse(os.path.lexists(f"{folder}.of"))

    def test_tidied_up(self):
        """Somebody removes the user's files in /dev/shm while jobs run, as some systems do when the user logs out."""
        run = self.start_steps()
        folder = self.folder()
        shutil.rmtree(folder)
        os.unlink(f"{folder}.of")
        done = self.box.run(self.box.scry("run", "-q", "-o", self.box.path("work", "second"), "--", target(), "calls", 3))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(glob.glob(self.box.path("work", "second", "trace", "*", "*"))), 1)
        steps = self.end_steps(run)
        self.assertEqual(self.entries(self.events()[0])["step"], steps)
        self.box.stop_monitor()
        self.check_gone(folder)

    def test_earlier_areas_on_disk(self):
        """Areas of a monitor that had them in the runtime directory: it stays so for this one."""
        os.mkdir(self.rings, 0o700)
        with open(os.path.join(self.rings, "1-1-1"), "wb"):
            pass
        self.assertEqual(self.scry_run("--", target(), "calls", 3).returncode, 0)
        self.assertFalse(os.path.islink(self.rings))
        wait_until(lambda: set(os.listdir(self.rings)) == SHARED_FILES)
        self.box.stop_monitor()
        self.assertEqual(self.box.run(self.box.scry("omis", "-c", ": version()")).returncode, 0)
        self.assertTrue(os.path.islink(self.rings))

    def in_small(self, used, *arguments):
        """Runs a job where /dev/shm has 600 MB, with this many of them used."""
        script = f"mount -t tmpfs -o size=600m none {SHARED} && fallocate -l {used}M {SHARED}/others && exec \"$@\""
        done = self.box.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh",
                             *self.box.scry("run", "-q", "-o", self.job, "--", *arguments)])
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_little_room(self):
        """Half of /dev/shm is not ours to use: what would not leave it unused lies on disk, and is whole."""
        spill = self.box.path("run", "rings.disk")
        done = self.in_small(290, target(), "threads", 1000)
        said = calls_said(done.stdout)
        found = self.entries(self.events()[0])
        self.assertEqual({name: found.get(name) for name in said}, said)
        self.assertTrue(os.path.isdir(spill))
        wait_until(lambda: not os.listdir(spill))
        self.box.stop_monitor()
        self.assertFalse(os.path.lexists(spill))
        self.assertFalse(os.path.lexists(self.rings))

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_no_room(self):
        done = self.in_small(310, target(), "threads", 1000)
        said = calls_said(done.stdout)
        found = self.entries(self.events()[0])
        self.assertEqual({name: found.get(name) for name in said}, said)
        self.assertFalse(os.path.islink(self.rings))
        wait_until(lambda: set(os.listdir(self.rings)) == SHARED_FILES)

    def test_doctor(self):
        done = self.box.run(self.box.scry("doctor"))
        self.assertIn(f"{SHARED}/scry-{os.getuid()}", done.stdout)


if __name__ == "__main__":
    scrytest.main()
