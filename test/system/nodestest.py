# SPDX-License-Identifier: Apache-2.0
"""Several monitors on one machine, each with a runtime directory of its own, as if they were nodes."""

import functools

import scrytest
from servicetest import *


class Node:
    """A monitor and what it watches. `name` is what node_attach2 takes."""

    def __init__(self, *options, prepare=None):
        self.box = scrytest.Sandbox()
        self.targets = []
        if prepare:
            prepare(self.box)
        started = self.box.run([self.box.path("libexec", "scry-monitor"), "--daemon", *options])
        if started.returncode:
            raise AssertionError(started.stderr)
        self.pid = self.box.monitor_pid()
        self.name = f"unix:{self.box.path('run', 'monitor.sock')}"

    def target(self, name, *arguments):
        target = Target(self.box, name, *arguments)
        self.targets.append(target)
        return target


class NodesTest(scrytest.TestCase):
    """`self.nodes(3)` starts monitors; the first is the home, where `self.tool` is."""

    def nodes(self, count, *options, prepare=None):
        """`prepare` gets each sandbox and its number, from 0, before its monitor starts."""
        found = []
        for number in range(count):
            found.append(Node(*options, prepare=prepare and functools.partial(prepare, number=number)))
            self.addCleanup(found[-1].box.close)
        self.home = found[0]
        self.tool = self.home.box.omis()
        return found

    def ask(self, request, tool=None, timeout=20.0):
        reply = (tool or self.tool).request(request, timeout=timeout)
        self.assertTrue(reply.ok(), reply)
        return reply

    def reach(self, *nodes):
        """Attaches nodes; their tokens."""
        return [self.ask(f': node_attach2("{node.name}")').result() for node in nodes]

    def attach(self, target, node="", tool=None):
        """The token of a target at a node (a token)."""
        return self.ask(f': proc_attach3([{node}], {target.pid}, "")', tool).result()
