# SPDX-License-Identifier: Apache-2.0
"""Messages and message queues of MPI programs (specification 8.1.4), under both MPIs, on a program that sends and
receives what it is told to (targets/mpi/messenger.c)."""

import os
import signal
import time

import mpitest
import scrytest
from scrytest import wait_until
from messagetest import *


class Queues(Messages):
    def test_information(self):
        zero, one, two = self.launch(3)
        self.assertRegex(self.queue(zero), r"^q_1_\d+$")
        self.assertEqual(self.queue(zero), self.queue(zero))
        self.assertEqual(self.info(zero), [])
        for line in ("send 0 5 10 1", "send 0 5 20 2", "send 0 7 30 3"):
            self.assertEqual(one.do(line), "sent")
        self.assertEqual(two.do("send 0 5 40 4"), "sent")
        rows = self.info(zero)
        self.assertEqual([row[2:] for row in rows], [["10", "0"], ["20", "0"], ["30", "0"], ["40", "0"]])
        self.assertEqual([row[1] for row in rows], [self.thread(one)] * 3 + [self.thread(two)])
        self.assertEqual(len({row[0] for row in rows}), 4)
        note, known = self.messages(zero)
        self.assertEqual(note, "")
        self.assertEqual([(row["rank"], row["tag"], row["comm"], row["k"], row["bytes"], row["doubts"]) for row in known],
                         [(1, 5, 0, 1, 10, ""), (1, 5, 0, 2, 20, ""), (1, 7, 0, 1, 30, ""), (2, 5, 0, 1, 40, "")])
        self.assertEqual([row["token"] for row in known], [row[0] for row in rows])
        # out of the middle, and from anybody
        self.assertEqual(zero.do("recv 1 7"), "got 1 7 30 3")
        self.assertEqual(self.sizes(zero), [10, 20, 40])
        got = zero.do("recv -1 5")
        self.assertIn(got, ("got 1 5 10 1", "got 2 5 40 4"))
        self.assertEqual(self.sizes(zero), [20, 40] if got.startswith("got 1") else [10, 20])
        self.assertEqual((self.info(one), self.info(two)), ([], []))
        self.refused(f": message_queue_get_info([{self.queue(zero)}], 16)", PARAMETER_ERROR, "flags")
        rest = 2
        while rest:
            zero.do("recv -1 -1")
            rest -= 1
            self.assertEqual(len(self.info(zero)), rest)
        self.finish()

    def test_two_programs(self):
        """What another program of the job has sent to its own rank 0 is not for this one's."""
        zero, _ = self.launch(2)
        folder = self.box.path("work", "other")
        os.mkdir(folder)
        for rank in range(2):
            os.mkfifo(os.path.join(folder, f"{rank}.in"))
        with self.box.start([*mpitest.MPIS[self.mpi]["run"], "-n", "2", mpitest.compile_program(self.mpi, "messenger.c", name="messenger"), folder],
                            env={**mpitest.QUIET, **self.environment()}) as other:
            with open(os.path.join(folder, "0.in"), "w", encoding="ascii") as receiver, \
                 open(os.path.join(folder, "1.in"), "w", encoding="ascii") as sender:
                print("send 0 5 10 1", file=sender, flush=True)
                with open(os.path.join(folder, "1.out"), encoding="ascii") as out:
                    wait_until(lambda: "sent" in out.read(), 30)
                self.assertEqual(self.info(zero), [])
                print("recv 1 5\nend", file=receiver, flush=True)
                print("end", file=sender, flush=True)
            self.assertEqual(other.wait(timeout=60 * scrytest.SCALE), 0)
        self.finish()

    @mpitest.both
    def test_posted_receives(self):
        """A message that a posted receive gets is in no queue, in whatever way it was posted."""
        zero, one = self.launch(2)
        zero.do("irecv 0 1 5")
        zero.do("irecv 1 -1 -1")
        zero.do("recvinit 2 1 8")
        zero.do("start 2")
        for number, tag in enumerate((5, 6, 8, 8, 5), 1):
            one.do(f"send 0 {tag} {number} {number}")
        # 5 -> the first, 6 -> from anybody, 8 -> the persistent one
        self.assertEqual(self.sizes(zero), [4, 5])
        self.assertEqual(zero.do("waitall"), "got 1 5 1 1, got 1 6 2 2, got 1 8 3 3")
        self.assertEqual(self.sizes(zero), [4, 5])
        self.assertEqual(zero.do("mprobe -1 5"), "matched")
        self.assertEqual(self.sizes(zero), [4])
        self.assertEqual(zero.do("mrecv"), "got 1 5 5 5")
        self.assertEqual(zero.do("start 2"), "posted")
        self.assertEqual(self.sizes(zero), [])
        self.assertEqual(zero.do("wait 2"), "got 1 8 4 4")
        self.assertEqual(self.messages(zero), ("", []))
        zero.do("free 2")
        self.finish()

    @scrytest.thorough
    def test_cancelled_receives(self):
        zero, one = self.launch(2)
        zero.do("irecv 0 1 5")
        zero.do("irecv 1 1 5")
        self.assertEqual(zero.do("cancel 0"), "asked")
        self.assertEqual(zero.do("wait 0"), "cancelled")
        one.do("send 0 5 11 1")
        one.do("send 0 5 12 2")
        self.assertEqual(self.sizes(zero), [12])
        self.assertEqual(zero.do("wait 1"), "got 1 5 11 1")
        self.assertEqual(self.sizes(zero), [12])
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 12 2")
        self.finish()

    def test_communicators(self):
        """The same sender and tag on another communicator is another channel."""
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        for rank in (zero, one):
            rank.tell("dup")
        for rank in (zero, one):
            self.assertEqual(rank.answer(), "done")
        one.do("send 0 5 20 2")
        self.assertEqual(self.sizes(zero), [10, 20])
        comms = [row["comm"] for row in self.messages(zero)[1]]
        self.assertEqual((comms[0], comms[0] != comms[1]), (0, True))
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 20 2")
        self.assertEqual(self.sizes(zero), [10])
        zero.do("world")
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        self.assertEqual(self.sizes(zero), [])
        self.finish()

    @scrytest.thorough
    def test_doubts_are_said(self):
        """What a receive from anybody gets whose request was freed is not seen."""
        zero, one = self.launch(2)
        zero.do("irecv 0 -1 5")
        zero.do("free 0")
        one.do("send 0 5 10 1")
        one.do("send 0 6 20 1")
        note, rows = self.messages(zero)
        self.assertIn("freed", note)
        self.assertEqual([(row["tag"], row["doubts"] != "") for row in rows], [(5, True), (6, False)])
        self.refused(f": message_queue_get_info([{self.queue(zero)}], 1)", UNSUPPORTED_SERVICE, "not certain.*freed")
        self.refused(f": message_tag([{rows[0]['token']}], 3)", UNSUPPORTED_SERVICE, "not certain")
        self.ask(f": message_tag([{rows[1]['token']}], 3)")
        zero.do("recv 1 6")
        self.finish()

    @scrytest.thorough
    def test_who_has_no_queue(self):
        self.launch(2)
        target = self.target()
        token = self.attach(target)
        self.assertEqual(self.ask(f": proc_get_info([{token}], 128)").result(), "u_0")
        self.refused(f": mpi_get_messages([{token}])", UNSUPPORTED_SERVICE, "no MPI process")
        self.finish()


class Late(Messages):
    """Nobody asked for messages when the job was started."""
    setting = None

    def test_from_then_on(self):
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        self.refused(f": message_queue_get_info([{self.queue(zero)}], 4)", UNSUPPORTED_SERVICE, "--mpi messages")
        zero.do("iprobe 1 9")
        one.do("send 0 5 20 2")
        self.refused(f": message_queue_get_info([{self.queue(zero)}], 4)", UNSUPPORTED_SERVICE, "under way")
        note, rows = self.messages(zero)
        self.assertIn("under way", note)
        self.assertEqual([row["bytes"] for row in rows], [20])
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 20 2")
        self.finish()


class Environment(Messages):
    """The program itself asks for it, as it does under a launcher of its own."""
    setting = None
    variables = {"SCRY_MPI": "messages"}

    def test_counted_from_the_start(self):
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        self.assertEqual(self.sizes(zero), [10])
        zero.do("recv 1 5")
        self.finish()


class LargeCounts(Messages):
    """Functions with counts of MPI_Count send and receive messages as others do."""
    options = ("-DLARGE_COUNTS",)

    @scrytest.thorough
    @mpitest.only("mpich")
    def test_queue(self):
        if self.mpi != "mpich":
            self.skipTest("Open MPI 4 has none")
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        one.do("burst 0 6 3")
        one.do("send 0 5 20 2")
        self.assertEqual(sorted(self.sizes(zero)), [1, 1, 1, 10, 20])
        zero.do("irecv 1 1 5")
        self.assertEqual(zero.do("wait 1"), "got 1 5 10 1")
        zero.do("mprobe 1 6")
        self.assertEqual(zero.do("mrecv").split()[:4], ["got", "1", "6", "1"])
        self.assertEqual(sorted(self.sizes(zero)), [1, 1, 20])
        zero.do("drain 1 6 2")
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 20 2")
        self.assertEqual(self.messages(zero), ("", []))
        for word in ("sendrecv", "isendrecv"):
            one.do("send 0 7 30 3")
            self.assertEqual(zero.do(f"{word} 1 8 40 4 1 7"), "posted" if word[0] == "i" else "got 1 7 30 3")
            self.assertEqual(self.sizes(one), [40])
            if word == "isendrecv":
                self.assertEqual(zero.do("wait 0"), "got 1 7 30 3")
            self.assertEqual(self.sizes(zero), [])
            self.assertEqual(one.do("recv 0 8"), "got 0 8 40 4")
        one.do("settle")
        self.assertEqual([self.messages(rank) for rank in (zero, one)], [("", [])] * 2)
        self.finish()


class Tags(Messages):
    def tagged(self, rank, tags=""):
        request = (f"thread_has_received_tagged_msg([{rank.token}], [{tags}]): "
                   "print([$proc, $thread, $msg, $sender, $size, $monitor_tag])")
        return self.enable(request)[0]

    def told(self, number):
        return printed(self.triggered(number, timeout=30))

    def test_among_many(self):
        """Exactly the receive that gets the message, whichever way it is received."""
        zero, one = self.launch(2)
        number = self.tagged(zero)
        for i in range(1, 9):
            one.do(f"send 0 5 {i} {i}")
        tokens = self.tokens(zero)
        self.ask(f": message_tag([{tokens[4]}], 42)")
        self.assertEqual([row[3] for row in self.info(zero)], ["0"] * 4 + ["42"] + ["0"] * 3)
        self.refused(f": message_tag([{tokens[4]}], 0)", PARAMETER_ERROR, "tag")
        for i in range(1, 5):
            self.assertEqual(zero.do(f"recv {1 if i % 2 else -1} {-1 if i == 3 else 5}"), f"got 1 5 {i} {i}")
        self.omis.quiet(number)
        self.assertEqual(zero.do("recv -1 -1"), "got 1 5 5 5")
        self.assertEqual(self.told(number), [zero.token, self.thread(zero), tokens[4], self.thread(one), "5", "42"])
        for i in range(6, 9):
            zero.do("recv 1 5")
        self.omis.quiet(number)
        self.refused(f": message_tag([{tokens[4]}], 1)", UNKNOWN_OBJECT, "received already|not exist")
        self.finish()

    def test_completed_out_of_order(self):
        zero, one = self.launch(2)
        number = self.tagged(zero, "7, 9")
        for line in ("irecv 0 1 5", "irecv 1 -1 5", "irecv 2 1 5"):
            zero.do(line)
        for i in (1, 2, 3, 4):
            one.do(f"send 0 5 {i} {i}")
        token = self.tokens(zero)[0] # of the 4th
        self.ask(f": message_tag([{token}], 9)")
        self.assertEqual(zero.do("wait 2"), "got 1 5 3 3")
        self.assertEqual(zero.do("irecv 3 -1 -1"), "posted")
        self.omis.quiet(number)
        self.assertEqual(zero.do("wait 3"), "got 1 5 4 4")
        self.assertEqual(self.told(number)[2:], [token, self.thread(one), "4", "9"])
        self.assertEqual(zero.do("waitall"), "got 1 5 1 1, got 1 5 2 2")
        self.omis.quiet(number)
        self.finish()

    def test_before_it_is_sent(self):
        """A receive is posted, and what it gets is tagged while it is on its way: as an action of the longer queue."""
        zero, one = self.launch(2)
        number = self.tagged(zero)
        extended, _ = self.enable(f"message_queue_has_been_extended([{self.queue(zero)}]): message_tag([$msg], 77) "
                                  "print([$queue, $msg, $sender, $size, $monitor_tag, $proc])")
        zero.do("irecv 0 1 5")
        self.assertEqual(one.do("send 0 5 33 1"), "sent")
        queue, msg, sender, size, tag, proc = printed(self.triggered(extended, timeout=30), 2)
        self.assertEqual((queue, sender, size, tag, proc), (self.queue(zero), self.thread(one), "33", "0", zero.token))
        self.omis.quiet(number)
        self.assertEqual(zero.do("wait 0"), "got 1 5 33 1")
        self.assertEqual(self.told(number)[2:], [msg, sender, "33", "77"])
        self.finish()

    @scrytest.thorough
    def test_at_the_call_that_sends_it(self):
        """As an action of the call: the message does not exist yet when it is tagged."""
        zero, one = self.launch(2)
        number = self.tagged(zero)
        self.enable(f'thread_has_started_lib_call([{one.token}], "MPI_Send", "tag == 5"): message_tag([$msg], 12)')
        one.do("send 0 6 10 1")
        one.do("send 0 5 20 2")
        self.assertEqual(zero.do("recv 1 6"), "got 1 6 10 1")
        self.omis.quiet(number)
        self.assertEqual(zero.do("recv -1 -1"), "got 1 5 20 2")
        self.assertEqual(self.told(number)[3:], [self.thread(one), "20", "12"])
        self.finish()

    @scrytest.thorough
    def test_other_tags_and_threads(self):
        zero, one = self.launch(2)
        other = self.tagged(zero, "8")
        sender = self.tagged(one)
        one.do("send 0 5 10 1")
        self.ask(f": message_tag([{self.tokens(zero)[0]}], 9)")
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        self.omis.quiet(other)
        self.omis.quiet(sender)
        self.finish()

    @scrytest.thorough
    def test_the_receiver_is_stopped(self):
        zero, one = self.launch(2)
        self.enable(f"thread_has_received_tagged_msg([{zero.token}], []): thread_stop([$thread])")
        one.do("send 0 5 10 1")
        one.do("send 0 5 20 2")
        self.ask(f": message_tag([{self.tokens(zero)[1]}], 1)")
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        zero.tell("recv 1 5")
        wait_until(lambda: scrytest.process_status(zero.pid)["State"][0] == "t", 30)
        self.assertFalse(zero.done())
        self.ask(f": thread_continue([{zero.token}])")
        self.assertEqual(zero.answer(), "got 1 5 20 2")
        self.finish()

    @scrytest.thorough
    def test_nobody_hears_of_it(self):
        """The monitor is stopped while the receiver waits for it, and dies then."""
        zero, one = self.launch(2)
        self.tagged(zero)
        self.enable(f"message_queue_has_been_extended([{self.queue(zero)}]): print([$msg])")
        one.do("send 0 5 10 1")
        self.ask(f": message_tag([{self.tokens(zero)[0]}], 1)")

        def go_on():
            start = time.monotonic()
            self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
            self.assertEqual(one.do("send 0 5 10 1"), "sent")
            self.assertLess(time.monotonic() - start, scrytest.room(10))

        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        try:
            go_on()
        finally:
            os.kill(monitor, signal.SIGKILL)
        go_on()
        zero.do("recv 1 5")
        self.finish()


class Spawning(Messages):
    """thread_creates_proc of MPI_Comm_spawn: the launcher starts the processes, but which rank asked for them?"""
    setting = None

    @mpitest.both
    def test_who_created_whom(self):
        ranks = self.launch(2)
        number, csr = self.define("thread_creates_proc([]): proc_attach([$new_proc]) proc_get_info([$new_proc], 512) "
                                  "print([$new_proc, $proc, $thread])")
        self.ask(f": csr_enable([{csr}])")
        enabled = self.omis.reply(number, match=lambda reply: reply.status() == ENABLED)
        self.assertTrue(enabled.ok(), enabled)
        if self.mpi == "mpich": # and the one of Debian 12 starts no processes, without scry either
            self.assertIn("unsupported: processes that MPI_Comm_spawn starts", enabled.result())
            self.finish()
            return
        threads, _ = self.enable(f"thread_creates_thread([{ranks[0].token}, {ranks[1].token}]): print([$proc, $thread])")

        def told(number):
            return self.omis.reply(number, match=lambda reply: reply.status() == TRIGGERED, timeout=60)

        at = {rank.token: self.thread(rank) for rank in ranks}
        for count, rank in enumerate(ranks, 1):
            rank.tell(f"spawn {count}")
        parents = []
        for _ in range(3):
            reply = told(number)
            self.assertTrue(reply.ok(), reply)
            _, parent, thread = printed(reply, 3)
            self.assertEqual(thread, at[parent])
            parents.append(parent)
            self.assertIn(tuple(printed(told(threads))), at.items())
        self.assertEqual(sorted(parents), sorted([ranks[0].token, ranks[1].token, ranks[1].token]))
        for rank in ranks:
            self.assertEqual(rank.answer(), "done")
        self.finish()


for base in (Spawning, Queues, Late, LargeCounts, Environment, Tags):
    mpitest.for_each_mpi(base, globals())
del base, Messages
scrytest.main()
