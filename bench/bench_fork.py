# SPDX-License-Identifier: Apache-2.0
"""What a process costs that a traced program starts: by fork, and calls nothing; by fork, and calls a traced function;
and the program once more, short as it is.

    bench_fork.py [PAIRS [COUNT]]

Each round starts COUNT processes with and without `scry run`, in alternating order; printed are medians per process, and
the processor time that the monitor used for one. Rings and the job directory are on a file system in memory where there
is one, as they mostly are. Where the machine is not quiet: `chrt -f 10 python3 bench_fork.py` (as root).
"""

import os
import statistics
import subprocess
import sys
import tempfile

from benchlib import BUILD

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
    target = os.path.join(BUILD, "bench", "fork_target")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="scry-bench", dir=memory) as place:
        runtime = os.path.join(place, "run")
        env = {**os.environ, "SCRY_RUNTIME_DIR": runtime, "SCRY_STATE_DIR": os.path.join(place, "jobs")}
        for name in ("SCRY", "SCRY_CONFIG"):
            env.pop(name, None)

        def once(how, traced):
            prefix = [scry, "run", "-q", "--"] if traced else []
            done = subprocess.run([*prefix, target, str(count), how], env=env, check=True, stdout=subprocess.PIPE)
            return float(done.stdout)

        once("call", True)  # starts the monitor, and builds the index
        print(f"microseconds a process, {count} of them, {pairs} pairs    alone   traced     more   monitor")
        for how, goal in GOALS.items():
            alone, traced = [], []
            before = monitor_us(runtime)
            for pair in range(pairs):
                for with_scry in [False, True] if pair % 2 == 0 else [True, False]:
                    (traced if with_scry else alone).append(once(how, with_scry))
            used = (monitor_us(runtime) - before) / pairs / count
            low, high = statistics.median(alone), statistics.median(traced)
            more = statistics.median(one - other for one, other in zip(traced, alone))
            print(f"  {how:8} {'' if goal is None else f'goal: traced < {goal}':28}"
                  f"{low:14.0f} {high:8.0f} {more:8.0f} {used:9.0f}")
        with open(os.path.join(runtime, "monitor.pid"), encoding="ascii") as file:
            os.kill(int(file.read()), 15)


if __name__ == "__main__":
    main()
