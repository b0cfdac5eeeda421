# SPDX-License-Identifier: Apache-2.0
"""Conditional service requests (specification 5.2.2, 7.2.3, 7.3.1) and user-defined events (8.2.2)."""

import scrytest
from servicetest import *


class Requests(ServiceTest):
    def raised(self, actions, params="", resume=0):
        """Defines and enables a request for a new user event; (event, number, csr)."""
        event = self.ask(": user_event_create()").result()
        return (event, *self.enable(f"user_event_has_been_raised([{event}]) : {actions}"))

    def test_life(self):
        """Every change of state is reported once, to the request it belongs to."""
        event = self.ask(": user_event_create()").result()
        number, csr = self.define(f"user_event_has_been_raised({event}) : print([$par1, $csr])")
        self.ask(f": user_event_raise({event}, [1], 0)")  # still disabled
        self.omis.quiet(number, 0)
        for _ in range(2):
            self.ask(f": csr_enable([{csr}]) csr_enable({csr})")
            enabled = self.omis.reply(number)
            self.assertEqual(enabled.services, [[{"objects": [], "status": ENABLED, "result": None}],
                                                [{"objects": [], "status": OK, "result": None}]])
            self.ask(f": user_event_raise({event}, [2], 0)")
            reply = self.triggered(number)
            self.assertEqual(reply.result(), f"2,[2,{csr}]")
            self.assertEqual(reply.services[0][0]["objects"], ["u_0"])
            self.ask(f": csr_disable([{csr}]) csr_disable([])")
            self.assertEqual(self.omis.reply(number).status(), DISABLED)
            self.ask(f": user_event_raise({event}, [3], 0)")
            self.omis.quiet(number, 0)
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.omis.reply(number).status(), DELETED)
        self.refused(f": csr_enable([{csr}])", UNKNOWN_OBJECT, "does not exist any more")
        self.omis.quiet(number, 0)

    def test_deletes_itself(self):
        event, number, csr = self.raised("print([$par1]) csr_delete([$csr])")
        self.ask(f": user_event_raise({event}, [1], 0) user_event_raise({event}, [2], 0)")
        statuses = sorted(self.omis.reply(number).status() for _ in range(2))
        self.assertEqual(statuses, [DELETED, TRIGGERED])
        self.refused(f": csr_enable([{csr}])", UNKNOWN_OBJECT, "any more")
        self.omis.quiet(number, 0)

    def test_disables_itself(self):
        event, number, _ = self.raised("csr_disable([$csr])")
        self.ask(f": user_event_raise({event}, [], 0)")
        self.ask(f": user_event_raise({event}, [], 0)")
        self.assertEqual(sorted(self.omis.reply(number).status() for _ in range(2)), [DISABLED, TRIGGERED])
        self.omis.quiet(number, 0)

    def test_order_and_several_requests(self):
        """All requests of an event run; of one tool in the order in which they were enabled."""
        event = self.ask(": user_event_create()").result()
        second, second_csr = self.define(f"user_event_has_been_raised({event}) : print([2])")
        first, first_csr = self.define(f"user_event_has_been_raised({event}) : print([1])")
        self.ask(f": csr_enable([{first_csr}]) ; csr_enable([{second_csr}])")
        self.ask(f": user_event_raise({event}, [], 0)")
        replies = [self.omis.reply(match=lambda reply: reply.status() == TRIGGERED) for _ in range(2)]
        self.assertEqual([reply.number for reply in replies], [first, second])

    def test_happened_after(self):
        """5.6: the action list is executed when first one event happened, and then the other."""
        target = self.target()
        self.attach(target)
        number, csr = self.define(f"thread_reached_addr([], {target.hit}) : print([$time])")
        first, _ = self.enable(f'thread_has_ended_sys_call([], "pwrite64") : csr_enable([{csr}])')
        target.do("hit 2")
        self.omis.quiet(number, 0)
        target.do("call")
        self.triggered(first)
        self.assertEqual(self.omis.reply(number).status(), ENABLED)
        target.do("hit 2")
        for _ in range(2):
            self.triggered(number)

    def test_defined_before_attaching(self):
        target = self.target()
        number, csr = self.enable(f"thread_reached_addr([], {target.hit}) : print([$proc])")
        process = self.attach(target)
        enabled = self.omis.reply(number)
        self.assertEqual(enabled.services, [[{"objects": [], "status": ENABLED, "result": None}],
                                            [{"objects": [process], "status": OK, "result": None}]])
        target.do("hit 1")
        self.assertEqual(self.triggered(number).result(), f"1,[{process}]")
        self.ask(f": proc_detach([{process}])")
        disabled = self.omis.reply(number)
        self.assertEqual((disabled.status(), disabled.objects()), (DISABLED, [process]))
        target.do("hit 1")
        self.omis.quiet(number, 0)
        self.assertEqual(tracer_of(target.pid), 0)
        self.ask(f": proc_attach([{process}])")
        self.assertEqual(self.omis.reply(number).status(), ENABLED)
        target.do("hit 1")
        self.triggered(number)

    def test_enabled_with_some_objects(self):
        """The reply about enabling names the objects, and those where it cannot work."""
        good, bad = self.target(), self.target("steps")
        processes = [self.attach(good), self.attach(bad)]
        number, csr = self.define(f"thread_reached_addr([], {good.hit}) : print([$proc])")
        self.ask(f": csr_enable([{csr}])")
        reply = self.omis.reply(number)
        self.assertEqual(reply.status(), ENABLED)
        by_object = {token: entry for entry in reply.services[1] for token in entry["objects"]}
        self.assertEqual(by_object[processes[0]]["status"], OK)
        self.assertGreaterEqual(by_object[processes[1]]["status"], 16)
        self.assertRegex(by_object[processes[1]]["result"], "0x")
        good.do("hit 1")
        self.triggered(number)
        self.assertEqual(bad.do("5"), "6")
        self.assertEqual(tracer_of(bad.pid), 0, "what is not watched is not traced")

    def test_single_thread(self):
        target = self.target("puppet", 2)
        threads = self.threads(self.attach(target))
        token = threads[target.workers[1]]
        number, _ = self.enable(f"thread_reached_addr([{token}], {target.hit}) : print([$thread])")
        target.do("hit 2")
        target.do("all 3")
        for _ in range(3):
            reply = self.triggered(number)
            self.assertEqual(reply.result(), f"1,[{token}]")
            self.assertEqual(reply.services[0][0]["objects"], [token])
        self.omis.quiet(number, 0)

    def test_types_at_the_event(self):
        """What a parameter is, is known when the event happens; the other actions are executed."""
        event, number, _ = self.raised('proc_get_info([], $par1) print(["on", $par2])')
        self.ask(f': user_event_raise({event}, ["text", 2], 0)')
        reply = self.triggered(number)
        self.assertEqual(reply.status(1), TYPE_MISMATCH)
        self.assertEqual(reply.result(2), '2,["on",2]')
        self.ask(f": user_event_raise({event}, [], 0)")
        reply = self.triggered(number)
        self.assertEqual((reply.status(1), reply.status(2)), (UNKNOWN_ECP, UNKNOWN_ECP))
        self.ask(f": user_event_raise({event}, [0, 0], 0)")
        self.assertTrue(self.triggered(number).ok())

    def test_tool_without_attached_objects(self):
        """The sets of [] are looked up at each execution."""
        event, number, _ = self.raised("proc_get_info([], 0)")
        self.ask(f": user_event_raise({event}, [], 0)")
        self.assertEqual(self.triggered(number).objects(), [])
        process = self.attach(self.target())
        self.ask(f": user_event_raise({event}, [], 0)")
        self.assertEqual(self.triggered(number).objects(), [process])


class UserEvents(ServiceTest):
    def test_parameters(self):
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : print([$par1,$par2,$par3,$node,$proc,$thread])")
        self.ask(f': user_event_raise([{event}], ["s", [1,2.5,[]], p_7_7], 1)')
        self.assertEqual(self.triggered(number).result(), '6,["s",[1,2.5,[]],p_7_7,n_1,u_0,u_0]')

    def test_source(self):
        """With resume 0 the standard parameters are those of the event it was raised from, else undefined."""
        target = self.target()
        process = self.attach(target)
        thread = self.threads(process)[target.pid]
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : print([$proc,$thread,$par1])")
        held, held_csr = self.enable(f"thread_reached_addr([], {target.hit}) : user_event_raise({event}, [$time], 0)")
        target.do("hit 1")
        reply = self.triggered(number)
        self.assertRegex(reply.result(), rf"^3,\[{process},{thread},\d+\.\d+\]$")
        self.assertEqual(reply.services[0][0]["objects"], [thread])
        self.triggered(held)
        self.ask(f": csr_delete([{held_csr}])")
        self.enable(f"thread_reached_addr([], {target.hit}) : user_event_raise({event}, [7], 1)")
        target.do("hit 1")
        reply = self.triggered(number)
        self.assertEqual(reply.result(), "3,[u_0,u_0,7]")
        self.assertEqual(reply.services[0][0]["objects"], ["u_0"])

    def test_hold_spans_raised_lists(self):
        """With resume 0 the thread waits until the lists of the raised event are done, too, and those raised by it."""
        target = self.target()
        process = self.attach(target)
        events = [self.ask(": user_event_create()").result() for _ in range(3)]
        read = f"proc_read_memory([{process}], {target.hits}, 8, 8, 1)"
        requests = [self.enable(f"user_event_has_been_raised({event}) : {read} user_event_raise({after}, [], 0)")[0]
                    for event, after in zip(events, events[1:])]
        requests.append(self.enable(f"user_event_has_been_raised({events[2]}) : {read}")[0])
        self.enable(f"thread_reached_addr([$proc], {target.hit}) : version()".replace("$proc", process))
        self.enable(f"thread_reached_addr([], {target.hit}) : user_event_raise({events[0]}, [], 0)")
        target.do("hit 20")
        for hit in range(20):
            for number in requests:
                self.assertEqual(numbers(self.triggered(number).result())[0], hit)

    def test_locked_list(self):
        """{} against a request that locks, too, is no deadlock."""
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : {{ print([$par1]) }}")
        self.ask(f": {{ user_event_raise({event}, [1], 0) ; user_event_raise({event}, [2], 0) }}")
        self.assertEqual([self.triggered(number).result() for _ in range(2)], ["1,[1]", "1,[2]"])

    def test_chain_is_bounded(self):
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : user_event_raise({event}, [], 0)")
        self.ask(f": user_event_raise({event}, [], 0)")
        replies = [self.triggered(number)]
        while replies[-1].ok():
            replies.append(self.triggered(number))
        self.assertEqual(len(replies), 65)
        self.assertEqual(replies[-1].status(1), UNSPECIFIED_ERROR)
        self.assertRegex(replies[-1].result(), "64")
        self.omis.quiet(number, 0)

    def test_chain_that_doubles_is_bounded(self):
        """Two raises from each list would be 2^64 of them."""
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : user_event_raise({event}, [], 0) "
                                f"user_event_raise({event}, [], 0)")
        self.ask(f": user_event_raise({event}, [], 0)")
        self.ask(": version()")
        self.ask(f": csr_delete([])")

    def test_run_states_that_raise_each_other(self):
        """Stop on continue, and continue on stop: this ends, too, and the monitor works on."""
        target = self.target()
        process = self.attach(target)
        self.enable("thread_has_been_stopped([]) : thread_continue([$thread])")
        self.enable("thread_has_been_continued([]) : thread_stop([$thread])")
        self.ask(f": thread_stop([{process}])")
        self.ask(": csr_delete([]) thread_continue([])")
        self.assertEqual(target.do("hit 1"), "1")

    def test_destroy(self):
        event = self.ask(": user_event_create()").result()
        number, csr = self.enable(f"user_event_has_been_raised({event}) : version()")
        self.ask(f": user_event_destroy({event})")
        self.refused(f": user_event_raise({event}, [], 0)", UNKNOWN_OBJECT, "does not exist any more")
        self.refused(f": user_event_destroy({event})", UNKNOWN_OBJECT, "does not exist any more")
        # the request is the tool's to delete
        self.ask(f": csr_delete([{csr}])")
        self.assertEqual(self.omis.reply(number).status(), DELETED)

    def test_either_of_two_events(self):
        """8.2.2: one action list for E1 or E2."""
        target = self.target()
        self.attach(target)
        event = self.ask(": user_event_create()").result()
        number, _ = self.enable(f"user_event_has_been_raised({event}) : print([$par1])")
        for function in (target.hit, target.other):
            self.enable(f"thread_reached_addr([], {function}) : user_event_raise({event}, [{function}], 1)")
        target.do("hit 1")
        target.do("other 1")
        self.assertEqual([self.triggered(number).result() for _ in range(2)],
                         [f"1,[{target.hit}]", f"1,[{target.other}]"])


scrytest.main()
