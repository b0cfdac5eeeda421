# SPDX-License-Identifier: Apache-2.0
"""Calls of functions as tools see them: the services and events of the extension ct, on a program with hooks."""

import json
import os
import re
import signal
import time

import scrytest
from servicetest import *


class CalledTest(FollowedJob):
    spread = True

    def root(self):
        self.root_process = self.box.start(["sleep", "1000"])
        return self.root_process.pid

    def set(self, key, setting):
        self.ask(f': job_set("{self.jobdir}", "{key}", "{setting}")')

    def traced(self):
        return {**self.environment(), "SCRY_TRACE_WANTED": "1"}

    def start(self, name="called"):
        """The program with an agent, and its token: it is attached to us before its main starts."""
        target = self.target(name, env=self.traced())
        return target, self.process(target)

    def rule(self, process, text):
        """Defines and enables a conditional request, and waits until it is in place in the process; its number."""
        number, csr = self.define(text)
        self.ask(f": csr_enable([{csr}])")
        while process not in (enabled := self.omis.reply(number, timeout=30)).objects():
            self.assertEqual(enabled.status(), ENABLED, enabled)
        self.assertEqual((enabled.status(), enabled.ok()), (ENABLED, True), enabled)
        return number


class Services(CalledTest):
    def test_lists_functions(self):
        self.set("trace", "fn:add fn:step")
        _, process = self.start()
        rows = {row[0]: row for row in table(self.ask(f': ct_list_functions([{process}], "fn:*a*")').result(), 6)}
        self.assertIn("add", rows)
        self.assertNotIn("step", rows)
        name, file, line, address, module, mode = rows["add"]
        self.assertTrue(file.endswith("called.c"), file)
        self.assertEqual((module, mode), ("called", "record"))
        self.assertGreater(address, 4096)
        self.assertGreater(line, 20)
        self.assertEqual(rows["walk"][5], "off")
        modules = {row[4] for row in table(self.ask(f': ct_list_functions([{process}], "fn:*")').result(), 6)}
        self.assertIn("called", modules)
        self.assertNotIn("libscry-agent.so", modules)
        self.refused(f': ct_list_functions([{process}], "addr:x")', PARAMETER_ERROR, "addr")

    def test_profile(self):
        self.set("trace", "file:called.c")
        target, process = self.start()
        target.do("add 0 10")
        target.send("walk 3")
        self.assertEqual(target.line(), "deep")
        rows = {row[0]: row[3:] for row in table(self.ask(f": ct_get_profile([{process}], 0)").result(), 8)}
        self.assertEqual(rows["add"][0], 10)
        self.assertEqual(rows["walk"][0], 4)
        calls, total, self_ns, shortest, longest = rows["add"]
        self.assertTrue(0 <= shortest <= longest <= total and self_ns <= total, rows["add"])
        tree = table(self.ask(f": ct_call_tree([{process}])").result(), 4)
        # a function that calls itself is one node in itself
        self.assertEqual([row[:3] for row in tree if row[1] == "walk"], [[0, "walk", 1], [1, "walk", 3]])
        edges = table(self.ask(f': ct_get_callers([{process}], "walk")').result(), 8)
        self.assertEqual(sorted((edge[3], edge[6]) for edge in edges), [("", 1), ("walk", 3)])
        first = table(self.ask(f": ct_get_profile([{process}], 1)").result(), 8)
        self.assertEqual(len(first), 1)
        target.send("xyz")
        self.assertEqual(target.line(), str(3 + 3 + len("bottom")))
        target.do("again 5")
        thread = self.threads(process)[target.pid]
        rows = {row[0]: row[3] for row in table(self.ask(f": ct_get_thread_profile([{thread}], 0)").result(), 8)}
        self.assertEqual(rows["add"], 10)
        rows = {row[0]: row[3] for row in table(self.ask(f": ct_get_profile([{process}], 0)").result(), 8)}
        self.assertEqual(rows["add"], 15)
        target.quit()

    def test_select(self):
        self.set("trace", "fn:step")
        target, process = self.start()
        target.do("add 0 3")
        self.ask(f': ct_select([{process}], "fn:add", "record")')

        def mode():
            return table(self.ask(f': ct_list_functions([{process}], "fn:add")').result(), 6)[0][5]
        scrytest.wait_until(lambda: mode() == "record")
        target.do("add 0 4")
        rows = {row[0]: row[3] for row in table(self.ask(f": ct_get_profile([{process}], 0)").result(), 8)}
        self.assertEqual(rows, {"add": 4})
        self.ask(f': ct_select([{process}], "fn:add", "off")')
        scrytest.wait_until(lambda: mode() == "off")
        target.do("add 0 4")
        rows = {row[0]: row[3] for row in table(self.ask(f": ct_get_profile([{process}], 0)").result(), 8)}
        self.assertEqual(rows, {"add": 4})
        target.quit()

    def test_info_and_flush(self):
        self.set("trace", "all")
        target, process = self.start()
        target.do("add 0 10")
        self.ask(f": ct_flush([{process}])")
        info = value(self.ask(f": ct_get_info([{process}])").result())
        self.assertEqual((info[0], info[3], info[10], info[12]), ("running", 0, self.jobdir, ""))
        self.assertGreaterEqual(info[2], 20)
        self.assertTrue(info[11].startswith(os.path.join(self.jobdir, "trace")), info)
        self.assertTrue([name for name in os.listdir(info[11]) if name.startswith("stream")], info)
        plain = self.attach(self.root_process.pid)
        self.refused(f": ct_get_info([{plain}])", UNSUPPORTED_SERVICE, "no agent.*scry run")
        target.quit()

    def test_variables(self):
        target, process = self.start()
        self.assertEqual(value(self.ask(f': ct_read_variable([{process}], "shared_number")').result())[:2], ["int", "41"])
        self.assertEqual(value(self.ask(f': ct_read_variable([{process}], "hidden_ratio")').result())[1], "2.5")
        point = value(self.ask(f': ct_read_variable([{process}], "origin")').result())
        self.assertRegex(point[1], r"x = 3, y = -0\.5")
        self.assertEqual(point[3], 16)
        self.assertIn("GREEN", self.ask(f': ct_read_variable([{process}], "paint")').result())
        self.ask(f': ct_write_variable([{process}], "shared_number", 17) '
                 f'ct_write_variable([{process}], "title", "after") ct_write_variable([{process}], "paint", "RED")')
        self.assertEqual(target.do("again 0"), "done 17 after 0")
        self.refused(f': ct_read_variable([{process}], "no_such_thing")', PARAMETER_ERROR, "no_such_thing")
        # of a thread: its frames, innermost first
        target.send("walk 2")
        self.assertEqual(target.line(), "deep")
        thread = self.threads(process)[target.pid]
        self.assertEqual(value(self.ask(f': ct_read_variable([{thread}], "depth")').result())[1], "0")
        self.assertIn("bottom", self.ask(f': ct_read_variable([{thread}], "name", 1)').result())
        self.assertEqual(tracer_of(target.pid), 0)
        target.send("")
        target.line()
        target.quit()


class Helper(CalledTest):
    spread = False  # about the helper beside the program

    def slow_helper(self):
        """From now on scry-symbols stops itself before it reads variables; its pid, once it does."""
        helper, note = self.box.path("libexec", "scry-symbols"), self.box.path("work", "asked")
        real = os.path.realpath(helper)
        os.unlink(helper)
        with open(helper, "w", encoding="ascii") as script:
            script.write(f"#!/bin/sh\n[ $1 = variable ] && echo $$ >'{note}.new' && mv '{note}.new' '{note}' && "
                         f"kill -STOP $$\nexec '{real}' \"$@\"\n")
        os.chmod(helper, 0o700)

        def stopped():
            if not os.path.exists(note):
                return None
            with open(note, encoding="ascii") as file:
                pid = int(file.read())
            if scrytest.process_state(pid) != "T":
                return None
            os.unlink(note)
            return pid
        return lambda: scrytest.wait_until(stopped)

    def test_others_are_served_while_a_variable_is_read(self):
        target, process = self.start()
        other = self.tool()
        self.attach(target, other)
        asked = self.slow_helper()
        first = self.omis.send(f': ct_read_variable([{process}], "shared_number") ct_read_variable([{process}], "origin")')
        second = self.omis.send(': print(["the next"])')
        helper = asked()
        self.assertIn('"meanwhile"', self.ask(': print(["meanwhile"])', other).result())
        self.assertEqual(value(self.ask(f": ct_get_info([{process}])", other).result())[0], "running")
        os.kill(helper, signal.SIGCONT)
        os.kill(asked(), signal.SIGCONT)
        reply = self.omis.reply()
        self.assertEqual(reply.number, first)  # a tool's own requests stay in order
        self.assertEqual(value(reply.result(1))[:2], ["int", "41"])
        self.assertRegex(value(reply.result(2))[1], "x = 3")
        self.assertIn('"the next"', self.omis.reply(second).result())
        target.quit()

    def test_a_thread_waits_while_it_is_looked_at(self):
        target, process = self.start()
        other = self.tool()
        self.attach(target, other)
        target.send("walk 2")
        self.assertEqual(target.line(), "deep")
        thread = self.threads(process)[target.pid]
        asked = self.slow_helper()
        number = self.omis.send(f': ct_read_variable([{thread}], "depth")')
        helper = asked()
        self.assertEqual(scrytest.process_state(target.pid), "t")
        self.ask(f": thread_continue([{thread}])", other)
        self.assertEqual(scrytest.process_state(target.pid), "t")
        os.kill(helper, signal.SIGCONT)
        self.assertEqual(value(self.omis.reply(number).result())[1], "0")
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "S")
        # a tool that goes away meanwhile leaves nothing behind
        other.send(f': ct_read_variable([{thread}], "depth")')
        helper = asked()
        self.assertEqual(scrytest.process_state(target.pid), "t")
        other.process.kill()
        scrytest.wait_until(lambda: not os.path.exists(f"/proc/{helper}"))
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "S")
        scrytest.wait_until(lambda: tracer_of(target.pid) == 0)
        target.send("")
        target.line()
        target.quit()

    def test_a_process_ends_while_a_variable_is_read(self):
        target, process = self.start()
        asked = self.slow_helper()
        number = self.omis.send(f': ct_read_variable([{process}], "shared_number")')
        helper = asked()
        target.process.kill()
        target.process.wait()
        other = self.tool()
        scrytest.wait_until(lambda: not other.request(f": proc_attach3([n_1], {target.pid}, \"\")").ok())
        os.kill(helper, signal.SIGCONT)
        self.assertRegex(str(self.omis.reply(number)), "has ended")

    def test_lists_in_braces_are_not_interrupted(self):
        target, process = self.start()
        asked = self.slow_helper()
        number = self.omis.send(f': {{ct_read_variable([{process}], "shared_number") print(["behind"])}}')
        helper = asked()
        other = self.box.omis()
        later = other.send(': print(["later"])')
        os.kill(helper, signal.SIGCONT)
        reply = self.omis.reply(number)
        self.assertEqual(value(reply.result(1))[:2], ["int", "41"])
        self.assertIn('"behind"', reply.result(2))
        self.assertIn('"later"', other.reply(later).result())
        target.quit()


class Events(CalledTest):
    def test_every_call(self):
        target, process = self.start()
        called = self.rule(process, f'ct_function_called([{process}], "walk") : print([$function, $line, $depth, $proc])')
        returned = self.rule(process, f'ct_function_returned([{process}], "walk") : print([$function, $duration, $depth])')
        target.send("walk 2")
        self.assertEqual(target.line(), "deep")
        line = self.printed(called, 4)
        self.assertEqual((line[0], line[3]), ("walk", process))
        self.assertEqual([line[2], *(self.printed(called, 4)[2] for _ in range(2))], [1, 2, 3])
        self.omis.quiet(returned, 0)
        target.send("")
        target.line()
        found = [self.printed(returned, 3) for _ in range(3)]
        self.assertEqual([depth for _, _, depth in found], [3, 2, 1])
        self.assertTrue(0 < found[0][1] <= found[1][1] <= found[2][1] < 60, found)
        target.do("step 1")
        self.omis.quiet(called, 0)
        target.quit()

    def test_rule_before_the_program(self):
        """[] is every traced process of the job, also those that come; their first calls are not missed."""
        number, csr = self.define('ct_function_called([], "work") : print([$function, $depth, $line, $proc])')
        self.ask(f": csr_enable([{csr}])")
        self.assertEqual(self.omis.reply(number).objects(), [])
        for _ in range(2):
            done = self.box.run([scrytest.built("test", "system", "targets", "traced"), "calls", "3"], env=self.traced())
            self.assertEqual((done.returncode, done.stdout), (0, "calls work 3\ncalls leaf 6\n"))
            process, = self.omis.reply(number).objects()
            self.assertEqual([self.printed(number, 4)[3] for _ in range(3)], [process] * 3)

    def test_condition(self):
        target, process = self.start()
        number = self.rule(process, f'ct_function_called([{process}], "add", "n > 3 && at->x == 100") : '
                             "print([$function, $line, $args, $par0, $par1, $proc])")
        self.assertEqual(target.do("add 0 6"), "110 15")
        for n in (4, 5):
            function, line, arguments, par0, par1, token = self.printed(number, 6)
            self.assertEqual((function, par0, par1, token), ("add", n, 100, process))
            self.assertRegex(arguments, rf"n = {n}, at = ")
        self.omis.quiet(number, 0)
        target.do("again 3")  # at is NULL: what cannot be read compares false
        self.omis.quiet(number, 0)
        target.quit()

    def printed(self, number, count):
        found = value(re.sub(r"\b[pt]_\d+_\d+", r'"\g<0>"', self.triggered(number).result()))
        self.assertEqual(found[0], count)
        return found[1]

    def test_returns(self):
        target, process = self.start()
        number = self.rule(process, f'ct_function_returned([{process}], "add", "twice == 8") : '
                             "print([$function, $locals, $local_list, $duration, $depth])")
        target.do("add 0 6")
        function, local, pairs, duration, depth = self.printed(number, 5)
        self.assertEqual(function, "add")
        self.assertIn("twice = 8", local)
        self.assertEqual(pairs[pairs.index("twice") + 1], "8")
        self.assertTrue(0 < duration < 5)
        self.omis.quiet(number, 0)
        target.quit()

    def test_statics(self):
        """Static variables at returns, of the function's source file; also where it was recorded without before."""
        self.set("trace", "fn:add")
        self.set("args", "yes")
        target, process = self.start()
        target.do("add 0 6")
        number = self.rule(process, f'ct_function_returned([{process}], "add", "n == 8") : print([$statics, $static_list])')
        target.do("add 6 9")
        statics, pairs = self.printed(number, 2)
        for static in ("shared_number = 41", "hidden_ratio = 2.5", "sum = 36"):  # compilers have them in orders of their own
            self.assertIn(static, statics.split(", "))
        self.assertEqual(pairs[pairs.index("sum") + 1], "36")
        self.omis.quiet(number, 0)
        target.quit()

    def test_not_a_number(self):
        """The rule that scry run --rule is for."""
        target, process = self.start()
        number = self.rule(process, 'ct_function_called([], "step", "residual != residual") : ct_snapshot([$proc])')
        target.do("step 1.5")
        target.do("step inf")
        self.omis.quiet(number, 0)
        target.send("step nan")
        path = value(self.triggered(number, timeout=30).result())[0]
        self.assertIn("nan", target.line())
        self.assertEqual(os.path.dirname(path), os.path.join(self.jobdir, "snapshots"))
        with open(path, encoding="utf-8") as file:
            snapshot = json.load(file)
        self.assertEqual(snapshot["pid"], target.pid)
        self.assertEqual(snapshot["event"]["function"], "step")
        self.assertRegex(snapshot["event"]["args"], "residual = -?nan")
        stack = next(stack for stack in snapshot["stacks"] if stack["tid"] == target.pid)
        # the thread waits in the agent: that is none of the program's frames, nor are its variables
        names = [frame.get("function", "").partition("+")[0] for frame in stack["frames"]]
        self.assertEqual(names[0], "step")
        self.assertIn("main", names)
        self.assertEqual([name for name in names if "agent" in name or name.startswith(("__cyg", "scry"))], [])
        self.assertEqual([frame["frame"] for frame in stack["frames"]], list(range(len(names))))
        variables = {(entry["frame"], entry["name"]): entry["value"] for entry in stack["variables"]}
        self.assertRegex(variables[0, "residual"], "^-?nan$")
        target.quit()

    def test_variables_of_a_thread_that_waits(self):
        """The thread waits in the agent, whose frames and variables are not shown."""
        target, process = self.start()
        number = self.rule(process, f'ct_function_called([{process}], "walk") : ct_read_variable([$thread], "depth") '
                                    'ct_read_variable([$thread], "agent_hot")')
        target.send("walk 2")
        for depth in "210":
            reply = self.triggered(number, timeout=30)
            self.assertEqual(value(reply.result(1))[1], depth, reply)
            self.assertIn("agent_hot", reply.result(2))  # the agent's own
            self.assertEqual(reply.status(2), PARAMETER_ERROR, reply)
        self.assertEqual(target.line(), "deep")
        target.send("")
        target.line()
        target.quit()

    def test_snapshot_of_calls(self):
        self.set("trace", "fn:walk")
        target, process = self.start()
        target.send("walk 2")
        self.assertEqual(target.line(), "deep")
        path = value(self.ask(f': ct_snapshot([{process}], ["calls", "tree", "memory", {target.shared_number}, 4])')
                     .result())[0]
        with open(path, encoding="utf-8") as file:
            snapshot = json.load(file)
        self.assertNotIn("stacks", snapshot)
        calls = next(thread["calls"] for thread in snapshot["threads"] if thread["tid"] == target.pid)
        self.assertEqual([call["function"] for call in calls], ["walk"] * 3)
        self.assertEqual(snapshot["memory"][0]["hex"], "29000000")
        self.assertEqual([(node["function"], node["calls"]) for node in snapshot["call_tree"]], [("walk", 1), ("walk", 2)])
        # with variables
        path = value(self.ask(f': ct_snapshot([{process}])', timeout=30).result())[0]
        with open(path, encoding="utf-8") as file:
            snapshot = json.load(file)
        stack = next(stack for stack in snapshot["stacks"] if stack["tid"] == target.pid)
        depths = [entry["value"] for entry in stack["variables"] if entry["name"] == "depth"]
        self.assertEqual(depths, ["0", "1", "2"], stack)
        target.send("")
        target.line()
        target.quit()

    def test_stops_the_thread(self):
        target, process = self.start()
        number = self.rule(process, f'ct_function_called([{process}], "add", "n == 2") : thread_stop([$thread])')
        target.send("add 0 5")
        self.triggered(number)
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "t")
        self.ask(f": thread_continue([{process}])")
        self.assertEqual(target.line(), "108 10")
        target.quit()

    def test_goes_on_without_the_monitor(self):
        """The monitor is stopped while a thread waits for it, and dies then."""
        target, process = self.start()
        other = self.tool()
        self.rule(process, f'ct_function_called([{process}], "add", "n == 2") : ct_snapshot([$proc])')
        monitor = self.box.monitor_pid()

        def goes_on(answer):
            start = time.monotonic()
            self.assertEqual(target.do("add 0 5"), answer)
            self.assertLess(time.monotonic() - start, scrytest.room(1.5))

        os.kill(monitor, signal.SIGSTOP)
        try:
            goes_on("108 10")
        finally:
            os.kill(monitor, signal.SIGKILL)
        goes_on("108 20")
        target.quit()
        other.close()


class Lowered(CalledTest):
    spread = False  # its tool in C knows of no other nodes, and requests over nodes are not lowered

    def test_lowered(self):
        """A list that runs in the program: as many as there were calls, and nobody waits."""
        target, _ = self.start()
        tool = Flagged(self.box)
        process = tool.ask(f': node_attach2("") proc_attach3([n_1], {target.pid}, "")')[2][0][2]
        counter, total = (tool.ask(": pa_counter_create()")[1][0][2] for _ in range(2))

        def lowered(request):
            tool.send(WAIT | NO_OK | NO_EN_DIS, request)
            return tool.replies.pop()[2][0][0][2]

        counting = lowered(f'ct_function_called([{process}], "add", "n >= 5") : '
                           f"pa_counter_add([{counter}], 1) pa_counter_add([{total}], $par0)")
        tool.ask(f": csr_enable([{counting}])")

        def counts():
            return [int(element[0][2]) for element in
                    tool.ask(f": pa_counter_read([{counter}]) pa_counter_read([{total}])")[1:]]
        # enabled silently: in place as soon as it counts
        scrytest.wait_until(lambda: target.do("add 5 6") and counts()[0])
        before = counts()
        target.do("add 0 10")
        self.assertEqual([now - then for now, then in zip(counts(), before)], [5, 35])
        before = counts()[0]
        target.do("add 0 100005", timeout=60)
        self.assertEqual(counts()[0] - before, 100000)
        # from now on only between two steps
        for name, condition in (("enable", "residual == 1"), ("disable", "residual == 2")):
            switch = lowered(f'ct_function_called([{process}], "step", "{condition}") : csr_{name}([{counting}])')
            tool.ask(f": csr_enable([{switch}])")

        def counted(*commands):
            before = counts()[0]
            for command in commands:
                target.do(command)
            return counts()[0] - before
        scrytest.wait_until(lambda: counted("step 2", "add 5 6") == 0)
        scrytest.wait_until(lambda: counted("step 1", "add 5 6") == 1)
        before = counts()[0]
        for command in ("step 2", "add 0 10", "step 1", "add 0 7", "step 2", "add 0 10"):
            target.do(command)
        self.assertEqual(counts()[0] - before, 2)
        # posted to the monitor
        event = tool.ask(": user_event_create()")[1][0][2]
        told = lowered(f"user_event_has_been_raised({event}) : pa_counter_add([{total}], 1000000000)")
        posting = lowered(f'ct_function_called([{process}], "step") : user_event_raise({event}, [], 1)')
        tool.ask(f": csr_enable([{told}, {posting}])")
        scrytest.wait_until(lambda: target.do("step 3") and counts()[1] >= 1000000000)

        def posted_by_three():
            before = counts()[1]
            for _ in range(3):
                target.do("step 3")
            scrytest.wait_until(lambda: counts()[1] - before >= 3000000000)
            return counts()[1] - before
        # what was posted before may still be on its way when the first round begins, not when the next ones do
        scrytest.wait_until(lambda: posted_by_three() == 3000000000)
        target.quit()

    def test_lowered_timer(self):
        """Read while the program starts and stops it, it never goes backwards."""
        target, _ = self.start()
        tool = Flagged(self.box)
        process = tool.ask(f': node_attach2("") proc_attach3([n_1], {target.pid}, "")')[2][0][2]
        timer = tool.ask(": pa_timer_create()")[1][0][2]
        for event, action in (("called", "start"), ("returned", "stop")):
            tool.send(WAIT | NO_OK | NO_EN_DIS, f'ct_function_{event}([{process}], "add") : pa_timer_{action}([{timer}])')
            tool.ask(f": csr_enable([{tool.replies.pop()[2][0][0][2]}])")

        def sums(count):
            return [float(element[0][2]) for element in
                    tool.ask(": " + " ".join([f"pa_timer_read([{timer}])"] * count))[1:]]
        scrytest.wait_until(lambda: target.do("add 5 6") and sums(1)[0])
        before = sums(1)[0]
        target.send("add 0 300000")
        seen = [each for _ in range(40) for each in sums(50)]
        target.line(timeout=60)
        seen.append(sums(1)[0])
        self.assertEqual(seen, sorted(seen))
        self.assertGreater(seen[-1], before)
        target.quit()

    def test_lowered_for_another_monitor(self):
        """A program that is older than the monitor counts for this one."""
        target, _ = self.start()
        self.box.stop_monitor(signal.SIGKILL)
        self.omis = self.tool()
        self.ask(f': job_create("{self.jobdir}", {self.root_process.pid})')
        tool = Flagged(self.box)
        process = tool.ask(f': node_attach2("") proc_attach3([n_1], {target.pid}, "")')[2][0][2]
        counter = tool.ask(": pa_counter_create()")[1][0][2]
        tool.send(WAIT | NO_OK | NO_EN_DIS, f'ct_function_called([{process}], "add", "n >= 5") : '
                                            f"pa_counter_add([{counter}], 1)")
        csr = tool.replies.pop()[2][0][0][2]
        tool.ask(f": csr_enable([{csr}])")
        scrytest.wait_until(lambda: target.do("add 5 6") and int(tool.ask(f": pa_counter_read([{counter}])")[1][0][2]))
        target.quit()

scrytest.main()
