# SPDX-License-Identifier: Apache-2.0
"""System calls by name, with their parameters and results; scheduling events."""

import time

import scrytest
from servicetest import *


class SystemCalls(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 2)
        self.process = self.attach(self.target_)

    def test_parameters_and_result(self):
        started, _ = self.enable('thread_has_started_sys_call([], "pwrite64") : '
                                 "print([$par0,$par1,$par2,$par3,$par4])")
        ended, _ = self.enable('thread_has_ended_sys_call([], "pwrite64") : print([$par0,$par1,$par2,$par3,$par4])')
        former, _ = self.enable('scry_thread_has_ended_sys_call([], "pwrite64") : '
                                "print([$par1,$par2,$par3,$par4,$par5])")
        number, result, *parameters = self.target_.numbers("call")
        self.assertEqual(numbers(self.triggered(started).result()), [5, number, *parameters])
        for request in (ended, former):
            self.assertEqual(numbers(self.triggered(request).result()), [5, result, *parameters])
        for request in (started, ended, former):
            self.omis.quiet(request, 0)

    def test_as_many_as_it_has(self):
        started, _ = self.enable('thread_has_started_sys_call([], "dup2") : print([$par2]) print([$par3])')
        ended, _ = self.enable('thread_has_ended_sys_call([], "dup2") : print([$par0])')
        _, result = self.target_.numbers("fail")
        reply = self.triggered(started)
        self.assertEqual(reply.result(1), "1,[55]")
        self.assertEqual(reply.status(2), UNKNOWN_ECP)
        self.assertEqual(numbers(self.triggered(ended).result()), [1, result])

    def test_before_and_after(self):
        """The thread is held before the call has an effect, and after it."""
        target = self.target_
        order = [self.enable('thread_has_started_sys_call([], "pwrite64") : thread_stop([$thread])')[0],
                 self.enable('thread_has_ended_sys_call([], "pwrite64") : thread_stop([$thread])')[0]]
        target.send("call")
        for number in order:
            self.triggered(number)
            self.assertIn(scrytest.process_state(target.pid), ("t", "T"))
            self.omis.quiet(order[1], 0)
            self.ask(": thread_continue([])")
        self.assertEqual(target.line().split()[1], "77")

    def test_several_calls_at_once(self):
        names = ("pwrite64", "openat", "close")
        requests = {name: self.enable(f'thread_has_ended_sys_call([], "{name}") : print([$par1])')[0] for name in names}
        self.target_.do("call")
        for number in requests.values():
            self.triggered(number)
            self.omis.quiet(number, 0)

    def test_no_longer_watched(self):
        number, csr = self.enable('thread_has_started_sys_call([], "pwrite64") : print([1])')
        self.target_.do("call")
        self.triggered(number)
        self.ask(f": csr_disable([{csr}])")
        self.assertEqual(self.omis.reply(number).status(), DISABLED)
        self.assertEqual(tracer_of(self.target_.pid), 0)
        self.target_.do("call")
        self.omis.quiet(number, 0)
        self.target_.quit()

    def test_of_threads_that_wait(self):
        """A call that was entered before is seen when it ends."""
        number, _ = self.enable('thread_has_ended_sys_call([], "read") : print([$par0])')
        self.target_.do("hit 1")
        self.assertEqual(numbers(self.triggered(number).result())[0], 1)

    def test_exec(self):
        started, _ = self.enable('thread_has_started_sys_call([], "execve") : print([$par1])')
        ended, _ = self.enable('thread_has_ended_sys_call([], "execve") : print([$par0])')
        self.target_.send("exec")
        self.target_.introduction()
        self.triggered(started)
        self.assertEqual(numbers(self.triggered(ended).result()), [1, 0])
        self.target_.quit()


class Scheduling(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 1)
        self.process = self.attach(self.target_)
        if self.omis.request("thread_has_blocked([]) : version()").status(1) == UNSUPPORTED_SERVICE:
            self.skipTest("the kernel does not show context switches here")
        self.ask(": csr_delete([])")

    def start(self, service, actions):
        number, csr = self.define(f"{service}([]) : {actions}")
        self.ask(f": csr_enable([{csr}])")
        enabled = self.omis.reply(number)
        self.assertEqual(enabled.status(), ENABLED)
        self.assertTrue(enabled.ok())
        self.assertRegex(enabled.result(), "asynchronous")
        return number

    def wait_for_sleep(self):
        scrytest.wait_until(lambda: scrytest.process_state(self.target_.pid) == "S", 10,
                            lambda: f"the target sleeps: {scrytest.process_state(self.target_.pid)}")

    def test_blocked_and_unblocked(self):
        token = self.threads(self.process)[self.target_.pid]
        blocked = self.start("thread_has_blocked", "print([$thread])")
        unblocked = self.start("thread_has_been_unblocked", "print([$thread])")
        for _ in range(3):  # what it did while the watch began may be told by halves
            self.wait_for_sleep()  # it need not, if the next command is there before it asks for it
            self.target_.do("hit 1")
        for number in (unblocked, blocked):
            self.omis.reply(number, match=lambda r: r.status() == TRIGGERED and r.result() == f"1,[{token}]")
        self.assertEqual(tracer_of(self.target_.pid), 0)

    def test_scheduled(self):
        requests = [self.start(service, "print([$proc])") for service in
                    ("proc_has_been_scheduled", "proc_has_been_descheduled", "thread_has_been_scheduled",
                     "thread_has_been_descheduled")]
        self.wait_for_sleep()
        self.target_.do("hit 1")
        for number in requests:
            self.triggered(number)
        self.ask(": csr_delete([])")
        self.target_.quit()

    def test_own_stops_are_no_events(self):
        """A list that stops the thread it hears of does not hear of its own work; a sleep that it interrupts is one."""
        token = self.threads(self.process)[self.target_.pid]
        self.wait_for_sleep()
        numbers = [self.start(service, f"thread_stop([$thread]) thread_continue([$thread]) print([$thread])")
                   for service in ("thread_has_blocked", "thread_has_been_unblocked", "thread_has_been_scheduled",
                                   "thread_has_been_descheduled")]
        for _ in range(5):
            self.ask(f": thread_stop([{token}])")
            self.ask(f": thread_continue([{token}])")
        self.wait_for_sleep()
        for number in numbers:  # ten stops: a list that fed itself would go on for ever; a busy node may delay one sleep
            self.assertLess(len([reply for reply in self.omis.waiting if reply.number == number]), 5)
        self.target_.do("hit 1")
        for number in numbers:
            self.assertEqual(self.triggered(number).result(3), f"1,[{token}]")
        self.wait_for_sleep()
        self.ask(": csr_disable([])")
        for number in numbers:  # it may have slept a few times more, for each byte of its command, while it was busy
            more = [reply for reply in self.omis.waiting if reply.number == number]
            self.assertLess(len(more), 20, more)

    def test_other_tools_have_their_turn(self):
        """Whatever a list does at each switch of busy threads."""
        other = self.tool()
        target = self.target("puppet", 3)
        process = self.attach(target)
        for service in ("thread_has_been_scheduled", "thread_has_been_descheduled"):
            _, csr = self.define(f"{service}([{process}]) : thread_stop([$thread]) thread_continue([$thread])")
            self.omis.send(f": csr_enable([{csr}])")
        target.do("spin 1")
        times = []
        for _ in range(20):
            begun = time.monotonic()
            self.ask(": version()", other)
            times.append(time.monotonic() - begun)
            time.sleep(0.02)
        self.assertLess(sorted(times)[10], 0.1 * scrytest.SCALE, times)
        self.assertLess(max(times), 1 * scrytest.SCALE, times)


scrytest.main()
