#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What somebody who looks at the picture of a large trace waits for:

    bench_view.py [STEPS]

16 ranks make about 520 calls each a step, by default 620 steps: ten million events. Goals: the first picture and its first
tile within a second, though the trace has not been read yet; and when another scry-view has read it before, all of it in a
fifth of that time at most (0.1 s, where nothing else runs). Time is also given as a part of that which one reading of the
whole trace takes (`scry export`, and babeltrace2 where it is there), measured in turns.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, stop_monitor

SCRY = os.path.join(BUILD, "src", "cli", "scry")
VIEW = os.path.join(BUILD, "src", "web", "view", "scry-view")
RANKS, ROUNDS, TILES = 16, 3, 400


class View:
    def __init__(self, job):
        self.began = time.monotonic()
        self.process = subprocess.Popen([VIEW, job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question, **members):
        """The answer, and how long it took."""
        began = time.monotonic()
        self.process.stdin.write(json.dumps({"id": 1, "ask": question, **members}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["ok"], time.monotonic() - began

    def passed(self):
        return time.monotonic() - self.began

    def peak_mb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def record(place, steps):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "view_target.c")
    program, job = os.path.join(place, "view_target"), os.path.join(place, "job")
    subprocess.run(["mpicc.openmpi", "-g", "-O1", "-finstrument-functions", source, "-o", program], check=True)
    subprocess.run([SCRY, "run", "-q", "--overflow", "wait", "--max-size", "8G", "--trace", "fn:*", "--mpi", "trace", "-o", job,
                    "mpirun.openmpi", "--oversubscribe", "-n", str(RANKS), program, str(steps)], check=True, stdout=subprocess.DEVNULL)
    return job


def timed(*command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def forget(place):
    shutil.rmtree(f"{place}/cache", ignore_errors=True)


def look(job):
    """{what: seconds}"""
    view, found = View(job), {}
    try:
        picture, _ = view.ask("picture")
        found["first picture"] = view.passed()
        view.ask("tiles", level=0, index=0)
        found["first tile"] = view.passed()
        while not picture["complete"]:
            picture, _ = view.ask("picture")
        found["all tiles"] = view.passed()
        tiles = []
        for _ in range(TILES):
            level = random.randrange(picture["levels"])
            tiles.append(view.ask("tiles", level=level, index=random.randrange(1 << level))[1])
        tiles.sort()
        found["a tile, p50"], found["a tile, p99"] = tiles[TILES // 2], tiles[TILES * 99 // 100]
        found["all selected"] = view.ask("selection")[1]
        found["all tiles, kept"] = again(job)
        return found, sum(lane["calls"] for lane in picture["lanes"]), view.peak_mb()
    finally:
        view.close()


def again(job):
    """The same job, which a view has read: until all is known."""
    view = View(job)
    try:
        while not view.ask("picture")[0]["complete"]:
            pass
        return view.passed()
    finally:
        view.close()


def main():
    random.seed(1)
    place = tempfile.mkdtemp(prefix="scry-bench-view")
    try:
        os.mkdir(f"{place}/run", 0o700)
        os.environ.update(SCRY_RUNTIME_DIR=f"{place}/run", SCRY_STATE_DIR=f"{place}/state", SCRY_CACHE_DIR=f"{place}/cache", OMPI_ALLOW_RUN_AS_ROOT="1",
                          OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
        job = record(place, int(sys.argv[1]) if sys.argv[1:] else 620)
        reading, rounds = {}, []
        for _ in range(ROUNDS):
            forget(place)
            rounds.append(look(job))
            reading.setdefault("scry export", []).append(timed(SCRY, "export", "--format", "folded", "-o", "/dev/null", job))
            if shutil.which("babeltrace2"):
                reading.setdefault("babeltrace2", []).append(
                    timed("babeltrace2", "convert", "--output-format=dummy", os.path.join(job, "trace")))
        print(f"{2 * rounds[0][1] / 1e6:.1f} million events, {max(peak for _, _, peak in rounds):.0f} MB at most")
        whole = {name: statistics.median(times) for name, times in reading.items()}
        for name, seconds in whole.items():
            print(f"{name:15} {seconds:8.3f} s  reads it once")
        for what in rounds[0][0]:
            seconds = statistics.median(times[what] for times, _, _ in rounds)
            print(f"{what:15} {seconds:8.3f} s " + "".join(f"  {seconds / of:.4f} of {name}" for name, of in whole.items()))
        cold, kept = (statistics.median(times[what] for times, _, _ in rounds) for what in ("all tiles", "all tiles, kept"))
        print(f"kept: {kept / cold:.3f} of what reading it takes")
        return int(statistics.median(times["first tile"] for times, _, _ in rounds) > 1 or kept > 0.2 * cold)
    finally:
        stop_monitor(f"{place}/run")
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
