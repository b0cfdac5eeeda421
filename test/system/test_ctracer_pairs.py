# SPDX-License-Identifier: Apache-2.0
"""Entries and exits stay paired however a function is left: exceptions, longjmp, contexts, coroutines, tail calls, ends of
threads. The programs say themselves when a function begins and returns; what was recorded must be the same in the same
order, every recorded call must end once, and calls must lie within each other."""

import collections
import json

import scrytest
from ctracertest import TracerCase

# Their end is a call of another function: they cannot say when they return.
SILENT = ("tail_",)
# They say nothing at all: what a coroutine is to a tool differs between compilers.
UNSAID = ("inlined", "instrumented", "numbers")


class Pairs(TracerCase):
    def check_nesting(self, calls):
        """Each call lies within the one that is shown around it: replay lists them by their ends."""
        inside = collections.defaultdict(list)
        for call in calls:
            start, depth = call["start_seconds"], call["depth"]
            end = start + (call["duration_ns"] or 0) / 1e9
            pending = inside[call["thread"], call["stack"]]
            while pending and pending[-1]["depth"] > depth:
                child = pending.pop()
                self.assertEqual(child["depth"], depth + 1, (child, call))
                self.assertEqual(child["caller"], call["function"])
                self.assertGreaterEqual(child["start_seconds"], start - 2e-9, (child, call))
                self.assertLessEqual(child["start_seconds"] + (child["duration_ns"] or 0) / 1e9, end + 2e-9, (child, call))
            pending.append(call)
        for pending in inside.values():
            self.assertEqual({call["depth"] for call in pending} - {0, 1}, set())

    def happened(self, calls):
        """What was recorded, in the form in which the programs say it."""
        events = []
        for number, call in enumerate(calls):
            events.append((call["start_seconds"], 0, number, "+" + call["function"]))
            if call["how"] == "returned":
                events.append((call["start_seconds"] + call["duration_ns"] / 1e9, 1, number, "-" + call["function"]))
        return [text.partition("(")[0] for *_, text in sorted(events)]

    def check(self, source, *options, compiler="gcc", status=0):
        # gcc calls the hook of a function's exit also where an exception leaves it
        silent = SILENT + (("thrower", "rethrower", "replacer", "resume") if compiler == "g++" else ())
        program = self.compile(source, *options, "-w", compiler=compiler)
        done = self.scry_run("-q", "--trace", f"file:{source}", "--args", "--", program)
        self.assertEqual((done.returncode, done.stderr), (status, ""))
        said = done.stdout.splitlines()
        self.assertGreater(len(said), 20)
        records = self.replayed()
        self.assertEqual({each["event"] for each in records}, {"call"})
        self.check_nesting(records)
        self.check_chrome()
        calls = [call for call in records if not call["function"].startswith(UNSAID)]
        # as often as the program says, and as often ended
        begun = collections.Counter(line[1:] for line in said if line[0] == "+")
        self.assertEqual(collections.Counter(call["function"] for call in calls), begun)
        returned = collections.Counter(line[1:] for line in said if line[0] == "-")
        for name in begun:
            ended = collections.Counter(call["how"] for call in calls if call["function"] == name)
            if name.startswith(silent):
                self.assertEqual(ended["returned"], begun[name], name)
                if not name.startswith(SILENT):
                    results = [call.get("result") for call in calls if call["function"] == name]
                    found = sum(result not in (None, "<not available>") for result in results)
                    self.assertEqual(found, returned[name], (name, results))
            else:
                self.assertEqual(ended["returned"], returned[name], (name, ended))
                self.assertEqual(ended["unwound"] + ended["open"], begun[name] - returned[name], (name, ended))
        # and in that order
        silent = tuple("-" + word for word in silent)
        self.assertEqual([line for line in self.happened(calls) if not line.startswith(silent)],
                         [line for line in said if not line.startswith(silent)])
        trace = self.report()["trace"]
        self.assertEqual((trace["discarded"], self.report()["problems"]), (0, []))
        return records

    def check_chrome(self):
        """Every event that begins ends, in order."""
        done = self.scry("export", "--format", "chrome", "-o", "-", "@last")
        open_calls = collections.defaultdict(list)
        for event in json.loads(done.stdout)["traceEvents"]:
            if event["ph"] == "B":
                open_calls[event["pid"], event["tid"]].append(event)
            elif event["ph"] == "E":
                begun = open_calls[event["pid"], event["tid"]].pop()
                self.assertGreaterEqual(event["ts"], begun["ts"])
        self.assertEqual([calls for calls in open_calls.values() if calls], [])

    @scrytest.thorough
    def test_c_O0(self):
        self.check("pairs.c", "-O0", status=5)

    def test_c_O2(self):
        self.check("pairs.c", "-O2", status=5)

    def test_c_O3_without_frame_pointers(self):
        self.check("pairs.c", "-O3", "-fomit-frame-pointer", "-mno-red-zone", status=5)

    def test_c_clang_O0(self):
        self.check("pairs.c", "-O0", compiler="clang-14", status=5)

    @scrytest.thorough
    def test_c_clang_O2(self):
        self.check("pairs.c", "-O2", compiler="clang-14", status=5)

    def test_exceptions_O0(self):
        self.check("pairs.cc", "-O0", compiler="g++")

    @scrytest.thorough
    def test_exceptions_O2(self):
        self.check("pairs.cc", "-O2", compiler="g++")

    @scrytest.thorough
    def test_exceptions_clang_O0(self):
        self.check("pairs.cc", "-O0", compiler="clang++-14")

    def test_exceptions_clang_O2(self):
        self.check("pairs.cc", "-O2", compiler="clang++-14")

    @scrytest.thorough
    def test_coroutines_O0(self):
        self.check("pairs.cc", "-O0", "-std=c++20", "-DCOROUTINES", compiler="g++")

    def test_coroutines_O2(self):
        self.check("pairs.cc", "-O2", "-std=c++20", "-DCOROUTINES", compiler="g++")

    def test_coroutines_clang_O0(self):
        self.check("pairs.cc", "-O0", "-std=c++20", "-DCOROUTINES", compiler="clang++-14")

    @scrytest.thorough
    def test_coroutines_clang_O2(self):
        self.check("pairs.cc", "-O2", "-std=c++20", "-DCOROUTINES", compiler="clang++-14")


scrytest.main()
