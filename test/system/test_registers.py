# SPDX-License-Identifier: Apache-2.0
"""Registers, jumps, calls and stacks, of programs that know what theirs are."""

import re
from decimal import Decimal

import scrytest
from servicetest import *


class Registers(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("registers")
        self.process = self.attach(self.target_)
        self.expected = dict(self.target_.names)

        def in_loop():
            pc = numbers(self.ask(f": thread_read_int_regs([{self.process}], 16, 1)").result())[0]
            return pc in (self.target_.loop_start, self.target_.loop_jump)
        scrytest.wait_until(in_loop)

    def read(self, service, first, count):
        result = self.ask(f": thread_read_{service}_regs([{self.process}], {first}, {count})").result()
        return result.strip("[]").split(",")

    def finish(self):
        """Ends the loop; what the registers held."""
        self.ask(f": proc_write_memory([{self.process}], {self.target_.flag}, 1, 1, [1])")
        found = self.target_.introduction()
        self.target_.quit()
        return found

    def check(self, changed):
        found = self.finish()
        for name, value in found.items():
            wanted = changed.get(name, self.expected[name])
            self.assertEqual(value, wanted, name)

    def test_read_integers(self):
        values = list(map(int, self.read("int", 0, 32)))
        self.assertEqual(len(values), 17, "the run ends at the first number that is undefined")
        for i in (1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15):
            self.assertEqual(values[i], self.expected[f"int{i}"])
        self.assertEqual(values[0], self.target_.flag)
        self.assertIn(values[16], (self.target_.loop_start, self.target_.loop_jump))
        self.assertEqual(int(self.read("int", 9, 1)[0]), self.expected["int9"])
        flags, *segments = map(int, self.read("int", 49, 100))
        self.assertEqual(flags & 0x202, 0x202)
        self.assertEqual(len(segments), 6)
        self.assertNotEqual(int(self.read("int", 58, 2)[0]), 0)
        self.assertEqual(self.ask(f": thread_read_int_regs([{self.process}], 3, 0)").result(), "[]")
        for number in (17, 48, 56, 57, 60, 1000, -1):
            self.refused(f": thread_read_int_regs([{self.process}], {number}, 1)", PARAMETER_ERROR, "register number")
        self.check({})

    def test_write_integers(self):
        changed = {f"int{i}": 2 ** 64 - 1 - i * 12345 for i in (8, 9, 10, 11)}
        self.ask(f": thread_write_int_regs([{self.process}], 8, "
                 f"[{','.join(str(value) for value in changed.values())}])")
        self.ask(f": thread_write_int_regs([{self.process}], 15, [-5])")
        changed["int15"] = 2 ** 64 - 5
        self.refused(f": thread_write_int_regs([{self.process}], 16, [1, 2])", PARAMETER_ERROR,
                     "only registers 16 to 16")
        self.check(changed)

    def test_read_floats(self):
        values = self.read("fp", 17, 100)
        self.assertEqual(len(values), 24)
        for i in range(16):
            self.assertEqual(float(values[i]), self.expected[f"xmm{i}"])
        for i in range(3):
            self.assertRegex(values[16 + i], r"^[\d.e+-]+$")
            exact = Decimal(1) / Decimal(i + 7)
            self.assertLess(abs(Decimal(values[16 + i]) - exact), Decimal("1e-19"), "64 bits of precision")
        for number in (16, 41, -1):
            self.refused(f": thread_read_fp_regs([{self.process}], {number}, 1)", PARAMETER_ERROR, "register number")
        self.check({})

    def test_write_floats(self):
        """The upper halves of the xmm registers are kept."""
        changed = {"xmm0": 1e-300, "xmm1": -0.5, "xmm15": 123456.789}
        self.ask(f": thread_write_fp_regs([{self.process}], 17, [{changed['xmm0']}, -0.5])")
        self.ask(f": thread_write_fp_regs([{self.process}], 32, [{changed['xmm15']}, 0.3333333333333333333423684])")
        found = self.finish()
        for i in range(16):
            self.assertEqual(found[f"xmm{i}"], changed.get(f"xmm{i}", self.expected[f"xmm{i}"]))
            self.assertEqual(found[f"high{i}"], self.expected[f"high{i}"])
        self.assertEqual([found["st1"], found["st2"]], [self.expected["st1"], self.expected["st2"]])
        self.assertAlmostEqual(found["st0"], 1 / 3, 15)

    def test_extended_precision_survives(self):
        """What was read and written again is the same number, to the last bit."""
        values = self.read("fp", 33, 3)
        self.ask(f": thread_write_fp_regs([{self.process}], 33, [{','.join(values)}])")
        self.assertEqual(self.read("fp", 33, 3), values)
        self.assertGreaterEqual(max(len(re.sub(r"\D|e.*", "", value)) for value in values), 18)
        self.check({})

    def test_given_back(self):
        for _ in range(20):
            self.read("int", 0, 17)
            self.assertEqual(tracer_of(self.target_.pid), 0)
        self.check({})

    def test_goto(self):
        """Leaves the loop by setting the program counter after its jump."""
        self.ask(f": thread_goto([{self.process}], {self.target_.loop_jump + 2})")
        found = self.target_.introduction()
        self.assertEqual(found, {name: value for name, value in self.expected.items() if name in found})
        self.target_.quit()


class Calls(ServiceTest):
    def test_in_a_running_program(self):
        """callee() spoils everything that a function may spoil; the loop's registers are what they were."""
        puppet = self.target("puppet", 2)
        process = self.attach(puppet)
        threads = self.threads(process)
        puppet.do("spin 1")
        for i in range(10):
            self.ask(f": thread_call([{threads[puppet.workers[i % 2]]}], {puppet.callee})")
            scrytest.wait_until(lambda: puppet.numbers("called") == [i + 1])
        before = puppet.numbers("turns")
        scrytest.wait_until(lambda: all(now > then for now, then in zip(puppet.numbers("turns"), before)))
        puppet.do("spin 0")
        scrytest.wait_until(lambda: tracer_of(puppet.pid) == 0)
        puppet.quit()

    def test_registers_survive(self):
        target = self.target("registers")
        expected = dict(target.names)
        process = self.attach(target)

        def in_loop():
            return numbers(self.ask(f": thread_read_int_regs([{process}], 16, 1)").result())[0] in (
                target.loop_start, target.loop_jump)
        scrytest.wait_until(in_loop)
        self.ask(f": thread_call([{process}], {target.spoil})")
        scrytest.wait_until(lambda: self.read_number(process, target.spoiled) == 1)
        self.ask(f": proc_write_memory([{process}], {target.flag}, 1, 1, [1])")
        found = target.introduction()
        self.assertEqual(found, {name: expected[name] for name in found})
        target.quit()

    def test_in_a_system_call(self):
        """The program waits in read(); the function is called, and read() waits on."""
        puppet = self.target()
        process = self.attach(puppet)
        for i in range(5):
            scrytest.wait_until(lambda: scrytest.process_state(puppet.pid) == "S")
            self.ask(f": thread_call([{process}], {puppet.callee})")
            self.assertEqual(puppet.numbers("called"), [i + 1])
        scrytest.wait_until(lambda: tracer_of(puppet.pid) == 0)
        puppet.quit()

    def test_of_a_stopped_thread(self):
        """It is not continued by the call; the call happens when it is."""
        puppet = self.target()
        process = self.attach(puppet)
        self.ask(f": thread_stop([{process}])")
        before = numbers(self.ask(f": thread_read_int_regs([{process}], 0, 16)").result())
        self.ask(f": thread_call([{process}], {puppet.callee})")
        self.assertEqual(numbers(self.ask(f": thread_read_int_regs([{process}], 16, 1)").result()), [puppet.callee])
        self.ask(f": thread_continue([{process}])")
        self.assertEqual(puppet.numbers("called"), [1])
        self.assertEqual(len(before), 16)
        puppet.quit()

    def test_what_it_leaves(self):
        """As if the program had called it: where it goes on is the return address, and below it stand the callers. The
        result is told."""
        puppet = self.target()
        process = self.attach(puppet)
        number, _ = self.enable("scry_thread_call_returned([]) : print([$thread, $address, $result]) "
                                "thread_read_int_regs([$thread], 7, 1)")

        def ask_numbers(request):
            return numbers(self.ask(f": {request}").result())

        def stack():
            items = value(self.ask(f": thread_get_backtrace([{process}], 0)").result())[1]
            return [items[i:i + 2] for i in range(0, len(items), 2)]
        modules = value(self.ask(f": proc_get_loader_info([{process}])").result())[1]
        ends = [modules[i + 2] + modules[i + 3] for i in range(0, len(modules), 8) if modules[i].startswith("/")]
        before_bytes = [ask_numbers(f"proc_read_memory([{process}], {end}, {-end % 4096}, 4096, 1)") for end in ends]
        scrytest.wait_until(lambda: scrytest.process_state(puppet.pid) == "S")
        self.ask(f": thread_stop([{process}])")
        before, (pc, sp) = stack(), ask_numbers(f"thread_read_int_regs([{process}], 16, 1)") + ask_numbers(
            f"thread_read_int_regs([{process}], 7, 1)")
        self.ask(f": thread_call([{process}], {puppet.callee})")
        frame = ask_numbers(f"thread_read_int_regs([{process}], 7, 1)")[0]
        self.assertEqual(stack()[0][0], puppet.callee)
        self.assertEqual(stack()[1:], before)
        self.assertEqual(self.read_number(process, frame), pc)
        self.assertEqual([ask_numbers(f"proc_read_memory([{process}], {end}, {-end % 4096}, 4096, 1)") for end in ends],
                         before_bytes)
        self.ask(f": thread_continue([{process}])")
        told = self.triggered(number)
        self.assertRegex(told.result(), rf"^3,\[t_[\d_]+,{puppet.callee},-1\]$")
        self.assertEqual(numbers(told.result(2)), [sp])
        self.assertEqual(puppet.numbers("called"), [1])
        puppet.quit()

    def test_monitor_dies_in_the_call(self):
        puppet = self.target()
        process = self.attach(puppet)
        self.ask(f": thread_stop([{process}]) thread_call([{process}], {puppet.callee})")
        self.box.stop_monitor(9)
        self.assertEqual(puppet.do("hit 1"), "1")
        puppet.quit()


class Stacks(ServiceTest):
    def backtrace(self, token, depth=0, omis=None):
        count, *values = numbers(self.ask(f": thread_get_backtrace([{token}], {depth})").result())
        self.assertEqual(len(values), 2 * count)
        return values[0::2], values[1::2]

    def test_like_the_programs_own(self):
        """Optimised code without frame pointers, through a library and qsort of the C library."""
        target = self.target("stacks")
        process = self.attach(target)
        expected = target.names["frame"]
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "S")
        pcs, cfas = self.backtrace(process)
        start = pcs.index(expected[0])
        self.assertEqual(pcs[start:start + len(expected)], expected)
        self.assertLessEqual(start, 4, "read(), and the function that waits")
        self.assertLessEqual(len(pcs) - start - len(expected), 1)
        known = [cfa for cfa in cfas if cfa]
        self.assertEqual(known, sorted(known), "the stack grows downwards")
        self.assertEqual(self.backtrace(process, 3)[0], pcs[:3])
        self.assertEqual(len(self.backtrace(process, 1)[0]), 1)
        self.assertEqual(tracer_of(target.pid), 0)
        target.quit()

    def test_of_all_threads(self):
        target = self.target("puppet", 3)
        self.attach(target)
        reply = self.ask(": thread_get_backtrace([], 0)")
        self.assertEqual(len(reply.services[1]), 4)
        for entry in reply.services[1]:
            self.assertGreaterEqual(numbers(entry["result"])[0], 3)
        target.quit()

    def test_at_the_first_instruction(self):
        """Where no frame has been built yet."""
        target = self.target()
        process = self.attach(target)
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : thread_get_backtrace([$thread], 2)")
        target.do("hit 1")
        values = numbers(self.triggered(number).result())
        self.assertEqual(values[0:2], [2, target.hit])
        target.quit()


scrytest.main()
