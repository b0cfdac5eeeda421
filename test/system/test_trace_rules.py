# SPDX-License-Identifier: Apache-2.0
"""Rules on functions of traced programs, and `scry set` while they run."""

import glob
import json
import os
import re
import subprocess

import scrytest
from jobtest import target
from schematest import schema, violations
from scrytest import wait_until
from tracetest import TraceCase


class Rules(TraceCase):
    def records(self, kind):
        with open(os.path.join(self.report()["path"], "spool", "records.jsonl"), encoding="utf-8") as file:
            return [record for record in map(json.loads, file) if record["type"] == kind]

    def test_rule(self):
        rule = 'ct_function_called([], "leaf", "n == -2") : print([$function, $args])'
        done, _ = self.traced("calls", 5, options=["--rule", rule])
        self.assertEqual(done.returncode, 0, done.stderr)
        found = self.records("rule")
        self.assertEqual(len(found), 1, found)
        self.assertIn("leaf", found[0]["results"][0]["result"])
        self.assertEqual(self.records("rules")[0]["list"], [{"rule": rule, "fired": 1, "failed": 0}])

    def test_beside_crash_stack(self):
        """Where the held child is traced already, and has no agent yet."""
        rules = ["--rule", 'ct_function_called([], "leaf", "n == -2") : print([$function])',
                 "--rule", 'thread_has_started_lib_call([], "MPI_Send") : print([$call])']
        done, _ = self.traced("calls", 3, options=["--crash-stack", *rules])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([each["fired"] for each in self.records("rules")[0]["list"]], [1, 0])
        self.assertNotIn("warning", done.stderr)

    def test_shown(self):
        """What rules printed, snapshots, and actions that failed: in the summary, report, replay, and for programs."""
        rule = 'ct_function_called([], "leaf", "n == -2") : print([$function, $args]) proc_read_memory([$proc], 0, 8, 1, 1) ct_snapshot([$proc])'
        done, _ = self.traced("calls", 3, options=["--rule", rule])
        self.assertRegex(done.stderr, r"(?m)^  warning +an action of rule .* failed 1 time: proc_read_memory: OMIS_PARAMETER_ERROR: stride")
        shown = (r'\d\.\d+ s  print: "leaf","n = -2, text = \\"more\\""; proc_read_memory failed: OMIS_PARAMETER_ERROR: stride .*; '
                 r"ct_snapshot: snapshots/0001\.json$")
        taken = r"snapshots/0001\.json  process \d+  traced  in leaf\(n = -2, text = \"more\"\) < work$"
        text = self.scry("report", "@last").stdout
        for where in (done.stderr, text):
            self.assertRegex(where, r"(?m)^  rule  .*  fired 1 x, failed 1 x$")
            self.assertRegex(where, "(?m)^ +" + shown)
        self.assertRegex(text, r"(?m)^  snapshots  1\n +\d\.\d+ s  " + taken)
        report = self.report()
        self.assertEqual(list(violations(report, schema("report"))), [])
        found, = report["rules"]
        self.assertEqual((found["rule"], found["fired"], found["failed"]), (rule, 1, 1))
        self.assertEqual([(each["service"], each.get("error")) for each in found["firings"][0]["results"]],
                         [("print", None), ("proc_read_memory", "OMIS_PARAMETER_ERROR"), ("ct_snapshot", None)])
        self.assertEqual(report["snapshots"][0]["calls"][:2], ["leaf", "work"])
        replay = self.scry("replay", "@last").stdout
        self.assertRegex(replay, r'(?m)^\nrules and snapshots\n +\d+\.\d{6}  (rule ct_function_called\(\[\], "leaf", "n == -2"\)  print: |snapshot )')
        self.assertRegex(replay, r"(?m)^ +\d+\.\d{6}  snapshot " + taken)
        events = [json.loads(line) for line in self.scry("replay", "--json", "@last").stdout.splitlines()]
        self.assertEqual(sorted(each["event"] for each in events if each["event"] != "call"), ["rule", "snapshot"])
        self.assertNotIn("snapshot", self.scry("replay", "--fn", "work", "@last").stdout)

    def printed(self, rule):
        done, _ = self.traced("calls", 3, options=["--rule", rule])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("cannot hold", done.stderr)
        return [json.loads(record["results"][0]["result"].partition(",")[2]) for record in self.records("rule")]

    def test_arguments_at_a_return(self):
        """They are what they are then."""
        self.assertEqual(self.printed('ct_function_returned([], "work") : print([$args, $arg_list, $result])'),
                         [[f"i = {i}", ["i", str(i)], str(2 * i - 2 * -i)] for i in range(3)])

    def test_duration_in_a_condition(self):
        """In seconds, at returns; also where nothing else of the call is looked at."""
        times = [row[0] for row in self.printed('ct_function_returned([], "leaf", "duration > 0.0000000001") : print([$duration])')]
        self.assertEqual(len(times), 6)
        self.assertEqual(self.printed('ct_function_returned([], "leaf", "duration >= 60") : print([$duration])'), [])
        self.assertEqual(len(self.printed('ct_function_returned([], "work", "i == 1 && duration < 60") : print([$args])')), 1)
        self.assertEqual(self.printed('ct_function_returned([], "work", "duration > 60 * (i + 1)") : print([$args])'), [])

    def test_static_variables_in_a_condition(self):
        """Of the function, of its file, of the binary."""
        source, program = self.box.path("work", "static.c"), self.box.path("work", "static")
        with open(source, "w", encoding="ascii") as file:
            file.write("int level; static volatile double scale = 0.5; static volatile int box[2] = {7, 8};\n"
                       "__attribute__((noipa)) int work(int n) { static int calls; calls++; return n + calls + box[n & 1] + (int)scale; }\n"
                       "int main(void) { int n = 0; for (int i = 0; i < 10; i++) { level = i * i; n += work(i); } return n != 175; }\n")
        subprocess.run(["gcc", "-g", "-O2", "-finstrument-functions", "-o", program, source], check=True)
        for condition, expected in (("level - n * n == 0 && calls >= 8", ["n = 8", "n = 9"]), ("scale * n > 4", ["n = 9"]),
                                    ("box[1] % box[0] == 1 && n & 1 && (n < 3 || n > 8)", ["n = 1", "n = 9"])):
            done = self.scry_run("--rule", f'ct_function_called([], "work", "{condition}") : print([$args])', program)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            for text in expected:
                self.assertIn(f'print: "{text}"', done.stderr)
            self.assertIn(f"fired {len(expected)} x", done.stderr)
        for condition, why in (("box[scale] > 1", "box[scale]: no such element: the index is no integer at character 10"),
                               ("n.x > 1", "n.x: no struct, class or union before this at character 3"),
                               ("*n > 1", "*n: no pointer to something at character 3"),
                               ("box[n + nothing] > 1", "box[n + nothing]: no such variable here at character 9")):
            done = self.scry_run("--rule", f'ct_function_called([], "work", "{condition}") : print([1])', program)
            self.assertIn("cannot hold: 'work' with a condition: " + why, done.stderr)

    def test_c_in_a_condition(self):
        """Indexes, enumerators, casts, sizes and float, as the program sees them."""
        source, program = self.box.path("work", "c.cc"), self.box.path("work", "c")
        with open(source, "w", encoding="ascii") as file:
            file.write("enum { LIMIT = 3 }; namespace job { enum class state { IDLE, RUNNING }; }\n"
                       "struct list { int n; short items[10]; };\n"
                       "__attribute__((noipa)) bool work(const list *p, int i, job::state now, signed char c, float x)\n"
                       "{ return p->items[i] + (int)now + c + x > 0; }\n"
                       "int main() { list list = {0, {}}; int n = 0;\n"
                       "    for (int i = 0; i < 2 * LIMIT; i++) { list.items[list.n++] = 10 * i;\n"
                       "        n += work(&list, i, i & 1 ? job::state::RUNNING : job::state::IDLE, -i, i * 0.1f); }\n"
                       "    return n != 5; }\n")
        subprocess.run(["g++", "-g", "-finstrument-functions", "-o", program, source], check=True)
        for condition, expected in (("p->items[i] == 10 * LIMIT", [3]), ("now == job::state::RUNNING", [1, 3, 5]),
                                    ("p->items[p->n - 1] > 10 && (unsigned char)c < 253", [4, 5]),
                                    ("(double)i / 2 == 1.5", [3]), ("x == 0.3f || x == 0.2", [3]),
                                    ("x + x == 0.4f && x + x != 0.4", [2]), ("p->n == sizeof(p->items[0]) * 2", [3])):
            done = self.scry_run("--rule", f'ct_function_called([], "work", "{condition}; i") : print([$par0])', program)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertIn(f"fired {len(expected)} x", done.stderr, condition)

    def test_selected_function_that_was_inlined(self):
        """Its hooks are in another function: the condition is looked at there, and the values are there, too."""
        source, program = self.box.path("work", "inlined.c"), self.box.path("work", "inlined")
        with open(source, "w", encoding="ascii") as file:
            file.write("static int work(int n) { static int calls; calls++; return n + calls; }\n"
                       "int main(void) { int n = 0; for (int i = 0; i < 10; i++) n += work(i); return n != 100; }\n")
        subprocess.run(["gcc", "-g", "-O2", "-finstrument-functions", "-o", program, source], check=True)
        done = self.scry_run("--trace", "work", "--rule", 'ct_function_called([], "work", "calls > 8") : print([$args])', program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('print: "n = 9"', done.stderr)
        self.assertIn("fired 1 x", done.stderr)

    def test_static_variables_from_the_start(self):
        """Where nothing of the program was compiled before."""
        source, program = self.box.path("work", "static.c"), self.box.path("work", "static")
        with open(source, "w", encoding="ascii") as file:
            file.write("int work(int n) { static int calls; return n + ++calls; }\nint main(void) { return work(work(1)) - 4; }\n")
        subprocess.run(["gcc", "-g", "-finstrument-functions", "-o", program, source], check=True)
        done = self.scry_run("--rule", 'ct_function_returned([], "work") : print([$result, $statics])', program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('print: "2","calls = 1"', done.stderr)
        self.assertIn('print: "4","calls = 2"', done.stderr)
        self.assertNotIn("warning", done.stderr)

    def test_fired_or_cannot_hold(self):
        """Never both: a condition is looked at where the event is, and what one program lacks another may have."""
        for rule in ('ct_function_returned([], "work", "first == 4") : print([1])',
                     'ct_function_returned([], "work", "result == 4") : print([1])'):
            done, _ = self.traced("calls", 3, options=["--rule", rule])
            self.assertIn("fired 1 x", done.stderr)
            self.assertNotIn("warning", done.stderr)
        for event in ("called", "returned"):
            done, _ = self.traced("calls", 3, options=["--rule", f'ct_function_{event}([], "work", "none == 4") : print([1])'])
            self.assertIn("fired 0 x", done.stderr)
            self.assertIn("cannot hold: 'work' with a condition: ", done.stderr)
            self.assertIn("none: no such variable", done.stderr)
        source, other = self.box.path("work", "other.c"), self.box.path("work", "other")
        with open(source, "w", encoding="ascii") as file:
            file.write("int work(int n) { return n + 1; }\nint main(void) { return work(1) - 2; }\n")
        subprocess.run(["gcc", "-g", "-finstrument-functions", "-o", other, source], check=True)
        for first, second in ((f"{target()} calls 3", other), (other, f"{target()} calls 3")):
            done = self.scry_run("--rule", 'ct_function_called([], "work", "i == 1") : print([1])', "sh", "-c", f"{first}; {second}")
            self.assertIn("fired 1 x", done.stderr)
            self.assertNotIn("cannot hold", done.stderr)
            self.assertIn("does not hold everywhere: 'work' with a condition: i: no such variable", done.stderr)

    def test_two_rules_of_a_function(self):
        """Each fires by itself, though their conditions are compiled together, and what one of them names and is nowhere
        is told of that one. Compiled for the first time, the second comes while the first is being compiled."""
        fired = {'ct_function_called([], "leaf", "n == -2") : print([1])': 1,
                 'ct_function_returned([], "leaf", "result == -4") : print([2])': 1,
                 'ct_function_called([], "leaf", "n == -3 || n == -1") : print([3])': 2,
                 'ct_function_called([], "leaf", "nothing == 3") : print([4])': 0}
        options = [word for rule in fired for word in ("--rule", rule)]
        done, _ = self.traced("calls", 5, options=options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({one["rule"]: one["fired"] for one in self.records("rules")[0]["list"]}, fired)
        warnings = [line for line in done.stderr.splitlines() if "cannot hold" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertIn("nothing: no such variable", warnings[0])

    def test_rules_of_children(self):
        """Later processes match, too."""
        rule = 'ct_function_called([], "work", "i == 1") : print([$proc])'
        script = f"{target()} calls 3; {target()} calls 3 & wait"
        done = self.scry_run("--rule", rule, "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.records("rule")), 2)


class Set(TraceCase):
    def start_steps(self, *options):
        run = self.box.start(self.box.scry("run", "-q", *options, "--", target(), "step", "0"), stdin=subprocess.PIPE)
        self.assertRegex(run.stdout.readline(), "^ready ")
        return run

    def end(self, run):
        out, _ = run.communicate(timeout=30 * scrytest.SCALE)
        self.assertEqual(run.returncode, 0)
        return int(re.search(r"calls step (\d+)", out).group(1))

    def top(self):
        done = self.box.run(self.box.scry("top", "--json", "@last"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["name"]: row["calls"] for row in json.loads(done.stdout)["functions"]}

    def scry_set(self, *pairs):
        done = self.box.run(self.box.scry("set", "@last", *pairs))
        self.assertEqual((done.returncode, done.stderr), (0, ""), pairs)
        return done.stdout

    def test_while_it_runs(self):
        run = self.start_steps("--trace", "fn:nothing")
        self.assertIn("trace=fn:nothing", self.scry_set())
        self.assertEqual(self.top(), {})
        self.scry_set("trace=fn:step", "args=yes")
        wait_until(lambda: self.top().get("step", 0) > 10, 20)
        self.assertIn("trace=fn:step", self.scry_set())
        self.scry_set("on=no")
        before = self.top()["step"]
        self.scry_set("sample=0.05")
        self.assertIn("sample=0.05\n", self.scry_set())  # at once
        self.assertLessEqual(self.top()["step"], before + 5)  # those that were under way
        shown = self.scry_set()
        steps = self.end(run)
        counted = self.calls()["step"]
        self.assertGreater(counted, 10)
        self.assertLess(counted, steps)
        self.assertEqual(self.scry_set(), shown)  # of an ended job: as it was recorded
        self.assertIn("on=no\n", shown)

    @scrytest.thorough
    def test_earlier_selection(self):
        """A new selection ends the warning about the earlier one."""
        run = self.start_steps("--sample", "0.1", "--trace", "fn:nothing")
        wait_until(lambda: "'fn:nothing'" in str(self.report()["trace"]["problems"]), 20)
        self.scry_set("trace=fn:step")
        wait_until(lambda: self.top().get("step", 0) > 10, 20)
        wait_until(lambda: self.report()["trace"]["problems"] == [], 20)
        done = self.box.run(self.box.scry("set", "@last", "trace=fn:nobody"))
        self.assertRegex(done.stderr, r"^scry set: warning: no function of \S+ is meant by the selection 'fn:nobody'[^\n]*\n$")
        self.assertEqual(done.returncode, 0)
        wait_until(lambda: "'fn:nobody'" in str(self.report()["trace"]["problems"]), 20)
        self.end(run)
        problems = self.report()["trace"]["problems"]
        self.assertEqual((len(problems), "'fn:nobody'" in problems[0]), (1, True), problems)

    def settings_taken(self):
        with open(glob.glob(self.box.path("jobs", "2*", "spool", "records.jsonl"))[0], encoding="utf-8") as file:
            return file.read().count('"type":"setting"')

    def test_off_for_a_while(self):
        """Summary, report and replay show the time in which nothing was recorded."""
        run = self.start_steps("--trace", "fn:step", "--sample", "0.05")
        for changes, pairs in enumerate((["on=no"], ["on=yes"], ["trace=off"], ["on=off", "trace=fn:step"]), 1):
            wait_until(lambda: self.top().get("step", 0) > 10, 20)
            self.scry_set(*pairs)
            wait_until(lambda count=changes: self.settings_taken() >= count, 20)
        wait_until(lambda: self.settings_taken() == 5, 20)
        self.end(run)
        first, second = self.report()["recording_off"]
        self.assertTrue(0 < first["from"] < first["to"] < second["from"], (first, second))
        self.assertIsNone(second["to"])
        said = [f"recording was off from {first['from']:.2f} s to {first['to']:.2f} s (scry set)",
                f"recording was off from {second['from']:.2f} s on (scry set)"]
        for path in (["report", "@last"],):
            lines = self.box.run(self.box.scry(*path)).stdout.splitlines()
            self.assertEqual([line.split(None, 1)[1] for line in lines if "recording was off" in line], said)
        events = [json.loads(line) for line in
                  self.box.run(self.box.scry("replay", "--json", "@last")).stdout.splitlines()]
        off = [(event["start_seconds"], event["end_seconds"]) for event in events if event["event"] == "off"]
        self.assertEqual(len(off), 2, off)
        self.assertAlmostEqual(off[0][1], first["to"], places=3)
        self.assertIsNone(off[1][1])
        between = [event["start_seconds"] for event in events[:-1]]
        self.assertEqual(between, sorted(between))
        self.assertEqual(events[-1]["event"], "off")
        text = self.box.run(self.box.scry("replay", "@last")).stdout
        self.assertEqual(len(re.findall(r"^ +\d+\.\d{6}  \.\.\. recording was off from here on \(scry set\), until "
                                        r"\d+\.\d{6}$", text, re.M)), 1)
        self.assertRegex(text, r"recording was off from here on \(scry set\)\n$")
        for option in ([], ["--json"]):  # these lines are nothing that was asked for
            done = self.box.run(self.box.scry("replay", "--fn", "nosuch*", *option, "@last"))
            self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2 if option else 3), done.stdout)
            self.assertIn("no recorded call matches --fn nosuch*", done.stderr)

    def test_refused(self):
        run = self.start_steps()
        for pairs, status in ((["depth=99"], 2), (["colour=red"], 2), (["depth"], 2), (["trace=bla:x"], 2)):
            done = self.box.run(self.box.scry("set", "@last", *pairs))
            self.assertEqual(done.returncode, status, pairs)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.end(run)
        done = self.box.run(self.box.scry("set", "@last", "depth=2"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended", done.stderr)

    def test_not_loaded(self):
        """What the processes of a job got nothing for at their start cannot be switched on."""
        for options, pairs, refused in ((["--mpi", "off"], ["mpi=stats"], True),
                                        (["--mpi", "off"], ["on=yes", "mpi=messages"], True),
                                        (["--mpi", "off"], ["mpi=off", "trace=fn:step"], False),
                                        (["--trace", "off"], ["trace=fn:step", "mpi=trace"], False),
                                        (["--trace", "off", "--mpi", "off"], ["trace=fn:step"], True),
                                        (["--trace", "off", "--mpi", "off"], ["sample=2", "trace=off"], False)):
            with self.subTest(options=options, pairs=pairs):
                run = self.start_steps(*options)
                done = self.box.run(self.box.scry("set", "@last", *pairs))
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (int(refused), int(refused)), done.stderr)
                self.assertEqual("the job was started with " + " ".join(options) in done.stderr, refused)
                self.assertEqual(pairs[-1] in self.scry_set().splitlines(), not refused)
                self.end(run)

    def test_numbered_messages(self):
        """Only for ranks that start later: a warning, not a refusal."""
        run = self.start_steps()
        done = self.box.run(self.box.scry("set", "@last", "mpi=messages"))
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 1))
        self.assertIn("ranks that call MPI_Init from now on", done.stderr)
        self.end(run)

    def test_from_inside(self):
        scry = self.box.scry()[0]
        script = f'{target()} calls 3; {scry} set "$SCRY_JOB" trace=fn:work; {target()} calls 4'
        done = self.scry_run("--trace", "fn:nothing", "--", "sh", "-ec", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(), {"work": 4})


scrytest.main()
