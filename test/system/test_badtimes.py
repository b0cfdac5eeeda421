# SPDX-License-Identifier: Apache-2.0
"""Bad times: the monitor, its tracer, a tool or the job die at the worst moment; somebody else traces the job. What is
watched goes on to its correct end."""

import os
import re
import signal
import subprocess

import scrytest
from servicetest import *


class MonitorDies(ServiceTest):
    spread = False  # of the program's own machine

    """SIGKILL to the monitor; its tracer repairs what was changed."""

    def kill_monitor(self):
        pids = {pid: scrytest.process_status(pid)["Name"] for pid in self.box.processes("scry-")}
        tracers = [pid for pid, name in pids.items() if "scry" not in name]
        self.assertEqual(set(pids) - set(tracers), {self.box.monitor_pid()}, "`pkill -9 scry` means it alone")
        self.box.stop_monitor(signal.SIGKILL)
        for pid in tracers:
            scrytest.wait_until(lambda: scrytest.process_gone(pid))

    def assert_unharmed(self, target):
        self.assertEqual(tracer_of(target.pid), 0)
        with open(f"/proc/{target.pid}/mem", "rb") as file:
            file.seek(target.hit)
            self.assertNotEqual(file.read(1), b"\xcc")
        target.quit()

    def test_breakpoints_at_rest(self):
        target = self.target("puppet", 2)
        self.attach(target)
        self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.do("hit 1")
        self.kill_monitor()
        self.assertEqual(target.do("hit 5"), "6")
        self.assertEqual(target.do("all 100"), "206")
        self.assert_unharmed(target)

    def test_breakpoints_that_are_hit(self):
        """Killed while four threads run over the breakpoint, of which one is held: before its list has run, and after."""
        for point in ("traced.held", "traced.done"):
            pause = self.box.pause(point)
            target = self.target("puppet", 4)
            self.attach(target)
            self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
            with pause:
                target.send("all 1000")
                self.assertEqual(pause.reached(), self.box.monitor_pid())
                self.kill_monitor()
            self.assertEqual(target.line(60), "4000")
            self.assert_unharmed(target)
            self.omis.close()
            self.omis = self.tool()

    def test_stopped_suspended_and_held(self):
        target = self.target("puppet", 3)
        process = self.attach(target)
        tokens = self.threads(process)
        target.do("spin 1")
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : thread_stop([$thread])")
        target.send("hit 1")
        self.triggered(number)
        self.ask(f": thread_stop([{tokens[target.workers[0]]}]) thread_suspend([{tokens[target.workers[1]]}])")
        self.kill_monitor()
        self.assertEqual(target.line(), "1")
        before = target.numbers("turns")
        scrytest.wait_until(lambda: all(now > then for now, then in zip(target.numbers("turns"), before)))
        target.do("spin 0")
        self.assert_unharmed(target)

    def test_steps_and_system_calls(self):
        for service in ("thread_executed_insn([])", "thread_executed_insn_call([])",
                        'thread_has_started_sys_call([], "read")', 'thread_has_ended_sys_call([], "write")'):
            target = self.target("steps")
            self.attach(target)
            number, _ = self.enable(f"{service} : print([1])")
            target.send("3")
            self.triggered(number)
            self.kill_monitor()
            self.assertEqual(target.line(), "4", service)
            self.assertEqual(target.do("9"), "10", service)
            target.quit()
            self.omis.close()
            self.omis = self.tool()

    def test_created_and_not_continued(self):
        """A program that was created stopped runs, and ends."""
        out = self.box.path("tmp", "out")
        self.ask(f': proc_create([n_1], "/bin/sh", ["-c", "echo done"], [], ["/dev/null", "{out}"])')
        self.kill_monitor()

        def done():
            with open(out, encoding="utf-8") as file:
                return file.read() == "done\n"
        scrytest.wait_until(done)

    def test_held_child(self):
        """Killed while a new process has not started yet."""
        target = self.target()
        self.attach(target)
        number, _ = self.enable("thread_creates_proc([]) : proc_attach([$new_proc]) thread_stop([$new_proc])")
        self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.send("fork")
        self.omis.reply(number, match=lambda reply: reply.status() == TRIGGERED)
        self.kill_monitor()
        self.assertRegex(target.line(), r"^\d+ 42$")
        self.assert_unharmed(target)

    def test_job_stopped_by_sigstop(self):
        """What the user stopped stays stopped."""
        target = self.target()
        self.attach(target)
        self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        os.kill(target.pid, signal.SIGSTOP)
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) in ("T", "t"))
        self.kill_monitor()
        scrytest.wait_until(lambda: scrytest.process_state(target.pid) == "T")
        os.kill(target.pid, signal.SIGCONT)
        self.assertEqual(target.do("hit 1"), "1")
        self.assert_unharmed(target)

    def test_orderly_end(self):
        target = self.target("puppet", 2)
        process = self.attach(target)
        self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        self.ask(f": thread_stop([{process}])")
        self.box.stop_monitor(signal.SIGTERM)
        self.assertEqual(target.do("hit 5"), "5")
        self.assert_unharmed(target)


class MonitorIsStopped(ServiceTest):
    spread = False

    def test_while_it_should_let_go(self):
        """Threads do not wait longer for it than for an agent's; when it runs again, it watches again."""
        target = self.target()
        self.attach(target)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        try:
            self.assertEqual(target.do("hit 1000"), "1000")
        finally:
            os.kill(monitor, signal.SIGCONT)
        self.triggered(number)  # the one that was held

        def is_told():
            with open(self.box.path("run", "monitor.log"), encoding="utf-8") as file:
                return re.search("1 threads? .* let go on", file.read())
        scrytest.wait_until(is_told)
        self.assertEqual(target.do("hit 1"), "1001")
        self.triggered(number)
        target.quit()


class TracerDies(ServiceTest):
    spread = False

    def tracer(self):
        """Not its guard, which is its child."""
        pids = list(self.box.processes("scry-tracer"))
        return [pid for pid in pids if int(scrytest.process_status(pid)["PPid"]) not in pids][0]

    def test_watching_goes_on(self):
        """Breakpoints, watches and stops are set up again; the program's code is its own."""
        target = self.target("puppet", 2)
        process = self.attach(target)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        calls, _ = self.enable('thread_has_started_sys_call([], "pwrite64") : print([1])')
        worker = self.threads(process)[target.workers[0]]
        self.ask(f": thread_suspend([{worker}])")
        target.do("hit 1")
        self.triggered(number)
        old = self.tracer()
        os.kill(old, signal.SIGKILL)
        scrytest.wait_until(lambda: tracer_of(target.pid) not in (0, old))
        self.ask(": version()")  # answered when everything is set up again
        target.do("hit 2")
        for _ in range(2):
            self.triggered(number)
        target.do("call")
        self.triggered(calls)
        scrytest.wait_until(lambda: process_state_of(target.pid, target.workers[0]) in ("t", "T"))
        self.ask(f": thread_resume([{worker}]) csr_delete([])")
        self.assertEqual(tracer_of(target.pid), 0)
        self.assertEqual(target.do("hit 3"), "6")
        target.quit()

    def test_while_it_is_set_up_again(self):
        """The next tracer dies before it has what the first one had: the one after that gets it."""
        target = self.target("puppet", 2)
        process = self.attach(target)
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        worker = self.threads(process)[target.workers[0]]
        self.ask(f": thread_suspend([{worker}])")
        with self.box.pause("tracing.seize") as pause:
            old = self.tracer()
            os.kill(old, signal.SIGKILL)
            pause.reached()
            scrytest.wait_until(lambda: tracer_of(target.pid) == 0)
            os.kill(self.tracer(), signal.SIGKILL)
        scrytest.wait_until(lambda: tracer_of(target.pid) not in (0, old))
        self.ask(": version()")
        target.do("hit 1")
        self.triggered(number)
        scrytest.wait_until(lambda: process_state_of(target.pid, target.workers[0]) in ("t", "T"))
        self.ask(f": thread_resume([{worker}]) csr_delete([])")
        target.quit()

    def test_services_go_on(self):
        target = self.target()
        process = self.attach(target)
        self.ask(f": thread_read_int_regs([{process}], 0, 17)")
        os.kill(self.tracer(), signal.SIGKILL)
        scrytest.wait_until(lambda: self.omis.request(f": thread_read_int_regs([{process}], 0, 17)").ok())
        target.quit()

    def test_with_the_monitor(self):
        """Only the guard is left when a thread is held."""
        pause = self.box.pause("traced.held")
        target = self.target()
        self.attach(target)
        self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        with pause:
            target.send("hit 1")
            monitor, tracer = pause.reached(), self.tracer()
            os.kill(monitor, signal.SIGKILL)
            os.kill(tracer, signal.SIGKILL)
            self.assertEqual(target.line(), "1")
        scrytest.wait_until(lambda: not list(self.box.processes("scry-tracer")))
        self.assertEqual(target.do("hit 3"), "4")
        target.quit()

    def test_three_times(self):
        """It is not started again and again."""
        target = self.target("puppet", 2)
        process = self.attach(target)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        old = 0
        for _ in range(3):
            scrytest.wait_until(lambda: tracer_of(target.pid) not in (0, old))
            old = tracer_of(target.pid)
            self.ask(": version()")  # the monitor has done what it does with a new one
            os.kill(old, signal.SIGKILL)
        disabled = self.omis.reply(number)
        self.assertEqual(disabled.status(1), OS_ERROR)
        self.assertIn("the tracer died three times within a minute", disabled.result())
        self.refused(f": thread_stop([{process}])", OS_ERROR, "died three times")
        self.assertEqual(target.do("hit 3"), "3")
        target.quit()

    def test_stopped_at_its_start(self):
        """By its name, and the monitor killed: the guard is not stopped with it, and without a guard it ends as well."""
        for point in ("guard.begun", "tracer.before-guard"):
            omis, target = self.tool(), self.target()
            process = self.attach(target, omis)
            with self.subTest(point), self.box.pause(point) as pause:
                omis.send(f": thread_stop([{process}])")
                pause.reached()
                tracers = []

                def is_named():  # who begins may not have its name yet
                    names = {pid: scrytest.process_status(pid)["Name"] for pid in self.box.processes("scry-tracer")}
                    tracers[:] = [pid for pid, name in names.items() if name == "job-tracer"]
                    return len(tracers) == 1
                scrytest.wait_until(is_named)
                os.kill(tracers[0], signal.SIGSTOP)
                scrytest.wait_until(lambda: scrytest.process_state(tracers[0]) == "T")
                pause.release()
                self.box.stop_monitor(signal.SIGKILL)
                scrytest.wait_until(lambda: scrytest.process_gone(tracers[0]))
                self.assertEqual(tracer_of(target.pid), 0)
                target.quit()

    def test_stopped(self):
        """Its guard lets it go on, also while the monitor is stopped: neither threads nor new processes wait longer."""
        target = self.target()
        self.attach(target)
        number, _ = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        self.enable("thread_creates_proc([]) : print([1])")
        tracer, monitor = self.tracer(), self.box.monitor_pid()
        for others in ([], [monitor]):
            try:
                for pid in [tracer, *others]:  # both are stopped before they do anything more; the guard may let one go on soon
                    os.kill(pid, signal.SIGSTOP)
                target.do("hit 1")
                self.assertRegex(target.do("fork"), r"^\d+ 42$")
            finally:
                for pid in [tracer, *others]:
                    os.kill(pid, signal.SIGCONT)
            self.triggered(number)
        self.assertEqual(self.tracer(), tracer)
        target.quit()


def process_state_of(pid, tid):
    return scrytest.process_status(pid, tid).get("State", "?")[0]


class TargetDies(ServiceTest):
    def test_in_the_middle(self):
        """With everything on; while one of its threads is held: before its list has run, and after."""
        for point in ("traced.held", "traced.done"):
            pause = self.box.pause(point)
            target = self.target("puppet", 4)
            process = self.attach(target)
            gone, _ = self.enable(f"proc_has_terminated([{process}]) : print([1])")
            self.enable(f"thread_reached_addr([{process}], {target.hit}) : "
                        "thread_get_backtrace([$proc], 0) thread_read_int_regs([$proc], 0, 17)")
            with pause:
                target.send("all 1000")
                pause.reached()
                target.process.kill()
            self.omis.reply(gone)
            self.ask(": csr_delete([])")
        self.wait_for_attached()

    def test_while_it_is_hit(self):
        """At any time."""
        target = self.target("puppet", 4)
        process = self.attach(target)
        gone, _ = self.enable(f"proc_has_terminated([{process}]) : print([1])")
        number, _ = self.enable(f"thread_reached_addr([{process}], {target.hit}) : "
                                "thread_get_backtrace([$proc], 0) thread_read_int_regs([$proc], 0, 17)")
        target.send("all 1000")
        self.triggered(number)
        target.process.kill()
        self.omis.reply(gone)
        self.ask(": csr_delete([])")
        self.wait_for_attached()

    def test_while_stopped(self):
        target = self.target("puppet", 4)
        process = self.attach(target)
        gone, _ = self.enable("proc_has_terminated([]) : print([1])")
        self.ask(": thread_stop([]) thread_suspend([])")
        target.process.kill()
        self.triggered(gone)
        scrytest.wait_until(lambda: not self.omis.request(f": thread_continue([{process}])").ok())
        self.refused(f": thread_continue([{process}])", UNKNOWN_OBJECT, "any more")


class OtherTracers(ServiceTest):
    """gdb and strace are stock ones."""

    def debugger(self, target, *commands):
        options = [part for command in commands for part in ("-ex", command)]
        return self.box.run(["gdb", "-nx", "-batch", "-p", str(target.pid), *options])

    def test_gdb_with_a_watched_process(self):
        """gdb comes and goes. With no ptrace service in use, neither disturbs the other."""
        target = self.target("puppet", 2)
        process = self.attach(target)
        gone, _ = self.enable("proc_has_terminated([]) : print([1])")
        done = self.debugger(target, "info threads", "bt")
        self.assertIn("puppet", done.stdout + done.stderr)
        self.assertIn("Thread", done.stdout)
        self.assertNotIn("Operation not permitted", done.stderr)
        self.assertEqual(target.do("hit 2"), "2")
        self.assertEqual(self.ask(f": proc_get_info([{process}], 512)").result(), str(target.pid))
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.do("hit 1")
        self.triggered(number)
        self.ask(f": csr_delete([{csr}])")
        # and the reverse: after us
        done = self.debugger(target, "info threads")
        self.assertIn("Thread", done.stdout)
        self.assertEqual(target.do("hit 1"), "4")
        target.quit()
        self.triggered(gone)

    def test_traced_by_gdb(self):
        """Services that need tracing name the tracer; the others work. When gdb has gone, all work."""
        target = self.target("puppet", 1)
        gdb = self.box.start(["gdb", "-nx", "-q", "-p", str(target.pid)], stdin=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        scrytest.wait_until(lambda: {tracer_of(task) for task in (target.pid, *target.workers)} == {gdb.pid}, 20)
        process = self.attach(target)
        self.assertEqual(self.ask(f": proc_get_info([{process}], 512)").result(), str(target.pid))
        self.ask(f": proc_read_memory([{process}], {target.buffer}, 1, 1, 1)")
        for service in (f"thread_stop([{process}])", f"thread_read_int_regs([{process}], 0, 1)",
                        f"thread_get_backtrace([{process}], 0)"):
            self.refused(f": {service}", NO_PERMISSION, rf"traced by gdb, pid {gdb.pid}")
        number, csr = self.define(f"thread_reached_addr([], {target.hit}) : print([1])")
        self.ask(f": csr_enable([{csr}])")
        enabled = self.omis.reply(number)
        self.assertEqual(enabled.status(1), NO_PERMISSION)
        self.assertIn(f"traced by gdb, pid {gdb.pid}", enabled.result())
        gdb.stdin.write("detach\nquit\n")
        gdb.stdin.flush()
        gdb.wait(20 * scrytest.SCALE)
        self.ask(f": csr_disable([{csr}])")
        self.assertEqual(self.omis.reply(number).status(), DISABLED)
        self.ask(f": csr_enable([{csr}])")
        self.assertTrue(self.omis.reply(number).ok())
        target.do("hit 1")
        self.triggered(number)
        self.ask(f": csr_delete([{csr}])")
        target.quit()

    def test_traced_by_strace(self):
        target = self.target()
        process = self.attach(target)
        strace = self.box.start(["strace", "-p", str(target.pid), "-o", self.box.path("tmp", "trace")],
                                stderr=subprocess.DEVNULL)
        scrytest.wait_until(lambda: tracer_of(target.pid) == strace.pid)
        self.refused(f": thread_stop([{process}])", NO_PERMISSION, f"traced by strace, pid {strace.pid}")
        self.assertEqual(target.do("hit 1"), "1")
        strace.terminate()
        strace.wait(20 * scrytest.SCALE)
        self.ask(f": thread_stop([{process}]) thread_continue([{process}])")
        target.quit()

    def test_our_tracing_refuses_gdb(self):
        """While a breakpoint is set, gdb learns that somebody traces; nothing else happens."""
        target = self.target()
        self.attach(target)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        done = self.debugger(target, "bt")
        self.assertRegex(done.stdout + done.stderr, "Operation not permitted|already traced")
        target.do("hit 1")
        self.triggered(number)


class NothingIsLeft(ServiceTest):
    def test_quiet_monitor(self):
        """Nothing happens: no wake-ups but the sampler's and the guard's, once a second."""
        target = self.target()
        self.attach(target)
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.do("hit 1")
        self.triggered(number)
        pids = list(self.box.processes("scry-"))
        self.assertEqual(len(pids), 3, "the monitor, its tracer and that one's guard")

        def switches():
            return {pid: int(scrytest.process_status(pid)["voluntary_ctxt_switches"]) for pid in pids}
        scrytest.wait_until(lambda: all(scrytest.process_state(pid) == "S" for pid in pids))
        began, before = time.monotonic(), switches()
        time.sleep(1.0)  # what must not happen cannot be waited for
        after, seconds = switches(), time.monotonic() - began
        for pid, count in after.items():
            self.assertLessEqual(count - before[pid], 1 + int(seconds), scrytest.process_status(pid)["Name"])

    def test_small(self):
        """RSS of the monitor with a job attached and used."""
        target = self.target("puppet", 8)
        process = self.attach(target)
        self.ask(f": thread_get_backtrace([], 0) proc_get_info([], {2 ** 25 - 1}) node_get_info([], {2 ** 14 - 1}) "
                 "proc_get_loader_info([])")
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
        target.do("all 20")
        for _ in range(160):
            self.triggered(number)
        rss = int(scrytest.process_status(self.box.monitor_pid())["VmRSS"].split()[0])
        if "ASAN_OPTIONS" not in os.environ:
            self.assertLessEqual(rss, 12 * 1024)

    def test_no_descriptors_are_lost(self):
        def descriptors():
            return len(os.listdir(f"/proc/{self.box.monitor_pid()}/fd"))

        def use():
            target = self.target("puppet", 2)
            process = self.attach(target)
            number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([1])")
            target.do("hit 1")
            self.triggered(number)
            self.ask(f": thread_get_backtrace([], 0) csr_delete([{csr}]) proc_detach([{process}])")
            target.quit()
        use()
        before = descriptors()
        for _ in range(10):
            use()
        self.assertEqual(descriptors(), before)


scrytest.main()
