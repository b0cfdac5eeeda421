# SPDX-License-Identifier: Apache-2.0
"""Messages of MPI programs that are removed, inserted and changed (specification 8.1.4), and the conversions of their
tokens, under both MPIs (targets/mpi/messenger.c)."""

import os
import signal
import time

import mpitest
import scrytest
from scrytest import wait_until
from messagetest import *


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

    @scrytest.thorough
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

    @scrytest.thorough
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

    @scrytest.thorough
    def test_never_received(self):
        """What was inserted and never received is no reason for the program to hang."""
        zero, one = self.launch(2)
        message = self.ask(": message_create()").result()
        self.ask(f": mpi_message_set_content({message}, {one.token}, {zero.token}, 0, 5, 1#A)")
        self.change(one, f": message_insert_into_queue({message}, {self.queue(zero)}, -1)")
        self.assertEqual(self.sizes(zero), [1])
        self.finish()

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

    @scrytest.thorough
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

    @scrytest.thorough
    def test_in_an_action_list(self):
        """Every message with a tag is taken out before it can be received."""
        zero, one = self.launch(2)
        queue = self.queue(zero)
        self.enable(f"message_queue_has_been_extended([{queue}]): message_queue_remove($queue, $msg)")
        self.assertEqual(one.do("send 0 5 10 1"), "sent")
        self.assertEqual(zero.do("iprobe 1 5"), "nothing")
        self.assertEqual(self.info(zero), [])
        self.finish()

    @scrytest.thorough
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

    @scrytest.thorough
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

    @scrytest.thorough
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

    @scrytest.thorough
    def test_thousands(self):
        """Named several times they are still each one object, and others do not wait."""
        self.one.do("burst 0 9 3000")
        number = self.omis.send(f": message_destroy([{self.node}, {self.queues[0]}, {self.zero.token}])")
        start = time.monotonic()
        reply = self.omis.reply(number, timeout=30)
        self.assertLess(time.monotonic() - start, scrytest.room(1))
        self.assertEqual(len(set(reply.objects())), 3004)
        self.assertEqual({entry["status"] for entry in reply.results(1)}, {UNSUPPORTED_SERVICE})
        self.one.tell("settle")
        self.assertEqual(self.zero.do("drain 1 9 3000"), "drained")
        self.assertEqual(self.one.answer(), "settled")
        self.received()
        self.finish()


for base in (Changes, Conversions):
    mpitest.for_each_mpi(base, globals())
del base, Messages
scrytest.main()
