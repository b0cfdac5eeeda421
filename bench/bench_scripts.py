# SPDX-License-Identifier: Apache-2.0
"""What each level of --script costs: a configure script, run by bash, and a Python program of tasks as in Richards'
benchmark; alone, and with scry run at each level.

    bench_scripts.py [ROUNDS [PYTHON...]]

A round runs all of them, in an order that goes round. Printed are the medians of the ratios to the run alone in the same
round, with their 95 % interval: of the wall-clock time, and of the processor time of the job and all of scry but its
monitor, which is what counts where the machine is not quiet. Needs autoconf.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import BUILD, interval, stop_monitor

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = ("alone", "off", "outside", "calls", "lines")
HEADERS = "fcntl poll pthread semaphore spawn sys/epoll sys/resource termios"
FUNCTIONS = "accept4 epoll_wait getline memmem pipe2 pread setlocale splice"
STEPS = 600000


def configure_script(place):
    """Makes a configure script of the usual kind, and returns the command that runs it."""
    with open(os.path.join(place, "configure.ac"), "w", encoding="ascii") as file:
        headers = " ".join(f"{name}.h" for name in HEADERS.split())
        file.write("AC_INIT([example], [1.0])\nAC_CONFIG_HEADERS([config.h])\nAC_PROG_CC\nAC_PROG_INSTALL\nAC_C_BIGENDIAN\n"
                   f"AC_CHECK_HEADERS([{headers}])\nAC_CHECK_FUNCS([{FUNCTIONS}])\nAC_CHECK_SIZEOF([long])\n"
                   "AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n")
    for name, text in {"Makefile.in": "all:\n", "config.h.in": "#undef HAVE_FORK\n", "install-sh": "#!/bin/sh\n"}.items():
        with open(os.path.join(place, name), "w", encoding="ascii") as file:
            file.write(text)
    subprocess.run(["autoconf"], cwd=place, check=True, stderr=subprocess.DEVNULL)
    return ["bash", "./configure", "-q"]


def python_program(python):
    return [python, "-B", "-c", f"import sys; sys.path.insert(0, {HERE!r}); from python_target import Scheduler; "
            f"Scheduler(6).run({STEPS})"]


def once(command, level, place, env):
    """Seconds of wall-clock time, and of processor time."""
    scry = os.path.join(BUILD, "src", "cli", "scry")
    prefix = [] if level == "alone" else [scry, "run", "-q", "--script", level, "--"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([*prefix, *command], cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name, command, rounds, place, env):
    found = {level: [] for level in LEVELS}
    once(command, "off", place, env)  # warms up caches and starts the monitor
    for number in range(rounds):
        at = number % len(LEVELS)
        for level in LEVELS[at:] + LEVELS[:at]:
            found[level].append(once(command, level, place, env))
    wall, used = (statistics.median(one[i] for one in found["alone"]) for i in (0, 1))
    print(f"{name}: {wall:.2f} s alone, processor time {used:.2f} s, {rounds} rounds")
    for level in LEVELS[1:]:
        said = []
        for i in (0, 1):
            ratios = [one[i] / other[i] for one, other in zip(found[level], found["alone"])]
            low, high = interval(ratios)
            said.append(f"{statistics.median(ratios):6.3f} [{low:.3f}, {high:.3f}]")
        print(f"  {level:8} wall {said[0]}   processor {said[1]}", flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    pythons = sys.argv[2:] or ["/usr/bin/python3"]
    with tempfile.TemporaryDirectory(prefix="scry-bench") as place:
        env = {**os.environ, "SCRY_RUNTIME_DIR": os.path.join(place, "run"), "SCRY_STATE_DIR": os.path.join(place, "jobs"),
               "CONFIG_SHELL": "/bin/bash"}
        for name in ("SCRY", "SCRY_CONFIG", "SCRY_SCRIPT"):
            env.pop(name, None)
        if shutil.which("autoconf"):
            measure("configure", configure_script(place), rounds, place, env)
        for python in pythons:
            measure(python, python_program(python), rounds, place, env)
        stop_monitor(env["SCRY_RUNTIME_DIR"])


if __name__ == "__main__":
    main()
