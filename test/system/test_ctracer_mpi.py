# SPDX-License-Identifier: Apache-2.0
"""The example of an MPI program, every function of it traced with arguments and locals in all ranks: what report, replay,
the exports and babeltrace2 show is what the program does and prints of itself."""

import collections
import csv
import io
import json
import os
import re
import shutil
import unittest

import scrytest
from ctracertest import TracerCase

NX, NY, STEPS, INTERVAL, RANKS = 40, 40, 60, 10, 2
STOMMEL = os.path.join(scrytest.BUILD, "examples", "stommel")
# In every rank; rank 0 does it all again to check the result.
EACH = {"main": 1, "number": 4, "make_weights": 1, "divide": 1, "split": 2, "allocate": 5, "bc": 1, "do_force": 1,
        "solve": 1, "do_transfer": STEPS, "do_transfer_x": STEPS, "do_transfer_y": STEPS, "shift_line": 2 * STEPS,
        "do_jacobi": STEPS, "do_reduce": STEPS + 4, "measure": 1}
FIRST = {"check_result": 1, "do_serial": 1, "make_weights": 1, "do_force": 1, "do_jacobi": STEPS, "allocate": 3,
         "measure": 1, "same": 2}


@unittest.skipUnless(os.path.exists(STOMMEL) and shutil.which("mpirun"), "needs MPI")
class Stommel(TracerCase):
    case_seconds = 180

    def test_all(self):
        done = self.scry_run("--trace", "file:stommel.c", "--args", "--locals", "--", "mpirun", "--oversubscribe", "-n",
                             RANKS, STOMMEL, NX, NY, STEPS, INTERVAL, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("equal", done.stdout)
        self.calls = self.replayed()
        self.assertEqual({(call["event"], call["how"]) for call in self.calls}, {("call", "returned")})
        self.ranks = {call["args"]["rank"]: call["process"] for call in self.calls if call["function"] == "solve"}
        self.assertEqual(sorted(self.ranks), list(range(RANKS)))
        self.check_counts()
        self.check_values(done.stdout)
        self.check_exports()
        self.check_babeltrace()

    def of(self, function, rank=None, caller=None):
        return [call for call in self.calls if call["function"] == function and
                (rank is None or call["process"] == self.ranks[rank]) and (not caller or call["caller"] == caller)]

    def check_counts(self):
        first = collections.Counter(EACH) + collections.Counter(FIRST)
        for rank, expected in ((0, first), (1, collections.Counter(EACH))):
            counted = collections.Counter(call["function"] for call in self.calls if call["process"] == self.ranks[rank])
            self.assertEqual(counted, expected)
        report = self.report()
        self.assertEqual({row["name"]: row["calls"] for row in report["functions"]}, dict(first + collections.Counter(EACH)))
        self.assertEqual((report["trace"]["events"], report["trace"]["discarded"]), (2 * len(self.calls), 0))
        callers = {(edge["caller"], edge["function"]): edge["calls"] for edge in report["calls"]}
        self.assertEqual(callers["do_transfer_y", "shift_line"], 2 * STEPS * RANKS)
        self.assertEqual(callers["do_serial", "do_jacobi"], STEPS)

    def check_values(self, said):
        """Everything that the program prints, in the arguments, locals and results of its functions."""
        for rank in range(RANKS):
            (solve,) = self.of("solve", rank)
            self.assertEqual([solve["args"][name] for name in ("steps", "interval", "rank")], [STEPS, INTERVAL, rank])
            self.assertEqual(solve["result"], True)
            texts = [(call["args"]["text"], call["result"]) for call in self.of("number", rank)]
            self.assertEqual(texts, [(f'"{each}"', each) for each in (NX, NY, STEPS, INTERVAL)])
        # step  STEP  change CHANGE
        changes = {int(step): change for step, change in re.findall(r"^step +(\d+) +change (\S+)", said, re.M)}
        self.assertEqual(sorted(changes), list(range(INTERVAL, STEPS + 1, INTERVAL)))
        for rank in range(RANKS):
            reduced = [call["result"] for call in self.of("do_reduce", rank, "solve")]
            self.assertEqual(len(reduced), STEPS)
            for step, change in changes.items():
                self.assertEqual(f"{reduced[step - 1]:.6e}", change)
            # what a rank gives is at most the largest of all; that is some rank's
            given = [call["args"]["value"] for call in self.of("do_reduce", rank, "solve")]
            self.assertEqual(given, [call["result"] for call in self.of("do_jacobi", rank, "solve")])
            self.assertTrue(all(mine <= largest for mine, largest in zip(given, reduced)))
        both = zip(*([call["args"]["value"] for call in self.of("do_reduce", rank, "solve")] for rank in range(RANKS)))
        self.assertEqual([max(values) for values in both], reduced)
        # result   sum SUM, largest MAX
        total, largest = re.search(r"^result +sum (\S+), largest (\S+)", said, re.M).groups()
        for rank in range(RANKS):
            points, summed, top, right = (call["result"] for call in self.of("do_reduce", rank, "main"))
            self.assertEqual((f"{summed:.12e}", f"{top:.12e}"), (total, largest))
            self.assertEqual((points, right), (min(NX // RANKS, NY), 1))
        (check,) = self.of("check_result", 0)
        self.assertEqual([check["args"][name] for name in ("nx", "ny", "steps")], [NX, NY, STEPS])
        self.assertEqual([f"{check['args'][name]:.12e}" for name in ("sum", "max")], [total, largest])
        self.check_structures()

    def check_structures(self):
        """Through pointers: the parts of the ocean, and the weights, which are computed here once more."""
        width = 2.0e6 / (NX + 1), 2.0e6 / (NY + 1)
        friction, rotation = [3.0e-6 / each ** 2 for each in width], 2.25e-11 / (2 * width[0])
        centre = 2 * sum(friction)
        weights = {"east": (friction[0] + rotation) / centre, "west": (friction[0] - rotation) / centre,
                   "side": friction[1] / centre, "force": 1 / centre}
        points = 0
        for rank in range(RANKS):
            for call in self.of("do_jacobi", rank, "solve"):
                shown = dict(re.findall(r"(\w+) = ([-\d.e+]+)", call["args"]["w"].partition("->")[2]))
                self.assertEqual(set(shown), set(weights))
                for name, value in weights.items():
                    self.assertAlmostEqual(float(shown[name]) / value, 1, delta=1e-12)
            block = self.of("solve", rank)[0]["args"]["block"]
            nx, ny = (int(re.search(rf"\b{name} = (\d+)", block)[1]) for name in ("nx", "ny"))
            points += nx * ny
            self.assertEqual({(call["args"]["nx"], call["args"]["ny"]) for call in self.of("do_jacobi", rank, "solve")},
                             {(nx, ny)})
        self.assertEqual(points, NX * NY)

    def check_exports(self):
        counted = collections.Counter(call["function"] for call in self.calls)
        export = {form: self.scry("export", "--format", form, "-o", "-", "@last").stdout
                  for form in ("chrome", "folded", "csv")}
        begun, stacks = collections.Counter(), collections.defaultdict(list)
        for event in json.loads(export["chrome"])["traceEvents"]:
            if event["ph"] == "B":
                begun[event["name"]] += 1
                stacks[event["pid"], event["tid"]].append(event["ts"])
            elif event["ph"] == "E":
                self.assertGreaterEqual(event["ts"], stacks[event["pid"], event["tid"]].pop())
        self.assertEqual((begun, [stack for stack in stacks.values() if stack]), (counted, []))
        rows = list(csv.DictReader(io.StringIO(export["csv"], newline="")))
        self.assertEqual(collections.Counter(row["function"] for row in rows), counted)
        self.assertEqual([row["result"] for row in rows if row["function"] == "number"],
                         [str(each) for each in (NX, NY, STEPS, INTERVAL)] * RANKS)
        folded = dict(line.rsplit(" ", 1) for line in export["folded"].splitlines())
        self.assertEqual({path.rpartition(";")[2] for path in folded}, set(counted))
        self.assertIn("stommel;main;solve;do_transfer;do_transfer_y;shift_line", folded)

    def check_babeltrace(self):
        """The same calls in the same order, and the same numbers in them."""
        lines = self.babeltrace()
        if lines is None:
            self.skipTest("babeltrace2 is not installed")
        entries, exits = collections.defaultdict(list), collections.Counter()
        values = collections.defaultdict(list)
        for line in lines:
            pid, event = re.match(r"\[[^]]*\] \([^)]*\) \S+?:\((\d+)\) (\w+): ", line).groups()
            name = re.search(r'function = \( "([^"]*)"', line)
            if event in ("entry", "entry_values"):
                entries[int(pid)].append(name[1])
                if name[1] == "do_reduce":
                    values[int(pid)].append(float(re.search(r"args = \{ value = ([-\d.e+]+)", line)[1]))
            elif event in ("exit", "exit_of", "exit_values"):
                exits[int(pid)] += 1
        for pid in self.ranks.values():
            calls = [call for call in self.calls if call["process"] == pid]
            started = sorted(calls, key=lambda call: (call["start_seconds"], call["depth"]))
            self.assertEqual(entries[pid], [call["function"] for call in started])
            self.assertEqual(exits[pid], len(calls))
            shown = [call["args"]["value"] for call in started if call["function"] == "do_reduce"]
            self.assertEqual(len(values[pid]), len(shown))
            for one, other in zip(values[pid], shown):
                self.assertAlmostEqual(one, other, delta=abs(other) * 1e-5)  # babeltrace2 shows six digits
        self.assertEqual(set(entries), set(self.ranks.values()))


scrytest.main()
