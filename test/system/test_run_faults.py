# SPDX-License-Identifier: Apache-2.0
"""Bad times for `scry run`: it dies, the monitor dies, the disk fills up. The job runs on, and nobody lies about it."""

import bisect
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import scrytest
from jobtest import JobCase, target
from scrytest import children, process_gone, wait_until


class FaultCase(JobCase):
    def spool(self, job=None):
        """The records of the only job, as far as they are whole."""
        if job is None:
            names = os.listdir(self.box.path("jobs"))
            if not names:
                return []
            job = self.box.path("jobs", names[0])
        try:
            with open(os.path.join(job, "spool", "records.jsonl"), encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def samples(self):
        return [record for record in self.spool() if record["type"] == "sample"]

    def jobs(self):
        return [self.box.path("jobs", name) for name in os.listdir(self.box.path("jobs"))
                if not os.path.islink(self.box.path("jobs", name))]

    def is_running(self, job):
        with open(os.path.join(job, "job.json"), encoding="utf-8") as file:
            return not json.load(file).get("result")

    @contextlib.contextmanager
    def silent_monitor(self):
        """A process that listens in place of a monitor and never answers."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(self.box.path("run", "monitor.sock"))
            listener.listen(100)
            try:
                yield
            finally:
                os.remove(self.box.path("run", "monitor.sock"))

    def stop_file(self):
        return self.box.path("work", "stop")

    def waiter(self, status=5):
        """A command that ends on request."""
        return ["sh", "-c", f"echo ready; while ! [ -e {self.stop_file()} ]; do sleep 0.02; done; echo over; exit {status}"]

    def stop_it(self):
        with open(self.stop_file(), "w", encoding="ascii"):
            pass

    def state(self):
        done = self.box.run(self.box.scry("ps", "--json", "--all"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["jobs"][0]["state"]


class Deaths(FaultCase):
    def test_scry_run_killed(self):
        """kill -9 of scry run: the job runs to its end, and is listed as unwatched, then lost."""
        run = self.start_run("-q", *self.waiter())
        self.assertEqual(run.stdout.readline(), "ready\n")
        command = children(run.pid)[0]
        self.assertEqual(self.state(), "running")
        run.kill()
        run.wait()
        self.assertEqual(self.state(), "unwatched")
        self.assertFalse(process_gone(command))
        self.assertIsNone(self.report()["exit_code"])
        self.stop_it()
        self.assertEqual(run.stdout.readline(), "over\n")
        wait_until(lambda: process_gone(command))
        self.assertEqual(self.state(), "lost")
        self.assertEqual(self.report()["status"], "lost")

    def test_scry_run_killed_before_the_start(self):
        """Held on a pipe for a monitor that does not answer, the command never starts when scry run dies."""
        with self.silent_monitor():
            run = self.start_run("-q", "touch", "started")
            held = wait_until(lambda: next(iter(children(run.pid)), None), 20)
            run.kill()
            run.wait()
            wait_until(lambda: process_gone(held))
        self.assertFalse(os.path.exists(self.box.path("work", "started")))

    def check_bounded(self, *reasons):
        """A job with such a monitor starts at once, and one line says why it is not watched and what to do."""
        began = time.monotonic()
        done = self.box.run(self.box.scry("run", "--args", "--", scrytest.built("test", "system", "targets", "traced"),
                                          "calls", "3"))
        took = time.monotonic() - began
        self.assertEqual((done.returncode, "calls work 3\n" in done.stdout), (0, True), done.stdout)
        said = done.stderr.splitlines()
        self.assertRegex(said[1], "the job is started unwatched and untraced: the monitor ")
        for reason in reasons:
            self.assertIn(reason, said[1])
        self.assertLess(took, scrytest.room(1.9))
        return done

    def test_monitor_stopped(self):
        self.assertEqual(self.start_run("-q", "true").wait(20 * scrytest.SCALE), 0)
        monitor = self.box.monitor_pid()
        run = self.start_run("-q", *self.waiter())
        self.assertEqual(run.stdout.readline(), "ready\n")
        os.kill(monitor, signal.SIGSTOP)
        reason, remedy = f"the monitor (pid {monitor}) was stopped", f"`kill -CONT {monitor}` lets it go on"
        try:
            self.check_bounded(reason, remedy)
            job = os.path.basename(next(path for path in self.jobs() if self.is_running(path)))
            for arguments, status in (((), 0), (("args=yes",), 1)):
                began = time.monotonic()
                done = self.box.run(self.box.scry("set", job, *arguments))
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (status, 1), done.stderr)
                self.assertIn(f"{reason}: {remedy}", done.stderr)
                self.assertLess(time.monotonic() - began, scrytest.room(2))
        finally:
            os.kill(monitor, signal.SIGCONT)
        self.stop_it()
        self.assertEqual(run.wait(20 * scrytest.SCALE), 5)

    def test_monitor_silent(self):
        """It takes connections and says nothing: nobody waits longer than a second."""
        with self.silent_monitor():
            self.check_bounded(f"(pid {os.getpid()}) does not answer", f"`kill -KILL {os.getpid()}` ends it")

    def test_monitor_hangs(self):
        """A monitor that does not answer holds nothing up for long, neither start nor end."""
        self.assertEqual(self.start_run("-q", "true").wait(20 * scrytest.SCALE), 0)
        run = self.start_run("-q", *self.waiter(6))
        self.assertEqual(run.stdout.readline(), "ready\n")
        os.kill(self.box.monitor_pid(), signal.SIGSTOP)
        try:
            self.stop_it()
            began = time.monotonic()
            self.assertEqual(run.wait(20 * scrytest.SCALE), 6)
            self.assertLess(time.monotonic() - began, scrytest.room(5))
        finally:
            os.kill(self.box.monitor_pid(), signal.SIGCONT)
        report = self.report()
        self.assertEqual(report["exit_code"], 6)
        monitor = self.box.monitor_pid()
        self.assertRegex(report["warnings"][0]["text"], f"^not watched from .* s to the end: the monitor .pid {monitor}. was "
                                                        f"stopped: `kill -CONT {monitor}` lets it go on$")

    def test_monitor_killed(self):
        """kill -9 of the monitor: another one is started and follows the job, and the gap is recorded."""
        run = self.start_run("-q", "--sample", "0.05", "sh", "-c", f"sleep 0.3; sleep 100 & echo $!; "
                             f"while ! [ -e {self.stop_file()} ]; do sleep 0.02; done; kill $!; wait; exit 5")
        long = int(run.stdout.readline())
        wait_until(lambda: len(self.samples()) >= 3)
        first = self.box.monitor_pid()
        os.kill(first, signal.SIGKILL)
        second = wait_until(lambda: self.box.monitor_pid() not in (None, first) and self.box.monitor_pid())
        wait_until(lambda: any(record["type"] == "gap" for record in self.spool()))
        seen = len(self.samples())
        wait_until(lambda: len(self.samples()) > seen + 2)
        self.stop_it()
        self.assertEqual(run.wait(20 * scrytest.SCALE), 5)
        report = self.report()
        self.assertEqual((report["exit_code"], report["left_running"]), (5, 0))
        self.assertEqual(len(report["gaps"]), 1)
        starts = [process["start_seconds"] for process in report["processes"] if process["pid"] == long]
        self.assertEqual(len(starts), 1, "a process is counted again by the second monitor")
        self.assertGreater(starts[0], 0.2)
        self.assertIn("monitor", report["gaps"][0]["reason"])
        self.assertLess(report["gaps"][0]["from"], report["gaps"][0]["to"])
        self.assertFalse(process_gone(second), "the new monitor outlives the job")
        self.assertNotEqual(os.getpgid(second), os.getpgid(os.getpid()))
        self.assertTrue(any(warning["kind"] == "gap" for warning in report["warnings"]))

    def test_monitor_killed_with_a_rule(self):
        """Before it has answered to it: nothing is wrong with the rule, which the next monitor gets."""
        for point in ("rules.arm", "rules.asked"):
            with self.subTest(point), self.box.pause(point) as pause:
                run = self.start_run("-q", "--rule", 'ct_function_called([], "leaf") : print(["seen"])', "--", target(), "calls",
                                     "1")
                pause.reached()
                monitor = self.box.monitor_pid()
                os.kill(monitor, signal.SIGSTOP)
                pause.release()
                os.kill(monitor, signal.SIGKILL)
                out, _ = run.communicate(timeout=20 * scrytest.SCALE)
                self.assertEqual((run.returncode, "calls work 1" in out), (0, True), out)


class Wanting(FaultCase):
    """Something that is needed is not there."""

    def test_few_open_files(self):
        """However few are allowed, the command runs, and what is missing is reported."""
        seen = set()
        for count in (4, 7, 10, 11, 12, 13, 14, 16, 31, 32):
            for options in ((), ("--mpi", "off", "--trace", "off")):
                limit = ["sh", "-c", f'ulimit -n {count}; exec "$@"', "sh"]
                done = self.box.run([*limit, *self.box.scry("run", "-q", *options, "sh", "-c", "echo ran; exit 3")])
                self.assertEqual((done.returncode, done.stdout), (3, "ran\n"), (count, done.stderr))
                self.assertLessEqual(len(done.stderr.splitlines()), 1, (count, done.stderr))
                seen.add("unwatched" if "ulimit -n" in done.stderr else done.stderr)
        self.assertIn("unwatched", seen)

    def test_few_processes(self):
        """Likewise; how many there are already is not known, but none is not enough."""
        box = scrytest.Sandbox(user=scrytest.Sandbox.ordinary_user())
        self.addCleanup(box.close)
        seen = set()
        for count in (0, 1, 2, 3, 5, 8):
            limit = ["bash", "-c", f'ulimit -u {count}; exec "$@"', "bash"]
            done = box.run([*limit, *box.scry("run", "-q", "/bin/true")])
            self.assertEqual(done.returncode, 0, (count, done.stderr))
            self.assertLessEqual(len(done.stderr.splitlines()), 1, (count, done.stderr))
            seen.add("unwatched" if "ulimit -u" in done.stderr else done.stderr)
        self.assertIn("unwatched", seen)

    @unittest.skipIf(scrytest.sanitizers(), "sanitizers map more than that")
    def test_little_memory_for_data(self):
        """Where scry run starts at all, the command runs, and scry run ends with it: also when there is no room for what its observer
        says."""
        for size in (480, 500, 520, 550, 580, 700):
            done = self.box.run(["bash", "-c", f'ulimit -d {size}; exec "$@"', "bash", *self.box.scry("run", "-q", "bash", "-c", "exit 3")])
            self.assertEqual(done.returncode, 3, (size, done.stderr))

    def test_no_room_for_variables(self):
        """An environment near ARG_MAX: there the command gets what scry run was given."""
        def stack():
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))  # a quarter is for these
        def fits(size):
            try:
                self.box.run(watched, executable="/bin/true", env={**full, "REST": "y" * size}, preexec_fn=stack)
                return True
            except OSError:
                return False
        full = {f"FULL{i}": "x" * 100000 for i in range(2)}
        watched = self.box.scry("run", "-q", sys.executable, "-I", "-c",
                                "import os; print(len(os.environ), 'SCRY_JOB' in os.environ); exit(3)")
        most = bisect.bisect_left(range(100000), True, key=lambda size: not fits(size)) - 1
        self.assertGreater(most, 0)
        for less, traced in ((200, False), (20000, True)):  # the program's path is not longer than 100 bytes
            env = {**full, "REST": "y" * (most - less)}
            done = self.box.run(watched, env=env, preexec_fn=stack)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(str(traced), done.stdout)
            self.assertEqual("ARG_MAX" in done.stderr, not traced, done.stderr)
            self.assertLessEqual(len(done.stderr.splitlines()), 1)

    def test_job_of_exec(self):
        """The program runs, and a line says that nobody watches it."""
        done = self.box.run(self.box.scry("exec", "sh", "-c", "echo ran"), env={"SCRY_JOB": "/nonexistent/job"})
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"))
        self.assertIn("the program runs untraced: there is no job /nonexistent/job (SCRY_JOB)", done.stderr)


class FullDisk(FaultCase):
    @staticmethod
    def until_stopped(most):
        """A script that runs until the records, limited to this many bytes, stop growing."""
        return (f"before=0; while sleep 0.5; now=$(wc -c <$SCRY_JOB/spool/records.jsonl); "
                f"[ $now -lt {most // 2} ] || [ $now != $before ]; do before=$now; done")

    def test_file_size_limit(self):
        """Writing fails in the middle: the job's own limit is untouched, the summary says what was lost."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))

        # a monitor started by this scry run would have the limit, too
        self.box.run(self.box.scry("omis", "-c", ":version()"))
        done = self.box.run(self.box.scry("run", "--sample", "0.01", "sh", "-c",
                                          f"ulimit -S -f; {self.until_stopped(6000)}; echo fine; exit 3"),
                            preexec_fn=limit)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout.split()[-1], "fine")
        self.assertIn("recording stopped: the job directory cannot be written: File too large", done.stderr)
        self.assertRegex(done.stderr, r"[1-9]\d* records were lost")
        report = self.report()
        self.assertEqual((report["exit_code"], report["status"]), (3, "exited"))
        self.assertGreater(report["lost_records"], 0)
        self.assertEqual(report["problems"], [])
        self.assertTrue(self.spool())

    def test_max_size(self):
        done = self.box.run(self.box.scry("run", "--sample", "0.01", "--max-size", "4K", "sh", "-c",
                                          self.until_stopped(4096)))
        self.assertEqual(done.returncode, 0)
        self.assertIn("reached its limit of 4.0 KB (--max-size)", done.stderr)
        self.assertGreater(self.report()["lost_records"], 0)

    def test_max_size_quietly(self):
        done = self.box.run(self.box.scry("run", "-q", "--sample", "0.01", "--max-size", "4K", "sh", "-c",
                                          self.until_stopped(4096)))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Ascry: recording stopped: .*--max-size.*[1-9]\d* records were lost.*\n\Z")

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a small disk")
    def test_disk_full(self):
        """The disk with the job directory fills up while the job runs."""
        disk = self.box.path("work", "disk")
        os.mkdir(disk)
        done = self.box.run(["mount", "-t", "tmpfs", "-o", "size=1m", "scry-test", disk])
        if done.returncode:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        self.addCleanup(self.box.run, ["umount", "-l", disk])
        directory = os.path.join(disk, "job")
        script = (f"while ! grep -q sample {directory}/spool/records.jsonl; do sleep 0.01; done; "
                  f"dd if=/dev/zero of={disk}/fill bs=4096 2>/dev/null; sleep 0.5; echo fine; exit 4")
        done = self.box.run(self.box.scry("run", "--sample", "0.01", "-o", directory, "sh", "-c", script))
        self.assertEqual((done.returncode, done.stdout), (4, "fine\n"))
        self.assertRegex(done.stderr, r"recording stopped: .*(disk|free)")
        self.assertRegex(done.stderr, r"[1-9]\d* records were lost")
        report = self.report(directory)
        self.assertEqual((report["status"], report["exit_code"]), ("exited", 4))
        self.assertTrue(os.path.exists(os.path.join(directory, "report.txt")))

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a small disk")
    @scrytest.hasten(5)
    def test_disk_full_for_a_while(self):
        """It goes on when there is room again: what was lost is a gap, of time and of numbers."""
        disk = self.box.path("work", "disk")
        os.mkdir(disk)
        done = self.box.run(["mount", "-t", "tmpfs", "-o", "size=1m", "scry-test", disk])
        if done.returncode:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        self.addCleanup(self.box.run, ["umount", "-l", disk])
        directory = os.path.join(disk, "job")
        spool = f"{directory}/spool/records.jsonl"
        script = (f"while ! grep -q sample {spool}; do sleep 0.01; done; dd if=/dev/zero of={disk}/fill bs=4096 2>/dev/null; "
                  f"before=0; while now=$(wc -c <{spool}); sleep 0.5; [ $now != $before ]; do before=$now; done; "
                  f"rm {disk}/fill; while ! grep -q '\"type\":\"gap\"' {spool}; do sleep 0.05; done; sleep 0.2; exit 4")
        done = self.box.run(self.box.scry("run", "--sample", "0.01", "-o", directory, "sh", "-c", script), timeout=100)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"(disk|free)")
        self.assertRegex(done.stderr, r"[1-9]\d* records were lost")
        with open(spool, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        at, = [number for number, record in enumerate(records) if record["type"] == "gap"]
        gap, numbers = records[at], [record["seq"] for record in records]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[at], numbers[at - 1] + 1)
        self.assertGreater(numbers[at + 1], numbers[at] + 1)
        self.assertRegex(gap["reason"], "disk|free")
        self.assertLess(gap["from"], gap["to"])
        self.assertEqual((records[at + 1]["t"], records[-1]["seq"] > numbers[at + 1]), (gap["to"], True))
        problem, = self.report(directory)["problems"]
        self.assertEqual(problem, f"{numbers[at + 1] - numbers[at] - 1} records are missing in the spool")

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a small disk")
    def test_disk_full_from_the_start(self):
        disk = self.box.path("jobs")
        done = self.box.run(["mount", "-t", "tmpfs", "-o", "size=64k", "scry-test", disk])
        if done.returncode:
            self.skipTest(f"no file system can be mounted here: {done.stderr.strip()}")
        self.addCleanup(self.box.run, ["umount", "-l", disk])
        with open(os.path.join(disk, "fill"), "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        done = self.box.run(self.box.scry("run", "sh", "-c", "echo fine; exit 4"))
        self.assertEqual((done.returncode, done.stdout), (4, "fine\n"))
        self.assertIn("recording stopped", done.stderr)

    def test_unwritable_state_directory(self):
        """No place for the record is no reason not to run the job."""
        done = self.box.run(self.box.scry("run", "--mpi", "stats", "--trace", "all", "sh", "-c", "echo fine; exit 4"),
                            env={"SCRY_STATE_DIR": "/proc/nowhere"})
        self.assertEqual((done.returncode, done.stdout), (4, "fine\n"))
        self.assertIn("is not recorded", done.stderr)
        for what in ("MPI calls were not counted", "no function was recorded"):
            self.assertIn(f"{what}: there is no job directory", done.stderr)
        self.assertNotIn("scry report", done.stderr)  # there is nothing that it could read
        self.assertIn("recording stopped", done.stderr)

    def test_unwritable_quietly(self):
        """That nothing is recorded is printed even if nothing else is."""
        done = self.box.run(self.box.scry("run", "-q", "sh", "-c", "exit 4"), env={"SCRY_STATE_DIR": "/proc/nowhere"})
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"\Ascry: job \S+ is not recorded: .*/proc/nowhere.*\n\Z")

    def test_directory_removed(self):
        """Somebody removes the job directory under the job."""
        done = self.box.run(self.box.scry("run", "--sample", "0.05", "sh", "-c",
                                          'rm -rf "$SCRY_JOB"; sleep 0.3; exit 4'))
        self.assertEqual(done.returncode, 4)
        self.assertIn("could not be written", done.stderr)


class HangingDisk(FaultCase):
    """What writes the job directory is held, as it is by a disk that does not answer."""

    SCRIPT = 'trap "echo TERM; exit 7" TERM; echo ready; while :; do sleep 0.01; done'

    def start(self, pause):
        """From the next write on the disk hangs."""
        run = self.start_run("--sample", "0.05", "sh", "-c", self.SCRIPT, stderr=subprocess.PIPE)
        self.assertEqual(run.stdout.readline(), "ready\n")
        pause.__enter__()
        return run, pause.reached()

    def test_signals_reach_the_command(self):
        """The job ends on request, scry run soon after; its records are written when the disk works again."""
        pause = self.box.pause("writer.before-write")
        run, writer = self.start(pause)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.stdout.readline(), "TERM\n")
        out, said = run.communicate(timeout=20 * scrytest.SCALE)
        self.assertEqual((out, run.returncode), ("", 7), "and nobody keeps its output open")
        self.assertIn("the disk with the job directory does not answer", said)
        self.assertFalse(process_gone(writer))
        pause.__exit__(None, None, None)
        wait_until(lambda: process_gone(writer), 20)
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"], report["lost_records"]), ("exited", 7, 0))
        self.assertIn("disk_hangs", [warning["kind"] for warning in report["warnings"]])

    def test_in_time(self):
        """A disk that works again before the end leaves no trace."""
        pause = self.box.pause("writer.before-write")
        run, _ = self.start(pause)
        pause.__exit__(None, None, None)
        os.kill(run.pid, signal.SIGTERM)
        _, said = run.communicate(timeout=20 * scrytest.SCALE)
        self.assertNotIn("disk", said)
        self.assertEqual([warning["note"] for warning in self.report()["warnings"]], ["signal_came"])
        self.assertEqual(self.report()["lost_records"], 0)

    def test_killed(self):
        pause = self.box.pause("writer.before-write")
        run, writer = self.start(pause)
        os.kill(writer, signal.SIGKILL)
        os.kill(run.pid, signal.SIGTERM)
        out, said = run.communicate(timeout=20 * scrytest.SCALE)
        self.assertEqual((out, run.returncode), ("TERM\n", 7))
        self.assertIn("recording stopped: the process that wrote it was killed", said)
        pause.__exit__(None, None, None)


class Crashes(FaultCase):
    def test_signal_and_process(self):
        done = self.box.run(self.box.scry("run", scrytest.example("crash")))
        self.assertEqual(done.returncode, 139)
        self.assertRegex(done.stderr, r"crash \(pid \d+\): SIGSEGV \(Segmentation fault\)")
        crash, = self.report()["crashes"]
        self.assertEqual((crash["name"], crash["signal"]), ("crash", signal.SIGSEGV))

    @scrytest.thorough
    def test_grandchild(self):
        """A process that lived long enough to be seen, of a parent that hides its end."""
        done = self.box.run(self.box.scry("run", "sh", "-c", f"{scrytest.example('crash')} abort main 1; exit 0"))
        self.assertEqual(done.returncode, 0)
        crash, = self.report()["crashes"]
        self.assertEqual((crash["name"], crash["signal"]), ("crash", signal.SIGABRT))

    def test_advice_once(self):
        """How to get backtraces is printed once, however many processes crash."""
        crash = f"{scrytest.example('crash')} abort main 1"
        done = self.box.run(self.box.scry("run", "sh", "-c", f"ulimit -c 0; {crash} & {crash} & wait"))
        self.assertEqual(len(self.report()["crashes"]), 2)
        self.assertEqual(done.stderr.count("ulimit -c unlimited"), 1, done.stderr)

    FRAMES = ["inner", "middle", "outer"]

    def functions(self, crash):
        return [frame.get("function") for frame in crash["frames"]]

    def test_crash_stack(self):
        """The backtrace with functions and lines, taken while the thread was held before its end."""
        for how, number in (("null", signal.SIGSEGV), ("fpe", signal.SIGFPE), ("abort", signal.SIGABRT)):
            for who in ("main", "thread"):
                done = self.box.run(self.box.scry("run", "--crash-stack", scrytest.example("crash"), how, who))
                self.assertEqual(done.returncode, 128 + number)
                crash, = self.report()["crashes"]
                functions = self.functions(crash)
                start = functions.index("inner")
                self.assertEqual(functions[start:start + 3], self.FRAMES)
                frame = crash["frames"][start]
                self.assertTrue(frame["file"].endswith("examples/crash.c"))
                self.assertRegex(done.stderr, rf"#{start} +inner at .*examples/crash.c:{frame['line']}\n")
                if how == "abort":  # of the library, what the program called
                    self.assertGreater(start, 1)
                    self.assertRegex(done.stderr, rf"\n    #0(-{start - 2})? +in libraries \(--json\)\n    #{start - 1} +\w*abort ")

    def test_crash_stack_with_its_reason(self):
        """The kernel logs no faults of traced processes: the reason comes from what the tracer saw."""
        for command, number, reason in ((["null", "main"], signal.SIGSEGV, "a NULL pointer"),
                                        (["null", "thread"], signal.SIGSEGV, "a NULL pointer"),
                                        (["stack", "main"], signal.SIGSEGV, "stack overflow (its stack may have 8.0 MB: ulimit -s)"),
                                        (["fpe", "thread"], signal.SIGFPE, "an integer was divided by zero"),
                                        (["abort", "main"], signal.SIGABRT, None)):
            done = self.box.run(self.box.scry("run", "--crash-stack", "sh", "-c", 'ulimit -c 0; ulimit -s 8192; exec "$@"', "sh",
                                              scrytest.example("crash"), *command))
            report = self.report()
            self.assertEqual((report["signal"], report["reason"]), (number, reason), command)
            crash, = report["crashes"]
            self.assertEqual((crash.get("reason"), "address" in crash), (reason, number == signal.SIGSEGV))
            if reason:
                self.assertIn(f": {reason}\n", done.stderr)
        self.box.run(self.box.scry("run", "--crash-stack", "sh", "-c", "ulimit -c 0; kill -SEGV $$"))
        crash, = self.report()["crashes"]
        self.assertFalse("reason" in crash or "address" in crash or "sp" in crash, crash)

    def test_crash_stack_that_ends_between_python(self):
        """In a library through which nobody can unwind: the functions of Python further out are there all the same."""
        path = self.box.path("work", "blind.py")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"import ctypes\nlib = ctypes.CDLL({scrytest.blind_library()!r})\ndef inner():\n    ctypes.memmove(8, 16, 4)\n"
                       "called = ctypes.CFUNCTYPE(None)(inner)\ndef outer():\n    lib.blind(called)\nouter()\n")
        self.box.run(self.box.scry("run", "--crash-stack", "/usr/bin/python3", path))
        crash, = self.report()["crashes"]
        self.assertEqual([frame["function"] for frame in crash["frames"] if frame.get("language") == "python"], ["inner", "outer", "<module>"])
        self.assertNotIn("language", crash["frames"][0])

    def test_crash_stack_of_what_makes_threads(self):
        """Killed while a thread of it begins, of which the tracer has not heard: that has to be let go, too."""
        self.run_beginners(30)

    def test_crash_stack_of_what_forks(self):
        """The like, and the child lives on."""
        self.run_beginners(scrytest.rounds(100, 1000), "fork")

    def run_beginners(self, *arguments):
        program = scrytest.built("test", "system", "targets", "beginners")
        done = self.box.run(self.box.scry("run", "-q", "--crash-stack", program, *arguments))
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)

    def test_crash_stack_of_a_child(self):
        """Of a process that lived for a millisecond, whose parent keeps its end to itself."""
        script = f"{scrytest.example('crash')} bus; true"
        done = self.box.run(self.box.scry("run", "--crash-stack", "sh", "-c", script))
        self.assertEqual(done.returncode, 0)
        crash, = self.report()["crashes"]
        self.assertEqual((crash["name"], crash["signal"]), ("crash", signal.SIGBUS))
        self.assertIn("inner", self.functions(crash))

    def test_handled_signal_is_no_crash(self):
        program = "import faulthandler, signal, os\nsignal.signal(11, lambda *_: None)\nos.kill(os.getpid(), 11)\n"
        done = self.box.run(self.box.scry("run", "--crash-stack", "/usr/bin/env", "python3", "-I", "-c", program))
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.report()["crashes"], [])

    def test_crash_stack_leaves_the_job_as_it_is(self):
        """Traced, a tree of processes does what it does, and its statuses are its own."""
        done = self.box.run(self.box.scry("run", "-q", "--crash-stack", "sh", "-c",
                                          'for i in 1 2 3; do sh -c "exit $i"; echo $?; done | cat; kill -TERM $$'))
        self.assertEqual((done.returncode, done.stdout), (143, "1\n2\n3\n"))

    @scrytest.thorough
    def test_crash_stack_takes_privileges(self):
        """Linux gives traced programs none, setuid, setgid or capabilities: one warning says so."""
        user = scrytest.Sandbox.ordinary_user()
        if not user:
            self.skipTest("needs root, to make such programs")
        box = scrytest.Sandbox(user=user)
        self.addCleanup(box.close)
        if os.statvfs(box.path("work")).f_flag & os.ST_NOSUID:
            self.skipTest("no program has privileges on this file system")

        def program(name, mode, group=0):
            path = box.path("work", name)
            shutil.copy(shutil.which("cat"), path)
            os.chown(path, 0, group)
            os.chmod(path, mode)
            return path
        plain, able = program("plain", 0o755), program("able", 0o755)
        os.setxattr(able, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))  # CAP_NET_RAW

        def warnings(*options, programs):
            command = "; ".join(f"{path} /proc/self/status" for path in programs)
            done = box.run(box.scry("run", *options, "sh", "-c", command))
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(box.run(box.scry("report", "--json", "@last")).stdout)
            return [each["text"] for each in report["warnings"] if each["kind"] == "privilege"]
        for path in (program("setuid", 0o4755), program("setgid", 0o2755), able):
            text, = warnings("--crash-stack", programs=[plain, path, path])
            self.assertTrue(text.startswith(path + " ran without its privileges"), text)
            self.assertEqual(warnings(programs=[path]), [])
        self.assertEqual(warnings("--crash-stack", programs=[plain, program("group", 0o2745)]), [])  # no setgid: not executable

    def test_core_file(self):
        """A core file that the system left is read."""
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
            if file.read().strip() not in ("core", "core.%p"):
                self.skipTest("core files go elsewhere here")
        done = self.box.run(["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh",
                             *self.box.scry("run", scrytest.example("crash"))],
                            # a sanitized scry run would have switched them off
                            env={"ASAN_OPTIONS": self.box.env.get("ASAN_OPTIONS", "") + ":disable_coredump=0"})
        self.assertEqual(done.returncode, 139)
        crash, = self.report()["crashes"]
        self.assertTrue(crash.get("core", "").startswith(self.box.path("work")), crash)
        self.assertEqual(self.functions(crash)[:3], self.FRAMES)

    def test_shell_status(self):
        done = self.box.run(self.box.scry("run", "sh", "-c", f"{scrytest.example('crash')}; exit $?"))
        self.assertEqual(done.returncode, 139)
        self.assertIn("SIGSEGV", done.stderr)


if __name__ == "__main__":
    scrytest.main()
