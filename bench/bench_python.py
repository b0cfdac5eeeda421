# SPDX-License-Identifier: Apache-2.0
"""What --script calls and lines cost in Python: ns for each line of a tight loop, for each call of a small function, and for
each step of tasks as in Richards' benchmark; alone, with a tracer in C that only counts (bench/python_floor.c), and with
scry.

    bench_python.py [PAIRS [PYTHON...]]

Printed is the time with scry as a ratio of that with the floor, with the interval of its median. Goal: at most 2.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from benchlib import BUILD, interval, stop_monitor

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ("line", "call", "step")


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    pythons = sys.argv[2:] or ["/usr/bin/python3"]
    target, floor = os.path.join(HERE, "python_target.py"), os.path.join(BUILD, "bench", "libpython_floor.so")
    with tempfile.TemporaryDirectory(prefix="scry-bench") as place:
        runtime = os.path.join(place, "run")
        env = {**os.environ, "SCRY_RUNTIME_DIR": runtime, "SCRY_STATE_DIR": os.path.join(place, "jobs")}
        for name in ("SCRY", "SCRY_CONFIG"):
            env.pop(name, None)

        def once(*command):
            done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE)
            return [float(word) for word in done.stdout.split()]

        scry = os.path.join(BUILD, "src", "cli", "scry")
        for python in pythons:
            for level in "calls", "lines":
                alone, floors, seen = [], [], []
                for _ in range(pairs):
                    alone.append(once(python, target))
                    floors.append(once(python, target, floor, level))
                    seen.append(once(scry, "run", "-q", "--script", level, "--", python, target))
                for i, part in enumerate(PARTS):
                    ratios = [one[i] / other[i] for one, other in zip(seen, floors)]
                    low, high = interval(ratios)
                    alone_ns, floor_ns, seen_ns = (statistics.median(row[i] for row in rows) for rows in (alone, floors, seen))
                    print(f"{python} {level}: a {part} {alone_ns:.0f} ns alone, {floor_ns:.0f} with the floor, {seen_ns:.0f} with "
                          f"scry: {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) of the floor", flush=True)
        stop_monitor(runtime)


main()
