# SPDX-License-Identifier: Apache-2.0
"""Jobs that check themselves, beside monitors, tracers, helpers and tools that are killed and stopped at any time, and a
runtime directory that is emptied: each job's output and exit status are what they are without scry, and none hangs.

A round is made from its number, which is said where it fails: SCRY_TEST_ROUND=17 runs that one alone, as nearly as the
machine lets it be the same."""

import os
import random
import shutil
import signal
import subprocess
import time

import scrytest
from jobtest import JobCase, target

SHELL = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); /bin/true || echo wrong; done; (exit 5); echo $?; sh -c 'kill -TERM $$'; echo $?; exit 3"
RULE = 'ct_function_called([], "leaf") : print(["x"])'


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


if __name__ == "__main__":
    scrytest.main()
