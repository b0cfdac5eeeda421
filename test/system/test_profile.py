# SPDX-License-Identifier: Apache-2.0
"""scry run --profile: where a job uses processors, against programs whose functions have known shares."""

import collections
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import scrytest
from jobtest import JobCase, target
from scrytest import wait_until

HZ = "500"
SECONDS = "0.8"
SHARES = {"first": 60, "second": 30, "third": 10}
WITHIN = 8  # points: of 400 samples that is more than three times what chance does


def varints(data):
    values, shift, value = [], 0, 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            shift = value = 0
    return values


def protobuf(data):
    """[(field, number or bytes)]"""
    fields, at = [], 0

    def number():
        nonlocal at
        start = at
        while data[at] >= 0x80:
            at += 1
        at += 1
        return varints(data[start:at])[0]

    while at < len(data):
        key, value = number(), number()
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
        fields.append((key >> 3, value))
    return fields


# What compilers make of more than plain calls, with known shares of processor time
COROUTINES = r"""
#include <coroutine>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <stdexcept>
static double now() { timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static volatile double sum;
#define APART __attribute__((noinline))
#define BUSY(seconds) for (double end = now() + (seconds); now() < end;) for (int i = 0; i < 20000; i++) sum = sum + i
struct task {
    struct promise_type {
        task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};
task first(double seconds)
{
    for (int k = 0; k < 100; k++) {
        BUSY(seconds / 100);
        co_await std::suspend_always{};
    }
}
APART void resume_all(double seconds)
{
    task t = first(seconds);
    while (!t.handle.done())
        t.handle.resume();
    t.handle.destroy();
}
APART void raise(int i) { if (i >= 0) throw std::runtime_error("no"); }
APART void second(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 50; i++)
            try { raise(i); } catch (const std::exception &) { sum = sum + 1; }
}
APART void third(double seconds) { BUSY(seconds); }
APART void hop(double seconds) { asm volatile(""); third(seconds); }
APART void begin(double seconds) { hop(seconds); asm volatile(""); }
int main(int argc, char **argv)
{
    double seconds = atof(argv[1]);
    resume_all(0.6 * seconds);
    second(0.3 * seconds);
    begin(0.1 * seconds);
}
"""
RUST = r"""
use std::hint::black_box;
#[inline(never)] fn first(n: u64) -> u64 { let mut x = 0; for i in 0..6 * n { x = black_box(x + i % 7); } x }
#[inline(always)] fn second(n: u64) -> u64 { let mut x = 0; for i in 0..3 * n { x = black_box(x + i % 7); } x }
#[inline(never)] fn third(n: u64) -> u64 { let mut x = 0; for i in 0..n { x = black_box(x + i % 7); } x }
#[inline(never)] fn all(n: u64) -> u64 { first(n) + second(n) + third(n) }
fn main() { let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap(); println!("{}", all(n)); }
"""


class Profile(JobCase):
    def profile(self, *command, status=0, hz=HZ):
        done = self.scry_run("--profile", hz, "--", *command)
        self.assertEqual(done.returncode, status, done.stderr)
        self.summary = done.stderr
        report = self.report()
        self.functions = {}
        for row in report["profile"]["functions"]:
            self.functions.setdefault(row["name"], row)
        return report["profile"]

    def share(self, name, kind="self"):
        return 100 * self.functions[name][kind + "_samples"] / self.samples if name in self.functions else 0

    def assert_shares(self, profile, expected=SHARES):
        """Of what is spent in programs: what the kernel takes of each on a busy virtual machine is no share of its own."""
        self.samples = profile["samples"] - self.functions.get("kernel", {"self_samples": 0})["self_samples"]
        self.assertGreater(self.samples, profile["samples"] / 2)
        for name, percent in expected.items():
            self.assertAlmostEqual(self.share(name), percent, delta=WITHIN, msg=profile)
        self.samples = profile["samples"]

    def stacks(self):
        """{(function, ...): samples}, from outside."""
        stacks = collections.Counter()
        for line in self.scry("export", "--format", "folded-samples", "-o", "-", "@last").stdout.splitlines():
            path, _, count = line.rpartition(" ")
            stacks[tuple(path.split(";"))] += int(count)
        return stacks

    def assert_below(self, outer, inner, share=0.9):
        """Most samples of a function were taken below another one."""
        its = [(path, count) for path, count in self.stacks().items() if inner in path]
        below = sum(count for path, count in its if outer in path[:path.index(inner)])
        self.assertGreater(below, share * sum(count for _, count in its), its)

    def test_shares(self):
        profile = self.profile(target("profiled"), "plain", SECONDS)
        self.assert_shares(profile)
        self.assertGreater(self.share("plain", "total"), 95)
        self.assertGreater(self.share("main", "total"), 95)
        self.assertEqual(self.functions["first"]["line"] > 0, True)
        self.assertTrue(self.functions["first"]["file"].endswith("profiled.c"))
        self.assertAlmostEqual(profile["seconds"], float(SECONDS), delta=0.2)
        self.assertRegex(self.summary, r"profile +\d+ % first \(profiled.c:\d+\), \d+ % second")
        self.assertRegex(self.scry("report", "@last").stdout, r"(?m)^  first \(profiled.c:\d+\) +\d+\.\d +\d+\.\d +\d.*s$")
        self.assert_below("plain", "third")
        self.assertTrue(any("qsort" in step for path in self.stacks() if "third" in path for step in path)) # libc's name of it

    def test_builds(self):
        """However it was compiled, the functions that compute are known; without symbols, the program."""
        for build in "pointers", "neither", "static":
            with self.subTest(build=build):
                self.assert_shares(self.profile(target("profiled_" + build), "plain", SECONDS))
                if build != "neither":
                    self.assert_below("plain", "second")
        profile = self.profile(target("profiled_stripped"), "plain", SECONDS)
        unnamed = sum(row["self_samples"] for row in profile["functions"]
                      if row["name"] is None and row["module"].endswith("profiled_stripped"))
        self.assertGreater(unnamed, 0.9 * profile["samples"])
        self.assertIn("names of functions of profiled_stripped were not found: probably strip", self.scry("report", "@last").stdout)

    def test_inlined(self):
        """What is inlined is a function of its own, with a place and a line; its caller has it as a part."""
        profile = self.profile(target("profiled"), "inlined", SECONDS)
        self.assert_shares(profile, {"heavy": 70, "light": 30, "solve": 0, "wrapped": 0})
        self.assertGreater(self.share("solve", "total"), 95)
        self.assertAlmostEqual(self.share("wrapped", "total"), 30, delta=WITHIN)
        self.assertTrue(self.functions["heavy"]["file"].endswith("profiled.c"))
        self.assert_below("solve", "heavy")
        self.assert_below("wrapped", "light")
        with open(glob.glob(self.box.path("jobs", "2*", "profile.json"))[-1], encoding="utf-8") as file:
            written = json.load(file)
        lines = collections.Counter()
        for function, line, samples, _ in written["lines"]:
            lines[written["functions"][function][0]] += samples if line == self.functions["heavy"]["line"] + 2 else 0
        self.assertGreater(lines["heavy"], 0.6 * profile["samples"])

    def assert_totals(self, profile, within):
        """Names have hashes behind them in Rust."""
        totals = {name: sum(row["total_samples"] for row in profile["functions"] if re.search(rf"(^|::){name}(::h[0-9a-f]{{16}})?$", row["name"] or ""))
                  for name in SHARES}
        for name, percent in SHARES.items():
            self.assertAlmostEqual(100 * totals[name] / profile["samples"], percent, delta=within, msg=profile)

    @scrytest.thorough
    def test_compilers(self):
        """Coroutines, exceptions, tail calls; Rust, and what it inlines: within 3 points of 3000 samples."""
        source, program = self.script(COROUTINES, "program.cc"), self.box.path("work", "program")
        subprocess.run(["g++", "-std=c++20", "-O2", "-g", "-o", program, source], check=True)
        self.assert_totals(self.profile(program, "3", hz="1000"), 3)
        self.assert_below("begin", "third") # without hop, which has ended by then
        self.assertNotIn("hop", self.functions)
        if not shutil.which("rustc"):
            self.skipTest("rustc is not installed: Rust is not tested")
        subprocess.run(["rustc", "-O", "-g", "-o", program, self.script(RUST, "program.rs")], check=True)
        self.assert_totals(self.profile(program, "200000000", hz="1000"), 3)

    @unittest.skipUnless(shutil.which("node"), "needs node")
    def test_javascript(self):
        """Code that a program makes has the names that it writes for perf; without them it is that of the program."""
        program = self.program("""
            function spin(ms) {
                for (const end = process.cpuUsage().user + 1000 * ms; process.cpuUsage().user < end;)
                    for (let i = 0, x = 0; i < 200000; i++) x += i % 7;
            }
            function first() { spin(560) }
            function second() { spin(240) }
            first(); second()
            """, "program.js")
        self.samples = self.profile(shutil.which("node"), "--perf-basic-prof", "--single-threaded", program)["samples"]
        with open(glob.glob(self.box.path("jobs", "2*", "profile.json"))[-1], encoding="utf-8") as file:
            os.unlink(f"/tmp/perf-{json.load(file)['processes'][0][0]}.map") # node puts it there, and nowhere else
        self.assertEqual((self.functions["spin"]["language"], self.functions["spin"]["line"]), ("javascript", 2))
        self.assertGreater(self.share("spin", "total"), 60)
        profile = self.profile(shutil.which("node"), "--single-threaded", program)
        self.samples = profile["samples"]
        self.assertEqual(self.functions["[JIT of node]"]["language"], "jit")
        self.assertGreater(self.share("[JIT of node]"), 60)
        self.assertIn("[JIT of node] would have names in /tmp/perf-PID.map", self.scry("report", "@last").stdout)

    def test_deep(self):
        """Deeper than what is copied of a stack, and than what is kept of it."""
        self.assert_shares(self.profile(target("profiled"), "deep", SECONDS))
        self.assertGreater(self.share("recurse", "total"), 95)
        self.assertLess(self.share("recurse", "total"), 101)

    def test_threads_and_processes(self):
        profile = self.profile(target("profiled"), "threads", SECONDS)
        self.assert_shares(profile)
        self.assertEqual(self.functions["first"]["processes"], 1)
        pid = profile["processes"][0]["pid"]
        busy = [row for row in profile["threads"] if row["self_seconds"] > 0.1]
        self.assertEqual([(row["pid"], row["process"], row["name"], row["function"]) for row in busy], [(pid, "profiled", "half", "first")] * 2, profile["threads"])
        self.assertEqual(len({pid, *(row["tid"] for row in busy)}), 3)
        self.assertEqual(sum(row["samples"] for row in profile["threads"]), profile["processes"][0]["samples"])
        self.assertLess(sum(profile["other_threads"].values()), 0.05)
        self.assertRegex(self.scry("report", "@last").stdout, r"(?m)^By thread +self % .*\n  half \d+ of profiled \d+ +\d+\.\d .*  first \(profiled.c:\d+\)$")
        self.assert_shares(self.profile(target("profiled"), "forks", SECONDS))
        self.assertEqual(self.functions["first"]["processes"], 2)

    def test_paths(self):
        """The tree is that of the exported paths; each process has its own figures."""
        profile = self.profile("sh", "-c", f"{target('profiled')} forks {SECONDS}; {target('profiled_static')} plain 0.3")
        tree, names = profile["tree"], []
        for row in tree:
            names.append((*(names[row["parent"]] if row["parent"] is not None else ()), row["name"]))
            below = [each["total_samples"] for each in tree if each["parent"] == len(names) - 1]
            self.assertLessEqual(sum(below) + row["self_samples"], row["total_samples"])
            if row["function"] is not None:
                self.assertEqual(row["name"], profile["functions"][row["function"]]["name"])
        self.assertEqual({path: row["self_samples"] for path, row in zip(names, tree) if row["self_samples"] and None not in path},
                         {path: count for path, count in self.stacks().items() if path in names})
        roots = {row["name"]: row["total_samples"] for row in tree if row["parent"] is None}
        its = [(row["name"], row["function"], row["samples"], row["rank"]) for row in profile["processes"]]
        self.assertEqual(sum(row[2] for row in its if row[0] == "profiled"), roots["profiled"])
        self.assertEqual({row[:2] + row[3:] for row in its[:3]}, {(name, "first", None) for name in ("exe", "profiled", "profiled_static")})
        text = self.scry("report", "@last").stdout
        self.assertRegex(text, r"(?m)^By path of calls +total % +self %\n  \S+ +\d")
        self.assertRegex(text, r"(?m)^    main \(profiled.c:\d+\) +\d+\.\d\n(?:.*\n)*      plain \(profiled.c:\d+\) .*\n        first \(")
        self.assertNotIn("__libc_start", text.split("By path of calls")[1])
        self.assertRegex(text, r"(?m)^By process +self % .*\n  (exe|profiled) \d+ +\d+\.\d .*  first \(profiled.c:\d+\)$")

    def test_shorter_than_a_sample(self):
        """The samples stand for a part of the time only, and that is said."""
        self.profile(target("profiled"), "short", "1.6", hz="20")  # of less than a second there is no word
        self.assertRegex(self.scry("report", "@last").stdout, r"of .* they have seen .* shorter than 50 ms are not sampled")

    def test_waiting(self):
        """What stands is known by where it stands, and what for; who waits for a thread or a child, or stands in a pool, does not count."""
        for build in "profiled", "profiled_pointers":
            with self.subTest(build=build):
                profile = self.profile(target(build), "waits", "0.8")
                waits = {name: {wait["for"]: wait["seconds"] for wait in row["waits"]} for name, row in self.functions.items()}
                for name, kind, seconds in ("naps", "sleep", 0.8 + 0.8), ("loads", "pipe", 0.8), ("locks", "lock", 0.8):
                    self.assertAlmostEqual(waits[name].get(kind, 0), seconds, delta=0.45, msg=waits)
                self.assertNotIn("stands", waits)
                self.assertAlmostEqual(profile["waiting_seconds"], sum(row["waiting_seconds"] for row in profile["functions"]), delta=0.01)
                self.assertRegex(self.summary, r"waited +\d+ % of its threads' time: \d+ % asleep in naps \(profiled.c:\d+\), ")
                self.assertRegex(self.scry("report", "@last").stdout, r"(?m)^  threads waited \d+ % of their time: .* in loads \(profiled.c")

    def test_waiting_aside(self):
        """A thread that stands ready to help one that computes does not wait."""
        profile = self.profile(target("profiled"), "helped", "1.5")
        self.assertLess(profile["waiting_seconds"], 0.4)

    def test_python(self):
        program = self.program("""
            import functools, time
            def spin(seconds):
                end = time.thread_time() + seconds
                while time.thread_time() < end:
                    for _ in range(500):
                        pass
            def first():
                spin(0.5)
            def key(x):
                spin(0.15)
                return x
            def second():
                sorted([2, 1], key=key)
            first()
            second()
            """)
        profile = self.profile("/usr/bin/python3", program)
        self.samples = profile["samples"]
        self.assertAlmostEqual(self.share("first", "total"), 61, delta=WITHIN)
        self.assertAlmostEqual(self.share("second", "total"), 36, delta=WITHIN)
        self.assertEqual((self.functions["key"]["language"], self.functions["key"]["line"]), ("python", 10))
        self.assert_below("second", "key")
        self.assert_below("<module>", "first")

    def test_python_imports(self):
        """The table has what is imported, and not what imports."""
        busy = self.program("""
            import time
            end = time.thread_time() + 0.4
            while time.thread_time() < end:
                pass
            """)
        os.rename(busy, os.path.join(os.path.dirname(busy), "busy.py"))
        imports = self.program("import busy")
        self.profile("/usr/bin/python3", imports)
        table = self.scry("report", "@last").stdout.split("By path of calls")[0]
        self.assertIn("<module> (", table)
        self.assertNotRegex(table, r"_find_and_load .*>:\d+\) +0\.0 ")  # it may have samples of its own

    def test_refused(self):
        """Times of processes and threads instead, of Python's functions, and what waits; that is said."""
        refused = lambda *command: self.box.run([target("refused"), *self.box.scry("run", "--profile", HZ, "--", *command)])
        done = refused(target("profiled"), "forks", "1.6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"profile +no samples: perf events are not allowed here \(.*\); times are by process: \d+ % (exe|profiled)")
        profile = self.report()["profile"]
        self.assertRegex(profile["refused"], "perf_event")
        self.assertEqual({row["name"]: row["language"] for row in profile["functions"] if row["self_samples"]},
                         {"profiled": "process", "exe": "process"}) # as what it executes is called
        self.assertAlmostEqual(profile["seconds"], 1.6, delta=0.4)
        program = self.program("""
            import time
            def spin(seconds):
                end = time.thread_time() + seconds
                while time.thread_time() < end:
                    for _ in range(500):
                        pass
            spin(1.5)
            time.sleep(0.8)
            """)
        self.assertEqual(refused("/usr/bin/python3", program).returncode, 0)
        functions = self.report()["profile"]["functions"]
        self.assertAlmostEqual(sum(row["self_seconds"] for row in functions if row["name"] == "spin"), 1.5, delta=0.3)
        self.assertIn("sleep", [wait["for"] for row in functions for wait in row["waits"]], functions)

    def sampler(self):
        """The process id of this test's scry-profile; None: there is none."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    words = file.read().split("\0")
            except OSError:
                continue
            if words[0] == "scry-profile" and words[3].startswith(self.box.path("jobs")):
                return int(pid)
        return None

    def test_rests(self):
        """Of a process that goes on, several samples are read at once: scry-profile is woken less often than there are samples,
        and loses none."""
        run = self.start_run("-q", "--profile", HZ, "--", target("profiled"), "plain", "2.5")
        pid, woken = wait_until(self.sampler), 0

        def ended():
            nonlocal woken
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                woken = max([woken, *(int(line.split()[1]) for line in file if line.startswith("voluntary"))])
            return run.poll() is not None

        with contextlib.suppress(OSError):
            wait_until(ended)
        self.assertEqual(run.wait(), 0)
        profile = json.loads(self.scry("report", "--json", "@last").stdout)["profile"]
        self.assertEqual(profile["lost"], 0)
        self.assertGreater(profile["samples"], 2.4 * int(HZ))
        self.assertLess(woken, 0.75 * profile["samples"])

    def test_killed(self):
        """The job goes on; what is missing is said."""
        fifo = self.box.path("work", "fifo")
        os.mkfifo(fifo)
        run = self.start_run("-q", "--profile", HZ, "--", "sh", "-c", f"read x <{fifo}; exit 3")

        with open(fifo, "w", encoding="ascii") as file: # sh has it open, too
            os.kill(wait_until(self.sampler), signal.SIGKILL)
            file.write("x\n")
        self.assertEqual(run.wait(), 3)
        self.assertIn("scry-profile was killed", self.scry("report", "@last").stdout)

    @scrytest.hasten(10)
    def test_top(self):
        """While the job runs, scry top has its functions."""
        run = self.start_run("-q", "--profile", HZ, "--", "nice", target("profiled"), "plain", "60")
        wait_until(lambda: glob.glob(self.box.path("jobs", "2*", "profile.json")))
        top = lambda: json.loads(self.scry("top", "--once", "--json", "@last").stdout)["profile"]["functions"]
        wait_until(lambda: "first" in [row["name"] for row in top()])
        self.assertRegex(self.scry("top", "--once", "@last").stdout, r"(?m)^ +\d+\.\d +\d+\.\d .* m?s  first \(profiled.c:\d+\)$")
        run.terminate()
        run.wait()

    def test_diff(self):
        """By function, the greatest difference first; of a run without samples nothing."""
        for seconds in "0.3", SECONDS:
            self.assertEqual(self.scry_run("--profile", HZ, "--name", "run" + seconds, "--", target("profiled"), "plain", seconds).returncode, 0)
        rows = json.loads(self.scry("diff", "--json", "run0.3", "@last").stdout)["profile"]
        self.assertEqual([row["name"] for row in rows[:2]], ["first", "second"])
        self.assertAlmostEqual(rows[0]["a_seconds"], 0.18, delta=0.08)
        self.assertAlmostEqual(rows[0]["b_seconds"], 0.48, delta=0.12)
        self.assertAlmostEqual(rows[0]["share_change"], rows[0]["b_share"] - rows[0]["a_share"])
        self.assertRegex(self.scry("diff", "run0.3", "@last").stdout,
                         r"(?m)^ +0\.\d+ s +0\.\d+ s +\+0\.\d+ s +[\d.]+ +[\d.]+  first \(profiled.c:\d+\)$")
        self.assertEqual(self.scry_run("--profile", "0", "--", "true").returncode, 0)
        self.assertIsNone(json.loads(self.scry("diff", "--json", "run0.3", "@last").stdout)["profile"])

    def test_pprof(self):
        """The same functions and samples as the folded paths have, decoded as profile.proto says."""
        profile = self.profile(target("profiled"), "plain", "0.3")
        self.scry("export", "--format", "pprof", "-o", self.box.path("work", "p.pb"), "@last")
        with open(self.box.path("work", "p.pb"), "rb") as file:
            fields = protobuf(file.read())
        strings = [value.decode() for field, value in fields if field == 6]
        functions = {each[1]: strings[each[2]] for each in (dict(protobuf(value)) for field, value in fields if field == 5)}
        places = {each[1]: functions[dict(protobuf(each[4]))[1]] for each in (dict(protobuf(v)) for f, v in fields if f == 4)}
        stacks = collections.Counter()
        for sample in (dict(protobuf(value)) for field, value in fields if field == 2):
            count, ns = varints(sample[2])
            self.assertEqual(ns, count * 1000000000 // int(HZ))
            process = strings[dict(protobuf(sample[3]))[2]]
            stacks[(process, *(places[place] for place in reversed(varints(sample[1]))))] += count
        self.assertEqual(stacks, self.stacks())
        self.assertEqual(sum(stacks.values()), profile["samples"])

    def test_speedscope(self):
        """The same stacks as folded paths, in seconds, of all and of each process; and the waiting of all."""
        profile = self.profile("sh", "-c", f"{target('profiled')} plain 0.3; {target('profiled')} waits 0.4")
        file = json.loads(self.scry("export", "--format", "speedscope", "-o", "-", "@last").stdout)
        frames, all_of = [frame["name"] for frame in file["shared"]["frames"]], {each["name"]: each for each in file["profiles"]}
        for each in file["profiles"]:
            self.assertEqual((each["type"], each["unit"], len(each["samples"])), ("sampled", "seconds", len(each["weights"])))
            self.assertAlmostEqual(each["endValue"], sum(each["weights"]), places=5)
        stacks = collections.Counter()
        for stack, seconds in zip(all_of["on a processor"]["samples"], all_of["on a processor"]["weights"]):
            stacks[tuple(frames[frame] for frame in stack)] += round(seconds * int(HZ))
        self.assertEqual(stacks, self.stacks())
        self.assertAlmostEqual(all_of["waiting"]["endValue"], profile["waiting_seconds"], places=3)
        self.assertEqual({name.split()[0] for name in all_of} - {"on", "waiting"},
                         {row["name"] or str(row["pid"]) for row in profile["processes"] if row["samples"]})
        self.assertTrue(any(frame["name"] == "first" and frame["file"].endswith("profiled.c") and frame["line"] for frame in file["shared"]["frames"]))

    def test_off(self):
        """Of what takes no time nothing is written."""
        for command in ("--profile", "0", "--", target("profiled"), "plain", "0.1"), ("--profile", "49", "--", "true"):
            self.assertEqual(self.scry_run(*command).returncode, 0)
            self.assertIsNone(self.report()["profile"])
            self.assertNotIn("profile.json", os.listdir(glob.glob(self.box.path("jobs", "2*"))[-1]))
        done = self.scry("export", "--format", "folded-samples", "-o", "-", "@last", status=1)
        self.assertIn("no samples were taken", done.stderr)


scrytest.main()
