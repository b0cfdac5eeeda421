# SPDX-License-Identifier: Apache-2.0
"""From the program's memory to the disk: babeltrace2 sees exactly the calls that the program made, whatever happens to
the program or the monitor meanwhile."""

import collections
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess

import scrytest
from jobtest import SHARED_FILES, calls_said, count_lines, flush, target, trace_process, traces_of
from scrytest import wait_until

BABELTRACE = shutil.which("babeltrace2")


class CollectCase(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        if not BABELTRACE:
            self.skipTest("babeltrace2 is not installed")
        self.job = self.box.path("work", "job")

    def traces(self):
        return traces_of(self.job)

    def events(self, *paths):
        """Lines of babeltrace2 of all traces of the job."""
        done = subprocess.run([BABELTRACE, *(paths or self.traces())], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout.splitlines(), done.stderr

    def entries(self, lines):
        found = re.findall(r' entry(?:_values)?: .*?function = \( "([^"]*)"', "\n".join(lines))
        return dict(collections.Counter(found))

    def exits(self, lines):
        return sum(bool(re.search(r" exit(_of|_values)?: ", line)) for line in lines)

    def scry_run(self, *arguments, **options):
        return self.box.run(self.box.scry("run", "-q", "-o", self.job, *arguments), **options)


class Whole(CollectCase):
    def test_threads(self):
        done = self.scry_run("--trace", "all", "--", target(), "threads", 20000)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = calls_said(done.stdout)
        lines, notes = self.events()
        found = self.entries(lines)
        self.assertEqual({name: found.get(name) for name in said}, said, list(found.items())[:9])
        self.assertEqual(self.exits(lines), sum(found.values()))
        self.assertNotIn("discarded", notes)
        (trace,) = self.traces()
        process = trace_process(trace)
        self.assertEqual(process["state"], ["exited"])
        self.assertEqual(int(process["events"][0]), 2 * sum(found.values()))
        self.assertNotIn("problem", process)
        self.assertEqual(set(os.listdir(self.box.path("run", "rings"))), SHARED_FILES)

    def test_drops_are_counted(self):
        """The monitor is stopped while the program runs: the exact losses are reported, by babeltrace2, too."""
        count = 3000000
        run = self.box.start(self.box.scry("run", "-q", "-o", self.job, "--buffer", "1M", "--trace", "fn:hot", "--",
                                           "sh", "-c", f'read go; exec {target()} storm {count}'), stdin=subprocess.PIPE)
        wait_until(self.box.monitor_pid)
        wait_until(lambda: os.path.exists(os.path.join(self.job, "job.json")))
        run.stdin.write("go\n")
        run.stdin.close()
        wait_until(lambda: glob.glob(os.path.join(self.job, "trace", "*", "*", "stream-0000")))
        os.kill(self.box.monitor_pid(), signal.SIGSTOP)
        self.assertRegex(run.stdout.readline(), "calls hot")
        os.kill(self.box.monitor_pid(), signal.SIGCONT)
        self.assertEqual(run.wait(), 0)
        (trace,) = self.traces()
        wait_until(lambda: trace_process(trace)["state"] == ["exited"])
        process = trace_process(trace)
        _, notes = count_lines(self.box, self.traces())
        self.assertGreater(int(process["discarded"][0]), 0)
        self.assertEqual(int(process["events"][0]) + int(process["discarded"][0]), 2 * count)
        self.assertEqual(sum(map(int, re.findall(r"discarded (\d+) event", notes))), int(process["discarded"][0]))

    def test_waiting_drops_nothing(self):
        count = 1000000
        done = self.scry_run("--buffer", "1M", "--overflow", "wait", "--trace", "fn:hot", "--", target(), "storm", count)
        self.assertEqual(done.returncode, 0, done.stderr)
        process = trace_process(self.traces()[0])
        self.assertEqual(process["events"] + process["discarded"], [str(2 * count), "0"])

    def test_crash(self):
        done = self.scry_run("--", target(), "crash", 5)
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        lines, _ = self.events()
        self.assertEqual(self.entries(lines).get("deep"), 6)
        process = trace_process(self.traces()[0])
        self.assertEqual(process["state"], ["crashed"])
        self.assertEqual(process["crash_signal"], [str(int(signal.SIGSEGV))])
        self.assertEqual(int(process["crash_address"][0], 16), 16)
        self.assertIn("deep", process["crash_stack"][0])

    def test_reason_of_a_crash(self):
        """What was wrong with the numbers, or the pointer, is known from the trace, without a core file."""
        for arguments, reason in ((("divide", 0), "an integer was divided by zero"), (("crash", 5), "a NULL pointer")):
            self.box.run(self.box.scry("run", "-q", "sh", "-c", 'ulimit -c 0; exec "$@"', "sh", target(), *arguments))
            crash, = json.loads(self.box.run(self.box.scry("report", "--json", "@last")).stdout)["crashes"]
            self.assertEqual(crash.get("reason"), reason, crash)

    @scrytest.thorough
    def test_size_limit(self):
        calls = 3000000 * scrytest.SCALE  # so many that a slow monitor sees the limit while there are some
        done = self.scry_run("--max-size", "2M", "--trace", "fn:hot", "--", target(), "storm", calls)
        self.assertEqual(done.returncode, 0, done.stderr)
        (trace,) = self.traces()
        wait_until(lambda: trace_process(trace)["state"] == ["exited"])  # scry run does not wait for long
        process = trace_process(trace)
        self.assertTrue(any(problem.startswith("trace_full\\t") for problem in process["problem"]), process)
        size = sum(os.path.getsize(name) for name in glob.glob(os.path.join(trace, "stream-*")))
        self.assertGreater(size, 1 << 20)
        self.assertLessEqual(size, 2 << 20)
        recorded = sum(int(process[key][0]) for key in ("events", "discarded", "overwritten"))
        # at the limit records are to cost no more than they tell: most of these calls are only counted
        self.assertEqual(recorded + 2 * int(process["tallied"][0]), 2 * calls)
        self.assertLess(recorded, 3000000 if scrytest.SCALE == 1 else 2 * calls)  # a slow monitor has packets fill slowly
        count_lines(self.box, self.traces())

    def test_flight_recorder(self):
        """Only the last calls are there, and whole."""
        done = self.scry_run("--overflow", "flight", "--buffer", "1M", "--trace", "fn:hot", "--", target(), "storm", 3000000)
        self.assertEqual(done.returncode, 0, done.stderr)
        (trace,) = self.traces()
        wait_until(lambda: trace_process(trace)["state"] == ["exited"])
        size = sum(os.path.getsize(name) for name in glob.glob(os.path.join(trace, "stream-*")))
        self.assertGreater(size, 500000)
        self.assertLess(size, 1100000)
        (calls,), _ = count_lines(self.box, self.traces(), r' entry(_values)?: .*"hot"')
        self.assertGreater(calls, 50000)
        process = trace_process(trace)
        self.assertGreater(int(process["flight_overwritten"][0]), 0)
        self.assertEqual(sum(int(process[key][0]) for key in ("events", "discarded", "overwritten")), 6000000)

    def test_values(self):
        """Arguments and results as babeltrace2 shows them are those of the program."""
        done = self.scry_run("--trace", "fn:leaf", "--args", "--", target(), "calls", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = "\n".join(self.events()[0])
        numbers = re.findall(r" entry_values: .*?\bn = \{?[^-0-9]*(-?\d+)", text)
        self.assertEqual(numbers, ["0", "0", "1", "-1", "2", "-2"], text)
        self.assertEqual(text.count('"text"'), 3, text)


class Change(CollectCase):
    def start(self, *arguments, **options):
        return self.box.start(self.box.scry("run", "-q", "-o", self.job, *arguments), stdin=subprocess.PIPE, **options)

    def found(self, name):
        """How many entries of a function are on disk now."""
        if not self.traces():
            return 0
        flush(self.box, self.job)
        done = subprocess.run([BABELTRACE, *self.traces()], capture_output=True, text=True, check=False)
        return self.entries(done.stdout.splitlines()).get(name, 0)

    def test_selection_while_it_runs(self):
        run = self.start("--trace", "fn:nothing*", "--", target(), "step", 0)
        wait_until(self.traces)
        self.assertEqual(self.found("step"), 0)
        self.assertEqual(self.box.run(self.box.scry("set", self.job, "trace=fn:step")).returncode, 0)
        wait_until(lambda: self.found("step") > 50)
        self.assertEqual(self.box.run(self.box.scry("set", self.job, "trace=fn:nothing*")).returncode, 0)
        run.stdin.close()
        self.assertEqual(run.wait(), 0)
        lines, _ = self.events()
        self.assertEqual(self.exits(lines), sum(self.entries(lines).values()))

    def test_monitor_killed(self):
        """Nothing is lost with the monitor: the next one continues with the same memory."""
        run = self.start("--", target(), "step", 0)
        wait_until(lambda: self.found("step") > 50)
        self.box.stop_monitor(signal.SIGKILL)
        wait_until(self.box.monitor_pid, 20)
        before = self.found("step")
        wait_until(lambda: self.found("step") > before + 50, 20)
        run.stdin.close()
        out = run.stdout.read()
        self.assertEqual(run.wait(), 0)
        steps = int(re.search(r"calls step (\d+)", out).group(1))
        wait_until(lambda: "running" not in [trace_process(path)["state"][0] for path in self.traces()])
        lines, _ = self.events()
        self.assertEqual(self.entries(lines)["step"], steps)
        self.assertEqual([trace_process(path)["state"][0] for path in self.traces()], ["continued", "exited"])

    def test_monitor_killed_at_the_end(self):
        """No request has come since, and the job ends first. The content of the program's area is not lost."""
        run = self.start("--sample", 1000, "--", target(), "step", 0)
        wait_until(lambda: self.found("step") > 50)
        self.box.stop_monitor(signal.SIGKILL)
        run.stdin.close()
        out = run.stdout.read()
        self.assertEqual(run.wait(), 0)
        steps = int(re.search(r"calls step (\d+)", out).group(1))
        report = json.loads(self.box.run(self.box.scry("report", "--json", self.job)).stdout)
        self.assertEqual({row["name"]: row["calls"] for row in report["functions"]}["step"], steps)
        self.assertEqual(report["warnings"], [warning for warning in report["warnings"] if warning["kind"] == "gap"])

    def test_program_cuts_its_memory(self):
        """The monitor lives, and so does the trace of another program."""
        other = self.box.start(self.box.scry("run", "-q", "-o", self.box.path("other"), "--", target(), "step", 0),
                               stdin=subprocess.PIPE)
        run = self.start("--", target(), "step", 0)
        wait_until(lambda: self.found("step") > 50)
        monitor = self.box.monitor_pid()
        (pid,) = scrytest.children(run.pid)
        os.kill(pid, signal.SIGSTOP)  # it would die of it itself
        (area,) = [path for path in glob.glob(self.box.path("run", "rings", f"{pid}-*")) if os.path.getsize(path) > 65536]
        os.truncate(area, 4096)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(run.wait(), 128 + signal.SIGKILL)
        other.stdin.close()
        steps = int(re.search(r"calls step (\d+)", other.stdout.read()).group(1))
        self.assertEqual(other.wait(), 0)
        self.assertEqual(self.box.monitor_pid(), monitor)
        report = json.loads(self.box.run(self.box.scry("report", "--json", self.box.path("other"))).stdout)
        self.assertEqual({row["name"]: row["calls"] for row in report["functions"]}["step"], steps)
        said = self.box.run(self.box.scry("report", self.job)).stdout
        self.assertIn("has cut the memory that it shares with the monitor", said)

    def killed_midway(self, *points):
        """A monitor is killed, and the next one, too, while it takes over: at the last of these points, at each of which it
        is held. The one after it goes on with what the program has recorded, from the first call to the last."""
        pauses = [self.box.pause(point) for point in points]
        run = self.start("--", target(), "step", 0)
        wait_until(lambda: self.found("step") > 50)
        with contextlib.ExitStack() as stack:
            stack.enter_context(pauses[0])
            self.box.stop_monitor(signal.SIGKILL)
            for pause, following in zip(pauses, pauses[1:]):
                pause.reached()
                stack.enter_context(following)
                pause.release()
            second = pauses[-1].reached()
            os.kill(second, signal.SIGKILL)
            wait_until(lambda: scrytest.process_gone(second))
        wait_until(self.box.monitor_pid, 20)
        before = self.found("step")
        wait_until(lambda: self.found("step") > before + 50, 20)
        run.stdin.close()
        out = run.stdout.read()
        self.assertEqual(run.wait(), 0)
        steps = int(re.search(r"calls step (\d+)", out).group(1))
        traces = [path for path in self.traces() if os.listdir(path)]  # the one killed may have made a folder, no more
        wait_until(lambda: "running" not in [trace_process(path)["state"][0] for path in traces])
        lines, _ = self.events(*traces)
        self.assertEqual(self.entries(lines)["step"], steps)
        self.assertEqual([trace_process(path)["state"][0] for path in traces], ["continued", "exited"])
        report = json.loads(self.box.run(self.box.scry("report", "--json", self.job)).stdout)
        self.assertEqual({row["name"]: row["calls"] for row in report["functions"]}["step"], steps)

    def test_killed_over_its_first_note(self):
        self.killed_midway("sidecar.before-write")

    def test_killed_with_a_trace_begun(self):
        self.killed_midway("adopt.begun")

    def test_killed_before_the_new_trace_holds(self):
        self.killed_midway("adopt.written")

    def test_killed_over_its_last_note(self):
        self.killed_midway("adopt.written", "sidecar.before-write")


class Restarted(CollectCase):
    """Values of a program whose monitor is killed are right before and after it."""

    functions = ("point", "letter", "number", "text")

    def start(self):
        run = self.box.start(self.box.scry("run", "-q", "-o", self.job, "--args", "--locals", "--trace", "fn:nothing",
                                           "--", target("restarted")), stdin=subprocess.PIPE)
        wait_until(self.traces)
        # one after the other: a monitor that begins anew would number them in another order
        for count, name in enumerate(self.functions, 1):
            selection = " ".join(f"fn:{each}" for each in self.functions[:count])
            self.assertEqual(self.box.run(self.box.scry("set", self.job, f"trace={selection}")).returncode, 0)
            wait_until(lambda name=name: any('"args":' in line for line in self.lines(name)), 20, name)
        return run

    def lines(self, name):
        """What replay says of a function's calls, unread."""
        flush(self.box, self.job)
        done = self.box.run(self.box.scry("replay", "--json", "--fn", name, self.job))
        return [line for line in done.stdout.splitlines() if f'"function":"{name}"' in line]

    def calls(self):
        found = {name: [] for name in self.functions}
        done = self.box.run(self.box.scry("replay", "--json", self.job))
        for line in done.stdout.splitlines():
            try:
                call = json.loads(line)
            except ValueError:
                continue
            if call.get("function") in found:
                found[call["function"]].append(call)
        return found

    def kill_monitor(self):
        self.box.stop_monitor(signal.SIGKILL)
        wait_until(self.box.monitor_pid, 20)
        before = len(self.lines("number"))
        wait_until(lambda: len(self.lines("number")) > before + 50, 20)

    def end(self, run):
        run.stdin.close()
        count = int(re.search(r"calls (\d+)", run.stdout.read()).group(1))
        self.assertEqual(run.wait(), 0)
        wait_until(lambda: "running" not in [trace_process(path)["state"][0] for path in self.traces()])
        return count

    def expected(self, name, i):
        """Of the call with this number: arguments, locals, result."""
        letter, next_letter = chr(ord("a") + i % 20), chr(ord("b") + i % 20)
        return {
            "number": ({"count": i}, {"twice": 2 * i}, 2 * i + 1),
            "text": ({"word": '"abc"', "at": i}, {"first": f"'{'abc'[i % 3]}'"}, ord("abc"[i % 3])),
            "point": ({"where": f"{{x = {i}, y = {-i}, z = {i + 0.5}}}", "scale": 3},
                      {"own": f"{{x = {3 * i}, y = {-3 * i}, z = {3 * (i + 0.5)}}}"}, 3 * (i + 0.5)),
            "letter": ({"c": f"'{letter}'", "wide": i << 33 | 1}, {"next": ord(next_letter)}, f"'{next_letter}'"),
        }[name]

    def check_call(self, name, i, call):
        shown = dict(call["args"])
        if name == "point":
            shown["where"] = shown["where"].partition(" -> ")[2]
        self.assertEqual((shown, call.get("locals"), call.get("result")), self.expected(name, i), call)
        if "caller_locals" in call:
            self.assertEqual(call["caller_locals"]["count"], i, call)

    def check_read(self):
        self.events()
        for trace in self.traces():
            self.events(trace)

    def test_values_go_on(self):
        run = self.start()
        self.kill_monitor()
        self.kill_monitor()
        count = self.end(run)
        self.assertEqual(len(self.traces()), 3)
        self.check_read()
        for name, calls in self.calls().items():
            # a call that runs while values are switched on may have those of its entry alone; from then on each has all
            with_values = [call for call in calls if "args" in call and "locals" in call]
            self.assertGreater(len(with_values), 100)
            self.assertEqual(calls[-len(with_values):], with_values, name)
            self.assertGreater(sum("caller_locals" in call for call in with_values), len(with_values) * 9 // 10)
            for i, call in zip(range(count - len(with_values), count), with_values):
                self.check_call(name, i, call)

    @scrytest.thorough
    def test_layouts_lost(self):
        """Without the first trace's layouts no value is shown wrongly, and those to come are right again."""
        run = self.start()
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        (first,) = self.traces()
        os.unlink(os.path.join(first, ".layouts"))
        self.kill_monitor()
        wait_until(lambda: '"args":' in self.lines("text")[-1], 20)
        count = self.end(run)
        self.events(self.traces()[1])
        for name, calls in self.calls().items():
            self.assertIn("args", calls[-1], name)
            self.assertIn(False, ["args" in call for call in calls], name)
            for i, call in zip(range(count - len(calls), count), calls):
                if "args" in call:
                    self.check_call(name, i, call)


if __name__ == "__main__":
    scrytest.main()
