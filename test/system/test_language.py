# SPDX-License-Identifier: Apache-2.0
"""What every request shares, whatever its services do: statuses and the structure of replies (specification 7.3),
tokens and their conversion (7.2.2), order and errors of action lists (7.2.3)."""

import scrytest
from servicetest import *


class Statuses(ServiceTest):
    def test_errors_before_execution(self):
        """They leave element 0 alone in the reply."""
        for request, status, pattern in (
                ("version()", SYNTAX_ERROR, "at byte"),
                (": version(", SYNTAX_ERROR, "at byte"),
                (": version() ; ", SYNTAX_ERROR, "at byte"),
                (": { version() ", SYNTAX_ERROR, "at byte"),
                (": print([)", SYNTAX_ERROR, "at byte"),
                (': print(["abc)', SYNTAX_ERROR, "at byte"),
                (":", SYNTAX_ERROR, "at byte"),
                (": no_such_service()", UNKNOWN_SERVICE, "no_such_service"),
                ("no_such_event() : version()", UNKNOWN_SERVICE, "no_such_event"),
                (": version() no_such_service()", UNKNOWN_SERVICE, "no_such_service"),
                (': proc_checkpoint([], "name")', UNSUPPORTED_SERVICE, "CRIU"),
                (': version() proc_restore("name")', UNSUPPORTED_SERVICE, "CRIU"),
                (": print([$proc])", UNKNOWN_ECP, r"\$proc"),
                ("proc_has_terminated([]) : print([$par1])", UNKNOWN_ECP, r"\$par1"),
                ("proc_has_terminated([]) : print([$nonsense])", UNKNOWN_ECP, r"\$nonsense"),
                ("proc_has_terminated([$proc]) : version()", UNKNOWN_ECP, r"\$proc"),
                (": print(1, 2)", TYPE_MISMATCH, "print"),
                (": print()", TYPE_MISMATCH, "print"),
                (': proc_get_info("x", 0)', TYPE_MISMATCH, "proc_list|proc_get_info"),
                (": proc_get_info([], 1.5)", TYPE_MISMATCH, "flags|proc_get_info"),
                (": proc_get_info([1], 0)", TYPE_MISMATCH, "proc_list|proc_get_info"),
                (": version(1)", TYPE_MISMATCH, "version"),
                (": csr_enable(c_1)", UNKNOWN_OBJECT, "c_1"),
                (": proc_has_terminated([])", PARAMETER_ERROR, "before ':'"),
                ("version() : version()", PARAMETER_ERROR, "before ':'"),
                (": print([99999999999999999999])", PARAMETER_ERROR, "."),
                (": print([-9223372036854775809])", PARAMETER_ERROR, "."),
                (": print([18446744073709551616])", PARAMETER_ERROR, "."),
        ):
            with self.subTest(request):
                reply = self.omis.request(request)
                if status == UNKNOWN_OBJECT:  # found when the action is executed
                    self.refused(request, status, pattern)
                    continue
                self.assertEqual(len(reply.services), 1, reply)
                self.assertEqual(reply.services[0][0]["objects"], [])
                self.assertEqual(reply.status(), status, reply)
                self.assertRegex(reply.result(0), pattern)

    def test_nothing_is_executed_after_an_early_error(self):
        self.omis.request(": user_event_create() no_such_service()")
        self.assertRegex(self.ask(": user_event_create()").result(), r"e_\d+_1$")

    def test_errors_of_actions(self):
        self.refused(': proc_attach3([n_1], 999999999, "")', UNKNOWN_OBJECT, "999999999")
        self.refused(": proc_get_info([], -1)", PARAMETER_ERROR, "flags")
        self.refused(": proc_get_info([], 0x2000000)", PARAMETER_ERROR, "flags")
        self.refused(": proc_get_info([p_1_77], 0)", UNKNOWN_OBJECT, "p_1_77")
        self.refused(": proc_get_info([n_1, c_1], 0)", UNKNOWN_OBJECT, "c_1")
        self.refused(': services("nothing")', PARAMETER_ERROR, "nothing")
        self.refused(': node_attach2("elsewhere.example")', OS_ERROR, "elsewhere.example")
        self.refused(': proc_create([n_1], "/no/such/program", [], [], [])', OS_ERROR, "/no/such/program")
        self.refused(f": proc_attach3([n_1], {self.box.monitor_pid()}, \"\")", NO_PERMISSION, "monitor")

    def test_execution_goes_on_after_an_error(self):
        reply = self.omis.request(": proc_get_info([p_1_77], 0) version() ; thread_stop([t_9_9]) print([1])")
        self.assertEqual([service[0]["status"] for service in reply.services],
                         [OK, UNKNOWN_OBJECT, OK, UNKNOWN_OBJECT, OK])

    def test_errors_of_event_definitions(self):
        """Element 0 says defined, without a token; the error is in element 1."""
        for request, status in (
                ("thread_reached_addr([t_1_99], 1) : version()", UNKNOWN_OBJECT),
                ('thread_has_started_sys_call([], "no_such_call") : version()', PARAMETER_ERROR),
                ("thread_received_signal([], [65]) : version()", PARAMETER_ERROR),
                ("thread_received_signal([], [0]) : version()", PARAMETER_ERROR),
                ('thread_has_started_lib_call([], "MPI_Sned") : version()', PARAMETER_ERROR),
                ('thread_has_ended_lib_call([], "MPI_Send", "cnt == 1") : version()', PARAMETER_ERROR),
                ('thread_has_started_lib_call([], "MPI_Send") : print([$par0])', UNKNOWN_ECP),
                ("thread_adds_node([]) : version()", UNSUPPORTED_SERVICE),
                ("user_event_has_been_raised(e_1_99) : version()", UNKNOWN_OBJECT)):
            with self.subTest(request):
                reply = self.omis.request(request)
                self.assertEqual(len(reply.services), 2, reply)
                self.assertEqual(reply.services[0], [{"objects": [], "status": DEFINED, "result": None}])
                self.assertEqual(reply.status(1), status, reply)
                self.assertTrue(reply.result(1))
        self.assertEqual(self.ask(": csr_enable([])").objects(), [])


class Replies(ServiceTest):
    def test_print(self):
        for text, count in (("[]", 0), ("[1,-2,0x10]", 3), ('["a\\n\\"b\\\\"]', 1), ("[1.5,1e300,-0.0]", 3),
                            ("[[1,[2,[]]],p_1,x_y_z]", 3), ("[18446744073709551615,-9223372036854775808]", 2),
                            ("[3#a,]]", 1)):
            reply = self.ask(f": print({text})")
            expected = text.replace("0x10", "16").replace("1e300", "1e+300")
            self.assertEqual(reply.result().replace("1e300", "1e+300"), f"{count},{expected}")

    def test_binary_with_every_byte(self):
        """Also with NUL and newline, which only a frame can carry: proc_write_memory_bin, and back."""
        target = self.target()
        process = self.attach(target)
        data = bytes(b for b in range(256) if b != 10)
        text = data.decode("utf-8", "surrogateescape")
        self.ask(f": proc_write_memory_bin([{process}], {target.buffer}, {len(data)}, {len(data)}, {len(data)}#{text})")
        self.assertEqual(target.do(f"dump 0 {len(data)}"), data.hex())
        self.assertEqual(target.do("dump 255 2"), bytes([255 * 7 & 255, 256 * 7 & 255]).hex())

    def test_one_element_for_each_action(self):
        reply = self.ask(": version() print([1]) ; print([2]) { print([3]) }".replace("{ print([3]) }", "print([3])"))
        self.assertEqual([service[0]["result"] for service in reply.services[2:]], ["1,[1]", "1,[2]", "1,[3]"])
        reply = self.ask(": { print([1]) ; print([2]) }")
        self.assertEqual(len(reply.services), 3)
        self.assertEqual(reply.services[0], [{"objects": [], "status": OK, "result": None}])

    def test_results_name_their_objects(self):
        """7.3.1, rule 1: what returns something lists objects of the class it works on."""
        targets = [self.target(), self.target("puppet", 2)]
        processes = [self.attach(target) for target in targets]
        reply = self.ask(": proc_get_info([], 0)")
        self.assertEqual(reply.objects(), processes)
        reply = self.ask(": thread_get_info([], 1)")
        self.assertEqual(len(reply.objects()), 4)
        self.assertTrue(all(token.startswith("t_") for token in reply.objects()))
        # equal results of adjacent objects are one entry
        self.assertEqual([(len(entry["objects"]), entry["result"]) for entry in reply.services[1]],
                         [(1, processes[0]), (3, processes[1])])
        reply = self.ask(": node_get_info([], 1)")
        self.assertEqual(reply.objects(), self.nodes().split(","))
        self.assertEqual(self.ask(f": proc_get_info([{processes[1]},{processes[0]}], 512)").objects(), processes[::-1])

    def test_partial_failure(self):
        """Each object has its own status."""
        target = self.target()
        process = self.attach(target)
        reply = self.omis.request(f": proc_get_info([p_1_99, {process}, e_1], 512)")
        by_object = {entry["objects"][0]: entry["status"] for entry in reply.services[1]}
        self.assertEqual(by_object, {"p_1_99": UNKNOWN_OBJECT, process: OK, "e_1": UNKNOWN_OBJECT})

    def test_nothing_to_work_on(self):
        for service in ("proc_get_info([],0)", "thread_stop([])", "csr_enable([])", "thread_read_int_regs([],0,1)",
                        "pa_counter_read([])"):
            reply = self.ask(f": {service}")
            self.assertEqual(reply.services[1], [{"objects": [], "status": OK, "result": None}], service)


class Tokens(ServiceTest):
    def setUp(self):
        super().setUp()
        self.targets = [self.target("puppet", 1), self.target("puppet", 2)]
        self.processes = [self.attach(target) for target in self.targets]
        self.thread_tokens = [list(self.threads(process).values()) for process in self.processes]

    def node_of(self, token):
        return f"n_{token.split('_')[1]}"

    def test_localisation(self):
        thread = self.thread_tokens[1][2]
        self.assertEqual(self.ask(f": proc_get_info([{thread}], 0)").objects(), [self.processes[1]])
        self.assertEqual(self.ask(f": proc_get_info({thread}, 0)").objects(), [self.processes[1]])
        nodes = [self.node_of(token) for token in (thread, self.processes[0])]
        self.assertEqual(self.ask(f": node_get_info([{thread}, {self.processes[0]}], 0)").objects(),
                         list(dict.fromkeys(nodes)))
        self.assertEqual(self.ask(f": node_get_info({self.processes[0]}, 0)").objects(), nodes[1:])

    def test_expansion(self):
        everything = [token for tokens in self.thread_tokens for token in tokens]
        self.assertEqual(self.ask(f": thread_get_info([{self.nodes()}], 0)").objects(), everything)
        self.assertEqual(self.ask(": thread_get_info([], 0)").objects(), everything)
        node = self.node_of(self.processes[0])
        self.assertEqual(self.ask(f": thread_get_info({node}, 0)").objects(),
                         [token for token in everything if self.node_of(token) == node])
        self.assertEqual(self.ask(f": thread_get_info([{self.processes[1]}], 0)").objects(), self.thread_tokens[1])
        self.assertEqual(self.ask(f": thread_get_info({self.processes[1]}, 0)").objects(), self.thread_tokens[1])
        self.assertEqual(self.ask(f": proc_get_info([{self.nodes()}], 0)").objects(), self.processes)
        self.assertEqual(self.ask(f": proc_get_info([{self.nodes()}, {self.nodes()}], 0)").objects(), self.processes)

    def test_mixed(self):
        reply = self.ask(f": thread_get_info([{self.thread_tokens[1][1]}, {self.processes[0]}], 0)")
        self.assertEqual(reply.objects(), [self.thread_tokens[1][1], *self.thread_tokens[0]])
        reply = self.ask(f": proc_get_info([{self.thread_tokens[1][0]}, {self.nodes()}], 0)")
        self.assertEqual(sorted(reply.objects()), sorted(self.processes))

    def test_wrong_classes(self):
        event = self.ask(": user_event_create()").result()
        self.refused(f": proc_get_info([{event}], 0)", TYPE_MISMATCH, event)
        self.refused(f": csr_enable([{self.processes[0]}])", TYPE_MISMATCH, self.processes[0])
        self.refused(f": user_event_raise(n_1, [], 0)", TYPE_MISMATCH, "n_1")
        self.refused(": proc_get_info([u_0], 0)", UNKNOWN_OBJECT, "undefined object u_0")

    def test_ended_and_never_issued(self):
        self.targets[0].quit()
        # the token of a process that is gone says so
        self.wait_for_attached(self.processes[1])
        self.refused(f": proc_get_info([{self.processes[0]}], 0)", UNKNOWN_OBJECT, "does not exist any more")
        self.refused(f": thread_stop([{self.thread_tokens[0][0]}])", UNKNOWN_OBJECT, "does not exist any more")
        self.refused(": proc_get_info([p_1_12345], 0)", UNKNOWN_OBJECT, "there is no object p_1_12345")
        self.refused(": proc_get_info([nonsense], 0)", UNKNOWN_OBJECT, "there is no object nonsense")
        again = self.target()
        self.assertNotIn(self.attach(again), self.processes, "tokens are never used again")

    def test_same_process_same_token(self):
        self.assertEqual(self.attach(self.targets[0]), self.processes[0])
        self.ask(f": proc_detach([{self.processes[0]}])")
        self.assertEqual(self.attach(self.targets[0]), self.processes[0])

    def test_consistent_within_a_request(self):
        """What [] means does not change within one execution, not even by the request itself."""
        target = self.target()
        reply = self.ask(f': proc_get_info([], 0) proc_attach3([n_1], {target.pid}, "") thread_get_info([], 1) '
                         'proc_get_info([], 0)')
        self.assertEqual(reply.objects(1), reply.objects(4))
        self.assertEqual(len(self.ask(": proc_get_info([], 0)").objects()), 3)

    def test_detached_within_a_request(self):
        """What the request itself detached fails; nothing is done to it."""
        reply = self.omis.request(f": proc_get_info([], 0) proc_detach([{self.processes[0]}]) thread_stop([]) "
                                  "proc_get_info([], 512)")
        self.assertEqual(reply.status(2), OK)
        for action in (3, 4):
            found = {token: entry["status"] for entry in reply.services[action] for token in entry["objects"]}
            self.assertEqual(found.pop(self.processes[0]), UNKNOWN_OBJECT, reply)
            self.assertEqual(set(found.values()), {OK})
        self.assertEqual(self.targets[0].do("hit 1"), "1")
        self.ask(": thread_continue([])")

    def test_detached_threads(self):
        self.ask(f": thread_detach([{self.thread_tokens[1][1]}])")
        self.assertEqual(self.ask(f": thread_get_info([{self.processes[1]}], 0)").objects(),
                         [self.thread_tokens[1][0], self.thread_tokens[1][2]])
        self.refused(f": thread_stop([{self.thread_tokens[1][1]}])", UNKNOWN_OBJECT, "thread_detach")
        # only by detaching and attaching the process does it come back
        self.ask(f": proc_detach([{self.processes[1]}])")
        self.attach(self.targets[1])
        self.assertEqual(len(self.ask(f": thread_get_info([{self.processes[1]}], 0)").objects()), 3)


scrytest.main()
