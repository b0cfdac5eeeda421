# SPDX-License-Identifier: Apache-2.0
"""The example programs do what they say: other tests and later work rely on it. And the sandbox keeps what it says."""

import os
import pwd
import re
import signal
import sys
import unittest
from unittest import mock

import scrytest
from scrytest import children, process_gone, process_state, wait_until


class Stommel(scrytest.TestCase):
    case_seconds = 180

    def run_ranks(self, ranks, *arguments):
        command = ["mpirun", "--oversubscribe", "-n", ranks, self.box.program(scrytest.example("stommel")), *arguments]
        return self.box.run(command, timeout=150)  # they spin, and take turns where processors are wanted

    def result(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\nchecked  against .*: equal\n")
        return [float(number) for number in re.search(r"^result   sum (\S+), largest (\S+)$", done.stdout, re.M).groups()]

    @scrytest.thorough
    def test_same_result_for_any_number_of_ranks(self):
        """On 1, 2, 3 (one row of blocks) and 6 (blocks of different sizes); each is also checked by the program."""
        results = [self.result(self.run_ranks(ranks, 61, 47, 300)) for ranks in (1, 2, 3, 6)]
        for sum_, largest in results[1:]:
            self.assertAlmostEqual(sum_ / results[0][0], 1, places=9)
            self.assertEqual(largest, results[0][1])

    def test_closed_form(self):
        """Run long enough, the largest value is that of Stommel's formula, but for the coarse grid's error."""
        _, largest = self.result(self.run_ranks(2, 60, 60, 6000))
        self.assertAlmostEqual(largest / 50.84e6, 1, delta=0.01)

    def test_refuses_nonsense(self):
        for arguments in ((4, 4, 5), (10,), ("x", 10, 10), (50, 50, 0)):
            done = self.box.run([scrytest.example("stommel"), *arguments])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("usage: stommel", done.stderr)


class OrdinaryUser(scrytest.TestCase):
    """The sandbox lets root's tests run as somebody without privileges, MPI included."""

    user = scrytest.Sandbox.ordinary_user()

    def test_ranks(self):
        if not self.user:
            self.skipTest("the tests already run as an ordinary user")
        self.assertEqual(self.box.run(["id", "-un"]).stdout, pwd.getpwnam(self.user).pw_name + "\n")
        stommel = self.box.program(scrytest.example("stommel"))
        done = self.box.run(["mpirun", "--oversubscribe", "-n", 2, stommel, 40, 40, 100])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("on one rank: equal", done.stdout)


class Threads(scrytest.TestCase):
    def test_counts(self):
        done = self.box.run([scrytest.example("threads"), "3", "0.1", "2"])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"^[1-9]\d* steps by 3 workers: all counted$")

    def test_show_and_end_by_input(self):
        process = self.box.start([scrytest.example("threads"), "--show", "2", "0", "1"], stdin=-1)
        pid, step, _, *workers = [process.stdout.readline().split() for _ in range(5)]
        self.assertEqual(pid, ["pid", str(process.pid)])
        self.assertGreater(int(step[1], 16), 0)
        tasks = os.listdir(f"/proc/{process.pid}/task")
        self.assertEqual(len(tasks), 4, "main, two workers, one sleeper")
        self.assertLess({tid for _, tid in workers}, set(tasks))
        process.stdin.close()
        self.assertIn("all counted", process.stdout.readline())
        self.assertEqual(process.wait(20 * scrytest.SCALE), 0)


class Forks(scrytest.TestCase):
    def test_counts(self):
        for arguments, processes in (((), 17), ((1, 1), 2), ((8, 1), 1 + 8 + 2 + 2), ((2, 3), 1 + 2 + 4 + 8 + 4)):
            with self.subTest(arguments=arguments):
                done = self.box.run([scrytest.example("forks"), *arguments])
                self.assertEqual((done.returncode, done.stdout), (0, f"{processes} processes: all ended well\n"))


class Crash(scrytest.TestCase):
    WAYS = {"null": signal.SIGSEGV, "abort": signal.SIGABRT, "fpe": signal.SIGFPE, "illegal": signal.SIGILL,
            "bus": signal.SIGBUS, "stack": signal.SIGSEGV}

    def test_signals(self):
        for way, number in self.WAYS.items():
            for who in ("main", "thread"):
                with self.subTest(way=way, who=who):
                    self.assertEqual(self.box.run([scrytest.example("crash"), way, who]).returncode, -number)
            with self.subTest(way=way, who="child"):
                self.assertEqual(self.box.run([scrytest.example("crash"), way, "child"]).returncode, 128 + number)


class Hang(scrytest.TestCase):
    WAYS = {"deadlock": "S", "loop": "R", "read": "S", "child": "S"}

    def test_until_the_alarm(self):
        for way, process in [(way, self.box.start_example("hang", way, "1")) for way in self.WAYS]:
            with self.subTest(way=way):
                said, _ = process.communicate(timeout=20 * scrytest.SCALE)
                self.assertEqual((process.returncode, said), (-signal.SIGALRM, "hangs\n"))

    def test_hangs(self):
        for way, state in self.WAYS.items():
            with self.subTest(way=way):
                process = self.box.start([scrytest.example("hang"), way])
                self.assertEqual(process.stdout.readline(), "hangs\n")
                wait_until(lambda: process_state(process.pid) == state, message=f"{way} is in state {state}")
                offspring = children(process.pid)
                self.assertEqual(len(offspring), 1 if way == "child" else 0)
                process.send_signal(signal.SIGALRM)
                self.assertEqual(process.wait(20 * scrytest.SCALE), -signal.SIGALRM)
                for pid in offspring:
                    wait_until(lambda: process_gone(pid), message="the child goes with its parent")


class Box(unittest.TestCase):
    """The sandbox itself."""

    def test_leaves_nothing_behind(self):
        with scrytest.Sandbox() as box:
            process = box.start(["sh", "-c", "sleep 1000 & echo $!; wait"])
            sleeper = int(process.stdout.readline())
            self.assertFalse(process_gone(sleeper))
            self.assertTrue(os.path.isdir(box.path("run")))
        wait_until(lambda: process_gone(sleeper))
        self.assertFalse(os.path.exists(box.root))
        self.assertIsNotNone(process.returncode)

    def test_leaves_nothing_behind_when_killed(self):
        """As meson does when a test's time is over."""
        with scrytest.Sandbox() as box:
            with open(box.path("work", "slow.py"), "w", encoding="utf-8") as file:
                file.write(f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
                           "import scrytest\n"
                           "class Slow(scrytest.TestCase):\n"
                           "    def test(self):\n"
                           "        sleeper = self.box.start(['sleep', '1000'])\n"
                           "        session = self.box.omis()\n"
                           "        session.request(': version()')\n"
                           "        print(self.box.root, sleeper.pid, self.box.monitor_pid(), flush=True)\n"
                           "        sleeper.wait()\n"
                           "scrytest.main()\n")
            slow = box.start([sys.executable, box.path("work", "slow.py")], env={"SCRY_BUILD": scrytest.BUILD})
            self.assertEqual(slow.stdout.readline(), "TAP version 13\n")
            root, sleeper, monitor = slow.stdout.readline().split()
            slow.terminate()
            self.assertEqual(slow.wait(20 * scrytest.SCALE), -signal.SIGTERM)
            for pid in (int(sleeper), int(monitor)):
                wait_until(lambda pid=pid: process_gone(pid), message=f"{pid} is ended")
            self.assertFalse(os.path.exists(root))

    def test_environment_is_its_own(self):
        os.environ["SCRY_NAME"] = "from outside"
        self.addCleanup(os.environ.pop, "SCRY_NAME")
        with scrytest.Sandbox() as box:
            done = box.run(["sh", "-c", "echo $SCRY_NAME:$HOME:$SCRY_RUNTIME_DIR"])
            self.assertEqual(done.stdout, f":{box.path('home')}:{box.path('run')}\n")
            self.assertLess(len(box.path("run", "monitor.sock")), 60)

    def test_waiting_gives_up(self):
        with mock.patch("tapcases.TIMEOUT", 0), self.assertRaisesRegex(AssertionError, "not within 0.05 s: never"):
            wait_until(lambda: False, 0.05, "never")


scrytest.main()
