# SPDX-License-Identifier: Apache-2.0
"""Breakpoints (thread_reached_addr): none lost, none invented, and the program is what it was afterwards."""

import scrytest
from servicetest import *


class Breakpoints(ServiceTest):
    def start(self, workers=0):
        target = self.target("puppet", workers)
        return target, self.attach(target)

    def test_each_hit(self):
        target, process = self.start()
        thread = self.threads(process)[target.pid]
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([$proc,$thread,$node,$csr,$time])")
        self.assertEqual(target.do("hit 50"), "50")
        times = []
        for _ in range(50):
            reply = self.triggered(number)
            self.assertEqual(reply.services[0][0]["objects"], [thread])
            count, values = reply.result().split(",", 1)
            *tokens, time = values.strip("[]").split(",")
            self.assertEqual((count, tokens), ("5", [process, thread, self.omis.node_of(target.pid), csr]))
            times.append(float(time))
        self.assertEqual(times, sorted(times))
        self.omis.quiet(number, 0)

    def test_before_the_instruction(self):
        """The event is raised before the instruction at the address is executed: rip is there, hits is not counted."""
        target, process = self.start()
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : thread_read_int_regs([$thread], 16, 1) "
                                f"proc_read_memory([$proc], {target.hits}, 8, 8, 1)")
        target.do("hit 3")
        for i in range(3):
            reply = self.triggered(number)
            self.assertEqual(numbers(reply.result(1)), [target.hit])
            self.assertEqual(numbers(reply.result(2))[0], i)

    def test_every_instruction_of_a_function(self):
        """Whatever the instruction is, it does what it does without a breakpoint."""
        target = self.target("steps")
        process = self.attach(target)
        requests = {name: self.enable(f"thread_reached_addr([], {target.names[name]}) : print([1])")[0]
                    for name in ("outer", "outer_call", "outer_after", "outer_end", "recurse", "recurse_call",
                                 "recurse_after")}
        self.assertEqual(target.do("4"), "5")
        self.assertEqual(target.do("0"), "1")
        for name, count in {"outer": 2, "outer_call": 2, "outer_after": 2, "outer_end": 2, "recurse": 6,
                            "recurse_call": 4, "recurse_after": 4}.items():
            for _ in range(count):
                self.triggered(requests[name])
            self.omis.quiet(requests[name], 0)
        self.ask(": csr_delete([])")
        self.assertEqual(tracer_of(target.pid), 0)
        self.assertEqual(target.do("9"), "10")
        target.quit()

    def test_several_threads_at_once(self):
        target, process = self.start(8)
        threads = self.threads(process)
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : print([$thread])")
        self.assertEqual(target.do("all 100", 60), "800")
        found = {}
        for _ in range(800):
            found[self.triggered(number).result()] = found.get(self.triggered, 0)
        self.omis.quiet(number, 0)
        self.assertEqual(set(found), {f"1,[{threads[tid]}]" for tid in target.workers})
        target.quit()

    def test_held_until_the_lists_are_done(self):
        """Of all requests of all tools: nothing changes in the thread that came there."""
        target, process = self.start()
        second = self.tool()
        self.attach(target, second)
        read = f"proc_read_memory([$proc], {target.hits}, 8, 8, 1)"
        requests = [(omis, self.enable(f"thread_reached_addr([], {target.hit}) : {read} {read}", omis)[0])
                    for omis in (self.omis, second, self.omis)]
        self.assertEqual(target.do("hit 100"), "100")
        for hit in range(100):
            for omis, number in requests:
                reply = self.triggered(number, omis)
                self.assertEqual([numbers(reply.result(action))[0] for action in (1, 2)], [hit, hit])

    def test_two_tools_at_one_address(self):
        target, process = self.start()
        second = self.tool()
        self.attach(target, second)
        first, _ = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        other, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([2])", second)
        target.do("hit 2")
        self.ask(f": csr_disable([{csr}])", second)
        self.assertEqual([second.reply(other).status() for _ in range(3)], [TRIGGERED, TRIGGERED, DISABLED])
        target.do("hit 3")
        for _ in range(5):
            self.triggered(first)
        second.quiet(other, 0)
        self.ask(f": csr_enable([{csr}])", second)
        second.reply(other)
        self.ask(": csr_delete([])")
        self.assertEqual(self.omis.reply(first).status(), DELETED)
        target.do("hit 1")
        self.triggered(other, second)
        self.omis.quiet(first, 0)

    def test_counting_in_the_tracer(self):
        """Actions that are all lowered: exact counts, no replies."""
        target, process = self.start(4)
        counters = [self.ask(": pa_counter_create()").result() for _ in range(2)]
        timer = self.ask(": pa_timer_create()").result()
        tool = self.counting_tool(process, target, counters)
        self.assertEqual(target.do("all 250", 60), "1000")
        self.assertEqual(target.do("hit 17"), "1017")
        tool.finish([1017, -3 * 1017])
        self.assertEqual(target.do("hit 1"), "1018")

    def counting_tool(self, process, target, counters):
        """The same through this tool, which wants no replies when all is well."""
        test = self

        class Counting:
            def __init__(self):
                self.number, self.csr = test.define(f"thread_reached_addr([], {target.hit}) : "
                                                    f"pa_counter_add([{counters[0]}], 1) "
                                                    f"pa_counter_add([{counters[1]}], -3)")
                test.ask(f": csr_enable([{self.csr}])")
                test.omis.reply(self.number)

            def finish(self, expected):
                values = test.ask(f": pa_counter_read([{counters[0]},{counters[1]}])")
                test.assertEqual([int(entry["result"]) for entry in values.services[1]], expected)
                test.ask(f": csr_delete([{self.csr}])")
                test.assertEqual(tracer_of(target.pid), 0)
        return Counting()

    def test_removed_while_running(self):
        """Set and removed again and again under threads that run over it."""
        target, process = self.start(3)
        target.send("all 3000")
        total = 0
        for _ in range(30):
            number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
            self.ask(f": csr_delete([{csr}])")
            reply = self.omis.reply(number)
            while reply.status() == TRIGGERED:
                total += 1
                reply = self.omis.reply(number)
            self.assertEqual(reply.status(), DELETED)
            self.omis.quiet(number, 0)
        self.assertEqual(target.line(60), "9000")
        self.assertEqual(tracer_of(target.pid), 0)
        target.quit()

    def test_detached_while_running(self):
        target, process = self.start(3)
        target.send("all 3000")
        self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        for _ in range(20):
            self.ask(f": proc_detach([{process}])")
            self.ask(f": proc_attach([{process}])")
        self.ask(f": proc_detach([{process}])")
        self.assertEqual(target.line(60), "9000")
        self.assertEqual(tracer_of(target.pid), 0)
        target.quit()

    def test_short_threads(self):
        """Each of many threads that live for one call hits it once."""
        target, process = self.start()
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([$thread])")
        for _ in range(100):
            target.do("thread")
        found = [self.triggered(number).result() for _ in range(100)]
        self.assertEqual(len(set(found)), 100)
        self.omis.quiet(number, 0)
        target.quit()

    def test_many_addresses(self):
        target, process = self.start()
        code = range(target.callee, target.callee + 1)
        requests = [self.define(f"thread_reached_addr([], {address}) : print([{i}])")[1]
                    for i in range(300) for address in code]
        self.ask(f": csr_enable([{','.join(requests)}])")
        self.ask(f": thread_call([{process}], {target.callee})")
        self.assertEqual(target.numbers("called"), [1])
        self.ask(": csr_delete([])")
        self.assertEqual(tracer_of(target.pid), 0)
        target.quit()

    def test_exec_clears(self):
        """Addresses mean nothing in another program: the tool gets an error, the new program runs."""
        target, process = self.start(2)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.do("hit 1")
        self.triggered(number)
        target.send("exec")
        target.names = target.introduction()
        disabled = self.omis.reply(number)
        self.assertEqual(disabled.status(), DISABLED)
        self.assertEqual(target.do("hit 5"), "5")
        self.omis.quiet(number, 0)
        # and can be watched again
        again, _ = self.enable(f"thread_reached_addr([{process}], {target.hit}) : print([1])")
        self.assertEqual(target.do("hit 1"), "6")
        self.triggered(again)
        target.quit()

    def test_children_run_unharmed(self):
        """A forked child has a copy of the code, which must not have our breakpoints."""
        target, process = self.start(1)
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        for command in ("fork", "vfork", "spawn", "fork"):
            pid, status = target.numbers(command)
            self.assertEqual(status, 42, command)
        target.do("hit 1")
        self.triggered(number)
        self.omis.quiet(number, 0)
        target.quit()

    def test_no_code_there(self):
        target, process = self.start()
        for address in (0, 1, target.pages + 8192, 2 ** 64 - 1):
            number, csr = self.define(f"thread_reached_addr([], {address}) : version()")
            self.ask(f": csr_enable([{csr}])")
            reply = self.omis.reply(number)
            self.assertEqual(reply.status(), ENABLED)
            self.assertGreaterEqual(reply.status(1), 16, reply)
            self.assertRegex(reply.result(), f"{address:#x}")
            self.ask(f": csr_delete([{csr}])")
            self.omis.reply(number)
        self.assertEqual(tracer_of(target.pid), 0)
        target.do("hit 1")

    def test_stop_at_breakpoint(self):
        """As a debugger does it: the thread stops there, and continues from there."""
        target, process = self.start()
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : thread_stop([$proc])")
        target.send("hit 3")
        for i in range(3):
            self.triggered(number)
            self.assertEqual(numbers(self.ask(f": thread_read_int_regs([{process}], 16, 1)").result()), [target.hit])
            self.assertEqual(self.read_number(process, target.hits), i)
            self.ask(f": thread_continue([{process}])")
        self.assertEqual(target.line(), "3")
        target.send("hit 3")
        self.triggered(number)
        # removed while the thread stands on it
        self.ask(f": csr_delete([{csr}]) thread_continue([{process}])")
        self.assertEqual(target.line(), "6")
        self.assertEqual(tracer_of(target.pid), 0)
        target.quit()

    def test_killed_while_held(self):
        target, process = self.start(2)
        gone, _ = self.enable("proc_has_terminated([]) : print([$proc])")
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : thread_stop([$proc]) "
                                "proc_send_signal([$proc], 9) proc_read_memory([$proc], 1, 1, 1, 1)")
        target.send("hit 1")
        self.triggered(number)
        self.assertEqual(self.triggered(gone).result(), f"1,[{process}]")
        self.assertEqual(target.ended(), -9)
        self.wait_for_attached()


class Actions(ServiceTest):
    """What is allowed in the action list of a thread that is held at a breakpoint."""

    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 3)
        self.process = self.attach(self.target_)

    def at_hit(self, actions):
        return self.enable(f"thread_reached_addr([], {self.target_.hit}) : {actions}")

    def finish(self):
        scrytest.wait_until(lambda: tracer_of(self.target_.pid) == 0)
        self.target_.quit()

    def test_suspend_and_resume(self):
        """8.1.3: the list between thread_suspend and thread_resume of the process sees it at rest."""
        read = f"proc_read_memory([$proc], {self.target_.hits}, 8, 8, 1)"
        number, csr = self.at_hit(f"thread_suspend([$proc]) {read} {read} thread_resume([$proc])")
        self.assertEqual(self.target_.do("all 50", 60), "150")
        for _ in range(150):
            reply = self.triggered(number)
            self.assertTrue(reply.ok(), reply)
            self.assertEqual(reply.result(2), reply.result(3))
        self.ask(f": csr_delete([{csr}])")
        self.finish()

    def test_detach(self):
        number, _ = self.at_hit("proc_detach([$proc])")
        self.assertEqual(self.target_.do("all 50", 60), "150")
        self.omis.reply(number)
        self.finish()

    def test_delete_under_many_threads(self):
        number, _ = self.at_hit("csr_delete([$csr])")
        self.assertEqual(self.target_.do("all 50", 60), "150")
        self.omis.reply(number)
        self.finish()

    def test_goto(self):
        """Leaves the function at once, by jumping to its return instruction after the one that counts."""
        code = bytes(numbers(self.ask(f": proc_read_memory([{self.process}], {self.target_.hit}, 32, 32, 1)").result()))
        number, csr = self.at_hit(f"thread_goto([$thread], {self.target_.hit + code.index(0xc3)})")
        self.assertEqual(self.target_.do("hit 5"), "0")
        for _ in range(5):
            self.assertTrue(self.triggered(number).ok())
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.target_.do("hit 1"), "1")
        self.finish()

    def test_call(self):
        """A call of another function from there, and back to the breakpoint's instruction, which is not hit again."""
        number, csr = self.at_hit(f"thread_call([$thread], {self.target_.callee})")
        self.assertEqual(self.target_.do("hit 5"), "5")
        for _ in range(5):
            self.assertTrue(self.triggered(number).ok())
        self.omis.quiet(number, 0)
        self.assertEqual(self.target_.numbers("called"), [5])
        self.ask(f": csr_delete([{csr}])")
        self.finish()

    def test_read_everything(self):
        number, csr = self.at_hit("thread_get_backtrace([$proc], 0) thread_read_int_regs([$proc], 0, 17) "
                                  f"thread_read_fp_regs([$proc], 17, 24) proc_get_info([$proc], {2 ** 25 - 1}) "
                                  "thread_get_info([$proc], 4095)")
        self.assertEqual(self.target_.do("all 10", 60), "30")
        for _ in range(30):
            self.assertTrue(self.triggered(number).ok())
        self.ask(f": csr_delete([{csr}])")
        self.finish()

    def test_exec_with_stopped_threads(self):
        """exec ends the other threads, also those that are stopped or suspended."""
        tokens = self.threads(self.process)
        self.ask(f": thread_stop([{tokens[self.target_.workers[0]]}]) "
                 f"thread_suspend([{tokens[self.target_.workers[1]]}])")
        self.target_.send("exec")
        self.target_.introduction()
        self.assertEqual(self.target_.do("hit 1"), "1")
        self.finish()

    def test_child_in_borrowed_memory(self):
        """A child by vfork runs over the breakpoint in its parent's memory, and is nobody's."""
        number, csr = self.at_hit("print([1])")
        for _ in range(3):
            self.assertEqual(self.target_.numbers("borrow")[1], 42)
        self.target_.do("hit 1")
        self.triggered(number)
        self.omis.quiet(number, 0)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.target_.do("hit 1"), "11")
        self.finish()


scrytest.main()
