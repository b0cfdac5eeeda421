# SPDX-License-Identifier: Apache-2.0
"""What an MPI call costs with all statistics on, and with each call and message recorded as well (`--mpi trace`), and what
that is of whole programs: against no tool in the same run, under Open MPI and MPICH.

    bench_mpi.py [ROUNDS]

Calls of a process to itself: each round runs the target once without a tool and once with, and the difference of the
medians is what a call costs. Programs (two ranks): interleaved pairs, the median of the ratios of the times that they say
they took, with its 95 % interval; and, since on a busy machine that spans the goal, the number of calls x the cost of one
call, of that time: calls of a kind that is measured by its own cost, others by that of MPI_Sendrecv, which costs most.
Requests for events of calls: what a list that runs in the process adds to a call.
Goals: at most 30 ns a call on MPI_Sendrecv of 8 bytes, of which two readings of the clock are the part that the line
`clock` says; less than 0.5 % on programs, with traces at most 2 %; a list of actions that a call's arguments decide about
at most 15 ns on top, a call recorded at most 60. What is not installed is left out, and said to be.
"""

import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from bench_hooks import Tool

BUILD = os.environ.get("SCRY_BUILD") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build")
SCRY = os.path.join(BUILD, "src", "cli", "scry")
LIBRARIES = {"openmpi": ["--oversubscribe"], "mpich": []}
HOW = ("stats", "trace")
# What is talked about is the same in both of mpi_collective: in the first a call comes each microsecond or two, all within
# one memory, which no watching is cheap against; in the second as often as a fast network would let it.
PROGRAMS = [("stommel", "200", "200", "8000"), ("mpi_collective", "2000", "20000"), ("mpi_collective", "10000", "10000")]


def interval(values):
    """The median and the bounds of its 95 % interval, by order statistics."""
    values, half = sorted(values), 0.98 * len(values) ** 0.5
    low = max(0, int(len(values) / 2 - half))
    return statistics.median(values), values[low], values[len(values) - 1 - low]


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.runtime = tempfile.mkdtemp(prefix="scry-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else folder)
        self.env = dict(os.environ, XDG_STATE_HOME=f"{folder}/state", XDG_CACHE_HOME=f"{folder}/cache",
                        SCRY_RUNTIME_DIR=self.runtime, NO_COLOR="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.job = f"{folder}/job"
        self.tool = None

    def command(self, tool, *command):
        if not tool:
            return command
        shutil.rmtree(self.job, ignore_errors=True)
        return (SCRY, "run", "-q", "-o", self.job, "--sample", "60", "--trace", "off", "--mpi", tool, "--", *command)

    def run(self, tool, *command):
        """What it prints."""
        done = subprocess.run(self.command(tool, *command), env=self.env, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=600)
        return done.stdout

    def calls(self):
        """How often the rank of the last job that made the most calls has made each, by its statistics."""
        most = {}
        for path in glob.glob(f"{self.job}/stats/*/*.json"):
            with open(path, encoding="utf-8") as file:
                table = json.load(file)["calls"]
            name, count = table["columns"].index("call"), table["columns"].index("count")
            found = {row[name]: row[count] for row in table["rows"]}
            most = max(most, found, key=lambda calls: sum(calls.values()))
        return most


def cost_of_calls(bench, library, rounds):
    """Prints it by kind; returns nanoseconds by what is on and by kind."""
    target = os.path.join(BUILD, "bench", f"mpi_target_{library}")
    found = {tool: {} for tool in (None, *HOW)}
    for _ in range(rounds):
        for tool in found:
            words = bench.run(tool, target).split()
            for name, value in zip(words[::2], words[1::2]):
                found[tool].setdefault(name, []).append(float(value))
    if not bench.calls():
        sys.exit(f"{library}: nothing was counted; is the interposer built?")
    added = {}
    for name, plain in found[None].items():
        without = statistics.median(plain)
        text = f"  {name:<20} {without:8.1f} ns without"
        for tool in HOW:
            with_it = interval(found[tool][name])
            added[name, tool] = with_it[0] - without
            text += f", + {added[name, tool]:6.1f} ns {tool} ({with_it[1] - without:.1f} to {with_it[2] - without:.1f})"
        print(text)
    return {tool: {name: added[name, tool] for name in found[None]} for tool in HOW}


def told(bench, library, requests):
    """Nanoseconds of MPI_Sendrecv while these requests are in force, each with a counter of its own, and what these have
    counted."""
    run = subprocess.Popen(bench.command("stats", os.path.join(BUILD, "bench", f"mpi_target_{library}"), "waits"),
                           env=bench.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True)
    try:
        pid = int(run.stdout.readline())
        tool = bench.tool = bench.tool or Tool(bench) # there is a monitor by now
        process = tool.attach(pid)
        enabled, counters = [], []
        for request in requests:
            counters.append(tool.ask(": pa_counter_create()")[1])
            enabled.append(tool.ask(request.format(process=process, counter=counters[-1]), conditional=True)[0])
        if enabled:
            tool.ask(f": csr_enable([{', '.join(enabled)}])")
        words = run.communicate("go\n", timeout=600)[0].split()
        counted = [int(tool.ask(f": pa_counter_read([{counter}])")[1]) for counter in counters]
        if enabled:
            tool.ask(f": csr_delete([{', '.join(enabled)}])")
        return float(words[words.index("MPI_Sendrecv") + 1]), counted
    finally:
        run.kill()
        run.wait()


STARTED = "thread_has_started_lib_call([{process}], "
ACTIONS = {
    "another call is meant": [STARTED + '"MPI_Abort") : pa_counter_add([{counter}], 1)'],
    "a counter": [STARTED + '"MPI_Sendrecv") : pa_counter_add([{counter}], 1)'],
    "a condition that fails": [STARTED + '"MPI_Sendrecv", "sendcount > 1") : pa_counter_add([{counter}], 1)'],
    "a condition, the bytes": [STARTED + '"MPI_Sendrecv", "peer == 0 && tag >= 1") : pa_counter_add([{counter}], $bytes)'],
}


def cost_of_actions(bench, library, rounds):
    """What the list of an event that runs in the process adds to a call of MPI_Sendrecv, all of whose statistics are
    taken."""
    found = {name: [] for name in (None, *ACTIONS)}
    for _ in range(rounds):
        for name in found:
            nanoseconds, counted = told(bench, library, ACTIONS.get(name, []))
            found[name].append(nanoseconds)
            if name == "a counter" and not counted[0]:
                sys.exit(f"{library}: the action was not run")
    plain = statistics.median(found.pop(None))
    for name, values in found.items():
        median, low, high = interval(values)
        print(f"  {name:<27} + {median - plain:6.1f} ns ({low - plain:.1f} to {high - plain:.1f})")


def seconds_said(text):
    """Between MPI_Init and MPI_Finalize, as the program itself has it: the last one."""
    return [float(one or other) for one, other in re.findall(r"seconds ([\d.]+)|([\d.]+) s$", text, re.M)][-1]


def cost_of_program(bench, library, name, arguments, costs, rounds):
    suffix = "" if library == "openmpi" else f"_{library}"
    program = os.path.join(BUILD, "examples", name + suffix)
    if not os.path.exists(program):
        print(f"  {name}: is not built")
        return
    command = [f"mpirun.{library}", *LIBRARIES[library], "-n", "2", program, *arguments]
    for tool in HOW:
        ratios, plain_times = [], []
        for i in range(rounds):
            times = {}
            for now in (None, tool) if i % 2 else (tool, None):
                times[now] = seconds_said(bench.run(now, *command))
            ratios.append(times[tool] / times[None])
            plain_times.append(times[None])
        calls = bench.calls()
        median, low, high = interval(ratios)
        seconds = statistics.median(plain_times)
        cost = sum(count * costs[tool].get(call, costs[tool]["MPI_Sendrecv"]) for call, count in calls.items())
        number = sum(calls.values())
        print(f"  {' '.join((name, *arguments)):<26} {seconds:8.2f} s without, x {median:.3f} {tool} ({low:.3f} to {high:.3f}); {number} calls a rank "
              f"x {cost / number:.0f} ns = {cost / seconds / 1e7:.2f} %")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(prefix="scry-bench-") as folder:
        bench = Bench(folder)
        try:
            for library in LIBRARIES:
                if not shutil.which(f"mpirun.{library}") or not os.path.exists(f"{BUILD}/bench/mpi_target_{library}"):
                    print(f"{library}: is not installed, or its target is not built")
                    continue
                print(f"{library}, {rounds} rounds:")
                cost = cost_of_calls(bench, library, rounds)
                cost_of_actions(bench, library, rounds)
                for name, *arguments in PROGRAMS:
                    cost_of_program(bench, library, name, arguments, cost, rounds)
        finally:
            shutil.rmtree(bench.runtime, ignore_errors=True)


if __name__ == "__main__":
    main()
