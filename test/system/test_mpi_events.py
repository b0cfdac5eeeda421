# SPDX-License-Identifier: Apache-2.0
"""The events thread_has_started_lib_call and thread_has_ended_lib_call under both MPIs: the two examples of the
specification (5.3.1, 5.3.2), conditions and counting inside of the calls, threads, Fortran; on programs that count
themselves what they do (targets/mpi/told.c, told.f90)."""

import json
import os
import re
import signal

import mpitest
import scrytest
from mpiservicetest import EachMpiTest
from scrytest import wait_until
from servicetest import *

ROUNDS, SHARE_OF_TIME = 20, 0.8
SLOWEST = 0.005 # of a send: its receiver takes that time
QUIET = WAIT | NO_OK | NO_EN_DIS


def lines_of(path):
    """`name value` lines as a dictionary."""
    with open(path, encoding="ascii") as file:
        return {name: int(number) for name, number in (line.split() for line in file)}


class Quiet:
    """A tool that wants no replies of what goes well: its lists run in the program where they can."""

    def __init__(self, box):
        self.tool = Flagged(box)
        self.ask(': node_attach2("localhost")')

    def ask(self, request):
        return self.tool.ask(request)

    def attach(self, pid):
        return self.ask(f': proc_attach3([n_1], {pid}, "")')[1][0][2]

    def counters(self, count):
        return [self.ask(": pa_counter_create()")[1][0][2] for _ in range(count)]

    def define(self, request):
        self.tool.send(QUIET, request)
        defined = self.tool.replies.pop()[2]
        assert defined[0][0][1] == DEFINED and defined[1][0][1] == OK, defined
        return defined[0][0][2]

    def enable(self, request):
        csr = self.define(request)
        self.ask(f": csr_enable([{csr}])")
        return csr

    def read(self, *counters):
        return [int(element[0][2]) for element in
                self.ask(":" + " ".join(f" pa_counter_read([{counter}])" for counter in counters))[1:]]

    def time(self, timer):
        """In seconds."""
        return float(self.ask(f": pa_timer_read([{timer}])")[1][0][2])


class Events(EachMpiTest):
    def setUp(self):
        super().setUp()
        self.go, self.out = self.box.path("work", "go"), self.box.path("work", "out")

    def program(self, source="told.c"):
        return mpitest.target(self, source, name=source.replace(".", "_"))

    def start(self, ranks=2, *arguments, source="told.c"):
        """The ranks where they wait for the file: by rank, their tokens and pids."""
        rows = self.launch_ranks(ranks, self.program(source), self.go, self.out, *arguments)
        self.tokens = {rank: row["token"] for rank, row in rows.items()}
        self.pids = {rank: row["pid"] for rank, row in rows.items()}
        if source == "told.c":
            self.places = {rank: wait_until(lambda rank=rank: os.path.exists(f"{self.out}.{rank}.at") and
                                            lines_of(f"{self.out}.{rank}.at"), 60) for rank in rows}
        return self.tokens

    def run_to_end(self):
        """What the ranks say that they have done."""
        with open(self.go, "w", encoding="ascii"):
            pass
        out, _ = self.process.communicate(timeout=90 * scrytest.SCALE)
        self.assertEqual((self.process.returncode, out), (0, ""))
        return {rank: lines_of(f"{self.out}.{rank}") for rank in self.tokens if os.path.exists(f"{self.out}.{rank}")}

    def all_triggered(self, number, timeout=10.0):
        """All replies of a request's list that came so far."""
        self.omis.request(': print(["all"])', timeout)
        found = [reply for reply in self.omis.waiting if reply.number == number and reply.status() == TRIGGERED]
        self.omis.waiting = [reply for reply in self.omis.waiting if reply not in found]
        return found

    def enabled_in(self, number, processes):
        """When a request is in place in exactly these processes."""
        found = set()
        while found != processes:
            reply = self.omis.reply(number, timeout=30)
            self.assertEqual(reply.status(), ENABLED, reply)
            self.assertTrue(reply.ok(), reply)
            found |= set(reply.objects())
        return found

    # ---- 5.3.1: performance analysis ----

    def analysis(self, define, enable, counter, timer, process):
        """The five requests as they are printed, of MPI: the time spent in MPI_Send, the bytes, a trace of barriers."""
        one = define(f'thread_has_started_lib_call([{process}], "MPI_Send") : '
                     f"pa_timer_start([{timer}]) pa_counter_add([{counter}], $par8)")
        two = define(f'thread_has_ended_lib_call([{process}], "MPI_Send") : pa_timer_stop([{timer}])')
        enable(one, two)

    def barriers(self):
        return [self.define(f'thread_has_{what}_lib_call([], "MPI_Barrier") : '
                            f'print(["MPI_Barrier {text}", $node, $proc, $time])')
                for what, text in (("started", "entered"), ("ended", "left"))]

    def check_barriers(self, numbers_of, counted):
        times = {}
        for number, text in zip(numbers_of, ("entered", "left")):
            for reply in self.all_triggered(number):
                count, entry = reply.result().split(",", 1)
                self.assertEqual(count, "4")
                told = re.fullmatch(r'\["MPI_Barrier (\w+)",(n_1),(p_[\d_]+),([\d.e+]+)\]', entry)
                self.assertTrue(told, entry)
                self.assertEqual(told[1], text)
                times.setdefault((told[3], text), []).append(float(told[4]))
        self.assertEqual({key: len(rows) for key, rows in times.items()},
                         {(self.tokens[rank], text): counted[rank]["barriers"] for rank in counted
                          for text in ("entered", "left")})
        for token in self.tokens.values():
            for entered, left in zip(times[token, "entered"], times[token, "left"]):
                self.assertLess(entered, left)
        # nobody leaves a barrier before all have come to it
        for at in range(counted[0]["barriers"]):
            last = max(times[token, "entered"][at] for token in self.tokens.values())
            self.assertTrue(all(times[token, "left"][at] > last for token in self.tokens.values()))

    def check_time(self, seconds, counted, waits=False):
        """`waits`: the program waited for the monitor, too."""
        own = counted["ns"] / 1e9
        self.assertLessEqual(seconds, own)
        self.assertGreater(seconds, SLOWEST if waits else SHARE_OF_TIME * own)

    def test_performance_analysis(self):
        """5.3.1 as printed: the lists run in the monitor, and each run has a reply."""
        tokens = self.start(3)
        counter = self.ask(": pa_counter_create()").result()
        timer = self.ask(": pa_timer_create()").result()
        defined = []

        def define(request):
            number, csr = self.define(request)
            defined.append(number)
            return csr

        barriers = self.barriers()
        self.analysis(define, lambda *csrs: self.ask(
            f": csr_enable([{', '.join([*csrs, *(csr for _, csr in barriers)])}])"), counter, timer, tokens[0])
        counted = self.run_to_end()
        self.assertEqual(counted[0]["sends"], ROUNDS)
        for number in defined:
            self.assertEqual(len(self.all_triggered(number)), counted[0]["sends"] + 1) # and the one that fails
        self.assertEqual(int(self.ask(f": pa_counter_read([{counter}])").result()), counted[0]["bytes"])
        self.check_time(float(self.ask(f": pa_timer_read([{timer}])").result()), counted[0], waits=True)
        self.check_barriers([number for number, _ in barriers], counted)

    @scrytest.thorough
    def test_performance_analysis_in_the_program(self):
        """The same by a tool that wants no replies: nothing waits for the monitor."""
        self.start(3)
        tool = Quiet(self.box)
        process = tool.attach(self.pids[1])
        (counter,) = tool.counters(1)
        timer = tool.ask(": pa_timer_create()")[1][0][2]
        self.analysis(tool.define, lambda *csrs: tool.ask(f": csr_enable([{', '.join(csrs)}])"), counter, timer, process)
        barriers = self.barriers()
        self.ask(f": csr_enable([{', '.join(csr for _, csr in barriers)}])")
        counted = self.run_to_end()
        self.assertEqual(tool.read(counter), [counted[1]["bytes"]])
        self.check_time(tool.time(timer), counted[1])
        self.check_barriers([number for number, _ in barriers], counted)

    # ---- 5.3.2: debugging ----

    def test_debugging(self):
        """As printed, but for tokens and the address; 32 registers are asked for, and those that there are come."""
        tokens = self.start(2)
        address = self.places[1]["receive_one"]
        event = self.ask(": user_event_create()").result()
        _, one = self.define(f'thread_has_started_lib_call([{tokens[0]}], "MPI_Send") : '
                             f"user_event_raise([{event}], [], 0)")
        _, two = self.define(f"thread_reached_addr([{tokens[1]}], {address:#x}) : user_event_raise([{event}], [], 0)")
        number, three = self.define(f"user_event_has_been_raised([{event}]) : print([$proc]) "
                                    "thread_get_backtrace([$proc], 0) thread_read_int_regs([$proc], 0, 32)")
        reply = self.omis.request(f": csr_enable([{three}]) ; csr_enable([{one}, {two}])")
        self.assertTrue(reply.ok(), reply)
        counted = self.run_to_end()
        replies = self.all_triggered(number)
        found, there = {tokens[0]: 0, tokens[1]: 0}, {tokens[0]: 0, tokens[1]: 0}
        for reply in replies:
            self.assertTrue(reply.ok(), reply)
            count, process = re.fullmatch(r"(\d+),\[(p_[\d_]+)\]", reply.result(1)).groups()
            self.assertEqual(count, "1")
            found[process] += 1
            # its threads: MPI has some of its own; the one that it happened to is in the program
            stacks = [numbers(entry["result"]) for entry in reply.results(2)]
            self.assertTrue(all(len(stack) == 1 + 2 * stack[0] for stack in stacks))
            counters = [pc for stack in stacks for pc in stack[1::2]]
            place = self.places[0]["send_one"] if process == tokens[0] else address
            there[process] += any(place <= pc < place + 512 for pc in counters)
            for entry in reply.results(3):
                self.assertEqual(len(numbers(entry["result"])), 17)
        # the send that fails is elsewhere
        self.assertEqual(there, {tokens[0]: counted[0]["sends"], tokens[1]: ROUNDS})
        self.assertEqual(found, {tokens[0]: counted[0]["sends"] + 1, tokens[1]: ROUNDS})

    # ---- parameters ----

    def test_parameters(self):
        """All of them, by number and by name, at the beginning and at the end."""
        self.ask(f': job_set("{self.jobdir}", "mpi", "messages")') # numbered from the first one on
        tokens = self.start(2)
        begins, _ = self.define_enabled(
            f'thread_has_started_lib_call([{tokens[0]}], "MPI_Send") : '
            "print([$par2, $par4, $par5, $par7, $par8, $call, $peer, $tag, $bytes, $count, $dest, $comm, $thread, $msg])")
        ends, _ = self.define_enabled(
            f'thread_has_ended_lib_call([{tokens[0]}], "MPI_Send") : '
            "print([$par0, $par2, $par8, $result, $duration, $received])")
        got, _ = self.define_enabled(
            f'thread_has_ended_lib_call([{tokens[1]}], "MPI_Recv") : '
            "print([$par0, $par2, $par4, $par5, $par9, $peer, $tag, $bytes, $received, $par8])")
        counted = self.run_to_end()
        thread, messages = None, []
        sizes = [200000 if i == 7 else i * 3 for i in range(ROUNDS)]
        replies = self.all_triggered(begins)
        self.assertEqual(len(replies), ROUNDS + 1)
        for size, reply in zip(sizes, replies):
            told = reply.result().split(",", 1)[1].strip("[]").split(",")
            self.assertEqual(told[:3] + told[4:12], [str(size), "1", "10", str(size * 8), '"MPI_Send"', "1", "10",
                                                     str(size * 8), str(size), "1", "0"])
            thread = thread or told[12]
            self.assertEqual((told[12], reply.objects(0)), (thread, [thread]))
            messages.append(told[3])
        self.assertIn(thread, self.threads(tokens[0]).values()) if self.process.poll() is None else None
        replies = self.all_triggered(ends)
        self.assertEqual(len(replies), ROUNDS + 1)
        for size, reply in zip(sizes, replies):
            result, count, length, again, duration, received = value(reply.result())[1]
            self.assertEqual((result, count, length, again, received), (0, size, size * 8, 0, 0))
            self.assertTrue(0 < duration < 60)
        failed = value(replies[-1].result())[1]
        self.assertEqual((failed[0], failed[1]), (counted[0]["result"], -1))
        replies, received = self.all_triggered(got), []
        self.assertEqual(len(replies), ROUNDS)
        for size, reply in zip(sizes, replies):
            numbers_told, message = reply.result().rstrip("]").rsplit(",", 1)
            told = value(numbers_told + "]")[1]
            self.assertEqual(told[:2] + told[3:], [0, 200000, 10, size * 8, 0, 10, 200000 * 8, size * 8])
            self.assertLess(told[2], 0) # MPI_ANY_SOURCE
            received.append(message)
        # the same message has the same token at both ends
        self.assertEqual(received, messages)
        self.assertEqual(len(set(received)), ROUNDS)
        self.assertTrue(all(re.fullmatch(r"m_[\d_]+", message) for message in received), received)

    def define_enabled(self, request):
        number, csr = self.define(request)
        self.ask(f": csr_enable([{csr}])")
        return number, csr

    def test_conditions(self):
        """Looked at in the program, by names and numbers of parameters and by what the call is about."""
        self.start(3)
        tool = Quiet(self.box)
        processes = {rank: tool.attach(pid) for rank, pid in self.pids.items()}
        cases = [ # what counts, in which rank, and how often that is
            ('started_lib_call([{0}], "MPI_Send", "count > 30 && dest == 1")', 0, lambda i: i > 10 or i == 7),
            ('started_lib_call([{0}], "MPI_Send", "peer == 1 && tag == 10 && bytes >= 240")', 0, lambda i: i >= 10 or i == 7),
            ('started_lib_call([{0}], "MPI_Send", "par2 == 9 || par2 == 12")', 0, lambda i: i in (3, 4)),
            ('started_lib_call([{0}], "MPI_Send", "dest != 1 || tag != 10")', 0, lambda i: False),
            ('started_lib_call([{0}], "MPI_*", "bytes == 1600000")', 0, lambda i: i == 7),
            ('ended_lib_call([{1}], "MPI_Recv", "received < 100 && source < 0 && peer == 0 && result == 0")', 1,
             lambda i: i < 5),
            ('ended_lib_call([{1}], "mpi_recv", "$par9 == 24")', 1, lambda i: i == 1),
        ]
        counters = tool.counters(len(cases))
        for (request, _, _), counter in zip(cases, counters):
            tool.enable(f"thread_has_{request.format(*processes.values())} : pa_counter_add([{counter}], 1)")
        (failed, total) = tool.counters(2)
        tool.enable(f'thread_has_ended_lib_call([], "MPI_Send", "result != 0") : pa_counter_add([{failed}], 1) '
                    f"pa_counter_add([{total}], $par2)")
        counted = self.run_to_end()
        self.assertTrue(all(rank["result"] != 0 for rank in counted.values()))
        expected = [sum(1 for i in range(ROUNDS) if holds(i)) for _, _, holds in cases]
        # the send that fails is to rank 0 with -1 elements
        expected[3] += 1
        self.assertEqual(tool.read(*counters), expected)
        self.assertEqual(tool.read(failed, total), [3, -3])

    @scrytest.thorough
    def test_outermost_calls_only(self):
        """What a function of the program calls from inside MPI_Comm_dup is not its own call."""
        self.start(2)
        tool = Quiet(self.box)
        processes = [tool.attach(pid) for pid in self.pids.values()]
        dups, sizes, ended = tool.counters(3)
        tool.enable(f'thread_has_started_lib_call([], "MPI_Comm_dup") : pa_counter_add([{dups}], 1)')
        tool.enable(f'thread_has_started_lib_call([], "MPI_Comm_size") : pa_counter_add([{sizes}], 1)')
        tool.enable(f'thread_has_ended_lib_call([], "MPI_Comm_dup,MPI_Comm_size") : pa_counter_add([{ended}], 1)')
        counted = self.run_to_end()
        self.assertEqual([rank["nested"] for rank in counted.values()], [1, 1])
        self.assertEqual(len(processes), 2)
        self.assertEqual(tool.read(dups, sizes, ended), [2, 0, 2])

    # ---- when ----

    @scrytest.thorough
    def test_all_calls_from_the_first_one(self):
        """Defined before there is a process: as many of all calls as the statistics have, MPI_Init among them."""
        numbers_of = {}
        for call in ("MPI_Init", "MPI_Finalize"):
            for what in ("started", "ended"):
                numbers_of[call, what] = self.define_enabled(
                    f'thread_has_{what}_lib_call([], "{call}") : print([$call, $proc])')[0]
        counter = self.ask(": pa_counter_create()").result()
        number, csr = self.define_enabled(f'thread_has_ended_lib_call([], "") : pa_counter_add([{counter}], 1)')
        self.start(2)
        self.run_to_end()
        self.drained()
        for (call, _), request in numbers_of.items():
            told = sorted(reply.result() for reply in self.all_triggered(request))
            self.assertEqual(told, sorted(f'2,["{call}",{token}]' for token in self.tokens.values()))
        expected = sum(row["count"] for stats in self.written() for row in self.calls_of(stats))
        self.assertEqual(int(self.ask(f": pa_counter_read([{counter}])").result()), expected)

    def drained(self):
        wait_until(lambda: numbers(self.ask(f': job_trace_info("{self.jobdir}")').result())[:2] == [0, 0], 30)

    def written(self):
        found = []
        for folder, _, names in os.walk(os.path.join(self.jobdir, "stats")):
            for name in names:
                if name.endswith(".json") and name[0].isdigit():
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        found.append(json.load(file))
        self.assertEqual(len(found), len(self.tokens))
        return found

    @staticmethod
    def calls_of(stats):
        return [dict(zip(stats["calls"]["columns"], row)) for row in stats["calls"]["rows"]]

    def test_switched_while_it_runs(self):
        """From its enabling on, until it is disabled or deleted; what is deleted costs nothing any more."""
        tokens = self.start(2)
        counter = self.ask(": pa_counter_create()").result()
        numbers_of = [self.define(f'thread_has_started_lib_call([], "MPI_Send") : pa_counter_add([{counter}], 1)')
                      for _ in range(3)]
        for _, csr in numbers_of:
            self.ask(f": csr_enable([{csr}])")
        self.ask(f": csr_disable([{numbers_of[0][1]}])")
        self.ask(f": csr_delete([{numbers_of[1][1]}])")
        counted = self.run_to_end()
        for number, expected in zip([number for number, _ in numbers_of], (0, 0, counted[0]["sends"] + 2)):
            self.assertEqual(len(self.all_triggered(number)), expected)
        self.assertEqual(len(tokens), 2)

    @scrytest.thorough
    def test_one_thread(self):
        """A request that names a thread means its calls only."""
        tokens = self.start(2)
        threads = {rank: self.threads(token) for rank, token in tokens.items()}
        main = [threads[rank][self.pids[rank]] for rank in (0, 1)]
        others = [token for rank in (0, 1) for tid, token in threads[rank].items() if tid != self.pids[rank]]
        counters = [self.ask(": pa_counter_create()").result() for _ in range(2)]
        tool = Quiet(self.box)
        one, _ = self.define_enabled(f'thread_has_started_lib_call([{main[0]}], "MPI_Send") : '
                                     f"pa_counter_add([{counters[0]}], 1)")
        if others: # threads of the MPI itself
            self.define_enabled(f'thread_has_started_lib_call([{", ".join(others)}], "MPI_Send") : '
                                f"pa_counter_add([{counters[1]}], 1)")
        process = tool.attach(self.pids[0])
        (quiet,) = tool.counters(1)
        threads = {int(entry[2]): entry[0] for entry in tool.ask(f": thread_get_info([{process}], 128)")[1]}
        tool.enable(f'thread_has_ended_lib_call([{threads[self.pids[0]]}], "MPI_Send") : pa_counter_add([{quiet}], 1)')
        counted = self.run_to_end()
        sends = counted[0]["sends"] + 1
        self.assertEqual(len(self.all_triggered(one)), sends)
        self.assertEqual([int(self.ask(f": pa_counter_read([{counter}])").result()) for counter in counters], [sends, 0])
        self.assertEqual(tool.read(quiet), [sends])

    # ---- bad times ----

    def test_the_tool_dies(self):
        """While threads wait for its lists: they go on."""
        self.start(2)
        tool = self.tool()
        for pid in self.pids.values():
            self.attach(pid, tool)
        for what in ("started", "ended"):
            _, csr = self.define(f'thread_has_{what}_lib_call([], "MPI_Send,MPI_Recv") : print([$call])', tool)
            self.ask(f": csr_enable([{csr}])", tool)
        with open(self.go, "w", encoding="ascii"):
            pass
        tool.reply(match=lambda reply: reply.status() == TRIGGERED, timeout=30)
        tool.kill()
        counted = self.run_to_end()
        self.assertEqual((counted[0]["sends"], counted[0]["barriers"]), (ROUNDS, 3))

    @scrytest.thorough
    def test_the_monitor_dies(self):
        """The calls go on, and are no longer reported."""
        self.start(2)
        number, _ = self.define_enabled('thread_has_started_lib_call([], "MPI_Send,MPI_Recv") : print([$call])')
        with open(self.go, "w", encoding="ascii"):
            pass
        self.omis.reply(number, lambda reply: reply.status() == TRIGGERED, 30)
        os.kill(self.box.monitor_pid(), signal.SIGKILL)
        counted = self.run_to_end()
        self.assertEqual((counted[0]["sends"], counted[0]["barriers"]), (ROUNDS, 3))

    @scrytest.thorough
    def test_detached(self):
        """A process that is detached in the middle is left alone."""
        tokens = self.start(2)
        number, _ = self.define_enabled('thread_has_started_lib_call([], "MPI_Send") : print([$call]) '
                                        f"proc_detach([{tokens[0]}])")
        counted = self.run_to_end()
        told = [reply.objects(0)[0] for reply in self.all_triggered(number)]
        self.assertEqual(len(told), 2) # the first one of each: what fails is called by rank 1, too
        self.assertEqual(counted[0]["sends"], ROUNDS)

    def test_refused(self):
        for request, pattern in (
                ('thread_has_started_lib_call([], "MPI_Sned") : print([1])', '"MPI_Sned": is it MPI_Send'),
                ('thread_has_started_lib_call([], "pvm_addhosts") : print([1])', 'no call "pvm_addhosts"$'),
                ('thread_has_ended_lib_call([], "MPI_Send", "size > 1") : print([1])', "MPI_Send has no 'size': it has par0"),
                ('thread_has_started_lib_call([], "MPI_Send", "result") : print([1])', "when the call has ended")):
            self.refused(request, PARAMETER_ERROR, pattern)
        self.refused('thread_has_started_lib_call([], "MPI_Barrier") : print([$par2])', UNKNOWN_ECP, "has no 'par2'")
        # a process that has no MPI
        target = self.target()
        process = self.attach(target)
        number, csr = self.define('thread_has_started_lib_call([], "MPI_Send") : print([1])')
        self.ask(f": csr_enable([{csr}])")
        reply = self.omis.reply(number)
        self.assertEqual((reply.status(), reply.status(1), reply.objects()), (ENABLED, UNSUPPORTED_SERVICE, [process]))
        self.assertIn("scry run", reply.result())
        target.quit()

    # ---- threads, Fortran ----

    def test_threads(self):
        """Four threads at once in each rank, each call counted once."""
        self.start(2, "4")
        tool = Quiet(self.box)
        process = tool.attach(self.pids[0])
        counters = tool.counters(7)
        for i in range(4):
            tool.enable(f'thread_has_started_lib_call([{process}], "MPI_Send", "tag == {10 + i}") : '
                        f"pa_counter_add([{counters[i]}], 1)")
        tool.enable(f'thread_has_started_lib_call([{process}], "MPI_Send", "tag >= 10") : '
                    f"pa_counter_add([{counters[4]}], $par8)")
        tool.enable(f'thread_has_ended_lib_call([{process}], "MPI_Send", "tag >= 10") : '
                    f"pa_counter_add([{counters[5]}], $bytes) pa_counter_add([{counters[6]}], 1)")
        number, _ = self.define_enabled(f'thread_has_ended_lib_call([{self.tokens[1]}], "MPI_Recv") : print([$thread])')
        counted = self.run_to_end()
        self.assertEqual(tool.read(*counters), [ROUNDS] * 4 + [counted[0]["bytes"]] * 2 + [counted[0]["sends"]])
        told = [reply.result() for reply in self.all_triggered(number)]
        self.assertEqual(len(told), 4 * ROUNDS)
        self.assertEqual(sorted(told.count(text) for text in set(told)), [ROUNDS] * 4)

    @scrytest.thorough
    def test_fortran(self):
        """The parameters are those of the C function."""
        self.start(2, source="told.f90")
        tool = Quiet(self.box)
        process = tool.attach(self.pids[0])
        sends, size, some = tool.counters(3)
        tool.enable(f'thread_has_started_lib_call([{process}], "MPI_Send") : pa_counter_add([{sends}], 1) '
                    f"pa_counter_add([{size}], $par8)")
        tool.enable(f'thread_has_ended_lib_call([{process}], "MPI_SEND", "count == 24 && tag > 50 && result == 0") : '
                    f"pa_counter_add([{some}], 1)")
        number, _ = self.define_enabled(f'thread_has_started_lib_call([{self.tokens[0]}], "MPI_Send") : '
                                        "print([$par2, $par4, $par5, $par8, $peer])")
        counted = self.run_to_end()[0]
        self.assertEqual(tool.read(sends, size, some), [counted["sends"], counted["bytes"], 1])
        told = [value(reply.result())[1] for reply in self.all_triggered(number)]
        self.assertEqual(told, [[i * 2, 1, 40 + i, i * 16, 1] for i in range(1, counted["sends"] + 1)])


mpitest.for_each_mpi(Events, globals())

scrytest.main()
