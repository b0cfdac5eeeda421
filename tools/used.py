# SPDX-License-Identifier: Apache-2.0
"""What a process and all that it starts use of the processors, daemons included: what loses its parent becomes a child of
the process that called adopt_orphans(). Used by tools/run-test for one test, and by tools/ci for a stage."""

import contextlib
import ctypes
import os
import resource

PR_SET_CHILD_SUBREAPER = 36
TICK = os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children_of(pid):
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as file:
                yield from map(int, file.read().split())


def living_seconds(pid):
    """User and system time of what runs below a process: each with those of its children that it has waited for."""
    user = system = 0
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{child}/stat", "rb") as file:
                times = [int(field) / TICK for field in file.read().rpartition(b")")[2].split()[11:15]]
            below = living_seconds(child)
            user, system = user + times[0] + times[2] + below[0], system + times[1] + times[3] + below[1]
    return user, system


def user_and_system_seconds():
    """User and system time of all that this process has started so far, but for its own."""
    ended, living = resource.getrusage(resource.RUSAGE_CHILDREN), living_seconds(os.getpid())
    return ended.ru_utime + living[0], ended.ru_stime + living[1]


def processor_seconds():
    return sum(user_and_system_seconds())


def slowness():
    """How many times as long as alone a program that computes takes just now: more may want to run than there are
    processors."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return max(1.0, float(file.read().split()[0]) / len(os.sched_getaffinity(0)))
