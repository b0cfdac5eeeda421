# SPDX-License-Identifier: Apache-2.0
"""Processes and threads that come and go: creation by the monitoring system and by the program, and the end."""

import os
import signal

import scrytest
from servicetest import *


class Created(ServiceTest):
    """proc_create."""

    def create(self, program, arguments="[]", environment="[]", io="[]"):
        return self.ask(f': proc_create([n_1], "{program}", {arguments}, {environment}, {io})').result()

    def test_stopped_until_continued(self):
        out = self.box.path("tmp", "out")
        process = self.create("/bin/sh", '["-c", "echo $0 $1 $VALUE; pwd", "one", "two words"]',
                              '["VALUE=of it", "A=b"]', f'["", "{out}", "{out}2"]')
        pid = numbers(self.ask(f": proc_get_info([{process}], 512)").result())[0]
        self.assertIn(scrytest.process_state(pid), ("t", "T"))
        self.assertEqual(numbers(self.ask(f": proc_get_info([{process}], 1024)").result()), [4])
        self.assertEqual(os.path.getsize(out), 0)
        gone, _ = self.enable("proc_has_terminated([]) : print([$proc])")
        self.ask(f": thread_continue([{process}])")
        self.assertEqual(self.triggered(gone).result(), f"1,[{process}]")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.readline(), "one two words of it\n")

    def test_at_its_first_instruction(self):
        """Breakpoints can be set before anything runs."""
        out = self.box.path("tmp", "out")
        process = self.create("/bin/true", "[]", "[]", f'["/dev/null", "{out}", ""]')
        ended, _ = self.enable(f"thread_has_terminated([{process}]) : print([$thread])")
        self.assertGreater(numbers(self.ask(f": thread_read_int_regs([{process}], 16, 1)").result())[0], 4096)
        self.ask(f": thread_continue([{process}])")
        self.triggered(ended)

    def test_failures(self):
        for program, pattern in (("/no/such/program", "No such file"), ("/etc/passwd", "Permission denied"), ("", "."),
                                 ("/tmp", "Permission denied|directory")):
            reply = self.omis.request(f': proc_create([n_1], "{program}", [], [], [])')
            self.assertGreaterEqual(reply.status(1), 16, reply)
            self.assertRegex(reply.result(), pattern)
        self.refused(': proc_create([n_1], "/bin/true", [], [], ["","","",""])', PARAMETER_ERROR, "three streams")
        reply = self.omis.request(': proc_create([n_1], "/bin/true", [], [], ["/no/such/file"])')
        self.assertGreaterEqual(reply.status(1), 16, reply)
        self.assertRegex(reply.result(), "/no/such/file|No such file")
        self.wait_for_attached()

    def test_released_with_its_tool(self):
        """A debugger that dies leaves no stopped program behind."""
        out = self.box.path("tmp", "out")
        self.create("/bin/sh", '["-c", "echo done"]', "[]", f'["/dev/null", "{out}"]')
        self.omis.kill()

        def done():
            with open(out, encoding="utf-8") as file:
                return file.read() == "done\n"
        scrytest.wait_until(done)


class Births(ServiceTest):
    def setUp(self):
        super().setUp()
        self.target_ = self.target()
        self.process = self.attach(self.target_)

    def pid_of(self, process):
        return numbers(self.ask(f": proc_get_info([{process}], 512)").result())[0]

    def test_processes(self):
        number, csr = self.enable("thread_creates_proc([]) : print([$new_proc, $proc])")
        for command in ("fork", "vfork", "spawn"):
            pid, status = self.target_.numbers(command)
            self.assertEqual(status, 42)
            new, parent = self.triggered(number).result()[3:-1].split(",")
            self.assertEqual(parent, self.process)
            self.refused(f": proc_get_info([{new}], 0)", UNKNOWN_OBJECT, "not attached|any more")
        self.omis.quiet(number, 0)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(tracer_of(self.target_.pid), 0)

    def test_attached_in_the_action_list(self):
        """Nothing of the child is missed: it has not started yet."""
        self.enable("thread_creates_proc([]) : proc_attach([$new_proc])")
        hits, _ = self.enable(f"thread_reached_addr([], {self.target_.hit}) : proc_get_info([$proc], 512)")
        gone, _ = self.enable("proc_has_terminated([]) : print([$proc])")
        for command, count in (("fork", 3), ("fork", 3), ("vfork", 0), ("spawn", 0)):
            pid, status = self.target_.numbers(command)
            self.assertEqual(status, 42, command)
            found = []
            while len(found) < count:
                reply = self.omis.reply(hits)
                if reply.status() == TRIGGERED:
                    found.append(reply)
            for reply in found:
                self.assertEqual(reply.result(), str(pid))
            self.omis.reply(gone, match=lambda reply: reply.status() == TRIGGERED)
        self.wait_for_attached(self.process)
        self.target_.quit()

    def test_stopped_in_the_action_list(self):
        number, csr = self.enable("thread_creates_proc([]) : proc_attach([$new_proc]) thread_stop([$new_proc]) "
                                  "print([$new_proc])")
        self.target_.send("fork")
        child = self.omis.reply(number, match=lambda reply: reply.status() == TRIGGERED).result(3)[3:-1]
        pid = self.pid_of(child)
        self.assertIn(scrytest.process_state(pid), ("t", "T"))
        self.assertEqual(numbers(self.ask(f": proc_get_info([{child}], 1024)").result()), [4])
        self.assertEqual(self.read_number(child, self.target_.hits), 0)
        self.ask(f": csr_delete([{csr}]) thread_continue([{child}])")
        self.assertEqual(self.target_.line(), f"{pid} 42")

    def test_threads(self):
        number, csr = self.enable("thread_creates_thread([]) : print([$new_thread, $thread])")
        creator = self.threads(self.process)[self.target_.pid]
        tid = self.target_.numbers("thread")[0]
        new, thread = self.triggered(number).result()[3:-1].split(",")
        self.assertEqual(thread, creator)
        self.omis.quiet(number, 0)
        scrytest.wait_until(lambda: not os.path.exists(f"/proc/{self.target_.pid}/task/{tid}"))
        self.refused(f": thread_get_info([{new}], 128)", UNKNOWN_OBJECT, "any more|ended|such")
        self.assertGreater(tid, 0)

    def test_parents_of_threads(self):
        """Known where the creation was seen."""
        number, csr = self.enable("thread_creates_thread([]) : thread_get_info([$new_thread], 136)")
        creator = self.threads(self.process)[self.target_.pid]
        tid = self.target_.numbers("thread")[0]
        self.assertEqual(self.triggered(number).result(), f"{creator},{tid}")
        self.ask(f": csr_delete([{csr}])")

    def test_initial_thread_of_a_process(self):
        """The process is reported first, then its thread; the parent is the thread that forked."""
        order = [self.enable("thread_creates_proc([]) : proc_attach([$new_proc])")[0],
                 self.enable("thread_creates_thread([]) : thread_get_info([$new_thread], 9)")[0]]
        creator = self.threads(self.process)[self.target_.pid]
        self.target_.do("fork")
        replies = [self.omis.reply(match=lambda r: r.status() == TRIGGERED) for _ in range(2)]
        self.assertEqual([reply.number for reply in replies], order)
        child, parent = replies[1].result().split(",")
        self.assertNotEqual(child, self.process)
        self.assertEqual(parent, creator)


class Trees(ServiceTest):
    def test_whole_tree(self):
        """A tree of short processes (forks, vforks, execs, orphans), each attached before it starts: none is missed,
        and the program finds nothing wrong."""
        out = self.box.path("tmp", "out")
        created = self.ask(f': proc_create([n_1], "{scrytest.example("forks")}", ["4", "2"], [], '
                           f'["/dev/null", "{out}"])').result()
        born, _ = self.enable("thread_creates_proc([]) : proc_attach([$new_proc]) print([$new_proc])")
        gone, _ = self.enable("proc_has_terminated([]) : print([$proc])")
        self.ask(f": thread_continue([{created}])")
        processes, ended = set(), set()
        while not ended or ended != processes | {created}:
            reply = self.omis.reply(match=lambda reply: reply.status() == TRIGGERED)
            if reply.number == born:
                self.assertTrue(reply.ok(), reply)
                processes.add(reply.result(2)[3:-1])
            elif reply.number == gone:
                ended.add(reply.result(1)[3:-1])
        with open(out, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(len(processes) + 1, int(text.split()[0]), text)
        self.wait_for_attached()


class Ends(ServiceTest):
    def start(self, workers=0):
        self.target_ = self.target("puppet", workers)
        self.process = self.attach(self.target_)
        return self.enable("proc_has_terminated([]) : print([$proc, $thread])")[0]

    def test_exit(self):
        gone = self.start(2)
        self.assertEqual(tracer_of(self.target_.pid), 0, "to wait for it needs no tracing")
        self.target_.send("quit 3")
        reply = self.triggered(gone)
        self.assertEqual(reply.result(), f"2,[{self.process},u_0]")
        self.assertEqual(reply.services[0][0]["objects"], [self.process])
        self.assertEqual(self.target_.ended(), 3)
        self.omis.quiet(gone, 0)

    def test_killed(self):
        for workers in (0, 3):
            gone = self.start(workers)
            self.target_.process.kill()
            self.assertEqual(self.triggered(gone).result(), f"2,[{self.process},u_0]")
            self.ask(": csr_delete([])")

    def test_killed_while_traced(self):
        gone = self.start(3)
        ended, _ = self.enable("thread_has_terminated([]) : print([$thread])")
        tokens = self.threads(self.process)
        self.target_.do("spin 1")
        self.target_.process.kill()
        self.assertEqual({self.triggered(ended).result() for _ in range(4)},
                         {f"1,[{token}]" for token in tokens.values()})
        self.triggered(gone)
        for number in (gone, ended):
            self.omis.quiet(number, 0)

    def test_memory_is_still_there(self):
        """A traced process is reported before it is gone."""
        self.start()
        gone, _ = self.enable(f"proc_has_terminated([]) : proc_read_memory([$proc], {self.target_.hits}, 8, 8, 1)")
        self.enable(f"thread_reached_addr([], {self.target_.other}) : version()")
        self.target_.do("hit 7")
        self.target_.send("quit 0")
        reply = self.triggered(gone)
        self.assertEqual(reply.status(1), OK, reply)
        self.assertEqual(numbers(reply.result())[0], 7)
        self.omis.quiet(gone, 0)
        self.assertEqual(self.target_.ended(), 0)

    def test_threads_end(self):
        self.start()
        ended, csr = self.enable("thread_has_terminated([]) : thread_get_info([$thread], 128)")
        tids = [self.target_.numbers("thread")[0] for _ in range(3)]
        self.assertEqual([int(self.triggered(ended).result()) for _ in range(3)], tids)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(tracer_of(self.target_.pid), 0)

    def test_leader_ends_first(self):
        """The first thread ends, the others go on: the process has not ended."""
        gone = self.start(2)
        ended, _ = self.enable("thread_has_terminated([]) : thread_get_info([$thread], 128)")
        self.target_.do("spin 1")
        self.assertEqual(self.target_.do("leave"), "left")
        self.assertEqual(self.triggered(ended).result(), str(self.target_.pid))
        self.omis.quiet(gone, 0)
        scrytest.wait_until(lambda: scrytest.process_state(self.target_.pid) == "Z")
        tokens = self.threads(self.process)
        running = [tokens[tid] for tid in self.target_.workers]
        self.ask(f": thread_stop([{','.join(running)}]) thread_read_int_regs([{running[0]}], 0, 17) "
                 f"thread_get_backtrace([{running[0]}], 0) thread_continue([{','.join(running)}])")
        self.ask(f": proc_get_info([{self.process}], 512)")
        self.target_.process.kill()
        self.triggered(gone)
        self.omis.quiet(gone, 0)

    def test_zombie_leader_without_tracing(self):
        gone = self.start(1)
        self.target_.do("spin 1")
        self.target_.do("leave")
        scrytest.wait_until(lambda: scrytest.process_state(self.target_.pid) == "Z")
        self.omis.quiet(gone, 0)
        # and can be attached by somebody else
        second = self.tool()
        self.assertEqual(self.attach(self.target_, second), self.process)
        self.target_.process.kill()
        self.triggered(gone)

    def test_zombie_cannot_be_attached(self):
        child = os.fork()
        if child == 0:
            os._exit(0)
        scrytest.wait_until(lambda: scrytest.process_state(child) == "Z")
        self.refused(f': proc_attach3([n_1], {child}, "")', UNKNOWN_OBJECT, "terminated")
        os.waitpid(child, 0)

    def test_exec_by_another_thread(self):
        """The thread gets the process's id; watches of the process continue."""
        gone = self.start(2)
        for watch in ("thread_creates_proc([])", 'thread_has_started_sys_call([], "pwrite64")'):
            number, csr = self.enable(f"{watch} : print([$proc])")
            self.target_.send("texec")
            self.target_.names = self.target_.introduction()
            self.omis.quiet(gone, 0)
            self.assertEqual(list(self.threads(self.process)), [self.target_.pid])
            self.target_.do("fork")
            self.target_.do("call")
            self.assertEqual(self.triggered(number).result(), f"1,[{self.process}]")
            self.omis.quiet(number, 0)
            self.ask(f": csr_delete([{csr}]) thread_stop([]) thread_continue([])")
        self.assertEqual(tracer_of(self.target_.pid), 0)
        self.target_.send("quit 0")
        self.triggered(gone)

    def test_pid_in_exec(self):
        """exec() is no end; threads but the first are gone."""
        gone = self.start(3)
        self.enable("thread_creates_proc([]) : version()")
        self.target_.send("exec")
        self.target_.introduction()
        self.omis.quiet(gone, 0)
        self.assertEqual(list(self.threads(self.process)), [self.target_.pid])
        self.target_.send("quit 0")
        self.triggered(gone)


scrytest.main()
