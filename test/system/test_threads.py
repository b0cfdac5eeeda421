# SPDX-License-Identifier: Apache-2.0
"""Run states of threads: stop and continue, suspend and resume, their events; signals, priorities, detached threads."""

import os
import signal

import scrytest
from servicetest import *


class RunStates(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 3)
        self.process = self.attach(self.target_)
        self.tokens = self.threads(self.process)
        self.workers = [self.tokens[tid] for tid in self.target_.workers]

    def turns(self):
        at, size = self.target_.turns, self.target_.turn_size
        data = numbers(self.ask(f": proc_read_memory([{self.process}], {at}, 8, {size}, 3)").result())
        return [int.from_bytes(bytes(data[i:i + 8]), "little") for i in (0, 8, 16)]

    def assert_only_running(self, *running):
        """Those workers go on, the others do not."""
        first = self.turns()
        scrytest.wait_until(lambda: all(self.turns()[i] > first[i] + 1000 for i in running))
        if not running:
            for _ in range(3):
                self.ask(": version()")
        now = self.turns()
        for i in set(range(3)) - set(running):
            self.assertEqual(now[i], first[i], f"worker {i} must not run")

    def test_single_threads(self):
        self.target_.do("spin 1")
        self.ask(f": thread_stop([{self.workers[1]}])")
        self.assert_only_running(0, 2)
        self.ask(f": thread_stop([{self.workers[0]}, {self.workers[1]}])")
        self.assert_only_running(2)
        self.ask(f": thread_continue([{self.workers[1]}])")
        self.assert_only_running(1, 2)
        self.ask(": thread_stop([]) thread_stop([])")
        self.assert_only_running()
        self.ask(f": thread_continue([{self.process}])")
        self.assert_only_running(0, 1, 2)
        self.assertEqual(tracer_of(self.target_.pid), 0)
        self.target_.do("spin 0")
        self.target_.quit()

    def test_no_delayed_effects(self):
        """7.2.3: what follows a suspend finds the threads suspended."""
        self.target_.do("spin 1")
        read = f"proc_read_memory([{self.process}], {self.target_.turns}, 8, {self.target_.turn_size}, 3)"
        for _ in range(20):
            reply = self.ask(f": thread_suspend([{self.process}]) {read} {read} ; {read} thread_resume([])")
            self.assertEqual(reply.result(2), reply.result(3))
            self.assertEqual(reply.result(2), reply.result(4))
        self.target_.do("spin 0")

    def test_suspend_counts(self):
        self.target_.do("spin 1")
        worker = self.workers[0]
        self.ask(f": thread_suspend([{worker}]) thread_suspend([{worker}]) thread_stop([{worker}])")
        self.assert_only_running(1, 2)
        self.ask(f": thread_continue([{worker}]) thread_continue([{worker}])")
        self.assert_only_running(1, 2)
        self.ask(f": thread_resume([{worker}])")
        self.assert_only_running(1, 2)
        self.ask(f": thread_stop([{worker}]) thread_resume([{worker}])")
        self.assert_only_running(1, 2)
        self.refused(f": thread_resume([{worker}])", PARAMETER_ERROR, "not suspended")
        self.ask(f": thread_continue([{worker}])")
        self.assert_only_running(0, 1, 2)
        self.target_.do("spin 0")

    def test_events(self):
        """Of threads, and of the process only when all its threads are stopped, and when that ends."""
        thread_stopped, _ = self.enable("thread_has_been_stopped([]) : print([$thread])")
        thread_continued, _ = self.enable("thread_has_been_continued([]) : print([$thread])")
        stopped, _ = self.enable("proc_has_been_stopped([]) : print([$proc])")
        continued, _ = self.enable("proc_has_been_continued([]) : print([$proc])")
        self.assertEqual(tracer_of(self.target_.pid), 0, "to wait for these needs no tracing")
        worker = self.workers[0]
        self.ask(f": thread_stop([{worker}]) thread_stop([{worker}])")
        self.assertEqual(self.triggered(thread_stopped).result(), f"1,[{worker}]")
        self.omis.quiet(thread_stopped, 0)
        self.omis.quiet(stopped, 0)
        self.ask(f": thread_suspend([{self.workers[1]}])")
        self.omis.quiet(thread_stopped, 0)
        self.ask(": thread_stop([])")
        self.assertEqual({self.triggered(thread_stopped).result() for _ in range(3)},
                         {f"1,[{token}]" for token in self.tokens.values()} - {f"1,[{worker}]"})
        self.assertEqual(self.triggered(stopped).result(), f"1,[{self.process}]")
        self.ask(f": thread_continue([{worker}])")
        self.assertEqual(self.triggered(thread_continued).result(), f"1,[{worker}]")
        self.omis.quiet(continued, 0)
        self.ask(": thread_continue([])")
        for _ in range(3):
            self.triggered(thread_continued)
        self.assertEqual(self.triggered(continued).result(), f"1,[{self.process}]")
        for number in (thread_stopped, thread_continued, stopped, continued):
            self.omis.quiet(number, 0)
        self.ask(f": thread_resume([{self.workers[1]}])")

    def test_threads_that_are_being_made(self):
        """A process is stopped with those that it makes meanwhile, always."""
        target = self.target()
        process = self.attach(target)
        stopped, _ = self.enable(f"proc_has_been_stopped([{process}]) : print([$proc])")
        continued, _ = self.enable(f"proc_has_been_continued([{process}]) : print([$proc])")
        target.do("breed 4")
        for _ in range(scrytest.rounds(10, 100)):
            self.ask(f": thread_stop([{process}])")
            self.triggered(stopped)
            self.ask(f": thread_continue([{process}])")
            self.triggered(continued)

    def test_without_the_first_thread(self):
        target = self.target("puppet", 2)
        process = self.attach(target)
        stopped, _ = self.enable(f"proc_has_been_stopped([{process}]) : print([$proc])")
        continued, _ = self.enable(f"proc_has_been_continued([{process}]) : print([$proc])")
        self.assertEqual(target.do("leave"), "left")
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "Z")
        self.assertEqual(set(self.threads(process)), set(target.workers))
        self.ask(f": thread_stop([{process}])")
        self.triggered(stopped)
        self.ask(f": thread_continue([{process}])")
        self.triggered(continued)
        os.kill(target.pid, signal.SIGKILL)

    def test_threads_that_appear(self):
        """A process with a thread that was started after the last look is not all stopped by stopping the others."""
        target = self.target()
        process = self.attach(target)
        stopped, _ = self.enable(f"proc_has_been_stopped([{process}]) : print([$proc])")
        first = self.threads(process)[target.pid]
        self.ask(f": thread_stop([{first}])")
        self.triggered(stopped)
        self.ask(f": thread_continue([{first}])")
        tid = target.numbers("more")[0]
        self.ask(f": thread_stop([{first}])")
        self.omis.quiet(stopped, 0)
        self.ask(f": thread_stop([{self.threads(process)[tid]}])")
        self.triggered(stopped)
        self.ask(": thread_continue([])")

    def test_sleeping_threads(self):
        """Threads that wait in system calls are stopped and go on waiting."""
        for _ in range(5):
            self.ask(": thread_stop([]) ; thread_continue([])")
        self.assertEqual(self.target_.do("all 10"), "30")
        self.target_.quit()

    def test_signal_while_stopped(self):
        self.ask(": thread_stop([])")
        os.kill(self.target_.pid, signal.SIGUSR1)
        self.ask(": thread_continue([])")
        # it is the process's: any of its threads may have it
        scrytest.wait_until(lambda: self.target_.do("signals 10") != "0")
        self.assertEqual(self.target_.do("signals 10"), "1")

    def test_stopped_by_job_control(self):
        """A process stopped by SIGSTOP stays so, whatever we do; SIGCONT ends it."""
        os.kill(self.target_.pid, signal.SIGSTOP)
        scrytest.wait_until(lambda: scrytest.process_state(self.target_.pid) == "T")
        self.ask(": thread_stop([]) ; thread_read_int_regs([], 0, 17) thread_continue([])")
        scrytest.wait_until(lambda: tracer_of(self.target_.pid) == 0)
        scrytest.wait_until(lambda: scrytest.process_state(self.target_.pid) == "T")
        os.kill(self.target_.pid, signal.SIGCONT)
        self.assertEqual(self.target_.do("hit 1"), "1")
        self.target_.quit()

    def test_kill_while_stopped(self):
        gone, _ = self.enable("proc_has_terminated([]) : print([$proc])")
        self.ask(": thread_stop([]) proc_send_signal([], 9)")
        self.assertEqual(self.triggered(gone).result(), f"1,[{self.process}]")
        self.assertEqual(self.target_.ended(), -9)

    def test_thread_detach(self):
        """A detached thread is left alone: it runs, and raises nothing."""
        self.target_.do("spin 1")
        self.ask(f": thread_stop([{self.process}]) thread_detach([{self.workers[0]}])")
        self.assert_only_running(0)
        self.ask(": thread_continue([]) thread_stop([])")
        self.assert_only_running(0)
        self.ask(": thread_continue([])")
        self.target_.do("spin 0")
        number, _ = self.enable(f"thread_reached_addr([], {self.target_.hit}) : print([$thread])")
        self.target_.do("all 5")
        found = [self.triggered(number).result() for _ in range(10)]
        self.assertEqual(set(found), {f"1,[{token}]" for token in self.workers[1:]})
        self.omis.quiet(number, 0)

    def test_thread_detach_is_reported(self):
        """7.3.1: to the requests that watched it."""
        hit = self.target_.hit
        concerned = [self.enable(f"thread_reached_addr({objects}, {hit}) : print([$thread])")[0]
                     for objects in ("[]", f"[{self.process}]", f"[{self.workers[0]}, {self.workers[1]}]")]
        others = [self.enable(request)[0] for request in (f"thread_reached_addr([{self.workers[1]}], {hit}) : print([1])",
                                                          "proc_has_been_stopped([]) : print([1])")]
        self.ask(f": thread_detach([{self.workers[0]}])")
        for number in concerned:
            reply = self.omis.reply(number)
            self.assertEqual((reply.status(), reply.objects(), reply.status(1)), (DISABLED, [self.workers[0]], OK))
        for number in others:
            self.omis.quiet(number, 0)

    def test_tokens_are_kept(self):
        """A thread has the token that it had when the process is attached again, and its requests go on."""
        number, _ = self.enable(f"thread_reached_addr([{self.workers[0]}], {self.target_.hit}) : print([$thread])")
        self.ask(f": proc_detach([{self.process}])")
        self.assertEqual(self.omis.reply(number).status(), DISABLED)
        self.refused(f": thread_stop([{self.workers[0]}])", UNKNOWN_OBJECT, "attach")
        new = self.target_.numbers("more")[0]
        self.assertEqual(self.attach(self.target_), self.process)
        self.assertEqual(self.omis.reply(number).status(), ENABLED)
        tokens = self.threads(self.process)
        self.assertEqual([tokens[tid] for tid in self.target_.workers], self.workers)
        self.assertNotIn(tokens[new], self.tokens.values())
        self.target_.do("all 2")
        for _ in range(2):
            self.assertEqual(self.triggered(number).result(), f"1,[{self.workers[0]}]")
        self.omis.quiet(number, 0)

    def test_detached_threads_are_not_counted(self):
        counter = self.ask(": pa_counter_create()").result()
        self.ask(f": thread_detach([{self.workers[0]}])")
        self.enable(f"thread_reached_addr([], {self.target_.hit}) : pa_counter_add([{counter}], 1)")
        self.target_.do("all 5")
        self.assertEqual(self.ask(f": pa_counter_read([{counter}])").result(), "10")


class Signals(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target("puppet", 1)
        self.process = self.attach(self.target_)

    def count(self, signo):
        return self.target_.numbers(f"signals {signo}")[0]

    def test_send(self):
        self.ask(f": proc_send_signal([{self.process}], 10)")
        scrytest.wait_until(lambda: self.count(10) == 1)
        token = self.threads(self.process)[self.target_.pid]
        self.ask(f": thread_send_signal([{token}], 12)")
        scrytest.wait_until(lambda: self.count(12) == 1)
        self.ask(f": proc_send_signal([{self.process}], 0) thread_send_signal([], 0)")
        for service in ("proc", "thread"):
            self.refused(f": {service}_send_signal([], 65)", PARAMETER_ERROR, "sig")
            self.refused(f": {service}_send_signal([], -1)", PARAMETER_ERROR, "sig")
        self.assertEqual(tracer_of(self.target_.pid), 0)

    def test_received(self):
        number, csr = self.enable("thread_received_signal([], [10, 37]) : print([$sig, $thread, $fault])")
        token = self.threads(self.process)[self.target_.pid]
        for signo, count in ((10, 1), (12, 1), (10, 2), (37, 1)):
            self.assertEqual(self.target_.numbers(f"raise {signo}"), [count])
        self.assertEqual([self.triggered(number).result() for _ in range(3)],
                         [f"3,[{signo},{token},[]]" for signo in (10, 10, 37)])
        self.omis.quiet(number, 0)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(tracer_of(self.target_.pid), 0)

    def test_held_before_the_handler(self):
        number, _ = self.enable("thread_received_signal([], [12]) : thread_stop([$thread])")
        self.target_.send("raise 12")
        self.triggered(number)
        self.ask(": thread_continue([])")
        self.assertEqual(self.target_.line(), "1")

    def test_fatal(self):
        """A signal that kills is seen before, with the stack it happened at."""
        number, _ = self.enable("thread_received_signal([], [11]) : thread_get_backtrace([$thread], 0)")
        gone, _ = self.enable("proc_has_terminated([]) : print([$proc])")
        self.target_.send("raise 11")
        self.assertGreaterEqual(numbers(self.triggered(number).result())[0], 3)
        self.triggered(gone)
        self.assertEqual(self.target_.ended(), -11)


def usual_priority(case):
    """This one's nice value, from which a target's can still go up."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    if usual > 13:
        case.skipTest(f"the tests run with a nice value of {usual}")
    return usual


class Priorities(ServiceTest):
    def test_of_threads(self):
        target = self.target("puppet", 2)
        tokens = self.threads(self.attach(target))
        usual = usual_priority(self)
        self.ask(f": thread_set_priority([{tokens[target.workers[0]]}], {usual + 5})")
        found = {entry["result"]: entry["objects"] for entry in self.ask(": thread_get_info([], 1024)").services[1]}
        self.assertEqual(found[str(usual + 5)], [tokens[target.workers[0]]])
        self.assertEqual(target.numbers("nice"), [usual])


class OrdinaryUser(ServiceTest):
    user = scrytest.Sandbox.ordinary_user()

    def test_priority_cannot_be_raised(self):
        target = self.target("puppet", 1)
        process = self.attach(target)
        usual = usual_priority(self)
        self.ask(f": proc_set_priority([{process}], {usual + 5}) proc_set_priority([{process}], {usual + 6})")
        self.refused(f": proc_set_priority([{process}], {usual + 5})", NO_PERMISSION, "privileged")
        self.refused(f": thread_set_priority([{process}], {usual})", NO_PERMISSION, "privileged")
        self.assertEqual(target.numbers("nice"), [usual + 6])

    def test_other_users_process(self):
        mine = os.stat(f"/proc/{self.omis.pid}").st_uid
        others = [pid for pid in os.listdir("/proc") if pid.isdigit() and
                  int(scrytest.process_status(pid).get("Uid", f"{mine} {mine}").split()[1]) != mine]
        if not others:
            self.skipTest("all processes here belong to one user")
        self.refused(f': proc_attach3([n_1], {others[0]}, "")', NO_PERMISSION, r"belongs to user \d+")

    def test_works_as_well(self):
        """What one may do with one's own processes needs no privilege."""
        target = self.target("puppet", 2)
        process = self.attach(target)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.do("hit 3")
        for _ in range(3):
            self.triggered(number)
        self.ask(f": csr_delete([{csr}]) thread_stop([]) thread_get_backtrace([], 0) thread_continue([]) "
                 f"proc_get_info([], {2 ** 25 - 1}) proc_read_memory([], {target.buffer}, 1, 1, 1)")
        target.quit()


scrytest.main()
