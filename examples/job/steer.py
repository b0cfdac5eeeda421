#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The part of the example job that steers: reads the input, has physics.c compute, writes the result.

    steer.py INPUT RESULT [FAIL]          FAIL: exception, segfault
"""

import ctypes
import os
import sys


class Rod:
    """A rod of points, in the memory of C."""

    def __init__(self, points, hot):
        self.points = points
        self.now = (ctypes.c_double * points)()
        self.next = (ctypes.c_double * points)()
        self.now[0] = hot

    def temperature(self, place):
        """At a place from 0 to 1."""
        if not 0 <= place <= 1:
            raise ValueError(f"no place {place} on the rod")
        return self.now[round(place * (self.points - 1))]


def physics():
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libphysics.so"))
    library.physics_run.restype = ctypes.c_double
    library.physics_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def read_input(path):
    with open(path, encoding="ascii") as file:
        return {key: float(value) for key, value in (line.split("=") for line in file)}


def report(rod, place):
    return f"{place:.2f} {rod.temperature(place):.4f}\n"


def main(source, result, fail=""):
    values, library = read_input(source), physics()
    rod, rounds = Rod(int(values["points"]), values["hot"]), int(values["rounds"])
    for number in range(1, rounds + 1):
        bad = fail == "segfault" and number == rounds // 2
        change = library.physics_run(None if bad else rod.now, rod.next, rod.points, 2)
        if number % (rounds // 4 or 1) == 0:
            print(f"step {number} of {rounds}, largest change {change:.3g}", flush=True)
    with open(result, "w", encoding="ascii") as file:
        for place in (0, 0.25, 0.5, 2 if fail == "exception" else 0.75, 1):
            file.write(report(rod, place))


if __name__ == "__main__":
    main(*sys.argv[1:])
