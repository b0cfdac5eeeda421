# SPDX-License-Identifier: Apache-2.0
"""What of a function's time was on a processor, and what was waiting, in reports, replay and exports; never a wrong figure:
where it is not known, that is said with the reason."""

import csv
import io
import json
import os
import re

import scrytest
from ctracertest import TracerCase
from schematest import schema, violations

MS = 1e6
TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")
KINDS = ("cpu", "waiting", "preempted")


def stolen_ns():
    """What the host of a virtual machine took of its processors. Who has one then has it for scry, not for the kernel's clocks."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) * TICK_NS


class CpuTime(TracerCase):
    def run_it(self, *command, options=("--trace", "all")):
        self.compile("cputime.c", "-O1")
        self.job = self.box.path("work", f"job{len(options)}{options[-1]}")
        done = self.scry_run("-o", self.job, *options, "--", "./cputime", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["name"]: row for row in self.report(self.job)["functions"]}, done

    def check_cpu(self, ns, own_ns, delta, stolen):
        self.assertGreaterEqual(ns, own_ns - delta)
        self.assertLessEqual(ns, own_ns + delta + stolen)

    def check_parts(self, row, prefix, all_ns):
        parts = [row[f"{prefix}{kind}_ns"] for kind in KINDS] + [row.get(f"{prefix}unknown_ns", 0)]
        self.assertAlmostEqual(sum(parts), all_ns, delta=max(10, all_ns * 0.011), msg=row)

    def test_split(self):
        stolen = -stolen_ns()
        rows, done = self.run_it()
        stolen += stolen_ns() + TICK_NS * os.cpu_count()  # of each processor, less than a tick was not told yet
        report = self.report(self.job)
        self.assertEqual(list(violations(report, schema("report"))), [])
        self.assertEqual(report["trace"]["unwatched"], [])
        child = rows.pop("child")  # it may have begun before it was watched; then nothing is claimed of it
        if child["self_waiting_ns"] is None:
            self.assertGreater(child["self_unknown_ns"], child["self_ns"] / 101)
        else:
            self.assertGreaterEqual(child["self_waiting_ns"] + child["self_unknown_ns"], 195 * MS)
        for row in rows.values():
            for prefix in ("self_", "total_"):
                self.check_parts(row, prefix, row[f"{prefix}ns"])
        # five times ten, two times twenty
        self.check_cpu(rows["compute"]["self_cpu_ns"], 90 * MS, 4 * MS, stolen)
        self.assertLess(rows["compute"]["self_waiting_ns"], 3 * MS)
        self.assertLess(rows["doze"]["self_cpu_ns"], 4 * MS + stolen)
        self.assertGreaterEqual(rows["doze"]["self_waiting_ns"], 99 * MS)
        self.check_cpu(rows["both"]["total_cpu_ns"], 50 * MS, 4 * MS, stolen)
        self.assertGreaterEqual(rows["both"]["total_waiting_ns"], 99 * MS)
        self.assertLess(rows["both"]["self_cpu_ns"], 20 * MS)
        said = {name: (int(cpu), int(wall)) for name, cpu, wall in re.findall(r"(\w+) (\d+) (\d+)", done.stdout)}
        calls = [json.loads(line) for line in self.scry("replay", "--json", self.job).stdout.splitlines()]
        works = [call for call in calls if call.get("function") == "work"]
        self.assertEqual(len(works), 2)
        for call in works:
            cpu, wall = said["main" if call["thread"] == call["process"] else "thread"]
            self.check_cpu(call["cpu_ns"], cpu, 1.5 * MS + wall / 100, stolen)
            self.check_parts(call, "", call["duration_ns"])
        text = self.scry("replay", "--fn", "doze", self.job).stdout
        self.assertRegex(text, r"doze.*  [\d.]+ ms \(cpu [\d.]+ us, waiting [\d.]+ ms\)")
        lines = self.scry("export", "--format", "csv", "-o", "-", self.job).stdout
        table = [row for row in csv.DictReader(io.StringIO(lines)) if row["function"] == "compute"]
        self.check_cpu(sum(int(row["cpu_ns"]) for row in table), 90 * MS, 4 * MS, stolen)
        for kind in ("cpu", "waiting"):
            sums = {}
            for line in self.scry("export", "--format", f"folded-{kind}", "-o", "-", self.job).stdout.splitlines():
                path, ns = line.rsplit(" ", 1)
                sums[path.rpartition(";")[2]] = sums.get(path.rpartition(";")[2], 0) + int(ns)
            for name, row in rows.items():
                self.assertAlmostEqual(sums.get(name, 0), row[f"self_{kind}_ns"], delta=row["self_ns"] / 50 + 1000, msg=name)
        self.scry("export", "--format", "chrome", "-o", "chrome.json", self.job)
        with open(self.box.path("work", "chrome.json"), encoding="utf-8") as file:
            ends = [event["args"]["waiting_ns"] for event in json.load(file)["traceEvents"]
                    if event["ph"] == "E" and "waiting_ns" in event["args"]]
        self.assertGreaterEqual(max(ends), 19 * MS)

    def test_running(self):
        """Of calls that have not ended, too, as far as it is on disk."""
        program, job = self.compile("hangs.c", "-O0"), self.box.path("work", "job")
        run = self.start_run("-q", "--trace", "all", "-o", job, "--", program, "kill", "60000")

        def hang():
            if not os.path.exists(os.path.join(job, "job.json")):
                return None
            row = {row["name"]: row for row in self.report(job)["functions"]}.get("hang")
            return row if row and row["open"] and (row["total_waiting_ns"] or 0) > 200 * MS else None
        row = scrytest.wait_until(hang)
        self.assertLess(row["total_cpu_ns"], 50 * MS)
        run.terminate()
        run.wait()

    def check_unknown(self, rows, name, reason):
        for prefix in ("self_", "total_") if rows[name]["self_ns"] else ("total_",):
            for kind in KINDS:
                self.assertIsNone(rows[name][f"{prefix}{kind}_ns"], rows[name])
            self.assertGreater(rows[name][f"{prefix}unknown_ns"], 0)
        self.assertRegex(" ".join(self.report(self.job)["trace"]["unwatched"]), f"^cputime: {reason}")
        self.assertRegex(self.scry("report", self.job).stdout, f"cpu and waiting: not known of all of (cputime|2 processes \\(cputime\\)): {reason}")

    @scrytest.thorough
    def test_often(self):
        """Who switches too often is left alone."""
        rows, _ = self.run_it("100000")
        self.check_unknown(rows, "storm", "the program switches so often")

    def test_not_recorded(self):
        rows, _ = self.run_it(options=("--trace", "all", "--count-only"))
        self.check_unknown(rows, "compute", "calls are only counted")
        rows, _ = self.run_it(options=("--trace", "all", "--overflow", "flight"))
        self.check_unknown(rows, "compute", "a flight recorder keeps")
        done = self.scry("export", "--format", "folded-cpu", "-o", "-", self.job)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"of \d+ calls it is not known when they had a processor")

    def test_width(self):
        """Lines are not longer than there is room, and nothing is lost but the end of commands in lists."""
        names = [f"{'a_very_long_name_' * 4}{i}_{'of_a_function_' * 3}{i}" for i in range(3)]
        source = self.box.path("work", "long.c")
        with open(source, "w", encoding="utf-8") as file:
            for name, inner in zip(names, names[1:] + [""]):
                call = f"extern void {inner}(const char *); {inner}(s);" if inner else ""
                file.write(f"__attribute__((noinline)) void {name}(const char *s) {{ {call} }}\n")
            file.write(f"int main(void) {{ {names[0]}(\"{'some text ' * 8}\"); return 3; }}\n")
        program = self.compile(source, "-O0")
        for job in ("one", "two"):
            self.scry_run("-o", self.box.path("work", job), "--trace", "all", "--args", "--", program, "x" * 200, "last")
        for columns in (80, 132):
            env = {**self.box.env, "COLUMNS": str(columns)}
            for command in (("report", "one"), ("diff", "one", "two"), ("replay", "one"), ("ps", "--all"),
                            ("why", "one")):
                text = self.scry(*command, env=env).stdout
                self.assertTrue(text, command)
                self.assertEqual([line for line in text.splitlines() if len(line) > columns], [], command)
                joined = re.sub(r"\n +", "", text)
                if command == ("ps", "--all"):
                    self.assertRegex(text, r"long.*\.\.\.\n")
                elif command[0] != "why":
                    for name in names:
                        self.assertIn(name, joined, command)
                    self.assertEqual("      mean       min" in text, columns == 132 and command == ("report", "one"))


if __name__ == "__main__":
    scrytest.main()
