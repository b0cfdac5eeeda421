# SPDX-License-Identifier: Apache-2.0
"""Requests over nodes: several monitors on one machine, joined by edges over unix sockets."""

import os
import signal
import time

import scrytest
from nodestest import *


class Requests(NodesTest):
    def test_objects_of_three_nodes(self):
        nodes = self.nodes(3)
        second, third = self.reach(*nodes[1:])
        self.assertEqual([second, third], ["n_2", "n_3"])
        targets = [node.target("puppet", 2) for node in nodes]
        self.ask(': node_attach2("")')
        tokens = [self.attach(target, node) for target, node in zip(targets, ("n_1", second, third))]
        self.assertEqual([token.split("_")[1] for token in tokens], ["1", "2", "3"])
        reply = self.ask(": proc_get_info([], 1) node_get_info([n_3,n_1], 1); print([1])")
        self.assertEqual(reply.objects(1), tokens)
        self.assertEqual([entry["result"] for entry in reply.results(1)], [str(target.pid) for target in targets])
        self.assertEqual(reply.objects(2), ["n_3", "n_1"])
        self.assertEqual(len(reply.results(2)), 1)  # equal results are one entry
        self.assertEqual(reply.result(3), "1,[1]")

    def test_order_is_that_of_the_request(self):
        nodes = self.nodes(3)
        tokens = [self.attach(node.target("puppet", 0), name) for node, name in
                  zip(nodes[1:] + nodes[1:], self.reach(*nodes[1:]) * 2)]
        self.assertEqual(len(set(tokens)), 4)
        for order in (tokens, tokens[::-1], tokens[1:] + tokens[:1]):
            reply = self.ask(f": proc_get_info([{','.join(order)}], 1)")
            self.assertEqual(reply.objects(1), order)

    def test_threads_are_stopped_where_they_are(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        targets = [node.target("puppet", 2) for node in nodes[1:]]
        tokens = [self.attach(target, name) for target, name in zip(targets, names)]
        reply = self.ask(": thread_stop([])")
        self.assertEqual(len(reply.objects(1)), 6)
        for target in targets:
            scrytest.wait_until(lambda pid=target.pid: scrytest.process_state(pid) == "t")
        self.ask(f": thread_continue([{tokens[1]}])")
        scrytest.wait_until(lambda: scrytest.process_state(targets[1].pid) != "t")
        self.assertEqual(scrytest.process_state(targets[0].pid), "t")
        self.tool.kill()  # what it held is released everywhere
        scrytest.wait_until(lambda: scrytest.process_state(targets[0].pid) != "t")

    def test_a_tool_of_one_machine_needs_no_node(self):
        nodes = self.nodes(2)
        target = nodes[0].target("puppet", 0)
        token = self.attach(target)
        self.assertEqual(token, "p_1_1")
        self.assertEqual(self.ask(": node_get_info([], 1)").objects(1), ["n_1"])
        # and one that has attached another node attaches nothing here by itself
        other = nodes[0].box.omis()
        self.ask(f': node_attach2("{nodes[1].name}")', other)
        remote = nodes[1].target("puppet", 0)
        self.assertEqual(self.attach(remote, tool=other), "p_2_1")
        self.assertEqual(self.ask(": node_get_info([], 1)", other).objects(1), ["n_2"])

    def test_programs_are_started_on_each_node(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        reply = self.ask(f': proc_create([{",".join(names)}], "/bin/true", ["true"], [], [])')
        tokens = [entry["result"] for entry in reply.results(1)]
        self.assertEqual(tokens, ["p_2_1", "p_3_1"])
        self.assertEqual(reply.objects(1), names)
        self.assertEqual(self.ask(": thread_continue([])").objects(1), ["t_2_1", "t_3_1"])

    def test_lists_behind_what_attaches(self):
        """In one request: [] has the node that an action before has attached."""
        nodes = self.nodes(3)
        self.reach(nodes[1])
        target, other = nodes[1].target("puppet", 0), self.home.box.omis()
        reply = self.ask(f': node_attach([n_2]) proc_attach3([n_2], {target.pid}, "") thread_stop([]) version()', other)
        self.assertEqual([element[0]["objects"] for element in reply.services[1:]], [["n_2"], ["n_2"], ["t_2_1"], []])
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "t")
        reply = self.ask(f': node_attach2("{nodes[2].name}") node_get_info([], 1)', other)
        self.assertEqual(reply.objects(2), ["n_2", "n_3"])
        fresh = self.home.box.omis()
        reply = self.ask(f': node_attach2("{nodes[2].name}") node_get_info([], 1)', fresh)
        self.assertEqual(reply.objects(2), ["n_3"])

    def test_known_tokens(self):
        nodes = self.nodes(2)
        self.reach(nodes[1])
        token = self.attach(nodes[1].target("puppet", 0), "n_2")
        other = nodes[0].box.omis()
        reply = other.request(f": proc_get_info([{token}], 1)")
        self.assertEqual(reply.status(1), UNKNOWN_OBJECT)
        self.assertIn(f"{token} ", reply.result())
        self.ask(f": proc_attach([{token}])", other)
        self.assertEqual(self.ask(": proc_get_info([], 1)", other).objects(1), [token])
        self.assertEqual(self.ask(": node_get_info([], 1)", other).objects(1), ["n_2"])
        third = nodes[0].box.omis()
        self.ask(": node_attach([n_2])", third)
        self.assertEqual(self.ask(": node_get_info([], 1)", third).objects(1), ["n_2"])
        self.ask(": node_detach([n_2])", third)
        self.assertEqual(self.ask(": node_get_info([], 1)", third).objects(1), [])

    def test_unknown_tokens_and_names(self):
        nodes = self.nodes(2)
        self.reach(nodes[1])
        token = self.attach(nodes[1].target("puppet", 0), "n_2")
        reply = self.tool.request(f": proc_get_info([p_9_1,{token},p_2_77], 1)")
        by_object = {name: entry for entry in reply.results(1) for name in entry["objects"]}
        self.assertEqual(list(by_object), ["p_9_1", token, "p_2_77"])
        self.assertEqual(by_object["p_9_1"]["status"], UNKNOWN_OBJECT)
        self.assertEqual(by_object["p_2_77"]["result"], "there is no object p_2_77")
        reply = self.tool.request(': node_attach2("unix:/nothing/there") print([1])')
        self.assertEqual(reply.status(1), OS_ERROR)
        self.assertIn("/nothing/there", reply.result())
        self.assertEqual(reply.result(2), "1,[1]")
        reply = self.tool.request(f': {{ node_attach2("{nodes[0].name}x") }}')
        self.assertEqual(reply.status(1), UNSUPPORTED_SERVICE)


class Joining(NodesTest):
    @scrytest.thorough
    def test_many_at_once(self):
        """More than one monitor takes: those below it reach the others."""
        nodes = self.nodes(40)
        names = [node.name for node in nodes[1:]] + ["unix:/nothing", nodes[1].name]
        reply = self.tool.request(": " + " ".join(f'node_attach2("{name}")' for name in names), timeout=60)
        self.assertEqual(len({reply.result(i) for i in range(1, 40)}), 39)
        self.assertEqual(reply.status(40), OS_ERROR)
        self.assertEqual(reply.result(41), reply.result(1))
        target = nodes[39].target("puppet", 0)
        token = self.attach(target, reply.result(39))
        self.assertEqual(self.ask(f": proc_get_info([{token}], 1)").result(), str(target.pid))
        self.assertEqual(len(self.ask(": node_get_info([], 1)").objects(1)), 39)
        state = self.ask(": scry_monitor_get_state()").result()
        self.assertEqual(state.count("edge place="), 32)

    def test_the_same_node_twice(self):
        nodes = self.nodes(2)
        second = self.reach(nodes[1])
        self.assertEqual(self.reach(nodes[1]), second)
        link = nodes[1].box.path("run", "other.sock")
        os.symlink(nodes[1].box.path("run", "monitor.sock"), link)
        self.assertEqual(self.ask(f': node_attach2("unix:{link}")').result(), "n_2")
        self.assertEqual(self.ask(f': node_attach2("{nodes[0].name}")').result(), "n_1")

    def test_two_homes(self):
        nodes = self.nodes(2)
        target = nodes[1].target("puppet", 0)
        self.reach(nodes[1])
        remote = self.attach(target, "n_2")
        other = nodes[1].box.omis()
        token = self.ask(f': proc_attach3([], {target.pid}, "")', other).result()
        self.assertEqual([remote, token], ["p_2_1", "p_1_1"])
        self.assertEqual(self.ask(f': node_attach2("{nodes[0].name}")', other).result(), "n_2")
        here = nodes[0].target("puppet", 0)
        self.assertEqual(self.attach(here, "n_2", other), "p_2_1")
        self.assertEqual(self.ask(": proc_get_info([], 1)", other).objects(1), ["p_1_1", "p_2_1"])

    def test_a_tree_of_three_levels(self):
        top, middle, bottom = self.nodes(3)
        helper = middle.box.omis()
        self.ask(f': node_attach2("{bottom.name}")', helper)
        self.reach(middle)
        scrytest.wait_until(lambda: self.tool.request(": node_attach([n_3])").ok())
        target = bottom.target("puppet", 0)
        token = self.attach(target, "n_3")
        self.assertEqual(token, "p_3_1")
        reply = self.ask(": proc_get_info([], 1) node_get_info([], 1)")
        self.assertEqual(reply.objects(1), [token])
        self.assertEqual(reply.objects(2), ["n_2", "n_3"])
        self.ask(f": thread_stop([{token}])")
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "t")
        self.tool.kill()
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) != "t")


    def test_a_process_of_the_tool_elsewhere(self):
        """7.1.3: a slave at any monitor of the tree is part of the tool, with its tokens."""
        top, middle, bottom = self.nodes(3)
        with middle.box.omis() as helper:
            self.ask(f': node_attach2("{bottom.name}")', helper)
            master = Flagged(top.box)
            master.ask(f': node_attach2("{middle.name}")')
        scrytest.wait_until(lambda: master.ask(": node_attach([n_3])")[1][0][1] == OK)
        target = bottom.target("puppet", 1)
        token = master.ask(f': proc_attach3([n_3], {target.pid}, "")')[1][0][2]
        self.assertEqual(token, "p_3_1")
        for node in (middle, bottom):
            slave = Flagged(node.box, f"--id={master.id}")
            self.assertEqual(slave.id, master.id)
            self.assertEqual(slave.ask(": proc_get_info([], 1)")[1], [(token, OK, str(target.pid))])
            self.assertEqual(slave.ask(": node_get_info([n_2], 1)")[1][0][0], "n_2")
        with middle.box.omis() as stranger:
            self.assertNotIn(token, self.ask(": proc_get_info([], 1)", stranger).objects(1))
        slave.ask(f": thread_stop([{token}])")
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "t")
        os.kill(middle.pid, signal.SIGKILL)  # the way is gone, and what was held is free
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) != "t")


class Failures(NodesTest):
    def test_a_monitor_that_is_killed(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        tokens = [self.attach(node.target("puppet", 0), name) for node, name in zip(nodes[1:], names)]
        os.kill(nodes[2].pid, signal.SIGKILL)
        scrytest.wait_until(lambda: "gone" in (self.tool.request(f": proc_get_info([{tokens[1]}], 1)").result() or ""))
        reply = self.tool.request(f": proc_get_info([{','.join(tokens)}], 1)")
        self.assertEqual([(entry["objects"], entry["status"]) for entry in reply.results(1)],
                         [([tokens[0]], OK), ([tokens[1]], UNKNOWN_OBJECT)])
        self.assertEqual(self.ask(": proc_get_info([], 1)").objects(1), [tokens[0]])

    def test_a_monitor_that_is_killed_before_it_answers(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        tokens = [self.attach(node.target("puppet", 0), name) for node, name in zip(nodes[1:], names)]
        os.kill(nodes[1].pid, signal.SIGSTOP)
        number = self.tool.send(f": proc_get_info([{','.join(tokens)}], 1) print([1])")
        self.ask(": print([1])", nodes[0].box.omis())
        os.kill(nodes[1].pid, signal.SIGKILL)
        reply = self.tool.reply(number)
        self.assertEqual([entry["objects"] for entry in reply.results(1)], [[token] for token in tokens])
        self.assertIn("n_2 (", reply.result())
        self.assertEqual(reply.result(2), "1,[1]")

    def test_monitors_end_with_their_tools(self):
        nodes = self.nodes(3, "--idle", "2s")
        helper = nodes[1].box.omis()
        self.ask(f': node_attach2("{nodes[2].name}")', helper)
        self.reach(nodes[1])
        scrytest.wait_until(lambda: self.tool.request(": node_attach([n_3])").ok())
        helper.close()
        time.sleep(3)  # longer than they would stay idle
        self.assertEqual(self.ask(": node_get_info([], 1)").objects(1), ["n_2", "n_3"])
        self.tool.close()
        for node in nodes:
            scrytest.wait_until(lambda pid=node.pid: scrytest.process_gone(pid), timeout=20)

    @scrytest.hasten(2)
    def test_one_that_is_stopped_behind_another(self):
        """The error names it by the token that the tool knows, and the others' answers come."""
        nodes = self.nodes(4)
        helper = nodes[1].box.omis()
        for node in nodes[2:]:
            self.ask(f': node_attach2("{node.name}")', helper)
        self.ask(': node_attach2("localhost")')
        self.reach(nodes[1])
        scrytest.wait_until(lambda: self.tool.request(": node_attach([n_3,n_4])").ok())
        os.kill(nodes[2].pid, signal.SIGSTOP)
        reply = self.tool.request(": node_get_info([], 1)", timeout=30)
        answered = {name for entry in reply.results(1) if entry["status"] == OK for name in entry["objects"]}
        failed = [entry for entry in reply.results(1) if entry["status"] != OK]
        self.assertEqual(answered, {"n_1", "n_2", "n_4"})
        self.assertEqual([entry["objects"] for entry in failed], [["n_3"]])
        self.assertIn("n_3 (", failed[0]["result"])
        os.kill(nodes[2].pid, signal.SIGCONT)

    @scrytest.hasten(2)
    def test_a_monitor_that_is_stopped(self):
        nodes = self.nodes(3)
        names = self.reach(*nodes[1:])
        tokens = [self.attach(node.target("puppet", 0), name) for node, name in zip(nodes[1:], names)]
        os.kill(nodes[2].pid, signal.SIGSTOP)
        number = self.tool.send(": proc_get_info([], 1)")
        other = nodes[0].box.omis()  # is served meanwhile
        self.ask(": print([1])", other)
        reply = self.tool.reply(number, timeout=20)
        self.assertEqual(reply.status(1, 0), OK)
        self.assertEqual(reply.results(1)[1]["objects"], ["n_3"])
        self.assertIn("does not answer", reply.result(1, 1))
        os.kill(nodes[2].pid, signal.SIGCONT)
        scrytest.wait_until(lambda: self.tool.request(": proc_get_info([], 1)").ok())
        self.assertEqual(self.ask(": proc_get_info([], 1)").objects(1), tokens)


if __name__ == "__main__":
    scrytest.main()
