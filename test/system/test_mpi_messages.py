# SPDX-License-Identifier: Apache-2.0
"""Messages and message queues of MPI programs (specification 8.1.4), under both MPIs, on a program that sends and
receives what it is told to (targets/mpi/messenger.c)."""

import os
import re
import signal
import time

import mpitest
import scrytest
from mpiservicetest import EachMpiTest
from scrytest import wait_until
from servicetest import *

TOKEN, SENDER, SIZE, TAG = 1, 2, 4, 8
COLUMNS = ("token", "sender", "rank", "tag", "comm", "k", "bytes", "age", "monitor_tag", "doubts")


def printed(reply, action=1):
    """What print([...]) printed, tokens as they are."""
    return reply.result(action).split(",", 1)[1].strip("[]").split(",")


class Rank:
    """One process: its commands, and what it prints."""

    def __init__(self, case, folder, number, row):
        self.case, self.number, self.row = case, number, row
        self.token, self.pid = row["token"], row["pid"]
        self.out = os.path.join(folder, f"{number}.out")
        self.fifo = open(os.path.join(folder, f"{number}.in"), "w", encoding="ascii")
        self.told = 0

    def tell(self, line):
        self.fifo.write(line + "\n")
        self.fifo.flush()
        self.told += 1

    def lines(self):
        with open(self.out, encoding="ascii") as file:
            return file.read().split("\n")[:-1]

    def done(self):
        return len(self.lines()) == self.told

    def answer(self):
        wait_until(self.done, 30)
        return self.lines()[-1]

    def do(self, line):
        self.tell(line)
        return self.answer()

    def close(self):
        self.fifo.close()


class Messages(EachMpiTest):
    setting = "messages"
    variables = {}  # of the program's environment
    options = ()  # of its compiler

    def setUp(self):
        super().setUp()
        if self.setting:
            self.ask(f': job_set("{self.jobdir}", "mpi", "{self.setting}")')
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            rank.close()
        super().tearDown()

    def launch(self, count, *arguments):
        folder = self.box.path("work", "messenger")
        os.mkdir(folder)
        for rank in range(count):
            os.mkfifo(os.path.join(folder, f"{rank}.in"))
        program = mpitest.compile_program(self.mpi, "messenger.c", *self.options,
                                          name="_".join(["messenger", *self.options]))
        rows = self.launch_ranks(count, program, folder, *arguments, env=self.variables)
        for row in rows.values():
            self.ask(f": proc_attach([{row['token']}])")
        self.ranks = [Rank(self, folder, rank, rows[rank]) for rank in range(count)]
        return self.ranks

    def finish(self):
        for rank in self.ranks:
            rank.tell("end")
            rank.close()
        self.ranks = []
        self.assertEqual(self.process.wait(timeout=60 * scrytest.SCALE), 0)

    def queue(self, rank):
        return self.ask(f": proc_get_info([{rank.token}], 128)").result()

    def info(self, rank, flags=TOKEN | SENDER | SIZE | TAG):
        text = self.ask(f": message_queue_get_info([{self.queue(rank)}], {flags})").result()
        length, rest = text.split(",", 1)
        items = rest.strip("[]").split(",") if rest != "[]" else []
        width = bin(flags).count("1")
        rows = [items[i:i + width] for i in range(0, len(items), width)] if width else []
        self.assertEqual(len(rows), int(length) if width else 0)
        return rows

    def sizes(self, rank):
        return [int(row[0]) for row in self.info(rank, SIZE)]

    def messages(self, rank):
        """What mpi_get_messages says: (note, rows)."""
        text = self.ask(f": mpi_get_messages([{rank.token}])").result()
        text = re.sub(r"(^|[\[,])([a-z](?:_\d+)+)", r'\1"\2"', text)
        note, rows = value(text)
        return note, [dict(zip(COLUMNS, rows[i:i + len(COLUMNS)])) for i in range(0, len(rows), len(COLUMNS))]

    def tokens(self, rank):
        return [row[0] for row in self.info(rank, TOKEN)]

    def thread(self, rank):
        (token,) = [token for tid, token in self.threads(rank.token).items() if tid == rank.pid]
        return token


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

    @mpitest.both
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
            self.assertLess(time.monotonic() - start, 10 * scrytest.SCALE)

        monitor = self.box.monitor_pid()
        os.kill(monitor, signal.SIGSTOP)
        try:
            go_on()
        finally:
            os.kill(monitor, signal.SIGKILL)
        go_on()
        zero.do("recv 1 5")
        self.finish()


class Changes(Messages):
    def test_remove(self):
        """What is taken out is not received; what remains keeps its place."""
        zero, one = self.launch(2)
        one.do("send 0 5 10 65")
        one.do("send 0 5 20 66")
        one.do("send 0 6 30 67")
        first, second, third = self.tokens(zero)
        queue = self.queue(zero)
        reply = self.with_calls(zero, f": message_queue_remove({queue}, {second})")
        self.assertEqual(reply.status(1), UNSUPPORTED_SERVICE, reply)
        self.assertIn("in order", reply.result())
        self.change(zero, f": message_queue_remove({queue}, {first})")
        self.assertEqual(self.tokens(zero), [second, third])
        self.change(zero, f": message_queue_remove({queue}, {third})")
        self.refused(f": message_queue_remove({queue}, {third})", UNKNOWN_OBJECT, "is not in")
        self.assertEqual(self.content(first), [one.token, zero.token, "0", "5", "0", "A" * 10])
        self.assertEqual(self.content(third)[-1], "C" * 30)
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 20 66")
        self.assertEqual(zero.do("iprobe 1 -1"), "nothing")
        self.finish()

    def change(self, rank, request):
        """It is done at a MPI call of the process, which is given one."""
        reply = self.with_calls(rank, request)
        self.assertTrue(reply.ok(), f"{request}: {reply}")

    def with_calls(self, rank, request):
        number, replies = self.omis.send(request), []

        def answered():
            rank.do("iprobe 0 99")
            try:
                replies.append(self.omis.reply(number, timeout=0.1))
            except AssertionError:
                pass
            return replies
        wait_until(answered, 30)
        return replies[0]

    def content(self, message):
        text = self.ask(f": mpi_message_get_content([{message}])").result()
        *fields, content = text.split(",", 5)
        length, content = content.split("#", 1)
        self.assertEqual(len(content), int(length))
        return [*fields, content]

    def test_clear(self):
        zero, one, two = self.launch(3)
        for rank in (one, two):
            for tag in (5, 6):
                rank.do(f"send 0 {tag} 10 1")
        self.assertEqual(len(self.info(zero)), 4)
        self.change(zero, f": message_queue_clear([{self.queue(zero)}])")
        self.assertEqual(self.info(zero), [])
        self.assertEqual(zero.do("iprobe -1 -1"), "nothing")
        one.do("send 0 5 20 2")
        self.assertEqual(self.sizes(zero), [20])
        self.assertEqual(zero.do("recv -1 -1"), "got 1 5 20 2")
        self.finish()

    @mpitest.both
    def test_insert(self):
        """A message that nobody has sent: created, filled, inserted at the end of the queue, received."""
        zero, one = self.launch(2)
        queue = self.queue(zero)
        one.do("send 0 5 10 1")
        message = self.ask(": message_create()").result()
        self.refused(f": message_insert_into_queue({message}, {queue}, -1)", UNSUPPORTED_SERVICE, "set_content")
        self.ask(f": mpi_message_set_content({message}, {one.token}, {zero.token}, 0, 5, 25#{'I' * 25})")
        self.refused(f": message_insert_into_queue({message}, {queue}, 0)", UNSUPPORTED_SERVICE, "pos -1")
        self.ask(f": message_tag([{message}], 5)")
        number, _ = self.enable(f"thread_has_received_tagged_msg([{zero.token}], [5]): print([$msg, $size])")
        self.change(one, f": message_insert_into_queue({message}, {queue}, -1)")
        self.assertEqual(self.sizes(zero), [10, 25])
        self.assertEqual(self.tokens(zero)[1], message)
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        self.omis.quiet(number)
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 25 73")
        self.assertEqual(printed(self.triggered(number)), [message, "25"])
        self.finish()

    def test_copies(self):
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        (first,) = self.tokens(zero)
        copy = self.ask(": message_create()").result()
        self.refused(f": message_copy({first}, {copy})", UNSUPPORTED_SERVICE, "message_queue_remove")
        self.refused(f": message_destroy([{first}])", UNSUPPORTED_SERVICE, "message_queue_remove")
        self.change(zero, f": message_queue_remove({self.queue(zero)}, {first})")
        self.ask(f": message_copy({first}, {copy})")
        self.ask(f": message_destroy([{first}])")
        self.refused(f": mpi_message_get_content([{first}])", UNKNOWN_OBJECT, "not exist")
        self.change(one, f": message_insert_into_queue({copy}, {self.queue(zero)}, -1)")
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        self.assertEqual(self.info(zero), [])
        self.finish()

    def test_never_received(self):
        """What was inserted and never received is no reason for the program to hang."""
        zero, one = self.launch(2)
        message = self.ask(": message_create()").result()
        self.ask(f": mpi_message_set_content({message}, {one.token}, {zero.token}, 0, 5, 1#A)")
        self.change(one, f": message_insert_into_queue({message}, {self.queue(zero)}, -1)")
        self.assertEqual(self.sizes(zero), [1])
        self.finish()

    @mpitest.both
    def test_too_large_a_tag(self):
        """One that the sender's MPI does not take is no reason for the program to end."""
        zero, one = self.launch(2)
        message, largest = self.ask(": message_create()").result(), 2 ** 31 - 1
        self.ask(f": mpi_message_set_content({message}, {one.token}, {zero.token}, 0, {largest}, 1#A)")
        reply = self.with_calls(one, f": message_insert_into_queue({message}, {self.queue(zero)}, -1)")
        if not reply.ok():
            self.assertIn("MPI_TAG_UB", str(reply))
        self.assertEqual(self.sizes(zero), [1] if reply.ok() else [])
        self.finish()

    def test_large(self):
        """No more can be inserted than the sender gets rid of at once; and that is never received."""
        zero, one = self.launch(2)
        for sender, most in ((one, 4000), (zero, 960)):
            message = self.ask(": message_create()").result()
            for size in (most + 1, most):
                self.ask(f": mpi_message_set_content({message}, {sender.token}, {zero.token}, 0, 5, {size}#{'I' * size})")
                insert = f": message_insert_into_queue({message}, {self.queue(zero)}, -1)"
                if size > most:
                    self.refused(insert, UNSUPPORTED_SERVICE, "too large")
                else:
                    self.change(sender, insert)
        self.assertEqual(sorted(self.sizes(zero)), [960, 4000])
        self.finish()

    def test_killed_monitor(self):
        """What it wanted done is not done later, and its files go."""
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        (first,) = self.tokens(zero)
        rings = self.box.path("run", "rings")

        def files():
            return [name for name in os.listdir(rings) if name.startswith("message-")]

        self.omis.send(f": message_queue_remove({self.queue(zero)}, {first})")
        wait_until(files, 10)
        self.box.stop_monitor(signal.SIGKILL)
        self.omis = self.tool()
        self.ask(": node_get_info([], 1)")
        self.assertEqual(files(), [])
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        # and the next one can have something done
        one.do("send 0 5 10 1")
        self.ask(f': job_create("{self.jobdir}", {self.root()})')
        token = self.all_ranks(2)[0]["token"]
        self.ask(f": proc_attach([{token}])")
        queue = self.ask(f": proc_get_info([{token}], 128)").result()
        self.change(zero, f": message_queue_clear([{queue}])")
        self.assertEqual(zero.do("iprobe 1 5"), "nothing")
        self.finish()

    def test_in_an_action_list(self):
        """Every message with a tag is taken out before it can be received."""
        zero, one = self.launch(2)
        queue = self.queue(zero)
        self.enable(f"message_queue_has_been_extended([{queue}]): message_queue_remove($queue, $msg)")
        self.assertEqual(one.do("send 0 5 10 1"), "sent")
        self.assertEqual(zero.do("iprobe 1 5"), "nothing")
        self.assertEqual(self.info(zero), [])
        self.finish()

    def test_nothing_is_done_later(self):
        """7.2.3: where nothing can wait for the process, nothing is answered and done later."""
        zero, one = self.launch(2)
        queue = self.queue(zero)
        one.do("send 0 5 10 65")
        one.do("send 0 5 20 66")
        first, second = self.tokens(zero)
        message = self.ask(": message_create()").result()
        self.ask(f": mpi_message_set_content({message}, {one.token}, {zero.token}, 0, 5, 1#A)")
        actions = (f"message_queue_clear([{queue}])", f"message_queue_remove({queue}, {first})",
                   f"message_insert_into_queue({message}, {queue}, -1)")
        event = self.ask(": user_event_create()").result()
        for action in actions:
            self.refused(f": {{ {action} }}", UNSUPPORTED_SERVICE, "next MPI call")
            number, _ = self.enable(f"user_event_has_been_raised([{event}]): {action}")
            self.ask(f": user_event_raise({event}, [], 0)")
            reply = self.triggered(number)
            self.assertEqual(reply.status(1), UNSUPPORTED_SERVICE, reply)
        self.enable(f"message_queue_has_been_extended([{queue}]): message_queue_clear([$queue])")
        number, _ = self.enable(f"message_queue_has_been_extended([{queue}]): message_queue_remove($queue, $msg)")
        one.do("send 0 5 30 67")
        self.assertIn("in order", self.triggered(number).result())
        for text in ("10 65", "20 66", "30 67"):
            self.assertEqual(zero.do("recv 1 5"), f"got 1 5 {text}")
        self.finish()

    def test_who_makes_no_call(self):
        """Nothing is done, and the answer says so."""
        zero, one = self.launch(2)
        one.do("send 0 5 10 1")
        (first,) = self.tokens(zero)
        self.refused(f": message_queue_remove({self.queue(zero)}, {first})", UNSPECIFIED_ERROR, "next|another MPI call")
        self.assertEqual(self.tokens(zero), [first])
        self.assertEqual(zero.do("recv 1 5"), "got 1 5 10 1")
        self.finish()


class Conversions(Messages):
    """7.2.2: a node contains processes, those their queues, and those messages; there and back."""

    def setUp(self):
        super().setUp()
        self.zero, self.one = self.launch(2)
        self.queues = [self.queue(rank) for rank in self.ranks]
        (self.node,) = self.ask(": node_get_info([], 0)").objects()
        for tag in (5, 6, 7):
            self.one.do(f"send 0 {tag} 10 1")
        self.zero.do("send 1 8 20 1")
        self.inside = self.tokens(self.zero), self.tokens(self.one)

    def received(self):
        for tag in (5, 6, 7):
            self.zero.do(f"recv 1 {tag}")
        self.one.do("recv 0 8")

    def tagged(self, *tokens):
        """The messages that the list stands for: those that have the tag afterwards."""
        self.number = getattr(self, "number", 0) + 1
        self.ask(f": message_tag([{', '.join(tokens)}], {self.number})")
        return [row[0] for rank in self.ranks for row in self.info(rank, TOKEN | TAG) if row[1] == str(self.number)]

    @mpitest.both
    def test_down_and_up(self):
        zero, (first, second, third), (other,) = self.zero, *self.inside
        every = [first, second, third, other]
        self.assertEqual(self.tagged(self.queues[0]), [first, second, third])
        self.assertEqual(self.tagged(zero.token), [first, second, third])
        self.assertEqual(self.tagged(self.one.token, second, second), [second, other])
        self.assertEqual(self.tagged(self.node), every)
        self.assertEqual(self.tagged(), every)
        self.assertEqual(self.tagged(self.node, self.queues[0], zero.token, first), every)
        for token in (self.queues[0], first):
            self.assertEqual(self.ask(f": proc_get_info([{token}], 128)").objects(), [zero.token])
            self.assertEqual(self.ask(f": node_get_info([{token}], 0)").objects(), [self.node])
        self.assertEqual(self.ask(f": message_queue_get_info([{third}], 0)").objects(), [self.queues[0]])
        reply = self.ask(f": message_queue_get_info([{third}, {other}, {first}], 0)")
        self.assertEqual(reply.objects(), self.queues)
        self.assertCountEqual(self.ask(f": message_queue_get_info([{self.node}], 0)").objects(), self.queues)
        # what is not above or below
        self.refused(f": thread_get_info([{first}], 0)", TYPE_MISMATCH, "cannot be converted")
        self.refused(f": message_tag([{self.thread(zero)}], 1)", TYPE_MISMATCH, "cannot be converted")
        self.refused(f": message_copy({self.queues[0]}, {first})", TYPE_MISMATCH, "cannot be converted")
        self.refused(f": message_copy({first}, {self.queues[0]})", TYPE_MISMATCH, "dst: .*cannot be converted")
        # within one execution the conversions agree
        reply = self.ask(f": message_tag([{first}], 99) message_tag([{zero.token}], 98) message_tag([{self.queues[0]}], 97)")
        self.assertTrue(reply.ok(), reply)
        self.received()
        self.finish()

    def test_events(self):
        """An event on queues names nodes, processes, or messages; its actions convert what it reports."""
        zero, (first, *_), _ = self.zero, *self.inside
        numbers = [self.enable(f"message_queue_has_been_extended([{name}]): proc_get_info([$msg], 0) "
                               "message_queue_get_info([$msg], 0) print([$queue, $proc])")[0]
                   for name in (self.node, zero.token, first, self.queues[0])]
        silent, _ = self.enable(f"message_queue_has_been_extended([{self.one.token}]): print([1])")
        self.one.do("send 0 9 30 1")
        for number in numbers:
            reply = self.triggered(number)
            self.assertEqual(reply.objects(1), [zero.token])
            self.assertEqual(reply.objects(2), [self.queues[0]])
            self.assertEqual(printed(reply, 3), [self.queues[0], zero.token])
        self.omis.quiet(silent)
        # of a process by what is in it
        number, _ = self.enable(f"proc_has_terminated([{self.queues[0]}]): print([$proc])")
        self.refused(f"thread_has_received_tagged_msg([{first}], []): print([1])", TYPE_MISMATCH, "cannot be converted")
        zero.do("recv 1 9")
        self.received()
        self.finish()
        self.assertEqual(printed(self.triggered(number)), [zero.token])

    def test_gone(self):
        """A message that was received or is held is in no queue; of a process that has ended there is none."""
        zero, (first, second, third), (other,) = self.zero, *self.inside
        zero.do("recv 1 5")
        for request in (f"proc_get_info([{first}], 0)", f"message_queue_get_info([{first}], 0)"):
            self.refused(f": {request}", UNKNOWN_OBJECT, "it was received")
        held = self.ask(": message_create()").result()
        self.refused(f": proc_get_info([{held}], 0)", UNKNOWN_OBJECT, "is held")
        # [] is what is held, too; an object that fails does not keep the others from being done
        reply = self.ask(": message_tag([], 4)")
        self.assertEqual(self.ask(f": message_tag([{held}, {second}], 5)").status(1), OK)
        reply = self.omis.request(f": message_tag([{first}, {second}], 6)")
        self.assertEqual([row[1] for row in self.info(zero, TOKEN | TAG)], ["6", "4"], reply)
        self.ask(f": proc_detach([{self.one.token}])")
        self.assertEqual(self.ask(": message_queue_get_info([], 0)").objects(), [self.queues[0]])
        self.refused(f": proc_get_info([{other}], 0)", UNKNOWN_OBJECT, "not attached")
        self.ask(f": message_tag([{other}], 7)") # its sender is
        self.ask(f": proc_attach([{self.one.token}])")
        os.kill(zero.pid, signal.SIGKILL)
        self.process.wait(timeout=60 * scrytest.SCALE)
        for request in (f"message_queue_get_info([{self.queues[0]}], 0)", f"message_tag([{self.queues[0]}], 1)"):
            self.refused(f": {request}", UNKNOWN_OBJECT, "does not exist any more")
        self.refused(f": proc_get_info([{second}], 0)", UNKNOWN_OBJECT, "has ended|not exist")
        self.refused(f": message_tag([{second}], 1)", UNKNOWN_OBJECT, "has ended|not exist")
        self.assertEqual(self.ask(": message_destroy([])").status(1), OK)
        self.ranks = []

    def test_empty_lists(self):
        self.received()
        self.assertEqual(self.tagged(), [])
        self.assertEqual(self.tagged(self.node, self.zero.token, self.queues[1]), [])
        # nor is there anything to be sent after MPI_Finalize
        for rank in self.ranks:
            rank.tell("end")
        self.assertEqual([rank.answer() for rank in self.ranks], ["finalized"] * 2)
        held = self.ask(": message_create()").result()
        self.assertEqual(self.ask(f": message_tag([{self.zero.token}, {self.queues[1]}], 1)").objects(), [])
        self.assertEqual(self.ask(": message_destroy([])").objects(), [held])
        self.finish()

    def test_thousands(self):
        """Named several times they are still each one object, and others do not wait."""
        self.one.do("burst 0 9 3000")
        number = self.omis.send(f": message_destroy([{self.node}, {self.queues[0]}, {self.zero.token}])")
        start = time.monotonic()
        reply = self.omis.reply(number, timeout=30)
        self.assertLess(time.monotonic() - start, 1 * scrytest.SCALE)
        self.assertEqual(len(set(reply.objects())), 3004)
        self.assertEqual({entry["status"] for entry in reply.results(1)}, {UNSUPPORTED_SERVICE})
        self.one.tell("settle")
        self.assertEqual(self.zero.do("drain 1 9 3000"), "drained")
        self.assertEqual(self.one.answer(), "settled")
        self.received()
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


for base in (Spawning, Queues, Late, LargeCounts, Environment, Tags, Changes, Conversions):
    mpitest.for_each_mpi(base, globals())
del base, Messages
scrytest.main()
