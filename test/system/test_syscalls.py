# SPDX-License-Identifier: Apache-2.0
"""System calls by name, with their parameters and results; scheduling events."""

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
        ended, _ = self.enable('thread_has_ended_sys_call([], "pwrite64") : print([$par1,$par2,$par3,$par4,$par5])')
        number, result, *parameters = self.target_.numbers("call")
        self.assertEqual(numbers(self.triggered(started).result()), [5, number, *parameters])
        self.assertEqual(numbers(self.triggered(ended).result()), [5, result, *parameters])
        for request in (started, ended):
            self.omis.quiet(request, 0)

    def test_as_many_as_it_has(self):
        started, _ = self.enable('thread_has_started_sys_call([], "dup2") : print([$par2]) print([$par3])')
        ended, _ = self.enable('thread_has_ended_sys_call([], "dup2") : print([$par1])')
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
        number, _ = self.enable('thread_has_ended_sys_call([], "read") : print([$par1])')
        self.target_.do("hit 1")
        self.assertEqual(numbers(self.triggered(number).result())[0], 1)

    def test_exec(self):
        started, _ = self.enable('thread_has_started_sys_call([], "execve") : print([$par1])')
        ended, _ = self.enable('thread_has_ended_sys_call([], "execve") : print([$par1])')
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


scrytest.main()
