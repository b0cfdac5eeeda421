# SPDX-License-Identifier: Apache-2.0
"""Conditional requests, locks and user events over nodes: several monitors on one machine."""

import os
import signal
import time

import scrytest
from nodestest import *


class ConditionalTest(NodesTest):
    def pause(self, pid):
        """Stops a monitor until the test ends."""
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)

    def enable(self, request, tool=None):
        tool = tool or self.tool
        number = tool.send(request)
        defined = tool.reply(number)
        self.assertTrue(defined.ok(), defined)
        csr = defined.results(0)[0]["result"]
        self.ask(f": csr_enable([{csr}])", tool)
        return number, csr

    def triggered(self, number, tool=None):
        return (tool or self.tool).reply(number, lambda reply: reply.status() == TRIGGERED)

    def nothing(self, number):
        """No more events were told of it."""
        self.ask(': print(["all came"])')
        self.assertEqual([reply for reply in self.tool.waiting if reply.number == number and
                          reply.status() == TRIGGERED], [])

    def puppets(self, nodes, names):
        """One on each node, and their tokens."""
        targets = [node.target("puppet", 0) for node in nodes]
        return targets, [self.attach(target, name) for target, name in zip(targets, names)]


class Silent(ConditionalTest):
    @scrytest.hasten(5)
    def test_what_a_silent_node_is_told_later(self):
        """Nobody waits for it, whether the request is defined there or not; what holds is what was asked for last."""
        nodes = self.nodes(2)
        (target,), _ = self.puppets(nodes[1:], self.reach(nodes[1]))
        first, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        self.pause(nodes[1].pid)
        answers = lambda: self.tool.request(": node_get_info([], 1)", timeout=40).ok()
        scrytest.wait_until(lambda: not answers(), 60)
        second = self.tool.send(f"thread_reached_addr([], {target.hit}) : print([2])")
        other = self.tool.reply(second).results(0)[0]["result"]
        for request in (f": csr_disable([{csr}])", f": csr_enable([{other}])"):
            reply = self.tool.request(request, timeout=40)
            self.assertIn("does not answer since", reply.result(1) or "", reply)
        os.kill(nodes[1].pid, signal.SIGCONT)
        for _ in range(2):  # the second time what the first definition led to is done, too
            scrytest.wait_until(answers, 60)
        self.assertEqual(target.do("hit 1", 40), "1")
        self.assertEqual(self.triggered(second).result(1), "1,[2]")
        self.nothing(first)


class Near(ConditionalTest):
    def test_a_list_that_stays_there(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets, tokens = self.puppets(nodes[1:], names)
        number, csr = self.enable(f"thread_reached_addr([], {targets[0].hit}) : "
                                  "print([$proc,$node,$csr]) proc_get_info([$proc], 1)")
        for target, token, name in zip(targets, tokens, names):
            if target.hit != targets[0].hit:
                continue
            self.assertEqual(target.do("hit 3"), "3")
            for _ in range(3):
                reply = self.triggered(number)
                self.assertTrue(reply.ok(), reply)
                self.assertEqual(reply.result(1), f"3,[{token},{name},{csr}]")
                self.assertEqual(reply.objects(2), [token])
                self.assertEqual(reply.result(2), str(target.pid))
        self.ask(f": csr_disable([{csr}])")
        self.assertEqual(targets[0].do("hit 3"), "6")
        self.nothing(number)
        self.ask(f": csr_enable([{csr}])")
        self.assertEqual(targets[0].do("hit 1"), "7")
        self.triggered(number)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.tool.reply(number, lambda reply: reply.status() == DELETED).ok(), True)
        self.assertEqual(targets[0].do("hit 1"), "8")
        self.assertEqual(tracer_of(targets[0].pid), 0)
        for target in targets:
            target.quit()

    def test_nodes_that_come_later_are_covered(self):
        nodes = self.nodes(2)
        number = self.tool.send("proc_has_terminated([]) : print([$proc])")
        csr = self.tool.reply(number).results(0)[0]["result"]
        self.ask(f": csr_enable([{csr}])")
        self.reach(nodes[1])
        target = nodes[1].target("puppet", 0)
        token = self.attach(target, "n_2")
        enabled = self.tool.reply(number, lambda reply: reply.status() == ENABLED and reply.objects(1))
        self.assertEqual(enabled.objects(1), [token])
        target.quit()
        self.assertEqual(self.triggered(number).result(), f"1,[{token}]")

    def test_only_what_is_named(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets, tokens = self.puppets(nodes[1:], names)
        number, _ = self.enable(f"proc_has_terminated([{tokens[1]}]) : print([$proc])")
        targets[0].quit()
        targets[1].quit()
        self.assertEqual(self.triggered(number).result(), f"1,[{tokens[1]}]")
        self.nothing(number)
        reply = self.tool.request("proc_has_terminated([p_9_9]) : print([1])")
        self.assertEqual(reply.status(1), UNKNOWN_OBJECT)


class Far(ConditionalTest):
    def start(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets, tokens = self.puppets(nodes[1:], names)
        return nodes, targets, tokens

    def test_an_event_there_stops_what_is_elsewhere(self):
        nodes, targets, tokens = self.start()
        number, csr = self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : "
                                  f"thread_stop([{tokens[1]}]) print([$proc,$csr,$node]) thread_get_info([$thread], 1)")
        self.assertEqual(targets[0].do("hit 1"), "1")
        reply = self.triggered(number)
        self.assertTrue(reply.ok(), reply)
        self.assertEqual(reply.results(0)[0]["objects"], reply.objects(3))
        self.assertEqual([name.split("_")[:2] for name in reply.objects(1)], [["t", "3"]])
        self.assertEqual(reply.result(2), f"3,[{tokens[0]},{csr},n_2]")
        self.assertEqual(scrytest.process_state(targets[1].pid), "t")
        self.ask(f": thread_continue([{tokens[1]}])")
        self.assertEqual(targets[1].do("hit 1"), "1")

    def test_the_thread_waits_for_the_list(self):
        """It has not gone on while its list reads its memory over two nodes, with a barrier between."""
        nodes, targets, tokens = self.start()
        read = f"proc_read_memory([$proc], {targets[0].hits}, 8, 8, 1)"
        number, _ = self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : "
                                f"{read} proc_get_info([{tokens[1]}], 1); {read} print([$time])")
        self.assertEqual(targets[0].do("hit 20", 60), "20")
        for hit in range(20):
            reply = self.triggered(number)
            self.assertTrue(reply.ok(), reply)
            self.assertEqual([numbers(reply.result(action))[0] for action in (1, 3)], [hit, hit])

    def test_the_list_stops_its_own_thread(self):
        nodes, targets, tokens = self.start()
        number, _ = self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : thread_stop([])")
        targets[0].send("hit 1")
        reply = self.triggered(number)
        self.assertEqual(len(reply.objects(1)), 2)
        scrytest.wait_until(lambda: scrytest.process_state(targets[0].pid) == "t")
        self.ask(": csr_delete([]) thread_continue([])")
        self.assertEqual(targets[0].line(), "1")

    def test_a_home_that_is_killed(self):
        nodes, targets, tokens = self.start()
        self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : proc_get_info([{tokens[1]}], 1)")
        self.pause(nodes[2].pid)
        targets[0].send("hit 1")
        scrytest.wait_until(lambda: scrytest.process_state(targets[0].pid) == "t")
        started = time.monotonic()
        os.kill(nodes[0].pid, signal.SIGKILL)
        self.assertEqual(targets[0].line(), "1")
        self.assertLess(time.monotonic() - started, scrytest.room(5))

    @scrytest.hasten(5)
    def test_a_home_that_is_stopped(self):
        """A thread waits 10 s for it, here 2, and no longer."""
        nodes, targets, tokens = self.start()
        self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : proc_get_info([{tokens[1]}], 1)")
        self.pause(nodes[0].pid)
        started = time.monotonic()
        self.assertEqual(targets[0].do("hit 1", 20), "1")
        self.assertGreater(time.monotonic() - started, 1.6)

    def test_a_tool_that_is_killed(self):
        nodes, targets, tokens = self.start()
        self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : proc_get_info([{tokens[1]}], 1)")
        self.pause(nodes[2].pid)
        targets[0].send("hit 1")
        scrytest.wait_until(lambda: scrytest.process_state(targets[0].pid) == "t")
        self.tool.kill()
        self.assertEqual(targets[0].line(), "1")
        scrytest.wait_until(lambda: tracer_of(targets[0].pid) == 0)

    def test_once(self):
        """A request that deletes itself, from elsewhere."""
        nodes, targets, tokens = self.start()
        number, csr = self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : print([$proc]) csr_delete([$csr])")
        self.assertEqual(targets[0].do("hit 3"), "3")
        self.assertEqual(self.triggered(number).result(), f"1,[{tokens[0]}]")
        self.nothing(number)
        scrytest.wait_until(lambda: tracer_of(targets[0].pid) == 0)

    def test_events_at_home(self):
        nodes, targets, tokens = self.start()
        here = nodes[0].target("puppet", 0)
        self.ask(': node_attach2("")')
        token = self.attach(here, "n_1")
        number, _ = self.enable(f"thread_reached_addr([{token}], {here.hit}) : "
                                f"proc_get_info([{tokens[1]},$proc], 1) print([$proc])")
        near, _ = self.enable(f"thread_reached_addr([{token}], {here.hit}) : proc_get_info([$proc], 1)")
        self.assertEqual(here.do("hit 2"), "2")
        for _ in range(2):
            reply = self.triggered(number)
            self.assertEqual(reply.objects(1), [tokens[1], token])
            self.assertEqual(self.triggered(near).objects(1), [token])


class Calls(ConditionalTest):
    def test_a_thread_waits_in_its_call(self):
        """Of a program with an agent: no tracer is needed to hold it."""
        nodes = self.nodes(2)
        (second,) = self.reach(nodes[1])
        self.ask(': node_attach2("")')
        box, there = nodes[1].box, nodes[1].box.omis()
        jobdir = box.path("jobs", "20200101-test-1-abcd")
        os.mkdir(jobdir, 0o700)
        self.ask(f': job_create("{jobdir}", {os.getpid()})', there)
        target = Target(box, "called", env={**box.env, "LD_PRELOAD": box.path("lib", "libscry-agent.so"), "SCRY_JOB": jobdir,
                                            "SCRY_AGENT_SOCKET": box.path("run", "agent.sock"), "SCRY_TRACE_WANTED": "1"})
        token = self.attach(target, second)
        here = self.attach(nodes[0].target("puppet", 0), "n_1")
        number, csr = self.enable(f'ct_function_called([{token}], "fn:add", "") : '
                                  f"proc_get_info([{here},$proc], 1) print([$function])")
        enabled = self.tool.reply(number, lambda reply: reply.status() == ENABLED and token in reply.objects(), timeout=30)
        self.assertTrue(enabled.ok(), enabled)
        target.do("add 0 5")
        for _ in range(5):
            reply = self.triggered(number)
            self.assertEqual(reply.objects(1), [here, token])
            self.assertEqual(reply.result(2), '1,["add"]')
        self.assertEqual(tracer_of(target.pid), 0)
        os.kill(nodes[0].pid, signal.SIGSTOP)
        target.send("add 0 1")
        with self.assertRaisesRegex(AssertionError, "prints nothing"):
            target.line(1 / scrytest.SCALE)
        os.kill(nodes[0].pid, signal.SIGCONT)
        target.line()
        self.triggered(number)
        self.ask(f": csr_delete([{csr}])")
        self.assertTrue(target.do("add 0 1000"))


class UserEvents(ConditionalTest):
    def test_raised_by_one_node_for_others(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets, tokens = self.puppets(nodes[1:], names)
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : "
                                f"proc_get_info([$par1,{tokens[1]}], 1) print([$par2,$node])")
        self.enable(f"thread_reached_addr([{tokens[0]}], {targets[0].hit}) : user_event_raise({event}, [$proc,\"x\"], 1)")
        self.assertEqual(targets[0].do("hit 2"), "2")
        for _ in range(2):
            reply = self.triggered(number)
            self.assertTrue(reply.ok(), reply)
            self.assertEqual(reply.objects(1), tokens)
            self.assertEqual(reply.result(2), f'2,["x",{names[0]}]')
        self.enable(f"thread_reached_addr([{tokens[1]}], {targets[1].hit}) : user_event_raise({event}, [$proc,\"y\"], 0)")
        self.assertEqual(targets[1].do("hit 1"), "1")
        self.assertEqual(self.triggered(number).result(2), f'2,["y",{names[1]}]')
        self.ask(f": user_event_raise({event}, [{tokens[0]},\"z\"], 1)")
        self.assertEqual(self.triggered(number).result(2), '2,["z",n_1]')

    def test_chains_come_to_an_end(self):
        """Two requests that undo each other over nodes do so for some while only."""
        nodes = self.nodes(2)
        self.reach(nodes[1])
        target = nodes[1].target("puppet", 0)
        here = nodes[0].target("puppet", 0)
        self.ask(': node_attach2("")')
        remote, local = self.attach(target, "n_2"), self.attach(here, "n_1")
        stopped, _ = self.enable(f"thread_has_been_stopped([{remote}]) : thread_continue([{remote},{local}])")
        self.enable(f"thread_has_been_continued([{remote}]) : thread_stop([{remote},{local}])")
        self.ask(f": thread_stop([{remote}])")
        count = 0
        while count < 1000:
            try:
                self.tool.reply(stopped, lambda reply: reply.status() == TRIGGERED, timeout=2)
                count += 1
            except AssertionError:
                break
        self.assertGreater(count, 5)
        self.assertLess(count, 200)


class Locks(ConditionalTest):
    def test_braces_over_nodes(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets, tokens = self.puppets(nodes[1:], names)
        for _ in range(10):
            reply = self.ask(": { proc_get_info([], 1); print([1]) }")
            self.assertEqual(reply.objects(1), tokens)

    def test_two_homes_that_cross(self):
        nodes = self.nodes(4)
        other = nodes[1].box.omis()
        for tool, order in ((self.tool, nodes[2:]), (other, nodes[:1:-1])):  # their numbers are the other way round
            for node in order:
                name = self.ask(f': node_attach2("{node.name}")', tool).result()
                self.attach(node.target("puppet", 0), name, tool)
        started = time.monotonic()
        sent = [(tool, tool.send(": { proc_get_info([], 1); thread_get_info([], 1); proc_get_info([], 1) }"))
                for _ in range(25) for tool in (self.tool, other)]
        for tool, number in sent:
            reply = tool.reply(number, timeout=30)
            self.assertTrue(reply.ok(), reply)
            self.assertEqual(len(reply.objects(1)), 2)
        self.assertLess(time.monotonic() - started, scrytest.room(8))

    def test_a_tool_that_dies_with_the_lock(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets, tokens = self.puppets(nodes[1:], names)
        other = nodes[1].box.omis()
        self.pause(nodes[2].pid)
        self.tool.send(": { proc_get_info([], 1) }")  # has the one, or none, and never gets the other
        started = time.monotonic()
        self.tool.kill()
        self.assertTrue(other.request(": print([1])", timeout=20).ok())
        self.assertLess(time.monotonic() - started, scrytest.room(8))

    def test_a_home_that_dies_with_the_lock(self):
        nodes = self.nodes(4)
        self.puppets(nodes[1:], self.reach(*nodes[1:]))
        others = [node.box.omis() for node in nodes[1:3]]
        os.kill(nodes[3].pid, signal.SIGSTOP)
        self.tool.send(": { proc_get_info([], 1) }")
        self.ask(": print([1])", nodes[0].box.omis())
        os.kill(nodes[0].pid, signal.SIGKILL)
        started = time.monotonic()
        for other in others:
            self.assertTrue(other.request(": print([1])", timeout=20).ok())
        self.assertLess(time.monotonic() - started, scrytest.room(8))
        os.kill(nodes[3].pid, signal.SIGCONT)

    @scrytest.hasten(5)
    def test_what_cannot_be_locked(self):
        """Nothing of the list is executed."""
        nodes = self.nodes(3)
        targets, _ = self.puppets(nodes[1:], self.reach(*nodes[1:]))
        os.kill(nodes[2].pid, signal.SIGSTOP)
        reply = self.tool.request(": { thread_stop([]) }", timeout=30)
        os.kill(nodes[2].pid, signal.SIGCONT)
        self.assertEqual(reply.status(1), UNSPECIFIED_ERROR, reply)
        self.assertIn("n_3", reply.result())
        self.assertEqual(targets[0].do("hit 1"), "1")
        self.assertTrue(self.ask(": { thread_get_info([], 1) }").ok())

    @scrytest.hasten(5)
    def test_events_wait_for_the_end(self):
        """While one node does not answer, the other one is locked, if its turn came first: which is known to them."""
        nodes = self.nodes(3)
        targets, _ = self.puppets(nodes[1:], self.reach(*nodes[1:]))
        waited = []
        for locked, silent in ((0, 1), (1, 0)):
            other = nodes[1 + locked].box.omis()
            self.ask(f': proc_attach3([], {targets[locked].pid}, "")', other)
            event, _ = self.enable(f"thread_reached_addr([], {targets[locked].hit}) : print([$thread])", other)
            os.kill(nodes[1 + silent].pid, signal.SIGSTOP)
            number = self.tool.send(": { proc_get_info([], 1) }")
            self.ask(": print([1])", nodes[0].box.omis())  # it was sent
            scrytest.wait_until(lambda: scrytest.process_state(nodes[1 + silent].pid) == "T")
            started = time.monotonic()
            self.assertEqual(targets[locked].do("hit 2", 30), "2")  # after 10 s at the most, here 2
            waited.append(time.monotonic() - started)
            os.kill(nodes[1 + silent].pid, signal.SIGCONT)
            self.tool.reply(number, timeout=20)
            for _ in range(2):
                self.triggered(event, other)
            other.close()
        self.assertGreater(max(waited), 1)
        self.assertLess(max(waited), 2 + scrytest.room(5))


class Levels(ConditionalTest):
    def test_three(self):
        """A monitor between the home and the node of the event."""
        top, middle, bottom = self.nodes(3)
        helper = middle.box.omis()
        self.ask(f': node_attach2("{bottom.name}")', helper)
        self.reach(middle)
        scrytest.wait_until(lambda: self.tool.request(": node_attach([n_3])").ok())
        targets, tokens = self.puppets([middle, bottom], ["n_2", "n_3"])
        far, _ = self.enable(f"thread_reached_addr([{tokens[1]}], {targets[1].hit}) : "
                             f"proc_get_info([{tokens[0]},$proc], 1) print([$csr])")
        near, csr = self.enable(f"thread_reached_addr([], {targets[1].hit}) : print([$proc,$csr])")
        self.assertEqual(targets[1].do("hit 2", 30), "2")
        for _ in range(2):
            reply = self.triggered(far)
            self.assertTrue(reply.ok(), reply)
            self.assertEqual(reply.objects(1), tokens)
            self.assertEqual(self.triggered(near).result(), f"2,[{tokens[1]},{csr}]")


if __name__ == "__main__":
    scrytest.main()
