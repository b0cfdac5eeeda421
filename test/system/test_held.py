# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for the monitor because a request is to be run at a call: the program goes on when that monitor is
killed, though nobody may wait for its remains, and when it is stopped; and the next monitor holds nobody for nothing."""

import ctypes
import os
import signal

import mpitest
import scrytest
from jobtest import JobCase
from scrytest import process_state, wait_until

PR_SET_CHILD_SUBREAPER = 36
LONGEST = 5.0  # seconds that a call may take when its monitor is gone or stopped, and processors are wanted
TARGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets")


class Held:
    case_seconds = 180

    """The cases; `rule` holds the calls of held.c, `program()` is its command line."""

    rule = None
    rank_names = ("",)

    def setUp(self):
        super().setUp()
        # what has no parent any more is our child, and we wait for nobody
        libc = ctypes.CDLL(None)
        self.assertEqual(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0)
        self.addCleanup(libc.prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        self.go, self.progress = self.box.path("work", "go"), self.box.path("work", "progress")
        self.run_ = self.start_run("--sample", 0.1, "--rule", self.rule, "--", *self.program(), self.go, self.progress)
        self.goes_on(50)

    def counted(self):
        """(calls, microseconds of the longest) of each rank; (0, 0): it has not begun."""
        found = []
        for name in self.rank_names:
            try:
                with open(self.progress + name, encoding="ascii") as file:
                    found.append(tuple(map(int, file.read().split())) or (0, 0))
            except FileNotFoundError:
                found.append((0, 0))
        return found

    def calls(self):
        return min(calls for calls, _ in self.counted())

    def goes_on(self, count, timeout=100):  # ranks that spin take turns where processors are wanted
        """Makes the program do so many more calls."""
        before = self.calls()
        wait_until(lambda: self.calls() >= before + count, timeout, lambda: f"stays at {self.counted()}")

    def kill_monitor(self):
        pid = self.box.monitor_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process_state(pid) == "Z", message="it is there as a zombie")
        return pid

    def end(self):
        """The requests that ran, by what was printed at the end."""
        with open(self.go, "w", encoding="ascii"):
            pass
        self.assertEqual(self.run_.wait(30 * scrytest.SCALE), 0)
        for _, longest in self.counted():
            self.assertLess(longest / 1e6, LONGEST * scrytest.SCALE)
        (rule,) = self.report()["rules"]
        return rule["fired"]

    def test_killed(self):
        """Again and again: each time is another one for a call to be just about to wait."""
        for _ in range(scrytest.rounds(2, 8)):
            killed = self.kill_monitor()
            wait_until(lambda killed=killed: self.box.monitor_pid() not in (None, killed), 30)
            self.goes_on(200)
            self.assertEqual(process_state(killed), "Z")
        self.assertGreater(self.end(), 50)

    @scrytest.thorough
    def test_killed_for_good(self):
        """Nobody is there to start another."""
        os.kill(self.run_.pid, signal.SIGSTOP)
        try:
            self.kill_monitor()
            self.goes_on(300)
        finally:
            os.kill(self.run_.pid, signal.SIGCONT)
        self.end()

    def test_stopped(self):
        monitor = self.box.monitor_pid()
        before = self.calls()
        os.kill(monitor, signal.SIGSTOP)
        since = self.calls()
        try:
            self.goes_on(300)
        finally:
            unheard = self.calls() - since
            os.kill(monitor, signal.SIGCONT)
        self.goes_on(300)
        fired, calls = self.end(), sum(calls for calls, _ in self.counted())
        self.assertLess(fired, calls - len(self.rank_names) * unheard / 2)
        self.assertGreater(fired, before)


class Functions(Held, JobCase):
    rule = 'ct_function_called([], "step") : print(["x"])'

    def program(self):
        return [scrytest.built("test", "system", "targets", "held")]


class Mpi(Held, mpitest.MpiCase):
    rule = 'thread_has_started_lib_call([], "MPI_Sendrecv", "sendcount > 0") : print([$call])'
    rank_names = (".0", ".1")

    def program(self):
        return self.command("2", self.target(os.path.join(TARGETS, "held.c"), "-DMPI_RANKS", name="held"))


mpitest.for_each_mpi(Mpi, globals())
del Held
scrytest.main()
