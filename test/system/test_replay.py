# SPDX-License-Identifier: Apache-2.0
"""`scry replay`, `scry export` and the function part of `scry report`, on traces of real programs."""

import collections
import csv
import glob
import io
import json
import os
import re
import signal
import unittest

import scrytest
from jobtest import JobCase, calls_said, flush, target
from scrytest import wait_until

LINE = re.compile(r"^( *-?\d+\.\d{6})(?:  \[(\d+)\] +)?( +)(end of )?(\w+)(\(.*?\))?(.*)$")


class TraceCase(JobCase):
    def trace(self, *arguments, options=()):
        """Runs the traced program; the calls that it says it made."""
        done = self.box.run(self.box.scry("run", "-q", *options, "--", target(), *arguments))
        return calls_said(done.stdout)

    def replay(self, *arguments):
        return self.scry("replay", *arguments, "@last").stdout

    def objects(self, *arguments):
        return [json.loads(line) for line in self.replay("--json", *arguments).splitlines()]

    def export(self, form, *arguments):
        return self.scry("export", "--format", form, "-o", "-", *arguments, "@last").stdout

    def trace_directory(self):
        return glob.glob(self.box.path("jobs", "*", "trace", "*", "*"))[0]


class Replay(TraceCase):
    def test_tree(self):
        """Two calls of leaf are inside each work, one line each; work has two lines."""
        self.trace("calls", 3)
        lines = self.replay().splitlines()
        self.assertRegex(lines[0], r"^process \d+  /.*traced  on \S+$")
        self.assertEqual(len(lines), 1 + 3 * 4)
        shape = []
        for line in lines[1:]:
            found = LINE.match(line)
            self.assertTrue(found, line)
            shape.append(((len(found[3]) - 2) // 2, bool(found[4]), found[5]))
        self.assertEqual(shape, [(0, False, "work"), (1, False, "leaf"), (1, False, "leaf"), (0, True, "work")] * 3)
        self.assertRegex(lines[2], r"  leaf\(.*\).*  [\d.]+ [num]?s( \(cpu .*\))?  traced\.c:\d+ from traced\.c:\d+$")
        self.assertRegex(lines[4], r"  end of work.*  [\d.]+ [num]?s( \(cpu .*\))?$")  # others may have had the processor

    def test_counts(self):
        said = self.trace("threads", 40)
        seen = {}
        for each in self.objects():
            self.assertEqual((each["event"], each["how"]), ("call", "returned"))
            seen[each["function"]] = seen.get(each["function"], 0) + 1
        self.assertEqual(seen, said)

    def test_filters(self):
        self.trace("threads", 5)
        all_calls = self.objects()
        threads = {each["thread"] for each in all_calls}
        self.assertEqual(len(threads), 4)
        one = threads.pop()
        self.assertEqual({each["thread"] for each in self.objects("--thread", one)}, {one})
        self.assertEqual({each["function"] for each in self.objects("--fn", "le*")}, {"leaf"})
        self.assertEqual({each["function"] for each in self.objects("--max-depth", 1)}, {"work"})
        self.assertEqual(self.objects("--min-time", "1000s"), [])
        middle = sorted(each["start_seconds"] for each in all_calls)[len(all_calls) // 2]
        early = self.objects("--to", f"{middle:.9f}")
        self.assertTrue(0 < len(early) < len(all_calls))
        self.assertTrue(all(each["start_seconds"] <= middle + 1e-6 for each in early))
        self.assertEqual(self.replay("--thread", one).count("["), 0)
        self.assertEqual(self.replay().count("["), len(self.replay().splitlines()) - 1)

    def test_several_processes(self):
        self.trace("fork", 3)
        heads = re.findall(r"^process (\d+) ", self.replay(), re.M)
        self.assertEqual(len(heads), 2)
        self.assertEqual({each["process"] for each in self.objects("--process", heads[1])}, {int(heads[1])})
        done = self.scry("replay", "--process", 1, "@last", status=1)
        self.assertIn("there is no trace of process 1", done.stderr)

    def test_crash(self):
        self.trace("crash", 4)
        text = self.replay()
        self.assertRegex(text, r"SIGSEGV \(Segmentation fault\) at address 0x10, in deep")
        self.assertEqual(len(re.findall(r"end of deep.*  still open at the end  ", text)), 5)

    def test_nothing_recorded(self):
        self.box.run(self.box.scry("run", "-q", "--", "true"))
        done = self.scry("replay", "@last", status=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("-finstrument-functions", done.stderr)

    def test_nothing_selected(self):
        """-q does not hide it."""
        done = self.box.run(self.box.scry("run", "-q", "--trace", "fn:no_such_function", "--", target(), "calls", 3))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no function of traced is meant by the selection 'fn:no_such_function'", done.stderr)

    def test_nothing_to_record(self):
        """If there was no program to compile with hooks, nobody is told to do so."""
        script = self.box.path("work", "script")
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(script, 0o755)
        plain = self.box.path("work", "plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("x")
        for command, status, reason in (
                ("no-such-command", 127, r"could not be started \(exit status 127\): no-such-command: there is no such command"),
                (plain, 126, r"could not be started \(exit status 126\): .* may not be executed: chmod"),
                (script, 3, r"script is a script, and no program with hooks ran in it")):
            for options in ([], ["--trace", "all"]):
                with self.subTest(command=command, options=options):
                    done = self.box.run(self.box.scry("run", "-q", *options, "--", command))
                    self.assertEqual(done.returncode, status)
                    for show in (["replay"], ["export", "-f", "csv", "-o", self.box.path("work", "none.csv")]):
                        done = self.scry(*show, "@last", status=1)
                        self.assertRegex(done.stderr, reason)
                        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                        self.assertNotIn("compile the program", done.stderr)

    def test_records_missing(self):
        """Where --max-size ended the recording a line says how many are missing, and calls afterwards are not inside of
        calls that ended there."""
        said = self.trace("calls", 40000, options=["--max-size", "1M", "--args", "--locals"])
        objects = self.objects()
        calls = [each for each in objects if each["event"] == "call"]
        gaps = [each for each in objects if each["event"] == "gap"]
        self.assertEqual(len(gaps), 1)
        with open(os.path.join(self.trace_directory(), ".process"), encoding="utf-8") as file:
            counts = dict(line.rstrip("\n").split("\t")[:2] for line in file)
        self.assertEqual(gaps[0]["missing"], int(counts["overwritten"]))
        tallied = int(counts["tallied"])  # from the limit on
        self.assertEqual(int(counts["events"]) + gaps[0]["missing"] + 2 * tallied, 2 * sum(said.values()))
        # the first one that is kept behind the gap may have lost its caller to it
        first = next((each for each in objects[objects.index(gaps[0]):] if each["event"] == "call"), None)
        alone = [first] if first and (first["function"], first["depth"]) == ("leaf", 0) else []
        self.assertEqual({(each["function"], each["depth"]) for each in calls if each not in alone}, {("work", 0), ("leaf", 1)})
        self.assertLessEqual(sum(each["how"] == "lost" for each in calls), 2)
        self.assertRegex(self.replay("--from", str(gaps[0]["start_seconds"] - 1e-3)), r"\d+ records are missing here")
        for line in self.export("folded").splitlines():
            self.assertRegex(line, r"^traced;work(;leaf)? \d+$" if not alone else r"^traced;(work(;leaf)?|leaf) \d+$")

    def test_too_deep_for_folded(self):
        self.box.run(self.box.scry("run", "-q", "--", target(), "crash", "700"))
        done = self.scry("export", "--format", "folded", "-o", "-", "@last")
        self.assertRegex(done.stderr, r"more than 500 deep .* cut off")
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_why_nothing(self):
        """The remedy fits the reason: that the program has hooks is known."""
        for option, reason in (("--count-only", r"\d+ calls were only counted \(--count-only\)"),
                               ("--trace=fn:nosuch", "no function of traced is meant by the selection 'fn:nosuch'"),
                               ("--min-time=1000s", r"none took as long as .* \(--min-time\)")):
            self.trace("calls", 3, options=[option])
            for command in (["replay"], ["export", "-f", "csv", "-o", self.box.path("work", "none.csv")]):
                done = self.scry(*command, "@last", status=1)
                self.assertRegex(done.stderr, reason)
                self.assertNotIn("-finstrument-functions", done.stderr)

    def test_nothing_matches(self):
        self.trace("calls", 3)
        for arguments in (["--fn", "nosuch"], ["--thread", "1"], ["--from", "1000"], ["--min-time", "1000s"]):
            done = self.scry("replay", *arguments, "@last")
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, "no recorded call matches " + arguments[0])
        done = self.scry("export", "--fn", "nosuch", "-f", "csv", "-o", "-", "@last")
        self.assertEqual(done.stdout.count("\n"), 1)
        self.assertIn("no recorded call matches --fn nosuch", done.stderr)
        self.assertEqual(self.scry("replay", "@last").stderr, "")

    def test_wrong_arguments(self):
        for arguments in (["--min-time", "soon"], ["--thread", "0"], ["--fn"], ["--nothing"], []):
            done = self.scry("replay", *arguments, *(["@last"] if arguments else []), status=2)
            self.assertIn("see `scry replay --help`", done.stderr)

    def test_reader_that_goes_away(self):
        self.trace("calls", 3000)
        done = self.box.run(["sh", "-c", "scry replay @last | head -n 2"])
        self.assertEqual((len(done.stdout.splitlines()), done.stderr), (2, ""))

    def test_cut_off(self):
        """Of a trace that is damaged what is readable is shown, and the rest is named."""
        self.trace("calls", 3)
        stream = glob.glob(os.path.join(self.trace_directory(), "stream-*"))[0]
        os.truncate(stream, os.path.getsize(stream) - 5)
        done = self.scry("replay", "@last")
        self.assertIn("stream-0000: offset", done.stderr)
        self.assertEqual(done.stdout.count("  work("), 3)
        os.truncate(stream, 50)
        done = self.scry("replay", "@last", status=1)
        self.assertIn("the file ends within the head of a packet", done.stderr)


class Follow(TraceCase):
    def start_steps(self):
        read, write = os.pipe()
        job = self.box.start(self.box.scry("run", "-q", "--", target(), "step", "0"), stdin=read)
        os.close(read)
        self.assertTrue(job.stdout.readline().startswith("ready"))
        return job, write

    def follow(self):
        """A replay that follows, its output in a file."""
        place = self.box.path("work", "followed")
        with open(place, "w", encoding="utf-8") as out:
            process = self.box.start(self.box.scry("replay", "--follow", "@last"), stdout=out)

        def count():
            with open(place, encoding="utf-8") as file:
                return file.read().count("  step(")

        return process, count

    def test_until_the_job_ends(self):
        job, write = self.start_steps()
        process, count = self.follow()
        wait_until(lambda: flush(self.box) or count() > 10, timeout=30)
        self.assertIsNone(process.poll())
        os.close(write)
        said = int(re.search(r"calls step (\d+)", job.communicate(timeout=60)[0])[1])
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(count(), said)

    def test_interrupt(self):
        job, write = self.start_steps()
        process, count = self.follow()
        wait_until(lambda: flush(self.box) or count() > 0, timeout=30)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 0)
        os.close(write)
        job.communicate(timeout=60)


class Export(TraceCase):
    def test_csv(self):
        said = self.trace("threads", 20)
        rows = list(csv.DictReader(io.StringIO(self.export("csv"), newline="")))
        seen = {}
        for row in rows:
            seen[row["function"]] = seen.get(row["function"], 0) + 1
            self.assertGreaterEqual(int(row["duration_ns"]), 0)
            self.assertEqual(row["depth"], "1" if row["function"] == "leaf" else "0")
        self.assertEqual(seen, said)
        self.assertEqual({row["function"] for row in csv.DictReader(io.StringIO(self.export("csv", "--fn", "w*")))},
                         {"work"})

    def test_chrome(self):
        said = self.trace("threads", 20)
        events = json.loads(self.export("chrome"))["traceEvents"]
        stacks, seen = {}, {}
        for event in events:
            if event["ph"] == "B":
                stacks.setdefault(event["tid"], []).append((event["name"], event["ts"]))
                seen[event["name"]] = seen.get(event["name"], 0) + 1
            elif event["ph"] == "E":
                self.assertGreaterEqual(event["ts"], stacks[event["tid"]].pop()[1])
        self.assertEqual(seen, said)
        self.assertEqual([stack for stack in stacks.values() if stack], [])
        self.assertEqual(len(stacks), 4)

    def test_folded(self):
        self.trace("calls", 20)
        lines = dict(line.rsplit(" ", 1) for line in self.export("folded").splitlines())
        self.assertEqual(set(lines), {"traced;work", "traced;work;leaf"})
        functions = {row["name"]: row for row in json.loads(self.scry("report", "--json", "@last").stdout)["functions"]}
        for path, name in (("traced;work", "work"), ("traced;work;leaf", "leaf")):
            self.assertAlmostEqual(int(lines[path]), functions[name]["self_ns"], delta=20)

    def test_file(self):
        self.trace("calls", 3)
        place = self.box.path("work", "out.csv")
        self.scry("export", "--format=csv", "-o", place, "@last")
        self.assertEqual(os.listdir(self.box.path("work")), ["out.csv"])
        done = self.scry("export", "-f", "csv", "-o", self.box.path("nowhere", "x"), "@last", status=1)
        self.assertIn("cannot write", done.stderr)
        self.scry("run", "-q", "--", "true")
        self.scry("export", "-f", "csv", "-o", self.box.path("work", "none.csv"), "@last", status=1)
        self.assertEqual(os.listdir(self.box.path("work")), ["out.csv"])

    def test_full_disk(self):
        self.trace("calls", 3)
        for form in ("chrome", "folded", "csv"):
            done = self.scry("export", "-f", form, "-o", "/dev/full", "@last", status=1)
            self.assertIn("No space left on device", done.stderr)

    def test_wrong_arguments(self):
        done = self.scry("export", "--format", "paper", "-o", "x", "@last", status=2)
        self.assertIn("chrome, folded, folded-cpu, folded-waiting, folded-samples, pprof, speedscope, csv", done.stderr)
        self.assertIn("--format is needed", self.scry("export", "@last", status=2).stderr)
        self.assertIn("-o FILE is needed", self.scry("export", "-f", "csv", "@last", status=2).stderr)


class Report(TraceCase):
    def test_functions(self):
        said = self.trace("fork", 10)
        said["work"] -= 1  # what was called before the fork both say
        said["leaf"] -= 2
        value = json.loads(self.scry("report", "--json", "@last").stdout)
        self.assertEqual({row["name"]: row["calls"] for row in value["functions"]}, said)
        self.assertEqual([(edge["caller"], edge["function"], edge["calls"]) for edge in value["calls"]
                          if edge["caller"]], [("work", "leaf", said["leaf"])])
        self.assertGreater(len(value["slowest_calls"]), 3)
        self.assertEqual(value["trace"]["processes"], 2)
        self.assertEqual(value["trace"]["events"], 2 * sum(said.values()))
        self.assertGreater(value["trace"]["bytes"], 0)
        self.assertGreater(value["trace"]["cost_seconds"], 0)

    def test_left_out(self):
        """Calls that --rate left out are counted by function and said; of shorter ones it is said that they are left
        out."""
        said = self.trace("calls", 3000, options=["--rate", "10", "--min-time", "1ns", "--max-depth", "5"])
        value = json.loads(self.scry("report", "--json", "@last").stdout)
        self.assertEqual({row["name"]: row["calls"] + row["thinned"] for row in value["functions"]}, said)
        self.assertEqual(value["trace"]["thinned"], sum(row["thinned"] for row in value["functions"]))
        self.assertGreater(value["trace"]["thinned"], 0)
        self.assertEqual((value["trace"]["min_time_ns"], value["trace"]["max_depth"]), (1, 5))
        text = self.scry("report", "@last").stdout
        self.assertRegex(text, rf"  work  traced\.c:\d+  \(of {said['work']}: --rate\)\n")
        self.assertIn(f"; {value['trace']['thinned']} calls were left out to keep the rate (--rate); calls shorter than "
                      "1 ns are left out (--min-time); calls more than 5 deep are left out (--max-depth)", text)

    def in_nested(self):
        """A job with an open call in the trace, with its name; its scry run, and the pipe that continues it."""
        read, write = os.pipe()
        job = self.box.start(self.box.scry("run", "-q", "--", target(), "nested"), stdin=read)
        os.close(read)
        self.assertTrue(job.stdout.readline().startswith("ready"))
        streams = self.box.path("jobs", "*", "trace", "*", "*", "stream-*")
        wait_until(lambda: flush(self.box) or any(os.path.getsize(path) for path in glob.glob(streams)), 30)
        wait_until(lambda: "  nested(" in self.replay(), 30)
        return job, write

    def test_monitor_again(self):
        """A call that is open when the monitor is killed is one call, in the trace of the next one."""
        job, write = self.in_nested()
        following = self.box.start(self.box.scry("replay", "--follow", "--json", "@last"))
        self.box.stop_monitor(signal.SIGKILL)
        wait_until(lambda: len(glob.glob(self.box.path("jobs", "*", "trace", "*", "*"))) == 2, 30)
        wait_until(self.second_has_names, 30)  # its monitor has had the time to look at the program
        os.close(write)
        out = job.communicate(timeout=60)[0]
        said = calls_said(out)
        value = json.loads(self.scry("report", "--json", "@last").stdout)
        self.assertEqual({row["name"]: (row["calls"], row["open"]) for row in value["functions"]},
                         {name: (count, 0) for name, count in said.items()})
        times = {row["name"]: row["total_ns"] for row in value["functions"]}
        self.assertLessEqual(times["nested"], value["wall_seconds"] * 1e9)
        self.assertEqual(value["trace"]["processes"], 1)
        self.one_each(said, times["nested"])
        calls = [json.loads(line) for line in following.communicate(timeout=60)[0].splitlines()]
        self.assertEqual([call for call in calls if call["function"] == "nested"],
                         [call for call in self.objects() if call["function"] == "nested"])

    def test_second_trace_seen_early(self):
        """Who follows a job and sees the directory of the next monitor's trace before it says whose it is takes it for what it
        turns out to be: the rest of the first one."""
        job, write = self.in_nested()
        path = self.box.path("work", "followed")  # a pipe would be full, and the follower wait for us
        with open(path, "w", encoding="utf-8") as file:
            following = self.box.start(self.box.scry("replay", "--follow", "--json", "@last"), stdout=file)
        with self.box.pause("adopt.begun") as pause:
            self.box.stop_monitor(signal.SIGKILL)
            pause.reached()
            looks = self.rests(following)
            wait_until(lambda: self.rests(following) >= looks + 3, 30)
        wait_until(self.second_has_names, 30)
        os.close(write)
        self.assertEqual(job.wait(60), 0)
        self.assertEqual(following.wait(60), 0)
        with open(path, encoding="utf-8") as file:
            calls = [json.loads(line) for line in file]
        self.assertEqual([call["how"] for call in calls if call["function"] == "nested"], ["returned"])

    @staticmethod
    def rests(process):
        """How often it has waited."""
        return int(scrytest.process_status(process.pid)["voluntary_ctxt_switches"])

    def second_has_names(self):
        path = os.path.join(max(glob.glob(self.box.path("jobs", "*", "trace", "*", "*"))), ".functions")
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as file:
            return "\tstep\t" in file.read()

    def one_each(self, said, nested_ns):
        """Each call occurs once in replay and in all exports, with its whole time and its callees."""
        calls = self.objects()
        self.assertEqual({(call["how"], call["beginning_recorded"]) for call in calls}, {("returned", True)})
        self.assertEqual(collections.Counter(call["function"] for call in calls), said)
        outer = [call for call in calls if call["function"] == "nested"]
        self.assertEqual(len(outer), 1)
        self.assertAlmostEqual(outer[0]["duration_ns"], nested_ns, delta=2)  # rounded here and there
        self.assertEqual({call["caller"] for call in calls if call["function"] == "step"}, {"nested"})
        tree = self.replay()
        self.assertEqual([line for line in tree.splitlines() if line.startswith("process ")], tree.splitlines()[:1])
        self.assertRegex(tree.splitlines()[-1], r"^ +\d+\.\d{6}  end of nested  [\d.]+ m?s$")
        self.assertNotIn("still open", tree)
        rows = list(csv.DictReader(io.StringIO(self.export("csv"), newline="")))
        self.assertEqual(collections.Counter(row["function"] for row in rows), said)
        self.assertAlmostEqual(sum(int(row["duration_ns"]) for row in rows if row["function"] == "nested"), nested_ns,
                               delta=2)
        events = json.loads(self.export("chrome"))["traceEvents"]
        self.assertEqual(collections.Counter(event["name"] for event in events if event["ph"] == "B"), said)
        self.assertEqual(len([event for event in events if event["ph"] == "E"]), sum(said.values()))
        self.assertEqual([event for event in events if event["ph"] == "X"], [])
        folded = dict(line.rsplit(" ", 1) for line in self.export("folded").splitlines())
        self.assertEqual(set(folded), {"traced;nested", "traced;nested;step"})
        self.assertAlmostEqual(sum(map(int, folded.values())), nested_ns, delta=sum(said.values()))

    def test_one_process(self):
        self.trace("fork", 10)
        child = max(each["process"] for each in self.objects())
        value = json.loads(self.scry("report", "--json", "--process", child, "@last").stdout)
        calls = {}
        for each in self.objects("--process", child):
            calls[each["function"]] = calls.get(each["function"], 0) + 1
        self.assertEqual({row["name"]: row["calls"] for row in value["functions"]}, calls)
        self.scry("report", "--process", 1, "@last", status=1)

    def test_text(self):
        self.trace("calls", 10)
        text = self.scry("report", "@last").stdout
        for part in ("Functions self", "Who calls whom", "Slowest calls", "Tracing\n"):
            self.assertIn(part, text)
        self.assertRegex(text, r" 10 .*  work  traced\.c:\d+(  \(preempted .*\))?\n")

    def test_diff(self):
        self.trace("calls", 10)
        first = os.listdir(self.box.path("jobs"))[0]
        self.trace("calls", 20)
        text = self.scry("diff", first, "@last").stdout
        self.assertRegex(text, r" 10 +20  work  traced\.c")

    def test_crash(self):
        self.trace("crash", 3)
        value = json.loads(self.scry("report", "--json", "@last").stdout)
        self.assertEqual(len(value["crash_calls"]), 1)
        self.assertEqual([line.split("(")[0] for line in value["crash_calls"][0]["open_calls"]][:4], ["deep"] * 4)
        self.assertEqual(value["crash_calls"][0]["signal"], 11)


@unittest.skipUnless(os.path.exists("/usr/bin/babeltrace2"), "needs babeltrace2")
class Babeltrace(TraceCase):
    def test_same_events(self):
        """What babeltrace2 reads in the trace is what replay shows."""
        said = self.trace("threads", 15)
        done = self.box.run(["babeltrace2", self.trace_directory()])
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, count in said.items():
            entries = [line for line in done.stdout.splitlines() if f'"{name}"' in line and "entry" in line]
            self.assertEqual(len(entries), count, entries)
            self.assertEqual(len(self.objects("--fn", name)), count)


scrytest.main()
