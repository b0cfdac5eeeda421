# SPDX-License-Identifier: Apache-2.0
"""mpi_load: the interposer is brought into ranks that were started without scry, under both MPIs. Their calls are events
from then on, their queues are said to be known in part, and what they compute is what it would be."""

import os

import mpitest
import scrytest
from mpiservicetest import EachMpiTest
from scrytest import process_status, wait_until
from servicetest import *


def lines_of(path):
    """`name value` lines as a dictionary."""
    with open(path, encoding="ascii") as file:
        return {name: int(number) for name, number in (line.split() for line in file)}


class Late(EachMpiTest):
    variables = {}  # of the programs

    def start(self, count, source, *arguments, ready):
        program = mpitest.target(self, source)
        self.process = self.box.start([*mpitest.MPIS[self.mpi]["run"], "-n", str(count), program, *arguments],
                                      env={**mpitest.QUIET, **self.variables})
        wait_until(ready, 60)
        pids = [pid for pid in self.box.processes() if self.executes(pid, program)]
        self.assertEqual(len(pids), count)
        return {pid: self.attach(pid) for pid in sorted(pids)}

    @staticmethod
    def executes(pid, program):
        try:
            return os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(program)
        except OSError:
            return False

    def told(self, count=2):
        self.go, self.out = self.box.path("work", "go"), self.box.path("work", "out")
        return self.start(count, "told.c", self.go, self.out,
                          ready=lambda: all(os.path.exists(f"{self.out}.{rank}.at") for rank in range(count)))

    def run_to_end(self, count=2):
        with open(self.go, "w", encoding="ascii"):
            pass
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)
        return [lines_of(f"{self.out}.{rank}") for rank in range(count)]

    @scrytest.thorough
    @mpitest.both
    def test_library_calls(self):
        """A request for them brings the interposer."""
        tokens = self.told()
        event = 'thread_has_ended_lib_call([], "MPI_*") : print([$proc, $call, $bytes, $received])'
        number, csr = self.define(event)
        self.omis.send(f": csr_enable([{csr}])")
        self.assertTrue(self.ask(": mpi_load([])").ok())  # that brings it about, and this waits for it
        self.assertTrue(self.ask(": mpi_load([])").ok())  # they have it
        counted = self.run_to_end()
        self.all_armed(number, tokens)
        told = []
        self.omis.request(': print(["all"])', 30)
        for reply in self.omis.waiting:
            if reply.number == number and reply.status() == TRIGGERED:
                told.append(reply.result().split(",", 1)[1].strip("[]").split(","))
        sends = [row for row in told if row[1] == '"MPI_Send"']
        self.assertEqual(len(sends), counted[0]["sends"] + 2)  # and of each rank one that fails
        self.assertEqual(sum(int(row[2]) for row in sends), counted[0]["bytes"])
        self.assertEqual(sum(int(row[3]) for row in told if row[1] == '"MPI_Recv"'), counted[0]["bytes"])
        self.assertEqual(len([row for row in told if row[1] == '"MPI_Barrier"']), 2 * counted[0]["barriers"])
        self.assertEqual({row[0] for row in told}, set(tokens.values()))

    def armed(self, number):
        """What is said when a request is, or cannot be, in force in a process."""
        return self.omis.reply(number, lambda reply: reply.status() == ENABLED and reply.objects(), timeout=30)

    def all_armed(self, number, tokens):
        """It is in force in all of them, which is said of each, or of those together in which it could be at once."""
        left = set(tokens.values())
        while left:
            ready = self.armed(number)
            self.assertTrue(ready.ok(), ready)
            left -= set(ready.objects())

    def messengers(self):
        self.folder = self.box.path("work", "messenger")
        os.mkdir(self.folder)
        for rank in range(2):
            os.mkfifo(os.path.join(self.folder, f"{rank}.in"))
        outs = [os.path.join(self.folder, f"{rank}.out") for rank in range(2)]
        tokens = self.start(2, "messenger.c", self.folder, ready=lambda: all(os.path.exists(out) for out in outs))
        fifos = [open(os.path.join(self.folder, f"{rank}.in"), "w", encoding="ascii") for rank in range(2)]
        return tokens, fifos, outs

    @staticmethod
    def tell(fifo, line):
        fifo.write(line + "\n")
        fifo.flush()

    @staticmethod
    def said(out, line):
        with open(out, encoding="ascii") as file:
            return line in file.read().split("\n")

    def test_queues(self):
        """A message was sent before anybody saw it."""
        tokens, (zero, one), outs = self.messengers()
        self.tell(one, "send 0 5 10 1")
        wait_until(lambda: self.said(outs[1], "sent"), 30)
        self.assertTrue(self.ask(": mpi_load([])").ok())
        for token in tokens.values():
            self.refused(f": mpi_get_messages([{token}])", UNSUPPORTED_SERVICE, "has not called MPI since")
        self.tell(zero, "iprobe 1 9")
        self.tell(one, "iprobe 0 9")
        rows = wait_until(lambda: self.all_running(tokens), 30)
        token = next(row["token"] for row in rows if row["rank"] == 0)
        queue = self.ask(f": proc_get_info([{token}], 128)").result()
        self.omis.request(f": message_queue_get_info([{queue}], 4)")
        self.tell(zero, "iprobe 1 9")
        self.tell(one, "iprobe 0 9")
        self.tell(one, "send 0 5 20 2")

        def known():
            reply = self.omis.request(f": mpi_get_messages([{token}])")
            return reply.ok() and ",20," in reply.result() and reply.result()

        self.assertIn("counting began while messages were under way", wait_until(known, 30))
        self.refused(f": message_queue_get_info([{queue}], 4)", UNSUPPORTED_SERVICE, "not certain.*under way")
        self.assertIn("ran before their calls were watched", self.ask(': mpi_get_wait_graph("")').result())
        for line in ("recv 1 5", "recv 1 5", "end"):
            self.tell(zero, line)
        self.tell(one, "end")
        for fifo in (zero, one):
            fifo.close()
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)
        self.assertTrue(self.said(outs[0], "got 1 5 10 1") and self.said(outs[0], "got 1 5 20 2"))

    def test_events_of_messages(self):
        """A request for them brings the interposer, too."""
        tokens, (zero, one), _ = self.messengers()
        extended, csr = self.define("message_queue_has_been_extended([]) : print([$size])")
        self.omis.send(f": csr_enable([{csr}])")
        received, csr = self.define("thread_has_received_tagged_msg([], []) : print([$size])")
        self.omis.send(f": csr_enable([{csr}])")
        for number in (extended, received):
            self.all_armed(number, tokens)
        for fifo in (zero, one):
            self.tell(fifo, "end")
            fifo.close()
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)

    def all_running(self, tokens):
        rows = [row for row in self.rank_rows("")[1] if row["token"] in tokens.values()]
        return len(rows) == len(tokens) and all(row["state"] == "running" for row in rows) and rows

    @scrytest.thorough
    def test_inside_of_mpi(self):
        """A rank that waits in MPI is not touched, and goes on; once it leaves MPI, it is loaded."""
        tokens, (zero, one), outs = self.messengers()
        self.tell(zero, "recv 1 5")
        receiver = self.pid_of_rank(tokens, 0)
        wait_until(lambda: self.refusal(tokens[receiver]), 60)
        number, csr = self.define(f'thread_has_ended_lib_call([{tokens[receiver]}], "MPI_*") : print([$call])')
        self.omis.send(f": csr_enable([{csr}])")
        self.assertRegex(str(self.armed(number)), r"no moment was found .* is inside P?MPI_Recv")
        self.tell(one, "send 0 5 10 1")
        wait_until(lambda: self.said(outs[0], "got 1 5 10 1"), 30)
        self.assertTrue(self.ask(f": mpi_load([{tokens[receiver]}])", timeout=30).ok())
        for fifo in (zero, one):
            self.tell(fifo, "end")
            fifo.close()
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)

    @mpitest.both
    def test_from_one_call_into_the_next(self):
        """A rank that is in MPI but for moments is met in such a moment."""
        messages = 20
        tokens, (zero, one), outs = self.messengers()
        self.tell(zero, f"drain 1 5 {messages}")
        receiver = self.pid_of_rank(tokens, 0)
        wait_until(lambda: self.refusal(tokens[receiver]), 60)
        number, reply = self.omis.send(f": mpi_load([{tokens[receiver]}])"), None
        wait_until(lambda: process_status(receiver)["TracerPid"] != "0")
        for sent in range(1, messages + 1):
            self.tell(one, "send 0 5 1 1")
            wait_until(lambda: self.times_said(outs[1], "sent") == sent, 30)
            reply = reply or self.has_come(number)
        self.assertTrue(reply and reply.ok(), str(reply))
        for fifo in (zero, one):
            self.tell(fifo, "end")
            fifo.close()
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)
        self.assertTrue(self.said(outs[0], "drained"))

    def has_come(self, number):
        try:
            return self.omis.reply(number, timeout=0.1)
        except AssertionError:
            return None

    @staticmethod
    def times_said(out, line):
        with open(out, encoding="ascii") as file:
            return file.read().split("\n").count(line)

    def pid_of_rank(self, tokens, rank):
        names = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}
        for pid in tokens:
            with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                if f"{names[self.mpi]}={rank}" in file.read().split("\0"):
                    return pid
        self.fail("no such rank")

    def refusal(self, token):
        """Once the rank has come to its receive."""
        reply = self.omis.request(f": mpi_load([{token}])", 30)
        self.assertFalse(reply.ok(), "it was not in MPI yet")
        self.assertRegex(str(reply), r"no moment was found at which it is safe, the last time because thread \d+ is inside P?MPI_Recv")
        return True

    def test_without_mpi(self):
        target = self.box.start(["sleep", "60"])
        self.refused(f": mpi_load([{self.attach(target)}])", UNSUPPORTED_SERVICE, "no MPI library")

    def test_switched_off(self):
        self.variables = {"SCRY": "off"}
        tokens = self.told()
        self.refused(": mpi_load([])", UNSUPPORTED_SERVICE, "SCRY=off is set")
        number, csr = self.define('thread_has_ended_lib_call([], "MPI_*") : print([$call])')
        self.omis.send(f": csr_enable([{csr}])")
        self.assertIn("SCRY=off is set", str(self.armed(number)))
        self.assertEqual(len(tokens), 2)
        self.run_to_end()


mpitest.for_each_mpi(Late, globals())
scrytest.main()
