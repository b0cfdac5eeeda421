# SPDX-License-Identifier: Apache-2.0
"""Every service, as its own table row describes it: wrong arguments are refused before anything happens, and what cannot
work here says why."""

import json

import scrytest

SYNTAX, UNKNOWN, UNSUPPORTED, MISMATCH, PARAMETER = 16, 18, 20, 26, 28
# of each type something of another one
WRONG = {"integer": '"text"', "floating": '"text"', "string": "12", "binary": "12", "token": "12"}
RIGHT = {"integer": "0", "floating": "0.5", "string": '""', "binary": "0#", "any": "0", "token": "u_0"}


def strings(result):
    return json.loads(f"[{result}]")


def optional(signature):
    """How many of a signature's parameters may be left out: those in brackets, at its end."""
    return signature.split("->")[0].count("[")


def parameters(signature):
    """[(type, is a list)] of a signature's parameters, those that may be left out (in brackets) included."""
    text = signature.split("->")[0].strip()
    found = []
    for item in filter(None, (part.strip(" []") for part in text.split(","))):
        kind = item.split()[0]
        found.append((kind.rstrip("*").split("<")[0], kind.endswith("*")))
    return found


class Arguments(scrytest.TestCase):
    def setUp(self):
        super().setUp()
        self.omis = self.box.omis()
        self.addCleanup(self.omis.close)
        names = strings(self.omis.request(': scry_service_get_info("")').result())
        self.services = {}
        for name in names:
            row = strings(self.omis.request(f': scry_service_get_info("{name}")').result())
            self.services[name] = {"kind": row[1], "signature": row[2], "missing": row[5]}
        self.assertGreater(len(self.services), 85)

    def ask(self, name, arguments):
        """(status, message) of defining or executing the service with these arguments."""
        call = f"{name}({', '.join(arguments)})"
        reply = self.omis.request(f"{call} : print([])" if self.services[name]["kind"] == "event" else f": {call}")
        return reply.status(), reply

    def test_number_of_arguments(self):
        for name, service in self.services.items():
            count = len(parameters(service["signature"]))
            fewest = count - optional(service["signature"])
            for wrong in {fewest - 1, count + 1, count + 20} - {-1}:
                status, reply = self.ask(name, ["0"] * wrong)
                expected = UNSUPPORTED if service["missing"] and service["kind"] != "event" else MISMATCH
                self.assertEqual(status, expected, f"{name} with {wrong} arguments: {reply}")

    def test_types_of_arguments(self):
        for name, service in self.services.items():
            types = parameters(service["signature"])
            for index, (kind, is_list) in enumerate(types):
                if kind not in WRONG or service["missing"]:
                    continue
                for bad in [WRONG[kind], f"[{WRONG[kind]}, {WRONG[kind]}]"] + ([] if is_list else ["[[]]"]):
                    arguments = [f"[{RIGHT[k]}]" if many else RIGHT[k] for k, many in types]
                    arguments[index] = bad
                    status, reply = self.ask(name, arguments)
                    self.assertEqual(status, MISMATCH, f"{name}({arguments}): {reply}")

    def test_unsupported_services_say_why(self):
        for name, service in self.services.items():
            if not service["missing"]:
                continue
            types = parameters(service["signature"])
            arguments = [("[]" if many else RIGHT[kind]) for kind, many in types]
            status, reply = self.ask(name, arguments)
            if service["kind"] == "event":  # the definition is answered, the event service fails (7.3.1)
                self.assertEqual((status, reply.result(0)), (2, None), f"{name}: {reply}")
                status = reply.status(1)
                why = reply.result(1)
            else:
                why = reply.result(0)
            self.assertEqual(status, UNSUPPORTED, f"{name}: {reply}")
            self.assertIn(service["missing"], why)

    def test_events_are_no_actions_and_actions_no_events(self):
        for name, service in self.services.items():
            call = f"{name}()"
            request = f": {call}" if service["kind"] == "event" else f"{call} : print([])"
            reply = self.omis.request(request)
            self.assertEqual(reply.status(), PARAMETER, f"{name}: {reply}")
        self.assertEqual(self.omis.request(": no_such_service()").status(), UNKNOWN)
        self.assertEqual(self.omis.request("print([])").status(), SYNTAX)


scrytest.main()
