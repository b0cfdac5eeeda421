# SPDX-License-Identifier: Apache-2.0
"""What `scry run` costs a build: `make` of a small C project, hundreds of short processes, with and without it.

    bench_run_build.py [PAIRS [FILES]]

Pairs of builds, interleaved and in alternating order; printed are the medians and, in brackets, the 95 % interval of
the median of the ratios (by order statistics). Where the interval spans the goal (under 1.02), the processor time that
scry run and its monitor used, as a share of the build's, decides: it is printed, too. Where the machine is not quiet:
`chrt -f 10 python3 bench_run_build.py` (as root) keeps the others off.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval

GOAL = 1.02


def write_project(folder, files):
    """Each file has enough in it to keep a compiler busy for some hundredths of a second."""
    for number in range(files):
        with open(os.path.join(folder, f"part{number}.c"), "w", encoding="ascii") as file:
            file.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
            for function in range(6):
                file.write(f"int part{number}_{function}(const char *text, int *table, int count)\n{{\n"
                           f"    int sum = {function};\n    for (int i = 0; i < count; i++)\n"
                           "        sum += table[i] * (int)strlen(text) + (sum >> 3);\n"
                           "    printf(\"%s %d\\n\", text, sum);\n    return sum;\n}\n")
    with open(os.path.join(folder, "Makefile"), "w", encoding="ascii") as file:
        names = " ".join(f"part{number}.o" for number in range(files))
        file.write(f"all: libparts.a\nlibparts.a: {names}\n\t@rm -f $@; ar rc $@ $^\n"
                   "%.o: %.c\n\t@$(CC) -O1 -c -o $@ $<\nclean:\n\t@rm -f *.o libparts.a\n")


def monitor_ticks(runtime):
    """Processor time of the monitor so far, in seconds, and its resident size in bytes."""
    try:
        with open(os.path.join(runtime, "monitor.pid"), encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return (int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0.0, 0


def last_report(scry, env):
    done = subprocess.run([scry, "report", "--json", "@last"], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def build(folder, prefix, env):
    """Wall-clock seconds of one build from nothing, and the processor time of everything it started, in seconds."""
    subprocess.run(["make", "-s", "clean"], cwd=folder, env=env, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run([*prefix, "make", "-s", "-j2"], cwd=folder, env=env, check=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    files = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    scry = os.path.join(BUILD, "src", "cli", "scry")
    with tempfile.TemporaryDirectory(prefix="scry-bench") as place:
        folder = os.path.join(place, "project")
        os.mkdir(folder)
        write_project(folder, files)
        env = {**os.environ, "SCRY_RUNTIME_DIR": os.path.join(place, "run"), "SCRY_STATE_DIR": os.path.join(place, "jobs")}
        env["SCRY_LIBEXEC"] = os.path.join(BUILD, "src", "profile")  # else no profile is made: it is not looked for there
        for name in ("SCRY", "SCRY_CONFIG", "MAKEFLAGS"):
            env.pop(name, None)
        watched_prefix = [scry, "run", "-q", "--"]
        build(folder, watched_prefix, env)  # warms up caches and starts the monitor
        ratios, alone, watched, own, jobs = [], [], [], [], []
        ticks_before, _ = monitor_ticks(env["SCRY_RUNTIME_DIR"])
        for pair in range(pairs):
            order = [False, True] if pair % 2 == 0 else [True, False]
            result = {with_scry: build(folder, watched_prefix if with_scry else [], env) for with_scry in order}
            jobs.append(last_report(scry, env)["cpu_seconds"])
            alone.append(result[False][0])
            watched.append(result[True][0])
            own.append(result[True][1] - jobs[-1])  # scry run's, without the job's
            ratios.append(result[True][0] / result[False][0])
        ticks_after, size = monitor_ticks(env["SCRY_RUNTIME_DIR"])
        low, high = interval(ratios)
        count = last_report(scry, env)["process_count"]
        monitor = (ticks_after - ticks_before) / pairs
        share = (monitor + statistics.median(own)) / statistics.median(jobs)
        print(f"build of {files} files, {count} processes, {pairs} pairs")
        print(f"  alone    {statistics.median(alone):8.3f} s")
        print(f"  watched  {statistics.median(watched):8.3f} s")
        print(f"  ratio    {statistics.median(ratios):8.4f} [{low:.4f}, {high:.4f}]   goal < {GOAL}")
        print(f"  processor time a build: scry run {statistics.median(own) * 1000:.1f} ms, monitor {monitor * 1000:.1f} ms, "
              f"together {share:.4f} of the build's {statistics.median(jobs):.2f} s; monitor {size / 2**20:.1f} MB resident")
        with open(os.path.join(env["SCRY_RUNTIME_DIR"], "monitor.pid"), encoding="ascii") as file:
            os.kill(int(file.read()), 15)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
