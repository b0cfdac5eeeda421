# SPDX-License-Identifier: Apache-2.0
"""A flood of calls: two threads that do nothing but call a traced function, into a job directory that may not grow beyond
a limit. Nothing may grow without bound, and what is lost must be counted.

    bench_flood.py [SECONDS [LIMIT]]

Printed: calls a second; which share was recorded, dropped or overwritten by the flight recorder; that every call is
accounted for; the largest memory of program and monitor; the bytes on disk, also for each event; and what the summary says
tracing cost. The same program without scry is the floor, run in turns with it."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, stop_monitor


def peak_rss(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0


def tree_bytes(folder):
    return sum(os.lstat(os.path.join(where, name)).st_size for where, _, names in os.walk(folder) for name in names)


def main():
    seconds = sys.argv[1] if len(sys.argv) > 1 else "10"
    limit = sys.argv[2] if len(sys.argv) > 2 else "500M"
    folder = tempfile.mkdtemp(prefix="scry-bench-")
    env = dict(os.environ, XDG_STATE_HOME=f"{folder}/state", XDG_CACHE_HOME=f"{folder}/cache",
               SCRY_RUNTIME_DIR=f"{folder}/run", NO_COLOR="1")
    scry = os.path.join(BUILD, "src", "cli", "scry")
    target = os.path.join(BUILD, "bench", "flood_target")
    job = f"{folder}/job"
    try:
        plain = [int(subprocess.run([target, "2", "1"], stdout=subprocess.PIPE, check=True).stdout) for _ in range(3)]
        run = subprocess.Popen([scry, "run", "-o", job, "--max-size", limit, "--", target, "2", seconds], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        monitor, largest = 0, 0
        while run.poll() is None:
            if not monitor and os.path.exists(f"{folder}/run/monitor.pid"):
                with open(f"{folder}/run/monitor.pid", encoding="ascii") as file:
                    monitor = int(file.read() or 0)
            largest = max(largest, peak_rss(monitor) if monitor else 0)
            time.sleep(0.2)  # a sampling period, nothing waits for it
        out, summary = run.communicate()
        calls = int(out)
        report = json.loads(subprocess.run([scry, "report", "--json", job], env=env, check=True, stdout=subprocess.PIPE,
                                           text=True).stdout)
        trace = report["trace"]
        size = tree_bytes(f"{job}/trace")
        events = trace["events"]
        print(f"calls a second                     {calls / float(seconds) / 1e6:10.2f} M "
              f"(without scry {statistics.median(plain) / 1e6:.2f} M)")
        print(f"events made                        {2 * calls:10} ")
        print(f"recorded                           {events:10} ({events / (2 * calls):.1%})")
        print(f"dropped, counted                   {trace['discarded']:10} ({trace['discarded'] / (2 * calls):.1%})")
        print(f"overwritten, counted               {trace['overwritten']:10} ({trace['overwritten'] / (2 * calls):.1%})")
        print(f"on disk                            {size / 1e6:10.1f} MB, {size / max(events, 1):.2f} bytes an event "
              f"(limit {limit})")
        print(f"largest memory: program            {report['peak_rss_bytes'] / 1e6:10.1f} MB")
        print(f"largest memory: monitor            {largest / 1e6:10.1f} MB")
        print(f"cost of tracing, as reported       {trace['cost_seconds']:10.2f} s")
        print(summary.rstrip())
    finally:
        stop_monitor(f"{folder}/run")
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
