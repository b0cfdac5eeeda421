# SPDX-License-Identifier: Apache-2.0
"""Several tools at once (specification 5.5): each has its own scope, and what one held is released when it goes, however
it goes, and not before."""

import os

import scrytest
from servicetest import *


class Scope(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 2)
        self.second = self.tool()
        self.process = self.attach(self.target_)

    def attach_both(self):
        self.assertEqual(self.attach(self.target_, self.second), self.process, "tokens are the same for all tools")

    def running(self):
        """Whether the program answers, that is, whether its first thread runs."""
        return self.target_.do("hit 1", timeout=5)

    def assert_held(self):
        hits = self.read_number(self.process, self.target_.hits)
        self.target_.send("hit 1")
        scrytest.wait_until(lambda: scrytest.process_state(self.target_.pid) in ("t", "T"))
        self.assertEqual(self.read_number(self.process, self.target_.hits), hits)

    def test_attached_by_one_only(self):
        self.assertEqual(self.ask(": proc_get_info([], 0)", self.second).objects(), [])
        self.refused(f": proc_get_info([{self.process}], 0)", UNKNOWN_OBJECT, "is not attached", omis=self.second)
        thread = list(self.threads(self.process).values())[0]
        self.refused(f": thread_stop([{thread}])", UNKNOWN_OBJECT, "is not attached", omis=self.second)
        # its token is known, so that it can be attached
        self.ask(f": proc_attach([{self.process}])", self.second)
        self.assertEqual(self.ask(": proc_get_info([], 0)", self.second).objects(), [self.process])

    def test_node_must_be_attached(self):
        third = self.box.omis()
        self.assertEqual(third.request(": node_get_info([], 0)").objects(), [])
        self.refused(": node_get_info([n_1], 0)", UNKNOWN_OBJECT, "not attached", omis=third)
        self.ask(": node_attach([n_1])", third)
        self.assertEqual(third.request(": node_get_info([], 0)").objects(), ["n_1"])

    def test_node_detach(self):
        self.attach_both()
        self.ask(f": node_detach([{self.nodes()}])", self.second)
        self.refused(f": proc_get_info([{self.process}], 0)", UNKNOWN_OBJECT, "not attached", omis=self.second)
        self.refused(": node_get_info([n_1], 0)", UNKNOWN_OBJECT, "not attached", omis=self.second)
        self.assertEqual(self.ask(": proc_get_info([], 0)").objects(), [self.process])

    def test_requests_of_others(self):
        _, csr = self.define("proc_has_terminated([]) : version()")
        for service in ("csr_enable", "csr_disable", "csr_delete"):
            self.refused(f": {service}([{csr}])", NO_PERMISSION, "another tool", omis=self.second)
        self.assertEqual(self.ask(": csr_delete([])", self.second).objects(), [])
        event = self.ask(": user_event_create()").result()
        self.refused(f": user_event_destroy({event})", NO_PERMISSION, "another tool", omis=self.second)
        number, _ = self.enable(f"user_event_has_been_raised({event}) : print([$par1])")
        self.ask(f": user_event_raise({event}, [5], 0)", self.second)
        self.assertEqual(self.triggered(number).result(), "1,[5]")

    def test_counters_of_others(self):
        counter = self.ask(": pa_counter_create()").result()
        self.assertEqual(self.ask(": pa_counter_read([])", self.second).objects(), [])
        self.assertEqual(self.ask(": pa_counter_read([])").objects(), [counter])

    def test_one_detaches(self):
        """The other's breakpoint stays."""
        self.attach_both()
        first, _ = self.enable(f"thread_reached_addr([], {self.target_.hit}) : print([1])")
        second, _ = self.enable(f"thread_reached_addr([], {self.target_.hit}) : print([2])", self.second)
        self.target_.do("hit 1")
        self.triggered(first)
        self.triggered(second, self.second)
        self.ask(f": proc_detach([{self.process}])", self.second)
        self.assertEqual(self.second.reply(second).status(), DISABLED)
        self.target_.do("hit 2")
        for _ in range(2):
            self.assertEqual(self.triggered(first).result(), "1,[1]")
        self.second.quiet(second, 0)

    def test_one_is_killed(self):
        self.attach_both()
        first, _ = self.enable(f"thread_reached_addr([], {self.target_.hit}) : print([1])")
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : print([2]) thread_stop([$proc])", self.second)
        self.second.kill()
        scrytest.wait_until(lambda: self.connections() == 1)
        self.target_.do("hit 3")
        for _ in range(3):
            self.assertEqual(self.triggered(first).result(), "1,[1]")
        self.omis.quiet(first, 0)

    def connections(self):
        """Tools that the monitor is connected to."""
        pid, count = self.box.monitor_pid(), 0
        sockets = set()
        with open(f"/proc/{pid}/net/unix", encoding="ascii") as file:
            for line in file:
                if "/run/monitor.sock" in line and line.split()[5] == "03":
                    sockets.add(line.split()[6])
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{name}")
            except FileNotFoundError:  # closed just now
                continue
            count += link.startswith("socket:[") and link[8:-1] in sockets
        return count

    def test_suspends_count_for_each_tool(self):
        self.attach_both()
        self.ask(f": thread_suspend([{self.process}]) thread_suspend([{self.process}])")
        self.ask(f": thread_suspend([{self.process}])", self.second)
        self.assert_held()
        self.ask(f": thread_resume([{self.process}])", self.second)
        self.refused(f": thread_resume([{self.process}])", PARAMETER_ERROR, "not suspended", omis=self.second)
        self.ask(f": thread_resume([{self.process}])")
        self.assertIn(scrytest.process_state(self.target_.pid), ("t", "T"))
        self.ask(f": thread_continue([{self.process}])")
        self.assertIn(scrytest.process_state(self.target_.pid), ("t", "T"))
        self.ask(f": thread_resume([{self.process}])")
        self.assertEqual(self.target_.line(), "1")
        scrytest.wait_until(lambda: tracer_of(self.target_.pid) == 0)

    def test_suspends_of_a_dead_tool(self):
        self.attach_both()
        self.ask(f": thread_suspend([{self.process}]) thread_suspend([{self.process}])", self.second)
        self.assert_held()
        self.second.kill()
        self.assertEqual(self.target_.line(), "1")

    def test_stop_of_a_dead_tool(self):
        self.attach_both()
        self.ask(f": thread_stop([{self.process}])", self.second)
        self.assert_held()
        self.second.kill()
        self.assertEqual(self.target_.line(), "1")
        scrytest.wait_until(lambda: tracer_of(self.target_.pid) == 0)

    def test_stop_by_two_tools(self):
        """The stop ends with the last tool that stopped the thread."""
        self.attach_both()
        self.ask(f": thread_stop([{self.process}])", self.second)
        self.ask(f": thread_stop([{self.process}])")
        self.assert_held()
        self.second.kill()
        scrytest.wait_until(lambda: self.connections() == 1)
        self.assertIn(scrytest.process_state(self.target_.pid), ("t", "T"))
        self.ask(f": proc_detach([{self.process}])")
        self.assertEqual(self.target_.line(), "1")

    def test_continue_by_another_tool(self):
        """Stopping is one switch, whoever turns it, and everybody gets the report."""
        self.attach_both()
        stopped, _ = self.enable("proc_has_been_stopped([]) : print([$proc])")
        continued, _ = self.enable("proc_has_been_continued([]) : print([$proc])")
        self.ask(f": thread_stop([{self.process}])", self.second)
        self.assertEqual(self.triggered(stopped).result(), f"1,[{self.process}]")
        self.ask(f": thread_continue([{self.process}])")
        self.assertEqual(self.triggered(continued).result(), f"1,[{self.process}]")
        self.running()

    def test_finalize(self):
        """An orderly end releases as much."""
        self.attach_both()
        self.ask(f": thread_stop([{self.process}]) thread_suspend([{self.process}])", self.second)
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : thread_stop([$proc])", self.second)
        self.assertEqual(self.second.close(), 0)
        self.running()
        scrytest.wait_until(lambda: tracer_of(self.target_.pid) == 0)

    def test_nobody_attaches_to_monitor_tracer_and_tool(self):
        self.ask(f": thread_stop([{self.process}])")
        tracer = tracer_of(self.target_.pid)
        self.assertGreater(tracer, 0)
        for pid, pattern in ((self.box.monitor_pid(), "monitor itself"), (tracer, "tracer"),
                             (self.omis.pid, "requesting tool itself")):
            self.refused(f': proc_attach3([n_1], {pid}, "")', NO_PERMISSION, pattern)
        self.ask(f": thread_continue([{self.process}])")


scrytest.main()
