# SPDX-License-Identifier: Apache-2.0
"""The programs in targets/ as Python objects: what they printed at their start, and commands to them. And what tests of
the monitor's services share: a tool session that is attached, statuses by name, lists out of results."""

import ast
import os
import re
import select
import subprocess
import time

import scrytest
import tapcases

OK, DEFINED, ENABLED, DISABLED, DELETED, TRIGGERED = 0, 2, 4, 6, 8, 10
SYNTAX_ERROR, UNKNOWN_SERVICE, UNSUPPORTED_SERVICE, UNKNOWN_ECP, UNKNOWN_OBJECT = 16, 18, 20, 22, 24
TYPE_MISMATCH, PARAMETER_ERROR, OS_ERROR, NO_PERMISSION, NO_MEMORY, INTERNAL_ERROR = 26, 28, 30, 32, 34, 36
UNSPECIFIED_ERROR = 1000
# Flags of omis_request (tools/flagged.c)
WAIT, NO_OK, NO_EN_DIS, BUFFER, BUFFER_REPLIES, DEBUG, NO_CALLBACK = 1, 2, 4, 8, 16, 32, 0x100


class Target:
    """A running program of targets/: `names` holds its `name value` lines (a list where a name came more than once)."""

    def __init__(self, box, name, *arguments, **options):
        self.process = box.start([box.program(scrytest.built("test", "system", "targets", name)), *arguments],
                                 stdin=subprocess.PIPE, bufsize=0, text=False, **options)
        self.pending = b""
        self.names = self.introduction()

    @property
    def pid(self):
        return self.process.pid

    def line(self, timeout=tapcases.TIMEOUT):
        """The next line of its output; '' at its end."""
        end = time.monotonic() + timeout * scrytest.SCALE
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"pid {self.pid} prints nothing within {timeout:g} s; it is in state "
                                     f"{scrytest.process_state(self.pid)}")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                break
            self.pending += more
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode()

    def introduction(self):
        names = {}
        while True:
            line = self.line()
            if line == "ready":
                return names
            name, _, value = line.partition(" ")
            if not value:
                raise AssertionError(f"unexpected output: {line!r}")
            number = number_of(value)
            if name in names:
                names[name] = (names[name] if isinstance(names[name], list) else [names[name]]) + [number]
            else:
                names[name] = number

    def __getattr__(self, name):
        try:
            return self.__dict__["names"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def workers(self):
        found = self.names.get("worker", [])
        return found if isinstance(found, list) else [found]

    def send(self, command):
        self.process.stdin.write(command.encode() + b"\n")

    def do(self, command, timeout=20.0):
        """Sends a command and returns the line that answers it."""
        self.send(command)
        return self.line(timeout)

    def numbers(self, command, timeout=20.0):
        return [number_of(word) for word in self.do(command, timeout).split()]

    def ended(self, timeout=20.0):
        """Its exit status, when it has one; one that was traced has when the tracer is through with it."""
        return self.process.wait(timeout * scrytest.SCALE)

    def quit(self):
        """Ends it as its user would; it must not have been harmed."""
        self.process.stdin.close()
        status = self.ended()
        if status != 0:
            raise AssertionError(f"pid {self.pid} ended with {status}")


def number_of(text):
    for convert in (int, lambda t: int(t, 16) if t.startswith("0x") else int("no"), float):
        try:
            return convert(text)
        except ValueError:
            pass
    return text


def numbers(result):
    """The integers of a result: '2,[1,2]' gives [2, 1, 2]."""
    return [int(word) for word in re.findall(r"-?\d+", result)]


def value(text):
    """A result in the request language as Python has it: lists of strings and numbers."""
    return ast.literal_eval("[" + text + "]")


def table(text, width):
    items = value(text)[0]
    assert len(items) % width == 0, text
    return [items[i:i + width] for i in range(0, len(items), width)]


def tracer_of(pid):
    return int(scrytest.process_status(pid).get("TracerPid", -1))


class Flagged:
    """A running tools/flagged.c: a tool whose requests have flags."""

    def __init__(self, box, *arguments):
        self.process = box.start([scrytest.built("test", "system", "tools", "flagged"), *arguments],
                                 stdin=subprocess.PIPE)
        self.id = int(self.process.stdout.readline().split()[1])
        self.number = 0
        self.replies = []

    def send(self, flags, request):
        """Returns how many replies came before omis_request returned."""
        self.process.stdin.write(f"{flags:x} {request}\n")
        self.process.stdin.flush()
        self.number += 1
        return self.number, self.until(f"sent {self.number}")

    def until(self, line):
        found = []
        while True:
            text = self.process.stdout.readline()
            if not text:
                raise AssertionError("the tool has ended")
            if text.rstrip("\n") == line:
                self.replies += found
                return found
            number, how, *elements = text.rstrip("\n").split("\t")
            found.append((int(number), how, [[(objects, int(status), result) for objects, status, result in
                                              (entry.split("\037") for entry in element.split("\036")[:-1])]
                                             for element in elements]))

    def flush(self):
        """Everything that came until a request that is sent now is answered; the second time for the callbacks."""
        ours = {self.send(0x100, ": version()")[0] for _ in range(2)}
        replies, self.replies = [reply for reply in self.replies if reply[0] not in ours], []
        return replies

    def statuses(self, number):
        return [elements[0][0][1] for n, _, elements in self.flush() if n == number]

    def ask(self, request):
        """The result of an unconditional request."""
        number, replies = self.send(0x100, request)
        self.replies = [reply for reply in self.replies if reply[0] != number]
        return [element for n, _, elements in replies if n == number for element in elements]


class ServiceTest(scrytest.TestCase):
    """A sandbox with one tool, self.omis, that is attached to the node."""

    spread = True  # whether a thorough run has it over several hosts, too (spreadtest.py)

    def make_box(self):
        if not scrytest.SPREAD or not self.spread or self.user:
            return super().make_box()
        import spreadtest  # only then is there a lab
        return spreadtest.box(self, scrytest.SPREAD)

    def setUp(self):
        super().setUp()
        self.omis = self.tool()

    def tool(self):
        omis = self.box.omis()
        self.assertTrue(omis.request(': node_attach2("localhost")').ok())
        return omis

    def nodes(self):
        """The tokens of all nodes that the tool has, with commas between."""
        return ",".join(["n_1", *getattr(self.omis, "tokens", {}).values()])

    def target(self, name="puppet", *arguments, **options):
        return Target(self.box, name, *arguments, **options)

    def ask(self, request, omis=None, timeout=10.0):
        """Sends an unconditional request that must be answered without any error."""
        reply = (omis or self.omis).request(request, timeout)
        self.assertTrue(reply.ok(), f"{request}: {reply}")
        return reply

    def refused(self, request, status, pattern, action=1, omis=None):
        """Sends a request that must fail with this status and a text that matches."""
        reply = (omis or self.omis).request(request)
        entries = reply.services[action] if action < len(reply.services) else []
        found = [entry for entry in entries if entry["status"] == status]
        self.assertTrue(found, f"{request}: {reply}")
        self.assertRegex(found[0]["result"], pattern)
        return reply

    def attach(self, target, omis=None):
        """The token of a process, attached."""
        pid = target if isinstance(target, int) else target.pid
        return self.ask(f': proc_attach3([n_1], {pid}, "")', omis).result()

    def wait_for_attached(self, *processes):
        """Waits until exactly these are attached: one reported as terminated may need a moment to be gone."""
        scrytest.wait_until(lambda: self.ask(": proc_get_info([], 0)").objects() == list(processes))

    def threads(self, process, omis=None):
        """Thread tokens by thread id."""
        reply = self.ask(f": thread_get_info([{process}], 128)", omis)
        return {int(entry["result"]): entry["objects"][0] for entry in reply.services[1]}

    def define(self, request, omis=None):
        """Defines a conditional request; (its number, its token)."""
        omis = omis or self.omis
        reply = omis.request(request)
        self.assertEqual(reply.status(), DEFINED, f"{request}: {reply}")
        self.assertEqual(reply.status(1), OK, f"{request}: {reply}")
        return reply.number, reply.result(0)

    def enable(self, request, omis=None):
        """Defines and enables a conditional request; (its number, its token)."""
        omis = omis or self.omis
        number, csr = self.define(request, omis)
        self.ask(f": csr_enable([{csr}])", omis)
        enabled = omis.reply(number)
        self.assertEqual(enabled.status(), ENABLED, enabled)
        self.assertTrue(enabled.ok(), enabled)
        return number, csr

    def triggered(self, number, omis=None, timeout=10.0):
        reply = (omis or self.omis).reply(number, timeout=timeout)
        self.assertEqual(reply.status(), TRIGGERED, reply)
        return reply

    def read_number(self, process, address, omis=None):
        """A 64-bit number in a process's memory."""
        bytes_read = numbers(self.ask(f": proc_read_memory([{process}], {address}, 8, 8, 1)", omis).result())
        return int.from_bytes(bytes(bytes_read), "little")


class FollowedJob(ServiceTest):
    """A job that is followed, without scry run: its directory, self.jobdir, and its token, self.job."""

    spread = False  # who can do with a part of the job on each host says so

    def setUp(self):
        super().setUp()
        self.jobdir = self.box.path("jobs", "20200101-test-1-abcd")
        os.mkdir(self.jobdir, 0o700)
        request = f': job_create("{self.jobdir}", {self.root()})'
        self.job = self.ask(request).result()
        if hasattr(self.box, "followers"):
            self.box.follow(request)

    def process(self, target):
        """The token of a program of the job. On this host it is attached to us before its main starts."""
        if hasattr(self.box, "followers"):
            return self.attach(target)
        pids = self.ask(": proc_get_info([], 512)").services[1]
        return next(entry["objects"][0] for entry in pids if entry["result"] == str(target.pid))

    def root(self):
        """Whose descendants are the job's processes."""
        return os.getpid()

    def environment(self):
        """Of a program of the job, with an agent, as scry run makes it."""
        return {"LD_PRELOAD": self.box.path("lib", "libscry-agent.so"), "SCRY_JOB": self.jobdir,
                "SCRY_AGENT_SOCKET": self.box.path("run", "agent.sock")}
