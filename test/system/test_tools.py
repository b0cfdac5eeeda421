# SPDX-License-Identifier: Apache-2.0
"""Tools in C: the debugging example printed in the specification, the flags of omis_request, tools of several
processes, and lowered action lists, which need a flag."""

import scrytest
from servicetest import *


class Debugging(ServiceTest):
    def test_the_printed_example(self):
        sender, walker = self.target(), self.target("puppet", 1)
        tool = self.box.start([scrytest.built("test", "system", "tools", "debugging"), sender.pid, "pwrite64",
                               walker.pid, hex(walker.hit)], stdin=subprocess.PIPE)
        processes = tool.stdout.readline().split()
        self.assertEqual(tool.stdout.readline(), "ready\n")
        sender.do("call")
        self.check_event(tool, processes[0], 1)
        walker.do("hit 2")
        for _ in range(2):
            event = self.check_event(tool, processes[1], 2)
            self.assertIn(walker.hit, [registers[16] for registers in event])
        tool.stdin.close()
        self.assertEqual(tool.wait(20 * scrytest.SCALE), 0)
        for target in (sender, walker):
            scrytest.wait_until(lambda: tracer_of(target.pid) == 0)
            target.quit()

    def check_event(self, tool, process, threads):
        self.assertRegex(tool.stdout.readline(), r"^event at t_\d+_\d+$")
        self.assertEqual(tool.stdout.readline(), f"0 1,[{process}]\n")
        status, stack = tool.stdout.readline().split(" ")
        self.assertEqual(status, "0")
        count, *values = numbers(stack)
        self.assertEqual(len(values), 2 * count)
        self.assertGreaterEqual(count, 3)
        status, registers = tool.stdout.readline().split(" ")
        self.assertEqual(status, "0")
        self.assertEqual(len(numbers(registers)), 17)
        return [numbers(registers)]


class Flags(ServiceTest):
    def setUp(self):
        super().setUp()
        self.c = Flagged(self.box)
        self.event = self.c.ask(": user_event_create()")[1][0][2]

    def define(self, flags, actions):
        number, replies = self.c.send(flags | WAIT, f"user_event_has_been_raised({self.event}) : {actions}")
        self.assertEqual([(n, how) for n, how, _ in replies], [(number, "returned")])
        self.c.replies = []
        return number, replies[0][2][0][0][2]

    def test_no_callback_blocks(self):
        number, replies = self.c.send(NO_CALLBACK, ": print([1])")
        self.assertEqual(replies, [(number, "returned", [[("", 0, "NULL")], [("", 0, "1,[1]")]])])

    def test_callback_comes_later(self):
        number, replies = self.c.send(0, ": print([1])")
        self.assertEqual(replies, [])
        self.assertEqual([(n, how) for n, how, _ in self.c.flush()], [(number, "callback")])

    def test_enabled_and_disabled(self):
        for flags, expected in ((0, [ENABLED, DISABLED, ENABLED, DELETED]), (NO_EN_DIS, [DELETED])):
            number, csr = self.define(flags, "version()")
            for service in ("enable", "disable", "enable", "delete"):
                self.c.ask(f": csr_{service}([{csr}])")
            self.assertEqual(self.c.statuses(number), expected)

    def test_errors_of_enabling_are_reported(self):
        """Also with OMIS_DONT_RETURN_EN_DIS."""
        target = self.target()
        process = self.c.ask(f': node_attach2("localhost") proc_attach3([n_1], {target.pid}, "")')[2][0][2]
        number, replies = self.c.send(WAIT | NO_EN_DIS, f"thread_reached_addr([{process}], 0) : version()")
        self.c.replies = []
        self.c.ask(f": csr_enable([{replies[0][2][0][0][2]}])")
        self.assertEqual(self.c.statuses(number), [ENABLED])

    def test_ok_is_not_returned(self):
        number, csr = self.define(NO_OK | NO_EN_DIS, "csr_enable([$csr])")
        loud, loud_csr = self.define(NO_OK | NO_EN_DIS, "print([$par1])")
        self.c.ask(f": csr_enable([{csr},{loud_csr}])")
        self.c.ask(f": user_event_raise({self.event}, [1], 0)")
        replies = self.c.flush()
        self.assertEqual([n for n, _, _ in replies], [loud])
        # an error is told
        number, csr = self.define(NO_OK | NO_EN_DIS, "proc_attach([$par1])")
        self.c.ask(f": csr_enable([{csr}])")
        self.c.ask(f": user_event_raise({self.event}, [p_1_99], 0)")
        replies = {n: elements for n, _, elements in self.c.flush()}
        self.assertEqual(replies[number][1][0][1], UNKNOWN_OBJECT)
        number, replies = self.c.send(NO_OK, ": csr_disable([])")
        self.assertEqual([n for n, _, _ in self.c.flush() if n == number], [])

    def test_debug(self):
        self.c.send(DEBUG, ": version()")
        replies = self.c.flush()
        self.assertEqual({how for _, how, _ in replies}, {"callback", "error"})
        for _, how, elements in replies:
            self.assertEqual(elements[0][0][1], OK)
            self.assertEqual(len(elements), 1 if how == "error" else 2)

    def test_buffered_requests(self):
        """They wait for the next request without the flag, and keep their order."""
        for i in range(5):
            self.assertEqual(self.c.send(BUFFER | BUFFER_REPLIES, f": print([{i}])")[1], [])
        results = []
        for n, how, elements in self.c.flush():
            self.assertEqual(how, "callback")
            results.append(elements[1][0][2])
        self.assertEqual(results, [f"1,[{i}]" for i in range(5)])


class Distributed(ServiceTest):
    def test_of_a_tool_that_is_not_there(self):
        """An id that was never given, or whose tool has ended: refused with a reason, and nothing else happens."""
        ended = Flagged(self.box)
        ended.process.stdin.close()
        self.assertEqual(ended.process.wait(timeout=20 * scrytest.SCALE), 0)
        for wrong in (ended.id, 4711, -1):
            tool = self.box.run([scrytest.built("test", "system", "tools", "flagged"), f"--id={wrong}"])
            self.assertEqual(tool.returncode, 1)
            self.assertEqual(tool.stdout.replace("\037", " ").replace("\036", ""),
                             f"0\terror\t {INTERNAL_ERROR} the monitor refused the connection: there is no tool with the id "
                             f"{wrong}: it has ended, or is another monitor's; a tool that is not part of another one passes "
                             "0 (tool_id of omis_init)\n")

    def test_two_processes_are_one_tool(self):
        """7.1.3: they share the scope; each gets the answers to its own requests."""
        target = self.target()
        master = Flagged(self.box)
        slave = Flagged(self.box, f"--id={master.id}")
        stranger = Flagged(self.box)
        self.assertEqual(slave.id, master.id)
        self.assertNotEqual(stranger.id, master.id)
        process = master.ask(f': node_attach2("localhost") proc_attach3([n_1], {target.pid}, "")')[2][0][2]
        self.assertEqual(slave.ask(": proc_get_info([], 0)")[1][0][0], process)
        self.assertEqual(stranger.ask(": proc_get_info([], 0)")[1][0][0], "")
        number, replies = master.send(WAIT, f"thread_reached_addr([], {target.hit}) : thread_stop([$proc])")
        csr = replies[0][2][0][0][2]
        slave.ask(f": csr_enable([{csr}]) thread_suspend([{process}])")
        master.process.kill()
        master.process.wait()
        # the tool lives on in its other process: what it attached and suspended stays
        scrytest.wait_until(lambda: slave.ask(f": csr_enable([{csr}])")[1][0][1] == UNKNOWN_OBJECT)
        self.assertEqual(slave.ask(": proc_get_info([], 0)")[1][0][0], process)
        target.send("hit 1")
        self.assertIn(scrytest.process_state(target.pid), ("t", "T"))
        slave.process.kill()
        self.assertEqual(target.line(), "1")


class Lowered(ServiceTest):
    spread = False  # its tool in C knows of no other nodes, and requests over nodes are not lowered

    """Lists whose actions can all be compiled run in the tracer; the numbers are the same."""

    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 4)
        self.c = Flagged(self.box)
        self.process = self.c.ask(f': node_attach2("localhost") proc_attach3([n_1], {self.target_.pid}, "")')[2][0][2]
        self.counter = self.c.ask(": pa_counter_create()")[1][0][2]

    def enable(self, request, omis=None):
        number, replies = self.c.send(WAIT | NO_OK | NO_EN_DIS, request)
        self.c.replies = []
        csr = replies[0][2][0][0][2]
        self.c.ask(f": csr_enable([{csr}])")
        return number, csr

    def count(self, counter=None):
        return int(self.c.ask(f": pa_counter_read([{counter or self.counter}])")[1][0][2])

    def test_exact(self):
        second = self.c.ask(": pa_counter_create()")[1][0][2]
        _, csr = self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{self.counter}], 1) "
                             f"pa_counter_add([{second}], -3)")
        self.assertEqual(self.target_.do("all 1000", 60), "4000")
        self.assertEqual(self.target_.do("hit 17"), "4017")
        self.assertEqual((self.count(), self.count(second)), (4017, -3 * 4017))
        self.c.ask(f": csr_disable([{csr}])")
        self.assertEqual(tracer_of(self.target_.pid), 0)
        self.target_.do("hit 1")
        self.c.ask(f": csr_enable([{csr}])")
        self.target_.do("hit 2")
        self.assertEqual(self.count(), 4019)
        self.target_.quit()

    def test_beside_another_request(self):
        """One in the tracer and one in the monitor at the same address."""
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{self.counter}], 1)")
        self.attach(self.target_)
        number, csr = ServiceTest.enable(self, f"thread_reached_addr([], {self.target_.hit}) : print([1])")
        self.target_.do("all 25")
        for _ in range(100):
            self.triggered(number)
        self.assertEqual(self.count(), 100)
        self.ask(f": csr_delete([{csr}])")
        self.target_.do("all 25")
        self.assertEqual(self.count(), 200)

    def test_single_thread(self):
        """Of one thread only: counted for that one only."""
        threads = self.c.ask(": thread_get_info([], 128)")[1]
        token = [objects for objects, _, tid in threads if int(tid) == self.target_.workers[2]][0]
        self.enable(f"thread_reached_addr([{token}], {self.target_.hit}) : pa_counter_add([{self.counter}], 1)")
        self.target_.do("all 10")
        self.target_.do("hit 5")
        self.assertEqual(self.count(), 10)

    def test_detached_thread(self):
        threads = self.c.ask(": thread_get_info([], 128)")[1]
        token = [objects for objects, _, tid in threads if int(tid) == self.target_.workers[2]][0]
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{self.counter}], 1)")
        self.target_.do("all 10")
        self.c.ask(f": thread_detach([{token}])")
        self.target_.do("all 10")
        self.assertEqual(self.count(), 70)

    def test_all_counters_of_the_tool(self):
        """7.2.2: [] is what there is when the event happens, not when the request was enabled."""
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([], 1)")
        self.target_.do("hit 3")
        later = self.c.ask(": pa_counter_create()")[1][0][2]
        self.target_.do("hit 4")
        self.assertEqual((self.count(), self.count(later)), (7, 4))

    def test_deleted_counter(self):
        """No other one counts in its place, and the error is reported."""
        number, csr = self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{self.counter}], 1)")
        self.target_.do("hit 3")
        self.c.ask(f": pa_counter_delete([{self.counter}])")
        others = [self.c.ask(": pa_counter_create()")[1][0][2] for _ in range(3)]
        self.target_.do("hit 2")
        self.assertEqual([self.count(other) for other in others], [0, 0, 0])
        replies = [elements for n, _, elements in self.c.flush() if n == number]
        self.assertEqual([elements[1][0][1] for elements in replies], [UNKNOWN_OBJECT] * 2)

    def test_timer(self):
        """5.3.1: the time between two events."""
        timer = self.c.ask(": pa_timer_create()")[1][0][2]
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_timer_start([{timer}])")
        self.enable(f"thread_reached_addr([], {self.target_.other}) : pa_timer_stop([{timer}])")
        begin = time.monotonic()
        self.target_.do("hit 1")
        reading = float(self.c.ask(f": pa_timer_read([{timer}])")[1][0][2])
        self.assertGreater(reading, 0)
        self.target_.do("other 1")
        end = time.monotonic()
        reading = float(self.c.ask(f": pa_timer_read([{timer}])")[1][0][2])
        self.assertLessEqual(reading, end - begin)
        self.target_.do("other 1")
        self.assertEqual(float(self.c.ask(f": pa_timer_read([{timer}])")[1][0][2]), reading)

    def test_child_is_not_counted(self):
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{self.counter}], 1)")
        self.assertEqual(self.target_.numbers("fork")[1], 42)
        self.assertEqual(self.count(), 0)

    def test_tool_dies(self):
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{self.counter}], 1)")
        self.target_.send("all 2000")
        self.c.process.kill()
        self.assertEqual(self.target_.line(60), "8000")
        scrytest.wait_until(lambda: tracer_of(self.target_.pid) == 0)
        self.target_.quit()


scrytest.main()
