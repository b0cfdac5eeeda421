# SPDX-License-Identifier: Apache-2.0
"""The tests of one machine's services, unchanged, with their objects on several: SCRY_TEST_SPREAD=3 test_csr.py.

The tool and its home monitor are on host n1 of a lab (labtest.py), the programs that a test starts on n2 and n3 in turn. When
the tool attaches n1, the others are attached, too, and `proc_attach3([n_1], PID, "")` is sent with the token of the node that
has the process. Numbers of processes and files are the same on all hosts, so that tests can look at what they have started.
Requests of the harness are not counted: a test sees its own numbers.

Results stand in the order of nodes, so the first program is on n2, as the tests expect what they have attached first.

A job that is followed (servicetest.FollowedJob) has a part on each host; its programs, and what an MPI's launcher starts, get
the agent's socket of their host. Only classes that can do with that say so: `spread = True`.

A case that is about its one machine says so: `spread = False` in its class.
"""

import os
import re
import time

import labtest
import omistest
import scrytest

# What is observed; everything else is a tool or scry, and stays at home.
OBSERVED = [os.path.join(scrytest.BUILD, *parts) for parts in (("test", "system", "targets"), ("examples",), ("test", "compiled"))]


class Session(omistest.OmisSession):
    """A tool that has the nodes n2, n3, ... besides the one that it thinks it has."""

    def __init__(self, box, *options, **keywords):
        super().__init__(box, *options, **keywords)
        self.extra = {}  # number of a request that no test has sent: its reply
        self.tokens = {}

    def _counted(self, raw):
        return raw - sum(1 for number in self.extra if number < raw)

    def _read_one(self, end):
        while True:
            reply = super()._read_one(end)
            if reply is None or reply.number not in self.extra:
                break
            self.extra[reply.number] = reply
        if reply is not None:
            reply.number = self._counted(reply.number)
        return reply

    def send(self, request):
        request = re.sub(r"\[n_1\](, ?)(\d+)", self._place, request)
        if self.box.followers:  # the job has a part on each host
            request = re.sub(r"job_set(\([^)]*\))", self._set, request)
        number = super().send(request)
        if not self.tokens and re.search(r'node_attach2\("(localhost)?"\)', request):
            for host in self.box.others():
                self._attach(host.name)
        return self._counted(number)

    def node_of(self, pid):
        return self.tokens.get(self.box.host_of(pid), "n_1")

    def _place(self, found):
        return f"[{self.node_of(int(found[2]))}]{found[1]}{found[2]}"

    def _set(self, found):
        nodes = ",".join(self.tokens.values())
        return f"{found[0]} job_part_set([{nodes}], {found[1][1:]}"

    def _attach(self, name):
        number = self.sent + 1
        self.extra[number] = None
        super().send(f': node_attach2("{name}")')

        def answered():
            while not self.extra[number]:
                other = super(Session, self)._read_one(time.monotonic() + 0.01)
                if other is None:
                    return None
                if other.number in self.extra:
                    self.extra[other.number] = other
                else:
                    other.number = self._counted(other.number)
                    self.waiting.append(other)
            return self.extra[number]

        reply = scrytest.wait_until(answered, 20, f"node {name} is attached")
        if not reply.ok():
            raise AssertionError(f"the lab's node {name} is not attached: {reply}")
        self.tokens[name] = reply.result()


class Home(labtest.Host):
    """Where the tool is; what it observes is elsewhere."""

    Session = Session
    turn = 0

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.places = {}  # the hosts of what was started: of a zombie nothing says it
        self.followers = []  # tools that follow a part of a job, one on each of the others

    def others(self):
        return [host for host in self.lab if host is not self]

    def follow(self, request):
        """The others follow a part of the job, too, as `scry run --part-of` makes them. Its directory is the same."""
        for host in self.others():
            self.followers.append(omistest.OmisSession(host))
            reply = self.followers[-1].request(request)
            if not reply.ok():
                raise AssertionError(f"{host.name} does not follow the job: {reply}")

    def host_of(self, pid):
        """The name of the host of a process, None for one that is gone or of none of the hosts."""
        try:
            net = os.readlink(f"/proc/{pid}/ns/net")
        except OSError:
            return self.places.get(pid)
        return next((host.name for host in self.lab if net == os.readlink(f"/proc/{host.pid}/ns/net")), None)

    def start(self, command, env=None, **options):
        if not any(str(word).startswith(tuple(OBSERVED)) for word in command):  # the program may stand behind mpirun
            return super().start(command, env, **options)
        others = self.others()
        host = others[self.turn % len(others)]
        self.turn += 1
        options.setdefault("cwd", self.path("work"))
        env = {**self.env, **(env or {})}
        if "SCRY_AGENT_SOCKET" in env:
            env["SCRY_AGENT_SOCKET"] = host.path("run", "agent.sock")
        program = host.start(command, env, **options)
        self.places[program.pid] = host.name
        return program


def box(case, hosts):
    lab = labtest.Lab(*(f"n{i + 1}" for i in range(hosts)), own_pids=False, visible=True, first=Home)
    case.addCleanup(lab.close)
    return lab.host("n1")
