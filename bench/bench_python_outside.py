# SPDX-License-Identifier: Apache-2.0
"""What `--script outside` costs Python programs: one, and many at once, that do nothing but call functions.

    bench_python_outside.py [PAIRS [SECONDS [PROCESSES]]]

Pairs of jobs, interleaved and in alternating order: with --script off and with outside. Printed are, for one process and
for many, the median of the ratios of their wall-clock times with its 95 % interval (by order statistics), and what
decides where the machine is not quiet: the processor time that the observer used more, as a share of the job's.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval, stop_monitor

GOAL = 1.01
# Depth 12 with two threads that wait: what a program with an event loop or a framework has.
PROGRAM = """
import sys, threading, os
def leaf(x):
    return x * x % 7
def work(depth, n):
    if depth:
        return work(depth - 1, n)
    total = 0
    for i in range(n):
        total += leaf(i)
    return total
end = threading.Event()
for _ in range(2):
    threading.Thread(target=end.wait, daemon=True).start()
for _ in range(int(sys.argv[2]) - 1):
    if os.fork() == 0:
        work(12, int(sys.argv[1]))
        os._exit(0)
work(12, int(sys.argv[1]))
for _ in range(int(sys.argv[2]) - 1):
    os.wait()
"""


def observer_of(pid):
    """The process id of the observer of this scry run; None: not yet, or not any more."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/comm", encoding="ascii") as comm:
                    if comm.read().strip() == "job-observer":
                        return int(child)
    except OSError:
        pass
    return None


def job(scry, script, calls, processes, env):
    """Wall-clock seconds, those of processor time of the observer, and of the job."""
    start = time.monotonic()
    run = subprocess.Popen([scry, "run", "-q", "--script", script, "--", sys.executable, "-c", PROGRAM, str(calls), str(processes)],
                           env=env)
    observer, used, last = None, 0, 0
    before = os.times()
    while run.poll() is None:
        observer = observer or observer_of(run.pid)
        if observer:
            try:
                with open(f"/proc/{observer}/schedstat", encoding="ascii") as file:
                    used = int(file.read().split()[0]) / 1e9
            except (OSError, IndexError):
                pass
        time.sleep(0.05)
    after = os.times()
    last = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - start, used, last


def measure(scry, pairs, calls, processes, env):
    ratios, more, jobs = [], [], []
    for pair in range(pairs):
        order = ["off", "outside"] if pair % 2 == 0 else ["outside", "off"]
        result = {script: job(scry, script, calls, processes, env) for script in order}
        ratios.append(result["outside"][0] / result["off"][0])
        more.append(result["outside"][1] - result["off"][1])
        jobs.append(result["off"][2])
    low, high = interval(ratios)
    share = statistics.median(more) / statistics.median(jobs)
    print(f"{processes} process{'' if processes == 1 else 'es'}, {pairs} pairs")
    print(f"  ratio    {statistics.median(ratios):8.4f} [{low:.4f}, {high:.4f}]   goal < {GOAL}")
    print(f"  processor time of the observer: {statistics.median(more) * 1000:.2f} ms more, {share:.5f} of the job's "
          f"{statistics.median(jobs):.2f} s", flush=True)


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    scry = os.path.join(BUILD, "src", "cli", "scry")
    with tempfile.TemporaryDirectory(prefix="scry-bench") as place:
        env = {**os.environ, "SCRY_RUNTIME_DIR": os.path.join(place, "run"), "SCRY_STATE_DIR": os.path.join(place, "jobs")}
        for name in ("SCRY", "SCRY_CONFIG", "SCRY_SCRIPT"):
            env.pop(name, None)
        calls = 5000000
        job(scry, "off", 1000, 1, env)  # starts the monitor
        start = job(scry, "off", 1000, 1, env)[0]
        calls = int(calls * seconds / max(0.01, job(scry, "off", calls, 1, env)[0] - start))
        measure(scry, pairs, calls, 1, env)
        measure(scry, pairs, max(1, calls * os.cpu_count() // processes), processes, env)
        stop_monitor(env["SCRY_RUNTIME_DIR"])


if __name__ == "__main__":
    main()
