# SPDX-License-Identifier: Apache-2.0
"""Single steps (thread_executed_insn) and steps over calls (thread_executed_insn_call)."""

import scrytest
from servicetest import *


class Steps(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("steps")
        self.process = self.attach(self.target_)
        self.number, self.csr = self.enable(f"thread_reached_addr([], {self.target_.outer}) : thread_stop([$proc])")

    def walk(self, service, n, limit):
        """The addresses from outer() to its end, by steps."""
        self.target_.send(str(n))
        self.triggered(self.number)
        number, csr = self.enable(f"{service}([]) : thread_read_int_regs([$thread], 16, 1)")
        self.ask(f": thread_continue([{self.process}])")
        found = []
        while not found or found[-1] != self.target_.outer_end:
            found.append(numbers(self.triggered(number).result())[0])
            self.assertLess(len(found), limit, [hex(address) for address in found])
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.target_.line(), str(n + 1))
        return found

    def test_instructions(self):
        names = self.target_.names
        found = self.walk("thread_executed_insn", 3, 200)
        # xor, call, 4 times inc test jz, 3 times dec call, and back: ret, 3 times nop ret, lea
        self.assertEqual(len(found), 2 + 4 * 3 + 3 * 2 + 1 + 3 * 2 + 1)
        self.assertEqual(found.count(names["recurse"]), 4)
        self.assertEqual(found.count(names["recurse_call"]), 3)
        self.assertEqual(found.count(names["recurse_after"]), 3)
        self.assertEqual(found[:2], [names["outer_call"], names["recurse"]])
        self.assertEqual(found[-2:], [names["outer_after"], names["outer_end"]])

    def test_over_calls(self):
        names = self.target_.names
        expected = [names["outer_call"], names["outer_after"], names["outer_end"]]
        for n in (0, 1, 100):
            self.assertEqual(self.walk("thread_executed_insn_call", n, 20), expected)

    def test_over_a_recursive_call(self):
        """From inside the recursion: the step ends in the same activation."""
        names = self.target_.names
        self.ask(f": csr_delete([{self.csr}])")
        at, at_csr = self.enable(f"thread_reached_addr([], {names['recurse_call']}) : thread_stop([$proc]) "
                                 "thread_read_int_regs([$thread], 7, 1) csr_disable([$csr])")
        self.target_.send("5")
        level = numbers(self.omis.reply(at, match=lambda r: r.status() == TRIGGERED).result(2))[0]
        number, csr = self.enable("thread_executed_insn_call([]) : thread_read_int_regs([$thread], 16, 1) "
                                  "thread_read_int_regs([$thread], 7, 1) thread_stop([$proc])")
        self.ask(f": thread_continue([{self.process}])")
        reply = self.triggered(number)
        self.assertEqual(numbers(reply.result(1)), [names["recurse_after"]])
        self.assertEqual(numbers(reply.result(2)), [level])
        # 1 was counted before, 5 in the call
        self.assertEqual(numbers(self.ask(f": thread_read_int_regs([{self.process}], 0, 1)").result()), [6])
        self.ask(f": csr_delete([{csr}]) thread_continue([{self.process}])")
        self.assertEqual(self.target_.line(), "6")

    def test_breakpoint_while_stepping(self):
        """Both events are raised where both match."""
        names = self.target_.names
        inner, _ = self.enable(f"thread_reached_addr([], {names['recurse']}) : print([1])")
        found = self.walk("thread_executed_insn", 2, 200)
        self.assertEqual(found.count(names["recurse"]), 3)
        for _ in range(3):
            self.triggered(inner)
        self.omis.quiet(inner, 0)

    def test_breakpoint_inside_a_call_stepped_over(self):
        names = self.target_.names
        inner, _ = self.enable(f"thread_reached_addr([], {names['recurse']}) : print([1])")
        found = self.walk("thread_executed_insn_call", 2, 20)
        self.assertEqual(found, [names["outer_call"], names["outer_after"], names["outer_end"]])
        for _ in range(3):
            self.triggered(inner)
        self.omis.quiet(inner, 0)

    def test_both_kinds(self):
        """Also with two tools; each continues when the other's request ends, and steps again."""
        names, other, action = self.target_.names, self.tool(), "thread_read_int_regs([$thread], 16, 1)"
        self.attach(self.target_, other)
        self.target_.send("1")
        self.triggered(self.number)
        into, into_csr = self.enable(f"thread_executed_insn([]) : {action}")
        over, over_csr = self.enable(f"thread_executed_insn_call([]) : {action}", other)
        self.ask(f": thread_continue([{self.process}])")
        found = []
        while names["outer_end"] not in found:
            found.append(numbers(self.triggered(into).result())[0])
        self.assertEqual(len(found), 2 + 4 + 3 + 1 + 3 + 1)
        self.assertEqual([numbers(self.triggered(over, other).result())[0] for _ in range(3)],
                         [names["outer_call"], names["outer_after"], names["outer_end"]])
        self.ask(f": csr_disable([{into_csr}])")
        self.omis.reply(into, match=lambda reply: reply.status() == DISABLED)
        self.triggered(over, other)
        self.ask(f": csr_enable([{into_csr}])")
        self.omis.reply(into, match=lambda reply: reply.status() == ENABLED and reply.ok())
        self.ask(f": csr_disable([{over_csr}])", other)
        self.assertEqual(self.target_.line(), "2")
        self.ask(f": csr_disable([{self.csr}])")
        self.target_.send("2")
        self.triggered(into)
        self.ask(": csr_delete([])")
        self.assertEqual(self.target_.line(), "3")

    def test_one_at_a_time(self):
        """A debugger's step: the thread is stopped after each instruction."""
        self.target_.send("1")
        self.triggered(self.number)
        number, csr = self.enable("thread_executed_insn([]) : thread_stop([$thread])")
        expected = [self.target_.outer_call, self.target_.recurse]
        for address in expected:
            self.ask(f": thread_continue([{self.process}])")
            self.triggered(number)
            self.assertEqual(numbers(self.ask(f": thread_read_int_regs([{self.process}], 16, 1)").result()), [address])
            self.omis.quiet(number, 0)
        self.ask(f": csr_delete([]) thread_continue([{self.process}])")
        self.assertEqual(self.target_.line(), "2")
        self.assertEqual(tracer_of(self.target_.pid), 0)
        self.target_.quit()

    def test_deleted_before_continued(self):
        """What an action changes in conditional requests holds for the actions behind it, also on other nodes."""
        self.target_.send("1")
        self.triggered(self.number)
        _, csr = self.enable("thread_has_been_continued([]) : thread_stop([$thread])")
        self.ask(f": csr_delete([{csr}]) thread_continue([{self.process}])")
        self.assertEqual(self.target_.line(), "2")
        self.target_.quit()


scrytest.main()
