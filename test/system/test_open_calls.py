# SPDX-License-Identifier: Apache-2.0
"""Calls that are open when their process ends are open at the end, with the time until then: in the report, the replay and
the exports; of threads that ended before, they ended with these."""

import csv
import json
import re

import scrytest
from ctracertest import TracerCase

HANGS_MS = 300
ENDS = {"kill": 137, "exit": 0, "_exit": 0, "exec": 0, "abort": 134}


# gcc -O1 removes the arguments of `many` from the stack behind the entry hook of `body`, and before its exit hook.
PUSHED = """volatile int sink;
__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h) { sink += a + h; return g; }
__attribute__((noinline)) int leaf(int a) { sink += a; return a; }
static inline __attribute__((always_inline)) int body(int n) { int s = 0; for (int i = 0; i < n; i++) s += sink; return s; }
int work(int n)
{
    int r = many(1, 2, 3, 4, 5, 6, 7, n);
    r += body(n);
    return leaf(r) + many(1, 2, 3, 4, 5, 6, 7, 8);
}
int main(void) { int r = 0; for (int i = 0; i < 3; i++) r += work(i); return r == 77; }
"""


class OpenCalls(TracerCase):
    def run_it(self, how, *options):
        self.compile("hangs.c", "-O0", "-g")
        done = self.scry_run("-o", self.box.path("work", f"{how}{len(options)}"), *options, "--", "./hangs", how, str(HANGS_MS))
        self.assertEqual(done.returncode, ENDS.get(how, 0), done.stderr)
        return self.box.path("work", f"{how}{len(options)}")

    def check_rows(self, rows, wall_ns, times="total_ns"):
        """What is open took as long as the process lived, not longer and not as long as what it executed."""
        least = HANGS_MS * 1e6
        for name, calls in (("hang", 1), ("around", 1), ("main", 1), ("forever", 2), ("thread", 2)):
            row = rows[name]
            self.assertEqual((row["calls"], row["open"], row["unwound"]), (calls, calls, 0), row)
            self.assertGreaterEqual(row[times], calls * least * 0.95, row)
            self.assertLess(row[times], calls * wall_ns, row)
        for name in ("gone", "leaver"):
            self.assertEqual((rows[name]["calls"], rows[name]["open"]), (1, 0), rows[name])
            self.assertLess(rows[name][times], least / 2, rows[name])

    def test_report(self):
        for how in ENDS:
            for options in ((), ("--args",)):
                with self.subTest(how=how, options=options):
                    report = self.report(self.run_it(how, *options))
                    rows = {row["name"]: row for row in report["functions"]}
                    wall = report["wall_seconds"] - (HANGS_MS / 1e3 if how == "exec" else 0)
                    self.check_rows(rows, wall * 1e9)
                    self.assertEqual((rows["gone"]["unwound"], rows["leaver"]["unwound"]), (1, 1))
                    self.assertGreater(rows["hang"]["self_ns"], rows["around"]["self_ns"])

    def test_inlined_behind_arguments_on_the_stack(self):
        """It has ended as every call does."""
        source = self.box.path("work", "pushed.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(PUSHED)
        job, program = self.box.path("work", "pushed-job"), self.compile(source, "-O1", compiler="gcc")
        done = self.scry_run("-o", job, "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: (row["calls"], row["unwound"]) for row in self.report(job)["functions"]}
        self.assertEqual(rows, {"main": (1, 0), "work": (3, 0), "many": (6, 0), "body": (3, 0), "leaf": (3, 0)})

    def test_only_counted(self):
        for how in ENDS:
            with self.subTest(how=how):
                report = self.report(self.run_it(how, "--count-only"))
                wall = report["wall_seconds"] - (HANGS_MS / 1e3 if how == "exec" else 0)
                self.check_rows({row["name"]: row for row in report["functions"]}, wall * 1e9)

    def test_not_long_enough_yet(self):
        """With --min-time a call is recorded when it turns out long enough: also if that is when its process ends."""
        for how in ("kill", "exec"):
            with self.subTest(how=how):
                report = self.report(self.run_it(how, "--min-time", "50ms"))
                rows = {row["name"]: row for row in report["functions"]}
                self.assertEqual(sorted(rows), ["around", "forever", "hang", "main", "thread"])
                wall = report["wall_seconds"] - (HANGS_MS / 1e3 if how == "exec" else 0)
                rows |= {name: {"calls": 1, "open": 0, "total_ns": 0} for name in ("gone", "leaver")}
                self.check_rows(rows, wall * 1e9)
                self.assertEqual(report["trace"]["events"], 7)

    def test_replay_and_exports(self):
        job = self.run_it("kill")
        text = self.scry("replay", job).stdout
        self.assertEqual(len(re.findall(r"end of (?:forever|hang|around|thread|main)  still open at the end  3\d\d ms", text)),
                         7, text)
        self.assertEqual(len(re.findall("unwound", text)), 2, text)
        for line in self.scry("replay", "--json", job).stdout.splitlines():
            event = json.loads(line)
            if event.get("name") == "hang" and event.get("event") == "exit":
                self.assertEqual(event["how"], "open")
        self.scry("export", job, "--format", "csv", "-o", self.box.path("work", "calls.csv"))
        with open(self.box.path("work", "calls.csv"), encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["function"] in ("hang", "forever")]
        self.assertEqual([row["how"] for row in rows], ["open"] * 3)
        for row in rows:
            self.assertGreaterEqual(int(row["duration_ns"]), HANGS_MS * 950000)
        self.scry("export", job, "--format", "chrome", "-o", self.box.path("work", "calls.json"))
        with open(self.box.path("work", "calls.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        begun = {(each["tid"], each["name"]): each["ts"] for each in events if each["ph"] == "B"}
        last = max(each["ts"] for each in events if each["ph"] == "E")
        self.assertGreaterEqual(last - begun[next(key for key in begun if key[1] == "hang")], HANGS_MS * 950)


class EndedThreads(TracerCase):
    @scrytest.thorough
    def test_cancelled(self):
        """Calls of a thread that is cancelled or calls pthread_exit end with it, not with the process; none is missing."""
        self.compile("cancelled.c", "-O1", "-g")
        for options in ((), ("--args",), ("--count-only",), ("--min-time", "50ms")):
            with self.subTest(options=options):
                job = self.box.path("work", f"ended{'-'.join(options)}")
                done = self.scry_run("-o", job, *options, "--", "./cancelled", str(HANGS_MS))
                self.assertEqual(done.returncode, 0, done.stderr)
                most_ns = {name: int(ns) for name, ns in re.findall(r"(\w+) (\d+)", done.stdout)}
                rows = {row["name"]: row for row in self.report(job)["functions"]}
                for name in ("waits", "waiter", "spins", "spinner", "leaves", "leaver"):
                    row = rows[name]
                    self.assertEqual((row["calls"], row["open"]), (1, 0), row)
                    self.assertEqual(row["unwound"], 0 if "--count-only" in options else 1, row)
                    self.assertGreater(row["total_ns"], HANGS_MS * 0.9e6, row)
                    self.assertLess(row["total_ns"], most_ns[name[:4]] + HANGS_MS * 0.5e6, row)
                self.assertEqual("tidy" in rows, "--min-time" not in options)


scrytest.main()
