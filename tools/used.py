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
    """Of what runs below a process: each with those of its children that it has waited for."""
    seconds = 0
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{child}/stat", "rb") as file:
                seconds += sum(map(int, file.read().rpartition(b")")[2].split()[11:15])) / TICK
            seconds += living_seconds(child)
    return seconds


def processor_seconds():
    """User and system time of all that this process has started so far, but for its own."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + living_seconds(os.getpid())


def slowness():
    """How many times as long as alone a program that computes takes just now: more may want to run than there are
    processors."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return max(1.0, float(file.read().split()[0]) / len(os.sched_getaffinity(0)))
