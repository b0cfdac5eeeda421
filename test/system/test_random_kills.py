# SPDX-License-Identifier: Apache-2.0
"""Jobs that check themselves, beside monitors, tracers, helpers and tools that are killed and stopped at any time, and a
runtime directory that is emptied: each job's output and exit status are what they are without scry, and none hangs.

A round is made from its number, which is said where it fails: SCRY_TEST_ROUND=17 runs that one alone, as nearly as the
machine lets it be the same. SCRY_TEST_ROUNDS=200 runs so many; a thorough run has 200."""

import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import brokertest
import scrytest
from jobtest import JobCase, target

SHELL = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); /bin/true || echo wrong; done; (exit 5); echo $?; sh -c 'kill -TERM $$'; echo $?; exit 3"
RULE = 'ct_function_called([], "leaf") : print(["x"])'
PARTS = ("scry-monitor", "job-tracer", "job-writer", "job-observer", "job-publisher", "scry-symbols", "broker")
PAUSES_SECONDS = 2  # what parts that do not answer may cost a job, all together


def jobs():
    """{name: (options of scry run, command)}"""
    return {
        "threads": (["--trace", "all"], [target(), "threads", 300]),
        "values": (["--trace", "all", "--args", "--locals"], [target(), "calls", 500]),
        "fork": ([], [target(), "fork", 200]),
        "spawn": ([], [target(), "spawn", 100]),
        "storm": (["--overflow", "wait", "--buffer", "1M"], [target(), "storm", 200000]),
        "flight": (["--overflow", "flight", "--buffer", "1M"], [target(), "threads", 300]),
        "rule": (["--rule", RULE], [target(), "calls", 200]),
        "exec": ([], [target(), "exec", 100]),
        "killed": ([], [target(), "kill", 9]),
        "handled": (["--trace", "all"], [target(), "handle", 10]),
        "shell": ([], ["sh", "-c", SHELL]),
        "watched": (["--crash-stack"], ["sh", "-c", SHELL]),
    }


class Kills(JobCase):
    case_seconds = 1200

    def setUp(self):
        super().setUp()
        self.box.env["SCRY_IDLE"] = "1"

    def of(self, *programs):
        return [pid for name in programs for pid in self.box.processes(name)]

    def signal(self, number, *programs):
        for pid in self.of(*programs):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop_tracers(self):
        """Its guard lets it go on: not stopped as well, which has the same program."""
        for pid in self.of("scry-tracer"):
            try:
                if scrytest.process_status(pid)["Name"] == "job-tracer":
                    os.kill(pid, signal.SIGSTOP)
            except (KeyError, OSError):
                pass

    def stop_for_a_while(self, chance, *programs):
        self.signal(signal.SIGSTOP, *programs)
        time.sleep(chance.random() * 0.5)
        self.signal(signal.SIGCONT, *programs)

    def remove(self, *names):
        for name in names or os.listdir(self.box.path("run")):
            path = self.box.path("run", name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)

    def disturb(self, chance):
        """One of what may happen; its name."""
        what = chance.choice(["kill monitor", "kill monitor", "stop monitor", "kill helper", "kill tracer", "stop tracer",
                              "stop helper", "kill tool",
                              "remove sockets", "remove all"])
        if what == "kill monitor":
            self.signal(signal.SIGKILL, "scry-monitor")
        elif what == "stop monitor":
            self.stop_for_a_while(chance, "scry-monitor")
        elif what == "kill helper":
            self.signal(signal.SIGKILL, "scry-symbols")
        elif what == "kill tracer":  # no rule here that holds threads at breakpoints: of these some may die
            self.signal(signal.SIGKILL, "scry-tracer")
        elif what == "stop tracer":
            self.stop_tracers()
        elif what == "stop helper":
            self.stop_for_a_while(chance, "scry-tracer", "scry-symbols")
        elif what == "kill tool":
            tool = self.box.start(self.box.scry("top", "@last"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.random() * 0.1)
            tool.kill()
            tool.wait()
        elif what == "remove sockets":
            self.remove("monitor.sock", "agent.sock")
        elif what == "remove all":
            self.remove()
        return what

    def one_round(self, number, expected):
        chance = random.Random(number)
        names = chance.sample(sorted(expected), 3)
        started = {}
        for name in names:
            options, command = jobs()[name]
            started[name] = self.start_run("-q", *options, "--", *command, stderr=subprocess.DEVNULL)
        done = []
        for _ in range(chance.randint(1, 4)):
            time.sleep(chance.random() * 0.2)
            done.append(self.disturb(chance))
        for name, run in started.items():
            with self.subTest(round=number, job=name, others=names, disturbed=done):
                out, _ = run.communicate(timeout=30 * scrytest.SCALE)
                self.assertEqual((run.returncode, sorted(out.splitlines())), expected[name])

    def test_rounds(self):
        expected = {}
        for name, (_, command) in jobs().items():
            alone = self.box.run(command)
            status = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
            expected[name] = (status, sorted(alone.stdout.splitlines()))
        only = os.environ.get("SCRY_TEST_ROUND")
        for number in [int(only)] if only else range(scrytest.rounds(6, 200)):
            self.one_round(number, expected)

    # ---- two parts at once ----

    def part_pids(self, part, broker):
        """Of a part of scry, by what its processes are called (one program has several of them)."""
        if part == "broker":
            return [broker.process.pid]
        found = []
        for pid in self.of("scry"):
            try:
                if scrytest.process_status(pid)["Name"] == part:
                    found.append(pid)
            except (KeyError, OSError):
                pass
        return found

    @staticmethod
    def send(number, pids):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def pair_round(self, number, expected, broker):
        """Three jobs, and two parts of scry that are killed, stopped for a while, or stopped until the jobs are over."""
        chance = random.Random(number)
        names = chance.sample(sorted(expected), 3)
        parts = chance.sample(PARTS, 2)
        how = [chance.choice(("kill", "stop", "stop for good")) for _ in parts]
        begun, started = time.monotonic(), {}
        for name in names:
            options, command = jobs()[name]
            started[name] = self.start_run("-q", "--broker", broker.url, *options, "--", *self.timed(name, command), stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.4)
        hit = [self.part_pids(part, broker) for part in parts]
        for pids, what in zip(hit, how):
            self.send(signal.SIGKILL if what == "kill" else signal.SIGSTOP, pids)
        time.sleep(chance.random() * 0.5)
        for pids, what in zip(hit, how):
            if what == "stop":
                self.send(signal.SIGCONT, pids)
        try:
            for name, run in started.items():
                with self.subTest(round=number, job=name, others=names, disturbed=list(zip(parts, how, hit))):
                    status, said, seconds = expected[name]
                    out, _ = run.communicate(timeout=60 * scrytest.SCALE)
                    self.assertEqual((run.returncode, sorted(out.splitlines())), (status, said))
                    self.assertLess(self.seconds_of(name), scrytest.room(2 * seconds + PAUSES_SECONDS), f"{seconds:.2f} s without scry")
        finally:
            for pids, what in zip(hit, how):
                self.send(signal.SIGCONT, pids)
        if broker.process.poll() is not None:
            broker.stop()
            broker.start()
        return time.monotonic() - begun

    @staticmethod
    def timed(name, command):
        """The command, which leaves in a file how long it took, whatever scry has to do before and behind it."""
        return ["sh", "-c", 'b=$(date +%s%N); "$@"; s=$?; echo $(($(date +%s%N) - b)) >took-$0; exit $s', name, *map(str, command)]

    def seconds_of(self, name):
        with open(self.box.path("work", f"took-{name}"), encoding="ascii") as file:
            return int(file.read()) / 1e9

    @unittest.skipUnless(brokertest.MOSQUITTO, "needs mosquitto")
    def test_pairs(self):
        expected = {}
        for name, (_, command) in jobs().items():
            alone = self.box.run(self.timed(name, command))
            expected[name] = (alone.returncode, sorted(alone.stdout.splitlines()), self.seconds_of(name))
        only = os.environ.get("SCRY_TEST_ROUND")
        count = int(os.environ.get("SCRY_TEST_ROUNDS", scrytest.rounds(4, 200)))
        with brokertest.Mosquitto(self.box) as broker:
            for number in [int(only)] if only else range(count):
                self.pair_round(number, expected, broker)
            # They bring what the broker missed while it was away.
            scrytest.wait_until(lambda: not self.part_pids("job-publisher", broker), 60, "publishers end once the broker has all")


if __name__ == "__main__":
    scrytest.main()
