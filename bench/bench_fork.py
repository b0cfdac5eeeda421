# SPDX-License-Identifier: Apache-2.0
"""What a process costs that a traced program starts: by fork, and calls nothing; by fork, and calls a traced function;
and the program once more, short as it is. Then the same of a program with two thousand functions, with --args --locals,
whose captures are known; and a whole `scry run` of it where they have to be compiled, lie in the cache, are in the monitor.

    bench_fork.py [PAIRS [COUNT]]

Each round starts COUNT processes with and without `scry run`, in alternating order; printed are medians per process, and
the processor time that the monitor used for one. Rings and the job directory are on a file system in memory where there
is one, as they mostly are. Where the machine is not quiet: `chrt -f 10 python3 bench_fork.py` (as root).
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, stop_monitor

VALUES = ["--trace", "all", "--args", "--locals"]
GOALS_VALUES = {"call": 5000, "exec": 5000}
GOALS = {"idle": None, "call": 1000, "exec": 2500}


def monitor_us(runtime):
    """Processor time of all threads of the monitor so far."""
    try:
        with open(os.path.join(runtime, "monitor.pid"), encoding="ascii") as file:
            tasks = f"/proc/{int(file.read())}/task"
        total = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1000
    except (OSError, ValueError, IndexError):
        return 0.0


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    scry = os.path.join(BUILD, "src", "cli", "scry")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="scry-bench", dir=memory) as place:
        runtime, cache = os.path.join(place, "run"), os.path.join(place, "cache")
        env = {**os.environ, "SCRY_RUNTIME_DIR": runtime, "SCRY_STATE_DIR": os.path.join(place, "jobs"),
               "XDG_CACHE_HOME": cache}
        for name in ("SCRY", "SCRY_CONFIG"):
            env.pop(name, None)

        def once(target, how, traced, options, number=count):
            prefix = [scry, "run", "-q", *options, "--"] if traced else []
            command = [*prefix, os.path.join(BUILD, "bench", target), str(number), how]
            done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE)
            return float(done.stdout or 0)

        def compare(target, goals, options):
            once(target, "call", True, options)  # starts the monitor, and has everything compiled
            for how, goal in goals.items():
                alone, traced = [], []
                before = monitor_us(runtime)
                for pair in range(pairs):
                    for with_scry in [False, True] if pair % 2 == 0 else [True, False]:
                        (traced if with_scry else alone).append(once(target, how, with_scry, options))
                used = (monitor_us(runtime) - before) / pairs / count
                low, high = statistics.median(alone), statistics.median(traced)
                more = statistics.median(one - other for one, other in zip(traced, alone))
                print(f"  {how + ' ' + ' '.join(options):38} {'' if goal is None else f'goal: traced < {goal}':21}"
                      f"{low:7.0f} {high:8.0f} {more:8.0f} {used:9.0f}")

        def whole(known):
            """Seconds of a whole `scry run` of the program with many functions."""
            if known != "in the monitor":
                stop_monitor(runtime)
                while os.path.exists(os.path.join(runtime, "monitor.pid")):
                    time.sleep(0.01)
            if known == "not at all":
                shutil.rmtree(cache)
            begin = time.monotonic()
            once("fork_target_many", "one", True, VALUES, 1)
            return time.monotonic() - begin

        print(f"microseconds a process, {count} of them, {pairs} pairs {'alone':>33}   traced     more   monitor")
        compare("fork_target", GOALS, [])
        compare("fork_target_many", GOALS_VALUES, VALUES)
        print("milliseconds of a whole scry run, with captures known")
        ways = ("not at all", "in the cache", "in the monitor")
        took = {known: [] for known in ways}
        for _ in range(pairs):
            for known in ways:
                took[known].append(whole(known))
        for known in ways:
            print(f"  {known:20} {1000 * statistics.median(took[known]):8.1f}")
        stop_monitor(runtime)


if __name__ == "__main__":
    main()
